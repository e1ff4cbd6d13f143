/* decoder.c - decoders of text and media: what no token may see, pieces against the whole,
   sampling. Values are those of tests/golden.c */
#include "decoders.h"

/* ---- what no token may see ----

   No token of text depends on a later token, and none of a span on one behind the span: bit for
   bit, through four layers. Inside a span earlier tokens do change, and what is changed changes
   itself and the last token. */

static void perturbation(void)
{
    for (int o = 0; o < VARIANTS; o++)
        for (int media = 0; media < 2; media++) {
            mmix_ctx *m = context(1, 0);
            mmix_decoder *d = variant(m, o);
            mmix_real *base = NULL;
            const size_t D = d->config.dim;
            const int attention = looks_back(o);
            int leaks = 0, other = 0, itself = 0, earlier = 0, last = 0, grids = 0;
            /* i = TOKENS: nothing changes */
            for (size_t i = 0; i <= TOKENS; i++) {
                const size_t at = (i + TOKENS) % (TOKENS + 1);       /* which comes first */
                const int row = at < TOKENS ? feature_of(at) : -1;
                const int span = at < TOKENS ? span_of(at) : -1;
                int seen = 0;
                mmix_sequence s = sequence(m, media, 1);
                if (media && row >= 0)
                    mmix_data(s.media)[row * FEATURES + 2] += 1;
                else if (at < TOKENS)
                    mmix_data_i32(s.tokens)[at] = (mmix_data_i32(s.tokens)[at] + 5) % WORDS;
                mmix_real *y = copied(mmix_decoder_forward(m, d, &s, NULL));
                mmix_reset(m);
                if (at == TOKENS) {
                    base = y;
                    continue;
                }
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
                if (row >= 0 && at > spans[span].start) {
                    grids++;
                    earlier += seen;
                }
                free(y);
            }
            CHECK_AT(!leaks && !other, about);
            CHECK_AT(itself == TOKENS, about);
            if (o == SWIN_ONLY)
                CHECK_AT(earlier >= grids - 4 && earlier > 0, about);
            else CHECK_AT(earlier == (attention ? 0 : grids) && last == TOKENS, about);
            FINE(m);
            free(base);
            mmix_decoder_destroy(d);
            mmix_destroy(m);
        }
}

/* ---- pieces and the whole ---- */

static void steps(void)
{
    for (int o = 0; o < VARIANTS; o++)
        for (int media = 0; media < 2; media++) {
            mmix_ctx *m = context(1, 0);
            mmix_decoder *d = variant(m, o);
            mmix_mix_state *s = mmix_decoder_state_create(d), *other;
            mmix_sequence all = sequence(m, media, 2), p;
            mmix_span room[SPANS];
            mmix_real *whole = copied(
                mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &all, NULL)));
            double worst = 0;
