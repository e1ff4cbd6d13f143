/* learn.h - small networks, how they are trained, and what they have learned

   A recipe is a list of numbers with names; all that the programs beside it train, they train by
   one:

       recipe r = recipe_standard(MMIX_MIXER_SSD);
       if (recipe_set(&r, "batch=64")) …                        // no such name, or no such number
       mmix_dino *d = mmix_dino_create(m, recipe_config(&r, steps, seed));

   What a network has learned is measured one way, too: features of all pictures and Binary-AUC
   of their maps by look, the number of directions that class tokens fill by effective_rank.
   `supervised` trains the same networks by their pictures' classes, to compare.

   Sections: recipes · pictures to learn from · features · with labels.
   Include mamba_mix.h, pictures.h, scenes.h, program.h, evaluate.h and report.h before. */
#ifndef LEARN_H
#define LEARN_H

#include <stddef.h>

/* ---- recipes --------------------------------------------------------------------------------- */

/* MMIX_MIXER_SOFTMAX, MMIX_MIXER_LINEAR, MMIX_MIXER_SSD, it again */
enum { REGISTERS = MMIX_MIXER_SSD + 1, MIXERS };
static const char *const mixer_name[MIXERS] = {"softmax", "linear", "ssd", "registers"};
static const char *const model_name[MIXERS] = {"ViT", "LinearViT", "DinoVim", "DinoMamba-Reg"};
enum { EPOCHS = 20 };  /* schedules are planned in twentieths of a run */

typedef struct recipe {
    double mixer, place;                                 /* of mixer_name; MMIX_CLASS_… of ssd */
    /* depth: blocks of a ViT, Mamba has twice as many */
    double dim, depth, heads, state, head_dim, patch;
    double normalize;                     /* 1: rows of linear attention are divided by their sums */
    double augment;                       /* of linear attention: MMIX_AUGMENT_…, both are 3 */
    double deviation, sincos, drop;
    double read, prototypes, hidden, bottleneck;         /* of the head */
    /* crops: pixels, how many; least share of the picture */
    double size, local, locals, scale, least;
    /* strength: of brightness, contrast, saturation */
    double jitter, strength, hue, gray, blur, solarize;
    double batch, rate, warmup, decay, decay_end, clip, freeze;  /* rate: of a batch, as it is */
    /* the teacher's momentum, 0: a quarter of the run */
    double memory, temp, temp_warm, warm, center;
    /* iBOT: weight of its loss; share of crops, of a crop's patches */
    double patches, masked, mask_from, mask_to;
    double bf16;                          /* 1: steps multiply bf16 (mmix_multiply_bf16) */
} recipe;

static const struct { const char *name; size_t at; int whole; double low, high;
                     } recipe_number[] = {
#define WHOLE(name, low, high) {#name, offsetof(recipe, name), 1, low, high}
#define REAL(name, low, high) {#name, offsetof(recipe, name), 0, low, high}
    WHOLE(mixer, 0, MIXERS - 1), WHOLE(place, MMIX_CLASS_FIRST, MMIX_CLASS_REGISTERS),
    WHOLE(dim, 1, 8192), WHOLE(depth, 1, 500), WHOLE(heads, 1, 1024), WHOLE(state, 1, 1024),
    WHOLE(head_dim, 1, 1024), WHOLE(patch, 1, 64), WHOLE(normalize, 0, 1),
    WHOLE(augment, 0, MMIX_AUGMENT_KEYS | MMIX_AUGMENT_OUTPUT),
    REAL(deviation, 0, 10), REAL(sincos, 0, 10),
    REAL(drop, 0, 0.99), WHOLE(read, MMIX_READ_TOKEN, MMIX_READ_BOTH), WHOLE(prototypes, 16, 65536),
    WHOLE(hidden, 1, 65536),
    WHOLE(bottleneck, 1, 65536), WHOLE(size, 8, 1024), WHOLE(local, 8, 1024), WHOLE(locals, 0, 64),
    REAL(scale, 0.001, 1), REAL(least, 0.001, 1), REAL(jitter, 0, 1), REAL(strength, 0, 1),
    REAL(hue, 0, 0.5),
    REAL(gray, 0, 1), REAL(blur, 0, 1), REAL(solarize, 0, 1), WHOLE(batch, 1, 65536),
    REAL(rate, 0, 1),
    WHOLE(warmup, 0, EPOCHS), REAL(decay, 0, 10), REAL(decay_end, 0, 10), REAL(clip, 0, 1e9),
    WHOLE(freeze, 0, EPOCHS), REAL(memory, 0, 1), REAL(temp, 1e-3, 1), REAL(temp_warm, 1e-3, 1),
    WHOLE(warm, 0, EPOCHS), REAL(center, 0, 1), REAL(patches, 0, 1e3), REAL(masked, 0, 1),
    REAL(mask_from, 0, 1), REAL(mask_to, 0, 1), WHOLE(bf16, 0, 1),
#undef WHOLE
#undef REAL
};
enum { RECIPE_NUMBERS = sizeof recipe_number / sizeof *recipe_number };

