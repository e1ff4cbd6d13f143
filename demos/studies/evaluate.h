/* evaluate.h - what frozen features of pictures are worth, and what plain descriptors of the
   same pictures are

   Features are rows of numbers, one row (or one grid of them) for each picture, with a class or
   a mask:

       score s;
       voters v = {trains, train, tests, test};          // numbers of the pictures on either side
       // the 20 nearest vote, a linear head by SGD; mmix_error(m) says why not
       if (evaluate_knn(m, x, D, D, &v, label, classes, 20, &s)) …
       if (evaluate_probe(m, x, D, D, &v, label, classes, &s)) …
       printf("%.3f +- %.3f\n", s.value, s.error);

   A measure without a baseline says little, so there are three descriptors that nobody has
   trained: raw pixels, a histogram of colours, histograms of edges. They go the same way as
   features do. Dense features lie in a file (`store`) from which heads stream them, so that
   memory does not grow with the number of pictures.

   Two networks that were judged on the same pictures are compared picture by picture:

       verdicts one, other;                              // filled by evaluate_…, or verdicts_…
       // by how much `one` is better, and the 95 % interval of that, over the pictures
       if (evaluate_pair(m, &one, &other, 0, &c)) …
       printf("%+.3f (%+.3f to %+.3f)\n", c.off, c.low, c.high);

   Sections: progress · plain descriptors · rows in a file · pairs · classes · maps ·
   segmentation.
   Include mamba_mix.h, pictures.h and program.h before this. */
#ifndef EVALUATE_H
#define EVALUATE_H

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#define evaluate_seek(f, at) _fseeki64(f, (long long)(at), SEEK_SET)
#else
#include <sys/types.h>
#define evaluate_seek(f, at) fseeko(f, (off_t)(at), SEEK_SET)
#endif

/* ---- progress -------------------------------------------------------------------------------- */

/* A line on stderr with rate and time left: twice a second on a screen, where it is written
   over, else every 5 seconds. */
typedef struct progress {
    const char *name, *what;  /* of what; "reading", "segmentation head" */
    size_t all, done;
    double start, said;
} progress;

static inline progress progress_of(const char *name, const char *what, size_t all)
{
    progress p = {name, what, all, 0, 0, 0};
    p.start = p.said = now();
    return p;
}
static inline void progress_add(progress *p, size_t n)
{
    double t = now();
    int screen = on_screen();
    p->done += n;
    if (t - p->said < line_pause() && p->done < p->all) return;
    p->said = t;
    double rate = (double)p->done / fmax(t - p->start, 1e-6);
    size_t left = p->done < p->all ? (size_t)((double)(p->all - p->done) / rate) : 0;
    fprintf(stderr, "%-16s %s: %zu of %zu pictures  %.1f/s  %zu:%02zu left  %s", p->name, p->what,
            p->done, p->all, rate, left / 60, left % 60, screen && p->done < p->all ? "\r" : "\n");
}

/* ---- plain descriptors ----------------------------------------------------------------------- */

enum { PLAIN_PIXELS, PLAIN_COLOURS, PLAIN_EDGES, PLAINS };
enum { PLAIN_SIDE = 16, PLAIN_LEVELS = 8, PLAIN_CELLS = 8, PLAIN_TURNS = 8 };
static const struct {
    const char *name;
    size_t dim;
} plain[PLAINS] = {
    {"raw 16 x 16 pixels", PLAIN_SIDE * PLAIN_SIDE * 3},
    {"histogram of colours", PLAIN_LEVELS * PLAIN_LEVELS * PLAIN_LEVELS},
    {"histograms of edges", PLAIN_CELLS * PLAIN_CELLS * PLAIN_TURNS},
};

/* Joint histogram of 8 levels of red, green and blue: square roots of shares, so that a cosine
   of two pictures is Bhattacharyya's coefficient. */
static inline void plain_colours(mmix_picture p, mmix_real *out)
{
    size_t n = p.width * p.height;
    memset(out, 0, plain[PLAIN_COLOURS].dim * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *c = p.rgb + 3 * i;
        size_t cell = 0;
        for (int k = 0; k < 3; k++) cell = cell * PLAIN_LEVELS + (c[k] >> 5);
        out[cell] += 1;
    }
    for (size_t k = 0; k < plain[PLAIN_COLOURS].dim; k++)
        out[k] = (mmix_real)sqrt((double)out[k] / (double)n);
}

/* How much lighter one pixel is than another. */
static inline double plain_lighter(const uint8_t *one, const uint8_t *other)
{
    int red = one[0] - other[0];
    int green = one[1] - other[1];
    int blue = one[2] - other[2];
    return 0.299 * red + 0.587 * green + 0.114 * blue;
}

/* Directions of edges, of 8 x 8 cells, after HOG (Dalal & Triggs 2005): each pixel gives the
   length of its gradient to the two nearest of 8 directions (light against dark or dark against
   light is one). Square roots, less their mean, vote better than the sums, and those better than
   cells of length 1. */
