/* Heads on frozen features: SGD and clipping, mIoU, leave-one-out k-NN, linear probe and
   segmentation head, each against its definition or the ops of the tape; sources that stop, lie or
   use the context; threads, memory, refusals. */
#include "test.h"

static const double EXACT = sizeof(real) == 8 ? 1e-11 : 2e-5;

/* ---- SGD ---- */

enum { PARAMS = 3 };
static void test_sgd(mmix_ctx *m)
{
    /* the last has two pieces */
    static const size_t shape[PARAMS][2] = {{7, 3}, {5, 1}, {40, 600}};
    mmix_params *p = mmix_params_create(m);
    mmix_tensor *t[PARAMS];
    mmix_optimizer s, other;
    mmix_sgd o = mmix_sgd_config_default();
    unsigned char skip[PARAMS] = {0, 1, 0};
    doing("sgd");
    IS(o.lr, 1e-3);
    IS(o.weight_decay, 0);
    IS(o.momentum, 0.9);
    IS(o.dampening, 0);
    IS(o.nesterov, 0);
    for (int i = 0; i < PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        t[i] = mmix_params_add(p, "", name, i == 1 ? 1 : 2, shape[i], MMIX_INIT_NORMAL, 1, 0);
    }
    IS(mmix_params_allocate(p), 0);
    IS(mmix_sgd_init(&s, p), 0);
    CHECK(s.v == NULL && s.m != NULL);
    const size_t slab = p->slab;
    double *x = (double *)calloc(3 * slab, sizeof *x), *b = x + slab, *g = b + slab,
           first[PARAMS] = { 1, 1, 1 };
    for (size_t i = 0; i < slab; i++)
        x[i] = (double)p->values[i];
    o.lr = 0.1;
    o.weight_decay = 0.3;
    o.momentum = 0.8;
    o.dampening = 0.25;
    for (int step = 0; step < 6; step++) {
        double clip;
        if (step < 2) clip = 0;
        else if (step < 4) clip = 0.7;
        else clip = -0.7;
        double all = 0, norm[PARAMS], worst = 0;
        o.nesterov = step % 2;
        mmix_record(m, 1);
        mmix_tensor *y[PARAMS], *dy[PARAMS];
        for (int i = 0; i < PARAMS; i++) {
            const size_t at = (size_t)(mmix_data(t[i]) - p->values);
            const size_t n = mmix_count(t[i]);
            y[i] = mmix_affine(m, t[i], 1, 0);
            dy[i] = i == 1 ? random1(m, n, -1, 1)
                           : shaped(m, random1(m, n, -1, 1), 2, shape[i][0], shape[i][1], 0);
            norm[i] = 0;
            for (size_t e = 0; e < n; e++) {
                g[at + e] = (double)mmix_data(dy[i])[e];
                norm[i] += g[at + e] * g[at + e];
            }
            all += norm[i];
            norm[i] = sqrt(norm[i]);
        }
        mmix_backward_from(m, y, dy, PARAMS);
        mmix_record(m, 0);
        NEAR(mmix_sgd_step(&s, &o, clip, step == 1 ? skip : NULL), sqrt(all), EXACT * sqrt(all));
        for (int i = 0; i < PARAMS; i++) {
            const size_t at = (size_t)(mmix_data(t[i]) - p->values);
            const double of = clip < 0 ? sqrt(all) : norm[i];
            const double factor = clip != 0 ? fmin(1, fabs(clip) / (of + 1e-6)) : 1;
            for (size_t e = at; e < at + mmix_count(t[i]); e++) {
                /* a vector has no decay */
                const double d = factor * g[e] + (i == 1 ? 0 : 0.3) * x[e];
                if (step == 1 && skip[i]) continue;
                b[e] = first[i] != 0 ? d : 0.8 * b[e] + 0.75 * d;
                x[e] -= 0.1 * (o.nesterov ? d + 0.8 * b[e] : b[e]);
                worst = fmax(worst,
                             fmax(fabs(x[e] - (double)p->values[e]), fabs(b[e] - (double)s.m[e])));
            }
            if (step != 1 || !skip[i]) first[i] = 0;
        }
        NEAR(worst, 0, EXACT);
        mmix_reset(m);
    }
    free(x);
    const mmix_adamw adamw = mmix_adamw_config_default();
    BAD_INT(mmix_adamw_step(&s, &adamw, 0, NULL) == 0, "mmix_adamw_step", "another optimizer");
    o.momentum = 2;
    BAD_INT(mmix_sgd_step(&s, &o, 0, NULL) == 0, "momentum is 2", "mmix_sgd_step");
    o = mmix_sgd_config_default();
    mmix_record(m, 1);
    mmix_tensor *y = mmix_affine(m, t[1], 1, 0);
    mmix_tensor *dy = mmix_fill(mmix_new1(m, 5), HUGE_VAL);
    mmix_backward_from(m, &y, &dy, 1);
    mmix_record(m, 0);
    BAD_INT(mmix_sgd_step(&s, &o, 0, NULL) == 0, "mmix_sgd_step: the gradient of p1", "inf");
    mmix_optimizer_free(&s);
    IS(mmix_adamw_init(&other, p), 0);
    BAD_INT(mmix_sgd_step(&other, &o, 0, NULL) == 0, "mmix_sgd_step", "another optimizer");
    mmix_optimizer_free(&other);
    mmix_params_destroy(p);
    mmix_reset(m);
}

