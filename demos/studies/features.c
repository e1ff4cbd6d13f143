/* features.c - what the networks see: features of vision backbones, several of them side by side

       cc -O2 demos/studies/features.c -o features -lm -lpthread
       ./features                                    a small ViT, random weights, drawn scenes
       ./features --load model.safetensors --images photos
       ./features --load dino_vits16.pth --load vim.safetensors --images photos --masks masks

   Pictures go through backbones whose weights come from files as they were downloaded
   (.safetensors, .pth, .npz) or, where none is given, are random and called so. OUT/report.html
   is a page of it: pictures, their masks, maps of the class token, what it reads in the last
   block head by head, principal components of the patches as colours, the nearest other
   pictures; then measures of the features, each beside the same measure of what nobody has
   trained and with its standard error: k-NN and a linear probe where the folder has classes, a
   linear segmentation head and Binary-AUC where there are masks; costs last. Features go to .npy
   files.

   Sections: options · pictures · models · maps and AUC · principal components · measures ·
   features of all pictures · table and JSON · main. How features are measured: evaluate.h; the
   page: features_report.h; the figures of docs/03-backbones.md: features_figures.h.

   What fewer bits cost: the same file several times, with and without --type. A network whose
   matrices are narrow is compared picture by picture with the first one of the same file whose
   matrices are float. */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#define _FILE_OFFSET_BITS 64                     /* files of patches may be long */
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "features"
#include "../../mamba_mix.h"
#include "pictures.h"
#include "program.h"
#include "report.h"
#include "scenes.h"
#include "evaluate.h"
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <time.h>

enum { MODELS = 8, BATCH = 8, BLOCKS = 4, REGISTERS = 16, MAPS = 1 + REGISTERS + BLOCKS, HEADS = 16,
      ALIKE = 5 };
enum { SCENES_FIRST = 1500, SCENES_ALL = 1000 };         /* dino.c trains on those before */
enum { LEVELS = 20 };
enum { LONGEST = 16 };               /* a whole picture may be so many times as long as it is wide */
enum { SIDE = 128, SMALL = 80 };                         /* pictures in the report, pixels wide */

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "features - what vision backbones see in pictures, several of them side by side\n\n"
    "  --load FILE     weights: .safetensors, PyTorch's .pth, .npz, a run of demos/studies/dino.c; "
    "up to 8 times\n"
    "  --mixer NAME    of the --load before it, where names cannot tell: softmax or linear     "
    "(softmax)\n"
    "  --heads N       of the --load before it, where names cannot tell                        "
    "(width / 64)\n"
    "  --type NAME     the matrices of the --load before it as bf16, f16, int8 or q4  (float)\n"
    "  --model NAME    random weights: vit_tiny, vit_small, vit_base, linearvit_base, "
    "dinovim_tiny, _small,\n"
    "                  _base, mambareg_tiny, _small, _base         (vit_tiny, if there is no "
    "--load)\n"
    "  --images DIR    DIR/train/CLASS/* and DIR/test/CLASS/*, or DIR/CLASS/*, or DIR/*    (drawn "
    "scenes)\n"
    "  --masks DIR     their masks, the same tree, PNG: 0 background, 255 void, else an object's "
    "class;\n"
    "                  pictures may be without\n"
    "  --limit N       so many test and so many train pictures, spread over all; 0: all    (64)\n"
    "  --show N        so many of them in the report               (6)\n"
    "  --size N        shorter side to 256/224 N, then the N x N pixels in the middle      (224)\n"
    "  --square        the square in the middle instead, as N x N pixels\n"
    "  --whole         the whole picture instead, its shorter side N, the longer one whole "
    "patches,\n"
    "                  at most 16 N\n"
    "  --block K[,K]   maps of these blocks, too, counted from 0; up to 4\n"
    "  --level T       the foreground of the components' colours begins where the first component of "
    "patches\n"
    "                  brought to length 1 is T, -1 ... 1, the same for all pictures and networks\n"
    "  --threshold T   the foreground of the components' colours begins at this share of each "
    "picture's\n"
    "                  range, 0 ... 1                              (Otsu's threshold for each "
    "picture)\n"
    "  --measure LIST  of knn,probe,seg,auc those wanted, or none  (all that classes and masks "
    "allow)\n"
    "  --blocks-read N the probe reads the class tokens of the last N blocks               (1)\n"
    "  --out DIR       where report.html and the .npy files go     (build/features-out)\n"
    "  --patches       write the features of all patches, too: OUT/NAME-patches.npy, 300 kB a "
    "picture of a ViT-S/16\n"
    "  --list          print what is in the checkpoints and whether all names fit, and stop\n"
    "  --figures DIR   draw the figures of docs/03-backbones.md, two of them of the --load, and "
    "stop\n"
    "  --seed N        of random weights and scenes                (1)\n"
    "  --threads N     (all cores)\n"
    "  --simd NAME     auto, none, avx2, avx512, neon              (auto)\n"
    "  --json          results as JSON on stdout\n"
    "  --help\n\n"
    "With DIR/train and DIR/test the train pictures vote in k-NN and teach the heads, and the "
    "test pictures\n"
    "are judged. Of DIR/CLASS/* each picture is judged by all others (k-NN), and every fifth by "
    "heads that the\n"
    "rest has taught. DIR/* has no classes: maps, components and nearest pictures remain.\n"
    "OUT/NAME-token.npy (pictures, D), -registers.npy (pictures, k, D) and, if asked for, "
    "-patches.npy (pictures,\n"
    "patches, D) have a row for each line of OUT/pictures.txt; with --whole -patches.npy is (all "
    "patches, D).\n"
    "Pictures that cannot be read are left out and counted on stderr.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

/* The columns: what it takes, then measures. A width of 0: not on stdout. */
enum { COST = 5, KNN = 5, PROBE = 9, PROBE_MEAN = 13, SEG = 17, AUC = 20, BESIDE = 26,
      COLUMNS = 34 };
static const report_column column[COLUMNS] = {
    {"parameters", "params", "parameters", 9, 0},
    {"gflops", "GFLOP", "GFLOPs a picture", 7, 2},
    {"ms", "ms", "ms a picture", 7, 1},
    {"peak_mib", "MiB", "peak MiB", 6, 0},
    {"tokens", "tokens", "tokens", 6, 0},
    {"knn", "k-NN", "k-NN", 6, 3},
    {"knn_95", "+-95%", "", 5, 3},
    {"knn_balanced", "bal.", "k-NN, balanced", 5, 3},
    {"knn_balanced_95", "", "", 0, 3},
    {"probe", "probe", "linear probe", 6, 3},
    {"probe_95", "+-95%", "", 5, 3},
    {"probe_balanced", "", "probe, balanced", 0, 3},
    {"probe_balanced_95", "", "", 0, 3},
    {"probe_mean", "+mean", "probe, with the patches' mean", 6, 3},
    {"probe_mean_95", "+-95%", "", 5, 3},
    {"probe_mean_balanced", "", "the same, balanced", 0, 3},
    {"probe_mean_balanced_95", "", "", 0, 3},
    {"miou", "mIoU", "mIoU", 6, 3},
    {"miou_95", "+-95%", "", 5, 3},
    {"pixels", "", "right pixels", 0, 3},
    {"auc", "AUC", "Binary-AUC", 6, 3},
    {"auc_95", "+-95%", REPORT_95, 5, 3},
    {"judged", "", "pictures", 0, 0},
    {"brighter", "bright", "object brighter", 6, 2},
    {"iou", "", "best IoU", 0, 3},
    {"iou_threshold", "", "at threshold", 0, 2},
    {"cosine", "cosine", "cosine of tokens", 8, 6},
    {"cosine_least", "least", "the least", 8, 6},
    {"knn_difference", "bal.-", "k-NN balanced, difference", 8, 4},
    {"knn_difference_low", "from", "from", 7, 4},
    {"knn_difference_high", "to", "to", 7, 4},
    {"auc_difference", "AUC-", "Binary-AUC, difference", 8, 5},
    {"auc_difference_low", "from", "from", 8, 5},
    {"auc_difference_high", "to", "to", 8, 5},
};
/* In what a network is compared with what nobody has trained, picture by picture: the column, and
   whether it is a mean over classes; and in whose verdicts that is. */
enum { OF_KNN, OF_PROBE, OF_SEG, OF_AUC, JUDGED };
enum { PAIRS = 6 };
static const struct {
    int at, of, pooled;
    const char *key, *text;
} pair_of[PAIRS] = {
    {KNN, OF_KNN, 1, "knn", "k-NN"},
    {KNN + 2, OF_KNN, 0, "knn_balanced", "k-NN, balanced"},
    {PROBE, OF_PROBE, 1, "probe", "probe"},
    {PROBE + 2, OF_PROBE, 0, "probe_balanced", "probe, balanced"},
    {SEG, OF_SEG, 0, "miou", "mIoU"},
    {AUC, OF_AUC, 0, "auc", "Binary-AUC"},
};
enum { ASK_KNN = 1, ASK_PROBE = 2, ASK_SEG = 4, ASK_AUC = 8, ASK_ALL = 15 };
static const char *const ask_name[] = {"knn", "probe", "seg", "auc"};
/* Behind the models: what nobody has trained. */
enum { MIDDLE, COMMONEST, PLAIN, BASELINES = PLAIN + PLAINS };

typedef struct strip {                                   /* what is kept of a shown picture */
    size_t gh, gw, alike[ALIKE];                           /* its nearest pictures, */
    double cosine[ALIKE];                                 /* how near */
    mmix_real *patches;                                  /* (gh gw, D) */
    uint8_t *map, *colours, *pred;  /* (maps, h, w), 255 is 1; (gh, gw, 3); (h, w) */
    /* (heads + 1, gh, gw), their mean last: what the class token reads; whether it is in the 60
       % */
    uint8_t *heat, *lit;
} strip;
typedef struct model {
    const char *file, *known;  /* a file, or a known size with random weights */
    int mixer, type;               /* -1: as the file says; MMIX_DTYPE_… of the matrices */
    size_t heads;                                        /* 0: the same */
    char name[64], label[80], kind[200];  /* of its files; with "(random)"; in words */
    mmix_vision_config config;
    /* maps: class token, registers, blocks */
    size_t parameters, tokens, registers, maps, peak, timed;
    size_t read;                                         /* heads that the class token reads with */
    double flops, seconds;
    /* while it is at work: (all, D), (pictures, registers, */
    mmix_real *token, *register_rows, *vector;
    size_t wide;  /* D), (all, wide): the probe's, patches' mean last */
    dense_set dense;                                        /* patches, in files */
    const struct model *beside;    /* the same file in float, NULL: none; of a narrow network */
    int is_beside;                 /* 1: a narrow network is compared with it */
    char head[MAPS][32], how[MAPS][320], components[600];  /* how maps and colours were made */
    double front[2];  /* least and largest share of foreground patches */
    strip *shown;                                        /* (show) */
    /* Maps against masks, sums over the pictures: AUC; IoU of map and 1 - map at thresholds 0,
       0.05 … 0.95; those with the objects brighter; AUC of each class. */
    maps auc;
    /* AUC of each register's map; sum of the correlations of two registers' maps over the pixels,
       of `likened` pairs. */
    maps of_register[REGISTERS];
    double likeness;
    size_t likened;
    double iou[2][LEVELS];
    size_t brighter;
    struct {
        double sum;
        size_t count;
    } *of_class;
    double value[COLUMNS];                               /* of the table; NAN: not measured */
    verdicts judged[JUDGED];
    gap above[PAIRS];  /* over the best of what nobody has trained, best[k] of them */
    const char *best[PAIRS];
} model;
typedef struct settings {
    const char *images, *masks, *out, *figures;
    model model[MODELS + BASELINES];                     /* the models, then the baselines */
    size_t models, limit, show, size, threads, block[BLOCKS], blocks, blocks_read;
    size_t unit;  /* with --whole sides are multiples of it */
    int whole, square, list, json, patches, simd;       /* patches: written to a file */
    int ask, asked;                                      /* measures, ASK_…; whether by --measure */
    uint64_t seed;
    double threshold;                                    /* -1: Otsu's, or level */
    double level;                                        /* NAN: not asked for */
} settings;