static inline void plain_edges(mmix_picture p, mmix_real *out)
{
    const double pi = 3.14159265358979323846;
    memset(out, 0, plain[PLAIN_EDGES].dim * sizeof *out);
    for (size_t y = 1; y + 1 < p.height; y++)
        for (size_t x = 1; x + 1 < p.width; x++) {
            const uint8_t *c = p.rgb + 3 * (y * p.width + x);
            size_t down = 3 * p.width;
            double dx = plain_lighter(c + 3, c - 3);
            double dy = plain_lighter(c + down, c - down);
            double turn = atan2(dy, dx) / pi * PLAIN_TURNS;
            double length = sqrt(dx * dx + dy * dy);
            while (turn < 0) turn += PLAIN_TURNS;
            size_t low = (size_t)turn % PLAIN_TURNS;
            double share = turn - floor(turn);
            size_t row = y * PLAIN_CELLS / p.height;
            size_t col = x * PLAIN_CELLS / p.width;
            mmix_real *cell = out + (row * PLAIN_CELLS + col) * PLAIN_TURNS;
            cell[low] += (mmix_real)(length * (1 - share));
            cell[(low + 1) % PLAIN_TURNS] += (mmix_real)(length * share);
        }
    double mean = 0;
    size_t D = plain[PLAIN_EDGES].dim;
    for (size_t k = 0; k < D; k++) mean += sqrt((double)out[k]) / (double)D;
    for (size_t k = 0; k < D; k++) out[k] = (mmix_real)(sqrt((double)out[k]) - mean);
}

/* A picture's descriptor, plain[kind].dim numbers; may run in a task. 0, or -1 without memory. */
static inline int plain_describe(int kind, mmix_picture p, mmix_real *out)
{
    mmix_box all = {0, 0, 0, 0};
    uint8_t rgb[PLAIN_SIDE * PLAIN_SIDE * 3];
    mmix_picture tiny = {rgb, PLAIN_SIDE, PLAIN_SIDE};
    all.height = p.height;
    all.width = p.width;
    if (kind == PLAIN_COLOURS) {
        plain_colours(p, out);
        return 0;
    }
    if (kind == PLAIN_EDGES) {
        plain_edges(p, out);
        return 0;
    }
    mmix_resize_plan r = mmix_resize_plan_box(all, PLAIN_SIDE, PLAIN_SIDE);
    return picture_resize(rgb, p, r) ? -1 : mmix_picture_normalize(out, tiny, NULL, NULL);
}

/* ---- rows in a file -------------------------------------------------------------------------- */

/* Rows of bytes, appended and then read anywhere. Under a draft's name until store_keep gives it
   its own. */
typedef struct store {
    FILE *file;
    char path[1200], draft[1210];
    size_t row, count, head;  /* bytes of a row; rows; bytes before the first */
    int writing;
} store;

static inline int store_fail(mmix_ctx *m, const store *s)
{
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be written or read back: %s", s->draft,
                     strerror(errno));
}
/* head: bytes to leave free for a header. 0, or -1. */
static inline int store_open(mmix_ctx *m, store *s, const char *path, size_t row, size_t head)
{
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->draft, sizeof s->draft, "%s.tmp", s->path);
    s->row = row;
    s->head = head;
    s->file = fopen(s->draft, "w+b");
    for (size_t i = 0; s->file && i < head; i++) fputc(' ', s->file);
    s->writing = 1;
    return s->file ? 0 : store_fail(m, s);
}
static inline int store_add(mmix_ctx *m, store *s, const void *rows, size_t n)
{
    if (!s->writing && evaluate_seek(s->file, s->head + s->count * s->row)) return store_fail(m, s);
    s->writing = 1;
    if (fwrite(rows, s->row, n, s->file) != n) return store_fail(m, s);
    s->count += n;
    return 0;
}
static inline int store_read(mmix_ctx *m, store *s, size_t at, size_t n, void *rows)
{
    s->writing = 0;
    if (evaluate_seek(s->file, s->head + at * s->row) || fread(rows, s->row, n, s->file) != n)
        return store_fail(m, s);
    return 0;
}
static inline void store_drop(store *s)  /* closes and removes it; does nothing twice */
{
    if (!s->file) return;
    fclose(s->file);
    s->file = NULL;
    remove(s->draft);
}

enum { NPY_HEAD = 128 };
/* A store of mmix_real, opened with NPY_HEAD, becomes a .npy file of shape (a, b, D), or (a, D)
   if b is 0. */
