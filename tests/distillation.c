/* distillation.c - what trains, stages, accumulation, losses, runs, damaged files, lack of
   memory */
#include "decoders.h"

#define FOLDER "build/distillation_test"
#define PATH FOLDER "/model.safetensors"
#define PATH2 FOLDER "/other.safetensors"

static void what_trains(void)
{
    static const int masks[] = { MMIX_TRAIN_FLEX,
                                 MMIX_TRAIN_SWIN,
                                 MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN,
                                 MMIX_TRAIN_LORA,
                                 MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN | MMIX_TRAIN_LORA,
                                 MMIX_TRAIN_REST,
                                 MMIX_TRAIN_REST | MMIX_TRAIN_LORA,
                                 15 };
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        mmix_distill_config c = three_stages(3);
        mmix_distill_stats stats;
        Lesson l;
        mmix_decoder_config size = pupil(MMIX_DECODER_ATTENTION);
        int wrong = 0, frozen = 0, missing = 0;
        size.mmate.branch_gate = 1;
        snprintf(about, sizeof about, "trains %d", masks[i]);
        c.stages = 1;
        c.stage[0] = stage(masks[i], 1, 1, 1, 1, 3);
        l = lesson(c, 1);
        mmix_distill_destroy(l.run);
        mmix_decoder_destroy(l.student);
        l.student = mmix_decoder_student(l.teacher, &size.mmate);
        l.run = mmix_distill_create(l.teacher, l.student, c);
        mmix_params *p = l.student->params, *low = l.student->params->adapters;
        mmix_real *before = values(p);
        for (size_t k = 0; k < p->count; k++) {
            const int needs = group(p->at[k].name);
            missing += p->at[k].frozen == ((needs & masks[i]) == needs);
            frozen += p->at[k].frozen;
        }
        for (size_t k = 0; low && k < low->count; k++)
            missing += low->at[k].frozen;
        mmix_reset(l.m);
        for (uint64_t k = 0; k < 3; k++)
            CHECK_AT(teach(&l, k, &stats) == 1 && stats.updated && stats.stage == 0
                         && stats.step == k,
                     about);
        CHECK_AT(teach(&l, 3, &stats) == 0, about);
        for (size_t k = 0, at = 0; k < p->count; at += mmix_count(p->at[k++].tensor)) {
            const int moved = memcmp(before + at, mmix_data(p->at[k].tensor),
                                     mmix_count(p->at[k].tensor) * sizeof *before)
                              != 0;
            const int needs = group(p->at[k].name);
            const int trains = (needs & masks[i]) == needs;
            if (moved != trains) {
                wrong++;
                printf("  %s: moved %d\n", p->at[k].name, moved);
            }
        }
        CHECK_AT((low != NULL) == ((masks[i] & MMIX_TRAIN_LORA) != 0), about);
        for (size_t k = 0; low && k < low->count; k++) {
            double size_of = 0;
            for (size_t e = 0; e < mmix_count(low->at[k].tensor); e++)
                size_of += fabs((double)mmix_data(low->at[k].tensor)[e]);
            wrong += !(size_of > 0);             /* B was 0 */
        }
        CHECK_AT(!wrong && !missing, about);
        CHECK_AT((frozen == (int)p->count) == (masks[i] == MMIX_TRAIN_LORA)
                     && (frozen == 0) == ((masks[i] & 11) == 11),
                 about);
        free(before);
        end(&l);
    }
}
/* Each stage lowers its own loss on a batch seen again and again. */
static void learning(void)
{
    static const struct {
        const char *name;
        double weight[4];
        int train, outputs, inputs;
    } ways[] = { { "flex", { 1, 1, 0, 0 }, MMIX_TRAIN_FLEX, 0, 0 },
                 { "both", { 1, 1, 0, 0 }, MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN, 0, 0 },
                 { "both and adapters", { 0, 1, 1, 1 }, 7, 0, 0 },
                 { "hidden alone", { 1, 0, 0, 0 }, MMIX_TRAIN_FLEX, 0, 0 },
                 { "layers' outputs", { 1, 0, 0, 0 }, 3, 1, 0 },
                 { "teacher's inputs", { 1, 0, 0, 0 }, 3, 0, 1 },
                 { "everything", { 1, 1, 1, 1 }, 15, 1, 1 } };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        mmix_distill_config c = three_stages(1);
        mmix_distill_stats stats, first, last;
        snprintf(about, sizeof about, "learning, %s", ways[i].name);
        c.stages = 1;
        c.stage[0] = stage(ways[i].train, ways[i].weight[0], ways[i].weight[1], ways[i].weight[2],
                           ways[i].weight[3], 40);
        c.hidden_outputs = ways[i].outputs;
        c.teacher_inputs = ways[i].inputs;
        Lesson l = lesson(c, 1);
        mmix_distill_batch b = batch_of(l.m, 0, 0);
        CHECK_AT(!mmix_distill_losses(l.run, &b, &first), about);
        for (int k = 0; k < 40; k++) {
            CHECK_AT(teach(&l, 0, &stats) == 1, about);
            const double *w = ways[i].weight;
            const double sum = w[0] * stats.hidden + w[1] * stats.token + w[2] * stats.sequence
                               + w[3] * stats.supervised;
            CHECK_AT(fabs(sum - stats.loss) < 1e-5 * (1 + fabs(sum)) && stats.tokens == 3
                         && stats.steps == 40,
                     about);
            if (!k)
                CHECK_AT(fabs(stats.loss - first.loss) < 1e-5 * (1 + fabs(first.loss)), about);
        }
        b = batch_of(l.m, 0, 0);
        /* the run is over: the weights of its last stage */
        CHECK_AT(!mmix_distill_losses(l.run, &b, &last) && last.loss < 0.9 * first.loss, about);
        if (last.loss >= 0.9 * first.loss)
            printf("  %g to %g\n", first.loss, last.loss);
        mmix_reset(l.m);
        end(&l);
    }
}
/* From stage to stage: numbers, rates, what a stage starts from; save after any step, and go on
   bit for bit. */
