/* dino.c - three token mixers learn from pictures without labels

       cc -O2 demos/studies/dino.c -o dino -lm -lpthread
       ./dino                                        drawn swarms, about six minutes
       ./dino --images photos --masks masks          your own pictures

   A ViT (softmax attention), a LinearViT (linear attention) and a DinoVim (Mamba-2 in both
   directions) are trained with DINO, one after another, on the same pictures, crops and number
   of steps, with nearly equal numbers of parameters. What their features are worth is measured
   before and after, on test pictures that no network has learned from: does a picture's class
   token name its class by its nearest neighbours among the training pictures, and, where there
   are masks, does the likeness of class token and patches tell objects from background
   (Binary-AUC)? Beside it stands what untrained networks and plain descriptors do. Labels and
   masks are used for nothing else. A table goes to stdout, all of it to OUT/report.html.

   Sections: options · data · worth · run files · train · report · main */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "dino"
#include "../../mamba_mix.h"
#include "pictures.h"
#include "scenes.h"
#include "program.h"
#include "evaluate.h"
#include "report.h"
#include "learn.h"
#include <inttypes.h>
#include <signal.h>
#include <time.h>
#ifndef _WIN32
#include <sys/resource.h>
#endif

enum { SWARMS = 1500 };       /* to learn from; two thirds as many judge */
enum { TILE = 104, GAP = 4, SHEET_ROWS = 5 };
enum { SWARM_SIDE = 144, MAPS_JUDGED = 200, PLOTTED = 512 };
enum { STEPS = 4600 };        /* of each network, if nothing else is asked for */
enum { SAVE_SECONDS = 120 };  /* so much is lost at most if the machine goes down */
enum { SETS = 40 };

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "dino - three token mixers learn from pictures without labels\n\n"
    "  --images DIR    DIR/train/CLASS/* and DIR/test/CLASS/*, or DIR/CLASS/*, or DIR/*   (drawn "
    "swarms)\n"
    "                  or a file that --pack wrote\n"
    "  --masks DIR     their masks, the same tree, PNG: 0 background, 255 void, else object\n"
    "  --out DIR       where report.html goes                         (build/dino-out)\n"
    "  --mixer NAME    softmax, linear, ssd; all: these three; registers: ssd, with 12 tokens "
    "that are read\n"
    "                  in place of one                                (all)\n"
    "  --steps N       steps of each network, up to a multiple of 20  (4600)\n"
    "  --minutes M     in place of --steps: as many as fit into so much time, the mean over the "
    "mixers\n"
    "  --seed N        of swarms, weights, crops                      (1)\n"
    "  --swarms N      drawn swarms to learn from; two thirds as many judge   (1500)\n"
    "  --size N        pictures are brought to N x N pixels to be judged, and cut from no larger "
    "ones (of a packed\n"
    "                  file: than it was packed with)                 (96)\n"
    "  --set NAME=X    a number of the recipe, such as batch=64, again and again; --set list: all "
    "of them\n"
    "  --pack FILE     write the pictures and masks into one .safetensors, to be read in place of "
    "DIR; train nothing\n"
    "  --start FILE    begin with a backbone's weights (one mixer); its shape has to be the "
    "recipe's\n"
    "  --save PREFIX   run files PREFIX-MIXER.safetensors             (OUT/run)\n"
    "  --load PREFIX   go on with the run of these files, to the same bits as if it had never "
    "stopped; with --steps N\n"
    "                  take it further, to N steps (up to a multiple of a twentieth of those that "
    "were planned): the\n"
    "                  learning rate, which had fallen, rises to that of the longer plan\n"
    "  --threads N     (all cores)\n"
    "  --simd NAME     auto, none, avx2, avx512, neon                 (auto)\n"
    "  --json          results as JSON on stdout\n"
    "  --figures DIR   the pictures and maps of the report as DIR/first-light.png, and the curves of\n"
    "                  k-NN as DIR/learning.svg\n"
    "  --help\n\n"
    "A run is saved every two minutes. Ctrl-C saves it, too, reports what there is and says how "
    "to go on.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

typedef struct settings {
    const char *images, *masks, *out, *save, *load, *start, *pack, *figures, *set[SETS];
    int mixers, threads, simd, json, sets;  /* mixers: bits 1 << MMIX_MIXER_SOFTMAX, … */
    uint64_t seed;
    double minutes;       /* 0: `steps` are given */
    size_t steps, size, swarms;
    size_t epoch;         /* steps of an epoch, a twentieth of those that were planned first */
    size_t more;          /* steps to take a loaded run to; 0: as many as it was planned for */
    char prefix[1000];                                   /* of the run files that are written */
    char *plan, kept[4][4096];  /* plan_text; images, masks, start and sets of a loaded run */
} settings;

/* What a mixer is trained by here: on swarms, whose only secret is shape, crops keep their
   colours, for there is nothing in those to be blind to; and on photographs. */
static recipe recipe_of(const settings *o, int mixer)
{
    recipe r = recipe_standard(mixer);
    if (!o->images) recipe_swarms(&r);
    for (int i = 0; i < o->sets; i++) recipe_set(&r, o->set[i]);
    return r;
}

/* How long each network learns: --minutes, or NULL, and --steps, or 0. 0, or an exit status. */
static int read_minutes(settings *o, const char *minutes)
{
    char *end;
    if (!minutes) {
        if (!o->steps && !o->load) o->steps = STEPS;
        return 0;
    }
    o->minutes = strtod(minutes, &end);
    if (*end || !(o->minutes > 0 && o->minutes < 1e5))
        return fail("--minutes %s: give a number above 0", minutes);
    if (o->steps) return fail("--minutes %s: give this or --steps, not both", minutes);
    return 0;
}

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    static const char *const simd_name[] = {"auto", "none", "avx2", "avx512", "neon"};
    const char *mixer = "all", *simd = "auto", *minutes = NULL, *seed = "1", *set = NULL,
        *fixed = NULL, *why;
    size_t threads = 0;
    memset(o, 0, sizeof *o);
    o->out = "build/dino-out";
    o->size = 96;
    o->swarms = SWARMS;
    struct {
        const char *name, **text;
        size_t *number, low, high;
        int fixed;
    } known[] = {
        {"--images", &o->images, NULL, 0, 0, 0},         /* fixed 1: a loaded run decides it */
        {"--masks", &o->masks, NULL, 0, 0, 0},
        {"--out", &o->out, NULL, 0, 0, 0},
        {"--save", &o->save, NULL, 0, 0, 0},
        {"--load", &o->load, NULL, 0, 0, 0},
        {"--simd", &simd, NULL, 0, 0, 0},
        {"--figures", &o->figures, NULL, 0, 0, 0},
        {"--pack", &o->pack, NULL, 0, 0, 0},
        {"--start", &o->start, NULL, 0, 0, 1},
        {"--set", &set, NULL, 0, 0, 1},
        {"--mixer", &mixer, NULL, 0, 0, 1},
        {"--minutes", &minutes, NULL, 0, 0, 1},
        {"--seed", &seed, NULL, 0, 0, 1},
        {"--threads", NULL, &threads, 1, 64, 0},
        {"--steps", NULL, &o->steps, 1, 100000000, 0},
        {"--size", NULL, &o->size, 32, 1024, 1},
        {"--swarms", NULL, &o->swarms, 60, 1000000, 1},
    };
    unsigned long long n;
    recipe r = recipe_standard(MMIX_MIXER_SSD);
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        size_t count = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        if (!strcmp(argv[i], "--json")) {
            o->json = 1;
            continue;
        }
        while (k < count && strcmp(argv[i], known[k].name)) k++;
        if (k == count) return fail("%s: no such option; --help lists them all", argv[i]);
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        if (known[k].fixed) fixed = known[k].name;
        if (known[k].text) *known[k].text = argv[i];
        if (known[k].text == &set) {
            if (!strcmp(set, "list")) {
                recipe_list(&r);
                return -1;
            }
            if (!strncmp(set, "mixer=", 6))
                return fail("--set %s: that is what --mixer is for", set);
            why = recipe_set(&r, set);
            if (why) return fail("--set %s", why);
            if (o->sets == SETS) return fail("--set %s: %d are the most", set, SETS);
            o->set[o->sets++] = set;
        }
        if (known[k].text) continue;
        if (report_whole(known[k].name, argv[i], known[k].low, known[k].high, &n)) return 2;
        *known[k].number = (size_t)n;
    }
    o->threads = (int)threads;
    if (read_minutes(o, minutes)) return 2;
    if (report_whole("--seed", seed, 0, ULLONG_MAX, &n)) return 2;
    o->seed = n;
    int all = !strcmp(mixer, "all");
    for (int k = 0; k < MIXERS; k++) {
        int wanted = !strcmp(mixer, mixer_name[k]) || (all && k < REGISTERS);
        o->mixers |= wanted << k;
    }
    if (!o->mixers) return fail("--mixer %s: give softmax, linear, ssd, all or registers", mixer);
    while (o->simd < 5 && strcmp(simd, simd_name[o->simd])) o->simd++;       /* MMIX_SIMD_AUTO, … */
    if (o->simd == 5) return fail("--simd %s: give auto, none, avx2, avx512 or neon", simd);
    if (o->load && fixed)
        return fail("%s: a loaded run keeps its own settings; leave this out, or --load", fixed);
    if (o->load) {
        o->more = o->steps;
        o->steps = 0;
    }
    if (o->masks && !o->images)
        return fail("--masks %s: give --images as well; drawn swarms have their own masks",
                    o->masks);
    if (o->pack && !o->images) return fail("--pack %s: give --images, what to pack", o->pack);
    if (o->start && o->mixers & (o->mixers - 1))
        return fail("--start %s: give --mixer, one of them", o->start);
    for (int k = 0; k < MIXERS; k++) {
        r = recipe_of(o, k);
        why = o->mixers >> k & 1 ? recipe_wrong(&r) : NULL;
        if (why) return fail("--set %s", why);
    }
    if (o->save || o->load)
        snprintf(o->prefix, sizeof o->prefix, "%s", o->save ? o->save : o->load);
    else snprintf(o->prefix, sizeof o->prefix, "%s/run", o->out);
    return 0;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* How many swarms judge. */
