/* linear.c - attention out of a trained backbone: linear mixers that keep its features

       cc -O2 demos/studies/linear.c -o linear -lm -lpthread
       ./linear --load model.safetensors --images photos

   A ViT is opened, the teacher. Its student is the same network with other mixers in the place
   of attention, in all blocks or in some; the teacher's weights are reused. Then the student
   learns, in three stages of equal time, to give the teacher's features again: each new mixer
   alone on what the teacher's block reads; the mixers one behind the other, by what each block
   makes; at last all weights, by the features. It looks at random crops of photographs, at three
   sizes; no label is used. At the end both are judged on pictures that nothing was learned from.
   A table goes to stdout, all of it to OUT/report.html, the student to OUT/student.safetensors.

   Sections: options · pictures · likeness · cost · run files · train · worth · main;
   linear_report.h prints what came out */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "linear"
#include "../../mamba_mix.h"
#include "pictures.h"
#include "scenes.h"
#include "program.h"
#include "evaluate.h"
#include "report.h"
#include "learn.h"
#include "linear_figures.h"
#include <inttypes.h>

enum { STAGES = 3, SIDES = 3, FIFTHS = 5, PLOTTED = 1 + FIFTHS + STAGES };
enum { MAPS_JUDGED = 200, HELD = 64, COMPARED = 256, TOGETHER = 8 };
enum { TAUGHT = 1000, SEGMENTED = 320 };  /* pictures of heads at most: the probe's; both halves */
enum { SAVE_SECONDS = 120 };  /* so much is lost at most if the machine goes down */
enum { COSTED = 8, LOOKS = 4 };  /* sizes whose cost is measured: of --cost at most; of a run */
static const char *const stage_name[STAGES] = {"mixers alone", "blocks", "features"};

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "linear [figures] - attention out of a trained backbone: linear mixers that keep its "
    "features\n\n"
    "  --load FILE     the teacher: weights of a ViT, DINOv2 or DINOv3\n"
    "  --images DIR    DIR/train/CLASS/* and DIR/test/CLASS/*, or DIR/CLASS/*, or DIR/*, or a "
    "file of dino --pack\n"
    "  --masks DIR     their masks, the same tree, PNG: 0 background, 255 void, else object\n"
    "  --out DIR       where report.html, run and student go          (build/linear-out)\n"
    "  --mixer NAME    mmate: Flex-MA, Mamba-2 in both directions, and Local-Swin, attention in "
    "windows; flex or\n"
    "                  swin: one of the two; linear: linear attention; auto: in each block the "
    "one of these that\n"
    "                  comes nearest to attention after --steps steps alone, or a tenth of "
    "--minutes  (mmate)\n"
    "  --keep LIST     blocks, the first is 1, that keep their attention: 3,6,9; every=4: 4, 8, "
    "12, …; 0: none  (0)\n"
    "  --window N      Local-Swin's windows hold N x N patches        (8)\n"
    "  --feature NAME  of linear attention: softmax, efficient, elu1, relu   (softmax: of q and "
    "of k over features)\n"
    "  --stages N      3, or 1: the last alone                        (3)\n"
    "  --lora R        in the last stage low-rank adapters of rank R beside all matrices, in "
    "place of all weights;\n"
    "                  0: all weights                              (0)\n"
    "  --minutes M     training time                                  (10)\n"
    "  --steps N       so many steps a stage instead, for results that can be repeated\n"
    "  --batch N       crops a step, two of each picture              (16)\n"
    "  --size N        pixels a side; crops have 0.75, 1 and 1.25 of it, a batch one size  (112)\n"
    "  --seed N        of crops and new weights                       (1)\n"
    "  --cost LIST     only measure time and memory, of the teacher and of students with each "
    "mixer, with random\n"
    "                  weights, for pictures of so many pixels a side: 224,518,1036\n"
    "  --resume        go on with the run in OUT, to the same bits as if it had never stopped; "
    "give the other\n"
    "                  options as they were\n"
    "  --threads N     (all cores)\n"
    "  --json          results as JSON on stdout\n"
    "  --help\n\n"
    "`figures` draws what blocks mix and what pictures cost, two .svg files in DIR, and nothing "
    "else.\n"
    "A run is saved every two minutes; Ctrl-C saves it too and says how to go on.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

enum { KINDS = 4, AUTO = KINDS, KEPT, FEATURES = 4 };
static const struct {
    const char *name, *title;
    int block;
} kind[KINDS + 2] = {
    {"mmate", "M-MATE", MMIX_BLOCK_MMATE}, {"flex", "Flex-MA", MMIX_BLOCK_FLEX},
    {"swin", "Local-Swin", MMIX_BLOCK_SWIN}, {"linear", "linear attention", MMIX_BLOCK_LINEAR},
    {"auto", "the nearest mixer of each block", 0}, {"kept", "attention", MMIX_BLOCK_MIXER},
};
static const char *const feature_name[FEATURES] = {"softmax", "efficient", "elu1", "relu"};

typedef struct settings {
    const char *load, *images, *masks, *out;
    /* nearest: of AUTO */
    int kind, feature, json, resume, figures, keep[MMIX_VISION_BLOCKS], nearest[MMIX_VISION_BLOCKS];
    double minutes;
    size_t every, steps, stages, lora, batch, size, window, threads;  /* every 0: keep says it */
    size_t cost[COSTED], costs;                          /* of --cost */
    uint64_t seed;
    char run[1100], student[1100], page[1100];           /* files in OUT */
} settings;

