/* text.c - demos/studies/text.h against the definition of its encoding: texts, bytes that are no
   UTF-8, damaged files, lack of memory. Run from the repository's root; with ../shared/data there,
   the tokenizer of its model is tried, too. */
#include "test.h"

static size_t blocks_left = SIZE_MAX, blocks_held;       /* of text.h: none left is no memory */
static void *blocks_malloc(size_t size)
{
    if (!blocks_left) return NULL;
    blocks_left--;
    blocks_held++;
    return malloc(size);
}
static void blocks_free(void *p)
{
    blocks_held -= p != NULL;
    free(p);
}
#define TEXT_MALLOC(size) blocks_malloc(size)
#define TEXT_FREE(p) blocks_free(p)
#include "../demos/studies/text.h"

enum { PIECES = 420 };
typedef struct Vocabulary { size_t n; char piece[PIECES][12]; float score[PIECES]; } Vocabulary;
static int find(const Vocabulary *v, const char *piece, size_t length)
{
    for (size_t i = 0; i < v->n; i++)
        if (strlen(v->piece[i]) == length && !memcmp(v->piece[i], piece, length))
            return (int)i;
    return -1;
}
static void piece_add(Vocabulary *v, const char *piece, float score)
{
    if (v->n == PIECES || find(v, piece, strlen(piece)) >= 0)
        return;
    snprintf(v->piece[v->n], sizeof v->piece[0], "%s", piece);
    v->score[v->n++] = score;
}
/* Marks, bytes, some characters (of one to four bytes), and joined pairs of pieces with scores
   of which many are equal. */
