/* classify.c - three networks learn to read digits

   The same network three times, with softmax attention, linear attention and Mamba-2 in the
   place where its tokens mix. The digits are drawn: shapes of 5 x 7 cells, turned, scaled, moved
   and covered with noise, new ones for each step. A linear layer on the mean of the patches says
   which digit it is (cross-entropy, AdamW).

       cc -O2 demos/classify.c -o classify -lm -lpthread && ./classify

   It takes some twenty seconds. A line for each network has the share of right answers on 500
   digits that none has seen, before and after learning (guessing: 0.1); below are five of these
   digits with what the networks take them for. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>

enum { SIDE = 24, PIXELS = SIDE * SIDE, CLASSES = 10, D = 64, BATCH = 32, STEPS = 250, TESTS = 500,
      SHOWN = 5 };

/* Rows of five cells, from the top. */
static const char *const shapes[CLASSES] = {
    " ### #   ##   ##   ##   ##   # ### ", "  #   ##    #    #    #    #   ### ",
    " ### #   #    #   #   #   #   #####", " ### #   #    #  ##     ##   # ### ",
    "   #   ##  # # #  # #####   #    # ", "######    ####     #    ##   # ### ",
    " ### #    #    #### #   ##   # ### ", "#####    #   #   #    #    #    #  ",
    " ### #   ##   # ### #   ##   # ### ", " ### #   ##   # ####    #    # ### "
};

/* How dark a digit is at (x, y) in its own cells, between cells smooth. */
static double darkness(const char *shape, double x, double y)
{
    double sum = 0;
    for (int row = 0; row < 7; row++) {
        for (int column = 0; column < 5; column++) {
            double dx = fabs(x - column), dy = fabs(y - row);
            if (shape[row * 5 + column] == '#' && dx < 1 && dy < 1) sum += (1 - dx) * (1 - dy);
        }
    }
    return sum;
}

/* Draws digit number `number` in gray, (3, SIDE, SIDE), for the networks expect colours; returns
   which digit it is. A number gives the same picture on every machine. */
static int32_t draw(mmix_ctx *m, uint64_t number, mmix_real *pixels)
{
    int32_t digit = (int32_t)(mmix_random_u32(m, 1, number, 0) % CLASSES);
    double angle = 0.4 * (mmix_random_uniform(m, 1, number, 1) - 0.5);
    double size = 2.2 + 0.5 * mmix_random_uniform(m, 1, number, 2);
    double middle_x = SIDE / 2 + 3 * (mmix_random_uniform(m, 1, number, 3) - 0.5);
    double middle_y = SIDE / 2 + 3 * (mmix_random_uniform(m, 1, number, 4) - 0.5);
    for (int i = 0; i < PIXELS; i++) {
        double x = (i % SIDE - middle_x) / size, y = (i / SIDE - middle_y) / size;
        double turned_x = x * cos(angle) + y * sin(angle),
            turned_y = y * cos(angle) - x * sin(angle);
        double noise = 0.25 * mmix_random_normal(m, 2, number, (uint64_t)i);
        mmix_real level = (mmix_real)(2 * darkness(shapes[digit], turned_x + 2, turned_y + 3) - 1 +
                                      noise);
        for (int channel = 0; channel < 3; channel++) pixels[channel * PIXELS + i] = level;
    }
    return digit;
}

/* Digits first … first + count - 1 as one tensor. */
static mmix_tensor *batch(mmix_ctx *m, uint64_t first, size_t count, int32_t *labels)
{
    mmix_tensor *images = mmix_new4(m, count, 3, SIDE, SIDE);
    for (size_t i = 0; images && i < count; i++)
        labels[i] = draw(m, first + i, mmix_data(images) + i * 3 * PIXELS);
    return images;
}

typedef struct network {
    mmix_vision *vision;
    mmix_params *head;
    mmix_tensor *weight, *bias;
    mmix_optimizer adamw[2];               /* of the backbone and of the head */
    double before, after;                    /* shares of right answers */
    int32_t answer[TESTS];
} network;

