/* video.c - labels carried through a video against the definition, on textured objects that move,
   and the measures J and F of masks drawn by hand */
#include "test.h"

static mmix_tensor *labels_of(mmix_ctx *m, size_t h, size_t w, const int32_t *values)
{
    size_t shape[2];
    mmix_tensor *t;
    shape[0] = h;
    shape[1] = w;
    t = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; t && i < h * w; i++)
        mmix_data_i32(t)[i] = values ? values[i] : 0;
    return t;
}
static mmix_tensor *tokens_of(mmix_ctx *m, size_t n, size_t D, const real *values)
{
    mmix_tensor *t = mmix_new2(m, n, D);
    if (t)
        memcpy(mmix_data(t), values, n * D * sizeof *values);
    return t;
}
/* The same as columns of something wider, and as patches behind a class token. */
static mmix_tensor *tokens_in(mmix_ctx *m, size_t n, size_t D, const real *values, int how)
{
    mmix_tensor *t = how == 1 ? mmix_new2(m, n, D + 3) : random3(m, 1, n + 1, D, 5, 6);
    if (!how) return tokens_of(m, n, D, values);
    t = mmix_slice(m, t, 1, how == 1 ? 2 : 1, how == 1 ? D : n);
    mmix_write(t, values);
    return t;
}
static mmix_video_config config_of(size_t frames, size_t radius, size_t k, double temperature)
{
    mmix_video_config c;
    c.frames = frames;
    c.radius = radius;
    c.k = k;
    c.temperature = temperature;
    return c;
}

/* ---- the definition, written anew: every context token of a frame's whole grid, sorted ---- */

/* three products a row */
enum { GH = 5, GW = 29, N = GH * GW, D = 6, K = 3, H = 31, W = 67, FRAMES = 7 };
typedef struct near_one { double cosine; size_t frame, token, order; } near_one;
static int nearer(const void *a, const void *b)
{
    const near_one *x = (const near_one *)a, *y = (const near_one *)b;
    if (x->cosine != y->cosine)
        return x->cosine > y->cosine ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}
static double cosine_of(const real *a, const real *b, size_t width)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < width; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa) / sqrt(bb);
}
/* soft[c] of token p of frame `now`; returns how far the last that counts is from the first that
   does not. */
static double plain_token(double *soft, const real *x, size_t width, real (*known)[K * N],
                          size_t now, size_t p, mmix_video_config c)
{
    static near_one all[FRAMES * N];
    size_t n = 0, k;
    double sum = 0;
    for (size_t f = 0; f < now; f++) {
        if (f > 0 && now - f > c.frames) continue;
        for (size_t q = 0; q < N; q++) {
            const long dy = labs((long)(p / GW) - (long)(q / GW));
            const long dx = labs((long)(p % GW) - (long)(q % GW));
            if (c.radius && (dy > (long)c.radius || dx > (long)c.radius))
                continue;
            all[n].cosine = cosine_of(x + (now * N + p) * width, x + (f * N + q) * width, width);
            all[n].frame = f;
            all[n].token = q;
            all[n].order = n;
            n++;
        }
    }
    qsort(all, n, sizeof *all, nearer);
    k = n < c.k ? n : c.k;
    for (size_t l = 0; l < K; l++)
        soft[l] = 0;
    for (size_t i = 0; i < k; i++) {
        const double w = exp(all[i].cosine / c.temperature);
        sum += w;
        for (size_t l = 0; l < K; l++)
            soft[l] += w * known[all[i].frame][l * N + all[i].token];
    }
    for (size_t l = 0; l < K; l++)
        soft[l] /= sum;
    return n > k ? all[k - 1].cosine - all[k].cosine : 1;
}
static double bilinear(const real *map, double y, double x)        /* pixel (y, x) of H x W */
{
    double v = (y + 0.5) * GH / H - 0.5;
    double u = (x + 0.5) * GW / W - 0.5;
    size_t t, l, b, r;
    v = v < 0 ? 0 : v;
    u = u < 0 ? 0 : u;
    t = (size_t)v;
    l = (size_t)u;
    b = t + 1 < GH ? t + 1 : t;
    r = l + 1 < GW ? l + 1 : l;
    v -= (double)t;
    u -= (double)l;
    return (1 - v) * ((1 - u) * map[t * GW + l] + u * map[t * GW + r])
           + v * ((1 - u) * map[b * GW + l] + u * map[b * GW + r]);
}
static void plain_labels(double (*score)[K], const real *soft)     /* of each pixel and label */
{
    for (size_t c = 0; c < K; c++) {
        double low = 1e9, high = -1e9;
        for (size_t i = 0; i < H * W; i++) {
            score[i][c] = bilinear(soft + c * N, (double)(i / W), (double)(i % W));
            low = score[i][c] < low ? score[i][c] : low;
            high = score[i][c] > high ? score[i][c] : high;
        }
        for (size_t i = 0; i < H * W && high - low > 1e-5 * high; i++)
            score[i][c] = (score[i][c] - low) / (high - low);
    }
}

