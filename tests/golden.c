/* golden [-v] [--threads N] FILE-OR-DIR…

   Reads golden cases (tests/golden/README.md tells the format), calls the function of the library
   that a case names, and compares every output and every gradient. A case goes through twice, first
   without and then, if it has gradients, with recording. An option or tensor that no function takes
   makes its case a skipped one, by name: nothing is ignored. Prints a line for each failing case
   with its worst tensor, then what was skipped, then the counts; exits 1 if anything failed. */
#include "json.h"
#include "../demos/studies/text.h"
#include "../demos/studies/heads.h"
#ifdef MMIX_GOLDEN_CUDA                          /* the mixers of all cases on the GPU */
#include "../mamba_mix_cuda.cu"
#endif
#include <dirent.h>

enum { MAX_LEAVES = 512, MAX_OUTPUTS = 8, MAX_ENTRIES = 2048, MAX_ARGS = 64, MAX_SKIPPED = 256 };
enum { OP, LAYER };                              /* which bound holds in float: 2e-5 or 2e-4 */

typedef struct Case Case;
typedef struct Face { const char *id; void (*run)(Case *c); int bound; } Face;

struct Case {
    const char *path;
    const Face *face;
    mmix_ctx *m;
    mmix_archive *file;
    Json *args;
    unsigned char arg_used[MAX_ARGS], entry_used[MAX_ENTRIES];
    int record;                                  /* this pass asks for gradients */
    double tol;                                  /* relative bound of what is not an integer */

    struct { const mmix_entry *e; mmix_tensor *t; } leaf[MAX_LEAVES];
    mmix_tensor *output[MAX_OUTPUTS], *upstream[MAX_OUTPUTS];
    size_t leaves, outputs;

    mmix_params *params;                         /* what a face leaves for the end of the pass */
    mmix_vision *vision;
    mmix_dino *dino;

    /* the largest error: over its bound; over max|expected| + 1e-3 */
    double worst, relative;
    char worst_name[128], failure[512], skipped[128];
};

static void fail(Case *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!*c->failure)
        vsnprintf(c->failure, sizeof c->failure, format, list);
    va_end(list);
}
static void skip(Case *c, const char *what, const char *name)
{
    if (!*c->skipped)
        snprintf(c->skipped, sizeof c->skipped, "%s %.90s", what, name);
}

/* ---- options of the case ---- */

/* The value of an option, marked as read; NULL if it is absent or null. */
static const Json *arg(Case *c, const char *key)
{
    size_t i = 0;
    for (const Json *v = json_first(c->args); v && i < MAX_ARGS; v = v->next, i++)
        if (!strcmp(v->key, key)) {
            c->arg_used[i] = 1;
            return v->kind == 'n' ? NULL : v;
        }
    return NULL;
}
static double number(Case *c, const char *key, double otherwise)
{
    return json_number(arg(c, key), otherwise);
}
static size_t whole(Case *c, const char *key, size_t otherwise)
{
    return (size_t)number(c, key, (double)otherwise);
}
static int flag(Case *c, const char *key) { return json_flag(arg(c, key), 0); }
static const char *text(Case *c, const char *key, const char *otherwise)
{
    const char *s = json_text(arg(c, key));
    return s ? s : otherwise;
}
/* An option that is a list of numbers, or one number that stands for all; returns how many there
   were. */
static size_t numbers(Case *c, const char *key, double *values, size_t n)
{
    const Json *v = arg(c, key), *item = json_first(v);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        values[i] = json_number(v, 0);
    for (; item && count < n; item = item->next)
        values[count++] = json_number(item, 0);
    return count;
}
static size_t indices(Case *c, const char *key, size_t *values, size_t n)
{
    double d[64] = {0};
    size_t count = numbers(c, key, d, n < 64 ? n : 64);
    for (size_t i = 0; i < count; i++)
        values[i] = (size_t)d[i];
    return count;
}
/* The place of a text option in a list of names; an unknown one makes the case a skipped one. */
static int one_of(Case *c, const char *key, const char *const *names, const char *otherwise)
{
    const char *s = text(c, key, otherwise);
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], s)) return i;
    skip(c, key, s);
    return 0;
}

/* ---- tensors of the case ---- */

/* The entry PREFIX NAME, marked as read, or NULL. */
static const mmix_entry *find(Case *c, const char *prefix, const char *name)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const mmix_entry *e = mmix_archive_find(c->file, full);
    if (e)
        c->entry_used[e - mmix_archive_entry(c->file, 0)] = 1;
    return e;
}
static int has(Case *c, const char *prefix, const char *name)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return mmix_archive_find(c->file, full) != NULL;
}
/* The size of an axis of a parameter, 0 if there is none. */
static size_t axis(Case *c, const char *name, int i)
{
    const mmix_entry *e = find(c, "p.", name);
    return e && i < e->ndim ? e->shape[i] : 0;
}
static mmix_tensor *leaf(Case *c, const mmix_entry *e, mmix_tensor *t)
{
    if (c->leaves == MAX_LEAVES) fail(c, "more than %d leaves", MAX_LEAVES);
    else {
        c->leaf[c->leaves].e = e;
        c->leaf[c->leaves++].t = t;
    }
    return t;
}
/* A new tensor of the entry's values, integers as int32. */
static mmix_tensor *tensor(Case *c, const mmix_entry *e)
{
    const int integers = e->dtype >= MMIX_FILE_I64;
    mmix_tensor *t = mmix_new(c->m, integers ? MMIX_DTYPE_I32 : MMIX_DTYPE_REAL, e->ndim, e->shape);
    if (t && integers)
        mmix_archive_read(c->m, c->file, e, MMIX_FILE_I32, mmix_data_i32(t), mmix_entry_count(e));
    else if (t)
        mmix_archive_read(c->m, c->file, e, MMIX_FILE_REAL, mmix_data(t), mmix_entry_count(e));
    return t;
}
static mmix_tensor *optional(Case *c, const char *prefix, const char *name)
{
    const mmix_entry *e = find(c, prefix, name);
    mmix_tensor *t = e ? tensor(c, e) : NULL;
    if (t && c->record && has(c, *prefix == 'p' ? "grad.p." : "grad.", name))
        leaf(c, e, mmix_require_grad(t));
    return t;
}
static mmix_tensor *needed(Case *c, const char *prefix, const char *name)
{
    mmix_tensor *t = optional(c, prefix, name);
    if (!t) mmix_fail(c->m, MMIX_ERROR_FILE, "the case has no %s%s", prefix, name);
    return t;
}
static mmix_tensor *in(Case *c, const char *name) { return needed(c, "in.", name); }
static mmix_tensor *in_or_null(Case *c, const char *name) { return optional(c, "in.", name); }
static mmix_tensor *param(Case *c, const char *name) { return needed(c, "p.", name); }
static mmix_tensor *param_or_null(Case *c, const char *name) { return optional(c, "p.", name); }

/* Fills a list of parameters with the entries PREFIX NAME: all of them, in their shapes. */
static void load(Case *c, mmix_params *p, const char *prefix)
{
    for (size_t i = 0; p && i < p->count; i++) {
        const mmix_entry *e = find(c, prefix, p->at[i].name);
        mmix_tensor *t = p->at[i].tensor;
        int same = e && e->ndim == mmix_ndim(t);
        for (int j = 0; same && j < e->ndim; j++)
            same = e->shape[j] == mmix_shape(t, j);
        if (!same)
            fail(c, "%s%s is %s", prefix, p->at[i].name,
                 e ? "of another shape" : "not in the case");
        else mmix_archive_read(c->m, c->file, e, MMIX_FILE_REAL, mmix_data(t), mmix_entry_count(e));
        if (same && has(c, "grad.", e->name)) {
            p->at[i].frozen = 0;
            leaf(c, e, t);
        }
    }
    if (p && c->record) mmix_params_require_grad(p, 1);
}
static mmix_params *parameters(Case *c) { return c->params = mmix_params_create(c->m); }
static void load_layer(Case *c)
{
    mmix_params_allocate(c->params);
    if (!mmix_error(c->m))
        load(c, c->params, "p.");
}

/* ---- comparing ---- */

