/* training.c - parameters and their files, schedules, AdamW, EMA, losses */
#include "models.h"

#define FILE_A "build/training_a.safetensors"
#define FILE_B "build/training_b.safetensors"

static void shape_is(const mmix_params *p, const char *name, int ndim, size_t a, size_t b, size_t c,
                     size_t d, int decay)
{
    mmix_tensor *t = mmix_params_find(p, name);
    size_t s[4], found = 0;
    s[0] = a;
    s[1] = b;
    s[2] = c;
    s[3] = d;
    COMPARE(has_shape(t, ndim, s), name, t ? (double)mmix_shape(t, 0) : -1, (double)a);
    for (size_t i = 0; i < p->count; i++)
        if (p->at[i].tensor == t)
            found = 1 + (size_t)(p->at[i].decay == decay);
    COMPARE(found == 2, name, (double)found, 2);
}
static int write_entries(mmix_ctx *m, const mmix_params *p, size_t change, int how,
                         const char *path)
{
    static const real extra[2] = { 1, 2 };
    mmix_entry *e = (mmix_entry *)calloc(p->count + 1, sizeof *e);
    size_t n = p->count;
    int result;
    for (size_t i = 0; i < n; i++)
        e[i] = entry_of(&p->at[i]);
    if (how == 1) {
        e[change] = e[n - 1];
        n--;
    }                     /* missing */
    if (how == 2) {                              /* one more */
        e[n] = e[0];
        e[n].name = "blocks.77.more";
        e[n].ndim = 1;
        e[n].shape[0] = 2;
        e[n++].data = extra;
    }
    if (how == 3) {                              /* another shape of as many elements */
        e[change].shape[e[change].ndim] = 1;
        e[change].ndim++;
    }
    if (how == 4) e[change].shape[0]--;
    result = mmix_archive_save(m, path, e, n, NULL);
    free(e);
    return result;
}
/* Deviation 0.02, nothing beyond a normal tail */
static void truncated_normal(mmix_params *p)
{
    double square = 0;
    mmix_tensor *t = mmix_params_find(p, "blocks.0.attn.qkv.weight");
    for (size_t i = 0; i < mmix_count(t); i++)
        square += (double)mmix_data(t)[i] * (double)mmix_data(t)[i];
    NEAR(sqrt(square / (double)mmix_count(t)), 0.02, 0.0006);
}
static void slab_places(mmix_params *p)
{
    size_t at = 0;
    for (size_t i = 0; i < p->count; i++) {
        CHECK(mmix_data(p->at[i].tensor) == p->values + at && at % (64 / sizeof(real)) == 0);
        at += (mmix_count(p->at[i].tensor) + 64 / sizeof(real) - 1) / (64 / sizeof(real))
              * (64 / sizeof(real));
    }
    IS(at, p->slab);
}
/* A part of a file, by the prefix of its names */
static void part_of_a_file(mmix_ctx *m)
{
    real a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 7, 8, 9, 10, 11, 12 };
    const char *const names[3] = { "student.w", "teacher.w", "teacher.b" };
    mmix_entry e[3];
    mmix_archive *file;
    mmix_params *q = mmix_params_create(m);
    size_t shape[2] = { 2, 3 }, two[1] = { 2 };
    memset(e, 0, sizeof e);
    for (int i = 0; i < 3; i++) {
        e[i].name = names[i];
        e[i].dtype = MMIX_FILE_REAL;
        e[i].ndim = i < 2 ? 2 : 1;
        memcpy(e[i].shape, shape, sizeof shape);
        e[i].data = i == 1 ? a : b;
    }
    IS(mmix_archive_save(m, FILE_A, e, 3, NULL), 0);
    mmix_params_add(q, "", "w", 2, shape, MMIX_INIT_CONSTANT, 0, 0);
    mmix_params_add(q, "", "b", 1, two, MMIX_INIT_CONSTANT, 0, 0);
    file = mmix_archive_open(m, FILE_A);
    CHECK(file != NULL);
    IS(mmix_params_read(q, file, "teacher."), 0);
    IS(mmix_data(q->at[0].tensor)[5], 6);
    IS(mmix_data(q->at[1].tensor)[1], 8);
    REFUSED_AS(MMIX_ERROR_FILE, m, mmix_params_read(q, file, "student."), FILE_A,
               "1 missing, 0 of another shape, 0 unexpected; first: missing student.b (2)");
    REFUSED_AS(MMIX_ERROR_FILE, m, mmix_params_read(q, file, ""), FILE_A,
               "expected 2 arrays, found 2 missing, 0 of another shape, 3 unexpected");
    IS(strcmp(mmix_params_check(q, file, ""),
              "missing w (2, 3)\nmissing b (2)\nunexpected student.w (2, 3)\n"
              "unexpected teacher.w (2, 3)\nunexpected teacher.b (2)\n"),
       0);
    IS(strcmp(mmix_params_check(q, file, "teacher."), ""), 0);
    mmix_archive_close(file);
    IS(mmix_params_save(q, FILE_A), 0);
    mmix_fill(q->at[0].tensor, 0);
    mmix_fill(q->at[1].tensor, 0);
    IS(mmix_params_load(q, FILE_A), 0);
    IS(mmix_data(q->at[0].tensor)[5], 6);
    IS(mmix_data(q->at[1].tensor)[1], 8);
    mmix_params_destroy(q);
    FINE(m);
}
static void parameters(void)
{
    mmix_ctx *m, *n;
    mmix_vision *v, *w;
    mmix_params *p;
    size_t s[2] = { 3, 5 };
    size_t head_in[4] = { 192, 384, 512, 768 };
    double head_count[4] = { 21958912, 22352128, 22614272, 23138560 };
    /* where registers stand; more registers than patches: they come first */
    {
        static const size_t patches[4] = { 14 * 14, 6 * 6, 7 * 7, 24 * 24 }, ends[4][3] = {
            { 15, 31, 191 }, { 2, 5, 35 }, { 3, 7, 47 }, { 44, 89, 539 }
        };
        mmix_vision_config c = mmix_vision_config_mambareg(256);
        size_t at[12];
        mmix_features f;
        for (size_t i = 0; i < 4; i++) {
            IS(mmix_vision_class_index(&c, patches[i], at), 12);
            IS(at[0], ends[i][0]);
            IS(at[1], ends[i][1]);
            IS(at[11], ends[i][2]);
        }
        IS(mmix_vision_class_index(&c, 4, at), 12);
        for (size_t i = 0; i < 12; i++)
            IS(at[i], i);
        c.dim = 32;
        c.depth = 2;
        c.mamba.head_dim = 16;
        c.patch = 8;
        m = context(1, 5);
        v = mmix_vision_create(m, c);
        f = mmix_vision_forward(m, v, mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 16), 1, 3), NULL);
        CHECK(mmix_shape(f.tokens, 1) == 16 && mmix_shape(f.registers, 1) == 12
              && mmix_shape(f.patches, 1) == 4 && mmix_shape(f.token, 1) == 32);
        for (size_t i = 0; f.tokens && i < 4 * 32; i++)
            IS(mmix_data(f.patches)[i], mmix_data(f.tokens)[12 * 32 + i]);
        FINE(m);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
    doing("parameters");
    m = context(1, 11);
    for (int k = 0; k < 4; k++) {
        mmix_dino_head head;
        p = mmix_params_create(m);
        IS(mmix_dino_head_init(&head, p, "", head_in[k], 2048, 256, 65536, 3), 0);
        IS(p->elements, head_count[k]);
        shape_is(p, "mlp.0.weight", 2, 2048, head_in[k], 0, 0, 1);
        shape_is(p, "mlp.4.bias", 1, 256, 0, 0, 0, 0);
        shape_is(p, "last_layer.weight_g", 2, 65536, 1, 0, 0, 1);
        shape_is(p, "last_layer.weight_v", 2, 65536, 256, 0, 0, 1);
        mmix_params_destroy(p);
    }
    {
        mmix_mamba2_layer layer;
        mmix_mamba2_options o;
        memset(&o, 0, sizeof o);
        o.bidirectional = 1;
        p = mmix_params_create(m);
        IS(mmix_mamba2_init(&layer, p, "", 256, &o), 0);
        IS(p->elements, 435760 - 256);
        shape_is(p, "in_proj.weight", 2, 2 * 512 + 128 + 8, 256, 0, 0, 1);
        shape_is(p, "conv1d_b.weight", 3, 640, 1, 4, 0, 1);
        shape_is(p, "dt_b_bias", 1, 8, 0, 0, 0, 0);
        shape_is(p, "A_log_b", 1, 8, 0, 0, 0, 0);
        shape_is(p, "D", 1, 8, 0, 0, 0, 0);
        shape_is(p, "norm_b.weight", 1, 512, 0, 0, 0, 0);
        shape_is(p, "out_proj.weight", 2, 256, 512, 0, 0, 1);
        IS(mmix_params_allocate(p), 0);
        for (int i = 0; i < 8; i++) {            /* A in [1, 16), dt in [1e-3, 1e-1] */
            double A = exp((double)mmix_data(layer.dir[1].A_log)[i]);
            double dt = log1p(exp((double)mmix_data(layer.dir[0].dt_bias)[i]));
            CHECK(A >= 0.9999 && A <= 16.001 && dt > 0.99e-3 && dt < 0.101
                  && mmix_data(layer.dir[0].D)[i] == 1);
        }
        CHECK(largest(layer.in_proj) <= 1.0 / 16 + 1e-6 && largest(layer.in_proj) > 0.9 / 16);
        mmix_params_destroy(p);
        o.head_dim = 60;
        p = mmix_params_create(m);
        BAD_INT(mmix_mamba2_init(&layer, p, "", 256, &o), "mmix_mamba2_init",
                "512 does not make heads of 60");
        mmix_params_destroy(p);
    }
    {                                            /* Vim-S's mixer */
        mmix_mamba1_layer layer;
        mmix_mamba1_options o;
        const size_t d = 768, R = 24, N = 16;
        memset(&o, 0, sizeof o);
        o.bidirectional = 1;
        p = mmix_params_create(m);
        IS(mmix_mamba1_init(&layer, p, "", 384, &o), 0);
        IS(p->elements, 3 * d * 384 + 2 * (5 * d + (R + 2 * N) * d + R * d + d + N * d + d));
        shape_is(p, "in_proj.weight", 2, 2 * d, 384, 0, 0, 1);
        shape_is(p, "conv1d_b.weight", 3, d, 1, 4, 0, 1);
        shape_is(p, "x_proj_b.weight", 2, R + 2 * N, d, 0, 0, 1);
        shape_is(p, "dt_proj.weight", 2, d, R, 0, 0, 1);
        shape_is(p, "dt_proj_b.bias", 1, d, 0, 0, 0, 0);
        shape_is(p, "A_log", 2, d, N, 0, 0, 0);
        shape_is(p, "A_b_log", 2, d, N, 0, 0, 0);
        shape_is(p, "D_b", 1, d, 0, 0, 0, 0);
        shape_is(p, "out_proj.weight", 2, 384, d, 0, 0, 1);
        IS(mmix_params_allocate(p), 0);
        for (size_t i = 0; i < d * N; i++)       /* A = -1 … -16 in every channel, dt as above */
            NEAR(exp((double)mmix_data(layer.dir[1].A_log)[i]), i % N + 1, 1e-5);
        for (size_t i = 0; i < d; i++) {
            double dt = log1p(exp((double)mmix_data(layer.dir[0].dt_bias)[i]));
            CHECK(dt > 0.99e-3 && dt < 0.101 && mmix_data(layer.dir[1].D)[i] == 1);
        }
        CHECK(largest(layer.dir[0].dt_weight) <= 1 / sqrt(24) + 1e-6);
        /* rates stay real where matrices become narrow; the layer still runs */
        mmix_tensor *x = mmix_fill_normal(m, mmix_new3(m, 1, 5, 384), 1, 3);
        mmix_tensor *y = mmix_mamba1_forward(m, &layer, x, NULL, NULL, NULL, NULL), *z;
        IS(mmix_params_narrow(p, MMIX_DTYPE_BF16), 0);
        IS(mmix_dtype(layer.dir[0].A_log), MMIX_DTYPE_REAL);
        IS(mmix_dtype(layer.dir[1].A_log), MMIX_DTYPE_REAL);
        IS(mmix_dtype(layer.dir[0].x_proj), MMIX_DTYPE_BF16);
        z = mmix_mamba1_forward(m, &layer, x, NULL, NULL, NULL, NULL);
        CHECK(y && z && apart(z, y) > 0 && apart(z, y) < 0.02);
        FINE(m);
        mmix_params_destroy(p);
    }
    v = mmix_vision_create(m, mmix_vision_config_vit(192, 16));
    p = mmix_vision_params(v);
    IS(mmix_vision_params(v)->elements, 5524416);
    shape_is(p, "cls_token", 3, 1, 1, 192, 0, 1);
    shape_is(p, "pos_embed", 3, 1, 197, 192, 0, 1);
    shape_is(p, "patch_embed.proj.weight", 4, 192, 3, 16, 16, 1);
    shape_is(p, "patch_embed.proj.bias", 1, 192, 0, 0, 0, 0);
    shape_is(p, "blocks.11.norm1.weight", 1, 192, 0, 0, 0, 0);
    shape_is(p, "blocks.0.attn.qkv.weight", 2, 576, 192, 0, 0, 1);
    shape_is(p, "blocks.0.attn.proj.bias", 1, 192, 0, 0, 0, 0);
    shape_is(p, "blocks.3.mlp.fc1.weight", 2, 768, 192, 0, 0, 1);
    shape_is(p, "blocks.3.mlp.fc2.weight", 2, 192, 768, 0, 0, 1);
    shape_is(p, "norm.bias", 1, 192, 0, 0, 0, 0);
    truncated_normal(p);
    mmix_vision_destroy(v);
    v = mmix_vision_create(m, small_vision(MMIX_MIXER_SSD));
    p = mmix_vision_params(v);
    shape_is(p, "layers.1.mixer.A_log_b", 1, 4, 0, 0, 0, 0);
    shape_is(p, "layers.1.norm.weight", 1, 16, 0, 0, 0, 0);
    shape_is(p, "norm_f.weight", 1, 16, 0, 0, 0, 0);
    CHECK(mmix_params_find(p, "nothing") == NULL);
    FINE(m);
    /* slabs */
    IS(mmix_params_require_grad(p, 1), 0);
    slab_places(p);
    CHECK(p->gradients != NULL && mmix_grad(p->at[0].tensor) == NULL);
    IS(mmix_params_require_grad(p, 0), 0);
    CHECK(p->gradients == NULL);
    BAD(mmix_params_add(p, "a", "b", 2, s, MMIX_INIT_CONSTANT, 1, 0), "mmix_params_add",
        "after mmix_params_allocate");
    /* seeds */
    n = context(2, 11);
    w = mmix_vision_create(n, small_vision(MMIX_MIXER_SSD));
    IS(hash_params(p, 1) == hash_params(mmix_vision_params(w), 1), 1);
    mmix_vision_destroy(w);
    mmix_seed_set(n, 12);
    w = mmix_vision_create(n, small_vision(MMIX_MIXER_SSD));
    CHECK(hash_params(p, 1) != hash_params(mmix_vision_params(w), 1));
    /* files */
    doing("parameter files");
    IS(mmix_vision_save(m, v, FILE_A), 0);
    IS(mmix_params_load(mmix_vision_params(w), FILE_A), 0);
    IS(hash_params(p, 1) == hash_params(mmix_vision_params(w), 1), 1);
    FINE(n);
    mmix_vision_destroy(w);
    w = mmix_vision_create(n, small_vision(MMIX_MIXER_SSD));
    for (int how = 1; how <= 4; how++)
        for (size_t i = 0; i < p->count; i += how == 2 ? p->count : 5) {
            uint64_t before = hash_params(mmix_vision_params(w), 1);
            size_t bytes = mmix_memory(n).bytes;
            if (how == 4 && mmix_shape(p->at[i].tensor, 0) == 1)
                continue;
            IS(write_entries(m, p, i, how, FILE_B), 0);
            FINE(m);
            IS(mmix_params_load(mmix_vision_params(w), FILE_B), -1);
            IS(mmix_error_kind(n), MMIX_ERROR_FILE);
            if (mmix_error(n))
                COMPARE(strstr(mmix_error(n), how == 2 ? "blocks.77.more" : p->at[i].name) != NULL,
                        mmix_error(n), how, 0);
            mmix_error_clear(n);
            IS(hash_params(mmix_vision_params(w), 1) == before, 1);
            IS(mmix_memory(n).bytes, bytes);
        }
    IS(mmix_params_load(mmix_vision_params(w), "no_such_file.safetensors"), -1);
    IS(mmix_error_kind(n), MMIX_ERROR_FILE);
    mmix_error_clear(n);
    mmix_vision_destroy(w);
    mmix_vision_destroy(v);
    mmix_destroy(n);
    part_of_a_file(m);
    /* duplicates; frozen parameters */
    p = mmix_params_create(m);
    mmix_params_add(p, "x.", "a", 2, s, MMIX_INIT_UNIFORM, 2, 3);
    BAD(mmix_params_add(p, "x", ".a", 2, s, MMIX_INIT_CONSTANT, 1, 0), "x.a is there already",
        "mmix_params_add");
    mmix_params_add(p, "", "frozen", 1, s, MMIX_INIT_CONSTANT, 4, 0);
    BAD_INT(mmix_params_require_grad(p, 1), "mmix_params_require_grad", "allocate");
    IS(mmix_params_allocate(p), 0);
    p->at[1].frozen = 1;
    mmix_params_require_grad(p, 1);
    mmix_record(m, 1);
    mmix_backward(m, mmix_mul(m, mmix_sum(m, p->at[0].tensor), mmix_sum(m, p->at[1].tensor)));
    CHECK(mmix_grad(p->at[0].tensor) && !mmix_grad(p->at[1].tensor));
    IS(mmix_data(mmix_grad(p->at[0].tensor))[14], 12);
    for (int i = 0; i < 15; i++)
        CHECK(mmix_data(p->at[0].tensor)[i] >= 2 && mmix_data(p->at[0].tensor)[i] < 3);
    mmix_reset(m);                               /* gradients of parameters stay */
    CHECK(mmix_grad(p->at[0].tensor) != NULL);
    mmix_params_zero_grad(p);
    CHECK(mmix_grad(p->at[0].tensor) == NULL);
    mmix_params_destroy(p);
    mmix_params_destroy(NULL);
    FINE(m);
    mmix_destroy(m);
    remove(FILE_A);
    remove(FILE_B);
}