/* --keep into the options. 0, or an exit status. */
static int read_keep(settings *o, const char *text)
{
    unsigned long long n;
    char *end = NULL;
    if (!strncmp(text, "every=", 6)) {
        if (report_whole("--keep every", text + 6, 1, MMIX_VISION_BLOCKS, &n)) return 2;
        return o->every = (size_t)n, 0;
    }
    if (!strcmp(text, "0")) return 0;
    for (const char *at = text; ; at = end + 1) {
        n = strtoull(at, &end, 10);
        if (end == at || (*end && *end != ',') || n < 1 || n > MMIX_VISION_BLOCKS)
            return fail("--keep %s: give blocks from 1 on, such as 3,6,9, or every=4, or 0", text);
        o->keep[n - 1] = 1;
        if (!*end) return 0;
    }
}

/* --cost into the options. 0, or an exit status. */
static int read_costs(settings *o, const char *text)
{
    char *end = NULL;
    for (const char *at = text; at; at = *end ? end + 1 : NULL) {
        unsigned long long n = strtoull(at, &end, 10);
        if (end == at || (*end && *end != ',') || n < 1 || n > 8192 || o->costs == COSTED)
            return fail("--cost %s: give at most %d sizes in pixels, such as 224,518", text,
                        COSTED);
        o->cost[o->costs++] = (size_t)n;
    }
    return 0;
}

static int kind_of(const settings *o, size_t block)      /* an index of kind[] */
{
    if (o->keep[block]) return KEPT;
    return o->kind == AUTO ? o->nearest[block] : o->kind;
}

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    const char *mixer = "mmate", *keep = "0", *feature = "softmax", *minutes = "10", *cost = NULL;
    size_t seed = 1;
    char *end;
    memset(o, 0, sizeof *o);
    o->out = "build/linear-out";
    o->stages = STAGES;
    o->batch = 16;
    o->size = 112;
    o->window = 8;
    struct {
        const char *name, **text;
        size_t *number, low, high;
    } known[] = {
        {"--load", &o->load, NULL, 0, 0},
        {"--images", &o->images, NULL, 0, 0},
        {"--masks", &o->masks, NULL, 0, 0},
        {"--out", &o->out, NULL, 0, 0},
        {"--mixer", &mixer, NULL, 0, 0},
        {"--keep", &keep, NULL, 0, 0},
        {"--feature", &feature, NULL, 0, 0},
        {"--minutes", &minutes, NULL, 0, 0},
        {"--cost", &cost, NULL, 0, 0},
        {"--window", NULL, &o->window, 1, 1024},
        {"--stages", NULL, &o->stages, 1, STAGES},
        {"--lora", NULL, &o->lora, 0, 1024},
        {"--steps", NULL, &o->steps, 1, 1000000},
        {"--batch", NULL, &o->batch, 2, 4096},
        {"--size", NULL, &o->size, 8, 2048},
        {"--seed", NULL, &seed, 0, 1000000000},
        {"--threads", NULL, &o->threads, 1, 64},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        size_t count = sizeof known / sizeof *known;
        unsigned long long n;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        if (!strcmp(argv[i], "--json")) {
            o->json = 1;
            continue;
        }
        if (!strcmp(argv[i], "--resume")) {
            o->resume = 1;
            continue;
        }
        if (!strcmp(argv[i], "figures")) {
            o->figures = 1;
            continue;
        }
        while (k < count && strcmp(argv[i], known[k].name)) k++;
        if (k == count) return fail("%s: no such option; --help lists them all", argv[i]);
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        if (known[k].text) {
            *known[k].text = argv[i];
            continue;
        }
        if (report_whole(known[k].name, argv[i], known[k].low, known[k].high, &n)) return 2;
        *known[k].number = (size_t)n;
    }
    o->seed = seed;
    o->minutes = strtod(minutes, &end);
    if (*end || !(o->minutes > 0 && o->minutes < 1e5))
        return fail("--minutes %s: give a number above 0", minutes);
    while (o->kind < KEPT && strcmp(mixer, kind[o->kind].name)) o->kind++;
    if (o->kind == KEPT) return fail("--mixer %s: give mmate, flex, swin, linear or auto", mixer);
    while (o->feature < FEATURES && strcmp(feature, feature_name[o->feature])) o->feature++;
    if (o->feature == FEATURES)
        return fail("--feature %s: give softmax, efficient, elu1 or relu", feature);
    if (o->stages == 2) return fail("--stages 2: give 3, or 1");
    if (o->lora && o->stages == 1)
        return fail("--lora %zu --stages 1: new mixers want more than adapters", o->lora);
    if (o->batch % 2) return fail("--batch %zu: give an even number, two crops of each picture",
                                  o->batch);
    if (read_keep(o, keep) || (cost && read_costs(o, cost))) return 2;
    if (o->figures) return 0;
    if (!o->load) return fail("give --load, the teacher's file; --help says more");
    if (!o->images && !o->costs)
        return fail("give --images, a folder of pictures to learn from; --help says more");
    snprintf(o->run, sizeof o->run, "%s/run.safetensors", o->out);
    snprintf(o->student, sizeof o->student, "%s/student.safetensors", o->out);
    return 0;
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Sides of crops, whole patches: 0.75, 1 and 1.25 of --size, without repetition. Returns how
   many. */
static size_t sides_of(const settings *o, const mmix_vision *v, size_t *side)
{
    size_t patch = mmix_vision_config_of(v)->patch;
    size_t n = 0;
    for (size_t k = 3; k < 3 + SIDES; k++) {
        size_t s = (k * o->size + 2 * patch) / (4 * patch) * patch;
        if (s && (!n || s > side[n - 1])) side[n++] = s;
    }
    return n;
}

/* Crops (batch, 3, side, side) of training pictures, flipped or not, for call `number` of a run.
   NULL on error. */
