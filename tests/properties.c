/* Properties of the token mixers on random shapes and options. Every face of a mixer (mmix_mix, its
   matrix, its steps, its gradients, the raw functions) is held against the definition, written here
   as plain loops in double that share no code with the library; rotary positions, layers in steps,
   scan orders and ranks follow. Prints a line for each failing check, how near to its bound each
   face came, and a summary; exits 1 if anything failed.

       properties [seed [first [count]]]     draws first … first + count - 1 of that seed

   A draw's numbers depend on (seed, draw) alone; the line of a failing check says how to repeat it.

   Errors are measured in units of EPS · size. The size of a number is the sum of the absolute
   values of what it is made of: the same definition with every term positive. So a sum that happens
   to cancel asks nothing impossible, a small number beside large ones is looked at as closely as
   those, and one bound serves float and double. Sizes of softmax attention have a factor 1 + the
   largest score as well: an error of EPS s in a score s is one of EPS s in its exponential. */
#include "test.h"
#include "../demos/studies/heads.h"

/* Bounds are three times the largest error of the seeds 1 to 30 in float and 1 to 20 in double,
   which were 18, 43, 49, 11, 14, 18, 18, 1.5, 0.5, 18, 43, 2.1e4, 2.5, 38 and 13 (the differences
   are those of the five-point rule). */
enum {
    MIX,
    GRADIENT,
    MATRIX,
    PRODUCT,
    LOOP,
    CHUNK,
    STEP,
    PACKED,
    WAYS,
    RAW,
    RAW_GRADIENT,
    DIFFERENCE,
    ROPE,
    LAYER,
    RANK,
    FACES
};
static struct { const char *name; double bound, worst;
} face[FACES] = { { "mmix_mix", 55, 0 },
                  { "gradient", 130, 0 },
                  { "mmix_mix_matrix", 150, 0 },
                  { "matrix times v", 35, 0 },
                  { "mmix_ssd_reference", 45, 0 },
                  { "chunk", 55, 0 },
                  { "mmix_mix_step", 55, 0 },
                  { "packed", 5, 0 },
                  { "direction", 2, 0 },
                  { "raw", 55, 0 },
                  { "raw gradient", 130, 0 },
                  { "difference", 6e4, 0 },
                  { "mmix_rope", 8, 0 },
                  { "layer", 120, 0 },
                  { "rank", 40, 0 } };

/* ---- random numbers: a hash of (seed, draw, how many before) ---- */

