/* decoders.h - small decoders of text and media, sequences for them, a layer alone, distillation
   of one by another */
#ifndef TEST_DECODERS_H
#define TEST_DECODERS_H
#include "test.h"
#include <sys/stat.h>

/* rounding, of numbers around 1 */
static const double TOL = sizeof(mmix_real) == 8 ? 1e-11 : 1e-5;

/* ---- values ---- */

SHARED mmix_real *copied(const mmix_tensor *t)   /* all elements; the caller frees */
{
    mmix_real *v = (mmix_real *)calloc(mmix_count(t) + 1, sizeof *v);
    if (!t || mmix_read(t, v)) v[0] = NAN;
    return v;
}
/* largest difference */
SHARED double most(const mmix_real *a, const mmix_real *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = fabs((double)a[i] - (double)b[i]);
        if (!(e <= worst)) worst = isnan(e) ? 1e30 : e;
    }
    return worst;
}
/* What starts neutral or at zero no longer is: normal numbers are added, and all are floats in
   both builds. */
SHARED void shake(mmix_ctx *m, mmix_params *p, double deviation)
{
    for (size_t i = 0; p && i < p->count; i++) {
        mmix_real *v = mmix_data(p->at[i].tensor);
        for (size_t e = 0; e < mmix_count(p->at[i].tensor); e++)
            v[e] = (mmix_real)(float)((double)v[e] + deviation * mmix_random_normal(m, 7, i, e));
    }
}
/* The parameter of a layer whose name ends so. */
SHARED mmix_tensor *named(const mmix_params *p, size_t layer, const char *end)
{
    char part[32];
    snprintf(part, sizeof part, ".layers.%d.", (int)layer);
    for (size_t i = 0; i < p->count; i++) {
        const size_t length = strlen(p->at[i].name), n = strlen(end);
        if (strstr(p->at[i].name, part) && length > n && !strcmp(p->at[i].name + length - n, end))
            return p->at[i].tensor;
    }
    return NULL;
}
/* A copy of a list's values, and the list's values are these. */
SHARED mmix_real *values(const mmix_params *p)
{
    mmix_real *v = (mmix_real *)calloc(p->elements + 1, sizeof *v);
    for (size_t i = 0, at = 0; i < p->count; at += mmix_count(p->at[i++].tensor))
        mmix_read(p->at[i].tensor, v + at);
    return v;
}
SHARED int same_values(const mmix_params *p, const mmix_real *v)
{
    mmix_real *now = values(p);
    const int same = !memcmp(now, v, p->elements * sizeof *v);
    free(now);
    return same;
}
SHARED int same_lists(const mmix_params *a, const mmix_params *b)
{
    int same = a && b && a->count == b->count && a->elements == b->elements;
    mmix_real *v = same ? values(b) : NULL;
    same = same && same_values(a, v);
    free(v);
    return same;
}

/* ---- a sequence: texts around two images of a size, one with a separator, and a video ---- */

enum { TOKENS = 32, SPANS = 3, GRID = 20, FEATURES = 5, WORDS = 23, BATCH = 2 };
static const mmix_span spans[SPANS] = {
    {2, {1, 2, 3}, 0, 0}, {10, {1, 2, 3}, 1, 0}, {19, {2, 2, 2}, 1, 0}
};

