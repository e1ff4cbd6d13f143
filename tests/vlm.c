/* vlm - vision-language models that transformers wrote, opened as they are, beside what it computed
   with them

     vlm          those of tests/golden/vlm
     vlm DIR      those of the folder that tests/vlm_cases.py filled

   Pixels are to be its processor's to the bit, image tokens to stand where its processor puts them.
   Features and logits are to be within 2e-4 of the largest magnitude, in doubles within 1e-9, of a
   whole question and of one in pieces. */
#include "theirs.h"

#define GOLDEN "tests/golden/vlm"
#define FOLDER "build/vlm_test"
enum { MOST_PICTURES = 4, MOST_FRAMES = 8 };
/* ---- a question ---- */

typedef struct question {
    mmix_ctx *m;
    const mmix_vlm *v;
    const mmix_archive *expected;
    int number;
    mmix_picture pictures[MOST_PICTURES];
    size_t count;
    mmix_picture frames[MOST_FRAMES];
    mmix_film film;                              /* behind the pictures; its count is 0: none */
    mmix_tensor *ids;
} question;

/* nN.WHAT in the archive; NULL if it is not there. */
static const mmix_entry *given(const question *q, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "n%d.%.40s", q->number, what);
    return mmix_archive_find(q->expected, name);
}
static mmix_tensor *numbers(const question *q, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "n%d.%.40s", q->number, what);
    return array(q->m, q->expected, name);
}
static void film_begin(question *q)
{
    const mmix_entry *e = given(q, "frames");
    memset(&q->film, 0, sizeof q->film);
    if (!e || !CHECK(e->shape[0] <= MOST_FRAMES)) return;
    q->film.frames = q->frames;
    q->film.count = e->shape[0];
    q->film.rate = 1;
    for (size_t i = 0; i < q->film.count; i++) {
        q->frames[i].height = e->shape[1];
        q->frames[i].width = e->shape[2];
        q->frames[i].rgb = (const uint8_t *)e->data + i * e->shape[1] * e->shape[2] * 3;
    }
}
static int question_begin(question *q)
{
    q->count = 0;
    if (!given(q, "ids")) return 0;
    q->ids = numbers(q, "ids");
    while (q->count < MOST_PICTURES) {
        char name[64];
        snprintf(name, sizeof name, "picture%d", (int)q->count);
        const mmix_entry *e = given(q, name);
        if (!e) break;
        q->pictures[q->count].rgb = (const uint8_t *)e->data;
        q->pictures[q->count].height = e->shape[0];
        q->pictures[q->count].width = e->shape[1];
        q->count++;
    }
    film_begin(q);
    return 1;
}
/* The tiles beside the processor's levels, (tiles, T, T, 3), from tile *tile on, which moves on. */
static void pixels_beside(const question *q, const mmix_tensor *pixels, size_t *tile)
{
    const mmix_entry *levels = given(q, "levels");
    const mmix_entry *values = mmix_archive_find(q->expected, "values");
    size_t n = mmix_shape(pixels, 0), T = mmix_shape(pixels, 2), wrong = 0;
    if (!CHECK(levels && values && *tile + n <= levels->shape[0] && T == levels->shape[1])) return;
    const uint8_t *level = (const uint8_t *)levels->data + *tile * T * T * 3;
    const mmix_real *found = mmix_data(pixels);
    for (size_t i = 0; i < n * 3 * T * T; i++) {
        size_t channel = i / (T * T) % 3, place = i / (3 * T * T) * T * T + i % (T * T);
        float value;
        memcpy(&value, (const char *)values->data
               + 4 * (256 * channel + level[3 * place + channel]), 4);
        wrong += found[i] < (mmix_real)value || found[i] > (mmix_real)value;
    }
    COMPARE(wrong == 0, "pixels that are not the processor's", wrong, 0);
    *tile += n;
}
/* Pictures one by one, and the film: plans, pixels, features. */
static void media_beside(question *q)
{
    mmix_ctx *m = q->m;
    mmix_tensor *expected = numbers(q, "features");
    size_t tile = 0, token = 0, films = q->film.count > 0;
    for (size_t i = 0; i < q->count + films; i++) {
        mmix_vlm_plan plan;
        int is_film = i == q->count;
        mmix_picture p = is_film ? q->frames[0] : q->pictures[i];
        CHECK(!(is_film ? mmix_vlm_plan_film(m, q->v, p.width, p.height, q->film.count, &plan)
                : mmix_vlm_plan_picture(m, q->v, p.width, p.height, q->count, &plan)));
        mmix_tensor *pixels = is_film ? mmix_vlm_film_pixels(m, q->v, &q->film, &plan)
            : mmix_vlm_pixels(m, q->v, p, &plan);
        FINE(m);
        if (!CHECK(pixels && token + plan.tokens <= mmix_shape(expected, 0))) return;
        pixels_beside(q, pixels, &tile);
        mmix_tensor *found = mmix_vlm_features(m, q->v, pixels, &plan);
        mmix_tensor *part = mmix_slice(m, expected, 0, token, plan.tokens);
        beside(found, mmix_affine(m, part, 1, 0), "features");
        token += plan.tokens;
    }
    COMPARE(token == mmix_shape(expected, 0), "features of all media", token,
            mmix_shape(expected, 0));
}
/* The last logits of a question that comes in two pieces and then token by token. */
static void in_pieces(question *q, const mmix_sequence *whole, mmix_tensor *logits)
{
    enum { STEPS = 3 };
    mmix_ctx *m = q->m;
    const mmix_decoder *d = mmix_vlm_decoder(q->v);
    mmix_mix_state *state = mmix_decoder_state_create(d);
    size_t L = mmix_shape(whole->tokens, 1);
    mmix_sequence piece = *whole;
    piece.tokens = mmix_slice(m, whole->tokens, 1, 0, L - STEPS);
    mmix_tensor *found = mmix_decoder_step(m, d, &piece, state);
    memset(&piece, 0, sizeof piece);
    for (size_t i = L - STEPS; i < L; i++) {
        piece.tokens = mmix_slice(m, whole->tokens, 1, i, 1);
        found = mmix_decoder_step(m, d, &piece, state);
    }
    size_t last = mmix_shape(logits, 0) - 1;
    beside(found, mmix_affine(m, mmix_slice(m, logits, 0, last, 1), 1, 0), "logits after steps");
    mmix_mix_state_destroy(state);
}
static void answer_beside(question *q)
{
    mmix_ctx *m = q->m;
    const mmix_decoder *d = mmix_vlm_decoder(q->v);
    mmix_sequence s;
    mmix_tensor *places = numbers(q, "places"), *logits = numbers(q, "logits");
    size_t n = mmix_count(q->ids), D = d->config.dim;
    const size_t flat[2] = { n, D };
    int failed_now = mmix_vlm_sequence_films(m, q->v, mmix_data_i32(q->ids), n, q->pictures,
                                             q->count, &q->film, q->film.count > 0, &s);
    FINE(m);
    if (!CHECK(!failed_now)) return;
    if (q->film.count)                           /* the end of a line follows each frame */
        CHECK(s.spans[s.n_spans - 1].separators == (s.spans[s.n_spans - 1].grid[0] > 1));
    mmix_tensor *x = mmix_reshape(m, mmix_decoder_forward(m, d, &s, NULL), 2, flat);
    beside(mmix_decoder_logits(m, d, mmix_take_rows(m, x, places)), logits, "logits");
    in_pieces(q, &s, logits);
    FINE(m);
}
static void model(const char *folder, const char *name)
{
    char where[400], answers[512];
    snprintf(where, sizeof where, "%.200s/%.100s", folder, name);
    snprintf(answers, sizeof answers, "%s/expected.safetensors", where);
    doing(name);
    worst = 0;
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *v = mmix_vlm_load(m, where);
    mmix_archive *expected = mmix_archive_open(m, answers);
    FINE(m);
    question q;
    memset(&q, 0, sizeof q);
    q.m = m;
    q.v = v;
    q.expected = expected;
    for (; v && expected && question_begin(&q); q.number++) {
        char text[160];
        snprintf(text, sizeof text, "%.100s, question %d", name, q.number);
        doing(text);
        if (q.count + q.film.count) media_beside(&q);
        answer_beside(&q);
        FINE(m);
        mmix_reset(m);
    }
    CHECK(q.number > 0);
    printf("%-16s %d questions, at most %.1e apart\n", name, q.number, worst);
    mmix_archive_close(expected);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
    doing("");
}

