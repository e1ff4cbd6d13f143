/* internals.c - what has no name in the interface: the generator's rounds, parameters of every
   standard size declared without values, packed copies of matrices, AdamW on two lists, JSON,
   configs, checksums, orthonormal rows. The one program beside tests/kernels.c that holds an
   implementation of its own.

   Run from the repository's root. With ../shared/reference there, every name and shape of
   state_dicts.json is compared; without it a few rows of each family. No standard size has values
   here: declaring the parameters of the largest takes a millisecond, drawing its 89 million values
   half a minute. */
#include "json.h"
#include <float.h>
#include <locale.h>

/* ---- random numbers: the known answers of Philox 4x32 ---- */

static void philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1,
                   uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    uint32_t x[4];
    x[0] = c0;
    x[1] = c1;
    x[2] = c2;
    x[3] = c3;
    mmixi_philox(x, k0, k1);
    IS(x[0], a);
    IS(x[1], b);
    IS(x[2], c);
    IS(x[3], d);
}
static void known_answers(void)
{
    doing("random");
    philox(0, 0, 0, 0, 0, 0, 0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u);
    philox(~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu);
    philox(0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u,
           0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u);
}

/* ---- standard sizes: a few rows of each family, and the counts ---- */

/* A backbone, or with `head` DINO's head on features of that width. Counts are those of the
   systems' own classes. */
typedef struct standard {
    const char *name;                            /* in state_dicts.json */
    mmix_vision_config config;
    size_t head, parameters, tensors;
    /* multiply-adds of 224 x 224 pixels, as published, in 1e9; or 0 */
    double gmac;
} standard;

static size_t add_backbone(standard *out, size_t n, const char *name, mmix_vision_config config,
                           size_t parameters, size_t tensors, double gmac)
{
    out[n].name = name;
    out[n].config = config;
    out[n].parameters = parameters;
    out[n].tensors = tensors;
    out[n].gmac = gmac;
    return n + 1;
}
enum { STANDARDS = 24 };
static size_t standards(standard out[STANDARDS])
{
    static const size_t head[][2] = { { 192, 21958912 },
                                      { 256, 22089984 },
                                      { 384, 22352128 },
                                      { 512, 22614272 },
                                      { 768, 23138560 } };
    static const char *const head_name[] = {"dino_head_192", "dino_head_256", "dino_head_384",
                                            "dino_head_512", "dino_head_768"};
    size_t n = 0;
    memset(out, 0, STANDARDS * sizeof *out);
    n = add_backbone(out, n, "vit_tiny_16", mmix_vision_config_vit(192, 16), 5524416, 150, 0);
    n = add_backbone(out, n, "vit_tiny_8", mmix_vision_config_vit(192, 8), 5526720, 150, 0);
    n = add_backbone(out, n, "vit_small_16", mmix_vision_config_vit(384, 16), 21665664, 150, 4.60);
    n = add_backbone(out, n, "vit_small_8", mmix_vision_config_vit(384, 8), 21670272, 150, 0);
    n = add_backbone(out, n, "vit_base_16", mmix_vision_config_vit(768, 16), 85798656, 150, 17.6);
    n = add_backbone(out, n, "vit_base_8", mmix_vision_config_vit(768, 8), 85807872, 150, 0);
    n = add_backbone(out, n, "linvit_base_16", mmix_vision_config_linearvit(768), 85798656, 150, 0);
    n = add_backbone(out, n, "dinovim_tiny_16", mmix_vision_config_dinovim(256), 10706048, 365,
                     2.64);
    n = add_backbone(out, n, "dinovim_small_16", mmix_vision_config_dinovim(512), 40354048, 365,
                     8.97);
    n = add_backbone(out, n, "dinovim_base_16", mmix_vision_config_dinovim(768), 88974720, 365,
                     19.1);
    n = add_backbone(out, n, "mambareg_tiny_16", mmix_vision_config_mambareg(256), 10674048, 366,
                     0);
    n = add_backbone(out, n, "mambareg_small_16", mmix_vision_config_mambareg(512), 40290048, 366,
                     0);
    n = add_backbone(out, n, "mambareg_base_16", mmix_vision_config_mambareg(768), 88878720, 366,
                     0);
    /* with their classifiers of 1,000 classes; the papers say 7, 26, 98, 99 and 341 million */
    n = add_backbone(out, n, "vim_tiny_16", mmix_vision_config_vim(192, 0), 7148008, 415, 0);
    n = add_backbone(out, n, "vim_small_16", mmix_vision_config_vim(384, 0), 25796584, 415, 0);
    n = add_backbone(out, n, "vim_base_16", mmix_vision_config_vim(768, 0), 97598440, 415, 0);
    n = add_backbone(out, n, "mambareg_neck_small_16", mmix_vision_config_vim(384, 12), 27801064,
                     418, 0);
    n = add_backbone(out, n, "mambareg_neck_base_16", mmix_vision_config_vim(768, 12), 99301096,
                     418, 0);
    n = add_backbone(out, n, "mambareg_neck_large_16", mmix_vision_config_vim(1024, 16), 341222376,
                     826, 0);
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
        out[n].name = head_name[i];
        out[n].head = head[i][0];
        out[n].parameters = head[i][1];
        out[n++].tensors = 8;
    }
    return n;
}

/* The parameters of a standard size, without values, declared as mmix_vision_load does; a
   backbone's in v, whose blocks the caller frees. The caller destroys the list. */
static mmix_params *declared(mmix_ctx *m, const standard *s, mmix_vision *v)
{
    mmix_params *p = mmix_params_create(m);
    mmix_dino_head head;
    memset(v, 0, sizeof *v);
    if (s->head) {
        CHECK_AT(mmix_dino_head_init(&head, p, "", s->head, 2048, 256, 65536, 3) == 0, s->name);
        return p;
    }
    v->config = s->config;
    v->params = p;
    v->block = (mmixi_vision_block *)calloc(s->config.depth, sizeof *v->block);
    mmixi_vision_declare(v);
    CHECK_AT(!mmix_error(m), s->name);
    return p;
}

/* A backbone's multiply-adds; the names alone say what decays; its values do not fit a small
   limit. */
static void backbone(const standard *s, const mmix_vision *v)
{
    mmix_params *p = mmix_vision_params(v);
    mmix_ctx *m = p->m;
    double gmac = mmix_vision_flops(v, 224, 224) / 2e9;
    if (s->gmac > 0)
        COMPARE(fabs(gmac / s->gmac - 1) < 0.05, "multiply-adds", gmac, s->gmac);
    for (size_t i = 0; i < p->count; i++) {
        const mmix_param *q = &p->at[i];
        size_t n = strlen(q->name);
        int bias = n > 5 && !strcmp(q->name + n - 5, ".bias");
        int rates = strstr(q->name, ".mixer.A_") != NULL;
        COMPARE(q->decay == (mmix_ndim(q->tensor) > 1 && !bias && !rates), q->name, q->decay,
                !q->decay);
    }
    m->options.allocator.byte_limit = mmix_memory(m).bytes + (4 << 20);
    CHECK(mmix_params_allocate(p) == -1);
    m->options.allocator.byte_limit = 0;
    mmix_error_clear(m);
}
static void standard_sizes(void)
{
    static const struct { const char *model, *name; size_t ndim, shape[4]; } row[] = {
        {"vit_tiny_8", "pos_embed", 3, {1, 785, 192}},
        {"vit_tiny_8", "patch_embed.proj.weight", 4, {192, 3, 8, 8}},
        {"vit_small_16", "pos_embed", 3, {1, 197, 384}},
        {"vit_small_16", "blocks.11.attn.qkv.weight", 2, {1152, 384}},
        {"vit_base_8", "blocks.0.attn.qkv.bias", 1, {2304}},
        {"vit_base_8", "blocks.11.mlp.fc2.weight", 2, {768, 3072}},
        {"vit_base_16", "norm.weight", 1, {768}},
        {"linvit_base_16", "cls_token", 3, {1, 1, 768}},
        {"linvit_base_16", "blocks.5.attn.proj.weight", 2, {768, 768}},
        {"linvit_base_16", "blocks.5.mlp.fc1.bias", 1, {3072}},
        {"dinovim_tiny_16", "pos_embed", 3, {1, 197, 256}},
        {"dinovim_tiny_16", "layers.23.mixer.in_proj.weight", 2, {1160, 256}},
        {"dinovim_tiny_16", "layers.23.mixer.dt_b_bias", 1, {8}},
        {"dinovim_small_16", "layers.0.mixer.conv1d_b.weight", 3, {1152, 1, 4}},
        {"dinovim_small_16", "layers.0.mixer.conv1d_b.bias", 1, {1152}},
        {"dinovim_small_16", "layers.0.mixer.norm_b.weight", 1, {1024}},
        {"dinovim_base_16", "layers.7.mixer.out_proj.weight", 2, {768, 1536}},
        {"dinovim_base_16", "layers.7.mixer.A_log_b", 1, {24}},
        {"dinovim_base_16", "layers.7.mixer.D_b", 1, {24}},
        {"mambareg_tiny_16", "cls_token", 3, {1, 12, 256}},
        {"mambareg_tiny_16", "pos_embed_cls", 3, {1, 12, 256}},
        {"mambareg_small_16", "pos_embed", 3, {1, 49, 512}},
        {"mambareg_small_16", "layers.23.norm.weight", 1, {512}},
        {"mambareg_base_16", "layers.0.mixer.conv1d.weight", 3, {1664, 1, 4}},
        {"mambareg_base_16", "norm_f.weight", 1, {768}},
        {"vim_tiny_16", "pos_embed", 3, {1, 197, 192}},
        {"vim_tiny_16", "layers.23.mixer.x_proj_b.weight", 2, {44, 384}},
        {"vim_small_16", "layers.5.mixer.dt_proj_b.bias", 1, {768}},
        {"vim_base_16", "layers.0.mixer.A_b_log", 2, {1536, 16}},
        {"vim_base_16", "head.weight", 2, {1000, 768}},
        {"mambareg_neck_small_16", "neck.weight", 2, {192, 384}},
        {"mambareg_neck_base_16", "norm_neck.weight", 1, {2304}},
        {"mambareg_neck_large_16", "head.weight", 2, {1000, 2048}},
        {"mambareg_neck_large_16", "layers.47.mixer.D_b", 1, {2048}},
        {"dino_head_256", "mlp.0.weight", 2, {2048, 256}},
        {"dino_head_256", "mlp.2.weight", 2, {2048, 2048}},
        {"dino_head_768", "mlp.4.weight", 2, {256, 2048}},
        {"dino_head_768", "mlp.4.bias", 1, {256}},
        {"dino_head_768", "last_layer.weight_g", 2, {65536, 1}},
        {"dino_head_768", "last_layer.weight_v", 2, {65536, 256}}
    };
    standard s[STANDARDS];
    mmix_ctx *m = context(1, 0);
    const size_t n = standards(s), before = mmix_memory(m).bytes;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        mmix_vision v;
        mmix_params *p = declared(m, &s[i], &v);
        doing(s[i].name);
        CHECK_AT(p && p->elements == s[i].parameters, s[i].name);
        CHECK_AT(p && p->count == s[i].tensors, s[i].name);
        for (size_t r = 0; r < sizeof row / sizeof *row; r++)
            if (!strcmp(row[r].model, s[i].name)) {
                CHECK_AT(has_shape(mmix_params_find(p, row[r].name), (int)row[r].ndim,
                                   row[r].shape),
                         row[r].name);
                found++;
            }
        if (!s[i].head)
            backbone(&s[i], &v);
        mmix_params_destroy(p);
        free(v.block);
    }
    CHECK(n == STANDARDS && found == sizeof row / sizeof *row);
    CHECK(mmix_memory(m).bytes == before);
    mmix_destroy(m);
}

