/* cuda [CASES], fewer than 10 for a short run; or cuda shared: what the kernels' blocks take of
   shared memory

   The kernels of mamba_mix_cuda.cu against the CPU's functions: random shapes and options of the
   three mixers, forward and backward, in every precision; strides and sentinels of the raw calls;
   the attachment's counts, thresholds and errors. Built with MMIX_CUDA_HOST by a C++ compiler it
   runs the kernels on tests/cuda_host.h, a device that is not there, and then also in descending
   order of threads (equal bits wanted), and with calls of the runtime that fail. Built by nvcc it
   runs them on the GPU. Prints failures, the worst error of each kind, and the counts. */
#ifdef MMIX_CUDA_HOST
#include "cuda_host.h"
#endif
#include "../mamba_mix_cuda.cu"
#include <string>
#include <time.h>
#include <vector>

static int passed, failed, skipped;
static void check(int holds, int line, const char *what)
{
    if (holds) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED  %s:%d: %s\n", __FILE__, line, what);
}
#define CHECK(x) check(!!(x), __LINE__, #x)

/* ---- numbers ---- */

static uint64_t state = 1;
static uint32_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}
static size_t any(size_t low, size_t high) { return low + next() % (high - low + 1); }
static int chance(unsigned in) { return next() % in == 0; }
static size_t one_of(size_t a, size_t b, size_t c, size_t d)
{
    const size_t v[4] = { a, b, c, d };
    return v[next() % 4];
}
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

static mmix_tensor *tensor(mmix_ctx *m, int half, double low, double high, size_t a, size_t b,
                           size_t c, size_t d)
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
/* The inputs of a case, drawn in a fixed order. */
static void ssd_inputs(mmix_ctx *m, const Case &c, mmix_mixer *x)
{
    const double low = c.o.dt_softplus ? -3 : 0.001;
    const double high = c.o.dt_softplus ? 1 : 0.3;
    x->dt = tensor(m, c.half, low, high, c.B, c.L, c.H, 0);
    x->A = tensor(m, 0, -c.fast, -0.01, c.H, 0, 0, 0);
    if (c.D) x->D = wide(m, 0, c.H, c.D > 1 ? c.P : 0, 0, 0);
    if (c.dt_bias) x->dt_bias = tensor(m, 0, -1, 1, c.H, 0, 0, 0);
}
static void bias_input(mmix_ctx *m, const Case &c, mmix_mixer *x)
{
    size_t distances = 1;
    for (int a = 0; a < 3; a++) distances *= 2 * (x->window[a] ? x->window[a] : 1) - 1;
    x->bias = wide(m, 0, c.H, distances, 0, 0);
}
static void state_input(mmix_ctx *m, const Case &c, mmix_mixer *x)
{
    if (c.kind == MMIX_MIXER_SSD) x->initial_state = wide(m, 0, c.B, c.H, c.P, c.N);
    if (c.kind != MMIX_MIXER_LINEAR) return;
    const int positive = x->feature == MMIX_FEATURE_ELU1 || x->feature == MMIX_FEATURE_RELU;
    const int normalized = x->normalize > 0 || (!x->normalize && positive);
    x->initial_state = tensor(m, 0, 0, 1, c.B, c.G, c.P + (size_t)normalized, c.N);
}
static void packed_input(mmix_ctx *m, const Case &c, mmix_mixer *x)
{
    const size_t shape[2] = { c.B, c.L };
    std::vector<int32_t> seq(c.B * c.L);
    for (size_t i = 0; i < seq.size(); i++) {
        const int same = i % c.L && !chance(9);
        seq[i] = same ? seq[i - 1] : (int32_t)(next() % 7);
    }
    x->seq_idx = mmix_from_i32(m, 2, shape, seq.data());
}
static void lefts_input(mmix_ctx *m, const Case &c, mmix_mixer *x)
{
    std::vector<int32_t> left(c.L);
    for (size_t i = 0; i < c.L; i++) left[i] = (int32_t)(next() % (x->left + 1));
    x->lefts = mmix_from_i32(m, 1, &c.L, left.data());
}
/* The gradients of all inputs that have one, from random ones of the outputs. */
static void keep_gradients(mmix_ctx *m, const Case &c, const mmix_mixer &x, mmix_tensor *y,
                           mmix_tensor *last, Results *r)
{
    static const char *const names[] = { "dq", "dk", "dv", "ddt", "dA", "dD", "ddt_bias", "dbias",
                                         "dinitial" };
    mmix_tensor *t[] = { x.q, x.k, x.v, x.dt, x.A, x.D, x.dt_bias, x.bias, x.initial_state };
    mmix_tensor *out[2], *up[2];
    out[0] = y;
    out[1] = last;
    up[0] = wide(m, c.half, c.B, c.L, c.H, c.P);
    if (last)
        up[1] = wide(m, 0, mmix_shape(last, 0), mmix_shape(last, 1), mmix_shape(last, 2),
                     mmix_shape(last, 3));
    if (mmix_backward_from(m, out, up, last ? 2 : 1)) return;
    for (int i = 0; i < 9; i++)
        if (t[i]) keep(r, names[i], mmix_grad(t[i]));
}
/* The mixer of a case on m: y, the final state, and the gradients of all that has one. */
static Results run(mmix_ctx *m, const Case &c, int record)
{
    const int ssd = c.kind == MMIX_MIXER_SSD;
    mmix_mixer x = c.o;
    mmix_tensor *last = NULL;
    Results r;
    state = c.seed;
    mmix_record(m, record);
    x.kind = c.kind;
    x.q = wide(m, c.half, c.B, c.L, ssd ? c.Gc : c.H, c.N);
    x.k = wide(m, c.half, c.B, c.S, c.G, c.N);
    x.v = wide(m, c.half, c.B, c.S, ssd ? c.Gx : c.G, c.P);
    if (ssd) ssd_inputs(m, c, &x);
    if (c.bias) bias_input(m, c, &x);
    if (c.initial) state_input(m, c, &x);
    if (c.final) x.final_state = &last;
    if (c.packed) packed_input(m, c, &x);
    if (c.lefts) lefts_input(m, c, &x);
    mmix_tensor *y = mmix_mix(m, &x);
    if (mmix_error(m)) return r;
    keep(&r, "y", y);
    keep(&r, "final_state", last);
    if (record) keep_gradients(m, c, x, y, last, &r);
    mmix_record(m, 0);
    if (!mmix_error(m)) mmix_reset(m);
    return r;
}
/* The largest error of two arrays over the first one's largest value; infinite where something is
   missing or not a number. */
static double error_of(const std::vector<float> &a, const std::vector<float> &b)
{
    double largest = 1e-3;
    double error = 0;
    if (a.size() != b.size()) return HUGE_VAL;
    for (size_t k = 0; k < a.size(); k++) {
        const double d = fabs((double)a[k] - (double)b[k]);
        if (d != d) return HUGE_VAL;
        if (d > error) error = d;
        if (fabs((double)a[k]) > largest) largest = fabs((double)a[k]);
    }
    return error / largest;
}
/* The worst error of all results, and which one has it. */
static double difference(const Results &a, const Results &b, const char **worst)
{
    double most = 0;
    *worst = "";
    if (a.size() != b.size()) *worst = "another number of results";
    if (a.size() != b.size() || a.empty()) return HUGE_VAL;
    for (size_t i = 0; i < a.size(); i++) {
        const double error = error_of(a[i].v, b[i].v);
        if (error <= most) continue;
        most = error;
        *worst = a[i].name;
    }
    return most;
}
static int same_bits(const Results &a, const Results &b)
{
    if (a.size() != b.size()) return 0;
    for (size_t i = 0; i < a.size(); i++) {
        const size_t n = a[i].v.size();
        if (n != b[i].v.size()) return 0;
        if (memcmp(a[i].v.data(), b[i].v.data(), n * sizeof(float))) return 0;
    }
    return 1;
}

/* ---- random cases ---- */

