/* smol.c - attention out of a real language model: it learns to do without, from text that it wrote

       cc -O2 demos/studies/smol.c -o smol -lm -lpthread
       ./smol write --teacher SmolLM2-135M-Instruct.gguf --text text.safetensors --rows 512
       ./smol train --teacher SmolLM2-135M-Instruct.gguf --text text.safetensors --run three
       ./smol answer --teacher SmolLM2-135M-Instruct.gguf --student three.student.safetensors
       ./smol speed --teacher SmolLM2-135M-Instruct.gguf
       ./smol rank --teacher SmolLM2-135M-Instruct.gguf --text text.safetensors
       ./smol figure --runs one,three,kept --out docs/figures

   The teacher is any decoder with attention and ChatML's conversations, such as the model that
   demos/chat.c tells how to get. Its student has M-MATE in the place of attention (LinMU, arXiv
   2601.01322; docs/05b-distillation.md). No corpus is needed: `write` lets the teacher hold
   conversations, and `train` learns from the tokens that it drew (sequence-level distillation, Kim
   and Rush 2016). Some rows of the text nobody learns from; on these a student is judged beside its
   teacher.

   Sections: options · questions · text · writing · scores · runs · training · least squares · steps
   · answers · speed · rank · figure · main. */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "smol"
#include "../../mamba_mix.h"
#define TOKENIZER_IMPLEMENTATION
#include "../tokenizer.h"
#include "bytes.h"
#include "converse.h"
#include "judge.h"
#include "program.h"
#include "pace.h"
#include "report.h"
#include "arguments.h"
#include "solve.h"
#include "stages.h"

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "smol write|train|answer|speed|rank|figure - attention out of a language model\n\n"
    "  --teacher FILE    .gguf, or .safetensors with config.json and tokenizer.json beside it\n"
    "  --threads N       (all cores)\n"
    "  --seed N          of what is drawn                                     (1)\n"
    "  --bf16            products of training are of bf16, with AMX or AMD's AVX512-BF16\n"
    "  --json            results as JSON on stdout\n\n"
    "write: the teacher holds conversations. If the file is there it goes on with it.\n"
    "  --text FILE       the tokens, a .safetensors                           (text.safetensors)\n"
    "  --rows N          rows of it in all                                    (512)\n"
    "  --held N          so many of them, the first, nobody learns from       (16)\n"
    "  --context N       tokens of a row                                      (512)\n"
    "  --batch N         rows at a time                                       (32)\n"
    "  --plain           rows are no conversations: each begins with token --start\n"
    "  --start N         that token                                           (1)\n\n"
    "train: a student learns. If the run's file is there it goes on with it.\n"
    "  --text FILE       what `write` wrote                                   (text.safetensors)\n"
    "  --run NAME        NAME.safetensors is the run, NAME.student.safetensors what comes of it,\n"
    "                    NAME.txt its numbers                                 (run)\n"
    "  --tokens N        to learn from, in all stages together; 0: it is judged, and that is all\n"
    "                                                                         (200000)\n"
    "  --batch N         rows of an optimizer step                            (2)\n"
    "  --stages N        3: Flex-MA, then both branches, then LoRA besides; 1: all at once (3)\n"
    "  --keep N          every Nth layer keeps its attention; 0: none         (0)\n"
    "  --window N        tokens that Local-Swin sees                          (64)\n"
    "  --rate R          times the learning rates of mmix_distill_config_linmu (0.02)\n"
    "  --begin NAME      converted; calibrated by the library; silent: Flex-MA says nothing, the\n"
    "                    student is its windows; solved: o_proj by least squares (solved)\n"
    "  --solve N         rows of the text that least squares are taken over   (8)\n"
    "  --apart           in the first of three stages each layer reads what the teacher's reads\n"
    "  --type NAME       float, bf16, f16, int8 or q4: how teacher and student hold their matrices;\n"
    "                    beside narrow ones adapters learn, of rank 16        (float)\n"
    "  --judge N         held-out rows that scores are taken from             (all)\n"
    "  --minutes N       so long at most; then it is saved as after Ctrl-C    (no end)\n\n"
    "answer: what teacher and student say.\n"
    "  --student FILE    NAME.student.safetensors\n"
    "  --question TEXT   (some of those that nobody learned from)\n"
    "  --count N         tokens of an answer at most                          (80)\n"
    "  --temperature T   0: always the likeliest token                        (0)\n\n"
    "speed: seconds of reading, tokens a second of writing, bytes of what is remembered.\n"
    "  --lengths LIST    tokens that are read                     (1024,2048,4096,8192)\n"
    "  --type NAME       as of train                                          (bf16)\n"
    "  --keep, --window  as of train\n\n"
    "rank: what the width N of the state buys, a layer at a time.\n"
    "  --text FILE, --window N, --bf16\n"
    "  --layers LIST     (3,15,27)\n"
    "  --widths LIST     (16,32,64,128)\n"
    "  --decays LIST     of none, fixed and learned: linear attention, which forgets nothing;\n"
    "                    a decay for each head; steps that depend on the token (learned)\n"
    "  --steps N         of fitting a layer                                   (200)\n\n"
    "figure: the losses of runs against the tokens that they learned from.\n"
    "  --runs LIST       names of runs: NAME.txt is read\n"
    "  --names LIST      what they are called                                 (the names of runs)\n"
    "  --out DIR         smol.svg goes there                                  (.)\n\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

typedef struct settings {
    const char *teacher, *text, *run, *student, *question, *begin, *lengths, *type, *layers;
    const char *widths, *decays, *runs, *names, *out;
    unsigned long long rows, held, judge, context, batch, start, tokens, stages, keep, window;
    unsigned long long minutes, count, steps, threads, seed, solve;
    double rate, temperature;
    int plain, apart, bf16, json, begins;
} settings;

static const char *const type_name[] = {"float", "bf16", "f16", "int8", "q4"};
static const int type_dtype[] = {MMIX_DTYPE_REAL, MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8,
                                 MMIX_DTYPE_Q4};
enum { TYPES = sizeof type_dtype / sizeof *type_dtype };
/* The index of --type; TYPES after an error. */
static int type_of(const settings *o, const char *unless_given)
{
    const char *name = o->type ? o->type : unless_given;
    int type = 0;
    while (type < TYPES && strcmp(type_name[type], name)) type++;
    if (type == TYPES) fail("--type %s: give float, bf16, f16, int8 or q4", name);
    return type;
}

/* How a student begins: each adds something to the one before. */
enum { CONVERTED, CALIBRATED, SILENT, SOLVED, BEGINS };
static const char *const begin_name[BEGINS] = {"converted", "calibrated", "silent", "solved"};

static void default_settings(settings *o)
{
    memset(o, 0, sizeof *o);
    o->text = "text.safetensors";
    o->run = "run";
    o->begin = "solved";
    o->lengths = "1024,2048,4096,8192";
    o->layers = "3,15,27";
    o->widths = "16,32,64,128";
    o->decays = "learned";
    o->out = ".";
    o->rows = 512;
    o->held = 16;
    o->context = 512;
    o->start = 1;
    o->tokens = 200000;
    o->stages = 3;
    o->window = 64;
    o->count = 80;
    o->steps = 200;
    o->solve = 8;
    o->seed = 1;
    o->rate = 0.02;
}
/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    default_settings(o);
    const argument known[] = {
        {"--teacher", &o->teacher, NULL, 0, 0, NULL, NULL},
        {"--text", &o->text, NULL, 0, 0, NULL, NULL},
        {"--run", &o->run, NULL, 0, 0, NULL, NULL},
        {"--student", &o->student, NULL, 0, 0, NULL, NULL},
        {"--question", &o->question, NULL, 0, 0, NULL, NULL},
        {"--begin", &o->begin, NULL, 0, 0, NULL, NULL},
        {"--lengths", &o->lengths, NULL, 0, 0, NULL, NULL},
        {"--type", &o->type, NULL, 0, 0, NULL, NULL},
        {"--layers", &o->layers, NULL, 0, 0, NULL, NULL},
        {"--widths", &o->widths, NULL, 0, 0, NULL, NULL},
        {"--decays", &o->decays, NULL, 0, 0, NULL, NULL},
        {"--runs", &o->runs, NULL, 0, 0, NULL, NULL},
        {"--names", &o->names, NULL, 0, 0, NULL, NULL},
        {"--out", &o->out, NULL, 0, 0, NULL, NULL},
        {"--rows", NULL, &o->rows, 2, 1000000, NULL, NULL},
        {"--held", NULL, &o->held, 1, 1000000, NULL, NULL},
        {"--judge", NULL, &o->judge, 1, 1000000, NULL, NULL},
        {"--context", NULL, &o->context, 4, 65536, NULL, NULL},
        {"--batch", NULL, &o->batch, 1, 4096, NULL, NULL},
        {"--start", NULL, &o->start, 0, INT32_MAX, NULL, NULL},
        {"--tokens", NULL, &o->tokens, 0, 1000000000000, NULL, NULL},
        {"--stages", NULL, &o->stages, 1, 3, NULL, NULL},
        {"--keep", NULL, &o->keep, 0, 128, NULL, NULL},
        {"--window", NULL, &o->window, 1, 65536, NULL, NULL},
        {"--minutes", NULL, &o->minutes, 0, 1000000, NULL, NULL},
        {"--count", NULL, &o->count, 1, 100000, NULL, NULL},
        {"--solve", NULL, &o->solve, 1, 1000000, NULL, NULL},
        {"--steps", NULL, &o->steps, 1, 1000000, NULL, NULL},
        {"--threads", NULL, &o->threads, 1, 64, NULL, NULL},
        {"--seed", NULL, &o->seed, 0, ULLONG_MAX, NULL, NULL},
        {"--rate", NULL, NULL, 0, 1000, &o->rate, NULL},
        {"--temperature", NULL, NULL, 0, 100, &o->temperature, NULL},
        {"--plain", NULL, NULL, 0, 0, NULL, &o->plain},
        {"--apart", NULL, NULL, 0, 0, NULL, &o->apart},
        {"--bf16", NULL, NULL, 0, 0, NULL, &o->bf16},
        {"--json", NULL, NULL, 0, 0, NULL, &o->json},
    };
    int status = read_arguments(known, sizeof known / sizeof *known, help, argc, argv);
    if (status) return status;
    while (o->begins < BEGINS && strcmp(begin_name[o->begins], o->begin)) o->begins++;
    if (o->begins == BEGINS)
        return fail("--begin %s: give converted, calibrated, silent or solved", o->begin);
    return 0;
}
/* Copies part number i of a list apart by commas, at most room - 1 letters. 1, or 0: there is
   none. */
