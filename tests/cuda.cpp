/* cuda [CASES]

   The kernels of mamba_mix_cuda.cu against the CPU's functions: random shapes and options of the three mixers, forward
   and backward, in every precision; strides and sentinels of the raw calls; the attachment's counts, thresholds and
   errors. Built with MMIX_CUDA_HOST by a C++ compiler it runs the kernels on tests/cuda_host.h, a device that is not
   there, and then also in descending order of threads (equal bits wanted), and with calls of the runtime that fail.
   Built by nvcc it runs them on the GPU. Prints failures, the worst error of each kind, and the counts. */
#ifdef MMIX_CUDA_HOST
#include "cuda_host.h"
#endif
#include "../mamba_mix_cuda.cu"
#include <string>
#include <vector>

static int passed, failed, skipped;
#define CHECK(x) do { if (x) passed++; else { failed++; printf("FAILED  %s:%d: %s\n", __FILE__, __LINE__, #x); } } while (0)

/* ---- numbers ---- */

static uint64_t state = 1;
static uint32_t next(void)
{
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return (uint32_t)(state >> 32);
}
static size_t any(size_t low, size_t high) { return low + next() % (high - low + 1); }
static int chance(unsigned in) { return next() % in == 0; }
static size_t one_of(size_t a, size_t b, size_t c, size_t d) { const size_t v[4] = { a, b, c, d }; return v[next() % 4]; }
static float uniform(double low, double high) { return (float)(low + (high - low) * (next() / 4294967296.0)); }
static float rounded(float x, int half) { return half ? mmixi_cuda_whole(mmixi_cuda_half(x)) : x; }

/* ---- a case: what is mixed, and everything that comes of it ---- */

struct Case {
    int kind, half;
    size_t B, L, S, H, G, Gx, Gc, N, P;
    mmix_mixer o;                                /* options; its tensors are made by run() */
    int D, bias, dt_bias, initial, final, packed, lefts;
    double fast;                                 /* |a| up to so much */
    uint64_t seed;
};
struct Result { const char *name; std::vector<float> v; };
typedef std::vector<Result> Results;

