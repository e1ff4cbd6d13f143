/* llama2c.c - checkpoints and tokenizers of llama2.c. With ../shared/data there, the tokenizer of its model is among those
   that are tried */
#include "decoders.h"

#define FOLDER "build/llama2c_test"
#define PATH FOLDER "/model.safetensors"

/* ---- llama2.c's files ---- */

typedef struct Bytes { unsigned char *at; size_t n, room; } Bytes;
static void put(Bytes *b, const void *data, size_t n)
{
    while (b->n + n > b->room) b->at = (unsigned char *)realloc(b->at, b->room = 2 * b->room + 4096);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}
static void put_i32(Bytes *b, int v) { const int32_t x = v; put(b, &x, 4); }
static void put_f32(Bytes *b, double v) { const float x = (float)v; put(b, &x, 4); }
static void put_tensor(Bytes *b, const mmix_tensor *t) { for (size_t i = 0; i < mmix_count(t); i++) put_f32(b, (double)mmix_data(t)[i]); }

enum { DEPTH2C = 2 };
static Bytes llama2c_file(const mmix_decoder *d, mmix_params *p)
{
    static const char *const each[9] = {"input_layernorm.weight", "q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight",
                                        "post_attention_layernorm.weight", "gate_proj.weight", "down_proj.weight", "up_proj.weight"};
    const mmix_decoder_config *c = mmix_decoder_config_of(d);
    const int words = (int)c->vocabulary, header[7] = {(int)c->dim, (int)c->ffn, (int)c->depth, (int)c->heads, (int)c->kv_heads,
                                                       c->tied ? words : -words, 16};
    Bytes b;
    memset(&b, 0, sizeof b);
    for (int i = 0; i < 7; i++) put_i32(&b, header[i]);
    put_tensor(&b, mmix_params_find(p, "model.embed_tokens.weight"));
    for (int k = 0; k < 9; k++)
        for (size_t l = 0; l < c->depth; l++) put_tensor(&b, named(p, l, each[k]));
    put_tensor(&b, mmix_params_find(p, "model.norm.weight"));
    for (size_t i = 0; i < 16 * c->dim / c->heads; i++) put_f32(&b, 0);
    if (!c->tied) put_tensor(&b, mmix_params_find(p, "lm_head.weight"));
    return b;
}
static void llama2c(void)
{
    for (int tied = 0; tied < 2; tied++) {
        mmix_options limits;
        memset(&limits, 0, sizeof limits);
        limits.threads = 1;
        limits.allocator.byte_limit = (size_t)1 << 26;
        mmix_ctx *m = mmix_create(&limits);
        mmix_decoder_config c = small(MMIX_DECODER_ATTENTION);
        c.tied = tied, c.dim = 8, c.heads = 2, c.kv_heads = 1, c.head_dim = 0, c.media = 0, c.depth = DEPTH2C, c.bias = 0, c.rope.interleaved = 1;
        snprintf(about, sizeof about, "llama2.c, tied %d", tied);
        mmix_decoder *d = shaken(m, c), *back;
        Bytes b = llama2c_file(d, mmix_decoder_params(d));
        mmix_sequence s = sequence(m, 0, 9);
        s.n_spans = 0;
        back = mmix_decoder_from_llama2c(m, "tiny", b.at, b.n);
        FINE(m);
        mmix_tensor *y = mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL));
        CHECK_AT(gap(y, mmix_decoder_logits(m, back, mmix_decoder_forward(m, back, &s, NULL))) <= 0, about);
        mmix_decoder_destroy(back);
        {                                        /* by its path */
            FILE *f = fopen(FOLDER "/tiny.bin", "wb");
            if (f) fwrite(b.at, 1, b.n, f), fclose(f);
            back = mmix_decoder_open(m, FOLDER "/tiny.bin");
            CHECK_AT(back && same_lists(mmix_decoder_params(back), mmix_decoder_params(d)), about);
            mmix_decoder_destroy(back);
            f = fopen(FOLDER "/tiny.bin", "wb");             /* half of it: an error that says what is missing */
            if (f) fwrite(b.at, 1, b.n / 2, f), fclose(f);
            CHECK_AT(!mmix_decoder_open(m, FOLDER "/tiny.bin") && says(m, MMIX_ERROR_FILE, "as a llama2.c model expected"), about);
            remove(FOLDER "/tiny.bin");
        }
        const size_t before = mmix_memory(m).bytes;
        int bad = 0, loaded = 0;
        for (size_t n = 0; n < b.n; n += n < 64 || n + 64 > b.n ? 1 : 37) {
            unsigned char *part = (unsigned char *)malloc(n ? n : 1);        /* its own block: nothing behind it is there */
            memcpy(part, b.at, n);
            back = mmix_decoder_from_llama2c(m, "short", part, n);
            bad += back || mmix_error_kind(m) != MMIX_ERROR_FILE;
            mmix_decoder_destroy(back);
            mmix_error_clear(m);
            free(part);
        }
        put_f32(&b, 0);                          /* and one too long */
        bad += mmix_decoder_from_llama2c(m, "long", b.at, b.n) || mmix_error_kind(m) != MMIX_ERROR_FILE;
        mmix_error_clear(m);
        b.n -= 4;
        CHECK_AT(!bad, "truncated");
        for (size_t i = 0; i < 28 * 8; i++) {
            b.at[i / 8] ^= (unsigned char)(1u << i % 8);
            back = mmix_decoder_from_llama2c(m, "flipped", b.at, b.n);
            loaded += back != NULL;
            bad += !back && mmix_error_kind(m) != MMIX_ERROR_FILE && mmix_error_kind(m) != MMIX_ERROR_MEMORY;
            mmix_decoder_destroy(back);
            mmix_error_clear(m);
            mmix_reset(m);
            b.at[i / 8] ^= (unsigned char)(1u << i % 8);
        }
        CHECK_AT(!bad && loaded < 60 && mmix_memory(m).bytes <= before + ARENA_BLOCK, about);
        CHECK(!mmix_decoder_from_llama2c(m, "none", NULL, 0) && mmix_error(m));
        mmix_error_clear(m);
        free(b.at);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

