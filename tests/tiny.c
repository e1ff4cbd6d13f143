/* tiny.c - the programs of docs/tiny, which do without the library, held against it: each of
   their functions on random numbers of random sizes. */

/* All ten are in this unit. Where two of them have a name in common, or one has a name of
   test.h, PART makes two names of it. */
#define TINY_JOIN2(a, b) a##b
#define TINY_JOIN(a, b) TINY_JOIN2(a, b)
#define OF_PART(x) TINY_JOIN(x, PART)
#define main OF_PART(main)
#define dot OF_PART(dot)
#define read_patches OF_PART(read_patches)
#define features OF_PART(features)
#define check OF_PART(check)
#define softmax OF_PART(softmax)
#define add OF_PART(add)
#define block OF_PART(block)
#define numbers OF_PART(numbers)
#define header OF_PART(header)
#define count OF_PART(count)
#define find OF_PART(find)
#define linear OF_PART(linear)
#define norm OF_PART(norm)
#define D OF_PART(D)
#define F OF_PART(F)
#define P OF_PART(P)
#define K OF_PART(K)
#define N OF_PART(N)
#define A OF_PART(A)
#define rate OF_PART(rate)
#define delta OF_PART(delta)
#define table OF_PART(table)
#define letter OF_PART(letter)
#define truth OF_PART(truth)
#define rgb OF_PART(rgb)
#define GRID OF_PART(GRID)
#define PATCH OF_PART(PATCH)
#define SIDE OF_PART(SIDE)
#define TOKENS OF_PART(TOKENS)
#define WIDTH OF_PART(WIDTH)
#define MARKED OF_PART(MARKED)
#define STOP OF_PART(STOP)
#define CHANNELS OF_PART(CHANNELS)
#define LONGEST OF_PART(LONGEST)
#define PATCHES OF_PART(PATCHES)
#define ROWS OF_PART(ROWS)
#define STEPS OF_PART(STEPS)
#define SEEN OF_PART(SEEN)
#define PIECE OF_PART(PIECE)
#define NAMES OF_PART(NAMES)
#define PIXELS OF_PART(PIXELS)
#define COLOURS OF_PART(COLOURS)
#define COLUMNS OF_PART(COLUMNS)
#define WIDEST OF_PART(WIDEST)
#define positions OF_PART(positions)

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
#undef read_patches
#undef features
#undef check
#undef softmax
#undef add
#undef block
#undef numbers
#undef header
#undef count
#undef find
#undef linear
#undef norm
#undef D
#undef F
#undef P
#undef K
#undef N
#undef A
#undef rate
#undef delta
#undef table
#undef letter
#undef truth
#undef rgb
#undef GRID
#undef PATCH
#undef SIDE
#undef TOKENS
#undef WIDTH
#undef MARKED
#undef STOP
#undef CHANNELS
#undef LONGEST
#undef PATCHES
#undef ROWS
#undef STEPS
#undef SEEN
#undef PIECE
#undef NAMES
#undef PIXELS
#undef COLOURS
#undef COLUMNS
#undef WIDEST
#undef positions
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
        float *f = floats(a.L * a.N), *g = floats(a.L * a.N), *h = floats(a.N * a.P);
        mmix_mixer x = mmix_mixer_linear(a.q, a.k, a.v);
        features_02(f, a.fq, a.L, a.N);
        features_02(g, a.fk, a.L, a.N);
        AGREE_FLOATS(f, mmix_softmax(a.m, a.q, -1));
        linear_by_matrix(a.y, a.M, f, g, a.fv, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &x));
        AGREE_FLOATS(a.M, mmix_mix_matrix(a.m, &x));
        linear_by_state(a.y, h, f, g, a.fv, a.L, a.N, a.P);
        AGREE_FLOATS(a.y, mmix_mix(a.m, &x));
        free(f);
        free(g);
        free(h);
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
        float *F = floats(a.L + 5), A = (float)mmix_data(a.A)[0];
        mmix_mixer x = mmix_mixer_ssd(a.v, a.dt, a.A, a.k, a.q);
        x.initial_state = before;
        x.final_state = &last;
        mmix_tensor *y = mmix_mix(a.m, &x);
        for (int q = 0; q < 5; q++) {
            float *carried = floats_of(before);
            chunked_scan(a.y, carried, F, a.fv, a.fdt, A, a.fk, a.fq, a.L, a.N, a.P, lengths[q]);
            AGREE_FLOATS(a.y, y);
            AGREE_FLOATS(carried, last);
            free(carried);
        }
        free(F);
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
    product *const rung[3] = {product_loops, product_rows, product_tiles};
    for (int i = 0; i < 3 * TRIES; i++) {
        mmix_ctx *m = context(1, 1);
        size_t n = any(1, 13), k = any(1, 40), columns = any(1, 50);
        mmix_tensor *ta = shaped(m, random4(m, 1, 1, n, k, -1, 1), 2, n, k, 0);
        mmix_tensor *tb = shaped(m, random4(m, 1, 1, k, columns, -1, 1), 2, k, columns, 0);
        mmix_tensor *right = mmix_matmul(m, ta, tb);
        float *a = floats_of(ta), *b = floats_of(tb), *c = floats(n * columns);
        snprintf(about, sizeof about, "%zu x %zu x %zu", n, k, columns);
        for (int r = 0; r < 3; r++) {
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

/* ---- 07: networks of the library, written to files and read by their names ---- */

static const char vit_path[] = "build/tiny-vit.safetensors";

/* 07's features of a picture of grid x grid patches are the library's. */
static void same_features(mmix_ctx *m, const mmix_vision *v, const char *path, size_t grid)
{
    const mmix_vision_config *c = mmix_vision_config_of(v);
    size_t P = c->patch, side = grid * P, L = grid * grid + 1;
    mmix_tensor *image = random4(m, 1, 3, side, side, -2, 2);
    float *pixels = floats_of(image), *patches = floats(3 * side * side), *f = floats(L * c->dim);
    for (size_t i = 0; i < 3 * side * side; i++) {
        size_t t = i / (3 * P * P), channel = i / P / P % 3;
        size_t row = t / grid * P + i / P % P, column = t % grid * P + i % P;
        patches[i] = pixels[(channel * side + row) * side + column];
    }
    open_weights(path);
    vit_forward(f, patches, grid, c->dim / c->heads);
    refuse_others(path);
    AGREE_FLOATS(f, mmix_vision_forward(m, v, image, NULL).tokens);
    free(pixels);
    free(patches);
    free(f);
}

/* The network under DINOv2's names on Hugging Face. */
static void save_as_hugging_face(mmix_ctx *m, mmix_vision *v)
{
    static const char *const dinov2[][2] = {
        {"cls_token", "embeddings.cls_token"}, {"pos_embed", "embeddings.position_embeddings"},
        {"patch_embed.proj", "embeddings.patch_embeddings.projection"},
        {"blocks.", "encoder.layer."}, {"attn.proj", "attention.output.dense"},
        {"ls1.gamma", "layer_scale1.lambda1"}, {"ls2.gamma", "layer_scale2.lambda1"}};
    static const char *const third[3] = {"query", "key", "value"};
    static mmix_entry e[200];
    static char names[200][96];
    mmix_params *p = mmix_vision_params(v);
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++) {
        const mmix_tensor *t = p->at[i].tensor;
        const char *fused = strstr(p->at[i].name, "attn.qkv");
        size_t parts = fused ? 3 : 1;
        for (size_t k = 0; k < parts; k++, n++) {
            char *to = names[n];
            if (fused)
                snprintf(to, 96, "%.*sattention.attention.%s%s", (int)(fused - p->at[i].name),
                         p->at[i].name, third[k], fused + 8);
            else if (!strncmp(p->at[i].name, "norm.", 5))
                snprintf(to, 96, "layernorm%s", p->at[i].name + 4);
            else
                snprintf(to, 96, "%s", p->at[i].name);
            for (size_t r = 0; r < 7; r++) {
                const char *const *rule = dinov2[r];
                char *at = strstr(to, rule[0]), rest[96];
                if (!at) continue;
                snprintf(rest, sizeof rest, "%s", at + strlen(rule[0]));
                snprintf(at, 96 - (size_t)(at - to), "%s%s", rule[1], rest);
            }
            memset(&e[n], 0, sizeof e[n]);
            e[n].name = to;
            e[n].dtype = MMIX_FILE_REAL;
            e[n].ndim = mmix_ndim(t);
            for (int a = 0; a < e[n].ndim; a++) e[n].shape[a] = mmix_shape(t, a);
            e[n].shape[0] /= parts;
            e[n].data = mmix_data(t) + k * mmix_count(t) / parts;
        }
    }
    CHECK(!mmix_archive_save(m, vit_path, e, n, NULL));
}

static void t_vit(void)
{
    static const size_t wide[4] = {24, 64, 128, 64};
    if (sizeof(real) != sizeof(float)) {
        skipped++;
        puts("skipped: 07 (this build writes no F32)");
        return;
    }
    for (int i = 0; i < 5; i++) {
        mmix_ctx *m = context(1, 7);
        mmix_vision_config c = mmix_vision_config_vit(192, 4);
        mmix_vision *v = NULL;
        c.layer_scale = 1;
        c.patch = any(2, 5);
        c.grid = any(1, 4);
        c.depth = any(1, 3);
        c.mlp_ratio = 2;
        if (i < 4) {
            c.dim = wide[i];
            c.heads = wide[i] < 64 ? 1 : wide[i] / 64;
            v = mmix_vision_create(m, c);
        } else {
            v = mmix_vision_load(m, "docs/tiny/vit.safetensors");
        }
        CHECK(v != NULL);
        if (!v) continue;
        mmix_params *p = mmix_vision_params(v);
        for (size_t k = 0; i < 4 && k < p->count; k++)       /* no zeros and ones */
            for (size_t n = 0; n < mmix_count(p->at[k].tensor); n++)
                mmix_data(p->at[k].tensor)[n] += (real)(0.2 * uniform() - 0.1);
        snprintf(about, sizeof about, "a ViT of width %zu", mmix_vision_config_of(v)->dim);
        save_as_hugging_face(m, v);
        same_features(m, v, vit_path, mmix_vision_config_of(v)->grid);
        FINE(m);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
}

/* A network that was trained, on 4 x 4 patches. Where the file has 37 x 37 positions 07 takes
   the nearest, so the library is given those. */
static void t_trained_vit(void)
{
    static const char trained[] = "../shared/data/vit-s14/model.safetensors";
    FILE *there = fopen(trained, "rb");
    if (!there || sizeof(real) != sizeof(float)) {
        if (there) fclose(there);
        skipped++;
        printf("skipped: %s is not there, or this build is not of floats\n", trained);
        return;
    }
    fclose(there);
    mmix_ctx *m = mmix_create(NULL);
    mmix_vision *whole = mmix_vision_load(m, trained);
    mmix_vision_config c = *mmix_vision_config_of(whole);
    size_t G = c.grid, grid = 4, D = c.dim;
    c.grid = grid;
    mmix_vision *v = mmix_vision_create(m, c);
    mmix_params *from = mmix_vision_params(whole), *to = mmix_vision_params(v);
    for (size_t k = 0; k < to->count; k++) {
        const real *x = mmix_data(mmix_params_find(from, to->at[k].name));
        real *y = mmix_data(to->at[k].tensor);
        if (strcmp(to->at[k].name, "pos_embed")) {
            memcpy(y, x, mmix_count(to->at[k].tensor) * sizeof *y);
            continue;
        }
        memcpy(y, x, D * sizeof *y);
        for (size_t t = 0; t < grid * grid; t++) {
            size_t row = (2 * (t / grid) + 1) * G / (2 * grid);
            size_t column = (2 * (t % grid) + 1) * G / (2 * grid);
            memcpy(y + (1 + t) * D, x + (1 + row * G + column) * D, D * sizeof *y);
        }
    }
    snprintf(about, sizeof about, "the trained ViT-S/14");
    same_features(m, v, trained, grid);
    FINE(m);
    mmix_vision_destroy(whole);
    mmix_vision_destroy(v);
    mmix_destroy(m);
}

/* ---- 08 ---- */

static void t_dino_loss(void)
{
    for (int i = 0; i < TRIES; i++) {
        mmix_ctx *m = context(1, 1);
        size_t B = any(1, 5), K = K_08;
        mmix_tensor *ts = shaped(m, random4(m, 1, 1, 2 * B, K, -1, 1), 2, 2 * B, K, 0);
        mmix_tensor *tt = shaped(m, random4(m, 1, 1, 2 * B, K, -1, 1), 2, 2 * B, K, 0);
        mmix_tensor *center = random1(m, K, -0.5, 0.5);
        double *s = doubles_of(ts), *t = doubles_of(tt), *c = doubles_of(center);
        double *ds = doubles(2 * B * K);
        snprintf(about, sizeof about, "%zu pictures", B);
        double loss = dino_loss(ds, s, t, c, B, 0.1, 0.05);
        center_update(c, t, 2 * B, 0.9);
        mmix_require_grad(ts);
        mmix_record(m, 1);
        mmix_tensor *right = mmix_dino_loss(m, ts, tt, mmix_data(center), 2, 0.1, 0.05, 0.9, NULL);
        CHECK(!mmix_backward(m, right));
        NEAR(loss, mmix_item(right), BOUND * loss);
        AGREE(ds, mmix_grad(ts));
        AGREE(c, center);
        free(s);
        free(t);
        free(c);
        free(ds);
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
        size_t n = any(5, 40), D = any(2, 9), K = NAMES_09, k = any(1, 9);
        mmix_tensor *x = shaped(m, random4(m, 1, 1, n, D, -1, 1), 2, n, D, 0);
        mmix_tensor *label = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
        mmix_knn_result right;
        int32_t said[40];
        double balanced, votes[NAMES_09];
        for (size_t r = 0; r < n; r++) mmix_data_i32(label)[r] = (int32_t)(r % K);
        float *f = floats_of(x);
        CHECK(!mmix_knn(m, x, label, NULL, NULL, K, k, 0.07, &right));
        double share = knn(said, &balanced, f, mmix_data_i32(label), n, D, k, 0.07);
        snprintf(about, sizeof about, "%zu rows of %zu, %zu neighbours", n, D, k);
        NEAR(share, right.top1, 1e-12);
        NEAR(balanced, right.balanced, 1e-12);
        for (size_t r = 0; r < n; r++) {
            IS(said[r], right.pred[r]);
            knn_vote(votes, f, mmix_data_i32(label), r, n, D, k, 0.07);
            for (size_t c = 0; c < K; c++)
                NEAR(votes[c], right.votes[r * K + c], BOUND * exp(1 / 0.07));
        }
        free(f);
        FINE(m);
        mmix_destroy(m);
    }
}

/* ---- 10 ---- */

/* u (L, WIDTH) has x, b and c of each token behind one another; the library has them apart. */
static void t_decoder(void)
{
    const size_t P = P_10, N = N_10, width = WIDTH_10;
    for (int i = 0; i < TRIES; i++) {
        mmix_ctx *m = context(1, 1);
        size_t L = any(1, 40);
        mmix_tensor *x = random4(m, 1, L, 1, P, -1, 1), *b = random4(m, 1, L, 1, N, -1, 1);
        mmix_tensor *c = random4(m, 1, L, 1, N, -1, 1), *dt = random3(m, 1, L, 1, 1, 1);
        mmix_tensor *w = random4(m, 1, L, 1, P, -1, 1), *leaf[3] = {x, b, c};
        mmix_tensor *decay = random1(m, 1, A_10, A_10);
        float *u = floats(L * width), *du = floats(L * width), *dy = floats_of(w);
        float *by_cache = floats(L * P), *by_state = floats(L * P), *h = floats(P * N);
        snprintf(about, sizeof about, "%zu letters", L);
        mmix_fill(dt, delta_10);
        for (size_t t = 0, k = 0; t < L; t++)
            for (size_t part = 0; part < 3; part++)
                for (size_t n = 0; n < (part ? N : P); n++, k++)
                    u[k] = (float)mmix_data(leaf[part])[t * (part ? N : P) + n];
        for (int k = 0; k < 3; k++) mmix_require_grad(leaf[k]);
        mmix_record(m, 1);
        mmix_mixer reads = mmix_mixer_ssd(x, dt, decay, b, c);
        mmix_tensor *y = mmix_mix(m, &reads);
        for (size_t t = 0; t < L; t++) {
            cache_step(by_cache + t * P, u, t);
            state_step(by_state + t * P, h, u + t * width);
            step_backward(du, dy + t * P, u, t);
        }
        AGREE_FLOATS(by_cache, y);
        AGREE_FLOATS(by_state, y);
        CHECK(!mmix_backward(m, mmix_sum(m, mmix_mul(m, y, w))));
        for (size_t part = 0, from = 0; part < 3; part++) {
            size_t n = part ? N : P;
            for (size_t k = 0; k < L * n; k++) by_cache[k] = du[k / n * width + from + k % n];
            AGREE_FLOATS(by_cache, mmix_grad(leaf[part]));
            from += n;
        }
        free(u);
        free(du);
        free(dy);
        free(by_cache);
        free(by_state);
        free(h);
        FINE(m);
        mmix_destroy(m);
    }
}

static void t_cross_entropy(void)
{
    mmix_ctx *m = context(1, 1);
    const size_t P = P_10, one = 1;
    for (int i = 0; i < TRIES; i++) {
        mmix_tensor *logits = shaped(m, random1(m, P, -3, 3), 2, 1, P, 0);
        mmix_tensor *right = mmix_new(m, MMIX_DTYPE_I32, 1, &one);
        float *y = floats_of(logits);
        mmix_data_i32(right)[0] = (int32_t)any(0, P - 1);
        mmix_require_grad(logits);
        mmix_record(m, 1);
        mmix_tensor *loss = mmix_cross_entropy(m, logits, right, -1);
        NEAR(cross_entropy(y, (size_t)mmix_data_i32(right)[0]), mmix_item(loss), BOUND * 10);
        CHECK(!mmix_backward(m, loss));
        AGREE_FLOATS(y, mmix_grad(logits));
        free(y);
    }
    FINE(m);
    mmix_destroy(m);
}

int main(int argc, char **argv)
{
    static const section all[] = {
        {"01", t_softmax_attention}, {"02", t_linear_attention}, {"03", t_scan},
        {"04", t_chunks}, {"05", t_scan_backward}, {"06", t_product}, {"07", t_vit},
        {"07", t_trained_vit},
        {"08", t_dino_loss}, {"08", t_follow}, {"09", t_knn}, {"10", t_decoder},
        {"10", t_cross_entropy}};
    return sections(all, sizeof all / sizeof *all, argc, argv);
}