static size_t swarms_test(size_t train) { return 2 * train / 3; }
/* Swarms in place of a folder. 0, or -1. */
static int draw_swarms(pictures *p, mmix_ctx *m, const settings *o)
{
    p->size = o->size;
    p->class_name = (char **)calloc(SCENE_CLASSES, sizeof *p->class_name);
    if (!p->class_name) return -1;
    for (p->classes = 0; p->classes < SCENE_CLASSES; p->classes++)
        p->class_name[p->classes] = picture_join(scene_class[p->classes], "", "");
    return swarms_draw(m, &p->train, o->seed, o->size, 0, o->swarms) ||
           swarms_draw(m, &p->test, o->seed, o->size, o->swarms, swarms_test(o->swarms));
}

/* ---- worth ----------------------------------------------------------------------------------- */

/* What features are worth: the vote of the 20 nearest training pictures on each test picture, for
   each way to read them; how many directions class tokens fill; and what maps say of masks. */
typedef struct worth {
    score knn[READS];
    double rank;
    maps auc;
    uint8_t *map;  /* (SHOWN, MAP_SIDE, MAP_SIDE, 3), for the report */
} worth;

/* Maps are judged of every so many test pictures, at so many pixels: photographs at 224; the
   things of swarms would be larger there than any that a crop has shown. */
static size_t judged_every(const pictures *p)
{
    return (p->test.count + MAPS_JUDGED - 1) / MAPS_JUDGED;
}
static size_t map_side(const pictures *p) { return p->train.whole ? MAP_SIDE : SWARM_SIDE; }
/* At so many their classes: photographs at more than the crops had, whose things are larger than
   in whole pictures (Touvron et al. 2019). */
static size_t look_side(const pictures *p, const mmix_dino_config *c)
{
    return p->train.whole ? p->size : c->augment.global_size;
}

/* The k-NN of rows of D, `stride` apart, first those of the training pictures, then those of the
   test pictures. The first vote on the second, so no judged picture is one that a network has
   learned from. 0, or -1. */
static int vote(mmix_ctx *m, const pictures *p, const mmix_real *x, size_t stride, size_t D,
                score *s)
{
    size_t trains = p->train.count;
    size_t count = trains + p->test.count;
    size_t *at = (size_t *)malloc(count * sizeof *at);
    int32_t *label = (int32_t *)malloc(count * sizeof *label);
    voters v = {trains, at, p->test.count, at ? at + trains : NULL};
    if (!at || !label) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a vote");
    for (size_t i = 0; i < count && !mmix_error(m); i++) {
        at[i] = i;
        label[i] = i < trains ? p->train.label[i] : p->test.label[i - trains];
    }
    int bad = mmix_error(m) || evaluate_knn(m, x, stride, D, &v, label, p->classes, 20, s);
    free(at);
    free(label);
    return bad ? -1 : 0;
}

/* What features of pictures at `side` pixels are worth, and maps. 0, or -1; w->map is to be
   freed in any case. */