static uint64_t seed = 1, draw, drawn;
static uint64_t random_bits(void)                /* splitmix64's mixing function */
{
    uint64_t z = (seed * 0x9E3779B97F4A7C15u ^ draw) * 0xD1342543DE82EF95u
                 + ++drawn * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static double between(double low, double high)
{
    return low + (high - low) * ((double)(random_bits() >> 11) / 9007199254740992.0);
}
static size_t integer(size_t low, size_t high)
{
    return low + (size_t)(random_bits() % (high - low + 1));
}
static int one_in(size_t n) { return integer(1, n) == 1; }
static size_t pick(size_t a, size_t b) { return one_in(2) ? a : b; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* ---- checks ---- */

static mmix_ctx *m;                              /* the draw's context */

static void check(int ok, const char *what, const char *detail, double got, double want)
{
    if (ok) {
        passed++;
        return;
    }
    if (failed++ < 100)
        printf("FAILED %s, %s: %.9g, expected %.9g; properties %lu %lu 1: %s\n", what, detail, got,
               want, (unsigned long)seed, (unsigned long)draw, about);
}
static void equal(const char *what, const char *detail, size_t got, size_t want)
{
    check(got == want, what, detail, (double)got, (double)want);
}
/* no error is kept; if one is it is shown and cleared */
static void fine(const char *what)
{
    check(!mmix_error(m), what, mmix_error(m) ? mmix_error(m) : "", 0, 0);
    mmix_error_clear(m);
}
static void rejected(int bad, const char *what)   /* an argument was, and the message is there */
{
    check(bad && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT, what, "is refused", bad, 1);
    mmix_error_clear(m);
}
/* An error in units of EPS · size. The library drops decays below e^-80: hence the absolute
   part. */
static void judge(int f, const char *what, double error, double size, double got, double want)
{
    const double e = error / (EPS * size + 1e-25);
    if (!(e <= face[f].worst))
        face[f].worst = e;
    check(e <= face[f].bound, face[f].name, what, got, want);
}
static void compare(int f, const char *what, const double *got, const double *want,
                    const double *size, double grow, size_t n)
{
    size_t worst = 0;
    double top = -1;
    /* as far as the first NaN or infinity */
    for (size_t i = 0; i < n && top - top == 0; i++) {
        const double e = fabs(got[i] - want[i]) / (EPS * grow * size[i] + 1e-25);
        if (!(e <= top)) {
            worst = i;
            top = e;
        }
    }
    if (n)
        judge(f, what, fabs(got[worst] - want[worst]), grow * size[worst], got[worst], want[worst]);
}

/* ---- memory of a draw ---- */

static void *held[20000];
static size_t n_held;
static void *hold(size_t bytes)                  /* zeros */
{
    void *p = calloc(bytes ? bytes : 1, 1);
    if (!p || n_held == sizeof held / sizeof *held) {
        puts("out of memory");
        exit(2);
    }
    return held[n_held++] = p;
}
static void let_go(size_t from) { while (n_held > from) free(held[--n_held]); }
static double *doubles(size_t n) { return (double *)hold(n * sizeof(double)); }
static real *reals(size_t n) { return (real *)hold(n * sizeof(real)); }
static double *as_doubles(const real *r, size_t n)
{
    double *d = doubles(n);
    for (size_t i = 0; i < n; i++)
        d[i] = (double)r[i];
    return d;
}
static double *plus(const double *x, double a, size_t n)             /* x + a; x NULL: a */
{
    double *y = doubles(n);
    for (size_t i = 0; i < n; i++)
        y[i] = x ? x[i] + a : a;
    return y;
}
static real *read_reals(const mmix_tensor *t)
{
    real *r = reals(mmix_count(t));
    if (t) mmix_read(t, r);
    return r;
}
static double *read_doubles(const mmix_tensor *t)
{
    return as_doubles(read_reals(t), mmix_count(t));
}
static void compare_reals(int f, const char *what, const real *got, const double *want,
                          const double *size, double grow, size_t n)
{
    const size_t was = n_held;
    compare(f, what, as_doubles(got, n), want, size, grow, n);
    let_go(was);
}
static void compare_tensor(int f, const char *what, const mmix_tensor *t, const double *want,
                           const double *size, double grow)
{
    const size_t was = n_held;
    if (t)
        compare(f, what, read_doubles(t), want, size, grow, mmix_count(t));
    else check(0, what, mmix_error(m) ? mmix_error(m) : "NULL", 0, 1);
    let_go(was);
}

/* ---- a draw: a mixer, its numbers, and what is expected of it ---- */

enum { Q, K, V, DT, GATE, A, D, BIAS, FIRST, TABLE, INPUTS };   /* up to GATE one row a token */
static const char *const input_name[INPUTS] = { "q", "k", "v",       "dt",            "z",
                                                "A", "D", "dt_bias", "initial state", "bias" };
typedef struct input { mmix_tensor *t; size_t tokens, heads, width, n; int wants; } input;
/* The numbers of a draw in double: values and gradients of the inputs, y (B, L, H, P) and the final
   state, what comes back for them, the matrix (B, H, L, S). `exact`: what they are; `size`: their
   sizes. */
typedef struct side { double *x[INPUTS], *g[INPUTS], *y, *last, *dy, *dlast, *M; } side;
static side exact, size;
static double grow;                              /* of the sizes: 1, or 1 + the largest score */
static mmix_mixer x;
static input in[INPUTS];
static size_t B, L, S, H, N, P;
static size_t SH, SP;                            /* a state is (B, SH, SP, N) */
/* extreme values; the final state has a gradient; y has none */
static int hard, with_last, only_last;
static mmix_tensor *up, *up_last;                /* upstream gradients */
static size_t *run;                              /* (B, L): number of the packed sequence */
static unsigned char *seen;                      /* (B, L, S): the mask */
/* (B, H, L): what rows of M are divided by; ln Σ e^s of softmax */
static double *den, *lse;
static double scale, eps, top_score;

/* Where the numbers of token t for head h of H begin: head h reads group h / (H / G). */
static size_t at(int i, size_t b, size_t t, size_t h)
{
    return ((b * in[i].tokens + t) * in[i].heads + h / (H / in[i].heads)) * in[i].width;
}
/* Whether y is M x. */
static int has_matrix(void) { return !in[FIRST].t && mmix_ndim(in[D].t) < 2; }
static int divides(void)
{
    const int by_default = x.feature == MMIX_FEATURE_ELU1 || x.feature == MMIX_FEATURE_RELU;
    return x.kind == MMIX_MIXER_LINEAR && (x.normalize ? x.normalize > 0 : by_default);
}

static size_t states(void) { return B * SH * SP * N; }
/* SSD and the selective scan: loops over time with directions. */
static int is_scan(void) { return x.kind == MMIX_MIXER_SSD || x.kind == MMIX_MIXER_SELECTIVE; }
/* Scans in one direction and causal linear attention have an initial and a final state. */
static int has_state(void)
{
    return is_scan() ? x.direction != MMIX_SCAN_BOTH
                     : x.kind == MMIX_MIXER_LINEAR && x.mask == MMIX_MASK_CAUSAL;
}
/* What the gate multiplies number z of y with, silu(z), and its slope; with `absolute` terms of
   both signs are added. */
static double gate_of(size_t z) { return exact.x[GATE][z] / (1 + exp(-exact.x[GATE][z])); }
static double gate_slope(size_t z, int absolute)
{
    const double u = exact.x[GATE][z], up_of = 1 / (1 + exp(-u)), down_of = 1 / (1 + exp(u));
    return up_of * (1 + (absolute ? fabs(u) : u) * down_of);
}

static size_t window_of(size_t c, size_t window, size_t shift)
{
    size_t w = 0, end = shift ? shift : window;
    for (; c >= end; end += window) w++;
    return w;
}
static int sees(size_t b, size_t i, size_t j)
{
    /* the queries are the last of the tokens */
    const size_t me = x.mask == MMIX_MASK_NONE ? i : i + S - L;
    size_t p = i, q = j;
    if (x.seq_idx && run[b * L + i] != run[b * L + j])
        return 0;
    for (int a = 3; x.window[0] && a-- > 0;) {
        const size_t n = most(x.grid[a], 1);
        const size_t w = most(x.window[a], 1);
        if (window_of(p % n, w, x.shift[a]) != window_of(q % n, w, x.shift[a]))
            return 0;
        p /= n;
        q /= n;
    }
    if (x.mask == MMIX_MASK_CAUSAL) return j <= me;
    if (x.mask == MMIX_MASK_PREFIX)
        return j <= me || (me < x.prefix && j < x.prefix);
    if (x.mask == MMIX_MASK_BAND)
        return j <= me ? me - j <= x.left : j - me <= x.right;
    return 1;
}

/* Where the bias of a pair of places stands in its head's table. */
static size_t distance_of(size_t i, size_t j)
{
    size_t at_axis = 1, sum = 0;
    for (int a = 3; a-- > 0;) {
        const size_t n = most(x.grid[a], 1);
        const size_t w = most(x.window[a], 1);
        sum += (i % n + w - 1 - j % n) * at_axis;
        at_axis *= 2 * w - 1;
        i /= n;
        j /= n;
    }
    return sum;
}

/* δ = clamp(softplus(dt + bias)) and its slope; from 20 on softplus is its argument, as in
   PyTorch */
static double delta_of(size_t b, size_t t, size_t h, double *slope)
{
    const double u = exact.x[DT][at(DT, b, t, h)] + (in[BIAS].t ? exact.x[BIAS][h] : 0);
    const int soft = x.dt_softplus && u <= 20;
    const double d = soft ? log1p(exp(u)) : u;
    *slope = soft ? 1 / (1 + exp(-u)) : 1;
    if (!(x.dt_high > 0) || (d >= x.dt_low && d <= x.dt_high))
        return d;
    *slope = 0;
    return d < x.dt_low ? x.dt_low : x.dt_high;
}
/* Number n of head h's decay: SSD has one for all n. */
static size_t decay_at(size_t h, size_t n) { return in[A].width == 1 ? h : h * in[A].width + n; }
/* h_t = e^(δ A) h_(t-1) + δ x Bᵀ, y_t = h_t C + D x in one direction, results times `weight`, and
   the way back. The gradient of δ has terms of both signs even if all inputs are positive:
   `absolute` adds them. */
static void naive_scan(side *s, int reverse, double weight, int absolute)
{
    const size_t was = n_held, PN = P * N, wide = mmix_ndim(in[D].t) == 2;
    double *states = doubles((L + 1) * PN), *dh = doubles(PN);
    double *delta = doubles(L);
    double *slope = doubles(L);
    double *e = doubles(L * N);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            const size_t of_head = (b * H + h) * PN;
            for (size_t z = 0; z < PN; z++)
                states[z] = in[FIRST].t ? s->x[FIRST][of_head + z] : 0;
            for (size_t i = 0; i < L; i++) {
                const size_t t = reverse ? L - 1 - i : i;
                const size_t before = reverse ? t + 1 : t - 1;
                const double *C = s->x[Q] + at(Q, b, t, h);
                const double *Bt = s->x[K] + at(K, b, t, h);
                const double *v = s->x[V] + at(V, b, t, h);
                double *y = s->y + ((b * L + t) * H + h) * P;
                double *now = states + (i + 1) * PN;
                delta[i] = delta_of(b, t, h, &slope[i]);
                const int begins = i && run && run[b * L + t] != run[b * L + before];
                for (size_t n = 0; n < N; n++)
                    e[i * N + n] = begins ? 0 : exp(delta[i] * exact.x[A][decay_at(h, n)]);
                for (size_t p = 0; p < P; p++) {
                    for (size_t n = 0; n < N; n++) {
                        now[p * N + n] = e[i * N + n] * states[i * PN + p * N + n]
                                         + delta[i] * v[p] * Bt[n];
                        y[p] += weight * now[p * N + n] * C[n];
                    }
                    if (in[D].t)
                        y[p] += weight * v[p] * s->x[D][wide ? h * P + p : h];
                }
            }
            for (size_t z = 0; z < PN; z++) {
                s->last[of_head + z] = states[L * PN + z];
                dh[z] = with_last ? s->dlast[of_head + z] : 0;
            }
            for (size_t i = L; i-- > 0;) {
                const size_t t = reverse ? L - 1 - i : i;
                const size_t q = at(Q, b, t, h);
                const size_t k = at(K, b, t, h);
                const double *C = s->x[Q] + q;
                const double *Bt = s->x[K] + k;
                const double *v = s->x[V] + at(V, b, t, h);
                const double *dy = s->dy + ((b * L + t) * H + h) * P;
                const double *now = states + (i + 1) * PN;
                double *dv = s->g[V] + at(V, b, t, h);
                double dd = 0;
                for (size_t p = 0; p < P; p++) {
                    const double w = weight * dy[p];
                    for (size_t n = 0; n < N; n++) {
                        double *g = dh + p * N + n;
                        *g += w * C[n];
                        s->g[Q][q + n] += w * now[p * N + n];
                        s->g[K][k + n] += *g * delta[i] * v[p];
                        dv[p] += *g * delta[i] * Bt[n];
                        dd += *g * v[p] * Bt[n];
                        *g *= e[i * N + n];
                        const double da = *g * states[i * PN + p * N + n];
                        const double a = exact.x[A][decay_at(h, n)];
                        s->g[A][decay_at(h, n)] += da * delta[i];
                        dd += da * (absolute ? fabs(a) : a);
                    }
                    if (!in[D].t) continue;
                    dv[p] += w * s->x[D][wide ? h * P + p : h];
                    s->g[D][wide ? h * P + p : h] += w * v[p];
                }
                dd *= slope[i];
                s->g[DT][at(DT, b, t, h)] += dd;
                if (in[BIAS].t)
                    s->g[BIAS][h] += dd;
            }
            for (size_t z = 0; in[FIRST].t && z < PN; z++)
                s->g[FIRST][of_head + z] += dh[z];
        }
    let_go(was);
}
/* The same recurrence as a matrix: C_t·B_j δ_j times the decays after j up to t, and D on the
   diagonal. */
static void naive_scan_matrix(side *s, int reverse, double weight)
{
    const size_t was = n_held;
    double unused, *decay = doubles(N);
    for (size_t r = 0; r < B * H * L; r++) {
        const size_t b = r / L / H, h = r / L % H, i = r % L;
        const size_t t = reverse ? L - 1 - i : i;
        for (size_t n = 0; n < N; n++)
            decay[n] = 1;
        for (size_t z = i + 1; z-- > 0;) {
            const size_t j = reverse ? L - 1 - z : z;
            const double d = delta_of(b, j, h, &unused);
            double score = 0;
            if (run && run[b * L + j] != run[b * L + t])
                break;
            for (size_t n = 0; n < N; n++)
                score += s->x[Q][at(Q, b, t, h) + n] * s->x[K][at(K, b, j, h) + n] * decay[n];
            score *= d;
            if (j == t && in[D].t)
                score += s->x[D][h];
            s->M[((b * H + h) * L + t) * S + j] += weight * score;
            for (size_t n = 0; n < N; n++)
                decay[n] *= exp(d * exact.x[A][decay_at(h, n)]);
        }
    }
    let_go(was);
}
/* Both directions, their matrix, and the gate behind them. */
static void naive_scans(side *s, int absolute)
{
    const size_t was = n_held, out = B * L * H * P;
    double *dy = s->dy;
    if (in[GATE].t) {
        s->dy = doubles(out);
        for (size_t z = 0; z < out; z++)
            s->dy[z] = dy[z] * (absolute ? fabs(gate_of(z)) : gate_of(z));
    }
    for (int d = MMIX_SCAN_FORWARD; d <= MMIX_SCAN_REVERSE; d++) {
        const double weight = x.direction == MMIX_SCAN_BOTH ? 0.5 : x.direction == d;
        if (weight > 0) naive_scan(s, d, weight, absolute);
        if (weight > 0 && has_matrix()) naive_scan_matrix(s, d, weight);
    }
    s->dy = dy;
    let_go(was);
    for (size_t z = 0; in[GATE].t && z < out; z++) {
        s->g[GATE][z] = dy[z] * s->y[z] * gate_slope(z, absolute);
        s->y[z] *= absolute ? fabs(gate_of(z)) : gate_of(z);
    }
}

/* φ and ψ of linear attention: f of input i (Q or K). A softmax goes over the `many` numbers that
   begin at `start`, `step` from each other: a token's features, or for the keys of EFFICIENT a
   feature of all tokens. */
typedef struct group { size_t start, step, many; } group;
static group group_of(int i, size_t z)
{
    const int over_tokens = i == K && x.feature == MMIX_FEATURE_EFFICIENT;
    const size_t row = in[i].heads * N, all = row * in[i].tokens;
    group g;
    g.start = over_tokens ? z / all * all + z % row : z / N * N;
    g.step = over_tokens ? row : 1;
    g.many = over_tokens ? in[i].tokens : N;
    return g;
}
static int is_softmax(void)
{
    return x.feature == MMIX_FEATURE_SOFTMAX_BOTH || x.feature == MMIX_FEATURE_EFFICIENT;
}
static double *naive_features(int i)
{
    const double *from = exact.x[i];
    double *f = doubles(in[i].n);
    for (size_t z = 0; z < in[i].n; z++) {
        const group g = group_of(i, z);
        double top = -HUGE_VAL, sum = 0;
        if (x.feature == MMIX_FEATURE_ELU1)
            f[z] = from[z] > 0 ? from[z] + 1 : exp(from[z]);
        if (x.feature == MMIX_FEATURE_RELU)
            f[z] = from[z] > 0 ? from[z] : 0;
        if (x.feature == MMIX_FEATURE_NONE) f[z] = from[z];
        if (!is_softmax() || z != g.start) continue;                 /* each group once */
        for (size_t k = 0; k < g.many; k++)
            top = fmax(top, from[z + k * g.step]);
        for (size_t k = 0; k < g.many; k++)
            sum += f[z + k * g.step] = exp(from[z + k * g.step] - top);
        for (size_t k = 0; k < g.many; k++)
            f[z + k * g.step] /= sum;
    }
    return f;
}
static void naive_features_back(int i, const double *f, const double *df, double *to, int absolute)
{
    for (size_t z = 0; z < in[i].n; z++) {
        const group g = group_of(i, z);
        double sum = 0;
        for (size_t k = 0; is_softmax() && k < g.many; k++)
            sum += f[g.start + k * g.step] * df[g.start + k * g.step];
        if (is_softmax())
            to[z] = f[z] * (absolute ? df[z] + sum : df[z] - sum);
        else if (x.feature == MMIX_FEATURE_NONE) to[z] = df[z];
        else if (exact.x[i][z] > 0)
            to[z] = df[z];
        else to[z] = df[z] * (x.feature == MMIX_FEATURE_ELU1 ? f[z] : 0);
    }
}
/* The state of causal linear attention: Σ_j v_j g_jᵀ of the last sequence, ones beside v for the
   sums of rows, and the way back from it. */
static void naive_linear_state(side *s, const double *g, double *dg)
{
    for (size_t z = 0; z < B * SH; z++) {
        const size_t b = z / SH;
        const size_t h = z % SH * (H / SH);
        const size_t from = z * SP * N;
        for (size_t j = 0; j < L; j++) {
            const size_t k = at(K, b, j, h);
            const size_t v = at(V, b, j, h);
            if (run && run[b * L + j] != run[b * L + L - 1])
                continue;
            for (size_t i = 0; i < SP * N; i++) {
                const double of_last = with_last ? s->dlast[from + i] : 0;
                const double value = i / N < P ? s->x[V][v + i / N] : 1;
                s->last[from + i] += value * g[k + i % N];
                if (i / N < P)
                    s->g[V][v + i / N] += of_last * g[k + i % N];
                dg[k + i % N] += of_last * value;
            }
        }
        if (in[FIRST].t && !(run && run[b * L + L - 1]))
            for (size_t i = from; i < from + SP * N; i++) {
                s->last[i] += s->x[FIRST][i];
                if (with_last)
                    s->g[FIRST][i] += s->dlast[i];
            }
    }
}
/* M and y = M v of softmax and linear attention, and the way back. With `absolute` what rows are
   divided by, and the weights of softmax, are those of `exact`. */
static void naive_attention(side *s, int absolute)
{
    const size_t was = n_held;
    const int soft = x.kind == MMIX_MIXER_SOFTMAX;
    double *f = soft ? s->x[Q] : naive_features(Q);
    double *g = soft ? s->x[K] : naive_features(K);
    double *dm = doubles(S);
    double *df = soft ? s->g[Q] : doubles(in[Q].n);
    double *dg = soft ? s->g[K] : doubles(in[K].n);
    for (size_t z = 0; absolute && !soft && z < in[Q].n; z++)
        f[z] = fabs(f[z]);
    for (size_t z = 0; absolute && !soft && z < in[K].n; z++)
        g[z] = fabs(g[z]);
    for (size_t r = 0; r < B * H * L; r++) {
        const size_t b = r / L / H, h = r / L % H, i = r % L;
        const size_t q = at(Q, b, i, h);
        const size_t out = ((b * L + i) * H + h) * P;
        const size_t first = (b * SH + h / (H / SH)) * SP * N;
        const size_t table = h * in[TABLE].width;
        const int enters = in[FIRST].t && !(run && run[b * L + i]);
        const unsigned char *mask = seen + (b * L + i) * S;
        double *row = s->M + r * S, top = -HUGE_VAL, sum = 0, along = 0;
        if (absolute && soft)
            memcpy(row, exact.M + r * S, S * sizeof *row);
        else {
            for (size_t j = 0; j < S; j++) {
                double magnitude = 0;
                if (!mask[j]) continue;
                if (in[TABLE].t)
                    magnitude = fabs(row[j] = s->x[TABLE][table + distance_of(i, j)]);
                for (size_t n = 0; n < N; n++) {
                    const double z = (soft ? scale : 1) * f[q + n] * g[at(K, b, j, h) + n];
                    row[j] += z;
                    magnitude += fabs(z);
                }
                top = fmax(top, row[j]);
                if (soft) top_score = fmax(top_score, magnitude);
            }
            for (size_t j = 0; j < S; j++)
                if (mask[j])
                    sum += row[j] = soft ? exp(row[j] - top) : row[j];
            for (size_t n = 0; enters && divides() && n < N; n++)
                sum += f[q + n] * s->x[FIRST][first + P * N + n];
            if (!absolute && soft) den[r] = sum;
            else if (!absolute)
                den[r] = divides() ? sum + eps : 1;
            if (soft) lse[r] = top + log(den[r]);
            for (size_t j = 0; j < S; j++)
                row[j] /= den[r];
        }
        for (size_t j = 0; j < S; j++) {
            const size_t v = at(V, b, j, h);
            if (!mask[j]) continue;
            dm[j] = 0;
            for (size_t p = 0; p < P; p++) {
                s->y[out + p] += row[j] * s->x[V][v + p];
                s->g[V][v + p] += row[j] * s->dy[out + p];
                dm[j] += s->dy[out + p] * s->x[V][v + p];
            }
        }
        for (size_t z = 0; enters && z < P * N; z++) {
            s->y[out + z / N] += f[q + z % N] * s->x[FIRST][first + z] / den[r];
            s->g[FIRST][first + z] += f[q + z % N] * s->dy[out + z / N] / den[r];
            df[q + z % N] += s->x[FIRST][first + z] * s->dy[out + z / N] / den[r];
        }
        for (size_t p = 0; (soft || divides()) && p < P; p++)
            along += s->dy[out + p] * s->y[out + p];
        for (size_t n = 0; enters && divides() && n < N; n++) {
            const double w = (absolute ? along : -along) / den[r];
            s->g[FIRST][first + P * N + n] += w * f[q + n];
            df[q + n] += w * s->x[FIRST][first + P * N + n];
        }
        for (size_t j = 0; j < S; j++) {
            const double d = absolute ? dm[j] + along : dm[j] - along;
            const double of_score = absolute ? fabs(scale) : scale;
            const double w = soft ? of_score * row[j] * d : d / den[r];
            if (mask[j] && in[TABLE].t)
                s->g[TABLE][table + distance_of(i, j)] += row[j] * d;
            for (size_t n = 0; mask[j] && n < N; n++) {
                df[q + n] += w * g[at(K, b, j, h) + n];
                dg[at(K, b, j, h) + n] += w * f[q + n];
            }
        }
    }
    if (!soft) {
        if (x.mask) naive_linear_state(s, g, dg);
        naive_features_back(Q, f, df, s->g[Q], absolute);
        naive_features_back(K, g, dg, s->g[K], absolute);
    }
    let_go(was);
}
/* Fills in `exact` and `size`. */
static void expect(void)
{
    const size_t out = B * L * H * P, state = states();
    memset(&exact, 0, sizeof exact);
    memset(&size, 0, sizeof size);
    top_score = 0;
    den = doubles(B * H * L);
    lse = doubles(B * H * L);
    seen = (unsigned char *)hold(B * L * S);
    for (size_t z = 0; !is_scan() && z < B * L * S; z++)
        seen[z] = (unsigned char)sees(z / (L * S), z / S % L, z % S);
    for (int k = 0; k < 2; k++) {
        side *to = k ? &size : &exact;
        to->dy = read_doubles(up);
        to->dlast = read_doubles(up_last);
        for (size_t z = 0; k && z < out; z++)
            to->dy[z] = fabs(to->dy[z]);
        for (size_t z = 0; k && z < state; z++)
            to->dlast[z] = fabs(to->dlast[z]);
        for (int i = 0; i < INPUTS; i++) {
            if (!in[i].t) continue;
            to->g[i] = doubles(in[i].n);
            to->x[i] = read_doubles(in[i].t);
            for (size_t z = 0; k && z < in[i].n; z++)
                to->x[i][z] = fabs(to->x[i][z]);
        }
        to->y = doubles(out);
        to->last = doubles(state);
        to->M = doubles(has_matrix() || !is_scan() ? B * H * L * S : 0);
        if (is_scan()) naive_scans(to, k);
        else naive_attention(to, k);
    }
    grow = x.kind == MMIX_MIXER_SOFTMAX ? 1 + top_score : 1;
}

/* ---- making a draw ---- */

static int little;                               /* a draw for ranks */
static size_t any_length(void)
{
    const size_t r = little ? 1 : integer(1, 20);
    if (r <= 11) return integer(1, 20);
    if (r <= 17) return integer(21, 80);
    return integer(81, 300);
}
static size_t any_width(void)
{
    const size_t r = integer(1, 10);
    if (little) return integer(1, 5);
    if (r <= 6) return integer(1, 16);
    if (r <= 9) return integer(17, 40);
    return integer(41, 72);
}
static size_t any_divisor(size_t n)
{
    size_t d = integer(1, n);
    while (n % d) d--;
    return d;
}
/* A view (n, tokens, heads, width), or with width 0 (n, tokens, heads): the next features of `row`
   (B, tokens, ·), a projection that several share, or with NULL a part of something wider by one of
   its axes. NaN lies around it. */
static mmix_tensor *view(mmix_tensor *row, size_t *used, size_t n, size_t tokens, size_t heads,
                         size_t width)
{
    const int ndim = width ? 4 : 3, axis = (int)integer(0, (size_t)ndim);
    const size_t from = integer(0, 2), start = used ? *used : 0;
    size_t shape[4];
    mmix_tensor *t;
    shape[0] = n;
    shape[1] = tokens;
    shape[2] = heads;
    shape[3] = width;
    if (row) {
        *used += heads * most(width, 1);
        return mmix_reshape(m, mmix_slice(m, row, 2, start, *used - start), ndim, shape);
    }
    if (axis == ndim) return mmix_new(m, MMIX_DTYPE_REAL, ndim, shape);
    shape[axis] += 2;
    t = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, ndim, shape), (double)NAN);
    return mmix_slice(m, t, axis, from, shape[axis] - 2);
}
/* Numbers in [low, high), none nearer to 0 than `gap`. */
static mmix_tensor *fill(mmix_tensor *t, double low, double high, double gap)
{
    const size_t was = n_held, n = mmix_count(t);
    real *r = reals(n);
    for (size_t i = 0; i < n; i++) {
        const double z = between(low, high);
        if (fabs(z) < gap)
            r[i] = (real)(z < 0 ? z - gap : z + gap);
        else r[i] = (real)z;
    }
    mmix_write(t, r);
    let_go(was);
    return t;
}
static void put(int i, mmix_tensor *t, size_t tokens, size_t heads, size_t width)
{
    in[i].t = t;
    in[i].tokens = tokens;
    in[i].heads = heads;
    in[i].width = width;
    in[i].n = mmix_count(t);
}
/* a number a head, somewhere in a longer array */
static void put_heads(int i, double low, double high)
{
    put(i, mmix_slice(m, mmix_fill(mmix_new1(m, H + 3), (double)NAN), 0, integer(0, 3), H), 1, H,
        1);
    fill(in[i].t, low, high, 0);
}
/* Runs of 1 to some tokens, three numbers that come again and again; a view (B, L) of something
   wider. */
