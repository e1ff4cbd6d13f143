/* ranks.c - does the rank of a network's M grow with its picture?

       cc -O2 demos/studies/ranks.c -o ranks -lm -lpthread
       ./ranks --load model.safetensors --sizes 224,518 photo.jpg another.jpg
       ./ranks --sizes 96,144,192 docs/tiny/scene.ppm      random weights, to compare with

   M of a head is cut in four. The block beside the diagonal says how the first half of the
   tokens reads the second half; where a mixer looks one way only, how the second reads the
   first. Its singular values σ (mmix_block_rank) tell three things: the numerical rank, how many σ
   stand out of the noise of a float; the effective rank, e to the entropy of their shares (Roy &
   Vetterli 2007), at most the numerical one; and the stable rank, Σσ²/σ₁². The paper's bound
   (arXiv 2511.18380) is the block's side C for softmax attention and the width of keys for linear
   attention.

   What one head gives is a line of OUT. A head whose line is there is not measured again, so that
   the same command goes on where it was stopped: at 1,036 pixels one head takes half a minute.

   Sections: options · one head · a network · table · main. */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "ranks"
#include "../../mamba_mix.h"
#include "pictures.h"
#include "program.h"
#include "report.h"

#define fail report_refuse

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "ranks - does the rank of a network's M grow with its picture?\n\n"
    "  ranks [OPTIONS] PICTURE...      the square in the middle of each\n\n"
    "  --load FILE     weights of a backbone           (random ones of DINO's ViT-S/16)\n"
    "  --seed N        of random weights                                            (1)\n"
    "  --sizes LIST    sides in pixels, such as 224,518,1036; up to 4             (224)\n"
    "  --heads N       so many heads of each block, spread over all; 0: all         (0)\n"
    "  --out FILE      a line for each head that was measured  (build/ranks.txt)\n"
    "  --threads N     (all cores)\n"
    "  --help\n\n"
    "Behind +- stands half of a 95 % interval of the mean over pictures and heads.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

enum { SIZES = 4 };
typedef struct settings {
    const char *load, *out;
    size_t size[SIZES], sizes, heads, threads;
    unsigned long long seed;
    char **picture;
    size_t pictures;
} settings;

static int read_sizes(settings *o, const char *list)     /* 0, or an exit status */
{
    for (o->sizes = 0; *list; o->sizes++) {
        char *end;
        unsigned long size = strtoul(list, &end, 10);
        int is_number = *list >= '0' && *list <= '9' && (*end == ',' || !*end);
        if (!is_number || size < 16 || size > 4096)
            return fail("--sizes %s: give sides of 16 to 4096 pixels, with commas between", list);
        if (o->sizes == SIZES) return fail("--sizes: %d are the most", SIZES);
        o->size[o->sizes] = size;
        list = *end ? end + 1 : end;
    }
    return o->sizes ? 0 : fail("--sizes: give at least one side");
}
/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    memset(o, 0, sizeof *o);
    o->out = "build/ranks.txt";
    o->seed = 1;
    o->size[0] = 224;
    o->sizes = 1;
    int i = 1;
    for (; i < argc && !strncmp(argv[i], "--", 2); i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        unsigned long long number = 0;
        int bad = 0;
        if (!strcmp(name, "--help")) {
            fputs(help, stdout);
            return -1;
        }
        if (!value) return fail("%s: no such option, or it wants a value; --help says", name);
        if (!strcmp(name, "--load")) o->load = value;
        else if (!strcmp(name, "--out")) o->out = value;
        else if (!strcmp(name, "--sizes")) bad = read_sizes(o, value);
        else if (!strcmp(name, "--seed")) bad = report_whole(name, value, 0, ULLONG_MAX, &o->seed);
        else if (!strcmp(name, "--heads")) {
            bad = report_whole(name, value, 0, 1024, &number);
            o->heads = (size_t)number;
        }
        else if (!strcmp(name, "--threads")) {
            bad = report_whole(name, value, 1, 64, &number);
            o->threads = (size_t)number;
        }
        else return fail("%s: no such option; --help lists them all", name);
        if (bad) return bad;
    }
    o->picture = argv + i;
    o->pictures = (size_t)(argc - i);
    return o->pictures ? 0 : fail("give a picture, or several; --help says how");
}