static int known_config(const char *name, mmix_vision_config *c)         /* -1: no such model */
{
    const struct {
        const char *name;
        mmix_vision_config config;
    } known[] = {
        {"vit_tiny", mmix_vision_config_vit(192, 16)}, {"vit_small", mmix_vision_config_vit(384,
                16)}, {"vit_base", mmix_vision_config_vit(768, 16)},
        {"linearvit_base", mmix_vision_config_linearvit(768)},
        {"dinovim_tiny", mmix_vision_config_dinovim(256)},
        {"dinovim_small", mmix_vision_config_dinovim(512)},
        {"dinovim_base", mmix_vision_config_dinovim(768)},
        {"mambareg_tiny", mmix_vision_config_mambareg(256)},
        {"mambareg_small", mmix_vision_config_mambareg(512)},
        {"mambareg_base", mmix_vision_config_mambareg(768)}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(name, known[k].name)) return *c = known[k].config, 0;
    return -1;
}

static const char *const type_name[] = {"bf16", "f16", "int8", "q4"};
static const int type_dtype[] = {MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8, MMIX_DTYPE_Q4};
enum { TYPES = sizeof type_dtype / sizeof *type_dtype };
static int type_of(const char *name)                     /* MMIX_DTYPE_REAL: there is none */
{
    int k = 0;
    while (k < TYPES && strcmp(name, type_name[k])) k++;
    return k < TYPES ? type_dtype[k] : MMIX_DTYPE_REAL;
}
static const char *name_of_type(int type)
{
    int k = 0;
    while (k < TYPES && type_dtype[k] != type) k++;
    return k < TYPES ? type_name[k] : "float";
}

/* What --load and --model say and, behind a --load, --type, --mixer and --heads. 0, or an exit
   status. */
static int read_model(settings *o, const char *option, const char *value)
{
    model *x = &o->model[o->models];
    mmix_vision_config c;
    if (!strcmp(option, "--load") || !strcmp(option, "--model")) {
        if (o->models == MODELS)
            return fail("%s %s: one too many; %d at most", option, value, MODELS);
        *(option[2] == 'l' ? &x->file : &x->known) = value;
        x->mixer = -1;
        o->models++;
        if (x->file || !known_config(value, &c)) return 0;
        return fail("--model %s: no such model; --help lists them", value);
    }
    if (!o->models || !(--x)->file)
        return fail("%s %s: give it behind the --load it is about", option, value);
    if (!strcmp(option, "--type")) {
        x->type = type_of(value);
        return x->type ? 0 : fail("--type %s: give bf16, f16, int8 or q4", value);
    }
    if (!strcmp(option, "--heads")) {
        unsigned long long n;
        if (report_whole("--heads", value, 1, 9999, &n)) return 2;
        return x->heads = (size_t)n, 0;
    }
    x->mixer = strcmp(value, "linear") ? MMIX_MIXER_SOFTMAX : MMIX_MIXER_LINEAR;
    if (!strcmp(value, "linear") || !strcmp(value, "softmax")) return 0;
    return fail("--mixer %s: give softmax or linear", value);
}

static int read_blocks(settings *o, const char *list)    /* 0, or an exit status */
{
    char *end;
    for (const char *at = list; at; at = *end ? end + 1 : NULL) {
        unsigned long long n = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || (*end && *end != ',') || n > 9999 ||
            o->blocks == BLOCKS ||
            (o->blocks && n <= o->block[o->blocks - 1]))
            return fail("--block %s: give up to %d rising numbers, as 0,3", list, BLOCKS);
        o->block[o->blocks++] = (size_t)n;
    }
    return 0;
}

static int read_measures(settings *o, const char *list)  /* 0, or an exit status */
{
    o->ask = ASK_ALL;
    if (!list) return 0;
    o->asked = 1;
    o->ask = 0;
    if (!strcmp(list, "none")) return 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int k = 0;
        size_t n = strcspn(at, ",");
        while (k < 4 && (strlen(ask_name[k]) != n || strncmp(at, ask_name[k], n))) k++;
        if (k == 4) return fail("--measure %s: give some of knn,probe,seg,auc, or none", list);
        o->ask |= 1 << k;
    }
    return 0;
}

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    static const char *const simd_name[] = {"auto", "none", "avx2", "avx512", "neon"};
    const char *simd = "auto", *seed = "1", *threshold = NULL, *blocks = NULL, *about = NULL;
    const char *level = NULL;
    const char *measures = NULL;
    memset(o, 0, sizeof *o);
    o->out = "build/features-out";
    o->limit = 64;
    o->show = 6;
    o->size = 224;
    o->blocks_read = 1;
    struct {
        const char *name, **text;
        size_t *number, low, high;
        int *flag;
    } known[] = {
        {"--load", &about, NULL, 0, 0, NULL},
        {"--model", &about, NULL, 0, 0, NULL},
        {"--type", &about, NULL, 0, 0, NULL},
        {"--mixer", &about, NULL, 0, 0, NULL},
        {"--heads", &about, NULL, 0, 0, NULL},
        {"--images", &o->images, NULL, 0, 0, NULL},
        {"--masks", &o->masks, NULL, 0, 0, NULL},
        {"--out", &o->out, NULL, 0, 0, NULL},
        {"--figures", &o->figures, NULL, 0, 0, NULL},
        {"--block", &blocks, NULL, 0, 0, NULL},
        {"--measure", &measures, NULL, 0, 0, NULL},
        {"--blocks-read", NULL, &o->blocks_read, 1, 64, NULL},
        {"--square", NULL, NULL, 0, 0, &o->square},
        {"--threshold", &threshold, NULL, 0, 0, NULL},
        {"--level", &level, NULL, 0, 0, NULL},
        {"--simd", &simd, NULL, 0, 0, NULL},
        {"--seed", &seed, NULL, 0, 0, NULL},
        {"--limit", NULL, &o->limit, 0, 100000000, NULL},
        {"--show", NULL, &o->show, 1, 100, NULL},
        {"--size", NULL, &o->size, 8, 4096, NULL},
        {"--threads", NULL, &o->threads, 1, 64, NULL},
        {"--json", NULL, NULL, 0, 0, &o->json},
        {"--list", NULL, NULL, 0, 0, &o->list},
        {"--whole", NULL, NULL, 0, 0, &o->whole},
        {"--patches", NULL, NULL, 0, 0, &o->patches},
    };
    char *end;
    unsigned long long n;
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        size_t count = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        while (k < count && strcmp(argv[i], known[k].name)) k++;
        if (k == count) return fail("%s: no such option; --help lists them all", argv[i]);
        if (known[k].flag) {
            *known[k].flag = 1;
            continue;
        }
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        if (known[k].text) *known[k].text = argv[i];
        if (known[k].text == &about && read_model(o, known[k].name, about)) return 2;
        if (known[k].text) continue;
        if (report_whole(known[k].name, argv[i], known[k].low, known[k].high, &n)) return 2;
        *known[k].number = (size_t)n;
    }
    if (report_whole("--seed", seed, 0, ULLONG_MAX, &n)) return 2;
    o->seed = n;
    o->threshold = threshold ? strtod(threshold, &end) : -1;
    if (threshold && (*end || end == threshold || !(o->threshold >= 0 && o->threshold <= 1)))
        return fail("--threshold %s: give a number from 0 to 1", threshold);
    o->level = level ? strtod(level, &end) : NAN;
    if (level && (*end || end == level || !(fabs(o->level) <= 1)))
        return fail("--level %s: give a number from -1 to 1", level);
    if (level && threshold) return fail("--level and --threshold: give one of them");
    while (o->simd < 5 && strcmp(simd, simd_name[o->simd])) o->simd++;       /* MMIX_SIMD_AUTO, … */
    if (o->simd == 5) return fail("--simd %s: give auto, none, avx2, avx512 or neon", simd);
    if (read_blocks(o, blocks) || read_measures(o, measures)) return 2;
    if (o->square && o->whole) return fail("--square and --whole: give one of them");
    if (o->masks && !o->images)
        return fail("--masks %s: give --images as well; drawn scenes have their own masks",
                    o->masks);
    if (o->figures && (o->whole || o->json || o->asked))
        return fail("--figures %s: it takes neither --whole nor --json nor --measure; leave them "
                    "out", o->figures);
    if (o->figures) o->ask = ASK_AUC;
    return o->models || o->figures ? 0 : read_model(o, "--model", "vit_tiny");
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* A picture as the networks see it. mask: 0 background, 1 object, 255 void, and label: the class
   numbers that it was made of; NULL if there is none. */
typedef struct view {
    uint8_t *rgb, *mask, *label;
    size_t w, h;
    char why[512];
} view;
/* path NULL: a scene */
typedef struct photo {
    char *path, *mask;
    int32_t label;
    size_t w, h;
} photo;
typedef struct album {
    photo *at;  /* those that are judged, then those that teach */
    size_t count, all, classes;                          /* how many of the first, of both */
    char **class_name;
    int masks;
    picture_notes notes;                                 /* what was left out */
    uint8_t seen[256];                                   /* which labels the masks have */
    int32_t *label;                                      /* (all) */
    voters vote, teach, segment;  /* k-NN; heads; heads, where there are masks */
    mmix_real *plain[PLAINS];                            /* (all, dim): descriptors */
    store labels;  /* of all pictures, where heads learn masks */
    view *shown;                                         /* (show): those in the report */
} album;

static void view_free(view *v)
{
    free(v->rgb);
    free(v->mask);
    free(v->label);
    memset(v, 0, sizeof *v);
}
static int has_mask(const album *a, size_t i)
{
    return a->masks && (!a->at[i].path || a->at[i].mask);
}

/* At most o->limit names of a part, spread over it, go to photo `first` and on. 0, or an exit
   status. */
static int add_photos(album *a, const settings *o, const picture_part *part, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = part->names.at[i * part->names.count / n];
        photo *p = &a->at[first + i];
        p->path = picture_join(o->images, "/", name);
        p->label = part->label[i * part->names.count / n];
        if (!p->path) return fail("out of memory");
        if (o->masks) p->mask = picture_mask_path(o->masks, name);
    }
    return 0;
}

/* Pictures without a mask are left out where masks count; if none has one, the folder is the
   wrong one. */
static int count_masks(const album *a, const settings *o)        /* 0, or an exit status */
{
    const char *without = NULL;
    size_t missing = 0;
    for (size_t i = 0; i < a->count; i++)
        if (!has_mask(a, i) && !missing++) without = a->at[i].path;
    if (missing == a->count)
        return fail("%s: no mask for it, nor for any other; expected the same name below %s, .png",
                    without, o->masks);
    if (missing)
        fprintf(stderr, "features: %zu of %zu pictures have no mask (%s is the first); where "
                        "masks count, they are left out\n", missing, a->count, without);
    return 0;
}

/* The first line of a run says how many of a folder's pictures it takes. */
static void say_how_many(const album *a, const settings *o, size_t found, size_t teaching)
{
    size_t all = found + teaching;
    if (a->all == all) report_say("%zu pictures in %s", all, o->images);
    else report_say("taking %zu of the %zu pictures in %s, spread over all; --limit 0 takes all "
                    "of them", a->all, all, o->images);
}

