/* vision.c - backbones and their tokens; DINO runs: stopped and resumed, cut files, learning,
   collapse */
#include "models.h"

#define FILE_A "build/vision_a.safetensors"
#define FILE_B "build/vision_b.safetensors"

static void token_places(mmix_ctx *m)
{
    size_t grids[4] = { 14, 6, 7, 24 }, total[4] = { 198, 38, 51, 578 },
           read[4] = { 98, 18, 25, 288 };
    mmix_vision_config c = small_vision(MMIX_MIXER_SSD);
    mmix_vision *v;
    c.depth = 1;
    c.patch = 1;
    v = mmix_vision_create(m, c);
    for (int i = 0; i < 4; i++) {
        mmix_features f =
            mmix_vision_forward(m, v,
                                mmix_fill_normal(m, mmix_new4(m, 1, 3, grids[i], grids[i]), 1,
                                                 1),
                                NULL);
        IS(mmix_shape(f.tokens, 1), total[i]);
        SAME(f.token, mmix_slice(m, f.tokens, 1, read[i], 1));
        mmix_reset(m);
    }
    mmix_vision_destroy(v);
}
/* Drop path: a share of zeros, else 1/(1 - rate) */
static void drop_path_scales(mmix_ctx *m)
{
    mmix_tensor *s = mmix_drop_path_scales(m, 4000, 0.3, 1, 2);
    int zeros = 0;
    for (int i = 0; i < 4000; i++) {
        zeros += mmix_data(s)[i] == 0;
        if (mmix_data(s)[i] != 0)
            NEAR(mmix_data(s)[i], 1 / 0.7, 4 * EPS);
    }
    NEAR(zeros, 1200, 120);
    CHECK(mmix_drop_path_scales(m, 5, 0, 1, 2) == NULL && !mmix_error(m));
}
static void backbones(void)
{
    static const char *const names[5] = { "ViT", "LinearViT", "DinoVim", "DinoVim, middle token",
                                          "DinoVim, token in front" };
    size_t sides[8][2] = { { 16, 16 }, { 16, 24 }, { 12, 8 }, { 4, 4 },
                           { 33, 19 }, { 28, 28 }, { 4, 40 }, { 23, 7 } };
    mmix_ctx *m = context(2, 4);
    for (int k = 0; k < 5; k++) {
        mmix_vision_config c = small_vision(k < 2 ? k : MMIX_MIXER_SSD);
        mmix_vision *v;
        doing(names[k]);
        c.depth = 3;
        c.drop_path = 0.5;
        if (k > 2) c.class_token = k == 3 ? MMIX_CLASS_MIDDLE : MMIX_CLASS_FIRST;
        v = mmix_vision_create(m, c);
        CHECK(mmix_vision_config_of(v)->depth == 3);
        for (int i = 0; i < 8; i++) {
            size_t gh = sides[i][0] / 4;
            size_t gw = sides[i][1] / 4;
            size_t n = gh * gw;
            size_t extra = k == 2 ? 2 : 1;
            size_t at;
            if (k == 2) at = (n + 1) / 2;
            else if (k == 3) at = n / 2;
            else at = 0;
            mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, sides[i][0], sides[i][1]),
                                                  1, 5);
            mmix_vision_options o;
            mmix_features f, g;
            memset(&o, 0, sizeof o);
            o.n_last = 2;
            f = mmix_vision_forward(m, v, image, NULL);
            FINE(m);
            if (!f.tokens) continue;
            IS(f.grid_h, gh);
            IS(f.grid_w, gw);
            IS(mmix_shape(f.tokens, 1), n + extra);
            IS(mmix_shape(f.patches, 1), n);
            CHECK(f.intermediate == NULL && mmix_ndim(f.token) == 2 && mmix_shape(f.token, 0) == 2
                  && mmix_shape(f.token, 1) == 16);
            SAME(f.token, mmix_slice(m, f.tokens, 1, at, 1));
            for (size_t t = 0, p = 0; t < n + extra; t++)
                if (t != at && !(k == 2 && t == 0)) {
                    SAME(mmix_slice(m, f.patches, 1, p, 1), mmix_slice(m, f.tokens, 1, t, 1));
                    p++;
                }
            g = mmix_vision_forward(m, v, image, &o);
            SAME(g.tokens, f.tokens);
            CHECK(g.intermediate && mmix_shape(g.intermediate, 0) == 2
                  && mmix_shape(g.intermediate, 1) == 32);
            if (k < 2)
                SAME(mmix_slice(m, g.intermediate, 1, 16, 16), f.token);
            /* one picture of the batch alone */
            g = mmix_vision_forward(m, v, mmix_slice(m, image, 0, 1, 1), NULL);
            ALIKE(g.tokens, mmix_slice(m, f.tokens, 0, 1, 1), 100 * EPS);
            mmix_record(m, 1);
            mmix_params_require_grad(mmix_vision_params(v), 1);
            /* the same when recorded */
            g = mmix_vision_forward(m, v, image, NULL);
            SAME(g.tokens, f.tokens);
            mmix_record(m, 0);
            mmix_params_require_grad(mmix_vision_params(v), 0);
            mmix_reset(m);
        }
        {
            mmix_vision_options o;
            mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 8, 3, 16, 16), 1, 5), *a, *b;
            memset(&o, 0, sizeof o);
            o.train = 1;
            o.step = 4;
            a = mmix_vision_forward(m, v, image, &o).token;
            b = mmix_vision_forward(m, v, image, &o).token;
            SAME(a, b);
            CHECK(apart(a, mmix_vision_forward(m, v, image, NULL).token) > 1e-4);
            o.step = 5;
            CHECK(apart(a, mmix_vision_forward(m, v, image, &o).token) > 1e-4);
            o.stream = 1;
            b = mmix_vision_forward(m, v, image, &o).token;
            o.stream = 0;
            CHECK(apart(b, mmix_vision_forward(m, v, image, &o).token) > 1e-4);
            FINE(m);
            o.n_last = 4;
            BAD(mmix_vision_forward(m, v, image, &o).token, "n_last is 4, expected 0 to 3",
                "mmix_vision_forward");
            BAD(mmix_vision_forward(m, v, mmix_new4(m, 1, 3, 3, 40), NULL).token,
                "the shorter side of a picture is 3, expected 4", "mmix_vision_forward");
            BAD(mmix_vision_forward(m, v, mmix_new4(m, 1, 4, 16, 16), NULL).token,
                "image has shape (1, 4, 16, 16)", "mmix_vision");
            BAD(mmix_vision_forward(m, v, NULL, NULL).token, "image is NULL", "mmix_vision");
            mmix_error_clear(m);
        }
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    doing("token positions");
    token_places(m);
    doing("wrong configurations");
    {
        mmix_vision_config c = small_vision(MMIX_MIXER_SOFTMAX);
        size_t bytes = mmix_memory(m).bytes;
        c.heads = 3;
        BAD(mmix_vision_create(m, c), "dim 16, 3 heads; expected heads that divide", "");
        c.heads = 0;
        BAD(mmix_vision_create(m, c), "0 heads", "");
        c.heads = 2;
        c.class_token = MMIX_CLASS_MIDDLE;
        BAD(mmix_vision_create(m, c), "mmix_vision_create", "class_token");
        c = small_vision(MMIX_MIXER_SSD);
        c.mamba.head_dim = 7;
        BAD(mmix_vision_create(m, c), "mamba2", "7");
#define WRONG(kind, change, text) \
    (c = small_vision(kind), change, BAD(mmix_vision_create(m, c), "mmix_vision_create", text))
        WRONG(MMIX_MIXER_SOFTMAX, c.depth = 0, "depth is 0, expected 1 to 1000");
        WRONG(MMIX_MIXER_SOFTMAX, c.depth = 1001, "depth is 1001, expected");
        WRONG(MMIX_MIXER_SOFTMAX, c.depth = (size_t)-1 / 8, "depth is");
        WRONG(MMIX_MIXER_SOFTMAX, c.dim = SIZE_MAX, "dim is");
        WRONG(MMIX_MIXER_SOFTMAX, c.patch = 5000, "patch is 5000");
        WRONG(MMIX_MIXER_SOFTMAX, c.grid = SIZE_MAX, "grid is");
        WRONG(MMIX_MIXER_SOFTMAX, c.eps = -1, "eps is -1");
        WRONG(MMIX_MIXER_SOFTMAX, c.drop_path = 1, "drop_path is 1");
        WRONG(MMIX_MIXER_SOFTMAX, c.drop_path = NAN, "drop_path is");
        WRONG(MMIX_MIXER_SOFTMAX, c.mlp_ratio = -1, "mlp_ratio");
        WRONG(MMIX_MIXER_SSD, c.mamba.d_state = SIZE_MAX, "mamba.d_state is");
        WRONG(MMIX_MIXER_SSD, c.mamba.groups = SIZE_MAX, "mamba.groups is");
        WRONG(MMIX_MIXER_SSD, c.class_token = 7, "class_token is 7");
        WRONG(MMIX_MIXER_SOFTMAX, c.mixer = 5, "mixer is 5");
#undef WRONG
        IS(mmix_memory(m).bytes, bytes);
        mmix_vision_destroy(NULL);
    }
    /* what lies under a mask isn't seen; what doesn't is */
    doing("masked patches");
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++) {
        mmix_vision *v = mmix_vision_create(m, small_vision(mixer));
        mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 16), 1, 1), *plain;
        mmix_vision_options o;
        memset(&o, 0, sizeof o);
        plain = mmix_vision_forward(m, v, image, NULL).tokens;
        o.masked = mmix_fill(mmix_new2(m, 2, 16), 0);
        o.mask_token = mmix_fill_normal(m, mmix_new1(m, 16), 1, 2);
        SAME(plain, mmix_vision_forward(m, v, image, &o).tokens);
        mmix_data(o.masked)[16 + 5] = 1;         /* of the second picture row 1, column 1 */
        for (int k = 0; k < 2; k++) {
            mmix_tensor *before = mmix_vision_forward(m, v, image, &o).tokens, *after;
            COMPARE(apart(plain, before) > 1e-4, "a mask is seen", apart(plain, before), 1e-4);
            SAME(mmix_slice(m, plain, 0, 0, 1), mmix_slice(m, before, 0, 0, 1));
            /* beside it; in it */
            mmix_data(image)[(size_t)(3 * 256 + (k ? 4 : 7) * 16 + (k ? 8 : 4))] += 1;
            after = mmix_vision_forward(m, v, image, &o).tokens;
            IS(apart(before, after) > 1e-5, k);
        }
        BAD(mmix_vision_forward(m, v, mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 20), 1, 1), &o)
                .token,
            "mmix_vision_forward", "masked has shape (2, 16)");
        o.mask_token = NULL;
        BAD(mmix_vision_forward(m, v, image, &o).token, "mmix_vision_forward",
            "mask_token is NULL");
        mmix_error_clear(m);
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    drop_path_scales(m);
    FINE(m);
    mmix_destroy(m);
}

