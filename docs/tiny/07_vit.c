/* 07_vit.c - What does a vision transformer see?

   A ViT cuts a picture into patches, makes a token of each, puts a class token before them,
   adds positions, and sends all through blocks of two lines. The weights come from a file:

       x = [cls; patches W_eᵀ + b_e] + positions
       x = x + attention(norm1 x)          01, in heads, between two matrices
       x = x + fc2(gelu(fc1(norm2 x)))     each token alone
       features = norm x

   It prints how alike the feature of a patch on the ball is to those of all patches (cosine).
   The file is a .safetensors of any ViT with the names of DINO's (cls_token, pos_embed,
   blocks.0.attn.qkv.weight, ...) and 32-bit numbers. The one beside this program is a tiny
   network that the library trained by DINO (08) on other drawn scenes.

       cc -O2 docs/tiny/07_vit.c -o 07 -lm && ./07           (or ./07 model.safetensors) */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A .safetensors file: the length of its header in 8 bytes, the header in JSON, the numbers. */
typedef struct weights {
    char *header;
    float *numbers;
    size_t size;                                 /* of the numbers, in bytes */
} weights;

static void refuse(const char *name, const char *why)
{
    fprintf(stderr, "%s: %s\n", name, why);
    exit(1);
}

static weights weights_open(const char *path)
{
    weights w = { NULL, NULL, 0 };
    unsigned char first[8] = { 0 };
    FILE *f = fopen(path, "rb");
    if (!f || fread(first, 1, 8, f) != 8) refuse(path, "this file cannot be read");
    size_t length = first[0] + 256u * (first[1] + 256u * (size_t)first[2]);
    for (int i = 3; i < 8; i++)
        if (first[i]) refuse(path, "this is no .safetensors file");
    w.header = calloc(length + 1, 1);
    if (!w.header || fread(w.header, 1, length, f) != length || w.header[0] != '{')
        refuse(path, "this is no .safetensors file");
    fseek(f, 0, SEEK_END);
    w.size = (size_t)ftell(f) - 8 - length;
    fseek(f, (long)(8 + length), SEEK_SET);
    w.numbers = malloc(w.size + 1);
    if (!w.numbers || fread(w.numbers, 1, w.size, f) != w.size)
        refuse(path, "its numbers cannot be read");
    fclose(f);
    return w;
}

/* A tensor by its name, such as "blocks.%zu.norm1.bias" of block i; its shape, 1 where it has
   fewer axes. NULL if the file has none, or (needed) the end. */
static const float *weights_find(const weights *w, const char *format, size_t i, int needed,
                                 size_t shape[4])
{
    char name[64], quoted[72], dtype[8] = "";
    size_t begin = 0, end = 0;
    snprintf(name, sizeof name, format, i);
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *at = strstr(w->header, quoted);
    if (!at && needed) refuse(name, "the file has no tensor of this name");
    if (!at) return NULL;
    const char *kind = strstr(at, "\"dtype\""), *axes = strstr(at, "\"shape\"");
    const char *place = strstr(at, "\"data_offsets\"");
    for (int a = 0; a < 4; a++) shape[a] = 1;
    if (kind) sscanf(kind, "\"dtype\" : \"%7[^\"]", dtype);
    if (strcmp(dtype, "F32")) refuse(name, "its numbers are not F32; this program reads no others");
    if (axes) sscanf(axes, "\"shape\" : [ %zu , %zu , %zu , %zu", shape, shape + 1, shape + 2, shape + 3);
    if (place) sscanf(place, "\"data_offsets\" : [ %zu , %zu", &begin, &end);
    size_t count = shape[0] * shape[1] * shape[2] * shape[3];
    if (end > w->size || begin > end || begin % 4 || end - begin != 4 * count)
        refuse(name, "its place in the file is not as large as its shape");
    return w->numbers + begin / 4;
}

