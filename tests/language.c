/* language - language models that transformers wrote, opened as they are, beside what it computed
   with them

     language          the models of tests/golden/language
     language DIR      those of the folder that tests/language_cases.py filled: a folder in it for
                       each model

   Logits of whole sequences and of sequences in pieces, token by token at the end, are to be within
   2e-4 of the largest magnitude, in doubles within 1e-9 (those of a GGUF within 1e-6). So are the
   loss and its gradients, each parameter's by itself, and the logits of a copy that was saved and
   opened again. A folder without a model stands for one that the version of transformers did not
   have. tests/language.sh does both. */
#include "theirs.h"

enum { STEPS = 5 };
static double worst_gradient;                    /* of the model at hand */

/* The sequences in pieces: half of the tokens, then all but the last few, then one by one. */
static void in_pieces(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *tokens, mmix_tensor *logits)
{
    size_t L = mmix_shape(tokens, 1), at = 0, piece = L / 2;
    mmix_mix_state *state = mmix_decoder_state_create(d);
    while (at < L && !mmix_error(m)) {
        mmix_sequence q = { NULL, NULL, 0, NULL, NULL };
        if (at) piece = L - STEPS - at;
        if (at >= L - STEPS) piece = 1;
        q.tokens = mmix_slice(m, tokens, 1, at, piece);
        at += piece;
        mmix_tensor *expected = mmix_slice(m, logits, 1, at - 1, 1);
        expected = mmix_affine(m, expected, 1, 0);
        beside(mmix_decoder_step(m, d, &q, state), expected, "a step");
    }
    mmix_mix_state_destroy(state);
}
/* The loss of the sequences and its gradient, beside an archive with the parameters' names. */
static void gradients(mmix_ctx *m, mmix_decoder *d, mmix_tensor *tokens, mmix_tensor *loss,
                      const char *path)
{
    mmix_sequence q = { tokens, NULL, 0, NULL, NULL };
    size_t B = mmix_shape(tokens, 0), L = mmix_shape(tokens, 1), count = B * (L - 1);
    mmix_decoder *expected = mmix_decoder_create(m, d->config);
    mmix_archive *a = mmix_archive_open(m, path);
    CHECK(a && !mmix_params_read(expected->params, a, NULL));
    mmix_params_require_grad(d->params, 1);
    mmix_record(m, 1);
    mmix_tensor *x = mmix_decoder_forward(m, d, &q, NULL);
    x = mmix_decoder_logits(m, d, mmix_slice(m, x, 1, 0, L - 1));
    mmix_tensor *next = mmix_new(m, MMIX_DTYPE_I32, 1, &count);
    for (size_t i = 0; next && i < count; i++)
        mmix_data_i32(next)[i] = mmix_data_i32(tokens)[i / (L - 1) * L + i % (L - 1) + 1];
    size_t shape[2] = { count, d->config.vocabulary };
    mmix_tensor *found = mmix_cross_entropy(m, mmix_reshape(m, x, 2, shape), next, -1);
    beside(found, loss, "loss");
    mmix_backward(m, found);
    mmix_record(m, 0);
    for (size_t i = 0; i < d->params->count && !mmix_error(m); i++) {
        const mmix_param *p = &d->params->at[i];
        mmix_real *slope = mmix_data(expected->params->at[i].tensor);
        int is_more = d->config.post_norms && strstr(p->name, "norm");   /* Gemma's 1 + w */
        for (size_t k = 0; is_more && k < mmix_count(p->tensor); k++) slope[k] -= 1;
        double error = error_beside(mmix_grad(p->tensor), expected->params->at[i].tensor, p->name);
        if (error > worst_gradient) worst_gradient = error;
    }
    FINE(m);
    mmix_archive_close(a);
    mmix_params_require_grad(d->params, 0);
    mmix_decoder_destroy(expected);
}
/* What matrices say: y = M v of the mixer in layer 0 for one sequence, rows that sum to 1 where it
   is attention. */