/* ---- the tokenizer ---- */

enum { PIECES = 420 };
typedef struct Vocabulary { size_t n; char piece[PIECES][12]; float score[PIECES]; } Vocabulary;
static int find(const Vocabulary *v, const char *piece, size_t length)
{
    for (size_t i = 0; i < v->n; i++)
        if (strlen(v->piece[i]) == length && !memcmp(v->piece[i], piece, length)) return (int)i;
    return -1;
}
static void piece_add(Vocabulary *v, const char *piece, float score)
{
    if (v->n == PIECES || find(v, piece, strlen(piece)) >= 0) return;
    snprintf(v->piece[v->n], sizeof v->piece[0], "%s", piece);
    v->score[v->n++] = score;
}
/* Marks, bytes, some characters (of one to four bytes), and joined pairs of pieces with scores of which many are equal. */
static Vocabulary *vocabulary(mmix_ctx *m)
{
    static const char *const characters[] = {" ", "a", "b", "c", "d", "e", "\xC3\xA9", "\xE2\x98\x83", "\xF0\x9F\x98\x80"};
    Vocabulary *v = (Vocabulary *)calloc(1, sizeof *v);
    char text[32];
    piece_add(v, "<unk>", 0), piece_add(v, "<s>", 0), piece_add(v, "</s>", 0);
    for (int i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        piece_add(v, text, 0);
    }
    for (size_t i = 0; i < 9; i++) piece_add(v, characters[i], -1000);
    for (uint64_t i = 0; v->n < PIECES && i < 10000; i++) {
        const size_t a = 259 + mmix_random_u32(m, 1, 0, i) % (v->n - 259), b = 259 + mmix_random_u32(m, 1, 1, i) % (v->n - 259);
        snprintf(text, sizeof text, "%s%s", v->piece[a], v->piece[b]);
        if (strlen(text) < sizeof v->piece[0]) piece_add(v, text, -(float)(mmix_random_u32(m, 1, 2, i) % 7));
    }
    return v;
}
static Bytes tokenizer_file(const Vocabulary *v)
{
    Bytes b;
    memset(&b, 0, sizeof b);
    put_i32(&b, 12);
    for (size_t i = 0; i < v->n; i++) {
        put_f32(&b, (double)v->score[i]);
        put_i32(&b, (int)strlen(v->piece[i]));
        put(&b, v->piece[i], strlen(v->piece[i]));
    }
    return b;
}
/* The definition. */
static size_t encode(const Vocabulary *v, const char *text, int begin, int end, int32_t *out)
{
    size_t n = 0;
    char joined[32];
    if (begin) out[n++] = 1;
    if (*text) out[n++] = find(v, " ", 1);
    for (size_t length; *text; text += length) {
        const unsigned char c = (unsigned char)*text;
        length = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        const int id = find(v, text, length);
        if (id >= 0) out[n++] = id;
        for (size_t i = 0; id < 0 && i < length; i++) out[n++] = (unsigned char)text[i] + 3;
    }
    for (;;) {
        size_t at = 0;
        int best = -1;
        for (size_t i = 0; i + 1 < n; i++) {
            snprintf(joined, sizeof joined, "%s%s", v->piece[out[i]], v->piece[out[i + 1]]);
            const int id = find(v, joined, strlen(joined));
            if (id >= 0 && (best < 0 || v->score[id] > v->score[best])) best = id, at = i;
        }
        if (best < 0) break;
        out[at] = best;
        memmove(out + at + 1, out + at + 2, (--n - at - 1) * sizeof *out);
    }
    if (end) out[n++] = 2;
    return n;
}
static void tokenizer(void)
{
    static const char *const letters[] = {" ", "a", "b", "c", "d", "e", "\xC3\xA9", "\xE2\x98\x83", "\xF0\x9F\x98\x80", "z", "\n", "\xC3\xB6",
                                          "\xE2\x82\xAC", "\xF0\x9F\x9A\x80", "\x7F"};
    mmix_ctx *m = context(1, 0);
    Vocabulary *v = vocabulary(m);
    Bytes b = tokenizer_file(v);
    mmix_tokenizer *t = mmix_tokenizer_from(m, "made up", b.at, b.n);
    int32_t fast[512], plain[512];
    char text[512];
    size_t length = 9;
    int wrong = 0, longer = 0, merged = 0;
    CHECK(t && mmix_tokenizer_count(t) == v->n && v->n == PIECES);
    for (uint64_t i = 0; i < 600; i++) {
        const size_t count = mmix_random_u32(m, 2, 0, i) % 60, alphabet = i % 3 ? 15 : 6;
        int32_t *few;
        *text = 0;
        for (size_t k = 0; k < count; k++) strcat(text, letters[mmix_random_u32(m, 3, i, k) % alphabet]);
        const size_t n = mmix_tokenizer_encode(t, text, i & 1, i % 5 == 0, fast, 512), expected = encode(v, text, i & 1, i % 5 == 0, plain);
        wrong += n != expected || memcmp(fast, plain, n * sizeof *fast);
        merged += n < count;
        few = (int32_t *)malloc((n / 2 + 1) * sizeof *few);          /* room for half: all are counted */
        longer += mmix_tokenizer_encode(t, text, i & 1, i % 5 == 0, few, n / 2) != n || memcmp(few, plain, n / 2 * sizeof *few);
        free(few);
        *text = 0;                               /* and the pieces give the text back, with a space before it */
        for (size_t k = i & 1; k < n - (i % 5 == 0); k++) strcat(text, mmix_tokenizer_piece(t, fast[k], NULL));
        wrong += encode(v, *text ? text + 1 : text, i & 1, i % 5 == 0, plain) != n;
    }
    CHECK(!wrong && !longer && merged > 100);
    CHECK(!strcmp(mmix_tokenizer_piece(t, 3 + 'A', &length), "A") && length == 1);
    CHECK(!*mmix_tokenizer_piece(t, 3, &length) && length == 1);     /* the byte 0 */
    CHECK(!*mmix_tokenizer_piece(t, -1, NULL) && !*mmix_tokenizer_piece(t, PIECES, &length) && length == 0);
    CHECK(mmix_tokenizer_encode(t, "", 0, 0, fast, 4) == 0 && mmix_tokenizer_encode(t, "", 1, 1, NULL, 0) == 2);
    FINE(m);
    /* text that is no UTF-8: bytes, and nothing behind the end is read */
    for (int c = 0x80; c < 0x100; c++) {
        char *broken = (char *)malloc(3);
        broken[0] = 'a', broken[1] = (char)c, broken[2] = 0;
        const size_t n = mmix_tokenizer_encode(t, broken, 0, 0, fast, 512);
        CHECK(n >= 2 && fast[n - 1] == c + 3);
        free(broken);
    }
    mmix_error_clear(m);
    mmix_tokenizer_destroy(t);

    const size_t before = mmix_memory(m).bytes;
    int bad = 0;
    for (size_t n = 0; n < b.n; n += n < 40 || n > b.n - 40 ? 1 : 23) {      /* short: an error, or whole pieces */
        unsigned char *part = (unsigned char *)malloc(n ? n : 1);
        memcpy(part, b.at, n);
        t = mmix_tokenizer_from(m, "short", part, n);
        bad += t ? mmix_tokenizer_count(t) >= PIECES : mmix_error_kind(m) != MMIX_ERROR_FILE;
        if (t) mmix_tokenizer_encode(t, "abc", 1, 1, fast, 512), mmix_tokenizer_encode(t, "\xF0\x9F\x9A\x80", 1, 1, fast, 512);
        mmix_tokenizer_destroy(t);
        mmix_error_clear(m);
        free(part);
    }
    for (size_t i = 0; i < 400 * 8; i++) {       /* flipped */
        const size_t at = i < 120 * 8 ? i / 8 : mmix_random_u32(m, 5, 0, i) % b.n;
        b.at[at] ^= (unsigned char)(1u << i % 8);
        t = mmix_tokenizer_from(m, "flipped", b.at, b.n);
        bad += !t && mmix_error_kind(m) != MMIX_ERROR_FILE;
        if (t) mmix_tokenizer_encode(t, "abc de \xC3\xA9 z", 1, 1, fast, 512);
        for (int32_t k = 0; t && k < PIECES; k++) mmix_tokenizer_piece(t, k, &length);
        mmix_tokenizer_destroy(t);
        mmix_error_clear(m);
        b.at[at] ^= (unsigned char)(1u << i % 8);
    }
    CHECK(!bad && mmix_memory(m).bytes <= before + ARENA_BLOCK);
    free(b.at);
    free(v);
    t = mmix_tokenizer_load(m, "../shared/data/stories260k/tok512.bin");
    if (t) {
        length = mmix_tokenizer_encode(t, "Once upon a time", 1, 0, fast, 512);
        CHECK(mmix_tokenizer_count(t) == 512 && length == 5 && fast[0] == 1 && fast[1] == 403);
    } else skipped++;
    mmix_tokenizer_destroy(t);
    mmix_destroy(m);
}

