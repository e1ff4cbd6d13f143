/* dino.c - three token mixers learn from pictures without labels

       cc -O2 demos/dino.c -o dino -lm -lpthread
       ./dino                                        drawn scenes, about five minutes
       ./dino --images photos --masks masks          your own pictures

   A ViT (softmax attention), a LinearViT (linear attention) and a DinoVim (Mamba-2 in both directions) are
   trained with DINO, one after another, on the same pictures, crops and number of steps, with nearly equal
   numbers of parameters. What their features are worth is measured before and after: k-NN on the class token
   and, where there are masks, Binary-AUC: how well the similarity of class token and patches tells objects
   from background. Labels and masks are used for nothing else. A table goes to stdout, all of it to
   OUT/report.html.

   Sections: options · data · evaluate · train · report · main */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "dino"
#include "../mamba_mix.h"
#include "pictures.h"
#include "program.h"
#include "report.h"
#include "scenes.h"
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#else
#include <sys/resource.h>
#include <unistd.h>
#endif

enum { REGISTERS = MMIX_SSD + 1, MIXERS };               /* MMIX_SOFTMAX, MMIX_LINEAR, MMIX_SSD, it again */
static const char *const mixer_name[MIXERS] = {"softmax", "linear", "ssd", "registers"};
static const char *const model_name[MIXERS] = {"ViT", "LinearViT", "DinoVim", "DinoMamba-Reg"};
enum { SCENES_TRAIN = 1500, SCENES_TEST = 1000 };
enum { EPOCHS = 20 };                                    /* schedules are planned in twentieths of a run */
enum { SHOWN = 8, ROC_POINTS = 101, RAW_SIDE = 16 };
enum { SAVE_SECONDS = 120 };                             /* so much is lost at most if the machine goes down */

#define fail report_refuse

/* ---- options ------------------------------------------------------------------------------------------- */

static const char help[] =
    "dino - three token mixers learn from pictures without labels\n\n"
    "  --images DIR    DIR/train/CLASS/* and DIR/test/CLASS/*, or DIR/CLASS/*, or DIR/*   (drawn scenes)\n"
    "  --masks DIR     their masks, the same tree, PNG: 0 background, 255 void, else object\n"
    "  --out DIR       where report.html goes                         (build/dino-out)\n"
    "  --mixer NAME    softmax, linear, ssd; all: these three; registers: ssd, with 12 tokens that are read\n"
    "                  in place of one                                (all)\n"
    "  --minutes M     training time, the mean over the mixers        (1.5)\n"
    "  --steps N       so many steps instead (up to a multiple of 20), for results that can be repeated\n"
    "  --seed N        of scenes, weights, crops                      (1)\n"
    "  --size N        pictures are brought to N x N pixels           (96)\n"
    "  --crop N        side of the global crops, local ones have half (64; scenes 48)\n"
    "  --batch N       pictures a step                                (48; scenes 32)\n"
    "  --dim N         width of the networks                          (128; scenes 96)\n"
    "  --heads N       attention heads                                (4; scenes 3)\n"
    "  --depth N       blocks of the ViTs; DinoVim has twice as many  (4)\n"
    "  --state N       state width of Mamba-2                         (dim / 8)\n"
    "  --prototypes N  outputs of the head                            (1024; scenes 512)\n"
    "  --save PREFIX   run files PREFIX-MIXER.safetensors             (OUT/run)\n"
    "  --load PREFIX   go on with the run of these files, to the same bits as if it had never stopped\n"
    "  --threads N     (all cores)\n"
    "  --simd NAME     auto, none, avx2, avx512, neon                 (auto)\n"
    "  --json          results as JSON on stdout\n"
    "  --help\n\n"
    "A run is saved every two minutes; Ctrl-C saves it too and says how to go on.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

