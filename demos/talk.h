/* talk.h - what chat.c and ask.c share: options, a model's files, an answer word by word

   Define TALK_PROGRAM, the name that messages begin with, and include mamba_mix.h and tokenizer.h
   with their implementations before this. */
#ifndef TALK_H
#define TALK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A model that answers, and what it has read and written. */
typedef struct talk {
    mmix_ctx *m;
    const mmix_decoder *decoder;
    tokenizer *t;
    mmix_mix_state *state;
    size_t positions;                            /* the model's, SIZE_MAX: no limit is known */
    tokenizer_ids ends;                          /* tokens that end an answer */
    tokenizer_ids seen;                          /* what the state has read */
    mmix_sampling how;
    size_t most;                                 /* tokens of an answer */
    size_t read, written;                        /* tokens, and seconds, altogether */
    double read_seconds, write_seconds;
} talk;

static int fail(const char *what)
{
    fprintf(stderr, TALK_PROGRAM ": %s\n", what);
    return 1;
}
static int is_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- options --------------------------------------------------------------------------------- */

/* An option with a value: a number from 0 to `most`, or a text. */
typedef struct talk_option {
    const char *name;
    double *number, most;
    const char **text;
} talk_option;

static int read_number(const char *name, const char *text, double most, double *to)
{
    char *end, message[160];
    *to = strtod(text, &end);
    if (end != text && !*end && *to >= 0 && *to <= most) return 0;
    snprintf(message, sizeof message, "%s %.40s: give a number from 0 to %.0f", name, text, most);
    return fail(message);
}
/* Reads argument *i if it is an option, and its value: 1. 0: it is none. -1: after a message. */
static int read_option(const talk_option *known, size_t all, int argc, char **argv, int *i)
{
    size_t k = 0;
    char message[160];
    while (k < all && strcmp(argv[*i], known[k].name)) k++;
    if (k == all && !strncmp(argv[*i], "--", 2)) {
        snprintf(message, sizeof message, "%.60s: no such option; --help has all", argv[*i]);
        fail(message);
        return -1;
    }
    if (k == all) return 0;
    *i += 1;
    if (*i == argc) {
        snprintf(message, sizeof message, "%s without its value; --help has all", known[k].name);
        fail(message);
        return -1;
    }
    if (known[k].text) *known[k].text = argv[*i];
    else if (read_number(known[k].name, argv[*i], known[k].most, known[k].number)) return -1;
    return 1;
}
/* What --type names, or -1 after a message. */
static int find_type(const char *name)
{
    static const char *const names[] = { "float", "bf16", "f16", "int8", "q4" };
    static const int types[] = { MMIX_DTYPE_REAL, MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8,
                                 MMIX_DTYPE_Q4 };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, names[i])) return types[i];
    fail("--type: give float, bf16, f16, int8 or q4");
    return -1;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A text file of a folder, of at most 1 MB; NULL: there is none, or no memory. */
static char *read_beside(const char *folder, const char *name)
{
    enum { MOST = 1 << 20 };
    char path[1024], *text = (char *)malloc(MOST);
    snprintf(path, sizeof path, "%.900s/%.100s", folder, name);
    FILE *f = fopen(path, "rb");
    if (f && text) text[fread(text, 1, MOST - 1, f)] = 0;
    if (f) fclose(f);
    else {
        free(text);
        text = NULL;
    }
    return text;
}
/* Adds the tokens behind a key of a JSON text, a number or a list of them; -1 without memory. */
static int add_ends(talk *k, const char *text, const char *key)
{
    const char *at = text;
    while (at) {
        at = strstr(at, key);
        if (!at) return 0;
        at += strlen(key) + strspn(at + strlen(key), " :[\r\n\t");
        while (*at >= '0' && *at <= '9') {
            char *end;
            if (tokenizer_ids_add(&k->ends, (int32_t)strtol(at, &end, 10))) return -1;
            at = end + strspn(end, " ,\r\n\t");
        }
    }
    return 0;
}
/* What the configs in a folder say of positions and of tokens that end a text. */
static int read_configs(talk *k, const char *folder)
{
    static const char key[] = "\"max_position_embeddings\"", eos[] = "\"eos_token_id\"";
    char *config = read_beside(folder, "config.json");
    char *generation = read_beside(folder, "generation_config.json");
    const char *at = config ? strstr(config, key) : NULL;
    double positions = at ? strtod(at + strlen(key) + strspn(at + strlen(key), " :"), NULL) : 0;
    if (positions >= 1) k->positions = (size_t)positions;
    int bad = add_ends(k, config, eos) || add_ends(k, generation, eos);
    free(config);
    free(generation);
    return bad ? fail("out of memory") : 0;
}
/* What a GGUF says of positions and of tokens that end a text. */
static int read_metadata(talk *k, const char *weights)
{
    static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id" };
    char key[256];
    mmix_archive *a = mmix_archive_open(k->m, weights);
    const char *kind = mmix_archive_metadata(a, "general.architecture");
    snprintf(key, sizeof key, "%.200s.context_length", kind ? kind : "");
    const char *value = mmix_archive_metadata(a, key);
    double positions = value ? strtod(value, NULL) : 0;
    int bad = 0;
    if (positions >= 1) k->positions = (size_t)positions;
    for (int i = 0; i < 2; i++) {
        value = mmix_archive_metadata(a, ends[i]);
        if (value) bad |= tokenizer_ids_add(&k->ends, (int32_t)strtol(value, NULL, 10));
    }
    mmix_archive_close(a);
    return bad ? fail("out of memory") : 0;
}
/* Whether the tokenizer is the decoder's. 0, or 1 after a message. */
static int check_vocabulary(const talk *k)
{
    char message[160];
    size_t vocabulary = k->decoder->config.vocabulary;
    if (tokenizer_count(k->t) <= vocabulary) return 0;
    snprintf(message, sizeof message, "the tokenizer has %.0f tokens, the model %.0f: they do not "
             "belong together", (double)tokenizer_count(k->t), (double)vocabulary);
    return fail(message);
}