/* ---- pictures of many sizes, with the released models' settings ---- */

/* SmolVLM-256M's pictures, Idefics3-8B's and LLaVA-OneVision's, with networks of a few numbers. */
static mmix_vlm_config released(int which)
{
    static const size_t tile[] = { 512, 364, 384 }, patch[] = { 16, 14, 14 }, merge[] = { 4, 2, 1 };
    mmix_vlm_config c;
    memset(&c, 0, sizeof c);
    c.kind = which == 2 ? MMIX_VLM_LLAVA : MMIX_VLM_IDEFICS3;
    c.tower.dim = 4;
    c.tower.depth = 1;
    c.tower.heads = 1;
    c.tower.ffn = 4;
    c.tower.eps = 1e-6;
    c.tower.patch = patch[which];
    c.tower.side = tile[which];
    c.tower.pool = MMIX_TOWER_TOKENS;
    c.layers = 1;
    c.merge = merge[which];
    c.projector = which == 2 ? MMIX_PROJECTOR_MLP : MMIX_PROJECTOR_LINEAR;
    c.decoder.vocabulary = 9;
    c.decoder.dim = 4;
    c.decoder.depth = 1;
    c.decoder.heads = 1;
    c.decoder.ffn = 4;
    c.tile = tile[which];
    c.longest = which ? 4 * 1092 : 2048;
    c.most = 9;
    c.filter = which == 2 ? MMIX_PILLOW_BICUBIC : MMIX_PILLOW_LANCZOS;
    c.scale = 1.0 / 255;
    for (size_t i = 0; which == 2 && i < 36; i++) {
        c.shapes[i][0] = 384 * (i / 6 + 1);
        c.shapes[i][1] = 384 * (i % 6 + 1);
        c.n_shapes++;
    }
    for (int i = 0; i < 3; i++) {
        c.mean[i] = 0.5;
        c.deviation[i] = 0.5;
    }
    return c;
}
static void sizes(void)
{
    /* width, height, and how many tokens the processors of transformers 5.24 write for them */
    static const size_t of[][5] = {
        { 1, 1, 1088, 24505, 1485 }, { 3472, 3287, 1088, 24505, 7281 },
        { 1091, 1097, 1088, 24505, 7371 }, { 247, 792, 576, 8281, 2835 },
        { 1149, 583, 832, 14365, 4173 }, { 1117, 1985, 832, 14365, 7317 },
        { 874, 1063, 1088, 20449, 6237 }, { 938, 1065, 1088, 22477, 6561 },
        { 238, 133, 832, 14365, 1149 }, { 736, 444, 832, 16393, 2489 },
        { 1695, 3673, 576, 12337, 7393 }, { 723, 542, 832, 18421, 2929 },
        { 93, 66, 832, 18421, 1261 }, { 366, 1662, 320, 6253, 4173 },
        { 27, 16, 832, 16393, 1205 }, { 23, 569, 320, 2197, 945 }
    };
    mmix_ctx *m = mmix_create(NULL);
    for (int which = 0; which < 3; which++) {
        mmix_vlm *v = mmix_vlm_create(m, released(which));
        FINE(m);
        for (size_t i = 0; v && i < sizeof of / sizeof *of; i++) {
            mmix_vlm_plan plan;
            CHECK(!mmix_vlm_plan_picture(m, v, of[i][0], of[i][1], 1, &plan));
            COMPARE(plan.tokens == of[i][2 + which], "tokens of a picture", plan.tokens,
                    of[i][2 + which]);
        }
        mmix_vlm_destroy(v);
    }
    mmix_destroy(m);
}

/* ---- what is asked wrongly ---- */