static void random_ssd(Case *c)
{
    if (c->N * c->P > 5000 && !c->half) {
        c->P = 64;
        c->N = c->N > 64 ? 128 : c->N;
    }
    c->D = (int)any(0, 2);
    c->o.dt_softplus = chance(2);
    if (chance(3)) {
        c->o.dt_low = 0.05;
        c->o.dt_high = 0.6;
    }
    c->dt_bias = (c->o.dt_softplus || c->o.dt_high > 0) && chance(2);  /* δ ≥ 0: e^(δ A) ≤ 1 */
    c->o.direction = MMIX_SCAN_FORWARD;
    if (chance(3)) c->o.direction = MMIX_SCAN_REVERSE;
    else if (chance(6)) c->o.direction = MMIX_SCAN_BOTH;
    c->initial = c->o.direction != MMIX_SCAN_BOTH && chance(2);
    c->final = c->o.direction != MMIX_SCAN_BOTH && chance(2);
    c->packed = chance(3);
    c->fast = 2;
    if (chance(4)) c->fast = c->half ? 30 : 200;
    else if (chance(3)) c->fast = 0.02;
}
static void random_windows(Case *c)
{
    size_t grid[3], window[3];
    const int axes = (int)any(1, 3);
    for (int a = 0; a < 3; a++) {
        grid[a] = a < axes ? any(1, 6) : 1;
        window[a] = any(1, 4);
    }
    mmix_mixer_windows(&c->o, axes, grid, window, chance(2));
    c->L = grid[0] * grid[1] * grid[2];
    c->S = c->L;
    c->o.mask = chance(2) ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
    c->bias = chance(2);
}
static void random_softmax(Case *c)
{
    const unsigned form = next() % 6;
    if (form == 0 && chance(2)) c->S = any(1, 100);
    if (form == 1) c->o.mask = MMIX_MASK_CAUSAL;
    if (form == 2) {
        c->o.mask = MMIX_MASK_PREFIX;
        c->o.prefix = any(0, c->L + 3);
    }
    if (form == 3) {
        c->o.mask = MMIX_MASK_BAND;
        c->o.left = any(0, 20);
        c->o.right = any(0, 9);
        c->lefts = chance(2);
    }
    if (form < 4) c->packed = c->S == c->L && chance(3);
    if (form && form < 4 && !c->packed && chance(3)) c->S = c->L + any(1, 30);
    if (form >= 4) random_windows(c);
    if (chance(3)) c->o.scale = 0.3;
}
static void random_linear(Case *c)
{
    c->o.feature = (int)any(0, 4);
    c->o.normalize = c->o.feature == MMIX_FEATURE_NONE ? 0 : (int)any(0, 2) - 1;
    /* a row without a positive number has the sum 0 */
    if (c->o.feature == MMIX_FEATURE_RELU) c->o.normalize = -1;
    /* with N = 1 and rows of sum 1 all gradients of q are 0 */
    if (c->o.normalize >= 0 && c->N < 4) c->N += 3;
    if (c->o.feature != MMIX_FEATURE_EFFICIENT && chance(2)) {
        c->o.mask = MMIX_MASK_CAUSAL;
        c->packed = chance(2);
        c->initial = chance(2);
        c->final = chance(2);
    } else if (chance(3)) c->S = any(1, 100);
}
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
    if (chance(2)) c.Gc = c.G;
    else c.Gc = chance(2) ? c.H : 1;
    if (chance(6)) c.L = one_of(63, 64, 65, 128);
    else c.L = chance(8) ? any(129, 200) : any(1, 70);
    c.S = c.L;
    c.N = chance(5) ? one_of(16, 64, 72, 128) : any(1, 24);
    c.P = chance(5) ? one_of(16, 64, 80, 64) : any(1, 24);
    const uint64_t upper = next();
    c.seed = (upper << 32 | next()) | 1;
    if (kind == MMIX_MIXER_SSD) random_ssd(&c);
    else if (kind == MMIX_MIXER_SOFTMAX) random_softmax(&c);
    else random_linear(&c);
    return c;
}
static void describe(const Case &c, const char *what, double error, const char *worst)
{
    printf("%s: kind %d, error %.3g in %s: B %d, L %d, S %d, H %d, G %d, Gx %d, Gc %d, N %d, P %d, mask %d, feature %d, normalize %d, "
           "direction %d, D %d, packed %d, initial %d, final %d, window %d, fast %g, softplus %d, high %g\n", what, c.kind, error, worst,
           (int)c.B, (int)c.L, (int)c.S, (int)c.H, (int)c.G, (int)c.Gx, (int)c.Gc, (int)c.N, (int)c.P, c.o.mask, c.o.feature,
           c.o.normalize, c.o.direction, c.D, c.packed, c.initial, c.final, (int)c.o.window[0], c.fast, c.o.dt_softplus, c.o.dt_high);
}
static const struct { const char *name; int precision, naive; double bound; } forms[] = {
    { "naive F32", MMIX_CUDA_F32, 1, 2e-5 },
    { "F32", MMIX_CUDA_F32, 0, 2e-5 },
    { "TF32", MMIX_CUDA_TF32, 0, 2e-2 },
    { "BF16", MMIX_CUDA_BF16, 0, 1e-2 },
    { "naive BF16", MMIX_CUDA_BF16, 1, 2e-2 },
};
static const char *const kinds[] = { "softmax attention", "linear attention", "SSD" };

static void check_case(int holds, int form, const char *what, const Case &c, double error,
                       const char *worst)
{
    if (holds) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED  %s%s ", forms[form].name, what);
    describe(c, kinds[c.kind], error, worst);
}
/* An error of the context, printed and cleared; whether there was one. */
static int clear_error(mmix_ctx *m)
{
    if (!mmix_error(m)) return 0;
    printf("FAILED  %s\n", mmix_error(m));
    mmix_error_clear(m);
    return 1;
}
static void one(mmix_ctx *cpu, mmix_ctx *gpu, int form, const Case &c, double *most)
{
    mmix_cuda_options o;
    mmix_cuda_statistics done;
    const char *worst;
    memset(&o, 0, sizeof o);
    o.precision = forms[form].precision;
    o.naive = forms[form].naive;
    o.least = 1;
    CHECK(cudaGetDevice(&o.device) == cudaSuccess);
    if (mmix_cuda_attach(gpu, &o)) {
        failed++;
        clear_error(gpu);
        return;
    }
    const Results expected = run(cpu, c, 1);
    const Results found = run(gpu, c, 1);
    double error = difference(expected, found, &worst);
    mmix_cuda_stats(gpu, &done);
    if (clear_error(cpu) | clear_error(gpu)) error = HUGE_VAL;
    if (error > *most) *most = error;
    check_case(error <= forms[form].bound, form, "", c, error, worst);
    if (done.host_calls) check_case(0, form, ", on the host:", c, 0, "");
    /* again, for equal bits: on the fake device with the threads the other way round */
#ifdef MMIX_CUDA_HOST
    cuda_host.descending = 1;
#endif
    const Results again = run(gpu, c, 1);
#ifdef MMIX_CUDA_HOST
    cuda_host.descending = 0;
#endif
    check_case(same_bits(found, again), form, ", other bits:", c, 0, "");
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

/* Pieces of a sequence, long sequences and windows of more than one tile, which random cases are
   too small for. */
static void large_cases(int brief)
{
    static const struct { size_t B, L, H, G, N, P; } sizes[] = {
        { 1, 600, 2, 1, 16, 16 },
        { 1, 1100, 1, 1, 20, 9 },
        { 70, 20, 4, 1, 8, 8 },
        { 2, 530, 2, 2, 8, 16 },
    };
    static const size_t grid[3] = { 3, 11, 13 }, window[3] = { 2, 7, 9 };
    mmix_ctx *cpu = mmix_create(NULL);
    mmix_ctx *gpu = mmix_create(NULL);
    for (int form = brief ? 3 : 1; form < 4; form++) {
        double most = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            state = 77 + i;
            Case c = random_case(MMIX_MIXER_SSD, form == 3);
            c.B = sizes[i].B;
            c.L = c.S = sizes[i].L;
            c.H = c.Gx = sizes[i].H;
            c.G = c.Gc = sizes[i].G;
            c.N = sizes[i].N;
            c.P = sizes[i].P;
            c.o.direction = i % 2 ? MMIX_SCAN_REVERSE : MMIX_SCAN_FORWARD;
            c.packed = i == 1;
            c.initial = c.final = 1;
            c.o.dt_softplus = 0;
            c.o.dt_high = 0;
            c.dt_bias = 0;
            /* decays little: what is forgotten nowhere is summed longest */
            c.fast = i == 3 ? 1e-3 : 1;
            one(cpu, gpu, form, c, &most);
        }
        printf("%-11s %-18s   4 large ones, worst error %.2g\n", forms[form].name,
               kinds[MMIX_MIXER_SSD], most);
        most = 0;
        for (int i = 0; i < 2; i++) {
            state = 99 + (uint64_t)i;
            Case c = random_case(MMIX_MIXER_SOFTMAX, form == 3);
            memset(&c.o, 0, sizeof c.o);
            mmix_mixer_windows(&c.o, 3, grid, window, i);
            c.o.mask = i ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
            c.B = 1;
            c.L = c.S = 3 * 11 * 13;
            c.H = 2;
            c.G = 1;
            c.N = i ? 70 : 7;
            c.P = i ? 9 : 20;
            c.bias = 1;
            c.packed = c.lefts = 0;
            one(cpu, gpu, form, c, &most);
        }
        printf("%-11s %-18s   2 large ones, worst error %.2g\n", forms[form].name,
               kinds[MMIX_MIXER_SOFTMAX], most);
    }
    mmix_destroy(cpu);
    mmix_destroy(gpu);
}

/* A bias's gradient: windows at the edges of tiles of 64 places, whole and cut by the grid, several
   of them and several sequences, in the least and the most shared memory that a GPU has; the last:
   more than there are blocks for. */
static void biases(int brief)
{
    static const size_t windows[][3] = { { 1, 7, 9 }, { 4, 4, 4 }, { 1, 5, 13 }, { 1, 3, 43 },
                                         { 2, 8, 8 }, { 1, 1, 65 }, { 3, 7, 7 }, { 1, 2, 3 } };
    mmix_ctx *cpu = mmix_create(NULL);
    mmix_ctx *gpu = mmix_create(NULL);
    for (int form = 1; form < 4; form += 2) {
        double most = 0;
        for (int i = 0; i < (brief ? 2 : 14); i++) {
            const int many = i == 13;
            const size_t *window = windows[many ? 7 : (i + form) % 7];
            size_t grid[3];
            state = 0x51ed2701u * (uint64_t)(1 + i) + (uint64_t)form;
            Case c = random_case(MMIX_MIXER_SOFTMAX, form == 3);
            memset(&c.o, 0, sizeof c.o);
            for (int a = 0; a < 3; a++) {
                const size_t w = window[a];
                grid[a] = w > 9 ? any(w - 1, w + 1) : any(1, w + w / 2);
            }
            if (many) {
                grid[0] = 1;
                grid[1] = 3;
                grid[2] = 4;
            }
            mmix_mixer_windows(&c.o, 3, grid, window, i % 2);
            c.o.mask = chance(2) ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
            c.L = c.S = grid[0] * grid[1] * grid[2];
            c.B = many ? 8 : any(1, 3);
            c.H = many ? 12 : 2;
            c.G = any(1, 2);
            c.N = one_of(3, 16, 24, 64);
            c.P = one_of(5, 16, 40, 64);
            c.bias = 1;
            c.packed = c.lefts = 0;
#ifdef MMIX_CUDA_HOST
            cuda_host_use(i % 4 < 2 ? 99 * 1024 : CUDA_HOST_SHARED);
#endif
            one(cpu, gpu, form, c, &most);
        }
        printf("%-11s biases, worst error %.2g\n", forms[form].name, most);
    }
#ifdef MMIX_CUDA_HOST
    cuda_host_use(CUDA_HOST_SHARED);
#endif
    mmix_destroy(cpu);
    mmix_destroy(gpu);
}

