/* qlora.c - networks of narrow matrices that learn: students of narrow teachers, adapters beside
   narrow matrices, runs that train them. Arguments: the sections to run. */
#include "decoders.h"
#include "models.h"

#define FOLDER "build/qlora_test"
#define PATH FOLDER "/model.safetensors"

enum { TYPES = 4 };
static const int type_of[TYPES] = {
    MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8, MMIX_DTYPE_Q4
};
static const char *const name_of[TYPES] = { "bf16", "f16", "int8", "q4" };
/* What one rounding to a type takes from a matrix, as a share of its size, at most. */
static const double coarse[TYPES] = { 0.004, 0.0005, 0.01, 0.1 };

/* Whether two lists have the same types and values. */
static int alike(const mmix_params *a, const mmix_params *b)
{
    int same = same_lists(a, b) && a->dtype == b->dtype;
    for (size_t i = 0; same && i < a->count; i++)
        same = !strcmp(a->at[i].name, b->at[i].name)
            && mmix_dtype(a->at[i].tensor) == mmix_dtype(b->at[i].tensor);
    return same;
}
/* |a - b| / |b| of all numbers together. */
static double off(const mmix_tensor *a, const mmix_tensor *b)
{
    mmix_real *x = copied(a), *y = copied(b);
    double squares[2] = { 0, 1e-300 };
    for (size_t i = 0; i < mmix_count(b); i++) {
        squares[0] += pow((double)x[i] - (double)y[i], 2);
        squares[1] += pow((double)y[i], 2);
    }
    free(x);
    free(y);
    return sqrt(squares[0] / squares[1]);
}
/* Whether what comes into a product is rounded, too. */
static int rounds_inputs(const mmix_ctx *m, int dtype)
{
    if (dtype == MMIX_DTYPE_BF16) return mmix_has_bf16(m);
    return dtype != MMIX_DTYPE_F16;
}