/* The n-th allocation failing: an error of memory, nothing left. */
static void no_memory(void)
{
    mmix_ctx *m = context(1, 0);
    Vocabulary *v = vocabulary(m);
    Bytes words = tokenizer_file(v);
    int done = 0;
    mmix_destroy(m);
    for (size_t n = 1; !done && n < 100; n++) {
        counter c;
        mmix_options o;
        int32_t made[4];
        memset(&c, 0, sizeof c);
        o = counted(&c);
        c.limit = n;
        m = mmix_create(&o);
        if (!m) continue;
        mmix_tokenizer *t = mmix_tokenizer_from(m, "made up", words.at, words.n);
        done = t && mmix_tokenizer_encode(t, "abc", 1, 0, made, 4) > 0;
        CHECK(done || mmix_error_kind(m) == MMIX_ERROR_MEMORY);
        mmix_tokenizer_destroy(t);
        mmix_destroy(m);
        CHECK(!c.live && !c.wrong);
    }
    CHECK(done);
    free(words.at);
    free(v);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "checkpoints", llama2c }, { "tokenizer", tokenizer }, { "memory", no_memory }
    };
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    const int bad = sections(all, sizeof all / sizeof all[0], argc, argv);
    remove(PATH);
    remove(FOLDER);
    return bad;
}
