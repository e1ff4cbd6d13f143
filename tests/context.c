/* context.c - contexts, errors, limits of memory, random numbers */
#include "test.h"

static void kept_error(mmix_ctx *m)
{
    mmix_tensor *x = mmix_fill(mmix_new2(m, 2, 3), 1);
    char longer[1000];
    CHECK(x != NULL);
    mmix_fail(m, MMIX_ERROR_DEVICE, "x");
    CHECK(!mmix_add(m, x, x) && !mmix_linear(m, x, x, NULL) && !mmix_slice(m, x, 0, 0, 1)
          && !mmix_sum(m, x) && !mmix_mean(m, x));
    mmix_error_clear(m);
    memset(longer, 'a', sizeof longer);
    longer[999] = 0;
    mmix_fail(m, MMIX_ERROR_FILE, "%s", longer);
    CHECK(strlen(mmix_error(m)) > 100 && strlen(mmix_error(m)) < 1000);
    mmix_error_clear(m);
}
static void contexts(void)
{
    counter c;
    mmix_options o;
    mmix_ctx *m;
    mmix_memory_use use;
    doing("context");
    m = mmix_create(NULL);
    CHECK(m != NULL);
    CHECK(mmix_threads(m) >= 1 && mmix_threads(m) <= 64);
    CHECK(mmix_simd_name(m) != NULL);
    CHECK(mmix_error(m) == NULL && mmix_error_kind(m) == MMIX_OK);
    CHECK(mmix_error(NULL) != NULL && mmix_error_kind(NULL) == MMIX_ERROR_MEMORY);
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
        for (int i = 0; i < 5; i++)
            x = mmix_silu(m, x);
        mmix_backward(m, mmix_mean(m, x));
        use = mmix_memory(m);
        IS(use.bytes, c.bytes);
        IS(use.allocations, c.calls);
        CHECK(use.peak >= use.bytes);
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
    CHECK(mmix_new2(m, 1000, 10) != NULL);
    CHECK(mmix_new2(m, 4000, 4000) == NULL);
    IS(mmix_error_kind(m), MMIX_ERROR_MEMORY);
    CHECK(c.bytes <= 4 << 20);
    mmix_error_clear(m);
    CHECK(mmix_new2(m, 10, 10) != NULL);
    mmix_destroy(m);
    IS(c.live, 0);
    for (size_t n = 1; n < 8; n++) {
        memset(&c, 0, sizeof c);
        o = counted(&c);
        o.allocator.count_limit = n;
        m = mmix_create(&o);
        for (int i = 0; m && i < 30 && !mmix_error(m); i++)
            mmix_new2(m, 1000, 700);
        if (m) IS(mmix_error_kind(m), MMIX_ERROR_MEMORY);
        CHECK(c.calls <= n);
        if (m) {
            mmix_error_clear(m);
            CHECK(!mmix_new2(m, 3000, 3000) && mmix_error_kind(m) == MMIX_ERROR_MEMORY);
        }
        mmix_destroy(m);
        IS(c.live, 0);
        IS(c.wrong, 0);
    }
    /* the first message is kept; ops return NULL meanwhile */
    m = context(1, 0);
    IS(mmix_fail(m, MMIX_ERROR_INTERRUPTED, "my op: %d of %s", 3, "four"), -1);
    mmix_fail(m, MMIX_ERROR_FILE, "second");
    CHECK(!strcmp(mmix_error(m), "my op: 3 of four"));
    IS(mmix_error_kind(m), MMIX_ERROR_INTERRUPTED);
    CHECK(mmix_new1(m, 3) == NULL);
    CHECK(mmix_params_create(m) == NULL);
    CHECK(mmix_vision_create(m, mmix_vision_config_vit(192, 16)) == NULL);
    CHECK(mmix_dino_create(m, mmix_dino_config_small_data()) == NULL);
    CHECK(mmix_backward(m, NULL) == -1);
    CHECK(!strcmp(mmix_error(m), "my op: 3 of four"));
    mmix_error_clear(m);
    kept_error(m);
    mmix_destroy(m);
}

