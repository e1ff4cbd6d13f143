/* backbones.c - every standard size has the parameters of the systems' own checkpoints: names and shapes; models
   from files and what does not fit; features as maps; pictures and .npy files

   Run from the repository's root. With ../shared/reference there, every name and shape of state_dicts.json is
   compared; without it a few rows of each family. No standard size has values here: declaring the parameters of the
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

/* The parameters of a standard size, without values, declared as mmix_vision_open does. The caller destroys
   the list. */
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
    CHECK_AT(!mmixi_vision_declare(&v, 0), s->name);
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

static size_t size_in(const char *object, const char *key)
{
    size_t n;
    return mmixi_json_size(mmixi_json_find(object, key), &n) ? n : 0;
}

/* What the file says of the configuration is what the library's function returns. */
static void same_config(const standard *s, const char *config)
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
static void same_tensors(const standard *s, const mmix_params *p, const char *list)
{
    unsigned char seen[512];
    size_t elements = 0, missing = 0, twice = 0, apart = 0;
    char where[160] = "";
    memset(seen, 0, sizeof seen);
    size_t listed = 0;
    const char *none;
    for (const char *t = list; (t = mmixi_json_next(list, t, &none)) != NULL; listed++) {
        const char *first = mmixi_json_next(t, t, &none), *sizes = first ? mmixi_json_next(t, first, &none) : NULL, *d = sizes;
        const char *name = mmixi_json_text(first);
        size_t i = 0, ndim = 0, n = 1, shape[MMIX_MAX_DIMS];
        while (name && i < p->count && strcmp(p->at[i].name, name)) i++;
        for (; (d = mmixi_json_next(sizes, d, &none)) != NULL && ndim < MMIX_MAX_DIMS; ndim++)
            if (mmixi_json_size(d, &shape[ndim])) n *= shape[ndim];
        elements += n;
        if (!name || i == p->count) missing++;
        else if (i < sizeof seen && seen[i]++) twice++;
        else if (!shape_is(p->at[i].tensor, ndim, shape)) apart++;
        else continue;
        if (!*where) snprintf(where, sizeof where, "%s, first %s", s->name, name ? name : "without a name");
    }
    CHECK_AT(listed == p->count && p->count <= sizeof seen, s->name);
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
    const char *key;
    if (!f) {
        puts("no " STATE_DICTS " here");
        skipped++;
        return;
    }
    text = (char *)malloc(MOST + 1);
    size = fread(text, 1, MOST, f);
    text[size] = 0;
    fclose(f);
    m = context();
    n = standards(s);
    CHECK_AT(mmixi_json_open(m, "state_dicts.json", text, size, SIZE_MAX) == 0, mmix_error(m));
    for (size_t i = 0; i < n; i++) {
        const char *v = mmixi_json_find(text, s[i].name);
        mmix_params *p = declared(m, &s[i]);
        listed += v != NULL;
        CHECK_AT(v && size_in(v, "parameters") == p->elements, s[i].name);
        same_config(&s[i], mmixi_json_find(v, "config"));
        same_tensors(&s[i], p, mmixi_json_find(v, "tensors"));
        mmix_params_destroy(p);
    }
    for (const char *v = text; (v = mmixi_json_next(text, v, &key)) != NULL; ) listed--;
    CHECK(!listed);                              /* the file knows no size that the table above does not */
    free(text);
    mmix_destroy(m);
}

#endif

/* ---- models from files ---- */