#define RUN FOLDER "/run.safetensors"
static mmix_real *outcome(Lesson *l, uint64_t from)
{
    mmix_distill_stats stats;
    while (teach(l, from++, &stats) == 1) {}
    mmix_params *low = l->student->params->adapters;
    mmix_real *p = values(l->student->params), *a = low ? values(low) : NULL;
    const size_t n = l->student->params->elements, more = low ? low->elements : 0;
    p = (mmix_real *)realloc(p, (n + more + 1) * sizeof *p);
    if (a) memcpy(p + n, a, more * sizeof *p);
    p[n + more] = (mmix_real)(double)from;
    free(a);
    return p;
}
static size_t outcome_size(const Lesson *l)
{
    mmix_params *low = l->student->params->adapters;
    return l->student->params->elements + (low ? low->elements : 0) + 1;
}
static void stages(void)
{
    mmix_distill_config c = three_stages(2);
    mmix_distill_stats stats;
    c.calibrate = 1;
    c.stage[1].warmup = 2;
    c.stage[1].min_lr = 0;
    snprintf(about, sizeof about, "stages");
    Lesson l = lesson(c, 1);
    for (size_t k = 0; k < 6; k++) {
        CHECK_AT((l.student->params->adapters != NULL) == (k >= 4), about);
        CHECK_AT(l.run->number == k && teach(&l, k, &stats) == 1, about);
        CHECK_AT(stats.stage == k / 2 && stats.step == k % 2 && stats.steps == 2 && stats.updated
                     && stats.gradient_norm > 0,
                 about);
        if (k / 2 != 1)
            CHECK_AT(fabs(stats.lr - 3e-3) < 1e-12, about);
    }
    CHECK_AT(teach(&l, 6, &stats) == 0 && l.run->number == 6, about);
    end(&l);
    /* a step a call; in two calls; adapters from the first stage on */
    for (int way = 0; way < 3; way++) {
        c.step_tokens = way == 1 ? 4 : 0;
        if (way == 2) c.stage[0].train |= MMIX_TRAIN_LORA;
        l = lesson(c, 1);
        mmix_real *whole = outcome(&l, 0);
        const size_t n = outcome_size(&l);
        end(&l);
        /* the same bits, with less memory, too */
        for (int threads = 1; threads <= 3; threads++) {
            l = lesson(c, threads);
#ifndef MMIX_REGRESSION /* its SwiGLU goes by parts of 3 tokens then, which round otherwise */
            if (threads % 2) mmix_record(l.m, MMIX_RECORD_LAYERS);
#endif
            mmix_real *again = outcome(&l, 0);
            CHECK_AT(outcome_size(&l) == n && !memcmp(again, whole, n * sizeof *whole), about);
            free(again);
            end(&l);
        }
        for (uint64_t at = 0; at <= (way == 1 ? 12 : 6); at++) {
            snprintf(about, sizeof about, "saved after %d calls, way %d", (int)at, way);
            l = lesson(c, 1);
            for (uint64_t k = 0; k < at; k++)
                teach(&l, k, &stats);
            CHECK_AT(!mmix_distill_save(l.run, RUN, "a note"), about);
            mmix_distill_destroy(l.run);
            mmix_decoder_destroy(l.student);
            l.student = NULL;
            l.run = mmix_distill_load(l.teacher, RUN, &l.student);
            CHECK_AT(l.run && l.student && l.run->number == at && !strcmp(l.run->note, "a note"),
                     about);
            if (l.run) {
                mmix_real *resumed = outcome(&l, at);
                CHECK_AT(outcome_size(&l) == n && !memcmp(resumed, whole, n * sizeof *whole),
                         about);
                free(resumed);
            }
            end(&l);
        }
        free(whole);
    }
}
/* Two calls of one row each, together a step, are one call of both rows. */
static void accumulation(void)
{
    for (int way = 0; way < 4; way++) {
        static const double weight[4][4] = {{0, 1, 0, 0}, {0, 0, 0, 1}, {0, 1, 1, 1}, {1, 0, 0, 0}};
        mmix_real *result[2] = {NULL, NULL};
        size_t n = 0;
        snprintf(about, sizeof about, "accumulation, way %d", way);
        for (int halves = 0; halves < 2; halves++) {
            mmix_distill_config c = three_stages(2);
            mmix_distill_stats stats;
            c.stages = 1;
            const double *w = weight[way];
            c.stage[0] = stage(MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN | MMIX_TRAIN_REST, w[0], w[1],
                               w[2], w[3], 2);
            c.step_tokens = 3;
            Lesson l = lesson(c, 1);
            for (uint64_t k = 0; k < 2; k++) {
                mmix_distill_batch b = batch_of(l.m, k, 0);
                /* L_hid is relative to the call's tokens: equal rows, answers aside */
                if (way == 3)
                    for (size_t i = 0; i < TOKENS + GRID * FEATURES; i++) {
                        if (i < TOKENS)
                            mmix_data_i32(b.input.tokens)[TOKENS + i] = mmix_data_i32(
                                b.input.tokens)[i];
                        else
                            mmix_data(b.input.media)[GRID * FEATURES + i - TOKENS] = mmix_data(
                                b.input.media)[i - TOKENS];
                    }
                for (size_t r = 0; halves && r < BATCH; r++) {
                    mmix_distill_batch one = row_of(l.m, &b, r);
                    CHECK_AT(mmix_distill_step(l.run, &one, &stats) == 1
                                 && stats.updated == (r == 1) && stats.tokens == 2 - r,
                             about);
                }
                if (!halves)
                    CHECK_AT(mmix_distill_step(l.run, &b, &stats) == 1 && stats.updated, about);
                mmix_reset(l.m);
            }
            result[halves] = outcome(&l, 9);
            n = outcome_size(&l) - 1;
            end(&l);
        }
        /* Adam divides by √v: where a gradient is near 0, rounding becomes a step */
        const double worst = most(result[0], result[1], n);
        size_t far = 0;
        for (size_t i = 0; i < n; i++)
            far += fabs((double)result[0][i] - (double)result[1][i])
                   > (sizeof(mmix_real) == 8 ? 1e-9 : 1e-4);
        CHECK_AT(far * 100 <= n && worst < 0.02, about);
        if (far * 100 > n)
            printf("  %d of %d differ, by %g at most\n", (int)far, (int)n, worst);
        free(result[0]);
        free(result[1]);
    }
}
/* Answers decoded before are what the teacher decodes now, whether they begin at the same place
   or not. */