static void against_plain(mmix_ctx *m, mmix_video_config c, size_t width, int signs)
{
    static real x[FRAMES * N * D], known[FRAMES][K * N];
    static double score[H * W][K];
    int32_t mask[H * W];
    mmix_video *v;
    size_t compared = 0, pixels = 0;
    double worst = 0;
    for (size_t i = 0; i < FRAMES * N * width; i++)
        x[i] = signs ? (real)(uniform() < 0.5 ? -2 : 2) : (real)(uniform() - 0.4);
    for (size_t i = 0; i < H * W; i++)
        mask[i] = (int32_t)((i / W / 6 + i % W / 7) % K);
    memset(known, 0, sizeof known);
    for (size_t p = 0; p < N; p++) {             /* the pixel in the middle of the token */
        const size_t y = (size_t)(((double)(p / GW) + 0.5) * H / GH);
        const size_t z = (size_t)(((double)(p % GW) + 0.5) * W / GW);
        known[0][(size_t)mask[y * W + z] * N + p] = 1;
    }
    v = mmix_video_create(m, c, tokens_of(m, N, width, x), GH, GW, labels_of(m, H, W, mask), K);
    for (size_t f = 1; CHECK(v) && f < FRAMES; f++) {
        const size_t soft_shape[3] = { K, GH, GW }, label_shape[2] = { H, W };
        size_t wrong = 0;
        mmix_video_frame r;
        mmix_reset(m);
        CHECK(mmix_video_next(v, tokens_in(m, N, width, x + f * N * width, (int)(f % 3)), &r) == 0);
        FINE(m);
        if (!CHECK(has_shape(r.soft, 3, soft_shape) && has_shape(r.labels, 2, label_shape)))
            break;
        memcpy(known[f], mmix_data(r.soft), sizeof known[f]);
        for (size_t p = 0; p < N; p++) {
            double soft[K];
            if (plain_token(soft, x, width, known, f, p, c) < 1e-5 && !signs)
                continue;
            compared++;
            for (size_t l = 0; l < K; l++) {
                const double e = fabs(soft[l] - (double)known[f][l * N + p]);
                if (!(e <= worst))
                    worst = e - e == 0 ? e : 1e9;
            }
        }
        plain_labels(score, known[f]);
        for (size_t i = 0; i < H * W; i++) {
            const int32_t label = mmix_data_i32(r.labels)[i];
            int sure = 1, right = label >= 0 && label < K;
            for (int32_t l = 0; l < K && right; l++) {
                sure &= l == label || fabs(score[i][l] - score[i][label]) > 1e-5;
                right &= score[i][l] <= score[i][label] + 1e-5;
            }
            wrong += !right;
            pixels += (size_t)sure;
        }
        IS(wrong, 0);
    }
    NEAR(worst, 0, 400 * EPS / c.temperature);
    CHECK(compared > 9 * (FRAMES - 1) * N / 10);
    CHECK(signs || pixels > (FRAMES - 1) * H * W / 2);
    mmix_video_destroy(v);
    mmix_reset(m);
}
static void definition(void)
{
    static const size_t frames[4] = { 7, 0, 1, 3 }, radius[5] = { 12, 0, 1, 2, 4 },
                        k[4] = { 5, 1, 40, 100000 };
    mmix_ctx *m = context(2, 1);
    doing("against the definition");
    state = 5;
    for (size_t i = 0; i < 20; i++)
        against_plain(m, config_of(frames[i % 4], radius[i % 5], k[i / 2 % 4], i % 3 ? 0.1 : 0.7),
                      D, 0);
    doing("ties: of equal ones the earlier");
    for (size_t i = 0; i < 20; i++)
        against_plain(m, config_of(frames[i % 4], radius[i % 5], k[i % 3], 1), 1, 1);
    {
        const mmix_video_config c = mmix_video_config_davis();
        CHECK(c.frames == 7 && c.radius == 12 && c.k == 5);
        IS(c.temperature, 0.1);
    }
    mmix_destroy(m);
}

