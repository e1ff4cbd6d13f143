/* features.c - what the features of vision backbones hold, several of them side by side

       cc -O2 demos/features.c -o features -lm -lpthread
       ./features                                    a small ViT with random weights, on drawn scenes
       ./features --load dino_vits16.pth --load vim.safetensors --images photos --masks masks

   Pictures go through backbones whose weights come from files (.safetensors, .pth, .npz) or, where none is
   given, are random and called so. Features go to .npy files; into OUT/report.html go maps (how similar each
   patch is to the class token, to single registers, in other blocks), principal components of the patches as
   colours and, where there are masks, Binary-AUC: how well a map tells objects from background.

   Sections: options · pictures · models · maps and AUC · principal components · features of all pictures ·
   table and JSON · report · figures · main */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "features"
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
#include <unistd.h>
#endif

enum { MODELS = 8, BATCH = 8, BLOCKS = 4, REGISTERS = 4, MAPS = 1 + REGISTERS + BLOCKS };
enum { SCENES_FIRST = 1500, SCENES_ALL = 1000 };         /* dino.c trains on those before */
enum { ROC_POINTS = 101, LEVELS = 20, SIDE = 128 };      /* SIDE: pictures in the report, pixels wide */

#define fail report_refuse

/* ---- options ------------------------------------------------------------------------------------------- */

static const char help[] =
    "features - what the features of vision backbones hold, several of them side by side\n\n"
    "  --load FILE     weights: .safetensors, PyTorch's .pth, .npz, a run of demos/dino.c; up to 8 times\n"
    "  --mixer NAME    of the --load before it, where names cannot tell: softmax or linear     (softmax)\n"
    "  --heads N       of the --load before it, where names cannot tell                        (width / 64)\n"
    "  --model NAME    random weights: vit_tiny, vit_small, vit_base, linearvit_base, dinovim_tiny, _small,\n"
    "                  _base, mambareg_tiny, _small, _base         (vit_tiny, if there is no --load)\n"
    "  --images DIR    DIR/test/CLASS/* beside DIR/train, or DIR/CLASS/*, or DIR/*     (drawn scenes)\n"
    "  --masks DIR     their masks, the same tree, PNG: 0 background, 255 void, else object\n"
    "  --limit N       so many pictures, spread over all; 0: all   (64)\n"
    "  --show N        so many of them in the report               (6)\n"
    "  --size N        shorter side to 256/224 N, then the N x N pixels in the middle      (224)\n"
    "  --whole         the whole picture instead, its shorter side N, the longer one whole patches\n"
    "  --block K[,K]   maps of these blocks, too, counted from 0; up to 4\n"
    "  --threshold T   where the foreground of the components' pictures begins, 0 ... 1    (0.5)\n"
    "  --out DIR       where report.html and the .npy files go     (build/features-out)\n"
    "  --list          print what is in the checkpoints and whether all names fit, and stop\n"
    "  --figures DIR   draw the figures of docs/03-backbones.md, two of them of the --load, and stop\n"
    "  --seed N        of random weights and scenes                (1)\n"
    "  --threads N     (all cores)\n"
    "  --simd NAME     auto, none, avx2, avx512, neon              (auto)\n"
    "  --json          results as JSON on stdout\n"
    "  --help\n\n"
    "OUT/NAME-token.npy (pictures, D), -patches.npy (pictures, patches, D) and -registers.npy (pictures, k,\n"
    "D) have a row for each line of OUT/pictures.txt; with --whole -patches.npy is (all patches, D). All\n"
    "are held in memory until they are written: 1 GiB of patches at most.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

enum { COST = 5, COLUMNS = 11 };                         /* the first 5 say what it takes */
static const report_column column[COLUMNS] = {
    {"parameters", "params", "parameters", 9, 0},
    {"gflops", "GFLOP", "GFLOPs a picture", 6, 2},
    {"ms", "ms", "ms a picture", 7, 1},
    {"peak_mib", "MiB", "peak MiB", 6, 0},
    {"tokens", "tokens", "tokens", 6, 0},
    {"auc", "AUC", "Binary-AUC", 6, 3},
    {"auc_error", "+-", "±", 5, 3},
    {"judged", "of", "pictures", 5, 0},
    {"brighter", "bright", "object brighter", 6, 2},
    {"iou", "IoU", "best IoU", 5, 3},
    {"iou_threshold", "at", "at threshold", 5, 2},
};

typedef struct strip {                                   /* what is kept of a shown picture */
    size_t gh, gw, row;                                  /* where its patches begin among all */
    uint8_t *map, *colours;                              /* (maps, h, w), 255 is 1; (gh, gw, 3) */
} strip;
typedef struct model {
    const char *file, *known;                            /* a file, or a known size with random weights */
    int mixer;                                           /* -1: as the file says */
    size_t heads;                                        /* 0: the same */
    char name[64], label[80], kind[200];                 /* of its files; with "(random)"; in words */
    mmix_vision_config config;
    size_t parameters, tokens, registers, maps, peak, timed;     /* maps: class token, registers, blocks */
    double flops, seconds;
    mmix_real *token, *register_rows, *patches;          /* while it is at work: (pictures, D), (pictures, */
    size_t rows, room;                                   /* registers, D), (rows, D), of all pictures */
    char head[MAPS][32], how[MAPS][320], components[400];        /* how maps and colours were made */
    strip *shown;                                        /* (show) */
    /* Maps against masks, sums over the pictures: AUC, its square, ROC curves, IoU of map and 1 - map at
       thresholds 0, 0.05 … 0.95; pictures; those with the objects brighter; AUC of each class. */
    double sum, square, roc[ROC_POINTS], iou[2][LEVELS];
    size_t judged, brighter;
    struct { double sum; size_t count; } *of_class;
    double value[COLUMNS];                               /* of the table */
} model;
typedef struct settings {
    const char *images, *masks, *out, *figures;
    model model[MODELS + 1];                             /* behind the last: nearness to the middle */
    size_t models, limit, show, size, threads, block[BLOCKS], blocks;
    size_t unit;                                         /* with --whole sides are multiples of it */
    int whole, list, json, simd;
    uint64_t seed;
    double threshold;
} settings;

static int known_config(const char *name, mmix_vision_config *c)         /* -1: no such model */
{
    const struct { const char *name; mmix_vision_config config; } known[] = {
        {"vit_tiny", mmix_vit(192, 16)}, {"vit_small", mmix_vit(384, 16)}, {"vit_base", mmix_vit(768, 16)},
        {"linearvit_base", mmix_linearvit(768)}, {"dinovim_tiny", mmix_dinovim(256)},
        {"dinovim_small", mmix_dinovim(512)}, {"dinovim_base", mmix_dinovim(768)},
        {"mambareg_tiny", mmix_mambareg(256)}, {"mambareg_small", mmix_mambareg(512)},
        {"mambareg_base", mmix_mambareg(768)}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(name, known[k].name)) return *c = known[k].config, 0;
    return -1;
}

/* What --load and --model say and, behind a --load, --mixer and --heads. 0, or an exit status. */
static int read_model(settings *o, const char *option, const char *value)
{
    model *x = &o->model[o->models];
    mmix_vision_config c;
    if (!strcmp(option, "--load") || !strcmp(option, "--model")) {
        if (o->models == MODELS) return fail("%s %s: one too many; %d at most", option, value, MODELS);
        *(option[2] == 'l' ? &x->file : &x->known) = value;
        x->mixer = -1;
        o->models++;
        if (x->file || !known_config(value, &c)) return 0;
        return fail("--model %s: no such model; --help lists them", value);
    }
    if (!o->models || !(--x)->file)
        return fail("%s %s: give it behind the --load it is about", option, value);
    if (!strcmp(option, "--heads")) {
        x->heads = strlen(value) < 5 ? (size_t)atoi(value) : 0;
        return x->heads ? 0 : fail("--heads %s: give a whole number from 1 to 9999", value);
    }
    x->mixer = strcmp(value, "linear") ? MMIX_SOFTMAX : MMIX_LINEAR;
    if (!strcmp(value, "linear") || !strcmp(value, "softmax")) return 0;
    return fail("--mixer %s: give softmax or linear", value);
}

