/* solve.h - a student without attention begins with o_proj by least squares

   o_proj of its branches becomes what lets a layer, reading what the teacher's layer reads, say
   what that says, as nearly as it can with the heads as they are.

       solve_lesson l = {m, teacher, student, 16, row, &texts};     // row(&texts, i, &sequence)
       if (solve_outputs(&l)) …

   Include mamba_mix.h and program.h before it. */
#ifndef SOLVE_H
#define SOLVE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is solved over: sequences of one row, of which `row` gives number i. It returns 0, or -1. */
typedef struct solve_lesson {
    mmix_ctx *m;
    const mmix_decoder *teacher;
    mmix_decoder *student;                       /* M-MATE with one branch or both in its layers */
    size_t rows;
    int (*row)(void *user, size_t i, mmix_sequence *all);
    void *user;
} solve_lesson;

/* A matrix of a layer, such as "self_attn.o_proj"; NULL if it has none. */
static mmix_tensor *weight_of(const mmix_decoder *d, const char *matrix, size_t layer)
{
    char name[80];
    snprintf(name, sizeof name, "layers.%u.%s.weight", (unsigned)layer, matrix);
    for (size_t i = 0; i < d->params->count; i++) {
        const char *at = strstr(d->params->at[i].name, "layers.");
        if (at && !strcmp(at, name)) return d->params->at[i].tensor;
    }
    return NULL;
}
/* A matrix as reals, in step memory, whatever it is kept as; NULL if there is none. */
static mmix_tensor *wide_copy(mmix_ctx *m, const mmix_tensor *w)
{
    mmix_tensor *wide = w ? mmix_new2(m, mmix_shape(w, 0), mmix_shape(w, 1)) : NULL;
    if (wide) mmix_read(w, mmix_data(wide));
    return wide;
}
/* Sets a matrix in all layers that have it: to 0, or, an o_proj, to the unit matrix, so that the
   layer says what its heads say. */
static void set_outputs(const mmix_decoder *d, const char *matrix, const mmix_tensor *unit)
{
    for (size_t i = 0; i < d->config.depth; i++) {
        mmix_tensor *w = weight_of(d, matrix, i);
        if (!w) continue;
        if (unit) mmix_write(w, mmix_data(unit));
        else mmix_fill(w, 0);
    }
}
/* Solves (A + ridge diag A) X = Y in place of Y, A (n, n) symmetric and positive, Y (n, k), by
   Cholesky's factors, which take the place of A's lower half. */
static void solve_system(double *A, double *Y, size_t n, size_t k, double ridge)
{
    for (size_t i = 0; i < n; i++) A[i * n + i] = A[i * n + i] * (1 + ridge) + 1e-12;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = A[i * n + j];
            for (size_t c = 0; c < j; c++) sum -= A[i * n + c] * A[j * n + c];
            A[i * n + j] = i == j ? sqrt(fmax(sum, 1e-12)) : sum / A[j * n + j];
        }
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < i; c++)
            for (size_t e = 0; e < k; e++) Y[i * k + e] -= A[i * n + c] * Y[c * k + e];
        for (size_t e = 0; e < k; e++) Y[i * k + e] /= A[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t e = 0; e < k; e++) Y[i * k + e] /= A[i * n + i];
        for (size_t c = 0; c < i; c++)
            for (size_t e = 0; e < k; e++) Y[c * k + e] -= A[i * n + c] * Y[i * k + e];
    }
}
/* The branches, as parameters are called; Local-Swin is the last. */
enum { SOLVE_BRANCHES = 2 };
static const char *const solve_branch[SOLVE_BRANCHES] = {"mmate.flex.o_proj", "mmate.swin.o_proj"};
/* What is added up for the layers: A = HᵀH and Y = Hᵀ R, where H (tokens, n) are the heads of the
   branches side by side, n = E for each, and R (tokens, D) is what the teacher's mixer says and
   Local-Swin as it is does not. */