/* ---- standard sizes: every name and shape of ../shared/reference/state_dicts.json ----

   {"vit_tiny_16": {"config": {…}, "parameters": n,
                    "tensors": [["cls_token", [1, 1, 192]], …]}, …} */

#define STATE_DICTS "../shared/reference/state_dicts.json"
#define SCRATCH "build/internals_test.safetensors"

#ifdef MMIX_NO_STDIO

static void state_dicts(void)
{
    puts("no " STATE_DICTS " in this build");
    skipped++;
}

#else

static size_t size_in(const Json *object, const char *key)
{
    return json_size(json_find(object, key));
}

/* What the file says of the configuration is what the library's function returns. */
static void same_config(const standard *s, const Json *config)
{
    const mmix_vision_config *c = &s->config;
    const char *model = json_text(json_find(config, "model"));
    const char *mixer = json_text(json_find(config, "mixer"));
    if (s->head) {
        CHECK_AT(size_in(config, "in_dim") == s->head && size_in(config, "out_dim") == 65536,
                 s->name);
        CHECK_AT(size_in(config, "hidden") == 2048 && size_in(config, "bottleneck") == 256
                 && size_in(config, "nlayers") == 3, s->name);
        return;
    }
    CHECK_AT(size_in(config, "dim") == c->dim && size_in(config, "depth") == c->depth, s->name);
    CHECK_AT(size_in(config, "patch") == c->patch && size_in(config, "grid") == c->grid, s->name);
    CHECK_AT(size_in(config, "registers") == c->registers, s->name);
    if (c->mixer == MMIX_MIXER_SSD) {
        CHECK_AT(model && !strcmp(model, "vim") && !mixer, s->name);
        CHECK_AT(c->class_token == (c->registers ? MMIX_CLASS_REGISTERS : MMIX_CLASS_RELEASED),
                 s->name);
    } else {
        CHECK_AT(model && !strcmp(model, "vit") && mixer
                 && !strcmp(mixer, c->mixer == MMIX_MIXER_LINEAR ? "linear" : "softmax"), s->name);
        CHECK_AT(size_in(config, "heads") == c->heads, s->name);
        CHECK_AT(json_number(json_find(config, "mlp_ratio"), -1) - c->mlp_ratio == 0, s->name);
        CHECK_AT(c->class_token == MMIX_CLASS_FIRST, s->name);
    }
}

/* Every name of the file is a parameter of the same shape, none stands there twice, and there are
   as many: so nothing else is there. */
static void same_tensors(const standard *s, const mmix_params *p, const Json *list)
{
    unsigned char seen[512];
    size_t elements = 0, missing = 0, twice = 0, apart = 0;
    char where[160] = "";
    memset(seen, 0, sizeof seen);
    CHECK_AT(list && list->length == p->count && p->count <= sizeof seen, s->name);
    for (const Json *t = json_first(list); t; t = t->next) {
        const Json *first = json_first(t), *sizes = first ? first->next : NULL, *d;
        const char *name = json_text(first);
        size_t i = 0, ndim = 0, n = 1, shape[MMIX_MAX_DIMS];
        while (name && i < p->count && strcmp(p->at[i].name, name))
            i++;
        for (d = json_first(sizes); d && ndim < MMIX_MAX_DIMS; d = d->next, ndim++)
            n *= shape[ndim] = json_size(d);
        elements += n;
        if (!name || i == p->count) missing++;
        else if (i < sizeof seen && seen[i]++) twice++;
        else if (!has_shape(p->at[i].tensor, (int)ndim, shape))
            apart++;
        else continue;
        if (!*where)
            snprintf(where, sizeof where, "%s, first %s", s->name, name ? name : "without a name");
    }
    CHECK_AT(missing == 0, where);
    CHECK_AT(twice == 0, where);
    CHECK_AT(apart == 0, where);
    CHECK_AT(elements == p->elements, s->name);
}

static void state_dicts(void)
{
    enum { MOST = 1 << 20 };
    FILE *f = fopen(STATE_DICTS, "rb");
    char *text;
    size_t size, n, listed = 0;
    standard s[STANDARDS];
    mmix_ctx *m;
    Json *file;
    if (!f) {
        puts("no " STATE_DICTS " here");
        skipped++;
        return;
    }
    text = (char *)calloc(MOST + 1, 1);
    size = fread(text, 1, MOST, f);
    fclose(f);
    m = context(1, 0);
    n = standards(s);
    file = json_read(text);
    CHECK(size < MOST && file);
    free(text);
    for (size_t i = 0; i < n; i++) {
        if (s[i].config.mixer == MMIX_MIXER_SELECTIVE) continue;         /* not in the file */
        const Json *said = json_find(file, s[i].name);
        mmix_vision v;
        mmix_params *p = declared(m, &s[i], &v);
        listed += said != NULL;
        CHECK_AT(said && size_in(said, "parameters") == p->elements, s[i].name);
        same_config(&s[i], json_find(said, "config"));
        same_tensors(&s[i], p, json_find(said, "tensors"));
        mmix_params_destroy(p);
        free(v.block);
    }
    /* the file knows no size that the table above does not */
    CHECK(file && file->length == listed);
    json_free(file);
    mmix_destroy(m);
}

#endif

/* ---- parameters in use ---- */

static void packed_parameters(void)
{
    mmix_ctx *m = mmix_create(NULL);
    size_t shape[2] = {77, 51}, one[1] = {5};
    mmix_params *p = mmix_params_create(m), *q = mmix_params_create(m);
    mmix_tensor *w, *x, *y;
    real *plain, *values;
    doing("packed parameters");
    mmix_params_add(p, "", "w", 2, shape, MMIX_INIT_NORMAL, 1, 0);
    mmix_params_add(p, "", "b", 1, one, MMIX_INIT_NORMAL, 1, 0);
    mmix_params_add(q, "", "w", 2, shape, MMIX_INIT_CONSTANT, 2, 0);
    mmix_params_add(q, "", "b", 1, one, MMIX_INIT_CONSTANT, 2, 0);
    BAD_INT(mmix_params_pack(p, 1), "mmix_params_pack", "allocate");
    mmix_params_allocate(p);
    mmix_params_allocate(q);
    w = mmix_params_find(p, "w");
    plain = (real *)malloc(65 * 77 * sizeof(real));
    values = (real *)malloc(77 * 51 * sizeof(real));
    for (size_t rows = 1; rows <= 65; rows += rows < 4 ? 1 : 61)
        for (int change = 0; change < 7; change++) {
            mmix_adamw o = mmix_adamw_config_default();
            mmix_optimizer state;
            x = mmix_fill_normal(m, mmix_new2(m, rows, 51), 1, rows);
            IS(mmix_params_pack(p, 1), 0);
            CHECK(w->packed != NULL);
            IS(mmix_params_find(p, "b")->packed != NULL, 0);
            if (change == 0) mmix_params_pack(p, 1);
            if (change == 1)
                mmix_fill(mmix_slice(m, w, 0, 3, 2), 7);
            if (change == 2) mmix_fill_normal(m, w, 1, 99);
            if (change == 3) {
                mmix_read(w, values);
                values[100] += 1;
                mmix_write(w, values);
            }
            if (change == 4) mmix_ema(p, q, 0.5);
            if (change == 5) {
                mmix_params_save(q, SCRATCH);
                mmix_params_load(p, SCRATCH);
                remove(SCRATCH);
            }
            if (change == 6) {
                mmix_adamw_init(&state, p);
                mmix_record(m, 1);
                mmix_backward(m, mmix_mean(m, mmix_linear(m, x, w, NULL)));
                mmix_record(m, 0);
                mmix_adamw_step(&state, &o, 0, NULL);
                mmix_optimizer_free(&state);
                mmix_params_require_grad(p, 0);
            }
            y = mmix_linear(m, x, w, NULL);
            mmix_read(y, plain);
            IS(w->packed != NULL, change == 0);
            w->packed = NULL;
            CHECK(!memcmp(mmix_data(mmix_linear(m, x, w, NULL)), plain, rows * 77 * sizeof(real)));
            IS(mmix_params_pack(p, 1), 0);
            CHECK(!memcmp(mmix_data(mmix_linear(m, x, w, NULL)), plain, rows * 77 * sizeof(real)));
            FINE(m);
            mmix_reset(m);
        }
    IS(mmix_params_pack(p, 0), 0);
    CHECK(w->packed == NULL && p->packed == NULL);
    IS(mmix_params_pack(p, 1), 0);
    free(plain);
    free(values);
    mmix_params_destroy(p);
    mmix_params_destroy(q);
    mmix_destroy(m);
}

/* a gradient that is not finite: no list of a step is touched */
static void two_lists(void)
{
    mmix_ctx *m = mmix_create(NULL);
    doing("two lists");
    const size_t n = 3;
    mmix_optimizer pair[2];
    const mmix_adamw o = mmix_adamw_config_default();
    mmix_params *p[2];
    for (int i = 0; i < 2; i++) {
        p[i] = mmix_params_create(m);
        mmix_params_add(p[i], "", i ? "second" : "first", 1, &n, MMIX_INIT_CONSTANT, 1, 0);
        IS(mmix_params_allocate(p[i]) || mmix_adamw_init(&pair[i], p[i]), 0);
    }
    for (int bad = 1; bad >= 0; bad--) {
        mmix_record(m, 1);
        mmix_tensor *w = mmix_fill(mmix_new1(m, 3), 2);
        mmix_tensor *loss = mmix_add(m, mmix_sum(m, mmix_mul(m, p[0]->at[0].tensor, w)),
                                     mmix_sum(m, mmix_mul(m, p[1]->at[0].tensor, w)));
        mmix_backward(m, loss);
        if (bad)
            mmix_data(mmix_grad(p[1]->at[0].tensor))[1] = (real)HUGE_VAL;
        if (bad)
            BAD_INT(mmix_adamw_step(&pair[1], &o, 0, NULL) == 0, "mmix_adamw_step",
                    "the gradient of second");
        if (bad)
            BAD_INT(mmixi_optimizer_lists(m, pair, 2, &o, 1, 0, NULL) == -1, "mmix_adamw_step",
                    "the gradient of second");
        else NEAR(mmixi_optimizer_lists(m, pair, 2, &o, 1, 0, NULL), sqrt(24.0), 1e-5);
        for (int i = 0; i < 2; i++) {
            IS(pair[i].steps[0], !bad);
            IS(mmix_data(p[i]->at[0].tensor)[0] == 1, bad);
            IS(pair[i].m[0] == 0, bad);
            mmix_params_zero_grad(p[i]);
        }
        mmix_reset(m);
    }
    for (int i = 0; i < 2; i++) {
        mmix_optimizer_free(&pair[i]);
        mmix_params_destroy(p[i]);
    }
    FINE(m);
    mmix_destroy(m);
}

/* ---- texts: JSON, decimal points, tables of configs, checksums, what is printed ---- */

