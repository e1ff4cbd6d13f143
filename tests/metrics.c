/* The metrics: closed forms, brute force, errors, equality for any number of threads. */
#include "test.h"

static int close_to(double a, double b, double bound) { return fabs(a - b) <= bound; }
#define FAILS(m, call, part) REFUSED(m, call, part)

static double normal(void)                       /* nearly */
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum;
}

/* The metrics of plain arrays; NULL: no tensor. */
static mmix_tensor *reals(mmix_ctx *m, int ndim, size_t a, size_t b, size_t c,
                          const mmix_real *values)
{
    const size_t shape[3] = {a, b, c};
    return values ? mmix_from(m, ndim, shape, values) : NULL;
}
static mmix_tensor *ints(mmix_ctx *m, int ndim, size_t a, size_t b, size_t c, const int32_t *values)
{
    const size_t shape[3] = {a, b, c};
    return values ? mmix_from_i32(m, ndim, shape, values) : NULL;
}
static int auc_of(mmix_ctx *m, const mmix_auc_options *o, const mmix_real *map, const int32_t *mask,
                  size_t images, size_t h, size_t w, mmix_auc *r)
{
    return mmix_binary_auc(m, o, reals(m, 3, images, h, w, map), ints(m, 3, images, h, w, mask), r);
}
static int map_of(mmix_ctx *m, const mmix_map_options *o, const mmix_real *query, size_t queries,
                  const mmix_real *patches, size_t gh, size_t gw, size_t D, size_t h, size_t w,
                  mmix_map *r)
{
    return mmix_feature_map(m, o, reals(m, 3, 1, queries, D, query),
                            reals(m, 3, 1, gh * gw, D, patches), gh, gw, h, w, r);
}
typedef struct voting { size_t k; double temperature; } voting;
static int knn_of(mmix_ctx *m, const voting *o, const mmix_real *train, const int32_t *train_label,
                  size_t trains, const mmix_real *test, const int32_t *test_label, size_t tests,
                  size_t D, size_t classes, mmix_knn_result *r)
{
    const size_t k = o ? o->k : 0;
    const double temperature = o ? o->temperature : 0;
    return mmix_knn(m, reals(m, 2, trains, D, 0, train), ints(m, 1, trains, 0, 0, train_label),
                    reals(m, 2, tests, D, 0, test), ints(m, 1, tests, 0, 0, test_label), classes,
                    k, temperature, r);
}
static int pca_of(mmix_ctx *m, const mmix_real *x, size_t rows, size_t D, size_t k,
                  mmix_pca_result *r)
{
    return mmix_pca(m, reals(m, 2, rows, D, 0, x), k, r);
}

static double raw_auc(mmix_ctx *m, const mmix_real *map, const int32_t *mask, size_t h, size_t w,
                      size_t thresholds)
{
    mmix_auc_options o;
    mmix_auc r;
    memset(&o, 0, sizeof o);
    o.thresholds = thresholds;
    o.void_label = 255;
    return CHECK(auc_of(m, &o, map, mask, 1, h, w, &r) == 0) ? r.auc_raw[0] : -1;
}

/* P(fore > back) + P(fore = back)/2 over all pairs of pixels. */
static double pairs(const mmix_real *map, const int32_t *mask, size_t n)
{
    double wins = 0, count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            if (mask[i] == 0 || mask[i] == 255 || mask[j] != 0)
                continue;
            if (map[i] > map[j]) wins += 1;
            else if (!(map[i] < map[j])) wins += 0.5;
            count++;
        }
    return wins / count;
}

static void fine_thresholds(mmix_ctx *m)
{
    static mmix_real map[64 * 64];
    static int32_t label[64 * 64];
    for (size_t i = 0; i < 64 * 64; i++) {
        label[i] = i % 64 > 20 && i / 64 > 30;
        map[i] = (mmix_real)(normal() + label[i]);
    }
    double exact = raw_auc(m, map, label, 64, 64, 0);
    /* trapezoids: 1/T²; then pairs that share a step: 1/T */
    for (size_t t = 4; t <= 1 << 18; t *= 4)
        CHECK(fabs(raw_auc(m, map, label, 64, 64, t) - exact)
              < 3 / (double)(t * t) + 0.5 / (double)t);
    /* monotone: nothing changes */
    for (size_t i = 0; i < 64 * 64; i++)
        map[i] = map[i] * (mmix_real)0.25 - 3;
    CHECK(
        close_to(raw_auc(m, map, label, 64, 64, 0), exact, sizeof(mmix_real) == 8 ? 0 : 1e-6));
}
static void test_auc(mmix_ctx *m)
{
    static const int32_t mask[6] = {0, 1, 0, 7, 0, 0};
    static const mmix_real perfect[6] = {0, 1, 0, 1, 0, 0}, inverted[6] = {1, 0, 1, 0, 1, 1};
    static const mmix_real flat[6] = {3, 3, 3, 3, 3, 3};
    /* by hand: fore {2, 1}, back {2, 1, 0, 0}: pairs 2: ½ 1 1 1; 1: 0 ½ 1 1 → 6/8 */
    static const mmix_real ties[6] = {2, 2, 1, 1, 0, 0};
    mmix_auc r;
    CHECK(close_to(raw_auc(m, perfect, mask, 2, 3, 0), 1, 0));
    CHECK(close_to(raw_auc(m, inverted, mask, 2, 3, 0), 0, 0));
    CHECK(close_to(raw_auc(m, flat, mask, 2, 3, 0), 0.5, 0));
    CHECK(close_to(raw_auc(m, flat, mask, 2, 3, 7), 0.5, 0));
    CHECK(close_to(raw_auc(m, ties, mask, 2, 3, 0), 0.75, 0));
    /* thresholds 1, ½, 0 are the three values */
    CHECK(close_to(raw_auc(m, ties, mask, 2, 3, 3), 0.75, 0));
    /* 1 and 0: the curve (0,0) (¼,½) (1,1) */
    CHECK(close_to(raw_auc(m, ties, mask, 2, 3, 2), 0.625, 0));

    CHECK(auc_of(m, NULL, inverted, mask, 1, 2, 3, &r) == 0);
    CHECK(close_to(r.auc, 1, 0) && r.count == 1 && r.points == 3);
    CHECK(auc_of(m, NULL, ties, mask, 1, 2, 3, &r) == 0 && r.points == 4);
    static const double fpr[4] = {0, 0.25, 0.5, 1}, tpr[4] = {0, 0.5, 1, 1};
    for (size_t i = 0; i < 4; i++)
        CHECK(close_to(r.fpr[i], fpr[i], 0) && close_to(r.tpr[i], tpr[i], 0));

    /* random maps with many ties, void pixels and odd sizes against all pairs; T thresholds come
       close */
    for (size_t trial = 0; trial < 40; trial++) {
        mmix_real map[143];
        int32_t label[143];
        size_t h = trial % 2 ? 13 : 11, w = 143 / h, levels = 2 + trial;
        for (size_t i = 0; i < 143; i++) {
            double u = uniform();
            if (i == 0) label[i] = 3;
            else if (i == 1) label[i] = 0;
            else if (u < 0.1) label[i] = 255;
            else label[i] = u < 0.4;
            map[i] = (mmix_real)floor((uniform() + (label[i] == 1) * 0.3) * (double)levels) / 8;
        }
        double exact = raw_auc(m, map, label, h, w, 0);
        CHECK(close_to(exact, pairs(map, label, 143), 1e-15));
        /* finer than the levels */
        CHECK(close_to(raw_auc(m, map, label, h, w, 20001), exact, 1e-14));
    }
    fine_thresholds(m);
    mmix_reset(m);
}