typedef struct sums {
    size_t depth, E, D, n, branches;
    int branch[SOLVE_BRANCHES];                  /* which there are */
    double *A, *Y;                               /* (depth, n, n), (depth, n, D) */
    double *square;                              /* (n): of a layer's heads, A's diagonal */
    mmix_tensor **said, **output, **input;       /* the teacher's, of a row */
    mmix_tensor **heads[SOLVE_BRANCHES];         /* of the branches that there are */
    mmix_tensor **own;                           /* Local-Swin's o_proj as it is; NULL: none */
    mmix_tensor *unit;                           /* (E, E) */
} sums;
static void add_to(double *to, const mmix_tensor *x)
{
    for (size_t i = 0; x && i < mmix_count(x); i++) to[i] += (double)mmix_data(x)[i];
}
/* Adds a layer's row. */
static void add_layer(mmix_ctx *m, const sums *s, size_t i)
{
    static const int order[3] = {0, 2, 1};
    mmix_tensor *part[SOLVE_BRANCHES] = {NULL, NULL};
    mmix_tensor *lacks = s->said[i];
    for (size_t k = 0; k < s->branches; k++) part[k] = s->heads[k][i];
    if (s->own[i])
        lacks = mmix_sub(m, lacks, mmix_linear(m, part[s->branches - 1], s->own[i], NULL));
    mmix_tensor *H = mmix_concat(m, 2, part, s->branches);
    mmix_tensor *columns = mmix_permute(m, H, order);
    add_to(s->A + i * s->n * s->n, mmix_matmul(m, columns, H));
    add_to(s->Y + i * s->n * s->D, mmix_matmul(m, columns, lacks));
}
/* Adds a row: the teacher says it, then each branch alone reads what the teacher's layers read. 0,
   or -1. */
static int add_row(const solve_lesson *l, sums *s, size_t row)
{
    mmix_ctx *m = l->m;
    mmix_sequence all;
    mmix_decoder_options taps;
    if (l->row(l->user, row, &all)) return -1;
    memset(&taps, 0, sizeof taps);
    taps.mixed = s->said;
    taps.outputs = s->output;
    mmix_decoder_forward(m, l->teacher, &all, &taps);
    for (size_t i = 1; i < s->depth; i++) s->input[i] = s->output[i - 1];
    memset(&taps, 0, sizeof taps);
    taps.inputs = s->input;
    for (size_t k = 0; k < s->branches; k++) {
        for (size_t b = 0; b < s->branches; b++) {
            const char *name = solve_branch[s->branch[b]];
            set_outputs(l->student, name, b == k ? s->unit : NULL);
        }
        taps.mixed = s->heads[k];
        mmix_decoder_forward(m, l->student, &all, &taps);
    }
    mmix_mark mark = mmix_mark_here(m);
    for (size_t i = 0; i < s->depth && !mmix_error(m); i++, mmix_rewind(m, mark))
        if (weight_of(l->student, solve_branch[s->branch[0]], i)) add_layer(m, s, i);
    return mmix_error(m) ? -1 : 0;
}
/* Makes Flex-MA's heads as loud as Local-Swin's by their q, in which they are linear, and o_proj so
   much quieter: the layer says the same, and one learning rate suits both branches. */