/* The student of a narrow teacher is the student of its reals, made narrow. */
static void decoders(void)
{
    for (int t = 0; t < TYPES; t++)
        for (int way = 0; way < 3; way++) {      /* M-MATE everywhere, with a gate, in one layer */
            static const int replace[4] = { 0, 1, 0, 0 };
            mmix_ctx *m = context(2, 0);
            doing(name_of[t]);
            mmix_decoder *teacher = shaken(m, small(MMIX_DECODER_ATTENTION));
            mmix_mmate_options o = teacher->config.mmate;
            o.branch_gate = way == 1;
            const int *some = way == 2 ? replace : NULL;
            mmix_decoder *first = mmix_decoder_student_some(teacher, &o, some);
            CHECK(!mmix_params_narrow(first->params, type_of[t]));
            CHECK(!mmix_params_narrow(teacher->params, type_of[t]));
            mmix_decoder *second = mmix_decoder_student_some(teacher, &o, some);
            CHECK(second && alike(first->params, second->params));
            FINE(m);
            mmix_decoder_destroy(first);
            mmix_decoder_destroy(second);
            mmix_decoder_destroy(teacher);
            mmix_destroy(m);
        }
}
static mmix_vision_config backbone(size_t dim)
{
    mmix_vision_config c = small_vision(MMIX_MIXER_SOFTMAX);
    c.dim = dim;
    c.mmate.window[1] = c.mmate.window[2] = 2;
    return c;
}
static mmix_vision_config without_attention(mmix_vision_config c)
{
    c.blocks[0] = MMIX_BLOCK_MMATE;
    c.blocks[1] = MMIX_BLOCK_LINEAR;
    return c;
}
/* q, k and v are thirds of a teacher's one matrix. */
static void backbones(void)
{
    for (int t = 0; t < TYPES; t++) {
        mmix_ctx *m = context(2, 0);
        doing(name_of[t]);
        mmix_vision_config c = backbone(32), mixed = without_attention(c);
        mmix_vision *teacher = mmix_vision_create(m, c);
        shake(m, mmix_vision_params(teacher), 0.3);
        mmix_vision *first = mmix_vision_student(teacher, mixed);
        CHECK(!mmix_params_narrow(mmix_vision_params(first), type_of[t]));
        CHECK(!mmix_params_narrow(mmix_vision_params(teacher), type_of[t]));
        mmix_vision *second = mmix_vision_student(teacher, mixed);
        CHECK(second && alike(mmix_vision_params(first), mmix_vision_params(second)));
        FINE(m);
        mmix_vision_destroy(first);
        mmix_vision_destroy(second);
        mmix_vision_destroy(teacher);
        /* a third of 24 rows would begin within a panel of 16 */
        c = backbone(24);
        teacher = mmix_vision_create(m, c);
        CHECK(!mmix_params_narrow(mmix_vision_params(teacher), type_of[t]));
        BAD(mmix_vision_student(teacher, without_attention(c)), "mmate.flex.q_proj.weight has 24 rows",
            "only a multiple of 16");
        mmix_vision_destroy(teacher);
        mmix_destroy(m);
    }
}
/* A backbone with adapters beside narrow matrices sees what one of reals sees. */
static void adapted_backbones(void)
{
    for (int t = 0; t < TYPES; t++) {
        mmix_ctx *m = context(2, 0);
        doing(name_of[t]);
        mmix_vision *of[2];
        mmix_tensor *seen[2];
        mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 16), 1, 3);
        for (int i = 0; i < 2; i++) {
            of[i] = mmix_vision_create(m, backbone(32));
            shake(m, mmix_vision_params(of[i]), 0.3);
        }
        CHECK(!mmix_params_narrow(mmix_vision_params(of[0]), type_of[t]));
        widen(mmix_vision_params(of[0]), mmix_vision_params(of[1]));
        mmix_tensor *plain = mmix_vision_forward(m, of[0], image, NULL).tokens;
        for (int i = 0; i < 2; i++) {
            mmix_params *p = mmix_vision_params(of[i]);
            CHECK(!mmix_params_add_lora(p, 2, 4, MMIX_LORA_FFN | MMIX_LORA_MIXER));
            shake(m, p->adapters, 0.3);
            seen[i] = mmix_vision_forward(m, of[i], image, NULL).tokens;
        }
        ALIKE(seen[0], seen[1], rounds_inputs(m, type_of[t]) ? 0.1 : 200 * EPS);
        CHECK(apart(seen[0], plain) > 0.2);
        FINE(m);
        for (int i = 0; i < 2; i++) mmix_vision_destroy(of[i]);
        mmix_destroy(m);
    }
}
/* Calibration multiplies o_proj's columns by what it does for a student of reals. */
static void calibration(void)
{
    for (int t = 0; t < TYPES; t++) {
        mmix_ctx *m = context(1, 0);
        doing(name_of[t]);
        mmix_decoder *teacher = shaken(m, small(MMIX_DECODER_ATTENTION));
        mmix_decoder *reals = mmix_decoder_create(m, small(MMIX_DECODER_ATTENTION));
        CHECK(!mmix_params_narrow(teacher->params, type_of[t]));
        widen(teacher->params, reals->params);
        mmix_decoder *student = mmix_decoder_student(teacher, NULL);
        mmix_decoder *wide = mmix_decoder_student(reals, NULL);
        mmix_sequence s = sequence(m, 1, 5);
        CHECK(!mmix_decoder_calibrate(student, teacher, &s));
        CHECK(!mmix_decoder_calibrate(wide, reals, &s));
        for (size_t i = 0; i < 4; i++) {
            mmix_tensor *ours = named(student->params, i, "flex.o_proj.weight");
            mmix_tensor *theirs = named(wide->params, i, "flex.o_proj.weight");
            mmix_tensor *before = named(teacher->params, i, "o_proj.weight");
            CHECK(mmix_dtype(ours) == type_of[t]);
            COMPARE(off(ours, theirs) < 3 * coarse[t] + 0.01, "o_proj", off(ours, theirs), coarse[t]);
            CHECK(off(ours, before) > 0.2);
            CHECK(gap(named(student->params, i, "swin.o_proj.weight"), before) <= 0);
        }
        FINE(m);
        mmix_decoder_destroy(student);
        mmix_decoder_destroy(wide);
        mmix_decoder_destroy(teacher);
        mmix_decoder_destroy(reals);
        mmix_destroy(m);
    }
}

