/* blocks.c - backbones whose attention was replaced, block by block: what must equal the teacher
   does, M has the entries that windows allow, and files, portions and gradients know the new blocks
   */
#include "models.h"

#define PATH "build/blocks_test.safetensors"
static const double TOL = sizeof(real) == 4 ? 2e-6 : 1e-13;
enum { GH = 5, GW = 7, PATCH = 4, DEPTH = 3, D = 16, HEADS = 2 };

/* A ViT of DINOv2's or DINOv3's form, with values that make attention uneven. */
static mmix_vision *teacher(mmix_ctx *m, int registers, int axial, int linear)
{
    mmix_vision_config c = axial ? mmix_vision_config_dinov3(384, registers > 1)
                                 : mmix_vision_config_dinov2(384, (size_t)registers);
    c.mixer = linear ? MMIX_MIXER_LINEAR : MMIX_MIXER_SOFTMAX;
    c.dim = D;
    c.depth = DEPTH;
    c.heads = HEADS;
    c.patch = PATCH;
    c.grid = 4;
    c.mlp_ratio = 2;
    c.registers = (size_t)registers;
    c.deviation = 0.4;
    return mmix_vision_create(m, c);
}
static mmix_tensor *image(mmix_ctx *m, size_t B)
{
    return mmix_fill_normal(m, mmix_new4(m, B, 3, GH * PATCH, GW * PATCH), 1, 7);
}
static mmix_vision *converted(mmix_ctx *m, const mmix_vision *t, int block, size_t window)
{
    mmix_vision_config c = *mmix_vision_config_of(t);
    for (int i = 0; i < DEPTH; i++)
        c.blocks[i] = block;
    for (int k = 1; k < 3; k++)
        c.mmate.window[k] = window;
    (void)m;
    return mmix_vision_student(t, c);
}
static double distance(mmix_tensor *a, mmix_tensor *b)
{
    double worst = mmix_count(a) == mmix_count(b) && a ? 0 : 1e9;
    for (size_t i = 0; a && b && i < mmix_count(a); i++) {
        size_t last = mmix_shape(a, -1), at[2];
        mmix_tensor *t[2] = {a, b};
        for (int k = 0; k < 2; k++) {
            size_t rest = i / last;
            at[k] = i % last * mmix_stride(t[k], -1);
            for (int d = mmix_ndim(t[k]) - 2; d >= 0; rest /= mmix_shape(t[k], d), d--)
                at[k] += rest % mmix_shape(t[k], d) * mmix_stride(t[k], d);
        }
        worst = fmax(worst, fabs((double)mmix_data(a)[at[0]] - (double)mmix_data(b)[at[1]]));
    }
    return worst;
}

/* Windows as large as the grid, and attention kept, are the teacher; smaller ones are not. */
static void equals_teacher(void)
{
    for (int way = 0; way < 16; way++) {
        const int registers = way % 4, axial = way / 4 % 2, gradient = way / 8;
        mmix_ctx *m = context(2, 0);
        mmix_vision *t = teacher(m, registers, axial, 0), *s[3];
        snprintf(about, sizeof about, "%d registers, axial %d, recorded %d", registers, axial,
                 gradient);
        s[0] = converted(m, t, MMIX_BLOCK_SWIN, 9);
        s[1] = converted(m, t, MMIX_BLOCK_SOFTMAX, 0);
        s[2] = converted(m, t, MMIX_BLOCK_SWIN, 3);
        mmix_record(m, gradient);
        mmix_features want = mmix_vision_forward(m, t, image(m, 5), NULL);
        for (int k = 0; k < 3; k++) {
            const mmix_vision_config *c = mmix_vision_config_of(s[k]);
            mmix_features f = mmix_vision_forward(m, s[k], image(m, 5), NULL);
            const double off = fmax(distance(f.token, want.token),
                                    distance(f.patches, want.patches));
            CHECK_AT(c && c->class_token == (k == 1 ? MMIX_CLASS_FIRST : MMIX_CLASS_LAST), about);
            if (k < 2) COMPARE(off < TOL * 10, about, off, 0);
            else COMPARE(off > 1e-3, about, off, 1);
            if (registers)
                COMPARE(k == 2 || distance(f.registers, want.registers) < TOL * 10, about,
                        distance(f.registers, want.registers), 0);
            for (size_t b = 0; b < DEPTH; b += 2) {
                mmix_tensor *reads = mmix_vision_attention(m, s[k], image(m, 2), b);
                CHECK_AT(mmix_count(reads) == 2 * HEADS * GH * GW, about);
                if (k < 2)
                    NEAR(distance(reads, mmix_vision_attention(m, t, image(m, 2), b)), 0, TOL * 10);
            }
        }
        FINE(m);
        for (int k = 0; k < 3; k++)
            mmix_vision_destroy(s[k]);
        mmix_vision_destroy(t);
        mmix_destroy(m);
    }
}