/* |found - expected| <= tol (max|expected| + 1e-3) for each value; integers exactly. */
static void compare(Case *c, const mmix_entry *e, const double *found, size_t n, double tol)
{
    double *expected = (double *)malloc((n + 1) * sizeof *expected);
    double largest = 0, error = 0;
    size_t at = 0;
    if (n != mmix_entry_count(e))
        fail(c, "%.100s has %zu values, found %zu", e->name, mmix_entry_count(e), n);
    else if (!expected || mmix_archive_read(c->m, c->file, e, MMIX_FILE_F64, expected, n))
        fail(c, "%.100s cannot be read", e->name);
    else {
        if (e->dtype >= MMIX_FILE_I64) tol = 0;
        for (size_t i = 0; i < n; i++) {
            const double d = fabs(found[i] - expected[i]);
            if (fabs(expected[i]) > largest)
                largest = fabs(expected[i]);
            if (!(d <= error))
                error = isnan(d) ? HUGE_VAL : d, at = i;
        }
        const double bound = tol * (largest + 1e-3);
        double ratio;
        if (bound > 0) ratio = error / bound;
        else if (error > 0) ratio = HUGE_VAL;
        else ratio = 0;
        if (ratio > 1 && ratio > c->worst) {
            *c->failure = 0;                     /* the worst tensor's line instead */
            fail(c, "%.100s: error %.3g, bound %.3g, at %zu: expected %.9g, found %.9g", e->name,
                 error, bound, at, expected[at], found[at]);
        }
        if (ratio >= c->worst) {
            c->worst = ratio;
            c->relative = error / (largest + 1e-3);
            snprintf(c->worst_name, sizeof c->worst_name, "%.100s", e->name);
        }
    }
    free(expected);
}
static void compare_tensor(Case *c, const mmix_entry *e, const mmix_tensor *t, double tol)
{
    size_t n = mmix_count(t), ones = 0;
    int k = 0;                                   /* the same shape but for axes of size 1 */
    for (int i = 0; i < e->ndim; i++) {
        while (k < mmix_ndim(t) && mmix_shape(t, k) == 1)
            k++;
        if (e->shape[i] == 1) ones++;
        else if (k >= mmix_ndim(t) || mmix_shape(t, k++) != e->shape[i])
            fail(c, "%.100s has another shape", e->name);
    }
    mmix_real *values = (mmix_real *)malloc((n + 1) * sizeof *values);
    double *found = (double *)malloc((n + 1) * sizeof *found);
    if (!values || !found || mmix_read(t, values))
        fail(c, "%.100s: no values", e->name);
    else {
        for (size_t i = 0; i < n; i++)
            found[i] = (double)values[i];
        compare(c, e, found, n, tol);
    }
    free(values);
    free(found);
}
static void out_f64(Case *c, const char *name, const double *values, size_t n)
{
    const mmix_entry *e = find(c, "out.", name);
    if (e && values && !mmix_error(c->m))
        compare(c, e, values, n, c->tol);
}
static void out_number(Case *c, const char *name, double value) { out_f64(c, name, &value, 1); }
static void out_real(Case *c, const char *name, const mmix_real *values, size_t n)
{
    double *d = (double *)malloc((n + 1) * sizeof *d);
    for (size_t i = 0; d && values && i < n; i++)
        d[i] = (double)values[i];
    out_f64(c, name, values ? d : NULL, n);
    free(d);
}
static void out_i32(Case *c, const char *name, const int32_t *values, size_t n)
{
    double *d = (double *)malloc((n + 1) * sizeof *d);
    for (size_t i = 0; d && values && i < n; i++)
        d[i] = values[i];
    out_f64(c, name, values ? d : NULL, n);
    free(d);
}
/* Compares a tensor; with a cot. of its name it is also one that the backward starts from. */
static void out(Case *c, const char *name, mmix_tensor *t)
{
    const mmix_entry *e = find(c, "out.", name);
    const mmix_entry *cot = find(c, "cot.", name);
    size_t shape[MMIX_MAX_DIMS];
    if (!e || !t || mmix_error(c->m)) return;
    compare_tensor(c, e, t, c->tol);
    if (!cot || !c->record || c->outputs == MAX_OUTPUTS) return;
    for (int i = 0; i < mmix_ndim(t); i++)
        shape[i] = mmix_shape(t, i);
    mmix_tensor *g = mmix_new(c->m, MMIX_DTYPE_REAL, mmix_ndim(t), shape);
    if (g && mmix_count(g) == mmix_entry_count(cot))
        mmix_archive_read(c->m, c->file, cot, MMIX_FILE_REAL, mmix_data(g), mmix_count(g));
    c->output[c->outputs] = t;
    c->upstream[c->outputs++] = g;
}
/* Every grad. of the case. */
static void gradients(Case *c)
{
    if (mmix_backward_from(c->m, c->output, c->upstream, c->outputs))
        return;
    for (size_t i = 0; i < mmix_archive_count(c->file); i++) {
        const mmix_entry *e = mmix_archive_entry(c->file, i);
        mmix_tensor *g = NULL;
        if (strncmp(e->name, "grad.", 5)) continue;
        const char *name = e->name + 5;
        const mmix_entry *of = find(c, strncmp(name, "p.", 2) ? "in." : "", name);
        int asked = 0;
        for (size_t j = 0; of && j < c->leaves; j++)
            if (c->leaf[j].e == of) {
                g = mmix_grad(c->leaf[j].t);
                asked = 1;
            }
        double *zero = g ? NULL : (double *)calloc(mmix_entry_count(e) + 1, sizeof *zero);
        if (g) compare_tensor(c, e, g, c->tol);
        else if (asked)
            compare(c, e, zero, mmix_entry_count(e), c->tol); /* nothing flowed there */
        else fail(c, "%.100s: no gradient", e->name);
        free(zero);
    }
}

/* ---- operations ---- */

static void run_softmax(Case *c)
{
    out(c, "y", mmix_softmax(c->m, in(c, "x"), (int)number(c, "axis", -1)));
}
static void run_gelu(Case *c) { out(c, "y", mmix_gelu(c->m, in(c, "x"))); }
static void run_silu(Case *c) { out(c, "y", mmix_silu(c->m, in(c, "x"))); }
static void run_softplus(Case *c) { out(c, "y", mmix_softplus(c->m, in(c, "x"))); }
static void run_layer_norm(Case *c)
{
    mmix_tensor *x = in(c, "x");
    mmix_tensor *w = param_or_null(c, "weight");
    mmix_tensor *b = param_or_null(c, "bias");
    out(c, "y", mmix_layer_norm(c->m, x, w, b, number(c, "eps", 0)));
}
static void run_rms_norm(Case *c)
{
    mmix_tensor *x = in(c, "x"), *w = param_or_null(c, "weight");
    out(c, "y", mmix_rms_norm(c->m, x, w, number(c, "eps", 0)));
}
static void run_gated_rms_norm(Case *c)
{
    mmix_tensor *x = in(c, "x");
    mmix_tensor *z = in(c, "z");
    mmix_tensor *w = param(c, "weight");
    out(c, "y", mmix_gated_rms_norm(c->m, x, z, w, number(c, "eps", 0), whole(c, "groups", 1)));
}
static void run_linear(Case *c)
{
    mmix_tensor *x = in(c, "x");
    mmix_tensor *w = param(c, "weight");
    mmix_tensor *b = param_or_null(c, "bias");
    out(c, "y", mmix_linear(c->m, x, w, b));
}
static void run_conv1d(Case *c)
{
    static const char *const activations[] = {"none", "silu", NULL};
    mmix_tensor *x = in(c, "x");
    mmix_tensor *w = param(c, "weight");
    mmix_tensor *b = param_or_null(c, "bias");
    mmix_tensor *last = NULL;
    mmix_causal_conv1d_options o;
    memset(&o, 0, sizeof o);
    o.silu = one_of(c, "activation", activations, "none");
    o.initial_state = in_or_null(c, "initial_state");
    o.seq_idx = in_or_null(c, "seq_idx");
    if (flag(c, "final_state")) o.final_state = &last;
    out(c, "y", mmix_causal_conv1d(c->m, x, w, b, &o));
    out(c, "final_state", last);
}
static void run_cross_entropy(Case *c)
{
    mmix_tensor *logits = in(c, "logits"), *target = in(c, "target");
    out(c, "loss",
        mmix_cross_entropy(c->m, logits, target, (int32_t)number(c, "ignore_index", -100)));
}
static void run_patch_embed(Case *c)
{
    mmix_tensor *x = in(c, "x");
    mmix_tensor *w = param(c, "proj.weight");
    mmix_tensor *b = param(c, "proj.bias");
    out(c, "y", mmix_patch_embed(c->m, x, w, b));
}
static void run_bilinear_resize(Case *c)
{
    const double scale_h = number(c, "scale_h", 0);
    const double scale_w = number(c, "scale_w", 0);
    out(c, "y",
        mmix_interpolate(c->m, in(c, "x"), MMIX_RESIZE_BILINEAR, whole(c, "out_h", 0),
                         whole(c, "out_w", 0), scale_h, scale_w));
}
static void run_bicubic_resize_antialias(Case *c)
{
    out(c, "y",
        mmix_interpolate(c->m, in(c, "x"), MMIX_RESIZE_BICUBIC_ANTIALIAS, whole(c, "out_h", 0),
                         whole(c, "out_w", 0), 0, 0));
}
static void run_rope(Case *c)
{
    static const char *const styles[] = {"half", "interleaved", NULL};
    mmix_tensor *x = in(c, "x"), *pos = in(c, "pos");
    mmix_rope_options o;
    memset(&o, 0, sizeof o);
    o.theta = number(c, "theta", 0);
    o.interleaved = one_of(c, "style", styles, "");
    o.dim = whole(c, "dim", 0);
    out(c, "y", mmix_rope(c->m, x, pos, &o));
}
static void run_bicubic_resize(Case *c)
{
    const double scale_h = number(c, "scale_h", 0);
    const double scale_w = number(c, "scale_w", 0);
    out(c, "y",
        mmix_interpolate(c->m, in(c, "x"), MMIX_RESIZE_BICUBIC, whole(c, "out_h", 0),
                         whole(c, "out_w", 0), scale_h, scale_w));
}

/* ---- mixers ---- */