static void network_init(network *net, mmix_ctx *m, mmix_vision_config config)
{
    size_t shape[2] = { CLASSES, D };
    config.patch = 4;
    config.grid = SIDE / 4;
    config.depth = 3;
    config.heads = 4;
    /* of the matrices at first, as in PyTorch's linear layers */
    config.deviation = 1 / sqrt(3.0 * D);
    config.sincos = 0.3;  /* positions begin with waves, so that neighbours are alike */
    net->vision = mmix_vision_create(m, config);
    net->head = mmix_params_create(m);
    net->weight = mmix_params_add(net->head, "", "head.weight", 2, shape, MMIX_INIT_NORMAL, 0.02,
                                  0);
    net->bias = mmix_params_add(net->head, "", "head.bias", 1, shape, MMIX_INIT_CONSTANT, 0, 0);
    mmix_params_allocate(net->head);
    if (mmix_error(m)) return;
    mmix_adamw_init(&net->adamw[0], mmix_vision_params(net->vision));
    mmix_adamw_init(&net->adamw[1], net->head);
}

static mmix_tensor *logits(mmix_ctx *m, const network *net, mmix_tensor *images)
{
    mmix_features f = mmix_vision_forward(m, net->vision, images, NULL);
    mmix_tensor *mean = mmix_affine(m, mmix_sum_axis(m, f.patches, 1),
                                    1.0 / (double)(f.grid_h * f.grid_w), 0);
    return mmix_linear(m, mean, net->weight, net->bias);
}

static void learn(mmix_ctx *m, network *net)
{
    int32_t labels[BATCH];
    size_t count[1] = { BATCH };
    mmix_adamw options = mmix_adamw_config_default();
    for (size_t step = 0; step < STEPS && !mmix_error(m); step++) {
        mmix_tensor *images = batch(m, 1000 + step * BATCH, BATCH, labels);
        mmix_record(m, 1);
        mmix_tensor *target = mmix_from_i32(m, 1, count, labels);
        mmix_backward(m, mmix_cross_entropy(m, logits(m, net, images), target, -1));
        mmix_record(m, 0);
        options.lr = mmix_schedule_cosine(3e-3, 1e-5, 1, STEPS, 0, 0, step);
        mmix_adamw_step(&net->adamw[0], &options, 1, NULL);
        mmix_adamw_step(&net->adamw[1], &options, 1, NULL);
        mmix_reset(m);
    }
}

/* The share of right answers. */
static double test(mmix_ctx *m, network *net)
{
    static int32_t labels[TESTS];
    int right = 0;
    mmix_tensor *guess = logits(m, net, batch(m, 0, TESTS, labels));
    for (size_t i = 0; guess && i < TESTS; i++) {
        const mmix_real *row = mmix_data(guess) + i * CLASSES;
        int32_t best = 0;
        for (int32_t k = 1; k < CLASSES; k++)
            if (row[k] > row[best]) best = k;
        net->answer[i] = best;
        if (best == labels[i]) right++;
    }
    mmix_reset(m);
    return (double)right / TESTS;
}

static char shade(double dark)
{
    int level = (int)(dark * 6);
    if (level < 0) level = 0;
    if (level > 5) level = 5;
    return " .:+#@"[level];
}

static void show(mmix_ctx *m, const network *nets)
{
    static mmix_real pixels[SHOWN][3 * PIXELS];
    for (uint64_t i = 0; i < SHOWN; i++) draw(m, i, pixels[i]);
    for (int y = 0; y < SIDE; y += 2) {
        for (int i = 0; i < SHOWN; i++) {
            for (int x = 0; x < SIDE; x++) {
                mmix_real sum = pixels[i][y * SIDE + x] + pixels[i][(y + 1) * SIDE + x];
                putchar(shade((double)sum / 4 + 0.5));
            }
            printf(" |");
        }
        printf("\n");
    }
    for (int i = 0; i < SHOWN; i++)
        printf("%10d %d %d            ", (int)nets[0].answer[i], (int)nets[1].answer[i],
               (int)nets[2].answer[i]);
    printf("\n");
}

int main(void)
{
    static const char *const names[3] = { "softmax attention", "linear attention", "Mamba-2" };
    static network nets[3];
    mmix_vision_config configs[3];
    mmix_ctx *m = mmix_create(NULL);
    int wrong = 0;
    configs[0] = mmix_vision_config_vit(D, 4);
    configs[1] = mmix_vision_config_linearvit(D);
    configs[2] = mmix_vision_config_dinovim(D);
    for (int i = 0; i < 3 && !mmix_error(m); i++) {
        network_init(&nets[i], m, configs[i]);
        nets[i].before = test(m, &nets[i]);
        learn(m, &nets[i]);
        nets[i].after = test(m, &nets[i]);
        printf("%-18s %.3f before, %.3f after %d steps\n", names[i], nets[i].before, nets[i].after,
               STEPS);
        if (nets[i].after < 0.5) wrong = 1;
    }
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    show(m, nets);
    return wrong;
}