static mmix_tensor *tensor(mmix_ctx *m, int half, double low, double high, size_t a, size_t b, size_t c, size_t d)
{
    const size_t shape[4] = { a, b, c, d };
    int n = 4;
    while (n > 1 && !shape[n - 1]) n--;
    mmix_tensor *t = mmix_new(m, MMIX_DTYPE_REAL, n, shape);
    for (size_t i = 0; t && i < mmix_count(t); i++) mmix_data(t)[i] = rounded(uniform(low, high), half);
    return mmix_require_grad(t);
}
static mmix_tensor *wide(mmix_ctx *m, int half, size_t a, size_t b, size_t c, size_t d)
{
    return tensor(m, half, -1.7, 1.7, a, b, c, d);
}
static void keep(Results *r, const char *name, const mmix_tensor *t)
{
    Result one;
    if (!t) return;
    one.name = name;
    one.v.resize(mmix_count(t));
    mmix_read(t, one.v.data());
    r->push_back(one);
}
/* The mixer of a case on m: y, the final state, and the gradients of all that has one. */
static Results run(mmix_ctx *m, const Case &c, int record)
{
    mmix_mixer x = c.o;
    mmix_tensor *last = NULL, *out[2], *up[2];
    Results r;
    state = c.seed;
    mmix_record(m, record);
    x.kind = c.kind;
    x.q = wide(m, c.half, c.B, c.L, c.kind == MMIX_SSD ? c.Gc : c.H, c.N);
    x.k = wide(m, c.half, c.B, c.S, c.G, c.N);
    x.v = wide(m, c.half, c.B, c.S, c.kind == MMIX_SSD ? c.Gx : c.G, c.P);
    if (c.kind == MMIX_SSD) {
        x.dt = tensor(m, c.half, c.o.dt_softplus ? -3 : 0.001, c.o.dt_softplus ? 1 : 0.3, c.B, c.L, c.H, 0);
        x.A = tensor(m, 0, -c.fast, -0.01, c.H, 0, 0, 0);
        if (c.D) x.D = wide(m, 0, c.H, c.D > 1 ? c.P : 0, 0, 0);
        if (c.dt_bias) x.dt_bias = tensor(m, 0, -1, 1, c.H, 0, 0, 0);
    }
    if (c.bias) {
        size_t distances = 1;
        for (int a = 0; a < 3; a++) distances *= 2 * (x.window[a] ? x.window[a] : 1) - 1;
        x.bias = wide(m, 0, c.H, distances, 0, 0);
    }
    if (c.initial && c.kind == MMIX_SSD) x.initial_state = wide(m, 0, c.B, c.H, c.P, c.N);
    if (c.initial && c.kind == MMIX_LINEAR)
        x.initial_state = tensor(m, 0, 0, 1, c.B, c.G, c.P + (x.normalise > 0 || (!x.normalise && (x.feature == MMIX_FEATURE_ELU1
            || x.feature == MMIX_FEATURE_RELU))), c.N);
    if (c.final) x.final_state = &last;
    if (c.packed) {
        std::vector<int32_t> seq(c.B * c.L);
        for (size_t i = 0; i < seq.size(); i++) seq[i] = i % c.L && !chance(9) ? seq[i - 1] : (int32_t)(next() % 7);
        const size_t shape[2] = { c.B, c.L };
        x.seq_idx = mmix_from_i32(m, 2, shape, seq.data());
    }
    if (c.lefts) {
        std::vector<int32_t> left(c.L);
        for (size_t i = 0; i < c.L; i++) left[i] = (int32_t)(next() % (x.left + 1));
        x.lefts = mmix_from_i32(m, 1, &c.L, left.data());
    }
    out[0] = mmix_mix(m, &x);
    if (mmix_error(m)) return r;
    keep(&r, "y", out[0]);
    keep(&r, "final_state", last);
    if (!record) { mmix_reset(m); return r; }
    up[0] = wide(m, c.half, c.B, c.L, c.H, c.P);
    out[1] = last;
    if (last) up[1] = wide(m, 0, mmix_shape(last, 0), mmix_shape(last, 1), mmix_shape(last, 2), mmix_shape(last, 3));
    if (!mmix_backward_from(m, out, up, last ? 2 : 1)) {
        mmix_tensor *t[] = { x.q, x.k, x.v, x.dt, x.A, x.D, x.dt_bias, x.bias, x.initial_state };
        static const char *const names[] = { "dq", "dk", "dv", "ddt", "dA", "dD", "ddt_bias", "dbias", "dinitial" };
        for (int i = 0; i < 9; i++) if (t[i]) keep(&r, names[i], mmix_grad(t[i]));
    }
    mmix_record(m, 0);
    if (!mmix_error(m)) mmix_reset(m);
    return r;
}
/* The largest error over the largest value; infinite where something is missing or not a number. */
static double difference(const Results &a, const Results &b, const char **worst)
{
    double most = a.size() == b.size() && !a.empty() ? 0 : HUGE_VAL;
    *worst = a.size() == b.size() ? "" : "another number of results";
    for (size_t i = 0; i < a.size() && i < b.size(); i++) {
        double largest = 1e-3, error = a[i].v.size() == b[i].v.size() ? 0 : HUGE_VAL;
        for (size_t k = 0; k < a[i].v.size() && k < b[i].v.size(); k++) {
            const double d = fabs((double)a[i].v[k] - (double)b[i].v[k]);
            if (!(d <= error)) error = d != d ? HUGE_VAL : d;
            if (fabs((double)a[i].v[k]) > largest) largest = fabs((double)a[i].v[k]);
        }
        if (error / largest > most) most = error / largest, *worst = a[i].name;
    }
    return most;
}
static int same_bits(const Results &a, const Results &b)
{
    if (a.size() != b.size()) return 0;
    for (size_t i = 0; i < a.size(); i++)
        if (a[i].v.size() != b[i].v.size() || memcmp(a[i].v.data(), b[i].v.data(), a[i].v.size() * sizeof(float))) return 0;
    return 1;
}