enum { BOTH_TARGETS = MMIX_LORA_FFN | MMIX_LORA_MIXER };
static void add_adapters(mmix_decoder *d)
{
    CHECK(!mmix_params_add_lora(d->params, 2, 4, BOTH_TARGETS));
    shake(d->m, d->params->adapters, 0.3);
}
static double forward_gap(mmix_ctx *m, const mmix_decoder *a, const mmix_decoder *b)
{
    mmix_sequence s = sequence(m, 1, 5);
    return apart(mmix_decoder_forward(m, a, &s, NULL), mmix_decoder_forward(m, b, &s, NULL));
}
/* W x + B (A x) with a narrow W; added to it, in files and in students, W + B A is rounded again. */
static void adapters(void)
{
    for (int t = 0; t < TYPES; t++) {
        mmix_ctx *m = context(2, 0);
        doing(name_of[t]);
        mmix_decoder *d = shaken(m, small(MMIX_DECODER_ATTENTION));
        mmix_decoder *reals = mmix_decoder_create(m, small(MMIX_DECODER_ATTENTION));
        CHECK(!mmix_params_narrow(d->params, type_of[t]));
        widen(d->params, reals->params);
        add_adapters(d);
        add_adapters(reals);
        const double wrong = forward_gap(m, d, reals);
        COMPARE(wrong < (rounds_inputs(m, type_of[t]) ? 0.1 : 20 * TOL), "forward", wrong, 0);
        REFUSED(m, mmix_params_add_lora(d->params, 2, 4, BOTH_TARGETS) == -1, "already");
        CHECK(!mmix_decoder_save(d, PATH));
        mmix_decoder *student = mmix_decoder_student(d, NULL);
        CHECK(d->params->adapters && !student->params->adapters);
        mmix_real *before = values(d->params);
        CHECK(!mmix_params_merge_lora(d->params) && !d->params->adapters);
        CHECK(!mmix_params_merge_lora(reals->params));
        CHECK(!mmix_params_narrow(reals->params, type_of[t]));
        CHECK(alike(d->params, reals->params) && !same_values(d->params, before));
        free(before);
        mmix_decoder *filed = mmix_decoder_load_as(m, PATH, type_of[t]);
        CHECK(filed && alike(d->params, filed->params));
        mmix_decoder *after = mmix_decoder_student(d, NULL);
        CHECK(alike(student->params, after->params));
        FINE(m);
        mmix_decoder_destroy(after);
        mmix_decoder_destroy(filed);
        mmix_decoder_destroy(student);
        mmix_decoder_destroy(reals);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

/* Σ logits². */
static double objective(mmix_ctx *m, mmix_decoder *d, mmix_tensor **y)
{
    mmix_sequence s = sequence(m, 1, 5);
    *y = mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL));
    *y = mmix_sum(m, mmix_mul(m, *y, *y));
    return mmix_item(*y);
}
/* Its gradient with respect to the adapters and to what stayed real, as a list of tensors in the
   order of both lists; a narrow matrix has none. */
enum { MANY = 128 };
static size_t gradients(mmix_ctx *m, mmix_decoder *d, mmix_tensor **gradient)
{
    const mmix_params *list[2] = { d->params, d->params->adapters };
    size_t n = 0;
    mmix_tensor *y;
    for (int k = 0; k < 2; k++) {
        CHECK(!mmix_params_require_grad((mmix_params *)list[k], 1));
        mmix_params_zero_grad((mmix_params *)list[k]);
    }
    mmix_record(m, 1);
    objective(m, d, &y);
    CHECK(!mmix_backward(m, y));
    mmix_record(m, 0);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < list[k]->count && n < MANY; i++) {
            mmix_tensor *t = list[k]->at[i].tensor;
            gradient[n] = mmix_grad(t);
            CHECK((gradient[n++] != NULL) == (mmix_dtype(t) == MMIX_DTYPE_REAL));
        }
    CHECK(n == list[0]->count + list[1]->count);
    return n;
}
/* Where nothing that comes in is rounded: a central difference, in double. */
static void differences(mmix_ctx *m, mmix_decoder *d, mmix_tensor *const *gradient)
{
    for (int k = 0; k < 2; k++) {
        const mmix_params *p = k ? d->params->adapters : d->params;
        for (size_t i = 0; i < p->count; i++, gradient++)
            for (size_t e = i % 5; *gradient && e < mmix_count(*gradient); e += 11) {
                mmix_real *x = mmix_data(p->at[i].tensor) + e;
                const mmix_real kept = *x;
                const double slope = (double)mmix_data(*gradient)[e];
                double at_side[2];
                mmix_tensor *y;
                for (int side = 0; side < 2; side++) {
                    *x = kept + (mmix_real)(side ? -1e-5 : 1e-5);
                    at_side[side] = objective(m, d, &y);
                }
                *x = kept;
                const double found = (at_side[0] - at_side[1]) / 2e-5;
                COMPARE(fabs(found - slope) < 1e-5 * (fabs(found) + 1), p->at[i].name, slope, found);
            }
    }
}
static void gradient(void)
{
    for (int t = 0; t < TYPES; t++) {
        mmix_ctx *m = context(2, 0);
        doing(name_of[t]);
        mmix_decoder *d = shaken(m, pupil(MMIX_DECODER_MMATE));
        mmix_decoder *reals = mmix_decoder_create(m, pupil(MMIX_DECODER_MMATE));
        mmix_tensor *ours[MANY], *theirs[MANY];
        double along = 0, square = 0, other = 0;
        CHECK(!mmix_params_narrow(d->params, type_of[t]));
        widen(d->params, reals->params);
        add_adapters(d);
        add_adapters(reals);
        const size_t n = gradients(m, d, ours);
        gradients(m, reals, theirs);
        for (size_t i = 0; i < n; i++)
            for (size_t e = 0; ours[i] && e < mmix_count(ours[i]); e++) {
                const double x = (double)mmix_data(ours[i])[e], y = (double)mmix_data(theirs[i])[e];
                along += x * y;
                square += x * x;
                other += y * y;
            }
        const double cosine = along / sqrt(square * other);
        const int rounds = rounds_inputs(m, type_of[t]);
        COMPARE(1 - cosine < (rounds ? 0.01 : 30 * TOL), "1 - cosine of gradients", 1 - cosine, 0);
        COMPARE(fabs(sqrt(square / other) - 1) < (rounds ? 0.2 : 30 * TOL), "their size", square, other);
        if (!rounds && sizeof(mmix_real) == 8) differences(m, d, ours);
        FINE(m);
        mmix_decoder_destroy(d);
        mmix_decoder_destroy(reals);
        mmix_destroy(m);
    }
}

