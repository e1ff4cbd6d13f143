/* towers - towers of pictures and texts that transformers and OpenCLIP wrote, opened as they are,
   beside what these computed with them

     towers          those of tests/golden/towers
     towers DIR      those of the folder that tests/towers_cases.py, or tests/openclip_cases.py,
                     filled

   Vectors, logits and the gradient of every parameter are to be within 2e-4 of the largest
   magnitude, in doubles within 1e-9. */
#include "theirs.h"

#define GOLDEN "tests/golden/towers"
#define FOLDER "build/towers_test"
/* The file's name of a parameter; of q, k and v, which are one here, number `part`. */
static void file_name(const char *name, int part, char out[192])
{
    static const char *const parts[] = { "self_attn.q_proj", "self_attn.k_proj",
                                         "self_attn.v_proj" };
    const char *at = strstr(name, "attn.qkv"), *last = strstr(name, "attn.proj");
    if (at)
        snprintf(out, 192, "gradient.%.*s%s%s", (int)(at - name), name, parts[part],
                 at + strlen("attn.qkv"));
    else if (last)
        snprintf(out, 192, "gradient.%.*sself_attn.out_proj%s", (int)(last - name), name,
                 last + strlen("attn.proj"));
    else snprintf(out, 192, "gradient.%.180s", name);
}
static void gradients(mmix_ctx *m, mmix_params *p, const mmix_archive *expected)
{
    for (size_t i = 0; i < p->count && !mmix_error(m); i++) {
        mmix_tensor *slope = mmix_grad(p->at[i].tensor);
        int parts = strstr(p->at[i].name, "attn.qkv") ? 3 : 1;
        for (int part = 0; part < parts; part++) {
            char name[192];
            size_t n = mmix_shape(slope, 0) / (size_t)parts;
            file_name(p->at[i].name, part, name);
            mmix_tensor *found = mmix_slice(m, slope, 0, (size_t)part * n, n);
            /* a key's bias moves nothing, and what is left is rounding */
            if (strstr(name, "k_proj.bias")) continue;
            beside(mmix_affine(m, found, 1, 0), array(m, expected, name), name);
        }
    }
}
static void compare(mmix_ctx *m, mmix_towers *t, const mmix_archive *expected)
{
    mmix_tensor *image = array(m, expected, "image"), *tokens = array(m, expected, "tokens");
    mmix_params *p = mmix_towers_params(t);
    mmix_tensor *pictures = mmix_towers_picture(m, t, image);
    mmix_tensor *texts = mmix_towers_text(m, t, tokens);
    beside(pictures, array(m, expected, "pictures"), "pictures");
    beside(texts, array(m, expected, "texts"), "texts");
    beside(mmix_towers_logits(m, t, pictures, texts), array(m, expected, "logits"), "logits");
    FINE(m);
    if (!mmix_archive_find(expected, "gradient.logit_scale")) return;
    mmix_params_require_grad(p, 1);
    mmix_record(m, 1);
    pictures = mmix_towers_picture(m, t, image);
    texts = mmix_towers_text(m, t, tokens);
    mmix_tensor *logits = mmix_towers_logits(m, t, pictures, texts);
    mmix_backward(m, mmix_sum(m, mmix_mul(m, logits, array(m, expected, "weight"))));
    mmix_record(m, 0);
    gradients(m, p, expected);
    FINE(m);
    mmix_params_require_grad(p, 0);
}
/* Pictures of another size, texts without an end, too long ones, in fewer bits. */
static void arguments(mmix_ctx *m, mmix_towers *t, const char *weights)
{
    const mmix_towers_config *c = mmix_towers_config_of(t);
    size_t side = c->picture.side, shape[2] = { 1, c->text.positions + 1 };
    mmix_tensor *tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; tokens && i < shape[1]; i++) mmix_data_i32(tokens)[i] = 3;
    REFUSED(m, !mmix_towers_picture(m, t, mmix_fill(mmix_new4(m, 1, 3, side + 8, side), 0)),
            "image has shape (1, 3, ");
    REFUSED(m, !mmix_towers_text(m, t, tokens), "the number of tokens");
    if (c->text.pool == MMIX_TOWER_END && c->text.end >= 0)
        REFUSED(m, !mmix_towers_text(m, t, mmix_slice(m, tokens, 1, 0, 3)), "no end token");
    CHECK(!mmix_towers_plan(NULL, 20, 30).width && !mmix_towers_plan(t, 0, 30).width);
    REFUSED(m, !mmix_towers_image(m, t, (const uint8_t *)"", 0, 30), "sides of 1 to 2^24");
    uint8_t rgb[20 * 30 * 3];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 7);
    mmix_tensor *image = mmix_towers_image(m, t, rgb, 20, 30);
    CHECK(image && mmix_shape(image, 2) == side && mmix_shape(image, 3) == side);
    FINE(m);
    mmix_tensor *exact = mmix_towers_picture(m, t, image);
    mmix_towers *narrow = mmix_towers_load_as(m, weights, MMIX_DTYPE_BF16);
    mmix_tensor *rounded = mmix_towers_picture(m, narrow, image);
    if (CHECK(exact && rounded)) CHECK(apart(rounded, exact) < 0.05);
    FINE(m);
    mmix_towers_destroy(narrow);
}
/* Pictures are prepared as the system does it, to the last bit of their pixels. */
static void pixels(mmix_ctx *m, const mmix_towers *t, const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%.200s/%.100s/pixels.safetensors", folder, name);
    mmix_archive *a = there(path) ? mmix_archive_open(m, path) : NULL;
    const mmix_entry *rgb = mmix_archive_find(a, "rgb");
    if (rgb) {
        mmix_tensor *expected = array(m, a, "pixels");
        mmix_tensor *found = mmix_towers_image(m, t, (const uint8_t *)rgb->data, rgb->shape[1],
                                               rgb->shape[0]);
        if (CHECK(found && mmix_count(found) == mmix_count(expected)))
            near_to(apart(found, expected), 0, 1e-6, __FILE__, __LINE__, "pixels");
        FINE(m);
    }
    mmix_archive_close(a);
}
/* The file of weights in a folder. */
static void weights_of(const char *folder, const char *name, char path[512])
{
    snprintf(path, 512, "%.200s/%.100s/model.safetensors", folder, name);
    if (!there(path))
        snprintf(path, 512, "%.200s/%.100s/open_clip_model.safetensors", folder, name);
}
static void towers(const char *folder, const char *name)
{
    char weights[512], answers[512];
    weights_of(folder, name, weights);
    snprintf(answers, sizeof answers, "%.200s/%.100s/expected.safetensors", folder, name);
    doing(name);
    worst = 0;
    mmix_ctx *m = mmix_create(NULL);
    mmix_towers *t = mmix_towers_load(m, weights);
    mmix_archive *expected = mmix_archive_open(m, answers);
    FINE(m);
    if (t && expected) {
        compare(m, t, expected);
        mmix_reset(m);
        pixels(m, t, folder, name);
        arguments(m, t, weights);
    }
    printf("%-20s at most %.1e apart\n", name, worst);
    mmix_archive_close(expected);
    mmix_towers_destroy(t);
    mmix_destroy(m);
}