/* What the functions of a context do without one. */
static void no_context(void)
{
    const mmix_op_functions none = { NULL, NULL };
    mmix_mark mark = mmix_mark_here(NULL);
    doing("NULL for a context");
    CHECK(mark.nodes == 0 && !mark.graded && mark.step.block == 0);
    mmix_rewind(NULL, mark);
    mmix_reset(NULL);
    mmix_error_clear(NULL);
    IS(mmix_fail(NULL, MMIX_ERROR_ARGUMENT, "%d", 1), -1);
    IS(mmix_memory(NULL).bytes, 0);
    mmix_memory_peak_clear(NULL);
    IS(mmix_threads(NULL), 0);
    CHECK(!strcmp(mmix_simd_name(NULL), ""));
    mmix_parallel_for(NULL, 3, NULL, NULL);
    mmix_seed_set(NULL, 3);
    IS(mmix_seed(NULL), 0);
    CHECK(mmix_random_uniform(NULL, 1, 2, 3) < 1 && mmix_random_u32(NULL, 1, 2, 3)
          && fabs(mmix_random_normal(NULL, 1, 2, 3)) < 9);
    IS(mmix_record(NULL, 1), 0);
    IS(mmix_op_set(NULL, MMIX_OP_ADD, &none), -1);
    CHECK(!mmix_op_get(NULL, MMIX_OP_ADD).forward && !mmix_op_user(NULL)
          && !mmix_op_calls(NULL, MMIX_OP_ADD, 0));
    mmix_op_user_set(NULL, NULL);
    CHECK(!mmix_save_for_backward(NULL, NULL, 0, 1) && !mmix_fill_normal(NULL, NULL, 1, 0)
          && !mmix_new1(NULL, 3) && !mmix_fill(NULL, 1));
    CHECK(mmix_rewind_keep(NULL, mark, NULL, 0) && mmix_backward(NULL, NULL)
          && !mmix_slice(NULL, NULL, 0, 0, 1));
    CHECK(!mmix_custom_op(NULL, NULL, 0, 0, NULL, none, NULL));
}

/* What is computed in an op takes subnormals for zeros, as the comments say; what a caller
   computes does not. */
static void subnormals(void)
{
    mmix_ctx *m = context(1, 0);
    const double tiny = sizeof(real) == 4 ? 1e-38 : 1e-308;
    volatile real small_one = (real)tiny;
    doing("subnormals");
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__TINYC__)
    CHECK(mmix_item(mmix_log(m, mmix_fill(mmix_new1(m, 1), tiny))) == -HUGE_VAL);
    IS(mmix_item(mmix_sqrt(m, mmix_fill(mmix_new1(m, 1), tiny))), 0);
    IS(mmix_item(mmix_sum(m, mmix_fill(mmix_new1(m, 2), tiny / 100))), 0);
#endif
    CHECK(small_one * 2 > 0);
    FINE(m);
    mmix_destroy(m);
}

/* ---- random numbers ---- */

/* An error that is wrapped in the next, and one without a kind. */
static void errors_again(void)
{
    mmix_ctx *m = context(1, 0);
    doing("mmix_fail");
    mmix_fail(m, MMIX_ERROR_FILE, "it is %d bytes short", 12);
    const char *why = mmix_error(m);
    mmix_error_clear(m);
    mmix_fail(m, MMIX_ERROR_FILE, "cat.png: %s", why);
    CHECK(!strcmp(mmix_error(m), "cat.png: it is 12 bytes short"));
    mmix_error_clear(m);
    IS(mmix_fail(m, MMIX_OK, "no kind"), -1);
    IS(mmix_error_kind(m), MMIX_ERROR_ARGUMENT);
    mmix_error_clear(m);
    mmix_parallel_for(m, 10, NULL, NULL);
    CHECK(says(m, MMIX_ERROR_ARGUMENT, "mmix_parallel_for: task is NULL"));
    mmix_destroy(m);
}
/* Nearly all of a limit can be had: a block is larger than what is asked for only where that is to
   be had. */
