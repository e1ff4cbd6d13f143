/* mixing.c - the token mixers against their matrices, their definitions and each other;
   mmix_mix_hook; long sequences */
#include "test.h"

/* M v, head by head, in double. */
static mmix_tensor *times(mmix_ctx *m, mmix_tensor *M, mmix_tensor *v)
{
    size_t B = mmix_shape(M, 0);
    size_t H = mmix_shape(M, 1);
    size_t L = mmix_shape(M, 2);
    size_t S = mmix_shape(M, 3);
    size_t P = mmix_shape(v, 3);
    size_t G = mmix_shape(v, 2);
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
    size_t shape[MMIX_MAX_DIMS];
    for (int i = 0; i < mmix_ndim(t); i++)
        shape[i] = mmix_shape(t, i);
    mmix_tensor *y = mmix_new(m, mmix_dtype(t), mmix_ndim(t), shape);
    for (size_t b = 0; b < mmix_shape(t, 0); b++)
        for (size_t i = 0; i < mmix_shape(t, 1); i++) {
            mmix_tensor *from = mmix_slice(m, mmix_slice(m, t, 0, b, 1), 1, i, 1);
            mmix_tensor *to = mmix_slice(m, mmix_slice(m, y, 0, b, 1), 1, mmix_shape(t, 1) - 1 - i,
                                         1);
            if (mmix_dtype(t) == MMIX_DTYPE_I32)
                *mmix_data_i32(to) = *mmix_data_i32(from);
            else {
                real v[4096];
                mmix_read(from, v);
                mmix_write(to, v);
            }
        }
    return y;
}
/* mmix_mix_rows_mean beside M's rows, of which one may be asked for twice. */
static void rows_as_in(mmix_ctx *m, const mmix_mixer *x, mmix_tensor *M, double bound)
{
    size_t n = any(1, 3);
    size_t rows[3];
    size_t B = mmix_shape(M, 0);
    size_t H = mmix_shape(M, 1);
    size_t L = mmix_shape(M, 2);
    size_t S = mmix_shape(M, 3);
    mmix_tensor *mean = M ? mmix_fill(mmix_new3(m, B, H, S), 0) : NULL;
    for (size_t i = 0; i < n; i++)
        rows[i] = any(0, L - 1);
    for (size_t i = 0; mean && i < B * H * S; i++)
        for (size_t k = 0; k < n; k++)
            mmix_data(mean)[i] += mmix_data(M)[(i / S * L + rows[k]) * S + i % S] / (real)n;
    ALIKE(mmix_mix_rows_mean(m, x, rows, n), mean, bound);
}
static const double MIX = 60;                    /* bounds in units of EPS */
static size_t lengths[] = { 1, 2, 3, 5, 9, 31, 32, 33, 63, 64, 65, 130, 255, 256, 257, 330 };