/* A trained network, block by block on the teacher's inputs: with one window as large as the grid
   and Flex-MA off, or with attention kept, a block's mixer and its output are the teacher's to 1e-5
   of its size; with Flex-MA on they are not. */
static void trained(void)
{
    enum { BLOCKS = 12 };
    static const char path[] = "../shared/data/vit-s14/model.safetensors";
    FILE *there = fopen(path, "rb");
    if (!there) {
        printf("skipped: %s is not there\n", path);
        skipped++;
        return;
    }
    fclose(there);
    mmix_ctx *m = context(2, 0);
    mmix_vision *t = mmix_vision_load(m, path);
    mmix_tensor *x = mmix_fill_normal(m, mmix_new4(m, 1, 3, 5 * 14, 7 * 14), 1, 3);
    CHECK_AT(t != NULL, mmix_error(m));
    for (int way = SLOW ? 2 : 0; t && way < 3; way++) {
        static const int block[3] = {MMIX_BLOCK_SWIN, MMIX_BLOCK_SOFTMAX, MMIX_BLOCK_MMATE};
        mmix_vision_config c = *mmix_vision_config_of(t);
        for (int b = 0; b < BLOCKS; b++)
            c.blocks[b] = block[way];
        c.class_token = MMIX_CLASS_LAST;
        c.mmate.window[1] = c.mmate.window[2] = 7;
        mmix_vision *s = mmix_vision_student(t, c);
        mmix_tensor *reads[BLOCKS + 1] = {NULL}, *mixed[2][BLOCKS], *made[BLOCKS];
        mmix_vision_options o[2];
        memset(o, 0, sizeof o);
        o[0].class_last = 1;
        o[0].outputs = reads + 1;
        o[0].mixed = mixed[0];
        o[1].inputs = reads;
        o[1].outputs = made;
        o[1].mixed = mixed[1];
        mmix_vision_forward(m, t, x, &o[0]);
        mmix_vision_forward(m, s, x, &o[1]);
        FINE(m);
        for (int b = 0; b < BLOCKS && !mmix_error(m); b++) {
            double off[2] = {0, 0}, size[2] = {0, 0};
            for (size_t i = 0; i < mmix_count(made[b]); i++)
                for (int k = 0; k < 2; k++) {
                    const double a = (double)mmix_data(k ? reads[b + 1] : mixed[0][b])[i];
                    const double z = (double)mmix_data(k ? made[b] : mixed[1][b])[i];
                    off[k] = fmax(off[k], fabs(a - z));
                    size[k] = fmax(size[k], fabs(a));
                }
            snprintf(about, sizeof about, "way %d, block %d", way, b);
            for (int k = 0; k < 2; k++)
                COMPARE(way < 2 ? off[k] < 1e-5 * size[k] : off[k] > 1e-3 * size[k], about, off[k],
                        size[k]);
        }
        mmix_vision_destroy(s);
    }
    mmix_vision_destroy(t);
    mmix_destroy(m);
}

/* A layer alone: M of windows is M of one window, cut to what a token may see and made sum to 1
   again; y = M v. */