static inline int store_keep_npy(mmix_ctx *m, store *s, size_t a, size_t b, size_t D)
{
    char head[NPY_HEAD + 1], shape[80];
    const uint16_t one = 1;
    if (b) snprintf(shape, sizeof shape, "%zu, %zu, %zu", a, b, D);
    else snprintf(shape, sizeof shape, "%zu, %zu", a, D);
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);       /* 0x76 = 118 bytes of text follow */
    int n = snprintf(head + 10, NPY_HEAD - 10,
                     "{'descr': '%cf%zu', 'fortran_order': False, 'shape': (%s), }",
                     *(const unsigned char *)&one ? '<' : '>', sizeof(mmix_real), shape);
    head[10 + n] = ' ';
    head[NPY_HEAD - 1] = '\n';
    int bad = evaluate_seek(s->file, 0) || fwrite(head, 1, NPY_HEAD, s->file) != NPY_HEAD;
    bad |= fclose(s->file) != 0;
    s->file = NULL;
#ifdef _WIN32
    if (!bad) remove(s->path);                           /* rename does not replace there */
#endif
    if (!bad) bad = rename(s->draft, s->path) != 0;
    if (!bad) return 0;
    store_fail(m, s);
    remove(s->draft);
    return -1;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* What a score is made of, picture by picture: the mean over its parts of Σ right / Σ of, the sums
   over the pictures. Of named classes a picture has one entry: its class, whether it was named
   rightly, and 1. Of maps it has one, too: 0, its Binary-AUC and 1. Of mIoU it has one for each
   class, what prediction and mask have in common and what they cover together. */
typedef struct verdict {
    size_t part;
    double right, of;
} verdict;
typedef struct verdicts {
    size_t pictures, each, parts;
    verdict *at;                             /* (pictures, each); NULL: nothing was judged */
} verdicts;

/* 0, or -1; at is to be freed in any case. */
static inline int verdicts_begin(mmix_ctx *m, verdicts *j, size_t count, size_t each,
                                 size_t parts)
{
    j->pictures = count;
    j->each = each;
    j->parts = parts;
    j->at = (verdict *)calloc(count * each + 1, sizeof *j->at);
    return j->at ? 0 : mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for what was judged");
}
static inline void verdicts_free(verdicts *j)
{
    free(j->at);
    j->at = NULL;
}

/* The score when picture i counts times[i] times. pooled: all parts are one. sum: (2 parts). */
static inline double verdicts_score(const verdicts *j, const unsigned *times, int pooled,
                                    double *sum)
{
    double mean = 0, there = 0;
    for (size_t k = 0; k < 2 * j->parts; k++) sum[k] = 0;
    for (size_t i = 0; i < j->pictures * j->each; i++) {
        const verdict *x = &j->at[i];
        double n = times[i / j->each];
        size_t part = pooled ? 0 : x->part;
        sum[2 * part] += n * x->right;
        sum[2 * part + 1] += n * x->of;
    }
    for (size_t k = 0; k < j->parts; k++) {
        if (!(sum[2 * k + 1] > 0)) continue;
        mean += sum[2 * k] / sum[2 * k + 1];
        there++;
    }
    return mean / there;
}

/* A difference and its 95 % interval; NAN: there is none. */
typedef struct gap {
    double off, low, high;
} gap;
static const gap no_gap = {NAN, NAN, NAN};

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { PAIR_DRAWS = 2000 };
/* By how much a's score is above b's on the same pictures. The interval is a bootstrap's (Efron
   1979): as many pictures as there are are drawn with replacement, the same for both, 2,000 times,
   and 95 % of the differences lie in it. What is hard for both so falls away, and intervals are
   narrower than those of two scores by themselves. 0, or -1. */
static inline int evaluate_pair(mmix_ctx *m, const verdicts *a, const verdicts *b, int pooled,
                                gap *c)
{
    enum { DRAW = 903 };  /* a purpose of its own for mmix_random_uniform */
    size_t n = a->pictures;
    size_t parts = a->parts > b->parts ? a->parts : b->parts;
    *c = no_gap;
    if (!a->at || !b->at || n != b->pictures || n < 2) return 0;
    double *off = (double *)malloc(PAIR_DRAWS * sizeof *off);
    double *sum = (double *)malloc(2 * parts * sizeof *sum + 1);
    unsigned *times = (unsigned *)calloc(n, sizeof *times);
    int bad = off && sum && times ? 0 : mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a pair");
    for (size_t draw = 0; draw <= PAIR_DRAWS && !bad; draw++) {
        for (size_t i = 0; i < n; i++) times[i] = draw == PAIR_DRAWS;
        for (size_t i = 0; i < n && draw < PAIR_DRAWS; i++)
            times[(size_t)(mmix_random_uniform(m, DRAW, draw, i) * (double)n)]++;
        double x = verdicts_score(a, times, pooled, sum) - verdicts_score(b, times, pooled, sum);
        if (draw < PAIR_DRAWS) off[draw] = x;
        else c->off = x;
    }
    if (!bad) {
        qsort(off, PAIR_DRAWS, sizeof *off, by_value);
        c->low = off[PAIR_DRAWS / 40 - 1];
        c->high = off[PAIR_DRAWS - PAIR_DRAWS / 40];
    }
    free(off);
    free(sum);
    free(times);
    return bad;
}