static void test_auc_images(mmix_ctx *m)
{
    enum { N = 5, H = 6, W = 8, P = H * W };
    mmix_real map[N * P], turned[N * P];
    int32_t mask[N * P];
    double mean = 0, curve[11], sum[11], area = 0;
    mmix_auc_options o;
    mmix_auc r, one, back;
    memset(&o, 0, sizeof o);
    memset(sum, 0, sizeof sum);
    for (size_t i = 0; i < N * P; i++) {
        mask[i] = i % 3 == 0 ? (int32_t)(i % 7) : 0;
        /* image 2 is upside down */
        map[i] = (mmix_real)(uniform() + (i / P == 2 ? -0.4 : 0.4) * (mask[i] != 0));
        turned[i] = -map[i];
    }
    CHECK(auc_of(m, NULL, map, mask, N, H, W, &r) == 0 && r.count == N);
    CHECK(r.auc_raw[2] < 0.5);
    for (size_t i = 0; i < N; i++) {
        CHECK(auc_of(m, NULL, map + i * P, mask + i * P, 1, H, W, &one) == 0);
        CHECK(close_to(one.auc_raw[0], r.auc_raw[i], 0));
        mean += one.auc / (double)N;
        mmix_roc_add(sum, 11, &one);
        CHECK(auc_of(m, NULL, turned + i * P, mask + i * P, 1, H, W, &back) == 0);
        CHECK(close_to(back.auc_raw[0], 1 - one.auc_raw[0], 1e-15)
              && close_to(back.auc, one.auc, 1e-15));
    }
    CHECK(close_to(r.auc, mean, 1e-15));
    CHECK(r.points == 102 && close_to(r.fpr[0], 0, 0) && close_to(r.tpr[0], 0, 0)
          && close_to(r.fpr[101], 1, 0) && close_to(r.tpr[101], 1, 1e-15));
    for (size_t i = 0; i < 11; i++)
        CHECK(close_to(r.tpr[1 + 10 * i], sum[i] / (double)N, 1e-15));
    for (size_t p = 1; p < r.points; p++) {
        CHECK(r.fpr[p] >= r.fpr[p - 1] && r.tpr[p] >= r.tpr[p - 1]);
        area += (r.fpr[p] - r.fpr[p - 1]) * (r.tpr[p] + r.tpr[p - 1]) / 2;
    }
    /* 0.01: the grid of the mean curve */
    CHECK(close_to(area, r.auc, 0.01));

    o.pooled = 1;
    CHECK(auc_of(m, &o, map, mask, N, H, W, &r) == 0 && r.count == 1);
    CHECK(auc_of(m, NULL, map, mask, 1, N * H, W, &one) == 0);
    CHECK(close_to(r.auc_raw[0], one.auc_raw[0], 0)
          && close_to(r.auc_raw[0], pairs(map, mask, N * P), 1e-15));

    /* the curve (0,0) (¼,½) (½,1) (1,1) and its mirror, read between its points; a vertical rise
       gives its upper end */
    static const int32_t hand[6] = {0, 1, 0, 7, 0, 0};
    static const mmix_real up[6] = { 2, 2, 1, 1, 0, 0 }, down[6] = { -2, -2, -1, -1, 0, 0 },
                           step[6] = { 0, 1, 0, 1, 0, 0 };
    for (int k = 0; k < 2; k++) {
        memset(curve, 0, sizeof curve);
        CHECK(auc_of(m, NULL, k ? down : up, hand, 1, 2, 3, &one) == 0);
        mmix_roc_add(curve, 9, &one);
        for (size_t i = 0; i < 9; i++)
            CHECK(close_to(curve[i], i < 4 ? (double)i / 4 : 1, 1e-15));
    }
    CHECK(auc_of(m, NULL, step, hand, 1, 2, 3, &one) == 0);
    curve[0] = 0;
    mmix_roc_add(curve, 1, &one);
    CHECK(close_to(curve[0], 1, 0));

    /* a map and its negative have one curve, also where it rises exactly at the points where it
       is read */
    for (size_t n = 2; n <= 40; n++) {
        mmix_real there[80], back_there[80];
        int32_t label[80];
        double a[41], b[41];
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        for (size_t i = 0; i < 2 * n; i++) {
            label[i] = (int32_t)(i % 2);                                 /* n of each */
            there[i] = (mmix_real)(uniform() + 0.3 * (double)label[i]);
            back_there[i] = -there[i];
        }
        CHECK(auc_of(m, NULL, there, label, 1, 1, 2 * n, &one) == 0);
        CHECK(auc_of(m, NULL, back_there, label, 1, 1, 2 * n, &back) == 0);
        mmix_roc_add(a, n + 1, &one);
        mmix_roc_add(b, n + 1, &back);
        for (size_t i = 0; i <= n; i++)
            CHECK(close_to(a[i], b[i], 1e-12));
    }
    mmix_reset(m);
}

static void test_auc_grid(mmix_ctx *m)
{
    /* 3 x 5 pixels on 2 x 2 cells of 1.5 x 2.5. By hand, rows 0-1.5 and 1.5-3, columns 0-2.5 and
       2.5-5 */
    static const int32_t mask[15] = {1, 1, 1, 0, 0,
                                     1, 0, 0, 0, 0,
                                     0, 0, 9, 9, 9};
    static const mmix_real map[4] = {4, 3, 2, 1};
    /* shares: cell 0 (2.5 + ½)/3.75 = 0.8; cell 1 ½/3.75; cell 2 without void (1 ½ fore by
       ½·1)/(2.5 ½ + 2) = ½/3.25; cell 3 without void: 0 */
    double fore[4] = {0.8, 0.5 / 3.75, 0.5 / 3.25, 0}, f = 0, b = 0, area = 0, F, B;
    mmix_auc_options o;
    mmix_auc r, fine;
    memset(&o, 0, sizeof o);
    o.void_label = 9;
    CHECK(mmix_binary_auc(m, &o, reals(m, 3, 1, 2, 2, map), ints(m, 3, 1, 3, 5, mask), &r) == 0
          && r.points == 5);
    F = fore[0] + fore[1] + fore[2];
    B = 4 - F;
    for (size_t i = 0; i < 4; i++) {
        area += (1 - fore[i]) * (f + f + fore[i]) / 2;
        f += fore[i];
        b += 1 - fore[i];
        CHECK(close_to(r.tpr[i + 1], f / F, 1e-14) && close_to(r.fpr[i + 1], b / B, 1e-14));
    }
    CHECK(close_to(r.auc_raw[0], area / (F * B), 1e-14));

    /* cells of whole pixels and a mask that is constant in each: the same as the small mask with
       the small map */
    static const int32_t small_mask[6] = {0, 1, 0, 1, 0, 0};
    static const mmix_real small_map[6] = {2, 2, 1, 1, 0, 0};
    int32_t large[6 * 12];
    for (size_t y = 0; y < 6; y++)
        for (size_t x = 0; x < 12; x++)
            large[y * 12 + x] = small_mask[y / 3 * 3 + x / 4];
    CHECK(mmix_binary_auc(m, &o, reals(m, 3, 1, 2, 3, small_map), ints(m, 3, 1, 6, 12, large), &r)
          == 0);
    CHECK(auc_of(m, NULL, small_map, small_mask, 1, 2, 3, &fine) == 0);
    CHECK(close_to(r.auc_raw[0], fine.auc_raw[0], 1e-15) && close_to(r.auc_raw[0], 0.75, 1e-15));

    /* a cell that is all void does not count, whatever its value */
    for (size_t y = 0; y < 3; y++)
        for (size_t x = 0; x < 4; x++)
            large[y * 12 + x] = 9;
    CHECK(mmix_binary_auc(m, &o, reals(m, 3, 1, 2, 3, small_map), ints(m, 3, 1, 6, 12, large), &r)
          == 0);
    /* fore {2, 1}, back {1, 0, 0} */
    CHECK(close_to(r.auc_raw[0], 5.5 / 6, 1e-15));
    mmix_reset(m);
}