/* ---- one head -------------------------------------------------------------------------------- */

/* What of a head is measured. SIDE: C, of the block. */
enum { SIDE, NUMERICAL, EFFECTIVE, STABLE, RANKS };
/* A head by its place: side and number of the picture, block and head (of a Mamba in two
   directions, the heads of the reverse scan follow those of the forward one). */
typedef struct place { size_t size, picture, block, head; } place;
typedef struct line { place at; double rank[RANKS]; } line;
typedef struct ranks {
    settings *o;
    FILE *out;                                   /* lines are added to it as they are measured */
    line *all;
    size_t count, room;
    mmix_ctx *m;
    const mmix_vision *v;
    place now;                                   /* what the hook looks at */
    size_t calls;                                /* mixers so far, of this picture */
    double began;
    size_t measured;
} ranks;

static const line *find(const ranks *r, place at)
{
    for (size_t i = 0; i < r->count; i++)
        if (!memcmp(&r->all[i].at, &at, sizeof at)) return &r->all[i];
    return NULL;
}
static int add(ranks *r, line new_one)           /* 0, or an exit status */
{
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 256;
        line *more = (line *)realloc(r->all, room * sizeof *more);
        if (!more) return fail("no memory for what is measured");
        r->all = more;
        r->room = room;
    }
    r->all[r->count++] = new_one;
    return 0;
}

/* Measures head `head` of M (1, H, L, L): its block that tells how the first half of the tokens reads
   the second or, if that block is zeros, the one that tells the opposite. */
static void measure(ranks *r, mmix_tensor *M, size_t head, place at)
{
    mmix_ctx *m = r->m;
    size_t L = mmix_shape(M, 2), C = L / 2;
    for (int turned = 0; turned < 2; turned++) {
        size_t row = turned ? L - C : 0, column = turned ? 0 : L - C;
        mmix_rank rank;
        mmix_mark mark = mmix_mark_here(m);
        mmix_tensor *block = mmix_slice(m, M, 1, head, 1);
        block = mmix_slice(m, mmix_slice(m, block, 2, row, C), 3, column, C);
        if (mmix_block_rank(m, block, 0, 0, &rank)) return;
        line found = { at, { (double)C, rank.numerical[0], rank.effective[0], rank.stable[0] } };
        mmix_rewind(m, mark);
        if (found.rank[NUMERICAL] < 1 && !turned) continue;
        if (add(r, found)) return;
        fprintf(r->out, "%zu %zu %zu %zu %g %g %.6g %.6g\n", at.size, at.picture, at.block, at.head,
                found.rank[SIDE], found.rank[NUMERICAL], found.rank[EFFECTIVE], found.rank[STABLE]);
        fflush(r->out);
        r->measured++;
        return;
    }
}
/* Looks at a mixer on its way. */
static void look(void *user, mmix_ctx *m, const mmix_mixer *mixer)
{
    ranks *r = (ranks *)user;
    int is_mamba = mmix_vision_config_of(r->v)->mixer != MMIX_MIXER_SOFTMAX
                && mmix_vision_config_of(r->v)->mixer != MMIX_MIXER_LINEAR;
    size_t call = r->calls++;
    place at = r->now;
    at.block = is_mamba ? call / 2 : call;
    mmix_mark mark = mmix_mark_here(m);
    mmix_mixer x = *mixer;
    x.D = NULL;                                  /* D x passes by: M would have full rank by that */
    mmix_tensor *M = NULL;
    size_t H = mmix_shape(x.v, 2), heads = r->o->heads ? r->o->heads : H;
    for (size_t i = 0; i < heads && i < H && !interrupted; i++) {
        size_t head = picture_spread(i, heads, H);
        at.head = is_mamba && call % 2 ? H + head : head;
        if (find(r, at)) continue;
        if (!M) M = mmix_mix_matrix(m, &x);
        if (M) measure(r, M, head, at);
    }
    mmix_rewind(m, mark);
}

