/* vqa.c - a vision-language model from real parts: it learns to answer questions about pictures,
   and then to do so without attention

       cc -O2 demos/studies/vqa.c -o vqa -lm -lpthread
       ./vqa all --decoder SmolLM2-135M-Instruct.gguf --bf16

   or one part after another:

       ./vqa train --decoder SmolLM2-135M-Instruct.gguf             # the projector learns
       ./vqa train --decoder … --random --run random                # on a ViT of random numbers
       ./vqa convert --decoder … --run three                        # attention out, three stages
       ./vqa convert --decoder … --run flex --branches flex --stages 1
       ./vqa speed --decoder …
       ./vqa report --decoder …

   The parts are a trained ViT, which sees a picture as patch tokens; a projector (LayerNorm, two
   linear layers with GELU), which brings these to the width of a language model; and the language
   model, a decoder with ChatML's conversations, such as the one that demos/chat.c tells how to get.
   `train` lets the projector learn, and nothing else, from questions and answers in the form of
   easy-VQA (github.com/vzhou842/easy-VQA): DIR/train/questions.json, DIR/train/images/0.png, …, and
   the same in DIR/test, which nobody learns from.

   `convert` puts M-MATE in the place of the language model's attention (LinMU, arXiv 2601.01322;
   docs/05b-distillation.md). The student begins with o_proj by least squares (solve.h) and learns
   from the same questions.

   Sections: options · questions · what pictures look like · lessons · projector · answers judged ·
   runs · training · students · speed · everything · main; the page is in vqa_report.h. */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "vqa"
#include "../../mamba_mix.h"
#define TOKENIZER_IMPLEMENTATION
#include "../tokenizer.h"
#include "converse.h"
#include "pictures.h"
#include "program.h"
#include "pace.h"
#include "report.h"
#include "arguments.h"
#include "solve.h"
#include "stages.h"

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "vqa all|train|convert|speed|prune|report - a language model answers questions about pictures\n\n"
    "  --decoder FILE    .gguf, or .safetensors with config.json and tokenizer.json beside it\n"
    "  --vision FILE     a ViT                  (../shared/data/vit-s14/model.safetensors)\n"
    "  --data DIR        questions and pictures as easy-VQA's      (../shared/data/easy-vqa)\n"
    "  --out DIR         everything goes there, also features-….safetensors, what the ViT sees\n"
    "                    of all pictures                                      (build/vqa)\n"
    "  --size N          pictures are brought to N x N pixels                 (112)\n"
    "  --batch N         pictures of an optimizer step                        (8)\n"
    "  --ask N           questions about each of them, in one row             (1)\n"
    "  --judge N         questions of a judgement, about pictures never seen  (300)\n"
    "  --rate R          train: the highest learning rate (1e-3); convert: times the learning\n"
    "                    rates of mmix_distill_config_linmu (0.02)\n"
    "  --minutes N       so long at most; then it is saved as after Ctrl-C    (no end)\n"
    "  --bf16            products are of bf16, with AMX or AMD's AVX512-BF16\n"
    "  --threads N       (all cores)\n"
    "  --seed N          of what is drawn                                     (1)\n"
    "  --json            results as JSON on stdout\n\n"
    "all: the runs trained, random, three, one, no-hidden, flex and swin, speed, and the report.\n"
    "What is done already is not done again, so that the same command goes on after Ctrl-C.\n"
    "Its budget is about two hours and a half of a core of AMD's with AVX512-BF16: 35 minutes for each of\n"
    "two ViTs (1.9 seconds a step, 0.13 a question judged), 15 for each of five students (0.6\n"
    "seconds a question, least squares before), 3 for times.\n\n"
    "train: the projector learns. If the run's file is there it goes on with it.\n"
    "  --run NAME        NAME.safetensors is the run, NAME.txt its numbers    (trained)\n"
    "  --random          the ViT's numbers are random ones\n"
    "  --steps N         of the optimizer; 0: it is judged, and that is all   (900)\n"
    "  --every N         steps between two judgements                         (100)\n"
    "  --last N          questions of the last one                            (1000)\n\n"
    "convert: a student without attention learns. If the run's file is there it goes on with it.\n"
    "  --run NAME        NAME.student.safetensors is what comes of it         (three)\n"
    "  --trained NAME    the run whose model it learns from                   (trained)\n"
    "  --student-steps N in all stages together                               (120)\n"
    "  --stages N        3: Flex-MA, then both branches, then LoRA besides; 1: all at once (3)\n"
    "  --branches NAME   both, flex (Flex-MA alone) or swin (Local-Swin alone)  (both)\n"
    "  --no-hidden       without L_hid\n"
    "  --window N        tokens back that Local-Swin sees text, across pictures, too (128)\n"
    "  --solve N         questions that least squares are taken over          (64)\n\n"
    "speed: seconds of seeing and reading many pictures in one sequence, tokens a second after\n"
    "them. What stands in speed.txt is not timed again.\n"
    "  --lengths LIST    media tokens                              (1024,4096,16384)\n\n"
    "prune: the trained model again, whose later layers have fewer patches (mmix_prune), on\n"
    "--judge questions: all patches, then after each layer of --after each share of --keep, and\n"
    "one patch of each 2 x 2.\n"
    "  --student NAME    a student of it in its place: NAME.student.safetensors\n"
    "  --after LIST      layers                                     (3,10,20)\n"
    "  --keep LIST       shares of the patches in percent           (50,25,10)\n\n"
    "report: report.html and vqa.svg, of what there is in --out.\n\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

typedef struct settings {
    const char *decoder, *vision, *data, *out, *run, *trained, *branches, *lengths, *after, *keep;
    const char *student;
    unsigned long long size, steps, batch, ask, every, judge, last, minutes, threads, seed;
    double rate;
    unsigned long long stages, window, solve, student_steps;
    int random, no_hidden, bf16, json;
    int branch;                                  /* of branch_name */
} settings;

enum { BRANCHES = 3 };
static const char *const branch_name[BRANCHES] = {"both", "flex", "swin"};
static const int branch_kind[BRANCHES] = {MMIX_BRANCH_BOTH, MMIX_BRANCH_FLEX, MMIX_BRANCH_SWIN};
/* Of --steps: the command's own number. */
#define UNSET ULLONG_MAX

