/* tiny.c - the programs of docs/tiny, which do without the library, held against it: each of
   their functions on random numbers of random sizes. */

/* All ten are in this unit. Where two of them have a name in common, or one has a name of
   test.h, PART makes two names of it. */
#define TINY_JOIN2(a, b) a##b
#define TINY_JOIN(a, b) TINY_JOIN2(a, b)
#define OF_PART(x) TINY_JOIN(x, PART)
#define main OF_PART(main)
#define dot OF_PART(dot)
#define weight OF_PART(weight)
#define read_tokens OF_PART(read_tokens)
#define print_row OF_PART(print_row)
#define features OF_PART(features)
#define scan_step OF_PART(scan_step)
#define check OF_PART(check)
#define cosine OF_PART(cosine)
#define softmax OF_PART(softmax)
#define report OF_PART(report)
#define seed OF_PART(seed)
#define GRID OF_PART(GRID)
#define PATCH OF_PART(PATCH)
#define SIDE OF_PART(SIDE)
#define TOKENS OF_PART(TOKENS)
#define WIDTH OF_PART(WIDTH)
#define MARKED OF_PART(MARKED)
#define CHANNELS OF_PART(CHANNELS)
#define LONGEST OF_PART(LONGEST)
#define PATCHES OF_PART(PATCHES)
#define FEATURES OF_PART(FEATURES)
#define ROWS OF_PART(ROWS)
#define name OF_PART(name)

#define PART _01
#include "../docs/tiny/01_softmax_attention.c"
#undef PART
#define PART _02
#include "../docs/tiny/02_linear_attention.c"
#undef PART
#define PART _03
#include "../docs/tiny/03_scan.c"
#undef PART
#define PART _04
#include "../docs/tiny/04_chunks.c"
#undef PART
#define PART _05
#include "../docs/tiny/05_scan_backward.c"
#undef PART
#define PART _06
#include "../docs/tiny/06_product.c"
#undef PART
#define PART _07
#include "../docs/tiny/07_vit.c"
#undef PART
#define PART _08
#include "../docs/tiny/08_dino.c"
#undef PART
#define PART _09
#include "../docs/tiny/09_knn.c"
#undef PART
#define PART _10
#include "../docs/tiny/10_decoder.c"
#undef PART

#undef main
#undef dot
#undef weight
#undef read_tokens
#undef print_row
#undef features
#undef scan_step
#undef check
#undef cosine
#undef softmax
#undef report
#undef seed
#undef GRID
#undef PATCH
#undef SIDE
#undef TOKENS
#undef WIDTH
#undef MARKED
#undef CHANNELS
#undef LONGEST
#undef PATCHES
#undef FEATURES
#undef ROWS
#undef name
#include "test.h"

enum { TRIES = 6 };
static const double BOUND = 1e-5;                /* of the largest number */

/* ---- arrays and tensors ---- */

static void *room_of(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p) exit(1);
    return p;
}
static float *floats(size_t n) { return (float *)room_of(n, sizeof(float)); }
static double *doubles(size_t n) { return (double *)room_of(n, sizeof(double)); }

/* A copy of a tensor's numbers, in row-major order. */
static double *doubles_of(mmix_tensor *t)
{
    size_t n = mmix_count(t);
    double *copy = doubles(n);
    real *values = (real *)room_of(n, sizeof(real));
    mmix_read(t, values);
    for (size_t i = 0; i < n; i++) copy[i] = (double)values[i];
    free(values);
    return copy;
}
static float *floats_of(mmix_tensor *t)
{
    size_t n = mmix_count(t);
    double *values = doubles_of(t);
    float *copy = floats(n);
    for (size_t i = 0; i < n; i++) copy[i] = (float)values[i];
    free(values);
    return copy;
}
static double *widened(const float *x, size_t n)
{
    double *copy = doubles(n);
    for (size_t i = 0; i < n; i++) copy[i] = (double)x[i];
    return copy;
}

/* The two agree, as measured by the largest number that is expected. */
static void agree(const double *got, mmix_tensor *expected, const char *what, int line_number)
{
    double worst = 0, top = 1e-30;
    size_t n = mmix_count(expected);
    double *right = doubles_of(expected);
    for (size_t i = 0; i < n; i++) {
        double d = fabs(got[i] - right[i]);
        if (!(d <= worst)) worst = d - d == 0 ? d : 1e9;
        top = fmax(top, fabs(right[i]));
    }
    free(right);
    if (!expected) worst = 1e9;
    near_to(worst / top, 0, BOUND, __FILE__, line_number, what);
}
static void agree_floats(const float *got, mmix_tensor *expected, const char *what,
                         int line_number)
{
    double *wide = widened(got, mmix_count(expected));
    agree(wide, expected, what, line_number);
    free(wide);
}
#define AGREE(got, expected) agree(got, expected, #got, __LINE__)
#define AGREE_FLOATS(got, expected) agree_floats(got, expected, #got, __LINE__)

