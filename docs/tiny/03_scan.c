/* 03_scan.c - What does a scan remember?

   Mamba-2's mixer reads one token after another. It keeps a state h of P x N numbers. Each
   token lets the state fade, writes its value x along its key B, reads with its query C:

       h_t = e^(a_t) h_{t-1} + δ_t x_t B_tᵀ,    y_t = h_t C_t
       a_t = δ_t A,    A < 0,    δ_t > 0: how far token t opens the state

   Unrolled this is Y = M X again: M_ij = e^(a_{j+1} + ... + a_i) (C_i · B_j) δ_j for j ≤ i,
   and 0 for j > i: the past, faded. The program prints row 77 of M over the scene. It shows
   that M and the scan agree, that a scan which stops and goes on with its state gives the
   same bits, and what each mixer keeps between two tokens.

       cc -O2 docs/tiny/03_scan.c -o 03 -lm && ./03 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, TOKENS = GRID * GRID };
enum { WIDTH = 64, MARKED = 77 };

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* One token: h (P, N) becomes the next state, and y_t (P) is what C_t reads of it. */
static void scan_step(float *y_t, float *h, const float *x_t, float delta, float A,
                      const float *B_t, const float *C_t, size_t N, size_t P)
{
    float fade = expf(delta * A);
    for (size_t p = 0; p < P; p++) {
        float *h_p = h + p * N;
        for (size_t n = 0; n < N; n++) h_p[n] = fade * h_p[n] + delta * x_t[p] * B_t[n];
        y_t[p] = dot(h_p, C_t, N);
    }
}

/* All tokens: x, y (L, P), delta (L), B, C (L, N). h is the state before, then after. */
static void scan(float *y, float *h, const float *x, const float *delta, float A,
                 const float *B, const float *C, size_t L, size_t N, size_t P)
{
    for (size_t t = 0; t < L; t++)
        scan_step(y + t * P, h, x + t * P, delta[t], A, B + t * N, C + t * N, N, P);
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
    static float x[TOKENS * 3], B[TOKENS * WIDTH], C[TOKENS * WIDTH];
    static float M[TOKENS * TOKENS], y[TOKENS * 3], pieces[TOKENS * 3], delta[TOKENS];
    float h[3 * WIDTH] = { 0 }, carried[3 * WIDTH] = { 0 }, A = -0.3f, apart = 0;
    if (!read_tokens(x, B)) return 1;
    for (size_t i = 0; i < TOKENS * WIDTH; i++) C[i] = B[i] / sqrtf(WIDTH);
    for (size_t t = 0; t < TOKENS; t++) delta[t] = 0.05f + 0.1f * x[3 * t + 2];
    scan_matrix(M, delta, A, B, C, TOKENS, WIDTH);
    scan(y, h, x, delta, A, B, C, TOKENS, WIDTH, 3);
    scan(pieces, carried, x, delta, A, B, C, 100, WIDTH, 3);
    scan(pieces + 300, carried, x + 300, delta + 100, A, B + 100 * WIDTH, C + 100 * WIDTH,
         44, WIDTH, 3);
    print_row(M + MARKED * TOKENS);
    for (size_t i = 0; i < TOKENS; i++)
        for (size_t p = 0; p < 3; p++) {
            float sum = 0;
            for (size_t j = 0; j < TOKENS; j++) sum += M[i * TOKENS + j] * x[3 * j + p];
            apart = fmaxf(apart, fabsf(sum - y[3 * i + p]));
        }
    printf("M x and the scan differ by %.0e\n", apart);
    int equal = memcmp(y, pieces, sizeof y) == 0;
    printf("stopped after token 100 and gone on: %s bits\n", equal ? "the same" : "OTHER");
    puts("\nnumbers kept after token      100     1000    10000   (N = P = 64, one head)");
    puts("attention: keys, values     12800   128000  1280000");
    puts("the scan: its state          4096     4096     4096");
    return 0;
}

/* Try next: A = -3 forgets within a row of the picture, A = -0.03 hardly forgets. Read the
   patches from the last to the first. Add a path past the state, y_t += D x_t. */