/* ---- mIoU ---- */

static void test_miou(mmix_ctx *m)
{
    enum { K = 5, PICTURES = 4, H = 9, W = 7 };
    static const size_t shape[3] = {PICTURES, H, W}, one[2] = {H, W};
    mmix_miou_count count[K], parts[K];
    int32_t pred[PICTURES * H * W], label[PICTURES * H * W];
    double iou[K], right = 0, pixels = 0, miou = 0, balanced = 0, seen = 0;
    double tested = 0;
    doing("mIoU");
    /* class 3 nowhere, 4 only predicted, 9 is void */
    for (size_t i = 0; i < PICTURES * H * W; i++) {
        pred[i] = (int32_t)any(0, 2) + 2 * (any(0, 9) == 0) * (i % 2 == 0);
        if (pred[i] == 3) pred[i] = 4;
        if (any(0, 4) == 0) label[i] = 9;
        else if (any(0, 1))
            label[i] = pred[i] < 3 ? pred[i] : 1;
        else label[i] = (int32_t)any(0, 2);
    }
    memset(count, 0, sizeof count);
    memset(parts, 0, sizeof parts);
    IS(mmix_miou_add(m, count, K, mmix_from_i32(m, 3, shape, pred),
                     mmix_from_i32(m, 3, shape, label), 9),
       0);
    for (size_t i = 0; i < PICTURES; i++)
        IS(mmix_miou_add(m, parts, K, mmix_from_i32(m, 2, one, pred + i * H * W),
                         mmix_from_i32(m, 2, one, label + i * H * W), 9),
           0);
    CHECK(!memcmp(count, parts, sizeof count));
    const mmix_miou_result r = mmix_miou(count, K, iou);
    for (int32_t c = 0; c < K; c++) {
        double both = 0, either = 0, labelled = 0;
        for (size_t i = 0; i < PICTURES * H * W; i++) {
            if (label[i] == 9) continue;
            both += pred[i] == c && label[i] == c;
            either += pred[i] == c || label[i] == c;
            labelled += label[i] == c;
        }
        NEAR(iou[c], either > 0 ? both / either : 0, 1e-15);
        right += both, pixels += labelled, miou += either > 0 ? both / either : 0,
            seen += either > 0;
        balanced += labelled > 0 ? both / labelled : 0, tested += labelled > 0;
    }
    IS(seen, 4);
    IS(tested, 3);
    NEAR(r.miou, miou / seen, 1e-15);
    NEAR(r.accuracy, right / pixels, 1e-15);
    NEAR(r.balanced, balanced / tested, 1e-15);
    memset(count, 0, sizeof count);
    IS(mmix_miou(count, K, NULL).miou, 0);
    IS(mmix_miou(count, K, NULL).accuracy, 0);
    BAD_INT(mmix_miou_add(m, count, K, mmix_from_i32(m, 2, one, pred),
                          mmix_from_i32(m, 2, one, label), -1),
            "a label is 9", "0 to 4");
    pred[3] = K;
    label[3] = 0;
    BAD_INT(mmix_miou_add(m, count, K, mmix_from_i32(m, 2, one, pred),
                          mmix_from_i32(m, 2, one, label), 9),
            "a prediction is 5", "");
    for (size_t c = 0; c < K; c++)
        IS(count[c].label + count[c].pred + count[c].both, 0);
    BAD_INT(mmix_miou_add(m, count, K, mmix_from_i32(m, 2, one, pred),
                          mmix_from_i32(m, 3, shape, label), 9),
            "label has shape", "");
    BAD_INT(mmix_miou_add(m, count, K, mmix_new2(m, H, W), mmix_from_i32(m, 2, one, label), 9),
            "pred is real", "");
    mmix_reset(m);
}

/* ---- mass ---- */

/* By its definition, on a slice too: what is kept has the mass, without its least cell it has
   not, and none left out is larger. */
