/* Contexts, errors, memory, random numbers, tensors, the tape, mixers' invariants, parameters, schedules, backbones and DINO
   training. Prints a line for each failing check, then a summary; exits 1 if anything failed. */
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <stdlib.h>
#ifndef MMIX_NO_THREADS
#include <pthread.h>
#endif
#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

typedef mmix_real real;
static const double EPS = sizeof(real) == 4 ? 1.2e-7 : 2.3e-16;
static int passed, failed, skipped;
static const char *doing = "";

static void check(int ok, const char *what, int line, double got, double expected)
{
    if (ok) { passed++; return; }
    failed++;
    if (failed < 200) printf("FAILED line %d, %s: %s: %.12g, expected %.12g\n", line, doing, what, got, expected);
}
#define OK(x) check((x) != 0, #x, __LINE__, 0, 1)
static void near_to(double x, double y, double bound, const char *what, int line) { check(fabs(x - y) <= bound, what, line, x, y); }
#define IS(x, y) near_to((double)(x), (double)(y), 0, #x, __LINE__)
#define NEAR(x, y, bound) near_to((double)(x), (double)(y), bound, #x, __LINE__)
/* No error is kept; if one is it is shown and cleared. */
#define FINE(m) check(!mmix_error(m), mmix_error(m) ? mmix_error(m) : "", __LINE__, 0, 0), mmix_error_clear(m)
/* The call returns NULL and the message holds both texts. */
static void refused(mmix_ctx *m, int bad, const char *call, int line, const char *a, const char *b, int kind)
{
    const char *e = mmix_error(m);
    check(bad && e && mmix_error_kind(m) == kind && strstr(e, a) && strstr(e, b), call, line, bad, 1);
    if (!(bad && e && mmix_error_kind(m) == kind && strstr(e, a) && strstr(e, b))) printf("    found: %s\n", e ? e : "no error");
    mmix_error_clear(m);
}
#define BAD(x, a, b) refused(m, !(x), #x, __LINE__, a, b, MMIX_ERROR_ARGUMENT)
#define BAD_INT(x, a, b) refused(m, (x) != 0, #x, __LINE__, a, b, MMIX_ERROR_ARGUMENT)

static uint64_t state = 1;
static double uniform(void)                      /* [0, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}
static size_t any(size_t low, size_t high) { return low + (size_t)(uniform() * (double)(high - low + 1)); }
static mmix_tensor *random4(mmix_ctx *m, size_t a, size_t b, size_t c, size_t d, double low, double high)
{
    mmix_tensor *t = mmix_new4(m, a, b, c, d);
    for (size_t i = 0; i < mmix_count(t); i++) mmix_data(t)[i] = (real)(low + (high - low) * uniform());
    return t;
}
static mmix_tensor *shaped(mmix_ctx *m, mmix_tensor *t, int ndim, size_t a, size_t b, size_t c)
{
    size_t s[3];
    s[0] = a; s[1] = b; s[2] = c;
    return mmix_reshape(m, t, ndim, s);
}
static mmix_tensor *random3(mmix_ctx *m, size_t a, size_t b, size_t c, double low, double high)
{
    return shaped(m, random4(m, 1, a, b, c, low, high), 3, a, b, c);
}
static mmix_tensor *random1(mmix_ctx *m, size_t a, double low, double high) { return shaped(m, random4(m, 1, 1, 1, a, low, high), 1, a, 0, 0); }
static double largest(mmix_tensor *t)
{
    double top = 0;
    for (size_t i = 0; i < mmix_count(t); i++) if (fabs((double)mmix_data(t)[i]) > top) top = fabs((double)mmix_data(t)[i]);
    return top;
}
/* largest |a - b| / (largest |b| + tiny); 1e9 for a NaN or another shape */
static double apart(mmix_tensor *a, mmix_tensor *b)
{
    double worst = 0;
    real *x, *y;
    size_t n = mmix_count(a);
    if (!a || !b || n != mmix_count(b)) return 1e9;
    x = (real *)malloc(n * sizeof *x);
    y = (real *)malloc(n * sizeof *y);
    mmix_read(a, x);
    mmix_read(b, y);
    double top = 1e-30;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)x[i] - (double)y[i]);
        if (!(d <= worst)) worst = d - d == 0 ? d : 1e9;
        if (fabs((double)y[i]) > top) top = fabs((double)y[i]);
    }
    free(x);
    free(y);
    return worst / top;
}
#define ALIKE(a, b, eps) near_to(apart(a, b), 0, eps, #a " is " #b, __LINE__)
#define SAME(a, b) near_to(apart(a, b), 0, 0, #a " has the bits of " #b, __LINE__)

static mmix_ctx *context(int threads, uint64_t seed)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = threads;
    o.seed = seed;
    return mmix_create(&o);
}

/* An allocator that counts, checks sizes and fails call number fail_at. */
typedef struct counter { size_t live, bytes, calls, fail_at; int wrong; } counter;
static void *counter_alloc(void *user, size_t size)
{
    counter *c = (counter *)user;
    size_t *p;
    if (++c->calls == c->fail_at) return NULL;
    p = (size_t *)malloc(size + 16);
    if (!p) return NULL;
    p[0] = size;
    c->live++;
    c->bytes += size;
    return (char *)p + 16;
}
static void counter_free(void *user, void *ptr, size_t size)
{
    counter *c = (counter *)user;
    size_t *p;
    if (!ptr) { c->wrong++; return; }
    p = (size_t *)(void *)((char *)ptr - 16);
    c->wrong += p[0] != size;
    c->live--;
    c->bytes -= size;
    free(p);
}
static mmix_options counted(counter *c)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.allocator.alloc = counter_alloc;
    o.allocator.free = counter_free;
    o.allocator.user = c;
    o.threads = 1;
    return o;
}

/* ---- contexts and errors ---- */

static void contexts(void)
{
    counter c;
    mmix_options o;
    mmix_ctx *m;
    mmix_memory_use use;
    doing = "context";
    m = mmix_create(NULL);
    OK(m != NULL);
    OK(mmix_threads(m) >= 1 && mmix_threads(m) <= 64);
    OK(mmix_simd_name(m) != NULL);
    OK(mmix_error(m) == NULL && mmix_error_kind(m) == MMIX_OK);
    OK(mmix_error(NULL) != NULL && mmix_error_kind(NULL) == MMIX_ERROR_MEMORY);
    mmix_destroy(m);
    mmix_destroy(NULL);
    memset(&c, 0, sizeof c);
    o = counted(&c);
    o.threads = 3;
    o.seed = 99;
    m = mmix_create(&o);
    IS(mmix_seed(m), 99);
    mmix_seed_set(m, 7);
    IS(mmix_seed(m), 7);
    for (int k = 0; k < 3; k++) {
        mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new2(m, 300, 40), 1));
        mmix_record(m, 1);
        for (int i = 0; i < 5; i++) x = mmix_silu(m, x);
        mmix_backward(m, mmix_mean(m, x));
        use = mmix_memory(m);
        IS(use.bytes, c.bytes);
        IS(use.allocations, c.calls);
        OK(use.peak >= use.bytes);
        mmix_reset(m);
    }
    mmix_memory_peak_clear(m);
    IS(mmix_memory(m).peak, c.bytes);
    FINE(m);
    mmix_destroy(m);
    IS(c.live, 0);
    IS(c.bytes, 0);
    IS(c.wrong, 0);
    /* limits */
    memset(&c, 0, sizeof c);
    o = counted(&c);
    o.allocator.byte_limit = 4 << 20;
    m = mmix_create(&o);
    OK(mmix_new2(m, 1000, 10) != NULL);
    OK(mmix_new2(m, 4000, 4000) == NULL);
    IS(mmix_error_kind(m), MMIX_ERROR_MEMORY);
    OK(c.bytes <= 4 << 20);
    mmix_error_clear(m);
    OK(mmix_new2(m, 10, 10) != NULL);
    mmix_destroy(m);
    IS(c.live, 0);
    for (size_t n = 1; n < 8; n++) {
        memset(&c, 0, sizeof c);
        o = counted(&c);
        o.allocator.count_limit = n;
        m = mmix_create(&o);
        for (int i = 0; m && i < 30 && !mmix_error(m); i++) mmix_new2(m, 1000, 700);
        if (m) IS(mmix_error_kind(m), MMIX_ERROR_MEMORY);
        OK(c.calls <= n);
        if (m) { mmix_error_clear(m); OK(!mmix_new2(m, 3000, 3000) && mmix_error_kind(m) == MMIX_ERROR_MEMORY); }
        mmix_destroy(m);
        IS(c.live, 0);
        IS(c.wrong, 0);
    }
    /* the first message is kept; ops return NULL meanwhile */
    m = context(1, 0);
    IS(mmix_fail(m, MMIX_ERROR_INTERRUPTED, "my op: %d of %s", 3, "four"), -1);
    mmix_fail(m, MMIX_ERROR_FILE, "second");
    OK(!strcmp(mmix_error(m), "my op: 3 of four"));
    IS(mmix_error_kind(m), MMIX_ERROR_INTERRUPTED);
    OK(mmix_new1(m, 3) == NULL);
    OK(mmix_params_create(m) == NULL);
    OK(mmix_vision_create(m, mmix_vit_tiny(16)) == NULL);
    OK(mmix_dino_create(m, mmix_dino_small_data()) == NULL);
    OK(mmix_backward(m, NULL) == -1);
    OK(!strcmp(mmix_error(m), "my op: 3 of four"));
    mmix_error_clear(m);
    {
        mmix_tensor *x = mmix_fill(mmix_new2(m, 2, 3), 1);
        char longer[1000];
        OK(x != NULL);
        mmix_fail(m, MMIX_ERROR_DEVICE, "x");
        OK(!mmix_add(m, x, x) && !mmix_linear(m, x, x, NULL) && !mmix_slice(m, x, 0, 0, 1) && !mmix_sum(m, x) && !mmix_mean(m, x));
        mmix_error_clear(m);
        memset(longer, 'a', sizeof longer);
        longer[999] = 0;
        mmix_fail(m, MMIX_ERROR_FILE, "%s", longer);
        OK(strlen(mmix_error(m)) > 100 && strlen(mmix_error(m)) < 1000);
        mmix_error_clear(m);
    }
    mmix_destroy(m);
}

static void bad_arguments(void)
{
    mmix_ctx *m = context(1, 0), *other = context(1, 0);
    size_t s7[7] = { 1, 1, 1, 1, 1, 1, 1 }, huge[2] = { (size_t)1 << 40, (size_t)1 << 40 }, two3[2] = { 2, 3 };
    size_t s10[2] = { 10, 6 }, s2x15[2] = { 2, 15 }, s35[2] = { 3, 5 }, s33[2] = { 3, 3 };
    int32_t ints[6] = { 0, 1, 2, 3, 4, 9 };
    int twice[2] = { 0, 0 };
    mmix_tensor *a = mmix_fill(mmix_new2(m, 2, 3), 1), *b = mmix_fill(mmix_new2(m, 4, 5), 1), *v = mmix_fill(mmix_new1(m, 4), 1), *i = mmix_from_i32(m, 2, two3, ints);
    mmix_tensor *x3 = mmix_fill(mmix_new3(m, 2, 5, 6), 1), *x4 = mmix_fill(mmix_new4(m, 2, 3, 5, 6), 1), *parts[13];
    mmix_mixer x;
    mmix_conv1d_options conv;
    mmix_rope_options rope;
    mmix_rank rank;
    mmix_mixer_rank ranks;
    mmix_state *steps;
    memset(&rope, 0, sizeof rope);
    doing = "arguments";
    BAD(mmix_new(m, MMIX_DTYPE_REAL, 7, s7), "mmix_new", "7");
    BAD(mmix_new(m, 9, 2, two3), "mmix_new", "dtype 9");
    BAD(mmix_new2(m, 3, 0), "mmix_new", "axis 1");
    BAD(mmix_new(m, MMIX_DTYPE_REAL, 2, huge), "mmix_new", "axis");
    BAD(mmix_add(m, a, b), "mmix_add", "(2, 3) and (4, 5)");
    BAD(mmix_div(m, a, NULL), "mmix_div", "b is NULL");
    BAD(mmix_class_strategy(m, MMIX_POOL_CLS, NULL, NULL, 0, NULL, 0), "mmix_class_strategy", "tokens is NULL");
    {                                            /* integers in views */
        mmix_tensor *column = mmix_slice(m, i, 1, 1, 1), *y = mmix_gather(m, mmix_reshape(m, x3, 2, s10), column);
        OK(y && mmix_shape(y, 1) == 1 && mmix_shape(y, 2) == 6);
        mmix_fill(x3, 1);
        for (size_t k = 0; k < 60; k++) mmix_data(x3)[k] = (real)(k / 6);
        y = mmix_gather(m, mmix_reshape(m, x3, 2, s10), column);
        IS(mmix_data(y)[0], 1);
        IS(mmix_data(y)[6], 4);
        BAD(mmix_reshape(m, column, 1, two3), "mmix_reshape", "gaps");
        BAD(mmix_cross_entropy(m, mmix_reshape(m, mmix_slice(m, x3, 0, 0, 1), 2, s2x15), column, -1), "mmix_cross_entropy", "gaps");
        mmix_fill(column, 7);
        OK(mmix_data_i32(i)[1] == 7 && mmix_data_i32(i)[4] == 7 && mmix_data_i32(i)[0] == 0 && mmix_data_i32(i)[2] == 2);
        mmix_data_i32(i)[1] = 1, mmix_data_i32(i)[4] = 4;
    }
    {                                            /* what failed to be made is passed on without harm */
        mmix_adamw_state none;
        mmix_adamw o = mmix_adamw_default();
        memset(&none, 0, sizeof none);
        IS(mmix_adamw_step(&none, &o, 0, NULL), 0);
        OK(!mmix_new1(NULL, 3) && !mmix_silu(NULL, NULL) && !mmix_params_create(NULL) && !mmix_record(NULL, 1));
        OK(!mmix_vision_create(NULL, mmix_vit_tiny(16)) && !mmix_dino_create(NULL, mmix_dino_small_data()));
        mmix_reset(NULL);
        IS(mmix_schedule_multistep(1, 0.1, two3, 2, 0, 0, 1, 5), 1);
        BAD(mmix_vision_create(m, mmix_vit_tiny(0)), "mmix_vision_create", "patch is 0");
        OK(!mmix_vision_create(m, mmix_vit_tiny(0)) && mmix_vision_load(m, NULL, "x") && mmix_params_pack(mmix_vision_params(NULL), 1)
           && mmix_params_train(NULL, 1) && !mmix_vision_features(m, NULL, NULL).token && mmix_vision_save(m, NULL, "x")
           && !mmix_vision_config_of(NULL) && mmix_dino_step(NULL, NULL, 0, NULL) && mmix_dino_step_crops(NULL, NULL, NULL, NULL)
           && mmix_dino_save(NULL, "x", NULL) && !mmix_dino_teacher(NULL) && strstr(mmix_error(m), "patch is 0"));     /* a chain after what could not be created */
        mmix_error_clear(m);
    }
    BAD(mmix_mul(m, i, a), "mmix_mul", "a is int32, expected real");
    BAD(mmix_exp(m, NULL), "mmix_exp", "x is NULL");
    BAD(mmix_matmul(m, a, b), "mmix_matmul", "(4, 5)");
    BAD(mmix_matmul(m, v, v), "mmix_matmul", "(4)");
    BAD(mmix_permute(m, a, twice), "mmix_permute", "order[1]");
    BAD(mmix_sum_axis(m, a, 2), "mmix_sum_axis", "axis 2 of (2, 3)");
    BAD(mmix_sum_axis(m, a, -3), "mmix_sum_axis", "axis -3");
    BAD(mmix_softmax(m, a, 2), "mmix_softmax", "axis 2");
    for (int k = 0; k < 13; k++) parts[k] = a;
    BAD(mmix_concat(m, 0, parts, 13), "mmix_concat", "13");
    BAD(mmix_concat(m, 0, parts, 0), "mmix_concat", "0");
    BAD(mmix_concat(m, 2, parts, 2), "mmix_concat", "axis 2");
    parts[1] = b;
    BAD(mmix_concat(m, 0, parts, 2), "mmix_concat", "part 1 has shape (4, 5)");
    parts[1] = NULL;
    BAD(mmix_concat(m, 0, parts, 2), "mmix_concat", "NULL");
    BAD(mmix_gather(m, b, i), "mmix_gather", "the table has 4 rows");
    BAD(mmix_gather(m, b, a), "mmix_gather", "index is real, expected int32");
    BAD(mmix_insert_token(m, x3, mmix_new1(m, 6), 6), "mmix_insert_token", "at 6");
    BAD(mmix_insert_token(m, x3, v, 0), "mmix_insert_token", "(4)");
    BAD(mmix_layer_norm(m, a, v, NULL, 1e-5), "mmix_layer_norm", "weight has shape (4), expected (3)");
    BAD(mmix_layer_norm(m, a, NULL, v, 1e-5), "mmix_layer_norm", "bias has shape (4), expected (3)");
    BAD(mmix_rms_norm(m, a, v, 1e-5), "mmix_rms_norm", "weight");
    BAD(mmix_gated_rms_norm(m, x3, x3, NULL, 1e-5, 4), "mmix_gated_rms_norm", "4 groups");
    BAD(mmix_gated_rms_norm(m, x3, NULL, NULL, 1e-5, 1), "mmix_gated_rms_norm", "z is NULL");
    BAD(mmix_gated_rms_norm(m, x3, mmix_new2(m, 3, 6), NULL, 1e-5, 1), "mmix_gated_rms_norm", "rows");
    BAD(mmix_linear(m, a, b, NULL), "mmix_linear", "x has shape (2, 3), expected (…, 5)");
    BAD(mmix_linear(m, a, NULL, NULL), "mmix_linear", "weight is NULL");
    BAD(mmix_linear(m, mmix_new2(m, 2, 5), b, a), "mmix_linear", "bias has shape (2, 3), expected (4)");
    BAD(mmix_linear_add(m, mmix_new2(m, 2, 5), b, v, mmix_new2(m, 3, 4), NULL), "mmix_linear_add", "residual");
    BAD(mmix_linear_add(m, mmix_new2(m, 2, 5), b, v, NULL, mmix_new1(m, 2)), "mmix_linear_add", "s without a residual");
    BAD(mmix_conv1d(m, x3, mmix_new3(m, 5, 1, 4), NULL, NULL), "mmix_conv1d", "weight has shape (5, 1, 4), expected (6, 1, *)");
    memset(&conv, 0, sizeof conv);
    conv.initial_state = mmix_new3(m, 2, 6, 2);
    BAD(mmix_conv1d(m, x3, mmix_new3(m, 6, 1, 4), NULL, &conv), "mmix_conv1d", "initial_state has shape (2, 6, 2), expected (2, 6, 3)");
    BAD(mmix_patch_embed(m, x4, mmix_new4(m, 7, 3, 8, 8), NULL), "mmix_patch_embed", "smaller than a patch of 8");
    BAD(mmix_patch_embed(m, x4, mmix_new4(m, 7, 2, 2, 2), NULL), "mmix_patch_embed", "weight");
    BAD(mmix_bicubic_resize(m, x3, 2, 2, 0, 0), "mmix_bicubic_resize", "(2, 5, 6)");
    BAD(mmix_cross_entropy(m, a, i, -1), "mmix_cross_entropy", "(2, 3)");
    BAD(mmix_cross_entropy_soft(m, a, mmix_new2(m, 2, 4)), "mmix_cross_entropy_soft", "target");
    BAD(mmix_cross_entropy_soft(m, a, mmix_new2(m, 3, 3)), "mmix_cross_entropy_soft", "(3, 3)");
    BAD(mmix_cross_entropy_soft(m, a, NULL), "mmix_cross_entropy_soft", "target is NULL");
    BAD(mmix_cross_entropy(m, mmix_new3(m, 2, 3, 4), i, -1), "mmix_cross_entropy", "class 4 of 4");
    BAD(mmix_weight_norm(m, b, v), "mmix_weight_norm", "g has shape (4), expected (4, 1)");
    BAD(mmix_reshape(m, a, 1, s7), "mmix_reshape", "(2, 3)");
    BAD(mmix_slice(m, a, 1, 2, 2), "mmix_slice", "axis 1 of (2, 3)");
    BAD(mmix_slice(m, a, 1, (size_t)-1, 2), "mmix_slice", "axis 1");
    BAD(mmix_slice(m, a, 2, 0, 1), "mmix_slice", "axis 2");
    BAD(mmix_slice(m, a, 0, 0, 0), "mmix_slice", "0 elements");
    BAD(mmix_add(m, a, mmix_new2(other, 2, 3)), "mmix_add", "another context");
    x = mmix_mixer_softmax(x4, x4, x3);
    BAD(mmix_mix(m, &x), "mmix_mix", "v has shape (2, 5, 6), expected (2, 3, 5, *)");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 3, 4, 6), mmix_new4(m, 2, 3, 3, 6), mmix_new4(m, 2, 3, 3, 6));
    BAD(mmix_mix(m, &x), "mmix_mix", "3 heads, which do not divide q's 4");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 5, 4, 6), mmix_new4(m, 2, 3, 4, 6), mmix_new4(m, 2, 3, 4, 6));
    x.mask = MMIX_MASK_CAUSAL;
    BAD(mmix_mix(m, &x), "mmix_mix", "5 queries and 3 keys");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 3, 4, 6), mmix_new4(m, 2, 5, 4, 6), mmix_new4(m, 2, 5, 4, 6));
    x.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, s35);
    BAD(mmix_mix(m, &x), "mmix_mix", "seq_idx has shape (3, 5), expected (2, 3)");
    s35[0] = 2; s35[1] = 3;
    x.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, s35);
    BAD(mmix_mix(m, &x), "mmix_mix", "and seq_idx with 3 queries and 5 keys");
    x.seq_idx = NULL;
    x.grid[0] = 5; x.window[0] = 2;
    BAD(mmix_mix(m, &x), "mmix_mix", "a grid of 5 x 1 x 1 for 3 queries and 5 keys");
    x.q = x.k;
    x.shift[0] = 2;
    BAD(mmix_mix(m, &x), "mmix_mix", "shift 2 of a window of 2 on axis 0");
    x.shift[0] = 0;
    x.mask = MMIX_MASK_PREFIX;
    BAD(mmix_mix(m, &x), "mmix_mix", "windows are for softmax attention");
    x.kind = MMIX_LINEAR;
    x.mask = MMIX_MASK_NONE;
    BAD(mmix_mix(m, &x), "mmix_mix", "windows are for softmax attention");
    x.window[0] = 0;
    x.mask = MMIX_MASK_BAND;
    BAD(mmix_mix(m, &x), "mmix_mix", "linear attention has no form");
    steps = mmix_state_create(m, 2);
    x.mask = MMIX_MASK_NONE;
    BAD(mmix_mix_step(m, &x, steps, 0), "mmix_mix_step", "lets tokens see later ones");
    x.mask = MMIX_MASK_CAUSAL;
    BAD(mmix_mix_step(m, &x, steps, 2), "mmix_mix_step", "slot 2 of a state with 2");
    BAD(mmix_mix_step(m, &x, NULL, 0), "mmix_mix_step", "slot 0 of a state with 0");
    BAD(mmix_mix_step(m, NULL, steps, 0), "mmix_mix_step", "expected a mixer, found NULL");
    BAD(mmix_mix(m, NULL), "mmix_mix", "expected a mixer, found NULL");
    OK(mmix_mix_step(m, &x, steps, 0) && mmix_state_tokens(steps, 0) == 5 && mmix_state_tokens(steps, 1) == 0);
    x.kind = MMIX_SOFTMAX;
    BAD(mmix_mix_step(m, &x, steps, 0), "mmix_mix_step", "for a slot that carries");
    x.mask = MMIX_MASK_PREFIX;
    x.prefix = 9;
    BAD(mmix_mix_step(m, &x, steps, 1), "mmix_mix_step", "less than the prefix of 9");
    x.mask = MMIX_MASK_BAND;
    x.right = 1;
    BAD(mmix_mix_step(m, &x, steps, 1), "mmix_mix_step", "lets tokens see later ones");
    x.right = 0;
    x.k = x.v = mmix_new4(m, 2, 6, 4, 6);
    BAD(mmix_mix_step(m, &x, steps, 1), "mmix_mix_step", "5 queries and 6 keys");
    OK(mmix_state_tokens(steps, 1) == 0);
    mmix_state_destroy(steps);
    rope.dim = 5;
    BAD(mmix_rope(m, x4, i, &rope), "mmix_rope", "dim 5 of heads of 6");
    rope.dim = 6;
    rope.sections[1] = 3;
    BAD(mmix_rope(m, x4, mmix_new(m, MMIX_DTYPE_I32, 2, s33), &rope), "mmix_rope", "sections 0 + 3 + 0");
    BAD(mmix_rope(m, x4, i, &rope), "mmix_rope", "pos has shape (2, 3), expected (3, 3)");
    BAD(mmix_rope(m, x4, NULL, NULL), "mmix_rope", "pos is NULL");
    BAD_INT(mmix_rank_of(m, NULL, NULL, 1, 2, 2, &rank), "mmix_rank_of", "M is NULL");
    x = mmix_mixer_softmax(x4, x4, x4);
    BAD_INT(mmix_mix_rank(m, NULL, &x, a, &ranks), "mmix_mix_rank", "out_proj has shape (2, 3), expected (*, 30)");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 3, 4, 6), mmix_new4(m, 2, 5, 4, 6), mmix_new4(m, 2, 5, 4, 6));
    x.mask = 7;
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix", "mask 7");
    x = mmix_mixer_linear(x4, x4, x4);
    x.feature = 5;
    BAD(mmix_mix(m, &x), "mmix_mix", "feature 5");
    x.feature = MMIX_FEATURE_EFFICIENT;
    x.mask = MMIX_MASK_CAUSAL;
    BAD(mmix_mix(m, &x), "mmix_mix", "no form");
    x.kind = 9;
    x.mask = x.feature = 0;
    BAD(mmix_mix(m, &x), "mmix_mix", "kind 9");
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix", "9");
    x = mmix_mixer_ssd(x4, x3, v, x4, x4);
    BAD(mmix_mix(m, &x), "mmix_mix", "has shape");
    x = mmix_mixer_ssd(mmix_new4(m, 2, 3, 3, 6), mmix_new3(m, 2, 3, 4), v, mmix_new4(m, 2, 3, 1, 6), mmix_new4(m, 2, 3, 1, 6));
    BAD(mmix_mix(m, &x), "mmix_mix", "x has 3");
    x.v = mmix_new4(m, 2, 3, 4, 6);
    x.A = mmix_new1(m, 3);
    BAD(mmix_mix(m, &x), "mmix_mix", "A has shape (3), expected (4)");
    x.A = NULL;
    BAD(mmix_mix(m, &x), "mmix_mix", "A is NULL");
    x.A = v;
    x.initial_state = mmix_fill(mmix_new4(m, 2, 4, 6, 6), 0);
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix", "initial state");
    x.direction = MMIX_BOTH;
    BAD(mmix_mix(m, &x), "mmix_mix", "MMIX_BOTH");
    BAD_INT(mmix_backward(m, a), "mmix_backward", "(2, 3), expected one element");
    BAD_INT(mmix_backward(m, mmix_sum(m, a)), "mmix_backward", "not recorded");
    BAD_INT(mmix_kernel_set(m, MMIX_OP_COUNT, NULL), "mmix_kernel_set", "expected 0 to");
    BAD_INT(mmix_kernel_set(m, -1, NULL), "mmix_kernel_set", "op -1");
    for (int op = 0; op < MMIX_OP_COUNT; op++) OK(mmix_op_name(op) && strcmp(mmix_op_name(op), "?"));
    OK(!strcmp(mmix_op_name(MMIX_OP_LINEAR), "linear") && !strcmp(mmix_op_name(MMIX_OP_SSD), "ssd"));
    BAD(mmix_dino_loss(m, a, a, NULL, 1, 1, 1, 0.9, NULL), "mmix_dino_loss", "1 crops");
    BAD(mmix_dino_loss(m, mmix_new2(m, 4, 3), a, mmix_data(b), 4, 0, 1, 0.9, NULL), "mmix_dino_loss", "temperatures 0");
    mmix_reset(m);
    mmix_destroy(m);
    mmix_destroy(other);
}