/* ---- a network ------------------------------------------------------------------------------- */

/* A number of what the lines depend on: weights, and names and contents of the pictures. */
static uint64_t print_of(const ranks *r)
{
    uint64_t h = bytes_hash_params(mmix_vision_params(r->v));
    for (size_t i = 0; i < r->o->pictures; i++) {
        const char *path = r->o->picture[i];
        h = bytes_hash(h, path, strlen(path) + 1);
        h = bytes_hash_file(r->m, h, path);
    }
    return h;
}
/* Takes over the lines of a text, of which the first is `head`. A last one without its end was
   broken off: it is cut away. 0, or an exit status. */
static int read_lines(ranks *r, char *text, const char *head)
{
    const char *path = r->o->out;
    char *end = strrchr(text, '\n');
    if (!end && !strncmp(text, head, strlen(text))) end = text;
    else if (end) end++;
    if (end) *end = 0;
    if (!end || (*text && strncmp(text, head, strlen(head))))
        return fail("%s: holds ranks of another network or of other pictures; give another --out",
                    path);
    size_t number = 1;
    for (char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
        line one;
        int n = 0;
        sscanf(at, "%zu %zu %zu %zu %lf %lf %lf %lf%n", &one.at.size, &one.at.picture,
               &one.at.block, &one.at.head, &one.rank[SIDE], &one.rank[NUMERICAL],
               &one.rank[EFFECTIVE], &one.rank[STABLE], &n);
        number++;
        if (!n || at[n] != '\n')
            return fail("%s: line %zu: expected eight numbers; take it out, or give another --out",
                        path, number);
        if (add(r, one)) return 2;
    }
    return 0;
}
/* Reads the file of lines, if it is there, and opens it for more of them. 0, or an exit status. */
static int open_lines(ranks *r)
{
    const char *path = r->o->out;
    char head[40];
    snprintf(head, sizeof head, "ranks %016llx\n", (unsigned long long)print_of(r));
    if (mmix_error(r->m)) return fail("%s", mmix_error(r->m));
    if (report_folders(path)) return fail("%s: cannot be written: %s", path, strerror(errno));
    FILE *old = fopen(path, "rb");
    char *text = old ? bytes_text(r->m, path) : NULL;
    if (old) fclose(old);
    if (old && !text) return fail("%s", mmix_error(r->m));
    int bad = text ? read_lines(r, text, head) : 0;
    if (!bad && report_write(path, text && *text ? text : head))
        bad = fail("%s: cannot be written: %s", path, strerror(errno));
    free(text);
    if (bad) return bad;
    r->out = fopen(path, "ab");
    return r->out ? 0 : fail("%s: %s", path, strerror(errno));
}
/* Takes picture `index` through the network at one size. 0, or an exit status. */
static int run(ranks *r, size_t size, size_t index)
{
    char why[400];
    size_t width, height;
    const char *path = r->o->picture[index];
    uint8_t *rgb = picture_pixels(r->m, path, &width, &height, why, sizeof why);
    if (!rgb) return fail("%s", why);
    mmix_picture in = { rgb, width, height };
    mmix_resize_plan plan = mmix_resize_plan_box(picture_square(width, height), size, size);
    mmix_tensor *image = mmix_image_resized(r->m, in, plan);
    picture_pixels_free(path, rgb);
    r->now.size = size;
    r->now.picture = index;
    r->calls = 0;
    mmix_mix_hook(r->m, look, r);
    mmix_vision_forward(r->m, r->v, image, NULL);
    mmix_mix_hook(r->m, NULL, NULL);
    mmix_reset(r->m);
    if (interrupted || mmix_error(r->m)) return 0;
    report_say("%s at %zu pixels: %zu heads measured in %.0f s", path, size, r->measured,
               now() - r->began);
    return 0;
}

