/* vit.c - a vision transformer by hand, from layers

   A ViT (Dosovitskiy et al. 2021) cuts a picture into patches, makes a token of each, puts a
   class token before them, adds positions, and sends them through blocks that all look alike:

       x = x + attention(norm1 x),     x = x + mlp(norm2 x)

   The library has this network as mmix_vision. Here it is put together from layers, for a
   network of one's own begins like this one. The parameters have the names of DINO's files, so
   that mmix_params_load would read such a file; here they are copied, name by name, from a
   mmix_vision with random weights. Both networks then see the same picture.

       cc -O2 demos/vit.c -o vit -lm -lpthread && ./vit

   It prints the parameters, and how far the features of the two networks are apart: not at all,
   for the same ops run in the same order. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { D = 64, HEADS = 4, DEPTH = 3, PATCH = 8, GRID = 6, TOKENS = 1 + GRID * GRID };

static const double eps = 1e-6;              /* of the norms */

typedef struct block {
    mmix_tensor *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;
    mmix_attention_layer attention;
    mmix_mlp_layer mlp;
} block;

typedef struct vit {
    mmix_params *params;
    mmix_tensor *class_token, *positions, *patch_weight, *patch_bias, *norm_weight, *norm_bias;
    block blocks[DEPTH];
} vit;

/* A parameter of 1 to 4 axes; axes after the last are 0. It begins with normal numbers of
   deviation 0.02. */
static mmix_tensor *add(mmix_params *p, const char *name, size_t a, size_t b, size_t c, size_t d)
{
    size_t shape[4];
    int axes = 1;
    shape[0] = a;
    shape[1] = b;
    shape[2] = c;
    shape[3] = d;
    while (axes < 4 && shape[axes]) axes++;
    return mmix_params_add(p, "", name, axes, shape, MMIX_INIT_NORMAL, 0.02, 0);
}

/* A norm's weight or bias of block i. */
static mmix_tensor *add_norm(mmix_params *p, int i, const char *what, double start)
{
    size_t shape[1] = { D };
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blocks.%d.", i);
    return mmix_params_add(p, prefix, what, 1, shape, MMIX_INIT_CONSTANT, start, 0);
}

static void block_init(block *b, mmix_params *p, int i)
{
    char prefix[32];
    b->norm1_weight = add_norm(p, i, "norm1.weight", 1);
    b->norm1_bias = add_norm(p, i, "norm1.bias", 0);
    snprintf(prefix, sizeof prefix, "blocks.%d.attn.", i);
    mmix_attention_init(&b->attention, p, prefix, D, HEADS, MMIX_MIXER_SOFTMAX, 1);
    b->norm2_weight = add_norm(p, i, "norm2.weight", 1);
    b->norm2_bias = add_norm(p, i, "norm2.bias", 0);
    snprintf(prefix, sizeof prefix, "blocks.%d.mlp.", i);
    mmix_mlp_init(&b->mlp, p, prefix, D, 4 * D, D);
}

static int vit_init(vit *v, mmix_ctx *m)
{
    v->params = mmix_params_create(m);
    v->class_token = add(v->params, "cls_token", 1, 1, D, 0);
    v->positions = add(v->params, "pos_embed", 1, TOKENS, D, 0);
    v->patch_weight = add(v->params, "patch_embed.proj.weight", D, 3, PATCH, PATCH);
    v->patch_bias = add(v->params, "patch_embed.proj.bias", D, 0, 0, 0);
    for (int i = 0; i < DEPTH; i++) block_init(&v->blocks[i], v->params, i);
    v->norm_weight = add(v->params, "norm.weight", D, 0, 0, 0);
    v->norm_bias = add(v->params, "norm.bias", D, 0, 0, 0);
    /* all of them in one slab; from here on they have values */
    return mmix_params_allocate(v->params);
}

/* image (1, 3, h, w) → tokens (1, TOKENS, D) */
static mmix_tensor *vit_forward(mmix_ctx *m, vit *v, mmix_tensor *image)
{
    size_t row[1] = { D };
    mmix_tensor *x = mmix_patch_embed(m, image, v->patch_weight, v->patch_bias);
    x = mmix_insert_token(m, x, mmix_reshape(m, v->class_token, 1, row), 0);
    x = mmix_add(m, x, v->positions);
    for (int i = 0; i < DEPTH; i++) {
        block *b = &v->blocks[i];
        mmix_tensor *normed = mmix_layer_norm(m, x, b->norm1_weight, b->norm1_bias, eps);
        /* x + attention(normed) */
        x = mmix_attention_forward(m, &b->attention, normed, x, NULL, NULL, 0);
        normed = mmix_layer_norm(m, x, b->norm2_weight, b->norm2_bias, eps);
        x = mmix_mlp_forward(m, &b->mlp, normed, NULL, NULL);
    }
    return mmix_layer_norm(m, x, v->norm_weight, v->norm_bias, eps);
}

static void print_parameters(const mmix_params *p)
{
    for (size_t i = 0; i < p->count; i++) {
        mmix_tensor *t = p->at[i].tensor;
        if (!strncmp(p->at[i].name, "blocks.", 7) && strncmp(p->at[i].name, "blocks.0.", 9))
            continue;
        printf("   %-26s", p->at[i].name);
        for (int axis = 0; axis < mmix_ndim(t); axis++) printf(" %d", (int)mmix_shape(t, axis));
        printf("\n");
    }
    printf("%d parameters, %d numbers (blocks 1 and 2 are as block 0)\n", (int)p->count,
           (int)p->elements);
}

int main(void)
{
    vit mine;
    mmix_ctx *m = mmix_create(NULL);
    mmix_vision_config config = mmix_vision_config_vit(D, PATCH);
    config.depth = DEPTH;
    config.heads = HEADS;
    config.grid = GRID;
    mmix_vision *theirs = mmix_vision_create(m, config);
    if (vit_init(&mine, m) != 0 || !theirs) {
        puts(mmix_error(m));
        return 1;
    }
    for (size_t i = 0; i < mine.params->count; i++) {
        mmix_tensor *from = mmix_params_find(mmix_vision_params(theirs), mine.params->at[i].name);
        mmix_write(mine.params->at[i].tensor, mmix_data(from));
    }
    print_parameters(mine.params);

    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 1, 3, GRID * PATCH, GRID * PATCH), 1, 0);
    mmix_tensor *tokens = vit_forward(m, &mine, image);
    mmix_features expected = mmix_vision_forward(m, theirs, image, NULL);
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    double worst = 0;
    for (size_t i = 0; i < TOKENS * D; i++)
        worst = fmax(worst, fabs((double)mmix_data(tokens)[i] -
                                 (double)mmix_data(expected.tokens)[i]));
    printf("largest difference of %d features from mmix_vision's: %.1e\n", TOKENS * D, worst);
    mmix_params_destroy(mine.params);
    mmix_vision_destroy(theirs);
    mmix_destroy(m);
    return worst > 1e-4;
}