/* y (rows, out) = x (rows, in) Wᵀ + b; with `add` that is added to y. */
static void linear(float *y, const float *x, const float *W, const float *b, size_t rows,
                   size_t in, size_t out, int add)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            float sum = b[o];
            for (size_t i = 0; i < in; i++) sum += x[r * in + i] * W[o * in + i];
            y[r * out + o] = sum + (add ? y[r * out + o] : 0);
        }
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, size_t rows,
                       size_t D)
{
    for (size_t r = 0; r < rows; r++, x += D, y += D) {
        float mean = 0, variance = 0;
        for (size_t d = 0; d < D; d++) mean += x[d] / (float)D;
        for (size_t d = 0; d < D; d++) variance += (x[d] - mean) * (x[d] - mean) / (float)D;
        for (size_t d = 0; d < D; d++)
            y[d] = (x[d] - mean) / sqrtf(variance + 1e-6f) * w[d] + b[d];
    }
}

/* y (L, D) of qkv (L, 3 D): each head has N = D / heads numbers of q, of k and of v. */
static void attention(float *y, float *row, const float *qkv, size_t L, size_t D, size_t heads)
{
    size_t N = D / heads;
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < L; i++) {
            float largest = -HUGE_VALF, sum = 0, *y_i = y + i * D + h * N;
            for (size_t j = 0; j < L; j++) {
                const float *q = qkv + i * 3 * D + h * N, *k = qkv + j * 3 * D + D + h * N;
                row[j] = 0;
                for (size_t n = 0; n < N; n++) row[j] += q[n] * k[n] / sqrtf((float)N);
                largest = fmaxf(largest, row[j]);
            }
            for (size_t j = 0; j < L; j++) {
                row[j] = expf(row[j] - largest);
                sum += row[j];
            }
            for (size_t n = 0; n < N; n++) y_i[n] = 0;
            for (size_t j = 0; j < L; j++)
                for (size_t n = 0; n < N; n++)
                    y_i[n] += row[j] / sum * qkv[j * 3 * D + 2 * D + h * N + n];
        }
}

/* Block i of the network: x (L, D); u and room are room for (L, D) and (L, F), F at least 3 D. */
static void block(float *x, float *u, float *room, const weights *w, size_t i, size_t L,
                  size_t D, size_t heads)
{
    static const char *const names[6] = { "blocks.%zu.norm1", "blocks.%zu.attn.qkv",
        "blocks.%zu.attn.proj", "blocks.%zu.norm2", "blocks.%zu.mlp.fc1", "blocks.%zu.mlp.fc2" };
    const float *W[6], *b[6];
    size_t shape[4], F = 0;
    char name[64];
    for (int k = 0; k < 6; k++) {
        snprintf(name, sizeof name, "%s.bias", names[k]);
        b[k] = weights_find(w, name, i, 1, shape);
        if (k == 4) F = shape[0];
        snprintf(name, sizeof name, "%s.weight", names[k]);
        W[k] = weights_find(w, name, i, 1, shape);
    }
    layer_norm(u, x, W[0], b[0], L, D);
    linear(room, u, W[1], b[1], L, D, 3 * D, 0);
    attention(u, room + L * 3 * D, room, L, D, heads);
    linear(x, u, W[2], b[2], L, D, D, 1);
    layer_norm(u, x, W[3], b[3], L, D);
    linear(room, u, W[4], b[4], L, D, F, 0);
    for (size_t k = 0; k < L * F; k++) room[k] *= 0.5f * (1 + erff(room[k] / sqrtf(2)));  /* gelu */
    linear(x, room, W[5], b[5], L, F, D, 1);
}

/* What the file says of its network: width, tokens, a patch's side, patches a row, blocks. */
typedef struct sizes { size_t D, L, patch, grid, depth; } sizes;
static sizes vit_sizes(const weights *w)
{
    size_t shape[4];
    sizes s = { 0, 0, 0, 0, 0 };
    weights_find(w, "pos_embed", 0, 1, shape);
    s.L = shape[1];
    s.D = shape[2];
    weights_find(w, "patch_embed.proj.weight", 0, 1, shape);
    s.patch = shape[3];
    while ((s.grid + 1) * (s.grid + 1) < s.L) s.grid++;
    while (weights_find(w, "blocks.%zu.norm1.weight", s.depth, 0, shape)) s.depth++;
    if (s.grid * s.grid + 1 != s.L) refuse("pos_embed", "not a class token and a square of patches");
    return s;
}

