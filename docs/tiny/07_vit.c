/* 07_vit.c - What does a vision transformer see?

   A ViT cuts a picture into patches, makes a token of each, puts a class token before them,
   adds positions, and sends all through blocks of two lines. The weights come from a file:

       x = [cls; patches W_eᵀ + b_e] + positions
       x = x + ls1 ∘ attention(norm1 x)          01, in heads, between two matrices
       x = x + ls2 ∘ fc2(gelu(fc1(norm2 x)))     each token alone
       features = norm x

   The program prints how alike the feature of a patch on the ball is to those of all
   patches (their cosine). It reads DINOv2 without registers, as facebook/dinov2-small and
   -base are downloaded from huggingface.co, and refuses what it does not know.

       cc -O2 docs/tiny/07_vit.c -o 07 -lm && ./07        (or ./07 model.safetensors) */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRID = 12, SIDE = 144, MARKED = 77, TOKENS = 1 + GRID * GRID, WIDEST = 1024 };

/* A .safetensors file is the length of its header in 8 bytes, the header, and numbers.
   What names and shapes say: numbers of a token, and between fc1 and fc2; the side of a
   patch in pixels, and of the square of positions. */
static char header[1 << 20];
static float numbers[90000000];                  /* a ViT-B has 86 million */
static size_t count, D, F, P, positions;

static void die(const char *name, const char *why)
{
    fprintf(stderr, "%s: %s\n", name, why);
    exit(1);
}

/* The header has "layernorm.bias":{"dtype":"F32","shape":[384],"data_offsets":[0,1536]},
   bytes of the numbers. This is where a tensor's d of dtype stands. */
static char *find(const char *name)
{
    char *at = strstr(header, name);
    if (!at || !strchr(at, '[')) die(name, "the file has no tensor of this name");
    return at + strlen(name) + 3;
}

/* The numbers of a tensor, at least n, whose name is in three pieces. An F in place of the
   d says that it is used. */
static const float *tensor(const char *block, const char *part, const char *end, size_t n)
{
    char name[96];
    size_t first = 1, last = 0;
    snprintf(name, sizeof name, "\"%s%s%s\"", block, part, end);
    char *at = find(name);
    if (strncmp(at + 1, "type\":\"F32\"", 11) != 0) die(name, "not F32; no other is read");
    sscanf(at, "%*[^]]],\"data_offsets\":[%zu,%zu", &first, &last);
    if (first % 4 || last > 4 * count || first > last || last - first < 4 * n)
        die(name, "it is too short");
    *at = 'F';
    return numbers + first / 4;
}

static void open_weights(const char *path)
{
    uint64_t length = 0;
    FILE *f = fopen(path, "rb");
    if (!f || fread(&length, 8, 1, f) != 1 || length >= sizeof header)
        die(path, "this is no .safetensors file");
    memset(header, 0, sizeof header);
    if (fread(header, length, 1, f) != 1 || strncmp(header, "{\"", 2) != 0)
        die(path, "this is no .safetensors file");
    count = fread(numbers, 4, sizeof numbers / 4, f);
    fclose(f);
    const char *projection = find("\"embeddings.patch_embeddings.projection.weight\"");
    sscanf(strchr(projection, '['), "[%zu,%*u,%zu", &D, &P);
    sscanf(strchr(find("\"embeddings.position_embeddings\""), '['), "[%*u,%zu", &positions);
    sscanf(strchr(find("\"encoder.layer.0.mlp.fc1.bias\""), '['), "[%zu", &F);
    positions = (size_t)sqrt((double)positions);
    if (!D || D > WIDEST || (D > 64 && D % 64) || F > 4 * WIDEST || P > 16 || !positions)
        die(path, "no ViT of these sizes");
}

/* The token that training puts over patches is not needed; no other may be left. */
static void refuse_others(const char *path)
{
    if (strstr(header, "mask_token")) tensor("embeddings.", "mask_token", "", D);
    if (strstr(header, "\"dtype\"")) die(path, "it has more tensors than DINOv2");
}

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* y (rows, out) = x (rows, in) Wᵀ + b */
static void linear(float *y, const float *x, const char *block, const char *part,
                   size_t rows, size_t in, size_t out)
{
    const float *W = tensor(block, part, ".weight", out * in);
    const float *b = tensor(block, part, ".bias", out);
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++)
            y[r * out + o] = dot(x + r * in, W + o * in, in) + b[o];
}

static void norm(float *y, const float *x, const char *block, const char *part, size_t rows)
{
    const float *w = tensor(block, part, ".weight", D);
    const float *b = tensor(block, part, ".bias", D);
    for (size_t r = 0; r < rows; r++, x += D, y += D) {
        float mean = 0, variance = 0;
        for (size_t d = 0; d < D; d++) mean += x[d] / (float)D;
        for (size_t d = 0; d < D; d++) variance += (x[d] - mean) * (x[d] - mean) / (float)D;
        for (size_t d = 0; d < D; d++)
            y[d] = (x[d] - mean) / sqrtf(variance + 1e-6f) * w[d] + b[d];
    }
}

/* x += ls ∘ u */
static void add(float *x, const float *u, const char *block, const char *part, size_t rows)
{
    const float *ls = tensor(block, part, ".lambda1", D);
    for (size_t i = 0; i < rows * D; i++) x[i] += ls[i % D] * u[i];
}

