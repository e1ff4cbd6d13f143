/* backbones.c - every standard size has the parameters of the systems' own checkpoints: names and shapes

   Run from the repository's root. With ../shared/reference there, every name and shape of state_dicts.json is
   compared; without it a few rows of each family. No model here has values: declaring the parameters of the
   largest takes a millisecond, drawing its 89 million values half a minute. */
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed, skipped;

static void check(int ok, int line, const char *what, const char *more)
{
    if (ok) passed++;
    else failed++, printf("tests/backbones.c:%d: %s %s\n", line, what, more ? more : "");
}
#define CHECK(x) check((x) != 0, __LINE__, #x, "")
#define CHECK_AT(x, where) check((x) != 0, __LINE__, #x, where)

static mmix_ctx *context(void)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    return mmix_create(&o);
}

/* ---- the sizes ---- */

/* A backbone, or with `head` DINO's head on features of that width. Counts are those of the systems' own
   classes. */
typedef struct standard {
    const char *name;                            /* in state_dicts.json */
    mmix_vision_config config;
    size_t head, parameters, tensors;
} standard;

static size_t standards(standard out[24])
{
    static const size_t head[][2] = {{192, 21958912}, {256, 22089984}, {384, 22352128}, {512, 22614272},
                                     {768, 23138560}};
    static const char *const head_name[] = {"dino_head_192", "dino_head_256", "dino_head_384",
                                            "dino_head_512", "dino_head_768"};
    size_t n = 0;
    memset(out, 0, 24 * sizeof *out);
#define BACKBONE(called, is, count, arrays) \
    out[n].name = called, out[n].config = is, out[n].parameters = count, out[n++].tensors = arrays
    BACKBONE("vit_tiny_16", mmix_vit_tiny(16), 5524416, 150);
    BACKBONE("vit_tiny_8", mmix_vit_tiny(8), 5526720, 150);
    BACKBONE("vit_small_16", mmix_vit_small(16), 21665664, 150);
    BACKBONE("vit_small_8", mmix_vit_small(8), 21670272, 150);
    BACKBONE("vit_base_16", mmix_vit_base(16), 85798656, 150);
    BACKBONE("vit_base_8", mmix_vit_base(8), 85807872, 150);
    BACKBONE("linvit_base_16", mmix_linearvit_base(), 85798656, 150);
    BACKBONE("dinovim_tiny_16", mmix_dinovim_tiny(), 10706048, 365);
    BACKBONE("dinovim_small_16", mmix_dinovim_small(), 40354048, 365);
    BACKBONE("dinovim_base_16", mmix_dinovim_base(), 88974720, 365);
    BACKBONE("mambareg_tiny_16", mmix_mambareg_tiny(), 10674048, 366);
    BACKBONE("mambareg_small_16", mmix_mambareg_small(), 40290048, 366);
    BACKBONE("mambareg_base_16", mmix_mambareg_base(), 88878720, 366);
#undef BACKBONE
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) {
        out[n].name = head_name[i], out[n].head = head[i][0];
        out[n].parameters = head[i][1], out[n++].tensors = 8;
    }
    return n;
}

/* The parameters of a standard size, without values: there is no room for the slab. A backbone's are declared
   as mmix_vision_create does. The caller destroys the list and clears the error. */
static mmix_params *declared(mmix_ctx *m, const standard *s)
{
    mmix_params *p = mmix_params_create(m);
    mmix_dino_head head;
    mmix_vision v;
    size_t bytes = s->config.depth * sizeof *v.block;
    if (s->head) {
        CHECK_AT(mmix_dino_head_init(&head, p, "", s->head, 2048, 256, 65536, 3) == 0, s->name);
        return p;
    }
    memset(&v, 0, sizeof v);
    v.m = m, v.config = s->config, v.params = p;
    v.block = (mmixi_vision_block *)calloc(1, bytes);
    m->allocator.byte_limit = mmix_memory(m).bytes + (4 << 20);
    CHECK_AT(mmixi_vision_declare(&v, 0) == -1 && mmix_error_kind(m) == MMIX_ERROR_MEMORY, s->name);
    m->allocator.byte_limit = 0;
    free(v.block);
    return p;
}

