/* narrow.c - weights of bf16, float16, int8 and four bits: which numbers they stand for, the tiles and rows
   of each SIMD level beside plain loops in long double, and what is made of them: mmix_linear,
   mmix_take_rows, networks that are loaded with such weights. Arguments: the sections to run. */
/* AVX-VNNI's products are tried by AVX512-VNNI's, which are the same with 256 bits. */
#if defined(__x86_64__) && defined(__GNUC__) && (defined(__clang__) || __GNUC__ >= 11)
#define MMIXI_AVX_VNNI "avx512vnni,avx512vl"
#define MMIXI_DPBUSD _mm256_dpbusd_epi32
#define MMIXI_HAS_AVX_VNNI() \
    (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl"))
#endif
#ifdef EMULATED_AMX                              /* a program that tries the level of AMX alone */
#include "amx.h"
#endif
#include "models.h"

#define PATH "build/narrow.safetensors"
#define OTHER "build/narrow_other.safetensors"

#ifdef __aarch64__
/* long double is software there: minutes in an emulator */
typedef double wide;
#else
typedef long double wide;
#endif

enum { TYPES = 4, LEVELS = 7, AMX = LEVELS - 1 };
static const int type_of[TYPES] = {
    MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8, MMIX_DTYPE_Q4
};
static mmixi_kernels *k;                         /* the level under test */
/* Half a unit in the last place of reals, of floats: scales are floats in the double build, too. */
static const double REAL_ULP = sizeof(real) == 4 ? 5.97e-8 : 1.12e-16;
static const double FLOAT_ULP = 5.97e-8;

static wide size_of(wide x) { return x < 0 ? -x : x; }
static int is_finite(real x) { return isfinite((double)x) != 0; }
/* [-1, 1) */
static double noise(void) { return 2 * uniform() - 1; }
static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
/* Numbers about as a layer's weights are distributed: most of them small. */
static void weights(real *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] = (real)(noise() * noise() + 0.1 * noise());
}
static mmix_tensor *matrix(mmix_ctx *m, int dtype, size_t O, size_t D)
{
    size_t shape[2];
    shape[0] = O;
    shape[1] = D;
    return mmix_new(m, dtype, 2, shape);
}
/* A narrow matrix of these numbers, and the numbers that it has in their place. */
static mmix_tensor *packed(mmix_ctx *m, int dtype, size_t O, size_t D, const real *w, real *got)
{
    mmix_tensor *t = matrix(m, dtype, O, D);
    CHECK(t && !mmix_write(t, w) && !mmix_read(t, got));
    return t;
}

/* ---- levels ---- */

/* Table `at`: plain C, AVX2 and AVX-512 without their younger instructions, AVX-512 and AVX2 with
   them, NEON, AMX. 0: it is not here. */
static int level(int at, mmixi_kernels *table)
{
    static const int simd[LEVELS] = { MMIX_SIMD_NONE, MMIX_SIMD_AVX2, MMIX_SIMD_AVX512,
                                      MMIX_SIMD_AVX512, MMIX_SIMD_AVX2, MMIX_SIMD_NEON,
                                      MMIX_SIMD_AUTO };
    static const char *const name[LEVELS] = { "none", "avx2", "avx512", "avx512", "avx2",
                                              "neon", "amx" };
    mmixi_kernels_fill(table, simd[at]);
    if (strcmp(table->name, name[at])) return 0;
#ifdef MMIXI_X86
    if (at == 1) mmixi_fill_avx2(table);
    if (at == 2) mmixi_fill_avx512(table);
#endif
    k = table;
    return 1;
}
#ifdef EMULATED_AMX
enum { FIRST_LEVEL = AMX };
#elif defined(__aarch64__)
enum { FIRST_LEVEL = 1 };            /* plain C has its turn elsewhere: an emulated processor is slow */
#else
enum { FIRST_LEVEL = 0 };
#endif
static void levels(void (*run)(void))
{
    static mmixi_kernels table;
    for (int at = FIRST_LEVEL; at < LEVELS; at++)
        if (level(at, &table)) run();
}
static mmix_ctx *at_level(int threads)
{
    mmix_ctx *m = context(threads, 7);
    if (m) *m->k = *k;
    return m;
}
static void doing_type(const char *what, int dtype, size_t n)
{
    snprintf(about, sizeof about, "%s, %s %s, %d", what, k ? k->name : "any level",
             mmixi_dtype_name(dtype), (int)n);
}

/* ---- which numbers they stand for ---- */

static real above(real x)
{
    if (sizeof(real) == 4) return (real)nextafterf((float)x, INFINITY);
    return (real)nextafter((double)x, HUGE_VAL);
}
/* Every bf16 and what lies between it and the next: in the middle the even one is taken, the
   nearest otherwise. */
static void bf16_nearest(mmix_ctx *m)
{
    const size_t N = 0x7f80;
    real *w = (real *)malloc(8 * N * sizeof *w);
    real *got = w + 4 * N;
    for (int sign = 1; sign >= -1; sign -= 2) {
        size_t wrong = 0;
        for (size_t h = 0; h < N; h++) {
            real middle = (real)float_of((uint32_t)(h << 16 | 0x8000));
            w[4 * h] = (real)sign * (real)float_of((uint32_t)h << 16);
            w[4 * h + 1] = (real)sign * -above(-middle);
            w[4 * h + 2] = (real)sign * middle;
            w[4 * h + 3] = (real)sign * above(middle);
        }
        packed(m, MMIX_DTYPE_BF16, 1, 4 * N, w, got);
        for (size_t i = 0; i < 4 * N; i++) {
            size_t up = i % 4 == 3 || (i % 4 == 2 && i / 4 % 2 == 1);
            float expected = float_of((uint32_t)(i / 4 + up) << 16);
            wrong += (float)got[i] != (float)sign * expected;
        }
        COMPARE(!wrong, "bf16 that are not the nearest", wrong, 0);
    }
    free(w);
}

/* Every float16, and what lies between. */
static void half_nearest(void)
{
    size_t wrong = 0;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const float at = mmixi_half_float((uint16_t)h);
        const int e = h < 0x400 ? 1 : (int)(h >> 10);
        const uint32_t fraction = (h & 0x3ff) + (h < 0x400 ? 0 : 0x400);
        const double exact = ldexp((double)fraction, e - 25);
        const float middle = (float)ldexp((double)fraction + 0.5, e - 25);
        wrong += (double)at != exact;
        wrong += mmixi_to_half(at) != h || mmixi_to_half(-at) != (h | 0x8000);
        wrong += mmixi_to_half(nextafterf(middle, 0)) != h;
        wrong += mmixi_to_half(middle) != h + (h & 1);
        wrong += mmixi_to_half(-middle) != ((h + (h & 1)) | 0x8000);
        wrong += mmixi_to_half(nextafterf(middle, INFINITY)) != h + 1;
    }
    wrong += mmixi_to_half(1e6f) != 0x7c00 || mmixi_to_half(-INFINITY) != 0xfc00;
    wrong += isnan((double)mmixi_half_float(mmixi_to_half((float)NAN))) == 0;
    COMPARE(!wrong, "float16 that are not the nearest", wrong, 0);
}
/* The nearest float16 by its definition: 11 bits, or a multiple of 2^-24. */
static double half_of(double x)
{
    int e;
    frexp(x, &e);
    const int step = e - 11 > -24 ? e - 11 : -24;
    return ldexp(nearbyint(ldexp(x, -step)), step);
}

/* Rows of very different sizes, some of them zeros. */
static void rows_of_sizes(real *w, size_t O, size_t D)
{
    weights(w, O * D);
    for (size_t o = 0; o < O; o++) {
        double size = 1;
        if (o % 5 == 1) size = pow(10, 20 * noise());
        if (o % 5 == 2) size = 0;
        if (o % 5 == 3) size = 1e-42;            /* subnormal floats */
        for (size_t i = 0; i < D; i++)
            w[o * D + i] = (real)((double)w[o * D + i] * size);
    }
}
static void i8_nearest(mmix_ctx *m, size_t O, size_t D)
{
    real *w = (real *)malloc(2 * O * D * sizeof *w);
    real *got = w + O * D;
    int near = 1, kept = 1;
    rows_of_sizes(w, O, D);
    packed(m, MMIX_DTYPE_I8, O, D, w, got);
    for (size_t o = 0; o < O; o++) {
        double most = 0;
        for (size_t i = 0; i < D; i++)
            most = fmax(most, fabs((double)w[o * D + i]));
        /* a scale is a float, down to 2^-149 */
        const double slack = 2 * FLOAT_ULP * most + 127 * ldexp(1, -149);
        for (size_t i = 0; i < D; i++) {
            const double x = (double)w[o * D + i];
            const double error = fabs((double)got[o * D + i] - x);
            near &= error <= most / 254 + slack;
            if (fabs(x) >= most) kept &= error <= slack;
            if (most <= 0) kept &= error <= 0;
        }
    }
    CHECK(near);
    CHECK(kept);
    free(w);
}
/* Each number of a block is the nearest of the sixteen that its scale and minimum, which are
   float16, can make. */
static void q4_nearest(mmix_ctx *m, size_t O, size_t D)
{
    real *w = (real *)malloc(2 * O * D * sizeof *w);
    real *got = w + O * D;
    int near = 1, within = 1;
    weights(w, O * D);
    for (size_t i = 0; i < O * D; i++) {
        if (i / D % 4 == 1) w[i] = (real)(0.3 + 1e-3 * (double)w[i]);
        if (i / D % 4 == 2) w[i] = (real)(i / D % 8 == 2 ? 0 : 0.7);
        if (i / D % 4 == 3) w[i] *= 100;
    }
    packed(m, MMIX_DTYPE_Q4, O, D, w, got);
    for (size_t i = 0; i < O * D; i++) {
        const size_t begin = i % D / 32 * 32 + i / D * D;
        double least = HUGE_VAL, most = -HUGE_VAL, best = HUGE_VAL;
        for (size_t j = begin; j < begin + mmixi_min(32, D - begin % D); j++) {
            least = fmin(least, (double)w[j]);
            most = fmax(most, (double)w[j]);
        }
        const double scale = half_of((double)(float)((most - least) / 15));
        const double from = half_of((double)(float)least);
        for (int n = 0; n < 16; n++) {           /* as fmin: gcc 12.2 for ARM stops with an error */
            const double off = fabs((double)w[i] - (scale * n + from));
            if (off < best) best = off;
        }
        const double error = fabs((double)w[i] - (double)got[i]);
        near &= error <= best + 2 * FLOAT_ULP * fmax(fabs(most), fabs(least));
        within &= error <= scale / 2 + fabs(least) / 2048 + 15 * (scale / 2048 + ldexp(1, -25));
    }
    CHECK(near);
    CHECK(within);
    free(w);
}
/* Numbers that a type holds come back as they are, also what comes back itself, and an even
   matrix. */