/* LinearViT: equal keys make rows sum to L/N, to 1 with a normalizer */
static void sums_of_rows(mmix_ctx *m)
{
    mmix_mixer x = mmix_mixer_linear(random4(m, 1, 7, 2, 4, -1, 1),
                                     mmix_fill(mmix_new4(m, 1, 12, 2, 4), 0.3),
                                     mmix_fill(mmix_new4(m, 1, 12, 2, 3), 1));
    mmix_tensor *y = mmix_mix(m, &x);
    doing("row sums");
    for (size_t i = 0; i < mmix_count(y); i++)
        NEAR(mmix_data(y)[i], 12.0 / 4, 20 * EPS);
    x.normalize = 1;
    y = mmix_mix(m, &x);
    for (size_t i = 0; i < mmix_count(y); i++)
        NEAR(mmix_data(y)[i], 1, 1e-6);
}
/* Large scores: no overflow; a later tile or block far above an earlier one */
static void large_scores(mmix_ctx *m)
{
    mmix_mixer x = mmix_mixer_softmax(random4(m, 1, 40, 1, 8, -300, 300),
                                      random4(m, 1, 1100, 1, 8, -300, 300),
                                      random4(m, 1, 1100, 1, 3, -1, 1));
    doing("large scores");
    ALIKE(mmix_mix(m, &x), times(m, mmix_mix_matrix(m, &x), x.v), 1e4 * EPS);
    x.q = mmix_fill(mmix_new4(m, 1, 2, 1, 8), 1e4);
    CHECK(apart(mmix_mix(m, &x), mmix_mix(m, &x)) == 0);
}
static void attention_invariants(void)
{
    mmix_ctx *m = context(2, 3);
    state = 17;
    for (int it = 0; it < 120; it++) {
        int kind = it % 2;
        size_t B = any(1, 2);
        size_t L = it < 30 ? lengths[it / 2 % 16] : any(1, 90);
        size_t G = any(1, 3);
        size_t H = G * any(1, 3);
        size_t N = any(1, 20);
        size_t P = any(1, 20);
        size_t S;
        mmix_mixer x;
        mmix_tensor *M, *y, *v;
        real *q;
        doing(kind ? "linear attention" : "softmax attention");
        mmix_reset(m);
        x = mmix_mixer_softmax(NULL, NULL, NULL);
        x.kind = kind ? MMIX_MIXER_LINEAR : MMIX_MIXER_SOFTMAX;
        x.mask = kind ? (int)any(0, 1) : (int)any(0, 2);
        x.prefix = any(0, L + 2);
        x.feature = (int)any(0, 3);
        if (kind && x.mask && x.feature == MMIX_FEATURE_EFFICIENT) x.feature = MMIX_FEATURE_ELU1;
        x.normalize = (int)any(0, 2) - 1;
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
        rows_as_in(m, &x, M, MIX * EPS * 4);
        FINE(m);
        if (!M) continue;
        q = mmix_data(M);
        for (size_t r = 0; r < B * H * L; r++) {
            double sum = 0;
            size_t i = r % L;
            for (size_t j = 0; j < S; j++) {
                int allowed = x.mask == MMIX_MASK_NONE || j <= i
                              || (x.mask == MMIX_MASK_PREFIX && i < x.prefix && j < x.prefix);
                sum += (double)q[r * S + j];
                if (!allowed && q[r * S + j] != 0)
                    COMPARE(0, "masked entries are 0", (double)q[r * S + j], 0);
                if (allowed && !kind && !(q[r * S + j] > 0))
                    COMPARE(0, "allowed entries are positive", (double)q[r * S + j], 1);
            }
            if (!kind) NEAR(sum, 1, 100 * EPS);
            else if (x.normalize ? x.normalize > 0
                                 : x.feature == MMIX_FEATURE_ELU1 || x.feature == MMIX_FEATURE_RELU)
                CHECK(sum <= 1 + 100 * EPS && sum > 0);
        }
    }
    /* windows with a bias by distance, against matrix and rule */
    for (int it = 0; it < 40; it++) {
        const size_t grid[3] = { any(1, 5), any(1, 6), any(1, 6) },
                     window[3] = { any(1, 6), any(1, 4), any(1, 4) };
        const size_t L = grid[0] * grid[1] * grid[2];
        const size_t n = (2 * window[0] - 1) * (2 * window[1] - 1) * (2 * window[2] - 1);
        mmix_mixer x = mmix_mixer_softmax(random4(m, 2, L, 4, 5, -1, 1),
                                          random4(m, 2, L, 2, 5, -1, 1),
                                          random4(m, 2, L, 2, 7, -1, 1));
        mmix_tensor *M;
        doing("windows with a bias");
        mmix_mixer_windows(&x, 3, grid, window, it % 2);
        x.bias = mmix_fill_normal(m, mmix_new2(m, 4, n), 1, 5);
        M = mmix_mix_matrix(m, &x);
        ALIKE(mmix_mix(m, &x), times(m, M, x.v), MIX * EPS);
        rows_as_in(m, &x, M, MIX * EPS);
        /* log M_0i - log M_00 = score + bias */
        for (size_t i = 0; i < window[2] && i < grid[2] && it % 2 == 0; i++) {
            const real *q = mmix_data(x.q);
            const real *k = mmix_data(x.k);
            const real *b = mmix_data(x.bias);
            double score[2] = { 0, 0 };
            for (size_t c = 0; c < 5; c++) {
                score[0] += (double)q[c] * (double)k[c] / sqrt(5);
                score[1] += (double)q[c] * (double)k[i * 10 + c] / sqrt(5);
            }
            NEAR(log((double)mmix_data(M)[i] / (double)mmix_data(M)[0]),
                 score[1] - score[0] + (double)b[n / 2 - i] - (double)b[n / 2], 200 * EPS);
        }
        FINE(m);
        mmix_reset(m);
    }
    sums_of_rows(m);
    /* head h reads group h / (H/G) */
    for (int kind = MMIX_MIXER_SOFTMAX; kind <= MMIX_MIXER_LINEAR; kind++) {
        mmix_mixer x, one;
        mmix_tensor *y;
        doing("groups");
        x = mmix_mixer_softmax(random4(m, 1, 9, 6, 5, -1, 1), random4(m, 1, 9, 2, 5, -1, 1),
                               random4(m, 1, 9, 2, 4, -1, 1));
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
    large_scores(m);
    FINE(m);
    mmix_destroy(m);
}

static mmix_tensor *numbers(mmix_ctx *m, size_t B, size_t L)         /* packed sequences */
{
    size_t s[2];
    int32_t v[2048], now = 3;
    s[0] = B;
    s[1] = L;
    for (size_t i = 0; i < B * L; i++)
        v[i] = i % L && uniform() > 0.06 ? now : (now = now * 7 % 11);
    return mmix_from_i32(m, 2, s, v);
}
static mmix_mixer any_ssd(mmix_ctx *m, size_t B, size_t L, size_t H, size_t G, size_t Gx, size_t Gc,
                          size_t P, size_t N)
{
    int softplus = (int)any(0, 1);
    mmix_mixer x = mmix_mixer_ssd(random4(m, B, L, Gx, P, -1, 1),
                                  softplus ? random3(m, B, L, H, -3, 1)
                                           : random3(m, B, L, H, 0, 0.5),
                                  random1(m, H, -2, -0.05), random4(m, B, L, G, N, -1, 1),
                                  random4(m, B, L, Gc, N, -1, 1));
    x.dt_softplus = softplus;
    if (any(0, 1))
        x.D = random1(m, H, -1, 1);
    if (any(0, 1))
        x.dt_bias = random1(m, H, 0, 0.3);
    if (any(0, 2) == 0) {
        x.dt_low = 0.1;
        x.dt_high = 0.4;
    }
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
        size_t B = any(1, 2);
        size_t L = it < 32 ? lengths[it % 16] : any(1, 80);
        size_t H = any(1, 2) * 2;
        size_t N = any(1, 19);
        size_t P = any(1, 19);
        size_t G = any(0, 1) ? 1 : 2;
        size_t Gx = any(0, 1) ? H : any(1, 2);
        size_t Gc = any(0, 1) ? G : H;
        mmix_mixer x, f;
        mmix_tensor *y, *M, *r, *last = NULL, *last_r = NULL, *fw, *bw;
        mmix_reset(m);
        doing("ssd");
        x = any_ssd(m, B, L, H, G, Gx, Gc, P, N);
        if (it % 3 == 1) x.direction = MMIX_SCAN_REVERSE;
        if (it % 4 == 2 || it % 4 == 3)
            x.seq_idx = numbers(m, B, L);
        y = mmix_mix(m, &x);
        M = mmix_mix_matrix(m, &x);
        ALIKE(y, times(m, M, x.v), MIX * EPS);
        rows_as_in(m, &x, M, MIX * EPS);
        FINE(m);
        if (!M) continue;
        for (size_t i = 0; i < L; i++)
            for (size_t j = i + 1; j < L; j++) {
                size_t at = x.direction == MMIX_SCAN_REVERSE ? j * L + i : i * L + j;
                if (mmix_data(M)[at] != 0)
                    COMPARE(0, "causal", (double)mmix_data(M)[at], 0);
            }
        if (any(0, 1))
            x.initial_state = random4(m, B, H, P, N, -1, 1);
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
                    while (from + n < L && s[from + n] == s[from])
                        n++;
                    one = part_of(m, &x, b, from, n);
                    doing("ssd, packed");
                    SAME(mmix_slice(m, mmix_slice(m, y, 0, b, 1), 1, from, n), mmix_mix(m, &one));
                }
        x.initial_state = x.seq_idx = NULL;
        x.direction = MMIX_SCAN_FORWARD;
        if (L > 1) {                             /* the final state goes on */
            size_t cut = any(1, L - 1);
            mmix_mixer a, c;
            mmix_tensor *s = NULL, *e = NULL, *whole = NULL, *all;
            doing("ssd, continued");
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
            NEAR(apart(y, mmix_slice(m, all, 1, cut, L - cut)) * largest(y)
                     / (largest(mmix_affine(m, all, 1, 0)) + 1e-30),
                 0, MIX * EPS * 4);
            ALIKE(e, mmix_slice(m, whole, 0, 0, 1), MIX * EPS * 4);
        }
        doing("ssd, both ways");
        fw = mmix_mix(m, &x);
        x.direction = MMIX_SCAN_REVERSE;
        bw = mmix_mix(m, &x);
        f = x;
        f.direction = MMIX_SCAN_FORWARD;
        f.v = flipped(m, x.v);
        f.k = flipped(m, x.k);
        f.q = flipped(m, x.q);
        f.dt = flipped(m, x.dt);
        SAME(bw, flipped(m, mmix_mix(m, &f)));
        x.direction = MMIX_SCAN_BOTH;
        ALIKE(mmix_mix(m, &x), mmix_add(m, mmix_affine(m, fw, 0.5, 0), mmix_affine(m, bw, 0.5, 0)),
              4 * EPS);
        ALIKE(mmix_mix(m, &x), times(m, M = mmix_mix_matrix(m, &x), x.v), MIX * EPS);
        rows_as_in(m, &x, M, MIX * EPS);
        FINE(m);
    }
    for (int it = 0; it < 24; it++) {            /* decays that underflow, steps that are huge */
        size_t L = lengths[it % 16], H = 2;
        mmix_mixer x;
        mmix_tensor *y, *r;
        mmix_reset(m);
        doing("ssd, extreme");
        x = mmix_mixer_ssd(random4(m, 1, L, H, 6, -1, 1),
                           random3(m, 1, L, H, 0, it % 3 ? 100 : 1e-4),
                           random1(m, H, it % 2 ? -1000 : -1, it % 4 < 2 ? 0 : -0.5),
                           random4(m, 1, L, 1, 7, -1, 1), random4(m, 1, L, 1, 7, -1, 1));
        if (it % 5 == 0)
            for (size_t i = 0; i < L * H; i += 3)
                mmix_data(x.dt)[i] = 0;
        if (it % 5 == 1) x.dt_softplus = 1;
        x.direction = it % 2;
        y = mmix_mix(m, &x);
        r = mmix_ssd_reference(m, &x);
        for (size_t i = 0; i < mmix_count(y); i++)
            if (!(fabs((double)mmix_data(y)[i]) < 1e30))
                COMPARE(0, "finite", (double)mmix_data(y)[i], 0);
        ALIKE(y, r, 200 * EPS);
        for (size_t k = 0; k < 2; k++)
            mmix_require_grad(k ? x.dt : x.A);
        mmix_record(m, 1);
        mmix_backward(m, mmix_sum(m, mmix_mix(m, &x)));
        mmix_record(m, 0);
        CHECK(largest(mmix_grad(x.dt)) < 1e30 && largest(mmix_grad(x.A)) < 1e30);
        FINE(m);
    }
    /* without decay: causal linear attention; one number: a prefix sum; groups */
    for (int it = 0; it < 8; it++) {
        size_t L = lengths[2 * (size_t)it % 16];
        mmix_mixer x, l, g;
        mmix_tensor *y;
        doing("ssd, special cases");
        x = mmix_mixer_ssd(random4(m, 2, L, 4, 5, -1, 1),
                           shaped(m, mmix_fill(mmix_new4(m, 1, 2, L, 4), 1), 3, 2, L, 4),
                           mmix_fill(mmix_new1(m, 4), -1e-30), random4(m, 2, L, 2, 3, 0.01, 1),
                           random4(m, 2, L, 4, 3, 0.01, 1));
        l = mmix_mixer_linear(x.q, x.k, random4(m, 2, L, 2, 5, -1, 1));
        l.mask = MMIX_MASK_CAUSAL;
        l.feature = MMIX_FEATURE_RELU;
        l.normalize = -1;
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
        x = mmix_mixer_ssd(mmix_fill(mmix_new4(m, 1, L, 1, 2), 1),
                           shaped(m, mmix_fill(mmix_new4(m, 1, 1, L, 1), 1), 3, 1, L, 1),
                           mmix_fill(mmix_new1(m, 1), 0), mmix_fill(mmix_new4(m, 1, L, 1, 1), 1),
                           mmix_fill(mmix_new4(m, 1, L, 1, 1), 1));
        y = mmix_mix(m, &x);
        for (size_t i = 0; i < L; i++)
            IS(mmix_data(y)[2 * i], i + 1);
    }
    doing("packed convolution");
    for (int it = 0; it < 20; it++) {
        size_t L = any(1, 40);
        size_t D = any(1, 30);
        size_t W = any(1, 5);
        mmix_tensor *x = random3(m, 1, L, D, -1, 1);
        mmix_tensor *w = random3(m, D, 1, W, -1, 1);
        mmix_tensor *b = random1(m, D, -1, 1);
        mmix_tensor *y;
        mmix_causal_conv1d_options o;
        memset(&o, 0, sizeof o);
        o.silu = it % 2;
        o.reverse = it % 3 == 0;
        o.seq_idx = numbers(m, 1, L);
        y = mmix_causal_conv1d(m, x, w, b, &o);
        for (size_t from = 0, n; from < L; from += n) {
            const int32_t *s = mmix_data_i32(o.seq_idx);
            mmix_causal_conv1d_options one = o;
            n = 1;
            while (from + n < L && s[from + n] == s[from])
                n++;
            one.seq_idx = NULL;
            SAME(mmix_slice(m, y, 1, from, n),
                 mmix_causal_conv1d(m, mmix_slice(m, x, 1, from, n), w, b, &one));
        }
    }
    FINE(m);
    mmix_destroy(m);
}

