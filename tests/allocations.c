/* allocations.c - every allocation fails once: a clean error, nothing left, and the context
   still works */
#include "models.h"

#define FILE_A "build/allocations_a.safetensors"

static int whole_run(const mmix_options *o, void *user)            /* of a mmix_dino_config */
{
    const mmix_dino_config c = *(const mmix_dino_config *)user;
    mmix_ctx *m = mmix_create(o);
    mmix_dino *d, *e = NULL;
    int kind, through;
    if (!m) return MMIX_ERROR_MEMORY;
    d = mmix_dino_create(m, c);
    mmix_record(m, c.vision.mixer == MMIX_MIXER_SSD ? MMIX_RECORD_LAYERS : 0);
    through = d && mmix_dino_step(d, pictures, PICTURES, NULL) == 1
              && !mmix_dino_save(d, FILE_A, "x");
    if (through) {
        mmix_reset(m);
        e = mmix_dino_load(m, FILE_A);
        through = e != NULL;
    }
    if (through) kind = 0;
    else if (mmix_error_kind(m)) kind = mmix_error_kind(m);
    else kind = -1;
    if (through && mmix_error(m)) kind = -2;
    if (!through) {                              /* the context still works */
        size_t fail_at = ((counter *)o->allocator.user)->fail_at;
        mmix_error_clear(m);
        mmix_reset(m);
        if (fail_at && !mmix_sum(m, mmix_fill(mmix_new2(m, 20, 20), 1)))
            kind = -3;
    }
    mmix_dino_destroy(e);
    mmix_dino_destroy(d);
    mmix_destroy(m);
    return kind;
}
/* The mixers' masks, steps and ranks. */
static int mixers_run(const mmix_options *o, void *user)
{
    const size_t grid[2] = { 4, 6 }, window[2] = { 3, 2 }, two[2] = { 2, 24 };
    mmix_ctx *m = mmix_create(o);
    mmix_mix_state *s, *copy = NULL;
    mmix_mixer x;
    mmix_mixer_rank rank;
    mmix_tensor *q, *k, *y[5], *pos, *dt, *A, *x1;
    int kind;
    (void)user;
    if (!m) return MMIX_ERROR_MEMORY;
    s = mmix_mix_state_create(m, 4);
    mmix_record(m, 1);
    q = mmix_new4(m, 2, 24, 4, 6);
    k = mmix_new4(m, 2, 24, 2, 6);
    pos = mmix_new(m, MMIX_DTYPE_I32, 2, two);
    dt = mmix_new3(m, 2, 24, 4);
    if (q && k && pos && dt) {
        mmix_require_grad(mmix_fill_normal(m, q, 1, 0));
        mmix_require_grad(mmix_fill_normal(m, k, 1, 1));
        mmix_fill(dt, 0.1);
        for (size_t i = 0; i < 48; i++)
            mmix_data_i32(pos)[i] = (int32_t)(i / 5);
        x = mmix_mixer_softmax(mmix_rope(m, q, pos, NULL), mmix_rope(m, k, pos, NULL), k);
        mmix_mixer_windows(&x, 2, grid, window, 1);
        y[0] = mmix_mix(m, &x);
        x.window[0] = 0;
        x.mask = MMIX_MASK_BAND;
        x.left = 3;
        x.seq_idx = pos;
        y[1] = mmix_mix(m, &x);
        x.seq_idx = NULL;
        for (int i = 0; i < 3; i++)
            mmix_mix_step(m, &x, s, 0);
        x.kind = MMIX_MIXER_LINEAR;
        x.mask = MMIX_MASK_CAUSAL;
        x.feature = MMIX_FEATURE_ELU1;
        y[2] = mmix_mix(m, &x);
        mmix_mix_step(m, &x, s, 1);
        x = mmix_mixer_ssd(k, dt, mmix_error(m) ? NULL : mmix_fill(mmix_new1(m, 4), -1), k, q);
        x.direction = MMIX_SCAN_BOTH;
        y[3] = mmix_mix(m, &x);
        x.direction = MMIX_SCAN_FORWARD;
        mmix_mix_step(m, &x, s, 2);
        copy = s ? mmix_mix_state_copy(s) : NULL;
        if (copy) mmix_mix_step(m, &x, copy, 2);
        mmix_mix_rank(m, &x, NULL, 0, 0, &rank);
        A = mmix_new2(m, 4, 6);
        x1 = mmix_slice(m, q, 3, 0, 1);
        x = mmix_mixer_selective(x1, dt, A ? mmix_require_grad(mmix_fill(A, -1)) : NULL, k, k);
        x.z = x1;
        x.direction = MMIX_SCAN_BOTH;
        y[4] = mmix_mix(m, &x);
        x.direction = MMIX_SCAN_FORWARD;
        mmix_mix_step(m, &x, s, 3);
        x.z = NULL;
        mmix_mix_rank(m, &x, NULL, 0, 0, &rank);
        if (!mmix_error(m))
            mmix_backward(m, mmix_add(m, mmix_add(m, mmix_mean(m, mmix_add(m, y[0], y[1])),
                                                  mmix_mean(m, mmix_add(m, y[2], y[3]))),
                                      mmix_mean(m, y[4])));
    }
    kind = mmix_error_kind(m);
    mmix_mix_state_destroy(copy);
    mmix_mix_state_destroy(s);
    mmix_destroy(m);
    return kind;
}
static void mixer_allocations(void)
{
    doing("allocations (mixers)");
    CHECK(memory_fails(mixers_run, NULL, 0, 1) > 15);
}

