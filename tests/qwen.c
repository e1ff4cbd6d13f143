/* qwen - Qwen2-VL and Qwen2.5-VL that transformers wrote, opened as they are, beside what it computed
   with them

     qwen          those of tests/golden/qwen
     qwen DIR      those of the folder that tests/qwen_cases.py filled

   Prepared pictures and films are to be the processor's to the bit. Features, logits of a whole text
   and of one in pieces, and the gradients of the tower are to be within 2e-4 of the largest
   magnitude, in doubles within 1e-9. */
#include "theirs.h"

#define GOLDEN "tests/golden/qwen"
#define FOLDER "build/qwen_test"
enum { MOST_MEDIA = 4, MOST_FRAMES = 16, FRAMES = 2 };
static double worst;

static void beside(mmix_tensor *found, mmix_tensor *expected, const char *what)
{
    if (!CHECK_AT(found && expected && mmix_count(found) == mmix_count(expected), what)) return;
    double error = apart(found, expected);
    if (error > worst) worst = error;
    near_to(error, 0, WITHIN, __FILE__, __LINE__, what);
}

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
    mmix_tensor *spans = array(q->m, q->expected, "spans"), *seconds = array(q->m, q->expected, "seconds");
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
static void tower_beside(const question *q)
{
    mmix_ctx *m = q->m;
    mmix_params *p = mmix_vlm_params(q->v);
    mmix_vlm_plan plan[MOST_MEDIA];
    mmix_tensor *loss = NULL;
    for (size_t i = 0; i < q->count; i++) {
        mmix_tensor *film = prepared(q, i, &plan[i]);
        same_bits(film, numbered(q, "film", i));
        beside(mmix_vlm_features(m, q->v, film, &plan[i]), numbered(q, "features", i), "features");
        FINE(m);
    }
    mmix_params_require_grad(p, 1);
    mmix_record(m, 1);
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
int main(int argc, char **argv)
{
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    each_in(argc == 2 ? argv[1] : GOLDEN, model);
    return summary();
}
