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
static void compare(int f, const char *what, const double *got, const double *want, size_t n, double size)
{
    size_t worst = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= fabs(got[worst] - want[worst]))) worst = i;
        if (!(got[i] - got[i] == 0)) { worst = i; break; }           /* NaN, infinity */
    }
    if (n) judge(f, what, fabs(got[worst] - want[worst]), size, got[worst], want[worst]);
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
static void compare_tensor(int f, const char *what, const mmix_tensor *t, const double *want, double size)
{
    const size_t was = n_held;
    if (t) compare(f, what, read_doubles(t), want, mmix_count(t), size);
    else check(0, what, mmix_error(m) ? mmix_error(m) : "NULL", 0, 1);
    let_go(was);
}
static double largest(const double *x, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++) if (fabs(x[i]) > top) top = fabs(x[i]);
    return top;
}

/* ---- a draw: a mixer, its numbers, and what is expected of it ---- */

enum { Q, K, V, DT, A, D, BIAS, FIRST, INPUTS };
static const char *const input_name[INPUTS] = { "q", "k", "v", "dt", "A", "D", "dt_bias", "initial state" };
typedef struct input { mmix_tensor *t; size_t tokens, heads, width, n; int wants; } input;
/* The numbers of a draw in double: values and gradients of the inputs, y (B, L, H, P) and the final state, what comes back
   for them, the matrix (B, H, L, S). `exact`: what they are; `size`: the same of absolute values. */
typedef struct side { double *x[INPUTS], *g[INPUTS], *y, *last, *dy, *dlast, *M; } side;
static side exact, size;
static double size_y, size_last, size_M, size_g[INPUTS];
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

static size_t any_length(void)
{
    const size_t r = any(1, 20);
    return r <= 11 ? any(1, 20) : r <= 17 ? any(21, 80) : any(81, 300);
}
static size_t any_width(void)
{
    const size_t r = any(1, 10);
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
static void any_attention(void)
{
    double low = -2, high = 2;
    mmix_tensor *row = NULL, *other = NULL;
    size_t G, used = 2, used_other = 2;
    do {
        const int windows = x.kind == MMIX_SOFTMAX && one_in(3);
        x = mmix_mixer_softmax(NULL, NULL, NULL);
        B = any(1, 3);
        G = any(1, 3);
        H = G * any(1, 3);
        N = any_width();
        P = any_width();
        L = any_length();
        if (windows) any_windows();
        else {
            x.mask = (int)any(MMIX_MASK_NONE, MMIX_MASK_BAND);
            S = x.mask == MMIX_MASK_NONE ? any_length() : L + (one_in(3) ? any(0, 60) : 0);
        }
    } while (B * H * L * S > 400000 || B * H * L * S * (N + P) > 6000000);
    x.kind = kind;
    if (kind == MMIX_LINEAR) {
        x.mask = (int)any(MMIX_MASK_NONE, MMIX_MASK_CAUSAL);
        x.feature = (int)any(MMIX_FEATURE_SOFTMAX_BOTH, MMIX_FEATURE_RELU);
        if (x.mask && x.feature == MMIX_FEATURE_EFFICIENT) x.feature = MMIX_FEATURE_ELU1;
        x.normalise = (int)any(0, 2) - 1;
        x.eps = one_in(2) ? 0.01 : 0;
        if (x.mask) S = L;
    }
}