/* ---- DINO ---- */

static size_t file_size(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t n;
    if (!f) return 0;
    fseek(f, 0, SEEK_END);
    n = (size_t)ftell(f);
    fclose(f);
    return n;
}
static unsigned char *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *b;
    *n = file_size(path);
    b = (unsigned char *)malloc(*n + 1);
    if (f) {
        *n = fread(b, 1, *n, f);
        fclose(f);
    }
    return b;
}
static void file_put(const char *path, const unsigned char *b, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) return;
    fwrite(b, 1, n, f);
    fclose(f);
}

/* Many short jobs one after another: every task runs once, with its own job's argument. */
static void dino(void)
{
    mmix_ctx *m = context(2, 9);
    mmix_dino *d, *e;
    mmix_dino_stats s, u;
    mmix_dino_config c;
    draw();
    /* interrupted and not */
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++) {
        size_t bytes = 0;
        uint64_t frozen = 0, other = 0, teacher = 0;
        int result = 1;
        mmix_tensor *last, *free_one;
        doing("dino run");
        c = small_dino(mixer);
        /* off by default; on, the teacher sees other depths */
        c.teacher_drop_path = 1;
        CHECK(!small_dino(mixer).teacher_drop_path);
        if (!SLOW || mixer == MMIX_MIXER_SSD)
            CHECK(train(m, c, 1) != train(m, small_dino(mixer), 1));
        c.teacher_drop_path = mixer == MMIX_MIXER_LINEAR;
        c.patch_weight = mixer == MMIX_MIXER_SSD;      /* iBOT, too */
        d = mmix_dino_create(m, c);
        FINE(m);
        if (!d) continue;
        IS(mmix_params_find(mmix_dino_head_params(d, 0), "mask_token") != NULL,
           mixer == MMIX_MIXER_SSD);
        last = mmix_params_find(mmix_dino_head_params(d, 0), "last_layer.weight_v");
        free_one = mmix_params_find(mmix_dino_head_params(d, 0), "mlp.0.weight");
        IS(hash_params(mmix_vision_params(mmix_dino_backbone(d, 0)), 1)
               == hash_params(mmix_vision_params(mmix_dino_backbone(d, 1)), 1),
           1);
        frozen = hash_of(mmix_data(last), mmix_count(last), 1);
        other = hash_of(mmix_data(free_one), mmix_count(free_one), 1);
        teacher = hash_params(mmix_dino_head_params(d, 1), 1);
        for (int i = 0; result == 1; i++) {
            /* after the first epoch the prototypes have not moved; the rest has */
            if (i == 3) {
                IS(hash_of(mmix_data(last), mmix_count(last), 1) == frozen, 1);
                IS(hash_of(mmix_data(free_one), mmix_count(free_one), 1) == other, 0);
                IS(hash_params(mmix_dino_head_params(d, 1), 1) == teacher, 0);
            }
            if (i == 4) {
                IS(hash_of(mmix_data(last), mmix_count(last), 1) == frozen, 0);
                IS(mmix_dino_save(d, FILE_A, "a note, \"quoted\"\n"), 0);
                FINE(m);
            }
            if (i == 6) bytes = mmix_memory(m).bytes;        /* what saving took is in it */
            result = mmix_dino_step(d, pictures, PICTURES, &s);
            FINE(m);
            if (result == 1) {
                IS(s.step, i);
                IS(s.epoch, i / 3);
                IS(s.steps, 12);
                NEAR(s.lr, mmix_schedule_cosine(c.lr * 4 / 256, c.min_lr, 4, 3, 1, 0, (size_t)i),
                     1e-15);
                NEAR(s.momentum, mmix_schedule_cosine(c.momentum, 1, 4, 3, 0, 0, (size_t)i), 1e-15);
                NEAR(s.weight_decay,
                     mmix_schedule_cosine(c.weight_decay, c.weight_decay_end, 4, 3, 0, 0,
                                          (size_t)i),
                     1e-15);
                CHECK(s.loss > 0 && s.gradient_norm > 0 && s.center_norm > 0
                      && s.teacher_entropy > 0 && !s.collapse);
                CHECK(s.teacher_entropy <= log(24.0) + 1e-5);
                CHECK(mixer == MMIX_MIXER_SSD ? s.patch_loss > 0.1 : s.patch_loss == 0);
            }
            else IS(i, 12);
            if (i > 6) IS(mmix_memory(m).bytes, bytes);
        }
        IS(result, 0);
        mmix_reset(m);
        mmix_seed_set(m, 123);                   /* the run's own seed counts */
        e = mmix_dino_load(m, FILE_A);
        FINE(m);
        if (e) {
            CHECK(!strcmp(mmix_dino_note(e), "a note, \"quoted\"\n")
                  && !strcmp(mmix_dino_note(d), ""));
            const mmix_dino_config *one = mmix_dino_config_of(d), *two = mmix_dino_config_of(e);
            IS(memcmp(one, two, offsetof(mmix_dino_config, teacher_drop_path)), 0);
            /* behind it the struct has a gap */
            IS(one->teacher_drop_path, two->teacher_drop_path);
            IS(one->seed == two->seed, 1);
            while (mmix_dino_step(e, pictures, PICTURES, &u) == 1);
            IS(hash_dino(e, 1) == hash_dino(d, 1), 1);
            FINE(m);
        }
        mmix_dino_destroy(e);
        mmix_dino_destroy(d);
        mmix_reset(m);
    }
    doing("cut run files");
    {
        size_t n, bytes = 0;
        unsigned char *b = file_bytes(FILE_A, &n), was;
        mmix_options o;
        mmix_ctx *small;
        memset(&o, 0, sizeof o);
        o.threads = 1;
        o.allocator.byte_limit = 64 << 20;
        small = mmix_create(&o);
        for (size_t i = 0; i < 160; i += SLOW && i > 2 ? 3 : 1) {
            size_t cut = i < 60 ? i * 40 : (size_t)((double)n * (double)(i - 60) / 100);
            if (cut >= n) continue;
            if (i == 159) cut = n - 1;
            file_put(FILE_B, b, cut);
            e = mmix_dino_load(small, FILE_B);
            COMPARE(!e && mmix_error_kind(small) == MMIX_ERROR_FILE, "a cut file is refused",
                    (double)cut, (double)n);
            mmix_dino_destroy(e);
            mmix_error_clear(small);
            mmix_reset(small);
            if (i == 2) bytes = mmix_memory(small).bytes;
            if (i > 2) IS(mmix_memory(small).bytes, bytes);
        }
        state = 3;
        /* a changed byte of the header: refused, or it makes no harm */
        for (int i = 0; i < (SLOW ? 100 : 400); i++) {
            size_t at = any(0, 7 + (size_t)b[0] + 256 * (size_t)b[1] + 65536 * (size_t)b[2]);
            was = b[at];
            b[at] = (unsigned char)any(0, 1) ? (unsigned char)(b[at] ^ (1 << any(0, 7)))
                                             : (unsigned char)"0123456789-.e"[any(0, 12)];
            file_put(FILE_B, b, n);
            e = mmix_dino_load(small, FILE_B);
            CHECK((e != NULL) == (mmix_error(small) == NULL));
            if (e && any(0, 3) == 0)
                mmix_dino_step(e, pictures, PICTURES, NULL);
            mmix_dino_destroy(e);
            mmix_error_clear(small);
            b[at] = was;
            mmix_reset(small);
        }
        bytes = mmix_memory(small).bytes;
        e = mmix_dino_load(small, "no_such_file");
        CHECK(!e && mmix_error_kind(small) == MMIX_ERROR_FILE);
        mmix_error_clear(small);
        mmix_destroy(small);
        free(b);
    }
    doing("dino, wrong use");
    mmix_dino_destroy(NULL);