/* ---- what a config asks for and is not done ---- */

typedef struct change {
    const char *from, *to;                       /* in the config */
    const char *processor;                       /* preprocessor_config.json, or NULL */
    const char *message;                         /* NULL: it opens */
} change;
/* Opens a golden folder's weights beside its config with each change. */
static void refused_configs(const char *folder, const char *weights, const char *config_name,
                            const change *changes, size_t count)
{
    static char config[1 << 14], text[1 << 14], bytes[1 << 20];
    char path[256], copy[256];
    mmix_ctx *m = mmix_create(NULL);
    snprintf(path, sizeof path, "%s/%s", folder, weights);
    snprintf(copy, sizeof copy, FOLDER "/%s", weights);
    size_t n = text_of(path, bytes, sizeof bytes);
    write_bytes(copy, bytes, n);
    snprintf(path, sizeof path, "%s/%s", folder, config_name);
    text_of(path, config, sizeof config);
    snprintf(path, sizeof path, FOLDER "/%s", config_name);
    for (const change *c = changes; c < changes + count; c++) {
        const char *at = c->from ? strstr(config, c->from) : config;
        if (!CHECK_AT(at != NULL, c->from)) continue;
        const char *rest = c->from ? at + strlen(c->from) : at;
        int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config), config,
                              c->to ? c->to : "", rest);
        write_bytes(path, text, (size_t)length);
        remove(FOLDER "/preprocessor_config.json");
        if (c->processor)
            write_bytes(FOLDER "/preprocessor_config.json", c->processor, strlen(c->processor));
        mmix_towers *t = mmix_towers_load(m, copy);
        doing(c->message ? c->message : "a config that fits");
        if (c->message) CHECK(!t && says(m, MMIX_ERROR_FILE, c->message));
        else CHECK(t && mmix_towers_config_of(t)->mean[0] == 0.5);
        FINE(m);
        mmix_towers_destroy(t);
        mmix_reset(m);
    }
    remove(path);
    remove(copy);
    doing("");
    mmix_destroy(m);
}
static void refused_huggingface(void)
{
    static const change changes[] = {
        { "\"model_type\": \"clip\",", "\"model_type\": \"align\",", NULL,
          "model_type: expected clip, siglip, found align" },
        { "\"hidden_act\": \"quick_gelu\"", "\"hidden_act\": \"relu\"", NULL,
          "hidden_act: expected gelu, gelu_pytorch_tanh, quick_gelu, found relu" },
        { "\"patch_size\": 8", "\"patch_size\": 4", NULL, "patch_embedding.weight" },
        { "\"vision_config\": {", "\"other_config\": {", NULL,
          "vision_config: expected an object, found none" },
        { "\"num_channels\": 3", "\"num_channels\": 1", NULL, "num_channels: expected 3, found 1" },
        { NULL, NULL, "{\"size\": {\"shortest_edge\": 48}}",
          "size: expected the image_size of config.json" },
        { NULL, NULL, "{\"resample\": 4}", "expected 1 (Lanczos), 2 (bilinear) or 3 (bicubic), found 4" },
        { NULL, NULL, "{\"image_mean\": [0.5, 0.5]}", "image_mean: expected a list of 3 numbers" },
        { NULL, NULL, "{\"image_std\": [0.5, 0, 0.5]}", "image_std: expected numbers above 0" },
        { NULL, NULL, "{\"do_resize\": false}", "do_resize: expected true, found false" },
        { NULL, NULL, "{\"do_rescale\": false}", "do_rescale: expected true, found false" },
        { NULL, NULL, "{\"do_normalize\": false}", "do_normalize: expected true, found false" },
        { NULL, NULL, "{\"rescale_factor\": 1}", "rescale_factor: expected 1/255, found 1" },
        { NULL, NULL, "{\"crop_size\": {\"height\": 32, \"width\": 24}}",
          "crop_size: expected the image_size of config.json" },
        { NULL, NULL, "{\"size\": {\"height\": 32, \"width\": 24}}",
          "size: expected the image_size of config.json" },
        { NULL, NULL, "{\"do_center_crop\": false}",
          "do_center_crop: expected true where the shorter side is resized, found false" },
        { "\"vision_config\": {", "\"vision_config_dict\": {\"patch_size\": 4}, \"vision_config\": {",
          NULL, "patch_embedding.weight" },
        { NULL, NULL, "{\"image_mean\": [0.5, 0.5, 0.5], \"size\": 32, \"crop_size\": 32, "
          "\"do_resize\": null, \"rescale_factor\": 0.00392156862745098}", NULL }
    };
    refused_configs(GOLDEN "/clip", "model.safetensors", "config.json", changes,
                    sizeof changes / sizeof *changes);
}
/* OpenCLIP's members, each of which a released config has. */
static void refused_openclip(void)
{
#define VISION "\"vision_cfg\": {"
#define TEXT "\"text_cfg\": {"
    static const change changes[] = {
        { VISION, VISION "\"ls_init_value\": 0.0001,", NULL, "ls_init_value: expected none" },
        { VISION, VISION "\"attentional_pool\": true,", NULL, "attentional_pool: expected none" },
        { "\"mlp_ratio\": 1.5", "\"mlp_ratio\": 1e300", NULL,
          "mlp_ratio: expected a width of 1 or more" },
        { TEXT, TEXT "\"eos_id\": 1e12,", NULL, "eos_id: expected a token" },
        { VISION, VISION "\"pool_type\": \"avg\",", NULL, "pool_type: expected tok, found avg" },
        { "\"layers\": 1", "\"layers\": [3, 4, 6, 3]", NULL, "lists belong to ResNets" },
        { VISION, VISION "\"timm_model_name\": \"convnext_base\",", NULL,
          "timm_model_name: expected vit_base_" },
        { VISION, VISION "\"norm_kwargs\": {\"bias\": true},", NULL, "bias: expected none" },
        { VISION, VISION "\"act_kwargs\": {\"approximate\": \"tanh\"},", NULL,
          "act_kwargs: expected none beside quick_gelu" },
        { VISION, VISION "\"mlp_ratio\": 4, \"old\": [", NULL, "open_clip_config.json" },
        { "\"head_width\": 8", "\"head_width\": 48", NULL, "heads" },
        { TEXT, TEXT "\"hf_model_name\": \"roberta-base\",", NULL,
          "hf_model_name: expected none, found roberta-base" },
        { TEXT, TEXT "\"embed_cls\": true,", NULL, "embed_cls: expected none, found true" },
        { TEXT, TEXT "\"pool_type\": \"first\",", NULL, "expected argmax, eos, last, found first" },
        { "\"context_length\": 9", "\"context_length\": 77", NULL, "positional_embedding" },
        { "\"embed_dim\": 16", "\"embed_dim\": 12", NULL,
          "visual.proj (24, 16), expected (24, 12)" },
        { "\"embed_dim\"", "\"multimodal_cfg\": {\"width\": 512}, \"embed_dim\"", NULL,
          "multimodal_cfg: expected none" },
        { "\"model_cfg\"", "\"model\"", NULL, "model_cfg: expected an object, found none" },
        { "\"preprocess_cfg\": {", "\"preprocess_cfg\": {\"interpolation\": \"nearest\"", NULL,
          "interpolation: expected bicubic, bilinear, found nearest" },
        { "\"preprocess_cfg\": {", "\"preprocess_cfg\": {\"resize_mode\": \"longest\"", NULL,
          "resize_mode: expected shortest, squash, found longest" },
        { "\"preprocess_cfg\": {", "\"preprocess_cfg\": {\"size\": [48, 48]", NULL,
          "size: expected the image_size of vision_cfg" },
        { "\"preprocess_cfg\": {", "\"preprocess_cfg\": {\"size\": 32, \"mean\": [0.5, 0.5, 0.5]",
          NULL, NULL }
    };
#undef VISION
#undef TEXT
    refused_configs(GOLDEN "/openclip", "open_clip_model.safetensors", "open_clip_config.json",
                    changes, sizeof changes / sizeof *changes);
    static const change siglip[] = {
        { "\"timm_pool\": \"map\"", "\"timm_pool\": \"avg\"", NULL, "timm_pool: expected map" },
        { "\"timm_proj\": \"none\"", "\"timm_proj\": \"mlp\"", NULL, "timm_proj: expected none" },
        { "siglip_256", "siglip_gap_256", NULL, "timm_model_name: expected" },
        { "\"image_size\": 32", "\"image_size\": 40", NULL, "visual.trunk.pos_embed" },
        { NULL, NULL, NULL, NULL }
    };
    refused_configs(GOLDEN "/openclip-siglip", "open_clip_model.safetensors",
                    "open_clip_config.json", siglip, sizeof siglip / sizeof *siglip);
}
/* Weights without a config, cut short, and with an array that nothing reads. */
static void broken_openclip(void)
{
    static char bytes[1 << 20];
    mmix_ctx *m = mmix_create(NULL);
    size_t n = text_of(GOLDEN "/openclip/open_clip_model.safetensors", bytes, sizeof bytes);
    write_bytes(FOLDER "/alone.safetensors", bytes, n);
    CHECK(!mmix_towers_load(m, FOLDER "/alone.safetensors")
          && says(m, MMIX_ERROR_FILE, "expected open_clip_config.json"));
    write_bytes(FOLDER "/alone.safetensors", bytes, n / 2);
    CHECK(!mmix_towers_load(m, FOLDER "/alone.safetensors")
          && says(m, MMIX_ERROR_FILE, "alone.safetensors"));
    char *at = strstr(bytes + 8, "\"logit_scale\"");
    if (CHECK(at != NULL)) memcpy(at, "\"logit_scala\"", 13);
    write_bytes(FOLDER "/alone.safetensors", bytes, n);
    text_of(GOLDEN "/openclip/open_clip_config.json", bytes, sizeof bytes);
    write_bytes(FOLDER "/open_clip_config.json", bytes, strlen(bytes));
    CHECK(!mmix_towers_load(m, FOLDER "/alone.safetensors")
          && says(m, MMIX_ERROR_FILE, "1 missing, 0 of another shape, 1 unexpected; first: "
                                      "missing logit_scale"));
    remove(FOLDER "/alone.safetensors");
    remove(FOLDER "/open_clip_config.json");
    mmix_destroy(m);
}
/* Configs with wrong bytes: they open, or are refused, and nothing else happens. */
static void fuzzed_openclip(const char *folder)
{
    static char bytes[1 << 20], config[1 << 14], text[1 << 14];
    char path[256];
    uint32_t state = 7;
    mmix_ctx *m = mmix_create(NULL);
    snprintf(path, sizeof path, "%s/open_clip_model.safetensors", folder);
    size_t n = text_of(path, bytes, sizeof bytes), opened = 0;
    write_bytes(FOLDER "/open_clip_model.safetensors", bytes, n);
    snprintf(path, sizeof path, "%s/open_clip_config.json", folder);
    n = text_of(path, config, sizeof config);
    for (int k = 0; k < 300; k++) {
        memcpy(text, config, n);
        for (int changes = 0; changes <= k % 3; changes++) {
            state = state * 1664525u + 1013904223u;
            text[(state >> 8) % n] = "\"[]{},:09-e.ntz "[state >> 4 & 15];
        }
        write_bytes(FOLDER "/open_clip_config.json", text, n);
        mmix_towers *t = mmix_towers_load(m, FOLDER "/open_clip_model.safetensors");
        CHECK(t ? !mmix_error(m) : mmix_error(m) != NULL);
        opened += t != NULL;
        mmix_towers_destroy(t);
        mmix_error_clear(m);
        mmix_reset(m);
    }
    CHECK(opened > 0 && opened < 300);
    remove(FOLDER "/open_clip_model.safetensors");
    remove(FOLDER "/open_clip_config.json");
    mmix_destroy(m);
}
/* ---- every allocation fails once ---- */