/* ---- random numbers ---- */

static void philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    uint32_t x[4];
    x[0] = c0; x[1] = c1; x[2] = c2; x[3] = c3;
    mmixi_philox(x, k0, k1);
    IS(x[0], a);
    IS(x[1], b);
    IS(x[2], c);
    IS(x[3], d);
}
static void randomness(void)
{
    mmix_ctx *m = context(1, 5), *n = context(2, 5);
    double sum[5] = { 0, 0, 0, 0, 0 }, mean = 0, low = 1, high = 0;
    int bins[10] = { 0 }, count = 100000;
    doing = "random";
    philox(0, 0, 0, 0, 0, 0, 0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u);
    philox(~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu);
    philox(0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u, 0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u);
    IS(mmix_random_u32(m, 1, 2, 3), mmix_random_u32(n, 1, 2, 3));
    OK(mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, 2, 4) && mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, 3, 3)
       && mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 2, 2, 3));
    OK(mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, 2, ((uint64_t)1 << 32) | 3) && mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, ((uint64_t)1 << 32) | 2, 3));
    mmix_seed_set(n, (uint64_t)5 << 32);
    OK(mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(n, 1, 2, 3));
    for (int i = 0; i < count; i++) {
        double u = mmix_random_uniform(m, 1, 0, (uint64_t)i), z = mmix_random_normal(m, 2, 0, (uint64_t)i);
        if (u < low) low = u;
        if (u > high) high = u;
        mean += u / count;
        bins[(int)(u * 10)]++;
        for (int k = 1; k < 5; k++) sum[k] += pow(z, k) / count;
    }
    OK(low >= 0 && low < 1e-3 && high < 1 && high > 0.999);
    NEAR(mean, 0.5, 0.005);
    for (int k = 0; k < 10; k++) NEAR(bins[k], count / 10, 500);
    NEAR(sum[1], 0, 0.015);
    NEAR(sum[2], 1, 0.025);
    NEAR(sum[3], 0, 0.05);
    NEAR(sum[4], 3, 0.15);
    {
        mmix_tensor *a = mmix_randn(m, mmix_new2(m, 5, 8), 2, 1), *b = mmix_randn(m, mmix_slice(m, mmix_new2(m, 5, 11), 1, 2, 8), 2, 1), *c = mmix_randn(m, mmix_new2(m, 5, 8), 2, 2);
        SAME(a, b);                              /* strides do not matter */
        OK(apart(a, c) > 0.1);
    }
    mmix_destroy(m);
    mmix_destroy(n);
}

/* ---- lifetimes, tensors, the tape ---- */

static mmix_vision_config small_vision(int mixer)
{
    mmix_vision_config c = mixer == MMIX_SOFTMAX ? mmix_vit_tiny(4) : mixer == MMIX_LINEAR ? mmix_linearvit_base() : mmix_dinovim_tiny();
    c.dim = 16;
    c.depth = 2;
    c.heads = mixer == MMIX_SSD ? 0 : 2;
    c.patch = 4;
    c.grid = 4;
    c.mlp_ratio = 2;
    c.mamba.head_dim = 8;
    c.mamba.d_state = 5;
    return c;
}

static void lifetimes(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_mark mark, first;
    mmix_tensor *a, *b, *keep[3];
    size_t bytes = 0;
    doing = "lifetimes";
    first = mmix_mark_here(m);                   /* before anything was taken */
    for (int i = 0; i < 6; i++) {
        mmix_silu(m, mmix_fill(mmix_new2(m, 50, 40), 1));
        mmix_rewind(m, first);
        if (i == 2) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    a = mmix_fill(mmix_new2(m, 3, 4), 7);
    mark = mmix_mark_here(m);
    bytes = 0;
    for (int i = 0; i < 20; i++) {
        b = mmix_fill(mmix_new2(m, 300, 70), 1);
        for (int k = 0; k < 5; k++) b = mmix_gelu(m, b);
        mmix_rewind(m, mark);
        if (i == 2) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    IS(mmix_data(a)[11], 7);
    keep[0] = mmix_fill(mmix_new2(m, 3, 4), 2);
    keep[2] = mmix_from_i32(m, 0, NULL, (const int32_t *)"abcd");
    mmix_fill(mmix_new2(m, 100, 100), 5);
    keep[1] = mmix_fill(mmix_new1(m, 5), 3);
    IS(mmix_rewind_keep(m, mark, keep, 3), 0);
    b = mmix_fill(mmix_new2(m, 100, 100), 9);
    OK(mmix_ndim(keep[0]) == 2 && mmix_shape(keep[0], 1) == 4 && mmix_data(keep[0])[11] == 2 && mmix_data(keep[1])[4] == 3 && !memcmp(mmix_data_i32(keep[2]), "abcd", 4));
    IS(mmix_data(a)[0], 7);
    bytes = 0;
    mark = mmix_mark_here(m);
    keep[0] = mmix_fill(mmix_new2(m, 200, 100), 2);
    for (int i = 0; i < 80; i++) {               /* a chain of any length in the memory of a few */
        keep[0] = mmix_silu(m, mmix_silu(m, keep[0]));
        IS(mmix_rewind_keep(m, mark, keep, 1), 0);
        if (i == 3) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    keep[0] = mmix_slice(m, mmix_fill(mmix_new2(m, 4, 6), 1), 1, 1, 3);
    BAD_INT(mmix_rewind_keep(m, mark, keep, 1), "mmix_rewind_keep", "tensor 0");
    a = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 1));
    mmix_record(m, 1);
    mark = mmix_mark_here(m);
    keep[0] = mmix_silu(m, a);
    BAD_INT(mmix_rewind_keep(m, mark, keep, 1), "mmix_rewind_keep", "recorded");
    mmix_rewind(m, mark);                        /* drops the record too */
    b = mmix_sum(m, a);
    mmix_backward(m, b);
    IS(mmix_data(mmix_grad(a))[0], 1);
    FINE(m);
    mmix_reset(m);
    /* a rewind takes the gradients made since the mark, of leaves from before it too */
    a = mmix_require_grad(mmix_fill(mmix_new1(m, 30), 1));
    b = mmix_require_grad(mmix_fill(mmix_new1(m, 30), 2));
    mmix_backward(m, mmix_sum(m, b));
    mark = mmix_mark_here(m);
    for (int i = 0; i < 3; i++) {
        mmix_backward(m, mmix_sum(m, mmix_mul(m, a, b)));
        IS(mmix_data(mmix_grad(a))[29], 2);
        IS(mmix_data(mmix_grad(b))[29], i + 2);
        if (i < 2) mmix_rewind(m, mark);
        else {
            keep[0] = mmix_fill(mmix_new1(m, 3), 5);
            IS(mmix_rewind_keep(m, mark, keep, 1), 0);
        }
        OK(!mmix_grad(a) && mmix_grad(b));
        mmix_fill(mmix_new1(m, 1000), 7);
    }
    mmix_reset(m);
    {                                            /* views of a loss that was consumed */
        size_t one[1] = { 1 };
        a = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 2));
        b = mmix_reshape(m, mmix_sum(m, a), 1, one);
        mmix_backward(m, mmix_sum(m, b));
        IS(mmix_item(b), 6);
    }
    FINE(m);
    mmix_reset(m);
    /* what backward frees */
    for (int i = 0; i < 6; i++) {
        mmix_tensor *loss, *x = mmix_require_grad(mmix_fill(mmix_new2(m, 40, 30), 0.5)), *y = x, *middle = NULL, *view;
        for (int k = 0; k < 10; k++) {
            y = mmix_silu(m, y);
            if (k == 4) middle = y;
        }
        view = mmix_slice(m, middle, 0, 1, 2);
        loss = mmix_sum(m, y);
        OK(mmix_data(middle) != NULL);
        mmix_backward(m, loss);
        OK(!mmix_data(middle) && !mmix_data(view) && mmix_grad(middle) == NULL);
        NEAR(mmix_item(loss), mmix_item(loss), 0);
        OK(mmix_item(loss) != 0);
        OK(mmix_data(x) && mmix_grad(x));
        OK(!mmix_error(m));
        BAD(mmix_silu(m, middle), "mmix_silu", "no values");
        BAD_INT(mmix_rewind_keep(m, mmix_mark_here(m), &view, 1), "mmix_rewind_keep", "tensor 0");
        { real values[1200]; BAD_INT(mmix_read(middle, values), "mmix_read", "no real values"); }
        mmix_reset(m);
        if (i == 2) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    mmix_destroy(m);
    /* depth, with tensors larger than a block of the arena */
    {
        size_t peak[2];
        for (int deep = 0; deep < 2; deep++) {
            m = context(1, 0);
            mmix_new1(m, 10);
            mark = mmix_mark_here(m);
            keep[0] = mmix_fill(mmix_new2(m, 500, 1000), 1);
            for (int i = 0; i < (deep ? 24 : 6); i++) {
                keep[0] = mmix_silu(m, mmix_silu(m, keep[0]));
                IS(mmix_rewind_keep(m, mark, keep, 1), 0);
            }
            peak[deep] = mmix_memory(m).peak;
            FINE(m);
            mmix_destroy(m);
        }
        check(peak[1] <= peak[0], "peak of 24 and 6 large blocks", __LINE__, (double)peak[1], (double)peak[0]);
    }
    for (int mixer = MMIX_SOFTMAX; mixer <= MMIX_SSD; mixer++)
        for (int warm = 0; warm < 2; warm++) {
            size_t peak[2];
            for (int deep = 0; deep < 2; deep++) {
                mmix_vision_config c = small_vision(mixer);
                mmix_vision *v;
                size_t before;
                m = context(1, 0);
                c.dim = 32;
                c.depth = deep ? 8 : 2;
                v = mmix_vision_create(m, c);
                before = mmix_memory(m).bytes;
                for (int k = 0; k <= 2 * warm; k++) {
                    mmix_reset(m);
                    mmix_memory_peak_clear(m);
                    OK(mmix_vision_features(m, v, mmix_fill(mmix_new4(m, 20, 3, 16, 16), 0.1)).token != NULL);
                }
                peak[deep] = mmix_memory(m).peak - before;
                mmix_vision_destroy(v);
                FINE(m);
                mmix_destroy(m);
            }
            doing = mixer == MMIX_SOFTMAX ? "memory of a deep ViT" : mixer == MMIX_LINEAR ? "memory of a deep LinearViT" : "memory of a deep DinoVim";
            check(peak[1] <= peak[0] + 20000, warm ? "peak for 8 and 2 blocks, later steps" : "peak for 8 and 2 blocks, first step", __LINE__, (double)peak[1],
                  (double)peak[0]);
        }
}

static int cube_forward(mmix_ctx *m, mmix_call *call)
{
    const real *x = mmix_data(call->in[0]);
    real *y = mmix_data(call->out[0]), *keep = call->recorded ? mmix_save(m, call, 0, mmix_count(call->in[0])) : NULL;
    real a = *(const real *)call->options;
    if (call->recorded && !keep) return -1;
    for (size_t i = 0; i < mmix_count(call->in[0]); i++) {
        y[i] = a * x[i] * x[i] * x[i];
        if (keep) keep[i] = 3 * a * x[i] * x[i];
    }
    return 0;
}
static int cube_backward(mmix_ctx *m, mmix_call *call)
{
    int add;
    real *dx = mmix_grad_target(m, call->in[0], &add);
    const real *dy = mmix_data(mmix_grad(call->out[0]));
    for (size_t i = 0; dx && i < mmix_count(call->in[0]); i++) dx[i] = (add ? dx[i] : 0) + dy[i] * call->saved[0][i];
    return 0;
}
static int fails(mmix_ctx *m, mmix_call *call) { (void)call; return mmix_fail(m, MMIX_ERROR_DEVICE, "not today"); }
/* Blocks of a checkpoint: x -> silu(0.9 x + 0.1), 5 times (or as often as user says); the same in a checkpoint of
   its own; one that can't. */
static mmix_tensor *chain(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    mmix_tensor *x = in[0];
    for (int i = 0; i < (user ? *(const int *)user : 5); i++) x = mmix_silu(m, mmix_scale(m, x, 0.9, 0.1));
    return x;
}
static mmix_tensor *nest(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    mmix_tensor *x = chain(m, user, in);
    return mmix_checkpoint(m, chain, user, 0, &x, 1);
}
static mmix_tensor *no_block(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    (void)user; (void)in;
    mmix_fail(m, MMIX_ERROR_ARGUMENT, "no_block: never");
    return NULL;
}