enum { MANY = 200 };
static uint8_t dots[12 * 7 * 3];
static mmix_picture small_picture(void)
{
    mmix_picture p = { dots, 12, 7 };
    for (size_t i = 0; i < sizeof dots; i++) dots[i] = (uint8_t)(i * 37);
    return p;
}
/* Fills ids with image tokens for so many small pictures, a 0 before each; returns how many. */
static size_t asked(mmix_ctx *m, const mmix_vlm *v, size_t count, int32_t *ids, size_t room)
{
    mmix_vlm_plan plan;
    size_t n = 0;
    if (mmix_vlm_plan_picture(m, v, 12, 7, count, &plan)) return 0;
    for (size_t i = 0; i < count; i++) {
        if (n + plan.tokens + 1 > room) return n;
        ids[n++] = 0;
        for (size_t k = 0; k < plan.tokens; k++) ids[n++] = mmix_vlm_config_of(v)->image_token;
    }
    ids[n++] = 1;
    return n;
}
static void arguments(void)
{
    static int32_t ids[MANY * 60];
    static mmix_picture many[MANY];
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *v = mmix_vlm_load(m, GOLDEN "/llava-few/");
    mmix_sequence s;
    mmix_vlm_plan plan;
    const mmix_picture none = { NULL, 12, 7 };
    FINE(m);
    for (size_t i = 0; i < MANY; i++) many[i] = small_picture();
    BAD_INT(mmix_vlm_plan_picture(m, v, 0, 5, 1, &plan), "mmix_vlm_plan_picture", "width is 0");
    BAD_INT(mmix_vlm_plan_picture(m, v, 5, 1 << 25, 1, &plan), "height is", "1 to 16777216");
    BAD_INT(mmix_vlm_plan_picture(m, v, 5, 5, 0, &plan), "count", "");
    BAD_INT(mmix_vlm_longest(v, 28), "mmix_vlm_longest: kind is 1", "MMIX_VLM_IDEFICS3");
    BAD_INT(mmix_vlm_plan_picture(m, NULL, 5, 5, 1, &plan), "mmix_vlm_plan_picture", "v");
    CHECK(!mmix_vlm_plan_picture(m, v, 12, 7, 1, &plan));
    BAD(mmix_vlm_pixels(m, v, none, &plan), "picture", "NULL");
    BAD(mmix_vlm_features(m, v, mmix_fill(mmix_new4(m, 1, 3, 14, 14), 0), &plan), "pixels",
        "expected");
    size_t n = asked(m, v, 2, ids, sizeof ids / sizeof *ids);
    CHECK(n > 2 && !mmix_vlm_sequence(m, v, ids, n, many, 2, &s));
    CHECK(s.n_spans == 4 && s.media && mmix_shape(s.media, 1) == n - 3);
    BAD_INT(mmix_vlm_sequence(m, v, ids, n - 2, many, 2, &s), "19 of the ids are image tokens",
            "expected 20 for 2 pictures");
    BAD_INT(mmix_vlm_sequence(m, v, ids, n, many, 1, &s), "20 of the ids are image tokens", "");
    BAD_INT(mmix_vlm_sequence(m, v, ids, n, NULL, 2, &s), "pictures", "NULL");
    BAD_INT(mmix_vlm_sequence(m, v, NULL, n, many, 2, &s), "ids", "NULL");
    ids[5] = 0;                                  /* a word among the first picture's tokens */
    ids[n - 1] = mmix_vlm_config_of(v)->image_token;
    BAD_INT(mmix_vlm_sequence(m, v, ids, n, many, 2, &s), "grid 0 of picture 0 has 9 tokens",
            "from 1 on 4 image tokens stand together");
    n = asked(m, v, MANY, ids, sizeof ids / sizeof *ids);
    BAD_INT(mmix_vlm_sequence(m, v, ids, n, many, MANY, &s), "2201 tokens, 2000 of them of 200",
            "at most the 900 that the model reads");
    FINE(m);
    mmix_vlm_destroy(v);
    mmix_vlm_destroy(NULL);
    CHECK(!mmix_vlm_decoder(NULL) && !mmix_vlm_params(NULL) && !mmix_vlm_config_of(NULL));
    mmix_destroy(m);
}
static void configs(void)
{
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm_config c = released(0);
    c.merge = 3;
    BAD(mmix_vlm_create(m, c), "mmix_vlm_create", "32 x 32 patches, expected a multiple of merge, 3");
    c = released(0);
    c.tower.pool = MMIX_TOWER_CLASS;
    BAD(mmix_vlm_create(m, c), "tower.pool", "");
    c = released(0);
    c.image_token = 9;
    BAD(mmix_vlm_create(m, c), "image_token is 9", "expected 0 to 8");
    c = released(0);
    c.decoder.media = 4;
    BAD(mmix_vlm_create(m, c), "decoder.media", "");
    c = released(0);
    c.layers = 2;
    BAD(mmix_vlm_create(m, c), "layers is 2", "");
    c = released(2);
    c.shapes[7][1] = 400;
    BAD(mmix_vlm_create(m, c), "shape 7 has a side of 400", "the tile's 384");
    c = released(2);
    c.n_shapes = 0;
    BAD(mmix_vlm_create(m, c), "n_shapes", "");
    c = released(1);
    c.filter = 2;
    BAD(mmix_vlm_create(m, c), "filter", "");
    c = released(1);
    c.deviation[1] = 0;
    BAD(mmix_vlm_create(m, c), "deviation", "");
    c = released(1);
    c.decoder.heads = 0;
    BAD(mmix_vlm_create(m, c), "heads", "");
    mmix_destroy(m);
}

/* ---- folders ---- */

