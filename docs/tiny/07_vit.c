/* 07_vit.c - What does a vision transformer see?

   A ViT cuts a picture into patches, makes a token of each, puts a class token before them,
   adds positions, and sends all through blocks of two lines. The weights come from a file:

       x = [cls; patches W_eᵀ + b_e] + positions
       x = x + attention(norm1 x)          01, in heads, between two matrices
       x = x + fc2(gelu(fc1(norm2 x)))     each token alone
       features = norm x

   The program prints how alike the feature of a patch on the ball is to those of all
   patches (their cosine). The file is a .safetensors of any ViT with the names of DINO's
   (cls_token, pos_embed, blocks.0.attn.qkv.weight, ...) and numbers of 32 bits.

       cc -O2 docs/tiny/07_vit.c -o 07 -lm && ./07           (or ./07 model.safetensors) */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A .safetensors file: the length of its header in 8 bytes, the header in JSON, the
   numbers. */
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
    size_t length = first[0] + 256u * first[1] + 65536u * first[2];
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

/* The tensor of a name, and its shape, with 1 for axes that it has not. The header says of
   it "norm.bias":{"dtype":"F32","shape":[384],"data_offsets":[0,1536]}: bytes of the
   numbers. */
static const float *find(const weights *w, const char *name, size_t shape[4])
{
    char quoted[80], dtype[8] = "";
    size_t place[2] = { 0, 0 };
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *at = strstr(w->header, quoted);
    if (!at) refuse(name, "the file has no tensor of this name");
    const char *kind = strstr(at, "\"dtype\""), *axes = strstr(at, "\"shape\"");
    const char *bytes = strstr(at, "\"data_offsets\"");
    if (!kind || !axes || !bytes) refuse(name, "the header says too little of it");
    for (int a = 0; a < 4; a++) shape[a] = 1;
    sscanf(kind, "\"dtype\" : \"%7[^\"]", dtype);
    sscanf(axes, "\"shape\" : [ %zu , %zu , %zu , %zu", shape, shape + 1, shape + 2,
           shape + 3);
    sscanf(bytes, "\"data_offsets\" : [ %zu , %zu", place, place + 1);
    size_t size = 4 * shape[0] * shape[1] * shape[2] * shape[3];
    if (strcmp(dtype, "F32")) refuse(name, "its numbers are not F32; no others are read");
    if (place[1] > w->size || place[0] % 4 || place[1] - place[0] != size)
        refuse(name, "its place in the file does not fit its shape");
    return w->numbers + place[0] / 4;
}

/* NAME.weight, with its shape, and NAME.bias. */
typedef struct layer {
    const float *weight, *bias;
    size_t shape[4];
} layer;
static layer find_layer(const weights *w, const char *name)
{
    char full[72];
    layer l;
    snprintf(full, sizeof full, "%s.bias", name);
    l.bias = find(w, full, l.shape);
    snprintf(full, sizeof full, "%s.weight", name);
    l.weight = find(w, full, l.shape);
    return l;
}

/* y (rows, out) = x (rows, in) Wᵀ + b, or (add) y + that. */
static void linear(float *y, const float *x, const layer *l, size_t rows, int add)
{
    size_t out = l->shape[0], in = l->shape[1] * l->shape[2] * l->shape[3];
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) {
            float sum = l->bias[o] + (add ? y[r * out + o] : 0);
            for (size_t i = 0; i < in; i++) sum += x[r * in + i] * l->weight[o * in + i];
            y[r * out + o] = sum;
        }
}

static void layer_norm(float *y, const float *x, const layer *l, size_t rows, size_t D)
{
    for (size_t r = 0; r < rows; r++, x += D, y += D) {
        float mean = 0, variance = 0;
        for (size_t d = 0; d < D; d++) mean += x[d] / (float)D;
        for (size_t d = 0; d < D; d++) variance += (x[d] - mean) * (x[d] - mean) / (float)D;
        for (size_t d = 0; d < D; d++)
            y[d] = (x[d] - mean) / sqrtf(variance + 1e-6f) * l->weight[d] + l->bias[d];
    }
}

/* y (L, D) of qkv (L, 3 D), in which each head has N = D / heads numbers of q, k and v.
   `row` has room for L numbers, a row of M. */
static void attention(float *y, float *row, const float *qkv, size_t L, size_t D,
                      size_t heads)
{
    size_t N = D / heads;
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < L; i++) {
            const float *q = qkv + i * 3 * D + h * N, *k = qkv + D + h * N, *v = k + D;
            float largest = -HUGE_VALF, sum = 0, *y_i = y + i * D + h * N;
            for (size_t j = 0; j < L; j++) {
                row[j] = 0;
                for (size_t n = 0; n < N; n++) row[j] += q[n] * k[j * 3 * D + n];
                row[j] /= sqrtf((float)N);
                largest = fmaxf(largest, row[j]);
            }
            for (size_t n = 0; n < N; n++) y_i[n] = 0;
            for (size_t j = 0; j < L; j++) {
                float share = expf(row[j] - largest);
                sum += share;
                for (size_t n = 0; n < N; n++) y_i[n] += share * v[j * 3 * D + n];
            }
            for (size_t n = 0; n < N; n++) y_i[n] /= sum;
        }
}