static void exact_numbers(mmix_ctx *m, int dtype)
{
    enum { O = 37, D = 75 };
    static real w[O * D], got[O * D], again[O * D];
    for (size_t i = 0; i < O * D; i++) {
        const double step = ldexp(1, -(int)(i / D % 9));
        const size_t at = i % D;
        if (dtype == MMIX_DTYPE_BF16) w[i] = (real)((double)any(0, 510) * step - 255 * step);
        if (dtype == MMIX_DTYPE_F16) w[i] = (real)((double)any(0, 2046) * step - 1023 * step);
        if (dtype == MMIX_DTYPE_I8) w[i] = (real)((double)any(0, 254) * step - 127 * step);
        if (dtype == MMIX_DTYPE_Q4) w[i] = (real)((double)any(0, 15) * step - 3);
        if (at % 32 == 0) w[i] = (real)(dtype == MMIX_DTYPE_Q4 ? 15 * step - 3 : -127 * step);
        if (at % 32 == 1 && dtype == MMIX_DTYPE_Q4) w[i] = -3;
    }
    mmix_tensor *t = packed(m, dtype, O, D, w, got);
    CHECK(!memcmp(w, got, sizeof w));
    weights(w, O * D);
    CHECK(!mmix_write(t, w) && !mmix_read(t, got));
    CHECK(!mmix_write(t, got) && !mmix_read(t, again));
    double worst = 0;
    for (size_t i = 0; i < O * D; i++)
        worst = fmax(worst, fabs((double)got[i] - (double)again[i]) / fabs((double)got[i] + 1e-30));
    /* a scale of int8 may go on by one unit */
    NEAR(worst, 0, dtype == MMIX_DTYPE_I8 ? 2.5 * FLOAT_ULP : 0);
    CHECK(mmix_fill(t, 0.3) == t && !mmix_read(t, got));
    for (size_t i = 0; i < O * D; i++)
        again[i] = got[0];
    CHECK(!memcmp(again, got, sizeof got));
    NEAR(got[0], 0.3, dtype == MMIX_DTYPE_I8 ? 1e-7 : 1e-3);
    CHECK(mmix_fill(t, 0) == t && !mmix_read(t, got));
    memset(again, 0, sizeof again);
    CHECK(!memcmp(again, got, sizeof got));
}
/* A number that is none must not become one. The rows beside it are what they were. */
static void no_numbers(mmix_ctx *m, int dtype, real bad, size_t D, size_t at)
{
    enum { O = 20, ROW = 5 };
    static real w[O * 200], clean[O * 200], got[O * 200];
    int others = 1, y_others = 1;
    weights(w, O * D);
    packed(m, dtype, O, D, w, clean);
    w[ROW * D + at] = bad;
    mmix_tensor *t = packed(m, dtype, O, D, w, got);
    CHECK(!is_finite(got[ROW * D + at]));
    for (size_t i = 0; i < O * D; i++)
        others &= i / D == ROW || memcmp(&got[i], &clean[i], sizeof *got) == 0;
    CHECK(others);
    mmix_tensor *x = mmix_fill_normal(m, mmix_new2(m, 3, D), 1, D);
    mmix_tensor *y = mmix_linear(m, x, t, NULL);
    if (!CHECK_AT(y, mmix_error(m))) return;
    for (size_t i = 0; i < 3 * O; i++) {
        if (i % O == ROW) CHECK(!is_finite(mmix_data(y)[i]));
        else y_others &= is_finite(mmix_data(y)[i]);
    }
    CHECK(y_others);
}
static void no_numbers_all(void)
{
    static const double bad[] = { NAN, HUGE_VAL, -HUGE_VAL };
    static const size_t depth[] = { 1, 31, 70, 130 };
    mmix_ctx *m = at_level(1);
    for (int t = 0; t < TYPES; t++)
        for (int b = 0; b < 3; b++)
            for (int d = 0; d < 4; d++)
                for (size_t at = 0; at < depth[d]; at += 1 + depth[d] / 3) {
                    doing_type("no number", type_of[t], depth[d]);
                    no_numbers(m, type_of[t], (real)bad[b], depth[d], at);
                    mmix_reset(m);
                }
    doing_type("beyond float16", MMIX_DTYPE_Q4, 70);
    no_numbers(m, MMIX_DTYPE_Q4, (real)2e6, 70, 40);
    no_numbers(m, MMIX_DTYPE_Q4, (real)-7e4, 70, 1);
    FINE(m);
    mmix_destroy(m);
}
static void definition(void)
{
    k = NULL;
    mmix_ctx *m = context(1, 3);
    doing("the nearest");
    bf16_nearest(m);
    half_nearest();
    for (size_t D = 1; D < 71; D++) {
        doing_type("the nearest", MMIX_DTYPE_I8, D);
        i8_nearest(m, 1 + D * 7 % 40, D);
        doing_type("the nearest", MMIX_DTYPE_Q4, D);
        q4_nearest(m, 1 + D * 7 % 40, D);
        mmix_reset(m);
    }
    for (int t = 0; t < TYPES; t++) {
        doing_type("exact", type_of[t], 0);
        exact_numbers(m, type_of[t]);
    }
    FINE(m);
    mmix_destroy(m);
    levels(no_numbers_all);
}

/* ---- tiles ---- */

enum { MOST = 3008, ROWS = 69, COLUMNS = 64, GUARD = 64 };
static real tile_x[ROWS * MOST], tile_w[COLUMNS * MOST], tile_bias[COLUMNS];
static real tile_c[(ROWS + 2) * (COLUMNS + 5)];
/* A product's operands as the kernels read them; dtype 0: not set. */
typedef struct operands {
    int dtype;
    size_t D, a_row, panel, bytes;
    char *a, *b;
} operands;

static int32_t i8_number(const char *panel, size_t row, size_t i)
{
    return (int8_t)panel[i / 4 * 64 + 4 * row + i % 4];
}
static int32_t q4_number(const char *block, size_t row, size_t i)
{
    const uint8_t both = (uint8_t)block[64 + i / 8 * 64 + 4 * row + i % 4];
    return i / 4 % 2 ? both >> 4 : both & 15;
}
/* Bytes of a whole number of a row: 1 or, where products take 16 bits, 2. */
static size_t number_bytes(const mmixi_kernels *by, int dtype)
{
    const real x[4] = { 1, 1, 1, 1 };
    char row[2 * MMIXI_Q4 + 2 * sizeof(float)] = { 0 };
    if (dtype == MMIX_DTYPE_Q4) by->q4_row(4, x, row);
    else by->i8_row(4, x, row);
    return row[1] == 127 ? 1 : 2;
}
static int32_t row_number(const char *a, size_t i, size_t bytes)
{
    int16_t number;
    if (bytes == 1) return (int8_t)a[i];
    memcpy(&number, a + 2 * i, sizeof number);
    return number;
}
static float float_at(const char *p)
{
    float f;
    memcpy(&f, p, sizeof f);
    return f;
}
static wide half_at(const char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return (wide)mmixi_half_float(half);
}
/* y of row r and column j without a bias, and how far from it a kernel may be. */
static wide bf16_product(const operands *o, size_t r, size_t j, wide *error)
{
    const char *a = o->a + r * o->a_row;
    wide sum = 0, size = 0;
    for (size_t i = 0; i < o->D; i++) {
        uint16_t w, half;
        real x;
        memcpy(&w, o->b + j / 16 * o->panel + i / 2 * 64 + j % 16 * 4 + i % 2 * 2, sizeof w);
        if (k->bf16_products) {
            memcpy(&half, a + 2 * i, sizeof half);
            x = (real)mmixi_bf16(half);
        }
        else memcpy(&x, a + i * sizeof x, sizeof x);
        sum += (wide)x * (wide)mmixi_bf16(w);
        size += size_of((wide)x * (wide)mmixi_bf16(w));
    }
    *error = (wide)(REAL_ULP * (double)(o->D + 2)) * size;
    return sum;
}
static wide i8_product(const operands *o, size_t r, size_t j, wide *error)
{
    const size_t steps = (o->D + 3) / 4;
    const char *a = o->a + r * o->a_row, *panel = o->b + j / 16 * o->panel;
    const wide scales = (wide)float_at(a + 4 * steps * o->bytes)
                        * (wide)float_at(panel + 64 * steps + j % 16 * 4);
    int64_t sum = 0;
    for (size_t i = 0; i < o->D; i++)
        sum += (int64_t)row_number(a, i, o->bytes) * i8_number(panel, j % 16, i);
    /* the sum is exact; it becomes a float, the scales' product is one, so is the result */
    *error = (wide)(3.1 * FLOAT_ULP) * size_of((wide)sum * scales);
    return (wide)sum * scales;
}
static wide q4_product(const operands *o, size_t r, size_t j, wide *error)
{
    const size_t blocks = (o->D + 31) / 32;
    const char *a = o->a + r * o->a_row, *block = o->b + j / 16 * o->panel;
    wide y = 0, size = 0;
    for (size_t b = 0; b < blocks; b++, block += MMIXI_Q4_BYTES) {
        const wide scale = (wide)float_at(a + 32 * blocks * o->bytes + 8 * b);
        int32_t sum = 0, all = 0;
        for (size_t i = 32 * b; i < mmixi_min(o->D, 32 * b + 32); i++) {
            const int32_t x = row_number(a, i, o->bytes);
            all += x;
            sum += x * q4_number(block, j % 16, i % 32);
        }
        const wide first = scale * half_at(block + 2 * (j % 16)) * (wide)sum;
        const wide second = scale * half_at(block + 32 + 2 * (j % 16)) * (wide)all;
        y += first + second;
        size += size_of(first) + size_of(second);
    }
    *error = (wide)(FLOAT_ULP * (double)(2 * blocks + 4)) * size;
    return y;
}
static wide f16_product(const operands *o, size_t r, size_t j, wide *error)
{
    const char *panel = o->b + j / 16 * o->panel;
    wide sum = 0, size = 0;
    for (size_t i = 0; i < o->D; i++) {
        real x;
        memcpy(&x, o->a + r * o->a_row + i * sizeof x, sizeof x);
        const wide term = (wide)x * half_at(panel + 32 * i + 2 * (j % 16));
        sum += term;
        size += size_of(term);
    }
    *error = (wide)(REAL_ULP * (double)(o->D + 2)) * size;
    return sum;
}
static wide product_of(const operands *o, size_t r, size_t j, wide *error)
{
    if (o->dtype == MMIX_DTYPE_BF16) return bf16_product(o, r, j, error);
    if (o->dtype == MMIX_DTYPE_F16) return f16_product(o, r, j, error);
    if (o->dtype == MMIX_DTYPE_I8) return i8_product(o, r, j, error);
    return q4_product(o, r, j, error);
}
static void row_by_kernel(int dtype, size_t n, const real *x, char *to)
{
    if (dtype == MMIX_DTYPE_I8) k->i8_row(n, x, to);
    else if (dtype == MMIX_DTYPE_Q4) k->q4_row(n, x, to);
    else if (dtype == MMIX_DTYPE_BF16 && k->bf16_products) k->bf16_row(n, x, to);
    else memcpy(to, x, n * sizeof *x);
}
static operands operands_of(int dtype, size_t D, size_t rows, size_t columns, const real *x,
                            const real *w)
{
    operands o;
    o.dtype = dtype;
    o.D = D;
    o.a_row = mmixi_round_up(mmixi_max((D + 31) / 32 * 72, D * sizeof *x), 64);
    o.bytes = number_bytes(k, dtype);
    o.panel = mmixi_narrow_panel(dtype, D);
    o.a = (char *)malloc(rows * o.a_row);
    o.b = (char *)malloc((columns + 15) / 16 * o.panel);
    mmixi_narrow_rows(dtype, o.b, 0, columns, w, D);
    for (size_t r = 0; r < rows; r++)
        row_by_kernel(dtype, D, x + r * D, o.a + r * o.a_row);
    return o;
}
static void operands_free(operands *o)
{
    free(o->a);
    free(o->b);
}
/* One form of a tile beside what its numbers should be. */
static void tile_form(const operands *o, size_t rows, size_t panels, int biased, const wide *y,
                      const wide *error)
{
    const real guard = -77;
    const size_t ld = COLUMNS + 5, columns = 16 * panels;
    mmixi_narrow_tile t = { rows, panels, o->D, o->a, o->a_row, o->b, o->panel, NULL, 0, NULL, 0 };
    int right = 1, intact = 1;
    for (size_t i = 0; i < (ROWS + 2) * ld; i++)
        tile_c[i] = guard;
    t.c = tile_c + ld + 2;
    t.ldc = (ptrdiff_t)ld;
    if (biased) t.bias = tile_bias;
    if (o->dtype == MMIX_DTYPE_BF16) k->bf16_tile(&t);
    else if (o->dtype == MMIX_DTYPE_F16) k->f16_tile(&t);
    else if (o->dtype == MMIX_DTYPE_I8) k->i8_tile(&t);
    else k->q4_tile(&t);
    for (size_t i = 0; i < (ROWS + 2) * ld; i++) {
        const size_t r = i / ld - 1, j = i % ld - 2;
        if (i < ld || r >= rows || j >= columns) {
            intact &= memcmp(&tile_c[i], &guard, sizeof guard) == 0;
            continue;
        }
        wide expected = y[r * COLUMNS + j];
        if (biased) expected += (wide)tile_bias[j];
        const wide bound = error[r * COLUMNS + j] + (wide)(1.1 * REAL_ULP) * size_of(expected);
        right &= size_of((wide)tile_c[i] - expected) <= bound;
    }
    if (!right || !intact)
        printf("    %d rows, %d panels, bias %d\n", (int)rows, (int)panels, biased);
    CHECK(right);
    CHECK(intact);
}
/* The next form with fewer rows. AMX takes any number: around its tiles of 16, two of which are a
   block. */