/* Whether the interval lies above 0 (1), below it (-1), or holds it (0). */
static inline int gap_sign(const gap *c)
{
    if (c->low > 0) return 1;
    return c->high < 0 ? -1 : 0;
}

/* ---- classes --------------------------------------------------------------------------------- */

typedef struct score {
    /* a share, or mIoU; one standard error of each */
    double value, error, balanced, balanced_error;
    size_t tests;
} score;
typedef struct voters {  /* numbers of pictures; trains 0: leave one out */
    size_t trains, *train, tests, *test;
} voters;

/* Rows at[0 … n-1] of D of x, `stride` apart, and their labels as tensors. */
static inline mmix_tensor *rows_of(mmix_ctx *m, const mmix_real *x, size_t stride, size_t D,
                                   const size_t *at, size_t n)
{
    mmix_tensor *t = mmix_new2(m, n, D);
    for (size_t i = 0; t && i < n; i++)
        memcpy(mmix_data(t) + i * D, x + at[i] * stride, D * sizeof *x);
    return t;
}
static inline mmix_tensor *labels_of(mmix_ctx *m, const int32_t *label, const size_t *at, size_t n)
{
    mmix_tensor *t = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
    for (size_t i = 0; t && i < n; i++) mmix_data_i32(t)[i] = label[at[i]];
    return t;
}

/* Binomial: of all tests, and of the mean of the classes' shares. */
static inline score score_of(const mmix_miou_count *count, size_t classes)
{
    score s = {0, 0, 0, 0, 0};
    double right = 0, tested = 0;
    for (size_t c = 0; c < classes; c++) {
        double n = (double)count[c].label;
        double p = n > 0 ? (double)count[c].both / n : 0;
        right += (double)count[c].both;
        tested += n > 0;
        s.tests += count[c].label;
        s.balanced += p;
        if (n > 0) s.balanced_error += p * (1 - p) / n;
    }
    s.value = right / (double)s.tests;
    s.error = sqrt(s.value * (1 - s.value) / (double)s.tests);
    s.balanced /= tested;
    s.balanced_error = sqrt(s.balanced_error) / tested;
    return s;
}

/* Of what is said of the test pictures. 0, or -1. */
static inline int score_said(mmix_ctx *m, const voters *v, const int32_t *label,
                             const int32_t *said, size_t classes, score *s)
{
    mmix_miou_count *count = (mmix_miou_count *)calloc(classes, sizeof *count);
    if (!count) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a vote");
    for (size_t i = 0; i < v->tests; i++) {
        int32_t truth = label[v->test[i]];
        count[truth].label++;
        count[truth].both += said[i] == truth;
    }
    *s = score_of(count, classes);
    free(count);
    return 0;
}

/* The same for a pair; j NULL: it is not wanted. 0, or -1. */
static inline int verdicts_said(mmix_ctx *m, verdicts *j, const voters *v, const int32_t *label,
                              const int32_t *said, size_t classes)
{
    if (!j) return 0;
    if (verdicts_begin(m, j, v->tests, 1, classes)) return -1;
    for (size_t i = 0; i < v->tests; i++) {
        int32_t truth = label[v->test[i]];
        verdict x = {(size_t)truth, said[i] == truth, 1};
        j->at[i] = x;
    }
    return 0;
}

/* The vote of the k (0: 20) nearest, of vectors x (…, D), `stride` apart; j, which may be NULL, is
   for a pair. 0, or -1. */
static inline int evaluate_knn_judged(mmix_ctx *m, const mmix_real *x, size_t stride, size_t D,
                                      const voters *v, const int32_t *label, size_t classes,
                                      size_t k, score *s, verdicts *j)
{
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *test = rows_of(m, x, stride, D, v->test, v->tests);
    mmix_tensor *is = labels_of(m, label, v->test, v->tests);
    mmix_knn_result r;
    int bad = v->trains
        ? mmix_knn(m, rows_of(m, x, stride, D, v->train, v->trains),
                   labels_of(m, label, v->train, v->trains), test, is, classes, k, 0, &r)
        : mmix_knn(m, test, is, NULL, NULL, classes, k, 0, &r);
    bad = bad || score_said(m, v, label, r.pred, classes, s) ||
          verdicts_said(m, j, v, label, r.pred, classes);
    mmix_rewind(m, mark);
    return bad ? -1 : 0;
}
static inline int evaluate_knn(mmix_ctx *m, const mmix_real *x, size_t stride, size_t D,
                               const voters *v, const int32_t *label, size_t classes, size_t k,
                               score *s)
{
    return evaluate_knn_judged(m, x, stride, D, v, label, classes, k, s, NULL);
}

/* What brings features to mean 0 and deviation 1, as the batch norm in front of MAE's probe
   does: then one grid of rates serves features of any scale. Of deviations below a tenth of all
   features' that is taken. */