static int read_blocks(settings *o, const char *list)    /* 0, or an exit status */
{
    char *end;
    for (const char *at = list; at; at = *end ? end + 1 : NULL) {
        unsigned long long n = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || (*end && *end != ',') || n > 9999 || o->blocks == BLOCKS ||
            (o->blocks && n <= o->block[o->blocks - 1]))
            return fail("--block %s: give up to %d rising numbers, as 0,3", list, BLOCKS);
        o->block[o->blocks++] = (size_t)n;
    }
    return 0;
}

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    static const char *const simd_name[] = {"auto", "none", "avx2", "avx512", "neon"};
    const char *simd = "auto", *seed = "1", *threshold = "0.5", *blocks = NULL, *about = NULL;
    memset(o, 0, sizeof *o);
    o->out = "build/features-out";
    o->limit = 64;
    o->show = 6;
    o->size = 224;
    struct { const char *name, **text; size_t *number, low, high; int *flag; } known[] = {
        {"--load", &about, NULL, 0, 0, NULL}, {"--model", &about, NULL, 0, 0, NULL},
        {"--mixer", &about, NULL, 0, 0, NULL}, {"--heads", &about, NULL, 0, 0, NULL},
        {"--images", &o->images, NULL, 0, 0, NULL}, {"--masks", &o->masks, NULL, 0, 0, NULL},
        {"--out", &o->out, NULL, 0, 0, NULL}, {"--figures", &o->figures, NULL, 0, 0, NULL},
        {"--block", &blocks, NULL, 0, 0, NULL}, {"--threshold", &threshold, NULL, 0, 0, NULL},
        {"--simd", &simd, NULL, 0, 0, NULL}, {"--seed", &seed, NULL, 0, 0, NULL},
        {"--limit", NULL, &o->limit, 0, 100000000, NULL}, {"--show", NULL, &o->show, 1, 100, NULL},
        {"--size", NULL, &o->size, 8, 4096, NULL}, {"--threads", NULL, &o->threads, 1, 64, NULL},
        {"--json", NULL, NULL, 0, 0, &o->json}, {"--list", NULL, NULL, 0, 0, &o->list},
        {"--whole", NULL, NULL, 0, 0, &o->whole},
    };
    char *end;
    for (int i = 1; i < argc; i++) {
        size_t k = 0, count = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--help")) return fputs(help, stdout), -1;
        while (k < count && strcmp(argv[i], known[k].name)) k++;
        if (k == count) return fail("%s: no such option; --help lists them all", argv[i]);
        if (known[k].flag) { *known[k].flag = 1; continue; }
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        if (known[k].text) *known[k].text = argv[i];
        if (known[k].text == &about && read_model(o, known[k].name, about)) return 2;
        if (known[k].text) continue;
        unsigned long long n = strtoull(argv[i], &end, 10);
        if (!isdigit((unsigned char)*argv[i]) || *end || n < known[k].low || n > known[k].high)
            return fail("%s %s: give a whole number from %zu to %zu", known[k].name, argv[i], known[k].low,
                        known[k].high);
        *known[k].number = (size_t)n;
    }
    o->seed = strtoull(seed, &end, 10);
    if (*end || !isdigit((unsigned char)*seed)) return fail("--seed %s: give a whole number", seed);
    o->threshold = strtod(threshold, &end);
    if (*end || end == threshold || !(o->threshold >= 0 && o->threshold <= 1))
        return fail("--threshold %s: give a number from 0 to 1", threshold);
    while (o->simd < 5 && strcmp(simd, simd_name[o->simd])) o->simd++;       /* MMIX_SIMD_AUTO, … */
    if (o->simd == 5) return fail("--simd %s: give auto, none, avx2, avx512 or neon", simd);
    if (read_blocks(o, blocks)) return 2;
    if (o->masks && !o->images)
        return fail("--masks %s: give --images as well; drawn scenes have their own masks", o->masks);
    if (o->figures && (o->whole || o->json))
        return fail("--figures %s: it takes neither --whole nor --json; leave them out", o->figures);
    return o->models || o->figures ? 0 : read_model(o, "--model", "vit_tiny");
}

/* ---- pictures ------------------------------------------------------------------------------------------ */

/* A picture as the networks see it. mask: 0 background, 1 object, 255 void; NULL if there is none. */
typedef struct view { uint8_t *rgb, *mask; size_t w, h; char why[512]; } view;
typedef struct photo { char *path, *mask; int32_t label; size_t w, h; } photo;   /* path NULL: a scene */
typedef struct album {
    photo *at;
    size_t count, classes;
    char **class_name;
    int masks;
    view *shown;                                         /* (show): those in the report */
} album;

static void view_free(view *v)
{
    free(v->rgb);
    free(v->mask);
    memset(v, 0, sizeof *v);
}

/* The pictures of a folder, of train and test the test pictures; at most o->limit. 0, or an exit status. */
static int find_photos(album *a, const settings *o)
{
    const char *dir = o->images;
    int bad = 0;
    picture_part part;
    picture_names classes;
    memset(&part, 0, sizeof part);
    if (!picture_is_folder(dir)) return fail("%s: no such folder; --images wants one", dir);
    if (o->masks && !picture_is_folder(o->masks))
        return fail("%s: no such folder; --masks wants one", o->masks);
    int split = picture_find(dir, 1, &part, &classes);
    size_t found = part.names.count;
    a->class_name = classes.at;
    a->classes = classes.count;
    a->masks = o->masks != NULL;
    a->count = o->limit && o->limit < found ? o->limit : found;
    a->at = (photo *)calloc(a->count + 1, sizeof *a->at);
    if (split < 0 || !a->at) bad = fail("%s: no memory for the names of its pictures", dir);
    else if (!found)
        bad = fail("%s: no pictures; expected %s/test/CLASS/* beside %s/train, or %s/CLASS/*, or %s/*: .jpg, "
                   ".png, .ppm", dir, dir, dir, dir, dir);
    for (size_t i = 0; i < a->count && !bad; i++) {
        const char *name = part.names.at[i * found / a->count];
        a->at[i].path = picture_join(dir, "/", name);
        a->at[i].label = part.label[i * found / a->count];
        if (o->masks) a->at[i].mask = picture_mask_path(o->masks, name);
        if (!a->at[i].path) bad = fail("out of memory");
        else if (o->masks && !a->at[i].mask)
            bad = fail("%s: no mask for it; expected %s/%.*s.png", a->at[i].path, o->masks,
                       (int)(picture_ending(name) - name), name);
    }
    picture_names_free(&part.names);
    free(part.label);
    return bad;
}

static int find_scenes(album *a, const settings *o)      /* 0, or an exit status */
{
    a->count = o->limit ? o->limit : SCENES_ALL;
    a->at = (photo *)calloc(a->count, sizeof *a->at);
    a->class_name = (char **)calloc(SCENE_CLASSES, sizeof *a->class_name);
    a->classes = a->class_name ? SCENE_CLASSES : 0;
    a->masks = 1;
    int bad = !a->at || !a->class_name;
    for (size_t c = 0; c < a->classes; c++) bad |= !(a->class_name[c] = picture_join(scene_class[c], "", ""));
    for (size_t i = 0; i < a->count && !bad; i++)
        a->at[i].label = scene_make(o->seed, SCENES_FIRST + i).at[0].kind;
    return bad ? fail("out of memory") : 0;
}

/* `in` brought to the view's size. Masks come this way, too, so that they lie where their pictures lie. */
static int fit(const settings *o, mmix_picture in, uint8_t *out, const view *v)
{
    size_t side = (o->size * 256 + 112) / 224;
    mmix_box all = {0, 0, in.height, in.width};
    mmix_resizing r = o->whole ? mmix_resizing_box(all, v->w, v->h)
                      : mmix_resizing_evaluate(in.width, in.height, side, o->size);
    void *scratch = malloc(mmix_picture_resize_scratch(r) + 1);
    int bad = !scratch || mmix_picture_resize(out, in, r, scratch);
    free(scratch);
    return bad;
}

/* The mask of a picture of w x h pixels: resized as shades of object (red) and void (green), then decided. */
static void view_mask(mmix_ctx *m, const settings *o, const photo *p, size_t w, size_t h, view *v)
{
    mmix_picture in = {NULL, 0, 0};
    uint8_t *rgb = picture_pixels(m, p->mask, &in.width, &in.height, v->why, sizeof v->why);
    uint8_t *shade = (uint8_t *)malloc(v->w * v->h * 3);
    in.rgb = rgb;
    if (rgb && (in.width != w || in.height != h))
        snprintf(v->why, sizeof v->why, "%s: the mask has %zu x %zu pixels, its picture %zu x %zu; make them "
                 "equal", p->mask, in.width, in.height, w, h);
    for (size_t i = 0; rgb && i < in.width * in.height; i++) {
        uint8_t label = picture_mask_label(rgb + 3 * i);
        rgb[3 * i] = label && label != 255 ? 255 : 0;
        rgb[3 * i + 1] = label == 255 ? 255 : 0;
    }
    if (rgb && !*v->why && (!shade || !v->mask || fit(o, in, shade, v)))
        snprintf(v->why, sizeof v->why, "%s: it cannot be brought to size", p->mask);
    for (size_t i = 0; rgb && !*v->why && i < v->w * v->h; i++)
        v->mask[i] = shade[3 * i + 1] >= 128 ? 255 : shade[3 * i] >= 128;
    free(shade);
    if (rgb) picture_pixels_free(p->mask, rgb);
}