static mmix_tensor *draw_crops(mmix_ctx *m, const settings *o, const pictures *p, uint64_t number,
                               size_t side)
{
    enum { DRAW = 902 };  /* a purpose of its own for mmix_random_uniform */
    mmix_augment a = mmix_augment_config_dino();
    size_t n = o->batch / 2;
    size_t *index = (size_t *)malloc(n * sizeof *index);
    mmix_tensor *crops = mmix_new4(m, o->batch, 3, side, side);
    a.global_size = side;
    a.local_count = 0;
    a.jitter = a.gray = 0;
    for (int i = 0; i < 3; i++) a.blur[i] = a.solarize[i] = 0;
    if (!index) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a batch of %zu", o->batch);
    for (size_t i = 0; index && i < n; i++)
        index[i] = (size_t)(mmix_random_uniform(m, DRAW, number, i) * (double)p->train.count);
    int bad = !crops || !index || mmix_augment_batch(m, &a, crop_from(&p->train), index, 0, n,
                                                     number, crops, NULL);
    free(index);
    return bad ? NULL : crops;
}
/* The sizes take turns. */
static mmix_tensor *draw_turn(mmix_ctx *m, const settings *o, const mmix_vision *v,
                              const pictures *p, uint64_t number)
{
    size_t side[SIDES], n = sides_of(o, v, side);
    return draw_crops(m, o, p, number, side[number % n]);
}

/* ---- likeness -------------------------------------------------------------------------------- */

/* How near a student's features are to the teacher's: the mean cosine of class tokens and of
   patch tokens after the final norm, and the relative error, mean (student - teacher)² over mean
   teacher², of patch tokens and of what each block makes. */
typedef struct likeness { double token, patches, error, block[MMIX_VISION_BLOCKS]; } likeness;

static double cosine(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)
{
    mmix_tensor *x = mmix_mul(m, mmix_l2_normalize(m, a, 1e-12), mmix_l2_normalize(m, b, 1e-12));
    return x ? mmix_item(mmix_sum(m, x)) * (double)mmix_shape(x, -1) / (double)mmix_count(x) : NAN;
}

/* How many test pictures are taken, at most `most`, *every apart. */
static size_t spread(const pictures *p, size_t most, size_t *every)
{
    *every = (p->test.count + most - 1) / most;
    return (p->test.count + *every - 1) / *every;
}
/* Of at most `most` test pictures. 0, or -1. */
static int compare(mmix_ctx *m, const mmix_vision *t, const mmix_vision *s, const pictures *p,
                   size_t most, likeness *l)
{
    size_t depth = mmix_vision_config_of(t)->depth;
    size_t every;
    size_t all = spread(p, most, &every);
    size_t n;
    mmix_tensor *made[2][MMIX_VISION_BLOCKS];
    memset(l, 0, sizeof *l);
    for (size_t at = 0; at < all && !mmix_error(m); at += n) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_features f[2];
        mmix_vision_options o;
        memset(&o, 0, sizeof o);
        o.class_last = 1;                                /* as the student's tokens stand */
        n = all - at < TOGETHER ? all - at : TOGETHER;
        mmix_tensor *image = look_stack(m, p->test.picture + at * every, n, every, p->size);
        for (int k = 0; k < 2; k++) {
            o.outputs = made[k];
            f[k] = mmix_vision_forward(m, k ? s : t, image, &o);
        }
        double share = (double)n / (double)all;
        if (mmix_error(m)) break;
        l->token += share * cosine(m, f[1].token, f[0].token);
        l->patches += share * cosine(m, f[1].patches, f[0].patches);
        l->error += share * mmix_item(mmix_kd_hidden(m, f[1].patches, f[0].patches, NULL, 1));
        for (size_t b = 0; b < depth; b++)
            l->block[b] += share * mmix_item(mmix_kd_hidden(m, made[1][b], made[0][b], NULL, 1));
        mmix_rewind(m, mark);
    }
    return mmix_error(m) ? -1 : 0;
}

/* The relative error of what each block's mixer makes on what the teacher's block reads. 0, or
   -1. */
static int compare_mixers(mmix_ctx *m, const mmix_vision *t, const mmix_vision *s,
                          const pictures *p, double *error)
{
    size_t depth = mmix_vision_config_of(t)->depth;
    size_t every;
    size_t all = spread(p, HELD, &every);
    size_t n;
    mmix_tensor *reads[MMIX_VISION_BLOCKS + 1] = {NULL}, *mixed[2][MMIX_VISION_BLOCKS];
    for (size_t b = 0; b < depth; b++) error[b] = 0;
    for (size_t at = 0; at < all && !mmix_error(m); at += n) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_vision_options o[2];
        memset(o, 0, sizeof o);
        o[0].class_last = 1;
        o[0].outputs = reads + 1;
        o[0].mixed = mixed[0];
        o[1].inputs = reads;
        o[1].mixed = mixed[1];      /* the first block reads its own */
        n = all - at < TOGETHER ? all - at : TOGETHER;
        mmix_tensor *image = look_stack(m, p->test.picture + at * every, n, every, p->size);
        for (int k = 0; k < 2; k++) mmix_vision_forward(m, k ? s : t, image, &o[k]);
        for (size_t b = 0; b < depth && !mmix_error(m); b++)
            error[b] += (double)n / (double)all *
                mmix_item(mmix_kd_hidden(m, mixed[1][b], mixed[0][b], NULL, 1));
        mmix_rewind(m, mark);
    }
    return mmix_error(m) ? -1 : 0;
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* Of one square picture. processor: of all threads together, what other programs leave as it is.
   bytes: at the peak, weights and picture included. */
typedef struct price { double pixels, patches, flops, seconds, processor, bytes, weights; } price;

/* Of a network with random weights, in a context of its own, so that its memory is all that is
   counted; the least of up to three passes. 0, or -1. */