static void any_packing(void)
{
    static const int32_t number[3] = { 7, -3, 0 };
    const size_t longest = pick(integer(1, 4), integer(1, L));
    const size_t from = integer(0, 2);
    size_t s[2], now = 0;
    mmix_tensor *all;
    s[0] = B;
    s[1] = L + 2;
    all = mmix_fill(mmix_new(m, MMIX_DTYPE_I32, 2, s), 99);
    x.seq_idx = mmix_slice(m, all, 1, from, L);
    run = (size_t *)hold(B * L * sizeof *run);
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0, left = integer(1, longest); t < L; t++, left--) {
            run[b * L + t] = t ? run[b * L + t - 1] : 0;
            if (!left) {
                run[b * L + t]++;
                now += integer(1, 2);
                left = integer(1, longest);
            }
            mmix_data_i32(all)[b * s[1] + from + t] = number[now % 3];
        }
}
/* A grid of L = S tokens on 1 to 3 axes; windows of any size and shift, now and then Swin's. */
static void any_windows(void)
{
    const size_t axes = integer(1, 3);
    size_t longest;
    if (axes == 1) longest = 60;
    else if (axes == 2) longest = 14;
    else longest = 7;
    L = 1;
    for (size_t a = 0; a < 3; a++) {
        x.grid[a] = a < axes ? integer(1, longest) : integer(0, 1);
        x.window[a] = a < axes ? integer(1, least(x.grid[a], 9) + 1) : integer(0, 1);
        x.shift[a] = a < axes ? integer(0, x.window[a] - 1) : 0;
        L *= most(x.grid[a], 1);
    }
    if (one_in(4)) {
        size_t grid[3], window[3];
        memcpy(grid, x.grid, sizeof grid);
        memcpy(window, x.window, sizeof window);
        mmix_mixer_windows(&x, (int)axes, grid, window, (int)integer(0, 1));
    }
    S = L;
    x.mask = (int)integer(MMIX_MASK_NONE, MMIX_MASK_CAUSAL);
}
static void any_attention(int kind)
{
    const int soft = kind == MMIX_MIXER_SOFTMAX;
    mmix_tensor *row = NULL, *other = NULL;
    size_t G, used = 2, used_other = 1, *used_kv = &used;
    do {
        memset(&x, 0, sizeof x);
        x.kind = kind;
        B = integer(1, 3);
        G = integer(1, 3);
        H = G * integer(1, 3);
        N = any_width();
        P = any_width();
        L = S = any_length();
        if (soft && one_in(3)) any_windows();
        else {
            x.mask = (int)integer(MMIX_MASK_NONE, soft ? MMIX_MASK_BAND : MMIX_MASK_CAUSAL);
            if (x.mask == MMIX_MASK_NONE && one_in(2)) S = any_length();
            if (x.mask != MMIX_MASK_NONE && soft && one_in(4))
                S = L + integer(0, 60);
            if (soft && !little && one_in(12)) {  /* more than one tile of keys */
                B = G = H = 1;
                N = integer(1, 6);
                P = integer(1, 6);
                S = integer(513, 630);
                L = x.mask == MMIX_MASK_NONE && one_in(2) ? integer(1, 40) : S - integer(0, 3);
            }
        }
    } while (B * H * L * S > 400000 || B * H * L * S * (N + P) > 5000000);
    x.feature = (int)integer(MMIX_FEATURE_SOFTMAX_BOTH, MMIX_FEATURE_NONE);
    if (x.mask && x.feature == MMIX_FEATURE_EFFICIENT) x.feature = MMIX_FEATURE_ELU1;
    x.normalize = (int)integer(0, 2) - 1;
    x.eps = one_in(2) ? 0.01 : 0;
    x.prefix = integer(0, S + 2);
    x.left = one_in(8) ? SIZE_MAX : integer(0, pick(5, S));
    if (one_in(2)) x.right = 0;
    else if (one_in(8)) x.right = SIZE_MAX;
    else x.right = integer(0, pick(5, S));
    if (one_in(3)) x.scale = 0;
    else if (one_in(5)) x.scale = -0.3;
    else x.scale = between(0.1, 1);
    scale = x.scale != 0 ? x.scale : 1 / sqrt((double)N);
    eps = x.eps > 0 ? x.eps : 1e-6;
    if (S == L && !x.window[0] && (soft || x.mask) && one_in(3))
        any_packing();
    if (one_in(2)) {
        row = other = mmix_fill(mmix_new3(m, B, L, 3 + H * N + (S == L ? G * (N + P) : 0)),
                                (double)NAN);
        if (S != L)
            other = mmix_fill(mmix_new3(m, B, S, 2 + G * (N + P)), (double)NAN);
        if (S != L) used_kv = &used_other;
    }
    put(Q, view(row, &used, B, L, H, N), L, H, N);
    put(K, view(other, used_kv, B, S, G, N), S, G, N);
    put(V, view(other, used_kv, B, S, G, P), S, G, P);
    for (int i = Q; i <= K; i++) {
        /* scores to 10⁴ and beyond */
        double top;
        if (!hard) top = 2;
        else if (!soft) top = 50;
        else if (i == Q) top = 300;
        else top = 30;
        /* no sum near 0 */
        if (x.feature == MMIX_FEATURE_NONE && divides())
            fill(in[i].t, 0.1, top, 0);
        else if (soft)
            fill(in[i].t, -top, top, 0);
        else fill(in[i].t, hard ? -top : -1.5, top, 0.01); /* away from relu's corner */
    }
    const double largest_value = hard ? 1000 : 1;
    fill(in[V].t, -largest_value, largest_value, 0);
    SH = G;
    SP = P + (size_t)divides();
    if (has_state() && one_in(2)) {
        put(FIRST, view(NULL, NULL, B, G, SP, N), G, SP, N);
        fill(in[FIRST].t, divides() ? 0 : -1, 1, 0);
    }
    with_last = has_state() && one_in(2);
    if (x.window[0] && one_in(2)) {
        const size_t n = (2 * x.window[0] - 1) * (2 * most(x.window[1], 1) - 1)
                         * (2 * most(x.window[2], 1) - 1);
        put(TABLE,
            mmix_slice(m, mmix_fill(mmix_new2(m, H, n + 2), (double)NAN), 1, integer(0, 2), n), 1,
            H, n);
        fill(in[TABLE].t, -1, 1, 0);
    }
    for (int i = 0; i < INPUTS; i++)
        in[i].wants = in[i].t && ((row && i <= V) || i == V || !one_in(8));
}
/* A (H, N) of the selective scan, or (H); with `hard` from nothing to all at once. */
static void any_decays(size_t width)
{
    if (width) {
        put(A, mmix_slice(m, mmix_fill(mmix_new2(m, H, N + 2), (double)NAN), 1, integer(0, 2), N),
            1, H, N);
        fill(in[A].t, -2, -0.05, 0);
    }
    else put_heads(A, -2, -0.05);
    const size_t step = width ? mmix_stride(in[A].t, 0) : 1;
    for (size_t i = 0; hard && i < in[A].n; i++)
        mmix_data(in[A].t)[i / in[A].width * step + i % in[A].width] =
            (real)-exp(between(log(1e-3), log(1000)));
    if (one_in(16))
        mmix_data(in[A].t)[0] = 0;
}
static void any_scan(int kind)
{
    static const size_t heads[6] = { 1, 2, 3, 4, 6, 8 };
    const int selective = kind == MMIX_MIXER_SELECTIVE;
    mmix_tensor *row = NULL;
    size_t G[3], used = 1;                       /* of C, B, x */
    do {
        B = integer(1, 3);
        H = heads[integer(0, 5)];
        if (selective && !little && one_in(2)) H = pick(integer(1, 40), integer(100, 300));
        N = any_width();
        P = selective ? 1 : any_width();
        L = S = any_length();
    } while (B * H * L * N * P > 2000000 || B * H * L * L * N > 8000000);
    memset(&x, 0, sizeof x);
    x.kind = kind;
    x.direction = (int)integer(MMIX_SCAN_FORWARD, MMIX_SCAN_BOTH);
    x.dt_softplus = (int)integer(0, 1);
    if (one_in(3)) {
        x.dt_low = 0.125;
        x.dt_high = 0.5;
    }
    if (one_in(3)) any_packing();
    for (int i = 0; i < 3; i++)
        G[i] = any_divisor(H);
    if (selective) {
        G[1] = G[0];
        G[2] = H;
    }
    if (one_in(2))
        row = mmix_fill(mmix_new3(m, B, L, 3 + (G[0] + G[1]) * N + G[2] * P + 2 * H), (double)NAN);
    put(V, view(row, &used, B, L, G[2], P), L, G[2], P);
    put(K, view(row, &used, B, L, G[1], N), L, G[1], N);
    put(Q, view(row, &used, B, L, G[0], N), L, G[0], N);
    put(DT, view(row, &used, B, L, H, 0), L, H, 1);
    if (selective && one_in(2)) {
        put(GATE, view(row, &used, B, L, H, 1), L, H, 1);
        fill(in[GATE].t, -3, 3, 0);
    }
    for (int i = Q; i <= V; i++)
        fill(in[i].t, -1, 1, 0);
    if (x.dt_softplus && hard)
        fill(in[DT].t, -30, 100, 0);
    else if (x.dt_softplus)
        fill(in[DT].t, -3, 1, 0);
    else fill(in[DT].t, 0, hard ? 100 : 0.6, 0);
    any_decays(selective ? N : 0);
    if (one_in(2)) put_heads(BIAS, 0, 0.3);
    if (one_in(3)) put_heads(D, -1, 1);
    else if (!selective && one_in(2)) {          /* a number a channel */
        put(D, mmix_slice(m, mmix_fill(mmix_new2(m, H, P + 2), (double)NAN), 1, integer(0, 2), P),
            1, H, P);
        fill(in[D].t, -1, 1, 0);
    }
    SH = H;
    SP = P;
    if (has_state() && one_in(2)) {
        put(FIRST, view(NULL, NULL, B, H, P, N), H, P, N);
        fill(in[FIRST].t, -1, 1, 0);
    }
    with_last = has_state() && one_in(2);
    for (int i = 0; i < INPUTS; i++)
        in[i].wants = in[i].t && ((row && i <= GATE) || i == V || !one_in(8));
    /* away from the corners of the clamp */
    for (size_t z = 0; x.dt_high > 0 && z < B * L * H; z++) {
        const mmix_tensor *t = in[DT].t;
        real *dt = mmix_data(t) + z / (L * H) * mmix_stride(t, 0) + z / H % L * mmix_stride(t, 1)
                   + z % H * mmix_stride(t, 2);
        const double u = (double)*dt + (in[BIAS].t ? (double)mmix_data(in[BIAS].t)[z % H] : 0);
        const double d = x.dt_softplus ? log1p(exp(u)) : u;
        if (fabs(d - x.dt_low) < 2e-3 || fabs(d - x.dt_high) < 2e-3)
            *dt += (real)0.02;
    }
}
/* printf to the end of `about` */
static void tell(const char *format, ...)
{
    const size_t n = strlen(about);
    va_list args;
    va_start(args, format);
    vsnprintf(about + n, sizeof about - n, format, args);
    va_end(args);
}
static void any_mixer(int kind)
{
    static const char *const names[4] = { "softmax", "linear", "ssd", "selective" };
    const int scans = kind >= MMIX_MIXER_SSD;
    memset(in, 0, sizeof in);
    run = NULL;
    hard = !little && one_in(8);
    with_last = only_last = 0;
    if (scans) any_scan(kind);
    else any_attention(kind);
    only_last = with_last && one_in(8);
    x.q = in[Q].t;
    x.k = in[K].t;
    x.v = in[V].t;
    x.bias = in[TABLE].t;
    x.dt = in[DT].t;
    x.z = in[GATE].t;
    x.A = in[A].t;
    x.D = in[D].t;
    x.dt_bias = in[BIAS].t;
    x.initial_state = in[FIRST].t;
    const double of_y = only_last ? 0 : 1;
    up = fill(mmix_new4(m, B, L, H, P), -of_y, of_y, 0);
    up_last = fill(mmix_new4(m, B, SH, SP, N), -1, 1, 0);
    about[0] = 0;
    tell("%s B %zu L %zu S %zu H %zu N %zu P %zu heads %zu %zu %zu%s, %s, %d threads; ",
         names[kind], B, L, S, H, N, P, in[Q].heads, in[K].heads, in[V].heads, hard ? " hard" : "",
         mmix_simd_name(m), mmix_threads(m));
    if (scans)
        tell("direction %d softplus %d bias %d D %zu limits %d gate %d", x.direction,
             x.dt_softplus, x.dt_bias != NULL, in[D].n, x.dt_high > 0, x.z != NULL);
    else
        tell("mask %d prefix %zu left %zu right %zu scale %g bias %zu feature %d normalize %d eps "
             "%g",
             x.mask, x.prefix, x.left, x.right, x.scale, in[TABLE].n, x.feature, x.normalize,
             x.eps);
    if (has_state())
        tell(" initial %d final %d only %d", x.initial_state != NULL, with_last, only_last);
    for (int a = 0; x.window[0] && a < 3; a++)
        tell(" axis %zu/%zu+%zu", x.grid[a], x.window[a], x.shift[a]);
    tell("%s; gradients of", x.seq_idx ? " packed" : "");
    for (int i = 0; i < INPUTS; i++)
        if (in[i].wants) {
            mmix_require_grad(in[i].t);
            tell(" %s", input_name[i]);
        }
    fine("making a draw");
}