static void default_settings(settings *o)
{
    memset(o, 0, sizeof *o);
    o->vision = "../shared/data/vit-s14/model.safetensors";
    o->data = "../shared/data/easy-vqa";
    o->out = "build/vqa";
    o->trained = "trained";
    o->branches = "both";
    o->lengths = "1024,4096,16384";
    o->after = "3,10,20";
    o->keep = "50,25,10";
    o->stages = 3;
    o->window = 128;
    o->solve = 64;
    o->student_steps = 120;
    o->size = 112;
    o->batch = 8;
    o->ask = 1;
    o->every = 100;
    o->judge = 300;
    o->last = 1000;
    o->seed = 1;
    o->steps = UNSET;
    o->rate = -1;
}
/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    default_settings(o);
    const argument known[] = {
        {"--decoder", &o->decoder, NULL, 0, 0, NULL, NULL},
        {"--vision", &o->vision, NULL, 0, 0, NULL, NULL},
        {"--data", &o->data, NULL, 0, 0, NULL, NULL},
        {"--out", &o->out, NULL, 0, 0, NULL, NULL},
        {"--run", &o->run, NULL, 0, 0, NULL, NULL},
        {"--trained", &o->trained, NULL, 0, 0, NULL, NULL},
        {"--branches", &o->branches, NULL, 0, 0, NULL, NULL},
        {"--lengths", &o->lengths, NULL, 0, 0, NULL, NULL},
        {"--after", &o->after, NULL, 0, 0, NULL, NULL},
        {"--keep", &o->keep, NULL, 0, 0, NULL, NULL},
        {"--student", &o->student, NULL, 0, 0, NULL, NULL},
        {"--stages", NULL, &o->stages, 1, 3, NULL, NULL},
        {"--student-steps", NULL, &o->student_steps, 1, 100000000, NULL, NULL},
        {"--window", NULL, &o->window, 1, 65536, NULL, NULL},
        {"--solve", NULL, &o->solve, 1, 1000000, NULL, NULL},
        {"--no-hidden", NULL, NULL, 0, 0, NULL, &o->no_hidden},
        {"--size", NULL, &o->size, 1, 4096, NULL, NULL},
        {"--steps", NULL, &o->steps, 0, 100000000, NULL, NULL},
        {"--batch", NULL, &o->batch, 1, 256, NULL, NULL},
        {"--ask", NULL, &o->ask, 1, 16, NULL, NULL},
        {"--every", NULL, &o->every, 1, 100000000, NULL, NULL},
        {"--judge", NULL, &o->judge, 1, 1000000, NULL, NULL},
        {"--last", NULL, &o->last, 1, 1000000, NULL, NULL},
        {"--minutes", NULL, &o->minutes, 0, 1000000, NULL, NULL},
        {"--threads", NULL, &o->threads, 1, 64, NULL, NULL},
        {"--seed", NULL, &o->seed, 0, ULLONG_MAX, NULL, NULL},
        {"--rate", NULL, NULL, 0, 1000, &o->rate, NULL},
        {"--random", NULL, NULL, 0, 0, NULL, &o->random},
        {"--bf16", NULL, NULL, 0, 0, NULL, &o->bf16},
        {"--json", NULL, NULL, 0, 0, NULL, &o->json},
    };
    int status = read_arguments(known, sizeof known / sizeof *known, help, argc, argv);
    if (status) return status;
    while (o->branch < BRANCHES && strcmp(branch_name[o->branch], o->branches)) o->branch++;
    if (o->branch == BRANCHES) return fail("--branches %s: give both, flex or swin", o->branches);
    return 0;
}
/* Name, steps and rate of a run, where they were not given, are those of the command. */
static settings with_defaults(const settings *given, const char *run, unsigned long long steps,
                              double rate)
{
    settings o = *given;
    if (!o.run) o.run = run;
    if (o.steps == UNSET) o.steps = steps;
    if (o.rate < 0) o.rate = rate;
    return o;
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Words that occur often, a question or an answer, and what they are for the decoder. */
typedef struct phrase {
    char *words;
    tokenizer_ids ids;
} phrase;
typedef struct phrases {
    phrase *at;
    size_t count;
} phrases;
typedef struct question { size_t words, answer, picture; } question;     /* which phrases */
typedef struct questions {
    question *at;
    size_t count;
} questions;
/* All questions, and how the decoder is asked. */
typedef struct exam {
    tokenizer *t;
    tokenizer_ids head;                          /* what comes before the picture */
    phrases words, answer;
    questions train, test;
} exam;

static void phrases_free(phrases *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->at[i].words);
        tokenizer_ids_free(&p->at[i].ids);
    }
    free(p->at);
}
static void exam_free(exam *e)
{
    phrases_free(&e->words);
    phrases_free(&e->answer);
    tokenizer_ids_free(&e->head);
    free(e->train.at);
    free(e->test.at);
    tokenizer_free(e->t);
}
/* The phrase's number; SIZE_MAX without memory. */
static size_t phrase_of(phrases *p, const char *words, size_t n)
{
    size_t i = 0;
    while (i < p->count && (strncmp(p->at[i].words, words, n) || p->at[i].words[n])) i++;
    if (i < p->count) return i;
    phrase *more = (phrase *)realloc(p->at, (i + 1) * sizeof *more);
    if (!more) return SIZE_MAX;
    p->at = more;
    memset(&more[i], 0, sizeof more[i]);
    more[i].words = (char *)calloc(n + 1, 1);
    if (!more[i].words) return SIZE_MAX;
    memcpy(more[i].words, words, n);
    p->count++;
    return i;
}
/* Steps over white space and one sign. 0, or -1: another sign stands there. */
static int sign(const char **at, char wanted)
{
    *at += strspn(*at, " \t\r\n");
    if (**at != wanted) return -1;
    ++*at;
    return 0;
}
/* A text in quotes, without escapes, as a phrase. SIZE_MAX: none stands there. */
enum { LONGEST = 1000 };                         /* bytes of it */
static size_t text_in(const char **at, phrases *p)
{
    if (sign(at, '"')) return SIZE_MAX;
    size_t n = strcspn(*at, "\"\\\n");
    if (!n || n > LONGEST || (*at)[n] != '"') return SIZE_MAX;
    size_t found = phrase_of(p, *at, n);
    *at += n + 1;
    return found;
}
/* ["question", "answer", picture]. 0, or -1. */
static int read_question(const char **at, exam *e, question *q)
{
    char *end;
    if (sign(at, '[')) return -1;
    q->words = text_in(at, &e->words);
    if (q->words == SIZE_MAX || sign(at, ',')) return -1;
    q->answer = text_in(at, &e->answer);
    if (q->answer == SIZE_MAX || sign(at, ',')) return -1;
    *at += strspn(*at, " ");
    if (**at < '0' || **at > '9') return -1;
    q->picture = strtoul(*at, &end, 10);
    *at = end;
    return sign(at, ']');
}
/* [question, question, …]. 0, or -1 at what is none. */
static int read_questions(const char **at, exam *e, questions *all)
{
    size_t room = 0;
    if (sign(at, '[')) return -1;
    do {
        if (all->count == room) {
            room = room ? 2 * room : 1024;
            question *more = (question *)realloc(all->at, room * sizeof *more);
            if (!more) return -1;
            all->at = more;
        }
        if (read_question(at, e, &all->at[all->count])) return -1;
        all->count++;
    } while (!sign(at, ','));
    return sign(at, ']');
}
static int read_part(mmix_ctx *m, const settings *o, const char *part, exam *e, questions *all)
{
    char path[1200];
    snprintf(path, sizeof path, "%.1000s/%s/questions.json", o->data, part);
    char *bytes = bytes_text(m, path);
    const char *at = bytes;
    if (bytes && read_questions(&at, e, all))
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected [[\"question\", \"answer\", picture], …], "
                  "found something else at byte %zu", path, (size_t)(at - bytes));
    free(bytes);
    return mmix_error(m) ? -1 : 0;
}
/* Questions and answers as the decoder gets them: a picture stands behind the head, then come a
   question and the head of an answer, then that and the end of the turn. 0, or -1. */
static int encode_exam(mmix_ctx *m, exam *e)
{
    char text[1200];
    encode(m, e->t, "<|im_start|>user\n", &e->head);
    for (size_t i = 0; i < e->words.count && !mmix_error(m); i++) {
        snprintf(text, sizeof text, "%.*s<|im_end|>\n<|im_start|>assistant\n", (int)LONGEST,
                 e->words.at[i].words);
        encode(m, e->t, text, &e->words.at[i].ids);
    }
    for (size_t i = 0; i < e->answer.count && !mmix_error(m); i++) {
        snprintf(text, sizeof text, "%.*s<|im_end|>", (int)LONGEST, e->answer.at[i].words);
        encode(m, e->t, text, &e->answer.at[i].ids);
    }
    return mmix_error(m) ? -1 : 0;
}
static int exam_make(mmix_ctx *m, const settings *o, exam *e)    /* 0, or -1 */
{
    memset(e, 0, sizeof *e);
    if (read_part(m, o, "train", e, &e->train) || read_part(m, o, "test", e, &e->test)) return -1;
    e->t = open_tokenizer(m, o->decoder);
    return e->t ? encode_exam(m, e) : -1;
}
/* The answer that is right most often for a question's words, in what there is to learn from: an
   array by words, to be freed; NULL without memory. */
static size_t *best_answers(mmix_ctx *m, const exam *e)
{
    size_t W = e->words.count, A = e->answer.count;
    size_t *count = (size_t *)calloc(W * A, sizeof *count);
    size_t *best = (size_t *)calloc(W, sizeof *best);
    if (!count || !best) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu questions", W);
    for (size_t i = 0; count && best && i < e->train.count; i++)
        count[e->train.at[i].words * A + e->train.at[i].answer]++;
    for (size_t w = 0; count && best && w < W; w++)
        for (size_t a = 1; a < A; a++)
            if (count[w * A + a] > count[w * A + best[w]]) best[w] = a;
    free(count);
    return best;
}

/* ---- what pictures look like ----------------------------------------------------------------- */

/* The features of all pictures, computed once and kept in a file as bf16: PART/NUMBER, (n, F). */

/* The number in a picture's name, images/NUMBER.png; SIZE_MAX: it has none. */
static size_t number_of(const char *path)
{
    const char *stroke = strrchr(path, '/');
    const char *digits = stroke ? stroke + 1 : path;
    char *end;
    unsigned long number = strtoul(digits, &end, 10);
    return end == digits || *end != '.' ? SIZE_MAX : (size_t)number;
}
static mmix_vision *open_vision(mmix_ctx *m, const settings *o)
{
    mmix_vision *v = mmix_vision_load(m, o->vision);
    if (!v || !o->random) return v;
    mmix_vision_config config = *mmix_vision_config_of(v);
    mmix_vision_destroy(v);
    return mmix_vision_create(m, config);
}
typedef struct sight {
    size_t pictures, grid, F;                    /* grid x grid patches of F numbers */
    mmix_real *features;                         /* (pictures, grid², F) */
    char (*name)[40];
    mmix_entry *entry;
} sight;
static void sight_free(sight *s)
{
    free(s->features);
    free(s->name);
    free(s->entry);
}
static int sight_make(mmix_ctx *m, sight *s, const mmix_vision *v, const settings *o, size_t n)
{
    const mmix_vision_config *c = mmix_vision_config_of(v);
    memset(s, 0, sizeof *s);
    s->pictures = n;
    s->grid = (size_t)o->size / c->patch;
    s->F = c->dim;
    if (!s->grid || s->grid * c->patch != o->size)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "--size %llu: expected a multiple of the ViT's "
                         "patches of %zu", o->size, c->patch);
    s->features = (mmix_real *)malloc(n * s->grid * s->grid * s->F * sizeof *s->features);
    s->name = (char (*)[40])calloc(n, sizeof *s->name);
    s->entry = (mmix_entry *)calloc(n, sizeof *s->entry);
    if (s->features && s->name && s->entry) return 0;
    return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the features of %zu pictures", n);
}
/* Some pictures of a part, which become number `first` and so on of all. 0, or -1. */
static int see(mmix_ctx *m, sight *s, const mmix_vision *v, const picture_set *set,
               const char *part, size_t at, size_t some, size_t first)
{
    size_t n = s->grid * s->grid, side = set->picture[at].width;
    mmix_tensor *image = mmix_new4(m, some, 3, side, side);
    for (size_t k = 0; k < some && image; k++)
        mmix_picture_normalize(mmix_data(image) + k * 3 * side * side, set->picture[at + k], NULL,
                               NULL);
    mmix_features f = mmix_vision_forward(m, v, image, NULL);
    if (mmix_error(m)) return -1;
    mmix_read(f.patches, s->features + first * n * s->F);
    for (size_t k = 0; k < some; k++) {
        mmix_entry *e = &s->entry[first + k];
        size_t number = number_of(set->name[at + k]);
        snprintf(s->name[first + k], sizeof s->name[first + k], "%s/%zu", part, number);
        e->name = s->name[first + k];
        e->dtype = MMIX_FILE_REAL_AS_BF16;
        e->ndim = 2;
        e->shape[0] = n;
        e->shape[1] = s->F;
        e->data = s->features + (first + k) * n * s->F;
    }
    mmix_reset(m);
    return 0;
}
static int see_all(mmix_ctx *m, sight *s, const mmix_vision *v, const pictures *p)
{
    enum { AT_ONCE = 16 };
    double start = now(), said = start;
    for (size_t i = 0; i < s->pictures && !interrupted;) {
        int is_test = i >= p->train.count;
        const picture_set *set = is_test ? &p->test : &p->train;
        size_t at = is_test ? i - p->train.count : i, left = set->count - at;
        size_t some = left < AT_ONCE ? left : AT_ONCE;
        if (see(m, s, v, set, is_test ? "test" : "train", at, some, i)) return -1;
        i += some;
        if (now() - said < line_pause() && i < s->pictures) continue;
        said = now();
        fprintf(stderr, "%zu of %zu pictures seen, %.0f seconds left%s", i, s->pictures,
                (said - start) / (double)i * (double)(s->pictures - i),
                on_screen() ? "   \r" : "\n");
    }
    return 0;
}
static void features_path(const settings *o, char path[1200])
{
    snprintf(path, 1200, "%.1000s/features-%s-%llu.safetensors", o->out,
             o->random ? "random" : "trained", o->size);
}
/* Looks at all pictures and writes what is seen, and of what that is. 0, or -1. */
static int write_features(mmix_ctx *m, const settings *o, const mmix_vision *v, const char *path,
                          const char *of)
{
    const char *metadata[] = {"of", of, NULL};
    pictures p;
    sight s;
    memset(&s, 0, sizeof s);
    if (pictures_load(&p, m, o->data, NULL, (size_t)o->size, 0))
        return mmix_fail(m, MMIX_ERROR_FILE, "%s", p.error);
    size_t n = p.train.count + p.test.count;
    if (!sight_make(m, &s, v, o, n) && !see_all(m, &s, v, &p) && !interrupted)
        mmix_archive_save(m, path, s.entry, n, metadata);
    sight_free(&s);
    pictures_free(&p);
    return mmix_error(m) ? -1 : 0;
}
/* The file of features, written first if it is not there, and a number of the ViT's weights; NULL
   on error or Ctrl-C. */
