/* 01_softmax_attention.c - How do the patches of a picture look at each other?

   A picture is cut into L = 144 patches. Each asks a question (its query q_i, N numbers),
   offers an answer (its key k_j, N numbers) and has something to give (its value v_j, P
   numbers). Where question and answer fit, the entry of the matrix M is large. Each patch
   takes its shares of all values, Y = M V:

       M_ij = e^(s_ij) / Σ_t e^(s_it),    s_ij = q_i · k_j / √N,    y_i = Σ_j M_ij v_j

   Here query, key and value of a patch are the same N = P = 432 numbers: nothing is
   learned, and a patch asks for patches like itself. They are the colours of its 12 x 12
   pixels (row by row; red, green, blue; 0 to 255), less 127.5, then divided by a number
   that brings their length √(x · x) to 10. Before e^, the largest score of row i is taken
   off each of its scores: M stays the same, and no float overflows.

   Patches are numbered from 0, row by row. The program lays row 77 of M over the scene.
   Patch 77 is on the ball. The darker a sign, the more patch 77 takes of that patch.

       cc -O2 docs/tiny/01_softmax_attention.c -o 01 -lm && ./01 */

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

/* One row of M (L): scores, then e^score, then shares. */
static void attention_row(float *row, const float *q_i, const float *k, size_t L, size_t N)
{
    float largest = -HUGE_VALF, sum = 0;
    for (size_t j = 0; j < L; j++) {
        row[j] = dot(q_i, k + j * N, N) / sqrtf((float)N);
        largest = fmaxf(largest, row[j]);
    }
    for (size_t j = 0; j < L; j++) {
        row[j] = expf(row[j] - largest);
        sum += row[j];
    }
    for (size_t j = 0; j < L; j++) row[j] /= sum;
}

/* y (L, P) and M (L, L), from q and k (L, N) and v (L, P). */
static void softmax_attention(float *y, float *M, const float *q, const float *k,
                              const float *v, size_t L, size_t N, size_t P)
{
    for (size_t i = 0; i < L; i++) {
        attention_row(M + i * L, q + i * N, k, L, N);
        for (size_t p = 0; p < P; p++) {
            float sum = 0;
            for (size_t j = 0; j < L; j++) sum += M[i * L + j] * v[j * P + p];
            y[i * P + p] = sum;
        }
    }
}

/* x (TOKENS, WIDTH): the colours of each patch, brought to length 10. (Longer: the
   patches choose more sharply.) */
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
        float length = sqrtf(dot(x, x, WIDTH)) / 10;
        for (size_t i = 0; i < WIDTH; i++) x[i] /= length;
    }
}

int main(void)
{
    static float x[TOKENS * WIDTH], y[TOKENS * WIDTH], M[TOKENS * TOKENS];
    read_patches(x);
    softmax_attention(y, M, x, x, x, TOKENS, WIDTH, WIDTH);
    const float *row = M + MARKED * TOKENS;
    float largest = 0;
    for (size_t j = 0; j < TOKENS; j++) largest = fmaxf(largest, row[j]);
    puts("what patch 77, in brackets, takes of each patch of the scene");
    for (size_t j = 0; j < TOKENS; j++) {
        char sign = " .:-=+*#%@"[(int)(row[j] / largest * 9.99f)];
        printf(j == MARKED ? "[%c]" : " %c ", sign);
        if (j % GRID == GRID - 1) putchar('\n');
    }
    printf("it takes of itself %.4f; an equal share is %.4f\n", row[MARKED], 1.0 / TOKENS);
    return 0;
}

/* Try next: leave out the division by √N. Mark patch 5, on the wall. Let patch i see only
   patches j ≤ i, as a writer of text must (a causal mask: the loops over j end at i). */