/* ---- random cases ---- */

static Case random_case(int kind, int half)
{
    Case c;
    memset(&c, 0, sizeof c);
    c.kind = kind;
    c.half = half;
    c.B = any(1, 2);
    c.H = one_of(1, 2, 4, 6);
    c.G = c.H / one_of(1, 1, c.H % 2 ? 1 : 2, c.H);
    c.Gx = chance(3) ? 1 : c.H;
    c.Gc = chance(2) ? c.G : chance(2) ? c.H : 1;
    c.L = chance(6) ? one_of(63, 64, 65, 128) : chance(8) ? any(129, 200) : any(1, 70);
    c.S = c.L;
    c.N = chance(5) ? one_of(16, 64, 72, 128) : any(1, 24);
    c.P = chance(5) ? one_of(16, 64, 80, 64) : any(1, 24);
    c.seed = ((uint64_t)next() << 32 | next()) | 1;
    if (kind == MMIX_SSD) {
        if (c.N * c.P > 5000 && !half) c.P = 64, c.N = c.N > 64 ? 128 : c.N;
        c.D = (int)any(0, 2);
        c.dt_bias = chance(2);
        c.o.dt_softplus = chance(2);
        if (chance(3)) c.o.dt_low = 0.05, c.o.dt_high = 0.6;
        c.o.direction = chance(3) ? MMIX_REVERSE : chance(6) ? MMIX_BOTH : MMIX_FORWARD;
        c.initial = c.o.direction != MMIX_BOTH && chance(2);
        c.final = c.o.direction != MMIX_BOTH && chance(2);
        c.packed = chance(3);
        c.fast = chance(4) ? (half ? 30 : 200) : chance(3) ? 0.02 : 2;
    } else if (kind == MMIX_SOFTMAX) {
        const unsigned form = next() % 6;
        if (form == 0 && chance(2)) c.S = any(1, 100);
        if (form == 1) c.o.mask = MMIX_MASK_CAUSAL;
        if (form == 2) c.o.mask = MMIX_MASK_PREFIX, c.o.prefix = any(0, c.L + 3);
        if (form == 3) c.o.mask = MMIX_MASK_BAND, c.o.left = any(0, 20), c.o.right = any(0, 9), c.lefts = chance(2);
        if (form < 4) c.packed = c.S == c.L && chance(3);
        if (form && form < 4 && !c.packed && chance(3)) c.S = c.L + any(1, 30);
        if (form >= 4) {
            size_t grid[3], window[3];
            const int axes = (int)any(1, 3);
            for (int a = 0; a < 3; a++) grid[a] = a < axes ? any(1, 6) : 1, window[a] = any(1, 4);
            mmix_mixer_windows(&c.o, axes, grid, window, chance(2));
            c.S = c.L = grid[0] * grid[1] * grid[2];
            c.o.mask = chance(2) ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
            c.bias = chance(2);
        }
        if (chance(3)) c.o.scale = 0.3;
    } else {
        c.o.feature = (int)any(0, 4);
        c.o.normalise = c.o.feature == MMIX_FEATURE_NONE ? 0 : (int)any(0, 2) - 1;
        if (c.o.feature == MMIX_FEATURE_RELU) c.o.normalise = -1;        /* a row without a positive number has the sum 0 */
        if (c.o.feature != MMIX_FEATURE_EFFICIENT && chance(2)) {
            c.o.mask = MMIX_MASK_CAUSAL;
            c.packed = chance(2);
            c.initial = chance(2);
            c.final = chance(2);
        } else if (chance(3)) c.S = any(1, 100);
    }
    return c;
}
static void describe(const Case &c, const char *what, double error, const char *worst)
{
    printf("%s: kind %d, error %.3g in %s: B %d, L %d, S %d, H %d, G %d, Gx %d, Gc %d, N %d, P %d, mask %d, feature %d, normalise %d, "
           "direction %d, D %d, packed %d, initial %d, final %d, window %d, fast %g, softplus %d, high %g\n", what, c.kind, error, worst,
           (int)c.B, (int)c.L, (int)c.S, (int)c.H, (int)c.G, (int)c.Gx, (int)c.Gc, (int)c.N, (int)c.P, c.o.mask, c.o.feature,
           c.o.normalise, c.o.direction, c.D, c.packed, c.initial, c.final, (int)c.o.window[0], c.fast, c.o.dt_softplus, c.o.dt_high);
}
static const struct { const char *name; int precision, naive; double bound; } forms[] = {
    { "naive F32", MMIX_CUDA_F32, 1, 2e-5 }, { "F32", MMIX_CUDA_F32, 0, 2e-5 }, { "TF32", MMIX_CUDA_TF32, 0, 5e-3 },
    { "BF16", MMIX_CUDA_BF16, 0, 1e-2 }, { "naive BF16", MMIX_CUDA_BF16, 1, 1e-2 } };