static int part_of(const char *list, size_t i, char *part, size_t room)
{
    for (; list && i; i--) {
        list = strchr(list, ',');
        if (list) list++;
    }
    if (!list) return 0;
    snprintf(part, room, "%.*s", (int)strcspn(list, ","), list);
    return 1;
}

/* ---- questions ------------------------------------------------------------------------------- */

/* What conversations begin with; the first HELD_QUESTIONS only in rows that nobody learns from. */
enum { QUESTIONS = 64, HELD_QUESTIONS = 8 };
static const char *const question[QUESTIONS] = {
    "Why is the sky blue?",
    "How do I boil an egg?",
    "Write a short story about a fox who finds a letter.",
    "What is the difference between weather and climate?",
    "Explain what a loop is in a computer program.",
    "Give me three tips for sleeping better.",
    "Who was Marie Curie?",
    "Write an email that asks a neighbour to turn down the music.",
    "What is photosynthesis?",
    "How does a bicycle stay upright?",
    "Tell me about the history of bread.",
    "What are prime numbers, and why do they matter?",
    "Write a poem about rain.",
    "How can I learn a new language faster?",
    "Explain gravity to a child.",
    "What is the capital of Australia, and how was it chosen?",
    "Describe a typical day of a baker.",
    "How do vaccines work?",
    "Name five animals that live in the desert.",
    "What does an engineer do?",
    "Write a Python function that reverses a string.",
    "How do I remove a coffee stain from a shirt?",
    "What caused the First World War?",
    "Explain the water cycle.",
    "Give me a recipe for tomato soup.",
    "What is inflation?",
    "Write a dialogue between a cat and a dog.",
    "How do plants find light?",
    "What is the largest ocean, and what lives in it?",
    "How should I prepare for a job interview?",
    "Summarize the story of Romeo and Juliet.",
    "Why do leaves change color in autumn?",
    "What is a black hole?",
    "Write a letter of thanks to a teacher.",
    "How does a refrigerator work?",
    "What is the difference between a frog and a toad?",
    "Give an example of a fair rule in a game.",
    "How do earthquakes happen?",
    "What makes a good friend?",
    "Explain how money was invented.",
    "Write a slogan for a small bookshop.",
    "What is electricity?",
    "How do birds know where to fly in winter?",
    "Describe the city of Paris to someone who has never seen it.",
    "What is a healthy breakfast?",
    "How do I write a good essay?",
    "What is the theory of evolution?",
    "Tell me a joke about computers.",
    "How are mountains made?",
    "What are the rules of chess?",
    "Rewrite this sentence so that it is polite: give me the book.",
    "What is democracy?",
    "How can a family save water at home?",
    "Explain what a fraction is.",
    "Who invented the telephone?",
    "Write instructions for planting a tree.",
    "What do bees do for people?",
    "How does the internet work?",
    "Make a list of things to pack for a trip to the sea.",
    "What is the meaning of the word 'resilience'?",
    "How does music change how we feel?",
    "What is the moon made of?",
    "Plan a birthday party for ten children.",
    "Why is it important to read books?",
};
/* The question of conversation number i. */
static const char *question_of(size_t i, int is_held)
{
    if (is_held) return question[i % HELD_QUESTIONS];
    return question[HELD_QUESTIONS + i % (QUESTIONS - HELD_QUESTIONS)];
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Rows of tokens, of which the first `held` are for judging. own is 1 where the teacher drew the
   token, 0 where it was given. */
typedef struct text {
    int32_t *token, *own;                        /* (rows, context) */
    size_t rows, room, context, held, seed;
    double seconds;                              /* that it took to write them */
} text;

static int text_make(mmix_ctx *m, text *t, size_t room)          /* 0, or -1 */
{
    t->room = room;
    t->token = (int32_t *)calloc(room * t->context, sizeof *t->token);
    t->own = (int32_t *)calloc(room * t->context, sizeof *t->own);
    if (t->token && t->own) return 0;
    return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu rows of %zu tokens", room,
                     t->context);
}
static void text_free(text *t)
{
    free(t->token);
    free(t->own);
}
static int text_save(mmix_ctx *m, const char *path, const text *t)       /* 0, or -1 */
{
    char number[3][32];
    const char *metadata[] = {"held", number[0], "seed", number[1], "seconds", number[2], NULL};
    mmix_entry e[2];
    memset(e, 0, sizeof e);
    e[0].name = "tokens";
    e[0].data = t->token;
    e[1].name = "own";
    e[1].data = t->own;
    for (int i = 0; i < 2; i++) {
        e[i].dtype = MMIX_FILE_I32;
        e[i].ndim = 2;
        e[i].shape[0] = t->rows;
        e[i].shape[1] = t->context;
    }
    snprintf(number[0], sizeof number[0], "%zu", t->held);
    snprintf(number[1], sizeof number[1], "%zu", t->seed);
    snprintf(number[2], sizeof number[2], "%.1f", t->seconds);
    return mmix_archive_save(m, path, e, 2, metadata);
}
static double text_number(const mmix_archive *a, const char *key)
{
    const char *value = mmix_archive_metadata(a, key);
    return value ? strtod(value, NULL) : 0;
}
/* Reads a text, with room for `room` rows or for its own. 0, or -1. */
static int text_load(mmix_ctx *m, const char *path, text *t, size_t room)
{
    mmix_archive *a = mmix_archive_open(m, path);
    const mmix_entry *token = mmix_archive_find(a, "tokens"), *own = mmix_archive_find(a, "own");
    int bad = !token || !own || token->ndim != 2 || own->ndim != 2
        || token->shape[0] != own->shape[0] || token->shape[1] != own->shape[1];
    memset(t, 0, sizeof *t);
    if (a && bad) mmix_fail(m, MMIX_ERROR_FILE, "%s: not what smol write writes", path);
    if (a && !bad) {
        t->rows = token->shape[0];
        t->context = token->shape[1];
        t->held = (size_t)text_number(a, "held");
        t->seed = (size_t)text_number(a, "seed");
        t->seconds = text_number(a, "seconds");
        bad = text_make(m, t, room > t->rows ? room : t->rows);
        size_t n = t->rows * t->context;
        if (!bad) mmix_archive_read(m, a, token, MMIX_FILE_I32, t->token, n);
        if (!bad) mmix_archive_read(m, a, own, MMIX_FILE_I32, t->own, n);
    }
    mmix_archive_close(a);
    return mmix_error(m) ? -1 : 0;
}
/* ---- writing --------------------------------------------------------------------------------- */

/* What stands between the parts of a conversation, as ids. */
typedef struct marks {
    tokenizer *t;                                /* NULL: rows are no conversations */
    tokenizer_ids system;                        /* what a conversation begins with */
    tokenizer_ids user, assistant;               /* the end of a part and the head of the next */
    int32_t end;                                 /* what a part ends with */
} marks;
/* Who writes a row: tokens that are given come before those that are drawn. */
typedef struct pen {
    tokenizer_ids given;
    size_t at;
    int user;                                    /* 1: the part of the user is being written */
} pen;