static void test_mass(mmix_ctx *m)
{
    enum { MAPS = 6, H = 5, W = 7, CELLS = H * W };
    doing("mass of a map");
    mmix_tensor *wide = mmix_new4(m, 2, MAPS / 2, H, W + 3);
    mmix_tensor *map = mmix_slice(m, wide, 3, 2, W);
    /* with ties and zeros */
    for (size_t i = 0; i < mmix_count(wide); i++)
        mmix_data(wide)[i] = (real)any(0, 9) / 8;
    const double mass[5] = {0, 0.25, 0.6, 0.99, 1};
    for (size_t t = 0; t < 5; t++) {
        const mmix_tensor *kept = mmix_mass_threshold(m, map, mass[t]);
        if (!CHECK(kept && mmix_ndim(kept) == 4 && mmix_shape(kept, 3) == W)) {
            FINE(m);
            break;
        }
        for (size_t k = 0; k < MAPS; k++) {
            double all = 0, in = 0, least = 10, most = 0;
            for (size_t i = 0; i < CELLS; i++) {
                const double x = (double)mmix_data(map)[(k * H + i / W) * (W + 3) + i % W];
                const double y = (double)mmix_data(kept)[k * CELLS + i];
                CHECK(y == 0 || y == 1);
                all += x;
                in += x * y;
                if (y > 0) least = fmin(least, x);
                else most = fmax(most, x);
            }
            CHECK(in >= mass[t] * all - 1e-9 && most <= least);
            if (least < 10)
                CHECK(least > 0 && in - least < mass[t] * all + 1e-9);
        }
    }
    BAD(mmix_mass_threshold(m, map, 1.5), "mass", "0 to 1");
    BAD(mmix_mass_threshold(m, mmix_new1(m, 3), 0.6), "map has shape", "");
    mmix_data(wide)[2] = (real)NAN;
    BAD(mmix_mass_threshold(m, map, 0.6), "map holds", "finite");
    BAD(mmix_mass_threshold(m, NULL, 0.6), "map is NULL", "");
    mmix_reset(m);
}

/* ---- k-NN ---- */

/* Each row against all others, which are a list without it: the same bits. */
static void test_leave_one_out(mmix_ctx *m)
{
    enum { N = 23, D = 9, K = 3 };
    real x[N * D], rest[N * D];
    int32_t label[N], left[N];
    static const size_t all[2] = {N, D}, fewer[2] = {N - 1, D}, one[2] = {1, D};
    doing("leave one out");
    for (size_t i = 0; i < N * D; i++)
        x[i] = (real)(uniform() - 0.5);
    for (size_t i = 0; i < N; i++)
        label[i] = (int32_t)(i % 7 % K);
    for (size_t k = 1; k < 40; k += k + 2) {
        mmix_knn_result r, alone;
        double right = 0;
        if (!CHECK(!mmix_knn(m, mmix_from(m, 2, all, x), mmix_from_i32(m, 1, all, label), NULL,
                             NULL, K, k, 0.3, &r)))
            break;
        for (size_t i = 0; i < N; i++) {
            memcpy(rest, x, i * D * sizeof *x);
            memcpy(rest + i * D, x + (i + 1) * D, (N - 1 - i) * D * sizeof *x);
            memcpy(left, label, i * sizeof *left);
            memcpy(left + i, label + i + 1, (N - 1 - i) * sizeof *left);
            IS(mmix_knn(m, mmix_from(m, 2, fewer, rest), mmix_from_i32(m, 1, fewer, left),
                        mmix_from(m, 2, one, x + i * D), NULL, K, k, 0.3, &alone),
               0);
            CHECK(!memcmp(alone.votes, r.votes + i * K, K * sizeof(double))
                  && *alone.pred == r.pred[i]);
            right += r.pred[i] == label[i];
        }
        NEAR(r.top1, right / N, 1e-15);
        mmix_reset(m);
    }
    mmix_knn_result r;
    BAD_INT(mmix_knn(m, mmix_from(m, 2, one, x), mmix_from_i32(m, 1, one, label), NULL, NULL, K, 1,
                     0, &r),
            "train's number of rows", "2");
    mmix_reset(m);
}

/* ---- sources ---- */

enum { MOST = 400 };
typedef struct Data {                            /* pictures in memory, and what was asked for */
    /* not NULL: rows are doubled by ops of this context */
    mmix_ctx *ops;
    size_t tokens, D, pixels, asked[MOST], calls, stop;
    int status;
    real *x;
    int32_t *label;
} Data;
static int read_data(void *user, const size_t *rows, size_t n, real *x, int32_t *label)
{
    Data *d = (Data *)user;
    const size_t size = d->tokens * d->D;
    if (++d->calls == d->stop) {
        if (d->ops) mmix_fail(d->ops, MMIX_ERROR_FILE, "the disk is gone");
        return d->status;
    }
    for (size_t i = 0; i < n; i++) {
        d->asked[rows[i]]++;
        memcpy(x + i * size, d->x + rows[i] * size, size * sizeof *x);
        memcpy(label + i * d->pixels, d->label + rows[i] * d->pixels, d->pixels * sizeof *label);
    }
    if (d->ops) {
        const size_t shape[2] = {n, size};
        mmix_tensor *t = mmix_affine(d->ops, mmix_from(d->ops, 2, shape, x), 2, 0);
        if (t)
            memcpy(x, mmix_data(t), n * size * sizeof *x);
    }
    return 0;
}
/* Pictures of classes that lie in corners of their own, with noise; every seventh pixel is void
   (9) where there are masks. */