static size_t tile_rows_below(size_t rows, int amx)
{
    static const size_t some[] = { ROWS, 64, 48, 33, 32, 31, 17, 16, 15, 5, 1, 0 };
    if (!amx) return rows == 6 ? 4 : rows / 2;
    size_t at = 0;
    while (some[at] != rows) at++;
    return some[at + 1];
}
static void tile_depth(int dtype, size_t D)
{
    static wide y[ROWS * COLUMNS], error[ROWS * COLUMNS];
    doing_type("tile", dtype, D);
    const int amx = k->amx && (dtype == MMIX_DTYPE_BF16 || dtype == MMIX_DTYPE_I8);
    const size_t most_rows = amx ? ROWS : k->narrow_rows;
    const size_t most_panels = amx ? COLUMNS / 16 : k->narrow_panels;
    weights(tile_w, COLUMNS * D);
    weights(tile_x, most_rows * D);
    for (size_t i = 0; i < D && most_rows > 1; i++)
        tile_x[D + i] = 3 + tile_x[i];           /* its sums are large */
    weights(tile_bias, COLUMNS);
    operands o = operands_of(dtype, D, most_rows, COLUMNS, tile_x, tile_w);
    for (size_t i = 0; i < most_rows * COLUMNS; i++)
        y[i] = product_of(&o, i / COLUMNS, i % COLUMNS, &error[i]);
    for (size_t rows = most_rows; rows; rows = tile_rows_below(rows, amx))
        for (size_t panels = 1; panels <= most_panels; panels += amx ? 1 : 2)
            for (int biased = 0; biased < 2; biased++)
                tile_form(&o, rows, panels, biased, y, error);
    operands_free(&o);
}
static void tiles(void)
{
    for (int t = 0; t < TYPES; t++) {
        for (size_t D = 1; D <= 70; D++)
            tile_depth(type_of[t], D);
        for (size_t D = 96; D <= 100; D++)
            tile_depth(type_of[t], D);
        tile_depth(type_of[t], 1027);
        tile_depth(type_of[t], MOST - 5);
    }
}

/* ---- products ---- */

enum { HIGH = 37, WIDE = 50, SPAN = WIDE + 3 };
static real product_c[(HIGH + 2) * SPAN], product_all[HIGH * WIDE];
/* The first rows and columns of a product, in the middle of values that stay. */
static void product_part(mmix_ctx *m, const operands *o, const real *x, const real *bias,
                         size_t rows, size_t columns, int *right, int *intact)
{
    const real guard = -77;
    const mmixi_mat a = mmixi_matrix(x, rows, o->D, (ptrdiff_t)o->D);
    const mmixi_mat c = mmixi_matrix(product_c + SPAN + 1, rows, columns, SPAN);
    mmixi_gemm g = mmixi_gemm_of(c, a, mmixi_matrix(NULL, o->D, columns, 1), 0);
    g.bias = bias;
    for (size_t i = 0; i < (HIGH + 2) * SPAN; i++)
        product_c[i] = guard;
    *intact &= mmixi_narrow_run(m, &g, o->dtype, o->b) == 0;
    for (size_t i = 0; i < (HIGH + 2) * SPAN; i++) {
        const size_t r = i / SPAN - 1, j = i % SPAN - 1;
        if (i < SPAN || r >= rows || j >= columns)
            *intact &= memcmp(&product_c[i], &guard, sizeof guard) == 0;
        else if (rows == HIGH && columns == WIDE) product_all[r * WIDE + j] = product_c[i];
        else *right &= memcmp(&product_c[i], &product_all[r * WIDE + j], sizeof guard) == 0;
    }
}
/* All of it is near the plain loop, and each part of it, cut anywhere, has its bits. */
static void product(mmix_ctx *m, int dtype, size_t D, const real *bias)
{
    int right = 1, same = 1, intact = 1;
    weights(tile_x, HIGH * D);
    weights(tile_w, WIDE * D);
    doing_type("product", dtype, D);
    operands o = operands_of(dtype, D, HIGH, WIDE, tile_x, tile_w);
    product_part(m, &o, tile_x, bias, HIGH, WIDE, &right, &intact);
    for (size_t i = 0; i < HIGH * WIDE; i++) {
        wide error;
        wide expected = product_of(&o, i / WIDE, i % WIDE, &error);
        if (bias) expected += (wide)bias[i % WIDE];
        error += (wide)(1.1 * REAL_ULP) * size_of(expected);
        right &= size_of((wide)product_all[i] - expected) <= error;
    }
    CHECK(right);
    for (size_t rows = 1; rows <= HIGH; rows++)
        for (size_t columns = 1 + rows % 2; columns <= WIDE; columns += 2)
            product_part(m, &o, tile_x, bias, rows, columns, &same, &intact);
    CHECK(same);
    CHECK(intact);
    operands_free(&o);
}
static void products(void)
{
    static real bias[WIDE];
    mmix_ctx *m = at_level(1);
    weights(bias, WIDE);
    for (int t = 0; t < TYPES; t++)
        for (int biased = 0; biased < 2; biased++) {
            product(m, type_of[t], 1, biased ? bias : NULL);
            product(m, type_of[t], 37, biased ? bias : NULL);
            product(m, type_of[t], 165, biased ? bias : NULL);
        }
    FINE(m);
    mmix_destroy(m);
}

/* ---- rows ---- */

enum { LONGEST = 4099, ROW_BYTES = LONGEST * 8 + 4096 };
static char row_bytes[2][ROW_BYTES];
/* Bytes of a row's numbers, and of what stands behind them. */
static size_t numbers_size(int dtype, size_t n, size_t bytes)
{
    if (dtype == MMIX_DTYPE_BF16) return (n + 1) / 2 * 4;
    if (dtype == MMIX_DTYPE_I8) return (n + 3) / 4 * 4 * bytes;
    return (n + 31) / 32 * 32 * bytes;
}
static size_t scales_size(int dtype, size_t n)
{
    if (dtype == MMIX_DTYPE_BF16) return 0;
    return dtype == MMIX_DTYPE_I8 ? 4 : (n + 31) / 32 * 8;
}
static void row_written(const mmixi_kernels *by, int dtype, size_t n, const real *x, char *to)
{
    memset(to, 0x5a, ROW_BYTES);
    if (dtype == MMIX_DTYPE_BF16) by->bf16_row(n, x, to);
    else if (dtype == MMIX_DTYPE_I8) by->i8_row(n, x, to);
    else by->q4_row(n, x, to);
}
/* Whether a run of whole numbers, from number `at` of a row on, is the nearest of x, given a
   scale. */
static int run_is_nearest(const char *a, size_t at, size_t bytes, const real *x, size_t n,
                          float scale)
{
    double most = 0;
    int ok = 1;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    ok &= fabs((double)scale - most / 127) <= 2 * FLOAT_ULP * most / 127;
    for (size_t i = 0; i < n; i++) {
        const double number = (double)scale * row_number(a, at + i, bytes);
        ok &= fabs((double)x[i] - number) <= most / 254 + 3 * FLOAT_ULP * most;
    }
    return ok;
}
static int row_is_nearest(int dtype, size_t n, const real *x, const char *a, size_t bytes)
{
    const char *scale = a + numbers_size(dtype, n, bytes);
    int ok = 1;
    if (dtype == MMIX_DTYPE_I8) return run_is_nearest(a, 0, bytes, x, n, float_at(scale));
    for (size_t b = 0; dtype == MMIX_DTYPE_Q4 && b < n; b += 32, scale += 8) {
        int32_t sum = 0;
        ok &= run_is_nearest(a, b, bytes, x + b, mmixi_min(32, n - b), float_at(scale));
        for (size_t i = b; i < b + 32; i++)
            sum += row_number(a, i, bytes);
        ok &= float_at(scale + 4) == float_at(scale) * (float)sum;
    }
    for (size_t i = 0; dtype == MMIX_DTYPE_BF16 && i < n; i++) {
        uint16_t half;
        memcpy(&half, a + 2 * i, sizeof half);
        ok &= half == mmixi_to_bf16(x[i]);
    }
    return ok;
}
/* A row by this level: near its numbers, padded with zeros, and with plain C's numbers and
   scales. */
