/* 04_chunks.c - How is a scan computed quickly?

   03 reads and writes the whole state for every token, one token after another. Now cut the
   sequence into chunks of Q tokens. Inside a chunk use the matrix, between chunks the state
   (Mamba-2's SSD; W is the chunk's part of M):

       y_i = Σ_{j ≤ i} W_ij x_j + p_i h C_i,        W_ij = F_ij (C_i · B_j) δ_j
       h ← p_Q h + Σ_j F_Qj δ_j x_j B_jᵀ,           p_i = e^(a_1 + ... + a_i)

   F_ij = e^(a_{j+1} + ... + a_i) is what is left of token j at token i. It is built as a
   product of factors e^a, each below 1. On paper it is also p_i / p_j, but where both are
   too small for a float that is 0 / 0. The program compares chunks of several lengths with
   the loop, and the product with the quotient.

       cc -O2 docs/tiny/04_chunks.c -o 04 -lm && ./04 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { TOKENS = 1000, WIDTH = 32, CHANNELS = 32, LONGEST = 1024 };

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* 03's loop: x and y (L, P), delta (L), B and C (L, N), h (P, N). */
static void plain_scan(float *y, float *h, const float *x, const float *delta, float A,
                       const float *B, const float *C, size_t L, size_t N, size_t P)
{
    for (size_t t = 0; t < L; t++)
        for (size_t p = 0; p < P; p++) {
            float *h_p = h + p * N, fade = expf(delta[t] * A);
            float step = delta[t] * x[t * P + p];
            for (size_t n = 0; n < N; n++) h_p[n] = fade * h_p[n] + step * B[t * N + n];
            y[t * P + p] = dot(h_p, C + t * N, N);
        }
}

/* Row i of F from row i - 1: all that was there fades once more, token i is whole. */
static void fade_row(float *F, size_t i, float fade)
{
    for (size_t j = 0; j < i; j++) F[j] *= fade;
    F[i] = 1;
}

/* One chunk of Q tokens. F has room for Q numbers, one row of the matrix at a time. */
static void scan_chunk(float *y, float *h, float *F, const float *x, const float *delta,
                       float A, const float *B, const float *C, size_t Q, size_t N,
                       size_t P)
{
    float left = 1;                              /* p_i, of the state before the chunk */
    for (size_t i = 0; i < Q; i++) {
        float fade = expf(delta[i] * A);
        fade_row(F, i, fade);
        left *= fade;
        for (size_t p = 0; p < P; p++)
            y[i * P + p] = left * dot(h + p * N, C + i * N, N);
        for (size_t j = 0; j <= i; j++) {
            float W = F[j] * dot(C + i * N, B + j * N, N) * delta[j];
            for (size_t p = 0; p < P; p++) y[i * P + p] += W * x[j * P + p];
        }
    }
    for (size_t p = 0; p < P; p++)               /* F is now the chunk's last row, F_Qj */
        for (size_t n = 0; n < N; n++) {
            float sum = left * h[p * N + n];
            for (size_t j = 0; j < Q; j++)
                sum += F[j] * delta[j] * x[j * P + p] * B[j * N + n];
            h[p * N + n] = sum;
        }
}

/* All chunks; the last one has what is left. F has room for Q numbers. */
static void chunked_scan(float *y, float *h, float *F, const float *x, const float *delta,
                         float A, const float *B, const float *C, size_t L, size_t N,
                         size_t P, size_t Q)
{
    for (size_t t = 0; t < L; t += Q) {
        size_t length = L - t < Q ? L - t : Q;
        const float *B_t = B + t * N, *C_t = C + t * N;
        scan_chunk(y + t * P, h, F, x + t * P, delta + t, A, B_t, C_t, length, N, P);
    }
}

/* What is left of token j one token later, as a factor and as a quotient. */
static void print_fades(const float *delta, float A)
{
    float p = 1;
    puts("\nstrong fading: what is left of token j one token later");
    puts("     j       as a factor   as p_{j+1} / p_j            p_j");
    for (size_t j = 0; j < 32; j++) {
        float fade = expf(delta[j + 1] * A);
        p *= expf(delta[j] * A);
        float quotient = fabsf(p * fade / p);
        if (j % 5 == 0) printf("%6zu %17.6f %18.6f %14.1e\n", j, fade, quotient, p);
    }
}

int main(void)
{
    static float x[TOKENS * CHANNELS], B[TOKENS * WIDTH], C[TOKENS * WIDTH], delta[TOKENS];
    static float y[TOKENS * CHANNELS], fast[TOKENS * CHANNELS], F[LONGEST];
    static float h[CHANNELS * WIDTH], carried[CHANNELS * WIDTH];
    uint32_t seed = 1;
    for (size_t i = 0; i < TOKENS * WIDTH; i++) {
        seed = seed * 1664525u + 1013904223u;
        B[i] = (float)(seed >> 8) / 8388608 - 1;
        C[TOKENS * WIDTH - 1 - i] = B[i];
        x[i] = sinf((float)i);
        delta[i / WIDTH] = 0.1f + 0.09f * B[i];
    }
    plain_scan(y, h, x, delta, -1, B, C, TOKENS, WIDTH, CHANNELS);
    puts(" chunk   multiply-adds   numbers of the state     largest difference");
    puts("             per token      touched per token          from the loop");
    for (size_t Q = 1; Q <= LONGEST; Q *= 4) {
        float apart = 0;
        for (size_t i = 0; i < CHANNELS * WIDTH; i++) carried[i] = 0;
        chunked_scan(fast, carried, F, x, delta, -1, B, C, TOKENS, WIDTH, CHANNELS, Q);
        for (size_t i = 0; i < TOKENS * CHANNELS; i++)
            apart = fmaxf(apart, fabsf(fast[i] - y[i]));
        size_t cost = (Q + 1) * (WIDTH + CHANNELS) / 2 + 2 * WIDTH * CHANNELS;
        printf("%6zu %15zu %22zu %22.0e\n", Q, cost, WIDTH * CHANNELS / Q, apart);
    }
    print_fades(delta, -50);
    return 0;
}

/* Try next: W, W x, h C and the sum over j are products of matrices. Write them so, and
   use 06. Heads that share B and C have C_i · B_j in common: make it once for all. */