static mmix_source make(Data *d, size_t count, size_t D, size_t gh, size_t gw, size_t h, size_t w,
                        size_t K, double noise)
{
    const mmix_source s = {count, D, gh, gw, h, w, read_data, d};
    memset(d, 0, sizeof *d);
    d->tokens = gh * gw;
    d->D = D;
    d->pixels = h * w;
    d->x = (real *)malloc(count * gh * gw * D * sizeof *d->x);
    d->label = (int32_t *)malloc(count * h * w * sizeof *d->label);
    for (size_t i = 0; i < count; i++) {
        int32_t *label = d->label + i * h * w;
        for (size_t p = 0; p < h * w; p++)
            label[p] = (int32_t)((i + p * 3 / (h * w)) % K);
        for (size_t t = 0; t < gh * gw; t++)
            for (size_t e = 0; e < D; e++) {
                const size_t pixel = (t / gw * h / gh) * w + t % gw * w / gw;
                d->x[(i * gh * gw + t) * D + e] = (real)((e == (size_t)label[pixel] % D)
                                                         + noise * (uniform() - 0.5));
            }
        for (size_t p = 0; h * w > 1 && p < h * w; p++)
            if (any(0, 6) == 0)
                label[p] = 9;
    }
    return s;
}
static void drop(Data *d) { free(d->x), free(d->label); }
static mmix_probe_config plain(size_t classes, size_t batch, size_t epochs)
{
    mmix_probe_config o = mmix_probe_config_default();
    o.classes = classes;
    o.batch = batch;
    o.epochs = epochs;
    o.void_label = 9;
    return o;
}

/* One step of one batch of all pictures: loss and gradient are those of the ops, and of central
   differences. */
static void test_gradient(mmix_ctx *m, size_t gh, size_t gw, size_t h, size_t w)
{
    enum { N = 5, D = 6, K = 4 };
    Data d;
    mmix_source s = make(&d, N, D, gh, gw, h, w, K, 2);
    mmix_probe_config o = plain(K, N, 1);
    mmix_probe_result r;
    const size_t all[3] = { N, gh * gw, D }, grid[4] = { N, gh, gw, K }, labels[3] = { N, h, w },
                 shape[2] = { K, D + 1 }, weight[2] = { K, D }, bias[1] = { K };
    static const int planes[4] = {0, 3, 1, 2}, pixels[4] = {0, 2, 3, 1};
    real start[K * (D + 1)], W[K * D], B[K];
    snprintf(about, sizeof about, "gradient %dx%d to %dx%d", (int)gh, (int)gw, (int)h, (int)w);
    for (size_t i = 0; i < K * (D + 1); i++) {
        start[i] = (real)(uniform() - 0.5);
        if (i % (D + 1) < D)
            W[i / (D + 1) * D + i % (D + 1)] = start[i];
        else B[i / (D + 1)] = start[i];
    }
    /* a rate of 1 */
    o.rate[0] = 256.0 / N;
    o.momentum = 0;
    o.start = mmix_from(m, 2, shape, start);
    if (!CHECK(!mmix_linear_probe(m, &o, &s, NULL, &r))) {
        FINE(m), drop(&d);
        return;
    }
    IS(r.steps, 1);

    mmix_record(m, 1);
    mmix_tensor *tw = mmix_require_grad(mmix_from(m, 2, weight, W));
    mmix_tensor *tb = mmix_require_grad(mmix_from(m, 1, bias, B));
    mmix_tensor *z = mmix_reshape(m, mmix_linear(m, mmix_from(m, 3, all, d.x), tw, tb), 4, grid);
    z = mmix_permute(m,
                     mmix_interpolate(m, mmix_permute(m, z, planes), MMIX_RESIZE_BILINEAR, h, w, 0,
                                      0),
                     pixels);
    mmix_tensor *loss = mmix_cross_entropy(m, z, mmix_from_i32(m, 3, labels, d.label), 9);
    NEAR(r.loss[0], mmix_item(loss), EXACT);
    mmix_backward(m, loss);
    mmix_record(m, 0);
    for (size_t k = 0; k < K; k++) {
        for (size_t e = 0; e < D; e++)
            NEAR((double)start[k * (D + 1) + e] - (double)mmix_data(r.head)[k * (D + 1) + e],
                 mmix_data(mmix_grad(tw))[k * D + e], EXACT);
        NEAR((double)start[k * (D + 1) + D] - (double)mmix_data(r.bias)[k],
             mmix_data(mmix_grad(tb))[k], EXACT);
    }
    IS(mmix_data(r.weight)[mmix_stride(r.weight, 0) + 2], mmix_data(r.head)[D + 3]);
    for (size_t i = 0; sizeof(real) == 8 && i < K * (D + 1); i++) {
        double at[2];
        mmix_probe_result side;
        for (int k = 0; k < 2; k++) {
            mmix_data(o.start)[i] = start[i] + (real)(k ? 1e-5 : -1e-5);
            at[k] = mmix_linear_probe(m, &o, &s, NULL, &side) ? 0 : side.loss[0];
        }
        mmix_data(o.start)[i] = start[i];
        NEAR((at[1] - at[0]) / 2e-5, (double)start[i] - (double)mmix_data(r.head)[i], 1e-8);
    }
    /* judged without a step: what the ops' logits are largest at */
    mmix_miou_count count[K];
    memset(count, 0, sizeof count);
    o.epochs = 0;
    mmix_tensor *said = mmix_from_i32(m, 3, labels, d.label);
    for (size_t p = 0; p < N * h * w; p++) {
        const real *u =
            mmix_data(z = mmix_permute(
                          m,
                          mmix_interpolate(
                              m,
                              mmix_permute(m,
                                           mmix_reshape(m,
                                                        mmix_linear(m, mmix_from(m, 3, all, d.x),
                                                                    mmix_from(m, 2, weight, W),
                                                                    mmix_from(m, 1, bias, B)),
                                                        4, grid),
                                           planes),
                              MMIX_RESIZE_BILINEAR, h, w, 0, 0),
                          pixels))
            + p * K;
        int32_t top = 0;
        for (int32_t k = 1; k < K; k++)
            if (u[k] > u[top])
                top = k;
        mmix_data_i32(said)[p] = top;
    }
    IS(mmix_miou_add(m, count, K, said, mmix_from_i32(m, 3, labels, d.label), 9), 0);
    IS(mmix_linear_probe(m, &o, &s, &s, &r), 0);
    CHECK(r.steps == 0 && !memcmp(r.count, count, sizeof count));
    NEAR(r.test.miou, mmix_miou(count, K, NULL).miou, 0);
    SAME(r.head, o.start);
    FINE(m);
    drop(&d);
    mmix_reset(m);
}