typedef struct settings {
    const char *images, *masks, *out, *save, *load;
    int mixers, threads, simd, json;                     /* mixers: bits 1 << MMIX_SOFTMAX, … */
    uint64_t seed;
    double minutes;
    size_t steps;                                        /* 0: as many as fit into the minutes */
    size_t size, crop, batch, dim, heads, depth, state, prototypes;
    char prefix[1000];                                   /* of the run files that are written */
    char kept[2][1024];                                  /* images and masks of a loaded run */
} settings;

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    static const char *const simd_name[] = {"auto", "none", "avx2", "avx512", "neon"};
    const char *mixer = "all", *simd = "auto", *minutes = "1.5", *seed = "1", *fixed = NULL;
    size_t threads = 0;
    memset(o, 0, sizeof *o);
    o->out = "build/dino-out";
    struct { const char *name, **text; size_t *number, low, high; int fixed; } known[] = {
        {"--images", &o->images, NULL, 0, 0, 0},         /* fixed 1: a loaded run decides it */
        {"--masks", &o->masks, NULL, 0, 0, 0},
        {"--out", &o->out, NULL, 0, 0, 0},
        {"--save", &o->save, NULL, 0, 0, 0},
        {"--load", &o->load, NULL, 0, 0, 0},
        {"--simd", &simd, NULL, 0, 0, 0},
        {"--mixer", &mixer, NULL, 0, 0, 1},
        {"--minutes", &minutes, NULL, 0, 0, 1},
        {"--seed", &seed, NULL, 0, 0, 1},
        {"--threads", NULL, &threads, 1, 64, 0},
        {"--steps", NULL, &o->steps, 1, 100000000, 1},
        {"--size", NULL, &o->size, 32, 1024, 1},
        {"--crop", NULL, &o->crop, 16, 1024, 1},
        {"--batch", NULL, &o->batch, 1, 65536, 1},
        {"--dim", NULL, &o->dim, 1, 8192, 1},
        {"--heads", NULL, &o->heads, 1, 1024, 1},
        {"--depth", NULL, &o->depth, 1, 1000, 1},
        {"--state", NULL, &o->state, 1, 1024, 1},
        {"--prototypes", NULL, &o->prototypes, 16, 1024, 1},
    };
    char *end;
    for (int i = 1; i < argc; i++) {
        size_t k = 0, count = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--help")) return fputs(help, stdout), -1;
        if (!strcmp(argv[i], "--json")) { o->json = 1; continue; }
        while (k < count && strcmp(argv[i], known[k].name)) k++;
        if (k == count) return fail("%s: no such option; --help lists them all", argv[i]);
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        if (known[k].fixed) fixed = known[k].name;
        if (known[k].text) { *known[k].text = argv[i]; continue; }
        unsigned long long n = strtoull(argv[i], &end, 10);
        if (!isdigit((unsigned char)*argv[i]) || *end || n < known[k].low || n > known[k].high)
            return fail("%s %s: give a whole number from %zu to %zu", known[k].name, argv[i], known[k].low,
                        known[k].high);
        *known[k].number = (size_t)n;
    }
    o->threads = (int)threads;
    o->minutes = strtod(minutes, &end);
    if (*end || !(o->minutes > 0 && o->minutes < 1e5))
        return fail("--minutes %s: give a number above 0", minutes);
    o->seed = strtoull(seed, &end, 10);
    if (*end || !isdigit((unsigned char)*seed)) return fail("--seed %s: give a whole number", seed);
    for (int k = 0; k < MIXERS; k++)
        o->mixers |= (!strcmp(mixer, mixer_name[k]) || (k < REGISTERS && !strcmp(mixer, "all"))) << k;
    if (!o->mixers) return fail("--mixer %s: give softmax, linear, ssd, all or registers", mixer);
    while (o->simd < 5 && strcmp(simd, simd_name[o->simd])) o->simd++;       /* MMIX_SIMD_AUTO, … */
    if (o->simd == 5) return fail("--simd %s: give auto, none, avx2, avx512 or neon", simd);
    if (o->load && fixed)
        return fail("%s: a loaded run keeps its own settings; leave this out, or --load", fixed);
    if (o->masks && !o->images)
        return fail("--masks %s: give --images as well; drawn scenes have their own masks", o->masks);

    mmix_dino_config standard = mmix_dino_small_data();
    if (!o->size) o->size = 96;
    int scenes = !o->images;                 /* they are simpler: smaller crops and networks, more steps */
    if (!o->crop) o->crop = scenes ? 48 : standard.augment.global_size;
    if (!o->batch) o->batch = scenes ? 32 : standard.batch;
    if (!o->dim) o->dim = scenes ? 96 : standard.vision.dim;
    if (!o->heads) o->heads = scenes ? o->dim / 32 + !(o->dim / 32) : standard.vision.heads;
    if (!o->prototypes) o->prototypes = scenes ? 512 : standard.prototypes;
    if (o->crop % (2 * standard.vision.patch))
        return fail("--crop %zu: half of it is no whole number of patches; give a multiple of %zu", o->crop,
                    2 * standard.vision.patch);
    if (!o->depth) o->depth = standard.vision.depth;
    if (!o->state) o->state = o->dim < 8 ? 1 : o->dim / 8;
    if (o->dim % o->heads)
        return fail("--dim %zu: %zu heads do not divide it; give %zu, or other --heads", o->dim, o->heads,
                    o->dim / o->heads * o->heads + o->heads);
    if (o->mixers >> MMIX_SSD && o->dim % 32)
        return fail("--dim %zu: Mamba-2's heads of 64 do not divide twice that; give a multiple of 32",
                    o->dim);
    if (o->save || o->load) snprintf(o->prefix, sizeof o->prefix, "%s", o->save ? o->save : o->load);
    else snprintf(o->prefix, sizeof o->prefix, "%s/run", o->out);
    return 0;
}

/* ---- data ---------------------------------------------------------------------------------------------- */

typedef struct drawing { picture_set *set; size_t size, first; uint64_t seed; } drawing;

static void draw_task(void *arg, size_t i)
{
    const drawing *d = (const drawing *)arg;
    uint8_t *rgb = d->set->rgb + i * d->size * d->size * 3, *mask = d->set->mask + i * d->size * d->size;
    d->set->label[i] = scene_draw(d->seed, d->first + i, (int)d->size, rgb, mask);
}

/* Scenes in place of a folder. 0, or -1. */
static int draw_scenes(pictures *p, mmix_ctx *m, uint64_t seed, size_t size)
{
    drawing train = {&p->train, size, 0, seed}, test = {&p->test, size, SCENES_TRAIN, seed};
    p->size = size;
    p->class_name = (char **)calloc(SCENE_CLASSES, sizeof *p->class_name);
    if (!p->class_name) return -1;
    for (p->classes = 0; p->classes < SCENE_CLASSES; p->classes++)
        p->class_name[p->classes] = picture_join(scene_class[p->classes], "", "");
    if (picture_set_make(&p->train, SCENES_TRAIN, size, 1)) return -1;
    if (picture_set_make(&p->test, SCENES_TEST, size, 1)) return -1;
    mmix_parallel_for(m, SCENES_TRAIN, draw_task, &train);
    mmix_parallel_for(m, SCENES_TEST, draw_task, &test);
    return 0;
}

/* ---- evaluate ------------------------------------------------------------------------------------------ */

typedef struct score {
    double knn, balanced;                                /* of the class token; NAN without classes */
    double auc, roc[ROC_POINTS];                         /* means over the pictures that could be judged */
    size_t judged;                                       /* how many have both object and background */
    mmix_real *maps;                                     /* (SHOWN, size, size), for the report */
    char how[320];                                       /* how these were made */
} score;