/* Reads picture i; v->why says what went wrong. m may be NULL if no file of it is PPM. */
static void view_read(mmix_ctx *m, const settings *o, const album *a, size_t i, view *v)
{
    const photo *p = &a->at[i];
    const char *name = p->path ? p->path : "a scene";
    mmix_picture in = {NULL, o->size, o->size};
    uint8_t *rgb = NULL;
    if (p->path && !(rgb = picture_pixels(m, p->path, &in.width, &in.height, v->why, sizeof v->why))) return;
    in.rgb = rgb;
    v->w = v->h = o->size;
    if (o->whole) {
        size_t low = in.width < in.height ? in.width : in.height, high = in.width + in.height - low;
        size_t longer = (o->size * high + low * o->unit / 2) / (low * o->unit) * o->unit;
        *(in.width < in.height ? &v->h : &v->w) = longer < o->size ? o->size : longer;
    }
    if (v->w * v->h > (size_t)1 << 26) snprintf(v->why, sizeof v->why, "%s: too long for --whole", name);
    else {
        v->rgb = (uint8_t *)malloc(v->w * v->h * 3);
        v->mask = a->masks ? (uint8_t *)malloc(v->w * v->h) : NULL;
        if (!v->rgb || (a->masks && !v->mask)) snprintf(v->why, sizeof v->why, "%s: no memory for it", name);
    }
    if (!p->path && !*v->why) {
        scene_draw(o->seed, SCENES_FIRST + i, (int)o->size, v->rgb, v->mask);
        for (size_t k = 0; k < v->w * v->h; k++) v->mask[k] = v->mask[k] != 0;
    }
    if (p->path && !*v->why && fit(o, in, v->rgb, v))
        snprintf(v->why, sizeof v->why, "%s: %zu x %zu pixels cannot be brought to size", name, in.width,
                 in.height);
    if (p->mask && !*v->why) view_mask(m, o, p, in.width, in.height, v);
    if (rgb) picture_pixels_free(p->path, rgb);
}

typedef struct reading { mmix_ctx *m; const settings *o; const album *a; view *v; size_t first; } reading;
static void read_task(void *arg, size_t i)
{
    reading *r = (reading *)arg;
    view_read(r->m, r->o, r->a, r->first + i, &r->v[i]);
}
/* Pictures first … first + n - 1, on all threads. 0, or -1. */
static int read_views(mmix_ctx *m, const settings *o, album *a, size_t first, size_t n, view *v)
{
    reading r = {NULL, o, a, v, first};
    memset(v, 0, n * sizeof *v);
    for (const photo *p = a->at + first; p < a->at + first + n; p++)
        if (p->path && (picture_is_ppm(p->path) || (p->mask && picture_is_ppm(p->mask)))) r.m = m;
    if (!r.m) mmix_parallel_for(m, n, read_task, &r);
    for (size_t i = 0; i < n; i++) {
        if (r.m) read_task(&r, i);                       /* the library reads PPM, outside of tasks */
        a->at[first + i].w = v[i].w;
        a->at[first + i].h = v[i].h;
        if (!*v[i].why) continue;
        mmix_error_clear(m);                             /* of a PPM: what is said here says more */
        return mmix_fail(m, MMIX_ERROR_FILE, "%s", v[i].why);
    }
    return 0;
}

/* ---- models -------------------------------------------------------------------------------------------- */

static const char *kind_name(const mmix_vision_config *c)
{
    return c->mixer == MMIX_SOFTMAX ? "ViT" : c->mixer == MMIX_LINEAR ? "LinearViT"
           : c->class_token == MMIX_CLASS_REGISTERS ? "DinoMamba-Reg" : "DinoVim";
}

static void describe(const mmix_vision_config *c, char *text, size_t room)       /* in a line */
{
    static const char *const place[4] = {"class token first", "class token in the middle",
                                         "class token first and, to be read, in the middle", "registers"};
    char count[24] = "", heads[40] = "";
    if (c->mixer != MMIX_SSD) snprintf(heads, sizeof heads, ", %zu heads", c->heads);
    if (c->class_token == MMIX_CLASS_REGISTERS)
        snprintf(count, sizeof count, "%zu ", mmix_vision_class_index(c, 0, NULL));
    snprintf(text, room, "%s, width %zu, %zu blocks%s, patch %zu, positions for %zu x %zu, %s%s",
             kind_name(c), c->dim, c->depth, heads, c->patch, c->grid, c->grid, count, place[c->class_token]);
}

static void list_model(mmix_ctx *m, mmix_vision *v, const mmix_archive *archive, const model *x)
{
    char text[256];
    const mmix_params *p = mmix_vision_params(v);
    describe(mmix_vision_config_of(v), text, sizeof text);
    printf("%s%s\n  %s\n  %zu parameters in %zu arrays", x->file ? x->file : x->known,
           x->file ? "" : ": random weights", text, p->elements, p->count);
    if (archive) printf(" of %zu in the file", mmix_archive_count(archive));
    for (size_t i = 0; i < p->count; i++) {
        printf("\n    %s (", p->at[i].name);
        for (int d = 0; d < mmix_ndim(p->at[i].tensor); d++)
            printf("%s%zu", d ? ", " : "", mmix_shape(p->at[i].tensor, d));
        printf(")");
    }
    const char *wrong = archive ? mmix_params_compare(mmix_vision_params(v), archive, NULL) : "";
    printf("\n%s", archive && wrong && !*wrong ? "  all names and shapes fit\n" : "");
    for (size_t n; wrong && *wrong; wrong += n + (wrong[n] == '\n')) {
        n = strcspn(wrong, "\n");
        printf("  %.*s\n", (int)n, wrong);
    }
    mmix_reset(m);
}

/* The network of a checkpoint, or of random weights. NULL on error. mmix_vision_open would do for files that
   tell everything. */
static mmix_vision *open_model(mmix_ctx *m, const model *x, int list)
{
    mmix_vision_config c;
    mmix_vision *v = NULL;
    mmix_archive *archive = x->file ? mmix_archive_open(m, x->file) : NULL;
    if (x->known && !known_config(x->known, &c)) v = mmix_vision_create(m, c);
    if (archive && !mmix_vision_config_read(m, archive, &c)) {
        int told = c.mixer == MMIX_SSD || mmix_archive_metadata(archive, "config") != NULL;
        if (told && ((x->mixer >= 0 && x->mixer != c.mixer) || (x->heads && x->heads != c.heads)))
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "--%s: %s is a %s by what it says itself; leave the option out",
                      x->mixer >= 0 && x->mixer != c.mixer ? "mixer" : "heads", x->file, kind_name(&c));
        if (x->mixer >= 0) c.mixer = x->mixer;
        if (x->heads) c.heads = x->heads;
        v = mmix_vision_create(m, c);
        if (v && !list && mmix_params_read(mmix_vision_params(v), archive, NULL)) {
            mmix_vision_destroy(v);
            v = NULL;
        }
    }
    if (v && list) list_model(m, v, archive, x);
    mmix_archive_close(archive);
    return v;
}

/* Opens each model once, so that a bad file is known before the work begins. 0, or an exit status. */
static int check_models(mmix_ctx *m, settings *o)
{
    o->unit = 1;
    for (size_t k = 0; k < o->models; k++) {
        model *x = &o->model[k];
        const char *path = x->file ? x->file : x->known, *base = path;
        for (const char *at = path; *at; at++) if (*at == '/' || *at == '\\') base = at + 1;
        snprintf(x->name, 48, "%.*s", (int)(picture_ending(base) - base), base);
        for (char *at = x->name; *at; at++)              /* fit for files, tables and JSON */
            if (!isalnum((unsigned char)*at) && !strchr("-_.", *at)) *at = '_';
        if (!*x->name) snprintf(x->name, sizeof x->name, "weights");
        for (size_t i = 0; i < k; i++)
            if (!strcmp(x->name, o->model[i].name)) {
                size_t n = strlen(x->name);
                snprintf(x->name + n, sizeof x->name - n, "-%zu", k + 1);
            }
        snprintf(x->label, sizeof x->label, "%s%s", x->name, x->file ? "" : " (random)");
        mmix_vision *v = open_model(m, x, o->list);
        if (!v) return fail("%s", mmix_error(m));
        x->config = *mmix_vision_config_of(v);
        x->parameters = mmix_vision_params(v)->elements;
        x->flops = mmix_vision_flops(v, o->size, o->size);
        describe(&x->config, x->kind, sizeof x->kind);
        mmix_vision_destroy(v);
        if (x->config.class_token == MMIX_CLASS_REGISTERS)
            x->registers = mmix_vision_class_index(&x->config, 0, NULL);
        if (o->list) continue;
        size_t patch = x->config.patch, a = o->unit, b = patch;
        if (o->size % patch)
            return fail("--size %zu: no whole number of the %zu x %zu patches of %s; give %zu", o->size,
                        patch, patch, x->name, (o->size / patch + 1) * patch);
        while (b) { size_t rest = a % b; a = b; b = rest; }
        o->unit = o->unit / a * patch;
        if (o->blocks && o->block[o->blocks - 1] >= x->config.depth)
            return fail("--block %zu: %s has the blocks 0 to %zu", o->block[o->blocks - 1], x->name,
                        x->config.depth - 1);
    }
    return 0;
}

/* ---- maps and AUC -------------------------------------------------------------------------------------- */

