/* tables.c - the counterparts of a paper's tables, at the user's scale, by one command that can
   be stopped

       cc -O2 demos/studies/tables.c -o tables -lm -lpthread
       ./tables --images photos --masks masks --minutes 60      again and again, until it is done
       ./tables --report                                        what there is so far

   A plan is a list of networks times a number of seeds: four token mixers, sizes, places of the
   class token, with DINO and with labels. Each is trained for the same number of steps on the
   same pictures and judged on the way and at the end; what is judged goes to OUT/NAME-SEED.txt,
   a line `name value error` each, the error one standard error over the pictures. A file that is
   there is never made again, and a run that was stopped goes on to the same bits.
   tables_report.h makes the tables of these files, whenever it is asked.

   Sections: options · plan · pictures · features · corruptions · ranks · judging · training ·
   once · main */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#define _FILE_OFFSET_BITS 64                     /* files of patches may be long */
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "tables"
#include "../../mamba_mix.h"
#include "pictures.h"
#include "program.h"
#include "evaluate.h"
#include "scenes.h"
#include "report.h"
#include "learn.h"
#include <inttypes.h>

enum { SAVE_SECONDS = 120 };  /* so much is lost at most if the machine goes down */
enum { SETS = 40, QUARTERS = 4, LAST_BLOCKS = 4 };
enum { JUDGE = 7 };  /* the seed of all judgements; a network's is its own */
/* pictures at most */
enum { MAPS_JUDGED = 200, SEG_TRAINS = 192, SEG_TESTS = 160, CORRUPTED = 240 };

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "tables - the counterparts of a paper's tables, by one command that can be stopped and called "
    "again\n\n"
    "  --images DIR    DIR/train/CLASS/* and DIR/test/CLASS/*, or DIR/CLASS/*\n"
    "  --masks DIR     their masks, the same tree, PNG: 0 background, 255 void, else object\n"
    "  --out DIR       where all files go                             (build/tables-out)\n"
    "  --steps N       of each network (up to a multiple of 20)       (1200)\n"
    "  --seeds N       networks of each kind                          (3)\n"
    "  --size N        pictures are brought to N x N pixels to be judged, and cut from no larger "
    "ones  (96)\n"
    "  --only NAME,…   of the plan these alone; --only list: all of them\n"
    "  --set NAME=X    a number of all recipes, such as batch=64, again and again; --set list: "
    "all of them\n"
    "  --minutes M     stop after so long; the next call goes on      (until it is done)\n"
    "  --report        train nothing: the tables of what is there\n"
    "  --threads N     (all cores)\n"
    "  --json          all that was measured as JSON on stdout, in place of tables\n"
    "  --help\n\n"
    "OUT/plan.txt keeps images, masks, steps, size and recipes; a later call may leave them out, "
    "or repeat them.\n"
    "A run is saved every two minutes; Ctrl-C saves it, too, and the same command goes on.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

typedef struct settings {
    const char *images, *masks, *out, *only, *set[SETS];
    int sets, report, json;
    size_t threads, steps, seeds, size;                  /* steps and size 0: not said */
    double minutes;                                      /* 0: until it is done */
    char kept[3][4096];  /* images, masks and sets of OUT/plan.txt */
} settings;

static int list_plan(void);
static int in_plan(const char *only);

static int read_set(settings *o, const char *text)       /* 0, or an exit status */
{
    recipe r = recipe_standard(MMIX_MIXER_SSD);
    const char *why = recipe_set(&r, text);
    if (!strcmp(text, "list")) {
        recipe_list(&r);
        return -1;
    }
    if (!strncmp(text, "mixer=", 6))
        return fail("--set %s: the plan says what mixes; --only list shows it", text);
    if (why) return fail("--set %s", why);
    if (o->sets == SETS) return fail("--set %s: %d are the most", text, SETS);
    o->set[o->sets++] = text;
    return 0;
}

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    const char *minutes = NULL, *set = NULL;
    memset(o, 0, sizeof *o);
    o->out = "build/tables-out";
    o->seeds = 3;
    struct {
        const char *name, **text;
        size_t *number, low, high;
        int *flag;
    } known[] = {
        {"--images", &o->images, NULL, 0, 0, NULL},
        {"--masks", &o->masks, NULL, 0, 0, NULL},
        {"--out", &o->out, NULL, 0, 0, NULL},
        {"--only", &o->only, NULL, 0, 0, NULL},
        {"--set", &set, NULL, 0, 0, NULL},
        {"--minutes", &minutes, NULL, 0, 0, NULL},
        {"--steps", NULL, &o->steps, 1, 100000000, NULL},
        {"--seeds", NULL, &o->seeds, 1, 100, NULL},
        {"--size", NULL, &o->size, 32, 1024, NULL},
        {"--threads", NULL, &o->threads, 1, 64, NULL},
        {"--report", NULL, NULL, 0, 0, &o->report},
        {"--json", NULL, NULL, 0, 0, &o->json},
    };
    char *end;
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
        if (known[k].text == &set) {
            int bad = read_set(o, set);
            if (bad) return bad;
        }
        if (known[k].text) continue;
        unsigned long long n;
        if (report_whole(known[k].name, argv[i], known[k].low, known[k].high, &n)) return 2;
        *known[k].number = (size_t)n;
    }
    o->minutes = minutes ? strtod(minutes, &end) : 0;
    if (minutes && (*end || !(o->minutes > 0 && o->minutes < 1e6)))
        return fail("--minutes %s: give a number above 0", minutes);
    o->steps = (o->steps + EPOCHS - 1) / EPOCHS * EPOCHS;
    if (o->only && !strcmp(o->only, "list")) return list_plan();
    return in_plan(o->only);
}

/* ---- plan ------------------------------------------------------------------------------------ */

typedef struct network {
    const char *name;
    int mixer, place, labels;  /* place: MMIX_CLASS_…, or the mixer's own */
    double scale;                                        /* of width and heads */
    const char *what;
} network;
enum { OWN = -1 };
static const network networks[] = {
    {"softmax", MMIX_MIXER_SOFTMAX, OWN, 0, 1, "ViT"},
    {"linear", MMIX_MIXER_LINEAR, OWN, 0, 1, "LinearViT"},
    {"ssd", MMIX_MIXER_SSD, OWN, 0, 1, "DinoVim, class token in the middle"},
    {"registers", REGISTERS, OWN, 0, 1, "DinoMamba-Reg, 12 tokens that are read in place of one"},
    {"ssd-small", MMIX_MIXER_SSD, OWN, 0, 0.5, "DinoVim, half as wide"},
    {"softmax-small", MMIX_MIXER_SOFTMAX, OWN, 0, 0.5, "ViT, half as wide"},
    {"ssd-first", MMIX_MIXER_SSD, MMIX_CLASS_FIRST, 0, 1, "DinoVim, class token in front"},
    {"ssd-released", MMIX_MIXER_SSD, MMIX_CLASS_RELEASED, 0, 1,
     "DinoVim, a second class token in front"},
    {"softmax-labels", MMIX_MIXER_SOFTMAX, OWN, 1, 1, "ViT, supervised"},
    {"linear-labels", MMIX_MIXER_LINEAR, OWN, 1, 1, "LinearViT, supervised"},
    {"ssd-labels", MMIX_MIXER_SSD, OWN, 1, 1, "DinoVim, supervised"},
    {"ssd-large", MMIX_MIXER_SSD, OWN, 0, 1.5, "DinoVim, half as wide again"},
};
enum { NETWORKS = sizeof networks / sizeof *networks, BASELINES = NETWORKS, COST, PARTS };

static const char *part_name(size_t k)
{
    if (k < NETWORKS) return networks[k].name;
    return k == BASELINES ? "baselines" : "cost";
}

static int list_plan(void)
{
    for (size_t k = 0; k < NETWORKS; k++) printf("%-16s %s\n", networks[k].name, networks[k].what);
    printf("%-16s what nobody has trained\n", part_name(BASELINES));
    printf("%-16s milliseconds and memory against resolution, last\n",
           part_name(COST));
    return -1;
}
/* Whether --only names part k; all, if it is not given. */
static int chosen(const char *only, size_t k)
{
    const char *name = part_name(k);
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == strlen(name) && !strncmp(at, name, strlen(name))) return 1;
    return !only;
}
static int in_plan(const char *only)                     /* 0, or an exit status */
{
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t n = strcspn(at, ",");
        size_t k = 0;
        while (k < PARTS && (strlen(part_name(k)) != n || strncmp(at, part_name(k), n))) k++;
        if (k == PARTS) return fail("--only %.*s: the plan has no such part; --only list shows it",
                                    (int)n, at);
    }
    return 0;
}