static void windows(void)
{
    for (int way = 0; way < 24; way++) {
        const size_t window[2] = { 1 + (size_t)way % 4, 1 + (size_t)way % 3 },
                     index = (size_t)way / 12, others = (size_t)way % 5, n = GH * GW,
                     L = n + others;
        mmix_ctx *m = context(1, 0);
        mmix_params *p = mmix_params_create(m);
        mmix_mmate_layer l;
        mmix_mmate_options o;
        memset(&o, 0, sizeof o);
        o.branches = MMIX_BRANCH_SWIN;
        o.window[0] = 1;
        o.window[1] = window[0];
        o.window[2] = window[1];
        p->deviation = 0.5;
        mmix_mmate_init(&l, p, "x.", D, HEADS, HEADS, D / HEADS, index, 2, &o);
        CHECK(mmix_params_allocate(p) == 0);
        const mmix_span span = {0, {1, GH, GW}, others, 0};
        mmix_layout layout;
        memset(&layout, 0, sizeof layout);
        layout.spans = &span;
        layout.n_spans = 1;
        layout.global = 1;
        mmix_tensor *x = mmix_fill_normal(m, mmix_new3(m, 2, L, D), 1, 3);
        mmix_tensor *M = mmix_mmate_matrix(m, &l, x, &layout);
        mmix_tensor *all;
        l.options.window[1] = GH;
        l.options.window[2] = GW;
        all = mmix_mmate_matrix(m, &l, x, &layout);
        l.options.window[1] = window[0];
        l.options.window[2] = window[1];
        snprintf(about, sizeof about, "windows of %zu x %zu, layer %zu, %zu others", window[0],
                 window[1], index, others);
        const size_t shift[2] = { index && window[0] < GH ? window[0] / 2 : 0,
                                  index && window[1] < GW ? window[1] / 2 : 0 };
        double worst = 0;
        for (size_t row = 0; M && all && row < 2 * HEADS * L; row++) {
            const size_t i = row % L;
            double sum = 0;
            for (int pass = 0; pass < 2; pass++)
                for (size_t j = 0; j < L; j++) {
                    int sees = 1;
                    for (int a = 0; a < 2 && i < n && j < n; a++) {
                        const size_t ci = a ? i % GW : i / GW;
                        const size_t cj = a ? j % GW : j / GW;
                        const size_t w = window[a];
                        const size_t off = shift[a] ? w - shift[a] : 0;
                        sees &= (ci + off) / w == (cj + off) / w;
                    }
                    if (!pass)
                        sum += sees ? (double)mmix_data(all)[row * L + j] : 0;
                    else
                        worst = fmax(worst, fabs((double)mmix_data(M)[row * L + j]
                                                 - (sees ? (double)mmix_data(all)[row * L + j] / sum
                                                         : 0)));
                }
        }
        COMPARE(worst < TOL * 10, about, worst, 0);
        /* y = M v before o_proj */
        mmix_fill(l.swin.weight[3], 0);
        mmix_fill(l.swin.bias[3], 0);
        for (size_t k = 0; k < D; k++)
            mmix_data(l.swin.weight[3])[k * D + k] = 1;
        mmix_tensor *y = mmix_mmate_forward(m, &l, x, NULL, &layout);
        mmix_tensor *v = mmix_linear(m, x, l.swin.weight[2], l.swin.bias[2]);
        worst = 0;
        for (size_t k = 0; y && k < mmix_count(y); k++) {
            const size_t c = k % D, i = k / D % L, b = k / D / L;
            const size_t h = c / (D / HEADS);
            double sum = 0;
            for (size_t j = 0; j < L; j++)
                sum += (double)mmix_data(M)[((b * HEADS + h) * L + i) * L + j]
                       * (double)mmix_data(v)[(b * L + j) * D + c];
            worst = fmax(worst, fabs(sum - (double)mmix_data(y)[k]));
        }
        COMPARE(worst < TOL * 20, about, worst, 0);
        FINE(m);
        mmix_params_destroy(p);
        mmix_destroy(m);
    }
}

/* Blocks of all kinds: saved and read, in portions, with and without recording, trained, with
   drop path. */
static void mixed(void)
{
    static const int kinds[DEPTH] = {MMIX_BLOCK_MMATE, MMIX_BLOCK_LINEAR, MMIX_BLOCK_FLEX};
    for (int way = 0; way < 4; way++) {
        mmix_ctx *m = context(2, 0);
        mmix_vision *t = teacher(m, way, way / 2, way == 3);
        mmix_vision_config c = *mmix_vision_config_of(t);
        memcpy(c.blocks, kinds, sizeof kinds);
        c.mmate.window[1] = 2;
        c.mmate.window[2] = 3;
        c.mmate.branch_gate = way % 2;
        c.mmate.skip = way == 2;
        c.feature = way ? MMIX_FEATURE_EFFICIENT : MMIX_FEATURE_ELU1;
        mmix_vision *s = mmix_vision_student(t, c), *back = NULL;
        snprintf(about, sizeof about, "way %d", way);
        CHECK_AT(s != NULL, mmix_error(m) ? mmix_error(m) : about);
        mmix_features f = mmix_vision_forward(m, s, image(m, 9), NULL), g;
        CHECK_AT(mmix_vision_save(m, s, PATH) == 0 && (back = mmix_vision_load(m, PATH)) != NULL,
                 mmix_error(m));
        CHECK_AT(!memcmp(mmix_vision_config_of(back), mmix_vision_config_of(s), sizeof c), about);
        g = mmix_vision_forward(m, back, image(m, 9), NULL);
        NEAR(distance(f.tokens, g.tokens), 0, 0);
        mmix_vision_destroy(back);
        for (size_t b = 0; b < 9; b += 4) {      /* alone as among others */
            g = mmix_vision_forward(m, s, mmix_slice(m, image(m, 9), 0, b, 1), NULL);
            NEAR(distance(mmix_slice(m, f.tokens, 0, b, 1), g.tokens), 0, TOL * 10);
        }
        mmix_params_require_grad(mmix_vision_params(s), 1);
        mmix_record(m, 1);
        g = mmix_vision_forward(m, s, image(m, 9), NULL);
        NEAR(distance(f.tokens, g.tokens), 0, TOL * 10);
        mmix_vision_options train;
        memset(&train, 0, sizeof train);
        train.train = 1;
        train.n_last = 2;
        g = mmix_vision_forward(m, s, image(m, 9), &train);
        CHECK_AT(mmix_shape(g.intermediate, 1) == 2 * D
                     && !mmix_backward(m, mmix_sum(m, g.intermediate)),
                 about);
        mmix_record(m, 0);
        CHECK(mmix_vision_flops(s, GH * PATCH, GW * PATCH) > 0);
        /* the teacher's q, k, v and o lie in both branches */
        const mmix_params *p = mmix_vision_params(s), *q = mmix_vision_params(t);
        const mmix_real *qkv = mmix_data(mmix_params_find(q, "blocks.0.attn.qkv.weight"));
        for (int k = 0; k < 2; k++) {
            CHECK(!memcmp(mmix_data(mmix_params_find(p, k ? "blocks.0.mmate.swin.q_proj.weight"
                                                          : "blocks.0.mmate.flex.q_proj.weight")),
                          qkv, D * D * sizeof *qkv));
            const char *name = "blocks.2.mmate.flex.v_proj.weight";
            const real *from = mmix_data(mmix_params_find(q, "blocks.2.attn.qkv.weight"));
            if (k) {
                name = "blocks.0.mmate.swin.v_proj.weight";
                from = qkv;
            }
            CHECK(!memcmp(mmix_data(mmix_params_find(p, name)), from + 2 * D * D,
                          D * D * sizeof *qkv));
        }
        CHECK(!memcmp(mmix_data(mmix_params_find(p, "blocks.2.mmate.flex.o_proj.bias")),
                      mmix_data(mmix_params_find(q, "blocks.2.attn.proj.bias")), D * sizeof *qkv));
        FINE(m);
        mmix_vision_destroy(s);
        mmix_vision_destroy(t);
        mmix_destroy(m);
    }
}