static uint64_t bits_of(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, 8);
    return bits;
}

static void json_values(void)
{
    static const char source[] = " {\"n\":-12.5e-1,\"tenth\":0.1,\"big\":[18446744073709551615],"
        "\"beyond\":[18446744073709551616],\"half\":[-12.5e-1],\"texts\":[\"7\"],"
        "\"s\":\"\\u20ac \\u0041\",\"t\":true,\"f\":false,\"z\":null,"
        "\"list\":[1,[2,3] , {\"k\" : 4 }],\"none\":[],\"o\":{\"n\":7}}";
    mmix_ctx *m = context(1, 0);
    char text[sizeof source], wrong[] = "[1, 2";
    const size_t before = mmix_memory(m).bytes;
    const char *root = text, *list, *i, *k = "?";
    size_t n, sizes[3];
    memcpy(text, source, sizeof text);
    CHECK(mmixi_json_open(m, "text", text, sizeof text - 1) == 0);
    list = mmixi_json_find(root, "list");
    CHECK(bits_of(mmixi_json_number(mmixi_json_find(root, "n"), 0)) == bits_of(-1.25));
    CHECK(bits_of(mmixi_json_number(mmixi_json_find(root, "tenth"), 0)) == bits_of(0.1));
    if (sizeof(size_t) == 8)
        CHECK(mmixi_json_sizes(mmixi_json_find(root, "big"), &n, 1) == 1 && n == SIZE_MAX);
    CHECK(mmixi_json_sizes(mmixi_json_find(root, "beyond"), &n, 1) == -1
          && mmixi_json_sizes(mmixi_json_find(root, "half"), &n, 1) == -1
          && mmixi_json_sizes(mmixi_json_find(root, "n"), &n, 1) == -1
          && mmixi_json_sizes(mmixi_json_find(root, "s"), &n, 1) == -1
          && mmixi_json_sizes(mmixi_json_find(root, "texts"), &n, 1) == -1);
    CHECK(!strcmp(mmixi_json_text(mmixi_json_find(root, "s")), "\xE2\x82\xAC A"));
    CHECK(mmixi_json_flag(mmixi_json_find(root, "t"), 5) == 1
        && mmixi_json_flag(mmixi_json_find(root, "f"), 5) == 0);
    CHECK(mmixi_json_flag(mmixi_json_find(root, "z"), 5) == 5 && mmixi_json_flag(NULL, 5) == 5);
    CHECK(mmixi_json_find(root, "k") == NULL && mmixi_json_find(list, "k") == NULL
        && mmixi_json_find(NULL, "k") == NULL);
    i = mmixi_json_next(list, list, &k);
    CHECK(i && !k && mmixi_json_number(i, 0) > 0.5 && mmixi_json_sizes(i, sizes, 3) == -1);
    i = mmixi_json_next(list, i, &k);
    CHECK(mmixi_json_sizes(i, sizes, 3) == 2 && sizes[1] == 3
          && mmixi_json_sizes(i, sizes, 1) == -1);
    i = mmixi_json_next(list, i, &k);
    CHECK(mmixi_json_number(i, -1) < 0 && mmixi_json_number(mmixi_json_find(i, "k"), -1) == 4);
    CHECK(mmixi_json_next(list, i, &k) == NULL);
    i = mmixi_json_find(root, "none");
    CHECK(i && mmixi_json_next(i, i, &k) == NULL && mmixi_json_sizes(i, sizes, 3) == 0);
    CHECK(mmixi_json_number(mmixi_json_find(mmixi_json_find(root, "o"), "n"), -1) == 7);
    CHECK(mmix_memory(m).bytes == before && !mmix_error(m));
    CHECK(mmixi_json_open(m, "text", wrong, 5) == -1);
    CHECK(!strcmp(mmix_error(m), "text: JSON byte 5: expected ',' or ']', found the end"));
    CHECK(mmix_memory(m).bytes == before);
    mmix_destroy(m);
}
/* Numbers of configs where the locale writes another decimal point. */
static void decimal_points(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                         "ps_AF.UTF-8", "ps_AF",      "fa_IR.UTF-8" };
    static const double values[] = {0.1, -1.25e-7, 1e300, 3, 0.30000000000000004};
    char found[MMIXI_NUMBER_TEXT] = "", text[MMIXI_NUMBER_TEXT], back[MMIXI_NUMBER_TEXT];
    mmix_ctx *m = mmix_create(NULL);
    mmixi_model_file plain = mmixi_model_begin(m, NULL, NULL), local = plain;
    mmix_dino_config c;
    int some = 0;
    mmixi_point(text, "0.5e-3", ".", "\xD9\xAB");                 /* of two bytes, both ways */
    CHECK(!strcmp(text, "0\xD9\xAB""5e-3"));
    mmixi_point(back, text, "\xD9\xAB", ".");
    CHECK(!strcmp(back, "0.5e-3"));
    c = mmix_dino_config_default();
    mmixi_model_config(&plain, "config", "vision.", &c.vision, mmixi_vision_settings);
    mmixi_model_config(&plain, NULL, "", &c, mmixi_dino_settings);
    FINE(m);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_NUMERIC, names[i])) continue;
        some += strcmp(localeconv()->decimal_point, ".") != 0;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            snprintf(back, sizeof back, "%.17g", values[k]);
            mmixi_point(found, back, localeconv()->decimal_point, ".");
            CHECK_AT(bits_of(mmixi_json_number(found, -1)) == bits_of(values[k]), names[i]);
            mmixi_text printed = { text, 0, sizeof text };
            mmixi_print_real(&printed, 17, values[k]);
            CHECK_AT(!strcmp(text, found), names[i]);
        }
        local.n_metadata = 0;
        mmixi_model_config(&local, "config", "vision.", &c.vision, mmixi_vision_settings);
        mmixi_model_config(&local, NULL, "", &c, mmixi_dino_settings);
        FINE(m);
        CHECK_AT(!strcmp(plain.config.out, local.config.out), names[i]);
        setlocale(LC_NUMERIC, "C");
    }
    mmix_destroy(m);
    if (!some) {
        puts("no locale with another decimal point here: skipped");
        skipped++;
    }
}
/* The entry of this name; its end if there is none. */
static const mmixi_setting *setting_of(const mmixi_setting *s, const char *name)
{
    while (s->name && strcmp(s->name, name)) s++;
    return s;
}
/* Bytes of a setting. */
static size_t setting_bytes(const mmixi_setting *s)
{
    switch (s->kind) {
    case MMIXI_SIZE_NUMBER: return s->count * sizeof(size_t);
    case MMIXI_INT_NUMBER: return s->count * sizeof(int);
    case MMIXI_REAL_NUMBER: return s->count * sizeof(double);
    default: return sizeof(uint64_t);
    }
}
/* The tables of configs go through their structs in order, gaps are the compiler's alone, up to
   the last member. */
static void config_tables(void)
{
    static mmix_vision_config v;
    static mmix_decoder_config d;
    static mmix_dino_config c;
    static mmix_distill_config l;
    const struct { const mmixi_setting *table; size_t begin, size; const char *last;
    } all[] = { { mmixi_vision_settings, 0, sizeof v, "augment" },
                { mmixi_decoder_settings, 0, sizeof d, "layers" },
                { mmixi_dino_settings, offsetof(mmix_dino_config, head_hidden), sizeof c,
                  "mask_part" },
                { mmixi_stage_settings, 0, sizeof l.stage[3], "teacher_inputs" },
                { mmixi_distill_settings, offsetof(mmix_distill_config, stages), sizeof l,
                  "teacher_inputs" } };
    const struct {
        const mmixi_setting *table;
        const void *from, *at;
        const char *name;
        size_t count;
        double low, high;
    } some[] = {
        { mmixi_vision_settings, &v, &v.drop_path, "drop_path", 1, 0, 0.99 },
        { mmixi_vision_settings, &v, &v.mamba.d_inner, "mamba.d_inner", 1, 0, INT32_MAX },
        { mmixi_vision_settings, &v, &v.mamba.bidirectional, "mamba.bidirectional", 1, -INT32_MAX,
          INT32_MAX },
        { mmixi_vision_settings, &v, &v.class_token, "class_token", 1, 0, MMIX_CLASS_LAST },
        { mmixi_vision_settings, &v, &v.blocks, "blocks", MMIX_VISION_BLOCKS, 0, MMIX_BLOCK_SWIN },
        { mmixi_vision_settings, &v, &v.mixer, "mixer", 1, MMIX_MIXER_SOFTMAX,
          MMIX_MIXER_SELECTIVE },
        { mmixi_vision_settings, &v, &v.depth, "depth", 1, 1, MMIXI_DEPTH_MAX },
        { mmixi_decoder_settings, &d, &d.mixer, "mixer", 1, MMIX_DECODER_ATTENTION,
          MMIX_DECODER_LISTED },
        { mmixi_decoder_settings, &d, &d.layers, "layers", 4 * MMIX_DECODER_LAYERS, 0,
          MMIX_DECODER_NONE },
        { mmixi_decoder_settings, &d, &d.depth, "depth", 1, 1, MMIXI_DEPTH_MAX },
        { mmixi_decoder_settings, &d, &d.rope.sections, "rope.sections", 3, 0, DBL_MAX },
        { mmixi_decoder_settings, &d, &d.bias, "bias", 1, 0, 2 },
        { mmixi_decoder_settings, &d, &d.media, "media", 1, 0, INT32_MAX },
        { mmixi_decoder_settings, &d, &d.mmate.window, "mmate.window", 3, 0, DBL_MAX },
        { mmixi_dino_settings, &c, &c.augment.global_scale, "augment.global_scale", 2, -DBL_MAX,
          DBL_MAX },
        { mmixi_dino_settings, &c, &c.augment.deviation, "augment.deviation", 3, -DBL_MAX,
          DBL_MAX },
        { mmixi_dino_settings, &c, &c.batch, "batch", 1, 1, INT32_MAX },
        { mmixi_dino_settings, &c, &c.seed, "seed", 2, 0, UINT32_MAX },
        { mmixi_dino_settings, &c, &c.read, "read", 1, 0, MMIX_READ_BOTH },
        { mmixi_vision_settings, &v, &v.deviation, "deviation", 1, 0, 10 },
        { mmixi_stage_settings, &l.stage[3], &l.stage[3].steps, "steps", 1, 0, DBL_MAX },
        { mmixi_distill_settings, &l, &l.stages, "stages", 1, 1, MMIX_MAX_STAGES }
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const mmixi_setting *s = all[i].table;
        size_t at = all[i].begin;
        for (; s->name; at = s->offset + setting_bytes(s), s++) {
            CHECK_AT(s->count && s->low <= s->high, s->name);
            /* 48 blocks are all of them */
            CHECK_AT(s->offset >= at && s->offset - at < 8, s->name);
        }
        CHECK_AT(at <= all[i].size && all[i].size - at < 8, all[i].last);
        CHECK_AT(!strcmp(s[-1].name, all[i].last), all[i].last);
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const mmixi_setting *s = setting_of(some[i].table, some[i].name);
        CHECK_AT((const char *)some[i].from + s->offset == (const char *)some[i].at
                     && s->count == some[i].count && !(s->low < some[i].low)
                     && !(s->low > some[i].low) && !(s->high < some[i].high)
                     && !(s->high > some[i].high),
                 some[i].name);
    }
    /* what was set is what is got, halves of a number too */
    for (int i = 0; i < 2; i++) {
        double x = 1;
        for (const mmixi_setting *s = mmixi_dino_settings; s->name; s++, x++)
            for (size_t k = 0; k < s->count; k++, x++) {
                if (!i) mmixi_setting_put(s, &c, k, x);
                else
                    CHECK_AT(mmixi_setting_number(s, &c, k) >= x
                                 && mmixi_setting_number(s, &c, k) <= x,
                             s->name);
            }
    }
    CHECK(c.head_hidden == 1 && c.augment.mean[2] > c.augment.mean[1]
          && c.seed >> 32 == (c.seed & UINT32_MAX) - 1);
}
/* The standard's example, and slices of sixteen bytes beside bits, at every length and place. */
static void checksums(void)
{
    static mmixi_crc crc;
    static unsigned char bytes[64];
    mmixi_crc_fill(&crc);
    CHECK(mmixi_crc32(&crc, (const unsigned char *)"123456789", 9) == 0xCBF43926u);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i + 7 * i + 201);
    for (size_t begin = 0; begin < 4; begin++)
        for (size_t n = 0; begin + n <= sizeof bytes; n++) {
            uint32_t rest = 0xFFFFFFFFu;
            for (size_t i = 0; i < n; i++) {
                rest ^= bytes[begin + i];
                for (int bit = 0; bit < 8; bit++)
                    rest = rest >> 1 ^ (rest & 1 ? 0xEDB88320u : 0);
            }
            CHECK(mmixi_crc32(&crc, bytes + begin, n) == (rest ^ 0xFFFFFFFFu));
        }
}
/* What is printed stops at its room, with a zero, however much more there is. */
static void printed_room(void)
{
    char out[12];
    mmixi_text t = {NULL, 0, 0};
    mmixi_print(&t, "%s", "0123456789");
    mmixi_print(&t, "%d", 12345);
    CHECK(t.at == 15);                           /* measured */
    memset(out, 'x', sizeof out);
    t.out = out;
    t.at = 0;
    t.room = 8;
    mmixi_print(&t, "%s", "01234");
    CHECK(t.at == 5 && !strcmp(out, "01234"));
    for (int i = 0; i < 3; i++)
        mmixi_print(&t, "%s", "56789");
    CHECK(t.at == 7 && !strcmp(out, "0123456") && out[8] == 'x' && out[11] == 'x');
}

