/* linmu.c - attention out, M-MATE in: decoders turned linear by distillation in three stages
   (LinMU)

       cc -O2 demos/studies/linmu.c -o linmu -lm -lpthread
       ./linmu                                       all four parts, small, under ten minutes
       ./linmu pictures --data easy-vqa --budget full

   A teacher with causal attention is converted (its weights are reused) and learns to be itself
   again without attention. Four parts:
     text      the teacher is a pretrained model of stories, if there is one, and the data are
               stories it tells
     pictures  questions about pictures; the teacher, encoder and decoder, is trained here first
     video     questions about films: order and direction of motion
     scaling   time and memory from 1,024 tokens on, M-MATE beside attention, random weights
   Tables go to stdout, with curves, matrices and examples to OUT/report.html.

   Sections: plan · options · tasks · files and progress · teachers · students · text · pictures
   and films · tables · heads · examples · the three parts that learn · scaling · main */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "linmu"
#include "../../mamba_mix.h"
#include "pictures.h"
#include "program.h"
#include "report.h"
#include "scenes.h"
#include "linmu_figures.h"
#include "text.h"
#include "heads.h"
#include <inttypes.h>

#define fail report_refuse

/* ---- plan: everything that decides a result, written down before there was one --------------- */

enum { TEXT, PICTURES, VIDEO, LEARNED, SCALING = LEARNED, PARTS };
static const char *const part_name[PARTS] = {"text", "pictures", "video", "scaling"};

typedef struct budget {
    const char *name;
    size_t seeds;                                        /* --seed and those after it */
    size_t stage_steps[LEARNED], batch[LEARNED];         /* of three stages; rows a step */
    size_t teacher_steps[LEARNED], teacher_batch;        /* where a teacher is trained here */
    size_t examples[LEARNED], held[LEARNED];             /* stories; drawn pictures, films */
    size_t tested;                                       /* rows a score is taken from, at most */
    size_t words;                                        /* tokens of a told story */
    size_t longest;                                      /* tokens of the last step of scaling */
} budget;
static const budget budgets[2] = {
    {"small", 1, {50, 50, 50}, {8, 32, 32}, {400, 1200, 1000}, 64, {1024, 4000, 3000},
     {64, 250, 250}, 1000, 128, 8192},
    {"full", 3, {300, 300, 300}, {8, 32, 32}, {3000, 3000, 3000}, 64, {4096, 20000, 10000},
     {256, 1000, 1000}, 10000,
     256, 65536},
};

/* WINDOW: of Local-Swin in text */
enum { STAGES = 3, STAGES_MOST = 4, SEEDS_MOST = 16, FULL = 0, WINDOW = 8 };
enum { IN_TEXT = 1 << TEXT, IN_PICTURES = 1 << PICTURES, IN_VIDEO = 1 << VIDEO, IN_ALL = 7,
      IN_QUESTIONS = 6 };

/* What a control changes: weights of the mixers random and not the teacher's; heads not brought
   to the teacher's sizes; the branches in the other order. */
enum { AS_USUAL, RANDOM_START, NOT_CALIBRATED, SWIN_FIRST };
/* A way to distil; the first is the paper's. All make the same number of optimizer steps. */
typedef struct variant {
    const char *key, *name;
    int parts;
    /* 3; 2: without the first; 1: everything at once; 4: one of Local-Swin alone behind the
       first */
    size_t stages;
    int hidden;                                          /* 0: without L_hid */
    size_t rank;  /* of LoRA in the last stage; FULL: all weights instead */
    int branches;
    size_t window[3];  /* of Local-Swin on spans; 0: the library's default */
    int control;  /* the same for all but controls, which --only names */
} variant;
/* the first so many have curves; from CONTROLS on: --only */
enum { VARIANTS = 18, CONTROLS = 11, CURVES = 6 };
static const variant variants[VARIANTS] = {
    {"three", "three stages", IN_ALL, 3, 1, 8, MMIX_BRANCH_BOTH, {0, 0, 0}, AS_USUAL},
    {"two", "two stages", IN_TEXT | IN_PICTURES, 2, 1, 8, MMIX_BRANCH_BOTH, {0, 0, 0}, AS_USUAL},
    {"single", "single stage", IN_ALL, 1, 1, 8, MMIX_BRANCH_BOTH, {0, 0, 0}, AS_USUAL},
    {"nohid", "without L_hid", IN_TEXT | IN_PICTURES, 3, 0, 8, MMIX_BRANCH_BOTH, {0, 0, 0},
     AS_USUAL},
    {"flex", "Flex-MA only", IN_ALL, 3, 1, 8, MMIX_BRANCH_FLEX, {0, 0, 0}, AS_USUAL},
    {"swin", "Local-Swin only", IN_ALL, 3, 1, 8, MMIX_BRANCH_SWIN, {0, 0, 0}, AS_USUAL},
    {"rank2", "LoRA of rank 2", IN_TEXT, 3, 1, 2, MMIX_BRANCH_BOTH, {0, 0, 0}, AS_USUAL},
    {"full", "all weights in place of LoRA", IN_TEXT, 3, 1, FULL, MMIX_BRANCH_BOTH, {0, 0, 0},
     AS_USUAL},
    {"w222", "windows 2 x 2 x 2", IN_VIDEO, 3, 1, 8, MMIX_BRANCH_BOTH, {2, 2, 2}, AS_USUAL},
    {"w144", "windows 1 x 4 x 4", IN_VIDEO, 3, 1, 8, MMIX_BRANCH_BOTH, {1, 4, 4}, AS_USUAL},
    {"w422", "windows 4 x 2 x 2", IN_VIDEO, 3, 1, 8, MMIX_BRANCH_BOTH, {4, 2, 2}, AS_USUAL},
    {"random", "random start", IN_ALL, 3, 1, 8, MMIX_BRANCH_BOTH, {0, 0, 0}, RANDOM_START},
    {"sizes", "no calibration", IN_ALL, 3, 1, 8, MMIX_BRANCH_BOTH, {0, 0, 0}, NOT_CALIBRATED},
    {"swinfirst", "Local-Swin first", IN_ALL, 3, 1, 8, MMIX_BRANCH_BOTH, {0, 0, 0}, SWIN_FIRST},
    {"four", "four stages", IN_ALL, 4, 1, 8, MMIX_BRANCH_BOTH, {0, 0, 0}, AS_USUAL},
    {"w1", "windows 1 x 1", IN_PICTURES, 3, 1, 8, MMIX_BRANCH_BOTH, {1, 1, 1}, AS_USUAL},
    {"w2", "windows 2 x 2", IN_PICTURES, 3, 1, 8, MMIX_BRANCH_BOTH, {1, 2, 2}, AS_USUAL},
    {"w4", "windows 4 x 4", IN_PICTURES, 3, 1, 8, MMIX_BRANCH_BOTH, {1, 4, 4}, AS_USUAL},
};

/* of what is trained here */
enum { DIM = 64, HEADS = 4, FFN = 176, DECODER_DEPTH = 3, EYE_DEPTH = 3, PATCH = 8 };
static const double teacher_rate = 1.5e-3, teacher_decay = 0.01;
/* Times mmix_distill_config_linmu' learning rates: DIM is narrow. The last stage of text gets
   worse above 1. */
static const double stage_rate[LEARNED] = {1, 2.5, 2.5};

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "linmu [text|pictures|video|scaling|all|figures] - attention out, M-MATE in: distillation in "
    "three stages\n\n"
    "  --out DIR         where report.html goes                     (build/linmu-out)\n"
    "  --budget NAME     small: under ten minutes in all, one seed; full: hours, three seeds  "
    "(small)\n"
    "  --steps N         optimizer steps a stage, instead of the budget's\n"
    "  --teach N         steps of a teacher that is trained here, instead of the budget's\n"
    "  --seed N          the first seed                             (1)\n"
    "  --seeds N         so many, one after another                 (small 1, full 3)\n"
    "  --only LIST       of the ways to distil those alone: three, two, single, nohid, flex, "
    "swin, rank2, full, w222,\n"
    "                    w144, w422; or controls, which run only if named: random (weights of the "
    "mixers), sizes (heads\n"
    "                    are not calibrated), swinfirst, four (stages), w1, w2, w4 (windows on "
    "pictures)\n"
    "  --frames N        video: films of N frames, a thing in each, and questions for its color "
    "in one of them\n"
    "  --data DIR        easy-VQA, DIR/train and DIR/test with questions.json and images/N.png\n"
    "                    (pictures drawn here)\n"
    "  --teacher FILE    of text: llama2.c's .bin, or .safetensors  "
    "(../shared/data/stories260k/stories260K.bin,\n"
    "                    or a small one trained here on stories from templates)\n"
    "  --tokenizer FILE  llama2.c's, to show its stories            (tok512.bin beside the "
    "teacher)\n"
    "  --save PREFIX     files of runs, PREFIX-PART-SEED-RUN.…      (OUT/run)\n"
    "  --load PREFIX     go on where the run of these files stopped; give the other options as "
    "they were\n"
    "  --threads N       (all cores)\n"
    "  --bf16            steps multiply bf16 and add in float: half the time of large products; "
    "needs AMX or AMD's AVX512-BF16\n"
    "  --json            results as JSON on stdout\n"
    "  --help\n\n"
    "`figures` draws how M-MATE finds its tokens, four .svg files in DIR, and nothing else.\n"
    "A student is saved every two minutes, a teacher when it has learned; Ctrl-C saves a student, "
    "too, and says how\n"
    "to go on.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

typedef struct settings {
    const char *out, *data, *teacher, *tokenizer, *save, *load;
    const budget *budget;
    int parts, json, figures, bf16;                      /* parts: bits 1 << TEXT, … */
    int only[VARIANTS];                                  /* 1: this way is taken */
    size_t steps[LEARNED], teach[LEARNED], seeds, threads, frames;  /* frames 0: films of motion */
    uint64_t seed;
    char prefix[1000], kept_tokenizer[1000];
} settings;

static int there(const char *path)                       /* whether a file can be read */
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}

/* --only into the options; NULL: all but the controls. 0, or an exit status. */
static int read_only(settings *o, const char *text)
{
    for (int v = 0; v < VARIANTS; v++) o->only[v] = !text && v < CONTROLS;
    for (size_t n; text; text = text[n] ? text + n + 1 : NULL) {
        int v = 0;
        n = strcspn(text, ",");
        while (v < VARIANTS && (strlen(variants[v].key) != n || strncmp(variants[v].key, text, n)))
            v++;
        if (v == VARIANTS) return fail("--only %.*s: no such way to distil; --help lists them",
                                       (int)n, text);
        o->only[v] = 1;
    }
    return 0;
}

enum { TEACHER = -2, BLIND = -1, COLUMNS = 1 + STAGES };  /* rows before the variants */
/* whether a row is in the table of a part */
static int table_has(const settings *o, int part, int row)
{
    return row == TEACHER || (row == BLIND && part != TEXT)
        || (row >= 0 && o->only[row] && variants[row].parts >> part & 1);
}
static int first_way(const settings *o, int part)        /* the one that is shown */
{
    int v = 0;
    while (v + 1 < VARIANTS && !table_has(o, part, v)) v++;
    return v;
}

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    static const char stories[] = "../shared/data/stories260k/stories260K.bin";
    const char *budget_name = "small", *only = NULL;
    size_t seed = 1, steps = 0, teach = 0;
    memset(o, 0, sizeof *o);
    o->out = "build/linmu-out";
    struct {
        const char *name, **text;
        size_t *number, low, high;
    } known[] = {
        {"--out", &o->out, NULL, 0, 0},
        {"--budget", &budget_name, NULL, 0, 0},
        {"--data", &o->data, NULL, 0, 0},
        {"--only", &only, NULL, 0, 0},
        {"--frames", NULL, &o->frames, 2, 64},
        {"--teacher", &o->teacher, NULL, 0, 0},
        {"--tokenizer", &o->tokenizer, NULL, 0, 0},
        {"--save", &o->save, NULL, 0, 0},
        {"--load", &o->load, NULL, 0, 0},
        {"--steps", NULL, &steps, 2, 1000000},
        {"--teach", NULL, &teach, 2, 1000000},
        {"--seed", NULL, &seed, 0, 1000000000},
        {"--seeds", NULL, &o->seeds, 1, SEEDS_MOST},
        {"--threads", NULL, &o->threads, 1, 64},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        size_t count = sizeof known / sizeof *known;
        int part = 0;
        unsigned long long n;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        if (!strcmp(argv[i], "--json")) {
            o->json = 1;
            continue;
        }
        if (!strcmp(argv[i], "--bf16")) {
            o->bf16 = 1;
            continue;
        }
        while (part < PARTS && strcmp(argv[i], part_name[part])) part++;
        if (part < PARTS) {
            o->parts |= 1 << part;
            continue;
        }
        if (!strcmp(argv[i], "figures")) {
            o->figures = 1;
            continue;
        }
        if (!strcmp(argv[i], "all")) {
            o->parts = (1 << PARTS) - 1;
            continue;
        }
        while (k < count && strcmp(argv[i], known[k].name)) k++;
        if (k == count) return fail("%s: no such part or option; --help lists them all", argv[i]);
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        if (known[k].text) {
            *known[k].text = argv[i];
            continue;
        }
        if (report_whole(known[k].name, argv[i], known[k].low, known[k].high, &n)) return 2;
        *known[k].number = (size_t)n;
    }
    for (int b = 0; b < 2; b++)
        if (!strcmp(budget_name, budgets[b].name)) o->budget = &budgets[b];
    if (read_only(o, only)) return 2;
    if (!o->budget) return fail("--budget %s: give small or full", budget_name);
    const int named = o->parts;
    if (!named) o->parts = (1 << PARTS) - 1;
    for (int p = 0; p < LEARNED; p++) {
        if (!(o->parts >> p & 1) || table_has(o, p, first_way(o, p))) continue;
        if (named) return fail("--only %s: no way to distil %s; leave it out, or %s", only,
                               part_name[p], part_name[p]);
        o->parts &= ~(1 << p);
    }
    if (!o->seeds) o->seeds = o->budget->seeds;
    o->seed = seed;
    for (int p = 0; p < LEARNED; p++) {
        o->steps[p] = steps ? steps : o->budget->stage_steps[p];
        o->teach[p] = teach ? teach : o->budget->teacher_steps[p];
    }
    if (o->teacher && !there(o->teacher))
        return fail("--teacher %s: %s", o->teacher, strerror(errno));
    if (o->tokenizer && !there(o->tokenizer))
        return fail("--tokenizer %s: %s", o->tokenizer, strerror(errno));
    if (o->data && !picture_is_folder(o->data)) return fail("--data %s: no such folder", o->data);
    if (o->tokenizer && !o->teacher && !there(stories))
        return fail("--tokenizer: give its --teacher, too");
    if (!o->teacher && there(stories)) o->teacher = stories;
    if (o->teacher && !o->tokenizer) {
        const char *slash = strrchr(o->teacher, '/');
        snprintf(o->kept_tokenizer, sizeof o->kept_tokenizer, "%.*stok512.bin",
                 slash ? (int)(slash + 1 - o->teacher) : 0, o->teacher);
        if (there(o->kept_tokenizer)) o->tokenizer = o->kept_tokenizer;
    }
    if (o->save && o->load && strcmp(o->save, o->load))
        return fail("--save %s and --load %s: a run goes on in its own files; give one of them",
                    o->save, o->load);
    if (o->save || o->load)
        snprintf(o->prefix, sizeof o->prefix, "%s", o->save ? o->save : o->load);
    else snprintf(o->prefix, sizeof o->prefix, "%s/run", o->out);
    return 0;
}