static int evaluate(mmix_ctx *m, const mmix_vision *v, size_t side, const pictures *p, worth *w)
{
    size_t D = mmix_vision_config_of(v)->dim;
    size_t large = map_side(p);
    size_t count = p->train.count + p->test.count;
    mmix_real *x = (mmix_real *)malloc(count * READS * D * sizeof *x);
    memset(w, 0, sizeof *w);
    for (int k = 0; k < READS; k++)
        w->knn[k].value = w->knn[k].balanced = w->knn[k].balanced_error = NAN;
    w->auc.every = judged_every(p);
    w->map = (uint8_t *)calloc(SHOWN * MAP_SIDE * MAP_SIDE, 3);
    if (!x || !w->map) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the features");
    else if (!look(m, v, &p->train, p->size, side, x, 0, NULL) &&
             !look(m, v, &p->test, p->size, side, x + p->train.count * READS * D, large, &w->auc)) {
        for (int k = 0; p->classes > 1 && k < READS; k++)
            vote(m, p, x + (size_t)k * D, READS * D, D, &w->knn[k]);
        w->rank = effective_rank(m, x, count, READS * D, D);
        draw_maps(m, v, p, large, w->map);
    }
    free(x);
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* What anyone has for nothing: descriptors that nobody has trained, of all pictures and of those
   that the curves are made of; the commonest class; nearness to the middle. */
typedef struct baselines {
    score plain[PLAINS], few[PLAINS];
    double commonest;
    maps middle;
} baselines;

/* Some of the training and some of the test pictures, for the curves; few->train.picture and
   few->test.picture are to be freed in any case. 0, or -1. */
static int plotted_few(mmix_ctx *m, pictures *few, const pictures *p)
{
    *few = *p;
    few->test.picture = NULL;
    if (picture_few(&few->train, &p->train, PLOTTED) || picture_few(&few->test, &p->test, PLOTTED))
        return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the curves");
    return 0;
}

/* The vote by plain descriptor k. 0, or -1. */
static int vote_plain(mmix_ctx *m, const pictures *p, int k, score *s)
{
    size_t trains = p->train.count;
    size_t count = trains + p->test.count;
    size_t D = plain[k].dim;
    mmix_real *x = (mmix_real *)malloc(count * D * sizeof *x);
    if (!x) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for descriptors");
    for (size_t i = 0; i < count; i++) {
        mmix_picture of = i < trains ? p->train.picture[i] : p->test.picture[i - trains];
        describe_plain(m, k, of, x + i * D);
    }
    int bad = vote(m, p, x, D, D, s);
    free(x);
    return bad;
}

/* The share of the test pictures that are of the class which is commonest in training. */
static double share_of_commonest(const pictures *p)
{
    size_t best = 0, most = 0;
    double of = 0;
    for (size_t c = 0; c < p->classes; c++) {
        size_t n = 0;
        for (size_t i = 0; i < p->train.count; i++) n += (size_t)p->train.label[i] == c;
        if (n <= most) continue;
        most = n;
        best = c;
    }
    for (size_t i = 0; p->classes && i < p->test.count; i++)
        of += (size_t)p->test.label[i] == best;
    return p->classes ? of / (double)p->test.count : NAN;
}

static int evaluate_plain(mmix_ctx *m, const pictures *p, baselines *b)  /* 0, or -1 */
{
    pictures few;
    memset(b, 0, sizeof *b);
    int bad = plotted_few(m, &few, p);
    for (int k = 0; k < PLAINS && p->classes > 1 && !bad; k++)
        bad = vote_plain(m, p, k, &b->plain[k]) || vote_plain(m, &few, k, &b->few[k]);
    free(few.train.picture);
    free(few.test.picture);
    b->commonest = share_of_commonest(p);
    mmix_tensor *map = maps_middle(m, p->size, p->size);
    for (size_t i = 0; map && p->test.mask && i < p->test.count; i += judged_every(p)) {
        mmix_mark mark = mmix_mark_here(m);
        maps_judge(m, &b->middle, mmix_data(map), p->test.mask + i * p->size * p->size, p->size,
                   p->size, NULL);
        mmix_rewind(m, mark);
    }
    return mmix_error(m) ? -1 : 0;
}

/* ---- run files ------------------------------------------------------------------------------- */

/* What is noted of a network as it learns: the step; balanced k-NN of class tokens; their effective
   rank; balanced k-NN of the mean of the patches. */
enum { PLOT_STEP, PLOT_TOKEN, PLOT_RANK, PLOT_MEAN, PLOTS };

typedef struct run {
    int chosen, found;  /* trained here; its file was there to go on with */
    int judged;         /* before and after: it can be reported */
    mmix_dino_config config;
    size_t parameters, steps, done, peak;                /* of the backbone; planned, made; bytes */
    double flops, seconds, *x, *loss, *entropy;  /* of an image; of training; (steps) each */
    double plot[PLOTS][EPOCHS + 1];  /* as it learns */
    size_t plotted;
    worth before, after;
    char collapse[200];
} run;

static const char *run_file(const char *prefix, int mixer, char *path, size_t room)
{
    snprintf(path, room, "%s-%s.safetensors", prefix, mixer_name[mixer]);
    return path;
}

/* What is the same in all files of a run, whose mixers have one plan: lines "name value", to be
   freed; NULL without memory. */
static char *plan_text(const settings *o, uint64_t print)
{
    const char *start = o->start ? o->start : "";
    size_t room = strlen(start) + 200, n;
    for (int i = 0; i < o->sets; i++) room += strlen(o->set[i]) + 1;
    char *text = (char *)malloc(room);
    if (!text) return NULL;
    n = (size_t)snprintf(text, room,
                         "size %zu\nseed %" PRIu64 "\nswarms %zu\npictures %" PRIu64 "\n"
                         "mixers %d\nsteps %zu\nstart %s\nset", o->size, o->seed, o->swarms, print,
                         o->mixers, o->steps, start);
    for (int i = 0; i < o->sets; i++) n += (size_t)snprintf(text + n, room - n, " %s", o->set[i]);
    text[n++] = '\n';
    text[n] = 0;
    return text;
}

/* Saves a run. Its note holds the plan, more such lines, then what was plotted, and loss and
   entropy of each step. 0, or -1. */
static int save_run(mmix_ctx *m, const mmix_dino *d, const run *r, const settings *o, int mixer)
{
    const char *images = o->images ? o->images : "";
    const char *masks = o->masks ? o->masks : "";
    size_t room = strlen(o->plan) + strlen(images) + strlen(masks) + 4096 + r->done * 48;
    size_t n = 0;
    char *note = (char *)malloc(room), path[1100];
    if (!note) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory to save the run");
    n += (size_t)snprintf(note, room,
                          "%simages %s\nmasks %s\nseconds %.3f\npeak %zu\ncollapse %s\ndone %zu "
                          "%zu\n", o->plan,
                          images, masks, r->seconds, r->peak, r->collapse, r->plotted, r->done);
    for (size_t i = 0; i < r->plotted; i++)
        for (int k = 0; k < PLOTS; k++)
            n += (size_t)snprintf(note + n, room - n, "%.9g%c", r->plot[k][i],
                                  k + 1 < PLOTS ? ' ' : '\n');
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

static unsigned long long note_number(const char *note, const char *name)
{
    char value[64];
    note_value(note, name, value, sizeof value);
    return strtoull(value, NULL, 10);
}

/* The number that begins at *at, which goes on behind it. 0, or -1 if there is none. */
static int read_next(char **at, double *number)
{
    const char *begin = *at;
    *number = strtod(begin, at);
    return *at == begin ? -1 : 0;
}

static int read_history(run *r, const char *note)  /* 0, or -1 if the note is not one of ours */
{
    char value[64], *end;
    note_value(note, "seconds", value, sizeof value);
    r->seconds = strtod(value, NULL);
    r->peak = (size_t)note_number(note, "peak");
    note_value(note, "collapse", r->collapse, sizeof r->collapse);
    const char *at = note_value(note, "done", value, sizeof value);
    r->plotted = at ? strtoul(at, &end, 10) : EPOCHS + 2;
    r->done = at ? strtoul(end, &end, 10) : 0;
    if (!at || r->done > r->steps || r->plotted > EPOCHS + 1) return -1;
    for (size_t i = 0; i < r->plotted; i++)
        for (int k = 0; k < PLOTS; k++) {
            r->plot[k][i] = NAN;                         /* files of before have no PLOT_MEAN */
            if (k == PLOT_MEAN && *end == '\n') break;
            if (read_next(&end, &r->plot[k][i])) return -1;
        }
    for (size_t i = 0; i < r->done; i++)
        if (read_next(&end, &r->loss[i]) || read_next(&end, &r->entropy[i])) return -1;
    return 0;
}

/* Whether the first n bytes of two plans have the same lines, but for how many steps there are
   to be. */
static int same_plan(const char *a, const char *b, size_t n)
{
    const char *end = a + n;
    while (a < end) {
        size_t of_a = strcspn(a, "\n");
        size_t of_b = strcspn(b, "\n");
        int steps = !strncmp(a, "steps ", 6) && !strncmp(b, "steps ", 6);
        if (!steps && (of_a != of_b || strncmp(a, b, of_a))) return 0;
        if (!b[of_b]) return 0;
        a += of_a + 1;
        b += of_b + 1;
    }
    return 1;
}

/* How many steps a loaded run goes on to: those of the longest plan among its files, for one may
   have been stopped while it went on to more, or those that are asked for, up to whole epochs.
   Then the plan is written anew. 0, or an exit status. */
static int go_on_to(settings *o, run *r, size_t longest)
{
    o->steps = longest;
    if (o->more && o->more <= longest)
        return fail("--steps %zu: the run of --load %s has %zu; give more, to go on with it",
                    o->more, o->load, longest);
    if (o->more) o->steps = (o->more + o->epoch - 1) / o->epoch * o->epoch;
    for (int k = 0; k < MIXERS; k++)
        if (r[k].found) r[k].config.epochs = o->steps / o->epoch;
    free(o->plan);
    o->plan = NULL;
    return 0;
}

/* What the files of --load say, into the options; which mixers have one. 0, or an exit status. */
static int read_runs(mmix_ctx *m, settings *o, run *r, uint64_t *print)
{
    char path[1100];
    size_t longest = 0;
    for (int k = 0; k < MIXERS; k++) {
        FILE *f = fopen(run_file(o->load, k, path, sizeof path), "rb");
        if (!f) continue;
        fclose(f);
        mmix_dino *d = mmix_dino_load(m, path);
        if (!d) return fail("%s; give another PREFIX, or start anew without --load", mmix_error(m));
        const char *note = mmix_dino_note(d);
        const char *end = note ? strstr(note, "\nimages ") : NULL;
        size_t n = end ? (size_t)(end - note) + 1 : 0;
        int ours = n && note_number(note, "steps");
        int same = !o->plan || same_plan(o->plan, note, strlen(o->plan));
        size_t steps = (size_t)note_number(note, "steps");
        if (steps > longest) longest = steps;
        if (ours && !o->plan && (o->plan = (char *)calloc(n + 1, 1)) != NULL)
            memcpy(o->plan, note, n);
        note_value(note, "images", o->kept[0], sizeof o->kept[0]);
        note_value(note, "masks", o->kept[1], sizeof o->kept[1]);
        r[k].config = *mmix_dino_config_of(d);
        r[k].found = 1;
        o->epoch = r[k].config.iters;
        mmix_dino_destroy(d);
        if (!ours) return fail("%s: no run of this demo; give --load a PREFIX that it saved", path);
        if (!o->plan) return fail("no memory for a plan");
        if (!same) return fail("%s: of another run than the other files of --load %s; move it away",
                               path, o->load);
    }
    if (!o->plan) return fail("--load %s: no %s-softmax.safetensors or the like; give the PREFIX "
                              "that was saved",
                              o->load, o->load);
    o->size = (size_t)note_number(o->plan, "size");
    o->seed = note_number(o->plan, "seed");
    o->swarms = (size_t)note_number(o->plan, "swarms");
    if (!o->swarms) o->swarms = SWARMS;          /* as an earlier version has it, and says not */
    *print = note_number(o->plan, "pictures");
    o->mixers = (int)note_number(o->plan, "mixers");
    note_value(o->plan, "start", o->kept[2], sizeof o->kept[2]);
    note_value(o->plan, "set", o->kept[3], sizeof o->kept[3]);
    for (char *at = strtok(o->kept[3], " "); at && o->sets < SETS; at = strtok(NULL, " "))
        o->set[o->sets++] = at;
    if (!o->images && *o->kept[0]) o->images = o->kept[0];
    if (!o->masks && *o->kept[1]) o->masks = o->kept[1];
    if (*o->kept[2]) o->start = o->kept[2];
    return go_on_to(o, r, longest);
}

/* ---- train ----------------------------------------------------------------------------------- */

/* Gives both networks the weights of --start. 0, or -1. */
static int start_from(mmix_dino *d, const settings *o)
{
    return o->start && (mmix_params_load(mmix_vision_params(mmix_dino_backbone(d, 0)), o->start) ||
                        mmix_params_load(mmix_vision_params(mmix_dino_backbone(d, 1)), o->start));
}

enum { PLAN_STEPS = 7 };

/* A mixer's config: its file's, or that of so many steps. A loaded run keeps the length of its
   epochs, so a mixer that has not begun yet learns as if it had been taken further like the
   others. */
static void plan_config(const settings *o, run *r, int mixer)
{
    recipe of = recipe_of(o, mixer);
    if (r->found) return;
    r->config = recipe_config(&of, o->epoch * EPOCHS, o->seed);
    r->config.epochs = o->steps / o->epoch;
}

/* Makes each network once, so that a setting that does not work is known before anything is
   trained; with --minutes it finds how many steps fit into the time, the same for all, from a few
   steps of each. 0, or an exit status. */
static int plan(mmix_ctx *m, settings *o, run *r, const pictures *p)
{
    double seconds = 0;
    int measure = o->minutes > 0;
    int n = 0;
    if (measure) o->steps = 1000;
    if (!o->load) o->epoch = (o->steps + EPOCHS - 1) / EPOCHS;
    if (!o->load) o->steps = o->epoch * EPOCHS;
    if (measure) report_say("trying a few steps of each network, to see how many fit into %g "
                            "minutes", o->minutes);
    for (int k = 0; k < MIXERS; k++) {
        r[k].chosen = o->mixers >> k & 1;
        if (!r[k].chosen) continue;
        plan_config(o, &r[k], k);
        recipe of = recipe_of(o, k);
        const char *why = recipe_beyond(m, &of);
        if (why) return fail("--set %s", why);
        mmix_dino *d = mmix_dino_create(m, r[k].config);
        if (!d || start_from(d, o)) return fail("%s", mmix_error(m));
        size_t side = r[k].config.augment.global_size;
        r[k].parameters = mmix_vision_params(mmix_dino_backbone(d, 1))->elements;
        r[k].flops = mmix_vision_flops(mmix_dino_backbone(d, 1), side, side);
        double took[PLAN_STEPS] = {0};
        for (int i = -2; measure && i < PLAN_STEPS && !interrupted; i++) {
            double start = now();
            recipe_step(m, &of, d, &p->train, NULL);
            if (i >= 0) took[i] = now() - start;         /* the first two also take their memory */
        }
        qsort(took, PLAN_STEPS, sizeof *took, by_size);
        seconds += took[PLAN_STEPS / 2];                 /* the median */
        n++;
        mmix_dino_destroy(d);
        if (mmix_error(m)) return fail("%s", mmix_error(m));
    }
    if (measure && interrupted) {
        fprintf(stderr, "\ndino: stopped before there was anything to save\n");
        return 130;
    }
    if (measure) o->epoch = 1 + (size_t)(60 * o->minutes * n / seconds) / EPOCHS;
    if (measure) o->steps = o->epoch * EPOCHS;
    for (int k = 0; k < MIXERS; k++) {
        plan_config(o, &r[k], k);
        r[k].steps = o->steps;
    }
    return 0;
}

static void show_progress(const run *r, const settings *o, int mixer, const mmix_dino_stats *s,
                          double rate)
{
    int which = 0, all = 0;                              /* the how many-th of the mixers this is */
    for (int k = 0; k < MIXERS; k++) {
        int chosen = o->mixers >> k & 1;
        all += chosen;
        if (k <= mixer) which += chosen;
    }
    size_t left = (size_t)((double)(r->steps - r->done) / rate);
    int stay = on_screen() && r->done < r->steps;
    fprintf(stderr, "%-8s (%d of %d) step %zu of %zu  %.2f steps/s  %zu:%02zu left  loss %.3f  "
                    "entropy %.2f  %s",
            mixer_name[mixer], which, all, r->done, r->steps, rate, left / 60, left % 60, s->loss,
            s->teacher_entropy, stay ? "\r" : "\n");
}

/* A point of the curves: what features of some pictures are worth now. 0, or -1. */
static int plot(mmix_ctx *m, const mmix_vision *v, run *r, const pictures *p)
{
    pictures few;
    int bad = plotted_few(m, &few, p);
    size_t side = look_side(p, &r->config);
    size_t D = mmix_vision_config_of(v)->dim;
    size_t trains = few.train.count;
    mmix_real *x = bad ? NULL : (mmix_real *)malloc((trains + few.test.count) * READS * D *
                                                    sizeof *x);
    mmix_real *tests = x ? x + trains * READS * D : NULL;
    score token, mean;
    token.balanced = mean.balanced = NAN;
    if (!x && !bad) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for the features");
    mmix_reset(m);
    if (x && !look(m, v, &few.train, p->size, side, x, 0, NULL) &&
        !look(m, v, &few.test, p->size, side, tests, 0, NULL)) {
        if (p->classes > 1) vote(m, &few, x + READ_TOKEN * D, READS * D, D, &token);
        if (p->classes > 1) vote(m, &few, x + READ_MEAN * D, READS * D, D, &mean);
        size_t i = r->plotted++;
        r->plot[PLOT_STEP][i] = (double)r->done;
        r->plot[PLOT_TOKEN][i] = token.balanced;
        r->plot[PLOT_RANK][i] = effective_rank(m, x, trains, READS * D, D);
        r->plot[PLOT_MEAN][i] = mean.balanced;
    }
    free(x);
    free(few.train.picture);
    free(few.test.picture);
    return mmix_error(m) ? -1 : 0;
}

/* Gives a loaded run the steps that it is to be taken to, which may be more than its file says.
   Then its plots are thinned to as many as the longer plan would have made. 0, or -1. */
static int lengthen(mmix_dino *d, run *r)
{
    size_t epochs = r->config.epochs;
    if (mmix_dino_config_of(d)->epochs >= epochs) return 0;
    if (mmix_dino_extend(d, epochs)) return -1;
    size_t had = r->plotted;
    size_t keep = r->done * EPOCHS / r->steps + 1;
    if (keep >= had) return 0;
    for (size_t i = 1; i < keep; i++) {
        size_t from = i * (had - 1) / (keep - 1);
        for (int k = 0; k < PLOTS; k++) r->plot[k][i] = r->plot[k][from];
    }
    r->plotted = keep;
    return 0;
}

/* The steps that a mixer has left, or until Ctrl-C. What it learns from d goes into r; it is saved
   on the way and at the end. */
static void learn(mmix_ctx *m, mmix_dino *d, run *r, const settings *o, const pictures *p,
                  int mixer)
{
    mmix_dino_stats s;
    recipe of = recipe_of(o, mixer);
    mmix_memory_peak_clear(m);
    double start = now();
    double said = start, saved = start, before = r->seconds, idle = 0;
    size_t first = r->done;
    while (!mmix_error(m) && !interrupted) {
        /* at the beginning, and after each twentieth */
        if (r->done * EPOCHS >= r->plotted * r->steps) {
            double t = now();
            if (plot(m, mmix_dino_backbone(d, 1), r, p)) break;
            idle += now() - t;
        }
        if (recipe_step(m, &of, d, &p->train, &s) <= 0) break;
        double t = now();
        r->loss[r->done] = s.loss;
        r->entropy[r->done] = s.teacher_entropy;
        r->done++;
        r->seconds = before + t - start - idle;
        if (s.collapse && !*r->collapse)
            fprintf(stderr, "%s, step %zu: %s\n", mixer_name[mixer], r->done, s.collapse);
        snprintf(r->collapse, sizeof r->collapse, "%s", s.collapse ? s.collapse : "");
        if (mmix_memory(m).peak > r->peak) r->peak = mmix_memory(m).peak;
        if (t - saved > SAVE_SECONDS && !save_run(m, d, r, o, mixer)) saved = now();
        if (t - said < line_pause() && r->done < r->steps) continue;
        said = t;
        show_progress(r, o, mixer, &s, (double)(r->done - first) / (t - start));
    }
    if (!mmix_error(m)) save_run(m, d, r, o, mixer);
}

/* One mixer from its start, or from where its file left it, to the end of the plan; evaluated at
   both ends. After Ctrl-C, what it has learned so far is evaluated, unless there is no start to
   set it beside. 0, 1 if it was interrupted (and saved), -1. */
static int train(mmix_ctx *m, run *r, const settings *o, const pictures *p, int mixer)
{
    const char *name = mixer_name[mixer];
    size_t side = look_side(p, &r->config);
    char path[1100];
    r->x = (double *)calloc(3 * r->steps + 1, sizeof *r->x);
    if (!r->x) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu steps", r->steps);
    r->loss = r->x + r->steps;
    r->entropy = r->loss + r->steps;
    for (size_t i = 0; i < r->steps; i++) r->x[i] = (double)i;

    report_say("%s: judging the untrained network", name);
    mmix_dino *d = mmix_dino_create(m, r->config);
    int bad = !d || start_from(d, o) || evaluate(m, mmix_dino_backbone(d, 1), side, p, &r->before);
    if (r->found) {
        mmix_dino_destroy(d);
        d = mmix_dino_load(m, run_file(o->load, mixer, path, sizeof path));
        if (d && read_history(r, mmix_dino_note(d)))
            mmix_fail(m, MMIX_ERROR_FILE, "%s: its history does not fit; start anew without --load",
                      path);
        if (d && !mmix_error(m)) lengthen(d, r);
    }
    if (d) learn(m, d, r, o, p, mixer);
    int stopped = interrupted;
    if (!mmix_error(m) && !bad) {
        interrupted = 0;                                 /* a second Ctrl-C ends the program */
        if (stopped)
            report_say("\n%s: stopped at step %zu of %zu and saved", name, r->done, r->steps);
        report_say("%s: judging what it has learned", name);
        r->judged = !evaluate(m, mmix_dino_backbone(d, 1), side, p, &r->after);
        if (r->judged && r->after.rank < r->before.rank / 2)
            fprintf(stderr, "%s: class tokens have narrowed, from an effective rank of %.1f to "
                            "%.1f\n",
                    name, r->before.rank, r->after.rank);
    }
    mmix_dino_destroy(d);
    if (mmix_error(m)) return -1;
    return stopped || interrupted ? 1 : 0;
}

/* ---- report ---------------------------------------------------------------------------------- */

/* What a step took, and what features are worth: the name in JSON, the head on stdout and in the
   report. */
enum { COST = 8, WORTH = 9 };
static const report_column cost[COST] = {
    {"parameters", "params", "parameters", 8, 0},
    {"mflops", "MFLOP", "MFLOPs a picture", 7, 1},
    {"ms_per_step", "ms/step", "ms a step", 8, 1},
    {"images_per_second", "img/s", "pictures a second", 6, 0},
    {"peak_mib", "MiB", "peak MiB", 5, 0},
    {"steps", "steps", "steps", 6, 0},
    {"loss", "loss", "loss at the end", 6, 3},
    {"entropy", "entropy", "teacher entropy", 8, 3},
};
static const report_column value_of[WORTH] = {
    {"balanced", "balanced", "class token: k‑NN, balanced", 8, 3},
    {"balanced_95", "+-95%", REPORT_95, 5, 3},
    {"knn", "k-NN", "k‑NN, plain", 6, 3},
    {"balanced_mean", "mean", "mean of patches: balanced", 6, 3},
    {"balanced_max", "max", "maximum: balanced", 6, 3},
    {"rank", "rank", "effective rank", 6, 1},
    {"auc", "AUC", "Binary-AUC", 6, 3},
    {"auc_95", "+-95%", REPORT_95, 5, 3},
    {"auc_judged", "maps", "maps judged", 5, 0},
};

static void costs(const run *r, double value[COST])
{
    size_t n = r->done >= EPOCHS ? r->done / EPOCHS : r->done;
    double ms = r->done ? r->seconds / (double)r->done * 1000 : NAN;
    double loss = 0, entropy = 0;
    for (size_t i = r->done - n; i < r->done; i++) {     /* means of the last twentieth */
        loss += r->loss[i] / (double)n;
        entropy += r->entropy[i] / (double)n;
    }
    const double all[COST] = {(double)r->parameters, r->flops / 1e6, ms,
                              (double)r->config.batch * 1000 / ms,
                              (double)r->peak / 1048576, (double)r->done, loss, entropy};
    memcpy(value, all, sizeof all);
}
static void worths(const worth *w, double value[WORTH])
{
    const double all[WORTH] = {w->knn[0].balanced, report_half * w->knn[0].balanced_error,
                               w->knn[0].value, w->knn[READ_MEAN].balanced,
                               w->knn[READ_MAX].balanced, w->rank, maps_auc(&w->auc),
                               report_half * maps_error(&w->auc),
                               w->auc.judged ? (double)w->auc.judged : NAN};
    memcpy(value, all, sizeof all);
}
/* A row of worths of what nobody trained: plain descriptor k, PLAINS: commonest class, or the
   middle. */
static const char *plain_worths(const baselines *b, int k, size_t classes, double value[WORTH])
{
    for (int i = 0; i < WORTH; i++) value[i] = NAN;
    if (k < PLAINS) {
        value[0] = b->plain[k].balanced;
        value[1] = report_half * b->plain[k].balanced_error;
        value[2] = b->plain[k].value;
    } else if (k == PLAINS) {
        value[0] = 1 / (double)classes;
        value[2] = b->commonest;
    } else {
        value[6] = maps_auc(&b->middle);
        value[7] = report_half * maps_error(&b->middle);
        value[8] = (double)b->middle.judged;
    }
    if (k < PLAINS) return plain[k].name;
    return k == PLAINS ? "always the commonest class" : "nearness to the middle";
}
/* The first and the last row of plain_worths that say something. */
static int plain_first(const pictures *p) { return p->classes > 1 ? 0 : PLAINS + 1; }
static int plain_end(const baselines *b) { return PLAINS + 1 + (b->middle.judged > 0); }

static void print_table(const run *r, const pictures *p, const baselines *b)
{
    double value[COST + WORTH];
    char name[64];
    report_columns_text(cost, COST, "mixer", NULL);
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        costs(&r[k], value);
        report_columns_text(cost, COST, mixer_name[k], value);
        if (*r[k].collapse) printf("         %s\n", r[k].collapse);
    }
    printf("\n");
    report_columns_text(value_of, WORTH, "worth                     ", NULL);
    for (int k = 0; k < 2 * MIXERS; k++) {
        if (!r[k / 2].chosen) continue;
        const char *state = k % 2 ? "trained" : "untrained";
        worths(k % 2 ? &r[k / 2].after : &r[k / 2].before, value);
        snprintf(name, sizeof name, "%-9s %-16s", mixer_name[k / 2], state);
        report_columns_text(value_of, WORTH, name, value);
    }
    for (int k = plain_first(p); k < plain_end(b); k++) {
        snprintf(name, sizeof name, "%-26s", plain_worths(b, k, p->classes, value));
        report_columns_text(value_of, WORTH, name, value);
    }
}

static void print_worths(const double value[WORTH], const char *end)
{
    for (int c = 0; c < WORTH; c++)
        report_json(value_of[c].key, value[c], c + 1 < WORTH ? ", " : end);
}
/* What was noted of a network as it learned. */
static void print_curve(const run *r)
{
    static const char *const name[PLOTS] = {"step", "balanced", "rank", "balanced_mean"};
    printf("\"curve\": [");
    for (size_t i = 0; i < r->plotted; i++) {
        printf("%s\n    {", i ? "," : "");
        for (int k = 0; k < PLOTS; k++)
            report_json(name[k], r->plot[k][i], k + 1 < PLOTS ? ", " : "}");
    }
    printf("],\n   ");
}
static void print_json(const run *r, const pictures *p, const baselines *b)
{
    double value[COST + WORTH];
    const char *comma = "";
    printf("{\"train\": %zu, \"test\": %zu, \"classes\": %zu,\n \"plain\": {", p->train.count,
           p->test.count, p->classes);
    for (int k = plain_first(p); k < plain_end(b); k++, comma = ",") {
        printf("%s\n  \"%s\": {", comma, plain_worths(b, k, p->classes, value));
        print_worths(value, "}");
    }
    printf("},\n \"mixers\": [");
    comma = "";
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        costs(&r[k], value);
        printf("%s\n  {\"mixer\": \"%s\", \"model\": \"%s\", ", comma, mixer_name[k],
               model_name[k]);
        for (int c = 0; c < COST; c++) report_json(cost[c].key, value[c], ", ");
        report_json("final_loss", r[k].done ? r[k].loss[r[k].done - 1] : NAN,
                    ",\n   \"before\": {");
        worths(&r[k].before, value);
        print_worths(value, "},\n   \"after\": {");
        worths(&r[k].after, value);
        print_worths(value, "},\n   ");
        print_curve(&r[k]);
        printf("\"collapsed\": %s}", *r[k].collapse ? "true" : "false");
        comma = ",";
    }
    printf("\n ]}\n");
}