/* Adds what a map (h, w) of one picture says about its mask, unless that is all object or all background. */
static void judge(mmix_ctx *m, model *x, const mmix_real *map, const view *v, int32_t label)
{
    size_t pixels = v->w * v->h, objects = 0, ground = 0;
    const size_t shape[3] = {1, v->h, v->w};
    mmix_tensor *mask = mmix_new(m, MMIX_DTYPE_I32, 3, shape);
    mmix_tensor *side[2] = {mmix_from(m, 3, shape, map), mmix_from(m, 3, shape, map)};           /* as it is, turned */
    mmix_auc_options options;
    mmix_auc auc;
    memset(&options, 0, sizeof options);
    options.void_label = 255;
    for (size_t i = 0; mask && side[0] && side[1] && i < pixels; i++) {
        mmix_data_i32(mask)[i] = v->mask[i];
        mmix_data(side[1])[i] = 1 - map[i];
        objects += v->mask[i] == 1;
        ground += v->mask[i] == 0;
    }
    if (!objects || !ground) return;
    if (mmix_binary_auc(m, &options, side[0], mask, &auc)) return;
    x->sum += auc.auc;
    x->square += auc.auc * auc.auc;
    x->judged++;
    x->brighter += auc.auc_raw[0] >= 0.5;
    x->of_class[label].sum += auc.auc;
    x->of_class[label].count++;
    mmix_roc_add(x->roc, ROC_POINTS, &auc);
    for (int k = 0; k < 2 * LEVELS; k++) {
        double iou = 0, level = k % LEVELS / (double)LEVELS;
        mmix_binary_iou(m, side[k / LEVELS], mask, level, 255, &iou);
        x->iou[k / LEVELS][k % LEVELS] += iou;
    }
}

/* The same of how near each pixel is to the middle: what a map is worth that has looked at no picture. */
static void judge_middle(mmix_ctx *m, model *x, const view *v, int32_t label)
{
    mmix_tensor *map = mmix_new2(m, v->h, v->w);
    for (size_t i = 0; map && i < v->w * v->h; i++) {
        double right = (double)(2 * (i % v->w) + 1) / (double)v->w - 1;
        double down = (double)(2 * (i / v->w) + 1) / (double)v->h - 1;
        mmix_data(map)[i] = (mmix_real)(1 - sqrt((right * right + down * down) / 2));
    }
    if (map) judge(m, x, mmix_data(map), v, label);
}

/* Map `at` of a shown picture: of a query (D) with patches (gh gw, D). 0, or -1. */
static int add_map(mmix_ctx *m, model *x, strip *s, size_t at, const char *token, const char *layer,
                   const mmix_real *query, const mmix_real *patches, const view *v)
{
    mmix_map map;
    mmix_map_options options;
    memset(&options, 0, sizeof options);
    options.token = token;
    options.layer = layer;
    const size_t shape[3] = {1, s->gh * s->gw, x->config.dim}, row[2] = {1, x->config.dim};
    if (mmix_feature_map(m, &options, mmix_from(m, 2, row, query), mmix_from(m, 3, shape, patches), s->gh, s->gw, v->h,
                         v->w, &map))
        return -1;
    for (size_t i = 0; i < v->w * v->h; i++)             /* not a number: 0 */
        s->map[at * v->w * v->h + i] = mmix_data(map.map)[i] > 0 ? (uint8_t)((double)mmix_data(map.map)[i] * 255 + 0.5) : 0;
    memcpy(x->how[at], map.how, sizeof map.how);
    return 0;
}

/* Makes of picture b of a batch, whose patches begin at `row` of all, what the report shows. 0, or -1. */
static int keep(mmix_ctx *m, const settings *o, model *x, strip *s, const mmix_features *f, size_t b,
                size_t row, const mmix_real *token, const view *v)
{
    static const char last[] = "last block after the final norm";
    size_t n = f->grid_h * f->grid_w, D = x->config.dim, at = 0;
    const mmix_real *patches = x->patches + row * D;
    mmix_tensor *rows = mmix_new2(m, n, D);
    s->gh = f->grid_h;
    s->gw = f->grid_w;
    s->row = row;
    s->map = (uint8_t *)malloc(x->maps * v->w * v->h);
    s->colours = (uint8_t *)calloc(n, 3);
    if (!s->map || !s->colours || !rows)
        return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the pictures of the report");
    snprintf(x->head[0], sizeof *x->head, x->registers ? "mean of the registers" : "class token");
    if (add_map(m, x, s, 0, x->head[0], last, token, patches, v)) return -1;
    for (size_t r = 0; r < x->maps - 1 - o->blocks; r++) {
        const mmix_real *query = mmix_data(f->registers) + (b * x->registers + r) * D;
        snprintf(x->head[++at], sizeof *x->head, "register %zu", r);
        if (add_map(m, x, s, at, x->head[at], last, query, patches, v)) return -1;
    }
    /* Of attention the class token after the same block. Mamba's come without the residual, which its patches
       have, so there it is the last block's. */
    for (size_t k = 0; k < o->blocks; k++) {
        char layer[80];
        int own = x->config.mixer != MMIX_SSD;
        const mmix_real *dense = mmix_data(f->dense[k]) + b * D * n, *query = token;
        if (own) query = mmix_data(f->intermediate) + b * mmix_stride(f->intermediate, 0) +
                         (o->block[k] - o->block[0]) * D;
        for (size_t i = 0; i < n * D; i++) mmix_data(rows)[i] = dense[i % D * n + i / D];
        snprintf(x->head[++at], sizeof *x->head, "block %zu", o->block[k]);
        snprintf(layer, sizeof layer, "block %zu after the final norm", o->block[k]);
        if (add_map(m, x, s, at, own ? "class token of the same block" : x->registers ?
                    "mean of the registers of the last block" : "class token of the last block", layer, query,
                    mmix_data(rows), v)) return -1;
    }
    return 0;
}

/* ---- principal components ------------------------------------------------------------------------------ */

/* The colours of the shown pictures' patches, in two steps as DINOv2's authors do it: the first component of
   all patches tells the foreground, the first three of the foreground's patches are red, green and blue. A
   component has no sign of its own; objects touch the edges of pictures less often than ground. 0, or -1. */
static int colour_patches(mmix_ctx *m, const settings *o, model *x)
{
    size_t D = x->config.dim, rows = 0, front = 0, row = 0, k = D < 3 ? D : 3;
    double low = INFINITY, high = -INFINITY, sum[2] = {0, 0}, count[2] = {0, 0};  /* at the edges, inside */
    mmix_pca_result first, three;
    for (size_t i = 0; i < o->show; i++) rows += x->shown[i].gh * x->shown[i].gw;
    snprintf(x->components, sizeof x->components, "none, of a single patch");
    if (rows < 2) return 0;
    mmix_tensor *all = mmix_new2(m, rows, D);
    for (const strip *s = x->shown; all && s < x->shown + o->show; s++) {
        memcpy(mmix_data(all) + row * D, x->patches + s->row * D, s->gh * s->gw * D * sizeof(mmix_real));
        row += s->gh * s->gw;
    }
    if (!all || mmix_pca(m, all, 1, &first)) return -1;
    double *t = first.projection;
    for (const strip *s = x->shown; s < x->shown + o->show; s++)
        for (size_t p = 0; p < s->gh * s->gw; p++, t++) {
            size_t r = p / s->gw, c = p % s->gw;
            int inside = r && c && r + 1 < s->gh && c + 1 < s->gw;
            sum[inside] += *t;
            count[inside]++;
            low = fmin(low, *t);
            high = fmax(high, *t);
        }
    int turn = sum[0] / count[0] > sum[1] / fmax(count[1], 1);
    t = first.projection;
    for (row = 0; row < rows; row++) {                   /* the foreground's rows move to the front */
        t[row] = high > low ? (turn ? high - t[row] : t[row] - low) / (high - low) : 0;
        if (t[row] >= o->threshold)
            memmove(mmix_data(all) + front++ * D, mmix_data(all) + row * D, D * sizeof(mmix_real));
    }
    snprintf(x->components, sizeof x->components, "foreground: where the first principal component of the "
             "patches of all %zu pictures, scaled to [0, 1] and turned so that the pictures' edges are low, "
             "is at least %g (%.0f%% of the patches); its own first %zu components are red, green and blue, "
             "2.5 deviations to either side", o->show, o->threshold, 100 * (double)front / (double)rows, k);
    if (front < 2) return 0;
    if (mmix_pca(m, mmix_slice(m, all, 0, 0, front), k, &three)) return -1;
    const double *colour = three.projection;
    for (const strip *s = x->shown; s < x->shown + o->show; s++)
        for (size_t p = 0; p < s->gh * s->gw; p++)
            for (size_t c = 0, in = *t++ >= o->threshold; in && c < k; c++) {
                double v = *colour++ / (5 * sqrt(three.variance[c]) + 1e-30) + 0.5;
                s->colours[3 * p + c] = (uint8_t)(255 * (v < 0.1 ? 0.1 : v > 1 ? 1 : v));
            }
    return 0;
}

/* ---- features of all pictures -------------------------------------------------------------------------- */

/* Features stay in memory until all pictures are through: 1 GiB of patches at most. */
static size_t most_rows(const model *x) { return ((size_t)1 << 30) / (x->config.dim * sizeof(mmix_real)); }

/* OUT/NAME-WHAT.npy, (a, b, D), or (a, D) if b is 0; an error stays in m. */
static void save(mmix_ctx *m, const settings *o, const model *x, const char *what, const mmix_real *data,
                 size_t a, size_t b)
{
    char path[1200];
    mmix_entry e;
    memset(&e, 0, sizeof e);
    snprintf(path, sizeof path, "%s/%s-%s.npy", o->out, x->name, what);
    e.dtype = MMIX_FILE_REAL;
    e.ndim = b ? 3 : 2;
    e.shape[0] = a;
    e.shape[1] = b ? b : x->config.dim;
    e.shape[2] = x->config.dim;
    e.data = data;
    mmix_archive_save(m, path, &e, 1, NULL);
}