static mmix_archive *open_features(mmix_ctx *m, const settings *o, uint64_t *vision)
{
    char path[1200], of[3000];
    mmix_vision *v = open_vision(m, o);
    if (!v) return NULL;
    *vision = bytes_hash_params(mmix_vision_params(v));
    snprintf(of, sizeof of, "%s, weights %016llx, pictures of %s, bf16 %d", o->vision,
             (unsigned long long)*vision, o->data, o->bf16);
    features_path(o, path);
    if (!mmix_error(m) && !there(path)) write_features(m, o, v, path, of);
    mmix_vision_destroy(v);
    if (mmix_error(m) || interrupted) return NULL;
    mmix_archive *a = mmix_archive_open(m, path);
    const char *found = mmix_archive_metadata(a, "of");
    if (!a || (found && !strcmp(found, of))) return a;
    mmix_fail(m, MMIX_ERROR_FILE, "%s: give another --out; this is what is seen by %s", path,
              found ? found : "something else");
    mmix_archive_close(a);
    return NULL;
}
static const mmix_entry *features_of(const mmix_archive *a, const char *part, size_t number)
{
    char name[40];
    snprintf(name, sizeof name, "%s/%zu", part, number);
    return mmix_archive_find(a, name);
}
/* Whether all questions of a part are about pictures that were seen. 0, or -1. */
static int check_pictures(mmix_ctx *m, const settings *o, const mmix_archive *a, const char *part,
                          const questions *q)
{
    for (size_t i = 0; i < q->count; i++)
        if (!features_of(a, part, q->at[i].picture))
            return mmix_fail(m, MMIX_ERROR_FILE, "%s/%s/images: picture %zu, which question %zu is "
                             "about, is missing", o->data, part, q->at[i].picture, i);
    return 0;
}

/* ---- lessons --------------------------------------------------------------------------------- */

/* B rows as a decoder reads them, filled up behind to one length L. Each row has a picture and one
   or more questions about it. Only the last of them is answered in the row: of the others the first
   token of the answer is wanted where it would stand, so that nothing that is read tells it. */
typedef struct lesson {
    mmix_sequence input;                         /* its media are not set */
    mmix_span span;
    mmix_tensor *features;                       /* (B, n, F) of the pictures */
    mmix_tensor *target;                         /* (B, L): the token wanted after this, or -1 */
    mmix_tensor *mask;                           /* (B, L): 0 where a row is filled up */
    mmix_tensor *place, *wanted;                 /* (answer tokens): where in B L, and which */
    size_t B, L;
} lesson;

static size_t row_length(const exam *e, const question *const *q, size_t ask, size_t n)
{
    size_t all = ask * e->head.count + n + e->answer.at[q[ask - 1]->answer].ids.count;
    for (size_t i = 0; i < ask; i++) all += e->words.at[q[i]->words].ids.count;
    return all;
}
/* A row, and its targets. */
static void lesson_row(const exam *e, const question *const *q, size_t ask, size_t n,
                       int32_t *token, int32_t *target)
{
    size_t at = 0;
    for (size_t i = 0; i < ask; i++) {
        const tokenizer_ids *words = &e->words.at[q[i]->words].ids;
        const tokenizer_ids *answer = &e->answer.at[q[i]->answer].ids;
        size_t said = i + 1 < ask ? 1 : answer->count;
        memcpy(token + at, e->head.at, e->head.count * sizeof *token);
        at += e->head.count;
        if (!i) at += n;
        memcpy(token + at, words->at, words->count * sizeof *token);
        at += words->count;
        memcpy(target + at - 1, answer->at, said * sizeof *token);
        if (i + 1 == ask) memcpy(token + at, answer->at, said * sizeof *token);
    }
}
/* What a lesson is made of: B rows with `ask` questions each, of a part. */
typedef struct lesson_plan {
    const exam *e;
    const mmix_archive *features;
    const char *part;
    const question **q;                          /* (B, ask) */
    size_t B, ask;
} lesson_plan;
/* The features of the pictures, and where answers stand. */
static void lesson_fill(mmix_ctx *m, const lesson_plan *p, lesson *l)
{
    size_t n = mmix_shape(l->features, 1), F = mmix_shape(l->features, 2), k = 0;
    int32_t *token = mmix_data_i32(l->input.tokens), *target = mmix_data_i32(l->target);
    for (size_t i = 0; i < p->B * l->L; i++) {
        token[i] = p->e->head.at[0];
        target[i] = -1;
    }
    for (size_t b = 0; b < p->B; b++) {
        const question *const *q = p->q + b * p->ask;
        lesson_row(p->e, q, p->ask, n, token + b * l->L, target + b * l->L);
        for (size_t i = 0; i < l->L; i++)
            mmix_data_i32(l->mask)[b * l->L + i] = i < row_length(p->e, q, p->ask, n);
        mmix_archive_read(m, p->features, features_of(p->features, p->part, q[0]->picture),
                          MMIX_FILE_REAL, mmix_data(l->features) + b * n * F, n * F);
    }
    for (size_t i = 0; i < p->B * l->L; i++) {
        if (target[i] < 0) continue;
        mmix_data_i32(l->place)[k] = (int32_t)i;
        mmix_data_i32(l->wanted)[k++] = target[i];
    }
}
static int lesson_make(mmix_ctx *m, const lesson_plan *p, lesson *l)     /* 0, or -1 */
{
    const mmix_entry *first = features_of(p->features, p->part, p->q[0]->picture);
    size_t n = first->shape[0], F = first->shape[1], wanted = 0, side = 1;
    memset(l, 0, sizeof *l);
    for (size_t b = 0; b < p->B; b++) {
        const question *const *q = p->q + b * p->ask;
        size_t length = row_length(p->e, q, p->ask, n);
        if (length > l->L) l->L = length;
        wanted += p->ask - 1 + p->e->answer.at[q[p->ask - 1]->answer].ids.count;
    }
    while (side * side < n) side++;
    l->B = p->B;
    l->span.start = p->e->head.count;
    l->span.grid[0] = 1;
    l->span.grid[1] = side;
    l->span.grid[2] = side;
    size_t shape[2] = {l->B, l->L};
    l->input.tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    l->input.spans = &l->span;
    l->input.n_spans = 1;
    l->features = mmix_new3(m, l->B, n, F);
    l->target = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    l->mask = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    l->place = mmix_new(m, MMIX_DTYPE_I32, 1, &wanted);
    l->wanted = mmix_new(m, MMIX_DTYPE_I32, 1, &wanted);
    if (!mmix_error(m)) lesson_fill(m, p, l);
    return mmix_error(m) ? -1 : 0;
}

/* ---- projector ------------------------------------------------------------------------------- */

/* y = W2 gelu(W1 norm(x) + b1) + b2, F → 2D → D. */
typedef struct projector {
    mmix_params *params;
    mmix_tensor *norm, *norm_bias;
    mmix_mlp_layer mlp;
} projector;

/* Weights and biases begin uniform within 1/√(numbers that come in), as in PyTorch. 0, or -1. */
static int projector_make(mmix_ctx *m, projector *p, size_t F, size_t D)
{
    size_t hidden = 2 * D, up[2] = {hidden, F}, down[2] = {D, hidden};
    const int constant = MMIX_INIT_CONSTANT, uniform = MMIX_INIT_UNIFORM;
    double in = 1 / sqrt((double)F), between = 1 / sqrt((double)hidden);
    memset(p, 0, sizeof *p);
    p->params = mmix_params_create(m);
    p->norm = mmix_params_add(p->params, "", "norm.weight", 1, &F, constant, 1, 0);
    p->norm_bias = mmix_params_add(p->params, "", "norm.bias", 1, &F, constant, 0, 0);
    p->mlp.fc1_weight = mmix_params_add(p->params, "", "fc1.weight", 2, up, uniform, -in, in);
    p->mlp.fc1_bias = mmix_params_add(p->params, "", "fc1.bias", 1, &hidden, uniform, -in, in);
    p->mlp.fc2_weight = mmix_params_add(p->params, "", "fc2.weight", 2, down, uniform, -between,
                                        between);
    p->mlp.fc2_bias = mmix_params_add(p->params, "", "fc2.bias", 1, &D, uniform, -between, between);
    return mmix_params_allocate(p->params);
}
static mmix_tensor *project(mmix_ctx *m, const projector *p, mmix_tensor *features)
{
    mmix_tensor *x = mmix_layer_norm(m, features, p->norm, p->norm_bias, 1e-5);
    return mmix_mlp_forward(m, &p->mlp, x, NULL, NULL);
}
/* The logits (answer tokens, K) of a lesson whose media are set. */
static mmix_tensor *answer_logits(mmix_ctx *m, const mmix_decoder *d, const lesson *l)
{
    size_t rows[2] = {l->B * l->L, d->config.dim};
    mmix_tensor *hidden = mmix_decoder_forward(m, d, &l->input, NULL);
    hidden = mmix_take_rows(m, mmix_reshape(m, hidden, 2, rows), l->place);
    return mmix_decoder_logits(m, d, hidden);
}

/* ---- answers judged -------------------------------------------------------------------------- */