static void matrices(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *tokens)
{
    mmix_sequence q = { mmix_slice(m, tokens, 0, 0, 1), NULL, 0, NULL, NULL };
    for (size_t i = 0; i < d->config.depth; i++) {
        mmix_decoder_kind kind = d->config.layers[i];
        int mixer = d->config.mixer == MMIX_DECODER_LISTED ? kind.mixer : d->config.mixer;
        if (mixer == MMIX_DECODER_NONE) {
            CHECK(!mmix_decoder_matrix(m, d, &q, i) && mmix_error(m));
            mmix_error_clear(m);
            continue;
        }
        mmix_tensor *M = mmix_decoder_matrix(m, d, &q, i);
        size_t L = mmix_shape(tokens, 1);
        FINE(m);
        CHECK(M && mmix_shape(M, 2) == L && mmix_shape(M, 3) == L);
        if (M && (mixer == MMIX_DECODER_ATTENTION || mixer == MMIX_DECODER_PARALLEL))
            near_to(mmix_item(mmix_sum(m, M)), (double)(mmix_shape(M, 1) * L), 1e-3, __FILE__,
                    __LINE__, "rows of attention");
    }
}
/* The same model as a GGUF, whose q and k may be permuted, and where A and Falcon-H1's factors have
   been rounded to float. */
static void in_gguf(mmix_ctx *m, const char *path, mmix_sequence *q, mmix_tensor *logits)
{
    mmix_decoder *d = mmix_decoder_load(m, path);
    FINE(m);
    double strict = within;
    within = fmax(within, 1e-6);
    beside(mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, q, NULL)), logits, "GGUF");
    within = strict;
    mmix_decoder_destroy(d);
    FINE(m);
}
static void compare(mmix_ctx *m, mmix_decoder *d, const mmix_archive *expected, const char *folder)
{
    char path[512];
    mmix_tensor *tokens = array(m, expected, "tokens");
    mmix_tensor *logits = array(m, expected, "logits");
    mmix_sequence q = { tokens, NULL, 0, NULL, NULL };
    mmix_tensor *found = mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &q, NULL));
    beside(found, logits, "logits");
    in_pieces(m, d, tokens, logits);
    matrices(m, d, tokens);
    snprintf(path, sizeof path, "%.400s/gradient.safetensors", folder);
    if (there(path)) gradients(m, d, tokens, array(m, expected, "loss"), path);
    snprintf(path, sizeof path, "%.400s/model.gguf", folder);
    if (there(path)) in_gguf(m, path, &q, logits);
    snprintf(path, sizeof path, "build/language_%d.safetensors", (int)sizeof(real));
    CHECK(!mmix_decoder_save(d, path));
    mmix_decoder *again = mmix_decoder_load(m, path);
    FINE(m);
    mmix_tensor *same = mmix_decoder_logits(m, again, mmix_decoder_forward(m, again, &q, NULL));
    size_t bytes = mmix_count(found) * sizeof(mmix_real);
    CHECK(same && found && !memcmp(mmix_data(same), mmix_data(found), bytes));
    mmix_decoder_destroy(again);
    remove(path);
    FINE(m);
}
static void model(const char *folder, const char *name)
{
    char where[400], weights[512], answers[512];
    snprintf(where, sizeof where, "%.200s/%.100s", folder, name);
    snprintf(weights, sizeof weights, "%s/model.safetensors", where);
    snprintf(answers, sizeof answers, "%s/expected.safetensors", where);
    if (!there(weights)) snprintf(weights, sizeof weights, "%s/pytorch_model.bin", where);
    doing(name);
    if (!there(weights)) {
        printf("skipped: %s (this version of transformers has none)\n", name);
        skipped++;
        return;
    }
    mmix_ctx *m = mmix_create(NULL);
    mmix_decoder *d = mmix_decoder_load(m, weights);
    mmix_archive *expected = mmix_archive_open(m, answers);
    worst = worst_gradient = 0;
    FINE(m);
    if (d && expected) compare(m, d, expected, where);
    printf("%-20s logits %.1e, gradients %.1e apart\n", name, worst, worst_gradient);
    mmix_archive_close(expected);
    mmix_decoder_destroy(d);
    mmix_destroy(m);
}
/* ---- what a config asks for and is not done ---- */

