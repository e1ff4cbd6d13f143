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

/* ---- M-MATE's steps ---- */

/* A layer of 8 features, two heads of 4, and a state for it. */
typedef struct stepped {
    mmix_params *p;
    mmix_mmate_layer layer;
    mmix_mix_state *state;
} stepped;
static stepped step_begin(mmix_ctx *m, int branches, size_t conv, size_t window)
{
    stepped s;
    mmix_mmate_options o;
    memset(&o, 0, sizeof o);
    o.branches = branches;
    o.conv_width = conv;
    o.text_window = window;
    s.p = mmix_params_create(m);
    mmix_mmate_init(&s.layer, s.p, "", 8, 2, 2, 4, 0, 0, &o);
    mmix_params_allocate(s.p);
    for (size_t i = 0; i < s.p->count; i++)
        mmix_fill_normal(m, s.p->at[i].tensor, 0.4, 100 + i);
    s.state = mmix_mix_state_create(m, 2);
    return s;
}
static void step_end(stepped *s)
{
    mmix_mix_state_destroy(s->state);
    mmix_params_destroy(s->p);
}
/* Six pieces of a token; before the fourth one comes a piece that is refused, if `bad`. Returns a
   hash of the rest. */
enum { NO_PIECE, OF_A_BATCH, WITH_A_STATE, WITH_A_WRONG_STATE };
static uint64_t pieces(mmix_ctx *m, stepped *s, int bad, size_t at)
{
    const size_t shape[4] = { 1, 2, 4, 4 };
    uint64_t h = 1;
    for (size_t t = 0; t < 6; t++) {
        mmix_layout l;
        real y[8];
        memset(&l, 0, sizeof l);
        l.state = s->state;
        mmix_tensor *x = mmix_fill_normal(m, mmix_new3(m, 1 + (bad == OF_A_BATCH), 1, 8), 1, 50);
        if (bad >= WITH_A_STATE) l.initial_state = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 4, shape), 1);
        if (bad == WITH_A_WRONG_STATE) l.initial_state = mmix_slice(m, l.initial_state, 1, 0, 1);
        if (bad && t == at) {
            CHECK(!mmix_mmate_forward(m, &s->layer, x, NULL, &l) && mmix_error(m));
            mmix_error_clear(m);
        }
        l.initial_state = NULL;
        x = mmix_fill_normal(m, mmix_new3(m, 1, 1, 8), 1, t);
        x = mmix_mmate_forward(m, &s->layer, x, NULL, &l);
        FINE(m);
        if (!x || mmix_read(x, y)) return 0;
        h = hash_of(y, 8, h);
    }
    return h;
}
/* A piece that is refused leaves all that is carried as it was. */
static void refused_steps(void)
{
    static const struct { int branches; size_t conv, window; } layers[] = {
        { MMIX_BRANCH_FLEX, 3, 0 }, { MMIX_BRANCH_SWIN, 0, 4 }, { MMIX_BRANCH_BOTH, 3, 2 }
    };
    mmix_ctx *m = context(1, 3);
    for (size_t k = 0; k < 3; k++) {
        stepped s = step_begin(m, layers[k].branches, layers[k].conv, layers[k].window);
        uint64_t expected = pieces(m, &s, NO_PIECE, 0);
        step_end(&s);
        for (int bad = OF_A_BATCH; bad <= WITH_A_WRONG_STATE; bad++) {
            if (bad >= WITH_A_STATE && layers[k].branches == MMIX_BRANCH_SWIN) continue;
            for (size_t at = bad == WITH_A_WRONG_STATE ? 0 : 1; at < 6; at += 2) {
                snprintf(about, sizeof about, "layer %d, refused piece %d before %d", (int)k, bad,
                         (int)at);
                s = step_begin(m, layers[k].branches, layers[k].conv, layers[k].window);
                CHECK_AT(pieces(m, &s, bad, at) == expected, about);
                step_end(&s);
            }
        }
        mmix_reset(m);
    }
    mmix_destroy(m);
}
/* Angles in place of positions: a row for each token, whichever list the token is in. */
static void angles(void)
{
    mmix_ctx *m = context(1, 3);
    stepped s = step_begin(m, MMIX_BRANCH_BOTH, 0, 3);
    mmix_span span;
    mmix_layout by_angles, by_positions;
    memset(&span, 0, sizeof span);
    span.start = 1;
    span.grid[0] = 1;
    span.grid[1] = span.grid[2] = 2;
    memset(&by_angles, 0, sizeof by_angles);
    by_angles.spans = &span;
    by_angles.n_spans = 1;
    by_positions = by_angles;
    s.layer.rope.theta = 10;
    mmix_tensor *at = mmix_new2(m, 6, 2);
    real values[12];
    for (int t = 0; t < 6; t++)
        for (int i = 0; i < 2; i++) values[2 * t + i] = (real)(t * pow(10, -i / 2.0));
    mmix_write(at, values);
    mmix_tensor *x = mmix_fill_normal(m, mmix_new3(m, 1, 6, 8), 1, 4);
    mmix_tensor *expected = mmix_mmate_forward(m, &s.layer, x, NULL, &by_positions);
    by_angles.angles = at;
    mmix_tensor *y = mmix_mmate_forward(m, &s.layer, x, NULL, &by_angles);
    FINE(m);
    CHECK(gap(y, expected) < 1e-5);
    by_angles.angles = mmix_slice(m, at, 0, 0, 5);
    BAD(mmix_mmate_forward(m, &s.layer, x, NULL, &by_angles), "angles has shape (5, 2)", "expected (6, ");
    step_end(&s);
    mmix_destroy(m);
}