/* ---- numbers: best scores, orthogonal rows, very many tokens ---- */

/* Scores are taken until they make up enough; rounding may leave their sum below that. */
static void best_scores(void)
{
    const mmixi_scored falling[4] = { { 4, 0 }, { 2, 1 }, { 1, 2 }, { 1, 3 } };
    CHECK(mmixi_scored_reach(falling, 4, 0) == 0);
    CHECK(mmixi_scored_reach(falling, 4, 4) == 1);
    CHECK(mmixi_scored_reach(falling, 4, 4.5) == 2);
    CHECK(mmixi_scored_reach(falling, 4, 8) == 4);
    CHECK(mmixi_scored_reach(falling, 3, 8) == 3);
    CHECK(mmixi_scored_reach(falling, 4, 8.5) == 4);
}
/* Rows of Hilbert's matrix are all but parallel: turned until they are not, the longest first. */
static void orthogonal_rows(void)
{
    double v[8 * 9], sigma[8];
    for (size_t i = 0; i < 8; i++)
        for (size_t d = 0; d < 9; d++)
            v[i * 9 + d] = 1 / (double)(i + d + 1);
    mmixi_singular(v, 8, 9, sigma);
    for (size_t a = 0; a < 8; a++)
        for (size_t b = 0; b <= a; b++) {
            double dot = 0;
            for (size_t d = 0; d < 9; d++)
                dot += v[a * 9 + d] * v[b * 9 + d];
            CHECK(fabs(dot / (sigma[a] * sigma[b]) - (a == b)) <= 1e-14 && sigma[a] <= sigma[b]);
        }
}
/* A million tokens that are alike: each has cosine 1. */
static void many_tokens(void)
{
    mmix_ctx *m = mmix_create(NULL);
    mmix_tensor *x = mmix_fill(mmix_new3(m, 1, 1000000, 2), 0.1);
    NEAR(mmix_item(mmixi_unlike(m, x, x)), 0, 4 * EPS);
    FINE(m);
    mmix_destroy(m);
}

/* ---- positions of media on three axes ---- */

/* The positions (3, L) of a text with spans. */
static const int32_t *positions_of(mmix_ctx *m, const mmix_span *spans, size_t n, size_t L)
{
    mmixi_layout a;
    mmix_layout layout;
    size_t next = 0;
    const size_t shape[2] = { 1, L };
    memset(&layout, 0, sizeof layout);
    layout.spans = spans;
    layout.n_spans = n;
    mmix_tensor *tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    if (mmixi_layout_begin(m, "test", &a, &layout, "tokens:i32 BL", tokens, NULL, &next))
        return NULL;
    return mmix_data_i32(a.all.positions);
}
/* Those of a golden model of Qwen2-VL, whose frames are `rate` apart a second; 0: one apart. */
static void golden_positions(const char *path, float rate)
{
    enum { SPANS = 3 };
    mmix_ctx *m = mmix_create(NULL);
    mmix_archive *a = mmix_archive_open(m, path);
    const mmix_entry *positions = mmix_archive_find(a, "positions");
    mmix_span span[SPANS];
    int32_t at[SPANS][5], expected[3 * 256];
    float seconds[SPANS];
    size_t n = mmix_archive_find(a, "spans")->shape[0], L = positions->shape[1];
    mmix_archive_read(m, a, mmix_archive_find(a, "spans"), MMIX_FILE_I32, at, 5 * n);
    mmix_archive_read(m, a, mmix_archive_find(a, "seconds"), MMIX_FILE_F32, seconds, n);
    mmix_archive_read(m, a, positions, MMIX_FILE_I32, expected, 3 * L);
    memset(span, 0, sizeof span);
    for (size_t i = 0; i < n; i++) {
        span[i].start = (size_t)at[i][0];
        for (int axis = 0; axis < 3; axis++) span[i].grid[axis] = (size_t)at[i][1 + axis];
        if (at[i][4]) span[i].frame_step = (double)(rate * seconds[i]);
    }
    const int32_t *found = positions_of(m, span, n, L);
    CHECK_AT(found && !memcmp(found, expected, 3 * L * sizeof *found), path);
    FINE(m);
    mmix_archive_close(a);
    mmix_destroy(m);
}
static void media_positions(void)
{
    /* a word, three times 2 x 2 tokens that are 50 apart, two words: behind the largest */
    static const mmix_span film = { 1, { 3, 2, 2 }, 0, 50 };
    static const mmix_span thirds = { 0, { 4, 1, 1 }, 0, 4.0 / 3 };
    static const int32_t expected[3][15] = {
        { 0, 1, 1, 1, 1, 51, 51, 51, 51, 101, 101, 101, 101, 102, 103 },
        { 0, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 102, 103 },
        { 0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 102, 103 }
    };
    static const int32_t rounded_down[5] = { 0, 1, 2, 4, 5 };
    mmix_ctx *m = mmix_create(NULL);
    const int32_t *found = positions_of(m, &film, 1, 15);
    CHECK(found && !memcmp(found, expected, sizeof expected));
    found = positions_of(m, &thirds, 1, 5);
    CHECK(found && !memcmp(found, rounded_down, sizeof rounded_down));
    FINE(m);
    mmix_destroy(m);
    golden_positions("tests/golden/qwen/qwen2/expected.safetensors", 0);
    golden_positions("tests/golden/qwen/qwen2.5-flat/expected.safetensors", 3);
}

/* ---- the mixers beside the plain loops that define them ----

   Forward and backward, around the edges of chunks, blocks and tiles; two sequences of one head,
   which lie one behind the other, or of channels. */

enum { MIXED_MOST = 5 };
typedef struct mixed {
    mmix_ctx *m;
    mmix_tensor *in[MIXED_MOST], *y, *dy;
    real *plain[MIXED_MOST];
    int count;
    size_t heads;
    double bound;
} mixed;

static real *copy_of(const mmix_tensor *t)
{
    real *p = (real *)malloc(mmix_count(t) * sizeof *p);
    mmix_read(t, p);
    return p;
}
static real *zero_reals(size_t n) { return (real *)calloc(n, sizeof(real)); }
/* The largest difference, in units of the largest number, is within the bound. */
static void like_plain(const char *what, const real *found, const real *plain, size_t n,
                       double bound)
{
    /* what cancels is as exact as numbers of that size */
    double most = 0.02, apart = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)found[i] - (double)plain[i]);
        most = fmax(most, fabs((double)plain[i]));
        apart = d <= apart ? apart : d;              /* NaN stays */
    }
    COMPARE(apart <= bound * most, what, apart, bound * most);
}
/* y against the plain one, then dy through it: the gradients of all inputs against plain ones. */
static mixed mixed_begin(mmix_ctx *m, mmix_tensor **in, int count)
{
    mixed x;
    memset(&x, 0, sizeof x);
    x.m = m;
    x.count = count;
    x.heads = 1;
    x.bound = 400 * EPS;
    for (int i = 0; i < count; i++) {
        x.in[i] = in[i];
        x.plain[i] = zero_reals(mmix_count(in[i]));
        mmix_require_grad(in[i]);
    }
    mmix_record(m, 1);
    return x;
}
static void mixed_forward(mixed *x, const mmix_mixer *mixer, const char *what, real *plain_y)
{
    x->y = mmix_mix(x->m, mixer);
    mmix_record(x->m, 0);
    FINE(x->m);
    like_plain(what, mmix_data(x->y), plain_y, mmix_count(x->y), x->bound);
    x->dy = random4(x->m, mmix_shape(x->y, 0), mmix_shape(x->y, 1), x->heads, mmix_shape(x->y, 3),
                    -1, 1);
}
static void mixed_backward(mixed *x, mmix_tensor *last, mmix_tensor *dlast)
{
    mmix_tensor *outputs[2] = { x->y, last }, *gradients[2] = { x->dy, dlast };
    mmix_backward_from(x->m, outputs, gradients, last ? 2 : 1);
    FINE(x->m);
    for (int i = 0; i < x->count; i++) {
        char what[32];
        snprintf(what, sizeof what, "gradient %d", i);
        like_plain(what, mmix_data(mmix_grad(x->in[i])), x->plain[i], mmix_count(x->in[i]),
                   x->bound);
        free(x->plain[i]);
    }
}

static const size_t edges[] = { 1, 2, 3, 4, 5, 23, 24, 25, 63, 64, 65, 130, 257 };
enum { EDGES = sizeof edges / sizeof *edges };

