/* 02_linear_attention.c - Why is one of the mixers linear?

   Take e^(q · k) of 01 away and put features in its place. φ makes N positive numbers of a
   query or a key (here a softmax over its own N numbers), and M_ij = φ(q_i) · φ(k_j). A
   product of three matrices can be bracketed in two ways, and both give the same y:

       (φ(Q) φ(K)ᵀ) V    makes M, which has L x L numbers:    L² (N + P) multiply-adds
       φ(Q) (φ(K)ᵀ V)    makes sums, which have N x P:        2 L N P multiply-adds

   A causal mixer, in which patch i sees only patches j ≤ i, reads the sums while they grow.
   The program prints row 77 of M over the scene, how far the two results are apart, and a
   table of costs.

       cc -O2 docs/tiny/02_linear_attention.c -o 02 -lm && ./02 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, TOKENS = GRID * GRID };
enum { WIDTH = 64, MARKED = 77 };

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
        float largest = x[0], sum = 0;
        for (size_t n = 1; n < N; n++) largest = fmaxf(largest, x[n]);
        for (size_t n = 0; n < N; n++) {
            f[n] = expf(x[n] - largest);
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
        for (size_t p = 0; p < P; p++) y[i * P + p] = 0;
        for (size_t j = 0; j < L; j++) {
            M[i * L + j] = dot(f + i * N, g + j * N, N);
            for (size_t p = 0; p < P; p++) y[i * P + p] += M[i * L + j] * v[j * P + p];
        }
    }
}

/* S (N, P) += φ(k_j) v_jᵀ: all that is ever kept of token j. */
static void remember(float *S, const float *g_j, const float *v_j, size_t N, size_t P)
{
    for (size_t n = 0; n < N; n++)
        for (size_t p = 0; p < P; p++) S[n * P + p] += g_j[n] * v_j[p];
}

/* y_i (P) = φ(q_i) S */
static void recall(float *y_i, const float *S, const float *f_i, size_t N, size_t P)
{
    for (size_t p = 0; p < P; p++) y_i[p] = 0;
    for (size_t n = 0; n < N; n++)
        for (size_t p = 0; p < P; p++) y_i[p] += f_i[n] * S[n * P + p];
}

/* Sums first: all tokens are remembered, then each recalls. S is zeros at first. */
static void linear_by_sums(float *y, float *S, const float *f, const float *g,
                           const float *v, size_t L, size_t N, size_t P)
{
    for (size_t j = 0; j < L; j++) remember(S, g + j * N, v + j * P, N, P);
    for (size_t i = 0; i < L; i++) recall(y + i * P, S, f + i * N, N, P);
}

/* The causal form: the same two calls in one loop. */
static void linear_causal(float *y, float *S, const float *f, const float *g,
                          const float *v, size_t L, size_t N, size_t P)
{
    for (size_t i = 0; i < L; i++) {
        remember(S, g + i * N, v + i * P, N, P);
        recall(y + i * P, S, f + i * N, N, P);
    }
}

static float weight(size_t number)               /* stands for a learned one, as in 01 */
{
    uint32_t i = (uint32_t)number;
    i = (i ^ i >> 15) * 0x2c1b3c6du;
    i = (i ^ i >> 12) * 0x297a2d39u;
    return (float)((i ^ i >> 15) >> 8) / 8388608 - 1;
}

/* As in 01: mean colours, (TOKENS, 3), and query and key in one, (TOKENS, WIDTH). */
static int read_tokens(float *colour, float *q)
{
    static unsigned char rgb[3 * SIDE * SIDE];
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    size_t got = 0;
    if (f && fscanf(f, "P6 144 144 255") == 0 && fgetc(f) == '\n')
        got = fread(rgb, 1, sizeof rgb, f);
    if (f) fclose(f);
    for (size_t i = 0; i < sizeof rgb; i++) {
        size_t y = i / 3 / SIDE, x = i / 3 % SIDE, token = y / PATCH * GRID + x / PATCH;
        size_t place = 3 * (y % PATCH * PATCH + x % PATCH) + i % 3;
        colour[token * 3 + i % 3] += rgb[i] / 255.0f / (PATCH * PATCH);
        for (size_t n = 0; n < WIDTH; n++)
            q[token * WIDTH + n] += (rgb[i] / 255.0f - 0.5f) * weight(place * WIDTH + n);
    }
    for (size_t t = 0; t < TOKENS; t++, q += WIDTH) {
        float length = sqrtf(dot(q, q, WIDTH) / WIDTH);
        for (size_t n = 0; n < WIDTH; n++) q[n] /= length;
    }
    if (got < sizeof rgb) puts("docs/tiny/scene.ppm is not here; run this beside docs");
    return got == sizeof rgb;
}

static void print_row(const float *row)
{
    float top = 0;
    for (size_t j = 0; j < TOKENS; j++) top = fmaxf(top, row[j]);
    puts("what patch 77, in brackets, takes of each patch of the scene");
    for (size_t i = 0; i < TOKENS; i++) {
        char sign = " .:-=+*#%@"[(int)(fmaxf(row[i], 0) / top * 9.99f)];
        printf(i == MARKED ? "[%c]" : " %c ", sign);
        if (i % GRID == GRID - 1) putchar('\n');
    }
}

int main(void)
{
    static float v[TOKENS * 3], q[TOKENS * WIDTH];
    static float f[TOKENS * WIDTH], M[TOKENS * TOKENS], S[WIDTH * 3], past[WIDTH * 3];
    static float y[TOKENS * 3], same[TOKENS * 3], causal[TOKENS * 3];
    if (!read_tokens(v, q)) return 1;
    features(f, q, TOKENS, WIDTH);
    linear_by_matrix(y, M, f, f, v, TOKENS, WIDTH, 3);
    linear_by_sums(same, S, f, f, v, TOKENS, WIDTH, 3);
    linear_causal(causal, past, f, f, v, TOKENS, WIDTH, 3);
    float sum = 0, apart = 0, last = 0;
    for (size_t j = 0; j < TOKENS; j++) sum += M[MARKED * TOKENS + j];
    for (size_t i = 0; i < TOKENS * 3; i++) apart = fmaxf(apart, fabsf(y[i] - same[i]));
    for (size_t i = TOKENS * 3 - 3; i < TOKENS * 3; i++)
        last = fmaxf(last, fabsf(causal[i] - same[i]));
    print_row(M + MARKED * TOKENS);
    printf("the row's sum is %.2f, about L/N = %.2f\n", sum, (double)TOKENS / WIDTH);
    printf("M first or sums first: y differs by %.0e\n", apart);
    printf("the last token sees all; its causal y differs by %.0e\n", last);
    puts("\n  tokens    multiply-adds with M    with sums   (N = P = 64)");
    for (double L = 64; L <= 4096; L *= 4)
        printf("%8.0f %19.0f %17.0f\n", L, L * L * (64 + 64), 2 * L * 64 * 64);
    return 0;
}

/* Try next: multiply q by 3 before φ, and the row sharpens. Divide each y by its row's
   sum, which is one more column of S, for a v with a 1 behind it. Use another φ: x + 1 for
   x > 0, else e^x. */