static void test_auc_errors(mmix_ctx *m)
{
    mmix_real map[12];
    int32_t mask[12];
    mmix_auc_options o;
    mmix_auc r;
    memset(&o, 0, sizeof o);
    for (size_t i = 0; i < 12; i++) {
        map[i] = (mmix_real)i;
        mask[i] = i % 2 != 0;
    }
    for (size_t i = 4; i < 8; i++)
        mask[i] = 0;
    FAILS(m, auc_of(m, NULL, map, mask, 3, 2, 2, &r),
          "no foreground in the masks of images 1 to 1");
    CHECK(r.fpr == NULL && r.points == 0);
    for (size_t i = 4; i < 8; i++)
        mask[i] = 1;
    FAILS(m, auc_of(m, NULL, map, mask, 3, 2, 2, &r),
          "no background in the masks of images 1 to 1");
    o.pooled = 1;
    CHECK(auc_of(m, &o, map, mask, 3, 2, 2, &r) == 0);
    FAILS(m, auc_of(m, &o, map, mask + 4, 1, 2, 2, &r),
          "no background in the masks of images 0 to 0");
    o.pooled = 0;
    o.void_label = 1;
    FAILS(m, auc_of(m, &o, map, mask, 1, 2, 2, &r), "no foreground in the masks of images 0 to 0");
    memset(&o, 0, sizeof o);
    o.thresholds = SIZE_MAX;
    FAILS(m, auc_of(m, &o, map, mask, 1, 2, 2, &r), "if not 0 (exact), is 1.8");
    o.thresholds = 1;
    FAILS(m, auc_of(m, &o, map, mask, 1, 2, 2, &r),
          "thresholds, if not 0 (exact), is 1, expected 2");
    FAILS(m, mmix_binary_auc(m, NULL, reals(m, 3, 3, 2, 2, map), ints(m, 3, 2, 2, 3, mask), &r),
          "mask has shape (2, 2, 3), expected (3, *, *)");
    FAILS(m, mmix_binary_auc(m, NULL, reals(m, 2, 2, 2, 0, map), ints(m, 3, 1, 2, 2, mask), &r),
          "map has shape (2, 2)");
    FAILS(m, auc_of(m, NULL, NULL, mask, 1, 2, 2, &r), "map is NULL");
    FAILS(m, auc_of(m, NULL, map, NULL, 1, 2, 2, &r), "mask is NULL");
    FAILS(m, auc_of(m, NULL, map, mask, 0, 2, 2, &r), "axis 0 has size 0");
    map[3] = (mmix_real)HUGE_VAL;
    FAILS(m, auc_of(m, NULL, map, mask, 1, 2, 2, &r), "the map of image 0 holds inf");
    map[3] = (mmix_real)NAN;
    FAILS(m, auc_of(m, NULL, map, mask, 1, 2, 2, &r), "expected finite numbers");
    CHECK(auc_of(m, NULL, map, mask, SIZE_MAX / 2, SIZE_MAX / 2, 2, &r) == -1);
    mmix_error_clear(m);
    mmix_reset(m);
}

static void test_iou(mmix_ctx *m)
{
    static const mmix_real map[5] = {0, 1, (mmix_real)0.5, 1, 0};
    static const int32_t mask[5] = {0, 2, 1, 0, 255};
    double iou = -1;
    CHECK(mmix_binary_iou(m, reals(m, 3, 1, 1, 5, map), ints(m, 3, 1, 1, 5, mask), 0.5, 0, &iou)
              == 0
          && close_to(iou, 2.0 / 4, 0));
    CHECK(mmix_binary_iou(m, reals(m, 3, 1, 1, 5, map), ints(m, 3, 1, 1, 5, mask), 0.5, 255, &iou)
              == 0
          && close_to(iou, 2.0 / 3, 0));
    CHECK(mmix_binary_iou(m, reals(m, 3, 1, 1, 1, map), ints(m, 3, 1, 1, 1, mask), 0.5, 255, &iou)
              == 0
          && close_to(iou, 1, 0));
    FAILS(m, mmix_binary_iou(m, reals(m, 3, 1, 1, 5, map), NULL, 0.5, 0, &iou), "mask is NULL");
    const mmix_real nan[1] = {(mmix_real)NAN};
    FAILS(m, mmix_binary_iou(m, reals(m, 3, 1, 1, 1, nan), ints(m, 3, 1, 1, 1, mask), 0.5, 0, &iou),
          "row 0 of map holds nan");
    FAILS(m, mmix_binary_iou(m, reals(m, 3, 1, 1, 5, map), ints(m, 3, 1, 1, 4, mask), 0.5, 0, &iou),
          "mask has shape (1, 1, 4)");
}