static void tensors(void)
{
    mmix_ctx *m = context(1, 0);
    size_t s[4] = { 2, 3, 4, 5 }, six[6] = { 1, 2, 1, 2, 1, 2 };
    int order[4] = { 3, 1, 0, 2 };
    real v[120], w[120];
    mmix_tensor *t, *x, *y;
    static const real one = 1, two = 2;
    doing = "tensors";
    for (int i = 0; i < 120; i++) v[i] = (real)i;
    t = mmix_from(m, 4, s, v);
    OK(mmix_ndim(t) == 4 && mmix_dtype(t) == MMIX_DTYPE_REAL && mmix_count(t) == 120 && mmix_shape(t, -1) == 5 && mmix_shape(t, 0) == 2 && mmix_shape(t, 4) == 0 && mmix_shape(t, -5) == 0);
    OK(mmix_stride(t, 0) == 60 && mmix_stride(t, -1) == 1 && mmix_stride(t, 2) == 5);
    OK(mmix_data_i32(t) == NULL && mmix_count(NULL) == 0 && mmix_shape(NULL, 0) == 0 && mmix_data(NULL) == NULL && mmix_grad(NULL) == NULL);
    OK(mmix_item(t) != mmix_item(t));
    OK((uintptr_t)mmix_data(t) % 64 == 0);
    x = mmix_slice(m, t, 2, 1, 2);
    OK(mmix_shape(x, 2) == 2 && mmix_stride(x, 0) == 60 && mmix_data(x) == mmix_data(t) + 5);
    mmix_read(x, w);
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 2; c++)
                for (int d = 0; d < 5; d++) IS(w[((a * 3 + b) * 2 + c) * 5 + d], a * 60 + b * 20 + (c + 1) * 5 + d);
    x = mmix_permute(m, t, order);
    OK(mmix_shape(x, 0) == 5 && mmix_shape(x, 1) == 3 && mmix_shape(x, 2) == 2 && mmix_shape(x, 3) == 4);
    IS(mmix_data(x)[((4 * 3 + 2) * 2 + 1) * 4 + 3], 119);
    IS(mmix_data(x)[((1 * 3 + 2) * 2 + 0) * 4 + 3], 2 * 20 + 3 * 5 + 1);
    x = shaped(m, t, 2, 6, 20, 0);
    OK(mmix_data(x) == mmix_data(t) && mmix_stride(x, 0) == 20);
    x = shaped(m, mmix_slice(m, t, 3, 0, 4), 2, 24, 4, 0);           /* must copy, or keep the stride */
    mmix_read(x, w);
    IS(w[95], 118);
    x = mmix_fill(mmix_slice(m, t, 3, 4, 1), -1);
    IS(mmix_data(t)[119], -1);
    IS(mmix_data(t)[118], 118);
    for (int i = 0; i < 24; i++) w[i] = (real)(1000 + i);
    IS(mmix_write(x, w), 0);
    IS(mmix_data(t)[119], 1023);
    x = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 6, six), 3);
    IS(mmix_item(mmix_sum(m, x)), 24);
    x = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 0, NULL), 4);
    IS(mmix_item(x), 4);
    IS(mmix_item(mmix_sqrt(m, x)), 2);
    /* int32 views */
    x = mmix_from_i32(m, 2, s, (const int32_t *)v);
    OK(mmix_dtype(x) == MMIX_DTYPE_I32 && mmix_data(x) == NULL && mmix_data_i32(mmix_slice(m, x, 1, 1, 2)) == mmix_data_i32(x) + 1);
    OK(!mmix_require_grad(x) || !mmix_grad(x));
    /* the tape */
    doing = "tape";
    IS(mmix_record(m, 1), 0);
    IS(mmix_record(m, 1), 1);
    t = mmix_fill(mmix_new2(m, 4, 6), 2);
    mmix_require_grad(mmix_slice(m, t, 1, 2, 3));                    /* on a view: of what is viewed */
    y = mmix_slice(m, t, 1, 2, 3);
    mmix_backward(m, mmix_sum(m, mmix_mul(m, y, y)));
    IS(mmix_data(mmix_grad(y))[0], 4);
    IS(mmix_data(mmix_grad(t))[2], 4);
    IS(mmix_data(mmix_grad(t))[1], 0);
    IS(mmix_data(mmix_grad(t))[5], 0);
    x = mmix_fill(mmix_new1(m, 3), 1);
    OK(mmix_grad(x) == NULL);
    y = mmix_silu(m, x);
    BAD_INT(mmix_backward(m, mmix_sum(m, y)), "mmix_backward", "not recorded");
    mmix_require_grad(x);
    {                                            /* several outputs, upstream gradients, one of them a view */
        mmix_tensor *out[3], *up[3];
        out[0] = mmix_scale(m, x, 2, 0);
        y = mmix_scale(m, x, 3, 0);
        out[1] = mmix_slice(m, y, 0, 1, 2);
        out[2] = mmix_slice(m, y, 0, 0, 2);
        up[0] = mmix_fill(mmix_new1(m, 3), 1);
        up[1] = mmix_fill(mmix_new1(m, 2), 10);
        up[2] = mmix_fill(mmix_new1(m, 2), 100);
        BAD_INT(mmix_backward_from(m, out, up + 1, 1), "gradient 0 has shape (2), its output (3)", "mmix_backward");
        IS(mmix_backward_from(m, out, up, 3), 0);
        IS(mmix_data(mmix_grad(x))[0], 2 + 300);
        IS(mmix_data(mmix_grad(x))[1], 2 + 330);
        IS(mmix_data(mmix_grad(x))[2], 2 + 30);
    }
    FINE(m);
    /* ops of one's own */
    doing = "custom ops";
    for (int k = 0; k < 3; k++) {
        mmix_op_functions cube = { cube_forward, cube_backward };
        mmix_tensor *in[1], *p, *q;
        size_t three = 3;
        x = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 2));
        in[0] = x;
        p = mmix_custom(m, in, 1, 1, &three, cube, &one);
        IS(mmix_data(p)[2], 8);
        in[0] = k ? p : x;
        q = mmix_custom(m, in, 1, 1, &three, cube, &two);
        mmix_backward(m, mmix_sum(m, k == 2 ? mmix_add(m, p, q) : q));
        IS(mmix_data(mmix_grad(x))[1], k == 0 ? 24 : 12 * 6 * 64 + (k == 2 ? 12 : 0));
        cube.backward = NULL;
        in[0] = x;
        p = mmix_custom(m, in, 1, 1, &three, cube, &one);
        BAD_INT(mmix_backward(m, mmix_sum(m, p)), "mmix_backward", "without a backward");
        cube.forward = fails;
        OK(!mmix_custom(m, in, 1, 1, &three, cube, &one) && mmix_error_kind(m) == MMIX_ERROR_DEVICE);
        mmix_error_clear(m);
        BAD(mmix_custom(m, in, 13, 1, &three, cube, &one), "mmix_custom", "13 inputs");
        mmix_reset(m);
    }
    doing = "checkpoints";
    {
        mmix_tensor *in[13], *p, *q, *w = mmix_require_grad(mmix_fill(mmix_new1(m, 1000), 0.5));
        real once[1000];
        size_t most[2];
        const int twice = 2;
        for (int k = 0; k < 13; k++) in[k] = w;
        BAD(mmix_checkpoint(m, chain, NULL, 0, in, 13), "mmix_checkpoint", "13 inputs");
        BAD(mmix_checkpoint(m, no_block, NULL, 0, in, 1), "no_block", "never");
        mmix_record(m, 0);
        p = mmix_checkpoint(m, chain, &twice, sizeof twice, in, 1);
        q = chain(m, &twice, in);
        ALIKE(p, q, 0);
        for (int k = 0; k < 2; k++) {            /* plain; checkpoints in checkpoints: fewer bytes, the same bits */
            mmix_reset(m);
            w = mmix_require_grad(mmix_fill(mmix_new1(m, 1000), 0.5));
            mmix_memory_peak_clear(m);
            mmix_record(m, 1);
            p = w;
            for (int i = 0; i < 20; i++) p = k ? mmix_checkpoint(m, nest, NULL, 0, &p, 1) : nest(m, NULL, &p);
            mmix_backward(m, mmix_sum(m, p));
            most[k] = m->step.peak;
            if (k) for (int i = 0; i < 1000; i++) IS(mmix_data(mmix_grad(w))[i], once[i]);
            mmix_read(mmix_grad(w), once);
        }
        check(most[1] < most[0] / 3, "checkpoints take less memory", __LINE__, (double)most[1], (double)most[0]);
        mmix_reset(m);
    }
    {
        mmix_op_functions cube = { cube_forward, cube_backward };
        real silu;
        x = mmix_fill(mmix_new1(m, 4), 2);
        silu = mmix_data(mmix_silu(m, x))[0];
        mmix_record(m, 0);
        cube.forward = fails;
        IS(mmix_kernel_set(m, MMIX_OP_SILU, &cube), 0);
        OK(mmix_kernel(m, MMIX_OP_SILU).forward == fails && mmix_kernel(m, MMIX_OP_SILU).backward == cube_backward);
        OK(!mmix_kernel(m, -1).forward && !mmix_kernel(m, MMIX_OP_COUNT).forward && !mmix_kernel_user(m));
        mmix_kernel_user_set(m, &silu);
        OK(mmix_kernel_user(m) == &silu);
        OK(!mmix_silu(m, x) && mmix_error_kind(m) == MMIX_ERROR_DEVICE);
        mmix_error_clear(m);
        OK(mmix_gelu(m, x) != NULL);
        IS(mmix_kernel_set(m, MMIX_OP_SILU, NULL), 0);
        IS(mmix_data(mmix_silu(m, x))[0], silu);
    }
    FINE(m);
    mmix_destroy(m);
}

/* ---- mixers ---- */

/* M v, head by head, in double. */
static mmix_tensor *times(mmix_ctx *m, mmix_tensor *M, mmix_tensor *v)
{
    size_t B = mmix_shape(M, 0), H = mmix_shape(M, 1), L = mmix_shape(M, 2), S = mmix_shape(M, 3), P = mmix_shape(v, 3), G = mmix_shape(v, 2);
    mmix_tensor *y = mmix_new4(m, B, L, H, P);
    for (size_t b = 0; y && b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < L; i++)
                for (size_t p = 0; p < P; p++) {
                    double sum = 0;
                    for (size_t j = 0; j < S; j++)
                        sum += (double)mmix_data(M)[((b * H + h) * L + i) * S + j]
                             * (double)mmix_data(v)[b * mmix_stride(v, 0) + j * mmix_stride(v, 1) + h / (H / G) * mmix_stride(v, 2) + p];
                    mmix_data(y)[((b * L + i) * H + h) * P + p] = (real)sum;
                }
    return y;
}
static mmix_tensor *flipped(mmix_ctx *m, mmix_tensor *t)             /* along axis 1 */
{
    mmix_tensor *y = mmix_new(m, t->dtype, t->ndim, t->shape);
    for (size_t b = 0; b < mmix_shape(t, 0); b++)
        for (size_t i = 0; i < mmix_shape(t, 1); i++) {
            mmix_tensor *from = mmix_slice(m, mmix_slice(m, t, 0, b, 1), 1, i, 1), *to = mmix_slice(m, mmix_slice(m, y, 0, b, 1), 1, mmix_shape(t, 1) - 1 - i, 1);
            if (t->dtype == MMIX_DTYPE_I32) *mmix_data_i32(to) = *mmix_data_i32(from);
            else {
                real v[4096];
                mmix_read(from, v);
                mmix_write(to, v);
            }
        }
    return y;
}
static const double MIX = 60;                    /* bounds in units of EPS */
static size_t lengths[] = { 1, 2, 3, 5, 9, 31, 32, 33, 63, 64, 65, 130, 255, 256, 257, 330 };

static void attention_invariants(void)
{
    mmix_ctx *m = context(2, 3);
    state = 17;
    for (int it = 0; it < 120; it++) {
        int kind = it % 2;
        size_t B = any(1, 2), L = it < 30 ? lengths[it / 2 % 16] : any(1, 90), G = any(1, 3), H = G * any(1, 3), N = any(1, 20), P = any(1, 20), S;
        mmix_mixer x;
        mmix_tensor *M, *y, *v;
        real *q;
        doing = kind ? "linear attention" : "softmax attention";
        mmix_reset(m);
        x = mmix_mixer_softmax(NULL, NULL, NULL);
        x.kind = kind ? MMIX_LINEAR : MMIX_SOFTMAX;
        x.mask = kind ? (int)any(0, 1) : (int)any(0, 2);
        x.prefix = any(0, L + 2);
        x.feature = (int)any(0, 3);
        if (kind && x.mask && x.feature == MMIX_FEATURE_EFFICIENT) x.feature = MMIX_FEATURE_ELU1;
        x.normalise = (int)any(0, 2) - 1;
        x.eps = any(0, 1) ? 0.01 : 0;
        x.scale = any(0, 1) ? 0.7 : 0;
        S = x.mask ? L : any(1, 90);
        x.q = random4(m, B, L, H, N, kind && x.feature >= MMIX_FEATURE_ELU1 ? 0.01 : -2, 2);
        x.k = random4(m, B, S, G, N, kind && x.feature >= MMIX_FEATURE_ELU1 ? 0.01 : -2, 2);
        v = random4(m, B, S, G, P + 3, -1, 1);
        x.v = it % 3 ? mmix_slice(m, v, 3, 2, P) : v;
        y = mmix_mix(m, &x);
        M = mmix_mix_matrix(m, &x);
        ALIKE(y, times(m, M, x.v), MIX * EPS * (kind ? 4 : 1));
        FINE(m);
        if (!M) continue;
        q = mmix_data(M);
        for (size_t r = 0; r < B * H * L; r++) {
            double sum = 0;
            size_t i = r % L;
            for (size_t j = 0; j < S; j++) {
                int allowed = x.mask == MMIX_MASK_NONE || j <= i || (x.mask == MMIX_MASK_PREFIX && i < x.prefix && j < x.prefix);
                sum += (double)q[r * S + j];
                if (!allowed && q[r * S + j] != 0) check(0, "masked entries are 0", __LINE__, (double)q[r * S + j], 0);
                if (allowed && !kind && !(q[r * S + j] > 0)) check(0, "allowed entries are positive", __LINE__, (double)q[r * S + j], 1);
            }
            if (!kind) NEAR(sum, 1, 100 * EPS);
            else if (mmixi_normalises(&x)) OK(sum <= 1 + 100 * EPS && sum > 0);
        }
    }
    for (int it = 0; it < 40; it++) {            /* windows with a bias by distance, against matrix and rule */
        const size_t grid[3] = { any(1, 5), any(1, 6), any(1, 6) }, window[3] = { any(1, 6), any(1, 4), any(1, 4) };
        const size_t L = grid[0] * grid[1] * grid[2], n = (2 * window[0] - 1) * (2 * window[1] - 1) * (2 * window[2] - 1);
        mmix_mixer x = mmix_mixer_softmax(random4(m, 2, L, 4, 5, -1, 1), random4(m, 2, L, 2, 5, -1, 1), random4(m, 2, L, 2, 7, -1, 1));
        mmix_tensor *M;
        doing = "windows with a bias";
        mmix_mixer_windows(&x, 3, grid, window, it % 2);
        x.bias = mmix_randn(m, mmix_new2(m, 4, n), 1, 5);
        M = mmix_mix_matrix(m, &x);
        ALIKE(mmix_mix(m, &x), times(m, M, x.v), MIX * EPS);
        for (size_t i = 0; i < window[2] && i < grid[2] && it % 2 == 0; i++) {           /* log M_0i - log M_00 = score + bias */
            const real *q = mmix_data(x.q), *k = mmix_data(x.k), *b = mmix_data(x.bias);
            double score[2] = { 0, 0 };
            for (size_t c = 0; c < 5; c++) { score[0] += (double)q[c] * (double)k[c] / sqrt(5); score[1] += (double)q[c] * (double)k[i * 10 + c] / sqrt(5); }
            NEAR(log((double)mmix_data(M)[i] / (double)mmix_data(M)[0]), score[1] - score[0] + (double)b[n / 2 - i] - (double)b[n / 2], 200 * EPS);
        }
        FINE(m);
        mmix_reset(m);
    }
    {                                            /* LinearViT: equal keys make rows sum to L/N, to 1 with a normaliser */
        mmix_mixer x = mmix_mixer_linear(random4(m, 1, 7, 2, 4, -1, 1), mmix_fill(mmix_new4(m, 1, 12, 2, 4), 0.3), mmix_fill(mmix_new4(m, 1, 12, 2, 3), 1));
        mmix_tensor *y = mmix_mix(m, &x);
        doing = "row sums";
        for (size_t i = 0; i < mmix_count(y); i++) NEAR(mmix_data(y)[i], 12.0 / 4, 20 * EPS);
        x.normalise = 1;
        y = mmix_mix(m, &x);
        for (size_t i = 0; i < mmix_count(y); i++) NEAR(mmix_data(y)[i], 1, 1e-6);
    }
    for (int kind = MMIX_SOFTMAX; kind <= MMIX_LINEAR; kind++) {     /* head h reads group h / (H/G) */
        mmix_mixer x, one;
        mmix_tensor *y;
        doing = "groups";
        x = mmix_mixer_softmax(random4(m, 1, 9, 6, 5, -1, 1), random4(m, 1, 9, 2, 5, -1, 1), random4(m, 1, 9, 2, 4, -1, 1));
        x.kind = kind;
        y = mmix_mix(m, &x);
        for (size_t h = 0; h < 6; h++) {
            one = x;
            one.q = mmix_slice(m, x.q, 2, h, 1);
            one.k = mmix_slice(m, x.k, 2, h / 3, 1);
            one.v = mmix_slice(m, x.v, 2, h / 3, 1);
            ALIKE(mmix_mix(m, &one), mmix_slice(m, y, 2, h, 1), 10 * EPS);
        }
    }
    {                                            /* large scores: no overflow; a later tile or block far above an earlier one */
        mmix_mixer x = mmix_mixer_softmax(random4(m, 1, 40, 1, 8, -300, 300), random4(m, 1, 1100, 1, 8, -300, 300), random4(m, 1, 1100, 1, 3, -1, 1));
        doing = "large scores";
        ALIKE(mmix_mix(m, &x), times(m, mmix_mix_matrix(m, &x), x.v), 1e4 * EPS);
        x.q = mmix_fill(mmix_new4(m, 1, 2, 1, 8), 1e4);
        OK(apart(mmix_mix(m, &x), mmix_mix(m, &x)) == 0);
    }
    FINE(m);
    mmix_destroy(m);
}