/* What a network is trained by. Narrow ones begin with larger deviations, as 1/√(3 dim) does. */
static recipe recipe_of(const settings *o, const network *n)
{
    recipe r = recipe_standard(n->mixer);
    for (int i = 0; i < o->sets; i++) recipe_set(&r, o->set[i]);
    r.dim = floor(r.dim * n->scale);
    r.heads = fmax(1, floor(r.heads * n->scale));
    if (n->mixer >= MMIX_MIXER_SSD && n->scale != 1) r.dim = fmax(32, floor(r.dim / 32) * 32);
    r.deviation /= sqrt(n->scale);
    if (n->place != OWN) r.place = n->place;
    return r;
}
static uint64_t recipes_fingerprint(const settings *o)   /* of their numbers as text */
{
    uint64_t h = BYTES_HASH;
    char text[40];
    for (size_t k = 0; k < NETWORKS; k++) {
        recipe r = recipe_of(o, &networks[k]);
        for (size_t i = 0; i < RECIPE_NUMBERS; i++) {
            snprintf(text, sizeof text, "%.9g ", *recipe_at(&r, i));
            h = bytes_hash(h, text, strlen(text));
        }
    }
    return h;
}

/* Sizes in pixels at which things are judged, as multiples of the crops': whole patches. The
   recipe's crops have 96. */
enum { SEG_SIDES = 2, RANK_SIDES = 3, COST_SIDES = 5 };
static const double map_times = 7.0 / 3, seg_times[SEG_SIDES] = {1, 2},
    rank_times[RANK_SIDES] = {1, 1.5, 2},
    /* 224; 96, 192; 96, 144, 192; 224 to 1024 */
    cost_times[COST_SIDES] = {7.0 / 3, 4, 16.0 / 3, 8, 32.0 / 3};
static size_t side_of(const settings *o, double times)
{
    recipe r = recipe_of(o, &networks[0]);
    return (size_t)(fmax(1, floor(times * r.size / r.patch + 0.5)) * r.patch);
}

/* Takes from a plan what the call leaves out. 0, or an exit status: it says something else. */
static int plan_line(settings *o, const char *path, char *line, const char *sets)
{
    char *value = strchr(line, ' '), *end;
    if (!value) return fail("%s: not a plan of this program (\"%s\"); give another --out", path,
                            line);
    *value++ = 0;
    size_t *number = NULL;
    if (!strcmp(line, "steps")) number = &o->steps;
    if (!strcmp(line, "size")) number = &o->size;
    if (number && *number && *number != strtoul(value, NULL, 10))
        return fail("--%s %zu: the plan in %s has %s; leave it out, or give another --out", line,
                    *number, o->out, value);
    if (number) *number = strtoul(value, NULL, 10);
    if (!strcmp(line, "images")) snprintf(o->kept[0], sizeof o->kept[0], "%s", value);
    if (!strcmp(line, "masks")) snprintf(o->kept[1], sizeof o->kept[1], "%s", value);
    if (strcmp(line, "set")) return 0;
    if (o->sets && strcmp(sets, value))
        return fail("--set %s: the plan in %s has \"%s\"; leave it out, or give another --out",
                    sets, o->out, value);
    snprintf(o->kept[2], sizeof o->kept[2], "%s", value);
    o->sets = 0;
    for (char *at = o->kept[2]; *at && o->sets < SETS; at = end) {
        end = at + strcspn(at, " ");
        if (*end) *end++ = 0;
        o->set[o->sets++] = at;
    }
    return 0;
}

/* The sets of the call, in one line. */
static void join_sets(const settings *o, char *sets, size_t room)
{
    size_t n = 0;
    *sets = 0;
    for (int i = 0; i < o->sets && n < room; i++)
        n += (size_t)snprintf(sets + n, room - n, "%s%s", i ? " " : "", o->set[i]);
}

/* OUT/plan.txt into the options, if it is there; its fingerprints of pictures and recipes, 0
   without. 0, or an exit status. */
static int read_plan(settings *o, uint64_t print[2])
{
    char path[1100], line[4096], sets[4000];
    int bad = 0;
    print[0] = print[1] = 0;
    join_sets(o, sets, sizeof sets);
    snprintf(path, sizeof path, "%s/plan.txt", o->out);
    FILE *f = fopen(path, "r");
    while (f && !bad && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!strncmp(line, "pictures ", 9)) print[0] = strtoull(line + 9, NULL, 10);
        if (!strncmp(line, "recipes ", 8)) print[1] = strtoull(line + 8, NULL, 10);
        bad = plan_line(o, path, line, sets);
    }
    if (f) fclose(f);
    if (bad) return bad;
    if (f && !print[1]) return fail("%s: not a whole plan; give another --out", path);
    if (!f && o->report) return fail("%s: there is no plan; give the --out of one", path);
    if (!o->steps) o->steps = 1200;
    if (!o->size) o->size = 96;
    if (!o->images && *o->kept[0]) o->images = o->kept[0];
    if (!o->masks && *o->kept[1]) o->masks = o->kept[1];
    if (!o->images) return fail("give --images, a folder of pictures in classes; --help says "
                                "which form it has");
    for (size_t k = 0; k < NETWORKS; k++) {
        recipe r = recipe_of(o, &networks[k]);
        const char *why = recipe_wrong(&r);
        if (why) return fail("--set %s (%s)", why, networks[k].name);
    }
    if (!f || o->report || print[1] == recipes_fingerprint(o)) return 0;
    return fail("%s: this program's recipes are not those the plan began with; give another --out",
                path);
}

/* Lines of text that grow: what goes to a file. */
typedef struct lines {
    char *text;
    size_t count, room;
} lines;

static void put_text(mmix_ctx *m, lines *l, const char *text)
{
    size_t n = strlen(text);
    size_t room = 2 * (l->count + n) + 1000;
    if (l->count + n >= l->room) {
        char *more = (char *)realloc(l->text, room);
        if (!more) {
            mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for results");
            return;
        }
        l->text = more;
        l->room = room;
    }
    memcpy(l->text + l->count, text, n + 1);
    l->count += n;
}
/* `name value error`, the name by printf. */
static void put(mmix_ctx *m, lines *l, double value, double error, const char *format, ...)
{
    char name[80], line[160];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    snprintf(line, sizeof line, "%s %.9g %.9g\n", name, value, isfinite(error) ? error : 0);
    put_text(m, l, line);
}
static void put_score(mmix_ctx *m, lines *l, const score *s, const char *name)
{
    put(m, l, s->value, s->error, "%s", name);
    put(m, l, s->balanced, s->balanced_error, "%s/balanced", name);
}

/* n shares, one of each picture, in thousandths, two in a value: what pairs of networks are
   compared by. NAME/each/0 has the first two; 9999 stands for one that is not there. */
enum { EACH_NONE = 9999 };
static void put_each(mmix_ctx *m, lines *l, const double *x, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i += 2) {
        double first = floor(1000 * x[i] + 0.5);
        double second = i + 1 < n ? floor(1000 * x[i + 1] + 0.5) : EACH_NONE;
        put(m, l, 10000 * first + second, 0, "%s/each/%zu", name, i / 2);
    }
}

/* The mean of n numbers and its standard error. */
static void put_mean(mmix_ctx *m, lines *l, const double *x, size_t n, const char *name)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        double off = x[i] - mean;
        mean += off / (double)(i + 1);
        square += off * (x[i] - mean);
    }
    put(m, l, mean, n > 1 ? sqrt(square / (double)n / (double)(n - 1)) : NAN, "%s", name);
}

static int write_whole(mmix_ctx *m, const char *path, const char *text)      /* 0, or -1 */
{
    if (!report_write(path, text)) return 0;
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be written: %s", path, strerror(errno));
}
static int is_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}
static const char *file_of(const settings *o, size_t part, size_t seed, const char *ending,
                           char *path, size_t room)
{
    if (part < NETWORKS) snprintf(path, room, "%s/%s-%zu%s", o->out, part_name(part), seed, ending);
    else snprintf(path, room, "%s/%s%s", o->out, part_name(part), ending);
    return path;
}