/* ---- tasks: rows of words, each perhaps about a picture or a film ---------------------------- */

/* END also begins a story, as token 1 does in llama2.c */
enum { PAD, END, WORDS_MOST = 512, WORD_ROOM = 24 };

typedef struct task {
    size_t width, count, train;  /* words of a row; rows, the first `train` to learn from */
    int32_t *token, *target;  /* (count, width): words; what is wanted after them, or -1 */
    size_t *length, *clip;  /* (count): words of a row but the padding; its clip */
    char (*word)[WORD_ROOM];  /* (WORDS_MOST): the vocabulary, unless the teacher has one */
    size_t words;
    /* Clips (0: text alone): films of `frames` pictures, or pictures; rows first[c] … first[c +
       1] - 1 ask about c. */
    size_t clips, train_clips, frames, *first;
    int32_t *name;  /* (frames): the word behind each, NULL: none */
    pictures look;  /* look.train: all pictures, clip after clip */
    mmix_span span;  /* where a clip stands in a sequence: before the words */
    mmix_real *media;  /* (clips, patches of a clip, DIM): what the encoder sees */
} task;

static size_t patches(const task *t)  /* tokens of a clip that the encoder makes … */
{
    return t->clips ? t->span.grid[0] * t->span.grid[1] * t->span.grid[2] : 0;
}
static size_t clip_tokens(const task *t)  /* … and with the words behind its frames */
{
    return patches(t) + t->span.grid[0] * t->span.separators;
}

/* makes room for them: 0, or -1 */
static int task_rows(task *t, mmix_ctx *m, size_t rows, size_t width)
{
    t->width = width;
    t->token = (int32_t *)calloc(rows * width, sizeof *t->token);
    t->target = (int32_t *)malloc(rows * width * sizeof *t->target);
    t->length = (size_t *)calloc(rows, sizeof *t->length);
    t->clip = (size_t *)calloc(rows, sizeof *t->clip);
    t->word = (char (*)[WORD_ROOM])calloc(WORDS_MOST, sizeof *t->word);
    if (!t->token || !t->target || !t->length || !t->clip || !t->word)
        return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu rows of %zu words", rows, width);
    for (size_t i = 0; i < rows * width; i++) t->target[i] = -1;
    snprintf(t->word[END], WORD_ROOM, "<end>");
    t->words = END + 1;
    return 0;
}

/* Makes room for clips of `frames` pictures, side x side. */
static int task_clips(task *t, mmix_ctx *m, size_t clips, size_t train, size_t frames, size_t side)
{
    size_t grid = side / PATCH;
    t->clips = clips;
    t->train_clips = train;
    t->frames = frames;
    t->look.size = side;
    t->span.grid[0] = frames;
    t->span.grid[1] = t->span.grid[2] = grid;
    t->first = (size_t *)calloc(clips + 1, sizeof *t->first);
    t->media = (mmix_real *)malloc(clips * patches(t) * DIM * sizeof *t->media);
    if (!t->first || !t->media || picture_set_make(&t->look.train, clips * frames, side, 0))
        return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu pictures", clips * frames);
    return 0;
}

static void task_free(task *t)
{
    pictures_free(&t->look);
    free(t->token);
    free(t->target);
    free(t->length);
    free(t->clip);
    free(t->word);
    free(t->first);
    free(t->name);
    free(t->media);
    memset(t, 0, sizeof *t);
}

/* The number of a word of n letters, a new one if it is new; -1 and an error if there is no room
   for it. */
static int32_t task_word(task *t, mmix_ctx *m, const char *text, size_t n)
{
    for (size_t w = END; w < t->words; w++)
        if (strlen(t->word[w]) == n && !strncmp(t->word[w], text, n)) return (int32_t)w;
    if (t->words == WORDS_MOST || n >= WORD_ROOM)
        return mmix_fail(m, MMIX_ERROR_FILE, "\"%.*s\": %s", (int)n, text,
                         n >= WORD_ROOM ? "a word too long" :
                         "more than 512 different words");
    snprintf(t->word[t->words], WORD_ROOM, "%.*s", (int)n, text);
    return (int32_t)t->words++;
}

/* The words of a text go into row t->count, from word `at` on; how many stand there then, 0
   after an error. */
static size_t task_text(task *t, mmix_ctx *m, const char *text, size_t at)
{
    for (size_t n; *text; text += n) {
        n = strcspn(text, " ?,");  /* what divides words; of a "?" nothing is to be learned */
        if (!n) {
            n = 1;
            continue;
        }
        int32_t w = task_word(t, m, text, n);
        if (at == t->width) mmix_fail(m, MMIX_ERROR_FILE, "\"%s\": more than %zu words", text,
                                      t->width);
        if (mmix_error(m)) return 0;
        t->token[t->count * t->width + at++] = w;
    }
    return at;
}

/* A question about a clip, with its answer of one word, as the next row. 0, or -1. */
static int task_ask(task *t, mmix_ctx *m, size_t clip, const char *question, const char *answer)
{
    size_t n = task_text(t, m, question, 0);
    int32_t w = n ? task_word(t, m, answer, strlen(answer)) : -1;
    if (!n || w < 0) return -1;
    t->length[t->count] = n;
    t->clip[t->count] = clip;
    t->target[t->count * t->width + n - 1] = w;
    t->count++;
    t->first[clip + 1] = t->count;
    if (clip < t->train_clips) t->train = t->count;
    return 0;
}

/* What stands at place i of a clip: its media's patches, and last in each frame its name, where
   frames have names. */
static int32_t clip_token(const task *t, size_t i)
{
    size_t frame = clip_tokens(t) / (t->clips ? t->frames : 1);
    int last = i % frame == frame - 1;
    return t->name && last ? t->name[i / frame] : PAD;
}

/* B rows as a batch in step memory, with the media (B, patches, DIM), or what t->media has of
   them (NULL); blind: the questions alone. 0, or -1. */
static int task_batch(const task *t, mmix_ctx *m, const size_t *row, size_t B, int blind,
                      mmix_tensor *media, mmix_distill_batch *batch)
{
    size_t n = blind ? 0 : clip_tokens(t);
    size_t grid = patches(t);
    size_t L = n + t->width;
    size_t shape[2];
    shape[0] = B;
    shape[1] = L;
    memset(batch, 0, sizeof *batch);
    mmix_tensor *token = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    mmix_tensor *target = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    mmix_tensor *mask = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    if (n && !media) {
        media = mmix_new3(m, B, grid, DIM);
        for (size_t b = 0; media && b < B; b++)
            memcpy(mmix_data(media) + b * grid * DIM, t->media + t->clip[row[b]] * grid * DIM,
                   grid * DIM * sizeof *t->media);
    }
    if (!token || !target || !mask || (n && !media)) return -1;
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < L; i++) {
            size_t at = row[b] * t->width + i - n;
            mmix_data_i32(token)[b * L + i] = i < n ? clip_token(t, i) : t->token[at];
            mmix_data_i32(target)[b * L + i] = i < n ? -1 : t->target[at];
            mmix_data_i32(mask)[b * L + i] = i < n + t->length[row[b]];
        }
    batch->input.tokens = token;
    batch->input.spans = &t->span;
    batch->input.n_spans = n > 0;
    batch->input.media = media;
    batch->target = target;
    batch->mask = mask;
    return 0;
}

/* means over the targets; how many there were */
typedef struct score {
    double loss, right;
    size_t asked;
} score;

/* The i-th of n held-back rows that are looked at, spread over all of them. */
static size_t held_row(const task *t, size_t i,
                       size_t n) { return t->train + (t->count - t->train) * i / n; }
static size_t held_rows(const task *t, const settings *o)
{
    size_t held = t->count - t->train;
    return held < o->budget->tested ? held : o->budget->tested;
}

/* How a decoder does on n held-back rows; of questions also its answers, said (n, width) or
   NULL. 0, or -1. */
static int rate(mmix_ctx *m, const task *t, const mmix_decoder *d, size_t n, int blind, score *s,
                int32_t *said)
{
    enum { AT_ONCE = 32 };
    size_t row[AT_ONCE], B;
    memset(s, 0, sizeof *s);
    for (size_t first = 0; first < n && !mmix_error(m); first += B) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_distill_batch batch;
        B = n - first < AT_ONCE ? n - first : AT_ONCE;
        for (size_t b = 0; b < B; b++) row[b] = held_row(t, first + b, n);
        if (task_batch(t, m, row, B, blind, NULL, &batch)) break;
        mmix_tensor *logits = mmix_decoder_logits(m, d,
                                                  mmix_decoder_forward(m, d, &batch.input, NULL));
        mmix_tensor *loss = mmix_cross_entropy(m, logits, batch.target, -1);
        if (!loss) break;
        size_t K = mmix_shape(logits, 2);
        size_t L = mmix_shape(logits, 1);
        size_t asked = 0;
        for (size_t i = 0; i < B * L; i++) {
            const mmix_real *z = mmix_data(logits) + i * K;
            int32_t wanted = mmix_data_i32(batch.target)[i];
            int32_t best = 0;
            if (wanted < 0) continue;
            for (size_t k = 1; k < K; k++) if (z[k] > z[best]) best = (int32_t)k;
            asked++;
            s->right += best == wanted;
            if (said) said[(first + i / L) * t->width + i % L + t->width - L] = best;
        }
        s->loss += mmix_item(loss) * (double)asked;
        s->asked += asked;
        mmix_rewind(m, mark);
    }
    if (s->asked) {
        s->loss /= (double)s->asked;
        s->right /= (double)s->asked;
    }
    return mmix_error(m) ? -1 : 0;
}

/* ---- files and progress ---------------------------------------------------------------------- */

enum { SAVE_SECONDS = 120 };  /* so much is lost at most if the machine goes down */
enum { ROWS_OF_TEACHER = 1, ROWS_OF_STUDENT, FRAMES_ASKED };     /* purposes of random numbers */

typedef struct job {                                     /* one part with one seed */
    mmix_ctx *m;
    const settings *o;
    int part;
    uint64_t seed, print;  /* print: of teacher and rows, so that no file is mixed up */
    task t;
    mmix_decoder *teacher;
    mmix_vision *eye;                                    /* the encoder; NULL for text */
    tokenizer *tokenizer;                           /* or NULL */
} job;

static const char *job_path(const job *j, const char *name, const char *ending, char *path,
                            size_t room)
{
    snprintf(path, room, "%s-%s-%" PRIu64 "-%s.%s", j->o->prefix, part_name[j->part], j->seed, name,
             ending);
    return path;
}

/* Whether there is any file of a run of these parts and seeds. */
static int saved_before(const settings *o)
{
    static const char *const networks[] = {"teacher", "blind", "encoder"};
    char path[1200];
    job j;
    memset(&j, 0, sizeof j);
    j.o = o;
    for (j.part = 0; j.part < LEARNED; j.part++)
        for (size_t i = 0; i < o->seeds && o->parts >> j.part & 1; i++) {
            j.seed = o->seed + i;
            for (size_t k = 0; k < 3; k++)
                if (there(job_path(&j, networks[k], "safetensors", path, sizeof path))) return 1;
            for (size_t v = 0; v < VARIANTS; v++)
                if (there(job_path(&j, variants[v].key, "safetensors", path, sizeof path))
                    || there(job_path(&j, variants[v].key, "txt", path, sizeof path))) return 1;
        }
    return 0;
}