/* Packed matrices give the same bits, and whatever changes the values drops them. */
/* ---- schedules, optimizer, losses ---- */

static void schedules(void)
{
    size_t steps[8] = { 0, 1, 25019, 25020, 125100, 1, 99, 100 }, milestones[2] = { 8, 11 };
    double lr[5] = { 0, 3.996962309e-8, 1e-3, 1e-3, 5.872372647e-4 };
    size_t small[7] = { 0, 1, 7, 8, 9, 10, 19 };
    double small_lr[7] = {
        0, 8.928571429e-6, 6.25e-5, 6.25e-5, 6.145221916e-5, 5.838028117e-5, 2.047780842e-6
    };
    doing("schedules");
    for (int i = 0; i < 5; i++)
        NEAR(mmix_schedule_cosine(1e-3, 1e-6, 100, 2502, 10, 0, steps[i]), lr[i], lr[i] * 1e-9);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 2502, 0, 0, 1), 0.04000000001, 5e-12);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 2502, 0, 0, 0), 0.04, 1e-15);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 2502, 0, 0, 125100), 0.22, 1e-12);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 2502, 0, 0, 125100), 0.998, 1e-12);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 1), 1.262626263e-6, 1e-15);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 99), 1.25e-4, 1e-15);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 100), 1.25e-4, 1e-15);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 500), 7.376618702e-5, 1e-13);
    NEAR(mmix_schedule_cosine(1.25e-4, 1e-6, 100, 10, 10, 0, 999), 1.000377725e-6, 1e-15);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 10, 0, 0, 1), 0.04000088826, 1e-11);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 10, 0, 0, 500), 0.22, 1e-12);
    NEAR(mmix_schedule_cosine(0.04, 0.4, 100, 10, 0, 0, 999), 0.3999991117, 1e-10);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 10, 0, 0, 1), 0.9960000099, 1e-10);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 10, 0, 0, 500), 0.998, 1e-12);
    NEAR(mmix_schedule_cosine(0.996, 1, 100, 10, 0, 0, 999), 0.9999999901, 1e-10);
    for (int i = 0; i < 7; i++)
        NEAR(mmix_schedule_cosine(5e-4 * 32 / 256, 1e-6, 5, 4, 2, 0, small[i]), small_lr[i], 1e-14);
    NEAR(mmix_schedule_cosine(0.07, 0.07, 0, 1, 30, 0.04, 0), 0.04, 1e-15);
    NEAR(mmix_schedule_cosine(0.07, 0.07, 0, 1, 30, 0.04, 1), 0.0410344828, 1e-10);
    NEAR(mmix_schedule_cosine(0.07, 0.07, 0, 1, 30, 0.04, 15), 0.0555172414, 1e-10);
    NEAR(mmix_schedule_cosine(0.07, 0.07, 0, 1, 30, 0.04, 29), 0.07, 1e-15);
    NEAR(mmix_schedule_cosine(0.07, 0.07, 0, 1, 30, 0.04, 30), 0.07, 1e-15);
    NEAR(mmix_schedule_cosine(0.07, 0.07, 0, 1, 0, 0.04, 0), 0.07, 1e-15);
    NEAR(mmix_schedule_poly(6e-5, 0, 160000, 1500, 1e-6, 1, 0), 6e-11, 1e-20);
    NEAR(mmix_schedule_poly(6e-5, 0, 160000, 1500, 1e-6, 1, 1499), 6e-5, 1e-18);
    NEAR(mmix_schedule_poly(6e-5, 0, 160000, 1500, 1e-6, 1, 1500), 6e-5, 1e-18);
    NEAR(mmix_schedule_poly(6e-5, 1e-7, 160000, 1500, 1e-6, 2, 159999), 1e-7, 1e-18);
    NEAR(mmix_schedule_poly(1, 0, 101, 0, 1, 0.9, 50), pow(0.5, 0.9), 1e-12);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 0), 1e-7, 1e-18);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 499), 1e-4, 1e-15);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 799), 1e-4, 1e-15);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 800), 1e-5, 1e-15);
    NEAR(mmix_schedule_multistep(1e-4, 0.1, milestones, 2, 100, 500, 0.001, 1100), 1e-6, 1e-15);
}