/* ---- mmix_mix, its gradients, its matrix ---- */

static const size_t chunks[7] = { 0, 1, 2, 3, 7, 64, 1000 };

/* mmix_mix recorded, and the way back: y, the final state and all gradients. */
static void check_mix(const mmix_mixer *mixer, int f)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmix_mixer z = *mixer;
    mmix_tensor *end = NULL, *out[2], *g[2];
    if (with_last) z.final_state = &end;
    mmix_record(m, 1);
    out[0] = mmix_mix(m, &z);
    out[1] = end;
    g[0] = up;
    g[1] = up_last;
    compare_tensor(f, "y", out[0], exact.y, size.y, grow);
    if (with_last)
        compare_tensor(f, "final state", end, exact.last, size.last, grow);
    mmix_backward_from(m, out + only_last, g + only_last, (size_t)(1 + with_last - only_last));
    mmix_record(m, 0);
    for (int i = 0; i < INPUTS; i++)
        if (in[i].wants)
            compare_tensor(GRADIENT, input_name[i], mmix_grad(in[i].t), exact.g[i], size.g[i],
                           grow);
    fine(face[f].name);
    mmix_rewind(m, mark);
}
static void check_faces(void)
{
    const int ssd = x.kind == MMIX_MIXER_SSD;
    mmix_mixer z = x;
    mmix_tensor *y, *M, *end = NULL;
    check_mix(&x, MIX);
    z.chunk = chunks[integer(1, 6)];
    if (is_scan() || (x.kind == MMIX_MIXER_LINEAR && x.mask))
        check_mix(&z, CHUNK);
    z = x;
    if (has_state()) z.final_state = &end;
    /* not recorded, other paths: no tape, a step where L = 1 */
    y = mmix_mix(m, &z);
    compare_tensor(MIX, "y, not recorded", y, exact.y, size.y, grow);
    if (end)
        compare_tensor(MIX, "final state, not recorded", end, exact.last, size.last, grow);
    if (ssd && has_state()) {
        compare_tensor(LOOP, "y", mmix_ssd_reference(m, &z), exact.y, size.y, grow);
        compare_tensor(LOOP, "final state", end, exact.last, size.last, grow);
    }
    else if (ssd) rejected(!mmix_ssd_reference(m, &z), "mmix_ssd_reference of both directions");
    M = mmix_mix_matrix(m, &x);
    if (!has_matrix()) rejected(!M, "mmix_mix_matrix where y is not M x");
    else {
        const double *w = read_doubles(M);
        double *sum = doubles(B * L * H * P);
        compare_tensor(MATRIX, "M", M, exact.M, size.M, grow);
        for (size_t r = 0; M && r < B * H * L; r++)
            for (size_t j = 0; j < S; j++)
                for (size_t p = 0, b = r / L / H, h = r / L % H, i = r % L; p < P; p++)
                    sum[((b * L + i) * H + h) * P + p] += w[r * S + j]
                                                          * exact.x[V][at(V, b, j, h) + p];
        for (size_t z = 0; in[GATE].t && z < B * L * H * P; z++)
            sum[z] *= gate_of(z);
        compare_tensor(PRODUCT, "y", y, sum, size.y, grow);
    }
    fine("faces");
}

/* ---- parts of a draw ---- */

/* Tokens from … from + n - 1, of all sequences or of b alone */
static mmix_tensor *cut(mmix_tensor *t, size_t b, size_t from, size_t n)
{
    if (t && b < B)
        t = mmix_slice(m, t, 0, b, 1);
    return t ? mmix_slice(m, t, 1, from, n) : NULL;
}
/* The mixer of them, without state and packing. */
static mmix_mixer part(size_t b, size_t from, size_t n)
{
    mmix_mixer z = x;
    z.q = cut(x.q, b, from, n);
    z.k = cut(x.k, b, from, n);
    z.v = cut(x.v, b, from, n);
    z.dt = cut(x.dt, b, from, n);
    z.z = cut(x.z, b, from, n);
    z.seq_idx = NULL;
    z.initial_state = NULL;
    return z;
}

/* ---- steps ---- */

/* y of some tokens into its place of all (B, L, row). */
static void place(double *all, const mmix_tensor *y, size_t from, size_t row)
{
    const size_t was = n_held, n = mmix_shape(y, 1);
    const double *d = read_doubles(y);
    for (size_t b = 0; y && b < B; b++)
        memcpy(all + (b * L + from) * row, d + b * n * row, n * row * sizeof *d);
    let_go(was);
}
/* What a slot of softmax attention with a band may hold: twice `left` tokens, but at least those
   before a piece and the piece. */
static size_t most_bytes(size_t longest)
{
    return B * in[K].heads * (N + P) * sizeof(real) * most(2 * x.left, x.left + longest);
}
static int has_steps(void)
{
    if (is_scan()) return x.direction == MMIX_SCAN_FORWARD && !x.seq_idx;
    return x.mask != MMIX_MASK_NONE && S == L && !x.window[0] && !x.seq_idx
        && !(x.mask == MMIX_MASK_BAND && x.right) && !(x.mask == MMIX_MASK_PREFIX && x.prefix > L);
}
/* A step that the slot cannot take, after `from` tokens: it leaves the state as it was. */
static void bad_step(mmix_mix_state *s, size_t from, size_t n)
{
    const int of_v = one_in(2);
    mmix_mixer z = part(B, from, n);
    if (of_v)
        z.v = mmix_fill(mmix_new4(m, B, n, in[V].heads, P + 1), 0.5);
    else {
        z.q = mmix_fill(mmix_new4(m, B, n, in[Q].heads, N + 1), 0.5);
        z.k = mmix_fill(mmix_new4(m, B, n, in[K].heads, N + 1), 0.5);
    }
    rejected(!mmix_mix_step(m, &z, s, 0), "a step of another width");
    equal("mmix_mix_state_tokens", "after an error", mmix_mix_state_tokens(s, 0), from);
}
/* Pieces of any length in slot 0, one token after another in slot 1, nothing in slot 2; a copy of
   the state goes on by itself and has the same bits. */
static void check_steps(void)
{
    const size_t first = x.mask == MMIX_MASK_PREFIX ? most(x.prefix, 1) : 1;
    const size_t fork = integer(0, L - 1);
    const size_t all = B * L * H * P;
    size_t *lengths = (size_t *)hold(L * sizeof *lengths);
    size_t pieces = 0, copied = 0, longest = 0, empty;
    double *got = doubles(all);
    double *singly = doubles(all);
    double *again = doubles(all);
    mmix_mix_state *s = mmix_mix_state_create(m, 3), *copy = NULL;
    mmix_tensor *end = NULL;
    mmix_mixer z;
    if (!has_steps()) {
        rejected(!mmix_mix_step(m, &x, s, 0), "a mixer without steps");
        equal("mmix_mix_state_tokens", "after an error", mmix_mix_state_tokens(s, 0), 0);
        mmix_mix_state_destroy(s);
        return;
    }
    empty = mmix_mix_state_bytes(s);
    for (size_t from = 0, n; from < L; from += n) {
        const mmix_mark mark = mmix_mark_here(m);
        n = least(L - from, most(from ? 1 : first,
                                 one_in(2) ? integer(1, 3) : pick(integer(1, 20), integer(1, L))));
        longest = most(longest, n);
        if (!copy && (from >= fork || from + n == L)) {
            copy = mmix_mix_state_copy(s);
            copied = from;
            pieces = 0;
        }
        lengths[pieces++] = n;
        if (from && one_in(4)) bad_step(s, from, n);
        z = part(B, from, n);
        if (has_state()) z.final_state = &end;
        if (!from) z.initial_state = x.initial_state;
        place(got, mmix_mix_step(m, &z, s, 0), from, H * P);
        if (from + n == L && has_state())
            compare_tensor(STEP, "final state", end, exact.last, size.last, grow);
        for (size_t t = from, k; t < from + n; t += k) {
            k = t ? 1 : first;
            z = part(B, t, k);
            if (!t) z.initial_state = x.initial_state;
            place(singly, mmix_mix_step(m, &z, s, 1), t, H * P);
        }
        for (size_t slot = 0; slot < 3; slot++)
            equal("mmix_mix_state_tokens", "after a piece", mmix_mix_state_tokens(s, slot),
                  slot < 2 ? from + n : 0);
        if (x.kind == MMIX_MIXER_SOFTMAX && x.mask == MMIX_MASK_BAND && x.left < L)
            check(mmix_mix_state_bytes(s) <= empty + 2 * most_bytes(longest),
                  "mmix_mix_state_bytes", "of a band", (double)mmix_mix_state_bytes(s),
                  (double)(empty + 2 * most_bytes(longest)));
        mmix_rewind(m, mark);
    }
    compare(STEP, "pieces", got, exact.y, size.y, grow, all);
    compare(STEP, "one by one", singly, exact.y, size.y, grow, all);
    memcpy(again, got, all * sizeof *again);
    for (size_t i = 0, from = copied; i < pieces; from += lengths[i++]) {
        z = part(B, from, lengths[i]);
        if (!from) z.initial_state = x.initial_state;
        for (size_t k = 0; k < B; k++)
            memset(again + (k * L + from) * H * P, 0, lengths[i] * H * P * sizeof *again);
        place(again, mmix_mix_step(m, &z, copy, 0), from, H * P);
    }
    check(!memcmp(again, got, all * sizeof *again), "mmix_mix_state_copy",
          "the bits of the original", 0, 1);
    equal("mmix_mix_state_copy", "tokens", mmix_mix_state_tokens(copy, 0), L);
    mmix_mix_state_clear(copy);
    equal("mmix_mix_state_clear", "tokens", mmix_mix_state_tokens(copy, 0), 0);
    equal("mmix_mix_state_clear", "bytes", mmix_mix_state_bytes(copy), empty);
    compare_tensor(STEP, "whole, after mmix_mix_state_clear", mmix_mix_step(m, &x, copy, 0),
                   exact.y, size.y, grow);
    mmix_mix_state_destroy(copy);
    mmix_mix_state_destroy(s);
    fine("steps");
}
/* Many single tokens: the band's memory stays. */
static void check_long_run(void)
{
    const size_t tokens = 500;
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    size_t empty = mmix_mix_state_bytes(s), reached = 0;
    memset(&x, 0, sizeof x);
    memset(in, 0, sizeof in);
    B = integer(1, 2);
    H = integer(1, 3);
    N = integer(1, 9);
    P = integer(1, 9);
    x.kind = MMIX_MIXER_SOFTMAX;
    x.mask = MMIX_MASK_BAND;
    x.left = integer(0, 20);
    x.q = fill(mmix_new4(m, B, tokens, H, N), -1, 1, 0);
    put(K, x.k = fill(mmix_new4(m, B, tokens, 1, N), -1, 1, 0), tokens, 1, N);
    put(V, x.v = fill(mmix_new4(m, B, tokens, 1, P), -1, 1, 0), tokens, 1, P);
    about[0] = 0;
    tell("long run, B %zu H %zu N %zu P %zu left %zu", B, H, N, P, x.left);
    for (size_t t = 0; t < tokens; t++) {
        const mmix_mark mark = mmix_mark_here(m);
        const mmix_mixer z = part(B, t, 1);
        mmix_mix_step(m, &z, s, 0);
        reached = most(reached, mmix_mix_state_bytes(s));
        mmix_rewind(m, mark);
    }
    fine("long run");
    check(reached <= empty + most_bytes(1), "mmix_mix_state_bytes", "of a long run",
          (double)reached, (double)(empty + most_bytes(1)));
    equal("mmix_mix_state_tokens", "of a long run", mmix_mix_state_tokens(s, 0), tokens);
    mmix_mix_state_destroy(s);
}

/* ---- packed sequences ---- */

/* Results of a recorded mixer of one sequence: y, the final state, gradients of q, k, v, dt, z and
   the initial state. */