#define NEAR_LOGITS(logits, at)                                                                  \
    do {                                                                                         \
        mmix_real *near_ = copied(logits);                                                       \
        for (size_t b_ = 0; b_ < BATCH; b_++)                                                    \
            worst = fmax(worst,                                                                  \
                         most(near_ + b_ * WORDS, whole + (b_ * TOKENS + (at)) * WORDS, WORDS)); \
        free(near_);                                                                             \
    } while (0)
            { /* a state that was cleared is as a new one, bit for bit */
                mmix_tensor *y = mmix_decoder_step(m, d, &all, s);
                mmix_mix_state_clear(s);
                CHECK_AT(mmix_mix_state_tokens(s, 0) == 0
                             && gap(y, mmix_decoder_step(m, d, &all, s)) <= 0,
                         about);
            }
            for (size_t cut = 1; cut <= TOKENS; cut++) {
                const int inside = cut < TOKENS && span_of(cut) >= 0
                                   && span_of(cut) == span_of(cut - 1);
                mmix_mark mark = mmix_mark_here(m);
                mmix_tensor *y;
                mmix_mix_state_clear(s);
                p = piece(m, &all, 0, cut, room);
                y = mmix_decoder_step(m, d, &p, s);
                if (inside) REFUSED(m, !y, "span");
                else {
                    NEAR_LOGITS(y, cut - 1);
                    CHECK_AT(mmix_mix_state_tokens(s, 0) == cut, about);
                    if (cut < TOKENS) {
                        p = piece(m, &all, cut, TOKENS, room);
                        NEAR_LOGITS(mmix_decoder_step(m, d, &p, s), TOKENS - 1);
                    }
                    FINE(m);
                }
                mmix_rewind(m, mark);
            }
            CHECK_AT(worst < TOL * 10, about);
            worst = 0;
            mmix_mix_state_clear(s);
            other = NULL;
            /* token by token; spans are whole */
            for (size_t i = 0, to; i < TOKENS; i = to) {
                mmix_mark mark = mmix_mark_here(m);
                mmix_tensor *y, *z;
                to = span_of(i) < 0 ? i + 1 : behind(&spans[span_of(i)]);
                p = piece(m, &all, i, to, room);
                y = mmix_decoder_step(m, d, &p, s);
                NEAR_LOGITS(y, to - 1);
                if (other) {                     /* the copy goes on alike */
                    z = mmix_decoder_step(m, d, &p, other);
                    CHECK_AT(gap(y, z) <= 0, about);
                }
                if (i == 9) other = mmix_mix_state_copy(s);
                mmix_rewind(m, mark);
            }
            CHECK_AT(worst < TOL * 10 && mmix_mix_state_tokens(other, 0) == TOKENS, about);
            FINE(m);
            mmix_mix_state_destroy(s);
            mmix_mix_state_destroy(other);
            free(whole);
            mmix_decoder_destroy(d);
            mmix_destroy(m);
        }
