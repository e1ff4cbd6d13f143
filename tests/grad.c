/* Gradients of every op, layer and of whole small models against central differences (the double
   build), and coarse ops against the same thing made of fine ones. Prints a line for each failing
   check, then a summary; exits 1 if anything failed.

   A case is a function that builds a tensor from leaves; leaf(i, …) makes leaf i at its first call
   and remembers shape and values. What is checked of each case:
     differences   d Σ w∘y / d leaf by the five-point rule, all elements of a small leaf and some of
                   a large one
     alone         each leaf asks alone: the same gradient, and none for the others
     views         the leaves are slices of wider tensors, by the last axis and by the one before
     consumers     every leaf is used once before and once after as well
     twice         two backward passes add up
     again         inside of a mmix_checkpoint: the same bits; models with MMIX_RECORD_LAYERS, too
 */
#include "test.h"

enum { LEAVES = 16, ELEMENTS = 28 };
static mmix_ctx *m;
static void check(int ok, const char *name, const char *what, int i, double got, double expected)
{
    if (ok) {
        passed++;
        return;
    }
    failed++;
    if (failed < 300)
        printf("FAILED %s, %s, leaf %d: %.12g, expected %.12g\n", name, what, i, got, expected);
}

/* ---- leaves ---- */

enum { PLAIN, VIEW_LAST, VIEW_MIDDLE };
typedef struct leaf_info {
    int ndim, wants;
    size_t shape[4], n;
    double *value, *gradient;
    mmix_tensor *t, *base;
} leaf_info;
static leaf_info leaves[LEAVES];
static int mode;

static void make_leaf(leaf_info *l)
{
    size_t shape[4];
    memcpy(shape, l->shape, sizeof shape);
    int axis;
    if (mode == VIEW_LAST) axis = l->ndim - 1;
    else if (mode == VIEW_MIDDLE && l->ndim > 1)
        axis = l->ndim - 2;
    else axis = -1;
    if (axis >= 0) {
        shape[axis] += 5;
        l->base = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, l->ndim, shape), 1e30);
        l->t = mmix_slice(m, l->base, axis, 2, l->shape[axis]);
        if (l->wants) mmix_require_grad(l->base);
        mmix_write(l->t, l->value);
    }
    else {
        l->base = NULL;
        l->t = mmix_from(m, l->ndim, shape, l->value);
        if (l->wants) mmix_require_grad(l->t);
    }
}
static mmix_tensor *leaf(int i, double low, double high, int ndim, size_t a, size_t b, size_t c,
                         size_t d)
{
    leaf_info *l = &leaves[i];
    if (!l->n) {
        l->ndim = ndim;
        l->shape[0] = a;
        l->shape[1] = b;
        l->shape[2] = c;
        l->shape[3] = d;
        l->n = 1;
        for (int k = 0; k < ndim; k++)
            l->n *= l->shape[k];
        l->value = (double *)malloc(l->n * sizeof(double));
        l->gradient = (double *)malloc(l->n * sizeof(double));
        for (size_t k = 0; k < l->n; k++) {      /* away from the kinks at 0 */
            double x = low + (high - low) * ((2 * uniform() - 1) + 1) / 2;
            const double away = x < 0 ? -0.02 : 0.02;
            l->value[k] = fabs(x) < 0.02 ? x + away : x;
        }
    }
    if (!l->t) make_leaf(l);
    return l->t;
}
static mmix_tensor *normal(int i, int ndim, size_t a, size_t b, size_t c, size_t d)
{
    return leaf(i, -1, 1, ndim, a, b, c, d);
}
static mmix_tensor *positive(int i, int ndim, size_t a, size_t b, size_t c, size_t d)
{
    return leaf(i, 0.3, 1.5, ndim, a, b, c, d);
}
static void fresh(void)
{
    mmix_reset(m);
    for (int i = 0; i < LEAVES; i++)
        leaves[i].t = NULL;
}

/* Σ w∘y with fixed w */
static uint64_t weight_stream;
static mmix_tensor *like(const mmix_tensor *y)  /* a new tensor of that shape */
{
    size_t shape[MMIX_MAX_DIMS];
    for (int i = 0; i < mmix_ndim(y); i++)
        shape[i] = mmix_shape(y, i);
    return mmix_new(m, MMIX_DTYPE_REAL, mmix_ndim(y), shape);
}
static mmix_tensor *weigh(mmix_tensor *y)
{
    if (!y) return NULL;
    return mmix_sum(m, mmix_mul(m, y, mmix_fill_normal(m, like(y), 1, weight_stream++)));
}

typedef mmix_tensor *build(int o);
static int erred(const char *name)
{
    if (!mmix_error(m)) return 0;
    check(0, name, mmix_error(m), -1, 0, 0);
    mmix_error_clear(m);
    return 1;
}
static double value_of(build *f, int o)
{
    fresh();
    weight_stream = 100;
    return mmix_item(weigh(f(o)));
}
static double difference(double (*f)(void *), void *arg, double *at)
{
    double x = *at, h = 2e-4, a, b, c, d;
    *at = x + h;
    a = f(arg);
    *at = x - h;
    b = f(arg);
    *at = x + 2 * h;
    c = f(arg);
    *at = x - 2 * h;
    d = f(arg);
    *at = x;
    return (8 * (a - b) - (c - d)) / (12 * h);
}
typedef struct pair { build *f; int o; } pair;
static double pair_value(void *arg) { return value_of(((pair *)arg)->f, ((pair *)arg)->o); }

static int recording = 1, again;                 /* how it is recorded; whether as one checkpoint */
static mmix_tensor *again_block(mmix_ctx *c, const void *user, mmix_tensor **in)
{
    const pair *p = (const pair *)user;
    (void)c;
    (void)in;
    weight_stream = 100;
    return p->f(p->o);
}
static mmix_tensor *run_again(build *f, int o)
{
    pair p;
    mmix_tensor *in[LEAVES];
    size_t n = 0;
    p.f = f;
    p.o = o;
    for (int i = 0; i < LEAVES; i++) {
        if (!leaves[i].n) continue;
        if (!leaves[i].t) make_leaf(&leaves[i]);
        if (n < MMIX_MAX_INPUTS) in[n++] = leaves[i].t;
    }
    return mmix_checkpoint(m, again_block, &p, sizeof p, in, n);
}

/* Runs f recorded, `times` times; with consumers each leaf's squares/4 are in the loss twice. 0,
   or 1 after an error. */
static int gradients(const char *name, build *f, int o, int times, int consumers)
{
    fresh();
    mmix_record(m, recording);
    for (int k = 0; k < times; k++) {
        mmix_tensor *loss, *before = NULL, *after = NULL;
        for (int i = 0; consumers && i < LEAVES; i++)
            if (leaves[i].n) {
                mmix_tensor *s;
                if (!leaves[i].t) make_leaf(&leaves[i]);
                s = mmix_affine(m, mmix_sum(m, mmix_mul(m, leaves[i].t, leaves[i].t)), 0.25, 0);
                before = before ? mmix_add(m, before, s) : s;
            }
        weight_stream = 100;
        loss = weigh(again ? run_again(f, o) : f(o));
        for (int i = 0; consumers && i < LEAVES; i++)
            if (leaves[i].n) {
                mmix_tensor *s = mmix_affine(m, mmix_sum(m, mmix_mul(m, leaves[i].t, leaves[i].t)),
                                             0.25, 0);
                after = after ? mmix_add(m, after, s) : s;
            }
        if (consumers)
            loss = mmix_add(m, mmix_add(m, before, loss), after);
        mmix_backward(m, loss);
    }
    mmix_record(m, 0);
    return erred(name);
}
/* The gradient of leaf l must be a · gradient + b · value. */
static void compare(const char *name, const char *what, int i, double a, double b, double bound)
{
    leaf_info *l = &leaves[i];
    mmix_tensor *g = mmix_grad(l->t);
    double *got = (double *)calloc(l->n, sizeof(double));
    double worst = 0, top = 1e-3, at = 0, want = 0;
    if (g) mmix_read(g, got);
    for (size_t k = 0; k < l->n; k++) {
        double expected = a * l->gradient[k] + b * l->value[k];
        double e = fabs(got[k] - expected);
        if (fabs(expected) > top) top = fabs(expected);
        if (!(e <= worst)) {
            worst = e;
            at = got[k];
            want = expected;
        }
    }
    check(worst <= bound * top, name, what, i, at, want);
    if (l->base && mmix_grad(l->base)) {         /* nothing beside the slice */
        mmix_tensor *all = mmix_grad(l->base);
        double sum = 0, inside = 0;
        double *every = (double *)malloc(mmix_count(all) * sizeof(double));
        mmix_read(all, every);
        for (size_t k = 0; k < mmix_count(all); k++)
            sum += fabs(every[k]);
        for (size_t k = 0; k < l->n; k++)
            inside += fabs(got[k]);
        check(fabs(sum - inside) <= 1e-9 * (inside + 1e-3), name, "gradient beside the slice", i,
              sum, inside);
        free(every);
    }
    free(got);
}

static void run_case(const char *name, build *f, int o)
{
    pair p;
    int n = 0;
    char text[96];
    snprintf(text, sizeof text, "%s/%d", name, o);
    name = text;
    p.f = f;
    p.o = o;
    for (int i = 0; i < LEAVES; i++) {
        free(leaves[i].value);
        free(leaves[i].gradient);
        memset(&leaves[i], 0, sizeof leaves[i]);
        leaves[i].wants = 1;
    }
    state = 12345 + (uint64_t)o;
    for (const char *c = name; *c; c++)
        state = state * 31 + (uint64_t)*c;
    doing(name);
    mode = PLAIN;
    if (gradients(name, f, o, 1, 0)) return;
    for (int i = 0; i < LEAVES; i++)
        if (leaves[i].n) {
            mmix_tensor *g = mmix_grad(leaves[i].t);
            n++;
            memset(leaves[i].gradient, 0, leaves[i].n * sizeof(double));
            if (g) mmix_read(g, leaves[i].gradient);
            else check(0, name, "no gradient", i, 0, 0);
        }
    check(n > 0, name, "has leaves", n, 0, 1);
    {
        double recorded = value_of(f, o), size = fabs(recorded) + 1;
        if (erred(name)) return;
        for (int i = 0; i < LEAVES; i++) {
            leaf_info *l = &leaves[i];
            double top = 0, worst = 0, got = 0, want = 0;
            for (size_t k = 0; k < l->n; k++)
                if (fabs(l->gradient[k]) > top)
                    top = fabs(l->gradient[k]);
            for (size_t e = 0, some = l->n < 1000 ? ELEMENTS : 5; e < (l->n < some ? l->n : some);
                 e++) {
                size_t k = l->n <= ELEMENTS
                               ? e
                               : (size_t)(((2 * uniform() - 1) + 1) / 2 * (double)l->n);
                double d = difference(pair_value, &p, &l->value[k]);
                if (!(fabs(d - l->gradient[k]) <= worst)) {
                    worst = fabs(d - l->gradient[k]);
                    got = l->gradient[k];
                    want = d;
                }
            }
            if (l->n)
                check(worst <= 1e-7 * top + 1e-11 * size, name, "difference", i, got, want);
            if (l->n > 3)
                check(top > 1e-9, name, "the gradient is not zero", i, top, 1);
        }
    }
    for (int i = 0; i < LEAVES; i++) {
        if (!leaves[i].n || n < 2) continue;
        for (int k = 0; k < LEAVES; k++)
            leaves[k].wants = k == i;
        if (gradients(name, f, o, 1, 0)) continue;
        compare(name, "alone", i, 1, 0, 1e-12);
        for (int k = 0; k < LEAVES; k++)
            if (k != i && leaves[k].n)
                check(!mmix_grad(leaves[k].t), name, "a gradient nobody asked for", k, 1, 0);
    }
    for (int i = 0; i < LEAVES; i++)
        leaves[i].wants = 1;
    for (mode = VIEW_LAST; mode <= VIEW_MIDDLE; mode++)
        if (!gradients(name, f, o, 1, 0))
            for (int i = 0; i < LEAVES; i++)
                if (leaves[i].n)
                    compare(name, mode == VIEW_LAST ? "views (last axis)" : "views (middle axis)",
                            i, 1, 0, 1e-11);
    mode = VIEW_MIDDLE;
    if (!gradients(name, f, o, 2, 1))
        for (int i = 0; i < LEAVES; i++)
            if (leaves[i].n)
                compare(name, "views, consumers, twice", i, 2, 2, 1e-11);
    mode = PLAIN;
    if (!gradients(name, f, o, 1, 1))
        for (int i = 0; i < LEAVES; i++)
            if (leaves[i].n)
                compare(name, "consumers", i, 1, 1, 1e-11);
    if (!gradients(name, f, o, 2, 0))
        for (int i = 0; i < LEAVES; i++)
            if (leaves[i].n)
                compare(name, "twice", i, 2, 0, 1e-11);
    again = 1;
    if (!gradients(name, f, o, 1, 0))
        for (int i = 0; i < LEAVES; i++)
            if (leaves[i].n)
                compare(name, "again", i, 1, 0, 0);
    mode = VIEW_MIDDLE;
    if (!gradients(name, f, o, 2, 1))
        for (int i = 0; i < LEAVES; i++)
            if (leaves[i].n)
                compare(name, "again, views, consumers, twice", i, 2, 2, 1e-11);
    mode = PLAIN;
    again = 0;
}