#define WRONG(change, text)                      \
    (c = small_dino(MMIX_MIXER_SOFTMAX), change, \
     BAD(mmix_dino_create(m, c), "mmix_dino_create", text))
    WRONG(c.batch = 0, "batch is 0, expected 1 to 2147483647");
    WRONG(c.teacher_temp = 0, "teacher_temp is 0");
    WRONG(c.head_layers = 9, "head_layers is 9, expected 1 to 8");
    WRONG(c.prototypes = 1, "prototypes is 1");
    WRONG(c.student_temp = NAN, "student_temp is");
    WRONG(c.epochs = SIZE_MAX, "epochs is");
    WRONG(c.iters = SIZE_MAX, "iters is");
    WRONG(c.clip = HUGE_VAL, "clip is inf");
    WRONG(c.lr = NAN, "lr is");
    WRONG(c.momentum = 1.5, "momentum is 1.5, expected 0 to 1");
    WRONG(c.center_momentum = -0.1, "center_momentum is");
    WRONG(c.weight_decay_end = HUGE_VAL, "weight_decay_end is inf");
#undef WRONG
    c = small_dino(MMIX_MIXER_SOFTMAX);
    c.vision.heads = 3;
    BAD(mmix_dino_create(m, c), "3 heads", "");
    c = small_dino(MMIX_MIXER_SOFTMAX);
    c.iters = 0;
    d = mmix_dino_create(m, c);
    BAD_INT(mmix_dino_step(d, NULL, 0, &s) == -1, "mmix_dino_step", "pictures is NULL");
    BAD_INT(mmix_dino_step_crops(d, mmix_fill(mmix_new4(m, 4, 3, 16, 16), 0), NULL, &s) == -1,
            "mmix_dino_step_crops", "iters");
    /* a call that failed does not say how long the run is */
    {
        const mmix_picture none[1] = {{NULL, 16, 16}};
        CHECK(mmix_dino_step(d, none, 1, &s) == -1);
        mmix_error_clear(m);
    }
    IS(mmix_dino_step(d, pictures, PICTURES, &s), 1);
    IS(s.steps, 4 * (PICTURES / 4));
    mmix_reset(m);
    BAD_INT(mmix_dino_step_crops(d, mmix_fill(mmix_new4(m, 3, 3, 16, 16), 0), NULL, &s) == -1,
            "3 global", "mmix_dino_step");
    BAD_INT(mmix_dino_step_crops(d, mmix_fill(mmix_new4(m, 4, 3, 16, 16), 0),
                                 mmix_fill(mmix_new4(m, 3, 3, 8, 8), 0), &s)
                == -1,
            "3 local", "mmix_dino_step");
    BAD_INT(mmix_dino_step_crops(d, NULL, NULL, &s) == -1, "global is NULL", "mmix_dino_step");
    /* global crops alone */
    IS(mmix_dino_step_crops(d, mmix_fill_normal(m, mmix_new4(m, 4, 3, 16, 16), 1, 1), NULL, &s), 1);
    IS(s.step, 1);
    mmix_reset(m);
    IS(mmix_dino_save(d, "no_such_folder/x", NULL), -1);
    IS(mmix_error_kind(m), MMIX_ERROR_FILE);
    mmix_error_clear(m);
    /* a step that fails leaves the run as it was, gradients too */
    {
        const uint64_t before = hash_dino(d, 1);
        real *x = &mmix_data(mmix_vision_params(mmix_dino_backbone(d, 0))->at[2].tensor)[0];
        real was = *x;
        mmix_params *head = mmix_dino_head_params(d, 0);
        *x = (real)NAN;
        BAD_INT(mmix_dino_step(d, pictures, PICTURES, &s) == -1, "not a number", "mmix_dino_step");
        *x = was;
        IS(hash_dino(d, 1) == before, 1);
        for (size_t i = 0; i < head->count; i++)
            CHECK(!mmix_grad(head->at[i].tensor));
        IS(mmix_dino_step(d, pictures, PICTURES, &s), 1);
        CHECK(s.loss > 0 && s.gradient_norm > 0);
    }
    mmix_dino_destroy(d);
    mmix_reset(m);
    doing("learning");
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++) {
        double first = 0, end = 0;
        c = small_dino(mixer);
        c.epochs = 20;
        c.batch = 8;
        c.lr = 0.15;
        c.vision.drop_path = 0;
        c.freeze_last_layer = 0;
        /* teacher and centre stay: else the target moves, and the loss with it */
        c.momentum = 1;
        c.center_momentum = 1;
        d = mmix_dino_create(m, c);
        for (int i = 0; i < 60 && mmix_dino_step(d, pictures, PICTURES, &s) == 1; i++) {
            if (i < 10) first += s.loss / 10;
            if (i >= 50) end += s.loss / 10;
        }
        FINE(m);
        COMPARE(end < 0.8 * first && end > 0, "the loss falls", end, first);
        mmix_dino_destroy(d);
    }
    /* forced: an infinitely sure teacher; a teacher and student that know nothing */
    for (int k = 0; k < 2; k++) {
        int reported = -1;
        doing(k ? "collapse to uniform" : "collapse to one");
        c = small_dino(MMIX_MIXER_SOFTMAX);
        c.epochs = 20;
        c.lr = 0;
        c.min_lr = 0;
        c.teacher_temp = c.teacher_temp_warm = k ? 1e4 : 1e-7;
        if (k) c.student_temp = 1e4;
        d = mmix_dino_create(m, c);
        for (int i = 0; i < 60 && mmix_dino_step(d, pictures, PICTURES, &s) == 1; i++)
            if (s.collapse && reported < 0) reported = i;
        FINE(m);
        COMPARE(reported > 5 && reported < 60, "reported at step", reported, 49);
        if (s.collapse)
            CHECK(strstr(s.collapse, k ? "ln K" : "entropy") != NULL);
        if (k) NEAR(s.loss, log(24.0), 1e-3);
        mmix_dino_destroy(d);
    }
    FINE(m);
    mmix_destroy(m);
    remove(FILE_A);
    remove(FILE_B);
}