static size_t shown(const pictures *p, size_t k)         /* the k-th test picture of the report */
{
    return k * p->test.count / SHOWN;
}

/* Adds the Binary-AUC of a batch of maps, test pictures `first` …, and keeps maps that the report shows. */
static void judge_maps(mmix_ctx *m, const pictures *p, const mmix_map *map, size_t first, score *s)
{
    size_t pixels = p->size * p->size;
    const size_t shape[3] = {1, p->size, p->size};
    mmix_tensor *label = mmix_new(m, MMIX_DTYPE_I32, 3, shape);
    mmix_auc_options options;
    mmix_auc auc;
    memset(&options, 0, sizeof options);
    options.void_label = 255;
    snprintf(s->how, sizeof s->how, "%s", map->how);
    for (size_t b = 0; label && b < mmix_shape(map->map, 0); b++) {
        const mmix_real *one = mmix_data(map->map) + b * pixels;
        const uint8_t *mask = p->test.mask + (first + b) * pixels;
        size_t objects = 0, ground = 0;
        for (size_t k = 0; k < SHOWN; k++)
            if (shown(p, k) == first + b) memcpy(s->maps + k * pixels, one, pixels * sizeof *one);
        for (size_t i = 0; p->test.mask && i < pixels; i++) {
            mmix_data_i32(label)[i] = mask[i];
            objects += mask[i] != 0 && mask[i] != 255;
            ground += mask[i] == 0;
        }
        if (!objects || !ground) continue;               /* cut to a square, a picture may be all object */
        if (mmix_binary_auc(m, &options, mmix_from(m, 3, shape, one), label, &auc)) return;
        s->auc += auc.auc;
        s->judged++;
        mmix_roc_add(s->roc, ROC_POINTS, &auc);
    }
}

/* Class tokens (count, D) of whole pictures, 32 at a time to keep memory low; maps too if s is given. */
static void look(mmix_ctx *m, const mmix_vision *v, const mmix_augment *augment, const pictures *p,
                 const picture_set *set, mmix_real *token, score *s)
{
    size_t side = augment->global_size, D = mmix_vision_config_of(v)->dim, n;
    uint8_t *small = (uint8_t *)malloc(side * side * 3);
    mmix_resizing r = mmix_resizing_evaluate(p->size, p->size, side, side);
    void *scratch = malloc(mmix_picture_resize_scratch(r) + 1);
    mmix_picture picture = {small, side, side};
    mmix_map_options words;
    memset(&words, 0, sizeof words);
    words.layer = "last block after the final norm";
    if (!small || !scratch) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory to look at pictures");
    for (size_t first = 0; first < set->count && !mmix_error(m); first += n) {
        mmix_mark mark = mmix_mark_here(m);
        n = set->count - first < 32 ? set->count - first : 32;
        mmix_tensor *image = mmix_new4(m, n, 3, side, side);
        for (size_t b = 0; image && b < n; b++) {
            mmix_real *at = mmix_data(image) + b * 3 * side * side;
            mmix_picture_resize(small, set->picture[first + b], r, scratch);
            mmix_picture_normalise(at, picture, augment->mean, augment->deviation);
        }
        mmix_features f = mmix_vision_forward(m, v, image, NULL);
        mmix_map map;
        if (f.token) mmix_read(f.token, token + first * D);
        words.token = f.registers ? "mean of the registers" : "class token";
        if (f.token && s
            && !mmix_feature_map(m, &words, f.token, f.patches, f.grid_h, f.grid_w, p->size, p->size, &map))
            judge_maps(m, p, &map, first, s);
        mmix_rewind(m, mark);
    }
    free(small);
    free(scratch);
}

/* k-NN of test rows among training rows (count, D). */
static void vote(mmix_ctx *m, const pictures *p, const mmix_real *train, const mmix_real *test, size_t D,
                 score *s)
{
    mmix_knn_result result;
    const size_t trains[2] = {p->train.count, D}, tests[2] = {p->test.count, D};
    mmix_mark mark = mmix_mark_here(m);
    s->knn = s->balanced = NAN;
    if (!p->classes || mmix_error(m)) return;
    if (mmix_knn(m, mmix_from(m, 2, trains, train), mmix_from_i32(m, 1, trains, p->train.label),
                 mmix_from(m, 2, tests, test), mmix_from_i32(m, 1, tests, p->test.label), p->classes, 20, 0.07,
                 &result)) return;
    s->knn = result.top1;
    s->balanced = result.balanced;
    mmix_rewind(m, mark);
}

/* What the features of a backbone are worth. 0, or -1; s->maps is to be freed in any case. */
static int evaluate(mmix_ctx *m, const mmix_vision *v, const mmix_augment *augment, const pictures *p,
                    score *s)
{
    size_t D = mmix_vision_config_of(v)->dim;
    mmix_real *train = (mmix_real *)malloc(p->train.count * D * sizeof *train);
    mmix_real *test = (mmix_real *)malloc(p->test.count * D * sizeof *test);
    memset(s, 0, sizeof *s);
    s->maps = (mmix_real *)calloc(SHOWN * p->size * p->size, sizeof *s->maps);
    if (!train || !test || !s->maps) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the features");
    else {
        look(m, v, augment, p, &p->train, train, NULL);
        look(m, v, augment, p, &p->test, test, s);
        vote(m, p, train, test, D, s);
    }
    for (size_t i = 0; s->judged && i < ROC_POINTS; i++) s->roc[i] /= (double)s->judged;
    s->auc = s->judged ? s->auc / (double)s->judged : NAN;
    free(train);
    free(test);
    return mmix_error(m) ? -1 : 0;
}