SHARED size_t frame(const mmix_span *s) { return s->grid[1] * s->grid[2] + s->separators; }
SHARED size_t behind(const mmix_span *s) { return s->start + s->grid[0] * frame(s); }
SHARED int span_of(size_t i)                     /* -1: text */
{
    for (int s = 0; s < SPANS; s++)
        if (i >= spans[s].start && i < behind(&spans[s]))
            return s;
    return -1;
}
SHARED int feature_of(size_t i)                  /* the row of media; -1: text and separators */
{
    size_t row = 0;
    for (int s = 0; s < SPANS; row += spans[s].grid[0] * spans[s].grid[1] * spans[s].grid[2], s++)
        if (span_of(i) == s) {
            const size_t at = i - spans[s].start;
            const size_t in = at % frame(&spans[s]);
            const size_t plane = frame(&spans[s]) - spans[s].separators;
            return in < plane ? (int)(row + at / frame(&spans[s]) * plane + in) : -1;
        }
    return -1;
}
SHARED mmix_sequence sequence(mmix_ctx *m, int media, uint64_t number)
{
    mmix_sequence s;
    int32_t token[BATCH * TOKENS];
    const size_t shape[2] = {BATCH, TOKENS};
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < BATCH * TOKENS; i++)
        token[i] = (int32_t)(mmix_random_u32(m, 11, number, i) % WORDS);
    s.tokens = mmix_from_i32(m, 2, shape, token);
    s.spans = spans;
    s.n_spans = SPANS;
    if (media)
        s.media = mmix_fill_normal(m, mmix_new3(m, BATCH, GRID, FEATURES), 1, 50 + number);
    return s;
}
/* Its tokens from … to - 1; room for the spans in them. A span that is cut at `to` reaches
   beyond the end. */
SHARED mmix_sequence piece(mmix_ctx *m, const mmix_sequence *s, size_t from, size_t to,
                           mmix_span *room)
{
    mmix_sequence p;
    size_t before = 0, in = 0;
    memset(&p, 0, sizeof p);
    p.tokens = mmix_slice(m, s->tokens, 1, from, to - from);
    p.spans = room;
    for (size_t i = 0; i < s->n_spans; i++) {
        const size_t n = s->spans[i].grid[0] * s->spans[i].grid[1] * s->spans[i].grid[2];
        if (s->spans[i].start < from) before += n;
        else if (s->spans[i].start < to) {
            room[p.n_spans] = s->spans[i];
            room[p.n_spans++].start -= from;
            in += n;
        }
    }
    if (s->media && in)
        p.media = mmix_slice(m, s->media, 1, before, in);
    return p;
}

/* ---- the decoders ---- */