static mmix_tensor *numbers(mmix_ctx *m, size_t B, size_t L)         /* packed sequences */
{
    size_t s[2];
    int32_t v[2048], now = 3;
    s[0] = B; s[1] = L;
    for (size_t i = 0; i < B * L; i++) v[i] = i % L && uniform() > 0.06 ? now : (now = now * 7 % 11);
    return mmix_from_i32(m, 2, s, v);
}
static mmix_mixer any_ssd(mmix_ctx *m, size_t B, size_t L, size_t H, size_t G, size_t Gx, size_t Gc, size_t P, size_t N)
{
    int softplus = (int)any(0, 1);
    mmix_mixer x = mmix_mixer_ssd(random4(m, B, L, Gx, P, -1, 1), softplus ? random3(m, B, L, H, -3, 1) : random3(m, B, L, H, 0, 0.5), random1(m, H, -2, -0.05),
                                  random4(m, B, L, G, N, -1, 1), random4(m, B, L, Gc, N, -1, 1));
    x.dt_softplus = softplus;
    if (any(0, 1)) x.D = random1(m, H, -1, 1);
    if (any(0, 1)) x.dt_bias = random1(m, H, 0, 0.3);
    if (any(0, 2) == 0) { x.dt_low = 0.1; x.dt_high = 0.4; }
    return x;
}
static mmix_mixer part_of(mmix_ctx *m, const mmix_mixer *x, size_t b, size_t from, size_t n)
{
    mmix_mixer y = *x;
    y.v = mmix_slice(m, mmix_slice(m, x->v, 0, b, 1), 1, from, n);
    y.k = mmix_slice(m, mmix_slice(m, x->k, 0, b, 1), 1, from, n);
    y.q = mmix_slice(m, mmix_slice(m, x->q, 0, b, 1), 1, from, n);
    y.dt = mmix_slice(m, mmix_slice(m, x->dt, 0, b, 1), 1, from, n);
    y.seq_idx = NULL;
    y.initial_state = NULL;
    y.final_state = NULL;
    return y;
}
static void ssd_invariants(void)
{
    mmix_ctx *m = context(2, 3);
    state = 23;
    for (int it = 0; it < 130; it++) {
        size_t B = any(1, 2), L = it < 32 ? lengths[it % 16] : any(1, 80), H = any(1, 2) * 2, N = any(1, 19), P = any(1, 19);
        size_t G = any(0, 1) ? 1 : 2, Gx = any(0, 1) ? H : any(1, 2), Gc = any(0, 1) ? G : H;
        mmix_mixer x, f;
        mmix_tensor *y, *M, *r, *last = NULL, *last_r = NULL, *fw, *bw;
        mmix_reset(m);
        doing = "ssd";
        x = any_ssd(m, B, L, H, G, Gx, Gc, P, N);
        if (it % 3 == 1) x.direction = MMIX_REVERSE;
        if (it % 4 == 2 || it % 4 == 3) x.seq_idx = numbers(m, B, L);
        y = mmix_mix(m, &x);
        M = mmix_mix_matrix(m, &x);
        ALIKE(y, times(m, M, x.v), MIX * EPS);
        FINE(m);
        if (!M) continue;
        for (size_t i = 0; i < L; i++)
            for (size_t j = i + 1; j < L; j++) {
                size_t at = x.direction == MMIX_REVERSE ? j * L + i : i * L + j;
                if (mmix_data(M)[at] != 0) check(0, "causal", __LINE__, (double)mmix_data(M)[at], 0);
            }
        if (any(0, 1)) x.initial_state = random4(m, B, H, P, N, -1, 1);
        x.final_state = &last;
        y = mmix_mix(m, &x);
        x.final_state = &last_r;
        r = mmix_ssd_reference(m, &x);
        ALIKE(y, r, MIX * EPS);
        ALIKE(last, last_r, MIX * EPS);
        x.final_state = NULL;
        FINE(m);
        if (x.seq_idx && !x.initial_state)       /* packed equals separate, bit for bit */
            for (size_t b = 0; b < B; b++)
                for (size_t from = 0, n; from < L; from += n) {
                    const int32_t *s = mmix_data_i32(x.seq_idx) + b * L;
                    mmix_mixer one;
                    n = 1;
                    while (from + n < L && s[from + n] == s[from]) n++;
                    one = part_of(m, &x, b, from, n);
                    doing = "ssd, packed";
                    SAME(mmix_slice(m, mmix_slice(m, y, 0, b, 1), 1, from, n), mmix_mix(m, &one));
                }
        x.initial_state = x.seq_idx = NULL;
        x.direction = MMIX_FORWARD;
        if (L > 1) {                             /* the final state goes on */
            size_t cut = any(1, L - 1);
            mmix_mixer a, c;
            mmix_tensor *s = NULL, *e = NULL, *whole = NULL, *all;
            doing = "ssd, continued";
            x.final_state = &whole;
            all = mmix_slice(m, mmix_mix(m, &x), 0, 0, 1);
            x.final_state = NULL;
            a = part_of(m, &x, 0, 0, cut);
            c = part_of(m, &x, 0, cut, L - cut);
            a.final_state = &s;
            ALIKE(mmix_mix(m, &a), mmix_slice(m, all, 1, 0, cut), MIX * EPS * 4);
            c.initial_state = s;
            c.final_state = &e;
            y = mmix_mix(m, &c);
            NEAR(apart(y, mmix_slice(m, all, 1, cut, L - cut)) * largest(y) / (largest(mmix_scale(m, all, 1, 0)) + 1e-30), 0, MIX * EPS * 4);
            ALIKE(e, mmix_slice(m, whole, 0, 0, 1), MIX * EPS * 4);
        }
        doing = "ssd, both ways";
        fw = mmix_mix(m, &x);
        x.direction = MMIX_REVERSE;
        bw = mmix_mix(m, &x);
        f = x;
        f.direction = MMIX_FORWARD;
        f.v = flipped(m, x.v);
        f.k = flipped(m, x.k);
        f.q = flipped(m, x.q);
        f.dt = flipped(m, x.dt);
        SAME(bw, flipped(m, mmix_mix(m, &f)));
        x.direction = MMIX_BOTH;
        ALIKE(mmix_mix(m, &x), mmix_add(m, mmix_scale(m, fw, 0.5, 0), mmix_scale(m, bw, 0.5, 0)), 4 * EPS);
        ALIKE(mmix_mix(m, &x), times(m, mmix_mix_matrix(m, &x), x.v), MIX * EPS);
        FINE(m);
    }
    for (int it = 0; it < 24; it++) {            /* decays that underflow, steps that are huge */
        size_t L = lengths[it % 16], H = 2;
        mmix_mixer x;
        mmix_tensor *y, *r;
        mmix_reset(m);
        doing = "ssd, extreme";
        x = mmix_mixer_ssd(random4(m, 1, L, H, 6, -1, 1), random3(m, 1, L, H, 0, it % 3 ? 100 : 1e-4), random1(m, H, it % 2 ? -1000 : -1, it % 4 < 2 ? 0 : -0.5),
                           random4(m, 1, L, 1, 7, -1, 1), random4(m, 1, L, 1, 7, -1, 1));
        if (it % 5 == 0) for (size_t i = 0; i < L * H; i += 3) mmix_data(x.dt)[i] = 0;
        if (it % 5 == 1) x.dt_softplus = 1;
        x.direction = it % 2;
        y = mmix_mix(m, &x);
        r = mmix_ssd_reference(m, &x);
        for (size_t i = 0; i < mmix_count(y); i++) if (!(fabs((double)mmix_data(y)[i]) < 1e30)) check(0, "finite", __LINE__, (double)mmix_data(y)[i], 0);
        ALIKE(y, r, 200 * EPS);
        for (size_t k = 0; k < 2; k++) mmix_require_grad(k ? x.dt : x.A);
        mmix_record(m, 1);
        mmix_backward(m, mmix_sum(m, mmix_mix(m, &x)));
        mmix_record(m, 0);
        OK(largest(mmix_grad(x.dt)) < 1e30 && largest(mmix_grad(x.A)) < 1e30);
        FINE(m);
    }
    for (int it = 0; it < 8; it++) {             /* without decay: causal linear attention; one number: a prefix sum; groups */
        size_t L = lengths[2 * (size_t)it % 16];
        mmix_mixer x, l, g;
        mmix_tensor *y;
        doing = "ssd, special cases";
        x = mmix_mixer_ssd(random4(m, 2, L, 4, 5, -1, 1), shaped(m, mmix_fill(mmix_new4(m, 1, 2, L, 4), 1), 3, 2, L, 4), mmix_fill(mmix_new1(m, 4), -1e-30),
                           random4(m, 2, L, 2, 3, 0.01, 1), random4(m, 2, L, 4, 3, 0.01, 1));
        l = mmix_mixer_linear(x.q, x.k, random4(m, 2, L, 2, 5, -1, 1));
        l.mask = MMIX_MASK_CAUSAL;
        l.feature = MMIX_FEATURE_RELU;
        l.normalise = -1;
        x.v = l.v;                               /* two heads of x for four of dt */
        ALIKE(mmix_mix(m, &x), mmix_mix(m, &l), MIX * EPS);
        g = x;                                   /* the group rule with unequal content */
        y = mmix_mix(m, &x);
        for (size_t h = 0; h < 4; h++) {
            g.dt = mmix_slice(m, x.dt, 2, h, 1);
            g.A = mmix_slice(m, x.A, 0, h, 1);
            g.q = mmix_slice(m, x.q, 2, h, 1);
            g.k = mmix_slice(m, x.k, 2, h / 2, 1);
            g.v = mmix_slice(m, x.v, 2, h / 2, 1);
            ALIKE(mmix_mix(m, &g), mmix_slice(m, y, 2, h, 1), MIX * EPS);
        }
        x = mmix_mixer_ssd(mmix_fill(mmix_new4(m, 1, L, 1, 2), 1), shaped(m, mmix_fill(mmix_new4(m, 1, 1, L, 1), 1), 3, 1, L, 1), mmix_fill(mmix_new1(m, 1), 0),
                           mmix_fill(mmix_new4(m, 1, L, 1, 1), 1), mmix_fill(mmix_new4(m, 1, L, 1, 1), 1));
        y = mmix_mix(m, &x);
        for (size_t i = 0; i < L; i++) IS(mmix_data(y)[2 * i], i + 1);
    }
    doing = "packed convolution";
    for (int it = 0; it < 20; it++) {
        size_t L = any(1, 40), D = any(1, 30), W = any(1, 5);
        mmix_tensor *x = random3(m, 1, L, D, -1, 1), *w = random3(m, D, 1, W, -1, 1), *b = random1(m, D, -1, 1), *y;
        mmix_conv1d_options o;
        memset(&o, 0, sizeof o);
        o.silu = it % 2;
        o.reverse = it % 3 == 0;
        o.seq_idx = numbers(m, 1, L);
        y = mmix_conv1d(m, x, w, b, &o);
        for (size_t from = 0, n; from < L; from += n) {
            const int32_t *s = mmix_data_i32(o.seq_idx);
            mmix_conv1d_options one = o;
            n = 1;
            while (from + n < L && s[from + n] == s[from]) n++;
            one.seq_idx = NULL;
            SAME(mmix_slice(m, y, 1, from, n), mmix_conv1d(m, mmix_slice(m, x, 1, from, n), w, b, &one));
        }
    }
    FINE(m);
    mmix_destroy(m);
}

/* ---- parameters ---- */

#define FILE_A "unit_a.tmp.safetensors"
#define FILE_B "unit_b.tmp.safetensors"

