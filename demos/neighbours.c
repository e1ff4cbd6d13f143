/* neighbours.c - which pictures are alike

   A backbone makes one vector of a whole picture (the class token). Pictures of like things have
   vectors that point the same way, so that a search among pictures is a product of matrices:
   cosines of all pairs.

       cc -O2 demos/neighbours.c -o neighbours -lm -lpthread && ./neighbours model.safetensors *.jpg

   It prints for each picture the three that are most like it, with their cosines. photo.c says
   which weights open and where there are some; JPEG and PNG need stb_image.h (Debian:
   libstb-dev), which does not turn them as the camera was held (studies/exif.h).

   Without arguments it takes a network that has learned nothing and draws 24 landscapes of four
   kinds. By their colours even that network finds their like, and the last line says of how many
   the nearest is of the same kind. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__has_include)
#if __has_include(<stb/stb_image.h>)
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#elif __has_include("stb_image.h")
#define STB_IMAGE_IMPLEMENTATION
#include "stb_image.h"
#endif
#endif

enum { SIDE = 224, DRAWN = 24, KINDS = 4, NEAREST = 3 };

static const char *const kinds[KINDS] = { "sunset", "forest", "sea", "desert" };
/* Red, green and blue above the horizon, then below it. */
static const int colours[KINDS][2][3] = {
    { { 230, 120, 70 }, { 70, 40, 80 } }, { { 150, 190, 220 }, { 30, 90, 40 } },
    { { 160, 200, 240 }, { 20, 70, 140 } }, { { 190, 210, 230 }, { 210, 170, 110 } }
};

/* Landscape number i: its kind's colours, lighter or darker, a horizon somewhere, and grain. */
static mmix_picture draw(mmix_ctx *m, size_t i)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    mmix_picture picture = { rgb, SIDE, SIDE };
    size_t horizon = SIDE / 4 + mmix_random_u32(m, 1, i, 0) % (SIDE / 2);
    int light = (int)(mmix_random_u32(m, 1, i, 1) % 60) - 30;
    for (size_t at = 0; at < SIDE * SIDE * 3; at++) {
        int below = at / 3 / SIDE > horizon;
        int grain = (int)(mmix_random_u32(m, 2, i, at) % 30);
        int value = colours[i % KINDS][below][at % 3] + light + grain;
        if (value < 0) value = 0;
        if (value > 255) value = 255;
        rgb[at] = (uint8_t)value;
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

/* Writes the class token of one picture, all in step memory until the rewind. */
static void describe(mmix_ctx *m, const mmix_vision *net, mmix_picture picture, mmix_real *row)
{
    if (mmix_error(m)) return;
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *image = mmix_image(m, picture.rgb, picture.width, picture.height, SIDE);
    mmix_features f = mmix_vision_forward(m, net, image, NULL);
    if (f.token) mmix_read(f.token, row);
    mmix_rewind(m, mark);
}

static void print_name(char **names, size_t i)
{
    if (!names) {
        printf("%-6s %d", kinds[i % KINDS], (int)(i / KINDS));
        return;
    }
    const char *slash = strrchr(names[i], '/');
    printf("%s", slash ? slash + 1 : names[i]);
}

/* Prints a line; returns the nearest. `cosine` loses what was printed. */
static size_t print_nearest(char **names, size_t count, size_t i, mmix_real *cosine)
{
    size_t first = 0;
    print_name(names, i);
    printf("  is like");
    cosine[i] = -2;                          /* not itself */
    for (size_t k = 0; k < NEAREST && k + 1 < count; k++) {
        size_t best = 0;
        for (size_t j = 1; j < count; j++)
            if (cosine[j] > cosine[best]) best = j;
        if (k == 0) first = best;
        printf("   ");
        print_name(names, best);
        printf(" (%.3f)", (double)cosine[best]);
        cosine[best] = -2;
    }
    printf("\n");
    return first;
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        puts("neighbours: expected MODEL PICTURE..., or nothing");
        return 1;
    }
    char **names = argc > 2 ? argv + 2 : NULL;
    size_t count = names ? (size_t)argc - 2 : DRAWN;
    mmix_ctx *m = mmix_create(NULL);
    mmix_vision *net = names ? mmix_vision_load(m, argv[1]) :
        mmix_vision_create(m, mmix_vision_config_vit(192, 16));
    if (!net) {
        puts(mmix_error(m));
        return 1;
    }
    size_t D = mmix_vision_config_of(net)->dim;
    mmix_tensor *features = mmix_new2(m, count, D);
    for (size_t i = 0; i < count && !mmix_error(m); i++) {
        mmix_picture picture = names ? load(m, names[i]) : draw(m, i);
        describe(m, net, picture, mmix_data(features) + i * D);
        if (names) free((void *)(uintptr_t)picture.rgb);
    }
    features = mmix_l2_normalize(m, features, 1e-12);
    mmix_tensor *cosines = mmix_linear(m, features, features, NULL);  /* features featuresᵀ */
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    size_t right = 0;
    for (size_t i = 0; i < count; i++) {
        size_t nearest = print_nearest(names, count, i, mmix_data(cosines) + i * count);
        if (nearest % KINDS == i % KINDS) right++;
    }
    if (!names) printf("the nearest is of the same kind: %d of %d\n", (int)right, (int)count);
    mmix_vision_destroy(net);
    mmix_destroy(m);
    return !names && right < DRAWN * 3 / 4;
}