#undef NEAR_LOGITS
}
/* What a state holds, after 40 and after 400 tokens more. */
static void constant_memory(void)
{
    for (int o = 0; o < VARIANTS; o++) {
        mmix_ctx *m = context(1, 0);
        mmix_decoder *d = variant(m, o);
        mmix_mix_state *s = mmix_decoder_state_create(d);
        mmix_sequence all = sequence(m, 1, 2), p;
        mmix_span room[SPANS];
        size_t bytes[2] = {0, 0}, held[2] = {0, 0};
        const size_t window = d->config.mmate.text_window + d->config.window;
        mmix_decoder_step(m, d, &all, s);
        p = piece(m, &all, 0, 1, room);
        for (int i = 1; i <= 400; i++) {
            mmix_mark mark = mmix_mark_here(m);
            mmix_decoder_step(m, d, &p, s);
            mmix_rewind(m, mark);
            if (i == 40 || i == 400) {
                bytes[i > 40] = mmix_mix_state_bytes(s);
                held[i > 40] = mmix_memory(m).bytes;
            }
        }
        CHECK_AT(bytes[0] > 0 && mmix_mix_state_tokens(s, 0) == TOKENS + 400, about);
        if (remembers_all(o))
            CHECK_AT(bytes[1] > bytes[0] * 2, about);
        else CHECK_AT(window ? bytes[1] <= bytes[0] : bytes[1] == bytes[0], about);
        if (o < OPTIONS)
            CHECK_AT(held[1] == held[0], about);
        FINE(m);
        mmix_mix_state_destroy(s);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

/* ---- sampling and continuing ---- */

/* top_p so near to 1 that the scores, summed from the largest on, may not reach it: then all
   tokens are kept. */
static void sampling_of_all(void)
{
    /* of 15 passes of sorting: nothing lies behind the sorted scores */
    enum { K = 32000, TRIES = 12 };
    mmix_ctx *m = context(1, 0);
    mmix_sampling s;
    memset(&s, 0, sizeof s);
    s.temperature = 1;
    s.top_p = 1 - DBL_EPSILON / 2;
    for (uint64_t i = 0; i < TRIES; i++) {
        const mmix_tensor *logits = mmix_fill_normal(m, mmix_new1(m, K), 2, i);
        const int32_t k = mmix_sample_token(m, mmix_data(logits), K, &s, i);
        CHECK(k >= 0 && k < K);
    }
    FINE(m);
    mmix_destroy(m);
}
static void sampling(void)
{
    enum { K = 7, DRAWS = 40000 };
    static const mmix_real logits[K] = {
        (mmix_real)0.3, (mmix_real)-1.2, (mmix_real)2.1, (mmix_real)1.9, -4,
        (mmix_real)0.9, (mmix_real)1.4
    };
    mmix_ctx *m = context(1, 0);
    mmix_sampling s;
    memset(&s, 0, sizeof s);
    CHECK(mmix_sample_token(m, logits, K, &s, 5) == 2
          && mmix_sample_token(m, logits, K, NULL, 5) == 2);
    for (int way = 0; way < 10; way++) {
        static const double temperature[10] = {1, 0.5, 2, 1, 0.7, 1, 1, 1, 2, 1},
            top_p[10] = {0, 0, 1, 0.8, 0.5, 1e-6, 0, 0.5, 0, 0};
        static const size_t top_k[10] = {0, 0, 0, 0, 0, 0, 3, 3, 1, K + 3};
        double p[K], sum = 0, kept = 0, chi = 0, all = 0;
        int count[K] = {0}, order[K], likely = 0, same = 0, other = 0;
        const int most = top_k[way] && top_k[way] < K ? (int)top_k[way] : K;
        s.temperature = temperature[way];
        s.top_p = top_p[way];
        s.top_k = top_k[way];
        for (int k = 0; k < K; k++) {
            sum += p[k] = exp((double)logits[k] / s.temperature);
            order[k] = k;
        }
        for (int i = 0; i < K; i++)
            for (int j = i + 1; j < K; j++)
                if (p[order[j]] > p[order[i]]) {
                    const int t = order[i];
                    order[i] = order[j], order[j] = t;
                }
        /* top_p is a share of the top_k */
        for (int i = 0; i < most; i++)
            all += p[order[i]] / sum;
        for (; likely < most && (likely == 0 || s.top_p <= 0 || kept < s.top_p * all); likely++)
            kept += p[order[likely]] / sum;
        for (uint64_t i = 0; i < DRAWS; i++) {
            const int32_t k = mmix_sample_token(m, logits, K, &s, i);
            if (k < 0 || k >= K) {
                CHECK(0);
                break;
            }
            count[k]++;
            same += mmix_sample_token(m, logits, K, &s, i) == k;
            s.stream++;
            other += mmix_sample_token(m, logits, K, &s, i) == k;
            s.stream--;
        }
        for (int i = 0; i < K; i++) {
            const double expected = DRAWS * p[order[i]] / sum / kept;
            if (i < likely)
                chi += (count[order[i]] - expected) * (count[order[i]] - expected) / expected;
            else CHECK(count[order[i]] == 0);
        }
        snprintf(about, sizeof about, "way %d, chi² %.2f of %d", way, chi, likely - 1);
        CHECK_AT(chi < likely - 1 + 5 * sqrt(2.0 * likely), about);
        CHECK_AT(same == DRAWS && (likely == 1 || other < DRAWS * 0.9), about);
    }
    s.temperature = 1;
    s.top_p = 0;
    s.top_k = 0;
    int equal = 0;
    for (uint64_t i = 0; i < 1000; i++) {        /* another seed, other numbers */
        mmix_seed_set(m, 1);
        const int32_t k = mmix_sample_token(m, logits, K, &s, i);
        mmix_seed_set(m, 2);
        equal += mmix_sample_token(m, logits, K, &s, i) == k;
    }
    CHECK(equal > 100 && equal < 900);
    FINE(m);
    mmix_destroy(m);

    for (int mixer = 0; mixer < 2; mixer++) {
        mmix_ctx *n = context(1, 0);
        mmix_decoder *d = variant(n, mixer ? 0 : OPTIONS);
        mmix_sequence q = sequence(n, 1, 3), one;
        mmix_mix_state *state = mmix_decoder_state_create(d);
        int32_t made[BATCH * 12], prompt[5] = {1, 7, 3, 9, 2}, first[12], again[12], third[12];
        mmix_tensor *y = mmix_decoder_step(n, d, &q, state);
        int wrong = 0;
        memset(&one, 0, sizeof one);
        CHECK_AT(mmix_decoder_generate(n, d, &q, NULL, made, 12) == 12, about);
        for (size_t i = 0; i < 12; i++) {        /* by hand */
            int32_t next[BATCH];
            const size_t shape[2] = {BATCH, 1};
            for (size_t b = 0; b < BATCH; b++) {
                next[b] = 0;
                for (int32_t k = 1; y && k < WORDS; k++)
                    if (mmix_data(y)[b * WORDS + (size_t)k]
                        > mmix_data(y)[b * WORDS + (size_t)next[b]])
                        next[b] = k;
                wrong += next[b] != made[b * 12 + i];
            }
            one.tokens = mmix_from_i32(n, 2, shape, next);
            y = mmix_decoder_step(n, d, &one, state);
        }
        CHECK_AT(!wrong, about);
        mmix_mix_state_destroy(state);
        memset(&s, 0, sizeof s);
        size_t at = 4;
        while (at < 11 && !made[at]) at++;       /* token 0 would mean none */
        /* row 0 stops at its first; what follows is filled up */
        s.stop = made[at];
        size_t longest = mmix_decoder_generate(n, d, &q, &s, made, 12), rows[BATCH];
        for (size_t b = 0; b < BATCH; b++) {
            rows[b] = 0;
            while (rows[b] < 12 && made[b * 12 + rows[b]] != s.stop)
                rows[b]++;
            for (size_t i = rows[b]; i < longest; i++)
                wrong += made[b * 12 + i] != s.stop;
            if (rows[b] < 12) rows[b]++;
        }
        /* alone, row 0 ends before the count: filled up all the same */
        {
            mmix_sequence single = q;
            int32_t row[12];
            single.tokens = mmix_slice(n, q.tokens, 0, 0, 1);
            single.media = mmix_slice(n, q.media, 0, 0, 1);
            memset(row, 0, sizeof row);
            wrong += mmix_decoder_generate(n, d, &single, &s, row, 12) != rows[0];
            for (size_t i = rows[0]; i < 12; i++)
                wrong += row[i] != s.stop;
        }
        CHECK_AT(!wrong && rows[0] <= at + 1 && longest == (rows[0] > rows[1] ? rows[0] : rows[1]),
                 about);
        FINE(n);
        mmix_reset(n);
        s.stop = 0;
        s.temperature = 1;
        CHECK_AT(generate(n, d, prompt, 5, &s, first, 12) == 12
                     && generate(n, d, prompt, 5, &s, again, 12) == 12,
                 about);
        s.stream = 1;
        CHECK_AT(generate(n, d, prompt, 5, &s, third, 12) == 12, about);
        CHECK_AT(!memcmp(first, again, sizeof first) && memcmp(first, third, sizeof first), about);
        for (at = 6; at < 11 && !first[at]; ) at++;
        s.stop = first[at];
        s.stream = 0;
        longest = generate(n, d, prompt, 5, &s, again, 12);
        CHECK_AT(longest >= 1 && longest <= at + 1 && again[longest - 1] == s.stop
                     && !memcmp(first, again, longest * sizeof *first),
                 about);
        FINE(n);
        mmix_decoder_destroy(d);
        mmix_destroy(n);
    }
}

/* Logits that are not finite are refused, whatever the way a token is drawn, and a continuation
   says so, too; -infinity excludes a token. */
static void not_finite(void)
{
    enum { K = 5 };
    mmix_ctx *m = context(1, 0);
    mmix_real logits[K];
    char where[64];
    for (int way = 0; way < 5; way++) {
        static const double temperature[5] = {0, 1, 1, 1, 0.3}, top_p[5] = {0, 0, 0.5, 1, 0.01};
        mmix_sampling s;
        memset(&s, 0, sizeof s);
        s.temperature = temperature[way];
        s.top_p = top_p[way];
        for (int bad = -1; bad < K; bad++) {
            for (int k = 0; k < K; k++)
                logits[k] = bad < 0 ? -(mmix_real)INFINITY : (mmix_real)k;
            if (bad >= 0) logits[bad] = (mmix_real)NAN;
            const char *is = bad < 0 ? "-infinity, as all are" : "not a number";
            snprintf(where, sizeof where, "that of token %d of %d is %s", bad < 0 ? 0 : bad, K, is);
            REFUSED_AS(MMIX_ERROR_ARGUMENT, m,
                       mmix_sample_token(m, logits, K, way ? &s : NULL, (uint64_t)3 << 32 | 9) == 0,
                       "mmix_sample_token: the logits are not finite", where);
            if (bad < 0) continue;
            for (int k = 0; k < K; k++)
                logits[k] = k == bad ? -1 : -(mmix_real)INFINITY;
            CHECK(mmix_sample_token(m, logits, K, way ? &s : NULL, 4) == bad);
        }
    }
    logits[0] = (mmix_real)NAN;
    REFUSED(m, mmix_sample_token(m, logits, K, NULL, (uint64_t)3 << 32 | 9) == 0,
            "(sequence 3, place 9)");
    FINE(m);
    mmix_destroy(m);
    for (int o = 0; o < 2; o++) {
        mmix_ctx *n = context(1, 0);
        mmix_decoder *d = variant(n, o ? OPTIONS : 0);
        const int32_t prompt[3] = {1, 2, 3};
        int32_t made[4] = {0, 0, 0, 0};
        mmix_fill(mmix_params_find(d->params, "model.norm.weight"), NAN);
        REFUSED(n, generate(n, d, prompt, 3, NULL, made, 4) == 0,
                "mmix_sample_token: the logits are not finite: that of token 0 of 23 is not a "
                "number (sequence 0, place 3)");
        mmix_decoder_destroy(d);
        mmix_destroy(n);
    }
}

/* ---- media that are as wide as the decoder ----

   A decoder without an MLP takes them as they are: with the embeddings of the grid's tokens for
   features it computes what it computes from the tokens. */

static void media_as_they_are(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_decoder_config c = small(MMIX_DECODER_MMATE);
    c.media = 0;
    mmix_decoder *d = mmix_decoder_create(m, c);
    mmix_sequence s = sequence(m, 0, 1);
    mmix_tensor *plain = mmix_decoder_forward(m, d, &s, NULL);
    s.media = mmix_new3(m, BATCH, GRID, d->config.dim);
    const size_t D = d->config.dim;
    for (size_t b = 0; b < BATCH; b++)
        for (size_t i = 0; i < TOKENS; i++) {
            const int row = feature_of(i);
            const int32_t token = mmix_data_i32(s.tokens)[b * TOKENS + i];
            if (row >= 0)
                memcpy(mmix_data(s.media) + (b * GRID + (size_t)row) * D,
                       mmix_data(d->embedding) + (size_t)token * D, D * sizeof(mmix_real));
        }
    mmix_tensor *given = mmix_decoder_forward(m, d, &s, NULL);
    FINE(m);
    CHECK(plain && given
          && !memcmp(mmix_data(plain), mmix_data(given), mmix_count(plain) * sizeof(mmix_real)));
    s.media = mmix_slice(m, s.media, 2, 0, D - 1);
    REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "media");
    mmix_decoder_destroy(d);
    mmix_destroy(m);
}

/* ---- fewer media tokens behind a layer ---- */

enum {
    ATTENTION_BEHIND, AXES_BEHIND, MMATE_BEHIND, MAMBA_BEHIND,       /* attention, then … */
    MMATE_BEFORE, GATED_BEFORE, CONVOLVED_BEFORE,        /* M-MATE of three kinds, then attention */
    ALL_MMATE, PRUNED
};
/* Two layers that may score, and two behind them. */
static mmix_decoder *pruned_decoder(mmix_ctx *m, int kind)
{
    mmix_decoder_config c = small(MMIX_DECODER_LISTED);
    c.mamba2.head_dim = 8;
    if (kind == AXES_BEHIND)
        c.rope.sections[0] = c.rope.sections[1] = c.rope.sections[2] = 1;
    for (int i = 2; i < 4; i++) {
        if (kind == MMATE_BEHIND || kind == ALL_MMATE) c.layers[i].mixer = MMIX_DECODER_MMATE;
        if (kind == MAMBA_BEHIND) c.layers[i].mixer = MMIX_DECODER_MAMBA2;
    }
    for (int i = 0; i < 2 && kind >= MMATE_BEFORE; i++) c.layers[i].mixer = MMIX_DECODER_MMATE;
    c.mmate.text_window = 3;
    c.mmate.skip = 1;
    if (kind == GATED_BEFORE) c.mmate.branch_gate = 1;
    if (kind == CONVOLVED_BEFORE) {
        c.mmate.output_gate = c.mmate.norm = 1;
        c.mmate.conv_width = 3;
    }
    snprintf(about, sizeof about, "pruned, kind %d", kind);
    return shaken(m, c);
}
/* The first of the two sequences. */
static mmix_sequence one_sequence(mmix_ctx *m)
{
    mmix_sequence s = sequence(m, 1, 4);
    s.tokens = mmix_slice(m, s.tokens, 0, 0, 1);
    s.media = mmix_slice(m, s.media, 0, 0, 1);
    return s;
}

/* What the last token reads of each in a layer, the heads' sum of sizes. */
static void last_row(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *s, size_t layer,
                     double *row)
{
    mmix_tensor *M = mmix_decoder_matrix(m, d, s, layer);
    const size_t H = mmix_shape(M, 1), L = mmix_shape(M, 2);
    for (size_t j = 0; j < L; j++) {
        row[j] = 0;
        for (size_t h = 0; h < H; h++) row[j] += fabs((double)mmix_data(M)[(h * L + L - 1) * L + j]);
    }
}
/* Lists the tokens that go on by keep: ranks are counted. */
static size_t expect_share(const double *row, double keep, size_t *kept)
{
    size_t n = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        double before = 0;
        for (size_t u = 0; u < TOKENS; u++)
            before += feature_of(u) >= 0 && (row[u] > row[t] || (row[u] >= row[t] && u < t));
        if (feature_of(t) < 0 || before < ceil(keep * GRID)) kept[n++] = t;
    }
    return n;
}
/* The same by cells of Y x X. */
static size_t expect_cells(const double *row, size_t Y, size_t X, size_t *kept)
{
    size_t n = 0;
    for (size_t t = 0; t < TOKENS;) {
        const int k = span_of(t);
        if (k < 0) {
            kept[n++] = t++;
            continue;
        }
        const mmix_span *s = &spans[k];
        for (size_t f = 0; f < s->grid[0]; f++) {
            const size_t first = s->start + f * frame(s), cells = s->grid[1] * s->grid[2];
            for (size_t y = 0; y < s->grid[1]; y += Y)
                for (size_t x = 0; x < s->grid[2]; x += X) {
                    size_t best = TOKENS;
                    for (size_t i = 0; i < cells; i++) {
                        const size_t cy = i / s->grid[2], cx = i % s->grid[2];
                        const int is_in = cy >= y && cy < y + Y && cx >= x && cx < x + X;
                        if (is_in && (best == TOKENS || row[first + i] > row[best])) best = first + i;
                    }
                    kept[n++] = best;
                }
            for (size_t i = 0; i < s->separators; i++) kept[n++] = first + cells + i;
        }
        t = behind(s);
    }
    return n;
}
/* In the layer behind, the rows of the text after the media are those of the whole sequence, cut to
   what went on and made to sum to 1 again: so the right tokens went on, at their old positions. */