/* Rows of a projection are sharp where numbers are large: q and k are in -3 ... 3. */
typedef struct mixed {
    mmix_ctx *m;
    size_t L, N, P;
    mmix_tensor *q, *k, *v, *dt, *A;
    float *fq, *fk, *fv, *fdt, *y, *M;
} mixed;
static mixed begin(void)
{
    mixed a;
    a.m = context(1, 1);
    a.L = any(1, 40);
    a.N = any(1, 9);
    a.P = any(1, 7);
    a.q = random4(a.m, 1, a.L, 1, a.N, -3, 3);
    a.k = random4(a.m, 1, a.L, 1, a.N, -3, 3);
    a.v = random4(a.m, 1, a.L, 1, a.P, -2, 2);
    a.dt = random3(a.m, 1, a.L, 1, 0.01, 0.9);
    a.A = random1(a.m, 1, -1.5, -0.1);
    a.fq = floats_of(a.q);
    a.fk = floats_of(a.k);
    a.fv = floats_of(a.v);
    a.fdt = floats_of(a.dt);
    a.y = floats(a.L * a.P);
    a.M = floats(a.L * a.L);
    snprintf(about, sizeof about, "L %zu, N %zu, P %zu", a.L, a.N, a.P);
    return a;
}
static void finish(mixed *a)
{
    FINE(a->m);
    free(a->fq);
    free(a->fk);
    free(a->fv);
    free(a->fdt);
    free(a->y);
    free(a->M);
    mmix_destroy(a->m);
}

/* ---- 01 to 06 ---- */

static void t_softmax_attention(void)
{
    for (int i = 0; i < TRIES; i++) {
        mixed a = begin();
        mmix_mixer x = mmix_mixer_softmax(a.q, a.k, a.v);
        softmax_attention(a.y, a.M, a.fq, a.fk, a.fv, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &x));
        AGREE_FLOATS(a.M, mmix_mix_matrix(a.m, &x));
        finish(&a);
    }
}

static void t_linear_attention(void)
{
    for (int i = 0; i < TRIES; i++) {
        mixed a = begin();
        float *f = floats(a.L * a.N), *g = floats(a.L * a.N), *S = floats(a.N * a.P);
        mmix_mixer x = mmix_mixer_linear(a.q, a.k, a.v);
        features_02(f, a.fq, a.L, a.N);
        features_02(g, a.fk, a.L, a.N);
        AGREE_FLOATS(f, mmix_softmax(a.m, a.q, -1));
        linear_by_matrix(a.y, a.M, f, g, a.fv, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &x));
        AGREE_FLOATS(a.M, mmix_mix_matrix(a.m, &x));
        linear_by_sums(a.y, S, f, g, a.fv, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &x));
        x.mask = MMIX_MASK_CAUSAL;
        memset(S, 0, a.N * a.P * sizeof *S);
        linear_causal(a.y, S, f, g, a.fv, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &x));
        free(f);
        free(g);
        free(S);
        finish(&a);
    }
}

static void t_scan(void)
{
    for (int i = 0; i < TRIES; i++) {
        mixed a = begin();
        mmix_tensor *before = random4(a.m, 1, 1, a.P, a.N, -1, 1), *last = NULL;
        float *h = floats_of(before), A = (float)mmix_data(a.A)[0];
        mmix_mixer x = mmix_mixer_ssd(a.v, a.dt, a.A, a.k, a.q);
        x.initial_state = before;
        x.final_state = &last;
        mmix_tensor *y = mmix_mix(a.m, &x);
        scan(a.y, h, a.fv, a.fdt, A, a.fk, a.fq, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, y);
        AGREE_FLOATS(h, last);
        scan_matrix(a.M, a.fdt, A, a.fk, a.fq, a.L, a.N);
        x.initial_state = NULL;
        AGREE_FLOATS(a.M, mmix_mix_matrix(a.m, &x));
        free(h);
        finish(&a);
    }
}