/* ---- table ----------------------------------------------------------------------------------- */

typedef struct mean { double value, interval; size_t n; } mean;
/* The mean of one rank over the lines of a size; of a block, or of all if block is SIZE_MAX. */
static mean mean_of(const ranks *r, size_t size, size_t block, int which)
{
    mean a = { 0, 0, 0 };
    double squares = 0;
    for (size_t i = 0; i < r->count; i++) {
        const line *l = &r->all[i];
        if (l->at.size != size || (block != SIZE_MAX && l->at.block != block)) continue;
        a.value += l->rank[which];
        squares += l->rank[which] * l->rank[which];
        a.n++;
    }
    if (!a.n) return a;
    a.value /= (double)a.n;
    double variance = squares / (double)a.n - a.value * a.value;
    if (a.n > 1) a.interval = 1.96 * sqrt(fmax(variance, 0) / (double)(a.n - 1));
    return a;
}
static void print_row(const ranks *r, const char *name, size_t block)
{
    printf("%-6s", name);
    for (size_t i = 0; i < r->o->sizes; i++) {
        mean rank[RANKS];
        for (int k = 0; k < RANKS; k++) rank[k] = mean_of(r, r->o->size[i], block, k);
        if (!rank[SIDE].n) printf(" %40s", "not measured");
        else
            printf(" %10.0f %10.1f +- %5.1f %9.1f", rank[NUMERICAL].value, rank[EFFECTIVE].value,
                   rank[EFFECTIVE].interval, rank[STABLE].value);
    }
    putchar('\n');
}
static void print_table(const ranks *r)
{
    char name[24];
    printf("      ");
    for (size_t i = 0; i < r->o->sizes; i++) {
        mean side = mean_of(r, r->o->size[i], SIZE_MAX, SIDE);
        snprintf(name, sizeof name, "%zu pixels, C %.0f", r->o->size[i], side.value);
        printf(" %40s", name);
    }
    printf("\nblock ");
    for (size_t i = 0; i < r->o->sizes; i++)
        printf(" %10s %19s %9s", "numerical", "effective", "stable");
    putchar('\n');
    for (size_t block = 0; block < mmix_vision_config_of(r->v)->depth; block++) {
        snprintf(name, sizeof name, "%zu", block + 1);
        print_row(r, name, block);
    }
    print_row(r, "all", SIZE_MAX);
}

/* ---- main ------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    settings o;
    ranks r;
    mmix_options options;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    memset(&r, 0, sizeof r);
    memset(&options, 0, sizeof options);
    options.threads = (int)o.threads;
    options.seed = o.seed;
    mmix_ctx *m = mmix_create(&options);
    mmix_vision *v = NULL;
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    if (o.load) v = mmix_vision_load(m, o.load);
    else v = mmix_vision_create(m, mmix_vision_config_vit(384, 16));
    r.o = &o;
    r.m = m;
    r.v = v;
    r.began = now();
    if (!v) status = fail("%s", mmix_error(m));
    else status = open_lines(&r);
    for (size_t i = 0; i < o.sizes * o.pictures && !status && !interrupted; i++) {
        status = run(&r, o.size[i / o.pictures], i % o.pictures);
        if (!status && mmix_error(m)) status = fail("%s", mmix_error(m));
    }
    if (r.out && ferror(r.out) && !status) status = fail("%s: cannot be written", o.out);
    if (r.out) fclose(r.out);
    if (!status) print_table(&r);
    if (!status && interrupted) status = 130;
    free(r.all);
    mmix_vision_destroy(v);
    mmix_destroy(m);
    return status;
}