/* The same vote on raw pixels, of pictures brought to 16 x 16: what anyone has for nothing. *always is the
   share of the commonest class. 0, or -1. */
static int evaluate_pixels(mmix_ctx *m, const pictures *p, score *s, double *always)
{
    enum { D = RAW_SIDE * RAW_SIDE * 3 };
    const picture_set *both[2] = {&p->train, &p->test};
    mmix_box all = picture_square(p->size, p->size);
    mmix_real *raw = (mmix_real *)malloc((p->train.count + p->test.count) * D * sizeof *raw), *row = raw;
    void *scratch = malloc(mmix_picture_resize_scratch(mmix_resizing_box(all, RAW_SIDE, RAW_SIDE)) + 1);
    uint8_t small[D];
    mmix_picture picture = {small, RAW_SIDE, RAW_SIDE};
    size_t commonest = 0, most = 0, right = 0;
    memset(s, 0, sizeof *s);
    if (!raw || !scratch) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for pixels");
    else {
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < both[k]->count; i++, row += D) {
                mmix_picture_resize(small, both[k]->picture[i], mmix_resizing_box(all, RAW_SIDE, RAW_SIDE), scratch);
                mmix_picture_normalise(row, picture, NULL, NULL);
            }
        vote(m, p, raw, raw + p->train.count * D, D, s);
    }
    for (size_t c = 0; c < p->classes; c++) {
        size_t n = 0;
        for (size_t i = 0; i < p->train.count; i++) n += (size_t)p->train.label[i] == c;
        if (n > most) most = n, commonest = c;
    }
    for (size_t i = 0; i < p->test.count; i++) right += (size_t)p->test.label[i] == commonest;
    *always = p->classes ? (double)right / (double)p->test.count : NAN;
    free(raw);
    free(scratch);
    return mmix_error(m) ? -1 : 0;
}

/* ---- train --------------------------------------------------------------------------------------------- */

typedef struct run {
    int chosen, found;                                   /* trained here; its file was there to go on with */
    mmix_dino_config config;
    size_t parameters, steps, done, peak;                /* of the backbone; planned, made; bytes */
    double flops, seconds, *x, *loss, *entropy;          /* of an image; of training; (steps) each */
    score before, after;
    char collapse[200];
} run;

/* The networks of one mixer. A bidirectional Mamba-2 block has about half the parameters of a ViT's block. */
static mmix_dino_config mixer_config(const settings *o, int mixer)
{
    mmix_dino_config c = mmix_dino_small_data();
    mmix_vision_config vit = c.vision;
    int ssd = mixer >= MMIX_SSD;
    if (ssd) {
        c.vision = mixer == REGISTERS ? mmix_mambareg(256) : mmix_dinovim(256);
        if (mixer == MMIX_SSD) c.vision.class_token = MMIX_CLASS_MIDDLE;
        c.vision.mamba.d_state = o->state;
    } else c.vision.mixer = mixer;
    c.vision.dim = o->dim;
    c.vision.heads = o->heads;
    c.vision.depth = ssd ? 2 * o->depth : o->depth;
    c.vision.patch = vit.patch;
    c.augment.global_size = o->crop;
    c.augment.local_size = o->crop / 2;
    c.vision.grid = o->crop / vit.patch;
    c.prototypes = o->prototypes;                        /* and a head in proportion */
    c.head_hidden = o->prototypes / 2;
    c.head_bottleneck = o->prototypes / 8;
    c.vision.drop_path = vit.drop_path;
    c.batch = o->batch;
    c.seed = o->seed;
    c.epochs = EPOCHS;
    c.iters = (o->steps + EPOCHS - 1) / EPOCHS;
    c.warmup_epochs = 2;
    c.freeze_last_layer = 1;
    /* The teacher looks back a quarter of the run, up to the paper's 0.996. One that forgets sooner follows
       the student's first guesses, and its entropy swings from 0 to ln K. Mamba-2 is upset by the rate, too. */
    c.momentum = o->steps < 40 ? 0.9 : 1 - 4 / (double)o->steps;
    if (c.momentum > 0.996) c.momentum = 0.996;
    if (ssd) c.lr /= 2;
    /* The paper's blur is measured in pixels of 224 x 224 crops and leaves nothing of ours. */
    memset(c.augment.blur, 0, sizeof c.augment.blur);
    memset(c.augment.solarise, 0, sizeof c.augment.solarise);
    return c;
}

static const char *run_file(const char *prefix, int mixer, char *path, size_t room)
{
    snprintf(path, room, "%s-%s.safetensors", prefix, mixer_name[mixer]);
    return path;
}

/* The numbers that a run file keeps beside the library's own, by name. */
enum { KEPT = 9 };
static const char *const kept_name[KEPT] = {"steps", "size", "crop", "batch", "dim", "heads", "depth", "state",
                                          "prototypes"};
static void kept_numbers(settings *o, size_t *at[KEPT])
{
    size_t *all[KEPT] = {&o->steps, &o->size, &o->crop, &o->batch, &o->dim, &o->heads, &o->depth, &o->state,
                           &o->prototypes};
    memcpy(at, all, sizeof all);
}

