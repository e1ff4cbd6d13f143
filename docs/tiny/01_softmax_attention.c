/* 01_softmax_attention.c - How do the patches of a picture look at each other?

   A picture is cut into L = 144 patches. Each asks a question (its query q, N numbers),
   offers an answer (its key k, N numbers) and has something to give (its value v, P
   numbers). Where question and answer fit, the entry of the matrix M is large. Each patch
   then takes its share of all values, Y = M V:

       M_ij = e^(s_ij) / Σ_t e^(s_it),    s_ij = q_i · k_j / √N,    y_i = Σ_j M_ij v_j

   The program lays row 77 of M over the scene. Patch 77 is on the ball. The darker a sign,
   the more patch 77 takes of that patch.

       cc -O2 docs/tiny/01_softmax_attention.c -o 01 -lm && ./01 */

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

/* One row of M (L): scores, then e^score, then shares. The largest score is taken off
   before: the shares stay the same, and no exponential is too large for a float. */
static void attention_row(float *row, const float *q_i, const float *k, size_t L, size_t N)
{
    float largest = -HUGE_VALF, sum = 0;
    for (size_t j = 0; j < L; j++) {
        row[j] = dot(q_i, k + j * N, N) / sqrtf((float)N);
        if (row[j] > largest) largest = row[j];
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
        float *row = M + i * L;
        attention_row(row, q + i * N, k, L, N);
        for (size_t p = 0; p < P; p++) y[i * P + p] = 0;
        for (size_t j = 0; j < L; j++)
            for (size_t p = 0; p < P; p++) y[i * P + p] += row[j] * v[j * P + p];
    }
}

/* A number between -1 and 1 that depends on `number` alone: it stands for a learned
   weight. */
static float weight(size_t number)
{
    uint32_t i = (uint32_t)number;
    i = (i ^ i >> 15) * 0x2c1b3c6du;
    i = (i ^ i >> 12) * 0x297a2d39u;
    return (float)((i ^ i >> 15) >> 8) / 8388608 - 1;
}

/* Tokens of the scene: the mean colour of each patch, (TOKENS, 3), and WIDTH weighted sums
   of its pixels, brought to length √WIDTH, (TOKENS, WIDTH). They are query and key at
   once, so a patch asks for patches like itself. Returns 0 if the scene is not there. */
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

/* The scene by its brightness, and beside it one row of M, on the scale of its largest
   entry. */
static void print_row(const float *colours, const float *row)
{
    float top = 0;
    for (size_t j = 0; j < TOKENS; j++) top = fmaxf(top, row[j]);
    puts("the scene                    what patch 77, in brackets, takes of each patch");
    for (size_t j = 0; j < TOKENS; j += GRID) {
        for (const float *c = colours + 3 * j; c < colours + 3 * (j + GRID); c += 3)
            printf("%c ", "@%#*+=-:. "[(int)((c[0] + c[1] + c[2]) * 3.33f)]);
        printf("     ");
        for (size_t i = j; i < j + GRID; i++) {
            char sign = " .:-=+*#%@"[(int)(fmaxf(row[i], 0) / top * 9.99f)];
            printf(i == MARKED ? "[%c]" : " %c ", sign);
        }
        putchar('\n');
    }
}

int main(void)
{
    static float v[TOKENS * 3], q[TOKENS * WIDTH];
    static float M[TOKENS * TOKENS], y[TOKENS * 3];
    if (!read_tokens(v, q)) return 1;
    softmax_attention(y, M, q, q, v, TOKENS, WIDTH, 3);
    const float *row = M + MARKED * TOKENS, *was = v + MARKED * 3, *is = y + MARKED * 3;
    float sum = 0;
    for (size_t j = 0; j < TOKENS; j++) sum += row[j];
    print_row(v, row);
    printf("the row's sum            %.4f\n", sum);
    printf("patch 77 takes of itself %.4f\n", row[MARKED]);
    printf("an equal share           %.4f\n", 1.0 / TOKENS);
    printf("its red, green, blue     %.2f %.2f %.2f\n", was[0], was[1], was[2]);
    printf("after mixing             %.2f %.2f %.2f\n", is[0], is[1], is[2]);
    return 0;
}

/* Try next: leave out the division by √N. Mark patch 5, on the wall. Let patch i see only
   patches j ≤ i, as a writer of text must (a causal mask: the loops over j end at i). */