static int write_plan(mmix_ctx *m, const settings *o, uint64_t print)        /* 0, or -1 */
{
    char path[1100], sets[4000], line[4200];
    lines l = {NULL, 0, 0};
    join_sets(o, sets, sizeof sets);
    snprintf(path, sizeof path, "%s/plan.txt", o->out);
    snprintf(line, sizeof line, "images %s\n", o->images);
    put_text(m, &l, line);
    snprintf(line, sizeof line, "masks %s\n", o->masks ? o->masks : "");
    put_text(m, &l, line);
    snprintf(line, sizeof line, "set %s\n", sets);
    put_text(m, &l, line);
    snprintf(line, sizeof line, "steps %zu\nsize %zu\npictures %" PRIu64 "\nrecipes %" PRIu64 "\n",
             o->steps, o->size, print, recipes_fingerprint(o));
    put_text(m, &l, line);
    int bad = mmix_error(m) || write_whole(m, path, l.text);
    free(l.text);
    return bad ? -1 : 0;
}

/* ---- pictures -------------------------------------------------------------------------------- */

enum { NOISE, BLUR, DARKNESS, CONTRAST, COARSE, CORRUPTIONS, STRENGTHS = 5 };

/* What all networks are judged with. */
typedef struct exam {
    mmix_ctx *m;
    const settings *o;
    pictures p;
    mmix_picture *square;                                /* (count): train, then test */
    int32_t *label;                                      /* (count) */
    size_t count, *at;                                   /* 0 … count - 1 */
    voters one_out, split;                               /* k-NN among all; heads */
    int32_t *said, *base;  /* (tests) by heads; by the head that others are compared with */
    double *pair;                                        /* (tests): differences */
    store labels;  /* masks of the pictures where heads learn masks */
    mmix_picture *masked;  /* these pictures: seg_trains, then seg_tests */
    size_t seg_trains, seg_tests;
    double spoke, start;                                 /* of progress; of this sitting */
} exam;

/* What a train picture's mask says at p.size x p.size pixels, as pictures.h does it. 1: there is
   none; -1: error. */
static int train_mask(exam *e, size_t i, uint8_t *out)
{
    size_t w, h, size = e->p.size;
    char why[512];
    char *path = picture_mask_path(e->o->masks, e->p.train.name[i] + strlen(e->o->images) + 1);
    if (!path) return 1;
    uint8_t *rgb = picture_pixels(e->m, path, &w, &h, why, sizeof why);
    if (rgb) picture_mask_square(out, rgb, w, picture_square(w, h), size);
    if (!rgb) mmix_fail(e->m, MMIX_ERROR_FILE, "%s", why);
    else picture_pixels_free(path, rgb);
    free(path);
    return rgb ? 0 : -1;
}

/* Masks for segmentation, of some train and some test pictures, spread over all: object or
   background. 0, or -1. */
static int read_masks(exam *e)
{
    size_t pixels = e->p.size * e->p.size;
    size_t trains = e->p.train.count, tests = e->p.test.count, n = 0;
    char path[1200];
    uint8_t *mask = (uint8_t *)malloc(pixels);
    e->masked = (mmix_picture *)calloc(SEG_TRAINS + SEG_TESTS, sizeof *e->masked);
    snprintf(path, sizeof path, "%s/masks", e->o->out);
    if (!mask || !e->masked) mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory for masks");
    else store_open(e->m, &e->labels, path, pixels, 0);
    for (size_t k = 0; k < SEG_TRAINS + SEG_TESTS && !mmix_error(e->m) && !interrupted; k++) {
        size_t test = k >= SEG_TRAINS;
        size_t all = test ? tests : trains;
        size_t most = test ? SEG_TESTS : SEG_TRAINS;
        size_t j = k - test * SEG_TRAINS;
        size_t i = picture_spread(j, most, all);
        if (j >= all) continue;
        if (test) memcpy(mask, e->p.test.mask + i * pixels, pixels);
        else if (train_mask(e, i, mask)) continue;
        for (size_t b = 0; b < pixels; b++)
            mask[b] = mask[b] == DENSE_VOID ? DENSE_VOID : mask[b] != 0;
        if (store_add(e->m, &e->labels, mask, 1)) break;
        e->masked[n++] = (test ? &e->p.test : &e->p.train)->picture[i];
        *(test ? &e->seg_tests : &e->seg_trains) += 1;
    }
    free(mask);
    if (!e->seg_trains && !mmix_error(e->m) && !interrupted)
        report_say("--masks %s: none of a training picture, so no head learns masks", e->o->masks);
    return mmix_error(e->m) || interrupted ? -1 : 0;
}

static int read_pictures(exam *e)                        /* 0, or an exit status */
{
    const settings *o = e->o;
    pictures *p = &e->p;
    if (pictures_load(p, e->m, o->images, o->masks, o->size, o->size))
        return fail("%s", *p->error ? p->error : "out of memory for the pictures");
    if (p->classes < 2)
        return fail("%s: its pictures have no classes to tell; expected %s/train/CLASS/*, or "
                    "%s/CLASS/*", o->images,
                    o->images, o->images);
    size_t trains = p->train.count, tests = p->test.count;
    size_t n = trains + tests;
    e->count = n;
    e->square = (mmix_picture *)calloc(n, sizeof *e->square);
    e->label = (int32_t *)calloc(n, sizeof *e->label);
    e->at = (size_t *)calloc(n, sizeof *e->at);
    e->said = (int32_t *)calloc(2 * tests, sizeof *e->said);
    e->pair = (double *)calloc((CORRUPTIONS + 1) * tests, sizeof *e->pair);
    if (!e->square || !e->label || !e->at || !e->said || !e->pair)
        return fail("out of memory for the pictures");
    e->base = e->said + tests;
    for (size_t i = 0; i < n; i++) {
        const picture_set *set = i < trains ? &p->train : &p->test;
        size_t k = i < trains ? i : i - trains;
        e->square[i] = set->picture[k];
        e->label[i] = set->label[k];
        e->at[i] = i;
    }
    voters all = {0, NULL, n, e->at};
    voters split = {trains, e->at, tests, e->at + trains};
    e->one_out = all;
    e->split = split;
    return 0;
}
static void close_exam(exam *e)
{
    store_drop(&e->labels);
    free(e->masked);
    free(e->square);
    free(e->label);
    free(e->at);
    free(e->said);
    free(e->pair);
    pictures_free(&e->p);
}

/* ---- features -------------------------------------------------------------------------------- */

/* A row has class token, mean and maximum of the patches (READS), then the class tokens of the
   last four blocks. */
enum { ROW = READS + LAST_BLOCKS };
static size_t blocks_of(const mmix_vision *v)
{
    size_t depth = mmix_vision_config_of(v)->depth;
    return depth < LAST_BLOCKS ? depth : LAST_BLOCKS;
}

/* Rows (n, ROW, D) of n square pictures at `side` pixels. Of fewer than four blocks the first
   are 0. 0, or -1. */