static void mix(Case *c, const mmix_mixer *x)
{
    out(c, "y", mmix_mix(c->m, x));
    if (flag(c, "matrix"))
        out(c, "matrix", mmix_mix_matrix(c->m, x));
}
static void softmax_options(Case *c, mmix_mixer *x)
{
    static const char *const masks[] = {"none", "causal", "prefix", "window", NULL};
    const int mask = one_of(c, "mask", masks, "none");
    x->scale = number(c, "scale", 0);
    if (mask < 3) x->mask = mask;
    if (mask == MMIX_MASK_PREFIX) x->prefix = whole(c, "prefix", 0);
    if (mask == 3) {
        size_t grid[3], window[3], axes = indices(c, "grid", grid, 3);
        indices(c, "window", window, 3);
        mmix_mixer_windows(x, (int)axes, grid, window, flag(c, "shift"));
    }
}
static void linear_options(Case *c, mmix_mixer *x)
{
    static const char *const features[] = {"softmax_both", "efficient", "elu1", "relu", NULL};
    x->feature = one_of(c, "feature", features, "");
    x->mask = flag(c, "causal") ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
    x->normalize = 0;
    if (arg(c, "normalise"))
        x->normalize = flag(c, "normalise") ? 1 : -1;
    x->eps = number(c, "eps", 0);
}
static void run_softmax_attention(Case *c)
{
    mmix_tensor *q = in(c, "q");
    mmix_tensor *k = in(c, "k");
    mmix_tensor *v = in(c, "v");
    mmix_mixer x = mmix_mixer_softmax(q, k, v);
    softmax_options(c, &x);
    if (!*c->skipped) mix(c, &x);
}
static void run_linear_attention(Case *c)
{
    mmix_tensor *q = in(c, "q");
    mmix_tensor *k = in(c, "k");
    mmix_tensor *v = in(c, "v");
    mmix_mixer x = mmix_mixer_linear(q, k, v);
    linear_options(c, &x);
    mix(c, &x);
}
static void dt_limit(Case *c, double *low, double *high)
{
    double limit[2] = {0, 0};
    numbers(c, "dt_limit", limit, 2);
    *low = limit[0];
    *high = limit[1];
}
static void scan_options(Case *c, mmix_mixer *x)
{
    static const char *const directions[] = {"forward", "reverse", "both", NULL};
    x->D = in_or_null(c, "D");
    x->dt_bias = in_or_null(c, "dt_bias");
    x->initial_state = in_or_null(c, "initial_state");
    x->seq_idx = in_or_null(c, "seq_idx");
    x->dt_softplus = flag(c, "dt_softplus");
    x->direction = one_of(c, "direction", directions, "forward");
    dt_limit(c, &x->dt_low, &x->dt_high);
}
/* The tensors of a scan, in their places of a mixer. */
static mmix_mixer scan_tensors(Case *c)
{
    mmix_tensor *v = in(c, "x");
    mmix_tensor *dt = in(c, "dt");
    mmix_tensor *A = in(c, "A");
    mmix_tensor *B = in(c, "B");
    mmix_tensor *C = in(c, "C");
    return mmix_mixer_ssd(v, dt, A, B, C);
}
static mmix_mixer ssd(Case *c)
{
    mmix_mixer x = scan_tensors(c);
    scan_options(c, &x);
    return x;
}
/* (a, b, c) as (a, b, d, e), d e = c: channels as heads, or one group of heads. */
static mmix_tensor *four_axes(Case *c, mmix_tensor *t, size_t d, size_t e)
{
    const size_t shape[4] = { mmix_shape(t, 0), mmix_shape(t, 1), d, e };
    return mmix_reshape(c->m, t, 4, shape);
}
/* The cases have x and z (B, L, D), B and C (B, L, N), states (B, D, N). */
static mmix_mixer selective(Case *c)
{
    const mmix_mixer of = scan_tensors(c);
    mmix_tensor *z = in_or_null(c, "z");
    const size_t D = mmix_shape(of.A, 0), N = mmix_shape(of.A, 1);
    mmix_mixer x = mmix_mixer_selective(four_axes(c, of.v, D, 1), of.dt, of.A,
                                        four_axes(c, of.k, 1, N), four_axes(c, of.q, 1, N));
    scan_options(c, &x);
    if (z) x.z = four_axes(c, z, D, 1);
    if (x.initial_state)
        x.initial_state = four_axes(c, x.initial_state, 1, N);
    return x;
}
/* Token by token; the state after each. */
static void run_steps(Case *c, const mmix_mixer *mixer)
{
    mmix_mixer x = *mixer, one = x;
    mmix_mix_state *s = mmix_mix_state_create(c->m, 1);
    const size_t L = mmix_shape(x.dt, 1);
    const size_t B = mmix_shape(x.dt, 0);
    const size_t P = mmix_shape(x.v, 3);
    const size_t N = mmix_shape(x.k, 3);
    const size_t H = mmix_shape(x.dt, 2);
    mmix_tensor *y = mmix_new4(c->m, B, L, H, P);
    mmix_tensor *last = NULL, *states;
    const size_t shape[5] = {B, L, H, P, N};
    states = mmix_new(c->m, MMIX_DTYPE_REAL, 5, shape);
    for (size_t t = 0; t < L && !mmix_error(c->m); t++) {
        one.v = mmix_slice(c->m, x.v, 1, t, 1);
        one.dt = mmix_slice(c->m, x.dt, 1, t, 1);
        one.k = mmix_slice(c->m, x.k, 1, t, 1);
        one.q = mmix_slice(c->m, x.q, 1, t, 1);
        if (x.z) one.z = mmix_slice(c->m, x.z, 1, t, 1);
        one.initial_state = t ? NULL : x.initial_state;
        one.final_state = &last;
        mmix_tensor *row = mmix_mix_step(c->m, &one, s, 0);
        for (size_t b = 0; row && b < B; b++) {
            memcpy(mmix_data(y) + (b * L + t) * H * P, mmix_data(row) + b * H * P,
                   H * P * sizeof(mmix_real));
            memcpy(mmix_data(states) + (b * L + t) * H * P * N, mmix_data(last) + b * H * P * N,
                   H * P * N * sizeof(mmix_real));
        }
    }
    out(c, "y", y);
    out(c, "final_state", last);
    if (flag(c, "states")) out(c, "states", states);
    mmix_mix_state_destroy(s);
}
static void run_ssd_steps(Case *c)
{
    const mmix_mixer x = ssd(c);
    run_steps(c, &x);
}
static void run_selective_steps(Case *c)
{
    const mmix_mixer x = selective(c);
    run_steps(c, &x);
}
static void run_selective_scan(Case *c)
{
    mmix_mixer x = selective(c);
    mmix_tensor *last = NULL;
    if (flag(c, "final_state")) x.final_state = &last;
    mix(c, &x);
    out(c, "final_state", last);
}
static void run_ssd(Case *c)
{
    mmix_mixer x = ssd(c);
    mmix_tensor *last = NULL;
    if (flag(c, "final_state")) x.final_state = &last;
    mix(c, &x);
    out(c, "final_state", last);
    if (c->record || x.direction == MMIX_SCAN_BOTH) return;
    last = NULL;
    out(c, "y", mmix_ssd_reference(c->m, &x));   /* the plain loop, too */
    out(c, "final_state", last);
}

/* ---- layers ---- */

static void attention(Case *c, int kind)
{
    mmix_attention_layer l;
    mmix_attention_init(&l, parameters(c), "", axis(c, "proj.weight", 0), whole(c, "heads", 0),
                        kind, axis(c, "qkv.bias", 0) != 0);
    if (kind == MMIX_MIXER_SOFTMAX)
        l.rope.theta = number(c, "rope_theta", 0);
    if (kind == MMIX_MIXER_SOFTMAX) softmax_options(c, &l.options);
    else linear_options(c, &l.options);
    load_layer(c);
    if (!*c->skipped)
        out(c, "y", mmix_attention_forward(c->m, &l, in(c, "x"), NULL, NULL, NULL, 0));
}
static void run_attention_layer(Case *c) { attention(c, MMIX_MIXER_SOFTMAX); }
static void run_linear_attention_layer(Case *c) { attention(c, MMIX_MIXER_LINEAR); }
static void mamba2(Case *c, int bidirectional)
{
    mmix_mamba2_layer l;
    mmix_mamba2_options o;
    mmix_mamba2_state state;
    const size_t heads = axis(c, "A_log", 0);
    memset(&o, 0, sizeof o);
    memset(&state, 0, sizeof state);
    o.d_inner = axis(c, "norm.weight", 0);
    o.d_state = whole(c, "d_state", 0);
    o.head_dim = heads ? o.d_inner / heads : 0;
    o.groups = whole(c, "ngroups", 0);
    o.conv_width = axis(c, "conv1d.weight", 2);
    o.bidirectional = bidirectional;
    o.eps = number(c, "eps", 0);
    dt_limit(c, &o.dt_low, &o.dt_high);
    mmix_mamba2_init(&l, parameters(c), "", axis(c, "out_proj.weight", 0), &o);
    load_layer(c);
    state.conv = bidirectional ? NULL : in_or_null(c, "conv_state");
    state.ssm = bidirectional ? NULL : in_or_null(c, "ssm_state");
    const int last = !bidirectional && flag(c, "final_state");
    const int carried = last || state.conv || state.ssm;
    mmix_tensor *x = in(c, "x"), *seq_idx = in_or_null(c, "seq_idx");
    out(c, "y", mmix_mamba2_forward(c->m, &l, x, NULL, NULL, seq_idx, carried ? &state : NULL));
    if (!carried) return;
    out(c, "conv_state", state.conv);
    out(c, "ssm_state", state.ssm);
}
/* The cases have states (B, d, N). */
static void mamba1(Case *c, int bidirectional)
{
    mmix_mamba1_layer l;
    mmix_mamba1_options o;
    mmix_mamba1_state state;
    memset(&o, 0, sizeof o);
    memset(&state, 0, sizeof state);
    o.d_inner = axis(c, "A_log", 0);
    o.d_state = whole(c, "d_state", 0);
    o.dt_rank = axis(c, "dt_proj.weight", 1);
    o.conv_width = axis(c, "conv1d.weight", 2);
    o.bias = axis(c, "in_proj.bias", 0) != 0;
    o.bidirectional = bidirectional;
    o.divide = bidirectional && flag(c, "divide");
    mmix_mamba1_init(&l, parameters(c), "", axis(c, "out_proj.weight", 0), &o);
    load_layer(c);
    state.conv = bidirectional ? NULL : in_or_null(c, "conv_state");
    state.ssm = bidirectional ? NULL : in_or_null(c, "ssm_state");
    const int last = !bidirectional && flag(c, "final_state");
    const int carried = last || state.conv || state.ssm;
    if (state.ssm) {
        const size_t shape[4] = { mmix_shape(state.ssm, 0), o.d_inner, 1, o.d_state };
        state.ssm = mmix_reshape(c->m, state.ssm, 4, shape);
    }
    mmix_tensor *x = in(c, "x"), *seq_idx = bidirectional ? NULL : in_or_null(c, "seq_idx");
    out(c, "y", mmix_mamba1_forward(c->m, &l, x, NULL, NULL, seq_idx, carried ? &state : NULL));
    if (!carried) return;
    out(c, "conv_state", state.conv);
    out(c, "ssm_state", state.ssm);
}
static void run_mamba1_layer(Case *c) { mamba1(c, 0); }
static void run_vim_layer(Case *c) { mamba1(c, 1); }
static void run_mamba2_layer(Case *c) { mamba2(c, 0); }
static void run_bimamba2_layer(Case *c) { mamba2(c, 1); }
static void run_swiglu_ffn(Case *c)
{
    mmix_swiglu_layer l;
    mmix_swiglu_init(&l, parameters(c), "", axis(c, "gate_proj.weight", 1),
                     axis(c, "gate_proj.weight", 0));
    load_layer(c);
    out(c, "y", mmix_swiglu_forward(c->m, &l, in(c, "x"), NULL, NULL));
}
static void run_lora_linear(Case *c)
{
    mmix_tensor *w = param(c, "weight");
    mmix_tensor *b = param_or_null(c, "bias");
    mmix_tensor *A = param(c, "lora_A.weight");
    mmix_tensor *B = param(c, "lora_B.weight");
    const mmix_lora lora = { A, B, number(c, "alpha", 0) };
    out(c, "y", mmix_lora_linear(c->m, in(c, "x"), w, b, &lora, NULL, NULL));
}
static void run_rms_order(Case *c)
{
    static int32_t perm[1 << 16], inverse[1 << 16];
    size_t grid[3] = {0, 0, 0}, separators = whole(c, "separators", 0);
    indices(c, "grid", grid, 3);
    const size_t n = grid[0] * (grid[1] * grid[2] + separators);
    if (n > 1 << 16) {
        fail(c, "a grid of %d tokens", (int)n);
        return;
    }
    mmix_scan_order(whole(c, "layer", 0), grid[0], grid[1], grid[2], separators, perm, inverse);
    out_i32(c, "perm", perm, n);
    out_i32(c, "inverse", inverse, n);
}
static void run_mlp(Case *c)
{
    mmix_mlp_layer l;
    mmix_mlp_init(&l, parameters(c), "", axis(c, "fc1.weight", 1), axis(c, "fc1.weight", 0),
                  axis(c, "fc2.weight", 0));
    load_layer(c);
    out(c, "y", mmix_mlp_forward(c->m, &l, in(c, "x"), NULL, NULL));
}

/* ---- M-MATE ---- */