/* A long sequence through SwiGLU, which goes by pieces. */
static int pieces_run(const mmix_options *o, void *user)
{
    mmix_ctx *m = mmix_create(o);
    mmix_swiglu_layer layer;
    (void)user;
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_params *p = mmix_params_create(m);
    if (!mmix_swiglu_init(&layer, p, "", 256, 8) && !mmix_params_allocate(p)) {
        mmix_tensor *x = mmix_new3(m, 2, 1200, 256);
        mmix_swiglu_forward(m, &layer, x ? mmix_fill(x, 1) : NULL, x, NULL);
    }
    const int kind = mmix_error_kind(m);
    mmix_params_destroy(p);
    mmix_destroy(m);
    return kind;
}
static void piece_allocations(void)
{
    doing("allocations (pieces)");
    CHECK(memory_fails(pieces_run, NULL, 0, 1) > 5);
}

/* Attention out of a backbone: conversion, two steps, a file. */
static int linear_run(const mmix_options *o, void *user)
{
    mmix_ctx *m = mmix_create(o);
    mmix_vision_config c = small_vision(MMIX_MIXER_SOFTMAX);
    mmix_distill_config stages = mmix_distill_config_vision();
    (void)user;
    if (!m) return MMIX_ERROR_MEMORY;
    for (int i = 0; i < 3; i++) {
        stages.stage[i].steps = i < 2;
        stages.stage[i].warmup = 0;
    }
    mmix_vision *t = mmix_vision_create(m, c), *s, *u = NULL;
    c.blocks[0] = MMIX_BLOCK_MMATE;
    c.blocks[1] = MMIX_BLOCK_LINEAR;
    c.mmate.window[1] = c.mmate.window[2] = 2;
    s = mmix_vision_student(t, c);
    mmix_distill *run = mmix_vision_distill_create(t, s, stages), *back = NULL;
    for (int i = 0; i < 2 && run; i++, mmix_error(m) ? (void)0 : mmix_reset(m))
        mmix_vision_distill_step(run, mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 16), 1, 3), NULL);
    if (run && !mmix_distill_save(run, FILE_A, "x"))
        back = mmix_vision_distill_load(t, FILE_A, &u);
    int kind;
    if (mmix_error_kind(m)) kind = mmix_error_kind(m);
    else if (back) kind = 0;
    else kind = -1;
    mmix_distill_destroy(back);
    mmix_distill_destroy(run);
    mmix_vision_destroy(u);
    mmix_vision_destroy(s);
    mmix_vision_destroy(t);
    mmix_destroy(m);
    return kind;
}
static void linear_allocations(void)
{
    doing("allocations (attention out of a backbone)");
    CHECK(memory_fails(linear_run, NULL, 0, ARENA_BLOCK == 256 ? 5 : 1) > 40);
    remove(FILE_A);
}

static void allocations(void)
{
    mmix_dino_config config = small_dino(MMIX_MIXER_SOFTMAX);
    draw();
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++) {
        snprintf(about, sizeof about, "allocations (%s)", mixer_name(mixer));
        config = small_dino(mixer);
        config.patch_weight = mixer != MMIX_MIXER_LINEAR;
        config.vision.depth = 1;
        config.batch = 1;
        config.iters = 2;
        config.augment.local_count = 1;
        CHECK(memory_fails(whole_run, &config, 0, 1) >= (ARENA_BLOCK == 256 ? 200 : 60));
        memory_fails(whole_run, &config, 1, mixer == MMIX_MIXER_SOFTMAX ? 3 : 17);
    }
    remove(FILE_A);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "mixers", mixer_allocations },
                                   { "pieces", piece_allocations },
                                   { "linear", linear_allocations },
                                   { "training", allocations } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
