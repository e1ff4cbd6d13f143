/* decoder.c - decoders of text and media, M-MATE in the place of attention, conversion and distillation: what no
   token may see, pieces against the whole, matrices, adapters, files, stages, sampling, tokenizer, bad arguments,
   lack of memory, damaged files. Values are those of tests/golden.c.

   Run from the repository's root; files are written below build/. With ../shared/data there, the tokenizer of its
   model is among those that are tried. */
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int passed, failed, skipped;
static const double TOL = sizeof(mmix_real) == 8 ? 1e-11 : 1e-5;         /* rounding, of numbers around 1 */

static void check(int ok, int line, const char *what, const char *more)
{
    if (ok) passed++;
    else if (failed++ < 100) printf("tests/decoder.c:%d: %s %s\n", line, what, more ? more : "");
}
#define CHECK(x) check((x) != 0, __LINE__, #x, "")
#define CHECK_AT(x, where) check((x) != 0, __LINE__, #x, where)
/* a call that returned what says "refused", with a message of that kind that has this text in it */
#define REFUSED(m, bad, text) check((bad) && says(m, MMIX_ERROR_ARGUMENT, text), __LINE__, #bad, "")
#define FINE(m, where) check(fine(m), __LINE__, "no error", where)

static int says(mmix_ctx *m, int kind, const char *text)
{
    const int ok = mmix_error_kind(m) == kind && strstr(mmix_error(m), text);
    if (!ok) printf("  found: %s\n", mmix_error(m) ? mmix_error(m) : "no error");
    mmix_error_clear(m);
    return ok;
}
static int fine(mmix_ctx *m)
{
    const int ok = !mmix_error(m);
    if (!ok) printf("  found: %s\n", mmix_error(m));
    mmix_error_clear(m);
    return ok;
}
static mmix_ctx *context(int threads)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = threads;
    return mmix_create(&o);
}
static char about[128];                          /* the case in words */

/* ---- values ---- */

static mmix_real *copied(const mmix_tensor *t)   /* all elements; the caller frees */
{
    mmix_real *v = (mmix_real *)calloc(mmix_count(t) + 1, sizeof *v);
    if (!t || mmix_read(t, v)) v[0] = NAN;
    return v;
}
static double most(const mmix_real *a, const mmix_real *b, size_t n)         /* largest difference */
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = fabs((double)a[i] - (double)b[i]);
        if (!(e <= worst)) worst = isnan(e) ? 1e30 : e;
    }
    return worst;
}
static double apart(const mmix_tensor *a, const mmix_tensor *b)
{
    mmix_real *x = copied(a), *y = copied(b);
    const double worst = a && b && mmix_count(a) == mmix_count(b) ? most(x, y, mmix_count(a)) : 1e30;
    free(x), free(y);
    return worst;
}
/* What starts neutral or at zero no longer is: normal numbers are added, and all are floats in both builds. */
static void shake(mmix_ctx *m, mmix_params *p, double deviation)
{
    for (size_t i = 0; p && i < p->count; i++) {
        mmix_real *v = mmix_data(p->at[i].tensor);
        for (size_t e = 0; e < mmix_count(p->at[i].tensor); e++)
            v[e] = (mmix_real)(float)((double)v[e] + deviation * mmix_random_normal(m, 7, i, e));
    }
}
/* The parameter of a layer whose name ends so. */
static mmix_tensor *named(const mmix_params *p, size_t layer, const char *end)
{
    char part[32];
    snprintf(part, sizeof part, ".layers.%d.", (int)layer);
    for (size_t i = 0; i < p->count; i++) {
        const size_t length = strlen(p->at[i].name), n = strlen(end);
        if (strstr(p->at[i].name, part) && length > n && !strcmp(p->at[i].name + length - n, end)) return p->at[i].tensor;
    }
    return NULL;
}
/* A copy of a list's values, and the list's values are these. */
static mmix_real *values(const mmix_params *p)
{
    mmix_real *v = (mmix_real *)calloc(p->elements + 1, sizeof *v);
    for (size_t i = 0, at = 0; i < p->count; at += mmix_count(p->at[i++].tensor))
        memcpy(v + at, mmix_data(p->at[i].tensor), mmix_count(p->at[i].tensor) * sizeof *v);
    return v;
}
static int same_values(const mmix_params *p, const mmix_real *v)
{
    mmix_real *now = values(p);
    const int same = !memcmp(now, v, p->elements * sizeof *v);
    free(now);
    return same;
}
static int same_lists(const mmix_params *a, const mmix_params *b)
{
    int same = a && b && a->count == b->count && a->elements == b->elements;
    mmix_real *v = same ? values(b) : NULL;
    same = same && same_values(a, v);
    free(v);
    return same;
}

/* ---- a sequence: text, an image, text, one of the same size with a separator, text, a video, text ---- */

enum { TOKENS = 32, SPANS = 3, GRID = 20, FEATURES = 5, WORDS = 23, BATCH = 2 };
static const mmix_span spans[SPANS] = {{2, {1, 2, 3}, 0}, {10, {1, 2, 3}, 1}, {19, {2, 2, 2}, 1}};

static size_t frame(const mmix_span *s) { return s->grid[1] * s->grid[2] + s->separators; }
static size_t behind(const mmix_span *s) { return s->start + s->grid[0] * frame(s); }
static int span_of(size_t i)                     /* -1: text */
{
    for (int s = 0; s < SPANS; s++)
        if (i >= spans[s].start && i < behind(&spans[s])) return s;
    return -1;
}
static int feature_of(size_t i)                  /* the row of media; -1: text and separators */
{
    size_t row = 0;
    for (int s = 0; s < SPANS; row += spans[s].grid[0] * spans[s].grid[1] * spans[s].grid[2], s++)
        if (span_of(i) == s) {
            const size_t at = i - spans[s].start, in = at % frame(&spans[s]), plane = frame(&spans[s]) - spans[s].separators;
            return in < plane ? (int)(row + at / frame(&spans[s]) * plane + in) : -1;
        }
    return -1;
}
static mmix_sequence sequence(mmix_ctx *m, int media, uint64_t number)
{
    mmix_sequence s;
    int32_t token[BATCH * TOKENS];
    const size_t shape[2] = {BATCH, TOKENS};
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < BATCH * TOKENS; i++) token[i] = (int32_t)(mmix_random_u32(m, 11, number, i) % WORDS);
    s.tokens = mmix_from_i32(m, 2, shape, token);
    s.spans = spans;
    s.n_spans = SPANS;
    if (media) s.media = mmix_randn(m, mmix_new3(m, BATCH, GRID, FEATURES), 1, 50 + number);
    return s;
}
/* Its tokens from … to - 1; room for the spans in them. A span that is cut at `to` reaches beyond the end. */
static mmix_sequence piece(mmix_ctx *m, const mmix_sequence *s, size_t from, size_t to, mmix_span *room)
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
    if (s->media && in) p.media = mmix_slice(m, s->media, 1, before, in);
    return p;
}

/* ---- the decoders ---- */

static mmix_decoder_config small(int mixer)
{
    mmix_decoder_config c;
    memset(&c, 0, sizeof c);
    c.mixer = mixer;
    c.vocabulary = WORDS, c.dim = 12, c.depth = 4, c.ffn = 10;
    c.heads = 4, c.kv_heads = 2, c.head_dim = 6;
    c.media = FEATURES;
    c.bias = 1;
    for (int i = 0; i < 3; i++) c.mmate.window[i] = 2;
    return c;
}
enum { OPTIONS = 20, EVERYTHING = 19, SWIN_ONLY = 5 };
static const char *option(int o, mmix_mmate_options *x)
{
    static const char *const names[OPTIONS] = {"default", "mean", "sum", "branch gate", "flex alone", "swin alone", "one direction's dt",
        "skip", "convolution", "output gate", "norm", "causal window", "text window", "text window of 1", "shifts of period 4",
        "windows of 16", "gate and norm", "sum, no window in time", "convolution of 2, mean", "everything"};
    const int all = o == EVERYTHING;
    if (o == 1 || o == 18) x->directions = MMIX_FUSE_MEAN;
    if (o == 2 || o == 17) x->directions = MMIX_FUSE_SUM;
    if (o == 3 || all) x->branch_gate = 1;
    if (o == 4) x->branches = MMIX_BRANCH_FLEX;
    if (o == SWIN_ONLY) x->branches = MMIX_BRANCH_SWIN, x->text_window = 4;
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
static mmix_decoder *shaken(mmix_ctx *m, mmix_decoder_config c)
{
    mmix_decoder *d = mmix_decoder_create(m, c);
    if (d) shake(m, mmix_decoder_params(d), 0.3);
    FINE(m, about);
    return d;
}
/* Variant o: M-MATE with each option, then attention in its forms; NULL after the last. */
static mmix_decoder *variant(mmix_ctx *m, int o)
{
    static const char *const names[] = {"attention", "interleaved pairs", "biases everywhere, one key head", "three axes", "no biases, tied",
                                        "M-MATE, three axes"};
    const int a = o - OPTIONS;
    mmix_decoder_config c = small(a < 0 || a == 5 ? MMIX_DECODER_MMATE : MMIX_DECODER_ATTENTION);
    if (a > 5) return NULL;
    if (a < 0) snprintf(about, sizeof about, "M-MATE, %s", option(o, &c.mmate));
    else snprintf(about, sizeof about, "%s", names[a]);
    if (a == 1) c.rope.interleaved = 1, c.rope.dim = 4, c.rope.theta = 100;
    if (a == 2) c.bias = 2, c.kv_heads = 1;
    if (a == 3 || a == 5) c.rope.sections[0] = c.rope.sections[1] = c.rope.sections[2] = 1;
    if (a == 4) c.bias = 0, c.tied = 1, c.kv_heads = 0, c.head_dim = 0, c.heads = 3;
    return shaken(m, c);
}

/* ---- what no token may see ----

   No token of text depends on a later token, and none of a span on one behind the span: bit for bit, through four
   layers. Inside a span earlier tokens do change, and what is changed changes itself and the last token. */

static void perturbation(void)
{
    for (int o = 0; o < OPTIONS + 6; o++)
        for (int media = 0; media < 2; media++) {
            mmix_ctx *m = context(1);
            mmix_decoder *d = variant(m, o);
            mmix_real *base = NULL;
            const size_t D = mmix_decoder_config_of(d)->dim;
            const int attention = o >= OPTIONS && o < OPTIONS + 5;
            int leaks = 0, other = 0, itself = 0, earlier = 0, last = 0, grids = 0;
            for (size_t i = 0; i <= TOKENS; i++) {                   /* i = TOKENS: nothing changes */
                const size_t at = (i + TOKENS) % (TOKENS + 1);       /* which comes first */
                const int row = at < TOKENS ? feature_of(at) : -1, span = at < TOKENS ? span_of(at) : -1;
                int seen = 0;
                mmix_sequence s = sequence(m, media, 1);
                if (media && row >= 0) mmix_data(s.media)[row * FEATURES + 2] += 1;
                else if (at < TOKENS) mmix_data_i32(s.tokens)[at] = (mmix_data_i32(s.tokens)[at] + 5) % WORDS;
                mmix_real *y = copied(mmix_decoder_forward(m, d, &s, NULL));
                mmix_reset(m);
                if (at == TOKENS) { base = y; continue; }
                for (size_t j = 0; j < BATCH * TOKENS; j++) {
                    const int moved = memcmp(y + j * D, base + j * D, D * sizeof *y) != 0;
                    if (moved && j >= TOKENS) other++;
                    if (moved && j < at) {
                        if (span >= 0 && span_of(j) == span && !attention) seen = 1;
                        else leaks++;
                    }
                    if (moved && j == at) itself++;
                    if (moved && j == TOKENS - 1) last++;
                }
                if (row >= 0 && at > spans[span].start) grids++, earlier += seen;
                free(y);
            }
            CHECK_AT(!leaks && !other, about);
            CHECK_AT(itself == TOKENS, about);
            if (o == SWIN_ONLY) CHECK_AT(earlier >= grids - 4 && earlier > 0, about);
            else CHECK_AT(earlier == (attention ? 0 : grids) && last == TOKENS, about);
            FINE(m, about);
            free(base);
            mmix_decoder_destroy(d);
            mmix_destroy(m);
        }
}

/* ---- pieces and the whole ---- */

static void steps(void)
{
    for (int o = 0; o < OPTIONS + 6; o++)
        for (int media = 0; media < 2; media++) {
            mmix_ctx *m = context(1);
            mmix_decoder *d = variant(m, o);
            mmix_decoder_state *s = mmix_decoder_state_create(d), *other;
            mmix_sequence all = sequence(m, media, 2), p;
            mmix_span room[SPANS];
            mmix_real *whole = copied(mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &all, NULL)));
            double worst = 0;
#define NEAR(logits, at)                                                                                     \
    do {                                                                                                     \
        mmix_real *near_ = copied(logits);                                                                   \
        for (size_t b_ = 0; b_ < BATCH; b_++)                                                                \
            worst = fmax(worst, most(near_ + b_ * WORDS, whole + (b_ * TOKENS + (at)) * WORDS, WORDS));      \
        free(near_);                                                                                         \
    } while (0)
            {                                        /* a state that was cleared is as a new one, bit for bit */
                mmix_tensor *y = mmix_decoder_step(m, d, &all, s);
                mmix_decoder_state_clear(s);
                CHECK_AT(mmix_decoder_state_tokens(s) == 0 && apart(y, mmix_decoder_step(m, d, &all, s)) <= 0, about);
            }
            for (size_t cut = 1; cut <= TOKENS; cut++) {
                const int inside = cut < TOKENS && span_of(cut) >= 0 && span_of(cut) == span_of(cut - 1);
                mmix_mark mark = mmix_mark_here(m);
                mmix_tensor *y;
                mmix_decoder_state_clear(s);
                p = piece(m, &all, 0, cut, room);
                y = mmix_decoder_step(m, d, &p, s);
                if (inside) REFUSED(m, !y, "span");
                else {
                    NEAR(y, cut - 1);
                    CHECK_AT(mmix_decoder_state_tokens(s) == cut, about);
                    if (cut < TOKENS) {
                        p = piece(m, &all, cut, TOKENS, room);
                        NEAR(mmix_decoder_step(m, d, &p, s), TOKENS - 1);
                    }
                    FINE(m, about);
                }
                mmix_rewind(m, mark);
            }
            CHECK_AT(worst < TOL * 10, about);
            worst = 0;
            mmix_decoder_state_clear(s);
            other = NULL;
            for (size_t i = 0, to; i < TOKENS; i = to) {             /* token by token; spans are whole */
                mmix_mark mark = mmix_mark_here(m);
                mmix_tensor *y, *z;
                to = span_of(i) < 0 ? i + 1 : behind(&spans[span_of(i)]);
                p = piece(m, &all, i, to, room);
                y = mmix_decoder_step(m, d, &p, s);
                NEAR(y, to - 1);
                if (other) {                     /* the copy goes on alike */
                    z = mmix_decoder_step(m, d, &p, other);
                    CHECK_AT(apart(y, z) <= 0, about);
                }
                if (i == 9) other = mmix_decoder_state_copy(s);
                mmix_rewind(m, mark);
            }
            CHECK_AT(worst < TOL * 10 && mmix_decoder_state_tokens(other) == TOKENS, about);
            FINE(m, about);
            mmix_decoder_state_destroy(s);
            mmix_decoder_state_destroy(other);
            free(whole);
            mmix_decoder_destroy(d);
            mmix_destroy(m);
        }
