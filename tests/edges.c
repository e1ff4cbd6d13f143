/* edges.c - models where their parts meet: pruning and convolutions, calibration and adapters,
   layers without a mixer, options and plans that do not fit */
#include "decoders.h"
#include "models.h"

#define GOLDEN "tests/golden/vlm"

/* ---- decoders ---- */

/* A pruned piece from which nothing is dropped is the piece: what is looked at for it moves no
   slot on, not that of a convolution either. */
static void pruned_to_all(mmix_ctx *m, size_t width, size_t layer)
{
    mmix_decoder_config c = small(MMIX_DECODER_LISTED);
    for (int i = 0; i < 2; i++) c.layers[i].mixer = MMIX_DECODER_MMATE;
    c.mmate.conv_width = width;
    mmix_decoder *d = shaken(m, c);
    const size_t last = behind(&spans[SPANS - 1]) + 1;
    mmix_tensor *first[2], *rest[2];
    for (int is_pruned = 0; is_pruned < 2; is_pruned++) {
        mmix_mix_state *s = mmix_decoder_state_create(d);
        mmix_sequence all = sequence(m, 1, 4), p;
        mmix_span room[SPANS];
        const mmix_prune share = { layer, 1, { 0, 0 } }, cells = { layer, 0, { 1, 1 } };
        all.tokens = mmix_slice(m, all.tokens, 0, 0, 1);
        all.media = mmix_slice(m, all.media, 0, 0, 1);
        p = piece(m, &all, 0, last, room);
        /* before M-MATE in cells, which leave it a grid */
        if (is_pruned) p.prune = layer == 1 ? &cells : &share;
        first[is_pruned] = mmix_decoder_step(m, d, &p, s);
        p = piece(m, &all, last, TOKENS, room);
        rest[is_pruned] = mmix_decoder_step(m, d, &p, s);
        mmix_mix_state_destroy(s);
    }
    snprintf(about, sizeof about, "convolution of %d, pruned behind layer %d", (int)width, (int)layer);
    CHECK(gap(first[0], first[1]) < TOL && gap(rest[0], rest[1]) < TOL);
    FINE(m);
    mmix_decoder_destroy(d);
    mmix_reset(m);
}
/* The last token decides what goes on, and goes on itself. */
static void pruned_at_the_end(mmix_ctx *m)
{
    doing("a sequence that ends with media");
    mmix_decoder *d = shaken(m, small(MMIX_DECODER_ATTENTION));
    mmix_sequence q = sequence(m, 1, 1);
    const mmix_prune how = { 3, 0.1, { 0, 0 } };
    q.tokens = mmix_slice(m, mmix_slice(m, q.tokens, 0, 0, 1), 1, 0, behind(&spans[0]));
    q.media = mmix_slice(m, mmix_slice(m, q.media, 0, 0, 1), 1, 0,
                         spans[0].grid[0] * spans[0].grid[1] * spans[0].grid[2]);
    q.n_spans = 1;
    q.prune = &how;
    BAD(mmix_decoder_forward(m, d, &q, NULL), "ends with media", "expected text behind them");
    mmix_decoder_destroy(d);
    mmix_reset(m);
}
static mmix_mmate_options windows_of_two(int branches)
{
    mmix_mmate_options o;
    memset(&o, 0, sizeof o);
    o.branches = branches;
    for (int i = 0; i < 3; i++) o.window[i] = 2;
    return o;
}
/* Calibration sees a teacher's adapters whether they are merged or not, … */
static void calibrated_by_adapters(mmix_ctx *m)
{
    mmix_tensor *w[2];
    const mmix_mmate_options o = windows_of_two(MMIX_BRANCH_BOTH);
    doing("calibrated by a teacher with adapters");
    for (int is_merged = 0; is_merged < 2; is_merged++) {
        mmix_seed_set(m, 5);
        mmix_decoder *t = shaken(m, pupil(MMIX_DECODER_ATTENTION));
        CHECK(!mmix_params_add_lora(t->params, 2, 4, MMIX_LORA_MIXER));
        shake(m, t->params->adapters, 0.5);
        if (is_merged) CHECK(!mmix_params_merge_lora(t->params));
        mmix_decoder *s = mmix_decoder_student(t, &o);
        mmix_sequence q = sequence(m, 1, 9);
        CHECK(!mmix_decoder_calibrate(s, t, &q));
        mmix_tensor *o_proj = named(s->params, 0, "flex.o_proj.weight");
        w[is_merged] = mmix_affine(m, o_proj, 1, 0);
        FINE(m);
        mmix_decoder_destroy(s);
        mmix_decoder_destroy(t);
    }
    ALIKE(w[0], w[1], 2000 * EPS);
    mmix_reset(m);
}
/* … and scales a student's own. */
static void calibrated_with_adapters(mmix_ctx *m)
{
    mmix_decoder_config c = pupil(MMIX_DECODER_ATTENTION);
    const mmix_mmate_options o = windows_of_two(MMIX_BRANCH_FLEX);
    doing("a student with adapters calibrated");
    c.depth = 1;
    c.heads = c.kv_heads = 1;
    mmix_decoder *t = shaken(m, c), *s = mmix_decoder_student(t, &o);
    CHECK(!mmix_params_add_lora(s->params, 2, 4, MMIX_LORA_MIXER));
    shake(m, s->params->adapters, 0.5);
    mmix_sequence q = sequence(m, 1, 9);
    CHECK(!mmix_decoder_calibrate(s, t, &q));
    mmix_tensor *of_teacher[1], *of_student[1];
    mmix_decoder_options look;
    memset(&look, 0, sizeof look);
    look.mixed = of_teacher;
    mmix_decoder_forward(m, t, &q, &look);
    look.mixed = of_student;
    mmix_decoder_forward(m, s, &q, &look);
    double x = mmix_item(mmix_sum(m, mmix_mul(m, of_teacher[0], of_teacher[0])));
    double y = mmix_item(mmix_sum(m, mmix_mul(m, of_student[0], of_student[0])));
    NEAR(y / x, 1, 1e-4);
    FINE(m);
    mmix_decoder_destroy(s);
    mmix_decoder_destroy(t);
    mmix_reset(m);
}
/* A layer without a mixer has nothing to hand out, and nothing to compare. */
static void without_mixers(mmix_ctx *m)
{
    mmix_decoder_config c = small(MMIX_DECODER_LISTED);
    const mmix_mmate_options o = windows_of_two(MMIX_BRANCH_BOTH);
    doing("layers without a mixer");
    for (int i = 0; i < 4; i++) {
        c.layers[i].mixer = i % 2 ? MMIX_DECODER_NONE : MMIX_DECODER_ATTENTION;
        c.layers[i].no_ffn = i % 2 == 0;
    }
    mmix_decoder *t = shaken(m, c), *s = mmix_decoder_student(t, &o);
    mmix_tensor *mixed[4], *normed[4];
    mmix_decoder_options look;
    memset(&look, 0, sizeof look);
    look.mixed = mixed;
    look.normed = normed;
    mmix_sequence q = sequence(m, 1, 9);
    mmix_decoder_forward(m, t, &q, &look);
    for (int i = 0; i < 4; i++) CHECK((mixed[i] == NULL) == i % 2 && (normed[i] == NULL) == i % 2);
    mmix_distill_config config = three_stages(1);
    config.stages = 1;
    config.stage[0] = stage(3, 1, 1, 0, 0, 3);
    mmix_distill *run = mmix_distill_create(t, s, config);
    mmix_distill_stats losses, stats;
    mmix_distill_batch b = batch_of(m, 0, 0);
    CHECK(!mmix_distill_losses(run, &b, &losses));
    mmix_fill(mmix_new1(m, 300000), 1e6);
    b = batch_of(m, 0, 0);
    IS(mmix_distill_step(run, &b, &stats), 1);
    CHECK(losses.hidden > 0);
    NEAR(losses.hidden, stats.hidden, 1e-4 * losses.hidden);
    FINE(m);
    mmix_distill_destroy(run);
    mmix_decoder_destroy(s);
    mmix_decoder_destroy(t);
    mmix_reset(m);
}
/* A batch is not pruned; and a run that failed leaves its student as it was before it. */
static void failed_run(mmix_ctx *m)
{
    const mmix_mmate_options o = windows_of_two(MMIX_BRANCH_BOTH);
    const mmix_prune how = { 1, 0.2, { 0, 0 } };
    doing("a run that fails");
    mmix_decoder *t = shaken(m, pupil(MMIX_DECODER_ATTENTION));
    mmix_decoder *s = mmix_decoder_student(t, &o);
    mmix_distill_config config = three_stages(2);
    config.stages = 1;
    config.stage[0] = stage(15, 0, 1, 0, 0, 3);
    mmix_distill *run = mmix_distill_create(t, s, config);
    mmix_distill_stats stats;
    mmix_distill_batch b = batch_of(m, 0, 0);
    b.input.prune = &how;
    REFUSED(m, mmix_distill_step(run, &b, &stats) != 1, "prune in a batch");
    b = batch_of(m, 1, 0);
    b.target = NULL;
    mmix_distill_step(run, &b, &stats);
    mmix_distill_destroy(run);
    CHECK(says(m, MMIX_ERROR_ARGUMENT, "target"));
    CHECK(!s->params->gradients);
    mmix_decoder_destroy(s);
    mmix_decoder_destroy(t);
    mmix_reset(m);
}
/* A factor of what a layer adds counts behind a norm, too. */
static void scaled_post_norms(mmix_ctx *m)
{
    mmix_tensor *y[2];
    doing("scale.residual behind a norm");
    for (int is_scaled = 0; is_scaled < 2; is_scaled++) {
        mmix_seed_set(m, 7);
        mmix_decoder_config c = small(MMIX_DECODER_ATTENTION);
        c.depth = 1;
        c.post_norms = 1;
        c.scale.residual = is_scaled ? 1e-6 : 0;
        mmix_decoder *d = shaken(m, c);
        mmix_sequence q = sequence(m, 1, 9);
        mmix_tensor *outputs[1], *inputs[1] = { NULL };
        mmix_decoder_options look;
        memset(&look, 0, sizeof look);
        look.outputs = outputs;
        look.inputs = inputs;
        inputs[0] = mmix_fill_normal(m, mmix_new3(m, 2, TOKENS, c.dim), 1, 3);
        mmix_decoder_forward(m, d, &q, &look);
        y[is_scaled] = mmix_sub(m, outputs[0], inputs[0]);
        FINE(m);
        mmix_decoder_destroy(d);
    }
    CHECK(largest(y[0]) > 0.1 && largest(y[1]) < 1e-4);
    mmix_reset(m);
}
static void decoders(void)
{
    mmix_ctx *m = context(2, 1);
    for (size_t width = 0; width <= 3; width += 3)
        for (size_t layer = 1; layer <= 2; layer++) pruned_to_all(m, width, layer);
    pruned_at_the_end(m);
    calibrated_by_adapters(m);
    calibrated_with_adapters(m);
    without_mixers(m);
    failed_run(m);
    scaled_post_norms(m);
    mmix_destroy(m);
}