/* The usual widths, which have kernels of their own for bf16: several chunks and tiles, heads that
   share, each mask. */
static void usual_widths(int brief)
{
    static const size_t widths[][2] = { { 64, 64 }, { 128, 64 }, { 128, 128 } };
    mmix_ctx *cpu = mmix_create(NULL);
    mmix_ctx *gpu = mmix_create(NULL);
    for (int form = brief ? 3 : 1; form < 4; form += 2) {
        double most = 0;
        for (int i = 0; i < 3; i++) {
            const int all = brief ? 2 : 4;
            const int count = i == 1 ? 1 : all;
            for (int k = 0; k < count; k++) {
                const int kind = i == 1 || (k == 0 && i == 0) ? MMIX_MIXER_SSD : MMIX_MIXER_SOFTMAX;
                Case c;
                if (i == 1 && form == 1) continue;  /* more than a float's backward has room for */
                memset(&c, 0, sizeof c);
                c.kind = kind;
                c.half = form == 3;
                c.B = 1;
                c.L = c.S = 150;
                c.H = 2;
                c.G = c.Gc = 1;
                c.Gx = 2;
                c.N = widths[i][0];
                c.P = widths[i][1];
                if (kind == MMIX_MIXER_SSD) {
                    c.D = 2;
                    c.initial = c.final = 1;
                } else if (k == 1) c.o.mask = MMIX_MASK_CAUSAL;
                else if (k == 2) c.o.mask = MMIX_MASK_BAND;
                c.o.left = 40;
                c.o.right = 3;
                c.packed = k == 3;
                c.fast = 1;
                c.seed = 31 + (uint64_t)i;
                one(cpu, gpu, form, c, &most);
            }
        }
        printf("%-11s the usual widths, worst error %.2g\n", forms[form].name, most);
    }
    mmix_destroy(cpu);
    mmix_destroy(gpu);
}

/* The kernel for 512 and more queries, at its edges: blocks of 128 queries that are full, that end
   within a warp's 32 rows or before a warp's first, and keys that are more or fewer than queries. */
static void long_queries(void)
{
    static const size_t lengths[][2] = { { 512, 512 }, { 600, 600 }, { 530, 130 }, { 513, 577 } };
    mmix_ctx *cpu = mmix_create(NULL);
    mmix_ctx *gpu = mmix_create(NULL);
    double most = 0;
    for (int i = 0; i < 8; i++) {
        Case c;
        memset(&c, 0, sizeof c);
        c.kind = MMIX_MIXER_SOFTMAX;
        c.half = 1;
        c.B = 1;
        c.L = lengths[i / 2][0];
        c.S = lengths[i / 2][1];
        c.H = 2;
        c.G = c.Gc = 1;
        c.Gx = 2;
        c.N = c.P = 64;
        c.o.mask = i % 2 ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
        if (c.o.mask && c.S < c.L) continue;     /* a mask needs a key for each query */
        c.fast = 1;
        c.seed = 77 + (uint64_t)i;
        one(cpu, gpu, 3, c, &most);
    }
    printf("%-11s 512 and more queries, worst error %.2g\n", forms[3].name, most);
    mmix_destroy(cpu);
    mmix_destroy(gpu);
}

/* ---- the raw calls: views with gaps, sentinels, one token at a time ---- */

static float *upload(const std::vector<float> &v)
{
    void *p = NULL;
    if (cudaMalloc(&p, v.size() * 4) != cudaSuccess) exit(2);
    cudaMemcpyAsync(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice, 0);
    cudaStreamSynchronize(0);
    return (float *)p;
}
static std::vector<float> download(const float *p, size_t n)
{
    std::vector<float> v(n);
    cudaMemcpyAsync(v.data(), p, n * 4, cudaMemcpyDeviceToHost, 0);
    cudaStreamSynchronize(0);
    return v;
}
static std::vector<float> random_floats(size_t n, double low = -1.5, double high = 1.5)
{
    std::vector<float> v(n);
    for (size_t i = 0; i < n; i++) v[i] = uniform(low, high);
    return v;
}
/* Room for either direction of an SSD. */
static std::vector<float> workspace_of(const mmix_cuda_ssd &s)
{
    const size_t forward = mmix_cuda_ssd_workspace(&s, 0);
    const size_t backward = mmix_cuda_ssd_workspace(&s, 1);
    return std::vector<float>(mmixi_cuda_max(forward, backward) / 4 + 1);
}
/* q, k and v side by side in one array, and y in the middle of another, whose other numbers must
   stay. */
static void strides(size_t L, size_t width, size_t gap)
{
    const size_t B = 2, H = 2;
    const size_t row = 3 * H * width + gap;
    const size_t wide_row = H * width + 2 * gap;
    std::vector<float> qkv = random_floats(B * L * row);
    std::vector<float> y(B * L * wide_row, 12345.0f);
    std::vector<float> plain(B * L * H * width);
    float *on = upload(qkv);
    float *out = upload(y);
    float *work = NULL;
    mmix_cuda_attention x;
    mmix_raw r;
    double error = 0;
    size_t untouched = 0;
    memset(&x, 0, sizeof x);
    memset(&r, 0, sizeof r);
    r.o.kind = MMIX_MIXER_SOFTMAX;
    x.B = r.B = B;
    x.L = x.S = r.L = r.S = L;
    x.H = r.H = H;
    x.N = x.P = r.N = r.P = width;
    x.scale = r.o.scale = 0.5;
    x.mask = r.o.mask = MMIX_MASK_CAUSAL;
    x.q = mmix_cuda_head_view_rows(on, L, H, width, H);
    x.q.token = (ptrdiff_t)row;
    x.q.batch = (ptrdiff_t)(L * row);
    x.k = x.v = x.y = x.q;
    x.k.p = on + H * width;
    x.v.p = on + 2 * H * width;
    x.y.p = out + gap;
    x.y.token = (ptrdiff_t)wide_row;
    x.y.batch = (ptrdiff_t)L * x.y.token;
    CHECK(mmix_cuda_attention_workspace(&x, 0) == 0);
    CHECK(mmix_cuda_attention_forward(&x) == 0);
    y = download(out, y.size());
    r.q = mmix_head_view_rows(qkv.data(), L, H, width, H);
    r.q.token = (ptrdiff_t)row;
    r.q.batch = (ptrdiff_t)(L * row);
    r.k = r.v = r.q;
    r.k.p = qkv.data() + H * width;
    r.v.p = qkv.data() + 2 * H * width;
    r.y = mmix_head_view_rows(plain.data(), L, H, width, H);
    std::vector<float> scratch(mmix_raw_scratch_size(&r, 0));
    mmix_raw_forward(&r, scratch.data());
    for (size_t i = 0; i < B * L; i++)
        for (size_t e = 0; e < wide_row; e++) {
            const float v = y[i * wide_row + e];
            if (e < gap || e >= gap + H * width) {
                untouched += v == 12345.0f;
                continue;
            }
            const float expected = plain[i * H * width + e - gap];
            error = fmax(error, fabs((double)v - (double)expected));
        }
    CHECK(error < 2e-5);
    CHECK(untouched == B * L * 2 * gap);
    cudaFree(on);
    cudaFree(out);
    cudaFree(work);
}
/* Tokens one by one with the state in place, against the whole sequence. */
static void steps(void)
{
    const size_t B = 2, L = 9, H = 3, N = 37, P = 6;
    std::vector<float> x = random_floats(B * L * H * P);
    std::vector<float> dt(B * L * H, 0.2f);
    std::vector<float> b = random_floats(B * L * N);
    std::vector<float> c = random_floats(B * L * N);
    std::vector<float> A(H, -0.7f);
    std::vector<float> D = random_floats(H);
    std::vector<float> zero(B * H * P * N, 0.0f), nothing(B * L * H * P);
    float *dx = upload(x), *ddt = upload(dt), *db = upload(b), *dc = upload(c);
    float *dA = upload(A), *dD = upload(D), *state = upload(zero);
    float *y = upload(nothing), *y1 = upload(nothing), *work;
    mmix_cuda_ssd s;
    double error = 0, largest = 0;
    memset(&s, 0, sizeof s);
    s.B = B;
    s.L = L;
    s.H = H;
    s.N = N;
    s.P = P;
    s.x = mmix_cuda_head_view_rows(dx, L, H, P, H);
    s.dt = mmix_cuda_head_view_rows(ddt, L, H, 1, H);
    s.b = mmix_cuda_head_view_rows(db, L, 1, N, H);
    s.c = mmix_cuda_head_view_rows(dc, L, 1, N, H);
    s.y = mmix_cuda_head_view_rows(y, L, H, P, H);
    s.A = dA;
    s.D = dD;
    work = upload(std::vector<float>(mmix_cuda_ssd_workspace(&s, 0) / 4 + 1, 0.0f));
    s.workspace = work;
    CHECK(mmix_cuda_ssd_forward(&s) == 0);
    s.initial_state = s.final_state = state;
    s.L = 1;
    for (size_t t = 0; t < L; t++) {
        mmix_cuda_ssd one = s;
        one.x.p = dx + t * H * P;
        one.dt.p = ddt + t * H;
        one.b.p = db + t * N;
        one.c.p = dc + t * N;
        one.y.p = y1 + t * H * P;
        CHECK(mmix_cuda_ssd_step(&one) == 0);
    }
    const std::vector<float> whole = download(y, nothing.size());
    const std::vector<float> step = download(y1, nothing.size());
    for (size_t i = 0; i < whole.size(); i++) {
        error = fmax(error, fabs((double)whole[i] - (double)step[i]));
        largest = fmax(largest, fabs((double)whole[i]));
    }
    CHECK(error <= 2e-5 * largest);
    s.P = 300;
    s.L = L;
    CHECK(mmix_cuda_ssd_forward(&s) == MMIX_CUDA_UNSUPPORTED);
    CHECK(strstr(mmix_cuda_error_text(MMIX_CUDA_UNSUPPORTED), "sizes") != NULL);
    float *const all[] = { dx, ddt, db, dc, dA, dD, state, y, y1, work };
    for (float *p : all) cudaFree(p);
}

