/* 08_dino.c - How can a network learn without labels, and why does it not cheat?

   A student and a teacher see two views of the same patch (shifted, mirrored, darker). Each
   gives K numbers. The student shall say of one view what the teacher says of the other:

       q = softmax((t - c) / τ_t)      the teacher's answer: centred by c, sharpened by τ_t
       p = softmax(s / τ_s)            the student's
       loss = mean of -Σ q log p       over pairs of different views of one patch
       ∂loss/∂s = (p - q) / τ_s        for each pair, over the number of pairs

   Only the student has a gradient. The teacher is its slow average, c the slow mean of t.
   Both could cheat: one answer for all patches makes the loss 0. The centre forbids that;
   the small τ_t forbids an even answer. Here both are one matrix W (K, D) over fixed
   features of patches. The program trains three times: as it should be, without the
   centre, without sharpening.

       cc -O2 docs/tiny/08_dino.c -o 08 -lm && ./08 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, PATCHES = GRID * GRID };
enum { FEATURES = 6, PROTOTYPES = 8, VIEWS = 2, ROWS = VIEWS * PATCHES, STEPS = 800 };

static void softmax(double *p, const double *x, const double *center, double temperature,
                    size_t K)
{
    double largest = -HUGE_VAL, sum = 0;
    for (size_t k = 0; k < K; k++) {
        p[k] = (x[k] - (center ? center[k] : 0)) / temperature;
        largest = fmax(largest, p[k]);
    }
    for (size_t k = 0; k < K; k++) {
        p[k] = exp(p[k] - largest);
        sum += p[k];
    }
    for (size_t k = 0; k < K; k++) p[k] /= sum;
}

/* The loss of student rows s (crops · B, K) against teacher rows t (2 B, K), crop after
   crop, and its gradient ds. p and q are room for K numbers each. */
static double dino_loss(double *ds, const double *s, const double *t, const double *center,
                        size_t B, size_t crops, size_t K, double tau_s, double tau_t,
                        double *p, double *q)
{
    double loss = 0, pairs = (double)(B * (2 * crops - 2));
    memset(ds, 0, crops * B * K * sizeof *ds);
    for (size_t i = 0; i < 2 * B; i++) {
        softmax(q, t + i * K, center, tau_t, K);
        for (size_t r = i % B; r < crops * B; r += B) {
            if (r == i) continue;                /* the same view: no pair */
            softmax(p, s + r * K, NULL, tau_s, K);
            for (size_t k = 0; k < K; k++) {
                loss -= q[k] * log(p[k] + 1e-300) / pairs;
                ds[r * K + k] += (p[k] - q[k]) / tau_s / pairs;
            }
        }
    }
    return loss;
}

/* c ← momentum c + (1 - momentum) mean of the rows of t */
static void center_update(double *center, const double *t, size_t rows, size_t K,
                          double momentum)
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

/* y (rows, K) = f (rows, D) Wᵀ */
static void head(double *y, const double *f, const double *W, size_t rows, size_t D,
                 size_t K)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < K; k++) {
            y[r * K + k] = 0;
            for (size_t d = 0; d < D; d++) y[r * K + k] += f[r * D + d] * W[k * D + d];
        }
}

static uint32_t seed;
static double dice(void)                         /* 0 ... 1 */
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 16777216.0;
}

/* One view of a patch: up to 6 pixels aside, mirrored or not, lighter or darker. Its
   features (D = 6) are the mean colours of its left and its right half. */
static void view(double *f, const unsigned char *rgb, size_t patch)
{
    double light = 0.8 + 0.4 * dice();
    size_t mirrored = dice() < 0.5, last = SIDE - PATCH;
    size_t top = patch / GRID * PATCH + (size_t)(7 * dice());
    size_t left = patch % GRID * PATCH + (size_t)(7 * dice());
    if (top > last) top = last;
    if (left > last) left = last;
    memset(f, 0, FEATURES * sizeof *f);
    for (size_t i = 0; i < 3 * PATCH * PATCH; i++) {
        size_t y = top + i / 3 / PATCH, x = i / 3 % PATCH, half = x / (PATCH / 2);
        double v = light * rgb[3 * (SIDE * y + left + x) + i % 3] / 255;
        f[3 * (half ^ mirrored) + i % 3] += 2 * v / (PATCH * PATCH);
    }
}