static int measure(mmix_ctx *m, mmix_vision_config c, size_t side, price *x)
{
    mmix_options options;
    double spent = 0;
    memset(&options, 0, sizeof options);
    options.threads = mmix_threads(m);
    side -= side % c.patch;
    mmix_ctx *own = mmix_create(&options);
    mmix_vision *v = own && side ? mmix_vision_create(own, c) : NULL;
    if (!v) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%zu pixels: %s", side, own && mmix_error(own) ?
                  mmix_error(own) : "no patch");
        mmix_destroy(own);
        return -1;
    }
    memset(x, 0, sizeof *x);
    x->pixels = (double)side;
    x->patches = (double)(side / c.patch * (side / c.patch));
    x->flops = mmix_vision_flops(v, side, side);
    x->weights = (double)(mmix_vision_params(v)->elements * sizeof(mmix_real));
    x->seconds = x->processor = INFINITY;
    for (int turn = 0; turn < 3 && (!turn || spent < 5) && !mmix_error(own) && !interrupted;
         turn++) {
        mmix_tensor *image = mmix_fill_normal(own, mmix_new4(own, 1, 3, side, side), 1, 0);
        double start = now();
        double busy = (double)clock();
        mmix_vision_forward(own, v, image, NULL);
        x->processor = fmin(x->processor, ((double)clock() - busy) / CLOCKS_PER_SEC);
        x->seconds = fmin(x->seconds, now() - start);
        spent += now() - start;
        mmix_reset(own);
    }
    x->bytes = (double)mmix_memory(own).peak;
    if (mmix_error(own)) mmix_fail(m, mmix_error_kind(own), "%s", mmix_error(own));
    mmix_vision_destroy(v);
    mmix_destroy(own);
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* The teacher's form with the mixers that o says. */
static mmix_vision_config student_config(const settings *o, const mmix_vision_config *teacher)
{
    mmix_vision_config c = *teacher;
    for (size_t b = 0; b < c.depth; b++) c.blocks[b] = kind[kind_of(o, b)].block;
    c.class_token = MMIX_CLASS_LAST;                     /* where a forward scan has seen all */
    c.feature = o->feature;
    c.mmate.window[0] = 1;
    c.mmate.window[1] = c.mmate.window[2] = o->window;
    return c;
}

/* ---- run files ------------------------------------------------------------------------------- */

typedef struct run {
    mmix_vision *teacher, *student;
    mmix_distill *distill;
    size_t steps, done, plotted;                         /* planned, made; points */
    double seconds, *x, *loss;                           /* of training; (steps) each */
    double point[4][PLOTTED];  /* step, relative error, cosine of class token, of patches */
    double tried[KINDS][MMIX_VISION_BLOCKS];             /* of AUTO: relative errors */
    char settings[600];                                  /* what decides the result, in words */
} run;

/* What must be the same for a run to go on. */
static void describe(const settings *o, const pictures *p, run *r)
{
    const mmix_vision_config *c = mmix_vision_config_of(r->teacher);
    char kept[2 * MMIX_VISION_BLOCKS + 1] = "", length[40];
    for (size_t b = 0; b < c->depth; b++) {
        kept[b] = o->keep[b] ? '1' : '0';
        kept[b + 1] = 0;
    }
    snprintf(length, sizeof length, "--minutes %g", o->minutes);
    if (o->steps) snprintf(length, sizeof length, "--steps %zu", o->steps);
    snprintf(r->settings, sizeof r->settings,
             "--mixer %s, kept %s, --window %zu, --feature %s, --stages %zu, --lora %zu, %s, "
             "--size %zu, --batch %zu, --seed %" PRIu64 ", teacher %" PRIx64 ", pictures %" PRIx64,
             kind[o->kind].name, kept, o->window, feature_name[o->feature], o->stages, o->lora,
             length, o->size, o->batch, o->seed,
             bytes_hash_params(mmix_vision_params(r->teacher)), pictures_fingerprint(p));
}

/* The note holds the settings, numbers of steps, points, what was tried and losses. 0, or -1. */
static int save_run(mmix_ctx *m, const settings *o, const run *r)
{
    size_t depth = mmix_vision_config_of(r->teacher)->depth;
    size_t tried = o->kind == AUTO ? KINDS * depth : 0;
    size_t room = sizeof r->settings + 200 + PLOTTED * 100 + (r->done + tried) * 24;
    size_t n = 0;
    char *note = (char *)malloc(room);
    if (!note) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory to save the run");
    n += (size_t)snprintf(note, room, "%s\n%zu %zu %.3f\n", r->settings, r->done, r->plotted,
                          r->seconds);
    for (size_t i = 0; i < 4 * r->plotted; i++)
        n += (size_t)snprintf(note + n, room - n, "%.9g\n", r->point[i % 4][i / 4]);
    for (size_t i = 0; i < tried; i++)
        n += (size_t)snprintf(note + n, room - n, "%.9g\n", r->tried[i / depth][i % depth]);
    for (size_t i = 0; i < r->done; i++)
        n += (size_t)snprintf(note + n, room - n, "%.9g\n", r->loss[i]);
    int bad = mmix_distill_save(r->distill, o->run, note);
    free(note);
    return bad;
}

static int make_history(mmix_ctx *m, run *r)             /* room for it. 0, or -1 */
{
    r->steps = 0;
    for (size_t k = 0; k < r->distill->config.stages; k++)
        r->steps += r->distill->config.stage[k].steps;
    r->x = (double *)calloc(2 * r->steps, sizeof *r->x);
    if (!r->x) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu steps", r->steps);
    r->loss = r->x + r->steps;
    for (size_t i = 0; i < r->steps; i++) r->x[i] = (double)i;
    return 0;
}

/* The mixers that were chosen are those with the least error. */
static void take_nearest(settings *o, const run *r, size_t depth)
{
    for (size_t b = 0; b < depth; b++) {
        o->nearest[b] = 0;
        for (int k = 1; k < KINDS; k++)
            if (r->tried[k][b] < r->tried[o->nearest[b]][b]) o->nearest[b] = k;
    }
}