static void plain_softmax_attention(void)
{
    mmix_ctx *m = context(1, 0);
    state = 5;
    for (size_t it = 0; it < 2 * EDGES + 4; it++) {
        size_t L = it < 2 * EDGES ? edges[it / 2] : 26;
        size_t causal = it % 2;
        size_t N = any(1, 9);
        size_t P = any(1, 9);
        /* tiles of 512 */
        size_t S = 510 + it;
        if (it < 2 * EDGES)
            S = causal ? L + any(0, 6) : any(1, 70);
        mmix_tensor *in[3] = { random4(m, 2, L, 1, N, -2, 2), random4(m, 2, S, 1, N, -2, 2),
                               random4(m, 2, S, 1, P, -1, 1) };
        mmix_mixer mixer = mmix_mixer_softmax(in[0], in[1], in[2]);
        real *y = zero_reals(2 * L * P);
        real *p = zero_reals(2 * L * S);
        real *q = copy_of(in[0]);
        real *k = copy_of(in[1]);
        real *v = copy_of(in[2]);
        doing("softmax attention, plain");
        mixer.scale = 0.7;
        mixer.mask = causal ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
        for (size_t b = 0; b < 2; b++)
            mmixi_plain_softmax_attention(y + b * L * P, p + b * L * S, q + b * L * N,
                                          k + b * S * N, v + b * S * P, L, S, N, P, 0.7,
                                          (int)causal);
        mixed x = mixed_begin(m, in, 3);
        mixed_forward(&x, &mixer, "y", y);
        for (size_t b = 0; b < 2; b++)
            mmixi_plain_softmax_attention_backward(x.plain[0] + b * L * N, x.plain[1] + b * S * N,
                                                   x.plain[2] + b * S * P,
                                                   mmix_data(x.dy) + b * L * P, y + b * L * P,
                                                   p + b * L * S, q + b * L * N, k + b * S * N,
                                                   v + b * S * P, L, S, N, P, 0.7);
        mixed_backward(&x, NULL, NULL);
        free(y);
        free(p);
        free(q);
        free(k);
        free(v);
        mmix_reset(m);
    }
    mmix_destroy(m);
}
static void plain_linear_attention(void)
{
    mmix_ctx *m = context(1, 0);
    state = 6;
    for (size_t it = 0; it < 4 * EDGES; it++) {
        size_t L = edges[it / 4];
        size_t N = any(1, 9);
        size_t P = any(1, 9);
        size_t causal = it % 2;
        size_t S = causal ? L : any(1, 140);
        int normalize = it / 2 % 2;
        mmix_tensor *in[3] = { random4(m, 2, L, 1, N, 0.1, 2), random4(m, 2, S, 1, N, 0.1, 2),
                               random4(m, 2, S, 1, P, -1, 1) };
        mmix_mixer mixer = mmix_mixer_linear(in[0], in[1], in[2]);
        real *y = zero_reals(2 * L * P);
        real *den = zero_reals(2 * L);
        real *f = copy_of(in[0]);
        real *g = copy_of(in[1]);
        real *v = copy_of(in[2]);
        doing("linear attention, plain");
        mixer.feature = MMIX_FEATURE_NONE;
        mixer.normalize = normalize ? 1 : -1;
        mixer.eps = 0.01;
        mixer.mask = causal ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
        for (size_t b = 0; b < 2; b++)
            mmixi_plain_linear_attention(y + b * L * P, den + b * L, f + b * L * N, g + b * S * N,
                                         v + b * S * P, L, S, N, P, (int)causal, normalize, 0.01);
        mixed x = mixed_begin(m, in, 3);
        mixed_forward(&x, &mixer, "y", y);
        for (size_t b = 0; b < 2; b++)
            mmixi_plain_linear_attention_backward(x.plain[0] + b * L * N, x.plain[1] + b * S * N,
                                                  x.plain[2] + b * S * P,
                                                  mmix_data(x.dy) + b * L * P, y + b * L * P,
                                                  den + b * L, f + b * L * N, g + b * S * N,
                                                  v + b * S * P, L, S, N, P, (int)causal,
                                                  normalize);
        mixed_backward(&x, NULL, NULL);
        free(y);
        free(den);
        free(f);
        free(g);
        free(v);
        mmix_reset(m);
    }
    mmix_destroy(m);
}
static void plain_ssd(void)
{
    mmix_ctx *m = context(1, 0);
    state = 7;
    for (size_t it = 0; it < 2 * EDGES; it++) {
        size_t L = edges[it / 2];
        size_t N = any(1, 9);
        size_t P = any(1, 9);
        size_t PN = P * N;
        mmix_tensor *in[MIXED_MOST] = { random4(m, 2, L, 1, P, -1, 1),
                                        random3(m, 2, L, 1, 0.01, 0.8),
                                        random4(m, 2, L, 1, N, -1, 1),
                                        random4(m, 2, L, 1, N, -1, 1),
                                        random4(m, 2, 1, P, N, -1, 1) };
        mmix_tensor *A = random1(m, 1, -1.5, -0.1);
        mmix_tensor *D = random1(m, 1, -1, 1);
        mmix_tensor *last = NULL;
        mmix_tensor *dlast = random4(m, 2, 1, P, N, -1, 1);
        real *y = zero_reals(2 * L * P);
        real *h = zero_reals(2 * (L + 1) * PN);
        real *dh = copy_of(dlast);
        real dA = 0, dD = 0;
        real a = *mmix_data(A);
        real d = *mmix_data(D);
        real *x = copy_of(in[0]);
        real *dt = copy_of(in[1]);
        real *B = copy_of(in[2]);
        real *C = copy_of(in[3]);
        mmix_mixer mixer = mmix_mixer_ssd(in[0], in[1], A, in[2], in[3]);
        doing("SSD, plain");
        mixer.D = D;
        mixer.initial_state = in[4];
        mixer.final_state = &last;
        mixer.chunk = it % 2 ? 0 : any(1, 20);
        mmix_require_grad(A);
        mmix_require_grad(D);
        for (size_t b = 0; b < 2; b++) {
            real *own = h + b * (L + 1) * PN;
            memcpy(own, mmix_data(in[4]) + b * PN, PN * sizeof *own);
            mmixi_plain_ssd(y + b * L * P, own, x + b * L * P, dt + b * L, a, B + b * L * N,
                            C + b * L * N, d, L, N, P);
        }
        mixed f = mixed_begin(m, in, MIXED_MOST);
        mixed_forward(&f, &mixer, "y", y);
        for (size_t b = 0; b < 2; b++) {
            like_plain("the final state", mmix_data(last) + b * PN, h + (b * (L + 1) + L) * PN, PN,
                       f.bound);
            mmixi_plain_ssd_backward(f.plain[0] + b * L * P, f.plain[1] + b * L, &dA,
                                     f.plain[2] + b * L * N, f.plain[3] + b * L * N, &dD,
                                     dh + b * PN, mmix_data(f.dy) + b * L * P, h + b * (L + 1) * PN,
                                     x + b * L * P, dt + b * L, a, B + b * L * N, C + b * L * N, d,
                                     L, N, P);
        }
        memcpy(f.plain[4], dh, 2 * PN * sizeof *dh);
        mixed_backward(&f, last, dlast);
        like_plain("dA", mmix_data(mmix_grad(A)), &dA, 1, 20 * f.bound);
        like_plain("dD", mmix_data(mmix_grad(D)), &dD, 1, 20 * f.bound);
        free(y);
        free(h);
        free(dh);
        free(x);
        free(dt);
        free(B);
        free(C);
        mmix_reset(m);
    }
    mmix_destroy(m);
}
/* Channel d of an array (B, L, D) by itself, (B, L), and back. */
static void one_channel(real *to, const real *from, size_t rows, size_t D, size_t d)
{
    for (size_t i = 0; i < rows; i++)
        to[i] = from[i * D + d];
}
static void put_channel(real *to, const real *from, size_t rows, size_t D, size_t d)
{
    for (size_t i = 0; i < rows; i++)
        to[i * D + d] = from[i];
}
/* y (2, L, D, 1) of a scan token by token. Returns the state after the last. */
static mmix_tensor *selective_in_steps(mmix_ctx *m, mmix_mixer all, mmix_tensor *y)
{
    mmix_mix_state *s = mmix_mix_state_create(m, 1);
    mmix_tensor *end = NULL;
    const size_t L = mmix_shape(y, 1), D = mmix_shape(y, 2);
    for (size_t t = 0; t < L; t++) {
        mmix_mixer one = all;
        one.v = mmix_slice(m, all.v, 1, t, 1);
        one.dt = mmix_slice(m, all.dt, 1, t, 1);
        one.k = mmix_slice(m, all.k, 1, t, 1);
        one.q = mmix_slice(m, all.q, 1, t, 1);
        one.final_state = &end;
        if (t) one.initial_state = NULL;
        mmix_tensor *now = mmix_mix_step(m, &one, s, 0);
        for (size_t b = 0; now && b < 2; b++)
            memcpy(mmix_data(y) + (b * L + t) * D, mmix_data(now) + b * D,
                   D * sizeof *mmix_data(y));
    }
    mmix_mix_state_destroy(s);
    return end;
}
/* D channels, which one plain loop after another computes; numbers of channels and of states around
   the edges of vectors and tasks. */
static void plain_selective_of(mmix_ctx *m, size_t L, size_t D, size_t N, size_t chunk)
{
    mmix_tensor *in[MIXED_MOST] = { random4(m, 2, L, D, 1, -1, 1), random3(m, 2, L, D, 0.01, 0.8),
                                    random4(m, 2, L, 1, N, -1, 1), random4(m, 2, L, 1, N, -1, 1),
                                    random4(m, 2, D, 1, N, -1, 1) };
    mmix_tensor *A = random4(m, 1, 1, D, N, -1.5, -0.1);
    mmix_tensor *skip = random1(m, D, -1, 1);
    mmix_tensor *last = NULL, *stepped = mmix_new4(m, 2, L, D, 1), *end = NULL;
    mmix_tensor *dlast = random4(m, 2, D, 1, N, -1, 1);
    const size_t shape[2] = { D, N }, all = 2 * L * D;
    real *y = zero_reals(all), *dA = zero_reals(D * N), *dD = zero_reals(D);
    real *h = zero_reals(D * 2 * (L + 1) * N), *own = zero_reals(6 * L);
    real *x = copy_of(in[0]), *dt = copy_of(in[1]), *B = copy_of(in[2]), *C = copy_of(in[3]);
    const real *of_A = mmix_data(A), *of_D = mmix_data(skip);
    A = mmix_reshape(m, A, 2, shape);
    mmix_mixer mixer = mmix_mixer_selective(in[0], in[1], A, in[2], in[3]);
    mixer.D = skip;
    mixer.initial_state = in[4];
    mixer.final_state = &last;
    mixer.chunk = chunk;
    mmix_require_grad(A);
    mmix_require_grad(skip);
    for (size_t i = 0; i < 2 * D; i++) {
        size_t b = i / D, d = i % D;
        real *states = h + i * (L + 1) * N;
        memcpy(states, mmix_data(in[4]) + i * N, N * sizeof *states);
        one_channel(own, x + b * L * D, L, D, d);
        one_channel(own + L, dt + b * L * D, L, D, d);
        mmixi_plain_selective(own + 2 * L, states, own, own + L, of_A + d * N, B + b * L * N,
                              C + b * L * N, of_D[d], L, N);
        put_channel(y + b * L * D, own + 2 * L, L, D, d);
    }
    end = selective_in_steps(m, mixer, stepped);
    mixed f = mixed_begin(m, in, MIXED_MOST);
    f.heads = D;
    mixed_forward(&f, &mixer, "y", y);
    like_plain("y in steps", mmix_data(stepped), y, all, f.bound);
    for (size_t i = 0; i < 2 * D; i++) {
        size_t b = i / D, d = i % D;
        real *states = h + i * (L + 1) * N;
        like_plain("the final state", mmix_data(last) + i * N, states + L * N, N, f.bound);
        like_plain("the state after steps", mmix_data(end) + i * N, states + L * N, N, f.bound);
        memcpy(f.plain[4] + i * N, mmix_data(dlast) + i * N, N * sizeof *states);
        memset(own + 3 * L, 0, 2 * L * sizeof *own);
        one_channel(own, x + b * L * D, L, D, d);
        one_channel(own + L, dt + b * L * D, L, D, d);
        one_channel(own + 2 * L, mmix_data(f.dy) + b * L * D, L, D, d);
        mmixi_plain_selective_backward(own + 3 * L, own + 4 * L, dA + d * N,
                                       f.plain[2] + b * L * N, f.plain[3] + b * L * N, dD + d,
                                       f.plain[4] + i * N, own + 2 * L, states, own, own + L,
                                       of_A + d * N, B + b * L * N, C + b * L * N, of_D[d], L, N);
        put_channel(f.plain[0] + b * L * D, own + 3 * L, L, D, d);
        put_channel(f.plain[1] + b * L * D, own + 4 * L, L, D, d);
    }
    mixed_backward(&f, last, dlast);
    like_plain("dA", mmix_data(mmix_grad(A)), dA, D * N, 20 * f.bound);
    like_plain("dD", mmix_data(mmix_grad(skip)), dD, D, 20 * f.bound);
    free(y);
    free(dA);
    free(dD);
    free(h);
    free(own);
    free(x);
    free(dt);
    free(B);
    free(C);
    mmix_reset(m);
}
static void plain_selective(void)
{
    static const size_t channels[] = { 1, 15, 16, 17, 63, 64, 65, 127, 128, 129 };
    mmix_ctx *m = context(1, 0);
    state = 8;
    doing("selective scan, plain");
    for (size_t it = 0; it < 2 * EDGES; it++)
        plain_selective_of(m, edges[it / 2], any(1, 20), any(1, 18), it % 2 ? 0 : any(1, 20));
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        plain_selective_of(m, 34, channels[i], 1 + i, 0);
    mmix_destroy(m);
}
/* Two scans into one, forward and backward, against the plain loops: with a gate and without, all
   tokens in spans, text before, between and behind them. */