static inline double *recipe_at(recipe *r, size_t i) { return (double *)(void *)((char *)r +
        recipe_number[i].at); }

/* For a few thousand photographs, found by the search that docs/04-dino.md writes down: narrow
   networks, for steps are worth more than width; crops of a fifth of a picture and more; a small
   head; iBOT. */
static inline recipe recipe_standard(int mixer)
{
    recipe r = {0};
    r.mixer = mixer;
    r.place = mixer == REGISTERS ? MMIX_CLASS_REGISTERS : MMIX_CLASS_MIDDLE;
    r.dim = 64;
    r.depth = 3;
    r.heads = 4;
    r.state = 16;
    r.head_dim = 64;
    r.patch = 16;
    r.deviation = 0.07;
    r.sincos = 0.3;
    r.read = MMIX_READ_TOKEN;
    r.prototypes = 256;
    r.hidden = 256;
    r.bottleneck = 64;
    r.size = 96;
    r.local = 48;
    r.locals = 4;
    r.scale = 0.4;
    r.least = 0.2;
    r.jitter = 0.8;
    r.strength = 0.4;
    r.hue = 0.1;
    r.gray = 0.2;
    r.batch = 16;
    r.rate = 1e-3;
    r.warmup = 2;
    r.decay = r.decay_end = 0.04;
    r.clip = 3;
    r.freeze = 1;
    r.temp = r.temp_warm = 0.02;
    r.center = 0.9;
    r.patches = r.masked = 1;
    r.mask_from = 0.1;
    r.mask_to = 0.5;
    return r;
}

/* For swarms (scenes.h), whose classes differ in shape alone: smaller, with crops that keep
   their colours, and without iBOT. */
static inline void recipe_swarms(recipe *r)
{
    r->depth = 2;
    r->heads = 2;
    r->state = 8;
    r->patch = 8;
    r->deviation = 0.08;
    r->read = MMIX_READ_BOTH;
    r->prototypes = 512;       /* the class token alone learns late, and not each time */
    r->size = 48;
    r->local = 24;
    r->least = 0.15;
    r->jitter = 0;
    r->gray = 0;
    /* A teacher that looks back 50 steps followed the student's first guesses with some seeds of
       both kinds of attention, which then ended below edges; theirs looks back 100. Mamba-2 learns
       with 50 from each seed, and less with 100. */
    r->memory = r->mixer >= MMIX_MIXER_SSD ? 0.98 : 0.99;
    /* Rows of linear attention sum to about L/N: 0.3 for a local crop of 9 patches, 1.2 for a global
       one of 36, 4.7 for a picture of 144. Undivided, that network ended below its start with seed
       12. */
    if (r->mixer == MMIX_MIXER_LINEAR) r->normalize = 1;
    r->decay_end = 0.4;
    r->patches = 0;
}