enum { MAX_SPANS = 16 };
static size_t spans(Case *c, mmix_span list[MAX_SPANS])
{
    size_t n = 0;
    for (const Json *v = json_first(arg(c, "spans")); v && n < MAX_SPANS; v = v->next, n++) {
        size_t a = 0;
        memset(&list[n], 0, sizeof *list);
        list[n].start = (size_t)json_number(json_find(v, "start"), 0);
        list[n].separators = (size_t)json_number(json_find(v, "separators"), 0);
        for (const Json *g = json_first(json_find(v, "grid")); g && a < 3; g = g->next)
            list[n].grid[a++] = (size_t)json_number(g, 0);
    }
    return n;
}
/* The parameter PREFIX NAME of the case. */
static mmix_tensor *part(Case *c, const char *prefix, const char *name, int is_needed)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return is_needed ? param(c, full) : param_or_null(c, full);
}
static void projections(Case *c, mmix_projections *p, const char *prefix)
{
    static const char *const names[4] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.weight", names[i]);
        p->weight[i] = part(c, prefix, name, 1);
        snprintf(name, sizeof name, "%s.bias", names[i]);
        p->bias[i] = part(c, prefix, name, 0);
    }
    p->heads = whole(c, "heads", 0);
    p->kv_heads = whole(c, "kv_heads", 0);
}
static void flex(Case *c, mmix_mmate_layer *l, const char *prefix)
{
    static const char *const fuse[] = {"gate", "mean", "sum", NULL};
    projections(c, &l->flex, prefix);
    l->options.directions = one_of(c, "dir_fuse", fuse, "gate");
    for (int i = 0; i < 2; i++) {
        l->dir[i].dt_proj = part(c, prefix, i ? "dt_proj_b.weight" : "dt_proj.weight", !i);
        l->dir[i].dt_bias = part(c, prefix, i ? "dt_b_bias" : "dt_bias", !i);
        l->dir[i].A_log = part(c, prefix, i ? "A_log_b" : "A_log", !i);
    }
    l->options.shared_directions = !l->dir[1].dt_proj;
    l->gate_weight = part(c, prefix, "gate.weight", l->options.directions == MMIX_FUSE_GATE);
    l->gate_bias = part(c, prefix, "gate.bias", l->options.directions == MMIX_FUSE_GATE);
    l->D = part(c, prefix, "D", 0);
    l->options.skip = l->D != NULL;
}
static void swin(Case *c, mmix_mmate_layer *l, const char *prefix)
{
    projections(c, &l->swin, prefix);
    indices(c, "window", l->options.window, 3);
    l->options.shift_period = whole(c, "shift_period", 0);
    l->options.causal_window = flag(c, "causal_window");
    l->options.text_window = whole(c, "text_window", 0);
    l->rope.theta = number(c, "rope_theta", 0);
}
enum { ONLY_FLEX = 1, ONLY_SWIN, BOTH };
static void mmate(Case *c, int which)
{
    static const char *const branches[] = { "both", "flex", "swin", NULL }, *const fuse[] = {
        "sum", "gate", NULL
    };
    mmix_mmate_layer l;
    mmix_layout layout;
    mmix_span list[MAX_SPANS];
    mmix_tensor *x = in(c, "x"), *last = NULL, *y;
    memset(&l, 0, sizeof l);
    memset(&layout, 0, sizeof layout);
    l.index = whole(c, "layer", 0);
    layout.spans = list;
    layout.n_spans = spans(c, list);
    if (which & ONLY_FLEX)
        flex(c, &l, which == BOTH ? "flex." : "");
    if (which & ONLY_SWIN)
        swin(c, &l, which == BOTH ? "swin." : "");
    if (which == BOTH) {
        l.options.branches = one_of(c, "branches", branches, "both");
        l.options.branch_gate = one_of(c, "branch_fuse", fuse, "sum");
        l.branch_gate_weight = part(c, "branch_gate.", "weight", l.options.branch_gate);
        l.branch_gate_bias = part(c, "branch_gate.", "bias", l.options.branch_gate);
    }
    if (which & ONLY_FLEX) layout.initial_state = in_or_null(c, "initial_state");
    if ((which & ONLY_FLEX) && flag(c, "final_state"))
        layout.final_state = &last;
    if (*c->skipped) return;
    if (which != BOTH)
        l.options.branches = which == ONLY_FLEX ? MMIX_BRANCH_FLEX : MMIX_BRANCH_SWIN;
    y = mmix_mmate_forward(c->m, &l, x, NULL, &layout);
    /* of nothing */
    if (which == ONLY_SWIN && !layout.n_spans && !l.options.text_window)
        y = mmix_add(c->m, y, mmix_affine(c->m, x, 0, 0));
    out(c, "y", y);
    out(c, "final_state", last);
}
static void run_flex_ma(Case *c) { mmate(c, ONLY_FLEX); }
static void run_local_swin(Case *c) { mmate(c, ONLY_SWIN); }
static void run_mmate_layer(Case *c) { mmate(c, BOTH); }

/* ---- distillation ---- */

static void run_kd_hidden(Case *c)
{
    mmix_tensor *student = in(c, "student");
    mmix_tensor *teacher = in(c, "teacher");
    mmix_tensor *mask = in_or_null(c, "mask");
    out(c, "loss", mmix_kd_hidden(c->m, student, teacher, mask, flag(c, "relative")));
}
static void run_kd_token(Case *c)
{
    mmix_tensor *student = in(c, "student");
    mmix_tensor *teacher = in(c, "teacher");
    mmix_tensor *mask = in_or_null(c, "mask");
    out(c, "loss", mmix_kd_token(c->m, student, teacher, mask, number(c, "T", 0)));
}

/* ---- the decoder of ../data/stories260k, from the case's folder ---- */

static void out_text(Case *c, const tokenizer *t, const int32_t *tokens, size_t n)
{
    char bytes[4096];
    double values[sizeof bytes];
    size_t at = 0;
    for (size_t i = 1; i < n && tokens[i] != 1; i++) {
        size_t length;
        const char *piece = tokenizer_piece(t, tokens[i], &length);
        if (tokens[i - 1] == 1 && *piece == ' ') {
            piece++;
            length--;
        }
        if (at + length >= sizeof bytes) break;
        memcpy(bytes + at, piece, length);
        at += length;
    }
    bytes[at] = 0;
    for (size_t i = 0; i < at; i++)
        values[i] = (double)(unsigned char)bytes[i];
    out_f64(c, "bytes", values, at);
    const char *expected = text(c, "expected_text", bytes);
    if (strcmp(expected, bytes)) fail(c, "another text: \"%.200s\"", bytes);
}
static void run_llama(Case *c)
{
    enum { ROOM = 1024 };
    static const char *const kinds[] = {"encode", "decode", "logits", "generate", NULL};
    char path[1024];
    int32_t tokens[ROOM];
    size_t n = 0, rows[64];
    const char *slash = strrchr(c->path, '/');
    const int kind = one_of(c, "kind", kinds, "");
    const int folder = slash ? (int)(slash - c->path + 1) : 0;
    tokenizer *t = NULL;
    mmix_decoder *d = NULL;
    if (*c->skipped) return;
    snprintf(path, sizeof path, "%.*s../data/stories260k/tok512.bin", folder, c->path);
    FILE *there = fopen(path, "rb");
    if (!there) {
        skip(c, "no file", path + folder);
        return;
    }
    fclose(there);
    if (kind != 2) t = tokenizer_load(c->m, path);
    snprintf(path, sizeof path, "%.*s../data/stories260k/stories260K.bin", folder, c->path);
    if (kind >= 2) d = mmix_decoder_load(c->m, path);
    if (kind == 0 || kind == 3) {
        n = tokenizer_encode(t, text(c, "text", ""), kind || !arg(c, "bos") || flag(c, "bos"),
                             flag(c, "eos"), tokens, ROOM);
        if (kind == 0) out_i32(c, "tokens", tokens, n);
    }
    if (kind == 1) {
        mmix_tensor *all = in(c, "tokens");
        if (all)
            out_text(c, t, mmix_data_i32(all), mmix_count(all));
    }
    if (kind == 2 && d) {
        mmix_sequence s;
        mmix_tensor *all = in(c, "tokens");
        size_t shape[2] = {1, mmix_count(all)};
        memset(&s, 0, sizeof s);
        s.tokens = all ? mmix_from_i32(c->m, 2, shape, mmix_data_i32(all)) : NULL;
        mmix_tensor *logits = mmix_decoder_logits(c->m, d, mmix_decoder_forward(c->m, d, &s, NULL)),
                    *row[64];
        n = indices(c, "rows", rows, 64);
        for (size_t i = 0; i < n && i < MMIX_MAX_INPUTS; i++)
            row[i] = mmix_slice(c->m, logits, 1, rows[i], 1);
        out(c, "logits", n ? mmix_concat(c->m, 1, row, n) : logits);
    }
    if (kind == 3 && d && n) {
        mmix_sampling greedy;
        memset(&greedy, 0, sizeof greedy);
        greedy.stop = 1;
        const size_t count = whole(c, "count", 0), shape[2] = {1, n};
        const mmix_sequence text = {mmix_from_i32(c->m, 2, shape, tokens), NULL, 0, NULL, NULL };
        const size_t made = n + count > ROOM
                                ? 0
                                : mmix_decoder_generate(c->m, d, &text, &greedy, tokens + n, count);
        out_i32(c, "tokens", tokens, n + made);
        out_text(c, t, tokens, n + made);
    }
    tokenizer_free(t);
    mmix_decoder_destroy(d);
}

/* ---- backbones, checkpoints ---- */

