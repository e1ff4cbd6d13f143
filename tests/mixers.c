/* Properties of the token mixers on random shapes and options. Every face of a mixer (mmix_mix, its matrix, its steps,
   its gradients, the raw functions) is held against the definition, written here as plain loops in double that share no
   code with the library; rotary positions, layers in steps, scan orders and ranks follow. Prints a line for each failing
   check, how near to its bound each face came, and a summary; exits 1 if anything failed.

       mixers [seed [first [count]]]     draws first … first + count - 1 of that seed

   A draw's numbers depend on (seed, draw) alone; the line of a failing check says how to repeat it.

   Errors are measured in units of EPS · size. The size of a number is the sum of the absolute values of what it is made
   of: the same definition with every term positive. So a sum that happens to cancel asks nothing impossible, a small
   number beside large ones is looked at as closely as those, and one bound serves float and double. Sizes of softmax
   attention have a factor 1 + the largest score as well: an error of EPS s in a score s is one of EPS s in its
   exponential. */
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <stdlib.h>

typedef mmix_real real;
static const double EPS = sizeof(real) == 4 ? 1.2e-7 : 2.3e-16;
static int passed, failed, skipped;

/* Bounds are three times what was the largest of the seeds 1 to 60, float and double: 16.8, … */
enum { MIX, GRADIENT, MATRIX, PRODUCT, LOOP, CHUNK, STEP, PACKED, WAYS, RAW, RAW_GRADIENT, DIFFERENCE, ROPE, LAYER, RANK,
       FACES };
static struct { const char *name; double bound, worst; } face[FACES] = {
    { "mmix_mix", 1e9, 0 }, { "gradient", 1e9, 0 }, { "mmix_mix_matrix", 1e9, 0 }, { "matrix times v", 1e9, 0 },
    { "mmix_ssd_reference", 1e9, 0 }, { "chunk", 1e9, 0 }, { "mmix_mix_step", 1e9, 0 }, { "packed", 1e9, 0 },
    { "direction", 1e9, 0 }, { "raw", 1e9, 0 }, { "raw gradient", 1e9, 0 }, { "difference", 1e9, 0 },
    { "mmix_rope", 1e9, 0 }, { "layer", 1e9, 0 }, { "rank", 1e9, 0 }
};

/* ---- random numbers: a hash of (seed, draw, how many before) ---- */

