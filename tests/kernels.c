/* The inner loops of every SIMD level this machine has, our exp, log, sin, cos and erfc, and the
   matrix product, against plain loops in long double. Arguments: the levels to test; none: all.
   Prints a line for each failing check, then a summary; exits 1 if anything failed. */
#include "test.h"
#include <tgmath.h>

#ifdef __aarch64__
/* long double is software there: minutes in an emulator */
typedef double wide;
#else
typedef long double wide;
#endif

static const mmixi_kernels *k;                   /* the level under test */
static const double ROUNDING = sizeof(real) == 4 ? 5.97e-8 : 1.12e-16;

static void check(int ok, const char *what, size_t n, double got, double expected)
{
    if (ok) {
        passed++;
        return;
    }
    failed++;
    if (failed < 200)
        printf("FAILED %s: %s, n = %d: %.9g, expected %.9g\n", k ? k->name : "math", what, (int)n,
               got, expected);
}
/* |got - expected| <= tolerance; NaN fails */
static void close_to(const char *what, size_t n, double got, wide expected, wide tolerance)
{
    check(fabs((wide)got - expected) <= tolerance, what, n, got, (double)expected);
}

static uint32_t noise_state = 1;
static double noise(void)                      /* [-1, 1) */
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return (double)(noise_state >> 8) / 8388608.0 - 1;
}

enum { ROOM = 20000, GUARD = 64 };
static real buffer[15][ROOM + 2 * GUARD];
/* Array `slot`, odd alignment, NaN all round; filled with numbers of size `scale`. */
static real *array(int slot, size_t n, double scale)
{
    real *a = buffer[slot];
    for (size_t i = 0; i < n + 2 * GUARD; i++)
        a[i] = (real)NAN;
    a += GUARD - slot % 3;
    for (size_t i = 0; i < n; i++)
        a[i] = (real)(noise() * scale);
    return a;
}
static void intact(const char *what, size_t n, const real *a)
{
    int ok = 1;
    for (int i = 1; i < 40; i++)
        ok = ok && isnan((double)a[-i]) && isnan((double)a[(int)n - 1 + i]);
    check(ok, what, n, 0, 0);
}

/* ---- our mathematics ---- */

static void mathematics(void)
{
    k = NULL;
    for (int i = 0; i < 20000; i++) {
        double x = noise() * 700;
        double y = fabs(x) + 1e-300;
        double z = noise() * (i & 1 ? 1e5 : 10);
        double t = noise() * 1e-3;
        wide e = exp((wide)x), l = log((wide)y);
        close_to("exp", 0, mmixi_exp(x), e, e * (wide)3e-16L);
        close_to("exp small", 0, mmixi_exp(t), exp((wide)t), (wide)3e-16L);
        close_to("log", 0, mmixi_log(y), l, fabs(l) * (wide)3e-16L);
        close_to("log near 1", 0, mmixi_log(1 + t), log((wide)(1 + t)),
                 fabs(log((wide)(1 + t))) * (wide)3e-16L);
        close_to("log1p", 0, mmixi_log1p(t), log1p((wide)t), fabs((wide)t) * (wide)6e-16L);
        close_to("log1p", 0, mmixi_log1p(y), log1p((wide)y), log1p((wide)y) * (wide)6e-16L);
        close_to("sin", 0, mmixi_sin(z), sin((wide)z),
                 fabs(sin((wide)z)) * (wide)4e-16L + (wide)1e-19L);
        close_to("cos", 0, mmixi_cos(z), cos((wide)z),
                 fabs(cos((wide)z)) * (wide)4e-16L + (wide)1e-19L);
        z = noise() * 13 + 13;
        close_to("erfc", 0, mmixi_erfc(z), erfc((wide)z), erfc((wide)z) * (wide)1e-14L);
        close_to("erfc negative", 0, mmixi_erfc(-z / 4), erfc((wide)(-z / 4)), (wide)1e-15L);
    }
    check(mmixi_exp(-746) == 0 && mmixi_exp(0) == 1 && mmixi_exp(710) == HUGE_VAL, "exp ends", 0, 0,
          0);
    check(isnan(mmixi_exp((double)NAN)) && isnan(mmixi_log(-1.0)), "exp, log: NaN", 0, 0, 0);
    check(mmixi_log(1) == 0 && mmixi_log(0) == -HUGE_VAL && mmixi_log(HUGE_VAL) == HUGE_VAL,
          "log ends", 0, 0, 0);
    check(mmixi_log1p(0) == 0 && mmixi_log1p(-1) == -HUGE_VAL && mmixi_log1p(HUGE_VAL) == HUGE_VAL,
          "log1p", 0, 0, 0);
    check(mmixi_sin(0) == 0 && mmixi_cos(0) == 1, "sin", 0, 0, 0);
    check(mmixi_erfc(0) == 1 && mmixi_erfc(40) == 0 && mmixi_erfc(-40) == 2, "erfc", 0, 0, 0);
}

/* ---- functions: accuracy over their whole range ---- */

static void function(const char *what, void (*f)(size_t, const real *, real *), wide (*exact)(wide),
                     double from, double to, wide relative, wide absolute)
{
    enum { N = 20000 };
    real *x = array(0, N, 1), *y = array(1, N, 1);
    for (size_t i = 0; i < N; i++)
        x[i] = (real)(from + (to - from) * (double)i / (N - 1));
    f(N, x, y);
    for (size_t i = 0; i < N; i++) {
        wide e = exact((wide)x[i]);
        close_to(what, i, (double)y[i], e, relative * fabs(e) + absolute);
    }
}
static void slope(const char *what, void (*f)(size_t, const real *, const real *, real *, int),
                  wide (*exact)(wide), double from, double to, wide relative, wide absolute)
{
    enum { N = 20000 };
    real *x = array(0, N, 1);
    real *dy = array(1, N, 1);
    real *dx = array(2, N, 1);
    for (size_t i = 0; i < N; i++) {
        x[i] = (real)(from + (to - from) * (double)i / (N - 1));
        dx[i] = (real)NAN;
    }
    f(N, x, dy, dx, 0);
    for (size_t i = 0; i < N; i++) {
        wide e = exact((wide)x[i]);
        close_to(what, i, (double)dx[i], (wide)dy[i] * e,
                 fabs((wide)dy[i]) * (relative * fabs(e) + absolute));
    }
}
static void exp_down(size_t n, const real *x, real *y) { k->exp_row(n, 1, x, 0, y); }
static wide exp_wide(wide x) { return exp(x); }
static wide silu(wide x) { return x / (1 + exp(-x)); }
static wide silu_slope(wide x)
{
    wide s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}
static wide rates(wide x) { return -exp_wide(x); }
static wide normal(wide x) { return (wide)0.5L * erfc(-x * (wide)0.70710678118654752440L); }
static wide gelu(wide x) { return x * normal(x); }
static wide gelu_slope(wide x)
{
    return normal(x) + x * (wide)0.39894228040143267794L * exp(-x * x / 2);
}
static wide gelu_tanh(wide x)                    /* x σ(2u), as its limits allow */
{
    wide u = (wide)1.59576912160573071176L * (x + (wide)0.044715L * x * x * x);
    return x / (1 + exp(-u));
}
static wide gelu_tanh_slope(wide x)
{
    wide u = (wide)1.59576912160573071176L * (x + (wide)0.044715L * x * x * x);
    wide s = 1 / (1 + exp(-u));
    wide rise = (wide)1.59576912160573071176L * (1 + (wide)0.134145L * x * x);
    return s + x * s * (1 - s) * rise;
}
static wide softplus(wide x) { return x > 20 ? x : log1p(exp(x)); }
static wide softplus_slope(wide x) { return x > 20 ? 1 : 1 / (1 + exp(-x)); }