static void test_map(mmix_ctx *m)
{
    /* one patch is the query, one its opposite, the others lie across it */
    static const mmix_real query[4] = { 3, 0, 4, 0 },
                           patches[6 * 4] = { 0, 5, 0,  0, 6,  0, 8,  0, 0, 0, 0, 2,
                                              4, 0, -3, 0, -3, 0, -4, 0, 0, 0, 0, 0 };
    static const double cosine[6] = {0, 1, 0, 0, -1, 0};
    mmix_map_options o;
    mmix_map r, d;
    memset(&o, 0, sizeof o);
    CHECK(map_of(m, NULL, query, 1, patches, 2, 3, 4, 2, 3, &r) == 0);
    for (size_t i = 0; i < 6; i++) {
        CHECK(close_to((double)mmix_data(r.similarity)[i], cosine[i], 1e-7));
        CHECK(close_to((double)mmix_data(r.scaled)[i], (cosine[i] + 1) / 2, 1e-7));
        /* the grid's own size: nothing is sampled */
        CHECK(mmix_data(r.map)[i] >= mmix_data(r.scaled)[i]
              && mmix_data(r.map)[i] <= mmix_data(r.scaled)[i]);
    }
    CHECK(mmix_shape(r.scaled, 0) == 1 && mmix_shape(r.similarity, 2) == 2
          && mmix_shape(r.scaled, 3) == 3 && mmix_shape(r.map, 2) == 2
          && mmix_shape(r.map, 3) == 3);
    CHECK(strstr(r.how, "cosine") && strstr(r.how, "min-max scaled"));
    CHECK(strstr(r.how, "2 x 3") && strstr(r.how, "query"));
    o.similarity = MMIX_MAP_DOT;
    o.token = "register 3";
    o.layer = "block 7";
    CHECK(map_of(m, &o, query, 1, patches, 2, 3, 4, 1, 9, &d) == 0);
    CHECK(close_to((double)mmix_data(d.similarity)[1], 50, 0)
          && close_to((double)mmix_data(d.similarity)[4], -25, 0));
    CHECK(close_to((double)mmix_data(d.scaled)[0], 25.0 / 75, 1e-7));
    CHECK(strstr(d.how, "dot product") && strstr(d.how, "register 3") && strstr(d.how, "block 7"));
    /* the row lies between both, columns at (x + ½)/3 - ½ */
    for (size_t x = 0; x < 9; x++) {
        double s = fmin(fmax(((double)x + 0.5) / 3 - 0.5, 0), 2);
        double f = s < 1 ? s : s - 1;
        size_t a = s < 1 ? 0 : 1;
        double left = ((double)mmix_data(d.scaled)[a] + (double)mmix_data(d.scaled)[a + 3]) / 2;
        double right = ((double)mmix_data(d.scaled)[a + 1] + (double)mmix_data(d.scaled)[a + 4])
                       / 2;
        CHECK(close_to((double)mmix_data(d.map)[x], (1 - f) * left + f * right, 1e-6));
    }
    o.token = "a name that is far longer than any description of a token has a right to be, and "
              "then some more of it";
    CHECK(map_of(m, &o, query, 1, patches, 2, 3, 4, 1, 9, &d) == 0);
    CHECK(strstr(d.how, "bilinear from 2 x 3 to 1 x 9"));

    /* constant: 0, not 0/0; the mean of a query and its opposite is nothing */
    mmix_real two[8];
    for (size_t i = 0; i < 4; i++) {
        two[i] = query[i];
        two[4 + i] = -query[i];
    }
    CHECK(map_of(m, NULL, two, 2, patches, 2, 3, 4, 5, 5, &r) == 0);
    for (size_t i = 0; i < 25; i++)
        CHECK(close_to((double)mmix_data(r.map)[i], 0, 0));
    CHECK(map_of(m, NULL, query, 1, patches, 1, 1, 4, 3, 2, &r) == 0
          && close_to((double)mmix_data(r.map)[5], 0, 0));

    FAILS(m, map_of(m, NULL, NULL, 1, patches, 2, 3, 4, 2, 3, &r), "query is NULL");
    FAILS(m, map_of(m, NULL, query, 0, patches, 2, 3, 4, 2, 3, &r), "axis 1 has size 0");
    FAILS(m, map_of(m, NULL, query, 1, patches, 2, 3, 4, 0, 3, &r), "h is 0");
    CHECK(r.map == NULL);
    o.similarity = 5;
    FAILS(m, map_of(m, &o, query, 1, patches, 2, 3, 4, 2, 3, &r), "similarity is 5");
    two[1] = (mmix_real)HUGE_VAL;
    FAILS(m, map_of(m, NULL, two, 1, patches, 2, 3, 4, 2, 3, &r), "row 0 of query holds inf");
    mmix_reset(m);
}

/* Of what a backbone returns: its token, or some of its tokens. */
static int vision_map(mmix_ctx *m, const mmix_map_options *o, const mmix_features *f, size_t h,
                      size_t w, mmix_map *r)
{
    return mmix_feature_map(m, o, o && o->positions ? f->tokens : f->token, f->patches, f->grid_h,
                            f->grid_w, h, w, r);
}
static void test_vision_map(mmix_ctx *m)
{
    /* tokens: patches 0-2, class, patches 3-5, register */
    enum { B = 2, L = 8, D = 5, N = 6 };
    size_t shape[3] = {B, L, D}, at[2] = {3, 7};
    mmix_tensor *tokens = mmix_new(m, MMIX_DTYPE_REAL, 3, shape);
    mmix_tensor *wide = mmix_new3(m, B, L + 3, D);
    mmix_features f;
    mmix_map_options o;
    mmix_map r, one;
    memset(&f, 0, sizeof f);
    memset(&o, 0, sizeof o);
    for (size_t i = 0; i < B * L * D; i++)
        mmix_data(tokens)[i] = (mmix_real)normal();
    for (size_t b = 0; b < B; b++)               /* patches as a view with gaps between images */
        for (size_t i = 0; i < N * D; i++)
            mmix_data(wide)[b * (L + 3) * D + 2 * D + i] = mmix_data(
                tokens)[b * L * D + i + (i >= 3 * D ? D : 0)];
    f.tokens = tokens;
    f.token = mmix_new2(m, B, D);
    for (size_t i = 0; i < B * D; i++)
        mmix_data(f.token)[i] = mmix_data(tokens)[i / D * L * D + 3 * D + i % D];
    f.patches = mmix_slice(m, wide, 1, 2, N);
    f.grid_h = 2;
    f.grid_w = 3;
    /* class token; by position; mean of two */
    for (int k = 0; k < 3; k++) {
        mmix_real query[2 * D];
        o.positions = k ? at : NULL;
        o.n_positions = k ? (size_t)k : 0;
        if (!CHECK(vision_map(m, &o, &f, 7, 11, &r) == 0 && mmix_shape(r.map, 0) == B))
            continue;
        for (size_t b = 0; b < B; b++) {
            for (size_t i = 0; i < 2; i++)
                memcpy(query + i * D, mmix_data(tokens) + (b * L + at[i]) * D, D * sizeof *query);
            CHECK(map_of(m, NULL, query, k == 2 ? 2 : 1,
                         mmix_data(f.patches) + b * mmix_stride(f.patches, 0), 2, 3, D, 7, 11, &one)
                  == 0);
            CHECK(memcmp(mmix_data(one.map), mmix_data(r.map) + b * 77, 77 * sizeof(mmix_real))
                  == 0);
            CHECK(memcmp(mmix_data(one.similarity), mmix_data(r.similarity) + b * N,
                         N * sizeof(mmix_real))
                  == 0);
        }
        static const char *const how[] = { "mean of the given query", "token 3",
                                           "mean of token 3 and 1 more" };
        CHECK(strstr(r.how, how[k < 2 ? k : 2]));
    }
    at[1] = L;
    FAILS(m, vision_map(m, &o, &f, 7, 11, &r), "a position is 8, expected 0 to 7");
    o.n_positions = 0;
    FAILS(m, vision_map(m, &o, &f, 7, 11, &r), "none of 8 tokens is left");
    f.grid_w = 4;
    FAILS(m, vision_map(m, NULL, &f, 7, 11, &r), "patches has shape (2, 6, 5), expected (2, 8, 5)");
    f.token = NULL;
    FAILS(m, vision_map(m, NULL, &f, 7, 11, &r), "query is NULL");
    mmix_reset(m);
}

