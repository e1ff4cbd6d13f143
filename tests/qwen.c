/* qwen - Qwen2-VL and Qwen2.5-VL that transformers wrote, opened as they are, beside what it
   computed with them

     qwen          those of tests/golden/qwen
     qwen DIR      those of the folder that tests/qwen_cases.py filled

   Prepared pictures and films are to be the processor's to the bit. Features, logits of a whole
   text and of one in pieces, and the gradients of the tower are to be within 2e-4 of the largest
   magnitude, in doubles within 1e-9. */
#include "theirs.h"

#define GOLDEN "tests/golden/qwen"
#define FOLDER "build/qwen_test"
enum { MOST_MEDIA = 4, MOST_FRAMES = 40, FRAMES = 2 };
/* ---- what a model is asked ---- */

typedef struct question {
    mmix_ctx *m;
    mmix_vlm *v;
    const mmix_archive *expected;
    size_t count, is_film[MOST_MEDIA];
    mmix_picture frames[MOST_MEDIA][MOST_FRAMES];
    mmix_film media[MOST_MEDIA];                 /* pictures are films of one frame */
} question;

static mmix_tensor *numbered(const question *q, const char *name, size_t i)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%d", name, (int)i);
    return array(q->m, q->expected, full);
}
static void question_begin(question *q)
{
    mmix_tensor *spans = array(q->m, q->expected, "spans");
    mmix_tensor *seconds = array(q->m, q->expected, "seconds");
    q->count = mmix_shape(spans, 0);
    if (!CHECK(q->count <= MOST_MEDIA)) q->count = 0;
    for (size_t i = 0; i < q->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "pixels.%d", (int)i);
        const mmix_entry *e = mmix_archive_find(q->expected, name);
        if (!CHECK_AT(e && e->shape[0] <= MOST_FRAMES, name)) return;
        for (size_t f = 0; f < e->shape[0]; f++) {
            mmix_picture *frame = &q->frames[i][f];
            frame->height = e->shape[1];
            frame->width = e->shape[2];
            frame->rgb = (const uint8_t *)e->data + f * 3 * frame->height * frame->width;
        }
        q->is_film[i] = mmix_data_i32(spans)[5 * i + 4] != 0;
        q->media[i].frames = q->frames[i];
        q->media[i].count = e->shape[0];
        q->media[i].rate = FRAMES / (double)mmix_data(seconds)[i];
    }
}
/* Plans medium i and prepares it. */
static mmix_tensor *prepared(const question *q, size_t i, mmix_vlm_plan *plan)
{
    const mmix_film *film = &q->media[i];
    size_t width = film->frames->width, height = film->frames->height;
    if (q->is_film[i]) {
        CHECK(!mmix_vlm_plan_film(q->m, q->v, width, height, film->count, plan));
        return mmix_vlm_film_pixels(q->m, q->v, film, plan);
    }
    CHECK(!mmix_vlm_plan_picture(q->m, q->v, width, height, 1, plan));
    return mmix_vlm_pixels(q->m, q->v, *film->frames, plan);
}

/* ---- the tower ---- */