/* No tokens: the states go through, and gradients of no token are 0. */
static void nothing(int naive)
{
    const size_t B = 1, H = 2, N = 3, P = 5;
    const size_t count = B * H * N * P;
    const std::vector<float> first = random_floats(count), up = random_floats(count), A(H, -1.0f);
    float *initial = upload(first);
    float *dfinal = upload(up);
    float *a = upload(A);
    float *final = upload(A);
    float *dA = upload(A);
    float *dinitial;
    mmix_cuda_ssd s;
    cudaFree(final);
    final = upload(std::vector<float>(count));
    dinitial = upload(std::vector<float>(count));
    memset(&s, 0, sizeof s);
    s.naive = naive;
    s.B = B;
    s.H = H;
    s.N = N;
    s.P = P;
    s.x = s.y = s.dy = s.dx = mmix_cuda_head_view_rows(NULL, 0, H, P, H);
    s.b = s.c = s.db = s.dc = mmix_cuda_head_view_rows(NULL, 0, 1, N, H);
    s.dt = s.ddt = mmix_cuda_head_view_rows(NULL, 0, H, 1, H);
    s.A = a;
    s.dA = dA;
    s.initial_state = initial;
    s.final_state = final;
    s.dfinal = dfinal;
    s.dinitial = dinitial;
    s.workspace = upload(workspace_of(s));
    CHECK(mmix_cuda_ssd_forward(&s) == 0);
    CHECK(download(final, count) == first);
    s.final_state = NULL;
    CHECK(mmix_cuda_ssd_backward(&s) == 0);
    CHECK(download(dinitial, count) == up && download(dA, H) == std::vector<float>(H));
    float *const all[] = { initial, dfinal, a, final, dA, dinitial, (float *)s.workspace };
    for (float *p : all) cudaFree(p);
}
/* Results that nobody asked for are structs of zeros, or NULL with strides: the final state alone,
   dB alone. */
static void left_out(int naive, int zeros)
{
    const size_t B = 2, L = 70, H = 2, N = 3, P = 5;
    const std::vector<float> dt(B * L * H, 0.1f), A(H, -1.0f);
    std::vector<float> state[2], db[2];
    float *const x = upload(random_floats(B * L * H * P));
    float *const b = upload(random_floats(B * L * N));
    float *const c = upload(random_floats(B * L * N));
    float *const dy = upload(random_floats(B * L * H * P));
    float *const a = upload(A);
    float *const step = upload(dt);
    float *const y = upload(std::vector<float>(B * L * H * P));
    float *const final = upload(std::vector<float>(B * H * N * P));
    float *const to = upload(std::vector<float>(B * L * N));
    for (int alone = 0; alone < 2; alone++) {
        mmix_cuda_ssd s;
        memset(&s, 0, sizeof s);
        s.naive = naive;
        s.B = B;
        s.L = L;
        s.H = H;
        s.N = N;
        s.P = P;
        s.A = a;
        s.x = mmix_cuda_head_view_rows(x, L, H, P, H);
        s.dt = mmix_cuda_head_view_rows(step, L, H, 1, H);
        s.b = mmix_cuda_head_view_rows(b, L, 1, N, H);
        s.c = mmix_cuda_head_view_rows(c, L, 1, N, H);
        s.y = s.dx = mmix_cuda_head_view_rows(alone ? NULL : y, L, H, P, H);
        if (alone && zeros) {
            memset(&s.y, 0, sizeof s.y);
            memset(&s.dx, 0, sizeof s.dx);
        }
        s.final_state = final;
        s.workspace = upload(workspace_of(s));
        CHECK(mmix_cuda_ssd_forward(&s) == 0);
        state[alone] = download(final, B * H * N * P);
        s.y = mmix_cuda_head_view_rows(y, L, H, P, H);
        s.dy = mmix_cuda_head_view_rows(dy, L, H, P, H);
        s.db = mmix_cuda_head_view_rows(to, L, 1, N, H);
        s.final_state = NULL;
        cudaFree(s.workspace);
        s.workspace = upload(workspace_of(s));
        CHECK(mmix_cuda_ssd_backward(&s) == 0);
        db[alone] = download(to, B * L * N);
        cudaFree(s.workspace);
    }
    CHECK(state[0] == state[1] && db[0] == db[1]);
    float *const all[] = { x, b, c, dy, a, step, y, final, to };
    for (float *p : all) cudaFree(p);
}
/* Runs of equal numbers in a packed sequence, of each length; a long one costs no more than its
   length. */
static void runs(void)
{
    for (size_t L = 1; L < 1000000; L = L < 300 ? L + 37 : L * 7)
        for (size_t most = 1; most <= L; most *= 30) {
            std::vector<int32_t> seq(2 * L), found(4 * L);
            size_t right = 0;
            for (size_t i = 0; i < 2 * L; i++) {
                const int same = i % L && next() % most;
                seq[i] = same ? seq[i - 1] : (int32_t)(next() % 3);
            }
            int32_t *from = (int32_t *)upload(std::vector<float>(2 * L));
            int32_t *to = (int32_t *)upload(std::vector<float>(4 * L));
            cudaMemcpyAsync(from, seq.data(), 8 * L, cudaMemcpyHostToDevice, 0);
            const clock_t start = clock();
            CHECK(mmixi_cuda_runs_run(from, (ptrdiff_t)L, 2, L, to, NULL) == 0);
            cudaMemcpyAsync(found.data(), to, 16 * L, cudaMemcpyDeviceToHost, 0);
            cudaStreamSynchronize(0);
            CHECK(clock() - start < 5 * CLOCKS_PER_SEC);
            for (size_t b = 0; b < 2; b++) {
                const int32_t *row = seq.data() + b * L;
                const int32_t *ends = found.data() + 2 * b * L;    /* of each token's run, two */
                for (size_t low = 0, high; low < L; low = high) {
                    high = low + 1;
                    while (high < L && row[high] == row[low]) high++;
                    for (size_t t = low; t < high; t++)
                        right += ends[2 * t] == (int32_t)low && ends[2 * t + 1] == (int32_t)high;
                }
            }
            CHECK(right == 2 * L);
            cudaFree(from);
            cudaFree(to);
        }
}
/* SSD in tiles against one thread a head, where random cases are too small for a block of the
   forward to take `together` heads one after another, or for pieces of several chunks. */
static void ssd_against_naive(size_t B, size_t L, size_t H, size_t share, size_t N, size_t segments,
                              size_t together, int back)
{
    const size_t P = 3;
    const size_t G = H / share;
    const size_t sizes[8] = { B * L * H * P, B * H * P * N, B * L * H * P, B * L * H, B * L *
        G * N, B * L * G * N, H, B * H * P * N };
    static const char *const names[8] = { "y", "final_state", "dx", "ddt", "db", "dc", "dA",
                                          "dinitial" };
    const int results = back ? 8 : 2;
    std::vector<float> dt(B * L * H), A(H);
    std::vector<float *> all, to;
    auto keep = [&](const std::vector<float> &v) { all.push_back(upload(v)); return all.back(); };
    mmixi_cuda_ssd_job j;
    mmix_cuda_ssd s;
    Results r[2];
    const char *worst;
    size_t most = 0;
    for (float &v : dt) v = uniform(0.01, 0.3);
    for (float &v : A) v = uniform(-2, -0.01);
    for (int i = 0; i < results; i++) to.push_back(keep(std::vector<float>(sizes[i])));
    memset(&s, 0, sizeof s);
    s.B = B;
    s.L = L;
    s.H = H;
    s.N = N;
    s.P = P;
    s.segments = segments;
    s.x = mmix_cuda_head_view_rows(keep(random_floats(B * L * H * P)), L, H, P, H);
    s.b = mmix_cuda_head_view_rows(keep(random_floats(B * L * G * N)), L, G, N, H);
    s.c = mmix_cuda_head_view_rows(keep(random_floats(B * L * G * N)), L, G, N, H);
    s.dt = mmix_cuda_head_view_rows(keep(dt), L, H, 1, H);
    s.A = keep(A);
    s.y = mmix_cuda_head_view_rows(to[0], L, H, P, H);
    s.initial_state = keep(random_floats(B * H * P * N));
    s.final_state = to[1];
    if (back) {
        s.dy = mmix_cuda_head_view_rows(keep(random_floats(B * L * H * P)), L, H, P, H);
        s.dfinal = keep(random_floats(B * H * P * N));
        s.dx = mmix_cuda_head_view_rows(to[2], L, H, P, H);
        s.ddt = mmix_cuda_head_view_rows(to[3], L, H, 1, H);
        s.db = mmix_cuda_head_view_rows(to[4], L, G, N, H);
        s.dc = mmix_cuda_head_view_rows(to[5], L, G, N, H);
        s.dA = to[6];
        s.dinitial = to[7];
    }
    mmixi_cuda_ssd_begin(&j, &s, 0, NULL);
    const int cut = !segments || j.segments == segments;
    CHECK(mmixi_cuda_most(&most) == 0 && mmixi_cuda_ssd_together(&j, most) == together && cut);
    for (s.naive = 0; s.naive < 2; s.naive++) {
        const size_t forward = mmix_cuda_ssd_workspace(&s, 0);
        const size_t bytes = mmixi_cuda_max(forward, mmix_cuda_ssd_workspace(&s, back));
        s.workspace = upload(std::vector<float>(bytes / 4 + 1, NAN));
        CHECK(mmix_cuda_ssd_forward(&s) == 0);
        CHECK(!back || mmix_cuda_ssd_backward(&s) == 0);
        for (int i = 0; i < results; i++)
            r[s.naive].push_back({ names[i], download(to[(size_t)i], sizes[i]) });
        cudaFree(s.workspace);
    }
    CHECK(difference(r[1], r[0], &worst) <= 2e-5);
    for (float *p : all) cudaFree(p);
}