static void marks_free(marks *k)
{
    tokenizer_ids_free(&k->system);
    tokenizer_ids_free(&k->user);
    tokenizer_ids_free(&k->assistant);
    tokenizer_free(k->t);
}
/* 0, or -1 */
static int marks_make(mmix_ctx *m, const char *teacher, marks *k)
{
    static const char user[] = "<|im_start|>user\n", assistant[] = "<|im_start|>assistant\n";
    const tokenizer_message nothing = {"user", ""};
    char error[TOKENIZER_ERROR], words[64];
    tokenizer_text conversation = {NULL, 0, 0};
    memset(k, 0, sizeof *k);
    k->t = open_tokenizer(m, teacher);
    if (mmix_error(m)) return -1;
    k->end = tokenizer_chat_end(k->t);
    if (tokenizer_chat(k->t, &nothing, 1, NULL, &conversation, error))
        mmix_fail(m, MMIX_ERROR_FILE, "%s", error);
    char *at = conversation.at ? strstr(conversation.at, user) : NULL;
    if (at) {
        *at = 0;                                 /* the system's words alone */
        encode(m, k->t, conversation.at, &k->system);
    }
    snprintf(words, sizeof words, "\n%s", user);
    encode(m, k->t, words, &k->user);
    snprintf(words, sizeof words, "\n%s", assistant);
    encode(m, k->t, words, &k->assistant);
    tokenizer_text_free(&conversation);
    return mmix_error(m) ? -1 : 0;
}
static int give(mmix_ctx *m, pen *p, const tokenizer_ids *ids, size_t from)
{
    for (size_t i = from; i < ids->count; i++)
        if (tokenizer_ids_add(&p->given, ids->at[i]))
            return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for ids");
    return 0;
}
/* What row number `row` begins with: a question for every second one, else only the head of a
   question, which the teacher then asks itself. */