#undef NEAR
}
/* What a state holds, after 40 and after 400 tokens more. */
static void constant_memory(void)
{
    for (int o = 0; o < OPTIONS + 6; o++) {
        mmix_ctx *m = context(1);
        mmix_decoder *d = variant(m, o);
        mmix_decoder_state *s = mmix_decoder_state_create(d);
        mmix_sequence all = sequence(m, 1, 2), p;
        mmix_span room[SPANS];
        size_t bytes[2] = {0, 0}, held[2] = {0, 0};
        const size_t window = mmix_decoder_config_of(d)->mmate.text_window;
        mmix_decoder_step(m, d, &all, s);
        p = piece(m, &all, 0, 1, room);
        for (int i = 1; i <= 400; i++) {
            mmix_mark mark = mmix_mark_here(m);
            mmix_decoder_step(m, d, &p, s);
            mmix_rewind(m, mark);
            if (i == 40 || i == 400) bytes[i > 40] = mmix_decoder_state_bytes(s), held[i > 40] = mmix_memory(m).bytes;
        }
        CHECK_AT(bytes[0] > 0 && mmix_decoder_state_tokens(s) == TOKENS + 400, about);
        if (o >= OPTIONS && o < OPTIONS + 5) CHECK_AT(bytes[1] > 3 * bytes[0], about);
        else CHECK_AT(window ? bytes[1] <= bytes[0] : bytes[1] == bytes[0], about);
        if (o < OPTIONS) CHECK_AT(held[1] == held[0], about);
        FINE(m, about);
        mmix_decoder_state_destroy(s);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

/* ---- a layer alone: matrices, neutral starts, residuals ---- */

typedef struct alone { mmix_ctx *m; mmix_params *p; mmix_mmate_layer l; mmix_layout layout; mmix_tensor *x; } alone;
/* D 12, 3 heads of 4, keys for one or three, shaken unless `fresh` */
static alone layer(int o, size_t index, int fresh)
{
    alone a;
    mmix_mmate_options options;
    memset(&a, 0, sizeof a);
    memset(&options, 0, sizeof options);
    for (int i = 0; i < 3; i++) options.window[i] = 2;
    snprintf(about, sizeof about, "layer %d, %s", (int)index, option(o, &options));
    a.m = context(1);
    a.p = mmix_params_create(a.m);
    CHECK_AT(!mmix_mmate_init(&a.l, a.p, "l.", 12, 3, index % 2 ? 1 : 3, 4, index, 1, &options), about);
    mmix_params_allocate(a.p);
    if (!fresh) shake(a.m, a.p, 0.3);
    a.l.rope.theta = 10000;
    a.layout.spans = spans;
    a.layout.n_spans = SPANS;
    a.x = mmix_randn(a.m, mmix_new3(a.m, BATCH, TOKENS, 12), 1, 3);
    return a;
}
static void leave(alone *a)
{
    FINE(a->m, about);
    mmix_params_destroy(a->p);
    mmix_destroy(a->m);
}
static void identity(mmix_tensor *w)
{
    mmix_fill(w, 0);
    for (size_t i = 0; i < mmix_shape(w, 0); i++) mmix_data(w)[i * mmix_shape(w, 1) + i] = 1;
}
static void matrices(void)
{
    for (int o = 0; o < OPTIONS; o++)
        for (size_t index = 0; index < 4; index++)
            for (int branch = 0; branch < 2; branch++) {
                alone a = layer(o, index, 0);
                const mmix_projections *p = branch ? &a.l.swin : &a.l.flex;
                if ((!branch && (a.l.options.conv_width > 1 || a.l.options.output_gate || a.l.options.norm))
                    || a.l.options.branches == (branch ? MMIX_BRANCH_FLEX : MMIX_BRANCH_SWIN)) {
                    leave(&a);
                    continue;
                }
                identity(p->weight[3]);
                mmix_real *v = copied(mmix_linear(a.m, a.x, p->weight[2], p->bias[2]));
                mmix_real *y = copied(branch ? mmix_local_swin(a.m, &a.l, a.x, NULL, &a.layout) : mmix_flex_ma(a.m, &a.l, a.x, NULL, &a.layout));
                mmix_tensor *matrix = branch ? mmix_local_swin_matrix(a.m, &a.l, a.x, &a.layout) : mmix_flex_ma_matrix(a.m, &a.l, a.x, &a.layout);
                mmix_real *M = copied(matrix);
                double worst = 0, rows = 0;
                CHECK_AT(mmix_count(matrix) == BATCH * 3 * TOKENS * TOKENS && mmix_ndim(matrix) == 4, about);
                for (size_t b = 0; b < BATCH && matrix; b++)
                    for (size_t h = 0; h < 3; h++)
                        for (size_t i = 0; i < TOKENS; i++) {
                            const mmix_real *row = M + ((b * 3 + h) * TOKENS + i) * TOKENS;
                            const size_t G = p->kv_heads, g = h / (3 / G);
                            const int takes_part = feature_of(i) >= 0 || (span_of(i) < 0 && a.l.options.text_window);
                            double sum = 0, sums[4] = {0, 0, 0, 0};
                            for (size_t j = 0; j < TOKENS; j++) {
                                sum += (double)row[j];
                                for (size_t n = 0; n < 4; n++)
                                    sums[n] += (double)row[j] * (double)v[(b * TOKENS + j) * 4 * G + g * 4 + n];
                            }
                            for (size_t n = 0; n < 4; n++)
                                worst = fmax(worst, fabs(sums[n] - (double)y[(b * TOKENS + i) * 12 + h * 4 + n]));
                            rows = fmax(rows, fabs(sum - takes_part));
                        }
                CHECK_AT(worst < TOL * 10, about);
                if (branch) CHECK_AT(rows < TOL, about);
                free(v), free(y), free(M);
                leave(&a);
            }
}
/* Convolution, output gate and skip change nothing before they have learned. */
static void neutral(void)
{
    static const int neutral_options[] = {7, 8, 9, 18};
    for (size_t i = 0; i < 4; i++) {
        const size_t n = BATCH * TOKENS * 12;
        mmix_real *zero = (mmix_real *)calloc(n, sizeof *zero);
        alone plain = layer(i == 3 ? 1 : 0, 1, 1), a = layer(neutral_options[i], 1, 1), moved = layer(neutral_options[i], 1, 0);
        mmix_real *y = copied(mmix_flex_ma(plain.m, &plain.l, plain.x, NULL, &plain.layout));
        mmix_real *z = copied(mmix_flex_ma(a.m, &a.l, a.x, NULL, &a.layout));
        mmix_real *w = copied(mmix_flex_ma(moved.m, &moved.l, moved.x, NULL, &moved.layout));
        CHECK_AT(most(y, z, n) <= TOL / 10 * most(y, zero, n) && most(z, zero, n) > 0 && most(z, w, n) > 0.1, about);
        CHECK_AT(a.p->elements > plain.p->elements, about);
        free(y), free(z), free(w), free(zero);
        leave(&plain), leave(&a), leave(&moved);
    }
}
typedef mmix_tensor *face(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x, mmix_tensor *residual, const mmix_layout *layout);
static mmix_tensor *causal(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x, mmix_tensor *residual, const mmix_layout *layout)
{
    return mmix_causal_attention(m, &layer->flex, x, residual, &layer->rope, layout);
}
/* x in three pieces, with a state. */
static mmix_tensor *in_pieces(alone *a, face *f)
{
    static const size_t at[4] = {0, 9, 18, TOKENS};
    mmix_tensor *part[3];
    mmix_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.state = mmix_state_create(a->m, 3);
    layout.slot = 1;
    for (size_t i = 0; i < 3; i++) {             /* a span in each */
        mmix_span one = spans[i];
        one.start -= at[i];
        layout.spans = &one;
        layout.n_spans = 1;
        part[i] = f(a->m, &a->l, mmix_slice(a->m, a->x, 1, at[i], at[i + 1] - at[i]), NULL, &layout);
    }
    mmix_state_destroy(layout.state);
    return mmix_concat(a->m, 1, part, 3);
}
/* mmix_mmate is the branches' sum; a residual is added; pieces give the whole; text alone is what no layout means; a run
   of text may be cut anywhere with Flex-MA's state handed on. */
static void layer_faces(void)
{
    for (int o = 0; o < OPTIONS; o++) {
        alone a = layer(o, 2, 0);
        mmix_ctx *m = a.m;
        mmix_tensor *r = mmix_randn(m, mmix_new3(m, BATCH, TOKENS, 12), 1, 4);
        mmix_tensor *both = mmix_mmate(m, &a.l, a.x, NULL, &a.layout), *with = mmix_mmate(m, &a.l, a.x, r, &a.layout);
        mmix_tensor *flex = NULL, *swin = NULL, *last = NULL;
        mmix_layout none;
        if (a.l.options.branches != MMIX_BRANCH_SWIN) flex = mmix_flex_ma(m, &a.l, a.x, NULL, &a.layout);
        if (a.l.options.branches != MMIX_BRANCH_FLEX) swin = mmix_local_swin(m, &a.l, a.x, NULL, &a.layout);
        if (!a.l.options.branch_gate) CHECK_AT(apart(both, flex && swin ? mmix_add(m, flex, swin) : flex ? flex : swin) < TOL, about);
        CHECK_AT(apart(with, mmix_add(m, both, r)) < TOL, about);
        if (flex) CHECK_AT(apart(mmix_flex_ma(m, &a.l, a.x, r, &a.layout), mmix_add(m, flex, r)) < TOL, about);
        if (swin) CHECK_AT(apart(mmix_local_swin(m, &a.l, a.x, r, &a.layout), mmix_add(m, swin, r)) < TOL, about);
        memset(&none, 0, sizeof none);
        both = mmix_mmate(m, &a.l, a.x, NULL, &none);
        CHECK_AT(apart(both, mmix_mmate(m, &a.l, a.x, NULL, NULL)) <= 0, about);
        CHECK_AT(apart(in_pieces(&a, mmix_mmate), mmix_mmate(m, &a.l, a.x, NULL, &a.layout)) < TOL, about);
        if (flex) {
            CHECK_AT(apart(in_pieces(&a, mmix_flex_ma), flex) < TOL, about);
            CHECK_AT(apart(in_pieces(&a, causal), causal(m, &a.l, a.x, NULL, &a.layout)) < TOL, about);
        }
        if (swin) CHECK_AT(apart(in_pieces(&a, mmix_local_swin), swin) < TOL, about);
        if (flex && a.l.options.conv_width < 2) {
            mmix_tensor *part[2], *whole = mmix_flex_ma(m, &a.l, a.x, NULL, NULL);
            none.final_state = &last;
            part[0] = mmix_flex_ma(m, &a.l, mmix_slice(m, a.x, 1, 0, 13), NULL, &none);
            none.final_state = NULL;
            none.initial_state = last;
            part[1] = mmix_flex_ma(m, &a.l, mmix_slice(m, a.x, 1, 13, TOKENS - 13), NULL, &none);
            CHECK_AT(apart(whole, mmix_concat(m, 1, part, 2)) < TOL, about);
        }
        leave(&a);
    }
}

/* ---- conversion ---- */

static mmix_mmate_layer layer_of(const mmix_decoder *d, mmix_params *p, size_t i)
{
    static const char *const names[4] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    const mmix_decoder_config *c = mmix_decoder_config_of(d);
    mmix_mmate_layer l;
    char name[64];
    memset(&l, 0, sizeof l);
    l.options = c->mmate;
    l.index = i;
    for (int branch = 0; branch < 2; branch++) {
        mmix_projections *q = branch ? &l.swin : &l.flex;
        q->heads = c->heads, q->kv_heads = c->kv_heads;
        for (int k = 0; k < 4; k++) {
            snprintf(name, sizeof name, ".%s.%s.weight", branch ? "swin" : "flex", names[k]);
            q->weight[k] = named(p, i, name);
            snprintf(name, sizeof name, ".%s.%s.bias", branch ? "swin" : "flex", names[k]);
            q->bias[k] = named(p, i, name);
        }
    }
    l.dir[0].dt_proj = named(p, i, "dt_proj.weight"), l.dir[0].dt_bias = named(p, i, "dt_bias"), l.dir[0].A_log = named(p, i, "A_log");
    l.dir[1].dt_proj = named(p, i, "dt_proj_b.weight"), l.dir[1].dt_bias = named(p, i, "dt_b_bias"), l.dir[1].A_log = named(p, i, "A_log_b");
    l.gate_weight = named(p, i, "flex.gate.weight"), l.gate_bias = named(p, i, "flex.gate.bias");
    l.rope = c->rope;
    if (l.rope.theta <= 0) l.rope.theta = 10000;
    return l;
}
/* Root mean square over the tokens of what head h of H brings: o's columns times M v. M (B, H, L, L), v (B, L, G N),
   o (D, H N). */
static double brings(const mmix_real *M, const mmix_real *v, const mmix_tensor *o, size_t H, size_t G, size_t N, size_t h)
{
    double square = 0, y[64];
    for (size_t b = 0; b < BATCH; b++)
        for (size_t i = 0; i < TOKENS; i++) {
            const mmix_real *row = M + ((b * H + h) * TOKENS + i) * TOKENS;
            for (size_t n = 0; n < N; n++) {
                y[n] = 0;
                for (size_t j = 0; j < TOKENS; j++) y[n] += (double)row[j] * (double)v[((b * TOKENS + j) * G + h * G / H) * N + n];
            }
            for (size_t d = 0; d < mmix_shape(o, 0); d++) {
                double sum = 0;
                for (size_t n = 0; n < N; n++) sum += (double)mmix_data(o)[(d * H + h) * N + n] * y[n];
                square += sum * sum;
            }
        }
    return sqrt(square / (BATCH * TOKENS * (double)mmix_shape(o, 0)));
}
/* What o's columns of a head were multiplied by, NAN if not all of them by the same. */
static double scaled(const mmix_tensor *to, const mmix_tensor *from, size_t N, size_t h)
{
    const size_t wide = mmix_shape(to, 1);
    const double factor = (double)mmix_data(to)[h * N] / (double)mmix_data(from)[h * N];
    for (size_t d = 0; d < mmix_shape(to, 0); d++)
        for (size_t n = 0; n < N; n++) {
            const size_t at = d * wide + h * N + n;
            if (fabs((double)mmix_data(to)[at] / (double)mmix_data(from)[at] / factor - 1) > TOL) return NAN;
        }
    return factor;
}
static void conversion(void)
{
    static const char *const parts[] = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight", "q_proj.bias",
                                        "k_proj.bias", "v_proj.bias"};
    for (int way = 0; way < 3; way++) {          /* as converted; calibrated; with a gate between the branches */
        const int calibrate = way == 1;
        mmix_ctx *m = context(1);
        mmix_decoder_config c = small(MMIX_DECODER_ATTENTION);
        mmix_decoder *teacher, *student;
        mmix_params *p, *q;
        mmix_sequence s;
        size_t copies = 0;
        mmix_tensor *normed[4], *mixed[4];
        mmix_decoder_options look;
        snprintf(about, sizeof about, "conversion, way %d", way);
        c.mmate.branch_gate = way == 2;
        teacher = shaken(m, c);
        p = mmix_decoder_params(teacher);
        mmix_real *before = values(p);
        student = mmix_linmu_from(teacher, &c.mmate);
        q = mmix_decoder_params(student);
        s = sequence(m, 1, 5);
        CHECK(mmix_decoder_config_of(student)->mixer == MMIX_DECODER_MMATE && mmix_decoder_config_of(student)->head_dim == 6);
        for (size_t i = 0; i < p->count; i++) {                      /* what has its name in both is equal */
            const mmix_tensor *t = mmix_params_find(q, p->at[i].name);
            if (t) CHECK_AT(apart(t, p->at[i].tensor) <= 0, p->at[i].name), copies++;
        }
        CHECK(copies == p->count - 7 * c.depth);
        for (size_t l = 0; l < c.depth; l++)
            for (size_t k = 0; k < 7; k++)
                for (int branch = 0; branch < 2; branch++) {
                    char name[64];
                    snprintf(name, sizeof name, "%s.%s", branch ? "swin" : "flex", parts[k]);
                    CHECK_AT(apart(named(q, l, name), named(p, l, parts[k])) <= 0, name);
                }
        memset(&look, 0, sizeof look);
        look.normed = normed;
        if (calibrate) CHECK(!mmix_linmu_calibrate(student, teacher, &s));
        for (size_t l = 0; way == 2 && l < c.depth; l++)
            mmix_randn(m, named(q, l, "branch_gate.weight"), 1, 60 + l), mmix_randn(m, named(q, l, "branch_gate.bias"), 1, 70 + l);
        mmix_real *kept = values(q);
        if (calibrate) {                         /* once more changes nothing */
            CHECK(!mmix_linmu_calibrate(student, teacher, &s));
            mmix_real *again = values(q);
            CHECK(most(again, kept, q->elements) < TOL * 10);
            free(kept);
            kept = again;
        }
        CHECK(mmix_decoder_forward(m, teacher, &s, &look));
        for (size_t l = 0; l < c.depth; l++) {                       /* heads of both on the teacher's inputs */
            mmix_mmate_layer one = layer_of(student, q, l);
            mmix_layout layout;
            mmix_tensor *wv = named(p, l, "v_proj.weight"), *bv = named(p, l, "v_proj.bias");
            memset(&layout, 0, sizeof layout);
            layout.spans = spans;
            layout.n_spans = SPANS;
            mmix_real *v = copied(mmix_linear(m, normed[l], wv, bv));
            mmix_real *M = copied(mmix_decoder_matrix(m, teacher, &s, l)), *F = copied(mmix_flex_ma_matrix(m, &one, normed[l], &layout));
            for (size_t h = 0; h < 4; h++) {
                const mmix_tensor *its = named(p, l, "o_proj.weight");
                const double theirs = brings(M, v, its, 4, 2, 6, h), ours = brings(F, v, one.flex.weight[3], 4, 2, 6, h);
                const double factor = scaled(one.flex.weight[3], its, 6, h);
                CHECK_AT(calibrate ? fabs(ours / theirs - 1) < TOL * 100 && fabs(factor - 1) > 1e-3 : fabs(factor - 1) <= 0, "a head's size");
            }
            free(v), free(M), free(F);
        }
        look.normed = normed, look.mixed = mixed;
        CHECK(mmix_decoder_forward(m, student, &s, &look));
        if (!calibrate)                          /* both branches have the same v and o: mixed = o (M v) */
            for (size_t l = 0; l < c.depth; l++) {
                mmix_tensor *v = mmix_linear(m, normed[l], named(p, l, "v_proj.weight"), named(p, l, "v_proj.bias"));
                mmix_tensor *M = mmix_decoder_matrix(m, student, &s, l), *part[4];
                for (size_t h = 0; h < 4; h++) {
                    mmix_tensor *Mh = mmix_reshape(m, mmix_slice(m, M, 1, h, 1), 3, (const size_t[]){BATCH, TOKENS, TOKENS});
                    part[h] = mmix_matmul(m, Mh, mmix_slice(m, v, 2, h / 2 * 6, 6));
                }
                CHECK_AT(apart(mixed[l], mmix_linear(m, mmix_concat(m, 2, part, 4), named(p, l, "o_proj.weight"), NULL)) < TOL * 10, about);
            }
        CHECK(same_values(p, before) && same_values(q, kept));
        FINE(m, about);
        free(before), free(kept);
        mmix_decoder_destroy(student);
        mmix_decoder_destroy(teacher);
        mmix_destroy(m);
    }
}
/* A teacher's adapters go into the student, as mmix_decoder_merge would put them into its weights. */
static void conversion_of_adapters(void)
{
    mmix_ctx *m = context(1);
    mmix_decoder *teacher = shaken(m, small(MMIX_DECODER_ATTENTION)), *plain, *before, *after;
    snprintf(about, sizeof about, "conversion of adapters");
    plain = mmix_linmu_from(teacher, NULL);
    CHECK(!mmix_decoder_lora(teacher, 2, 4, MMIX_LORA_FFN | MMIX_LORA_MIXER));
    shake(m, mmix_decoder_adapters(teacher), 0.3);
    before = mmix_linmu_from(teacher, NULL);
    CHECK(mmix_decoder_adapters(teacher) && !mmix_decoder_adapters(before) && !mmix_decoder_merge(teacher));
    after = mmix_linmu_from(teacher, NULL);
    FINE(m, about);
    CHECK(same_lists(mmix_decoder_params(before), mmix_decoder_params(after)) && !same_lists(mmix_decoder_params(before), mmix_decoder_params(plain)));
    mmix_decoder_destroy(plain), mmix_decoder_destroy(before), mmix_decoder_destroy(after);
    mmix_decoder_destroy(teacher);
    mmix_destroy(m);
}
/* The places that mmix_decoder_forward fills, and inputs in place of the layer before. */
static void inside(void)
{
    for (int o = 0; o < OPTIONS + 6; o += 3) {
        mmix_ctx *m = context(1);
        mmix_decoder *d = variant(m, o);
        mmix_params *p = mmix_decoder_params(d);
        mmix_sequence s = sequence(m, 1, 6);
        mmix_tensor *mixed[4], *outputs[4], *normed[4], *inputs[4] = {NULL, NULL, NULL, NULL}, *x, *y;
        mmix_decoder_options look;
        memset(&look, 0, sizeof look);
        look.mixed = mixed, look.outputs = outputs, look.normed = normed;
        y = mmix_decoder_forward(m, d, &s, &look);
        CHECK_AT(apart(y, mmix_decoder_forward(m, d, &s, NULL)) < TOL * 10, about);
        for (size_t l = 1; l < 4; l++) {
            mmix_swiglu_layer ffn;
            memset(&ffn, 0, sizeof ffn);
            x = mmix_add(m, outputs[l - 1], mixed[l]);
            CHECK_AT(apart(normed[l], mmix_rms_norm(m, outputs[l - 1], named(p, l, "input_layernorm.weight"), 1e-5)) < TOL, about);
            ffn.gate = named(p, l, "gate_proj.weight"), ffn.up = named(p, l, "up_proj.weight"), ffn.down = named(p, l, "down_proj.weight");
            y = mmix_swiglu(m, &ffn, mmix_rms_norm(m, x, named(p, l, "post_attention_layernorm.weight"), 1e-5), x, NULL);
            CHECK_AT(apart(outputs[l], y) < TOL * 10, about);
        }
        inputs[0] = mmix_randn(m, mmix_new3(m, BATCH, TOKENS, 12), 1, 8);
        for (int l = 1; l < 4; l++) inputs[l] = outputs[l - 1];
        mmix_tensor *last = outputs[3], *first = outputs[0];
        look.inputs = inputs;
        mmix_decoder_forward(m, d, &s, &look);
        CHECK_AT(apart(outputs[3], last) <= TOL && apart(outputs[0], first) > 0.1, about);       /* each reads its own */
        FINE(m, about);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

/* ---- adapters, files ---- */

#define FOLDER "build/decoder_test"
#define PATH FOLDER "/model.safetensors"
#define PATH2 FOLDER "/other.safetensors"

static mmix_real *logits_of(mmix_ctx *m, const mmix_decoder *d)
{
    mmix_sequence s = sequence(m, 1, 9);
    mmix_real *v = copied(mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL)));
    mmix_reset(m);
    return v;
}
enum { LOGITS = BATCH * TOKENS * WORDS };
static void adapters(void)
{
    for (int o = 0; o < OPTIONS + 6; o += o < OPTIONS ? 5 : 2)
        for (int targets = 1; targets < 4; targets++) {
            mmix_ctx *m = context(1);
            mmix_decoder *d = variant(m, o), *back;
            mmix_params *p;
            mmix_real *plain = logits_of(m, d), *y, *z;
            CHECK_AT(!mmix_decoder_adapters(d) && !mmix_decoder_lora(d, 3, 6, targets), about);
            p = mmix_decoder_adapters(d);
            CHECK_AT(p && p->count && p->count % 2 == 0, about);
            y = logits_of(m, d);
            CHECK_AT(most(plain, y, LOGITS) <= 0, about);            /* B = 0 */
            free(y);
            shake(m, p, 0.3);
            y = logits_of(m, d);
            CHECK_AT(most(plain, y, LOGITS) > 0.01, about);
            {                                    /* the steps use them, too */
                mmix_sequence s = sequence(m, 1, 9);
                mmix_decoder_state *state = mmix_decoder_state_create(d);
                mmix_real *last = copied(mmix_decoder_step(m, d, &s, state));
                for (size_t b = 0; b < BATCH; b++)
                    CHECK_AT(most(last + b * WORDS, y + ((b + 1) * TOKENS - 1) * WORDS, WORDS) < TOL * 10, about);
                free(last);
                mmix_decoder_state_destroy(state);
                mmix_reset(m);
            }
            mmix_real *apart_from = values(mmix_decoder_params(d));
            CHECK_AT(!mmix_decoder_save(d, PATH), about);
            CHECK_AT(same_values(mmix_decoder_params(d), apart_from) && mmix_decoder_adapters(d) == p, about);
            back = mmix_decoder_open(m, PATH);
            z = logits_of(m, back);
            CHECK_AT(back && !mmix_decoder_adapters(back) && most(y, z, LOGITS) < TOL * 30, about);
            free(z);
            CHECK_AT(!mmix_decoder_merge(d) && !mmix_decoder_adapters(d), about);
            z = logits_of(m, d);
            CHECK_AT(most(y, z, LOGITS) < TOL * 30, about);
            CHECK_AT(same_lists(mmix_decoder_params(d), mmix_decoder_params(back)), about);
            FINE(m, about);
            free(apart_from), free(plain), free(y), free(z);
            mmix_decoder_destroy(back);
            mmix_decoder_destroy(d);
            mmix_destroy(m);
        }
}
static void round_trip(void)
{
    for (int o = 0; o < OPTIONS + 6; o++) {
        mmix_ctx *m = context(1);
        mmix_decoder *d = variant(m, o), *back;
        CHECK_AT(!mmix_decoder_save(d, PATH), about);
        back = mmix_decoder_open(m, PATH);
        FINE(m, about);
        if (back) {
            const mmix_decoder_config *a = mmix_decoder_config_of(d), *b = mmix_decoder_config_of(back);
            mmix_real *y = logits_of(m, d), *z = logits_of(m, back);
            CHECK_AT(same_lists(mmix_decoder_params(d), mmix_decoder_params(back)) && most(y, z, LOGITS) <= 0, about);
            CHECK_AT(a->mixer == b->mixer && a->tied == b->tied && a->bias == b->bias && a->media == b->media && a->depth == b->depth
                     && a->mmate.text_window == b->mmate.text_window && a->mmate.shift_period == b->mmate.shift_period
                     && a->rope.sections[2] == b->rope.sections[2], about);
            free(y), free(z);
        }
        mmix_decoder_destroy(back);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}
static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    if (f) fputs(text, f), fclose(f);
}
/* Parameters alone, as Hugging Face has them, and config.json beside. */
static void hugging_face(void)
{
    enum { MANY = 128 };
    static const struct { const char *edit_from, *edit_to, *message; } wrong[] = {
        {"\"hidden_size\": 12", "\"hidden_size\": 13", ""}, {"\"hidden_size\": 12,", "", "hidden_size"},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", ""}, {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": -2", ""},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1e18", ""},
        {"\"vocab_size\": 23", "\"vocab_size\": 24", ""}, {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", ""},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 0", ""}, {"\"intermediate_size\": 10", "\"intermediate_size\": \"ten\"", ""},
        {"{", "", ""}, {"\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"", "gpt2"}};
    for (int kind = 0; kind < 3; kind++) {       /* Llama; Qwen2; Llama tied and with keys for each head */
        mmix_ctx *m = context(1);
        mmix_decoder_config c = small(MMIX_DECODER_ATTENTION);
        mmix_entry e[MANY];
        mmix_params *p;
        mmix_decoder *d, *back;
        char config[1024], text[1024];
        size_t n = 0;
        snprintf(about, sizeof about, "config.json, kind %d", kind);
        c.media = 0, c.depth = 2, c.head_dim = 3, c.bias = kind == 1, c.tied = kind == 2;
        c.rope.dim = 2;
        if (kind == 2) c.kv_heads = 4;
        c.rope.dim = 0, c.rope.theta = 500, c.eps = 1e-3, c.head_dim = 4, c.heads = 4;
        d = shaken(m, c);
        p = mmix_decoder_params(d);
        memset(e, 0, sizeof e);
        for (; n < p->count && n < MANY; n++) {
            e[n].name = p->at[n].name, e[n].dtype = MMIX_FILE_REAL, e[n].ndim = mmix_ndim(p->at[n].tensor), e[n].data = mmix_data(p->at[n].tensor);
            for (int i = 0; i < e[n].ndim; i++) e[n].shape[i] = mmix_shape(p->at[n].tensor, i);
        }
        mmix_safetensors_save(m, PATH, e, n, NULL);
        snprintf(config, sizeof config, "{\"architectures\": [\"X\"], \"model_type\": \"%s\", \"hidden_size\": 12, \"intermediate_size\": 10,"
                 " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": %d, \"head_dim\": 4, \"rms_norm_eps\": 1e-3,"
                 " \"rope_theta\": 500.0, \"vocab_size\": 23, \"tie_word_embeddings\": %s, \"hidden_act\": \"silu\"}\n",
                 kind == 1 ? "qwen2" : "llama", (int)c.kv_heads, kind == 2 ? "true" : "false");
        write_text(FOLDER "/config.json", config);
        back = mmix_decoder_open(m, PATH);
        FINE(m, about);
        if (back) {
            mmix_sequence s = sequence(m, 0, 9);
            s.n_spans = 0;
            CHECK_AT(apart(mmix_decoder_forward(m, d, &s, NULL), mmix_decoder_forward(m, back, &s, NULL)) <= 0, about);
            CHECK_AT(same_lists(p, mmix_decoder_params(back)) && mmix_decoder_config_of(back)->tied == c.tied, about);
        }
        mmix_decoder_destroy(back);
        for (size_t i = 0; kind == 0 && i < sizeof wrong / sizeof *wrong; i++) {
            const char *at = strstr(config, wrong[i].edit_from);
            snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - config) : 0, config, wrong[i].edit_to, at ? at + strlen(wrong[i].edit_from) : "");
            write_text(FOLDER "/config.json", text);
            back = mmix_decoder_open(m, PATH);
            check(at && !back && says(m, MMIX_ERROR_FILE, wrong[i].message), __LINE__, "a wrong config.json", wrong[i].edit_to);
            mmix_decoder_destroy(back);
            mmix_reset(m);
        }
        remove(FOLDER "/config.json");
        CHECK_AT(!mmix_decoder_open(m, PATH) && says(m, MMIX_ERROR_FILE, "config.json"), about);
        CHECK(!mmix_decoder_open(m, FOLDER "/not there") && says(m, MMIX_ERROR_FILE, "cannot be opened"));
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

/* ---- llama2.c's files ---- */

typedef struct Bytes { unsigned char *at; size_t n, room; } Bytes;
static void put(Bytes *b, const void *data, size_t n)
{
    while (b->n + n > b->room) b->at = (unsigned char *)realloc(b->at, b->room = 2 * b->room + 4096);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}
static void put_i32(Bytes *b, int v) { const int32_t x = v; put(b, &x, 4); }
static void put_f32(Bytes *b, double v) { const float x = (float)v; put(b, &x, 4); }
static void put_tensor(Bytes *b, const mmix_tensor *t) { for (size_t i = 0; i < mmix_count(t); i++) put_f32(b, (double)mmix_data(t)[i]); }

enum { DEPTH2C = 2 };
static Bytes llama2c_file(const mmix_decoder *d, mmix_params *p)
{
    static const char *const each[9] = {"input_layernorm.weight", "q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight",
                                        "post_attention_layernorm.weight", "gate_proj.weight", "down_proj.weight", "up_proj.weight"};
    const mmix_decoder_config *c = mmix_decoder_config_of(d);
    const int words = (int)c->vocabulary, header[7] = {(int)c->dim, (int)c->ffn, (int)c->depth, (int)c->heads, (int)c->kv_heads,
                                                       c->tied ? words : -words, 16};
    Bytes b;
    memset(&b, 0, sizeof b);
    for (int i = 0; i < 7; i++) put_i32(&b, header[i]);
    put_tensor(&b, mmix_params_find(p, "model.embed_tokens.weight"));
    for (int k = 0; k < 9; k++)
        for (size_t l = 0; l < c->depth; l++) put_tensor(&b, named(p, l, each[k]));
    put_tensor(&b, mmix_params_find(p, "model.norm.weight"));
    for (size_t i = 0; i < 16 * c->dim / c->heads; i++) put_f32(&b, 0);
    if (!c->tied) put_tensor(&b, mmix_params_find(p, "lm_head.weight"));
    return b;
}
static void llama2c(void)
{
    for (int tied = 0; tied < 2; tied++) {
        mmix_options limits;
        memset(&limits, 0, sizeof limits);
        limits.threads = 1;
        limits.allocator.byte_limit = (size_t)1 << 26;
        mmix_ctx *m = mmix_create(&limits);
        mmix_decoder_config c = small(MMIX_DECODER_ATTENTION);
        c.tied = tied, c.dim = 8, c.heads = 2, c.kv_heads = 1, c.head_dim = 0, c.media = 0, c.depth = DEPTH2C, c.bias = 0, c.rope.interleaved = 1;
        snprintf(about, sizeof about, "llama2.c, tied %d", tied);
        mmix_decoder *d = shaken(m, c), *back;
        Bytes b = llama2c_file(d, mmix_decoder_params(d));
        mmix_sequence s = sequence(m, 0, 9);
        s.n_spans = 0;
        back = mmix_decoder_from_llama2c(m, "tiny", b.at, b.n);
        FINE(m, about);
        mmix_tensor *y = mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL));
        CHECK_AT(apart(y, mmix_decoder_logits(m, back, mmix_decoder_forward(m, back, &s, NULL))) <= 0, about);
        mmix_decoder_destroy(back);
        {                                        /* by its path */
            FILE *f = fopen(FOLDER "/tiny.bin", "wb");
            if (f) fwrite(b.at, 1, b.n, f), fclose(f);
            back = mmix_decoder_open(m, FOLDER "/tiny.bin");
            CHECK_AT(back && same_lists(mmix_decoder_params(back), mmix_decoder_params(d)), about);
            mmix_decoder_destroy(back);
            f = fopen(FOLDER "/tiny.bin", "wb");             /* half of it: an error that says what is missing */
            if (f) fwrite(b.at, 1, b.n / 2, f), fclose(f);
            CHECK_AT(!mmix_decoder_open(m, FOLDER "/tiny.bin") && says(m, MMIX_ERROR_FILE, "as a llama2.c model expected"), about);
            remove(FOLDER "/tiny.bin");
        }
        const size_t before = mmix_memory(m).bytes;
        int bad = 0, loaded = 0;
        for (size_t n = 0; n < b.n; n += n < 64 || n + 64 > b.n ? 1 : 37) {
            unsigned char *part = (unsigned char *)malloc(n ? n : 1);        /* its own block: nothing behind it is there */
            memcpy(part, b.at, n);
            back = mmix_decoder_from_llama2c(m, "short", part, n);
            bad += back || mmix_error_kind(m) != MMIX_ERROR_FILE;
            mmix_decoder_destroy(back);
            mmix_error_clear(m);
            free(part);
        }
        put_f32(&b, 0);                          /* and one too long */
        bad += mmix_decoder_from_llama2c(m, "long", b.at, b.n) || mmix_error_kind(m) != MMIX_ERROR_FILE;
        mmix_error_clear(m);
        b.n -= 4;
        CHECK_AT(!bad, "truncated");
        for (size_t i = 0; i < 28 * 8; i++) {
            b.at[i / 8] ^= (unsigned char)(1u << i % 8);
            back = mmix_decoder_from_llama2c(m, "flipped", b.at, b.n);
            loaded += back != NULL;
            bad += !back && mmix_error_kind(m) != MMIX_ERROR_FILE && mmix_error_kind(m) != MMIX_ERROR_MEMORY;
            mmix_decoder_destroy(back);
            mmix_error_clear(m);
            mmix_reset(m);
            b.at[i / 8] ^= (unsigned char)(1u << i % 8);
        }
        CHECK_AT(!bad && loaded < 60 && mmix_memory(m).bytes <= before + MMIXI_BLOCK, about);
        CHECK(!mmix_decoder_from_llama2c(m, "none", NULL, 0) && mmix_error(m));
        mmix_error_clear(m);
        free(b.at);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

/* ---- the tokenizer ---- */

enum { PIECES = 420 };
typedef struct Vocabulary { size_t n; char piece[PIECES][12]; float score[PIECES]; } Vocabulary;
static int find(const Vocabulary *v, const char *piece, size_t length)
{
    for (size_t i = 0; i < v->n; i++)
        if (strlen(v->piece[i]) == length && !memcmp(v->piece[i], piece, length)) return (int)i;
    return -1;
}
static void piece_add(Vocabulary *v, const char *piece, float score)
{
    if (v->n == PIECES || find(v, piece, strlen(piece)) >= 0) return;
    snprintf(v->piece[v->n], sizeof v->piece[0], "%s", piece);
    v->score[v->n++] = score;
}
/* Marks, bytes, some characters (of one to four bytes), and joined pairs of pieces with scores of which many are equal. */
static Vocabulary *vocabulary(mmix_ctx *m)
{
    static const char *const characters[] = {" ", "a", "b", "c", "d", "e", "\xC3\xA9", "\xE2\x98\x83", "\xF0\x9F\x98\x80"};
    Vocabulary *v = (Vocabulary *)calloc(1, sizeof *v);
    char text[32];
    piece_add(v, "<unk>", 0), piece_add(v, "<s>", 0), piece_add(v, "</s>", 0);
    for (int i = 0; i < 256; i++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        piece_add(v, text, 0);
    }
    for (size_t i = 0; i < 9; i++) piece_add(v, characters[i], -1000);
    for (uint64_t i = 0; v->n < PIECES && i < 10000; i++) {
        const size_t a = 259 + mmix_random_u32(m, 1, 0, i) % (v->n - 259), b = 259 + mmix_random_u32(m, 1, 1, i) % (v->n - 259);
        snprintf(text, sizeof text, "%s%s", v->piece[a], v->piece[b]);
        if (strlen(text) < sizeof v->piece[0]) piece_add(v, text, -(float)(mmix_random_u32(m, 1, 2, i) % 7));
    }
    return v;
}
static Bytes tokenizer_file(const Vocabulary *v)
{
    Bytes b;
    memset(&b, 0, sizeof b);
    put_i32(&b, 12);
    for (size_t i = 0; i < v->n; i++) {
        put_f32(&b, (double)v->score[i]);
        put_i32(&b, (int)strlen(v->piece[i]));
        put(&b, v->piece[i], strlen(v->piece[i]));
    }
    return b;
}
/* The definition. */
static size_t encode(const Vocabulary *v, const char *text, int begin, int end, int32_t *out)
{
    size_t n = 0;
    char joined[32];
    if (begin) out[n++] = 1;
    if (*text) out[n++] = find(v, " ", 1);
    for (size_t length; *text; text += length) {
        const unsigned char c = (unsigned char)*text;
        length = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        const int id = find(v, text, length);
        if (id >= 0) out[n++] = id;
        for (size_t i = 0; id < 0 && i < length; i++) out[n++] = (unsigned char)text[i] + 3;
    }
    for (;;) {
        size_t at = 0;
        int best = -1;
        for (size_t i = 0; i + 1 < n; i++) {
            snprintf(joined, sizeof joined, "%s%s", v->piece[out[i]], v->piece[out[i + 1]]);
            const int id = find(v, joined, strlen(joined));
            if (id >= 0 && (best < 0 || v->score[id] > v->score[best])) best = id, at = i;
        }
        if (best < 0) break;
        out[at] = best;
        memmove(out + at + 1, out + at + 2, (--n - at - 1) * sizeof *out);
    }
    if (end) out[n++] = 2;
    return n;
}
static void tokenizer(void)
{
    static const char *const letters[] = {" ", "a", "b", "c", "d", "e", "\xC3\xA9", "\xE2\x98\x83", "\xF0\x9F\x98\x80", "z", "\n", "\xC3\xB6",
                                          "\xE2\x82\xAC", "\xF0\x9F\x9A\x80", "\x7F"};
    mmix_ctx *m = context(1);
    Vocabulary *v = vocabulary(m);
    Bytes b = tokenizer_file(v);
    mmix_tokenizer *t = mmix_tokenizer_from(m, "made up", b.at, b.n);
    int32_t fast[512], plain[512];
    char text[512];
    size_t length = 9;
    int wrong = 0, longer = 0, merged = 0;
    CHECK(t && mmix_tokenizer_count(t) == v->n && v->n == PIECES);
    for (uint64_t i = 0; i < 600; i++) {
        const size_t count = mmix_random_u32(m, 2, 0, i) % 60, alphabet = i % 3 ? 15 : 6;
        int32_t *few;
        *text = 0;
        for (size_t k = 0; k < count; k++) strcat(text, letters[mmix_random_u32(m, 3, i, k) % alphabet]);
        const size_t n = mmix_tokenizer_encode(t, text, i & 1, i % 5 == 0, fast, 512), expected = encode(v, text, i & 1, i % 5 == 0, plain);
        wrong += n != expected || memcmp(fast, plain, n * sizeof *fast);
        merged += n < count;
        few = (int32_t *)malloc((n / 2 + 1) * sizeof *few);          /* room for half: all are counted */
        longer += mmix_tokenizer_encode(t, text, i & 1, i % 5 == 0, few, n / 2) != n || memcmp(few, plain, n / 2 * sizeof *few);
        free(few);
        *text = 0;                               /* and the pieces give the text back, with a space before it */
        for (size_t k = i & 1; k < n - (i % 5 == 0); k++) strcat(text, mmix_tokenizer_piece(t, fast[k], NULL));
        wrong += encode(v, *text ? text + 1 : text, i & 1, i % 5 == 0, plain) != n;
    }
    CHECK(!wrong && !longer && merged > 100);
    CHECK(!strcmp(mmix_tokenizer_piece(t, 3 + 'A', &length), "A") && length == 1);
    CHECK(!*mmix_tokenizer_piece(t, 3, &length) && length == 1);     /* the byte 0 */
    CHECK(!*mmix_tokenizer_piece(t, -1, NULL) && !*mmix_tokenizer_piece(t, PIECES, &length) && length == 0);
    CHECK(mmix_tokenizer_encode(t, "", 0, 0, fast, 4) == 0 && mmix_tokenizer_encode(t, "", 1, 1, NULL, 0) == 2);
    FINE(m, "tokenizer");
    /* text that is no UTF-8: bytes, and nothing behind the end is read */
    for (int c = 0x80; c < 0x100; c++) {
        char *broken = (char *)malloc(3);
        broken[0] = 'a', broken[1] = (char)c, broken[2] = 0;
        const size_t n = mmix_tokenizer_encode(t, broken, 0, 0, fast, 512);
        CHECK(n >= 2 && fast[n - 1] == c + 3);
        free(broken);
    }
    mmix_error_clear(m);
    mmix_tokenizer_destroy(t);

    const size_t before = mmix_memory(m).bytes;
    int bad = 0;
    for (size_t n = 0; n < b.n; n += n < 40 || n > b.n - 40 ? 1 : 23) {      /* short: an error, or whole pieces */
        unsigned char *part = (unsigned char *)malloc(n ? n : 1);
        memcpy(part, b.at, n);
        t = mmix_tokenizer_from(m, "short", part, n);
        bad += t ? mmix_tokenizer_count(t) >= PIECES : mmix_error_kind(m) != MMIX_ERROR_FILE;
        if (t) mmix_tokenizer_encode(t, "abc", 1, 1, fast, 512), mmix_tokenizer_encode(t, "\xF0\x9F\x9A\x80", 1, 1, fast, 512);
        mmix_tokenizer_destroy(t);
        mmix_error_clear(m);
        free(part);
    }
    for (size_t i = 0; i < 400 * 8; i++) {       /* flipped */
        const size_t at = i < 120 * 8 ? i / 8 : mmix_random_u32(m, 5, 0, i) % b.n;
        b.at[at] ^= (unsigned char)(1u << i % 8);
        t = mmix_tokenizer_from(m, "flipped", b.at, b.n);
        bad += !t && mmix_error_kind(m) != MMIX_ERROR_FILE;
        if (t) mmix_tokenizer_encode(t, "abc de \xC3\xA9 z", 1, 1, fast, 512);
        for (int32_t k = 0; t && k < PIECES; k++) mmix_tokenizer_piece(t, k, &length);
        mmix_tokenizer_destroy(t);
        mmix_error_clear(m);
        b.at[at] ^= (unsigned char)(1u << i % 8);
    }
    CHECK(!bad && mmix_memory(m).bytes <= before + MMIXI_BLOCK);
    free(b.at);
    free(v);
    t = mmix_tokenizer_load(m, "../shared/data/stories260k/tok512.bin");
    if (t) {
        length = mmix_tokenizer_encode(t, "Once upon a time", 1, 0, fast, 512);
        CHECK(mmix_tokenizer_count(t) == 512 && length == 5 && fast[0] == 1 && fast[1] == 403);
    } else skipped++;
    mmix_tokenizer_destroy(t);
    mmix_destroy(m);
}

/* ---- sampling and continuing ---- */

static void sampling(void)
{
    enum { K = 7, DRAWS = 40000 };
    static const mmix_real logits[K] = {(mmix_real)0.3, (mmix_real)-1.2, (mmix_real)2.1, (mmix_real)1.9, -4, (mmix_real)0.9, (mmix_real)1.4};
    mmix_ctx *m = context(1);
    mmix_sampling s;
    memset(&s, 0, sizeof s);
    CHECK(mmix_sample(m, logits, K, &s, 5) == 2 && mmix_sample(m, logits, K, NULL, 5) == 2);
    for (int way = 0; way < 6; way++) {
        static const double temperature[6] = {1, 0.5, 2, 1, 0.7, 1}, top_p[6] = {0, 0, 1, 0.8, 0.5, 1e-6};
        double p[K], sum = 0, kept = 0, chi = 0;
        int count[K] = {0}, order[K], likely = 0, same = 0, other = 0;
        s.temperature = temperature[way], s.top_p = top_p[way];
        for (int k = 0; k < K; k++) sum += p[k] = exp((double)logits[k] / s.temperature), order[k] = k;
        for (int i = 0; i < K; i++)
            for (int j = i + 1; j < K; j++)
                if (p[order[j]] > p[order[i]]) { const int t = order[i]; order[i] = order[j], order[j] = t; }
        for (; likely < K && (likely == 0 || s.top_p <= 0 || kept < s.top_p); likely++) kept += p[order[likely]] / sum;
        for (uint64_t i = 0; i < DRAWS; i++) {
            const int32_t k = mmix_sample(m, logits, K, &s, i);
            if (k < 0 || k >= K) { CHECK(0); break; }
            count[k]++;
            same += mmix_sample(m, logits, K, &s, i) == k;
            s.stream++;
            other += mmix_sample(m, logits, K, &s, i) == k;
            s.stream--;
        }
        for (int i = 0; i < K; i++) {
            const double expected = DRAWS * p[order[i]] / sum / kept;
            if (i < likely) chi += (count[order[i]] - expected) * (count[order[i]] - expected) / expected;
            else CHECK(count[order[i]] == 0);
        }
        snprintf(about, sizeof about, "way %d, chi² %.2f of %d", way, chi, likely - 1);
        CHECK_AT(chi < likely - 1 + 5 * sqrt(2.0 * likely), about);
        CHECK_AT(same == DRAWS && (likely == 1 || other < DRAWS * 0.9), about);
    }
    s.temperature = 1, s.top_p = 0;
    int equal = 0;
    for (uint64_t i = 0; i < 1000; i++) {        /* another seed, other numbers */
        mmix_seed_set(m, 1);
        const int32_t k = mmix_sample(m, logits, K, &s, i);
        mmix_seed_set(m, 2);
        equal += mmix_sample(m, logits, K, &s, i) == k;
    }
    CHECK(equal > 100 && equal < 900);
    FINE(m, "sampling");
    mmix_destroy(m);

    for (int mixer = 0; mixer < 2; mixer++) {
        mmix_ctx *n = context(1);
        mmix_decoder *d = variant(n, mixer ? 0 : OPTIONS);
        mmix_sequence q = sequence(n, 1, 3), one;
        mmix_decoder_state *state = mmix_decoder_state_create(d);
        int32_t made[BATCH * 12], prompt[5] = {1, 7, 3, 9, 2}, first[12], again[12], third[12];
        mmix_tensor *y = mmix_decoder_step(n, d, &q, state);
        int wrong = 0;
        memset(&one, 0, sizeof one);
        CHECK_AT(mmix_decoder_continue(n, d, &q, NULL, made, 12) == 12, about);
        for (size_t i = 0; i < 12; i++) {        /* by hand */
            int32_t next[BATCH];
            const size_t shape[2] = {BATCH, 1};
            for (size_t b = 0; b < BATCH; b++) {
                next[b] = 0;
                for (int32_t k = 1; y && k < WORDS; k++)
                    if (mmix_data(y)[b * WORDS + (size_t)k] > mmix_data(y)[b * WORDS + (size_t)next[b]]) next[b] = k;
                wrong += next[b] != made[b * 12 + i];
            }
            one.tokens = mmix_from_i32(n, 2, shape, next);
            y = mmix_decoder_step(n, d, &one, state);
        }
        CHECK_AT(!wrong, about);
        mmix_decoder_state_destroy(state);
        memset(&s, 0, sizeof s);
        size_t at = 4;
        while (at < 11 && !made[at]) at++;       /* token 0 would mean none */
        s.stop = made[at];                       /* row 0 stops at its first; what follows is filled up */
        size_t longest = mmix_decoder_continue(n, d, &q, &s, made, 12), rows[BATCH];
        for (size_t b = 0; b < BATCH; b++) {
            rows[b] = 0;
            while (rows[b] < 12 && made[b * 12 + rows[b]] != s.stop) rows[b]++;
            for (size_t i = rows[b]; i < longest; i++) wrong += made[b * 12 + i] != s.stop;
            if (rows[b] < 12) rows[b]++;
        }
        {                                        /* alone, row 0 ends before the count: filled up all the same */
            mmix_sequence single = q;
            int32_t row[12];
            single.tokens = mmix_slice(n, q.tokens, 0, 0, 1);
            single.media = mmix_slice(n, q.media, 0, 0, 1);
            memset(row, 0, sizeof row);
            wrong += mmix_decoder_continue(n, d, &single, &s, row, 12) != rows[0];
            for (size_t i = rows[0]; i < 12; i++) wrong += row[i] != s.stop;
        }
        CHECK_AT(!wrong && rows[0] <= at + 1 && longest == (rows[0] > rows[1] ? rows[0] : rows[1]), about);
        FINE(n, about);
        mmix_reset(n);
        s.stop = 0, s.temperature = 1;
        CHECK_AT(mmix_decoder_generate(d, prompt, 5, &s, first, 12) == 12 && mmix_decoder_generate(d, prompt, 5, &s, again, 12) == 12, about);
        s.stream = 1;
        CHECK_AT(mmix_decoder_generate(d, prompt, 5, &s, third, 12) == 12, about);
        CHECK_AT(!memcmp(first, again, sizeof first) && memcmp(first, third, sizeof first), about);
        for (at = 6; at < 11 && !first[at]; ) at++;
        s.stop = first[at], s.stream = 0;
        longest = mmix_decoder_generate(d, prompt, 5, &s, again, 12);
        CHECK_AT(longest >= 1 && longest <= at + 1 && again[longest - 1] == s.stop && !memcmp(first, again, longest * sizeof *first), about);
        FINE(n, about);
        mmix_decoder_destroy(d);
        mmix_destroy(n);
    }
}

/* ---- distillation ---- */

enum { LAST_TEXT = 29 };                         /* the text behind the last span begins here */
static mmix_decoder_config pupil(int mixer)
{
    mmix_decoder_config c = small(mixer);
    c.depth = 2;
    return c;
}
/* Questions of 30 and 31 tokens, answers of two and one. With `padded` the second row's last token only fills up. */
static mmix_distill_batch batch_of(mmix_ctx *m, uint64_t number, int padded)
{
    mmix_distill_batch b;
    int32_t target[BATCH * TOKENS], mask[BATCH * TOKENS];
    const size_t shape[2] = {BATCH, TOKENS};
    memset(&b, 0, sizeof b);
    b.input = sequence(m, 1, 100 + number);
    if (!b.input.tokens) return b;
    for (size_t i = 0; i < BATCH * TOKENS; i++) target[i] = -1, mask[i] = 1;
    for (size_t r = 0; r < BATCH; r++)
        for (size_t i = LAST_TEXT + r; i + 1 < TOKENS; i++) target[r * TOKENS + i] = mmix_data_i32(b.input.tokens)[r * TOKENS + i + 1];
    if (padded) mask[2 * TOKENS - 1] = 0;
    b.target = mmix_from_i32(m, 2, shape, target);
    b.mask = padded ? mmix_from_i32(m, 2, shape, mask) : NULL;
    return b;
}
/* Row r of a batch as a batch of its own. */
static mmix_distill_batch row_of(mmix_ctx *m, const mmix_distill_batch *b, size_t r)
{
    mmix_distill_batch one = *b;
    one.input.tokens = mmix_slice(m, b->input.tokens, 0, r, 1);
    one.input.media = mmix_slice(m, b->input.media, 0, r, 1);
    one.target = mmix_slice(m, b->target, 0, r, 1);
    one.mask = b->mask ? mmix_slice(m, b->mask, 0, r, 1) : NULL;
    return one;
}
static mmix_stage stage(int train, double hidden, double token, double sequence_, double supervised, size_t count)
{
    mmix_stage s;
    memset(&s, 0, sizeof s);
    s.train = train, s.hidden = hidden, s.token = token, s.sequence = sequence_, s.supervised = supervised;
    s.temperature = 1, s.steps = count, s.lr = s.min_lr = 3e-3, s.clip = 1;
    return s;
}
static mmix_distill_config three_stages(size_t count)
{
    mmix_distill_config c = mmix_linmu_stages();
    for (size_t i = 0; i < c.stages; i++) c.stage[i].steps = count, c.stage[i].warmup = 0, c.stage[i].lr = c.stage[i].min_lr = 3e-3;
    c.lora_rank = 2, c.lora_alpha = 4, c.calibrate = 0;
    return c;
}
typedef struct Lesson { mmix_ctx *m; mmix_decoder *teacher, *student; mmix_distill *run; mmix_real *taught; } Lesson;
static Lesson lesson(mmix_distill_config config, int threads)
{
    Lesson l;
    mmix_decoder_config c = pupil(MMIX_DECODER_ATTENTION);
    l.m = context(threads);
    l.teacher = shaken(l.m, c);
    l.taught = values(mmix_decoder_params(l.teacher));
    l.student = mmix_linmu_from(l.teacher, &c.mmate);
    l.run = mmix_distill_create(l.teacher, l.student, config);
    FINE(l.m, about);
    return l;
}
static void end(Lesson *l)
{
    FINE(l->m, about);
    CHECK_AT(same_values(mmix_decoder_params(l->teacher), l->taught), "the teacher is untouched");
    free(l->taught);
    mmix_distill_destroy(l->run);
    mmix_decoder_destroy(l->student);
    mmix_decoder_destroy(l->teacher);
    mmix_destroy(l->m);
}
static int teach(Lesson *l, uint64_t number, mmix_distill_stats *stats)
{
    mmix_distill_batch b = batch_of(l->m, number, number % 2 != 0);
    const int more = mmix_distill_step(l->run, &b, stats);
    mmix_reset(l->m);
    return more;
}
/* What a parameter trains with: the gate between the branches when both do. */
static int group(const char *name)
{
    if (strstr(name, "lora_")) return MMIX_TRAIN_LORA;
    if (strstr(name, ".branch_gate.")) return MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN;
    return strstr(name, ".flex.") ? MMIX_TRAIN_FLEX : strstr(name, ".swin.") ? MMIX_TRAIN_SWIN : MMIX_TRAIN_REST;
}
/* Only what a stage names changes, and all of it does; the table says so. */
static void what_trains(void)
{
    static const int masks[] = {MMIX_TRAIN_FLEX, MMIX_TRAIN_SWIN, MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN, MMIX_TRAIN_LORA,
                                MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN | MMIX_TRAIN_LORA, MMIX_TRAIN_REST, MMIX_TRAIN_REST | MMIX_TRAIN_LORA, 15};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        mmix_distill_config c = three_stages(3);
        mmix_distill_stats stats;
        Lesson l;
        mmix_decoder_config size = pupil(MMIX_DECODER_ATTENTION);
        int wrong = 0, lines = 0, missing = 0;
        size.mmate.branch_gate = 1;
        snprintf(about, sizeof about, "trains %d", masks[i]);
        c.stages = 1;
        c.stage[0] = stage(masks[i], 1, 1, 1, 1, 3);
        l = lesson(c, 1);
        mmix_distill_destroy(l.run);
        mmix_decoder_destroy(l.student);
        l.student = mmix_linmu_from(l.teacher, &size.mmate);
        l.run = mmix_distill_create(l.teacher, l.student, c);
        const char *listed = mmix_distill_table(l.run);
        char *table = (char *)calloc(listed ? strlen(listed) + 1 : 1, 1);
        if (listed) strcpy(table, listed);
        for (const char *at = table; *at; at++) lines += *at == '\n';
        mmix_real *before = values(mmix_decoder_params(l.student));
        mmix_reset(l.m);
        for (uint64_t k = 0; k < 3; k++) CHECK_AT(teach(&l, k, &stats) == 1 && stats.updated && stats.stage == 0 && stats.step == k, about);
        CHECK_AT(teach(&l, 3, &stats) == 0, about);
        mmix_params *p = mmix_decoder_params(l.student), *low = mmix_decoder_adapters(l.student);
        for (size_t k = 0, at = 0; k < p->count; at += mmix_count(p->at[k++].tensor)) {
            const int moved = memcmp(before + at, mmix_data(p->at[k].tensor), mmix_count(p->at[k].tensor) * sizeof *before) != 0;
            const int needs = group(p->at[k].name), trains = (needs & masks[i]) == needs;
            char line[160];
            if (moved != trains) wrong++, printf("  %s: moved %d\n", p->at[k].name, moved);
            snprintf(line, sizeof line, "%s %s (", trains ? "trained" : "frozen", p->at[k].name);
            missing += !strstr(table, line);
        }
        CHECK_AT((low != NULL) == ((masks[i] & MMIX_TRAIN_LORA) != 0), about);
        for (size_t k = 0; low && k < low->count; k++) {
            double size_of = 0;
            for (size_t e = 0; e < mmix_count(low->at[k].tensor); e++) size_of += fabs((double)mmix_data(low->at[k].tensor)[e]);
            wrong += !(size_of > 0);             /* B was 0 */
            missing += !strstr(table, low->at[k].name);
        }
        CHECK_AT(!wrong && !missing, about);
        CHECK_AT(lines == (int)(p->count + (low ? low->count : 0)), about);
        free(before), free(table);
        end(&l);
    }
}
/* Each stage lowers its own loss on a batch seen again and again. */
static void learning(void)
{
    static const struct { const char *name; double weight[4]; int train, outputs, inputs; } ways[] = {
        {"flex", {1, 1, 0, 0}, MMIX_TRAIN_FLEX, 0, 0}, {"both", {1, 1, 0, 0}, MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN, 0, 0},
        {"both and adapters", {0, 1, 1, 1}, 7, 0, 0}, {"hidden alone", {1, 0, 0, 0}, MMIX_TRAIN_FLEX, 0, 0},
        {"layers' outputs", {1, 0, 0, 0}, 3, 1, 0}, {"teacher's inputs", {1, 0, 0, 0}, 3, 0, 1}, {"everything", {1, 1, 1, 1}, 15, 1, 1}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        mmix_distill_config c = three_stages(1);
        mmix_distill_stats stats, first, last;
        snprintf(about, sizeof about, "learning, %s", ways[i].name);
        c.stages = 1;
        c.stage[0] = stage(ways[i].train, ways[i].weight[0], ways[i].weight[1], ways[i].weight[2], ways[i].weight[3], 40);
        c.hidden_outputs = ways[i].outputs, c.teacher_inputs = ways[i].inputs;
        Lesson l = lesson(c, 1);
        mmix_distill_batch b = batch_of(l.m, 0, 0);
        CHECK_AT(!mmix_distill_losses(l.run, &b, &first), about);
        for (int k = 0; k < 40; k++) {
            CHECK_AT(teach(&l, 0, &stats) == 1, about);
            const double *w = ways[i].weight, sum = w[0] * stats.hidden + w[1] * stats.token + w[2] * stats.sequence + w[3] * stats.supervised;
            CHECK_AT(fabs(sum - stats.loss) < 1e-5 * (1 + fabs(sum)) && stats.tokens == 3 && stats.steps == 40, about);
            if (!k) CHECK_AT(fabs(stats.loss - first.loss) < 1e-5 * (1 + fabs(first.loss)), about);
        }
        b = batch_of(l.m, 0, 0);
        /* the run is over: the weights of its last stage */
        CHECK_AT(!mmix_distill_losses(l.run, &b, &last) && last.loss < 0.9 * first.loss, about);
        if (last.loss >= 0.9 * first.loss) printf("  %g to %g\n", first.loss, last.loss);
        mmix_reset(l.m);
        end(&l);
    }
}
/* From stage to stage: numbers, rates, what a stage starts from; save after any step, and go on bit for bit. */
#define RUN FOLDER "/run.safetensors"
static mmix_real *outcome(Lesson *l, uint64_t from)
{
    mmix_distill_stats stats;
    while (teach(l, from++, &stats) == 1) {}
    mmix_params *low = mmix_decoder_adapters(l->student);
    mmix_real *p = values(mmix_decoder_params(l->student)), *a = low ? values(low) : NULL;
    const size_t n = mmix_decoder_params(l->student)->elements, more = low ? low->elements : 0;
    p = (mmix_real *)realloc(p, (n + more + 1) * sizeof *p);
    if (a) memcpy(p + n, a, more * sizeof *p);
    p[n + more] = (mmix_real)(double)from;
    free(a);
    return p;
}
static size_t outcome_size(const Lesson *l)
{
    mmix_params *low = mmix_decoder_adapters(l->student);
    return mmix_decoder_params(l->student)->elements + (low ? low->elements : 0) + 1;
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
        CHECK_AT((mmix_decoder_adapters(l.student) != NULL) == (k >= 4), about);
        CHECK_AT(mmix_distill_number(l.run) == k && teach(&l, k, &stats) == 1, about);
        CHECK_AT(stats.stage == k / 2 && stats.step == k % 2 && stats.steps == 2 && stats.updated && stats.gradient_norm > 0, about);
        if (k / 2 != 1) CHECK_AT(fabs(stats.lr - 3e-3) < 1e-12, about);
    }
    CHECK_AT(teach(&l, 6, &stats) == 0 && mmix_distill_number(l.run) == 6, about);
    end(&l);
    for (int way = 0; way < 3; way++) {          /* a step a call; in two calls; adapters from the first stage on */
        c.step_tokens = way == 1 ? 4 : 0;
        if (way == 2) c.stage[0].train |= MMIX_TRAIN_LORA;
        l = lesson(c, 1);
        mmix_real *whole = outcome(&l, 0);
        const size_t n = outcome_size(&l);
        end(&l);
        for (int threads = 1; threads <= 3; threads++) {             /* the same bits, with less memory, too */
            l = lesson(c, threads);
#ifndef MMIX_REGRESSION                          /* its SwiGLU goes by parts of 3 tokens then, which round otherwise */
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
            for (uint64_t k = 0; k < at; k++) teach(&l, k, &stats);
            CHECK_AT(!mmix_distill_save(l.run, RUN, "a note"), about);
            mmix_distill_destroy(l.run);
            mmix_decoder_destroy(l.student);
            l.student = NULL;
            l.run = mmix_distill_load(l.teacher, RUN, &l.student);
            CHECK_AT(l.run && l.student && mmix_distill_number(l.run) == at && !strcmp(mmix_distill_note(l.run), "a note"), about);
            if (l.run) {
                mmix_real *resumed = outcome(&l, at);
                CHECK_AT(outcome_size(&l) == n && !memcmp(resumed, whole, n * sizeof *whole), about);
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
            c.stage[0] = stage(MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN | MMIX_TRAIN_REST, w[0], w[1], w[2], w[3], 2);
            c.step_tokens = 3;
            Lesson l = lesson(c, 1);
            for (uint64_t k = 0; k < 2; k++) {
                mmix_distill_batch b = batch_of(l.m, k, 0);
                if (way == 3)                    /* L_hid is relative to the call's tokens: equal rows, answers aside */
                    for (size_t i = 0; i < TOKENS + GRID * FEATURES; i++) {
                        if (i < TOKENS) mmix_data_i32(b.input.tokens)[TOKENS + i] = mmix_data_i32(b.input.tokens)[i];
                        else mmix_data(b.input.media)[GRID * FEATURES + i - TOKENS] = mmix_data(b.input.media)[i - TOKENS];
                    }
                for (size_t r = 0; halves && r < BATCH; r++) {
                    mmix_distill_batch one = row_of(l.m, &b, r);
                    CHECK_AT(mmix_distill_step(l.run, &one, &stats) == 1 && stats.updated == (r == 1) && stats.tokens == 2 - r, about);
                }
                if (!halves) CHECK_AT(mmix_distill_step(l.run, &b, &stats) == 1 && stats.updated, about);
                mmix_reset(l.m);
            }
            result[halves] = outcome(&l, 9);
            n = outcome_size(&l) - 1;
            end(&l);
        }
        /* Adam divides by √v: where a gradient is near 0, rounding becomes a step */
        const double worst = most(result[0], result[1], n);
        size_t apart = 0;
        for (size_t i = 0; i < n; i++) apart += fabs((double)result[0][i] - (double)result[1][i]) > (sizeof(mmix_real) == 8 ? 1e-9 : 1e-4);
        CHECK_AT(apart * 100 <= n && worst < 0.02, about);
        if (apart * 100 > n) printf("  %d of %d differ, by %g at most\n", (int)apart, (int)n, worst);
        free(result[0]), free(result[1]);
    }
}
/* Answers decoded before are what the teacher decodes now. */
static void decoded(void)
{
    mmix_distill_config c = three_stages(1);
    mmix_distill_stats now, then;
    snprintf(about, sizeof about, "decoded");
    c.stages = 1;
    c.stage[0] = stage(MMIX_TRAIN_FLEX, 0, 0, 1, 0, 1);
    Lesson l = lesson(c, 1);
    mmix_distill_batch b = batch_of(l.m, 4, 0);
    mmix_sequence given = b.input;
    const size_t shape[2] = {BATCH, TOKENS};
    int32_t *tokens = (int32_t *)calloc(BATCH * TOKENS, sizeof *tokens), *target = (int32_t *)calloc(BATCH * TOKENS, sizeof *target);
    memcpy(tokens, mmix_data_i32(b.input.tokens), BATCH * TOKENS * sizeof *tokens);
    memcpy(target, mmix_data_i32(b.target), BATCH * TOKENS * sizeof *target);
    for (size_t r = 0; r < BATCH; r++) {         /* by hand, row by row */
        mmix_distill_batch one = row_of(l.m, &b, r);
        mmix_span room[SPANS];
        mmix_sequence question = piece(l.m, &one.input, 0, LAST_TEXT + r + 1, room);
        int32_t made[2];
        CHECK(mmix_decoder_continue(l.m, l.teacher, &question, NULL, made, 2 - r) == 2 - r);
        for (size_t i = 0; i < 2 - r; i++)
            tokens[r * TOKENS + LAST_TEXT + r + 1 + i] = made[i], target[r * TOKENS + LAST_TEXT + r + i] = made[i];
    }
    CHECK_AT(!mmix_distill_losses(l.run, &b, &now), about);
    given.tokens = mmix_from_i32(l.m, 2, shape, tokens);
    b.decoded = &given;
    b.decoded_target = mmix_from_i32(l.m, 2, shape, target);
    CHECK_AT(!mmix_distill_losses(l.run, &b, &then), about);
    CHECK_AT(now.sequence > 0 && fabs(now.sequence - then.sequence) < TOL, about);
    free(tokens), free(target);
    mmix_reset(l.m);
    end(&l);
}
/* Each loss from its definition, in each of the ways to compare hidden layers; what only fills up counts nowhere. */
static void losses(void)
{
    for (int way = 0; way < 3; way++) {
        mmix_distill_config c = three_stages(1);
        mmix_distill_stats s, again;
        snprintf(about, sizeof about, "losses, way %d", way);
        c.stages = 1;
        c.stage[0] = stage(15, 0.5, 2, 0, 3, 1);
        c.stage[0].temperature = 1.5;
        c.hidden_outputs = way == 1, c.teacher_inputs = way == 2;
        Lesson l = lesson(c, 1);
        mmix_distill_batch b = batch_of(l.m, 4, 1);
        const size_t shape[2] = {BATCH, TOKENS};
        mmix_tensor *mixed[2][2], *outputs[2][2], *inputs[2] = {NULL, NULL}, *hidden = NULL, *x[2], *answers;
        answers = mmix_new(l.m, MMIX_DTYPE_I32, 2, shape);
        for (size_t i = 0; i < BATCH * TOKENS; i++) mmix_data_i32(answers)[i] = mmix_data_i32(b.target)[i] >= 0;
        CHECK_AT(!mmix_distill_losses(l.run, &b, &s), about);
        for (int who = 0; who < 2; who++) {
            mmix_decoder_options look;
            memset(&look, 0, sizeof look);
            look.mixed = mixed[who], look.outputs = outputs[who];
            if (who && way == 2) inputs[1] = outputs[0][0], look.inputs = inputs;
            x[who] = mmix_decoder_logits(l.m, who ? l.student : l.teacher, mmix_decoder_forward(l.m, who ? l.student : l.teacher, &b.input, &look));
        }
        for (int i = 0; i < 2; i++) {
            mmix_tensor *(*of)[2] = way == 1 ? outputs : mixed, *one = mmix_kd_hidden(l.m, of[1][i], of[0][i], b.mask, 1);
            hidden = hidden ? mmix_add(l.m, hidden, one) : one;
        }
        CHECK_AT(s.hidden > 0 && fabs(mmix_item(hidden) / 2 - s.hidden) < TOL * 10, about);
        CHECK_AT(s.token > 0 && fabs(mmix_item(mmix_kd_token(l.m, x[1], x[0], answers, 1.5)) - s.token) < TOL * 10, about);
        CHECK_AT(s.supervised > 0 && fabs(mmix_item(mmix_cross_entropy(l.m, x[1], b.target, -1)) - s.supervised) < TOL * 10, about);
        CHECK_AT(s.tokens == 3 && fabs(0.5 * s.hidden + 2 * s.token + 3 * s.supervised - s.loss) < TOL * 100, about);
        mmix_data_i32(b.input.tokens)[2 * TOKENS - 1] = (mmix_data_i32(b.input.tokens)[2 * TOKENS - 1] + 1) % WORDS;
        CHECK_AT(!mmix_distill_losses(l.run, &b, &again) && fabs(again.loss - s.loss) <= 0, about);
        b.mask = NULL;
        CHECK_AT(!mmix_distill_losses(l.run, &b, &again) && fabs(again.hidden - s.hidden) > 1e-6, about);
        mmix_reset(l.m);
        end(&l);
    }
}
/* A student that came with adapters of its own: the run's are these, and its file says what they are. While it lasts they
   can't be merged, and the student is in no other run. */
static void own_adapters(void)
{
    static const struct { size_t rank; double alpha; int targets; } own[] = {{4, 4, MMIX_LORA_FFN}, {2, 400, MMIX_LORA_FFN}, {2, 4, MMIX_LORA_MIXER}};
    for (size_t k = 0; k < 6; k++) {
        mmix_distill_config c = three_stages(1);
        Lesson l = lesson(c, 1);
        mmix_decoder *again = NULL;
        snprintf(about, sizeof about, "adapters of its own, %d", (int)k);
        mmix_distill_destroy(l.run);
        if (k >= 3) c.stages = 2, c.lora_rank = 0;               /* no stage trains adapters */
        CHECK(!mmix_decoder_lora(l.student, own[k % 3].rank, own[k % 3].alpha, own[k % 3].targets));
        shake(l.m, mmix_decoder_adapters(l.student), 0.3);
        l.run = mmix_distill_create(l.teacher, l.student, c);
        CHECK_AT(l.run && !mmix_distill_save(l.run, RUN, NULL), about);
        mmix_distill *loaded = mmix_distill_load(l.teacher, RUN, &again);
        FINE(l.m, about);
        mmix_real *x = logits_of(l.m, l.student), *y = logits_of(l.m, again);
        CHECK_AT(loaded && !memcmp(x, y, LOGITS * sizeof *x), about);
        free(x), free(y);
        REFUSED(l.m, mmix_decoder_merge(l.student) == -1, "mmix_distill_destroy");
        REFUSED(l.m, !mmix_distill_create(l.teacher, l.student, c), "no other run");
        CHECK_AT(teach(&l, 0, NULL) == 1, about);
        mmix_distill_destroy(loaded);
        CHECK_AT(!mmix_decoder_merge(again) && !mmix_decoder_adapters(again), about);
        mmix_decoder_destroy(again);
        end(&l);
    }
}
/* mmix_distill_run is the loop over mmix_distill_step. */
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
static void running(void)
{
    mmix_distill_config c = three_stages(2);
    Shown shown = {0, 0, 0};
    snprintf(about, sizeof about, "running");
    Lesson l = lesson(c, 1), k = lesson(c, 1);
    mmix_real *by_hand = outcome(&l, 0), *rest;
    CHECK(mmix_distill_run(k.run, next_batch, show_stats, (shown.stop = 2, &shown)) == 1 && shown.calls == 2 && mmix_distill_number(k.run) == 2);
    CHECK(mmix_distill_run(k.run, next_batch, show_stats, (shown.stop = 104, &shown)) == 1 && mmix_distill_number(k.run) == 4);
    CHECK(mmix_distill_run(k.run, next_batch, NULL, (shown.stop = 0, &shown)) == 0 && mmix_distill_number(k.run) == 6);
    rest = outcome(&k, 6);
    CHECK(outcome_size(&k) == outcome_size(&l) && !memcmp(by_hand, rest, outcome_size(&k) * sizeof *rest));
    free(by_hand), free(rest);
    end(&l), end(&k);
}
/* Files of runs and of decoders with a bit flipped where names, shapes and the config are, and short ones: refused with a
   message, or loaded whole. */
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
        if (f) n = fread(bytes, 1, ROOM, f), fclose(f);
        header += bytes[0] + 256u * bytes[1];
        CHECK(n > header && n < ROOM);
        for (size_t i = 0; i < FLIPS + CUTS; i++) {
            const size_t at = i * header / FLIPS, length = i < FLIPS ? n : n * (i - FLIPS) / CUTS;
            if (i < FLIPS) bytes[at] ^= (unsigned char)(1u << i % 8);
            f = fopen(PATH2, "wb");
            if (f) fwrite(bytes, 1, length, f), fclose(f);
            if (i < FLIPS) bytes[at] ^= (unsigned char)(1u << i % 8);
            mmix_distill *run = is_run ? mmix_distill_load(l.teacher, PATH2, &student) : NULL;
            if (!is_run) student = mmix_decoder_open(l.m, PATH2);
            bad += (student != NULL) == (mmix_error(l.m) != NULL) || (is_run && (run != NULL) != (student != NULL));
            refused += !student;
            mmix_distill_destroy(run);
            mmix_decoder_destroy(student);
            mmix_error_clear(l.m);
            mmix_reset(l.m);
        }
        CHECK(!bad && refused > CUTS + FLIPS / 2);
    }
    CHECK(!mmix_decoder_open(l.m, "build/not there") && says(l.m, MMIX_ERROR_FILE, "cannot be opened"));
    CHECK(!mmix_distill_load(l.teacher, "build/not there", &student) && says(l.m, MMIX_ERROR_FILE, "cannot be opened"));
    CHECK(!mmix_distill_load(l.teacher, PATH, &student) && says(l.m, MMIX_ERROR_FILE, "mmix_distill_save"));
    CHECK(!mmix_decoder_open(l.m, RUN) && mmix_error_kind(l.m) == MMIX_ERROR_FILE);
    mmix_error_clear(l.m);
    free(bytes);
    end(&l);
}