/* What in a recipe does not go together, or NULL. */
static inline const char *recipe_wrong(const recipe *r)
{
    static char why[200];
    int ssd = r->mixer >= MMIX_MIXER_SSD;
    *why = 0;
    if (fmod(r->size, r->patch) || (r->locals && fmod(r->local, r->patch)))
        snprintf(why, sizeof why, "size=%g local=%g: give multiples of patch=%g", r->size, r->local,
                 r->patch);
    if (!ssd && fmod(r->dim, r->heads))
        snprintf(why, sizeof why, "heads=%g: they do not divide dim=%g", r->heads, r->dim);
    if (ssd && fmod(2 * r->dim, r->head_dim))
        snprintf(why, sizeof why, "head_dim=%g: Mamba-2's heads do not divide twice dim=%g",
                 r->head_dim, r->dim);
    return *why ? why : NULL;
}

static inline void recipe_list(recipe *r)                /* all numbers, on stdout */
{
    for (size_t i = 1; i < RECIPE_NUMBERS; i++)
        printf("%-12s %-8g from %g to %g\n", recipe_number[i].name, *recipe_at(r, i),
               recipe_number[i].low, recipe_number[i].high);
}

/* "name=number". NULL, or what is wrong. */
static inline const char *recipe_set(recipe *r, const char *text)
{
    static char why[200];
    size_t n = strcspn(text, "=");
    size_t i = 0;
    char *end;
    while (i < RECIPE_NUMBERS &&
           (strlen(recipe_number[i].name) != n || strncmp(recipe_number[i].name, text, n))) i++;
    snprintf(why, sizeof why, "%s: a recipe has no such number", text);
    if (i == RECIPE_NUMBERS || !text[n]) return why;
    double x = strtod(text + n + 1, &end);
    double low = recipe_number[i].low;
    double high = recipe_number[i].high;
    snprintf(why, sizeof why, "%s: give a %s from %g to %g", text, recipe_number[i].whole ?
             "whole number" : "number",
             low, high);
    if (end == text + n + 1 || *end || !(x >= low && x <= high)) return why;
    if (recipe_number[i].whole && x != floor(x)) return why;
    *recipe_at(r, i) = x;
    return NULL;
}

static inline mmix_dino_config recipe_config(const recipe *r, size_t steps, uint64_t seed)
{
    mmix_dino_config c = mmix_dino_config_small_data();
    int mixer = (int)r->mixer;
    int ssd = mixer >= MMIX_MIXER_SSD;
    mmix_vision_config *v = &c.vision;
    mmix_augment *a = &c.augment;
    if (ssd) {
        *v = mixer == REGISTERS ? mmix_vision_config_mambareg(256) :
            mmix_vision_config_dinovim(256);
        v->class_token = mixer == REGISTERS ? MMIX_CLASS_REGISTERS : (int)r->place;
        v->mamba.d_state = (size_t)r->state;
        v->mamba.head_dim = (size_t)r->head_dim;
    } else v->mixer = mixer;
    if (mixer == MMIX_MIXER_LINEAR) v->normalize = (int)r->normalize;
    v->augment = (int)r->augment;
    v->dim = (size_t)r->dim;
    v->heads = ssd ? 0 : (size_t)r->heads;
    v->depth = (size_t)r->depth * (ssd ? 2 : 1);
    v->patch = (size_t)r->patch;
    v->grid = (size_t)(r->size / r->patch);
    v->deviation = r->deviation;
    v->sincos = r->sincos;
    v->drop_path = r->drop;
    c.read = (int)r->read;
    c.prototypes = (size_t)r->prototypes;
    c.head_hidden = (size_t)r->hidden;
    c.head_bottleneck = (size_t)r->bottleneck;
    a->global_size = (size_t)r->size;
    a->local_size = (size_t)r->local;
    a->local_count = (size_t)r->locals;
    a->global_scale[0] = a->local_scale[1] = r->scale;
    a->local_scale[0] = r->least;
    a->brightness = a->contrast = r->strength;
    a->saturation = r->strength / 2;
    a->jitter = r->jitter;
    a->hue = r->hue;
    a->gray = r->gray;
    for (int i = 0; i < 3; i++) {
        a->blur[i] *= r->blur;
        a->solarize[i] *= r->solarize;
    }
    a->sigma[0] *= r->size / 224;
    a->sigma[1] *= r->size / 224;      /* the paper's is of 224 pixels */
    c.batch = (size_t)r->batch;
    c.seed = seed;
    c.epochs = EPOCHS;
    c.iters = (steps + EPOCHS - 1) / EPOCHS;
    c.lr = r->rate * 256 / r->batch;
    c.warmup_epochs = (size_t)r->warmup;
    c.weight_decay = r->decay;
    c.weight_decay_end = r->decay_end;
    c.clip = r->clip;
    c.freeze_last_layer = (size_t)r->freeze;
    /* The teacher looks back a quarter of the run, up to the paper's 0.996. One that forgets
       sooner follows the student's first guesses, and its entropy swings from 0 to ln K. */
    c.momentum = steps < 40 ? 0.9 : fmin(1 - 4 / (double)steps, 0.996);
    if (r->memory > 0) c.momentum = r->memory;
    c.center_momentum = r->center;
    c.teacher_temp = r->temp;
    c.teacher_temp_warm = r->temp_warm;
    c.teacher_temp_epochs = (size_t)r->warm;
    c.patch_weight = r->patches;
    c.mask_chance = r->masked;
    c.mask_part[0] = r->mask_from;
    c.mask_part[1] = r->mask_to;
    return c;
}