/* Several rates at once are each rate alone; all begin alike; the best one on held-out pictures
   is taken. */
static void test_rates(mmix_ctx *m)
{
    enum { N = 120, TESTS = 50, D = 8, K = 4, R = 3 };
    static const double rate[R] = {1e-7, 4, 1e-3};
    Data d, t;
    mmix_source s = make(&d, N, D, 1, 1, 1, 1, K, 0.6);
    mmix_source test = make(&t, TESTS, D, 1, 1, 1, 1, K, 0.6);
    mmix_probe_config o = plain(K, 32, 12);
    mmix_probe_result r, one;
    doing("rates");
    o.rates = R;
    o.held = 0;
    o.weight_decay = 1e-3;
    memcpy(o.rate, rate, sizeof rate);
    if (!CHECK(!mmix_linear_probe(m, &o, &s, &test, &r))) {
        FINE(m);
        return;
    }
    IS(r.steps, 12 * (N / 32));
    IS(r.best, 0);
    for (size_t i = 0; i < R; i++) {
        mmix_probe_config single = o;
        single.rates = 1;
        single.rate[0] = rate[i];
        IS(mmix_linear_probe(m, &single, &s, NULL, &one), 0);
        double worst = 0;
        for (size_t step = 0; step < r.steps; step++)
            worst = fmax(worst, fabs(one.loss[step] - r.loss[step * R + i]));
        NEAR(worst, 0, EXACT);
        IS(r.loss[i], r.loss[0]);
        IS(r.held[i], 0);
        IS(one.test.accuracy, 0);
        if (!i) ALIKE(one.head, r.head, EXACT);
    }
    NEAR(r.loss[0], log((double)K), 0.1);
    memset(d.asked, 0, sizeof d.asked);
    memset(t.asked, 0, sizeof t.asked);
    /* 30 pictures; 90 train in 2 batches of 32 an epoch */
    o.held = 0.25;
    IS(mmix_linear_probe(m, &o, &s, &test, &r), 0);
    IS(r.best, 1);
    IS(r.steps, 24);
    CHECK(r.held[1] > 0.95 && r.held[1] > r.held[0] && r.test.accuracy > 0.9
          && r.test.balanced > 0.9);
    size_t held = 0, sum = 0;
    for (size_t i = 0; i < N; i++) {
        held += d.asked[i] == 1;
        sum += d.asked[i];
    }
    IS(sum, 12 * 64 + 30);
    CHECK(held >= 30);
    for (size_t i = 0; i < TESTS; i++)
        IS(t.asked[i], 1);
    /* of few pictures one is held out, not the only one */
    for (size_t n = 1; n < 4; n++) {
        mmix_source few = s;
        few.count = n;
        memset(d.asked, 0, sizeof d.asked);
        IS(mmix_linear_probe(m, &o, &few, NULL, &r), 0);
        IS(r.steps, 12);
        for (size_t i = sum = 0; i < n; i++)
            sum += d.asked[i];
        IS(sum, n > 1 ? 12 * (n - 1) + 1 : 12);
    }
    /* one epoch asks for no picture twice, and another epoch for others */
    o.epochs = 1;
    o.rates = 1;
    memset(d.asked, 0, sizeof d.asked);
    IS(mmix_linear_probe(m, &o, &s, NULL, &r), 0);
    for (size_t i = sum = 0; i < N; i++) {
        CHECK(d.asked[i] <= 1);
        sum += d.asked[i];
    }
    IS(sum, 96);
    /* a rate that runs away loses; alone it is an error */
    o.epochs = 12;
    o.rates = 2;
    o.rate[0] = 1e30;
    o.rate[1] = 4;
    IS(mmix_linear_probe(m, &o, &s, &test, &r), 0);
    CHECK(r.best == 1 && r.held[0] == -1);
    o.rates = 1;
    if (sizeof(real) == 4)
        BAD_INT(mmix_linear_probe(m, &o, &s, &test, &r), "mmix_linear_probe: rate", "finite");
    mmix_error_clear(m);
    /* the seed draws starts and batches */
    mmix_seed_set(m, 7);
    o.rate[0] = 4;
    IS(mmix_linear_probe(m, &o, &s, NULL, &r), 0);
    mmix_seed_set(m, 8);
    IS(mmix_linear_probe(m, &o, &s, NULL, &one), 0);
    CHECK(apart(one.head, r.head) > 1e-6);
    mmix_seed_set(m, 0);
    drop(&d);
    drop(&t);
    mmix_reset(m);
}

