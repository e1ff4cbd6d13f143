/* mix.c - three token mixers, and the matrix that each of them is

   A token mixer makes each token a weighted sum of tokens, Y = M X. Softmax attention, linear
   attention and Mamba-2 (SSD) differ in how they make M. This program takes a tune of 24 tokens
   and three tones, mixes it in the three ways, and draws the three M with characters: a row for
   each token, a column for each token that it reads, darker where it reads more. Then it
   multiplies M and X by hand, to see that Y is their product.

       cc -O2 demos/mix.c -o mix -lm -lpthread && ./mix

   Attention finds all tokens of the same tone, wherever they stand. Mamba-2 reads what came
   before and forgets. The last line says that the largest |Y - M X| is about 1e-7, the rounding
   of floats. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>

enum { L = 24, N = 4, P = 2 };  /* tokens; features that are compared; numbers that are mixed */

static const char tones[L + 1] = "aaaaaabbbbbbaaaaaacccccc";

/* (1, L, 1, N): a direction for each tone, and a little noise. It serves as queries and as keys,
   so that tokens of one tone point the same way and find each other. */
static mmix_tensor *tune(mmix_ctx *m)
{
    mmix_tensor *x = mmix_fill_normal(m, mmix_new4(m, 1, L, 1, N), 0.2, 0);
    if (!x) return NULL;
    mmix_real *values = mmix_data(x);
    for (size_t t = 0; t < L; t++) {
        size_t tone = (size_t)(tones[t] - 'a');
        values[t * N + tone] += 3;
    }
    return x;
}

/* The largest |y - M v|. */
static double distance(const mmix_real *y, const mmix_real *M, const mmix_real *v)
{
    double worst = 0;
    for (size_t i = 0; i < L; i++) {
        for (size_t p = 0; p < P; p++) {
            double sum = 0;
            for (size_t j = 0; j < L; j++) sum += (double)M[i * L + j] * (double)v[j * P + p];
            double apart = fabs(sum - (double)y[i * P + p]);
            if (apart > worst) worst = apart;
        }
    }
    return worst;
}

static double largest(const mmix_real *M)
{
    double most = 0;
    for (size_t i = 0; i < L * L; i++) {
        double size = fabs((double)M[i]);
        if (size > most) most = size;
    }
    return most;
}

/* Row i of M in characters; `most` is drawn as @. */
static void draw_row(const mmix_real *M, size_t i, double most)
{
    static const char ramp[] = " .:-=+*#%@";
    for (size_t j = 0; j < L; j++) {
        double share = fabs((double)M[i * L + j]) / most;
        putchar(ramp[(int)(share * 9 + 0.5)]);
    }
}

int main(void)
{
    mmix_ctx *m = mmix_create(NULL);         /* malloc, all cores, the best SIMD level */
    mmix_tensor *x = tune(m);
    mmix_tensor *v = mmix_fill_normal(m, mmix_new4(m, 1, L, 1, P), 1, 1);
    mmix_tensor *dt = mmix_fill(mmix_new3(m, 1, L, 1), 0.25);
    /* a step keeps e^(dt A) = 88 % of the memory */
    mmix_tensor *A = mmix_fill(mmix_new1(m, 1), -0.5);
    mmix_mixer mixer[3];
    mixer[0] = mmix_mixer_softmax(x, x, v);
    mixer[1] = mmix_mixer_linear(x, x, v);
    mixer[2] = mmix_mixer_ssd(v, dt, A, x, x);

    mmix_tensor *M[3];
    double worst = 0;
    for (int i = 0; i < 3; i++) {
        mmix_tensor *y = mmix_mix(m, &mixer[i]);             /* fast: M is never stored */
        M[i] = mmix_mix_matrix(m, &mixer[i]);                /* M itself, for looking */
        if (mmix_error(m)) break;
        double apart = distance(mmix_data(y), mmix_data(M[i]), mmix_data(v));
        if (apart > worst) worst = apart;
    }
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    printf("   %-*s   %-*s   %-*s\n", L, "softmax attention", L, "linear attention", L,
           "Mamba-2 (SSD)");
    printf("   %s   %s   %s\n", tones, tones, tones);
    for (size_t i = 0; i < L; i++) {
        printf("%c ", tones[i]);
        for (int k = 0; k < 3; k++) {
            printf("|");
            draw_row(mmix_data(M[k]), i, largest(mmix_data(M[k])));
            printf("| ");
        }
        printf("\n");
    }
    printf("largest |Y - M X|: %.1e\n", worst);
    mmix_destroy(m);
    return worst > 1e-5;
}