static mmix_vision_config vision_config(Case *c)
{
    static const char *const mixers[] = { "softmax", "linear", NULL }, *const forms[] = {
        "released", "middle", NULL
    };
    mmix_vision_config o;
    memset(&o, 0, sizeof o);
    o.dim = whole(c, "dim", 0);
    o.depth = whole(c, "depth", 0);
    o.patch = whole(c, "patch", 0);
    o.grid = whole(c, "grid", 0);
    o.eps = number(c, "eps", 0);
    if (!strncmp(text(c, "model", ""), "dinov", 5)) {
        static const char *const forms2[] = { "dino", "exact", "antialias", NULL }, *const ffn[] = {
            "mlp", "swiglu", NULL
        };
        o.heads = whole(c, "heads", 0);
        o.mlp_ratio = o.dim ? (double)whole(c, "hidden", 0) / (double)o.dim : 0;
        o.registers = whole(c, "registers", 0);
        o.swiglu = one_of(c, "ffn", ffn, "mlp");
        o.layer_scale = 1;
        o.positions = strcmp(text(c, "model", ""), "dinov3") ? one_of(c, "positions", forms2, "")
                                                             : MMIX_POSITIONS_AXIAL;
        return o;
    }
    if (strcmp(text(c, "model", ""), "vim")) {
        o.mixer = one_of(c, "mixer", mixers, "softmax") ? MMIX_MIXER_LINEAR : MMIX_MIXER_SOFTMAX;
        o.heads = whole(c, "heads", 0);
        o.mlp_ratio = number(c, "mlp_ratio", 0);
        o.class_token = MMIX_CLASS_FIRST;
        if (o.mixer == MMIX_MIXER_LINEAR) o.normalize = flag(c, "normalise");
        return o;
    }
    o.mixer = MMIX_MIXER_SSD;
    o.registers = whole(c, "registers", 0);
    if (o.registers) o.class_token = MMIX_CLASS_REGISTERS;
    else if (arg(c, "form"))
        o.class_token = one_of(c, "form", forms, "") ? MMIX_CLASS_MIDDLE : MMIX_CLASS_RELEASED;
    else skip(c, "a model without", "form");
    o.mamba.bidirectional = 1;
    o.mamba.d_state = whole(c, "d_state", 0);
    o.mamba.head_dim = whole(c, "headdim", 0);
    o.mamba.groups = whole(c, "ngroups", 1);
    o.mamba.eps = o.eps;
    return o;
}
static void features(Case *c)
{
    mmix_vision_options o;
    mmix_tensor *image = in(c, "image");
    memset(&o, 0, sizeof o);
    o.n_last = whole(c, "n_last", 0);
    if (!c->vision || !image) return;
    if (!has(c, "out.", "intermediate")) o.n_last = 0;
    mmix_features f = mmix_vision_forward(c->m, c->vision, image, &o);
    out(c, "features", f.token);
    out(c, "tokens", f.tokens);
    out(c, "intermediate", f.intermediate);
    if (has(c, "out.", "attention"))
        out(c, "attention",
            mmix_vision_attention(c->m, c->vision, image, whole(c, "depth", 1) - 1));
    out(c, "patches", f.patches);
    out(c, "registers", f.registers);
    if (has(c, "out.", "logits")) {
        out(c, "pooled", mmix_vision_pooled(c->m, c->vision, &f));
        out(c, "logits", mmix_vision_classify(c->m, c->vision, &f));
    }
}
static void run_model(Case *c)
{
    mmix_vision_config config = vision_config(c);
    if (*c->skipped) return;
    c->vision = mmix_vision_create(c->m, config);
    if (!c->vision) return;
    load(c, mmix_vision_params(c->vision), "p.");
    if (has(c, "p.", "mask_token")) find(c, "p.", "mask_token");         /* in no formula */
    features(c);
}
/* The path of the file beside the case. */
static void beside(Case *c, char path[1024])
{
    const char *slash = strrchr(c->path, '/');
    snprintf(path, 1024, "%.*s%.400s", slash ? (int)(slash - c->path + 1) : 0, c->path,
             text(c, "file", ""));
}
/* A backbone whose names and shapes alone say what it is. */
static void run_vision(Case *c)
{
    char path[1024];
    beside(c, path);
    c->vision = mmix_vision_load(c->m, path);
    features(c);
}
static void run_checkpoint(Case *c)
{
    char path[1024];
    beside(c, path);
    if (arg(c, "model")) {
        mmix_vision_config config = vision_config(c);
        c->vision = *c->skipped ? NULL : mmix_vision_create(c->m, config);
        if (c->vision && !mmix_params_load(mmix_vision_params(c->vision), path))
            features(c);
        return;
    }
    mmix_archive *a = mmix_archive_open(c->m, path);
    for (size_t i = 0; a && i < mmix_archive_count(c->file); i++) {
        const mmix_entry *e = mmix_archive_entry(c->file, i), *there;
        if (strncmp(e->name, "out.", 4)) continue;
        find(c, "", e->name);
        there = mmix_archive_find(a, e->name + 4);
        size_t n = mmix_entry_count(e);
        double *values = (double *)malloc((n + 1) * sizeof *values);
        int same = there && there->ndim == e->ndim;
        for (int j = 0; same && j < e->ndim; j++)
            same = there->shape[j] == e->shape[j];
        if (!same)
            fail(c, "%.100s is %s", e->name, there ? "of another shape" : "not in the file");
        else if (values && !mmix_archive_read(c->m, a, there, MMIX_FILE_F64, values, n))
            compare(c, e, values, n, 0);
        free(values);
    }
    mmix_archive_close(a);
}

/* ---- DINO, optimizer, schedules ---- */

static void run_dino_head(Case *c)
{
    mmix_dino_head head;
    const size_t D = whole(c, "in_dim", 0);
    const size_t hidden = whole(c, "hidden", 0);
    const size_t bottleneck = whole(c, "bottleneck", 0);
    mmix_dino_head_init(&head, parameters(c), "", D, hidden, bottleneck, whole(c, "out_dim", 0),
                        whole(c, "nlayers", 0));
    load_layer(c);
    out(c, "y", mmix_dino_head_forward(c->m, &head, in(c, "x")));
}
static void run_dino_loss(Case *c)
{
    mmix_dino_loss_stats stats;
    mmix_tensor *student = in(c, "student");
    mmix_tensor *teacher = in(c, "teacher");
    mmix_tensor *center = in(c, "center");
    const double ts = number(c, "student_temp", 0);
    const double tt = number(c, "teacher_temp", 0);
    const double momentum = number(c, "center_momentum", 0);
    memset(&stats, 0, sizeof stats);
    if (!center) return;
    mmix_tensor *loss = mmix_dino_loss(c->m, student, teacher, mmix_data(center),
                                       whole(c, "ncrops", 0), ts, tt, momentum, &stats);
    if (!loss) return;
    out(c, "loss", loss);
    out(c, "center", center);
    out_number(c, "teacher_entropy", stats.teacher_entropy);
    out_number(c, "teacher_kl_uniform", stats.teacher_kl_uniform);
    out_number(c, "center_norm", stats.center_norm);
}
/* The parameters of one network under out.WHO.backbone. and out.WHO.head. */
static void out_network(Case *c, const char *who, mmix_vision *v, mmix_params *head)
{
    char prefix[64];
    for (int part = 0; part < 2; part++) {
        const mmix_params *p = part ? head : mmix_vision_params(v);
        snprintf(prefix, sizeof prefix, "out.%s.%s.", who, part ? "head" : "backbone");
        for (size_t i = 0; i < p->count; i++) {
            const mmix_entry *e = find(c, prefix, p->at[i].name);
            if (e)
                compare_tensor(c, e, p->at[i].tensor, c->tol);
        }
    }
}
/* Batch number b of in.NAME (batches, crops, B, 3, h, w), crop after crop. */
static mmix_tensor *crops(Case *c, const char *name, size_t b)
{
    mmix_tensor *all = in(c, name), *t = NULL;
    if (all)
        t = mmix_new4(c->m, mmix_shape(all, 1) * mmix_shape(all, 2), 3, mmix_shape(all, 4),
                      mmix_shape(all, 5));
    if (t && b < mmix_shape(all, 0))
        mmix_write(t, mmix_data(all) + b * mmix_count(t));
    return t;
}
static void run_dino_trajectory(Case *c)
{
    enum { STEPS = 64 };
    double loss[STEPS], lr[STEPS], wd[STEPS], momentum[STEPS], temp[STEPS], norm[STEPS];
    size_t order[STEPS], steps = whole(c, "steps", 0);
    mmix_dino_config o = mmix_dino_config_default();
    o.vision = vision_config(c);
    o.head_hidden = whole(c, "hidden", 0);
    o.head_bottleneck = whole(c, "bottleneck", 0);
    o.prototypes = whole(c, "out_dim", 0);
    o.head_layers = whole(c, "nlayers", 0);
    o.batch = whole(c, "batch", 0);
    o.epochs = whole(c, "epochs", 0);
    o.iters = whole(c, "iters", 0);
    o.lr = number(c, "lr", 0);
    o.min_lr = number(c, "min_lr", 0);
    o.warmup_epochs = whole(c, "warmup_epochs", 0);
    o.weight_decay = number(c, "weight_decay", 0);
    o.weight_decay_end = number(c, "weight_decay_end", 0);
    o.clip = number(c, "clip_grad", 0);
    o.freeze_last_layer = whole(c, "freeze_last_layer", 0);
    o.momentum = number(c, "momentum_teacher", 0);
    o.center_momentum = number(c, "center_momentum", 0);
    o.student_temp = number(c, "student_temp", 0);
    o.teacher_temp = number(c, "teacher_temp", 0);
    o.teacher_temp_warm = number(c, "warmup_teacher_temp", 0);
    o.teacher_temp_epochs = whole(c, "warmup_teacher_temp_epochs", 0);
    o.augment.local_count = whole(c, "local_crops", 0);
    /* of the model, which is not asked for intermediate tokens here */
    arg(c, "n_last");
    if (whole(c, "in_dim", 0) != o.vision.dim || steps > STEPS
        || indices(c, "batch_order", order, STEPS) < steps)
        fail(c, "in_dim, steps or batch_order do not fit");
    else if (!*c->skipped)
        c->dino = mmix_dino_create(c->m, o);
    if (!c->dino) return;
    for (int t = 0; t < 2; t++) {
        load(c,
             mmix_vision_params(t ? mmix_dino_backbone(c->dino, 1)
                                  : mmix_dino_backbone(c->dino, 0)),
             "p.backbone.");
        load(c, mmix_dino_head_params(c->dino, t), "p.head.");
    }
    for (size_t s = 0; s < steps && !*c->failure; s++) {
        mmix_dino_stats stats;
        mmix_reset(c->m);
        mmix_tensor *global = crops(c, "global", order[s]);
        mmix_tensor *local = o.augment.local_count ? crops(c, "local", order[s]) : NULL;
        int more = mmix_dino_step_crops(c->dino, global, local, &stats);
        if (more != 1) {
            fail(c, "step %zu returned %d: %s", s, more,
                 mmix_error(c->m) ? mmix_error(c->m) : "the run was over");
            return;
        }
        loss[s] = stats.loss;
        lr[s] = stats.lr;
        wd[s] = stats.weight_decay;
        momentum[s] = stats.momentum;
        norm[s] = stats.gradient_norm;
        temp[s] = mmix_schedule_cosine(o.teacher_temp, o.teacher_temp, 0, 1, o.teacher_temp_epochs,
                                       o.teacher_temp_warm, stats.epoch);
    }
    out_f64(c, "loss", loss, steps);
    out_f64(c, "lr", lr, steps);
    out_f64(c, "wd", wd, steps);
    out_f64(c, "momentum", momentum, steps);
    out_f64(c, "teacher_temp", temp, steps);
    out_f64(c, "grad_norm", norm, steps);
    out_real(c, "center", mmix_dino_center(c->dino), o.prototypes);
    out_network(c, "student", mmix_dino_backbone(c->dino, 0), mmix_dino_head_params(c->dino, 0));
    out_network(c, "teacher", mmix_dino_backbone(c->dino, 1), mmix_dino_head_params(c->dino, 1));
}
/* A list of one parameter of t's shape with its moments, of SGD or AdamW; decay holds whatever
   the rank. */