static size_t shown(const settings *o, const album *a, size_t k)         /* the k-th picture of the report */
{
    return k * a->count / o->show;
}
static size_t shown_as(const settings *o, const album *a, size_t i)      /* show: it is not in the report */
{
    size_t k = 0;
    while (k < o->show && shown(o, a, k) != i) k++;
    return k;
}

static void show_progress(const model *x, size_t done, const album *a, double rate)
{
    size_t left = (size_t)((double)(a->count - done) / rate);
    int stay = isatty(2) && done < a->count;             /* on a screen the line is written over */
    fprintf(stderr, "%-16s %zu of %zu pictures  %.1f/s  %zu:%02zu left  %s", x->name, done, a->count, rate,
            left / 60, left % 60, stay ? "\r" : "\n");
}

/* A batch, pictures first … first + n - 1, through the network. 0, or -1. */
static int look(mmix_ctx *m, settings *o, album *a, const mmix_vision *v, model *x, size_t first, size_t n,
                view *views)
{
    const size_t D = x->config.dim, h = views->h, w = views->w;
    int any = 0;
    mmix_vision_options options;
    mmix_map map;
    mmix_map_options words;
    memset(&options, 0, sizeof options);
    mmix_tensor *image = mmix_new4(m, n, 3, h, w);
    for (size_t b = 0; image && b < n; b++) {
        mmix_picture p = {views[b].rgb, w, h};
        mmix_picture_normalise(mmix_data(image) + b * 3 * h * w, p, NULL, NULL);
        any |= shown_as(o, a, first + b) < o->show;
    }
    if (any && o->blocks) {                              /* other blocks are for the report alone */
        options.dense = o->block;
        options.n_dense = o->blocks;
        options.dense_norm = 1;
        options.n_last = x->config.mixer == MMIX_SSD ? 0 : x->config.depth - o->block[0];
    }
    double start = now();
    mmix_features f = mmix_vision_forward(m, v, image, &options);
    if (first || a->count <= n) {                        /* the first batch also takes its memory */
        x->seconds += now() - start;
        x->timed += n;
    }
    size_t cells = f.grid_h * f.grid_w;
    mmix_real *token = x->token + first * D;
    if (x->rows + n * cells > x->room)
        return mmix_fail(m, MMIX_ERROR_MEMORY, "%s: after %zu pictures the patches fill 1 GiB; give a "
                         "smaller --limit or --size", x->name, first);
    if (mmix_read(f.patches, x->patches + x->rows * D) || mmix_read(f.token, token)) return -1;
    if (x->registers && mmix_read(f.registers, x->register_rows + first * x->registers * D)) return -1;
    memset(&words, 0, sizeof words);
    words.token = f.registers ? "mean of the registers" : "class token";
    words.layer = "last block after the final norm";
    if (mmix_feature_map(m, &words, f.token, f.patches, f.grid_h, f.grid_w, h, w, &map)) return -1;
    x->tokens = mmix_shape(f.tokens, 1);
    for (size_t b = 0; b < n; b++) {
        mmix_mark mark = mmix_mark_here(m);
        size_t i = first + b, k = shown_as(o, a, i);
        if (a->masks) judge(m, x, mmix_data(map.map) + b * h * w, &views[b], a->at[i].label);
        if (a->masks && x == o->model) judge_middle(m, &o->model[o->models], &views[b], a->at[i].label);
        if (k < o->show && keep(m, o, x, &x->shown[k], &f, b, x->rows + b * cells, token + b * D, &views[b]))
            return -1;
        mmix_rewind(m, mark);
        if (k == o->show || a->shown[k].rgb) continue;
        a->shown[k] = views[b];                          /* the report takes the view over */
        memset(&views[b], 0, sizeof views[b]);
    }
    x->rows += n * cells;
    return mmix_error(m) ? -1 : 0;
}

/* All pictures through one model; its .npy files. 0, or an exit status. */
static int measure(mmix_ctx *m, settings *o, album *a, model *x)
{
    const size_t D = x->config.dim, k = x->registers, grid = o->size / x->config.patch;
    const size_t batch = o->whole ? 1 : BATCH;           /* whole pictures differ in size */
    view views[BATCH];
    mmix_memory_peak_clear(m);
    size_t before = mmix_memory(m).bytes;
    mmix_vision *v = open_model(m, x, 0);
    x->maps = 1 + (k < REGISTERS ? k : REGISTERS) + o->blocks;
    x->token = (mmix_real *)malloc(a->count * D * sizeof *x->token);
    x->register_rows = (mmix_real *)malloc((a->count * k * D + 1) * sizeof *x->register_rows);
    x->room = o->whole ? most_rows(x) : a->count * grid * grid;
    x->patches = (mmix_real *)malloc(x->room * D * sizeof *x->patches);
    x->shown = (strip *)calloc(o->show, sizeof *x->shown);
    if (!x->token || !x->register_rows || !x->patches || !x->shown)
        mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the features of %zu pictures", a->count);
    if (v) mmix_params_pack(mmix_vision_params(v), 1);
    double start = now(), said = start;
    for (size_t done = 0, n; done < a->count && !mmix_error(m) && !interrupted; done += n) {
        mmix_mark mark = mmix_mark_here(m);
        n = a->count - done < batch ? a->count - done : batch;
        if (!read_views(m, o, a, done, n, views)) look(m, o, a, v, x, done, n, views);
        mmix_rewind(m, mark);
        for (size_t b = 0; b < n; b++) view_free(&views[b]);
        double t = now();
        if (mmix_error(m) || (t - said < (isatty(2) ? 0.5 : 20) && done + n < a->count)) continue;
        said = t;
        show_progress(x, done + n, a, (double)(done + n) / (t - start));
    }
    x->peak = mmix_memory(m).peak - before;
    if (!mmix_error(m) && !interrupted) {
        if (!o->figures) {
            save(m, o, x, "token", x->token, a->count, 0);
            if (k) save(m, o, x, "registers", x->register_rows, a->count, k);
            if (o->whole) save(m, o, x, "patches", x->patches, x->rows, 0);
            else save(m, o, x, "patches", x->patches, a->count, x->rows / a->count);
        }
        colour_patches(m, o, x);
    }
    mmix_reset(m);
    mmix_vision_destroy(v);
    free(x->token);
    free(x->register_rows);
    free(x->patches);
    if (mmix_error(m)) return fail("%s", mmix_error(m));
    if (interrupted) fprintf(stderr, "\nfeatures: stopped; no report was written\n");
    return interrupted ? 130 : 0;
}

/* ---- table and JSON ------------------------------------------------------------------------------------ */

static void results(model *x)
{
    double *value = x->value;
    double n = (double)x->judged, best = -1;
    const double cost[COST] = {(double)x->parameters, x->flops / 1e9, x->seconds * 1000 / (double)x->timed,
                               (double)x->peak / 1048576, (double)x->tokens};
    for (int c = 0; c < COLUMNS; c++) value[c] = c < COST && x->parameters ? cost[c] : NAN;
    if (!x->judged) return;
    value[5] = x->sum / n;
    value[6] = n > 1 ? sqrt(fmax(x->square / n - value[5] * value[5], 0) / (n - 1)) : NAN;
    value[7] = n;
    value[8] = (double)x->brighter / n;
    for (int k = 0; k < 2 * LEVELS; k++) {
        double iou = x->iou[k / LEVELS][k % LEVELS] / n, level = k % LEVELS / (double)LEVELS;
        if (iou <= best) continue;
        value[9] = best = iou;
        value[10] = k < LEVELS ? level : -level;         /* with a minus: of 1 - map */
    }
}

static size_t lines(const settings *o)                   /* models and, where there are masks, the middle */
{
    return o->models + (o->model[o->models].judged > 0);
}
static double class_auc(const model *x, size_t c)        /* NAN: there are none of it */
{
    return x->of_class[c].sum / (double)x->of_class[c].count;
}

static void print_table(const settings *o)
{
    char name[100];
    snprintf(name, sizeof name, "%-24s", "weights");
    report_columns_text(column, COLUMNS, name, NULL);
    for (size_t k = 0; k < lines(o); k++) {
        snprintf(name, sizeof name, "%-24s", o->model[k].label);
        report_columns_text(column, COLUMNS, name, o->model[k].value);
    }
}

static void print_json(const settings *o, const album *a)
{
    printf("{\"pictures\": %zu, \"images\": ", a->count);
    report_json_text(o->images ? o->images : "scenes");
    printf(", \"size\": %zu, \"whole\": %s, \"models\": [", o->size, o->whole ? "true" : "false");
    for (size_t k = 0; k <= o->models; k++) {
        const model *x = &o->model[k];
        if (k == o->models) printf("\n ], \"middle\": {");
        else {
            printf("%s\n {\"name\": \"%s\", \"kind\": \"%s\", \"random\": %s, \"weights\": ", k ? "," : "",
                   x->name, kind_name(&x->config), x->file ? "false" : "true");
            report_json_text(x->file ? x->file : x->known);
            printf(", ");
        }
        for (int c = k < o->models ? 0 : COST; c < COLUMNS; c++)
            report_json(column[c].key, x->value[c], ", ");
        printf("\"classes\": {");
        for (size_t c = 0; c < a->classes; c++) {
            printf(c ? ", " : "");
            report_json_text(a->class_name[c]);
            printf(x->of_class[c].count ? ": %.9g" : ": null", class_auc(x, c));
        }
        printf("}}");
    }
    printf("}\n");
}