static void pen_begin(mmix_ctx *m, const settings *o, const marks *k, pen *p, size_t row,
                      int is_held)
{
    memset(p, 0, sizeof *p);
    if (!k->t) {
        tokenizer_ids_add(&p->given, (int32_t)o->start);
        return;
    }
    give(m, p, &k->system, 0);
    give(m, p, &k->user, 1);                     /* the system's words end with the line's end */
    p->user = 1;
    if (row % 2) return;
    encode(m, k->t, question_of(row / 2, is_held), &p->given);
    tokenizer_ids_add(&p->given, k->end);
    give(m, p, &k->assistant, 0);
    p->user = 0;
}
/* The next token of a row: one that is given, or one that is drawn, at place (row, column). */
static int32_t pen_next(mmix_ctx *m, const marks *k, pen *p, const mmix_real *logits, size_t K,
                        size_t row, size_t column, int32_t *own)
{
    mmix_sampling how;
    memset(&how, 0, sizeof how);
    how.temperature = 1;
    *own = p->at == p->given.count;
    if (!*own) return p->given.at[p->at++];
    int32_t token = mmix_sample_token(m, logits, K, &how, (uint64_t)row << 32 | column);
    if (!k->t || !tokenizer_is_special(k->t, token)) return token;
    give(m, p, p->user ? &k->assistant : &k->user, 0);   /* whatever ends it, the part is over */
    p->user = !p->user;
    return k->end;
}
/* Writes rows from t->rows on, `some` of them. 0, or -1. */
static int write_some(mmix_ctx *m, const settings *o, const mmix_decoder *d, const marks *k,
                      text *t, size_t some)
{
    size_t K = d->config.vocabulary, C = t->context, shape[2] = {some, 1};
    pen *p = (pen *)calloc(some, sizeof *p);
    int32_t *last = (int32_t *)calloc(some, sizeof *last);
    mmix_mix_state *state = mmix_decoder_state_create(d);
    mmix_tensor *logits = NULL;
    if (!p || !last) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu rows", some);
    for (size_t b = 0; b < some && !mmix_error(m); b++)
        pen_begin(m, o, k, &p[b], t->rows + b, t->rows + b < t->held);
    for (size_t i = 0; i < C && !mmix_error(m) && !interrupted; i++) {
        for (size_t b = 0; b < some && !mmix_error(m); b++) {
            size_t row = t->rows + b, at = row * C + i;
            const mmix_real *own = logits ? mmix_data(logits) + b * K : NULL;
            last[b] = pen_next(m, k, &p[b], own, K, row, i, &t->own[at]);
            t->token[at] = last[b];
        }
        mmix_reset(m);
        if (i + 1 == C || mmix_error(m)) break;
        mmix_sequence piece;
        memset(&piece, 0, sizeof piece);
        piece.tokens = mmix_from_i32(m, 2, shape, last);
        logits = mmix_decoder_step(m, d, &piece, state);
    }
    for (size_t b = 0; p && b < some; b++) tokenizer_ids_free(&p[b].given);
    mmix_mix_state_destroy(state);
    mmix_reset(m);
    free(p);
    free(last);
    if (!mmix_error(m) && !interrupted) t->rows += some;
    return mmix_error(m) ? -1 : 0;
}
static size_t own_of(const text *t)                      /* tokens that the teacher drew */
{
    size_t n = 0;
    for (size_t i = 0; i < t->rows * t->context; i++) n += t->own[i] != 0;
    return n;
}
static int text_ready(mmix_ctx *m, const settings *o, text *t)   /* 0, or -1 */
{
    if (there(o->text)) {
        if (text_load(m, o->text, t, o->rows)) return -1;
        if (t->context == o->context && t->held == o->held && t->seed == o->seed) return 0;
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: written with --context %zu --held %zu --seed "
                         "%zu; give them again, or another file", o->text, t->context, t->held,
                         t->seed);
    }
    memset(t, 0, sizeof *t);
    t->context = o->context;
    t->held = o->held;
    t->seed = o->seed;
    return text_make(m, t, o->rows);
}
/* An exit status. */
static int write_text(mmix_ctx *m, const settings *o)
{
    text t = {NULL, NULL, 0, 0, 0, 0, 0, 0};
    marks k;
    size_t batch = o->batch ? o->batch : 32;
    memset(&k, 0, sizeof k);
    if (o->held >= o->rows) return fail("--held %llu: more rows are needed than these", o->held);
    mmix_decoder *d = mmix_decoder_load_as(m, o->teacher, MMIX_DTYPE_BF16);
    if (d && !o->plain) marks_make(m, o->teacher, &k);
    if (d && !mmix_error(m)) text_ready(m, o, &t);
    size_t before = t.rows;
    double start = now();
    while (!mmix_error(m) && !interrupted && t.rows < o->rows) {
        size_t from = t.rows;
        double began = now();
        size_t some = o->rows - from < batch ? o->rows - from : batch;
        if (write_some(m, o, d, &k, &t, some) || t.rows == from) break;
        t.seconds += now() - began;
        text_save(m, o->text, &t);
        fprintf(stderr, "%zu of %llu rows, %.0f tokens a second\n", t.rows, o->rows,
                (double)((t.rows - before) * t.context) / (now() - start));
    }
    size_t own = own_of(&t), all = t.rows * t.context;
    if (!mmix_error(m) && o->json)
        printf("{\"rows\": %zu, \"context\": %zu, \"held\": %zu, \"tokens\": %zu, \"drawn\": %zu, "
               "\"seconds\": %.1f}\n", t.rows, t.context, t.held, all, own, t.seconds);
    else if (!mmix_error(m))
        printf("%zu rows of %zu tokens, %zu of them drawn; %.0f seconds, %.1f tokens a second\n",
               t.rows, t.context, own, t.seconds, (double)all / fmax(t.seconds, 1e-9));
    mmix_decoder_destroy(d);
    marks_free(&k);
    text_free(&t);
    return 0;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* How likely a decoder finds the tokens that the teacher drew in held-out rows. */
typedef struct score {
    double nats, agree;                          /* mean of -log p; share with the same likeliest */
    double tokens, seconds;                      /* learned from until then, and how long it took */
} score;

/* The first `rows` held-out rows. likeliest (rows, context) becomes the decoder's likeliest tokens,
   which are compared with those in `of`, if that is not NULL. 0, or -1. */
static int judge_held(mmix_ctx *m, const mmix_decoder *d, const text *t, size_t rows,
                      const int32_t *of, int32_t *likeliest, score *s)
{
    size_t asked = 0, same = 0;
    double nats = 0, *each = (double *)malloc(t->context * sizeof *each);
    if (!each) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a row");
    for (size_t row = 0; row < rows && !interrupted; row++) {
        size_t begin = row * t->context;
        if (judge_piece(m, d, t->token + begin, t->context, each, likeliest + begin)) break;
        for (size_t i = 0; i + 1 < t->context; i++) {
            size_t at = begin + i;
            if (!t->own[at + 1]) continue;
            nats += each[i];
            asked++;
            if (!of || of[at] == likeliest[at]) same++;
        }
    }
    free(each);
    s->nats = nats / (double)(asked ? asked : 1);
    s->agree = (double)same / (double)(asked ? asked : 1);
    return mmix_error(m) ? -1 : 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* What is known of a run: its head says to what it belongs. Losses are means over stretches. */
enum { SCORES = BEGINS + 3, STRETCHES = 60, NOTE = 16384 };
typedef struct record {
    char head[320];
    score teacher, score[SCORES];
    size_t scores, begun;                        /* how many there are; of them before a step */
    size_t done, total, step_tokens;             /* steps done, of so many, of so many tokens */
    double seconds;
    double hidden[STRETCHES], token[STRETCHES];  /* sums of L_hid and L_tok … */
    size_t in[STRETCHES];                        /* … of so many steps */
} record;

static void name_of(const record *r, size_t i, char name[24])            /* of score i */
{
    if (i < r->begun) snprintf(name, 24, "%s", begin_name[i]);
    else snprintf(name, 24, "stage %u", (unsigned)(i + 1 - r->begun));
}
static void write_note(const record *r, char *note)      /* at most NOTE bytes */
{
    size_t n = (size_t)snprintf(note, NOTE, "%s\n%zu %zu %zu %.3f\n%.17g\n%zu %zu\n", r->head,
                                r->done, r->total, r->step_tokens, r->seconds, r->teacher.nats,
                                r->scores, r->begun);
    for (size_t i = 0; i < r->scores; i++) {
        const score *s = &r->score[i];
        n += (size_t)snprintf(note + n, NOTE - n, "%.17g %.17g %.0f %.1f\n", s->nats, s->agree,
                              s->tokens, s->seconds);
    }
    for (int i = 0; i < STRETCHES; i++)
        n += (size_t)snprintf(note + n, NOTE - n, "%.9g %.9g %zu\n", r->hidden[i], r->token[i],
                              r->in[i]);
}
/* Reads a note into *r, whose head, if it has one, has to be the same. 0, or -1. */
static int read_note(const char *note, record *r)
{
    size_t head = strcspn(note, "\n");
    char *at;
    if (head >= sizeof r->head || strncmp(note, "smol ", 5)) return -1;
    if (r->head[0] && (strlen(r->head) != head || strncmp(note, r->head, head))) return -1;
    snprintf(r->head, sizeof r->head, "%.*s", (int)head, note);
    r->done = strtoul(note + head, &at, 10);
    r->total = strtoul(at, &at, 10);
    r->step_tokens = strtoul(at, &at, 10);
    r->seconds = strtod(at, &at);
    r->teacher.nats = strtod(at, &at);
    r->scores = strtoul(at, &at, 10);
    r->begun = strtoul(at, &at, 10);
    if (r->scores > SCORES || r->total < 1) return -1;
    for (size_t i = 0; i < r->scores; i++) {
        score *s = &r->score[i];
        s->nats = strtod(at, &at);
        s->agree = strtod(at, &at);
        s->tokens = strtod(at, &at);
        s->seconds = strtod(at, &at);
    }
    for (int i = 0; i < STRETCHES; i++) {
        r->hidden[i] = strtod(at, &at);
        r->token[i] = strtod(at, &at);
        r->in[i] = strtoul(at, &at, 10);
    }
    return strspn(at, "\n") == strlen(at) ? 0 : -1;
}
/* NAME.txt of a run. 0, or -1. */
static int read_record(mmix_ctx *m, const char *name, record *r)
{
    char path[1200];
    snprintf(path, sizeof path, "%.1000s.txt", name);
    char *note = bytes_text(m, path);
    memset(r, 0, sizeof *r);
    if (note && read_note(note, r)) mmix_fail(m, MMIX_ERROR_FILE, "%s: no numbers of a run", path);
    free(note);
    return mmix_error(m) ? -1 : 0;
}
static int write_record(mmix_ctx *m, const char *name, const record *r)
{
    char path[1200], *note = (char *)malloc(NOTE);
    if (!note) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a note");
    snprintf(path, sizeof path, "%.1000s.txt", name);
    write_note(r, note);
    int bad = report_write(path, note);
    free(note);
    if (!bad) return 0;
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
}

/* ---- training -------------------------------------------------------------------------------- */

typedef struct job {
    mmix_ctx *m;
    const settings *o;
    text t;
    mmix_decoder *teacher, *student;
    mmix_distill *run;
    record r;
    int type;                                    /* index of how matrices are held */
    size_t judged;                               /* held-out rows that scores are taken from */
    int32_t *likeliest, *own;                    /* (judged, context): teacher's, student's */
    double start, said, saved;                   /* clocks */
    double before;                               /* seconds of earlier calls */
    size_t first;                                /* steps that were done before this call */
} job;

static size_t batch_of(const settings *o) { return o->batch ? (size_t)o->batch : 2; }
/* What decides a run. */
static void head_of(job *j)
{
    const settings *o = j->o;
    const mmix_decoder_config *c = &j->teacher->config;
    size_t step = batch_of(o) * j->t.context, n = j->t.rows * j->t.context;
    uint64_t print = bytes_hash(BYTES_HASH, j->t.token, n * sizeof *j->t.token);
    j->r.step_tokens = step;
    j->r.total = (size_t)o->tokens / step;
    if (j->r.total < o->stages) j->r.total = (size_t)o->stages;
    snprintf(j->r.head, sizeof j->r.head, "smol %zu x %zu, steps %zu of %zu tokens, stages %llu, "
             "keep %llu, window %llu, %s over %llu, rate %g, apart %d, bf16 %d, type %s, judge %zu, "
             "text %016llx, teacher %016llx", c->depth, c->dim, j->r.total, step, o->stages,
             o->keep, o->window, o->begin, o->solve, o->rate, o->apart, o->bf16,
             type_name[j->type], j->judged, (unsigned long long)print,
             (unsigned long long)bytes_hash_params(j->teacher->params));
}
/* The paper's stages, or one with everything. The text is the teacher's own, so that L_seq would be
   L_sup once more: it is left out. Beside narrow matrices adapters learn in every stage. */
static mmix_distill_config plan(const job *j)
{
    mmix_distill_config c = stages_of((size_t)j->o->stages, j->r.total, j->o->rate);
    if (j->teacher->params->dtype) {
        for (size_t i = 0; i < c.stages; i++) c.stage[i].train |= MMIX_TRAIN_LORA;
        c.lora_rank = 16;
        c.lora_alpha = 32;
        c.lora_targets = MMIX_LORA_FFN | MMIX_LORA_MIXER;
    }
    if (j->o->apart && c.stages == 3) {
        c.stage[0].teacher_inputs = 1;
        c.stage[0].token = 0;                    /* what only the last layer could change */
    }
    return c;
}
/* The batch of call `number`: the next rows of the text, again from the first after the last. Those
   that least squares knew come last. */
static int exercise(const job *j, uint64_t number, mmix_distill_batch *batch)
{
    const text *t = &j->t;
    size_t B = batch_of(j->o), C = t->context, train = t->rows - t->held, shape[2] = {B, C};
    size_t known = j->o->begins == SOLVED ? (size_t)j->o->solve : 0;
    memset(batch, 0, sizeof *batch);
    batch->input.tokens = mmix_new(j->m, MMIX_DTYPE_I32, 2, shape);
    batch->target = mmix_new(j->m, MMIX_DTYPE_I32, 2, shape);
    if (mmix_error(j->m)) return -1;
    for (size_t b = 0; b < B; b++) {
        size_t from = (t->held + (size_t)((number * B + b + known) % train)) * C;
        int32_t *token = mmix_data_i32(batch->input.tokens) + b * C;
        int32_t *target = mmix_data_i32(batch->target) + b * C;
        memcpy(token, t->token + from, C * sizeof *token);
        for (size_t i = 0; i < C; i++) {
            int drawn = i + 1 < C && t->own[from + i + 1];
            target[i] = drawn ? token[i + 1] : -1;
        }
    }
    return 0;
}
/* M-MATE in all layers, or in all but every Nth. NULL on error. */
static mmix_decoder *convert(const settings *o, const mmix_decoder *teacher)
{
    int replace[MMIX_DECODER_LAYERS];
    mmix_mmate_options options;
    memset(&options, 0, sizeof options);
    options.text_window = (size_t)o->window;
    for (size_t i = 0; i < MMIX_DECODER_LAYERS; i++)
        replace[i] = !o->keep || (i + 1) % o->keep;
    return mmix_decoder_student_some(teacher, &options, o->keep ? replace : NULL);
}
/* ---- least squares --------------------------------------------------------------------------- */

/* Row i of those that least squares are taken over. 0, or -1. */
static int solve_row(void *user, size_t i, mmix_sequence *all)
{
    const job *j = (const job *)user;
    size_t shape[2] = {1, j->t.context};
    memset(all, 0, sizeof *all);
    all->tokens = mmix_from_i32(j->m, 2, shape, j->t.token + (j->t.held + i) * j->t.context);
    return mmix_error(j->m) ? -1 : 0;
}
static int solve(job *j)                                 /* 0, or -1 */
{
    size_t train = j->t.rows - j->t.held;
    solve_lesson l = {j->m, j->teacher, j->student, (size_t)j->o->solve, solve_row, j};
    if (l.rows > train) l.rows = train;
    return solve_outputs(&l);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Judges the student and notes it. 0, or -1. */
static int rate_student(job *j)
{
    char name[24];
    record *r = &j->r;
    score s;
    memset(&s, 0, sizeof s);
    double start = now();
    if (judge_held(j->m, j->student, &j->t, j->judged, j->likeliest, j->own, &s)) return -1;
    if (interrupted || r->scores == SCORES) return 0;
    s.tokens = (double)(r->done * r->step_tokens);
    s.seconds = r->seconds;
    name_of(r, r->scores, name);
    r->score[r->scores++] = s;
    fprintf(stderr, "%s: perplexity %.3f, teacher %.3f; same next token %.1f %% (judged in %.0f "
            "s)\n", name, exp(s.nats), exp(r->teacher.nats), 100 * s.agree, now() - start);
    return 0;
}
static void path_of(const job *j, const char *ending, char path[1200])
{
    snprintf(path, 1200, "%.1000s.%s", j->o->run, ending);
}
static int save(job *j)                                  /* 0, or -1 */
{
    char path[1200], *note = (char *)malloc(NOTE);
    if (!note) return mmix_fail(j->m, MMIX_ERROR_MEMORY, "no memory for a note");
    path_of(j, "safetensors", path);
    write_note(&j->r, note);
    int bad = mmix_distill_save(j->run, path, note) || write_record(j->m, j->o->run, &j->r);
    free(note);
    j->saved = now();
    return bad;
}
/* The run of the file, or a new one, judged before and after its calibration. 0, or -1. */
static int begin(job *j)
{
    mmix_ctx *m = j->m;
    mmix_distill_batch batch;
    char path[1200];
    path_of(j, "safetensors", path);
    if (there(path)) {
        j->run = mmix_distill_load(j->teacher, path, &j->student);
        if (j->run && read_note(j->run->note, &j->r))
            mmix_fail(m, MMIX_ERROR_FILE, "%s: of a run with another teacher, text or settings; "
                      "give them as they were, or another --run", path);
        return mmix_error(m) ? -1 : 0;
    }
    j->student = convert(j->o, j->teacher);
    j->r.begun = (size_t)j->o->begins + 1;
    for (int k = 0; k < j->o->begins + 1; k++) {
        if (mmix_error(m) || interrupted) return -1;
        if (k == CALIBRATED && !exercise(j, 0, &batch))
            mmix_decoder_calibrate(j->student, j->teacher, &batch.input);
        if (k == SILENT) set_outputs(j->student, "mmate.flex.o_proj", NULL);
        if (k == SOLVED) solve(j);
        mmix_reset(m);
        if (mmix_error(m) || rate_student(j)) return -1;
    }
    if (interrupted) return -1;                  /* it may be half begun: nothing to save */
    j->run = mmix_distill_create(j->teacher, j->student, plan(j));
    return mmix_error(m) ? -1 : 0;
}
/* Notes a step, and says now and then how far it is. */
static void step_done(job *j, const mmix_distill_stats *s)
{
    record *r = &j->r;
    size_t at = r->done * STRETCHES / r->total;
    double t = now();
    if (at >= STRETCHES) at = STRETCHES - 1;
    r->hidden[at] += s->hidden;
    r->token[at] += s->token;
    r->in[at]++;
    r->done++;
    r->seconds = j->before + t - j->start;
    if (t - j->said < line_pause() && s->step + 1 < s->steps) return;
    j->said = t;
    fprintf(stderr, "stage %zu, step %zu of %zu: L_hid %.4f, L_tok %.4f, L_sup %.4f; gradient "
            "%.2g; %.1f tokens a second%s", s->stage + 1, s->step + 1, s->steps, s->hidden,
            s->token, s->supervised, s->gradient_norm,
            (double)((r->done - j->first) * r->step_tokens) / (t - j->start),
            on_screen() ? "   \r" : "\n");
}
/* Steps until the end, a signal, or the time is over. 0, or -1. */
static int learn(job *j)
{
    mmix_ctx *m = j->m;
    const double pause = 600;                    /* seconds between two savings */
    j->first = j->r.done;
    j->before = j->r.seconds;
    j->start = j->said = j->saved = now();
    while (!interrupted) {
        mmix_distill_batch batch;
        mmix_distill_stats s;
        if (exercise(j, j->run->number, &batch)) return -1;
        int more = mmix_distill_step(j->run, &batch, &s);
        if (more < 0) return -1;
        if (!more) break;
        mmix_reset(m);
        step_done(j, &s);
        if (s.step + 1 == s.steps && rate_student(j)) return -1;
        if (now() - j->saved > pause && save(j)) return -1;
        if (j->o->minutes && now() - j->start > 60.0 * (double)j->o->minutes) interrupted = 1;
    }
    return 0;
}
static void print_record(const settings *o, const record *r)
{
    char name[24];
    if (o->json) printf("{\"run\": \"%s\", \"teacher\": %.6f, \"scores\": [", o->run,
                        exp(r->teacher.nats));
    else printf("%s\n%-14s %10s %10s %10s %10s\n%-14s %10.3f\n", r->head, "", "perplexity",
                "same next", "tokens", "seconds", "teacher", exp(r->teacher.nats));
    for (size_t i = 0; i < r->scores; i++) {
        const score *s = &r->score[i];
        name_of(r, i, name);
        if (o->json)
            printf("%s{\"after\": \"%s\", \"perplexity\": %.6f, \"agree\": %.6f, \"tokens\": %.0f, "
                   "\"seconds\": %.1f}", i ? ", " : "", name, exp(s->nats), s->agree, s->tokens,
                   s->seconds);
        else printf("%-14s %10.3f %10.4f %10.0f %10.0f\n", name, exp(s->nats), s->agree, s->tokens,
                    s->seconds);
    }
    if (o->json) puts("]}");
}
/* What a run that is over leaves. 0, or -1. */
static int finish(job *j)
{
    char path[1200];
    path_of(j, "student.safetensors", path);
    mmix_distill_destroy(j->run);
    j->run = NULL;
    if (mmix_decoder_save(j->student, path) || write_record(j->m, j->o->run, &j->r)) return -1;
    path_of(j, "safetensors", path);
    if (there(path)) remove(path);
    return 0;
}
/* Teacher, text and what they decide. 0, or -1. */
static int job_ready(job *j)
{
    mmix_ctx *m = j->m;
    if (text_load(m, j->o->text, &j->t, 0)) return -1;
    if (!j->t.held || j->t.held >= j->t.rows)
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected rows to learn from and rows held out, "
                         "found %zu, %zu of them held out", j->o->text, j->t.rows, j->t.held);
    j->judged = j->o->judge && j->o->judge < j->t.held ? (size_t)j->o->judge : j->t.held;
    j->teacher = mmix_decoder_load_as(m, j->o->teacher, type_dtype[j->type]);
    if (!j->teacher) return -1;
    head_of(j);
    return mmix_error(m) ? -1 : 0;
}
/* The teacher's scores, and room for the likeliest tokens. 0, or -1. */
static int judge_teacher(job *j)
{
    mmix_ctx *m = j->m;
    size_t n = j->judged * j->t.context;
    j->likeliest = (int32_t *)calloc(n, sizeof *j->likeliest);
    j->own = (int32_t *)calloc(n, sizeof *j->own);
    if (!j->likeliest || !j->own) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for scores");
    return judge_held(m, j->teacher, &j->t, j->judged, NULL, j->likeliest, &j->r.teacher);
}
/* The numbers of a run that is over, if it is this one. 0, or -1. */
static int read_finished(job *j)
{
    record r;
    char path[1200];
    if (read_record(j->m, j->o->run, &r)) return -1;
    path_of(j, "txt", path);
    if (strcmp(r.head, j->r.head))
        return mmix_fail(j->m, MMIX_ERROR_FILE, "%s: of a run with another teacher, text or "
                         "settings; give them as they were, or another --run", path);
    j->r = r;
    return 0;
}
/* An exit status. */
static int train(mmix_ctx *m, const settings *o)
{
    job j;
    char path[1200];
    memset(&j, 0, sizeof j);
    j.m = m;
    j.o = o;
    j.type = type_of(o, "float");
    if (j.type == TYPES) return 2;
    if (o->bf16 && !mmix_has_bf16(m)) fprintf(stderr, "--bf16: this processor has none\n");
    mmix_multiply_bf16(m, o->bf16);
    path_of(&j, "student.safetensors", path);
    int ready = !job_ready(&j);
    if (ready && there(path)) read_finished(&j);
    else if (ready && !judge_teacher(&j) && !begin(&j) && o->tokens && !learn(&j)) {
        if (interrupted) save(&j);
        else finish(&j);
    }
    if (!mmix_error(m)) print_record(o, &j.r);
    mmix_distill_destroy(j.run);
    mmix_decoder_destroy(j.student);
    mmix_decoder_destroy(j.teacher);
    text_free(&j.t);
    free(j.likeliest);
    free(j.own);
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* What a decoder answers, after its name. 0, or -1. */
static int say(mmix_ctx *m, const settings *o, const tokenizer *t, const mmix_decoder *d,
               const char *who, const tokenizer_ids *asked)
{
    size_t shape[2] = {1, asked->count}, room = (size_t)o->count;
    int32_t *said = (int32_t *)calloc(room, sizeof *said);
    tokenizer_text words = {NULL, 0, 0};
    mmix_sequence piece;
    mmix_sampling how;
    if (!said) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for an answer");
    memset(&piece, 0, sizeof piece);
    memset(&how, 0, sizeof how);
    how.temperature = o->temperature;
    how.stop = tokenizer_chat_end(t);
    piece.tokens = mmix_from_i32(m, 2, shape, asked->at);
    size_t made = mmix_decoder_generate(m, d, &piece, &how, said, room);
    tokenizer_decode(t, said, made, TOKENIZER_SAID, &words);
    printf("%s: %s\n", who, words.at ? words.at : "");
    fflush(stdout);
    tokenizer_text_free(&words);
    free(said);
    mmix_reset(m);
    return mmix_error(m) ? -1 : 0;
}
/* An exit status. */
static int answer(mmix_ctx *m, const settings *o)
{
    const size_t questions = o->question ? 1 : 3;
    char error[TOKENIZER_ERROR];
    if (!o->student) return fail("answer: give --student");
    tokenizer *t = open_tokenizer(m, o->teacher);
    mmix_decoder *d[2] = {NULL, NULL};
    if (!mmix_error(m)) d[0] = mmix_decoder_load(m, o->teacher);
    if (!mmix_error(m)) d[1] = mmix_decoder_load(m, o->student);
    for (size_t i = 0; i < questions && !mmix_error(m) && !interrupted; i++) {
        tokenizer_message asks = {"user", o->question};
        tokenizer_text words = {NULL, 0, 0};
        tokenizer_ids ids = {NULL, 0, 0};
        if (!o->question) asks.text = question_of(i, 1);
        if (tokenizer_chat(t, &asks, 1, NULL, &words, error))
            mmix_fail(m, MMIX_ERROR_FILE, "%s", error);
        else encode(m, t, words.at, &ids);
        printf("%s\n", asks.text);
        for (int k = 0; k < 2 && !mmix_error(m); k++)
            say(m, o, t, d[k], k ? "student" : "teacher", &ids);
        tokenizer_ids_free(&ids);
        tokenizer_text_free(&words);
    }
    mmix_decoder_destroy(d[1]);
    mmix_decoder_destroy(d[0]);
    tokenizer_free(t);
    return 0;
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* Reads `length` tokens and writes some. 0, or -1. */
static int time_decoder(mmix_ctx *m, const mmix_decoder *d, size_t length, pace *p)
{
    size_t shape[2] = {1, length};
    mmix_sequence piece;
    memset(&piece, 0, sizeof piece);
    piece.tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; piece.tokens && i < length; i++)
        mmix_data_i32(piece.tokens)[i] = (int32_t)(mmix_random_u32(m, 9000, 0, i)
                                                   % d->config.vocabulary);
    return pace_of(m, d, &piece, p);
}
static void print_pace(const settings *o, const char *who, size_t length, const pace *p, int first)
{
    if (o->json)
        printf("%s{\"who\": \"%s\", \"tokens\": %zu, \"read_seconds\": %.3f, \"written_a_second\": "
               "%.2f, \"state_bytes\": %.0f}", first ? "[" : ",\n ", who, length, p->read,
               1 / fmax(p->step, 1e-9), p->bytes);
    else
        printf("%-8s %8zu %12.2f %14.1f %14.2f\n", who, length, p->read, 1 / fmax(p->step, 1e-9),
               p->bytes / 1048576);
    fflush(stdout);
}
/* An exit status. */
static int speed(mmix_ctx *m, const settings *o)
{
    static const char *const who[2] = {"teacher", "student"};
    size_t length[LIST], lengths = read_list("--lengths", o->lengths, length);
    int type = type_of(o, "bf16"), first = 1;
    if (type == TYPES || !lengths) return 2;
    for (size_t i = 0; i < lengths; i++)
        if (!length[i]) return fail("--lengths %s: give at least 1 token", o->lengths);
    mmix_decoder *d[2] = {mmix_decoder_load_as(m, o->teacher, type_dtype[type]), NULL};
    if (d[0]) d[1] = convert(o, d[0]);
    if (!o->json && !mmix_error(m))
        printf("%s, threads: %d\n%-8s %8s %12s %14s %14s\n", type_name[type], mmix_threads(m), "",
               "tokens", "read in s", "written a s", "state in MiB");
    for (size_t i = 0; i < 2 * lengths && !mmix_error(m) && !interrupted; i++) {
        pace p;
        if (time_decoder(m, d[i % 2], length[i / 2], &p)) break;
        print_pace(o, who[i % 2], length[i / 2], &p, first);
        first = 0;
    }
    if (o->json && !first) puts("]");
    mmix_decoder_destroy(d[1]);
    mmix_decoder_destroy(d[0]);
    return 0;
}

/* ---- rank: what the width N of the state buys, and what decays do ---------------------------- */

/* What a head forgets of a token's step: nothing, which is linear attention; the same of each, more
   or less by the head; or as much as the token says. */
enum { DECAY_NONE, DECAY_FIXED, DECAY_LEARNED, DECAYS };
static const char *const decay_name[DECAYS] = {"none", "fixed", "learned"};

/* Flex-MA of one layer with keys and queries of any width N, from the teacher's matrices. */
typedef struct flex {
    size_t H, G, N, P, D;
    int decays;
    mmix_params *params, *fixed;                 /* what learns, and what does not */
    mmix_tensor *q, *k, *v, *o;                  /* (HN, D), (GN, D), (GP, D), (D, HP) */
    mmix_tensor *dt, *dt_bias, *A_log;           /* (H, D), (H), (H) */
} flex;
/* What a layer of the teacher reads and says, of some rows of the text. */
typedef struct lesson {
    size_t rows, L, D;
    mmix_real *read, *said;                      /* (rows, L, D) */
} lesson;

/* The heads of one layer, (1, L, H P), of what it reads, x (1, L, D). *M, if M is not NULL, becomes
   the mixing matrix (1, H, L, L). */
static mmix_tensor *flex_heads(mmix_ctx *m, const flex *f, mmix_tensor *x, mmix_tensor **M)
{
    size_t L = mmix_shape(x, 1), q[4] = {1, L, f->H, f->N}, k[4] = {1, L, f->G, f->N};
    size_t v[4] = {1, L, f->G, f->P}, all[3] = {1, L, f->H * f->P};
    mmix_tensor *A = mmix_affine(m, mmix_exp(m, f->A_log), f->decays == DECAY_NONE ? 0 : -1, 0);
    mmix_mixer ssd = mmix_mixer_ssd(mmix_reshape(m, mmix_linear(m, x, f->v, NULL), 4, v),
                                    mmix_linear(m, x, f->dt, NULL), A,
                                    mmix_reshape(m, mmix_linear(m, x, f->k, NULL), 4, k),
                                    mmix_reshape(m, mmix_linear(m, x, f->q, NULL), 4, q));
    ssd.dt_bias = f->dt_bias;
    ssd.dt_softplus = 1;
    if (M) *M = mmix_mix_matrix(m, &ssd);
    return mmix_reshape(m, mmix_mix(m, &ssd), 3, all);
}
/* The directions of the width of head g's keys in which its keys and queries are longest, for the
   weights themselves: (N, P), the rows of *basis. 0, or -1. */
static int leading(mmix_ctx *m, const flex *f, const mmix_real *q, const mmix_real *k, size_t g,
                   double *basis)
{
    size_t P = f->P, D = f->D, share = f->H / f->G;
    mmix_tensor *rows = mmix_new2(m, 2 * (share + 1) * D, P);
    mmix_pca_result found;
    if (!rows) return -1;
    for (size_t part = 0; part <= share; part++) {
        const mmix_real *w = part ? q + (g * share + part - 1) * P * D : k + g * P * D;
        double square = 0;
        for (size_t i = 0; i < P * D; i++) square += (double)w[i] * (double)w[i];
        for (size_t i = 0; i < P * D; i++) {     /* with both signs, so that the mean is 0 */
            mmix_real value = (mmix_real)((double)w[i] / sqrt(fmax(square, 1e-30)));
            size_t at = (2 * part * D + i % D) * P + i / D;
            mmix_data(rows)[at] = value;
            mmix_data(rows)[at + D * P] = -value;
        }
    }
    if (mmix_pca(m, rows, f->N, &found)) return -1;
    memcpy(basis, found.components, f->N * P * sizeof *basis);
    return 0;
}
/* N ≤ P: keys and queries along the leading directions. N > P: the teacher's, and rows more, random
   ones for keys and zeroes for queries, so that the scores are the same at first. 0, or -1. */
static int fill_width(mmix_ctx *m, flex *f, const mmix_real *q, const mmix_real *k)
{
    size_t P = f->P, D = f->D, N = f->N, share = f->H / f->G;
    double *basis = (double *)calloc(N * P, sizeof *basis);
    if (!basis) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a basis");
    mmix_fill_normal(m, f->k, 1 / sqrt((double)D), 7);
    mmix_fill(f->q, 0);
    for (size_t g = 0; g < f->G && !mmix_error(m); g++) {
        if (N <= P) leading(m, f, q, k, g, basis);
        else for (size_t n = 0; n < P; n++) basis[n * P + n] = 1;
        for (size_t part = 0; part <= share; part++) {
            size_t h = part ? g * share + part - 1 : g;
            const mmix_real *from = (part ? q : k) + h * P * D;
            mmix_real *to = mmix_data(part ? f->q : f->k) + h * N * D;
            for (size_t n = 0; n < N && n < P; n++)
                for (size_t d = 0; d < D; d++) {
                    double sum = 0;
                    for (size_t p = 0; p < P; p++)
                        sum += basis[n * P + p] * (double)from[p * D + d];
                    to[n * D + d] = (mmix_real)sum;
                }
        }
    }
    free(basis);
    return mmix_error(m) ? -1 : 0;
}
/* 0, or -1 */
static int flex_make(mmix_ctx *m, const mmix_decoder *d, size_t layer, size_t N, int decays,
                     flex *f)
{
    const mmix_decoder_config *c = &d->config;
    mmix_tensor *q = weight_of(d, "self_attn.q_proj", layer);
    mmix_tensor *k = weight_of(d, "self_attn.k_proj", layer);
    mmix_tensor *v = weight_of(d, "self_attn.v_proj", layer);
    mmix_tensor *o = weight_of(d, "self_attn.o_proj", layer);
    memset(f, 0, sizeof *f);
    f->H = c->heads;
    f->G = c->kv_heads;
    f->N = N;
    f->P = c->head_dim;
    f->D = c->dim;
    f->decays = decays;
    f->params = mmix_params_create(m);
    f->fixed = mmix_params_create(m);
    mmix_params *rates = decays == DECAY_LEARNED ? f->params : f->fixed;
    size_t of_q[2] = {f->H * N, f->D}, of_k[2] = {f->G * N, f->D}, of_v[2] = {f->G * f->P, f->D};
    size_t of_o[2] = {f->D, f->H * f->P}, of_dt[2] = {f->H, f->D};
    const int zero = MMIX_INIT_CONSTANT;
    f->q = mmix_params_add(f->params, "", "q", 2, of_q, zero, 0, 0);
    f->k = mmix_params_add(f->params, "", "k", 2, of_k, zero, 0, 0);
    f->v = mmix_params_add(f->params, "", "v", 2, of_v, zero, 0, 0);
    f->o = mmix_params_add(f->params, "", "o", 2, of_o, zero, 0, 0);
    f->dt = mmix_params_add(rates, "", "dt", 2, of_dt, zero, 0, 0);
    f->dt_bias = mmix_params_add(rates, "", "dt.bias", 1, of_dt, zero, 0, 0);
    f->A_log = mmix_params_add(rates, "", "A_log", 1, of_dt, zero, 0, 0);
    if (!q || !k || !v || !o)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "layer %zu of the teacher has no attention",
                         layer);
    if (mmix_params_allocate(f->params)) return -1;
    if (decays != DECAY_LEARNED && mmix_params_allocate(f->fixed)) return -1;
    mmix_write(f->v, mmix_data(v));
    mmix_write(f->o, mmix_data(o));
    for (size_t h = 0; h < f->H; h++) {          /* steps from 0.001 to 0.1, as Flex-MA's */
        double step = 1e-3 * pow(100, ((double)h + 0.5) / (double)f->H);
        mmix_data(f->dt_bias)[h] = (mmix_real)log(expm1(step));
    }
    return fill_width(m, f, mmix_data(q), mmix_data(k));
}
/* Where a layer's lessons lie: what its norm made, and what its mixer said. 0, or -1. */
static int learn_from(mmix_ctx *m, const mmix_decoder *d, const text *t, size_t layer, lesson *l)
{
    size_t L = t->context, D = d->config.dim, shape[2] = {1, L}, depth = d->config.depth;
    mmix_tensor **tap = (mmix_tensor **)calloc(2 * depth, sizeof *tap);
    l->L = L;
    l->D = D;
    l->read = (mmix_real *)calloc(l->rows * L * D, sizeof *l->read);
    l->said = (mmix_real *)calloc(l->rows * L * D, sizeof *l->said);
    if (!tap || !l->read || !l->said) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for lessons");
    for (size_t row = 0; row < l->rows && !mmix_error(m) && !interrupted; row++, mmix_reset(m)) {
        mmix_decoder_options o;
        mmix_sequence all;
        memset(&o, 0, sizeof o);
        memset(&all, 0, sizeof all);
        o.normed = tap;
        o.mixed = tap + depth;
        all.tokens = mmix_from_i32(m, 2, shape, t->token + row * L);
        mmix_decoder_forward(m, d, &all, &o);
        if (mmix_error(m)) break;
        memcpy(l->read + row * L * D, mmix_data(tap[layer]), L * D * sizeof *l->read);
        memcpy(l->said + row * L * D, mmix_data(tap[depth + layer]), L * D * sizeof *l->said);
    }
    free(tap);
    return mmix_error(m) ? -1 : 0;
}
static mmix_tensor *row_of(mmix_ctx *m, const lesson *l, const mmix_real *from, size_t row)
{
    size_t shape[3] = {1, l->L, l->D};
    return mmix_from(m, 3, shape, from + row * l->L * l->D);
}
/* o by least squares over rows from `first` on, with the heads as they are. 0, or -1. */
static int flex_solve(mmix_ctx *m, const flex *f, const lesson *l, size_t first)
{
    static const int order[3] = {0, 2, 1};
    size_t n = f->H * f->P, D = f->D;
    double *A = (double *)calloc(n * n, sizeof *A), *Y = (double *)calloc(n * D, sizeof *Y);
    if (!A || !Y) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for least squares");
    for (size_t row = first; row < l->rows && !mmix_error(m); row++, mmix_reset(m)) {
        mmix_tensor *heads = flex_heads(m, f, row_of(m, l, l->read, row), NULL);
        mmix_tensor *columns = mmix_permute(m, heads, order);
        add_to(A, mmix_matmul(m, columns, heads));
        add_to(Y, mmix_matmul(m, columns, row_of(m, l, l->said, row)));
    }
    if (!mmix_error(m)) {
        solve_system(A, Y, n, D, 0.01);
        for (size_t i = 0; i < n * D; i++)
            mmix_data(f->o)[i % D * n + i / D] = (mmix_real)Y[i];
    }
    free(A);
    free(Y);
    return mmix_error(m) ? -1 : 0;
}
/* Relative square error on the first `rows` rows, nobody's lesson. */
static double flex_error(mmix_ctx *m, const flex *f, const lesson *l, size_t rows)
{
    double error = 0;
    for (size_t row = 0; row < rows && !mmix_error(m); row++, mmix_reset(m)) {
        mmix_tensor *heads = flex_heads(m, f, row_of(m, l, l->read, row), NULL);
        error += mmix_item(mmix_kd_hidden(m, mmix_linear(m, heads, f->o, NULL),
                                          row_of(m, l, l->said, row), NULL, 1));
    }
    return error / (double)rows;
}
/* `steps` steps of a row each. Returns the processor's seconds of a step. */
static double flex_fit(mmix_ctx *m, const flex *f, const lesson *l, size_t held, size_t steps)
{
    mmix_optimizer state;
    mmix_adamw o = mmix_adamw_config_default();
    if (mmix_adamw_init(&state, f->params)) return 0;
    double start = clock_of(m);
    for (size_t i = 0; i < steps && !mmix_error(m) && !interrupted; i++, mmix_reset(m)) {
        size_t row = held + i % (l->rows - held);
        mmix_record(m, 1);
        mmix_tensor *heads = flex_heads(m, f, row_of(m, l, l->read, row), NULL);
        mmix_backward(m, mmix_kd_hidden(m, mmix_linear(m, heads, f->o, NULL),
                                        row_of(m, l, l->said, row), NULL, 1));
        mmix_record(m, 0);
        o.lr = mmix_schedule_cosine(1e-3, 1e-5, steps, 1, steps / 10 + 1, 1e-4, i);
        mmix_adamw_step(&state, &o, 1, NULL);
    }
    double seconds = (clock_of(m) - start) / (double)steps;
    mmix_optimizer_free(&state);
    mmix_params_require_grad(f->params, 0);
    return seconds;
}
/* Mean numerical and effective rank of what tokens of the second half take from the first. */
static void off_diagonal(mmix_ctx *m, mmix_tensor *M, double rank[2])
{
    mmix_rank found;
    size_t L = mmix_shape(M, 2);
    rank[0] = rank[1] = 0;
    if (!M || mmix_block_rank(m, M, (L + 1) / 2, 1e-6, &found)) return;
    for (size_t i = 0; i < found.matrices; i++) {
        size_t at = i * found.rows * found.cols + found.cols;        /* row 1, column 0 */
        rank[0] += found.numerical[at] / (double)found.matrices;
        rank[1] += found.effective[at] / (double)found.matrices;
    }
}
typedef struct width {
    double before, after, seconds, rank[2];      /* errors; of a step; of M */
} width;
/* One layer at one width. 0, or -1. */
static int rank_one(mmix_ctx *m, const settings *o, const mmix_decoder *d, const lesson *l,
                    size_t layer, size_t N, int decays, width *w)
{
    const size_t held = 2;
    flex f;
    int bad = flex_make(m, d, layer, N, decays, &f);
    if (!bad) bad = flex_solve(m, &f, l, held);
    if (!bad) {
        w->before = flex_error(m, &f, l, held);
        w->seconds = flex_fit(m, &f, l, held, (size_t)o->steps);
        w->after = flex_error(m, &f, l, held);
        mmix_tensor *M = NULL;
        flex_heads(m, &f, row_of(m, l, l->read, 0), &M);
        off_diagonal(m, M, w->rank);
    }
    mmix_params_destroy(f.params);
    mmix_params_destroy(f.fixed);
    mmix_reset(m);
    return mmix_error(m) ? -1 : 0;
}
static void print_width(const settings *o, size_t layer, const char *what, const char *decays,
                        const width *w, int first)
{
    if (o->json)
        printf("%s{\"layer\": %zu, \"width\": \"%s\", \"decays\": \"%s\", \"rank\": %.2f, "
               "\"effective\": %.3f, \"error_solved\": %.5f, \"error_fitted\": %.5f, "
               "\"seconds\": %.4f}",
               first ? "[" : ",\n ", layer, what, decays, w->rank[0], w->rank[1], w->before,
               w->after, w->seconds);
    else printf("%5zu %9s %8s %8.1f %10.2f %10.4f %10.4f %10.4f\n", layer, what, decays, w->rank[0],
                w->rank[1], w->before, w->after, w->seconds);
    fflush(stdout);
}
/* All widths of a layer, with each of the decays. 0, or -1. */
static int rank_layer(mmix_ctx *m, const settings *o, const mmix_decoder *d, const text *t,
                      size_t layer, const size_t *N, size_t widths, const int *decays, size_t kinds,
                      int first)
{
    lesson l;
    width w;
    size_t shape[2] = {1, t->context};
    mmix_sequence row;
    memset(&l, 0, sizeof l);
    memset(&w, 0, sizeof w);
    memset(&row, 0, sizeof row);
    l.rows = t->rows < 34 ? t->rows : 34;        /* two of them to judge */
    row.tokens = mmix_from_i32(m, 2, shape, t->token);
    off_diagonal(m, mmix_decoder_matrix(m, d, &row, layer), w.rank);
    print_width(o, layer, "attention", "-", &w, first);
    mmix_reset(m);
    if (!learn_from(m, d, t, layer, &l))
        for (size_t i = 0; i < widths * kinds && !interrupted; i++) {
            size_t width_N = N[i / kinds];
            int decay = decays[i % kinds];
            char name[24];
            snprintf(name, sizeof name, "%zu", width_N);
            if (rank_one(m, o, d, &l, layer, width_N, decay, &w)) break;
            print_width(o, layer, name, decay_name[decay], &w, 0);
        }
    free(l.read);
    free(l.said);
    return mmix_error(m) ? -1 : 0;
}
/* What --decays lists. How many, or 0 after an error message. */
static size_t read_decays(const settings *o, int decays[LIST])
{
    char name[24];
    size_t kinds = 0;
    for (; part_of(o->decays, kinds, name, sizeof name); kinds++) {
        int kind = 0;
        while (kind < DECAYS && strcmp(decay_name[kind], name)) kind++;
        if (kind == DECAYS || kinds == LIST) {
            fail("--decays %s: give none, fixed or learned, with commas between, at most %d",
                 o->decays, LIST);
            return 0;
        }
        decays[kinds] = kind;
    }
    return kinds;
}
/* An exit status. */
static int rank(mmix_ctx *m, const settings *o)
{
    text t = {NULL, NULL, 0, 0, 0, 0, 0, 0};
    size_t layer[LIST], N[LIST], layers = read_list("--layers", o->layers, layer);
    size_t widths = layers ? read_list("--widths", o->widths, N) : 0;
    int decays[LIST];
    size_t kinds = widths ? read_decays(o, decays) : 0;
    if (!kinds) return 2;
    mmix_multiply_bf16(m, o->bf16);
    mmix_decoder *d = mmix_decoder_load(m, o->teacher);
    if (d) text_load(m, o->text, &t, 0);
    for (size_t i = 0; d && i < layers && !mmix_error(m); i++)
        if (layer[i] >= d->config.depth)
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "--layers %s: the teacher has %zu layers", o->layers,
                      d->config.depth);
    if (d && !mmix_error(m) && t.rows < 3)
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected at least 3 rows", o->text);
    if (!mmix_error(m) && !o->json)
        printf("layer     width   decays     rank  effective     solved     fitted    seconds\n");
    for (size_t i = 0; i < layers && !mmix_error(m) && !interrupted; i++)
        rank_layer(m, o, d, &t, layer[i], N, widths, decays, kinds, !i);
    if (!mmix_error(m) && o->json) puts("]");
    mmix_decoder_destroy(d);
    text_free(&t);
    return 0;
}

/* ---- figure ---------------------------------------------------------------------------------- */

typedef struct frame {
    double left, top, wide, high, most;          /* of the plot; tokens at its right end */
} frame;
/* Places in the drawing; the losses' axis is logarithmic, from LOW to HIGH nats. */
static const double low_nats = 0.1, high_nats = 20;
static double place_x(const frame *p, double tokens)
{
    return p->left + p->wide * tokens / p->most;
}
static double place_y(const frame *p, double nats)
{
    double shown = fmin(fmax(nats, low_nats), high_nats);
    return p->top + p->high * (1 - log(shown / low_nats) / log(high_nats / low_nats));
}
static void draw_axes(FILE *f, const frame *p)
{
    static const double level[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 20};
    double tick = report_tick(p->most, 5);
    for (size_t i = 0; i < sizeof level / sizeof *level; i++) {
        double y = place_y(p, level[i]);
        fprintf(f, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#dde2e7\"/>\n", p->left, y, p->wide);
        svg_text(f, p->left - 8, y + 5, 12, "end", "%g", level[i]);
    }
    for (double x = 0; x <= p->most * 1.0001; x += tick) {
        fprintf(f, "<path d=\"M%.1f %.1fv5\" stroke=\"#5d6873\"/>\n", place_x(p, x),
                p->top + p->high);
        svg_text(f, place_x(p, x), p->top + p->high + 20, 12, "middle", "%g", x / 1000);
    }
    svg_text(f, p->left + p->wide / 2, p->top + p->high + 40, 13, "middle",
             "thousand tokens that it learned from");
    svg_text(f, 12, 20, 0, "start", "How far the student is from its teacher, in nats a token");
}
/* L_tok of new text while it learns, and a ring where the held-out rows were judged. */
static void draw_run(FILE *f, const frame *p, const record *r, const char *name, int i)
{
    static const char *const paint[4] = {"#2f6fd0", "#c8602a", "#2d8f5a", "#7a4fb0"};
    double step = (double)r->step_tokens, all = (double)r->total;
    int drawn = 0;
    fputs("<path d=\"", f);
    for (int k = 0; k < STRETCHES; k++) {
        double x = (k + 0.5) * all / STRETCHES * step;
        if (!r->in[k] || r->token[k] <= 0) continue;
        fprintf(f, "%c%.1f %.1f", drawn++ ? 'L' : 'M', place_x(p, x),
                place_y(p, r->token[k] / (double)r->in[k]));
    }
    fprintf(f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.4\" stroke-opacity=\"0.6\"/>\n",
            paint[i]);
    for (size_t k = 1; k < r->scores; k++) {
        double x = place_x(p, r->score[k].tokens);
        double y = place_y(p, r->score[k].nats - r->teacher.nats);
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"#fff\" stroke=\"%s\" "
                "stroke-width=\"2\"/>\n", x, y, paint[i]);
        if (i || k >= r->begun) continue;
        svg_text(f, x + 10, y - 4, 12, "start", "%s", begin_name[k]);
    }
    fprintf(f, "<path d=\"M%.1f %dh22\" stroke=\"%s\" stroke-width=\"2.4\"/>\n",
            p->left + p->wide + 16, 50 + 24 * i, paint[i]);
    svg_text(f, p->left + p->wide + 46, 55 + 24 * i, 13, "start", "%s", name);
}
/* An exit status. */
static int figure(mmix_ctx *m, const settings *o)
{
    enum { MOST = 4 };
    record r[MOST];
    char run[1000], name[80];
    frame p = {52, 40, 420, 240, 1};
    size_t runs = 0;
    if (!o->runs) return fail("figure: give --runs");
    while (runs < MOST && part_of(o->runs, runs, run, sizeof run)) {
        if (read_record(m, run, &r[runs])) return 2;
        p.most = fmax(p.most, (double)(r[runs].total * r[runs].step_tokens));
        runs++;
    }
    FILE *f = svg_open(o->out, "smol.svg", 720, 330, "");
    draw_axes(f, &p);
    for (size_t i = 0; i < runs; i++) {
        if (!o->names || !part_of(o->names, i, name, sizeof name))
            part_of(o->runs, i, name, sizeof name);
        draw_run(f, &p, &r[i], name, (int)i);
    }
    svg_text(f, p.left + p.wide + 16, 55 + 24 * (double)runs, 12, "start", "ring: held-out rows");
    figure_close(f, "</svg>\n");
    return 0;
}

/* ---- main ------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(mmix_ctx *m, const settings *o);  /* an exit status */
        int needs_teacher;
    } command[] = {{"write", write_text, 1}, {"train", train, 1}, {"answer", answer, 1},
                   {"speed", speed, 1}, {"rank", rank, 1}, {"figure", figure, 0}};
    size_t commands = sizeof command / sizeof *command, k = 0;
    settings o;
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    while (argc > 1 && k < commands && strcmp(argv[1], command[k].name)) k++;
    if (argc < 2 || k == commands)
        return fail("%s: give write, train, answer, speed, rank or figure; --help says more",
                    argc < 2 ? "nothing to do" : argv[1]);
    if (command[k].needs_teacher && !o.teacher) return fail("%s: give --teacher", argv[1]);
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = o.seed;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    status = command[k].run(m, &o);
    if (mmix_error(m)) status = fail("%s", mmix_error(m));
    else if (!status && interrupted) status = 130;
    mmix_destroy(m);
    return status;
}