/* From chunks of one token to one that is longer than all; and where decays are so strong that
   their products are nothing. */
static void t_chunks(void)
{
    for (int i = 0; i < 2 * TRIES; i++) {
        mixed a = begin();
        const size_t lengths[5] = {1, 3, 8, a.L, a.L + 5};
        mmix_tensor *before = random4(a.m, 1, 1, a.P, a.N, -1, 1), *last = NULL;
        if (i >= TRIES) mmix_data(a.A)[0] *= 60;
        float *F = floats(a.L + 5), *h = floats_of(before), A = (float)mmix_data(a.A)[0];
        mmix_mixer x = mmix_mixer_ssd(a.v, a.dt, a.A, a.k, a.q);
        x.initial_state = before;
        x.final_state = &last;
        mmix_tensor *y = mmix_mix(a.m, &x);
        plain_scan(a.y, h, a.fv, a.fdt, A, a.fk, a.fq, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, y);
        AGREE_FLOATS(h, last);
        for (int q = 0; q < 5; q++) {
            float *carried = floats_of(before);
            chunked_scan(a.y, carried, F, a.fv, a.fdt, A, a.fk, a.fq, a.L, a.N, a.P, lengths[q]);
            AGREE_FLOATS(a.y, y);
            AGREE_FLOATS(carried, last);
            free(carried);
        }
        free(F);
        free(h);
        finish(&a);
    }
}

static void t_scan_backward(void)
{
    for (int i = 0; i < TRIES; i++) {
        mixed a = begin();
        size_t L = a.L, N = a.N, P = a.P;
        mmix_tensor *before = random4(a.m, 1, 1, P, N, -1, 1);
        mmix_tensor *w = random4(a.m, 1, L, 1, P, -1, 1);
        mmix_tensor *leaf[6] = {a.v, a.dt, a.A, a.k, a.q, before};
        double *in[6], *d[6], *y = doubles(L * P), *h = doubles((L + 1) * P * N);
        double *dy = doubles_of(w);
        for (int k = 0; k < 6; k++) {
            in[k] = doubles_of(leaf[k]);
            d[k] = doubles(mmix_count(leaf[k]));
            mmix_require_grad(leaf[k]);
        }
        scan_numbers v = {in[0], in[1], in[2], in[3], in[4]};
        scan_numbers dv = {d[0], d[1], d[2], d[3], d[4]};
        memcpy(h, in[5], P * N * sizeof *h);
        scan_forward(y, h, v, L, N, P);
        scan_backward(dv, d[5], dy, h, v, L, N, P);
        mmix_record(a.m, 1);
        mmix_mixer x = mmix_mixer_ssd(a.v, a.dt, a.A, a.k, a.q);
        x.initial_state = before;
        mmix_tensor *right = mmix_mix(a.m, &x);
        AGREE(y, right);
        CHECK(!mmix_backward(a.m, mmix_sum(a.m, mmix_mul(a.m, right, w))));
        for (int k = 0; k < 6; k++) {
            AGREE(d[k], mmix_grad(leaf[k]));
            free(in[k]);
            free(d[k]);
        }
        free(y);
        free(h);
        free(dy);
        finish(&a);
    }
}

static void t_product(void)
{
    product *const rung[4] = {product_loops, product_rows, product_tile, product_packed};
    for (int i = 0; i < 3 * TRIES; i++) {
        mmix_ctx *m = context(1, 1);
        size_t n = any(1, 13), k = any(1, 40), columns = any(1, 50);
        mmix_tensor *ta = shaped(m, random4(m, 1, 1, n, k, -1, 1), 2, n, k, 0);
        mmix_tensor *tb = shaped(m, random4(m, 1, 1, k, columns, -1, 1), 2, k, columns, 0);
        mmix_tensor *right = mmix_matmul(m, ta, tb);
        float *a = floats_of(ta), *b = floats_of(tb), *c = floats(n * columns);
        snprintf(about, sizeof about, "%zu x %zu x %zu", n, k, columns);
        for (int r = 0; r < 4; r++) {
            memset(c, 0, n * columns * sizeof *c);
            rung[r](c, a, b, n, k, columns);
            AGREE_FLOATS(c, right);
        }
        free(a);
        free(b);
        free(c);
        FINE(m);
        mmix_destroy(m);
    }
}

/* ---- 07: a network of the library's own, written to a file and read by its names ---- */