static int see(exam *e, const mmix_vision *v, const mmix_picture *picture, size_t n, size_t side,
               mmix_real *x)
{
    size_t D = mmix_vision_config_of(v)->dim;
    size_t blocks = blocks_of(v);
    mmix_ctx *m = e->m;
    mmix_mark mark = mmix_mark_here(m);
    mmix_vision_options want;
    memset(&want, 0, sizeof want);
    want.n_last = blocks;
    mmix_features f = mmix_vision_forward(m, v, look_stack(m, picture, n, 1, side), &want);
    mmix_tensor *row[READS] = {f.token, mmix_pool_tokens(m, f.patches, NULL, 0, 1, 0),
                               mmix_pool_tokens(m, f.patches, NULL, 0, 1, 1)};
    for (size_t i = 0; i < n && !mmix_error(m); i++) {
        mmix_real *to = x + i * ROW * D;
        memset(to, 0, ROW * D * sizeof *to);
        for (int k = 0; k < READS; k++)
            memcpy(to + (size_t)k * D, mmix_data(row[k]) + i * mmix_stride(row[k], 0),
                   D * sizeof *to);
        memcpy(to + (ROW - blocks) * D, mmix_data(f.intermediate) + i * mmix_stride(f.intermediate,
                0), blocks * D * sizeof *to);
    }
    mmix_rewind(m, mark);
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* Rows of all pictures; NULL on error, else to be freed. */
static mmix_real *see_all(exam *e, const mmix_vision *v)
{
    size_t D = mmix_vision_config_of(v)->dim;
    size_t few = MMIX_MAX_INPUTS;
    size_t side = side_of(e->o, 1);
    mmix_real *x = (mmix_real *)malloc(e->count * ROW * D * sizeof *x);
    int bad = x ? 0 : mmix_fail(e->m, MMIX_ERROR_MEMORY,
                                "no memory for the features of %zu pictures", e->count);
    for (size_t at = 0, n; at < e->count && !bad; at += n) {
        n = e->count - at < few ? e->count - at : few;
        bad = see(e, v, e->square + at, n, side, x + at * ROW * D);
    }
    if (!bad) return x;
    free(x);
    return NULL;
}

/* The standard error of the effective rank of class tokens: the jackknife by tenths. */
static double rank_error(exam *e, const mmix_real *x, size_t stride, size_t D)
{
    enum { PARTS_OUT = 10 };
    size_t n = e->count < RANKED ? e->count : RANKED;
    double mean = 0, square = 0;
    mmix_real *rest = (mmix_real *)malloc(n * D * sizeof *rest);
    for (size_t k = 0; rest && k < PARTS_OUT; k++) {
        size_t kept = 0;
        for (size_t i = 0; i < n; i++)
            if (i % PARTS_OUT != k) {
                const mmix_real *row = x + picture_spread(i, n, e->count) * stride;
                memcpy(rest + kept * D, row, D * sizeof *rest);
                kept++;
            }
        double r = effective_rank(e->m, rest, kept, D, D);
        double off = r - mean;
        mean += off / (double)(k + 1);
        square += off * (r - mean);
    }
    free(rest);
    return rest ? sqrt(square * (PARTS_OUT - 1) / PARTS_OUT) : NAN;
}

/* ---- corruptions ----------------------------------------------------------------------------- */

/* Of 8-bit pixels v of a picture n pixels wide, c of them with numbers that depend on the
   picture's alone:
       noise      v + a g, g normal with deviation 1, of each pixel and channel its own
       blur       Gaussian, its deviation a n / 96 pixels
       darkness   a v
       contrast   g + a (v - g), g the picture's mean luma
       coarse     the mean of a cell, a cells across and down
   They stand in for ImageNet-Sketch, A and R, which ask the same question (what is left when
   pictures are not like those a network has learned from) of other pictures; no more is
   claimed. */
static const struct {
    const char *name;
    double amount[STRENGTHS];
} corruption[CORRUPTIONS] = {
    {"noise", {8, 16, 32, 48, 64}},
    {"blur", {0.75, 1.5, 2.5, 4, 6}},
    {"darkness", {0.7, 0.5, 0.35, 0.2, 0.1}},
    {"contrast", {0.7, 0.5, 0.3, 0.2, 0.1}},
    {"coarse", {32, 24, 16, 12, 8}},
};

static void coarsen(uint8_t *rgb, size_t size, size_t cells)
{
    for (size_t k = 0; k < cells * cells * 3; k++) {
        size_t cy = k / 3 / cells;
        size_t cx = k / 3 % cells;
        size_t sum = 0, n = 0;
        for (int pass = 0; pass < 2; pass++)
            for (size_t y = cy * size / cells; y < (cy + 1) * size / cells; y++)
                for (size_t x = cx * size / cells; x < (cx + 1) * size / cells; x++) {
                    uint8_t *v = rgb + 3 * (y * size + x) + k % 3;
                    if (pass) *v = (uint8_t)((sum + n / 2) / n);
                    else {
                        sum += *v;
                        n++;
                    }
                }
    }
}

typedef struct corrupting {
    const exam *e;
    int kind;                                            /* CORRUPTIONS: as it is */
    double amount;
    const size_t *at;                                    /* test pictures */
    uint8_t *rgb;
    int bad[MMIX_MAX_INPUTS];
} corrupting;
static void corrupt_task(void *arg, size_t i)
{
    enum { PURPOSE = 902 };
    corrupting *c = (corrupting *)arg;
    size_t n = c->e->p.size;
    size_t bytes = 3 * n * n;
    uint8_t *rgb = c->rgb + i * bytes;
    memcpy(rgb, c->e->p.test.picture[c->at[i]].rgb, bytes);
    if (c->kind == NOISE)
        for (size_t k = 0; k < bytes; k++) {
            double grain = mmix_random_normal(c->e->m, PURPOSE, c->at[i], k);
            double v = floor(rgb[k] + c->amount * grain + 0.5);
            rgb[k] = (uint8_t)fmin(fmax(v, 0), 255);
        }
    if (c->kind == COARSE) coarsen(rgb, n, c->amount < (double)n ? (size_t)c->amount : n);
    if (c->kind == DARKNESS)
        c->bad[i] = mmix_picture_adjust(rgb, n, n, MMIX_ADJUST_BRIGHTNESS, c->amount, NULL);
    if (c->kind == CONTRAST)
        c->bad[i] = mmix_picture_adjust(rgb, n, n, MMIX_ADJUST_CONTRAST, c->amount, NULL);
    if (c->kind != BLUR) return;
    void *scratch = malloc(mmix_picture_blur_scratch_bytes(n, n) + 1);
    c->bad[i] = !scratch || mmix_picture_adjust(rgb, n, n, MMIX_ADJUST_BLUR,
                                                c->amount * (double)n / 96, scratch);
    free(scratch);
}

/* n test pictures, corrupted, into rgb. 0, or -1. */
static int corrupt(exam *e, int kind, double amount, const size_t *at, size_t n, uint8_t *rgb,
                   mmix_picture *out)
{
    corrupting c;
    memset(&c, 0, sizeof c);
    c.e = e;
    c.kind = kind;
    c.amount = amount;
    c.at = at;
    c.rgb = rgb;
    mmix_parallel_for(e->m, n, corrupt_task, &c);
    for (size_t i = 0; i < n; i++) {
        out[i].rgb = rgb + i * e->p.size * e->p.size * 3;
        out[i].width = out[i].height = e->p.size;
        if (c.bad[i]) return mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory for corrupted pictures");
    }
    return 0;
}

/* What a head that was taught clean pictures says of corrupted ones and, first, of the same as
   they are: of class tokens of v, or, v NULL, of plain descriptor `kind`. 0, or -1. */
static int judge_corrupted(exam *e, const mmix_vision *v, int kind, const probe *head, lines *l,
                           const char *prefix)
{
    size_t few = MMIX_MAX_INPUTS, tests = 0, size = e->p.size;
    size_t side = side_of(e->o, 1);
    size_t tests_all = e->p.test.count;
    size_t stride = v ? ROW * head->scale.D : head->scale.D;
    size_t every = (tests_all + CORRUPTED - 1) / CORRUPTED;
    size_t at[CORRUPTED];
    int32_t label[CORRUPTED];
    mmix_picture picture[MMIX_MAX_INPUTS];
    uint8_t *rgb = (uint8_t *)malloc(few * size * size * 3);
    mmix_real *x = (mmix_real *)malloc((CORRUPTED + few) * stride * sizeof *x);
    char name[64];
    score s = {0, 0, 0, 0, 0};
    memset(e->pair, 0, (CORRUPTIONS + 1) * tests_all * sizeof *e->pair);
    for (size_t i = 0; i < tests_all; i += every) {
        label[tests] = e->p.test.label[i];
        at[tests++] = i;
    }
    voters of = {0, NULL, tests, e->at};
    int bad = rgb && x ? 0 : mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory for corrupted pictures");
    for (int k = -1; k < CORRUPTIONS * STRENGTHS && !bad; k++) {
        int which = k < 0 ? CORRUPTIONS : k / STRENGTHS;
        for (size_t i = 0, n; i < tests && !bad; i += n) {
            n = tests - i < few ? tests - i : few;
            double amount = k < 0 ? 0 : corruption[which].amount[k % STRENGTHS];
            bad = corrupt(e, which, amount, at + i, n, rgb, picture);
            if (!bad && v) bad = see(e, v, picture, n, side, x + i * stride);
            for (size_t b = 0; b < n && !bad && !v; b++)
                bad = describe_plain(e->m, kind, picture[b], x + (i + b) * stride);
        }
        bad = bad || interrupted || probe_say(e->m, head, x, stride, &of, e->said) ||
              score_said(e->m, &of, label, e->said, e->p.classes, &s);
        /* clean less the mean of corrupted, of each kind and of all */
        for (size_t i = 0; i < tests && !bad; i++) {
            double right = e->said[i] == label[i];
            double of_kind = k < 0 ? right : -right / STRENGTHS;
            double of_all = k < 0 ? right : -right / (CORRUPTIONS * STRENGTHS);
            for (int c = 0; c < CORRUPTIONS; c++)
                if (k < 0 || c == which) e->pair[(size_t)c * tests_all + i] += of_kind;
            e->pair[CORRUPTIONS * tests_all + i] += of_all;
        }
        if (k < 0) snprintf(name, sizeof name, "%sclean", prefix);
        else snprintf(name, sizeof name, "%s%s/%d", prefix, corruption[which].name,
                      1 + k % STRENGTHS);
        if (!bad) put_score(e->m, l, &s, name);
    }
    for (int c = 0; c <= CORRUPTIONS && !bad; c++) {
        const char *which = c < CORRUPTIONS ? corruption[c].name : "all";
        snprintf(name, sizeof name, "%slost/%s", prefix, which);
        put_mean(e->m, l, e->pair + (size_t)c * tests_all, tests, name);
    }
    free(rgb);
    free(x);
    return bad ? -1 : 0;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Of M in four blocks of a network, up to the last, the mean over heads (and both directions of
   Mamba): numerical rank of M's blocks beside the diagonal (half of the tokens wide; of one
   direction those on the side that is not zero), its bound, their effective rank, the effective
   rank of all of M; and the rank of what such a block adds to the output with all heads joined. */
enum { OFF, BOUND, OFF_EFFECTIVE, EFFECTIVE, JOINED, RANKS, RANK_PICTURES = 8 };
static const char *const rank_name[RANKS] = {"off", "bound", "off_effective", "effective",
                                             "joined"};
typedef struct ranker {
    const mmix_vision *v;
    size_t calls, n, blocks;  /* mixers so far; pictures; blocks that are measured */
    double *value;  /* (blocks, RANKS, n), from the picture that is looked at on */
} ranker;

static void rank_look(void *user, mmix_ctx *m, const mmix_mixer *x)
{
    ranker *r = (ranker *)user;
    int ssd = x->kind == MMIX_MIXER_SSD;
    size_t block = r->calls++ / (ssd ? 2 : 1);
    size_t depth = mmix_vision_config_of(r->v)->depth;
    size_t at_block = 0;
    while (at_block < r->blocks && (at_block + 1) * depth / r->blocks != block + 1) at_block++;
    if (at_block == r->blocks) return;
    mmix_mixer_rank k;
    char name[64];
    const char *format = ssd ? "layers.%d.mixer.out_proj.weight" : "blocks.%d.attn.proj.weight";
    snprintf(name, sizeof name, format, (int)block);
    mmix_mixer mixes = *x;
    mixes.D = NULL;  /* D x passes by: M would have full rank by that alone */
    mmix_tensor *joining = mmix_params_find(mmix_vision_params(r->v), name);
    if (mmix_mix_rank(m, &mixes, joining, 0, 0, &k)) return;
    size_t H = k.M.matrices;
    double share = 0.5;                                  /* of two blocks, or two directions */
    for (size_t i = 0; i < 4; i++) {  /* an odd last token makes blocks of its own: left out */
        size_t I = i / 2;
        size_t J = i % 2;
        size_t at = I * k.M.cols + J;
        double *to = r->value + at_block * RANKS * r->n;
        int zero = ssd && (I < J) != (x->direction == MMIX_SCAN_REVERSE);
        if (I == J || zero) continue;
        for (size_t h = 0; h < H; h++) {
            size_t cell = h * k.M.rows * k.M.cols + at;
            double part = share / (double)H;
            to[OFF * r->n] += part * k.M.numerical[cell];
            to[BOUND * r->n] += part * k.bound[cell];
            to[OFF_EFFECTIVE * r->n] += part * k.M.effective[cell];
            to[EFFECTIVE * r->n] += part * k.whole.effective[h];
        }
        to[JOINED * r->n] += share * k.joined[at];
    }
}

/* Of n test pictures at `side` pixels: block after block, lines `of/SIDE/BLOCK/…`, and their
   mean; `of` NULL: the mean alone, `matrix/…`. One picture at a time: of more the forward pass
   may make batches of its own. 0, or -1. */
static int judge_ranks(exam *e, const mmix_vision *v, size_t side, size_t n, lines *l,
                       const char *of)
{
    size_t depth = blocks_of(v);
    size_t tests = e->p.test.count;
    ranker r = {v, 0, n < tests ? n : tests, depth, NULL};
    char name[64];
    r.value = (double *)calloc((depth * RANKS + RANKS) * r.n, sizeof *r.value);
    int bad = r.value ? 0 : mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory for ranks");
    for (size_t i = 0; i < r.n && !bad; i++) {
        mmix_mark mark = mmix_mark_here(e->m);
        ranker one = r;
        one.value += i;
        mmix_mix_hook(e->m, rank_look, &one);
        const mmix_picture *seen = &e->p.test.picture[picture_spread(i, r.n, tests)];
        bad = !look_at(e->m, v, seen, 1, 1, side).token;
        mmix_mix_hook(e->m, NULL, NULL);
        mmix_rewind(e->m, mark);
    }
    for (size_t k = 0; k < depth * RANKS && !bad; k++) {
        double *mean = r.value + (depth * RANKS + k % RANKS) * r.n;
        const double *one = r.value + k * r.n;
        const char *what = rank_name[k % RANKS];
        for (size_t b = 0; b < r.n; b++) mean[b] += one[b] / (double)depth;
        if (!of) continue;
        snprintf(name, sizeof name, "%s/%zu/%zu/%s", of, side, 1 + k / RANKS, what);
        put_mean(e->m, l, one, r.n, name);
    }
    for (size_t k = 0; k < RANKS && !bad; k++) {
        if (of) snprintf(name, sizeof name, "%s/%zu/mean/%s", of, side, rank_name[k]);
        else snprintf(name, sizeof name, "matrix/%s", rank_name[k]);
        put_mean(e->m, l, r.value + (depth * RANKS + k) * r.n, r.n, name);
    }
    free(r.value);
    return bad || interrupted || mmix_error(e->m) ? -1 : 0;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* Says what one judgement took, on stderr. */
static void took(exam *e, const char *what)
{
    double t = now();
    fprintf(stderr, "  %-28s %5.1f s\n", what, t - e->spoke);
    e->spoke = t;
}

/* Binary-AUC of at most n maps. 0, or -1. */
static int judge_maps(exam *e, const mmix_vision *v, size_t n, lines *l)
{
    maps s;
    memset(&s, 0, sizeof s);
    s.every = (e->p.test.count + n - 1) / n;
    if (!e->p.test.mask) return 0;
    size_t side = side_of(e->o, map_times);
    s.each = (double *)malloc(e->p.test.count * sizeof *s.each + 1);
    if (!s.each) return mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory for maps");
    int bad = look(e->m, v, &e->p.test, e->p.size, side, NULL, side, &s);
    if (!bad) put(e->m, l, maps_auc(&s), maps_error(&s), "auc");
    if (!bad && n == MAPS_JUDGED) put_each(e->m, l, s.each, s.judged, "auc");
    free(s.each);
    return bad ? -1 : 0;
}

/* Leave-one-out k-NN of all pictures and the probe, of rows of D. 0, or -1. */
static int judge_rows(exam *e, const mmix_real *x, size_t stride, size_t D, lines *l,
                      const char *prefix)
{
    char name[64];
    score s = {0, 0, 0, 0, 0};
    if (evaluate_knn(e->m, x, stride, D, &e->one_out, e->label, e->p.classes, 20, &s)) return -1;
    snprintf(name, sizeof name, "%sknn", prefix);
    put_score(e->m, l, &s, name);
    if (evaluate_probe(e->m, x, stride, D, &e->split, e->label, e->p.classes, &s, NULL))
        return -1;
    snprintf(name, sizeof name, "%sprobe", prefix);
    put_score(e->m, l, &s, name);
    return mmix_error(e->m) || interrupted ? -1 : 0;
}

/* The short judgement, after a quarter q of the steps: lines `at Q/NAME …`. 0, or -1 and nothing
   is added. */
static int judge_short(exam *e, const mmix_vision *v, size_t q, lines *l)
{
    size_t D = mmix_vision_config_of(v)->dim;
    lines of = {NULL, 0, 0};
    char line[200];
    mmix_reset(e->m);
    mmix_seed_set(e->m, JUDGE);  /* all networks draw the same batches for their heads */
    mmix_real *x = see_all(e, v);
    int bad = !x || judge_rows(e, x, ROW * D, D, &of, "") ||
              judge_maps(e, v, q < QUARTERS ? MAPS_JUDGED / 2 : MAPS_JUDGED, &of) ||
              judge_ranks(e, v, side_of(e->o, 1), RANK_PICTURES, &of, NULL);
    if (!bad) {
        double rank = effective_rank(e->m, x, e->count, ROW * D, D);
        put(e->m, &of, rank, rank_error(e, x, ROW * D, D), "rank");
    }
    free(x);
    for (char *at = of.text, *end; at && *at && !bad; at = end + 1) {
        end = strchr(at, '\n');
        snprintf(line, sizeof line, "at%zu/%.*s\n", q, (int)(end - at), at);
        put_text(e->m, l, line);
    }
    free(of.text);
    return bad || mmix_error(e->m) ? -1 : 0;
}

/* What heads make of vectors of D numbers that lie `stride` apart; and NAME/gain, how much more
   of the pictures are right than with the first head, that on the class token, in e->base. 0, or
   -1. */
static int judge_probe(exam *e, const mmix_real *x, size_t stride, size_t D, const double *rate,
                       size_t rates, double decay, lines *l, const char *format, ...)
{
    mmix_mark mark = mmix_mark_here(e->m);
    char name[64];
    probe p;
    score s = {0, 0, 0, 0, 0};
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    int bad = probe_learn(e->m, &p, x, stride, D, &e->split, e->label, e->p.classes, rate, rates,
                          decay) ||
              probe_say(e->m, &p, x, stride, &e->split, e->said) ||
              score_said(e->m, &e->split, e->label, e->said, e->p.classes, &s);
    if (!bad) put_score(e->m, l, &s, name);
    int first = !strcmp(name, "read/token");
    if (first) memcpy(e->base, e->said, e->split.tests * sizeof *e->base);
    for (size_t i = 0; i < e->split.tests && first; i++)
        e->pair[i] = e->said[i] == e->label[e->split.test[i]];
    if (first && !bad) put_each(e->m, l, e->pair, e->split.tests, name);
    for (size_t i = 0; i < e->split.tests; i++) {
        int32_t is = e->label[e->split.test[i]];
        e->pair[i] = (e->said[i] == is) - (e->base[i] == is);
    }
    snprintf(name + strlen(name), sizeof name - strlen(name), "/gain");
    if (!bad) put_mean(e->m, l, e->pair, e->split.tests, name);
    free(p.scale.mean);
    mmix_rewind(e->m, mark);
    return bad || interrupted ? -1 : 0;
}

/* The probe's ways: class tokens of 1 to 4 last blocks, class strategies, rates, decays. 0, or
   -1. */
static int judge_probes(exam *e, const mmix_real *x, size_t D, size_t blocks, lines *l)
{
    static const double rate[] = {0.003, 0.03, 0.3, 3}, decay[] = {0, 1e-3, 5e-3, 1e-2};
    static const char *const strategy[] = {"token", "mean", "max", "token+mean", "token+max"};
    size_t stride = ROW * D;
    int bad = 0;
    mmix_real *both = (mmix_real *)malloc(e->count * 2 * D * sizeof *both);
    if (!both) return mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory for joined features");
    for (size_t k = 0; k < READS && !bad; k++)
        bad = judge_probe(e, x + k * D, stride, D, probe_rate, PROBE_RATES, 0, l, "read/%s",
                          strategy[k]);
    for (size_t k = 1; k <= blocks && !bad; k++)
        bad = judge_probe(e, x + (ROW - k) * D, stride, k * D, probe_rate, PROBE_RATES, 0, l,
                          "blocks/%zu", k);
    for (size_t k = READ_MEAN; k < READS && !bad; k++) {
        for (size_t i = 0; i < e->count; i++) {
            memcpy(both + i * 2 * D, x + i * stride, D * sizeof *both);
            memcpy(both + (i * 2 + 1) * D, x + i * stride + k * D, D * sizeof *both);
        }
        bad = judge_probe(e, both, 2 * D, 2 * D, probe_rate, PROBE_RATES, 0, l, "read/%s",
                          strategy[READS - 1 + k]);
    }
    free(both);
    for (size_t k = 0; k < sizeof rate / sizeof *rate && !bad; k++)
        bad = judge_probe(e, x, stride, D, &rate[k], 1, 0, l, "rate/%g", rate[k]);
    for (size_t k = 0; k < sizeof decay / sizeof *decay && !bad; k++)
        bad = judge_probe(e, x, stride, D, probe_rate, PROBE_RATES, decay[k], l, "decay/%g",
                          decay[k]);
    return bad;
}

/* Counts of each test picture, from what a head says of it. */
typedef struct counting {
    exam *e;
    mmix_miou_count (*of)[2];
    uint8_t *truth;
} counting;
static void count_pixels(void *user, size_t picture, const uint8_t *pred)
{
    counting *c = (counting *)user;
    size_t pixels = c->e->p.size * c->e->p.size;
    if (store_read(c->e->m, &c->e->labels, picture, 1, c->truth)) return;
    for (size_t i = 0; i < pixels; i++) {
        mmix_miou_count *of = c->of[picture - c->e->seg_trains];
        if (c->truth[i] == DENSE_VOID) continue;
        of[c->truth[i]].label++;
        of[pred[i]].pred++;
        of[pred[i]].both += pred[i] == c->truth[i];
    }
}
/* What mIoU gains from the first n counts to the next n, of the same pictures, and its jackknife
   error. */
static void put_gain(exam *e, mmix_miou_count (*of)[2], size_t n, lines *l)
{
    mmix_miou_count all[2][2];
    double gain = 0, mean = 0, square = 0;
    memset(all, 0, sizeof all);
    for (size_t i = 0; i < 2 * n; i++)
        for (int c = 0; c < 2; c++) {
            mmix_miou_count *to = &all[i / n][c];
            to->both += of[i][c].both;
            to->label += of[i][c].label;
            to->pred += of[i][c].pred;
        }
    for (size_t i = 0; i <= n; i++) {                    /* without picture i; of all */
        double miou[2];
        for (size_t k = 0; k < 2; k++) {
            mmix_miou_count rest[2];
            memcpy(rest, all[k], sizeof rest);
            for (int c = 0; c < 2 && i < n; c++) {
                const mmix_miou_count *one = &of[k * n + i][c];
                rest[c].both -= one->both;
                rest[c].label -= one->label;
                rest[c].pred -= one->pred;
            }
            miou[k] = mmix_miou(rest, 2, NULL).miou;
        }
        gain = miou[1] - miou[0];
        double off = gain - mean;
        if (i == n) break;
        mean += off / (double)(i + 1);
        square += off * (gain - mean);
    }
    put(e->m, l, gain, sqrt(square * (double)(n - 1) / (double)n), "seg/gain");
}
/* mIoU of object and background by a linear head on patches of pictures of two sizes, and what
   is gained. 0, or -1. */
static int judge_masks(exam *e, const mmix_vision *v, const char *of, lines *l)
{
    size_t n = e->seg_tests;
    char path[1200];
    voters split = {e->seg_trains, e->at, n, e->at + e->seg_trains};
    counting count = {e, NULL, (uint8_t *)malloc(e->p.size * e->p.size)};
    count.of = (mmix_miou_count (*)[2])calloc(2 * n + 1, sizeof *count.of);
    int bad = !count.of || !count.truth;
    if (bad) mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory for masks");
    mmix_miou_count (*all)[2] = count.of;
    for (int k = 0; k < SEG_SIDES && e->seg_trains && n && !bad; k++, count.of += n) {
        size_t side = side_of(e->o, seg_times[k]);
        dense_set d;
        score s = {0, 0, 0, 0, 0};
        memset(&d, 0, sizeof d);
        d.labels = &e->labels;
        d.split = e->count;
        d.w = d.h = e->p.size;
        d.classes = 2;
        d.D = mmix_vision_config_of(v)->dim;
        snprintf(path, sizeof path, "%s/patches", e->o->out);
        bad = store_open(e->m, &d.tokens[0], path, d.D * sizeof(mmix_real), 0) ||
              look_patches(e->m, v, e->masked, e->seg_trains + n, side, &d) ||
              evaluate_dense(e->m, &d, &split, of, count_pixels, &count, &s, NULL);
        if (!bad) put(e->m, l, s.value, s.error, "seg/%zu", side);
        if (!bad && k) put_gain(e, all, n, l);
        store_drop(&d.tokens[0]);
    }
    free(all);
    free(count.truth);
    return bad || mmix_error(e->m) ? -1 : 0;
}
/* mIoU of what says background everywhere. 0, or -1. */
static int judge_background(exam *e, lines *l)
{
    dense_set d;
    score s = {0, 0, 0, 0, 0};
    if (!e->seg_trains || !e->seg_tests) return 0;
    memset(&d, 0, sizeof d);
    d.labels = &e->labels;
    d.w = d.h = e->p.size;
    d.classes = 2;
    voters of = {0, NULL, e->seg_tests, e->at + e->seg_trains};
    if (evaluate_dense(e->m, &d, &of, "", NULL, NULL, &s, NULL)) return -1;
    put(e->m, l, s.value, s.error, "background/seg");
    return 0;
}

/* The long judgement, of a network at its end. 0, or -1. */
static int judge_long(exam *e, const mmix_vision *v, const char *of, lines *l)
{
    /* singular values cost the third power of the tokens */
    static const size_t pictures_of[RANK_SIDES] = {4, 3, 2};
    size_t D = mmix_vision_config_of(v)->dim;
    mmix_reset(e->m);
    mmix_seed_set(e->m, JUDGE);
    e->spoke = now();
    probe p;
    p.scale.mean = NULL;
    mmix_real *x = see_all(e, v);
    if (!x) return -1;
    took(e, "features of all pictures");
    int bad = judge_probes(e, x, D, blocks_of(v), l);
    if (!bad) took(e, "heads");
    mmix_mark mark = mmix_mark_here(e->m);
    bad = bad || probe_learn(e->m, &p, x, ROW * D, D, &e->split, e->label, e->p.classes, probe_rate,
                             PROBE_RATES, 0) ||
          judge_corrupted(e, v, 0, &p, l, "");
    free(p.scale.mean);
    mmix_rewind(e->m, mark);
    free(x);
    if (!bad) took(e, "corrupted pictures");
    bad = bad || judge_masks(e, v, of, l);
    if (!bad) took(e, "masks by linear heads");
    for (int k = 0; k < RANK_SIDES && !bad; k++)
        bad = judge_ranks(e, v, side_of(e->o, rank_times[k]), pictures_of[k], l, "rank");
    if (!bad) took(e, "ranks of M");
    return bad || mmix_error(e->m) ? -1 : 0;
}

/* ---- training -------------------------------------------------------------------------------- */

/* A network on its way: with DINO or with labels. */
typedef struct learner {
    const network *of;
    mmix_dino *dino;
    supervised told;
    size_t done, judged;                                 /* steps; short judgements */
    lines l;                                             /* what these said */
} learner;

static const mmix_vision *backbone(const learner *n)
{
    return n->of->labels ? n->told.vision : mmix_dino_backbone(n->dino, 1);
}

/* From its run file if there is one, else at step 0. 0, or -1. */
static int learner_begin(exam *e, learner *n, size_t seed, const char *path)
{
    recipe r = recipe_of(e->o, n->of);
    mmix_dino_config c = recipe_config(&r, e->o->steps, seed);
    char *note = NULL, *end;
    int there = is_there(path);
    const char *why = recipe_beyond(e->m, &r);
    if (why) return mmix_fail(e->m, MMIX_ERROR_ARGUMENT, "--set %s", why);
    mmix_seed_set(e->m, seed);
    if (n->of->labels) {
        if (supervised_make(e->m, &n->told, c, e->p.classes)) return -1;
        if (there && supervised_read(e->m, &n->told, path, &note)) return -1;
    } else {
        n->dino = there ? mmix_dino_load(e->m, path) : mmix_dino_create(e->m, c);
        if (!n->dino) return -1;
        if (there) note = picture_join(mmix_dino_note(n->dino), "", "");
    }
    if (!there) return 0;
    int ours = note && !strncmp(note, "done ", 5);
    if (ours) {
        n->done = strtoul(note + 5, &end, 10);
        n->judged = strtoul(end, &end, 10);
        put_text(e->m, &n->l, *end ? end + 1 : "");
    }
    free(note);
    return ours ? 0 : mmix_fail(e->m, MMIX_ERROR_FILE, "%s: no run of this program; take it away",
                                path);
}
static int learner_save(exam *e, const learner *n, const char *path)         /* 0, or -1 */
{
    char head[80];
    snprintf(head, sizeof head, "done %zu %zu\n", n->done, n->judged);
    char *note = picture_join(head, "", n->l.text ? n->l.text : "");
    if (!note) return mmix_fail(e->m, MMIX_ERROR_MEMORY, "no memory to save a run");
    int bad = n->of->labels ? supervised_save(e->m, &n->told, path, note) :
        mmix_dino_save(n->dino, path, note);
    free(note);
    return bad;
}
/* A step; its loss. NAN: mmix_error says why. */
static double learner_step(exam *e, learner *n, size_t seed)
{
    const picture_set *set = &e->p.train;
    recipe r = recipe_of(e->o, n->of);
    mmix_dino_stats s;
    n->done++;
    if (!n->of->labels) return recipe_step(e->m, &r, n->dino, set, &s) > 0 ? s.loss : NAN;
    mmix_seed_set(e->m, seed);  /* crops and drop path are drawn by the context's */
    int was = mmix_multiply_bf16(e->m, r.bf16 > 0);
    double loss = supervised_step(e->m, &n->told, crop_from(set), set->label, set->count);
    mmix_multiply_bf16(e->m, was);
    return loss;
}
static void learner_end(learner *n)
{
    mmix_dino_destroy(n->dino);
    if (n->of->labels) supervised_free(&n->told);
    free(n->l.text);
}

static int time_is_up(const exam *e) { return e->o->minutes > 0 && now() - e->start > 60 *
                                      e->o->minutes; }

/* How far a network and the plan are. `left`: networks after this one. */
static void show_progress(exam *e, const learner *n, size_t seed, double loss, double rate,
                          size_t left)
{
    double here = (double)(e->o->steps - n->done) / rate;
    double all = here + (double)left * (double)e->o->steps / rate;
    size_t seconds = (size_t)here;
    size_t minutes = (size_t)(all / 60);
    int stay = on_screen() && n->done < e->o->steps;      /* on a screen the line is written over */
    e->spoke = now();
    fprintf(stderr, "%s, seed %zu: step %zu of %zu  %.2f steps/s  loss %.3f  %zu:%02zu left, the "
                    "plan about %zu:%02zu h%s",
            n->of->name, seed, n->done, e->o->steps, rate, loss, seconds / 60, seconds % 60,
            minutes / 60, minutes % 60, stay ? " \r" : "\n");
}

/* Trains a network to its end, judged at each quarter. 0; 1: stopped, and saved; -1. */
static int train(exam *e, learner *n, size_t seed, const char *path, size_t left)
{
    double saved = now();
    double busy = 0;
    size_t steps = e->o->steps, made = 0;
    e->spoke = saved;
    while (!interrupted && !time_is_up(e) && !mmix_error(e->m)) {
        if (n->judged <= QUARTERS && n->done == n->judged * steps / QUARTERS) {
            double t = now();
            if (judge_short(e, backbone(n), n->judged, &n->l)) break;
            n->judged++;
            fprintf(stderr, "%s, seed %zu: judged after %zu steps, %.1f s\n", n->of->name, seed,
                    n->done, now() - t);
            if (learner_save(e, n, path)) break;
            saved = e->spoke = now();
            continue;
        }
        if (n->done == steps) return 0;
        double t = now();
        double loss = learner_step(e, n, seed);
        if (mmix_error(e->m)) break;
        busy += now() - t;
        made++;
        if (now() - saved > SAVE_SECONDS && !learner_save(e, n, path)) saved = now();
        if (now() - e->spoke > line_pause())
            show_progress(e, n, seed, loss, (double)made / busy, left);
    }
    stopped(e->m);
    if (mmix_error(e->m)) return -1;
    mmix_reset(e->m);
    return learner_save(e, n, path) ? -1 : 1;
}

/* A network of the plan, all of it. 0; 1: stopped, and saved; -1. */
static int make_network(exam *e, size_t k, size_t seed, size_t left)
{
    char run[1100], path[1100];
    learner n;
    memset(&n, 0, sizeof n);
    n.of = &networks[k];
    file_of(e->o, k, seed, "-run.safetensors", run, sizeof run);
    file_of(e->o, k, seed, ".txt", path, sizeof path);
    int end = learner_begin(e, &n, seed, run) ? -1 : train(e, &n, seed, run, left);
    if (!end && time_is_up(e)) end = 1;
    if (!end) {
        size_t side = side_of(e->o, 1);
        put(e->m, &n.l, (double)mmix_vision_params(backbone(&n))->elements, 0, "parameters");
        put(e->m, &n.l, mmix_vision_flops(backbone(&n), side, side) / 1e6, 0, "mflops");
        end = judge_long(e, backbone(&n), n.of->name, &n.l);
        if (!end) end = write_whole(e->m, path, n.l.text);
        else if (stopped(e->m)) end = 1;
    }
    learner_end(&n);
    return end;
}

/* ---- once ------------------------------------------------------------------------------------ */

/* How many pictures there are; and the share of the commonest class among the test pictures,
   which heads are judged on, and among all, which vote. */
static void put_commonest(exam *e, lines *l)
{
    put(e->m, l, (double)e->p.train.count, 0, "pictures/train");
    put(e->m, l, (double)e->p.test.count, 0, "pictures/test");
    put(e->m, l, (double)e->p.classes, 0, "pictures/classes");
    for (int all = 0; all < 2; all++) {
        size_t first = all ? 0 : e->p.train.count;
        size_t n = e->count - first;
        size_t most = 0;
        for (size_t c = 0, same = 0; c < e->p.classes; c++, same = 0) {
            for (size_t i = first; i < e->count; i++) same += (size_t)e->label[i] == c;
            if (same > most) most = same;
        }
        double share = (double)most / (double)n;
        score s = {share, sqrt(share * (1 - share) / (double)n), 1 / (double)e->p.classes, 0, n};
        put_score(e->m, l, &s, all ? "commonest/knn" : "commonest/probe");
    }
}

/* What anyone has for nothing: descriptors that nobody has trained, the commonest class,
   background everywhere, nearness to the middle. 0; 1: stopped; -1. */
static int make_baselines(exam *e)
{
    mmix_ctx *m = e->m;
    char path[1100], prefix[32];
    lines l = {NULL, 0, 0};
    double every = ceil((double)e->p.test.count / MAPS_JUDGED);
    int bad = 0;
    mmix_reset(m);
    mmix_seed_set(m, JUDGE);
    e->spoke = now();
    for (int k = 0; k < PLAINS && !bad; k++) {
        static const char *const name[PLAINS] = {"pixels/", "colours/", "edges/"};
        size_t D = plain[k].dim;
        probe p;
        mmix_mark mark = mmix_mark_here(m);
        mmix_real *x = (mmix_real *)malloc(e->count * D * sizeof *x);
        snprintf(prefix, sizeof prefix, "%s", name[k]);
        if (!x) bad = mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for descriptors");
        for (size_t i = 0; i < e->count && !bad; i++)
            bad = describe_plain(m, k, e->square[i], x + i * D);
        p.scale.mean = NULL;
        bad = bad || judge_rows(e, x, D, D, &l, prefix) ||
              probe_learn(m, &p, x, D, D, &e->split, e->label, e->p.classes, probe_rate,
                          PROBE_RATES, 0) ||
              judge_corrupted(e, NULL, k, &p, &l, prefix);
        free(p.scale.mean);
        free(x);
        mmix_rewind(m, mark);
        if (!bad) took(e, plain[k].name);
    }
    put_commonest(e, &l);
    maps middle;
    memset(&middle, 0, sizeof middle);
    mmix_tensor *map = maps_middle(m, e->p.size, e->p.size);
    for (size_t i = 0; map && e->p.test.mask && i < e->p.test.count; i += (size_t)every) {
        mmix_mark mark = mmix_mark_here(m);
        maps_judge(m, &middle, mmix_data(map), e->p.test.mask + i * e->p.size * e->p.size,
                   e->p.size, e->p.size, NULL);
        mmix_rewind(m, mark);
    }
    if (middle.judged) put(m, &l, maps_auc(&middle), maps_error(&middle), "middle/auc");
    bad = bad || judge_background(e, &l) ||
        write_whole(m, file_of(e->o, BASELINES, 0, ".txt", path, sizeof path), l.text);
    free(l.text);
    if (!bad) return 0;
    return stopped(e->m) ? 1 : -1;
}

/* Milliseconds and MiB of one picture's way through an untrained network, at `side` pixels, in a
   context of its own: the median of five, or of one that takes seconds. 0, or -1. */
static int measure_cost(exam *e, size_t k, size_t side, lines *l)
{
    mmix_options options;
    memset(&options, 0, sizeof options);
    options.threads = (int)e->o->threads;
    options.seed = 1;
    recipe r = recipe_of(e->o, &networks[k]);
    mmix_ctx *m = mmix_create(&options);
    mmix_vision *v = m ? mmix_vision_create(m, recipe_config(&r, EPOCHS, 1).vision) : NULL;
    double ms[5] = {0}, start;
    size_t n = 0;
    for (size_t i = 0; v && i < 6 && !mmix_error(m) && !interrupted; i++) {
        mmix_reset(m);
        mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 1, 3, side, side), 1, 1);
        start = now();
        mmix_vision_forward(m, v, image, NULL);
        if (i) ms[n++] = 1000 * (now() - start);         /* the first one also takes its memory */
        if (n && ms[n - 1] > 3000) break;
    }
    qsort(ms, n, sizeof *ms, by_size);
    int bad = !v || mmix_error(m) || !n;
    if (!bad) {
        put(e->m, l, ms[n / 2], (ms[n - 1] - ms[0]) / 2, "%s/%zu/ms", networks[k].name, side);
        put(e->m, l, (double)mmix_memory(m).peak / 1048576, 0, "%s/%zu/mib", networks[k].name,
            side);
    }
    if (bad && !interrupted)
        mmix_fail(e->m, MMIX_ERROR_MEMORY, "%zu pixels: %s", side, mmix_error(m));
    mmix_vision_destroy(v);
    mmix_destroy(m);
    return bad ? -1 : 0;
}
static int make_cost(exam *e)                            /* 0; 1: stopped; -1 */
{
    lines l = {NULL, 0, 0};
    char path[1100];
    int bad = 0;
    mmix_reset(e->m);
    e->spoke = now();
    for (int i = 0; i < COST_SIDES && !bad; i++)
        for (size_t k = 0; k < MIXERS && !bad; k++)
            bad = measure_cost(e, k, side_of(e->o, cost_times[i]), &l);
    took(e, "time and memory");
    bad = bad || write_whole(e->m, file_of(e->o, COST, 0, ".txt", path, sizeof path), l.text);
    free(l.text);
    if (!bad) return 0;
    return stopped(e->m) ? 1 : -1;
}