/* The pictures of a folder; of train and test both parts. 0, or an exit status. */
static int find_photos(album *a, const settings *o)
{
    const char *dir = o->images;
    int bad = 0;
    int taught = o->ask & (ASK_KNN | ASK_PROBE | ASK_SEG);
    picture_part part[2];
    picture_names classes;
    memset(part, 0, sizeof part);
    if (!picture_is_folder(dir)) return fail("%s: no such folder; --images wants one", dir);
    if (o->masks && !picture_is_folder(o->masks))
        return fail("%s: no such folder; --masks wants one", o->masks);
    int split = picture_find(dir, 2, part, &classes, &a->notes);
    if (split == 0) {                                    /* all in one list, in order */
        for (int k = 0; k < 2; k++) {
            picture_names_free(&part[k].names);
            free(part[k].label);
        }
        picture_names_free(&classes);
        memset(part, 0, sizeof part);
        if (picture_find(dir, 1, &part[1], &classes, &a->notes) < 0) split = -1;
    }
    size_t found = part[1].names.count;
    size_t teaching = taught && split > 0 ? part[0].names.count : 0;
    size_t trains = teaching;
    char why[1024] = "";
    if (*a->notes.denied) bad = fail("%s", a->notes.denied);
    else if (split > 0 && picture_strays(dir, &classes, why, sizeof why)) bad = fail("%s", why);
    a->class_name = classes.at;
    a->classes = classes.count;
    a->masks = o->masks != NULL;
    a->count = o->limit && o->limit < found ? o->limit : found;
    if (o->limit && o->limit < trains) trains = o->limit;
    a->all = a->count + trains;
    a->at = (photo *)calloc(a->all + 1, sizeof *a->at);
    if (split < 0 || !a->at) bad = fail("%s: no memory for the names of its pictures", dir);
    else if (!found && !bad) {
        picture_notes_say(&a->notes, 0);
        bad = fail("%s: no pictures; expected %s/test/CLASS/* beside %s/train, or %s/CLASS/*, or "
                   "%s/*: .jpg, .png, .ppm",
                   dir, dir, dir, dir, dir);
    }
    if (!bad) bad = add_photos(a, o, &part[1], 0, a->count);
    if (!bad) bad = add_photos(a, o, &part[0], a->count, trains);
    if (!bad) say_how_many(a, o, found, teaching);
    for (int k = 0; k < 2; k++) {
        picture_names_free(&part[k].names);
        free(part[k].label);
    }
    return bad;
}

typedef struct trying {
    album *a;
    char (*why)[512];
} trying;
static void try_task(void *arg, size_t i)
{
    trying *t = (trying *)arg;
    if (!picture_is_ppm(t->a->at[i].path))
        picture_readable(NULL, t->a->at[i].path, t->why[i], sizeof *t->why);
}

/* Decodes all pictures once and leaves those out that cannot be read: how many there are has to
   be known before the first is looked at, and a decoder takes a tenth of a network's time. 0, or
   an exit status. */
static int leave_out_broken(mmix_ctx *m, album *a, const settings *o)
{
    size_t all = a->all, kept = 0, judged = 0;
    trying t = {a, (char (*)[512])calloc(all + 1, sizeof *t.why)};
    if (!t.why) return fail("out of memory");
    mmix_parallel_for(m, all, try_task, &t);
    for (size_t i = 0; i < all; i++) {
        photo *p = &a->at[i];
        if (picture_is_ppm(p->path)) picture_readable(m, p->path, t.why[i], sizeof *t.why);
        mmix_error_clear(m);                             /* of a PPM: t.why says more */
        if (!*t.why[i]) {
            if (i < a->count) judged++;
            a->at[kept++] = *p;
            continue;
        }
        if (!a->notes.broken++)
            snprintf(a->notes.first_broken, sizeof a->notes.first_broken, "%s", t.why[i]);
        free(p->path);
        free(p->mask);
    }
    free(t.why);
    a->count = judged;
    a->all = kept;
    if (!judged) return fail("none of the pictures can be read; the first: %s",
                             a->notes.first_broken);
    picture_notes_say(&a->notes, all);
    return o->masks ? count_masks(a, o) : 0;
}

static uint64_t scene_number(const album *a, size_t i)   /* judged are those that dino.c judges */
{
    return i < a->count ? SCENES_FIRST + i : i - a->count;
}
static int find_scenes(album *a, const settings *o)      /* 0, or an exit status */
{
    size_t trains = o->limit && o->limit < SCENES_FIRST ? o->limit : SCENES_FIRST;
    a->count = o->limit ? o->limit : SCENES_ALL;
    a->all = a->count + (o->ask & (ASK_KNN | ASK_PROBE | ASK_SEG) ? trains : 0);
    a->at = (photo *)calloc(a->all, sizeof *a->at);
    a->class_name = (char **)calloc(SCENE_CLASSES, sizeof *a->class_name);
    a->classes = a->class_name ? SCENE_CLASSES : 0;
    a->masks = 1;
    int bad = !a->at || !a->class_name;
    for (size_t c = 0; c < a->classes; c++) {
        a->class_name[c] = picture_join(scene_class[c], "", "");
        bad |= !a->class_name[c];
    }
    for (size_t i = 0; i < a->all && !bad; i++)
        a->at[i].label = scene_make(o->seed, scene_number(a, i)).at[0].kind;
    return bad ? fail("out of memory") : 0;
}

/* What the folder allows of what is asked for, and who votes, teaches and is judged. 0, or an
   exit status. */
static int share_out(album *a, settings *o)
{
    size_t n = a->all + 1, own = a->all == a->count, seen[2] = {0, 0};  /* own: no train pictures */
    size_t *at = (size_t *)calloc(6 * n, sizeof *at);
    voters *v[3] = {&a->vote, &a->teach, &a->segment};
    a->label = (int32_t *)calloc(n, sizeof *a->label);
    if (!at || !a->label) {
        free(at);
        return fail("out of memory");
    }
    for (int k = 0; k < 3; k++) {
        v[k]->train = at + 2 * (size_t)k * n;
        v[k]->test = v[k]->train + n;
    }
    for (size_t i = 0; i < a->all; i++) {
        int test = own ? i % 5 == 4 : i < a->count;      /* of heads */
        a->label[i] = a->at[i].label;
        if (i < a->count) a->vote.test[a->vote.tests++] = i;
        else a->vote.train[a->vote.trains++] = i;
        if (a->classes) seen[test] += 1;
        for (int k = 1; k < 3; k++) {
            if (k == 2 && !has_mask(a, i)) continue;
            if (test) v[k]->test[v[k]->tests++] = i;
            else v[k]->train[v[k]->trains++] = i;
        }
    }
    const char *why[4] = {NULL, NULL, NULL, NULL};       /* why a measure cannot be taken */
    if (a->count < 2) why[0] = "there are too few pictures";
    if (!a->teach.trains || !a->teach.tests) why[1] = "there are too few pictures";
    if (a->classes < 2) {
        why[0] = "there are no classes, or one alone";
        why[1] = why[0];
    }
    if (!a->segment.trains || !a->segment.tests) why[2] = "there are too few pictures with masks";
    if (o->whole) why[2] = "with --whole pictures differ in size";
    if (!a->masks) {
        why[2] = "there are no masks";
        why[3] = why[2];
    }
    for (int k = 0; k < 4; k++) {
        if (!why[k] || !(o->ask & 1 << k)) continue;
        if (o->asked) return fail("--measure %s: %s", ask_name[k], why[k]);
        o->ask &= ~(1 << k);
    }
    return 0;
}

/* What of a picture of w x h pixels becomes a view, and how. --square as pictures.h does it. */
static mmix_resize_plan resizing_of(const settings *o, size_t w, size_t h, const view *v)
{
    mmix_box all = {0, 0, h, w};
    if (o->whole) return mmix_resize_plan_box(all, v->w, v->h);
    if (o->square) return mmix_resize_plan_box(picture_square(w, h), o->size, o->size);
    return mmix_resize_plan_center_crop(w, h, (o->size * 256 + 112) / 224, o->size);
}

/* `in` brought to the view's size. Masks come this way, too, so that they lie where their
   pictures lie. */
static int fit(const settings *o, mmix_picture in, uint8_t *out, const view *v)
{
    return picture_resize(out, in, resizing_of(o, in.width, in.height, v));
}

/* Class numbers of the view's pixels, of the nearest ones of a mask (w x h, numbers in red). */
static void view_labels(const settings *o, const uint8_t *rgb, size_t w, size_t h, view *v)
{
    mmix_resize_plan r = resizing_of(o, w, h, v);
    for (size_t y = 0; y < v->h; y++)
        for (size_t x = 0; x < v->w; x++) {
            size_t down = 2 * (r.to.top + y) + 1;        /* middles, in half pixels */
            size_t across = 2 * (r.to.left + x) + 1;
            size_t from_y = r.from.top + down * r.from.height / (2 * r.height);
            size_t from_x = r.from.left + across * r.from.width / (2 * r.width);
            v->label[y * v->w + x] = rgb[3 * (from_y * w + from_x)];
        }
}

/* The mask of a picture of w x h pixels: resized as shades of object (red) and void (green),
   then decided. */
static void view_mask(mmix_ctx *m, const settings *o, const photo *p, size_t w, size_t h, view *v)
{
    mmix_picture in = {NULL, 0, 0};
    uint8_t *rgb = picture_pixels(m, p->mask, &in.width, &in.height, v->why, sizeof v->why);
    uint8_t *shade = (uint8_t *)malloc(v->w * v->h * 3);
    in.rgb = rgb;
    if (rgb && (in.width != w || in.height != h))
        snprintf(v->why, sizeof v->why,
                 "%s: the mask has %zu x %zu pixels, its picture %zu x %zu; make them equal",
                 p->mask, in.width, in.height, w, h);
    if (rgb && !*v->why) picture_mask_labels(rgb, in.width * in.height);
    if (rgb && !*v->why && v->label) view_labels(o, rgb, w, h, v);
    for (size_t i = 0; rgb && i < in.width * in.height; i++) {
        uint8_t label = rgb[3 * i];
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
    if (p->path) {
        rgb = picture_pixels(m, p->path, &in.width, &in.height, v->why, sizeof v->why);
        if (!rgb) return;
    }
    in.rgb = rgb;
    v->w = v->h = o->size;
    if (o->whole) {
        size_t low = in.width < in.height ? in.width : in.height;
        size_t high = in.width + in.height - low;
        size_t longer = (o->size * high + low * o->unit / 2) / (low * o->unit) * o->unit;
        size_t side = longer < o->size ? o->size : longer;
        if (in.width < in.height) v->h = side;
        else v->w = side;
        if (side > LONGEST * o->size)
            snprintf(v->why, sizeof v->why,
                     "%s: %zu x %zu pixels are too thin for --whole, which would make them %zu x "
                     "%zu; one side may be %d times the other: cut it, or leave it out",
                     name, in.width, in.height, v->w, v->h, LONGEST);
    }
    int mask = has_mask(a, i) && (i < a->count || o->ask & ASK_SEG);
    int label = mask && o->ask & ASK_SEG;
    if (!*v->why && v->w * v->h > (size_t)1 << 26)
        snprintf(v->why, sizeof v->why, "%s: %zu x %zu pixels are too many; give a smaller --size",
                 name, v->w, v->h);
    if (!*v->why) {
        v->rgb = (uint8_t *)malloc(v->w * v->h * 3);
        v->mask = mask ? (uint8_t *)malloc(v->w * v->h) : NULL;
        v->label = label ? (uint8_t *)malloc(v->w * v->h) : NULL;
        if (!v->rgb || (mask && !v->mask) || (label && !v->label))
            snprintf(v->why, sizeof v->why, "%s: no memory for it", name);
    }
    if (!p->path && !*v->why) {
        scene_draw(o->seed, scene_number(a, i), (int)o->size, v->rgb, v->mask);
        if (label) memcpy(v->label, v->mask, v->w * v->h);
        for (size_t k = 0; v->mask && k < v->w * v->h; k++) v->mask[k] = v->mask[k] != 0;
    }
    if (p->path && !*v->why && fit(o, in, v->rgb, v))
        snprintf(v->why, sizeof v->why, "%s: %zu x %zu pixels cannot be brought to size", name,
                 in.width, in.height);
    if (v->mask && p->path && !*v->why) view_mask(m, o, p, in.width, in.height, v);
    if (rgb) picture_pixels_free(p->path, rgb);
}

typedef struct reading {
    mmix_ctx *m;
    const settings *o;
    const album *a;
    view *v;
    size_t first;
} reading;
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
        if (r.m) read_task(&r, i);  /* the library reads PPM, outside of tasks */
        a->at[first + i].w = v[i].w;
        a->at[first + i].h = v[i].h;
        if (!*v[i].why) continue;
        mmix_error_clear(m);                             /* of a PPM: what is said here says more */
        return mmix_fail(m, MMIX_ERROR_FILE, "%s", v[i].why);
    }
    return 0;
}