typedef struct meter {
    double start, said;
    size_t first;
} meter;
static meter meter_start(size_t first)
{
    meter p;
    p.start = p.said = now();
    p.first = first;
    return p;
}
static void meter_show(meter *p, const job *j, const char *what, size_t step, size_t steps,
                       double loss)
{
    double t = now();
    double rate_now = (double)(step - p->first) / (t - p->start);
    if (t - p->said < line_pause() && step < steps) return;
    size_t left = (size_t)((double)(steps - step) / rate_now);
    p->said = t;
    fprintf(stderr, "%s, seed %" PRIu64 ", %-10s step %zu of %zu  %.1f a second  %zu:%02zu left",
            part_name[j->part], j->seed, what, step, steps, rate_now, left / 60, left % 60);
    if (isfinite(loss)) fprintf(stderr, "  loss %.3f", loss);
    fputs(on_screen() && step < steps ? "   \r" : "   \n", stderr);
}

/* ---- teachers -------------------------------------------------------------------------------- */

/* What the encoder says of n clips, (n, patches, DIM), recorded if the context records. */
static mmix_tensor *see(mmix_ctx *m, const task *t, const mmix_vision *eye, const size_t *clip,
                        size_t n)
{
    size_t side = t->look.size, shape[3];
    mmix_tensor *image = mmix_new4(m, n * t->frames, 3, side, side);
    for (size_t i = 0; image && i < n * t->frames; i++)
        mmix_picture_normalize(mmix_data(image) + i * 3 * side * side,
                               t->look.train.picture[clip[i / t->frames] * t->frames +
                                                     i % t->frames], NULL, NULL);
    shape[0] = n;
    shape[1] = patches(t);
    shape[2] = DIM;
    return mmix_reshape(m, mmix_vision_forward(m, eye, image, NULL).patches, 3, shape);
}

/* The same of all clips, to t->media: a frozen encoder need not look twice. 0, or -1. */
static int see_all(mmix_ctx *m, task *t, const mmix_vision *eye)
{
    for (size_t c = 0, n; c < t->clips && !mmix_error(m); c += n) {
        size_t clip[16];
        mmix_mark mark = mmix_mark_here(m);
        for (n = 0; n < 16 && c + n < t->clips; n++) clip[n] = c + n;
        mmix_tensor *media = see(m, t, eye, clip, n);
        if (media) mmix_read(media, t->media + c * patches(t) * DIM);
        mmix_rewind(m, mark);
    }
    return mmix_error(m) ? -1 : 0;
}

/* Of a teacher's questions so large a share wants another answer than yes or no, which say one
   bit at most: with rows taken evenly an encoder needs many times the steps to tell shapes
   apart. */
static const double open_share = 0.6;

/* One step's batch: any rows; or, of any clips, a row about each, with what the encoder sees. */
static int lesson(const job *j, const mmix_vision *eye, size_t step, size_t B, size_t *row,
                  mmix_distill_batch *batch)
{
    mmix_ctx *m = j->m;
    const task *t = &j->t;
    mmix_tensor *media = NULL;
    size_t clip[256];
    for (size_t b = 0; b < B; b++) {
        uint32_t any = mmix_random_u32(m, ROWS_OF_TEACHER, step, 3 * b);
        if (!t->clips) {
            row[b] = any % t->train;
            continue;
        }
        clip[b] = mmix_random_u32(m, ROWS_OF_TEACHER, step, 3 * b + 1) % t->train_clips;
        size_t n = t->first[clip[b] + 1] - t->first[clip[b]];
        int open = mmix_random_uniform(m, ROWS_OF_TEACHER, step, 3 * b + 2) < open_share;
        for (size_t k = 0; k < n; k++) {  /* the first such question from a random one on */
            row[b] = t->first[clip[b]] + (any + k) % n;
            const char *answer = t->word[t->target[row[b] * t->width + t->length[row[b]] - 1]];
            if (!open || (strcmp(answer, "yes") && strcmp(answer, "no"))) break;
        }
    }
    if (eye && !(media = see(m, t, eye, clip, B))) return -1;
    return task_batch(t, m, row, B, !eye, media, batch);
}

/* Trains a decoder, and an encoder if there is one, to give the rows' targets. 0, 1 after
   Ctrl-C, -1. */
static int teach(const job *j, const char *what, mmix_decoder *d, mmix_vision *eye)
{
    mmix_ctx *m = j->m;
    size_t steps = j->o->teach[j->part];
    size_t B = j->o->budget->teacher_batch;
    size_t row[256];
    mmix_optimizer state[2];
    mmix_params *list[2] = {d->params, eye ? mmix_vision_params(eye) : NULL};
    mmix_adamw adam = mmix_adamw_config_default();
    mmix_distill_batch batch;
    meter p = meter_start(0);
    adam.weight_decay = teacher_decay;
    memset(state, 0, sizeof state);
    for (int k = 0; k < 1 + (eye != NULL); k++) mmix_adamw_init(&state[k], list[k]);
    for (size_t step = 0; step < steps && !interrupted && !mmix_error(m); step++) {
        mmix_record(m, 1);
        adam.lr = mmix_schedule_cosine(teacher_rate, teacher_rate / 100, steps, 1, 1 + steps / 20,
                                       0, step);
        if (lesson(j, eye, step, B, row, &batch)) break;
        mmix_tensor *logits = mmix_decoder_logits(m, d,
                                                  mmix_decoder_forward(m, d, &batch.input, NULL));
        mmix_tensor *loss = mmix_cross_entropy(m, logits, batch.target, -1);
        mmix_backward(m, loss);
        mmix_record(m, 0);
        for (int k = 0; k < 1 + (eye != NULL); k++) mmix_adamw_step(&state[k], &adam, 1, NULL);
        meter_show(&p, j, what, step + 1, steps, loss ? mmix_item(loss) : NAN);
        mmix_reset(m);
    }
    mmix_record(m, 0);
    for (int k = 0; k < 1 + (eye != NULL); k++) {
        mmix_optimizer_free(&state[k]);
        mmix_params_require_grad(list[k], 0);
    }
    if (mmix_error(m)) return -1;
    return interrupted ? 1 : 0;
}

static mmix_decoder_config decoder_config(const task *t, int blind)
{
    mmix_decoder_config c;
    memset(&c, 0, sizeof c);
    c.vocabulary = t->words;
    c.dim = DIM;
    c.depth = DECODER_DEPTH;
    c.ffn = FFN;
    c.heads = HEADS;
    if (t->clips && !blind) {
        c.media = DIM;
        c.rope.sections[0] = 2;  /* of the 8 pairs of a head: frames, rows, columns */
        c.rope.sections[1] = c.rope.sections[2] = 3;
    }
    return c;
}

static mmix_vision *eye_create(mmix_ctx *m, size_t side)
{
    mmix_vision_config c = mmix_vision_config_vit(192, PATCH);
    c.dim = DIM;
    c.heads = HEADS;
    c.depth = EYE_DEPTH;
    c.grid = side / PATCH;
    c.drop_path = 0;
    return mmix_vision_create(m, c);
}

/* The library's first values, of deviation 0.02, are made for widths of many hundreds: at 64 the
   signal dies out and a teacher needs many times the steps. Matrices begin with 1/sqrt(inputs)
   here. */
static void widen(mmix_params *p, uint64_t stream)
{
    for (size_t i = 0; i < p->count; i++) {
        mmix_tensor *w = p->at[i].tensor;
        if (mmix_ndim(w) != 2 || p->at[i].start.kind != MMIX_INIT_NORMAL) continue;
        mmix_fill_normal(p->m, w, 1 / sqrt((double)mmix_shape(w, 1)), stream + i);
    }
}

/* What a teacher learned: the note beside its file. */
enum { TEACHER_NOTE = 120 };
static void teacher_note(const job *j, char note[TEACHER_NOTE])
{
    uint64_t rows = bytes_hash(BYTES_HASH, j->t.token, j->t.count * j->t.width * sizeof *j->t.token);
    snprintf(note, TEACHER_NOTE, "linmu teacher, --teach %zu, %zu rows a step, of %zu rows %016"
             PRIx64 "\n", j->o->teach[j->part], j->o->budget->teacher_batch, j->t.train, rows);
}
/* Whether the teacher of --load learned what is asked for. 0, or -1. */
static int check_teacher(const job *j, const char *path)
{
    char mine[TEACHER_NOTE];
    teacher_note(j, mine);
    char *note = there(path) ? bytes_text(j->m, path) : NULL;
    if (!mmix_error(j->m) && (!note || strcmp(note, mine)))
        mmix_fail(j->m, MMIX_ERROR_FILE, "%s: found \"%.*s\", expected \"%.*s\"; give what it "
                  "was", path,
                  note ? (int)strcspn(note, "\n") : 4, note ? note : "none",
                  (int)strcspn(mine, "\n"), mine);
    free(note);
    return mmix_error(j->m) ? -1 : 0;
}
/* A decoder that learned j->t, and its encoder if `eye` is not NULL: from files of --load, or
   trained and saved. 0, 1 after Ctrl-C, -1; both are the caller's in any case. */
static int learn(const job *j, const char *who, mmix_decoder **d, mmix_vision **eye)
{
    mmix_ctx *m = j->m;
    char path[1200], eye_path[1200], note_path[1200], note[TEACHER_NOTE];
    job_path(j, who, "safetensors", path, sizeof path);
    job_path(j, who, "txt", note_path, sizeof note_path);
    job_path(j, "encoder", "safetensors", eye_path, sizeof eye_path);
    if (j->o->load && there(path)) {
        if (check_teacher(j, note_path)) return -1;
        *d = mmix_decoder_load(m, path);
        if (eye) *eye = mmix_vision_load(m, eye_path);
        return mmix_error(m) ? -1 : 0;
    }
    *d = mmix_decoder_create(m, decoder_config(&j->t, !eye));
    if (eye) *eye = eye_create(m, j->t.look.size);
    if (mmix_error(m)) return -1;
    widen((*d)->params, 0);
    if (eye) widen(mmix_vision_params(*eye), 1000);
    int end = teach(j, who, *d, eye ? *eye : NULL);
    if (end) return end;
    teacher_note(j, note);
    if (report_write(note_path, note))
        return mmix_fail(m, MMIX_ERROR_FILE, "cannot write %s: %s", note_path, strerror(errno));
    if (eye) mmix_vision_save(m, *eye, eye_path);
    mmix_decoder_save(*d, path);                 /* last: where it is the others are */
    return mmix_error(m) ? -1 : 0;
}

/* ---- students -------------------------------------------------------------------------------- */

enum { STRETCHES = 60 };  /* of a learning curve: means of so many stretches at most */
typedef struct outcome {
    score score[1 + STAGES_MOST];  /* at the start and after each stage */
    size_t stages, done;                                 /* finished; optimizer steps made */
    double seconds, token[STRETCHES], hidden[STRETCHES];     /* sums of L_tok and L_hid … */
    size_t in[STRETCHES];                               /* … over so many steps */
} outcome;

/* How many of them there are: none without a step. */
static size_t stretches(const settings *o, int part)
{
    size_t total = STAGES * o->steps[part];
    return total < STRETCHES ? total : STRETCHES;
}

/* The stages of a variant, together as many steps as three of `steps`. */
static mmix_distill_config plan(const job *j, const variant *v)
{
    const mmix_distill_config three = mmix_distill_config_linmu();
    const size_t total = STAGES * j->o->steps[j->part];
    mmix_distill_config c = three;
    c.stages = v->stages;
    c.calibrate = 0;  /* done before the first score: see student_create */
    if (v->rank != FULL) {
        c.lora_rank = v->rank;
        c.lora_alpha = 2 * (double)v->rank;
    }
    for (size_t i = 0; i < c.stages; i++) {
        mmix_stage *s = &c.stage[i];
        *s = three.stage[c.stages <= STAGES ? STAGES - c.stages + i : i - (i > 0)];
        if (v->control == SWIN_FIRST ? !i : c.stages > STAGES && i == 1) s->train = MMIX_TRAIN_SWIN;
        s->steps = total * (i + 1) / c.stages - total * i / c.stages;
        s->warmup = s->steps / 20;
        if (c.stages == 1) {
            s->hidden = three.stage[0].hidden;
            s->lr = three.stage[0].lr;
        }
        s->lr *= stage_rate[j->part];
        if (!v->hidden) s->hidden = 0;
        if (v->rank == FULL && s->train & MMIX_TRAIN_LORA)
            s->train += MMIX_TRAIN_REST - MMIX_TRAIN_LORA;
        if (v->branches == MMIX_BRANCH_FLEX) s->train &= ~MMIX_TRAIN_SWIN;
        if (v->branches == MMIX_BRANCH_SWIN)
            s->train = (s->train | MMIX_TRAIN_SWIN) & ~MMIX_TRAIN_FLEX;
    }
    return c;
}

/* The batch of call `number`. */
static int exercise(const job *j, uint64_t number, mmix_distill_batch *batch)
{
    size_t B = j->o->budget->batch[j->part], row[256];
    for (size_t b = 0; b < B; b++)
        row[b] = mmix_random_u32(j->m, ROWS_OF_STUDENT, number, b) % j->t.train;
    if (task_batch(&j->t, j->m, row, B, 0, NULL, batch)) return -1;
    /* a story is what the teacher decoded; answers that stand apart: L_seq is L_sup */
    if (j->part == TEXT || j->t.name) {
        batch->decoded = &batch->input;
        batch->decoded_target = batch->target;
    }
    return 0;
}

/* The converted teacher before it learns anything. */
static mmix_decoder *student_create(const job *j, const variant *v)
{
    mmix_mmate_options options;
    mmix_distill_batch batch;
    memset(&options, 0, sizeof options);
    options.branches = v->branches;
    memcpy(options.window, v->window, sizeof options.window);
    if (j->part == TEXT && v->branches != MMIX_BRANCH_FLEX) options.text_window = WINDOW;
    mmix_decoder *student = mmix_decoder_student(j->teacher, &options);
    mmix_params *p = student && v->control == RANDOM_START ? student->params : NULL;
    for (size_t i = 0; p && i < p->count; i++) {
        mmix_tensor *w = p->at[i].tensor;
        if (strstr(p->at[i].name, ".mmate.") && strstr(p->at[i].name, "_proj.weight") &&
            !strstr(p->at[i].name, ".dt_"))
            mmix_fill_normal(j->m, w, 1 / sqrt((double)mmix_shape(w, 1)), 5000 + i);
    }
    if (student && v->branches != MMIX_BRANCH_SWIN && v->control != NOT_CALIBRATED &&
        !exercise(j, 0, &batch))
        mmix_decoder_calibrate(student, j->teacher, &batch.input);
    mmix_reset(j->m);
    return student;
}