static void test_knn(mmix_ctx *m)
{
    enum { TRAIN = 97, TEST = 41, D = 19, K = 4 };
    mmix_real train[TRAIN * D], test[TEST * D];
    int32_t train_label[TRAIN], test_label[TEST];
    voting o;
    mmix_knn_result r;
    memset(&o, 0, sizeof o);

    /* clusters along the axes: everything right; labels that are rotated: everything wrong */
    for (size_t i = 0; i < TRAIN + TEST; i++) {
        mmix_real *x = i < TRAIN ? train + i * D : test + (i - TRAIN) * D;
        size_t c = i % K;
        /* only the direction counts */
        double scale = 1 + 10 * uniform();
        for (size_t d = 0; d < D; d++)
            x[d] = (mmix_real)(scale * ((d == c) * 5 + normal() * 0.3));
        if (i < TRAIN) train_label[i] = (int32_t)c;
        else test_label[i - TRAIN] = (int32_t)c;
    }
    CHECK(knn_of(m, NULL, train, train_label, TRAIN, test, test_label, TEST, D, K, &r) == 0);
    CHECK(close_to(r.top1, 1, 0) && close_to(r.balanced, 1, 0));
    for (size_t i = 0; i < TEST; i++)
        CHECK(r.pred[i] == test_label[i]);
    for (size_t i = 0; i < TEST; i++)
        test_label[i] = (test_label[i] + 1) % K;
    CHECK(knn_of(m, NULL, train, train_label, TRAIN, test, test_label, TEST, D, K, &r) == 0);
    CHECK(close_to(r.top1, 0, 0) && close_to(r.balanced, 0, 0));
    CHECK(knn_of(m, NULL, train, train_label, TRAIN, test, NULL, TEST, D, K, &r) == 0
          && close_to(r.top1, 0, 0));

    /* 3 of 4 test rows of class 0, 1 of 1 of class 1 right; class 2 is not tested: top1 4/5,
       balanced 7/8 */
    static const mmix_real axis[6] = { 1, 0, 0, 1, -1, -1 },
                           five[10] = { 1, 0, 2, 0, 9, 1, 0, 1, 0, 3 };
    static const int32_t axis_label[3] = {0, 1, 2}, five_label[5] = {0, 0, 0, 0, 1};
    o.k = 1;
    CHECK(knn_of(m, &o, axis, axis_label, 3, five, five_label, 5, 2, 3, &r) == 0);
    CHECK(close_to(r.top1, 0.8, 1e-15) && close_to(r.balanced, 0.875, 1e-15));
    CHECK(close_to(r.votes[0], exp(1 / 0.07), 1e-9 * exp(1 / 0.07)) && close_to(r.votes[1], 0, 0));

    /* equal cosines: the earlier row; equal votes: the lower label; a row of zeros is like
       nothing */
    static const mmix_real same[6] = {2, 0, 1, 0, 3, 0}, probe[4] = {1, 0, 0, 0};
    static const int32_t same_label[3] = {2, 1, 1};
    o.k = 1;
    CHECK(knn_of(m, &o, same, same_label, 3, probe, NULL, 2, 2, 3, &r) == 0 && r.pred[0] == 2
          && r.pred[1] == 2);
    o.k = 2;
    CHECK(knn_of(m, &o, same, same_label, 3, probe, NULL, 2, 2, 3, &r) == 0 && r.pred[0] == 1);
    CHECK(close_to(r.votes[3 + 1], 1, 0) && close_to(r.votes[3 + 2], 1, 0));

    /* the last row pushes one of two equals out */
    static const mmix_real late[6] = {1, 1, 1, -1, 5, 0};
    static const int32_t late_label[3] = {2, 1, 0};
    CHECK(knn_of(m, &o, late, late_label, 3, probe, NULL, 1, 2, 3, &r) == 0);
    CHECK(r.votes[0] > r.votes[2] && r.votes[2] > 0 && close_to(r.votes[1], 0, 0));

    /* brute force: k times the largest cosine that is left */
    for (size_t i = 0; i < TRAIN * D; i++)
        train[i] = (mmix_real)normal();
    for (size_t i = 0; i < TEST * D; i++)
        test[i] = (mmix_real)normal();
    for (o.k = 1; o.k < 130; o.k += o.k + 1) {
        o.temperature = 0.3;
        if (!CHECK(knn_of(m, &o, train, train_label, TRAIN, test, test_label, TEST, D, K, &r) == 0))
            break;
        double right = 0;
        for (size_t i = 0; i < TEST; i++) {
            double cosine[TRAIN], votes[K] = {0, 0, 0, 0};
            size_t best = 0;
            for (size_t t = 0; t < TRAIN; t++) {
                double dot = 0, a = 0, b = 0;
                for (size_t d = 0; d < D; d++) {
                    dot += (double)test[i * D + d] * (double)train[t * D + d];
                    a += (double)test[i * D + d] * (double)test[i * D + d];
                    b += (double)train[t * D + d] * (double)train[t * D + d];
                }
                cosine[t] = dot / sqrt(a * b);
            }
            for (size_t n = 0; n < o.k && n < TRAIN; n++) {
                size_t top = 0;
                for (size_t t = 1; t < TRAIN; t++)
                    if (cosine[t] > cosine[top])
                        top = t;
                votes[train_label[top]] += exp(cosine[top] / 0.3);
                cosine[top] = -2;
            }
            for (size_t c = 0; c < K; c++) {
                CHECK(close_to(r.votes[i * K + c], votes[c],
                               (sizeof(mmix_real) == 8 ? 1e-13 : 3e-6) * (votes[c] + 1)));
                if (votes[c] > votes[best]) best = c;
            }
            CHECK(r.pred[i] == (int32_t)best);
            right += (int32_t)best == test_label[i];
        }
        CHECK(close_to(r.top1, right / (double)TEST, 1e-15));
    }

    memset(&o, 0, sizeof o);
    train_label[96] = 4;
    FAILS(m, knn_of(m, NULL, train, train_label, TRAIN, test, test_label, TEST, D, K, &r),
          "train_label[96] is 4, expected 0 to 3");
    FAILS(m,
          mmix_knn(m, reals(m, 2, TRAIN, D, 0, train), ints(m, 1, TRAIN, 0, 0, train_label),
                   reals(m, 2, TEST, D - 1, 0, test), NULL, K, 0, 0, &r),
          "test has shape (41, 18), expected (41, 19)");
    CHECK(r.votes == NULL && r.pred == NULL);
    train_label[96] = 0;
    test_label[5] = -1;
    FAILS(m, knn_of(m, NULL, train, train_label, TRAIN, test, test_label, TEST, D, K, &r),
          "test_label[5] is -1");
    test_label[5] = 0;
    o.temperature = -1;
    FAILS(m, knn_of(m, &o, train, train_label, TRAIN, test, test_label, TEST, D, K, &r),
          "temperature is -1");
    FAILS(m, knn_of(m, NULL, train, NULL, TRAIN, test, test_label, TEST, D, K, &r),
          "train_label is NULL");
    FAILS(m, knn_of(m, NULL, train, train_label, TRAIN, test, test_label, TEST, 0, K, &r),
          "axis 1 has size 0");
    FAILS(m, knn_of(m, NULL, train, train_label, 0, test, test_label, TEST, D, K, &r),
          "axis 0 has size 0");
    test[7 * D + 3] = (mmix_real)HUGE_VAL;
    FAILS(m, knn_of(m, NULL, train, train_label, TRAIN, test, test_label, TEST, D, K, &r),
          "row 7 of test");
    mmix_reset(m);
}

