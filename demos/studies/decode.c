/* decode.c - a decoder writes, in float and in fewer bits: how fast, in how much memory, how well

       cc -O2 demos/studies/decode.c -o decode -lm -lpthread
       ./decode --load model.gguf --tokens 1 --count 100
       ./decode --load model.gguf --type float,int8,q4 --tokens 1 --count 100 >ids.txt
       ./decode --load model.gguf --type float,bf16,f16,int8,q4 --perplexity ids.txt
       ./decode --load stories260K.bin --tokenizer tok512.bin --prompt "Once upon a time"

   A decoder is opened in each type of --type, one after another, and does the same in each. It
   continues a prompt, which is token ids or, with llama2.c's tokenizer, a text. What it writes
   goes to stdout, a line for each type, speed and memory to stderr. Or it reads a text that is
   given (--perplexity), and a table says how likely each type finds it, and how often its likeliest
   next token is that of the first type.

   Sections: options · writing · perplexity · main. */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "decode"
#include "../../mamba_mix.h"
#include "judge.h"
#include "program.h"
#include "report.h"
#include "text.h"

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "decode - a decoder writes, or judges a text, in float and in fewer bits\n\n"
    "  --load FILE        .gguf, .safetensors with config.json, llama2.c's .bin\n"
    "  --type LIST        of float,bf16,f16,int8,q4, one after another (float)\n"
    "  --tokens LIST      the prompt as token ids, 1,403,407           (1)\n"
    "  --tokenizer FILE   llama2.c's, for --prompt, --perplexity and what is written\n"
    "  --prompt TEXT      the prompt as a text; needs --tokenizer\n"
    "  --count N          so many tokens more                          (64)\n"
    "  --temperature T    0: always the likeliest token                (0)\n"
    "  --top-p P          of the likeliest with together P; 0: all     (0)\n"
    "  --perplexity FILE  read token ids from it, with --tokenizer a text, and write nothing\n"
    "  --seed N           of what is drawn                             (1)\n"
    "  --threads N        (all cores)\n"
    "  --help\n\n"
    "Texts of --perplexity are read in pieces of 512 tokens, each from its own beginning, of\n"
    "which the first is not judged. Behind +-95 % stands half of a 95 % interval of the mean over\n"
    "the tokens.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

static const char *const type_name[] = {"float", "bf16", "f16", "int8", "q4"};
static const int type_dtype[] = {MMIX_DTYPE_REAL, MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8,
                                 MMIX_DTYPE_Q4};
enum { TYPES = sizeof type_dtype / sizeof *type_dtype, PIECE = 512 };

typedef struct settings {
    const char *load, *tokenizer, *prompt, *perplexity, *tokens;
    int type[TYPES];                             /* places in type_name */
    size_t types, count, threads;
    double temperature, top_p;
    uint64_t seed;
} settings;
typedef struct ids {
    int32_t *at;
    size_t count;
} ids;

static int read_types(settings *o, const char *list)     /* 0, or an exit status */
{
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int k = 0;
        size_t n = strcspn(at, ",");
        while (k < TYPES && (strlen(type_name[k]) != n || strncmp(at, type_name[k], n))) k++;
        if (k == TYPES || o->types == TYPES)
            return fail("--type %s: give up to %d of float,bf16,f16,int8,q4", list, TYPES);
        o->type[o->types++] = k;
    }
    return 0;
}

static int read_number(const char *option, const char *text, double most, double *number)
{
    char *end;
    *number = strtod(text, &end);
    if (end != text && !*end && *number >= 0 && *number <= most) return 0;
    return fail("%s %s: give a number from 0 to %g", option, text, most);
}

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    const char *types = "float", *count = "64", *temperature = "0", *top_p = "0", *seed = "1";
    const char *threads = NULL;
    memset(o, 0, sizeof *o);
    const struct {
        const char *name, **text;
    } known[] = {
        {"--load", &o->load}, {"--type", &types}, {"--tokens", &o->tokens},
        {"--tokenizer", &o->tokenizer}, {"--prompt", &o->prompt}, {"--count", &count},
        {"--temperature", &temperature}, {"--top-p", &top_p}, {"--perplexity", &o->perplexity},
        {"--seed", &seed}, {"--threads", &threads},
    };
    unsigned long long n;
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        size_t all = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        while (k < all && strcmp(argv[i], known[k].name)) k++;
        if (k == all) return fail("%s: no such option; --help lists them all", argv[i]);
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        *known[k].text = argv[i];
    }
    if (!o->load) return fail("there is no --load; --help says what it opens");
    if (o->perplexity && (o->prompt || o->tokens))
        return fail("--perplexity %s: it reads that text and no prompt; leave --prompt and --tokens "
                    "out", o->perplexity);
    if (!o->tokens) o->tokens = "1";
    if (o->prompt && !o->tokenizer) return fail("--prompt %s: give --tokenizer as well", o->prompt);
    if (read_types(o, types) || report_whole("--count", count, 1, 1000000, &n)) return 2;
    o->count = (size_t)n;
    if (report_whole("--seed", seed, 0, ULLONG_MAX, &n)) return 2;
    o->seed = n;
    if (threads && report_whole("--threads", threads, 1, 64, &n)) return 2;
    o->threads = threads ? (size_t)n : 0;
    if (read_number("--temperature", temperature, 100, &o->temperature)) return 2;
    return read_number("--top-p", top_p, 1, &o->top_p);
}

