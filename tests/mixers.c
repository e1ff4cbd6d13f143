/* Properties of the token mixers on random shapes and options. Every face of a mixer (mmix_mix, its matrix, its steps, its
   gradients, the raw functions) is held against the definition, written here as plain loops in double that share no code
   with the library; rotary positions, layers in steps, scan orders and ranks follow. Prints a line for each failing check,
   how near each bound the run came, and a summary; exits 1 if anything failed.

       mixers [seed [first [count]]]     draws first … first + count - 1 of that seed

   A draw's numbers depend on (seed, draw) alone; the line of a failing check holds the command that repeats it.

   Errors are measured in units of EPS · size. The size of a result is the largest sum of absolute values that one of its
   numbers is made of: the same definition with every term positive. So a sum that happens to cancel asks nothing
   impossible, and one bound serves float and double. Softmax attention's size has a factor 1 + the largest score as well,
   since an error of EPS s in a score s is one of EPS s in its exponential. */
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <stdlib.h>

typedef mmix_real real;
static const double EPS = sizeof(real) == 4 ? 1.2e-7 : 2.3e-16;
static int passed, failed, skipped;

enum { MIX, GRADIENT, MATRIX, PRODUCT, LOOP, CHUNK, STEP, PACKED, WAYS, RAW, RAW_GRADIENT, DIFFERENCE, ROPE, LAYER, RANK, FACES };
/* worst: the largest error met, in the units of the bound */
static struct { const char *name; double bound, worst; } face[FACES] = {
    { "mmix_mix", 1e9, 0 }, { "gradient", 1e9, 0 }, { "mmix_mix_matrix", 1e9, 0 }, { "matrix times v", 1e9, 0 },
    { "mmix_ssd_reference", 1e9, 0 }, { "chunk", 1e9, 0 }, { "mmix_mix_step", 1e9, 0 }, { "packed", 1e9, 0 },
    { "directions", 1e9, 0 }, { "raw", 1e9, 0 }, { "raw gradient", 1e9, 0 }, { "differences", 1e9, 0 }, { "mmix_rope", 1e9, 0 },
    { "layers in steps", 1e9, 0 }, { "rank", 1e9, 0 }
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
static double uniform(double low, double high) { return low + (high - low) * ((double)(random_bits() >> 11) / 9007199254740992.0); }
static size_t any(size_t low, size_t high) { return low + (size_t)(random_bits() % (high - low + 1)); }
static int one_in(size_t n) { return any(1, n) == 1; }
static size_t pick(size_t a, size_t b) { return one_in(2) ? a : b; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* ---- checks ---- */

static char about[700];                          /* the draw in words */

static void check(int ok, const char *what, const char *detail, double got, double want)
{
    if (ok) { passed++; return; }
    if (failed++ < 100)
        printf("FAILED %s, %s: %.9g, expected %.9g; mixers %lu %lu 1: %s\n", what, detail, got, want, (unsigned long)seed,
               (unsigned long)draw, about);
}
#define OK(ok, what) check((ok) != 0, what, #ok, 0, 1)
static mmix_ctx *m;                              /* the draw's context */
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
/* The smallest numbers: below e^-80 of a decay the library drops them. */
static void judge(int f, const char *what, double error, double size, double got, double want)
{
    const double e = error / (EPS * size + 1e-25);
    if (!(e <= face[f].worst)) face[f].worst = e;
    check(e <= face[f].bound, face[f].name, what, got, want);
}
/* got[i] is want[i]; size[i] times grow is the size of each. */
static void compare(int f, const char *what, const double *got, const double *want, const double *size, double grow, size_t n)
{
    size_t worst = 0;
    double most = -1;
    for (size_t i = 0; i < n; i++) {
        const double e = fabs(got[i] - want[i]) / (EPS * grow * size[i] + 1e-25);
        if (!(e <= most)) { worst = i; most = e; }
        if (e - e != 0) break;                   /* NaN, infinity */
    }
    if (n) judge(f, what, fabs(got[worst] - want[worst]), grow * size[worst], got[worst], want[worst]);
}

/* ---- memory of a draw ---- */

static void *held[20000];
static size_t n_held;
static void *hold(size_t bytes)
{
    void *p = calloc(bytes ? bytes : 1, 1);
    if (!p || n_held == sizeof held / sizeof *held) { puts("out of memory"); exit(2); }
    return held[n_held++] = p;
}
static void let_go(size_t from) { while (n_held > from) free(held[--n_held]); }
static double *doubles(size_t n) { return (double *)hold(n * sizeof(double)); }
static real *reals(size_t n) { return (real *)hold(n * sizeof(real)); }
static real *read_reals(const mmix_tensor *t)
{
    real *r = reals(mmix_count(t));
    if (t) mmix_read(t, r);
    return r;
}
static double *read_doubles(const mmix_tensor *t)
{
    const real *r = read_reals(t);
    double *d = doubles(mmix_count(t));
    for (size_t i = 0; i < mmix_count(t); i++) d[i] = (double)r[i];
    return d;
}
static void compare_tensor(int f, const char *what, const mmix_tensor *t, const double *want, const double *size, double grow)
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
/* The numbers of a draw in double: values and gradients of the inputs, y (B, L, H, P) and the final state, what comes back
   for them, the matrix (B, H, L, S). `exact`: what they are; `size`: the same of absolute values. */
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
static double *den, *lse;                        /* (B, H, L): what rows of M are divided by; ln Σ e^s of softmax attention */
static double scale, eps, top_score;

/* Where the numbers of token t for head h of H begin: head h reads group h / (H / G). */
static size_t at(int i, size_t b, size_t t, size_t h) { return ((b * in[i].tokens + t) * in[i].heads + h / (H / in[i].heads)) * in[i].width; }

static size_t window_of(size_t c, size_t window, size_t shift)
{
    size_t w = 0, end = shift ? shift : window;
    for (; c >= end; end += window) w++;
    return w;
}
static int sees(size_t b, size_t i, size_t j)
{
    const size_t me = x.mask == MMIX_MASK_NONE ? i : i + S - L;
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

/* δ = clamp(softplus(dt + bias)) and its slope */
static double delta_of(const side *s, size_t b, size_t t, size_t h, double *slope)
{
    const double u = s->x[DT][at(DT, b, t, h)] + (in[BIAS].t ? s->x[BIAS][h] : 0);
    double d = x.dt_softplus ? u > 35 ? u : log1p(exp(u)) : u;
    *slope = x.dt_softplus ? 1 / (1 + exp(-u)) : 1;
    if (x.dt_high > 0 && (d < x.dt_low || d > x.dt_high)) {
        d = d < x.dt_low ? x.dt_low : x.dt_high;
        *slope = 0;
    }
    return d;
}
/* h_t = e^(δ A) h_(t-1) + δ x Bᵀ, y_t = h_t C + D x and the way back, one direction, its results times `weight`. In the way
   back two terms can cancel that no absolute value of an input makes positive: `absolute` adds them. */
static void naive_ssd(side *s, int reverse, double weight, int absolute)
{
    const size_t was = n_held, PN = P * N;
    double *states = doubles((L + 1) * PN), *dh = doubles(PN), *delta = doubles(L), *slope = doubles(L), *e = doubles(L);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            const double a = s->x[A][h], *first = in[FIRST].t ? s->x[FIRST] + (b * H + h) * PN : NULL;
            const size_t wide = in[D].t && in[D].n > H;
            for (size_t z = 0; z < PN; z++) states[z] = first ? first[z] : 0;
            for (size_t i = 0; i < L; i++) {
                const size_t t = reverse ? L - 1 - i : i, before = reverse ? t + 1 : t - 1;
                const double *C = s->x[Q] + at(Q, b, t, h), *Bt = s->x[K] + at(K, b, t, h), *v = s->x[V] + at(V, b, t, h);
                double *y = s->y + ((b * L + t) * H + h) * P, *now = states + (i + 1) * PN;
                delta[i] = delta_of(&exact, b, t, h, &slope[i]);
                e[i] = i && run && run[b * L + t] != run[b * L + before] ? 0 : exp(delta[i] * a);
                for (size_t p = 0; p < P; p++) {
                    for (size_t n = 0; n < N; n++) {
                        now[p * N + n] = e[i] * states[i * PN + p * N + n] + delta[i] * v[p] * Bt[n];
                        y[p] += weight * now[p * N + n] * C[n];
                    }
                    if (in[D].t) y[p] += weight * v[p] * s->x[D][wide ? h * P + p : h];
                }
            }
            for (size_t z = 0; z < PN; z++) {
                s->last[(b * H + h) * PN + z] = states[L * PN + z];
                dh[z] = with_last ? s->dlast[(b * H + h) * PN + z] : 0;
            }
            for (size_t i = L; i-- > 0;) {
                const size_t t = reverse ? L - 1 - i : i;
                const double *C = s->x[Q] + at(Q, b, t, h), *Bt = s->x[K] + at(K, b, t, h), *v = s->x[V] + at(V, b, t, h);
                const double *dy = s->dy + ((b * L + t) * H + h) * P, *now = states + (i + 1) * PN, *before = states + i * PN;
                double *dC = s->g[Q] + at(Q, b, t, h), *dB = s->g[K] + at(K, b, t, h), *dv = s->g[V] + at(V, b, t, h);
                double da = 0, dd = 0;
                for (size_t p = 0; p < P; p++) {
                    const double w = weight * dy[p];
                    for (size_t n = 0; n < N; n++) {
                        double *g = dh + p * N + n;
                        *g += w * C[n];
                        dC[n] += w * now[p * N + n];
                        dd += *g * v[p] * Bt[n];
                        dv[p] += *g * delta[i] * Bt[n];
                        dB[n] += *g * delta[i] * v[p];
                        *g *= e[i];
                        da += *g * before[p * N + n];
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
            for (size_t z = 0; first && z < PN; z++) s->g[FIRST][(b * H + h) * PN + z] += dh[z];
        }
    let_go(was);
}
/* The same recurrence as a matrix: C_t·B_j δ_j e^(sum of the a after j up to t), and D on the diagonal. */
static void naive_ssd_matrix(side *s, int reverse, double weight)
{
    double unused;
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < L; i++) {
                const size_t t = reverse ? L - 1 - i : i;
                double sum = 0;
                for (size_t k = i + 1; k-- > 0;) {
                    const size_t j = reverse ? L - 1 - k : k;
                    const double d = delta_of(&exact, b, j, h, &unused);
                    double dot = 0;
                    if (run && run[b * L + j] != run[b * L + t]) break;
                    for (size_t n = 0; n < N; n++) dot += s->x[Q][at(Q, b, t, h) + n] * s->x[K][at(K, b, j, h) + n];
                    s->M[((b * H + h) * L + t) * S + j] += weight * (dot * d * exp(sum) + (j == t && in[D].t ? s->x[D][h] : 0));
                    sum += d * s->x[A][h];
                }
            }
}

/* φ and ψ of linear attention, f of the shape of input i; softmax over the tokens for the keys of EFFICIENT */
static int over_tokens(int i) { return i == K && x.feature == MMIX_FEATURE_EFFICIENT; }
static void naive_features(int i, const double *from, double *f)
{
    const size_t G = in[i].heads, row = G * in[i].width, soft = x.feature == MMIX_FEATURE_SOFTMAX_BOTH || x.feature == MMIX_FEATURE_EFFICIENT;
    for (size_t z = 0; z < in[i].n; z++)
        f[z] = x.feature == MMIX_FEATURE_ELU1 ? from[z] > 0 ? from[z] + 1 : exp(from[z]) : from[z] > 0 ? from[z] : 0;
    for (size_t z = 0; soft && z < in[i].n; z++) {       /* the sum over all that share a token and head, or a feature */
        const size_t many = over_tokens(i) ? in[i].tokens : in[i].width, step = over_tokens(i) ? row : 1;
        const size_t start = over_tokens(i) ? z / (row * many) * (row * many) + z % row : z / many * many;
        double sum = 0;
        if (z != start) continue;                /* each sum once */
        double top = from[start];
        for (size_t k = 0; k < many; k++) top = fmax(top, from[start + k * step]);
        for (size_t k = 0; k < many; k++) sum += f[start + k * step] = exp(from[start + k * step] - top);
        for (size_t k = 0; k < many; k++) f[start + k * step] /= sum;
    }
}
static void naive_features_back(int i, const double *from, const double *f, const double *df, double *g, int absolute)
{
    const size_t row = in[i].heads * in[i].width, soft = x.feature == MMIX_FEATURE_SOFTMAX_BOTH || x.feature == MMIX_FEATURE_EFFICIENT;
    const size_t many = over_tokens(i) ? in[i].tokens : in[i].width, step = over_tokens(i) ? row : 1;
    for (size_t z = 0; z < in[i].n; z++) {
        const size_t start = over_tokens(i) ? z / (row * many) * (row * many) + z % row : z / many * many;
        double sum = 0;
        if (!soft) {
            g[z] += df[z] * (from[z] > 0 ? 1 : x.feature == MMIX_FEATURE_ELU1 ? exp(from[z]) : 0);
            continue;
        }
        for (size_t k = 0; k < many; k++) sum += f[start + k * step] * df[start + k * step];
        g[z] += f[z] * (absolute ? df[z] + sum : df[z] - sum);
    }
}
/* M and y = M v of softmax and linear attention, and the way back. With `absolute` the weights are those of `exact`. */
static void naive_attention(side *s, int absolute)
{
    const size_t was = n_held;
    const int soft = x.kind == MMIX_SOFTMAX, divide = !soft && (x.normalise ? x.normalise > 0 : x.feature >= MMIX_FEATURE_ELU1);
    double *f = s->x[Q], *g = s->x[K], *df = s->g[Q], *dg = s->g[K], *dm = doubles(S);
    if (!soft) {
        f = doubles(in[Q].n);
        g = doubles(in[K].n);
        df = doubles(in[Q].n);
        dg = doubles(in[K].n);
        naive_features(Q, exact.x[Q], f);
        naive_features(K, exact.x[K], g);
    }
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < L; i++) {
                const size_t r = (b * H + h) * L + i;
                const unsigned char *mask = seen + (b * L + i) * S;
                const double *q = f + at(Q, b, i, h), *dy = s->dy + ((b * L + i) * H + h) * P;
                double *row = s->M + r * S, *dq = df + at(Q, b, i, h), *y = s->y + ((b * L + i) * H + h) * P, top = -HUGE_VAL, sum = 0, along = 0;
                for (size_t j = 0; !absolute && j < S; j++) {
                    double size_of = 0;
                    if (!mask[j]) continue;
                    for (size_t n = 0; n < N; n++) {
                        const double z = (soft ? scale : 1) * q[n] * g[at(K, b, j, h) + n];
                        row[j] += z;
                        size_of += fabs(z);
                    }
                    top = fmax(top, row[j]);
                    if (soft) top_score = fmax(top_score, size_of);
                }
                for (size_t j = 0; !absolute && j < S; j++) if (mask[j]) sum += row[j] = soft ? exp(row[j] - top) : row[j];
                if (!absolute) {
                    den[r] = soft ? sum : divide ? sum + eps : 1;
                    lse[r] = top + log(den[r]);
                }
                for (size_t j = 0; j < S; j++) {
                    const double *v = s->x[V] + at(V, b, j, h);
                    if (!mask[j]) continue;
                    if (absolute) row[j] = exact.M[r * S + j];
                    else row[j] /= den[r];
                    dm[j] = 0;
                    for (size_t p = 0; p < P; p++) {
                        y[p] += row[j] * v[p];
                        dm[j] += dy[p] * v[p];
                        s->g[V][at(V, b, j, h) + p] += row[j] * dy[p];
                    }
                    along += row[j] * dm[j];
                }
                if (!soft && !divide) along = 0;
                for (size_t j = 0; j < S; j++) {
                    const double d = absolute ? dm[j] + along : dm[j] - along;
                    const double w = soft ? (absolute ? fabs(scale) : scale) * row[j] * d : d / den[r];
                    if (!mask[j]) continue;
                    for (size_t n = 0; n < N; n++) {
                        dq[n] += w * g[at(K, b, j, h) + n];
                        dg[at(K, b, j, h) + n] += w * q[n];
                    }
                }
            }
    if (!soft) {
        naive_features_back(Q, exact.x[Q], f, df, s->g[Q], absolute);
        naive_features_back(K, exact.x[K], g, dg, s->g[K], absolute);
    }
    let_go(was);
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
/* A view (n, tokens, heads, width), or with width 0 (n, tokens, heads), of something wider, NaN around it. All that is
   cut out of `row` (B, tokens, ·) lies side by side, as one projection gives it. */
static mmix_tensor *view(mmix_tensor *row, size_t *used, size_t n, size_t tokens, size_t heads, size_t width)
{
    const size_t how = any(0, 3), gap = any(1, 5), last = width ? width : heads;
    const int ndim = width ? 4 : 3;
    size_t shape[4], start;
    mmix_tensor *t;
    shape[0] = n; shape[1] = tokens; shape[2] = heads; shape[3] = width;
    if (row) {
        start = *used;
        *used += width ? heads * width : heads;
        return mmix_reshape(m, mmix_slice(m, row, 2, start, *used - start), ndim, shape);
    }
    if (how == 1) shape[ndim - 1] += gap;
    if (how == 2) shape[ndim - 2] += 2;
    if (how == 3) shape[0]++;
    t = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, ndim, shape), (double)NAN);
    return how == 1 ? mmix_slice(m, t, -1, gap / 2, last) : how == 2 ? mmix_slice(m, t, -2, 1, width ? heads : tokens)
        : how == 3 ? mmix_slice(m, t, 0, 1, n) : t;
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
static mmix_tensor *part_of_axis(size_t n, double low, double high)  /* (n), somewhere in a longer one */
{
    const size_t from = any(0, 3);
    return fill(mmix_slice(m, mmix_fill(mmix_new1(m, n + 3), (double)NAN), 0, from, n), low, high, 0);
}
static void put(int i, mmix_tensor *t, size_t tokens, size_t heads, size_t width)
{
    in[i].t = t;
    in[i].tokens = tokens;
    in[i].heads = heads;
    in[i].width = width;
    in[i].n = mmix_count(t);
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
        x.grid[a] = a < axes ? any(1, longest) : pick(0, 1);
        x.window[a] = a < axes ? any(1, least(x.grid[a], 9) + 1) : pick(0, 1);
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
    mmix_tensor *row = NULL, *other = NULL;
    size_t G, used = 2, used_other = 1;
    do {
        memset(&x, 0, sizeof x);
        x.kind = kind;
        B = any(1, 3);
        G = any(1, 3);
        H = G * any(1, 3);
        N = any_width();
        P = any_width();
        L = S = any_length();
        if (kind == MMIX_SOFTMAX && one_in(3)) any_windows();
        else {
            x.mask = (int)any(MMIX_MASK_NONE, kind == MMIX_SOFTMAX ? MMIX_MASK_BAND : MMIX_MASK_CAUSAL);
            if (x.mask == MMIX_MASK_NONE && one_in(2)) S = any_length();
            if (x.mask != MMIX_MASK_NONE && kind == MMIX_SOFTMAX && one_in(4)) S = L + any(0, 60);
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
    if (S == L && !x.window[0] && (kind == MMIX_SOFTMAX || x.mask) && one_in(3)) any_packing();
    if (one_in(2)) {
        other = row = mmix_fill(mmix_new3(m, B, L, 3 + H * N + (S == L ? G * (N + P) : 0)), (double)NAN);
        if (S != L) other = mmix_fill(mmix_new3(m, B, S, 2 + G * (N + P)), (double)NAN);
    }
    put(Q, view(row, &used, B, L, H, N), L, H, N);
    put(K, view(other, S == L ? &used : &used_other, B, S, G, N), S, G, N);
    put(V, view(other, S == L ? &used : &used_other, B, S, G, P), S, G, P);
    if (kind == MMIX_SOFTMAX) {
        fill(in[Q].t, hard ? -300 : -2, hard ? 300 : 2, 0);
        fill(in[K].t, hard ? -30 : -2, hard ? 30 : 2, 0);
    }
    else for (int i = Q; i <= K; i++) fill(in[i].t, hard ? -50 : -1.5, hard ? 50 : 2, 0.01);
    fill(in[V].t, hard ? -1000 : -1, hard ? 1000 : 1, 0);
    for (int i = Q; i <= V; i++) in[i].wants = row || i == V || !one_in(8);
    scale = x.scale != 0 ? x.scale : 1 / sqrt((double)N);
    eps = x.eps > 0 ? x.eps : 1e-6;
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
    for (int i = 0; i < 3; i++) G[i] = any_divisor(H);
    memset(&x, 0, sizeof x);
    x.kind = MMIX_SSD;
    x.direction = (int)any(MMIX_FORWARD, MMIX_BOTH);
    x.dt_softplus = (int)any(0, 1);
    if (one_in(3)) { x.dt_low = 0.125; x.dt_high = 0.5; }
    if (one_in(3)) any_packing();
    if (one_in(2)) row = mmix_fill(mmix_new3(m, B, L, 3 + (G[0] + G[1]) * N + G[2] * P + H), (double)NAN);
    put(V, view(row, &used, B, L, G[2], P), L, G[2], P);
    put(K, view(row, &used, B, L, G[1], N), L, G[1], N);
    put(Q, view(row, &used, B, L, G[0], N), L, G[0], N);
    put(DT, view(row, &used, B, L, H, 0), L, H, 1);
    put(A, part_of_axis(H, -2, -0.05), 1, H, 1);
    if (one_in(2)) put(BIAS, part_of_axis(H, 0, 0.3), 1, H, 1);
    for (int i = Q; i <= V; i++) fill(in[i].t, -1, 1, 0);
    if (x.dt_softplus) fill(in[DT].t, hard ? -30 : -3, hard ? 100 : 1, 0);
    else fill(in[DT].t, 0, hard ? 100 : 0.6, 0);
    for (size_t h = 0; hard && h < H; h++) mmix_data(in[A].t)[h] = (real)-exp(uniform(log(1e-3), log(1000)));
    if (one_in(16)) mmix_data(in[A].t)[0] = 0;
    if (one_in(3)) put(D, part_of_axis(H, -1, 1), 1, H, 1);
    else if (one_in(2)) {                        /* a number a channel */
        const size_t gap = any(0, 2);
        put(D, mmix_slice(m, mmix_fill(mmix_new2(m, H, P + gap), (double)NAN), 1, 0, P), 1, H, P);
        fill(in[D].t, -1, 1, 0);
    }
    if (x.direction != MMIX_BOTH && one_in(2)) {
        put(FIRST, view(NULL, NULL, B, H, P, N), H, P, N);
        fill(in[FIRST].t, -1, 1, 0);
    }
    with_last = x.direction != MMIX_BOTH && one_in(2);
    for (int i = 0; i < INPUTS; i++) in[i].wants = in[i].t && ((row && i <= DT) || i == V || !one_in(8));
    for (size_t z = 0; x.dt_high > 0 && z < B * L * H; z++) {       /* not on the corners of the clamp */
        real *dt = mmix_data(in[DT].t) + z / (L * H) * mmix_stride(in[DT].t, 0) + z / H % L * mmix_stride(in[DT].t, 1) + z % H;
        const double u = (double)*dt + (in[BIAS].t ? (double)mmix_data(in[BIAS].t)[z % H] : 0), d = x.dt_softplus ? log1p(exp(u)) : u;
        if (fabs(d - x.dt_low) < 2e-3 || fabs(d - x.dt_high) < 2e-3) *dt += (real)0.02;
    }
}

/* The names of all that was drawn. */
static void describe(void)
{
    static const char *const kind[3] = { "softmax", "linear", "ssd" }, *const mask[4] = { "none", "causal", "prefix", "band" };
    size_t n = (size_t)snprintf(about, sizeof about, "%s B %lu L %lu S %lu H %lu N %lu P %lu heads %lu %lu %lu %s%s threads %d, ", kind[x.kind],
                                (unsigned long)B, (unsigned long)L, (unsigned long)S, (unsigned long)H, (unsigned long)N, (unsigned long)P,
                                (unsigned long)in[Q].heads, (unsigned long)in[K].heads, (unsigned long)in[V].heads, hard ? "hard " : "",
                                mmix_simd_name(m), mmix_threads(m));
    if (x.kind == MMIX_SSD)
        n += (size_t)snprintf(about + n, sizeof about - n, "softplus %d bias %d D %lu limits %d direction %d initial %d final %d only %d",
                              x.dt_softplus, in[BIAS].t != NULL, (unsigned long)in[D].n, x.dt_high > 0, x.direction, in[FIRST].t != NULL,
                              with_last, only_last);
    else n += (size_t)snprintf(about + n, sizeof about - n, "mask %s prefix %lu left %lu right %lu scale %g feature %d normalise %d eps %g",
                               mask[x.mask], (unsigned long)x.prefix, (unsigned long)x.left, (unsigned long)x.right, x.scale, x.feature,
                               x.normalise, x.eps);
    for (int a = 0; x.window[0] && a < 3; a++)
        n += (size_t)snprintf(about + n, sizeof about - n, " axis %lu/%lu+%lu", (unsigned long)x.grid[a], (unsigned long)x.window[a],
                              (unsigned long)x.shift[a]);
    n += (size_t)snprintf(about + n, sizeof about - n, "%s wants", x.seq_idx ? " packed" : "");
    for (int i = 0; i < INPUTS; i++) if (in[i].wants) n += (size_t)snprintf(about + n, sizeof about - n, " %s", input_name[i]);
}
static void absolute(double *to, const double *from, size_t n) { for (size_t i = 0; i < n; i++) to[i] = fabs(from[i]); }
static void any_mixer(int kind)
{
    size_t s[4];
    memset(in, 0, sizeof in);
    run = NULL;
    hard = one_in(8);
    with_last = only_last = 0;
    if (kind == MMIX_SSD) any_ssd();
    else any_attention(kind);
    x.q = in[Q].t; x.k = in[K].t; x.v = in[V].t;
    x.dt = in[DT].t; x.A = in[A].t; x.D = in[D].t; x.dt_bias = in[BIAS].t; x.initial_state = in[FIRST].t;
    only_last = with_last && one_in(8);
    s[0] = B; s[1] = L; s[2] = H; s[3] = P;
    up = mmix_new(m, MMIX_DTYPE_REAL, 4, s);
    if (only_last) mmix_fill(up, 0);
    else fill(up, -1, 1, 0);
    s[1] = H; s[2] = P; s[3] = N;
    up_last = fill(mmix_new(m, MMIX_DTYPE_REAL, 4, s), -1, 1, 0);
    for (int i = 0; i < INPUTS; i++) if (in[i].wants) mmix_require_grad(in[i].t);
    describe();
    fine("making a draw");
}
/* Whether y is M x. */
static int has_matrix(void) { return !in[FIRST].t && mmix_ndim(in[D].t) < 2; }
/* Fills in `exact` and `size`. */
static void expect(void)
{
    const int soft = x.kind == MMIX_SOFTMAX, matrix = has_matrix();
    memset(&exact, 0, sizeof exact);
    memset(&size, 0, sizeof size);
    top_score = 0;
    exact.dy = read_doubles(up);
    exact.dlast = read_doubles(up_last);
    absolute(size.dy = doubles(B * L * H * P), exact.dy, B * L * H * P);
    absolute(size.dlast = doubles(B * H * P * N), exact.dlast, B * H * P * N);
    den = doubles(B * H * L);
    lse = doubles(B * H * L);
    seen = (unsigned char *)hold(B * L * S);
    for (size_t z = 0; x.kind != MMIX_SSD && z < B * L * S; z++) seen[z] = (unsigned char)sees(z / (L * S), z / S % L, z % S);
    for (int k = 0; k < 2; k++) {
        side *to = k ? &size : &exact;
        for (int i = 0; i < INPUTS; i++) {
            if (!in[i].t) continue;
            to->g[i] = doubles(in[i].n);
            to->x[i] = k ? doubles(in[i].n) : read_doubles(in[i].t);
            if (k && i != A) absolute(to->x[i], exact.x[i], in[i].n);
            else if (k) memcpy(to->x[i], exact.x[i], in[i].n * sizeof(double));
        }
        to->y = doubles(B * L * H * P);
        to->last = doubles(B * H * P * N);
        to->M = doubles(matrix ? B * H * L * S : 0);
        if (x.kind != MMIX_SSD) naive_attention(to, k);
        for (int d = MMIX_FORWARD; x.kind == MMIX_SSD && d <= MMIX_REVERSE; d++)
            if (x.direction == d || x.direction == MMIX_BOTH) {
                naive_ssd(to, d, x.direction == MMIX_BOTH ? 0.5 : 1, k);
                if (matrix) naive_ssd_matrix(to, d, x.direction == MMIX_BOTH ? 0.5 : 1);
            }
    }
    grow = soft ? 1 + top_score : 1;
}

/* ---- mmix_mix, its gradients, its matrix ---- */

static const size_t chunks[7] = { 0, 1, 2, 3, 7, 64, 1000 };

/* mmix_mix recorded, and the way back: y, the final state and all gradients. */
static void check_mix(const mmix_mixer *mixer, int f, int f_gradient)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmix_mixer z = *mixer;
    mmix_tensor *end = NULL, *out[2], *g[2];
    size_t n = 0;
    if (with_last) z.final_state = &end;
    mmix_record(m, 1);
    out[0] = mmix_mix(m, &z);
    g[0] = up;
    compare_tensor(f, "y", out[0], exact.y, size.y, grow);
    if (with_last) compare_tensor(f, "final state", end, exact.last, size.last, grow);
    if (!only_last) n++;
    if (with_last) { out[n] = end; g[n++] = up_last; }
    mmix_backward_from(m, out, g, n);
    mmix_record(m, 0);
    for (int i = 0; i < INPUTS; i++)
        if (in[i].wants) compare_tensor(f_gradient, input_name[i], mmix_grad(in[i].t), exact.g[i], size.g[i], grow);
    fine(face[f].name);
    mmix_rewind(m, mark);
}
static void check_faces(void)
{
    const mmix_mark mark = mmix_mark_here(m);
    const size_t was = n_held;
    mmix_mixer z = x;
    mmix_tensor *y, *M, *end = NULL;
    check_mix(&x, MIX, GRADIENT);
    if (x.kind == MMIX_SSD || (x.kind == MMIX_LINEAR && x.mask)) {
        z.chunk = chunks[any(1, 6)];
        check_mix(&z, CHUNK, GRADIENT);
    }
    z = x;
    if (x.kind == MMIX_SSD && x.direction != MMIX_BOTH) z.final_state = &end;
    y = mmix_mix(m, &z);                         /* not recorded, other paths: no tape, a step where L = 1 */
    compare_tensor(MIX, "y, not recorded", y, exact.y, size.y, grow);
    if (end) compare_tensor(MIX, "final state, not recorded", end, exact.last, size.last, grow);
    if (x.kind == MMIX_SSD) {
        if (x.direction == MMIX_BOTH) refused(!mmix_ssd_reference(m, &z), "mmix_ssd_reference of both directions");
        else {
            compare_tensor(LOOP, "y", mmix_ssd_reference(m, &z), exact.y, size.y, grow);
            compare_tensor(LOOP, "final state", end, exact.last, size.last, grow);
        }
    }
    M = mmix_mix_matrix(m, &x);
    if (!has_matrix()) refused(!M, "mmix_mix_matrix where y is not M x");
    else {
        const double *v = exact.x[V], *w;
        double *sum = doubles(B * L * H * P);
        compare_tensor(MATRIX, "M", M, exact.M, size.M, grow);
        w = read_doubles(M);
        for (size_t b = 0; M && b < B; b++)
            for (size_t h = 0; h < H; h++)
                for (size_t i = 0; i < L; i++)
                    for (size_t j = 0; j < S; j++)
                        for (size_t p = 0; p < P; p++)
                            sum[((b * L + i) * H + h) * P + p] += w[((b * H + h) * L + i) * S + j] * v[at(V, b, j, h) + p];
        compare_tensor(PRODUCT, "y", y, sum, size.y, grow);
    }
    fine("faces");
    let_go(was);
    mmix_rewind(m, mark);
}

/* ---- parts of a draw ---- */

/* The mixer of tokens from … from + n - 1, of all sequences or of b alone; without state and packing. */
static mmix_tensor *cut(mmix_tensor *t, size_t b, size_t from, size_t n)
{
    if (t && b < B) t = mmix_slice(m, t, 0, b, 1);
    return t ? mmix_slice(m, t, 1, from, n) : NULL;
}
static mmix_mixer part(size_t b, size_t from, size_t n)
{
    mmix_mixer z = x;
    z.q = cut(x.q, b, from, n);
    z.k = cut(x.k, b, from, n);
    z.v = cut(x.v, b, from, n);
    z.dt = cut(x.dt, b, from, n);
    z.seq_idx = NULL;
    z.initial_state = NULL;
    return z;
}

/* ---- steps ---- */

/* y of some tokens into its place of all (B, L, H, P). */
static void place(double *all, const mmix_tensor *y, size_t from)
{
    const size_t was = n_held, n = mmix_shape(y, 1), row = H * P;
    const double *d = read_doubles(y);
    for (size_t b = 0; y && b < B; b++) memcpy(all + (b * L + from) * row, d + b * n * row, n * row * sizeof *d);
    let_go(was);
}
/* Bytes that slots of softmax attention may hold: with a band twice `left` tokens, but at least those before a piece and
   the piece. */
static size_t most_bytes(size_t left, size_t longest)
{
    return B * in[K].heads * (N + P) * sizeof(real) * most(2 * left, left + longest);
}
/* Pieces of any length in slot 0, one token after another in slot 1; a copy of the state goes on by itself. */
static void check_steps(void)
{
    const size_t was = n_held, first = x.mask == MMIX_MASK_PREFIX && x.kind == MMIX_SOFTMAX ? most(x.prefix, 1) : 1;
    const int ssd = x.kind == MMIX_SSD;
    mmix_state *s, *copy = NULL;
    double *got[2], *again;
    size_t *lengths = (size_t *)hold(L * sizeof *lengths), pieces = 0, copied = 0, longest = 0, fork = any(0, L - 1), empty;
    mmix_tensor *y, *end = NULL;
    mmix_mixer z;
    if (ssd ? x.direction != MMIX_FORWARD || x.seq_idx : x.mask == MMIX_MASK_NONE || S != L || x.window[0] || x.seq_idx
        || (x.mask == MMIX_MASK_BAND && x.right) || first > L) {
        const mmix_mark mark = mmix_mark_here(m);
        s = mmix_state_create(m, 1);
        z = x;
        if (ssd || first <= 1 || x.seq_idx || x.window[0]) refused(!mmix_mix_step(m, &z, s, 0), "a mixer without steps");
        check(mmix_state_tokens(s, 0) == 0, "mmix_state_tokens", "after an error", (double)mmix_state_tokens(s, 0), 0);
        mmix_state_destroy(s);
        mmix_rewind(m, mark);
        return;
    }
    got[0] = doubles(B * L * H * P);
    got[1] = doubles(B * L * H * P);
    again = doubles(B * L * H * P);
    s = mmix_state_create(m, 3);
    empty = mmix_state_bytes(s);
    for (size_t from = 0, n; from < L; from += n) {
        const mmix_mark mark = mmix_mark_here(m);
        n = least(L - from, most(from ? 1 : first, one_in(2) ? any(1, 3) : one_in(2) ? any(1, 20) : any(1, L)));
        longest = most(longest, n);
        if (!copy && (from >= fork || from + n == L)) {
            copy = mmix_state_copy(s);
            copied = from;
            pieces = 0;
        }
        lengths[pieces++] = n;
        if (from && one_in(4)) {                 /* an error leaves the state as it was */
            const int wide = (int)any(0, 1);
            mmix_tensor **t = wide ? &z.v : &z.k;
            z = part(B, from, n);
            *t = mmix_fill(mmix_new4(m, B, n, mmix_shape(*t, 2), mmix_shape(*t, 3) + 1), 0.5);
            if (!wide) z.q = mmix_fill(mmix_new4(m, B, n, mmix_shape(z.q, 2), N + 1), 0.5);
            refused(!mmix_mix_step(m, &z, s, 0), "a step of another width");
            check(mmix_state_tokens(s, 0) == from, "mmix_state_tokens", "after an error", (double)mmix_state_tokens(s, 0), (double)from);
        }
        z = part(B, from, n);
        if (ssd) z.final_state = &end;
        if (!from) z.initial_state = x.initial_state;
        y = mmix_mix_step(m, &z, s, 0);
        place(got[0], y, from);
        if (from + n == L && ssd) compare_tensor(STEP, "final state", end, exact.last, size.last, grow);
        for (size_t t = from, k; t < from + n; t += k) {
            k = t ? 1 : first;
            z = part(B, t, k);
            if (!t) z.initial_state = x.initial_state;
            place(got[1], mmix_mix_step(m, &z, s, 1), t);
        }
        for (size_t slot = 0; slot < 3; slot++)
            check(mmix_state_tokens(s, slot) == (slot < 2 ? from + n : 0), "mmix_state_tokens", "tokens", (double)mmix_state_tokens(s, slot),
                  slot < 2 ? (double)(from + n) : 0);
        if (x.kind == MMIX_SOFTMAX && x.mask == MMIX_MASK_BAND && x.left < L)
            check(mmix_state_bytes(s) <= empty + 2 * most_bytes(x.left, longest), "mmix_state_bytes", "of a band",
                  (double)mmix_state_bytes(s), (double)(empty + 2 * most_bytes(x.left, longest)));
        mmix_rewind(m, mark);
        end = NULL;
    }
    for (int k = 0; k < 2; k++) compare(STEP, k ? "one by one" : "pieces", got[k], exact.y, size.y, grow, B * L * H * P);
    memcpy(again, got[0], B * L * H * P * sizeof *again);
    for (size_t i = 0, from = copied; i < pieces; from += lengths[i++]) {
        const mmix_mark mark = mmix_mark_here(m);
        z = part(B, from, lengths[i]);
        if (!from) z.initial_state = x.initial_state;
        place(again, mmix_mix_step(m, &z, copy, 0), from);
        mmix_rewind(m, mark);
    }
    check(!memcmp(again, got[0], B * L * H * P * sizeof *again), face[STEP].name, "the copy's bits are the original's", 0, 1);
    check(mmix_state_tokens(copy, 0) == L, "mmix_state_tokens", "of the copy", (double)mmix_state_tokens(copy, 0), (double)L);
    mmix_state_clear(copy);
    check(mmix_state_tokens(copy, 0) == 0 && mmix_state_bytes(copy) == empty, "mmix_state_clear", "bytes", (double)mmix_state_bytes(copy),
          (double)empty);
    z = x;
    compare_tensor(STEP, "whole, after mmix_state_clear", mmix_mix_step(m, &z, copy, 0), exact.y, size.y, grow);
    mmix_state_destroy(copy);
    mmix_state_destroy(s);
    fine("steps");
    let_go(was);
}
/* A long run in single tokens: the band's memory stays. */
static void check_long_run(void)
{
    mmix_state *s = mmix_state_create(m, 1);
    const size_t empty = mmix_state_bytes(s), tokens = 500;
    size_t reached = 0;
    memset(&x, 0, sizeof x);
    memset(in, 0, sizeof in);
    B = any(1, 2); L = S = 1; H = any(1, 3); N = any(1, 9); P = any(1, 9);
    x.kind = MMIX_SOFTMAX;
    x.mask = MMIX_MASK_BAND;
    x.left = any(0, 20);
    put(K, x.k = mmix_new4(m, B, tokens, 1, N), tokens, 1, N);
    put(V, x.v = mmix_new4(m, B, tokens, 1, P), tokens, 1, P);
    fill(x.k, -1, 1, 0);
    fill(x.v, -1, 1, 0);
    x.q = fill(mmix_new4(m, B, tokens, H, N), -1, 1, 0);
    snprintf(about, sizeof about, "long run, B %lu H %lu N %lu P %lu left %lu", (unsigned long)B, (unsigned long)H, (unsigned long)N,
             (unsigned long)P, (unsigned long)x.left);
    for (size_t t = 0; t < tokens; t++) {
        const mmix_mark mark = mmix_mark_here(m);
        mmix_mixer z = part(B, t, 1);
        mmix_mix_step(m, &z, s, 0);
        reached = most(reached, mmix_state_bytes(s));
        mmix_rewind(m, mark);
    }
    fine("long run");
    check(reached <= empty + most_bytes(x.left, 1), "mmix_state_bytes", "after a long run", (double)reached, (double)(empty + most_bytes(x.left, 1)));
    check(mmix_state_tokens(s, 0) == tokens, "mmix_state_tokens", "after a long run", (double)mmix_state_tokens(s, 0), (double)tokens);
    mmix_state_destroy(s);
}

/* ---- packed sequences ---- */

/* Results of a recorded mixer of one sequence: y, final state, gradients of q, k, v, dt and the initial state. */
typedef struct result { real *y, *last, *g[INPUTS]; } result;
static result run_one(mmix_mixer z, mmix_tensor *dy, mmix_tensor *dlast)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *out[2], *g[2], *end = NULL, *from[INPUTS] = { NULL };
    result r;
    memset(&r, 0, sizeof r);
    from[Q] = z.q; from[K] = z.k; from[V] = z.v; from[DT] = z.dt; from[FIRST] = z.initial_state;
    if (dlast) z.final_state = &end;
    mmix_record(m, 1);
    out[0] = mmix_mix(m, &z);
    r.y = read_reals(out[0]);
    out[1] = end;
    if (dlast) r.last = read_reals(end);
    g[0] = dy;
    g[1] = dlast;
    mmix_backward_from(m, out, g, dlast ? 2 : 1);
    mmix_record(m, 0);
    for (int i = 0; i < INPUTS; i++) if (from[i] && in[i].wants) r.g[i] = read_reals(mmix_grad(from[i]));
    mmix_rewind(m, mark);
    return r;
}
static void same_bits(const char *what, const real *got, const real *want, size_t n)
{
    size_t i = 0;
    for (; got && i < n; i++) if (memcmp(got + i, want + i, sizeof *got)) break;
    check(got && i == n, "packed, bits of", what, got && i < n ? (double)got[i] : 0, got && i < n ? (double)want[i] : 0);
}
static void same_numbers(const char *what, const real *got, const double *want, const double *size_of, size_t n)
{
    const size_t was = n_held;
    double *d = doubles(n);
    for (size_t i = 0; i < n; i++) d[i] = (double)got[i];
    compare(PACKED, what, d, want, size_of, grow, n);
    let_go(was);
}
/* Each sequence by itself, against the packed row it lies in: bit for bit with SSD and causal linear attention; softmax
   attention against what is expected (tiles are cut elsewhere). A prefix is one of the whole row. */
static void check_packed(void)
{
    const int back = x.kind == MMIX_SSD && x.direction == MMIX_REVERSE, soft = x.kind == MMIX_SOFTMAX;
    if (!x.seq_idx || (soft && x.mask == MMIX_MASK_PREFIX)) return;
    for (size_t b = 0; b < B; b++) {
        const mmix_mark mark = mmix_mark_here(m);
        const size_t was = n_held;
        mmix_tensor *last = with_last ? mmix_slice(m, up_last, 0, b, 1) : NULL, *first = x.initial_state ? mmix_slice(m, x.initial_state, 0, b, 1) : NULL;
        mmix_mixer z = part(b, 0, L);
        result all;
        memset(&all, 0, sizeof all);
        z.seq_idx = mmix_slice(m, x.seq_idx, 0, b, 1);
        z.initial_state = first;
        if (!soft) all = run_one(z, mmix_slice(m, up, 0, b, 1), last);
        for (size_t from = 0, n; from < L; from += n) {
            const size_t inner = n_held;
            result one;
            for (n = 1; from + n < L && run[b * L + from + n] == run[b * L + from]; n++) {}
            const int begins = back ? from + n == L : from == 0, ends = back ? from == 0 : from + n == L;
            z = part(b, from, n);
            z.initial_state = begins ? first : NULL;
            one = run_one(z, cut(up, b, from, n), ends ? last : NULL);
            if (soft) same_numbers("y", one.y, exact.y + (b * L + from) * H * P, size.y + (b * L + from) * H * P, n * H * P);
            else {
                const real *plain = read_reals(mmix_mix(m, &z));
                same_bits("y", one.y, all.y + from * H * P, n * H * P);
                /* not recorded one token alone is a decoding step, which sums in another order */
                if (n > 1) same_bits("y, not recorded", plain, all.y + from * H * P, n * H * P);
            }
            for (int i = 0; i <= DT; i++) {
                const size_t row = in[i].heads * in[i].width;
                if (!in[i].t || !in[i].wants) continue;
                if (soft) same_numbers(input_name[i], one.g[i], exact.g[i] + (b * L + from) * row, size.g[i] + (b * L + from) * row, n * row);
                else same_bits(input_name[i], one.g[i], all.g[i] + from * row, n * row);
            }
            if (one.last) same_bits("final state", one.last, all.last, H * P * N);
            if (one.g[FIRST]) same_bits("gradient of the initial state", one.g[FIRST], all.g[FIRST], H * P * N);
            let_go(inner);
        }
        fine("packed");
        let_go(was);
        mmix_rewind(m, mark);
    }
}

/* ---- directions ---- */

static mmix_tensor *flipped(const mmix_tensor *t)                    /* along axis 1, a copy */
{
    const size_t was = n_held, n = mmix_shape(t, 1), row = mmix_count(t) / n / mmix_shape(t, 0);
    mmix_tensor *y = mmix_new(m, MMIX_DTYPE_REAL, mmix_ndim(t), t->shape);
    const real *from = read_reals(t);
    for (size_t r = 0; y && r < mmix_shape(t, 0) * n; r++)
        memcpy(mmix_data(y) + (r / n * n + n - 1 - r % n) * row, from + r * row, row * sizeof *from);
    let_go(was);
    return y;
}
/* Reverse is forward of the flipped sequence, flipped back, to the bit; both is half of each. */
static void check_directions(void)
{
    const mmix_mark mark = mmix_mark_here(m);
    const size_t was = n_held, n = B * L * H * P;
    mmix_tensor *end = NULL, *end_f = NULL;
    mmix_mixer z = x;
    if (x.kind != MMIX_SSD || x.direction == MMIX_FORWARD) return;
    if (x.direction == MMIX_BOTH) {
        double *half = doubles(n);
        for (z.direction = MMIX_FORWARD; z.direction <= MMIX_REVERSE; z.direction++) {
            const double *y = read_doubles(mmix_mix(m, &z));
            for (size_t i = 0; i < n; i++) half[i] += y[i] / 2;
        }
        compare_tensor(WAYS, "both", mmix_mix(m, &x), half, size.y, 1);
    }
    else {
        real *a, *b;
        size_t s[2];
        s[0] = B; s[1] = L;
        z.final_state = &end;
        a = read_reals(mmix_mix(m, &z));
        z.final_state = &end_f;
        z.direction = MMIX_FORWARD;
        z.q = flipped(x.q);
        z.k = flipped(x.k);
        z.v = flipped(x.v);
        z.dt = flipped(x.dt);
        if (x.seq_idx) z.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, s);
        for (size_t i = 0; x.seq_idx && i < B * L; i++) mmix_data_i32(z.seq_idx)[i] = (int32_t)run[i / L * L + L - 1 - i % L];
        b = read_reals(flipped(mmix_mix(m, &z)));
        check(!memcmp(a, b, n * sizeof *a), face[WAYS].name, "reverse is forward of the flipped, flipped", 0, 1);
        check(!memcmp(read_reals(end), read_reals(end_f), B * H * P * N * sizeof *a), face[WAYS].name, "the same of the final state", 0, 1);
    }
    fine("directions");
    let_go(was);
    mmix_rewind(m, mark);
}

/* ---- the raw functions ---- */

enum { GUARD = 24 };
static const real MARK = (real)-12345.5;
/* n reals of NaN with a guard behind them. */
static real *guarded(size_t n)
{
    real *p = reals(n + GUARD);
    for (size_t i = 0; i < n + GUARD; i++) p[i] = i < n ? (real)NAN : MARK;
    return p;
}
static void unharmed(const char *what, const real *p, size_t n)
{
    size_t i = 0;
    while (i < GUARD && !memcmp(&p[n + i], &MARK, sizeof MARK)) i++;
    check(i == GUARD, what, "writes behind its end", (double)i, GUARD);
}
/* A tensor (B, tokens, heads, width) or (B, L, H) as a raw array. */
static mmix_heads heads_of(int i)
{
    const mmix_tensor *t = in[i].t;
    mmix_heads v;
    v.p = mmix_data(t);
    v.batch = (ptrdiff_t)mmix_stride(t, 0);
    v.token = (ptrdiff_t)mmix_stride(t, 1);
    v.head = (ptrdiff_t)mmix_stride(t, 2);
    v.share = H / in[i].heads;
    return v;
}
/* Room for (B, tokens, heads, width) with gaps between all rows, full of MARK. */
typedef struct room { mmix_heads v; real *p; size_t tokens, heads, width, n; } room;
static room any_room(size_t tokens, size_t heads, size_t width)
{
    room r;
    const size_t head = width + any(0, 3), token = head * heads + any(0, 5), batch = token * tokens + any(0, 9);
    r.n = B * batch + 3;
    r.p = reals(r.n);
    for (size_t i = 0; i < r.n; i++) r.p[i] = MARK;
    r.tokens = tokens; r.heads = heads; r.width = width;
    r.v.p = r.p + 2;
    r.v.batch = (ptrdiff_t)batch;
    r.v.token = (ptrdiff_t)token;
    r.v.head = (ptrdiff_t)head;
    r.v.share = H / heads;
    return r;
}
static room room_like(int i) { return any_room(in[i].tokens, in[i].heads, in[i].width); }
static real *cell(const room *r, size_t b, size_t t, size_t h)
{
    return r->v.p + (ptrdiff_t)b * r->v.batch + (ptrdiff_t)t * r->v.token + (ptrdiff_t)h * r->v.head;
}
static void room_fill(room *r, double value)
{
    for (size_t z = 0; z < B * r->tokens * r->heads; z++)
        for (size_t w = 0; w < r->width; w++) cell(r, z / r->heads / r->tokens, z / r->heads % r->tokens, z % r->heads)[w] = (real)value;
}
static void room_put(room *r, const mmix_tensor *t)                  /* t's numbers */
{
    const real *from = read_reals(t);
    for (size_t z = 0; z < B * r->tokens * r->heads; z++)
        memcpy(cell(r, z / r->heads / r->tokens, z / r->heads % r->tokens, z % r->heads), from + z * r->width, r->width * sizeof *from);
}
/* What is in the room against what is expected; and nothing is written beside it. The room is full of MARK again. */
static void room_check(int f, const char *what, const room *r, const double *want, const double *size_of)
{
    const size_t n = B * r->tokens * r->heads;
    double *got = doubles(n * r->width);
    size_t kept = 0;
    for (size_t z = 0; z < n; z++) {
        real *from = cell(r, z / r->heads / r->tokens, z / r->heads % r->tokens, z % r->heads);
        for (size_t w = 0; w < r->width; w++) {
            got[z * r->width + w] = (double)from[w];
            from[w] = MARK;
        }
    }
    for (size_t i = 0; i < r->n; i++) kept += !memcmp(&r->p[i], &MARK, sizeof MARK);
    check(kept == r->n, face[f].name, "writes beside an output", (double)kept, (double)r->n);
    compare(f, what, got, want, size_of, grow, n * r->width);
}
static void numbers_check(int f, const char *what, const real *got, const double *want, const double *size_of, size_t n)
{
    double *d = doubles(n);
    for (size_t i = 0; i < n; i++) d[i] = (double)got[i];
    compare(f, what, d, want, size_of, grow, n);
}
static double *plus(const double *x, double a, size_t n)
{
    double *y = doubles(n);
    for (size_t i = 0; i < n; i++) y[i] = x[i] + a;
    return y;
}
/* Rooms of y and dy, and of dq, dk, dv with NaN or, to add to, 0.5 in them; some gradients are left out. */
typedef struct attention_rooms { room y, dy, d[3]; int add[3], left_out[3]; } attention_rooms;
static void attention_begin(attention_rooms *r, mmix_heads *y, mmix_heads *dy, mmix_heads *dq, mmix_heads *dk, mmix_heads *dv)
{
    mmix_heads *d[3];
    d[0] = dq; d[1] = dk; d[2] = dv;
    r->y = any_room(L, H, P);
    r->dy = any_room(L, H, P);
    room_fill(&r->y, NAN);
    room_put(&r->dy, up);
    *y = r->y.v;
    *dy = r->dy.v;
    for (int i = Q; i <= V; i++) {
        r->d[i] = room_like(i);
        r->add[i] = one_in(3);
        r->left_out[i] = one_in(6);
        room_fill(&r->d[i], r->add[i] ? 0.5 : NAN);
        *d[i] = r->d[i].v;
        if (r->left_out[i]) d[i]->p = NULL;
    }
}
static void attention_end(attention_rooms *r)
{
    room_check(RAW, "y", &r->y, exact.y, size.y);
    for (int i = Q; i <= V; i++)
        if (!r->left_out[i])
            room_check(RAW_GRADIENT, input_name[i], &r->d[i], r->add[i] ? plus(exact.g[i], 0.5, in[i].n) : exact.g[i],
                       r->add[i] ? plus(size.g[i], 0.5, in[i].n) : size.g[i]);
}
static void check_raw_softmax(void)
{
    attention_rooms rooms;
    mmix_raw_softmax r;
    real *scratch;
    double *sum;
    size_t n;
    memset(&r, 0, sizeof r);
    r.B = B; r.L = L; r.S = S; r.H = H; r.N = N; r.P = P;
    r.q = heads_of(Q); r.k = heads_of(K); r.v = heads_of(V);
    r.scale = scale;
    r.mask = x.mask;
    r.prefix = x.prefix; r.left = x.left; r.right = x.right;
    for (int a = 0; a < 3; a++) {
        r.grid[a] = most(x.grid[a], 1);
        r.window[a] = x.window[0] ? most(x.window[a], 1) : 0;
        r.shift[a] = x.shift[a];
    }
    r.seq_idx = mmix_data_i32(x.seq_idx);
    r.seq_batch = (ptrdiff_t)mmix_stride(x.seq_idx, 0);
    attention_begin(&rooms, &r.y, &r.dy, &r.dq, &r.dk, &r.dv);
    r.add_q = rooms.add[Q]; r.add_k = rooms.add[K]; r.add_v = rooms.add[V];
    scratch = guarded(n = mmix_raw_softmax_scratch(&r, 0));
    if (one_in(4)) {                             /* without what a backward would read */
        mmix_raw_softmax_forward(&r, scratch);
        room_check(RAW, "y alone", &rooms.y, exact.y, size.y);
    }
    r.top = guarded(B * H * L);
    r.over = guarded(B * H * L);
    mmix_raw_softmax_forward(&r, scratch);
    unharmed("mmix_raw_softmax_forward", scratch, n);
    unharmed("top", r.top, B * H * L);
    unharmed("over", r.over, B * H * L);
    sum = doubles(B * H * L);
    for (size_t i = 0; i < B * H * L; i++) sum[i] = (double)r.top[i] - log((double)r.over[i]);
    compare(RAW, "ln of the sum of e^score", sum, lse, plus(doubles(B * H * L), 1, B * H * L), grow, B * H * L);
    scratch = guarded(n = mmix_raw_softmax_scratch(&r, 1));
    mmix_raw_softmax_backward(&r, scratch);
    unharmed("mmix_raw_softmax_backward", scratch, n);
    attention_end(&rooms);
}
static void check_raw_linear(void)
{
    const int divide = x.normalise ? x.normalise > 0 : x.feature >= MMIX_FEATURE_ELU1;
    if (x.mask == MMIX_MASK_NONE) {
        attention_rooms rooms;
        mmix_raw_linear r;
        real *scratch;
        size_t n;
        memset(&r, 0, sizeof r);
        r.B = B; r.L = L; r.S = S; r.H = H; r.N = N; r.P = P;
        r.q = heads_of(Q); r.k = heads_of(K); r.v = heads_of(V);
        r.feature = x.feature;
        r.normalise = divide;
        r.eps = eps;
        attention_begin(&rooms, &r.y, &r.dy, &r.dq, &r.dk, &r.dv);
        r.add_q = rooms.add[Q]; r.add_k = rooms.add[K]; r.add_v = rooms.add[V];
        scratch = guarded(n = mmix_raw_linear_scratch(&r));
        mmix_raw_linear_forward(&r, scratch);
        unharmed("mmix_raw_linear_forward", scratch, n);
        for (size_t i = 0; i < n; i++) scratch[i] = (real)NAN;
        mmix_raw_linear_backward(&r, scratch);
        unharmed("mmix_raw_linear_backward", scratch, n);
        attention_end(&rooms);
    }
    else {                                       /* features, then SSD without decay; a one beside v gives the row sums */
        const mmix_tensor *v = x.v;
        const size_t G = in[V].heads;
        room f = room_like(Q), g = room_like(K), one = any_room(L, G, P + 1), y = any_room(L, H, P + 1);
        mmix_raw_ssd r;
        real *scratch, unit = 1, *got = reals(B * L * H * P);
        size_t n;
        for (int i = Q; i <= K; i++) {
            const room *to = i == Q ? &f : &g;
            const mmix_heads from = heads_of(i);
            for (size_t z = 0; z < B * in[i].heads; z++)
                mmix_raw_feature(x.feature, L, N, from.p + (ptrdiff_t)(z / in[i].heads) * from.batch + (ptrdiff_t)(z % in[i].heads) * from.head, from.token,
                                 cell(to, z / in[i].heads, 0, z % in[i].heads), to->v.token);
        }
        room_fill(&one, 1);
        for (size_t z = 0; z < B * L * G; z++)
            memcpy(cell(&one, z / G / L, z / G % L, z % G), mmix_data(v) + z / G / L * mmix_stride(v, 0) + z / G % L * mmix_stride(v, 1)
                   + z % G * mmix_stride(v, 2), P * sizeof *got);
        memset(&r, 0, sizeof r);
        r.B = B; r.L = L; r.H = H; r.N = N; r.P = P + 1;
        r.x = one.v; r.b = g.v; r.c = f.v; r.y = y.v;
        r.dt.p = &unit;                          /* one number for all, at steps of 0 */
        r.dt.share = 1;
        r.A = reals(H);
        r.chunk = chunks[any(0, 6)];
        r.seq_idx = mmix_data_i32(x.seq_idx);
        r.seq_batch = (ptrdiff_t)mmix_stride(x.seq_idx, 0);
        scratch = guarded(n = mmix_raw_ssd_scratch(&r, 0));
        mmix_raw_ssd_forward(&r, scratch);
        unharmed("mmix_raw_ssd_forward", scratch, n);
        for (size_t z = 0; z < B * L * H; z++) {
            const real *row = cell(&y, z / H / L, z / H % L, z % H);
            for (size_t p = 0; p < P; p++) got[z * P + p] = divide ? row[p] / (row[P] + (real)eps) : row[p];
        }
        numbers_check(RAW, "y of features and SSD", got, exact.y, size.y, B * L * H * P);
    }
}
static void check_raw_ssd(void)
{
    const int reverse = x.direction == MMIX_REVERSE;
    const size_t PN = B * H * P * N;
    real *scratch, *state, *of_head[3];
    room y = any_room(L, H, P), dy = any_room(L, H, P), dx = room_like(V), db = room_like(K), dc = room_like(Q), ddt = room_like(DT);
    mmix_raw_ssd r, step;
    size_t n, states;
    if (x.direction == MMIX_BOTH) return;
    memset(&r, 0, sizeof r);
    r.B = B; r.L = L; r.H = H; r.N = N; r.P = P;
    r.x = heads_of(V); r.dt = heads_of(DT); r.b = heads_of(K); r.c = heads_of(Q); r.y = y.v;
    r.dt.head = 1;
    r.A = mmix_data(x.A);
    if (x.D) r.D = read_reals(x.D);
    r.D_width = mmix_ndim(x.D) == 2 ? P : any(0, 1);
    r.dt_bias = mmix_data(x.dt_bias);
    r.dt_softplus = x.dt_softplus;
    r.dt_low = x.dt_low; r.dt_high = x.dt_high;
    r.reverse = reverse;
    r.chunk = chunks[any(0, 6)];
    if (x.initial_state) r.initial_state = read_reals(x.initial_state);
    if (with_last || one_in(2)) r.final_state = guarded(PN);
    r.seq_idx = mmix_data_i32(x.seq_idx);
    r.seq_batch = (ptrdiff_t)mmix_stride(x.seq_idx, 0);
    states = mmix_raw_ssd_states(&r);
    if (states) r.states = guarded(states);
    room_fill(&y, NAN);
    scratch = guarded(n = mmix_raw_ssd_scratch(&r, 0));
    mmix_raw_ssd_forward(&r, scratch);
    unharmed("mmix_raw_ssd_forward", scratch, n);
    if (states) unharmed("states", r.states, states);
    room_check(RAW, "y", &y, exact.y, size.y);
    if (r.final_state) {
        unharmed("final_state", r.final_state, PN);
        numbers_check(RAW, "final state", r.final_state, exact.last, size.last, PN);
    }
    /* the way back */
    room_put(&dy, up);
    r.dy = dy.v; r.db = db.v; r.dc = dc.v;
    if (!one_in(6)) r.dx = dx.v;
    if (!one_in(6)) r.ddt = ddt.v;
    if (!one_in(6)) r.dA = guarded(H);
    if (x.D && !one_in(6)) r.dD = guarded(in[D].n);
    if (x.dt_bias && !one_in(6)) r.ddt_bias = guarded(H);
    if (x.initial_state && !one_in(6)) r.dinitial = guarded(PN);
    if (with_last) r.dfinal = mmix_data(up_last);
    scratch = guarded(n = mmix_raw_ssd_scratch(&r, 1));
    mmix_raw_ssd_backward(&r, scratch);
    unharmed("mmix_raw_ssd_backward", scratch, n);
    room_check(RAW_GRADIENT, "C", &dc, exact.g[Q], size.g[Q]);
    room_check(RAW_GRADIENT, "B", &db, exact.g[K], size.g[K]);
    if (r.dx.p) room_check(RAW_GRADIENT, "x", &dx, exact.g[V], size.g[V]);
    if (r.ddt.p) room_check(RAW_GRADIENT, "dt", &ddt, exact.g[DT], size.g[DT]);
    of_head[0] = r.dA; of_head[1] = r.dD; of_head[2] = r.ddt_bias;
    for (int i = A; i <= BIAS; i++)
        if (of_head[i - A]) {
            numbers_check(RAW_GRADIENT, input_name[i], of_head[i - A], exact.g[i], size.g[i], in[i].n);
            unharmed(input_name[i], of_head[i - A], in[i].n);
        }
    if (r.dinitial) {
        numbers_check(RAW_GRADIENT, "initial state", r.dinitial, exact.g[FIRST], size.g[FIRST], PN);
        unharmed("dinitial", r.dinitial, PN);
    }
    /* the state in place: of the whole, then, if nothing is packed, of single tokens */
    step = r;
    step.states = NULL;
    state = guarded(PN);
    step.final_state = state;
    if (x.initial_state) {
        mmix_read(x.initial_state, state);
        step.initial_state = state;
    }
    scratch = guarded(n = mmix_raw_ssd_scratch(&step, 0));
    mmix_raw_ssd_forward(&step, scratch);
    room_check(RAW, "y, state in place", &y, exact.y, size.y);
    numbers_check(RAW, "state in place", state, exact.last, size.last, PN);
    if (x.seq_idx) return;
    if (x.initial_state) mmix_read(x.initial_state, state);
    step.L = 1;
    scratch = guarded(n = mmix_raw_ssd_scratch(&step, 0));
    for (size_t i = 0; i < L; i++) {
        const ptrdiff_t t = (ptrdiff_t)(reverse ? L - 1 - i : i);
        mmix_raw_ssd one = step;
        one.x.p += t * one.x.token;
        one.dt.p += t * one.dt.token;
        one.b.p += t * one.b.token;
        one.c.p += t * one.c.token;
        one.y.p += t * one.y.token;
        mmix_raw_ssd_forward(&one, scratch);
        step.initial_state = state;
    }
    unharmed("a step", scratch, n);
    unharmed("the state of steps", state, PN);
    room_check(RAW, "y of steps", &y, exact.y, size.y);
    numbers_check(RAW, "state of steps", state, exact.last, size.last, PN);
}
static void check_raw(void)
{
    const size_t was = n_held;
    if (x.kind == MMIX_SOFTMAX) check_raw_softmax();
    else if (x.kind == MMIX_LINEAR) check_raw_linear();
    else check_raw_ssd();
    let_go(was);
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
        for (size_t k = 0; r && k < in[i].n; k++) r[k] = (real)(exact.x[i][k] + h * dir[i][k]);
        if (r) mmix_write(in[i].t, r);
    }
    if (with_last) z.final_state = &end;
    y = read_doubles(mmix_mix(m, &z));
    last = read_doubles(end);
    for (size_t i = 0; i < B * L * H * P; i++) sum += exact.dy[i] * y[i];
    for (size_t i = 0; with_last && i < B * H * P * N; i++) sum += exact.dlast[i] * last[i];
    let_go(was);
    mmix_rewind(m, mark);
    return sum;
}
/* The derivative along a random direction of all inputs, by the five-point rule: what the library's forward says of the
   gradients. Only in double, and not where numbers are extreme. */
static void check_differences(void)
{
    const size_t was = n_held;
    const double h = 1e-4;
    double *dir[INPUTS] = { NULL }, got, want = 0, size_of = 0;
    if (sizeof(real) == 4) { skipped++; return; }
    if (hard) return;
    for (int i = 0; i < INPUTS; i++) {
        if (!in[i].t) continue;
        dir[i] = doubles(in[i].n);
        for (size_t k = 0; k < in[i].n; k++) {
            dir[i][k] = uniform(-1, 1);
            want += dir[i][k] * exact.g[i][k];
            size_of += fabs(dir[i][k]) * size.g[i][k];
        }
    }
    got = (8 * (loss_at(dir, h) - loss_at(dir, -h)) - (loss_at(dir, 2 * h) - loss_at(dir, -2 * h))) / (12 * h);
    loss_at(dir, 0);                             /* the inputs are what they were */
    judge(DIFFERENCE, "derivative", fabs(got - want), grow * size_of, got, want);
    fine("differences");
    let_go(was);
}

/* ---- rotary positions ---- */

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
static void check_rope(void)
{
    const int three = one_in(2), each = one_in(2);
    const size_t half = any(1, 20), n = 2 * half + (one_in(2) ? any(1, 5) : 0), tokens = any(1, 40), heads = any(1, 3), limit = pick(300, 100000);
    const size_t moved = any(1, limit);
    size_t s[3], one[1] = { 4 }, count;
    int ndim = 0;
    mmix_rope_options o, other;
    mmix_tensor *q, *pos, *y, *z, *g;
    double *a, *want, *size_of, *b, theta, turns;
    int32_t *p;
    memset(&o, 0, sizeof o);
    B = any(1, 3);
    o.dim = n == 2 * half && one_in(2) ? 0 : 2 * half;
    o.theta = one_in(3) ? 0 : pick(100, 1000000);
    o.interleaved = (int)any(0, 1);
    if (three) {
        o.sections[0] = any(1, half);
        o.sections[1] = any(0, half - o.sections[0]);
        o.sections[2] = half - o.sections[0] - o.sections[1];
        s[ndim++] = 3;
    }
    if (each) s[ndim++] = B;
    s[ndim++] = tokens;
    snprintf(about, sizeof about, "rope B %lu L %lu H %lu N %lu dim %lu theta %g interleaved %d sections %lu %lu %lu positions to %lu, %s",
             (unsigned long)B, (unsigned long)tokens, (unsigned long)heads, (unsigned long)n, (unsigned long)o.dim, o.theta, o.interleaved,
             (unsigned long)o.sections[0], (unsigned long)o.sections[1], (unsigned long)o.sections[2], (unsigned long)limit,
             each ? "each row's own" : "one row");
    q = mmix_require_grad(fill(view(NULL, NULL, B, tokens, heads, n), -2, 2, 0));
    pos = mmix_new(m, MMIX_DTYPE_I32, ndim, s);
    p = mmix_data_i32(pos);
    for (size_t i = 0; i < mmix_count(pos); i++) p[i] = (int32_t)any(0, 2 * limit) - (int32_t)limit;
    count = mmix_count(q);
    a = read_doubles(q);
    want = doubles(count);
    size_of = doubles(count);
    theta = o.theta > 0 ? o.theta : 10000;
    turns = 1 + (double)limit * 2.3e-16 / EPS;   /* angles are double: what a large one's rounding is in EPS */
    for (size_t z0 = 0; z0 < count; z0 += n) {
        const size_t r = z0 / n / heads, bt = each ? r : r % tokens, rows = each ? B * tokens : tokens;
        for (size_t i = 0; i < n; i++) { want[z0 + i] = a[z0 + i]; size_of[z0 + i] = fabs(a[z0 + i]); }
        for (size_t i = 0; i < half; i++) {
            const size_t axis = !three || i < o.sections[0] ? 0 : i < o.sections[0] + o.sections[1] ? 1 : 2,
                u = z0 + (o.interleaved ? 2 * i : i), v = z0 + (o.interleaved ? 2 * i + 1 : i + half);
            const double angle = p[axis * rows + bt] * pow(theta, -2.0 * (double)i / (double)(2 * half));
            want[u] = a[u] * cos(angle) - a[v] * sin(angle);
            want[v] = a[u] * sin(angle) + a[v] * cos(angle);
            size_of[u] = size_of[v] = fabs(a[u]) + fabs(a[v]);
        }
    }
    mmix_record(m, 1);
    y = mmix_rope(m, q, pos, &o);
    compare_tensor(ROPE, "y", y, want, size_of, turns);
    b = read_doubles(y);
    for (size_t r = 0; r < count; r += n) {
        const double from = sqrt(dot(a + r, a + r, n)), to = sqrt(dot(b + r, b + r, n));
        judge(ROPE, "length", fabs(to - from), from, to, from);
    }
    g = fill(mmix_new4(m, B, tokens, heads, n), -1, 1, 0);
    mmix_backward_from(m, &y, &g, 1);
    mmix_record(m, 0);
    z = mmix_grad(q);
    for (size_t i = 0; i < mmix_count(pos); i++) p[i] = -p[i];
    compare_tensor(ROPE, "gradient is the turn back", z, read_doubles(mmix_rope(m, g, pos, &o)), plus(doubles(count), 2, count), 1);
    for (size_t i = 0; i < mmix_count(pos); i++) p[i] = -p[i];
    other = o;                                   /* pairs side by side, or half a head apart: the same but for the order */
    other.interleaved = !o.interleaved;
    y = mmix_new4(m, B, tokens, heads, n);
    {
        real *to = mmix_data(y);
        for (size_t i = 0; i < count; i++) {
            const size_t f = i % n, pair = o.interleaved ? f / 2 + f % 2 * half : f < half ? 2 * f : 2 * (f - half) + 1;
            to[i - f + (f < 2 * half ? pair : f)] = (real)a[i];
        }
        b = read_doubles(mmix_rope(m, y, pos, &other));
        for (size_t i = 0; i < count; i++) {
            const size_t f = i % n, pair = o.interleaved ? f / 2 + f % 2 * half : f < half ? 2 * f : 2 * (f - half) + 1;
            want[i] = b[i - f + (f < 2 * half ? pair : f)];
        }
    }
    compare_tensor(ROPE, "the other order of features", mmix_rope(m, q, pos, &o), want, size_of, 1);
    /* four tokens, a b a b: scores of the two pairs are equal where their distances are; equal positions are one axis */
    y = mmix_new4(m, 1, 4, 1, n);
    for (size_t i = 0; i < 4 * n; i++) mmix_data(y)[i] = (real)(i < 2 * n ? uniform(-1, 1) : (double)mmix_data(y)[i - 2 * n]);
    s[0] = 3; s[1] = 4;
    pos = mmix_new(m, MMIX_DTYPE_I32, three ? 2 : 1, three ? s : one);
    for (size_t i = 0; i < mmix_count(pos); i++)
        mmix_data_i32(pos)[i] = i % 4 < 2 ? (int32_t)any(0, limit) : mmix_data_i32(pos)[i - 2] + (int32_t)(moved >> i / 4);
    b = read_doubles(mmix_rope(m, y, pos, &o));
    judge(ROPE, "scores of moved tokens", fabs(dot(b, b + n, n) - dot(b + 2 * n, b + 3 * n, n)),
          sqrt(dot(b, b, n) * dot(b + n, b + n, n)) * turns, dot(b, b + n, n), dot(b + 2 * n, b + 3 * n, n));
    if (three) {
        for (size_t i = 4; i < 12; i++) mmix_data_i32(pos)[i] = mmix_data_i32(pos)[i - 4];
        other = o;
        memset(other.sections, 0, sizeof other.sections);
        z = mmix_from_i32(m, 1, one, mmix_data_i32(pos));
        check(!memcmp(read_reals(mmix_rope(m, y, pos, &o)), read_reals(mmix_rope(m, y, z, &other)), 4 * n * sizeof(real)), face[ROPE].name,
              "equal positions on three axes are one axis", 0, 1);
    }
    fine("rope");
}

/* ---- layers in steps ---- */

static void random_parameters(const mmix_params *p)
{
    for (size_t i = 0; i < p->count; i++)        /* of size 1, as trained ones are; A_log, dt_bias and norms as they begin */
        if (mmix_ndim(p->at[i].tensor) > 1)
            mmix_randn(m, p->at[i].tensor, 1 / sqrt((double)mmix_shape(p->at[i].tensor, -1)), draw * 100 + i);
}
/* Attention and Mamba-2 one behind the other, whole and in pieces. An error of one row's sum is of the size of the largest
   number. */
static void check_layers(void)
{
    const size_t heads = any(1, 3), width = 2 * any(1, 6), wide = heads * width, tokens = any(1, 60);
    const int kind = (int)any(MMIX_SOFTMAX, MMIX_LINEAR), turn = one_in(2);
    mmix_params *p = mmix_params_create(m);
    mmix_attention_layer attention;
    mmix_mamba2_layer mamba;
    mmix_mamba2_options o;
    mmix_mamba2_state carried = { NULL, NULL };
    mmix_state *s = mmix_state_create(m, 2);
    mmix_tensor *t, *a, *y;
    double *whole[3], *got[3], *size_of;
    memset(&o, 0, sizeof o);
    B = any(1, 3);
    o.head_dim = any(1, 8);
    o.d_inner = o.head_dim * any(1, 4);
    o.groups = any_divisor(o.d_inner / o.head_dim);
    o.d_state = any(1, 12);
    o.conv_width = any(1, 5);
    if (one_in(3)) { o.dt_low = 0.01; o.dt_high = 0.05; }
    mmix_attention_init(&attention, p, "a.", wide, heads, kind, (int)any(0, 1));
    attention.options.mask = kind == MMIX_SOFTMAX && one_in(2) ? MMIX_MASK_BAND : MMIX_MASK_CAUSAL;
    attention.options.left = any(0, 20);
    attention.options.feature = (int)pick(MMIX_FEATURE_SOFTMAX_BOTH, MMIX_FEATURE_ELU1);
    if (turn) {
        attention.rope.theta = 1000;
        attention.rope.dim = one_in(2) ? 0 : 2;
        attention.rope.interleaved = (int)any(0, 1);
    }
    mmix_mamba2_init(&mamba, p, "m.", wide, &o);
    mmix_params_allocate(p);
    random_parameters(p);
    snprintf(about, sizeof about, "layers B %lu L %lu heads %lu of %lu kind %d mask %d left %lu feature %d rope %d %lu %d, d_inner %lu head_dim %lu "
             "groups %lu d_state %lu W %lu", (unsigned long)B, (unsigned long)tokens, (unsigned long)heads, (unsigned long)width, kind,
             attention.options.mask, (unsigned long)attention.options.left, attention.options.feature, turn, (unsigned long)attention.rope.dim,
             attention.rope.interleaved, (unsigned long)o.d_inner, (unsigned long)o.head_dim, (unsigned long)o.groups, (unsigned long)o.d_state,
             (unsigned long)o.conv_width);
    t = fill(mmix_new3(m, B, tokens, wide), -2, 2, 0);
    a = mmix_attention(m, &attention, t, NULL, NULL);
    whole[0] = read_doubles(a);
    whole[1] = whole[2] = read_doubles(mmix_mamba2(m, &mamba, a, NULL, NULL, NULL, NULL));
    for (int k = 0; k < 3; k++) got[k] = doubles(B * tokens * wide);
    L = tokens; H = 1; P = wide;                 /* for place() */
    for (size_t from = 0, n; from < tokens; from += n) {
        n = least(tokens - from, pick(any(1, 3), any(1, 30)));
        if (from && one_in(4)) {
            y = mmix_fill(mmix_new3(m, B + 1, n, wide), 0.1);
            refused(!mmix_attention_step(m, &attention, y, s, 0), "another B");
            refused(!mmix_mamba2_step(m, &mamba, y, s, 1), "another B");
        }
        a = mmix_attention_step(m, &attention, mmix_slice(m, t, 1, from, n), s, 0);
        place(got[0], a, from);
        y = mmix_mamba2_step(m, &mamba, a, s, 1);
        place(got[1], y, from);
        place(got[2], mmix_mamba2(m, &mamba, a, NULL, NULL, NULL, &carried), from);
        for (size_t slot = 0; slot < 2; slot++)
            check(mmix_state_tokens(s, slot) == from + n, "mmix_state_tokens", "of a layer", (double)mmix_state_tokens(s, slot), (double)(from + n));
    }
    for (int k = 0; k < 3; k++) {
        double top = 0;
        for (size_t i = 0; i < B * tokens * wide; i++) top = fmax(top, fabs(whole[k][i]));
        size_of = plus(doubles(B * tokens * wide), top, B * tokens * wide);
        compare(LAYER, k == 0 ? "mmix_attention_step" : k == 1 ? "mmix_mamba2_step" : "mmix_mamba2 with a state", got[k], whole[k], size_of, 1,
                B * tokens * wide);
    }
    fine("layers");
    mamba.options.bidirectional = 1;
    refused(!mmix_mamba2_step(m, &mamba, t, s, 1), "a bidirectional layer");
    mmix_state_destroy(s);
    mmix_params_destroy(p);
}

/* ---- visiting orders ---- */

static void check_scan(void)
{
    const size_t layer = any(0, 11), T = any(1, 6), Y = any(1, 6), X = any(1, 6), separators = any(0, 3), frame = Y * X + separators, n = T * frame;
    int32_t *perm = (int32_t *)hold(n * sizeof *perm), *inverse = (int32_t *)hold(n * sizeof *perm), *want = (int32_t *)hold(n * sizeof *want);
    int32_t *alone = (int32_t *)hold(n * sizeof *perm);
    size_t r = 0, bad = 0;
    snprintf(about, sizeof about, "scan order, layer %lu, %lu x %lu x %lu and %lu", (unsigned long)layer, (unsigned long)T, (unsigned long)Y,
             (unsigned long)X, (unsigned long)separators);
    if (layer % 4 < 2) for (size_t t = 0; t < T; t++) {
        if (layer % 4 == 0) for (size_t i = 0; i < Y; i++) for (size_t k = 0; k < X; k++) want[r++] = (int32_t)(t * frame + i * X + k);
        else for (size_t k = 0; k < X; k++) for (size_t i = 0; i < Y; i++) want[r++] = (int32_t)(t * frame + i * X + k);
        for (size_t z = 0; z < separators; z++) want[r++] = (int32_t)(t * frame + Y * X + z);
    }
    else {
        if (layer % 4 == 2) for (size_t i = 0; i < Y; i++) for (size_t k = 0; k < X; k++) for (size_t t = 0; t < T; t++) want[r++] = (int32_t)(t * frame + i * X + k);
        else for (size_t k = 0; k < X; k++) for (size_t i = 0; i < Y; i++) for (size_t t = 0; t < T; t++) want[r++] = (int32_t)(t * frame + i * X + k);
        for (size_t t = 0; t < T; t++) for (size_t z = 0; z < separators; z++) want[r++] = (int32_t)(t * frame + Y * X + z);
    }
    mmix_scan_order(layer, T, Y, X, separators, perm, inverse);
    for (size_t i = 0; i < n; i++) bad += perm[i] != want[i];
    check(!bad, "mmix_scan_order", "perm", (double)bad, 0);
    for (size_t i = bad = 0; i < n; i++) bad += (size_t)inverse[want[i]] != i;
    check(!bad, "mmix_scan_order", "inverse", (double)bad, 0);
    mmix_scan_order(layer, T, Y, X, separators, alone, NULL);
    check(!memcmp(alone, perm, n * sizeof *perm), "mmix_scan_order", "without inverse", 0, 1);
    mmix_scan_order(layer, T, Y, X, separators, NULL, alone);
    check(!memcmp(alone, inverse, n * sizeof *perm), "mmix_scan_order", "without perm", 0, 1);
}

/* ---- ranks ---- */

static double normal(void) { return uniform(-1, 1) + uniform(-1, 1) + uniform(-1, 1); }
/* n orthonormal rows of `len` numbers, Gram-Schmidt twice. */
static double *orthonormal(size_t n, size_t len)
{
    double *u = doubles(n * len);
    for (size_t i = 0; i < n; i++) {
        double *x = u + i * len, length;
        for (size_t k = 0; k < len; k++) x[k] = normal();
        for (int twice = 0; twice < 2; twice++) {
            for (size_t j = 0; j < i; j++) {
                const double along = dot(x, u + j * len, len);
                for (size_t k = 0; k < len; k++) x[k] -= along * u[j * len + k];
            }
            length = sqrt(dot(x, x, len));
            for (size_t k = 0; k < len; k++) x[k] /= length;
        }
    }
    return u;
}
static void check_rank_of(void)
{
    const size_t matrices = any(1, 2), rows = any(1, 24), cols = any(1, 24), C = one_in(3) ? 0 : any(1, 26), h = C ? least(C, rows) : rows,
        w = C ? least(C, cols) : cols, down = (rows + h - 1) / h, across = (cols + w - 1) / w, width = least(h, w), blocks = matrices * down * across;
    /* between the noise of mmix_real and the smallest value */
    const double tolerance = sizeof(real) == 4 ? 1e-5 : 1e-12;
    real *M = reals(matrices * rows * cols);
    double *sigma = doubles(blocks * width);
    mmix_rank_options o;
    mmix_rank r;
    memset(&o, 0, sizeof o);
    o.block = C;
    o.eps = tolerance;
    snprintf(about, sizeof about, "rank of %lu x %lu x %lu in blocks of %lu", (unsigned long)matrices, (unsigned long)rows, (unsigned long)cols, (unsigned long)C);
    for (size_t i = 0; i < blocks; i++) {        /* a block's rank and values as drawn */
        const size_t y0 = i / across % down * h, x0 = i % across * w, hh = least(h, rows - y0), ww = least(w, cols - x0), rank = any(0, least(hh, ww));
        const double *u = orthonormal(rank, hh), *v = orthonormal(rank, ww);
        double *s = sigma + i * width, unit = exp(uniform(-20, 20));
        for (size_t k = 0; k < rank; k++) s[k] = k ? s[k - 1] * (one_in(3) ? 1 : uniform(0.5, 1)) : unit;
        for (size_t k = 0; k < rank; k++) if (s[k] < unit * 1e-2) s[k] = unit * 1e-2;
        for (size_t y = 0; y < hh; y++)
            for (size_t z = 0; z < ww; z++) {
                double sum = 0;
                for (size_t k = 0; k < rank; k++) sum += s[k] * u[k * hh + y] * v[k * ww + z];
                M[(i / across / down * rows + y0 + y) * cols + x0 + z] = (real)sum;
            }
    }
    check(mmix_rank_of(m, &o, M, matrices, rows, cols, &r) == 0, "mmix_rank_of", "succeeds", 0, 0);
    fine("mmix_rank_of");
    check(r.matrices == matrices && r.rows == down && r.cols == across && r.width == width, "mmix_rank_of", "sizes", (double)r.width, (double)width);
    for (size_t i = 0; i < blocks; i++) {
        const double *s = sigma + i * width, *got = r.singular + i * width;
        double sum = 0, squares = 0, entropy = 0, rank = 0;
        for (size_t k = 0; k < width; k++) {
            judge(RANK, "σ", fabs(got[k] - s[k]), s[0], got[k], s[k]);
            rank += s[k] > 0;
            sum += s[k];
            squares += s[k] * s[k];
        }
        for (size_t k = 0; k < width; k++) if (s[k] > 0) entropy -= s[k] / sum * log(s[k] / sum);
        check(r.numerical[i] == rank, "mmix_rank_of", "numerical rank", r.numerical[i], rank);
        if (rank > 0) {                          /* the noise of all σ is in both */
            judge(RANK, "effective rank", fabs(r.effective[i] - exp(entropy)), 100 * exp(entropy), r.effective[i], exp(entropy));
            judge(RANK, "stable rank", fabs(r.stable[i] - squares / (s[0] * s[0])), rank, r.stable[i], squares / (s[0] * s[0]));
        }
        else check(r.effective[i] == 0 && r.stable[i] == 0, "mmix_rank_of", "ranks of nothing", r.effective[i], 0);
    }
    {                                            /* columns of powers of 2 are exact, however far apart; the default eps */
        const size_t n = any(1, 10);
        real *N2 = reals(n * n);
        size_t *row = (size_t *)hold(n * sizeof *row), above = 0;
        for (size_t k = 0; k < n; k++) {
            const size_t other = any(0, k);
            row[k] = row[other];
            row[other] = k;
        }
        for (size_t k = 0; k < n; k++) {
            N2[row[k] * n + k] = (real)ldexp(one_in(2) ? 1 : -1, -5 * (int)k);
            above += ldexp(1, -5 * (int)k) > (double)n * (sizeof(real) == 4 ? 1.1920928955078125e-7 : 2.220446049250313e-16);
        }
        mmix_rank_of(m, NULL, N2, 1, n, n, &r);
        for (size_t k = 0; k < n; k++) check(r.singular[k] == ldexp(1, -5 * (int)k), "mmix_rank_of", "powers of 2", r.singular[k], ldexp(1, -5 * (int)k));
        check(r.numerical[0] == (double)above, "mmix_rank_of", "default eps", r.numerical[0], (double)above);
    }
    fine("mmix_rank_of");
}
/* What is measured of a mixer's blocks, beside the bounds, and beside sums over the matrix that is expected. */
static void check_mixer_rank(int kind)
{
    mmix_mixer_rank r;
    mmix_rank_options o;
    mmix_tensor *proj = NULL;
    size_t C, n, wide;
    int causal;
    double *full;
    small = 1;
    do any_mixer(kind);
    while (S != L || L < 2 || L > 40 || B * H > 9 || hard || !has_matrix());
    small = 0;
    causal = kind == MMIX_SSD ? x.direction != MMIX_BOTH : x.mask == MMIX_MASK_CAUSAL && !x.window[0];
    if (kind == MMIX_SSD && x.D) fill(x.D, 40, 50, 0);               /* larger than the rest of its row: M is regular */
    expect();
    memset(&o, 0, sizeof o);
    o.block = one_in(4) ? 0 : any(1, L + 1);
    wide = one_in(2) ? any(1, 20) : 0;
    if (wide) proj = fill(mmix_new2(m, wide, H * P), -1, 1, 0);
    check(mmix_mix_rank(m, &o, &x, proj, &r) == 0, "mmix_mix_rank", "succeeds", 0, 0);
    fine("mmix_mix_rank");
    C = least(o.block ? o.block : L / 2, L);
    n = (L + C - 1) / C;
    check(r.block == C && r.M.rows == n && r.M.cols == n && r.whole.rows == 1, "mmix_mix_rank", "sizes", (double)r.block, (double)C);
    check((r.decay != NULL) == (kind == MMIX_SSD), "mmix_mix_rank", "decay", r.decay != NULL, kind == MMIX_SSD);
    for (size_t h = 0; h < B * H; h++) {
        double diagonal = 0;
        for (size_t i = 0; i < n * n; i++) {
            const size_t I = i / n, J = i % n, b = h * n * n + i;
            double squares = 0, sum = 0;
            for (size_t y = I * C; y < least(L, I * C + C); y++)
                for (size_t z = J * C; z < least(L, J * C + C); z++) sum += exact.M[(h * L + y) * L + z] * exact.M[(h * L + y) * L + z];
            for (size_t k = 0; k < r.M.width; k++) squares += r.M.singular[b * r.M.width + k] * r.M.singular[b * r.M.width + k];
            judge(RANK, "sum of σ²", fabs(squares - sum), 10 * grow * sum, squares, sum);
            check(r.M.numerical[b] <= r.bound[b], "mmix_mix_rank", "measured against the bound", r.M.numerical[b], r.bound[b]);
            if (!(sum > 0)) check(r.M.numerical[b] == 0, "mmix_mix_rank", "rank of a block of zeros", r.M.numerical[b], 0);
            if (causal && kind != MMIX_SSD && I < J) check(r.bound[b] == 0, "mmix_mix_rank", "bound above the diagonal", r.bound[b], 0);
            if (kind == MMIX_SSD && I != J) check(r.decay[b] <= 1, "mmix_mix_rank", "decay's rank", r.decay[b], 1);
            if (I == J) diagonal += r.M.numerical[b];
        }
        check(r.diagonal[h] == diagonal, "mmix_mix_rank", "diagonal", r.diagonal[h], diagonal);
        if (causal && (kind != MMIX_SSD || x.D))
            check(r.whole.numerical[h] >= diagonal, "mmix_mix_rank", "whole against diagonal", r.whole.numerical[h], diagonal);
    }
}
static void check_by_hand(void)
{
    /* two matrices of a grid of 1 x 3 tokens; the second looks at itself only */
    const real a[18] = { 1, 2, 0, 0, 1, -1, 3, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1 }, b[18] = { 1, 2, 2, 0, 1, -1, 3, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0 };
    const real zeros[9] = { 0 };
    /* a grid of 2 x 2: token 0 looks at 3, a diagonal away; 1 at 3, a row away; 2 at itself */
    const real square[16] = { 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 5, 0, 0, 0, 0, 0 };
    double d[2], e[2];
    snprintf(about, sizeof about, "by hand");
    mmix_matrix_distance(a, b, 2, 9, d, e);
    check(fabs(d[0] - sqrt(5)) < 1e-14 && d[1] == 1, "mmix_matrix_distance", "distance", d[0], sqrt(5));
    check(fabs(e[0] - sqrt(5.0 / 16)) < 1e-14 && fabs(e[1] - sqrt(1.0 / 3)) < 1e-14, "mmix_matrix_distance", "relative", e[0], sqrt(5.0 / 16));
    mmix_matrix_distance(zeros, zeros, 1, 9, NULL, e);
    check(e[0] == 0, "mmix_matrix_distance", "of nothing", e[0], 0);
    mmix_matrix_distance(a, a, 2, 9, d, NULL);
    check(d[0] == 0 && d[1] == 0, "mmix_matrix_distance", "of itself", d[0], 0);
    mmix_head_reach(a, 2, 1, 3, 1, d, e);        /* Σ|a| = 8, of it 3 two tokens away, 3 one */
    check(fabs(d[0] - 5.0 / 8) < 1e-14 && d[1] == 1, "mmix_head_reach", "share", d[0], 5.0 / 8);
    check(fabs(e[0] - 9.0 / 8) < 1e-14 && e[1] == 0, "mmix_head_reach", "distance", e[0], 9.0 / 8);
    mmix_head_reach(square, 1, 2, 2, 0, d, e);
    check(fabs(d[0] - 5.0 / 8) < 1e-14 && fabs(e[0] - (2 * sqrt(2) + 1) / 8) < 1e-14, "mmix_head_reach", "radius 0 on a square", d[0], 5.0 / 8);
    mmix_head_reach(square, 1, 2, 2, 1, d, NULL);
    check(d[0] == 1, "mmix_head_reach", "radius 1 on a square", d[0], 1);
}

/* Draws of one kind after another; a hundred draws hold all. */
static void one_draw(void)
{
    const size_t kind = draw % 20;
    if (kind < 15) {
        any_mixer((int)(kind % 3));
        expect();
        check_faces();
        check_steps();
        check_packed();
        check_directions();
        check_raw();
        check_differences();
    }
    else if (kind == 15) check_rope();
    else if (kind == 16) check_layers();
    else if (kind == 17) check_mixer_rank((int)(draw / 20 % 3));
    else if (kind == 18) check_rank_of();
    else if (draw / 20 % 4 == 0) check_long_run();
    else if (draw / 20 % 20 == 1) check_by_hand();
    else check_scan();
}

int main(int argc, char **argv)
{
    size_t first = 0, count = 1000;
    mmix_ctx *contexts[4];
    if (argc > 1) seed = strtoul(argv[1], NULL, 0);
    if (argc > 2) first = strtoul(argv[2], NULL, 0);
    if (argc > 3) count = strtoul(argv[3], NULL, 0);
    for (int i = 0; i < 4; i++) {                /* threads and SIMD levels */
        mmix_options o;
        memset(&o, 0, sizeof o);
        o.threads = i == 1 ? 2 : 1;
        o.simd = i == 2 ? MMIX_SIMD_NONE : i == 3 ? MMIX_SIMD_AVX2 : MMIX_SIMD_AUTO;
        contexts[i] = mmix_create(&o);
    }
    for (draw = first; draw < first + count; draw++) {
        counter = 0;
        m = contexts[any(0, 3)];
        one_draw();
        let_go(0);
        mmix_reset(m);
    }
    for (int i = 0; i < 4; i++) mmix_destroy(contexts[i]);
    for (int i = 0; i < FACES; i++) printf("%s%s %.3g of %g", i ? ", " : "largest errors: ", face[i].name, face[i].worst, face[i].bound);
    printf("\n%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