static uint64_t hash_of(const real *x, size_t n, uint64_t h)
{
    const unsigned char *p = (const unsigned char *)x;
    for (size_t i = 0; i < n * sizeof *x; i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}
static uint64_t hash_params(const mmix_params *p, uint64_t h)
{
    for (size_t i = 0; i < p->count; i++) h = hash_of(mmix_data(p->at[i].tensor), mmix_count(p->at[i].tensor), h);
    return h;
}
/* Number of parameters and multiply-adds of a backbone without its values: the slab does not fit the limit. */
static void count_of(const char *name, mmix_vision_config c, double expected, double gmac)
{
    mmix_ctx *m = context(1, 0);
    mmix_vision v;
    doing = name;
    memset(&v, 0, sizeof v);
    v.m = m;
    v.config = c;
    v.params = mmix_params_create(m);
    v.block = (mmixi_vision_block *)mmixi_alloc(m, c.depth * sizeof *v.block);
    memset(v.block, 0, c.depth * sizeof *v.block);
    m->allocator.byte_limit = mmix_memory(m).bytes + (4 << 20);
    OK(mmixi_vision_declare(&v, 1) == -1);
    IS(v.params->elements, expected);
    IS(mmix_vision_parameters(&v), expected);
    if (gmac > 0) check(fabs(mmix_vision_flops(&v, 224, 224) / 2e9 / gmac - 1) < 0.05, "multiply-adds", __LINE__, mmix_vision_flops(&v, 224, 224) / 2e9, gmac);
    for (size_t i = 0; i < v.params->count; i++) {
        const mmix_param *p = &v.params->at[i];
        size_t n = strlen(p->name);
        int bias = n > 5 && !strcmp(p->name + n - 5, ".bias");
        check(p->decay == (mmix_ndim(p->tensor) > 1 && !bias), p->name, __LINE__, p->decay, !p->decay);
    }
    mmix_params_destroy(v.params);
    mmixi_free(m, v.block, c.depth * sizeof *v.block);
    mmix_destroy(m);
}
static void shape_is(const mmix_params *p, const char *name, int ndim, size_t a, size_t b, size_t c, size_t d, int decay)
{
    mmix_tensor *t = mmix_params_find(p, name);
    size_t s[4], found = 0;
    s[0] = a; s[1] = b; s[2] = c; s[3] = d;
    check(t && mmix_ndim(t) == ndim && !memcmp(t->shape, s, (size_t)ndim * sizeof *s), name, __LINE__, t ? (double)mmix_shape(t, 0) : -1, (double)a);
    for (size_t i = 0; i < p->count; i++) if (p->at[i].tensor == t) found = 1 + (size_t)(p->at[i].decay == decay);
    check(found == 2, name, __LINE__, (double)found, 2);
}
static int write_entries(mmix_ctx *m, const mmix_params *p, size_t change, int how, const char *path)
{
    static const real extra[2] = { 1, 2 };
    mmix_entry *e = (mmix_entry *)calloc(p->count + 1, sizeof *e);
    size_t n = p->count;
    int result;
    mmixi_params_entries(p, p->values, e);
    if (how == 1) { e[change] = e[n - 1]; n--; }                     /* missing */
    if (how == 2) {                              /* one more */
        e[n] = e[0];
        e[n].name = "blocks.77.more";
        e[n].ndim = 1;
        e[n].shape[0] = 2;
        e[n++].data = extra;
    }
    if (how == 3) {                              /* another shape of as many elements */
        e[change].shape[e[change].ndim] = 1;
        e[change].ndim++;
    }
    if (how == 4) e[change].shape[0]--;
    result = mmix_safetensors_save(m, path, e, n, NULL);
    free(e);
    return result;
}
static void parameters(void)
{
    mmix_ctx *m, *n;
    mmix_vision *v, *w;
    mmix_params *p;
    size_t s[2] = { 3, 5 };
    size_t head_in[4] = { 192, 384, 512, 768 };
    double head_count[4] = { 21958912, 22352128, 22614272, 23138560 };
    count_of("ViT-Ti/16", mmix_vit_tiny(16), 5524416, 0);
    count_of("ViT-S/16", mmix_vit_small(16), 21665664, 4.60);
    count_of("ViT-S/8", mmix_vit_small(8), 21670272, 0);
    count_of("ViT-B/16", mmix_vit_base(16), 85798656, 17.6);
    count_of("ViT-B/8", mmix_vit_base(8), 85807872, 0);
    count_of("LinearViT-B", mmix_linearvit_base(), 85798656, 0);
    count_of("DinoVim-T", mmix_dinovim_tiny(), 10706048, 2.64);
    count_of("DinoVim-S", mmix_dinovim_small(), 40354048, 8.97);
    count_of("DinoVim-B", mmix_dinovim_base(), 88974720, 19.1);
    count_of("DinoMamba-Reg-T", mmix_mambareg_tiny(), 10674048, 0);
    count_of("DinoMamba-Reg-S", mmix_mambareg_small(), 40290048, 0);
    count_of("DinoMamba-Reg-B", mmix_mambareg_base(), 88878720, 0);
    {                                            /* where registers stand; more registers than patches: they come first */
        static const size_t patches[4] = { 14 * 14, 6 * 6, 7 * 7, 24 * 24 }, ends[4][3] = { { 15, 31, 191 }, { 2, 5, 35 }, { 3, 7, 47 }, { 44, 89, 539 } };
        mmix_vision_config c = mmix_mambareg_tiny();
        size_t at[12];
        mmix_features f;
        for (size_t i = 0; i < 4; i++) {
            IS(mmix_vision_class_index(&c, patches[i], at), 12);
            IS(at[0], ends[i][0]); IS(at[1], ends[i][1]); IS(at[11], ends[i][2]);
        }
        IS(mmix_vision_class_index(&c, 4, at), 12);
        for (size_t i = 0; i < 12; i++) IS(at[i], i);
        c.dim = 32; c.depth = 2; c.mamba.head_dim = 16; c.patch = 8;
        m = context(1, 5);
        v = mmix_vision_create(m, c);
        f = mmix_vision_features(m, v, mmix_randn(m, mmix_new4(m, 2, 3, 16, 16), 1, 3));
        OK(mmix_shape(f.tokens, 1) == 16 && mmix_shape(f.registers, 1) == 12 && mmix_shape(f.patches, 1) == 4 && mmix_shape(f.token, 1) == 32);
        for (size_t i = 0; f.tokens && i < 4 * 32; i++) IS(mmix_data(f.patches)[i], mmix_data(f.tokens)[12 * 32 + i]);
        FINE(m);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
    doing = "parameters";
    m = context(1, 11);
    for (int k = 0; k < 4; k++) {
        mmix_dino_head head;
        p = mmix_params_create(m);
        IS(mmix_dino_head_init(&head, p, "", head_in[k], 2048, 256, 65536, 3), 0);
        IS(p->elements, head_count[k]);
        shape_is(p, "mlp.0.weight", 2, 2048, head_in[k], 0, 0, 1);
        shape_is(p, "mlp.4.bias", 1, 256, 0, 0, 0, 0);
        shape_is(p, "last_layer.weight_g", 2, 65536, 1, 0, 0, 1);
        shape_is(p, "last_layer.weight_v", 2, 65536, 256, 0, 0, 1);
        mmix_params_destroy(p);
    }
    {
        mmix_mamba2_layer layer;
        mmix_mamba2_options o;
        memset(&o, 0, sizeof o);
        o.bidirectional = 1;
        p = mmix_params_create(m);
        IS(mmix_mamba2_init(&layer, p, "", 256, &o), 0);
        IS(p->elements, 435760 - 256);
        shape_is(p, "in_proj.weight", 2, 2 * 512 + 128 + 8, 256, 0, 0, 1);
        shape_is(p, "conv1d_b.weight", 3, 640, 1, 4, 0, 1);
        shape_is(p, "dt_b_bias", 1, 8, 0, 0, 0, 0);
        shape_is(p, "A_log_b", 1, 8, 0, 0, 0, 0);
        shape_is(p, "D", 1, 8, 0, 0, 0, 0);
        shape_is(p, "norm_b.weight", 1, 512, 0, 0, 0, 0);
        shape_is(p, "out_proj.weight", 2, 256, 512, 0, 0, 1);
        IS(mmix_params_allocate(p), 0);
        for (int i = 0; i < 8; i++) {            /* A in [1, 16), dt in [1e-3, 1e-1] */
            double A = exp((double)mmix_data(layer.dir[1].A_log)[i]), dt = log1p(exp((double)mmix_data(layer.dir[0].dt_bias)[i]));
            OK(A >= 0.9999 && A <= 16.001 && dt > 0.99e-3 && dt < 0.101 && mmix_data(layer.dir[0].D)[i] == 1);
        }
        OK(largest(layer.in_proj) <= 1.0 / 16 + 1e-6 && largest(layer.in_proj) > 0.9 / 16);
        mmix_params_destroy(p);
        o.head_dim = 60;
        p = mmix_params_create(m);
        BAD_INT(mmix_mamba2_init(&layer, p, "", 256, &o), "mmix_mamba2_init", "512 does not make heads of 60");
        mmix_params_destroy(p);
    }
    v = mmix_vision_create(m, mmix_vit_tiny(16));
    p = mmix_vision_params(v);
    IS(mmix_vision_parameters(v), 5524416);
    shape_is(p, "cls_token", 3, 1, 1, 192, 0, 1);
    shape_is(p, "pos_embed", 3, 1, 197, 192, 0, 1);
    shape_is(p, "patch_embed.proj.weight", 4, 192, 3, 16, 16, 1);
    shape_is(p, "patch_embed.proj.bias", 1, 192, 0, 0, 0, 0);
    shape_is(p, "blocks.11.norm1.weight", 1, 192, 0, 0, 0, 0);
    shape_is(p, "blocks.0.attn.qkv.weight", 2, 576, 192, 0, 0, 1);
    shape_is(p, "blocks.0.attn.proj.bias", 1, 192, 0, 0, 0, 0);
    shape_is(p, "blocks.3.mlp.fc1.weight", 2, 768, 192, 0, 0, 1);
    shape_is(p, "blocks.3.mlp.fc2.weight", 2, 192, 768, 0, 0, 1);
    shape_is(p, "norm.bias", 1, 192, 0, 0, 0, 0);
    {                                            /* deviation 0.02, nothing beyond a normal tail */
        double square = 0;
        mmix_tensor *t = mmix_params_find(p, "blocks.0.attn.qkv.weight");
        for (size_t i = 0; i < mmix_count(t); i++) square += (double)mmix_data(t)[i] * (double)mmix_data(t)[i];
        NEAR(sqrt(square / (double)mmix_count(t)), 0.02, 0.0006);
    }
    mmix_vision_destroy(v);
    v = mmix_vision_create(m, small_vision(MMIX_SSD));
    p = mmix_vision_params(v);
    shape_is(p, "layers.1.mixer.A_log_b", 1, 4, 0, 0, 0, 0);
    shape_is(p, "layers.1.norm.weight", 1, 16, 0, 0, 0, 0);
    shape_is(p, "norm_f.weight", 1, 16, 0, 0, 0, 0);
    OK(mmix_params_find(p, "nothing") == NULL);
    FINE(m);
    /* slabs */
    IS(mmix_params_train(p, 1), 0);
    {
        size_t at = 0;
        for (size_t i = 0; i < p->count; i++) {
            OK(mmix_data(p->at[i].tensor) == p->values + at && at % (64 / sizeof(real)) == 0);
            at += (mmix_count(p->at[i].tensor) + 64 / sizeof(real) - 1) / (64 / sizeof(real)) * (64 / sizeof(real));
        }
        IS(at, p->slab);
    }
    OK(p->gradients != NULL && mmix_grad(p->at[0].tensor) == NULL);
    IS(mmix_params_train(p, 0), 0);
    OK(p->gradients == NULL);
    BAD(mmix_params_add(p, "a", "b", 2, s, mmix_start_from(MMIX_START_CONSTANT, 1, 0)), "mmix_params_add", "after mmix_params_allocate");
    /* seeds */
    n = context(2, 11);
    w = mmix_vision_create(n, small_vision(MMIX_SSD));
    IS(hash_params(p, 1) == hash_params(mmix_vision_params(w), 1), 1);
    mmix_vision_destroy(w);
    mmix_seed_set(n, 12);
    w = mmix_vision_create(n, small_vision(MMIX_SSD));
    OK(hash_params(p, 1) != hash_params(mmix_vision_params(w), 1));
    /* files */
    doing = "parameter files";
    IS(mmix_vision_save(m, v, FILE_A), 0);
    IS(mmix_vision_load(n, w, FILE_A), 0);
    IS(hash_params(p, 1) == hash_params(mmix_vision_params(w), 1), 1);
    FINE(n);
    mmix_vision_destroy(w);
    w = mmix_vision_create(n, small_vision(MMIX_SSD));
    for (int how = 1; how <= 4; how++)
        for (size_t i = 0; i < p->count; i += how == 2 ? p->count : 5) {
            uint64_t before = hash_params(mmix_vision_params(w), 1);
            size_t bytes = mmix_memory(n).bytes;
            if (how == 4 && mmix_shape(p->at[i].tensor, 0) == 1) continue;
            IS(write_entries(m, p, i, how, FILE_B), 0);
            FINE(m);
            IS(mmix_vision_load(n, w, FILE_B), -1);
            IS(mmix_error_kind(n), MMIX_ERROR_FILE);
            if (mmix_error(n)) check(strstr(mmix_error(n), how == 2 ? "blocks.77.more" : p->at[i].name) != NULL, mmix_error(n), __LINE__, how, 0);
            mmix_error_clear(n);
            IS(hash_params(mmix_vision_params(w), 1) == before, 1);
            IS(mmix_memory(n).bytes, bytes);
        }
    IS(mmix_vision_load(n, w, "no_such_file.safetensors"), -1);
    IS(mmix_error_kind(n), MMIX_ERROR_FILE);
    mmix_error_clear(n);
    mmix_vision_destroy(w);
    mmix_vision_destroy(v);
    mmix_destroy(n);
    {                                            /* a part of a file, by the prefix of its names */
        real a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 7, 8, 9, 10, 11, 12 };
        const char *const names[3] = { "student.w", "teacher.w", "teacher.b" };
        mmix_entry e[3];
        mmix_archive *file;
        mmix_params *q = mmix_params_create(m);
        size_t shape[2] = { 2, 3 }, two[1] = { 2 };
        memset(e, 0, sizeof e);
        for (int i = 0; i < 3; i++) {
            e[i].name = names[i];
            e[i].dtype = MMIX_FILE_REAL;
            e[i].ndim = i < 2 ? 2 : 1;
            memcpy(e[i].shape, shape, sizeof shape);
            e[i].data = i ? (i == 1 ? a : b) : b;
        }
        IS(mmix_safetensors_save(m, FILE_A, e, 3, NULL), 0);
        mmix_params_add(q, "", "w", 2, shape, mmix_start_from(MMIX_START_CONSTANT, 0, 0));
        mmix_params_add(q, "", "b", 1, two, mmix_start_from(MMIX_START_CONSTANT, 0, 0));
        file = mmix_archive_open(m, FILE_A);
        OK(file != NULL);
        IS(mmix_params_read(q, file, "teacher."), 0);
        IS(mmix_data(q->at[0].tensor)[5], 6);
        IS(mmix_data(q->at[1].tensor)[1], 8);
        refused(m, mmix_params_read(q, file, "student."), "read", __LINE__, FILE_A, "1 missing, 0 of another shape, 0 unexpected; first: missing student.b (2)", MMIX_ERROR_FILE);
        refused(m, mmix_params_read(q, file, ""), "read", __LINE__, FILE_A, "expected 2 parameters, found 2 missing, 0 of another shape, 3 unexpected", MMIX_ERROR_FILE);
        IS(strcmp(mmix_params_compare(q, file, ""), "missing w (2, 3)\nmissing b (2)\nunexpected student.w (2, 3)\n"
                  "unexpected teacher.w (2, 3)\nunexpected teacher.b (2)\n"), 0);
        IS(strcmp(mmix_params_compare(q, file, "teacher."), ""), 0);
        mmix_archive_close(file);
        IS(mmix_params_save(q, FILE_A), 0);
        mmix_fill(q->at[0].tensor, 0);
        mmix_fill(q->at[1].tensor, 0);
        IS(mmix_params_load(q, FILE_A), 0);
        IS(mmix_data(q->at[0].tensor)[5], 6);
        IS(mmix_data(q->at[1].tensor)[1], 8);
        mmix_params_destroy(q);
        FINE(m);
    }
    /* duplicates; frozen parameters */
    p = mmix_params_create(m);
    mmix_params_add(p, "x.", "a", 2, s, mmix_start_from(MMIX_START_UNIFORM, 2, 3));
    BAD(mmix_params_add(p, "x", ".a", 2, s, mmix_start_from(MMIX_START_CONSTANT, 1, 0)), "x.a is there already", "mmix_params_add");
    mmix_params_add(p, "", "frozen", 1, s, mmix_start_from(MMIX_START_CONSTANT, 4, 0));
    BAD_INT(mmix_params_train(p, 1), "mmix_params_train", "allocate");
    IS(mmix_params_allocate(p), 0);
    p->at[1].frozen = 1;
    mmix_params_train(p, 1);
    mmix_record(m, 1);
    mmix_backward(m, mmix_mul(m, mmix_sum(m, p->at[0].tensor), mmix_sum(m, p->at[1].tensor)));
    OK(mmix_grad(p->at[0].tensor) && !mmix_grad(p->at[1].tensor));
    IS(mmix_data(mmix_grad(p->at[0].tensor))[14], 12);
    for (int i = 0; i < 15; i++) OK(mmix_data(p->at[0].tensor)[i] >= 2 && mmix_data(p->at[0].tensor)[i] < 3);
    mmix_reset(m);                               /* gradients of parameters stay */
    OK(mmix_grad(p->at[0].tensor) != NULL);
    mmix_params_zero_grad(p);
    OK(mmix_grad(p->at[0].tensor) == NULL);
    mmix_params_destroy(p);
    mmix_params_destroy(NULL);
    FINE(m);
    mmix_destroy(m);
    remove(FILE_A);
    remove(FILE_B);
}

/* Packed matrices give the same bits, and whatever changes the values drops them. */
static void packing(void)
{
    mmix_ctx *m = mmix_create(NULL);
    size_t shape[2] = {77, 51}, one[1] = {5};
    mmix_params *p = mmix_params_create(m), *q = mmix_params_create(m);
    mmix_tensor *w, *x, *y;
    real *plain, *values;
    doing = "packed parameters";
    mmix_params_add(p, "", "w", 2, shape, mmix_start_from(MMIX_START_NORMAL, 1, 0));
    mmix_params_add(p, "", "b", 1, one, mmix_start_from(MMIX_START_NORMAL, 1, 0));
    mmix_params_add(q, "", "w", 2, shape, mmix_start_from(MMIX_START_CONSTANT, 2, 0));
    mmix_params_add(q, "", "b", 1, one, mmix_start_from(MMIX_START_CONSTANT, 2, 0));
    BAD_INT(mmix_params_pack(p, 1), "mmix_params_pack", "allocate");
    mmix_params_allocate(p);
    mmix_params_allocate(q);
    w = mmix_params_find(p, "w");
    plain = (real *)malloc(65 * 77 * sizeof(real));
    values = (real *)malloc(77 * 51 * sizeof(real));
    for (size_t rows = 1; rows <= 65; rows += rows < 4 ? 1 : 61)
        for (int change = 0; change < 7; change++) {
            mmix_adamw o = mmix_adamw_default();
            mmix_adamw_state state;
            x = mmix_randn(m, mmix_new2(m, rows, 51), 1, rows);
            IS(mmix_params_pack(p, 1), 0);
            OK(w->packed != NULL);
            IS(mmix_params_find(p, "b")->packed != NULL, 0);
            if (change == 0) mmix_params_pack(p, 1);
            if (change == 1) mmix_fill(mmix_slice(m, w, 0, 3, 2), 7);
            if (change == 2) mmix_randn(m, w, 1, 99);
            if (change == 3) { mmix_read(w, values); values[100] += 1; mmix_write(w, values); }
            if (change == 4) mmix_ema(p, q, 0.5);
            if (change == 5) { mmix_params_save(q, FILE_A); mmix_params_load(p, FILE_A); remove(FILE_A); }
            if (change == 6) {
                mmix_adamw_init(&state, p);
                mmix_record(m, 1);
                mmix_backward(m, mmix_mean(m, mmix_linear(m, x, w, NULL)));
                mmix_record(m, 0);
                mmix_adamw_step(&state, &o, 0, NULL);
                mmix_adamw_free(&state);
                mmix_params_train(p, 0);
            }
            y = mmix_linear(m, x, w, NULL);
            mmix_read(y, plain);
            IS(w->packed != NULL, change == 0);
            w->packed = NULL;
            OK(!memcmp(mmix_data(mmix_linear(m, x, w, NULL)), plain, rows * 77 * sizeof(real)));
            IS(mmix_params_pack(p, 1), 0);
            OK(!memcmp(mmix_data(mmix_linear(m, x, w, NULL)), plain, rows * 77 * sizeof(real)));
            FINE(m);
            mmix_reset(m);
        }
    IS(mmix_params_pack(p, 0), 0);
    OK(w->packed == NULL && p->packed == NULL);
    IS(mmix_params_pack(p, 1), 0);
    free(plain);
    free(values);
    mmix_params_destroy(p);
    mmix_params_destroy(q);
    mmix_destroy(m);
}

/* ---- schedules, optimiser, losses ---- */

static void schedules(void)
{
    size_t steps[8] = { 0, 1, 25019, 25020, 125100, 1, 99, 100 }, milestones[2] = { 8, 11 };
    double lr[5] = { 0, 3.996962309e-8, 1e-3, 1e-3, 5.872372647e-4 };
    size_t small[7] = { 0, 1, 7, 8, 9, 10, 19 };
    double small_lr[7] = { 0, 8.928571429e-6, 6.25e-5, 6.25e-5, 6.145221916e-5, 5.838028117e-5, 2.047780842e-6 };
    doing = "schedules";
    for (int i = 0; i < 5; i++) NEAR(mmix_schedule_cosine(1e-3, 1e-6, 100, 2502, 10, 0, steps[i]), lr[i], lr[i] * 1e-9);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 2502, 0, 0, 1), 0.04000000001, 5e-12);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 2502, 0, 0, 0), 0.04, 1e-15);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 2502, 0, 0, 125100), 0.22, 1e-12);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 2502, 0, 0, 125100), 0.998, 1e-12);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 1), 1.262626263e-6, 1e-15);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 99), 1.25e-4, 1e-15);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 100), 1.25e-4, 1e-15);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 500), 7.376618702e-5, 1e-13);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 999), 1.000377725e-6, 1e-15);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 10, 0, 0, 1), 0.04000088826, 1e-11);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 10, 0, 0, 500), 0.22, 1e-12);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 10, 0, 0, 999), 0.3999991117, 1e-10);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 10, 0, 0, 1), 0.9960000099, 1e-10);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 10, 0, 0, 500), 0.998, 1e-12);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 10, 0, 0, 999), 0.9999999901, 1e-10);
    for (int i = 0; i < 7; i++) NEAR(mmix_schedule_cosine(5e-4 * 32 / 256, 1e-6, 5, 4, 2, 0, small[i]), small_lr[i], 1e-14);
    NEAR(mmix_schedule_teacher_temp(0.04, 0.07, 30, 0), 0.04, 1e-15);
    NEAR(mmix_schedule_teacher_temp(0.04, 0.07, 30, 1), 0.0410344828, 1e-10);
    NEAR(mmix_schedule_teacher_temp(0.04, 0.07, 30, 15), 0.0555172414, 1e-10);
    NEAR(mmix_schedule_teacher_temp(0.04, 0.07, 30, 29), 0.07, 1e-15);
    NEAR(mmix_schedule_teacher_temp(0.04, 0.07, 30, 30), 0.07, 1e-15);
    NEAR(mmix_schedule_teacher_temp(0.04, 0.07, 0, 0), 0.07, 1e-15);
    NEAR(mmix_schedule_poly(6e-5, 0, 160000, 1500, 1e-6, 1, 0), 6e-11, 1e-20);
    NEAR(mmix_schedule_poly(6e-5, 0, 160000, 1500, 1e-6, 1, 1499), 6e-5, 1e-18);
    NEAR(mmix_schedule_poly(6e-5, 0, 160000, 1500, 1e-6, 1, 1500), 6e-5, 1e-18);
    NEAR(mmix_schedule_poly(6e-5, 1e-7, 160000, 1500, 1e-6, 2, 159999), 1e-7, 1e-18);
    NEAR(mmix_schedule_poly(1, 0, 101, 0, 1, 0.9, 50), pow(0.5, 0.9), 1e-12);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 0), 1e-7, 1e-18);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 499), 1e-4, 1e-15);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 799), 1e-4, 1e-15);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 800), 1e-5, 1e-15);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 1100), 1e-6, 1e-15);
}

static void optimiser(void)
{
    mmix_ctx *m = context(2, 1);
    size_t shapes[3][2] = { { 3, 5 }, { 7, 0 }, { 200, 90 } };
    const char *names[3] = { "w", "b", "big" };
    mmix_params *p = mmix_params_create(m), *q = mmix_params_create(m);
    mmix_adamw_state s;
    mmix_adamw o = mmix_adamw_default();
    double *value[3], *mom[3], *var[3];
    int t[3] = { 0, 0, 0 };
    doing = "adamw";
    NEAR(o.lr + o.weight_decay + o.beta1 + o.beta2 + o.eps, 1e-3 + 0.01 + 0.9 + 0.999 + 1e-8, 1e-12);
    o.lr = 0.01;
    o.weight_decay = 0.3;
    for (int i = 0; i < 3; i++) {
        mmix_params_add(p, "", names[i], i == 1 ? 1 : 2, shapes[i], mmix_start_from(MMIX_START_NORMAL, 1, 0));
        mmix_params_add(q, "", names[i], i == 1 ? 1 : 2, shapes[i], mmix_start_from(MMIX_START_CONSTANT, 2, 0));
    }
    mmix_params_allocate(p);
    mmix_params_allocate(q);
    IS(mmix_adamw_init(&s, p), 0);
    for (int i = 0; i < 3; i++) {
        size_t n = mmix_count(p->at[i].tensor);
        value[i] = (double *)calloc(n, sizeof(double));
        mom[i] = (double *)calloc(n, sizeof(double));
        var[i] = (double *)calloc(n, sizeof(double));
        for (size_t k = 0; k < n; k++) value[i][k] = (double)mmix_data(p->at[i].tensor)[k];
    }
    for (int step = 0; step < 5; step++) {
        unsigned char skip[3] = { 0, 0, 0 };
        double all = 0, clip = step < 3 ? 3 : 0, norm;
        mmix_tensor *loss = NULL;
        skip[2] = step == 1;
        mmix_reset(m);
        mmix_record(m, 1);
        for (int i = 0; i < 3; i++) {            /* loss Σ x²/2: the gradient is x; the second is left out in step 2 */
            mmix_tensor *x = p->at[i].tensor, *y = mmix_scale(m, mmix_sum(m, mmix_mul(m, x, x)), 0.5, 0);
            if (i == 1 && step == 2) continue;
            loss = loss ? mmix_add(m, loss, y) : y;
        }
        mmix_backward(m, loss);
        mmix_record(m, 0);
        for (int i = 0; i < 3; i++) {
            size_t n = mmix_count(p->at[i].tensor);
            double square = 0, factor = 1;
            if (i == 1 && step == 2) continue;
            for (size_t k = 0; k < n; k++) square += value[i][k] * value[i][k];
            all += square;
            if (skip[i]) continue;
            t[i]++;
            if (clip > 0 && clip / (sqrt(square) + 1e-6) < 1) factor = clip / (sqrt(square) + 1e-6);
            for (size_t k = 0; k < n; k++) {
                double g = value[i][k] * factor;
                mom[i][k] = 0.9 * mom[i][k] + 0.1 * g;
                var[i][k] = 0.999 * var[i][k] + 0.001 * g * g;
                if (i != 1) value[i][k] *= 1 - o.lr * o.weight_decay;
                value[i][k] -= o.lr / (1 - pow(0.9, t[i])) * mom[i][k] / (sqrt(var[i][k] / (1 - pow(0.999, t[i]))) + o.eps);
            }
        }
        norm = mmix_adamw_step(&s, &o, clip, step == 1 ? skip : NULL);
        NEAR(norm / sqrt(all), 1, 1e3 * EPS);
        for (int i = 0; i < 3; i++) {
            double worst = 0;
            for (size_t k = 0; k < mmix_count(p->at[i].tensor); k++) {
                double d = fabs((double)mmix_data(p->at[i].tensor)[k] - value[i][k]);
                if (!(d <= worst)) worst = d;
                value[i][k] = (double)mmix_data(p->at[i].tensor)[k];
            }
            check(worst < 40 * EPS, "values after a step", __LINE__, worst, 40 * EPS);
            OK(mmix_grad(p->at[i].tensor) == NULL);
            IS(s.steps[i], t[i]);
        }
    }
    for (int i = 0; i < 3; i++) { free(value[i]); free(mom[i]); free(var[i]); }
    doing = "ema";
    {
        real a = mmix_data(q->at[2].tensor)[17999], b = mmix_data(p->at[2].tensor)[17999];
        IS(mmix_ema(q, p, 0.9), 0);
        NEAR(mmix_data(q->at[2].tensor)[17999], 0.9 * (double)a + 0.1 * (double)b, 4 * EPS);
        IS(mmix_ema(q, p, 0), 0);
        IS(hash_params(q, 1) == hash_params(p, 1), 1);
        IS(mmix_ema(q, p, 1), 0);
        IS(hash_params(q, 1) == hash_params(p, 1), 1);
    }
    mmix_adamw_free(&s);
    for (size_t n = 1; n <= 5; n++) {            /* no memory for the moments: nothing is kept */
        size_t before = mmix_memory(m).bytes;
        m->allocator.count_limit = mmix_memory(m).allocations + n - 1;
        OK(mmix_adamw_init(&s, q) == -1 || n > 4);
        m->allocator.count_limit = 0;
        OK(n > 4 || mmix_error_kind(m) == MMIX_ERROR_MEMORY);
        mmix_error_clear(m);
        if (n > 4) mmix_adamw_free(&s);
        mmix_params_train(q, 0);
        IS(mmix_memory(m).bytes, before);
    }
    mmix_params_destroy(q);
    q = mmix_params_create(m);
    mmix_params_add(q, "", "other", 2, shapes[0], mmix_start_from(MMIX_START_CONSTANT, 2, 0));
    mmix_params_allocate(q);
    BAD_INT(mmix_ema(q, p, 0.5), "mmix_ema", "different");
    mmix_params_destroy(p);
    mmix_params_destroy(q);
    FINE(m);
    mmix_destroy(m);
}

