/* photo.c - features of a photograph, drawn

   A backbone turns each patch of a picture into a vector. Patches of the same thing have vectors
   that point the same way. This program draws two maps of that: how much each patch resembles
   the one in the middle of the picture, and the first principal component of all patches (what
   they differ in most). Where the file has a classifier, as networks fine-tuned for ImageNet do, it
   also prints the five likeliest classes.

       cc -O2 demos/photo.c -o photo -lm -lpthread && ./photo model.safetensors cat.jpg

   Weights of ViT, DINO, MAE, DINOv2, DINOv3, Vim, Mamba-Reg and DinoVim open as downloaded, for
   example

       curl -LO https://huggingface.co/facebook/dinov2-small/resolve/main/model.safetensors

   JPEG and PNG need stb_image.h (Debian: libstb-dev), which does not turn a picture as its camera
   was held; studies/exif.h tells the turn. Without arguments the program takes a
   network that has learned nothing and draws a picture, a disc on a ground of another colour:
   even that network tells them apart, which the last line measures (AUC: 0.5 is guessing, 1 is a
   perfect separation). */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__has_include)
#if __has_include(<stb/stb_image.h>)
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#elif __has_include("stb_image.h")
#define STB_IMAGE_IMPLEMENTATION
#include "stb_image.h"
#endif
#endif

enum { SIDE = 224 };

/* Whether a pixel belongs to the disc, a bit right of the middle. */
static int on_disc(int x, int y)
{
    return (x - 124) * (x - 124) + (y - 108) * (y - 108) < 62 * 62;
}

/* A reddish disc on a green ground that grows lighter, both with grain. */
static mmix_picture draw(mmix_ctx *m, uint8_t *rgb)
{
    mmix_picture picture = { rgb, SIDE, SIDE };
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            uint8_t *pixel = rgb + (y * SIDE + x) * 3;
            int grain = (int)(mmix_random_u32(m, 1, (uint64_t)y, (uint64_t)x) % 40);
            int on = on_disc(x, y);
            pixel[0] = (uint8_t)(on ? 180 + grain : 60 + grain);
            pixel[1] = (uint8_t)(on ? 60 + grain : 90 + y / 4 + grain);
            pixel[2] = (uint8_t)(70 + grain);
        }
    }
    return picture;
}

static mmix_picture load(mmix_ctx *m, const char *path)
{
    mmix_picture picture = { NULL, 0, 0 };
#ifdef STB_IMAGE_IMPLEMENTATION
    int width = 0, height = 0;
    picture.rgb = stbi_load(path, &width, &height, NULL, 3);
    picture.width = (size_t)width;
    picture.height = (size_t)height;
    if (!picture.rgb) mmix_fail(m, MMIX_ERROR_FILE, "%s: %s", path, stbi_failure_reason());
#else
    mmix_fail(m, MMIX_ERROR_FILE,
              "%s: reading it needs stb_image.h, which was not there to compile", path);
#endif
    return picture;
}

/* Two characters a patch, for they are half as wide as high; darker is more. */
static void draw_maps(const mmix_real *a, const mmix_real *b, size_t rows, size_t columns)
{
    static const char ramp[] = " .:-=+*#%@";
    const mmix_real *maps[2];
    maps[0] = a;
    maps[1] = b;
    for (size_t i = 0; i < rows; i++) {
        for (int k = 0; k < 2; k++) {
            for (size_t j = 0; j < columns; j++) {
                char shade = ramp[(int)((double)maps[k][i * columns + j] * 9 + 0.5)];
                putchar(shade);
                putchar(shade);
            }
            printf("%s", k ? "\n" : "    ");
        }
    }
}

/* (n) to [0, 1] */
static void stretch(mmix_real *to, const double *from, size_t n)
{
    double low = from[0], high = from[0];
    for (size_t i = 1; i < n; i++) {
        low = fmin(low, from[i]);
        high = fmax(high, from[i]);
    }
    for (size_t i = 0; i < n; i++) to[i] = (mmix_real)((from[i] - low) / (high - low + 1e-30));
}

/* How well the map tells the drawn disc from its ground. */
static double disc_auc(mmix_ctx *m, const mmix_tensor *scaled)
{
    static int32_t mask[SIDE * SIDE];
    size_t shape[3] = { 1, SIDE, SIDE };
    mmix_auc auc;
    for (int i = 0; i < SIDE * SIDE; i++) mask[i] = on_disc(i % SIDE, i / SIDE);
    mmix_tensor *map = mmix_new3(m, 1, mmix_shape(scaled, 2), mmix_shape(scaled, 3));
    mmix_write(map, mmix_data(scaled));
    mmix_binary_auc(m, NULL, map, mmix_from_i32(m, 3, shape, mask), &auc);
    return mmix_error(m) ? 0 : auc.auc_raw[0];
}

/* The likeliest classes, with what the softmax of the logits makes of them. */
static void print_classes(mmix_ctx *m, const mmix_vision *net, const mmix_features *f)
{
    mmix_tensor *share = mmix_softmax(m, mmix_vision_classify(m, net, f), 1);
    if (!share) return;
    mmix_real *p = mmix_data(share);
    size_t K = mmix_shape(share, 1);
    for (size_t rank = 0; rank < 5 && rank < K; rank++) {
        size_t best = 0;
        for (size_t k = 1; k < K; k++)
            if (p[k] > p[best]) best = k;
        const char *name = mmix_vision_class_name(net, best);
        printf("%5.1f %%  class %d  %s\n", 100 * (double)p[best], (int)best, name ? name : "");
        p[best] = -1;                        /* it is not the best again */
    }
}

int main(int argc, char **argv)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    int drawn = argc < 2;
    if (argc == 2) {
        puts("photo: expected MODEL PICTURE, or nothing");
        return 1;
    }
    mmix_ctx *m = mmix_create(NULL);
    mmix_vision *net = drawn ? mmix_vision_create(m, mmix_vision_config_vit(192, 16)) :
        mmix_vision_load(m, argv[1]);
    mmix_picture picture = drawn ? draw(m, rgb) : load(m, argv[2]);
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    mmix_tensor *image = mmix_image(m, picture.rgb, picture.width, picture.height, SIDE);
    mmix_features f = mmix_vision_forward(m, net, image, NULL);
    size_t n = f.grid_h * f.grid_w, D = mmix_shape(f.token, 1), row[2];
    row[0] = n;
    row[1] = D;
    mmix_tensor *middle = mmix_slice(m, f.patches, 1, f.grid_h / 2 * f.grid_w + f.grid_w / 2, 1);
    mmix_map map;
    mmix_pca_result pca;
    mmix_map_options cosine = { 0 };
    mmix_feature_map(m, &cosine, middle, f.patches, f.grid_h, f.grid_w, SIDE, SIDE, &map);
    mmix_pca(m, mmix_reshape(m, f.patches, 2, row), 1, &pca);
    mmix_real *component = malloc(n * sizeof *component);
    if (!component) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a map");
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    stretch(component, pca.projection, n);
    printf("%d patches of %d features: likeness to the patch in the middle; first principal "
           "component\n", (int)n, (int)D);
    draw_maps(mmix_data(map.scaled), component, f.grid_h, f.grid_w);
    if (mmix_vision_config_of(net)->classes) print_classes(m, net, &f);
    double auc = drawn ? disc_auc(m, map.scaled) : 1;
    if (drawn) printf("AUC of the likeness for the disc: %.3f\n", auc);
    else free((void *)(uintptr_t)picture.rgb);
    free(component);
    mmix_vision_destroy(net);
    mmix_destroy(m);
    return auc < 0.8;
}