typedef struct result { real *y, *last, *g[INPUTS]; } result;
static result run_one(mmix_mixer z, mmix_tensor *dy, mmix_tensor *dlast)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *out[2], *g[2], *end = NULL, *from[INPUTS] = { NULL };
    result r;
    memset(&r, 0, sizeof r);
    from[Q] = z.q;
    from[K] = z.k;
    from[V] = z.v;
    from[DT] = z.dt;
    from[GATE] = z.z;
    from[FIRST] = z.initial_state;
    if (dlast) z.final_state = &end;
    mmix_record(m, 1);
    out[0] = mmix_mix(m, &z);
    out[1] = end;
    r.y = read_reals(out[0]);
    if (dlast) r.last = read_reals(end);
    g[0] = dy;
    g[1] = dlast;
    mmix_backward_from(m, out, g, dlast ? 2 : 1);
    mmix_record(m, 0);
    for (int i = 0; i < INPUTS; i++)
        if (from[i] && in[i].wants)
            r.g[i] = read_reals(mmix_grad(from[i]));
    mmix_rewind(m, mark);
    return r;
}
static void same_bits(const char *what, const real *got, const real *want, size_t n)
{
    size_t i = 0;                                /* a zero may have either sign */
    while (i < n && (!memcmp(got + i, want + i, sizeof *got) || (got[i] == 0 && want[i] == 0)))
        i++;
    if (i < n)
        check(0, "packed, bits of", what, (double)got[i], (double)want[i]);
    else check(1, "packed, bits of", what, 0, 0);
}
/* Each sequence by itself against the packed row it lies in: bit for bit with scans and causal
   linear attention. Softmax attention cuts its tiles elsewhere; there against what is expected. A
   prefix is one of the whole row. */
static void check_packed(void)
{
    const int back = is_scan() && x.direction == MMIX_SCAN_REVERSE;
    const int soft = x.kind == MMIX_MIXER_SOFTMAX;
    if (!x.seq_idx || (soft && x.mask == MMIX_MASK_PREFIX)) return;
    for (size_t b = 0; b < B; b++) {
        const mmix_mark mark = mmix_mark_here(m);
        const size_t was = n_held, row = H * P;
        mmix_tensor *last = with_last ? mmix_slice(m, up_last, 0, b, 1) : NULL;
        mmix_tensor *first = x.initial_state ? mmix_slice(m, x.initial_state, 0, b, 1) : NULL;
        mmix_mixer z = part(b, 0, L);
        result all, one;
        memset(&all, 0, sizeof all);
        z.seq_idx = mmix_slice(m, x.seq_idx, 0, b, 1);
        z.initial_state = first;
        if (!soft)
            all = run_one(z, cut(up, b, 0, L), last);
        for (size_t from = 0, n; from < L; from += n) {
            const size_t inner = n_held;
            for (n = 1; from + n < L && run[b * L + from + n] == run[b * L + from];)
                n++;
            z = part(b, from, n);
            if (back ? from + n == L : from == 0) z.initial_state = first;
            const int ends = back ? from == 0 : from + n == L;
            one = run_one(z, cut(up, b, from, n), ends ? last : NULL);
            if (soft) {
                const size_t begin = (b * L + from) * row;
                compare_reals(PACKED, "y", one.y, exact.y + begin, size.y + begin, grow, n * row);
            }
            else {
                same_bits("y", one.y, all.y + from * row, n * row);
                same_bits("y, not recorded", read_reals(mmix_mix(m, &z)), all.y + from * row,
                          n * row);
            }
            for (int i = 0; i <= GATE; i++) {
                const size_t wide = in[i].heads * in[i].width;
                const size_t begin = (b * L + from) * wide;
                const real *g = one.g[i];
                if (g && soft)
                    compare_reals(PACKED, input_name[i], g, exact.g[i] + begin, size.g[i] + begin,
                                  grow, n * wide);
                else if (g)
                    same_bits(input_name[i], g, all.g[i] + from * wide, n * wide);
            }
            if (one.last)
                same_bits("final state", one.last, all.last, SH * SP * N);
            if (one.g[FIRST])
                same_bits("gradient of the initial state", one.g[FIRST], all.g[FIRST], SH * SP * N);
            let_go(inner);
        }
        fine("packed");
        let_go(was);
        mmix_rewind(m, mark);
    }
}

/* ---- directions ---- */

static mmix_tensor *flipped(mmix_tensor *t)      /* along axis 1, a copy */
{
    const size_t was = n_held, n = mmix_shape(t, 1), row = mmix_count(t) / n / B;
    const size_t heads = mmix_shape(t, 2);
    mmix_tensor *y = mmix_ndim(t) == 3 ? mmix_new3(m, B, n, heads)
                                       : mmix_new4(m, B, n, heads, row / heads);
    const real *from = read_reals(t);
    for (size_t r = 0; r < B * n; r++)
        memcpy(mmix_data(y) + (r / n * n + n - 1 - r % n) * row, from + r * row,
               row * sizeof *from);
    let_go(was);
    return y;
}
/* Reverse is forward of the flipped sequence, flipped back, to the bit; both is half of each. */
static void check_directions(void)
{
    const size_t n = B * L * H * P;
    mmix_tensor *y, *end = NULL, *end_flipped = NULL;
    mmix_mixer z = x;
    if (!is_scan() || x.direction == MMIX_SCAN_FORWARD) return;
    if (x.direction == MMIX_SCAN_BOTH) {
        double *half = doubles(n);
        for (z.direction = MMIX_SCAN_FORWARD; z.direction <= MMIX_SCAN_REVERSE; z.direction++) {
            const double *d = read_doubles(mmix_mix(m, &z));
            for (size_t i = 0; i < n; i++)
                half[i] += d[i] / 2;
        }
        compare_tensor(WAYS, "both", mmix_mix(m, &x), half, size.y, grow);
        return;
    }
    z.final_state = &end;
    y = mmix_mix(m, &z);
    z.final_state = &end_flipped;
    z.direction = MMIX_SCAN_FORWARD;
    z.q = flipped(x.q);
    z.k = flipped(x.k);
    z.v = flipped(x.v);
    z.dt = flipped(x.dt);
    if (x.z) z.z = flipped(x.z);
    if (x.seq_idx) {
        size_t s[2];
        s[0] = B;
        s[1] = L;
        z.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, s);
        for (size_t i = 0; i < B * L; i++)
            mmix_data_i32(z.seq_idx)[i] = (int32_t)run[i / L * L + L - 1 - i % L];
    }
    check(!memcmp(read_reals(y), read_reals(flipped(mmix_mix(m, &z))), n * sizeof(real)),
          face[WAYS].name, "reverse is forward of the flipped, flipped", 0, 1);
    check(!memcmp(read_reals(end), read_reals(end_flipped), B * H * P * N * sizeof(real)),
          face[WAYS].name, "the same of the final state", 0, 1);
    fine("directions");
}

/* ---- the raw functions ---- */

enum { GUARD = 24 };
static const real MARK = (real)-12345.5;
static int is_mark(const real *p) { return !memcmp(p, &MARK, sizeof MARK); }
/* n reals of NaN with a guard behind them. */
static real *guarded(size_t n)
{
    real *p = reals(n + GUARD);
    for (size_t i = 0; i < n + GUARD; i++)
        p[i] = i < n ? (real)NAN : MARK;
    return p;
}
static void unharmed(const char *what, const real *p, size_t n)
{
    size_t i = 0;
    while (i < GUARD && is_mark(p + n + i)) i++;
    equal(what, "keeps what is behind its end", i, GUARD);
}
/* mmix_raw_backward, which leaves alone what the forward kept (n), so that it can be called
   again. */
static void raw_backward(const mmix_raw *r, size_t n)
{
    size_t room, same = 0;
    real *scratch = guarded(room = mmix_raw_scratch_size(r, 1));
    real *before = n ? reals(n) : NULL;
    if (n) memcpy(before, r->kept, n * sizeof *before);
    mmix_raw_backward(r, scratch);
    unharmed("scratch of mmix_raw_backward", scratch, room);
    while (same < n && !memcmp(before + same, r->kept + same, sizeof *before))
        same++;
    equal("what mmix_raw_forward kept", "is the same after the backward", same, n);
}
/* A tensor (B, tokens, heads, width) or (B, L, H) as a raw array. */
static mmix_head_view heads_of(int i)
{
    mmix_head_view v;
    v.p = mmix_data(in[i].t);
    v.batch = (ptrdiff_t)mmix_stride(in[i].t, 0);
    v.token = (ptrdiff_t)mmix_stride(in[i].t, 1);
    v.head = (ptrdiff_t)mmix_stride(in[i].t, 2);
    v.share = H / in[i].heads;
    return v;
}
/* Room for (B, tokens, heads, width) with gaps between all rows, full of MARK. */
typedef struct room { mmix_head_view v; real *p; size_t tokens, heads, width, n; } room;
static room any_room(size_t tokens, size_t heads, size_t width)
{
    room r;
    r.v.head = (ptrdiff_t)(width + integer(0, 3));
    r.v.token = r.v.head * (ptrdiff_t)heads + (ptrdiff_t)integer(0, 5);
    r.v.batch = r.v.token * (ptrdiff_t)tokens + (ptrdiff_t)integer(0, 9);
    r.v.share = H / heads;
    r.n = B * (size_t)r.v.batch + 3;
    r.p = reals(r.n);
    for (size_t i = 0; i < r.n; i++)
        r.p[i] = MARK;
    r.v.p = r.p + 2;
    r.tokens = tokens;
    r.heads = heads;
    r.width = width;
    return r;
}
static room room_like(int i) { return any_room(in[i].tokens, in[i].heads, in[i].width); }
static real *row_of(const room *r, size_t i)     /* of its B · tokens · heads rows */
{
    const size_t t = i / r->heads;
    return r->v.p + (ptrdiff_t)(t / r->tokens) * r->v.batch
           + (ptrdiff_t)(t % r->tokens) * r->v.token + (ptrdiff_t)(i % r->heads) * r->v.head;
}
static void room_fill(const room *r, double value)
{
    const size_t n = B * r->tokens * r->heads * r->width;
    for (size_t i = 0; i < n; i++)
        row_of(r, i / r->width)[i % r->width] = (real)value;
}
/* t's rows, which may be shorter */
static void room_put(const room *r, const mmix_tensor *t)
{
    const size_t wide = mmix_shape(t, 3);
    const real *from = read_reals(t);
    for (size_t i = 0; i < B * r->tokens * r->heads; i++)
        memcpy(row_of(r, i), from + i * wide, wide * sizeof *from);
}
/* What is in the room against what is expected, and nothing is written beside it. The room is
   full of MARK again. */
static void room_check(int f, const char *what, const room *r, const double *want,
                       const double *size_of)
{
    const size_t n = B * r->tokens * r->heads * r->width;
    double *got = doubles(n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        real *from = row_of(r, i / r->width) + i % r->width;
        got[i] = (double)*from;
        *from = MARK;
    }
    for (size_t i = 0; i < r->n; i++)
        kept += (size_t)is_mark(r->p + i);
    equal(face[f].name, "keeps what is beside an output", kept, r->n);
    compare(f, what, got, want, size_of, grow, n);
}
/* Rooms of y and dy, and of dq, dk, dv with NaN or, to add to, 0.5 in them; some gradients are
   left out. */
typedef struct attention_rooms { room y, dy, d[3]; int add[3], left_out[3]; } attention_rooms;
static void attention_begin(attention_rooms *r, mmix_head_view *y, mmix_head_view *dy,
                            mmix_head_view *dq, mmix_head_view *dk, mmix_head_view *dv)
{
    mmix_head_view *d[3];
    d[Q] = dq;
    d[K] = dk;
    d[V] = dv;
    r->y = any_room(L, H, P);
    r->dy = any_room(L, H, P);
    room_fill(&r->y, (double)NAN);
    room_put(&r->dy, up);
    *y = r->y.v;
    *dy = r->dy.v;
    for (int i = Q; i <= V; i++) {
        r->d[i] = room_like(i);
        r->add[i] = one_in(3);
        r->left_out[i] = one_in(6);
        room_fill(&r->d[i], r->add[i] ? 0.5 : (double)NAN);
        *d[i] = r->d[i].v;
        if (r->left_out[i]) d[i]->p = NULL;
    }
}
/* A gradient of the raw functions; where it was added to a half, it is half a one more. */
static void raw_gradient_check(const attention_rooms *r, int i)
{
    const double before = r->add[i] ? 0.5 : 0;
    room_check(RAW_GRADIENT, input_name[i], &r->d[i], plus(exact.g[i], before, in[i].n),
               plus(size.g[i], before, in[i].n));
}
static void attention_end(const attention_rooms *r)
{
    room_check(RAW, "y", &r->y, exact.y, size.y);
    for (int i = Q; i <= V; i++)
        if (!r->left_out[i]) raw_gradient_check(r, i);
}
/* A gradient that is an array of its own, or NULL now and then; 0.5 was there if it was added
   to. */