static void same_bits(mmix_tensor *found, mmix_tensor *expected)
{
    if (!CHECK(found && expected && mmix_ndim(found) == 5)) return;
    for (int axis = 0; axis < 5; axis++)
        if (!CHECK(mmix_shape(found, axis) == mmix_shape(expected, axis))) return;
    size_t wrong = 0;
    for (size_t i = 0; i < mmix_count(found); i++) {
        mmix_real apart_by = mmix_data(found)[i] - mmix_data(expected)[i];
        wrong += apart_by < 0 || apart_by > 0;
    }
    COMPARE(wrong == 0, "numbers that are not the processor's", wrong, 0);
}
/* The tower's gradients, with all that is recorded, or with layers that run again. */
static void gradients_beside(const question *q, const mmix_vlm_plan *plan, int recording)
{
    mmix_ctx *m = q->m;
    mmix_params *p = mmix_vlm_params(q->v);
    mmix_tensor *loss = NULL;
    mmix_params_require_grad(p, 1);
    mmix_record(m, recording);
    for (size_t i = 0; i < q->count; i++) {
        mmix_tensor *y = mmix_vlm_features(m, q->v, numbered(q, "film", i), &plan[i]);
        mmix_tensor *part = mmix_sum(m, mmix_mul(m, y, numbered(q, "weight", i)));
        loss = loss ? mmix_add(m, loss, part) : part;
    }
    mmix_backward(m, loss);
    mmix_record(m, 0);
    size_t checked = 0;
    for (size_t i = 0; i < p->count && !mmix_error(m); i++) {
        char name[192];
        snprintf(name, sizeof name, "gradient.%.180s", p->at[i].name + strlen("visual."));
        if (!mmix_archive_find(q->expected, name)) continue;     /* golden ones have the small */
        beside(mmix_grad(p->at[i].tensor), array(m, q->expected, name), name);
        checked++;
    }
    CHECK(checked >= 20);
    FINE(m);
    mmix_params_require_grad(p, 0);
}
static void tower_beside(const question *q)
{
    mmix_ctx *m = q->m;
    mmix_vlm_plan plan[MOST_MEDIA];
    for (size_t i = 0; i < q->count; i++) {
        mmix_tensor *film = prepared(q, i, &plan[i]);
        same_bits(film, numbered(q, "film", i));
        beside(mmix_vlm_features(m, q->v, film, &plan[i]), numbered(q, "features", i), "features");
        FINE(m);
    }
    gradients_beside(q, plan, 1);
    gradients_beside(q, plan, MMIX_RECORD_LAYERS);
}

/* ---- the whole ---- */

/* The last logits of a text that comes in two pieces, cut before the last `steps` tokens, of which
   each is a piece. */
static void in_pieces(const question *q, const mmix_decoder *d, const mmix_sequence *whole,
                      mmix_tensor *expected)
{
    enum { STEPS = 3 };
    mmix_ctx *m = q->m;
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
    beside(found, expected, "logits after steps");
    mmix_mix_state_destroy(state);
}
static mmix_tensor *last_of(mmix_ctx *m, mmix_tensor *logits)
{
    size_t last = mmix_shape(logits, 0) - 1;
    return mmix_affine(m, mmix_slice(m, logits, 0, last, 1), 1, 0);
}
static void whole_beside(const question *q)
{
    mmix_ctx *m = q->m;
    mmix_decoder *d = mmix_vlm_decoder(q->v), *student = mmix_decoder_student(d, NULL);
    mmix_tensor *ids = array(m, q->expected, "tokens"), *logits = array(m, q->expected, "logits");
    size_t n = mmix_count(ids), n_pictures = 0, n_films = 0, flat[2] = { n, d->config.dim };
    mmix_picture pictures[MOST_MEDIA];
    mmix_film films[MOST_MEDIA];
    mmix_sequence s;
    for (size_t i = 0; i < q->count; i++) {
        if (q->is_film[i]) films[n_films++] = q->media[i];
        else pictures[n_pictures++] = *q->media[i].frames;
    }
    int bad = mmix_vlm_sequence_films(m, q->v, mmix_data_i32(ids), n, pictures, n_pictures, films,
                                      n_films, &s);
    FINE(m);
    if (!CHECK(!bad && s.n_spans == q->count)) return;
    mmix_tensor *x = mmix_reshape(m, mmix_decoder_forward(m, d, &s, NULL), 2, flat);
    beside(mmix_decoder_logits(m, d, x), logits, "logits");
    in_pieces(q, d, &s, last_of(m, logits));
    x = mmix_reshape(m, mmix_decoder_forward(m, student, &s, NULL), 2, flat);
    in_pieces(q, student, &s, last_of(m, mmix_decoder_logits(m, student, x)));
    FINE(m);
    mmix_decoder_destroy(student);
}
/* In fewer bits it says nearly the same. */
static void narrow_beside(const question *q, const char *where)
{
    static const struct { int dtype; double within; } kinds[] = {
        { MMIX_DTYPE_BF16, 0.05 }, { MMIX_DTYPE_I8, 0.1 }, { MMIX_DTYPE_Q4, 0.7 }
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        mmix_vlm_plan plan;
        mmix_vlm *v = mmix_vlm_load_as(q->m, where, kinds[i].dtype);
        mmix_tensor *exact = mmix_vlm_features(q->m, q->v, prepared(q, 0, &plan), &plan);
        mmix_tensor *rounded = mmix_vlm_features(q->m, v, prepared(q, 0, &plan), &plan);
        if (CHECK(exact && rounded)) NEAR(apart(rounded, exact), 0, kinds[i].within);
        FINE(q->m);
        mmix_vlm_destroy(v);
    }
}
static void model(const char *folder, const char *name)
{
    char where[400], answers[512];
    question q;
    snprintf(where, sizeof where, "%.200s/%.100s", folder, name);
    snprintf(answers, sizeof answers, "%s/expected.safetensors", where);
    doing(name);
    worst = 0;
    memset(&q, 0, sizeof q);
    q.m = mmix_create(NULL);
    q.v = mmix_vlm_load(q.m, where);
    mmix_archive *expected = mmix_archive_open(q.m, answers);
    q.expected = expected;
    FINE(q.m);
    if (q.v && expected) {
        question_begin(&q);
        tower_beside(&q);
        mmix_reset(q.m);
        whole_beside(&q);
        mmix_reset(q.m);
        narrow_beside(&q, where);
    }
    printf("%-16s at most %.1e apart\n", name, worst);
    mmix_archive_close(expected);
    mmix_vlm_destroy(q.v);
    mmix_destroy(q.m);
    doing("");
}