typedef struct standard {
    size_t D, rows;
    double *mean, *scale;
} standard;

static inline int standard_begin(mmix_ctx *m, standard *s, size_t D)
{
    s->D = D;
    s->rows = 0;
    s->mean = (double *)calloc(2 * D, sizeof *s->mean);
    s->scale = s->mean ? s->mean + D : NULL;
    return s->mean ? 0 : mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for %zu means", D);
}
static inline void standard_add(standard *s, const mmix_real *row)
{
    s->rows++;
    for (size_t d = 0; d < s->D; d++) {                  /* Welford's */
        double off = (double)row[d] - s->mean[d];
        s->mean[d] += off / (double)s->rows;
        s->scale[d] += off * ((double)row[d] - s->mean[d]);
    }
}
static inline void standard_end(standard *s)  /* scale: from sums of squares to 1/deviation */
{
    double all = 0;
    for (size_t d = 0; d < s->D; d++) {
        s->scale[d] /= (double)s->rows;
        all += s->scale[d];
    }
    all = sqrt(all / (double)s->D);
    for (size_t d = 0; d < s->D; d++)
        s->scale[d] = all > 0 ? 1 / fmax(sqrt(s->scale[d]), 0.1 * all) : 0;
}
static inline void standard_apply(const standard *s, mmix_real *row)
{
    for (size_t d = 0; d < s->D; d++)
        row[d] = (mmix_real)(((double)row[d] - s->mean[d]) * s->scale[d]);
}

typedef struct vector_source {
    const mmix_real *x;
    size_t stride;
    const size_t *at;
    const int32_t *label;
    const standard *s;
} vector_source;
static inline int vector_read(void *user, const size_t *rows, size_t n, mmix_real *x,
                              int32_t *label)
{
    const vector_source *v = (const vector_source *)user;
    size_t D = v->s->D;
    for (size_t i = 0; i < n; i++) {
        memcpy(x + i * D, v->x + v->at[rows[i]] * v->stride, D * sizeof *x);
        standard_apply(v->s, x + i * D);
        label[i] = v->label[v->at[rows[i]]];
    }
    return interrupted;
}

/* A linear head that was learned, and what brings rows to the scale it knows. Its tensors are
   step memory. */
typedef struct probe {
    standard scale;
    mmix_probe_result learned;
    size_t classes;
} probe;