static Vocabulary *vocabulary(mmix_ctx *m)
{
    static const char *const characters[] = {
        " ", "a", "b", "c", "d", "e", "\xC3\xA9", "\xE2\x98\x83", "\xF0\x9F\x98\x80"
    };
    Vocabulary *v = (Vocabulary *)calloc(1, sizeof *v);
    char text[32];
    piece_add(v, "<unk>", 0);
    piece_add(v, "<s>", 0);
    piece_add(v, "</s>", 0);
    for (int i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        piece_add(v, text, 0);
    }
    for (size_t i = 0; i < 9; i++)
        piece_add(v, characters[i], -1000);
    for (uint64_t i = 0; v->n < PIECES && i < 10000; i++) {
        const size_t a = 259 + mmix_random_u32(m, 1, 0, i) % (v->n - 259);
        const size_t b = 259 + mmix_random_u32(m, 1, 1, i) % (v->n - 259);
        snprintf(text, sizeof text, "%s%s", v->piece[a], v->piece[b]);
        if (strlen(text) < sizeof v->piece[0])
            piece_add(v, text, -(float)(mmix_random_u32(m, 1, 2, i) % 7));
    }
    return v;
}
typedef struct Bytes { size_t n; unsigned char at[PIECES * 20 + 4]; } Bytes;
static void put_u32(Bytes *b, uint32_t x)
{
    for (int i = 0; i < 4; i++, x >>= 8)
        b->at[b->n++] = (unsigned char)(x & 255);
}
static Bytes *file_of(const Vocabulary *v)
{
    Bytes *b = (Bytes *)calloc(1, sizeof *b);
    put_u32(b, 12);
    for (size_t i = 0; i < v->n; i++) {
        const size_t length = strlen(v->piece[i]);
        uint32_t score;
        memcpy(&score, &v->score[i], sizeof score);
        put_u32(b, score);
        put_u32(b, (uint32_t)length);
        memcpy(b->at + b->n, v->piece[i], length);
        b->n += length;
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
        if (c < 0x80) length = 1;
        else if (c < 0xE0) length = 2;
        else if (c < 0xF0) length = 3;
        else length = 4;
        const int id = find(v, text, length);
        if (id >= 0) out[n++] = id;
        for (size_t i = 0; id < 0 && i < length; i++)
            out[n++] = (unsigned char)text[i] + 3;
    }
    for (;;) {
        size_t at = 0;
        int best = -1;
        for (size_t i = 0; i + 1 < n; i++) {
            snprintf(joined, sizeof joined, "%s%s", v->piece[out[i]], v->piece[out[i + 1]]);
            const int id = find(v, joined, strlen(joined));
            if (id >= 0 && (best < 0 || v->score[id] > v->score[best])) {
                best = id;
                at = i;
            }
        }
        if (best < 0) break;
        out[at] = best;
        memmove(out + at + 1, out + at + 2, (--n - at - 1) * sizeof *out);
    }
    if (end) out[n++] = 2;
    return n;
}
static void test_texts(mmix_ctx *m, const Vocabulary *v, const Bytes *b)
{
    static const char *const letters[] = { " ",
                                           "a",
                                           "b",
                                           "c",
                                           "d",
                                           "e",
                                           "\xC3\xA9",
                                           "\xE2\x98\x83",
                                           "\xF0\x9F\x98\x80",
                                           "z",
                                           "\n",
                                           "\xC3\xB6",
                                           "\xE2\x82\xAC",
                                           "\xF0\x9F\x9A\x80",
                                           "\x7F" };
    tokenizer *t = tokenizer_from(m, "made up", b->at, b->n);
    int32_t fast[512], plain[512];
    char text[512];
    size_t length = 9;
    int wrong = 0, longer = 0, merged = 0;
    CHECK(t && tokenizer_count(t) == v->n && v->n == PIECES);
    for (uint64_t i = 0; i < 600; i++) {
        const size_t count = mmix_random_u32(m, 2, 0, i) % 60, alphabet = i % 3 ? 15 : 6;
        int32_t *few;
        *text = 0;
        for (size_t k = 0; k < count; k++)
            strcat(text, letters[mmix_random_u32(m, 3, i, k) % alphabet]);
        const size_t n = tokenizer_encode(t, text, i & 1, i % 5 == 0, fast, 512);
        const size_t expected = encode(v, text, i & 1, i % 5 == 0, plain);
        wrong += n != expected || memcmp(fast, plain, n * sizeof *fast);
        merged += n < count;
        /* room for half: all are counted */
        few = (int32_t *)malloc((n / 2 + 1) * sizeof *few);
        longer += tokenizer_encode(t, text, i & 1, i % 5 == 0, few, n / 2) != n
                  || memcmp(few, plain, n / 2 * sizeof *few);
        free(few);
        /* and the pieces give the text back, with a space before it */
        *text = 0;
        for (size_t k = i & 1; k < n - (i % 5 == 0); k++)
            strcat(text, tokenizer_piece(t, fast[k], NULL));
        wrong += encode(v, *text ? text + 1 : text, i & 1, i % 5 == 0, plain) != n;
    }
    CHECK(!wrong && !longer && merged > 100);
    CHECK(!strcmp(tokenizer_piece(t, 3 + 'A', &length), "A") && length == 1);
    CHECK(!*tokenizer_piece(t, 3, &length) && length == 1);     /* the byte 0 */
    CHECK(!*tokenizer_piece(t, -1, NULL) && !*tokenizer_piece(t, PIECES, &length) && length == 0);
    CHECK(tokenizer_encode(t, "", 0, 0, fast, 4) == 0
          && tokenizer_encode(t, "", 1, 1, NULL, 0) == 2);
    CHECK(!mmix_error(m));
    /* text that is no UTF-8: bytes, and nothing behind the end is read */
    for (int c = 0x80; c < 0x100; c++) {
        char *broken = (char *)malloc(3);
        broken[0] = 'a';
        broken[1] = (char)c;
        broken[2] = 0;
        const size_t n = tokenizer_encode(t, broken, 0, 0, fast, 512);
        CHECK(n >= 2 && fast[n - 1] == c + 3);
        free(broken);
    }
    CHECK(tokenizer_encode(t, NULL, 0, 0, fast, 4) == 0
          && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT);
    mmix_error_clear(m);
    CHECK(tokenizer_encode(t, "abc", 0, 0, NULL, 4) == 0 && strstr(mmix_error(m), "found NULL"));
    /* an error stays */
    CHECK(tokenizer_encode(t, "abc", 0, 0, fast, 512) == 0
          && !tokenizer_from(m, "made up", b->at, b->n));
    mmix_error_clear(m);
    tokenizer_free(t);
    CHECK(blocks_held == 0);
}

