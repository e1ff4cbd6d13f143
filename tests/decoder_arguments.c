/* decoder_arguments.c - what decoders, layers of M-MATE and distillation refuse, and in what
   words */
#include "decoders.h"

/* Another number of sequences than before */
static void other_sequences(mmix_ctx *m, mmix_decoder *teacher, mmix_sequence s,
                            mmix_mix_state *state)
{
    mmix_sequence one = s;
    one.tokens = mmix_slice(m, s.tokens, 0, 0, 1);
    one.media = NULL;
    one.n_spans = 0;
    CHECK(!mmix_decoder_step(m, teacher, &one, state)
          && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT);
    mmix_error_clear(m);
}
/* Layers */
static void bad_layers(void)
{
    alone a = layer(0, 0, 0);
    mmix_mmate_layer l;
    mmix_mmate_options o = a.l.options;
    mmix_tensor *pos = mmix_new1(a.m, TOKENS);
    const size_t few = TOKENS - 1;
    REFUSED(a.m, mmix_mmate_init(&l, a.p, "x.", 12, 4, 3, 3, 0, 0, NULL) == -1,
            "which must divide");
    REFUSED(a.m, mmix_mmate_init(&l, a.p, "x.", 12, 0, 1, 3, 0, 0, NULL) == -1, "0 heads");
    o.shift_period = 5;
    REFUSED(a.m, mmix_mmate_init(&l, a.p, "y.", 12, 3, 3, 4, 0, 1, &o) == -1, "shift_period 5");
    REFUSED(a.m,
            !mmix_mmate_forward(a.m, &a.l, mmix_slice(a.m, a.x, 2, 0, 11), NULL, &a.layout),
            "");
    REFUSED(a.m,
            !mmix_mmate_forward(a.m, &a.l, mmix_slice(a.m, a.x, 1, 0, 26), NULL, &a.layout),
            "span 2");
    REFUSED(a.m, !mmix_mmate_forward(a.m, &a.l, a.x, mmix_slice(a.m, a.x, 1, 0, 26), &a.layout),
            "");
    REFUSED(a.m, !flex_ma(a.m, &a.l, pos, NULL, &a.layout), "x");
    a.layout.initial_state = mmix_fill(mmix_new4(a.m, BATCH, 3, 4, 5), 0);
    REFUSED(a.m, !flex_ma(a.m, &a.l, a.x, NULL, &a.layout), "");
    a.layout.initial_state = NULL;
    a.layout.positions = pos;                /* reals */
    REFUSED(a.m, !local_swin(a.m, &a.l, a.x, NULL, &a.layout), "positions");
    a.layout.positions = mmix_fill(mmix_new(a.m, MMIX_DTYPE_I32, 1, &few), 1);
    REFUSED(a.m, !local_swin(a.m, &a.l, a.x, NULL, &a.layout), "positions");
    REFUSED(a.m, !mmix_mmate_forward(a.m, &a.l, a.x, NULL, &a.layout), "positions");
    REFUSED(a.m, !attention(a.m, &a.l, a.x, NULL, &a.layout), "pos");
    a.layout.positions = NULL;
    a.layout.state = mmix_mix_state_create(a.m, 2);
    a.layout.slot = 1;
    REFUSED(a.m, !mmix_mmate_forward(a.m, &a.l, a.x, NULL, &a.layout), "slot");
    a.layout.slot = 0;
    REFUSED(a.m, !branch_matrix(a.m, &a.l, MMIX_BRANCH_FLEX, a.x, &a.layout), "state");
    mmix_mix_state_destroy(a.layout.state);
    a.layout.state = NULL;
    CHECK(!mmix_mmate_forward(a.m, &a.l, NULL, NULL, &a.layout));
    mmix_error_clear(a.m);
    leave(&a);
    a = layer(8, 0, 0);
    REFUSED(a.m, !branch_matrix(a.m, &a.l, MMIX_BRANCH_FLEX, a.x, &a.layout), "convolution");
    REFUSED(a.m, !branch_matrix(a.m, &a.l, MMIX_BRANCH_FLEX, a.x, NULL), "convolution");
    leave(&a);
    a = layer(4, 0, 0);                      /* a branch that is not there */
    CHECK(!local_swin(a.m, &a.l, a.x, NULL, &a.layout));
    mmix_error_clear(a.m);
    leave(&a);
}
/* Adding rows, losses */
static void bad_rows_and_losses(mmix_ctx *m)
{
    mmix_tensor *x = mmix_fill(mmix_new3(m, 2, 5, 3), 0);
    mmix_tensor *part = mmix_fill(mmix_new3(m, 2, 2, 3), 0);
    const int32_t at[2] = {0, 5};
    const size_t two = 2;
    REFUSED(m, !mmix_add_rows(m, x, part, mmix_from_i32(m, 1, &two, at)), "5");
    REFUSED(m,
            !mmix_add_rows(m, x, part, mmix_slice(m, mmix_from_i32(m, 1, &two, at), 0, 0, 1)),
            "");
    REFUSED(m,
            !mmix_add_rows(m, x, mmix_slice(m, part, 2, 0, 2), mmix_from_i32(m, 1, &two, at)),
            "");
    REFUSED(m, !mmix_kd_hidden(m, x, part, NULL, 0), "");
    REFUSED(m, !mmix_kd_hidden(m, x, x, mmix_from_i32(m, 1, &two, at), 0), "mask");
    REFUSED(m, !mmix_kd_token(m, x, part, NULL, 1), "");
    REFUSED(m, !mmix_kd_token(m, x, x, NULL, 0), "temperature");
    REFUSED(m, !mmix_kd_token(m, x, x, mmix_from_i32(m, 1, &two, at), 1), "mask");
}
static void bad_distillation(mmix_ctx *m, mmix_decoder_config t, mmix_decoder *d,
                             mmix_decoder *teacher, mmix_decoder *student)
{
    mmix_distill_config good = three_stages(1), bad = good;
    mmix_distill_batch b;
    mmix_distill *run;
    REFUSED(m, !mmix_distill_create(teacher, d, good), "");
    bad.stages = 0;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "stages");
    bad.stages = MMIX_MAX_STAGES + 1;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "stages");
    bad = good;
    bad.stage[1].train = 0;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "stage 1");
    bad = good;
    bad.stage[2].temperature = 0;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "stage 2");
    bad = good;
    bad.lora_rank = 0;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "rank");
    bad = good;
    bad.stage[1].lr = INFINITY;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "stage 1: lr is inf");
    bad = good;
    bad.stage[0].min_lr = NAN;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "min_lr");
    bad = good;
    bad.stage[0].weight_decay = NAN;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "weight_decay");
    bad = good;
    bad.stage[0].hidden = bad.stage[0].token = 0;
    REFUSED(m, !mmix_distill_create(teacher, student, bad), "losses' weights");
    REFUSED(m, !mmix_distill_create(teacher, teacher, good), "another model");
    /* Flex-MA trains in stage 1, and this student has none */
    {
        mmix_mmate_options swin = t.mmate;
        swin.branches = MMIX_BRANCH_SWIN;
        mmix_decoder *other = mmix_decoder_student(teacher, &swin);
        REFUSED(m, !mmix_distill_create(teacher, other, good),
                "stage 0: expected that it trains something");
        bad = good;
        bad.stage[0].train = MMIX_TRAIN_SWIN;
        run = mmix_distill_create(teacher, other, bad);
        /* without spans and a text window no token takes part */
        b = batch_of(m, 0, 1);
        b.input.spans = NULL;
        b.input.media = NULL;
        b.input.n_spans = 0;
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "takes part");
        mmix_distill_destroy(run);
        mmix_decoder_destroy(other);
    }
    good.stage[0].supervised = 1;
    run = mmix_distill_create(teacher, student, good);
    FINE(m);
    CHECK(mmix_distill_step(run, NULL, NULL) == -1 && mmix_error(m));
    mmix_error_clear(m);
    b = batch_of(m, 0, 1);
    b.target = mmix_slice(m, b.target, 1, 0, 20);
    REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "target");
    b = batch_of(m, 0, 1);
    b.mask = mmix_slice(m, b.mask, 1, 0, 20);
    REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "mask");
    b = batch_of(m, 0, 0);
    mmix_data_i32(b.target)[LAST_TEXT] = WORDS;
    REFUSED(
        m, mmix_distill_step(run, &b, NULL) == -1,
        "mmix_distill_step: target of position 29 of sequence 0 is 23, expected at most 22");
    REFUSED(m, mmix_distill_losses(run, &b, NULL) == -1,
            "mmix_distill_losses: target of position 29");
    REFUSED(m, mmix_distill_losses(run, NULL, NULL) == -1, "NULL");
    REFUSED(m, !mmix_distill_load(teacher, "build/no_such_run.safetensors", NULL),
            "student is NULL");
    b = batch_of(m, 0, 0);
    for (size_t i = 0; i < BATCH * TOKENS; i++)
        mmix_data_i32(b.target)[i] = -1;
    REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "mmix_distill_step: no answer");
    b = batch_of(m, 0, 0);
    b.input.spans = NULL;
    REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "spans is NULL");
    b = batch_of(m, 0, 0);
    b.input.n_spans = 1;
    REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "media");
    mmix_distill_destroy(run);
    /* the teacher answers, and spans come before answers then */
    good.stage[0].sequence = 1;
    run = mmix_distill_create(teacher, student, good);
    b = batch_of(m, 0, 0);
    mmix_data_i32(b.target)[0] = 1;
    REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "row 0 has 3 targets at 0 to 30; where");
    b = batch_of(m, 0, 0);
    mmix_data_i32(b.target)[LAST_TEXT] = -1;
    mmix_data_i32(b.target)[LAST_TEXT - 1] = 1;
    REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "row 0 has 2 targets at 28 to 30");
    mmix_distill_destroy(run);
}
/* ---- bad arguments ---- */