#include "tables_report.h"

/* ---- main ------------------------------------------------------------------------------------ */

/* The parts that are missing, in their order: baselines, seed after seed of all networks, cost.
   0, 1 if stopped, -1. */
static int make_parts(exam *e)
{
    const settings *o = e->o;
    size_t all = NETWORKS * o->seeds + 2;
    size_t left = 0;
    char path[1100];
    for (int pass = 0; pass < 2; pass++)                 /* count, then do */
        for (size_t i = 0; i < all; i++) {
            size_t k = (i - 1) % NETWORKS;
            size_t seed = 1 + (i - 1) / NETWORKS;
            if (i + 1 == all) k = COST;
            if (i == 0) k = BASELINES;
            if (!chosen(o->only, k) || is_there(file_of(o, k, seed, ".txt", path, sizeof path)))
                continue;
            if (!pass) {
                left += k < NETWORKS;
                continue;
            }
            if (k < NETWORKS) left--;
            fprintf(stderr, "%s%s\n", path, k < NETWORKS ? "" : " …");
            int end;
            if (k == BASELINES) end = make_baselines(e);
            else if (k == COST) end = make_cost(e);
            else end = make_network(e, k, seed, left);
            if (end < 0) return -1;
            if (end || interrupted || time_is_up(e)) return 1;
        }
    return 0;
}