static void functions(void)
{
    const wide e = (wide)ROUNDING;
    const wide tiny = sizeof(real) == 4 ? (wide)1.2e-38L : (wide)1e-300L;
    real x[8], y[8], dy[8];
    function("exp", k->exp_each, exp_wide, -87, 88.7, (wide)2.6L * e, 0);
    function("exp", k->exp_each, exp_wide, -1, 1, (wide)2.2L * e, 0);
    function("rates", k->rates, rates, -87, 88.7, (wide)2.6L * e, 0);
    function("exp_row", exp_down, exp_wide, -87, 88, (wide)2.6L * e, 0);
    function("silu", k->silu, silu, -80, 80, 6 * e, 0);
    function("gelu", k->gelu, gelu, -2, 2, sizeof(real) == 4 ? 12 * e : 120 * e, 0);
    function("gelu", k->gelu, gelu, -9, 9, sizeof(real) == 4 ? (wide)5e-6L : 120 * e, tiny);
    function("gelu", k->gelu, gelu, -1e4, 1e4, sizeof(real) == 4 ? (wide)5e-6L : 120 * e,
             (wide)1e-35L);
    function("gelu_tanh", k->gelu_tanh, gelu_tanh, -2, 4, 30 * e, 0);
    function("gelu_tanh", k->gelu_tanh, gelu_tanh, -9, 4, 200 * e, 0);
    function("softplus", k->softplus, softplus, -80, 40, 6 * e, 0);
    function("softplus", k->softplus, softplus, -1e4, 1e4, 6 * e, tiny);
    slope("silu slope", k->silu_backward, silu_slope, -80, 80, 20 * e, 2 * e);
    slope("gelu slope", k->gelu_backward, gelu_slope, -12, 12, 20 * e, 4 * e);
    slope("gelu slope", k->gelu_backward, gelu_slope, -9, -2,
          sizeof(real) == 4 ? (wide)5e-6L : 120 * e, 0);
    slope("gelu_tanh slope", k->gelu_tanh_backward, gelu_tanh_slope, -9, 12, 200 * e, 8 * e);
    slope("softplus slope", k->softplus_backward, softplus_slope, -80, 40, 6 * e, 0);
    /* e^-80 = 1.80485e-35 */
    for (int i = 0; i < 8; i++)
        dy[i] = (real)(1.8 + 0.0012 * i) * (real)1e-35;
    for (int i = 0; i < 8; i++)
        x[i] = 1;
    {
        enum { LD = 16 };
        real e[LD] = { 0 }, ones[LD], s[2 * LD], F[2 * LD], M[2 * LD];
        for (int i = 0; i < 2 * LD; i++)
            s[i] = ones[i % LD] = 1;
        for (int i = 0; i < 8; i++) {
            e[1] = dy[i];
            k->ssd_weights(2, LD, e, ones, s, F, M);
            check(F[LD] == (i < 5 ? 0 : dy[i]) && M[LD] == F[LD], "ssd_weights near e^-80",
                  (size_t)i, (double)F[LD], (double)dy[i]);
        }
    }
    for (int i = 0; i < 8; i++)
        dy[i] = 1;
    for (int sign = -1; sign <= 1; sign += 2) {
        int ok = 1;
        double size = 14;
        for (int i = 0; i < 8; i++, size *= 3)
            x[i] = (real)(sign * size);          /* to 30,000 */
        k->scale(8, -1, x, y);
        k->exp_each(8, y, y);
        for (int i = 0; sizeof(real) == 4 && i < 8; i++)
            ok = ok && (y[i] == 0 || y[i] >= (real)1.17e-38);
        k->silu(8, x, y);
        for (int i = 0; i < 8; i++)
            ok = ok && fabs((double)(y[i] - (sign > 0 ? x[i] : 0))) < 2e-5 * fabs((double)x[i]);
        k->gelu(8, x, y);
        for (int i = 0; i < 8; i++)
            ok = ok && fabs((double)(y[i] - (sign > 0 ? x[i] : 0))) < 2e-5;
        k->gelu_backward(8, x, dy, y, 0);
        for (int i = 0; i < 8; i++)
            ok = ok && fabs((double)(y[i] - (sign > 0))) < 2e-5;
        k->silu_backward(8, x, dy, y, 0);
        for (int i = 0; i < 8; i++)
            ok = ok && fabs((double)(y[i] - (sign > 0))) < 2e-5;
        k->gelu_tanh(8, x, y);
        for (int i = 0; i < 8; i++)
            ok = ok && fabs((double)(y[i] - (sign > 0 ? x[i] : 0))) < 2e-5;
        k->gelu_tanh_backward(8, x, dy, y, 0);
        for (int i = 0; i < 8; i++)
            ok = ok && fabs((double)(y[i] - (sign > 0))) < 2e-5;
        check(ok, "far tails", 8, 0, 0);
    }
    x[0] = (real)-HUGE_VAL;
    x[1] = (real)HUGE_VAL;
    x[2] = (real)NAN;
    x[3] = (real)-87.4;
    x[4] = 0;
    x[5] = 1000;
    x[6] = -1000;
    k->exp_each(7, x, y);
    check(y[0] == 0 && y[1] == (real)HUGE_VAL && isnan((double)y[2]), "exp of infinities", 7,
          (double)y[0], 0);
    k->silu(3, x, dy);
    k->gelu(3, x, y);
    check(isnan((double)y[2]) && isnan((double)dy[2]), "silu, gelu: NaN stays", 3, (double)y[2],
          NAN);
    k->gelu_tanh(3, x, y);
    check(isnan((double)y[2]), "gelu_tanh: NaN stays", 3, (double)y[2], NAN);
    k->softplus(3, x, y);
    check(y[0] == 0 && y[1] == (real)HUGE_VAL && isnan((double)y[2]), "softplus of infinities", 3,
          (double)y[2], NAN);
    k->exp_each(7, x, y);
    check(sizeof(real) == 8 || y[3] == 0, "exp: no subnormal", 7, (double)y[3], 0);
    check(y[4] == 1 && y[5] == (real)HUGE_VAL && y[6] == 0, "exp at the ends", 7, (double)y[5], 0);
    /* NaN of other bits */
    for (uint32_t bits = 0x7fc00001; sizeof(real) == 4 && bits;
         bits = bits == UINT32_MAX ? 0 : UINT32_MAX) {
        for (int i = 0; i < 7; i++)
            memcpy(&x[i], &bits, 4);
        k->exp_each(7, x, y);
        k->exp_row(7, 1, x, 0, dy);
        for (int i = 0; i < 7; i++)
            check(isnan((double)y[i]) && isnan((double)dy[i]), "exp of any NaN", 7, (double)y[i],
                  NAN);
    }
    x[0] = (real)-HUGE_VAL;
    x[2] = (real)NAN;
    x[3] = (real)-87.4;
    x[4] = 0;
    x[6] = -1000;
    x[1] = -1000;
    x[5] = -1000;
    k->exp_row(7, 1, x, 0, y);
    check(y[0] == 0 && y[1] == 0 && isnan((double)y[2]) && (sizeof(real) == 8 || y[3] == 0)
              && y[4] == 1,
          "exp_row at the ends", 7, (double)y[0], 0);
    close_to("exp_real", 0, (double)mmixi_exp_real((real)-1.25), exp(-(wide)1.25L), (wide)2.2L * e);
}

/* ---- rows ---- */

/* What rounding may do to a sum, relative to the sum of the terms' sizes. */
static wide sum_rounding(size_t n)
{
    return (wide)ROUNDING * (20 + (wide)0.5L * sqrt((wide)n));
}
static void copy_row(real *to, const real *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}
/* What a gradient is written to: numbers that it is added to, or NaN that it replaces. */
static void gradient_row(real *to, const real *old, size_t n, int add)
{
    for (size_t i = 0; i < n; i++)
        to[i] = add ? old[i] : (real)NAN;
}

