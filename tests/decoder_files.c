/* decoder_files.c - adapters; decoders in files of the library's own and of Hugging Face */
#include "decoders.h"

#define FOLDER "build/decoder_files_test"
#define PATH FOLDER "/model.safetensors"
#define PATH2 FOLDER "/other.safetensors"

static void adapters(void)
{
    for (int o = 0; o < VARIANTS; o += o < OPTIONS ? 5 : 2)
        for (int targets = 1; targets < 4; targets++) {
            mmix_ctx *m = context(1, 0);
            mmix_decoder *d = variant(m, o), *back;
            mmix_params *p;
            if (!d->config.ffn && targets == MMIX_LORA_FFN) {
                REFUSED(m, mmix_params_add_lora(d->params, 3, 6, targets) == -1, "no matrix");
                mmix_decoder_destroy(d);
                mmix_destroy(m);
                continue;
            }
            mmix_real *plain = logits_of(m, d), *y, *z;
            CHECK_AT(!d->params->adapters && !mmix_params_add_lora(d->params, 3, 6, targets),
                     about);
            p = d->params->adapters;
            CHECK_AT(p && p->count && p->count % 2 == 0, about);
            y = logits_of(m, d);
            CHECK_AT(most(plain, y, LOGITS) <= 0, about);            /* B = 0 */
            free(y);
            shake(m, p, 0.3);
            y = logits_of(m, d);
            CHECK_AT(most(plain, y, LOGITS) > 0.01, about);
            {                                    /* the steps use them, too */
                mmix_sequence s = sequence(m, 1, 9);
                mmix_mix_state *state = mmix_decoder_state_create(d);
                mmix_real *last = copied(mmix_decoder_step(m, d, &s, state));
                for (size_t b = 0; b < BATCH; b++)
                    CHECK_AT(most(last + b * WORDS, y + ((b + 1) * TOKENS - 1) * WORDS, WORDS)
                                 < TOL * 10,
                             about);
                free(last);
                mmix_mix_state_destroy(state);
                mmix_reset(m);
            }
            mmix_real *apart_from = values(d->params);
            CHECK_AT(!mmix_decoder_save(d, PATH), about);
            CHECK_AT(same_values(d->params, apart_from) && d->params->adapters == p, about);
            back = mmix_decoder_load(m, PATH);
            z = logits_of(m, back);
            CHECK_AT(back && !back->params->adapters && most(y, z, LOGITS) < TOL * 30, about);
            free(z);
            CHECK_AT(!mmix_params_merge_lora(d->params) && !d->params->adapters, about);
            z = logits_of(m, d);
            CHECK_AT(most(y, z, LOGITS) < TOL * 30, about);
            CHECK_AT(same_lists(d->params, back->params), about);
            FINE(m);
            free(apart_from);
            free(plain);
            free(y);
            free(z);
            mmix_decoder_destroy(back);
            mmix_decoder_destroy(d);
            mmix_destroy(m);
        }
}
static void round_trip(void)
{
    for (int o = 0; o < VARIANTS; o++) {
        mmix_ctx *m = context(1, 0);
        mmix_decoder *d = variant(m, o), *back;
        CHECK_AT(!mmix_decoder_save(d, PATH), about);
        back = mmix_decoder_load(m, PATH);
        FINE(m);
        if (back) {
            const mmix_decoder_config *a = &d->config, *b = &back->config;
            mmix_real *y = logits_of(m, d), *z = logits_of(m, back);
            CHECK_AT(same_lists(d->params, back->params) && most(y, z, LOGITS) <= 0, about);
            CHECK_AT(a->mixer == b->mixer && a->tied == b->tied && a->bias == b->bias
                         && a->media == b->media && a->depth == b->depth
                         && a->mmate.text_window == b->mmate.text_window
                         && a->mmate.shift_period == b->mmate.shift_period
                         && a->rope.sections[2] == b->rope.sections[2],
                     about);
            free(y);
            free(z);
        }
        mmix_decoder_destroy(back);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}
static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}
/* Parameters alone, as Hugging Face has them, and config.json beside. */
static void hugging_face(void)
{
    enum { MANY = 128 };
    static const struct { const char *edit_from, *edit_to, *message;
    } wrong[] = {
        { "\"hidden_size\": 12", "\"hidden_size\": 13", "" },
        { "\"hidden_size\": 12,", "", "hidden_size" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": -2", "" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1e18", "" },
        { "\"vocab_size\": 23", "\"vocab_size\": 24", "" },
        { "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "" },
        { "\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "" },
        { "\"intermediate_size\": 10", "\"intermediate_size\": \"ten\"", "" },
        { "{", "", "" },
        { "\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"", "gpt2" },
        { "\"model_type\": \"llama\"",
          "\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
          "layer_types: expected full_attention everywhere, found sliding_attention" },
        { "\"model_type\": \"llama\"", "\"model_type\": \"mamba2\"",
          "num_heads: expected 1 to 2147483647, found none" },
        { "\"model_type\": \"llama\",", "",
          "model_type: expected llama, mistral, qwen2, qwen3, smollm3, granite, gemma3_text, mamba, "
          "falcon_mamba, mamba2, bamba, granitemoehybrid, falcon_h1 or nemotron_h, found none" },
        { "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"",
          "hidden_act: expected silu, found gelu" },
        { "\"hidden_act\": \"silu\"", "\"mlp_bias\": true",
          "expected 27 arrays, found 6 missing" },
        { "\"hidden_act\": \"silu\"", "\"quantization_config\": {\"bits\": 4}",
          "quantization_config: expected weights that are not quantised" },
        { "\"hidden_act\": \"silu\"", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}",
          "type: expected default, linear, llama3, yarn, found dynamic" },
        { "\"hidden_act\": \"silu\"", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}",
          "factor: expected a number of at least 1, found 0.5" },
        { "\"hidden_act\": \"silu\"", "\"rope_parameters\": {\"rope_type\": \"llama3\"}",
          "factor: expected a number of at least 1, found none" },
        { "\"hidden_act\": \"silu\"",
          "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2}",
          "original_max_position_embeddings: expected a number of at least 1, found none" },
        { "\"hidden_act\": \"silu\"",
          "\"max_position_embeddings\": 64, \"rope_parameters\": {\"rope_type\": \"yarn\", "
          "\"factor\": 2, \"truncate\": false}",
          "truncate: expected true, found false" },
        { "\"hidden_act\": \"silu\"", "\"rope_parameters\": {\"partial_rotary_factor\": 0.5}",
          "partial_rotary_factor: expected 1, found 0.5" },
        { "\"vocab_size\": 23", "\"vocab_size\": 0",
          "vocab_size: expected 1 to 2147483647, found 0" },
        { "\"rms_norm_eps\": 1e-3", "\"rms_norm_eps\": \"x\"",
          "rms_norm_eps: expected a number from 0 on, found x" },
        { "\"rope_theta\": 500.0", "\"rope_theta\": 0",
          "rope_theta: expected a number above 0, found 0" },
        { "\"hidden_act\": \"silu\"", "\"use_sliding_window\": -1",
          "use_sliding_window: expected false: no transformer of this type has windows, found -1" }
    };
    /* Llama; Qwen2; Llama tied and with keys for each head */
    for (int kind = 0; kind < 3; kind++) {
        mmix_ctx *m = context(1, 0);
        mmix_decoder_config c = small(MMIX_DECODER_ATTENTION);
        mmix_entry e[MANY];
        mmix_params *p;
        mmix_decoder *d, *back;
        char config[1024], text[1024];
        size_t n = 0;
        snprintf(about, sizeof about, "config.json, kind %d", kind);
        c.media = 0;
        c.depth = 2;
        c.head_dim = 3;
        c.bias = kind == 1;
        c.tied = kind == 2;
        c.rope.dim = 2;
        if (kind == 2) c.kv_heads = 4;
        c.rope.dim = 0;
        c.rope.theta = 500;
        c.eps = 1e-3;
        c.head_dim = 4;
        c.heads = 4;
        d = shaken(m, c);
        p = d->params;
        memset(e, 0, sizeof e);
        for (; n < p->count && n < MANY; n++) {
            e[n].name = p->at[n].name;
            e[n].dtype = MMIX_FILE_REAL;
            e[n].ndim = mmix_ndim(p->at[n].tensor);
            e[n].data = mmix_data(p->at[n].tensor);
            for (int i = 0; i < e[n].ndim; i++)
                e[n].shape[i] = mmix_shape(p->at[n].tensor, i);
        }
        mmix_archive_save(m, PATH, e, n, NULL);
        snprintf(config, sizeof config,
                 "{\"architectures\": [\"X\"], \"model_type\": \"%s\", \"hidden_size\": 12, "
                 "\"intermediate_size\": 10,"
                 " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": "
                 "%d, \"head_dim\": 4, \"rms_norm_eps\": 1e-3,"
                 " \"rope_theta\": 500.0, \"vocab_size\": 23, \"tie_word_embeddings\": %s, "
                 "\"hidden_act\": \"silu\"}\n",
                 kind == 1 ? "qwen2" : "llama", (int)c.kv_heads, kind == 2 ? "true" : "false");
        write_text(FOLDER "/config.json", config);
        back = mmix_decoder_load(m, PATH);
        FINE(m);
        if (back) {
            mmix_sequence s = sequence(m, 0, 9);
            s.n_spans = 0;
            CHECK_AT(gap(mmix_decoder_forward(m, d, &s, NULL),
                         mmix_decoder_forward(m, back, &s, NULL))
                         <= 0,
                     about);
            CHECK_AT(same_lists(p, back->params) && back->config.tied == c.tied, about);
        }
        mmix_decoder_destroy(back);
        if (kind == 0) {                         /* Mistral without a window is a Llama */
            snprintf(text, sizeof text, "{\"sliding_window\": null, \"model_type\": \"mistral\"%s",
                     strstr(config, ", \"hidden_size"));
            write_text(FOLDER "/config.json", text);
            back = mmix_decoder_load(m, PATH);
            CHECK_AT(same_lists(p, back->params), about);
            mmix_decoder_destroy(back);
            FINE(m);
        }
        /* a prefix is found; the classifier of a tied model is left alone */
        char names[MANY][96];
        if (kind == 2) {
            for (size_t i = 0; i < n; i++) {
                snprintf(names[i], sizeof names[i], "inner.%s", e[i].name);
                e[i].name = names[i];
            }
            e[n] = e[0];
            e[n++].name = "inner.lm_head.weight";
            /* of older files */
            e[n] = e[0];
            e[n++].name = "inner.model.layers.0.self_attn.rotary_emb.inv_freq";
            mmix_archive_save(m, PATH, e, n, NULL);
            back = mmix_decoder_load(m, PATH);
            CHECK_AT(same_lists(p, back->params), about);
            mmix_decoder_destroy(back);
            FINE(m);
        }
        /* another classifier than the embedding counts, as in transformers, whatever the config says */
        if (kind == 2) {
            const size_t last = mmix_count(p->at[0].tensor) - 1;
            mmix_tensor *head = mmix_new2(m, 23, 12);
            mmix_write(head, mmix_data(p->at[0].tensor));
            mmix_data(head)[last] += 1;
            e[n - 2].data = mmix_data(head);
            mmix_archive_save(m, PATH, e, n, NULL);
            back = mmix_decoder_load(m, PATH);
            FINE(m);
            CHECK_AT(back && !back->config.tied, about);
            const mmix_tensor *untied = back ? mmix_params_find(back->params, "lm_head.weight") : NULL;
            CHECK_AT(untied && mmix_data(untied)[last] == mmix_data(head)[last], about);
            CHECK_AT(back && mmix_data(back->params->at[0].tensor)[last] != mmix_data(head)[last],
                     about);
            mmix_decoder_destroy(back);
        }
        for (size_t i = 0; kind == 0 && i < sizeof wrong / sizeof *wrong; i++) {
            const char *at = strstr(config, wrong[i].edit_from);
            snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - config) : 0, config,
                     wrong[i].edit_to, at ? at + strlen(wrong[i].edit_from) : "");
            write_text(FOLDER "/config.json", text);
            back = mmix_decoder_load(m, PATH);
            report(at && !back && says(m, MMIX_ERROR_FILE, wrong[i].message), __FILE__, __LINE__,
                   "a wrong config.json", wrong[i].edit_to);
            mmix_decoder_destroy(back);
            mmix_reset(m);
        }
        remove(FOLDER "/config.json");
        CHECK_AT(!mmix_decoder_load(m, PATH) && says(m, MMIX_ERROR_FILE, "config.json"), about);
        CHECK(!mmix_decoder_load(m, FOLDER "/not there")
              && says(m, MMIX_ERROR_FILE, "cannot be opened"));
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "adapters", adapters }, { "round trip", round_trip }, { "hugging face", hugging_face }
    };
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    const int bad = sections(all, sizeof all / sizeof all[0], argc, argv);
    remove(PATH);
    remove(PATH2);
    remove(FOLDER);
    return bad;
}