static int opened(const mmix_options *o, void *user)     /* a folder */
{
    char path[512];
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    const char *slash = strrchr((const char *)user, '/');
    weights_of(GOLDEN, slash + 1, path);
    mmix_towers *t = mmix_towers_load(m, path);
    snprintf(path, sizeof path, "%.80s/expected.safetensors", (const char *)user);
    mmix_archive *a = t ? mmix_archive_open(m, path) : NULL;
    const mmix_entry *e = mmix_archive_find(a, "tokens");
    if (e) {
        mmix_tensor *tokens = mmix_new(m, MMIX_DTYPE_I32, e->ndim, e->shape);
        if (tokens)
            mmix_archive_read(m, a, e, MMIX_FILE_I32, mmix_data_i32(tokens), mmix_count(tokens));
        size_t side = mmix_towers_config_of(t)->picture.side;
        mmix_tensor *image = mmix_fill(mmix_new4(m, 1, 3, side, side), 0.5);
        mmix_tensor *picture = mmix_towers_picture(m, t, image);
        mmix_towers_logits(m, t, picture, mmix_towers_text(m, t, tokens));
    }
    int kind = mmix_error_kind(m);
    mmix_archive_close(a);
    mmix_towers_destroy(t);
    mmix_destroy(m);
    return kind;
}
/* Towers of random numbers: vectors of length 1, the same from the same seed, and sizes that do not
   fit are refused. */