static mmix_tensor *one_parameter(Case *c, mmix_tensor *t, mmix_optimizer *state, int sgd)
{
    size_t shape[MMIX_MAX_DIMS];
    if (!t || !parameters(c)) return NULL;
    for (int i = 0; i < mmix_ndim(t); i++)
        shape[i] = mmix_shape(t, i);
    mmix_tensor *p = mmix_params_add(c->params, "", "p", mmix_ndim(t), shape, MMIX_INIT_CONSTANT, 0,
                                     0);
    if (!p || mmix_params_allocate(c->params)
        || (sgd ? mmix_sgd_init : mmix_adamw_init)(state, c->params))
        return NULL;
    c->params->at[0].decay = 1;
    mmix_write(p, mmix_data(t));
    return p;
}
/* Makes g the gradient of p, through the tape. */
static void give_gradient(Case *c, mmix_tensor *p, mmix_tensor *g)
{
    mmix_record(c->m, 1);
    mmix_tensor *same = mmix_affine(c->m, p, 1, 0);
    mmix_backward_from(c->m, &same, &g, 1);
    mmix_record(c->m, 0);
}
static void run_optim(Case *c)
{
    enum { STEPS = 64 };
    const int sgd = !strcmp(c->face->id, "optim_sgd");
    double lr[STEPS], wd[STEPS];
    mmix_adamw o = mmix_adamw_config_default();
    mmix_sgd s = mmix_sgd_config_default();
    mmix_optimizer state;
    mmix_tensor *start = in(c, "p");
    mmix_tensor *grad = in(c, "grad");
    mmix_tensor *p;
    const size_t steps = mmix_shape(grad, 0), n = mmix_count(start);
    memset(&state, 0, sizeof state);
    numbers(c, "lr", lr, STEPS);
    numbers(c, "weight_decay", wd, STEPS);
    if (sgd) {
        s.momentum = number(c, "momentum", 0);
        s.dampening = number(c, "dampening", 0);
        s.nesterov = flag(c, "nesterov");
    }
    else {
        o.beta1 = number(c, "beta1", 0);
        o.beta2 = number(c, "beta2", 0);
        o.eps = number(c, "eps", 0);
    }
    mmix_real *path = (mmix_real *)malloc((steps * n + 1) * sizeof *path);
    if (path && steps <= STEPS && (p = one_parameter(c, start, &state, sgd)) != NULL) {
        size_t shape[MMIX_MAX_DIMS];
        for (int i = 0; i < mmix_ndim(p); i++)
            shape[i] = mmix_shape(p, i);
        for (size_t i = 0; i < steps; i++) {
            give_gradient(c, p, mmix_from(c->m, mmix_ndim(p), shape, mmix_data(grad) + i * n));
            s.lr = o.lr = lr[i];
            s.weight_decay = o.weight_decay = wd[i];
            if (sgd) mmix_sgd_step(&state, &s, 0, NULL);
            else mmix_adamw_step(&state, &o, 0, NULL);
            mmix_read(p, path + i * n);
        }
        out_real(c, "p", path, steps * n);
        out_real(c, sgd ? "buf" : "m", state.m, n);
        if (!sgd) out_real(c, "v", state.v, n);
    }
    mmix_optimizer_free(&state);
    free(path);
}
/* Of all tensors together, a list of them: after SGD's first step its buffer is the clipped
   gradient. */
static void clip_all(Case *c, double clip)
{
    mmix_tensor *grad[10], *p[10];
    mmix_optimizer state;
    size_t n = 0;
    mmix_sgd o = mmix_sgd_config_default();
    memset(&state, 0, sizeof state);
    parameters(c);
    for (char name[3] = "g0"; c->params && has(c, "in.", name) && n < 10; name[1]++, n++) {
        grad[n] = in(c, name);
        size_t shape[MMIX_MAX_DIMS];
        for (int i = 0; i < mmix_ndim(grad[n]); i++)
            shape[i] = mmix_shape(grad[n], i);
        p[n] = mmix_params_add(c->params, "", name, mmix_ndim(grad[n]), shape, MMIX_INIT_CONSTANT,
                               0, 0);
    }
    if (!mmix_error(c->m) && !mmix_params_allocate(c->params)
        && !mmix_sgd_init(&state, c->params)) {
        for (size_t i = 0; i < n; i++)
            give_gradient(c, p[i], grad[i]);
        out_number(c, "norm", mmix_sgd_step(&state, &o, -clip, NULL));
        for (size_t i = 0; i < n; i++)
            out_real(c, c->params->at[i].name, state.m + (mmix_data(p[i]) - c->params->values),
                     mmix_count(p[i]));
    }
    mmix_optimizer_free(&state);
}
/* The clipping inside mmix_adamw_step, a list for each tensor: with beta1 = 0 the first moment
   is the clipped gradient. */
static void run_optim_clip(Case *c)
{
    static const char *const modes[] = {"per_tensor", "global", NULL};
    double norm[16], clip = number(c, "max_norm", 0);
    size_t n = 0;
    const int all = one_of(c, "mode", modes, "per_tensor");
    if (*c->skipped) return;
    if (all) {
        clip_all(c, clip);
        return;
    }
    mmix_adamw o = mmix_adamw_config_default();
    o.beta1 = 0;
    for (char name[3] = "g0"; has(c, "in.", name) && n < 10; name[1]++) {
        mmix_optimizer state;
        mmix_tensor *g = in(c, name);
        memset(&state, 0, sizeof state);
        mmix_tensor *p = one_parameter(c, g, &state, 0);
        if (p) {
            give_gradient(c, p, g);
            norm[n++] = mmix_adamw_step(&state, &o, clip, NULL);
            out_real(c, name, state.m, mmix_count(p));
        }
        mmix_optimizer_free(&state);
        mmix_params_destroy(c->params);
        c->params = NULL;
    }
    out_f64(c, "norm", norm, n);
}
static void run_schedule(Case *c)
{
    static const char *const kinds[] = { "cosine", "teacher_temp", "warmup_poly",
                                         "warmup_multistep", NULL };
    const int kind = one_of(c, "kind", kinds, "");
    mmix_tensor *at = in_or_null(c, "at");
    const mmix_entry *e = find(c, "out.", "value");
    const size_t n = mmix_entry_count(e);
    double *value = (double *)malloc((n + 1) * sizeof *value);
    /* the run's length, on which these do not depend */
    if (kind == 1 || kind == 3) arg(c, "epochs");
    for (size_t i = 0; value && i < n; i++) {
        const size_t step = at ? (size_t)mmix_data_i32(at)[i] : i;
        const size_t warmup = kind > 1 ? whole(c, "warmup", 0) : 0;
        size_t milestones[16];
        if (kind == 0)
            value[i] = mmix_schedule_cosine(number(c, "base", 0), number(c, "final", 0),
                                            whole(c, "epochs", 0), whole(c, "iters", 0),
                                            whole(c, "warmup_epochs", 0), number(c, "start", 0),
                                            step);
        else if (kind == 1)
            value[i] = mmix_schedule_cosine(number(c, "final", 0), number(c, "final", 0), 0, 1,
                                            whole(c, "warm_epochs", 0), number(c, "warm", 0), step);
        else if (kind == 2)
            value[i] = mmix_schedule_poly(number(c, "base", 0), number(c, "final", 0),
                                          whole(c, "steps", 0), warmup,
                                          number(c, "start_factor", 0), number(c, "power", 0),
                                          step);
        else {
            const size_t count = indices(c, "milestones", milestones, 16);
            value[i] = mmix_schedule_multistep(number(c, "base", 0), number(c, "gamma", 0),
                                               milestones, count, whole(c, "iters", 0), warmup,
                                               number(c, "start_factor", 0), step);
        }
    }
    if (e && value)
        compare(c, e, value, n, 1e-9); /* double arithmetic in both builds */
    free(value);
}

/* ---- metrics ---- */