static void t_vit(void)
{
    static const size_t wide[3] = {24, 64, 128};
    static const char *const files[2] = {"docs/tiny/vit.safetensors",
                                         "tests/golden/checkpoint/tiny_vit.pth"};
    const char *path = "build/tiny-vit.safetensors";
    if (sizeof(real) != sizeof(float)) {
        skipped++;
        puts("skipped: 07 (this build writes no F32)");
        return;
    }
    for (int i = 0; i < 5; i++) {
        mmix_ctx *m = context(1, 7);
        mmix_vision_config c = mmix_vision_config_vit(192, 4);
        c.patch = any(2, 5);
        c.grid = any(1, 4);
        c.depth = any(1, 3);
        c.mlp_ratio = 2;
        if (i < 3) {
            c.dim = wide[i];
            c.heads = wide[i] < 64 ? 1 : wide[i] / 64;
        }
        mmix_vision *v = NULL;
        if (i < 3) v = mmix_vision_create(m, c);
        else v = mmix_vision_load(m, files[i - 3]);
        CHECK(v != NULL);
        if (!v) continue;
        c = *mmix_vision_config_of(v);
        mmix_params *p = mmix_vision_params(v);
        for (size_t k = 0; i < 3 && k < p->count; k++)       /* no zeros and ones */
            for (size_t n = 0; n < mmix_count(p->at[k].tensor); n++)
                mmix_data(p->at[k].tensor)[n] += (real)(0.2 * uniform() - 0.1);
        CHECK(!mmix_vision_save(m, v, path));
        size_t side = c.grid * c.patch, L = c.grid * c.grid + 1;
        mmix_tensor *image = random4(m, 1, 3, side, side, -2, 2);
        float *pixels = floats_of(image), *f = floats(L * c.dim);
        weights w = weights_open(path);
        snprintf(about, sizeof about, "a ViT of width %zu", c.dim);
        vit_forward(f, pixels, &w, c.heads);
        AGREE_FLOATS(f, mmix_vision_forward(m, v, image, NULL).tokens);
        free(w.header);
        free(w.numbers);
        free(pixels);
        free(f);
        FINE(m);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
}

/* ---- 08 ---- */

static void t_dino_loss(void)
{
    for (int i = 0; i < TRIES; i++) {
        mmix_ctx *m = context(1, 1);
        size_t B = any(1, 5), crops = any(2, 5), K = any(2, 9);
        mmix_tensor *ts = shaped(m, random4(m, 1, 1, crops * B, K, -1, 1), 2, crops * B, K, 0);
        mmix_tensor *tt = shaped(m, random4(m, 1, 1, 2 * B, K, -1, 1), 2, 2 * B, K, 0);
        mmix_tensor *center = random1(m, K, -0.5, 0.5);
        double *s = doubles_of(ts), *t = doubles_of(tt), *c = doubles_of(center);
        double *ds = doubles(crops * B * K), *room = doubles(2 * K);
        snprintf(about, sizeof about, "%zu pictures, %zu crops, %zu prototypes", B, crops, K);
        double loss = dino_loss(ds, s, t, c, B, crops, K, 0.1, 0.05, room, room + K);
        center_update(c, t, 2 * B, K, 0.9);
        mmix_require_grad(ts);
        mmix_record(m, 1);
        mmix_tensor *right = mmix_dino_loss(m, ts, tt, mmix_data(center), crops, 0.1, 0.05, 0.9,
                                            NULL);
        CHECK(!mmix_backward(m, right));
        NEAR(loss, mmix_item(right), BOUND * loss);
        AGREE(ds, mmix_grad(ts));
        AGREE(c, center);
        free(s);
        free(t);
        free(c);
        free(ds);
        free(room);
        FINE(m);
        mmix_destroy(m);
    }
}

static void t_follow(void)
{
    mmix_ctx *m = context(1, 1);
    const size_t shape[1] = {17};
    mmix_params *p[2];
    mmix_tensor *w[2];
    double *copy[2];
    for (int i = 0; i < 2; i++) {
        p[i] = mmix_params_create(m);
        w[i] = mmix_params_add(p[i], "", "w", 1, shape, MMIX_INIT_CONSTANT, 0, 0);
        CHECK(!mmix_params_allocate(p[i]));
        for (size_t k = 0; k < 17; k++) mmix_data(w[i])[k] = (real)(2 * uniform() - 1);
        copy[i] = doubles_of(w[i]);
    }
    follow(copy[0], copy[1], 17, 0.97);
    CHECK(!mmix_ema(p[0], p[1], 0.97));
    AGREE(copy[0], w[0]);
    for (int i = 0; i < 2; i++) {
        mmix_params_destroy(p[i]);
        free(copy[i]);
    }
    FINE(m);
    mmix_destroy(m);
}

/* ---- 09: each row leaves itself out ---- */

static void t_knn(void)
{
    for (int i = 0; i < TRIES; i++) {
        mmix_ctx *m = context(1, 1);
        size_t n = any(5, 40), D = any(2, 9), K = NAMES, k = any(1, 9);
        mmix_tensor *x = shaped(m, random4(m, 1, 1, n, D, -1, 1), 2, n, D, 0);
        mmix_tensor *label = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
        mmix_knn_result right;
        neighbour best[64];
        int32_t said[40];
        double balanced, votes[NAMES];
        for (size_t r = 0; r < n; r++) mmix_data_i32(label)[r] = (int32_t)(r % K);
        float *f = floats_of(x);
        CHECK(!mmix_knn(m, x, label, NULL, NULL, K, k, 0.07, &right));
        double share = knn(said, &balanced, f, mmix_data_i32(label), n, D, K, k, 0.07);
        snprintf(about, sizeof about, "%zu rows of %zu, %zu neighbours", n, D, k);
        NEAR(share, right.top1, 1e-12);
        NEAR(balanced, right.balanced, 1e-12);
        for (size_t r = 0; r < n; r++) {
            IS(said[r], right.pred[r]);
            knn_vote(votes, best, f, mmix_data_i32(label), r, n, D, K, k, 0.07);
            for (size_t c = 0; c < K; c++)
                NEAR(votes[c], right.votes[r * K + c], BOUND * exp(1 / 0.07));
        }
        free(f);
        FINE(m);
        mmix_destroy(m);
    }
}

/* ---- 10 ---- */

static void t_decoder(void)
{
    for (int i = 0; i < TRIES; i++) {
        mixed a = begin();
        size_t L = a.L, N = a.N, P = a.P;
        float *h = floats(P * N), *normed = floats(P);
        mmix_mixer attends = mmix_mixer_softmax(a.q, a.k, a.v);
        attends.mask = MMIX_MASK_CAUSAL;
        attends.scale = 0.3;
        for (size_t t = 0; t < L; t++)
            attention_step(a.y + t * P, a.fq + t * N, a.fk, a.fv, t + 1, 0.3f, N, P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &attends));
        mmix_mixer reads = mmix_mixer_ssd(a.v, mmix_fill(a.dt, 1), a.A, a.k, a.q);
        for (size_t t = 0; t < L; t++)
            scan_step_10(a.y + t * P, h, a.fv + t * P, (float)mmix_data(a.A)[0], a.fk + t * N,
                         a.fq + t * N, N, P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &reads));
        mmix_tensor *row = random1(a.m, P, -2, 2);
        float *x = floats_of(row);
        rms_norm(normed, x, P);
        AGREE_FLOATS(normed, mmix_rms_norm(a.m, row, NULL, 1e-6));
        free(h);
        free(x);
        free(normed);
        finish(&a);
    }
}