/* ---- long sequences: sums over thousands of tokens, against loops in double ---- */

/* with a mean, so that sums grow with their length */
static std::vector<float> long_floats(size_t n) { return random_floats(n, -0.5, 1.5); }

/* One head of SSD in one piece, whose state lives through all chunks. */
static void long_ssd(size_t L, Results *expected, Results *found)
{
    const size_t N = 8, P = 8;
    std::vector<float> x = long_floats(L * P);
    std::vector<float> b = long_floats(L * N);
    std::vector<float> c = long_floats(L * N);
    std::vector<float> dy = long_floats(L * P);
    std::vector<float> dt(L), A(1, -1e-3f);
    std::vector<double> h((L + 1) * P * N), dh(P * N);
    Result want[] = { { "y", x }, { "dx", x }, { "ddt", dt }, { "db", b }, { "dc", c }, { "dA", A },
                      { "dinitial", A } };
    double dA = 0;
    for (float &v : dt) v = uniform(0.02, 0.2);
    for (size_t t = 0; t < L; t++) {
        const double step = dt[t], decay = exp(step * (double)A[0]);
        const float *xt = &x[t * P], *bt = &b[t * N], *ct = &c[t * N];
        for (size_t p = 0; p < P; p++) {
            const double *before = &h[t * P * N + p * N];
            double *now = &h[(t + 1) * P * N + p * N];
            double y = 0;
            for (size_t n = 0; n < N; n++) {
                now[n] = decay * before[n] + step * (double)xt[p] * (double)bt[n];
                y += now[n] * (double)ct[n];
            }
            want[0].v[t * P + p] = (float)y;
        }
    }
    for (size_t t = L; t-- > 0;) {
        const double step = dt[t];
        const double decay = exp(step * (double)A[0]);
        const double *before = &h[t * P * N];
        const double *now = before + P * N;
        const float *xt = &x[t * P], *bt = &b[t * N], *ct = &c[t * N], *dyt = &dy[t * P];
        std::vector<double> db(N), dc(N), dx(P);
        double da = 0, ddt = 0;
        for (size_t p = 0; p < P; p++)
            for (size_t n = 0; n < N; n++) {
                double &d = dh[p * N + n];
                d += (double)dyt[p] * (double)ct[n];
                dc[n] += (double)dyt[p] * now[p * N + n];
                db[n] += step * (double)xt[p] * d;
                dx[p] += step * d * (double)bt[n];
                ddt += d * (double)xt[p] * (double)bt[n];
                da += decay * d * before[p * N + n];
                d *= decay;
            }
        for (size_t p = 0; p < P; p++) want[1].v[t * P + p] = (float)dx[p];
        want[2].v[t] = (float)(ddt + (double)A[0] * da);
        for (size_t n = 0; n < N; n++) {
            want[3].v[t * N + n] = (float)db[n];
            want[4].v[t * N + n] = (float)dc[n];
        }
        dA += step * da;
    }
    want[5].v[0] = (float)dA;
    want[6].v.assign(dh.begin(), dh.end());
    expected->assign(want, want + 7);

    std::vector<float *> all, to;
    auto keep = [&](const std::vector<float> &v) { all.push_back(upload(v)); return all.back(); };
    mmix_cuda_ssd s;
    memset(&s, 0, sizeof s);
    for (const Result &r : want) to.push_back(keep(r.v));
    s.B = s.H = s.segments = 1;
    s.L = L;
    s.N = N;
    s.P = P;
    s.x = mmix_cuda_head_view_rows(keep(x), L, 1, P, 1);
    s.b = mmix_cuda_head_view_rows(keep(b), L, 1, N, 1);
    s.c = mmix_cuda_head_view_rows(keep(c), L, 1, N, 1);
    s.dt = mmix_cuda_head_view_rows(keep(dt), L, 1, 1, 1);
    s.dy = mmix_cuda_head_view_rows(keep(dy), L, 1, P, 1);
    s.A = keep(A);
    s.y = mmix_cuda_head_view_rows(to[0], L, 1, P, 1);
    s.dx = mmix_cuda_head_view_rows(to[1], L, 1, P, 1);
    s.ddt = mmix_cuda_head_view_rows(to[2], L, 1, 1, 1);
    s.db = mmix_cuda_head_view_rows(to[3], L, 1, N, 1);
    s.dc = mmix_cuda_head_view_rows(to[4], L, 1, N, 1);
    s.dA = to[5];
    s.dinitial = to[6];
    s.workspace = keep(workspace_of(s));
    CHECK(mmix_cuda_ssd_forward(&s) == 0 && mmix_cuda_ssd_backward(&s) == 0);
    for (size_t i = 0; i < to.size(); i++)
        found->push_back({ want[i].name, download(to[i], want[i].v.size()) });
    for (float *p : all) cudaFree(p);
}
/* One head of attention of L queries and S keys: y and dq are sums over keys, dk and dv over
   queries. */
static void long_attention(size_t L, size_t S, Results *expected, Results *found)
{
    const size_t N = 8, P = 8;
    const double scale = 1;
    std::vector<float> q = long_floats(L * N);
    std::vector<float> k = random_floats(S * N);
    std::vector<float> v = long_floats(S * P);
    std::vector<float> dy = L > S ? long_floats(L * P) : random_floats(L * P);
    /* else dq is what is left of sums of dy · v that cancel */
    for (size_t i = 0; i < S * P; i++) v[i] += k[i];
    std::vector<double> p(S), dp(S), dk(S * N), dv(S * P);
    Result want[] = { { "y", dy }, { "dq", q }, { "dk", k }, { "dv", v } };
    for (size_t i = 0; i < L; i++) {
        std::vector<double> y(P), dq(N);
        double sum = 0, along = 0;
        for (size_t j = 0; j < S; j++) {
            double s = 0;
            for (size_t n = 0; n < N; n++) s += (double)q[i * N + n] * (double)k[j * N + n];
            sum += p[j] = exp(scale * s);
        }
        for (size_t j = 0; j < S; j++) {
            p[j] /= sum;
            dp[j] = 0;
            for (size_t e = 0; e < P; e++) {
                y[e] += p[j] * (double)v[j * P + e];
                dp[j] += (double)dy[i * P + e] * (double)v[j * P + e];
                dv[j * P + e] += p[j] * (double)dy[i * P + e];
            }
            along += p[j] * dp[j];
        }
        for (size_t j = 0; j < S; j++)
            for (size_t n = 0; n < N; n++) {
                const double ds = scale * p[j] * (dp[j] - along);
                dq[n] += ds * (double)k[j * N + n];
                dk[j * N + n] += ds * (double)q[i * N + n];
            }
        for (size_t e = 0; e < P; e++) want[0].v[i * P + e] = (float)y[e];
        for (size_t n = 0; n < N; n++) want[1].v[i * N + n] = (float)dq[n];
    }
    want[2].v.assign(dk.begin(), dk.end());
    want[3].v.assign(dv.begin(), dv.end());
    expected->assign(want, want + 4);

    std::vector<float *> all, to;
    auto keep = [&](const std::vector<float> &f) { all.push_back(upload(f)); return all.back(); };
    mmix_cuda_attention x;
    memset(&x, 0, sizeof x);
    for (const Result &r : want) to.push_back(keep(r.v));
    x.B = x.H = 1;
    x.L = L;
    x.S = S;
    x.N = N;
    x.P = P;
    x.scale = scale;
    x.q = mmix_cuda_head_view_rows(keep(q), L, 1, N, 1);
    x.k = mmix_cuda_head_view_rows(keep(k), S, 1, N, 1);
    x.v = mmix_cuda_head_view_rows(keep(v), S, 1, P, 1);
    x.dy = mmix_cuda_head_view_rows(keep(dy), L, 1, P, 1);
    x.y = mmix_cuda_head_view_rows(to[0], L, 1, P, 1);
    x.dq = mmix_cuda_head_view_rows(to[1], L, 1, N, 1);
    x.dk = mmix_cuda_head_view_rows(to[2], S, 1, N, 1);
    x.dv = mmix_cuda_head_view_rows(to[3], S, 1, P, 1);
    x.top = keep(std::vector<float>(L));
    x.over = keep(std::vector<float>(L));
    x.workspace = keep(std::vector<float>(mmix_cuda_attention_workspace(&x, 1) / 4 + 1));
    CHECK(mmix_cuda_attention_forward(&x) == 0 && mmix_cuda_attention_backward(&x) == 0);
    for (size_t i = 0; i < to.size(); i++)
        found->push_back({ want[i].name, download(to[i], want[i].v.size()) });
    for (float *f : all) cudaFree(f);
}
static void long_sequences(size_t L, double bound)
{
    static const char *const what[] = { "SSD", "attention, many keys", "attention, many queries" };
    for (int i = 0; i < 3; i++) {
        Results expected, found;
        const char *worst;
        if (i == 0) long_ssd(L, &expected, &found);
        else if (i == 1) long_attention(64, L, &expected, &found);
        else long_attention(L, 64, &expected, &found);
        const double error = difference(expected, found, &worst);
        printf("F32         %-22s %6d tokens:", what[i], (int)L);
        for (size_t r = 0; r < found.size(); r++) {
            const char *name;
            printf(" %s %.1e", found[r].name, difference({ expected[r] }, { found[r] }, &name));
        }
        printf("\n");
        if (error <= bound) passed++;
        else {
            failed++;
            printf("FAILED  %s of %d tokens: error %.3g in %s\n", what[i], (int)L, error, worst);
        }
    }
}

