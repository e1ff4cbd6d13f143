/* 04_chunks.c - How is a scan computed quickly?

   03 reads and writes the whole state for every token, one token after another. Now cut the
   sequence into chunks of Q tokens. Inside a chunk use its own matrix M^c, between chunks
   the state (this is Mamba-2's SSD). i and j count the chunk's tokens from 1:

       y_i = Σ_{j ≤ i} M^c_ij x_j + F_i0 h c_i,     M^c_ij = F_ij (c_i · b_j) δ_j
       h ← F_Q0 h + Σ_j F_Qj δ_j x_j b_jᵀ,          F_ij = e^(a_{j+1} + ... + a_i)

   F_ij is what is left of token j at token i, and F_i0 what is left of the state. They are
   built as products of factors e^a, each below 1. (On paper F_ij is also F_i0 / F_j0, but
   where both are too small for a float that is 0 / 0.) A chunk of one token is a step of
   03's loop. The program compares longer ones with that.

       cc -O2 docs/tiny/04_chunks.c -o 04 -lm && ./04 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { TOKENS = 1000, WIDTH = 32, LONGEST = 1024 };

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Row i of F from row i - 1: all that was there fades once more, token i is whole. */
static void fade_row(float *F, size_t i, float fade)
{
    for (size_t j = 0; j < i; j++) F[j] *= fade;
    F[i] = 1;
}

/* One chunk of Q tokens: x and y (Q, P), delta (Q), B and C (Q, N), h (P, N). F has room
   for Q numbers, one row of the matrix at a time. */
static void scan_chunk(float *y, float *h, float *F, const float *x, const float *delta,
                       float A, const float *B, const float *C, size_t Q, size_t N,
                       size_t P)
{
    float F_i0 = 1;
    for (size_t i = 0; i < Q; i++) {
        float fade = expf(delta[i] * A);
        fade_row(F, i, fade);
        F_i0 *= fade;
        for (size_t p = 0; p < P; p++)
            y[i * P + p] = F_i0 * dot(h + p * N, C + i * N, N);
        for (size_t j = 0; j <= i; j++) {
            float M_ij = F[j] * dot(C + i * N, B + j * N, N) * delta[j];
            for (size_t p = 0; p < P; p++) y[i * P + p] += M_ij * x[j * P + p];
        }
    }
    for (size_t i = 0; i < P * N; i++) h[i] *= F_i0;     /* now F_Q0, and F is F_Qj */
    for (size_t j = 0; j < Q; j++)
        for (size_t p = 0; p < P; p++)
            for (size_t n = 0; n < N; n++)
                h[p * N + n] += F[j] * delta[j] * x[j * P + p] * B[j * N + n];
}

/* All chunks; the last one has what is left. F has room for Q numbers. */
static void chunked_scan(float *y, float *h, float *F, const float *x, const float *delta,
                         float A, const float *B, const float *C, size_t L, size_t N,
                         size_t P, size_t Q)
{
    for (size_t t = 0; t < L; t += Q) {
        size_t length = L - t < Q ? L - t : Q;
        const float *b_t = B + t * N, *c_t = C + t * N;
        scan_chunk(y + t * P, h, F, x + t * P, delta + t, A, b_t, c_t, length, N, P);
    }
}

int main(void)
{
    static float x[TOKENS * WIDTH], B[TOKENS * WIDTH], C[TOKENS * WIDTH], delta[TOKENS];
    static float y[TOKENS * WIDTH], fast[TOKENS * WIDTH], F[LONGEST], h[WIDTH * WIDTH];
    uint32_t seed = 1;
    for (size_t i = 0; i < TOKENS * WIDTH; i++) {
        seed = seed * 1664525u + 1013904223u;
        B[i] = (float)(seed >> 8) / 8388608 - 1;
        C[TOKENS * WIDTH - 1 - i] = B[i];
        x[i] = sinf((float)i);
        delta[i / WIDTH] = 0.1f + 0.09f * B[i];
    }
    chunked_scan(y, h, F, x, delta, -1, B, C, TOKENS, WIDTH, WIDTH, 1);
    puts(" chunk   multiply-adds   numbers of the state     largest difference");
    puts("             per token      touched per token          from the loop");
    for (size_t Q = 1; Q <= LONGEST; Q *= 4) {
        float apart = 0, carried[WIDTH * WIDTH] = { 0 };
        chunked_scan(fast, carried, F, x, delta, -1, B, C, TOKENS, WIDTH, WIDTH, Q);
        for (size_t i = 0; i < TOKENS * WIDTH; i++)
            apart = fmaxf(apart, fabsf(fast[i] - y[i]));
        size_t cost = (Q + 1) * WIDTH + 2 * WIDTH * WIDTH;
        printf("%6zu %15zu %22zu %22.0e\n", Q, cost, WIDTH * WIDTH / Q, apart);
    }
    return 0;
}

/* Try next: build F_ij as F_i0 / F_j0, and set A to -50: which y are no numbers? M^c,
   M^c x, h c and the sum over j are products of matrices. Write them so, and use 06. Heads
   that share B and C have c_i · b_j in common: make it once for all. */