static void plain_fuse_of(mmix_ctx *m, int gate, size_t first, size_t n, size_t P,
                          const int32_t *runs)
{
    enum { B = 2, L = 9, H = 3 };
    const double bound = sizeof(mmix_real) == 8 ? 1e-13 : 2e-6;
    const size_t all[4] = { B, L, H, P }, part[4] = { B, n, H, P }, gates[3] = { B, n, H };
    int32_t both[B * L];
    for (size_t i = 0; i < B * L; i++)
        both[i] = runs[i % L];
    const size_t run_shape[2] = { B, L };
    mmix_call fuse = mmixi_call(NULL, NULL, NULL);
    mmix_tensor *in[3], *dy = mmix_fill_normal(m, mmix_new(m, MMIX_DTYPE_REAL, 4, all), 1, 4), *y;
    mmix_tensor *expected = mmix_new(m, MMIX_DTYPE_REAL, 4, all), *grad[3];
    in[0] = mmix_require_grad(mmix_fill_normal(m, mmix_new(m, MMIX_DTYPE_REAL, 4, all), 1, 1));
    in[1] = mmix_require_grad(mmix_fill_normal(m, mmix_new(m, MMIX_DTYPE_REAL, 4, part), 1, 2));
    in[2] = mmix_require_grad(mmix_fill_normal(m, mmix_new(m, MMIX_DTYPE_REAL, 3, gates), 1, 3));
    for (int i = 0; i < 3; i++)
        grad[i] = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, in[i]->ndim, in[i]->shape), 0);
    for (int i = 0; i < 2 + gate; i++)
        fuse.in[i] = in[i];
    fuse.in[3] = mmix_from_i32(m, 2, run_shape, both);
    fuse.size[0] = first;
    fuse.number[0] = 0.5;
    const mmix_real *z = gate ? mmix_data(in[2]) : NULL;
    mmixi_plain_fuse(mmix_data(expected), mmix_data(in[0]), mmix_data(in[1]), z, runs, 0.5, B, L,
                     first, n, H, P);
    mmixi_plain_fuse_backward(mmix_data(grad[0]), mmix_data(grad[1]), mmix_data(grad[2]),
                              mmix_data(dy), mmix_data(in[0]), mmix_data(in[1]), z, runs, 0.5, B, L,
                              first, n, H, P);
    mmix_record(m, 1);
    y = mmixi_run_like(m, "fuse", MMIX_OP_FUSE_DIRECTIONS, &fuse);
    CHECK(y);
    for (size_t i = 0; y && i < mmix_count(y); i++)
        NEAR(mmix_data(y)[i], mmix_data(expected)[i], bound);
    CHECK(!mmix_backward_from(m, &y, &dy, 1));
    mmix_record(m, 0);
    for (int i = 0; i < 2 + gate; i++) {
        const mmix_tensor *found = mmix_grad(in[i]);
        CHECK(found);
        for (size_t e = 0; found && e < mmix_count(found); e++)
            NEAR(mmix_data(found)[e], mmix_data(grad[i])[e], 8 * bound);
    }
    FINE(m);
    mmix_reset(m);
}
static void plain_fuse(void)
{
    static const int32_t between[9] = { 4, 4, 3, 3, 2, 2, 1, 0, 0 },
                         all[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    mmix_ctx *m = mmix_create(NULL);
    for (int gate = 0; gate < 2; gate++)
        for (size_t P = 1; P < 36; P += 17) {
            plain_fuse_of(m, gate, 2, 5, P, between);
            plain_fuse_of(m, gate, 0, 9, P, all);
        }
    mmix_destroy(m);
}

/* ---- the ops beside the plain loops that stand under their formulas in the header ----

   At sizes around the edges of vectors, tiles and pieces, at every level of this machine, with 1
   and 3 threads. */

/* recording; NULL if this machine has not the level */
static mmix_ctx *level(int simd, int threads)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.simd = simd;
    o.threads = threads;
    mmix_ctx *m = mmix_create(&o);
    static const char *const names[] = { "", "none", "avx2", "avx512", "neon" };
    if (strcmp(mmix_simd_name(m), names[simd])) {
        mmix_destroy(m);
        return NULL;
    }
    mmix_record(m, 1);
    return m;
}
/* n zeros that the case frees at its end, for what a plain loop writes. */
static void *rooms[32];
static size_t rooms_used;
static void *zeros(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    rooms[rooms_used++] = p;
    return p;
}
static real *reals(size_t n) { return (real *)zeros(n, sizeof(real)); }
static double *doubles(size_t n) { return (double *)zeros(n, sizeof(double)); }
static void case_ends(mmix_ctx *m)
{
    while (rooms_used) free(rooms[--rooms_used]);
    FINE(m);
    mmix_reset(m);
}
static mmix_tensor *leaf(mmix_ctx *m, size_t a, size_t b, double low, double high)
{
    return mmix_require_grad(shaped(m, random4(m, 1, 1, a, b, low, high), 2, a, b, 1));
}
static mmix_tensor *leaf_of(mmix_ctx *m, size_t n, double low, double high)
{
    return mmix_require_grad(random1(m, n, low, high));
}
/* What a tensor holds, against a plain loop; the bound in roundings of the largest number, or of
   0.1. */
static void beside(const char *what, const mmix_tensor *t, const real *expected, double roundings)
{
    double worst = 0, most = 0.1;
    size_t n = t ? mmix_count(t) : 0;
    for (size_t i = 0; i < n; i++) {
        double got = (double)mmix_data(t)[i], e = (double)expected[i];
        most = fmax(most, fabs(e));
        /* NaN becomes the worst, too */
        if (!(fabs(got - e) <= worst))
            worst = fabs(got - e);
    }
    COMPARE(n && worst <= roundings * EPS * most, what, worst, roundings * EPS * most);
}
/* Goes back from y with a random gradient, whose numbers it returns. */
static const real *back(mmix_ctx *m, mmix_tensor *y)
{
    int recording = mmix_record(m, 0);
    mmix_tensor *dy = mmix_affine(m, y, 0, 0);
    mmix_record(m, recording);
    for (size_t i = 0; i < mmix_count(dy); i++)
        mmix_data(dy)[i] = (real)(2 * uniform() - 1);
    IS(mmix_backward_from(m, &y, &dy, 1), 0);
    return mmix_data(dy);
}
static real *copy(const mmix_tensor *t)          /* values that mmix_backward frees */
{
    real *p = reals(mmix_count(t));
    mmix_read(t, p);
    return p;
}
static mmix_tensor *with_values(mmix_ctx *m, const mmix_tensor *like, real *values)
{
    int recording = mmix_record(m, 0);
    mmix_tensor *t = mmix_from(m, like->ndim, like->shape, values);
    mmix_record(m, recording);
    return t;
}
/* y's values are gone after back(): this keeps them, goes back and returns dy. */
static const real *there_and_back(mmix_ctx *m, mmix_tensor *y, mmix_tensor **kept)
{
    *kept = with_values(m, y, copy(y));
    return back(m, y);
}

