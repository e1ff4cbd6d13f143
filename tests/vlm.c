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
enum { MOST_PICTURES = 4 };
static double worst;

static void beside(mmix_tensor *found, mmix_tensor *expected, const char *what)
{
    if (!CHECK_AT(found && expected && mmix_count(found) == mmix_count(expected), what)) return;
    double error = apart(found, expected);
    if (error > worst) worst = error;
    near_to(error, 0, WITHIN, __FILE__, __LINE__, what);
}

/* ---- a question ---- */

typedef struct question {
    mmix_ctx *m;
    const mmix_vlm *v;
    const mmix_archive *expected;
    int number;
    mmix_picture pictures[MOST_PICTURES];
    size_t count;
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
/* Pictures one by one: plans, pixels, features. */
static void pictures_beside(question *q)
{
    mmix_ctx *m = q->m;
    mmix_tensor *expected = numbers(q, "features");
    size_t tile = 0, token = 0;
    for (size_t i = 0; i < q->count; i++) {
        mmix_vlm_plan plan;
        mmix_picture p = q->pictures[i];
        CHECK(!mmix_vlm_plan_picture(m, q->v, p.width, p.height, q->count, &plan));
        mmix_tensor *pixels = mmix_vlm_pixels(m, q->v, p, &plan);
        FINE(m);
        if (!CHECK(pixels && token + plan.tokens <= mmix_shape(expected, 0))) return;
        pixels_beside(q, pixels, &tile);
        mmix_tensor *found = mmix_vlm_features(m, q->v, pixels, &plan);
        mmix_tensor *part = mmix_slice(m, expected, 0, token, plan.tokens);
        beside(found, mmix_affine(m, part, 1, 0), "features");
        token += plan.tokens;
    }
    COMPARE(token == mmix_shape(expected, 0), "features of all pictures", token,
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
    int failed_now = mmix_vlm_sequence(m, q->v, mmix_data_i32(q->ids), n, q->pictures, q->count, &s);
    FINE(m);
    if (!CHECK(!failed_now)) return;
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
        if (q.count) pictures_beside(&q);
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

int main(int argc, char **argv)
{
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    each_in(argc == 2 ? argv[1] : GOLDEN, model);
    return summary();
}