/* Saves a run. Its note holds lines "name value" and then loss and entropy of each step. 0, or -1. */
static int save_run(mmix_ctx *m, const mmix_dino *d, const run *r, settings *o, uint64_t print, int mixer)
{
    const char *images = o->images ? o->images : "", *masks = o->masks ? o->masks : "";
    size_t room = strlen(images) + strlen(masks) + 2048 + r->done * 48, *number[KEPT], n = 0;
    char *note = (char *)malloc(room), path[1100];
    if (!note) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory to save the run");
    kept_numbers(o, number);
    for (int i = 0; i < KEPT; i++)
        n += (size_t)snprintf(note + n, room - n, "%s %zu\n", kept_name[i], *number[i]);
    n += (size_t)snprintf(note + n, room - n, "seed %" PRIu64 "\npictures %" PRIu64 "\nmixers %d\n"
                          "images %s\nmasks %s\nseconds %.3f\ndone %zu\n", o->seed, print, o->mixers, images,
                          masks, r->seconds, r->done);
    for (size_t i = 0; i < r->done; i++)
        n += (size_t)snprintf(note + n, room - n, "%.9g %.9g\n", r->loss[i], r->entropy[i]);
    int bad = mmix_dino_save(d, run_file(o->prefix, mixer, path, sizeof path), note);
    free(note);
    return bad;
}

/* The value of a name in a note, in `value`; where it stands, or NULL. */
static const char *note_value(const char *note, const char *name, char *value, size_t room)
{
    size_t n = strlen(name);
    *value = 0;
    for (; note && *note; note = strchr(note, '\n'), note += note != NULL)
        if (!strncmp(note, name, n) && note[n] == ' ') {
            snprintf(value, room, "%.*s", (int)strcspn(note + n + 1, "\n"), note + n + 1);
            return note + n + 1;
        }
    return NULL;
}

static int read_history(run *r, const char *note)        /* 0, or -1 if the note is not one of ours */
{
    char value[64], *end;
    note_value(note, "seconds", value, sizeof value);
    r->seconds = strtod(value, NULL);
    const char *at = note_value(note, "done", value, sizeof value);
    r->done = at ? strtoul(at, &end, 10) : 0;
    if (!at || r->done > r->steps) return -1;
    for (size_t i = 0; i < 2 * r->done; i++) {
        at = end;
        *(i % 2 ? &r->entropy[i / 2] : &r->loss[i / 2]) = strtod(at, &end);
        if (end == at) return -1;
    }
    return 0;
}

/* What the files of --load say, into the options; which mixers have one. 0, or an exit status. */
static int read_runs(mmix_ctx *m, settings *o, run *r, uint64_t *print)
{
    char path[1100], value[64];
    size_t *number[KEPT], any = 0;
    for (int k = 0; k < MIXERS; k++) {
        FILE *f = fopen(run_file(o->load, k, path, sizeof path), "rb");
        if (!f) continue;
        fclose(f);
        mmix_dino *d = mmix_dino_load(m, path);
        if (!d) return fail("%s; give another PREFIX, or start anew without --load", mmix_error(m));
        const char *note = mmix_dino_note(d);
        int whole = note_value(note, "mixers", value, sizeof value) != NULL;
        o->mixers = atoi(value);
        kept_numbers(o, number);
        for (int i = 0; i < KEPT; i++) {
            whole = note_value(note, kept_name[i], value, sizeof value) && whole;
            *number[i] = strtoul(value, NULL, 10);
        }
        note_value(note, "seed", value, sizeof value);
        o->seed = strtoull(value, NULL, 10);
        note_value(note, "pictures", value, sizeof value);
        *print = strtoull(value, NULL, 10);
        note_value(note, "images", o->kept[0], sizeof o->kept[0]);
        note_value(note, "masks", o->kept[1], sizeof o->kept[1]);
        r[k].config = *mmix_dino_config_of(d);
        r[k].found = 1;
        any++;
        mmix_dino_destroy(d);
        if (!whole) return fail("%s: no run of this demo; give --load a PREFIX that it saved", path);
    }
    if (!any) return fail("--load %s: no %s-softmax.safetensors or the like; give the PREFIX that was saved",
                          o->load, o->load);
    if (!o->images && *o->kept[0]) o->images = o->kept[0];
    if (!o->masks && *o->kept[1]) o->masks = o->kept[1];
    return 0;
}

enum { PLAN_STEPS = 7 };
static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Makes each network once, so that a setting that does not work is known before anything is trained, and
   finds how many steps fit into the time, the same for all, from a few steps of each. 0, or an exit status. */
static int plan(mmix_ctx *m, settings *o, run *r, const pictures *p)
{
    double seconds = 0;
    int measure = !o->steps, n = 0;
    if (measure) o->steps = 1000;
    for (int k = 0; k < MIXERS; k++) {
        r[k].chosen = o->mixers >> k & 1;
        if (!r[k].chosen) continue;
        if (!r[k].found) r[k].config = mixer_config(o, k);
        mmix_dino *d = mmix_dino_create(m, r[k].config);
        if (!d) return fail("%s", mmix_error(m));
        size_t side = r[k].config.augment.global_size;
        r[k].parameters = mmix_vision_params(mmix_dino_backbone(d, 1))->elements;
        r[k].flops = mmix_vision_flops(mmix_dino_backbone(d, 1), side, side);
        double took[PLAN_STEPS] = {0};
        for (int i = -2; measure && i < PLAN_STEPS && !interrupted; i++) {
            double start = now();
            mmix_dino_step(d, p->train.picture, p->train.count, NULL);
            if (i >= 0) took[i] = now() - start;         /* the first two also take their memory */
        }
        qsort(took, PLAN_STEPS, sizeof *took, by_size);
        seconds += took[PLAN_STEPS / 2];                 /* the median */
        n++;
        mmix_dino_destroy(d);
        if (mmix_error(m)) return fail("%s", mmix_error(m));
    }
    if (measure) o->steps = 1 + (size_t)(60 * o->minutes * n / seconds);
    o->steps = (o->steps + EPOCHS - 1) / EPOCHS * EPOCHS;
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].found) r[k].config = mixer_config(o, k);
        r[k].steps = r[k].config.epochs * r[k].config.iters;
    }
    return 0;
}