/* ---- what a folder asks for and is not done ---- */

/* A text with its first `from` replaced; its length. */
static size_t replaced(char *out, size_t room, const char *text, const char *from, const char *to)
{
    const char *at = from ? strstr(text, from) : NULL;
    if (from && !CHECK_AT(at != NULL, from)) at = NULL;
    if (!at) return (size_t)snprintf(out, room, "%s", text);
    return (size_t)snprintf(out, room, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}
static void refused_folders(void)
{
    static const struct { const char *from, *to, *processor, *with, *message; } of[] = {
        { "\"qwen2_5_vl\",\n \"tie", "\"qwen3_vl\",\n \"tie", NULL, NULL,
          "llava_onevision, qwen2_vl or qwen2_5_vl, found qwen3" },
        { "\"vision_config\"", "\"other\"", NULL, NULL, "vision_config: expected an object" },
        { "\"in_chans\": 3", "\"in_chans\": 1", NULL, NULL, "in_chans: expected 3, found 1" },
        { "\"patch_size\": 4", "\"patch_size\": [4, 4]", NULL, NULL, "patch_size: expected 1 to" },
        { "\"spatial_patch_size\": 4", "\"spatial_patch_size\": 2", NULL, NULL,
          "spatial_patch_size: expected patch_size, found 2" },
        { "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", NULL, NULL,
          "hidden_act: expected silu, found gelu" },
        { "\"out_hidden_size\": 16", "\"out_hidden_size\": 24", NULL, NULL,
          "out_hidden_size: expected the decoder's hidden_size, found 24" },
        { "\"window_size\": 16", "\"window_size\": 7", NULL, NULL, "window_size: expected at" },
        { "\"fullatt_block_indexes\": [", "\"fullatt_block_indexes\": [\"a\", ", NULL, NULL,
          "fullatt_block_indexes: expected a list" },
        { "\"tokens_per_second\": 3", "\"tokens_per_second\": 0", NULL, NULL,
          "tokens_per_second: expected 1 to" },
        { "\"num_heads\": 2", "\"num_heads\": 3", NULL, NULL, "qwen.dim 16 and 3 heads" },
        { "\"depth\": 3", "\"depth\": 2", NULL, NULL, "unexpected visual.blocks.2" },
        { "\"temporal_patch_size\": 2", "\"temporal_patch_size\": 1", NULL, NULL,
          "temporal_patch_size: expected that of config.json, found 2" },
        { "\"rope_scaling\"", "\"quantization_config\": {}, \"rope_scaling\"", NULL, NULL,
          "quantization_config" },
        { "\"type\": \"mrope\"", "\"type\": \"dynamic\"", NULL, NULL,
          "type: expected default, linear, llama3, yarn, found dynamic" },
        { "\"mrope_section\": [", "\"mrope_section\": [4, ", NULL, NULL,
          "mrope_section: expected three sizes" },
        { "\"mrope_section\"", "\"mrope_interleaved\": true, \"mrope_section\"", NULL, NULL,
          "mrope_interleaved: expected false, found true" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", NULL, NULL,
          "missing model.layers.2" },
        { NULL, NULL, "\"patch_size\": 4", "\"patch_size\": 14", "patch_size: expected that of" },
        { NULL, NULL, "\"merge_size\": 2", "\"merge_size\": 1", "merge_size: expected spatial" },
        { NULL, NULL, "\"min_pixels\": 200", "\"min_pixels\": 0", "min_pixels: expected 1 to" },
        { NULL, NULL, "\"max_pixels\": 3000", "\"max_pixels\": 100", "qwen.least is 200" },
        { NULL, NULL, "\"min_pixels\": 200", "\"size\": 448", "size: expected an object, found" },
        { NULL, NULL, "\"min_pixels\": 200", "\"resample\": 5", "resample: expected" },
        { NULL, NULL, "\"min_pixels\": 200", "\"do_resize\": false", "do_resize: expected true" }
    };
    static char config[1 << 14], processor[1 << 12], text[1 << 14], bytes[1 << 20];
    mmix_ctx *m = mmix_create(NULL);
    size_t n = text_of(GOLDEN "/qwen2.5-flat/model.safetensors", bytes, sizeof bytes);
    write_bytes(FOLDER "/model.safetensors", bytes, n);
    text_of(GOLDEN "/qwen2.5-flat/config.json", config, sizeof config);
    text_of(GOLDEN "/qwen2.5-flat/preprocessor_config.json", processor, sizeof processor);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        n = replaced(text, sizeof text, config, of[i].from, of[i].to);
        write_bytes(FOLDER "/config.json", text, n);
        n = replaced(text, sizeof text, processor, of[i].processor, of[i].with);
        write_bytes(FOLDER "/preprocessor_config.json", text, n);
        doing(of[i].message);
        mmix_vlm *v = mmix_vlm_load(m, FOLDER);
        CHECK(!v && says(m, MMIX_ERROR_FILE, of[i].message));
        mmix_vlm_destroy(v);
        mmix_reset(m);
    }
    doing("files that are not there");
    write_bytes(FOLDER "/config.json", config, strlen(config));
    remove(FOLDER "/preprocessor_config.json");
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, FOLDER), "preprocessor_config.json", "");
    remove(FOLDER "/model.safetensors");
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, FOLDER), "expected a folder with", "");
    doing("");
    mmix_destroy(m);
}
/* Frames of films may have more or fewer pixels than pictures. */
static void pixels_of_films(void)
{
    static const char films[] = "{\"size\": {\"shortest_edge\": 600, \"longest_edge\": 640}, "
                                "\"patch_size\": 4}";
    static const char others[] = "{\"image_mean\": [0.5, 0.5, 0.5], \"patch_size\": 4}";
    static const char file[] = FOLDER "/video_preprocessor_config.json";
    static char bytes[1 << 20];
    static const char *const names[] = { "model.safetensors", "config.json",
                                         "preprocessor_config.json" };
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm_plan plan;
    for (int i = 0; i < 3; i++) {
        char from[128], to[128];
        snprintf(from, sizeof from, GOLDEN "/qwen2.5-flat/%s", names[i]);
        snprintf(to, sizeof to, FOLDER "/%s", names[i]);
        write_bytes(to, bytes, text_of(from, bytes, sizeof bytes));
    }
    write_bytes(file, films, sizeof films - 1);
    mmix_vlm *v = mmix_vlm_load(m, FOLDER);
    CHECK(!mmix_vlm_plan_film(m, v, 40, 40, 3, &plan));
    CHECK(plan.height * plan.width <= 640 && plan.frames == 2);
    CHECK(!mmix_vlm_plan_picture(m, v, 40, 40, 1, &plan));
    CHECK(plan.height * plan.width == 1600 && plan.frames == 1 && plan.tokens == 25);
    FINE(m);
    mmix_vlm_destroy(v);
    write_bytes(file, others, sizeof others - 1);
    REFUSED_AS(MMIX_ERROR_FILE, m, !mmix_vlm_load(m, FOLDER), "of films", "those of pictures");
    remove(file);
    mmix_destroy(m);
}