/* In the functions that follow e is the bound for numbers of about 1, se that for sums. */
static void row_sums(size_t n)
{
    const wide se = sum_rounding(n);
    real *x = array(0, n, 2);
    real *y = array(1, n, 2);
    real *z = array(2, n, 2);
    const real mean = (real)0.3;
    wide s = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        s += (wide)x[i] * (wide)y[i];
        size += fabs((wide)x[i] * (wide)y[i]);
    }
    close_to("dot", n, (double)k->dot(n, x, y), s, se * size);
    s = 0;
    size = 0;
    for (size_t i = 0; i < n; i++) {
        s += (wide)x[i];
        size += fabs((wide)x[i]);
    }
    close_to("sum", n, (double)k->sum(n, x), s, se * size);
    s = -HUGE_VALL;
    for (size_t i = 0; i < n; i++)
        if ((wide)x[i] > s)
            s = (wide)x[i];
    check((wide)k->largest(n, x) == s, "max", n, (double)k->largest(n, x), (double)s);
    for (size_t i = 0; i < n; i++)
        z[i] = x[i] - 5;                        /* all negative: a dead lane must not count as 0 */
    check(k->largest(n, z) == (n ? (real)s - 5 : (real)-HUGE_VAL), "max of negatives", n,
          (double)k->largest(n, z), (double)s - 5);
    s = 0;
    for (size_t i = 0; i < n; i++)
        s += ((wide)x[i] - (wide)mean) * ((wide)x[i] - (wide)mean);
    close_to("variance", n, (double)k->variance(n, x, mean), s, se * s);
}
static void row_arithmetic(size_t n)
{
    const wide e = 40 * (wide)ROUNDING;
    real *x = array(0, n, 2);
    real *y = array(1, n, 2);
    real *z = array(2, n, 2);
    real *old = array(6, n, 2);
    const real a = (real)0.7;

    copy_row(z, old, n);
    k->axpy(n, a, x, z);
    for (size_t i = 0; i < n; i++)
        close_to("axpy", n, (double)z[i], (wide)a * (wide)x[i] + (wide)old[i], e);
    k->scale(n, a, x, z);
    for (size_t i = 0; i < n; i++)
        check(z[i] == a * x[i], "scale", n, (double)z[i], (double)(a * x[i]));
    k->scale(n, a, z, z);
    for (size_t i = 0; i < n; i++)
        check(z[i] == a * (a * x[i]), "scale in place", n, (double)z[i], 0);
    copy_row(z, old, n);
    k->lerp(n, a, x, z);
    for (size_t i = 0; i < n; i++)
        close_to("lerp", n, (double)z[i], (wide)a * (wide)old[i] + (1 - (wide)a) * (wide)x[i], e);
    k->add(n, x, y, z);
    for (size_t i = 0; i < n; i++)
        check(z[i] == x[i] + y[i], "add", n, (double)z[i], (double)(x[i] + y[i]));
    k->mul(n, x, y, z);
    for (size_t i = 0; i < n; i++)
        check(z[i] == x[i] * y[i], "mul", n, (double)z[i], (double)(x[i] * y[i]));
    copy_row(z, old, n);
    k->mul_add(n, x, y, z);
    for (size_t i = 0; i < n; i++)
        close_to("mul_add", n, (double)z[i], (wide)x[i] * (wide)y[i] + (wide)old[i], e);
    for (int form = 0; form < 2; form++) {
        copy_row(z, old, n);
        k->finish(n, a, form ? y : NULL, z);
        for (size_t i = 0; i < n; i++)
            close_to("finish", n, (double)z[i], (wide)old[i] * (wide)a + (form ? (wide)y[i] : 0),
                      e);
    }
}
static void row_exponentials(size_t n)
{
    const wide e = 40 * (wide)ROUNDING;
    const wide se = sum_rounding(n);
    real *x = array(0, n, 2), *z = array(2, n, 2);
    const real a = (real)0.7;
    const real mean = (real)0.3;
    wide s;
    real got;

    got = k->exp_row(n, a, x, mean, z);
    s = 0;
    for (size_t i = 0; i < n; i++) {
        close_to("exp_row", n, (double)z[i], exp((wide)a * (wide)x[i] - (wide)mean), 4 * e);
        s += (wide)z[i];
    }
    close_to("exp_row sum", n, (double)got, s, se * s);
    intact("edges: exp_row", n, z);
    if (n) {
        wide top = -HUGE_VALL;
        for (size_t i = 0; i < n; i++)
            if ((wide)x[i] > top)
                top = (wide)x[i];
        s = 0;
        for (size_t i = 0; i < n; i++)
            s += exp((wide)x[i] - top);
        k->softmax(n, x, z);
        for (size_t i = 0; i < n; i++)
            close_to("softmax", n, (double)z[i], exp((wide)x[i] - top) / s, 4 * e / s);
        intact("edges: softmax", n, z);
    }
}
/* An activation, its backward and itself in place. */
static void activation(const char *name, void (*f)(size_t, const real *, real *),
                       void (*backward)(size_t, const real *, const real *, real *, int),
                       wide (*exact)(wide), wide (*exact_slope)(wide), size_t n, int add)
{
    const wide e = 40 * (wide)ROUNDING;
    real *x = array(0, n, 2);
    real *y = array(1, n, 2);
    real *z = array(2, n, 2);
    real *old = array(6, n, 2);
    char what[64];

    f(n, x, z);
    for (size_t i = 0; i < n; i++)
        close_to(name, n, (double)z[i], exact((wide)x[i]), e);
    gradient_row(z, old, n, add);
    backward(n, x, y, z, add);
    snprintf(what, sizeof what, "%s_backward", name);
    for (size_t i = 0; i < n; i++) {
        const wide before = add ? (wide)old[i] : 0;
        close_to(what, n, (double)z[i], (wide)y[i] * exact_slope((wide)x[i]) + before, 4 * e);
    }
    copy_row(z, x, n);
    f(n, z, z);
    snprintf(what, sizeof what, "%s in place", name);
    for (size_t i = 0; i < n; i++)
        close_to(what, n, (double)z[i], exact((wide)x[i]), e);
    snprintf(what, sizeof what, "edges: %s", name);
    intact(what, n, z);
}
static void row_activations(size_t n)
{
    for (int add = 0; add < 2; add++) {
        activation("silu", k->silu, k->silu_backward, silu, silu_slope, n, add);
        activation("gelu", k->gelu, k->gelu_backward, gelu, gelu_slope, n, add);
        activation("gelu_tanh", k->gelu_tanh, k->gelu_tanh_backward, gelu_tanh, gelu_tanh_slope, n,
                   add);
        activation("softplus", k->softplus, k->softplus_backward, softplus, softplus_slope, n, add);
    }
}
/* With and without weights, bias, their gradients; into numbers and beside them. */
static void row_normalize(size_t n)
{
    const wide e = 40 * (wide)ROUNDING;
    const wide se = sum_rounding(n);
    real *x = array(0, n, 2);
    real *y = array(1, n, 2);
    real *z = array(2, n, 2);
    real *w = array(3, n, 2);
    real *u = array(4, n, 2);
    real *v = array(5, n, 2);
    real *old = array(6, n, 2);
    const real mean = (real)0.3, rstd = (real)1.7;
    wide s, s2, size, size2;
    real got, got2;

    for (int form = 0; form < 16; form++) {
        const real *fw = form & 1 ? w : NULL;
        const real *fb = form & 2 ? y : NULL;
        const int add = form >> 2 & 1;
        real *dw = form & 2 ? u : NULL;
        real *db = form & 8 ? v : NULL;
        k->normalize(n, x, mean, rstd, fw, fb, z);
        for (size_t i = 0; i < n; i++) {
            wide xhat = ((wide)x[i] - (wide)mean) * (wide)rstd;
            if (fw) xhat *= (wide)w[i];
            if (fb) xhat += (wide)y[i];
            close_to("normalize", n, (double)z[i], xhat, e);
        }
        k->normalize_sums(n, y, x, mean, rstd, fw, &got, &got2);
        s = 0;
        s2 = 0;
        size = 0;
        size2 = 0;
        for (size_t i = 0; i < n; i++) {
            wide g = (wide)y[i] * (fw ? (wide)w[i] : 1);
            wide gx = g * ((wide)x[i] - (wide)mean) * (wide)rstd;
            s += g;
            s2 += gx;
            size += fabs(g);
            size2 += fabs(gx);
        }
        close_to("normalize_sums g", n, (double)got, s, se * size);
        close_to("normalize_sums gx", n, (double)got2, s2, se * size2);
        gradient_row(z, old, n, add);
        copy_row(u, old, n);
        copy_row(v, old, n);
        k->normalize_backward(n, y, x, mean, rstd, fw, (real)0.1, (real)-0.2, z, add, dw, db);
        for (size_t i = 0; i < n; i++) {
            wide xhat = ((wide)x[i] - (wide)mean) * (wide)rstd;
            wide g = (wide)y[i] * (fw ? (wide)w[i] : 1);
            wide d = (wide)rstd * (g - (wide)(real)0.1 - xhat * (wide)(real)-0.2);
            close_to("normalize_backward dx", n, (double)z[i], d + (add ? (wide)old[i] : 0), 2 * e);
            close_to("normalize_backward dw", n, (double)u[i],
                     (wide)old[i] + (dw ? (wide)y[i] * xhat : 0), e);
            close_to("normalize_backward db", n, (double)v[i], (wide)old[i] + (db ? (wide)y[i] : 0),
                     e);
        }
    }
    intact("edges: normalize", n, z);
}
/* Three taps, weights in rows of ldw; the middle one may be out. */
static void row_conv(size_t n)
{
    const wide e = 40 * (wide)ROUNDING;
    real *x = array(0, n, 2);
    real *y = array(1, n, 2);
    real *z = array(2, n, 2);
    real *w = array(3, n, 2);
    real *u = array(4, n, 2);
    real *v = array(5, n, 2);
    real *more = array(7, n, 2);

    for (int form = 0; form < 4; form++) {
        const real *taps[3], *bias = form & 1 ? more : NULL;
        const size_t ldw = n + 3;
        real *cw = array(6, 3 * ldw < ROOM ? 3 * ldw : ROOM, 1);
        if (3 * ldw > ROOM) break;
        taps[0] = x;
        taps[1] = form & 2 ? NULL : y;
        taps[2] = w;
        k->conv(n, 3, taps, cw, ldw, bias, z);
        for (size_t i = 0; i < n; i++) {
            wide s0 = (bias ? (wide)more[i] : 0) + (wide)x[i] * (wide)cw[i]
                      + (wide)w[i] * (wide)cw[2 * ldw + i];
            if (taps[1])
                s0 += (wide)y[i] * (wide)cw[ldw + i];
            close_to("conv", n, (double)z[i], s0, 2 * e);
        }
        intact("edges: conv", n, z);
        for (size_t i = 0; i < 3 * ldw; i++)
            cw[i] = 1;
        copy_row(v, more, n);
        k->conv_weight(n, 3, u, taps, cw, ldw, v);
        for (size_t i = 0; i < n; i++) {
            close_to("conv_weight db", n, (double)v[i], (wide)more[i] + (wide)u[i], 2 * e);
            close_to("conv_weight dw", n, (double)cw[i], 1 + (wide)u[i] * (wide)x[i], 4 * e);
            close_to("conv_weight dw", n, (double)cw[ldw + i],
                     1 + (taps[1] ? (wide)u[i] * (wide)y[i] : 0), 4 * e);
            close_to("conv_weight dw", n, (double)cw[2 * ldw + i], 1 + (wide)u[i] * (wide)w[i],
                     4 * e);
        }
        for (size_t i = 0; i < 3 * ldw; i++)
            if (i % ldw >= n)
                check(cw[i] == 1, "edges: conv_weight", n, (double)cw[i], 1);
    }
}
static void row_softmax_backward(size_t n)
{
    const wide e = 40 * (wide)ROUNDING;
    real *x = array(0, n, 2);
    real *y = array(1, n, 2);
    real *z = array(2, n, 2);
    real *old = array(6, n, 2);
    const real mean = (real)0.3;

    for (int add = 0; add < 2; add++) {
        gradient_row(z, old, n, add);
        k->softmax_backward(n, x, y, mean, z, add);
        for (size_t i = 0; i < n; i++)
            close_to("softmax_backward", n, (double)z[i],
                      (wide)x[i] * ((wide)y[i] - (wide)mean) + (add ? (wide)old[i] : 0), e);
        intact("edges: softmax_backward", n, z);
    }
}
static void row_adamw(size_t n)
{
    const wide e = 40 * (wide)ROUNDING;
    real *x = array(0, n, 2);
    real *y = array(1, n, 2);
    real *z = array(2, n, 2);
    real *w = array(3, n, 2);
    real *u = array(4, n, 2);
    real *v = array(5, n, 2);
    real *old = array(6, n, 2), *more = array(7, n, 2);

    copy_row(z, old, n);
    copy_row(u, more, n);
    for (size_t i = 0; i < n; i++)
        v[i] = (real)fabs((double)w[i]);
    copy_row(y, v, n);
    k->adamw(n, z, x, u, v, (real)0.5, (real)0.99, (real)0.01, (real)0.9, (real)0.1, (real)0.95,
             (real)0.05, (real)1.5, (real)1e-3);
    for (size_t i = 0; i < n; i++) {
        wide g = (wide)0.5L * (wide)x[i];
        wide mo = (wide)(real)0.9 * (wide)more[i] + (wide)(real)0.1 * g;
        wide v2 = (wide)(real)0.95 * (wide)y[i] + (wide)(real)0.05 * g * g;
        close_to("adamw m", n, (double)u[i], mo, e);
        close_to("adamw v", n, (double)v[i], v2, e);
        g = (wide)(real)0.01 * mo / (sqrt(v2) * (wide)1.5L + (wide)(real)1e-3);
        close_to("adamw p", n, (double)z[i], (wide)old[i] * (wide)(real)0.99 - g, e);
    }
    intact("edges: adamw p", n, z);
    intact("edges: adamw m", n, u);
    intact("edges: adamw v", n, v);
}
static void row(size_t n)
{
    row_sums(n);
    row_arithmetic(n);
    row_exponentials(n);
    row_activations(n);
    row_normalize(n);
    row_conv(n);
    row_softmax_backward(n);
    row_adamw(n);
}