/* A run's note: what the run belongs to, then the numbers of its outcome. Text of at most
   NOTE_ROOM bytes. */
enum { NOTE_ROOM = 16384 };
static void write_note(const job *j, const variant *v, const outcome *out, char *note)
{
    size_t n = (size_t)snprintf(note, NOTE_ROOM, "linmu %s %s %zu %016" PRIx64 "\n%.3f %zu %zu\n",
                                part_name[j->part],
                                v->key, j->o->steps[j->part], j->print, out->seconds, out->done,
                                out->stages);
    for (int i = 0; i <= STAGES_MOST; i++)
        n += (size_t)snprintf(note + n, NOTE_ROOM - n, "%.17g %.17g %zu\n", out->score[i].loss,
                              out->score[i].right, out->score[i].asked);
    for (int i = 0; i < STRETCHES; i++)
        n += (size_t)snprintf(note + n, NOTE_ROOM - n, "%.9g %.9g %zu\n", out->token[i],
                              out->hidden[i], out->in[i]);
}

/* 0, or -1: not its note */
static int read_note(const job *j, const variant *v, const char *note, outcome *out)
{
    char *mine = (char *)malloc(NOTE_ROOM), *at;
    if (!mine) return -1;
    write_note(j, v, out, mine);
    size_t head = strcspn(mine, "\n");
    int same = !strncmp(note, mine, head + 1);
    free(mine);
    if (!same) return -1;
    out->seconds = strtod(note + head, &at);
    out->done = strtoul(at, &at, 10);
    out->stages = strtoul(at, &at, 10);
    for (int i = 0; i <= STAGES_MOST; i++) {
        out->score[i].loss = strtod(at, &at);
        out->score[i].right = strtod(at, &at);
        out->score[i].asked = strtoul(at, &at, 10);
    }
    for (int i = 0; i < STRETCHES; i++) {
        out->token[i] = strtod(at, &at);
        out->hidden[i] = strtod(at, &at);
        out->in[i] = strtoul(at, &at, 10);
    }
    return out->stages > STAGES_MOST || strspn(at, "\n") != strlen(at) ? -1 : 0;
}

/* What a finished run leaves: its note, and of the first variant its student. 0, or -1. */
static int keep(const job *j, const variant *v, const outcome *out, const mmix_decoder *student)
{
    char path[1200], *note = (char *)malloc(NOTE_ROOM);
    if (!note) return mmix_fail(j->m, MMIX_ERROR_MEMORY, "no memory for a note");
    write_note(j, v, out, note);
    mmix_decoder_save(student, job_path(j, v->key, "student.safetensors", path, sizeof path));
    int bad = report_write(job_path(j, v->key, "txt", path, sizeof path), note);
    free(note);
    if (bad) return mmix_fail(j->m, MMIX_ERROR_FILE, "cannot write %s: %s", path, strerror(errno));
    job_path(j, v->key, "safetensors", path, sizeof path);
    if (there(path)) remove(path);
    return mmix_error(j->m) ? -1 : 0;
}

static int save(const job *j, const variant *v, const mmix_distill *run, const outcome *out)
{
    char path[1200], *note = (char *)malloc(NOTE_ROOM);
    if (!note) return mmix_fail(j->m, MMIX_ERROR_MEMORY, "no memory to save the run");
    write_note(j, v, out, note);
    int bad = mmix_distill_save(run, job_path(j, v->key, "safetensors", path, sizeof path), note);
    free(note);
    return bad;
}

/* Whether --load has the end of a run; then *student, too. */
static int finished(const job *j, const variant *v, outcome *out, mmix_decoder **student)
{
    char path[1200];
    if (!j->o->load || !there(job_path(j, v->key, "txt", path, sizeof path))) return 0;
    char *note = bytes_text(j->m, path);
    if (note && read_note(j, v, note, out))
        mmix_fail(j->m, MMIX_ERROR_FILE,
                  "%s: of a run with other settings; give them as they were, or begin anew "
                  "without --load", path);
    free(note);
    *student = mmix_decoder_load(j->m, job_path(j, v->key, "student.safetensors", path,
                                                sizeof path));
    return 1;
}

/* One variant from its start, or from where its file left it, to the end, scored after each
   stage. 0, 1 if it was interrupted (and saved), -1; *student is the caller's in any case. */
static int distil(const job *j, const variant *v, outcome *out, mmix_decoder **student)
{
    mmix_ctx *m = j->m;
    char path[1200];
    mmix_distill *run = NULL;
    size_t total = STAGES * j->o->steps[j->part];
    size_t held = held_rows(&j->t, j->o);
    *student = NULL;
    memset(out, 0, sizeof *out);
    if (finished(j, v, out, student)) return mmix_error(m) ? -1 : 0;
    if (j->o->load && there(job_path(j, v->key, "safetensors", path, sizeof path))) {
        run = mmix_distill_load(j->teacher, path, student);
        if (run && read_note(j, v, run->note, out))
            mmix_fail(m, MMIX_ERROR_FILE,
                      "%s: of a run with other settings; give them as they were, or begin anew "
                      "without --load", path);
    } else {
        *student = student_create(j, v);
        if (*student) rate(m, &j->t, *student, held, 0, &out->score[0], NULL);
        if (!mmix_error(m)) run = mmix_distill_create(j->teacher, *student, plan(j, v));
    }
    meter p = meter_start(out->done);
    double saved = p.start, before = out->seconds;
    while (run && !mmix_error(m) && !interrupted) {
        mmix_distill_batch batch;
        mmix_distill_stats s;
        if (exercise(j, run->number, &batch)) break;
        int was = mmix_multiply_bf16(m, j->o->bf16);
        int more = mmix_distill_step(run, &batch, &s);
        mmix_multiply_bf16(m, was);
        if (more <= 0) break;
        size_t n = stretches(j->o, j->part);
        size_t at = out->done * n / total;
        at = at < n ? at : n - 1;
        out->token[at] += s.token;
        out->hidden[at] += s.hidden;
        out->in[at]++;
        out->done++;
        mmix_reset(m);
        if (s.step + 1 == s.steps)
            rate(m, &j->t, *student, held, 0, &out->score[++out->stages], NULL);
        out->seconds = before + now() - p.start;
        meter_show(&p, j, v->key, out->done, total, s.loss);
        if (now() - saved > SAVE_SECONDS && !save(j, v, run, out)) saved = now();
    }
    int stopped = interrupted && !mmix_error(m);
    if (stopped && run) save(j, v, run, out);
    mmix_distill_destroy(run);
    mmix_reset(m);
    if (!mmix_error(m) && !stopped) keep(j, v, out, *student);
    return mmix_error(m) ? -1 : stopped;
}

/* ---- text: stories --------------------------------------------------------------------------- */

enum { TEMPLATE_WORDS = 64, TEMPLATES = 20000 };

/* Story `index` of scenes.h as the next row of the task. 0, or -1. */
static int task_template(task *t, mmix_ctx *m, uint64_t seed, uint64_t index)
{
    int32_t *token = t->token + t->count * t->width;
    int32_t *target = t->target + t->count * t->width;
    char text[512];
    scene_story(seed, index, text, sizeof text);
    token[0] = END;
    size_t words = task_text(t, m, text, 1);
    for (size_t i = 0; i < words; i++) target[i] = i + 1 < words ? token[i + 1] : END;
    t->length[t->count++] = words;
    return words ? 0 : -1;
}

/* The teacher tells stories, at temperature 1, each in a stream of random numbers of its own:
   they take the place of j->t. 0, 1 after Ctrl-C, -1. */
static int tell_stories(job *j)
{
    enum { AT_ONCE = 32 };
    mmix_ctx *m = j->m;
    const budget *b = j->o->budget;
    size_t width = j->t.width ? j->t.width : b->words;
    size_t rows = b->examples[TEXT] + b->held[TEXT];
    size_t shape[2] = {AT_ONCE, 1};
    task old = j->t;
    int32_t *made = (int32_t *)malloc(AT_ONCE * width * sizeof *made);
    meter p = meter_start(0);
    memset(&j->t, 0, sizeof j->t);
    if (!made) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for stories");
    if (made && !task_rows(&j->t, m, rows, width) && old.word) {
        memcpy(j->t.word, old.word, WORDS_MOST * sizeof *old.word);
        j->t.words = old.words;
    }
    task_free(&old);
    for (j->t.train = b->examples[TEXT]; j->t.count < rows && !mmix_error(m) && !interrupted;) {
        mmix_sampling sampling;
        mmix_sequence begin;
        memset(&sampling, 0, sizeof sampling);
        memset(&begin, 0, sizeof begin);
        sampling.temperature = 1;
        sampling.stream = j->t.count;
        sampling.stop = END;
        begin.tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
        if (!begin.tokens) break;
        mmix_fill(begin.tokens, END);
        if (!mmix_decoder_generate(m, j->teacher, &begin, &sampling, made, width)) break;
        for (size_t r = 0; r < AT_ONCE && j->t.count < rows; r++, j->t.count++) {
            int32_t *token = j->t.token + j->t.count * width;
            int32_t *target = j->t.target + j->t.count * width;
            size_t n = 0;
            do {
                token[n] = n ? target[n - 1] : END;
                target[n] = made[r * width + n];
            } while (target[n++] != END && n < width);
            j->t.length[j->t.count] = n;
        }
        mmix_reset(m);
        meter_show(&p, j, "stories", j->t.count, rows, NAN);
    }
    free(made);
    if (mmix_error(m)) return -1;
    return interrupted ? 1 : 0;
}

/* Teacher and stories. 0, 1 after Ctrl-C, -1. */
static int prepare_text(job *j)
{
    mmix_ctx *m = j->m;
    if (j->o->teacher) {
        report_say("text, seed %" PRIu64 ": %s tells stories to learn from", j->seed,
                   j->o->teacher);
        j->teacher = mmix_decoder_load(m, j->o->teacher);
        if (j->teacher && j->o->tokenizer) j->tokenizer = tokenizer_load(m, j->o->tokenizer);
        return mmix_error(m) ? -1 : tell_stories(j);
    }
    report_say("text: no pretrained teacher here (--teacher names one): a small one learns "
               "stories made of templates, words as tokens");
    if (task_rows(&j->t, m, TEMPLATES, TEMPLATE_WORDS)) return -1;
    for (size_t i = 0; i < TEMPLATES; i++)
        if (task_template(&j->t, m, j->seed, i)) return -1;
    j->t.train = TEMPLATES;
    int end = learn(j, "teacher", &j->teacher, NULL);
    return end ? end : tell_stories(j);
}

/* ---- pictures and films: drawn ones, or easy-VQA --------------------------------------------- */

enum { PICTURE_SIDE = 64, DRAWN_SIDE = 32, FRAMES = 4, QUESTION_WORDS = 12 };
/* Of --frames: frames of so many pixels a side, behind each its number as a word; a row asks for
   the color in so many. */
enum { SMALL_SIDE = 8, RECALLED = 8 };

typedef struct drawing {
    task *t;
    uint64_t seed;
} drawing;
static void draw_task(void *arg, size_t i)               /* picture i of all */
{
    const drawing *d = (const drawing *)arg;
    size_t frames = d->t->frames, side = d->t->look.size;
    scene_clip clip = scene_clip_make(d->seed, i / frames, (int)frames);
    scene_clip_paint(&clip, (int)(i % frames), (int)side, d->t->look.train.rgb + i * side * side *
                     3);
}

static scene_clip still_of(uint64_t seed, size_t index)  /* a picture with one thing in it */
{
    scene_clip c = scene_clip_make(seed, index, 1);
    c.things = 1;
    return c;
}
static void draw_still(void *arg, size_t i)              /* frame i of all films */
{
    const drawing *d = (const drawing *)arg;
    size_t side = d->t->look.size;
    scene_clip c = still_of(d->seed, i);
    scene_clip_paint(&c, 0, (int)side, d->t->look.train.rgb + i * side * side * 3);
}

/* Films of --frames pictures that have nothing to do with each other; a row of a film is
   RECALLED numbers of frames, behind each of which its color is wanted. 0, or -1. */
static int draw_films(job *j)
{
    const budget *b = j->o->budget;
    task *t = &j->t;
    size_t train = b->examples[VIDEO];
    size_t clips = train + b->held[VIDEO];
    size_t frames = j->o->frames;
    drawing d = {t, j->seed};
    char number[32];
    report_say("video, seed %" PRIu64 ": drawing %zu films of %zu pictures", j->seed, clips,
               frames);
    if (task_rows(t, j->m, clips * SCENE_QUESTIONS, RECALLED) || task_clips(t, j->m, clips, train,
            frames, SMALL_SIDE))
        return -1;
    mmix_parallel_for(j->m, clips * frames, draw_still, &d);
    t->span.separators = 1;
    t->name = (int32_t *)calloc(frames, sizeof *t->name);
    if (!t->name) return mmix_fail(j->m, MMIX_ERROR_MEMORY, "no memory for %zu words", frames);
    for (size_t f = 0; f < frames; f++) {
        snprintf(number, sizeof number, "frame-%zu", f + 1);
        t->name[f] = task_word(t, j->m, number, strlen(number));
    }
    for (size_t r = 0; r < clips * SCENE_QUESTIONS && !mmix_error(j->m); r++) {
        size_t c = r / SCENE_QUESTIONS;
        for (size_t k = 0; k < RECALLED; k++) {
            size_t f = mmix_random_u32(j->m, FRAMES_ASKED, r, k) % frames;
            const char *color = scene_colour_name[still_of(j->seed, c * frames + f).at[0].colour];
            t->token[r * RECALLED + k] = t->name[f];
            t->target[r * RECALLED + k] = task_word(t, j->m, color, strlen(color));
        }
        t->length[r] = RECALLED;
        t->clip[r] = c;
        t->first[c + 1] = t->count = r + 1;
        if (c < train) t->train = t->count;
    }
    return mmix_error(j->m) ? -1 : 0;
}