/* ---- bad arguments ---- */

static void bad_arguments(void)
{
    mmix_ctx *m = context(1);
    mmix_decoder_config c = small(MMIX_DECODER_MMATE), t = pupil(MMIX_DECODER_ATTENTION), wrong;
    mmix_decoder *d, *teacher, *student;
    mmix_sequence s;
    mmix_span bent[SPANS];
    mmix_decoder_state *state;
    snprintf(about, sizeof about, "bad arguments");
    d = shaken(m, c), teacher = shaken(m, t);
#define WRONG(change, text)                                                                 \
    do {                                                                                    \
        wrong = c;                                                                          \
        change;                                                                             \
        REFUSED(m, !mmix_decoder_create(m, wrong), text);                                   \
    } while (0)
    WRONG(wrong.mixer = 2, "mixer is 2");
    WRONG(wrong.mixer = -1, "mixer is -1");
    WRONG(wrong.dim = 0, "dim is 0");
    WRONG(wrong.vocabulary = 0, "vocabulary is 0");
    WRONG(wrong.depth = 0, "depth is 0");
    WRONG(wrong.depth = SIZE_MAX, "depth is");
    WRONG(wrong.dim = SIZE_MAX / 8, "dim is");
    WRONG(wrong.media = SIZE_MAX / 8, "media is");
    WRONG(wrong.mmate.conv_width = SIZE_MAX / 8, "conv_width is");
    WRONG((wrong.heads = (size_t)1 << 33, wrong.kv_heads = 0), "heads is");
    WRONG(wrong.bias = 3, "bias 3");
    WRONG(wrong.bias = -1, "bias -1");
    WRONG(wrong.rope.theta = NAN, "rope.theta");
    WRONG(wrong.head_dim = 5, "rope.dim 5");
    WRONG(wrong.rope.dim = 8, "rope.dim 8");
    WRONG(wrong.rope.sections[0] += 1, "sections");
    WRONG(wrong.ffn = 0, "ffn is 0");
    WRONG(wrong.heads = 0, "heads is 0");
    WRONG(wrong.kv_heads = 3, "kv_heads is 3");
    WRONG((wrong.head_dim = 0, wrong.heads = 5, wrong.kv_heads = 5), "the 5 heads");
    WRONG(wrong.mmate.shift_period = 3, "shift period 3");
    WRONG(wrong.mmate.branches = 3, "branches 3");
    WRONG(wrong.mmate.directions = -1, "directions -1");
#undef WRONG

    /* sequences */
#define BENT(change, text)                                                                  \
    do {                                                                                    \
        s = sequence(m, 1, 1);                                                              \
        memcpy(bent, spans, sizeof bent);                                                   \
        s.spans = bent;                                                                     \
        change;                                                                             \
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), text);                            \
        REFUSED(m, !mmix_decoder_matrix(m, d, &s, 0), text);                                \
        state = mmix_decoder_state_create(d);                                               \
        REFUSED(m, !mmix_decoder_step(m, d, &s, state), text);                              \
        mmix_decoder_state_destroy(state);                                                  \
        mmix_reset(m);                                                                      \
    } while (0)
    BENT(bent[1].start = 7, "span 1");
    BENT((bent[1] = bent[0]), "span 1");
    BENT(bent[2].start = TOKENS - 9, "span 2");
    BENT(bent[2].start = SIZE_MAX - 3, "span 2");
    BENT(bent[0].grid[0] = 0, "span 0");
    BENT(bent[0].grid[2] = SIZE_MAX / 2, "span 0");
    BENT(bent[0].separators = SIZE_MAX, "span 0");
    BENT(s.media = mmix_slice(m, s.media, 1, 0, GRID - 1), "media");
    BENT(s.media = mmix_slice(m, s.media, 2, 0, FEATURES - 1), "media");
    BENT(s.media = mmix_slice(m, s.media, 0, 0, 1), "media");
    BENT(s.n_spans = 2, "media");
    BENT(s.n_spans = 0, "media");
    BENT(mmix_data_i32(s.tokens)[1] = WORDS, "is 23");
    BENT(mmix_data_i32(s.tokens)[TOKENS] = -1, "is -1");
    BENT((s.media = NULL, mmix_data_i32(s.tokens)[3] = 1 << 30), "is 1073741824");
    BENT(s.tokens = mmix_slice(m, mmix_new2(m, BATCH, TOKENS), 1, 0, TOKENS), "tokens");
    BENT(s.tokens = mmix_slice(m, s.tokens, 1, 0, 0), "");
    BENT((s.tokens = NULL), "tokens");