static void bad_arguments(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_decoder_config c = small(MMIX_DECODER_MMATE), t = pupil(MMIX_DECODER_ATTENTION), wrong;
    mmix_decoder *d, *teacher, *student;
    mmix_sequence s;
    mmix_span bent[SPANS];
    mmix_mix_state *state;
    snprintf(about, sizeof about, "bad arguments");
    d = shaken(m, c);
    teacher = shaken(m, t);
#define WRONG(change, text) (wrong = c, change, REFUSED(m, !mmix_decoder_create(m, wrong), text))
    WRONG(wrong.mixer = 7, "mixer is 7");
    WRONG(wrong.mixer = -1, "mixer is -1");
    WRONG(wrong.dim = 0, "dim is 0");
    WRONG(wrong.vocabulary = 0, "vocabulary is 0");
    WRONG(wrong.depth = 0, "depth is 0");
    WRONG(wrong.depth = SIZE_MAX, "depth is");
    WRONG(wrong.dim = SIZE_MAX, "dim is");
    WRONG(wrong.media = SIZE_MAX, "media is");
    WRONG(wrong.mmate.conv_width = SIZE_MAX, "conv_width is");
    WRONG((wrong.heads = SIZE_MAX, wrong.kv_heads = 0), "heads is");
    WRONG(wrong.bias = 3, "bias is 3");
    WRONG(wrong.bias = -1, "bias is -1");
    WRONG(wrong.rope.theta = NAN, "rope.theta");
    WRONG(wrong.head_dim = 5, "rope.dim 5");
    WRONG(wrong.rope.dim = 8, "rope.dim 8");
    WRONG(wrong.rope.sections[0] += 1, "sections");
    WRONG(wrong.ffn_kind = 3, "ffn_kind is 3");
    WRONG((wrong.mixer = MMIX_DECODER_LISTED, wrong.layers[1].windowed = 1), "layer 1 is windowed");
    WRONG(wrong.mamba1.bidirectional = 1, "mamba1.bidirectional is 1");
    WRONG((wrong.mixer = MMIX_DECODER_LISTED, wrong.depth = 129), "depth is 129");
    WRONG((wrong.mixer = MMIX_DECODER_LISTED, wrong.layers[3].mixer = 6), "layers is 6");
    WRONG((wrong.mixer = MMIX_DECODER_MAMBA2, wrong.mamba2.head_dim = 7), "heads of 7");
    WRONG(wrong.rope.scaling = 4, "rope.scaling is 4");
    WRONG(wrong.rope.scaling = MMIX_ROPE_LINEAR, "rope.factor 0");
    WRONG((wrong.rope.scaling = MMIX_ROPE_YARN, wrong.rope.factor = 2), "original 0");
    WRONG(wrong.heads = 0, "heads is 0");
    WRONG(wrong.kv_heads = 3, "3 for keys and values, which must divide them");
    WRONG((wrong.head_dim = 0, wrong.heads = 5, wrong.kv_heads = 5), "the 5 heads");
    WRONG(wrong.mmate.shift_period = 3, "shift_period 3");
    WRONG(wrong.mmate.branches = 3, "branches is 3");
    WRONG((wrong.mixer = MMIX_DECODER_ATTENTION, wrong.mmate.branches = 4), "branches is 4");
    WRONG(wrong.mmate.directions = -1, "directions is -1");
#undef WRONG

    /* sequences */
#define BENT(change, text)                                                                  \
    do {                                                                                    \
        s = sequence(m, 1, 1);                                                              \
        memcpy(bent, spans, sizeof bent);                                                   \
        s.spans = bent;                                                                     \
        change;                                                                             \
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), text);                            \
        REFUSED(m, !mmix_decoder_matrix(m, d, &s, 0), text);                                \
        state = mmix_decoder_state_create(d);                                               \
        REFUSED(m, !mmix_decoder_step(m, d, &s, state), text);                              \
        mmix_mix_state_destroy(state);                                                  \
        mmix_reset(m);                                                                      \
    } while (0)
    BENT(bent[1].start = 7, "span 1");
    BENT((bent[1] = bent[0]), "span 1");
    BENT(bent[2].start = TOKENS - 9, "span 2");
    BENT(bent[2].start = SIZE_MAX - 3, "span 2");
    BENT(bent[0].grid[0] = 0, "span 0");
    BENT(bent[0].grid[2] = SIZE_MAX / 2, "span 0");
    BENT(bent[0].separators = SIZE_MAX, "span 0");
    BENT(bent[1].frame_step = -1, "frame_step is -1");
    BENT(bent[2].frame_step = NAN, "frame_step is");
    BENT(bent[2].frame_step = 1e7, "frame_step is 20000000");
    BENT(s.media = mmix_slice(m, s.media, 1, 0, GRID - 1), "media");
    BENT(s.media = mmix_slice(m, s.media, 2, 0, FEATURES - 1), "media");
    BENT(s.media = mmix_slice(m, s.media, 0, 0, 1), "media");
    BENT(s.n_spans = 2, "media");
    BENT(s.n_spans = 0, "media");
    BENT(mmix_data_i32(s.tokens)[1] = WORDS, "is 23");
    BENT(mmix_data_i32(s.tokens)[TOKENS] = -1, "is -1");
    BENT((s.media = NULL, mmix_data_i32(s.tokens)[3] = 1 << 30), "is 1073741824");
    BENT(s.tokens = mmix_slice(m, mmix_new2(m, BATCH, TOKENS), 1, 0, TOKENS), "tokens");
    BENT(s.tokens = mmix_slice(m, s.tokens, 1, 0, 0), "");
    BENT((s.tokens = NULL), "tokens");