/* Whether a score is above (1) or below (-1) another one beyond their errors, or neither (0). */
static int score_differs(const score *a, const score *b)
{
    return report_differ(a->balanced, a->balanced_error, b->balanced, b->balanced_error);
}

/* What class tokens name: the best network beside its own start and beside descriptors that nobody
   has trained, and which networks know less than before. */
static void report_classes_finding(report *h, const run *r, const pictures *p, const baselines *b)
{
    static const char *const than[3] = {"less than", "level with", "more than"};
    static const char *const known[PLAINS] = {"raw pixels", "histograms of colours",
                                              "histograms of edges"};
    int best = -1, better = 0, n = 0, most = PLAIN_EDGES;
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        n++;
        better += score_differs(r[k].after.knn, r[k].before.knn) > 0;
        if (best < 0 || r[k].after.knn->balanced > r[best].after.knn->balanced) best = k;
    }
    for (int k = 0; k < PLAINS; k++)
        if (b->plain[k].balanced > b->plain[most].balanced) most = k;
    const score *token = r[best].after.knn;
    report_html(h, "<p>Without a label %d of %d network%s learned what helps to name a class. The "
                   "best is %s (%s). The class of a test picture, from which no network has "
                   "learned, is named by those training pictures whose class tokens are nearest to "
                   "its own (k-NN). <b>%.1f&nbsp;%%</b> of the names are right (the mean over the "
                   "classes, 95&nbsp;%% interval &plusmn; %.1f). The same network untrained has "
                   "%.1f&nbsp;%%, guessing %.1f&nbsp;%%. ",
                better, n, n > 1 ? "s" : "", mixer_name[best], model_name[best],
                100 * token->balanced, 100 * report_half * token->balanced_error,
                100 * r[best].before.knn->balanced, 100 / (double)p->classes);
    report_html(h, "That is <b>%s</b> what %s name, the best of what nobody has trained: "
                   "%.1f&nbsp;%%.</p>\n",
                than[1 + score_differs(token, &b->plain[most])], known[most],
                100 * b->plain[most].balanced);
    for (int k = 0; k < MIXERS; k++)
        if (r[k].chosen && score_differs(r[k].after.knn, r[k].before.knn) < 0)
            report_html(h, "<p><b>The class tokens of %s have got worse:</b> %.1f&nbsp;%% before "
                           "training, %.1f&nbsp;%% after it.</p>\n",
                        mixer_name[k], 100 * r[k].before.knn->balanced,
                        100 * r[k].after.knn->balanced);
}