static void decoded(void)
{
    for (int together = 0; together < 2; together++) {
        mmix_distill_config c = three_stages(1);
        mmix_distill_stats now, then;
        snprintf(about, sizeof about, "decoded, together %d", together);
        c.stages = 1;
        c.stage[0] = stage(MMIX_TRAIN_FLEX, 0, 0, 1, 0, 1);
        Lesson l = lesson(c, 1);
        mmix_distill_batch b = batch_of(l.m, 4, 0);
        mmix_sequence given = b.input;
        const size_t shape[2] = {BATCH, TOKENS}, later = together ? 0 : 1;
        int32_t *tokens = (int32_t *)calloc(BATCH * TOKENS, sizeof *tokens);
        int32_t *target = (int32_t *)calloc(BATCH * TOKENS, sizeof *target);
        if (together)                            /* the second row's one token a place before */
            mmix_data_i32(b.target)[TOKENS + LAST_TEXT] = 1,
                                             mmix_data_i32(b.target)[TOKENS + LAST_TEXT + 1] = -1;
        memcpy(tokens, mmix_data_i32(b.input.tokens), BATCH * TOKENS * sizeof *tokens);
        memcpy(target, mmix_data_i32(b.target), BATCH * TOKENS * sizeof *target);
        for (size_t r = 0; r < BATCH; r++) {     /* by hand, row by row */
            const size_t at = LAST_TEXT + later * r;
            mmix_distill_batch one = row_of(l.m, &b, r);
            mmix_span room[SPANS];
            mmix_sequence question = piece(l.m, &one.input, 0, at + 1, room);
            int32_t made[2];
            CHECK(mmix_decoder_generate(l.m, l.teacher, &question, NULL, made, 2 - r) == 2 - r);
            for (size_t i = 0; i < 2 - r; i++) {
                tokens[r * TOKENS + at + 1 + i] = made[i];
                target[r * TOKENS + at + i] = made[i];
            }
        }
        CHECK_AT(!mmix_distill_losses(l.run, &b, &now), about);
        given.tokens = mmix_from_i32(l.m, 2, shape, tokens);
        b.decoded = &given;
        b.decoded_target = mmix_from_i32(l.m, 2, shape, target);
        CHECK_AT(!mmix_distill_losses(l.run, &b, &then), about);
        CHECK_AT(now.sequence > 0 && fabs(now.sequence - then.sequence) < TOL, about);
        free(tokens);
        free(target);
        mmix_reset(l.m);
        end(&l);
    }
}
/* Each loss from its definition, in each of the ways to compare hidden layers; what only fills
   up counts nowhere. */