/* A segmentation head learns masks from a coarser grid, mIoU chooses, and pictures of another
   size are judged. */
static void test_masks(mmix_ctx *m)
{
    enum { D = 5, K = 3 };
    Data d, t;
    mmix_source s = make(&d, 30, D, 4, 6, 8, 12, K, 0.3);
    mmix_source test = make(&t, 9, D, 3, 3, 6, 9, K, 0.3);
    mmix_probe_config o = plain(K, 8, 15);
    mmix_probe_result r;
    double iou[K];
    doing("masks");
    o.rates = 2;
    o.rate[0] = 1e-6;
    o.rate[1] = 30;
    if (CHECK(!mmix_linear_probe(m, &o, &s, &test, &r))) {
        CHECK(r.best == 1 && r.held[1] > 0.5 && r.held[1] > r.held[0] && r.test.miou > 0.5);
        IS(mmix_miou(r.count, K, iou).miou, r.test.miou);
        double pixels = 0;
        for (size_t k = 0; k < K; k++)
            pixels += (double)r.count[k].label;
        for (size_t i = 0; i < 9 * 54; i++)
            pixels -= t.label[i] != 9;
        IS(pixels, 0);
    }
    /* nothing to learn from: no loss, no gradient */
    for (size_t i = 0; i < 30 * 96; i++)
        d.label[i] = 9;
    o.rates = 1;
    o.epochs = 1;
    IS(mmix_linear_probe(m, &o, &s, NULL, &r), 0);
    IS(r.loss[0], 0);
    FINE(m);
    drop(&d);
    drop(&t);
    mmix_reset(m);
}