/* The same loss from two builds: equal values and gradients. */
static void run_equal(const char *name, build *coarse, build *fine, int o)
{
    double a, b;
    run_case(name, coarse, o);
    mode = PLAIN;
    a = value_of(coarse, o);
    b = value_of(fine, o);
    if (erred(name)) return;
    check(fabs(a - b) <= 1e-11 * (1 + fabs(a)), name, "coarse against fine", -1, a, b);
    if (!gradients(name, fine, o, 1, 0))
        for (int i = 0; i < LEAVES; i++)
            if (leaves[i].n)
                compare(name, "coarse against fine, gradient", i, 1, 0, 1e-9);
}

/* ---- fine ops ---- */

static mmix_tensor *shape_of(mmix_tensor *t, int ndim, size_t a, size_t b, size_t c, size_t d)
{
    size_t s[4];
    s[0] = a;
    s[1] = b;
    s[2] = c;
    s[3] = d;
    return mmix_reshape(m, t, ndim, s);
}
static mmix_tensor *t_binary(int o)
{
    mmix_tensor *a, *b;
    int op = o % 4;
    switch (o / 4) {
    case 0:
        a = normal(0, 3, 2, 3, 5, 0);
        b = positive(1, 3, 2, 3, 5, 0);
        break;
    case 1:
        a = normal(0, 3, 3, 1, 5, 0);
        b = positive(1, 2, 4, 1, 0, 0);
        break;
    case 2:
        a = normal(0, 1, 7, 0, 0, 0);
        b = positive(1, 3, 2, 3, 7, 0);
        break;
    case 3:
        a = normal(0, 2, 3, 5, 0, 0);
        b = positive(1, 0, 0, 0, 0, 0);
        break;
    case 4:
        a = normal(0, 0, 0, 0, 0, 0);
        b = positive(1, 0, 0, 0, 0, 0);
        break;
    case 5:
        a = normal(0, 3, 3, 4, 1, 0);
        b = positive(1, 3, 3, 1, 6, 0);
        break;
    case 6:
        a = normal(0, 2, 130, 70, 0, 0);
        b = positive(1, 2, 130, 70, 0, 0);
        break;
    default: a = b = positive(0, 2, 3, 5, 0, 0); break;
    }
    if (op == 0) return mmix_add(m, a, b);
    if (op == 1)
        return mmix_sub(m, mmix_mul(m, a, a), b);
    if (op == 2) return mmix_mul(m, a, b);
    return mmix_div(m, o / 4 == 7 ? mmix_exp(m, a) : a, b);
}
static mmix_tensor *t_unary(int o)
{
    mmix_tensor *x;
    if (o / 10 == 0)
        x = leaf(0, -3, 3, 3, 2, 3, 7, 0);
    else if (o / 10 == 1)
        x = leaf(0, -30, 30, 1, 23, 0, 0, 0);
    else x = leaf(0, -2, 2, 0, 0, 0, 0, 0);
    mmix_tensor *y = o % 10 == 2 || o % 10 == 3
                         ? mmix_add(m, mmix_mul(m, x, x), mmix_fill(mmix_new1(m, 1), 0.1))
                         : x;
    switch (o % 10) {
    case 0: return mmix_affine(m, y, -1.7, 0.3);
    case 1: return mmix_exp(m, mmix_affine(m, y, 0.3, 0));
    case 2: return mmix_log(m, y);
    case 3: return mmix_sqrt(m, y);
    case 4: return mmix_silu(m, y);
    case 5: return mmix_gelu(m, y);
    default: return mmix_softplus(m, y);
    }
}
static mmix_tensor *t_rates(int o)
{
    mmix_tensor *x = leaf(0, -3, 3, 3, 2, 3, 7, 0);
    return o ? mmix_mul(m, mmix_rates(m, x), x) : mmix_rates(m, mmix_slice(m, x, 2, 1, 5));
}
static mmix_tensor *t_gelu_tanh(int o)
{
    mmix_tensor *x = leaf(0, -3, 3, 3, 2, 3, 7, 0);
    return o ? mmix_mul(m, mmix_gelu_tanh(m, x), x) : mmix_gelu_tanh(m, mmix_slice(m, x, 2, 1, 5));
}
static mmix_tensor *t_rare(int o)
{
    mmix_tensor *x;
    if (o / 8 == 0)
        x = leaf(0, -3, 3, 3, 2, 3, 7, 0);
    else if (o / 8 == 1)
        x = leaf(0, -30, 30, 1, 23, 0, 0, 0);
    else x = leaf(0, 0.3, 2, 2, 3, 5, 0, 0);
    switch (o % 8) {
    case 0: return mmix_relu(m, x);
    case 1: return mmix_abs(m, x);
    case 2: return mmix_sigmoid(m, x);
    case 3: return mmix_tanh(m, x);
    case 4: return mmix_pow(m, mmix_affine(m, x, 0.3, 0), o / 8 == 2 ? -1.7 : 3);
    case 5:
        return mmix_pow(m, mmix_add(m, mmix_mul(m, x, x), mmix_fill(mmix_new1(m, 1), 0.1)), 0.5);
    case 6: {
        static const size_t n[] = { 7, 23, 1 };
        return mmix_maximum(m, x, normal(1, 1, n[o / 8], 0, 0, 0));
    }
    default:
        return mmix_maximum(m, mmix_dropout(m, x, 0.4, 3, 5),
                            mmix_affine(m, mmix_dropout(m, x, 0.4, 3, 6), 0.7, -0.1));
    }
}
static mmix_tensor *t_sum(int o)
{
    mmix_tensor *x = normal(0, 3, 4, 3, 5, 0);
    if (o < 3) return mmix_sum_axis(m, x, o);
    if (o == 3) return mmix_sum_axis(m, x, -1);
    if (o == 4)
        return mmix_sum(m, mmix_mul(m, x, x));
    if (o == 5)
        return mmix_mean(m, mmix_mul(m, x, x));
    if (o == 6)
        return mmix_sum_axis(m, normal(1, 1, 9, 0, 0, 0), 0);
    return mmix_sum_axis(m, mmix_sum_axis(m, x, 1), -2);
}
static mmix_tensor *t_matmul(int o)
{
    mmix_tensor *a;
    switch (o) {
    case 0: return mmix_matmul(m, normal(0, 2, 5, 3, 0, 0), normal(1, 2, 3, 7, 0, 0));
    case 1: return mmix_matmul(m, normal(0, 4, 2, 3, 5, 4), normal(1, 4, 2, 3, 4, 3));
    case 2: a = normal(0, 3, 2, 5, 5, 0); return mmix_matmul(m, a, a);
    case 3: return mmix_matmul(m, normal(0, 2, 1, 1, 0, 0), normal(1, 2, 1, 1, 0, 0));
    case 4: return mmix_matmul(m, normal(0, 2, 67, 35, 0, 0), normal(1, 2, 35, 131, 0, 0));
    default: return mmix_matmul(m, normal(0, 3, 9, 33, 2, 0), normal(1, 3, 9, 2, 17, 0));
    }
}
static mmix_tensor *t_axes(int o)
{
    static const int orders[3][4] = { { 2, 0, 1, 3 }, { 3, 2, 1, 0 }, { 0, 2, -1, 1 } };
    mmix_tensor *x = normal(0, 4, 2, 3, 4, 5), *y, *part[3];
    if (o < 3) return mmix_permute(m, x, orders[o]);
    /* overlapping views */
    if (o == 3)
        return mmix_mul(m, mmix_slice(m, x, 1, 1, 2), mmix_slice(m, x, 1, 0, 2));
    if (o == 4)
        return shape_of(x, 2, 24, 5, 0, 0);
    if (o == 5)
        return shape_of(mmix_slice(m, x, 3, 1, 4), 4, 2, 3, 4, 4);
    if (o == 6) {
        y = mmix_slice(m, x, 2, 1, 2);
        return mmix_exp(m, shape_of(y, 3, 3, 4, 5, 0));
    }
    if (o == 7)
        return mmix_mul(m, shape_of(x, 1, 120, 0, 0, 0),
                        shape_of(mmix_silu(m, x), 1, 120, 0, 0, 0));
    if (o == 8) {                                /* views of an op's result; a slice of a slice */
        y = mmix_silu(m, x);
        y = mmix_slice(m, mmix_slice(m, y, 3, 1, 3), 3, 1, 2);
        return mmix_mul(m, y, y);
    }
    part[0] = o < 12 ? mmix_slice(m, x, 0, 0, 1) : x;
    part[1] = o < 12 ? mmix_slice(m, x, 0, 1, 1) : normal(1, 4, 2, 3, 1, 5);
    part[2] = part[0];
    if (o == 12) return mmix_concat(m, 2, part, 3);
    int axis = 1;
    if (o == 9) axis = 0;
    if (o == 10) axis = -1;
    return mmix_concat(m, axis, part, 3);
}
static mmix_tensor *t_gather(int o)
{
    static const int32_t index[6] = { 2, 0, 2, 4, 2, 1 };
    size_t s[2] = { 2, 3 };
    return mmix_take_rows(m, normal(0, 2, 5, o ? 1 : 7, 0, 0), mmix_from_i32(m, 2, s, index));
}
static mmix_tensor *t_insert(int o)
{
    return mmix_insert_token(m, normal(0, 3, 3, 4, 5, 0),
                             o == 4 ? mmix_slice(m, normal(1, 1, 9, 0, 0, 0), 0, 2, 5)
                                    : normal(1, 1, 5, 0, 0, 0),
                             (size_t)o % 5);
}
static mmix_tensor *t_softmax(int o)
{
    return mmix_softmax(m, leaf(0, -2, 2, 3, 3, 4, 7, 0), o - 1);
}
static mmix_tensor *f_softmax(int o)
{
    mmix_tensor *e = mmix_exp(m, leaf(0, -2, 2, 3, 3, 4, 7, 0));
    mmix_tensor *s = mmix_sum_axis(m, e, o - 1);
    if (o == 1)
        s = shape_of(s, 3, 1, 4, 7, 0);
    else if (o == 2)
        s = shape_of(s, 3, 3, 1, 7, 0);
    else s = shape_of(s, 3, 3, 4, 1, 0);
    return mmix_div(m, e, s);
}

/* ---- norms ---- */