/* Copies a file of a golden model into FOLDER, with `from` replaced by `to`; from NULL: as it is. */
static void take(const char *name, const char *file, const char *from, const char *to)
{
    static char text[1 << 16], changed[1 << 16];
    char path[256];
    snprintf(path, sizeof path, GOLDEN "/%.60s/%.60s", name, file);
    size_t n = text_of(path, text, sizeof text);
    snprintf(path, sizeof path, FOLDER "/%.60s", file);
    const char *at = from ? strstr(text, from) : NULL;
    if (from && CHECK_AT(at != NULL, from)) {
        int length = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
                              at + strlen(from));
        write_bytes(path, changed, (size_t)length);
    } else write_bytes(path, text, n);
}
static void take_all(const char *name)
{
    take(name, "config.json", NULL, NULL);
    take(name, "preprocessor_config.json", NULL, NULL);
    take(name, "model.safetensors", NULL, NULL);
    remove(FOLDER "/processor_config.json");
    remove(FOLDER "/mm_projector/config.json");
}
static void folders(void)
{
    static const char *const files[] = { "model.safetensors", "config.json",
                                         "preprocessor_config.json" };
    mmix_ctx *m = mmix_create(NULL);
    for (int i = 0; i < 3; i++) {
        char path[128];
        take_all("smolvlm");
        snprintf(path, sizeof path, FOLDER "/%s", files[i]);
        remove(path);
        REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, FOLDER), files[i], "");
    }
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, "build/nowhere"), "build/nowhere",
               "expected a folder with model.safetensors");
    BAD(mmix_vlm_load(m, NULL), "folder", "NULL");
    BAD(mmix_vlm_load_as(m, FOLDER, MMIX_DTYPE_I32), "dtype", "");
    /* newer files hold the processor's settings in another one, which comes first */
    take_all("smolvlm");
    static const char newer[] = "{\"image_processor\": {\"max_image_size\": {\"longest_edge\": 8}, "
        "\"size\": {\"longest_edge\": 24}}}";
    write_bytes(FOLDER "/processor_config.json", newer, sizeof newer - 1);
    mmix_vlm *v = mmix_vlm_load(m, FOLDER);
    FINE(m);
    CHECK(v && mmix_vlm_config_of(v)->tile == 8 && mmix_vlm_config_of(v)->longest == 24);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
}
static void refused_configs(void)
{
    static const char config[] = "config.json", pictures[] = "preprocessor_config.json";
    static const struct { const char *model, *file, *from, *to, *message; } of[] = {
        { "smolvlm", config, "\"model_type\": \"smolvlm\"", "\"model_type\": \"paligemma\"",
          "qwen2_vl or qwen2_5_vl, found paligemma" },
        { "smolvlm", config, "\"vision_config\"", "\"other_config\"",
          "vision_config: expected an object, found none" },
        { "smolvlm", config, "\"text_config\"", "\"other_config\"", "text_config" },
        { "smolvlm", config, "\"scale_factor\": 2", "\"scale_factor\": 4",
          "connector.modality_projection.proj.weight" },
        { "smolvlm", config, "\"scale_factor\": 2", "\"scale_factor\": 3",
          "expected a multiple of merge, 3" },
        { "smolvlm", config, "\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"",
          "hidden_act: expected silu, found relu" },
        { "smolvlm", config, "\"image_token_id\": 55", "\"image_token_id\": 155",
          "image_token is 155, expected 0 to 77" },
        { "smolvlm", config, "\"use_cache\": true,\n  \"vision",
          "\"quantization_config\": {\"bits\": 4},\n  \"vision", "quantization_config" },
        { "smolvlm", pictures, "\"resample\": 1", "\"resample\": 0",
          "resample: expected 1 (Lanczos), 2 (bilinear) or 3 (bicubic), found 0" },
        { "smolvlm", pictures, "\"do_normalize\": true", "\"do_normalize\": false",
          "do_normalize: expected true, found false" },
        { "smolvlm", pictures, "\"longest_edge\": 16", "\"shortest_edge\": 16", "longest_edge" },
        { "llava-few", config, "\"vision_feature_select_strategy\": \"full\"",
          "\"vision_feature_select_strategy\": \"default\"",
          "vision_feature_select_strategy: expected full, found default" },
        { "llava-few", config, "\"vision_feature_layer\": -2", "\"vision_feature_layer\": [-2, -1]",
          "vision_feature_layer: expected one layer of the tower" },
        { "llava-few", config, "\"vision_feature_layer\": -2", "\"vision_feature_layer\": 3",
          "vision_feature_layer: expected one layer of the tower, found 3" },
        { "llava-few", config, "anyres_max_2", "anyres", "vision_aspect_ratio: expected anyres_max_" },
        { "llava-few", config, "anyres_max_2", "anyres_max_-2",
          "vision_aspect_ratio: expected anyres_max_" },
        { "llava-few", config, "siglip_vision_model", "clip_vision_model",
          "model_type: expected siglip_vision_model, found clip_vision_model" },
        { "llava-few", config, "\"projector_hidden_act\": \"gelu\"",
          "\"projector_hidden_act\": \"relu\"", "projector_hidden_act: expected gelu" },
        { "llava-few", config, "\"multimodal_projector_bias\": true",
          "\"multimodal_projector_bias\": false", "multimodal_projector_bias: expected true" },
        { "llava-few", pictures, "\"height\": 14", "\"height\": 28",
          "size: expected the image_size of config.json" },
        { "llava-few", pictures, "56,\n      42", "56,\n      28",
          "image_grid_pinpoints: expected those of config.json" },
        { "llava-few", config, "56,\n      42", "56,\n      41", "image_grid_pinpoints" },
        { "llava-few", pictures, "\"image_grid_pinpoints\"", "\"other_pinpoints\"",
          "image_grid_pinpoints: expected those of config.json, found none" },
        { "llava-few", pictures, "\"image_std\": [", "\"image_std\": [0, ", "image_std" }
    };
    mmix_ctx *m = mmix_create(NULL);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        take_all(of[i].model);
        take(of[i].model, of[i].file, of[i].from, of[i].to);
        doing(of[i].message);
        REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, FOLDER), of[i].message, "");
        mmix_reset(m);
    }
    doing("");
    mmix_destroy(m);
}