static void test_sources(mmix_ctx *m)
{
    enum { N = 24, D = 5, K = 3 };
    Data d, t;
    mmix_source s = make(&d, N, D, 2, 2, 3, 3, K, 1);
    mmix_source test = make(&t, N, D, 2, 2, 3, 3, K, 1);
    mmix_probe_config o = plain(K, 8, 2);
    mmix_probe_result r, twice;
    doing("sources");
    /* ops in the source: as if the features had been doubled before */
    d.ops = m;
    IS(mmix_linear_probe(m, &o, &s, NULL, &r), 0);
    d.ops = NULL;
    for (size_t i = 0; i < N * 4 * D; i++)
        d.x[i] *= 2;
    IS(mmix_linear_probe(m, &o, &s, NULL, &twice), 0);
    SAME(r.head, twice.head);
    for (size_t stop = 1; stop < 10; stop++) {   /* 6 batches of training, 3 of the test */
        d.calls = t.calls = 0, d.stop = stop, t.stop = stop > 6 ? stop - 6 : 0,
        d.status = t.status = 1;
        REFUSED_AS(MMIX_ERROR_INTERRUPTED, m, mmix_linear_probe(m, &o, &s, &test, &r),
                   "mmix_linear_probe", "stopped by its source at row");
        CHECK(r.head == NULL && r.loss == NULL);
    }
    /* its own message stands, whatever it returns */
    for (int status = 0; status < 2; status++) {
        d.calls = 0;
        d.stop = 2;
        d.ops = m;
        d.status = status;
        REFUSED_AS(MMIX_ERROR_FILE, m, mmix_linear_probe(m, &o, &s, NULL, &r), "the disk is gone",
                   "");
    }
    d.ops = NULL;
    d.stop = t.stop = 0;
    d.label[13] = 3;
    BAD_INT(mmix_linear_probe(m, &o, &s, NULL, &r), "a label is 3", "0 to 2");
    d.label[13] = -1;
    BAD_INT(mmix_linear_probe(m, &o, &s, NULL, &r), "a label is -1", "0 to 2");
    d.label[13] = 0;
    d.x[77] = (real)NAN;
    BAD_INT(mmix_linear_probe(m, &o, &s, NULL, &r), "of a batch holds", "finite");
    d.x[77] = 0;
#define WRONG(change, text)                                                          \
    do {                                                                             \
        mmix_probe_config keep = o;                                                  \
        mmix_source held = s, other = test;                                          \
        change;                                                                      \
        BAD_INT(mmix_linear_probe(m, &o, &s, &test, &r), text, "mmix_linear_probe"); \
        o = keep, s = held, test = other;                                            \
    } while (0)
    WRONG(o.classes = 0, "classes is 0");
    WRONG(o.batch = 0, "batch is 0");
    WRONG(o.rates = 0, "rates is 0");
    WRONG(o.rates = 17, "rates is 17");
    WRONG(o.rate[0] = NAN, "rate is nan");
    WRONG(o.momentum = -1, "momentum is -1");
    WRONG(o.weight_decay = -1, "weight_decay is -1");
    WRONG(o.held = 1, "held is 1");
    WRONG(s.count = 0, "count is 0");
    WRONG(s.dim = 0, "dim is 0");
    WRONG(s.gh = 0, "gh is 0");
    WRONG(test.w = 0, "w is 0");
    WRONG(s.read = NULL, "read is NULL");
    WRONG(test.read = NULL, "read is NULL");
    WRONG(test.dim = D + 1, "dim is 6");
    BAD_INT(mmix_linear_probe(m, NULL, &s, NULL, &r), "config is NULL", "");
    BAD_INT(mmix_linear_probe(m, &o, NULL, NULL, &r), "train is NULL", "");
    WRONG(o.start = mmix_new2(m, K, D), "start has shape (3, 5), expected (3, 6)");
    IS(mmix_linear_probe(m, &o, &s, &test, &r), 0);
    mmix_fail(m, MMIX_ERROR_ARGUMENT, "the first");
    CHECK(mmix_linear_probe(m, &o, &s, &test, &r) == -1 && !strcmp(mmix_error(m), "the first"));
    mmix_error_clear(m);
    drop(&d);
    drop(&t);
    mmix_reset(m);
}

/* Equal bits for any number of threads, of a probe and of masks. */
static void test_threads(void)
{
    static const int lanes[4] = {1, 2, 3, 5};
    Data d, e;
    mmix_source s = make(&d, 200, 40, 1, 1, 1, 1, 10, 1);
    mmix_source masks = make(&e, 20, 16, 5, 3, 10, 9, 4, 1);
    uint64_t first = 0;
    doing("threads");
    for (int i = 0; i < 4; i++) {
        mmix_ctx *m = context(lanes[i], 3);
        mmix_probe_config o = plain(10, 64, 3);
        mmix_probe_result r;
        uint64_t h = 1;
        o.rates = 3;
        o.rate[1] = 0.1;
        o.rate[2] = 2;
        IS(mmix_linear_probe(m, &o, &s, &s, &r), 0);
        h = hash_of(mmix_data(r.head), mmix_count(r.head), h ^ r.count[0].both);
        for (size_t k = 0; k < r.steps * 3; k++)
            h = h * 31 + (uint64_t)(r.loss[k] * 1e15);
        o.classes = 4;
        o.batch = 6;
        IS(mmix_linear_probe(m, &o, &masks, &masks, &r), 0);
        h = hash_of(mmix_data(r.head), mmix_count(r.head), h ^ r.count[1].pred);
        if (!i) first = h;
        CHECK(h == first);
        FINE(m);
        mmix_destroy(m);
    }
    drop(&d);
    drop(&e);
}