/* The k-th picture of the report. Of a folder without train pictures, if heads learn, one that
   is judged. */
static size_t shown(const settings *o, const album *a, size_t k)
{
    size_t i = k * a->count / o->show;
    size_t judged = i - i % 5 + 4;
    int some = a->all == a->count && o->ask & ASK_SEG && 5 * o->show <= a->count;
    return some && judged < a->count ? judged : i;
}
/* show: it is not in the report */
static size_t shown_as(const settings *o, const album *a, size_t i)
{
    size_t k = 0;
    while (k < o->show && shown(o, a, k) != i) k++;
    return k;
}

/* ---- models ---------------------------------------------------------------------------------- */

static const char *kind_name(const mmix_vision_config *c)
{
    if (c->mixer == MMIX_MIXER_SOFTMAX) return "ViT";
    if (c->mixer == MMIX_MIXER_LINEAR) return "LinearViT";
    if (c->mixer == MMIX_MIXER_SELECTIVE)
        return c->class_token == MMIX_CLASS_REGISTERS ? "Mamba-Reg" : "Vim";
    return c->class_token == MMIX_CLASS_REGISTERS ? "DinoMamba-Reg" : "DinoVim";
}

static int is_mamba(const mmix_vision_config *c)
{
    return c->mixer == MMIX_MIXER_SSD || c->mixer == MMIX_MIXER_SELECTIVE;
}

static void describe(const mmix_vision_config *c, char *text, size_t room)       /* in a line */
{
    static const char *const place[4] = {"class token first", "class token in the middle",
                                         "class token first and, to be read, in the middle",
                                         "registers"};
    char count[24] = "", heads[40] = "";
    if (!is_mamba(c)) snprintf(heads, sizeof heads, ", %zu heads", c->heads);
    if (c->class_token == MMIX_CLASS_REGISTERS)
        snprintf(count, sizeof count, "%zu ", mmix_vision_class_index(c, 0, NULL));
    snprintf(text, room, "%s, width %zu, %zu blocks%s, patch %zu, positions for %zu x %zu, %s%s",
             kind_name(c), c->dim, c->depth, heads, c->patch, c->grid, c->grid, count,
             place[c->class_token]);
}

static void list_model(mmix_ctx *m, mmix_vision *v, const mmix_archive *archive, const model *x)
{
    char text[256];
    const mmix_params *p = mmix_vision_params(v);
    describe(mmix_vision_config_of(v), text, sizeof text);
    if (x->file) printf("%s\n", x->file);
    else printf("%s: random weights\n", x->known);
    printf("  %s\n  %zu parameters in %zu arrays", text, p->elements, p->count);
    if (archive) printf(" of %zu in the file", mmix_archive_count(archive));
    for (size_t i = 0; i < p->count; i++) {
        printf("\n    %s (", p->at[i].name);
        for (int d = 0; d < mmix_ndim(p->at[i].tensor); d++)
            printf("%s%zu", d ? ", " : "", mmix_shape(p->at[i].tensor, d));
        printf(")");
    }
    const char *wrong = archive ? mmix_params_check(mmix_vision_params(v), archive, NULL) : "";
    printf("\n%s", archive && wrong && !*wrong ? "  all names and shapes fit\n" : "");
    for (size_t n; wrong && *wrong; wrong += n + (wrong[n] == '\n')) {
        n = strcspn(wrong, "\n");
        printf("  %.*s\n", (int)n, wrong);
    }
    mmix_reset(m);
}

/* The network of a checkpoint, or of random weights. NULL on error. mmix_vision_load would do
   for files that tell everything. */
static mmix_vision *open_model(mmix_ctx *m, const model *x, int list)
{
    mmix_vision_config c;
    mmix_vision *v = NULL;
    mmix_archive *archive;
    if (x->type && x->mixer < 0 && !x->heads && !list)
        return mmix_vision_load_as(m, x->file, x->type);
    archive = x->file ? mmix_archive_open(m, x->file) : NULL;
    if (x->known && !known_config(x->known, &c)) v = mmix_vision_create(m, c);
    if (archive && !mmix_vision_config_read(m, archive, &c)) {
        int told = is_mamba(&c) || mmix_archive_metadata(archive, "config") != NULL;
        int other_mixer = x->mixer >= 0 && x->mixer != c.mixer;
        int other_heads = x->heads && x->heads != c.heads;
        if (told && (other_mixer || other_heads))
            mmix_fail(m, MMIX_ERROR_ARGUMENT,
                      "--%s: %s is a %s by what it says itself; leave the option out",
                      other_mixer ? "mixer" : "heads", x->file, kind_name(&c));
        if (x->mixer >= 0) c.mixer = x->mixer;
        if (x->heads) c.heads = x->heads;
        v = mmix_vision_create(m, c);
        int bad = v && !list && mmix_params_read(mmix_vision_params(v), archive, NULL);
        if (v && !list && !bad && x->type) bad = mmix_params_narrow(mmix_vision_params(v), x->type);
        if (bad) {
            mmix_vision_destroy(v);
            v = NULL;
        }
    }
    if (v && list) list_model(m, v, archive, x);
    mmix_archive_close(archive);
    return v;
}

static int is_stroke(char c) { return c == '/' || c == '\\'; }

/* A model's name: its file's without folder and ending, unlike those of the models before it. */
static void name_model(settings *o, size_t k)
{
    model *x = &o->model[k];
    const char *path = x->file ? x->file : x->known;
    const char *base = path;
    for (const char *at = path; *at; at++)
        if (is_stroke(*at)) base = at + 1;
    snprintf(x->name, 48, "%.*s", (int)(picture_ending(base) - base), base);
    /* Hugging Face's model.safetensors: its folder's name */
    const size_t word = strcspn(x->name, ".");
    int is_model = word == 5 && !strncmp(x->name, "model", 5);
    int is_pytorch_model = word == 13 && !strncmp(x->name, "pytorch_model", 13);
    if (is_model || is_pytorch_model) {
        const char *end = base > path ? base - 1 : path;
        const char *folder = end;
        while (folder > path && !is_stroke(folder[-1])) folder--;
        if (folder < end && *folder != '.')
            snprintf(x->name, 48, "%.*s", (int)(end - folder), folder);
    }
    for (char *at = x->name; *at; at++)                  /* fit for files, tables and JSON */
        if (!isalnum((unsigned char)*at) && !strchr("-_.", *at)) *at = '_';
    if (!*x->name) snprintf(x->name, sizeof x->name, "weights");
    for (size_t i = 0; i < k; i++)
        if (!strcmp(x->name, o->model[i].name)) {
            size_t n = strlen(x->name);
            snprintf(x->name + n, sizeof x->name - n, "-%zu", k + 1);
        }
    const char *note = x->type ? name_of_type(x->type) : "";
    if (!x->file) note = "random";
    snprintf(x->label, sizeof x->label, *note ? "%s (%s)" : "%s", x->name, note);
    for (size_t i = 0; i < k && x->type && !x->beside; i++) {
        model *y = &o->model[i];
        int same = y->file && !strcmp(x->file, y->file) && x->mixer == y->mixer
            && x->heads == y->heads;
        if (!same || y->type) continue;
        x->beside = y;
        y->is_beside = 1;
    }
}

/* The least size that is a whole number of both patches. */
static size_t common_multiple(size_t one, size_t other)
{
    size_t a = one, b = other;
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return one / a * other;
}

/* Opens each model once, so that a bad file is known before the work begins. 0, or an exit
   status. */
static int check_models(mmix_ctx *m, settings *o)
{
    o->unit = 1;
    for (size_t k = 0; k < o->models; k++) {
        model *x = &o->model[k];
        name_model(o, k);
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
        size_t patch = x->config.patch;
        if (o->size % patch)
            return fail("--size %zu: no whole number of the %zu x %zu patches of %s; give %zu",
                        o->size, patch, patch, x->name, (o->size / patch + 1) * patch);
        o->unit = common_multiple(o->unit, patch);
        if (o->blocks && o->block[o->blocks - 1] >= x->config.depth)
            return fail("--block %zu: %s has the blocks 0 to %zu", o->block[o->blocks - 1], x->name,
                        x->config.depth - 1);
        if (o->blocks_read > x->config.depth)
            return fail("--blocks-read %zu: %s has %zu blocks", o->blocks_read, x->name,
                        x->config.depth);
    }
    return 0;
}

/* ---- maps and AUC ---------------------------------------------------------------------------- */

/* Adds what a map (h, w) of one picture says about its mask. */
static void judge(mmix_ctx *m, model *x, const mmix_real *map, const view *v, int32_t label)
{
    size_t pixels = v->w * v->h;
    const size_t shape[3] = {1, v->h, v->w};
    mmix_auc auc;
    mmix_tensor *mask = maps_judge(m, &x->auc, map, v->mask, v->h, v->w, &auc);
    /* as it is, turned */
    mmix_tensor *side[2] = {mmix_from(m, 3, shape, map), mmix_from(m, 3, shape, map)};
    for (size_t i = 0; side[1] && i < pixels; i++) mmix_data(side[1])[i] = 1 - map[i];
    if (!mask || mmix_error(m)) return;
    x->brighter += auc.auc_raw[0] >= 0.5;
    x->of_class[label].sum += auc.auc;
    x->of_class[label].count++;
    for (int k = 0; k < 2 * LEVELS; k++) {
        double iou = 0;
        double level = k % LEVELS / (double)LEVELS;
        mmix_binary_iou(m, side[k / LEVELS], mask, level, 255, &iou);
        x->iou[k / LEVELS][k % LEVELS] += iou;
    }
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
    const size_t shape[3] = {1, s->gh * s->gw, x->config.dim};
    const size_t row[2] = {1, x->config.dim};
    if (mmix_feature_map(m, &options, mmix_from(m, 2, row, query), mmix_from(m, 3, shape, patches),
                         s->gh, s->gw, v->h, v->w, &map))
        return -1;
    for (size_t i = 0; i < v->w * v->h; i++) {           /* not a number: 0 */
        double value = (double)mmix_data(map.map)[i];
        s->map[at * v->w * v->h + i] = value > 0 ? (uint8_t)(value * 255 + 0.5) : 0;
    }
    memcpy(x->how[at], map.how, sizeof map.how);
    return 0;
}

/* What the class token of a shown picture (h, w, normalized) reads in the last block: each
   head's map, and the mean of all, brought to a largest value of 1, and DINO's mask of it. Of
   Mamba, whose M has either sign, the sizes. 0, or -1. */