static real *maybe(const mmix_tensor *t) { return t && !one_in(6) ? guarded(mmix_count(t)) : NULL; }
static void maybe_check(int i, const real *got, int added)
{
    const size_t n = in[i].n;
    const double more = added ? 0.5 : 0;
    if (!got) return;
    compare_reals(RAW_GRADIENT, input_name[i], got, plus(exact.g[i], more, n),
                  plus(size.g[i], more, n), grow, n);
    unharmed(input_name[i], got, n);
}
static void check_raw_softmax(void)
{
    attention_rooms rooms;
    mmix_raw r;
    real *scratch;
    double *sum = doubles(B * H * L);
    size_t n, kept;
    memset(&r, 0, sizeof r);
    r.B = B;
    r.L = L;
    r.S = S;
    r.H = H;
    r.N = N;
    r.P = P;
    r.q = heads_of(Q);
    r.k = heads_of(K);
    r.v = heads_of(V);
    r.o = x;
    r.seq_idx = mmix_data_i32(x.seq_idx);
    r.seq_batch = (ptrdiff_t)mmix_stride(x.seq_idx, 0);
    attention_begin(&rooms, &r.y, &r.dy, &r.dq, &r.dk, &r.dv);
    for (int i = Q; i <= V; i++)
        r.add[i] = rooms.add[i];
    if (x.bias) r.bias = read_reals(x.bias);
    scratch = guarded(n = mmix_raw_scratch_size(&r, 0));
    if (one_in(4)) {                             /* without what only the backward reads */
        mmix_raw_forward(&r, scratch);
        room_check(RAW, "y alone", &rooms.y, exact.y, size.y);
    }
    r.row_max = guarded(B * H * L);
    r.inverse_sum = guarded(B * H * L);
    kept = one_in(2) ? mmix_raw_kept_size(&r) : 0;
    if (kept) r.kept = guarded(kept);
    mmix_raw_forward(&r, scratch);
    unharmed("scratch of mmix_raw_forward", scratch, n);
    if (kept) unharmed("kept", r.kept, kept);
    unharmed("row_max", r.row_max, B * H * L);
    unharmed("inverse_sum", r.inverse_sum, B * H * L);
    for (size_t i = 0; i < B * H * L; i++)
        sum[i] = (double)r.row_max[i] - log((double)r.inverse_sum[i]);
    compare(RAW, "ln of the sum of e^score", sum, lse, plus(NULL, 1, B * H * L), grow, B * H * L);
    r.grad[MMIX_IN_BIAS] = maybe(x.bias);
    r.add[MMIX_IN_BIAS] = r.grad[MMIX_IN_BIAS] && one_in(3);
    for (size_t i = 0; r.add[MMIX_IN_BIAS] && i < in[TABLE].n; i++)
        r.grad[MMIX_IN_BIAS][i] = (real)0.5;
    raw_backward(&r, kept);
    maybe_check(TABLE, r.grad[MMIX_IN_BIAS], r.add[MMIX_IN_BIAS]);
    attention_end(&rooms);
}
static void check_raw_linear(void)
{
    attention_rooms rooms;
    mmix_raw r;
    real *scratch, *state = guarded(states());
    size_t n, kept;
    const int causal = x.mask == MMIX_MASK_CAUSAL;
    memset(&r, 0, sizeof r);
    r.B = B;
    r.L = L;
    r.S = S;
    r.H = H;
    r.N = N;
    r.P = P;
    r.q = heads_of(Q);
    r.k = heads_of(K);
    r.v = heads_of(V);
    r.o = x;
    r.o.chunk = chunks[integer(0, 6)];
    r.seq_idx = mmix_data_i32(x.seq_idx);
    r.seq_batch = (ptrdiff_t)mmix_stride(x.seq_idx, 0);
    r.inverse_sum = guarded(B * H * L);
    if (x.initial_state) r.initial_state = read_reals(x.initial_state);
    if (causal && (with_last || one_in(2)))
        r.final_state = guarded(states());
    if (with_last) r.dfinal = mmix_data(up_last);
    r.grad[MMIX_IN_STATE] = maybe(x.initial_state);
    r.add[MMIX_IN_STATE] = r.grad[MMIX_IN_STATE] && one_in(3);
    for (size_t i = 0; r.add[MMIX_IN_STATE] && i < in[FIRST].n; i++)
        r.grad[MMIX_IN_STATE][i] = (real)0.5;
    attention_begin(&rooms, &r.y, &r.dy, &r.dq, &r.dk, &r.dv);
    for (int i = Q; i <= V; i++)
        r.add[i] = rooms.add[i];
    scratch = guarded(n = mmix_raw_scratch_size(&r, 0));
    kept = mmix_raw_kept_size(&r);
    r.kept = guarded(kept);
    mmix_raw_forward(&r, scratch);
    unharmed("scratch of mmix_raw_forward", scratch, n);
    unharmed("what mmix_raw_forward kept", r.kept, kept);
    if (r.final_state) {
        unharmed("final_state", r.final_state, states());
        compare_reals(RAW, "final state", r.final_state, exact.last, size.last, grow, states());
    }
    raw_backward(&r, kept);
    unharmed("inverse_sum", r.inverse_sum, B * H * L);
    maybe_check(FIRST, r.grad[MMIX_IN_STATE], r.add[MMIX_IN_STATE]);
    attention_end(&rooms);
    if (!causal || x.seq_idx) return;
    /* single tokens, the state in place */
    if (x.initial_state) mmix_read(x.initial_state, state);
    r.initial_state = x.initial_state ? state : NULL;
    r.final_state = state;
    r.L = r.S = 1;
    r.inverse_sum = r.kept = NULL;
    scratch = guarded(n = mmix_raw_scratch_size(&r, 0));
    for (size_t i = 0; i < L; i++, r.initial_state = state) {
        mmix_raw_forward(&r, scratch);
        r.q.p += r.q.token;
        r.k.p += r.k.token;
        r.v.p += r.v.token;
        r.y.p += r.y.token;
    }
    unharmed("scratch of a step", scratch, n);
    unharmed("state of steps", state, states());
    room_check(RAW, "y of steps", &rooms.y, exact.y, size.y);
    compare_reals(RAW, "state of steps", state, exact.last, size.last, grow, states());
}
/* Rooms of the gradients of q, k, v, dt and z: some are left out, and some added to 0.5. */
static void scan_gradients_begin(room *d, mmix_raw *r)
{
    static const int place[GATE + 1] = { MMIX_IN_Q, MMIX_IN_K, MMIX_IN_V, MMIX_IN_DT, MMIX_IN_Z };
    mmix_head_view *view[GATE + 1] = { NULL };
    view[Q] = &r->dq;
    view[K] = &r->dk;
    view[V] = &r->dv;
    view[DT] = &r->ddt;
    view[GATE] = &r->dz;
    for (int i = Q; i <= GATE; i++) {
        if (!in[i].t || one_in(6)) continue;
        d[i] = room_like(i);
        r->add[place[i]] = one_in(3);
        room_fill(&d[i], r->add[place[i]] ? 0.5 : (double)NAN);
        *view[i] = d[i].v;
    }
}
static void scan_gradients_end(const room *d, const mmix_raw *r)
{
    static const int place[GATE + 1] = { MMIX_IN_Q, MMIX_IN_K, MMIX_IN_V, MMIX_IN_DT, MMIX_IN_Z };
    for (int i = Q; i <= GATE; i++) {
        const double before = r->add[place[i]] ? 0.5 : 0;
        if (d[i].p)
            room_check(RAW_GRADIENT, input_name[i], &d[i], plus(exact.g[i], before, in[i].n),
                       plus(size.g[i], before, in[i].n));
    }
}
static void check_raw_scan(void)
{
    const size_t PN = B * H * P * N;
    const room y = any_room(L, H, P);
    const room dy = any_room(L, H, P);
    room gradient[GATE + 1];
    real *scratch, *state = guarded(PN);
    mmix_raw r, step;
    size_t n, states;
    memset(&r, 0, sizeof r);
    r.o = x;
    r.B = B;
    r.L = r.S = L;
    r.H = H;
    r.N = N;
    r.P = P;
    r.v = heads_of(V);
    r.dt = heads_of(DT);
    r.k = heads_of(K);
    r.q = heads_of(Q);
    if (x.z) r.z = heads_of(GATE);
    r.y = y.v;
    r.A = read_reals(x.A);
    if (x.D) r.D = read_reals(x.D);
    r.D_width = mmix_ndim(x.D) == 2 ? P : integer(0, 1);
    r.dt_bias = mmix_data(x.dt_bias);
    r.o.chunk = chunks[integer(0, 6)];
    if (x.initial_state) r.initial_state = read_reals(x.initial_state);
    if (with_last || one_in(2)) r.final_state = guarded(PN);
    r.seq_idx = mmix_data_i32(x.seq_idx);
    r.seq_batch = (ptrdiff_t)mmix_stride(x.seq_idx, 0);
    states = mmix_raw_kept_size(&r);
    if (states) r.kept = guarded(states);
    room_fill(&y, (double)NAN);
    scratch = guarded(n = mmix_raw_scratch_size(&r, 0));
    mmix_raw_forward(&r, scratch);
    unharmed("scratch of mmix_raw_forward", scratch, n);
    if (states) unharmed("states", r.kept, states);
    room_check(RAW, "y", &y, exact.y, size.y);
    if (r.final_state) {
        unharmed("final_state", r.final_state, PN);
        compare_reals(RAW, "final state", r.final_state, exact.last, size.last, grow, PN);
    }
    /* the way back */
    room_put(&dy, up);
    r.dy = dy.v;
    memset(gradient, 0, sizeof gradient);
    scan_gradients_begin(gradient, &r);
    r.grad[MMIX_IN_A] = maybe(x.A);
    r.grad[MMIX_IN_D] = maybe(x.D);
    r.grad[MMIX_IN_DT_BIAS] = maybe(x.dt_bias);
    r.grad[MMIX_IN_STATE] = maybe(x.initial_state);
    if (with_last) r.dfinal = mmix_data(up_last);
    raw_backward(&r, states);
    scan_gradients_end(gradient, &r);
    maybe_check(A, r.grad[MMIX_IN_A], 0);
    maybe_check(D, r.grad[MMIX_IN_D], 0);
    maybe_check(BIAS, r.grad[MMIX_IN_DT_BIAS], 0);
    maybe_check(FIRST, r.grad[MMIX_IN_STATE], 0);
    /* the state in place: of the whole, then, if nothing is packed, of single tokens */
    step = r;
    step.kept = NULL;
    step.final_state = state;
    for (int singly = 0; singly < 2; singly++) {
        if (singly && x.seq_idx) break;
        step.initial_state = x.initial_state ? state : NULL;
        if (x.initial_state) mmix_read(x.initial_state, state);
        step.L = singly ? 1 : L;
        scratch = guarded(n = mmix_raw_scratch_size(&step, 0));
        for (size_t i = 0; i < (singly ? L : 1); i++) {
            const size_t turn = r.o.direction == MMIX_SCAN_REVERSE ? L - 1 - i : i;
            const ptrdiff_t t = singly ? (ptrdiff_t)turn : 0;
            mmix_raw now = step;
            now.v.p += t * now.v.token;
            now.dt.p += t * now.dt.token;
            now.k.p += t * now.k.token;
            now.q.p += t * now.q.token;
            if (x.z) now.z.p += t * now.z.token;
            now.y.p += t * now.y.token;
            mmix_raw_forward(&now, scratch);
            step.initial_state = state;
        }
        unharmed("scratch in place", scratch, n);
        unharmed("state in place", state, PN);
        room_check(RAW, singly ? "y of steps" : "y, state in place", &y, exact.y, size.y);
        compare_reals(RAW, singly ? "state of steps" : "state in place", state, exact.last,
                      size.last, grow, PN);
    }
}
static void check_raw(void)
{
    if (x.kind == MMIX_MIXER_SOFTMAX) check_raw_softmax();
    else if (x.kind == MMIX_MIXER_LINEAR) check_raw_linear();
    else if (x.direction != MMIX_SCAN_BOTH) check_raw_scan();
}

/* ---- differences ---- */

/* Σ up y + Σ up_last h with the inputs moved by h along dir. */
static double loss_at(double *const *dir, double h)
{
    const mmix_mark mark = mmix_mark_here(m);
    const size_t was = n_held;
    mmix_tensor *end = NULL;
    mmix_mixer z = x;
    const double *y, *last;
    double sum = 0;
    for (int i = 0; i < INPUTS; i++) {
        real *r = dir[i] ? reals(in[i].n) : NULL;
        for (size_t k = 0; r && k < in[i].n; k++)
            r[k] = (real)(exact.x[i][k] + h * dir[i][k]);
        if (r) mmix_write(in[i].t, r);
    }
    if (with_last) z.final_state = &end;
    y = read_doubles(mmix_mix(m, &z));
    last = read_doubles(end);
    for (size_t i = 0; i < B * L * H * P; i++)
        sum += exact.dy[i] * y[i];
    for (size_t i = 0; end && i < states(); i++)
        sum += exact.dlast[i] * last[i];
    let_go(was);
    mmix_rewind(m, mark);
    return sum;
}
/* The derivative along a random direction of all inputs, by the five-point rule: what the library's
   forward says of the gradients. In double only, and not where numbers are extreme. */
static void check_differences(void)
{
    const double h = 3e-5;
    double *dir[INPUTS] = { NULL }, got, want = 0, size_of = 0;
    if (hard) return;
    if (sizeof(real) == 4) {
        skipped++;
        return;
    }
    for (int i = 0; i < INPUTS; i++) {
        if (!in[i].t) continue;
        dir[i] = doubles(in[i].n);
        for (size_t k = 0; k < in[i].n; k++) {
            dir[i][k] = between(-1, 1);
            want += dir[i][k] * exact.g[i][k];
            size_of += fabs(dir[i][k]) * size.g[i][k];
        }
    }
    got = 8 * (loss_at(dir, h) - loss_at(dir, -h)) - (loss_at(dir, 2 * h) - loss_at(dir, -2 * h));
    judge(DIFFERENCE, "derivative", fabs(got / (12 * h) - want), grow * size_of, got / (12 * h),
          want);
    loss_at(dir, 0);                             /* the inputs are what they were */
    fine("differences");
}

/* ---- rotary positions ---- */

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
/* Where feature f of a head goes when pairs half a head apart become neighbours, or the other
   way. */