static const char *const kinds[] = { "softmax attention", "linear attention", "SSD" };

static void one(mmix_ctx *cpu, mmix_ctx *gpu, int form, const Case &c, double *most)
{
    mmix_cuda_options o;
    mmix_cuda_statistics before, after;
    const char *worst;
    double error;
    memset(&o, 0, sizeof o);
    o.precision = forms[form].precision;
    o.naive = forms[form].naive;
    o.least = 1;
    if (mmix_cuda_attach(gpu, &o)) { printf("FAILED  attach: %s\n", mmix_error(gpu)); failed++; mmix_error_clear(gpu); return; }
    const Results expected = run(cpu, c, 1), found = run(gpu, c, 1);
    mmix_cuda_stats(gpu, &before);
    error = difference(expected, found, &worst);
    if (mmix_error(cpu) || mmix_error(gpu)) {
        printf("FAILED  %s; %s\n", mmix_error(cpu) ? mmix_error(cpu) : "", mmix_error(gpu) ? mmix_error(gpu) : "");
        mmix_error_clear(cpu);
        mmix_error_clear(gpu);
        error = HUGE_VAL;
    }
    if (error > *most) *most = error;
    if (error <= forms[form].bound) passed++;
    else { failed++; printf("FAILED  %s ", forms[form].name); describe(c, kinds[c.kind], error, worst); }
    if (before.host_calls) { failed++; printf("FAILED  %s: on the host: ", forms[form].name); describe(c, kinds[c.kind], 0, ""); }
    /* again, for equal bits: on the fake device with the threads the other way round */
#ifdef MMIX_CUDA_HOST
    cuda_host.descending = 1;
#endif
    const Results again = run(gpu, c, 1);
#ifdef MMIX_CUDA_HOST
    cuda_host.descending = 0;
#endif
    mmix_cuda_stats(gpu, &after);
    if (same_bits(found, again)) passed++;
    else { failed++; printf("FAILED  %s, other bits: ", forms[form].name); describe(c, kinds[c.kind], 0, ""); }
    mmix_cuda_detach(gpu);
}
static void random_cases(int count)
{
    mmix_ctx *cpu = mmix_create(NULL), *gpu = mmix_create(NULL);
    for (int form = 0; form < 5; form++)
        for (int kind = 0; kind < 3; kind++) {
            double most = 0;
            for (int i = 0; i < count; i++) {
                uint64_t at;
                state = 0x9e3779b97f4a7c15u * (uint64_t)(1 + i + 1000 * kind + 100000 * form);
                Case c = random_case(kind, forms[form].precision == MMIX_CUDA_BF16);
                at = state;
                one(cpu, gpu, form, c, &most);
                state = at;
            }
            printf("%-11s %-18s %3d cases, worst error %.2g of the largest value\n", forms[form].name, kinds[kind], count, most);
            fflush(stdout);
        }
    mmix_destroy(cpu);
    mmix_destroy(gpu);
}