/* ---- report -------------------------------------------------------------------------------------------- */

static void report_models(report *h, const settings *o, int from, int to)
{
    report_columns_html(h, column + from, to - from, "weights", NULL);
    for (size_t k = 0; k < (from ? lines(o) : o->models); k++)
        report_columns_html(h, column + from, to - from, o->model[k].label, o->model[k].value + from);
    report_table(h, NULL);
}

static void report_networks(report *h, const settings *o)
{
    report_html(h, "<h2>The networks</h2>\n");
    report_models(h, o, 0, COST);
    report_html(h, "<p class=\"soft\">FLOPs: two for a multiply-add, of %zu x %zu pixels. Time: the forward "
                "pass alone, %d at once, without the first batch. Memory: the most that the library held, "
                "weights and their packed copies among it.</p>\n<ul class=\"soft\">\n", o->size, o->size,
                o->whole ? 1 : BATCH);
    for (const model *x = o->model; x < o->model + o->models; x++) {
        report_html(h, "<li>%s: ", x->name);
        report_text(h, x->file ? x->file : "random weights, nothing is trained");
        report_html(h, ". %s.</li>\n", x->kind);
    }
    report_html(h, "</ul>\n");
}

static void report_auc(report *h, const settings *o, const album *a)
{
    report_plot roc;
    double at[ROC_POINTS], rate[MODELS + 1][ROC_POINTS];
    const model *end = o->model + o->models;
    memset(&roc, 0, sizeof roc);
    roc.x_label = "share of the ground above the threshold";
    roc.y_label = "share of the objects";
    roc.caption = "Mean ROC curves of the maps.";
    roc.high = roc.square = roc.diagonal = 1;
    report_html(h, "<h2>Binary-AUC: do maps tell objects from background?</h2>\n");
    report_models(h, o, COST, COLUMNS);
    report_html(h, "<p class=\"soft\">Area A under the ROC curve of the class token's map (DinoMamba-Reg: of "
                "the registers' mean) against the mask, max(A, 1 - A), never below &frac12;: mean over the "
                "pictures that have both object and background, and its standard error. Object brighter: "
                "share of the pictures with A &ge; &frac12;. Best IoU: intersection over union of map &ge; "
                "threshold and object, mean over the pictures, at the best of %d thresholds, one for all, 0 "
                "being the whole picture; with a minus the map is turned round first. Nearness to the "
                "middle: a map that has looked at no picture.</p>\n", LEVELS);
    report_html(h, "<div class=\"row\">\n<div class=\"wide\"><table><tr><th>class</th><th>pictures</th>");
    for (const model *x = o->model; x <= end; x++) report_html(h, "<th>%s</th>", x->label);
    for (size_t c = 0; c < a->classes; c++) {
        report_html(h, "</tr>\n<tr><td>");
        report_text(h, a->class_name[c]);
        report_html(h, "</td><td>%zu</td>", end->of_class[c].count);
        for (const model *x = o->model; x <= end; x++)
            report_html(h, x->of_class[c].count ? "<td>%.3f</td>" : "<td>-</td>", class_auc(x, c));
    }
    report_html(h, "</tr></table></div>\n");
    for (int i = 0; i < ROC_POINTS; i++) at[i] = (double)i / (double)(ROC_POINTS - 1);
    for (const model *x = o->model; x <= end; x++) {
        size_t k = roc.curves++;
        report_curve c = {x->label, at, rate[k], ROC_POINTS, (int)k, k >= 6 || x == end};
        for (int i = 0; i < ROC_POINTS; i++) rate[k][i] = x->roc[i] / (double)x->judged;
        roc.curve[k] = c;
    }
    report_chart(h, &roc);
    report_html(h, "</div>\n");
}

/* The columns of a table of pictures. */
enum { PICTURE, MASK, MAP, COLOURS };
typedef struct tile { int what; const model *x; size_t at; char head[120]; const char *how; } tile;
enum { TILES = 2 + 2 * MODELS };

/* Picture, mask, then map and components of all models; or the picture and all maps of `one`. */
static size_t tiles_of(const settings *o, const album *a, const model *one, tile *t)
{
    tile *at = t;
    const tile picture = {PICTURE, NULL, 0, "picture", ""};
    const tile mask = {MASK, NULL, 0, "mask", "white is object, grey void"};
    *at++ = picture;
    if (a->masks && !one) *at++ = mask;
    for (const model *x = one ? one : o->model; x < (one ? one + 1 : o->model + o->models); x++)
        for (size_t k = 0; k < (one ? x->maps : 2); k++, at++) {
            at->what = one || !k ? MAP : COLOURS;
            at->x = x;
            at->at = one ? k : 0;
            at->how = at->what == MAP ? x->how[k] : x->components;
            if (one) snprintf(at->head, sizeof at->head, "%s", x->head[k]);
            else snprintf(at->head, sizeof at->head, "%s %s", x->label, k ? "components" : "map");
        }
    return (size_t)(at - t);
}

/* Tile t of the i-th shown picture, (h, w, 3). */
static void paint(uint8_t *rgb, const view *v, const tile *t, size_t i)
{
    const strip *s = t->x ? &t->x->shown[i] : NULL;
    for (size_t k = 0, n = v->w * v->h; k < n; k++, rgb += 3) {
        if (t->what == PICTURE) memcpy(rgb, v->rgb + 3 * k, 3);
        if (t->what == MASK) memset(rgb, v->mask[k] == 255 ? 128 : v->mask[k] ? 255 : 0, 3);
        if (t->what == MAP) report_heat(s->map[t->at * n + k] / 255.0, rgb);
        if (t->what == COLOURS)
            memcpy(rgb, s->colours + 3 * (k / v->w * s->gh / v->h * s->gw + k % v->w * s->gw / v->w), 3);
    }
}

static void report_pictures(report *h, const settings *o, const album *a, const model *one, uint8_t *rgb)
{
    tile t[TILES];
    size_t tiles = tiles_of(o, a, one, t);
    report_html(h, "<div class=\"wide\"><table class=\"pictures\">\n<tr>");
    for (size_t k = 0; k < tiles; k++) report_html(h, "<th>%s</th>", t[k].head);
    for (size_t i = 0; i < o->show; i++) {
        const photo *p = &a->at[shown(o, a, i)];
        report_html(h, "</tr>\n<tr>");
        for (size_t k = 0; k < tiles; k++) {
            const char *how = k ? t[k].how : p->path ? p->path : "a drawn scene";
            paint(rgb, &a->shown[i], &t[k], i);
            report_html(h, "<td title=\"");
            report_text(h, how);
            report_html(h, "\">");
            report_picture(h, rgb, a->shown[i].w, a->shown[i].h, SIDE, how);
            report_html(h, "</td>");
        }
        report_html(h, "<td class=\"soft\">");
        report_text(h, a->classes ? a->class_name[p->label] : "");
        report_html(h, "</td>");
    }
    report_html(h, "</tr></table></div>\n<p class=\"soft\">Maps run from violet (0) over green to yellow "
                "(1). How they were made:");
    for (size_t k = 1; k < tiles; k++) {
        report_html(h, "<br>\n%s: ", t[k].head);
        report_text(h, t[k].how);
    }
    report_html(h, "</p>\n");
}

/* 0, or an exit status. */
static int write_report(mmix_ctx *m, const settings *o, const album *a)
{
    report h;
    char path[1100], date[32] = "";
    time_t t = time(NULL);
    size_t pixels = 0, random = 0;
    for (size_t i = 0; i < o->show; i++)
        if (a->shown[i].w * a->shown[i].h > pixels) pixels = a->shown[i].w * a->shown[i].h;
    uint8_t *rgb = (uint8_t *)malloc(pixels * 3);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&t));
    snprintf(path, sizeof path, "%s/report.html", o->out);
    if (!rgb || report_open(&h, path, "What the features hold")) {
        free(rgb);
        return fail("%s", rgb ? h.error : "no memory for the report");
    }
    report_html(&h, "<p>%zu pictures %s", a->count, o->images ? "of " : "");
    report_text(&h, o->images ? o->images : "drawn by scenes.h");
    if (o->whole) report_html(&h, ", whole, the shorter side %zu pixels.</p>\n", o->size);
    else if (!o->images) report_html(&h, ", %zu x %zu pixels.</p>\n", o->size, o->size);
    else report_html(&h, ", the shorter side brought to %zu, of that the middle %zu x %zu pixels.</p>\n",
                     (o->size * 256 + 112) / 224, o->size, o->size);
    for (const model *x = o->model; x < o->model + o->models; x++)
        if (!x->file) report_html(&h, "%s%s", random++ ? ", " : "<p><b>Random weights:</b> ", x->name);
    if (random) report_html(&h, ". Nothing is trained there: what is seen is what the architecture alone "
                            "makes of the pixels.</p>\n");
    report_html(&h, "<p class=\"soft\">%s, seed %" PRIu64 ", %d threads, %s.</p>\n", date, o->seed,
                mmix_threads(m), mmix_simd_name(m));
    report_networks(&h, o);
    if (o->model[o->models].judged) report_auc(&h, o, a);
    report_html(&h, "<h2>Pictures, feature maps and principal components</h2>\n");
    report_pictures(&h, o, a, NULL, rgb);
    for (const model *x = o->model; x < o->model + o->models; x++) {
        if (x->maps == 1) continue;
        report_html(&h, "<h2>%s: %s%s%s</h2>\n", x->label, x->registers ? "registers" : "",
                    x->registers && o->blocks ? " and " : "", o->blocks ? "blocks" : "");
        report_pictures(&h, o, a, x, rgb);
    }
    report_html(&h, "<h2>Files</h2>\n<p class=\"soft\">NAME-token.npy (%zu, D), NAME-patches.npy %s and, of "
                "registers, NAME-registers.npy (%zu, k, D), a row for each line of pictures.txt.</p>\n",
                a->count, o->whole ? "(patches of all pictures, D)" : "(pictures, patches, D)", a->count);
    free(rgb);
    if (report_close(&h)) return fail("%s", h.error);
    fprintf(stderr, "report: %s\n", path);
    return 0;
}