static void plain_elementwise(mmix_ctx *m, size_t rows, size_t D)
{
    const double alpha[] = { 1, 1 }, beta[] = { 1, -1 };
    size_t n = rows * D;
    for (int op = 0; op < 4; op++) {
        mmix_tensor *a = leaf(m, rows, D, -2, 2);
        mmix_tensor *b = leaf(m, rows, D, -2, 2);
        mmix_tensor *y;
        real *py = reals(n);
        real *da = reals(n);
        real *db = reals(n);
        const real *x = mmix_data(a), *z = mmix_data(b), *dy;
        if (op < 2) {
            dy = there_and_back(m, op ? mmix_sub(m, a, b) : mmix_add(m, a, b), &y);
            mmixi_plain_add(py, x, z, alpha[op], beta[op], n);
            mmixi_plain_add_backward(da, db, dy, alpha[op], beta[op], n);
        } else if (op == 2) {
            dy = there_and_back(m, mmix_mul(m, a, b), &y);
            mmixi_plain_mul(py, x, z, n);
            mmixi_plain_mul_backward(da, db, dy, x, z, n);
        } else {
            for (size_t i = 0; i < n; i += 3)
                mmix_data(b)[i] = x[i];
            dy = there_and_back(m, mmix_maximum(m, a, b), &y);
            mmixi_plain_max(py, x, z, n);
            mmixi_plain_max_backward(da, db, dy, x, z, n);
        }
        beside("elementwise", y, py, 1);
        beside("elementwise da", mmix_grad(a), da, 1);
        beside("elementwise db", mmix_grad(b), db, 1);
        case_ends(m);
    }
}
static void plain_sums(mmix_ctx *m, size_t n, size_t inner)
{
    const size_t outer = 2, count = outer * n * inner;
    mmix_tensor *x = mmix_require_grad(random3(m, outer, n, inner, -1, 1)), *y;
    real *py = reals(outer * inner), *dx = reals(count);
    const real *dy = there_and_back(m, mmix_sum_axis(m, x, 1), &y);
    mmixi_plain_sum(py, mmix_data(x), outer, n, inner);
    mmixi_plain_sum_backward(dx, dy, outer, n, inner);
    beside("sum_axis", y, py, 8 + sqrt((double)n));
    beside("sum_axis dx", mmix_grad(x), dx, 0);
    case_ends(m);
}
static void plain_softmax(mmix_ctx *m, size_t rows, size_t K)
{
    mmix_tensor *x = leaf(m, rows, K, -9, 9), *y;
    real *py = reals(rows * K), *dx = reals(rows * K);
    const real *dy = there_and_back(m, mmix_softmax(m, x, -1), &y);
    for (size_t r = 0; r < rows; r++) {
        mmixi_plain_softmax(py + r * K, mmix_data(x) + r * K, K);
        mmixi_plain_softmax_backward(dx + r * K, dy + r * K, py + r * K, K);
    }
    beside("softmax", y, py, 12);
    beside("softmax dx", mmix_grad(x), dx, 24);
    case_ends(m);
}
static void plain_norms(mmix_ctx *m, size_t rows, size_t D)
{
    const size_t n = rows * D;
    const double bound = 60 + sqrt((double)rows);
    for (int op = 0; op < 4; op++) {
        const size_t groups = op == 3 && D % 3 == 0 ? 3 : 1;
        mmix_tensor *x = leaf(m, rows, D, -2, 3);
        mmix_tensor *z = leaf(m, rows, D, -3, 3);
        mmix_tensor *y;
        mmix_tensor *w = leaf_of(m, D, 0.5, 1.5);
        mmix_tensor *b = leaf_of(m, D, -1, 1);
        real *py = reals(n);
        real *dx = reals(n);
        real *dz = reals(n);
        real *dw = reals(D);
        real *db = reals(D);
        double *mean = doubles(rows), *rstd = doubles(rows * groups);
        const real *px = mmix_data(x);
        const real *pz = mmix_data(z);
        const real *pw = mmix_data(w);
        const real *dy;
        if (op == 0) {
            dy = there_and_back(m, mmix_layer_norm(m, x, w, b, 0.5), &y);
            mmixi_plain_layer_norm(py, mean, rstd, px, pw, mmix_data(b), rows, D, 0.5);
            mmixi_plain_layer_norm_backward(dx, dw, db, dy, px, pw, mean, rstd, rows, D);
            beside("layer_norm db", mmix_grad(b), db, bound);
        } else if (op == 1) {
            dy = there_and_back(m, mmix_rms_norm(m, x, w, 0.5), &y);
            mmixi_plain_rms_norm(py, rstd, px, pw, rows, D, 0.5);
            mmixi_plain_rms_norm_backward(dx, dw, dy, px, pw, rstd, rows, D);
        } else {
            dy = there_and_back(m, mmix_gated_rms_norm(m, x, z, w, 0.5, groups), &y);
            mmixi_plain_gated_rms_norm(py, rstd, px, pz, pw, rows, D, groups, 0.5);
            mmixi_plain_gated_rms_norm_backward(dx, dz, dw, dy, px, pz, pw, rstd, rows, D, groups);
            beside("gated_rms_norm dz", mmix_grad(z), dz, bound);
        }
        beside("norm", y, py, bound);
        beside("norm dx", mmix_grad(x), dx, bound);
        beside("norm dw", mmix_grad(w), dw, bound);
        case_ends(m);
    }
}
static void plain_units(mmix_ctx *m, size_t rows, size_t D)
{
    const double bound = 60 + sqrt((double)D);
    for (int op = 0; op < 3; op++) {             /* L2, L2 whose eps is larger than most rows, weight norm */
        const double eps = op == 2 ? 0 : op ? 20 : 1e-12;
        mmix_tensor *x = leaf(m, rows, D, -2, 3), *g = op == 2 ? leaf(m, rows, 1, 0.5, 1.5) : NULL, *y;
        const real *px = mmix_data(x), *pg = mmix_data(g), *dy;
        real *py = reals(rows * D), *dx = reals(rows * D), *dg = g ? reals(rows) : NULL;
        dy = there_and_back(m, g ? mmix_weight_norm(m, x, g) : mmix_l2_normalize(m, x, eps), &y);
        mmixi_plain_unit(py, px, pg, rows, D, eps);
        mmixi_plain_unit_backward(dx, dg, dy, px, pg, rows, D, eps);
        double least = 1;                        /* dx is what numbers of about 1/|x| leave */
        for (size_t r = 0; r < rows; r++) {
            double square = 0;
            for (size_t i = 0; i < D; i++) square += (double)px[r * D + i] * (double)px[r * D + i];
            least = fmin(least, fmax(sqrt(square), eps));
        }
        beside("unit rows", y, py, bound);
        beside("unit rows dx", mmix_grad(x), dx, 4 * bound / least);
        if (g) beside("unit rows dg", mmix_grad(g), dg, bound);
        case_ends(m);
    }
}
static void plain_linear(mmix_ctx *m, size_t rows, size_t D, size_t O)
{
    mmix_tensor *x = leaf(m, rows, D, -1, 1);
    mmix_tensor *w = leaf(m, O, D, -1, 1);
    mmix_tensor *b = leaf_of(m, O, -1, 1);
    mmix_tensor *y;
    real *py = reals(rows * O);
    real *dx = reals(rows * D);
    real *dw = reals(O * D);
    real *db = reals(O);
    const real *px = mmix_data(x);
    const real *pw = mmix_data(w);
    const real *dy = there_and_back(m, mmix_linear(m, x, w, b), &y);
    mmixi_plain_linear(py, px, pw, mmix_data(b), rows, D, O);
    mmixi_plain_linear_backward(dx, dw, db, dy, px, pw, rows, D, O);
    beside("linear", y, py, 8 + (double)D);
    beside("linear dx", mmix_grad(x), dx, 8 + (double)O);
    beside("linear dW", mmix_grad(w), dw, 8 + (double)rows);
    beside("linear db", mmix_grad(b), db, 8 + (double)rows);
    case_ends(m);
}
static void plain_conv(mmix_ctx *m, size_t B, size_t L, size_t D, size_t W, int silu)
{
    const size_t n = B * L * D;
    mmix_causal_conv1d_options o;
    memset(&o, 0, sizeof o);
    o.silu = silu;
    mmix_tensor *x = mmix_require_grad(random3(m, B, L, D, -1, 1)), *y;
    mmix_tensor *w = mmix_require_grad(random3(m, D, 1, W, -1, 1));
    mmix_tensor *b = leaf_of(m, D, -1, 1);
    real *py = reals(n);
    real *u = reals(n);
    real *dx = reals(n);
    real *dw = reals(D * W);
    real *db = reals(D);
    const real *px = mmix_data(x);
    const real *pw = mmix_data(w);
    const real *dy = there_and_back(m, mmix_causal_conv1d(m, x, w, b, &o), &y);
    const double bound = 60 + sqrt((double)(B * L));
    mmixi_plain_conv1d(py, u, px, pw, mmix_data(b), B, L, D, W, silu);
    mmixi_plain_conv1d_backward(dx, dw, db, dy, u, px, pw, B, L, D, W, silu);
    beside("conv1d", y, py, bound);
    beside("conv1d dx", mmix_grad(x), dx, bound);
    beside("conv1d dw", mmix_grad(w), dw, bound);
    beside("conv1d db", mmix_grad(b), db, bound);
    case_ends(m);
}
/* Tokens one by one, and the first two together, by what a slot carries. */
static void plain_conv_steps(mmix_ctx *m, size_t B, size_t D, size_t W, int silu)
{
    enum { L = 7 };
    const size_t n = B * L * D;
    mmix_causal_conv1d_options o;
    memset(&o, 0, sizeof o);
    o.silu = silu;
    mmix_tensor *x = random3(m, B, L, D, -1, 1), *w = random3(m, D, 1, W, -1, 1);
    mmix_tensor *b = random1(m, D, -1, 1), *y = mmix_new3(m, B, L, D);
    mmix_mix_state *s = mmix_mix_state_create(m, 2);
    real *py = reals(n), *u = reals(n);
    mmixi_plain_conv1d(py, u, mmix_data(x), mmix_data(w), mmix_data(b), B, L, D, W, silu);
    for (size_t t = 0, piece = 2; t < L; t += piece, piece = 1) {
        mmix_tensor *now = mmixi_conv_step(m, mmix_slice(m, x, 1, t, piece), w, b, o, s, 1);
        for (size_t i = 0; now && i < B; i++)
            memcpy(mmix_data(y) + (i * L + t) * D, mmix_data(now) + i * piece * D,
                   piece * D * sizeof *py);
    }
    beside("conv1d in steps", y, py, 60);
    mmix_mix_state_destroy(s);
    case_ends(m);
}
static void plain_losses(mmix_ctx *m, size_t rows, size_t K)
{
    const double scale = 3, bound = 60;
    int32_t *label = (int32_t *)zeros(rows, sizeof *label);
    mmix_tensor *x = leaf(m, rows, K, -9, 9), *q, *loss;
    real *dx = reals(rows * K), value;
    for (size_t r = 0; r < rows; r++)
        label[r] = r % 4 == 1 ? -1 : (int32_t)(any(0, K - 1));
    loss = mmix_affine(m, mmix_cross_entropy(m, x, mmix_from_i32(m, 1, &rows, label), -1), scale,
                       0);
    value = (real)(scale * mmixi_plain_cross_entropy(mmix_data(x), label, -1, rows, K));
    mmixi_plain_cross_entropy_backward(dx, scale, mmix_data(x), label, -1, rows, K);
    beside("cross_entropy", loss, &value, bound);
    IS(mmix_backward(m, loss), 0);
    beside("cross_entropy dx", mmix_grad(x), dx, bound);
    case_ends(m);

    x = leaf(m, rows, K, -9, 9);
    q = shaped(m, random4(m, 1, 1, rows, K, 0, 1), 2, rows, K, 1);
    dx = reals(rows * K);
    double sum = 0;
    for (size_t r = 0; r < rows; r++) {
        const real *px = mmix_data(x) + r * K, *pq = mmix_data(q) + r * K;
        sum += mmixi_plain_soft_cross_entropy(px, pq, 1, K);
        mmixi_plain_soft_cross_entropy_backward(dx + r * K, scale / (double)rows, px, pq, 1, K);
    }
    loss = mmix_affine(m, mmix_cross_entropy(m, x, q, 0), scale, 0);
    value = (real)(scale * sum / (double)rows);
    beside("cross_entropy of distributions", loss, &value, bound);
    IS(mmix_backward(m, loss), 0);
    beside("cross_entropy of distributions dx", mmix_grad(x), dx, bound);
    case_ends(m);
}
static void plain_dino(mmix_ctx *m, size_t B, size_t crops, size_t K)
{
    const double T = 0.1, teacher_T = 0.04;
    mmix_tensor *student = leaf(m, crops * B, K, -1, 1);
    mmix_tensor *teacher = leaf(m, 2 * B, K, -0.2, 0.2);
    mmix_tensor *loss;
    real *center = reals(K);
    real *logits = reals(K);
    real *q = reals(2 * B * K);
    real *dx = reals(crops * B * K);
    real value;
    for (size_t k = 0; k < K; k++)
        center[k] = (real)(0.1 * uniform());
    for (size_t r = 0; r < 2 * B; r++) {
        for (size_t k = 0; k < K; k++)
            logits[k] = (real)(((double)mmix_data(teacher)[r * K + k] - (double)center[k])
                               / teacher_T);
        mmixi_plain_softmax(q + r * K, logits, K);
    }
    loss = mmix_affine(m, mmix_dino_loss(m, student, teacher, center, crops, T, teacher_T, 1, NULL),
                       1, 0);
    value = (real)mmixi_plain_dino_loss(mmix_data(student), q, T, B, crops, K);
    mmixi_plain_dino_loss_backward(dx, 1, mmix_data(student), q, T, B, crops, K);
    beside("dino_loss", loss, &value, 100);
    IS(mmix_backward(m, loss), 0);
    beside("dino_loss dx", mmix_grad(student), dx, 100);
    case_ends(m);
}
static void plain_adamw(mmix_ctx *m, size_t n)
{
    mmix_params *p = mmix_params_create(m);
    mmix_optimizer state;
    mmix_adamw o = mmix_adamw_config_default();
    real *value = reals(n);
    real *first = reals(n);
    real *second = reals(n);
    const size_t shape[2] = { 1, n };
    o.lr = 0.01;
    o.weight_decay = 0.3;
    mmix_params_add(p, "", "w", 2, shape, MMIX_INIT_NORMAL, 1, 7);
    IS(mmix_params_allocate(p) || mmix_adamw_init(&state, p), 0);
    mmix_tensor *w = mmix_params_find(p, "w");
    mmix_read(w, value);
    for (int step = 1; step <= 3; step++) {
        mmix_tensor *g = shaped(m, random4(m, 1, 1, 1, n, -1, 1), 2, 1, n, 1);
        mmixi_plain_adamw(value, first, second, mmix_data(g), n, &o, p->at[0].decay, step);
        IS(mmix_backward(m, mmix_sum(m, mmix_mul(m, w, g))), 0);
        CHECK(mmix_adamw_step(&state, &o, 0, NULL) > 0);
        beside("adamw", w, value, 40);
        mmix_reset(m);
    }
    mmix_optimizer_free(&state);
    mmix_params_destroy(p);
    case_ends(m);
}
static void plain_sizes(mmix_ctx *m, int threads)
{
    static const size_t wide[] = { 1, 2, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129, 200 };
    static const size_t many[] = { 1, 2, 16, 17, 33, 255, 256, 257, 513, 1030 };
    const size_t rows = threads == 1 ? 5 : 41;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        plain_elementwise(m, rows, wide[i]);
        plain_softmax(m, rows, wide[i]);
        plain_norms(m, rows, wide[i]);
        plain_units(m, rows, wide[i]);
        plain_losses(m, rows, wide[i] + 1);
        plain_dino(m, 3, 2 + i % 4, wide[i] + 1);
        plain_linear(m, 1 + i, wide[i], wide[(i * 5) % 13]);
        plain_conv(m, 2, 3 + i, wide[i], 1 + i % 5, (int)(i & 1));
        plain_adamw(m, wide[i]);
    }
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        plain_sums(m, many[i], 1 + i % 3);
        plain_sums(m, many[i], 127 + i % 3);
        plain_linear(m, many[i], 3, 5);
        plain_norms(m, 16 * many[i] + 3, 3);     /* 16 runs of so many rows */
        plain_conv(m, 1, 16 * many[i] + 3, 2, 3, 1);
    }
    plain_losses(m, 3, 2047);                    /* pieces of a long row */
    plain_losses(m, 3, 2049);
    plain_losses(m, 2, 5000);
    plain_norms(m, 2, 5000);
    plain_units(m, 2, 5000);
    plain_conv(m, 1, 7, 1030, 4, 1);
    for (size_t W = 1; W <= 6; W++)
        plain_conv_steps(m, 1 + W % 3, 9 * W, W, (int)(W & 1));
    plain_conv_steps(m, 3, 9000, 4, 1);          /* sequences are shared out among threads */
    plain_linear(m, 300, 30, 300);
    plain_adamw(m, MMIXI_PIECE + 1);
}
static void plain_ops(void)
{
    for (int simd = MMIX_SIMD_NONE; simd <= MMIX_SIMD_NEON; simd++)
        for (int threads = MMIXI_SIZE(1, 3); threads < 4; threads += 2) {
            mmix_ctx *m = level(simd, threads);
            if (!m) continue;
            doing(mmix_simd_name(m));
            plain_sizes(m, threads);
            mmix_destroy(m);
        }
}