/* NVILA's three folders. */
static void nvila(void)
{
    static const char *const files[] = {
        "config.json", "llm/config.json", "llm/added_tokens.json", "llm/model.safetensors",
        "vision_tower/config.json", "vision_tower/preprocessor_config.json",
        "vision_tower/model.safetensors", "mm_projector/config.json",
        "mm_projector/model.safetensors"
    };
    static const struct { const char *file, *from, *to, *message; } of[] = {
        { "config.json", "\"resize\"", "\"pad\"",
          "image_aspect_ratio: expected resize, dynamic, found pad" },
        { "config.json", "\"resize\"", "\"dynamic_s2\"",
          "image_aspect_ratio: expected resize, dynamic, found dynamic_s2" },
        { "config.json", "\"resize\"", "\"dynamic\", \"min_tiles\": 13",
          "max_tiles: expected at least min_tiles" },
        { "config.json", "\"s2\": false", "\"s2\": true", "s2: expected false" },
        { "config.json", "\"s2\": false", "\"dynamic_s2\": true",
          "image_aspect_ratio: expected dynamic_s2, found resize" },
        { "config.json", "BasicImageEncoder", "TSPImageEncoder", "_target_: expected llava.model" },
        { "config.json", "\"image_encoder\": {", "\"image_encoder\": \"llava.other\", \"a\": {",
          "image_encoder: expected an object, or the default" },
        { "config.json", "TSPVideoEncoder", "OtherEncoder", "_target_: expected llava.model" },
        { "config.json", "\"\\n\"", "\"\\t\"", "end_tokens: expected a line's end" },
        { "config.json", "\"start_tokens\": null", "\"start_tokens\": \"a\"",
          "start_tokens: expected null, found a" },
        { "config.json", "2,\n        1,", "2,\n        2,", "pool_sizes: expected [[frames, 1, 1]]" },
        { "config.json", "\"s2\": false", "\"video_max_tiles\": 4", "video_max_tiles: expected 1" },
        { "config.json", "cls_patch", "patch", "mm_vision_select_feature: expected cls_patch" },
        { "config.json", "-2", "-5", "mm_vision_select_layer: expected one layer of the tower" },
        { "mm_projector/config.json", "_2x2_fix", "",
          "mm_projector_type: expected mlp_downsample_2x2_fix, mlp_downsample_3x3_fix, or" },
        { "vision_tower/config.json", "\"siglip_vision_model\"", "\"intern_vit\"",
          "model_type: expected siglip_vision_model, found intern_vit" },
        { "llm/config.json", "\"hidden_size\": 16", "\"hidden_size\": 24", "24" },
        { "llm/added_tokens.json", "<image>", "<other>", "<image>: expected 1 to" }
    };
    /* of NVILA with scales */
    static const struct { const char *from, *to, *message; } scales[] = {
        { "12,24,36", "12", "s2_scales: expected 2 to 4 numbers in a text" },
        { "12,24,36", "12,20", "s2_scales: expected 2 to 4" },
        { "12,24,36", "24,48,72", "s2_scales: expected 2 to 4" },
        { "12,24,36", "24,12", "s2_scales: expected 2 to 4" },
        { "12,24,36", "12,24,36,48,60", "s2_scales: expected 2 to 4" },
        { "12,24,36", "0,0", "s2_scales: expected 2 to 4" },
        { "12,24,36", "12;24", "s2_scales: expected 2 to 4" },
        { "12,24,36", "-12,24", "s2_scales: expected 2 to 4" },
        { "scale_idx\": -1", "scale_idx\": 3", "s2_resize_output_to_scale_idx: expected the number" },
        { "scale_idx\": -1", "scale_idx\": -4", "s2_resize_output_to_scale_idx: expected the" },
        { "\"max_tiles\": 12", "\"max_tiles\": 8", "max_tiles: expected at least min_tiles, or" },
        { "\"dynamic_s2\": true", "\"dynamic_s2\": false", "image_aspect_ratio: expected resize" }
    };
    size_t n = sizeof files / sizeof *files;
    mmix_ctx *m = mmix_create(NULL);
    mkdir(FOLDER "/llm", 0777);
    mkdir(FOLDER "/vision_tower", 0777);
    mkdir(FOLDER "/mm_projector", 0777);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        for (size_t k = 0; k < n; k++) take("nvila", files[k], NULL, NULL);
        take("nvila", of[i].file, of[i].from, of[i].to);
        doing(of[i].message);
        REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, FOLDER), of[i].message, "");
        mmix_reset(m);
    }
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        for (size_t k = 0; k < n; k++) take("nvila-scales", files[k], NULL, NULL);
        take("nvila-scales", "config.json", scales[i].from, scales[i].to);
        doing(scales[i].message);
        REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, FOLDER), scales[i].message, "");
        mmix_reset(m);
    }
    doing("NVILA without a file");
    for (size_t k = 0; k < n; k++) {
        char path[128];
        for (size_t i = 0; i < n; i++) take("nvila", files[i], NULL, NULL);
        snprintf(path, sizeof path, FOLDER "/%.60s", files[k]);
        remove(path);
        CHECK(!mmix_vlm_load(m, FOLDER) && mmix_error_kind(m) == MMIX_ERROR_FILE);
        mmix_error_clear(m);
    }
    doing("");
    remove(FOLDER "/mm_projector/config.json");
    mmix_destroy(m);
}