#define GOLDEN "tests/golden/language"
#define FOLDER "build/language_test"
enum { CONFIG = 4096 };
/* Takes the weights of a golden model into FOLDER, and its config into `text`. */
static void model_begins(const char *name, const char *weights, char text[CONFIG])
{
    static char bytes[1 << 20];
    char path[256];
    snprintf(path, sizeof path, GOLDEN "/%s/%s", name, weights);
    size_t n = text_of(path, bytes, sizeof bytes);
    snprintf(path, sizeof path, FOLDER "/%s", weights);
    write_bytes(path, bytes, n);
    snprintf(path, sizeof path, GOLDEN "/%s/config.json", name);
    CHECK_AT(n > 0 && text_of(path, text, CONFIG) > 0, name);
}
static void configs_refused(void)
{
    static const char wide[] = "model.safetensors", old[] = "pytorch_model.bin";
    static const struct { const char *name, *weights, *from, *to, *message; } of[] = {
        { "granite-hybrid", wide, "\"num_local_experts\": 0", "\"num_local_experts\": 4",
          "num_local_experts: expected 0: mixtures of experts are not done here, found 4" },
        { "granite-hybrid", wide, "\"logits_scaling\": 8.0", "\"logits_scaling\": 0",
          "logits_scaling: expected a number above 0, found 0" },
        { "granite-hybrid", wide, "\"position_embedding_type\": null",
          "\"position_embedding_type\": \"alibi\"",
          "position_embedding_type: expected rope, nope, found alibi" },
        { "granite-hybrid", wide, "\"full_attention\"", "\"sliding_attention\"",
          "layer_types: expected attention, full_attention, mamba, linear_attention or mlp, found "
          "sliding_attention" },
        { "granite-hybrid", wide, "\"full_attention\",", "",
          "layer_types: expected a word for each of at most 128 layers" },
        { "nemotron-h", wide, "\"mlp\"", "\"moe\"",
          "layers_block_type: expected attention, full_attention, mamba, linear_attention or mlp, "
          "found moe" },
        { "nemotron-h", wide, "\"layers_block_type\": [", "\"hybrid_override_pattern\": \"ME*\","
          " \"other\": [", "hybrid_override_pattern: expected the letters M, * and -, found ME*" },
        { "nemotron-h", wide, "\"mlp_hidden_act\": \"relu2\"", "\"mlp_hidden_act\": \"relu\"",
          "mlp_hidden_act: expected relu2, found relu" },
        { "falcon-h1", wide, "\"mamba_rms_norm\": false", "\"mamba_rms_norm\": true",
          "mamba_norm_before_gate: expected false, found true" },
        { "falcon-h1", wide, "\"projectors_bias\": false", "\"projectors_bias\": true",
          "projectors_bias: expected what mamba_proj_bias is, found true" },
        { "falcon-h1", wide, "\"mlp_multipliers\": [", "\"mlp_multipliers\": [1.5,",
          "mlp_multipliers: expected a list of 2 numbers, found [1.5,0.88,0.4]" },
        { "mamba", wide, "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"",
          "hidden_act: expected silu, found gelu" },
        { "mamba", wide, "\"use_bias\": false", "\"use_bias\": true", "in_proj.bias" },
        { "mamba", wide, "\"state_size\": 4", "\"state_size\": 5", "x_proj.weight" },
        { "mamba", wide, "\"state_size\": 4", "\"state_size\": 4.5",
          "state_size: expected 1 to 2147483647, found 4.5" },
        { "mamba", wide, "\"state_size\": 4", "\"other\": [NaN, -Infinity], \"state_size\": NaN",
          "state_size: expected 1 to 2147483647, found NaN" },
        { "mamba2-groups", wide, "\"time_step_limit\": [", "\"time_step_limit\": [null,",
          "time_step_limit: expected two numbers" },
        { "mamba2-groups", wide, "\"n_groups\": 2", "\"n_groups\": 3", "in 3 groups" },
        { "bamba", wide, "\"attn_layer_indices\": [", "\"attn_layer_indices\": [200,",
          "attn_layer_indices: expected numbers of at most 128 layers" },
        { "smollm3", wide, "\"no_rope_layers\": [", "\"no_rope_layers\": [1,",
          "no_rope_layers: expected a list of 5 numbers, found [1,1,1,1,0,1]" },
        { "smollm3", wide, "\"full_attention\"", "\"chunked_attention\"",
          "layer_types: expected full_attention everywhere, found chunked_attention" },
        { "gemma3", wide, "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0",
          "final_logit_softcapping: expected null, found 30.0" },
        { "gemma3", wide, "\"gelu_pytorch_tanh\"", "\"gelu\"",
          "hidden_activation: expected gelu_pytorch_tanh, found gelu" },
        { "gemma3", wide, "\"sliding_window\": 8", "\"sliding_window\": null",
          "sliding_window: expected 1 to 2147483647, found null" },
        { "qwen3", wide, "\"head_dim\": 8", "\"head_dim\": 10", "q_proj.weight" },
        { "llama-yarn", wide, "\"rope_type\": \"yarn\"", "\"rope_type\": \"longrope\"",
          "rope_type: expected default, linear, llama3, yarn, found longrope" },
        { "mamba2-ssm", old, "\"rms_norm\": true", "\"rms_norm\": false",
          "rms_norm: expected true, found false" },
        { "mamba2-ssm", old, "\"Mamba2\"", "\"Mamba3\"",
          "layer: expected Mamba1, Mamba2, found Mamba3" },
        { "mamba2-ssm", old, "\"n_layer\"", "\"attn_layer_idx\": [1], \"n_layer\"",
          "attn_layer_idx: expected none: layers have no attention here, found [1]" },
        { "mamba2-ssm", old, "\"n_layer\"", "\"d_intermediate\": 64, \"n_layer\"",
          "d_intermediate: expected 0: layers have no MLP here, found 64" },
        { "mamba2-ssm", old, "\"n_layer\"", "\"norm_epsilon\": 1e-6, \"n_layer\"",
          "norm_epsilon: expected none, found 1e-6" },
        { "mamba2-ssm", old, "\"d_state\"", "\"D_has_hdim\": true, \"d_state\"",
          "D_has_hdim: expected none, found true" },
        { "mamba2-ssm", old, "\"d_state\"", "\"d_ssm\": 16, \"d_state\"",
          "d_ssm: expected none, found 16" },
        { "mamba2-ssm", old, "\"d_state\"", "\"dt_limit\": [0.1], \"d_state\"",
          "dt_limit: expected two numbers, found [0.1]" },
        { "mamba2-ssm", old, "\"d_state\"", "\"rmsnorm\": false, \"d_state\"", "norm.weight" },
        { "mamba2-ssm", old, "\"d_state\"", "\"bias\": true, \"d_state\"", "in_proj.bias" },
        { "bamba", wide, "\"model_type\"", "\"partial_rotary_factor\": 0.25, \"model_type\"",
          "partial_rotary_factor: expected 0.5, found 0.25" },
        { "nemotron-h", wide, "\"model_type\"", "\"is_causal\": false, \"model_type\"",
          "is_causal: expected true, found false" },
        { "gemma3", wide, "\"vocab_size\"", "\"other_size\"", "expected (262208, " }
    };
    mmix_ctx *m = mmix_create(NULL);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char config[CONFIG], text[CONFIG + 128], path[256];
        model_begins(of[i].name, of[i].weights, config);
        const char *at = strstr(config, of[i].from);
        if (!CHECK_AT(at != NULL, of[i].from)) continue;
        int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config), config, of[i].to,
                         at + strlen(of[i].from));
        write_bytes(FOLDER "/config.json", text, (size_t)n);
        snprintf(path, sizeof path, FOLDER "/%s", of[i].weights);
        mmix_decoder *d = mmix_decoder_load(m, path);
        doing(of[i].to);
        CHECK(!d && says(m, MMIX_ERROR_FILE, of[i].message));
        mmix_decoder_destroy(d);
        mmix_reset(m);
    }
    doing("");
    mmix_destroy(m);
}
/* What stands in the configs of released models and is not read: the logits have the same bits. */
static void configs_unread(void)
{
    static const struct { const char *name, *member; } of[] = {
        { "mamba2-groups", "\"norm_before_gate\": true" },      /* Codestral Mamba */
        { "falcon-h1", "\"mlp_expansion_factor\": 8" },
        { "smollm3", "\"max_window_layers\": 28" }
    };
    static const int32_t words[5] = { 1, 2, 3, 4, 5 };
    const size_t shape[2] = { 1, 5 };
    mmix_ctx *m = mmix_create(NULL);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char config[CONFIG], text[CONFIG + 128];
        real *logits[2];
        size_t n = 0;
        model_begins(of[i].name, "model.safetensors", config);
        for (int k = 0; k < 2; k++) {
            mmix_sequence q = { NULL, NULL, 0, NULL, NULL };
            int size = snprintf(text, sizeof text, "{%s%s%s", k ? of[i].member : "", k ? ", " : "",
                                strchr(config, '{') + 1);
            write_bytes(FOLDER "/config.json", text, (size_t)size);
            mmix_decoder *d = mmix_decoder_load(m, FOLDER "/model.safetensors");
            q.tokens = mmix_from_i32(m, 2, shape, words);
            mmix_tensor *t = d ? mmix_decoder_forward(m, d, &q, NULL) : NULL;
            logits[k] = mmix_data(t ? mmix_decoder_logits(m, d, t) : NULL);
            n = d ? 5 * d->config.vocabulary : 0;
            mmix_decoder_destroy(d);
        }
        CHECK_AT(n && logits[0] && logits[1], mmix_error(m) ? mmix_error(m) : of[i].name);
        if (n && logits[0] && logits[1])
            CHECK_AT(!memcmp(logits[0], logits[1], n * sizeof **logits), of[i].name);
        mmix_error_clear(m);
        mmix_reset(m);
    }
    mmix_destroy(m);
}
/* Configs with wrong bytes: an error or a model, and no byte of memory behind it. */
static void configs_broken(void)
{
    static const char *const names[] = {
        "llama-yarn", "smollm3", "mamba", "mamba2-groups", "bamba", "granite-hybrid", "falcon-h1",
        "nemotron-h"
    };
    static const char bytes[] = "0123456789-.eE[]{}\",:ntf\0";
    uint32_t random = 1;
    mmix_ctx *m = mmix_create(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char config[CONFIG];
        model_begins(names[i], "model.safetensors", config);
        size_t n = strlen(config), opened = 0;
        for (int k = 0; k < 150; k++) {
            char text[CONFIG];
            memcpy(text, config, n);
            for (int edit = 0; edit <= k % 3; edit++) {
                random = random * 1664525u + 1013904223u;
                text[random / 65536 % n] = bytes[random % (sizeof bytes - 1)];
            }
            write_bytes(FOLDER "/config.json", text, k % 10 ? n : random / 65536 % n);
            mmix_decoder *d = mmix_decoder_load(m, FOLDER "/model.safetensors");
            CHECK_AT(d ? !mmix_error(m) : mmix_error(m) != NULL, names[i]);
            opened += d != NULL;
            mmix_decoder_destroy(d);
            mmix_error_clear(m);
            mmix_reset(m);
        }
        CHECK_AT(opened > 0 && opened < 150, names[i]);
    }
    mmix_destroy(m);
}
/* ---- every allocation fails once ---- */

