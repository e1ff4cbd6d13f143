/* selfsup.c - DINO: a network learns from pictures that nobody has named

   Two networks look at parts of a picture, cut out and changed at random (Caron et al. 2021).
   The student is to say of a small part what the teacher says of a large one; the teacher is the
   mean of the students so far. To agree, they have to find what is the same in all parts: what
   kind of picture it is, not where it was cut or how bright it is.

   The pictures are drawn patterns: columns, rows, checks, dots, nets. Their kinds are used only
   to judge: for each picture the ten others with the most similar features vote for its kind
   (k-NN).

       cc -O2 demos/selfsup.c -o selfsup -lm -lpthread && ./selfsup

   It takes some fifteen seconds. It prints a picture of each kind, then the loss as it learns,
   then the share of pictures that their neighbours name rightly, before and after (guessing:
   0.200). The loss is the entropy of the teacher's choice and, on top, how far the student is
   from it; it rises where the teacher begins to tell more things apart. So short a run is a
   beginning; studies/dino.c does the same for longer. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>

enum { SIDE = 32, COUNT = 600, KINDS = 5, EPOCHS = 10, STEPS = 300 };

static const char *const kinds[KINDS] = { "columns", "rows", "checks", "dots", "nets" };
static uint8_t pixels[COUNT][SIDE * SIDE * 3];
static mmix_picture pictures[COUNT];
static int32_t labels[COUNT];

/* Whether (x, y) has the pattern's colour, or the ground's. A pattern repeats at whole numbers. */
static int in_pattern(int kind, double x, double y)
{
    double u = x - floor(x) - 0.5, v = y - floor(y) - 0.5;
    switch (kind) {
    case 0: return u > 0;
    case 1: return v > 0;
    case 2: return (u > 0) != (v > 0);
    case 3: return u * u + v * v < 0.1;
    default: return fabs(u) < 0.12 || fabs(v) < 0.12;
    }
}

/* Picture number i, gray: a pattern of some size, place, tilt and contrast, on a lighter or a
   darker ground. */
static void draw(mmix_ctx *m, size_t i)
{
    double r[6];
    for (size_t k = 0; k < 6; k++) r[k] = mmix_random_uniform(m, 1, i, k);
    double size = 6 + 4 * r[0], tilt = 0.5 * (r[1] - 0.5);
    double ground = 255 * r[4], contrast = 255 * (0.3 + 0.2 * r[5]);
    if (r[4] > 0.5) contrast = -contrast;
    labels[i] = (int32_t)(i % KINDS);
    for (size_t at = 0; at < SIDE * SIDE; at++) {
        double x = (double)(at % SIDE) / size, y = (double)(at / SIDE) / size;
        double along = x * cos(tilt) + y * sin(tilt) + r[2],
            across = y * cos(tilt) - x * sin(tilt) + r[3];
        double value = ground + 8 * mmix_random_normal(m, 2, i, at);
        if (in_pattern(labels[i], along, across)) value += contrast;
        uint8_t level = (uint8_t)fmax(0, fmin(255, value));
        for (size_t c = 0; c < 3; c++) pixels[i][at * 3 + c] = level;
    }
    pictures[i].rgb = pixels[i];
    pictures[i].width = SIDE;
    pictures[i].height = SIDE;
}

/* The first picture of each kind, every second row. */
static void show(void)
{
    for (size_t k = 0; k < KINDS; k++) printf("%-*s  ", SIDE, kinds[k]);
    printf("\n");
    for (size_t y = 0; y < SIDE; y += 2) {
        for (size_t k = 0; k < KINDS; k++) {
            for (size_t x = 0; x < SIDE; x++)
                putchar(" .:-=+*#%@"[pixels[k][(y * SIDE + x) * 3] * 10 / 256]);
            printf("  ");
        }
        printf("\n");
    }
}

/* The share of pictures whose kind their ten nearest others name, by the class tokens. */
static double judge(mmix_ctx *m, const mmix_vision *v)
{
    size_t shape[1] = { COUNT };
    mmix_tensor *images = mmix_new4(m, COUNT, 3, SIDE, SIDE);
    for (size_t i = 0; images && i < COUNT; i++)
        mmix_picture_normalize(mmix_data(images) + i * 3 * SIDE * SIDE, pictures[i], NULL, NULL);
    mmix_features f = mmix_vision_forward(m, v, images, NULL);
    mmix_tensor *kind = mmix_from_i32(m, 1, shape, labels);
    mmix_knn_result knn;
    mmix_knn(m, f.token, kind, NULL, NULL, KINDS, 10, 0, &knn);  /* no test rows: leave one out */
    mmix_reset(m);
    return knn.balanced;
}

/* The library's setting for small data, smaller still. */
static mmix_dino_config small_config(void)
{
    mmix_dino_config config = mmix_dino_config_small_data();
    config.vision.dim = 64;
    config.vision.depth = 2;
    config.vision.patch = 4;
    config.vision.grid = SIDE / 4;
    config.augment.global_size = SIDE;
    config.augment.local_size = SIDE / 2;
    config.augment.local_count = 2;
    config.augment.solarize[1] = 0;
    config.augment.brightness = 0.6;
    config.augment.contrast = 0.6;
    config.head_hidden = 256;
    config.head_bottleneck = 64;
    config.prototypes = 256;
    config.batch = 16;
    config.lr = 2e-3 * 256 / 16;             /* of a batch of 256, by which it scales */
    config.momentum = 0.95;                  /* the teacher follows fast, for the run is short */
    config.epochs = EPOCHS;
    config.iters = STEPS / EPOCHS;
    config.warmup_epochs = 1;
    return config;
}

int main(void)
{
    mmix_ctx *m = mmix_create(NULL);
    for (size_t i = 0; i < COUNT; i++) draw(m, i);
    show();
    mmix_dino *run = mmix_dino_create(m, small_config());
    if (!run) {
        puts(mmix_error(m));
        return 1;
    }
    mmix_vision *teacher = mmix_dino_backbone(run, 1);       /* the one to use */
    double before = judge(m, teacher);
    mmix_dino_stats stats;
    while (mmix_dino_step(run, pictures, COUNT, &stats) > 0) {
        if (stats.step % 50 != 0) continue;
        printf("step %3d of %d   loss %.3f   entropy of the teacher's choice %.3f\n",
               (int)stats.step, (int)stats.steps,
               stats.loss, stats.teacher_entropy);
    }
    double after = judge(m, teacher);
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    printf("named rightly: %.3f before, %.3f after\n", before, after);
    mmix_dino_destroy(run);
    mmix_destroy(m);
    return after < before;
}