#undef BENT
    s = sequence(m, 1, 1);
    REFUSED(m, !mmix_decoder_forward(m, d, NULL, NULL), "NULL");
    CHECK(!mmix_decoder_forward(m, NULL, &s, NULL) && !mmix_decoder_logits(m, NULL, s.media) && !mmix_decoder_config_of(NULL)
          && !mmix_decoder_params(NULL) && !mmix_decoder_adapters(NULL) && !mmix_decoder_state_create(NULL));
    mmix_error_clear(m);
    mmix_decoder_destroy(NULL), mmix_decoder_state_destroy(NULL), mmix_tokenizer_destroy(NULL), mmix_distill_destroy(NULL);
    REFUSED(m, !mmix_decoder_matrix(m, d, &s, 4), "layer 4 of 4");
    REFUSED(m, !mmix_decoder_step(m, d, &s, NULL), "NULL");
    state = mmix_decoder_state_create(teacher);
    REFUSED(m, !mmix_decoder_step(m, d, &s, state), "another");
    mmix_decoder_step(m, teacher, &s, state);
    {                                            /* another number of sequences than before */
        mmix_sequence one = s;
        one.tokens = mmix_slice(m, s.tokens, 0, 0, 1), one.media = NULL, one.n_spans = 0;
        CHECK(!mmix_decoder_step(m, teacher, &one, state) && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT);
        mmix_error_clear(m);
    }
    mmix_decoder_state_destroy(state);
    {
        mmix_tensor *inputs[4] = {NULL, NULL, NULL, NULL};
        mmix_decoder_options look;
        memset(&look, 0, sizeof look);
        look.inputs = inputs;
        inputs[0] = mmix_new3(m, BATCH, TOKENS, 11);
        REFUSED(m, !mmix_decoder_forward(m, d, &s, &look), "inputs");
        REFUSED(m, !mmix_decoder_logits(m, d, inputs[0]), "");
    }
    {                                            /* layers */
        alone a = layer(0, 0, 0);
        mmix_mmate_layer l;
        mmix_mmate_options o = a.l.options;
        mmix_tensor *pos = mmix_new1(a.m, TOKENS);
        const size_t few = TOKENS - 1;
        REFUSED(a.m, mmix_projections_init(&l.flex, a.p, "x.", 12, 4, 3, 3, 0) == -1, "which must divide");
        REFUSED(a.m, mmix_projections_init(&l.flex, a.p, "x.", 12, 0, 1, 3, 0) == -1, "0 heads");
        o.shift_period = 5;
        REFUSED(a.m, mmix_mmate_init(&l, a.p, "y.", 12, 3, 3, 4, 0, 1, &o) == -1, "shift period 5");
        REFUSED(a.m, !mmix_mmate(a.m, &a.l, mmix_slice(a.m, a.x, 2, 0, 11), NULL, &a.layout), "");
        REFUSED(a.m, !mmix_mmate(a.m, &a.l, mmix_slice(a.m, a.x, 1, 0, 26), NULL, &a.layout), "span 2");
        REFUSED(a.m, !mmix_mmate(a.m, &a.l, a.x, mmix_slice(a.m, a.x, 1, 0, 26), &a.layout), "");
        REFUSED(a.m, !mmix_flex_ma(a.m, &a.l, pos, NULL, &a.layout), "x");
        a.layout.initial_state = mmix_fill(mmix_new4(a.m, BATCH, 3, 4, 5), 0);
        REFUSED(a.m, !mmix_flex_ma(a.m, &a.l, a.x, NULL, &a.layout), "");
        a.layout.initial_state = NULL;
        a.layout.positions = pos;                /* reals */
        REFUSED(a.m, !mmix_local_swin(a.m, &a.l, a.x, NULL, &a.layout), "positions");
        a.layout.positions = mmix_fill(mmix_new(a.m, MMIX_DTYPE_I32, 1, &few), 1);
        REFUSED(a.m, !mmix_local_swin(a.m, &a.l, a.x, NULL, &a.layout), "positions");
        REFUSED(a.m, !mmix_mmate(a.m, &a.l, a.x, NULL, &a.layout), "positions");
        REFUSED(a.m, !mmix_causal_attention(a.m, &a.l.flex, a.x, NULL, &a.l.rope, &a.layout), "pos");
        a.layout.positions = NULL;
        a.layout.state = mmix_state_create(a.m, 2);
        a.layout.slot = 1;
        REFUSED(a.m, !mmix_mmate(a.m, &a.l, a.x, NULL, &a.layout), "slot");
        a.layout.slot = 0;
        REFUSED(a.m, !mmix_flex_ma_matrix(a.m, &a.l, a.x, &a.layout), "state");
        mmix_state_destroy(a.layout.state);
        a.layout.state = NULL;
        CHECK(!mmix_mmate(a.m, &a.l, NULL, NULL, &a.layout));
        mmix_error_clear(a.m);
        leave(&a);
        a = layer(8, 0, 0);
        REFUSED(a.m, !mmix_flex_ma_matrix(a.m, &a.l, a.x, &a.layout), "convolution");
        REFUSED(a.m, !mmix_flex_ma_matrix(a.m, &a.l, a.x, NULL), "convolution");
        leave(&a);
        a = layer(4, 0, 0);                      /* a branch that is not there */
        CHECK(!mmix_local_swin(a.m, &a.l, a.x, NULL, &a.layout));
        mmix_error_clear(a.m);
        leave(&a);
    }
    {                                            /* adding rows, losses */
        mmix_tensor *x = mmix_fill(mmix_new3(m, 2, 5, 3), 0), *part = mmix_fill(mmix_new3(m, 2, 2, 3), 0);
        const int32_t at[2] = {0, 5};
        const size_t two = 2;
        REFUSED(m, !mmix_add_rows(m, x, part, mmix_from_i32(m, 1, &two, at)), "5");
        REFUSED(m, !mmix_add_rows(m, x, part, mmix_slice(m, mmix_from_i32(m, 1, &two, at), 0, 0, 1)), "");
        REFUSED(m, !mmix_add_rows(m, x, mmix_slice(m, part, 2, 0, 2), mmix_from_i32(m, 1, &two, at)), "");
        REFUSED(m, !mmix_kd_hidden(m, x, part, NULL, 0), "");
        REFUSED(m, !mmix_kd_hidden(m, x, x, mmix_from_i32(m, 1, &two, at), 0), "mask");
        REFUSED(m, !mmix_kd_token(m, x, part, NULL, 1), "");
        REFUSED(m, !mmix_kd_token(m, x, x, NULL, 0), "temperature");
        REFUSED(m, !mmix_kd_token(m, x, x, mmix_from_i32(m, 1, &two, at), 1), "mask");
    }
    /* what a chain of calls ends with */
    {
        const mmix_real endless[3] = {0, 1, (mmix_real)INFINITY};
        const mmix_sampling warm = {1, 0, 0, 0};
        int32_t made[4] = {0, 0, 0, 0};
        mmix_tensor *short_one, *x;
        mmix_mmate_layer one = layer_of(d, mmix_decoder_params(d), 0);
        s = sequence(m, 1, 1);
        REFUSED(m, mmix_sample(m, NULL, WORDS, NULL, 0) == 0, "mmix_sample: expected logits");
        REFUSED(m, mmix_sample(m, endless, 0, &warm, 0) == 0, "found none");
        CHECK(mmix_sample(m, endless, 3, &warm, 0) == 2);
        REFUSED(m, mmix_decoder_generate(d, NULL, 4, NULL, made, 4) == 0, "mmix_decoder_generate: expected a prompt");
        REFUSED(m, mmix_decoder_generate(d, made, 0, NULL, made, 4) == 0, "found none");
        REFUSED(m, mmix_decoder_generate(d, made, 2, NULL, NULL, 4) == 0, "NULL");
        REFUSED(m, mmix_decoder_continue(m, d, NULL, NULL, made, 4) == 0, "mmix_decoder_continue: expected a sequence");
        s.tokens = NULL;
        REFUSED(m, mmix_decoder_continue(m, d, &s, NULL, made, 4) == 0, "tokens is NULL");
        short_one = mmix_fill(mmix_new3(m, 2, 4, c.dim), 0), x = mmix_fill(mmix_new3(m, 2, 5, c.dim), 0);
        REFUSED(m, !mmix_local_swin(m, &one, x, short_one, NULL), "residual");
        s = sequence(m, 1, 1);
        s.spans = NULL;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "spans, found NULL");
        CHECK(!mmix_decoder_open(NULL, "any") && !mmix_tokenizer_load(NULL, "any") && !mmix_vision_open(NULL, "any"));
    }
    /* adapters, conversion, distillation */
    REFUSED(m, mmix_decoder_lora(d, 0, 1, MMIX_LORA_FFN) == -1, "rank 0");
    REFUSED(m, mmix_decoder_lora(d, 1, 1, 0) == -1, "targets 0");
    CHECK(!mmix_decoder_lora(d, 1, 1, MMIX_LORA_FFN));
    REFUSED(m, mmix_decoder_lora(d, 1, 1, MMIX_LORA_FFN) == -1, "already");
    REFUSED(m, !mmix_linmu_from(d, NULL), "found M-MATE");
    CHECK(!mmix_linmu_from(NULL, NULL));
    mmix_error_clear(m);
    t.mmate.shift_period = 1;
    REFUSED(m, !mmix_linmu_from(teacher, &t.mmate), "shift period");
    t.mmate.shift_period = 0;
    student = mmix_linmu_from(teacher, &t.mmate);
    REFUSED(m, mmix_linmu_calibrate(d, teacher, &s) == -1, "sizes");
    REFUSED(m, mmix_linmu_calibrate(student, student, &s) == -1, "");
    {
        mmix_distill_config good = three_stages(1), bad = good;
        mmix_distill_batch b;
        mmix_distill *run;
        REFUSED(m, !mmix_distill_create(teacher, d, good), "");
        bad.stages = 0;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "stages");
        bad.stages = MMIX_MAX_STAGES + 1;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "stages");
        bad = good, bad.stage[1].train = 0;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "stage 1");
        bad = good, bad.stage[2].temperature = 0;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "stage 2");
        bad = good, bad.lora_rank = 0;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "rank");
        bad = good, bad.stage[1].lr = INFINITY;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "the rate is above 0");
        bad = good, bad.stage[0].min_lr = NAN;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "min_lr");
        bad = good, bad.stage[0].weight_decay = NAN;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "weight_decay");
        bad = good, bad.stage[0].hidden = bad.stage[0].token = 0;
        REFUSED(m, !mmix_distill_create(teacher, student, bad), "a loss has a weight");
        REFUSED(m, !mmix_distill_create(teacher, teacher, good), "another decoder");
        {                                        /* Flex-MA trains in stage 1, and this student has none */
            mmix_mmate_options swin = t.mmate;
            swin.branches = MMIX_BRANCH_SWIN;
            mmix_decoder *other = mmix_linmu_from(teacher, &swin);
            REFUSED(m, !mmix_distill_create(teacher, other, good), "stage 0, expected that it trains something");
            bad = good, bad.stage[0].train = MMIX_TRAIN_SWIN;
            run = mmix_distill_create(teacher, other, bad);
            b = batch_of(m, 0, 1);               /* without spans and a text window no token takes part */
            b.input.spans = NULL, b.input.media = NULL, b.input.n_spans = 0;
            REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "takes part");
            mmix_distill_destroy(run);
            mmix_decoder_destroy(other);
        }
        good.stage[0].supervised = 1;
        run = mmix_distill_create(teacher, student, good);
        FINE(m, about);
        CHECK(mmix_distill_step(run, NULL, NULL) == -1 && mmix_error(m));
        mmix_error_clear(m);
        b = batch_of(m, 0, 1);
        b.target = mmix_slice(m, b.target, 1, 0, 20);
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "target");
        b = batch_of(m, 0, 1);
        b.mask = mmix_slice(m, b.mask, 1, 0, 20);
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "mask");
        b = batch_of(m, 0, 0);
        mmix_data_i32(b.target)[LAST_TEXT] = WORDS;
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "mmix_distill_step: target of position 29 of sequence 0 is 23, expected at most 22");
        REFUSED(m, mmix_distill_losses(run, &b, NULL) == -1, "mmix_distill_losses: target of position 29");
        REFUSED(m, mmix_distill_losses(run, NULL, NULL) == -1, "NULL");
        REFUSED(m, mmix_distill_run(run, NULL, NULL, NULL) == -1, "next is NULL");
        REFUSED(m, !mmix_distill_load(teacher, RUN, NULL), "student is NULL");
        b = batch_of(m, 0, 0);
        for (size_t i = 0; i < BATCH * TOKENS; i++) mmix_data_i32(b.target)[i] = -1;
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "mmix_distill_step: no answer");
        b = batch_of(m, 0, 0);
        b.input.spans = NULL;
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "spans, found NULL");
        b = batch_of(m, 0, 0);
        b.input.n_spans = 1;
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "media");
        mmix_distill_destroy(run);
        good.stage[0].sequence = 1;              /* the teacher answers, and spans come before answers then */
        run = mmix_distill_create(teacher, student, good);
        b = batch_of(m, 0, 0);
        mmix_data_i32(b.target)[0] = 1;
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "position 0 of row 0 has a target before a span's end");
        b = batch_of(m, 0, 0);
        mmix_data_i32(b.target)[LAST_TEXT] = -1, mmix_data_i32(b.target)[LAST_TEXT - 1] = 1;
        REFUSED(m, mmix_distill_step(run, &b, NULL) == -1, "after a gap");
        mmix_distill_destroy(run);
    }
    FINE(m, about);
    mmix_decoder_destroy(student);
    mmix_decoder_destroy(teacher);
    mmix_decoder_destroy(d);
    mmix_destroy(m);
}