/* Flex-MA's heads, and linear attention's, bring as much as the teacher's after calibration;
   nothing else moves. */
static double share_of(mmix_ctx *m, mmix_vision *s, const mmix_vision *t, size_t block)
{
    mmix_tensor *a[DEPTH], *b[DEPTH];
    mmix_vision_options o;
    double x[2] = {0, 0};
    memset(&o, 0, sizeof o);
    o.class_last = 1;
    o.mixed = a;
    mmix_tensor *outputs[DEPTH + 1] = {NULL}, **mixed = b;
    o.outputs = outputs + 1;
    mmix_vision_forward(m, t, image(m, 4), &o);
    o.mixed = mixed;
    o.outputs = NULL;
    o.inputs = outputs;
    mmix_vision_forward(m, s, image(m, 4), &o);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < mmix_count(a[block]); i++)
            x[k] += pow((double)mmix_data(k ? b[block] : a[block])[i], 2);
    return x[1] / x[0];
}
static void calibrates(void)
{
    mmix_ctx *m = context(2, 0);
    mmix_vision *t = teacher(m, 1, 0, 0);
    mmix_vision_config c = *mmix_vision_config_of(t);
    c.blocks[0] = MMIX_BLOCK_FLEX;
    c.blocks[1] = MMIX_BLOCK_LINEAR;
    mmix_vision *s = mmix_vision_student(t, c);
    const double before[2] = {share_of(m, s, t, 0), share_of(m, s, t, 1)};
    const uint64_t kept =
        hash_of(mmix_data(mmix_params_find(mmix_vision_params(s), "blocks.2.attn.proj.weight")),
                D * D, 1);
    NEAR(share_of(m, s, t, 2), 1, 1e-4);
    CHECK(!mmix_vision_calibrate(s, t, image(m, 4)));
    for (size_t b = 0; b < 2; b++) {             /* heads add up with a bias: near 1, not 1 */
        const double after = share_of(m, s, t, b);
        COMPARE(fabs(log(after)) < 0.7 && fabs(log(after)) < fabs(log(before[b])),
                "share after calibration", after, before[b]);
    }
    CHECK(
        kept
        == hash_of(mmix_data(mmix_params_find(mmix_vision_params(s), "blocks.2.attn.proj.weight")),
                   D * D, 1));
    CHECK(mmix_vision_calibrate(NULL, t, image(m, 1))
          && mmix_vision_calibrate(s, NULL, image(m, 1)));
    FINE(m);
    /* a teacher of windows has no heads to be calibrated by */
    mmix_vision *windows = converted(m, t, MMIX_BLOCK_SWIN, 3);
    mmix_vision *flex = converted(m, windows, MMIX_BLOCK_FLEX, 3);
    CHECK_AT(!mmix_vision_calibrate(flex, windows, image(m, 2)), mmix_error(m));
    mmix_vision_destroy(flex);
    mmix_vision_destroy(windows);
    mmix_vision_destroy(s);
    mmix_vision_destroy(t);
    mmix_destroy(m);
}