SHARED mmix_decoder_config small(int mixer)
{
    mmix_decoder_config c;
    memset(&c, 0, sizeof c);
    c.mixer = mixer;
    c.vocabulary = WORDS;
    c.dim = 12;
    c.depth = 4;
    c.ffn = 10;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 6;
    c.media = FEATURES;
    c.bias = 1;
    for (int i = 0; i < 3; i++)
        c.mmate.window[i] = 2;
    return c;
}
enum { OPTIONS = 20, EVERYTHING = 19, SWIN_ONLY = 5 };
SHARED const char *option(int o, mmix_mmate_options *x)
{
    static const char *const names[OPTIONS] = { "default",
                                                "mean",
                                                "sum",
                                                "branch gate",
                                                "flex alone",
                                                "swin alone",
                                                "one direction's dt",
                                                "skip",
                                                "convolution",
                                                "output gate",
                                                "norm",
                                                "causal window",
                                                "text window",
                                                "text window of 1",
                                                "shifts of period 4",
                                                "windows of 16",
                                                "gate and norm",
                                                "sum, no window in time",
                                                "convolution of 2, mean",
                                                "everything" };
    const int all = o == EVERYTHING;
    if (o == 1 || o == 18) x->directions = MMIX_FUSE_MEAN;
    if (o == 2 || o == 17) x->directions = MMIX_FUSE_SUM;
    if (o == 3 || all) x->branch_gate = 1;
    if (o == 4) x->branches = MMIX_BRANCH_FLEX;
    if (o == SWIN_ONLY) {
        x->branches = MMIX_BRANCH_SWIN;
        x->text_window = 4;
    }
    if (o == 6) x->shared_directions = 1;
    if (o == 7 || all) x->skip = 1;
    if (o == 8 || all) x->conv_width = 3;
    if (o == 18) x->conv_width = 2;
    if (o == 9 || o == 16 || all) x->output_gate = 1;
    if (o == 10 || o == 16 || all) x->norm = 1;
    if (o == 11 || all) x->causal_window = 1;
    if (o == 12 || all) x->text_window = 3;
    if (o == 13) x->text_window = 1;
    if (o == 14) x->shift_period = 4;
    if (o == 15) memset(x->window, 0, sizeof x->window);
    if (o == 17) x->window[0] = 1;
    return names[o];
}
SHARED mmix_decoder *shaken(mmix_ctx *m, mmix_decoder_config c)
{
    mmix_decoder *d = mmix_decoder_create(m, c);
    if (d) shake(m, d->params, 0.3);
    FINE(m);
    return d;
}
/* Behind the options of M-MATE: attention in its forms, M-MATE once more, Mamba, and mixtures. */
enum { THREE_AXES_MMATE = 5, MAMBA, MAMBA_2, SIDE_BY_SIDE, HALVES, MIXTURE, FORMS };
enum { VARIANTS = OPTIONS + FORMS };
/* Whether no token of variant o reads a later one, not even within a span. */
SHARED int looks_back(int o)
{
    return o >= OPTIONS && o != OPTIONS + THREE_AXES_MMATE && o != OPTIONS + MIXTURE;
}
/* Whether what it remembers grows with the tokens: whether it has attention without a window. */
SHARED int remembers_all(int o)
{
    return o >= OPTIONS && o != OPTIONS + THREE_AXES_MMATE && o != OPTIONS + MAMBA
        && o != OPTIONS + MAMBA_2 && o != OPTIONS + MIXTURE;
}
/* Mamba and mixtures; small sizes that are no powers of two, groups, every factor and option. */
SHARED void mixture_of(int form, mmix_decoder_config *c)
{
    static const int halves[4] = { MMIX_DECODER_NONE, MMIX_DECODER_MAMBA2, MMIX_DECODER_ATTENTION,
                                   MMIX_DECODER_NONE };
    static const int mixers[4] = { MMIX_DECODER_MAMBA1, MMIX_DECODER_ATTENTION, MMIX_DECODER_MMATE,
                                   MMIX_DECODER_MAMBA2 };
    c->mamba1.d_state = 3;
    c->mamba1.dt_rank = 2;
    c->mamba2.head_dim = 8;
    c->mamba2.d_state = 5;
    c->mamba2.groups = 3;
    if (form == MAMBA) {
        c->mixer = MMIX_DECODER_MAMBA1;
        c->ffn = 0;
        c->heads = c->kv_heads = c->head_dim = 0;
        c->mamba1.bias = 1;
        c->mamba1.inner_eps = 1e-5;
    } else if (form == MAMBA_2) {
        c->mixer = MMIX_DECODER_MAMBA2;
        c->ffn = 0;
        c->mamba2.bias = 1;
        c->mamba2.no_conv_bias = 1;
    } else if (form == SIDE_BY_SIDE) {
        mmix_decoder_scales factors = { 3, 0.5, 0.8, 0.3, 1.2, 0.7, 0.6, 0.9, 1.1 };
        c->mixer = MMIX_DECODER_PARALLEL;
        c->scale = factors;
        c->mamba2.no_norm = 1;
        for (int i = 0; i < 5; i++) c->mamba2.multiplier[i] = 0.6 + 0.2 * i;
    } else {
        c->mixer = MMIX_DECODER_LISTED;
        for (int i = 0; i < 4; i++) {
            c->layers[i].mixer = form == HALVES ? halves[i] : mixers[i];
            c->layers[i].no_ffn = form == HALVES && halves[i] != MMIX_DECODER_NONE;
        }
    }
    if (form == HALVES) {
        c->ffn_kind = MMIX_FFN_RELU2;
        c->no_positions = 1;
    }
    if (form == MIXTURE) {
        c->qk_norm = 1;
        c->ffn_bias = 1;
        c->gate_up = 1;
        c->layers[2].no_positions = 1;
        c->post_norms = 1;
        c->ffn_kind = MMIX_FFN_GEGLU;
        c->layers[1].windowed = 1;
        c->window = 3;
        c->window_theta = 100;
        c->rope.scaling = MMIX_ROPE_YARN;
        c->rope.factor = 3;
        c->rope.original = 8;
    }
}
/* Variant o: M-MATE with each option, then attention in its forms, Mamba and mixtures; NULL after
   the last. */