/* ---- the n-th allocation fails ---- */

/* Adapters for which there is no memory leave the decoder as it was. */
static void no_adapters(void)
{
    mmix_ctx *m = context(1);
    mmix_decoder *d = variant(m, 0);
    mmix_real *plain = logits_of(m, d);
    size_t n = 1;
    for (int done = 0; !done && n < 500; n++) {
        m->allocator.count_limit = mmix_memory(m).allocations + n;
        done = !mmix_decoder_lora(d, 2, 4, MMIX_LORA_FFN | MMIX_LORA_MIXER);
        m->allocator.count_limit = 0;
        if (!done) CHECK(mmix_error_kind(m) == MMIX_ERROR_MEMORY && !mmix_decoder_adapters(d));
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

/* A conversion, a step of distillation with everything in it, files of both, a text continued: 1 if all went well. */
static int everything(mmix_ctx *m, const Bytes *words)
{
    static const int32_t prompt[3] = {1, 2, 3};
    mmix_decoder_config c = pupil(MMIX_DECODER_ATTENTION);
    mmix_distill_config run_config = three_stages(1);
    mmix_decoder *teacher, *student = NULL, *back = NULL, *resumed = NULL;
    mmix_distill *run = NULL, *again = NULL;
    mmix_tokenizer *t;
    int32_t made[4];
    int ok = 0;
    run_config.stages = 1;
    run_config.calibrate = 1;
    run_config.stage[0] = stage(15, 1, 1, 1, 1, 1);
    c.mmate.text_window = 3, c.mmate.conv_width = 2;
    teacher = mmix_decoder_create(m, c);
    t = mmix_tokenizer_from(m, "made up", words->at, words->n);
    if (teacher && t) student = mmix_linmu_from(teacher, &c.mmate);
    if (student) run = mmix_distill_create(teacher, student, run_config);
    if (run) {
        mmix_distill_batch b = batch_of(m, 0, 1);
        mmix_record(m, MMIX_RECORD_LAYERS);
        ok = !mmix_error(m) && mmix_distill_step(run, &b, NULL) == 1 && mmix_record(m, 0) == MMIX_RECORD_LAYERS && !mmix_distill_save(run, RUN, "n") && !mmix_decoder_save(student, PATH);
    }
    if (ok) ok = (back = mmix_decoder_open(m, PATH)) != NULL && mmix_decoder_generate(back, prompt, 3, NULL, made, 4) == 4;
    if (ok) ok = (again = mmix_distill_load(teacher, RUN, &resumed)) != NULL;
    if (ok) ok = mmix_tokenizer_encode(t, "abc", 1, 0, made, 4) > 0;
    if (!ok && !mmix_error(m)) CHECK_AT(0, "a failure without a message");
    mmix_distill_destroy(again);
    if (again) mmix_decoder_destroy(resumed);
    mmix_decoder_destroy(back);
    mmix_distill_destroy(run);
    mmix_decoder_destroy(student);
    mmix_tokenizer_destroy(t);
    mmix_decoder_destroy(teacher);
    return ok;
}
static void no_memory(void)
{
    mmix_ctx *m = context(1);
    Vocabulary *v = vocabulary(m);
    Bytes words = tokenizer_file(v);
    size_t n = 1, failures = 0;
    mmix_destroy(m);
#ifdef MMIX_REGRESSION
    const size_t stride = 7;                     /* its small blocks are thousands */
#else
    const size_t stride = 1;
#endif
    for (int done = 0; !done && n < 9000; n += stride) {
        mmix_options o;
        memset(&o, 0, sizeof o);
        o.threads = 1;
        o.allocator.count_limit = n;
        m = mmix_create(&o);
        if (!m) continue;
        const size_t before = mmix_memory(m).bytes;
        done = everything(m, &words);
        if (!done && mmix_error_kind(m) != MMIX_ERROR_MEMORY) check(0, __LINE__, "memory", mmix_error(m));
        failures += !done;
        mmix_reset(m);
        if (mmix_memory(m).bytes - before > ((size_t)4 << 20)) check(0, __LINE__, "a leak", "");       /* step memory stays */
        mmix_destroy(m);
    }
    CHECK(failures > 100 && n < 9000);
    free(words.at);
    free(v);
}

int main(void)
{
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    perturbation();
    steps();
    constant_memory();
    matrices();
    neutral();
    layer_faces();
    conversion();
    inside();
    adapters();
    round_trip();
    hugging_face();
    llama2c();
    tokenizer();
    sampling();
    what_trains();
    learning();
    stages();
    accumulation();
    decoded();
    losses();
    running();
    damaged();
    conversion_of_adapters();
    own_adapters();
    bad_arguments();
    no_adapters();
    no_memory();
    remove(PATH), remove(PATH2), remove(RUN);
    remove(FOLDER);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