#define PATH "build/backbones_test.safetensors"
enum { KINDS = 5 };
static const char *const kind_name[KINDS] = {"ViT", "LinearViT", "DinoVim", "DinoVim, middle", "DinoMamba-Reg"};
/* One of each kind, with heads as wide as the released ones (64), so that names and shapes tell them. */
static mmix_vision_config small(int kind)
{
    mmix_vision_config c = kind == 0 ? mmix_vit_tiny(4) : kind == 1 ? mmix_linearvit_base()
        : kind == 4 ? mmix_mambareg_tiny() : mmix_dinovim_tiny();
    c.dim = kind == 0 ? 128 : 64;
    c.heads = kind < 2 ? c.dim / 64 : 0;
    c.depth = 3;
    c.patch = 4;
    c.grid = 3;
    c.mlp_ratio = 2;
    if (kind == 3) c.class_token = MMIX_CLASS_MIDDLE;
    if (kind == 4) c.registers = 2;
    c.mamba.d_state = kind > 1 ? 8 : 0;
    return c;
}
static int same_values(const mmix_params *p, const mmix_params *q)
{
    return p->slab == q->slab && !memcmp(p->values, q->values, p->slab * sizeof *p->values);
}
static int says(mmix_ctx *m, int kind, const char *text)
{
    const int ok = mmix_error_kind(m) == kind && strstr(mmix_error(m), text);
    if (!ok) printf("  found: %s\n", mmix_error(m) ? mmix_error(m) : "no error");
    mmix_error_clear(m);
    return ok;
}
/* The parameters of a model under other names, and more arrays beside them. */
static void save_as(mmix_ctx *m, const mmix_vision *v, const char *prefix, const char *more, const char *metadata)
{
    static const float one[4] = {1, 2, 3, 4};
    const mmix_params *p = mmix_vision_params((mmix_vision *)v);
    mmix_entry *e = (mmix_entry *)calloc(p->count + 1, sizeof *e);
    char (*name)[96] = (char (*)[96])calloc(p->count, sizeof *name);
    const char *list[] = {"format", "mamba_mix vision 1", "config", metadata, NULL};
    size_t n = p->count;
    for (size_t i = 0; i < n; i++) {
        snprintf(name[i], sizeof name[i], "%s%s", prefix, p->at[i].name);
        e[i].name = name[i];
        e[i].dtype = MMIX_FILE_REAL;
        e[i].ndim = p->at[i].tensor->ndim;
        memcpy(e[i].shape, p->at[i].tensor->shape, sizeof p->at[i].tensor->shape);
        e[i].data = mmix_data(p->at[i].tensor);
    }
    if (more) e[n].name = more, e[n].dtype = MMIX_FILE_F32, e[n].ndim = 1, e[n].shape[0] = 4, e[n++].data = one;
    CHECK(!mmix_safetensors_save(m, PATH, e, n, metadata ? list : NULL));
    free(e), free(name);
}
static void opening(void)
{
    mmix_ctx *m = context();
    for (int kind = 0; kind < KINDS; kind++) {
        const char *where = kind_name[kind];
        mmix_vision *v = mmix_vision_create(m, small(kind)), *w;
        const mmix_vision_config *c = mmix_vision_config_of(v), *d;
        mmix_archive *a;
        char *line;
        CHECK_AT(!mmix_vision_save(m, v, PATH), where);          /* its config is in it */
        w = mmix_vision_open(m, PATH);
        CHECK_AT(w && !memcmp(mmix_vision_config_of(w), c, sizeof *c), where);
        CHECK_AT(w && same_values(mmix_vision_params(v), mmix_vision_params(w)), where);
        mmix_vision_destroy(w);

        save_as(m, v, "teacher.module.backbone.", "teacher.module.backbone.head.weight", NULL);  /* names alone */
        w = mmix_vision_open(m, PATH);
        d = mmix_vision_config_of(w);
        CHECK_AT(d && d->mixer == (kind == 1 ? MMIX_SOFTMAX : c->mixer) && d->dim == c->dim && d->depth == 3, where);
        CHECK_AT(d && d->heads == mmixi_max(1, c->dim / 64) * (c->mixer != MMIX_SSD) + (c->mixer == MMIX_SSD)
                 && d->patch == 4 && d->grid == 3 && d->registers == c->registers, where);
        CHECK_AT(d && d->class_token == (kind == 3 ? MMIX_CLASS_RELEASED : c->class_token)
                 && (kind > 1 || d->mlp_ratio == 2) && (kind < 2 || (d->mamba.d_state == 8 && d->mamba.head_dim == 64
                 && d->mamba.d_inner == 128 && d->mamba.conv_width == 4)), where);
        CHECK_AT(w && same_values(mmix_vision_params(v), mmix_vision_params(w)), where);
        mmix_vision_destroy(w);

        save_as(m, v, "", "extra.weight", NULL);                 /* what does not fit is said, and nothing read */
        CHECK_AT(!mmix_vision_open(m, PATH) && says(m, MMIX_ERROR_FILE, "found 0 missing, 0 of another shape, 1 "
                 "unexpected; first: unexpected extra.weight (4)"), where);
        w = mmix_vision_create(m, (c = mmix_vision_config_of(v), small(kind == 0 ? 1 : 0)));
        a = mmix_archive_open(m, PATH);
        CHECK_AT(mmix_vision_read(w, a) && says(m, MMIX_ERROR_FILE, "reshaped "), where);
        line = strstr(mmix_vision_compare(w, a), "reshaped pos_embed");
        CHECK_AT(line && strstr(line, ", expected ("), where);
        CHECK_AT(!strcmp(mmix_vision_compare(v, a), "unexpected extra.weight (4)\n"), where);
        mmix_archive_close(a);
        mmix_vision_destroy(w);

        save_as(m, v, "", NULL, "{\"vision.mixer\":[0]}");       /* metadata that is wrong */
        CHECK_AT(!mmix_vision_open(m, PATH) && says(m, MMIX_ERROR_FILE, "the config has no valid vision.dim"), where);
        save_as(m, v, "", NULL, "{");
        CHECK_AT(!mmix_vision_open(m, PATH) && says(m, MMIX_ERROR_FILE, "JSON byte 1"), where);
        save_as(m, v, "", "neck.weight", NULL);
        CHECK_AT(!mmix_vision_open(m, PATH) && says(m, MMIX_ERROR_FILE, "upstream Mamba-Reg"), where);
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    {                                            /* a config that says too much: an error, soon, and nothing held */
        static const char *const fields[] = {"dim", "depth", "heads", "patch", "grid", "registers", "mlp_ratio", "mamba.d_inner",
                                             "mamba.d_state", "mamba.head_dim", "mamba.groups", "mamba.conv_width"};
        mmix_ctx *n = context();
        n->allocator.byte_limit = 64 << 20;
        for (int kind = 0; kind < KINDS; kind += 2)
            for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                for (int large = 0; large < 3; large++) {
                    mmix_vision *v = mmix_vision_create(n, small(kind));
                    mmix_dino_config c;
                    char text[MMIXI_CONFIG_TEXT], wrong[MMIXI_CONFIG_TEXT], key[64], *at;
                    memset(&c, 0, sizeof c);
                    c.vision = *mmix_vision_config_of(v);
                    mmixi_config_text(&c, mmixi_dino_fields, MMIXI_VISION_FIELDS, text);
                    snprintf(key, sizeof key, "\"vision.%s\":[", fields[i]);
                    at = strstr(text, key) + strlen(key);
                    snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - text), text, large == 2 ? "3999999999999999" : large ? "70000" : "7777777",
                             strchr(at, ']'));
                    save_as(n, v, "", NULL, wrong);
                    mmix_vision_destroy(v);
                    v = mmix_vision_open(n, PATH);
                    /* what the kind does not read, or what only makes it larger, may pass */
                    CHECK_AT(v ? !mmix_error(n) : mmix_error(n) != NULL, key);
                    mmix_vision_destroy(v);
                    mmix_error_clear(n);
                    mmix_reset(n);
                }
        mmix_destroy(n);
    }
    {                                            /* positions that are no square, no backbone at all, no file */
        mmix_params *p = mmix_params_create(m);
        const size_t cls[3] = {1, 1, 8}, positions[3] = {1, 6, 8}, patch[4] = {8, 3, 2, 2}, norm[1] = {8};
        mmix_vision_config c;
        const mmix_start zero = mmix_start_from(MMIX_START_CONSTANT, 0, 0);
        mmix_params_add(p, "", "cls_token", 3, cls, zero);
        mmix_params_add(p, "", "pos_embed", 3, positions, zero);
        mmix_params_add(p, "", "patch_embed.proj.weight", 4, patch, zero);
        mmix_params_add(p, "", "blocks.0.norm1.weight", 1, norm, zero);
        CHECK(!mmix_params_allocate(p) && !mmix_params_save(p, PATH));
        CHECK(!mmix_vision_open(m, PATH) && says(m, MMIX_ERROR_FILE, "width 8, patch 2, 6 positions, "));
        mmix_params_destroy(p);
        CHECK(mmix_vision_config_read(m, NULL, &c) && says(m, MMIX_ERROR_FILE, "no \"…cls_token\" among 0 arrays"));
        CHECK(!mmix_vision_open(m, "build/no such file") && says(m, MMIX_ERROR_FILE, "cannot be opened"));
    }
    CHECK(!mmix_error(m));
    mmix_destroy(m);
    remove(PATH);
}
/* The n-th allocation failing: an error of memory, nothing left behind. */
static void opening_fails(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        mmix_ctx *m = context();
        mmix_vision *v = mmix_vision_create(m, small(kind));
        mmix_vision_save(m, v, PATH);
        mmix_vision_destroy(v);
        mmix_destroy(m);
        for (size_t n = 1, done = 0; !done && n < 2000; n++) {
            mmix_options o;
            memset(&o, 0, sizeof o);
            o.threads = 1;
            o.allocator.count_limit = n;
            m = mmix_create(&o);
            if (!m) continue;
            const size_t before = mmix_memory(m).bytes, block[2] = {0, 2};
            mmix_vision_options look;
            memset(&look, 0, sizeof look);
            look.dense = block;
            look.n_dense = 2;
            v = mmix_vision_open(m, PATH);
            if (!v && mmix_memory(m).bytes - before > MMIXI_BLOCK + MMIXI_HEADER_BLOCK + 4096)       /* step memory stays */
                check(0, __LINE__, "a leak", kind_name[kind]);
            mmix_features f = mmix_vision_forward(m, v, mmix_error(m) ? NULL : mmix_fill(mmix_new4(m, 1, 3, 8, 12), 1), &look);
            done = f.dense != NULL;
            if (!done && (mmix_error_kind(m) != MMIX_ERROR_MEMORY || f.token)) check(0, __LINE__, "memory", mmix_error(m));
            mmix_vision_destroy(v);
            mmix_reset(m);
            mmix_destroy(m);
            if (done) CHECK_AT(n > 10, kind_name[kind]);
        }
    }
    remove(PATH);
}