SHARED mmix_decoder *variant(mmix_ctx *m, int o)
{
    static const char *const names[FORMS] = {
        "attention", "interleaved pairs", "biases everywhere, one key head", "three axes",
        "no biases, tied", "M-MATE, three axes", "Mamba", "Mamba-2",
        "attention and Mamba-2 side by side", "layers with one half each", "a mixture of mixers"
    };
    const int a = o - OPTIONS;
    mmix_decoder_config c = small(a < 0 || a == 5 ? MMIX_DECODER_MMATE : MMIX_DECODER_ATTENTION);
    if (a >= FORMS) return NULL;
    if (a >= MAMBA) mixture_of(a, &c);
    if (a < 0)
        snprintf(about, sizeof about, "M-MATE, %s", option(o, &c.mmate));
    else snprintf(about, sizeof about, "%s", names[a]);
    if (a == 1) {
        c.rope.interleaved = 1;
        c.rope.dim = 4;
        c.rope.theta = 100;
    }
    if (a == 2) {
        c.bias = 2;
        c.kv_heads = 1;
    }
    if (a == 3 || a == 5)
        c.rope.sections[0] = c.rope.sections[1] = c.rope.sections[2] = 1;
    if (a == 4) {
        c.bias = 0;
        c.tied = 1;
        c.kv_heads = 0;
        c.head_dim = 0;
        c.heads = 3;
    }
    return shaken(m, c);
}

/* Continues n tokens of text, from a context that begins anew. */
SHARED size_t generate(mmix_ctx *m, const mmix_decoder *d, const int32_t *prompt, size_t n,
                       const mmix_sampling *how, int32_t *made, size_t count)
{
    const size_t shape[2] = {1, n};
    mmix_sequence text;
    memset(&text, 0, sizeof text);
    mmix_reset(m);
    text.tokens = mmix_from_i32(m, 2, shape, prompt);
    return mmix_decoder_generate(m, d, &text, how, made, count);
}
SHARED mmix_real *logits_of(mmix_ctx *m, const mmix_decoder *d)
{
    mmix_sequence s = sequence(m, 1, 9);
    mmix_real *v = copied(mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL)));
    mmix_reset(m);
    return v;
}
enum { LOGITS = BATCH * TOKENS * WORDS };

/* ---- a layer alone ---- */

