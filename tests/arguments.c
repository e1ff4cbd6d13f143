/* arguments.c - what is refused, and in what words; what comes of calls that are rare */
#include "models.h"

#define FILE_A "build/arguments_a.safetensors"

/* bf16: the nearest number with eight bits */
static void bf16_values(mmix_ctx *m, size_t *two3)
{
    mmix_tensor *half = mmix_new(m, MMIX_DTYPE_BF16, 2, two3);
    mmix_tensor *same = mmix_new(m, MMIX_DTYPE_BF16, 2, two3);
    mmix_tensor *eye = mmix_fill(mmix_new2(m, 3, 3), 0), *y;
    for (int d = 0; d < 3; d++)
        mmix_data(eye)[4 * d] = 1;
    CHECK(mmix_fill(half, 1.0 / 3) == half);
    y = mmix_linear(m, eye, half, NULL);
    IS(mmix_data(y)[5], 0.333984375);
    CHECK(mmix_fill_normal(m, half, 1, 3) == half && mmix_fill_normal(m, same, 1, 4) == same);
    CHECK(apart(mmix_linear(m, eye, half, NULL), mmix_linear(m, eye, same, NULL)) > 0.1);
    NEAR(mmix_data(mmix_linear(m, eye, half, NULL))[0],
         mmix_data(mmix_fill_normal(m, mmix_new1(m, 1), 1, 3))[0], 0.01);
}
/* What failed to be made is passed on without harm */
static void after_a_failure(mmix_ctx *m, size_t *two3)
{
    mmix_optimizer none;
    mmix_adamw o = mmix_adamw_config_default();
    memset(&none, 0, sizeof none);
    IS(mmix_adamw_step(&none, &o, 0, NULL), 0);
    CHECK(!mmix_new1(NULL, 3) && !mmix_silu(NULL, NULL) && !mmix_params_create(NULL)
          && !mmix_record(NULL, 1));
    CHECK(!mmix_vision_create(NULL, mmix_vision_config_vit(192, 16))
          && !mmix_dino_create(NULL, mmix_dino_config_small_data()));
    mmix_reset(NULL);
    IS(mmix_schedule_multistep(1, 0.1, two3, 2, 0, 0, 1, 5), 1);
    BAD(mmix_vision_create(m, mmix_vision_config_vit(192, 0)), "mmix_vision_create",
        "patch is 0");
    CHECK(!mmix_vision_create(m, mmix_vision_config_vit(192, 0)) && mmix_params_load(NULL, "x")
          && mmix_params_pack(mmix_vision_params(NULL), 1) && mmix_params_require_grad(NULL, 1)
          && !mmix_vision_forward(m, NULL, NULL, NULL).token && mmix_vision_save(m, NULL, "x")
          && !mmix_vision_config_of(NULL) && mmix_dino_step(NULL, NULL, 0, NULL)
          && mmix_dino_step_crops(NULL, NULL, NULL, NULL) && mmix_dino_save(NULL, "x", NULL)
          && !mmix_dino_backbone(NULL, 1)
          && strstr(mmix_error(m), "patch is 0")); /* a chain after what could not be created */
    mmix_error_clear(m);
}
static void layer_arguments(mmix_ctx *m, size_t *s13)
{
    mmix_params *p = mmix_params_create(m);
    mmix_swiglu_layer up;
    mmix_mamba2_layer mamba;
    mmix_mamba2_options small;
    mmix_mamba2_state last;
    mmix_mamba1_layer selective;
    mmix_mamba1_options both;
    memset(&both, 0, sizeof both);
    memset(&small, 0, sizeof small);
    memset(&last, 0, sizeof last);
    small.d_inner = 8;
    small.d_state = small.head_dim = 4;
    mmix_swiglu_init(&up, p, "a.", 8, 8);
    mmix_mamba2_init(&mamba, p, "b.", 4, &small);
    mmix_mamba1_init(&selective, p, "c.", 4, NULL);
    CHECK(!mmix_params_allocate(p));
    /* long ones go by pieces, with the same words */
    BAD(mmix_swiglu_forward(m, &up, mmix_new3(m, 1, 1200, 8), mmix_new3(m, 2, 1200, 8), NULL),
        "residual has shape (2, 1200, 8)", "expected (1, 1200, 8)");
    BAD(mmix_mamba2_forward(m, &mamba, mmix_new3(m, 1, 3, 4), NULL, NULL,
                            mmix_new(m, MMIX_DTYPE_I32, 2, s13), &last),
        "mmix_mamba2_forward", "state and seq_idx");
    BAD(mmix_mamba1_forward(m, &selective, mmix_new3(m, 1, 3, 4), NULL, NULL,
                            mmix_new(m, MMIX_DTYPE_I32, 2, s13), &last),
        "mmix_mamba1_forward", "state and seq_idx");
    last.ssm = mmix_new4(m, 1, 8, 1, 5);
    BAD(mmix_mamba1_forward(m, &selective, mmix_new3(m, 1, 3, 4), NULL, NULL, NULL, &last),
        "initial_state has shape (1, 8, 1, 5)", "expected (1, 8, 1, 16)");
    BAD(mmix_mamba1_forward(m, &selective, mmix_new3(m, 1, 3, 5), NULL, NULL, NULL, NULL),
        "mmix_linear", "x has shape (1, 3, 5)");
    selective.options.bidirectional = 1;
    BAD(mmix_mamba1_forward(m, &selective, mmix_new3(m, 1, 3, 4), NULL, NULL, NULL, &last),
        "mmix_mamba1_forward", "a bidirectional layer has no state");
    mmix_params_destroy(p);
    p = mmix_params_create(m);
    both.d_state = SIZE_MAX / 2 + 1;             /* twice as many is 0 */
    BAD_INT(mmix_mamba1_init(&selective, p, "c.", 4, &both), "c.A_log",
            "expected 1 to what memory");
    mmix_params_destroy(p);
}
static void bad_arguments(void)
{
    mmix_ctx *m = context(1, 0), *other = context(1, 0);
    size_t s7[7] = { 1, 1, 1, 1, 1, 1, 1 }, huge[2] = { SIZE_MAX / 4, SIZE_MAX / 4 },
           two3[2] = { 2, 3 };
    size_t s10[2] = { 10, 6 }, s2x15[2] = { 2, 15 }, s2x1x15[3] = { 2, 1, 15 }, s13[2] = { 1, 3 },
           s35[2] = { 3, 5 }, s33[2] = { 3, 3 };
    int32_t ints[6] = { 0, 1, 2, 3, 4, 9 };
    int twice[2] = { 0, 0 };
    mmix_tensor *a = mmix_fill(mmix_new2(m, 2, 3), 1);
    mmix_tensor *b = mmix_fill(mmix_new2(m, 4, 5), 1);
    mmix_tensor *v = mmix_fill(mmix_new1(m, 4), 1);
    mmix_tensor *i = mmix_from_i32(m, 2, two3, ints);
    mmix_tensor *x3 = mmix_fill(mmix_new3(m, 2, 5, 6), 1);
    mmix_tensor *x4 = mmix_fill(mmix_new4(m, 2, 3, 5, 6), 1);
    mmix_tensor *parts[13];
    mmix_mixer x;
    mmix_causal_conv1d_options conv;
    mmix_rope_options rope;
    mmix_rank rank;
    mmix_mixer_rank ranks;
    mmix_mix_state *steps;
    memset(&rope, 0, sizeof rope);
    doing("arguments");
    BAD(mmix_new(m, MMIX_DTYPE_REAL, 7, s7), "mmix_new", "7");
    BAD(mmix_new(m, 9, 2, two3), "mmix_new", "is 9, expected 0 to 6");
    BAD(mmix_new2(m, 3, 0), "mmix_new", "axis 1");
    BAD(mmix_new(m, MMIX_DTYPE_REAL, 2, NULL), "mmix_new", "NULL");
    BAD(mmix_new(m, MMIX_DTYPE_U8, 2, two3), "mmix_new", "no tensors of MMIX_DTYPE_U8");
    BAD(mmix_fill(i, 3e9), "mmix_fill", "is 3000000000, expected");
    BAD(mmix_fill(i, NAN), "mmix_fill", "the value of int32 is");
    BAD(mmix_fill_normal(m, i, 1, 0), "mmix_fill_normal", "t is int32, expected real");
    {
        const mmix_op_functions backward_alone = { NULL, mmix_op_get(m, MMIX_OP_ADD).backward };
        mmix_call call;
        memset(&call, 0, sizeof call);
        BAD(mmix_save_for_backward(m, &call, MMIX_MAX_SAVED, 1), "mmix_save_for_backward",
            "slot is 4, expected 0 to 3");
        BAD(mmix_save_for_backward(m, &call, -1, 1), "mmix_save_for_backward",
            "slot is -1, expected 0 to 3");
        BAD(mmix_save_for_backward(m, NULL, 0, 1), "mmix_save_for_backward", "call is NULL");
        CHECK(mmix_save_for_backward(m, &call, 3, 5) && call.saved_count[3] == 5);
        BAD(mmix_custom_op(m, &a, 1, 2, two3, backward_alone, NULL), "mmix_custom_op",
            "forward is NULL");
        BAD_INT(mmix_op_set(m, MMIX_OP_ADD, &backward_alone), "mmix_op_set", "forward is NULL");
    }
    bf16_values(m, two3);
    BAD(mmix_concat(m, 0, NULL, 2), "mmix_concat", "NULL");
    BAD(mmix_from(m, 2, two3, NULL), "mmix_from", "values is NULL");
    BAD(mmix_from_i32(m, 2, two3, NULL), "mmix_from_i32", "values is NULL");
    BAD_INT(mmix_write(a, NULL), "mmix_write", "values is NULL");
    BAD_INT(mmix_read(a, NULL), "mmix_read", "values is NULL");
    BAD_INT(mmix_backward_from(m, NULL, NULL, 1), "mmix_backward", "outputs is NULL");
    CHECK(mmix_backward_from(NULL, NULL, NULL, 0)
          && !mmix_checkpoint(NULL, NULL, NULL, 0, NULL, 0));
    BAD(mmix_permute(m, a, NULL), "mmix_permute", "order");
    BAD(mmix_custom_op(m, NULL, 1, 0, NULL, mmix_op_get(m, MMIX_OP_ADD), NULL), "mmix_custom_op",
        "NULL");
    BAD(mmix_new(m, MMIX_DTYPE_REAL, 2, huge), "mmix_new", "axis");
    BAD(mmix_add(m, a, b), "mmix_add", "(2, 3) and (4, 5)");
    BAD(mmix_div(m, a, NULL), "mmix_div", "b is NULL");
    BAD(mmix_maximum(m, a, b), "mmix_maximum", "(2, 3) and (4, 5)");
    BAD(mmix_relu(m, NULL), "mmix_relu", "x is NULL");
    BAD(mmix_pow(m, NULL, 2), "mmix_pow", "x is NULL");
    BAD(mmix_dropout(m, a, 1, 0, 0), "mmix_dropout", "rate is 1");
    BAD(mmix_dropout(m, a, NAN, 0, 0), "mmix_dropout", "rate is");
    BAD(mmix_vision_forward(m, NULL, a, NULL).token, "mmix_vision_forward", "backbone is NULL");
    BAD(mmix_vision_attention(m, NULL, a, 0), "mmix_vision_attention", "backbone is NULL");
    BAD(mmix_decoder_forward(m, NULL, NULL, NULL), "mmix_decoder_forward", "decoder is NULL");
    BAD(mmix_decoder_logits(m, NULL, a), "mmix_decoder_logits", "decoder is NULL");
    BAD(mmix_decoder_matrix(m, NULL, NULL, 0), "mmix_decoder_matrix", "decoder is NULL");
    BAD(mmix_decoder_step(m, NULL, NULL, NULL), "mmix_decoder_step", "decoder is NULL");
    CHECK(mmix_version() == MMIX_VERSION && !mmix_vision_forward(NULL, NULL, NULL, NULL).token);
    BAD(mmix_pool_tokens(m, NULL, NULL, 0, 1, 0), "mmix_pool_tokens", "tokens is NULL");
    {                                            /* integers in views */
        mmix_tensor *column = mmix_slice(m, i, 1, 1, 1);
        mmix_tensor *y = mmix_take_rows(m, mmix_reshape(m, x3, 2, s10), column);
        CHECK(y && mmix_shape(y, 1) == 1 && mmix_shape(y, 2) == 6);
        mmix_fill(x3, 1);
        for (size_t k = 0; k < 60; k++)
            mmix_data(x3)[k] = (real)(k / 6);
        y = mmix_take_rows(m, mmix_reshape(m, x3, 2, s10), column);
        IS(mmix_data(y)[0], 1);
        IS(mmix_data(y)[6], 4);
        BAD(mmix_reshape(m, column, 1, two3), "mmix_reshape", "gaps");
        {                                        /* labels too may lie in a view */
            const int32_t labels[2] = { mmix_data_i32(column)[0],
                                        mmix_data_i32(column)[mmix_stride(column, 0)] };
            const size_t two = 2;
            mmix_tensor *logits = mmix_reshape(m, mmix_slice(m, x3, 0, 0, 1), 2, s2x15);
            IS(mmix_item(mmix_cross_entropy(m, mmix_reshape(m, logits, 3, s2x1x15), column, -1)),
               mmix_item(mmix_cross_entropy(m, logits, mmix_from_i32(m, 1, &two, labels), -1)));
            FINE(m);
        }
        mmix_fill(column, 7);
        CHECK(mmix_data_i32(i)[1] == 7 && mmix_data_i32(i)[4] == 7 && mmix_data_i32(i)[0] == 0
              && mmix_data_i32(i)[2] == 2);
        mmix_data_i32(i)[1] = 1;
        mmix_data_i32(i)[4] = 4;
    }
    after_a_failure(m, two3);
    BAD(mmix_mul(m, i, a), "mmix_mul", "a is int32, expected real");
    BAD(mmix_exp(m, NULL), "mmix_exp", "x is NULL");
    BAD(mmix_matmul(m, a, b), "mmix_matmul", "(4, 5)");
    BAD(mmix_matmul(m, v, v), "mmix_matmul", "(4)");
    BAD(mmix_permute(m, a, twice), "mmix_permute", "order[1]");
    BAD(mmix_sum_axis(m, a, 2), "mmix_sum_axis", "axis 2 of (2, 3)");
    BAD(mmix_sum_axis(m, a, -3), "axis -3 of (2, 3)", "expected -2 to 1");
    BAD(mmix_l2_normalize(m, a, -1), "mmix_l2_normalize", "eps -1, expected at least 0");
    BAD(mmix_l2_normalize(m, a, NAN), "mmix_l2_normalize", "expected at least 0");
    BAD(mmix_linear_residual(m, v, mmix_new2(m, 3, 4), NULL, NULL, v), "mmix_linear_residual",
        "s has shape (4), expected (1)");
    CHECK(!mmix_l2_normalize(NULL, NULL, -1) && !mmix_patch_embed(NULL, NULL, NULL, NULL));
    BAD(mmix_softmax(m, a, 2), "mmix_softmax", "axis 2");
    for (int k = 0; k < 13; k++)
        parts[k] = a;
    BAD(mmix_concat(m, 0, parts, 13), "mmix_concat", "13");
    BAD(mmix_concat(m, 0, parts, 0), "mmix_concat", "0");
    BAD(mmix_concat(m, 2, parts, 2), "mmix_concat", "axis 2");
    parts[1] = b;
    BAD(mmix_concat(m, 0, parts, 2), "mmix_concat", "parts[1] has shape (4, 5), expected (*, 3)");
    parts[1] = NULL;
    BAD(mmix_concat(m, 0, parts, 2), "mmix_concat", "NULL");
    BAD(mmix_take_rows(m, b, i), "mmix_take_rows", ", expected 0 to 3");
    BAD(mmix_take_rows(m, b, a), "mmix_take_rows", "index is real, expected int32");
    BAD(mmix_insert_token(m, x3, mmix_new1(m, 6), 6), "mmix_insert_token", "at is 6");
    BAD(mmix_insert_token(m, x3, v, 0), "mmix_insert_token", "(4)");
    BAD(mmix_layer_norm(m, a, v, NULL, 1e-5), "mmix_layer_norm",
        "weight has shape (4), expected (3)");
    BAD(mmix_layer_norm(m, a, NULL, v, 1e-5), "mmix_layer_norm",
        "bias has shape (4), expected (3)");
    BAD(mmix_rms_norm(m, a, v, 1e-5), "mmix_rms_norm", "weight");
    BAD(mmix_gated_rms_norm(m, x3, x3, NULL, 1e-5, 4), "mmix_gated_rms_norm", "4 groups");
    BAD(mmix_gated_rms_norm(m, x3, NULL, NULL, 1e-5, 1), "mmix_gated_rms_norm", "z is NULL");
    BAD(mmix_gated_rms_norm(m, x3, mmix_new2(m, 3, 6), NULL, 1e-5, 1), "mmix_gated_rms_norm",
        "z has shape (3, 6), expected (2, 5, 6)");
    BAD(mmix_linear(m, a, b, NULL), "mmix_linear", "x has shape (2, 3), expected (2, 5): …");
    BAD(mmix_linear(m, a, NULL, NULL), "mmix_linear", "weight is NULL");
    BAD(mmix_linear(m, mmix_new2(m, 2, 5), b, a), "mmix_linear",
        "bias has shape (2, 3), expected (4)");
    BAD(mmix_linear_residual(m, mmix_new2(m, 2, 5), b, v, mmix_new2(m, 3, 4), NULL),
        "mmix_linear_residual", "residual");
    BAD(mmix_causal_conv1d(m, x3, mmix_new3(m, 5, 1, 4), NULL, NULL), "mmix_causal_conv1d",
        "weight has shape (5, 1, 4), expected (6, 1, *)");
    memset(&conv, 0, sizeof conv);
    conv.initial_state = mmix_new3(m, 2, 6, 2);
    BAD(mmix_causal_conv1d(m, x3, mmix_new3(m, 6, 1, 4), NULL, &conv), "mmix_causal_conv1d",
        "initial_state has shape (2, 6, 2), expected (2, 6, 3)");
    BAD(mmix_patch_embed(m, x4, mmix_new4(m, 7, 3, 8, 8), NULL), "mmix_patch_embed",
        "smaller than a patch of 8");
    BAD(mmix_patch_embed(m, x4, mmix_new4(m, 7, 2, 2, 2), NULL), "mmix_patch_embed", "weight");
    BAD(mmix_interpolate(m, x3, MMIX_RESIZE_BICUBIC, 2, 2, 0, 0), "mmix_interpolate", "(2, 5, 6)");
    BAD(mmix_interpolate(m, x4, 4, 2, 2, 0, 0), "mmix_interpolate", "filter is 4");
    BAD(mmix_cross_entropy(m, a, i, -1), "mmix_cross_entropy", "(2, 3)");
    BAD(mmix_cross_entropy(m, a, mmix_new2(m, 2, 4), -1), "mmix_cross_entropy", "target");
    BAD(mmix_cross_entropy(m, a, mmix_new2(m, 3, 3), -1), "mmix_cross_entropy", "(3, 3)");
    BAD(mmix_cross_entropy(m, a, NULL, -1), "mmix_cross_entropy", "target is NULL");
    BAD(mmix_cross_entropy(m, mmix_new3(m, 2, 3, 4), i, -1), "mmix_cross_entropy", "class 4 of 4");
    BAD(mmix_weight_norm(m, b, v), "mmix_weight_norm", "g has shape (4), expected (4, 1)");
    BAD(mmix_reshape(m, a, 1, s7), "mmix_reshape", "(2, 3)");
    BAD(mmix_slice(m, a, 1, 2, 2), "mmix_slice", "axis 1 of (2, 3)");
    BAD(mmix_slice(m, a, 1, (size_t)-1, 2), "mmix_slice", "axis 1");
    BAD(mmix_slice(m, a, 2, 0, 1), "mmix_slice", "axis 2");
    BAD(mmix_slice(m, a, 0, 0, 0), "mmix_slice", "0 elements");
    BAD(mmix_add(m, a, mmix_new2(other, 2, 3)), "mmix_add", "another context");
    x = mmix_mixer_softmax(x4, x4, x3);
    BAD(mmix_mix(m, &x), "mmix_mix", "v has shape (2, 5, 6), expected (2, 3, 5, *)");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 3, 4, 6), mmix_new4(m, 2, 3, 3, 6),
                           mmix_new4(m, 2, 3, 3, 6));
    BAD(mmix_mix(m, &x), "mmix_mix", "do not divide q's");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 5, 4, 6), mmix_new4(m, 2, 3, 4, 6),
                           mmix_new4(m, 2, 3, 4, 6));
    x.mask = MMIX_MASK_CAUSAL;
    BAD(mmix_mix(m, &x), "mmix_mix", "q (2, 5, 4, 6), k (2, 3, 4, 6)");
    BAD(mmix_mix(m, &x), "mmix_mix",
        "a mask needs a key for each query: k has 3 tokens, expected at least q's 5");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 3, 4, 6), mmix_new4(m, 2, 5, 4, 6),
                           mmix_new4(m, 2, 5, 4, 6));
    x.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, s35);
    BAD(mmix_mix(m, &x), "mmix_mix", "seq_idx has shape (3, 5), expected (2, 3)");
    s35[0] = 2;
    s35[1] = 3;
    x.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, s35);
    BAD(mmix_mix(m, &x), "mmix_mix", "and seq_idx, q (2, 3, 4, 6), k (2, 5, 4, 6)");
    BAD(mmix_mix(m, &x), "mmix_mix",
        "seq_idx needs as many keys as queries: k has 5 tokens, expected q's 3");
    x.seq_idx = NULL;
    x.grid[0] = 5;
    x.window[0] = 2;
    BAD(mmix_mix(m, &x), "mmix_mix", "a grid of 5 x 1 x 1 for 3 queries and 5 keys");
    for (int k = 0; k < 4; k++) {                /* more axes than there are, or no arrays */
        const size_t grid[3] = {5, 1, 1};
        mmix_mixer none = mmix_mixer_softmax(x.k, x.k, x.k);
        static const int axes[] = { 9, 0, 2 };
        const size_t *of_grid = k == 2 ? NULL : grid;
        const size_t *of_windows = k == 3 ? NULL : grid;
        IS(mmix_mixer_windows(&none, axes[k < 2 ? k : 2], of_grid, of_windows, k % 2), -1);
        BAD(mmix_mix(m, &none), "mmix_mix",
            k == 0 ? "mmix_mixer_windows was called with 9 axes"
                   : "and the grid and the window on each, at least 1");
        BAD(mmix_mix_matrix(m, &none), "mmix_mix_matrix", "mmix_mixer_windows was called");
    }
    x.q = x.k;
    x.shift[0] = 2;
    BAD(mmix_mix(m, &x), "mmix_mix", "shift[0] is 2, expected 0 to 1");
    x.shift[0] = 0;
    x.mask = MMIX_MASK_PREFIX;
    BAD(mmix_mix(m, &x), "mmix_mix", "windows are for softmax attention");
    x.kind = MMIX_MIXER_LINEAR;
    x.mask = MMIX_MASK_NONE;
    BAD(mmix_mix(m, &x), "mmix_mix", "windows are for softmax attention");
    x.window[0] = 0;
    x.mask = MMIX_MASK_BAND;
    BAD(mmix_mix(m, &x), "mmix_mix", "linear attention has no form");
    steps = mmix_mix_state_create(m, 2);
    x.mask = MMIX_MASK_NONE;
    BAD(mmix_mix_step(m, &x, steps, 0), "mmix_mix_step", "lets tokens see later ones");
    x.mask = MMIX_MASK_CAUSAL;
    BAD(mmix_mix_step(m, &x, steps, 2), "mmix_mix_step", "slot 2 of a state with 2");
    BAD(mmix_mix_step(m, &x, NULL, 0), "mmix_mix_step", "state is NULL");
    BAD(mmix_mix_step(m, NULL, steps, 0), "mmix_mix_step", "expected a mixer, found NULL");
    BAD(mmix_mix(m, NULL), "mmix_mix", "expected a mixer, found NULL");
    CHECK(mmix_mix_step(m, &x, steps, 0) && mmix_mix_state_tokens(steps, 0) == 5
          && mmix_mix_state_tokens(steps, 1) == 0);
    x.kind = MMIX_MIXER_SOFTMAX;
    BAD(mmix_mix_step(m, &x, steps, 0), "mmix_mix_step", "the slot carries a state");
    x.mask = MMIX_MASK_PREFIX;
    x.prefix = 9;
    BAD(mmix_mix_step(m, &x, steps, 1), "mmix_mix_step", "prefix of 9");
    x.mask = MMIX_MASK_BAND;
    x.right = 1;
    BAD(mmix_mix_step(m, &x, steps, 1), "mmix_mix_step", "lets tokens see later ones");
    x.right = 0;
    x.k = x.v = mmix_new4(m, 2, 6, 4, 6);
    BAD(mmix_mix_step(m, &x, steps, 1), "mmix_mix_step", "q (2, 5, 4, 6), k (2, 6, 4, 6)");
    CHECK(mmix_mix_state_tokens(steps, 1) == 0);
    mmix_mix_state_destroy(steps);
    layer_arguments(m, s13);
    rope.dim = 5;
    BAD(mmix_rope(m, x4, i, &rope), "mmix_rope", "dim 5 of heads of 6");
    rope.dim = 6;
    rope.sections[1] = 3;
    BAD(mmix_rope(m, x4, mmix_new(m, MMIX_DTYPE_I32, 2, s33), &rope), "mmix_rope",
        "sections 0 + 3 + 0");
    BAD(mmix_rope(m, x4, i, &rope), "mmix_rope", "pos has shape (2, 3), expected (3, 3)");
    BAD(mmix_rope(m, x4, NULL, NULL), "mmix_rope", "pos is NULL");
    rope.sections[1] = 0;
    rope.theta = -5;
    BAD(mmix_rope(m, x4, mmix_new(m, MMIX_DTYPE_I32, 1, s33), &rope), "rope.theta -5",
        "theta at least 0");
    rope.sections[1] = 3;
    rope.theta = 0;
    BAD(mmix_rope(m, x4, mmix_new2(m, 4, 2), NULL), "mmix_rope",
        "rows of angles is 4, expected 1 to 3");
    BAD(mmix_rope(m, x4, mmix_new2(m, 3, 4), NULL), "mmix_rope", "dim 8 of heads of 6");
    BAD_INT(mmix_block_rank(m, NULL, 0, 0, &rank), "mmix_block_rank", "M is NULL");
    x = mmix_mixer_softmax(x4, x4, x4);
    CHECK(!mmix_mix(NULL, &x) && !mmix_mix(NULL, NULL));
    BAD_INT(mmix_mix_rank(m, &x, a, 0, 0, &ranks), "mmix_mix_rank",
            "out_proj has shape (2, 3), expected (*, 30)");
    x = mmix_mixer_softmax(mmix_new4(m, 2, 3, 4, 6), mmix_new4(m, 2, 5, 4, 6),
                           mmix_new4(m, 2, 5, 4, 6));
    x.mask = 7;
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix", "mask 7");
    BAD(mmix_mix(m, &x), "mmix_mix", "expected a mask of MMIX_MASK_NONE, 0, to _BAND, 3, found 7");
    x = mmix_mixer_linear(x4, x4, x4);
    x.feature = 5;
    BAD(mmix_mix(m, &x), "mmix_mix", "feature 5");
    x.feature = MMIX_FEATURE_EFFICIENT;
    x.mask = MMIX_MASK_CAUSAL;
    BAD(mmix_mix(m, &x), "mmix_mix", "no form");
    x.kind = 9;
    x.mask = x.feature = 0;
    BAD(mmix_mix(m, &x), "mmix_mix", "kind 9");
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix", "9");
    x = mmix_mixer_ssd(x4, x3, v, x4, x4);
    BAD(mmix_mix(m, &x), "mmix_mix", "has shape");
    x = mmix_mixer_ssd(mmix_new4(m, 2, 3, 3, 6), mmix_new3(m, 2, 3, 4), v, mmix_new4(m, 2, 3, 1, 6),
                       mmix_new4(m, 2, 3, 1, 6));
    BAD(mmix_mix(m, &x), "mmix_mix", "heads of x, B and C must divide dt");
    x.v = mmix_new4(m, 2, 3, 4, 6);
    x.A = mmix_new1(m, 3);
    BAD(mmix_mix(m, &x), "mmix_mix", "A has shape (3), expected (4)");
    x.A = NULL;
    BAD(mmix_mix(m, &x), "mmix_mix", "A is NULL");
    x.A = v;
    x.initial_state = mmix_fill(mmix_new4(m, 2, 4, 6, 6), 0);
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix", "initial state");
    BAD(mmix_mix_rows_mean(m, &x, s33, 1), "mmix_mix_rows_mean", "initial state");
    x.initial_state = NULL;
    BAD(mmix_mix_rows_mean(m, &x, s33, 1), "mmix_mix_rows_mean", "a row is 3, expected 0 to 2");
    BAD(mmix_mix_rows_mean(m, &x, s33, 0), "mmix_mix_rows_mean", "n is 0");
    BAD(mmix_mix_rows_mean(m, &x, NULL, 1), "mmix_mix_rows_mean", "rows is NULL");
    x.initial_state = mmix_fill(mmix_new4(m, 2, 4, 6, 6), 0);
    x.direction = MMIX_SCAN_BOTH;
    BAD(mmix_mix(m, &x), "mmix_mix", "MMIX_SCAN_BOTH");
    x = mmix_mixer_selective(mmix_new4(m, 2, 3, 4, 1), mmix_new3(m, 2, 3, 4), mmix_new2(m, 4, 6),
                             mmix_new4(m, 2, 3, 1, 6), mmix_new4(m, 2, 3, 1, 6));
    x.A = v;
    BAD(mmix_mix(m, &x), "mmix_mix", "A has shape");
    x.A = NULL;
    BAD(mmix_mix(m, &x), "mmix_mix", "A is NULL");
    x.A = mmix_fill(mmix_new2(m, 4, 6), -1);
    x.v = mmix_new4(m, 2, 3, 4, 2);
    BAD(mmix_mix(m, &x), "mmix_mix", "x has shape (2, 3, 4, 2), expected (2, 3, 4, 1)");
    x.v = mmix_new4(m, 2, 3, 4, 1);
    x.q = mmix_new4(m, 2, 3, 2, 6);
    BAD(mmix_mix(m, &x), "mmix_mix", "C has shape (2, 3, 2, 6), expected (2, 3, 1, 6)");
    x.q = x.k = mmix_new4(m, 2, 3, 3, 6);
    BAD(mmix_mix(m, &x), "mmix_mix", "the groups of B and C must divide x's channels");
    x.q = x.k = mmix_new4(m, 2, 3, 1, 6);
    x.z = mmix_new4(m, 2, 3, 4, 4);
    BAD(mmix_mix(m, &x), "mmix_mix", "z has shape (2, 3, 4, 4), expected (2, 3, 4, 1)");
    x.z = NULL;
    x.D = mmix_new2(m, 4, 1);
    BAD(mmix_mix(m, &x), "mmix_mix", "D has shape (4, 1), expected (4)");
    x.D = NULL;
    x.direction = 3;
    BAD(mmix_mix(m, &x), "mmix_mix", "a direction of MMIX_SCAN_FORWARD");
    x.direction = MMIX_SCAN_BOTH;
    x.initial_state = mmix_fill(mmix_new4(m, 2, 4, 1, 6), 0);
    BAD(mmix_mix(m, &x), "mmix_mix", "MMIX_SCAN_BOTH takes and returns no state");
    x.direction = MMIX_SCAN_FORWARD;
    BAD(mmix_mix_matrix(m, &x), "mmix_mix_matrix", "initial state");
    BAD(mmix_ssd_reference(m, &x), "mmix_ssd_reference", "expected MMIX_MIXER_SSD");
    x.initial_state = mmix_fill(mmix_new4(m, 2, 4, 6, 1), 0);
    BAD(mmix_mix(m, &x), "mmix_mix", "initial_state has shape (2, 4, 6, 1), expected (2, 4, 1, 6)");
    BAD_INT(mmix_backward(m, a), "mmix_backward", "(2, 3), expected one element");
    BAD_INT(mmix_backward(m, mmix_sum(m, a)), "mmix_backward", "not recorded");
    BAD_INT(mmix_op_set(m, MMIX_OP_COUNT, NULL), "mmix_op_set", "expected 0 to");
    BAD_INT(mmix_op_set(m, -1, NULL), "mmix_op_set", "op is -1, expected 0 to");
    for (int op = 0; op < MMIX_OP_COUNT; op++)
        CHECK(mmix_op_name(op) && strcmp(mmix_op_name(op), "?"));
    CHECK(!strcmp(mmix_op_name(MMIX_OP_LINEAR), "linear")
          && !strcmp(mmix_op_name(MMIX_OP_SSD), "ssd"));
    BAD(mmix_dino_loss(m, a, a, mmix_data(b), 1, 1, 1, 0.9, NULL), "mmix_dino_loss", "1 crops");
    BAD(mmix_dino_loss(m, mmix_new2(m, 4, 3), a, mmix_data(b), 4, 0, 1, 0.9, NULL),
        "mmix_dino_loss", "student_temp is 0");
    BAD(mmix_dino_loss(m, mmix_new2(m, 4, 3), a, mmix_data(b), 4, 1, NAN, 0.9, NULL),
        "mmix_dino_loss", "teacher_temp is nan");
    BAD(mmix_ibot_loss(m, a, a, mmix_new1(m, 7), mmix_data(b), 1, 1, 0.9, NULL), "mmix_ibot_loss",
        "weight has shape (7)");
    BAD(mmix_ibot_loss(m, mmix_new2(m, 4, 3), a, NULL, mmix_data(b), 1, 1, 0.9, NULL),
        "mmix_ibot_loss", "expected");
    BAD(mmix_ibot_loss(m, a, a, NULL, NULL, 1, 1, 0.9, NULL), "mmix_ibot_loss", "center is NULL");
    mmix_reset(m);
    mmix_destroy(m);
    mmix_destroy(other);
}