static int keep_heads(mmix_ctx *m, const mmix_vision *v, model *x, strip *s, const mmix_real *image,
                      size_t h, size_t w)
{
    const size_t shape[4] = {1, 3, h, w};
    mmix_tensor *map = mmix_vision_attention(m, v, mmix_from(m, 4, shape, image),
                                             x->config.depth - 1);
    if (!map) return -1;
    size_t H = mmix_shape(map, 1);
    size_t cells = s->gh * s->gw;
    mmix_tensor *all = mmix_new3(m, H + 1, s->gh, s->gw);
    if (!all || mmix_read(map, mmix_data(all))) return -1;
    mmix_real *at = mmix_data(all);
    mmix_real *mean = at + H * cells;
    x->read = H;
    memset(mean, 0, cells * sizeof *mean);
    for (size_t i = 0; i < H * cells; i++) {
        at[i] = (mmix_real)fabs((double)at[i]);
        mean[i % cells] += at[i] / (mmix_real)H;
    }
    mmix_tensor *lit = mmix_mass_threshold(m, all, 0.6);
    s->heat = (uint8_t *)calloc(H + 1, cells);
    s->lit = (uint8_t *)calloc(H + 1, cells);
    if (!lit || !s->heat || !s->lit) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for heads");
    for (size_t k = 0; k <= H; k++) {
        double top = 0;
        for (size_t i = k * cells; i < (k + 1) * cells; i++) top = fmax(top, (double)at[i]);
        for (size_t i = k * cells; i < (k + 1) * cells; i++) {
            s->heat[i] = top > 0 ? (uint8_t)((double)at[i] / top * 255 + 0.5) : 0;
            s->lit[i] = mmix_data(lit)[i] > 0;
        }
    }
    return 0;
}

/* Pictures first … first + n - 1 and what a network made of them. */
typedef struct batch {
    size_t first, n;
    view *views;
    const mmix_features *f;
    const mmix_real *image;                              /* (n, 3, h, w), normalized */
    const mmix_real *patches;                            /* (n, cells, D) */
} batch;

/* Makes of picture b of a batch what the report shows. 0, or -1. */
static int keep(mmix_ctx *m, const settings *o, model *x, strip *s, const batch *of, size_t b)
{
    static const char last[] = "last block after the final norm";
    const mmix_features *f = of->f;
    const view *v = &of->views[b];
    size_t n = f->grid_h * f->grid_w;
    size_t D = x->config.dim, at = 0;
    const mmix_real *patches = of->patches + b * n * D;
    const mmix_real *token = x->token + (of->first + b) * D;
    mmix_tensor *rows = mmix_new2(m, n, D);
    s->gh = f->grid_h;
    s->gw = f->grid_w;
    s->map = (uint8_t *)malloc(x->maps * v->w * v->h);
    s->colours = (uint8_t *)calloc(n, 3);
    s->patches = (mmix_real *)malloc(n * D * sizeof *s->patches);
    if (!s->map || !s->colours || !s->patches || !rows)
        return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the pictures of the report");
    memcpy(s->patches, patches, n * D * sizeof *patches);
    snprintf(x->head[0], sizeof *x->head, x->registers ? "mean of the registers" : "class token");
    if (add_map(m, x, s, 0, x->head[0], last, token, patches, v)) return -1;
    for (size_t r = 0; r < x->maps - 1 - o->blocks; r++) {
        const mmix_real *query = mmix_data(f->registers) + (b * x->registers + r) * D;
        snprintf(x->head[++at], sizeof *x->head, "register %zu", r);
        if (add_map(m, x, s, at, x->head[at], last, query, patches, v)) return -1;
    }
    /* Of attention the class token after the same block. Mamba's come without the residual,
       which its patches have, so there it is the last block's. */
    const char *of_last = x->registers ? "mean of the registers of the last block"
                                       : "class token of the last block";
    for (size_t k = 0; k < o->blocks; k++) {
        char layer[80];
        int own = !is_mamba(&x->config);
        const char *how = own ? "class token of the same block" : of_last;
        const mmix_real *dense = mmix_data(f->dense[k]) + b * D * n;
        const mmix_real *query = token;
        if (own) {                                       /* blocks are counted from the last */
            const mmix_tensor *last_blocks = f->intermediate;
            const mmix_real *end = mmix_data(last_blocks) + b * mmix_stride(last_blocks, 0) +
                                   mmix_shape(last_blocks, 1);
            query = end - (x->config.depth - o->block[k]) * D;
        }
        for (size_t i = 0; i < n * D; i++) mmix_data(rows)[i] = dense[i % D * n + i / D];
        snprintf(x->head[++at], sizeof *x->head, "block %zu", o->block[k]);
        snprintf(layer, sizeof layer, "block %zu after the final norm", o->block[k]);
        if (add_map(m, x, s, at, how, layer, query, mmix_data(rows), v)) return -1;
    }
    return 0;
}

/* ---- principal components -------------------------------------------------------------------- */

/* The threshold that parts n values into two groups whose means are as far apart as they can be,
   weighed by their numbers (Otsu 1979), among those that leave a tenth of the values on either
   side: single patches with large values, which networks without registers have, would else be a
   foreground of their own. `sorted` is scratch (n). */
static double otsu(const double *value, size_t n, double *sorted)
{
    double left = 0, all = 0, most = -1, threshold = -INFINITY;
    size_t least = (n + 9) / 10;
    for (size_t i = 0; i < n; i++) all += sorted[i] = value[i];
    qsort(sorted, n, sizeof *sorted, by_size);
    for (size_t k = 1; k < n; k++) {                     /* k values below the threshold */
        left += sorted[k - 1];
        double apart = (all - left) / (double)(n - k) - left / (double)k;
        double between = (double)k * (double)(n - k) * apart * apart;
        if (k < least || n - k < least || between <= most || !(sorted[k] > sorted[k - 1])) continue;
        most = between;
        threshold = sorted[k];
    }
    return threshold;                                    /* of equal values all are above it */
}

/* First components t of the shown pictures' patches, turned so that edges are low: a component
   has no sign of its own, and objects touch the edges of pictures less often than ground. */
static void turn(const settings *o, const model *x, double *t)
{
    double sum[2] = {0, 0}, count[2] = {0, 0};           /* at the edges, inside */
    size_t rows = 0;
    for (const strip *s = x->shown; s < x->shown + o->show; s++)
        for (size_t p = 0; p < s->gh * s->gw; p++, rows++) {
            size_t r = p / s->gw;
            size_t c = p % s->gw;
            int inside = r && c && r + 1 < s->gh && c + 1 < s->gw;
            sum[inside] += t[rows];
            count[inside]++;
        }
    double edges = sum[0] / count[0];
    double insides = sum[1] / fmax(count[1], 1);
    for (size_t i = 0; edges > insides && i < rows; i++) t[i] = -t[i];
}

static int has_level(const settings *o) { return !isnan(o->level); }

/* The colours of the shown pictures' patches, in two steps as DINOv2's authors do it: a first
   component tells the foreground, the first three of the foreground's patches are red, green and
   blue. The first one is taken after each picture's own mean: what then varies most is what
   parts the inside of pictures, not one from the other, and the threshold is each picture's own,
   so that none is all foreground or all ground. 0, or -1. */
static int colour_patches(mmix_ctx *m, const settings *o, model *x)
{
    size_t D = x->config.dim, rows = 0, front = 0, row = 0;
    size_t k = D < 3 ? D : 3;
    mmix_pca_result first, three;
    for (size_t i = 0; i < o->show; i++) rows += x->shown[i].gh * x->shown[i].gw;
    snprintf(x->components, sizeof x->components, "none, of a single patch");
    if (rows < 2) return 0;
    mmix_tensor *all = mmix_new2(m, rows, D);
    for (const strip *s = x->shown; all && s < x->shown + o->show; s++) {
        size_t n = s->gh * s->gw;
        for (size_t d = 0; d < D; d++) {
            double mean = 0;
            for (size_t p = 0; p < n; p++) mean += (double)s->patches[p * D + d] / (double)n;
            for (size_t p = 0; p < n; p++)
                mmix_data(all)[(row + p) * D + d] = s->patches[p * D + d] - (mmix_real)mean;
        }
        row += n;
    }
    if (has_level(o)) all = mmix_l2_normalize(m, all, 1e-12);
    if (!all || mmix_pca(m, all, 1, &first)) return -1;
    double *t = first.projection;
    double *sorted = (double *)malloc(rows * sizeof *sorted);
    if (!sorted) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for components");
    turn(o, x, t);
    row = 0;
    for (const strip *s = x->shown; s < x->shown + o->show; s++) {
        size_t n = s->gh * s->gw;
        double limit = otsu(t + row, n, sorted);  /* sorted, if anything is asked of it below */
        if (o->threshold >= 0) limit = sorted[0] + o->threshold * (sorted[n - 1] - sorted[0]);
        if (has_level(o)) limit = o->level;
        size_t before = front;
        for (size_t p = 0; p < n; p++) {  /* the foreground's rows move to the front */
            t[row + p] = t[row + p] >= limit;
            if (!(t[row + p] > 0)) continue;
            memcpy(mmix_data(all) + front * D, s->patches + p * D, D * sizeof(mmix_real));
            front++;
        }
        double share = (double)(front - before) / (double)n;
        x->front[0] = row ? fmin(x->front[0], share) : share;
        x->front[1] = fmax(x->front[1], share);
        row += n;
    }
    free(sorted);
    char threshold[100] = "the given share of the picture's range";
    if (o->threshold < 0)
        snprintf(threshold, sizeof threshold,
                 "the picture's own threshold (Otsu's, a tenth of the patches on either side)");
    if (has_level(o))
        snprintf(threshold, sizeof threshold, "%g, the same for all networks", o->level);
    snprintf(x->components, sizeof x->components,
             "foreground: where the first principal component of the patches of all %zu pictures, "
             "each picture's mean taken off%s, is at least %s; it is turned so that the pictures' "
             "edges are low, and %.0f%% of the patches are above. Their own first %zu components "
             "are red, green and blue, 2.5 deviations to either side",
             o->show, has_level(o) ? " and brought to length 1" : "", threshold,
             100 * (double)front / (double)rows, k);
    if (front < 2) return 0;
    if (mmix_pca(m, mmix_slice(m, all, 0, 0, front), k, &three)) return -1;
    const double *colour = three.projection;
    for (const strip *s = x->shown; s < x->shown + o->show; s++)
        for (size_t p = 0; p < s->gh * s->gw; p++)
            for (size_t c = 0, in = *t++ > 0; in && c < k; c++) {
                double v = *colour++ / (5 * sqrt(three.variance[c]) + 1e-30) + 0.5;
                s->colours[3 * p + c] = (uint8_t)(255 * fmin(fmax(v, 0.1), 1));
            }
    return 0;
}

/* ---- measures -------------------------------------------------------------------------------- */

static void put(model *x, int at, const score *s)
{
    x->value[at] = s->value;
    x->value[at + 1] = report_half * s->error;
    x->value[at + 2] = s->balanced;
    if (at != SEG) x->value[at + 3] = report_half * s->balanced_error;
}

/* The cosine of two rows of n numbers. */
static double cosine_of(const mmix_real *p, const mmix_real *q, size_t n)
{
    double both = 0, square[2] = {0, 0};
    for (size_t d = 0; d < n; d++) {
        both += (double)p[d] * (double)q[d];
        square[0] += (double)p[d] * (double)p[d];
        square[1] += (double)q[d] * (double)q[d];
    }
    return both / sqrt(square[0] * square[1] + 1e-300);
}

/* Cosines of a narrow network's tokens, class token and patches, with those of the same network in
   float: mean and least over all judged pictures. 0, or -1. */