/* C v = λ v for every component, computed from x anew. */
static double eigen_error(const mmix_real *x, size_t rows, size_t D, size_t k,
                          const mmix_pca_result *r)
{
    double worst = 0;
    for (size_t i = 0; i < k; i++)
        for (size_t d = 0; d < D; d++) {
            double sum = 0;
            for (size_t row = 0; row < rows; row++)
                sum += ((double)x[row * D + d] - r->mean[d]) * r->projection[row * k + i];
            worst = fmax(worst, fabs(sum / (double)(rows - 1)
                                     - r->variance[i] * r->components[i * D + d]));
        }
    return worst / r->variance[0];
}

static void check_pca(mmix_ctx *m, const mmix_real *x, size_t rows, size_t D, size_t k,
                      double bound)
{
    mmix_pca_result r;
    if (!CHECK(pca_of(m, x, rows, D, k, &r) == 0))
        return;
    CHECK(eigen_error(x, rows, D, k, &r) < bound);
    for (size_t a = 0; a < k; a++) {
        double most = 0;
        for (size_t d = 0; d < D; d++)
            if (fabs(r.components[a * D + d]) > fabs(most))
                most = r.components[a * D + d];
        CHECK(most > 0);
        CHECK(a == 0 || r.variance[a] <= r.variance[a - 1]);
        for (size_t b = 0; b <= a; b++) {
            double dot = 0;
            for (size_t d = 0; d < D; d++)
                dot += r.components[a * D + d] * r.components[b * D + d];
            CHECK(close_to(dot, a == b, 1e-12));
        }
    }
}

static void test_pca(mmix_ctx *m)
{
    /* ±a along (3, 4, 0)/5 with a = 5, ±b along -z with b = 2, around (1, 2, 3): variances
       2·25/3 and 2·4/3 */
    static const mmix_real cross[12] = {4, 6, 3, -2, -2, 3, 1, 2, 1, 1, 2, 5};
    mmix_pca_result r;
    CHECK(pca_of(m, cross, 4, 3, 3, &r) == 0);
    for (size_t d = 0; d < 3; d++)
        CHECK(close_to(r.mean[d], (double)d + 1, 1e-15));
    CHECK(close_to(r.variance[0], 50.0 / 3, 1e-13));
    CHECK(close_to(r.variance[1], 8.0 / 3, 1e-13) && close_to(r.variance[2], 0, 1e-13));
    CHECK(close_to(r.components[0], 0.6, 1e-14));
    CHECK(close_to(r.components[1], 0.8, 1e-14) && close_to(r.components[2], 0, 1e-14));
    CHECK(close_to(r.components[5], 1, 1e-14));
    CHECK(close_to(r.projection[0], 5, 1e-13));
    CHECK(close_to(r.projection[3], -5, 1e-13) && close_to(r.projection[7], -2, 1e-13));

    static mmix_real x[300 * 120];
    for (size_t i = 0; i < 300 * 120; i++)
        x[i] = (mmix_real)(normal() * pow(0.8, (double)(i % 120)) + 2);
    check_pca(m, x, 300, 120, 1, 1e-12);
    check_pca(m, x, 300, 120, 3, 1e-12);
    /* more directions than rows */
    check_pca(m, x, 60, 120, 20, 1e-12);
    /* more components than the 6 there can be */
    check_pca(m, x, 7, 120, 10, 1e-12);
    check_pca(m, x, 200, 9, 9, 1e-12);
    check_pca(m, x, 2, 120, 1, 1e-12);
    check_pca(m, x, 50, 1, 1, 1e-12);
    for (size_t i = 0; i < 50 * 40; i++)
        x[i] = (mmix_real)(normal() * pow(0.1, (double)(i % 40) / 2));
    /* C v is all but parallel for all v */
    check_pca(m, x, 50, 40, 3, 1e-12);
    check_pca(m, x, 50, 40, 12, 1e-12);
    /* a flat spectrum converges slowly */
    for (size_t i = 0; i < 300 * 120; i++)
        x[i] = (mmix_real)normal();
    check_pca(m, x, 300, 120, 3, 1e-6);

    /* nothing varies: unit vectors, variance 0 */
    for (size_t i = 0; i < 40; i++)
        x[i] = 7;
    CHECK(pca_of(m, x, 4, 10, 2, &r) == 0 && close_to(r.variance[0], 0, 0)
          && close_to(r.projection[0], 0, 0));

    FAILS(m, pca_of(m, x, 1, 10, 1, &r), "x's number of rows is 1, expected 2");
    FAILS(m, pca_of(m, x, 5, 10, 11, &r), "k is 11, expected 1 to 10");
    FAILS(m, pca_of(m, x, 5, 10, 0, &r), "k is 0, expected 1 to 10");
    FAILS(m, pca_of(m, NULL, 5, 10, 1, &r), "x is NULL");
    x[3] = (mmix_real)HUGE_VAL;
    FAILS(m, pca_of(m, x, 5, 10, 1, &r), "row 0 of x holds inf");
    CHECK(r.mean == NULL);
    mmix_reset(m);
}

/* A class strategy of two parts, of a view of two sequences */
static void pooled_views(mmix_ctx *m, const mmix_real *values, const size_t *special,
                         const double expected[][2][2])
{
    mmix_tensor *wide = mmix_fill(mmix_new3(m, 2, 6, 2), 100);
    mmix_tensor *view = mmix_slice(m, wide, 1, 1, 4);
    mmix_tensor *part[2], *y;
    for (size_t i = 0; i < 16; i++)
        mmix_data(wide)[i / 8 * 12 + 2 + i % 8] = values[i % 8] + (mmix_real)(i / 8);
    part[0] = mmix_pool_tokens(m, view, special, 2, 0, 0);
    part[1] = mmix_pool_tokens(m, view, special, 2, 1, 1);
    y = mmix_concat(m, 1, part, 2);
    if (CHECK(y && mmix_shape(y, 0) == 2 && mmix_shape(y, 1) == 4))
        for (size_t i = 0; i < 8; i++)
            CHECK(close_to((double)mmix_data(y)[i],
                           expected[i % 4 / 2][i % 4 / 2][i % 2] + (double)(i / 4), 0));
}
static void test_pool_tokens(mmix_ctx *m)
{
    /* 4 tokens of width 2; tokens 1 and 3 are special */
    static const mmix_real values[8] = {1, -8, 10, 20, 5, -2, 30, 60};
    static const size_t special[2] = {1, 3}, all[4] = {0, 1, 2, 3}, outside[1] = {4};
    static const double expected[2][2][2] = {{{20, 40}, {30, 60}}, {{3, -5}, {5, -2}}};
    mmix_tensor *tokens = reals(m, 3, 1, 4, 2, values);
    for (int others = 0; others < 2; others++)
        for (int max = 0; max < 2; max++) {
            mmix_tensor *y = mmix_pool_tokens(m, tokens, special, 2, others, max);
            if (!CHECK(y && mmix_ndim(y) == 2 && mmix_shape(y, 0) == 1 && mmix_shape(y, 1) == 2))
                continue;
            for (size_t d = 0; d < 2; d++)
                CHECK(close_to((double)mmix_data(y)[d], expected[others][max][d], 0));
        }
    pooled_views(m, values, special, expected);
    FAILS(m, !mmix_pool_tokens(m, tokens, all, 4, 1, 0), "none of 4 tokens is left");
    FAILS(m, !mmix_pool_tokens(m, tokens, NULL, 0, 0, 0), "none of 4 tokens is left");
    FAILS(m, !mmix_pool_tokens(m, tokens, outside, 1, 0, 0), "a position is 4, expected 0 to 3");
    FAILS(m, !mmix_pool_tokens(m, mmix_new2(m, 2, 2), special, 2, 0, 0), "shape (2, 2)");
    FAILS(m, !mmix_pool_tokens(m, NULL, special, 2, 0, 0), "tokens is NULL");
    mmix_reset(m);
}