/* What the maps of each network are worth beside those of its start, and on which side of them the
   objects are: Binary-AUC alone does not say, for it counts the better side. */
static void report_maps_finding(report *h, const run *r, const baselines *b)
{
    static const char *const than[3] = {"<b>worse</b> than", "level with", "better than"};
    report_html(h, "<p>The maps below show how much each patch resembles the class token. How well "
                   "they tell objects from the background is their Binary-AUC: chance has 0.5, a "
                   "perfect map 1, and nearness to the middle, which looks at no picture, "
                   "%.3f.</p>\n<ul>\n",
                maps_auc(&b->middle));
    for (int k = 0; k < MIXERS; k++) {
        const maps *after = &r[k].after.auc;
        const maps *before = &r[k].before.auc;
        size_t alike = after->alike;
        size_t unlike = after->judged - alike;
        if (!r[k].chosen) continue;
        int change = report_differ(maps_auc(after), maps_error(after), maps_auc(before),
                                   maps_error(before));
        report_html(h, "<li>%s: %s before training, Binary-AUC %.3f then and %.3f now (95&nbsp;%% "
                       "interval &plusmn; %.3f)%s. ",
                    mixer_name[k], than[1 + change], maps_auc(before), maps_auc(after),
                    report_half * maps_error(after),
                    maps_auc(after) < maps_auc(&b->middle) ? ", below nearness to the middle" : "");
        report_html(h, "In %zu of %zu pictures objects are the patches %s like the class token "
                       "(%s).</li>\n",
                    alike > unlike ? alike : unlike, after->judged,
                    alike > unlike ? "most" : "least", alike > unlike ? "yellow" : "violet");
    }
    report_html(h, "</ul>\n");
}