static int compare_tokens(mmix_ctx *m, const album *a, model *x)
{
    enum { AT_ONCE = 256 };
    model *y = (model *)x->beside;
    size_t D = x->config.dim, n;
    store *of_x = &x->dense.tokens[0];
    store *of_y = &y->dense.tokens[0];
    double sum = 0, least = 1;
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *rows = mmix_new3(m, 2, AT_ONCE, D);
    if (!rows) return -1;
    for (size_t i = 0; i < a->count; i++) {
        double cosine = cosine_of(x->token + i * D, y->token + i * D, D);
        sum += cosine;
        least = fmin(least, cosine);
    }
    for (size_t done = 0; done < of_x->count; done += n) {
        mmix_real *p = mmix_data(rows);
        mmix_real *q = p + AT_ONCE * D;
        n = of_x->count - done < AT_ONCE ? of_x->count - done : AT_ONCE;
        if (store_read(m, of_x, done, n, p) || store_read(m, of_y, done, n, q)) return -1;
        for (size_t i = 0; i < n; i++) {
            double cosine = cosine_of(p + i * D, q + i * D, D);
            sum += cosine;
            least = fmin(least, cosine);
        }
    }
    x->value[BESIDE] = sum / (double)(a->count + of_x->count);
    x->value[BESIDE + 1] = least;
    mmix_rewind(m, mark);
    return 0;
}

typedef struct prediction {
    const settings *o;
    const album *a;
    model *x;
} prediction;
static void keep_prediction(void *user, size_t picture, const uint8_t *pred)
{
    const prediction *p = (const prediction *)user;
    size_t k = shown_as(p->o, p->a, picture);
    size_t n = p->o->size * p->o->size;
    if (k == p->o->show || !(p->x->shown[k].pred = (uint8_t *)malloc(n))) return;
    memcpy(p->x->shown[k].pred, pred, n);
}

static void dense_of(const settings *o, album *a, model *x)
{
    x->dense.labels = &a->labels;
    x->dense.split = a->count;
    x->dense.gh = x->dense.gw = o->size / x->config.patch;
    x->dense.D = x->config.dim;
    x->dense.w = x->dense.h = o->size;
    x->dense.classes = 2;
    for (size_t c = 2; c < DENSE_VOID; c++) if (a->seen[c]) x->dense.classes = c + 1;
}

/* A model's features: k-NN, the probe with two class strategies, segmentation. 0, or -1. */
static int weigh(mmix_ctx *m, const settings *o, album *a, model *x)
{
    size_t D = x->config.dim;
    size_t tokens = x->wide - D;
    prediction look = {o, a, x};
    score s;
    if (o->ask & ASK_KNN) {
        if (evaluate_knn_judged(m, x->token, D, D, &a->vote, a->label, a->classes, 0, &s,
                                &x->judged[OF_KNN]))
            return -1;
        put(x, KNN, &s);
    }
    for (int mean = 0; mean < 2 && o->ask & ASK_PROBE; mean++) {
        if (evaluate_probe(m, x->vector, x->wide, mean ? x->wide : tokens, &a->teach, a->label,
                           a->classes, &s, mean ? NULL : &x->judged[OF_PROBE]))
            return -1;
        put(x, mean ? PROBE_MEAN : PROBE, &s);
    }
    if (!(o->ask & ASK_SEG)) return 0;
    dense_of(o, a, x);
    if (evaluate_dense(m, &x->dense, &a->segment, x->name, keep_prediction, &look, &s,
                       &x->judged[OF_SEG]))
        return -1;
    put(x, SEG, &s);
    return 0;
}

/* Always the class that is commonest among the voters. 0, or -1. */
static int commonest(mmix_ctx *m, const voters *v, const int32_t *label, size_t classes, score *s,
                     verdicts *j)
{
    mmix_miou_count count[2] = {{0, 0, 0}, {0, 0, 0}};   /* all tests as one class; nothing */
    size_t n = v->trains ? v->trains : v->tests;
    size_t most = 0, winner = 0, tested = 0;
    const size_t *at = v->trains ? v->train : v->test;
    for (size_t c = 0; c < classes; c++) {
        size_t votes = 0, asked = 0;
        for (size_t i = 0; i < n; i++) votes += (size_t)label[at[i]] == c;
        for (size_t i = 0; i < v->tests; i++) asked += (size_t)label[v->test[i]] == c;
        if (votes > most) {
            most = votes;
            winner = c;
        }
        tested += asked > 0;
    }
    for (size_t i = 0; i < v->tests; i++) count->both += (size_t)label[v->test[i]] == winner;
    count->label = v->tests;
    *s = score_of(count, 1);
    s->balanced = count->both ? 1 / (double)tested : 0;
    s->balanced_error = 0;  /* right in one class, wrong in all others */
    int32_t *said = (int32_t *)malloc(v->tests * sizeof *said + 1);
    if (!said) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the commonest class");
    for (size_t i = 0; i < v->tests; i++) said[i] = (int32_t)winner;
    int bad = verdicts_said(m, j, v, label, said, classes);
    free(said);
    return bad;
}

/* The same measures of what nobody has trained. 0, or -1. */
static int weigh_baselines(mmix_ctx *m, settings *o, album *a)
{
    model *base = o->model + o->models;
    score s;
    for (int kind = 0; kind < PLAINS; kind++) {
        if (o->ask & ASK_KNN) {
            if (evaluate_knn_judged(m, a->plain[kind], plain[kind].dim, plain[kind].dim, &a->vote,
                                    a->label, a->classes, 0, &s,
                                    &base[PLAIN + kind].judged[OF_KNN]))
                return -1;
            put(base + PLAIN + kind, KNN, &s);
        }
        if (!(o->ask & ASK_PROBE)) continue;
        if (evaluate_probe(m, a->plain[kind], plain[kind].dim, plain[kind].dim, &a->teach, a->label,
                           a->classes, &s, &base[PLAIN + kind].judged[OF_PROBE]))
            return -1;
        put(base + PLAIN + kind, PROBE, &s);
    }
    for (int k = 0; k < 2; k++) {
        if (!(o->ask & (k ? ASK_PROBE : ASK_KNN))) continue;
        if (commonest(m, k ? &a->teach : &a->vote, a->label, a->classes, &s,
                      &base[COMMONEST].judged[k ? OF_PROBE : OF_KNN]))
            return -1;
        put(base + COMMONEST, k ? PROBE : KNN, &s);
    }
    if (!(o->ask & ASK_SEG)) return 0;
    voters ground = a->segment;
    model one = o->model[0];                             /* sizes */
    ground.trains = 0;
    dense_of(o, a, &one);
    if (evaluate_dense(m, &one.dense, &ground, "", NULL, NULL, &s, &base[COMMONEST].judged[OF_SEG]))
        return -1;
    put(base + COMMONEST, SEG, &s);
    return 0;
}

/* ---- features of all pictures ---------------------------------------------------------------- */

/* OUT/NAME-WHAT.npy, (a, b, D), or (a, D) if b is 0; an error stays in m. */
static void save(mmix_ctx *m, const settings *o, const model *x, const char *what,
                 const mmix_real *data, size_t a, size_t b)
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

typedef struct plain_job {
    album *a;
    const view *v;
    size_t first, n;
    int bad[PLAINS * BATCH];
} plain_job;
static void plain_task(void *arg, size_t i)
{
    plain_job *job = (plain_job *)arg;
    const view *v = &job->v[i % job->n];
    size_t kind = i / job->n;
    mmix_picture p = {v->rgb, v->w, v->h};
    mmix_real *to = job->a->plain[kind] + (job->first + i % job->n) * plain[kind].dim;
    job->bad[i] = plain_describe((int)kind, p, to);
}

/* What the first network's pass notes of each picture for all: descriptors and labels. 0, or -1. */
static int note(mmix_ctx *m, const settings *o, album *a, size_t first, size_t n, const view *views)
{
    plain_job job;
    memset(&job, 0, sizeof job);
    job.a = a;
    job.v = views;
    job.first = first;
    job.n = n;
    if (a->plain[0]) mmix_parallel_for(m, PLAINS * n, plain_task, &job);
    for (size_t i = 0; i < PLAINS * n; i++)
        if (job.bad[i]) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for descriptors");
    for (size_t b = 0; o->ask & ASK_SEG && b < n; b++) {
        const view *v = &views[b];
        uint8_t *none = v->label ? NULL : (uint8_t *)malloc(v->w * v->h);
        if (!v->label && !none) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for labels");
        if (none) memset(none, DENSE_VOID, v->w * v->h);
        int bad = store_add(m, &a->labels, none ? none : v->label, 1);
        free(none);
        if (bad) return -1;
        for (size_t i = 0; v->label && i < v->w * v->h; i++) a->seen[v->label[i]] = 1;
    }
    return 0;
}

/* The vectors that heads read, of a batch's pictures: class tokens of the last blocks, then the
   patches' mean. */
static void join_vectors(model *x, const mmix_features *f, size_t first, size_t n,
                         const mmix_real *patches)
{
    size_t D = x->config.dim;
    size_t cells = f->grid_h * f->grid_w;
    size_t tokens = x->wide - D;
    for (size_t b = 0; b < n; b++) {
        mmix_real *to = x->vector + (first + b) * x->wide;
        mmix_real *mean = to + tokens;
        const mmix_real *from = x->token + (first + b) * D;
        if (tokens > D)
            from = mmix_data(f->intermediate) + b * mmix_stride(f->intermediate, 0) +
                   mmix_shape(f->intermediate, 1) - tokens;
        memcpy(to, from, tokens * sizeof *to);
        for (size_t d = 0; d < D; d++) {
            double sum = 0;
            for (size_t p = 0; p < cells; p++) sum += (double)patches[(b * cells + p) * D + d];
            mean[d] = (mmix_real)(sum / (double)cells);
        }
    }
}

/* What is wanted of a batch: the last blocks' class tokens, and where pictures are shown other
   blocks' maps. */
static void wish(const settings *o, const model *x, int any, mmix_vision_options *options)
{
    memset(options, 0, sizeof *options);
    if (o->blocks_read > 1) options->n_last = o->blocks_read;
    if (!any || !o->blocks) return;
    options->dense = o->block;
    options->n_dense = o->blocks;
    options->dense_norm = 1;
    if (!is_mamba(&x->config) && x->config.depth - o->block[0] > options->n_last)
        options->n_last = x->config.depth - o->block[0];
}

/* The correlation of two maps over n pixels; 0 where one of them is flat. */
static double likeness_of(const mmix_real *a, const mmix_real *b, size_t n)
{
    double mean[2] = {0, 0}, ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        mean[0] += (double)a[i] / (double)n;
        mean[1] += (double)b[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i] - mean[0], y = (double)b[i] - mean[1];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}
/* The map of each register of picture b of a batch against its mask, and against the other maps. 0,
   or -1. */
static int judge_registers(mmix_ctx *m, model *x, const batch *of, size_t b)
{
    const mmix_features *f = of->f;
    const view *v = &of->views[b];
    size_t D = x->config.dim, n = f->grid_h * f->grid_w, pixels = v->h * v->w;
    size_t count = x->registers < REGISTERS ? x->registers : REGISTERS;
    const size_t one[2] = {1, D}, grid[3] = {1, n, D};
    const mmix_real *map_of[REGISTERS];
    mmix_tensor *patches = mmix_from(m, 3, grid, of->patches + b * n * D);
    for (size_t r = 0; r < count; r++) {
        mmix_map map;
        mmix_tensor *query = mmix_new(m, MMIX_DTYPE_REAL, 2, one);
        if (!query || mmix_read(mmix_slice(m, mmix_slice(m, f->registers, 0, b, 1), 1, r, 1),
                                mmix_data(query))) return -1;
        if (mmix_feature_map(m, NULL, query, patches, f->grid_h, f->grid_w, v->h, v->w, &map))
            return -1;
        map_of[r] = mmix_data(map.map);
        if (!maps_judge(m, &x->of_register[r], map_of[r], v->mask, v->h, v->w, NULL)) return 0;
        for (size_t s = 0; s < r; s++, x->likened++)
            x->likeness += likeness_of(map_of[r], map_of[s], pixels);
    }
    return 0;
}