static void row(int dtype, size_t n, const real *x, int numbers)
{
    static mmixi_kernels plain;
    mmixi_fill_none(&plain);
    const size_t bytes[2] = { number_bytes(&plain, dtype), number_bytes(k, dtype) };
    const size_t end[2] = { numbers_size(dtype, n, bytes[0]), numbers_size(dtype, n, bytes[1]) };
    const size_t behind = scales_size(dtype, n);
    int same = 1, after = 1, padding = 1;
    row_written(&plain, dtype, n, x, row_bytes[0]);
    row_written(k, dtype, n, x, row_bytes[1]);
    if (dtype == MMIX_DTYPE_BF16) same = !memcmp(row_bytes[0], row_bytes[1], end[0]);
    else
        for (size_t i = 0; i < end[0] / bytes[0]; i++)
            same &= row_number(row_bytes[0], i, bytes[0]) == row_number(row_bytes[1], i, bytes[1]);
    CHECK(same);
    CHECK(!memcmp(row_bytes[0] + end[0], row_bytes[1] + end[1], behind));
    /* a row of int8 may be made in place from one of int16, which is longer */
    const size_t most = numbers_size(dtype, n, 2) + behind;
    for (size_t i = most; i < most + GUARD; i++)
        after &= row_bytes[1][i] == 0x5a;
    CHECK(after);
    if (!numbers) return;
    CHECK(row_is_nearest(dtype, n, x, row_bytes[1], bytes[1]));
    for (size_t i = n; dtype != MMIX_DTYPE_BF16 && i < end[1] / bytes[1]; i++)
        padding &= row_number(row_bytes[1], i, bytes[1]) == 0;
    for (size_t i = 2 * n; dtype == MMIX_DTYPE_BF16 && i < end[1]; i++)
        padding &= row_bytes[1][i] == 0;
    CHECK(padding);
}
static void row_numbers(int dtype, size_t n)
{
    real *x = tile_w + n % 3;
    doing_type("row", dtype, n);
    weights(x, n);
    row(dtype, n, x, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = (real)((double)(int)any(0, 512) / 2 - 128);     /* many ties */
    x[n / 2] = 127;
    row(dtype, n, x, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(noise() * pow(10, 25 * noise()));
    row(dtype, n, x, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = 0;
    row(dtype, n, x, 1);
    x[n - 1] = (real)-3.7;
    row(dtype, n, x, 1);
    if (dtype == MMIX_DTYPE_BF16) return;        /* the processor may take subnormals for zeros */
    for (size_t i = 0; i < n; i++)
        x[i] = (real)(noise() * pow(10, -34 - 8 * uniform()));
    row(dtype, n, x, 0);
}
/* A row with a number that is none: y is none, either, in each column. */
static void row_no_number(int dtype, size_t D, size_t at, real bad)
{
    int none = 1, is_nan = 1;
    doing_type("row without a number", dtype, D);
    weights(tile_x, D);
    for (size_t i = 0; i < 16 * D; i++)
        tile_w[i] = (real)(0.5 + uniform());
    tile_x[at] = bad;
    row(dtype, D, tile_x, 0);
    operands o = operands_of(dtype, D, 1, 16, tile_x, tile_w);
    mmixi_narrow_tile t = { 1, 1, D, o.a, o.a_row, o.b, o.panel, tile_c, 16, NULL, 0 };
    if (dtype == MMIX_DTYPE_BF16) k->bf16_tile(&t);
    else if (dtype == MMIX_DTYPE_I8) k->i8_tile(&t);
    else k->q4_tile(&t);
    for (size_t j = 0; j < 16; j++) {
        none &= !is_finite(tile_c[j]);
        is_nan &= isnan((double)tile_c[j]) != 0;
    }
    CHECK(none);
    if (dtype != MMIX_DTYPE_BF16) CHECK(is_nan);
    operands_free(&o);
}
static void rows(void)
{
    static const double bad[] = { NAN, HUGE_VAL, -HUGE_VAL };
    static const size_t depth[] = { 1, 3, 16, 17, 32, 33, 70, 200 };
    for (int t = 0; t < TYPES; t++) {
        if (type_of[t] == MMIX_DTYPE_F16) continue;      /* its tiles read reals */
        for (size_t n = 1; n <= 100; n++)
            row_numbers(type_of[t], n);
        row_numbers(type_of[t], 1023);
        row_numbers(type_of[t], LONGEST);
        for (int d = 0; d < 8; d++)
            for (int b = 0; b < 3; b++)
                for (size_t at = 0; at < depth[d]; at += 1 + depth[d] / 7)
                    row_no_number(type_of[t], depth[d], at, (real)bad[b]);
    }
}

/* ---- mmix_linear ---- */

static real *values_of(const mmix_tensor *t)     /* to be freed */
{
    real *v = (real *)malloc(mmix_count(t) * sizeof *v);
    CHECK(!mmix_read(t, v));
    return v;
}
/* The narrow matrix of these numbers and, as reals, what it stands for. */
static void both_matrices(mmix_ctx *m, int dtype, size_t O, size_t D, mmix_tensor **narrow,
                          mmix_tensor **reals)
{
    real *w = (real *)malloc(O * D * sizeof *w);
    weights(w, O * D);
    *reals = mmix_new2(m, O, D);
    *narrow = packed(m, dtype, O, D, w, mmix_data(*reals));
    free(w);
}
/* How far from the product of reals one by this type may be, in parts of the largest |x| |w| summed
   up: what becomes of x. */
static double rounding_of(int dtype, size_t D)
{
    if (dtype == MMIX_DTYPE_I8 || dtype == MMIX_DTYPE_Q4) return 1.0 / 250;
    return dtype == MMIX_DTYPE_BF16 && k->bf16_products ? 1.0 / 256 : 4 * REAL_ULP * (double)D;
}
static int near_reals(int dtype, const mmix_tensor *x, const mmix_tensor *w, const mmix_tensor *y,
                      const mmix_tensor *expected)
{
    const size_t D = mmix_shape(w, 1), O = mmix_shape(w, 0), rows = mmix_count(y) / O;
    const real *numbers = mmix_data(x), *weight = mmix_data(w);
    const real *got = mmix_data(y), *wanted = mmix_data(expected);
    double *most = (double *)calloc(rows, sizeof *most);
    int near = most != NULL;
    for (size_t i = 0; near && i < rows * D; i++)
        most[i / D] = fmax(most[i / D], fabs((double)numbers[i]));
    for (size_t o = 0; near && o < O; o++) {
        double size = 0;
        for (size_t i = 0; i < D; i++)
            size += fabs((double)weight[o * D + i]);
        for (size_t r = 0; r < rows; r++) {
            const double off = fabs((double)got[r * O + o] - (double)wanted[r * O + o]);
            if (!(off <= 1e-6 + size * most[r] * rounding_of(dtype, D))) near = 0;
        }
    }
    free(most);
    return near;
}
/* y, with 1, 2, 3 and 5 threads and row by row; the hash of its bits is returned. */
static uint64_t hash_linear(int dtype, int threads, size_t rows, size_t O, size_t D, size_t step)
{
    mmix_ctx *m = at_level(threads);
    mmix_tensor *w, *reals;
    state = 12;
    both_matrices(m, dtype, O, D, &w, &reals);
    mmix_tensor *x = shaped(m, random3(m, 1, rows, D, -2, 2), 2, rows, D, 0);
    mmix_tensor *b = random1(m, O, -1, 1);
    for (size_t i = 7; x && i < rows * D; i += 90) mmix_data(x)[i] *= 50;       /* outliers */
    uint64_t h = 1;
    for (size_t r = 0; r < rows; r += step) {
        const size_t n = mmixi_min(step, rows - r);
        const mmix_tensor *y = mmix_linear(m, mmix_slice(m, x, 0, r, n), w, b);
        if (y) h = hash_of(mmix_data(y), n * O, h);
    }
    const mmix_tensor *y = mmix_linear(m, x, w, b), *expected = mmix_linear(m, x, reals, b);
    if (y && expected && step == rows) CHECK(near_reals(dtype, x, reals, y, expected));
    FINE(m);
    mmix_destroy(m);
    return h;
}
static void linear_bits(int dtype, size_t rows, size_t O, size_t D)
{
    static const int threads[] = { 2, 3, 5 };
    const uint64_t h = hash_linear(dtype, 1, rows, O, D, rows);
    for (int t = 0; t < 3; t++)
        CHECK(hash_linear(dtype, threads[t], rows, O, D, rows) == h);
    CHECK(hash_linear(dtype, 1, rows, O, D, 1) == h);
    CHECK(hash_linear(dtype, 3, rows, O, D, 7) == h);
    CHECK(hash_linear(dtype, 2, rows, O, D, rows / 2 + 1) == h);
}
/* What follows the product: residual, a scale for each index of the first axis, gelu. */
static void linear_ends(mmix_ctx *m, int dtype, size_t L, size_t O, size_t D)
{
    const size_t B = 3;
    mmix_tensor *w, *reals;
    both_matrices(m, dtype, O, D, &w, &reals);
    mmix_tensor *x = random3(m, B, L, D, -1, 1), *residual = random3(m, B, L, O, -1, 1);
    mmix_tensor *b = random1(m, O, -1, 1), *s = random1(m, B, 0.5, 2);
    mmix_tensor *plain = mmix_linear(m, x, w, b);
    mmix_tensor *scales = shaped(m, s, 3, B, 1, 1);
    mmix_tensor *expected = mmix_add(m, residual, mmix_mul(m, plain, scales));
    ALIKE(mmix_linear_residual(m, x, w, b, residual, s), expected, 6 * REAL_ULP);
    ALIKE(mmix_linear_residual(m, x, w, b, NULL, s), mmix_mul(m, plain, scales), 2 * REAL_ULP);
    ALIKE(mmix_linear_residual(m, x, w, b, residual, NULL), mmix_add(m, residual, plain),
          4 * REAL_ULP);
    SAME(mmixi_linear(m, x, w, b, NULL, NULL, MMIX_OP_GELU), mmix_gelu(m, plain));
    SAME(mmix_linear(m, mmix_slice(m, x, 1, 2, 4), w, b), mmix_slice(m, plain, 1, 2, 4));
    mmix_tensor *without = mmix_linear(m, x, w, NULL);
    ALIKE(mmix_add(m, without, b), plain, 4 * REAL_ULP);
    FINE(m);
}
/* dx is that of the matrix of reals that the narrow one stands for. Into dx that is there it is
   added. */
static void linear_backward(mmix_ctx *m, int dtype)
{
    enum { B = 3, L = 7, O = 45, D = 67 };
    mmix_tensor *w[2], *dx[2];
    both_matrices(m, dtype, O, D, &w[0], &w[1]);
    mmix_tensor *value = random3(m, B, L, D, -1, 1), *dy = random3(m, B, L, O, -1, 1);
    mmix_tensor *b = random1(m, O, -1, 1), *s = random1(m, B, 0.5, 2), *db[2];
    for (int i = 0; i < 2; i++) {
        mmix_tensor *x = mmix_require_grad(mmix_affine(m, value, 1, 0));
        mmix_tensor *bias = mmix_require_grad(mmix_affine(m, b, 1, 0));
        mmix_record(m, 1);
        mmix_tensor *y = mmix_linear_residual(m, x, w[i], bias, NULL, s);
        y = mmix_add(m, y, mmix_linear(m, x, w[i], NULL));
        CHECK(!mmix_backward_from(m, &y, &dy, 1));
        mmix_record(m, 0);
        dx[i] = mmix_grad(x);
        db[i] = mmix_grad(bias);
    }
    /* what fills a matrix borrows step memory, and leaves gradients alone */
    real *before = values_of(dx[1]);
    CHECK(mmix_fill(w[0], 1) && mmix_fill_normal(m, w[0], 1, 2));
    CHECK(!memcmp(before, mmix_data(dx[1]), mmix_count(dx[1]) * sizeof *before));
    free(before);
    ALIKE(dx[0], dx[1], 2 * REAL_ULP);
    SAME(db[0], db[1]);
    CHECK(largest(dx[0]) > 0.1);
    CHECK(!mmix_grad(w[0]));
    FINE(m);
}
static void take_rows(mmix_ctx *m, int dtype)
{
    enum { V = 45, D = 37, N = 90 };
    size_t shape[2] = { 2, N / 2 };
    int32_t at[N];
    int same = 1;
    mmix_tensor *table, *reals;
    both_matrices(m, dtype, V, D, &table, &reals);
    for (size_t i = 0; i < N; i++)
        at[i] = (int32_t)(i * 7 % V);
    mmix_tensor *index = mmix_from_i32(m, 2, shape, at);
    mmix_record(m, 1);
    mmix_tensor *y = mmix_take_rows(m, table, index);
    mmix_record(m, 0);
    if (!CHECK_AT(y && mmix_ndim(y) == 3, mmix_error(m))) return;
    for (size_t i = 0; i < N * D; i++)
        same &= mmix_data(y)[i] == mmix_data(reals)[(size_t)at[i / D] * D + i % D];
    CHECK(same);
    mmix_data_i32(index)[3] = V;
    BAD(mmix_take_rows(m, table, index), "mmix_take_rows", "");
}
/* Only products and tables know narrow matrices. */
static void refusals(mmix_ctx *m, int dtype)
{
    size_t shape[3] = { 2, 3, 4 };
    mmix_tensor *w = mmix_fill(matrix(m, dtype, 6, 8), 1);
    real v[48];
    CHECK(w && !mmix_data(w) && !mmix_data_i32(w) && mmix_dtype(w) == dtype);
    CHECK(mmix_count(w) == 48 && mmix_shape(w, 0) == 6 && mmix_shape(w, 1) == 8);
    BAD(mmix_new(m, dtype, 3, shape), "of ", "there are matrices alone");
    BAD(mmix_new(m, dtype, 1, shape), "expected 2 axes", "found 1");
    BAD(mmix_add(m, w, w), "expected real", "");
    BAD(mmix_reshape(m, w, 2, shape), "expected real", "");
    BAD(mmix_slice(m, w, 0, 1, 2), "expected real", "");
    BAD(mmix_matmul(m, w, w), "expected real", "");
    BAD(mmix_linear(m, w, w, NULL), "expected real", "");
    BAD_INT(mmix_read(w, NULL), "values is NULL", "");
    BAD_INT(mmix_write(w, NULL), "values is NULL", "");
    CHECK(isnan(mmix_item(w)));
    /* what survives a step's end keeps its numbers */
    const mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *kept = mmix_fill(matrix(m, dtype, 20, 40), 1);
    CHECK(mmix_new2(m, 50, 50) && !mmix_rewind_keep(m, mark, &kept, 1));
    CHECK(kept && !mmix_read(w, v) && fabs((double)v[47] - 1) < 1e-6);
    real *now = values_of(kept);
    CHECK(fabs((double)now[799] - 1) < 1e-6);
    free(now);
    FINE(m);
}
/* The deepest product of int8 fills an int32. */
static void deepest(mmix_ctx *m)
{
    const size_t D = 133144;
    mmix_tensor *w = matrix(m, MMIX_DTYPE_I8, 2, D), *x = mmix_new2(m, 1, D);
    if (CHECK(w && x && mmix_fill(w, 1) && mmix_fill(x, -1))) {
        const mmix_tensor *y = mmix_linear(m, x, w, NULL);
        if (CHECK(y != NULL)) NEAR(mmix_data(y)[1], -133144, 0.05);
    }
    BAD(matrix(m, MMIX_DTYPE_I8, 1, D + 1), "rows of int8 have at most 133144 numbers", "133145");
}
/* Rows of x with `count` numbers of 1000, some negative, among numbers below 1: up to 8 of them stay
   float, and the others are as fine as without. */
static void outliers(mmix_ctx *m, size_t D, size_t O, size_t count)
{
    const size_t rows = 11;
    mmix_tensor *w, *reals;
    state = 5;
    both_matrices(m, MMIX_DTYPE_I8, O, D, &w, &reals);
    mmix_tensor *x = shaped(m, random3(m, 1, rows, D, -1, 1), 2, rows, D, 0);
    for (size_t r = 0; x && r < rows; r++)
        for (size_t n = 0; n < count; n++) {
            const size_t at = n + 1 == count ? D - 1 : (n * 13 + r) % (D - 1);
            mmix_data(x)[r * D + at] = n % 3 ? 1000 : -1000;
        }
    const mmix_tensor *y = mmix_linear(m, x, w, NULL);
    if (!CHECK(y != NULL)) return;
    const double half_step = (count > MMIXI_I8_OUTLIERS ? 1000.0 : 1.0) / 254;
    const real *numbers = mmix_data(x), *weight = mmix_data(reals);
    int near = 1;
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < O; o++) {
            wide sum = 0, size = 0, all = 0;
            for (size_t i = 0; i < D; i++) {
                const wide part = (wide)numbers[r * D + i] * (wide)weight[o * D + i];
                sum += part;
                all += size_of(part);
                size += size_of((wide)weight[o * D + i]);
            }
            const wide off = size_of((wide)mmix_data(y)[r * O + o] - sum);
            near &= off <= size * half_step * 1.001 + all * 1e-6;
        }
    CHECK(near);
}
static void outliers_all(void)
{
    mmix_ctx *m = at_level(2);
    for (size_t count = 1; count < 11; count++) {
        doing_type("outliers", MMIX_DTYPE_I8, count);
        outliers(m, 800, 37, count);
        outliers(m, 403, 100, count);
        mmix_reset(m);
    }
    FINE(m);
    mmix_destroy(m);
}
static void linears(void)
{
    mmix_ctx *m = at_level(2);
    for (int t = 0; t < TYPES; t++) {
        const int dtype = type_of[t];
        doing_type("linear", dtype, 0);
        linear_bits(dtype, 37, 45, 67);
        linear_bits(dtype, 1, 100, 33);
        linear_bits(dtype, 300, 200, 130);
        linear_ends(m, dtype, 7, 45, 67);
        linear_ends(m, dtype, 100, 400, 130);     /* panels in several tasks */
        linear_backward(m, dtype);
        take_rows(m, dtype);
        refusals(m, dtype);
        if (dtype == MMIX_DTYPE_I8) deepest(m);
        mmix_reset(m);
    }
    mmix_destroy(m);
    outliers_all();
}

/* ---- attention that multiplies bf16 ---- */

typedef struct attention {
    size_t B, L, S, H, G, N, P;
    int mask;
    size_t prefix, left;
    size_t grid[2], window[2];                   /* none if grid[0] is 0 */
    int runs;                                    /* 1: packed sequences of seven tokens */
} attention;

/* Random numbers, or with exact 1 what bf16 makes of the same. */
static mmix_tensor *heads(mmix_ctx *m, size_t B, size_t L, size_t H, size_t N, int exact)
{
    mmix_tensor *t = mmix_new4(m, B, L, H, N);
    for (size_t i = 0; t && i < mmix_count(t); i++) {
        const real x = (real)(3 * noise());
        mmix_data(t)[i] = x;
        if (exact) mmix_data(t)[i] = (real)mmixi_bf16(mmixi_to_bf16(x));
    }
    return t;
}
/* The mixer of a case. The scale is a power of two, so that queries are rounded as they are here. */
static mmix_mixer attention_of(mmix_ctx *m, const attention *a, int exact)
{
    state = 31;
    mmix_tensor *q = heads(m, a->B, a->L, a->H, a->N, exact);
    mmix_tensor *key = heads(m, a->B, a->S, a->G, a->N, exact);
    mmix_tensor *v = heads(m, a->B, a->S, a->G, a->P, exact);
    mmix_mixer x = mmix_mixer_softmax(q, key, v);
    x.scale = 0.25;
    x.mask = a->mask;
    x.prefix = a->prefix;
    x.left = a->left;
    if (a->grid[0]) {
        mmix_mixer_windows(&x, 2, a->grid, a->window, 1);
        const size_t distances = (2 * a->window[0] - 1) * (2 * a->window[1] - 1);
        mmix_tensor *bias = random1(m, a->H * distances, -1, 1);
        x.bias = shaped(m, bias, 2, a->H, distances, 0);
    }
    if (a->runs) {
        const size_t shape[2] = { a->B, a->L };
        x.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
        for (size_t i = 0; x.seq_idx && i < a->B * a->L; i++)
            mmix_data_i32(x.seq_idx)[i] = (int32_t)(i % a->L / 7);
    }
    return x;
}
static uint64_t hash_mixed(mmix_ctx *m, const mmix_mixer *x)
{
    const mmix_tensor *y = mmix_mix(m, x);
    return CHECK(y != NULL) ? hash_of(mmix_data(y), mmix_count(y), 1) : 0;
}
/* y (B, L, H, P) against M v in the order of keys. The numbers of M are rounded to eight bits before
   they are multiplied, all else is as exact as floats are. */
static int near_matrix(mmix_ctx *m, const mmix_mixer *x, const mmix_tensor *y)
{
    const mmix_tensor *M = mmix_mix_matrix(m, x);
    const size_t *of = y->shape;
    const size_t S = x->v->shape[1], G = x->v->shape[2], P = of[3];
    int near = M != NULL;
    for (size_t i = 0; near && i < mmix_count(y); i++) {
        const size_t b = i / (of[1] * of[2] * P), t = i / (of[2] * P) % of[1];
        const size_t h = i / P % of[2], c = i % P;
        const real *row = mmix_data(M) + ((b * of[2] + h) * of[1] + t) * S;
        wide sum = 0, size = 0;
        for (size_t j = 0; j < S; j++) {
            const size_t at = ((b * S + j) * G + h / (of[2] / G)) * P + c;
            const wide part = (wide)row[j] * (wide)mmix_data(x->v)[at];
            sum += part;
            size += size_of(part);
        }
        near = size_of((wide)mmix_data(y)[i] - sum) <= size * (1.01 / 256) + 2e-5 * size + 1e-6;
    }
    return near;
}
/* The pieces of a sequence, one after another, are near the whole. */
static void mixed_in_pieces(mmix_ctx *m, const mmix_mixer *x)
{
    static const size_t pieces[] = { 2, 9, 1, 30 };
    const size_t L = x->q->shape[1];
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    mmix_tensor *part[8] = { NULL };
    size_t n = 0;
    for (size_t at = 0; at < L && n < 8; n++) {
        size_t some = n < 4 ? pieces[n] : L;
        if (some > L - at) some = L - at;
        mmix_mixer of = *x;
        of.q = mmix_slice(m, x->q, 1, at, some);
        of.k = mmix_slice(m, x->k, 1, at, some);
        of.v = mmix_slice(m, x->v, 1, at, some);
        part[n] = mmix_mix_step(m, &of, s, 0);
        at += some;
    }
    const mmix_tensor *y = mmix_concat(m, 1, part, n);
    if (CHECK(y != NULL)) CHECK(near_matrix(m, x, y));
    mmix_mix_state_destroy(s);
}
static void attention_case(const attention *a)
{
    mmix_ctx *m = at_level(1), *threads = at_level(3);
    mmix_mixer exact = attention_of(m, a, 1), plain = exact;
    mmix_mixer rough = attention_of(m, a, 0), other = attention_of(threads, a, 0);
    exact.bf16 = 1;
    rough.bf16 = 1;
    other.bf16 = 1;
    const mmix_tensor *y = mmix_mix(m, &exact);
    if (CHECK(y != NULL)) CHECK(near_matrix(m, &exact, y));
    const uint64_t of_plain = hash_mixed(m, &plain), of_exact = hash_mixed(m, &exact);
    if (k->bf16_products) {
        CHECK(of_exact != of_plain);
        CHECK(hash_mixed(m, &rough) == of_exact);
        CHECK(hash_mixed(threads, &other) == of_exact);
    } else {
        CHECK(of_exact == of_plain);
    }
    if (a->mask == MMIX_MASK_CAUSAL && !a->grid[0] && !a->runs) mixed_in_pieces(m, &exact);
    /* what is recorded is float's */
    mmix_require_grad(exact.q);
    mmix_record(m, 1);
    CHECK(hash_mixed(m, &exact) == of_plain);
    mmix_record(m, 0);
    FINE(m);
    FINE(threads);
    mmix_destroy(m);
    mmix_destroy(threads);
}
/* With an odd number of keys the last has no other of its pair: an infinity before it stays one. */
static void infinite_value(void)
{
    mmix_ctx *m = at_level(1);
    mmix_tensor *q = mmix_fill(mmix_new4(m, 1, 2, 1, 4), 1);
    mmix_tensor *v = mmix_fill(mmix_new4(m, 1, 3, 1, 1), 1);
    mmix_mixer x = mmix_mixer_softmax(q, mmix_fill(mmix_new4(m, 1, 3, 1, 4), 1), v);
    x.bf16 = 1;
    mmix_data(v)[1] = (real)INFINITY;
    const mmix_tensor *y = mmix_mix(m, &x);
    if (CHECK(y != NULL)) CHECK(mmix_data(y)[1] > 1e30);
    mmix_destroy(m);
}
/* Token after token with what mmix_mix_step remembers; the hash of all y. At token `copied` the steps
   go on from a copy of the state. */
static uint64_t hash_steps(mmix_ctx *m, const mmix_mixer *x, size_t copied, size_t *bytes)
{
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    uint64_t h = 1;
    for (size_t t = 0; t < x->q->shape[1]; t++) {
        mmix_mixer of = *x;
        if (t == copied) {
            mmix_mix_state *copy = mmix_mix_state_copy(s);
            mmix_mix_state_destroy(s);
            s = copy;
        }
        of.q = mmix_slice(m, x->q, 1, t, 1);
        of.k = mmix_slice(m, x->k, 1, t, 1);
        of.v = mmix_slice(m, x->v, 1, t, 1);
        const mmix_tensor *y = mmix_mix_step(m, &of, s, 0);
        if (CHECK(y != NULL)) h = hash_of(mmix_data(y), mmix_count(y), h);
    }
    *bytes = mmix_mix_state_bytes(s);
    mmix_mix_state_destroy(s);
    return h;
}
/* Keys and values that are remembered as bf16 give what floats give that are rounded before. */
static void remembered(size_t L, size_t H, size_t G, size_t N, size_t P, size_t left)
{
    const attention a = { 2, L, L, H, G, N, P, MMIX_MASK_CAUSAL, 0, 0, { 0, 0 }, { 0, 0 }, 0 };
    mmix_ctx *m = at_level(1), *threads = at_level(3);
    mmix_mixer exact = attention_of(m, &a, 1), rough = attention_of(m, &a, 0);
    mmix_mixer other = attention_of(threads, &a, 0);
    size_t floats, halves;
    rough.q = exact.q;
    other.q = attention_of(threads, &a, 1).q;
    rough.bf16 = 1;
    other.bf16 = 1;
    if (left) {
        exact.mask = rough.mask = other.mask = MMIX_MASK_BAND;
        exact.left = rough.left = other.left = left;
    }
    const uint64_t h = hash_steps(m, &exact, L, &floats);
    CHECK(hash_steps(m, &rough, L, &halves) == h);
    CHECK(hash_steps(m, &rough, L / 2, &halves) == h);
    CHECK(hash_steps(threads, &other, L, &halves) == h);
    if (N % 4 == 0 && P % 4 == 0) CHECK(halves < floats * (sizeof(real) == 4 ? 6 : 4) / 10);
    FINE(m);
    FINE(threads);
    mmix_destroy(m);
    mmix_destroy(threads);
}
/* A slot keeps the type and the widths that it began with. */
static void remembered_refusals(void)
{
    const attention a = { 1, 3, 3, 2, 1, 7, 5, MMIX_MASK_CAUSAL, 0, 0, { 0, 0 }, { 0, 0 }, 0 };
    const attention wider_k = { 1, 3, 3, 2, 1, 8, 5, MMIX_MASK_CAUSAL, 0, 0, { 0, 0 }, { 0, 0 }, 0 };
    const attention wider_v = { 1, 3, 3, 2, 1, 7, 6, MMIX_MASK_CAUSAL, 0, 0, { 0, 0 }, { 0, 0 }, 0 };
    const attention heads = { 1, 3, 3, 2, 2, 7, 5, MMIX_MASK_CAUSAL, 0, 0, { 0, 0 }, { 0, 0 }, 0 };
    const attention *const wrong[3] = { &wider_k, &wider_v, &heads };
    mmix_ctx *m = at_level(1);
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    mmix_mixer x = attention_of(m, &a, 0);
    x.bf16 = 1;
    CHECK(mmix_mix_step(m, &x, s, 0) != NULL);
    for (int i = 0; i < 3; i++) {
        mmix_mixer y = attention_of(m, wrong[i], 0);
        y.bf16 = 1;
        BAD(mmix_mix_step(m, &y, s, 0), "mmix_mix_step", "for a slot that carries");
    }
    x.bf16 = 0;
    BAD(mmix_mix_step(m, &x, s, 0), "keys and values as bf16 of 0 and 0 numbers",
        "carries 7 and 5; 0 are floats");
    CHECK(mmix_mix_state_tokens(s, 0) == 3);
    x.remembered = 5;                            /* and nobody else says that rows are bf16 */
    BAD(mmix_mix(m, &x), "mmix_mix: remembered is 5, expected 0", "mmix_mix_step");
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix: remembered is 5", "mmix_mix_step");
    BAD(mmix_mix_step(m, &x, s, 0), "mmix_mix_step: remembered is 5", "expected 0");
    mmix_mix_state_destroy(s);
    mmix_destroy(m);
}
static void attentions(void)
{
    enum { NONE = MMIX_MASK_NONE, CAUSAL = MMIX_MASK_CAUSAL, PREFIX = MMIX_MASK_PREFIX,
           BAND = MMIX_MASK_BAND };
    static const attention all[] = {
        { 2, 50, 50, 4, 2, 64, 64, NONE, 0, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 1, 197, 197, 3, 3, 64, 64, NONE, 0, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 1, 2, 3, 1, 1, 1, 1, NONE, 0, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 1, 25, 33, 2, 1, 5, 17, NONE, 0, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 1, 31, 1100, 2, 1, 33, 47, NONE, 0, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 2, 61, 61, 4, 2, 16, 33, CAUSAL, 0, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 1, 700, 700, 2, 1, 24, 8, CAUSAL, 0, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 1, 90, 90, 2, 2, 8, 12, PREFIX, 40, 0, { 0, 0 }, { 0, 0 }, 0 },
        { 1, 90, 90, 2, 2, 8, 12, BAND, 0, 21, { 0, 0 }, { 0, 0 }, 0 },
        { 2, 90, 90, 2, 2, 8, 12, NONE, 0, 0, { 0, 0 }, { 0, 0 }, 1 },
        { 1, 77, 77, 2, 1, 16, 16, NONE, 0, 0, { 7, 11 }, { 4, 5 }, 0 },
        { 1, 77, 77, 2, 1, 16, 16, CAUSAL, 0, 0, { 7, 11 }, { 4, 5 }, 0 }
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(about, sizeof about, "attention %d, %s", (int)i, k->name);
        attention_case(&all[i]);
    }
    infinite_value();
    snprintf(about, sizeof about, "remembered as bf16, %s", k->name);
    remembered(40, 4, 2, 16, 8, 0);
    remembered(90, 3, 1, 64, 64, 0);
    remembered(33, 2, 2, 5, 3, 0);
    remembered(60, 6, 2, 17, 20, 9);
    remembered_refusals();
}

/* ---- products of floats by bf16: mmix_multiply_bf16 ---- */

enum { OUT, DX, DW, DB, MADE };
/* y = x Wᵀ + b (rows, O) and the gradients of Σ y g, or with plain 1 y = a b of matrices and its
   gradients, made of numbers that are bf16 already, or not. */
typedef struct multiplied { uint64_t hash[MADE]; real *values[MADE]; size_t count[MADE]; } multiplied;
static mmix_tensor *numbers(mmix_ctx *m, size_t rows, size_t cols, int exact)
{
    return shaped(m, heads(m, 1, 1, rows, cols, exact), 2, rows, cols, 0);
}
static multiplied multiply(int threads, int on, size_t rows, size_t D, size_t O, int plain, int exact)
{
    multiplied got;
    mmix_ctx *m = at_level(threads);
    memset(&got, 0, sizeof got);
    state = 77;
    mmix_tensor *x = numbers(m, rows, D, exact);
    mmix_tensor *w = plain ? numbers(m, D, O, exact) : numbers(m, O, D, exact);
    mmix_tensor *b = random1(m, O, -1, 1), *g = numbers(m, rows, O, exact);
    mmix_tensor *of[MADE] = { NULL };
    CHECK(mmix_multiply_bf16(m, on) == 0 && mmix_has_bf16(m) == k->bf16_products);
    mmix_require_grad(x);
    mmix_require_grad(w);
    mmix_require_grad(b);
    mmix_record(m, 1);
    mmix_tensor *y = plain ? mmix_matmul(m, x, w) : mmix_linear(m, x, w, b);
    if (y) got.values[OUT] = values_of(y);       /* a backward gives its memory back */
    got.count[OUT] = mmix_count(y);
    CHECK(!mmix_backward(m, mmix_sum(m, mmix_mul(m, y, g))));
    of[DX] = mmix_grad(x);
    of[DW] = mmix_grad(w);
    of[DB] = mmix_grad(b);
    for (int i = 0; i < MADE; i++) {
        if (of[i]) {
            got.count[i] = mmix_count(of[i]);
            got.values[i] = values_of(of[i]);
        }
        if (got.values[i]) got.hash[i] = hash_of(got.values[i], got.count[i], 1);
    }
    CHECK(mmix_multiply_bf16(m, 0) == on);
    FINE(m);
    mmix_destroy(m);
    return got;
}
static void multiplied_free(multiplied *x)
{
    for (int i = 0; i < MADE; i++) free(x->values[i]);
}
static int same_hashes(const multiplied *a, const multiplied *b)
{
    return !memcmp(a->hash, b->hash, sizeof a->hash);
}
static void multiplied_case(size_t rows, size_t D, size_t O, int plain)
{
    static const int threads[] = { 2, 3, 5 };
    multiplied floats = multiply(1, 0, rows, D, O, plain, 1);
    multiplied exact = multiply(1, 1, rows, D, O, plain, 1);
    multiplied rough = multiply(1, 1, rows, D, O, plain, 0);
    snprintf(about, sizeof about, "%s of %dx%dx%d by bf16, %s", plain ? "matmul" : "linear",
             (int)rows, (int)D, (int)O, k->name);
    /* sums of products of numbers below 3, in another order */
    for (int i = 0; i < MADE; i++) {
        const double terms = 9 * (double)(D + O + rows);
        double off = 0;
        for (size_t j = 0; j < exact.count[i]; j++)
            off = fmax(off, fabs((double)exact.values[i][j] - (double)floats.values[i][j]));
        CHECK(off <= 1e-6 * terms);
    }
    if (!k->bf16_products) {
        CHECK(same_hashes(&exact, &floats));
    } else {
        for (int i = 0; i < DB; i++) CHECK(rough.hash[i] == exact.hash[i]);
        multiplied rounded = multiply(1, 0, rows, D, O, plain, 0);
        CHECK(rounded.hash[OUT] != rough.hash[OUT] && rounded.hash[DX] != rough.hash[DX]
              && rounded.hash[DW] != rough.hash[DW]);
        multiplied_free(&rounded);
    }
    for (int t = 0; t < 3; t++) {
        multiplied other = multiply(threads[t], 1, rows, D, O, plain, 0);
        CHECK(same_hashes(&other, &rough));
        multiplied_free(&other);
    }
    multiplied_free(&floats);
    multiplied_free(&exact);
    multiplied_free(&rough);
}
static void multiplications(void)
{
    multiplied_case(64, 64, 64, 0);
    multiplied_case(197, 99, 131, 0);
    multiplied_case(35, 1100, 47, 0);            /* pieces of the depth */
    multiplied_case(1030, 40, 33, 0);
    multiplied_case(70, 65, 1029, 1);
    multiplied_case(131, 33, 49, 1);
}

/* One product by each level: int8 to a unit of the last place, four bits to those of the blocks'
   sums, bf16 to what becomes of x. */
static void between_levels(void)
{
    enum { R = 13, O = 50, D = 203 };
    static mmixi_kernels table[2];
    for (int t = 0; t < TYPES; t++) {
        const int dtype = type_of[t];
        mmix_tensor *w, *reals, *y[2];
        for (int at = 1; at < LEVELS; at++) {
            if (!level(at, &table[1]) || !level(0, &table[0])) continue;
            mmix_ctx *m = at_level(1);
            state = 5;
            both_matrices(m, dtype, O, D, &w, &reals);
            mmix_tensor *x = shaped(m, random3(m, 1, R, D, -2, 2), 2, R, D, 0);
            for (int i = 0; i < 2; i++) {
                k = &table[i];
                *m->k = *k;
                y[i] = mmix_linear(m, x, w, NULL);
            }
            doing_type("levels", dtype, 0);
            if (dtype == MMIX_DTYPE_BF16) CHECK(near_reals(dtype, x, reals, y[1], y[0]));
            else ALIKE(y[1], y[0], dtype == MMIX_DTYPE_I8 ? 2 * FLOAT_ULP : 20 * FLOAT_ULP);
            FINE(m);
            mmix_destroy(m);
        }
    }
}

/* ---- files ---- */

enum { PIECES = 3 };
static mmix_vision_config odd_vision(int mixer)  /* whose pieces begin and end within panels */
{
    mmix_vision_config c = small_vision(mixer);
    c.dim = 24;
    return c;
}
static void random_values(mmix_ctx *m, mmix_params *p)
{
    for (size_t i = 0; i < p->count; i++) {
        mmix_tensor *t = p->at[i].tensor;
        if (mmix_ndim(t) < 2) continue;
        for (size_t e = 0; e < mmix_count(t); e++)
            mmix_data(t)[e] = (real)(0.2 * mmix_random_normal(m, 0, i, e));
    }
}
/* A plain ViT's parameters as Hugging Face's files name them and cut them, in float. */
static void save_in_pieces(mmix_ctx *m, const mmix_params *p)
{
    static const char *const word[PIECES] = { "query", "key", "value" };
    static const char *const pairs[][2] = {
        { "norm1", "layernorm_before" }, { "norm2", "layernorm_after" },
        { "mlp.fc1", "intermediate.dense" }, { "mlp.fc2", "output.dense" },
        { "cls_token", "embeddings.cls_token" },
        { "pos_embed", "embeddings.position_embeddings" },
        { "patch_embed.proj", "embeddings.patch_embeddings.projection" },
        { "attn.proj", "attention.output.dense" }, { "norm.", "layernorm." },
        { "attn.qkv", "" }
    };
    static char name[100][160];
    static mmix_entry e[100];
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++) {
        const char *old = p->at[i].name, *rest = old, *now = "", *layer = "";
        int block = 0, skipped_letters = 0;
        size_t q = 0;
        if (sscanf(old, "blocks.%d.%n", &block, &skipped_letters) == 1) {
            rest = old + skipped_letters;
            layer = "encoder.layer.";
        }
        while (q < 10 && strncmp(rest, pairs[q][0], strlen(pairs[q][0])))
            q++;
        if (!CHECK_AT(q < 10, old)) return;
        now = pairs[q][1];
        rest += strlen(pairs[q][0]);
        const int pieces = *now ? 1 : PIECES;
        for (int piece = 0; piece < pieces; piece++, n++) {
            char number[16] = "";
            if (*layer) snprintf(number, sizeof number, "%d.", block);
            snprintf(name[n], sizeof name[n], "%s%s%s%s%s", layer, number,
                     *now ? now : "attention.attention.", *now ? "" : word[piece], rest);
            e[n] = entry_of(&p->at[i]);
            e[n].name = name[n];
            e[n].shape[0] /= (size_t)pieces;
            e[n].data = mmix_data(p->at[i].tensor) + (size_t)piece * mmix_entry_count(&e[n]);
        }
    }
    CHECK(!mmix_archive_save(m, OTHER, e, n, NULL));
}
/* Each matrix that was read is the one that mmix_write makes of the file's numbers; what is no
   matrix is as it was. */
static void matrices_are(mmix_ctx *m, const mmix_params *file, const mmix_params *read, int dtype)
{
    CHECK(file->count == read->count);
    for (size_t i = 0; i < file->count && i < read->count; i++) {
        const mmix_tensor *a = file->at[i].tensor, *b = read->at[i].tensor;
        const int is_matrix = mmix_ndim(a) == 2;
        real *expected = (real *)malloc(mmix_count(a) * sizeof *expected);
        CHECK_AT(mmix_dtype(b) == (is_matrix ? dtype : MMIX_DTYPE_REAL), file->at[i].name);
        if (is_matrix)
            packed(m, dtype, mmix_shape(a, 0), mmix_shape(a, 1), mmix_data(a), expected);
        else CHECK(!mmix_read(a, expected));
        real *got = values_of(b);
        CHECK_AT(!memcmp(got, expected, mmix_count(a) * sizeof *got), file->at[i].name);
        free(got);
        free(expected);
    }
}
/* Whether two lists stand for the same numbers. */
static void same_numbers(const mmix_params *a, const mmix_params *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        real *x = values_of(a->at[i].tensor), *y = values_of(b->at[i].tensor);
        CHECK_AT(!memcmp(x, y, mmix_count(a->at[i].tensor) * sizeof *x), a->at[i].name);
        free(x);
        free(y);
    }
}
/* Saved, matrices come back as they are, as reals, too. */
static void saved_again(mmix_ctx *m, const mmix_vision *narrow, int dtype)
{
    const mmix_params *p = mmix_vision_params((mmix_vision *)narrow);
    CHECK(!mmix_vision_save(m, narrow, OTHER));
    mmix_vision *back = mmix_vision_load(m, OTHER);
    mmix_vision *twice = mmix_vision_load_as(m, OTHER, dtype);
    if (!CHECK_AT(back && twice, mmix_error(m))) return;
    same_numbers(p, mmix_vision_params(back));
    same_numbers(p, mmix_vision_params(twice));
    CHECK(mmix_vision_params(twice)->slab == p->slab);
    mmix_vision_destroy(back);
    mmix_vision_destroy(twice);
}
static void network(mmix_ctx *m, int mixer, int dtype)
{
    mmix_vision *v = mmix_vision_create(m, odd_vision(mixer));
    mmix_params *p = mmix_vision_params(v);
    random_values(m, p);
    CHECK(!mmix_vision_save(m, v, PATH));
    mmix_vision *narrow = mmix_vision_load_as(m, PATH, dtype);
    if (!CHECK_AT(narrow, mmix_error(m))) return;
    mmix_params *q = mmix_vision_params(narrow);
    matrices_are(m, p, q, dtype);
    CHECK(q->slab < p->slab);
    widen(q, p);
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 20, 20), 1, 3);
    mmix_tensor *a = mmix_vision_forward(m, v, image, NULL).tokens;
    CHECK(!mmix_params_pack(q, 1));
    mmix_tensor *b = mmix_vision_forward(m, narrow, image, NULL).tokens;
    int rounds_x = dtype == MMIX_DTYPE_I8 || dtype == MMIX_DTYPE_Q4;
    rounds_x |= dtype == MMIX_DTYPE_BF16 && k->bf16_products;
    ALIKE(b, a, rounds_x ? 0.04 : 200 * REAL_ULP);
    if (rounds_x) CHECK(apart(b, a) > 0);
    BAD_INT(mmix_ema(p, q, 0.5), "mmix_ema", "different");
    saved_again(m, narrow, dtype);
    FINE(m);
    mmix_vision_destroy(narrow);
    mmix_vision_destroy(v);
}
/* Mamba-1's A_log stays real when a list becomes narrow, and is packed beside the others. A row that
   is longer than sums of int8 go stays what it was. */