/* ---- the attachment ---- */

static Case plain_case(int kind)
{
    Case c;
    memset(&c, 0, sizeof c);
    c.kind = kind;
    c.B = 2;
    c.L = c.S = 33;
    c.H = c.G = c.Gx = c.Gc = 2;
    c.N = 8;
    c.P = 8;
    c.fast = 1;
    c.seed = 5;
    return c;
}
/* A mixer of q, k and v (1, 20, 2, 4). */
static mmix_mixer small_mixer(mmix_ctx *m, int kind, mmix_tensor *q, mmix_tensor *k, mmix_tensor *v)
{
    if (kind == MMIX_MIXER_SOFTMAX) return mmix_mixer_softmax(q, k, v);
    if (kind == MMIX_MIXER_LINEAR) return mmix_mixer_linear(q, k, v);
    mmix_tensor *dt = tensor(m, 0, 0.01, 0.2, 1, 20, 2, 0);
    mmix_tensor *A = tensor(m, 0, -1, -0.1, 2, 0, 0, 0);
    return mmix_mixer_ssd(v, dt, A, k, q);
}
/* An override above the attachment, which counts by the pointer that it keeps. */
static mmix_op_functions under;
static int counted(mmix_ctx *m, mmix_call *call)
{
    ++*(int *)mmix_op_user(m);
    return under.forward(m, call);
}
static int forward_is(mmix_ctx *m, const mmix_op_functions &functions)
{
    return mmix_op_get(m, MMIX_OP_SSD).forward == functions.forward;
}
/* Whether there is an error of such a kind that says `text`. */
static int says(mmix_ctx *m, int kind, const char *text)
{
    return mmix_error_kind(m) == kind && strstr(mmix_error(m), text);
}
/* Whether an attachment that was not possible left the table as it was, without an error. */
static int left_alone(mmix_ctx *m, const mmix_op_functions &before)
{
    return !mmix_error(m) && forward_is(m, before);
}
static void attachment(void)
{
    mmix_ctx *cpu = mmix_create(NULL);
    mmix_ctx *m = mmix_create(NULL);
    mmix_cuda_options o;
    mmix_cuda_statistics s;
    const char *worst;
    memset(&o, 0, sizeof o);
    o.least = 1;

    /* the table is as it was; statistics are zero without an attachment */
    const mmix_op_functions before = mmix_op_get(m, MMIX_OP_SSD);
    const mmix_op_functions norm = mmix_op_get(m, MMIX_OP_RMS_NORM);
    mmix_cuda_stats(m, &s);
    CHECK(s.device_calls == 0 && s.copies == 0);
    CHECK(mmix_cuda_attach(m, &o) == 0);
    CHECK(!forward_is(m, before));
    mmix_cuda_detach(m);
    CHECK(forward_is(m, before) && mmix_op_get(m, MMIX_OP_SSD).backward == before.backward);
    CHECK(mmix_op_get(m, MMIX_OP_RMS_NORM).forward == norm.forward && mmix_op_user(m) == NULL);
    /* other overrides: the pointer is theirs, before and behind the attachment, and so is an op
       that they took */
    for (int late = 0; late < 2; late++) {
        int own = 7;
        if (!late) mmix_op_user_set(m, &own);
        CHECK(mmix_cuda_attach(m, &o) == 0);
        if (late) mmix_op_user_set(m, &own);
        const mmix_op_functions ours = mmix_op_get(m, MMIX_OP_SSD);
        under = ours;
        const mmix_op_functions counting = { counted, ours.backward };
        CHECK(mmix_op_set(m, MMIX_OP_SSD, &counting) == 0);
        const Case c = plain_case(MMIX_MIXER_SSD);
        CHECK(difference(run(cpu, c, 1), run(m, c, 1), &worst) < 2e-5);
        mmix_cuda_stats(m, &s);
        CHECK(s.device_calls == 2 && own == 8);
        mmix_cuda_detach(m);
        CHECK(says(m, MMIX_ERROR_ARGUMENT, "ssd was overridden"));
        mmix_error_clear(m);
        mmix_op_set(m, MMIX_OP_SSD, &ours);
        mmix_cuda_detach(m);
        CHECK(mmix_op_user(m) == &own && left_alone(m, before));
        mmix_cuda_stats(m, &s);
        CHECK(s.device_calls == 0);
        mmix_op_user_set(m, NULL);
    }
    mmix_cuda_detach(m);
    mmix_cuda_detach(NULL);

    /* the selective scan has no kernel: the CPU runs it, both ways, and is counted by its name */
    CHECK(mmix_cuda_attach(m, &o) == 0);
    mmix_record(m, 1);
    mmix_tensor *value = wide(m, 0, 1, 20, 3, 1);
    mmix_tensor *key = wide(m, 0, 1, 20, 1, 4);
    mmix_mixer scan = mmix_mixer_selective(value, tensor(m, 0, 0.01, 0.2, 1, 20, 3, 0),
                                           tensor(m, 0, -1, -0.1, 3, 4, 0, 0), key, key);
    CHECK(mmix_backward(m, mmix_mean(m, mmix_mix(m, &scan))) == 0 && mmix_grad(value));
    mmix_record(m, 0);
    mmix_cuda_stats(m, &s);
    CHECK(s.on_host[MMIX_OP_SELECTIVE_SCAN] == 2 && s.device_calls == 0);
    mmix_cuda_detach(m);
    mmix_reset(m);

    for (int kind = 0; kind < 3; kind++) {
        const int ops[] = { MMIX_OP_SOFTMAX_ATTENTION, MMIX_OP_LINEAR_ATTENTION, MMIX_OP_SSD };
        const Case c = plain_case(kind);
        const Results expected = run(cpu, c, 1);
        /* one forward and one backward on the device, nothing on the host but what is no mixer */
        CHECK(mmix_cuda_attach(m, &o) == 0);
        CHECK(difference(expected, run(m, c, 1), &worst) < 2e-5);
        mmix_cuda_stats(m, &s);
        const int device_alone = s.device_calls == 2 && s.host_calls == 0;
        const int counted_bytes = s.bytes_up > 0 && s.bytes_down > 0 && s.device_bytes > 0;
        CHECK(device_alone && s.on_device[ops[kind]] == 2 && s.copies == 4);
        CHECK(counted_bytes && s.pinned_bytes > 0 && !*s.failure);
        mmix_mean(m, mmix_new1(m, 3));
        mmix_cuda_stats(m, &s);
        CHECK(s.on_host[MMIX_OP_SUM] + s.on_host[MMIX_OP_SUM_AXIS] + s.on_host[MMIX_OP_AFFINE] > 0);
        mmix_reset(m);
        /* too small: the CPU's own bits, both ways, by default as well */
        o.least = 1e30;
        CHECK(mmix_cuda_attach(m, &o) == 0);
        CHECK(same_bits(expected, run(m, c, 1)));
        mmix_cuda_stats(m, &s);
        const int host_alone = s.device_calls == 0 && s.host_calls == 2 && s.copies == 0;
        CHECK(host_alone && s.host_small == 1 && s.on_host[ops[kind]] == 2);
        o.least = 0;
        CHECK(mmix_cuda_attach(m, &o) == 0);
        run(m, c, 0);
        mmix_cuda_stats(m, &s);
        CHECK(s.host_small == 1);
        o.least = 1;
        /* no kernel for these sizes: the CPU, quietly, since nothing failed */
        Case big = c;
        big.P = 200;
        CHECK(mmix_cuda_attach(m, &o) == 0);
        CHECK(difference(run(cpu, big, 1), run(m, big, 1), &worst) < 2e-5);
        mmix_cuda_stats(m, &s);
        CHECK(kind == MMIX_MIXER_LINEAR || (s.host_unsupported == 1 && s.device_calls == 0));
        /* detached between forward and backward: the CPU's backward, from a forward of its own */
        CHECK(mmix_cuda_attach(m, &o) == 0);
        mmix_record(m, 1);
        mmix_mixer x;
        mmix_tensor *v = wide(m, 0, 1, 20, 2, 4);
        mmix_tensor *k = wide(m, 0, 1, 20, 2, 4);
        mmix_tensor *q = wide(m, 0, 1, 20, 2, 4);
        x = small_mixer(m, kind, q, k, v);
        mmix_tensor *loss = mmix_mean(m, mmix_mix(m, &x));
        mmix_cuda_detach(m);
        CHECK(mmix_backward(m, loss) == 0 && mmix_grad(v) && mmix_grad(q));
        mmix_record(m, 0);
        mmix_reset(m);
    }
#ifdef MMIX_CUDA_HOST
    /* longer by one each time: room is made a few times */
    {
        const size_t mallocs = cuda_host.mallocs;
        Case c = plain_case(MMIX_MIXER_SSD);
        CHECK(mmix_cuda_attach(m, &o) == 0);
        for (c.L = c.S = 1; c.L <= 64; c.L = ++c.S) run(m, c, 0);
        mmix_cuda_stats(m, &s);
        CHECK(s.device_calls == 64 && cuda_host.mallocs - mallocs <= 8);
    }
#endif
    /* decoding: one token's step has no limit of widths */
    {
        Case c = plain_case(MMIX_MIXER_SSD);
        c.L = c.S = 1;
        c.N = 130;
        c.P = 200;
        c.D = c.initial = c.final = 1;
        CHECK(mmix_cuda_attach(m, &o) == 0);
        CHECK(difference(run(cpu, c, 0), run(m, c, 0), &worst) < 2e-5);
        mmix_cuda_stats(m, &s);
        CHECK(s.device_calls == 1 && s.host_calls == 0);
    }
    /* arguments */
    o.precision = 9;
    CHECK(mmix_cuda_attach(m, &o) == -1 && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT);
    CHECK(mmix_cuda_attach(m, NULL) == -1);      /* while an error is kept */
    mmix_error_clear(m);
    o.precision = 0;
    o.device = 99;
    CHECK(mmix_cuda_attach(m, &o) == -1 && mmix_error_kind(m) == MMIX_ERROR_DEVICE);
    mmix_error_clear(m);
    o.quiet = 1;
    CHECK(mmix_cuda_attach(m, &o) == 1 && left_alone(m, before));
    o.device = 0;
    /* less device memory than a call needs */
    o.memory = 4096;
    for (o.quiet = 0; o.quiet < 2; o.quiet++) {
        CHECK(mmix_cuda_attach(m, &o) == 0);
        const Results r = run(m, plain_case(MMIX_MIXER_SSD), 1);
        mmix_cuda_stats(m, &s);
        if (o.quiet) {
            const int on_host = same_bits(r, run(cpu, plain_case(MMIX_MIXER_SSD), 1));
            CHECK(on_host && s.host_failed == 1 && strstr(s.failure, "memory"));
        } else CHECK(r.empty() && says(m, MMIX_ERROR_DEVICE, "out of memory"));
        mmix_error_clear(m);
        mmix_record(m, 0);
        mmix_reset(m);
    }
    mmix_cuda_detach(m);
    mmix_destroy(cpu);
    mmix_destroy(m);
}