static uint64_t seed = 1, draw, counter;
static uint64_t random_bits(void)                /* splitmix64's mixing function */
{
    uint64_t z = (seed * 0x9E3779B97F4A7C15u ^ draw) * 0xD1342543DE82EF95u + ++counter * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static double uniform(double low, double high)
{
    return low + (high - low) * ((double)(random_bits() >> 11) / 9007199254740992.0);
}
static size_t any(size_t low, size_t high) { return low + (size_t)(random_bits() % (high - low + 1)); }
static int one_in(size_t n) { return any(1, n) == 1; }
static size_t pick(size_t a, size_t b) { return one_in(2) ? a : b; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* ---- checks ---- */

static mmix_ctx *m;                              /* the draw's context */
static char about[700];                          /* the draw in words */

static void check(int ok, const char *what, const char *detail, double got, double want)
{
    if (ok) { passed++; return; }
    if (failed++ < 100)
        printf("FAILED %s, %s: %.9g, expected %.9g; mixers %lu %lu 1: %s\n", what, detail, got, want,
               (unsigned long)seed, (unsigned long)draw, about);
}
static void equal(const char *what, const char *detail, size_t got, size_t want)
{
    check(got == want, what, detail, (double)got, (double)want);
}
static void fine(const char *what)               /* no error is kept; if one is it is shown and cleared */
{
    check(!mmix_error(m), what, mmix_error(m) ? mmix_error(m) : "", 0, 0);
    mmix_error_clear(m);
}
static void refused(int bad, const char *what)   /* an argument was, and the message is there */
{
    check(bad && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT, what, "is refused", bad, 1);
    mmix_error_clear(m);
}
/* An error in units of EPS · size. The library drops decays below e^-80: hence the absolute part. */
static void judge(int f, const char *what, double error, double size, double got, double want)
{
    const double e = error / (EPS * size + 1e-25);
    if (!(e <= face[f].worst)) face[f].worst = e;
    check(e <= face[f].bound, face[f].name, what, got, want);
}
static void compare(int f, const char *what, const double *got, const double *want, const double *size, double grow,
                    size_t n)
{
    size_t worst = 0;
    double top = -1;
    for (size_t i = 0; i < n && top - top == 0; i++) {               /* as far as the first NaN or infinity */
        const double e = fabs(got[i] - want[i]) / (EPS * grow * size[i] + 1e-25);
        if (!(e <= top)) { worst = i; top = e; }
    }
    if (n) judge(f, what, fabs(got[worst] - want[worst]), grow * size[worst], got[worst], want[worst]);
}

/* ---- memory of a draw ---- */

static void *held[20000];
static size_t n_held;
static void *hold(size_t bytes)                  /* zeros */
{
    void *p = calloc(bytes ? bytes : 1, 1);
    if (!p || n_held == sizeof held / sizeof *held) { puts("out of memory"); exit(2); }
    return held[n_held++] = p;
}
static void let_go(size_t from) { while (n_held > from) free(held[--n_held]); }
static double *doubles(size_t n) { return (double *)hold(n * sizeof(double)); }
static real *reals(size_t n) { return (real *)hold(n * sizeof(real)); }
static double *as_doubles(const real *r, size_t n)
{
    double *d = doubles(n);
    for (size_t i = 0; i < n; i++) d[i] = (double)r[i];
    return d;
}
static double *plus(const double *x, double a, size_t n)             /* x + a; x NULL: a */
{
    double *y = doubles(n);
    for (size_t i = 0; i < n; i++) y[i] = x ? x[i] + a : a;
    return y;
}
static real *read_reals(const mmix_tensor *t)
{
    real *r = reals(mmix_count(t));
    if (t) mmix_read(t, r);
    return r;
}
static double *read_doubles(const mmix_tensor *t) { return as_doubles(read_reals(t), mmix_count(t)); }
static void compare_reals(int f, const char *what, const real *got, const double *want, const double *size,
                          double grow, size_t n)
{
    const size_t was = n_held;
    compare(f, what, as_doubles(got, n), want, size, grow, n);
    let_go(was);
}
static void compare_tensor(int f, const char *what, const mmix_tensor *t, const double *want, const double *size,
                           double grow)
{
    const size_t was = n_held;
    if (t) compare(f, what, read_doubles(t), want, size, grow, mmix_count(t));
    else check(0, what, mmix_error(m) ? mmix_error(m) : "NULL", 0, 1);
    let_go(was);
}

/* ---- a draw: a mixer, its numbers, and what is expected of it ---- */

enum { Q, K, V, DT, A, D, BIAS, FIRST, INPUTS };
static const char *const input_name[INPUTS] = { "q", "k", "v", "dt", "A", "D", "dt_bias", "initial state" };
typedef struct input { mmix_tensor *t; size_t tokens, heads, width, n; int wants; } input;
/* The numbers of a draw in double: values and gradients of the inputs, y (B, L, H, P) and the final state, what comes
   back for them, the matrix (B, H, L, S). `exact`: what they are; `size`: their sizes. */
typedef struct side { double *x[INPUTS], *g[INPUTS], *y, *last, *dy, *dlast, *M; } side;
static side exact, size;
static double grow;                              /* of the sizes: 1, or 1 + the largest score */
static mmix_mixer x;
static input in[INPUTS];
static size_t B, L, S, H, N, P;
static int hard, with_last, only_last;           /* extreme values; the final state has a gradient; y has none */
static mmix_tensor *up, *up_last;                /* upstream gradients */
static size_t *run;                              /* (B, L): number of the packed sequence */
static unsigned char *seen;                      /* (B, L, S): the mask */
static double *den, *lse;                        /* (B, H, L): what rows of M are divided by; ln Σ e^s of softmax */
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
    return x.kind == MMIX_LINEAR && (x.normalise ? x.normalise > 0 : x.feature >= MMIX_FEATURE_ELU1);
}

static size_t window_of(size_t c, size_t window, size_t shift)
{
    size_t w = 0, end = shift ? shift : window;
    for (; c >= end; end += window) w++;
    return w;
}
static int sees(size_t b, size_t i, size_t j)
{
    const size_t me = x.mask == MMIX_MASK_NONE ? i : i + S - L;      /* the queries are the last of the tokens */
    size_t p = i, q = j;
    if (x.seq_idx && run[b * L + i] != run[b * L + j]) return 0;
    for (int a = 3; x.window[0] && a-- > 0;) {
        const size_t n = most(x.grid[a], 1), w = most(x.window[a], 1);
        if (window_of(p % n, w, x.shift[a]) != window_of(q % n, w, x.shift[a])) return 0;
        p /= n;
        q /= n;
    }
    if (x.mask == MMIX_MASK_CAUSAL) return j <= me;
    if (x.mask == MMIX_MASK_PREFIX) return j <= me || (me < x.prefix && j < x.prefix);
    if (x.mask == MMIX_MASK_BAND) return j <= me ? me - j <= x.left : j - me <= x.right;
    return 1;
}

/* δ = clamp(softplus(dt + bias)) and its slope; from 20 on softplus is its argument, as in PyTorch */
static double delta_of(size_t b, size_t t, size_t h, double *slope)
{
    const double u = exact.x[DT][at(DT, b, t, h)] + (in[BIAS].t ? exact.x[BIAS][h] : 0);
    const int soft = x.dt_softplus && u <= 20;
    const double d = soft ? log1p(exp(u)) : u;
    *slope = soft ? 1 / (1 + exp(-u)) : 1;
    if (!(x.dt_high > 0) || (d >= x.dt_low && d <= x.dt_high)) return d;
    *slope = 0;
    return d < x.dt_low ? x.dt_low : x.dt_high;
}
/* h_t = e^(δ A) h_(t-1) + δ x Bᵀ, y_t = h_t C + D x in one direction, results times `weight`, and the way back. The
   gradient of δ has terms of both signs even if all inputs are positive: `absolute` adds them. */
static void naive_ssd(side *s, int reverse, double weight, int absolute)
{
    const size_t was = n_held, PN = P * N, wide = mmix_ndim(in[D].t) == 2;
    double *states = doubles((L + 1) * PN), *dh = doubles(PN), *delta = doubles(L), *slope = doubles(L), *e = doubles(L);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            const size_t of_head = (b * H + h) * PN;
            const double a = exact.x[A][h];
            for (size_t z = 0; z < PN; z++) states[z] = in[FIRST].t ? s->x[FIRST][of_head + z] : 0;
            for (size_t i = 0; i < L; i++) {
                const size_t t = reverse ? L - 1 - i : i, before = reverse ? t + 1 : t - 1;
                const double *C = s->x[Q] + at(Q, b, t, h), *K_ = s->x[K] + at(K, b, t, h), *v = s->x[V] + at(V, b, t, h);
                double *y = s->y + ((b * L + t) * H + h) * P, *now = states + (i + 1) * PN;
                delta[i] = delta_of(b, t, h, &slope[i]);
                e[i] = i && run && run[b * L + t] != run[b * L + before] ? 0 : exp(delta[i] * a);
                for (size_t p = 0; p < P; p++) {
                    for (size_t n = 0; n < N; n++) {
                        now[p * N + n] = e[i] * states[i * PN + p * N + n] + delta[i] * v[p] * K_[n];
                        y[p] += weight * now[p * N + n] * C[n];
                    }
                    if (in[D].t) y[p] += weight * v[p] * s->x[D][wide ? h * P + p : h];
                }
            }
            for (size_t z = 0; z < PN; z++) {
                s->last[of_head + z] = states[L * PN + z];
                dh[z] = with_last ? s->dlast[of_head + z] : 0;
            }
            for (size_t i = L; i-- > 0;) {
                const size_t t = reverse ? L - 1 - i : i, q = at(Q, b, t, h), k = at(K, b, t, h);
                const double *C = s->x[Q] + q, *K_ = s->x[K] + k, *v = s->x[V] + at(V, b, t, h), *now = states + (i + 1) * PN;
                const double *dy = s->dy + ((b * L + t) * H + h) * P;
                double *dv = s->g[V] + at(V, b, t, h), da = 0, dd = 0;
                for (size_t p = 0; p < P; p++) {
                    const double w = weight * dy[p];
                    for (size_t n = 0; n < N; n++) {
                        double *g = dh + p * N + n;
                        *g += w * C[n];
                        s->g[Q][q + n] += w * now[p * N + n];
                        s->g[K][k + n] += *g * delta[i] * v[p];
                        dv[p] += *g * delta[i] * K_[n];
                        dd += *g * v[p] * K_[n];
                        *g *= e[i];
                        da += *g * states[i * PN + p * N + n];
                    }
                    if (!in[D].t) continue;
                    dv[p] += w * s->x[D][wide ? h * P + p : h];
                    s->g[D][wide ? h * P + p : h] += w * v[p];
                }
                s->g[A][h] += da * delta[i];
                dd = (dd + da * (absolute ? fabs(a) : a)) * slope[i];
                s->g[DT][at(DT, b, t, h)] += dd;
                if (in[BIAS].t) s->g[BIAS][h] += dd;
            }
            for (size_t z = 0; in[FIRST].t && z < PN; z++) s->g[FIRST][of_head + z] += dh[z];
        }
    let_go(was);
}
/* The same recurrence as a matrix: C_t·B_j δ_j e^(sum of the a after j up to t), and D on the diagonal. */
static void naive_ssd_matrix(side *s, int reverse, double weight)
{
    double unused;
    for (size_t r = 0; r < B * H * L; r++) {
        const size_t b = r / L / H, h = r / L % H, i = r % L, t = reverse ? L - 1 - i : i;
        double sum = 0;                          /* of a */
        for (size_t z = i + 1; z-- > 0;) {
            const size_t j = reverse ? L - 1 - z : z;
            const double d = delta_of(b, j, h, &unused);
            double score = 0;
            if (run && run[b * L + j] != run[b * L + t]) break;
            for (size_t n = 0; n < N; n++) score += s->x[Q][at(Q, b, t, h) + n] * s->x[K][at(K, b, j, h) + n];
            s->M[((b * H + h) * L + t) * S + j] += weight * (score * d * exp(sum) + (j == t && in[D].t ? s->x[D][h] : 0));
            sum += d * exact.x[A][h];
        }
    }
}