static void packed_after(mmix_ctx *m)
{
    const size_t shape[2] = { 16, MMIXI_I8_DEPTH + 1 };
    mmix_vision_config c = mmix_vision_config_vim(192, 0);
    c.depth = 1;
    mmix_vision *v = mmix_vision_create(m, c);
    mmix_params *p = mmix_vision_params(v), *q = mmix_params_create(m);
    CHECK(!mmix_params_narrow(p, MMIX_DTYPE_BF16) && !mmix_params_pack(p, 1));
    size_t packed = 0;
    for (size_t i = 0; i < p->count; i++) {
        int is_rates = strstr(p->at[i].name, "A_log") || strstr(p->at[i].name, "A_b_log");
        packed += p->at[i].tensor->packed != NULL;
        if (is_rates) CHECK(p->at[i].tensor->packed != NULL);
    }
    CHECK(packed >= 2);
    mmix_vision_destroy(v);
    mmix_tensor *w = mmix_params_add(q, "", "w.weight", 2, shape, MMIX_INIT_CONSTANT, 1, 0);
    mmix_params_allocate(q);
    BAD_INT(mmix_params_narrow(q, MMIX_DTYPE_I8), "w.weight has rows of", "for int8");
    CHECK(!mmixi_is_narrow(w) && mmix_data(w)[1] > 0);
    mmix_params_destroy(q);
    FINE(m);
}
/* The same network from pieces that begin and end within panels, by threads. */
static void pieces(mmix_ctx *m, size_t dim, int dtype)
{
    mmix_vision_config c = odd_vision(MMIX_MIXER_SOFTMAX);
    c.dim = dim;
    mmix_vision *v = mmix_vision_create(m, c);
    mmix_params *p = mmix_vision_params(v);
    random_values(m, p);
    save_in_pieces(m, p);
    mmix_vision *narrow = mmixi_vision_create(m, c, MMIXI_BEGIN_EMPTY, dtype);
    mmix_archive *a = mmix_archive_open(m, OTHER);
    if (CHECK_AT(narrow && a, mmix_error(m))) {
        CHECK(!mmix_params_read(mmix_vision_params(narrow), a, NULL));
        matrices_are(m, p, mmix_vision_params(narrow), dtype);
    }
    FINE(m);
    mmix_archive_close(a);
    mmix_vision_destroy(narrow);
    mmix_vision_destroy(v);
}
/* A matrix of a type that cannot be read: one message, from any number of threads. */
static void unreadable(mmix_ctx *m, int dtype)
{
    const mmix_vision_config c = odd_vision(MMIX_MIXER_SOFTMAX);
    mmix_vision *v = mmix_vision_create(m, c);
    CHECK(!mmix_vision_save(m, v, PATH));
    mmix_vision_destroy(v);
    mmix_vision *narrow = mmixi_vision_create(m, c, MMIXI_BEGIN_EMPTY, dtype);
    mmix_archive *a = mmix_archive_open(m, PATH);
    if (CHECK_AT(narrow && a, mmix_error(m))) {
        for (size_t i = 0; i < mmix_archive_count(a); i++)
            if (!strcmp(a->entries[i].name, "blocks.0.mlp.fc1.weight"))
                a->entries[i].dtype = MMIX_FILE_OTHER;
        CHECK(mmix_params_read(mmix_vision_params(narrow), a, NULL));
        CHECK(says(m, MMIX_ERROR_FILE, "blocks.0.mlp.fc1.weight"));
    }
    mmix_archive_close(a);
    mmix_vision_destroy(narrow);
}
static void files_of_level(void)
{
    for (int t = 0; t < TYPES; t++) {
        mmix_ctx *m = at_level(1 + 2 * (t % 2));
        for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SSD; mixer++) {
            doing_type(mixer_name(mixer), type_of[t], 0);
            network(m, mixer, type_of[t]);
            mmix_reset(m);
        }
        mmix_destroy(m);
    }
}
static void files(void)
{
    levels(files_of_level);
    k = NULL;
    for (int t = 0; t < TYPES; t++) {
        mmix_ctx *m = context(3, 7);
        doing_type("pieces", type_of[t], 0);
        pieces(m, 24, type_of[t]);
        pieces(m, 48, type_of[t]);
        pieces(m, 10, type_of[t]);
        packed_after(m);
        unreadable(m, type_of[t]);
        BAD(mmix_vision_load_as(m, PATH, MMIX_DTYPE_I32), "mmix_vision_load_as", "expected");
        BAD(mmix_vision_load_as(m, PATH, MMIX_DTYPE_Q4 + 1), "mmix_vision_load_as", "dtype");
        mmix_destroy(m);
    }
    remove(PATH);
    remove(OTHER);
}