static void test_damaged(mmix_ctx *m, Bytes *b)
{
    int32_t fast[512];
    size_t length;
    tokenizer *t;
    int bad = 0;
    /* short: an error, or whole pieces */
    for (size_t n = 0; n < b->n; n += n < 40 || n > b->n - 40 ? 1 : 23) {
        unsigned char *part = (unsigned char *)malloc(n ? n : 1);
        memcpy(part, b->at, n);
        t = tokenizer_from(m, "short", part, n);
        bad += t ? tokenizer_count(t) >= PIECES : mmix_error_kind(m) != MMIX_ERROR_FILE;
        if (t) {
            tokenizer_encode(t, "abc", 1, 1, fast, 512);
            tokenizer_encode(t, "\xF0\x9F\x9A\x80", 1, 1, fast, 512);
        }
        tokenizer_free(t);
        mmix_error_clear(m);
        free(part);
    }
    for (size_t i = 0; i < 400 * 8; i++) {       /* flipped */
        const size_t at = i < 120 * 8 ? i / 8 : mmix_random_u32(m, 5, 0, i) % b->n;
        b->at[at] ^= (unsigned char)(1u << i % 8);
        t = tokenizer_from(m, "flipped", b->at, b->n);
        bad += !t && mmix_error_kind(m) != MMIX_ERROR_FILE;
        if (t) tokenizer_encode(t, "abc de \xC3\xA9 z", 1, 1, fast, 512);
        for (int32_t k = 0; t && k < PIECES; k++)
            tokenizer_piece(t, k, &length);
        tokenizer_free(t);
        mmix_error_clear(m);
        b->at[at] ^= (unsigned char)(1u << i % 8);
    }
    CHECK(!bad && blocks_held == 0);
    CHECK(!tokenizer_from(m, "nothing", NULL, 0)
          && strstr(mmix_error(m), "nothing: expected a llama2.c tokenizer"));
    mmix_error_clear(m);
}

static void test_files(mmix_ctx *m)
{
    int32_t tokens[16];
    CHECK(!tokenizer_load(m, "no/such/file") && mmix_error_kind(m) == MMIX_ERROR_FILE
          && strstr(mmix_error(m), "no/such/file"));
    mmix_error_clear(m);
    CHECK(!tokenizer_load(m, ".") && mmix_error_kind(m) == MMIX_ERROR_FILE);         /* a folder */
    mmix_error_clear(m);
    CHECK(!tokenizer_load(NULL, "any"));
    CHECK(tokenizer_count(NULL) == 0 && !*tokenizer_piece(NULL, 1, NULL)
          && tokenizer_encode(NULL, "a", 1, 1, tokens, 16) == 0);
    tokenizer_free(NULL);
    tokenizer *t = tokenizer_load(m, "../shared/data/stories260k/tok512.bin");
    if (t) {
        const size_t n = tokenizer_encode(t, "Once upon a time", 1, 0, tokens, 16);
        CHECK(tokenizer_count(t) == 512 && n == 5 && tokens[0] == 1 && tokens[1] == 403);
    } else skipped++;
    mmix_error_clear(m);
    tokenizer_free(t);
    CHECK(blocks_held == 0);
}

static void test_no_memory(mmix_ctx *m, const Bytes *b)
{
    int32_t tokens[16];
    size_t n = 0, failures = 0;
    for (int done = 0; !done && n < 20; n++) {
        blocks_left = n;
        tokenizer *t = tokenizer_from(m, "made up", b->at, b->n);
        done = t && tokenizer_encode(t, "abc", 1, 0, tokens, 16) > 0;
        CHECK(done ? !mmix_error(m) : mmix_error_kind(m) == MMIX_ERROR_MEMORY);
        failures += !done;
        tokenizer_free(t);
        CHECK(blocks_held == 0);
        mmix_error_clear(m);
    }
    blocks_left = SIZE_MAX;
    /* the tokenizer, its three arrays, the encoder's three */
    CHECK(failures == 7);
}

int main(void)
{
    mmix_ctx *m = context(1, 0);
    Vocabulary *v = vocabulary(m);
    Bytes *b = file_of(v);
    test_texts(m, v, b);
    test_damaged(m, b);
    test_files(m);
    test_no_memory(m, b);
    free(b);
    free(v);
    mmix_destroy(m);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