#undef BENT
    s = sequence(m, 1, 1);
    REFUSED(m, !mmix_decoder_forward(m, d, NULL, NULL), "NULL");
    CHECK(!mmix_decoder_forward(m, NULL, &s, NULL) && !mmix_decoder_logits(m, NULL, s.media)
          && !mmix_decoder_state_create(NULL));
    mmix_error_clear(m);
    mmix_decoder_destroy(NULL);
    mmix_mix_state_destroy(NULL);
    mmix_distill_destroy(NULL);
    REFUSED(m, !mmix_decoder_matrix(m, d, &s, 4), "layer is 4, expected 0 to 3");
    REFUSED(m, !mmix_decoder_step(m, d, &s, NULL), "NULL");
    state = mmix_decoder_state_create(teacher);
    REFUSED(m, !mmix_decoder_step(m, d, &s, state), "another");
    mmix_decoder_step(m, teacher, &s, state);
    other_sequences(m, teacher, s, state);
    mmix_mix_state_destroy(state);
    {
        mmix_tensor *inputs[4] = {NULL, NULL, NULL, NULL};
        mmix_decoder_options look;
        memset(&look, 0, sizeof look);
        look.inputs = inputs;
        inputs[0] = mmix_new3(m, BATCH, TOKENS, 11);
        REFUSED(m, !mmix_decoder_forward(m, d, &s, &look), "inputs");
        REFUSED(m, !mmix_decoder_logits(m, d, inputs[0]), "");
    }
    bad_layers();
    bad_rows_and_losses(m);
    /* what a chain of calls ends with */
    {
        const mmix_real endless[3] = {0, 1, (mmix_real)INFINITY};
        const mmix_sampling warm = {1, 0, 0, 0, 0};
        int32_t made[4] = {0, 0, 0, 0};
        mmix_tensor *short_one, *x;
        mmix_mmate_layer one = layer_of(d, d->params, 0);
        s = sequence(m, 1, 1);
        REFUSED(m, mmix_sample_token(m, NULL, WORDS, NULL, 0) == 0,
                "mmix_sample_token: logits is NULL");
        REFUSED(m, mmix_sample_token(m, endless, 0, &warm, 0) == 0, "mmix_sample_token: K is 0");
        CHECK(mmix_sample_token(m, endless, 3, &warm, 0) == 2);
        REFUSED(m, generate(m, d, made, 0, NULL, made, 4) == 0, "axis 1 has size 0");
        REFUSED(m, generate(m, d, made, 2, NULL, NULL, 4) == 0,
                "mmix_decoder_generate: tokens is NULL");
        REFUSED(m, mmix_decoder_generate(m, d, NULL, NULL, made, 4) == 0,
                "mmix_decoder_generate: sequence is NULL");
        s.tokens = NULL;
        REFUSED(m, mmix_decoder_generate(m, d, &s, NULL, made, 4) == 0, "tokens is NULL");
        s.tokens = mmix_fill(mmix_new2(m, 1, 4), 1);
        REFUSED(m, mmix_decoder_generate(m, d, &s, NULL, made, 4) == 0,
                "tokens is real, expected int32");
        short_one = mmix_fill(mmix_new3(m, 2, 4, c.dim), 0);
        x = mmix_fill(mmix_new3(m, 2, 5, c.dim), 0);
        REFUSED(m, !local_swin(m, &one, x, short_one, NULL), "residual");
        s = sequence(m, 1, 1);
        s.spans = NULL;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "spans is NULL");
        CHECK(!mmix_decoder_load(NULL, "any") && !mmix_vision_load(NULL, "any"));
    }
    /* adapters, conversion, distillation */
    REFUSED(m, mmix_params_add_lora(d->params, 0, 1, MMIX_LORA_FFN) == -1, "rank 0");
    REFUSED(m, mmix_params_add_lora(d->params, 1, 1, 0) == -1, "targets 0");
    CHECK(!mmix_params_add_lora(d->params, 1, 1, MMIX_LORA_FFN));
    REFUSED(m, mmix_params_add_lora(d->params, 1, 1, MMIX_LORA_FFN) == -1, "already");
    REFUSED(m, !mmix_decoder_student(d, NULL), "layers of attention alone");
    CHECK(!mmix_decoder_student(NULL, NULL));
    mmix_error_clear(m);
    t.mmate.shift_period = 1;
    REFUSED(m, !mmix_decoder_student(teacher, &t.mmate), "shift_period 1");
    t.mmate.shift_period = 0;
    student = mmix_decoder_student(teacher, &t.mmate);
    REFUSED(m, mmix_decoder_calibrate(d, teacher, &s) == -1, "sizes");
    REFUSED(m, mmix_decoder_calibrate(student, student, &s) == -1, "");
    bad_distillation(m, t, d, teacher, student);
    FINE(m);
    mmix_decoder_destroy(student);
    mmix_decoder_destroy(teacher);
    mmix_decoder_destroy(d);
    mmix_destroy(m);
}