/* The run in OUT. 0, or an exit status. */
static int read_run(mmix_ctx *m, settings *o, run *r)
{
    r->distill = mmix_vision_distill_load(r->teacher, o->run, &r->student);
    if (!r->distill) return fail("--resume: %s", mmix_error(m));
    const char *note = r->distill->note;
    size_t n = strlen(r->settings);
    if (strncmp(note, r->settings, n) || note[n] != '\n')
        return fail("--resume: that run began otherwise: %.*s", (int)strcspn(note, "\n"), note);
    if (make_history(m, r)) return fail("%s", mmix_error(m));
    char *end = (char *)(uintptr_t)(note + n);
    r->done = (size_t)strtoull(end, &end, 10);
    r->plotted = (size_t)strtoull(end, &end, 10);
    r->seconds = strtod(end, &end);
    if (r->done > r->steps || r->plotted > PLOTTED)
        return fail("%s: its history does not fit", o->run);
    for (size_t i = 0; i < 4 * r->plotted; i++) r->point[i % 4][i / 4] = strtod(end, &end);
    size_t depth = mmix_vision_config_of(r->teacher)->depth;
    size_t tried = o->kind == AUTO ? KINDS * depth : 0;
    for (size_t i = 0; i < tried; i++) r->tried[i / depth][i % depth] = strtod(end, &end);
    if (tried) take_nearest(o, r, depth);
    for (size_t i = 0; i < r->done; i++) r->loss[i] = strtod(end, &end);
    return 0;
}

/* ---- train ----------------------------------------------------------------------------------- */

/* The student before it has learned: the teacher's weights, and heads scaled on the first batch
   so that each brings as much as the teacher's. NULL on error. */
static mmix_vision *convert(mmix_ctx *m, const settings *o, const mmix_vision *t, const pictures *p)
{
    mmix_vision *s = mmix_vision_student(t, student_config(o, mmix_vision_config_of(t)));
    mmix_reset(m);
    if (s && !mmix_vision_calibrate(s, t, draw_turn(m, o, t, p, 0))) return s;
    mmix_vision_destroy(s);
    return NULL;
}

/* The stages of the library; steps[k] 0: that stage is left out. */
static mmix_distill_config stages_of(const settings *o, const size_t *steps)
{
    mmix_distill_config c = mmix_distill_config_vision();
    c.calibrate = 0;                                     /* it has been */
    for (size_t k = 0; k < STAGES; k++) {
        c.stage[k].steps = steps[k];
        if (10 * c.stage[k].warmup > steps[k]) c.stage[k].warmup = steps[k] / 10;
    }
    if (o->stages == 1) {                                /* it has the mixers to teach, too */
        c.stage[0].steps = c.stage[1].steps = 0;
        c.stage[2].lr = 3e-5;
    }
    if (o->lora) {  /* alpha: twice the rank, as in LinMU's stages */
        c.stage[2].train = MMIX_TRAIN_LORA;
        c.stage[2].lr = 1e-4;
        c.lora_rank = o->lora;
        c.lora_alpha = 2 * (double)o->lora;
        c.lora_targets = MMIX_LORA_FFN | MMIX_LORA_MIXER;
    }
    return c;
}

/* Steps of each stage so that all take the same time: a round of all sizes for each is measured,
   one before it takes the memory. 0, or -1. */