/* ---- bad arguments ---- */

static void arguments(void)
{
    enum { SIDE = 16 };
    static const uint8_t rgb[SIDE * SIDE * 3];
    static const mmix_picture two[2] = { { rgb, SIDE, SIDE }, { rgb, SIDE, SIDE / 2 } };
    static const mmix_picture blank = { NULL, SIDE, SIDE };
    static const int32_t ids[8] = { 5, 60, 60, 60, 60, 61, 61, 5 };
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *v = mmix_vlm_load(m, GOLDEN "/qwen2.5-flat");
    mmix_vlm *smol = mmix_vlm_load(m, "tests/golden/vlm/smolvlm");
    mmix_film film = { two, 2, 1 };
    mmix_vlm_plan plan;
    mmix_sequence s;
    doing("bad arguments");
    FINE(m);
    BAD_INT(mmix_vlm_plan_picture(m, v, 201, 1, 1, &plan), "side over the shorter is 201", "");
    BAD_INT(mmix_vlm_plan_picture(m, v, 0, 1, 1, &plan), "width is 0", "");
    BAD_INT(mmix_vlm_plan_film(m, v, SIDE, SIDE, 0, &plan), "count", "");
    BAD_INT(mmix_vlm_plan_film(m, smol, SIDE, SIDE, 1, &plan), "this model reads no films", "");
    CHECK(!mmix_vlm_plan_film(m, v, SIDE, SIDE, 2, &plan) && plan.tokens == 4);
    BAD(mmix_vlm_film_pixels(m, v, &film, &plan), "frame 1 has 16 x 8 pixels, expected 16 x", "");
    BAD(mmix_vlm_features(m, v, mmix_fill(mmix_new4(m, 1, 3, SIDE, SIDE), 0), &plan), "film", "");
    BAD(mmix_vlm_film_pixels(m, smol, &film, &plan), "this model reads no films", "");
    film.count = 1;
    film.frames = &blank;
    BAD(mmix_vlm_film_pixels(m, v, &film, &plan), "rgb", "");
    film.frames = two;
    BAD_INT(mmix_vlm_sequence(m, v, ids, 8, two, 1, &s), "2 of the ids are film tokens", "");
    BAD_INT(mmix_vlm_sequence_films(m, v, ids, 8, two, 1, &film, 1, &s),
            "2 of the ids are film tokens, expected 4 for 1 films", "");
    BAD_INT(mmix_vlm_sequence_films(m, v, ids, 5, NULL, 0, &film, 1, &s), "4 of the ids are", "");
    film.rate = 0;
    BAD_INT(mmix_vlm_sequence_films(m, v, ids, 8, two, 1, &film, 1, &s), "rate of a film is 0", "");
    mmix_vlm_config c = v ? *mmix_vlm_config_of(v) : *mmix_vlm_config_of(smol);
#define WRONG(change, text)                                     \
    do {                                                        \
        mmix_vlm_config wrong = c;                              \
        change;                                                 \
        BAD(mmix_vlm_create(m, wrong), text, "");               \
    } while (0)
    WRONG(wrong.kind = 4, "kind is 4");
    WRONG(wrong.qwen.depth = 49, "qwen.depth is 49");
    WRONG(wrong.qwen.dim = 20, "a multiple of 4");
    WRONG(wrong.qwen.frames = 0, "qwen.frames is 0");
    WRONG(wrong.film_token = 64, "film_token is 64");
    WRONG(wrong.film_token = wrong.image_token, "are both 60");
    WRONG(wrong.qwen.least = 4000, "qwen.least is 4000");
    WRONG(wrong.qwen.rate = -1, "qwen.rate is -1");
    mmix_vlm *random = mmix_vlm_create(m, c);
    CHECK(mmix_vlm_features(m, random, mmix_vlm_film_pixels(m, v, &film, &plan), &plan) != NULL);
    FINE(m);
    doing("");
    mmix_vlm_destroy(random);
    mmix_vlm_destroy(smol);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
}