static mmix_tensor *t_layer_norm(int o)
{
    size_t D = o / 4 ? 37 : 5;
    mmix_tensor *x = leaf(0, -2, 3, 3, 3, 7, D, 0);
    mmix_tensor *w = o & 1 ? normal(1, 1, D, 0, 0, 0) : NULL;
    mmix_tensor *b = o & 2 ? normal(2, 1, D, 0, 0, 0) : NULL;
    return mmix_layer_norm(m, x, w, b, 1e-3);
}
static mmix_tensor *fine_norm(mmix_tensor *x, size_t rows, size_t D, int center)
{
    if (center)
        x = mmix_sub(m, x,
                     shape_of(mmix_affine(m, mmix_sum_axis(m, x, 1), 1.0 / (double)D, 0), 2, rows,
                              1, 0, 0));
    return mmix_div(m, x,
                    shape_of(mmix_sqrt(m, mmix_affine(m, mmix_sum_axis(m, mmix_mul(m, x, x), 1),
                                                      1.0 / (double)D, 1e-3)),
                             2, rows, 1, 0, 0));
}
static mmix_tensor *f_layer_norm(int o)
{
    size_t D = o / 4 ? 37 : 5;
    mmix_tensor *y = fine_norm(shape_of(leaf(0, -2, 3, 3, 3, 7, D, 0), 2, 21, D, 0, 0), 21, D, 1);
    if (o & 1)
        y = mmix_mul(m, y, normal(1, 1, D, 0, 0, 0));
    if (o & 2)
        y = mmix_add(m, y, normal(2, 1, D, 0, 0, 0));
    return shape_of(y, 3, 3, 7, D, 0);
}
static mmix_tensor *t_rms_norm(int o)
{
    return mmix_rms_norm(m, normal(0, 2, 9, 11, 0, 0), o ? normal(1, 1, 11, 0, 0, 0) : NULL, 1e-3);
}
static mmix_tensor *f_rms_norm(int o)
{
    mmix_tensor *y = fine_norm(normal(0, 2, 9, 11, 0, 0), 9, 11, 0);
    return o ? mmix_mul(m, y, normal(1, 1, 11, 0, 0, 0)) : y;
}
static mmix_tensor *t_gated(int o)
{
    mmix_tensor *x = normal(0, 3, 2, 5, 12, 0);
    mmix_tensor *z = o == 3 ? x : normal(1, 3, 2, 5, 12, 0);
    size_t groups = 1;
    if (o == 1) groups = 2;
    if (o == 2) groups = 3;
    return mmix_gated_rms_norm(m, x, z, normal(2, 1, 12, 0, 0, 0), 1e-3, groups);
}
static mmix_tensor *f_gated(int o)
{
    size_t G;
    if (o == 1) G = 2;
    else if (o == 2) G = 3;
    else G = 1;
    mmix_tensor *x = normal(0, 3, 2, 5, 12, 0);
    mmix_tensor *z = o == 3 ? x : normal(1, 3, 2, 5, 12, 0);
    mmix_tensor *u = mmix_mul(m, x, mmix_silu(m, z));
    u = fine_norm(shape_of(u, 2, 10 * G, 12 / G, 0, 0), 10 * G, 12 / G, 0);
    return mmix_mul(m, shape_of(u, 3, 2, 5, 12, 0), normal(2, 1, 12, 0, 0, 0));
}
static mmix_tensor *t_l2(int o)
{
    return mmix_l2_normalize(m, normal(0, 2, 5, 7, 0, 0), o ? 50 : 1e-12);
}
static mmix_tensor *f_l2(int o)
{
    mmix_tensor *x = normal(0, 2, 5, 7, 0, 0);
    if (o) return mmix_affine(m, x, 1.0 / 50, 0);
    return mmix_div(m, x,
                    shape_of(mmix_sqrt(m, mmix_sum_axis(m, mmix_mul(m, x, x), 1)), 2, 5, 1, 0, 0));
}
static mmix_tensor *t_weight_norm(int o)
{
    (void)o;
    return mmix_weight_norm(m, normal(0, 2, 5, 7, 0, 0), normal(1, 2, 5, 1, 0, 0));
}
static mmix_tensor *f_weight_norm(int o) { return mmix_mul(m, f_l2(o), normal(1, 2, 5, 1, 0, 0)); }

/* ---- linear, convolution, patches ---- */

static mmix_tensor *linear_residual(size_t O) { return normal(3, 3, 3, 4, O, 0); }
static mmix_tensor *linear_scale(void)
{
    static const mmix_real s[3] = { 0, 1.25, 2 };
    size_t n = 3;
    return mmix_from(m, 1, &n, s);
}
static mmix_tensor *t_linear(int o)
{
    size_t I = o == 6 ? 65 : 5;
    size_t O;
    if (o == 6) O = 131;
    else if (o == 5) O = I;
    else O = 7;
    mmix_tensor *x = normal(0, 3, 3, 4, I, 0);
    mmix_tensor *w = normal(1, 2, O, I, 0, 0);
    mmix_tensor *b = o == 1 ? NULL : normal(2, 1, O, 0, 0, 0);
    if (o < 2 || o == 6)
        return mmix_linear(m, x, w, b);
    mmix_tensor *residual = NULL;
    if (o == 5) residual = x;
    else if (o != 7) residual = linear_residual(O);
    return mmix_linear_residual(m, x, w, b, residual, o % 2 ? linear_scale() : NULL);
}
static mmix_tensor *f_linear(int o)
{
    static const int turn[2] = { 1, 0 };
    size_t I = o == 6 ? 65 : 5;
    size_t O;
    if (o == 6) O = 131;
    else if (o == 5) O = I;
    else O = 7;
    mmix_tensor *x = normal(0, 3, 3, 4, I, 0);
    mmix_tensor *w = normal(1, 2, O, I, 0, 0);
    mmix_tensor *b = o == 1 ? NULL : normal(2, 1, O, 0, 0, 0);
    mmix_tensor *y = shape_of(mmix_matmul(m, shape_of(x, 2, 12, I, 0, 0), mmix_permute(m, w, turn)),
                              3, 3, 4, O, 0);
    if (b) y = mmix_add(m, y, b);
    if (o < 2 || o == 6) return y;
    if (o % 2)
        y = mmix_mul(m, y, shape_of(linear_scale(), 3, 3, 1, 1, 0));
    if (o == 7) return y;
    return mmix_add(m, y, o == 5 ? x : linear_residual(O));
}

static const int32_t packed_numbers[18] = { 4, 4, 4, 5, 5, 9, 9, 9, 9, 1, 1, 2, 2, 2, 2, 2, 2, 2 };
static mmix_tensor *packed(size_t B, size_t L)
{
    size_t s[2];
    int32_t v[512];
    s[0] = B;
    s[1] = L;
    for (size_t i = 0; i < B * L; i++)
        v[i] = L == 9 ? packed_numbers[i % 18] : (int32_t)((i % L) / (i / L ? 7 : 37));
    return mmix_from_i32(m, 2, s, v);
}
/* o: width 1 … 5, then tens of options */
static mmix_tensor *t_conv(int o)
{
    mmix_causal_conv1d_options c;
    mmix_tensor *y, *last = NULL;
    size_t W = (size_t)(o % 10);
    size_t L = o / 10 == 6 ? 2 : 9;
    size_t D = 7;
    int k = o / 10;
    memset(&c, 0, sizeof c);
    c.silu = k != 1;
    c.reverse = k == 2 || k == 5 || k == 7;
    if (k == 3 || k == 5)
        c.seq_idx = packed(2, L);
    if ((k == 4 || k == 6) && W > 1) {
        c.initial_state = normal(3, 3, 2, D, W - 1, 0);
        c.final_state = &last;
    }
    y = mmix_causal_conv1d(m, normal(0, 3, 2, L, D, 0), normal(1, 3, D, 1, W, 0),
                           k == 1 ? NULL : normal(2, 1, D, 0, 0, 0), &c);
    return last ? mmix_add(m, weigh(y), weigh(last)) : y;
}
static mmix_tensor *t_patch(int o)
{
    mmix_tensor *image = o ? normal(0, 4, 2, 3, 7, 11) : normal(0, 4, 2, 3, 6, 4);
    return mmix_patch_embed(m, image, normal(1, 4, 5, 3, 2, 2), normal(2, 1, 5, 0, 0, 0));
}
static mmix_tensor *t_bicubic(int o)
{
    mmix_tensor *x = o == 3 ? normal(0, 4, 2, 1, 1, 1) : normal(0, 4, 1, 2, 5, 4);
    if (o == 0)
        return mmix_interpolate(m, x, MMIX_RESIZE_BICUBIC, 7, 9, 0, 0);
    if (o == 1)
        return mmix_interpolate(m, x, MMIX_RESIZE_BICUBIC, 3, 2, 0, 0);
    if (o == 2)
        return mmix_interpolate(m, x, MMIX_RESIZE_BICUBIC, 7, 3, 7.1 / 5, 3.1 / 4);
    if (o == 4)
        return mmix_interpolate(m, x, MMIX_RESIZE_BILINEAR, 3, 9, 0, 0);
    if (o == 5)
        return mmix_interpolate(m, x, MMIX_RESIZE_BICUBIC_ANTIALIAS, 2, 7, 0, 0);
    if (o == 6)
        return mmix_interpolate(m, x, MMIX_RESIZE_AREA, 3, 9, 0, 0);
    return mmix_interpolate(m, x, MMIX_RESIZE_BICUBIC, 2, 3, 0, 0);
}

/* Rows added; o: one sequence of indices that rise, one that does not and has an index twice */
static const int32_t added[2][3] = { { 0, 2, 6 }, { 5, 1, 5 } };
static mmix_tensor *t_add_rows(int o)
{
    const size_t n = 3;
    mmix_tensor *x = normal(0, 3, 2, 7, 5, 0);
    return mmix_add_rows(m, o == 2 ? mmix_silu(m, x) : x, normal(1, 3, 2, 3, 5, 0),
                         mmix_from_i32(m, 1, &n, added[o % 2]));
}
static mmix_tensor *f_add_rows(int o)
{
    mmix_tensor *to = mmix_fill(mmix_new3(m, 2, 7, 3), 0);
    mmix_tensor *x = normal(0, 3, 2, 7, 5, 0);
    for (size_t b = 0; b < 2; b++)
        for (size_t i = 0; i < 3; i++)
            mmix_data(to)[(b * 7 + (size_t)added[o % 2][i]) * 3 + i] = 1;
    return mmix_add(m, o == 2 ? mmix_silu(m, x) : x, mmix_matmul(m, to, normal(1, 3, 2, 3, 5, 0)));
}

/* ---- losses ---- */