/* Bad input that is easily given */
static void easy_mistakes(mmix_ctx *m)
{
    mmix_vision *v = mmix_vision_create(m, small_vision(MMIX_MIXER_SSD)), *w;
    mmix_vision_config c = small_vision(MMIX_MIXER_SSD);
    mmix_vision_options options;
    mmix_augment augment = mmix_augment_config_dino();
    mmix_tensor *x = mmix_fill(mmix_new2(m, 4, 3), 1);
    mmix_rank rank;
    real one = 1;
    const size_t cell[3] = { 1, 1, 1 };
    double iou;
    memset(&options, 0, sizeof options);
    options.n_dense = 1;
    BAD(mmix_vision_forward(m, v, mmix_fill(mmix_new4(m, 1, 3, 16, 16), 0), &options).token,
        "mmix_vision_forward", "dense is NULL");
    BAD(mmix_dino_loss(m, x, x, NULL, 2, 1, 1, 0.9, NULL), "mmix_dino_loss", "center is NULL");
    IS(mmix_augment_crop(&one, &(mmix_crop){ m, &augment, { NULL, 8, 8 }, 0, 0, 0 }, &one), -1);
    BAD_INT(mmix_block_rank(m, mmix_fill(mmix_new2(m, 2, 3), NAN), 0, 0, &rank),
            "mmix_block_rank", "row 0 of M holds nan");
    BAD_INT(mmix_binary_iou(m, mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 3, cell), 1),
                            mmix_fill(mmix_new(m, MMIX_DTYPE_I32, 3, cell), 0), NAN, 0, &iou),
            "mmix_binary_iou", "NaN");
    /* a target that alone asks for a gradient gets none */
    {
        mmix_tensor *target = mmix_require_grad(mmix_fill(mmix_new2(m, 4, 3), 0.25));
        mmix_record(m, 1);
        IS(mmix_backward(m, mmix_cross_entropy(m, x, target, -1)), 0);
        mmix_record(m, 0);
        CHECK(mmix_grad(target) == NULL);
    }
    c.mamba.dt_high = HUGE_VAL;              /* a limit that is none is kept in the file */
    w = mmix_vision_create(m, c);
    IS(mmix_vision_save(m, w, FILE_A), 0);
    mmix_vision_destroy(v);
    v = mmix_vision_load(m, FILE_A);
    CHECK(v && mmix_vision_config_of(v)->mamba.dt_high > 1e38);
    {                                        /* no prefix may be NULL */
        mmix_archive *archive = mmix_archive_open(m, FILE_A);
        const char *text = mmix_params_check(mmix_vision_params(v), archive, NULL);
        CHECK(text && !*text && mmix_params_read(mmix_vision_params(v), archive, NULL) == 0);
        mmix_archive_close(archive);
    }
    mmix_vision_destroy(v);
    mmix_vision_destroy(w);
    remove(FILE_A);
    FINE(m);
    mmix_reset(m);
}
/* A leaf is what no recorded op returned, an unrecorded one's result, too */
static void leaves(mmix_ctx *m)
{
    mmix_tensor *x = mmix_require_grad(mmix_affine(m, mmix_fill(mmix_new1(m, 4), 1), 2, 0));
    mmix_tensor *kept = x;
    mmix_record(m, 1);
    mmix_mark mark = mmix_mark_here(m);
    for (int i = 0; i < 3; i++) {
        mmix_backward(m, mmix_sum(m, mmix_mul(m, x, x)));
        IS(mmix_data(mmix_grad(x))[0], 4);
        mmix_rewind(m, mark);
        CHECK(!mmix_grad(x));
    }
    mmix_rewind_keep(m, mark, &kept, 1);     /* and it stays one when it is moved */
    mmix_backward(m, mmix_sum(m, mmix_mul(m, kept, kept)));
    CHECK(mmix_grad(kept) && mmix_data(mmix_grad(kept))[3] == 4);
    FINE(m);
    mmix_reset(m);
}
/* The same tensor as two inputs */
static void one_tensor_twice(mmix_ctx *m)
{
    const size_t D = 2;
    mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new3(m, 2, 4, 2), 1)), *a, *b, *c, *w;
    mmix_tensor *token = mmix_reshape(m, mmix_slice(m, mmix_slice(m, x, 0, 0, 1), 1, 2, 1), 1,
                                      &D);
    mmix_backward(m, mmix_sum(m, mmix_insert_token(m, x, token, 0)));
    IS(mmix_data(mmix_grad(x))[4], 3);
    IS(mmix_data(mmix_grad(x))[0], 1);
    for (int way = 0; way < 2; way++) {
        a = mmix_require_grad(mmix_fill_normal(m, mmix_new1(m, 8), 1, 5));
        w = mmix_fill_normal(m, mmix_new1(m, 8), 1, 6);
        b = mmix_require_grad(mmix_fill_normal(m, mmix_new1(m, 8), 1, 5));
        c = mmix_require_grad(mmix_fill_normal(m, mmix_new1(m, 8), 1, 5));
        mmix_backward(m, mmix_sum(m, mmix_mul(m, w,
                                              way ? mmix_rms_norm(m, a, a, 1e-5)
                                                  : mmix_layer_norm(m, a, a, a, 1e-5))));
        mmix_backward(m, mmix_sum(m, mmix_mul(m, w,
                                              way ? mmix_rms_norm(m, b, c, 1e-5)
                                                  : mmix_layer_norm(m, b, c, c, 1e-5))));
        for (int i = 0; i < 8; i++)
            NEAR(mmix_data(mmix_grad(a))[i],
                 mmix_data(mmix_grad(b))[i] + mmix_data(mmix_grad(c))[i], 1e-4);
    }
    FINE(m);
    mmix_reset(m);
}
/* A refused backward leaves nothing behind */
static void refused_backward(mmix_ctx *m)
{
    mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 1)), *o[2], *g[2];
    o[0] = mmix_affine(m, x, 2, 0);
    o[1] = mmix_affine(m, x, 3, 0);
    g[0] = mmix_fill(mmix_new1(m, 3), 1);
    g[1] = mmix_fill(mmix_new1(m, 2), 1);
    BAD_INT(mmix_backward_from(m, o, g, 2), "gradients[1] has shape (2), expected (3)",
            "mmix_backward");
    g[1] = g[0];
    mmix_backward_from(m, o, g, 2);
    IS(mmix_data(mmix_grad(x))[0], 5);
    BAD_INT(mmix_backward_from(m, o, g, 2), "mmix_backward", "consumed");
    mmix_reset(m);
}
static void odd_numbers(mmix_ctx *m)
{
    mmix_tensor *x = mmix_fill(mmix_new4(m, 1, 1, 4, 4), 1);
    mmix_tensor *ends = mmix_new1(m, 3);
    mmix_tensor *x3 = mmix_fill(mmix_new3(m, 2, 6, 1), 1);
    mmix_tensor *one = mmix_fill(mmix_new2(m, 1, 1), 1);
    const double scales[] = {1e-17, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        BAD(mmix_interpolate(m, x, MMIX_RESIZE_BILINEAR, 2, 2, scales[i], 1),
            "mmix_interpolate", "scale_h, if not 0");
        BAD(mmix_interpolate(m, x, MMIX_RESIZE_BICUBIC, 2, 2, 1, scales[i]), "mmix_interpolate",
            "scale_w, if not 0");
    }
    BAD(mmix_mix_state_create(m, SIZE_MAX / 8), "mmix_mix_state_create", "slots");
    mmix_data(ends)[0] = (real)INFINITY;
    mmix_data(ends)[1] = (real)-INFINITY;
    mmix_data(ends)[2] = (real)NAN;
    mmix_require_grad(ends);
    mmix_record(m, 1);
    mmix_tensor *y = mmix_gelu(m, ends);
    CHECK(mmix_data(y)[0] > 1e30 && mmix_data(y)[1] == 0 && mmix_data(y)[2] != mmix_data(y)[2]);
    mmix_backward(m, mmix_sum(m, mmix_slice(m, y, 0, 0, 2)));
    IS(mmix_data(mmix_grad(ends))[0], 1);
    IS(mmix_data(mmix_grad(ends))[1], 0);
    mmix_record(m, 0);
    BAD(mmix_linear_residual(m, x3, one, NULL, x3, mmix_fill(mmix_new1(m, 3), 1)),
        "mmix_linear_residual", "s has shape (3), expected (2)");
    BAD(mmix_linear_residual(m, x3, one, NULL, mmix_fill(mmix_new3(m, 6, 2, 1), 1), NULL),
        "mmix_linear_residual", "(6, 2, 1), expected (2, 6, 1)");
    FINE(m);
}
static void parameter_names(mmix_ctx *m)
{
    char name[400];
    const size_t huge[1] = {SIZE_MAX / 16}, two[1] = {2};
    mmix_params *p = mmix_params_create(m), *q = mmix_params_create(m);
    memset(name, 'n', sizeof name);
    name[399] = 0;
    BAD(mmix_params_add(p, "", name, 1, two, MMIX_INIT_CONSTANT, 0, 0), "mmix_params_add",
        "more");
    BAD(mmix_params_add(p, "", NULL, 1, two, MMIX_INIT_CONSTANT, 0, 0), "mmix_params_add",
        "NULL");
    for (int i = 0; i < 8 && !mmix_error(m); i++) {
        name[8] = 0;
        name[0] = (char)('a' + i);
        mmix_params_add(p, "", name, 1, huge, MMIX_INIT_CONSTANT, 0, 0);
    }
    CHECK(mmix_error_kind(m) == MMIX_ERROR_MEMORY && strstr(mmix_error(m), "too large"));
    mmix_error_clear(m);
    mmix_params_add(q, "", "w", 1, two, MMIX_INIT_CONSTANT, 0, 0);
    BAD_INT(mmix_ema(q, q, 0.5), "mmix_ema", "mmix_params_allocate");
    mmix_params_destroy(p);
    mmix_params_destroy(q);
}
static void corners(void)
{
    doing("corners");
    mmix_ctx *m = mmix_create(NULL);
    easy_mistakes(m);
    leaves(m);
    one_tensor_twice(m);
    refused_backward(m);
    mmix_record(m, 0);
    for (int band = 0; band < 2; band++) {       /* nor does a refused step */
        mmix_tensor *q = mmix_fill_normal(m, mmix_new4(m, 1, 14, 2, 3), 1, 1);
        mmix_tensor *k = mmix_fill_normal(m, mmix_new4(m, 1, 14, 2, 3), 1, 2);
        mmix_tensor *v = mmix_fill_normal(m, mmix_new4(m, 1, 14, 2, 4), 1, 3);
        mmix_tensor *wide = mmix_new4(m, 1, 3, 2, 5);
        mmix_mixer x = mmix_mixer_softmax(q, k, v), z;
        x.mask = band ? MMIX_MASK_BAND : MMIX_MASK_CAUSAL, x.left = 2;
        mmix_tensor *whole = mmix_mix(m, &x);
        mmix_mix_state *s = mmix_mix_state_create(m, 1);
        for (size_t t = 0; t < 14; t++) {
            z = x;
            const size_t from = t > 11 ? 11 : t;
            z.q = mmix_slice(m, q, 1, from, 3);
            z.k = mmix_slice(m, k, 1, from, 3);
            z.v = wide;
            if (t)
                BAD(mmix_mix_step(m, &z, s, 0), "values", "carries");
            z.q = mmix_slice(m, q, 1, t, 1);
            z.k = mmix_slice(m, k, 1, t, 1);
            z.v = mmix_slice(m, v, 1, t, 1);
            mmix_tensor *y = mmix_mix_step(m, &z, s, 0);
            mmix_tensor *same = mmix_slice(m, whole, 1, t, 1);
            for (size_t i = 0; y && i < 8; i++)
                NEAR(mmix_data(y)[i], mmix_data(same)[i], 1e-5);
        }
        FINE(m);
        mmix_mix_state_destroy(s);
        mmix_reset(m);
    }
    odd_numbers(m);
    parameter_names(m);
    mmix_destroy(m);
}