/* (N, h, w) of (h, w), too */
static mmix_tensor *images_of(Case *c, mmix_tensor *t)
{
    const size_t shape[3] = {1, mmix_shape(t, 0), mmix_shape(t, 1)};
    return mmix_ndim(t) == 2 ? mmix_reshape(c->m, t, 3, shape) : t;
}
static void run_binary_auc(Case *c)
{
    static const char *const reduce[] = {"mean", "pooled", NULL};
    mmix_tensor *map = images_of(c, in(c, "map"));
    mmix_tensor *mask = images_of(c, in(c, "mask"));
    mmix_auc_options o;
    mmix_auc r;
    if (!map || !mask) return;
    memset(&o, 0, sizeof o);
    o.thresholds = whole(c, "thresholds", 0);
    o.void_label = (int32_t)number(c, "void", 0);
    o.pooled = one_of(c, "reduce", reduce, "mean");
    flag(c, "grid");                             /* the map's size says it */
    if (mmix_binary_auc(c->m, &o, map, mask, &r))
        return;
    out_number(c, "auc", r.auc);
    out_f64(c, "auc_raw", r.auc_raw, r.count);
    out_f64(c, "fpr", r.fpr, r.points);
    out_f64(c, "tpr", r.tpr, r.points);
}
static void run_iou(Case *c)
{
    mmix_tensor *map = images_of(c, in(c, "map"));
    mmix_tensor *mask = images_of(c, in(c, "mask"));
    double iou;
    double threshold = number(c, "threshold", 0);
    double ignored = number(c, "void", 0);
    if (!map || !mask) return;
    if (mmix_binary_iou(c->m, map, mask, threshold, (int32_t)ignored, &iou))
        return;
    out_number(c, "iou", iou);
}
static void run_miou(Case *c)
{
    mmix_tensor *pred = in(c, "pred"), *label = in(c, "label");
    const size_t K = whole(c, "classes", 0);
    mmix_miou_count count[64];
    double iou[64];
    memset(count, 0, sizeof count);
    if (K > 64 || mmix_miou_add(c->m, count, K, pred, label, (int32_t)number(c, "void", -1)))
        return;
    const mmix_miou_result r = mmix_miou(count, K, iou);
    out_f64(c, "iou", iou, K);
    out_number(c, "miou", r.miou);
    out_number(c, "accuracy", r.accuracy);
}
/* The rows in the order of the case's batches, then, as asked, all of them. */
typedef struct Rows { const mmix_tensor *x, *label, *batch; size_t call; } Rows;
static int read_rows(void *user, const size_t *rows, size_t n, mmix_real *x, int32_t *label)
{
    Rows *r = (Rows *)user;
    const size_t D = mmix_shape(r->x, 1), step = r->call++;
    for (size_t i = 0; i < n; i++) {
        const size_t row = step < mmix_shape(r->batch, 0)
                               ? (size_t)mmix_data_i32(r->batch)[step * n + i]
                               : rows[i];
        memcpy(x + i * D, mmix_data(r->x) + row * D, D * sizeof *x);
        label[i] = mmix_data_i32(r->label)[row];
    }
    return 0;
}
static void run_linear_probe(Case *c)
{
    mmix_tensor *x = in(c, "x");
    mmix_tensor *label = in(c, "label");
    mmix_tensor *batch = in(c, "batch");
    mmix_tensor *weight = param(c, "weight");
    mmix_tensor *bias = param(c, "bias");
    if (mmix_error(c->m)) return;
    const size_t column[2] = {mmix_shape(weight, 0), 1}, rows = mmix_shape(batch, 1);
    mmix_tensor *start[2] = {weight, mmix_reshape(c->m, bias, 2, column)};
    Rows r = {x, label, batch, 0};
    mmix_source
        train = { whole(c, "iters", 1) * rows, mmix_shape(x, 1), 1, 1, 1, 1, read_rows, &r },
        test = train;
    mmix_probe_config o = mmix_probe_config_default();
    mmix_probe_result found;
    o.classes = column[0];
    o.batch = rows;
    o.epochs = whole(c, "epochs", 0);
    o.rate[0] = number(c, "lr", 0) * 256 / (double)rows;
    o.momentum = number(c, "momentum", 0);
    o.weight_decay = number(c, "weight_decay", 0);
    o.start = mmix_concat(c->m, 1, start, 2);
    test.count = mmix_shape(x, 0);
    if (mmix_linear_probe(c->m, &o, &train, &test, &found))
        return;
    out_f64(c, "loss", found.loss, found.steps);
    out(c, "weight", found.weight);
    out(c, "bias", found.bias);
    out(c, "logits", mmix_linear(c->m, x, found.weight, found.bias));
    out_number(c, "accuracy", found.test.accuracy);
}
static void run_knn(Case *c)
{
    mmix_tensor *train = in(c, "train");
    mmix_tensor *test = in(c, "test");
    mmix_tensor *train_label = in(c, "train_label");
    mmix_tensor *test_label = in(c, "test_label");
    const size_t tests = mmix_shape(test, 0), classes = whole(c, "classes", 0);
    mmix_knn_result r;
    size_t k = whole(c, "k", 0);
    if (mmix_knn(c->m, train, train_label, test, test_label, classes, k,
                 number(c, "temperature", 0), &r))
        return;
    out_f64(c, "votes", r.votes, tests * classes);
    out_i32(c, "pred", r.pred, tests);
    out_number(c, "top1", r.top1);
}
static void run_pca(Case *c)
{
    mmix_tensor *x = in(c, "x");
    const size_t rows = mmix_shape(x, 0);
    const size_t D = mmix_shape(x, 1);
    const size_t k = whole(c, "k", 0);
    mmix_pca_result r;
    if (mmix_pca(c->m, x, k, &r)) return;
    out_f64(c, "mean", r.mean, D);
    out_f64(c, "components", r.components, k * D);
    out_f64(c, "variance", r.variance, k);
    out_f64(c, "projection", r.projection, rows * k);
}
static void run_rank(Case *c)
{
    mmix_tensor *x = in(c, "m");
    mmix_rank r;
    size_t block = whole(c, "block", 0);
    if (mmix_block_rank(c->m, x, block, number(c, "eps", 0), &r))
        return;
    out_f64(c, "rank", r.numerical, r.rows * r.cols);
    out_f64(c, "effective_rank", r.effective, r.rows * r.cols);
    out_f64(c, "stable_rank", r.stable, r.rows * r.cols);
    if (!block) out_f64(c, "singular", r.singular, r.width);
}
static void run_matrix_distance(Case *c)
{
    mmix_tensor *a = in(c, "a"), *b = in(c, "b");
    const size_t H = mmix_shape(a, 0);
    double distance[64], relative[64];
    if (!a || !b || H > 64) return;
    matrix_distance(mmix_data(a), mmix_data(b), H, mmix_shape(a, 1) * mmix_shape(a, 2), distance,
                    relative);
    out_f64(c, "distance", distance, H);
    out_f64(c, "relative", relative, H);
}
static void run_class_strategy(Case *c)
{
    static const char *const strategies[] = {"cls", "mean", "max", "cls+mean", "cls+max", NULL};
    const int strategy = one_of(c, "strategy", strategies, "");
    size_t at[64], special[64];
    size_t n_class = indices(c, "class_index", at, 64);
    size_t n_special = indices(c, "special", special, 64);
    mmix_tensor *tokens = in(c, "tokens"), *part[2];
    size_t n = 0;
    if (strategy == 0 || strategy > 2)
        part[n++] = mmix_pool_tokens(c->m, tokens, at, n_class, 0, 0);
    if (strategy > 0)
        part[n++] = mmix_pool_tokens(c->m, tokens, special, n_special, 1, strategy % 2 == 0);
    out(c, "y", mmix_concat(c->m, 1, part, n));
}
static void run_feature_map(Case *c)
{
    static const char *const similarities[] = {"cosine", "dot", NULL};
    mmix_tensor *query = in(c, "query"), *patches = in(c, "patches");
    const int one = arg(c, "query") != NULL;
    const size_t shape[2][3] = { { 1, mmix_shape(query, 0), mmix_shape(query, 1) },
                                 { 1, mmix_shape(patches, 0), mmix_shape(patches, 1) } },
                 row = whole(c, "query", 0);
    size_t grid[2] = {0, 0}, size[2] = {0, 0};
    mmix_map_options o;
    mmix_map r;
    memset(&o, 0, sizeof o);
    o.similarity = one_of(c, "similarity", similarities, "cosine");
    indices(c, "grid", grid, 2);
    indices(c, "size", size, 2);
    if (one) {
        o.positions = &row;
        o.n_positions = 1;
    }
    if (mmix_feature_map(c->m, &o, mmix_reshape(c->m, query, 3, shape[0]),
                         mmix_reshape(c->m, patches, 3, shape[1]), grid[0], grid[1], size[0],
                         size[1], &r))
        return;
    out_real(c, "similarity", mmix_data(r.similarity), grid[0] * grid[1]);
    out_real(c, "scaled", mmix_data(r.scaled), grid[0] * grid[1]);
    out_real(c, "map", mmix_data(r.map), size[0] * size[1]);
}

/* ---- images: (height, width, 3) integers ---- */

static void *bytes_of(Case *c, size_t n)         /* step memory of at least n bytes */
{
    return mmix_data(mmix_new1(c->m, n / sizeof(real) + 1));
}
typedef struct Image { uint8_t *rgb; size_t height, width; } Image;
static int image(Case *c, Image *p)
{
    mmix_tensor *t = in(c, "image");
    p->height = mmix_shape(t, 0);
    p->width = mmix_shape(t, 1);
    p->rgb = t ? (uint8_t *)bytes_of(c, mmix_count(t)) : NULL;
    for (size_t i = 0; p->rgb && i < mmix_count(t); i++)
        p->rgb[i] = (uint8_t)mmix_data_i32(t)[i];
    return p->rgb != NULL;
}
static mmix_picture picture(const Image *p)
{
    mmix_picture q;
    q.rgb = p->rgb;
    q.height = p->height;
    q.width = p->width;
    return q;
}
static void out_bytes(Case *c, const uint8_t *bytes, size_t n, int status)
{
    double *d = (double *)malloc((n + 1) * sizeof *d);
    for (size_t i = 0; d && i < n; i++)
        d[i] = bytes[i];
    if (status) fail(c, "the function returned %d", status);
    else out_f64(c, "y", d, n);
    free(d);
}
static void out_image(Case *c, const Image *p, int status)
{
    out_bytes(c, p->rgb, p->width * p->height * 3, status);
}
static void run_crop(Case *c)
{
    size_t b[4] = {0, 0, 0, 0}, size[2] = {0, 0};
    mmix_box box;
    Image p;
    indices(c, "box", b, 4);
    indices(c, "size", size, 2);
    box.top = b[0];
    box.left = b[1];
    box.height = b[2];
    box.width = b[3];
    if (!image(c, &p)) return;
    uint8_t *y = (uint8_t *)bytes_of(c, size[0] * size[1] * 3);
    void *scratch = bytes_of(c, mmix_picture_resize_scratch_bytes(
                                    mmix_resize_plan_box(box, size[1], size[0])));
    if (y && scratch)
        out_bytes(c, y, size[0] * size[1] * 3,
                  mmix_picture_resize(y, picture(&p), mmix_resize_plan_box(box, size[1], size[0]),
                                      scratch));
}
static void run_evaluate(Case *c)
{
    const size_t side = whole(c, "resize", 0);
    const size_t crop = whole(c, "crop", 0);
    Image p;
    if (!image(c, &p)) return;
    uint8_t *y = (uint8_t *)bytes_of(c, crop * crop * 3);
    void *scratch = bytes_of(c, mmix_picture_resize_scratch_bytes(
                                    mmix_resize_plan_center_crop(p.width, p.height, side, crop)));
    if (y && scratch)
        out_bytes(c, y, crop * crop * 3,
                  mmix_picture_resize(y, picture(&p),
                                      mmix_resize_plan_center_crop(p.width, p.height, side, crop),
                                      scratch));
}
static void run_jitter(Case *c)
{
    static const char *const names[] = {"brightness", "contrast", "saturation", "hue"};
    double factors[8] = {0};
    int order[8];
    size_t n = numbers(c, "factors", factors, 8), k = 0;
    Image p;
    for (const Json *v = json_first(arg(c, "order")); v && k < 8; v = v->next, k++) {
        order[k] = -1;
        for (int i = 0; i < 4; i++)
            if (json_text(v) && !strcmp(json_text(v), names[i]))
                order[k] = i;
        if (order[k] < 0)
            skip(c, "order", json_text(v) ? json_text(v) : "?");
    }
    if (k != n) fail(c, "%zu changes, %zu factors", k, n);
    else if (!*c->skipped && image(c, &p)) {
        int status = 0;
        for (size_t i = 0; i < n; i++)
            status |= mmix_picture_adjust(p.rgb, p.width, p.height, order[i], factors[i], NULL);
        out_image(c, &p, status);
    }
}
static void run_blur(Case *c)
{
    Image p;
    if (!image(c, &p)) return;
    void *scratch = bytes_of(c, mmix_picture_blur_scratch_bytes(p.width, p.height));
    if (scratch)
        out_image(c, &p,
                  mmix_picture_adjust(p.rgb, p.width, p.height, MMIX_ADJUST_BLUR,
                                      number(c, "sigma", 0), scratch));
}
static void run_solarize(Case *c)
{
    const int threshold = (int)number(c, "threshold", 128);
    Image p;
    if (!image(c, &p)) return;
    out_image(c, &p,
              mmix_picture_adjust(p.rgb, p.width, p.height, MMIX_ADJUST_SOLARIZE, threshold, NULL));
}
static void in_place(Case *c, int change)
{
    Image p;
    if (image(c, &p))
        out_image(c, &p, mmix_picture_adjust(p.rgb, p.width, p.height, change, 0, NULL));
}
static void run_gray(Case *c) { in_place(c, MMIX_ADJUST_GRAY); }
static void run_flip(Case *c) { in_place(c, MMIX_ADJUST_FLIP); }
static void run_normalize(Case *c)
{
    double mean[3], deviation[3];
    Image p;
    numbers(c, "mean", mean, 3);
    numbers(c, "std", deviation, 3);
    if (!image(c, &p)) return;
    mmix_tensor *y = mmix_new3(c->m, 3, p.height, p.width);
    if (!y) return;
    if (mmix_picture_normalize(mmix_data(y), picture(&p), mean, deviation))
        fail(c, "the function returned -1");
    out(c, "y", y);
}

/* ---- the table, one case, the program ---- */