/* What of a recipe this machine can't do, or NULL. */
static inline const char *recipe_beyond(const mmix_ctx *m, const recipe *r)
{
    if (r->bf16 > 0 && !mmix_has_bf16(m))
        return "bf16=1: this processor has no products of bf16 (AMX, or AMD's AVX512-BF16); "
               "leave it out";
    return NULL;
}

/* ---- pictures to learn from ------------------------------------------------------------------ */

typedef struct swarms {
    picture_set *set;
    size_t size, first;
    uint64_t seed;
} swarms;
static inline void swarms_task(void *arg, size_t i)
{
    const swarms *d = (const swarms *)arg;
    scene s = scene_swarm(d->seed, d->first + i);
    scene_paint(&s, (int)d->size, d->set->rgb + i * d->size * d->size * 3,
                d->set->mask + i * d->size * d->size);
    d->set->label[i] = s.at[0].kind;
}
/* Swarms first … first + count - 1 of a seed, with masks and classes. 0, or -1. */
static inline int swarms_draw(mmix_ctx *m, picture_set *set, uint64_t seed, size_t size,
                              size_t first, size_t count)
{
    swarms d = {set, size, first, seed};
    if (picture_set_make(set, count, size, 1)) return -1;
    mmix_parallel_for(m, count, swarms_task, &d);
    return 0;
}
/* What crops are cut from. */
static inline const mmix_picture *crop_from(const picture_set *set) { return set->whole ?
        set->whole : set->picture; }

/* The next step of a run by its recipe; as mmix_dino_step. */
static inline int recipe_step(mmix_ctx *m, const recipe *r, mmix_dino *d, const picture_set *set,
                              mmix_dino_stats *stats)
{
    int was = mmix_multiply_bf16(m, r->bf16 > 0);
    int more = mmix_dino_step(d, crop_from(set), set->count, stats);
    mmix_multiply_bf16(m, was);
    return more;
}

/* plain_describe, outside of tasks. 0, or -1. */
static inline int describe_plain(mmix_ctx *m, int kind, mmix_picture p, mmix_real *out)
{
    return plain_describe(kind, p, out) ? mmix_fail(m, MMIX_ERROR_MEMORY,
                                                    "no memory for descriptors") : 0;
}
/* Whether Ctrl-C stops the program. It may have ended a judgement by an error of the library:
   that is not one. */