static void show_progress(const run *r, int mixer, const mmix_dino_stats *s, double rate)
{
    size_t left = (size_t)((double)(r->steps - r->done) / rate);
    int stay = isatty(2) && r->done < r->steps;          /* on a screen the line is written over */
    fprintf(stderr, "%-8s step %zu of %zu  %.2f steps/s  %zu:%02zu left  loss %.3f  entropy %.2f  %s",
            mixer_name[mixer], r->done, r->steps, rate, left / 60, left % 60, s->loss, s->teacher_entropy,
            stay ? "\r" : "\n");
}

/* One mixer from its start, or from where its file left it, to the end of the plan; evaluated at both ends.
   0, 1 if it was interrupted (and saved), -1. */
static int train(mmix_ctx *m, run *r, settings *o, const pictures *p, uint64_t print, int mixer)
{
    const mmix_augment *augment = &r->config.augment;
    mmix_dino_stats s;
    char path[1100];
    r->x = (double *)calloc(3 * r->steps + 1, sizeof *r->x);
    if (!r->x) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu steps", r->steps);
    r->loss = r->x + r->steps;
    r->entropy = r->loss + r->steps;
    for (size_t i = 0; i < r->steps; i++) r->x[i] = (double)i;

    mmix_dino *d = mmix_dino_create(m, r->config);
    if (d) evaluate(m, mmix_dino_backbone(d, 1), augment, p, &r->before);
    if (r->found) {
        mmix_dino_destroy(d);
        d = mmix_dino_load(m, run_file(o->load, mixer, path, sizeof path));
        if (d && read_history(r, mmix_dino_note(d)))
            mmix_fail(m, MMIX_ERROR_FILE, "%s: its history does not fit; start anew without --load", path);
    }
    mmix_memory_peak_clear(m);
    double start = now(), said = start, saved = start, before = r->seconds;
    size_t first = r->done;
    while (d && !mmix_error(m) && !interrupted) {
        if (mmix_dino_step(d, p->train.picture, p->train.count, &s) <= 0) break;
        double t = now();
        r->loss[r->done] = s.loss;
        r->entropy[r->done] = s.teacher_entropy;
        r->done++;
        r->seconds = before + t - start;
        if (s.collapse && !*r->collapse)
            fprintf(stderr, "%s, step %zu: %s\n", mixer_name[mixer], r->done, s.collapse);
        snprintf(r->collapse, sizeof r->collapse, "%s", s.collapse ? s.collapse : "");
        if (t - saved > SAVE_SECONDS && !save_run(m, d, r, o, print, mixer)) saved = now();
        if (t - said < (isatty(2) ? 0.5 : 20) && r->done < r->steps) continue;
        said = t;
        show_progress(r, mixer, &s, (double)(r->done - first) / (t - start));
    }
    r->peak = mmix_memory(m).peak;
    if (!mmix_error(m)) save_run(m, d, r, o, print, mixer);
    if (!mmix_error(m) && !interrupted) evaluate(m, mmix_dino_backbone(d, 1), augment, p, &r->after);
    mmix_dino_destroy(d);
    return mmix_error(m) ? -1 : interrupted ? 1 : 0;
}

/* ---- report -------------------------------------------------------------------------------------------- */

/* What is told of each mixer: the name in JSON, the head in the table on stdout and in the report. */
enum { COST = 8, COLUMNS = 14 };                         /* the first 8 say what it took */
static const report_column column[COLUMNS] = {
    {"parameters", "params", "parameters", 8, 0},
    {"mflops", "MFLOP", "MFLOPs an image", 7, 1},
    {"ms_per_step", "ms/step", "ms a step", 8, 1},
    {"images_per_second", "img/s", "images a second", 6, 0},
    {"peak_mib", "MiB", "peak MiB", 5, 0},
    {"steps", "steps", "steps", 6, 0},
    {"loss", "loss", "loss at the end", 6, 3},
    {"entropy", "entropy", "teacher entropy", 8, 3},
    {"knn_before", "k-NN", "k-NN before", 6, 3},
    {"knn", "after", "after", 6, 3},
    {"balanced_before", "bal.", "balanced before", 6, 3},
    {"balanced", "after", "after", 6, 3},
    {"auc_before", "AUC", "Binary-AUC before", 6, 3},
    {"auc", "after", "after", 6, 3},
};

static void results(const run *r, double value[COLUMNS])
{
    size_t n = r->done >= EPOCHS ? r->done / EPOCHS : r->done;
    double ms = r->done ? r->seconds / (double)r->done * 1000 : NAN, loss = 0, entropy = 0;
    for (size_t i = r->done - n; i < r->done; i++) {     /* means of the last twentieth */
        loss += r->loss[i] / (double)n;
        entropy += r->entropy[i] / (double)n;
    }
    const double all[COLUMNS] = {
        (double)r->parameters, r->flops / 1e6, ms, (double)r->config.batch * 1000 / ms,
        (double)r->peak / 1048576, (double)r->done, loss, entropy, r->before.knn, r->after.knn,
        r->before.balanced, r->after.balanced, r->before.auc, r->after.auc};
    memcpy(value, all, sizeof all);
}

static void print_table(const run *r, const pictures *p, const score *pixels, double always)
{
    double value[COLUMNS];
    report_columns_text(column, COLUMNS, "mixer", NULL);
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        results(&r[k], value);
        report_columns_text(column, COLUMNS, mixer_name[k], value);
        if (*r[k].collapse) printf("         %s\n", r[k].collapse);
    }
    if (p->classes) printf("raw %d x %d pixels: k-NN %.3f, balanced %.3f; always the commonest class: %.3f\n",
                           RAW_SIDE, RAW_SIDE, pixels->knn, pixels->balanced, always);
}