/* Maps of a batch of judged pictures against their masks, and what the report keeps of them. 0,
   or -1. */
static int look_closer(mmix_ctx *m, const settings *o, album *a, const mmix_vision *v, model *x,
                       const batch *of)
{
    const mmix_features *f = of->f;
    view *views = of->views;
    size_t h = views->h, w = views->w;
    mmix_map map;
    mmix_map_options words;
    memset(&words, 0, sizeof words);
    words.token = f->registers && x->registers ? "mean of the registers" : "class token";
    words.layer = "last block after the final norm";
    if (mmix_feature_map(m, &words, f->token, f->patches, f->grid_h, f->grid_w, h, w, &map))
        return -1;
    for (size_t b = 0; b < of->n; b++) {
        mmix_mark mark = mmix_mark_here(m);
        size_t i = of->first + b;
        size_t k = shown_as(o, a, i);
        int judged = o->ask & ASK_AUC && views[b].mask;
        if (judged) judge(m, x, mmix_data(map.map) + b * h * w, &views[b], a->at[i].label);
        if (judged && x->registers && judge_registers(m, x, of, b)) return -1;
        mmix_tensor *middle = judged && x == o->model ? maps_middle(m, h, w) : NULL;
        if (middle) judge(m, x + o->models + MIDDLE, mmix_data(middle), &views[b], a->at[i].label);
        if (k < o->show) {
            strip *s = &x->shown[k];
            if (keep(m, o, x, s, of, b)) return -1;
            if (!o->figures && keep_heads(m, v, x, s, of->image + b * 3 * h * w, h, w)) return -1;
        }
        mmix_rewind(m, mark);
        if (k == o->show || a->shown[k].rgb) continue;
        a->shown[k] = views[b];                          /* the report takes the view over */
        memset(&views[b], 0, sizeof views[b]);
    }
    return 0;
}

/* A batch, pictures first … first + n - 1, through the network. 0, or -1. */
static int look(mmix_ctx *m, settings *o, album *a, const mmix_vision *v, model *x, size_t first,
                size_t n, view *views)
{
    const size_t D = x->config.dim, h = views->h, w = views->w;
    int any = 0;
    int judged = first < a->count;
    mmix_vision_options options;
    mmix_tensor *image = mmix_new4(m, n, 3, h, w);
    if (x == o->model && note(m, o, a, first, n, views)) return -1;
    for (size_t b = 0; image && b < n; b++) {
        mmix_picture p = {views[b].rgb, w, h};
        mmix_picture_normalize(mmix_data(image) + b * 3 * h * w, p, NULL, NULL);
        any |= judged && shown_as(o, a, first + b) < o->show;
    }
    wish(o, x, any, &options);
    double start = now();
    mmix_features f = mmix_vision_forward(m, v, image, &options);
    if (first || a->count <= n) {                        /* the first batch also takes its memory */
        x->seconds += now() - start;
        x->timed += n;
    }
    size_t cells = f.grid_h * f.grid_w;
    mmix_tensor *rows = mmix_new2(m, n * cells, D);
    if (!rows || mmix_read(f.patches, mmix_data(rows)) || mmix_read(f.token, x->token + first * D))
        return -1;
    if (judged && x->registers &&
        mmix_read(f.registers, x->register_rows + first * x->registers * D)) return -1;
    store *to = &x->dense.tokens[!judged];
    if (to->file && store_add(m, to, mmix_data(rows), n * cells)) return -1;
    if (x->vector) join_vectors(x, &f, first, n, mmix_data(rows));
    x->tokens = mmix_shape(f.tokens, 1);
    const batch of = {first, n, views, &f, mmix_data(image), mmix_data(rows)};
    if (judged && look_closer(m, o, a, v, x, &of)) return -1;
    return mmix_error(m) ? -1 : 0;
}

/* Room for what one model makes of all pictures. 0, or -1. */
static int make_room(mmix_ctx *m, const settings *o, album *a, model *x)
{
    const size_t D = x->config.dim, k = x->registers;
    char path[1200];
    x->maps = 1 + (k < REGISTERS ? k : REGISTERS) + o->blocks;
    x->wide = (o->blocks_read + 1) * D;
    x->token = (mmix_real *)malloc(a->all * D * sizeof *x->token);
    x->register_rows = (mmix_real *)malloc((a->count * k * D + 1) * sizeof *x->register_rows);
    x->shown = (strip *)calloc(o->show, sizeof *x->shown);
    if (o->ask & ASK_PROBE) x->vector = (mmix_real *)malloc(a->all * x->wide * sizeof *x->vector);
    int bad = !x->token || !x->register_rows || !x->shown;
    bad |= o->ask & ASK_PROBE && !x->vector;
    int described = x == o->model && o->ask & (ASK_KNN | ASK_PROBE);
    for (int kind = 0; described && kind < PLAINS; kind++) {
        a->plain[kind] = (mmix_real *)malloc(a->all * plain[kind].dim * sizeof(mmix_real));
        bad |= !a->plain[kind];
    }
    if (bad)
        return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the features of %zu pictures",
                         a->all);
    if (o->figures) return 0;
    snprintf(path, sizeof path, o->patches ? "%s/%s-patches.npy" : "%s/%s-patches", o->out,
             x->name);
    if (store_open(m, &x->dense.tokens[0], path, D * sizeof(mmix_real), NPY_HEAD)) return -1;
    if (!(o->ask & ASK_SEG)) return 0;
    snprintf(path, sizeof path, "%s/%s-train-patches", o->out, x->name);
    if (a->all > a->count && store_open(m, &x->dense.tokens[1], path, D * sizeof(mmix_real), 0))
        return -1;
    snprintf(path, sizeof path, "%s/labels", o->out);
    return x == o->model ? store_open(m, &a->labels, path, o->size * o->size, 0) : 0;
}

/* Each shown picture's nearest among those that vote, or of a folder without train pictures
   among the others, by the class tokens' cosine. */
static void find_near(const settings *o, const album *a, model *x)
{
    size_t D = x->config.dim;
    size_t from = a->all > a->count ? a->count : 0;
    for (size_t k = 0; k < o->show; k++) {
        strip *s = &x->shown[k];
        size_t own = shown(o, a, k);
        size_t found = 0;
        for (size_t i = from; i < a->all; i++) {
            double cosine = cosine_of(x->token + own * D, x->token + i * D, D);
            if (i == own || (found == ALIKE && !(cosine > s->cosine[ALIKE - 1]))) continue;
            size_t at = found < ALIKE ? found++ : ALIKE - 1;
            for (; at && cosine > s->cosine[at - 1]; at--) {
                s->cosine[at] = s->cosine[at - 1];
                s->alike[at] = s->alike[at - 1];
            }
            s->cosine[at] = cosine;
            s->alike[at] = i;
        }
        for (; found < ALIKE; found++) s->alike[found] = a->all;       /* none */
    }
}