static mmix_distill_config short_run(void)
{
    mmix_distill_config c = mmix_distill_config_vision();
    /* to learn in 12 steps */
    for (int i = 0; i < 3; i++) {
        c.stage[i].steps = 4;
        c.stage[i].warmup = 1;
        c.stage[i].lr = 1e-3;
    }
    return c;
}
static mmix_vision *student_of(const mmix_vision *t, int way)
{
    mmix_vision_config c = *mmix_vision_config_of(t);
    c.blocks[0] = way ? MMIX_BLOCK_LINEAR : MMIX_BLOCK_MMATE;
    c.blocks[2] = MMIX_BLOCK_FLEX;
    if (way == 1) c.blocks[2] = MMIX_BLOCK_SWIN;
    else if (way) c.blocks[2] = MMIX_BLOCK_LINEAR;
    c.mmate.window[1] = c.mmate.window[2] = 3;
    return mmix_vision_student(t, c);
}
/* A student learns in stages; a run that is saved and loaded anywhere goes on to the same bits,
   with other threads, too. */
static void distils(void)
{
    for (int way = 0; way < 4; way++) {          /* 3: low-rank adapters in the last stage */
        uint64_t whole = 0;
        double first = 0, last = 0;
        for (int cut = -1; cut < 12; cut += way || SLOW ? 5 : 1) {
            mmix_ctx *m = context(cut % 2 ? 1 : 3, 5);
            mmix_vision *t = teacher(m, 1, way == 2, 0);
            mmix_vision *s = student_of(t, way);
            mmix_vision *u = NULL;
            mmix_distill_config c = short_run();
            mmix_distill_stats stats;
            if (way == 1) c.step_tokens = 7;     /* images: two calls and a rest */
            if (way == 3) {
                c.stage[2].train = MMIX_TRAIN_LORA;
                c.lora_rank = 2;
                c.lora_alpha = 4;
                c.lora_targets = MMIX_LORA_FFN | MMIX_LORA_MIXER;
            }
            mmix_distill *run = mmix_vision_distill_create(t, s, c);
            int calls = 0, state = 1;
            snprintf(about, sizeof about, "way %d, cut at %d", way, cut);
            CHECK_AT(run != NULL, mmix_error(m));
            if (run && cut < 0) {
                mmix_vision_distill_losses(run, image(m, 4), &stats);
                first = stats.token + stats.patches;
            }
            for (; run && state == 1; calls++, mmix_reset(m)) {
                if (calls == cut) {
                    CHECK_AT(!mmix_distill_save(run, PATH, "note"), mmix_error(m));
                    mmix_distill_destroy(run);
                    run = mmix_vision_distill_load(t, PATH, &u);
                    CHECK_AT(run && u && !strcmp(run->note, "note"), mmix_error(m));
                    if (!run) break;
                }
                state = mmix_vision_distill_step(run,
                                                 mmix_fill_normal(m,
                                                                  mmix_new4(m, 4, 3, GH * PATCH,
                                                                            GW * PATCH),
                                                                  1, 30 + run->number),
                                                 &stats);
            }
            if (run && cut < 0) {
                mmix_vision_distill_losses(run, image(m, 4), &stats);
                last = stats.token + stats.patches;
            }
            const mmix_params *p = mmix_vision_params(u ? u : s);
            const uint64_t h = p->adapters ? hash_params(p->adapters, hash_params(p, 1))
                                           : hash_params(p, 1);
            CHECK_AT((p->adapters != NULL) == (way == 3), about);
            if (cut < 0) whole = h;
            CHECK_AT(state == 0 && h == whole && (way == 1 || calls == 13), about);
            mmix_distill_destroy(run);
            for (size_t i = 0; i < p->count; i++)
                CHECK_AT(!p->at[i].frozen, p->at[i].name);
            FINE(m);
            mmix_vision_destroy(u);
            mmix_vision_destroy(s);
            mmix_vision_destroy(t);
            mmix_destroy(m);
        }
        COMPARE(last < first, "distance of features before and after 12 steps", last, first);
    }
}
/* A call that ran out of memory leaves nothing of its gradients behind. */
static void disturbed(void)
{
    double whole = 0;
    int failed = 1;
    for (size_t at = 0; failed || !at; at += sizeof(real) == 4 && at > 20 ? 3 : 1) {
        counter c;
        memset(&c, 0, sizeof c);
        mmix_options options = counted(&c);
        options.seed = 5;
        mmix_ctx *m = mmix_create(&options);
        mmix_vision *t = teacher(m, 1, 0, 0), *s = student_of(t, 0);
        mmix_distill *run = mmix_vision_distill_create(t, s, short_run());
        mmix_tensor *images = image(m, 4);
        mmix_distill_stats stats;
        c.fail_at = at ? c.calls + at : 0;
        int state = mmix_vision_distill_step(run, images, &stats);
        failed = state < 0;
        c.fail_at = 0;
        mmix_error_clear(m);
        if (failed) state = mmix_vision_distill_step(run, images, &stats);
        if (!at) whole = stats.gradient_norm;
        COMPARE(state == 1 && fabs(stats.gradient_norm / whole - 1) < 1e-3,
                "the gradient after an error", stats.gradient_norm, whole);
        mmix_distill_destroy(run);
        mmix_vision_destroy(s);
        mmix_vision_destroy(t);
        mmix_destroy(m);
    }
}
/* What a stage does not train stays; with the teacher's inputs a block that was kept is exact. */
static void stages(void)
{
    mmix_ctx *m = context(2, 0);
    mmix_vision *t = teacher(m, 0, 0, 0), *s = student_of(t, 1);
    mmix_distill_config c = short_run();
    mmix_distill_stats stats;
    c.stages = 1;
    c.calibrate = 0;
    mmix_distill *run = mmix_vision_distill_create(t, s, c);
    mmix_params *p = mmix_vision_params(s);
    const char *const name[4] = { "blocks.0.attn.qkv.weight", "blocks.1.attn.qkv.weight",
                                  "blocks.2.mmate.swin.v_proj.weight", "blocks.0.mlp.fc1.weight" };
    uint64_t h[4];
    for (int k = 0; k < 4; k++)
        h[k] = hash_of(mmix_data(mmix_params_find(p, name[k])), D * D, 1);
    CHECK(run && mmix_vision_distill_step(run, image(m, 4), &stats) == 1 && stats.updated
          && stats.tokens == 4 && stats.hidden > 0);
    for (int k = 0; k < 4; k++)
        CHECK((h[k] != hash_of(mmix_data(mmix_params_find(p, name[k])), D * D, 1)) == !(k % 2));
    BAD(mmix_vision_distill_create(t, s, c), "in no other run", "");
    CHECK(mmix_distill_step(run, NULL, NULL) == -1 && strstr(mmix_error(m), "run of decoders"));
    mmix_error_clear(m);
    mmix_distill_destroy(run);
    BAD(mmix_vision_distill_create(t, t, c), "another model", "");
    c.stage[0].train = MMIX_TRAIN_LORA;
    BAD(mmix_vision_distill_create(t, s, c), "trains something", "");
    c = short_run();
    c.stage[1].hidden = 0;
    BAD(mmix_vision_distill_create(t, s, c), "stage 1", "weights");
    mmix_vision *other = converted(m, t, MMIX_BLOCK_SOFTMAX, 0);
    BAD(mmix_vision_distill_create(t, other, short_run()), "stage 0", "trains something");
    mmix_vision *vim = mmix_vision_create(m, small_vision(MMIX_MIXER_SSD));
    BAD(mmix_vision_distill_create(t, vim, short_run()), "as mmix_vision_student makes it", "");
    mmix_vision_destroy(vim);
    CHECK(!mmix_vision_distill_create(NULL, s, c) && !mmix_vision_distill_create(t, NULL, c));
    CHECK(!mmix_vision_distill_load(t, PATH, NULL) && mmix_error(m));
    mmix_error_clear(m);
    mmix_vision_destroy(other);
    mmix_vision_destroy(s);
    mmix_vision_destroy(t);
    mmix_destroy(m);
}