/* ---- nothing given ---- */

/* Without a context: layers, models and what draws from them return NULL, 0 or -1, as ops do. */
static void no_context(void)
{
    const mmix_real logits[3] = { 1, 2, 3 };
    mmix_attention_layer attention;
    mmix_mlp_layer mlp;
    mmix_swiglu_layer swiglu;
    mmix_mamba2_layer mamba;
    mmix_mamba1_layer selective;
    mmix_mmate_layer mmate;
    mmix_layout layout;
    mmix_sampling sampling;
    int32_t made[2] = { 5, 5 };
    memset(&attention, 0, sizeof attention);
    memset(&mlp, 0, sizeof mlp);
    memset(&swiglu, 0, sizeof swiglu);
    memset(&mamba, 0, sizeof mamba);
    memset(&selective, 0, sizeof selective);
    memset(&mmate, 0, sizeof mmate);
    memset(&layout, 0, sizeof layout);
    memset(&sampling, 0, sizeof sampling);
    sampling.temperature = 1;
    CHECK(!mmix_attention_forward(NULL, &attention, NULL, NULL, NULL, NULL, 0));
    CHECK(!mmix_mlp_forward(NULL, &mlp, NULL, NULL, NULL));
    CHECK(!mmix_swiglu_forward(NULL, &swiglu, NULL, NULL, NULL));
    CHECK(!mmix_mamba2_forward(NULL, &mamba, NULL, NULL, NULL, NULL, NULL));
    CHECK(!mmix_mamba1_forward(NULL, &selective, NULL, NULL, NULL, NULL, NULL));
    CHECK(!mmix_mmate_forward(NULL, &mmate, NULL, NULL, NULL));
    CHECK(!mmix_mmate_forward(NULL, &mmate, NULL, NULL, &layout));
    CHECK(!mmix_mmate_matrix(NULL, &mmate, NULL, &layout));
    CHECK(!mmix_drop_path_scales(NULL, 3, 0.5, 0, 0));
    CHECK(!mmix_dropout(NULL, NULL, 0.5, 0, 0));
    CHECK(!mmix_params_create(NULL));
    CHECK(!mmix_vision_create(NULL, mmix_vision_config_vit(64, 8)));
    CHECK(!mmix_vision_forward(NULL, NULL, NULL, NULL).tokens);
    CHECK(!mmix_vision_attention(NULL, NULL, NULL, 0));
    CHECK(!mmix_decoder_create(NULL, small(MMIX_DECODER_MMATE)));
    CHECK(!mmix_decoder_forward(NULL, NULL, NULL, NULL));
    CHECK(!mmix_decoder_logits(NULL, NULL, NULL));
    CHECK(!mmix_decoder_matrix(NULL, NULL, NULL, 0));
    CHECK(!mmix_decoder_step(NULL, NULL, NULL, NULL));
    CHECK(!mmix_decoder_generate(NULL, NULL, NULL, NULL, made, 2) && made[0] == 5);
    CHECK(!mmix_sample_token(NULL, logits, 3, NULL, 0));
    CHECK(!mmix_sample_token(NULL, logits, 3, &sampling, 0));
}
/* Without a list of parameters an _init returns -1; without a layer, or with nothing to name it
   by, it says so. */