/* ---- blocks that run in place ----

   A context whose linear layer is another one's runs each op by itself, and must find the same
   bits. */

static int linear_of_others(mmix_ctx *m, mmix_call *c) { return mmixi_linear_forward(m, c); }
static uint64_t hash_tensor(const mmix_tensor *t, uint64_t h)
{
    return t ? hash_of(mmix_data((mmix_tensor *)(uintptr_t)t), mmix_count(t), h) : h;
}
/* The same of vectors, as norms', biases and γ. */
static void random_vectors(mmix_ctx *m, mmix_params *p)
{
    for (size_t i = 0; i < p->count; i++) {
        mmix_tensor *t = p->at[i].tensor;
        for (size_t e = 0; mmix_ndim(t) == 1 && e < mmix_count(t); e++)
            mmix_data(t)[e] = (real)(0.5 + mmix_random_uniform(m, 1, i, e));
    }
}
/* So many pictures or texts are enough for two threads; AMX's tiles are higher. */
static size_t enough(size_t few) { return k->amx ? 4 * few : few; }
/* All that a backbone says of some pictures. */
static uint64_t hash_vision(const mmix_vision_config *c, int dtype, int threads, int by_ops)
{
    mmix_ctx *m = at_level(threads);
    mmix_vision *v = mmix_vision_create(m, *c);
    random_values(m, mmix_vision_params(v));
    random_vectors(m, mmix_vision_params(v));
    if (dtype) CHECK(!mmix_params_narrow(mmix_vision_params(v), dtype));
    CHECK(mmixi_tokens_suffice(m, enough(3) * 26));
    if (by_ops) m->table[MMIX_OP_LINEAR].forward = linear_of_others;
    CHECK(mmixi_tokens_suffice(m, enough(3) * 26) == !by_ops);
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, enough(3), 3, 20, 20), 1, 3), *outputs[4];
    const size_t dense[1] = { 1 };
    mmix_vision_options o;
    memset(&o, 0, sizeof o);
    o.n_last = 2;
    o.dense = dense;
    o.n_dense = 1;
    o.outputs = outputs;
    const mmix_features f = mmix_vision_forward(m, v, image, &o);
    uint64_t h = hash_tensor(f.tokens, 1);
    h = hash_tensor(f.intermediate, h);
    h = hash_tensor(f.dense ? f.dense[0] : NULL, h);
    for (size_t i = 0; i < c->depth; i++) h = hash_tensor(outputs[i], h);
    FINE(m);
    mmix_vision_destroy(v);
    mmix_destroy(m);
    return h;
}
static uint64_t hash_towers(int activation, int dtype, int threads, int by_ops)
{
    mmix_ctx *m = at_level(threads);
    mmix_towers_config c;
    memset(&c, 0, sizeof c);
    c.picture.dim = c.text.dim = 24;
    c.picture.depth = c.text.depth = 2;
    c.picture.heads = c.text.heads = 3;
    c.picture.ffn = c.text.ffn = 40;
    c.picture.activation = c.text.activation = activation;
    c.picture.eps = c.text.eps = 1e-5;
    c.picture.patch = 4;
    c.picture.side = 16;
    c.picture.projection = c.text.projection = 1;
    c.text.vocabulary = 9;
    c.text.positions = 11;
    c.text.causal = 1;
    c.text.pool = MMIX_TOWER_LAST;
    c.width = 5;
    mmix_towers *t = mmix_towers_create(m, c);
    random_values(m, mmix_towers_params(t));
    random_vectors(m, mmix_towers_params(t));
    if (dtype) CHECK(!mmix_params_narrow(mmix_towers_params(t), dtype));
    if (by_ops) m->table[MMIX_OP_LINEAR].forward = linear_of_others;
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, enough(5), 3, 16, 16), 1, 3);
    int32_t ids[32 * 11];
    const size_t shape[2] = { enough(8), 11 };
    for (size_t i = 0; i < 32 * 11; i++) ids[i] = (int32_t)(i * 7 % 9);
    uint64_t h = hash_tensor(mmix_towers_picture(m, t, image), 1);
    h = hash_tensor(mmix_towers_text(m, t, mmix_from_i32(m, 2, shape, ids)), h);
    FINE(m);
    mmix_towers_destroy(t);
    mmix_destroy(m);
    return h;
}
static void blocks_of(int dtype)
{
    for (int kind = 0; kind < 3; kind++) {
        mmix_vision_config c = odd_vision(kind == 2 ? MMIX_MIXER_LINEAR : MMIX_MIXER_SOFTMAX);
        c.layer_scale = kind == 1;
        doing_type("a backbone in place", dtype, (size_t)kind);
        uint64_t h = hash_vision(&c, dtype, 1, 1);
        CHECK(hash_vision(&c, dtype, 1, 0) == h);
        CHECK(hash_vision(&c, dtype, 2, 0) == h);
    }
    for (int a = MMIX_ACTIVATION_GELU; a <= MMIX_ACTIVATION_QUICK_GELU; a++) {
        doing_type("towers in place", dtype, (size_t)a);
        uint64_t h = hash_towers(a, dtype, 1, 1);
        CHECK(hash_towers(a, dtype, 1, 0) == h);
        CHECK(hash_towers(a, dtype, 2, 0) == h);
    }
}
static void blocks(void)
{
    blocks_of(MMIX_DTYPE_REAL);
    for (int t = 0; t < TYPES; t++) blocks_of(type_of[t]);
}