/* A NaN of the largest bits in one number of v is a NaN in that channel of all queries, and nowhere
   else; an infinite one is infinite there, with the sign of what it is multiplied by. */
static void not_a_number(int infinite)
{
    const uint32_t bits = infinite ? 0x7f800000u : 0xffffffffu;
    mmix_ctx *m = mmix_create(NULL);
    for (int precision = 0; precision < 3; precision++)
        for (int kind = 0; kind < 3; kind++) {
            mmix_cuda_options o;
            mmix_mixer x;
            mmix_tensor *q = wide(m, 0, 1, 20, 2, 4);
            mmix_tensor *k = wide(m, 0, 1, 20, 2, 4);
            mmix_tensor *v = wide(m, 0, 1, 20, 2, 4);
            memcpy(mmix_data(v), &bits, 4);
            memset(&o, 0, sizeof o);
            o.least = 1;
            o.precision = precision;
            CHECK(mmix_cuda_attach(m, &o) == 0);
            x = small_mixer(m, kind, q, k, v);
            if (kind == MMIX_MIXER_LINEAR) {
                x.mask = MMIX_MASK_CAUSAL;
                x.feature = MMIX_FEATURE_ELU1;
            }
            const mmix_tensor *y = mmix_mix(m, &x);
            size_t right = 0;
            for (size_t i = 0; y && i < 20 * 2 * 4; i++) {
                const float number = mmix_data(y)[i];
                const int such = infinite ? isinf(number) : isnan(number);
                right += !such == (i % 8 != 0);
            }
            if (infinite) {                      /* the sign is that of a large number there */
                memset(mmix_data(v), 0, 20 * 2 * 4 * sizeof(float));
                mmix_data(v)[0] = 1e20f;
                const mmix_tensor *large = mmix_mix(m, &x);
                for (size_t i = 0; y && large && i < 20 * 2 * 4; i += 8)
                    right -= (mmix_data(y)[i] > 0) != (mmix_data(large)[i] > 0);
            }
            CHECK(right == 20 * 2 * 4);
            mmix_reset(m);
        }
    mmix_cuda_detach(m);
    mmix_destroy(m);
}

#ifdef MMIX_CUDA_HOST
/* What is done in the shared memory of sm_90, sm_80, and sm_86 and sm_89; what is not is said
   before anything runs. */
static void limits(int brief)
{
    static const size_t sizes[][2] = { { 64, 64 }, { 128, 64 }, { 64, 128 }, { 128, 128 } };
    /* F, B: forward and backward; for floats and BF16 and each of the sizes */
    static const struct { int bytes; const char *ssd[2][4], *attention[2][4]; } devices[] = {
        { 227, { { "FB", "FB", "FB", "F-" }, { "FB", "FB", "FB", "FB" } },
               { { "FB", "FB", "FB", "FB" }, { "FB", "FB", "FB", "FB" } } },
        { 163, { { "FB", "F-", "F-", "F-" }, { "FB", "FB", "FB", "F-" } },
               { { "FB", "FB", "FB", "FB" }, { "FB", "FB", "FB", "FB" } } },
        { 99, { { "F-", "F-", "F-", "F-" }, { "FB", "F-", "F-", "F-" } },
              { { "FB", "F-", "F-", "--" }, { "FB", "FB", "FB", "FB" } } },
    };
    mmix_ctx *cpu = mmix_create(NULL);
    mmix_ctx *m = mmix_create(NULL);
    for (const auto &device : devices)
        for (int form = 1; form < 4; form += 2)
            for (int i = 0; i < 4; i++)
                for (int ssd = 0; ssd < 2; ssd++) {
                    const auto &table = ssd ? device.ssd : device.attention;
                    const char *done = table[form / 2][i], *worst;
                    mmix_cuda_options o;
                    mmix_cuda_statistics s;
                    Case c;
                    memset(&o, 0, sizeof o);
                    memset(&c, 0, sizeof c);
                    o.precision = forms[form].precision;
                    o.least = 1;
                    c.kind = ssd ? MMIX_MIXER_SSD : MMIX_MIXER_SOFTMAX;
                    c.half = form == 3;
                    c.B = c.H = c.G = c.Gx = c.Gc = 1;
                    c.L = c.S = 20;
                    c.N = sizes[i][0];
                    c.P = sizes[i][1];
                    c.fast = 1;
                    c.seed = 3;
                    o.device = cuda_host_use(device.bytes * 1024);
                    cuda_host.launches = 0;
                    CHECK(mmix_cuda_attach(m, &o) == 0);
                    /* wide sums */
                    CHECK(difference(run(cpu, c, 1), run(m, c, 1), &worst) < 2 * forms[form].bound);
                    mmix_cuda_stats(m, &s);
                    /* without its forward a backward is the CPU's, uncounted */
                    const size_t calls = (size_t)(done[0] == 'F') + (done[1] == 'B');
                    CHECK(s.device_calls == calls && s.host_failed == 0);
                    CHECK(s.host_unsupported == (size_t)(strcmp(done, "FB") != 0));
                    CHECK((cuda_host.launches == 0) == (done[0] == '-'));
                }
    /* random shapes: those that fit on the device, and what the CPU does of the others, must
       agree */
    for (const auto &device : devices)
        for (int form = 1; form < 4; form += 2)
            for (int i = 0; i < (brief ? 2 : 12); i++) {
                mmix_cuda_options o;
                const char *worst;
                memset(&o, 0, sizeof o);
                o.precision = forms[form].precision;
                o.least = 1;
                o.device = cuda_host_use(device.bytes * 1024);
                state = 4711 + 17 * (uint64_t)i + (uint64_t)form;
                Case c = random_case(i % 2 ? MMIX_MIXER_SSD : MMIX_MIXER_SOFTMAX, form == 3);
                c.N = one_of(16, 64, 96, 128);
                c.P = one_of(16, 64, 96, 128);
                CHECK(mmix_cuda_attach(m, &o) == 0);
                CHECK(difference(run(cpu, c, 1), run(m, c, 1), &worst) <= 2 * forms[form].bound);
            }
    /* heads a block takes: as many as leave room for two such blocks */
    static const struct { int bytes; size_t N, share, together; } blocks[] = {
        { 227, 128, 2, 2 }, { 99, 128, 2, 1 }, { 99, 16, 4, 4 } };
    for (const auto &b : blocks) {
        if (brief) break;
        cuda_host_use(b.bytes * 1024);
        ssd_against_naive(264, 2, b.share, b.share, b.N, 0, b.together, 0);
    }
    cuda_host_use(CUDA_HOST_SHARED);
    mmix_cuda_detach(m);
    mmix_destroy(cpu);
    mmix_destroy(m);
}
/* What goes wrong only when told to: no device, an old driver, an old GPU, the n-th allocation,
   copy or launch. */