static void pruned_rows(mmix_ctx *m, const mmix_decoder *d, const mmix_prune *how)
{
    double row[TOKENS], worst = 0;
    size_t kept[TOKENS];
    mmix_sequence s = one_sequence(m);
    last_row(m, d, &s, how->layer - 1, row);
    const size_t n = how->keep > 0 ? expect_share(row, how->keep, kept)
                                   : expect_cells(row, how->cell[0], how->cell[1], kept);
    mmix_tensor *whole = mmix_decoder_matrix(m, d, &s, how->layer);
    s.prune = how;
    mmix_tensor *M = mmix_decoder_matrix(m, d, &s, how->layer);
    const size_t H = mmix_shape(whole, 1), text = TOKENS - behind(&spans[SPANS - 1]);
    CHECK_AT(M && mmix_shape(M, 2) == n && n < TOKENS, about);
    for (size_t h = 0; M && mmix_shape(M, 2) == n && h < H; h++)
        for (size_t i = n - text; i < n; i++) {
            const mmix_real *from = mmix_data(whole) + (h * TOKENS + TOKENS - n + i) * TOKENS;
            double sum = 0;
            for (size_t j = 0; j <= i; j++) sum += (double)from[kept[j]];
            for (size_t j = 0; j <= i; j++) {
                const double found = (double)mmix_data(M)[(h * n + i) * n + j];
                worst = fmax(worst, fabs(found - (double)from[kept[j]] / sum));
            }
        }
    CHECK_AT(worst < TOL, about);
    FINE(m);
}
/* A pruned piece, then the text one token at a time or at once, and what the slots have seen. */
static void pruned_steps(mmix_ctx *m, const mmix_decoder *d, const mmix_prune *how)
{
    const size_t end = behind(&spans[SPANS - 1]) + 1;
    mmix_mix_state *each = mmix_decoder_state_create(d), *once = mmix_decoder_state_create(d);
    mmix_sequence all = one_sequence(m), p;
    mmix_span room[SPANS];
    p = piece(m, &all, 0, end, room);
    p.prune = how;
    mmix_tensor *y = mmix_decoder_step(m, d, &p, each), *z = mmix_decoder_step(m, d, &p, once);
    CHECK_AT(y && gap(y, z) <= 0, about);
    for (size_t i = end; i < TOKENS; i++) {
        p = piece(m, &all, i, i + 1, room);
        y = mmix_decoder_step(m, d, &p, each);
    }
    p = piece(m, &all, end, TOKENS, room);
    z = mmix_decoder_step(m, d, &p, once);
    CHECK_AT(y && gap(y, z) < TOL * 10, about);
    for (size_t i = 0; i < 4; i++) {
        const size_t seen = mmix_mix_state_tokens(each, 2 * i);
        CHECK_AT(i < how->layer ? seen == TOKENS : seen < TOKENS && seen > TOKENS - GRID, about);
        CHECK_AT(seen == mmix_mix_state_tokens(once, 2 * i), about);
    }
    mmix_mix_state *copy = mmix_mix_state_copy(each);
    p = piece(m, &all, 0, 1, room);
    y = mmix_decoder_step(m, d, &p, each);
    CHECK_AT(y && gap(y, mmix_decoder_step(m, d, &p, copy)) <= 0, about);
    p = piece(m, &all, 0, end, room);
    p.prune = how;
    REFUSED(m, !mmix_decoder_step(m, d, &p, each), "expected 1 sequence that begins");
    FINE(m);
    mmix_mix_state_destroy(copy);
    mmix_mix_state_destroy(each);
    mmix_mix_state_destroy(once);
}
/* If all tokens go on, nothing changes. */
static void pruned_of_nothing(mmix_ctx *m, const mmix_decoder *d, mmix_prune how)
{
    mmix_sequence s = one_sequence(m);
    mmix_tensor *whole = mmix_decoder_forward(m, d, &s, NULL);
    s.prune = &how;
    mmix_tensor *y = mmix_decoder_forward(m, d, &s, NULL);
    CHECK_AT(mmix_shape(y, 1) == TOKENS && gap(y, whole) <= 0, about);
    mmix_mix_state *state = mmix_decoder_state_create(d);
    y = mmix_decoder_step(m, d, &s, state);
    mmix_tensor *last = mmix_slice(m, mmix_decoder_logits(m, d, whole), 1, TOKENS - 1, 1);
    CHECK_AT(most(mmix_data(y), mmix_data(last) + 0 * mmix_stride(last, 0), WORDS) < TOL * 10, about);
    FINE(m);
    mmix_mix_state_destroy(state);
}
/* The gradient of media, those that are dropped included, against differences. */
static void pruned_gradient(mmix_ctx *m, const mmix_decoder *d, const mmix_prune *how)
{
    const size_t shape[3] = { 1, GRID, FEATURES };
    mmix_real *media = copied(one_sequence(m).media);
    double loss[3];
    mmix_real *gradient = NULL;
    for (int k = 0; k < 3; k++) {                /* as it is; moved along its gradient, both ways */
        mmix_reset(m);
        mmix_sequence s = one_sequence(m);
        s.media = mmix_from(m, 3, shape, media);
        for (size_t i = 0; k && i < GRID * FEATURES; i++)
            mmix_data(s.media)[i] += (mmix_real)((k == 1 ? 1e-5 : -1e-5) * (double)gradient[i]);
        mmix_require_grad(s.media);
        s.prune = how;
        mmix_record(m, 1);
        mmix_tensor *y = mmix_decoder_forward(m, d, &s, NULL);
        y = mmix_sum(m, mmix_mul(m, y, y));
        mmix_record(m, 0);
        loss[k] = (double)mmix_data(y)[0];
        if (k) continue;
        mmix_backward(m, y);
        gradient = copied(mmix_grad(s.media));
    }
    double square = 0;
    for (size_t i = 0; i < GRID * FEATURES; i++) {
        CHECK_AT(fabs((double)gradient[i]) > 0, about);
        square += (double)gradient[i] * (double)gradient[i];
    }
    const double slope = (loss[1] - loss[2]) / 2e-5;
    CHECK_AT(sizeof(mmix_real) == 4 || fabs(slope - square) < 1e-5 * square, about);
    FINE(m);
    free(gradient);
    free(media);
}
static void pruned(void)
{
    for (int kind = 0; kind < PRUNED; kind++) {
        mmix_ctx *m = context(2, 0);
        mmix_decoder *d = pruned_decoder(m, kind);
        const mmix_prune share = { 2, 0.3, { 0, 0 } }, cells = { 2, 0, { 2, 2 } };
        const mmix_prune all = { 2, 1, { 0, 0 } }, each = { 2, 0, { 1, 1 } };
        const int is_first = kind == MMATE_BEFORE || kind == GATED_BEFORE;
        if (kind <= AXES_BEHIND || is_first) {
            pruned_rows(m, d, &share);
            pruned_rows(m, d, &cells);
            const mmix_prune early = { 1, 0, { 1, 3 } };
            if (!is_first) pruned_rows(m, d, &early);
        }
        if (kind != MMATE_BEHIND && kind != ALL_MMATE) pruned_of_nothing(m, d, all);
        pruned_of_nothing(m, d, each);
        pruned_steps(m, d, &share);
        pruned_steps(m, d, &cells);
        pruned_gradient(m, d, &cells);
        mmix_sequence s = one_sequence(m);
        mmix_prune bad = cells;
        s.prune = &bad;
        bad.layer = 0;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "prune.layer is 0, expected 1 to 3");
        bad.layer = 4;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "prune.layer is 4, expected 1 to 3");
        bad.layer = 3;
        if (kind == MAMBA_BEHIND)
            REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "expected attention, number 0");
        if (kind >= MMATE_BEFORE) {
            mmix_span room[SPANS];
            mmix_sequence media = piece(m, &s, 0, behind(&spans[SPANS - 1]), room);
            media.prune = &cells;
            REFUSED(m, !mmix_decoder_forward(m, d, &media, NULL), "ends with media");
        }
        bad.layer = 2;
        bad.keep = 0.5;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "prune.keep is 0.5 with cells of 2 x 2");
        bad.keep = NAN;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "prune.keep is nan");
        bad.keep = 0;
        bad.cell[1] = 0;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "either keep or cell above 0");
        s.prune = &cells;
        mmix_tensor *taps[4] = { NULL, NULL, NULL, NULL };
        mmix_decoder_options options;
        memset(&options, 0, sizeof options);
        options.outputs = taps;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, &options), "prune with options");
        s = sequence(m, 1, 4);
        s.prune = &cells;
        REFUSED(m, !mmix_decoder_forward(m, d, &s, NULL), "prune with 2 sequences");
        s = one_sequence(m);                     /* a text has nothing to prune */
        s.media = NULL;
        s.n_spans = 0;
        mmix_tensor *y = mmix_decoder_forward(m, d, &s, NULL);
        s.prune = &cells;
        CHECK_AT(y && gap(y, mmix_decoder_forward(m, d, &s, NULL)) <= 0, about);
        FINE(m);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "perturbation", perturbation },       { "steps", steps },
        { "memory", constant_memory },          { "sampling", sampling },
        { "sampling of all", sampling_of_all }, { "not finite", not_finite },
        { "media as they are", media_as_they_are }, { "pruned", pruned }
    };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