static const int32_t targets[10] = { 3, -100, 0, 6, 6, 2, -100, 5, 1, 4 };
static mmix_tensor *t_xent(int o)
{
    size_t s[2] = { 2, 5 };
    return mmix_cross_entropy(m, leaf(0, -3, 3, 3, 2, 5, 7, 0), mmix_from_i32(m, 2, s, targets),
                              o ? -100 : 6 - 106);
}
static mmix_tensor *f_xent(int o)
{
    mmix_tensor *x = shape_of(leaf(0, -3, 3, 3, 2, 5, 7, 0), 2, 10, 7, 0, 0);
    mmix_tensor *hot = mmix_fill(mmix_new2(m, 10, 7), 0);
    (void)o;
    for (int r = 0; r < 10; r++)
        if (targets[r] >= 0)
            mmix_data(hot)[r * 7 + targets[r]] = -1.0 / 8;
    return mmix_sum(m, mmix_mul(m, mmix_log(m, mmix_softmax(m, x, 1)), hot));
}
/* weights that do not sum to 1, and the same logits twice so that the second gradient is added */
static mmix_tensor *soft_target(void)
{
    return mmix_affine(m, mmix_softmax(m, mmix_fill_normal(m, mmix_new2(m, 10, 7), 1, 78), 1), 1.5,
                       0);
}
static mmix_tensor *t_xent_soft(int o)
{
    mmix_tensor *x = leaf(0, -3, 3, 3, 2, 5, 7, 0);
    mmix_tensor *loss = mmix_cross_entropy(m, x, shape_of(soft_target(), 3, 2, 5, 7, 0), -1);
    return o ? mmix_add(m, loss,
                        mmix_cross_entropy(m, x, shape_of(soft_target(), 3, 2, 5, 7, 0), -1))
             : loss;
}
static mmix_tensor *f_xent_soft(int o)
{
    mmix_tensor *x = shape_of(leaf(0, -3, 3, 3, 2, 5, 7, 0), 2, 10, 7, 0, 0);
    return mmix_affine(m,
                       mmix_sum(m, mmix_mul(m, mmix_log(m, mmix_softmax(m, x, 1)), soft_target())),
                       (o ? -2 : -1) / 10.0, 0);
}
/* Distillation: o & 1 relative or warm, o & 2 with a mask, o & 4 layers. */
static const int32_t kd_masked[10] = { 1, 0, 1, 1, 1, 0, 0, 0, 1, 1 };
static mmix_tensor *kd_mask(int o)
{
    const size_t s[2] = { 2, 5 };
    return o & 2 ? mmix_from_i32(m, 2, s, kd_masked) : NULL;
}
static mmix_tensor *kd_teacher(int o, size_t K)
{
    mmix_tensor *t = o & 4 ? mmix_new4(m, 3, 2, 5, K) : mmix_new3(m, 2, 5, K);
    return mmix_fill_normal(m, t, 1, 79);
}
static mmix_tensor *kd_student(int o, size_t K)
{
    return o & 4 ? normal(0, 4, 3, 2, 5, K) : leaf(0, -3, 3, 3, 2, 5, K, 0);
}
static mmix_tensor *t_kd_hidden(int o)
{
    return mmix_kd_hidden(m, kd_student(o, 7), kd_teacher(o, 7), kd_mask(o), o & 1);
}
static mmix_tensor *kd_weights(int o)            /* (2, 5, 1): the mask, or ones */
{
    mmix_tensor *w = mmix_fill(mmix_new3(m, 2, 5, 1), 1);
    for (size_t i = 0; o & 2 && i < 10; i++)
        mmix_data(w)[i] = kd_masked[i];
    return w;
}
static mmix_tensor *f_kd_hidden(int o)
{
    const double many = (o & 2 ? 6 : 10) * 7;
    mmix_tensor *x = kd_student(o, 7), *t = kd_teacher(o, 7), *sum = NULL;
    for (size_t l = 0; l < (o & 4 ? 3 : 1); l++) {
        mmix_tensor *a = o & 4 ? shape_of(mmix_slice(m, x, 0, l, 1), 3, 2, 5, 7, 0) : x;
        mmix_tensor *b = o & 4 ? shape_of(mmix_slice(m, t, 0, l, 1), 3, 2, 5, 7, 0) : t;
        mmix_tensor *d = mmix_sub(m, a, b);
        mmix_tensor *of = mmix_affine(m, mmix_sum(m, mmix_mul(m, kd_weights(o), mmix_mul(m, d, d))),
                                      1 / many, 0);
        if (o & 1)
            of = mmix_div(m, of,
                          mmix_affine(m, mmix_sum(m, mmix_mul(m, kd_weights(o), mmix_mul(m, b, b))),
                                      1 / many, 0));
        sum = sum ? mmix_add(m, sum, of) : of;
    }
    return mmix_affine(m, sum, o & 4 ? 1.0 / 3 : 1, 0);
}
static mmix_tensor *t_kd_token(int o)
{
    const size_t K = o & 4 ? 131 : 7;
    return mmix_kd_token(m, leaf(0, -3, 3, 3, 2, 5, K, 0), kd_teacher(0, K), kd_mask(o),
                         o & 1 ? 2.5 : 1);
}
static mmix_tensor *f_kd_token(int o)
{
    const size_t K = o & 4 ? 131 : 7;
    const double T = o & 1 ? 2.5 : 1;
    mmix_tensor *p = mmix_softmax(m, mmix_affine(m, kd_teacher(0, K), 1 / T, 0), 2);
    mmix_tensor *q = mmix_softmax(m, mmix_affine(m, leaf(0, -3, 3, 3, 2, 5, K, 0), 1 / T, 0), 2);
    p = mmix_mul(m, p, mmix_sub(m, mmix_log(m, p), mmix_log(m, q)));
    return mmix_affine(m, mmix_sum(m, mmix_mul(m, p, kd_weights(o))), T * T / (o & 2 ? 6 : 10), 0);
}
static mmix_tensor *dino_teacher(size_t K)
{
    return mmix_fill_normal(m, mmix_new2(m, 6, K), 0.1, 77);
}
static mmix_tensor *t_dino_loss(int o)
{
    size_t K = o == 2 ? 131 : 7;
    size_t crops = o == 1 ? 2 : 4;
    mmix_real center[131];
    for (size_t k = 0; k < K; k++)
        center[k] = 0.01 * (double)(k % 5);
    return mmix_dino_loss(m, normal(0, 2, 3 * crops, K, 0, 0), dino_teacher(K), center, crops, 0.3,
                          0.05, 0.9, NULL);
}
static mmix_tensor *f_dino_loss(int o)
{
    size_t K = o == 2 ? 131 : 7;
    size_t crops = o == 1 ? 2 : 4;
    mmix_tensor *s =
        mmix_log(m,
                 mmix_softmax(m, mmix_affine(m, normal(0, 2, 3 * crops, K, 0, 0), 1 / 0.3, 0), 1));
    mmix_tensor *c = mmix_new1(m, K);
    mmix_tensor *q, *sum = NULL;
    for (size_t k = 0; k < K; k++)
        mmix_data(c)[k] = 0.01 * (double)(k % 5);
    q = mmix_softmax(m, mmix_affine(m, mmix_sub(m, dino_teacher(K), c), 20, 0), 1);
    for (size_t v = 0; v < crops; v++)
        for (size_t i = 0; i < 2; i++) {
            mmix_tensor *term;
            if (i == v) continue;
            term = mmix_sum(m, mmix_mul(m, mmix_slice(m, s, 0, 3 * v, 3),
                                        mmix_slice(m, q, 0, 3 * i, 3)));
            sum = sum ? mmix_add(m, sum, term) : term;
        }
    return mmix_affine(m, sum, -1.0 / (3 * (double)(2 * crops - 2)), 0);
}

/* rows have weights of 0.1, 0.2, …, or 1/6 each */
static mmix_tensor *ibot_weights(void)
{
    mmix_tensor *w = mmix_new1(m, 6);
    for (int r = 0; r < 6; r++)
        mmix_data(w)[r] = 0.1 * (r + 1);
    return w;
}
static mmix_tensor *t_ibot_loss(int o)
{
    size_t K = o & 2 ? 131 : 7;
    mmix_real center[131];
    for (size_t k = 0; k < K; k++)
        center[k] = 0.01 * (double)(k % 5);
    return mmix_ibot_loss(m, normal(0, 2, 6, K, 0, 0), dino_teacher(K),
                          o & 1 ? ibot_weights() : NULL, center, 0.3, 0.05, 0.9, NULL);
}
static mmix_tensor *f_ibot_loss(int o)
{
    size_t K = o & 2 ? 131 : 7;
    mmix_tensor *s =
        mmix_log(m, mmix_softmax(m, mmix_affine(m, normal(0, 2, 6, K, 0, 0), 1 / 0.3, 0), 1));
    mmix_tensor *c = mmix_new1(m, K);
    mmix_tensor *q;
    for (size_t k = 0; k < K; k++)
        mmix_data(c)[k] = 0.01 * (double)(k % 5);
    q = mmix_mul(m, s, mmix_softmax(m, mmix_affine(m, mmix_sub(m, dino_teacher(K), c), 20, 0), 1));
    if (o & 1) {
        size_t shape[2] = {6, 1};
        q = mmix_mul(m, q, mmix_reshape(m, ibot_weights(), 2, shape));
    }
    return mmix_affine(m, mmix_sum(m, q), o & 1 ? -1 : -1.0 / 6, 0);
}

/* ---- mixers: o counts through options ---- */

static mmix_tensor *t_softmax_mix(int o)
{
    size_t L = 5, S = 5, H = 4, G = 4, N = 3, P = 5, B = 2;
    mmix_mixer x;
    mmix_tensor *q;
    int mask = o % 3;
    if (o / 3 == 1) { G = 2; }
    if (o / 3 == 2) {
        G = 1;
        H = 3;
        P = 1;
        N = 1;
        L = S = 1;
        B = 1;
    }
    if (o / 3 == 3) {
        L = 37;
        S = mask ? 37 : 70;
        H = 2;
        G = 1;
        P = 9;
        N = 7;
    }
    if (o / 3 == 4) {                            /* q = k = v */
        q = normal(0, 4, B, L, H, N);
        x = mmix_mixer_softmax(q, q, q);
    }
    else if (o / 3 == 5) {                       /* q, k and v are slices of one projection */
        q = normal(0, 4, B, L, H, 3 * N);
        x = mmix_mixer_softmax(mmix_slice(m, q, 3, 0, N), mmix_slice(m, q, 3, N, N),
                               mmix_slice(m, q, 3, 2 * N, N));
    }
    else if (o / 3 == 6) { /* more keys than a tile */ L = mask ? 1030 : 5;
        S = mask ? 1030 : 1050;
        H = G = 1;
        N = 2;
        P = 1;
        B = 1;
        x = mmix_mixer_softmax(normal(0, 4, B, L, H, N), normal(1, 4, B, S, G, N),
                               normal(2, 4, B, S, G, P));
    }
    else
        x = mmix_mixer_softmax(normal(0, 4, B, L, H, N), normal(1, 4, B, S, G, N),
                               normal(2, 4, B, S, G, P));
    x.mask = mask;
    x.prefix = o / 3 == 6 ? 1027 : 3;
    x.scale = o / 3 == 1 ? 1.3 : 0;
    return mmix_mix(m, &x);
}
/* heads of (B, L, G, width) as (B, H, L, width), each repeated H/G times */
static mmix_tensor *fine_heads(mmix_tensor *t, size_t H)
{
    static const int order[4] = { 0, 2, 1, 3 };
    mmix_tensor *part[16];
    for (size_t h = 0; h < H; h++)
        part[h] = mmix_slice(m, t, 2, h / (H / mmix_shape(t, 2)), 1);
    return mmix_permute(m, mmix_concat(m, 2, part, H), order);
}
static mmix_tensor *f_softmax_mix(int o)
{
    static const int turn[4] = { 0, 1, 3, 2 }, back[4] = { 0, 2, 1, 3 };
    size_t H = 4, G = o / 3 == 1 ? 2 : 4, L = 5, N = 3;
    mmix_tensor *q = fine_heads(normal(0, 4, 2, L, H, N), H);
    mmix_tensor *k = fine_heads(normal(1, 4, 2, L, G, N), H);
    mmix_tensor *v = fine_heads(normal(2, 4, 2, L, G, 5), H);
    mmix_tensor *s, *hide;
    s = mmix_affine(m, mmix_matmul(m, q, mmix_permute(m, k, turn)),
                    o / 3 == 1 ? 1.3 : 1 / sqrt(3.0), 0);
    hide = mmix_fill(mmix_new2(m, L, L), 0);
    for (size_t i = 0; i < L; i++)
        for (size_t t = i + 1; t < L; t++)
            if (o % 3 == 1 || (o % 3 == 2 && !(i < 3 && t < 3)))
                mmix_data(hide)[i * L + t] = -1e4;
    return mmix_permute(m, mmix_matmul(m, mmix_softmax(m, mmix_add(m, s, hide), 3), v), back);
}

/* o: feature + 4 · normalize (0, 1, -1) + 12 · causal + 24 · size */
static mmix_tensor *t_linear_mix(int o)
{
    size_t L = 5, S = 7, H = 4, G = 2, N = 3, P = 5, B = 2;
    mmix_mixer x;
    int norm = o / 4 % 3, causal = o / 12 % 2, size = o / 24;
    if (causal) S = L;
    if (size == 1) {
        L = causal ? 83 : 37;
        S = causal ? 83 : 70;
        H = 2;
        G = 1;
        N = 9;
        P = 7;
    }
    if (size == 2) {
        L = S = 1;
        H = G = N = P = B = 1;
    }
    if (size == 3) {
        mmix_tensor *q = normal(0, 4, B, L, H, 3 * N);
        x = mmix_mixer_linear(mmix_slice(m, q, 3, 0, N), mmix_slice(m, q, 3, N, N),
                              mmix_slice(m, q, 3, 2 * N, N));
    }
    else if (size == 4) {
        mmix_tensor *q = normal(0, 4, B, L, H, N);
        x = mmix_mixer_linear(q, q, q);
    }
    else
        x = mmix_mixer_linear(leaf(0, -1, 2, 4, B, L, H, N), leaf(1, -1, 2, 4, B, S, G, N),
                              normal(2, 4, B, S, G, P));
    if (o % 4 == MMIX_FEATURE_RELU) x.eps = 0.1;                 /* a row of zeros is likely */
    x.feature = o % 4;
    x.normalize = norm == 2 ? -1 : norm;
    x.mask = causal ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
    return mmix_mix(m, &x);
}