/* ---- features as maps ---- */

static double apart(const mmix_tensor *a, const mmix_tensor *b)              /* largest difference */
{
    const size_t n = mmix_count(a);
    mmix_real *x = (mmix_real *)calloc(n + 1, sizeof *x), *y = (mmix_real *)calloc(n + 1, sizeof *y);
    double worst = a && b && mmix_count(b) == n && !mmix_read(a, x) && !mmix_read(b, y) ? 0 : 1e30;
    for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    free(x), free(y);
    return worst;
}
/* Sum of map × weights, with recording: its value, and a gradient into `dw` of the patch embedding's bias. */
static double looked(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image, int norm, const mmix_tensor *weight)
{
    const size_t block = 1;
    mmix_vision_options o;
    memset(&o, 0, sizeof o);
    o.dense = &block;
    o.n_dense = 1;
    o.dense_norm = norm;
    mmix_tensor *map = mmix_vision_forward(m, v, image, &o).dense[0],
        *sum = mmix_sum(m, mmix_mul(m, map, (mmix_tensor *)weight));
    const double value = mmix_item(sum);
    if (mmix_backward(m, sum)) return NAN;
    return value;
}
static void dense(void)
{
    const size_t every[3] = {0, 1, 2}, wrong[2][2] = {{1, 1}, {0, 3}};
    for (int kind = 0; kind < KINDS; kind++) {
        const char *where = kind_name[kind];
        mmix_ctx *m = context();
        mmix_vision *v = mmix_vision_create(m, small(kind));
        mmix_tensor *image = mmix_randn(m, mmix_new4(m, 2, 3, 13, 20), 1, 7), *patches;          /* 3 x 5 patches */
        mmix_vision_options o;
        memset(&o, 0, sizeof o);
        o.dense = every;
        o.n_dense = 3;
        o.dense_norm = 1;
        mmix_features f = mmix_vision_forward(m, v, image, &o), g, plain = mmix_vision_features(m, v, image);
        static const int to_tokens[4] = {0, 2, 3, 1};
        const size_t shape[3] = {2, 15, small(kind).dim};
        CHECK_AT(f.dense && f.grid_h == 3 && f.grid_w == 5 && mmix_shape(f.dense[0], 1) == shape[2]
                 && mmix_shape(f.dense[0], 2) == 3 && mmix_shape(f.dense[0], 3) == 5, where);
        patches = mmix_reshape(m, mmix_permute(m, f.dense[2], to_tokens), 3, shape);
        CHECK_AT(apart(patches, f.patches) <= 0, where);         /* the last block, normed: the patch tokens */
        CHECK_AT(apart(plain.patches, f.patches) <= 0 && apart(plain.token, f.token) <= 0 && !plain.dense, where);
        o.dense_norm = 0;
        f = mmix_vision_forward(m, v, image, &o);
        CHECK_AT(f.dense && apart(f.dense[0], f.dense[1]) > 0.01, where);
        /* raw maps, normed by hand, are the normed ones */
        mmix_params *p = mmix_vision_params(v);
        mmix_tensor *raw = mmix_reshape(m, mmix_permute(m, f.dense[2], to_tokens), 3, shape);
        mmix_tensor *normed = kind < 2
            ? mmix_layer_norm(m, raw, mmix_params_find(p, "norm.weight"), mmix_params_find(p, "norm.bias"), 1e-6)
            : mmix_rms_norm(m, raw, mmix_params_find(p, "norm_f.weight"), 1e-5);
        CHECK_AT(apart(normed, f.patches) < 1e-5, where);
        mmix_record(m, 1);
        mmix_params_train(p, 1);
        g = mmix_vision_forward(m, v, image, &o);
        for (int i = 0; i < 3; i++) CHECK_AT(g.dense && apart(f.dense[i], g.dense[i]) <= 0, where);      /* recorded: equal */
        mmix_reset(m);
        for (int i = 0; i < 2; i++) {
            o.dense = wrong[i];
            o.n_dense = 2;
            image = mmix_randn(m, mmix_new4(m, 1, 3, 8, 8), 1, 7);
            CHECK_AT(!mmix_vision_forward(m, v, image, &o).token && says(m, MMIX_ERROR_ARGUMENT, i ? "dense[1] is 3, expected "
                     "rising numbers below 3" : "dense[1] is 1"), where);
        }
#if MMIXI_DOUBLE
        for (int norm = 0; norm < 2; norm++) {   /* gradients of a map, by central differences */
            mmix_tensor *bias = mmix_params_find(p, "patch_embed.proj.bias"), *weight;
            double slope, value[2];
            mmix_reset(m);
            image = mmix_randn(m, mmix_new4(m, 1, 3, 8, 12), 1, 7);
            weight = mmix_randn(m, mmix_new4(m, 1, small(kind).dim, 2, 3), 1, 8);
            mmix_params_zero_grad(p);
            looked(m, v, image, norm, weight);
            slope = (double)mmix_data(mmix_grad(bias))[5];
            for (int side = 0; side < 2; side++) {
                mmix_data(bias)[5] += side ? -2e-5 : 1e-5;
                value[side] = looked(m, v, image, norm, weight);
            }
            mmix_data(bias)[5] += 1e-5;
            CHECK_AT(fabs((value[0] - value[1]) / 2e-5 - slope) < 1e-6 * (1 + fabs(slope)), where);
        }
#else
        (void)looked;
        skipped += 2;                            /* gradients, in the double build */
#endif
        CHECK_AT(!mmix_error(m), mmix_error(m));
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
}

/* Many pictures go through a block a few at a time: each gets the bits that it gets alone, with any number of threads, packed
   or not, and the same as all at once with recording. */
static void batches(void)
{
    enum { B = 29 };
    for (int kind = 0; kind < KINDS; kind++)
        for (int packed = 0; packed < 2; packed++) {
            const char *where = kind_name[kind];
            mmix_options options;
            memset(&options, 0, sizeof options);
            options.threads = 1 + packed;
            mmix_ctx *m = mmix_create(&options);
            mmix_vision *v = mmix_vision_create(m, small(kind));
            mmix_tensor *image = mmix_randn(m, mmix_new4(m, B, 3, 12, 20), 1, 7);
            mmix_vision_options o;
            double worst = 0;
            memset(&o, 0, sizeof o);
            o.n_last = 2;
            mmix_params_pack(mmix_vision_params(v), packed);
            mmix_features all = mmix_vision_forward(m, v, image, &o), recorded;
            CHECK_AT(all.token && mmix_shape(all.intermediate, 0) == B && mmix_shape(all.intermediate, 1) == 2 * small(kind).dim, where);
            for (size_t b = 0; b < B; b++) {
                mmix_features one = mmix_vision_forward(m, v, mmix_slice(m, image, 0, b, 1), &o);
                worst = fmax(worst, apart(one.token, mmix_slice(m, all.token, 0, b, 1)));
                worst = fmax(worst, apart(one.tokens, mmix_slice(m, all.tokens, 0, b, 1)));
                worst = fmax(worst, apart(one.intermediate, mmix_slice(m, all.intermediate, 0, b, 1)));
            }
            CHECK_AT(worst <= 0, where);
            mmix_params_train(mmix_vision_params(v), 1);
            mmix_record(m, 1);
            recorded = mmix_vision_forward(m, v, image, &o);
            CHECK_AT(apart(recorded.tokens, all.tokens) <= 2e-6 && apart(recorded.intermediate, all.intermediate) <= 2e-6, where);
            CHECK_AT(!mmix_error(m), mmix_error(m));
            mmix_vision_destroy(v);
            mmix_destroy(m);
        }
}

/* Positions are as stored only for a picture that is square, in patches and pixels: one more row of pixels, which no patch sees,
   moves them. */
static void squares(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        mmix_ctx *m = context();
        mmix_vision *v = mmix_vision_create(m, small(kind));
        mmix_tensor *image = mmix_randn(m, mmix_new4(m, 1, 3, 13, 13), 1, 7), *as_stored, *more;
        as_stored = mmix_vision_features(m, v, mmix_slice(m, mmix_slice(m, image, 2, 0, 12), 3, 0, 12)).tokens;
        more = mmix_vision_features(m, v, image).tokens;
        CHECK_AT(apart(as_stored, more) <= 0, kind_name[kind]);
        more = mmix_vision_features(m, v, mmix_slice(m, image, 3, 0, 12)).tokens;
        CHECK_AT(apart(as_stored, more) > 1e-4 && apart(as_stored, more) < 1, kind_name[kind]);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
}

/* ---- pictures and arrays ---- */

static void pictures(void)
{
    mmix_ctx *m = context();
    uint8_t rgb[7 * 5 * 3], small_rgb[4 * 6 * 3];
    const mmix_box all = {0, 0, 5, 7};
    mmix_picture in = {rgb, 7, 5}, out = {small_rgb, 4, 6};
    mmix_tensor *image, *by_hand = mmix_new4(m, 1, 3, 6, 4);
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 37 % 251);
    void *scratch = malloc(mmix_picture_resize_scratch(all, 4, 6));
    CHECK(!mmix_picture_resize(small_rgb, 4, 6, in, all, scratch));
    CHECK(!mmix_picture_normalise(mmix_data(by_hand), out, NULL, NULL));
    image = mmix_image_whole(m, rgb, 7, 5, 4, 6);
    CHECK(image && mmix_shape(image, 2) == 6 && mmix_shape(image, 3) == 4 && apart(image, by_hand) <= 0);
    CHECK(!mmix_image_whole(m, rgb, 7, 5, 0, 6) && says(m, MMIX_ERROR_ARGUMENT, "mmix_image_whole: expected a picture and sizes"));
    CHECK(!mmix_image_whole(m, NULL, 7, 5, 4, 6) && says(m, MMIX_ERROR_ARGUMENT, "found 7 x 5 at NULL to 4 x 6"));
    CHECK(!mmix_image(m, rgb, 7, 5, 0) && says(m, MMIX_ERROR_ARGUMENT, "mmix_image: expected a picture"));
    free(scratch);
    mmix_destroy(m);
}

