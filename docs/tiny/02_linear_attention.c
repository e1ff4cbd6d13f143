/* 02_linear_attention.c - Why is one of the mixers linear?

   Take e^(q · k) of 01 away and put features in its place. φ makes N positive numbers of a
   query or a key (here a softmax over its own N numbers), and M_ij = φ(q_i) · φ(k_j). A
   product of three matrices can be bracketed in two ways, and both give the same y:

       (φ(Q) φ(K)ᵀ) V    makes M, which has L x L numbers:      L² (N + P) multiply-adds
       φ(Q) (φ(K)ᵀ V)    makes a state h, which has P x N:      2 L N P multiply-adds

       h = Σ_j v_j φ(k_j)ᵀ,    y_i = h φ(q_i)

   φ(x)_n = e^(x_n) / Σ_m e^(x_m). Rows of M are not divided by their sums. Query, key and
   value of a token are the same N = P = 64 numbers here: number i of all tokens is
   2 sin(i² mod 1009). The program prints what both ways cost for more and more tokens, and
   how far their y are apart.

       cc -O2 docs/tiny/02_linear_attention.c -o 02 -lm && ./02 */

#include <math.h>
#include <stdio.h>

enum { WIDTH = 64, LONGEST = 1024 };

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* f (L, N) of x (L, N): the softmax over the N numbers of each row. */
static void features(float *f, const float *x, size_t L, size_t N)
{
    for (size_t i = 0; i < L; i++, f += N, x += N) {
        float sum = 0;
        for (size_t n = 0; n < N; n++) {
            f[n] = expf(x[n]);
            sum += f[n];
        }
        for (size_t n = 0; n < N; n++) f[n] /= sum;
    }
}

/* M first: y (L, P) and M (L, L) of the features f of queries and g of keys, (L, N). */
static void linear_by_matrix(float *y, float *M, const float *f, const float *g,
                             const float *v, size_t L, size_t N, size_t P)
{
    for (size_t i = 0; i < L; i++) {
        for (size_t j = 0; j < L; j++) M[i * L + j] = dot(f + i * N, g + j * N, N);
        for (size_t p = 0; p < P; p++) {
            float sum = 0;
            for (size_t j = 0; j < L; j++) sum += M[i * L + j] * v[j * P + p];
            y[i * P + p] = sum;
        }
    }
}

/* The state first: h (P, N), zeros before, is all that is ever kept of the tokens. */
static void linear_by_state(float *y, float *h, const float *f, const float *g,
                            const float *v, size_t L, size_t N, size_t P)
{
    for (size_t j = 0; j < L; j++)               /* h ← h + v_j φ(k_j)ᵀ */
        for (size_t p = 0; p < P; p++)
            for (size_t n = 0; n < N; n++) h[p * N + n] += v[j * P + p] * g[j * N + n];
    for (size_t i = 0; i < L; i++)               /* y_i = h φ(q_i) */
        for (size_t p = 0; p < P; p++) y[i * P + p] = dot(h + p * N, f + i * N, N);
}

int main(void)
{
    static float x[LONGEST * WIDTH], f[LONGEST * WIDTH], M[LONGEST * LONGEST];
    static float y[LONGEST * WIDTH], same[LONGEST * WIDTH];
    for (size_t i = 0; i < LONGEST * WIDTH; i++) x[i] = 2 * sinf((float)(i * i % 1009));
    features(f, x, LONGEST, WIDTH);
    puts("tokens   multiply-adds with M first   with the state first   y differs by");
    for (size_t L = 16; L <= LONGEST; L *= 4) {
        float apart = 0, h[WIDTH * WIDTH] = { 0 };
        linear_by_matrix(y, M, f, f, x, L, WIDTH, WIDTH);
        linear_by_state(same, h, f, f, x, L, WIDTH, WIDTH);
        for (size_t i = 0; i < L * WIDTH; i++) apart = fmaxf(apart, fabsf(y[i] - same[i]));
        size_t first = 2 * L * L * WIDTH, second = 2 * L * WIDTH * WIDTH;
        printf("%6zu %28zu %22zu %14.0e\n", L, first, second, apart);
    }
    return 0;
}

/* Try next: take the time of both with clock(). Read the state while it grows, in one loop:
   token i then sees only tokens j ≤ i (the causal form). Divide each y by its row's sum,
   which is one more row of h, for a v with a 1 at its end. */