/* What was not learned to the end, and how to go on. */
static void report_stopped(report *h, const settings *o, const run *r)
{
    int left = 0;
    for (int k = 0; k < MIXERS; k++) {
        int missing = (o->mixers >> k & 1) && !r[k].chosen;
        if (missing) report_html(h, "<p><b>%s is not in this report:</b> the run was stopped "
                                    "before it was judged.</p>\n", mixer_name[k]);
        else if (r[k].chosen && r[k].done < r[k].steps)
            report_html(h, "<p><b>%s has made %zu of its %zu steps:</b> the run was stopped.</p>\n",
                        mixer_name[k], r[k].done, r[k].steps);
        left += missing || (r[k].chosen && r[k].done < r[k].steps);
    }
    if (!left) return;
    report_html(h, "<p>To go on: <code>dino --load &quot;");
    report_text(h, o->prefix);
    report_html(h, "&quot; --out &quot;");
    report_text(h, o->out);
    report_html(h, "&quot;</code></p>\n");
}

/* What was learned: on the class token's classes, on its maps, what takes something off them. */
static void report_finding(report *h, const settings *o, const run *r, const pictures *p,
                           const baselines *b)
{
    if (p->classes > 1) report_classes_finding(h, r, p, b);
    if (b->middle.judged) report_maps_finding(h, r, b);
    report_stopped(h, o, r);
    for (int k = 0; k < MIXERS; k++) {
        const char *few = r[k].chosen ? report_few(r[k].done) : NULL;
        if (few) report_html(h, "<p><b>%s, %zu steps: %s</b></p>\n", mixer_name[k], r[k].done, few);
        if (!r[k].chosen || !*r[k].collapse) continue;
        report_html(h, "<p><b>%s has collapsed:</b> ", mixer_name[k]);
        report_text(h, r[k].collapse);
        report_html(h, "</p>\n");
    }
}

static void report_tables(report *h, const run *r, const pictures *p, const baselines *b)
{
    double value[COST + WORTH], before[WORTH];
    char name[100];
    report_html(h, "<h2>What the features are worth</h2>\n");
    report_columns_html(h, value_of, WORTH, "features", NULL, NULL);
    for (int k = 0; k < 2 * MIXERS; k++) {
        if (!r[k / 2].chosen) continue;
        worths(&r[k / 2].before, before);
        worths(k % 2 ? &r[k / 2].after : &r[k / 2].before, value);
        snprintf(name, sizeof name, "%s, %s, %s", model_name[k / 2], mixer_name[k / 2],
                 k % 2 ? "trained" : "untrained");
        report_columns_html(h, value_of, WORTH, name, value, k % 2 ? before : NULL);
    }
    for (int k = plain_first(p); k < plain_end(b); k++) {
        const char *row = plain_worths(b, k, p->classes, value);
        report_columns_html(h, value_of, WORTH, row, value, NULL);
    }
    report_table(h, NULL);
    report_html(h, "<ul class=\"soft\">\n<li>k-NN: the share of the test pictures whose class the "
                   "20 nearest training pictures name (by cosine, temperature 0.07). Pictures are "
                   "compared by the class token, by the mean of the patch tokens or by their "
                   "maximum. Balanced is the mean over the classes of that share.</li>\n"
                   "<li>Behind &plusmn; stands half of the 95&nbsp;%% interval over the pictures, "
                   "1.96 standard errors.</li>\n<li>&#9650; and &#9660; mark what is above or "
                   "below the same network untrained, beyond the 95&nbsp;%% interval of the "
                   "difference.</li>\n<li>Effective rank: how many directions the class tokens of "
                   "all pictures fill.</li>\n<li>Binary-AUC: A is the chance that a patch of the "
                   "object is brighter in the map above than one of the background (the area under "
                   "the ROC curve). The greater of A and 1 &minus; A is taken, so a map may mark "
                   "objects by its dark side, too; the mean is over the test "
                   "pictures.</li>\n</ul>\n"
                   "<h2>What it took</h2>\n");
    report_columns_html(h, cost, COST, "mixer|model", NULL, NULL);
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        costs(&r[k], value);
        snprintf(name, sizeof name, "%s|%s", mixer_name[k], model_name[k]);
        report_columns_html(h, cost, COST, name, value, NULL);
    }
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">Parameters and FLOPs (two for a multiply-add) are the "
                   "backbone's; FLOPs are those of one picture at the size of a global crop. A "
                   "step looks at all crops of a batch, trains the student and moves the teacher. "
                   "The peak is the most memory that the library held. Loss and entropy are means "
                   "of the last twentieth of the steps.</p>\n");
}

/* What nobody has trained and stands beside the curves. */
static const int beside[PLAINS] = {PLAIN_EDGES, PLAIN_PIXELS, PLAIN_COLOURS};
static const char *const beside_name[PLAINS] = {"edges", "raw pixels", "colours"};