/* ---- backbones ---- */

static void backbones(void)
{
    static const size_t shapes[5][3] = { { 2, 25, 16 }, { 1, 26, 16 }, { 3, 26, 16 }, { 2, 27, 16 },
                                         { 2, 26, 8 } };
    mmix_ctx *m = context(2, 1);
    mmix_vision_config c = small_vision(MMIX_MIXER_SOFTMAX);
    mmix_vision *v = mmix_vision_create(m, c);
    mmix_tensor *x = mmix_fill_normal(m, mmix_new4(m, 2, 3, 20, 20), 1, 7);
    doing("inputs of another shape");
    for (int k = 0; k < 5; k++) {
        mmix_tensor *in[2] = { NULL, NULL }, *out[2];
        mmix_vision_options o;
        memset(&o, 0, sizeof o);
        in[1] = mmix_new3(m, shapes[k][0], shapes[k][1], shapes[k][2]);
        o.inputs = in;
        o.outputs = out;
        BAD(mmix_vision_forward(m, v, x, &o).tokens, "mmix_vision_forward", "inputs");
    }
    doing("a student with other heads");
    c.heads = 4;
    BAD(mmix_vision_student(v, c), "mmix_vision_student", "heads is 4");
    mmix_vision_destroy(v);

    doing("class tokens first and last");        /* a copy is one, wherever its class token stands */
    c.heads = 2;
    for (int k = 0; k < 2; k++) {
        mmix_vision_config of[2] = { c, c };
        mmix_distill_config config = mmix_distill_config_vision();
        mmix_distill_stats stats;
        of[k].class_token = MMIX_CLASS_LAST;
        mmix_vision *t = mmix_vision_create(m, of[0]), *s = mmix_vision_student(t, of[1]);
        shake(m, mmix_vision_params(t), 0.3);
        for (size_t i = 0; i < mmix_vision_params(t)->count; i++)
            mmix_write(mmix_vision_params(s)->at[i].tensor,
                       mmix_data(mmix_vision_params(t)->at[i].tensor));
        config.stages = 1;
        config.calibrate = 0;
        config.stage[0].train = MMIX_TRAIN_REST;
        config.stage[0].teacher_inputs = 0;
        config.stage[0].token = 1;
        mmix_distill *run = mmix_vision_distill_create(t, s, config);
        CHECK(!mmix_vision_distill_losses(run, x, &stats));
        CHECK(stats.hidden < 1e-6);
        FINE(m);
        mmix_distill_destroy(run);
        mmix_vision_destroy(s);
        mmix_vision_destroy(t);
    }
    mmix_destroy(m);
}