/* Whole numbers apart by commas or white space; the room is the caller's to free. 0, or -1. */
static int read_ids(mmix_ctx *m, const char *text, const char *from, ids *list)
{
    list->at = (int32_t *)malloc((strlen(text) + 1) * sizeof *list->at);
    list->count = 0;
    if (!list->at) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for token ids");
    for (const char *at = text + strspn(text, ", \t\r\n"); *at;) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT32_MAX)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected token ids, found \"%.20s\"",
                             from, at);
        list->at[list->count++] = (int32_t)id;
        at = end + strspn(end, ", \t\r\n");
    }
    if (list->count) return 0;
    return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected token ids, found none", from);
}

/* A text as token ids, which begin with the token that begins a text. 0, or -1. */
static int encode(mmix_ctx *m, const tokenizer *t, const char *text, ids *list)
{
    size_t room = strlen(text) + 2;
    list->at = (int32_t *)malloc(room * sizeof *list->at);
    if (!list->at) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for token ids");
    list->count = tokenizer_encode(t, text, 1, 0, list->at, room);
    return mmix_error(m) ? -1 : 0;
}

/* The file of --perplexity as token ids. 0, or -1. */
static int read_text(mmix_ctx *m, const settings *o, const tokenizer *t, ids *list)
{
    size_t size = 0;
    unsigned char *bytes = text_load(m, o->perplexity, &size);
    char *text = bytes ? (char *)malloc(size + 1) : NULL;
    int bad = !text;
    if (bytes && !text) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %s", o->perplexity);
    if (!bad) {
        memcpy(text, bytes, size);
        text[size] = 0;
        bad = t ? encode(m, t, text, list) : read_ids(m, text, o->perplexity, list);
    }
    if (!bad && list->count < 2)
        bad = mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected at least two tokens", o->perplexity);
    free(text);
    TEXT_FREE(bytes);
    return bad ? -1 : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void print_token(const tokenizer *t, int32_t token, int first)
{
    if (t) fputs(tokenizer_piece(t, token, NULL), stdout);
    else printf(first ? "%d" : " %d", (int)token);
}

/* Prints the prompt and what a decoder makes of it. 0, or -1. */
static int write_on(mmix_ctx *m, const settings *o, const mmix_decoder *d, const tokenizer *t,
                    const ids *prompt, double *seconds)
{
    size_t shape[2] = {1, prompt->count}, one[2] = {1, 1};
    mmix_sampling how;
    mmix_sequence piece;
    mmix_mix_state *state = mmix_decoder_state_create(d);
    double start = now();
    memset(&how, 0, sizeof how);
    memset(&piece, 0, sizeof piece);
    how.temperature = o->temperature;
    how.top_p = o->top_p;
    piece.tokens = mmix_from_i32(m, 2, shape, prompt->at);
    mmix_tensor *logits = mmix_decoder_step(m, d, &piece, state);
    seconds[0] = now() - start;
    /* of a text the first token is the one that begins it */
    for (size_t i = t != NULL; i < prompt->count && logits; i++)
        print_token(t, prompt->at[i], i == 0);
    start = now();
    for (size_t i = 0; i < o->count && logits && !interrupted; i++) {
        int32_t token = mmix_sample_token(m, mmix_data(logits), d->config.vocabulary, &how,
                                          prompt->count + i);
        mmix_reset(m);
        print_token(t, token, 0);
        fflush(stdout);
        if (i + 1 == o->count) break;
        piece.tokens = mmix_from_i32(m, 2, one, &token);
        logits = mmix_decoder_step(m, d, &piece, state);
    }
    seconds[1] = now() - start;
    if (!mmix_error(m)) putchar('\n');
    mmix_mix_state_destroy(state);
    mmix_reset(m);
    return mmix_error(m) ? -1 : 0;
}

/* ---- perplexity ------------------------------------------------------------------------------ */

/* What one type says of each token of a text but the first of each piece. */
typedef struct judgement {
    double *nats;                                /* -log of its probability */
    int32_t *likeliest;                          /* the token that has the largest */
} judgement;

/* How many tokens of a text are judged. */
static size_t judged_of(const ids *text)
{
    return text->count - (text->count + PIECE - 1) / PIECE;
}
static int judge_text(mmix_ctx *m, const mmix_decoder *d, const ids *text, judgement *j)
{
    size_t done = 0;
    j->nats = (double *)calloc(text->count, sizeof *j->nats);
    j->likeliest = (int32_t *)calloc(text->count, sizeof *j->likeliest);
    if (!j->nats || !j->likeliest) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a text");
    for (size_t i = 0; i < text->count && !interrupted; i += PIECE) {
        size_t n = text->count - i < PIECE ? text->count - i : PIECE;
        if (judge_piece(m, d, text->at + i, n, j->nats + done, j->likeliest + done)) return -1;
        done += n - 1;
    }
    return 0;
}

/* A line of the table: a type beside the first one. */
static void print_judgement(const char *type, const judgement *j, const judgement *first, size_t n,
                            double mebibytes)
{
    double nats = 0, off = 0, square = 0, same = 0;
    for (size_t i = 0; i < n; i++) {
        double d = j->nats[i] - first->nats[i];
        nats += j->nats[i] / (double)n;
        off += d / (double)n;
        square += d * d / (double)n;
        same += (double)(j->likeliest[i] == first->likeliest[i]) / (double)n;
    }
    double half = report_half * sqrt(fmax(square - off * off, 0) / (double)n);
    printf("%-8s %10.4f %9.5f %8.5f %10.4f %8.1f\n", type, exp(nats), off, half, same, mebibytes);
    fflush(stdout);
}

/* ---- main ------------------------------------------------------------------------------------ */

static int stopped(const mmix_ctx *m)                    /* an exit status */
{
    if (!interrupted) return fail("%s", mmix_error(m));
    fprintf(stderr, "\ndecode: stopped\n");
    return 130;
}

/* Does the work in each type. An exit status. */
static int work(mmix_ctx *m, const settings *o, const tokenizer *t, const ids *text, judgement *j)
{
    if (o->perplexity) {
        printf("%zu tokens, %zu of them judged\n", text->count, judged_of(text));
        printf("type     perplexity   nats -  +-95 %%  same next      MiB\n");
    }
    for (size_t k = 0; k < o->types; k++) {
        const char *type = type_name[o->type[k]];
        double seconds[2] = {0, 0};
        mmix_memory_peak_clear(m);
        size_t before = mmix_memory(m).bytes;
        mmix_decoder *d = mmix_decoder_load_as(m, o->load, type_dtype[o->type[k]]);
        double held = (double)(mmix_memory(m).bytes - before) / 1048576;
        int bad = !d;
        if (d && o->perplexity) bad = judge_text(m, d, text, &j[k]);
        else if (d) bad = write_on(m, o, d, t, text, seconds);
        mmix_decoder_destroy(d);
        if (bad || interrupted) return stopped(m);
        if (o->perplexity) print_judgement(type, &j[k], &j[0], judged_of(text), held);
        else
            fprintf(stderr, "%s: read %zu tokens, %.1f a second; wrote %zu, %.1f a second; %.1f "
                            "MiB held, %.1f at most\n", type, text->count,
                    (double)text->count / fmax(seconds[0], 1e-9), o->count,
                    (double)o->count / fmax(seconds[1], 1e-9), held,
                    (double)(mmix_memory(m).peak - before) / 1048576);
    }
    return 0;
}

int main(int argc, char **argv)
{
    settings o;
    ids text = {NULL, 0};
    judgement j[TYPES];
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    memset(j, 0, sizeof j);
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = o.seed;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    tokenizer *t = o.tokenizer ? tokenizer_load(m, o.tokenizer) : NULL;
    if (!mmix_error(m)) {
        if (o.perplexity) read_text(m, &o, t, &text);
        else if (o.prompt) encode(m, t, o.prompt, &text);
        else read_ids(m, o.tokens, "--tokens", &text);
    }
    status = mmix_error(m) ? fail("%s", mmix_error(m)) : work(m, &o, t, &text, j);
    for (int k = 0; k < TYPES; k++) {
        free(j[k].nats);
        free(j[k].likeliest);
    }
    free(text.at);
    tokenizer_free(t);
    mmix_destroy(m);
    return status;
}
