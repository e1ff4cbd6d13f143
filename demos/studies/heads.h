/* heads.h - what matrices of mixers (mmix_mix_matrix) are like: how far from one another, how
   local

   Each result is an array with a number for each matrix, or NULL. Include mamba_mix.h before
   this. */
#ifndef HEADS_H
#define HEADS_H

#include <math.h>
#include <stddef.h>

/* Frobenius distance of matrices of `count` numbers, ‖a - b‖ and ‖a - b‖/‖a‖: a student's M
   against its teacher's. */
static inline void matrix_distance(const mmix_real *a, const mmix_real *b, size_t matrices,
                                   size_t count, double *distance, double *relative)
{
    for (size_t h = 0; h < matrices; h++) {
        double apart = 0, size = 0;
        for (size_t i = h * count; i < (h + 1) * count; i++) {
            const double off = (double)a[i] - (double)b[i];
            apart += off * off;
            size += (double)a[i] * (double)a[i];
        }
        if (distance) distance[h] = sqrt(apart);
        double none = apart > 0 ? HUGE_VAL : 0;  /* where there is nothing to compare with */
        if (relative) relative[h] = size > 0 ? sqrt(apart / size) : none;
    }
}

/* How local heads are: of M (matrices, L, L), tokens on a grid of gh x gw = L, the share of
   Σ|M_ij| where i and j are at most `radius` rows and columns apart, and the mean distance of i
   and j with weights |M_ij|, in tokens. */
static inline void head_reach(const mmix_real *M, size_t matrices, size_t gh, size_t gw,
                              size_t radius, double *share, double *distance)
{
    const size_t L = gh * gw;
    for (size_t h = 0; h < matrices; h++) {
        double all = 0, inside = 0, moment = 0;
        for (size_t i = 0; i < L; i++)
            for (size_t j = 0; j < L; j++) {
                const double w = fabs((double)*M++);
                const double y = fabs((double)(i / gw) - (double)(j / gw));
                const double x = fabs((double)(i % gw) - (double)(j % gw));
                all += w;
                if (fmax(y, x) <= (double)radius) inside += w;
                moment += w * sqrt(y * y + x * x);
            }
        if (share) share[h] = all > 0 ? inside / all : 0;
        if (distance) distance[h] = all > 0 ? moment / all : 0;
    }
}

#endif
