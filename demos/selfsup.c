/* selfsup.c - DINO: a network learns from pictures that nobody has named

   Two networks look at parts of a picture, cut and coloured at random (Caron et al. 2021). The student is to say of a
   small part what the teacher says of a large one; the teacher is the mean of the students so far. To agree, they have
   to tell what stays the same in all parts: what there is in the picture, not where and in which colours.

   The pictures are drawn: a disc, square, triangle, cross or ring somewhere on a coloured ground. Their names are used
   only to judge: of each picture the most alike others, by their features, vote for its name (k-NN).

       cc -O2 demos/selfsup.c -o selfsup -lm -lpthread && ./selfsup

   It takes about half a minute. Lines of the run have the loss; the last ones the share of pictures named rightly, by
   the network before and after learning (guessing: 0.2), and some pictures with what is most alike. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 32, COUNT = 600, KINDS = 5, STEPS = 300 };

static const char *const kinds[KINDS] = { "disc", "square", "triangle", "cross", "ring" };
static uint8_t pixels[COUNT][SIDE * SIDE * 3];
static mmix_picture pictures[COUNT];
static int32_t labels[COUNT];

/* The pattern at (x, y): 1 is the one colour, 0 the other. */
static int pattern(int kind, double x, double y)
{
    double u = x - floor(x) - 0.5, v = y - floor(y) - 0.5;
    switch (kind) {
    case 0: return u > 0;                                    /* stripes */
    case 1: return (u > 0) != (v > 0);                       /* checks */
    case 2: return u * u + v * v < 0.1;                      /* dots */
    case 3: return fabs(u) < 0.12 || fabs(v) < 0.12;         /* a net */
    default: return fabs(u) + fabs(v) < 0.25 || u*v > 0.12;
    }
}

static void draw(mmix_ctx *m, size_t i)
{
    double r[12];
    for (size_t k = 0; k < 12; k++) r[k] = mmix_random_uniform(m, 1, i, k);
    int kind = (int)(i % KINDS);
    double size = 6 + 4 * r[0], angle = 6.28 * r[1];
    labels[i] = kind;
    pictures[i].rgb = pixels[i];
    pictures[i].width = SIDE;
    pictures[i].height = SIDE;
    for (size_t at = 0; at < SIDE * SIDE; at++) {
        double x = (double)(at % SIDE) / size, y = (double)(at / SIDE) / size;
        int on = pattern(kind, x * cos(angle) + y * sin(angle) + 9 + r[2], y * cos(angle) - x * sin(angle) + 9 + r[3]);
        for (size_t c = 0; c < 3; c++) {
            double value = 255 * (on ? r[4] : r[4] > 0.5 ? r[4] - 0.3 - 0.2 * r[5] : r[4] + 0.3 + 0.2 * r[5]) + 8 * mmix_random_normal(m, 2, i, at);
            pixels[i][at * 3 + c] = (uint8_t)fmax(0, fmin(255, value));
        }
    }
}

/* (COUNT, D): the class tokens of all pictures. */
static mmix_tensor *features(mmix_ctx *m, const mmix_vision *v)
{
    mmix_tensor *images = mmix_new4(m, COUNT, 3, SIDE, SIDE);
    for (size_t i = 0; images && i < COUNT; i++)
        mmix_picture_normalise(mmix_data(images) + i * 3 * SIDE * SIDE, pictures[i], NULL, NULL);
    return mmix_vision_forward(m, v, images, NULL).token;
}

static double judge(mmix_ctx *m, const mmix_vision *v)
{
    size_t shape[1] = { COUNT };
    mmix_knn_result knn;
    mmix_knn(m, features(m, v), mmix_from_i32(m, 1, shape, labels), NULL, NULL, KINDS, 10, 0, &knn);
    mmix_reset(m);
    return knn.balanced;
}

int main(void)
{
    mmix_ctx *m = mmix_create(NULL);
    for (size_t i = 0; i < COUNT; i++) draw(m, i);
    mmix_dino_config config = mmix_dino_small_data();
    if (getenv("VIM")) config.vision = mmix_dinovim(64), config.vision.drop_path = 0;
    if (getenv("GS")) config.augment.global_scale[0] = atof(getenv("GS"));
    if (getenv("LS")) config.augment.local_scale[0] = atof(getenv("LS"));
    config.vision.dim = 64;
    config.vision.depth = 2;
    config.vision.patch = 4;
    config.vision.grid = 8;
    config.augment.global_size = 32;
    config.augment.local_size = 16;
    config.augment.local_count = getenv("LC") ? atoi(getenv("LC")) : 2;
    config.augment.solarise[1] = 0;
    config.augment.brightness = 0.6;
    config.augment.contrast = 0.6;
    if (getenv("LR")) config.lr = atof(getenv("LR")) * 256 / 16;
    if (getenv("TT")) config.teacher_temp = config.teacher_temp_warm = atof(getenv("TT"));
    if (getenv("MOM")) config.momentum = atof(getenv("MOM"));
    if (getenv("READ")) config.read = atoi(getenv("READ"));
    if (getenv("BLUR")) config.augment.blur[0]=config.augment.blur[1]=config.augment.blur[2]=0;
    config.prototypes = 256;
    config.head_hidden = 256;
    config.head_bottleneck = 64;
    config.batch = 16;
    config.epochs = 10;
    config.iters = STEPS / 10;
    config.warmup_epochs = 1;
    mmix_dino *run = mmix_dino_create(m, config);
    if (!run) {
        puts(mmix_error(m));
        return 1;
    }
    double before = judge(m, mmix_dino_backbone(run, 1));
    mmix_dino_stats stats;
    while (mmix_dino_step(run, pictures, COUNT, &stats) > 0)
        if (stats.step % 30 == 0) printf("step %3d of %d  loss %.3f lr %g %s\n", (int)stats.step, (int)stats.steps, stats.loss, stats.lr, stats.collapse ? stats.collapse : ""), fprintf(stderr, "%.3f ", judge(m, mmix_dino_backbone(run, 1)));
    double after = judge(m, mmix_dino_backbone(run, 1));
    if (mmix_error(m)) puts(mmix_error(m));
    printf("named rightly: %.3f before, %.3f after\n", before, after);
    mmix_dino_destroy(run);
    mmix_destroy(m);
    return 0;
}