/* ---- an answer ------------------------------------------------------------------------------- */

/* The decoder reads a piece, whose n tokens stand behind those that it has seen; the logits of the
   next, or NULL. */
static const mmix_real *read_piece(talk *k, const mmix_sequence *piece, const int32_t *tokens,
                                   size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tokenizer_ids_add(&k->seen, tokens[i])) return NULL;
    mmix_tensor *logits = mmix_decoder_step(k->m, k->decoder, piece, k->state);
    return logits ? mmix_data(logits) : NULL;
}
/* The same of words alone. */
static const mmix_real *read_tokens(talk *k, const int32_t *tokens, size_t n)
{
    size_t shape[2] = { 1, n };
    mmix_sequence piece;
    memset(&piece, 0, sizeof piece);
    piece.tokens = mmix_from_i32(k->m, 2, shape, tokens);
    return read_piece(k, &piece, tokens, n);
}
/* Shows what came in to text since `from`. */
static void show(const tokenizer_text *text, size_t from)
{
    fwrite(text->at + from, 1, text->count - from, stdout);
    fflush(stdout);
}
static int is_end(const talk *k, int32_t token)
{
    for (size_t i = 0; i < k->ends.count; i++)
        if (k->ends.at[i] == token) return 1;
    return 0;
}
/* Writes an answer behind what was read. 0, or 1 after a message. */
static int write_answer(talk *k, const mmix_real *logits, tokenizer_text *answer)
{
    tokenizer_stream stream;
    double start = now();
    size_t shown = 0;
    memset(&stream, 0, sizeof stream);
    stream.has_token = 1;                        /* an answer begins in the middle of a text */
    for (size_t i = 0; logits && i < k->most; i++) {
        int32_t token = mmix_sample_token(k->m, logits, k->decoder->config.vocabulary, &k->how,
                                          k->seen.count);
        mmix_reset(k->m);
        k->written++;
        if (is_end(k, token)) break;
        if (tokenizer_stream_add(k->t, &stream, token, TOKENIZER_SAID, answer))
            return fail("out of memory");
        if (answer->count > shown) show(answer, shown);
        shown = answer->count;
        if (k->seen.count == k->positions) break;
        logits = read_tokens(k, &token, 1);
    }
    k->write_seconds += now() - start;
    if (tokenizer_stream_end(&stream, answer)) return fail("out of memory");
    show(answer, shown);
    putchar('\n');
    fflush(stdout);                              /* before what stderr says */
    if (k->seen.count == k->positions)
        fprintf(stderr, TALK_PROGRAM ": the model has no more positions\n");
    mmix_reset(k->m);
    return mmix_error(k->m) ? fail(mmix_error(k->m)) : 0;
}
static void talk_free(talk *k)
{
    tokenizer_ids_free(&k->seen);
    tokenizer_ids_free(&k->ends);
    mmix_mix_state_destroy(k->state);
    tokenizer_free(k->t);
}

#endif