static inline int stopped(mmix_ctx *m)
{
    if (interrupted && mmix_error_kind(m) == MMIX_ERROR_INTERRUPTED) mmix_error_clear(m);
    return interrupted && !mmix_error(m);
}

/* ---- features -------------------------------------------------------------------------------- */

enum { READ_TOKEN, READ_MEAN, READ_MAX, READS };         /* rows of a picture's features, D each */
static const char *const read_name[READS] = {"class token", "mean of the patches",
                                             "maximum of the patches"};

/* n square pictures, `every` apart, at side x side pixels: (n, 3, side, side); and their tokens. */
static inline mmix_tensor *look_stack(mmix_ctx *m, const mmix_picture *picture, size_t n,
                                      size_t every, size_t side)
{
    mmix_tensor *part[MMIX_MAX_INPUTS];
    for (size_t i = 0; i < n; i++) {
        mmix_picture p = picture[i * every];
        part[i] = mmix_image_resized(m, p, mmix_resize_plan_center_crop(p.width, p.height, side,
                side));
    }
    return mmix_concat(m, 0, part, n);
}
static inline mmix_features look_at(mmix_ctx *m, const mmix_vision *v, const mmix_picture *picture,
                                    size_t n, size_t every, size_t side)
{
    return mmix_vision_forward(m, v, look_stack(m, picture, n, every, side), NULL);
}
/* Maps (n, out, out) of where their patches resemble the class token. 0, or -1. */
static inline int look_maps(mmix_ctx *m, const mmix_vision *v, const mmix_picture *picture,
                            size_t n, size_t every, size_t side, size_t out, mmix_map *map)
{
    mmix_features f = look_at(m, v, picture, n, every, side);
    mmix_map_options words;
    memset(&words, 0, sizeof words);
    words.layer = "last block after the final norm";
    words.token = f.registers ? "mean of the registers" : "class token";
    return mmix_feature_map(m, &words, f.token, f.patches, f.grid_h, f.grid_w, out, out, map);
}

/* Features (count, READS, D) of the square pictures of a set, seen at `side` pixels; and, for
   the masked ones among every so many, their maps at `shown` pixels judged. x or s may be NULL.
   0, or -1. */
static inline int look(mmix_ctx *m, const mmix_vision *v, const picture_set *set, size_t size,
                       size_t side, mmix_real *x, size_t shown, maps *s)
{
    size_t D = mmix_vision_config_of(v)->dim;
    size_t n;
    size_t few = MMIX_MAX_INPUTS;
    for (size_t at = 0; x && at < set->count && !mmix_error(m) && !interrupted; at += n) {
        mmix_mark mark = mmix_mark_here(m);
        n = set->count - at < few ? set->count - at : few;
        mmix_features f = look_at(m, v, set->picture + at, n, 1, side);
        mmix_tensor *row[READS] = {f.token, mmix_pool_tokens(m, f.patches, NULL, 0, 1, 0),
                                   mmix_pool_tokens(m, f.patches, NULL, 0, 1, 1)};
        for (size_t i = 0; i < n * READS && !mmix_error(m); i++)
            memcpy(x + (at * READS + i) * D, mmix_data(row[i % READS]) + i / READS * D,
                   D * sizeof *x);
        mmix_rewind(m, mark);
    }
    for (size_t at = 0; s && s->every && set->mask && at < set->count && !mmix_error(m) &&
         !interrupted; at += n * s->every) {
        mmix_mark mark = mmix_mark_here(m);
        size_t left = (set->count - at + s->every - 1) / s->every;
        mmix_map map;
        n = left < few ? left : few;
        if (!look_maps(m, v, set->picture + at, n, s->every, shown, size, &map))
            for (size_t b = 0; b < n; b++)
                maps_judge(m, s, mmix_data(map.map) + b * size * size,
                           set->mask + (at + b * s->every) * size * size, size, size, NULL);
        mmix_rewind(m, mark);
    }
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* The k-th test picture of a report, of SHOWN; and their maps, seen at `side` pixels, (SHOWN,
   MAP_SIDE, MAP_SIDE, 3). */
enum { SHOWN = 8, MAP_SIDE = 224 };
static inline size_t shown(const pictures *p,
                           size_t k) { return picture_spread(k, SHOWN, p->test.count); }
static inline void draw_maps(mmix_ctx *m, const mmix_vision *v, const pictures *p, size_t side,
                             uint8_t *out)
{
    const size_t pixels = MAP_SIDE * MAP_SIDE;
    for (size_t k = 0; k < SHOWN && k < p->test.count; k++) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_map map;
        if (!look_maps(m, v, &p->test.picture[shown(p, k)], 1, 1, side, MAP_SIDE, &map))
            for (size_t i = 0; i < pixels; i++)
                report_heat((double)mmix_data(map.map)[i], out + 3 * (k * pixels + i));
        mmix_rewind(m, mark);
    }
}