typedef struct alone {
    mmix_ctx *m;
    mmix_params *p;
    mmix_mmate_layer l;
    mmix_layout layout;
    mmix_tensor *x;
} alone;
/* D 12, 3 heads of 4, keys for one or three, shaken unless `fresh` */
SHARED alone layer(int o, size_t index, int fresh)
{
    alone a;
    mmix_mmate_options options;
    memset(&a, 0, sizeof a);
    memset(&options, 0, sizeof options);
    for (int i = 0; i < 3; i++)
        options.window[i] = 2;
    snprintf(about, sizeof about, "layer %d, %s", (int)index, option(o, &options));
    a.m = context(1, 0);
    a.p = mmix_params_create(a.m);
    CHECK_AT(!mmix_mmate_init(&a.l, a.p, "l.", 12, 3, index % 2 ? 1 : 3, 4, index, 1, &options),
             about);
    mmix_params_allocate(a.p);
    if (!fresh) shake(a.m, a.p, 0.3);
    a.l.rope.theta = 10000;
    a.layout.spans = spans;
    a.layout.n_spans = SPANS;
    a.x = mmix_fill_normal(a.m, mmix_new3(a.m, BATCH, TOKENS, 12), 1, 3);
    return a;
}
/* One branch of a layer by itself. */
SHARED mmix_mmate_layer branch_of(const mmix_mmate_layer *l, int branch)
{
    mmix_mmate_layer one = *l;
    one.options.branches = branch;
    return one;
}
SHARED mmix_tensor *flex_ma(mmix_ctx *m, const mmix_mmate_layer *l, mmix_tensor *x,
                            mmix_tensor *residual, const mmix_layout *layout)
{
    const mmix_mmate_layer one = branch_of(l, MMIX_BRANCH_FLEX);
    return mmix_mmate_forward(m, &one, x, residual, layout);
}
SHARED mmix_tensor *local_swin(mmix_ctx *m, const mmix_mmate_layer *l, mmix_tensor *x,
                               mmix_tensor *residual, const mmix_layout *layout)
{
    const mmix_mmate_layer one = branch_of(l, MMIX_BRANCH_SWIN);
    return mmix_mmate_forward(m, &one, x, residual, layout);
}
SHARED mmix_tensor *attention(mmix_ctx *m, const mmix_mmate_layer *l, mmix_tensor *x,
                              mmix_tensor *residual, const mmix_layout *layout)
{
    const mmix_mmate_layer one = branch_of(l, MMIX_BRANCH_ATTENTION);
    return mmix_mmate_forward(m, &one, x, residual, layout);
}
SHARED mmix_tensor *branch_matrix(mmix_ctx *m, const mmix_mmate_layer *l, int branch,
                                  mmix_tensor *x, const mmix_layout *layout)
{
    const mmix_mmate_layer one = branch_of(l, branch);
    return mmix_mmate_matrix(m, &one, x, layout);
}
SHARED void leave(alone *a)
{
    FINE(a->m);
    mmix_params_destroy(a->p);
    mmix_destroy(a->m);
}
SHARED void identity(mmix_tensor *w)
{
    mmix_fill(w, 0);
    for (size_t i = 0; i < mmix_shape(w, 0); i++)
        mmix_data(w)[i * mmix_shape(w, 1) + i] = 1;
}
SHARED mmix_mmate_layer layer_of(const mmix_decoder *d, mmix_params *p, size_t i)
{
    static const char *const names[4] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    const mmix_decoder_config *c = &d->config;
    mmix_mmate_layer l;
    char name[64];
    memset(&l, 0, sizeof l);
    l.options = c->mmate;
    l.index = i;
    for (int branch = 0; branch < 2; branch++) {
        mmix_projections *q = branch ? &l.swin : &l.flex;
        q->heads = c->heads;
        q->kv_heads = c->kv_heads;
        for (int k = 0; k < 4; k++) {
            snprintf(name, sizeof name, ".%s.%s.weight", branch ? "swin" : "flex", names[k]);
            q->weight[k] = named(p, i, name);
            snprintf(name, sizeof name, ".%s.%s.bias", branch ? "swin" : "flex", names[k]);
            q->bias[k] = named(p, i, name);
        }
    }
    l.dir[0].dt_proj = named(p, i, "dt_proj.weight");
    l.dir[0].dt_bias = named(p, i, "dt_bias");
    l.dir[0].A_log = named(p, i, "A_log");
    l.dir[1].dt_proj = named(p, i, "dt_proj_b.weight");
    l.dir[1].dt_bias = named(p, i, "dt_b_bias");
    l.dir[1].A_log = named(p, i, "A_log_b");
    l.gate_weight = named(p, i, "flex.gate.weight");
    l.gate_bias = named(p, i, "flex.gate.bias");
    l.rope = c->rope;
    if (l.rope.theta <= 0) l.rope.theta = 10000;
    return l;
}
/* Root mean square over the tokens of what head h of H brings: o's columns times M v. M (B, H, L,
   L), v (B, L, G N), o (D, H N). */
/* ---- distillation ---- */

enum { LAST_TEXT = 29 };                         /* the text behind the last span begins here */
SHARED mmix_decoder_config pupil(int mixer)
{
    mmix_decoder_config c = small(mixer);
    c.depth = 2;
    return c;
}
/* Questions of 30 and 31 tokens, answers of two and one. With `padded` the second row's last
   token only fills up. */