/* ---- files ---- */

#define STORED "build/edges.safetensors"
/* A matrix w (O, 1) of bytes with its scale, which is of another type than it should be. */
static void scales_of_another_type(mmix_ctx *m)
{
    static const int8_t w[4] = { 1, 1, 1, 1 };
    static const uint16_t half[4] = { 0x3c00, 0x3c00, 0x3c00, 0x3c00 };
    static const size_t shape[2] = { 4, 1 };
    mmix_entry e[2];
    memset(e, 0, sizeof e);
    e[0].name = "w";
    e[0].dtype = MMIX_FILE_I8;
    e[0].ndim = 2;
    e[0].shape[0] = 4;
    e[0].shape[1] = 1;
    e[0].data = w;
    e[1].name = "w.scale";
    e[1].dtype = MMIX_FILE_F16;
    e[1].ndim = 1;
    e[1].shape[0] = 4;
    e[1].data = half;
    for (size_t n = 1; n <= 2; n++) {
        mmix_params *p = mmix_params_create(m);
        mmix_params_add(p, "", "w", 2, shape, MMIX_INIT_CONSTANT, 0, 0);
        mmix_archive_save(m, STORED, e, n, NULL);
        CHECK(mmix_params_load(p, STORED)
              && says(m, MMIX_ERROR_FILE, "expected (4, 1) with a .scale of F32 for each row"));
        mmix_params_destroy(p);
    }
}
/* A number without axes is a matrix (1, 1), a narrow one, too. */
static void number_for_a_matrix(mmix_ctx *m)
{
    static const size_t shape[2] = { 1, 1 };
    real x = 2, y = 0;
    mmix_entry e;
    memset(&e, 0, sizeof e);
    e.name = "w";
    e.dtype = MMIX_FILE_REAL;
    e.data = &x;
    mmix_archive_save(m, STORED, &e, 1, NULL);
    mmix_params *p = mmix_params_create(m);
    mmix_tensor *w = mmix_params_add(p, "", "w", 2, shape, MMIX_INIT_CONSTANT, 1, 0);
    mmix_params_allocate(p);
    mmix_params_narrow(p, MMIX_DTYPE_I8);
    CHECK(!mmix_params_load(p, STORED) && !mmix_read(w, &y) && y == 2);
    FINE(m);
    mmix_params_destroy(p);
}
/* A path that is longer than a message is known by its end. */
static void long_paths(mmix_ctx *m)
{
    char path[400];
    memset(path, 'd', 300);
    snprintf(path + 300, sizeof path - 300, "/model.safetensors");
    CHECK(!mmix_archive_open_memory(m, path, "{}{}{}{}{}", 10)
          && says(m, MMIX_ERROR_FILE, "ddd/model.safetensors: JSON byte 2: expected the end"));
    CHECK(!mmix_archive_open(m, path) && says(m, MMIX_ERROR_FILE, "ddd/model.safetensors: cannot be"));
}
/* ---- arguments at their ends ---- */