/* The same bits for 1, 2 and 3 threads, and an error that is kept stops every call. */
static void test_threads(void)
{
    enum { TRAIN = 203, TEST = 61, D = 65, K = 5 };
    static mmix_real train[TRAIN * D], test[TEST * D];
    static int32_t label[TRAIN];
    static double votes[TEST * K], components[3 * D], projection[TRAIN * 3];
    for (size_t i = 0; i < TRAIN * D; i++)
        train[i] = (mmix_real)normal();
    for (size_t i = 0; i < TEST * D; i++)
        test[i] = (mmix_real)normal();
    for (size_t i = 0; i < TRAIN; i++)
        label[i] = (int32_t)(i % K);
    for (int threads = 1; threads <= 3; threads++) {
        mmix_options options;
        mmix_knn_result r;
        mmix_pca_result p;
        mmix_ctx *m;
        memset(&options, 0, sizeof options);
        options.threads = threads;
        m = mmix_create(&options);
        if (!CHECK(m && knn_of(m, NULL, train, label, TRAIN, test, NULL, TEST, D, K, &r) == 0
                   && pca_of(m, train, TRAIN, D, 3, &p) == 0)) continue;
        if (threads == 1) {
            memcpy(votes, r.votes, sizeof votes);
            memcpy(components, p.components, sizeof components);
            memcpy(projection, p.projection, sizeof projection);
        }
        CHECK(memcmp(votes, r.votes, sizeof votes) == 0);
        CHECK(memcmp(components, p.components, sizeof components) == 0);
        CHECK(memcmp(projection, p.projection, sizeof projection) == 0);
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "the first");
        CHECK(knn_of(m, NULL, train, label, TRAIN, test, NULL, TEST, D, K, &r) == -1
              && r.votes == NULL);
        CHECK(pca_of(m, train, TRAIN, D, 3, &p) == -1 && strcmp(mmix_error(m), "the first") == 0);
        mmix_destroy(m);
    }
}

/* Every allocation fails once. */
static int measured(const mmix_options *o, void *user)
{
    enum { N = 400 };
    static mmix_real x[N * N];
    static int32_t label[N * N];
    mmix_auc auc;
    mmix_map map;
    mmix_knn_result knn;
    mmix_pca_result pca;
    mmix_ctx *m = mmix_create(o);
    (void)user;
    if (!m) return MMIX_ERROR_MEMORY;
    for (size_t i = 0; i < N * N; i++) {
        x[i] = (mmix_real)(i % 17);
        label[i] = i % 5 == 0;
    }
    int bad = auc_of(m, NULL, x, label, 2, 200, 200, &auc);
    bad |= map_of(m, NULL, x, 3, x, 20, 20, N, 500, 500, &map);
    bad |= knn_of(m, NULL, x, label, N, x, label, 50, N, 2, &knn);
    bad |= pca_of(m, x, 60, N, 2, &pca);
    const int kind = mmix_error_kind(m);
    CHECK(!bad == !kind);
    mmix_destroy(m);
    return kind;
}
static void test_memory(void) { memory_fails(measured, NULL, 1, 1); }

/* Without a context, an array, a mixer or a result: -1 or NULL, a zeroed result, and a message
   where there is a context to keep it. */
static void test_nothing(mmix_ctx *m)
{
    static const size_t first = 0;
    mmix_tensor *x = mmix_fill(mmix_new3(m, 1, 4, 4), 1);
    mmix_tensor *q = mmix_fill(mmix_new4(m, 1, 4, 1, 2), 1);
    mmix_mixer mixer = mmix_mixer_softmax(q, q, q);
    mmix_miou_count count[2] = {{1, 1, 1}, {1, 1, 1}};
    mmix_probe_config config = mmix_probe_config_default();
    mmix_source source;
    mmix_auc auc;
    mmix_map map;
    mmix_knn_result knn;
    mmix_pca_result pca;
    mmix_probe_result probe;
    mmix_rank rank;
    mmix_mixer_rank mixed;
    mmix_map_options options;
    double iou;
    memset(&source, 0, sizeof source);

    memset(&auc, 1, sizeof auc);
    CHECK(mmix_binary_auc(NULL, NULL, x, NULL, &auc) == -1 && !auc.auc_raw);
    CHECK(mmix_feature_map(NULL, NULL, x, x, 2, 2, 4, 4, &map) == -1 && !map.map);
    CHECK(mmix_knn(NULL, x, NULL, NULL, NULL, 2, 1, 0, &knn) == -1 && !knn.votes);
    CHECK(mmix_pca(NULL, x, 1, &pca) == -1 && !pca.mean);
    CHECK(mmix_block_rank(NULL, x, 0, 0, &rank) == -1 && !rank.singular);
    memset(&mixed, 1, sizeof mixed);
    CHECK(mmix_mix_rank(NULL, &mixer, NULL, 0, 0, &mixed) == -1 && !mixed.bound);
    memset(&mixed, 1, sizeof mixed);
    CHECK(mmix_mix_rank(NULL, NULL, NULL, 0, 0, &mixed) == -1 && !mixed.bound);
    CHECK(mmix_linear_probe(NULL, &config, &source, NULL, &probe) == -1 && !probe.head);
    CHECK(mmix_binary_iou(NULL, x, NULL, 0, 0, &iou) == -1 && iou == 0);
    CHECK(mmix_miou_add(NULL, count, 2, NULL, NULL, 0) == -1 && count[0].both == 1);
    CHECK(!mmix_pool_tokens(NULL, x, NULL, 0, 1, 0) && !mmix_mass_threshold(NULL, x, 0.5));

    FAILS(m, mmix_mix_rank(m, NULL, NULL, 0, 0, &mixed), "mixer is NULL");
    CHECK(!mixed.bound && !mixed.joined);
    FAILS(m, mmix_mix_rank(m, &mixer, NULL, 0, 0, NULL), "mmix_mix_rank: result is NULL");
    FAILS(m, mmix_block_rank(m, NULL, 0, 0, &rank), "M is NULL");
    FAILS(m, mmix_block_rank(m, x, 0, 0, NULL), "result is NULL");
    FAILS(m, mmix_binary_auc(m, NULL, x, NULL, &auc), "mask is NULL");
    FAILS(m, mmix_binary_auc(m, NULL, x, NULL, NULL), "result is NULL");
    FAILS(m, mmix_feature_map(m, NULL, NULL, x, 2, 2, 4, 4, &map), "query is NULL");
    FAILS(m, mmix_feature_map(m, NULL, x, x, 2, 2, 4, 4, NULL), "result is NULL");
    FAILS(m, mmix_knn(m, NULL, NULL, NULL, NULL, 2, 1, 0, &knn), "train is NULL");
    FAILS(m, mmix_knn(m, x, NULL, NULL, NULL, 2, 1, 0, NULL), "result is NULL");
    FAILS(m, mmix_pca(m, NULL, 1, &pca), "x is NULL");
    FAILS(m, mmix_pca(m, x, 1, NULL), "result is NULL");
    FAILS(m, mmix_linear_probe(m, NULL, &source, NULL, &probe), "config is NULL");
    FAILS(m, mmix_linear_probe(m, &config, NULL, NULL, &probe), "train is NULL");
    FAILS(m, mmix_linear_probe(m, &config, &source, NULL, NULL), "result is NULL");
    FAILS(m, mmix_binary_iou(m, x, NULL, 0, 0, &iou), "mask is NULL");
    FAILS(m, mmix_binary_iou(m, x, x, 0, 0, NULL), "result is NULL");
    mmix_tensor *label = ints(m, 1, 1, 0, 0, (const int32_t[]){0});
    FAILS(m, mmix_miou_add(m, NULL, 2, label, label, -1), "count is NULL");
    CHECK(mmix_miou(NULL, 2, &iou).miou == 0);
    mmix_roc_add(NULL, 1, &auc);
    mmix_roc_add(&iou, 1, NULL);

    /* positions that are NULL are all tokens of a query, and no positions of mmix_pool_tokens */
    memset(&options, 0, sizeof options);
    options.n_positions = 3;
    CHECK(mmix_feature_map(m, &options, x, x, 2, 2, 4, 4, &map) == 0 && map.map);
    CHECK(!strncmp(map.how, "patches as given; mean of the given query;", 42));
    FAILS(m, !mmix_pool_tokens(m, x, NULL, 2, 0, 0), "positions is NULL");
    FAILS(m, !mmix_pool_tokens(m, x, NULL, 0, 0, 0), "none of 4 tokens");
    CHECK(mmix_pool_tokens(m, x, &first, 1, 0, 0) != NULL);
    CHECK(mmix_error(m) == NULL);
    mmix_reset(m);
}