/* ---- blocks ---- */

/* A noise_state of three rows against the loop. */
static void ssd_step(size_t n)
{
    const wide se = (wide)ROUNDING * (20 + (wide)0.5L * sqrt((wide)n));
    real *b = array(0, n, 2);
    real *c = array(1, n, 2);
    real *h = array(2, 3 * n, 2);
    real *old = array(3, 3 * n, 2);
    real *x = array(4, 3, 1);
    real *y = array(5, 3, 1);
    memcpy(old, h, 3 * n * sizeof *h);
    k->ssd_step(3, n, (real)0.9, x, b, c, h, y);
    for (size_t p = 0; p < 3; p++) {
        wide sum = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            wide expected = (wide)(real)0.9 * (wide)old[p * n + i] + (wide)x[p] * (wide)b[i];
            wide read = (wide)h[p * n + i] * (wide)c[i];
            close_to("ssd_step noise_state", n, (double)h[p * n + i], expected, (wide)ROUNDING * 8);
            sum += read;
            size += fabs(read);
        }
        close_to("ssd_step output", n, (double)y[p], sum, se * size);
    }
    intact("edges: ssd_step noise_state", 3 * n, h);
    intact("edges: ssd_step output", 3, y);
}

/* A chunk of the selective scan against the recurrence, forward and backward; rows of B and C lie
   apart. `size` is the recurrence with all terms positive. */