/* Kinds of questions, by their answers. */
enum { YES_OR_NO, SHAPE, COLOUR, KINDS };
static const char *const kind_name[KINDS] = {"yes or no", "shape", "colour"};
static int kind_of(const char *answer)
{
    static const char *const shape[] = {"circle", "rectangle", "triangle"};
    if (!strcmp(answer, "yes") || !strcmp(answer, "no")) return YES_OR_NO;
    for (int i = 0; i < 3; i++)
        if (!strcmp(answer, shape[i])) return SHAPE;
    return COLOUR;
}
typedef struct score {
    size_t step, asked[KINDS], right[KINDS];
    size_t same;                                 /* answers that begin as the teacher's */
    char name[40];                               /* after what it was taken; "": after steps */
} score;
static size_t sum_of(const size_t count[KINDS])
{
    size_t sum = 0;
    for (int k = 0; k < KINDS; k++) sum += count[k];
    return sum;
}
/* The share of right answers, and half of its 95 % interval (normal approximation). */
static double share_of(const score *s, double *half)
{
    double n = (double)sum_of(s->asked), p = (double)sum_of(s->right) / fmax(n, 1);
    *half = report_half * sqrt(p * (1 - p) / fmax(n, 1));
    return p;
}
/* Question number i of n that are spread evenly over those of the test. */
static const question *test_question(const exam *e, size_t i, size_t n)
{
    return &e->test.at[picture_spread(i, n, e->test.count)];
}
/* n questions of the test. An answer is right if each of its tokens, and then the end, is the
   likeliest: what the decoder would say greedily. said[i] becomes the likeliest first token, which
   is compared with the teacher's if that is not NULL. 0, or -1. */