/* Adapters: nothing at first, then the same with and without a record, added to the matrices,
   and in a file. */
static void adapters(void)
{
    static const int targets[3] = { MMIX_LORA_FFN, MMIX_LORA_MIXER,
                                    MMIX_LORA_FFN | MMIX_LORA_MIXER },
                     count[4][3] = {
                         { 6, 6, 12 }, { 9, 6, 15 }, { 6, 14, 20 }, { 0, 4, 4 }
                     }; /* a block's MLP 2, SwiGLU 3, attention 2, a branch 4, Mamba 2 */
    /* Mamba alone has no MLP: see refuses */
    for (int way = 0; way < 12; way += way == 8 ? 2 : 1) {
        const int kind = way / 3, target = targets[way % 3];
        mmix_ctx *m = context(2, 0);
        mmix_vision *t = teacher(m, kind == 1 ? 2 : 0, kind == 1, 0);
        mmix_vision *v = t;
        if (kind == 1) v = student_of(t, 2);
        if (kind == 2) v = student_of(t, 0);
        if (kind == 3) v = mmix_vision_create(m, small_vision(MMIX_MIXER_SSD));
        const size_t side = mmix_vision_config_of(v)->patch * 5;
        mmix_tensor *x = mmix_fill_normal(m, mmix_new4(m, 2, 3, side, side), 1, 7);
        mmix_params *p = mmix_vision_params(v);
        snprintf(about, sizeof about, "kind %d, targets %d", kind, target);
        mmix_features was = mmix_vision_forward(m, v, x, NULL);
        CHECK_AT(!mmix_params_add_lora(p, 3, 6, target) && p->adapters, mmix_error(m));
        CHECK_AT((int)p->adapters->count == 2 * count[kind][way % 3], about);
        COMPARE(distance(was.tokens, mmix_vision_forward(m, v, x, NULL).tokens) <= 0, about, 0, 0);
        for (size_t i = 0; i < p->adapters->count; i++)
            mmix_fill_normal(m, p->adapters->at[i].tensor, 0.3, 40 + i);
        mmix_features f = mmix_vision_forward(m, v, x, NULL);
        COMPARE(distance(was.tokens, f.tokens) > 1e-3, about, 0, 0);
        mmix_record(m, 0);
        const double off = distance(f.tokens, mmix_vision_forward(m, v, x, NULL).tokens);
        COMPARE(off < TOL * 30, about, off, 0);
        BAD_INT(mmix_params_add_lora(p, 3, 6, target), "there are adapters already", "");
        CHECK_AT(!mmix_vision_save(m, v, PATH), mmix_error(m));
        mmix_vision *back = mmix_vision_load(m, PATH);
        const double filed = back ? distance(f.tokens, mmix_vision_forward(m, back, x, NULL).tokens)
                                  : 1e9;
        COMPARE(filed < TOL * 30, about, filed, 0);
        mmix_vision *again = kind < 2 ? mmix_vision_student(v, *mmix_vision_config_of(v)) : NULL;
        if (again)
            COMPARE(distance(f.tokens, mmix_vision_forward(m, again, x, NULL).tokens) < TOL * 30,
                    about, 0, 0);
        CHECK_AT(!mmix_params_merge_lora(p) && !p->adapters, about);
        const double merged = distance(f.tokens, mmix_vision_forward(m, v, x, NULL).tokens);
        COMPARE(merged < TOL * 30, about, merged, 0);
        FINE(m);
        mmix_vision_destroy(again);
        mmix_vision_destroy(back);
        if (v != t) mmix_vision_destroy(v);
        mmix_vision_destroy(t);
        mmix_destroy(m);
    }
}