static void moving_average(mmix_params *p, mmix_params *q)
{
    real a = mmix_data(q->at[2].tensor)[17999];
    real b = mmix_data(p->at[2].tensor)[17999];
    IS(mmix_ema(q, p, 0.9), 0);
    NEAR(mmix_data(q->at[2].tensor)[17999], 0.9 * (double)a + 0.1 * (double)b, 4 * EPS);
    IS(mmix_ema(q, p, 0), 0);
    IS(hash_params(q, 1) == hash_params(p, 1), 1);
    IS(mmix_ema(q, p, 1), 0);
    IS(hash_params(q, 1) == hash_params(p, 1), 1);
    REFUSED(q->m, mmix_ema(q, p, (double)NAN), "momentum is nan");
}
/* One step of AdamW moves a parameter by lr, whatever β is; and the state is freed as it was made,
   though the list's gradients are gone and its matrices narrow. */
static void one_step(mmix_ctx *m, double beta1, double beta2)
{
    const size_t shape[2] = { 16, 32 };
    mmix_optimizer s;
    mmix_adamw o = mmix_adamw_config_default();
    mmix_params *p = mmix_params_create(m);
    mmix_tensor *w = mmix_params_add(p, "", "w.weight", 2, shape, MMIX_INIT_CONSTANT, 0, 0);
    mmix_params_allocate(p);
    o.lr = 1;
    o.weight_decay = 0;
    o.beta1 = beta1;
    o.beta2 = beta2;
    IS(mmix_adamw_init(&s, p), 0);
    mmix_record(m, 1);
    mmix_backward(m, mmix_sum(m, w));
    mmix_record(m, 0);
    REFUSED(m, mmix_adamw_step(&s, &o, (double)NAN, NULL) < 1, "clip is nan");
    CHECK(mmix_adamw_step(&s, &o, 0, NULL) > 0);
    NEAR(mmix_data(w)[0], -1, 1e-6);
    mmix_params_require_grad(p, 0);
    if (sizeof(real) == 4) {                     /* narrow for use, while the state lives */
        IS(mmix_params_narrow(p, MMIX_DTYPE_I8), 0);
        REFUSED(m, mmix_ema(p, p, 0.5), "narrow ones");
    }
    mmix_optimizer_free(&s);
    mmix_params_destroy(p);
    mmix_reset(m);
}
static void plain_sgd(mmix_ctx *m, mmix_params *q)
{
    const real was = mmix_data(q->at[1].tensor)[0];
    mmix_optimizer plain;
    mmix_sgd g = mmix_sgd_config_default();
    g.lr = 1;
    g.momentum = 0;
    g.weight_decay = 0;
    g.dampening = 0.5;
    IS(mmix_sgd_init(&plain, q), 0);
    for (int k = 0; k < 2; k++) {
        mmix_record(m, 1);
        mmix_backward(m, mmix_sum(m, q->at[1].tensor));
        mmix_record(m, 0);
        CHECK(mmix_sgd_step(&plain, &g, 0, NULL) > 0);
        mmix_reset(m);
    }
    NEAR(mmix_data(q->at[1].tensor)[0], (double)was - 2, 8 * EPS);
    mmix_optimizer_free(&plain);
    mmix_params_require_grad(q, 0);
}
static void optimizer(void)
{
    counter c;
    memset(&c, 0, sizeof c);
    mmix_options options = counted(&c);
    options.threads = 2;
    options.seed = 1;
    mmix_ctx *m = mmix_create(&options);
    size_t shapes[3][2] = { { 3, 5 }, { 7, 0 }, { 200, 90 } };
    const char *names[3] = { "w", "b", "big" };
    mmix_params *p = mmix_params_create(m), *q = mmix_params_create(m);
    mmix_optimizer s;
    mmix_adamw o = mmix_adamw_config_default();
    double *value[3], *mom[3], *var[3];
    int t[3] = { 0, 0, 0 };
    doing("adamw");
    NEAR(o.lr + o.weight_decay + o.beta1 + o.beta2 + o.eps, 1e-3 + 0.01 + 0.9 + 0.999 + 1e-8,
         1e-12);
    o.lr = 0.01;
    o.weight_decay = 0.3;
    for (int i = 0; i < 3; i++) {
        mmix_params_add(p, "", names[i], i == 1 ? 1 : 2, shapes[i], MMIX_INIT_NORMAL, 1, 0);
        mmix_params_add(q, "", names[i], i == 1 ? 1 : 2, shapes[i], MMIX_INIT_CONSTANT, 2, 0);
    }
    mmix_params_allocate(p);
    mmix_params_allocate(q);
    IS(mmix_adamw_init(&s, p), 0);
    for (int i = 0; i < 3; i++) {
        size_t n = mmix_count(p->at[i].tensor);
        value[i] = (double *)calloc(n, sizeof(double));
        mom[i] = (double *)calloc(n, sizeof(double));
        var[i] = (double *)calloc(n, sizeof(double));
        for (size_t k = 0; k < n; k++)
            value[i][k] = (double)mmix_data(p->at[i].tensor)[k];
    }
    {                                            /* numbers that no step can be made with */
        const double bad[5] = { (double)NAN, (double)INFINITY, -1, 2, 1 };
        const char *name[5] = { "lr", "weight_decay", "eps", "beta1", "beta2" };
        for (int k = 0; k < 5; k++)
            for (int i = k < 3 ? 0 : 2; i < (k < 3 ? 3 : 5); i++) {
                mmix_adamw wrong = o;
                double *const number[] = { &wrong.lr, &wrong.weight_decay, &wrong.eps,
                                           &wrong.beta1, &wrong.beta2 };
                *number[k] = bad[i];
                IS(mmix_adamw_step(&s, &wrong, 0, NULL), 0);
                CHECK_AT(mmix_error(m) && strstr(mmix_error(m), name[k]), name[k]);
                mmix_error_clear(m);
            }
    }
    for (int step = 0; step < 5; step++) {
        unsigned char skip[3] = { 0, 0, 0 };
        double all = 0, clip = step < 3 ? 3 : 0, norm;
        mmix_tensor *loss = NULL;
        skip[2] = step == 1;
        mmix_reset(m);
        mmix_record(m, 1);
        /* loss Σ x²/2: the gradient is x; the second is left out in step 2 */
        for (int i = 0; i < 3; i++) {
            mmix_tensor *x = p->at[i].tensor;
            mmix_tensor *y = mmix_affine(m, mmix_sum(m, mmix_mul(m, x, x)), 0.5, 0);
            if (i == 1 && step == 2) continue;
            loss = loss ? mmix_add(m, loss, y) : y;
        }
        mmix_backward(m, loss);
        mmix_record(m, 0);
        for (int i = 0; i < 3; i++) {
            size_t n = mmix_count(p->at[i].tensor);
            double square = 0, factor = 1;
            if (i == 1 && step == 2) continue;
            for (size_t k = 0; k < n; k++)
                square += value[i][k] * value[i][k];
            all += square;
            if (skip[i]) continue;
            t[i]++;
            if (clip > 0 && clip / (sqrt(square) + 1e-6) < 1)
                factor = clip / (sqrt(square) + 1e-6);
            for (size_t k = 0; k < n; k++) {
                double g = value[i][k] * factor;
                mom[i][k] = 0.9 * mom[i][k] + 0.1 * g;
                var[i][k] = 0.999 * var[i][k] + 0.001 * g * g;
                if (i != 1)
                    value[i][k] *= 1 - o.lr * o.weight_decay;
                value[i][k] -= o.lr / (1 - pow(0.9, t[i])) * mom[i][k]
                               / (sqrt(var[i][k] / (1 - pow(0.999, t[i]))) + o.eps);
            }
        }
        norm = mmix_adamw_step(&s, &o, clip, step == 1 ? skip : NULL);
        NEAR(norm / sqrt(all), 1, 1e3 * EPS);
        for (int i = 0; i < 3; i++) {
            double worst = 0;
            for (size_t k = 0; k < mmix_count(p->at[i].tensor); k++) {
                double d = fabs((double)mmix_data(p->at[i].tensor)[k] - value[i][k]);
                if (!(d <= worst)) worst = d;
                value[i][k] = (double)mmix_data(p->at[i].tensor)[k];
            }
            COMPARE(worst < 40 * EPS, "values after a step", worst, 40 * EPS);
            CHECK(mmix_grad(p->at[i].tensor) == NULL);
            IS(s.steps[i], t[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        free(value[i]);
        free(mom[i]);
        free(var[i]);
    }
    doing("ema");
    moving_average(p, q);
    /* torch.optim.SGD: dampening damps a buffer, and there is none */
    doing("sgd without momentum");
    plain_sgd(m, q);
    {
        static const double betas[5][2] = { { 0.9, 0.999 }, { 0.9, 0.9999 }, { 0.9, 1 - 1e-6 },
                                            { 0.9, 1 - 2e-8 }, { 1 - 2e-8, 0.999 } };
        for (int i = 0; i < 5; i++) one_step(m, betas[i][0], betas[i][1]);
    }
    mmix_optimizer_free(&s);
    for (size_t n = 1; n <= 5; n++) {            /* no memory for the moments: nothing is kept */
        size_t before = mmix_memory(m).bytes;
        c.limit = c.calls + n - 1;
        CHECK(mmix_adamw_init(&s, q) == -1 || n > 2);
        c.limit = 0;
        CHECK(n > 2 || mmix_error_kind(m) == MMIX_ERROR_MEMORY);
        mmix_error_clear(m);
        if (n > 2) mmix_optimizer_free(&s);
        mmix_params_require_grad(q, 0);
        IS(mmix_memory(m).bytes, before);
    }
    mmix_params_destroy(q);
    q = mmix_params_create(m);
    mmix_params_add(q, "", "other", 2, shapes[0], MMIX_INIT_CONSTANT, 2, 0);
    mmix_params_allocate(q);
    BAD_INT(mmix_ema(q, p, 0.5), "mmix_ema", "different");
    /* a list that could not be made goes through a chain of calls */
    {
        mmix_mlp_layer l;
        CHECK(mmix_mlp_init(&l, NULL, "x.", 4, 4, 4) == -1
              && !mmix_params_add(NULL, "", "x", 2, shapes[0], MMIX_INIT_NORMAL, 1, 0));
        CHECK(!mmix_params_find(NULL, "x") && mmix_params_allocate(NULL) == -1
              && mmix_ema(NULL, p, 0.5) == -1 && mmix_ema(p, NULL, 0.5) == -1);
    }
    mmix_params_destroy(p);
    mmix_params_destroy(q);
    FINE(m);
    mmix_destroy(m);
}

/* Nothing to predict */
static void nothing_to_predict(mmix_ctx *m)
{
    size_t n = 3;
    int32_t none[3] = { 9, 9, 9 };
    mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new2(m, 3, 4), 1)), *loss;
    mmix_record(m, 1);
    loss = mmix_cross_entropy(m, x, mmix_from_i32(m, 1, &n, none), 9);
    IS(mmix_item(loss), 0);
    mmix_backward(m, loss);
    IS(mmix_data(mmix_grad(x))[7], 0);
    mmix_record(m, 0);
}
static void losses(void)
{
    mmix_ctx *m = context(2, 1);
    size_t sizes[2] = { 65536, 8192 };
    double uniform_loss[2] = { 11.0903549, 9.0109133 };
    real *center = (real *)calloc(65536, sizeof(real));
    mmix_dino_loss_stats stats;
    doing("dino loss");
    /* a uniform student: ln K, whatever the teacher says; 2 · (10 - 1) terms */
    for (int k = 0; k < 2; k++) {
        mmix_tensor *s = mmix_fill(mmix_new2(m, 10, sizes[k]), 0.3);
        mmix_tensor *t = mmix_fill_normal(m, mmix_new2(m, 2, sizes[k]), 0.2, 1);
        mmix_tensor *loss;
        memset(center, 0, 65536 * sizeof(real));
        loss = mmix_dino_loss(m, s, t, center, 10, 0.1, 0.04, 0.9, &stats);
        NEAR(mmix_item(loss), uniform_loss[k], 1e-4 * (sizeof(real) == 4 ? 1 : 1e-3));
        for (size_t i = 0; i < sizes[k]; i += 997)
            NEAR(center[i],
                 0.1 * ((double)mmix_data(t)[i] + (double)mmix_data(t)[sizes[k] + i]) / 2, 1e-7);
        NEAR(stats.teacher_kl_uniform, log((double)sizes[k]) - stats.teacher_entropy, 1e-6);
        mmix_reset(m);
    }
    /* against the definition, with the centre before the update */
    {
        size_t K = 11, B = 3, crops = 4;
        mmix_tensor *s = mmix_fill_normal(m, mmix_new2(m, crops * B, K), 0.3, 1);
        mmix_tensor *t = mmix_fill_normal(m, mmix_new2(m, 2 * B, K), 0.1, 2);
        double sum = 0, entropy = 0, q[11], norm = 0;
        real before[11];
        for (size_t i = 0; i < K; i++)
            before[i] = center[i] = (real)(0.02 * (double)i);
        for (size_t b = 0; b < B; b++)
            for (size_t i = 0; i < 2; i++) {
                double z = 0;
                for (size_t k = 0; k < K; k++)
                    z += q[k] = exp(((double)mmix_data(t)[(i * B + b) * K + k] - (double)before[k])
                                    / 0.05);
                for (size_t k = 0; k < K; k++) {
                    q[k] /= z;
                    entropy -= q[k] * log(q[k]) / (2 * (double)B);
                }
                for (size_t v = 0; v < crops; v++) {
                    double over = 0;
                    const real *x = mmix_data(s) + (v * B + b) * K;
                    if (v == i) continue;
                    for (size_t k = 0; k < K; k++)
                        over += exp((double)x[k] / 0.1);
                    for (size_t k = 0; k < K; k++)
                        sum -= q[k] * ((double)x[k] / 0.1 - log(over));
                }
            }
        NEAR(mmix_item(mmix_dino_loss(m, s, t, center, crops, 0.1, 0.05, 0.7, &stats)),
             sum / (double)(B * (2 * crops - 2)), 100 * EPS);
        NEAR(stats.teacher_entropy, entropy, 100 * EPS);
        for (size_t k = 0; k < K; k++) {
            double mean = 0;
            for (size_t r = 0; r < 2 * B; r++)
                mean += (double)mmix_data(t)[r * K + k] / (2 * (double)B);
            NEAR(center[k], 0.7 * (double)before[k] + 0.3 * mean, 4 * EPS);
            norm += (double)center[k] * (double)center[k];
        }
        NEAR(stats.center_norm, sqrt(norm), 10 * EPS);
        {                                        /* the teacher gets no gradient */
            mmix_tensor *loss;
            mmix_require_grad(s);
            mmix_require_grad(t);
            mmix_record(m, 1);
            loss = mmix_dino_loss(m, s, t, center, crops, 0.1, 0.05, 0.7, NULL);
            mmix_backward(m, loss);
            mmix_record(m, 0);
            CHECK(mmix_grad(s) && !mmix_grad(t));
        }
    }
    nothing_to_predict(m);
    FINE(m);
    free(center);
    mmix_destroy(m);
}

/* Logits far from 0 lose no digits: kd_token and cross-entropy with labels and distributions, each
   row shifted by up to ±3,000, against sums in double on the same numbers. */
static void shifted_logits(void)
{
    enum { ROWS = 4, K = 50 };
    mmix_ctx *m = context(1, 5);
    const double T = 2, bound = sizeof(real) == 4 ? 2e-5 : 1e-12;
    const size_t shape[2] = { 1, ROWS };
    int32_t label[ROWS];
    doing("logits shifted by thousands");
    for (int far = 0; far < 3; far++) {
        mmix_tensor *s = mmix_fill_normal(m, mmix_new3(m, 1, ROWS, K), 3, 1);
        mmix_tensor *t = mmix_fill_normal(m, mmix_new3(m, 1, ROWS, K), 3, 2);
        mmix_tensor *q = mmix_softmax(m, mmix_fill_normal(m, mmix_new3(m, 1, ROWS, K), 1, 3), -1);
        double kd = 0, hard = 0, soft = 0;
        for (int r = 0; r < ROWS; r++) {
            real *a = mmix_data(s) + r * K;
            real *b = mmix_data(t) + r * K;
            real *w = mmix_data(q) + r * K;
            double top_a = -1e30, top_b = -1e30, za = 0, zb = 0, z1 = 0;
            label[r] = (7 * r + 3) % K;
            for (int k = 0; k < K; k++) {
                a[k] = (real)((double)a[k] + (far ? 2000 + 333.3 * r : 0));
                if (far == 1)
                    b[k] = (real)((double)b[k] + (2500 - 100.7 * r));
                else if (far)
                    b[k] = (real)((double)b[k] + (-3000 + 77.7 * r));
                top_a = fmax(top_a, (double)a[k]);
                top_b = fmax(top_b, (double)b[k]);
            }
            for (int k = 0; k < K; k++) {
                za += exp(((double)a[k] - top_a) / T);
                zb += exp(((double)b[k] - top_b) / T);
                z1 += exp((double)a[k] - top_a);
            }
            for (int k = 0; k < K; k++) {
                const double lp = ((double)b[k] - top_b) / T - log(zb);
                const double lq = ((double)a[k] - top_a) / T - log(za);
                kd += T * T * exp(lp) * (lp - lq) / ROWS;
                soft += (double)w[k] * (log(z1) - ((double)a[k] - top_a)) / ROWS;
            }
            hard += (log(z1) - ((double)a[label[r]] - top_a)) / ROWS;
        }
        NEAR(mmix_item(mmix_kd_token(m, s, t, NULL, T)), kd, bound * kd);
        NEAR(mmix_item(mmix_cross_entropy(m, s, mmix_from_i32(m, 2, shape, label), -1)), hard,
             bound * hard);
        NEAR(mmix_item(mmix_cross_entropy(m, s, q, -1)), soft, bound * soft);
        FINE(m);
        mmix_reset(m);
    }
    mmix_destroy(m);
}

/* DINO without what it needs. */
static void nothing(void)
{
    mmix_ctx *m = mmix_create(NULL);
    mmix_params *p = mmix_params_create(m);
    mmix_dino_head head;
    mmix_dino_stats stats;
    mmix_picture picture;
    mmix_dino_config config = mmix_dino_config_small_data();
    memset(&picture, 0, sizeof picture);
    doing("nothing");
    memset(&head, 1, sizeof head);
    CHECK(mmix_dino_head_init(&head, NULL, "", 8, 8, 8, 8, 1) == -1 && head.layers == 0);
    BAD_INT(mmix_dino_head_init(NULL, p, "", 8, 8, 8, 8, 1), "mmix_dino_head_init: head is NULL",
            "");
    CHECK(mmix_dino_create(NULL, config) == NULL);
    CHECK(!mmix_dino_backbone(NULL, 1) && !mmix_dino_head_params(NULL, 1)
          && !mmix_dino_center(NULL));
    CHECK(!mmix_dino_config_of(NULL) && !mmix_dino_note(NULL));
    CHECK(mmix_dino_step(NULL, &picture, 1, &stats) == -1);
    CHECK(mmix_dino_step_crops(NULL, NULL, NULL, &stats) == -1);
    CHECK(mmix_dino_set_allreduce(NULL, 0, NULL, NULL) == -1);
    mmix_dino_destroy(NULL);

    config.vision.depth = 1;
    config.prototypes = 8;
    mmix_dino *d = mmix_dino_create(m, config);
    BAD_INT(mmix_dino_step(d, NULL, 1, &stats), "mmix_dino_step: pictures is NULL", "");
    BAD_INT(mmix_dino_step(d, &picture, 0, &stats), "count is 0", "");
    BAD_INT(mmix_dino_step_crops(d, NULL, NULL, &stats), "config.iters is 0", "");
    mmix_dino_destroy(d);
    mmix_params_destroy(p);
    FINE(m);
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "parameters", parameters }, { "schedules", schedules },
                                   { "optimizer", optimizer },   { "nothing", nothing },
                                   { "losses", losses },         { "shifted", shifted_logits } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