#define NPY "build/backbones_test.npy"
static void arrays(void)
{
    static const char expected[] = "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    static const int dtypes[] = {MMIX_FILE_F64, MMIX_FILE_F32, MMIX_FILE_F16, MMIX_FILE_I64, MMIX_FILE_I32, MMIX_FILE_I16,
                                 MMIX_FILE_I8, MMIX_FILE_U8, MMIX_FILE_BOOL};
    static const float values[6] = {1, -2, 3, 0.5f, 0, 6};
    mmix_ctx *m = context();
    mmix_entry e;
    unsigned char bytes[256];
    size_t n;
    FILE *f;
    memset(&e, 0, sizeof e);
    e.dtype = MMIX_FILE_F32;
    e.ndim = 2;
    e.shape[0] = 2;
    e.shape[1] = 3;
    e.data = values;
    CHECK(!mmix_npy_save(m, NPY, &e));
    f = fopen(NPY, "rb");
    n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    CHECK(n == 128 + 24 && !memcmp(bytes, expected, sizeof expected - 1) && bytes[127] == '\n' && bytes[126] == ' '
          && !memcmp(bytes + 128, values, 24));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int ndim = 0; ndim <= 8; ndim += i ? 4 : 1) {       /* what is written comes back */
            unsigned char data[8 * 256];
            mmix_archive *a;
            const mmix_entry *back;
            e.dtype = dtypes[i];
            e.ndim = ndim;
            for (int d = 0; d < 8; d++) e.shape[d] = 2;
            for (size_t b = 0; b < sizeof data; b++) data[b] = (unsigned char)(e.dtype == MMIX_FILE_BOOL ? b % 2 : b * 7 % 120);
            e.data = data;
            CHECK(!mmix_npy_save(m, NPY, &e));
            a = mmix_archive_open(m, NPY);
            back = mmix_archive_find(a, "array");
            CHECK_AT(back && back->dtype == e.dtype && back->ndim == ndim && mmix_entry_count(back) == (size_t)1 << ndim
                     && !memcmp(back->data, data, back->bytes), mmix_file_dtype_name(e.dtype));
            mmix_archive_close(a);
        }
    e.dtype = MMIX_FILE_BF16;
    CHECK(mmix_npy_save(m, NPY, &e) && says(m, MMIX_ERROR_ARGUMENT, "found BF16"));
    e.dtype = MMIX_FILE_F32;
    e.data = NULL;
    CHECK(mmix_npy_save(m, NPY, &e) && says(m, MMIX_ERROR_ARGUMENT, "expected data, found NULL"));
    CHECK(mmix_npy_save(m, NPY, NULL) && says(m, MMIX_ERROR_ARGUMENT, "expected path, entry, found NULL"));
    CHECK(mmix_npy_save(m, "build/no/such/folder.npy", (e.data = values, e.ndim = 1, &e)) && says(m, MMIX_ERROR_FILE, "cannot be written"));
    mmix_destroy(m);
    remove(NPY);
}

int main(void)
{
    rows();
    tokens();
    state_dicts();
    opening();
    opening_fails();
    dense();
    batches();
    squares();
    pictures();
    arrays();
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