/* 01 in heads: each has its own N columns of q, k, v and y, all (L, D). */
static void attention(float *y, const float *q, const float *k, const float *v, size_t L,
                      size_t N)
{
    float row[TOKENS];
    for (size_t at = 0; at < L * D; at += N) {
        size_t h = at % D;
        float largest = -HUGE_VALF, sum = 0;
        for (size_t j = 0; j < L; j++) {
            row[j] = dot(q + at, k + j * D + h, N) / sqrtf((float)N);
            largest = fmaxf(largest, row[j]);
        }
        for (size_t j = 0; j < L; j++) {
            row[j] = expf(row[j] - largest);
            sum += row[j];
        }
        for (size_t n = 0; n < N; n++) {
            y[at + n] = 0;
            for (size_t j = 0; j < L; j++) y[at + n] += row[j] / sum * v[j * D + h + n];
        }
    }
}

/* x (L, D) becomes what the next block reads. */
static void block(float *x, const char *name, size_t L, size_t N)
{
    static float u[TOKENS * WIDEST], f[TOKENS * 4 * WIDEST];
    static float q[TOKENS * WIDEST], k[TOKENS * WIDEST], v[TOKENS * WIDEST];
    norm(u, x, name, "norm1", L);
    linear(q, u, name, "attention.attention.query", L, D, D);
    linear(k, u, name, "attention.attention.key", L, D, D);
    linear(v, u, name, "attention.attention.value", L, D, D);
    attention(u, q, k, v, L, N);
    linear(q, u, name, "attention.output.dense", L, D, D);
    add(x, q, name, "layer_scale1", L);
    norm(u, x, name, "norm2", L);
    linear(f, u, name, "mlp.fc1", L, D, F);
    for (size_t i = 0; i < L * F; i++) f[i] *= 0.5f * (1 + erff(f[i] / sqrtf(2)));
    linear(u, f, name, "mlp.fc2", L, F, D);
    add(x, u, name, "layer_scale2", L);
}

/* features (1 + grid², D) of the patches (grid², 3, P, P) of a picture, grid ≤ GRID. Where
   the file has another square of positions, each patch takes the nearest. A head has N
   numbers of a token: 64 in DINOv2. */
static void vit_forward(float *features, const float *patches, size_t grid, size_t N)
{
    static float x[TOKENS * WIDEST];
    char name[32] = "encoder.layer.0.";
    size_t L = 1 + grid * grid, G = positions;
    const float *pos = tensor("embeddings.", "position_embeddings", "", (1 + G * G) * D);
    memcpy(x, tensor("embeddings.", "cls_token", "", D), D * sizeof *x);
    linear(x + D, patches, "embeddings.", "patch_embeddings.projection", L - 1, 3 * P * P,
           D);
    for (size_t t = 0; t < L; t++) {
        size_t row = (2 * ((t - 1) / grid) + 1) * G / (2 * grid);
        size_t column = (2 * ((t - 1) % grid) + 1) * G / (2 * grid);
        size_t place = t ? 1 + row * G + column : 0;
        for (size_t d = 0; d < D; d++) x[t * D + d] += pos[place * D + d];
    }
    for (size_t i = 1; strstr(header, name); i++) {
        block(x, name, L, N);
        snprintf(name, sizeof name, "encoder.layer.%zu.", i);
    }
    norm(features, x, "", "layernorm", L);
}

/* The scene's nearest pixels, less the mean of all pictures, by their deviation. */
static void read_patches(float *patches)
{
    static unsigned char rgb[SIDE][SIDE][3];
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    if (!f || fscanf(f, "P6 144 144 255%*c") != 0 || fread(rgb, sizeof rgb, 1, f) != 1)
        die("docs/tiny/scene.ppm", "not here; run this beside docs");
    fclose(f);
    for (size_t i = 0; i < GRID * GRID * 3 * P * P; i++) {
        size_t t = i / (3 * P * P), channel = i / P / P % 3;
        size_t row = t / GRID * 12 + i / P % P * 12 / P;
        size_t column = t % GRID * 12 + i % P * 12 / P;
        patches[i] = (rgb[row][column][channel] / 255.0f - 0.45f) / 0.226f;
    }
}

int main(int argc, char **argv)
{
    static float patches[TOKENS * 3 * 16 * 16], features[TOKENS * WIDEST];
    const char *path = argc > 1 ? argv[1] : "docs/tiny/vit.safetensors";
    open_weights(path);
    read_patches(patches);
    vit_forward(features, patches, GRID, D < 64 ? D : 64);       /* numbers of a head */
    refuse_others(path);
    printf("%zu numbers a patch\n", D);
    for (size_t t = 0; t < GRID * GRID; t++) {
        const float *f = features + (1 + MARKED) * D, *f_t = features + (1 + t) * D;
        float cosine = dot(f, f_t, D) / sqrtf(dot(f, f, D) * dot(f_t, f_t, D));
        char sign = " .:-=+*#%@"[(int)(fmaxf(cosine, 0) * 9.99f)];
        printf(t == MARKED ? "[%c]" : " %c ", sign);
        if (t % GRID == GRID - 1) putchar('\n');
    }
    return 0;
}

/* Try next: print the row of the class token's attention in the last block. Give the
   features to the k-NN of 09. Put 06's tiles into `linear`. */