static int judge(mmix_ctx *m, const exam *e, const mmix_archive *a, const projector *p,
                 const mmix_decoder *d, size_t n, score *s, const int32_t *teacher,
                 int32_t *said)
{
    enum { AT_ONCE = 16 };
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < n && !interrupted; i += AT_ONCE, mmix_reset(m)) {
        const question *q[AT_ONCE];
        size_t B = n - i < AT_ONCE ? n - i : AT_ONCE, K = d->config.vocabulary;
        lesson l;
        lesson_plan plan = {e, a, "test", q, B, 1};
        for (size_t b = 0; b < B; b++) q[b] = test_question(e, i + b, n);
        if (lesson_make(m, &plan, &l)) return -1;
        l.input.media = project(m, p, l.features);
        const mmix_real *logits = mmix_data(answer_logits(m, d, &l));
        if (!logits) return -1;
        for (size_t b = 0, at = 0; b < B; b++) {
            size_t tokens = e->answer.at[q[b]->answer].ids.count;
            int kind = kind_of(e->answer.at[q[b]->answer].words), right = 1;
            for (size_t k = 0; k < tokens; k++, at++) {
                int32_t top = mmix_sample_token(m, logits + at * K, K, NULL, 0);
                if (!k) said[i + b] = top;
                if (!k && teacher) s->same += top == teacher[i + b];
                right &= top == mmix_data_i32(l.wanted)[at];
            }
            s->asked[kind]++;
            s->right[kind] += (size_t)right;
        }
    }
    return mmix_error(m) ? -1 : 0;
}
/* What is right if each question gets the answer that its words alone had most often. 0, or -1. */
static int judge_prior(mmix_ctx *m, const exam *e, size_t n, score *s)
{
    size_t *best = best_answers(m, e);
    memset(s, 0, sizeof *s);
    for (size_t i = 0; best && i < n; i++) {
        const question *q = test_question(e, i, n);
        int kind = kind_of(e->answer.at[q->answer].words);
        s->asked[kind]++;
        s->right[kind] += best[q->words] == q->answer;
    }
    free(best);
    return mmix_error(m) ? -1 : 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* What is known of a run: its head says to what it belongs. */
enum { SCORES = 200, STRETCHES = 120, NOTE = 65536 };
typedef struct record {
    char head[400];
    size_t done, total, batch;                   /* steps done, of so many, of so many questions */
    double seconds;
    score prior, teacher, score[SCORES];         /* teacher: of a student */
    size_t scores;
    double loss[STRETCHES], hidden[STRETCHES];   /* sums, of a student of L_tok and L_hid … */
    size_t in[STRETCHES];                        /* … of so many steps */
} record;

static size_t put_score(char *to, size_t room, const score *s)
{
    size_t n = (size_t)snprintf(to, room, "%zu", s->step);
    for (int k = 0; k < KINDS && n < room; k++)
        n += (size_t)snprintf(to + n, room - n, " %zu %zu", s->asked[k], s->right[k]);
    return n < room ? n + (size_t)snprintf(to + n, room - n, " %zu %s\n", s->same, s->name) : n;
}
static void take_score(char **at, score *s)
{
    s->step = strtoul(*at, at, 10);
    for (int k = 0; k < KINDS; k++) {
        s->asked[k] = strtoul(*at, at, 10);
        s->right[k] = strtoul(*at, at, 10);
    }
    s->same = strtoul(*at, at, 10);
    *at += **at == ' ';
    size_t n = strcspn(*at, "\n");
    snprintf(s->name, sizeof s->name, "%.*s", (int)n, *at);
    *at += n;
}
static void write_note(const record *r, char *note)      /* at most NOTE bytes */
{
    size_t n = (size_t)snprintf(note, NOTE, "%s\n%zu %zu %zu %.3f %zu\n", r->head, r->done,
                                r->total, r->batch, r->seconds, r->scores);
    n += put_score(note + n, NOTE - n, &r->prior);
    n += put_score(note + n, NOTE - n, &r->teacher);
    for (size_t i = 0; i < r->scores; i++) n += put_score(note + n, NOTE - n, &r->score[i]);
    for (int i = 0; i < STRETCHES; i++)
        n += (size_t)snprintf(note + n, NOTE - n, "%.9g %.9g %zu\n", r->loss[i], r->hidden[i],
                              r->in[i]);
}
/* Reads a note into *r, whose head, if it has one, has to be the same. 0, or -1. */
static int read_note(const char *note, record *r)
{
    size_t head = strcspn(note, "\n");
    char *at;
    if (head >= sizeof r->head || strncmp(note, "vqa ", 4)) return -1;
    if (r->head[0] && (strlen(r->head) != head || strncmp(note, r->head, head))) return -1;
    snprintf(r->head, sizeof r->head, "%.*s", (int)head, note);
    r->done = strtoul(note + head, &at, 10);
    r->total = strtoul(at, &at, 10);
    r->batch = strtoul(at, &at, 10);
    r->seconds = strtod(at, &at);
    r->scores = strtoul(at, &at, 10);
    if (r->scores > SCORES) return -1;
    take_score(&at, &r->prior);
    take_score(&at, &r->teacher);
    for (size_t i = 0; i < r->scores; i++) take_score(&at, &r->score[i]);
    for (int i = 0; i < STRETCHES; i++) {
        r->loss[i] = strtod(at, &at);
        r->hidden[i] = strtod(at, &at);
        r->in[i] = strtoul(at, &at, 10);
    }
    return strspn(at, "\n") == strlen(at) ? 0 : -1;
}

/* NAME.txt of a run. 0, or -1. */
static int read_record(mmix_ctx *m, const char *path, record *r)
{
    memset(r, 0, sizeof *r);
    char *note = bytes_text(m, path);
    if (note && read_note(note, r)) mmix_fail(m, MMIX_ERROR_FILE, "%s: no numbers of a run", path);
    free(note);
    return mmix_error(m) ? -1 : 0;
}
static int write_record(mmix_ctx *m, const char *path, const record *r)
{
    char *note = (char *)malloc(NOTE);
    if (!note) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a note");
    write_note(r, note);
    int bad = report_write(path, note);
    free(note);
    if (!bad) return 0;
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
}

/* ---- training -------------------------------------------------------------------------------- */

typedef struct subject { size_t first, count; } subject;         /* questions about a picture */
typedef struct job {
    mmix_ctx *m;
    const settings *o;
    exam e;
    mmix_archive *features;
    uint64_t vision, language;                   /* numbers of the weights of ViT and decoder */
    mmix_decoder *decoder;
    projector p;
    mmix_optimizer adamw;
    mmix_decoder *student;                       /* of `convert`; NULL: there is none */
    mmix_distill *run;
    int32_t *taught;                             /* what the teacher said */
    lesson solved;                               /* that least squares read now */
    subject *about;                              /* in random order */
    size_t subjects;
    int32_t *said;
    record r;
    double start, told, saved;                   /* clocks */
    double before;                               /* seconds of earlier calls */
    size_t first;                                /* steps that were done before this call */
} job;

/* The questions of a training picture stand side by side, and get a random order; so do pictures.
   0, or -1. */
static int shuffle(job *j)
{
    questions *all = &j->e.train;
    size_t n = 0;
    j->about = (subject *)calloc(all->count, sizeof *j->about);
    if (!j->about) return mmix_fail(j->m, MMIX_ERROR_MEMORY, "no memory for an order");
    for (size_t i = 0; i < all->count; i++) {
        if (!i || all->at[i].picture != all->at[i - 1].picture) j->about[n++].first = i;
        subject *s = &j->about[n - 1];
        size_t k = s->first + mmix_random_u32(j->m, 9100, 0, i) % ++s->count;
        question here = all->at[i];
        all->at[i] = all->at[k];
        all->at[k] = here;
    }
    for (size_t i = 0; i < n; i++) {
        size_t k = mmix_random_u32(j->m, 9100, 1, i) % (i + 1);
        subject here = j->about[i];
        j->about[i] = j->about[k];
        j->about[k] = here;
    }
    j->subjects = n;
    return 0;
}
static void path_of(const settings *o, const char *run, const char *ending, char path[1200])
{
    snprintf(path, 1200, "%.900s/%.200s%s", o->out, run, ending);
}
/* Everything that a run needs to go on: parameters, moments, counts of steps, and the note. */
static int save(job *j)                                  /* 0, or -1 */
{
    char path[1200], (*name)[80], *note = (char *)malloc(NOTE);
    const mmix_params *p = j->p.params;
    mmix_entry *e = (mmix_entry *)calloc(3 * p->count + 1, sizeof *e);
    const char *metadata[] = {"run", note, NULL};
    name = (char (*)[80])calloc(3 * p->count, sizeof *name);
    for (size_t i = 0; e && name && i < 3 * p->count; i++) {
        static const char *const of[3] = {"", "first moment ", "second moment "};
        const mmix_tensor *t = p->at[i / 3].tensor;
        size_t at = (size_t)(mmix_data(t) - p->values);
        const mmix_real *data[3] = {mmix_data(t), j->adamw.m + at, j->adamw.v + at};
        snprintf(name[i], sizeof name[i], "%s%s", of[i % 3], p->at[i / 3].name);
        e[i].name = name[i];
        e[i].dtype = MMIX_FILE_REAL;
        e[i].ndim = mmix_ndim(t);
        for (int k = 0; k < e[i].ndim; k++) e[i].shape[k] = mmix_shape(t, k);
        e[i].data = data[i % 3];
    }
    if (!note || !e || !name) mmix_fail(j->m, MMIX_ERROR_MEMORY, "no memory for a file");
    else {
        path_of(j->o, j->o->run, ".safetensors", path);
        write_note(&j->r, note);
        mmix_archive_save(j->m, path, e, 3 * p->count, metadata);
        path_of(j->o, j->o->run, ".txt", path);
        if (!mmix_error(j->m)) write_record(j->m, path, &j->r);
    }
    free(note);
    free(name);
    free(e);
    j->saved = now();
    return mmix_error(j->m) ? -1 : 0;
}
/* Reads what save wrote: the parameters and, if there is an optimizer, what it remembers. 0, or
   -1. */
static int restore(mmix_ctx *m, const char *path, const projector *p, mmix_optimizer *adamw,
                   record *r)
{
    mmix_archive *a = mmix_archive_open(m, path);
    const char *note = mmix_archive_metadata(a, "run");
    if (a && (!note || read_note(note, r)))
        mmix_fail(m, MMIX_ERROR_FILE, "%s: no run, or one with other models or settings; give "
                  "them as they were, or another --run", path);
    for (size_t i = 0; i < 3 * p->params->count && !mmix_error(m); i++) {
        static const char *const of[3] = {"", "first moment ", "second moment "};
        const mmix_param *param = &p->params->at[i / 3];
        size_t at = (size_t)(mmix_data(param->tensor) - p->params->values);
        mmix_real *to = mmix_data(param->tensor);
        char name[80];
        if (i % 3 && !adamw) continue;
        if (i % 3) to = (i % 3 == 1 ? adamw->m : adamw->v) + at;
        if (adamw) adamw->steps[i / 3] = r->done;
        snprintf(name, sizeof name, "%s%s", of[i % 3], param->name);
        const mmix_entry *e = mmix_archive_find(a, name);
        size_t n = mmix_count(param->tensor);
        if (!e || mmix_entry_count(e) != n)
            mmix_fail(m, MMIX_ERROR_FILE, "%s: expected %zu numbers in %s", path, n, name);
        else mmix_archive_read(m, a, e, MMIX_FILE_REAL, to, n);
    }
    mmix_archive_close(a);
    return mmix_error(m) ? -1 : 0;
}
/* The models by numbers of their weights, as heads name them. */
static void models_of(const job *j, char text[80])
{
    snprintf(text, 80, "ViT %016llx, decoder %016llx", (unsigned long long)j->vision,
             (unsigned long long)j->language);
}
/* Whether a projector, which was restored from `path`, learned between these models. 0, or -1. */
static int check_models(const job *j, const char *path, const record *r)
{
    char models[80];
    models_of(j, models);
    if (strstr(r->head, models)) return 0;
    return mmix_fail(j->m, MMIX_ERROR_FILE, "%s: it learned with another ViT or decoder; give "
                     "those, or another --out", path);
}
static void head_of(job *j)
{
    const settings *o = j->o;
    char models[80];
    models_of(j, models);
    j->r.total = (size_t)o->steps;
    j->r.batch = (size_t)(o->batch * o->ask);
    snprintf(j->r.head, sizeof j->r.head, "vqa %s %s, %zu x %zu, pictures of %llu pixels, %llu "
             "steps of %llu x %llu questions of %zu, rate %g, bf16 %d, judged on %llu and %llu, "
             "seed %llu", o->random ? "random" : "trained", models, j->decoder->config.depth,
             j->decoder->config.dim, o->size, o->steps, o->batch, o->ask, j->e.train.count,
             o->rate, o->bf16, o->judge, o->last, o->seed);
}
static size_t last_of(const job *j)              /* questions of the last judgement */
{
    return j->o->last < j->e.test.count ? (size_t)j->o->last : j->e.test.count;
}
static void say_score(const char *after, const score *s, double seconds)
{
    double half, share = share_of(s, &half);
    fprintf(stderr, "%s: %.1f ± %.1f %% of %zu questions right (", after, 100 * share, 100 * half,
            sum_of(s->asked));
    for (int k = 0; k < KINDS; k++)
        fprintf(stderr, "%s%s %.1f %%", k ? ", " : "", kind_name[k],
                100 * (double)s->right[k] / fmax((double)s->asked[k], 1));
    if (s->same) fprintf(stderr, "; as the teacher %.1f %%", 100 * (double)s->same
                         / (double)sum_of(s->asked));
    fprintf(stderr, "; %.0f s)\n", seconds);
}
/* Judges the model, or its student, by n questions, and notes it. 0, or -1. */
static int rate_it(job *j, size_t n, const char *name)
{
    record *r = &j->r;
    char after[60];
    score s;
    double start = now();
    const mmix_decoder *d = j->student ? j->student : j->decoder;
    if (judge(j->m, &j->e, j->features, &j->p, d, n, &s, j->taught, j->said)) return -1;
    if (interrupted || r->scores == SCORES) return 0;
    s.step = r->done;
    snprintf(s.name, sizeof s.name, "%s", name);
    r->score[r->scores++] = s;
    snprintf(after, sizeof after, "after %zu steps", s.step);
    say_score(*name ? name : after, &s, now() - start);
    return 0;
}
/* Questions of a judgement, of the last one if there are more of those. */
static size_t judged_of(const job *j)
{
    size_t judged = (size_t)j->o->judge, n = last_of(j);
    int is_last = !j->taught && j->r.done == j->r.total;         /* of a run of `train` */
    return !is_last && judged < n ? judged : n;
}
/* A batch of pictures and questions to learn from, as of step number `number`. 0, or -1. */
static int next_lesson(const job *j, uint64_t number, lesson *l)
{
    const question *q[256 * 16];
    size_t B = (size_t)j->o->batch, ask = (size_t)j->o->ask;
    lesson_plan plan = {&j->e, j->features, "train", q, B, ask};
    for (size_t i = 0; i < B * ask; i++) {       /* each time a picture comes, its next questions */
        size_t turn = (size_t)number * B + i / ask, k = turn / j->subjects * ask + i % ask;
        const subject *s = &j->about[turn % j->subjects];
        q[i] = &j->e.train.at[s->first + k % s->count];
    }
    return lesson_make(j->m, &plan, l);
}
/* One step of the optimizer; *loss in nats an answer token. 0, or -1. */
static int step(job *j, double *loss)
{
    mmix_ctx *m = j->m;
    lesson l;
    mmix_adamw how = mmix_adamw_config_default();
    if (next_lesson(j, j->r.done, &l)) return -1;
    mmix_record(m, 1);
    l.input.media = project(m, &j->p, l.features);
    mmix_tensor *nats = mmix_cross_entropy(m, answer_logits(m, j->decoder, &l), l.wanted, -1);
    mmix_backward(m, nats);
    mmix_record(m, 0);
    *loss = (double)mmix_item(nats);
    how.lr = mmix_schedule_cosine(j->o->rate, j->o->rate / 100, j->r.total, 1, j->r.total / 20 + 1,
                                  j->o->rate / 100, j->r.done);
    mmix_adamw_step(&j->adamw, &how, -1, NULL);
    mmix_reset(m);
    return mmix_error(m) ? -1 : 0;
}
/* Notes a step, and says now and then how far it is. */
static void step_done(job *j, double loss, double hidden)
{
    record *r = &j->r;
    size_t at = r->done * STRETCHES / r->total;
    double t = now();
    r->loss[at] += loss;
    r->hidden[at] += hidden;
    r->in[at]++;
    r->done++;
    r->seconds = j->before + t - j->start;
    if (t - j->told < line_pause() && r->done < r->total) return;
    j->told = t;
    double each = (t - j->start) / (double)(r->done - j->first);
    fprintf(stderr, "step %zu of %zu: %.3f nats; %.2f seconds a step, %.0f minutes left%s", r->done,
            r->total, r->loss[at] / (double)r->in[at], each,
            each * (double)(r->total - r->done) / 60, on_screen() ? "   \r" : "\n");
}
/* Before the steps of this call. */
static void begin_clock(job *j)
{
    j->first = j->r.done;
    j->before = j->r.seconds;
    j->start = j->told = j->saved = now();
}
/* Whether the model is to be judged before the next step: one that was broken off, too. */
static int judgement_due(const job *j)
{
    const record *r = &j->r;
    int here = r->done % j->o->every == 0 || r->done == r->total;
    return here && (!r->scores || r->score[r->scores - 1].step < r->done);
}
/* Steps until the end, a signal, or the time is over. 0, or -1. */
static int learn(job *j)
{
    const double pause = 300;                    /* seconds between two savings */
    double loss;
    begin_clock(j);
    while (!interrupted) {
        int judges = judgement_due(j);
        if (judges && rate_it(j, judged_of(j), "")) return -1;
        if (interrupted || (judges && save(j)) || j->r.done == j->r.total) break;
        if (step(j, &loss)) return -1;
        step_done(j, loss, 0);
        if (now() - j->saved > pause && save(j)) return -1;
        if (j->o->minutes && now() - j->start > 60.0 * (double)j->o->minutes) interrupted = 1;
    }
    return 0;
}
/* Questions, features, decoder, projector. 0, or -1. */
static int job_ready(job *j)
{
    mmix_ctx *m = j->m;
    if (exam_make(m, j->o, &j->e)) return -1;
    j->features = open_features(m, j->o, &j->vision);
    if (!j->features) return -1;
    if (check_pictures(m, j->o, j->features, "train", &j->e.train)) return -1;
    if (check_pictures(m, j->o, j->features, "test", &j->e.test)) return -1;
    j->decoder = mmix_decoder_load(m, j->o->decoder);
    if (!j->decoder) return -1;
    j->language = bytes_hash_params(j->decoder->params);
    const mmix_entry *one = features_of(j->features, "test", j->e.test.at[0].picture);
    if (projector_make(m, &j->p, one->shape[1], j->decoder->config.dim)) return -1;
    j->said = (int32_t *)calloc(last_of(j), sizeof *j->said);
    if (!j->said) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for answers");
    return shuffle(j);
}
static void job_free(job *j)
{
    mmix_distill_destroy(j->run);
    mmix_decoder_destroy(j->student);
    mmix_optimizer_free(&j->adamw);
    mmix_params_destroy(j->p.params);
    mmix_decoder_destroy(j->decoder);
    mmix_archive_close(j->features);
    exam_free(&j->e);
    free(j->about);
    free(j->said);
    free(j->taught);
}
static void print_score(const settings *o, const score *s, int first)
{
    double half, share = share_of(s, &half), n = (double)sum_of(s->asked);
    if (o->json)
        printf("%s{\"after\": \"%s\", \"step\": %zu, \"asked\": %.0f, \"right\": %.6f, "
               "\"half\": %.6f, \"same\": %.6f}", first ? "" : ", ", s->name, s->step, n, share,
               half, (double)s->same / fmax(n, 1));
    else printf("%-14s %8zu %8.0f %8.1f ± %4.1f %9.1f\n", s->name, s->step, n, 100 * share,
                100 * half, 100 * (double)s->same / fmax(n, 1));
}
static void print_record(const settings *o, const record *r)
{
    if (o->json) {
        printf("{\"run\": \"%s\", \"steps\": %zu, \"prior\": ", o->run, r->done);
        print_score(o, &r->prior, 1);
        fputs(", \"teacher\": ", stdout);
        print_score(o, &r->teacher, 1);
        fputs(", \"scores\": [", stdout);
    } else {
        printf("%s\n%.0f seconds\n%-14s %8s %8s %15s %9s\n", r->head, r->seconds, "", "steps",
               "asked", "right, %", "same, %");
        print_score(o, &r->prior, 1);
        if (sum_of(r->teacher.asked)) print_score(o, &r->teacher, 0);
    }
    for (size_t i = 0; i < r->scores; i++) print_score(o, &r->score[i], !i);
    if (o->json) puts("]}");
}
/* What runs begin with. 0, or an exit status. */
static int run_ready(mmix_ctx *m, const settings *o, job *j)
{
    char path[1200];
    memset(j, 0, sizeof *j);
    j->m = m;
    j->o = o;
    path_of(o, "run", ".txt", path);
    if (report_folders(path)) return fail("--out %s: cannot be written into", o->out);
    if (o->bf16 && !mmix_has_bf16(m)) fprintf(stderr, "--bf16: this processor has none\n");
    mmix_multiply_bf16(m, o->bf16);
    return 0;
}
/* An exit status. */
static int train(mmix_ctx *m, const settings *given)
{
    const settings own = with_defaults(given, "trained", 900, 1e-3), *o = &own;
    job j;
    char path[1200];
    int status = run_ready(m, o, &j);
    if (status) return status;
    path_of(o, o->run, ".safetensors", path);
    int bad = job_ready(&j) || mmix_adamw_init(&j.adamw, j.p.params);
    if (!bad) head_of(&j);
    if (!bad && there(path)) bad = restore(m, path, &j.p, &j.adamw, &j.r);
    else if (!bad) bad = judge_prior(m, &j.e, last_of(&j), &j.r.prior);
    if (!bad && !learn(&j) && !mmix_error(m)) save(&j);
    if (!mmix_error(m)) print_record(o, &j.r);
    job_free(&j);
    return 0;
}

/* ---- students -------------------------------------------------------------------------------- */

/* The language half loses its attention: M-MATE takes its place (LinMU, arXiv 2601.01322), begins
   with o_proj by least squares (solve.h), and learns from the same questions. */

/* A student before its first step depends on the teacher, its branches and what least squares are
   taken over; all its runs begin there. */
static void begun_head(const job *j, size_t taught, char *head, size_t room)
{
    const settings *o = j->o;
    char models[80];
    models_of(j, models);
    snprintf(head, room, "vqa student of %.60s, %016llx after %zu steps, %s, pictures of %llu "
             "pixels: %s, window %llu, over %llu, bf16 %d, judged on %zu, seed %llu", o->trained,
             (unsigned long long)bytes_hash_params(j->p.params), taught, models, o->size,
             o->branches, o->window, o->solve, o->bf16, judged_of(j), o->seed);
}
static void student_head(job *j, size_t taught)
{
    const settings *o = j->o;
    begun_head(j, taught, j->r.head, sizeof j->r.head);
    size_t n = strlen(j->r.head);
    snprintf(j->r.head + n, sizeof j->r.head - n, "; %llu stages, %zu steps of %llu x %llu "
             "questions, rate %g, L_hid %d", o->stages, j->r.total, o->batch, o->ask, o->rate,
             !o->no_hidden);
}
/* The paper's stages, or one with everything. L_seq is left out: a trained teacher's answers are
   nearly always the true ones, which L_sup has. */
static mmix_distill_config plan(const job *j)
{
    mmix_distill_config c = stages_of((size_t)j->o->stages, j->r.total, j->o->rate);
    for (size_t i = 0; i < c.stages && j->o->no_hidden; i++) c.stage[i].hidden = 0;
    return c;
}
static int exercise(const job *j, uint64_t number, lesson *l, mmix_distill_batch *batch)
{
    memset(batch, 0, sizeof *batch);
    if (next_lesson(j, number, l)) return -1;
    batch->input = l->input;
    batch->input.media = project(j->m, &j->p, l->features);
    batch->target = l->target;
    batch->mask = l->mask;
    return mmix_error(j->m) ? -1 : 0;
}
/* One question of those that are learned from, for least squares. */
static int solve_row(void *user, size_t i, mmix_sequence *all)
{
    job *j = (job *)user;
    const subject *s = &j->about[i % j->subjects];
    const question *q = &j->e.train.at[s->first + i / j->subjects % s->count];
    lesson_plan plan = {&j->e, j->features, "train", &q, 1, 1};
    if (lesson_make(j->m, &plan, &j->solved)) return -1;
    *all = j->solved.input;
    all->media = project(j->m, &j->p, j->solved.features);
    return mmix_error(j->m) ? -1 : 0;
}
static mmix_decoder *convert_decoder(const settings *o, const mmix_decoder *teacher)
{
    mmix_mmate_options options;
    memset(&options, 0, sizeof options);
    options.branches = branch_kind[o->branch];
    options.text_window = (size_t)o->window;
    return mmix_decoder_student(teacher, &options);
}
static int save_student(job *j)                          /* 0, or -1 */
{
    char path[1200], *note = (char *)malloc(NOTE);
    if (!note) return mmix_fail(j->m, MMIX_ERROR_MEMORY, "no memory for a note");
    write_note(&j->r, note);
    path_of(j->o, j->o->run, ".safetensors", path);
    int bad = mmix_distill_save(j->run, path, note);
    path_of(j->o, j->o->run, ".txt", path);
    if (!bad) bad = write_record(j->m, path, &j->r);
    free(note);
    j->saved = now();
    return bad;
}
/* What all runs of a kind of student begin with lies in begun-BRANCHES.…: the student, its scores,
   and what its teacher said. */
static void begun_path(const settings *o, const char *ending, char path[1200])
{
    char name[40];
    snprintf(name, sizeof name, "begun-%s", o->branches);
    path_of(o, name, ending, path);
}
static int save_begun(job *j, size_t taught)             /* 0, or -1 */
{
    char path[1200];
    record r = j->r;
    mmix_entry said;
    memset(&said, 0, sizeof said);
    said.name = "array";
    said.dtype = MMIX_FILE_I32;
    said.ndim = 1;
    said.shape[0] = judged_of(j);
    said.data = j->taught;
    begun_path(j->o, ".said.npy", path);
    if (mmix_archive_save(j->m, path, &said, 1, NULL)) return -1;
    begun_path(j->o, ".student.safetensors", path);
    if (mmix_decoder_save(j->student, path)) return -1;
    begun_head(j, taught, r.head, sizeof r.head);
    begun_path(j->o, ".txt", path);              /* last: where it is the others are */
    return write_record(j->m, path, &r);
}
/* 1 if it is there and of these settings; then the record has its scores. 0, or -1 on error. */
static int load_begun(job *j, size_t taught)
{
    char path[1200], *note;
    record r;
    memset(&r, 0, sizeof r);
    begun_head(j, taught, r.head, sizeof r.head);
    begun_path(j->o, ".txt", path);
    note = there(path) ? bytes_text(j->m, path) : NULL;
    int same = note && !read_note(note, &r);
    free(note);
    if (!same) return mmix_error(j->m) ? -1 : 0;
    begun_path(j->o, ".said.npy", path);
    mmix_archive *a = mmix_archive_open(j->m, path);
    const mmix_entry *said = mmix_archive_entry(a, 0);
    if (said && mmix_entry_count(said) == judged_of(j))
        mmix_archive_read(j->m, a, said, MMIX_FILE_I32, j->taught, judged_of(j));
    else if (a) mmix_fail(j->m, MMIX_ERROR_FILE, "%s: expected %zu answers", path, judged_of(j));
    mmix_archive_close(a);
    begun_path(j->o, ".student.safetensors", path);
    if (!mmix_error(j->m)) j->student = mmix_decoder_load(j->m, path);
    j->r.prior = r.prior;
    j->r.teacher = r.teacher;
    j->r.scores = r.scores;
    for (size_t i = 0; i < r.scores; i++) j->r.score[i] = r.score[i];
    return mmix_error(j->m) ? -1 : 1;
}
enum { BEGUN = 2 };                              /* scores before the first step */
/* Judges the teacher, converts it, and judges what comes of it and of least squares. 0, or -1. */
static int make_begun(job *j, size_t taught)
{
    enum { FEW = 64 };                           /* questions that show that it says nothing yet */
    mmix_ctx *m = j->m;
    size_t n = judged_of(j);
    double start = now();
    if (judge_prior(m, &j->e, n, &j->r.prior)) return -1;
    if (judge(m, &j->e, j->features, &j->p, j->decoder, n, &j->r.teacher, NULL, j->taught))
        return -1;
    say_score("the teacher", &j->r.teacher, now() - start);
    j->student = interrupted ? NULL : convert_decoder(j->o, j->decoder);
    if (!j->student || rate_it(j, n < FEW ? n : FEW, "converted") || interrupted) return -1;
    solve_lesson l = {m, j->decoder, j->student, (size_t)j->o->solve, solve_row, j};
    start = now();
    if (solve_outputs(&l) || interrupted) return -1;
    fprintf(stderr, "least squares over %llu questions took %.0f s\n", j->o->solve, now() - start);
    if (rate_it(j, n, "least squares") || interrupted) return -1;
    return save_begun(j, taught);
}
/* The trained model, and what the student's run depends on. *taught: steps of the model. 0, or
   -1. */
static int open_trained(job *j, size_t *taught)
{
    char path[1200];
    record trained;
    memset(&trained, 0, sizeof trained);
    path_of(j->o, j->o->trained, ".safetensors", path);
    if (restore(j->m, path, &j->p, NULL, &trained) || check_models(j, path, &trained)) return -1;
    *taught = trained.done;
    j->r.total = (size_t)(j->o->steps < j->o->stages ? j->o->stages : j->o->steps);
    j->r.batch = (size_t)(j->o->batch * j->o->ask);
    student_head(j, *taught);
    return mmix_error(j->m) ? -1 : 0;
}
/* The numbers of a run that is over, if it is this one. 0, or -1. */
static int read_finished(job *j)
{
    record r;
    char path[1200];
    path_of(j->o, j->o->run, ".txt", path);
    if (read_record(j->m, path, &r)) return -1;
    if (strcmp(r.head, j->r.head))
        return mmix_fail(j->m, MMIX_ERROR_FILE, "%s: of a run with other models or settings; give "
                         "them as they were, or another --run", path);
    j->r = r;
    return 0;
}
/* The run of the file, or a new one. 0, or -1. */
static int begin_student(job *j, size_t taught)
{
    mmix_ctx *m = j->m;
    char path[1200];
    j->taught = (int32_t *)calloc(judged_of(j), sizeof *j->taught);
    if (!j->taught) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for answers");
    int begun = load_begun(j, taught);
    if (begun < 0 || (!begun && make_begun(j, taught))) return -1;
    path_of(j->o, j->o->run, ".safetensors", path);
    if (!there(path)) {
        j->run = mmix_distill_create(j->decoder, j->student, plan(j));
        return mmix_error(m) ? -1 : 0;
    }
    mmix_decoder_destroy(j->student);
    j->student = NULL;
    j->run = mmix_distill_load(j->decoder, path, &j->student);
    if (j->run && read_note(j->run->note, &j->r))
        mmix_fail(m, MMIX_ERROR_FILE, "%s: of a run with other models or settings; give them as "
                  "they were, or another --run", path);
    return mmix_error(m) ? -1 : 0;
}
/* Steps until the end, a signal, or the time is over. 0, or -1. */
static int learn_student(job *j)
{
    const double pause = 900;                    /* seconds between two savings, of gigabytes */
    begin_clock(j);
    while (!interrupted) {
        mmix_distill_batch batch;
        mmix_distill_stats s;
        lesson l;
        char name[40];
        size_t over = (size_t)j->run->stage;     /* stages, of which each is judged */
        snprintf(name, sizeof name, j->o->stages > 1 ? "stage %zu" : "one stage", over);
        if (j->r.scores < BEGUN + over && rate_it(j, judged_of(j), name)) return -1;
        if (interrupted) break;
        if (exercise(j, j->run->number, &l, &batch)) return -1;
        int more = mmix_distill_step(j->run, &batch, &s);
        if (more < 0) return -1;
        if (!more) break;
        mmix_reset(j->m);
        step_done(j, s.token, s.hidden);
        if (now() - j->saved > pause && save_student(j)) return -1;
        if (j->o->minutes && now() - j->start > 60.0 * (double)j->o->minutes) interrupted = 1;
    }
    return 0;
}
/* What a run that is over leaves. 0, or -1. */
static int finish_student(job *j)
{
    char path[1200];
    mmix_distill_destroy(j->run);
    j->run = NULL;
    path_of(j->o, j->o->run, ".student.safetensors", path);
    if (mmix_decoder_save(j->student, path)) return -1;
    path_of(j->o, j->o->run, ".txt", path);
    if (write_record(j->m, path, &j->r)) return -1;
    path_of(j->o, j->o->run, ".safetensors", path);
    if (there(path)) remove(path);
    return 0;
}
/* An exit status. */
static int convert(mmix_ctx *m, const settings *given)
{
    const settings own = with_defaults(given, "three", given->student_steps, 0.02), *o = &own;
    job j;
    char path[1200];
    int status = run_ready(m, o, &j);
    if (status) return status;
    if (!strcmp(o->run, o->trained)) return fail("--run %s: that is the trained run", o->run);
    path_of(o, o->run, ".student.safetensors", path);
    size_t taught = 0;
    int ready = !job_ready(&j) && !open_trained(&j, &taught);
    if (ready && there(path)) read_finished(&j);
    else if (ready && !begin_student(&j, taught) && !learn_student(&j)) {
        if (interrupted) save_student(&j);
        else finish_student(&j);
    }
    if (!mmix_error(m)) print_record(o, &j.r);
    job_free(&j);
    return 0;
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* How long many pictures in one sequence take: to be seen, to be read, and a token after them. The
   first line of speed.txt says of what its times are; then each stands in a line, so that those that
   are there are not taken again. */
enum { ENCODER, TEACHER, STUDENT, TIMED };
static const char *const timed_name[TIMED] = {"encoder", "teacher", "student"};
typedef struct timing {
    int who;
    size_t tokens;                               /* of media */
    pace p;
} timing;
enum { TIMINGS = TIMED * LIST };

/* What times depend on, as the first line of their file. */
static void speed_head(mmix_ctx *m, const settings *o, const mmix_vision *v, const mmix_decoder *d,
                       char *head, size_t room)
{
    snprintf(head, room, "vqa times, ViT %016llx, decoder %016llx, pictures of %llu pixels, %s, "
             "window %llu, threads %d\n",
             (unsigned long long)bytes_hash_params(mmix_vision_params(v)),
             (unsigned long long)bytes_hash_params(d->params), o->size, o->branches, o->window,
             mmix_threads(m));
}
/* The times in a file whose first line is `head`, or any (NULL); none if it is not there. */
static size_t read_timings(mmix_ctx *m, const char *path, const char *head, timing *t)
{
    size_t n = 0;
    char *bytes = there(path) ? bytes_text(m, path) : NULL, *at = bytes;
    const char *wanted = head ? head : "vqa times, ";
    if (at && strncmp(at, wanted, strlen(wanted))) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: times of other models, sizes or threads; move it away, "
                  "or give another --out", path);
        at = NULL;
    }
    if (at) at += strcspn(at, "\n");
    if (at) at += *at == '\n';
    for (; at && *at && n < TIMINGS; n++) {
        size_t name = strcspn(at, " ");
        for (t[n].who = 0; t[n].who < TIMED; t[n].who++)
            if (!strncmp(timed_name[t[n].who], at, name)) break;
        at += name;
        t[n].tokens = strtoul(at, &at, 10);
        t[n].p.read = strtod(at, &at);
        t[n].p.step = strtod(at, &at);
        t[n].p.bytes = strtod(at, &at);
        if (t[n].who == TIMED || *at != '\n') {
            mmix_fail(m, MMIX_ERROR_FILE, "%s: line %zu is no time", path, n + 2);
            break;
        }
        at++;
    }
    free(bytes);
    return mmix_error(m) ? 0 : n;
}
static const timing *timing_of(const timing *t, size_t n, int who, size_t tokens)
{
    for (size_t i = 0; i < n; i++)
        if (t[i].who == who && t[i].tokens == tokens) return &t[i];
    return NULL;
}
/* `count` pictures of grid x grid tokens, each behind one token of text, and one token at the end;
   their features are random. *span is to be freed. 0, or -1. */