/* Patches of n square pictures, seen at `side` pixels, into d->tokens[0], which is open; sets
   their grid. 0, or -1. */
static inline int look_patches(mmix_ctx *m, const mmix_vision *v, const mmix_picture *picture,
                               size_t n, size_t side, dense_set *d)
{
    for (size_t at = 0, few; at < n && !mmix_error(m) && !interrupted; at += few) {
        mmix_mark mark = mmix_mark_here(m);
        few = n - at < 8 ? n - at : 8;
        mmix_features f = look_at(m, v, picture + at, few, 1, side);
        size_t rows = few * f.grid_h * f.grid_w;
        mmix_tensor *x = mmix_new2(m, rows, d->D);
        if (!x || mmix_read(f.patches, mmix_data(x)) || store_add(m, &d->tokens[0], mmix_data(x),
                rows)) return -1;
        d->gh = f.grid_h;
        d->gw = f.grid_w;
        mmix_rewind(m, mark);
    }
    return mmix_error(m) || interrupted ? -1 : 0;
}

/* e^(entropy of σ/Σσ) of the singular values of x (rows, D), `stride` apart, less their mean; of
   at most RANKED rows, from all over. */
enum { RANKED = 1024 };
static inline double effective_rank(mmix_ctx *m, const mmix_real *x, size_t rows, size_t stride,
                                    size_t D)
{
    size_t n = rows < RANKED ? rows : RANKED;
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *t = mmix_new2(m, n, D);
    mmix_pca_result p;
    double all = 0, entropy = 0;
    for (size_t i = 0; t && i < n; i++)
        memcpy(mmix_data(t) + i * D, x + picture_spread(i, n, rows) * stride, D * sizeof *x);
    if (!t || n < 2 || mmix_pca(m, t, D, &p)) return NAN;
    for (size_t k = 0; k < D; k++) all += sqrt(fmax(p.variance[k], 0));
    for (size_t k = 0; k < D; k++) {
        double share = sqrt(fmax(p.variance[k], 0)) / all;
        if (share > 0) entropy -= share * log(share);
    }
    mmix_rewind(m, mark);
    return exp(entropy);
}

/* ---- with labels ----------------------------------------------------------------------------- */

/* A backbone of the same recipe, told the classes: cross-entropy of a linear layer on what
   DINO's head would read (config.read) of the two global crops. No teacher, no local crops; all
   else as DINO has it. A run that is saved and read goes on to the same bits. */
typedef struct supervised {
    mmix_dino_config config;
    mmix_vision *vision;
    mmix_params *head;
    mmix_tensor *weight, *bias;                          /* (classes, D or 2 D), (classes) */
    mmix_optimizer adamw[2];                           /* of vision, of head */
    size_t step, classes;
} supervised;

static inline void supervised_free(supervised *s)
{
    for (int i = 0; i < 2; i++) mmix_optimizer_free(&s->adamw[i]);
    mmix_vision_destroy(s->vision);
    mmix_params_destroy(s->head);
    memset(s, 0, sizeof *s);
}