/* φ and ψ of linear attention: f of input i (Q or K). A softmax goes over the `many` numbers that begin at `start`, from
   each other by `step`: a token's features, or for the keys of EFFICIENT a feature of all tokens. */
typedef struct group { size_t start, step, many; } group;
static group group_of(int i, size_t z)
{
    const size_t row = in[i].heads * in[i].width, all = row * in[i].tokens, over_tokens = i == K && x.feature == MMIX_FEATURE_EFFICIENT;
    group g;
    g.start = over_tokens ? z / all * all + z % row : z / N * N;
    g.step = over_tokens ? row : 1;
    g.many = over_tokens ? in[i].tokens : N;
    return g;
}
static int is_softmax(void) { return x.feature == MMIX_FEATURE_SOFTMAX_BOTH || x.feature == MMIX_FEATURE_EFFICIENT; }
static double *naive_features(int i)
{
    const double *from = exact.x[i];
    double *f = doubles(in[i].n);
    for (size_t z = 0; z < in[i].n; z++) {
        const group g = group_of(i, z);
        double top = -HUGE_VAL, sum = 0;
        if (x.feature == MMIX_FEATURE_ELU1) f[z] = from[z] > 0 ? from[z] + 1 : exp(from[z]);
        if (x.feature == MMIX_FEATURE_RELU) f[z] = from[z] > 0 ? from[z] : 0;
        if (!is_softmax() || z != g.start) continue;                 /* each group once */
        for (size_t k = 0; k < g.many; k++) top = fmax(top, from[z + k * g.step]);
        for (size_t k = 0; k < g.many; k++) sum += f[z + k * g.step] = exp(from[z + k * g.step] - top);
        for (size_t k = 0; k < g.many; k++) f[z + k * g.step] /= sum;
    }
    return f;
}
static void naive_features_back(int i, const double *f, const double *df, double *to, int absolute)
{
    for (size_t z = 0; z < in[i].n; z++) {
        const group g = group_of(i, z);
        double sum = 0;
        for (size_t k = 0; is_softmax() && k < g.many; k++) sum += f[g.start + k * g.step] * df[g.start + k * g.step];
        if (is_softmax()) to[z] = f[z] * (absolute ? df[z] + sum : df[z] - sum);
        else to[z] = df[z] * (exact.x[i][z] > 0 ? 1 : x.feature == MMIX_FEATURE_ELU1 ? f[z] : 0);
    }
}
/* M and y = M v of softmax and linear attention, and the way back. With `absolute` M is that of `exact`. */
static void naive_attention(side *s, int absolute)
{
    const size_t was = n_held;
    const int soft = x.kind == MMIX_SOFTMAX;
    double *f = soft ? s->x[Q] : naive_features(Q), *g = soft ? s->x[K] : naive_features(K), *dm = doubles(S);
    double *df = soft ? s->g[Q] : doubles(in[Q].n), *dg = soft ? s->g[K] : doubles(in[K].n);
    for (size_t r = 0; r < B * H * L; r++) {
        const size_t b = r / L / H, h = r / L % H, i = r % L, q = at(Q, b, i, h), out = ((b * L + i) * H + h) * P;
        const unsigned char *mask = seen + (b * L + i) * S;
        double *row = s->M + r * S, top = -HUGE_VAL, sum = 0, along = 0;
        if (absolute) memcpy(row, exact.M + r * S, S * sizeof *row);
        else {
            for (size_t j = 0; j < S; j++) {
                double magnitude = 0;
                if (!mask[j]) continue;
                for (size_t n = 0; n < N; n++) {
                    const double z = (soft ? scale : 1) * f[q + n] * g[at(K, b, j, h) + n];
                    row[j] += z;
                    magnitude += fabs(z);
                }
                top = fmax(top, row[j]);
                if (soft) top_score = fmax(top_score, magnitude);
            }
            for (size_t j = 0; j < S; j++) if (mask[j]) sum += row[j] = soft ? exp(row[j] - top) : row[j];
            den[r] = soft ? sum : divides() ? sum + eps : 1;
            lse[r] = top + log(den[r]);
            for (size_t j = 0; j < S; j++) row[j] /= den[r];
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
            if (soft || divides()) along += row[j] * dm[j];
        }
        for (size_t j = 0; j < S; j++) {
            const double d = absolute ? dm[j] + along : dm[j] - along;
            const double w = soft ? (absolute ? fabs(scale) : scale) * row[j] * d : d / den[r];
            for (size_t n = 0; mask[j] && n < N; n++) {
                df[q + n] += w * g[at(K, b, j, h) + n];
                dg[at(K, b, j, h) + n] += w * f[q + n];
            }
        }
    }
    if (!soft) {
        naive_features_back(Q, f, df, s->g[Q], absolute);
        naive_features_back(K, g, dg, s->g[K], absolute);
    }
    let_go(was);
}
/* Fills in `exact` and `size`. */
static void expect(void)
{
    const size_t out = B * L * H * P, state = B * H * P * N;
    memset(&exact, 0, sizeof exact);
    memset(&size, 0, sizeof size);
    top_score = 0;
    den = doubles(B * H * L);
    lse = doubles(B * H * L);
    seen = (unsigned char *)hold(B * L * S);
    for (size_t z = 0; x.kind != MMIX_SSD && z < B * L * S; z++)
        seen[z] = (unsigned char)sees(z / (L * S), z / S % L, z % S);
    for (int k = 0; k < 2; k++) {
        side *to = k ? &size : &exact;
        to->dy = read_doubles(up);
        to->dlast = read_doubles(up_last);
        for (size_t z = 0; k && z < out; z++) to->dy[z] = fabs(to->dy[z]);
        for (size_t z = 0; k && z < state; z++) to->dlast[z] = fabs(to->dlast[z]);
        for (int i = 0; i < INPUTS; i++) {
            if (!in[i].t) continue;
            to->g[i] = doubles(in[i].n);
            to->x[i] = read_doubles(in[i].t);
            for (size_t z = 0; k && z < in[i].n; z++) to->x[i][z] = fabs(to->x[i][z]);
        }
        to->y = doubles(out);
        to->last = doubles(state);
        to->M = doubles(has_matrix() ? B * H * L * S : 0);
        if (x.kind != MMIX_SSD) naive_attention(to, k);
        for (int d = MMIX_FORWARD; x.kind == MMIX_SSD && d <= MMIX_REVERSE; d++) {
            const double weight = x.direction == MMIX_BOTH ? 0.5 : x.direction == d;
            if (weight > 0) naive_ssd(to, d, weight, k);
            if (weight > 0 && has_matrix()) naive_ssd_matrix(to, d, weight);
        }
    }
    grow = x.kind == MMIX_SOFTMAX ? 1 + top_score : 1;
}