static double entropy(const double *p, size_t K)
{
    double h = 0;
    for (size_t k = 0; k < K; k++) h -= p[k] * log(p[k] + 1e-300);
    return h;
}

/* A line of numbers about the teacher's answers q (ROWS, K); at the end also the prototype
   that each patch is given to, as a letter. */
static void report(int step, double loss, const double *q, size_t K)
{
    double mean[PROTOTYPES] = { 0 }, each = 0;
    for (size_t r = 0; r < ROWS; r++) {
        each += entropy(q + r * K, K) / ROWS;
        for (size_t k = 0; k < K; k++) mean[k] += q[r * K + k] / ROWS;
    }
    printf("%5d %8.3f %15.3f %20.3f\n", step, loss, each, entropy(mean, K));
    for (size_t r = 0; step == STEPS && r < PATCHES; r++) {
        size_t best = 0;
        for (size_t k = 1; k < K; k++)
            if (q[r * K + k] > q[r * K + best]) best = k;
        printf(" %c%s", "ABCDEFGH"[best], r % GRID == GRID - 1 ? "\n" : "");
    }
}

static void train(const char *name, const unsigned char *rgb, double tau_t, int centred)
{
    enum { D = FEATURES, K = PROTOTYPES };
    static double f[ROWS * D], s[ROWS * K], t[ROWS * K], q[ROWS * K], ds[ROWS * K];
    double student[K * D], teacher[K * D], center[K] = { 0 }, p[K], room[K];
    seed = 1;
    for (size_t i = 0; i < K * D; i++) student[i] = 0.1 * (dice() - 0.5);
    memcpy(teacher, student, sizeof teacher);
    printf("\n%s\n step     loss   entropy of an    of the mean answer\n", name);
    printf("                 answer            (even: %.3f)\n", log(K));
    for (int step = 0; step <= STEPS; step++) {
        for (size_t r = 0; r < ROWS; r++) view(f + r * D, rgb, r % PATCHES);
        head(s, f, student, ROWS, D, K);
        head(t, f, teacher, ROWS, D, K);
        double loss = dino_loss(ds, s, t, center, PATCHES, VIEWS, K, 0.1, tau_t, p, room);
        for (size_t r = 0; r < ROWS; r++) softmax(q + r * K, t + r * K, center, tau_t, K);
        if (step % 200 == 0) report(step, loss, q, K);
        for (size_t r = 0; r < ROWS; r++)        /* W ← W - rate dsᵀ f */
            for (size_t i = 0; i < K * D; i++)
                student[i] -= 0.12 * ds[r * K + i / D] * f[r * D + i % D];
        if (centred) center_update(center, t, ROWS, K, 0.9);
        follow(teacher, student, K * D, 0.98);
    }
}

int main(void)
{
    static unsigned char rgb[3 * SIDE * SIDE];
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    size_t got = 0;
    if (f && fscanf(f, "P6 144 144 255") == 0 && fgetc(f) == '\n')
        got = fread(rgb, 1, sizeof rgb, f);
    if (f) fclose(f);
    if (got < sizeof rgb) {
        puts("docs/tiny/scene.ppm is not here: run this from the folder that holds docs");
        return 1;
    }
    train("DINO: centred and sharpened", rgb, 0.04, 1);
    train("without the centre: one answer for all, and the least loss", rgb, 0.04, 0);
    train("without sharpening (its temperature is 0.2): even answers", rgb, 0.2, 1);
    return 0;
}

/* Try next: let the teacher be the student itself (momentum 0). Make the views harder (a
   shift of 12 pixels) or the same. Put one more layer before W; its gradient is one
   product more. */