enum { SELECTIVE = 33 * 48 };
typedef struct scan_sums { wide y[SELECTIVE], step[SELECTIVE], delta[SELECTIVE]; } scan_sums;
static void selective_loop(const mmixi_selective_chunk *c, const real *h0, const real *dh0,
                           int size, scan_sums *out, wide *end, wide *dh, wide *dA, wide *dB,
                           wide *dC)
{
    static wide h[34 * 48];
    memset(out, 0, sizeof *out);
    memset(dB, 0, c->q * c->N * sizeof *dB);
    memset(dC, 0, c->q * c->N * sizeof *dC);
#define TERM(v) (size ? fabs((wide)(v)) : (wide)(v))
    for (size_t s = 0; s < c->N; s++) {
        const size_t row = s * c->n;
        for (size_t i = 0; i < c->n; i++) {
            h[i] = TERM(h0[row + i]);
            dh[row + i] = TERM(dh0[row + i]);
            dA[row + i] = TERM(c->dA[row + i]);
        }
        for (size_t t = 0; t < c->q; t++)
            for (size_t i = 0; i < c->n; i++) {
                const size_t at = t * c->n + i;
                const wide b = TERM(c->B[(ptrdiff_t)t * c->B_token + (ptrdiff_t)s]);
                const wide of = TERM(c->C[(ptrdiff_t)t * c->C_token + (ptrdiff_t)s]);
                h[at + c->n] = exp((wide)c->delta[at] * (wide)c->A[row + i]) * h[at]
                               + TERM(c->step[at]) * b;
                out->y[at] += of * h[at + c->n];
            }
        for (size_t i = 0; i < c->n; i++)
            end[row + i] = h[c->q * c->n + i];
        for (size_t t = c->q; t-- > 0;)
            for (size_t i = 0; i < c->n; i++) {
                const size_t at = t * c->n + i;
                const wide a = TERM(c->A[row + i]);
                wide *g = dh + row + i;
                *g += TERM(c->dy[at]) * TERM(c->C[(ptrdiff_t)t * c->C_token + (ptrdiff_t)s]);
                dC[t * c->N + s] += TERM(c->dy[at]) * h[at + c->n];
                dB[t * c->N + s] += *g * TERM(c->step[at]);
                out->step[at] += *g * TERM(c->B[(ptrdiff_t)t * c->B_token + (ptrdiff_t)s]);
                *g *= exp((wide)c->delta[at] * (wide)c->A[row + i]);
                dA[row + i] += *g * h[at] * TERM(c->delta[at]);
                out->delta[at] += *g * h[at] * a;
            }
    }
#undef TERM
}
static void selective_near(const char *what, size_t n, const real *got, const wide *expected,
                           const wide *size, wide bound)
{
    for (size_t i = 0; i < n; i++)
        close_to(what, n, (double)got[i], expected[i], bound * size[i] + (wide)1e-30L);
}
static void selective(size_t q, size_t n, size_t N, int grows, int wants_y)
{
    enum { STATE = 17 * 48, RANKS = 33 * 17 };
    static scan_sums sums, sizes;
    static wide want[2][5][STATE > RANKS ? STATE : RANKS];
    static real h0[STATE], dh0[STATE];
    const wide bound = (wide)ROUNDING * (40 + 4 * (wide)q + 4 * (wide)N + (wide)n);
    mmixi_selective_chunk c;
    real *A = array(0, N * n, 2), *delta = array(1, q * n, 1);
    for (size_t i = 0; i < N * n; i++)
        if (!grows) A[i] = (real)-fabs((double)A[i]);
    for (size_t i = 0; i < q * n; i++)
        if (!grows) delta[i] = (real)fabs((double)delta[i]);
    if (grows) delta[0] = (real)0.3;
    memset(&c, 0, sizeof c);
    c.q = q;
    c.n = n;
    c.N = N;
    c.grows = grows;
    c.A = A;
    c.delta = delta;
    c.step = array(2, q * n, 1);
    c.B_token = (ptrdiff_t)N + 2;
    c.C_token = -(ptrdiff_t)N - 1;               /* tokens from the last to the first */
    c.B = array(3, q * (N + 2), 1);
    c.C = array(4, q * (N + 1), 1) + (q - 1) * (N + 1);
    c.h = array(5, N * n, 1);
    c.y = array(6, q * n, 1);
    c.dy = array(7, q * n, 1);
    c.dh = array(8, N * n, 1);
    c.d_step = array(9, q * n, 1);
    c.d_delta = array(10, q * n, 1);
    c.dA = array(11, N * n, 1);
    c.dB = array(12, q * N, 1);
    c.dC = array(13, q * N, 1);
    c.room = array(14, q * 4 * MMIXI_SELECTIVE_STATES * MMIXI_CHANNELS, 1);
    memcpy(h0, c.h, N * n * sizeof *h0);
    memcpy(dh0, c.dh, N * n * sizeof *dh0);
    for (int of_size = 0; of_size < 2; of_size++)
        selective_loop(&c, h0, dh0, of_size, of_size ? &sizes : &sums, want[of_size][0],
                       want[of_size][1], want[of_size][2], want[of_size][3], want[of_size][4]);
    k->selective_forward(&c);
    selective_near("selective_forward y", q * n, c.y, sums.y, sizes.y, bound);
    selective_near("selective_forward h", N * n, c.h, want[0][0], want[1][0], bound);
    intact("edges: selective_forward y", q * n, c.y);
    intact("edges: selective_forward h", N * n, c.h);
    memcpy(c.h, h0, N * n * sizeof *h0);
    for (size_t i = 0; i < q * n; i++) c.y[i] = (real)NAN;
    real *y = c.y;
    if (!wants_y) c.y = NULL;
    k->selective_backward(&c);
    if (wants_y) selective_near("selective_backward y", q * n, y, sums.y, sizes.y, bound);
    check(!memcmp(c.h, h0, N * n * sizeof *h0), "selective_backward keeps h", n, 0, 1);
    selective_near("selective_backward dh", N * n, c.dh, want[0][1], want[1][1], bound);
    selective_near("selective_backward dA", N * n, c.dA, want[0][2], want[1][2], bound);
    selective_near("selective_backward dB", q * N, c.dB, want[0][3], want[1][3], bound);
    selective_near("selective_backward dC", q * N, c.dC, want[0][4], want[1][4], bound);
    selective_near("selective_backward d_step", q * n, c.d_step, sums.step, sizes.step, bound);
    selective_near("selective_backward d_delta", q * n, c.d_delta, sums.delta, sizes.delta, bound);
    intact("edges: selective_backward y", q * n, y);
    intact("edges: selective_backward dh", N * n, c.dh);
    intact("edges: selective_backward d_step", q * n, c.d_step);
    intact("edges: selective_backward d_delta", q * n, c.d_delta);
    intact("edges: selective_backward dA", N * n, c.dA);
    intact("edges: selective_backward dB", q * N, c.dB);
    intact("edges: selective_backward dC", q * N, c.dC);
    intact("edges: selective_backward room",
           q * 4 * MMIXI_SELECTIVE_STATES * MMIXI_CHANNELS, c.room);
}
/* An exponent beyond e^x's range: infinity where the state is not 0, and 0 on the other side. */
static void selective_extreme(void)
{
    real A[MMIXI_CHANNELS], one[MMIXI_CHANNELS], h[MMIXI_CHANNELS], y[MMIXI_CHANNELS], zero = 0;
    mmixi_selective_chunk c;
    for (size_t i = 0; i < MMIXI_CHANNELS; i++) {
        A[i] = (real)(i % 2 ? 1000 : -1000);
        one[i] = 1;
        h[i] = (real)1e-30;
    }
    memset(&c, 0, sizeof c);
    c.q = c.N = 1;
    c.n = MMIXI_CHANNELS;
    c.grows = 1;
    c.A = A;
    c.delta = c.step = one;
    c.B = &zero;
    c.C = one;
    c.h = h;
    c.y = y;
    k->selective_forward(&c);
    for (size_t i = 0; i < MMIXI_CHANNELS; i++)
        check(i % 2 ? isinf((double)y[i]) && y[i] > 0 : y[i] == 0, "selective_forward, extreme", i,
              (double)y[i], i % 2 ? HUGE_VAL : 0);
}
/* States as they lie outside: the recurrence of one token, with the bits of selective_forward. */
static void selective_step(size_t channels, size_t N, int grows)
{
    const size_t n = (channels + MMIXI_CHANNELS - 1) / MMIXI_CHANNELS * MMIXI_CHANNELS;
    real *A = array(0, channels * N, 2), *delta = array(1, n, 1), *step = array(2, n, 1);
    real *b = array(3, N, 1), *h = array(4, channels * N, 1);
    real *turned = array(5, N * n, 1), *turned_h = array(6, N * n, 1), *y = array(7, n, 1);
    real *before = array(8, channels * N, 1);
    mmixi_selective_chunk c;
    memset(&c, 0, sizeof c);
    for (size_t i = 0; i < channels * N; i++)
        if (!grows) A[i] = (real)-fabs((double)A[i]);
    for (size_t i = 0; i < n; i++)
        delta[i] = (real)fabs((double)delta[i]);
    for (size_t i = 0; i < N * n; i++) turned[i] = turned_h[i] = 0;
    for (size_t i = 0; i < channels * N; i++) {
        const size_t at = i % N * n + i / N;
        before[i] = h[i];
        turned[at] = A[i];
        turned_h[at] = h[i];
    }
    k->selective_step(channels, N, grows, A, delta, step, b, h);
    c.q = 1;
    c.n = n;
    c.N = N;
    c.grows = grows;
    c.A = turned;
    c.delta = delta;
    c.step = step;
    c.B = c.C = b;
    c.h = turned_h;
    c.y = y;
    k->selective_forward(&c);
    for (size_t i = 0; i < channels * N; i++) {
        const size_t d = i / N;
        const wide kept = exp((wide)delta[d] * (wide)A[i]) * (wide)before[i];
        const wide added = (wide)step[d] * (wide)b[i % N];
        close_to("selective_step", N, (double)h[i], kept + added,
                 (wide)ROUNDING * 16 * (fabs(kept) + fabs(added)));
        check(h[i] == turned_h[i % N * n + d], "selective_step, bits", N, (double)h[i],
              (double)turned_h[i % N * n + d]);
    }
    intact("edges: selective_step", channels * N, h);
}
static void selective_all(void)
{
    for (size_t N = 1; N <= 49; N++)
        selective_step(1 + N % 5 * 7, N, N % 3 == 0);
    static const size_t tokens[] = { 1, 2, 3, 8, 33 };
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
        for (size_t N = 1; N <= 17; N++)
            selective(tokens[t], MMIXI_CHANNELS * (1 + N % 3), N, N % 2, t % 2);
    selective(9, MMIXI_CHANNELS, 16, 0, 1);
    selective_extreme();
}