static void states_without_a_context(mmix_ctx *m)
{
    mmix_params *p = mmix_params_create(m);
    BAD_INT(mmix_adamw_init(NULL, p), "mmix_adamw_init", "state is NULL");
    BAD_INT(mmix_sgd_init(NULL, p), "mmix_sgd_init", "state is NULL");
    BAD_INT(mmix_dino_head_init(NULL, p, "", 3, 3, 3, 3, 1), "mmix_dino_head_init",
            "head is NULL");
    BAD(mmix_dino_head_forward(m, NULL, NULL), "mmix_dino_head_forward", "head is NULL");
    mmix_params_destroy(p);
}
/* Ops, losses and optimizers without a context, which a mmix_create out of memory returned. */
static void without_a_context(void)
{
    mmix_ctx *m = mmix_create(NULL);
    const int order[] = { 1, 0 };
    const size_t two3[] = { 3, 2 };
    mmix_tensor *a = mmix_new2(m, 2, 3);
    mmix_tensor *x = mmix_new3(m, 1, 2, 3);
    mmix_tensor *parts[2];
    mmix_tensor *index = mmix_new(m, MMIX_DTYPE_I32, 1, two3);
    mmix_tensor *(*const one[])(mmix_ctx *, mmix_tensor *) = { mmix_exp,  mmix_log,  mmix_sqrt,
                                                               mmix_silu, mmix_gelu, mmix_softplus,
                                                               mmix_relu, mmix_abs,  mmix_sigmoid,
                                                               mmix_tanh, mmix_sum,  mmix_mean,
                                                               mmix_rates };
    mmix_tensor *(*const two[])(mmix_ctx *, mmix_tensor *,
                                mmix_tensor *) = { mmix_add,       mmix_sub,        mmix_mul,
                                                   mmix_div,       mmix_maximum,    mmix_matmul,
                                                   mmix_take_rows, mmix_weight_norm };
    doing("without a context");
    for (int given = 1; given >= 0; given--) {   /* and without tensors */
        mmix_real center[3] = { 0 };
        mmix_dino_head head;
        mmix_optimizer state;
        const mmix_adamw adamw = mmix_adamw_config_default();
        const mmix_sgd sgd = mmix_sgd_config_default();
        if (!given) a = x = index = NULL;
        parts[0] = parts[1] = a;
        for (size_t i = 0; i < sizeof one / sizeof *one; i++)
            CHECK(!one[i](NULL, a));
        for (size_t i = 0; i < sizeof two / sizeof *two; i++)
            CHECK(!two[i](NULL, a, a));
        CHECK(!mmix_affine(NULL, a, 1, 0) && !mmix_pow(NULL, a, 2)
              && !mmix_permute(NULL, a, order));
        CHECK(!mmix_reshape(NULL, a, 2, two3) && !mmix_softmax(NULL, a, 0)
              && !mmix_sum_axis(NULL, a, 0));
        CHECK(!mmix_concat(NULL, 0, parts, 2) && !mmix_add_rows(NULL, x, x, index)
              && !mmix_insert_token(NULL, x, a, 0));
        CHECK(!mmix_layer_norm(NULL, a, NULL, NULL, 1) && !mmix_rms_norm(NULL, a, NULL, 1));
        CHECK(!mmix_gated_rms_norm(NULL, a, a, NULL, 1, 1) && !mmix_l2_normalize(NULL, a, 1));
        CHECK(!mmix_linear(NULL, a, a, NULL) && !mmix_linear_residual(NULL, a, a, NULL, a, NULL));
        CHECK(!mmix_lora_linear(NULL, a, a, NULL, NULL, NULL, NULL)
              && !mmix_causal_conv1d(NULL, x, x, NULL, NULL));
        CHECK(!mmix_patch_embed(NULL, x, x, NULL) && !mmix_interpolate(NULL, x, 0, 1, 1, 0, 0)
              && !mmix_rope(NULL, x, index, NULL));
        CHECK(!mmix_cross_entropy(NULL, a, index, 0) && !mmix_cross_entropy(NULL, a, a, 0));
        CHECK(!mmix_kd_hidden(NULL, x, x, NULL, 1) && !mmix_kd_token(NULL, x, x, NULL, 1));
        CHECK(!mmix_dino_loss(NULL, a, a, center, 2, 1, 1, 1, NULL)
              && !mmix_ibot_loss(NULL, a, a, NULL, center, 1, 1, 1, NULL));
        CHECK(!mmix_dino_head_forward(NULL, NULL, a)
              && mmix_dino_head_init(&head, NULL, "", 3, 3, 3, 3, 1) == -1);
        CHECK(mmix_adamw_init(&state, NULL) == -1 && mmix_sgd_init(&state, NULL) == -1
              && mmix_ema(NULL, NULL, 0) == -1);
        IS(mmix_adamw_step(NULL, &adamw, 0, NULL), 0);
        IS(mmix_sgd_step(NULL, &sgd, 0, NULL), 0);
        mmix_optimizer_free(&state);                 /* of an init that failed */
        mmix_optimizer_free(NULL);
    }
    doing("without a state");
    states_without_a_context(m);
    doing("linear");
    a = mmix_new2(m, 4, 8);
    BAD(mmix_linear(m, a, mmix_new2(m, 8, 4), NULL),
        "mmix_linear: x has shape (4, 8), expected (4, 4)",
        "weight OD has shape (8, 4); transposed it would fit");
    BAD(mmix_linear(m, a, mmix_new2(m, 5, 4), NULL), "x has shape (4, 8), expected (4, 4)",
        "weight OD has shape (5, 4)");
    BAD(mmix_linear_residual(m, a, mmix_new2(m, 8, 4), NULL, a, NULL), "mmix_linear_residual",
        "weight OD has shape (8, 4)");
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "arguments", bad_arguments },
                                   { "corners", corners },
                                   { "without a context", without_a_context } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
