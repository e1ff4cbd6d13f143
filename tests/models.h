/* models.h - a small backbone of each kind, small pictures and a small DINO run on them */
#ifndef TEST_MODELS_H
#define TEST_MODELS_H
#include "test.h"

SHARED mmix_vision_config small_vision(int mixer)
{
    mmix_vision_config c;
    if (mixer == MMIX_MIXER_SOFTMAX) c = mmix_vision_config_vit(192, 4);
    else if (mixer == MMIX_MIXER_LINEAR) c = mmix_vision_config_linearvit(768);
    else if (mixer == MMIX_MIXER_SSD) c = mmix_vision_config_dinovim(256);
    else c = mmix_vision_config_vim(192, 0);
    c.classes = 0;
    c.dim = 16;
    c.depth = 2;
    c.heads = mixer < MMIX_MIXER_SSD ? 2 : 0;
    c.patch = 4;
    c.grid = 4;
    c.mlp_ratio = 2;
    c.mamba.head_dim = 8;
    c.mamba.d_state = 5;
    c.selective.d_state = 5;
    return c;
}

enum { PICTURES = 12, SIDE = 20 };
static uint8_t pixels[PICTURES][SIDE * SIDE * 3];
static mmix_picture pictures[PICTURES];
SHARED void draw(void)                           /* four kinds: colours and stripes */
{
    state = 5;
    for (size_t p = 0; p < PICTURES; p++) {
        size_t kind = p % 4;
        pictures[p].rgb = pixels[p];
        pictures[p].width = pictures[p].height = SIDE;
        for (size_t i = 0; i < SIDE * SIDE; i++)
            for (size_t c = 0; c < 3; c++) {
                size_t across = kind & 1 ? i % SIDE : i / SIDE;
                double stripe = across % 6 < 3 ? 60 : 0;
                pixels[p][3 * i + c] = (uint8_t)(20 + (c == kind % 3 ? 130 : 10) + stripe
                                                 + 30 * uniform());
            }
    }
}
SHARED mmix_dino_config small_dino(int mixer)
{
    mmix_dino_config c = mmix_dino_config_small_data();
    c.vision = small_vision(mixer);
    c.vision.drop_path = 0.2;
    c.head_hidden = 16;
    c.head_bottleneck = 8;
    c.prototypes = 24;
    c.head_layers = 2;
    c.augment.global_size = 16;
    c.augment.local_size = 8;
    c.augment.local_count = 2;
    c.batch = 4;
    c.epochs = 4;
    c.iters = 3;
    c.lr = 0.05;
    c.warmup_epochs = 1;
    c.seed = 77;
    return c;
}
SHARED uint64_t hash_dino(mmix_dino *d, uint64_t h)
{
    h = hash_params(mmix_vision_params(mmix_dino_backbone(d, 0)), h);
    h = hash_params(mmix_vision_params(mmix_dino_backbone(d, 1)), h);
    h = hash_params(mmix_dino_head_params(d, 0), h);
    h = hash_params(mmix_dino_head_params(d, 1), h);
    return hash_of(mmix_dino_center(d), mmix_dino_config_of(d)->prototypes, h);
}
SHARED uint64_t hash_stats(const mmix_dino_stats *s, uint64_t h)
{
    double x[6];
    x[0] = s->loss;
    x[1] = s->lr;
    x[2] = s->gradient_norm;
    x[3] = s->teacher_entropy;
    x[4] = s->teacher_kl_uniform;
    x[5] = s->center_norm;
    for (size_t i = 0; i < sizeof x; i++)
        h = (h ^ ((const unsigned char *)x)[i]) * 1099511628211u;
    return h;
}
SHARED uint64_t train(mmix_ctx *m, mmix_dino_config c, int steps)
{
    mmix_dino *d = mmix_dino_create(m, c);
    mmix_dino_stats s;
    uint64_t h = 1;
    for (int i = 0; d && i < steps && mmix_dino_step(d, pictures, PICTURES, &s) == 1; i++)
        h = hash_stats(&s, h);
    if (d) h = hash_dino(d, h);
    mmix_dino_destroy(d);
    return mmix_error(m) ? 0 : h;
}
#endif
