/* 09_knn.c - What are features worth?

   Good features put like things near each other. So ask the neighbours: leave one patch
   out, find the k patches whose features point most nearly the same way, and let them vote
   for its name. No training, nothing to choose but k and T (this is how DINO is judged):

       cos_ij = f_i · f_j / (|f_i| |f_j|)
       votes for a name = Σ e^(cos_ij / T) over its patches j among the k of largest cos_ij

   The program does it for the patches of the scene, whose names were written down by hand,
   with three kinds of features. A number means nothing without its baselines: what always
   saying "floor" brings, and what the place alone tells. Balanced: the mean over the
   names, so that the cone's 4 patches count as much as the floor's 73.

       cc -O2 docs/tiny/09_knn.c -o 09 -lm && ./09 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, PATCHES = GRID * GRID };
enum { PIXELS = 3 * PATCH * PATCH, NAMES = 4 };

static const char *const truth =                 /* 0 wall, 1 floor, 2 ball, 3 cone */
    "000000000000" "000000000000" "000000000000" "111111111111"
    "112222211111" "122222221111" "122222223311" "122222223311"
    "112222211111" "111111111111" "111111111111" "111111111111";

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* votes (NAMES) for row i of f (n, D), n ≤ PATCHES, by its k nearest others; label (n). Who
   has voted, and row i itself, gets a cosine that no other has. */
static void knn_vote(double *votes, const float *f, const int32_t *label, size_t i,
                     size_t n, size_t D, size_t k, double T)
{
    const float *f_i = f + i * D;
    double cosine[PATCHES];
    for (size_t j = 0; j < n; j++) {
        const float *f_j = f + j * D;
        cosine[j] = dot(f_i, f_j, D) / sqrt(dot(f_i, f_i, D) * dot(f_j, f_j, D));
    }
    cosine[i] = -2;
    for (size_t c = 0; c < NAMES; c++) votes[c] = 0;
    for (size_t m = 0; m < k && m + 1 < n; m++) {
        size_t best = 0;
        for (size_t j = 1; j < n; j++)
            if (cosine[j] > cosine[best]) best = j;
        votes[label[best]] += exp(cosine[best] / T);
        cosine[best] = -2;
    }
}

/* said (n): the name with the most votes for each row. Returns the share of right ones, and
   its mean over the names. */
static double knn(int32_t *said, double *balanced, const float *f, const int32_t *label,
                  size_t n, size_t D, size_t k, double T)
{
    double votes[NAMES], right[NAMES] = { 0 }, all[NAMES] = { 0 }, total = 0;
    for (size_t i = 0; i < n; i++) {
        said[i] = 0;
        knn_vote(votes, f, label, i, n, D, k, T);
        for (int32_t c = 1; c < NAMES; c++)
            if (votes[c] > votes[said[i]]) said[i] = c;
        all[label[i]]++;
        right[label[i]] += said[i] == label[i];
        total += said[i] == label[i];
    }
    *balanced = 0;
    for (size_t c = 0; c < NAMES; c++) *balanced += right[c] / all[c] / NAMES;
    return total / (double)n;
}

static void judge(const char *kind, const float *f, const int32_t *label, size_t D)
{
    int32_t said[PATCHES];
    double balanced, right = knn(said, &balanced, f, label, PATCHES, D, 5, 0.07);
    printf("\n%s: right %.3f, balanced %.3f\n", kind, right, balanced);
    for (size_t i = 0; i < PATCHES; i++) {
        int c = said[i] == label[i] ? '.' : "wfbc"[said[i]];
        printf(" %c%s", c, i % GRID == GRID - 1 ? "\n" : "");
    }
}

int main(void)
{
    static float place[PATCHES * 3], colour[PATCHES * 3], pixels[PATCHES * PIXELS];
    static unsigned char rgb[SIDE][SIDE][3];
    int32_t label[PATCHES];
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    if (!f || fscanf(f, "P6 144 144 255%*c") != 0 || fread(rgb, sizeof rgb, 1, f) != 1) {
        puts("docs/tiny/scene.ppm is not here; run this beside docs");
        return 1;
    }
    fclose(f);
    for (size_t i = 0; i < PATCHES; i++) {
        label[i] = truth[i] - '0';
        place[3 * i] = (float)(i / GRID) - 5.5f;
        place[3 * i + 1] = (float)(i % GRID) - 5.5f;
        place[3 * i + 2] = 3;
        for (size_t p = 0; p < PIXELS; p++) {
            size_t y = i / GRID * PATCH + p / 3 / PATCH;
            size_t x = i % GRID * PATCH + p / 3 % PATCH;
            float v = rgb[y][x][p % 3] / 255.0f - 0.5f;
            pixels[PIXELS * i + p] = v;
            colour[3 * i + p % 3] += v;
        }
    }
    printf("always floor: right %.3f, balanced %.3f\n", 73.0 / PATCHES, 1.0 / NAMES);
    puts("a dot is a right answer, a letter a wrong one");
    judge("place", place, label, 3);
    judge("colour", colour, label, 3);
    judge("pixels", pixels, label, PIXELS);
    return 0;
}

/* Try next: other k and T. Give the k-NN the y of 01 or 02 in place of the patches: does
   mixing help? Take the features of 07. */