/* Pictures or films drawn here, and questions about them. 0, or -1. */
static int draw_clips(job *j)
{
    const budget *b = j->o->budget;
    size_t train = b->examples[j->part];
    size_t clips = train + b->held[j->part];
    size_t frames = j->part == VIDEO ? FRAMES : 1;
    drawing d = {&j->t, j->seed};
    report_say("%s, seed %" PRIu64 ": drawing %zu pictures of %d x %d pixels", part_name[j->part],
               j->seed, clips * frames, DRAWN_SIDE, DRAWN_SIDE);
    if (task_rows(&j->t, j->m, clips * SCENE_QUESTIONS, QUESTION_WORDS)) return -1;
    if (task_clips(&j->t, j->m, clips, train, frames, DRAWN_SIDE)) return -1;
    mmix_parallel_for(j->m, clips * frames, draw_task, &d);
    for (size_t i = 0; i < clips * SCENE_QUESTIONS; i++) {
        size_t c = i / SCENE_QUESTIONS;
        scene_clip clip = scene_clip_make(j->seed, c, (int)frames);
        char question[96];
        const char *answer = scene_clip_ask(&clip, (int)(i % SCENE_QUESTIONS), question,
                                            sizeof question);
        if (task_ask(&j->t, j->m, c, question, answer)) return -1;
    }
    return 0;
}

/* The next "string" of easy-VQA's JSON (without escapes), its end replaced by 0; NULL if there
   is none. */
static char *json_string(char **at)
{
    char *start = *at ? strchr(*at, '"') : NULL;
    char *end = start ? strchr(start + 1, '"') : NULL;
    if (!end || memchr(start, '\\', (size_t)(end - start))) return NULL;
    *end = 0;
    *at = end + 1;
    return start + 1;
}

/* easy-VQA: questions.json is [["question?", "answer", picture], …], pictures rising; the test
   set is held back. */
static int load_questions(job *j)
{
    static const char *const half[2] = {"train", "test"};
    mmix_ctx *m = j->m;
    char path[1200], *text[2] = {NULL, NULL};
    report_say("pictures, seed %" PRIu64 ": reading %s", j->seed, j->o->data);
    size_t rows = 0, clips[2] = {0, 0}, first = 0;
    for (int k = 0; k < 2 && !mmix_error(m); k++) {
        snprintf(path, sizeof path, "%s/%s/questions.json", j->o->data, half[k]);
        text[k] = bytes_text(m, path);
        for (const char *c = text[k]; c && *c; c++) rows += *c == ']';
        const char *last = text[k] ? strrchr(text[k], ',') : NULL;
        clips[k] = last ? strtoul(last + 1, NULL, 10) + 1 : 0;
        if (text[k] && (!last || clips[k] > 1000000))
            mmix_fail(m, MMIX_ERROR_FILE,
                      "%s: expected [[\"question?\", \"answer\", picture], ...]", path);
    }
    if (!mmix_error(m) && !task_rows(&j->t, m, rows, QUESTION_WORDS))
        task_clips(&j->t, m, clips[0] + clips[1], clips[0], 1, PICTURE_SIDE);
    for (int k = 0; k < 2 && !mmix_error(m); k++) {
        char *at = text[k], *question;
        size_t before = 0;
        while (!mmix_error(m) && (question = json_string(&at)) != NULL) {
            char *answer = json_string(&at);
            char *end = at;
            size_t picture = answer && *at == ',' ? strtoul(at + 1, &end, 10) : clips[k];
            if (!answer || picture < before || picture >= clips[k] || *end != ']')
                mmix_fail(m, MMIX_ERROR_FILE,
                          "%s/%s/questions.json: behind \"%s\": expected an answer and the number "
                          "of a picture, not below the one before", j->o->data, half[k], question);
            else task_ask(&j->t, m, first + picture, question, answer);
            before = picture;
        }
        if (at && strchr(at, '"') && !mmix_error(m))
            mmix_fail(m, MMIX_ERROR_FILE,
                      "%s/%s/questions.json: a string without end, or a \\ in one", j->o->data,
                      half[k]);
        for (size_t c = 0; c < clips[k] && !mmix_error(m); c++) {
            if (j->t.first[first + c + 1] <= j->t.first[first + c])
                mmix_fail(m, MMIX_ERROR_FILE, "%s/%s/questions.json: none about picture %zu",
                          j->o->data, half[k], c);
            snprintf(path, sizeof path, "%s/%s/images/%zu.png", j->o->data, half[k], c);
            j->t.look.train.name[first + c] = picture_join(path, "", "");
        }
        first += clips[k];
    }
    free(text[0]);
    free(text[1]);
    if (!mmix_error(m) && picture_set_read(&j->t.look, m, &j->t.look.train, NULL))
        mmix_fail(m, MMIX_ERROR_FILE, "%s", j->t.look.error);
    /* One that is left out would give its number, and its questions, to the next. */
    const picture_notes *notes = &j->t.look.notes;
    if (!mmix_error(m) && notes->broken)
        mmix_fail(m, MMIX_ERROR_FILE, "%zu of %zu pictures cannot be read, but all are asked about; "
                  "the first: %s", notes->broken, j->t.clips, notes->first_broken);
    return mmix_error(m) ? -1 : 0;
}

/* Rows, teacher, and a decoder that hears the questions alone, scored. 0, 1 after Ctrl-C, -1. */
static int prepare_questions(job *j, score *blind)
{
    mmix_decoder *deaf = NULL;
    int bad;
    if (j->part == PICTURES && j->o->data) bad = load_questions(j);
    else if (j->part == VIDEO && j->o->frames) bad = draw_films(j);
    else bad = draw_clips(j);
    int end = bad ? -1 : learn(j, "blind", &deaf, NULL);
    if (!end) end = rate(j->m, &j->t, deaf, held_rows(&j->t, j->o), 1, blind, NULL);
    mmix_decoder_destroy(deaf);
    if (!end) end = learn(j, "teacher", &j->teacher, &j->eye);
    return end ? end : see_all(j->m, &j->t, j->eye);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* of one part and seed */
typedef struct result {
    score teacher, blind;
    outcome run[VARIANTS];
} result;

/* What stands in a table's row and column of a seed, or NULL: the last stage is always in the
   last column. */
static const score *table_score(const result *r, int row, int column)
{
    if (row < 0 && column < STAGES) return NULL;
    if (row < 0) return row == TEACHER ? &r->teacher : &r->blind;
    int stages = (int)variants[row].stages;
    int skipped = STAGES - stages;
    if (!column) return &r->run[row].score[0];
    return column > skipped ? &r->run[row].score[column - skipped] : NULL;
}

static const char *table_name(int row)
{
    if (row == TEACHER) return "teacher";
    return row == BLIND ? "the question alone" : variants[row].name;
}

static double score_value(int part, const score *s)      /* perplexity, or percent */
{
    return part == TEXT ? exp(s->loss) : 100 * s->right;
}

/* Wilson's 95 % interval of a share (Wilson 1927), in percent. */
static void wilson(double share, double n, double *low, double *high)
{
    double z = 1.959964;
    double middle = share + z * z / (2 * n);
    double root = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    *low = 100 * (middle - root) / (1 + z * z / n);
    *high = 100 * (middle + root) / (1 + z * z / n);
}

/* A share of right answers of all seeds together, and its standard error, in percent; NAN where
   there is none. */
static double table_share(const result *r, size_t seeds, int row, int column, double *error)
{
    double right = 0, asked = 0;
    for (size_t s = 0; s < seeds; s++) {
        const score *one = table_score(&r[s], row, column);
        if (one) {
            right += one->right * (double)one->asked;
            asked += (double)one->asked;
        }
    }
    right /= asked;
    *error = 100 * sqrt(right * (1 - right) / asked);
    return 100 * right;
}

/* The mean over the seeds; of shares Wilson's interval of all seeds' answers together, [low
   high]; of several seeds the least and the largest, (low to high). */
static void table_cell(char *out, size_t room, int part, const result *r, size_t seeds, int row,
                       int column)
{
    double mean = 0, low = INFINITY, high = -INFINITY, asked = 0, a, b;
    const char *format = part == TEXT ? "%.2f" : "%.1f";
    const char *spread = part == TEXT ? " (%.2f to %.2f)" : " (%.1f to %.1f)";
    for (size_t s = 0; s < seeds; s++) {
        const score *one = table_score(&r[s], row, column);
        double v = one && one->asked ? score_value(part, one) : NAN;
        mean += v / (double)seeds;
        low = fmin(low, v);
        high = fmax(high, v);
        asked += one ? (double)one->asked : 0;
    }
    if (!isfinite(mean)) {
        snprintf(out, room, "-");
        return;
    }
    size_t n = (size_t)snprintf(out, room, format, mean);
    wilson(mean / 100, asked, &a, &b);
    if (part != TEXT) n += (size_t)snprintf(out + n, room - n, " [%.1f %.1f]", a, b);
    if (seeds > 1) snprintf(out + n, room - n, spread, low, high);
}

static void print_table(const settings *o, int part, const result *r)
{
    char cell[COLUMNS][64];
    static const char *const head[COLUMNS] = {"start", "stage 1", "stage 2", "stage 3"};
    const char *what = part == TEXT ? "perplexity" : "right answers in percent";
    const char *plural = o->seeds > 1 ? "s" : "";
    int width = part == TEXT ? 8 : 18;
    if (o->seeds > 1) width += 17;
    printf("%s: %s, %zu steps, %zu seed%s\n", part_name[part], what, STAGES * o->steps[part],
           o->seeds, plural);
    printf("%-30s", "");
    for (int c = 0; c < COLUMNS; c++) printf(" %*s", width, head[c]);
    printf(" %8s\n", "seconds");
    for (int row = TEACHER; row < VARIANTS; row++) {
        if (!table_has(o, part, row)) continue;
        printf("%-30s", table_name(row));
        for (int c = 0; c < COLUMNS; c++) {
            table_cell(cell[c], sizeof cell[c], part, r, o->seeds, row, c);
            printf(" %*s", width, cell[c]);
        }
        if (row >= 0) printf(" %8.0f", r[0].run[row].seconds);
        printf("\n");
    }
    printf("\n");
    fflush(stdout);
}

static void report_stages(report *h, const settings *o, int part, const result *r)
{
    char cell[COLUMNS][80];
    report_table(h, part == TEXT ?
                 "perplexity|at the start|after stage 1|after stage 2|after stage 3|seconds" :
                 "right, %|at the start|after stage 1|after stage 2|after stage 3|seconds");
    for (int row = TEACHER; row < VARIANTS; row++) {
        if (!table_has(o, part, row)) continue;
        for (int c = 0; c < COLUMNS; c++) {
            double error[2], now_is = table_share(r, o->seeds, row, c, &error[0]);
            double was = table_share(r, o->seeds, row, 0, &error[1]);
            table_cell(cell[c], sizeof cell[c], part, r, o->seeds, row, c);
            if (part != TEXT && row >= 0 && c)
                strcat(cell[c], report_sign[1 + report_differ(now_is, error[0], was, error[1])]);
        }
        char seconds[32] = "";
        if (row >= 0) snprintf(seconds, sizeof seconds, "%.0f", r[0].run[row].seconds);
        report_row(h, "%s|%s|%s|%s|%s|%s", table_name(row), cell[0], cell[1], cell[2], cell[3],
                   seconds);
    }
    report_table(h, NULL);
    int text = part == TEXT;
    const char *measure = text ? "perplexities" : "right answers in percent";
    const char *rows = text ? "stories" : "questions";
    size_t asked = text ? o->budget->held[TEXT] : r[0].teacher.asked;
    report_html(h, "<p class=\"soft\">The numbers are %s on %zu held-back %s. All students make "
                   "%zu optimizer steps of %zu rows. Two stages leave out the first; in a single "
                   "stage everything trains with all losses at once. Their last score stands under "
                   "stage 3, as that of four does, the first of which has none here.",
                measure, asked, rows, STAGES * o->steps[part], o->budget->batch[part]);
    if (text)
        report_html(h, " A perplexity of n: the model is as unsure of the next token as among n "
                       "equally likely ones; less is better.");
    else
        report_html(h, " In brackets stands Wilson&rsquo;s 95&nbsp;%% interval; &#9650; and "
                       "&#9660; mark what is more than two standard errors above or below the "
                       "start.");
    if (o->seeds > 1)
        report_html(h, " They are means over the seeds; behind them stand the least and the "
                       "largest.");
    report_html(h, "</p>\n");
}

/* Learning curves of the first variants, means over the seeds: L_tok and L_hid. */
static void report_learning(report *h, const settings *o, int part, const result *r)
{
    static double x[STRETCHES], y[2][CURVES][STRETCHES];
    report_plot plot[2];
    char caption[300];
    size_t total = STAGES * o->steps[part];
    size_t n = stretches(o, part);
    memset(plot, 0, sizeof plot);
    snprintf(caption, sizeof caption,
             "How far the student's next token is from the teacher's (KL divergence, a loss). "
             "Stages of three begin anew after %zu and %zu steps: other weights and losses, so a "
             "curve may jump up there; that is no fault.",
             o->steps[part], 2 * o->steps[part]);
    plot[0].y_label = "L_tok, nats";
    plot[0].caption = caption;
    plot[1].y_label = "L_hid";
    plot[1].caption = "How far the outputs of the student's mixers are from the teacher's, where "
                      "that is a loss.";
    for (size_t i = 0; i < n; i++) x[i] = ((double)i + 0.5) * (double)total / (double)n;
    for (int k = 0; k < 2; k++) {
        plot[k].x_label = "step";
        plot[k].log_y = 1;
        for (int v = 0; v < CURVES; v++) {
            if (!table_has(o, part, v) || (k && !variants[v].hidden)) continue;
            for (size_t i = 0; i < n; i++) {
                double sum = 0, in = 0;
                for (size_t s = 0; s < o->seeds; s++) {
                    sum += k ? r[s].run[v].hidden[i] : r[s].run[v].token[i];
                    in += (double)r[s].run[v].in[i];
                }
                y[k][v][i] = in > 0 && sum > 0 ? sum / in : NAN;
            }
            report_curve c = {variants[v].name, x, y[k][v], n, v, 0};
            plot[k].curve[plot[k].curves++] = c;
        }
    }
    report_html(h, "<div class=\"row\">\n");
    report_chart(h, &plot[0]);
    report_chart(h, &plot[1]);
    report_html(h, "</div>\n");
}

static void json_scores(const settings *o, int part, const result *r)
{
    const char *comma = "";
    printf("\"%s\": [", part_name[part]);
    for (size_t s = 0; s < o->seeds; s++)
        for (int row = TEACHER; row < VARIANTS; row++) {
            if (!table_has(o, part, row)) continue;
            const char *key = row == TEACHER ? "teacher" : "blind";
            if (row != TEACHER && row != BLIND) key = variants[row].key;
            printf("%s\n  {\"seed\": %" PRIu64 ", \"run\": \"%s\", \"scores\": [", comma,
                   o->seed + s, key);
            comma = "";
            for (int c = 0; c < COLUMNS; c++) {
                const score *one = table_score(&r[s], row, c);
                if (one && one->asked) printf("%s%.6g", comma, score_value(part, one));
                else printf("%snull", comma);
                comma = ", ";
            }
            printf("]}");
            comma = ",";
        }
    printf("\n ]");
}

/* ---- heads: whose matrices are how near to the teacher's ------------------------------------- */

enum { HEAD_STORIES = 8, HEAD_TOKENS = 64, NEAREST = 4 };
typedef struct head {
    double share, reach;  /* of the teacher's: within NEAREST tokens; mean distance */
    double own[2];  /* share of the student's, at the start and at the end */
    double distance[2], sine[2];  /* to the student's M, at the start and at the end */
} head;

/* The first `length` words of held-back story i as a sequence; 0, or -1 if it is shorter. */
static int head_sequence(const job *j, size_t i, size_t length, mmix_sequence *s)
{
    size_t row = j->t.train + i;
    size_t shape[2] = {1, length};
    memset(s, 0, sizeof *s);
    if (row >= j->t.count || j->t.length[row] < length) return -1;
    s->tokens = mmix_from_i32(j->m, 2, shape, j->t.token + row * j->t.width);
    return s->tokens ? 0 : -1;
}

static size_t head_length(const task *t)
{
    return t->width / 2 < HEAD_TOKENS ? t->width / 2 : HEAD_TOKENS;
}

/* Adds one layer's matrices on one story to its heads. */
static void add_heads(mmix_ctx *m, const mmix_decoder *teacher, const mmix_decoder *const *student,
                      const mmix_sequence *sequence, size_t layer, size_t H, head *h)
{
    size_t L = mmix_shape(sequence->tokens, 1);
    size_t n = L * L;
    mmix_tensor *M = mmix_decoder_matrix(m, teacher, sequence, layer);
    double distance[64], share[64];
    if (!M) return;
    const mmix_real *a = mmix_data(M);
    head_reach(a, H, 1, L, NEAREST, share, distance);
    for (size_t k = 0; k < H; k++) {
        h[k].share += share[k];
        h[k].reach += distance[k];
    }
    for (int s = 0; s < 2; s++) {
        mmix_tensor *S = mmix_decoder_matrix(m, student[s], sequence, layer);
        if (!S) return;
        mmix_real *b = mmix_data(S);
        head_reach(b, H, 1, L, NEAREST, share, NULL);
        for (size_t k = 0; k < H; k++) h[k].own[s] += share[k];
        matrix_distance(a, b, H, n, NULL, distance);
        for (size_t k = 0; k < H; k++) {
            double ab = 0, bb = 0;
            h[k].distance[s] += distance[k];
            for (size_t i = k * n; i < (k + 1) * n; i++) {
                ab += (double)a[i] * (double)b[i];
                bb += (double)b[i] * (double)b[i];
            }
            for (size_t i = k * n; bb > 0 && i < (k + 1) * n; i++)
                b[i] = (mmix_real)((double)b[i] * ab / bb);
        }
        matrix_distance(a, b, H, n, NULL, distance);  /* after the best scaling: the angle's sine */
        for (size_t k = 0; k < H; k++) h[k].sine[s] += distance[k];
    }
}

/* Means over stories, layer after layer, (depth, heads); how many stories there were. */
static size_t compare_heads(const job *j, const mmix_decoder *const *student, head *h)
{
    const mmix_decoder_config *c = &j->teacher->config;
    size_t stories = 0;
    size_t count = c->depth * c->heads;
    memset(h, 0, count * sizeof *h);
    for (size_t i = 0; stories < HEAD_STORIES && j->t.train + i < j->t.count && !mmix_error(j->m);
         i++) {
        mmix_mark mark = mmix_mark_here(j->m);
        mmix_sequence s;
        if (head_sequence(j, i, head_length(&j->t), &s)) continue;
        for (size_t l = 0; l < c->depth; l++)
            add_heads(j->m, j->teacher, student, &s, l, c->heads, h + l * c->heads);
        mmix_rewind(j->m, mark);
        stories++;
    }
    for (size_t k = 0; k < count; k++) {
        h[k].share /= (double)stories;
        h[k].reach /= (double)stories;
        for (int s = 0; s < 2; s++) {
            h[k].distance[s] /= (double)stories;
            h[k].sine[s] /= (double)stories;
            h[k].own[s] /= (double)stories;
        }
    }
    return stories;
}

/* √(|M|/max) of one head as a picture. */
static void report_matrix(report *h, const job *j, const mmix_decoder *d, const mmix_sequence *s,
                          size_t at)
{
    const mmix_decoder_config *c = &d->config;
    size_t L = mmix_shape(s->tokens, 1);
    size_t n = L * L;
    size_t layer = at / c->heads;
    mmix_tensor *M = mmix_decoder_matrix(j->m, d, s, layer);
    uint8_t *rgb = (uint8_t *)malloc(n * 3);
    double most = 0;
    char name[64];
    if (M && rgb) {
        const mmix_real *one = mmix_data(M) + at % c->heads * n;
        for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)one[i]));
        for (size_t i = 0; i < n; i++)
            report_heat(most > 0 ? sqrt(fabs((double)one[i]) / most) : 0, rgb + 3 * i);
        snprintf(name, sizeof name, "M of layer %zu, head %zu", layer, at % c->heads);
        report_picture(h, rgb, L, L, 160, name);
    }
    free(rgb);
}

