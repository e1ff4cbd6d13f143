/* 02_linear_attention.c - Why is one of the mixers linear?

   Take e^(q · k) of 01 away and put features in its place. φ makes N positive numbers of a
   query or a key (here a softmax over its own N numbers), and M_ij = φ(q_i) · φ(k_j). A
   product of three matrices can be bracketed in two ways, and both give the same y:

       (φ(Q) φ(K)ᵀ) V    makes M, which has L x L numbers:      L² (N + P) multiply-adds
       φ(Q) (φ(K)ᵀ V)    makes a state h, which has P x N:      2 L N P multiply-adds

       h = Σ_j v_j φ(k_j)ᵀ,    y_i = h φ(q_i)

   Query, key and value of a patch are the same numbers x again, as in 01: its 432 colours
   less 127.5, but brought to length 20. φ(x)_n = e^(x_n) / Σ_m e^(x_m), and N = P = 432. No
   largest number is taken off: e^20 fits into a float. Rows of M are not divided by their
   sums. The program prints row 77 of M over the scene, and how far the two y are apart.

       cc -O2 docs/tiny/02_linear_attention.c -o 02 -lm && ./02 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, TOKENS = GRID * GRID };
enum { WIDTH = 3 * PATCH * PATCH, MARKED = 77 };

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

/* As in 01: the colours of each patch, brought to length 20. */
static void read_patches(float *x)
{
    static unsigned char rgb[SIDE][SIDE][3];
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    if (!f || fscanf(f, "P6 144 144 255%*c") != 0 || fread(rgb, sizeof rgb, 1, f) != 1) {
        puts("docs/tiny/scene.ppm is not here; run this beside docs");
        exit(1);
    }
    fclose(f);
    for (size_t t = 0; t < TOKENS; t++, x += WIDTH) {
        for (size_t i = 0; i < WIDTH; i++) {
            size_t row = t / GRID * PATCH + i / 3 / PATCH;
            size_t column = t % GRID * PATCH + i / 3 % PATCH;
            x[i] = rgb[row][column][i % 3] - 127.5f;
        }
        float length = sqrtf(dot(x, x, WIDTH)) / 20;
        for (size_t i = 0; i < WIDTH; i++) x[i] /= length;
    }
}

int main(void)
{
    static float x[TOKENS * WIDTH], f[TOKENS * WIDTH], M[TOKENS * TOKENS];
    static float y[TOKENS * WIDTH], same[TOKENS * WIDTH], h[WIDTH * WIDTH];
    read_patches(x);
    features(f, x, TOKENS, WIDTH);
    linear_by_matrix(y, M, f, f, x, TOKENS, WIDTH, WIDTH);
    linear_by_state(same, h, f, f, x, TOKENS, WIDTH, WIDTH);
    const float *row = M + MARKED * TOKENS;
    float largest = 0, apart = 0;
    for (size_t j = 0; j < TOKENS; j++) largest = fmaxf(largest, row[j]);
    for (size_t i = 0; i < TOKENS * WIDTH; i++) apart = fmaxf(apart, fabsf(y[i] - same[i]));
    puts("what patch 77, in brackets, takes of each patch of the scene");
    for (size_t j = 0; j < TOKENS; j++) {
        char sign = " .:-=+*#%@"[(int)(row[j] / largest * 9.99f)];
        printf(j == MARKED ? "[%c]" : " %c ", sign);
        if (j % GRID == GRID - 1) putchar('\n');
    }
    printf("M first or the state first: y differs by %.0e\n", apart);
    return 0;
}

/* Try next: read the state while it grows, in one loop: patch i then sees only patches
   j ≤ i (the causal form). Multiply q by 3 before φ, and the row sharpens. Divide each y by
   its row's sum, which is one more row of h, for a v with a 1 at its end. */