/* ---- textured objects that move over a textured background ---- */

enum {
    PATCH = 6,
    SIDE_H = 96,
    SIDE_W = 132,
    VH = SIDE_H / PATCH,
    VW = SIDE_W / PATCH,
    VN = VH * VW,
    FEATURES = 8,
    SHOTS = 12
};
static uint64_t grain(uint64_t a)
{
    a *= 0x9e3779b97f4a7c15u;
    a ^= a >> 29;
    a *= 0xbf58476d1ce4e5b9u;
    return a ^ a >> 32;
}
/* 0: background, 1: a disk that goes right, 2: a rectangle that goes up. u, v: the place on the
   object itself. */
static int32_t object_at(int y, int x, int shot, int *v, int *u)
{
    const int cy = 40 + shot, cx = 30 + 4 * shot, top = 62 - 3 * shot, left = 84 - shot;
    if ((y - cy) * (y - cy) + (x - cx) * (x - cx) < 18 * 18) {
        *v = y - cy;
        *u = x - cx;
        return 1;
    }
    if (y >= top && y < top + 26 && x >= left && x < left + 34) {
        *v = y - top;
        *u = x - left;
        return 2;
    }
    *v = y;
    *u = x;
    return 0;
}
static void colour_at(double *rgb, int y, int x, int shot)
{
    static const double base[3][3] = { { 0.35, 0.55, 0.35 },
                                       { 0.75, 0.4, 0.3 },
                                       { 0.35, 0.4, 0.7 } };
    int v, u;
    const int32_t o = object_at(y, x, shot, &v, &u);
    for (int c = 0; c < 3; c++) {
        const double noise = (double)(grain((uint64_t)((v + 500) * 4000 + (u + 500) * 4 + c) * 3
                                            + (uint64_t)o)
                                      >> 40)
                                 / 16777216.0
                             - 0.5;
        double stripes;
        if (o == 1) stripes = 0.2 * (u / 2 % 2);
        else if (o == 2) stripes = 0.2 * (v / 2 % 2);
        else stripes = 0.1 * ((u / 3 + v / 3) % 2);
        rgb[c] = base[o][c] + stripes + 0.5 * noise;
    }
}
/* Of a patch: the mean colour, and how much neighbours differ across and down; no place. */
static void features(real *x, int shot, int random)
{
    for (int p = 0; p < VN; p++, x += FEATURES) {
        double sum[FEATURES] = { 0, 0, 0, 0, 0, 0, 0, 0 };
        for (int i = 0; i < PATCH * PATCH; i++) {
            const int y = p / VW * PATCH + i / PATCH, z = p % VW * PATCH + i % PATCH;
            double a[3], across[3], down[3];
            colour_at(a, y, z, shot);
            colour_at(across, y, z + 1, shot);
            colour_at(down, y + 1, z, shot);
            for (int c = 0; c < 3; c++) {
                sum[c] += a[c] - 0.5;
                sum[3] += fabs(across[c] - a[c]) / 3 - 0.06;
                sum[4] += fabs(down[c] - a[c]) / 3 - 0.06;
            }
        }
        for (int c = 0; c < FEATURES; c++) {
            const double mean = c < 5 ? sum[c] / (PATCH * PATCH) : 0.02;
            x[c] = (real)(random ? uniform() - 0.5 : mean);
        }
    }
}
static void truth_at(int32_t *mask, int shot)
{
    int v, u;
    for (int i = 0; i < SIDE_H * SIDE_W; i++)
        mask[i] = object_at(i / SIDE_W, i % SIDE_W, shot, &v, &u);
}
/* Scores of a whole video; the bits of all that came out. */
static mmix_video_scores film(mmix_ctx *m, int random, uint64_t *bits)
{
    static real x[VN * FEATURES];
    static int32_t mask[SIDE_H * SIDE_W];
    mmix_video_scores s;
    mmix_video *v = NULL;
    mmix_video_config c = mmix_video_config_davis();
    memset(&s, 0, sizeof s);
    c.frames = 4;
    c.radius = 5;
    for (int shot = 0; shot < SHOTS; shot++) {
        mmix_video_frame r;
        mmix_reset(m);
        features(x, shot, random);
        truth_at(mask, shot);
        if (!shot)
            v = mmix_video_create(m, c, tokens_of(m, VN, FEATURES, x), VH, VW,
                                  labels_of(m, SIDE_H, SIDE_W, mask), 3);
        if (!v || !shot) continue;
        if (mmix_video_next(v, tokens_of(m, VN, FEATURES, x), &r))
            break;
        for (int32_t object = 1; object < 3; object++)
            mmix_video_jf(m, r.labels, labels_of(m, SIDE_H, SIDE_W, mask), object, &s);
        *bits = hash_of(mmix_data(r.soft), 3 * VN, *bits);
        for (size_t i = 0; i < SIDE_H * SIDE_W; i++)
            *bits = (*bits ^ (uint64_t)mmix_data_i32(r.labels)[i]) * 1099511628211u;
    }
    mmix_video_destroy(v);
    return s;
}
static void moving(void)
{
    static const int threads[4] = { 1, 2, 4, 5 };
    uint64_t first = 0;
    mmix_video_scores s;
    doing("objects that move");
    for (int i = 0; i < 4; i++) {
        mmix_ctx *m = context(threads[i], 1);
        uint64_t bits = 1469598103934665603u;
        s = film(m, 0, &bits);
        FINE(m);
        IS(s.count, 2 * (SHOTS - 1));
        if (!i) first = bits;
        CHECK_AT(bits == first, "the same bits for any number of threads");
        mmix_destroy(m);
    }
    printf("textured objects: J %.3f F %.3f, recall %.3f %.3f\n", s.J, s.F, s.J_recall, s.F_recall);
    COMPARE(s.J > 0.75, "J of labels that follow", s.J, 0.75);
    COMPARE(s.J_recall == 1, "recall", s.J_recall, 1);
    {
        mmix_ctx *m = context(1, 1);
        uint64_t bits = 0;
        state = 77;
        s = film(m, 1, &bits);
        printf("random features: J %.3f F %.3f\n", s.J, s.F);
        COMPARE(s.J < 0.5, "J of random features", s.J, 0.5);
        mmix_destroy(m);
    }
}