/* What a rank of a run in shards hands in, array by array, and what it gets back. */
typedef struct rank { real *sent[2]; size_t count, length[2]; } rank;
typedef struct ranks { rank at[3], *now; size_t reached; int fails; } ranks;
static int send_share(void *user, real *x, size_t n)
{
    rank *r = ((ranks *)user)->now;
    r->sent[r->count] = (real *)malloc(n * sizeof *x);
    memcpy(r->sent[r->count], x, n * sizeof *x);
    r->length[r->count++] = n;
    return 0;
}
/* as the header says: in the order of the shards */
static int add_shares(void *user, real *x, size_t n)
{
    ranks *r = (ranks *)user;
    size_t k = r->reached++;
    for (size_t s = 0; s < 3; s++)
        if (r->at[s].count <= k || r->at[s].length[k] != n)
            return -1;
    for (size_t i = 0; i < n; i++)
        x[i] = (r->at[0].sent[k][i] + r->at[1].sent[k][i]) + r->at[2].sent[k][i];
    return r->fails;
}
static void shards(void)
{
    mmix_ctx *m = context(2, 9);
    mmix_dino_stats s, u;
    draw();
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++) {
        mmix_dino_config c = small_dino(mixer);
        mmix_dino *alone, *whole, *shared, *each;
        doing("one process, three ranks");
        c.batch = 5;                             /* shards of 2, 2 and 1 */
        c.read = mixer % 3;
        c.patch_weight = 0.5 * mixer;
        /* it is drawn anew for other slices */
        if (mixer != MMIX_MIXER_LINEAR) c.vision.drop_path = 0;
        whole = mmix_dino_create(m, c);
        c.shards = 3;
        alone = mmix_dino_create(m, c);
        shared = mmix_dino_create(m, c);
        FINE(m);
        for (int step = 0; step < 4; step++) {
            ranks r;
            memset(&r, 0, sizeof r);
            IS(mmix_dino_save(shared, FILE_A, NULL), 0);
            for (size_t k = 0; k < 3; k++) {     /* each rank's share, from a copy of the run */
                each = mmix_dino_load(m, FILE_A);
                r.now = &r.at[k];
                IS(mmix_dino_set_allreduce(each, k, send_share, &r), 0);
                IS(mmix_dino_step(each, pictures, PICTURES, NULL), 1);
                mmix_dino_destroy(each);
            }
            CHECK(r.at[0].count == 1 && r.at[1].count == 1 && r.at[2].count == 1);
            mmix_dino_set_allreduce(shared, 1, add_shares, &r);
            r.fails = 1;
            uint64_t was = hash_dino(shared, 1);
            REFUSED_AS(MMIX_ERROR_INTERRUPTED, m,
                       mmix_dino_step(shared, pictures, PICTURES, &u) == -1, "mmix_dino_step",
                       "3 shards");
            IS(hash_dino(shared, 1) == was, 1);
            r.fails = 0;
            r.reached = 0;
            IS(mmix_dino_step(shared, pictures, PICTURES, &u), 1);
            IS(r.reached, r.at[0].count);
            IS(mmix_dino_step(alone, pictures, PICTURES, &s), 1);
            IS(hash_stats(&s, 1) == hash_stats(&u, 1), 1);
            IS(hash_dino(alone, 1) == hash_dino(shared, 1), 1);
            IS(mmix_dino_step(whole, pictures, PICTURES, &u), 1);
            int same = !step && c.vision.drop_path <= 0;     /* but the order of the sum */
            if (same)
                NEAR(s.loss / u.loss, 1, 1e-5);
            if (same)
                NEAR(s.gradient_norm / u.gradient_norm, 1, 1e-4);
            if (same && mixer)
                NEAR(s.patch_loss / u.patch_loss, 1, 1e-5);
            for (size_t k = 0; k < 3; k++)
                for (size_t i = 0; i < r.at[k].count; i++)
                    free(r.at[k].sent[i]);
        }
        BAD_INT(mmix_dino_set_allreduce(alone, 3, NULL, NULL) == -1, "mmix_dino_set_allreduce",
                "shard is 3");
        mmix_dino_destroy(whole);
        mmix_dino_destroy(alone);
        mmix_dino_destroy(shared);
        c.shards = 6;
        alone = mmix_dino_create(m, c);
        BAD_INT(mmix_dino_step(alone, pictures, PICTURES, &u) == -1, "config.shards is 6",
                "expected 0 to 5");
        mmix_dino_destroy(alone);
    }
    /* its loss and gradient are 0 where nothing is; a whole share of 1 is nearly all */
    doing("how much iBOT hides");
    for (int k = 0; k < 3; k++) {
        mmix_dino_config c = small_dino(MMIX_MIXER_SOFTMAX);
        c.patch_weight = 1;
        c.mask_chance = k > 0;
        c.mask_part[0] = c.mask_part[1] = k == 2;
        mmix_dino *d = mmix_dino_create(m, c);
        IS(mmix_dino_step(d, pictures, PICTURES, &s), 1);
        COMPARE(k == 2 ? s.patch_loss > 1 : s.patch_loss == 0, "patch loss", s.patch_loss, k);
        mmix_dino_destroy(d);
    }
    doing("crops by the caller");                /* the same crops, the same step */
    for (int k = 0; k < 2; k++) {
        mmix_dino_config c = small_dino(MMIX_MIXER_SOFTMAX);
        size_t order[4] = { 0, 1, 2, 3 };
        mmix_tensor *global, *local;
        c.shards = k ? 2 : 0;
        c.iters = 1;
        mmix_dino *made = mmix_dino_create(m, c), *given = mmix_dino_create(m, c);
        /* of one picture every order is the same */
        IS(mmix_dino_step(made, pictures, 1, &s), 1);
        mmix_reset(m);
        for (size_t i = 0; i < 4; i++)
            order[i] = 0;
        mmix_seed_set(m, c.seed);
        global = mmix_new4(m, 8, 3, 16, 16);
        local = mmix_new4(m, 8, 3, 8, 8);
        IS(mmix_augment_batch(m, &c.augment, pictures, order, 0, 4, 0, global, local), 0);
        IS(mmix_dino_step_crops(given, global, local, &u), 1);
        IS(hash_stats(&s, 1) == hash_stats(&u, 1), 1);
        IS(hash_dino(made, 1) == hash_dino(given, 1), 1);
        mmix_dino_destroy(made);
        mmix_dino_destroy(given);
    }
    FINE(m);
    mmix_destroy(m);
    remove(FILE_A);
}
/* A run that is given more epochs: what it does before it ends is that of a run that was planned so
   from the start, and one that has ended goes on by the longer plan, from a file, too. */
