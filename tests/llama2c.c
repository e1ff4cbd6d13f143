/* llama2c.c - checkpoints of llama2.c */
#include "decoders.h"

#define FOLDER "build/llama2c_test"
#define PATH FOLDER "/model.safetensors"

/* ---- llama2.c's files ---- */

typedef struct Bytes { unsigned char *at; size_t n, room; } Bytes;
static void put(Bytes *b, const void *data, size_t n)
{
    while (b->n + n > b->room)
        b->at = (unsigned char *)realloc(b->at, b->room = 2 * b->room + 4096);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}
static void put_i32(Bytes *b, int v)
{
    const int32_t x = v;
    put(b, &x, 4);
}
static void put_f32(Bytes *b, double v)
{
    const float x = (float)v;
    put(b, &x, 4);
}
static void put_tensor(Bytes *b, const mmix_tensor *t)
{
    for (size_t i = 0; i < mmix_count(t); i++)
        put_f32(b, (double)mmix_data(t)[i]);
}

enum { DEPTH2C = 2 };
static Bytes llama2c_file(const mmix_decoder *d, mmix_params *p)
{
    static const char *const each[9] = {
        "input_layernorm.weight", "q_proj.weight",    "k_proj.weight",
        "v_proj.weight",          "o_proj.weight",    "post_attention_layernorm.weight",
        "gate_proj.weight",       "down_proj.weight", "up_proj.weight"
    };
    const mmix_decoder_config *c = &d->config;
    const int words = (int)c->vocabulary, header[7] = { (int)c->dim,
                                                        (int)c->ffn,
                                                        (int)c->depth,
                                                        (int)c->heads,
                                                        (int)c->kv_heads,
                                                        c->tied ? words : -words,
                                                        16 };
    Bytes b;
    memset(&b, 0, sizeof b);
    for (int i = 0; i < 7; i++)
        put_i32(&b, header[i]);
    put_tensor(&b, mmix_params_find(p, "model.embed_tokens.weight"));
    for (int k = 0; k < 9; k++)
        for (size_t l = 0; l < c->depth; l++)
            put_tensor(&b, named(p, l, each[k]));
    put_tensor(&b, mmix_params_find(p, "model.norm.weight"));
    for (size_t i = 0; i < 16 * c->dim / c->heads; i++)
        put_f32(&b, 0);
    if (!c->tied) put_tensor(&b, mmix_params_find(p, "lm_head.weight"));
    return b;
}
/* What often stands where a checkpoint should be: the error says what it is. */
static void foreign(void)
{
    static const struct { const char *text, *says;
    } one[] = { { "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12\n",
                  "Git LFS pointer: fetch it with git lfs pull" },
                { "<!DOCTYPE html>\n<html><head>", "a web page (HTML): download the file" },
                { "24ka\1 and more", "llama2.c's version 1 or later: export it as version 0" },
                { "Not found, said the server, and sent this", "as a llama2.c model expected" } };
    mmix_ctx *m = context(1, 0);
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        FILE *f = fopen(FOLDER "/foreign.bin", "wb");
        CHECK(f);
        if (!f) break;
        fputs(one[i].text, f);
        fclose(f);
        CHECK_AT(!mmix_decoder_load(m, FOLDER "/foreign.bin")
                     && says(m, MMIX_ERROR_FILE, one[i].says),
                 one[i].text);
        mmix_error_clear(m);
    }
    remove(FOLDER "/foreign.bin");
    mmix_destroy(m);
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
        c.tied = tied;
        c.dim = 8;
        c.heads = 2;
        c.kv_heads = 1;
        c.head_dim = 0;
        c.media = 0;
        c.depth = DEPTH2C;
        c.bias = 0;
        c.rope.interleaved = 1;
        snprintf(about, sizeof about, "llama2.c, tied %d", tied);
        mmix_decoder *d = shaken(m, c), *back;
        Bytes b = llama2c_file(d, d->params);
        mmix_sequence s = sequence(m, 0, 9);
        s.n_spans = 0;
        back = mmix_decoder_load_llama2c(m, "tiny", b.at, b.n);
        FINE(m);
        mmix_tensor *y = mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL));
        CHECK_AT(gap(y, mmix_decoder_logits(m, back, mmix_decoder_forward(m, back, &s, NULL))) <= 0,
                 about);
        mmix_decoder_destroy(back);
        {                                        /* by its path */
            FILE *f = fopen(FOLDER "/tiny.bin", "wb");
            if (f) {
                fwrite(b.at, 1, b.n, f);
                fclose(f);
            }
            back = mmix_decoder_load(m, FOLDER "/tiny.bin");
            CHECK_AT(back && same_lists(back->params, d->params), about);
            mmix_decoder_destroy(back);
            /* half of it: an error that says what is missing */
            f = fopen(FOLDER "/tiny.bin", "wb");
            if (f) {
                fwrite(b.at, 1, b.n / 2, f);
                fclose(f);
            }
            CHECK_AT(!mmix_decoder_load(m, FOLDER "/tiny.bin")
                         && says(m, MMIX_ERROR_FILE, "as a llama2.c model expected"),
                     about);
            remove(FOLDER "/tiny.bin");
        }
        const size_t before = mmix_memory(m).bytes;
        int bad = 0, loaded = 0;
        for (size_t n = 0; n < b.n; n += n < 64 || n + 64 > b.n ? 1 : 37) {
            /* its own block: nothing behind it is there */
            unsigned char *part = (unsigned char *)malloc(n ? n : 1);
            memcpy(part, b.at, n);
            back = mmix_decoder_load_llama2c(m, "short", part, n);
            bad += back || mmix_error_kind(m) != MMIX_ERROR_FILE;
            mmix_decoder_destroy(back);
            mmix_error_clear(m);
            free(part);
        }
        put_f32(&b, 0);                          /* and one too long */
        bad += mmix_decoder_load_llama2c(m, "long", b.at, b.n)
               || mmix_error_kind(m) != MMIX_ERROR_FILE;
        mmix_error_clear(m);
        b.n -= 4;
        CHECK_AT(!bad, "truncated");
        for (size_t i = 0; i < 28 * 8; i++) {
            b.at[i / 8] ^= (unsigned char)(1u << i % 8);
            back = mmix_decoder_load_llama2c(m, "flipped", b.at, b.n);
            loaded += back != NULL;
            bad += !back && mmix_error_kind(m) != MMIX_ERROR_FILE
                   && mmix_error_kind(m) != MMIX_ERROR_MEMORY
                   && (sizeof(size_t) > 4
                       || mmix_error_kind(m) != MMIX_ERROR_ARGUMENT); /* sizes beyond 32 bits */
            mmix_decoder_destroy(back);
            mmix_error_clear(m);
            mmix_reset(m);
            b.at[i / 8] ^= (unsigned char)(1u << i % 8);
        }
        CHECK_AT(!bad && loaded < 60 && mmix_memory(m).bytes <= before + ARENA_BLOCK, about);
        CHECK(!mmix_decoder_load_llama2c(m, "none", NULL, 0) && mmix_error(m));
        mmix_error_clear(m);
        free(b.at);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "checkpoints", llama2c },
        { "other files", foreign }
    };
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    const int bad = sections(all, sizeof all / sizeof all[0], argc, argv);
    remove(PATH);
    remove(FOLDER);
    return bad;
}