static const double probe_rate[] = {0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
enum { PROBE_RATES = sizeof probe_rate / sizeof *probe_rate };

/* On vectors x (…, D), `stride` apart, by SGD with weight decay; of several rates one is chosen
   on a tenth of the train pictures. 0, or -1; p->scale.mean is to be freed in any case. */
static inline int probe_learn(mmix_ctx *m, probe *p, const mmix_real *x, size_t stride, size_t D,
                              const voters *v, const int32_t *label, size_t classes,
                              const double *rate, size_t rates, double decay)
{
    mmix_probe_config o = mmix_probe_config_default();
    if (standard_begin(m, &p->scale, D)) return -1;
    for (size_t i = 0; i < v->trains; i++) standard_add(&p->scale, x + v->train[i] * stride);
    standard_end(&p->scale);
    vector_source rows = {x, stride, v->train, label, &p->scale};
    mmix_source from = {v->trains, D, 1, 1, 1, 1, vector_read, &rows};
    o.classes = p->classes = classes;
    o.batch = 64;
    o.epochs = v->trains < 1000 ? 100 : 40;
    o.weight_decay = decay;
    o.rates = rates;
    memcpy(o.rate, rate, rates * sizeof *rate);
    return mmix_linear_probe(m, &o, &from, NULL, &p->learned);
}
/* The classes it gives to the test pictures' rows, of these vectors or of others, in `said`
   (tests). 0, or -1. */
static inline int probe_say(mmix_ctx *m, const probe *p, const mmix_real *x, size_t stride,
                            const voters *v, int32_t *said)
{
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *rows = rows_of(m, x, stride, p->scale.D, v->test, v->tests);
    for (size_t i = 0; rows && i < v->tests; i++)
        standard_apply(&p->scale, mmix_data(rows) + i * p->scale.D);
    mmix_tensor *z = mmix_linear(m, rows, p->learned.weight, p->learned.bias);
    for (size_t i = 0; z && i < v->tests; i++) {
        const mmix_real *at = mmix_data(z) + i * p->classes;
        said[i] = 0;
        for (size_t c = 1; c < p->classes; c++) if (at[c] > at[said[i]]) said[i] = (int32_t)c;
    }
    mmix_rewind(m, mark);
    return z ? 0 : -1;
}

/* Both; j, which may be NULL, is for a pair. 0, or -1. */
static inline int evaluate_probe(mmix_ctx *m, const mmix_real *x, size_t stride, size_t D,
                                 const voters *v, const int32_t *label, size_t classes, score *s,
                                 verdicts *j)
{
    mmix_mark mark = mmix_mark_here(m);
    probe p;
    int32_t *said = (int32_t *)malloc(v->tests * sizeof *said + 1);
    int bad = said ? 0 : mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a probe");
    p.scale.mean = NULL;
    bad = bad || probe_learn(m, &p, x, stride, D, v, label, classes, probe_rate, PROBE_RATES, 0) ||
          probe_say(m, &p, x, stride, v, said) || score_said(m, v, label, said, classes, s) ||
          verdicts_said(m, j, v, label, said, classes);
    free(p.scale.mean);
    free(said);
    mmix_rewind(m, mark);
    return bad ? -1 : 0;
}

/* ---- maps ------------------------------------------------------------------------------------ */

/* What maps of pictures say about their masks. */
enum { ROC_POINTS = 101 };
typedef struct maps {
    double sum, square, roc[ROC_POINTS];  /* of Binary-AUC; curves, over `judged` pictures */
    size_t judged, every;  /* every so many pictures are, 0: none (learn.h) */
    size_t alike;  /* those whose objects resemble what the map asks for */
    /* NULL, or room for the Binary-AUC of each judged picture, in their order, for a pair */
    double *each;
} maps;
static inline double maps_auc(const maps *s) { return s->judged ? s->sum / (double)s->judged :
                                              NAN; }
static inline double maps_error(const maps *s)
{
    double n = (double)s->judged;
    double mean = s->sum / n;
    return s->judged > 1 ? sqrt(fmax(s->square / n - mean * mean, 0) / (n - 1)) : NAN;
}

/* Adds the Binary-AUC of a map (h, w) and a mask (h, w: 0 background, 255 void); it is in *auc,
   too, unless that is NULL. The mask as a tensor (1, h, w); NULL if it is of one kind, which
   says nothing, or on error. */
static inline mmix_tensor *maps_judge(mmix_ctx *m, maps *s, const mmix_real *map,
                                      const uint8_t *mask, size_t h, size_t w, mmix_auc *auc)
{
    const size_t shape[3] = {1, h, w};
    mmix_tensor *label = mmix_new(m, MMIX_DTYPE_I32, 3, shape);
    mmix_auc_options options;
    mmix_auc own;
    size_t kinds[2] = {0, 0};
    memset(&options, 0, sizeof options);
    options.void_label = 255;
    if (!auc) auc = &own;
    for (size_t i = 0; label && i < h * w; i++) {
        mmix_data_i32(label)[i] = mask[i];
        if (mask[i] != 255) kinds[mask[i] != 0]++;
    }
    if (!kinds[0] || !kinds[1] || mmix_binary_auc(m, &options, mmix_from(m, 3, shape, map), label,
                                                  auc)) return NULL;
    if (s->each) s->each[s->judged] = auc->auc;
    s->sum += auc->auc;
    s->square += auc->auc * auc->auc;
    s->judged++;
    if (auc->auc_raw[0] > 0.5) s->alike++;               /* auc itself is that of the better side */
    mmix_roc_add(s->roc, ROC_POINTS, auc);
    return label;
}

/* The maps for a pair, if `each` was kept. 0, or -1. */
static inline int verdicts_maps(mmix_ctx *m, verdicts *j, const maps *s)
{
    if (!s->each || !s->judged) return 0;
    if (verdicts_begin(m, j, s->judged, 1, 1)) return -1;
    for (size_t i = 0; i < s->judged; i++) {
        verdict x = {0, s->each[i], 1};
        j->at[i] = x;
    }
    return 0;
}

/* How near each pixel (h, w) is to the middle: a map that has looked at no picture. NULL on
   error. */
static inline mmix_tensor *maps_middle(mmix_ctx *m, size_t h, size_t w)
{
    mmix_tensor *map = mmix_new2(m, h, w);
    for (size_t i = 0; map && i < h * w; i++) {
        double x = (double)(2 * (i % w) + 1) / (double)w - 1;
        double y = (double)(2 * (i / w) + 1) / (double)h - 1;
        mmix_data(map)[i] = (mmix_real)(1 - sqrt((x * x + y * y) / 2));
    }
    return map;
}

/* ---- segmentation ---------------------------------------------------------------------------- */

/* Dense features and masks of pictures, in files: picture i has `cells` rows of D in tokens[0]
   if it is one of the first `split`, else in tokens[1]; w x h labels in `labels`, 255 void. */
typedef struct dense_set {
    store tokens[2], *labels;
    size_t split, gh, gw, D, w, h, classes;
} dense_set;
enum { DENSE_VOID = 255, DENSE_SIDE = 32 };  /* the head learns from labels of 32 x 32 pixels */

static inline int dense_tokens(mmix_ctx *m, dense_set *d, size_t picture, const standard *s,
                               mmix_real *x)
{
    size_t cells = d->gh * d->gw;
    size_t late = picture >= d->split;
    if (store_read(m, &d->tokens[late], (picture - late * d->split) * cells, cells, x)) return -1;
    for (size_t p = 0; p < cells; p++) standard_apply(s, x + p * d->D);
    return 0;
}
static inline int dense_labels(mmix_ctx *m, const dense_set *d, size_t picture, size_t side_w,
                               size_t side_h,
                               uint8_t *scratch, int32_t *label)  /* the nearest pixels */
{
    if (store_read(m, d->labels, picture, 1, scratch)) return -1;
    for (size_t i = 0; i < side_w * side_h; i++)
        label[i] = scratch[(2 * (i / side_w) + 1) * d->h / (2 * side_h) * d->w +
                           (2 * (i % side_w) + 1) * d->w / (2 * side_w)];
    return 0;
}

typedef struct dense_source {
    mmix_ctx *m;
    dense_set *d;
    const size_t *at;
    const standard *s;
    uint8_t *scratch;
    progress *p;
} dense_source;
static inline int dense_read(void *user, const size_t *rows, size_t n, mmix_real *x, int32_t *label)
{
    dense_source *v = (dense_source *)user;
    size_t cells = v->d->gh * v->d->gw;
    for (size_t i = 0; i < n; i++)
        if (dense_tokens(v->m, v->d, v->at[rows[i]], v->s, x + i * cells * v->d->D) ||
            dense_labels(v->m, v->d, v->at[rows[i]], DENSE_SIDE, DENSE_SIDE, v->scratch,
                         label + i * DENSE_SIDE * DENSE_SIDE)) return -1;
    progress_add(v->p, n);
    return interrupted;
}

/* Adds a picture that is said to be pred (w h) everywhere; NULL: all background. */
static inline int dense_count(mmix_ctx *m, const dense_set *d, const int32_t *label,
                              const uint8_t *pred, mmix_miou_count *count)
{
    mmix_mark mark = mmix_mark_here(m);
    const size_t shape[2] = {d->h, d->w};
    mmix_tensor *said = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    mmix_tensor *is = mmix_from_i32(m, 2, shape, label);
    for (size_t i = 0; said && i < d->w * d->h; i++) mmix_data_i32(said)[i] = pred ? pred[i] : 0;
    int bad = !said || !is || mmix_miou_add(m, count, d->classes, said, is, DENSE_VOID);
    mmix_rewind(m, mark);
    return bad ? -1 : 0;
}

/* mIoU of all pictures' counts (tests, classes). Its error by the jackknife: how much it changes
   when one picture is left out. The share of right pixels goes to `balanced`, without an error. */
static inline score dense_score(const mmix_miou_count *count, size_t tests, size_t classes)
{
    mmix_miou_count all[256], rest[256];
    score s = {0, 0, 0, 0, 0};
    double mean = 0, square = 0;
    memset(all, 0, sizeof all);
    for (size_t i = 0; i < tests * classes; i++) {
        all[i % classes].both += count[i].both;
        all[i % classes].label += count[i].label;
        all[i % classes].pred += count[i].pred;
    }
    for (size_t i = 0; i < tests; i++) {
        for (size_t c = 0; c < classes; c++) {
            const mmix_miou_count *one = &count[i * classes + c];
            rest[c].both = all[c].both - one->both;
            rest[c].label = all[c].label - one->label;
            rest[c].pred = all[c].pred - one->pred;
        }
        double without = mmix_miou(rest, classes, NULL).miou;
        double off = without - mean;
        mean += off / (double)(i + 1);
        square += off * (without - mean);
    }
    mmix_miou_result r = mmix_miou(all, classes, NULL);
    s.value = r.miou;
    s.error = tests > 1 ? sqrt(square * (double)(tests - 1) / (double)tests) : NAN;
    s.balanced = r.accuracy;
    s.balanced_error = NAN;
    s.tests = tests;
    return s;
}

/* The head's classes of a picture's pixels: logits of the tokens, bilinear. x (cells, D) is read
   over. */
static inline int dense_predict(mmix_ctx *m, const dense_set *d, const mmix_probe_result *head,
                                mmix_tensor *x, uint8_t *pred)
{
    static const int planes[4] = {0, 3, 1, 2};
    const size_t shape[4] = {1, d->gh, d->gw, d->classes};
    const size_t pixels = d->w * d->h;
    mmix_tensor *z = mmix_reshape(m, mmix_linear(m, x, head->weight, head->bias), 4, shape);
    z = mmix_interpolate(m, mmix_permute(m, z, planes), MMIX_RESIZE_BILINEAR, d->h, d->w, 0, 0);
    if (!z) return -1;
    for (size_t i = 0; i < pixels; i++) {
        size_t winner = 0;
        const mmix_real *v = mmix_data(z) + i;
        for (size_t c = 1; c < d->classes; c++) if (v[c * pixels] > v[winner * pixels]) winner = c;
        pred[i] = (uint8_t)winner;
    }
    return 0;
}

/* What to do with a test picture's prediction (w h). */
typedef void dense_look(void *user, size_t picture, const uint8_t *pred);

static inline int dense_learn(mmix_ctx *m, dense_set *d, const voters *v, standard *scale,
                              uint8_t *scratch, const char *name, mmix_probe_result *r)
{
    static const double rate[] = {0.1, 1, 10};
    mmix_probe_config o = mmix_probe_config_default();
    size_t cells = d->gh * d->gw;
    size_t seen = v->trains < 256 ? v->trains : 256;
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *x = mmix_new2(m, cells, d->D);
    /* means and deviations of 256 of them */
    for (size_t i = 0; x && i < seen && !mmix_error(m); i++) {
        size_t p = v->train[i * v->trains / seen];
        size_t late = p >= d->split;
        if (store_read(m, &d->tokens[late], (p - late * d->split) * cells, cells, mmix_data(x)))
            return -1;
        for (size_t k = 0; k < cells; k++) standard_add(scale, mmix_data(x) + k * d->D);
    }
    if (!x) return -1;
    mmix_rewind(m, mark);
    standard_end(scale);
    o.classes = d->classes;
    o.batch = 8;
    o.epochs = 1280 / v->trains;
    if (o.epochs < 6) o.epochs = 6;
    if (o.epochs > 40) o.epochs = 40;
    o.rates = sizeof rate / sizeof *rate;
    o.void_label = DENSE_VOID;
    memcpy(o.rate, rate, sizeof rate);
    size_t held = (size_t)ceil((double)v->trains * o.held);
    size_t learn = v->trains > held ? v->trains - held : 1;
    if (learn >= o.batch) learn -= learn % o.batch;      /* what is left of a batch is left out */
    progress p = progress_of(name, "segmentation head", learn * o.epochs + held);
    dense_source source = {m, d, v->train, scale, scratch, &p};
    mmix_source train = {v->trains, d->D, d->gh, d->gw, DENSE_SIDE, DENSE_SIDE, dense_read,
                         &source};
    return mmix_linear_probe(m, &o, &train, NULL, r);
}

/* Counts of pictures (tests, classes) for a pair; j NULL: it is not wanted. 0, or -1. */
static inline int verdicts_counts(mmix_ctx *m, verdicts *j, const mmix_miou_count *count,
                                size_t tests, size_t classes)
{
    if (!j) return 0;
    if (verdicts_begin(m, j, tests, classes, classes)) return -1;
    for (size_t i = 0; i < tests * classes; i++) {
        double both = (double)count[i].both;
        verdict x = {i % classes, both, (double)count[i].label + (double)count[i].pred - both};
        j->at[i] = x;
    }
    return 0;
}

/* A linear head on the dense features of the train pictures, judged at the masks' own size;
   trains 0: all background. `look`, unless NULL, sees each prediction; j, which may be NULL, is
   for a pair. 0, or -1. */
static inline int evaluate_dense(mmix_ctx *m, dense_set *d, const voters *v, const char *name,
                                 dense_look *look, void *user, score *s, verdicts *j)
{
    mmix_mark mark = mmix_mark_here(m), each;
    size_t pixels = d->w * d->h;
    size_t cells = d->gh * d->gw;
    standard scale = {0, 0, NULL, NULL};
    mmix_probe_result head;
    uint8_t *scratch = (uint8_t *)malloc(2 * pixels + 1);
    uint8_t *pred = scratch + pixels;
    int32_t *label = (int32_t *)malloc(pixels * sizeof *label);
    mmix_miou_count *count = (mmix_miou_count *)calloc(v->tests * d->classes + 1, sizeof *count);
    int bad = scratch && label && count ? 0 : mmix_fail(m, MMIX_ERROR_MEMORY,
                                                        "no memory for masks");
    if (!bad && v->trains)
        bad = standard_begin(m, &scale, d->D) || dense_learn(m, d, v, &scale, scratch, name, &head);
    for (size_t i = 0; !bad && i < v->tests; i++) {
        each = mmix_mark_here(m);
        if (v->trains) {
            mmix_tensor *x = mmix_new2(m, cells, d->D);
            bad = !x || dense_tokens(m, d, v->test[i], &scale, mmix_data(x)) ||
                  dense_predict(m, d, &head, x, pred);
            if (!bad && look) look(user, v->test[i], pred);
        }
        bad = bad || dense_labels(m, d, v->test[i], d->w, d->h, scratch, label) ||
              dense_count(m, d, label, v->trains ? pred : NULL, count + i * d->classes) ||
              interrupted;
        mmix_rewind(m, each);
    }
    if (!bad) *s = dense_score(count, v->tests, d->classes);
    bad = bad || verdicts_counts(m, j, count, v->tests, d->classes);
    free(scale.mean);
    free(scratch);
    free(label);
    free(count);
    mmix_rewind(m, mark);
    return bad ? -1 : 0;
}

#endif