/* pictures.txt: path, class, and for each model the grid. 0, or an exit status. */
static int write_names(const settings *o, const album *a)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/pictures.txt", o->out);
    FILE *f = fopen(path, "wb");
    if (!f) return fail("cannot write %s: %s", path, strerror(errno));
    for (size_t i = 0; i < a->count; i++) {
        const photo *p = &a->at[i];
        if (p->path) fputs(p->path, f);
        else fprintf(f, "scene-%" PRIu64 "-%zu", o->seed, SCENES_FIRST + i);
        fprintf(f, "\t%s", a->classes ? a->class_name[p->label] : "");
        for (size_t k = 0; k < o->models; k++)
            fprintf(f, "\t%zux%zu", p->h / o->model[k].config.patch, p->w / o->model[k].config.patch);
        fputc('\n', f);
    }
    return fclose(f) ? fail("%s could not be written whole", path) : 0;
}

/* ---- figures ------------------------------------------------------------------------------------------- */

enum { ORDERS = 4, SPECIAL = 64 };
typedef struct order {                                   /* of a model's tokens */
    const char *name;
    int registers;
    size_t patches, grid, tokens, count, at[SPECIAL];    /* class tokens or registers, rising; */
    size_t unread;                                       /* the first so many of them are not the output */
} order;

static order order_of(const char *name, mmix_vision_config c, size_t size)
{
    order r;
    memset(&r, 0, sizeof r);
    r.name = name;
    r.grid = size / c.patch;
    r.patches = r.grid * r.grid;
    r.registers = c.class_token == MMIX_CLASS_REGISTERS;
    r.unread = c.class_token == MMIX_CLASS_RELEASED;     /* the one in front */
    r.count = r.unread + mmix_vision_class_index(&c, r.patches, r.at + r.unread);
    r.tokens = r.patches + r.count;
    return r;
}

static void svg_row(FILE *f, const order *r, size_t row, double x, double y, double w, double h)
{
    double t = (double)row / (double)(r->grid - 1);      /* from #e2eaf4 to #688fc4 */
    svg_box(f, x, y, w, h, "fill=\"#%02x%02x%02x\"", (int)(226 - 122 * t), (int)(234 - 91 * t),
            (int)(244 - 48 * t));
}
static void svg_special(FILE *f, const order *r, size_t k, double x, double y, double w, double h)
{
    const char *colour = r->registers ? "#167a46" : "#c84e14";
    svg_box(f, x + 0.7, y + 0.7, w - 1.4, h - 1.4, "fill=\"%s\" stroke=\"%s\" stroke-width=\"1.4\"",
            k < r->unread ? "#fff" : colour, colour);
}

/* tokens.svg: each model's sequence as a strip. */
static void draw_tokens(const char *folder, const order *all)
{
    enum { LEFT = 20, CELL = 4, TOP = 56, STEP = 100, HIGH = 26 };
    FILE *f = svg_open(folder, "tokens.svg", 880, TOP + ORDERS * STEP - 12, "");
    for (int m = 0; m < ORDERS; m++) {
        const order *r = &all[m];
        double y = TOP + m * STEP;
        size_t patch = 0, next = 0;
        svg_text(f, LEFT, y - 30, 14, "start", "<tspan font-weight=\"bold\">%s</tspan>: %zu tokens, %zu of "
                 "them patches", r->name, r->tokens, r->patches);
        svg_text(f, LEFT + CELL * (double)r->tokens + 3, y + HIGH - 8, 11, "start", "%zu", r->tokens - 1);
        for (size_t i = 0, run; i < r->tokens; i += run) {
            double x = LEFT + CELL * (double)i;
            int special = next < r->count && r->at[next] == i;
            run = 1;
            if (special) {
                svg_special(f, r, next, x - 0.5, y - 6, CELL + 1, HIGH + 12);
                svg_text(f, x + CELL / 2, y - 11, 11, "middle", "%zu", i);
                if (next++ >= r->unread) svg_text(f, x + CELL / 2, y + HIGH + 20, 11, "middle", "&#9650;");
                continue;
            }
            while (i + run < (next < r->count ? r->at[next] : r->tokens) && (patch + run) % r->grid) run++;
            svg_row(f, r, patch / r->grid, x, y, CELL * (double)run - 0.6, HIGH);    /* patches of one row */
            patch += run;
        }
    }
    double y = TOP + ORDERS * STEP - 28, x = LEFT;
    for (size_t k = 0; k < all->grid; k++, x += 10) svg_row(f, all, k, x, y - 11, 9.4, 13);
    svg_text(f, x + 6, y, 13, "start", "rows of patches, 0 to %zu", all->grid - 1);
    svg_special(f, &all[0], 0, x + 190, y - 13, 6, 17);
    svg_text(f, x + 202, y, 13, "start", "class token");
    svg_special(f, &all[1], 0, x + 292, y - 13, 6, 17);
    svg_text(f, x + 304, y, 13, "start", "class token, not read");
    svg_special(f, &all[3], 0, x + 452, y - 13, 6, 17);
    svg_text(f, x + 464, y, 13, "start", "register");
    svg_text(f, x + 532, y, 13, "start", "&#9650; read as the output");
    figure_close(f, "</svg>\n");
}

/* grids.svg: where in the picture the same tokens stand. */
static void draw_grids(const char *folder, const order *all)
{
    enum { LEFT = 22, CELL = 15, GAP = 26, TOP = 44 };
    double side = CELL * (double)all->grid;
    FILE *f = svg_open(folder, "grids.svg", 2 * LEFT + ORDERS * (side + GAP) - GAP, TOP + side + 58, "");
    for (int m = 0; m < ORDERS; m++) {
        const order *r = &all[m];
        double left = LEFT + m * (side + GAP);
        svg_text(f, left + side / 2, TOP - 14, 14, "middle", "<tspan font-weight=\"bold\">%s</tspan>",
                 r->name);
        for (size_t p = 0; p < r->patches; p++)
            svg_row(f, r, p / r->grid, left + CELL * (double)(p % r->grid),
                    TOP + CELL * (double)(p / r->grid), CELL - 1, CELL - 1);
        for (size_t k = 0; k < r->count; k++) {
            size_t before = r->at[k] - k;                /* so many patches */
            double x = left + CELL * (double)(before % r->grid) - 0.5;
            double y = TOP + CELL * (double)(before / r->grid) - 0.5;
            int last = before % r->grid + 2 > r->grid;
            svg_special(f, r, k, x - 3, y - 1.5, 6, CELL + 3);
            svg_text(f, x + (last ? -5 : 5), y + 12, 11, last ? "end" : "start", "%zu", r->at[k]);
        }
    }
    svg_text(f, LEFT, TOP + side + 26, 13, "start", "Tokens follow the rows of patches from left to right. A "
             "bar stands before the patch that comes after it in the sequence;");
    svg_text(f, LEFT, TOP + side + 45, 13, "start", "the number is its place there. Filled: class token or "
             "register that is read as the output; hollow: not read.");
    figure_close(f, "</svg>\n");
}

/* The positions of a model's patches for a grid of g x g, resized as the library does it: (g², D). */
static mmix_tensor *positions(mmix_ctx *m, mmix_vision *v, size_t g)
{
    static const int to_planes[4] = {0, 3, 1, 2}, to_tokens[4] = {0, 2, 3, 1};
    const mmix_vision_config *c = mmix_vision_config_of(v);
    size_t shape[4] = {1, c->grid, c->grid, c->dim}, flat[3] = {1, g * g, c->dim}, n = c->grid * c->grid;
    double scale = ((double)g + 0.1) / (double)c->grid;
    mmix_tensor *p = mmix_params_find(mmix_vision_params(v), "pos_embed");
    p = mmix_permute(m, mmix_reshape(m, mmix_slice(m, p, 1, mmix_shape(p, 1) - n, n), 4, shape), to_planes);
    if (g != c->grid) p = mmix_resize(m, p, MMIX_BICUBIC, g, g, scale, scale);
    return mmix_reshape(m, mmix_permute(m, p, to_tokens), 3, flat);
}