/* A probe of the pictures that `user` is a source of. */
static int probed(const mmix_options *options, void *user)
{
    mmix_ctx *m = mmix_create(options);
    const mmix_source *s = (const mmix_source *)user;
    mmix_probe_config o = plain(3, 6, 2);
    mmix_probe_result r;
    if (!m) return MMIX_ERROR_MEMORY;
    o.rates = 2;
    o.rate[1] = 0.1;
    const int bad = mmix_linear_probe(m, &o, s, s, &r), kind = mmix_error_kind(m);
    CHECK(bad ? kind && r.head == NULL : !kind);
    mmix_destroy(m);
    return kind;
}
/* What is held does not grow with the number of pictures but for 8 bytes of each; every
   allocation fails once. */
static void test_memory(void)
{
    Data d;
    mmix_source s = make(&d, 400, 32, 2, 2, 4, 4, 3, 1);
    mmix_source few = s;
    size_t peak[2];
    doing("memory");
    for (int i = 0; i < 2; i++) {
        mmix_ctx *m = context(1, 0);
        mmix_probe_config o = plain(3, 16, 1);
        mmix_probe_result r;
        mmix_reset(m);
        few.count = i ? 400 : 40;
        IS(mmix_linear_probe(m, &o, &few, &few, &r), 0);
        peak[i] = mmix_memory(m).peak;
        mmix_destroy(m);
    }
    CHECK(peak[1] <= peak[0] + 360 * 8 + 2 * ARENA_BLOCK);
    s.count = 20;
    CHECK(memory_fails(probed, &s, 0, 1) < 400);
    drop(&d);
}

/* ---- a million pixels ---- */

/* Features of 1, all labels 0. */
static int same_pixels(void *user, const size_t *rows, size_t n, mmix_real *x, int32_t *label)
{
    const mmix_source *s = (const mmix_source *)user;
    (void)rows;
    for (size_t i = 0; i < n * s->gh * s->gw * s->dim; i++)
        x[i] = 1;
    for (size_t i = 0; i < n * s->h * s->w; i++)
        label[i] = 0;
    return 0;
}
/* A step of rate 1 from zeros on labels that are all 0, of K = 2 classes: each pixel's gradient is
   -1/2 and 1/2 by feature, and so is their mean, whatever their number. */
static void test_many(mmix_ctx *m, size_t pictures, size_t grid, size_t h, size_t w)
{
    enum { K = 2, D = 2 };
    /* pixels are added in double, pictures in a product */
    double bound;
    if (sizeof(real) == 8) bound = 1e-11;
    else if (pictures > 100) bound = 20 * EPS;
    else bound = 2 * EPS;
    mmix_source s;
    mmix_probe_config o = mmix_probe_config_default();
    mmix_probe_result r;
    snprintf(about, sizeof about, "%d pictures of %d x %d pixels on %d", (int)pictures, (int)h,
             (int)w, (int)grid);
    memset(&s, 0, sizeof s);
    s.count = pictures;
    s.dim = D;
    s.gh = grid;
    s.gw = grid;
    s.h = h;
    s.w = w;
    s.read = same_pixels;
    s.user = &s;
    o.classes = K;
    o.batch = pictures;
    o.epochs = 1;
    o.momentum = 0;
    o.rate[0] = 256.0 / (double)pictures;
    o.start = mmix_fill(mmix_new2(m, K, D + 1), 0);
    if (!CHECK(!mmix_linear_probe(m, &o, &s, NULL, &r))) {
        FINE(m);
        return;
    }
    NEAR(r.loss[0], log(2), 1e-10);
    for (size_t i = 0; i < D + 1; i++) {
        NEAR(mmix_data(r.head)[i], 0.5, bound);
        NEAR(mmix_data(r.head)[D + 1 + i], -0.5, bound);
    }
    mmix_reset(m);
}

int main(void)
{
    mmix_ctx *m = mmix_create(NULL);
    if (!CHECK(m != NULL)) return summary();
    test_sgd(m);
    test_miou(m);
    test_mass(m);
    test_leave_one_out(m);
    test_gradient(m, 1, 1, 1, 1);
    test_gradient(m, 2, 3, 5, 4);
    test_gradient(m, 4, 3, 2, 7);
    test_gradient(m, 1, 2, 3, 1);
    test_rates(m);
    test_masks(m);
    test_sources(m);
    test_many(m, 1, 1, 1000, 1000);
    test_many(m, 1, 1, 1, 65536);
    test_many(m, 1, 1, 65536, 1);
    test_many(m, 2, 3, 500, 1000);
    /* tiny tiles: tiny parts of a sum */
    test_many(m, ARENA_BLOCK == 256 ? 300 : 20000, 1, 1, 1);
    test_threads();
    test_memory();
    doing("the end");
    FINE(m);
    mmix_destroy(m);
    return summary();
}