static void report_heads(report *h, const job *j, const mmix_decoder *start,
                         const mmix_decoder *end)
{
    const mmix_decoder_config *c = &j->teacher->config;
    const mmix_decoder *student[2], *shown[3];
    size_t count = c->depth * c->heads;
    size_t most[2] = {0, 0};
    size_t length = head_length(&j->t);
    head *all = (head *)calloc(count, sizeof *all), sum[2];
    double local[2] = {0, 0};
    static const char *const kind[2] = {"local", "global"};
    mmix_sequence s;
    student[0] = start;
    student[1] = end;
    shown[0] = j->teacher;
    memcpy(shown + 1, student, sizeof student);
    if (!all || c->heads > 64 || !compare_heads(j, student, all)) {
        free(all);
        return;
    }
    memset(sum, 0, sizeof sum);
    for (size_t k = 0; k < count; k++) {
        if (all[k].share > all[most[0]].share) most[0] = k;
        if (all[k].share < all[most[1]].share) most[1] = k;
    }
    report_html(h, "<h3>What the heads look at</h3>\n");
    size_t story = 0;
    while (j->t.train + story < j->t.count && head_sequence(j, story, length, &s)) story++;
    report_html(h, "<div class=\"wide\"><table class=\"pictures\"><tr><th></th><th>teacher</th>"
                   "<th>student at the start</th><th>after stage 3</th></tr>\n");
    for (int k = 0; k < 2; k++) {
        report_html(h, "<tr><td class=\"soft\">the most %s head: %zu, %zu</td>", kind[k],
                    most[k] / c->heads, most[k] % c->heads);
        for (int i = 0; i < 3; i++) {
            report_html(h, "<td>");
            report_matrix(h, j, shown[i], &s, most[k]);
            report_html(h, "</td>");
        }
        report_html(h, "</tr>\n");
    }
    report_html(h, "</table></div>\n<p class=\"soft\">Row i of M says how much token i takes from "
                   "each token of a story. The pictures show &radic;(|M| / its largest), from "
                   "violet (0) to yellow (1).</p>\n");
    report_table(h, "layer, head|teacher: within 4 tokens|mean distance|it is|student: within 4 "
                    "tokens at the start|at the end|distance of M at the start|at the end|best "
                    "scaled, at the start|at the end");
    for (size_t k = 0; k < count; k++) {
        int distant = all[k].share < 0.5;
        local[distant]++;
        for (int i = 0; i < 2; i++) {
            sum[distant].distance[i] += all[k].distance[i];
            sum[distant].sine[i] += all[k].sine[i];
            sum[distant].own[i] += all[k].own[i];
        }
        sum[distant].share += all[k].share;
        report_row(h, "%zu, %zu|%.2f|%.1f|%s|%.2f|%.2f|%.3f|%.3f|%.3f|%.3f", k / c->heads,
                   k % c->heads, all[k].share,
                   all[k].reach, kind[distant], all[k].own[0], all[k].own[1], all[k].distance[0],
                   all[k].distance[1], all[k].sine[0], all[k].sine[1]);
    }
    for (int distant = 0; distant < 2; distant++) {
        if (!(local[distant] > 0)) continue;
        double n = local[distant];
        double *d = sum[distant].distance;
        double *e = sum[distant].sine;
        double *w = sum[distant].own;
        report_row(h, "mean of %g %s|%.2f|||%.2f|%.2f|%.3f|%.3f|%.3f|%.3f", n, kind[distant],
                   sum[distant].share / n, w[0] / n,
                   w[1] / n, d[0] / n, d[1] / n, e[0] / n, e[1] / n);
        if (!j->o->json)
            printf("text: %g %s heads: within %d tokens %.2f, the student %.2f -> %.2f; distance "
                   "of M %.3f -> %.3f, best scaled %.3f -> "
                   "%.3f\n", n, kind[distant], NEAREST, sum[distant].share / n,
                   w[0] / n, w[1] / n, d[0] / n, d[1] / n, e[0] / n, e[1] / n);
    }
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">All is measured on %zu tokens of held-back stories. A head "
                   "is called local where half of &Sigma;|M| or more lies within %d tokens, else "
                   "global. The distance is &Vert;M<sub>teacher</sub> &minus; "
                   "M<sub>student</sub>&Vert; / &Vert;M<sub>teacher</sub>&Vert;. Best scaled is "
                   "the least of it over all multiples of M<sub>student</sub>, the sine of the "
                   "angle between the two. At the start only o_proj is scaled, M stays as it "
                   "is.</p>\n", length, NEAREST);
    mmix_reset(j->m);
    free(all);
}

/* ---- examples -------------------------------------------------------------------------------- */

/* What tokens mean. */
static void report_tokens(report *h, const job *j, const int32_t *token, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (token[i] == END) continue;
        const char *piece = j->tokenizer ? tokenizer_piece(j->tokenizer, token[i], NULL) :
            j->t.word[token[i]];
        report_text(h, piece);
        if (!j->tokenizer) report_text(h, " ");
    }
}

static void report_stories(report *h, const job *j, const mmix_decoder *start,
                           const mmix_decoder *end)
{
    enum { PROMPT = 8, MORE = 80 };
    const mmix_decoder *d[3];
    static const char *const who[3] = {"teacher", "student at the start", "after stage 3"};
    int32_t *prompt = j->t.token + j->t.train * j->t.width, more[MORE];
    mmix_sampling greedy;
    memset(&greedy, 0, sizeof greedy);
    greedy.stop = END;
    d[0] = j->teacher;
    d[1] = start;
    d[2] = end;
    if (!j->tokenizer && j->o->teacher) return;          /* its words are not known here */
    report_html(h, "<h3>A story goes on</h3>\n");
    for (int k = 0; k < 3; k++) {
        const size_t shape[2] = { 1, PROMPT };
        mmix_reset(j->m);
        const mmix_sequence text = { mmix_from_i32(j->m, 2, shape, prompt), NULL, 0, NULL, NULL };
        size_t n = mmix_decoder_generate(j->m, d[k], &text, &greedy, more, MORE);
        report_html(h, "<p><b>%s</b>: <span class=\"soft\">", who[k]);
        report_tokens(h, j, prompt, PROMPT);
        report_html(h, "</span>");
        report_tokens(h, j, more, n);
        report_html(h, "</p>\n");
    }
}