/* At step 0. 0, or -1; s is to be freed in any case. */
static inline int supervised_make(mmix_ctx *m, supervised *s, mmix_dino_config c, size_t classes)
{
    const size_t shape[2] = {classes, c.vision.dim * (c.read == MMIX_READ_BOTH ? 2 : 1)};
    memset(s, 0, sizeof *s);
    s->config = c;
    s->classes = classes;
    mmix_seed_set(m, c.seed);
    s->vision = mmix_vision_create(m, c.vision);
    s->head = mmix_params_create(m);
    if (!s->vision || !s->head) return -1;
    s->weight = mmix_params_add(s->head, "head.", "weight", 2, shape, MMIX_INIT_NORMAL, 0.02, 0);
    s->bias = mmix_params_add(s->head, "head.", "bias", 1, shape, MMIX_INIT_CONSTANT, 0, 0);
    return mmix_params_allocate(s->head) ||
        mmix_adamw_init(&s->adamw[0], mmix_vision_params(s->vision)) ||
           mmix_adamw_init(&s->adamw[1], s->head) ? -1 : 0;
}

/* Global crops (2 B, 3, s, s) of B pictures drawn one by one, and their classes (2 B). 0, or -1. */
static inline int supervised_draw(mmix_ctx *m, const supervised *s, const mmix_picture *picture,
                                  const int32_t *label,
                                  size_t count, mmix_tensor **crops, mmix_tensor **classes)
{
    enum { DRAW = 901 };  /* a purpose of its own for mmix_random_uniform */
    mmix_augment a = s->config.augment;
    size_t B = s->config.batch;
    size_t n = 2 * B;
    size_t *index = (size_t *)malloc(B * sizeof *index);
    a.local_count = 0;
    *classes = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
    *crops = mmix_new4(m, n, 3, a.global_size, a.global_size);
    if (!index) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for a batch of %zu", B);
    for (size_t b = 0; b < B && !mmix_error(m); b++) {
        index[b] = (size_t)(mmix_random_uniform(m, DRAW, s->step, b) * (double)count);
        mmix_data_i32(*classes)[b] = mmix_data_i32(*classes)[B + b] = label[index[b]];
    }
    int bad = mmix_error(m) || mmix_augment_batch(m, &a, picture, index, 0, B, s->step, *crops,
                                                  NULL);
    free(index);
    return bad ? -1 : 0;
}

/* A step on `batch` of the pictures. Its loss; NAN: mmix_error says why. */
static inline double supervised_step(mmix_ctx *m, supervised *s, const mmix_picture *picture,
                                     const int32_t *label, size_t count)
{
    const mmix_dino_config *c = &s->config;
    mmix_tensor *crops, *classes, *x[2];
    mmix_vision_options o;
    mmix_adamw rate = mmix_adamw_config_default();
    memset(&o, 0, sizeof o);
    o.train = 1;
    o.step = s->step;
    rate.lr = mmix_schedule_cosine(c->lr * (double)c->batch / 256, c->min_lr, c->epochs, c->iters,
                                   c->warmup_epochs, 0, s->step);
    rate.weight_decay = mmix_schedule_cosine(c->weight_decay, c->weight_decay_end, c->epochs,
                                             c->iters, 0, 0, s->step);
    mmix_reset(m);
    if (supervised_draw(m, s, picture, label, count, &crops, &classes)) return NAN;
    mmix_record(m, 1);
    mmix_features f = mmix_vision_forward(m, s->vision, crops, &o);
    x[0] = f.token;
    if (c->read != MMIX_READ_TOKEN) x[1] = mmix_pool_tokens(m, f.patches, NULL, 0, 1, 0);
    if (c->read == MMIX_READ_MEAN) x[0] = x[1];
    if (c->read == MMIX_READ_BOTH) x[0] = mmix_concat(m, 1, x, 2);
    mmix_tensor *loss = mmix_cross_entropy(m, mmix_linear(m, x[0], s->weight, s->bias), classes,
                                           -1);
    mmix_record(m, 0);
    double value = loss ? mmix_item(loss) : NAN;
    if (!loss || mmix_backward(m, loss)) return NAN;
    for (int i = 0; i < 2; i++) mmix_adamw_step(&s->adamw[i], &rate, c->clip, NULL);
    s->step++;
    return mmix_error(m) ? NAN : value;
}