/* Causal linear attention from a state to a state; features of the caller's own */
static mmix_tensor *t_linear_state(int o)
{
    const size_t L = o / 2 ? 70 : 5;
    mmix_tensor *last = NULL, *y;
    mmix_mixer x = mmix_mixer_linear(leaf(0, 0.1, 2, 4, 2, L, 4, 3), leaf(1, 0.1, 2, 4, 2, L, 2, 3),
                                     normal(2, 4, 2, L, 2, 4));
    x.feature = MMIX_FEATURE_NONE;
    x.mask = MMIX_MASK_CAUSAL;
    x.normalize = o % 2 ? 1 : -1;
    x.initial_state = leaf(3, 0.1, 1, 4, 2, 2, 4 + (size_t)(o % 2), 3);
    x.final_state = &last;
    if (o == 3) x.seq_idx = packed(2, L);
    y = mmix_mix(m, &x);
    return mmix_add(m, weigh(y), weigh(last));
}

/* Windows on 1, 2 and 3 axes, shifted or not, ragged, causal inside; bands; packing; more keys
   than queries */
static mmix_tensor *t_windows(int o)
{
    static const size_t grid[4][3] = { { 13, 1, 1 }, { 5, 7, 1 }, { 3, 4, 5 }, { 4, 9, 2 } },
                        window[4][3] = { { 4, 1, 1 }, { 2, 3, 1 }, { 2, 9, 3 }, { 1, 4, 2 } };
    const size_t *g = grid[o % 4];
    const size_t L = g[0] * g[1] * g[2];
    mmix_mixer x = mmix_mixer_softmax(normal(0, 4, 2, L, 4, 3), normal(1, 4, 2, L, 2, 3),
                                      normal(2, 4, 2, L, 2, 5));
    mmix_mixer_windows(&x, 3, g, window[o % 4], o / 4 % 2);
    if (o / 8) x.mask = MMIX_MASK_CAUSAL;
    if (o == 11) x.shift[1] = 1;                 /* not Swin's */
    if (o % 4 == 3 || o == 5 || o == 12)
        x.bias = normal(3, 2, 4,
                        (2 * x.window[0] - 1) * (2 * x.window[1] - 1) * (2 * x.window[2] - 1), 0,
                        0);
    return mmix_mix(m, &x);
}
static mmix_tensor *t_bands(int o)
{
    const size_t L = o > 3 ? 41 : 9;
    const size_t S = o == 1 || o == 5 ? L + 30 : L;
    mmix_mixer x = mmix_mixer_softmax(normal(0, 4, 2, L, 2, 3), normal(1, 4, 2, S, 1, 3),
                                      normal(2, 4, 2, S, 1, 4));
    if (o == 2) x.mask = MMIX_MASK_NONE;
    else if (o == 3 || o == 6) x.mask = MMIX_MASK_CAUSAL;
    else x.mask = MMIX_MASK_BAND;
    x.left = o == 7 ? (size_t)-1 : 2;
    x.right = o % 2 ? 0 : 3;
    if (o == 2 || o == 3 || o == 6)
        x.seq_idx = packed(2, L);
    if (o == 5) {
        x.mask = MMIX_MASK_PREFIX;
        x.prefix = 50;
    }
    return mmix_mix(m, &x);
}
static mmix_tensor *t_rope(int o)
{
    static const int32_t at[24] = { 0, 1, 5, 2, 100, 99999, 3, 3, 4, 0, 7, 12,
                                    1, 0, 0, 9, 8,   7,     6, 5, 4, 3, 2, 1 };
    const size_t shape[3] = { 4, 0, 0 }, both[2] = { 2, 4 }, axes[3] = { 3, 2, 4 },
                 flat[2] = { 3, 4 };
    mmix_rope_options r;
    memset(&r, 0, sizeof r);
    r.interleaved = o % 2;
    if (o == 2 || o == 3) r.dim = 4;
    if (o >= 6) {
        r.sections[0] = 2;
        r.sections[1] = 1;
        r.sections[2] = 1;
    }
    r.theta = o == 5 ? 500000 : 0;
    mmix_tensor *x, *places;
    if (o == 4)
        x = mmix_slice(m, normal(0, 4, 2, 4, 3, 20), 3, 5, 8);
    else x = normal(0, 4, 2, 4, 3, 8);
    if (o >= 8) places = mmix_from_i32(m, 2, flat, at);
    else if (o >= 6) places = mmix_from_i32(m, 3, axes, at);
    else if (o == 5) places = mmix_from_i32(m, 2, both, at);
    else places = mmix_from_i32(m, 1, shape, at);
    return mmix_rope(m, x, places, &r);
}
static mmix_tensor *t_lora(int o)
{
    const mmix_lora lora = { normal(3, 2, 2, 5, 0, 0), normal(4, 2, 7, 2, 0, 0), 3 };
    return mmix_lora_linear(m, normal(0, 3, 2, 3, 5, 0), normal(1, 2, 7, 5, 0, 0),
                            o ? normal(2, 1, 7, 0, 0, 0) : NULL, &lora, NULL, NULL);
}

/* Twenty forms of SSD */
static mmix_tensor *t_ssd(int o)
{
    size_t B = 2, L = 9, H = 4, G = 2, Gx = 4, Gc = 2, P = 5, N = 3;
    int softplus = o % 2;
    mmix_mixer s;
    mmix_tensor *x, *dt, *decay, *key, *query, *last = NULL, *y, *u;
    if (o == 2 || o == 3) {
        L = 131;
        B = 2;
        H = 2;
        G = 1;
        Gx = 2;
        Gc = 1;
        P = 3;
        N = 5;
    }
    if (o == 4) Gc = 4;
    if (o == 5) Gx = 2;
    if (o == 6) {
        Gx = 1;
        G = 1;
        Gc = 4;
    }
    if (o == 7) {
        L = 1;
        B = 1;
        H = G = Gx = Gc = P = N = 1;
    }
    if (o == 18) {
        L = 70;
        P = 17;
        N = 18;
        H = Gx = 2;
        G = Gc = 1;
    }
    u = o == 19 ? normal(0, 4, B, L, 4, 3 * 5) : NULL;
    x = o == 19 ? mmix_slice(m, u, 3, 0, 5) : normal(0, 4, B, L, Gx, P);
    /* The draws come in this order, with which no step of case 8 lies at a limit of δ, where the
       function has a kink and finite differences find nothing. */
    if (o == 19) {
        query = mmix_slice(m, u, 3, 10, 5);
        key = mmix_slice(m, u, 3, 5, 5);
    }
    else if (o == 20) {
        query = x;
        key = x;
    }
    else {
        query = normal(4, 4, B, L, Gc, N);
        key = normal(3, 4, B, L, G, N);
    }
    decay = leaf(2, -1.5, -0.1, 1, H, 0, 0, 0);
    if (softplus) dt = leaf(1, -1.5, 1, 3, B, L, H, 0);
    else dt = leaf(1, 0.05, 0.9, 3, B, L, H, 0);
    s = mmix_mixer_ssd(x, dt, decay, key, query);
    s.dt_softplus = softplus;
    if (o >= 2)
        s.D = o == 3 || o == 9 ? normal(5, 2, H, P, 0, 0) : normal(5, 1, H, 0, 0, 0);
    if (o == 16 || o == 14) s.chunk = 4;
    if (o == 18) s.chunk = 1000;
    if (softplus || o == 8)
        s.dt_bias = leaf(6, 0.1, 0.4, 1, H, 0, 0, 0);
    if (o == 8 || o == 9) {
        s.dt_low = 0.4;
        s.dt_high = 0.8;
    }
    if (o == 10 || o == 3 || o == 5 || o == 13)
        s.direction = MMIX_SCAN_REVERSE;
    if (o == 11 || o == 12) s.direction = MMIX_SCAN_BOTH;
    if (o == 12 || o == 13 || o == 14 || o == 15)
        s.seq_idx = packed(B, L);
    if (o >= 15 && o <= 18) {
        s.initial_state = normal(7, 4, B, H, P, N);
        s.final_state = &last;
        if (o == 17) s.direction = MMIX_SCAN_REVERSE;
    }
    if (o == 2 || o == 4) s.final_state = &last;
    y = mmix_mix(m, &s);
    return s.final_state ? mmix_add(m, weigh(y), weigh(last)) : y;
}
/* Fourteen forms of the selective scan, and its final state alone */
static mmix_tensor *t_selective(int o)
{
    static const size_t lengths[15] = { 9, 9, 70, 1, 9, 9, 9, 9, 9, 9, 35, 9, 9, 9, 7 };
    const int softplus = o % 2;
    size_t B = 2, L = lengths[o], H = 4, G = 1, N = 3;
    mmix_tensor *last = NULL, *dt, *y;
    if (o == 2) {                                /* chunks, and more than one block of states */
        B = 1;
        H = 2;
        N = 5;
    }
    if (o == 3) B = H = N = 1;
    if (o == 4) G = 2;
    if (o == 5) G = 4;
    if (o == 10) H = 18;
    mmix_tensor *u = o == 11 ? normal(0, 4, B, L, H, 3) : NULL;
    mmix_tensor *v = u ? mmix_slice(m, u, 3, 0, 1) : normal(0, 4, B, L, H, 1);
    mmix_tensor *query = NULL;
    if (o == 12) query = normal(3, 4, B, L, G, N);
    else if (o != 14) query = normal(4, 4, B, L, G, N);
    if (o == 14) query = mmix_fill(mmix_new4(m, B, L, G, N), 0.5);   /* not read by a state */
    mmix_tensor *key = o == 12 ? query : normal(3, 4, B, L, G, N);
    mmix_tensor *decay = leaf(2, -1.5, o == 13 ? 0.3 : -0.1, 2, H, N, 0, 0);
    if (softplus) dt = leaf(1, -1.5, 1, 3, B, L, H, 0);
    else dt = leaf(1, 0.05, 0.9, 3, B, L, H, 0);
    mmix_mixer s = mmix_mixer_selective(v, dt, decay, key, query);
    s.dt_softplus = softplus;
    if (o >= 1 && o != 14) s.D = normal(5, 1, H, 0, 0, 0);
    if (softplus) s.dt_bias = leaf(6, 0.1, 0.4, 1, H, 0, 0, 0);
    if (o == 1 || o == 4 || o == 8) s.z = normal(8, 4, B, L, H, 1);
    if (u) s.z = mmix_slice(m, u, 3, 2, 1);
    if (o == 5 || o == 6 || o == 7) s.direction = MMIX_SCAN_REVERSE;
    if (o == 8 || o == 9) s.direction = MMIX_SCAN_BOTH;
    if (o == 4 || o == 7 || o == 9) s.seq_idx = packed(B, L);
    if (o == 6) s.chunk = 4;
    if (o == 0) s.chunk = 1000;
    if (o == 3 || o == 6 || o == 2 || o == 7 || o == 14)
        s.initial_state = normal(7, 4, B, H, 1, N);
    if (o == 2 || o == 3 || o == 6 || o == 7 || o == 10 || o == 14)
        s.final_state = &last;
    y = mmix_mix(m, &s);
    if (o == 14) return last;
    return s.final_state ? mmix_add(m, weigh(y), weigh(last)) : y;
}
/* Only the final state is used. */
static mmix_tensor *t_ssd_state(int o)
{
    mmix_tensor *last = NULL;
    mmix_mixer s = mmix_mixer_ssd(normal(0, 4, 1, 7, 2, 3), leaf(1, 0.05, 0.9, 3, 1, 7, 2, 0),
                                  leaf(2, -1.5, -0.1, 1, 2, 0, 0, 0), normal(3, 4, 1, 7, 1, 4),
                                  mmix_fill(mmix_new4(m, 1, 7, 1, 4), 0.5));
    (void)o;
    s.final_state = &last;
    s.initial_state = normal(4, 4, 1, 2, 3, 4);
    mmix_mix(m, &s);
    return last;
}
/* SSD by its definition, a loop over time of fine ops (one group, plain options) */
static mmix_tensor *t_ssd_plain(int o)
{
    mmix_mixer s = mmix_mixer_ssd(normal(0, 4, 2, 7, 3, 5), leaf(1, 0.05, 0.9, 3, 2, 7, 3, 0),
                                  leaf(2, -1.5, -0.1, 1, 3, 0, 0, 0), normal(3, 4, 2, 7, 1, 4),
                                  normal(4, 4, 2, 7, 1, 4));
    (void)o;
    s.D = normal(5, 1, 3, 0, 0, 0);
    return mmix_mix(m, &s);
}
static mmix_tensor *f_ssd_plain(int o)
{
    mmix_tensor *x = normal(0, 4, 2, 7, 3, 5);
    mmix_tensor *dt = leaf(1, 0.05, 0.9, 3, 2, 7, 3, 0);
    mmix_tensor *A = leaf(2, -1.5, -0.1, 1, 3, 0, 0, 0);
    mmix_tensor *Bt = normal(3, 4, 2, 7, 1, 4);
    mmix_tensor *C = normal(4, 4, 2, 7, 1, 4);
    mmix_tensor *D = normal(5, 1, 3, 0, 0, 0);
    mmix_tensor *h = NULL, *y[7];
    (void)o;
    for (size_t t = 0; t < 7; t++) {
        mmix_tensor *d = shape_of(mmix_slice(m, dt, 1, t, 1), 4, 2, 3, 1, 1);
        mmix_tensor *xt = shape_of(mmix_slice(m, x, 1, t, 1), 4, 2, 3, 5, 1);
        mmix_tensor *in = mmix_mul(m, mmix_mul(m, d, xt),
                                   shape_of(mmix_slice(m, Bt, 1, t, 1), 4, 2, 1, 1, 4));
        h = h ? mmix_add(m, mmix_mul(m, mmix_exp(m, mmix_mul(m, d, shape_of(A, 3, 3, 1, 1, 0))), h),
                         in)
              : in;
        y[t] = mmix_sum_axis(m, mmix_mul(m, h, shape_of(mmix_slice(m, C, 1, t, 1), 4, 2, 1, 1, 4)),
                             3);
        y[t] =
            shape_of(mmix_add(m, y[t],
                              mmix_mul(m, shape_of(D, 2, 3, 1, 0, 0), shape_of(xt, 3, 2, 3, 5, 0))),
                     4, 2, 1, 3, 5);
    }
    return mmix_concat(m, 1, y, 7);
}