static size_t paired(size_t f, size_t half, int interleaved)
{
    if (f >= 2 * half) return f;
    if (interleaved) return f / 2 + f % 2 * half;
    if (f < half) return 2 * f;
    return 2 * (f - half) + 1;
}
static void check_rope(void)
{
    const int three = one_in(2), each = one_in(2);
    const size_t half = integer(1, 20);
    const size_t n = 2 * half + (one_in(2) ? integer(1, 5) : 0);
    const size_t tokens = integer(1, 40);
    const size_t heads = integer(1, 3);
    const size_t limit = pick(300, 100000), moved = integer(1, limit), four = 4;
    /* angles are double: what a large one's rounding is in EPS */
    const double turns = 1 + (double)limit * 2.3e-16 / EPS;
    mmix_rope_options o, other;
    mmix_tensor *q, *pos, *y, *g;
    double *a, *b, *want, *size_of;
    size_t s[3], count;
    int ndim = 0;
    int32_t *p;
    memset(&o, 0, sizeof o);
    B = integer(1, 3);
    o.dim = n == 2 * half && one_in(2) ? 0 : 2 * half;
    o.theta = one_in(3) ? 0 : (double)pick(100, 1000000);
    o.interleaved = (int)integer(0, 1);
    if (three) {
        o.sections[0] = integer(1, half);
        o.sections[1] = integer(0, half - o.sections[0]);
        o.sections[2] = half - o.sections[0] - o.sections[1];
        s[ndim++] = 3;
    }
    if (each) s[ndim++] = B;
    s[ndim++] = tokens;
    about[0] = 0;
    tell("rope B %zu L %zu H %zu N %zu dim %zu theta %g interleaved %d sections %zu %zu %zu limit "
         "%zu each %d",
         B, tokens, heads, n, o.dim, o.theta, o.interleaved, o.sections[0], o.sections[1],
         o.sections[2], limit, each);
    q = mmix_require_grad(fill(view(NULL, NULL, B, tokens, heads, n), -2, 2, 0));
    pos = mmix_new(m, MMIX_DTYPE_I32, ndim, s);
    p = mmix_data_i32(pos);
    for (size_t i = 0; i < mmix_count(pos); i++)
        p[i] = (int32_t)integer(0, 2 * limit) - (int32_t)limit;
    count = mmix_count(q);
    a = read_doubles(q);
    want = plus(a, 0, count);
    size_of = doubles(count);
    for (size_t i = 0; i < count; i++)
        size_of[i] = fabs(a[i]);
    for (size_t z = 0; z < count / n * half; z++) {                  /* the formula, pair by pair */
        const size_t i = z % half, row = z / half, token = row / heads;
        const size_t line = each ? B * tokens : tokens;
        size_t axis;
        if (!three || i < o.sections[0]) axis = 0;
        else if (i < o.sections[0] + o.sections[1])
            axis = 1;
        else axis = 2;
        const size_t u = row * n + (o.interleaved ? 2 * i : i);
        const size_t v = row * n + (o.interleaved ? 2 * i + 1 : i + half);
        const size_t place = axis * line + (each ? token : token % tokens);
        const double theta = o.theta > 0 ? o.theta : 10000;
        const double turn = p[place] * pow(theta, -2 * (double)i / (double)(2 * half));
        want[u] = a[u] * cos(turn) - a[v] * sin(turn);
        want[v] = a[u] * sin(turn) + a[v] * cos(turn);
        size_of[u] = size_of[v] = fabs(a[u]) + fabs(a[v]);
    }
    mmix_record(m, 1);
    y = mmix_rope(m, q, pos, &o);
    compare_tensor(ROPE, "y", y, want, size_of, turns);
    b = read_doubles(y);
    for (size_t r = 0; r < count; r += n) {
        const double from = sqrt(dot(a + r, a + r, n));
        const double to = sqrt(dot(b + r, b + r, n));
        judge(ROPE, "length", fabs(to - from), from, to, from);
    }
    g = fill(mmix_new4(m, B, tokens, heads, n), -1, 1, 0);
    mmix_backward_from(m, &y, &g, 1);
    mmix_record(m, 0);
    for (size_t i = 0; i < mmix_count(pos); i++)
        p[i] = -p[i];
    compare_tensor(ROPE, "gradient is the turn back", mmix_grad(q),
                   read_doubles(mmix_rope(m, g, pos, &o)), plus(NULL, 2, count), 1);
    for (size_t i = 0; i < mmix_count(pos); i++)
        p[i] = -p[i];
    /* neighbours for halves: the same but for the order of features */
    other = o;
    other.interleaved = !o.interleaved;
    y = mmix_new4(m, B, tokens, heads, n);
    for (size_t i = 0; i < count; i++)
        mmix_data(y)[i - i % n + paired(i % n, half, o.interleaved)] = (real)a[i];
    b = read_doubles(mmix_rope(m, y, pos, &other));
    for (size_t i = 0; i < count; i++)
        want[i] = b[i - i % n + paired(i % n, half, o.interleaved)];
    compare_tensor(ROPE, "the other order of features", mmix_rope(m, q, pos, &o), want, size_of, 1);
    /* tokens a b a b, the second two moved, on each axis by as much as they like: equal scores */
    y = fill(mmix_new4(m, 1, 4, 1, n), -1, 1, 0);
    memcpy(mmix_data(y) + 2 * n, mmix_data(y), 2 * n * sizeof(real));
    s[0] = 3;
    s[1] = 4;
    if (three) pos = mmix_new(m, MMIX_DTYPE_I32, 2, s);
    else pos = mmix_new(m, MMIX_DTYPE_I32, 1, &four);
    p = mmix_data_i32(pos);
    for (size_t i = 0; i < mmix_count(pos); i++)
        p[i] = i % 4 < 2 ? (int32_t)integer(0, limit) : p[i - 2] + (int32_t)(moved >> i / 4);
    b = read_doubles(mmix_rope(m, y, pos, &o));
    judge(ROPE, "scores of moved tokens", fabs(dot(b, b + n, n) - dot(b + 2 * n, b + 3 * n, n)),
          turns * sqrt(dot(b, b, n) * dot(b + n, b + n, n)), dot(b + 2 * n, b + 3 * n, n),
          dot(b, b + n, n));
    if (three) {
        const real *one, *all;
        for (size_t i = 4; i < 12; i++)
            p[i] = p[i - 4];
        all = read_reals(mmix_rope(m, y, pos, &o));
        memset(other.sections, 0, sizeof other.sections);
        other.interleaved = o.interleaved;
        one = read_reals(mmix_rope(m, y, mmix_from_i32(m, 1, &four, p), &other));
        check(!memcmp(one, all, 4 * n * sizeof *one), face[ROPE].name,
              "equal positions on all axes are one", 0, 1);
    }
    fine("rope");
}

/* ---- layers in steps ---- */

/* Attention and Mamba-2 one behind the other, and Mamba-1 behind attention, whole and in pieces.
   Sizes are the largest number of the result. */
static void check_layers(void)
{
    const size_t heads = integer(1, 3), wide = heads * 2 * integer(1, 6);
    const int kind = (int)integer(MMIX_MIXER_SOFTMAX, MMIX_MIXER_LINEAR);
    enum { KINDS = 5 };
    static const char *const name[KINDS] = {
        "mmix_attention_forward", "mmix_mamba2_forward with a slot",
        "mmix_mamba2_forward with a state", "mmix_mamba1_forward with a slot",
        "mmix_mamba1_forward with a state"
    };
    mmix_params *p = mmix_params_create(m);
    mmix_mix_state *s = mmix_mix_state_create(m, 3);
    mmix_attention_layer attention;
    mmix_mamba2_layer mamba;
    mmix_mamba2_options o;
    mmix_mamba2_state carried, slot;
    mmix_mamba1_layer selective;
    mmix_mamba1_options selective_o;
    mmix_mamba1_state selective_carried, selective_slot;
    mmix_tensor *t, *a, *y;
    double *whole[KINDS], *got[KINDS];
    size_t n;
    memset(&o, 0, sizeof o);
    memset(&carried, 0, sizeof carried);
    memset(&slot, 0, sizeof slot);
    memset(&selective_o, 0, sizeof selective_o);
    selective_carried = carried;
    slot.in = s;
    slot.slot = 1;
    selective_slot = slot;
    selective_slot.slot = 2;
    B = integer(1, 3);
    L = integer(1, 60);
    o.head_dim = integer(1, 8);
    o.d_inner = o.head_dim * integer(1, 4);
    o.groups = any_divisor(o.d_inner / o.head_dim);
    o.d_state = integer(1, 12);
    o.conv_width = integer(1, 5);
    /* of the norm: else it enlarges the errors of rows near 0 */
    o.eps = 0.1;
    if (one_in(3)) {
        o.dt_low = 0.01;
        o.dt_high = 0.05;
    }
    mmix_attention_init(&attention, p, "a.", wide, heads, kind, (int)integer(0, 1));
    attention.options.mask = kind == MMIX_MIXER_SOFTMAX && one_in(2) ? MMIX_MASK_BAND
                                                                     : MMIX_MASK_CAUSAL;
    attention.options.left = integer(0, 20);
    attention.options.feature = (int)pick(MMIX_FEATURE_SOFTMAX_BOTH, MMIX_FEATURE_ELU1);
    attention.rope.theta = one_in(2) ? 1000 : 0;
    attention.rope.dim = pick(0, 2);
    attention.rope.interleaved = (int)integer(0, 1);
    selective_o.d_inner = integer(1, 20);
    selective_o.d_state = integer(1, 12);
    selective_o.dt_rank = integer(0, 3);
    selective_o.conv_width = integer(1, 5);
    selective_o.bias = (int)integer(0, 1);
    mmix_mamba2_init(&mamba, p, "m.", wide, &o);
    mmix_mamba1_init(&selective, p, "s.", wide, &selective_o);
    mmix_params_allocate(p);
    /* sums of size 1; A_log, dt_bias and norms as they begin */
    for (size_t i = 0; i < p->count; i++)
        if (mmix_ndim(p->at[i].tensor) > 1 && p->at[i].tensor != selective.dir[0].A_log)
            mmix_fill_normal(m, p->at[i].tensor, 1 / sqrt((double)mmix_shape(p->at[i].tensor, -1)),
                             random_bits());
    about[0] = 0;
    tell("layers B %zu L %zu D %zu heads %zu kind %d mask %d left %zu feature %d theta %g dim %zu "
         "interleaved %d; ",
         B, L, wide, heads, kind, attention.options.mask, attention.options.left,
         attention.options.feature, attention.rope.theta, attention.rope.dim,
         attention.rope.interleaved);
    tell("d_inner %zu head_dim %zu groups %zu d_state %zu W %zu limits %d; ", o.d_inner, o.head_dim,
         o.groups, o.d_state, o.conv_width, o.dt_high > 0);
    tell("d_inner %zu d_state %zu R %zu W %zu bias %d", selective_o.d_inner, selective_o.d_state,
         selective_o.dt_rank, selective_o.conv_width, selective_o.bias);
    t = fill(mmix_new3(m, B, L, wide), -2, 2, 0);
    a = mmix_attention_forward(m, &attention, t, NULL, NULL, NULL, 0);
    whole[0] = read_doubles(a);
    whole[1] = whole[2] = read_doubles(mmix_mamba2_forward(m, &mamba, a, NULL, NULL, NULL, NULL));
    whole[3] = whole[4] = read_doubles(mmix_mamba1_forward(m, &selective, a, NULL, NULL, NULL,
                                                           NULL));
    for (int k = 0; k < KINDS; k++)
        got[k] = doubles(B * L * wide);
    for (size_t from = 0; from < L; from += n) {
        n = least(L - from, pick(integer(1, 3), integer(1, 30)));
        if (from && one_in(4)) {
            y = mmix_fill(mmix_new3(m, B + 1, n, wide), 0.1);
            rejected(!mmix_attention_forward(m, &attention, y, NULL, NULL, s, 0), "another B");
            rejected(!mmix_mamba2_forward(m, &mamba, y, NULL, NULL, NULL, &slot), "another B");
            rejected(!mmix_mamba1_forward(m, &selective, y, NULL, NULL, NULL, &selective_slot),
                     "another B");
        }
        a = mmix_attention_forward(m, &attention, mmix_slice(m, t, 1, from, n), NULL, NULL, s, 0);
        place(got[0], a, from, wide);
        place(got[1], mmix_mamba2_forward(m, &mamba, a, NULL, NULL, NULL, &slot), from, wide);
        place(got[2], mmix_mamba2_forward(m, &mamba, a, NULL, NULL, NULL, &carried), from, wide);
        place(got[3],
              mmix_mamba1_forward(m, &selective, a, NULL, NULL, NULL, &selective_slot), from, wide);
        place(got[4],
              mmix_mamba1_forward(m, &selective, a, NULL, NULL, NULL, &selective_carried), from,
              wide);
        for (size_t slot = 0; slot < 3; slot++)
            equal("mmix_mix_state_tokens", "of a layer", mmix_mix_state_tokens(s, slot), from + n);
    }
    fine("layers");
    for (int k = 0; k < KINDS; k++) {
        double top = 0;
        for (size_t i = 0; i < B * L * wide; i++)
            top = fmax(top, fabs(whole[k][i]));
        compare(LAYER, name[k], got[k], whole[k], plus(NULL, top, B * L * wide), 1, B * L * wide);
    }
    mamba.options.bidirectional = 1;
    rejected(!mmix_mamba2_forward(m, &mamba, t, NULL, NULL, NULL, &slot), "a bidirectional layer");
    selective.options.bidirectional = 1;
    rejected(!mmix_mamba1_forward(m, &selective, t, NULL, NULL, NULL, &selective_slot),
             "a bidirectional layer");
    mmix_mix_state_destroy(s);
    mmix_params_destroy(p);
}

/* ---- visiting orders ---- */

static void check_scan(void)
{
    const size_t layer = integer(0, 11);
    const size_t way = layer % 4;
    const size_t T = integer(1, 6);
    const size_t Y = integer(1, 6);
    const size_t X = integer(1, 6);
    const size_t separators = integer(0, 3);
    const size_t frame = Y * X + separators, n = T * frame;
    const size_t bytes = n * sizeof(int32_t);
    int32_t *perm = (int32_t *)hold(bytes);
    int32_t *inverse = (int32_t *)hold(bytes);
    int32_t *alone = (int32_t *)hold(bytes);
    int32_t *want = (int32_t *)hold(bytes);
    int32_t *back = (int32_t *)hold(bytes);
    int32_t *to = want;
    about[0] = 0;
    tell("scan order, layer %zu, %zu x %zu x %zu and %zu", layer, T, Y, X, separators);
#define EACH(i, n) for (size_t i = 0; i < (n); i++)
#define VISIT *to++ = (int32_t)(t * frame + i * X + k)
    if (way < 2) EACH(t, T) {
        if (way == 0) EACH(i, Y) EACH(k, X) VISIT;
        if (way == 1) EACH(k, X) EACH(i, Y) VISIT;
        EACH(z, separators) *to++ = (int32_t)(t * frame + Y * X + z);
    }
    if (way == 2)
        EACH(i, Y) EACH(k, X) EACH(t, T) VISIT;
    if (way == 3)
        EACH(k, X) EACH(i, Y) EACH(t, T) VISIT;
    if (way > 1)
        EACH(t, T) EACH(z, separators) *to++ = (int32_t)(t * frame + Y * X + z);
    EACH(r, n) back[want[r]] = (int32_t)r;
    mmix_scan_order(layer, T, Y, X, separators, perm, inverse);
    check(!memcmp(perm, want, bytes), "mmix_scan_order", "perm", 0, 1);
    check(!memcmp(inverse, back, bytes), "mmix_scan_order", "inverse", 0, 1);
    mmix_scan_order(layer, T, Y, X, separators, alone, NULL);
    check(!memcmp(alone, want, bytes), "mmix_scan_order", "perm alone", 0, 1);
    mmix_scan_order(layer, T, Y, X, separators, NULL, alone);
    check(!memcmp(alone, back, bytes), "mmix_scan_order", "inverse alone", 0, 1);
}