/* NVILA's pictures and films, with networks of a few numbers. */
static mmix_vlm_config released_nvila(size_t least, size_t most)
{
    mmix_vlm_config c = released(2);
    c.kind = MMIX_VLM_NVILA;
    c.merge = 3;
    c.tower.patch = 14;
    c.tower.side = 448;
    c.tile = 448;
    c.least = least;
    c.most = most;
    c.film_frames = 8;
    c.film_token = 3;
    c.image_token = 2;
    return c;
}
static void nvila_plans(void)
{
    /* width, height; columns and rows of 1 to 12 tiles, and of at least 9 as the last scale has, by
       find_closest_aspect_ratio of VILA */
    static const size_t of[][6] = {
        { 448, 448, 1, 1, 3, 3 },   { 1000, 1000, 3, 3, 3, 3 },  { 900, 800, 2, 2, 3, 3 },
        { 640, 480, 4, 3, 4, 3 },   { 320, 240, 4, 3, 4, 3 },    { 1920, 1080, 4, 2, 4, 3 },
        { 1080, 1920, 2, 4, 2, 5 }, { 3000, 200, 12, 1, 12, 1 }, { 1, 1, 1, 1, 3, 3 },
        { 700, 800, 2, 2, 3, 3 },   { 350, 400, 1, 1, 3, 3 },    { 5000, 2000, 5, 2, 5, 2 }
    };
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm_config c = released_nvila(1, 12), scaled = released_nvila(9, 12), wrong;
    mmix_vlm_plan plan;
    scaled.n_scales = 3;
    for (size_t i = 0; i < 3; i++) scaled.scales[i] = i + 1;
    scaled.grid_scale = 2;
    mmix_vlm *v = mmix_vlm_create(m, c), *s = mmix_vlm_create(m, scaled);
    FINE(m);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        size_t tiles = of[i][2] * of[i][3];
        CHECK(!mmix_vlm_plan_picture(m, v, of[i][0], of[i][1], 1, &plan));
        size_t columns = plan.columns ? plan.columns : 1, rows = plan.rows ? plan.rows : 1;
        COMPARE(columns == of[i][2] && rows == of[i][3], "columns of tiles", columns, of[i][2]);
        CHECK(plan.tiles == tiles + (tiles > 1) && plan.tokens == plan.tiles * 11 * 11);
        CHECK(!mmix_vlm_plan_picture(m, s, of[i][0], of[i][1], 1, &plan));
        COMPARE(plan.columns == of[i][4] && plan.rows == of[i][5], "columns of the last scale",
                plan.columns, of[i][4]);
        CHECK(plan.tiles == 5 + of[i][4] * of[i][5]);
        CHECK(plan.grid[0] == 11 * of[i][5] && plan.tokens == 121 * of[i][4] * of[i][5]);
        CHECK(!mmix_vlm_plan_picture(m, s, of[i][0], of[i][1], 2, &plan) && plan.tiles == 1);
    }
    BAD_INT(mmix_vlm_plan_film(m, v, 5, 5, 12, &plan), "count is 12, expected a multiple of",
            "film_frames, 8");
    CHECK(!mmix_vlm_plan_film(m, v, 5, 5, 24, &plan) && plan.tokens == 3 * 121 && plan.tiles == 24);
    mmix_vlm_destroy(v);
    mmix_vlm_destroy(s);
#define WRONG(change, message)                                                                     \
    do {                                                                                           \
        wrong = scaled;                                                                            \
        change;                                                                                    \
        BAD(mmix_vlm_create(m, wrong), "mmix_vlm_create", message);                                \
    } while (0)
    WRONG(wrong.n_scales = 5, "n_scales is 5");
    WRONG(wrong.n_scales = 1, "n_scales is 1");
    WRONG(wrong.scales[0] = 2, "scales[0] is 2");
    WRONG(wrong.scales[2] = 2, "each scale is 2");
    WRONG(wrong.grid_scale = 3, "grid_scale is 3");
    WRONG(wrong.least = 4, "least is 4");
    WRONG(wrong.most = 8, "most is 8");
    WRONG(wrong.film_frames = 70000, "film_frames is 70000");
    WRONG(wrong.film_token = wrong.image_token, "image_token and film_token are both 2");
    WRONG(wrong.projector = 4, "projector is 4");
    WRONG((wrong.kind = MMIX_VLM_LLAVA, wrong.merge = 1), "n_scales is 3, expected 0");
#undef WRONG
    FINE(m);
    mmix_destroy(m);
}

/* The grid of a film of four frames, of which two become one, among other tokens. */
static void nvila_films(void)
{
    enum { TOKENS = 9, N = 2 * TOKENS + 5 };
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *v = mmix_vlm_load(m, GOLDEN "/nvila");
    const mmix_vlm_config *c = mmix_vlm_config_of(v);
    const mmix_picture frames[4] = { small_picture(), small_picture(), small_picture(),
                                     small_picture() };
    mmix_film film = { frames, 4, 1 };
    mmix_sequence s;
    int32_t ids[N];
    FINE(m);
    if (!c) return;
    /* 5, a frame, 5 5, a frame, 5 5 */
    for (size_t i = 0; i < N; i++) ids[i] = i && (i - 1) % (TOKENS + 2) < TOKENS ? c->film_token : 5;
    CHECK(!mmix_vlm_sequence_films(m, v, ids, N, NULL, 0, &film, 1, &s));
    const mmix_span *span = s.spans;
    CHECK(s.n_spans == 1 && span->start == 1 && span->grid[0] == 2 && span->grid[1] == 3
          && span->grid[2] == 3 && span->separators == 2);
    CHECK(mmix_decoder_forward(m, mmix_vlm_decoder(v), &s, NULL) != NULL);
    BAD_INT(mmix_vlm_sequence_films(m, v, ids, N - 1, NULL, 0, &film, 1, &s),
            "1 other tokens follow frame 1 of film 0, expected 2 as behind the first", "");
    ids[5] = 5;
    ids[TOKENS + 2] = c->film_token;
    BAD_INT(mmix_vlm_sequence_films(m, v, ids, N, NULL, 0, &film, 1, &s),
            "grid 0 of film 0 has 9 tokens, and from 1 on 4 film tokens stand together", "");
    ids[5] = c->film_token;
    ids[TOKENS + 2] = 5;
    for (size_t i = 0; i < TOKENS; i++) ids[i + TOKENS + 3] = c->image_token;
    BAD_INT(mmix_vlm_sequence_films(m, v, ids, N, frames, 1, &film, 1, &s),
            "9 of the ids are film tokens, expected 18 for 1 films", "");
    film.count = 2;
    CHECK(!mmix_vlm_sequence_films(m, v, ids, N, frames, 1, &film, 1, &s));
    CHECK(s.n_spans == 2 && !s.spans[0].separators && s.spans[1].start == TOKENS + 3);
    FINE(m);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
}

/* ---- gradients, fewer bits, memory ---- */