static void report_questions(report *h, const job *j, const mmix_decoder *start,
                             const mmix_decoder *end)
{
    enum { SHOWN = 8 };
    const task *t = &j->t;
    const mmix_decoder *d[3];
    int32_t *said = (int32_t *)calloc(3 * SHOWN * t->width, sizeof *said);
    size_t side = t->look.size;
    size_t bytes = side * side * 3;
    score s;
    d[0] = j->teacher;
    d[1] = start;
    d[2] = end;
    for (size_t k = 0; k < 3; k++)
        if (!said || rate(j->m, t, d[k], SHOWN, 0, &s, said + k * SHOWN * t->width)) {
            free(said);
            return;
        }
    report_html(h, "<h3>Some questions</h3>\n");
    report_html(h, "<div class=\"wide\"><table class=\"pictures "
                   "said\"><tr><th></th><th>question</th><th>true "
                   "answer</th><th>teacher</th><th>student at the start</th><th>after stage "
                   "3</th></tr>\n");
    for (size_t i = 0; i < SHOWN; i++) {
        size_t row = held_row(t, i, SHOWN);
        size_t n = t->length[row];
        const int32_t *token = t->token + row * t->width;
        report_html(h, "<tr><td><div class=\"row\" style=\"gap:.2rem;min-width:100px\">");
        for (size_t f = 0; f < t->frames; f++)
            report_picture(h, t->look.train.rgb + (t->clip[row] * t->frames + f) * bytes, side,
                           side, t->frames > 1 ? 48 : 96, "");
        report_html(h, "</div></td><td>");
        for (size_t w = 0; w < n; w++) {
            report_text(h, t->word[token[w]]);
            report_text(h, w + 1 < n ? " " : "?");
        }
        report_html(h, "</td><td>");
        report_text(h, t->word[t->target[row * t->width + n - 1]]);
        for (size_t k = 0; k < 3; k++) {
            report_html(h, "</td><td>");
            report_text(h, t->word[said[(k * SHOWN + i) * t->width + n - 1]]);
        }
        report_html(h, "</td></tr>\n");
    }
    report_html(h, "</table></div>\n<p class=\"soft\">The questions are among those held back: "
                   "nobody has learned from them.</p>\n");
    free(said);
}

/* ---- the three parts that learn -------------------------------------------------------------- */

static void report_part(report *h, const job *j, const result *r, const mmix_decoder *student)
{
    const task *t = &j->t;
    const mmix_decoder_config *c = &j->teacher->config;
    const settings *o = j->o;
    static const char *const title[LEARNED] = {"Text", "Pictures", "Video"};
    report_html(h, "<h2>%s</h2>\n<p>", title[j->part]);
    if (j->part == TEXT) {
        report_html(h, "The teacher ");
        if (o->teacher) {
            report_html(h, "is <code>");
            report_text(h, o->teacher);
            report_html(h, "</code>");
        } else report_html(h, "was trained here on %d stories from templates", TEMPLATES);
        report_html(h, ". The data are %zu stories of at most %zu tokens that it told itself, at "
                       "temperature 1; %zu more, from other streams of random numbers, are held "
                       "back. M-MATE&rsquo;s window in text has %d tokens.",
                    t->train, t->width, t->count - t->train, WINDOW);
    } else {
        const char *each = j->part == VIDEO ? "film" : "picture";
        report_html(h, "The data are %zu questions about %zu %ss", t->train, t->train_clips, each);
        if (j->part == PICTURES && o->data) {
            report_html(h, " of <code>");
            report_text(h, o->data);
            report_html(h, "</code>");
        } else report_html(h, " that are drawn here");
        report_html(h, "; %zu questions about %zu others are held back. Encoder and teacher were "
                       "trained here (%zu steps of %zu questions); the encoder stays as it is. A "
                       "%s becomes %zu x %zu x %zu tokens.",
                       t->count - t->train,
                    t->clips - t->train_clips, o->teach[j->part], o->budget->teacher_batch, each,
                    t->span.grid[0], t->span.grid[1], t->span.grid[2]);
    }
    report_html(h, " The decoder has width %zu, %zu layers, %zu heads.%s</p>\n", c->dim, c->depth,
                c->heads,
                j->part == VIDEO ? " Where no window is named it holds the whole film." : "");
    mmix_decoder *start = student_create(j, variants + first_way(o, j->part));
    if (start) (j->part == TEXT ? report_stories : report_questions)(h, j, start, student);
    report_html(h, "<h3>How the students learn, and what they reach</h3>\n");
    if (report_few(STAGES * o->steps[j->part]))
        report_html(h, "<p><b>%zu steps a student: %s</b></p>\n", STAGES * o->steps[j->part],
                    report_few(STAGES * o->steps[j->part]));
    report_learning(h, o, j->part, r);
    report_stages(h, o, j->part, r);
    if (start && j->part == TEXT) report_heads(h, j, start, student);
    mmix_decoder_destroy(start);
}

static void job_free(job *j)
{
    tokenizer_free(j->tokenizer);
    mmix_decoder_destroy(j->teacher);
    mmix_vision_destroy(j->eye);
    task_free(&j->t);
}

/* Of --frames: right answers in percent by the quarter of the film that is asked for. */
static void print_recall(const job *j, int row, const mmix_decoder *d)
{
    const task *t = &j->t;
    size_t n = held_rows(t, j->o);
    size_t right[4] = {0, 0, 0, 0}, asked[4] = {0, 0, 0, 0};
    int32_t *said = (int32_t *)calloc(n * t->width, sizeof *said);
    score s;
    if (said && !rate(j->m, t, d, n, 0, &s, said)) {
        for (size_t i = 0; i < n * t->width; i++) {
            size_t at = held_row(t, i / t->width, n) * t->width + i % t->width;
            size_t f = 0;
            while (t->name[f] != t->token[at]) f++;
            right[f * 4 / t->frames] += said[i] == t->target[at];
            asked[f * 4 / t->frames]++;
        }
        printf("%zu frames, seed %" PRIu64 ", %-16s by quarter asked for:", t->frames, j->seed,
               table_name(row));
        for (int q = 0; q < 4; q++)
            if (asked[q]) printf(" %5.1f", 100 * (double)right[q] / (double)asked[q]);
        printf("  all %5.1f\n", 100 * s.right);
        fflush(stdout);
    }
    free(said);
}

/* One part, seed after seed; the last one's models are shown in the report. 0, 1 after Ctrl-C,
   -1. */
static int run_part(mmix_ctx *m, const settings *o, int part, result *r, report *h)
{
    int end = 0;
    for (size_t s = 0; s < o->seeds && !end; s++) {
        job j;
        mmix_decoder *first = NULL;
        memset(&j, 0, sizeof j);
        j.m = m;
        j.o = o;
        j.part = part;
        j.seed = o->seed + s;
        mmix_seed_set(m, j.seed);
        end = part == TEXT ? prepare_text(&j) : prepare_questions(&j, &r[s].blind);
        if (!end) {
            const mmix_params *p = j.teacher->params;
            size_t numbers[2] = {o->budget->batch[part], o->budget->tested};
            j.print = bytes_hash(BYTES_HASH, p->values, p->slab * sizeof *p->values);
            j.print = bytes_hash(j.print, j.t.token, j.t.count * j.t.width * sizeof *j.t.token);
            j.print = bytes_hash(j.print, numbers, sizeof numbers);
            j.print = bytes_hash(j.print, &j.t.frames, sizeof j.t.frames);
            j.print = bytes_hash(j.print, &o->teach[part], sizeof o->teach[part]);
            end = rate(m, &j.t, j.teacher, held_rows(&j.t, o), 0, &r[s].teacher, NULL);
        }
        for (int v = 0; v < VARIANTS && !end; v++) {
            mmix_decoder *student = NULL;
            if (!table_has(o, part, v)) continue;
            end = distil(&j, &variants[v], &r[s].run[v], &student);
            if (!end && j.t.name && !o->json) print_recall(&j, v, student);
            if (!first) first = student;
            else mmix_decoder_destroy(student);
        }
        if (!end && j.t.name && !o->json) print_recall(&j, TEACHER, j.teacher);
        if (!end && s + 1 == o->seeds) {
            if (!o->json) print_table(o, part, r);
            report_part(h, &j, r, first);
            end = mmix_error(m) ? -1 : 0;
        }
        mmix_decoder_destroy(first);
        job_free(&j);
        mmix_reset(m);
    }
    return end;
}

/* ---- scaling --------------------------------------------------------------------------------- */

enum { LENGTHS_MOST = 16, FIRST_LENGTH = 1024, ASKED = 16, ANSWERED = 32 };
enum { SIDE_TOKENS = PICTURE_SIDE / PATCH, FRAME_TOKENS = SIDE_TOKENS * SIDE_TOKENS };
enum { SCALE_DEPTH = 4, SCALE_DIM = 128, SCALE_HEADS = 4, SCALE_FFN = 344, SCALE_WORDS = 512 };
enum { ATTENTION, FLEX, SWIN, BOTH, WAYS };
static const char *const way_name[WAYS] = {"attention", "Flex-MA", "Local-Swin", "M-MATE"};
typedef struct length {
    double tokens, see;                                  /* of the film; seconds of the encoder */
    /* prefill, s; tokens a second; bytes */
    double first[WAYS], rate[WAYS], peak[WAYS], state[WAYS];
} length;

/* Seconds; with one thread of the processor, so that other programs on the machine don't count. */
static double time_of(const mmix_ctx *m) { return mmix_threads(m) > 1 ? now() :
                                          (double)clock() / CLOCKS_PER_SEC; }

/* Prefill of a film of n tokens and a question, then an answer, token by token; the best of up
   to three. In a context of its own, so that its memory is all that is counted. 0, or -1. */
static int time_decoder(mmix_ctx *m, mmix_decoder_config config, const mmix_real *media, size_t n,
                        int which, length *out)
{
    size_t shape[2] = {1, n + ASKED};
    size_t one[2] = {1, 1};
    mmix_span span = {0, {n / FRAME_TOKENS, SIDE_TOKENS, SIDE_TOKENS}, 0, 0};
    mmix_options options;
    double spent = 0;
    memset(&options, 0, sizeof options);
    options.threads = mmix_threads(m);
    options.seed = mmix_seed(m);
    mmix_ctx *own = mmix_create(&options);
    mmix_decoder *d = own ? mmix_decoder_create(own, config) : NULL;
    size_t weights = d ? mmix_memory(own).bytes : 0;
    out->first[which] = INFINITY;
    for (int turn = 0; d && turn < 3 && (!turn || spent < 6) && !interrupted && !mmix_error(own);
         turn++) {
        mmix_sequence film, word;
        memset(&film, 0, sizeof film);
        memset(&word, 0, sizeof word);
        film.tokens = mmix_new(own, MMIX_DTYPE_I32, 2, shape);
        film.media = mmix_new3(own, 1, n, DIM);
        film.spans = &span;
        film.n_spans = 1;
        if (!film.tokens || !film.media) break;
        mmix_fill(film.tokens, 1);
        memcpy(mmix_data(film.media), media, n * DIM * sizeof *media);
        mmix_mix_state *state = mmix_decoder_state_create(d);
        double start = time_of(own), took;
        mmix_decoder_step(own, d, &film, state);
        took = time_of(own) - start;
        spent += took;
        out->first[which] = fmin(out->first[which], took);
        out->peak[which] = (double)(mmix_memory(own).peak - weights);
        out->state[which] = (double)mmix_mix_state_bytes(state);
        mmix_reset(own);
        start = time_of(own);
        for (int i = 0; i < ANSWERED; i++) {
            word.tokens = mmix_new(own, MMIX_DTYPE_I32, 2, one);
            if (word.tokens) mmix_fill(word.tokens, 2);
            mmix_decoder_step(own, d, &word, state);
            mmix_reset(own);
        }
        out->rate[which] = fmax(out->rate[which], ANSWERED / fmax(time_of(own) - start, 1e-6));
        mmix_mix_state_destroy(state);
    }
    int bad = !d || mmix_error(own);
    if (bad) mmix_fail(m, mmix_error_kind(own), "%s", mmix_error(own));
    mmix_decoder_destroy(d);
    mmix_destroy(own);
    return bad ? -1 : 0;
}

/* The encoder's features (n, DIM) of a film of noise, 16 frames at a time. Returns seconds, the
   better of two runs. */
static double time_encoder(mmix_ctx *m, const mmix_vision *eye, mmix_real *media, size_t n,
                           int again)
{
    double start = time_of(m), took;
    for (size_t at = 0, frames; at < n && !mmix_error(m); at += frames * FRAME_TOKENS) {
        frames = (n - at) / FRAME_TOKENS < 16 ? (n - at) / FRAME_TOKENS : 16;
        mmix_tensor *image = mmix_new4(m, frames, 3, PICTURE_SIDE, PICTURE_SIDE);
        mmix_features f = mmix_vision_forward(m, eye, image ? mmix_fill_normal(m, image, 1, at) :
                                              NULL, NULL);
        if (f.patches) mmix_read(f.patches, media + at * DIM);
        mmix_reset(m);
    }
    took = time_of(m) - start;
    return again ? fmin(took, time_encoder(m, eye, media, n, 0)) : took;
}

static const report_column scaling_column[] = {
    {"encoder_seconds", "encoder", "encoder, s", 8, 3},
    {"prefill_seconds", "decoder", "decoder, s", 8, 3},
    {"us_per_token", "us/token", "decoder: µs a token", 8, 1},
    {"tokens_per_second", "tokens/s", "tokens a second, decoding", 8, 0},
    {"peak_mib", "peak MiB", "peak MiB", 8, 1},
    {"state_mib", "state MiB", "state, MiB", 9, 3},
};
enum { SCALING_COLUMNS = sizeof scaling_column / sizeof *scaling_column };