static void print_json(const run *r, const pictures *p, const score *pixels, double always)
{
    double value[COLUMNS];
    const char *comma = "";
    printf("{\"train\": %zu, \"test\": %zu, \"classes\": %zu, ", p->train.count, p->test.count, p->classes);
    report_json("pixels_knn", pixels->knn, ", ");
    report_json("pixels_balanced", pixels->balanced, ", ");
    report_json("always", always, ",\n \"mixers\": [");
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        results(&r[k], value);
        printf("%s\n  {\"mixer\": \"%s\", \"model\": \"%s\", ", comma, mixer_name[k], model_name[k]);
        for (int c = 0; c < COLUMNS; c++) report_json(column[c].key, value[c], ", ");
        report_json("final_loss", r[k].done ? r[k].loss[r[k].done - 1] : NAN, ", ");
        printf("\"collapsed\": %s}", *r[k].collapse ? "true" : "false");
        comma = ",";
    }
    printf("\n ]}\n");
}

static void report_mixers(report *h, const run *r, int from, int to)
{
    double value[COLUMNS];
    char name[64];
    report_columns_html(h, column + from, to - from, "mixer|model", NULL);
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        results(&r[k], value);
        snprintf(name, sizeof name, "%s|%s", mixer_name[k], model_name[k]);
        report_columns_html(h, column + from, to - from, name, value + from);
    }
}

static void report_tables(report *h, const run *r, const pictures *p, const score *pixels, double always)
{
    report_html(h, "<h2>What it took</h2>\n");
    report_mixers(h, r, 0, COST);
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">Parameters and FLOPs (two for a multiply-add) are the backbone's, "
                   "FLOPs of one picture at the size of a global crop. A step looks at all crops of a batch, "
                   "trains the student and moves the teacher. Memory is what the library held. Loss and "
                   "entropy: means of the last twentieth.</p>\n<h2>What the features are worth</h2>\n");
    report_mixers(h, r, COST, COLUMNS);
    if (p->classes) {
        report_row(h, "raw pixels|%d x %d||%.3f||%.3f||", RAW_SIDE, RAW_SIDE, pixels->knn, pixels->balanced);
        report_row(h, "always the commonest class|||%.3f||%.3f||", always, 1 / (double)p->classes);
    }
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">k-NN: share of the test pictures whose class the 20 nearest training "
                   "pictures name (cosine of the teacher's class tokens, temperature 0.07); balanced: "
                   "mean over the classes. Binary-AUC: area under the ROC curve of the feature map against "
                   "the mask, max(A, 1 - A), mean over the pictures. Before: the same network at its "
                   "start.</p>\n");
}

static void report_curves(report *h, const run *r)
{
    report_plot loss, entropy, roc;
    double x[ROC_POINTS];
    memset(&loss, 0, sizeof loss);
    loss.x_label = "step";
    loss.level_name = "ln K";
    roc = entropy = loss;
    loss.y_label = "loss";
    loss.caption = "DINO loss.";
    entropy.y_label = "nats";
    entropy.caption = "Entropy of the teacher's choice.";
    roc.level_name = NULL;
    roc.x_label = "share of the ground above the threshold";
    roc.y_label = "share of the objects";
    roc.caption = "Mean ROC curves of the feature maps; broken lines: before.";
    roc.high = roc.square = roc.diagonal = 1;
    for (int i = 0; i < ROC_POINTS; i++) x[i] = (double)i / (double)(ROC_POINTS - 1);
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        report_curve c = {mixer_name[k], r[k].x, r[k].loss, r[k].done, k, 0};
        loss.level = entropy.level = log((double)r[k].config.prototypes);
        loss.curve[loss.curves++] = c;
        c.y = r[k].entropy;
        entropy.curve[entropy.curves++] = c;
        if (!r[k].after.judged) continue;
        c.x = x, c.y = r[k].after.roc, c.count = ROC_POINTS;
        roc.curve[roc.curves++] = c;
        c.y = r[k].before.roc, c.name = NULL, c.dashed = 1;
        roc.curve[roc.curves++] = c;
    }
    report_html(h, "<h2>Learning</h2>\n<div class=\"row\">\n");
    report_chart(h, &loss);
    report_chart(h, &entropy);
    if (roc.curves) report_chart(h, &roc);
    report_html(h, "</div>\n");
}