static int album(mmix_ctx *m, const mmix_decoder *d, size_t count, size_t grid, mmix_sequence *q,
                 mmix_span **span)
{
    size_t n = grid * grid, shape[2] = {1, count * (n + 1) + 1};
    memset(q, 0, sizeof *q);
    *span = (mmix_span *)calloc(count, sizeof **span);
    if (!*span) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu pictures", count);
    for (size_t i = 0; i < count; i++) {
        mmix_span *s = *span + i;
        s->start = i * (n + 1) + 1;
        s->grid[0] = 1;
        s->grid[1] = grid;
        s->grid[2] = grid;
    }
    q->tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; q->tokens && i < shape[1]; i++) mmix_data_i32(q->tokens)[i] = 1;
    q->spans = *span;
    q->n_spans = count;
    q->media = mmix_fill_normal(m, mmix_new3(m, 1, count * n, d->config.dim), 0.2, 1);
    return mmix_error(m) ? -1 : 0;
}
/* Seconds until the ViT has seen a picture, of the second batch of them. */
static double time_encoder(mmix_ctx *m, const settings *o, const mmix_vision *v)
{
    enum { AT_ONCE = 16 };
    double seconds = 0;
    for (int i = 0; i < 2; i++, mmix_reset(m)) {
        mmix_tensor *image = mmix_new4(m, AT_ONCE, 3, (size_t)o->size, (size_t)o->size);
        if (image) mmix_fill_normal(m, image, 1, 2);
        double start = clock_of(m);
        mmix_vision_forward(m, v, image, NULL);
        seconds = (clock_of(m) - start) / AT_ONCE;
    }
    return seconds;
}
static void print_timing(const settings *o, const timing *t, int first)
{
    if (o->json)
        printf("%s{\"who\": \"%s\", \"media_tokens\": %zu, \"read_seconds\": %.4f, "
               "\"written_a_second\": %.2f, \"state_bytes\": %.0f}", first ? "[" : ",\n ",
               timed_name[t->who], t->tokens, t->p.read, t->p.step > 0 ? 1 / t->p.step : 0,
               t->p.bytes);
    else if (t->who == ENCODER)
        printf("%-8s %10zu %12.2f %14s %14s\n", timed_name[t->who], t->tokens, t->p.read, "-", "-");
    else printf("%-8s %10zu %12.2f %14.1f %14.2f\n", timed_name[t->who], t->tokens, t->p.read,
                1 / fmax(t->p.step, 1e-9), t->p.bytes / 1048576);
    fflush(stdout);
}
/* Takes one time and appends it to the file. 0, or -1. */
static int take_time(mmix_ctx *m, const settings *o, const char *path, const mmix_vision *v,
                     mmix_decoder *const *d, timing *t)
{
    size_t grid = (size_t)o->size / mmix_vision_config_of(v)->patch;
    size_t count = t->tokens / (grid * grid);
    mmix_sequence q;
    mmix_span *span = NULL;
    if (!count)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "--lengths: expected at least the %zu tokens of a "
                         "picture, found %zu", grid * grid, t->tokens);
    if (t->who == ENCODER) t->p.read = time_encoder(m, o, v) * (double)count;
    else if (!album(m, d[t->who], count, grid, &q, &span)) pace_of(m, d[t->who], &q, &t->p);
    free(span);
    if (mmix_error(m)) return -1;
    FILE *f = fopen(path, "ab");
    if (f) fprintf(f, "%s %zu %.6f %.6f %.0f\n", timed_name[t->who], t->tokens, t->p.read,
                   t->p.step, t->p.bytes);
    if (!f || fclose(f)) return mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be written", path);
    return 0;
}
/* All times that are not there yet. 0, or -1. */
static int take_times(mmix_ctx *m, const settings *o, const size_t *length, size_t lengths)
{
    char path[1200], head[300];
    timing known[TIMINGS], t;
    size_t n = 0;
    mmix_vision *v = mmix_vision_load_as(m, o->vision, MMIX_DTYPE_BF16);
    mmix_decoder *d[TIMED] = {NULL, NULL, NULL};
    path_of(o, "speed", ".txt", path);
    if (v) d[TEACHER] = mmix_decoder_load(m, o->decoder);
    if (d[TEACHER]) {
        speed_head(m, o, v, d[TEACHER], head, sizeof head);
        n = read_timings(m, path, head, known);
        if (!there(path) && report_write(path, head))
            mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
    }
    if (!mmix_error(m)) d[STUDENT] = convert_decoder(o, d[TEACHER]);
    for (int who = TEACHER; who < TIMED && !mmix_error(m); who++)
        mmix_params_narrow(d[who]->params, MMIX_DTYPE_BF16);
    for (size_t i = 0; i < TIMED * lengths && !mmix_error(m) && !interrupted; i++) {
        const timing *old = timing_of(known, n, (int)(i % TIMED), length[i / TIMED]);
        memset(&t, 0, sizeof t);
        t.who = (int)(i % TIMED);
        t.tokens = length[i / TIMED];
        if (!old && take_time(m, o, path, v, d, &t)) break;
        print_timing(o, old ? old : &t, !i);
    }
    mmix_decoder_destroy(d[STUDENT]);
    mmix_decoder_destroy(d[TEACHER]);
    mmix_vision_destroy(v);
    return mmix_error(m) ? -1 : 0;
}
/* An exit status. */
static int speed(mmix_ctx *m, const settings *o)
{
    size_t length[LIST], lengths = read_list("--lengths", o->lengths, length);
    char path[1200];
    if (!lengths) return 2;
    path_of(o, "speed", ".txt", path);
    if (report_folders(path)) return fail("--out %s: cannot be written into", o->out);
    if (!o->json) printf("bf16, threads: %d\n%-8s %10s %12s %14s %14s\n", mmix_threads(m), "",
                         "tokens", "read in s", "written a s", "state in MiB");
    if (!take_times(m, o, length, lengths) && o->json) puts("]");
    return 0;
}