/* ---- Flex-MA, and the same made of gather, linear, mix, mul, … ---- */

enum { FLEX_L = 14, FLEX_D = 5, FLEX_H = 4, FLEX_G = 2, FLEX_N = 3 };
static const mmix_span flex_spans[2] = { { 2, { 2, 1, 2 }, 1, 0 }, { 9, { 1, 2, 2 }, 0, 0 } };
/* o: directions + 3 · one dt for both + 6 · skip; the layer is o mod 4 */
static mmix_mmate_layer flex_layer(int o)
{
    mmix_mmate_layer f;
    memset(&f, 0, sizeof f);
    f.index = (size_t)(o % 4);
    f.options.branches = MMIX_BRANCH_FLEX;
    f.options.directions = o % 3;
    f.options.shared_directions = o / 3 % 2;
    f.options.skip = o / 6 % 2;
    f.flex.heads = FLEX_H;
    f.flex.kv_heads = FLEX_G;
    for (int i = 0; i < 3; i++)
        f.flex.weight[i] = normal(1 + i, 2, (i ? FLEX_G : FLEX_H) * FLEX_N, FLEX_D, 0, 0);
    f.flex.weight[3] = normal(4, 2, FLEX_D, FLEX_H * FLEX_N, 0, 0);
    f.flex.bias[1] = normal(5, 1, FLEX_G * FLEX_N, 0, 0, 0);
    for (int d = 0; d < 2 - f.options.shared_directions; d++) {
        f.dir[d].dt_proj = normal(6 + 3 * d, 2, FLEX_H, FLEX_D, 0, 0);
        f.dir[d].dt_bias = normal(7 + 3 * d, 1, FLEX_H, 0, 0, 0);
        f.dir[d].A_log = normal(8 + 3 * d, 1, FLEX_H, 0, 0, 0);
    }
    if (f.options.directions == MMIX_FUSE_GATE) {
        f.gate_weight = normal(12, 2, FLEX_H, FLEX_D, 0, 0);
        f.gate_bias = normal(13, 1, FLEX_H, 0, 0, 0);
    }
    if (f.options.skip)
        f.D = normal(14, 1, FLEX_H, 0, 0, 0);
    return f;
}
static mmix_tensor *t_flex(int o)
{
    mmix_mmate_layer f = flex_layer(o);
    mmix_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.spans = flex_spans;
    layout.n_spans = 2;
    return mmix_mmate_forward(m, &f, normal(0, 3, 2, FLEX_L, FLEX_D, 0), NULL, &layout);
}
/* tokens order[0] … order[n-1] of x (2, L, D) in both sequences */
static mmix_tensor *pick_tokens(mmix_tensor *x, const int32_t *order, size_t n)
{
    const size_t L = mmix_shape(x, 1), D = mmix_shape(x, 2), shape[2] = { 2, n };
    int32_t at[2 * FLEX_L];
    for (size_t i = 0; i < 2 * n; i++)
        at[i] = (int32_t)(i / n * L) + order[i % n];
    return mmix_take_rows(m, shape_of(x, 2, 2 * L, D, 0, 0), mmix_from_i32(m, 2, shape, at));
}
/* h = e^(dt A) h + dt X Bᵀ, y = C h over the n tokens of x as they come, heads side by side: (2,
   n, H·N) */
static mmix_tensor *plain_scan(const mmix_mmate_layer *f, int d, mmix_tensor *x, size_t n)
{
    const int own = f->options.shared_directions ? 0 : d;
    mmix_tensor *part[3], *dt;
    mmix_mixer ssd;
    for (int i = 0; i < 3; i++)
        part[i] = shape_of(mmix_linear(m, x, f->flex.weight[i], f->flex.bias[i]), 4, 2, n,
                           i ? FLEX_G : FLEX_H, FLEX_N);
    dt = mmix_softplus(m, mmix_add(m, mmix_linear(m, x, f->dir[own].dt_proj, NULL),
                                   f->dir[own].dt_bias));
    ssd = mmix_mixer_ssd(part[2], dt, mmix_affine(m, mmix_exp(m, f->dir[own].A_log), -1, 0),
                         part[1], part[0]);
    return shape_of(mmix_mix(m, &ssd), 3, 2, n, FLEX_H * FLEX_N, 0);
}
static mmix_tensor *f_flex(int o)
{
    mmix_mmate_layer f = flex_layer(o);
    mmix_tensor *x = normal(0, 3, 2, FLEX_L, FLEX_D, 0), *y, *part[5];
    int32_t order[FLEX_L], inverse[FLEX_L], back[FLEX_L];
    size_t parts = 0, at = 0;
    for (int32_t t = 0; t < FLEX_L; t++)
        order[t] = t;
    for (int s = 0; s < 2; s++) {
        const mmix_span *p = &flex_spans[s];
        const size_t n = p->grid[0] * (p->grid[1] * p->grid[2] + p->separators);
        mmix_scan_order(f.index, p->grid[0], p->grid[1], p->grid[2], p->separators,
                        order + p->start, NULL);
        for (size_t r = 0; r < n; r++)
            order[p->start + r] += (int32_t)p->start;
    }
    for (int32_t t = 0; t < FLEX_L; t++)
        inverse[order[t]] = t;
    /* where the tokens stand */
    y = pick_tokens(plain_scan(&f, 0, pick_tokens(x, order, FLEX_L), FLEX_L), inverse, FLEX_L);
    for (int s = 0; s < 2; s++) {
        const mmix_span *p = &flex_spans[s];
        const size_t n = p->grid[0] * (p->grid[1] * p->grid[2] + p->separators);
        mmix_tensor *forward = mmix_slice(m, y, 1, p->start, n);
        mmix_tensor *reverse;
        mmix_tensor *xs = mmix_slice(m, x, 1, p->start, n);
        /* read from its end */
        for (size_t r = 0; r < n; r++)
            back[r] = order[p->start + n - 1 - r] - (int32_t)p->start;
        reverse = plain_scan(&f, 1, pick_tokens(xs, back, n), n);
        for (size_t r = 0; r < n; r++)
            inverse[back[r]] = (int32_t)r;
        reverse = pick_tokens(reverse, inverse, n);
        if (f.options.directions == MMIX_FUSE_GATE) {
            mmix_tensor *one = mmix_fill(mmix_new1(m, 1), 1);
            mmix_tensor *z = mmix_linear(m, xs, f.gate_weight, f.gate_bias);
            mmix_tensor *g =
                shape_of(mmix_div(m, one, mmix_add(m, one, mmix_exp(m, mmix_affine(m, z, -1, 0)))),
                         4, 2, n, FLEX_H, 1);
            forward = mmix_mul(m, g, shape_of(forward, 4, 2, n, FLEX_H, FLEX_N));
            reverse = mmix_mul(m, mmix_sub(m, one, g), shape_of(reverse, 4, 2, n, FLEX_H, FLEX_N));
            forward = shape_of(mmix_add(m, forward, reverse), 3, 2, n, FLEX_H * FLEX_N, 0);
        }
        else
            forward = mmix_affine(m, mmix_add(m, forward, reverse),
                                  f.options.directions == MMIX_FUSE_MEAN ? 0.5 : 1, 0);
        part[parts++] = mmix_slice(m, y, 1, at, p->start - at);
        part[parts++] = forward;
        at = p->start + n;
    }
    part[parts++] = mmix_slice(m, y, 1, at, FLEX_L - at);
    y = mmix_concat(m, 1, part, parts);
    if (f.D) {
        mmix_tensor *v = shape_of(mmix_linear(m, x, f.flex.weight[2], f.flex.bias[2]), 4, 2, FLEX_L,
                                  FLEX_G, FLEX_N),
                    *repeated[FLEX_H];
        for (size_t h = 0; h < FLEX_H; h++)
            repeated[h] = mmix_slice(m, v, 2, h / (FLEX_H / FLEX_G), 1);
        v = mmix_mul(m, mmix_concat(m, 2, repeated, FLEX_H), shape_of(f.D, 4, 1, 1, FLEX_H, 1));
        y = mmix_add(m, y, shape_of(v, 3, 2, FLEX_L, FLEX_H * FLEX_N, 0));
    }
    return mmix_linear(m, y, f.flex.weight[3], NULL);
}

/* ---- layers and models: parameters in lists ---- */

typedef struct model {
    mmix_params *list[2];
    int lists, kind;
    mmix_attention_layer attention;
    mmix_mlp_layer mlp;
    mmix_mamba2_layer mamba;
    mmix_mamba1_layer mamba1;
    mmix_vision *vision;
    mmix_dino_head head;
    mmix_vision_options options;
    mmix_mmate_layer mmate;
    mmix_decoder *decoder;
} model;
enum { ATTENTION, MLP, MAMBA, MAMBA1, VISION, HEAD, DINO, MMATE, CAUSAL, DECODER };
static model *now;
/* of 24 tokens */
static const mmix_span model_spans[3] = { { 1, { 1, 2, 3 }, 0, 0 },
                                          { 8, { 2, 1, 2 }, 1, 0 },
                                          { 15, { 2, 2, 2 }, 0, 0 } };