static const Face faces[] = {
    { "softmax", run_softmax, OP },
    { "layer_norm", run_layer_norm, OP },
    { "rms_norm", run_rms_norm, OP },
    { "gated_rms_norm", run_gated_rms_norm, OP },
    { "gelu", run_gelu, OP },
    { "silu", run_silu, OP },
    { "softplus", run_softplus, OP },
    { "linear", run_linear, OP },
    { "conv1d", run_conv1d, OP },
    { "cross_entropy", run_cross_entropy, OP },
    { "patch_embed", run_patch_embed, OP },
    { "bicubic_resize", run_bicubic_resize, OP },
    { "bilinear_resize", run_bilinear_resize, OP },
    { "bicubic_resize_antialias", run_bicubic_resize_antialias, OP },
    { "rope", run_rope, OP },
    { "ssd_steps", run_ssd_steps, OP },
    { "swiglu_ffn", run_swiglu_ffn, LAYER },
    { "lora_linear", run_lora_linear, LAYER },
    { "rms_order", run_rms_order, OP },
    { "metric_rank", run_rank, OP },
    { "metric_matrix_distance", run_matrix_distance, OP },
    { "softmax_attention", run_softmax_attention, OP },
    { "linear_attention", run_linear_attention, OP },
    { "ssd", run_ssd, OP },
    { "selective_scan", run_selective_scan, OP },
    { "selective_steps", run_selective_steps, OP },
    { "attention_layer", run_attention_layer, LAYER },
    { "linear_attention_layer", run_linear_attention_layer, LAYER },
    { "mamba2_layer", run_mamba2_layer, LAYER },
    { "bimamba2_layer", run_bimamba2_layer, LAYER },
    { "mamba1_layer", run_mamba1_layer, LAYER },
    { "vim_layer", run_vim_layer, LAYER },
    { "mlp", run_mlp, LAYER },
    { "flex_ma", run_flex_ma, LAYER },
    { "local_swin", run_local_swin, LAYER },
    { "mmate_layer", run_mmate_layer, LAYER },
    { "kd_hidden", run_kd_hidden, OP },
    { "kd_token", run_kd_token, OP },
    { "kd_sequence", run_cross_entropy, OP },
    { "supervised", run_cross_entropy, OP },
    { "llama", run_llama, LAYER },
    { "model_vit", run_model, LAYER },
    { "model_linvit", run_model, LAYER },
    { "model_dinovim", run_model, LAYER },
    { "model_mambareg", run_model, LAYER },
    { "model_dinov2", run_model, LAYER },
    { "model_dinov3", run_model, LAYER },
    { "checkpoint_dinov2", run_checkpoint, LAYER },
    { "checkpoint_vision", run_vision, LAYER },
    { "checkpoint", run_checkpoint, LAYER },
    { "dino_head", run_dino_head, LAYER },
    { "dino_loss", run_dino_loss, OP },
    { "dino_trajectory", run_dino_trajectory, LAYER },
    { "optim_adamw", run_optim, OP },
    { "optim_sgd", run_optim, OP },
    { "optim_clip", run_optim_clip, OP },
    { "schedule", run_schedule, OP },
    { "metric_miou", run_miou, OP },
    { "metric_linear_probe", run_linear_probe, OP },
    { "metric_binary_auc", run_binary_auc, OP },
    { "metric_iou", run_iou, OP },
    { "metric_knn", run_knn, OP },
    { "metric_pca", run_pca, OP },
    { "metric_class_strategy", run_class_strategy, OP },
    { "metric_feature_map", run_feature_map, OP },
    { "image_random_resized_crop_apply", run_crop, OP },
    { "image_eval_transform", run_evaluate, OP },
    { "image_color_jitter_apply", run_jitter, OP },
    { "image_gaussian_blur", run_blur, OP },
    { "image_solarize", run_solarize, OP },
    { "image_grayscale", run_gray, OP },
    { "image_flip", run_flip, OP },
    { "image_normalize", run_normalize, OP },
};

static int verbose, threads, passed, failed, skipped;
#ifdef MMIX_GOLDEN_CUDA
static size_t on_device, on_host;
static int attach(mmix_ctx *m)
{
    mmix_cuda_options o;
    memset(&o, 0, sizeof o);
    o.least = 1;
    return mmix_cuda_attach(m, &o);
}
static void detach(mmix_ctx *m)
{
    mmix_cuda_statistics s;
    mmix_cuda_stats(m, &s);
    on_device += s.device_calls;
    on_host += s.host_calls;
    mmix_cuda_detach(m);
}
#else
static int attach(mmix_ctx *m)
{
    (void)m;
    return 0;
}
static void detach(mmix_ctx *m) { (void)m; }
#endif
static struct { char id[64]; int count; } missing[MAX_SKIPPED];          /* skipped cases by id */

static void clean(Case *c)
{
    mmix_dino_destroy(c->dino);
    mmix_vision_destroy(c->vision);
    mmix_params_destroy(c->params);
    c->dino = NULL;
    c->vision = NULL;
    c->params = NULL;
    c->leaves = c->outputs = 0;
    mmix_record(c->m, 0);
    mmix_reset(c->m);
}
static int is_optional(Case *c, const char *output)
{
    const Json *v = json_first(json_find(c->args, "optional"));
    for (; v; v = v->next)
        if (json_text(v) && !strcmp(v->text, output)) return 1;
    return 0;
}
/* What the face did not look at makes the case a skipped one. It is why the numbers differ, too;
   but after an error, or a difference in spite of every option, it is no excuse. */
static void unread(Case *c)
{
    size_t i = 0;
    for (const Json *v = json_first(c->args); v && !mmix_error(c->m); v = v->next, i++)
        if (i >= MAX_ARGS
            || (!c->arg_used[i] && strcmp(v->key, "tol") && strcmp(v->key, "optional")))
            skip(c, "option", v->key);
    for (i = 0; !*c->failure && i < mmix_archive_count(c->file); i++) {
        const char *name = mmix_archive_entry(c->file, i)->name;
        const int output = !strncmp(name, "out.", 4);
        const int input = !strncmp(name, "in.", 3) || !strncmp(name, "p.", 2);
        if (!c->entry_used[i] && (input || (output && !is_optional(c, name + 4))))
            skip(c, output ? "output" : "tensor", name);
    }
}
static void run(Case *c)
{
    int differentiable = 0;
    c->tol = c->face->bound == LAYER ? 2e-4 : 2e-5;
    c->tol = sizeof(mmix_real) == 8 ? 1e-9 : json_number(json_find(c->args, "tol"), c->tol);
    for (size_t i = 0; i < mmix_archive_count(c->file); i++)
        if (!strncmp(mmix_archive_entry(c->file, i)->name, "cot.", 4))
            differentiable = 1;
    for (c->record = 0; c->record <= differentiable && !*c->failure && !*c->skipped; c->record++) {
        mmix_record(c->m, c->record);
        c->face->run(c);
        if (!*c->skipped && c->record) gradients(c);
        if (mmix_error(c->m))
            fail(c, "error: %s", mmix_error(c->m));
        unread(c);
        clean(c);
    }
}
static void run_file(const char *path)
{
    static Case c;                               /* static: some tens of kilobytes */
    mmix_options options;
    const char *id = "?", *text_of_args;
    memset(&c, 0, sizeof c);
    memset(&options, 0, sizeof options);
    options.threads = threads;
    c.path = path;
    c.m = mmix_create(&options);
    c.file = mmix_archive_open(c.m, path);
    if (attach(c.m))
        fail(&c, "%s", mmix_error(c.m));
    else if (!c.file || mmix_archive_count(c.file) > MAX_ENTRIES)
        fail(&c, "%s", mmix_error(c.m) ? mmix_error(c.m) : "too many entries");
    else {
        id = mmix_archive_metadata(c.file, "case");
        text_of_args = mmix_archive_metadata(c.file, "args");
        c.args = text_of_args ? json_read(text_of_args) : NULL;
        if (!id || !c.args)
            fail(&c, "no case: %s",
                 mmix_error(c.m) ? mmix_error(c.m) : "its metadata has no case or args");
        else {
            for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
                if (!strcmp(faces[i].id, id))
                    c.face = &faces[i];
            if (c.face) run(&c);
            else skip(&c, "no function", id);
        }
    }
    if (*c.skipped) {
        size_t i = 0;
        while (i + 1 < MAX_SKIPPED && missing[i].count && strcmp(missing[i].id, id))
            i++;
        snprintf(missing[i].id, sizeof missing[i].id, "%.60s", id);
        missing[i].count++;
        skipped++;
        if (verbose || c.face) printf("skipped %s: %s\n", path, c.skipped);
    } else if (*c.failure) {
        failed++;
        printf("FAILED  %s: %s\n", path, c.failure);
    } else {
        passed++;
        if (verbose)
            printf("passed  %s: %.2g (%.2g of the bound) in %s\n", path, c.relative, c.worst,
                   c.worst_name);
    }
    json_free(c.args);
    mmix_archive_close(c.file);
    detach(c.m);
    mmix_destroy(c.m);
}
static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}
/* Every .safetensors file in a folder, in the order of names; 0 if it is no folder. */
static int run_folder(const char *path)
{
    DIR *folder = opendir(path);
    char **names = NULL;
    size_t n = 0;
    if (!folder) return 0;
    for (struct dirent *d; (d = readdir(folder)) != NULL; ) {
        const size_t length = strlen(d->d_name), room = strlen(path) + length + 2;
        if (length < 13 || strcmp(d->d_name + length - 12, ".safetensors"))
            continue;
        char **more = (char **)realloc((void *)names, (n + 1) * sizeof *names);
        char *name = (char *)malloc(room);
        if (more) names = more;
        if (!more || !name) exit(2);
        snprintf(name, room, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", d->d_name);
        names[n++] = name;
    }
    closedir(folder);
    if (n)
        qsort((void *)names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        run_file(names[i]);
        free(names[i]);
    }
    free((void *)names);
    return 1;
}
#ifdef MMIX_GOLDEN_CUDA
/* Whether a context finds a device: without one every case would fail for the same reason. */
static int device_is_there(void)
{
    mmix_ctx *m = mmix_create(NULL);
    const int there = m && attach(m) == 0;
    if (m && !there) printf("there is no GPU here: %s\n", mmix_error(m));
    mmix_cuda_detach(m);
    mmix_destroy(m);
    return there;
}
#endif
int main(int argc, char **argv)
{
#ifdef MMIX_GOLDEN_CUDA
    if (!device_is_there()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 1;
    }
#endif
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v")) verbose = 1;
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (*argv[i] && !run_folder(argv[i]))
            run_file(argv[i]);
        fflush(stdout);
    }
#ifdef MMIX_GOLDEN_CUDA
    printf("calls of mixers: %zu on the device, %zu on the host\n", on_device, on_host);
    if (!on_device) {
        failed++;
        printf("FAILED  nothing ran on the device\n");
    }
#endif
    if (skipped) printf("skipped:");
    for (size_t i = 0; i < MAX_SKIPPED && missing[i].count; i++)
        printf("%s %s %d", i ? "," : "", missing[i].id, missing[i].count);
    printf("%s%d passed, %d failed, %d skipped\n", skipped ? "\n" : "", passed, failed, skipped);
    return failed || !passed;                    /* nothing run is no success */
}
