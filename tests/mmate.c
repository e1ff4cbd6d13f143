/* mmate.c - a layer of M-MATE alone: its matrices, its neutral start, residuals; conversion of
   attention, and of adapters */
#include "decoders.h"

static void matrices(void)
{
    for (int o = 0; o < OPTIONS; o++)
        for (size_t index = 0; index < 4; index++)
            for (int branch = 0; branch < 2; branch++) {
                alone a = layer(o, index, 0);
                const mmix_projections *p = branch ? &a.l.swin : &a.l.flex;
                if ((!branch
                     && (a.l.options.conv_width > 1 || a.l.options.output_gate || a.l.options.norm))
                    || a.l.options.branches == (branch ? MMIX_BRANCH_FLEX : MMIX_BRANCH_SWIN)) {
                    leave(&a);
                    continue;
                }
                identity(p->weight[3]);
                mmix_real *v = copied(mmix_linear(a.m, a.x, p->weight[2], p->bias[2]));
                mmix_real *y = copied(branch ? local_swin(a.m, &a.l, a.x, NULL, &a.layout)
                                             : flex_ma(a.m, &a.l, a.x, NULL, &a.layout));
                mmix_tensor *matrix = branch_matrix(a.m, &a.l,
                                                    branch ? MMIX_BRANCH_SWIN : MMIX_BRANCH_FLEX,
                                                    a.x, &a.layout);
                mmix_real *M = copied(matrix);
                double worst = 0, rows = 0;
                CHECK_AT(mmix_count(matrix) == BATCH * 3 * TOKENS * TOKENS
                             && mmix_ndim(matrix) == 4,
                         about);
                for (size_t b = 0; b < BATCH && matrix; b++)
                    for (size_t h = 0; h < 3; h++)
                        for (size_t i = 0; i < TOKENS; i++) {
                            const mmix_real *row = M + ((b * 3 + h) * TOKENS + i) * TOKENS;
                            const size_t G = p->kv_heads, g = h / (3 / G);
                            const int takes_part = feature_of(i) >= 0
                                                   || (span_of(i) < 0 && a.l.options.text_window);
                            double sum = 0, sums[4] = {0, 0, 0, 0};
                            for (size_t j = 0; j < TOKENS; j++) {
                                sum += (double)row[j];
                                for (size_t n = 0; n < 4; n++)
                                    sums[n] += (double)row[j]
                                               * (double)v[(b * TOKENS + j) * 4 * G + g * 4 + n];
                            }
                            for (size_t n = 0; n < 4; n++)
                                worst = fmax(worst,
                                             fabs(sums[n]
                                                  - (double)y[(b * TOKENS + i) * 12 + h * 4 + n]));
                            rows = fmax(rows, fabs(sum - takes_part));
                        }
                CHECK_AT(worst < TOL * 10, about);
                if (branch) CHECK_AT(rows < TOL, about);
                free(v);
                free(y);
                free(M);
                leave(&a);
            }
}
/* Convolution, output gate and skip change nothing before they have learned. */
/* The matrix of a layer is made of those before it, and none behind: of attention one mixer
   each. */
