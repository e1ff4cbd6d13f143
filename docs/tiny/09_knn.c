/* 09_knn.c - What are features worth?

   Good features put like things near each other. So ask the neighbours: leave one patch
   out, find the k patches whose features point most nearly the same way, and let them vote
   for its name. No training, nothing to choose but k and T (this is how DINO is judged):

       cos_ij = f_i · f_j / (|f_i| |f_j|)
       votes for a name = Σ e^(cos_ij / T) over its patches j among the k of largest cos_ij

   The program does it for the patches of the scene, whose names were written down by hand,
   with four kinds of features. A number means nothing without its baselines: what always
   saying "floor" brings, and what the place alone tells. Balanced: the mean over the
   names, so that the cone's 4 patches count as much as the floor's 73.

       cc -O2 docs/tiny/09_knn.c -o 09 -lm && ./09 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, PATCHES = GRID * GRID };
enum { WIDEST = 3 * PATCH * PATCH, NAMES = 4 };

static const char *const name = "wfbc";          /* wall, floor, ball, cone */
static const char *const truth =
    "wwwwwwwwwwww" "wwwwwwwwwwww" "wwwwwwwwwwww" "ffffffffffff"
    "ffbbbbbfffff" "fbbbbbbbffff" "fbbbbbbbccff" "fbbbbbbbccff"
    "ffbbbbbfffff" "ffffffffffff" "ffffffffffff" "ffffffffffff";

static double cosine(const float *a, const float *b, size_t D)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t d = 0; d < D; d++) {
        ab += a[d] * b[d];
        aa += a[d] * a[d];
        bb += b[d] * b[d];
    }
    return ab / sqrt(aa * bb);
}

typedef struct neighbour {
    double cosine;
    int32_t label;
} neighbour;

/* votes (K) for row i of f (n, D) by its k nearest rows; label (n) from 0 to K - 1. `best`
   is room for k of them, the most alike first, and of equals the earlier. */
static void knn_vote(double *votes, neighbour *best, const float *f, const int32_t *label,
                     size_t i, size_t n, size_t D, size_t K, size_t k, double T)
{
    size_t found = 0;
    for (size_t j = 0; j < n; j++) {
        if (j == i) continue;
        double c = cosine(f + i * D, f + j * D, D);
        size_t at = found;
        if (found == k && c <= best[k - 1].cosine) continue;
        if (found < k) found++;
        else at = k - 1;
        for (; at > 0 && best[at - 1].cosine < c; at--) best[at] = best[at - 1];
        best[at].cosine = c;
        best[at].label = label[j];
    }
    for (size_t c = 0; c < K; c++) votes[c] = 0;
    for (size_t m = 0; m < found; m++) votes[best[m].label] += exp(best[m].cosine / T);
}

/* said (n): the name with the most votes for each row. Returns the share of right ones, and
   its mean over the names. */
static double knn(int32_t *said, double *balanced, const float *f, const int32_t *label,
                  size_t n, size_t D, size_t K, size_t k, double T)
{
    double votes[NAMES], right[NAMES] = { 0 }, all[NAMES] = { 0 }, total = 0;
    neighbour best[64];
    for (size_t i = 0; i < n; i++) {
        said[i] = 0;
        knn_vote(votes, best, f, label, i, n, D, K, k, T);
        for (size_t c = 1; c < K; c++)
            if (votes[c] > votes[said[i]]) said[i] = (int32_t)c;
        all[label[i]]++;
        right[label[i]] += said[i] == label[i];
        total += said[i] == label[i];
    }
    *balanced = 0;
    for (size_t c = 0; c < K; c++) *balanced += right[c] / all[c] / (double)K;
    return total / (double)n;
}

/* Features of patch i: 0 random numbers, 1 its place, 2 its mean colour, 3 all its pixels.
   Returns how many there are. */
static size_t features(float *f, int kind, size_t i, const unsigned char *rgb)
{
    static uint32_t seed = 1;
    size_t top = i / GRID * PATCH, left = i % GRID * PATCH;
    for (size_t k = 0; k < WIDEST; k++) f[k] = 0;
    for (size_t k = 0; k < WIDEST; k++) {
        size_t pixel = SIDE * (top + k / 3 / PATCH) + left + k / 3 % PATCH;
        float v = rgb[3 * pixel + k % 3] / 255.0f - 0.5f;
        f[kind == 3 ? k : k % 3] += kind == 3 ? v : v / (PATCH * PATCH);
    }
    if (kind > 1) return kind == 3 ? WIDEST : 3;
    for (size_t k = 0; k < 3; k++) {
        seed = seed * 1664525u + 1013904223u;
        f[k] = (float)(seed >> 8) / 8388608 - 1;
    }
    if (kind == 0) return 3;
    f[0] = (float)(i / GRID) - 5.5f;
    f[1] = (float)(i % GRID) - 5.5f;
    f[2] = 3;
    return 3;
}

int main(void)
{
    static const char *const kinds[4] = { "random numbers", "place", "colour", "pixels" };
    static float f[PATCHES * WIDEST], one[WIDEST];
    static unsigned char rgb[3 * SIDE * SIDE];
    static int32_t label[PATCHES], said[4][PATCHES];
    FILE *file = fopen("docs/tiny/scene.ppm", "rb");
    size_t got = 0;
    double floor_patches = 0;
    if (file && fscanf(file, "P6 144 144 255") == 0 && fgetc(file) == '\n')
        got = fread(rgb, 1, sizeof rgb, file);
    if (file) fclose(file);
    if (got < sizeof rgb) {
        puts("docs/tiny/scene.ppm is not here: run this from the folder that holds docs");
        return 1;
    }
    for (size_t i = 0; i < PATCHES; i++) {
        while (name[label[i]] != truth[i]) label[i]++;
        floor_patches += label[i] == 1;
    }
    puts("features          right   balanced      (k = 5, T = 0.07)");
    printf("always floor     %6.3f %10.3f\n", floor_patches / PATCHES, 1.0 / NAMES);
    for (int kind = 0; kind < 4; kind++) {
        double balanced;
        size_t D = 0;
        for (size_t i = 0; i < PATCHES; i++) {
            D = features(one, kind, i, rgb);
            for (size_t d = 0; d < D; d++) f[i * D + d] = one[d];
        }
        double right = knn(said[kind], &balanced, f, label, PATCHES, D, NAMES, 5, 0.07);
        printf("%-16s %6.3f %10.3f\n", kinds[kind], right, balanced);
    }
    puts("\nwhat the votes say by place, by colour, by pixels; a capital letter is wrong");
    for (size_t row = 0; row < PATCHES; row += GRID)
        for (int kind = 1; kind < 4; kind++) {
            for (size_t i = row; i < row + GRID; i++) {
                int c = name[said[kind][i]];
                putchar(said[kind][i] == label[i] ? c : c - 'a' + 'A');
            }
            printf(kind < 3 ? "    " : "\n");
        }
    return 0;
}

/* Try next: other k and T. Give the k-NN the y of 01 or 02 in place of the patches: does
   mixing help? Take the features of 07. */