static void balance(const solve_lesson *l, const sums *s, size_t i)
{
    mmix_tensor *own_q = weight_of(l->student, "mmate.flex.q_proj", i);
    mmix_tensor *own_o = weight_of(l->student, "mmate.flex.o_proj", i);
    mmix_tensor *q = wide_copy(l->m, own_q), *o = wide_copy(l->m, own_o);
    size_t P = l->teacher->config.head_dim, D = s->D, E = s->E;
    for (size_t h = 0; h < E / P && q && o; h++) {
        double loud = 0, wanted = 0;
        for (size_t e = h * P; e < (h + 1) * P; e++) {
            loud += s->square[e];
            wanted += s->square[E + e];
        }
        if (!(loud > 0) || !(wanted > 0)) continue;
        mmix_real share = (mmix_real)sqrt(wanted / loud);
        for (size_t k = h * P * D; k < (h + 1) * P * D; k++) mmix_data(q)[k] *= share;
        for (size_t d = 0; d < D; d++)
            for (size_t e = h * P; e < (h + 1) * P; e++) mmix_data(o)[d * E + e] /= share;
    }
    if (!q || !o) return;
    mmix_write(own_q, mmix_data(q));
    mmix_write(own_o, mmix_data(o));
}
/* Writes what was found into o_proj of layer i, if it has one. */
static void take_layer(const solve_lesson *l, sums *s, size_t i)
{
    const double ridge = 0.01;                   /* times each head's own size */
    size_t n = s->n, E = s->E;
    double *A = s->A + i * n * n, *Y = s->Y + i * n * s->D;
    if (!weight_of(l->student, solve_branch[s->branch[0]], i)) return;
    for (size_t e = 0; e < n; e++) s->square[e] = A[e * n + e];
    solve_system(A, Y, n, s->D, ridge);
    for (size_t k = 0; k < s->branches; k++) {
        mmix_tensor *found = mmix_new2(l->m, s->D, E);
        if (!found) return;
        mmix_real *o = mmix_data(found);
        const mmix_real *own = s->branch[k] ? mmix_data(s->own[i]) : NULL;
        for (size_t d = 0; d < s->D; d++)
            for (size_t e = 0; e < E; e++) {
                o[d * E + e] = (mmix_real)Y[(k * E + e) * s->D + d];
                if (own) o[d * E + e] += own[d * E + e];
            }
        mmix_write(weight_of(l->student, solve_branch[s->branch[k]], i), o);
    }
    if (s->branches == SOLVE_BRANCHES) balance(l, s, i);
}
static void sums_free(sums *s)
{
    free(s->A);
    free(s->Y);
    free(s->square);
    free(s->said);
}
/* Which branches there are, and room for what is added up. 0, or -1. */
static int sums_make(const solve_lesson *l, sums *s)
{
    mmix_ctx *m = l->m;
    const mmix_decoder_config *c = &l->teacher->config;
    memset(s, 0, sizeof *s);
    s->depth = c->depth;
    s->D = c->dim;
    s->E = c->heads * c->head_dim;
    if (s->E != s->D)                            /* o_proj is no unit matrix then */
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "least squares: expected heads together as wide "
                         "as the decoder, %zu, found %zu", s->D, s->E);
    for (int k = 0; k < SOLVE_BRANCHES; k++) {
        size_t i = 0;
        while (i < s->depth && !weight_of(l->student, solve_branch[k], i)) i++;
        if (i < s->depth) s->branch[s->branches++] = k;
    }
    s->n = s->branches * s->E;
    s->A = (double *)calloc(s->depth * s->n * s->n + 1, sizeof *s->A);
    s->Y = (double *)calloc(s->depth * s->n * s->D + 1, sizeof *s->Y);
    s->square = (double *)calloc(s->n + 1, sizeof *s->square);
    s->said = (mmix_tensor **)calloc(6 * s->depth, sizeof *s->said);
    if (!s->A || !s->Y || !s->square || !s->said)
        return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for least squares");
    s->output = s->said + s->depth;
    s->input = s->output + s->depth;
    s->heads[0] = s->input + s->depth;
    s->heads[1] = s->heads[0] + s->depth;
    s->own = s->heads[1] + s->depth;
    s->unit = mmix_fill(mmix_new2(m, s->E, s->E), 0);
    for (size_t e = 0; s->unit && e < s->E; e++) mmix_data(s->unit)[e * s->E + e] = 1;
    for (size_t i = 0; i < s->depth; i++)
        s->own[i] = wide_copy(m, weight_of(l->student, solve_branch[SOLVE_BRANCHES - 1], i));
    return mmix_error(m) ? -1 : 0;
}
/* Local-Swin keeps its o_proj but for what the heads of all branches together do better. 0, or
   -1. */
static int solve_outputs(const solve_lesson *l)
{
    mmix_ctx *m = l->m;
    sums s;
    int bad = sums_make(l, &s) || !s.branches;
    mmix_mark mark = mmix_mark_here(m);
    for (size_t row = 0; row < l->rows && !bad && !interrupted; row++) {
        bad = add_row(l, &s, row);
        mmix_rewind(m, mark);
    }
    for (size_t i = 0; i < s.depth && !bad && !interrupted; i++) {
        take_layer(l, &s, i);
        mmix_rewind(m, mark);
    }
    sums_free(&s);
    mmix_reset(m);
    return mmix_error(m) ? -1 : 0;
}

#endif