/* ---- ranks ---- */

/* n orthonormal rows of `len` numbers: Gram-Schmidt, twice. */
static double *orthonormal(size_t n, size_t len)
{
    double *u = doubles(n * len);
    for (size_t i = 0; i < n; i++) {
        double *row = u + i * len;
        for (size_t k = 0; k < len; k++)
            row[k] = between(-1, 1) + between(-1, 1);
        for (int twice = 0; twice < 2; twice++) {
            for (size_t j = 0; j < i; j++) {
                const double along = dot(row, u + j * len, len);
                for (size_t k = 0; k < len; k++)
                    row[k] -= along * u[j * len + k];
            }
            const double length = sqrt(dot(row, row, len));
            for (size_t k = 0; k < len; k++)
                row[k] /= length;
        }
    }
    return u;
}
/* Blocks made of singular values that are known. */
static void check_rank_of(void)
{
    const size_t matrices = integer(1, 2);
    const size_t rows = integer(1, 24);
    const size_t cols = integer(1, 24);
    const size_t C = one_in(3) ? 0 : integer(1, 26);
    const size_t h = C ? least(C, rows) : rows;
    const size_t w = C ? least(C, cols) : cols;
    const size_t width = least(h, w);
    const size_t shape[3] = { matrices, rows, cols };
    const size_t down = (rows + h - 1) / h;
    const size_t across = (cols + w - 1) / w;
    const size_t blocks = matrices * down * across;
    real *M = reals(matrices * rows * cols);
    double *sigma = doubles(blocks * width);
    mmix_rank r;
    /* between the noise of a real and the smallest σ, 1/100 */
    const double eps = sizeof(real) == 4 ? 1e-5 : 1e-12;
    about[0] = 0;
    tell("ranks of %zu x %zu x %zu in blocks of %zu", matrices, rows, cols, C);
    for (size_t i = 0; i < blocks; i++) {
        const size_t y0 = i / across % down * h;
        const size_t x0 = i % across * w;
        const size_t hh = least(h, rows - y0);
        const size_t ww = least(w, cols - x0), rank = integer(0, least(hh, ww));
        const double *u = orthonormal(rank, hh);
        const double *v = orthonormal(rank, ww);
        const double unit = exp(between(-20, 20));
        double *s = sigma + i * width;
        for (size_t k = 0; k < rank; k++) {
            if (k == 0) s[k] = unit;
            else s[k] = fmax(s[k - 1] * (one_in(3) ? 1 : between(0.5, 1)), unit / 100);
        }
        for (size_t z = 0; z < hh * ww; z++) {
            double sum = 0;
            for (size_t k = 0; k < rank; k++)
                sum += s[k] * u[k * hh + z / ww] * v[k * ww + z % ww];
            M[(i / across / down * rows + y0 + z / ww) * cols + x0 + z % ww] = (real)sum;
        }
    }
    check(!mmix_block_rank(m, mmix_from(m, 3, shape, M), C, eps, &r), "mmix_block_rank", "succeeds",
          0, 0);
    fine("mmix_block_rank");
    equal("mmix_block_rank", "blocks", (r.matrices * 100 + r.rows) * 100 + r.cols,
          (matrices * 100 + down) * 100 + across);
    equal("mmix_block_rank", "width", r.width, width);
    for (size_t i = 0; i < blocks; i++) {
        const double *s = sigma + i * width, *got = r.singular + i * width;
        double sum = 0, squares = 0, entropy = 0, rank = 0;
        for (size_t k = 0; k < width; k++) {
            judge(RANK, "singular value", fabs(got[k] - s[k]), s[0], got[k], s[k]);
            rank += s[k] > 0;
            sum += s[k];
            squares += s[k] * s[k];
        }
        for (size_t k = 0; k < width; k++)
            if (s[k] > 0)
                entropy -= s[k] / sum * log(s[k] / sum);
        check(r.numerical[i] == rank, "mmix_block_rank", "numerical rank", r.numerical[i], rank);
        /* noise is in all σ, and -σ ln σ rises steeply at 0 */
        if (rank > 0) {
            const double effective = exp(entropy), stable = squares / (s[0] * s[0]);
            judge(RANK, "effective", fabs(r.effective[i] - effective), 20 * rank * (double)width,
                  r.effective[i], effective);
            judge(RANK, "stable", fabs(r.stable[i] - stable), rank, r.stable[i], stable);
        }
        else
            check(!(r.effective[i] > 0 || r.stable[i] > 0), "mmix_block_rank", "ranks of zeros",
                  r.effective[i], 0);
    }
}
/* Powers of 2, one a row and column: exact however far apart, and the default eps. */
static void check_rank_exact(void)
{
    const double noise = sizeof(real) == 4 ? 1.1920928955078125e-7 : 2.220446049250313e-16;
    const size_t n = integer(1, 11), shape[2] = { n, n };
    real *M = reals(n * n);
    size_t row[11], above = 0;
    mmix_rank r;
    about[0] = 0;
    tell("exact ranks of %zu x %zu", n, n);
    for (size_t k = 0; k < n; k++) {             /* a permutation */
        const size_t other = integer(0, k);
        row[k] = k;
        row[k] = row[other];
        row[other] = k;
    }
    for (size_t k = 0; k < n; k++)
        M[row[k] * n + k] = (real)ldexp(one_in(2) ? 1 : -1, -6 * (int)k);
    mmix_block_rank(m, mmix_from(m, 2, shape, M), 0, 0, &r);
    for (size_t k = 0; k < n; k++) {
        const double power = ldexp(1, -6 * (int)k);
        above += power > (double)n * noise;
        check(r.singular[k] == power, "mmix_block_rank", "a power of 2", r.singular[k], power);
    }
    check(r.numerical[0] == (double)above, "mmix_block_rank", "with the default eps",
          r.numerical[0], (double)above);
    /* squares of lengths whose difference is flushed to 0, though they differ */
    const real tiny[9] = { 1, 0, 0, 0, (real)1.95e-154, 0, 0, 0, (real)2.1e-154 };
    const size_t three[2] = { 3, 3 };
    mmix_block_rank(m, mmix_from(m, 2, three, tiny), 0, 0, &r);
    check(r.numerical[0] == 1 && r.effective[0] == 1, "mmix_block_rank", "tiny rows",
          r.effective[0], 1);
    fine("mmix_block_rank");
}
/* What is measured of a mixer's blocks beside the bounds, and beside sums over the matrix that
   is expected. */
static void check_mixer_rank(int kind)
{
    const int calm = one_in(2);                  /* M is regular for sure, numerically as well */
    mmix_tensor *proj = NULL;
    mmix_mixer_rank r;
    size_t block, C, n;
    int triangular;
    little = 1;
    do any_mixer(kind);
    while (S != L || L < 2 || L > 40 || B * H > 9 || !has_matrix());
    little = 0;
    const int scans = kind >= MMIX_MIXER_SSD;
    triangular = scans ? x.direction != MMIX_SCAN_BOTH
                       : x.mask == MMIX_MASK_CAUSAL && !x.window[0];
    if (calm && x.D)
        fill(x.D, 40, 50, 0); /* larger than the rest of a row */
    /* rows nearly even */
    for (int i = Q; calm && !scans && i <= K; i++)
        fill(in[i].t, 0.5, 0.6, 0);
    if (calm) tell(", calm");
    expect();
    block = one_in(4) ? 0 : integer(1, L + 1);
    if (one_in(2))
        proj = fill(mmix_new2(m, integer(1, 20), H * P), -1, 1, 0);
    check(!mmix_mix_rank(m, &x, proj, block, 0, &r), "mmix_mix_rank", "succeeds", 0, 0);
    fine("mmix_mix_rank");
    C = least(block ? block : L / 2, L);
    n = (L + C - 1) / C;
    equal("mmix_mix_rank", "block", r.block, C);
    equal("mmix_mix_rank", "blocks", r.M.rows * r.M.cols * r.whole.rows, n * n);
    equal("mmix_mix_rank", "has decay", r.decay != NULL, kind == MMIX_MIXER_SSD);
    for (size_t h = 0; h < B * H; h++) {
        double diagonal = 0;
        for (size_t i = 0; i < n * n; i++) {
            const size_t I = i / n, J = i % n, z = h * n * n + i;
            const double *sigma = r.M.singular + z * r.M.width;
            const double rank = r.M.numerical[z];
            double squares = 0, sum = 0, size_of = 0;
            for (size_t k = 0; k < r.M.width; k++)
                squares += sigma[k] * sigma[k];
            for (size_t t = I * C; t < least(L, I * C + C); t++)
                for (size_t k = (h * L + t) * L + J * C, end = k + least(C, L - J * C); k < end;
                     k++) {
                    sum += exact.M[k] * exact.M[k];
                    size_of += fabs(exact.M[k]) * size.M[k];
                }
            judge(RANK, "sum of squares", fabs(squares - sum), 2 * grow * size_of, squares, sum);
            check(rank <= r.bound[z], "mmix_mix_rank", "within the bound", rank, r.bound[z]);
            if (!(sum > 0))
                check(rank + r.bound[z] <= 0, "mmix_mix_rank", "of zeros, and bound",
                      rank + r.bound[z], 0);
            if (kind == MMIX_MIXER_SSD && I != J)
                check(r.decay[z] <= 1, "mmix_mix_rank", "of the decay", r.decay[z], 1);
            if (I == J) diagonal += rank;
        }
        check(r.diagonal[h] == diagonal, "mmix_mix_rank", "diagonal", r.diagonal[h], diagonal);
        if (triangular && calm && (!scans || x.D))
            check(r.whole.numerical[h] >= diagonal, "mmix_mix_rank", "of the whole",
                  r.whole.numerical[h], diagonal);
    }
    /* a block adds to the output no more than the heads' ranks together */
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < n * n; i++) {
            double most_of = 0;
            for (size_t h = 0; h < H; h++)
                most_of += fmin(r.bound[(b * H + h) * n * n + i], (double)P);
            most_of = fmin(most_of, (double)(proj ? least(C, mmix_shape(proj, 0)) : C));
            check(r.joined[b * n * n + i] <= most_of, "mmix_mix_rank", "joined",
                  r.joined[b * n * n + i], most_of);
        }
}
static int is(double a, double b) { return fabs(a - b) < 1e-14; }
static void check_by_hand(void)
{
    /* two matrices of 1 x 3 tokens, of which the second looks at itself only */
    const real a[18] = { 1, 2, 0, 0, 1, -1, 3, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    const real b[18] = { 1, 2, 2, 0, 1, -1, 3, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0 }, zeros[9] = { 0 };
    /* 2 x 2 tokens: 0 looks at 3, a diagonal away; 1 at 3, a row away; 2 at itself */
    const real square[16] = { 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 5, 0, 0, 0, 0, 0 };
    double d[2], e[2];
    about[0] = 0;
    tell("by hand");
    matrix_distance(a, b, 2, 9, d, e);
    check(is(d[0], sqrt(5)) && is(d[1], 1), "matrix_distance", "distance", d[0], sqrt(5));
    check(is(e[0], sqrt(5.0 / 16)) && is(e[1], sqrt(1.0 / 3)), "matrix_distance", "relative", e[0],
          sqrt(5.0 / 16));
    matrix_distance(zeros, zeros, 1, 9, NULL, e);
    check(is(e[0], 0), "matrix_distance", "of nothing", e[0], 0);
    matrix_distance(a, a, 2, 9, d, NULL);
    check(is(d[0], 0) && is(d[1], 0), "matrix_distance", "from itself", d[0], 0);
    head_reach(a, 2, 1, 3, 1, d, e);        /* Σ|a| = 8: 2 at home, 3 one token away, 3 two */
    check(is(d[0], 5.0 / 8) && is(d[1], 1), "head_reach", "share", d[0], 5.0 / 8);
    check(is(e[0], 9.0 / 8) && is(e[1], 0), "head_reach", "distance", e[0], 9.0 / 8);
    head_reach(square, 1, 2, 2, 0, d, e);
    check(is(d[0], 5.0 / 8) && is(e[0], (2 * sqrt(2) + 1) / 8), "head_reach", "radius 0", d[0],
          5.0 / 8);
    head_reach(square, 1, 2, 2, 1, d, NULL);
    check(is(d[0], 1), "head_reach", "radius 1", d[0], 1);
}

/* ---- all of it ---- */

static void one_draw(void)
{
    const size_t kind = draw % 25, turn = draw / 25;
    if (kind < 20) {
        any_mixer((int)(kind % 4));
        expect();
        check_faces();
        check_steps();
        check_packed();
        check_directions();
        check_raw();
        check_differences();
    }
    else if (kind == 20) check_rope();
    else if (kind == 21) check_layers();
    else if (kind == 22) check_mixer_rank((int)(turn % 4));
    else if (kind == 23 && turn % 4) check_rank_of();
    else if (kind == 23) check_rank_exact();
    else if (turn == 0) check_by_hand();
    else if (turn % 4 == 0) check_long_run();
    else check_scan();
}
int main(int argc, char **argv)
{
    uint64_t first = 0, count = 2500;
    mmix_ctx *contexts[4];
    if (argc > 1) seed = strtoul(argv[1], NULL, 0);
    if (argc > 2) first = strtoul(argv[2], NULL, 0);
    if (argc > 3) count = strtoul(argv[3], NULL, 0);
    for (int i = 0; i < 4; i++) {                /* threads and SIMD levels */
        mmix_options o;
        memset(&o, 0, sizeof o);
        o.threads = i == 1 ? 2 : 1;
        if (i == 2) o.simd = MMIX_SIMD_NONE;
        else if (i == 3) o.simd = MMIX_SIMD_AVX2;
        else o.simd = MMIX_SIMD_AUTO;
        contexts[i] = mmix_create(&o);
    }
    for (draw = first; draw < first + count; draw++) {
        drawn = 0;
        m = contexts[integer(0, 3)];
        one_draw();
        let_go(0);
        mmix_reset(m);
    }
    for (int i = 0; i < 4; i++)
        mmix_destroy(contexts[i]);
    for (int i = 0; i < FACES; i++)
        printf("%s%s %.3g of %g", i ? ", " : "largest errors: ", face[i].name, face[i].worst,
               face[i].bound);
    printf("\n%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