/* ---- the selective scan ---- */

static mmix_mixer any_selective(mmix_ctx *m, size_t B, size_t L, size_t H, size_t G, size_t N)
{
    const size_t wide[2] = { H, N };
    mmix_tensor *A = mmix_reshape(m, random4(m, 1, 1, H, N, -2, -0.05), 2, wide);
    mmix_mixer x = mmix_mixer_selective(random4(m, B, L, H, 1, -1, 1),
                                        random3(m, B, L, H, -3, 1), A,
                                        random4(m, B, L, G, N, -1, 1),
                                        random4(m, B, L, G, N, -1, 1));
    x.dt_softplus = 1;
    x.D = random1(m, H, -1, 1);
    x.dt_bias = random1(m, H, 0, 0.3);
    x.z = random4(m, B, L, H, 1, -2, 2);
    return x;
}
/* With one decay for all numbers of a state it is SSD with heads of one channel. */
static void selective_as_ssd(mmix_ctx *m)
{
    doing("selective scan, as SSD");
    for (int it = 0; it < 24; it++) {
        const size_t L = lengths[it % 16], H = 2 * any(1, 20), N = any(1, 18);
        mmix_mixer x = any_selective(m, 2, L, H, any(1, 2), N), s;
        mmix_tensor *last = NULL, *last_s = NULL;
        for (size_t h = 0; h < H; h++)
            for (size_t n = 1; n < N; n++)
                mmix_data(x.A)[h * N + n] = mmix_data(x.A)[h * N];
        x.z = NULL;
        x.direction = it % 2 ? MMIX_SCAN_REVERSE : MMIX_SCAN_FORWARD;
        if (it % 3 == 0) x.seq_idx = numbers(m, 2, L);
        if (it % 4 == 1) x.initial_state = random4(m, 2, H, 1, N, -1, 1);
        s = mmix_mixer_ssd(x.v, x.dt, mmix_new1(m, H), x.k, x.q);
        for (size_t h = 0; h < H; h++)
            mmix_data(s.A)[h] = mmix_data(x.A)[h * N];
        s.D = x.D;
        s.dt_bias = x.dt_bias;
        s.dt_softplus = 1;
        s.direction = x.direction;
        s.seq_idx = x.seq_idx;
        s.initial_state = x.initial_state;
        if (!x.initial_state)
            ALIKE(mmix_mix_matrix(m, &x), mmix_mix_matrix(m, &s), MIX * EPS);
        x.final_state = &last;
        s.final_state = &last_s;
        ALIKE(mmix_mix(m, &x), mmix_mix(m, &s), MIX * EPS);
        ALIKE(last, last_s, MIX * EPS);
        FINE(m);
        mmix_reset(m);
    }
}
/* The gate multiplies M x. A token's state comes from the one before by the same operations
   wherever a chunk or a piece begins: any chunk gives the same bits, and so do steps. */
static void selective_pieces(mmix_ctx *m)
{
    doing("selective scan, pieces");
    for (int it = 0; it < 16; it++) {
        const size_t L = lengths[it], H = any(1, 3) * 70, N = any(1, 18);
        mmix_mixer x = any_selective(m, 2, L, H, 1, N), part;
        mmix_tensor *last = NULL, *again = NULL, *y, *gate;
        mmix_mix_state *s = mmix_mix_state_create(m, 1);
        x.final_state = &last;
        y = mmix_mix(m, &x);
        if (L < 40) {
            part = x;
            part.final_state = NULL;
            gate = mmix_silu(m, x.z);
            mmix_tensor *M = mmix_mix_matrix(m, &part);
            ALIKE(y, mmix_mul(m, gate, times(m, M, x.v)), MIX * EPS);
            rows_as_in(m, &part, M, MIX * EPS);
        }
        x.final_state = &again;
        for (x.chunk = 1; x.chunk < 400; x.chunk *= 3) {
            SAME(mmix_mix(m, &x), y);
            SAME(again, last);
        }
        x.chunk = 0;
        for (size_t from = 0, n; from < L; from += n) {
            n = L - from > 20 && from % 2 ? any(2, 20) : 1;
            part = x;
            part.v = mmix_slice(m, x.v, 1, from, n);
            part.dt = mmix_slice(m, x.dt, 1, from, n);
            part.k = mmix_slice(m, x.k, 1, from, n);
            part.q = mmix_slice(m, x.q, 1, from, n);
            part.z = mmix_slice(m, x.z, 1, from, n);
            SAME(mmix_mix_step(m, &part, s, 0), mmix_slice(m, y, 1, from, n));
        }
        SAME(again, last);
        mmix_mix_state_destroy(s);
        FINE(m);
        mmix_reset(m);
    }
}
/* y and all gradients have the same bits for 1, 2, 3 and 5 threads: hashes of them all. */
static void selective_threads(void)
{
    static const int threads[4] = { 1, 2, 3, 5 };
    static const size_t shape[4][5] = { { 1, 70, 300, 1, 16 }, { 3, 9, 40, 2, 5 },
                                        { 1, 3, 1100, 1, 4 }, { 2, 130, 33, 1, 1 } };
    doing("selective scan, threads");
    for (int k = 0; k < 4; k++) {
        uint64_t first = 0;
        for (int t = 0; t < 4; t++) {
            const size_t *d = shape[k];
            mmix_ctx *m = context(threads[t], 0);
            state = 31;
            mmix_mixer x = any_selective(m, d[0], d[1], d[2], d[3], d[4]);
            mmix_tensor *last = NULL, *in[8];
            uint64_t h = 5;
            in[0] = x.q;
            in[1] = x.k;
            in[2] = x.v;
            in[3] = x.dt;
            in[4] = x.z;
            in[5] = x.A;
            in[6] = x.D;
            in[7] = x.dt_bias;
            x.final_state = &last;
            for (int i = 0; i < 8; i++)
                mmix_require_grad(in[i]);
            mmix_record(m, 1);
            mmix_tensor *y = mmix_mix(m, &x);
            h = hash_of(mmix_data(y), mmix_count(y), h);
            h = hash_of(mmix_data(last), mmix_count(last), h);
            mmix_backward(m, mmix_sum(m, mmix_mul(m, y, y)));
            for (int i = 0; i < 8; i++)
                h = hash_of(mmix_data(mmix_grad(in[i])), mmix_count(in[i]), h);
            FINE(m);
            if (!t) first = h;
            CHECK(h == first);
            mmix_destroy(m);
        }
    }
}
/* Decays from nothing to all over long sequences, against the recurrence in double: measured
   1.1e-6 of the maximum in float at most, at every SIMD level. */
