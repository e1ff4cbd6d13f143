/* 08_dino.c - How can a network learn without labels, and why does it not cheat?

   A student and a teacher see two views of the same patch (shifted, lighter, darker). Each
   gives K numbers. The student shall say of one view what the teacher says of the other:

       q = softmax((t - c) / τ_t)      the teacher's answer: centred by c, sharpened by τ_t
       p = softmax(s / τ_s)            the student's
       loss = mean of -Σ q log p       over pairs of different views of one patch
       ∂loss/∂s = (p - q) / τ_s        for each pair, over the number of pairs

   Only the student has a gradient. The teacher is its slow average, c the slow mean of t.
   Both could cheat: one answer for all patches makes the loss 0. The centre forbids that;
   the small τ_t forbids an even answer. Here both are one matrix W (K, 3) over the mean
   colour of a patch. The program trains three times: as it should be, without the centre,
   without sharpening. It prints as a letter what the teacher says of each patch, or ? where
   it gives no answer more than half.

       cc -O2 docs/tiny/08_dino.c -o 08 -lm && ./08 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, PATCHES = GRID * GRID };
enum { COLOURS = 3, K = 8, ROWS = 2 * PATCHES, STEPS = 800 };

static unsigned char rgb[SIDE][SIDE][COLOURS];

/* p = softmax((x - center) / temperature), K numbers each */
static void softmax(double *p, const double *x, const double *center, double temperature)
{
    double largest = -HUGE_VAL, sum = 0;
    for (size_t k = 0; k < K; k++) {
        p[k] = (x[k] - center[k]) / temperature;
        largest = fmax(largest, p[k]);
    }
    for (size_t k = 0; k < K; k++) {
        p[k] = exp(p[k] - largest);
        sum += p[k];
    }
    for (size_t k = 0; k < K; k++) p[k] /= sum;
}

/* The loss of student rows s against teacher rows t, and its gradient ds, all (2 B, K):
   first one view of each of B patches, then the other. */
static double dino_loss(double *ds, const double *s, const double *t, const double *center,
                        size_t B, double tau_s, double tau_t)
{
    static const double none[K] = { 0 };
    double loss = 0, pairs = 2 * (double)B, p[K], q[K];
    for (size_t i = 0; i < 2 * B; i++) {
        size_t other = (i + B) % (2 * B);
        softmax(q, t + other * K, center, tau_t);
        softmax(p, s + i * K, none, tau_s);
        for (size_t k = 0; k < K; k++) {
            loss -= q[k] * log(p[k] + 1e-300) / pairs;
            ds[i * K + k] = (p[k] - q[k]) / tau_s / pairs;
        }
    }
    return loss;
}

/* c ← momentum c + (1 - momentum) mean of the rows of t */
static void center_update(double *center, const double *t, size_t rows, double momentum)
{
    for (size_t k = 0; k < K; k++) {
        double mean = 0;
        for (size_t r = 0; r < rows; r++) mean += t[r * K + k] / (double)rows;
        center[k] = momentum * center[k] + (1 - momentum) * mean;
    }
}

/* teacher ← momentum teacher + (1 - momentum) student */
static void follow(double *teacher, const double *student, size_t n, double momentum)
{
    for (size_t i = 0; i < n; i++)
        teacher[i] = momentum * teacher[i] + (1 - momentum) * student[i];
}

static double dice(void)                         /* 0 ... 1 */
{
    static uint32_t seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 16777216.0;
}

/* The mean colour of one view of a patch: up to 6 pixels aside, lighter or darker. */
static void view(double *colour, size_t patch)
{
    double light = 0.8 + 0.4 * dice();
    size_t top = patch / GRID * PATCH + (size_t)(7 * dice());
    size_t left = patch % GRID * PATCH + (size_t)(7 * dice());
    if (top > SIDE - PATCH) top = SIDE - PATCH;
    if (left > SIDE - PATCH) left = SIDE - PATCH;
    for (size_t c = 0; c < COLOURS; c++) {
        colour[c] = 0;
        for (size_t y = top; y < top + PATCH; y++)
            for (size_t x = left; x < left + PATCH; x++)
                colour[c] += light * rgb[y][x][c] / 255 / (PATCH * PATCH);
    }
}

/* y (ROWS, K) = x (ROWS, COLOURS) Wᵀ */
static void answer(double *y, const double *x, const double *W)
{
    for (size_t i = 0; i < ROWS * K; i++) {
        const double *row = x + i / K * COLOURS, *w = W + i % K * COLOURS;
        y[i] = row[0] * w[0] + row[1] * w[1] + row[2] * w[2];
    }
}

static void train(const char *title, double tau_t, int centred)
{
    static double x[ROWS * COLOURS], s[ROWS * K], t[ROWS * K], ds[ROWS * K];
    double student[K * COLOURS], teacher[K * COLOURS], center[K] = { 0 }, loss = 0;
    for (size_t i = 0; i < K * COLOURS; i++) student[i] = 0.1 * (dice() - 0.5);
    memcpy(teacher, student, sizeof teacher);
    for (int step = 0; step < STEPS; step++) {
        for (size_t r = 0; r < ROWS; r++) view(x + r * COLOURS, r % PATCHES);
        answer(s, x, student);
        answer(t, x, teacher);
        loss = dino_loss(ds, s, t, center, PATCHES, 0.1, tau_t);
        for (size_t i = 0; i < ROWS * K; i++)    /* W ← W - rate dsᵀ x */
            for (size_t c = 0; c < COLOURS; c++)
                student[i % K * COLOURS + c] -= 0.12 * ds[i] * x[i / K * COLOURS + c];
        if (centred) center_update(center, t, ROWS, 0.9);
        follow(teacher, student, K * COLOURS, 0.98);
    }
    printf("\n%s: the loss is %.3f\n", title, loss);
    for (size_t r = 0; r < PATCHES; r++) {
        char letter = '?';
        double q[K];
        softmax(q, t + r * K, center, tau_t);
        for (size_t k = 0; k < K; k++)
            if (q[k] > 0.5) letter = "ABCDEFGH"[k];
        printf(" %c%s", letter, r % GRID == GRID - 1 ? "\n" : "");
    }
}

int main(void)
{
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    if (!f || fscanf(f, "P6 144 144 255%*c") != 0 || fread(rgb, sizeof rgb, 1, f) != 1) {
        puts("docs/tiny/scene.ppm is not here; run this beside docs");
        return 1;
    }
    fclose(f);
    train("DINO, centred and sharpened", 0.04, 1);
    train("without the centre, one answer for all", 0.04, 0);
    train("not sharpened (0.2), even answers, log 8 = 2.079", 0.2, 1);
    return 0;
}

/* Try next: let the teacher be the student itself (momentum 0). Make the views harder (a
   shift of 12 pixels) or the same. Put one more layer before W; its gradient is one
   product more. */