/* ---- memory: bounded, and kept through an error ---- */

static void bounded(void)
{
    static real x[40][N * D];
    mmix_ctx *m = context(1, 1);
    mmix_video *v, *w;
    mmix_video_frame r, s;
    size_t bytes = 0;
    doing("bounded memory");
    state = 9;
    for (size_t f = 0; f < 40; f++)
        for (size_t i = 0; i < N * D; i++)
            x[f][i] = (real)(uniform() - 0.4);
    v = mmix_video_create(m, config_of(3, 2, 5, 0.1), tokens_of(m, N, D, x[0]), GH, GW,
                          labels_of(m, H, W, NULL), K);
    w = mmix_video_create(m, config_of(3, 2, 5, 0.1), tokens_of(m, N, D, x[0]), GH, GW,
                          labels_of(m, H, W, NULL), K);
    for (size_t f = 1; f < 40; f++) {
        real bad[N * D];
        mmix_reset(m);
        memcpy(bad, x[f], sizeof bad);
        bad[17] = (real)NAN;
        REFUSED(m, mmix_video_next(v, tokens_of(m, N, D, bad), &r) != 0,
                "mmix_video_next: row 2 of tokens holds");
        CHECK(!r.soft && !r.labels);
        CHECK(mmix_video_next(v, tokens_of(m, N, D, x[f]), &r) == 0
              && mmix_video_next(w, tokens_of(m, N, D, x[f]), &s) == 0);
        SAME(r.soft, s.soft);                    /* an error has left no trace */
        CHECK(!memcmp(mmix_data_i32(r.labels), mmix_data_i32(s.labels), H * W * sizeof(int32_t)));
        if (f == 5) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    mmix_video_destroy(v);
    mmix_video_destroy(w);
    mmix_video_destroy(NULL);
    CHECK(mmix_video_next(NULL, NULL, &r) == -1);

    doing("one label, and an object that no token has");
    mmix_reset(m);
    v = mmix_video_create(m, mmix_video_config_davis(), tokens_of(m, N, D, x[0]), GH, GW,
                          labels_of(m, H, W, NULL), 1);
    CHECK(!mmix_video_next(v, tokens_of(m, N, D, x[1]), &r));
    for (size_t i = 0; i < N; i++)
        NEAR(mmix_data(r.soft)[i], 1, 10 * EPS);
    for (size_t i = 0; i < H * W; i++)
        if (mmix_data_i32(r.labels)[i])
            IS(mmix_data_i32(r.labels)[i], 0);
    mmix_video_destroy(v);
    {
        mmix_tensor *mask = labels_of(m, H, W, NULL);
        mmix_data_i32(mask)[0] = 2;              /* no token's middle */
        v = mmix_video_create(m, mmix_video_config_davis(), tokens_of(m, N, D, x[0]), GH, GW, mask,
                              K);
        CHECK(!mmix_video_next(v, tokens_of(m, N, D, x[1]), &r));
        for (size_t i = 0; i < H * W; i++)
            if (mmix_data_i32(r.labels)[i])
                IS(mmix_data_i32(r.labels)[i], 0);
        mmix_video_destroy(v);
    }
    doing("a tie of labels");
    {
        static const real two[4] = { 1, 0, 0, 1 };
        /* of the three pixels the middle one is as much 1 as 2 */
        static const int32_t halves[3] = { 1, 2, 2 };
        v = mmix_video_create(m, config_of(0, 0, 1, 0.1), tokens_of(m, 2, 2, two), 1, 2,
                              labels_of(m, 1, 3, halves), 3);
        CHECK(!mmix_video_next(v, tokens_of(m, 2, 2, two), &r));
        for (size_t i = 0; i < 3; i++)
            IS(mmix_data_i32(r.labels)[i], i < 2 ? 1 : 2);
        mmix_video_destroy(v);
    }
    FINE(m);
    mmix_destroy(m);
}

/* ---- J and F by hand ---- */

static void draw(int32_t *mask, size_t w, size_t top, size_t left, size_t high, size_t wide,
                 int32_t label)
{
    for (size_t y = top; y < top + high; y++)
        for (size_t x = left; x < left + wide; x++)
            mask[y * w + x] = label;
}
enum { SH = 100, SW = 100 };
static void jf(mmix_ctx *m, const int32_t *p, const int32_t *t, size_t h, size_t w, double J,
               double F)
{
    mmix_video_scores s;
    memset(&s, 0, sizeof s);
    CHECK(mmix_video_jf(m, labels_of(m, h, w, p), labels_of(m, h, w, t), 1, &s) == 0);
    NEAR(s.last_J, J, 1e-14);
    NEAR(s.last_F, F, 1e-14);
    IS(s.J, s.last_J);
    IS(s.F, s.last_F);
    IS(s.count, 1);
    IS(s.J_recall, J > 0.5);
    IS(s.F_recall, F > 0.5);
    mmix_reset(m);
}
static void by_hand(void)
{
    static int32_t a[SH * SW], b[SH * SW], none[SH * SW], full[SH * SW];
    mmix_ctx *m = context(1, 1);
    doing("J and F by hand");
    draw(full, SW, 0, 0, SH, SW, 1);
    draw(a, SW, 40, 40, 20, 20, 1);
    jf(m, a, a, SH, SW, 1, 1);
    jf(m, none, none, SH, SW, 1, 1);
    jf(m, full, full, SH, SW, 1, 1);             /* the border of the picture is no boundary */
    jf(m, none, full, SH, SW, 0, 1);
    jf(m, a, none, SH, SW, 0, 0);                /* one boundary is empty */
    jf(m, none, a, SH, SW, 0, 0);
    jf(m, a, full, SH, SW, 0.04, 0);
    /* 100 x 100: 0.008 · 141.4 → 2. The boundary of a square of n is an outline of n+1 x n+1
       pixels, 4n of them. Shifted by 3: the farther side is unmatched, n+1, and the nearer one but
       for 3 pixels at each end, n+1-6. */
    for (size_t shift = 1; shift <= 3; shift++) {
        const double F = shift < 3 ? 1 : 1 - 36.0 / 80;
        const double J = (20.0 - (double)shift) / (20 + (double)shift);
        memset(b, 0, sizeof b);
        draw(b, SW, 40, 40 + shift, 20, 20, 1);
        jf(m, a, b, SH, SW, J, F);
        jf(m, b, a, SH, SW, J, F);
        memset(b, 0, sizeof b);
        draw(b, SW, 40 - shift, 40, 20, 20, 1);
        jf(m, a, b, SH, SW, J, F);
    }
    /* a disk, not a square: shifted by (2, 2) the corner at the far end is 2√2 from its own, and
       the pixel beside it on either side √5 */
    memset(b, 0, sizeof b);
    draw(b, SW, 42, 42, 20, 20, 1);
    jf(m, a, b, SH, SW, 18.0 * 18 / (800 - 18 * 18), 1 - 3.0 / 80);
    /* 75 x 100: 0.008 · 125 = 1 */
    for (size_t shift = 1; shift <= 2; shift++) {
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        draw(a, 100, 30, 30, 20, 20, 1);
        draw(b, 100, 30, 30 + shift, 20, 20, 1);
        jf(m, a, b, 75, 100, (20.0 - (double)shift) / (20 + (double)shift),
           shift < 2 ? 1 : 1 - 38.0 / 80);
    }
    /* half of the picture: a boundary of one column; precision and recall differ where one has
       another column besides */
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    draw(a, SW, 0, 0, SH, 50, 1);
    draw(b, SW, 0, 0, SH, 51, 1);
    jf(m, a, b, SH, SW, 50.0 / 51, 1);
    draw(b, SW, 0, 60, SH, 40, 1);               /* columns 50 and 59 are the boundary */
    jf(m, a, b, SH, SW, 50.0 / 91, 2.0 / 3);     /* precision 1, recall ½ */
    jf(m, b, a, SH, SW, 50.0 / 91, 2.0 / 3);

    doing("several objects and frames");
    {
        mmix_video_scores s;
        memset(&s, 0, sizeof s);
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        draw(a, SW, 10, 10, 20, 20, 1);
        /* 1: right; 2: shifted by 3; 255: the truth's alone */
        draw(b, SW, 10, 10, 20, 20, 1);
        draw(a, SW, 60, 60, 20, 20, 2);
        draw(b, SW, 60, 63, 20, 20, 2);
        draw(b, SW, 10, 60, 10, 10, 255);
        mmix_tensor *p = labels_of(m, SH, SW, a);
        mmix_tensor *t = labels_of(m, SH, SW, b);
        IS(mmix_video_jf(m, p, t, 1, &s), 0);
        IS(s.last_J, 1);
        IS(s.last_F, 1);
        IS(mmix_video_jf(m, p, t, 2, &s), 0);
        NEAR(s.last_J, 17.0 / 23, 1e-14);
        NEAR(s.last_F, 0.55, 1e-14);
        IS(mmix_video_jf(m, p, t, 255, &s), 0);
        IS(s.last_J, 0);
        IS(s.last_F, 0);
        NEAR(s.J, (1 + 17.0 / 23) / 3, 1e-14);
        NEAR(s.F, 1.55 / 3, 1e-14);
        NEAR(s.J_recall, 2.0 / 3, 1e-14);
        NEAR(s.F_recall, 2.0 / 3, 1e-14);
        for (int32_t object = 1; object < 4; object++)
            IS(mmix_video_jf(m, p, p, object, &s), 0);
        NEAR(s.J, (4 + 17.0 / 23) / 6, 1e-14);
        NEAR(s.F, 4.55 / 6, 1e-14);
        NEAR(s.J_recall, 5.0 / 6, 1e-14);
        IS(s.count, 6);
        /* of views: every other row, and columns from 30 on */
        memset(&s, 0, sizeof s);
        {
            static int32_t wide[SH * 2 * SW];
            mmix_tensor *view;
            size_t shape[2] = { SH, 2 * SW };
            for (size_t i = 0; i < SH * 2 * SW; i++)
                wide[i] = i % (2 * SW) >= 30 && i % (2 * SW) < 30 + SW
                              ? a[i / (2 * SW) * SW + i % (2 * SW) - 30]
                              : 2;
            view = mmix_slice(m, mmix_from_i32(m, 2, shape, wide), 1, 30, SW);
            IS(mmix_video_jf(m, view, t, 2, &s), 0);
            NEAR(s.last_J, 17.0 / 23, 1e-14);
            NEAR(s.last_F, 0.55, 1e-14);
        }
        memset(&s, 0, sizeof s);                 /* exactly ½ is not recalled */
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        draw(a, SW, 0, 0, 10, 10, 1);
        draw(b, SW, 0, 0, 10, 5, 1);
        IS(mmix_video_jf(m, labels_of(m, SH, SW, a), labels_of(m, SH, SW, b), 1, &s), 0);
        IS(s.J, 0.5);
        IS(s.J_recall, 0);
    }
    mmix_destroy(m);
}
/* J and F of noise against sets and distances, all pairs. */
static int outline(const int32_t *mask, int h, int w, int y, int x)
{
    const int in = mask[y * w + x] == 1;
    for (int k = 1; k < 4; k++) {
        const int v = y + k / 2, u = x + k % 2;
        if (v < h && u < w && in != (mask[v * w + u] == 1))
            return 1;
    }
    return 0;
}
static double share_near(const int32_t *a, const int32_t *b, int h, int w)
{
    const double r = ceil(0.008 * sqrt((double)(h * h + w * w)));
    double found = 0, all = 0;
    for (int p = 0; p < h * w; p++) {
        double nearest = 1e9;
        if (!outline(a, h, w, p / w, p % w))
            continue;
        for (int q = 0; q < h * w; q++) {
            const double e = hypot(p / w - q / w, p % w - q % w);
            if (e < nearest && outline(b, h, w, q / w, q % w))
                nearest = e;
        }
        all++;
        found += nearest <= r;
    }
    return all > 0 ? found / all : 1;
}
static void noise(void)
{
    static int32_t a[60 * 400], b[60 * 400];
    mmix_ctx *m = context(1, 1);
    doing("J and F of noise");
    state = 31;
    for (int i = 0; i < 14; i++) {
        const int h = i == 13 ? 1 : (int)any(1, 20);
        const int w = i == 13 ? 400 : (int)any(1, 30);
        double both = 0, either = 0, p, r;
        for (int q = 0; q < h * w; q++) {
            a[q] = uniform() < 0.04 * (i + 1);
            b[q] = uniform() < 0.04 * (i + 1);
            both += a[q] && b[q];
            either += a[q] || b[q];
        }
        p = share_near(a, b, h, w);
        r = share_near(b, a, h, w);
        const double region = either > 0 ? both / either : 1;
        const double contour = p + r > 0 ? 2 * p * r / (p + r) : 0;
        jf(m, a, b, (size_t)h, (size_t)w, region, contour);
    }
    mmix_destroy(m);
}

/* ---- refusals ---- */

static void refusals(void)
{
    mmix_ctx *m = context(1, 1), *other = context(1, 1);
    mmix_tensor *x = mmix_fill(mmix_new2(m, N, D), 1);
    mmix_tensor *mask = labels_of(m, H, W, NULL);
    mmix_tensor *bad = labels_of(m, H, W, NULL);
    const mmix_video_config c = mmix_video_config_davis();
    mmix_video *v = mmix_video_create(m, c, x, GH, GW, mask, K);
    mmix_video_frame r;
    mmix_video_scores s;
    doing("refusals");
    memset(&s, 0, sizeof s);
    mmix_data_i32(bad)[5] = 3;
    CHECK(!mmix_video_create(NULL, c, x, GH, GW, mask, K));
    BAD(mmix_video_create(m, c, NULL, GH, GW, mask, K), "mmix_video_create: tokens is NULL", "");
    BAD(mmix_video_create(m, c, x, GH, GW, NULL, K), "mmix_video_create: mask is NULL", "");
    BAD(mmix_video_create(m, c, x, 0, GW, mask, K), "gh is 0", "");
    BAD(mmix_video_create(m, c, x, GH, 0, mask, K), "gw is 0", "");
    BAD(mmix_video_create(m, c, x, GH, GW, mask, 0), "K is 0", "");
    BAD(mmix_video_create(m, c, x, GH, GW + 1, mask, K),
        "tokens has shape (145, 6), expected (150, *)", "");
    BAD(mmix_video_create(m, c, x, SIZE_MAX, SIZE_MAX, mask, K), "tokens has shape", "");
    BAD(mmix_video_create(m, c, mask, GH, GW, mask, K), "tokens is int32, expected real", "");
    BAD(mmix_video_create(m, c, x, GH, GW, x, K), "mask is real, expected int32", "");
    BAD(mmix_video_create(m, c, x, GH, GW, bad, K), "mask[5] is 3, expected 0 to 2", "");
    BAD(mmix_video_create(m, c, random3(m, 2, N, D, 0, 1), GH, GW, mask, K),
        "tokens has shape (2, 145, 6), expected (1, 145, *)", "");
    BAD(mmix_video_create(m, config_of(7, 12, 0, 0.1), x, GH, GW, mask, K), "k is 0, expected 1",
        "");
    BAD(mmix_video_create(m, config_of(7, 12, 5, 0), x, GH, GW, mask, K),
        "temperature is 0, expected", "");
    BAD(mmix_video_create(m, config_of(7, 12, 5, NAN), x, GH, GW, mask, K), "temperature is",
        "nan");
    BAD(mmix_video_create(m, config_of(SIZE_MAX, 12, 5, 0.1), x, GH, GW, mask, K), "frames is",
        "expected 0 to");
    BAD_INT(mmix_video_next(v, NULL, &r), "mmix_video_next: tokens is NULL", "");
    BAD_INT(mmix_video_next(v, x, NULL), "mmix_video_next: result is NULL", "");
    CHECK(mmix_video_next(NULL, x, NULL) == -1);
    BAD_INT(mmix_video_jf(m, mask, mask, 1, NULL), "mmix_video_jf: scores is NULL", "");
    CHECK(mmix_video_jf(NULL, mask, mask, 1, NULL) == -1);
    BAD_INT(mmix_video_next(v, mmix_fill(mmix_new2(m, N, D + 1), 1), &r),
            "tokens has shape (145, 7), expected (145, 6)", "");
    BAD_INT(mmix_video_next(v, mmix_fill(mmix_new2(m, N - 1, D), 1), &r),
            "tokens has shape (144, 6), expected (145, 6)", "");
    BAD_INT(mmix_video_next(v, mmix_fill(mmix_new2(other, N, D), 1), &r), "another context", "");
    mmix_data(x)[7] = (real)INFINITY;
    BAD_INT(mmix_video_next(v, x, &r), "row 1 of tokens holds inf", "");
    BAD(mmix_video_create(m, c, x, GH, GW, mask, K), "row 1 of tokens holds inf", "");
    BAD_INT(mmix_video_jf(m, NULL, mask, 1, &s), "mmix_video_jf: predicted is NULL", "");
    BAD_INT(mmix_video_jf(m, mask, NULL, 1, &s), "truth is NULL", "");
    BAD_INT(mmix_video_jf(m, mask, labels_of(m, H, W + 1, NULL), 1, &s),
            "truth has shape (31, 68), expected (31, 67)", "");
    BAD_INT(mmix_video_jf(m, x, mask, 1, &s), "predicted is real", "");
    IS(s.count, 0);
    IS(s.J, 0);
    mmix_video_destroy(v);
    mmix_destroy(m);
    mmix_destroy(other);
}

/* ---- every allocation fails once ---- */

static int short_film(const mmix_options *o, void *user)
{
    static real x[3][N * D];
    mmix_ctx *m = mmix_create(o);
    mmix_video *v;
    mmix_video_frame r;
    mmix_video_scores s;
    mmix_tensor *mask, *tokens[3];
    int kind;
    (void)user;
    if (!m) return MMIX_ERROR_MEMORY;
    memset(&s, 0, sizeof s);
    mask = labels_of(m, H, W, NULL);
    for (size_t f = 0; f < 3; f++) {
        for (size_t i = 0; i < N * D; i++)
            x[f][i] = (real)(1 + (i * 7 + f * 5) % 13);
        tokens[f] = tokens_of(m, N, D, x[f]);
    }
    v = mmix_video_create(m, config_of(1, 2, 5, 0.1), tokens[0], GH, GW, mask, K);
    if (v) {
        mmix_video_next(v, tokens[1], &r);
        if (!mmix_video_next(v, tokens[2], &r))
            mmix_video_jf(m, r.labels, mask, 1, &s);
    }
    kind = mmix_error_kind(m);
    if (!v && !kind) kind = -1;
    mmix_video_destroy(v);
    mmix_destroy(m);
    return kind;
}
static void memory(void)
{
    doing("allocations");
    CHECK(memory_fails(short_film, NULL, 0, 1) > 4);
}

int main(int argc, char **argv)
{
    static const section all[] = { { "definition", definition }, { "moving", moving },
                                   { "bounded", bounded },       { "hand", by_hand },
                                   { "noise", noise },           { "refusals", refusals },
                                   { "memory", memory } };
    return sections(all, sizeof all / sizeof *all, argc, argv);
}