/* Σ weight · features of a picture, weight being 1, 2, 3, … */
static mmix_tensor *sum_of(mmix_ctx *m, const mmix_vlm *v, const mmix_vlm_plan *plan)
{
    mmix_tensor *x = mmix_vlm_pixels(m, v, small_picture(), plan);
    x = mmix_vlm_features(m, v, x, plan);
    mmix_tensor *weight = mmix_new2(m, mmix_shape(x, 0), mmix_shape(x, 1));
    for (size_t i = 0; weight && i < mmix_count(weight); i++)
        mmix_data(weight)[i] = (mmix_real)(1 + i % 7);
    return mmix_sum(m, mmix_mul(m, x, weight));
}
/* The slopes of some parameters of tower and joint beside differences, in doubles. */
static void gradients(void)
{
    static const char *const models[] = { GOLDEN "/smolvlm", GOLDEN "/llava-few", GOLDEN "/nvila",
                                          GOLDEN "/nvila-tiles", GOLDEN "/nvila-scales" };
    const mmix_real step = (mmix_real)1e-5;
    for (int k = 0; k < 5 && sizeof(mmix_real) == 8; k++) {
        mmix_ctx *m = mmix_create(NULL);
        mmix_vlm *v = mmix_vlm_load(m, models[k]);
        mmix_vlm_plan plan;
        mmix_params *p = mmix_vlm_params(v);
        mmix_vlm_plan_picture(m, v, 12, 7, 1, &plan);
        FINE(m);
        mmix_params_require_grad(p, 1);
        mmix_record(m, 1);
        mmix_backward(m, sum_of(m, v, &plan));
        mmix_record(m, 0);
        for (size_t i = 0; p && i < p->count; i++) {
            mmix_real *x = mmix_data(p->at[i].tensor) + mmix_count(p->at[i].tensor) / 2;
            mmix_tensor *slope = mmix_grad(p->at[i].tensor);
            double found = slope ? (double)mmix_data(slope)[mmix_count(slope) / 2] : 0;
            mmix_real before = *x;
            *x = before + step;
            double above = mmix_item(sum_of(m, v, &plan));
            *x = before - step;
            double below = mmix_item(sum_of(m, v, &plan));
            *x = before;
            double expected = (above - below) / (2 * (double)step);
            near_to(found, expected, 1e-6 * (1 + fabs(expected)), __FILE__, __LINE__, p->at[i].name);
        }
        FINE(m);
        mmix_vlm_destroy(v);
        mmix_destroy(m);
    }
}
static void narrow(void)
{
    static const int types[] = { MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8, MMIX_DTYPE_Q4 };
    static const double within[] = { 0.03, 0.01, 0.1, 0.5 };
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *exact = mmix_vlm_load(m, GOLDEN "/smolvlm");
    mmix_vlm_plan plan;
    mmix_vlm_plan_picture(m, exact, 12, 7, 1, &plan);
    mmix_tensor *pixels = mmix_vlm_pixels(m, exact, small_picture(), &plan);
    mmix_tensor *expected = mmix_vlm_features(m, exact, pixels, &plan);
    for (int i = 0; i < 4; i++) {
        mmix_vlm *v = mmix_vlm_load_as(m, GOLDEN "/smolvlm", types[i]);
        FINE(m);
        mmix_tensor *found = mmix_vlm_features(m, v, pixels, &plan);
        if (CHECK(found && expected)) COMPARE(apart(found, expected) < within[i], "narrow features",
                                              apart(found, expected), within[i]);
        mmix_vlm_destroy(v);
    }
    mmix_vlm_destroy(exact);
    mmix_destroy(m);
}
static int opened(const mmix_options *o, void *user)     /* a folder */
{
    static int32_t ids[200];
    mmix_picture p = small_picture();
    mmix_sequence s;
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_vlm *v = mmix_vlm_load(m, (const char *)user);
    size_t n = v ? asked(m, v, 1, ids, sizeof ids / sizeof *ids) : 0;
    if (n && !mmix_vlm_sequence(m, v, ids, n, &p, 1, &s))
        mmix_decoder_forward(m, mmix_vlm_decoder(v), &s, NULL);
    const mmix_picture frames[2] = { p, p };
    mmix_vlm_plan plan;
    mmix_film film = { frames, 2, 1 };
    if (v && mmix_vlm_config_of(v)->film_frames && !mmix_vlm_plan_film(m, v, 12, 7, 2, &plan)) {
        mmix_tensor *x = mmix_vlm_film_pixels(m, v, &film, &plan);
        CHECK((mmix_vlm_features(m, v, x, &plan) == NULL) == (mmix_error(m) != NULL));
    }
    int kind = mmix_error_kind(m);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
    return kind;
}

/* ---- two GGUFs in place of a folder ---- */

/* Opens decoder.gguf and one of the towers of a golden folder. */
static mmix_vlm *gguf_load(mmix_ctx *m, const char *folder, const char *tower, int dtype)
{
    char of_decoder[256], of_tower[256];
    snprintf(of_decoder, sizeof of_decoder, "%.200s/decoder.gguf", folder);
    snprintf(of_tower, sizeof of_tower, "%.200s/%.40s.gguf", folder, tower);
    return mmix_vlm_load_gguf(m, of_decoder, of_tower, dtype);
}
/* The files hold the folder's weights, so that towers have the same bits; a Llama's pairs of
   rotary positions stand otherwise, and numbers of GGUF are float. */