/* ---- memory ---- */

/* The most bytes that a tower of so many blocks takes for a text that is a film of n frames. */
static double taken(mmix_vlm_config c, size_t depth, size_t n)
{
    enum { SIDE = 80, MOST = 100 };
    static const uint8_t rgb[SIDE * SIDE * 3];
    static mmix_picture frame[MOST];
    static int32_t ids[MOST * SIDE * SIDE / 64];
    const mmix_film film = { frame, n, 1 };
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm_plan plan;
    mmix_sequence s;
    c.qwen.dim = 64;
    c.qwen.depth = depth;
    c.qwen.film_most = SIDE * SIDE;
    c.positions = 0;
    for (size_t i = 0; i < n; i++) {
        frame[i].rgb = rgb;
        frame[i].width = SIDE;
        frame[i].height = SIDE;
    }
    mmix_vlm *v = mmix_vlm_create(m, c);
    CHECK(!mmix_vlm_plan_film(m, v, SIDE, SIDE, n, &plan) && plan.grid[0] == SIDE / 8);
    for (size_t i = 0; i < plan.tokens; i++) ids[i] = c.film_token;
    mmix_memory_use before = mmix_memory(m);
    mmix_memory_peak_clear(m);
    CHECK(!mmix_vlm_sequence_films(m, v, ids, plan.tokens, NULL, 0, &film, 1, &s));
    double bytes = (double)(mmix_memory(m).peak - before.bytes);
    FINE(m);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
    return bytes;
}
/* If nothing is recorded depth takes no more, and three times the frames far from three times. */
static void memory(void)
{
    mmix_ctx *m = mmix_create(NULL);
    mmix_vlm *v = mmix_vlm_load(m, GOLDEN "/qwen2.5-flat");
    mmix_vlm_config c = *mmix_vlm_config_of(v);
    doing("memory of the tower");
    double few = taken(c, 2, 4), deep = taken(c, 12, 4);
    double some = taken(c, 1, 32), longer = taken(c, 1, 96);
    CHECK(few > 3e5);
    COMPARE(deep < 1.2 * few, "bytes of 12 blocks, as of 2", deep, few);
    COMPARE(longer < 1.5 * some, "bytes of 96 frames, as of 32", longer, some);
    doing("");
    mmix_vlm_destroy(v);
    mmix_destroy(m);
}