static void report_curves(report *h, const run *r, const pictures *p, const baselines *b)
{
    static const int beside_colour[PLAINS] = {4, 5, 3};
    double ends[2] = {0, 0}, level[PLAINS][2];
    char about_knn[460];
    report_plot knn, rank, loss, entropy;
    memset(&loss, 0, sizeof loss);
    loss.x_label = "step";
    knn = rank = entropy = loss;
    loss.level_name = entropy.level_name = "even choice, ln K";
    loss.y_label = "loss";
    loss.caption = "DINO loss: the entropy of the teacher's choice and, on top, how far "
        "the student is from it. It goes up where that entropy does, or where the teacher sharpens "
        "faster than the student follows: a rise alone does not say that the features get worse.";
    entropy.y_label = "entropy, nats";
    entropy.caption = "The teacher sorts pictures among K prototypes. The entropy of its choice is "
                      "ln K where all are equally likely, and near 0 where it is sure.";
    knn.y_label = "share named rightly (k-NN, balanced)";
    snprintf(about_knn, sizeof about_knn, "Class tokens of %zu test pictures, named by the 20 "
             "nearest of %zu training pictures%s. Broken lines: what nobody has trained, on the same "
             "pictures%s.",
             p->test.count < PLOTTED ? p->test.count : PLOTTED,
             p->train.count < PLOTTED ? p->train.count : PLOTTED,
             p->train.count > PLOTTED ? ": fewer than in the table below, so the numbers are lower"
                                      : "",
             r[MMIX_MIXER_SSD].chosen ? "; and of ssd, whose class token has read far patches through "
                                        "its fading state only, the mean of the patches" : "");
    knn.caption = about_knn;
    rank.y_label = "effective rank";
    rank.caption = "How many directions the class tokens of these training pictures fill: near 1 "
                   "pictures differ in one way only.";
    for (int k = 0; k < MIXERS; k++) {
        if (!r[k].chosen) continue;
        report_curve c = {mixer_name[k], r[k].x, r[k].loss, r[k].done, k, 0};
        loss.level = entropy.level = log((double)r[k].config.prototypes);
        loss.curve[loss.curves++] = c;
        c.y = r[k].entropy;
        entropy.curve[entropy.curves++] = c;
        c.x = r[k].plot[PLOT_STEP];
        c.y = r[k].plot[PLOT_TOKEN];
        c.count = r[k].plotted;
        knn.curve[knn.curves++] = c;
        c.y = r[k].plot[PLOT_RANK];
        rank.curve[rank.curves++] = c;
        if (r[k].plotted) ends[1] = fmax(ends[1], c.x[r[k].plotted - 1]);
        if (k != MMIX_MIXER_SSD) continue;
        c.name = "ssd, patches";
        c.y = r[k].plot[PLOT_MEAN];
        c.dashed = 1;
        knn.curve[knn.curves++] = c;
    }
    for (int k = 0; k < PLAINS; k++) {
        report_curve c = {beside_name[k], ends, level[k], 2, beside_colour[k], 1};
        level[k][0] = level[k][1] = b->few[beside[k]].balanced;
        knn.curve[knn.curves++] = c;
    }
    report_html(h, "<h2>Learning</h2>\n<div class=\"row\">\n");
    if (p->classes > 1) report_chart(h, &knn);
    report_chart(h, &rank);
    report_chart(h, &loss);
    report_chart(h, &entropy);
    report_html(h, "</div>\n");
}

/* A mask as a picture: white is object, gray is void. */
static void paint_mask(uint8_t *rgb, const uint8_t *mask, size_t pixels)
{
    for (size_t i = 0; i < 3 * pixels; i++) {
        rgb[i] = mask[i / 3] ? 255 : 0;
        if (mask[i / 3] == 255) rgb[i] = 128;
    }
}

static void report_maps(report *h, const run *r, const pictures *p)
{
    size_t pixels = p->size * p->size;
    size_t map = (size_t)MAP_SIDE * MAP_SIDE * 3;
    uint8_t *rgb = (uint8_t *)malloc(pixels * 3);
    report_html(h, "<h2>Where patches resemble the class token</h2>\n<div class=\"wide\"><table "
                   "class=\"pictures small\"><tr><th>picture</th>%s",
                   p->test.mask ? "<th>mask</th>" : "");
    for (int k = 0; k < MIXERS; k++)
        if (r[k].chosen) report_html(h, "<th>%s,<br>before</th><th>after</th>", mixer_name[k]);
    for (size_t i = 0; rgb && i < SHOWN && i < p->test.count; i++) {
        size_t at = shown(p, i);
        const char *name = p->classes ? p->class_name[p->test.label[at]] : "";
        report_html(h, "</tr>\n<tr><td class=\"soft\">");
        report_picture(h, p->test.rgb + at * pixels * 3, p->size, p->size, 112, name);
        report_text(h, name);
        if (p->test.mask) paint_mask(rgb, p->test.mask + at * pixels, pixels);
        if (p->test.mask) report_html(h, "</td><td>");
        if (p->test.mask) report_picture(h, rgb, p->size, p->size, 112, "mask");
        for (int k = 0; k < 2 * MIXERS; k++) {
            if (!r[k / 2].chosen) continue;
            report_html(h, "</td><td>");
            report_picture(h, (k % 2 ? r[k / 2].after.map : r[k / 2].before.map) + i * map,
                           MAP_SIDE, MAP_SIDE, 112, mixer_name[k / 2]);
        }
    }
    report_html(h, "</td></tr></table></div>\n<p class=\"soft\">These are test pictures, cut "
                   "square and shown to the networks at %d x %d pixels. %sA map is the cosine of "
                   "class token and patch tokens after the final norm, from its least (violet) to "
                   "its greatest (yellow), smoothed between the patches.</p>\n", (int)map_side(p),
                   (int)map_side(p),
                p->test.mask ? "In the mask white is object, gray is void. " : "");
    free(rgb);
}

/* A picture (side, side, 3) as a tile of a sheet `width` tiles wide. */
static void sheet_tile(uint8_t *sheet, size_t width, size_t row, size_t column, const uint8_t *rgb,
                       size_t side)
{
    uint8_t tile[TILE * TILE * 3];
    mmix_picture in = {rgb, side, side};
    mmix_resize_plan r = mmix_resize_plan_box(picture_square(side, side), TILE, TILE);
    size_t stride = width * (TILE + GAP) - GAP;
    if (!picture_resize(tile, in, r))
        for (size_t y = 0; y < TILE; y++)
            memcpy(sheet + 3 * ((row * (TILE + GAP) + y) * stride + column * (TILE + GAP)),
                   tile + y * TILE * 3, TILE * 3);
}

/* A curve of learning.svg, its name behind its end, pushed off the names before it. */
typedef struct learning_axes {
    double left, top, wide, high, steps;
    double taken[MIXERS + 3];                            /* heights of the names that are there */
    int names;
} learning_axes;

static void learning_curve(FILE *f, learning_axes *a, const char *name, const char *pen,
                           const double *x, const double *y, size_t count)
{
    double end_x = a->left, end_y = a->top;
    fprintf(f, "<path fill=\"none\" %s d=\"", pen);
    char move = 'M';
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(y[i])) continue;
        end_x = a->left + a->wide * x[i] / a->steps;
        end_y = a->top + a->high * (1 - y[i]);
        fprintf(f, "%c%.1f %.1f", move, end_x, end_y);
        move = 'L';
    }
    fprintf(f, "\"/>\n");
    for (int i = 0; i < a->names; i++)
        if (fabs(a->taken[i] - end_y) < 16) end_y = a->taken[i] + 16;
    a->taken[a->names++] = end_y;
    svg_text(f, a->left + a->wide + 8, end_y + 5, 0, "start", "%s", name);
}

/* Balanced k-NN against steps, with lines for what nobody has trained: learning.svg. Of Mamba-2
   the mean of the patches, too: its class token has read far ones through a fading state only. */