static void count_mixers(void *user, mmix_ctx *m, const mmix_mixer *mixer)
{
    (void)m, (void)mixer, ++*(int *)user;
}
static void matrix_of_a_layer(void)
{
    for (int o = 0; o < 2; o++) {
        mmix_ctx *m = context(1, 0);
        mmix_decoder *d = variant(m, o ? OPTIONS : 0);
        int mixers = 0, all;
        mmix_mix_hook(m, count_mixers, &mixers);
        mmix_sequence s = sequence(m, 1, 2);
        mmix_decoder_forward(m, d, &s, NULL);
        all = mixers;
        for (size_t l = 0; l < 4; l++) {
            mixers = 0;
            CHECK_AT(mmix_count(mmix_decoder_matrix(m, d, &s, l)) == BATCH * 4 * TOKENS * TOKENS,
                     about);
            CHECK_AT(mixers == all / 4 * (int)l && all >= 4, about);
        }
        FINE(m);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}
static void neutral(void)
{
    static const int neutral_options[] = {7, 8, 9, 18};
    for (size_t i = 0; i < 4; i++) {
        const size_t n = BATCH * TOKENS * 12;
        mmix_real *zero = (mmix_real *)calloc(n, sizeof *zero);
        alone plain = layer(i == 3 ? 1 : 0, 1, 1);
        alone a = layer(neutral_options[i], 1, 1);
        alone moved = layer(neutral_options[i], 1, 0);
        mmix_real *y = copied(flex_ma(plain.m, &plain.l, plain.x, NULL, &plain.layout));
        mmix_real *z = copied(flex_ma(a.m, &a.l, a.x, NULL, &a.layout));
        mmix_real *w = copied(flex_ma(moved.m, &moved.l, moved.x, NULL, &moved.layout));
        CHECK_AT(most(y, z, n) <= TOL / 10 * most(y, zero, n) && most(z, zero, n) > 0
                     && most(z, w, n) > 0.1,
                 about);
        CHECK_AT(a.p->elements > plain.p->elements, about);
        free(y);
        free(z);
        free(w);
        free(zero);
        leave(&plain);
        leave(&a);
        leave(&moved);
    }
}
typedef mmix_tensor *face(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                          mmix_tensor *residual, const mmix_layout *layout);
/* x in three pieces, with a state. */
static mmix_tensor *in_pieces(alone *a, face *f)
{
    static const size_t at[4] = {0, 9, 18, TOKENS};
    mmix_tensor *part[3];
    mmix_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.state = mmix_mix_state_create(a->m, 3);
    layout.slot = 1;
    for (size_t i = 0; i < 3; i++) {             /* a span in each */
        mmix_span one = spans[i];
        one.start -= at[i];
        layout.spans = &one;
        layout.n_spans = 1;
        part[i] = f(a->m, &a->l, mmix_slice(a->m, a->x, 1, at[i], at[i + 1] - at[i]), NULL,
                    &layout);
    }
    mmix_mix_state_destroy(layout.state);
    return mmix_concat(a->m, 1, part, 3);
}
/* mmix_mmate_forward is the branches' sum; a residual is added; pieces give the whole; text alone
   is what no layout means; a run of text may be cut anywhere with Flex-MA's state handed on. */
static void layer_faces(void)
{
    for (int o = 0; o < OPTIONS; o++) {
        alone a = layer(o, 2, 0);
        mmix_ctx *m = a.m;
        mmix_tensor *r = mmix_fill_normal(m, mmix_new3(m, BATCH, TOKENS, 12), 1, 4);
        mmix_tensor *both = mmix_mmate_forward(m, &a.l, a.x, NULL, &a.layout);
        mmix_tensor *with = mmix_mmate_forward(m, &a.l, a.x, r, &a.layout);
        mmix_tensor *flex = NULL, *swin = NULL, *last = NULL;
        mmix_layout none;
        if (a.l.options.branches != MMIX_BRANCH_SWIN)
            flex = flex_ma(m, &a.l, a.x, NULL, &a.layout);
        if (a.l.options.branches != MMIX_BRANCH_FLEX)
            swin = local_swin(m, &a.l, a.x, NULL, &a.layout);
        mmix_tensor *sum = flex ? flex : swin;
        if (flex && swin) sum = mmix_add(m, flex, swin);
        if (!a.l.options.branch_gate)
            CHECK_AT(gap(both, sum) < TOL, about);
        CHECK_AT(gap(with, mmix_add(m, both, r)) < TOL, about);
        if (flex)
            CHECK_AT(gap(flex_ma(m, &a.l, a.x, r, &a.layout), mmix_add(m, flex, r)) < TOL, about);
        if (swin)
            CHECK_AT(gap(local_swin(m, &a.l, a.x, r, &a.layout), mmix_add(m, swin, r)) < TOL,
                     about);
        memset(&none, 0, sizeof none);
        both = mmix_mmate_forward(m, &a.l, a.x, NULL, &none);
        CHECK_AT(gap(both, mmix_mmate_forward(m, &a.l, a.x, NULL, NULL)) <= 0, about);
        CHECK_AT(gap(in_pieces(&a, mmix_mmate_forward),
                     mmix_mmate_forward(m, &a.l, a.x, NULL, &a.layout))
                     < TOL,
                 about);
        if (flex) {
            CHECK_AT(gap(in_pieces(&a, flex_ma), flex) < TOL, about);
            CHECK_AT(gap(in_pieces(&a, attention), attention(m, &a.l, a.x, NULL, &a.layout)) < TOL,
                     about);
        }
        if (swin)
            CHECK_AT(gap(in_pieces(&a, local_swin), swin) < TOL, about);
        if (flex && a.l.options.conv_width < 2) {
            mmix_tensor *part[2], *whole = flex_ma(m, &a.l, a.x, NULL, NULL);
            none.final_state = &last;
            part[0] = flex_ma(m, &a.l, mmix_slice(m, a.x, 1, 0, 13), NULL, &none);
            none.final_state = NULL;
            none.initial_state = last;
            part[1] = flex_ma(m, &a.l, mmix_slice(m, a.x, 1, 13, TOKENS - 13), NULL, &none);
            CHECK_AT(gap(whole, mmix_concat(m, 1, part, 2)) < TOL, about);
        }
        leave(&a);
    }
}

/* ---- conversion ---- */

static double brings(const mmix_real *M, const mmix_real *v, const mmix_tensor *o, size_t H,
                     size_t G, size_t N, size_t h)
{
    double square = 0, y[64];
    for (size_t b = 0; b < BATCH; b++)
        for (size_t i = 0; i < TOKENS; i++) {
            const mmix_real *row = M + ((b * H + h) * TOKENS + i) * TOKENS;
            for (size_t n = 0; n < N; n++) {
                y[n] = 0;
                for (size_t j = 0; j < TOKENS; j++)
                    y[n] += (double)row[j] * (double)v[((b * TOKENS + j) * G + h * G / H) * N + n];
            }
            for (size_t d = 0; d < mmix_shape(o, 0); d++) {
                double sum = 0;
                for (size_t n = 0; n < N; n++)
                    sum += (double)mmix_data(o)[(d * H + h) * N + n] * y[n];
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
            if (fabs((double)mmix_data(to)[at] / (double)mmix_data(from)[at] / factor - 1) > TOL)
                return NAN;
        }
    return factor;
}
static void conversion(void)
{
    static const char *const parts[] = { "q_proj.weight", "k_proj.weight", "v_proj.weight",
                                         "o_proj.weight", "q_proj.bias",   "k_proj.bias",
                                         "v_proj.bias" };
    /* as converted; calibrated; with a gate between the branches */
    for (int way = 0; way < 3; way++) {
        const int calibrate = way == 1;
        mmix_ctx *m = context(1, 0);
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
        p = teacher->params;
        mmix_real *before = values(p);
        student = mmix_decoder_student(teacher, &c.mmate);
        q = student->params;
        s = sequence(m, 1, 5);
        CHECK(student->config.mixer == MMIX_DECODER_MMATE && student->config.head_dim == 6);
        /* what has its name in both is equal */
        for (size_t i = 0; i < p->count; i++) {
            const mmix_tensor *t = mmix_params_find(q, p->at[i].name);
            if (t) {
                CHECK_AT(gap(t, p->at[i].tensor) <= 0, p->at[i].name);
                copies++;
            }
        }
        CHECK(copies == p->count - 7 * c.depth);
        for (size_t l = 0; l < c.depth; l++)
            for (size_t k = 0; k < 7; k++)
                for (int branch = 0; branch < 2; branch++) {
                    char name[64];
                    snprintf(name, sizeof name, "%s.%s", branch ? "swin" : "flex", parts[k]);
                    CHECK_AT(gap(named(q, l, name), named(p, l, parts[k])) <= 0, name);
                }
        memset(&look, 0, sizeof look);
        look.normed = normed;
        if (calibrate) CHECK(!mmix_decoder_calibrate(student, teacher, &s));
        for (size_t l = 0; way == 2 && l < c.depth; l++)
            mmix_fill_normal(m, named(q, l, "branch_gate.weight"), 1, 60 + l),
                mmix_fill_normal(m, named(q, l, "branch_gate.bias"), 1, 70 + l);
        mmix_real *kept = values(q);
        if (calibrate) {                         /* once more changes nothing */
            CHECK(!mmix_decoder_calibrate(student, teacher, &s));
            mmix_real *again = values(q);
            CHECK(most(again, kept, q->elements) < TOL * 10);
            free(kept);
            kept = again;
        }
        CHECK(mmix_decoder_forward(m, teacher, &s, &look));
        /* heads of both on the teacher's inputs */
        for (size_t l = 0; l < c.depth; l++) {
            mmix_mmate_layer one = layer_of(student, q, l);
            mmix_layout layout;
            mmix_tensor *wv = named(p, l, "v_proj.weight");
            mmix_tensor *bv = named(p, l, "v_proj.bias");
            memset(&layout, 0, sizeof layout);
            layout.spans = spans;
            layout.n_spans = SPANS;
            mmix_real *v = copied(mmix_linear(m, normed[l], wv, bv));
            mmix_real *M = copied(mmix_decoder_matrix(m, teacher, &s, l));
            mmix_real *F = copied(branch_matrix(m, &one, MMIX_BRANCH_FLEX, normed[l], &layout));
            for (size_t h = 0; h < 4; h++) {
                const mmix_tensor *its = named(p, l, "o_proj.weight");
                const double theirs = brings(M, v, its, 4, 2, 6, h);
                const double ours = brings(F, v, one.flex.weight[3], 4, 2, 6, h);
                const double factor = scaled(one.flex.weight[3], its, 6, h);
                CHECK_AT(calibrate ? fabs(ours / theirs - 1) < TOL * 100 && fabs(factor - 1) > 1e-3
                                   : fabs(factor - 1) <= 0,
                         "a head's size");
            }
            free(v);
            free(M);
            free(F);
        }
        look.normed = normed;
        look.mixed = mixed;
        CHECK(mmix_decoder_forward(m, student, &s, &look));
        /* both branches have the same v and o: mixed = o (M v) */
        if (!calibrate)
            for (size_t l = 0; l < c.depth; l++) {
                mmix_tensor *v = mmix_linear(m, normed[l], named(p, l, "v_proj.weight"),
                                             named(p, l, "v_proj.bias"));
                mmix_tensor *M = mmix_decoder_matrix(m, student, &s, l), *part[4];
                for (size_t h = 0; h < 4; h++) {
                    mmix_tensor *Mh = mmix_reshape(m, mmix_slice(m, M, 1, h, 1), 3,
                                                   (const size_t[]){ BATCH, TOKENS, TOKENS });
                    part[h] = mmix_matmul(m, Mh, mmix_slice(m, v, 2, h / 2 * 6, 6));
                }
                CHECK_AT(gap(mixed[l], mmix_linear(m, mmix_concat(m, 2, part, 4),
                                                   named(p, l, "o_proj.weight"), NULL))
                             < TOL * 10,
                         about);
            }
        CHECK(same_values(p, before) && same_values(q, kept));
        FINE(m);
        free(before);
        free(kept);
        mmix_decoder_destroy(student);
        mmix_decoder_destroy(teacher);
        mmix_destroy(m);
    }
}
/* A teacher's adapters go into the student, as mmix_params_merge_lora would put them into its
   weights. */
static void conversion_of_adapters(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_decoder *teacher = shaken(m, small(MMIX_DECODER_ATTENTION)), *plain, *before, *after;
    snprintf(about, sizeof about, "conversion of adapters");
    plain = mmix_decoder_student(teacher, NULL);
    CHECK(!mmix_params_add_lora(teacher->params, 2, 4, MMIX_LORA_FFN | MMIX_LORA_MIXER));
    shake(m, teacher->params->adapters, 0.3);
    before = mmix_decoder_student(teacher, NULL);
    CHECK(teacher->params->adapters && !before->params->adapters
          && !mmix_params_merge_lora(teacher->params));
    after = mmix_decoder_student(teacher, NULL);
    FINE(m);
    CHECK(same_lists(before->params, after->params) && !same_lists(before->params, plain->params));
    mmix_decoder_destroy(plain);
    mmix_decoder_destroy(before);
    mmix_decoder_destroy(after);
    mmix_decoder_destroy(teacher);
    mmix_destroy(m);
}
/* Layers that keep their attention compute what the teacher's do; those that are named do not. */
static void some_layers(void)
{
    static const int replace[4] = { 0, 1, 0, 1 };
    mmix_ctx *m = context(1, 0);
    mmix_decoder *teacher = shaken(m, small(MMIX_DECODER_ATTENTION));
    mmix_decoder *student = mmix_decoder_student_some(teacher, NULL, replace);
    mmix_sequence s = sequence(m, 1, 5);
    mmix_tensor *made[4], *mixed[2][4];
    mmix_decoder_options look;
    snprintf(about, sizeof about, "some layers");
    memset(&look, 0, sizeof look);
    look.outputs = made;
    look.mixed = mixed[0];
    mmix_decoder_forward(m, teacher, &s, &look);
    look.outputs = NULL;
    look.mixed = mixed[1];
    mmix_tensor *read[4] = { NULL, made[0], made[1], made[2] };      /* all read what the teacher's do */
    look.inputs = read;
    mmix_decoder_forward(m, student, &s, &look);
    FINE(m);
    CHECK(student && student->config.mixer == MMIX_DECODER_LISTED);
    for (size_t l = 0; student && l < 4; l++) {
        CHECK(student->config.layers[l].mixer
              == (replace[l] ? MMIX_DECODER_MMATE : MMIX_DECODER_ATTENTION));
        const double off = gap(mixed[1][l], mixed[0][l]);
        CHECK_AT(replace[l] ? off > 1e-2 : off <= 0, about);
    }
    const int none[4] = { 0, 0, 0, 0 };
    REFUSED(m, !mmix_decoder_student_some(teacher, NULL, none), "layers of attention alone");
    CHECK(!mmix_decoder_student_some(NULL, NULL, replace));
    mmix_decoder_destroy(student);
    mmix_decoder_destroy(teacher);
    mmix_destroy(m);
}
/* The places that mmix_decoder_forward fills, and inputs in place of the layer before. */
static void inside(void)
{
    for (int o = 0; o < OPTIONS + MAMBA; o += 3) {
        mmix_ctx *m = context(1, 0);
        mmix_decoder *d = variant(m, o);
        mmix_params *p = d->params;
        mmix_sequence s = sequence(m, 1, 6);
        mmix_tensor *mixed[4], *outputs[4], *normed[4], *inputs[4] = { NULL, NULL, NULL, NULL }, *x,
                                                        *y;
        mmix_decoder_options look;
        memset(&look, 0, sizeof look);
        look.mixed = mixed;
        look.outputs = outputs;
        look.normed = normed;
        y = mmix_decoder_forward(m, d, &s, &look);
        CHECK_AT(gap(y, mmix_decoder_forward(m, d, &s, NULL)) < TOL * 10, about);
        for (size_t l = 1; l < 4; l++) {
            mmix_swiglu_layer ffn;
            memset(&ffn, 0, sizeof ffn);
            x = mmix_add(m, outputs[l - 1], mixed[l]);
            CHECK_AT(gap(normed[l], mmix_rms_norm(m, outputs[l - 1],
                                                  named(p, l, "input_layernorm.weight"), 1e-5))
                         < TOL,
                     about);
            ffn.gate = named(p, l, "gate_proj.weight");
            ffn.up = named(p, l, "up_proj.weight");
            ffn.down = named(p, l, "down_proj.weight");
            y = mmix_swiglu_forward(m, &ffn,
                                    mmix_rms_norm(m, x,
                                                  named(p, l, "post_attention_layernorm.weight"),
                                                  1e-5),
                                    x, NULL);
            CHECK_AT(gap(outputs[l], y) < TOL * 10, about);
        }
        inputs[0] = mmix_fill_normal(m, mmix_new3(m, BATCH, TOKENS, 12), 1, 8);
        for (int l = 1; l < 4; l++)
            inputs[l] = outputs[l - 1];
        mmix_tensor *last = outputs[3], *first = outputs[0];
        look.inputs = inputs;
        mmix_decoder_forward(m, d, &s, &look);
        /* each reads its own */
        CHECK_AT(gap(outputs[3], last) <= TOL && gap(outputs[0], first) > 0.1, about);
        FINE(m);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "matrices", matrices },
                                   { "matrix of a layer", matrix_of_a_layer },
                                   { "neutral", neutral },
                                   { "faces", layer_faces },
                                   { "conversion", conversion },
                                   { "some layers", some_layers },
                                   { "inside", inside },
                                   { "adapted", conversion_of_adapters } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