/* Entries of all that a run knows: parameters and moments of both lists, in *n of them, to be
   freed; NULL. `steps` (count) are AdamW's as they lie in a file. */
static inline mmix_entry *supervised_entries(const supervised *s, size_t *n)
{
    static const char *const slab_name[2][3] = {{"vision.m", "vision.v", "vision.steps"},
                                                {"head.m", "head.v", "head.steps"}};
    mmix_params *list[2] = {mmix_vision_params(s->vision), s->head};
    mmix_entry *e = (mmix_entry *)calloc(list[0]->count + list[1]->count + 6, sizeof *e);
    mmix_entry *at = e;
    for (int k = 0; e && k < 2; k++) {
        const mmix_optimizer *w = &s->adamw[k];
        for (size_t i = 0; i < list[k]->count; i++, at++) {
            const mmix_tensor *t = list[k]->at[i].tensor;
            at->name = list[k]->at[i].name;
            at->dtype = MMIX_FILE_REAL;
            at->ndim = mmix_ndim(t);
            at->data = mmix_data(t);
            for (int a = 0; a < at->ndim; a++) at->shape[a] = mmix_shape(t, a);
        }
        const void *data[3] = {w->m, w->v, w->steps};
        for (int i = 0; i < 3; i++, at++) {
            at->name = slab_name[k][i];
            at->dtype = i < 2 ? MMIX_FILE_REAL : MMIX_FILE_I64;
            at->ndim = 1;
            at->data = data[i];
            at->shape[0] = i < 2 ? list[k]->slab : list[k]->count;
        }
    }
    *n = (size_t)(at - e);
    return e;
}
/* To a .safetensors, with a note of the caller's. 0, or -1. */
static inline int supervised_save(mmix_ctx *m, const supervised *s, const char *path,
                                  const char *note)
{
    size_t n;
    char step[32];
    mmix_entry *e = supervised_entries(s, &n);
    const char *const metadata[] = {"step", step, "note", note, NULL};
    snprintf(step, sizeof step, "%zu", s->step);
    int bad = e ? mmix_archive_save(m, path, e, n, metadata) : mmix_fail(m, MMIX_ERROR_MEMORY,
            "no memory to save a run");
    free(e);
    return bad;
}
/* What was saved, into a run made by the same recipe; the note, to be freed, if the caller wants
   it. 0, or -1. */
static inline int supervised_read(mmix_ctx *m, supervised *s, const char *path, char **note)
{
    size_t n;
    mmix_entry *e = supervised_entries(s, &n);
    mmix_archive *a = mmix_archive_open(m, path);
    const char *step = mmix_archive_metadata(a, "step");
    const char *said = mmix_archive_metadata(a, "note");
    if (!e) mmix_fail(m, MMIX_ERROR_MEMORY, "no memory to read a run");
    else if (a && (!step || mmix_archive_count(a) != n))
        mmix_fail(m, MMIX_ERROR_FILE, "%s: no run of this recipe", path);
    for (size_t i = 0; i < n && !mmix_error(m); i++) {
        const mmix_entry *found = mmix_archive_find(a, e[i].name);
        size_t count = mmix_entry_count(&e[i]);
        if (!found || mmix_entry_count(found) != count)
            mmix_fail(m, MMIX_ERROR_FILE, "%s: %s is missing, or of another size", path, e[i].name);
        else mmix_archive_read(m, a, found, e[i].dtype, (void *)(uintptr_t)e[i].data, count);
    }
    if (!mmix_error(m)) s->step = (size_t)strtoull(step, NULL, 10);
    if (!mmix_error(m) && note && said) *note = picture_join(said, "", "");
    mmix_archive_close(a);
    free(e);
    return mmix_error(m) ? -1 : 0;
}

#endif