/* ---- the metrics beside their plain loops ---- */

static mmix_tensor *integers(mmix_ctx *m, int ndim, const size_t *shape, int32_t kinds)
{
    mmix_tensor *t = mmix_new(m, MMIX_DTYPE_I32, ndim, shape);
    for (size_t i = 0; i < mmix_count(t); i++)
        mmix_data_i32(t)[i] = (int32_t)(uniform() * kinds);
    return t;
}
/* Pixels of few values, so that many are equal. */
static void plain_auc(void)
{
    static const size_t side[] = {2, 3, 7, 16, 17};
    mmix_ctx *m = mmix_create(NULL);
    for (size_t k = 0; k < sizeof side / sizeof *side; k++) {
        const size_t shape[3] = {1, side[k], side[k] + 1};
        mmix_tensor *map = mmix_fill_normal(m, mmix_new(m, MMIX_DTYPE_REAL, 3, shape), 1, k);
        mmix_tensor *mask = integers(m, 3, shape, 3);
        mmix_auc auc;
        size_t n = mmix_count(map);
        for (size_t i = 0; i < n; i++)
            mmix_data(map)[i] = (real)floor(3 * mmix_data(map)[i]);
        mmix_data_i32(mask)[0] = 0;
        mmix_data_i32(mask)[1] = 1;
        double plain = mmixi_plain_auc(mmix_data(map), mmix_data_i32(mask), n);
        if (!CHECK(!mmix_binary_auc(m, NULL, map, mask, &auc)))
            break;
        NEAR(*auc.auc_raw, plain, 1e-14);
        NEAR(auc.auc, fmax(plain, 1 - plain), 1e-14);
    }
    FINE(m);
    mmix_destroy(m);
}
/* Around the edges of a tile of test rows; rows that stand twice are equally near. */
static void plain_knn(void)
{
    enum { N = 37, K = 4, T = MMIXI_KNN_TILE };
    static const size_t tests[] = { 1, T - 1, T, T + 1, 2 * T + 1 },
                        nearest[] = { 1, 2, 7, N - 1, N, N + 5 };
    static const size_t widths[] = {1, 5, 33};
    mmix_ctx *m = mmix_create(NULL);
    for (size_t i = 0; i < 5 * 6 * 3; i++) {
        const size_t D = widths[i % 3];
        const size_t k = nearest[i / 3 % 6];
        const size_t rows = tests[i / 18], all = N;
        mmix_tensor *train = mmix_fill_normal(m, mmix_new2(m, N, D), 1, i);
        mmix_tensor *test = mmix_fill_normal(m, mmix_new2(m, rows, D), 1, i + 1);
        mmix_tensor *label = integers(m, 1, &all, K);
        mmix_knn_result r;
        double votes[K];
        memcpy(mmix_data(train) + 20 * D, mmix_data(train) + 3 * D, D * sizeof(real));
        if (!CHECK(!mmix_knn(m, train, label, test, NULL, K, k, 0.5, &r)))
            break;
        for (size_t t = 0; t < rows; t++) {
            mmixi_plain_knn(votes, mmix_data(test) + t * D, mmix_data(train), mmix_data_i32(label),
                            N, D, K, k, 0.5);
            for (size_t c = 0; D > 1 && c < K; c++)
                NEAR(r.votes[t * K + c], votes[c], 60 * EPS * (1 + votes[c]));
            /* of one feature cosines are 1 and -1, but for rounding */
            double sum = 0, plain = 0;
            for (size_t c = 0; c < K; c++) {
                sum += r.votes[t * K + c];
                plain += votes[c];
            }
            NEAR(sum, plain, 60 * EPS * (1 + plain));
        }
    }
    FINE(m);
    mmix_destroy(m);
}
static void plain_ranks(void)
{
    mmix_ctx *m = mmix_create(NULL);
    for (size_t n = 1; n < 20; n += 3) {
        mmix_tensor *M = mmix_fill_normal(m, mmix_new3(m, 2, n, 23 - n), 1, n);
        mmix_rank r;
        if (!CHECK(!mmix_block_rank(m, M, 7, 0, &r)))
            break;
        for (size_t i = 0; i < r.matrices * r.rows * r.cols; i++) {
            const double *sigma = r.singular + i * r.width;
            NEAR(r.effective[i], mmixi_plain_effective_rank(sigma, r.width),
                 1e-13 * r.effective[i]);
            NEAR(r.stable[i], mmixi_plain_stable_rank(sigma, r.width), 1e-13 * r.stable[i]);
        }
    }
    FINE(m);
    mmix_destroy(m);
}
static void plain_metrics(void)
{
    static const double even[4] = {2, 2, 2, 2}, one[4] = {3, 0, 0, 0}, uneven[2] = {2, 1};
    static const real map[4] = {2, 1, 1, 0}, train[3] = {1, -1, 2}, test[1] = {1};
    static const int32_t mask[4] = {1, 1, 0, 0}, label[3] = {1, 0, 1};
    double votes[2];
    doing("plain metrics");
    NEAR(mmixi_plain_effective_rank(even, 4), 4, 1e-14);
    NEAR(mmixi_plain_stable_rank(even, 4), 4, 0);
    NEAR(mmixi_plain_effective_rank(one, 4), 1, 0);
    NEAR(mmixi_plain_stable_rank(one, 4), 1, 0);
    NEAR(mmixi_plain_effective_rank(uneven, 2), 3 / cbrt(4), 1e-14);
    NEAR(mmixi_plain_stable_rank(uneven, 2), 1.25, 0);
    NEAR(mmixi_plain_auc(map, mask, 4), 3.5 / 4, 0);
    mmixi_plain_knn(votes, test, train, label, 3, 1, 2, 3, 2);
    NEAR(votes[0], exp(-0.5), 1e-15);
    NEAR(votes[1], 2 * exp(0.5), 1e-15);
    plain_auc();
    plain_knn();
    plain_ranks();
}

/* Whether the folder is there that the tests write to; it is not where this runs elsewhere than in the
   repository's root. */
static int scratch_there(void)
{
    FILE *f = fopen(SCRATCH, "wb");
    if (!f) {
        puts("internals: cannot write " SCRATCH ": run it in the repository's root");
        return 0;
    }
    fclose(f);
    remove(SCRATCH);
    return 1;
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "known answers", known_answers },
        { "standard sizes", standard_sizes },
        { "state dicts", state_dicts },
        { "packed parameters", packed_parameters },
        { "two lists", two_lists },
        { "json values", json_values },
        { "decimal points", decimal_points },
        { "config tables", config_tables },
        { "checksums", checksums },
        { "printed room", printed_room },
        { "best scores", best_scores },
        { "orthogonal rows", orthogonal_rows },
        { "many tokens", many_tokens },
        { "media positions", media_positions },
        { "plain softmax attention", plain_softmax_attention },
        { "plain linear attention", plain_linear_attention },
        { "plain ssd", plain_ssd },
        { "plain selective", plain_selective },
        { "plain fuse", plain_fuse },
        { "plain ops", plain_ops },
        { "plain metrics", plain_metrics }
    };
    if (!scratch_there()) return 1;
    return sections(all, sizeof all / sizeof *all, argc, argv);
}