static void created(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_towers_config c;
    memset(&c, 0, sizeof c);
    c.picture.dim = c.text.dim = 12;
    c.picture.depth = c.text.depth = 2;
    c.picture.heads = c.text.heads = 3;
    c.picture.ffn = c.text.ffn = 20;
    c.picture.eps = c.text.eps = 1e-5;
    c.picture.patch = 4;
    c.picture.side = 8;
    c.picture.projection = c.text.projection = 1;
    c.text.vocabulary = 9;
    c.text.positions = 6;
    c.text.pool = MMIX_TOWER_LAST;
    c.width = 5;
    mmix_towers *t = mmix_towers_create(m, c), *again = mmix_towers_create(m, c);
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 8, 8), 1, 3);
    const int32_t ids[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 7, 6, 5, 4 };
    const size_t shape[2] = { 2, 6 };
    mmix_tensor *v[2] = { mmix_towers_picture(m, t, image),
                          mmix_towers_text(m, t, mmix_from_i32(m, 2, shape, ids)) };
    for (int k = 0; k < 2; k++)
        for (size_t b = 0; v[k] && b < 2; b++) {
            double square = 0;
            for (size_t i = 0; i < 5; i++)
                square += pow((double)mmix_data(v[k])[b * 5 + i], 2);
            CHECK(fabs(square - 1) < 1e-5);
        }
    CHECK(v[0] && v[1] && gap(v[0], mmix_towers_picture(m, again, image)) <= 0);
    mmix_tensor *logits = mmix_towers_logits(m, t, v[0], v[1]);
    CHECK(logits && mmix_shape(logits, 0) == 2 && mmix_shape(logits, 1) == 2);
    FINE(m);
    mmix_towers_destroy(t);
    mmix_towers_destroy(again);
    c.picture.heads = 0;
    REFUSED(m, !mmix_towers_create(m, c), "heads is 0");
    c.picture.heads = 5;
    REFUSED(m, !mmix_towers_create(m, c), "5 heads");
    c.picture.heads = 3;
    c.text.projection = 0;
    c.text.pool = MMIX_TOWER_CLASS;
    REFUSED(m, !mmix_towers_create(m, c), "pool is 0");
    mmix_destroy(m);
}
static void allocations(void)
{
    static const char *const folders[] = {
        GOLDEN "/clip", GOLDEN "/siglip", GOLDEN "/openclip", GOLDEN "/openclip-siglip"
    };
    each_memory_fails(opened, folders, sizeof folders / sizeof *folders, ARENA_BLOCK == 256 ? 7 : 1);
}
int main(int argc, char **argv)
{
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    each_in(argc == 2 ? argv[1] : GOLDEN, towers);
    if (argc != 2) {
        created();
        refused_huggingface();
        refused_openclip();
        broken_openclip();
        fuzzed_openclip(GOLDEN "/openclip");
        fuzzed_openclip(GOLDEN "/openclip-siglip");
        allocations();
    }
    return summary();
}