/* What ssd_weights_backward makes of column i, and of exponent i, by the formulas. */
static void ssd_chunk_sums(size_t q, size_t ld, const real *dM, const real *F, const real *s,
                           const real *dt, size_t i, real ddt, real da)
{
    const wide se = (wide)ROUNDING * (40 + sqrt((wide)q));
    wide column = 0, exponent = 0, column_size = 0, exponent_size = 0;
    for (size_t a = i; a < q; a++)
        for (size_t b = 0; b <= i; b++) {
            wide delta = (wide)dM[a * ld + b] * (wide)F[a * ld + b] * (wide)s[a * ld + b];
            if (b == i) {
                column += delta;
                column_size += fabs(delta);
            } else {
                exponent += delta * (wide)dt[b];
                exponent_size += fabs(delta * (wide)dt[b]);
            }
        }
    close_to("ssd_weights_backward ddt", q, (double)ddt, column, se * column_size);
    close_to("ssd_weights_backward da", q, (double)da, exponent, se * exponent_size);
}
/* The matrices of an SSD chunk of q tokens, and back. What lies right of the diagonal, and dt behind
   its end, is NaN at first. */
static void ssd_chunk(size_t q)
{
    const size_t ld = (q + 15) / 16 * 16;
    const wide rounding = (wide)ROUNDING;
    real *e = array(0, 4 * q, 1), *dt = e + q, *ddt = dt + q, *da = ddt + q;
    real *s = array(1, q * ld, 1), *F = array(2, q * ld, 1), *M = array(3, q * ld, 1);
    real *dM = array(4, q * ld, 1), *ds = array(5, q * ld, 1), *old = array(6, q * ld, 1);
    for (size_t i = 0; i < q; i++) {
        e[i] = (real)(i % 11 == 10 ? 1e-9 : fabs((double)e[i]));
        dt[i] = (real)fabs((double)dt[i]);
        for (size_t j = i + 1; j < ld; j++)
            s[i * ld + j] = dM[i * ld + j] = F[i * ld + j] = M[i * ld + j] = (real)NAN;
    }
    memcpy(ds, old, q * ld * sizeof *ds);
    k->ssd_weights(q, ld, e, dt, s, F, M);
    intact("edges: ssd_weights F", q * ld, F);
    intact("edges: ssd_weights M", q * ld, M);
    for (size_t i = 0; i < q; i++) {
        for (size_t j = 0; j <= i; j++) {
            wide f = j < i ? (wide)e[i] * (wide)F[(i - 1) * ld + j] : 1;
            if (f < (wide)1.80485138e-35L) f = 0;
            wide weight = f * (wide)s[i * ld + j] * (wide)dt[j];
            close_to("ssd_weights F", q, (double)F[i * ld + j], f, f * rounding * 2);
            close_to("ssd_weights M", q, (double)M[i * ld + j], weight, fabs(weight) * rounding * 6);
        }
        for (size_t j = i + 1; j < q && j < i + k->mr; j++)
            check(M[i * ld + j] == 0, "ssd_weights right of the diagonal", q,
                  (double)M[i * ld + j], 0);
    }
    k->ssd_weights_backward(q, ld, dM, F, s, dt, ds, ddt, da);
    intact("edges: ssd_weights_backward", q * ld, ds);
    intact("edges: ssd_weights_backward ddt, da", 4 * q, e);
    for (size_t i = 0; i < q; i++) {
        ssd_chunk_sums(q, ld, dM, F, s, dt, i, ddt[i], da[i]);
        for (size_t j = 0; j <= i; j++) {
            wide u = (wide)dM[i * ld + j] * (wide)F[i * ld + j];
            wide sum = (wide)old[i * ld + j] + u * (wide)dt[j];
            close_to("ssd_weights_backward ds", q, (double)ds[i * ld + j], sum, 8 * rounding);
        }
        for (size_t j = i + 1; j < q && j < i + k->mr; j++)
            check(ds[i * ld + j] == old[i * ld + j], "ssd_weights_backward right of the diagonal",
                  q, (double)ds[i * ld + j], (double)old[i * ld + j]);
    }
}
/* Rows of n numbers times a number each, and back; rows of x and of dx lie 3 and 5 numbers more
   apart. */
static void scaled_rows(size_t n)
{
    enum { ROWS = 3 };
    const size_t ldx = n + 3, lddx = n + 5;
    const wide rounding = (wide)ROUNDING;
    real *w = array(0, 2 * ROWS, 1), *along = w + ROWS;
    real *x = array(1, ROWS * ldx, 1), *y = array(2, ROWS * n, 1), *g = array(3, ROWS * n, 1);
    real *dx = array(4, ROWS * lddx, 1), *old = array(5, ROWS * lddx, 1);
    memcpy(dx, old, ROWS * lddx * sizeof *dx);
    k->scale_rows(ROWS, n, w, x, (ptrdiff_t)ldx, y);
    k->scale_rows_backward(ROWS, n, w, g, x, (ptrdiff_t)ldx, dx, (ptrdiff_t)lddx, along);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t i = 0; i < n; i++) {
            wide product = (wide)w[r] * (wide)x[r * ldx + i];
            wide sum = (wide)old[r * lddx + i] + (wide)w[r] * (wide)g[r * n + i];
            close_to("scale_rows", n, (double)y[r * n + i], product, 2 * rounding);
            close_to("scale_rows_backward", n, (double)dx[r * lddx + i], sum, 4 * rounding);
        }
        check(along[r] == k->dot(n, g + r * n, x + r * ldx), "scale_rows_backward along", n,
              (double)along[r], 0);
        for (size_t i = n; i < lddx; i++)
            check(dx[r * lddx + i] == old[r * lddx + i], "edges: scale_rows_backward", n, 0, 0);
    }
    intact("edges: scale_rows", ROWS * n, y);
    intact("edges: scale_rows_backward", ROWS * lddx, dx);
}

/* Dot products with rows that lie `gap` numbers apart, and the weighted sum of these rows. The dot
   products have the bits of `dot`. */