static void selective_exactness(mmix_ctx *m)
{
    enum { L = 4096, H = 19, N = 7 };
    doing("selective scan, exactness");
    for (int trial = 0; trial < 4; trial++) {
        mmix_mixer x = any_selective(m, 1, L, H, 1, N);
        double top = 0, error = 0;
        x.z = NULL;
        x.dt_softplus = 0;
        x.dt_bias = NULL;
        /* A from -1e-3 … -1 to -1 … -1000, dt from 1e-3 to 0.1 or to 100 */
        for (size_t i = 0; i < H * N; i++)
            mmix_data(x.A)[i] = (real)(-pow(1000, uniform()) * (trial < 2 ? 1e-3 : 1));
        for (size_t i = 0; i < L * H; i++)
            mmix_data(x.dt)[i] = (real)(1e-3 * pow(trial % 2 ? 1e5 : 1e2, uniform()));
        mmix_tensor *y = mmix_mix(m, &x);
        for (size_t d = 0; y && d < H; d++) {
            double h[N] = { 0 };
            for (size_t t = 0; t < L; t++) {
                const double delta = (double)mmix_data(x.dt)[t * H + d];
                const double value = (double)mmix_data(x.v)[t * H + d];
                const double found = (double)mmix_data(y)[t * H + d];
                double sum = (double)mmix_data(x.D)[d] * value;
                for (size_t n = 0; n < N; n++) {
                    const double decay = exp(delta * (double)mmix_data(x.A)[d * N + n]);
                    h[n] = decay * h[n] + delta * value * (double)mmix_data(x.k)[t * N + n];
                    sum += h[n] * (double)mmix_data(x.q)[t * N + n];
                }
                top = fmax(top, fabs(sum));
                error = found - found == 0 ? fmax(error, fabs(sum - found)) : HUGE_VAL;
            }
        }
        COMPARE(error <= top * (sizeof(real) == 4 ? 3e-6 : 1e-13),
                "the selective scan against the recurrence", error, top);
        FINE(m);
        mmix_reset(m);
    }
}
/* An infinity reaches the tokens behind it in its packed sequence, channel by channel, and no
   other. */
static void selective_not_finite(mmix_ctx *m)
{
    enum { L = 12, H = 20, N = 5 };
    static const int32_t packed_as[L] = { 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3 };
    const size_t s[2] = { 1, L };
    doing("selective scan, infinities");
    mmix_mixer x = any_selective(m, 1, L, H, 1, N);
    x.seq_idx = mmix_from_i32(m, 2, s, packed_as);
    mmix_data(x.v)[5 * H + 3] = INFINITY;
    mmix_tensor *y = mmix_mix(m, &x);
    for (size_t i = 0; y && i < L * H; i++) {
        const double value = (double)mmix_data(y)[i];
        const int reached = i % H == 3 && i / H >= 5 && i / H < 8;
        CHECK((value - value == 0) == !reached);
    }
    mmix_data(x.v)[5 * H + 3] = 1;
    mmix_data(x.k)[5 * N + 2] = (real)NAN;       /* all channels read B */
    y = mmix_mix(m, &x);
    for (size_t i = 0; y && i < L * H; i++)
        CHECK(isnan((double)mmix_data(y)[i]) == (i / H >= 5 && i / H < 8));
    FINE(m);
    mmix_reset(m);
}
/* An A above 0, and a NaN behind it in the same lane of a vector: their channels alone are reached,
   by the forward and by steps. */
static void selective_growing(mmix_ctx *m)
{
    enum { L = 3, H = 20, N = 5, GROWS = 3, NONE = 9 };
    doing("selective scan, growing");
    mmix_mixer x = any_selective(m, 1, L, H, 1, N), one = x;
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    mmix_data(x.A)[15] = 1000;                   /* of channel 3 */
    for (size_t t = 0; t < L; t++)
        mmix_data(x.dt)[t * H + GROWS] = 0;
    mmix_data(x.A)[15 + 32] = (real)NAN;         /* of channel 9 */
    mmix_tensor *y = mmix_mix(m, &x);
    for (size_t t = 0; y && t < L; t++) {
        one.v = mmix_slice(m, x.v, 1, t, 1);
        one.dt = mmix_slice(m, x.dt, 1, t, 1);
        one.k = mmix_slice(m, x.k, 1, t, 1);
        one.q = mmix_slice(m, x.q, 1, t, 1);
        one.z = mmix_slice(m, x.z, 1, t, 1);
        mmix_tensor *step = mmix_mix_step(m, &one, s, 0);
        for (size_t i = 0; step && i < H; i++) {
            const double whole = (double)mmix_data(y)[t * H + i];
            const double stepped = (double)mmix_data(step)[i];
            const int finite = i != NONE && i != GROWS;     /* ∞ times the first state, 0 */
            CHECK((whole - whole == 0) == finite);
            CHECK((stepped - stepped == 0) == finite);
        }
    }
    mmix_mix_state_destroy(s);
    FINE(m);
    mmix_reset(m);
}
static void selective_invariants(void)
{
    mmix_ctx *m = context(2, 3);
    state = 29;
    selective_as_ssd(m);
    selective_pieces(m);
    selective_exactness(m);
    selective_not_finite(m);
    selective_growing(m);
    mmix_destroy(m);
    selective_threads();
}

/* mmix_mix_hook: every mixer of a model, in order, with its values; what look does leaves no
   trace. */
typedef struct watched {
    int count, kinds[8], directions[8], recording;
    double sum;
    size_t tokens;
} watched;
static void look(void *user, mmix_ctx *m, const mmix_mixer *x)
{
    watched *w = (watched *)user;
    /* not watched again, not recorded */
    mmix_tensor *y = mmix_mix(m, x), *M = mmix_mix_matrix(m, x);
    if (w->count < 8) {
        w->kinds[w->count] = x->kind;
        w->directions[w->count] = x->direction;
    }
    w->count++;
    w->recording |= mmix_record(m, 0);
    w->tokens = mmix_shape(M, 2);
    if (y) w->sum += (double)mmix_data(y)[0];
}
static void watching(void)
{
    mmix_ctx *m = context(2, 3);
    doing("mmix_mix_hook");
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SSD; mixer++) {
        mmix_vision_config c = mixer == MMIX_MIXER_SSD ? mmix_vision_config_dinovim(256)
                                                       : mmix_vision_config_vit(192, 8);
        mmix_vision *v;
        mmix_features f, g;
        mmix_tensor *image, *loss;
        watched w;
        memset(&w, 0, sizeof w);
        c.mixer = mixer;
        c.dim = 32;
        c.depth = 2;
        c.heads = 2;
        c.patch = 8;
        c.grid = 3;
        c.mamba.head_dim = 16;
        v = mmix_vision_create(m, c);
        mmix_params_require_grad(mmix_vision_params(v), 1);
        image = mmix_fill_normal(m, mmix_new4(m, 1, 3, 24, 24), 1, 1);
        f = mmix_vision_forward(m, v, image, NULL);
        mmix_record(m, 1);
        mmix_mix_hook(m, look, &w);
        g = mmix_vision_forward(m, v, image, NULL);
        mmix_mix_hook(m, NULL, NULL);
        loss = mmix_mean(m, g.token);
        mmix_record(m, 0);
        ALIKE(f.token, g.token, 20 * EPS);
        IS(w.count, mixer == MMIX_MIXER_SSD ? 4 : 2);
        IS(w.tokens, mixer == MMIX_MIXER_SSD ? 11 : 10);
        CHECK(!w.recording && w.kinds[0] == mixer && w.kinds[1] == mixer);
        if (mixer == MMIX_MIXER_SSD)
            CHECK(w.directions[0] == MMIX_SCAN_FORWARD && w.directions[1] == MMIX_SCAN_REVERSE);
        CHECK(!mmix_backward(m, loss));
        FINE(m);
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    /* (B, L, heads, width): where token 2 of sequence 1 stands for head 5 of 6 */
    {
        mmix_real room[2 * 4 * 3 * 5];
        const mmix_head_view h = mmix_head_view_rows(room, 4, 3, 5, 6);
        CHECK(h.p + h.batch + 2 * h.token + (ptrdiff_t)(5 / h.share) * h.head
              == room + ((1 * 4 + 2) * 3 + 2) * 5);
    }
    mmix_destroy(m);
}

/* Long sequences with decays from nothing to all against the recurrence in double: measured 1.4e-6
   of the maximum in float at most, at every SIMD level. No NaN, no infinity. */