/* ---- runs ---- */

/* What stayed real of Flex-MA, then everything that can, and adapters. */
static mmix_distill_config two_stages(size_t steps)
{
    mmix_distill_config c = three_stages(steps);
    c.stages = 2;
    c.stage[0] = stage(MMIX_TRAIN_FLEX, 1, 1, 0, 0, steps);
    c.stage[1] = stage(15, 1, 1, 1, 1, steps);
    c.lora_targets = BOTH_TARGETS;
    c.calibrate = 1;
    return c;
}
static Lesson narrow_lesson(int dtype, size_t steps)
{
    Lesson l;
    const mmix_decoder_config c = pupil(MMIX_DECODER_ATTENTION);
    l.m = context(2, 0);
    l.teacher = shaken(l.m, c);
    CHECK(!mmix_params_narrow(l.teacher->params, dtype));
    l.taught = values(l.teacher->params);
    l.student = mmix_decoder_student(l.teacher, &c.mmate);
    l.run = mmix_distill_create(l.teacher, l.student, two_stages(steps));
    FINE(l.m);
    return l;
}
/* How many parameters of a student have other values than before, and whether these are those that
   train: of Flex-MA alone, or all; no narrow ones. */
static size_t moved(const mmix_params *p, const mmix_real *before, int flex_alone)
{
    size_t changed = 0;
    mmix_real *now = values(p);
    for (size_t i = 0, at = 0; i < p->count; at += mmix_count(p->at[i++].tensor)) {
        const int trains = mmix_dtype(p->at[i].tensor) == MMIX_DTYPE_REAL
            && (!flex_alone || group(p->at[i].name) == MMIX_TRAIN_FLEX);
        const int differs
            = memcmp(now + at, before + at, mmix_count(p->at[i].tensor) * sizeof *now) != 0;
        CHECK_AT(differs == trains, p->at[i].name);
        changed += (size_t)differs;
    }
    free(now);
    return changed;
}
/* Matrices stay, all else learns; a run that was saved goes on with the same bits. */
static void runs(void)
{
    enum { STEPS = 25, SAVED = 7 };
    for (int t = 0; t < TYPES; t++)
        for (uint64_t saved = SAVED; saved < 2 * STEPS; saved += STEPS) {
            if (SLOW && t % 2 == (saved == SAVED)) continue;     /* a stage each in turn */
            mmix_distill_stats stats;
            double first = 0, last = 0;
            doing(name_of[t]);
            Lesson l = narrow_lesson(type_of[t], STEPS);
            mmix_real *start = NULL;
            for (uint64_t k = 0; k < saved; k++) {
                CHECK(teach(&l, 0, &stats) == 1 && stats.updated);
                if (!k) first = stats.loss;
                if (!k) start = values(l.student->params);       /* calibrated */
                if (k == 2) CHECK(moved(l.student->params, start, 1) > 4);
            }
            CHECK(!mmix_distill_save(l.run, PATH, "half"));
            while (teach(&l, 0, &stats) == 1) last = stats.hidden + stats.token;
            CHECK(moved(l.student->params, start, 0) > 10 && l.run->number == 2 * STEPS);
            COMPARE(last < 0.7 * first, "the losses fall", last, first);
            mmix_distill_destroy(l.run);
            mmix_decoder *whole = l.student;

            l.student = NULL;
            l.run = mmix_distill_load(l.teacher, PATH, &l.student);
            if (CHECK_AT(l.run && l.student, mmix_error(l.m))) {
                CHECK(l.run->number == saved && l.student->params->dtype == type_of[t]);
                while (teach(&l, 0, &stats) == 1) {}
                CHECK(alike(l.student->params, whole->params));
                CHECK(alike(l.student->params->adapters, whole->params->adapters));
            }
            mmix_decoder_destroy(whole);
            free(start);
            end(&l);
        }
}
/* A stage of what a narrow student has none of; a type that is none. */
static void refusals(void)
{
    Lesson l = narrow_lesson(MMIX_DTYPE_I8, 2);
    mmix_distill_config c = two_stages(2);
    mmix_ctx *m = l.m;
    mmix_decoder *another = NULL;
    mmix_distill_destroy(l.run);
    mmix_decoder_destroy(l.student);
    mmix_mmate_options o = pupil(MMIX_DECODER_ATTENTION).mmate;
    o.branches = MMIX_BRANCH_FLEX;
    l.student = mmix_decoder_student(l.teacher, &o);
    c.stage[1].train = MMIX_TRAIN_SWIN;
    BAD(mmix_distill_create(l.teacher, l.student, c), "stage 1", "something that the student has");
    c.stage[1].train = MMIX_TRAIN_LORA;
    l.run = mmix_distill_create(l.teacher, l.student, c);
    CHECK(l.run && teach(&l, 0, NULL) == 1 && !mmix_distill_save(l.run, PATH, NULL));

    FILE *f = fopen(PATH, "r+b");
    char head[4096];
    const size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
    head[n] = 0;
    for (size_t i = 0; i < n; i++) head[i] = head[i] ? head[i] : ' ';
    char *at = strstr(head, "\"int8\"");
    if (CHECK(at != NULL)) {
        fseek(f, (long)(at - head) + 4, SEEK_SET);
        fputc('9', f);
    }
    if (f) fclose(f);
    CHECK(!mmix_distill_load(l.teacher, PATH, &another));
    CHECK(says(m, MMIX_ERROR_FILE, "int8 or q4, found \"int9\""));
    end(&l);
}