static void scaling_values(const length *x, int way, double *value)
{
    const double mib = 1048576, all[SCALING_COLUMNS] = {x->see, x->first[way],
                                                        1e6 * x->first[way] / (x->tokens + ASKED),
                                                        x->rate[way], x->peak[way] / mib,
                                                        x->state[way] / mib};
    memcpy(value, all, sizeof all);
}

/* 0, 1 after Ctrl-C, -1. */
static int run_scaling(mmix_ctx *m, const settings *o, length *x, size_t *lengths)
{
    report_say("scaling: films of %d to %zu tokens", FIRST_LENGTH, o->budget->longest);
    mmix_vision *eye = eye_create(m, PICTURE_SIDE);
    mmix_real *media = (mmix_real *)malloc(o->budget->longest * DIM * sizeof *media);
    mmix_decoder_config c;
    memset(&c, 0, sizeof c);
    c.vocabulary = SCALE_WORDS;
    c.dim = SCALE_DIM;
    c.depth = SCALE_DEPTH;
    c.heads = SCALE_HEADS;
    c.ffn = SCALE_FFN;
    c.media = DIM;
    if (!media) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu tokens", o->budget->longest);
    for (size_t n = FIRST_LENGTH; n <= o->budget->longest && !mmix_error(m) && !interrupted;
         n *= 2) {
        length *at = &x[*lengths];
        memset(at, 0, sizeof *at);
        at->tokens = (double)n;
        at->see = time_encoder(m, eye, media, n, 1);
        for (int k = 0; k < WAYS && !mmix_error(m); k++) {
            c.mixer = k == ATTENTION ? MMIX_DECODER_ATTENTION : MMIX_DECODER_MMATE;
            c.mmate.branches = MMIX_BRANCH_BOTH;
            if (k == FLEX) c.mmate.branches = MMIX_BRANCH_FLEX;
            if (k == SWIN) c.mmate.branches = MMIX_BRANCH_SWIN;
            time_decoder(m, c, media, n, k, at);
        }
        if (interrupted || mmix_error(m)) break;
        fprintf(stderr, "scaling: %zu tokens, encoder %.3f s, attention %.3f s, M-MATE %.3f s\n", n,
                at->see, at->first[ATTENTION], at->first[BOTH]);
        ++*lengths;
    }
    free(media);
    mmix_vision_destroy(eye);
    if (mmix_error(m)) return -1;
    return interrupted ? 1 : 0;
}

static void print_scaling(const length *x, size_t lengths)
{
    double value[SCALING_COLUMNS];
    char name[40];
    printf("scaling\n");
    report_columns_text(scaling_column, SCALING_COLUMNS, "tokens            ", NULL);
    for (size_t i = 0; i < lengths * WAYS; i++) {
        scaling_values(&x[i / WAYS], (int)(i % WAYS), value);
        snprintf(name, sizeof name, "%6.0f %-11s", x[i / WAYS].tokens, way_name[i % WAYS]);
        report_columns_text(scaling_column, SCALING_COLUMNS, name, value);
    }
}

static void json_scaling(const length *x, size_t lengths)
{
    double value[SCALING_COLUMNS];
    printf("\"scaling\": [");
    for (size_t i = 0; i < lengths * WAYS; i++) {
        scaling_values(&x[i / WAYS], (int)(i % WAYS), value);
        printf("%s\n  {\"decoder\": \"%s\", ", i ? "," : "", way_name[i % WAYS]);
        report_json("tokens", x[i / WAYS].tokens, "");
        for (int c = 0; c < SCALING_COLUMNS; c++) {
            printf(", ");
            report_json(scaling_column[c].key, value[c], "");
        }
        printf("}");
    }
    printf("\n ]");
}

static void report_scaling(report *h, const length *x, size_t lengths)
{
    static double tokens[LENGTHS_MOST], see[LENGTHS_MOST], first[WAYS][LENGTHS_MOST],
        rate_of[WAYS][LENGTHS_MOST], peak[WAYS][LENGTHS_MOST], state[WAYS][LENGTHS_MOST];
    double value[SCALING_COLUMNS];
    char cell[48];
    report_plot time_plot, rate_plot, memory;
    report_html(h, "<h2>Scaling</h2>\n<p>How do time and memory grow with the length of a film? "
                   "Its frames have %d x %d tokens each, the question %d. One sequence is read "
                   "with random weights; the decoders have width %d, %d layers, %d heads, and "
                   "M-MATE&rsquo;s standard windows, 16 x 4 x 4.</p>\n",
                SIDE_TOKENS, SIDE_TOKENS, ASKED, SCALE_DIM, SCALE_DEPTH, SCALE_HEADS);
    for (size_t i = 0; i < lengths; i++) {
        tokens[i] = x[i].tokens;
        see[i] = x[i].see;
        for (int k = 0; k < WAYS; k++) {
            first[k][i] = x[i].first[k];
            rate_of[k][i] = x[i].rate[k];
            peak[k][i] = x[i].peak[k] / 1048576;
            state[k][i] = x[i].state[k] / 1048576;
        }
    }
    memset(&time_plot, 0, sizeof time_plot);
    time_plot.x_label = "tokens of the film";
    time_plot.log_x = time_plot.log_y = 1;
    rate_plot = memory = time_plot;
    time_plot.y_label = "seconds to the first token";
    time_plot.caption = "Encoder and decoders stand apart; the first token takes the sum of the "
                        "encoder and one decoder. Axes are logarithmic.";
    rate_plot.y_label = "tokens a second";
    rate_plot.caption = "How many tokens of the answer a second are decoded.";
    memory.y_label = "MiB of memory";
    memory.caption = "Memory without the weights: its peak while the film is read, and, broken, "
                     "the state that is carried on to the next token.";
    for (int k = 0; k < WAYS; k++) {
        report_curve c = {way_name[k], tokens, first[k], lengths, k, 0};
        time_plot.curve[time_plot.curves++] = c;
        c.y = rate_of[k];
        rate_plot.curve[rate_plot.curves++] = c;
        c.y = peak[k];
        if (k != ATTENTION && k != BOTH) continue;
        memory.curve[memory.curves++] = c;
        c.name = k ? "M-MATE, state" : "attention, state";
        c.y = state[k];
        c.dashed = 1;
        memory.curve[memory.curves++] = c;
    }
    report_curve c = {"encoder", tokens, see, lengths, WAYS, 0};
    time_plot.curve[time_plot.curves++] = c;
    report_html(h, "<div class=\"row\">\n");
    report_chart(h, &time_plot);
    report_chart(h, &rate_plot);
    report_chart(h, &memory);
    report_html(h, "</div>\n");
    report_columns_html(h, scaling_column, SCALING_COLUMNS, "tokens", NULL, NULL);
    for (size_t i = 0; i < lengths * WAYS; i++) {
        scaling_values(&x[i / WAYS], (int)(i % WAYS), value);
        snprintf(cell, sizeof cell, "%.0f, %s", x[i / WAYS].tokens, way_name[i % WAYS]);
        report_columns_html(h, scaling_column, SCALING_COLUMNS, cell, value, NULL);
    }
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">Tokens a second count decoding alone. Times are the least of "
                   "up to three; with one thread they are the processor&rsquo;s.</p>\n");
}

/* ---- main ------------------------------------------------------------------------------------ */

/* What came out: of each part end of three stages, teacher and start, a row each; of the last
   length seconds. */
static void find(const settings *o, result (*r)[SEEDS_MOST], const length *x, size_t lengths,
                 char *out, size_t room)
{
    static const char *const of[LEARNED] = {"Stories: perplexity, less is better",
                                            "Questions about pictures: right answers, %",
                                            "Questions about films: right answers, %"};
    char end[64], teacher[64], start[64], blind[64];
    size_t n = 0;
    for (int p = 0; p < LEARNED; p++) {
        if (!(o->parts >> p & 1)) continue;
        const int shown = first_way(o, p);
        table_cell(end, sizeof end, p, r[p], o->seeds, shown, STAGES);
        table_cell(teacher, sizeof teacher, p, r[p], o->seeds, TEACHER, STAGES);
        table_cell(start, sizeof start, p, r[p], o->seeds, shown, 0);
        snprintf(blind, sizeof blind, "-");
        if (table_has(o, p, BLIND))
            table_cell(blind, sizeof blind, p, r[p], o->seeds, BLIND, STAGES);
        n += (size_t)snprintf(out + n, room - n, "%s<tr><td>%s</td><td><b>%s</b></td><td>%s</td>"
                                                 "<td>%s</td><td>%s</td></tr>\n",
                              n ? "" : "<p>Without attention, at the end of their stages, students "
                                       "reach:</p>\n<div class=\"wide\"><table class=\"asked\">"
                                       "<tr><th>on what is held back</th><th>student</th>"
                                       "<th>teacher</th><th>student before learning</th>"
                                       "<th>a network that sees nothing</th></tr>\n",
                              of[p], end, teacher, start, blind);
    }
    if (n) n += (size_t)snprintf(out + n, room - n, "</table></div>\n");
    if (lengths)
        snprintf(out + n, room - n, "<p>M-MATE's decoder reads a film of %.0f tokens in "
                                    "<b>%.2f&nbsp;s</b>, attention's in %.2f&nbsp;s.</p>",
                 x[lengths - 1].tokens, x[lengths - 1].first[BOTH],
                 x[lengths - 1].first[ATTENTION]);
}

/* 0, 1 after Ctrl-C, -1 */
static int work(mmix_ctx *m, const settings *o, result (*r)[SEEDS_MOST], report *h)
{
    length x[LENGTHS_MOST];
    size_t lengths = 0;
    int end = 0;
    char date[32] = "";
    time_t t = time(NULL);
    char finding[REPORT_ROOM];
    long at = report_leave(h);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&t));
    report_html(h, "<p>A decoder writes one token after another and looks back by attention, whose "
                   "cost grows with the square of the length. Here it is converted: two branches "
                   "of linear cost take over the projections of its attention (M-MATE). Flex-MA is "
                   "a masked Mamba-2 in both directions, Local-Swin is attention in windows. Then "
                   "the student learns from the decoder that it was, its teacher:</p>\n<ol>\n"
                   "<li>stage 1: Flex-MA alone, by the outputs of the teacher&rsquo;s mixers "
                   "(L_hid) and its next tokens (L_tok);</li>\n<li>stage 2: both branches, by the "
                   "same;</li>\n<li>stage 3: both branches and small corrections of the "
                   "feed-forward matrices (LoRA), by next tokens, the teacher&rsquo;s answers and "
                   "the true ones.</li>\n</ol>\n");
    report_html(h, "<p class=\"soft\">%s, budget %s, %zu seed%s from %" PRIu64 ", %d thread%s, "
                   "%s.</p>\n", date,
                o->budget->name, o->seeds, o->seeds > 1 ? "s" : "", o->seed, mmix_threads(m),
                mmix_threads(m) > 1 ? "s" : "", mmix_simd_name(m));
    for (int p = 0; p < LEARNED && !end; p++)
        if (o->parts >> p & 1) end = run_part(m, o, p, r[p], h);
    if (!end && o->parts >> SCALING & 1) {
        mmix_seed_set(m, o->seed);
        end = run_scaling(m, o, x, &lengths);
        if (!end) report_scaling(h, x, lengths);
        if (!end && !o->json) print_scaling(x, lengths);
    }
    find(o, r, x, lengths, finding, sizeof finding);
    report_fill(h, at, finding);
    if (end || !o->json) return end;
    const char *comma = "{";
    for (int p = 0; p < PARTS; p++) {
        if (!(o->parts >> p & 1)) continue;
        printf("%s", comma);
        if (p == SCALING) json_scaling(x, lengths);
        else json_scores(o, p, r[p]);
        comma = ",\n ";
    }
    printf("}\n");
    return 0;
}

int main(int argc, char **argv)
{
    static result r[LEARNED][SEEDS_MOST];
    settings o;
    report h;
    mmix_options options;
    char path[1100];
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    if (o.figures) return linmu_figures(o.out) ? 2 : 0;
    if (o.load && o.parts & ((1 << LEARNED) - 1) && !saved_before(&o))
        return fail("--load %s: no file of a run of these parts and seeds is there", o.load);
    if (report_ready(o.out, path, sizeof path)) return 2;
    if (report_folders(o.prefix)) return fail("cannot write %s-*: %s", o.prefix, strerror(errno));
    for (int p = 0; p < LEARNED; p++)
        if (o.parts >> p & 1 && report_few(STAGES * o.steps[p]))
            report_say("%s, %zu steps a student: %s", part_name[p], STAGES * o.steps[p],
                       report_few(STAGES * o.steps[p]));
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = o.seed;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    if (o.bf16 && !mmix_has_bf16(m)) {
        mmix_destroy(m);
        return fail("--bf16: this processor has no products of bf16 (AMX, or AMD's AVX512-BF16); "
                    "leave it out");
    }
    if (report_open(&h, path, "Attention out, M-MATE in: LinMU's three stages")) {
        mmix_destroy(m);
        return fail("%s", h.error);
    }
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    int end = work(m, &o, r, &h);
    if (end) {
        report_drop(&h);
        if (end < 0) status = fail("%s", mmix_error(m));
        else {
            const int saved = saved_before(&o);
            fprintf(stderr, saved ?
                    "\nlinmu: stopped; go on with the same options and --load \"%s\"\n"
                    : "\nlinmu: stopped before there was anything to save as %s\n", o.prefix);
            status = 130;
        }
    } else if (report_close(&h)) status = fail("%s", h.error);
    else fprintf(stderr, "report: %s\n", path);
    mmix_destroy(m);
    return status;
}