static void losses(void)
{
    mmix_ctx *m = context(2, 1);
    size_t sizes[2] = { 65536, 8192 };
    double uniform_loss[2] = { 11.0903549, 9.0109133 };
    real *center = (real *)calloc(65536, sizeof(real));
    mmix_dino_loss_stats stats;
    doing = "dino loss";
    for (int k = 0; k < 2; k++) {                /* a uniform student: ln K, whatever the teacher says; 2 · (10 - 1) terms */
        mmix_tensor *s = mmix_fill(mmix_new2(m, 10, sizes[k]), 0.3), *t = mmix_randn(m, mmix_new2(m, 2, sizes[k]), 0.2, 1), *loss;
        memset(center, 0, 65536 * sizeof(real));
        loss = mmix_dino_loss(m, s, t, center, 10, 0.1, 0.04, 0.9, &stats);
        NEAR(mmix_item(loss), uniform_loss[k], 1e-4 * (sizeof(real) == 4 ? 1 : 1e-3));
        for (size_t i = 0; i < sizes[k]; i += 997) NEAR(center[i], 0.1 * ((double)mmix_data(t)[i] + (double)mmix_data(t)[sizes[k] + i]) / 2, 1e-7);
        NEAR(stats.teacher_kl_uniform, log((double)sizes[k]) - stats.teacher_entropy, 1e-6);
        mmix_reset(m);
    }
    {                                            /* against the definition, with the centre before the update */
        size_t K = 11, B = 3, crops = 4;
        mmix_tensor *s = mmix_randn(m, mmix_new2(m, crops * B, K), 0.3, 1), *t = mmix_randn(m, mmix_new2(m, 2 * B, K), 0.1, 2);
        double sum = 0, entropy = 0, q[11], norm = 0;
        real before[11];
        for (size_t i = 0; i < K; i++) before[i] = center[i] = (real)(0.02 * (double)i);
        for (size_t b = 0; b < B; b++)
            for (size_t i = 0; i < 2; i++) {
                double z = 0;
                for (size_t k = 0; k < K; k++) z += q[k] = exp(((double)mmix_data(t)[(i * B + b) * K + k] - (double)before[k]) / 0.05);
                for (size_t k = 0; k < K; k++) { q[k] /= z; entropy -= q[k] * log(q[k]) / (2 * (double)B); }
                for (size_t v = 0; v < crops; v++) {
                    double over = 0;
                    const real *x = mmix_data(s) + (v * B + b) * K;
                    if (v == i) continue;
                    for (size_t k = 0; k < K; k++) over += exp((double)x[k] / 0.1);
                    for (size_t k = 0; k < K; k++) sum -= q[k] * ((double)x[k] / 0.1 - log(over));
                }
            }
        NEAR(mmix_item(mmix_dino_loss(m, s, t, center, crops, 0.1, 0.05, 0.7, &stats)), sum / (double)(B * (2 * crops - 2)), 100 * EPS);
        NEAR(stats.teacher_entropy, entropy, 100 * EPS);
        for (size_t k = 0; k < K; k++) {
            double mean = 0;
            for (size_t r = 0; r < 2 * B; r++) mean += (double)mmix_data(t)[r * K + k] / (2 * (double)B);
            NEAR(center[k], 0.7 * (double)before[k] + 0.3 * mean, 4 * EPS);
            norm += (double)center[k] * (double)center[k];
        }
        NEAR(stats.center_norm, sqrt(norm), 10 * EPS);
        {                                        /* the teacher gets no gradient */
            mmix_tensor *loss;
            mmix_require_grad(s);
            mmix_require_grad(t);
            mmix_record(m, 1);
            loss = mmix_dino_loss(m, s, t, center, crops, 0.1, 0.05, 0.7, NULL);
            mmix_backward(m, loss);
            mmix_record(m, 0);
            OK(mmix_grad(s) && !mmix_grad(t));
        }
    }
    {                                            /* nothing to predict */
        size_t n = 3;
        int32_t none[3] = { 9, 9, 9 };
        mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new2(m, 3, 4), 1)), *loss;
        mmix_record(m, 1);
        loss = mmix_cross_entropy(m, x, mmix_from_i32(m, 1, &n, none), 9);
        IS(mmix_item(loss), 0);
        mmix_backward(m, loss);
        IS(mmix_data(mmix_grad(x))[7], 0);
        mmix_record(m, 0);
    }
    FINE(m);
    free(center);
    mmix_destroy(m);
}

/* ---- backbones ---- */

static void backbones(void)
{
    static const char *const names[4] = { "ViT", "LinearViT", "DinoVim", "DinoVim, middle token" };
    size_t sides[8][2] = { { 16, 16 }, { 16, 24 }, { 12, 8 }, { 4, 4 }, { 33, 19 }, { 28, 28 }, { 4, 40 }, { 23, 7 } };
    mmix_ctx *m = context(2, 4);
    for (int k = 0; k < 4; k++) {
        mmix_vision_config c = small_vision(k < 2 ? k : MMIX_SSD);
        mmix_vision *v;
        doing = names[k];
        c.depth = 3;
        c.drop_path = 0.5;
        if (k == 3) c.class_token = MMIX_CLASS_MIDDLE;
        v = mmix_vision_create(m, c);
        OK(mmix_vision_config_of(v)->depth == 3);
        for (int i = 0; i < 8; i++) {
            size_t gh = sides[i][0] / 4, gw = sides[i][1] / 4, n = gh * gw, extra = k == 2 ? 2 : 1, at = k < 2 ? 0 : k == 2 ? (n + 1) / 2 : n / 2;
            mmix_tensor *image = mmix_randn(m, mmix_new4(m, 2, 3, sides[i][0], sides[i][1]), 1, 5);
            mmix_vision_options o;
            mmix_features f, g;
            memset(&o, 0, sizeof o);
            o.n_last = 2;
            f = mmix_vision_features(m, v, image);
            FINE(m);
            if (!f.tokens) continue;
            IS(f.grid_h, gh);
            IS(f.grid_w, gw);
            IS(mmix_shape(f.tokens, 1), n + extra);
            IS(mmix_shape(f.patches, 1), n);
            OK(f.intermediate == NULL && mmix_ndim(f.token) == 2 && mmix_shape(f.token, 0) == 2 && mmix_shape(f.token, 1) == 16);
            SAME(f.token, mmix_slice(m, f.tokens, 1, at, 1));
            for (size_t t = 0, p = 0; t < n + extra; t++)
                if (t != at && !(k == 2 && t == 0)) {
                    SAME(mmix_slice(m, f.patches, 1, p, 1), mmix_slice(m, f.tokens, 1, t, 1));
                    p++;
                }
            g = mmix_vision_forward(m, v, image, &o);
            SAME(g.tokens, f.tokens);
            OK(g.intermediate && mmix_shape(g.intermediate, 0) == 2 && mmix_shape(g.intermediate, 1) == 32);
            if (k < 2) SAME(mmix_slice(m, g.intermediate, 1, 16, 16), f.token);
            g = mmix_vision_features(m, v, mmix_slice(m, image, 0, 1, 1));       /* one picture of the batch alone */
            ALIKE(g.tokens, mmix_slice(m, f.tokens, 0, 1, 1), 100 * EPS);
            mmix_record(m, 1);
            mmix_params_train(mmix_vision_params(v), 1);
            g = mmix_vision_features(m, v, image);                               /* the same when recorded */
            SAME(g.tokens, f.tokens);
            mmix_record(m, 0);
            mmix_params_train(mmix_vision_params(v), 0);
            mmix_reset(m);
        }
        {
            mmix_vision_options o;
            mmix_tensor *image = mmix_randn(m, mmix_new4(m, 8, 3, 16, 16), 1, 5), *a, *b;
            memset(&o, 0, sizeof o);
            o.train = 1;
            o.step = 4;
            a = mmix_vision_forward(m, v, image, &o).token;
            b = mmix_vision_forward(m, v, image, &o).token;
            SAME(a, b);
            OK(apart(a, mmix_vision_features(m, v, image).token) > 1e-4);
            o.step = 5;
            OK(apart(a, mmix_vision_forward(m, v, image, &o).token) > 1e-4);
            o.stream = 1;
            b = mmix_vision_forward(m, v, image, &o).token;
            o.stream = 0;
            OK(apart(b, mmix_vision_forward(m, v, image, &o).token) > 1e-4);
            FINE(m);
            o.n_last = 4;
            BAD(mmix_vision_forward(m, v, image, &o).token, "last 4 blocks of 3", "mmix_vision_forward");
            BAD(mmix_vision_features(m, v, mmix_new4(m, 1, 3, 3, 40)).token, "smaller than a patch", "3 x 40");
            BAD(mmix_vision_features(m, v, mmix_new4(m, 1, 4, 16, 16)).token, "image has shape (1, 4, 16, 16)", "mmix_vision");
            BAD(mmix_vision_features(m, v, NULL).token, "image is NULL", "mmix_vision");
            mmix_error_clear(m);
        }
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    doing = "token positions";
    {
        size_t grids[4] = { 14, 6, 7, 24 }, total[4] = { 198, 38, 51, 578 }, read[4] = { 98, 18, 25, 288 };
        mmix_vision_config c = small_vision(MMIX_SSD);
        mmix_vision *v;
        c.depth = 1;
        c.patch = 1;
        v = mmix_vision_create(m, c);
        for (int i = 0; i < 4; i++) {
            mmix_features f = mmix_vision_features(m, v, mmix_randn(m, mmix_new4(m, 1, 3, grids[i], grids[i]), 1, 1));
            IS(mmix_shape(f.tokens, 1), total[i]);
            SAME(f.token, mmix_slice(m, f.tokens, 1, read[i], 1));
            mmix_reset(m);
        }
        mmix_vision_destroy(v);
    }
    doing = "wrong configurations";
    {
        mmix_vision_config c = small_vision(MMIX_SOFTMAX);
        size_t bytes = mmix_memory(m).bytes;
        c.heads = 3;
        BAD(mmix_vision_create(m, c), "16 is not divided by 3 heads", "");
        c.heads = 0;
        BAD(mmix_vision_create(m, c), "0 heads", "");
        c.heads = 2;
        c.class_token = MMIX_CLASS_MIDDLE;
        BAD(mmix_vision_create(m, c), "mmix_vision_create", "class_token");
        c = small_vision(MMIX_SSD);
        c.mamba.head_dim = 7;
        BAD(mmix_vision_create(m, c), "mamba2", "7");
#define WRONG(kind, change, text)                                                                   \
    do {                                                                                            \
        c = small_vision(kind);                                                                     \
        change;                                                                                     \
        BAD(mmix_vision_create(m, c), "mmix_vision_create", text);                                  \
    } while (0)
        WRONG(MMIX_SOFTMAX, c.depth = 0, "depth is 0, expected 1 to 1000");
        WRONG(MMIX_SOFTMAX, c.depth = 1001, "depth is 1001, expected");
        WRONG(MMIX_SOFTMAX, c.depth = (size_t)-1 / 8, "depth is");
        WRONG(MMIX_SOFTMAX, c.dim = (size_t)1 << 40, "dim is");
        WRONG(MMIX_SOFTMAX, c.patch = 5000, "patch is 5000");
        WRONG(MMIX_SOFTMAX, c.grid = (size_t)1 << 33, "grid is");
        WRONG(MMIX_SOFTMAX, c.eps = -1, "eps is -1");
        WRONG(MMIX_SOFTMAX, c.drop_path = 1, "drop_path is 1");
        WRONG(MMIX_SOFTMAX, c.drop_path = NAN, "drop_path is");
        WRONG(MMIX_SOFTMAX, c.mlp_ratio = -1, "mlp_ratio");
        WRONG(MMIX_SSD, c.mamba.d_state = (size_t)1 << 60, "mamba.d_state is");
        WRONG(MMIX_SSD, c.mamba.groups = (size_t)1 << 60, "mamba.groups is");
        WRONG(MMIX_SSD, c.class_token = 7, "class_token is 7");
        WRONG(MMIX_SOFTMAX, c.mixer = 5, "mixer is 5");
#undef WRONG
        IS(mmix_memory(m).bytes, bytes);
        mmix_vision_destroy(NULL);
    }
    {                                            /* drop path: a share of zeros, else 1/(1 - rate) */
        mmix_tensor *s = mmix_drop_path(m, 4000, 0.3, 1, 2);
        int zeros = 0;
        for (int i = 0; i < 4000; i++) {
            zeros += mmix_data(s)[i] == 0;
            if (mmix_data(s)[i] != 0) NEAR(mmix_data(s)[i], 1 / 0.7, 4 * EPS);
        }
        NEAR(zeros, 1200, 120);
        OK(mmix_drop_path(m, 5, 0, 1, 2) == NULL && !mmix_error(m));
    }
    FINE(m);
    mmix_destroy(m);
}

/* ---- DINO ---- */

enum { PICTURES = 12, SIDE = 20 };
static uint8_t pixels[PICTURES][SIDE * SIDE * 3];
static mmix_picture pictures[PICTURES];
static void draw(void)                           /* four kinds: colours and stripes */
{
    state = 5;
    for (size_t p = 0; p < PICTURES; p++) {
        size_t kind = p % 4;
        pictures[p].rgb = pixels[p];
        pictures[p].width = pictures[p].height = SIDE;
        for (size_t i = 0; i < SIDE * SIDE; i++)
            for (size_t c = 0; c < 3; c++) {
                double stripe = (kind & 1 ? i % SIDE : i / SIDE) % 6 < 3 ? 60 : 0;
                pixels[p][3 * i + c] = (uint8_t)(20 + (c == kind % 3 ? 130 : 10) + stripe + 30 * uniform());
            }
    }
}
static mmix_dino_config small_dino(int mixer)
{
    mmix_dino_config c = mmix_dino_small_data();
    c.vision = small_vision(mixer);
    c.vision.drop_path = 0.2;
    c.head_hidden = 16;
    c.head_bottleneck = 8;
    c.prototypes = 24;
    c.head_layers = 2;
    c.augment.global_size = 16;
    c.augment.local_size = 8;
    c.augment.local_count = 2;
    c.batch = 4;
    c.epochs = 4;
    c.iters = 3;
    c.lr = 0.05;
    c.warmup_epochs = 1;
    c.seed = 77;
    return c;
}
static uint64_t hash_dino(mmix_dino *d, uint64_t h)
{
    h = hash_params(mmix_vision_params(mmix_dino_student(d)), h);
    h = hash_params(mmix_vision_params(mmix_dino_teacher(d)), h);
    h = hash_params(mmix_dino_head_params(d, 0), h);
    h = hash_params(mmix_dino_head_params(d, 1), h);
    return hash_of(mmix_dino_center(d), mmix_dino_config_of(d)->prototypes, h);
}
static uint64_t hash_stats(const mmix_dino_stats *s, uint64_t h)
{
    double x[6];
    x[0] = s->loss; x[1] = s->lr; x[2] = s->gradient_norm; x[3] = s->teacher_entropy; x[4] = s->teacher_kl_uniform; x[5] = s->center_norm;
    for (size_t i = 0; i < sizeof x; i++) h = (h ^ ((const unsigned char *)x)[i]) * 1099511628211u;
    return h;
}
static uint64_t train(mmix_ctx *m, mmix_dino_config c, int steps)
{
    mmix_dino *d = mmix_dino_create(m, c);
    mmix_dino_stats s;
    uint64_t h = 1;
    for (int i = 0; d && i < steps && mmix_dino_step(d, pictures, PICTURES, &s) == 1; i++) h = hash_stats(&s, h);
    if (d) h = hash_dino(d, h);
    mmix_dino_destroy(d);
    return mmix_error(m) ? 0 : h;
}
static void backwards_for(void *user, size_t count, mmix_task *task, void *arg)
{
    ++*(int *)user;
    for (size_t i = count; i-- > 0;) task(arg, i);
}
#ifndef MMIX_NO_THREADS
typedef struct one_task { mmix_task *task; void *arg; size_t i; } one_task;
static void *run_one(void *p)
{
    one_task *t = (one_task *)p;
    t->task(t->arg, t->i);
    return NULL;
}
static void thread_for(void *user, size_t count, mmix_task *task, void *arg)
{
    pthread_t thread[64];
    one_task t[64];
    ++*(int *)user;
    for (size_t i = 0; i < count; i++) {
        t[i].task = task;
        t[i].arg = arg;
        t[i].i = i;
        if (pthread_create(&thread[i], NULL, run_one, &t[i])) exit(3);
    }
    for (size_t i = 0; i < count; i++) pthread_join(thread[i], NULL);
}
typedef struct apart_job { int mixer; uint64_t hash; } apart_job;
static void *train_apart(void *p)
{
    apart_job *j = (apart_job *)p;
    mmix_ctx *m = context(2, (uint64_t)j->mixer);
    j->hash = train(m, small_dino(j->mixer), 4);
    mmix_destroy(m);
    return NULL;
}
#endif
static size_t file_size(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t n;
    if (!f) return 0;
    fseek(f, 0, SEEK_END);
    n = (size_t)ftell(f);
    fclose(f);
    return n;
}
static unsigned char *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *b;
    *n = file_size(path);
    b = (unsigned char *)malloc(*n + 1);
    if (f) { *n = fread(b, 1, *n, f); fclose(f); }
    return b;
}
static void file_put(const char *path, const unsigned char *b, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) return;
    fwrite(b, 1, n, f);
    fclose(f);
}

/* Many short jobs one after another: every task runs once, with its own job's argument. */
typedef struct pool_job { size_t n, number; unsigned char *hit; size_t *wrong; } pool_job;
static void pool_task(void *arg, size_t i)
{
    pool_job *j = (pool_job *)arg;
    if (j->number != 0x5eed || i >= j->n) j->wrong[0]++;
    else j->hit[i]++;
}
static void started(void *user, int lane) { ((unsigned char *)user)[lane]++; }
static void pool(void)
{
    unsigned char begun[8] = {0};
    mmix_options o;
    mmix_ctx *own;
    int lanes;
    memset(&o, 0, sizeof o);
    o.threads = 4;
    o.thread_start = started;
    o.thread_user = begun;
    doing = "thread_start";
    own = mmix_create(&o);
    lanes = mmix_threads(own);
    mmix_destroy(own);                           /* waits for every thread, and none ends before it began */
    for (int lane = 0; lane < 8; lane++) IS(begun[lane], lane > 0 && lane < lanes);
    for (int threads = 2; threads <= 5; threads += 3) {
        mmix_ctx *m = context(threads, 0);
        size_t wrong = 0, stray = 0;
        unsigned char hit[64];
        doing = "many short jobs";
        for (size_t r = 0; r < 400000; r++) {
            pool_job j;
            j.n = 2 + r * 7919 % 11 * (r % 2);
            j.number = 0x5eed;
            j.hit = hit;
            j.wrong = &stray;
            memset(hit, 0, sizeof hit);
            mmix_parallel_for(m, j.n, pool_task, &j);
            for (size_t i = 0; i < j.n; i++) wrong += hit[i] != 1;
            j.number = 0;
        }
        IS(wrong, 0);
        IS(stray, 0);
        mmix_destroy(m);
    }
}
/* A forked child has the memory of a context but not its threads: it works alone, with the same result, and frees it. */
static void forked(void)
{
#ifdef _WIN32
    skipped++;
    printf("skipped: a context in a forked child (no fork)\n");
#else
    mmix_ctx *m = context(4, 0);
    const uint64_t alone = train(m, small_dino(2), 2);
    int status = -1;
    pid_t child;
    doing = "a context in a forked child";
    mmix_reset(m);
    fflush(stdout);
    child = fork();
    if (!child) {
        int same;
        alarm(60);                               /* a hang is a failure */
        same = train(m, small_dino(2), 2) == alone;
        mmix_destroy(m);
        _exit(same ? 0 : 1);
    }
    OK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    mmix_reset(m);
    OK(train(m, small_dino(2), 2) == alone);     /* the parent's pool is whole */
    FINE(m);
    mmix_destroy(m);
#endif
}