static int plan(mmix_ctx *m, const settings *o, const run *r, const pictures *p, size_t *steps)
{
    size_t side[SIDES], n = sides_of(o, r->teacher, side);
    for (size_t k = 0; k < STAGES; k++) steps[k] = o->steps;
    if (o->steps) return 0;
    report_say("trying a few steps of each stage, to see how many fit into %g minutes", o->minutes);
    for (size_t k = STAGES - o->stages; k < STAGES && !mmix_error(m) && !interrupted; k++) {
        size_t only[STAGES] = {0, 0, 0};
        double start = 0;
        only[k] = 1000;
        mmix_vision *s = convert(m, o, r->teacher, p);
        mmix_distill *d = s ? mmix_vision_distill_create(r->teacher, s, stages_of(o, only)) : NULL;
        for (size_t i = 0; d && i < 2 * n && !interrupted; i++, mmix_reset(m)) {
            if (i == n) start = now();
            mmix_vision_distill_step(d, draw_turn(m, o, r->teacher, p, i), NULL);
        }
        steps[k] = 1 + (size_t)(60 * o->minutes / (double)o->stages * (double)n /
                                fmax(now() - start, 1e-3));
        mmix_distill_destroy(d);
        mmix_vision_destroy(s);
    }
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* --mixer auto: a student of each kind learns the first stage for --steps steps, or a tenth of
   --minutes; on the teacher's inputs no block knows of another. Then each block takes the
   nearest. 0, or -1. */
static int choose(mmix_ctx *m, settings *o, run *r, const pictures *p)
{
    const size_t depth = mmix_vision_config_of(r->teacher)->depth;
    const size_t many[STAGES] = {o->steps ? o->steps : 1000, 0, 0};
    settings one = *o;
    one.stages = STAGES;
    for (one.kind = 0; one.kind < KINDS && !mmix_error(m) && !interrupted; one.kind++) {
        report_say("trying %s in each block", kind[one.kind].title);
        mmix_vision *s = convert(m, &one, r->teacher, p);
        mmix_distill *d = s ? mmix_vision_distill_create(r->teacher, s, stages_of(&one, many)) :
            NULL;
        const double start = now();
        for (uint64_t i = 0; d && i < many[0] && (o->steps || now() - start < 6 * o->minutes) &&
             !interrupted; i++) {
            mmix_reset(m);
            if (mmix_vision_distill_step(d, draw_turn(m, o, r->teacher, p, i), NULL) < 0) break;
        }
        mmix_reset(m);
        if (s) compare_mixers(m, r->teacher, s, p, r->tried[one.kind]);
        mmix_distill_destroy(d);
        mmix_vision_destroy(s);
    }
    take_nearest(o, r, depth);
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* A point of the curves: how near the student is now. 0, or -1. */
static int plot(mmix_ctx *m, run *r, const pictures *p)
{
    likeness l;
    mmix_reset(m);
    if (compare(m, r->teacher, r->student, p, HELD, &l)) return -1;
    const double value[4] = {(double)r->done, l.error, l.token, l.patches};
    for (int k = 0; k < 4; k++) r->point[k][r->plotted] = value[k];
    r->plotted++;
    return 0;
}
static int is_due(const run *r, size_t stage)            /* after each fifth, and after a stage */
{
    return r->done * FIFTHS / r->steps > (r->done - 1) * FIFTHS / r->steps ||
        r->distill->stage != stage;
}

/* From where the run is to its end. 0, 1 if it was interrupted (and saved), -1. */
static int train(mmix_ctx *m, const settings *o, run *r, const pictures *p)
{
    mmix_distill_stats s;
    double said = now();
    double saved = said, spent = 0;
    size_t first = r->done;
    if (!r->plotted && plot(m, r, p)) return -1;
    while (r->done < r->steps && !interrupted) {
        double start = now(), t;
        mmix_reset(m);
        if (mmix_vision_distill_step(r->distill, draw_turn(m, o, r->teacher, p, r->distill->number),
                                     &s) < 0) return -1;
        t = now();
        r->loss[r->done++] = s.loss;
        r->seconds += t - start;
        spent += t - start;
        if (is_due(r, s.stage) && plot(m, r, p)) return -1;
        if (t - saved > SAVE_SECONDS) {
            if (save_run(m, o, r)) return -1;
            saved = now();
        }
        if (t - said < line_pause() && r->done < r->steps) continue;
        said = t;
        double rate = (double)(r->done - first) / fmax(spent, 1e-6);
        size_t left = (size_t)((double)(r->steps - r->done) / rate);
        fprintf(stderr, "%-12s step %zu of %zu  %.2f steps/s  %zu:%02zu left  loss %.4f  %s",
                stage_name[s.stage], r->done, r->steps, rate, left / 60, left % 60, s.loss,
                on_screen() && r->done < r->steps ? "\r" : "\n");
    }
    return save_run(m, o, r) ? -1 : r->done < r->steps;
}

/* ---- worth ----------------------------------------------------------------------------------- */

/* What a network's features of the test pictures are worth. */
enum { TEACHER, BEFORE, AFTER, NETWORKS };
/* What teacher and student are compared in, picture by picture. */
enum { PAIR_KNN, PAIR_PROBE, PAIR_MIOU, PAIR_AUC, PAIRS };
static const char *const network_name[NETWORKS] = {"teacher", "student before", "student after"};
typedef struct worth {
    score knn, probe, masks;
    maps auc;
    likeness like;
    verdicts pair[PAIRS];
    gap against[PAIRS];                 /* the student's less the teacher's */
    gap since[PAIRS];                   /* the student's after less its before */
    uint8_t *map;  /* (SHOWN, MAP_SIDE, MAP_SIDE, 3), for the report */
} worth;

/* Leave-one-out k-NN of the test pictures' class tokens, rows of D, `stride` apart. 0, or -1. */
static int vote(mmix_ctx *m, const pictures *p, const mmix_real *x, size_t stride, size_t D,
                score *s, verdicts *j)
{
    size_t *at = (size_t *)malloc(p->test.count * sizeof *at);
    voters v = {0, NULL, p->test.count, at};
    if (!at) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a vote");
    for (size_t i = 0; i < p->test.count; i++) at[i] = i;
    int bad = evaluate_knn_judged(m, x, stride, D, &v, p->test.label, p->classes, 20, s, j);
    free(at);
    return bad;
}

/* A linear head on class tokens, learned from training pictures, of the test pictures, whose
   tokens are in x as above. 0, or -1. */
static int probe_classes(mmix_ctx *m, const mmix_vision *v, const pictures *p, const mmix_real *x,
                         score *s, verdicts *j)
{
    size_t D = mmix_vision_config_of(v)->dim;
    size_t tests = p->test.count;
    picture_set few;
    int bad = picture_few(&few, &p->train, TAUGHT);
    size_t trains = few.count;
    size_t n = trains + tests;
    size_t *at = (size_t *)malloc(n * sizeof *at);
    mmix_real *all = (mmix_real *)malloc(n * READS * D * sizeof *all);
    int32_t *label = (int32_t *)malloc(n * sizeof *label);
    if (bad || !at || !all || !label) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a probe");
    else if (!look(m, v, &few, p->size, p->size, all, 0, NULL)) {
        voters split = {trains, at, tests, at + trains};
        memcpy(all + trains * READS * D, x, tests * READS * D * sizeof *x);
        for (size_t i = 0; i < n; i++) {
            at[i] = i;
            label[i] = i < trains ? few.label[i] : p->test.label[i - trains];
        }
        evaluate_probe(m, all, READS * D, D, &split, label, p->classes, s, j);
    }
    free(few.picture);
    free(at);
    free(all);
    free(label);
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* Object or background: a linear head on patch tokens, learned from every second of the test
   pictures' masks and judged on the others. 0, or -1. */
static int segment(mmix_ctx *m, const settings *o, const mmix_vision *v, const pictures *p,
                   const char *name, score *s, verdicts *j)
{
    char path[2][1100];
    size_t at[SEGMENTED], pixels = p->size * p->size;
    uint8_t *mask = (uint8_t *)malloc(pixels);
    picture_set few;
    dense_set d;
    store labels;
    memset(&labels, 0, sizeof labels);
    memset(&d, 0, sizeof d);
    d.labels = &labels;
    d.split = SEGMENTED;
    d.w = d.h = p->size;
    d.classes = 2;
    d.D = mmix_vision_config_of(v)->dim;
    snprintf(path[0], sizeof path[0], "%s/patches", o->out);
    snprintf(path[1], sizeof path[1], "%s/masks", o->out);
    int bad = picture_few(&few, &p->test, SEGMENTED);
    if (bad || !mask) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for masks");
    bad = bad || !mask || store_open(m, &d.tokens[0], path[0], d.D * sizeof(mmix_real), 0) ||
          store_open(m, &labels, path[1], pixels, 0) || look_patches(m, v, few.picture, few.count,
                  p->size, &d);
    for (size_t i = 0; i < few.count && !bad; i++) {
        const uint8_t *is = p->test.mask + picture_spread(i, few.count, p->test.count) * pixels;
        for (size_t k = 0; k < pixels; k++) mask[k] = is[k] == DENSE_VOID ? DENSE_VOID : is[k] != 0;
        at[i % 2 * SEGMENTED / 2 + i / 2] = i;
        bad = store_add(m, &labels, mask, 1);
    }
    voters split = {(few.count + 1) / 2, at, few.count / 2, at + SEGMENTED / 2};
    bad = bad || evaluate_dense(m, &d, &split, name, NULL, NULL, s, j);
    store_drop(&labels);
    store_drop(&d.tokens[0]);
    free(few.picture);
    free(mask);
    return bad || interrupted ? -1 : 0;
}

/* 0, or -1; worth_free is to be called in any case. */
static int judge(mmix_ctx *m, const settings *o, const mmix_vision *t, const mmix_vision *v,
                 const pictures *p, const char *name, worth *w)
{
    const score unknown = {NAN, NAN, NAN, NAN, 0};
    size_t D = mmix_vision_config_of(v)->dim;
    mmix_real *x = (mmix_real *)malloc(p->test.count * READS * D * sizeof *x);
    memset(w, 0, sizeof *w);
    w->knn = w->probe = w->masks = unknown;
    w->auc.every = (p->test.count + MAPS_JUDGED - 1) / MAPS_JUDGED;
    w->auc.each = (double *)malloc(p->test.count * sizeof *w->auc.each);
    w->map = (uint8_t *)calloc(SHOWN * MAP_SIDE * MAP_SIDE, 3);
    for (int k = 0; k < PAIRS; k++) w->against[k] = w->since[k] = no_gap;
    mmix_reset(m);
    if (!x || !w->map || !w->auc.each)
        mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the features");
    else if (!look(m, v, &p->test, p->size, p->size, x, p->size, &w->auc) &&
             !compare(m, t, v, p, COMPARED, &w->like)) {
        if (p->classes > 1 && !vote(m, p, x, READS * D, D, &w->knn, &w->pair[PAIR_KNN]))
            probe_classes(m, v, p, x, &w->probe, &w->pair[PAIR_PROBE]);
        if (p->test.mask && p->test.count > 1 && !mmix_error(m))
            segment(m, o, v, p, name, &w->masks, &w->pair[PAIR_MIOU]);
        verdicts_maps(m, &w->pair[PAIR_AUC], &w->auc);
        draw_maps(m, v, p, p->size, w->map);
    }
    free(x);
    return mmix_error(m) || interrupted ? -1 : 0;
}

static void worth_free(worth *w)
{
    for (int k = 0; k < PAIRS; k++) verdicts_free(&w->pair[k]);
    free(w->auc.each);
    free(w->map);
}

/* The students less the teacher, and after learning less before, in all that was judged. 0, or
   -1. */
static int compare_worths(mmix_ctx *m, worth w[NETWORKS])
{
    int bad = 0;
    for (int k = BEFORE; k < NETWORKS; k++)
        for (int i = 0; i < PAIRS && !bad; i++)
            bad = evaluate_pair(m, &w[k].pair[i], &w[TEACHER].pair[i], 0, &w[k].against[i]);
    for (int i = 0; i < PAIRS && !bad; i++)
        bad = evaluate_pair(m, &w[AFTER].pair[i], &w[BEFORE].pair[i], 0, &w[AFTER].since[i]);
    return bad;
}

#include "linear_report.h"

/* ---- main ------------------------------------------------------------------------------------ */

/* The teacher, and what of the options goes with it. 0, or an exit status. */
static int open_teacher(mmix_ctx *m, settings *o, run *r)
{
    report_say("opening %s", o->load);
    r->teacher = mmix_vision_load(m, o->load);
    if (!r->teacher) return fail("%s", mmix_error(m));
    const mmix_vision_config *c = mmix_vision_config_of(r->teacher);
    if (c->mixer == MMIX_MIXER_SSD || c->mixer == MMIX_MIXER_SELECTIVE)
        return fail("--load %s: a network of Mamba has no attention to replace", o->load);
    if (c->depth > MMIX_VISION_BLOCKS)
        return fail("--load %s: %zu blocks; %d are the most", o->load, c->depth,
                    MMIX_VISION_BLOCKS);
    if (o->size % c->patch)
        return fail("--size %zu: give a multiple of the teacher's patch, %zu", o->size, c->patch);
    for (size_t b = 0; o->every && b < c->depth; b++) o->keep[b] = (b + 1) % o->every == 0;
    for (size_t b = c->depth; b < MMIX_VISION_BLOCKS; b++)
        if (o->keep[b]) return fail("--keep: block %zu of %zu", b + 1, c->depth);
    if (!replaced(o, c->depth))
        return fail("--keep: all %zu blocks keep their attention", c->depth);
    const int all = o->window >= o->size / c->patch;
    if (all && o->kind == AUTO)
        return fail("--mixer auto: windows of %zu x %zu hold all %zu x %zu patches; give a "
                    "smaller --window",
                    o->window, o->window, o->size / c->patch, o->size / c->patch);
    if (all && kind[o->kind].block != MMIX_BLOCK_FLEX && kind[o->kind].block != MMIX_BLOCK_LINEAR)
        report_say("windows of %zu x %zu hold all %zu x %zu patches: attention stays, as "
                   "Local-Swin's; --window changes that",
                   o->window, o->window, o->size / c->patch, o->size / c->patch);
    return 0;
}

/* --cost. An exit status. */
static int weigh(mmix_ctx *m, settings *o, run *r)
{
    int bad = open_teacher(m, o, r);
    if (bad) return bad;
    const mmix_vision_config *t = mmix_vision_config_of(r->teacher);
    static price x[COSTED][KINDS + 2];
    const char *name[KINDS + 2] = {"teacher"};
    for (int k = 0; k < KINDS; k++) name[1 + k] = kind[k].title;
    name[1 + KINDS] = "M-MATE, 1/4 kept";
    for (size_t i = 0; i < o->costs; i++)
        /* the teacher, each kind, M-MATE with a quarter kept */
        for (int k = 0; k < KINDS + 2; k++) {
            settings one = *o;
            one.kind = k && k <= KINDS ? k - 1 : 0;
            for (size_t b = 0; b < t->depth; b++) one.keep[b] = k > KINDS && b % 4 == 3;
            mmix_vision_config measured = k ? student_config(&one, t) : *t;
            int bad_here = measure(m, measured, o->cost[i], &x[i][k]);
            if (bad_here && stopped(m)) return 130;
            if (bad_here) return fail("--cost: %s", mmix_error(m));
            fprintf(stderr, "%.0f pixels, %s: %.3f s, of the processor %.3f s\n", x[i][k].pixels,
                    name[k], x[i][k].seconds, x[i][k].processor);
        }
    if (o->json) {
        printf("{");
        json_costs(&x[0][0], o->costs, KINDS + 2, name);
        printf("}\n");
    } else print_costs(&x[0][0], o->costs, KINDS + 2, name);
    return 0;
}

static int work(mmix_ctx *m, settings *o, run *r, pictures *p, worth *w)     /* an exit status */
{
    price x[LOOKS][2];
    size_t steps[STAGES], side[SIDES];
    mmix_vision *before = NULL;
    int end;
    int bad = report_ready(o->out, o->page, sizeof o->page);
    if (!bad) bad = open_teacher(m, o, r);
    if (bad) return bad;
    report_say("reading the pictures in %s", o->images);
    if (pictures_load(p, m, o->images, o->masks, o->size, side[sides_of(o, r->teacher, side) - 1]))
        return fail("%s", *p->error ? p->error : "out of memory for the pictures");
    describe(o, p, r);
    if (o->resume) {
        bad = read_run(m, o, r);
        if (bad) return bad;
    } else {
        end = (o->kind == AUTO && choose(m, o, r, p)) || plan(m, o, r, p, steps);
        if (!end) r->student = convert(m, o, r->teacher, p);
        if (!end && r->student)
            r->distill = mmix_vision_distill_create(r->teacher, r->student, stages_of(o, steps));
        if (stopped(m)) {
            fprintf(stderr, "\nlinear: stopped before there was anything to save\n");
            return 130;
        }
        if (!r->distill || make_history(m, r)) return fail("%s", mmix_error(m));
    }
    if (report_few(r->steps)) report_say("%zu steps: %s", r->steps, report_few(r->steps));
    end = train(m, o, r, p);
    if (!end && mmix_vision_save(m, r->student, o->student)) end = -1;
    if (!end) {                                          /* the same as at the beginning */
        before = convert(m, o, r->teacher, p);
        if (!before) end = -1;
    }
    const mmix_vision *network[NETWORKS] = {r->teacher, before, r->student};
    for (int k = 0; k < NETWORKS && !end; k++) {
        report_say("judging the %s", network_name[k]);
        if (judge(m, o, r->teacher, network[k], p, network_name[k], &w[k]))
            end = stopped(m) ? 1 : -1;
    }
    mmix_vision_destroy(before);
    if (!end && compare_worths(m, w)) end = -1;
    if (!end) report_say("measuring time and memory at up to %d times %zu pixels", 1 << (LOOKS - 1),
                         o->size);
    for (size_t i = 0; i < 2 * LOOKS && !end; i++) {
        const mmix_vision *v = i % 2 ? r->student : r->teacher;
        if (measure(m, *mmix_vision_config_of(v), o->size << i / 2, &x[i / 2][i % 2]))
            end = stopped(m) ? 1 : -1;
    }
    if (end < 0) return fail("%s", mmix_error(m));
    if (end) {
        fprintf(stderr, "\nlinear: stopped and saved; go on with the same options and --resume\n");
        return 130;
    }
    if (o->json) print_json(o, r, w, x[0], p);
    else print_table(o, r, w, x[0]);
    return write_report(m, o, r, w, x[0], p);
}

int main(int argc, char **argv)
{
    static worth w[NETWORKS];
    static run r;
    settings o;
    pictures p;
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    if (o.figures) return linear_figures(o.out) ? 2 : 0;
    memset(&p, 0, sizeof p);
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = o.seed;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    status = o.costs ? weigh(m, &o, &r) : work(m, &o, &r, &p, w);
    for (int k = 0; k < NETWORKS; k++) worth_free(&w[k]);
    free(r.x);
    mmix_distill_destroy(r.distill);
    mmix_vision_destroy(r.student);
    mmix_vision_destroy(r.teacher);
    pictures_free(&p);
    mmix_destroy(m);
    return status;
}