static void exactness(void)
{
    enum { L = 4096, H = 4, P = 5, N = 24 };
    mmix_ctx *m = context(2, 0);
    static double h[P * N];
    doing("exactness");
    for (int trial = 0; trial < 6; trial++) {
        mmix_tensor *x = mmix_fill_normal(m, mmix_new4(m, 1, L, H, P), 1, 1);
        mmix_tensor *B = mmix_fill_normal(m, mmix_new4(m, 1, L, 1, N), 0.2, 2);
        mmix_tensor *C = mmix_fill_normal(m, mmix_new4(m, 1, L, 1, N), 1, 3);
        mmix_tensor *dt = mmix_new3(m, 1, L, H);
        mmix_tensor *A = mmix_new1(m, H);
        mmix_tensor *y;
        mmix_mixer s = mmix_mixer_ssd(x, dt, A, B, C);
        double top = 0, error = 0;
        /* A from -1e-3 … -1 to -1 … -1000, dt from 1e-3 to 0.1 or to 100 */
        for (size_t i = 0; i < H; i++)
            mmix_data(A)[i] = (real)(-pow(1000, mmix_random_uniform(m, 1, (uint64_t)trial, i))
                                     * (trial % 3 == 1 ? 1e-3 : 1));
        for (size_t i = 0; i < L * H; i++)
            mmix_data(dt)[i] = (real)(1e-3
                                      * pow(trial % 2 ? 1e5 : 1e2,
                                            mmix_random_uniform(m, 2, (uint64_t)trial, i)));
        if (trial == 4) s.chunk = 16;
        else if (trial == 5) s.chunk = L;
        else s.chunk = 0;
        y = mmix_mix(m, &s);
        CHECK(y);
        for (size_t q = 0; y && q < H; q++) {
            memset(h, 0, sizeof h);
            for (size_t t = 0; t < L; t++) {
                const double d = (double)mmix_data(dt)[t * H + q];
                const double e = exp(d * (double)mmix_data(A)[q]);
                for (size_t p = 0; p < P; p++) {
                    double sum = 0;
                    double found = (double)mmix_data(y)[(t * H + q) * P + p];
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
        COMPARE(error <= top * (sizeof(real) == 4 ? 4e-6 : 1e-13), "SSD against the recurrence",
                error, top);
        mmix_reset(m);
    }
    mmix_destroy(m);
}

/* Numbers that are not finite: they show where they are, and only there. */
static void not_finite(void)
{
    enum { L = 600, W = 2 * L - 1 };
    mmix_ctx *m = context(1, 0);
    doing("scores of -infinity");
    mmix_tensor *q = mmix_fill_normal(m, mmix_new4(m, 1, L, 1, 4), 1, 1);
    mmix_tensor *bias = mmix_fill(mmix_new2(m, 1, W), 0);
    mmix_tensor *y, *M;
    mmix_mixer x = mmix_mixer_softmax(q, mmix_fill_normal(m, mmix_new4(m, 1, L, 1, 4), 1, 2),
                                      mmix_fill_normal(m, mmix_new4(m, 1, L, 1, 4), 1, 3));
    x.grid[0] = x.window[0] = L;
    x.grid[1] = x.grid[2] = x.window[1] = x.window[2] = 1;
    x.bias = bias;
    /* whole tiles of keys, the first ones of late rows, have nothing else */
    for (int d = 0; d < W; d++)
        if (abs(d - (L - 1)) > 20)
            mmix_data(bias)[d] = -INFINITY;
    y = mmix_mix(m, &x);
    M = mmix_mix_matrix(m, &x);
    CHECK(y && M);
    if (y && M) {
        mmix_tensor *v = times(m, M, x.v);
        double worst = 0;
        for (size_t i = 0; i < mmix_count(y); i++) {
            double d = fabs((double)mmix_data(y)[i] - (double)mmix_data(v)[i]);
            worst = d <= worst ? worst : d;      /* NaN stays */
        }
        COMPARE(worst <= 100 * EPS, "a window whose far scores are -infinity", worst, 0);
    }
    doing("an infinity in a step of SSD");
    x = mmix_mixer_ssd(mmix_fill(mmix_new4(m, 1, 1, 1, 1), INFINITY),
                       mmix_fill(mmix_new3(m, 1, 1, 1), 1), mmix_fill(mmix_new1(m, 1), -1),
                       mmix_fill(mmix_new4(m, 1, 1, 1, 3), 1),
                       mmix_fill(mmix_new4(m, 1, 1, 1, 3), 1));
    mmix_mix_state *state = mmix_mix_state_create(m, 1);
    y = mmix_mix_step(m, &x, state, 0);
    CHECK(y && isinf((double)*mmix_data(y)));
    mmix_mix_state_destroy(state);
    doing("NaN in features");
    for (int feature = MMIX_FEATURE_SOFTMAX_BOTH; feature <= MMIX_FEATURE_NONE; feature++) {
        x = mmix_mixer_linear(mmix_fill(mmix_new4(m, 1, 2, 1, 2), 0.5),
                              mmix_fill(mmix_new4(m, 1, 2, 1, 2), 0.5),
                              mmix_fill(mmix_new4(m, 1, 2, 1, 1), 1));
        mmix_data(x.q)[2] = (real)NAN;
        x.feature = feature;
        y = mmix_mix(m, &x);
        CHECK(y && !isnan((double)mmix_data(y)[0]) && isnan((double)mmix_data(y)[1]));
    }
    mmix_destroy(m);
}

/* ---- steps of softmax attention ---- */

/* Tokens from .. from + n - 1 of a mixer. */
static mmix_mixer tokens_of(mmix_ctx *m, const mmix_mixer *x, size_t from, size_t n)
{
    mmix_mixer part = *x;
    part.q = mmix_slice(m, x->q, 1, from, n);
    part.k = mmix_slice(m, x->k, 1, from, n);
    part.v = mmix_slice(m, x->v, 1, from, n);
    return part;
}
/* The rows of y from `from` on. */
static mmix_tensor *rows_from(mmix_ctx *m, mmix_tensor *y, size_t from, size_t n)
{
    return mmix_slice(m, y, 1, from, n);
}
/* A first piece of `first` tokens and then one token after another give the rows of the whole. A copy
   of the state, taken in the middle, goes on with the same bits. */
static void steps_as_whole(mmix_ctx *m, const mmix_mixer *x, mmix_tensor *whole, size_t first)
{
    size_t L = mmix_shape(x->q, 1);
    size_t middle = first + (L - first) / 2;
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    mmix_mix_state *copy = NULL;
    for (size_t t = 0, n; t < L; t += n) {
        mmix_mark mark = mmix_mark_here(m);
        n = t ? 1 : first;
        mmix_mixer part = tokens_of(m, x, t, n);
        mmix_tensor *y = mmix_mix_step(m, &part, s, 0);
        ALIKE(y, rows_from(m, whole, t, n), MIX * EPS);
        if (copy) CHECK(apart(mmix_mix_step(m, &part, copy, 0), y) == 0);
        if (!copy && t >= middle) copy = mmix_mix_state_copy(s);
        IS(mmix_mix_state_tokens(s, 0), t + n);
        mmix_rewind(m, mark);
    }
    mmix_mix_state_destroy(copy);
    mmix_mix_state_destroy(s);
}
/* The state grows at its first token, when its room is full and when a piece is longer than what is
   left. Heads lie apart in it, each with room of its own. */
static void growing_state(mmix_ctx *m, size_t heads, size_t groups)
{
    static const size_t edge[] = { 1, 15, 16, 17, 255, 256, 257 };
    enum { B = 2, MOST = 257 + 20, N = 5, P = 7 };
    mmix_mark mark = mmix_mark_here(m);
    mmix_mixer x = mmix_mixer_softmax(random4(m, B, MOST, heads, N, -2, 2),
                                      random4(m, B, MOST, groups, N, -2, 2),
                                      random4(m, B, MOST, groups, P, -2, 2));
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++) {
        mmix_mixer some = tokens_of(m, &x, 0, edge[i] + 20);
        some.mask = MMIX_MASK_CAUSAL;
        steps_as_whole(m, &some, mmix_mix(m, &some), edge[i]);
        some.mask = MMIX_MASK_PREFIX;
        some.prefix = edge[i];
        steps_as_whole(m, &some, mmix_mix(m, &some), edge[i]);
        some.mask = MMIX_MASK_BAND;
        some.left = i < 4 ? 3 : 16;
        steps_as_whole(m, &some, mmix_mix(m, &some), edge[i]);
    }
    x.mask = MMIX_MASK_CAUSAL;
    steps_as_whole(m, &x, mmix_mix(m, &x), 1);
    mmix_rewind(m, mark);
}
/* So many keys that a step cuts them into pieces of several tiles; the last `few` tokens, one by one,
   into y (B, few, heads, P). A late key with a large score makes what other pieces gave small. */
static void long_steps(mmix_ctx *m, mmix_mixer *x, size_t few, real *y)
{
    size_t L = mmix_shape(x->q, 1);
    size_t row = mmix_shape(x->q, 2) * mmix_shape(x->v, 3);
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    mmix_mixer part = tokens_of(m, x, 0, L - few);
    mmix_mix_step(m, &part, s, 0);
    for (size_t i = 0; i < few; i++) {
        part = tokens_of(m, x, L - few + i, 1);
        mmix_tensor *one = mmix_mix_step(m, &part, s, 0);
        CHECK(one);
        for (size_t b = 0; one && b < mmix_shape(one, 0); b++)
            memcpy(y + (b * few + i) * row, mmix_data(one) + b * row, row * sizeof *y);
    }
    mmix_mix_state_destroy(s);
}
static void long_state(size_t B, size_t heads, size_t groups)
{
#ifdef MMIX_REGRESSION
    enum { L = 40 };
#else
    enum { L = 1100 };
#endif
    enum { N = 6, P = 9, FEW = 3 };
    real y[2][2 * FEW * 4 * P];
    for (int t = 0; t < 2; t++) {
        mmix_ctx *m = context(t ? 3 : 1, 0);
        state = 31;
        mmix_mixer x = mmix_mixer_softmax(random4(m, B, L, heads, N, -2, 2),
                                          random4(m, B, L, groups, N, -2, 2),
                                          random4(m, B, L, groups, P, -2, 2));
        for (size_t i = 0; i < groups * N; i++)
            mmix_data(x.k)[L * 3 / 4 * groups * N + i] *= 20;
        x.mask = MMIX_MASK_CAUSAL;
        long_steps(m, &x, FEW, y[t]);
        mmix_tensor *steps = mmix_new4(m, B, FEW, heads, P);
        mmix_write(steps, y[t]);
        ALIKE(steps, rows_from(m, mmix_mix(m, &x), L - FEW, FEW), MIX * EPS);
        mmix_destroy(m);
    }
    CHECK(!memcmp(y[0], y[1], B * FEW * heads * P * sizeof(real)));
}
/* One query among many keys, recorded: its gradients are those of the same query asked twice. */
static void one_query(void)
{
    mmix_ctx *m = context(1, 1);
    mmix_tensor *k = random4(m, 1, 70, 2, 5, -1, 1);
    mmix_tensor *v = random4(m, 1, 70, 2, 3, -1, 1);
    mmix_tensor *q[2], *grad[2][2];
    q[0] = random4(m, 1, 1, 4, 5, -1, 1);
    mmix_tensor *twice[2] = { q[0], q[0] };
    q[1] = mmix_concat(m, 1, twice, 2);
    for (int i = 0; i < 2; i++) {
        mmix_tensor *key = mmix_require_grad(mmix_affine(m, k, 1, 0));
        mmix_tensor *value = mmix_require_grad(mmix_affine(m, v, 1, 0));
        mmix_record(m, 1);
        mmix_mixer x = mmix_mixer_softmax(q[i], key, value);
        mmix_backward(m, mmix_mean(m, mmix_mul(m, mmix_mix(m, &x), mmix_mix(m, &x))));
        mmix_record(m, 0);
        grad[i][0] = mmix_grad(key);
        grad[i][1] = mmix_grad(value);
    }
    for (int i = 0; i < 2; i++)
        ALIKE(grad[0][i], grad[1][i], MIX * EPS);
    mmix_destroy(m);
}
static void softmax_steps(void)
{
    mmix_ctx *m = context(2, 0);
    state = 23;
    doing("a state that grows");
    growing_state(m, 3, 3);
    growing_state(m, 4, 2);
    mmix_destroy(m);
    doing("a long state");
    long_state(1, 2, 2);
    long_state(2, 4, 1);
    doing("one query");
    one_query();
}

/* RetNet's retention, from its own formula (Sun et al. 2023, eq. 5): M_nm = γ^(n-m) q_n·k_m for
   n ≥ m, else 0. */
static void retention(void)
{
    enum { B = 2, L = 70, H = 3, N = 5, P = 4 };
    mmix_ctx *m = context(1, 0);
    mmix_tensor *q = mmix_fill_normal(m, mmix_new4(m, B, L, H, N), 1, 1);
    mmix_tensor *k = mmix_fill_normal(m, mmix_new4(m, B, L, H, N), 1, 2);
    mmix_tensor *v = mmix_fill_normal(m, mmix_new4(m, B, L, H, P), 1, 3);
    mmix_tensor *A = mmix_new1(m, H);
    mmix_mixer x = mmix_mixer_ssd(v, mmix_fill(mmix_new3(m, B, L, H), 1), A, k, q);
    mmix_tensor *expected = mmix_new4(m, B, H, L, L);
    doing("RetNet");
    for (size_t h = 0; h < H; h++)
        mmix_data(A)[h] = (real)log(1 - pow(2, -5 - (double)h));
    for (size_t i = 0; i < B * H * L * L; i++) {
        size_t b = i / L / L / H;
        size_t h = i / L / L % H;
        size_t n = i / L % L, t = i % L;
        double dot = 0, gamma = 1 - pow(2, -5 - (double)h);
        for (size_t c = 0; c < N; c++)
            dot += (double)mmix_data(q)[((b * L + n) * H + h) * N + c]
                   * (double)mmix_data(k)[((b * L + t) * H + h) * N + c];
        mmix_data(expected)[i] = n < t ? 0 : (real)(pow(gamma, (double)(n - t)) * dot);
    }
    ALIKE(mmix_mix_matrix(m, &x), expected, 8 * EPS);
    ALIKE(mmix_mix(m, &x), times(m, expected, v), MIX * EPS);
    FINE(m);
    mmix_destroy(m);
}

/* ---- rank augmentation of linear attention, as a loop ---- */

enum { AUG_L = 7, AUG_H = 2, AUG_N = 3, AUG_D = AUG_H * AUG_N };
static double feature_of(const double *x, size_t n, int feature)         /* one of AUG_N numbers */
{
    double sum = 0;
    if (feature == MMIX_FEATURE_NONE) return x[n];
    if (feature == MMIX_FEATURE_RELU) return x[n] > 0 ? x[n] : 0;
    if (feature == MMIX_FEATURE_ELU1) return x[n] > 0 ? x[n] + 1 : exp(x[n]);
    for (size_t i = 0; i < AUG_N; i++) sum += exp(x[i]);
    return exp(x[n]) / sum;
}
/* row r of W x + b */
static double row_of(const mmix_tensor *W, const mmix_tensor *b, size_t r, const real *x)
{
    double sum = b ? (double)mmix_data(b)[r] : 0;
    for (size_t i = 0; i < AUG_D; i++)
        sum += (double)mmix_data(W)[r * AUG_D + i] * (double)x[i];
    return sum;
}
/* What proj reads of one head of a sequence x (L, D). */
static void augmented_head(const mmix_attention_layer *l, const real *x, size_t h, double *y)
{
    double q[AUG_L][AUG_N], k[AUG_L][AUG_N], f[AUG_L][AUG_N], g[AUG_L][AUG_N], alpha[AUG_L];
    const int feature = l->options.feature;
    for (size_t t = 0; t < AUG_L; t++)
        for (size_t n = 0; n < AUG_N; n++) {
            q[t][n] = row_of(l->qkv_weight, l->qkv_bias, h * AUG_N + n, x + t * AUG_D);
            k[t][n] = row_of(l->qkv_weight, l->qkv_bias, AUG_D + h * AUG_N + n, x + t * AUG_D);
        }
    for (size_t t = 0; t < AUG_L; t++)
        for (size_t n = 0; n < AUG_N; n++) {
            double over_tokens = 0;
            for (size_t s = 0; s < AUG_L; s++) over_tokens += exp(k[s][n]);
            f[t][n] = feature_of(q[t], n, feature);
            g[t][n] = feature_of(k[t], n, feature);
            if (feature == MMIX_FEATURE_EFFICIENT) g[t][n] = exp(k[t][n]) / over_tokens;
        }
    double all = 0;
    for (size_t t = 0; t < AUG_L; t++) {
        double score = 0;
        for (size_t n = 0; n < AUG_N; n++)
            for (size_t s = 0; s < AUG_L; s++) score += f[s][n] / AUG_L * g[t][n];
        alpha[t] = AUG_L * exp(score / sqrt((double)AUG_N));
        all += alpha[t] / AUG_L;
    }
    for (size_t t = 0; t < AUG_L; t++)
        alpha[t] = l->augment & MMIX_AUGMENT_KEYS ? alpha[t] / all : 1;
    const int divided = l->options.normalize > 0 || feature == MMIX_FEATURE_ELU1
                     || feature == MMIX_FEATURE_RELU;
    for (size_t i = 0; i < AUG_L; i++)
        for (size_t p = 0; p < AUG_N; p++) {
            double sum = 0, whole = 1e-6;
            const size_t at = h * AUG_N + p;
            for (size_t j = 0; j < AUG_L; j++) {
                double M = 0;
                for (size_t n = 0; n < AUG_N; n++) M += f[i][n] * alpha[j] * g[j][n];
                sum += M * row_of(l->qkv_weight, l->qkv_bias, 2 * AUG_D + at, x + j * AUG_D);
                whole += M;
            }
            if (divided) sum /= whole;
            if (l->augment & MMIX_AUGMENT_OUTPUT)
                sum *= row_of(l->gate_weight, l->gate_bias, at, x + i * AUG_D);
            y[i * AUG_D + at] = sum;
        }
}
static void augmented_layer(int feature, int augment, int normalize)
{
    mmix_ctx *m = context(1, 0);
    mmix_params *p = mmix_params_create(m);
    mmix_attention_layer l;
    mmix_attention_init(&l, p, "a.", AUG_D, AUG_H, MMIX_MIXER_LINEAR, 1);
    CHECK(!mmix_attention_augment(&l, p, "a.", augment) && l.augment == augment);
    CHECK(!mmix_params_find(p, "a.gate.weight") == !(augment & MMIX_AUGMENT_OUTPUT));
    mmix_params_allocate(p);
    for (size_t i = 0; i < p->count; i++) mmix_fill_normal(m, p->at[i].tensor, 0.7, i);
    l.options.feature = feature;
    l.options.normalize = normalize;
    mmix_tensor *x = mmix_fill_normal(m, mmix_new3(m, 2, AUG_L, AUG_D), 1, 99);
    mmix_tensor *y = mmix_attention_forward(m, &l, x, NULL, NULL, NULL, 0);
    double worst = 0;
    for (size_t b = 0; b < 2 && y; b++) {
        double heads[AUG_L * AUG_D];
        for (size_t h = 0; h < AUG_H; h++)
            augmented_head(&l, mmix_data(x) + b * AUG_L * AUG_D, h, heads);
        for (size_t t = 0; t < AUG_L; t++)
            for (size_t r = 0; r < AUG_D; r++) {
                double sum = (double)mmix_data(l.proj_bias)[r];
                for (size_t i = 0; i < AUG_D; i++)
                    sum += (double)mmix_data(l.proj_weight)[r * AUG_D + i] * heads[t * AUG_D + i];
                const double found = (double)mmix_data(y)[(b * AUG_L + t) * AUG_D + r];
                worst = fmax(worst, fabs(found - sum) / (1 + fabs(sum)));
            }
    }
    snprintf(about, sizeof about, "feature %d augment %d normalize %d: %.1e apart", feature, augment,
             normalize, worst);
    CHECK_AT(y && worst < (sizeof(real) == 8 ? 1e-12 : 2e-5), about);
    FINE(m);
    mmix_params_destroy(p);
    mmix_destroy(m);
}
static void augmented(void)
{
    for (int feature = MMIX_FEATURE_SOFTMAX_BOTH; feature < MMIX_FEATURE_NONE; feature++)
        for (int augment = 0; augment < 4; augment++)
            for (int normalize = 0; normalize < 2; normalize++)
                augmented_layer(feature, augment, normalize);
    augmented_layer(MMIX_FEATURE_NONE, 3, 0);
    mmix_ctx *m = context(1, 0);
    mmix_params *p = mmix_params_create(m);
    mmix_attention_layer l;
    mmix_attention_init(&l, p, "s.", AUG_D, AUG_H, MMIX_MIXER_SOFTMAX, 1);
    REFUSED(m, mmix_attention_augment(&l, p, "s.", 1), "kind 0 with mask 0, expected");
    mmix_attention_init(&l, p, "a.", AUG_D, AUG_H, MMIX_MIXER_LINEAR, 1);
    REFUSED(m, mmix_attention_augment(&l, p, "a.", 4), "augment is 4, expected 0 to 3");
    REFUSED(m, mmix_attention_augment(NULL, p, "a.", 1), "layer is NULL");
    l.options.mask = MMIX_MASK_CAUSAL;
    REFUSED(m, mmix_attention_augment(&l, p, "a.", 1), "kind 1 with mask 1");
    l.options.mask = MMIX_MASK_NONE;
    CHECK(!mmix_attention_augment(&l, p, "a.", MMIX_AUGMENT_KEYS));
    mmix_params_allocate(p);
    mmix_mix_state *state = mmix_mix_state_create(m, 1);
    mmix_tensor *x = mmix_fill(mmix_new3(m, 1, 2, AUG_D), 1);
    REFUSED(m, !mmix_attention_forward(m, &l, x, NULL, NULL, state, 0), "expected none");
    mmix_mix_state_destroy(state);
    mmix_params_destroy(p);
    mmix_destroy(m);
}

/* A hook that ends itself is called once; one that puts another in its place is followed by it. */
static void look_once(void *user, mmix_ctx *m, const mmix_mixer *x)
{
    watched *w = (watched *)user;
    w->count++;
    w->tokens = mmix_shape(x->q, 1);
    mmix_mix_hook(m, NULL, NULL);
}
static void look_then(void *user, mmix_ctx *m, const mmix_mixer *x)
{
    (void)x;
    mmix_mix_hook(m, look_once, user);
}
/* A model whose own look is taken inside of a look: its numbers are those outside. */
typedef struct inside { const mmix_vision *v; mmix_tensor *image, *outside; int count; } inside;
static void look_inside(void *user, mmix_ctx *m, const mmix_mixer *x)
{
    inside *w = (inside *)user;
    (void)x;
    w->count++;
    SAME(mmix_vision_attention(m, w->v, w->image, 0), w->outside);
}
static void hook_in_a_hook(mmix_ctx *m)
{
    mmix_vision_config c = mmix_vision_config_vit(192, 8);
    inside w;
    doing("the rows of a model inside of a hook");
    c.dim = 32;
    c.depth = 1;
    c.heads = 2;
    c.patch = 8;
    c.grid = 3;
    mmix_vision *v = mmix_vision_create(m, c);
    w.v = v;
    w.image = mmix_fill_normal(m, mmix_new4(m, 1, 3, 24, 24), 1, 1);
    w.outside = mmix_vision_attention(m, v, w.image, 0);
    w.count = 0;
    CHECK(largest(w.outside) > 0);
    mmix_mix_hook(m, look_inside, &w);
    for (int i = 0; i < 2; i++) mmix_vision_forward(m, v, w.image, NULL);
    mmix_mix_hook(m, NULL, NULL);
    IS(w.count, 2);
    FINE(m);
    mmix_vision_destroy(v);
}
static void hooks_change(mmix_ctx *m)
{
    watched w;
    mmix_tensor *t = mmix_fill_normal(m, mmix_new4(m, 1, 3, 1, 2), 1, 1);
    mmix_mixer x = mmix_mixer_softmax(t, t, t);
    doing("a hook that changes the hook");
    memset(&w, 0, sizeof w);
    mmix_mix_hook(m, look_once, &w);
    for (int i = 0; i < 3; i++) mmix_mix(m, &x);
    IS(w.count, 1);
    mmix_mix_hook(m, look_then, &w);
    for (int i = 0; i < 3; i++) mmix_mix(m, &x);
    IS(w.count, 2);
    mmix_mix_hook(NULL, look_once, &w);
    FINE(m);
}
/* The backward of one token whose final state lies where the initial one does is that of a final
   state elsewhere. */
enum { ONE_H = 2, ONE_N = 3 };
static void backward_in_place(int kind)
{
    enum { P_MAX = 4 };
    const size_t P = kind == MMIX_MIXER_SSD ? P_MAX : 1;
    const size_t n = ONE_H * P;
    real q[ONE_N], k[ONE_N], v[ONE_H * P_MAX], y[ONE_H * P_MAX], dy[ONE_H * P_MAX];
    real dv[2][ONE_H * P_MAX], state[2][ONE_H * P_MAX * ONE_N], dt[ONE_H], A[ONE_H * ONE_N];
    mmix_raw x;
    memset(&x, 0, sizeof x);
    x.o.kind = kind;
    x.B = x.L = x.S = 1;
    x.H = ONE_H;
    x.N = ONE_N;
    x.P = P;
    for (size_t i = 0; i < ONE_N; i++) q[i] = k[i] = (real)(uniform() - 0.5);
    for (size_t i = 0; i < n; i++) v[i] = dy[i] = (real)(uniform() - 0.5);
    for (size_t i = 0; i < ONE_H * ONE_N; i++) A[i] = -1;
    for (size_t i = 0; i < ONE_H; i++) dt[i] = (real)0.3;
    for (size_t i = 0; i < n * ONE_N; i++) state[0][i] = (real)(uniform() - 0.5);
    memcpy(state[1], state[0], sizeof state[0]);
    x.q = mmix_head_view_rows(q, 1, 1, ONE_N, ONE_H);
    x.k = mmix_head_view_rows(k, 1, 1, ONE_N, ONE_H);
    x.v = mmix_head_view_rows(v, 1, ONE_H, P, ONE_H);
    x.y = mmix_head_view_rows(y, 1, ONE_H, P, ONE_H);
    x.dt = mmix_head_view_rows(dt, 1, ONE_H, 1, ONE_H);
    x.dy = mmix_head_view_rows(dy, 1, ONE_H, P, ONE_H);
    x.A = A;
    x.initial_state = state[0];
    real *scratch = (real *)malloc((mmix_raw_scratch_size(&x, 0) + 1) * sizeof *scratch);
    mmix_raw_forward(&x, scratch);
    free(scratch);
    for (int in_place = 0; in_place < 2; in_place++) {
        for (size_t i = 0; i < n; i++) dv[in_place][i] = -7;
        x.dv = mmix_head_view_rows(dv[in_place], 1, ONE_H, P, ONE_H);
        x.final_state = in_place ? state[0] : NULL;
        scratch = (real *)malloc((mmix_raw_scratch_size(&x, 1) + 1) * sizeof *scratch);
        mmix_raw_backward(&x, scratch);
        free(scratch);
    }
    CHECK(!memcmp(dv[0], dv[1], n * sizeof(real)) && dv[1][0] > -7);
    CHECK(!memcmp(state[0], state[1], n * ONE_N * sizeof(real)));
}
/* A slot carries one kind of thing, whatever the shapes. */
static void slots_keep_their_kind(mmix_ctx *m)
{
    doing("a slot of another kind");
    mmix_mix_state *s = mmix_mix_state_create(m, 2);
    mmix_tensor *k = mmix_fill_normal(m, mmix_new4(m, 1, 1, 1, 3), 1, 2);
    mmix_tensor *v = mmix_fill(mmix_new4(m, 1, 1, 1, 1), 1);
    mmix_tensor *u = mmix_fill(mmix_new4(m, 1, 1, 200, 1), 1);
    mmix_tensor *dt = mmix_fill(mmix_new3(m, 1, 1, 200), 1);
    mmix_tensor *A = mmix_fill(mmix_new2(m, 200, 3), -1);
    mmix_mixer scan = mmix_mixer_selective(u, dt, A, k, k);
    mmix_mixer attention = mmix_mixer_softmax(k, k, v);
    attention.mask = MMIX_MASK_CAUSAL;
    CHECK(mmix_mix_step(m, &scan, s, 0) && mmix_mix_step(m, &attention, s, 1));
    BAD(mmix_mix_step(m, &attention, s, 0), "mmix_mix_step", "the slot carries a state");
    BAD(mmix_mix_step(m, &scan, s, 1), "mmix_mix_step", "the slot carries keys and values");
    mmix_mix_state *copy = mmix_mix_state_copy(s);
    BAD(mmix_mix_step(m, &attention, copy, 0), "mmix_mix_step", "the slot carries a state");
    IS(mmix_mix_state_tokens(s, 0), 1);
    mmix_mix_state_clear(s);
    CHECK(mmix_mix_step(m, &attention, s, 0));
    FINE(m);
    mmix_mix_state_destroy(copy);
    mmix_mix_state_destroy(s);
}
static void odd_windows(mmix_ctx *m)
{
    doing("windows");
    const size_t grid[2] = { 2, 2 }, none[2] = { 0, 1 }, huge[2] = { SIZE_MAX - 1, 1 };
    mmix_tensor *t = mmix_fill_normal(m, mmix_new4(m, 1, 4, 1, 2), 1, 3);
    mmix_mixer x = mmix_mixer_softmax(t, t, t);
    IS(mmix_mixer_windows(&x, 2, grid, none, 0), -1);
    BAD(mmix_mix(m, &x), "mmix_mix", "at least 1");
    IS(mmix_mixer_windows(&x, 2, none, grid, 0), -1);
    IS(mmix_mixer_windows(&x, 2, grid, huge, 0), 0);
    x.shift[0] = 1;
    BAD(mmix_mix(m, &x), "window[0] is", "expected 1 to 2147483647");
    mmix_mixer scan = mmix_mixer_ssd(t, mmix_fill(mmix_new3(m, 1, 4, 1), 1),
                                     mmix_fill(mmix_new1(m, 1), -1), t, t);
    scan.dt_low = 0.1;
    scan.dt_high = 0.01;
    BAD(mmix_mix(m, &scan), "mmix_mix", "dt_low is above dt_high");
}
/* A step over many equal keys is as exact as a whole sequence: y is their common value. */
static void long_step(mmix_ctx *m)
{
    enum { KEYS = 300000 };
    doing("a step after 300,000 tokens");
    mmix_tensor *q = mmix_fill(mmix_new4(m, 1, 1, 1, 1), 0);
    mmix_tensor *k = mmix_fill(mmix_new4(m, 1, KEYS, 1, 1), 0);
    mmix_tensor *v = mmix_fill(mmix_new4(m, 1, KEYS, 1, 2), 0.1);
    mmix_mixer x = mmix_mixer_softmax(q, k, v);
    mmix_tensor *y = mmix_mix(m, &x);
    NEAR(mmix_data(y)[1], 0.1, 100 * EPS);
    FINE(m);
}
/* The longest chunk is 1024, whatever is asked for. */
static void long_chunks(mmix_ctx *m)
{
    doing("a chunk of 2^31 tokens");
    mmix_tensor *t = mmix_fill_normal(m, mmix_new4(m, 1, 1500, 1, 2), 1, 3);
    mmix_mixer x = mmix_mixer_ssd(t, mmix_fill(mmix_new3(m, 1, 1500, 1), 0.1),
                                  mmix_fill(mmix_new1(m, 1), -1), t, t);
    mmix_tensor *y = mmix_mix(m, &x);
    x.chunk = (size_t)1 << 31;
    ALIKE(mmix_mix(m, &x), y, 200 * EPS);
    FINE(m);
}
static void far_scores(mmix_ctx *m)              /* beyond a float's, in the double build */
{
    if (sizeof(real) == 4) return;
    doing("scores of -1e40");
    mmix_tensor *q = mmix_fill(mmix_new4(m, 1, 2, 1, 1), -1e20);
    mmix_tensor *k = mmix_fill(mmix_new4(m, 1, 2, 1, 1), 1e20);
    mmix_tensor *v = mmix_fill(mmix_new4(m, 1, 2, 1, 1), 0.5);
    mmix_mixer x = mmix_mixer_softmax(q, k, v);
    NEAR(mmix_data(mmix_mix(m, &x))[1], 0.5, EPS);
    x.mask = MMIX_MASK_CAUSAL;
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    for (size_t i = 0; i < 2; i++) {
        x.q = mmix_slice(m, q, 1, i, 1);
        x.k = mmix_slice(m, k, 1, i, 1);
        x.v = mmix_slice(m, v, 1, i, 1);
        NEAR(mmix_data(mmix_mix_step(m, &x, s, 0))[0], 0.5, EPS);
    }
    mmix_mix_state_destroy(s);
    FINE(m);
}
static void edges(void)
{
    mmix_ctx *m = context(2, 4);
    hooks_change(m);
    hook_in_a_hook(m);
    doing("a raw backward in place");
    backward_in_place(MMIX_MIXER_SSD);
    backward_in_place(MMIX_MIXER_SELECTIVE);
    slots_keep_their_kind(m);
    odd_windows(m);
    long_step(m);
    long_chunks(m);
    far_scores(m);
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "attention", attention_invariants }, { "ssd", ssd_invariants },
        { "selective", selective_invariants }, { "watching", watching },
        { "exactness", exactness }, { "finite", not_finite },
        { "retention", retention }, { "steps", softmax_steps },
        { "augmented", augmented }, { "edges", edges }
    };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
