/* raw.c - Mamba-2's mixer on arrays of your own

   Who has tensors and memory already needs none of the library's: mmix_raw_forward and
   mmix_raw_backward take pointers and sizes. They allocate nothing, know no context and start no
   thread. This program runs SSD forward and backward over 1,000 tokens, and holds y against the
   definition, a loop over time:

       h = e^(dt A) h + dt B x,     y = C h + D x

       cc -O2 demos/raw.c -o raw -lm -lpthread && ./raw

   It prints the largest difference, about 1e-7 of the largest y, the times of both ways, and the
   gradient of one A beside a finite difference. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { L = 1000, H = 8, P = 64, N = 64 };  /* tokens, heads, width of a head, size of its memory */

static float x[L * H * P], dt[L * H], A[H], B[L * N], C[L * N], D[H];
static float y[L * H * P], dy[L * H * P], dA[H];

/* Numbers in [-1, 1), the same on every machine. */
static float number(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608 - 1;
}

/* The definition, one token after another. */
static void by_definition(double *result)
{
    static double h[P][N];
    for (size_t head = 0; head < H; head++) {
        for (size_t p = 0; p < P; p++)
            for (size_t n = 0; n < N; n++) h[p][n] = 0;
        for (size_t t = 0; t < L; t++) {
            double step = dt[t * H + head];
            double keep = exp(step * (double)A[head]);
            for (size_t p = 0; p < P; p++) {
                size_t at = (t * H + head) * P + p;
                double sum = (double)D[head] * (double)x[at];
                for (size_t n = 0; n < N; n++) {
                    h[p][n] = keep * h[p][n] + step * (double)B[t * N + n] * (double)x[at];
                    sum += (double)C[t * N + n] * h[p][n];
                }
                result[at] = sum;
            }
        }
    }
}

/* Σ y dy: the loss whose gradients the backward gives. */
static double loss(const mmix_raw *raw, mmix_real *scratch)
{
    double sum = 0;
    mmix_raw_forward(raw, scratch);
    for (size_t i = 0; i < L * H * P; i++) sum += (double)y[i] * (double)dy[i];
    return sum;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

int main(void)
{
    for (size_t i = 0; i < L * H * P; i++) x[i] = number();
    for (size_t i = 0; i < L * H * P; i++) dy[i] = number();
    for (size_t i = 0; i < L * N; i++) B[i] = number();
    for (size_t i = 0; i < L * N; i++) C[i] = number();
    for (size_t i = 0; i < L * H; i++) dt[i] = 0.05f + 0.04f * number();
    for (size_t h = 0; h < H; h++) A[h] = -(float)(h + 1) / 4;
    for (size_t h = 0; h < H; h++) D[h] = 1;

    mmix_raw raw = { 0 };                    /* all that is not said is 0 */
    raw.o.kind = MMIX_MIXER_SSD;
    raw.B = 1;
    raw.L = L;
    raw.S = L;
    raw.H = H;
    raw.N = N;
    raw.P = P;
    /* C has the place of queries, B that of keys, x that of values */
    raw.q = mmix_head_view_rows(C, L, 1, N, H);
    raw.k = mmix_head_view_rows(B, L, 1, N, H);
    raw.v = mmix_head_view_rows(x, L, H, P, H);
    raw.dt = mmix_head_view_rows(dt, L, H, 1, H);
    raw.A = A;
    raw.D = D;
    raw.y = mmix_head_view_rows(y, L, H, P, H);
    raw.dy = mmix_head_view_rows(dy, L, H, P, H);
    raw.grad[MMIX_IN_A] = dA;                /* the only gradient that is asked for */
    raw.kept = malloc(mmix_raw_kept_size(&raw) * sizeof(mmix_real));

    size_t most = mmix_raw_scratch_size(&raw, 1);
    if (mmix_raw_scratch_size(&raw, 0) > most) most = mmix_raw_scratch_size(&raw, 0);
    mmix_real *scratch = malloc(most * sizeof(mmix_real));
    double *expected = malloc(sizeof(double) * L * H * P);
    if (!raw.kept || !scratch || !expected) {
        puts("out of memory");
        return 1;
    }

    double start = seconds();
    by_definition(expected);
    double between = seconds();
    mmix_raw_forward(&raw, scratch);
    double end = seconds();
    double worst = 0, size = 0;
    for (size_t i = 0; i < L * H * P; i++) {
        worst = fmax(worst, fabs((double)y[i] - expected[i]));
        size = fmax(size, fabs(expected[i]));
    }
    printf("largest |y - definition|: %.1e of the largest |y|\n", worst / size);
    printf("milliseconds: %.1f by the definition in double, %.1f by mmix_raw_forward\n",
           1e3 * (between - start),
           1e3 * (end - between));

    mmix_raw_backward(&raw, scratch);
    const float step = 1e-3f, middle = A[2];
    A[2] = middle + step;
    double above = loss(&raw, scratch);
    A[2] = middle - step;
    double below = loss(&raw, scratch);
    double slope = (above - below) / (2 * (double)step);
    printf("dA[2]: %.4f by mmix_raw_backward, %.4f by a finite difference\n", (double)dA[2], slope);
    free(raw.kept);
    free(scratch);
    free(expected);
    return worst > 1e-5 * size || fabs(slope - (double)dA[2]) > 1e-2 * fabs(slope);
}