/* ---- towers and vision-language models ---- */

static mmix_towers_config two_towers(void)
{
    mmix_towers_config c;
    mmix_tower_config *both[2] = { &c.picture, &c.text };
    memset(&c, 0, sizeof c);
    for (int i = 0; i < 2; i++) {
        both[i]->dim = 12;
        both[i]->depth = 2;
        both[i]->heads = 3;
        both[i]->ffn = 20;
        both[i]->eps = 1e-5;
        both[i]->projection = 1;
    }
    c.picture.patch = 4;
    c.picture.side = 8;
    c.text.vocabulary = 9;
    c.text.positions = 6;
    c.text.pool = MMIX_TOWER_LAST;
    c.width = 5;
    for (int i = 0; i < 3; i++) c.deviation[i] = 1;
    return c;
}
static void towers(void)
{
    mmix_ctx *m = context(1, 1);
    const int32_t ids[6] = { 1, 2, 3, 4, 5, 6 };
    const size_t six[2] = { 1, 6 }, three[2] = { 2, 3 };
    mmix_towers_config c = two_towers();
    mmix_towers *t = mmix_towers_create(m, c);
    doing("towers");
    CHECK(mmix_towers_text(m, t, mmix_from_i32(m, 2, six, ids)));
    BAD(mmix_towers_text(m, t, mmix_from_i32(m, 2, three, ids)), "the number of tokens is 3",
        "expected 6 to 6");
    mmix_towers_destroy(t);
    c.text.projection = 0;
    BAD(mmix_towers_create(m, c), "mmix_towers_create", "width 5 without a projection");
    c = two_towers();
    c.text.vocabulary = 0;
    BAD(mmix_towers_create(m, c), "mmix_towers_create", "text.vocabulary is 0");
    c = two_towers();
    c.picture.vocabulary = 9;
    BAD(mmix_towers_create(m, c), "mmix_towers_create", "picture.vocabulary is 9");
    mmix_destroy(m);
}
static void plans(void)
{
    static uint8_t rgb[40 * 30 * 3];
    static const char *const models[] = { GOLDEN "/smolvlm", GOLDEN "/llava-few", GOLDEN "/nvila" };
    mmix_ctx *m = context(1, 1);
    const mmix_picture in = { rgb, 40, 30 }, flat = { rgb, 0, 30 };
    for (int k = 0; k < 3; k++) {
        mmix_vlm *v = mmix_vlm_load(m, models[k]);
        mmix_vlm_plan plan, wrong;
        doing(models[k]);
        CHECK(!mmix_vlm_plan_picture(m, v, 40, 30, 1, &plan));
        CHECK(mmix_vlm_pixels(m, v, in, &plan));
        BAD(mmix_vlm_pixels(m, v, flat, &plan), "width is 0", "");
        wrong = plan;
        wrong.tiles = 1 + (plan.tiles == 1);
        BAD(mmix_vlm_pixels(m, v, in, &wrong), "plan is not mmix_vlm_plan_picture's", "40 x 30");
        wrong = plan;
        wrong.height += 1;
        BAD(mmix_vlm_pixels(m, v, in, &wrong), "plan is not mmix_vlm_plan_picture's", "40 x 30");
        CHECK(!mmix_vlm_plan_picture(m, v, 40, 30, 2, &plan) && mmix_vlm_pixels(m, v, in, &plan));
        if (k == 2) {
            const mmix_picture frames[2] = { in, in };
            const mmix_film film = { frames, 2, 1 };
            BAD(mmix_vlm_film_pixels(m, v, &film, &plan), "plan is not mmix_vlm_plan_film's", "");
        }
        mmix_vlm_config c = *mmix_vlm_config_of(v);
        c.scale = 0;
        BAD(mmix_vlm_create(m, c), "mmix_vlm_create", "scale is 0");
        if (k == 1) {
            c = *mmix_vlm_config_of(v);
            c.merge = 2;
            BAD(mmix_vlm_create(m, c), "mmix_vlm_create", "merge is 2");
        }
        FINE(m);
        mmix_vlm_destroy(v);
        mmix_reset(m);
    }
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "decoders", decoders }, { "backbones", backbones },
                                   { "towers", towers }, { "plans", plans } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
