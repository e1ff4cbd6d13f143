/* 03_scan.c - What does a scan remember?

   Mamba-2's mixer reads one token after another. It keeps a state h of P x N numbers. Each
   token lets the state fade, writes its value x_t along its key b_t, and reads with its
   query c_t:

       h_t = e^(a_t) h_{t-1} + δ_t x_t b_tᵀ,    y_t = h_t c_t
       a_t = δ_t A,    A < 0,    δ_t > 0: how far token t opens the state

   Unrolled this is Y = M X again: M_ij = F_ij (c_i · b_j) δ_j for j ≤ i, and 0 for j > i.
   F_ij = e^(a_{j+1} + ... + a_i) says how far token j has faded at token i.

   Here x_t, b_t and c_t are the same numbers, as in 01: the 432 colours of patch t less
   127.5, brought to length 10. A = -0.3, and δ_t = 0.1 + 0.05 x_t[0], where x_t[0] is the
   first of these numbers (red, top left). The state begins with zeros. The program prints
   row 77 of M over the scene: the past, faded. It shows that M and the scan agree, and that
   a scan which stops and goes on with its state gives the same bits.

       cc -O2 docs/tiny/03_scan.c -o 03 -lm && ./03 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, TOKENS = GRID * GRID };
enum { WIDTH = 3 * PATCH * PATCH, MARKED = 77, STOP = 100 };

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* x, y (L, P), delta (L), B, C (L, N). h (P, N) is the state before, then after. */
static void scan(float *y, float *h, const float *x, const float *delta, float A,
                 const float *B, const float *C, size_t L, size_t N, size_t P)
{
    for (size_t t = 0; t < L; t++) {
        float fade = expf(delta[t] * A);
        for (size_t p = 0; p < P; p++) {
            float *h_p = h + p * N, step = delta[t] * x[t * P + p];
            for (size_t n = 0; n < N; n++) h_p[n] = fade * h_p[n] + step * B[t * N + n];
            y[t * P + p] = dot(h_p, C + t * N, N);
        }
    }
}

/* M (L, L). A row begins on the diagonal and walks into the past: each token on the way
   brings one more factor e^a. */
static void scan_matrix(float *M, const float *delta, float A, const float *B,
                        const float *C, size_t L, size_t N)
{
    for (size_t i = 0; i < L; i++) {
        float fade = 1;
        for (size_t j = 0; j < L; j++) M[i * L + j] = 0;
        for (size_t j = i + 1; j-- > 0;) {
            M[i * L + j] = fade * dot(C + i * N, B + j * N, N) * delta[j];
            fade *= expf(delta[j] * A);
        }
    }
}

/* As in 01: the colours of each patch, brought to length 10. */
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
    static float x[TOKENS * WIDTH], y[TOKENS * WIDTH], pieces[TOKENS * WIDTH];
    static float h[WIDTH * WIDTH], carried[WIDTH * WIDTH];
    static float M[TOKENS * TOKENS], delta[TOKENS];
    float A = -0.3f, largest = 0, apart = 0, top = 0;
    size_t stop = STOP * WIDTH;
    read_patches(x);
    for (size_t t = 0; t < TOKENS; t++) delta[t] = 0.1f + 0.05f * x[t * WIDTH];
    scan_matrix(M, delta, A, x, x, TOKENS, WIDTH);
    scan(y, h, x, delta, A, x, x, TOKENS, WIDTH, WIDTH);
    scan(pieces, carried, x, delta, A, x, x, STOP, WIDTH, WIDTH);
    scan(pieces + stop, carried, x + stop, delta + STOP, A, x + stop, x + stop,
         TOKENS - STOP, WIDTH, WIDTH);
    const float *row = M + MARKED * TOKENS;
    for (size_t j = 0; j < TOKENS; j++) largest = fmaxf(largest, row[j]);
    puts("what patch 77, in brackets, takes of each patch of the scene");
    for (size_t j = 0; j < TOKENS; j++) {
        char sign = " .:-=+*#%@"[(int)(fmaxf(row[j], 0) / largest * 9.99f)];
        printf(j == MARKED ? "[%c]" : " %c ", sign);
        if (j % GRID == GRID - 1) putchar('\n');
    }
    for (size_t p = 0; p < WIDTH; p++) {
        float sum = 0;
        for (size_t j = 0; j < TOKENS; j++) sum += row[j] * x[j * WIDTH + p];
        apart = fmaxf(apart, fabsf(sum - y[MARKED * WIDTH + p]));
        top = fmaxf(top, fabsf(sum));
    }
    printf("M x and the scan differ by %.0e, where y is up to %.0f\n", apart, top);
    const char *bits = memcmp(y, pieces, sizeof y) == 0 ? "the same" : "OTHER";
    printf("stopped after token %d and gone on: %s bits\n", STOP, bits);
    return 0;
}

/* Try next: A = -3 forgets within a row of the picture, A = -0.03 hardly forgets. Read the
   patches from the last to the first. Add a path past the state, y_t += D x_t. */