SHARED mmix_distill_batch batch_of(mmix_ctx *m, uint64_t number, int padded)
{
    mmix_distill_batch b;
    int32_t target[BATCH * TOKENS], mask[BATCH * TOKENS];
    const size_t shape[2] = {BATCH, TOKENS};
    memset(&b, 0, sizeof b);
    b.input = sequence(m, 1, 100 + number);
    if (!b.input.tokens) return b;
    for (size_t i = 0; i < BATCH * TOKENS; i++) {
        target[i] = -1;
        mask[i] = 1;
    }
    for (size_t r = 0; r < BATCH; r++)
        for (size_t i = LAST_TEXT + r; i + 1 < TOKENS; i++)
            target[r * TOKENS + i] = mmix_data_i32(b.input.tokens)[r * TOKENS + i + 1];
    if (padded) mask[2 * TOKENS - 1] = 0;
    b.target = mmix_from_i32(m, 2, shape, target);
    b.mask = padded ? mmix_from_i32(m, 2, shape, mask) : NULL;
    return b;
}
/* Row r of a batch as a batch of its own. */
SHARED mmix_distill_batch row_of(mmix_ctx *m, const mmix_distill_batch *b, size_t r)
{
    mmix_distill_batch one = *b;
    one.input.tokens = mmix_slice(m, b->input.tokens, 0, r, 1);
    one.input.media = mmix_slice(m, b->input.media, 0, r, 1);
    one.target = mmix_slice(m, b->target, 0, r, 1);
    one.mask = b->mask ? mmix_slice(m, b->mask, 0, r, 1) : NULL;
    return one;
}
SHARED mmix_stage stage(int train, double hidden, double token, double sequence_, double supervised,
                        size_t count)
{
    mmix_stage s;
    memset(&s, 0, sizeof s);
    s.train = train;
    s.hidden = hidden;
    s.token = token;
    s.sequence = sequence_;
    s.supervised = supervised;
    s.temperature = 1;
    s.steps = count;
    s.lr = s.min_lr = 3e-3;
    s.clip = 1;
    return s;
}
SHARED mmix_distill_config three_stages(size_t count)
{
    mmix_distill_config c = mmix_distill_config_linmu();
    for (size_t i = 0; i < c.stages; i++) {
        c.stage[i].steps = count;
        c.stage[i].warmup = 0;
        c.stage[i].lr = c.stage[i].min_lr = 3e-3;
    }
    c.lora_rank = 2;
    c.lora_alpha = 4;
    c.calibrate = 0;
    return c;
}
typedef struct Lesson {
    mmix_ctx *m;
    mmix_decoder *teacher, *student;
    mmix_distill *run;
    mmix_real *taught;
} Lesson;
SHARED Lesson lesson(mmix_distill_config config, int threads)
{
    Lesson l;
    mmix_decoder_config c = pupil(MMIX_DECODER_ATTENTION);
    l.m = context(threads, 0);
    l.teacher = shaken(l.m, c);
    l.taught = values(l.teacher->params);
    l.student = mmix_decoder_student(l.teacher, &c.mmate);
    l.run = mmix_distill_create(l.teacher, l.student, config);
    FINE(l.m);
    return l;
}
SHARED void end(Lesson *l)
{
    FINE(l->m);
    CHECK_AT(same_values(l->teacher->params, l->taught), "the teacher is untouched");
    free(l->taught);
    mmix_distill_destroy(l->run);
    mmix_decoder_destroy(l->student);
    mmix_decoder_destroy(l->teacher);
    mmix_destroy(l->m);
}
SHARED int teach(Lesson *l, uint64_t number, mmix_distill_stats *stats)
{
    mmix_distill_batch b = batch_of(l->m, number, number % 2 != 0);
    const int more = mmix_distill_step(l->run, &b, stats);
    mmix_reset(l->m);
    return more;
}
/* What a parameter trains with: the gate between the branches when both do. */
SHARED int group(const char *name)
{
    if (strstr(name, "lora_")) return MMIX_TRAIN_LORA;
    if (strstr(name, ".branch_gate.")) return MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN;
    if (strstr(name, ".flex.")) return MMIX_TRAIN_FLEX;
    if (strstr(name, ".swin.")) return MMIX_TRAIN_SWIN;
    return MMIX_TRAIN_REST;
}
/* Only what a stage names changes, and all of it does; `frozen` says so. */
#endif