static mmix_tensor *of_nothing(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    (void)m;
    (void)user;
    (void)in;
    return NULL;
}
static void ends(void)
{
    mmix_ctx *m = context(1, 3);
    mmix_causal_conv1d_options conv;
    mmix_tensor *x = mmix_fill(mmix_new3(m, 1, 2, 3), 1);
    memset(&conv, 0, sizeof conv);
    conv.initial_state = mmix_fill(mmix_new3(m, 1, 3, 7), 1);
    BAD(mmix_causal_conv1d(m, x, mmix_fill(mmix_new3(m, 3, 1, 1), 1), NULL, &conv),
        "mmix_causal_conv1d", "width 1 has none");
    /* as C's pow */
    static const double of[5] = { -2, 1, -1, 0.5, -0.5 };
    for (int sign = -1; sign <= 1; sign += 2)
        for (int i = 0; i < 5; i++) {
            const double p = sign * HUGE_VAL;
            CHECK(mmix_item(mmix_pow(m, mmix_fill(mmix_new1(m, 1), of[i]), p)) == pow(of[i], p));
        }
    /* by angles only `interleaved` counts */
    mmix_rope_options rope;
    mmix_tensor *q = mmix_fill_normal(m, mmix_new4(m, 1, 2, 1, 4), 1, 1);
    mmix_tensor *angles_2 = mmix_fill_normal(m, mmix_new2(m, 2, 2), 1, 2);
    memset(&rope, 0, sizeof rope);
    rope.theta = -1;
    rope.scaling = 77;
    CHECK(gap(mmix_rope(m, q, angles_2, &rope), mmix_rope(m, q, angles_2, NULL)) <= 0);
    memset(&rope, 0, sizeof rope);
    rope.sections[0] = 2;
    rope.sections[1] = SIZE_MAX;
    rope.sections[2] = 1;
    const size_t places[2] = { 3, 2 };
    static const int32_t zeros[6] = { 0 };
    BAD(mmix_rope(m, q, mmix_from_i32(m, 2, places, zeros), &rope), "mmix_rope", "sections");
    mmix_record(m, 1);
    BAD(mmix_checkpoint(m, of_nothing, NULL, 0, NULL, 0), "mmix_checkpoint", "found NULL");
    mmix_record(m, 0);
    /* a NaN is the largest wherever it stands */
    mmix_tensor *t = mmix_fill(mmix_new3(m, 1, 2, 1), 1);
    for (int first = 0; first < 2; first++) {
        const real values[2] = { first ? (real)NAN : 1, first ? 1 : (real)NAN };
        mmix_write(t, values);
        const double most = mmix_item(mmix_pool_tokens(m, t, NULL, 0, 1, 1));
        CHECK(most != most);
    }
    /* a plan of nothing */
    mmix_vlm *v = mmix_vlm_load(m, "tests/golden/qwen/qwen2");
    mmix_vlm_plan plan;
    memset(&plan, 0, sizeof plan);
    const size_t small_film[5] = { 1, 3, 2, 1, 1 };
    x = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 5, small_film), 0);
    BAD(mmix_vlm_features(m, v, x, &plan), "mmix_vlm_features", "plan is not");
    plan.frames = plan.height = plan.width = plan.tiles = 1;
    BAD(mmix_vlm_features(m, v, x, &plan), "mmix_vlm_features", "plan is not");
    mmix_vlm_destroy(v);
    FINE(m);
    mmix_destroy(m);
}
/* Shares whose products are a little more than a whole number, and cells that are larger than a
   grid. */
static void shares(void)
{
    static const struct { mmix_prune how; size_t kept; } of[] = {
        { { 1, 0.07, { 0, 0 } }, 7 }, { { 1, 0.071, { 0, 0 } }, 8 }, { { 1, 1, { 0, 0 } }, 100 },
        { { 1, 0, { SIZE_MAX, SIZE_MAX } }, 1 }, { { 1, 0, { 5, SIZE_MAX } }, 2 }
    };
    mmix_ctx *m = context(1, 3);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        mmix_decoder_config c = small(MMIX_DECODER_ATTENTION);
        mmix_span span;
        mmix_sequence q;
        memset(&span, 0, sizeof span);
        span.grid[0] = 1;
        span.grid[1] = span.grid[2] = 10;
        memset(&q, 0, sizeof q);
        const size_t shape[2] = { 1, 101 };
        q.tokens = mmix_fill(mmix_new(m, MMIX_DTYPE_I32, 2, shape), 0);
        q.media = mmix_fill_normal(m, mmix_new3(m, 1, 100, c.media ? c.media : c.dim), 1, 1);
        q.spans = &span;
        q.n_spans = 1;
        q.prune = &of[i].how;
        mmix_decoder *d = shaken(m, c);
        mmix_tensor *y = mmix_decoder_forward(m, d, &q, NULL);
        FINE(m);
        snprintf(about, sizeof about, "pruned %d", (int)i);
        CHECK_AT(mmix_shape(y, 1) == of[i].kept + 1, about);
        mmix_decoder_destroy(d);
        mmix_reset(m);
    }
    mmix_destroy(m);
}
static void stored(void)
{
    mmix_ctx *m = context(1, 0);
    scales_of_another_type(m);
    number_for_a_matrix(m);
    long_paths(m);
    remove(STORED);
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "decoders", decoders }, { "backbones", backbones },
                                   { "towers", towers }, { "plans", plans },
                                   { "steps", refused_steps }, { "angles", angles },
                                   { "ends", ends }, { "shares", shares },
                                   { "stored", stored } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