static void no_parameters(void)
{
    mmix_attention_layer attention;
    mmix_mlp_layer mlp;
    mmix_swiglu_layer swiglu;
    mmix_mamba2_layer mamba;
    mmix_mamba1_layer selective;
    mmix_mmate_layer mmate;
    mmix_dino_head head;
    CHECK(mmix_attention_init(&attention, NULL, "", 4, 3, MMIX_MIXER_SOFTMAX, 1) == -1);
    CHECK(mmix_mlp_init(&mlp, NULL, "", 4, 8, 4) == -1);
    CHECK(mmix_swiglu_init(&swiglu, NULL, "", 4, 8) == -1);
    CHECK(mmix_mamba2_init(&mamba, NULL, "", 5, NULL) == -1);
    CHECK(mmix_mamba1_init(&selective, NULL, "", 5, NULL) == -1);
    CHECK(mmix_mmate_init(&mmate, NULL, "", 4, 2, 2, 2, 0, 1, NULL) == -1);
    CHECK(mmix_dino_head_init(&head, NULL, "", 4, 4, 4, 4, 1) == -1);
    CHECK(!mmix_params_add(NULL, "", "w", 0, NULL, MMIX_INIT_CONSTANT, 0, 0)
          && !mmix_params_find(NULL, "w"));
    CHECK(mmix_params_allocate(NULL) == -1 && mmix_params_require_grad(NULL, 1) == -1
          && mmix_params_pack(NULL, 1) == -1);
    CHECK(mmix_params_add_lora(NULL, 1, 1, MMIX_LORA_FFN) == -1
          && mmix_params_merge_lora(NULL) == -1);
    mmix_params_zero_grad(NULL);
    mmix_params_destroy(NULL);
    CHECK(mmix_vision_flops(NULL, 64, 64) <= 0 && !mmix_vision_class_index(NULL, 4, NULL));
    CHECK(!mmix_vision_config_of(NULL) && !mmix_vision_params(NULL)
          && !mmix_vision_student(NULL, mmix_vision_config_vit(64, 8)));

    mmix_ctx *m = context(1, 0);
    mmix_params *p = mmix_params_create(m);
    CHECK(!mmix_params_find(p, NULL));
    REFUSED(m, mmix_attention_init(NULL, p, "", 4, 2, MMIX_MIXER_SOFTMAX, 1),
            "mmix_attention_init: layer is NULL");
    REFUSED(m, mmix_mlp_init(NULL, p, "", 4, 8, 4), "mmix_mlp_init: layer is NULL");
    REFUSED(m, mmix_swiglu_init(NULL, p, "", 4, 8), "mmix_swiglu_init: layer is NULL");
    REFUSED(m, mmix_mamba2_init(NULL, p, "", 128, NULL), "mmix_mamba2_init: layer is NULL");
    REFUSED(m, mmix_mamba1_init(NULL, p, "", 128, NULL), "mmix_mamba1_init: layer is NULL");
    REFUSED(m, mmix_mmate_init(NULL, p, "", 4, 2, 2, 2, 0, 1, NULL),
            "mmix_mmate_init: layer is NULL");
    REFUSED(m, mmix_dino_head_init(NULL, p, "", 4, 4, 4, 4, 1),
            "mmix_dino_head_init: head is NULL");
    REFUSED(m, mmix_mmate_init(&mmate, p, NULL, 4, 2, 2, 2, 0, 1, NULL),
            "mmix_mmate_init: prefix is NULL");
    mmix_tensor *x = mmix_fill(mmix_new3(m, 1, 3, 4), 1);
    REFUSED(m, !mmix_attention_forward(m, NULL, x, NULL, NULL, NULL, 0),
            "mmix_attention_forward: layer is NULL");
    REFUSED(m, !mmix_mlp_forward(m, NULL, x, NULL, NULL), "mmix_mlp_forward: layer is NULL");
    REFUSED(m, !mmix_swiglu_forward(m, NULL, x, NULL, NULL), "mmix_swiglu_forward: layer is NULL");
    REFUSED(m, !mmix_mamba2_forward(m, NULL, x, NULL, NULL, NULL, NULL),
            "mmix_mamba2_forward: layer is NULL");
    REFUSED(m, !mmix_mamba1_forward(m, NULL, x, NULL, NULL, NULL, NULL),
            "mmix_mamba1_forward: layer is NULL");
    REFUSED(m, !mmix_mmate_forward(m, NULL, x, NULL, NULL), "mmix_mmate_forward: layer is NULL");
    REFUSED(m, !mmix_mmate_matrix(m, NULL, x, NULL), "mmix_mmate_matrix: layer is NULL");
    FINE(m);
    mmix_params_destroy(p);
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "arguments", bad_arguments },
                                   { "no context", no_context },
                                   { "no parameters", no_parameters } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