/* ---- making a draw ---- */

static int small;                                /* a draw for ranks */
static size_t any_length(void)
{
    const size_t r = small ? 1 : any(1, 20);
    return r <= 11 ? any(1, 20) : r <= 17 ? any(21, 80) : any(81, 300);
}
static size_t any_width(void)
{
    const size_t r = small ? 1 : any(1, 10);
    return r <= 6 ? any(1, 16) : r <= 9 ? any(17, 40) : any(41, 72);
}
static size_t any_divisor(size_t n)
{
    size_t d = any(1, n);
    while (n % d) d--;
    return d;
}
/* A view (n, tokens, heads, width), or with width 0 (n, tokens, heads): the next features of `row` (B, tokens, ·), a
   projection that several share, or with NULL a part of something wider by one of its axes. NaN lies around it. */
static mmix_tensor *view(mmix_tensor *row, size_t *used, size_t n, size_t tokens, size_t heads, size_t width)
{
    const int ndim = width ? 4 : 3, axis = (int)any(0, (size_t)ndim), from = (int)any(0, 2);
    size_t shape[4], start = used ? *used : 0;
    mmix_tensor *t;
    shape[0] = n; shape[1] = tokens; shape[2] = heads; shape[3] = width;
    if (row) {
        *used += heads * most(width, 1);
        return mmix_reshape(m, mmix_slice(m, row, 2, start, *used - start), ndim, shape);
    }
    if (axis == ndim) return mmix_new(m, MMIX_DTYPE_REAL, ndim, shape);
    shape[axis] += 2;
    t = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, ndim, shape), (double)NAN);
    return mmix_slice(m, t, axis, (size_t)from, shape[axis] - 2);
}
/* Numbers in [low, high), none nearer to 0 than `gap`. */
static mmix_tensor *fill(mmix_tensor *t, double low, double high, double gap)
{
    const size_t was = n_held, n = mmix_count(t);
    real *r = reals(n);
    for (size_t i = 0; i < n; i++) {
        const double z = uniform(low, high);
        r[i] = (real)(fabs(z) < gap ? z < 0 ? z - gap : z + gap : z);
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
static void put_heads(int i, double low, double high)                /* a number a head, somewhere in a longer array */
{
    put(i, mmix_slice(m, mmix_fill(mmix_new1(m, H + 3), (double)NAN), 0, any(0, 3), H), 1, H, 1);
    fill(in[i].t, low, high, 0);
}
/* Runs of 1 to some tokens, three numbers that come again and again; a view (B, L) of something wider. */
static void any_packing(void)
{
    static const int32_t number[3] = { 7, -3, 0 };
    const size_t longest = pick(any(1, 4), any(1, L)), from = any(0, 2);
    size_t s[2], now = 0;
    mmix_tensor *all;
    s[0] = B; s[1] = L + 2;
    all = mmix_fill(mmix_new(m, MMIX_DTYPE_I32, 2, s), 99);
    x.seq_idx = mmix_slice(m, all, 1, from, L);
    run = (size_t *)hold(B * L * sizeof *run);
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0, left = any(1, longest); t < L; t++, left--) {
            run[b * L + t] = t ? run[b * L + t - 1] : 0;
            if (!left) {
                run[b * L + t]++;
                now += any(1, 2);
                left = any(1, longest);
            }
            mmix_data_i32(all)[b * s[1] + from + t] = number[now % 3];
        }
}
/* A grid of L = S tokens on 1 to 3 axes; windows of any size and shift, now and then Swin's. */
static void any_windows(void)
{
    const size_t axes = any(1, 3), longest = axes == 1 ? 60 : axes == 2 ? 14 : 7;
    L = 1;
    for (size_t a = 0; a < 3; a++) {
        x.grid[a] = a < axes ? any(1, longest) : any(0, 1);
        x.window[a] = a < axes ? any(1, least(x.grid[a], 9) + 1) : any(0, 1);
        x.shift[a] = a < axes ? any(0, x.window[a] - 1) : 0;
        L *= most(x.grid[a], 1);
    }
    if (one_in(4)) {
        size_t grid[3], window[3];
        memcpy(grid, x.grid, sizeof grid);
        memcpy(window, x.window, sizeof window);
        mmix_mixer_windows(&x, (int)axes, grid, window, (int)any(0, 1));
    }
    S = L;
    x.mask = (int)any(MMIX_MASK_NONE, MMIX_MASK_CAUSAL);
}
static void any_attention(int kind)
{
    const int soft = kind == MMIX_SOFTMAX;
    mmix_tensor *row = NULL, *other = NULL;
    size_t G, used = 2, used_other = 1, *used_kv = &used;
    do {
        memset(&x, 0, sizeof x);
        x.kind = kind;
        B = any(1, 3);
        G = any(1, 3);
        H = G * any(1, 3);
        N = any_width();
        P = any_width();
        L = S = any_length();
        if (soft && one_in(3)) any_windows();
        else {
            x.mask = (int)any(MMIX_MASK_NONE, soft ? MMIX_MASK_BAND : MMIX_MASK_CAUSAL);
            if (x.mask == MMIX_MASK_NONE && one_in(2)) S = any_length();
            if (x.mask != MMIX_MASK_NONE && soft && one_in(4)) S = L + any(0, 60);
            if (soft && !small && one_in(12)) {  /* more than one tile of keys */
                B = G = H = 1;
                N = any(1, 6);
                P = any(1, 6);
                S = any(513, 630);
                L = x.mask == MMIX_MASK_NONE && one_in(2) ? any(1, 40) : S - any(0, 3);
            }
        }
    } while (B * H * L * S > 400000 || B * H * L * S * (N + P) > 5000000);
    x.feature = (int)any(MMIX_FEATURE_SOFTMAX_BOTH, MMIX_FEATURE_RELU);
    if (x.mask && x.feature == MMIX_FEATURE_EFFICIENT) x.feature = MMIX_FEATURE_ELU1;
    x.normalise = (int)any(0, 2) - 1;
    x.eps = one_in(2) ? 0.01 : 0;
    x.prefix = any(0, S + 2);
    x.left = one_in(8) ? SIZE_MAX : any(0, pick(5, S));
    x.right = one_in(2) ? 0 : one_in(8) ? SIZE_MAX : any(0, pick(5, S));
    x.scale = one_in(3) ? 0 : one_in(5) ? -0.3 : uniform(0.1, 1);
    scale = x.scale != 0 ? x.scale : 1 / sqrt((double)N);
    eps = x.eps > 0 ? x.eps : 1e-6;
    if (S == L && !x.window[0] && (soft || x.mask) && one_in(3)) any_packing();
    if (one_in(2)) {
        row = other = mmix_fill(mmix_new3(m, B, L, 3 + H * N + (S == L ? G * (N + P) : 0)), (double)NAN);
        if (S != L) other = mmix_fill(mmix_new3(m, B, S, 2 + G * (N + P)), (double)NAN);
        if (S != L) used_kv = &used_other;
    }
    put(Q, view(row, &used, B, L, H, N), L, H, N);
    put(K, view(other, used_kv, B, S, G, N), S, G, N);
    put(V, view(other, used_kv, B, S, G, P), S, G, P);
    for (int i = Q; i <= K; i++) {
        const double top = !hard ? 2 : !soft ? 50 : i == Q ? 300 : 30;           /* scores to 10⁴ and beyond */
        fill(in[i].t, soft || hard ? -top : -1.5, top, soft ? 0 : 0.01);         /* away from relu's corner */
    }
    fill(in[V].t, hard ? -1000 : -1, hard ? 1000 : 1, 0);
    for (int i = Q; i <= V; i++) in[i].wants = row || i == V || !one_in(8);
}
static void any_ssd(void)
{
    static const size_t heads[6] = { 1, 2, 3, 4, 6, 8 };
    mmix_tensor *row = NULL;
    size_t G[3], used = 1;                       /* of C, B, x */
    do {
        B = any(1, 3);
        H = heads[any(0, 5)];
        N = any_width();
        P = any_width();
        L = S = any_length();
    } while (B * H * L * N * P > 2000000 || B * H * L * L * N > 8000000);
    memset(&x, 0, sizeof x);
    x.kind = MMIX_SSD;
    x.direction = (int)any(MMIX_FORWARD, MMIX_BOTH);
    x.dt_softplus = (int)any(0, 1);
    if (one_in(3)) { x.dt_low = 0.125; x.dt_high = 0.5; }
    if (one_in(3)) any_packing();
    for (int i = 0; i < 3; i++) G[i] = any_divisor(H);
    if (one_in(2)) row = mmix_fill(mmix_new3(m, B, L, 3 + (G[0] + G[1]) * N + G[2] * P + H), (double)NAN);
    put(V, view(row, &used, B, L, G[2], P), L, G[2], P);
    put(K, view(row, &used, B, L, G[1], N), L, G[1], N);
    put(Q, view(row, &used, B, L, G[0], N), L, G[0], N);
    put(DT, view(row, &used, B, L, H, 0), L, H, 1);
    for (int i = Q; i <= V; i++) fill(in[i].t, -1, 1, 0);
    if (x.dt_softplus) fill(in[DT].t, hard ? -30 : -3, hard ? 100 : 1, 0);
    else fill(in[DT].t, 0, hard ? 100 : 0.6, 0);
    put_heads(A, -2, -0.05);
    for (size_t h = 0; hard && h < H; h++) mmix_data(in[A].t)[h] = (real)-exp(uniform(log(1e-3), log(1000)));
    if (one_in(16)) mmix_data(in[A].t)[0] = 0;
    if (one_in(2)) put_heads(BIAS, 0, 0.3);
    if (one_in(3)) put_heads(D, -1, 1);
    else if (one_in(2)) {                        /* a number a channel */
        put(D, mmix_slice(m, mmix_fill(mmix_new2(m, H, P + 2), (double)NAN), 1, any(0, 2), P), 1, H, P);
        fill(in[D].t, -1, 1, 0);
    }
    if (x.direction != MMIX_BOTH && one_in(2)) {
        put(FIRST, view(NULL, NULL, B, H, P, N), H, P, N);
        fill(in[FIRST].t, -1, 1, 0);
    }
    with_last = x.direction != MMIX_BOTH && one_in(2);
    only_last = with_last && one_in(8);
    for (int i = 0; i < INPUTS; i++) in[i].wants = in[i].t && ((row && i <= DT) || i == V || !one_in(8));
    for (size_t z = 0; x.dt_high > 0 && z < B * L * H; z++) {        /* away from the corners of the clamp */
        const mmix_tensor *t = in[DT].t;
        real *dt = mmix_data(t) + z / (L * H) * mmix_stride(t, 0) + z / H % L * mmix_stride(t, 1) + z % H;
        const double u = (double)*dt + (in[BIAS].t ? (double)mmix_data(in[BIAS].t)[z % H] : 0);
        const double d = x.dt_softplus ? log1p(exp(u)) : u;
        if (fabs(d - x.dt_low) < 2e-3 || fabs(d - x.dt_high) < 2e-3) *dt += (real)0.02;
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
    static const char *const names[3] = { "softmax", "linear", "ssd" };
    memset(in, 0, sizeof in);
    run = NULL;
    hard = !small && one_in(8);
    with_last = only_last = 0;
    if (kind == MMIX_SSD) any_ssd();
    else any_attention(kind);
    x.q = in[Q].t; x.k = in[K].t; x.v = in[V].t;
    x.dt = in[DT].t; x.A = in[A].t; x.D = in[D].t; x.dt_bias = in[BIAS].t; x.initial_state = in[FIRST].t;
    up = fill(mmix_new4(m, B, L, H, P), only_last ? 0 : -1, only_last ? 0 : 1, 0);
    up_last = fill(mmix_new4(m, B, H, P, N), -1, 1, 0);
    about[0] = 0;
    tell("%s B %zu L %zu S %zu H %zu N %zu P %zu heads %zu %zu %zu%s, %s, %d threads; ", names[kind], B, L, S, H, N, P,
         in[Q].heads, in[K].heads, in[V].heads, hard ? " hard" : "", mmix_simd_name(m), mmix_threads(m));
    if (kind == MMIX_SSD)
        tell("direction %d softplus %d bias %d D %zu limits %d initial %d final %d only %d", x.direction, x.dt_softplus,
             x.dt_bias != NULL, in[D].n, x.dt_high > 0, x.initial_state != NULL, with_last, only_last);
    else tell("mask %d prefix %zu left %zu right %zu scale %g feature %d normalise %d eps %g", x.mask, x.prefix, x.left,
              x.right, x.scale, x.feature, x.normalise, x.eps);
    for (int a = 0; x.window[0] && a < 3; a++) tell(" axis %zu/%zu+%zu", x.grid[a], x.window[a], x.shift[a]);
    tell("%s; gradients of", x.seq_idx ? " packed" : "");
    for (int i = 0; i < INPUTS; i++)
        if (in[i].wants) {
            mmix_require_grad(in[i].t);
            tell(" %s", input_name[i]);
        }
    fine("making a draw");
}