static int shape_is(const mmix_tensor *t, size_t ndim, const size_t *shape)
{
    int same = t && (size_t)mmix_ndim(t) == ndim;
    for (size_t i = 0; same && i < ndim; i++) same = mmix_shape(t, (int)i) == shape[i];
    return same;
}

/* ---- a few rows of each family, and the counts ---- */

static void rows(void)
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
        {"dino_head_256", "mlp.0.weight", 2, {2048, 256}},
        {"dino_head_256", "mlp.2.weight", 2, {2048, 2048}},
        {"dino_head_768", "mlp.4.weight", 2, {256, 2048}},
        {"dino_head_768", "mlp.4.bias", 1, {256}},
        {"dino_head_768", "last_layer.weight_g", 2, {65536, 1}},
        {"dino_head_768", "last_layer.weight_v", 2, {65536, 256}}
    };
    standard s[24];
    mmix_ctx *m = context();
    const size_t n = standards(s), before = mmix_memory(m).bytes;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        mmix_params *p = declared(m, &s[i]);
        CHECK_AT(p && p->elements == s[i].parameters, s[i].name);
        CHECK_AT(p && p->count == s[i].tensors, s[i].name);
        for (size_t r = 0; r < sizeof row / sizeof *row; r++)
            if (!strcmp(row[r].model, s[i].name)) {
                CHECK_AT(shape_is(mmix_params_find(p, row[r].name), row[r].ndim, row[r].shape), row[r].name);
                found++;
            }
        mmix_params_destroy(p);
        mmix_error_clear(m);
    }
    CHECK(n == 18 && found == sizeof row / sizeof *row);
    CHECK(mmix_memory(m).bytes == before);
    mmix_destroy(m);
}

/* ---- which tokens a backbone reads (the registers' places are in tests/unit.c) ---- */

static void tokens(void)
{
    static const size_t patches[] = {14 * 14, 6 * 6, 7 * 7, 24 * 24}, middle[] = {98, 18, 25, 288};
    static const size_t second[] = {31, 5, 7, 89};
    const mmix_vision_config vit = mmix_vit_small(16), linear = mmix_linearvit_base(),
        vim = mmix_dinovim_small(), registers = mmix_mambareg_base();
    for (size_t i = 0; i < 4; i++) {
        size_t at[12] = {77, 0};
        CHECK(mmix_vision_class_index(&vit, patches[i], at) == 1 && at[0] == 0);
        at[0] = 77;
        CHECK(mmix_vision_class_index(&linear, patches[i], at) == 1 && at[0] == 0);
        CHECK(mmix_vision_class_index(&vim, patches[i], at) == 1 && at[0] == middle[i]);
        CHECK(mmix_vision_class_index(&registers, patches[i], at) == 12 && at[1] == second[i]);
        CHECK(mmix_vision_class_index(&registers, patches[i], NULL) == 12);
    }
}

/* ---- ../shared/reference/state_dicts.json: {"vit_tiny_16": {"config": {…}, "parameters": n,
        "tensors": [["cls_token", [1, 1, 192]], …]}, …} ---- */

#define STATE_DICTS "../shared/reference/state_dicts.json"

#ifdef MMIX_NO_STDIO

static void state_dicts(void) { puts("no " STATE_DICTS " in this build"), skipped++; }

#else

static size_t size_in(const mmixi_json *object, const char *key)
{
    size_t n;
    return mmixi_json_size(mmixi_json_find(object, key), &n) ? n : 0;
}