static void losses(void)
{
    for (int way = 0; way < 3; way++) {
        mmix_distill_config c = three_stages(1);
        mmix_distill_stats s, again;
        snprintf(about, sizeof about, "losses, way %d", way);
        c.stages = 1;
        c.stage[0] = stage(15, 0.5, 2, 0, 3, 1);
        c.stage[0].temperature = 1.5;
        c.hidden_outputs = way == 1;
        c.teacher_inputs = way == 2;
        Lesson l = lesson(c, 1);
        mmix_distill_batch b = batch_of(l.m, 4, 1);
        const size_t shape[2] = {BATCH, TOKENS};
        mmix_tensor *mixed[2][2], *outputs[2][2], *inputs[2] = { NULL, NULL }, *hidden = NULL,
                                                  *x[2], *answers;
        answers = mmix_new(l.m, MMIX_DTYPE_I32, 2, shape);
        for (size_t i = 0; i < BATCH * TOKENS; i++)
            mmix_data_i32(answers)[i] = mmix_data_i32(b.target)[i] >= 0;
        CHECK_AT(!mmix_distill_losses(l.run, &b, &s), about);
        for (int who = 0; who < 2; who++) {
            mmix_decoder_options look;
            memset(&look, 0, sizeof look);
            look.mixed = mixed[who];
            look.outputs = outputs[who];
            if (who && way == 2) {
                inputs[1] = outputs[0][0];
                look.inputs = inputs;
            }
            mmix_decoder *d = who ? l.student : l.teacher;
            x[who] = mmix_decoder_logits(l.m, d, mmix_decoder_forward(l.m, d, &b.input, &look));
        }
        for (int i = 0; i < 2; i++) {
            mmix_tensor *(*of)[2] = way == 1 ? outputs : mixed,
                        *one = mmix_kd_hidden(l.m, of[1][i], of[0][i], b.mask, 1);
            hidden = hidden ? mmix_add(l.m, hidden, one) : one;
        }
        CHECK_AT(s.hidden > 0 && fabs(mmix_item(hidden) / 2 - s.hidden) < TOL * 10, about);
        CHECK_AT(s.token > 0
                     && fabs(mmix_item(mmix_kd_token(l.m, x[1], x[0], answers, 1.5)) - s.token)
                            < TOL * 10,
                 about);
        CHECK_AT(s.supervised > 0
                     && fabs(mmix_item(mmix_cross_entropy(l.m, x[1], b.target, -1)) - s.supervised)
                            < TOL * 10,
                 about);
        CHECK_AT(s.tokens == 3
                     && fabs(0.5 * s.hidden + 2 * s.token + 3 * s.supervised - s.loss) < TOL * 100,
                 about);
        mmix_data_i32(b.input.tokens)[2 * TOKENS - 1] =
            (mmix_data_i32(b.input.tokens)[2 * TOKENS - 1] + 1) % WORDS;
        CHECK_AT(!mmix_distill_losses(l.run, &b, &again) && fabs(again.loss - s.loss) <= 0, about);
        b.mask = NULL;
        CHECK_AT(!mmix_distill_losses(l.run, &b, &again) && fabs(again.hidden - s.hidden) > 1e-6,
                 about);
        mmix_reset(l.m);
        end(&l);
    }
}
/* A student that came with adapters of its own: the run's are these, and its file says what they
   are. While it lasts they can't be merged, and the student is in no other run. */