static void weighted_rows(size_t n, size_t rows, size_t gap)
{
    const size_t ld = n + gap;
    const wide se = (wide)ROUNDING * 2 * (4 + sqrt((wide)rows));
    real *a = array(0, rows * ld, 1);
    real *w = array(1, rows, 1);
    real *x = array(2, n, 1);
    real *y = array(3, rows, 1);
    real *z = array(4, n, 1);
    real *old = array(5, n, 1);
    memcpy(old, z, n * sizeof *z);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = n; j < ld; j++)
            a[i * ld + j] = (real)NAN;
    k->dots(n, rows, x, a, (ptrdiff_t)ld, y);
    for (size_t i = 0; i < rows; i++) {
        const real one = k->dot(n, x, a + i * ld);
        check(!memcmp(&one, &y[i], sizeof one), "dots", n, (double)y[i], (double)one);
    }
    k->weigh(n, rows, w, a, (ptrdiff_t)ld, z);
    for (size_t j = 0; j < n; j++) {
        wide sum = old[j], size = fabs((wide)old[j]);
        for (size_t i = 0; i < rows; i++) {
            const wide product = (wide)w[i] * (wide)a[i * ld + j];
            sum += product;
            size += fabs(product);
        }
        close_to("weigh", n, (double)z[j], sum, se * size);
    }
    intact("edges: dots", rows, y);
    intact("edges: weigh", n, z);
}
static void weighted_rows_all(void)
{
    static const size_t rows[] = { 0, 1, 2, 31, 32, 33, 70 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t n = 1; n < 270; n += n < 70 ? 1 : 13)
            weighted_rows(n, rows[i], n % 3);
    weighted_rows(4097, 4, 3);
}

static void transposes(void)
{
    for (size_t rows = 0; rows < 36; rows++)
        for (size_t cols = 0; cols < 36; cols++) {
            const size_t ldx = cols + rows % 3, ldy = rows + cols % 2;
            real *x = array(0, rows * ldx, 1);
            real *y = array(1, cols * ldy, 0);
            int ok = 1;
            for (size_t i = 0; i < cols * ldy; i++)
                y[i] = (real)NAN;
            k->transpose(rows, cols, x, (ptrdiff_t)ldx, y, (ptrdiff_t)ldy);
            for (size_t j = 0; j < cols; j++)
                for (size_t i = 0; i < ldy; i++)
                    ok = ok
                         && (i < rows ? y[j * ldy + i] == x[i * ldx + j]
                                      : isnan((double)y[j * ldy + i]));
            check(ok, "transpose", rows * 100 + cols, 0, 0);
            intact("edges: transpose", cols * ldy, y);
        }
}

/* c[i ldc + j] for a (rows x depth), b (depth x cols): plain loops, and the largest error a
   product of that depth may have. */
static void product(const char *what, size_t rows, size_t cols, size_t depth, const real *a,
                    ptrdiff_t ars, ptrdiff_t acs, const real *b, ptrdiff_t brs, ptrdiff_t bcs,
                    const real *c, ptrdiff_t ldc, const real *before, const real *after)
{
    int ok = 1;
    wide got = 0, expected = 0;
    for (size_t i = 0; i < rows && ok; i++)
        for (size_t j = 0; j < cols && ok; j++) {
            const ptrdiff_t at = (ptrdiff_t)i * ldc + (ptrdiff_t)j;
            wide s = 0;
            for (size_t l = 0; l < depth; l++)
                s += (wide)a[(ptrdiff_t)i * ars + (ptrdiff_t)l * acs]
                     * (wide)b[(ptrdiff_t)l * brs + (ptrdiff_t)j * bcs];
            if (before) s += (wide)before[at];
            if (after) s += (wide)after[j];
            got = (wide)c[at];
            expected = s;
            ok = fabs(got - s) <= (wide)ROUNDING * (4 + 2 * (wide)depth);
        }
    check(ok, what, rows * 10000 + cols * 10 + depth % 10, (double)got, (double)expected);
}

/* Nothing but rows x cols may have been written: the gaps of c are still NaN. */
static void gaps(const char *what, size_t rows, size_t cols, const real *c, size_t ld)
{
    int ok = 1;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = cols; j < ld; j++)
            ok = ok && isnan((double)c[i * ld + j]);
    check(ok, what, rows * 1000 + cols, 0, 0);
    intact(what, rows * ld, c);
}

static void tiles(void)
{
    static const size_t depths[] = { 0, 1, 2, 3, 17 };
    for (size_t rows = 1; rows <= k->mr; rows++)
        for (size_t cols = 1; cols <= k->nr; cols++)
            for (int d = 0; d < 5; d++)
                for (int form = 0; form < 16; form++) {
                    const size_t depth = depths[d], lda = depth + 1;
                    const size_t ldb = cols + (size_t)(form & 1);
                    const size_t ldc = cols + 2;
                    real *a = array(0, (rows + 1) * (depth + 1) * 2, 1);
                    real *b = array(1, (depth + 1) * ldb, 1);
                    real *c = array(2, rows * ldc, 1);
                    real *before = array(3, rows * ldc, 1);
                    ptrdiff_t ars = (ptrdiff_t)lda;
                    ptrdiff_t acs = 1;
                    ptrdiff_t lb = (ptrdiff_t)ldb;
                    ptrdiff_t lc = (ptrdiff_t)ldc;
                    const int add = form & 1;
                    const real *a0 = a, *b0 = b, *b4 = before;
                    const real *after = form & 8 ? array(4, cols, 1) : NULL;
                    real *c0 = c;
                    if (form & 2) {
                        ars = 1;
                        acs = (ptrdiff_t)rows;
                    }
                    /* rows backwards */
                    if ((form & 7) == 4) {
                        a0 += (rows - 1) * lda;
                        ars = -ars;
                    }
                    if ((form & 7) == 5 && depth) {
                        a0 += depth - 1;
                        acs = -1;
                        b0 += (depth - 1) * ldb;
                        lb = -lb;
                    }
                    if ((form & 7) == 6) {
                        c0 += (rows - 1) * ldc;
                        b4 += (rows - 1) * ldc;
                        lc = -lc;
                    }
                    for (size_t i = 0; i < depth; i++)
                        for (size_t j = cols; j < ldb; j++)
                            b[i * ldb + j] = (real)NAN; /* must not matter */
                    for (size_t i = 0; i < rows; i++)
                        for (size_t j = 0; j < ldc; j++)
                            c[i * ldc + j] = add && j < cols ? before[i * ldc + j] : (real)NAN;
                    mmixi_mat va = mmixi_matrix(a0, rows, depth, ars);
                    mmixi_mat vb = mmixi_matrix(b0, depth, cols, lb);
                    const mmixi_mat vc = mmixi_matrix(c0, rows, cols, lc);
                    va.cs = acs;
                    k->tile(&vc, &va, &vb, add, after);
                    product("tile", rows, cols, depth, a0, ars, acs, b0, lb, 1, c0, lc,
                            add ? b4 : NULL, after);
                    gaps("edges: tile", rows, cols, c, ldc);
                }
}

/* ---- the matrix product ---- */

enum { BIG = 1 << 20 };
static real ga[BIG], gb[BIG], gc[3][BIG], bias[4096], residual[BIG], row_scale[4096], packed[BIG];