/* ---- fewer patches --------------------------------------------------------------------------- */

/* Whether question q is answered rightly, said greedily, token by token, from a state that has read
   it with these patches pruned. The first token goes to *first. -1 on error. */
static int answer_pruned(job *j, const question *q, const mmix_prune *prune, int32_t *first)
{
    mmix_ctx *m = j->m;
    const mmix_decoder *d = j->student ? j->student : j->decoder;
    const question *one[1] = {q};
    const tokenizer_ids *answer = &j->e.answer.at[q->answer].ids;
    lesson_plan plan = {&j->e, j->features, "test", one, 1, 1};
    lesson l;
    int right = 1;
    if (lesson_make(m, &plan, &l)) return -1;
    mmix_sequence piece = l.input;
    piece.tokens = mmix_slice(m, l.input.tokens, 1, 0, l.L - answer->count);
    piece.media = project(m, &j->p, l.features);
    piece.prune = prune;
    mmix_mix_state *state = mmix_decoder_state_create(d);
    for (size_t k = 0; state && k < answer->count && right; k++) {
        const mmix_real *logits = mmix_data(mmix_decoder_step(m, d, &piece, state));
        if (!logits) break;
        int32_t said = mmix_sample_token(m, logits, d->config.vocabulary, NULL, 0);
        if (!k) *first = said;
        right = said == answer->at[k];
        memset(&piece, 0, sizeof piece);
        piece.tokens = mmix_slice(m, l.input.tokens, 1, l.L - answer->count + k, 1);
    }
    mmix_mix_state_destroy(state);
    return mmix_error(m) ? -1 : right;
}
/* Judges the model with these patches pruned, or all (NULL), and prints a line. said holds the first
   tokens with all patches, and is filled by that. 0, or -1. */