static void own_adapters(void)
{
    static const struct {
        size_t rank;
        double alpha;
        int targets;
    } own[] = { { 4, 4, MMIX_LORA_FFN }, { 2, 400, MMIX_LORA_FFN }, { 2, 4, MMIX_LORA_MIXER } };
    for (size_t k = 0; k < 6; k++) {
        mmix_distill_config c = three_stages(1);
        Lesson l = lesson(c, 1);
        mmix_decoder *again = NULL;
        snprintf(about, sizeof about, "adapters of its own, %d", (int)k);
        mmix_distill_destroy(l.run);
        if (k >= 3) {  /* no stage trains adapters */
            c.stages = 2;
            c.lora_rank = 0;
        }
        CHECK(!mmix_params_add_lora(l.student->params, own[k % 3].rank, own[k % 3].alpha,
                                    own[k % 3].targets));
        shake(l.m, l.student->params->adapters, 0.3);
        l.run = mmix_distill_create(l.teacher, l.student, c);
        CHECK_AT(l.run && !mmix_distill_save(l.run, RUN, NULL), about);
        mmix_distill *loaded = mmix_distill_load(l.teacher, RUN, &again);
        FINE(l.m);
        mmix_real *x = logits_of(l.m, l.student), *y = logits_of(l.m, again);
        CHECK_AT(loaded && !memcmp(x, y, LOGITS * sizeof *x), about);
        free(x);
        free(y);
        REFUSED(l.m, mmix_params_merge_lora(l.student->params) == -1, "mmix_distill_destroy");
        REFUSED(l.m, !mmix_distill_create(l.teacher, l.student, c), "no other run");
        CHECK_AT(teach(&l, 0, NULL) == 1, about);
        mmix_distill_destroy(loaded);
        CHECK_AT(!mmix_params_merge_lora(again->params) && !again->params->adapters, about);
        mmix_decoder_destroy(again);
        end(&l);
    }
}
/* A run is a loop that may stop anywhere and go on. 0: finished, 1: stopped, -1: an error. */
typedef struct Shown { int calls, stop; double last; } Shown;
static int next_batch(void *user, mmix_ctx *m, uint64_t number, mmix_distill_batch *batch)
{
    *batch = batch_of(m, number, number % 2 != 0);
    return ((Shown *)user)->stop == 100 + (int)number ? -1 : 0;
}
static int show_stats(void *user, const mmix_distill_stats *stats)
{
    Shown *s = (Shown *)user;
    s->last = stats->loss;
    return ++s->calls == s->stop ? -1 : 0;
}
static int run_on(Lesson *l, Shown *shown)
{
    mmix_distill_batch batch;
    mmix_distill_stats stats;
    for (mmix_reset(l->m); ; mmix_reset(l->m)) {
        if (next_batch(shown, l->m, l->run->number, &batch))
            return 1;
        const int more = mmix_distill_step(l->run, &batch, &stats);
        if (more < 1) return more;
        if (show_stats(shown, &stats)) return 1;
    }
}
static void running(void)
{
    mmix_distill_config c = three_stages(2);
    Shown shown = {0, 0, 0};
    snprintf(about, sizeof about, "running");
    Lesson l = lesson(c, 1), k = lesson(c, 1);
    mmix_real *by_hand = outcome(&l, 0), *rest;
    CHECK(run_on(&k, (shown.stop = 2, &shown)) == 1 && shown.calls == 2 && k.run->number == 2);
    CHECK(run_on(&k, (shown.stop = 104, &shown)) == 1 && k.run->number == 4);
    CHECK(run_on(&k, (shown.stop = 0, &shown)) == 0 && k.run->number == 6);
    rest = outcome(&k, 6);
    CHECK(outcome_size(&k) == outcome_size(&l)
          && !memcmp(by_hand, rest, outcome_size(&k) * sizeof *rest));
    free(by_hand);
    free(rest);
    end(&l);
    end(&k);
}
/* Files of runs and of decoders with a bit flipped where names, shapes and the config are, and
   short ones: refused with a message, or loaded whole. */