/* A conversion, a step and the run's file: what kind of error it met. */
static int converted(const mmix_options *o, void *user)
{
    const int dtype = *(const int *)user;
    const mmix_decoder_config c = pupil(MMIX_DECODER_ATTENTION);
    mmix_decoder *student = NULL, *back = NULL;
    mmix_distill *run = NULL, *again = NULL;
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_decoder *teacher = mmix_decoder_create(m, c);
    int bad = !teacher || mmix_params_narrow(teacher->params, dtype);
    if (!bad) student = mmix_decoder_student(teacher, &c.mmate);
    if (student) run = mmix_distill_create(teacher, student, two_stages(1));
    if (run) {
        const mmix_distill_batch b = batch_of(m, 0, 1);
        bad = mmix_error(m) || mmix_distill_step(run, &b, NULL) != 1
            || mmix_distill_save(run, PATH, NULL);
        if (!bad) again = mmix_distill_load(teacher, PATH, &back);
    }
    int kind = mmix_error_kind(m);
    if (!kind && !again) kind = -1;
    mmix_distill_destroy(again);
    mmix_decoder_destroy(back);
    mmix_distill_destroy(run);
    mmix_decoder_destroy(student);
    mmix_decoder_destroy(teacher);
    mmix_destroy(m);
    return kind;
}
static void no_memory(void)
{
    for (int t = 0; t < TYPES; t++) {
        int dtype = type_of[t];
        doing(name_of[t]);
        CHECK(memory_fails(converted, &dtype, t % 2, ARENA_BLOCK == 256 ? 97 : 3) > 60);
    }
}

int main(int argc, char **argv)
{
    static const section all[] = {
        { "decoders", decoders }, { "backbones", backbones },
        { "adapted backbones", adapted_backbones },
        { "calibration", calibration }, { "adapters", adapters }, { "gradient", gradient },
        { "runs", runs }, { "refused", refusals }, { "no memory", no_memory }
    };
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    const int bad = sections(all, sizeof all / sizeof all[0], argc, argv);
    remove(PATH);
    remove(FOLDER);
    return bad;
}