/* features (L, D) of an image (3, side, side), side = grid · patch. */
static void vit_forward(float *features, const float *image, const weights *w, size_t heads)
{
    sizes s = vit_sizes(w);
    size_t side = s.grid * s.patch, in = 3 * s.patch * s.patch, shape[4];
    const float *cls = weights_find(w, "cls_token", 0, 1, shape);
    const float *pos = weights_find(w, "pos_embed", 0, 1, shape);
    const float *W = weights_find(w, "patch_embed.proj.weight", 0, 1, shape);
    const float *b = weights_find(w, "patch_embed.proj.bias", 0, 1, shape);
    float *x = malloc(s.L * s.D * sizeof *x), *patch = malloc(in * sizeof *patch);
    float *room = malloc(s.L * (8 * s.D + s.L) * sizeof *room);
    if (!x || !patch || !room) refuse("vit_forward", "no memory");
    memcpy(x, cls, s.D * sizeof *x);
    for (size_t t = 0; t + 1 < s.L; t++) {
        size_t top = t / s.grid * s.patch, left = t % s.grid * s.patch;
        for (size_t i = 0; i < in; i++) {
            size_t c = i / s.patch / s.patch, v = i / s.patch % s.patch, u = i % s.patch;
            patch[i] = image[(c * side + top + v) * side + left + u];
        }
        linear(x + (t + 1) * s.D, patch, W, b, 1, in, s.D, 0);
    }
    for (size_t i = 0; i < s.L * s.D; i++) x[i] += pos[i];
    for (size_t i = 0; i < s.depth; i++) block(x, features, room, w, i, s.L, s.D, heads);
    layer_norm(features, x, weights_find(w, "norm.weight", 0, 1, shape),
               weights_find(w, "norm.bias", 0, 1, shape), s.L, s.D);
    free(x);
    free(patch);
    free(room);
}

/* The scene (144 x 144), its nearest pixels for a picture of side x side, as the networks of
   DINO's family want them: (v/255 - mean) / deviation of each channel. 0 without the file. */
static int read_image(float *image, size_t side)
{
    static const float mean[3] = { 0.485f, 0.456f, 0.406f }, deviation[3] = { 0.229f, 0.224f, 0.225f };
    static unsigned char rgb[144 * 144 * 3];
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    size_t got = 0;
    if (f && fscanf(f, "P6 144 144 255") == 0 && fgetc(f) == '\n') got = fread(rgb, 1, sizeof rgb, f);
    if (f) fclose(f);
    for (size_t i = 0; i < 3 * side * side; i++) {
        size_t c = i / side / side, v = i / side % side * 144 / side, u = i % side * 144 / side;
        image[i] = (rgb[3 * (144 * v + u) + c] / 255.0f - mean[c]) / deviation[c];
    }
    return got == sizeof rgb;
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

int main(int argc, char **argv)
{
    weights w = weights_open(argc > 1 ? argv[1] : "docs/tiny/vit.safetensors");
    sizes s = vit_sizes(&w);
    size_t side = s.grid * s.patch, heads = s.D < 64 ? 1 : s.D / 64;     /* DINO's heads have 64 */
    size_t marked = 1 + s.grid * 77 / 144 * s.grid + s.grid * 5 / 12;    /* on the ball */
    float *image = malloc(3 * side * side * sizeof *image), *f = malloc(s.L * s.D * sizeof *f);
    if (!image || !f || !read_image(image, side)) refuse("docs/tiny/scene.ppm", "not here");
    vit_forward(f, image, &w, heads);
    printf("%zu blocks, %zu numbers a token, %zu heads, %zu x %zu patches of %zu pixels\n", s.depth,
           s.D, heads, s.grid, s.grid, s.patch);
    for (size_t t = 1; t < s.L; t++) {
        double c = cosine(f + marked * s.D, f + t * s.D, s.D);
        char sign = " .:-=+*#%@"[(int)(fmax(c, 0) * 9.99)];
        printf(t == marked ? "[%c]" : " %c ", sign);
        if (t % s.grid == 0) putchar('\n');
    }
    return 0;
}