static void same_bits(void)
{
    static const int counts[4] = { 1, 2, 3, 5 };
    draw();
    pool();
    for (int mixer = MMIX_SOFTMAX; mixer <= MMIX_SSD; mixer++) {
        uint64_t first = 0, h;
        mmix_options o;
        int calls = 0;
        mmix_ctx *m;
        doing = mixer == MMIX_SOFTMAX ? "same bits, softmax" : mixer == MMIX_LINEAR ? "same bits, linear" : "same bits, ssd";
        for (int k = 0; k < 4; k++) {
            m = context(counts[k], 1000 + (uint64_t)k);              /* the run's own seed counts */
            h = train(m, small_dino(mixer), 5);
            FINE(m);
            if (!k) first = h;
            check(h == first && h, "the same for any number of threads", __LINE__, counts[k], 1);
            mmix_destroy(m);
        }
        memset(&o, 0, sizeof o);
        o.threads = 4;
        o.parallel_user = &calls;
        for (int k = 0; k < 2; k++) {
            o.parallel_for = backwards_for;
#ifndef MMIX_NO_THREADS
            if (k) o.parallel_for = thread_for;
#endif
            m = mmix_create(&o);
            check(train(m, small_dino(mixer), k ? 2 : 5) == (k ? 0 : first) || k, "the same for the caller's threads", __LINE__, 0, 1);
            if (k) {
                mmix_ctx *alone = context(1, 0);
                mmix_reset(m);
                check(train(m, small_dino(mixer), 2) == train(alone, small_dino(mixer), 2), "the same for the caller's threads", __LINE__, 0, 1);
                mmix_destroy(alone);
            }
            FINE(m);
            mmix_destroy(m);
        }
        OK(calls > 10);
        m = context(2, 1);
        {
            mmix_dino_config c = small_dino(mixer);
            c.seed = 78;
            OK(train(m, c, 5) != first);
        }
        mmix_destroy(m);
    }
#ifndef MMIX_NO_THREADS
    {
        apart_job job[3];
        pthread_t thread[3];
        doing = "contexts in their own threads";
        for (int k = 0; k < 3; k++) {
            job[k].mixer = k;
            pthread_create(&thread[k], NULL, train_apart, &job[k]);
        }
        for (int k = 0; k < 3; k++) {
            mmix_ctx *m;
            pthread_join(thread[k], NULL);
            m = context(1, 0);
            check(job[k].hash && job[k].hash == train(m, small_dino(k), 4), "as alone", __LINE__, k, k);
            mmix_destroy(m);
        }
    }
#else
    skipped++;
    printf("skipped: contexts in their own threads (MMIX_NO_THREADS)\n");
#endif
    forked();
}

static void dino(void)
{
    mmix_ctx *m = context(2, 9);
    mmix_dino *d, *e;
    mmix_dino_stats s, u;
    mmix_dino_config c;
    draw();
    for (int mixer = MMIX_SOFTMAX; mixer <= MMIX_SSD; mixer++) {     /* interrupted and not */
        size_t bytes = 0;
        uint64_t frozen = 0, other = 0, teacher = 0;
        int result = 1;
        mmix_tensor *last, *free_one;
        doing = "dino run";
        c = small_dino(mixer);
        c.teacher_drop_path = 1;                 /* off by default; on, the teacher sees other depths */
        OK(!small_dino(mixer).teacher_drop_path && train(m, c, 1) != train(m, small_dino(mixer), 1));
        c.teacher_drop_path = mixer == MMIX_LINEAR;
        d = mmix_dino_create(m, c);
        FINE(m);
        if (!d) continue;
        last = mmix_params_find(mmix_dino_head_params(d, 0), "last_layer.weight_v");
        free_one = mmix_params_find(mmix_dino_head_params(d, 0), "mlp.0.weight");
        IS(hash_params(mmix_vision_params(mmix_dino_student(d)), 1) == hash_params(mmix_vision_params(mmix_dino_teacher(d)), 1), 1);
        frozen = hash_of(mmix_data(last), mmix_count(last), 1);
        other = hash_of(mmix_data(free_one), mmix_count(free_one), 1);
        teacher = hash_params(mmix_dino_head_params(d, 1), 1);
        for (int i = 0; result == 1; i++) {
            if (i == 3) {                        /* after the first epoch the prototypes have not moved; the rest has */
                IS(hash_of(mmix_data(last), mmix_count(last), 1) == frozen, 1);
                IS(hash_of(mmix_data(free_one), mmix_count(free_one), 1) == other, 0);
                IS(hash_params(mmix_dino_head_params(d, 1), 1) == teacher, 0);
            }
            if (i == 4) {
                IS(hash_of(mmix_data(last), mmix_count(last), 1) == frozen, 0);
                IS(mmix_dino_save(d, FILE_A, "a note, \"quoted\"\n"), 0);
                FINE(m);
                bytes = mmix_memory(m).bytes;
            }
            result = mmix_dino_step(d, pictures, PICTURES, &s);
            FINE(m);
            if (result == 1) {
                IS(s.step, i);
                IS(s.epoch, i / 3);
                IS(s.steps, 12);
                NEAR(s.lr, mmix_schedule_cosine(c.lr * 4 / 256, c.min_lr, 4, 3, 1, 0, (size_t)i), 1e-15);
                NEAR(s.momentum, mmix_schedule_cosine(c.momentum, 1, 4, 3, 0, 0, (size_t)i), 1e-15);
                NEAR(s.weight_decay, mmix_schedule_cosine(c.weight_decay, c.weight_decay_end, 4, 3, 0, 0, (size_t)i), 1e-15);
                OK(s.loss > 0 && s.gradient_norm > 0 && s.center_norm > 0 && s.teacher_entropy > 0 && !s.collapse);
                OK(s.teacher_entropy <= log(24.0) + 1e-5);
            }
            else IS(i, 12);
            if (i > 6) IS(mmix_memory(m).bytes, bytes);
        }
        IS(result, 0);
        mmix_reset(m);
        mmix_seed_set(m, 123);                   /* the run's own seed counts */
        e = mmix_dino_load(m, FILE_A);
        FINE(m);
        if (e) {
            OK(!strcmp(mmix_dino_note(e), "a note, \"quoted\"\n") && !strcmp(mmix_dino_note(d), ""));
            IS(memcmp(mmix_dino_config_of(e), mmix_dino_config_of(d), sizeof c), 0);
            while (mmix_dino_step(e, pictures, PICTURES, &u) == 1);
            IS(hash_dino(e, 1) == hash_dino(d, 1), 1);
            FINE(m);
        }
        mmix_dino_destroy(e);
        mmix_dino_destroy(d);
        mmix_reset(m);
    }
    doing = "cut run files";
    {
        size_t n, bytes = 0;
        unsigned char *b = file_bytes(FILE_A, &n), was;
        mmix_options o;
        mmix_ctx *small;
        memset(&o, 0, sizeof o);
        o.threads = 1;
        o.allocator.byte_limit = 64 << 20;
        small = mmix_create(&o);
        for (size_t i = 0; i < 160; i++) {
            size_t cut = i < 60 ? i * 40 : (size_t)((double)n * (double)(i - 60) / 100);
            if (cut >= n) continue;
            if (i == 159) cut = n - 1;
            file_put(FILE_B, b, cut);
            e = mmix_dino_load(small, FILE_B);
            check(!e && mmix_error_kind(small) == MMIX_ERROR_FILE, "a cut file is refused", __LINE__, (double)cut, (double)n);
            mmix_dino_destroy(e);
            mmix_error_clear(small);
            mmix_reset(small);
            if (i == 2) bytes = mmix_memory(small).bytes;
            if (i > 2) IS(mmix_memory(small).bytes, bytes);
        }
        state = 3;
        for (int i = 0; i < 400; i++) {          /* a changed byte of the header: refused, or it makes no harm */
            size_t at = any(0, 7 + (size_t)b[0] + 256 * (size_t)b[1] + 65536 * (size_t)b[2]);
            was = b[at];
            b[at] = (unsigned char)any(0, 1) ? (unsigned char)(b[at] ^ (1 << any(0, 7))) : (unsigned char)"0123456789-.e"[any(0, 12)];
            file_put(FILE_B, b, n);
            e = mmix_dino_load(small, FILE_B);
            OK((e != NULL) == (mmix_error(small) == NULL));
            if (e && any(0, 3) == 0) mmix_dino_step(e, pictures, PICTURES, NULL);
            mmix_dino_destroy(e);
            mmix_error_clear(small);
            b[at] = was;
            mmix_reset(small);
        }
        bytes = mmix_memory(small).bytes;
        e = mmix_dino_load(small, "no_such_file");
        OK(!e && mmix_error_kind(small) == MMIX_ERROR_FILE);
        mmix_error_clear(small);
        mmix_destroy(small);
        free(b);
    }
    doing = "dino, wrong use";
    mmix_dino_destroy(NULL);
#define WRONG(change, text)                                              \
    do {                                                                 \
        c = small_dino(MMIX_SOFTMAX);                                    \
        change;                                                          \
        BAD(mmix_dino_create(m, c), "mmix_dino_create", text);           \
    } while (0)
    WRONG(c.batch = 0, "batch is 0, expected 1 to 2147483647");
    WRONG(c.teacher_temp = 0, "teacher_temp is 0");
    WRONG(c.head_layers = 9, "head_layers is 9, expected 1 to 8");
    WRONG(c.prototypes = 1, "prototypes is 1");
    WRONG(c.student_temp = NAN, "student_temp is");
    WRONG(c.epochs = (size_t)1 << 40, "epochs is");
    WRONG(c.iters = (size_t)1 << 40, "iters is");
    WRONG(c.clip = HUGE_VAL, "clip is inf");
    WRONG(c.lr = NAN, "lr is");
    WRONG(c.momentum = 1.5, "momentum is 1.5, expected 0 to 1");
    WRONG(c.center_momentum = -0.1, "center_momentum is");
    WRONG(c.weight_decay_end = HUGE_VAL, "weight_decay_end is inf");
#undef WRONG
    c = small_dino(MMIX_SOFTMAX);
    c.vision.heads = 3;
    BAD(mmix_dino_create(m, c), "3 heads", "");
    c = small_dino(MMIX_SOFTMAX);
    c.iters = 0;
    d = mmix_dino_create(m, c);
    BAD_INT(mmix_dino_step(d, NULL, 0, &s) == -1, "mmix_dino_step", "no pictures");
    BAD_INT(mmix_dino_step_crops(d, mmix_fill(mmix_new4(m, 4, 3, 16, 16), 0), NULL, &s) == -1, "mmix_dino_step_crops", "iters");
    IS(mmix_dino_step(d, pictures, PICTURES, &s), 1);
    IS(s.steps, 4 * (PICTURES / 4));
    mmix_reset(m);
    BAD_INT(mmix_dino_step_crops(d, mmix_fill(mmix_new4(m, 3, 3, 16, 16), 0), NULL, &s) == -1, "3 global", "mmix_dino_step");
    BAD_INT(mmix_dino_step_crops(d, mmix_fill(mmix_new4(m, 4, 3, 16, 16), 0), mmix_fill(mmix_new4(m, 3, 3, 8, 8), 0), &s) == -1, "3 local", "mmix_dino_step");
    BAD_INT(mmix_dino_step_crops(d, NULL, NULL, &s) == -1, "global is NULL", "mmix_dino_step");
    IS(mmix_dino_step_crops(d, mmix_randn(m, mmix_new4(m, 4, 3, 16, 16), 1, 1), NULL, &s), 1);       /* global crops alone */
    IS(s.step, 1);
    mmix_reset(m);
    IS(mmix_dino_save(d, "no_such_folder/x", NULL), -1);
    IS(mmix_error_kind(m), MMIX_ERROR_FILE);
    mmix_error_clear(m);
    {                                            /* a step that fails leaves the run as it was, gradients too */
        const uint64_t before = hash_dino(d, 1);
        real *x = &mmix_data(mmix_vision_params(mmix_dino_student(d))->at[2].tensor)[0], was = *x;
        mmix_params *head = mmix_dino_head_params(d, 0);
        *x = (real)NAN;
        BAD_INT(mmix_dino_step(d, pictures, PICTURES, &s) == -1, "not a number", "mmix_dino_step");
        *x = was;
        IS(hash_dino(d, 1) == before, 1);
        for (size_t i = 0; i < head->count; i++) OK(!head->at[i].tensor->written);
        IS(mmix_dino_step(d, pictures, PICTURES, &s), 1);
        OK(s.loss > 0 && s.gradient_norm > 0);
    }
    mmix_dino_destroy(d);
    mmix_reset(m);
    doing = "learning";
    for (int mixer = MMIX_SOFTMAX; mixer <= MMIX_SSD; mixer++) {
        double first = 0, end = 0;
        c = small_dino(mixer);
        c.epochs = 20;
        c.batch = 8;
        c.lr = 0.15;
        c.vision.drop_path = 0;
        c.freeze_last_layer = 0;
        c.momentum = 1;                          /* teacher and centre stay: else the target moves, and the loss with it */
        c.center_momentum = 1;
        d = mmix_dino_create(m, c);
        for (int i = 0; i < 60 && mmix_dino_step(d, pictures, PICTURES, &s) == 1; i++) {
            if (i < 10) first += s.loss / 10;
            if (i >= 50) end += s.loss / 10;
        }
        FINE(m);
        check(end < 0.8 * first && end > 0, "the loss falls", __LINE__, end, first);
        mmix_dino_destroy(d);
    }
    for (int k = 0; k < 2; k++) {                /* forced: an infinitely sure teacher; a teacher and student that know nothing */
        int reported = -1;
        doing = k ? "collapse to uniform" : "collapse to one";
        c = small_dino(MMIX_SOFTMAX);
        c.epochs = 20;
        c.lr = 0;
        c.min_lr = 0;
        c.teacher_temp = c.teacher_temp_warm = k ? 1e4 : 1e-7;
        if (k) c.student_temp = 1e4;
        d = mmix_dino_create(m, c);
        for (int i = 0; i < 60 && mmix_dino_step(d, pictures, PICTURES, &s) == 1; i++) if (s.collapse && reported < 0) reported = i;
        FINE(m);
        check(reported > 5 && reported < 60, "reported at step", __LINE__, reported, 49);
        if (s.collapse) OK(strstr(s.collapse, k ? "ln K" : "entropy") != NULL);
        if (k) NEAR(s.loss, log(24.0), 1e-3);
        mmix_dino_destroy(d);
    }
    FINE(m);
    mmix_destroy(m);
    remove(FILE_A);
    remove(FILE_B);
}

/* ---- every allocation fails once ---- */