/* All pictures through one model. 0, or -1: an error, or a Ctrl-C. */
static int see_all(mmix_ctx *m, settings *o, album *a, const mmix_vision *v, model *x)
{
    view views[BATCH];
    progress p = progress_of(x->name, "reading", a->all);
    for (size_t done = 0, n; done < a->all && !mmix_error(m) && !interrupted; done += n) {
        mmix_mark mark = mmix_mark_here(m);
        /* whole ones differ */
        size_t end = done < a->count ? a->count : a->all;
        size_t most = o->whole ? 1 : BATCH;
        n = end - done < most ? end - done : most;
        if (!read_views(m, o, a, done, n, views)) look(m, o, a, v, x, done, n, views);
        mmix_rewind(m, mark);
        for (size_t b = 0; b < n; b++) view_free(&views[b]);
        if (!mmix_error(m)) progress_add(&p, n);
    }
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* The file of a model's patches, if it is asked for; an error stays in m. */
static void keep_patches(mmix_ctx *m, const settings *o, const album *a, model *x)
{
    store *s = &x->dense.tokens[0];
    size_t all = o->whole ? s->count : a->count;
    size_t each = o->whole ? 0 : s->count / a->count;
    if (o->patches) store_keep_npy(m, s, all, each, x->config.dim);
}
static void drop_features(model *x)                      /* does nothing twice */
{
    for (int i = 0; i < 2; i++) store_drop(&x->dense.tokens[i]);
    free(x->token);
    x->token = NULL;
}

/* What one model makes of all pictures; its .npy files. 0, or an exit status. */
static int measure(mmix_ctx *m, settings *o, album *a, model *x)
{
    const size_t k = x->registers;
    mmix_memory_peak_clear(m);
    size_t before = mmix_memory(m).bytes;
    mmix_vision *v = open_model(m, x, 0);
    if (v) mmix_params_pack(mmix_vision_params(v), 1);
    int bad = !v || make_room(m, o, a, x) || see_all(m, o, a, v, x);
    x->peak = mmix_memory(m).peak - before;
    mmix_reset(m);
    mmix_vision_destroy(v);
    bad = bad || colour_patches(m, o, x);
    mmix_reset(m);
    if (!bad) find_near(o, a, x);
    if (!bad && !o->figures) bad = weigh(m, o, a, x);
    if (!bad && !o->figures) {
        save(m, o, x, "token", x->token, a->count, 0);
        if (k) save(m, o, x, "registers", x->register_rows, a->count, k);
        if (x->beside && !mmix_error(m)) bad = compare_tokens(m, a, x);
        if (!x->is_beside && !mmix_error(m)) keep_patches(m, o, a, x);
    }
    if (!x->is_beside) drop_features(x);
    mmix_reset(m);
    free(x->register_rows);
    free(x->vector);
    if (interrupted) fprintf(stderr, "\nfeatures: stopped; no report was written\n");
    if (interrupted) return 130;
    return mmix_error(m) ? fail("%s", mmix_error(m)) : 0;
}

/* ---- table and JSON -------------------------------------------------------------------------- */

static void results(model *x)
{
    double *value = x->value;
    double n = (double)x->auc.judged, best = -1;
    const double cost[COST] = {(double)x->parameters, x->flops / 1e9,
                               x->seconds * 1000 / (double)x->timed,
                               (double)x->peak / 1048576, (double)x->tokens};
    for (int c = 0; c < COST; c++) value[c] = x->parameters ? cost[c] : NAN;
    if (!x->auc.judged) return;
    value[AUC] = maps_auc(&x->auc);
    value[AUC + 1] = report_half * maps_error(&x->auc);
    value[AUC + 2] = n;
    value[AUC + 3] = (double)x->brighter / n;
    for (int k = 0; k < 2 * LEVELS; k++) {
        double iou = x->iou[k / LEVELS][k % LEVELS] / n;
        double level = k % LEVELS / (double)LEVELS;
        if (iou <= best) continue;
        value[AUC + 4] = best = iou;
        value[AUC + 5] = k < LEVELS ? level : -level;    /* with a minus: of 1 - map */
    }
}

/* Of what nobody has trained the best in a column, or NULL. */
static const model *best_plain(const settings *o, int c)
{
    const model *best = NULL;
    for (const model *x = o->model + o->models; x < o->model + o->models + BASELINES; x++)
        if (isfinite(x->value[c]) && (!best || x->value[c] > best->value[c])) best = x;
    return best;
}

/* A narrow network less the same one in float, on the same pictures. 0, or -1. */
static int compare_float(mmix_ctx *m, model *x)
{
    enum { OFF = BESIDE + 2 };                           /* behind the cosines */
    static const int of[] = {OF_KNN, OF_AUC};
    for (int k = 0; k < 2 && x->beside; k++) {
        gap c;
        if (evaluate_pair(m, &x->judged[of[k]], &x->beside->judged[of[k]], 0, &c)) return -1;
        x->value[OFF + 3 * k] = c.off;
        x->value[OFF + 3 * k + 1] = c.low;
        x->value[OFF + 3 * k + 2] = c.high;
    }
    return 0;
}

/* Each network beside the best of those, on the same pictures. 0, or -1. */
static int compare(mmix_ctx *m, settings *o)
{
    int bad = 0;
    for (model *x = o->model; x < o->model + o->models + BASELINES && !bad; x++)
        bad = verdicts_maps(m, &x->judged[OF_AUC], &x->auc);
    for (model *x = o->model; x < o->model + o->models; x++)
        for (int k = 0; k < PAIRS && !bad; k++) {
            const model *best = best_plain(o, pair_of[k].at);
            int of = pair_of[k].of;
            if (!best) continue;
            x->best[k] = best->label;
            bad = evaluate_pair(m, &x->judged[of], &best->judged[of], pair_of[k].pooled,
                                &x->above[k]);
        }
    for (model *x = o->model; x < o->model + o->models && !bad; x++) bad = compare_float(m, x);
    return bad;
}

static const model *last(const settings *o) { return o->model + o->models + BASELINES; }
/* Whether a line, or of all lines a column, has a number among the columns from … to - 1. */
static int has_row(const model *x, int from, int to)
{
    int any = 0;
    for (int c = from; c < to; c++) any |= isfinite(x->value[c]);
    return any;
}
static int has_rows(const settings *o, int from, int to)
{
    int any = 0;
    for (const model *x = o->model; x < last(o); x++) any |= has_row(x, from, to);
    return any;
}
static int has_column(const settings *o, int c)
{
    int any = 0;
    for (const model *x = o->model; x < last(o); x++) any |= isfinite(x->value[c]);
    return any;
}
static double class_auc(const model *x, size_t c)        /* NAN: there are none of it */
{
    return x->of_class[c].sum / (double)x->of_class[c].count;
}

static void print_table(const settings *o, int from, int to)
{
    report_column chosen[COLUMNS];
    double value[COLUMNS];
    int at[COLUMNS], n = 0;
    char name[100];
    for (int c = from; c < to; c++)
        if (column[c].width && has_column(o, c)) {
            chosen[n] = column[c];
            at[n++] = c;
        }
    if (!n) return;
    const char *title = from == BESIDE ? "beside float" : "measures";
    snprintf(name, sizeof name, "%-24s", from ? title : "costs");
    report_columns_text(chosen, n, name, NULL);
    for (const model *x = o->model; x < last(o); x++) {
        if (!has_row(x, from, to)) continue;
        snprintf(name, sizeof name, "%-24s", x->label);
        for (int c = 0; c < n; c++) value[c] = x->value[at[c]];
        report_columns_text(chosen, n, name, value);
    }
}

/* The differences and their intervals, a line each. */
static void print_pairs(const settings *o)
{
    int any = 0;
    for (const model *x = o->model; x < o->model + o->models; x++)
        for (int k = 0; k < PAIRS; k++) {
            const gap *c = &x->above[k];
            if (!isfinite(c->off)) continue;
            if (!any++) printf("\nless the best baseline, on the same pictures (95 %% interval)\n");
            printf("%-24s %-15s %+.3f (%+.3f to %+.3f)  %s\n", x->label, pair_of[k].text, c->off,
                   c->low, c->high, x->best[k]);
        }
}
static void json_pairs(const model *x)
{
    const char *comma = "";
    printf("\"against_baseline\": {");
    for (int k = 0; k < PAIRS; k++) {
        const gap *c = &x->above[k];
        if (!isfinite(c->off)) continue;
        printf("%s\"%s\": {\"baseline\": ", comma, pair_of[k].key);
        report_json_text(x->best[k]);
        printf(", ");
        report_json("difference", c->off, ", ");
        report_json("low", c->low, ", ");
        report_json("high", c->high, "}");
        comma = ", ";
    }
    printf("}, ");
}

static void print_json(const settings *o, const album *a)
{
    printf("{\"pictures\": %zu, \"train_pictures\": %zu, \"images\": ", a->count,
           a->all - a->count);
    report_json_text(o->images ? o->images : "scenes");
    const char *whole = o->whole ? "true" : "false";
    const char *square = o->square ? "true" : "false";
    printf(", \"size\": %zu, \"whole\": %s, \"square\": %s, \"models\": [", o->size, whole, square);
    for (const model *x = o->model; x < last(o); x++) {
        size_t k = (size_t)(x - o->model);
        size_t baseline = k >= o->models;
        if (k == o->models) printf("\n ], \"baselines\": [");
        const char *comma = k == 0 || k == o->models ? "" : ",";
        printf("%s\n {\"name\": \"%s\", ", comma, baseline ? x->label : x->name);
        if (!baseline) {
            printf("\"kind\": \"%s\", \"random\": %s, \"foreground\": [%.9g, %.9g], \"weights\": ",
                   kind_name(&x->config), x->file ? "false" : "true", x->front[0], x->front[1]);
            report_json_text(x->file ? x->file : x->known);
            printf(", \"type\": \"%s\", ", name_of_type(x->type));
        }
        for (int c = baseline ? COST : 0; c < COLUMNS; c++)
            report_json(column[c].key, x->value[c], ", ");
        if (!baseline) json_pairs(x);
        printf("\"classes\": {");
        for (size_t c = 0; c < a->classes; c++) {
            printf(c ? ", " : "");
            report_json_text(a->class_name[c]);
            printf(x->of_class[c].count ? ": %.9g" : ": null", class_auc(x, c));
        }
        printf("}}");
    }
    printf("]}\n");
}

#include "features_report.h"
#include "features_figures.h"

/* ---- main ------------------------------------------------------------------------------------ */

/* pictures.txt: path, class, and for each model the grid. 0, or an exit status. */
static int write_names(const settings *o, const album *a)
{
    char path[1100], draft[1110];
    snprintf(path, sizeof path, "%s/pictures.txt", o->out);
    snprintf(draft, sizeof draft, "%s.tmp", path);
    FILE *f = fopen(draft, "wb");
    if (!f) return fail("cannot write %s: %s", path, strerror(errno));
    for (size_t i = 0; i < a->count; i++) {
        const photo *p = &a->at[i];
        if (p->path) fputs(p->path, f);
        else fprintf(f, "scene-%" PRIu64 "-%" PRIu64, o->seed, scene_number(a, i));
        fprintf(f, "\t%s", a->classes ? a->class_name[p->label] : "");
        for (size_t k = 0; k < o->models; k++)
            fprintf(f, "\t%zux%zu", p->h / o->model[k].config.patch,
                    p->w / o->model[k].config.patch);
        fputc('\n', f);
    }
    if (!report_rename(f, draft, path)) return 0;
    return fail("%s: could not be written whole: %s", path, strerror(errno));
}

/* Names of the baselines, rooms for classes, nothing measured yet. 0, or an exit status. */
static int make_lines(settings *o, const album *a)
{
    static const char *const name[PLAIN] = {"nearness to the middle", "commonest class, ground"};
    for (model *x = o->model; x < last(o); x++) {
        size_t k = (size_t)(x - o->model);
        x->of_class = calloc(a->classes + 1, sizeof *x->of_class);
        x->auc.each = (double *)malloc(a->all * sizeof *x->auc.each + 1);
        if (!x->of_class || !x->auc.each) return fail("out of memory");
        for (int i = 0; i < PAIRS; i++) x->above[i] = no_gap;
        for (int c = 0; c < COLUMNS; c++) x->value[c] = NAN;
        if (k < o->models) continue;
        k -= o->models;
        snprintf(x->label, sizeof x->label, "%s", k < PLAIN ? name[k] : plain[k - PLAIN].name);
    }
    return 0;
}

static int work(mmix_ctx *m, settings *o, album *a)      /* an exit status */
{
    char path[1100];
    if (!o->figures && !o->list) {
        if (report_ready(o->out, path, sizeof path)) return 2;
    }
    if (o->figures && o->models) o->limit = o->show;
    int bad = o->images && !o->list ? find_photos(a, o) : 0;
    if (bad) return bad;
    if (!o->figures && !o->list)
        report_say("opening %zu network%s", o->models, o->models > 1 ? "s" : "");
    bad = check_models(m, o);
    if (bad || o->list) return bad;
    if (o->figures) {
        draw_orders(o->figures);
        draw_axial(o->figures);
        if (!o->models) return 0;
    }
    if (!o->images) report_say("drawing scenes");
    bad = o->images ? leave_out_broken(m, a, o) : find_scenes(a, o);
    if (!bad) bad = share_out(a, o);
    if (bad) return bad;
    if (o->show > a->count) o->show = a->count;
    a->shown = (view *)calloc(o->show, sizeof *a->shown);
    if (!a->shown) return fail("out of memory");
    bad = make_lines(o, a);
    for (model *x = o->model; x < o->model + o->models && !bad; x++) bad = measure(m, o, a, x);
    for (model *x = o->model; x < o->model + o->models && !bad; x++) {
        if (x->is_beside && !o->figures) keep_patches(m, o, a, x);
        if (mmix_error(m)) bad = fail("%s", mmix_error(m));
    }
    if (bad) return bad;
    if (o->figures) {
        draw_positions(m, o);
        draw_features(o, a);
        return mmix_error(m) ? fail("%s", mmix_error(m)) : 0;
    }
    if (weigh_baselines(m, o, a)) {
        if (interrupted) fprintf(stderr, "\nfeatures: stopped; no report was written\n");
        return interrupted ? 130 : fail("%s", mmix_error(m));
    }
    for (model *x = o->model; x < (model *)last(o); x++) results(x);
    if (compare(m, o)) return fail("%s", mmix_error(m));
    if (o->json) print_json(o, a);
    else {
        print_table(o, COST, BESIDE);
        print_pairs(o);
        if (has_rows(o, COST, BESIDE)) printf("\n");
        print_table(o, BESIDE, COLUMNS);
        if (has_rows(o, BESIDE, COLUMNS)) printf("\n");
        print_table(o, 0, COST);
    }
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
    for (model *x = o.model; x < (model *)last(&o); x++) {
        for (size_t i = 0; x->shown && i < o.show; i++) {
            strip *s = &x->shown[i];
            void *held[] = {s->map, s->colours, s->pred, s->heat, s->lit, s->patches};
            for (size_t k = 0; k < sizeof held / sizeof *held; k++) free(held[k]);
        }
        free(x->shown);
        free(x->of_class);
        free(x->auc.each);
        for (int k = 0; k < JUDGED; k++) verdicts_free(&x->judged[k]);
        drop_features(x);
    }
    for (size_t i = 0; a.shown && i < o.show; i++) view_free(&a.shown[i]);
    free(a.shown);
    for (size_t i = 0; a.at && i < a.all; i++) {
        free(a.at[i].path);
        free(a.at[i].mask);
    }
    free(a.at);
    free(a.label);
    free(a.vote.train);                                  /* where all lists begin */
    for (int k = 0; k < PLAINS; k++) free(a.plain[k]);
    store_drop(&a.labels);
    for (size_t c = 0; c < a.classes; c++) free(a.class_name[c]);
    free(a.class_name);
    mmix_destroy(m);
    return status;
}