/* A layer of Mamba-1 with a residual and a scale, alone, packed, or with states carried. */
static mmix_tensor *mamba1_model(int o, mmix_tensor *x, mmix_tensor *last, mmix_tensor *s)
{
    const mmix_mamba1_layer *layer = &now->mamba1;
    mmix_mamba1_state carried = { NULL, NULL, NULL, 0 };
    if (o != 2)
        return mmix_mamba1_forward(m, layer, x, last, s, o == 6 ? packed(3, 7) : NULL, NULL);
    carried.conv = normal(2, 3, 3, layer->options.d_inner, layer->options.conv_width - 1, 0);
    carried.ssm = normal(3, 4, 3, layer->options.d_inner, 1, layer->options.d_state);
    x = weigh(mmix_mamba1_forward(m, layer, x, NULL, NULL, NULL, &carried));
    return mmix_add(m, x, mmix_add(m, weigh(carried.conv), weigh(carried.ssm)));
}
static mmix_tensor *t_model(int o)
{
    mmix_tensor *x, *s, *last;
    mmix_mamba2_state carried = { NULL, NULL, NULL, 0 };
    (void)o;
    if (now->kind <= MAMBA1) {
        x = normal(0, 3, 3, 7, 10, 0);
        s = o % 2 ? linear_scale() : NULL;
        if (o % 2)
            last = normal(1, 3, 3, 7, 10, 0);
        else if (o == 4) last = x;
        else last = NULL;
        if (now->kind == ATTENTION)
            return mmix_attention_forward(m, &now->attention, x, last, s, NULL, 0);
        if (now->kind == MLP)
            return mmix_mlp_forward(m, &now->mlp, x, last, s);
        if (now->kind == MAMBA1) return mamba1_model(o, x, last, s);
        if (o != 2)
            return mmix_mamba2_forward(m, &now->mamba, x, last, s, o == 6 ? packed(3, 7) : NULL,
                                       NULL);
        carried.conv = normal(2, 3, 3, mmix_shape(now->mamba.dir[0].conv_bias, 0),
                              now->mamba.options.conv_width - 1, 0);
        carried.ssm = normal(3, 4, 3, now->mamba.heads, now->mamba.options.head_dim,
                             now->mamba.options.d_state);
        x = weigh(mmix_mamba2_forward(m, &now->mamba, x, NULL, NULL, NULL, &carried));
        return mmix_add(m, x, mmix_add(m, weigh(carried.conv), weigh(carried.ssm)));
    }
    if (now->kind == MMATE || now->kind == CAUSAL) {
        mmix_layout layout;
        memset(&layout, 0, sizeof layout);
        layout.spans = model_spans;
        layout.n_spans = o ? 3 : 1;
        x = normal(0, 3, 2, 24, 6, 0);
        if (now->kind == CAUSAL)
            return mmix_mmate_forward(m, &now->mmate, x, o ? normal(1, 3, 2, 24, 6, 0) : NULL,
                                      &layout);
        if (o % 3 != 1)
            return mmix_mmate_forward(m, &now->mmate, x, o % 3 ? normal(1, 3, 2, 24, 6, 0) : NULL,
                                      &layout);
        layout.initial_state = normal(2, 4, 2, 2, 4, 4);
        layout.final_state = &last;
        x = weigh(mmix_mmate_forward(m, &now->mmate, x, x, &layout));
        return mmix_add(m, x, weigh(last));
    }
    if (now->kind == DECODER) {
        const size_t shape[2] = { 2, 24 };
        int32_t token[48];
        mmix_sequence q;
        memset(&q, 0, sizeof q);
        for (int i = 0; i < 48; i++)
            token[i] = i * i % 11;
        q.tokens = mmix_from_i32(m, 2, shape, token);
        q.spans = model_spans;
        q.n_spans = 3;
        q.media = normal(0, 3, 2, 18, 5, 0);
        return mmix_decoder_logits(m, now->decoder,
                                   mmix_decoder_forward(m, now->decoder, &q, NULL));
    }
    if (now->kind == HEAD)
        return mmix_dino_head_forward(m, &now->head, normal(0, 2, 4, 6, 0, 0));
    {
        /* the middle of one picture, a corner of the other */
        if (now->options.mask_token) {
            now->options.masked = mmix_fill(mmix_new2(m, 2, o ? 15 : 9), 0);
            mmix_data(now->options.masked)[4] = mmix_data(now->options.masked)[o ? 15 : 9] = 1;
        }
        mmix_tensor *image = o ? normal(0, 4, 2, 3, 13, 21) : normal(0, 4, 2, 3, 12, 12);
        mmix_features f = mmix_vision_forward(m, now->vision, image, &now->options);
        mmix_tensor *y;
        if (now->kind == DINO) {
            mmix_real center[9];
            static const int same = 0;
            mmix_tensor *small = mmix_vision_forward(m, now->vision, normal(1, 4, 1, 3, 8, 4),
                                                     &now->options)
                                     .token,
                        *part[2];
            (void)same;
            for (int k = 0; k < 9; k++)
                center[k] = 0.01 * k;
            part[0] = f.token;
            part[1] = small;
            return mmix_dino_loss(m,
                                  mmix_dino_head_forward(m, &now->head, mmix_concat(m, 0, part, 2)),
                                  mmix_fill_normal(m, mmix_new2(m, 2, 9), 0.1, 5), center, 3, 0.2,
                                  0.07, 0.9, NULL);
        }
        y = mmix_add(m, weigh(f.token), mmix_add(m, weigh(f.patches), weigh(f.tokens)));
        return f.intermediate ? mmix_add(m, y, weigh(f.intermediate)) : y;
    }
}
static double model_value(void *arg) { return value_of(t_model, *(int *)arg); }

static void check_model(const char *name, model *x, int o, int per)
{
    double *first[2];
    char text[96];
    now = x;
    snprintf(text, sizeof text, "%s/%d", name, o);
    for (int i = 0; i < x->lists; i++) {
        mmix_params *p = x->list[i];
        for (size_t k = 0; k < p->count; k++)
            for (size_t e = 0; e < mmix_count(p->at[k].tensor); e++)
                mmix_data(p->at[k].tensor)[e] += 0.2 * (2 * uniform() - 1);
    }
    run_case(name, t_model, o);
    name = text;
    for (int i = 0; i < x->lists; i++)
        mmix_params_require_grad(x->list[i], 1);
    mode = PLAIN;
    if (gradients(name, t_model, o, 1, 0)) return;
    for (int i = 0; i < x->lists; i++) {
        mmix_params *p = x->list[i];
        first[i] = (double *)malloc(p->slab * sizeof(double));
        memcpy(first[i], p->gradients, p->slab * sizeof(double));
        for (size_t k = 0; k < p->count; k++)
            check(mmix_grad(p->at[k].tensor) != NULL, name, p->at[k].name, -2, 0, 1);
    }
    /* leaves another kind of tape, and the same bits */
    recording = MMIX_RECORD_LAYERS;
    for (int i = 0; i < x->lists; i++)
        mmix_params_zero_grad(x->list[i]);
    gradients(name, t_model, o, 1, 0);
    for (int i = 0; i < x->lists; i++) {
        mmix_params *p = x->list[i];
        size_t same = 0;
        while (same < p->slab && p->gradients[same] == first[i][same])
            same++;
        const int differs = same < p->slab;
        const double got = differs ? p->gradients[same] : 0;
        const double want = differs ? first[i][same] : 0;
        check(!differs, name, "layers recorded as checkpoints: number", (int)same, got, want);
    }
    recording = 1;
    gradients(name, t_model, o, 1, 0);           /* adds: nothing was zeroed */
    for (int i = 0; i < x->lists; i++) {
        mmix_params *p = x->list[i];
        for (size_t k = 0; k < p->count; k++) {
            mmix_tensor *t = p->at[k].tensor;
            size_t n = mmix_count(t), at = (size_t)(mmix_data(t) - p->values);
            double top = 0, worst = 0, got = 0, want = 0, twice = 0;
            for (size_t e = 0; e < n; e++) {
                if (fabs(first[i][at + e]) > top)
                    top = fabs(first[i][at + e]);
                if (fabs(p->gradients[at + e] - 2 * first[i][at + e]) > twice)
                    twice = fabs(p->gradients[at + e] - 2 * first[i][at + e]);
            }
            check(twice <= 1e-11 * (top + 1e-3), name, p->at[k].name, -3, twice, 0);
            for (int j = 0; j < per; j++) {
                size_t e = (size_t)(((2 * uniform() - 1) + 1) / 2 * (double)n);
                double d = difference(model_value, &o, &mmix_data(t)[e]);
                if (!(fabs(d - first[i][at + e]) <= worst)) {
                    worst = fabs(d - first[i][at + e]);
                    got = first[i][at + e];
                    want = d;
                }
            }
            check(worst <= 1e-7 * top + 1e-10, name, p->at[k].name, -1, got, want);
            /* softmax does not feel a bias of all keys unless they turn */
            check(top > 1e-9 || (now->kind == VISION && strstr(p->at[k].name, "swin.k_proj.bias")),
                  name, p->at[k].name, -4, top, 1);
        }
        mmix_params_zero_grad(p);
        free(first[i]);
    }
    gradients(name, t_model, o, 1, 0);
    for (int i = 0; i < x->lists; i++)
        mmix_params_require_grad(x->list[i], 0);
    erred(name);
}

static void layers(void)
{
    model x;
    mmix_mamba2_options o;
    memset(&x, 0, sizeof x);
    x.lists = 1;
    /* attention, softmax and linear, with and without biases and a residual */
    for (int k = 0; k < 4; k++) {
        x.kind = ATTENTION;
        x.list[0] = mmix_params_create(m);
        const int mixer = k & 1 ? MMIX_MIXER_LINEAR : MMIX_MIXER_SOFTMAX;
        mmix_attention_init(&x.attention, x.list[0], "a.", 10, k == 2 ? 5 : 2, mixer, k < 2);
        mmix_params_allocate(x.list[0]);
        if (k == 3) x.attention.options.normalize = 1;
        check_model("attention layer", &x, k == 2 ? 4 : k, 5);
        mmix_params_destroy(x.list[0]);
    }
    /* linear attention whose keys, output or both are augmented */
    for (int k = 0; k < 6; k++) {
        x.kind = ATTENTION;
        x.list[0] = mmix_params_create(m);
        mmix_attention_init(&x.attention, x.list[0], "a.", 10, 2, MMIX_MIXER_LINEAR, 1);
        mmix_attention_augment(&x.attention, x.list[0], "a.", 1 + k % 3);
        x.attention.options.feature = k < 3 ? MMIX_FEATURE_SOFTMAX_BOTH : MMIX_FEATURE_ELU1;
        mmix_params_allocate(x.list[0]);
        check_model("augmented attention layer", &x, k, 5);
        mmix_params_destroy(x.list[0]);
    }
    for (int k = 0; k < 2; k++) {
        x.kind = MLP;
        x.list[0] = mmix_params_create(m);
        mmix_mlp_init(&x.mlp, x.list[0], "mlp.", 10, 23, 10);
        mmix_params_allocate(x.list[0]);
        check_model("mlp layer", &x, k, 5);
        mmix_params_destroy(x.list[0]);
    }
    for (int k = 0; k < 7; k++) {
        x.kind = MAMBA;
        memset(&o, 0, sizeof o);
        o.d_inner = k == 3 ? 18 : 12;
        o.head_dim = 3;
        o.d_state = k == 5 ? 7 : 4;
        o.groups = k == 1 ? 2 : 1;
        o.conv_width = k == 5 ? 3 : 0;
        o.bidirectional = k == 1 || k == 4 || k == 5;
        if (k == 3) {
            o.dt_low = 0.013;
            o.dt_high = 0.8;
        }
        x.list[0] = mmix_params_create(m);
        mmix_mamba2_init(&x.mamba, x.list[0], "mixer.", 10, &o);
        mmix_params_allocate(x.list[0]);
        check_model("mamba2 layer", &x, k, 5);
        mmix_params_destroy(x.list[0]);
    }
    for (int k = 0; k < 7; k++) {
        mmix_mamba1_options one;
        x.kind = MAMBA1;
        memset(&one, 0, sizeof one);
        one.d_inner = k == 3 ? 18 : 12;
        one.d_state = k == 5 ? 7 : 4;
        one.dt_rank = k == 4 ? 3 : 0;
        one.conv_width = k == 5 ? 3 : 0;
        one.bias = k == 3 || k == 4;
        one.bidirectional = k == 1 || k == 4 || k == 5;
        one.divide = k == 4;
        x.list[0] = mmix_params_create(m);
        mmix_mamba1_init(&x.mamba1, x.list[0], "mixer.", 10, &one);
        mmix_params_allocate(x.list[0]);
        check_model("mamba1 layer", &x, k, 5);
        mmix_params_destroy(x.list[0]);
    }
    x.kind = HEAD;
    for (int k = 1; k < 4; k += 2) {
        x.list[0] = mmix_params_create(m);
        mmix_dino_head_init(&x.head, x.list[0], "", 6, 11, 5, 13, (size_t)k);
        mmix_params_allocate(x.list[0]);
        check_model("dino head", &x, k, 5);
        mmix_params_destroy(x.list[0]);
    }
}