static void damaged(void)
{
    enum { ROOM = 1 << 20, FLIPS = 120, CUTS = 30 };
    unsigned char *bytes = (unsigned char *)calloc(1, ROOM);
    mmix_decoder *student = NULL;
    snprintf(about, sizeof about, "damaged files");
    Lesson l = lesson(three_stages(1), 1);
    CHECK(!mmix_distill_save(l.run, RUN, NULL) && !mmix_decoder_save(l.student, PATH));
    for (int is_run = 0; is_run < 2; is_run++) {
        FILE *f = fopen(is_run ? RUN : PATH, "rb");
        size_t n = 0, header = 8;
        int bad = 0, refused = 0;
        if (f) {
            n = fread(bytes, 1, ROOM, f);
            fclose(f);
        }
        header += bytes[0] + 256u * bytes[1];
        CHECK(n > header && n < ROOM);
        for (size_t i = 0; i < FLIPS + CUTS; i++) {
            const size_t at = i * header / FLIPS;
            const size_t length = i < FLIPS ? n : n * (i - FLIPS) / CUTS;
            if (i < FLIPS)
                bytes[at] ^= (unsigned char)(1u << i % 8);
            f = fopen(PATH2, "wb");
            if (f) {
                fwrite(bytes, 1, length, f);
                fclose(f);
            }
            if (i < FLIPS)
                bytes[at] ^= (unsigned char)(1u << i % 8);
            mmix_distill *run = is_run ? mmix_distill_load(l.teacher, PATH2, &student) : NULL;
            if (!is_run) student = mmix_decoder_load(l.m, PATH2);
            bad += (student != NULL) == (mmix_error(l.m) != NULL)
                   || (is_run && (run != NULL) != (student != NULL));
            refused += !student;
            mmix_distill_destroy(run);
            mmix_decoder_destroy(student);
            mmix_error_clear(l.m);
            mmix_reset(l.m);
        }
        CHECK(!bad && refused > CUTS + FLIPS / 2);
    }
    CHECK(!mmix_decoder_load(l.m, "build/not there")
          && says(l.m, MMIX_ERROR_FILE, "cannot be opened"));
    CHECK(!mmix_distill_load(l.teacher, "build/not there", &student)
          && says(l.m, MMIX_ERROR_FILE, "cannot be opened"));
    CHECK(!mmix_distill_load(l.teacher, PATH, &student)
          && says(l.m, MMIX_ERROR_FILE,
                  "expected a file of the format \"mamba_mix distillation run 1\""));
    CHECK(!mmix_decoder_load(l.m, RUN) && mmix_error_kind(l.m) == MMIX_ERROR_FILE);
    mmix_error_clear(l.m);
    free(bytes);
    end(&l);
}