/* The library draws with a number of its own, which is that of purpose 0x8005. */
static void t_sample(void)
{
    mmix_ctx *m = context(1, 1);
    mmix_sampling how;
    memset(&how, 0, sizeof how);
    for (int i = 0; i < 200; i++) {
        size_t K = any(1, 30);
        mmix_tensor *logits = random1(m, K, -3, 3);
        float *x = floats_of(logits);
        how.stream = any(0, 3);
        how.temperature = i % 4 == 0 ? 0 : 0.3 + uniform();
        double u = mmix_random_uniform(m, 0x8005, how.stream, (uint64_t)i);
        int32_t right = mmix_sample_token(m, mmix_data(logits), K, &how, (uint64_t)i);
        IS(sample(x, K, how.temperature, u), right);
        free(x);
    }
    FINE(m);
    mmix_destroy(m);
}

int main(int argc, char **argv)
{
    static const section all[] = {
        {"01", t_softmax_attention}, {"02", t_linear_attention}, {"03", t_scan},
        {"04", t_chunks}, {"05", t_scan_backward}, {"06", t_product}, {"07", t_vit},
        {"08", t_dino_loss}, {"08", t_follow}, {"09", t_knn}, {"10", t_decoder},
        {"10", t_sample}};
    return sections(all, sizeof all / sizeof *all, argc, argv);
}