static int whole_run(mmix_options *o, mmix_dino_config c)            /* 0: went through, else the kind of error */
{
    mmix_ctx *m = mmix_create(o);
    mmix_dino *d, *e = NULL;
    int kind, through;
    if (!m) return MMIX_ERROR_MEMORY;
    d = mmix_dino_create(m, c);
    mmix_record(m, c.vision.mixer == MMIX_SSD ? MMIX_RECORD_LAYERS : 0);
    through = d && mmix_dino_step(d, pictures, PICTURES, NULL) == 1 && !mmix_dino_save(d, FILE_A, "x");
    if (through) {
        mmix_reset(m);
        e = mmix_dino_load(m, FILE_A);
        through = e != NULL;
    }
    kind = through ? 0 : mmix_error_kind(m) ? mmix_error_kind(m) : -1;
    if (through && mmix_error(m)) kind = -2;
    if (!through) {                              /* the context still works */
        size_t fail_at = ((counter *)o->allocator.user)->fail_at;
        mmix_error_clear(m);
        mmix_reset(m);
        if (fail_at && !mmix_sum(m, mmix_fill(mmix_new2(m, 20, 20), 1))) kind = -3;
    }
    mmix_dino_destroy(e);
    mmix_dino_destroy(d);
    mmix_destroy(m);
    return kind;
}
/* mmix_mix_watch: every mixer of a model, in order, with its values; what look does leaves no trace. */
typedef struct watched { int count, kinds[8], directions[8], recording; double sum; size_t tokens; } watched;
static void look(void *user, mmix_ctx *m, const mmix_mixer *x)
{
    watched *w = (watched *)user;
    mmix_tensor *y = mmix_mix(m, x), *M = mmix_mix_matrix(m, x);             /* not watched again, not recorded */
    if (w->count < 8) { w->kinds[w->count] = x->kind; w->directions[w->count] = x->direction; }
    w->count++;
    w->recording |= mmix_record(m, 0);
    w->tokens = mmix_shape(M, 2);
    if (y) w->sum += (double)mmix_data(y)[0];
}
static void watching(void)
{
    mmix_ctx *m = context(2, 3);
    doing = "mmix_mix_watch";
    for (int mixer = MMIX_SOFTMAX; mixer <= MMIX_SSD; mixer++) {
        mmix_vision_config c = mixer == MMIX_SSD ? mmix_dinovim_tiny() : mmix_vit_tiny(8);
        mmix_vision *v;
        mmix_features f, g;
        mmix_tensor *image, *loss;
        watched w;
        memset(&w, 0, sizeof w);
        c.mixer = mixer; c.dim = 32; c.depth = 2; c.heads = 2; c.patch = 8; c.grid = 3; c.mamba.head_dim = 16;
        v = mmix_vision_create(m, c);
        mmix_params_train(mmix_vision_params(v), 1);
        image = mmix_randn(m, mmix_new4(m, 1, 3, 24, 24), 1, 1);
        f = mmix_vision_features(m, v, image);
        mmix_record(m, 1);
        mmix_mix_watch(m, look, &w);
        g = mmix_vision_features(m, v, image);
        mmix_mix_watch(m, NULL, NULL);
        loss = mmix_mean(m, g.token);
        mmix_record(m, 0);
        ALIKE(f.token, g.token, 20 * EPS);
        IS(w.count, mixer == MMIX_SSD ? 4 : 2);
        IS(w.tokens, mixer == MMIX_SSD ? 11 : 10);
        OK(!w.recording && w.kinds[0] == mixer && w.kinds[1] == mixer);
        if (mixer == MMIX_SSD) OK(w.directions[0] == MMIX_FORWARD && w.directions[1] == MMIX_REVERSE);
        OK(!mmix_backward(m, loss));
        FINE(m);
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    {                                            /* (B, L, heads, width): where token 2 of sequence 1 stands for head 5 of 6 */
        mmix_real room[2 * 4 * 3 * 5];
        const mmix_heads h = mmix_heads_plain(room, 4, 3, 5, 6);
        OK(h.p + h.batch + 2 * h.token + (ptrdiff_t)(5 / h.share) * h.head == room + ((1 * 4 + 2) * 3 + 2) * 5);
    }
    mmix_destroy(m);
}

/* Long sequences with decays from nothing to all against the recurrence in double: measured 1.4e-6 of the maximum in float at
   most, at every SIMD level. No NaN, no infinity. */
static void exactness(void)
{
    enum { L = 4096, H = 4, P = 5, N = 24 };
    mmix_ctx *m = context(2, 0);
    static double h[P * N];
    doing = "exactness";
    for (int trial = 0; trial < 6; trial++) {
        mmix_tensor *x = mmix_randn(m, mmix_new4(m, 1, L, H, P), 1, 1), *B = mmix_randn(m, mmix_new4(m, 1, L, 1, N), 0.2, 2);
        mmix_tensor *C = mmix_randn(m, mmix_new4(m, 1, L, 1, N), 1, 3), *dt = mmix_new3(m, 1, L, H), *A = mmix_new1(m, H), *y;
        mmix_mixer s = mmix_mixer_ssd(x, dt, A, B, C);
        double top = 0, error = 0;
        for (size_t i = 0; i < H; i++)           /* A from -1e-3 … -1 to -1 … -1000, dt from 1e-3 to 0.1 or to 100 */
            mmix_data(A)[i] = (real)(-pow(1000, mmix_random_uniform(m, 1, (uint64_t)trial, i)) * (trial % 3 == 1 ? 1e-3 : 1));
        for (size_t i = 0; i < L * H; i++) mmix_data(dt)[i] = (real)(1e-3 * pow(trial % 2 ? 1e5 : 1e2, mmix_random_uniform(m, 2, (uint64_t)trial, i)));
        s.chunk = trial == 4 ? 16 : trial == 5 ? L : 0;
        y = mmix_mix(m, &s);
        OK(y);
        for (size_t q = 0; y && q < H; q++) {
            memset(h, 0, sizeof h);
            for (size_t t = 0; t < L; t++) {
                const double d = (double)mmix_data(dt)[t * H + q], e = exp(d * (double)mmix_data(A)[q]);
                for (size_t p = 0; p < P; p++) {
                    double sum = 0, found = (double)mmix_data(y)[(t * H + q) * P + p];
                    for (size_t n = 0; n < N; n++) {
                        double *to = &h[p * N + n];
                        *to = e * *to + d * (double)mmix_data(x)[(t * H + q) * P + p] * (double)mmix_data(B)[t * N + n];
                        sum += *to * (double)mmix_data(C)[t * N + n];
                    }
                    top = fmax(top, fabs(sum));
                    error = found - found == 0 ? fmax(error, fabs(sum - found)) : HUGE_VAL;
                }
            }
        }
        check(error <= top * (sizeof(real) == 4 ? 4e-6 : 1e-13), "SSD against the recurrence", __LINE__, error, top);
        mmix_reset(m);
    }
    mmix_destroy(m);
}

/* The mixers' masks, steps and ranks. */
static int mixers_run(mmix_options *o)
{
    const size_t grid[2] = { 4, 6 }, window[2] = { 3, 2 }, two[2] = { 2, 24 };
    mmix_ctx *m = mmix_create(o);
    mmix_state *s, *copy = NULL;
    mmix_mixer x;
    mmix_mixer_rank rank;
    mmix_tensor *q, *k, *y[4], *pos, *dt;
    int kind;
    if (!m) return MMIX_ERROR_MEMORY;
    s = mmix_state_create(m, 3);
    mmix_record(m, 1);
    q = mmix_new4(m, 2, 24, 4, 6);
    k = mmix_new4(m, 2, 24, 2, 6);
    pos = mmix_new(m, MMIX_DTYPE_I32, 2, two);
    dt = mmix_new3(m, 2, 24, 4);
    if (q && k && pos && dt) {
        mmix_require_grad(mmix_randn(m, q, 1, 0));
        mmix_require_grad(mmix_randn(m, k, 1, 1));
        mmix_fill(dt, 0.1);
        for (size_t i = 0; i < 48; i++) mmix_data_i32(pos)[i] = (int32_t)(i / 5);
        x = mmix_mixer_softmax(mmix_rope(m, q, pos, NULL), mmix_rope(m, k, pos, NULL), k);
        mmix_mixer_windows(&x, 2, grid, window, 1);
        y[0] = mmix_mix(m, &x);
        x.window[0] = 0;
        x.mask = MMIX_MASK_BAND;
        x.left = 3;
        x.seq_idx = pos;
        y[1] = mmix_mix(m, &x);
        x.seq_idx = NULL;
        for (int i = 0; i < 3; i++) mmix_mix_step(m, &x, s, 0);
        x.kind = MMIX_LINEAR;
        x.mask = MMIX_MASK_CAUSAL;
        x.feature = MMIX_FEATURE_ELU1;
        y[2] = mmix_mix(m, &x);
        mmix_mix_step(m, &x, s, 1);
        x = mmix_mixer_ssd(k, dt, mmix_error(m) ? NULL : mmix_fill(mmix_new1(m, 4), -1), k, q);
        x.direction = MMIX_BOTH;
        y[3] = mmix_mix(m, &x);
        x.direction = MMIX_FORWARD;
        mmix_mix_step(m, &x, s, 2);
        copy = s ? mmix_state_copy(s) : NULL;
        if (copy) mmix_mix_step(m, &x, copy, 2);
        mmix_mix_rank(m, NULL, &x, NULL, &rank);
        if (!mmix_error(m)) mmix_backward(m, mmix_add(m, mmix_mean(m, mmix_add(m, y[0], y[1])), mmix_mean(m, mmix_add(m, y[2], y[3]))));
    }
    kind = mmix_error_kind(m);
    mmix_state_destroy(copy);
    mmix_state_destroy(s);
    mmix_destroy(m);
    return kind;
}
static void mixer_allocations(void)
{
    counter c;
    mmix_options o;
    size_t total;
    doing = "allocations (mixers)";
    memset(&c, 0, sizeof c);
    o = counted(&c);
    IS(mixers_run(&o), 0);
    IS(c.live, 0);
    total = c.calls;
    check(total > 15, "allocations counted", __LINE__, (double)total, 15);
    for (size_t n = 1; n <= total; n++) {
        memset(&c, 0, sizeof c);
        o = counted(&c);
        c.fail_at = n;
        IS(mixers_run(&o), MMIX_ERROR_MEMORY);
        if (c.live || c.wrong) check(0, "nothing left when allocation n fails", __LINE__, (double)n, (double)c.live);
    }
}

static void allocations(void)
{
    counter c;
    mmix_options o;
    size_t total, survived = 0;
    mmix_dino_config config = small_dino(MMIX_SOFTMAX);
    mixer_allocations();
    draw();
    for (int mixer = MMIX_SOFTMAX; mixer <= MMIX_SSD; mixer++) {
        doing = mixer == MMIX_SOFTMAX ? "allocations (softmax)" : mixer == MMIX_LINEAR ? "allocations (linear)" : "allocations (ssd)";
        config = small_dino(mixer);
        config.vision.depth = 1;
        config.batch = 1;
        config.iters = 2;
        config.augment.local_count = 1;
        memset(&c, 0, sizeof c);
        o = counted(&c);
        IS(whole_run(&o, config), 0);
        total = c.calls;
        IS(c.live, 0);
        IS(c.wrong, 0);
        check(total >= (MMIXI_BLOCK == 256 ? 200 : 60), "allocations counted", __LINE__, (double)total, 200);
        survived = 0;
        for (size_t n = 1; n <= total; n++) {
            int kind;
            memset(&c, 0, sizeof c);
            o = counted(&c);
            c.fail_at = n;
            kind = whole_run(&o, config);
            survived += kind == 0;
            if (kind && kind != MMIX_ERROR_MEMORY) check(0, "a clean error when allocation n fails", __LINE__, (double)n, kind);
            if (c.live || c.wrong) check(0, "nothing left when allocation n fails", __LINE__, (double)n, (double)c.live);
        }
        check(survived <= 6, "few failures are survived", __LINE__, (double)survived, 6);
        for (size_t n = 1; n <= total; n += mixer == MMIX_SOFTMAX ? 3 : 17) {        /* all after the n-th */
            int kind;
            memset(&c, 0, sizeof c);
            o = counted(&c);
            o.allocator.count_limit = n;
            kind = whole_run(&o, config);
            if (n < total && kind != MMIX_ERROR_MEMORY) check(0, "a clean error when memory ends after allocation n", __LINE__, (double)n, kind);
            if (c.live || c.wrong || c.calls > n) check(0, "nothing left when memory ends", __LINE__, (double)n, (double)c.live);
        }
        passed++;
    }
    remove(FILE_A);
}

typedef struct section { const char *name; void (*run)(void); } section;
/* What came of calls that are rare or refused. */
static void corners(void)
{
    doing = "corners";
    mmix_ctx *m = mmix_create(NULL);
    {                                            /* a gradient that is not finite: no list of a step is touched */
        const size_t n = 3;
        mmix_adamw_state pair[2];
        const mmix_adamw o = mmix_adamw_default();
        mmix_params *p[2];
        for (int i = 0; i < 2; i++) {
            p[i] = mmix_params_create(m);
            mmix_params_add(p[i], "", i ? "second" : "first", 1, &n, mmix_start_from(MMIX_START_CONSTANT, 1, 0));
            IS(mmix_params_allocate(p[i]) || mmix_adamw_init(&pair[i], p[i]), 0);
        }
        for (int bad = 1; bad >= 0; bad--) {
            mmix_record(m, 1);
            mmix_tensor *w = mmix_fill(mmix_new1(m, 3), 2);
            mmix_tensor *loss = mmix_add(m, mmix_sum(m, mmix_mul(m, p[0]->at[0].tensor, w)), mmix_sum(m, mmix_mul(m, p[1]->at[0].tensor, w)));
            mmix_backward(m, loss);
            if (bad) mmix_data(mmix_grad(p[1]->at[0].tensor))[1] = (real)HUGE_VAL;
            if (bad) BAD_INT(mmix_adamw_step(&pair[1], &o, 0, NULL) == 0, "mmix_adamw_step", "the gradient of second");
            if (bad) BAD_INT(mmixi_adamw_lists(m, pair, 2, &o, 0, NULL) == -1, "mmix_adamw_step", "the gradient of second");
            else NEAR(mmixi_adamw_lists(m, pair, 2, &o, 0, NULL), sqrt(24.0), 1e-5);
            for (int i = 0; i < 2; i++) {
                IS(pair[i].steps[0], !bad);
                IS(mmix_data(p[i]->at[0].tensor)[0] == 1, bad);
                IS(pair[i].m[0] == 0, bad);
                mmix_params_zero_grad(p[i]);
            }
            mmix_reset(m);
        }
        for (int i = 0; i < 2; i++) mmix_adamw_free(&pair[i]), mmix_params_destroy(p[i]);
        FINE(m);
    }
    {                                            /* bad input that is easily given */
        mmix_vision *v = mmix_vision_create(m, small_vision(MMIX_SSD)), *w;
        mmix_vision_config c = small_vision(MMIX_SSD);
        mmix_vision_options options;
        mmix_augment augment = mmix_augment_dino();
        mmix_tensor *x = mmix_fill(mmix_new2(m, 4, 3), 1);
        mmix_rank rank;
        real one = 1;
        int32_t zero = 0;
        double iou;
        memset(&options, 0, sizeof options);
        options.n_dense = 1;
        BAD(mmix_vision_forward(m, v, mmix_fill(mmix_new4(m, 1, 3, 16, 16), 0), &options).token, "mmix_vision_forward", "dense is NULL");
        BAD(mmix_dino_loss(m, x, x, NULL, 2, 1, 1, 0.9, NULL), "mmix_dino_loss", "center is NULL");
        IS(mmix_augment_crop(m, &one, &augment, (mmix_picture){ NULL, 8, 8 }, 0, 0, 0, &one), -1);
        BAD_INT(mmix_rank_of(m, NULL, &one, (size_t)1 << 40, (size_t)1 << 20, (size_t)1 << 20, &rank), "mmix_rank_of", "matrices");
        BAD_INT(mmix_binary_iou(m, &one, &zero, 1, NAN, 0, &iou), "mmix_binary_iou", "NaN");
        c.mamba.dt_high = HUGE_VAL;              /* a limit that is none is kept in the file */
        w = mmix_vision_create(m, c);
        IS(mmix_vision_save(m, w, FILE_A), 0);
        mmix_vision_destroy(v);
        v = mmix_vision_open(m, FILE_A);
        OK(v && mmix_vision_config_of(v)->mamba.dt_high > 1e38);
        {                                        /* no prefix may be NULL */
            mmix_archive *archive = mmix_archive_open(m, FILE_A);
            const char *text = mmix_params_compare(mmix_vision_params(v), archive, NULL);
            OK(text && !*text && mmix_params_read(mmix_vision_params(v), archive, NULL) == 0);
            mmix_archive_close(archive);
        }
        mmix_vision_destroy(v);
        mmix_vision_destroy(w);
        remove(FILE_A);
        FINE(m);
        mmix_reset(m);
    }
    {                                            /* a leaf is what no recorded op returned, an unrecorded one's result, too */
        mmix_tensor *x = mmix_require_grad(mmix_scale(m, mmix_fill(mmix_new1(m, 4), 1), 2, 0)), *kept = x;
        mmix_record(m, 1);
        mmix_mark mark = mmix_mark_here(m);
        for (int i = 0; i < 3; i++) {
            mmix_backward(m, mmix_sum(m, mmix_mul(m, x, x)));
            IS(mmix_data(mmix_grad(x))[0], 4);
            mmix_rewind(m, mark);
            OK(!mmix_grad(x));
        }
        mmix_rewind_keep(m, mark, &kept, 1);     /* and it stays one when it is moved */
        mmix_backward(m, mmix_sum(m, mmix_mul(m, kept, kept)));
        OK(mmix_grad(kept) && mmix_data(mmix_grad(kept))[3] == 4);
        FINE(m);
        mmix_reset(m);
    }
    {                                            /* the same tensor as two inputs */
        const size_t D = 2;
        mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new3(m, 2, 4, 2), 1)), *a, *b, *c, *w;
        mmix_tensor *token = mmix_reshape(m, mmix_slice(m, mmix_slice(m, x, 0, 0, 1), 1, 2, 1), 1, &D);
        mmix_backward(m, mmix_sum(m, mmix_insert_token(m, x, token, 0)));
        IS(mmix_data(mmix_grad(x))[4], 3);
        IS(mmix_data(mmix_grad(x))[0], 1);
        for (int way = 0; way < 2; way++) {
            a = mmix_require_grad(mmix_randn(m, mmix_new1(m, 8), 1, 5)), w = mmix_randn(m, mmix_new1(m, 8), 1, 6);
            b = mmix_require_grad(mmix_randn(m, mmix_new1(m, 8), 1, 5)), c = mmix_require_grad(mmix_randn(m, mmix_new1(m, 8), 1, 5));
            mmix_backward(m, mmix_sum(m, mmix_mul(m, w, way ? mmix_rms_norm(m, a, a, 1e-5) : mmix_layer_norm(m, a, a, a, 1e-5))));
            mmix_backward(m, mmix_sum(m, mmix_mul(m, w, way ? mmix_rms_norm(m, b, c, 1e-5) : mmix_layer_norm(m, b, c, c, 1e-5))));
            for (int i = 0; i < 8; i++) NEAR(mmix_data(mmix_grad(a))[i], mmix_data(mmix_grad(b))[i] + mmix_data(mmix_grad(c))[i], 1e-4);
        }
        FINE(m);
        mmix_reset(m);
    }
    {                                            /* a refused backward leaves nothing behind */
        mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 1)), *o[2], *g[2];
        o[0] = mmix_scale(m, x, 2, 0), o[1] = mmix_scale(m, x, 3, 0);
        g[0] = mmix_fill(mmix_new1(m, 3), 1), g[1] = mmix_fill(mmix_new1(m, 2), 1);
        BAD_INT(mmix_backward_from(m, o, g, 2), "gradient 1", "(2)");
        g[1] = g[0];
        mmix_backward_from(m, o, g, 2);
        IS(mmix_data(mmix_grad(x))[0], 5);
        BAD_INT(mmix_backward_from(m, o, g, 2), "mmix_backward", "consumed");
        mmix_reset(m);
    }
    mmix_record(m, 0);
    for (int band = 0; band < 2; band++) {       /* nor does a refused step */
        mmix_tensor *q = mmix_randn(m, mmix_new4(m, 1, 14, 2, 3), 1, 1), *k = mmix_randn(m, mmix_new4(m, 1, 14, 2, 3), 1, 2),
            *v = mmix_randn(m, mmix_new4(m, 1, 14, 2, 4), 1, 3), *wide = mmix_new4(m, 1, 3, 2, 5);
        mmix_mixer x = mmix_mixer_softmax(q, k, v), z;
        x.mask = band ? MMIX_MASK_BAND : MMIX_MASK_CAUSAL, x.left = 2;
        mmix_tensor *whole = mmix_mix(m, &x);
        mmix_state *s = mmix_state_create(m, 1);
        for (size_t t = 0; t < 14; t++) {
            z = x;
            z.q = mmix_slice(m, q, 1, t > 11 ? 11 : t, 3), z.k = mmix_slice(m, k, 1, t > 11 ? 11 : t, 3), z.v = wide;
            if (t) BAD(mmix_mix_step(m, &z, s, 0), "values", "carries");
            z.q = mmix_slice(m, q, 1, t, 1), z.k = mmix_slice(m, k, 1, t, 1), z.v = mmix_slice(m, v, 1, t, 1);
            mmix_tensor *y = mmix_mix_step(m, &z, s, 0), *same = mmix_slice(m, whole, 1, t, 1);
            for (size_t i = 0; y && i < 8; i++) NEAR(mmix_data(y)[i], mmix_data(same)[i], 1e-5);
        }
        FINE(m);
        mmix_state_destroy(s);
        mmix_reset(m);
    }
    {
        mmix_tensor *x = mmix_fill(mmix_new4(m, 1, 1, 4, 4), 1), *ends = mmix_new1(m, 3), *x3 = mmix_fill(mmix_new3(m, 2, 6, 1), 1), *one = mmix_fill(mmix_new2(m, 1, 1), 1);
        const double scales[] = {1e-17, -1, NAN, INFINITY};
        for (int i = 0; i < 4; i++) {
            BAD(mmix_bilinear_resize(m, x, 2, 2, scales[i], 1), "mmix_bilinear_resize", "scales");
            BAD(mmix_bicubic_resize(m, x, 2, 2, 1, scales[i]), "mmix_bicubic_resize", "scales");
        }
        BAD(mmix_state_create(m, (size_t)1 << 61), "mmix_state_create", "slots");
        mmix_data(ends)[0] = (real)INFINITY, mmix_data(ends)[1] = (real)-INFINITY, mmix_data(ends)[2] = (real)NAN;
        mmix_require_grad(ends);
        mmix_record(m, 1);
        mmix_tensor *y = mmix_gelu(m, ends);
        OK(mmix_data(y)[0] > 1e30 && mmix_data(y)[1] == 0 && mmix_data(y)[2] != mmix_data(y)[2]);
        mmix_backward(m, mmix_sum(m, mmix_slice(m, y, 0, 0, 2)));
        IS(mmix_data(mmix_grad(ends))[0], 1);
        IS(mmix_data(mmix_grad(ends))[1], 0);
        mmix_record(m, 0);
        BAD(mmix_linear_add(m, x3, one, NULL, x3, mmix_fill(mmix_new1(m, 3), 1)), "mmix_linear_add", "s has 3 numbers, expected 2");
        BAD(mmix_linear_add(m, x3, one, NULL, mmix_fill(mmix_new3(m, 6, 2, 1), 1), NULL), "mmix_linear_add", "residual (6, 2, 1)");
        FINE(m);
    }
    {
        char name[400];
        const size_t huge[1] = {(size_t)1 << 60}, two[1] = {2};
        mmix_params *p = mmix_params_create(m), *q = mmix_params_create(m);
        memset(name, 'n', sizeof name), name[399] = 0;
        BAD(mmix_params_add(p, "", name, 1, two, mmix_start_from(MMIX_START_CONSTANT, 0, 0)), "mmix_params_add", "more");
        BAD(mmix_params_add(p, "", NULL, 1, two, mmix_start_from(MMIX_START_CONSTANT, 0, 0)), "mmix_params_add", "NULL");
        for (int i = 0; i < 8 && !mmix_error(m); i++) {
            name[8] = 0, name[0] = (char)('a' + i);
            mmix_params_add(p, "", name, 1, huge, mmix_start_from(MMIX_START_CONSTANT, 0, 0));
        }
        OK(mmix_error_kind(m) == MMIX_ERROR_MEMORY && strstr(mmix_error(m), "too large"));
        mmix_error_clear(m);
        mmix_params_add(q, "", "w", 1, two, mmix_start_from(MMIX_START_CONSTANT, 0, 0));
        BAD_INT(mmix_ema(q, q, 0.5), "mmix_ema", "mmix_params_allocate");
        mmix_params_destroy(p), mmix_params_destroy(q);
    }
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "contexts", contexts }, { "arguments", bad_arguments }, { "corners", corners }, { "random", randomness }, { "lifetimes", lifetimes },
        { "tensors", tensors }, { "attention", attention_invariants }, { "ssd", ssd_invariants }, { "parameters", parameters }, { "packing", packing }, { "schedules", schedules },
        { "optimiser", optimiser }, { "losses", losses }, { "backbones", backbones }, { "watching", watching }, { "exactness", exactness }, { "threads", same_bits }, { "dino", dino }, { "allocations", allocations } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; a++) wanted |= !strcmp(argv[a], all[i].name);
        if (wanted) all[i].run();
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