/* ---- the n-th allocation fails ---- */

/* Adapters for which there is no memory leave the decoder as it was. */
static void no_adapters(void)
{
    counter c;
    memset(&c, 0, sizeof c);
    const mmix_options o = counted(&c);
    mmix_ctx *m = mmix_create(&o);
    mmix_decoder *d = variant(m, 0);
    mmix_real *plain = logits_of(m, d);
    size_t n = 1;
    for (int done = 0; !done && n < 500; n++) {
        c.limit = c.calls + n;
        done = !mmix_params_add_lora(d->params, 2, 4, MMIX_LORA_FFN | MMIX_LORA_MIXER);
        c.limit = 0;
        if (!done)
            CHECK(mmix_error_kind(m) == MMIX_ERROR_MEMORY && !d->params->adapters);
        mmix_error_clear(m);
        mmix_real *y = logits_of(m, d);
        CHECK(most(plain, y, LOGITS) <= 0);
        free(y);
    }
    CHECK(n > 3 && n < 500);
    free(plain);
    mmix_decoder_destroy(d);
    mmix_destroy(m);
}

/* A conversion, a step of distillation with everything in it, files of both, a text continued: 1
   if all went well. */
static int everything(mmix_ctx *m)
{
    static const int32_t prompt[3] = {1, 2, 3};
    mmix_decoder_config c = pupil(MMIX_DECODER_ATTENTION);
    mmix_distill_config run_config = three_stages(1);
    mmix_decoder *teacher, *student = NULL, *back = NULL, *resumed = NULL;
    mmix_distill *run = NULL, *again = NULL;
    int32_t made[4];
    int ok = 0;
    run_config.stages = 1;
    run_config.calibrate = 1;
    run_config.stage[0] = stage(15, 1, 1, 1, 1, 1);
    c.mmate.text_window = 3;
    c.mmate.conv_width = 2;
    teacher = mmix_decoder_create(m, c);
    if (teacher) student = mmix_decoder_student(teacher, &c.mmate);
    if (student) run = mmix_distill_create(teacher, student, run_config);
    if (run) {
        mmix_distill_batch b = batch_of(m, 0, 1);
        mmix_record(m, MMIX_RECORD_LAYERS);
        ok = !mmix_error(m) && mmix_distill_step(run, &b, NULL) == 1
             && mmix_record(m, 0) == MMIX_RECORD_LAYERS && !mmix_distill_save(run, RUN, "n")
             && !mmix_decoder_save(student, PATH);
    }
    if (ok)
        ok = (back = mmix_decoder_load(m, PATH)) != NULL
             && generate(m, back, prompt, 3, NULL, made, 4) == 4;
    if (ok)
        ok = (again = mmix_distill_load(teacher, RUN, &resumed)) != NULL;
    if (!ok && !mmix_error(m)) CHECK_AT(0, "a failure without a message");
    mmix_distill_destroy(again);
    if (again) mmix_decoder_destroy(resumed);
    mmix_decoder_destroy(back);
    mmix_distill_destroy(run);
    mmix_decoder_destroy(student);
    mmix_decoder_destroy(teacher);
    return ok;
}
static int tried(const mmix_options *o, void *user)
{
    mmix_ctx *m = mmix_create(o);
    (void)user;
    if (!m) return MMIX_ERROR_MEMORY;
    const size_t before = mmix_memory(m).bytes;
    const int done = everything(m), kind = mmix_error_kind(m);
    CHECK(done ? !kind : kind != MMIX_OK);
    mmix_reset(m);
    CHECK(mmix_memory(m).bytes - before <= (size_t)4 << 20);     /* step memory stays */
    mmix_destroy(m);
    return kind;
}
static void no_memory(void)
{
#ifdef MMIX_REGRESSION
    const size_t stride = 7;                     /* its small blocks are thousands */
#else
    const size_t stride = 1;
#endif
    const size_t n = memory_fails(tried, NULL, 1, stride);
    CHECK(n > 100 * stride && n < 9000);
}