static int work(exam *e, settings *o)                    /* an exit status */
{
    char path[1100];
    uint64_t old[2], print;
    int bad = read_plan(o, old);
    if (bad || o->report) return bad ? bad : write_tables(o);
    snprintf(path, sizeof path, "%s/plan.txt", o->out);
    if (report_folders(path)) return fail("cannot write %s: %s", path, strerror(errno));
    fprintf(stderr, "tables: reading %s\n", o->images);
    bad = read_pictures(e);
    if (bad) return bad;
    print = pictures_fingerprint(&e->p);
    if (old[0] && old[0] != print)
        return fail("%s: the plan in %s began with other pictures; give --images and --masks as "
                    "it had, or another --out",
                    o->images, o->out);
    if (!old[0] && write_plan(e->m, o, print)) return fail("%s", mmix_error(e->m));
    if (o->masks && read_masks(e) && !interrupted) return fail("%s", mmix_error(e->m));
    e->start = now();
    int end = interrupted ? 1 : make_parts(e);
    if (end < 0) return fail("%s", mmix_error(e->m));
    if (end) fprintf(stderr, "tables: stopped and saved; the same command goes on\n");
    bad = write_tables(o);
    if (bad) return bad;
    return interrupted ? 130 : 0;
}

int main(int argc, char **argv)
{
    settings o;
    exam e;
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    memset(&e, 0, sizeof e);
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = 1;
    e.o = &o;
    e.m = mmix_create(&options);
    if (!e.m) return fail("%s", mmix_error(NULL));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    status = work(&e, &o);
    close_exam(&e);
    mmix_destroy(e.m);
    return status;
}