static void extended(void)
{
    mmix_ctx *m = context(1, 9);
    mmix_dino_config c = small_dino(MMIX_MIXER_LINEAR);
    mmix_dino_stats s, u;
    draw();
    c.epochs = 2;
    c.iters = 2;
    c.warmup_epochs = 1;
    mmix_dino *d = mmix_dino_create(m, c);
    mmix_dino *early = mmix_dino_create(m, c);
    c.epochs = 3;
    mmix_dino *planned = mmix_dino_create(m, c);
    FINE(m);
    doing("extended at its start");
    IS(mmix_dino_extend(early, 3), 0);
    IS((int)mmix_dino_config_of(early)->epochs, 3);
    for (int step = 0; step < 6; step++) {
        IS(mmix_dino_step(early, pictures, PICTURES, &s), 1);
        IS(mmix_dino_step(planned, pictures, PICTURES, &u), 1);
        IS(hash_stats(&s, 1) == hash_stats(&u, 1), 1);
    }
    IS(hash_dino(early, 1) == hash_dino(planned, 1), 1);
    IS(mmix_dino_step(early, pictures, PICTURES, &s), 0);

    doing("extended at its end");
    for (int step = 0; step < 4; step++)
        IS(mmix_dino_step(d, pictures, PICTURES, &s), 1);
    IS(mmix_dino_step(d, pictures, PICTURES, &u), 0);
    BAD_INT(mmix_dino_extend(d, 2), "mmix_dino_extend: epochs is 2", "");
    IS(mmix_dino_extend(d, 4), 0);
    IS(mmix_dino_save(d, FILE_A, NULL), 0);
    mmix_dino *again = mmix_dino_load(m, FILE_A);
    IS(mmix_dino_step(d, pictures, PICTURES, &u), 1);
    COMPARE(u.step == 4 && u.steps == 8, "steps", (double)u.steps, 8);
    double lr = mmix_schedule_cosine(c.lr * (double)c.batch / 256, c.min_lr, 4, 2, 1, 0, 4);
    NEAR(u.lr / lr, 1, 1e-12);
    COMPARE(u.lr > s.lr, "the rate after the extension", u.lr, s.lr);
    IS(mmix_dino_step(again, pictures, PICTURES, &s), 1);
    IS(hash_dino(again, 1) == hash_dino(d, 1), 1);
    CHECK(mmix_dino_extend(NULL, 3) == -1);
    mmix_dino_destroy(again);
    mmix_dino_destroy(planned);
    mmix_dino_destroy(early);
    mmix_dino_destroy(d);
    FINE(m);
    mmix_destroy(m);
    remove(FILE_A);
}
/* Deviations of what a network begins with, and positions of sines and cosines. */
static void starts(void)
{
    mmix_ctx *m = context(1, 3);
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++)
        for (int k = 0; k < 2; k++) {
            mmix_vision_config c = small_vision(mixer);
            c.dim = 64;
            c.deviation = k ? 0.05 : 0;
            c.sincos = k ? 0.3 : 0;
            mmix_vision *v = mmix_vision_create(m, c);
            const int mamba = mixer >= MMIX_MIXER_SSD;
            const mmix_tensor *w =
                mmix_params_find(mmix_vision_params(v),
                                 mamba ? "cls_token" : "blocks.1.mlp.fc1.weight");
            const mmix_tensor *p = mmix_params_find(mmix_vision_params(v), "pos_embed");
            double sum = 0, square = 0;
            for (size_t i = 0; i < mmix_count(w); i++)
                square += (double)mmix_data(w)[i] * (double)mmix_data(w)[i] / (double)mmix_count(w);
            const double wanted = k ? 0.05 : 0.02;
            const double bound = mamba ? 0.4 : 0.05;
            COMPARE(fabs(sqrt(square) / wanted - 1) < bound, "deviation", sqrt(square), wanted);
            for (size_t i = 64; i < mmix_count(p); i++)
                sum += fabs((double)mmix_data(p)[i]);
            /* token 1 + row 4 + column, a Vim's class token in the middle; He et al.: sin x, cos x,
               sin y, cos y */
            for (size_t i = 0; k && i < 64 * 16; i++) {
                size_t token = i / 64, f = i % 64;
                double at = (double)(f < 32 ? token % 4 : token / 4)
                            * pow(10000, -(double)(f % 16) / 16);
                size_t row = mixer == MMIX_MIXER_SELECTIVE ? token + (token >= 8) : token + 1;
                NEAR((double)mmix_data(p)[64 * row + f], 0.3 * (f / 16 % 2 ? cos(at) : sin(at)), 1e-6);
            }
            if (!k)
                COMPARE(sum / (64 * 16) < 0.03, "mean |position|", sum / (64 * 16), 0.016);
            mmix_vision_destroy(v);
        }
    FINE(m);
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "backbones", backbones }, { "dino", dino }, { "shards", shards },
        { "extended", extended }, { "starts", starts }
    };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