/* ---- memory ---- */

static int linear_run(const mmix_options *o, void *user)
{
    const int dtype = *(const int *)user;
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_tensor *w = matrix(m, dtype, 300, 70), *x = mmix_new2(m, 900, 70), *y;
    size_t one = 1;
    int32_t at = 299;
    if (w) mmix_fill(w, 0.5);
    if (w) mmix_fill_normal(m, w, 1, 3);
    if (x) mmix_require_grad(mmix_fill(x, 1));
    mmix_record(m, 1);
    y = mmix_linear(m, x, w, NULL);
    mmix_take_rows(m, w, mmix_from_i32(m, 1, &one, &at));
    if (y) mmix_backward(m, mmix_sum(m, y));
    const int kind = mmix_error_kind(m);
    mmix_destroy(m);
    return kind;
}
static int load_run(const mmix_options *o, void *user)
{
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_vision *v = mmix_vision_load_as(m, PATH, *(const int *)user);
    if (v) {
        mmix_tensor *image = mmix_new4(m, 13, 3, 16, 16);    /* enough to run in place */
        mmix_vision_forward(m, v, image ? mmix_fill(image, 1) : NULL, NULL);
        mmix_vision_save(m, v, OTHER);
    }
    const int kind = mmix_error_kind(m);
    mmix_vision_destroy(v);
    mmix_destroy(m);
    return kind;
}
static void memory(void)
{
    mmix_ctx *m = context(1, 1);
    mmix_vision *v = mmix_vision_create(m, odd_vision(MMIX_MIXER_SOFTMAX));
    CHECK(!mmix_vision_save(m, v, PATH));
    mmix_vision_destroy(v);
    mmix_destroy(m);
    k = NULL;
    for (int t = 0; t < TYPES; t++) {
        int dtype = type_of[t];
        for (int rest = 0; rest < 2; rest++) {
            doing_type("memory of a product", dtype, 0);
            CHECK(memory_fails(linear_run, &dtype, rest, 1) > 3);
            doing_type("memory of a network", dtype, 0);
            CHECK(memory_fails(load_run, &dtype, rest, ARENA_BLOCK == 256 ? 3 : 1) > 10);
        }
    }
    remove(PATH);
    remove(OTHER);
}

static void all_tiles(void) { levels(tiles); }
static void all_products(void) { levels(products); }
static void all_rows(void) { levels(rows); }
static void all_multiplications(void) { levels(multiplications); }
static void all_attentions(void) { levels(attentions); }
static void all_blocks(void) { levels(blocks); }
static void all_linears(void)
{
    levels(linears);
    between_levels();
}
int main(int argc, char **argv)
{
    static const section all[] = { { "definition", definition }, { "tiles", all_tiles },
                                   { "products", all_products }, { "rows", all_rows },
                                   { "linear", all_linears },    { "attention", all_attentions },
                                   { "multiply", all_multiplications },
                                   { "blocks", all_blocks },
                                   { "files", files },
                                   { "memory", memory } };
    return sections(all, sizeof all / sizeof *all, argc, argv);
}