static int opened(const mmix_options *o, void *user)     /* a path */
{
    static const int32_t words[5] = { 1, 2, 3, 4, 5 };
    const size_t shape[2] = { 1, 5 };
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_decoder *d = mmix_decoder_load(m, (const char *)user);
    mmix_mix_state *state = mmix_decoder_state_create(d);
    mmix_sequence q = { NULL, NULL, 0, NULL, NULL };
    if (d && state) {
        q.tokens = mmix_from_i32(m, 2, shape, words);
        mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &q, NULL));
        mmix_decoder_step(m, d, &q, state);
        mmix_decoder_matrix(m, d, &q, 0);
    }
    int kind = mmix_error_kind(m);
    CHECK(kind || (d && state));
    mmix_mix_state_destroy(state);
    mmix_decoder_destroy(d);
    mmix_destroy(m);
    return kind;
}
static void allocations(void)
{
    static const char *const paths[] = {
        GOLDEN "/falcon-h1/model.safetensors", GOLDEN "/granite-hybrid/model.gguf",
        GOLDEN "/mamba2-ssm/pytorch_model.bin"
    };
    each_memory_fails(opened, paths, sizeof paths / sizeof *paths, ARENA_BLOCK == 256 ? 7 : 1);
}
int main(int argc, char **argv)
{
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    each_in(argc == 2 ? argv[1] : GOLDEN, model);
    if (argc != 2) {
        configs_refused();
        configs_unread();
        configs_broken();
        allocations();
    }
    return summary();
}