static void decoders(void)
{
    model x;
    memset(&x, 0, sizeof x);
    /* M-MATE with each option and all of them; causal attention */
    for (int k = 0; k < 15; k++) {
        mmix_mmate_options o;
        memset(&o, 0, sizeof o);
        for (int a = 0; a < 3; a++)
            o.window[a] = 2;
        if (k == 1 || k == 12) o.directions = MMIX_FUSE_MEAN;
        if (k == 2) o.directions = MMIX_FUSE_SUM;
        if (k == 3 || k == 12) o.branch_gate = 1;
        if (k == 4) o.branches = MMIX_BRANCH_FLEX;
        if (k == 5 || k == 2) o.shared_directions = 1;
        if (k == 6 || k >= 12) o.skip = 1;
        if (k == 7 || k == 12) o.conv_width = 3;
        if (k == 8 || k >= 12) o.output_gate = 1;
        if (k == 9 || k >= 12) o.norm = 1;
        if (k == 10 || k == 12) o.causal_window = 1;
        if (k == 11 || k >= 12) o.text_window = 3;
        if (k == 14) o.branches = MMIX_BRANCH_SWIN;
        x.kind = MMATE;
        x.lists = 1;
        x.list[0] = mmix_params_create(m);
        mmix_mmate_init(&x.mmate, x.list[0], "mmate.", 6, 2, k % 2 ? 2 : 1, 4, (size_t)(k % 4),
                        1 + k % 2, &o);
        x.mmate.rope.theta = 100;
        mmix_params_allocate(x.list[0]);
        check_model("M-MATE layer", &x, k == 14 ? 15 : k + 2, 2);
        mmix_params_destroy(x.list[0]);
    }
    for (int k = 0; k < 2; k++) {
        x.kind = CAUSAL;
        x.list[0] = mmix_params_create(m);
        mmix_mmate_options o;
        memset(&o, 0, sizeof o);
        o.branches = MMIX_BRANCH_ATTENTION;
        mmix_mmate_init(&x.mmate, x.list[0], "attn.", 6, 2, 1, 4, 0, 2 - k, &o);
        x.mmate.rope.theta = 100;
        mmix_params_allocate(x.list[0]);
        check_model("causal attention layer", &x, k, 3);
        mmix_params_destroy(x.list[0]);
    }
    for (int k = 0; k < 4; k++) {                /* attention and M-MATE, then with adapters */
        mmix_decoder_config c;
        memset(&c, 0, sizeof c);
        c.mixer = k % 2 ? MMIX_DECODER_MMATE : MMIX_DECODER_ATTENTION;
        c.vocabulary = 11;
        c.dim = 6;
        c.depth = 2;
        c.ffn = 7;
        c.heads = 2;
        c.kv_heads = 1;
        c.head_dim = 6;
        c.media = 5;
        c.bias = 1;
        c.tied = k > 1;
        if (k > 1)
            c.rope.sections[0] = c.rope.sections[1] = c.rope.sections[2] = 1;
        for (int a = 0; a < 3; a++)
            c.mmate.window[a] = 2;
        c.mmate.text_window = 4;
        c.mmate.branch_gate = 1;
        x.kind = DECODER;
        x.decoder = mmix_decoder_create(m, c);
        if (k > 1)
            mmix_params_add_lora(x.decoder->params, 2, 3, MMIX_LORA_FFN | MMIX_LORA_MIXER);
        if (erred("decoder")) continue;
        x.list[0] = x.decoder->params;
        x.list[1] = x.decoder->params->adapters;
        x.lists = 1 + (k > 1);
        check_model("decoder", &x, k, 2);
        mmix_decoder_destroy(x.decoder);
    }
}

static mmix_vision_config tiny(int mixer)
{
    mmix_vision_config c;
    if (mixer == MMIX_MIXER_SOFTMAX) c = mmix_vision_config_vit(192, 4);
    else if (mixer == MMIX_MIXER_LINEAR) c = mmix_vision_config_linearvit(768);
    else c = mmix_vision_config_dinovim(256);
    c.dim = 12;
    c.depth = 3;
    c.heads = mixer == MMIX_MIXER_SSD ? 0 : 3;
    c.patch = 4;
    c.grid = 3;
    c.mlp_ratio = 2;
    c.drop_path = 0.3;
    c.mamba.head_dim = 4;
    c.mamba.d_state = 5;
    return c;
}
static void models(void)
{
    enum { N = 8 };
    static const char *const names[N] = { "ViT",
                                          "LinearViT",
                                          "DinoVim released",
                                          "DinoVim middle",
                                          "LinearViT normalized",
                                          "DinoVim in front",
                                          "M-MATE in a ViT",
                                          "its branches" };
    static const int mixer[N] = { MMIX_MIXER_SOFTMAX, MMIX_MIXER_LINEAR, MMIX_MIXER_SSD,
                                  MMIX_MIXER_SSD,     MMIX_MIXER_LINEAR, MMIX_MIXER_SSD,
                                  MMIX_MIXER_SOFTMAX, MMIX_MIXER_SOFTMAX };
    /* without and with: other size, intermediate features, drop path */
    for (int k = 0; k < 2 * N; k++) {
        model x;
        mmix_vision_config c = tiny(mixer[k % N]);
        memset(&x, 0, sizeof x);
        if (k % N == 3) c.class_token = MMIX_CLASS_MIDDLE;
        if (k % N == 4) c.normalize = 1;
        if (k % N == 5) c.class_token = MMIX_CLASS_FIRST;
        if (k % N > 5) {
            c.blocks[0] = k % N == 6 ? MMIX_BLOCK_MMATE : MMIX_BLOCK_SWIN;
            c.blocks[2] = k % N == 6 ? MMIX_BLOCK_MMATE : MMIX_BLOCK_FLEX;
        }
        c.mmate.window[1] = c.mmate.window[2] = 2;
        c.registers = k % N == 7;
        c.mmate.branch_gate = k >= N;
        x.vision = mmix_vision_create(m, c);
        if (erred(names[k % N])) continue;
        x.kind = VISION;
        x.lists = 1;
        x.list[0] = mmix_vision_params(x.vision);
        x.options.n_last = k < N ? 0 : 2;
        x.options.train = k >= N;
        x.options.step = 3;
        check_model(names[k % N], &x, k >= N, 3);
        x.lists = 2;
        /* some patches masked: the token for them has a gradient, too */
        x.list[1] = mmix_params_create(m);
        x.options.mask_token = mmix_params_add(x.list[1], "", "mask_token", 1, &c.dim,
                                               MMIX_INIT_NORMAL, 0.5, 0);
        mmix_params_allocate(x.list[1]);
        check_model(names[k % N], &x, k >= N, 3);
        memset(&x.options, 0, sizeof x.options);
        mmix_params_destroy(x.list[1]);
        mmix_params_add_lora(x.list[0], 2, 3,
                             k < N ? MMIX_LORA_FFN | MMIX_LORA_MIXER : MMIX_LORA_MIXER);
        x.list[1] = x.list[0]->adapters;
        check_model(names[k % N], &x, k >= N, 3);
        mmix_vision_destroy(x.vision);
    }
    for (int k = 0; k < 3; k++) {
        model x;
        memset(&x, 0, sizeof x);
        static const int mixer[] = { MMIX_MIXER_SOFTMAX, MMIX_MIXER_LINEAR, MMIX_MIXER_SSD };
        x.vision = mmix_vision_create(m, tiny(mixer[k]));
        x.list[0] = mmix_vision_params(x.vision);
        x.list[1] = mmix_params_create(m);
        mmix_dino_head_init(&x.head, x.list[1], "", 12, 11, 5, 9, 3);
        mmix_params_allocate(x.list[1]);
        x.lists = 2;
        x.kind = DINO;
        check_model("DINO", &x, 0, 2);
        mmix_vision_destroy(x.vision);
        mmix_params_destroy(x.list[1]);
    }
}

static void many(const char *name, build *f, int from, int n)
{
    for (int o = from; o < from + n; o++)
        run_case(name, f, o);
}
static void many_equal(const char *name, build *f, build *g, int n)
{
    for (int o = 0; o < n; o++)
        run_equal(name, f, g, o);
}

int main(void)
{
    mmix_options options;
    memset(&options, 0, sizeof options);
    options.threads = 2;
    if (sizeof(mmix_real) != sizeof(double)) {
        printf("build with -DMMIX_REAL=double\n0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    m = mmix_create(&options);
    if (!m) return 1;
    many("binary", t_binary, 0, 32);
    many("unary", t_unary, 0, 7);
    many("unary large", t_unary, 10, 7);
    many("unary scalar", t_unary, 20, 7);
    many("rare unary, max, dropout", t_rare, 0, 24);
    many("rates", t_rates, 0, 2);
    many("gelu_tanh", t_gelu_tanh, 0, 2);
    many("sum", t_sum, 0, 6);
    many("sum to one", t_sum, 7, 1);
    many("matmul", t_matmul, 0, 6);
    many("axes", t_axes, 0, 13);
    many("gather", t_gather, 0, 2);
    many("insert_token", t_insert, 0, 5);
    run_equal("softmax", t_softmax, f_softmax, 0);
    many_equal("softmax axis", t_softmax, f_softmax, 4);
    many_equal("layer_norm", t_layer_norm, f_layer_norm, 8);
    many_equal("rms_norm", t_rms_norm, f_rms_norm, 2);
    many_equal("gated_rms_norm", t_gated, f_gated, 4);
    many_equal("l2_normalize", t_l2, f_l2, 2);
    run_equal("weight_norm", t_weight_norm, f_weight_norm, 0);
    run_equal("linear", t_linear, f_linear, 0);
    many_equal("linear forms", t_linear, f_linear, 8);
    for (int k = 0; k < 8; k++)
        many("conv1d", t_conv, 10 * k + 1, 5);
    many("patch_embed", t_patch, 0, 2);
    many("resize", t_bicubic, 0, 7);
    many_equal("cross_entropy", t_xent, f_xent, 1);
    many_equal("cross_entropy_soft", t_xent_soft, f_xent_soft, 2);
    many_equal("dino_loss", t_dino_loss, f_dino_loss, 3);
    many_equal("ibot_loss", t_ibot_loss, f_ibot_loss, 4);
    many_equal("add_rows", t_add_rows, f_add_rows, 3);
    many_equal("kd_hidden", t_kd_hidden, f_kd_hidden, 8);
    many_equal("kd_token", t_kd_token, f_kd_token, 6);
    many_equal("Flex-MA by its definition", t_flex, f_flex, 12);
    many_equal("softmax attention", t_softmax_mix, f_softmax_mix, 6);
    many("softmax attention forms", t_softmax_mix, 6, 15);
    many("linear attention's state", t_linear_state, 0, 4);
    many("windows", t_windows, 0, 16);
    many("bands and packing", t_bands, 0, 8);
    many("rope", t_rope, 0, 10);
    many("lora", t_lora, 0, 2);
    for (int o = 0; o < 120; o++) {
        int causal = o / 12 % 2;
        if (causal && o % 4 == MMIX_FEATURE_EFFICIENT) continue;
        if (o / 24 >= 2 && o / 4 % 3 == 0) continue;
        run_case("linear attention", t_linear_mix, o);
    }
    many("ssd", t_ssd, 0, 20);
    run_case("ssd state", t_ssd_state, 0);
    many("selective scan", t_selective, 0, 15);
    run_equal("ssd by its definition", t_ssd_plain, f_ssd_plain, 0);
    layers();
    decoders();
    models();
    for (int i = 0; i < LEAVES; i++) {
        free(leaves[i].value);
        free(leaves[i].gradient);
    }
    mmix_destroy(m);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