/* Block i: x (L, D) becomes what the next block reads. u is room for (L, D). */
static void block(float *x, float *u, const weights *w, size_t i, size_t L, size_t D,
                  size_t heads)
{
    static const char *const part[6] = { "norm1", "attn.qkv", "attn.proj",
                                         "norm2", "mlp.fc1", "mlp.fc2" };
    layer l[6];
    for (int k = 0; k < 6; k++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%zu.%s", i, part[k]);
        l[k] = find_layer(w, name);
    }
    size_t F = l[4].shape[0], wide = F > 3 * D ? F : 3 * D;
    float *room = malloc((L * wide + L) * sizeof *room);
    if (!room) refuse("block", "no memory");
    layer_norm(u, x, &l[0], L, D);
    linear(room, u, &l[1], L, 0);
    attention(u, room + L * wide, room, L, D, heads);
    linear(x, u, &l[2], L, 1);
    layer_norm(u, x, &l[3], L, D);
    linear(room, u, &l[4], L, 0);
    for (size_t k = 0; k < L * F; k++)           /* gelu */
        room[k] *= 0.5f * (1 + erff(room[k] / sqrtf(2)));
    linear(x, room, &l[5], L, 1);
    free(room);
}

/* What shapes say of the network: width, tokens (a class token and grid x grid patches). */
typedef struct sizes { size_t D, L, patch, grid; } sizes;
static sizes vit_sizes(const weights *w)
{
    size_t shape[4];
    sizes s = { 0, 0, 0, 0 };
    if (strstr(w->header, ".ls1.") || strstr(w->header, "\"reg"))
        refuse("ls1, registers", "a network with these is more than a plain ViT");
    find(w, "patch_embed.proj.weight", shape);
    s.D = shape[0];
    s.patch = shape[3];
    find(w, "pos_embed", shape);
    s.L = shape[1];
    while ((s.grid + 1) * (s.grid + 1) < s.L) s.grid++;
    if (s.grid * s.grid + 1 != s.L) refuse("pos_embed", "not a class token and a square");
    return s;
}

/* features (L, D) of an image (3, side, side), side = grid · patch. */
static void vit_forward(float *features, const float *image, const weights *w, size_t heads)
{
    sizes s = vit_sizes(w);
    layer embed = find_layer(w, "patch_embed.proj"), norm = find_layer(w, "norm");
    size_t side = s.grid * s.patch, in = 3 * s.patch * s.patch, shape[4];
    const float *cls = find(w, "cls_token", shape), *pos = find(w, "pos_embed", shape);
    float *x = malloc((s.L * s.D + in) * sizeof *x), *pixels = x + s.L * s.D;
    char name[64] = "\"blocks.0.norm1.weight\"";
    if (!x) refuse("vit_forward", "no memory");
    memcpy(x, cls, s.D * sizeof *x);
    for (size_t t = 0; t + 1 < s.L; t++) {
        const float *corner = image + t / s.grid * s.patch * side + t % s.grid * s.patch;
        for (size_t i = 0; i < in; i++) {
            size_t c = i / s.patch / s.patch, v = i / s.patch % s.patch, u = i % s.patch;
            pixels[i] = corner[(c * side + v) * side + u];
        }
        linear(x + (t + 1) * s.D, pixels, &embed, 1, 0);
    }
    for (size_t i = 0; i < s.L * s.D; i++) x[i] += pos[i];
    for (size_t i = 0; strstr(w->header, name); i++) {
        block(x, features, w, i, s.L, s.D, heads);
        snprintf(name, sizeof name, "\"blocks.%zu.norm1.weight\"", i + 1);
    }
    layer_norm(features, x, &norm, s.L, s.D);
    free(x);
}

/* The scene's nearest pixels as a picture of side x side, as DINO's networks want it:
   v/255, less the mean of the channel, by its deviation. 0 if the scene is not there. */
static int read_image(float *image, size_t side)
{
    static const float mean[3] = { 0.485f, 0.456f, 0.406f };
    static const float deviation[3] = { 0.229f, 0.224f, 0.225f };
    static unsigned char rgb[144][144][3];
    FILE *f = fopen("docs/tiny/scene.ppm", "rb");
    size_t got = 0;
    if (f && fscanf(f, "P6 144 144 255") == 0 && fgetc(f) == '\n')
        got = fread(rgb, 1, sizeof rgb, f);
    if (f) fclose(f);
    for (size_t i = 0; i < 3 * side * side; i++) {
        size_t c = i / side / side;
        size_t y = i / side % side * 144 / side, x = i % side * 144 / side;
        image[i] = (rgb[y][x][c] / 255.0f - mean[c]) / deviation[c];
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
    size_t side = s.grid * s.patch, heads = s.D < 64 ? 1 : s.D / 64;
    size_t marked = 1 + s.grid / 2 * s.grid + s.grid * 5 / 12;       /* on the ball */
    float *image = malloc(3 * side * side * sizeof *image);
    float *f = malloc(s.L * s.D * sizeof *f);
    if (!image || !f || !read_image(image, side)) refuse("docs/tiny/scene.ppm", "not here");
    vit_forward(f, image, &w, heads);
    printf("%zu x %zu patches of %zu x %zu pixels, %zu numbers each, heads: %zu\n", s.grid,
           s.grid, s.patch, s.patch, s.D, heads);
    for (size_t t = 1; t < s.L; t++) {
        double c = cosine(f + marked * s.D, f + t * s.D, s.D);
        char sign = " .:-=+*#%@"[(int)(fmax(c, 0) * 9.99)];
        printf(t == marked ? "[%c]" : " %c ", sign);
        if (t % s.grid == 0) putchar('\n');
    }
    return 0;
}