/* ---- every allocation fails once ---- */

static int asked(const mmix_options *o, void *user)      /* a folder */
{
    enum { SIDE = 16 };
    static const uint8_t rgb[SIDE * SIDE * 3];
    static const mmix_picture frame = { rgb, SIDE, SIDE };
    static const int32_t ids[10] = { 5, 60, 60, 60, 60, 61, 61, 61, 61, 7 };
    const mmix_film film = { &frame, 1, 1 };
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_vlm *v = mmix_vlm_load(m, (const char *)user);
    mmix_sequence s;
    mmix_mix_state *state = v ? mmix_decoder_state_create(mmix_vlm_decoder(v)) : NULL;
    if (state && !mmix_vlm_sequence_films(m, v, ids, 10, &frame, 1, &film, 1, &s))
        mmix_decoder_step(m, mmix_vlm_decoder(v), &s, state);
    int kind = mmix_error_kind(m);
    mmix_mix_state_destroy(state);
    mmix_vlm_destroy(v);
    mmix_destroy(m);
    return kind;
}
static void allocations(void)
{
    static const char *const folders[] = { GOLDEN "/qwen2", GOLDEN "/qwen2.5-flat" };
    each_memory_fails(asked, folders, sizeof folders / sizeof *folders, ARENA_BLOCK == 256 ? 7 : 1);
}
int main(int argc, char **argv)
{
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    each_in(argc == 2 ? argv[1] : GOLDEN, model);
    if (argc != 2) {
        refused_folders();
        pixels_of_films();
        arguments();
        memory();
        allocations();
    }
    return summary();
}