static void gguf_beside(const char *folder, const char *tower)
{
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *v = gguf_load(m, folder, tower, MMIX_DTYPE_REAL), *of = mmix_vlm_load(m, folder);
    char text[300];
    snprintf(text, sizeof text, "%.200s, %.40s.gguf", folder, tower);
    doing(text);
    FINE(m);
    if (!CHECK(v && of)) return;
    const mmix_params *found = mmix_vlm_params(v), *expected = mmix_vlm_params(of);
    CHECK(found->count == expected->count);
    for (size_t i = 0; i < found->count; i++) {
        const mmix_tensor *x = found->at[i].tensor, *y = expected->at[i].tensor;
        CHECK(!memcmp(mmix_data(x), mmix_data(y), mmix_count(x) * sizeof(real)));
    }
    const mmix_vlm_config *c = mmix_vlm_config_of(v), *d = mmix_vlm_config_of(of);
    CHECK(c->image_token == d->image_token && c->film_token == d->film_token);
    CHECK(c->positions == d->positions && c->longest == d->longest && c->tile == d->tile);
    static uint8_t rgb[3 * 40 * 30];
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 2654435761u >> 24);
    const mmix_picture picture = { rgb, 40, 30 };
    mmix_vlm_plan plan[2];
    memset(plan, 0, sizeof plan);
    mmix_vlm_plan_picture(m, v, 40, 30, 1, &plan[0]);
    mmix_vlm_plan_picture(m, of, 40, 30, 1, &plan[1]);
    CHECK(!memcmp(&plan[0], &plan[1], sizeof *plan));
    int32_t ids[400];
    size_t n = 0;
    for (; n < plan->tokens + 4 && n < 400; n++) ids[n] = c->image_token;
    ids[0] = ids[1] = 5;
    ids[n - 1] = ids[n - 2] = 7;
    mmix_sequence s[2];
    mmix_tensor *logits[2];
    mmix_vlm *both[2] = { v, of };
    for (int i = 0; i < 2; i++) {
        mmix_vlm_sequence(m, both[i], ids, n, &picture, 1, &s[i]);
        mmix_decoder *language = mmix_vlm_decoder(both[i]);
        logits[i] = mmix_decoder_logits(m, language, mmix_decoder_forward(m, language, &s[i], NULL));
    }
    FINE(m);
    if (CHECK(logits[0] && logits[1])) CHECK(apart(logits[0], logits[1]) < 1e-5);
    mmix_vlm_destroy(of);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
}
/* Files with wrong bytes: an error or a model. */
static void gguf_broken(const char *folder, const char *name)
{
    static char bytes[1 << 16], broken[1 << 16];
    char path[256], other[256];
    uint32_t random = 1;
    size_t opened = 0;
    mmix_ctx *m = mmix_create(NULL);
    int is_tower = name[0] == 't';
    snprintf(path, sizeof path, "%.200s/%s", folder, name);
    snprintf(other, sizeof other, "%.200s/%s", folder, is_tower ? "decoder.gguf" : "tower.gguf");
    size_t n = text_of(path, bytes, sizeof bytes);
    for (int k = 0; k < 150; k++) {
        memcpy(broken, bytes, n);
        for (int edit = 0; edit <= k % 3; edit++) {
            random = random * 1664525u + 1013904223u;
            broken[random / 65536 % 3000] = (char)random;        /* among the values */
        }
        write_bytes(FOLDER "/broken.gguf", broken, k % 10 ? n : random / 65536 % n);
        mmix_vlm *v = mmix_vlm_load_gguf(m, is_tower ? other : FOLDER "/broken.gguf",
                                         is_tower ? FOLDER "/broken.gguf" : other, 0);
        CHECK(v ? !mmix_error(m) : mmix_error(m) != NULL);
        opened += v != NULL;
        mmix_vlm_destroy(v);
        mmix_error_clear(m);
        mmix_reset(m);
    }
    CHECK(opened > 0 && opened < 150);
    mmix_destroy(m);
}
static void ggufs(void)
{
    static const char *const folders[] = { GOLDEN "/smolvlm", "tests/golden/qwen/qwen2",
                                           "tests/golden/qwen/qwen2.5-flat" };
    static const char decoder[] = GOLDEN "/smolvlm/decoder.gguf";
    static const char tower[] = GOLDEN "/smolvlm/tower.gguf";
    for (int i = 0; i < 3; i++) gguf_beside(folders[i], "tower");
    for (int i = 0; i < 2; i++) gguf_beside(folders[i], "tower-old");
    doing("");
    gguf_broken(folders[0], "tower.gguf");
    gguf_broken(folders[0], "decoder.gguf");
    gguf_broken(folders[2], "tower.gguf");
    mmix_ctx *m = mmix_create(NULL);
    BAD(mmix_vlm_load_gguf(m, NULL, tower, 0), "mmix_vlm_load_gguf", "decoder is NULL");
    BAD(mmix_vlm_load_gguf(m, decoder, NULL, 0), "mmix_vlm_load_gguf", "tower is NULL");
    BAD(mmix_vlm_load_gguf(m, decoder, tower, MMIX_DTYPE_I32), "mmix_vlm_load_gguf", "dtype");
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load_gguf(m, decoder, "build/nowhere.gguf", 0),
               "build/nowhere.gguf", "cannot be opened");
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load_gguf(m, tower, tower, 0), "tower.gguf",
               "expected a decoder, with token_embd.weight, found clip");
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load_gguf(m, decoder, decoder, 0), "decoder.gguf",
               "expected a tower, with general.architecture clip");
    REFUSED_AS(MMIX_ERROR_FILE, m,
               !mmix_vlm_load_gguf(m, decoder, "tests/golden/qwen/qwen2/tower.gguf", 0),
               "smolvlm/decoder.gguf", "tokenizer.ggml.tokens: expected <|image_pad|> among them");
    REFUSED_AS(MMIX_ERROR_FILE, m,
               !mmix_vlm_load_gguf(m, "tests/golden/qwen/qwen2/decoder.gguf", tower, 0),
               "qwen2/decoder.gguf", "expected <image> among them, found none");
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, GOLDEN "/smolvlm/decoder.gguf"),
               "expected a folder", "mmix_vlm_load_gguf opens it");
    mmix_vlm *v = gguf_load(m, folders[0], "tower", MMIX_DTYPE_I8);
    FINE(m);
    CHECK(v && mmix_vlm_params(v)->dtype == MMIX_DTYPE_I8);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
}
static int gguf_opened(const mmix_options *o, void *user)        /* a folder */
{
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_vlm *v = gguf_load(m, (const char *)user, "tower", MMIX_DTYPE_REAL);
    int kind = mmix_error_kind(m);
    CHECK((v == NULL) == (kind != 0));
    mmix_vlm_destroy(v);
    mmix_destroy(m);
    return kind;
}
static void allocations(void)
{
    static const char *const ggufs_of[] = { GOLDEN "/smolvlm", "tests/golden/qwen/qwen2.5-flat" };
    each_memory_fails(gguf_opened, ggufs_of, 2, 1);
    static const char *const of[] = { GOLDEN "/smolvlm", GOLDEN "/llava-few", GOLDEN "/nvila",
                                      GOLDEN "/nvila-tiles", GOLDEN "/nvila-scales" };
    each_memory_fails(opened, of, sizeof of / sizeof *of, ARENA_BLOCK == 256 ? 11 : 1);
}

int main(int argc, char **argv)
{
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    each_in(argc == 2 ? argv[1] : GOLDEN, model);
    if (argc != 2) {
        sizes();
        arguments();
        configs();
        folders();
        refused_configs();
        nvila();
        nvila_plans();
        nvila_films();
        gradients();
        narrow();
        ggufs();
        allocations();
    }
    return summary();
}