static void refuses(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_vision *t = teacher(m, 0, 0, 0);
    mmix_vision_config c = *mmix_vision_config_of(t);
    CHECK(!mmix_vision_student(NULL, c));
    c.dim = 2 * D;
    BAD(mmix_vision_student(t, c), "mmix_vision_student", "in the teacher it is of");
    c = *mmix_vision_config_of(t);
    c.blocks[1] = 6;
    BAD(mmix_vision_student(t, c), "blocks is 6", "expected 0 to 5");
    c.blocks[1] = MMIX_BLOCK_SWIN;
    c.mmate.causal_window = 1;
    BAD(mmix_vision_student(t, c), "causal_window is 1", "expected 0");
    c.mmate.causal_window = 0;
    c.class_token = MMIX_CLASS_MIDDLE;
    BAD(mmix_vision_student(t, c), "class_token is 1", "MMIX_CLASS_FIRST or _LAST");
    c.class_token = MMIX_CLASS_FIRST;
    c.heads = 3;
    BAD(mmix_vision_student(t, c), "mmix_", "3");
    c = *mmix_vision_config_of(t);
    c.blocks[1] = MMIX_BLOCK_MMATE;
    c.depth = DEPTH + 1;
    /* a block that the teacher lacks begins with its own values */
    mmix_vision *deeper = mmix_vision_student(t, c);
    CHECK_AT(deeper != NULL, mmix_error(m));
    BAD_INT(mmix_vision_calibrate(deeper, t, image(m, 1)), "mmix_vision_calibrate",
            "expected a student as mmix_vision_student makes it");
    mmix_vision_destroy(deeper);
    c.depth = DEPTH;
    c.registers = 2;
    mmix_vision *more = mmix_vision_student(t, c);          /* and so do registers */
    CHECK_AT(more != NULL, mmix_error(m));
    mmix_vision_destroy(more);
    c = small_vision(MMIX_MIXER_SOFTMAX);
    c.heads = 3;
    c.class_token = MMIX_CLASS_FIRST;
    for (size_t i = 0; i < c.depth; i++)
        c.blocks[i] = MMIX_BLOCK_MMATE;
    BAD(mmix_vision_create(m, c), "mmix_vision_create", "3 heads; expected heads that divide");
    c = small_vision(MMIX_MIXER_SSD);
    mmix_vision *vim = mmix_vision_create(m, c);
    BAD_INT(mmix_params_add_lora(mmix_vision_params(vim), 2, 4, MMIX_LORA_FFN),
            "mmix_params_add_lora", "no matrix");
    CHECK(!mmix_vision_params(vim)->adapters);
    mmix_vision_destroy(vim);
    c.blocks[1] = MMIX_BLOCK_LINEAR;
    BAD(mmix_vision_create(m, c), "blocks, of Mamba, is 2", "expected 0");
    mmix_params *p = mmix_params_create(m);
    mmix_mmate_layer l;
    mmix_mmate_init(&l, p, "x.", D, HEADS, HEADS, D / HEADS, 0, 2, NULL);
    mmix_params_allocate(p);
    const mmix_span span[2] = {{0, {1, 2, 2}, 0, 0}, {4, {1, 2, 2}, 0, 0}};
    mmix_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.spans = span;
    layout.n_spans = 2;
    layout.global = 1;
    BAD(mmix_mmate_forward(m, &l, mmix_fill_normal(m, mmix_new3(m, 1, 8, D), 1, 1), NULL, &layout),
        "mmix_mmate_forward", "one span");
    layout.n_spans = 1;
    l.options.causal_window = 1;
    BAD(mmix_mmate_forward(m, &l, mmix_fill_normal(m, mmix_new3(m, 1, 8, D), 1, 1), NULL, &layout),
        "mmix_mmate_forward", "causal_window and layout.global");
    mmix_params_destroy(p);
    mmix_vision_destroy(t);
    mmix_destroy(m);
}