static void near_the_limit(void)
{
    const size_t limit = (size_t)64 << 20, bytes = (size_t)4 << 20;
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    o.allocator.byte_limit = limit;
    mmix_ctx *m = mmix_create(&o);
    size_t n = 0;
    doing("a limit of 64 MiB");
    while (mmix_new1(m, bytes / sizeof(real))) n++;
    CHECK(says(m, MMIX_ERROR_MEMORY, "memory"));
    CHECK(n * bytes >= limit - limit / 8);
    mmix_destroy(m);
}
#if !defined(MMIX_NO_SIMD) && (defined(__x86_64__) || defined(_M_X64))
#include <xmmintrin.h>
static void mode_of(void *arg, size_t i) { ((unsigned *)arg)[i] = _mm_getcsr() & 0x8040u; }
/* Tasks count subnormals as their caller does. */
static void modes(void)
{
    mmix_ctx *m = context(2, 0);
    const unsigned was = _mm_getcsr();
    unsigned mode[64];
    doing("a caller's own mode");
    for (int flushes = 0; flushes < 2; flushes++) {
        const unsigned own = flushes ? 0x8040u : 0;
        _mm_setcsr((was & ~0x8040u) | own);
        mmix_parallel_for(m, 64, mode_of, mode);
        IS(_mm_getcsr() & 0x8040u, own);
        for (int i = 0; i < 64; i++) IS(mode[i], own);
    }
    _mm_setcsr(was);
    mmix_destroy(m);
}
#else
static void modes(void) { }
#endif
static void randomness(void)
{
    mmix_ctx *m = context(1, 5), *n = context(2, 5);
    double sum[5] = { 0, 0, 0, 0, 0 }, mean = 0, low = 1, high = 0;
    int bins[10] = { 0 }, count = 100000;
    doing("random");
    IS(mmix_random_u32(m, 1, 2, 3), mmix_random_u32(n, 1, 2, 3));
    CHECK(mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, 2, 4)
          && mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, 3, 3)
          && mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 2, 2, 3));
    CHECK(mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, 2, ((uint64_t)1 << 32) | 3)
          && mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(m, 1, ((uint64_t)1 << 32) | 2, 3));
    mmix_seed_set(n, (uint64_t)5 << 32);
    CHECK(mmix_random_u32(m, 1, 2, 3) != mmix_random_u32(n, 1, 2, 3));
    for (int i = 0; i < count; i++) {
        double u = mmix_random_uniform(m, 1, 0, (uint64_t)i);
        double z = mmix_random_normal(m, 2, 0, (uint64_t)i);
        if (u < low) low = u;
        if (u > high) high = u;
        mean += u / count;
        bins[(int)(u * 10)]++;
        for (int k = 1; k < 5; k++)
            sum[k] += pow(z, k) / count;
    }
    CHECK(low >= 0 && low < 1e-3 && high < 1 && high > 0.999);
    NEAR(mean, 0.5, 0.005);
    for (int k = 0; k < 10; k++)
        NEAR(bins[k], count / 10, 500);
    NEAR(sum[1], 0, 0.015);
    NEAR(sum[2], 1, 0.025);
    NEAR(sum[3], 0, 0.05);
    NEAR(sum[4], 3, 0.15);
    {
        mmix_tensor *a = mmix_fill_normal(m, mmix_new2(m, 5, 8), 2, 1);
        mmix_tensor *b = mmix_fill_normal(m, mmix_slice(m, mmix_new2(m, 5, 11), 1, 2, 8), 2, 1);
        mmix_tensor *c = mmix_fill_normal(m, mmix_new2(m, 5, 8), 2, 2);
        SAME(a, b);                              /* strides do not matter */
        CHECK(apart(a, c) > 0.1);
    }
    mmix_destroy(m);
    mmix_destroy(n);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "contexts", contexts },
                                   { "no_context", no_context },
                                   { "subnormals", subnormals },
                                   { "errors", errors_again },
                                   { "limit", near_the_limit },
                                   { "modes", modes },
                                   { "random", randomness } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