static void gemm(mmix_ctx **m, size_t rows, size_t cols, size_t depth, int form)
{
    mmixi_gemm g;
    const size_t ldc = cols + (size_t)(form & 1) * 3, ld = cols + 5;
    const int extra = form >> 2 & 7, add = extra == 1;
    const int pack = extra == 2 || extra == 6;
    int same = 1, ok = 1;
    mmixi_mat c = mmixi_matrix(NULL, rows, cols, (ptrdiff_t)ldc);
    mmixi_mat a = mmixi_matrix(ga, rows, depth, (ptrdiff_t)depth);
    mmixi_mat b = mmixi_matrix(gb, depth, cols, (ptrdiff_t)cols);
    if (form & 1)
        a = mmixi_t(mmixi_matrix(ga, depth, rows, (ptrdiff_t)rows));
    if (form & 2)
        b = mmixi_t(mmixi_matrix(gb, cols, depth, (ptrdiff_t)depth));
    if (extra == 3) {
        a.p += (ptrdiff_t)(rows - 1) * a.rs;
        a.rs = -a.rs;
    }
    if (extra == 4 && depth) {
        a.p += (ptrdiff_t)(depth - 1) * a.cs;
        a.cs = -a.cs;
        b.p += (ptrdiff_t)(depth - 1) * b.rs;
        b.rs = -b.rs;
    }
    if (extra == 5) {
        b.rs *= 2;
        b.cs *= 2;
    }
    g = mmixi_gemm_of(c, a, b, add);
    if (extra >= 6 || (add && rows % 2)) g.bias = bias;
    if (extra == 7) {
        g.residual = residual;
        g.ldr = (ptrdiff_t)ld;
        g.row_scale = row_scale;
        g.rows_per_scale = 3;
    }
    if (pack) {
        for (size_t i = 0; i < BIG; i++)
            packed[i] = (real)NAN;
        mmixi_gemm_pack(m[1], &g, packed);
        g.packed_b = packed;
        check(isnan((double)packed[mmixi_packed_reals(k, depth, cols)]), "edges: pack", cols, 0, 0);
    }
    for (int t = 0; t < 3; t++) {                /* 1, 2 and 3 threads */
        for (size_t i = 0; i < rows * ldc + 64; i++)
            gc[t][i] = add && i % ldc < cols && i < rows * ldc ? residual[i] : (real)NAN;
        g.c.p = gc[t] + 32;
        if (add)
            for (size_t i = 0; i < rows * ldc; i++)
                g.c.p[i] = i % ldc < cols ? residual[i] : (real)NAN;
        for (size_t i = 0; add && i < 32; i++)
            gc[t][i] = gc[t][32 + rows * ldc + i] = (real)NAN;
        check((extra < 2 && !g.bias ? mmixi_product(m[t], g.c, a, b, add)
                                    : mmixi_gemm_run(m[t], &g))
                      == 0
                  && mmix_error(m[t]) == NULL,
              "gemm runs", rows, 0, 0);
        if (t)
            same = same && !memcmp(gc[t], gc[0], (rows * ldc + 64) * sizeof(real));
    }
    check(same, "gemm: same bits for 1, 2, 3 threads", rows, 0, 0);
    c = g.c;
    if (extra < 6)
        product("gemm", rows, cols, depth, a.p, a.rs, a.cs, b.p, b.rs, b.cs, c.p, c.rs,
                add ? residual : NULL, g.bias);
    else {
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++) {
                wide s = (wide)bias[j];
                for (size_t l = 0; l < depth; l++)
                    s += (wide)a.p[(ptrdiff_t)i * a.rs + (ptrdiff_t)l * a.cs]
                         * (wide)b.p[(ptrdiff_t)l * b.rs + (ptrdiff_t)j * b.cs];
                if (extra == 7)
                    s = (wide)residual[i * ld + j] + (wide)row_scale[i / 3] * s;
                ok = ok
                     && fabs((wide)c.p[i * ldc + j] - s) <= (wide)ROUNDING * (8 + 2 * (wide)depth);
            }
        check(ok, "gemm with bias, residual, row scale", rows * 10000 + cols, 0, 0);
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = cols; j < ldc; j++)
            ok = ok && isnan((double)c.p[i * ldc + j]);
    for (size_t i = 0; i < 32; i++)
        ok = ok && isnan((double)gc[2][i]) && isnan((double)c.p[rows * ldc + i]);
    check(ok, "edges: gemm", rows * 10000 + cols, 0, 0);

    if ((form & 2) || pack || extra >= 5) return;
    for (size_t i = 0; i < rows * ldc; i++)
        c.p[i] = add ? residual[i] : (real)NAN;
    mmixi_multiply(k, c, a, b, add);
    product("multiply", rows, cols, depth, a.p, a.rs, a.cs, b.p, b.rs, 1, c.p, c.rs,
            add ? residual : NULL, NULL);
}

/* The product beside the plain loop, at sizes around the edges of tiles, panels and blocks of
   depth. */
static void plain_gemm(mmix_ctx *m, size_t rows, size_t cols, size_t depth, int add)
{
    const mmixi_mat a = mmixi_matrix(ga, rows, depth, (ptrdiff_t)depth);
    const mmixi_mat b = mmixi_matrix(gb, depth, cols, (ptrdiff_t)cols);
    const mmixi_mat c = mmixi_matrix(gc[0], rows, cols, (ptrdiff_t)cols);
    memcpy(gc[0], residual, rows * cols * sizeof(real));
    memcpy(gc[1], residual, rows * cols * sizeof(real));
    check(mmixi_product(m, c, a, b, add) == 0, "plain gemm runs", rows, 0, 0);
    mmixi_plain_gemm(gc[1], ga, gb, rows, cols, depth, add);
    for (size_t i = 0; i < rows * cols; i++)
        close_to("gemm beside the plain loop", i, gc[0][i], (wide)gc[1][i],
                 (wide)ROUNDING * (8 + 2 * (wide)depth));
}
static void plain_gemms(mmix_ctx *m)
{
    const size_t heights[] = { 1, k->mr - 1, k->mr, k->mr + 1, 2 * k->mr + 1, MMIXI_MC + 1 };
    const size_t widths[] = { 1, k->nr - 1, k->nr, k->nr + 1, 3 * k->nr + 2 };
    const size_t depths[] = { 0, 1, 7, MMIXI_KC, MMIXI_KC + 1 };
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 5; c++)
            for (int d = 0; d < 5; d++)
                for (int add = 0; add < 2; add++)
                    plain_gemm(m, heights[r], widths[c], depths[d], add);
}

static void gemms(int simd)
{
    static const size_t shapes[][3] = {
        { 1, 1, 1 },      { 1, 100, 7 },    { 1, 301, 97 }, { 2, 50, 400 },  { 100, 1, 7 },
        { 3, 5, 0 },      { 7, 15, 383 },   { 8, 16, 384 }, { 9, 17, 385 },  { 8, 48, 5 },
        { 9, 49, 6 },     { 16, 64, 11 },   { 65, 95, 10 }, { 64, 97, 33 },  { 129, 130, 20 },
        { 127, 260, 31 }, { 300, 70, 800 }, { 6, 900, 12 }, { 66, 33, 769 }, { 640, 130, 13 }
    };
    mmix_ctx *m[3];
    mmix_options o;
    for (int t = 0; t < 3; t++) {
        memset(&o, 0, sizeof o);
        o.threads = t + 1;
        o.simd = simd;
        m[t] = mmix_create(&o);
        check(m[t] && m[t]->k->tile == k->tile, "context", 0, 0, 0);
        if (!m[t]) return;
    }
    for (size_t i = 0; i < BIG; i++) {
        ga[i] = (real)noise();
        gb[i] = (real)noise();
        residual[i] = (real)noise();
    }
    for (size_t i = 0; i < 4096; i++) {
        bias[i] = (real)noise();
        row_scale[i] = (real)noise();
    }
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int form = 0; form < 32; form++)
            gemm(m, shapes[s][0], shapes[s][1], shapes[s][2], form);
    plain_gemms(m[1]);
    for (int t = 0; t < 3; t++)
        mmix_destroy(m[t]);
}

int main(int argc, char **argv)
{
    static const int level[] = { MMIX_SIMD_NONE, MMIX_SIMD_AVX2, MMIX_SIMD_AVX512, MMIX_SIMD_NEON };
    static const char *const name[] = { "none", "avx2", "avx512", "neon" };
    static mmixi_kernels table;
    if (sizeof(wide) > sizeof(double)) mathematics();
    for (int l = 0; l < 4; l++) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; a++)
            wanted |= !strcmp(argv[a], name[l]);
        if (!wanted) continue;
        mmixi_kernels_fill(&table, level[l]);
        k = &table;
        if (strcmp(k->name, name[l])) {
            printf("skipped: no %s here\n", name[l]);
            skipped++;
            continue;
        }
        functions();
        for (size_t n = 0; n < 68; n++) {
            row(n);
            ssd_step(n);
            if (n) ssd_chunk(n);
            scaled_rows(n);
        }
        ssd_chunk(99);
        ssd_chunk(130);
        scaled_rows(4097);
        row(199);
        row(4097);
        row(19999);
        selective_all();
        weighted_rows_all();
        transposes();
        tiles();
        gemms(level[l]);
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