/* positions.svg: how similar one position is to all others, as stored and resized. */
static void draw_positions(mmix_ctx *m, const settings *o)
{
    enum { LEFT = 20, PANEL = 150, GAP = 26, TOP = 50, STEP = PANEL + 62 };
    FILE *f = svg_open(o->figures, "positions.svg", 2 * LEFT + 3 * PANEL + 2 * GAP,
                       TOP + (double)o->models * STEP + 4, "");
    for (size_t k = 0; k < o->models && !mmix_error(m); k++) {
        const model *x = &o->model[k];
        mmix_vision *v = open_model(m, x, 0);
        size_t grid = x->config.grid, small = (grid * 6 + 7) / 14;
        size_t at[3] = {small < 4 ? 4 : small, grid, 2 * grid};      /* 14 → 6, 7 → 14 and the like */
        double y = TOP + (double)k * STEP;
        svg_text(f, LEFT, y - 14, 14, "start", "<tspan font-weight=\"bold\">%s</tspan>, %s", x->label,
                 kind_name(&x->config));
        for (size_t i = 0; v && i < 3; i++) {
            size_t g = at[i], own = g * 3 / 10 * g + g * 3 / 10;
            mmix_tensor *p = positions(m, v, g);
            mmix_map map;
            uint8_t rgb[3];
            double left = LEFT + (double)i * (PANEL + GAP), cell = PANEL / (double)g;
            mmix_map_options one;
            memset(&one, 0, sizeof one);
            one.positions = &own;
            one.n_positions = 1;
            if (!p || mmix_feature_map(m, &one, p, p, g, g, g, g, &map)) break;
            for (size_t j = 0; j < g * g; j++) {
                report_heat((double)mmix_data(map.similarity)[j], rgb);
                svg_box(f, left + cell * (double)(j % g), y + cell * (double)(j / g), cell - 0.7, cell - 0.7,
                        "fill=\"#%02x%02x%02x\"", rgb[0], rgb[1], rgb[2]);
            }
            svg_box(f, left + cell * (double)(own % g), y + cell * (double)(own / g), cell - 1, cell - 1,
                    "fill=\"none\" stroke=\"#c84e14\" stroke-width=\"2.5\"");
            svg_text(f, left + PANEL / 2, y + PANEL + 18, 13, "middle", "%zu &#215; %zu, %s", g, g,
                     g == grid ? "as stored" : "resized");
        }
        mmix_reset(m);
        mmix_vision_destroy(v);
    }
    svg_text(f, LEFT, TOP + (double)o->models * STEP - 10, 12, "start", "Cosine of the framed position with "
             "all others, from violet (0, below) to yellow (1).");
    figure_close(f, "</svg>\n");
}

/* features.png: a column for each picture; rows: picture, mask, then map and components of each model. */
static void draw_features(const settings *o, const album *a)
{
    tile t[TILES];
    size_t rows = tiles_of(o, a, NULL, t), zoom = 1 + 111 / o->size, side = o->size * zoom, cell = side + 4;
    size_t width = o->show * cell - 4, height = rows * cell - 4;
    uint8_t *sheet = (uint8_t *)malloc(width * height * 3), *rgb = (uint8_t *)malloc(o->size * o->size * 3);
    if (!sheet || !rgb) exit(fail("no memory for features.png"));
    memset(sheet, 255, width * height * 3);
    for (size_t i = 0; i < o->show * rows; i++) {
        size_t row = i / o->show, col = i % o->show;
        uint8_t *corner = sheet + 3 * (row * cell * width + col * cell);
        paint(rgb, &a->shown[col], &t[row], col);
        for (size_t p = 0; p < side * side; p++)
            memcpy(corner + 3 * (p / side * width + p % side),
                   rgb + 3 * (p / side / zoom * o->size + p % side / zoom), 3);
    }
    figure_png(o->figures, "features.png", sheet, width, height);
    printf("rows of features.png, from the top:\n");
    for (size_t k = 0; k < rows; k++) printf("  %s%s%s\n", t[k].head, *t[k].how ? ": " : "", t[k].how);
    free(sheet);
    free(rgb);
}

/* axial.svg: how far apart the angles of MMIX_POSITIONS_AXIAL put patches, in heads of 64. */
static void draw_axial(const char *folder)
{
    enum { LEFT = 20, PANEL = 150, GAP = 26, TOP = 20, QUARTER = 16 };
    static const size_t grid[3] = {6, 10, 14};
    FILE *f = svg_open(folder, "axial.svg", 2 * LEFT + 3 * PANEL + 2 * GAP, TOP + PANEL + 54, "");
    for (size_t i = 0; i < 3; i++) {
        size_t g = grid[i], own = g * 3 / 10 * g + g * 3 / 10;
        double left = LEFT + (double)i * (PANEL + GAP), cell = PANEL / (double)g;
        for (size_t j = 0; j < g * g; j++) {
            double down = (double)(j / g) - (double)(own / g), right = (double)(j % g) - (double)(own % g), alike = 0;
            uint8_t rgb[3];
            for (int p = 0; p < QUARTER; p++) {          /* coordinates run from -1 to 1 */
                double turn = 2 * 6.283185307179586 / (double)g / pow(100, (double)p / QUARTER);
                alike += (cos(turn * down) + cos(turn * right)) / (2 * QUARTER);
            }
            report_heat(alike, rgb);
            svg_box(f, left + cell * (double)(j % g), TOP + cell * (double)(j / g), cell - 0.7, cell - 0.7,
                    "fill=\"#%02x%02x%02x\"", rgb[0], rgb[1], rgb[2]);
        }
        svg_box(f, left + cell * (double)(own % g), TOP + cell * (double)(own / g), cell - 1, cell - 1,
                "fill=\"none\" stroke=\"#c84e14\" stroke-width=\"2.5\"");
        svg_text(f, left + PANEL / 2, TOP + PANEL + 18, 13, "middle", "%zu &#215; %zu", g, g);
    }
    svg_text(f, LEFT, TOP + PANEL + 44, 12, "start", "Mean cosine of the angles between the framed patch and each other, from "
             "violet (0, below) to yellow (1).");
    figure_close(f, "</svg>\n");
}

static void draw_orders(const char *folder)
{
    mmix_vision_config middle = mmix_dinovim(256);
    middle.class_token = MMIX_CLASS_MIDDLE;
    const order all[ORDERS] = {order_of("ViT", mmix_vit(192, 16), 224),
                               order_of("DinoVim, as released", mmix_dinovim(256), 224),
                               order_of("DinoVim, middle only", middle, 224),
                               order_of("DinoMamba-Reg", mmix_mambareg(256), 224)};
    draw_tokens(folder, all);
    draw_grids(folder, all);
}

/* ---- main ---------------------------------------------------------------------------------------------- */

static int work(mmix_ctx *m, settings *o, album *a)      /* an exit status */
{
    char path[1100];
    model *middle = &o->model[o->models];
    int bad = check_models(m, o);
    if (bad || o->list) return bad;
    if (o->figures) {
        draw_orders(o->figures);
        draw_axial(o->figures);
        if (!o->models) return 0;
        o->limit = o->show;
    }
    bad = o->images ? find_photos(a, o) : find_scenes(a, o);
    if (bad) return bad;
    if (o->show > a->count) o->show = a->count;
    for (const model *x = o->model; x < middle; x++) {
        size_t grid = o->size / x->config.patch, most = most_rows(x) / (grid * grid);
        if (a->count > most)
            return fail("%zu pictures: 1 GiB holds the patches that %s makes of %zu; give --limit %zu",
                        a->count, x->name, most, most);
    }
    snprintf(path, sizeof path, "%s/report.html", o->out);
    if (!o->figures && report_folders(path)) return fail("cannot write %s: %s", path, strerror(errno));
    snprintf(middle->label, sizeof middle->label, "nearness to the middle");
    a->shown = (view *)calloc(o->show, sizeof *a->shown);
    for (model *x = o->model; x <= middle; x++) {
        x->of_class = calloc(a->classes + 1, sizeof *x->of_class);
        if (!a->shown || !x->of_class) return fail("out of memory");
    }
    for (model *x = o->model; x < middle; x++) {
        bad = measure(m, o, a, x);
        if (bad) return bad;
    }
    if (o->figures) {
        draw_positions(m, o);
        draw_features(o, a);
        return mmix_error(m) ? fail("%s", mmix_error(m)) : 0;
    }
    for (model *x = o->model; x <= middle; x++) results(x);
    if (o->json) print_json(o, a);
    else print_table(o);
    bad = write_names(o, a);
    return bad ? bad : write_report(m, o, a);
}

int main(int argc, char **argv)
{
    static settings o;
    album a;
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    memset(&a, 0, sizeof a);
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.simd = o.simd;
    options.seed = o.seed;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    status = work(m, &o, &a);
    for (model *x = o.model; x <= o.model + o.models; x++) {
        for (size_t i = 0; x->shown && i < o.show; i++) {
            free(x->shown[i].map);
            free(x->shown[i].colours);
        }
        free(x->shown);
        free(x->of_class);
    }
    for (size_t i = 0; a.shown && i < o.show; i++) view_free(&a.shown[i]);
    free(a.shown);
    for (size_t i = 0; a.at && i < a.count; i++) {
        free(a.at[i].path);
        free(a.at[i].mask);
    }
    free(a.at);
    for (size_t c = 0; c < a.classes; c++) free(a.class_name[c]);
    free(a.class_name);
    mmix_destroy(m);
    return status;
}