/* Rows of a (rows, cols), or its columns: a reflection at a random direction, which leaves the
   singular values as they are. */
static void reflect(double *a, size_t rows, size_t cols, int columns)
{
    double v[256], square = 0;
    const size_t n = columns ? cols : rows, other = columns ? rows : cols;
    const size_t step = columns ? 1 : cols, next = columns ? cols : 1;
    for (size_t i = 0; i < n; i++) {
        v[i] = normal();
        square += v[i] * v[i];
    }
    for (size_t k = 0; k < other; k++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += v[i] * a[k * next + i * step];
        for (size_t i = 0; i < n; i++) a[k * next + i * step] -= 2 * sum / square * v[i];
    }
}
/* Blocks too wide for Jacobi, of singular values that are known: falling ones, equal ones, and a
   rank below the width; and ones that are diagonal, whose values are exact. */
static void test_wide_ranks(mmix_ctx *m)
{
    enum { WIDEST = 200 };
    static const size_t sides[][2] = {{96, 96}, {97, 97}, {97, WIDEST}, {WIDEST, 120}, {131, 130}};
    static double a[WIDEST * WIDEST], sigma[WIDEST];
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
        for (int kind = 0; kind < 4; kind++) {
            const size_t rows = sides[s][0], cols = sides[s][1], n = rows < cols ? rows : cols;
            const size_t rank = kind == 2 ? 7 : n;
            double squares = 0, sum = 0, entropy = 0, worst = 0;
            mmix_tensor *M = mmix_new2(m, rows, cols);
            mmix_rank r;
            memset(a, 0, sizeof a);
            for (size_t i = 0; i < n; i++) {
                sigma[i] = kind == 1 ? 3 : 2 * pow(0.97, (double)i);
                if (i >= rank) sigma[i] = 0;
                /* a diagonal one's are out of order, and every other negative */
                a[kind == 3 ? (n - 1 - i) * cols + i : i * cols + i] = i % 2 ? -sigma[i] : sigma[i];
                squares += sigma[i] * sigma[i];
                sum += sigma[i];
            }
            for (int k = 0; kind < 3 && k < 3; k++) {
                reflect(a, rows, cols, 0);
                reflect(a, rows, cols, 1);
            }
            for (size_t i = 0; i < rows * cols; i++) mmix_data(M)[i] = (real)a[i];
            for (size_t i = 0; i < rank; i++) entropy -= sigma[i] / sum * log(sigma[i] / sum);
            snprintf(about, sizeof about, "%d x %d, kind %d", (int)rows, (int)cols, kind);
            if (!CHECK(!mmix_block_rank(m, M, 0, 0, &r))) return;
            for (size_t i = 0; i < n; i++)
                worst = fmax(worst, fabs(r.singular[i] - (kind == 3 ? (real)sigma[i] : sigma[i])));
            COMPARE(worst < (kind == 3 ? 1e-14 : 100 * EPS), "singular values", worst, 0);
            IS(r.numerical[0], rank);
            NEAR(r.stable[0], squares / (sigma[0] * sigma[0]), 1e3 * EPS * (double)n);
            NEAR(r.effective[0], exp(entropy), 1e3 * EPS * (double)n);
        }
    doing("");
    mmix_reset(m);
}

/* Of a million equal numbers, or of two kinds, no sum loses digits. */
static void test_many(mmix_ctx *m)
{
    enum { MANY = 1000000 };
    static int32_t mask[MANY];
    mmix_tensor *x = mmix_fill(mmix_new3(m, 1, MANY, 2), 0.1), *mean;
    mmix_auc auc;
    mmix_pca_result pca;
    double iou;
    mean = mmix_pool_tokens(m, x, NULL, 0, 1, 0);
    if (!CHECK(mean != NULL)) return;
    CHECK(close_to((double)mmix_data(mean)[0], (double)(real)0.1, 1e-11));
    CHECK(close_to((double)mmix_data(mean)[1], (double)(real)0.1, 1e-11));

    for (size_t i = 0; i < MANY; i++)
        mask[i] = i % 4 == 0;
    CHECK(auc_of(m, NULL, mmix_data(x), mask, 1, 1000, 1000, &auc) == 0 && auc.auc == 0.5);
    mmix_tensor *map = reals(m, 3, 1, 1000, 1000, mmix_data(x));
    CHECK(mmix_binary_iou(m, map, ints(m, 3, 1, 1000, 1000, mask), 0, 0, &iou) == 0 && iou == 0.25);

    for (size_t i = 0; i < MANY; i++)
        mmix_data(x)[i] = (real)(i % 2 ? 0.25 : 0.75);
    if (!CHECK(pca_of(m, mmix_data(x), MANY, 1, 1, &pca) == 0))
        return;
    CHECK(close_to(pca.mean[0], 0.5, 1e-10));
    CHECK(close_to(pca.variance[0], 0.0625 * MANY / (MANY - 1), 1e-10));
    CHECK(close_to(fabs(pca.projection[MANY - 1]), 0.25, 1e-10));
    mmix_reset(m);
}

int main(void)
{
    mmix_ctx *m = mmix_create(NULL);
    if (!CHECK(m != NULL)) return 1;
    test_auc(m);
    test_auc_images(m);
    test_auc_grid(m);
    test_auc_errors(m);
    test_iou(m);
    test_map(m);
    test_vision_map(m);
    test_knn(m);
    test_pca(m);
    test_pool_tokens(m);
    test_threads();
    test_memory();
    test_nothing(m);
    test_wide_ranks(m);
    test_many(m);
    CHECK(mmix_error(m) == NULL);
    mmix_destroy(m);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