static void draw_learning(const settings *o, const run *r, const baselines *b)
{
    static const char *const pen[MIXERS] = {
        "stroke=\"#2f6fd0\" stroke-width=\"2.2\"", "stroke=\"#2d8f5a\" stroke-width=\"2.2\"",
        "stroke=\"#c8602a\" stroke-width=\"2.2\"", "stroke=\"#8a4fbf\" stroke-width=\"2.2\""};
    static const char *const label[MIXERS] = {"softmax attention", "linear attention", "Mamba-2",
                                              "Mamba-2, registers"};
    static const char broken[] = "stroke=\"#8a929b\" stroke-width=\"1.6\" stroke-dasharray=\"6 4\"";
    learning_axes a = {62, 44, 440, 300, 1, {0}, 0};
    double ticks[REPORT_TICKS];
    for (int k = 0; k < MIXERS; k++)
        if (r[k].chosen) a.steps = fmax(a.steps, (double)r[k].steps);
    double ends[2] = {0, a.steps};
    FILE *f = svg_open(o->figures, "learning.svg", a.left + a.wide + 150, a.top + a.high + 50, "");
    svg_text(f, 8, 20, 0, "start", "share of test pictures whose class the nearest training "
                                   "pictures name");
    for (int i = 0; i <= 4; i++) {
        double y = a.top + a.high * (1 - i / 4.0);
        fprintf(f, "<path d=\"M%g %.1fh%g\" stroke=\"#dde2e7\"/>\n", a.left, y, a.wide);
        svg_text(f, a.left - 8, y + 5, 13, "end", "%d %%", 25 * i);
    }
    for (int i = 0, n = report_ticks(0, a.steps, 5, 0, ticks); i < n; i++)
        svg_text(f, a.left + a.wide * ticks[i] / a.steps, a.top + a.high + 18, 13, "middle", "%g",
                 ticks[i]);
    svg_text(f, a.left + a.wide / 2, a.top + a.high + 40, 0, "middle", "steps of training");
    for (int k = 0; k < 2; k++) {
        const double level = b->few[beside[k]].balanced;
        const double flat[2] = {level, level};
        learning_curve(f, &a, beside_name[k], broken, ends, flat, 2);
    }
    for (int k = 0; k < MIXERS; k++)
        if (r[k].chosen)
            learning_curve(f, &a, label[k], pen[k], r[k].plot[PLOT_STEP], r[k].plot[PLOT_TOKEN],
                           r[k].plotted);
    if (r[MMIX_MIXER_SSD].chosen)
        learning_curve(f, &a, "Mamba-2, patches",
                       "stroke=\"#c8602a\" stroke-width=\"2.2\" stroke-dasharray=\"2 3\"",
                       r[MMIX_MIXER_SSD].plot[PLOT_STEP], r[MMIX_MIXER_SSD].plot[PLOT_MEAN],
                       r[MMIX_MIXER_SSD].plotted);
    figure_close(f, "</svg>\n");
}

/* Rows of picture, mask, and each network's map before and after. */
static void draw_sheet(const settings *o, const run *r, const pictures *p)
{
    size_t pixels = p->size * p->size;
    size_t width = 1 + (p->test.mask != NULL);
    size_t rows = SHEET_ROWS;
    for (int k = 0; k < MIXERS; k++) width += 2 * (size_t)(r[k].chosen != 0);
    if (rows > p->test.count) rows = p->test.count;
    size_t w = width * (TILE + GAP) - GAP;
    size_t h = rows * (TILE + GAP) - GAP;
    uint8_t *sheet = (uint8_t *)malloc(w * h * 3);
    uint8_t *mask = (uint8_t *)malloc(pixels * 3);
    if (sheet) memset(sheet, 255, w * h * 3);
    for (size_t i = 0; sheet && mask && i < rows; i++) {
        size_t column = 0;
        sheet_tile(sheet, width, i, column++, p->test.rgb + shown(p, i) * pixels * 3, p->size);
        if (p->test.mask) paint_mask(mask, p->test.mask + shown(p, i) * pixels, pixels);
        if (p->test.mask) sheet_tile(sheet, width, i, column++, mask, p->size);
        for (int k = 0; k < 2 * MIXERS; k++) {
            if (!r[k / 2].chosen) continue;
            const uint8_t *map = k % 2 ? r[k / 2].after.map : r[k / 2].before.map;
            sheet_tile(sheet, width, i, column++, map + i * MAP_SIDE * MAP_SIDE * 3, MAP_SIDE);
        }
    }
    if (sheet && mask) figure_png(o->figures, "first-light.png", sheet, w, h);
    free(sheet);
    free(mask);
}

/* Everything, into OUT/report.html. 0, or an exit status. */
static int write_report(mmix_ctx *m, const settings *o, const run *r, const pictures *p,
                        const baselines *b)
{
    report h;
    char path[1100], date[32] = "";
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&t));
    snprintf(path, sizeof path, "%s/report.html", o->out);
    if (report_open(&h, path, "Token mixers learn from pictures without labels"))
        return fail("%s", h.error);
    report_finding(&h, o, r, p, b);
    report_maps(&h, r, p);
    report_curves(&h, r, p, b);
    report_tables(&h, r, p, b);
    report_html(&h, "<h2>How</h2>\n<p class=\"soft\">%zu training and %zu test pictures %s",
                p->train.count, p->test.count, o->images ? "of " : "");
    report_text(&h, o->images ? o->images :
                "drawn by the program: swarms, whose classes differ in shape alone");
    report_html(&h, ", brought to %zu x %zu", p->size, p->size);
    for (size_t c = 0; c < p->classes && c < 12; c++) {
        report_html(&h, c ? ", " : "; classes (for the test alone): ");
        report_text(&h, p->class_name[c]);
    }
    report_html(&h, "%s. %s, seed %" PRIu64 ", %d thread%s, %s",
                p->classes > 12 ? ", &hellip;" : "", date, o->seed, mmix_threads(m),
                mmix_threads(m) > 1 ? "s" : "", mmix_simd_name(m));
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
    report_html(&h, ".</p>\n<details class=\"soft\"><summary>All numbers of the recipes "
                    "(<code>--set list</code> says what they are)</summary>\n");
    for (int k = 0; k < MIXERS; k++) {
        recipe of = recipe_of(o, k);
        if (r[k].chosen) report_html(&h, "<p><code>%s", mixer_name[k]);
        for (size_t i = 1; r[k].chosen && i < RECIPE_NUMBERS; i++)
            report_html(&h, " %s=%g", recipe_number[i].name, *recipe_at(&of, i));
        if (r[k].chosen) report_html(&h, "</code></p>\n");
    }
    report_html(&h, "</details>\n");
    if (report_close(&h)) return fail("%s", h.error);
    if (o->figures) draw_sheet(o, r, p);
    if (o->figures && p->classes > 1) draw_learning(o, r, b);
    fprintf(stderr, "report: %s\n", path);
    return 0;
}

/* ---- main ------------------------------------------------------------------------------------ */

static int work(mmix_ctx *m, settings *o, run *r, pictures *p)       /* an exit status */
{
    char path[1100];
    uint64_t print, old_print = 0;
    baselines plain_ones;
    int bad = o->load ? read_runs(m, o, r, &old_print) : 0;
    if (bad) return bad;
    mmix_seed_set(m, o->seed);
    if (!o->pack && report_ready(o->out, path, sizeof path)) return 2;
    if (!o->pack && report_folders(o->prefix))
        return fail("cannot write %s-*: %s", o->prefix, strerror(errno));
    if (o->figures && report_try(o->figures, "first-light.png", path, sizeof path)) return 2;
    if (o->images) report_say("reading the pictures in %s", o->images);
    else report_say("drawing %zu swarms of %zu x %zu pixels", o->swarms + swarms_test(o->swarms),
                    o->size, o->size);
    if (o->images) bad = pictures_load(p, m, o->images, o->masks, o->size, o->size);
    else bad = draw_swarms(p, m, o);
    if (bad) return fail("%s", *p->error ? p->error : "out of memory for the pictures");
    if (o->pack) {
        if (report_folders(o->pack)) return fail("cannot write %s: %s", o->pack, strerror(errno));
        if (pictures_pack(p, m, o->images, o->pack)) return fail("%s", p->error);
        fprintf(stderr, "packed: %zu and %zu pictures in %s\n", p->train.count, p->test.count,
                o->pack);
        return 0;
    }
    print = pictures_fingerprint(p);
    if (o->load && print != old_print)
        return fail("--load %s: that run began with other pictures; give --images and --masks as "
                    "it had",
                    o->load);
    bad = plan(m, o, r, p);
    if (bad) return bad;
    if (!o->plan) o->plan = plan_text(o, print);
    if (!o->plan) return fail("no memory for a plan");
    if (report_few(o->steps)) report_say("%zu steps: %s", o->steps, report_few(o->steps));
    int left = 0;
    int judged = 0;
    for (int k = 0; k < MIXERS; k++) {
        int end = 0;
        if (r[k].chosen && !left) end = train(m, &r[k], o, p, k);
        if (end < 0) return fail("%s", mmix_error(m));
        left |= end;
        r[k].chosen = r[k].judged;
        judged += r[k].judged;
    }
    if (judged && evaluate_plain(m, p, &plain_ones)) return fail("%s", mmix_error(m));
    if (judged) (o->json ? print_json : print_table)(r, p, &plain_ones);
    bad = judged ? write_report(m, o, r, p, &plain_ones) : 0;
    if (bad) return bad;
    if (left) fprintf(stderr, "\ndino: stopped and saved; go on with --load \"%s\" --out \"%s\"\n",
                      o->prefix, o->out);
    else fprintf(stderr, "to take it further: --load \"%s\" --out \"%s\" --steps %zu\n", o->prefix,
                 o->out, 2 * o->steps);
    return left ? 130 : 0;
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
        free(r[k].before.map);
        free(r[k].after.map);
    }
    pictures_free(&p);
    free(o.plan);
    mmix_destroy(m);
    return status;
}