/* Adapters of matrices whose names do not end in "weight": their names are made of all of it. */
static void adapters_of_any_name(void)
{
    static const char *const names[6] = {
        "block.mlp.w1.lora_A.weight", "block.mlp.w1.lora_B.weight", "block.mlp.w2.lora_A.weight",
        "block.mlp.w2.lora_B.weight", "block.mlp.lora_A.weight", "block.mlp.lora_B.weight"
    };
    const size_t shape[2] = { 3, 4 };
    mmix_ctx *m = context(1, 0);
    mmix_params *p = mmix_params_create(m);
    mmix_params_add(p, "block.mlp.", "w1", 2, shape, MMIX_INIT_NORMAL, 1, 0);
    mmix_params_add(p, "block.mlp.", "w2", 2, shape, MMIX_INIT_NORMAL, 1, 0);
    mmix_params_add(p, "block.mlp.", "weight", 2, shape, MMIX_INIT_NORMAL, 1, 0);
    CHECK(!mmix_params_allocate(p));
    CHECK_AT(!mmix_params_add_lora(p, 2, 1, MMIX_LORA_FFN), mmix_error(m));
    CHECK(p->adapters && p->adapters->count == 6);
    for (size_t i = 0; i < 6 && p->adapters; i++)
        CHECK_AT(mmix_params_find(p->adapters, names[i]), names[i]);
    FINE(m);
    mmix_params_destroy(p);
    mmix_destroy(m);
}

/* A LinearViT with rank augmentation: portions and a file give the same, each option does
   something, the gate's cost is counted. */
static void augmented(void)
{
    mmix_ctx *m = context(2, 0);
    mmix_vision *plain = teacher(m, 0, 0, 1);
    mmix_tensor *seen = mmix_vision_forward(m, plain, image(m, 3), NULL).patches;
    const double flops = mmix_vision_flops(plain, 28, 28);
    for (int augment = 1; augment < 4; augment++) {
        mmix_vision_config c = *mmix_vision_config_of(plain);
        c.augment = augment;
        mmix_vision *v = mmix_vision_create(m, c);
        CHECK(!mmix_vision_save(m, v, PATH));
        mmix_vision *loaded = mmix_vision_load(m, PATH);
        CHECK(loaded && mmix_vision_config_of(loaded)->augment == augment);
        mmix_tensor *all = mmix_vision_forward(m, v, image(m, 3), NULL).patches;
        mmix_tensor *again = mmix_vision_forward(m, loaded, image(m, 3), NULL).patches;
        NEAR(distance(all, again), 0, 0);
        CHECK(distance(all, seen) > 1e-3);
        mmix_tensor *first = mmix_slice(m, image(m, 3), 0, 0, 1);
        mmix_tensor *one = mmix_vision_forward(m, v, first, NULL).patches;
        NEAR(distance(one, mmix_slice(m, all, 0, 0, 1)), 0, TOL * 10);
        const double gates = augment & MMIX_AUGMENT_OUTPUT ? 2.0 * DEPTH * 50 * D * D : 0;
        NEAR(mmix_vision_flops(v, 28, 28) - flops, gates, 0);
        FINE(m);
        mmix_vision_destroy(loaded);
        mmix_vision_destroy(v);
    }
    mmix_vision_config c = *mmix_vision_config_of(plain);
    c.augment = 4;
    REFUSED(m, !mmix_vision_create(m, c), "augment is 4, expected 0 to 3");
    c.augment = 1;
    c.mixer = MMIX_MIXER_SOFTMAX;
    REFUSED(m, !mmix_vision_create(m, c), "augment is 1, expected 0 without linear attention");
    mmix_vision_destroy(plain);
    mmix_destroy(m);
}

int main(int argc, char **argv)
{
    static const section all[] = { { "equals_teacher", equals_teacher },
                                   { "trained", trained },
                                   { "windows", windows },
                                   { "mixed", mixed },
                                   { "calibrates", calibrates },
                                   { "distils", distils },
                                   { "disturbed", disturbed },
                                   { "stages", stages },
                                   { "adapters", adapters },
                                   { "adapters_of_any_name", adapters_of_any_name },
                                   { "augmented", augmented },
                                   { "refuses", refuses } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