static int judge_pruned(job *j, const mmix_prune *prune, const char *name)
{
    score s;
    memset(&s, 0, sizeof s);
    snprintf(s.name, sizeof s.name, "%s", name);
    s.step = prune ? prune->layer : 0;
    for (size_t i = 0; i < j->o->judge && !interrupted; i++, mmix_reset(j->m)) {
        const question *q = test_question(&j->e, i, j->o->judge);
        int kind = kind_of(j->e.answer.at[q->answer].words);
        int32_t first = 0;
        int right = answer_pruned(j, q, prune, &first);
        if (right < 0) return -1;
        if (!prune) j->said[i] = first;
        s.same += first == j->said[i];
        s.asked[kind]++;
        s.right[kind] += (size_t)right;
    }
    print_score(j->o, &s, !prune);
    fflush(stdout);
    return 0;
}
/* An exit status. */
static int prune(mmix_ctx *m, const settings *given)
{
    const settings own = with_defaults(given, "trained", 0, 1e-3), *o = &own;
    size_t layer[LIST], layers = read_list("--after", o->after, layer);
    size_t keep[LIST], keeps = read_list("--keep", o->keep, keep);
    char path[1200], name[40];
    job j;
    if (!layers || !keeps) return 2;
    for (size_t i = 0; i < keeps; i++)
        if (keep[i] > 100) return fail("--keep %zu: give shares of 1 to 100 percent", keep[i]);
    int status = run_ready(m, o, &j);
    if (status) return status;
    path_of(o, o->run, ".safetensors", path);
    int bad = job_ready(&j) || mmix_adamw_init(&j.adamw, j.p.params);
    if (!bad && !there(path)) bad = mmix_fail(m, MMIX_ERROR_FILE, "%s: missing; train it", path);
    if (!bad) bad = restore(m, path, &j.p, &j.adamw, &j.r) || check_models(&j, path, &j.r);
    if (!bad && o->student) {
        path_of(o, o->student, ".student.safetensors", path);
        j.student = mmix_decoder_load(m, path);
        bad = !j.student;
    }
    free(j.said);
    j.said = (int32_t *)calloc(o->judge, sizeof *j.said);
    if (!bad && !j.said) bad = mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for answers");
    if (!bad && o->json) putchar('[');
    else if (!bad) printf("%-14s %8s %8s %15s %9s\n", "patches", "after", "asked", "right, %",
                          "same, %");
    if (!bad) bad = judge_pruned(&j, NULL, "all");
    for (size_t i = 0; i < layers * (keeps + 1) && !bad && !interrupted; i++) {
        size_t k = i % (keeps + 1);
        mmix_prune how = {layer[i / (keeps + 1)], 0, {2, 2}};
        snprintf(name, sizeof name, "one of 2 x 2");
        if (k < keeps) {
            how.keep = (double)keep[k] / 100;
            how.cell[0] = how.cell[1] = 0;
            snprintf(name, sizeof name, "%zu %%", keep[k]);
        }
        bad = judge_pruned(&j, &how, name);
    }
    if (!bad && o->json) puts("]");
    job_free(&j);
    return 0;
}

#include "vqa_report.h"

/* ---- everything ------------------------------------------------------------------------------ */

/* All runs of the report one after another. What is there already is not made again, so that the
   same command goes on after Ctrl-C. An exit status. */
static int all(mmix_ctx *m, const settings *given)
{
    for (int run = 0; run < RUNS && !mmix_error(m) && !interrupted; run++) {
        settings o = *given;
        int learns = run <= RUN_RANDOM;
        o.run = run_name[run];
        o.trained = run_name[RUN_TRAINED];
        o.random = run == RUN_RANDOM;
        o.stages = run == RUN_THREE ? 3 : 1;
        o.no_hidden = run == RUN_NO_HIDDEN;
        if (run == RUN_FLEX) o.branch = 1;
        if (run == RUN_SWIN) o.branch = 2;
        o.branches = branch_name[o.branch];
        if (!learns) o.steps = given->student_steps;
        fprintf(stderr, "%s\n", run_title[run]);
        int status = learns ? train(m, &o) : convert(m, &o);
        if (status) return status;
    }
    if (mmix_error(m) || interrupted) return 0;
    int status = speed(m, given);
    return status || mmix_error(m) || interrupted ? status : make_report(m, given);
}

/* ---- main ------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(mmix_ctx *m, const settings *o);  /* an exit status */
    } command[] = {{"train", train}, {"convert", convert}, {"speed", speed},
                   {"prune", prune},
                   {"report", make_report}, {"all", all}};
    size_t commands = sizeof command / sizeof *command, k = 0;
    settings o;
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    while (argc > 1 && k < commands && strcmp(argv[1], command[k].name)) k++;
    if (argc < 2 || k == commands)
        return fail("%s: give all, train, convert, speed, prune or report; --help says more",
                    argc < 2 ? "nothing to do" : argv[1]);
    if (!o.decoder) return fail("%s: give --decoder", argv[1]);
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