/* What the file says of the configuration is what the library's function returns. */
static void same_config(const standard *s, const mmixi_json *config)
{
    const mmix_vision_config *c = &s->config;
    const char *model = mmixi_json_text(mmixi_json_find(config, "model")),
        *mixer = mmixi_json_text(mmixi_json_find(config, "mixer"));
    if (s->head) {
        CHECK_AT(size_in(config, "in_dim") == s->head && size_in(config, "out_dim") == 65536, s->name);
        CHECK_AT(size_in(config, "hidden") == 2048 && size_in(config, "bottleneck") == 256
                 && size_in(config, "nlayers") == 3, s->name);
        return;
    }
    CHECK_AT(size_in(config, "dim") == c->dim && size_in(config, "depth") == c->depth, s->name);
    CHECK_AT(size_in(config, "patch") == c->patch && size_in(config, "grid") == c->grid, s->name);
    CHECK_AT(size_in(config, "registers") == c->registers, s->name);
    if (c->mixer == MMIX_SSD) {
        CHECK_AT(model && !strcmp(model, "vim") && !mixer, s->name);
        CHECK_AT(c->class_token == (c->registers ? MMIX_CLASS_REGISTERS : MMIX_CLASS_RELEASED), s->name);
    } else {
        CHECK_AT(model && !strcmp(model, "vit") && mixer
                 && !strcmp(mixer, c->mixer == MMIX_LINEAR ? "linear" : "softmax"), s->name);
        CHECK_AT(size_in(config, "heads") == c->heads, s->name);
        CHECK_AT(mmixi_json_number(mmixi_json_find(config, "mlp_ratio"), -1) - c->mlp_ratio == 0, s->name);
        CHECK_AT(c->class_token == MMIX_CLASS_FIRST, s->name);
    }
}

/* Every name of the file is a parameter of the same shape, none stands there twice, and there are as many:
   so nothing else is there. */
static void same_tensors(const standard *s, const mmix_params *p, const mmixi_json *list)
{
    unsigned char seen[512];
    size_t elements = 0, missing = 0, twice = 0, apart = 0;
    char where[160] = "";
    memset(seen, 0, sizeof seen);
    CHECK_AT(list && list->length == p->count && p->count <= sizeof seen, s->name);
    for (const mmixi_json *t = mmixi_json_first(list); t; t = t->next) {
        const mmixi_json *first = mmixi_json_first(t), *sizes = first ? first->next : NULL, *d;
        const char *name = mmixi_json_text(first);
        size_t i = 0, ndim = 0, n = 1, shape[MMIX_MAX_DIMS];
        while (name && i < p->count && strcmp(p->at[i].name, name)) i++;
        for (d = mmixi_json_first(sizes); d && ndim < MMIX_MAX_DIMS; d = d->next, ndim++)
            if (mmixi_json_size(d, &shape[ndim])) n *= shape[ndim];
        elements += n;
        if (!name || i == p->count) missing++;
        else if (i < sizeof seen && seen[i]++) twice++;
        else if (!shape_is(p->at[i].tensor, ndim, shape)) apart++;
        else continue;
        if (!*where) snprintf(where, sizeof where, "%s, first %s", s->name, name ? name : "without a name");
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
    standard s[24];
    mmix_ctx *m;
    mmixi_json_document d;
    if (!f) {
        puts("no " STATE_DICTS " here");
        skipped++;
        return;
    }
    text = (char *)malloc(MOST);
    size = fread(text, 1, MOST, f);
    fclose(f);
    m = context();
    n = standards(s);
    CHECK_AT(mmixi_json_open(m, &d, "state_dicts.json", text, size) == 0, mmix_error(m));
    free(text);
    for (size_t i = 0; i < n; i++) {
        const mmixi_json *v = mmixi_json_find(d.nodes, s[i].name);
        mmix_params *p = declared(m, &s[i]);
        listed += v != NULL;
        CHECK_AT(v && size_in(v, "parameters") == p->elements, s[i].name);
        same_config(&s[i], mmixi_json_find(v, "config"));
        same_tensors(&s[i], p, mmixi_json_find(v, "tensors"));
        mmix_params_destroy(p);
        mmix_error_clear(m);
    }
    CHECK(d.nodes && d.nodes->length == listed); /* the file knows no size that the table above does not */
    mmixi_json_close(m, &d);
    mmix_destroy(m);
}

#endif

int main(void)
{
    rows();
    tokens();
    state_dicts();
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