/* Without a teacher, a student, a run, a batch or images. */
static void nothing(void)
{
    mmix_distill_config c = three_stages(1);
    mmix_distill_stats stats;
    mmix_distill_batch batch;
    Lesson l = lesson(c, 1);
    mmix_ctx *m = l.m;
    memset(&batch, 0, sizeof batch);
    snprintf(about, sizeof about, "nothing");
    CHECK(!mmix_distill_create(NULL, l.student, c) && !mmix_distill_create(l.teacher, NULL, c));
    CHECK(!mmix_vision_distill_create(NULL, NULL, mmix_distill_config_vision()));
    CHECK(mmix_vision_calibrate(NULL, NULL, NULL) == -1
          && mmix_decoder_calibrate(NULL, NULL, NULL) == -1);
    CHECK(mmix_distill_step(NULL, &batch, &stats) == -1
          && mmix_distill_losses(NULL, &batch, &stats) == -1);
    CHECK(mmix_vision_distill_step(NULL, NULL, NULL) == -1
          && mmix_vision_distill_losses(NULL, NULL, NULL) == -1);
    CHECK(!mmix_error(m));
    mmix_distill_destroy(NULL);
    BAD_INT(mmix_distill_step(l.run, NULL, &stats), "mmix_distill_step: batch is NULL", "");
    BAD_INT(mmix_distill_losses(l.run, NULL, NULL), "mmix_distill_losses: batch is NULL", "");
    BAD_INT(mmix_distill_step(l.run, &batch, NULL), "tokens is NULL", "");
    BAD_INT(mmix_vision_distill_step(l.run, NULL, NULL),
            "mmix_vision_distill_step: run of backbones is NULL", "");
    BAD_INT(mmix_vision_distill_losses(l.run, NULL, NULL),
            "mmix_vision_distill_losses: run of backbones", "");
    end(&l);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "what trains", what_trains }, { "learning", learning }, { "stages", stages },
        { "accumulation", accumulation }, { "decoded", decoded }, { "losses", losses },
        { "running", running }, { "damaged", damaged }, { "own adapters", own_adapters },
        { "no adapters", no_adapters }, { "no memory", no_memory }, { "nothing", nothing }
    };
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    const int bad = sections(all, sizeof all / sizeof all[0], argc, argv);
    remove(PATH);
    remove(PATH2);
    remove(RUN);
    remove(FOLDER);
    return bad;
}