static void failures(void)
{
    mmix_ctx *cpu = mmix_create(NULL);
    mmix_ctx *m = mmix_create(NULL);
    mmix_cuda_options o;
    mmix_cuda_statistics s;
    const char *worst;
    memset(&o, 0, sizeof o);
    o.least = 1;
    static const struct { int devices, driver, major; const char *text; } machines[] = {
        { 0, 13000, 9, "no CUDA-capable device" },
        { 1, 11080, 9, "driver version is insufficient" },
        { 1, 13000, 7, "below 8.0" },
    };
    const mmix_op_functions before = mmix_op_get(m, MMIX_OP_SSD);
    const int devices = cuda_host.devices;
    for (int i = 0; i < 3; i++) {
        cuda_host.devices = machines[i].devices;
        cuda_host.driver = machines[i].driver;
        cuda_host.major = machines[i].major;
        o.quiet = 0;
        CHECK(mmix_cuda_attach(m, &o) == -1 && says(m, MMIX_ERROR_DEVICE, machines[i].text));
        mmix_error_clear(m);
        o.quiet = 1;
        CHECK(mmix_cuda_attach(m, &o) == 1 && left_alone(m, before));
    }
    cuda_host.devices = devices;
    cuda_host.driver = 13000;
    cuda_host.major = 9;
    /* a program that was compiled for other GPUs: said at once, and not by each call */
    cuda_host.no_code = 1;
    o.quiet = 0;
    CHECK(mmix_cuda_attach(m, &o) == -1 && mmix_error_kind(m) == MMIX_ERROR_DEVICE);
    CHECK(says(m, MMIX_ERROR_DEVICE, "has no code for the GPU") &&
          says(m, MMIX_ERROR_DEVICE, "-arch=sm_90"));
    mmix_error_clear(m);
    o.quiet = 1;
    CHECK(mmix_cuda_attach(m, &o) == 1 && !mmix_error(m));
    cuda_host.no_code = 0;
    CHECK(cuda_host.streams == 0 && cuda_host.last == cudaSuccess);

    /* an error that stays: the first call fails, those after it neither pack nor copy nor launch */
    for (o.quiet = 0; o.quiet < 2; o.quiet++) {
        Case c = plain_case(MMIX_MIXER_SSD);
        CHECK(mmix_cuda_attach(m, &o) == 0);
        run(m, c, 0);
        cuda_host.sticky = 1;
        cuda_host.fail_launch = 1;
        for (int call = 0; call < 3; call++) {
            const size_t launches = cuda_host.launches;
            const Results found = run(m, c, 0);
            CHECK(cuda_host.launches == launches);
            if (o.quiet) CHECK(same_bits(found, run(cpu, c, 0)));
            else CHECK(found.empty() && says(m, MMIX_ERROR_DEVICE, "unspecified launch failure"));
            mmix_error_clear(m);
            mmix_reset(m);
        }
        mmix_cuda_stats(m, &s);
        CHECK(s.device_calls == 1 && s.host_failed == 3 && s.copies == 2);
        cuda_host.sticky = 0;
        mmix_cuda_detach(m);
    }
    o.quiet = 0;
    /* a kernel is told once, on each device, how much shared memory it may have */
    {
        Case c = plain_case(MMIX_MIXER_SSD);
        c.N = c.P = 64;
        CHECK(mmix_cuda_attach(m, &o) == 0);
        run(m, c, 1);
        const size_t told = cuda_host.told;
        run(m, c, 1);
        CHECK(told > 0 && cuda_host.told == told);
        mmix_cuda_detach(m);
    }

    /* what a kernel is allowed does not depend on the call: another thread may set it in between */
    CHECK(!cuda_host.allowed.empty());
    for (const auto &kernel : cuda_host.allowed)
        CHECK(kernel.second == cuda_host.shared[kernel.first.first]);
    /* a GPU with less shared memory: the backward of SSD has no kernel there, and the CPU makes up
       for its forward */
    {
        Case c = plain_case(MMIX_MIXER_SSD);
        c.N = c.P = 64;
        c.L = c.S = 150;
        o.device = cuda_host_use(100 * 1024);
        o.quiet = 0;
        CHECK(mmix_cuda_attach(m, &o) == 0);
        CHECK(difference(run(cpu, c, 1), run(m, c, 1), &worst) < 2e-5);
        mmix_cuda_stats(m, &s);
        const int shared_out = s.device_calls == 1 && s.host_calls == 1;
        CHECK(shared_out && s.host_unsupported == 1 && s.host_failed == 0);
        o.device = 0;
        cuda_host_use(CUDA_HOST_SHARED);
    }
    /* each call of the runtime fails once: an error that says which op, or the CPU's result; and
       nothing is lost */
    for (int kind = 0; kind < 3; kind++) {
        Case c = plain_case(kind);
        if (kind == MMIX_MIXER_LINEAR) c.o.mask = MMIX_MASK_CAUSAL;
        const Results expected = run(cpu, c, 1);
        for (int what = 0; what < 5; what++) {
            long *const n[] = { &cuda_host.fail_malloc, &cuda_host.fail_pinned,
                                &cuda_host.fail_copy, &cuda_host.fail_launch,
                                &cuda_host.fail_sync };
            for (o.quiet = 0; o.quiet < 2; o.quiet++)
                for (int at = 1; at < 40; at++) {
                    CHECK(mmix_cuda_attach(m, &o) == 0);
                    *n[what] = at;
                    const Results found = run(m, c, 1);
                    const int fired = !*n[what];
                    *n[what] = 0;
                    mmix_cuda_stats(m, &s);
                    CHECK(cuda_host.last == cudaSuccess);  /* nothing left for the next call */
                    /* an allocation of more than the call needs may fail: the next one is of no
                       more */
                    const int again = what < 2 && at > 1 && !s.host_failed && !mmix_error(m);
                    const int kept = !mmix_error(m) && s.host_failed == 1;
                    if (!fired || again)
                        CHECK(!mmix_error(m) && s.host_failed == 0 && s.device_calls == 2);
                    else if (o.quiet)
                        CHECK(kept && strchr(s.failure, ':') &&
                              difference(expected, found, &worst) < 2e-5);
                    else CHECK(says(m, MMIX_ERROR_DEVICE, "mmix_cuda: "));
                    mmix_error_clear(m);
                    mmix_record(m, 0);
                    mmix_reset(m);
                    if (!fired) break;
                }
        }
    }
    mmix_cuda_detach(m);
    CHECK(cuda_host.bytes == 0 && cuda_host.pinned == 0 && cuda_host.streams == 0);
    /* the host's memory, failed at each of its allocations while a mixer is on the device */
    for (size_t limit = 1; limit < 200; limit++) {
        mmix_options with;
        memset(&with, 0, sizeof with);
        with.allocator.count_limit = limit;
        mmix_ctx *poor = mmix_create(&with);
        if (!poor) continue;
        o.quiet = 0;
        if (mmix_cuda_attach(poor, &o) == 0) {
            Case c = plain_case(MMIX_MIXER_SOFTMAX);
            run(poor, c, 1);
        }
        const int done = !mmix_error(poor);
        if (!done) CHECK(mmix_error_kind(poor) == MMIX_ERROR_MEMORY);
        mmix_cuda_detach(poor);
        mmix_destroy(poor);
        if (done) break;
    }
    CHECK(cuda_host.bytes == 0 && cuda_host.pinned == 0 && cuda_host.streams == 0);
    mmix_destroy(cpu);
    mmix_destroy(m);
}
#endif

template <class Tiles> static void print_attention_bytes(Tiles tiles, const mmixi_cuda_ssd_job &j)
{
    const int forward = (int)mmixi_cuda_attention_layout(&tiles, NULL, j.n, j.p, 0, 2);
    const int backward = (int)mmixi_cuda_attention_layout(&tiles, NULL, j.n, j.p, 1, 2);
    const int bias = (int)mmixi_cuda_attention_layout(&tiles, NULL, j.n, j.p, 1, 1);
    printf("attention forward %6d, backward %6d, dbias %6d\n", forward, backward, bias);
}
/* Bytes of shared memory that a block of each kernel in tiles asks for, which the compiler cannot
   know. */
static void shared_memory(void)
{
    static const size_t sizes[][2] = { { 64, 64 }, { 128, 64 }, { 64, 128 }, { 128, 128 } };
    static const char *const names[] = { "F32, TF32", "", "BF16" };
    for (int precision = 0; precision < 3; precision += 2)
        for (int i = 0; i < 4; i++) {
            mmix_cuda_ssd x;
            mmixi_cuda_ssd_job j;
            mmixi_cuda_attention_tiles<float> f;
            mmixi_cuda_attention_tiles<mmixi_cuda_bf16> h;
            memset(&x, 0, sizeof x);
            x.precision = precision;
            x.B = x.H = x.L = 1;
            x.N = sizes[i][0];
            x.P = sizes[i][1];
            x.x.share = x.b.share = x.c.share = 1;
            mmixi_cuda_ssd_begin(&j, &x, 0, NULL);
            printf("N %3d, P %3d, %-9s shared bytes: ssd forward %6d, backward %6d; ", (int)x.N,
                   (int)x.P, names[precision], (int)mmixi_cuda_ssd_bytes(&j, 0, 1),
                   (int)mmixi_cuda_ssd_bytes(&j, 1, 1));
            if (precision) print_attention_bytes(h, j);
            else print_attention_bytes(f, j);
        }
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "shared")) return shared_memory(), 0;
#ifndef MMIX_CUDA_HOST
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        printf("there is no GPU here\n0 passed, 0 failed, 1 skipped\n");
        return 1;
    }
#endif
    /* brief: for the sanitizers */
    const int count = argc > 1 ? atoi(argv[1]) : 30, brief = count < 10;
    random_cases(count);
    large_cases(brief);
    usual_widths(brief);
    long_queries();
    strides(70, 16, 4);                          /* 16-byte rows */
    strides(70, 20, 4);                          /* and end within 8 columns */
    strides(70, 16, 3);                          /* of such a width, but none begins on 16 bytes */
    strides(33, 7, 3);                           /* none */
    steps();
    nothing(0);
    nothing(1);
    for (int how = 0; how < 4; how++) left_out(how / 2, how % 2);
    runs();
    ssd_against_naive(132, 70, 4, 2, 5, 0, 2, 0);
    ssd_against_naive(264, 70, 4, 4, 5, 0, 4, 0);
    /* 6 chunks in 2 pieces, each warp with rows of h */
    ssd_against_naive(1, 330, 2, 2, 70, 2, 1, 1);
    for (size_t L = brief ? 512 : 4096; L <= (brief ? 512 : 16384); L *= 4) long_sequences(L, 1e-5);
    attachment();
    not_a_number(0);
    not_a_number(1);
#ifdef MMIX_CUDA_HOST
    failures();
    limits(brief);
#endif
    biases(brief);  /* in less shared memory, which failures() must not have met */
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || !passed;
}