static void report_maps(report *h, const run *r, const pictures *p)
{
    size_t pixels = p->size * p->size;
    uint8_t *rgb = (uint8_t *)malloc(pixels * 3);
    report_html(h, "<h2>Test pictures and their feature maps</h2>\n<div class=\"wide\">"
                   "<table class=\"pictures\"><tr><th>picture</th>%s", p->test.mask ? "<th>mask</th>" : "");
    for (int k = 0; k < MIXERS; k++) if (r[k].chosen) report_html(h, "<th>%s</th>", mixer_name[k]);
    for (size_t i = 0; rgb && i < SHOWN && i < p->test.count; i++) {
        size_t at = shown(p, i);
        const char *name = p->classes ? p->class_name[p->test.label[at]] : "";
        report_html(h, "</tr>\n<tr><td>");
        report_picture(h, p->test.rgb + at * pixels * 3, p->size, p->size, 128, name);
        for (size_t j = 0; p->test.mask && j < pixels; j++) {
            uint8_t v = p->test.mask[at * pixels + j];
            rgb[3 * j] = rgb[3 * j + 1] = rgb[3 * j + 2] = v == 255 ? 128 : v ? 255 : 0;
        }
        if (p->test.mask) report_html(h, "</td><td>");
        if (p->test.mask) report_picture(h, rgb, p->size, p->size, 128, "mask");
        for (int k = 0; k < MIXERS; k++) {
            if (!r[k].chosen) continue;
            for (size_t j = 0; j < pixels; j++)
                report_heat((double)r[k].after.maps[i * pixels + j], rgb + 3 * j);
            report_html(h, "</td><td>");
            report_picture(h, rgb, p->size, p->size, 128, r[k].after.how);
        }
        report_html(h, "</td><td class=\"soft\">");
        report_text(h, name);
    }
    report_html(h, "</td></tr></table></div>\n<p class=\"soft\">Picture: a test picture, cut square. ");
    if (p->test.mask) report_html(h, "Mask: white is object, grey is void. ");
    report_html(h, "Maps, from violet (0) over green to yellow (1):");
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        report_html(h, "<br>%s: ", mixer_name[k]);
        report_text(h, r[k].after.how);
    }
    report_html(h, "</p>\n");
    free(rgb);
}

/* Everything, into OUT/report.html. 0, or an exit status. */
static int write_report(mmix_ctx *m, const settings *o, const run *r, const pictures *p, const score *pixels,
                        double always)
{
    report h;
    char path[1100], date[32] = "";
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&t));
    snprintf(path, sizeof path, "%s/report.html", o->out);
    if (report_open(&h, path, "Three token mixers learn from pictures without labels"))
        return fail("%s", h.error);
    report_html(&h, "<p>%zu training and %zu test pictures ", p->train.count, p->test.count);
    report_text(&h, o->images ? o->images : "drawn by scenes.h");
    report_html(&h, ", brought to %zu x %zu", p->size, p->size);
    for (size_t c = 0; c < p->classes && c < 12; c++) {
        report_html(&h, c ? ", " : "; classes (for the test alone): ");
        report_text(&h, p->class_name[c]);
    }
    report_html(&h, "%s.</p>\n<p class=\"soft\">%s, seed %" PRIu64 ", batch %zu, %d threads, %s",
                p->classes > 12 ? ", &hellip;" : "", date, o->seed, o->batch, mmix_threads(m),
                mmix_simd_name(m));
#ifndef _WIN32
    struct rusage use;
#ifdef __APPLE__
    double unit = 1048576;
#else
    double unit = 1024;
#endif
    if (!getrusage(RUSAGE_SELF, &use))
        report_html(&h, ", the whole process held at most %.0f MiB", (double)use.ru_maxrss / unit);
#endif
    report_html(&h, ".</p>\n");
    for (int k = 0; k < MIXERS; k++)
        if (r[k].chosen && *r[k].collapse) {
            report_html(&h, "<p><b>%s has collapsed:</b> ", mixer_name[k]);
            report_text(&h, r[k].collapse);
            report_html(&h, "</p>\n");
        }
    report_tables(&h, r, p, pixels, always);
    report_curves(&h, r);
    report_maps(&h, r, p);
    if (report_close(&h)) return fail("%s", h.error);
    fprintf(stderr, "report: %s\n", path);
    return 0;
}

/* ---- main ---------------------------------------------------------------------------------------------- */

static int work(mmix_ctx *m, settings *o, run *r, pictures *p)       /* an exit status */
{
    char path[1100];
    uint64_t print, old_print = 0;
    score pixels;
    double always;
    int bad = o->load ? read_runs(m, o, r, &old_print) : 0;
    if (bad) return bad;
    mmix_seed_set(m, o->seed);
    if (o->images) bad = pictures_load(p, m, o->images, o->masks, o->size, 0);
    else bad = draw_scenes(p, m, o->seed, o->size);
    if (bad) return fail("%s", *p->error ? p->error : "out of memory for the pictures");
    if (p->train.count < o->batch)
        return fail("--batch %zu: only %zu pictures to train on; give less", o->batch, p->train.count);
    print = pictures_fingerprint(p);
    if (o->load && print != old_print)
        return fail("--load %s: that run began with other pictures; give --images and --masks as it had",
                    o->load);
    bad = plan(m, o, r, p);
    if (bad) return bad;
    snprintf(path, sizeof path, "%s/report.html", o->out);
    if (report_folders(o->prefix)) return fail("cannot write %s-*: %s", o->prefix, strerror(errno));
    if (report_folders(path)) return fail("cannot write %s: %s", path, strerror(errno));
    for (int k = 0; k < MIXERS; k++) {
        int end = r[k].chosen ? train(m, &r[k], o, p, print, k) : 0;
        if (end < 0) return fail("%s", mmix_error(m));
        if (!end) continue;
        fprintf(stderr, "\ndino: stopped and saved; go on with --load %s --out %s\n", o->prefix, o->out);
        return 130;
    }
    if (evaluate_pixels(m, p, &pixels, &always)) return fail("%s", mmix_error(m));
    (o->json ? print_json : print_table)(r, p, &pixels, always);
    return write_report(m, o, r, p, &pixels, always);
}

int main(int argc, char **argv)
{
    settings o;
    run r[MIXERS];
    pictures p;
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    memset(r, 0, sizeof r);
    memset(&p, 0, sizeof p);
    memset(&options, 0, sizeof options);
    options.threads = o.threads;
    options.simd = o.simd;
    options.seed = o.seed;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    status = work(m, &o, r, &p);
    for (int k = 0; k < MIXERS; k++) {
        free(r[k].x);
        free(r[k].before.maps);
        free(r[k].after.maps);
    }
    pictures_free(&p);
    mmix_destroy(m);
    return status;
}
