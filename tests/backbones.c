/* backbones.c - models from files and what does not fit; features as maps; pictures and .npy files.
   The standard sizes are in tests/internals.c. Run from the repository's root. */
#include "test.h"
#include <sys/stat.h>
#ifdef _WIN32
#include <direct.h>
#define mkdir(path, mode) _mkdir(path)
#endif

/* ---- which tokens a backbone reads (the registers' places are in tests/training.c) ---- */

static void tokens(void)
{
    static const size_t patches[] = {14 * 14, 6 * 6, 7 * 7, 24 * 24}, middle[] = {98, 18, 25, 288};
    static const size_t second[] = {31, 5, 7, 89};
    const mmix_vision_config vit = mmix_vision_config_vit(384, 16);
    const mmix_vision_config linear = mmix_vision_config_linearvit(768);
    const mmix_vision_config vim = mmix_vision_config_dinovim(512);
    const mmix_vision_config registers = mmix_vision_config_mambareg(768);
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

/* ---- models from files ---- */

#define PATH "build/backbones_test.safetensors"
/* the first have positions that are resized as DINO does */
enum { KINDS = 10, STORED = 6 };
static const char *const kind_name[KINDS] = { "ViT",
                                              "LinearViT",
                                              "DinoVim",
                                              "DinoVim, middle",
                                              "DinoMamba-Reg",
                                              "DINOv2",
                                              "DINOv2, registers, SwiGLU",
                                              "DINOv3, SwiGLU",
                                              "Vim",
                                              "Mamba-Reg" };
static int attends(int kind) { return kind < 2 || (kind > 4 && kind < 8); }
/* One of each kind, with heads as wide as the released ones (64), so that names and shapes tell
   them. */
static mmix_vision_config small(int kind)
{
    mmix_vision_config c;
    if (kind == 0) c = mmix_vision_config_vit(192, 4);
    else if (kind == 1) c = mmix_vision_config_linearvit(768);
    else if (kind == 4) c = mmix_vision_config_mambareg(256);
    else if (kind < 4) c = mmix_vision_config_dinovim(256);
    else if (kind < 7)
        c = mmix_vision_config_dinov2(384, kind == 6 ? 4 : 0);
    else if (kind == 7) c = mmix_vision_config_dinov3(384, 1);
    else c = mmix_vision_config_vim(384, kind == 9 ? 3 : 0);
    if (kind == 0) c.dim = 128;
    else if (kind == 6) c.dim = 192;
    else c.dim = 64;
    c.heads = attends(kind) ? c.dim / 64 : 0;
    if (kind == 6) c.swiglu = 1;
    c.depth = 3;
    c.patch = 4;
    c.grid = 3;
    c.mlp_ratio = 2;
    if (kind == 3) c.class_token = MMIX_CLASS_MIDDLE;
    if (kind == 4) c.registers = 2;
    c.mamba.d_state = attends(kind) || kind > 7 ? 0 : 8;
    c.selective.d_state = kind > 7 ? 5 : 0;
    if (kind > 7) c.classes = 7;
    return c;
}
static int same_values(const mmix_params *p, const mmix_params *q)
{
    return p->slab == q->slab && !memcmp(p->values, q->values, p->slab * sizeof *p->values);
}
/* The parameters of a model under other names, and more arrays beside them. */
static void save_as(mmix_ctx *m, const mmix_vision *v, const char *prefix, const char *more,
                    const char *metadata)
{
    static const float one[4] = {1, 2, 3, 4};
    const mmix_params *p = mmix_vision_params((mmix_vision *)v);
    mmix_entry *e = (mmix_entry *)calloc(p->count + 1, sizeof *e);
    char (*name)[96] = (char (*)[96])calloc(p->count, sizeof *name);
    const char *list[] = {"format", "mamba_mix vision 1", "config", metadata, NULL};
    size_t n = p->count;
    for (size_t i = 0; i < n; i++) {
        snprintf(name[i], sizeof name[i], "%s%s", prefix, p->at[i].name);
        e[i] = entry_of(&p->at[i]);
        e[i].name = name[i];
    }
    if (more) {
        e[n].name = more;
        e[n].dtype = MMIX_FILE_F32;
        e[n].ndim = 1;
        e[n].shape[0] = 4;
        e[n++].data = one;
    }
    CHECK(!mmix_archive_save(m, PATH, e, n, metadata ? list : NULL));
    free(e);
    free(name);
}
/* A config that says too much: an error, soon, and nothing held */
static void greedy_configs(void)
{
    static const char *const fields[] = {
        "dim",           "depth",          "heads",        "patch",
        "grid",          "registers",      "mlp_ratio",    "mamba.d_inner",
        "mamba.d_state", "mamba.head_dim", "mamba.groups", "mamba.conv_width", "selective.d_inner",
        "selective.d_state", "selective.dt_rank", "selective.conv_width", "classes", "neck"
    };
    static const char *const number[] = { "7777777", "70000", "3999999999999999" };
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    o.allocator.byte_limit = 64 << 20;
    mmix_ctx *n = mmix_create(&o);
    for (int kind = 0; kind < KINDS; kind += 2) {
        mmix_vision *v = mmix_vision_create(n, small(kind)), *w;
        char text[8192], wrong[8192], key[64];
        CHECK(!mmix_vision_save(n, v, PATH));
        mmix_archive *saved = mmix_archive_open(n, PATH);
        snprintf(text, sizeof text, "%s", mmix_archive_metadata(saved, "config"));
        mmix_archive_close(saved);
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            for (int large = 0; large < 3; large++) {
                snprintf(key, sizeof key, "\"vision.%s\":[", fields[i]);
                const char *at = strstr(text, key) + strlen(key);
                snprintf(wrong, sizeof wrong, "%.*s%s%s", (int)(at - text), text, number[large],
                         strchr(at, ']'));
                save_as(n, v, "", NULL, wrong);
                w = mmix_vision_load(n, PATH);
                /* what the kind does not read, or what only makes it larger, may pass */
                CHECK_AT(w ? !mmix_error(n) : mmix_error(n) != NULL, key);
                mmix_vision_destroy(w);
                mmix_error_clear(n);
                mmix_reset(n);
            }
        mmix_vision_destroy(v);
    }
    mmix_destroy(n);
}
/* Positions that are no square, no backbone at all, no file */
static void odd_position_tables(mmix_ctx *m)
{
    mmix_params *p = mmix_params_create(m);
    const size_t cls[3] = { 1, 1, 8 }, positions[3] = { 1, 6, 8 }, patch[4] = { 8, 3, 2, 2 },
                 norm[1] = { 8 };
    mmix_vision_config c;
    mmix_params_add(p, "", "cls_token", 3, cls, MMIX_INIT_CONSTANT, 0, 0);
    mmix_params_add(p, "", "pos_embed", 3, positions, MMIX_INIT_CONSTANT, 0, 0);
    mmix_params_add(p, "", "patch_embed.proj.weight", 4, patch, MMIX_INIT_CONSTANT, 0, 0);
    mmix_params_add(p, "", "blocks.0.norm1.weight", 1, norm, MMIX_INIT_CONSTANT, 0, 0);
    CHECK(!mmix_params_allocate(p) && !mmix_params_save(p, PATH));
    CHECK(!mmix_vision_load(m, PATH)
          && says(m, MMIX_ERROR_FILE, "width 8, patch 2, 6 positions, "));
    mmix_params_destroy(p);
    CHECK(mmix_vision_config_read(m, NULL, &c)
          && says(m, MMIX_ERROR_ARGUMENT, "archive is NULL"));
    CHECK(!mmix_vision_load(m, "build/no such file")
          && says(m, MMIX_ERROR_FILE, "cannot be opened"));
}
static void opening(void)
{
    mmix_ctx *m = context(1, 0);
    for (int kind = 0; kind < KINDS; kind++) {
        const char *where = kind_name[kind];
        mmix_vision *v = mmix_vision_create(m, small(kind)), *w;
        const mmix_vision_config *c = mmix_vision_config_of(v), *d;
        mmix_archive *a;
        char *line;
        CHECK_AT(!mmix_vision_save(m, v, PATH), where);          /* its config is in it */
        w = mmix_vision_load(m, PATH);
        CHECK_AT(w && !memcmp(mmix_vision_config_of(w), c, sizeof *c), where);
        CHECK_AT(w && same_values(mmix_vision_params(v), mmix_vision_params(w)), where);
        mmix_vision_destroy(w);

        /* names alone */
        save_as(m, v, "teacher.module.backbone.", "teacher.module.backbone.head.mlp.0.weight",
                NULL);
        w = mmix_vision_load(m, PATH);
        d = mmix_vision_config_of(w);
        CHECK_AT(d && d->mixer == (kind == 1 ? MMIX_MIXER_SOFTMAX : c->mixer) && d->dim == c->dim
                     && d->depth == 3,
                 where);
        CHECK_AT(d
                     && d->heads
                            == (attends(kind) && c->dim > 64 ? c->dim / 64 : 1)
                     && d->patch == 4 && d->grid == c->grid && d->registers == c->registers
                     && d->positions == c->positions && d->swiglu == c->swiglu
                     && d->layer_scale == c->layer_scale && fabs(d->eps - c->eps) < 1e-12,
                 where);
        CHECK_AT(d && d->class_token == (kind == 3 ? MMIX_CLASS_RELEASED : c->class_token)
                     && (!attends(kind) || d->mlp_ratio == 2)
                     && (attends(kind)
                         || kind > 7
                         || (d->mamba.d_state == 8 && d->mamba.head_dim == 64
                             && d->mamba.d_inner == 128 && d->mamba.conv_width == 4)),
                 where);
        if (kind > 7)
            CHECK_AT(d && d->selective.d_inner == 128 && d->selective.d_state == 5
                         && d->selective.dt_rank == 4 && d->selective.conv_width == 4
                         && !d->selective.bias && d->selective.divide == 1 && d->classes == 7
                         && d->pool == c->pool && d->neck == c->neck && d->stride == 0,
                     where);
        CHECK_AT(w && same_values(mmix_vision_params(v), mmix_vision_params(w)), where);
        mmix_vision_destroy(w);

        /* what does not fit is said, and nothing read */
        save_as(m, v, "", "extra.weight", NULL);
        CHECK_AT(!mmix_vision_load(m, PATH)
                     && says(m, MMIX_ERROR_FILE,
                             "found 0 missing, 0 of another shape, 1 "
                             "unexpected; first: unexpected extra.weight (4)"),
                 where);
        w = mmix_vision_create(m, (c = mmix_vision_config_of(v), small(kind == 0 ? 1 : 0)));
        a = mmix_archive_open(m, PATH);
        CHECK_AT(mmix_params_read(mmix_vision_params(w), a, NULL)
                     && says(m, MMIX_ERROR_FILE, "reshaped "),
                 where);
        line = strstr(mmix_params_check(mmix_vision_params(w), a, NULL), "reshaped pos_embed");
        CHECK_AT(kind == 7 ? !line : line && strstr(line, ", expected (") != NULL, where);
        CHECK_AT(!strcmp(mmix_params_check(mmix_vision_params(v), a, NULL),
                         "unexpected extra.weight (4)\n"),
                 where);
        mmix_archive_close(a);
        mmix_vision_destroy(w);

        save_as(m, v, "", NULL, "{\"vision.mixer\":[0]}");       /* metadata that is wrong */
        CHECK_AT(!mmix_vision_load(m, PATH)
                     && says(m, MMIX_ERROR_FILE, "the config has no valid vision.dim"),
                 where);
        save_as(m, v, "", NULL, "{");
        CHECK_AT(!mmix_vision_load(m, PATH) && says(m, MMIX_ERROR_FILE, "JSON byte 1"), where);
        save_as(m, v, "", kind == 9 ? "neck.bias" : "neck.weight", NULL);
        CHECK_AT(!mmix_vision_load(m, PATH) && says(m, MMIX_ERROR_FILE, "unexpected neck."),
                 where);
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    greedy_configs();
    odd_position_tables(m);
    CHECK(!mmix_error(m));
    mmix_destroy(m);
    remove(PATH);
}
/* A network is opened and computes; where it can't be opened, step memory alone stays. */
static int opened(const mmix_options *o, void *user)
{
    const size_t block[2] = {0, 2};
    mmix_vision_options look;
    mmix_ctx *m = mmix_create(o);
    if (!m) return MMIX_ERROR_MEMORY;
    const size_t before = mmix_memory(m).bytes;
    memset(&look, 0, sizeof look);
    look.dense = block;
    look.n_dense = 2;
    mmix_vision *v = mmix_vision_load(m, PATH);
    if (!v)
        CHECK_AT(mmix_memory(m).bytes - before <= 2 * ARENA_BLOCK + 4096, (const char *)user);
    mmix_features f =
        mmix_vision_forward(m, v, mmix_error(m) ? NULL : mmix_fill(mmix_new4(m, 1, 3, 8, 12), 1),
                            &look);
    const int kind = mmix_error_kind(m);
    CHECK_AT(kind ? !f.token && !f.dense : f.token && f.dense, (const char *)user);
    mmix_vision_destroy(v);
    mmix_destroy(m);
    return kind;
}
static void opening_fails(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        mmix_ctx *m = context(1, 0);
        mmix_vision *v = mmix_vision_create(m, small(kind));
        mmix_vision_save(m, v, PATH);
        mmix_vision_destroy(v);
        mmix_destroy(m);
        CHECK_AT(memory_fails(opened, (void *)kind_name[kind], 1, 1) > 10, kind_name[kind]);
    }
    remove(PATH);
}

/* ---- names of other systems ---- */

enum { MOST = 256 };
static mmix_entry entries[MOST];
static char names[MOST][160];
static size_t count;
static void put(const char *name, const mmix_param *p, size_t first, size_t rows)
{
    mmix_entry e = entry_of(p);
    const size_t row = mmix_count(p->tensor) / mmix_shape(p->tensor, 0);
    snprintf(names[count], sizeof names[count], "%s", name);
    e.name = names[count];
    e.shape[0] = rows;
    e.data = mmix_data(p->tensor) + first * row;
    if (count + 1 < MOST) entries[count++] = e;
}
/* `name` with each word of a list of pairs replaced where it stands. */
static void replaced(char out[160], const char *name, const char *const *pairs)
{
    snprintf(out, 160, "%s", name);
    for (; pairs && *pairs; pairs += 2) {
        char rest[160], *at = strstr(out, pairs[0]);
        if (!at) continue;
        snprintf(rest, sizeof rest, "%s", at + strlen(pairs[0]));
        snprintf(at, 160 - (size_t)(at - out), "%s%s", pairs[1], rest);
    }
}
static const char *const v1[] = {
    "norm1", "layernorm_before", "norm2", "layernorm_after", "mlp.fc1", "intermediate.dense", "mlp.fc2", "output.dense", "cls_token",
    "embeddings.cls_token", "pos_embed", "embeddings.position_embeddings", "patch_embed.proj", "embeddings.patch_embeddings.projection",
    "attn.qkv", "attention.attention.", "attn.proj", "attention.output.dense", "blocks.", "encoder.layer.", "norm.", "layernorm.", NULL };
static const char *const v2[] = {
    "cls_token", "embeddings.cls_token", "pos_embed", "embeddings.position_embeddings", "register_tokens",
    "embeddings.register_tokens", "patch_embed.proj", "embeddings.patch_embeddings.projection", "attn.qkv", "attention.attention.",
    "attn.proj", "attention.output.dense", "ls1.gamma", "layer_scale1.lambda1", "ls2.gamma", "layer_scale2.lambda1", "mlp.w12",
    "mlp.weights_in", "mlp.w3", "mlp.weights_out", "blocks.", "encoder.layer.", "norm.", "layernorm.", NULL };
static const char *const v3[] = {
    "cls_token", "embeddings.cls_token", "storage_tokens", "embeddings.register_tokens", "patch_embed.proj",
    "embeddings.patch_embeddings", "attn.qkv", "attention._proj", "attn.proj", "attention.o_proj", "ls1.gamma", "layer_scale1.lambda1",
    "ls2.gamma", "layer_scale2.lambda1", "mlp.w1.", "mlp.gate_proj.", "mlp.w2.", "mlp.up_proj.", "mlp.w3", "mlp.down_proj",
    "mlp.fc1", "mlp.up_proj", "mlp.fc2", "mlp.down_proj", "blocks.", "layer.", NULL };
/* The network's parameters as Hugging Face names and cuts them. */
static void foreign(const mmix_vision *v, int kind)
{
    static const char *const letters[] = {"query", "key", "value", "q", "k", "v"};
    const mmix_params *p = mmix_vision_params((mmix_vision *)v);
    const size_t D = mmix_vision_config_of(v)->dim;
    count = 0;
    for (size_t i = 0; i < p->count; i++) {
        char name[160], piece[160], *at;
        replaced(name, p->at[i].name, kind == 7 ? v3 : kind ? v2 : v1);
        if (!strstr(p->at[i].name, "attn.qkv")) {
            put(name, &p->at[i], 0, mmix_shape(p->at[i].tensor, 0));
            continue;
        }
        for (size_t k = 0; k < 3; k++) {
            const char *word = letters[k + (kind == 7 ? 3 : 0)];
            const char *before = kind == 7 ? "attention." : "attention.attention.";
            at = strstr(name, kind == 7 ? "attention._proj" : before) + strlen(before);
            snprintf(piece, sizeof piece, "%.*s%s%s", (int)(at - name), name, word, at);
            if (kind < 7 || k != 1 || !strstr(piece, "bias"))
                put(piece, &p->at[i], k * D, D);
        }
    }
}
static int save_entries(mmix_ctx *m) { return mmix_archive_save(m, PATH, entries, count, NULL); }
/* A plain ViT as transformers writes it (ViT, DINO, MAE), and the heads of a ViT-H, whose width
   does not tell them. */
static void plain_names(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_vision *v = mmix_vision_create(m, small(0)), *w = NULL;
    mmix_params *p = mmix_vision_params(v);
    for (size_t i = 0; i < p->count; i++)
        for (size_t e = 0; e < mmix_count(p->at[i].tensor); e++)
            mmix_data(p->at[i].tensor)[e] = (real)(0.3 * mmix_random_normal(m, 0, i, e));
    doing("ViT, as transformers names it");
    foreign(v, 0);
    put("pooler.dense.weight", &p->at[0], 0, 1);
    CHECK(!save_entries(m) && (w = mmix_vision_load(m, PATH)) != NULL
          && same_values(p, mmix_vision_params(w)));
    FINE(m);
    if (w)
        CHECK(mmix_vision_config_of(w)->eps == 1e-12
              && mmix_vision_config_of(w)->positions == MMIX_POSITIONS_EXACT
              && mmix_vision_config_of(w)->heads == 2);
    mmix_vision_destroy(w);
    mmix_vision_destroy(v);
    doing("ViT-H");
    mmix_vision_config c = small(0);
    c.dim = 1280;
    c.heads = 16;
    c.depth = 1;
    c.mlp_ratio = 0.1;
    v = mmix_vision_create(m, c);
    CHECK(v && !mmix_params_save(mmix_vision_params(v), PATH)
          && (w = mmix_vision_load(m, PATH)) != NULL);
    FINE(m);
    if (w) CHECK(mmix_vision_config_of(w)->heads == 16);
    mmix_vision_destroy(w);
    mmix_vision_destroy(v);
    doing("SO400M");
    c.dim = 1152;
    c.mlp_ratio = 0.1;
    v = mmix_vision_create(m, c);
    CHECK(v && !mmix_params_save(mmix_vision_params(v), PATH)
          && (w = mmix_vision_load(m, PATH)) != NULL);
    FINE(m);
    if (w) CHECK(mmix_vision_config_of(w)->heads == 16);
    mmix_vision_destroy(w);
    mmix_vision_destroy(v);
    doing("more heads than there are numbers");
    c = small(7);
    c.heads = (size_t)-1 / 4 + 1;
    CHECK(!mmix_vision_create(m, c) && says(m, MMIX_ERROR_ARGUMENT, "heads"));
    mmix_destroy(m);
}
/* DINOv3's 7B, by its width */
static void widest_dinov3(mmix_ctx *m)
{
    const size_t shape[3] = {1, 1, 4096};
    mmix_params *p = mmix_params_create(m);
    mmix_params_add(p, "", "cls_token", 3, shape, MMIX_INIT_CONSTANT, 0, 0);
    CHECK(!mmix_params_allocate(p) && !mmix_params_save(p, PATH));
    CHECK(!mmix_vision_load(m, PATH) && says(m, MMIX_ERROR_FILE, "7B is not supported"));
    mmix_params_destroy(p);
}
static void other_names(void)
{
    mmix_ctx *m = context(1, 0);
    for (int kind = 5; kind < 8; kind++) {
        const char *where = kind_name[kind];
        mmix_vision *v = mmix_vision_create(m, small(kind)), *w;
        mmix_params *p = mmix_vision_params(v);
        const size_t D = small(kind).dim;
        /* nothing trivial; the keys' bias that DINOv3 has not is 0 */
        for (size_t i = 0; i < p->count; i++)
            for (size_t e = 0; e < mmix_count(p->at[i].tensor); e++)
                mmix_data(p->at[i].tensor)[e] = kind == 7 && strstr(p->at[i].name, "qkv.bias")
                                                        && e / D == 1
                                                    ? 0
                                                    : (real)(0.3 * mmix_random_normal(m, 0, i, e));
        foreign(v, kind);
        CHECK_AT(!save_entries(m), where);
        w = mmix_vision_load(m, PATH);
        CHECK_AT(w && same_values(p, mmix_vision_params(w)), mmix_error(m) ? mmix_error(m) : where);
        CHECK_AT(w
                     && mmix_vision_config_of(w)->positions
                            == (kind == 5 ? MMIX_POSITIONS_EXACT : small(kind).positions),
                 where);
        mmix_vision_destroy(w);
        mmix_error_clear(m);

        /* one array is missing: it is named */
        for (size_t lost = 0; lost < count; lost += 3) {
            const mmix_entry kept = entries[lost], last = entries[count - 1];
            char name[200];
            snprintf(name, sizeof name, "missing %s", kept.name);
            if (strstr(kept.name, "cls_token") || strstr(kept.name, "position_embeddings")
                || strstr(kept.name, "patch_embeddings")
                || strstr(kept.name, "layer.2.norm1.weight"))
                continue; /* what it is found by */
            entries[lost] = last;
            count--;
            CHECK_AT(!save_entries(m) && !mmix_vision_load(m, PATH)
                         && mmix_error_kind(m) == MMIX_ERROR_FILE,
                     kept.name);
            if (!strstr(kept.name, "register") && !strstr(kept.name, "layer.0."))
                CHECK_AT(strstr(mmix_error(m), name), mmix_error(m));
            mmix_error_clear(m);
            entries[lost] = kept;
            count++;
        }
        /* of both systems */
        put("blocks.1.attn.proj.bias", &p->at[1], 0, mmix_shape(p->at[1].tensor, 0));
        CHECK_AT(!save_entries(m) && !mmix_vision_load(m, PATH)
                     && says(m, MMIX_ERROR_FILE, "unexpected blocks.1.attn.proj.bias"),
                 where);

        /* cut in chunks, with what is in such files and in no formula */
        count = 0;
        for (size_t i = 0; i < p->count; i++) {
            char name[160];
            const char *block = strncmp(p->at[i].name, "blocks.", 7) ? NULL : p->at[i].name + 7;
            if (block) snprintf(name, sizeof name, "blocks.%d.%s", atoi(block) / 2, block);
            else snprintf(name, sizeof name, "%s", p->at[i].name);
            put(name, &p->at[i], 0, mmix_shape(p->at[i].tensor, 0));
        }
        put("mask_token", &p->at[0], 0, 1);
        put("rope_embed.periods", &p->at[0], 0, 1);
        put("blocks.0.0.attn.qkv.bias_mask", &p->at[0], 0, 1);
        CHECK_AT(!save_entries(m), where);
        w = mmix_vision_load(m, PATH);
        CHECK_AT(w && same_values(p, mmix_vision_params(w)), mmix_error(m) ? mmix_error(m) : where);
        mmix_vision_destroy(w);
        mmix_error_clear(m);
        count = 1;
        const char *lone = "x", *expected = "expected the weights of";
        if (kind == 5) {
            lone = "stages.0.layers.0.depthwise_conv.weight";
            expected = "a ConvNeXt";
        }
        else if (kind == 6) {
            lone = "text_model.token_embedding.weight";
            expected = "a text encoder";
        }
        put(lone, &p->at[0], 0, 1);
        CHECK_AT(!save_entries(m) && !mmix_vision_load(m, PATH)
                         && says(m, MMIX_ERROR_FILE, expected),
                 where);
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    widest_dinov3(m);
    CHECK(!mmix_error(m));
    mmix_destroy(m);
    remove(PATH);
}

/* ---- what the class token reads ---- */

/* Rows of M of the block at hand, from M itself. */
typedef struct rows_of_M {
    size_t block, at, n, patches;
    const size_t *rows;
    double *sum;
    int mamba;
} rows_of_M;
static void add_rows(void *user, mmix_ctx *m, const mmix_mixer *mixer)
{
    rows_of_M *r = (rows_of_M *)user;
    if (r->at++ / (r->mamba ? 2 : 1) != r->block)
        return;
    mmix_tensor *M = mmix_mix_matrix(m, mixer);
    for (size_t b = 0, H = mmix_shape(M, 1), L = mmix_shape(M, 2); b < mmix_shape(M, 0); b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < r->n; i++)
                for (size_t c = 0; c < L; c++)
                    r->sum[(b * H + h) * L + c] += (double)mmix_data(
                                                       M)[((b * H + h) * L + r->rows[i]) * L + c]
                                                   / (double)r->n / (r->mamba ? 2 : 1);
}
static void reading(void)
{
    static double sum[2][1 << 15];
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t block = 0; block < 3; block += 2) {
            mmix_ctx *m = context(1, 0);
            mmix_vision *v = mmix_vision_create(m, small(kind));
            const mmix_vision_config c = small(kind);
            /* 4 x 5 patches */
            mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 20), 1, 7), *map;
            size_t at[12], n = mmix_vision_class_index(&c, 20, at);
            mmix_tensor *tokens = NULL;
            double worst = 0;
            memset(sum, 0, sizeof sum);
            /* one picture: a batch may pass the blocks in pieces */
            for (size_t b = 0; b < 2; b++) {
                rows_of_M r = {block, 0, n, 20, at, sum[b], !attends(kind)};
                mmix_mix_hook(m, add_rows, &r);
                tokens = mmix_vision_forward(m, v, mmix_slice(m, image, 0, b, 1), NULL).tokens;
                mmix_mix_hook(m, NULL, NULL);
            }
            map = mmix_vision_attention(m, v, image, block);
            const size_t H = mmix_shape(map, 1), L = mmix_shape(tokens, 1);
            /* of a Vim the mean over its 128 channels */
            const size_t together = kind > 7 ? 128 : 1;
            size_t heads = kind > 7 ? 1 : 2;
            if (attends(kind)) heads = c.heads;
            CHECK_AT(H == heads, kind_name[kind]);
            CHECK_AT(map && mmix_shape(map, 0) == 2 && mmix_shape(map, 2) == 4
                         && mmix_shape(map, 3) == 5,
                     kind_name[kind]);
            for (size_t i = 0; i < 2 * H; i++)
                for (size_t t = 0, p = 0; t < L; t++) {
                    int other = c.class_token == MMIX_CLASS_RELEASED && t == 0;
                    for (size_t k = 0; k < n; k++)
                        other |= at[k] == t;
                    if (c.class_token == MMIX_CLASS_FIRST) other |= t <= c.registers;
                    if (other) continue;
                    double mean = 0;
                    for (size_t h = 0; h < together; h++)
                        mean += sum[i / H][(i % H * together + h) * L + t] / (double)together;
                    worst = fmax(worst, fabs((double)mmix_data(map)[i * 20 + p++] - mean));
                }
            CHECK_AT(worst < 40 * EPS, kind_name[kind]);
            CHECK(!mmix_vision_attention(m, v, image, 3)
                  && says(m, MMIX_ERROR_ARGUMENT, "block is 3, expected 0 to 2"));
            mmix_vision_destroy(v);
            mmix_destroy(m);
        }
}

/* ---- a network that was trained, from ../shared/data/vit-s14 ---- */
static void trained(void)
{
    static const char *const folder = "../shared/data/vit-s14/";
    static const int to_planes[4] = {0, 3, 1, 2};
    const size_t pixels[4] = {5, 224, 224, 3};
    char path[64];
    snprintf(path, sizeof path, "%smodel.safetensors", folder);
    FILE *there = fopen(path, "rb");
    if (!there) {
        printf("skipped: %s is not there\n", folder);
        skipped++;
        return;
    }
    fclose(there);
    mmix_ctx *m = mmix_create(NULL);
    mmix_vision *v = mmix_vision_load(m, path);
    const mmix_vision_config *c = mmix_vision_config_of(v);
    CHECK_AT(c && c->dim == 384 && c->depth == 12 && c->heads == 6 && c->patch == 14
                 && c->grid == 37 && c->layer_scale && c->positions == MMIX_POSITIONS_EXACT,
             mmix_error(m));
    snprintf(path, sizeof path, "%sonnxruntime.safetensors", folder);
    mmix_archive *a = mmix_archive_open(m, path);
    const mmix_entry *e = mmix_archive_find(a, "image"), *f = mmix_archive_find(a, "tokens");
    mmix_tensor *image = mmix_new(m, MMIX_DTYPE_REAL, 4, pixels);
    mmix_tensor *tokens = mmix_new(m, MMIX_DTYPE_REAL, 3, f->shape);
    /* it says (5, 3, 224, 224) and lies so */
    mmix_archive_read(m, a, e, MMIX_FILE_REAL, mmix_data(image), mmix_count(image));
    mmix_archive_read(m, a, f, MMIX_FILE_REAL, mmix_data(tokens), mmix_count(tokens));
    if (SLOW || sizeof(real) == 8) {
        image = mmix_slice(m, image, 0, 0, 1);
        tokens = mmix_slice(m, tokens, 0, 0, 1);
    }
    mmix_features g = mmix_vision_forward(m, v, mmix_permute(m, image, to_planes), NULL);
    /* 2e-4 is asked for */
    CHECK_AT(gap(g.tokens, tokens) < 2e-5 * largest(tokens), mmix_error(m));
    mmix_archive_close(a);
    mmix_vision_destroy(v);
    mmix_destroy(m);
}

/* ---- bf16 ---- */

static real rounded(real x)                      /* to 8 bits, ties to even */
{
    int e;
    const double f = frexp((double)x, &e);
    return (real)ldexp(nearbyint(ldexp(f, 8)), e - 8);
}
/* Tokens of a network, and the gradient of the sum of their squares with respect to the image. */
static mmix_tensor *through(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image, mmix_tensor **dx)
{
    mmix_tensor *x = mmix_require_grad(mmix_affine(m, image, 1, 0));
    mmix_record(m, dx != NULL);
    mmix_tensor *y = mmix_vision_forward(m, v, x, NULL).tokens;
    if (dx && y) {
        /* the squares of what a norm made always have the same sum */
        mmix_tensor *weight = mmix_new3(m, mmix_shape(y, 0), mmix_shape(y, 1), mmix_shape(y, 2));
        mmix_fill_normal(m, weight, 1, 7);
        mmix_backward(m, mmix_sum(m, mmix_mul(m, y, weight)));
        *dx = mmix_grad(x);
    }
    mmix_record(m, 0);
    return dx ? NULL : y;
}
/* Whether products with bf16 round x to bf16, too: where the processor multiplies bf16, 1.00390625, between two of
   them, becomes 1. */
static int rounds_x(mmix_ctx *m)
{
    size_t one[2] = { 1, 1 };
    mmix_tensor *w = mmix_fill(mmix_new(m, MMIX_DTYPE_BF16, 2, one), 1);
    const mmix_tensor *y = mmix_linear(m, mmix_fill(mmix_new2(m, 1, 1), 1.00390625), w, NULL);
    return y && mmix_data(y)[0] <= 1;
}
/* A network kept as bf16 is that of its rounded matrices, but for the order of sums or, where x is
   rounded, for that: few rows or many, packed or not, backward, too. It comes back from a file as
   it is, and refuses what needs its numbers. */
static void halves(void)
{
    static const char *const packed[] = {"as it is", "packed"};
    for (int kind = 0; kind < KINDS; kind++) {
        mmix_ctx *m = context(1 + kind % 2, 0);
        mmix_vision *v = mmix_vision_create(m, small(kind)), *half = NULL, *again = NULL;
        CHECK(!mmix_vision_save(m, v, PATH)
              && (half = mmix_vision_load_as(m, PATH, MMIX_DTYPE_BF16)) != NULL);
        CHECK(!mmix_vision_save(m, half, PATH) && (again = mmix_vision_load(m, PATH)) != NULL);
        if (!CHECK_AT(again, mmix_error(m))) break;
        mmix_params *p = mmix_vision_params(v), *q = mmix_vision_params(half);
        mmix_tensor *w = NULL;
        const double bound = rounds_x(m) ? 0.05 : 1000 * EPS;
        for (size_t i = 0; i < p->count; i++) {
            mmix_tensor *t = p->at[i].tensor;
            /* rates of decay are exponents and stay as they are */
            const int matrix = mmix_ndim(t) == 2 && !strstr(p->at[i].name, ".mixer.A_");
            CHECK_AT(mmix_dtype(q->at[i].tensor) == (matrix ? MMIX_DTYPE_BF16 : MMIX_DTYPE_REAL),
                     p->at[i].name);
            CHECK_AT((mmix_data(q->at[i].tensor) == NULL) == matrix, p->at[i].name);
            if (matrix) w = q->at[i].tensor;
            for (size_t e = 0; matrix && e < mmix_count(t); e++)
                mmix_data(t)[e] = rounded(mmix_data(t)[e]);
        }
        CHECK_AT(same_values(mmix_vision_params(again), p) && q->slab < p->slab, kind_name[kind]);
        for (int pack = 0; pack < 2; pack++) {
            IS(mmix_params_pack(q, pack), 0);
            /* 12: over 512 rows, b is packed at once */
            for (size_t B = 1; B < (kind == 5 ? 13 : 2); B += 11) {
                mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, B, 3, 28, 28), 1, B),
                            *dx[2] = { NULL, NULL }, *a = through(m, v, image, NULL),
                            *b = through(m, half, image, NULL);
                CHECK_AT(a && b, packed[pack]);
                ALIKE(b, a, bound);
                through(m, v, image, &dx[0]);
                through(m, half, image, &dx[1]);
                CHECK_AT(dx[0] && dx[1] && largest(dx[0]) > 0, packed[pack]);
                ALIKE(dx[1], dx[0], 4 * bound);
                FINE(m);
                mmix_reset(m);
            }
        }
        BAD(mmix_add(m, w, w), "is bf16, expected real", "");
        BAD_INT(mmix_read(w, NULL), "values is NULL", "");
        BAD_INT(mmix_ema(p, q, 0.5), "mmix_ema", "different");
        mmix_vision_destroy(again);
        mmix_vision_destroy(half);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
    remove(PATH);
}

/* ---- features as maps ---- */

/* Sum of map × weights, with recording: its value, and a gradient into `dw` of the patch
   embedding's bias. */
static double looked(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image, int norm,
                     const mmix_tensor *weight)
{
    const size_t block = 1;
    mmix_vision_options o;
    memset(&o, 0, sizeof o);
    o.dense = &block;
    o.n_dense = 1;
    o.dense_norm = norm;
    mmix_tensor *map = mmix_vision_forward(m, v, image, &o).dense[0];
    mmix_tensor *sum = mmix_sum(m, mmix_mul(m, map, (mmix_tensor *)weight));
    const double value = mmix_item(sum);
    if (mmix_backward(m, sum)) return NAN;
    return value;
}
static void dense(void)
{
    const size_t every[3] = {0, 1, 2}, wrong[2][2] = {{1, 1}, {0, 3}};
    for (int kind = 0; kind < KINDS; kind++) {
        const char *where = kind_name[kind];
        mmix_ctx *m = context(1, 0);
        mmix_vision *v = mmix_vision_create(m, small(kind));
        /* 3 x 5 patches */
        mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 13, 20), 1, 7), *patches;
        mmix_vision_options o;
        memset(&o, 0, sizeof o);
        o.dense = every;
        o.n_dense = 3;
        o.dense_norm = 1;
        mmix_features f = mmix_vision_forward(m, v, image, &o);
        mmix_features g;
        mmix_features plain = mmix_vision_forward(m, v, image, NULL);
        static const int to_tokens[4] = {0, 2, 3, 1};
        const size_t shape[3] = {2, 15, small(kind).dim};
        CHECK_AT(f.dense && f.grid_h == 3 && f.grid_w == 5 && mmix_shape(f.dense[0], 1) == shape[2]
                 && mmix_shape(f.dense[0], 2) == 3 && mmix_shape(f.dense[0], 3) == 5, where);
        patches = mmix_reshape(m, mmix_permute(m, f.dense[2], to_tokens), 3, shape);
        /* the last block, normed: the patch tokens */
        CHECK_AT(gap(patches, f.patches) <= 0, where);
        CHECK_AT(gap(plain.patches, f.patches) <= 0 && gap(plain.token, f.token) <= 0
                     && !plain.dense,
                 where);
        o.dense_norm = 0;
        f = mmix_vision_forward(m, v, image, &o);
        CHECK_AT(f.dense && gap(f.dense[0], f.dense[1]) > 0.01, where);
        /* raw maps, normed by hand, are the normed ones */
        mmix_params *p = mmix_vision_params(v);
        mmix_tensor *raw = mmix_reshape(m, mmix_permute(m, f.dense[2], to_tokens), 3, shape);
        mmix_tensor *normed =
            attends(kind) ? mmix_layer_norm(m, raw, mmix_params_find(p, "norm.weight"),
                                            mmix_params_find(p, "norm.bias"), small(kind).eps)
                          : mmix_rms_norm(m, raw, mmix_params_find(p, "norm_f.weight"), 1e-5);
        CHECK_AT(gap(normed, f.patches) < 1e-5, where);
        mmix_record(m, 1);
        mmix_params_require_grad(p, 1);
        g = mmix_vision_forward(m, v, image, &o);
        /* recorded: equal */
        for (int i = 0; i < 3; i++)
            CHECK_AT(g.dense && gap(f.dense[i], g.dense[i]) <= 0, where);
        mmix_reset(m);
        for (int i = 0; i < 2; i++) {
            o.dense = wrong[i];
            o.n_dense = 2;
            image = mmix_fill_normal(m, mmix_new4(m, 1, 3, 8, 8), 1, 7);
            CHECK_AT(!mmix_vision_forward(m, v, image, &o).token
                         && says(m, MMIX_ERROR_ARGUMENT,
                                 i ? "dense[1] is 3, expected "
                                     "1 to 2"
                                   : "dense[1] is 1, expected 2 to 2"),
                     where);
        }
        /* gradients of a map, by central differences */
        for (int norm = 0; norm < 2 && sizeof(real) == 8; norm++) {
            mmix_tensor *bias = mmix_params_find(p, "patch_embed.proj.bias"), *weight;
            double slope, value[2];
            mmix_reset(m);
            image = mmix_fill_normal(m, mmix_new4(m, 1, 3, 8, 12), 1, 7);
            weight = mmix_fill_normal(m, mmix_new4(m, 1, small(kind).dim, 2, 3), 1, 8);
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
        if (sizeof(real) == 4) skipped += 2;     /* gradients, in the double build */
        CHECK_AT(!mmix_error(m), mmix_error(m));
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
}

/* Many pictures go through a block a few at a time: each gets the bits that it gets alone, with any
   number of threads, packed or not, and the same as all at once with recording. */
static void batches(void)
{
    enum { B = SLOW ? 5 : 29 };
    for (int kind = 0; kind < KINDS; kind++)
        for (int packed = 0; packed < 2; packed++) {
            const char *where = kind_name[kind];
            mmix_options options;
            memset(&options, 0, sizeof options);
            options.threads = 1 + packed;
            mmix_ctx *m = mmix_create(&options);
            mmix_vision *v = mmix_vision_create(m, small(kind));
            mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, B, 3, 12, 20), 1, 7);
            mmix_vision_options o;
            double worst = 0;
            memset(&o, 0, sizeof o);
            o.n_last = 2;
            mmix_params_pack(mmix_vision_params(v), packed);
            mmix_features all = mmix_vision_forward(m, v, image, &o), recorded;
            CHECK_AT(all.token && mmix_shape(all.intermediate, 0) == B
                         && mmix_shape(all.intermediate, 1) == 2 * small(kind).dim,
                     where);
            for (size_t b = 0; b < B; b++) {
                mmix_features one = mmix_vision_forward(m, v, mmix_slice(m, image, 0, b, 1), &o);
                worst = fmax(worst, gap(one.token, mmix_slice(m, all.token, 0, b, 1)));
                worst = fmax(worst, gap(one.tokens, mmix_slice(m, all.tokens, 0, b, 1)));
                worst = fmax(worst,
                             gap(one.intermediate, mmix_slice(m, all.intermediate, 0, b, 1)));
            }
            CHECK_AT(worst <= 0, where);
            mmix_params_require_grad(mmix_vision_params(v), 1);
            mmix_record(m, 1);
            recorded = mmix_vision_forward(m, v, image, &o);
            CHECK_AT(gap(recorded.tokens, all.tokens) <= 2e-6
                         && gap(recorded.intermediate, all.intermediate) <= 2e-6,
                     where);
            CHECK_AT(!mmix_error(m), mmix_error(m));
            mmix_vision_destroy(v);
            mmix_destroy(m);
        }
}

/* Positions are as stored only for a picture that is square, in patches and pixels: one more row of
   pixels, which no patch sees, moves them. */
static void squares(void)
{
    for (int kind = 0; kind < STORED; kind++) {
        mmix_ctx *m = context(1, 0);
        mmix_vision *v = mmix_vision_create(m, small(kind));
        mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 1, 3, 13, 13), 1, 7), *as_stored,
                    *more;
        as_stored =
            mmix_vision_forward(m, v, mmix_slice(m, mmix_slice(m, image, 2, 0, 12), 3, 0, 12), NULL)
                .tokens;
        more = mmix_vision_forward(m, v, image, NULL).tokens;
        CHECK_AT(gap(as_stored, more) <= 0, kind_name[kind]);
        more = mmix_vision_forward(m, v, mmix_slice(m, image, 3, 0, 12), NULL).tokens;
        CHECK_AT(gap(as_stored, more) > 1e-4 && gap(as_stored, more) < 1, kind_name[kind]);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
}

/* ---- pictures and arrays ---- */

static void pictures(void)
{
    mmix_ctx *m = context(1, 0);
    uint8_t rgb[7 * 5 * 3], small_rgb[4 * 6 * 3];
    const mmix_box all = {0, 0, 5, 7}, beyond = {1, 0, 5, 7};
    mmix_picture in = {rgb, 7, 5}, none = {NULL, 7, 5}, out = {small_rgb, 4, 6};
    mmix_tensor *image, *by_hand = mmix_new4(m, 1, 3, 6, 4);
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * 37 % 251);
    void *scratch = malloc(mmix_picture_resize_scratch_bytes(mmix_resize_plan_box(all, 4, 6)));
    CHECK(!mmix_picture_resize(small_rgb, in, mmix_resize_plan_box(all, 4, 6), scratch));
    CHECK(!mmix_picture_normalize(mmix_data(by_hand), out, NULL, NULL));
    image = mmix_image_resized(m, in, mmix_resize_plan_box(all, 4, 6));
    CHECK(image && mmix_shape(image, 2) == 6 && mmix_shape(image, 3) == 4
          && gap(image, by_hand) <= 0);
    CHECK(!mmix_image_resized(m, in, mmix_resize_plan_box(all, 0, 6))
          && says(m, MMIX_ERROR_ARGUMENT,
                 "mmix_image_resized: expected a size of 1 to 2^24 pixels, found 0 x 6"));
    CHECK(!mmix_image_resized(m, none, mmix_resize_plan_box(all, 4, 6))
          && says(m, MMIX_ERROR_ARGUMENT, "found 7 x 5 at NULL"));
    CHECK(!mmix_image_resized(m, in, mmix_resize_plan_box(beyond, 4, 6))
          && says(m, MMIX_ERROR_ARGUMENT, "expected a box inside 7 x 5 pixels"));
    CHECK(!mmix_image(m, rgb, 7, 5, 0)
          && says(m, MMIX_ERROR_ARGUMENT, "mmix_image: expected a size of 1 to 2^24 pixels"));
    free(scratch);
    mmix_destroy(m);
}

#define NPY "build/backbones_test.npy"
static void arrays(void)
{
    static const char expected[] =
        "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    static const int dtypes[] = { MMIX_FILE_F64, MMIX_FILE_F32, MMIX_FILE_F16, MMIX_FILE_I64,
                                  MMIX_FILE_I32, MMIX_FILE_I16, MMIX_FILE_I8,  MMIX_FILE_U8,
                                  MMIX_FILE_U16, MMIX_FILE_U32, MMIX_FILE_U64, MMIX_FILE_BOOL };
    static const float values[6] = {1, -2, 3, 0.5f, 0, 6};
    mmix_ctx *m = context(1, 0);
    static const char *const pair[] = {"a", "b", NULL};
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
    CHECK(!mmix_archive_save(m, NPY, &e, 1, NULL));
    f = fopen(NPY, "rb");
    n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    CHECK(n == 128 + 24 && !memcmp(bytes, expected, sizeof expected - 1) && bytes[127] == '\n'
          && bytes[126] == ' ' && !memcmp(bytes + 128, values, 24));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int ndim = 0; ndim <= 8; ndim += i ? 4 : 1) {       /* what is written comes back */
            unsigned char data[8 * 256];
            mmix_archive *a;
            const mmix_entry *back;
            e.dtype = dtypes[i];
            e.ndim = ndim;
            for (int d = 0; d < 8; d++)
                e.shape[d] = 2;
            for (size_t b = 0; b < sizeof data; b++)
                data[b] = (unsigned char)(e.dtype == MMIX_FILE_BOOL ? b % 2 : b * 7 % 120);
            e.data = data;
            CHECK(!mmix_archive_save(m, NPY, &e, 1, NULL));
            a = mmix_archive_open(m, NPY);
            back = mmix_archive_find(a, "array");
            CHECK_AT(back && back->dtype == e.dtype && back->ndim == ndim
                         && mmix_entry_count(back) == (size_t)1 << ndim
                         && !memcmp(back->data, data, back->bytes),
                     mmix_file_dtype_name(e.dtype));
            mmix_archive_close(a);
        }
    e.dtype = MMIX_FILE_BF16;
    CHECK(mmix_archive_save(m, NPY, &e, 1, NULL) && says(m, MMIX_ERROR_ARGUMENT, "found BF16"));
    e.dtype = MMIX_FILE_F32;
    e.data = NULL;
    CHECK(mmix_archive_save(m, NPY, &e, 1, NULL)
          && says(m, MMIX_ERROR_ARGUMENT, "expected data, found NULL"));
    CHECK(mmix_archive_save(m, NPY, &e, 2, NULL)
          && says(m, MMIX_ERROR_ARGUMENT, "one array without metadata"));
    CHECK(mmix_archive_save(m, NPY, &e, 1, pair)
          && says(m, MMIX_ERROR_ARGUMENT, "one array without metadata"));
    CHECK(mmix_archive_save(m, NPY, NULL, 1, NULL)
          && says(m, MMIX_ERROR_ARGUMENT, "entry is NULL"));
    CHECK(
        mmix_archive_save(m, "build/no/such/folder.npy", (e.data = values, e.ndim = 1, &e), 1, NULL)
        && says(m, MMIX_ERROR_FILE, "cannot be written"));
    mmix_destroy(m);
    remove(NPY);
}

/* ---- relatives: files that others write for the same networks, and what cannot be opened ---- */

#define RELATIVES "build/backbones_relatives"
#define RELATIVE RELATIVES "/model.safetensors"
#define RELATIVE_CONFIG RELATIVES "/config.json"

static const char *const vit_5[] = {
    "norm1", "layernorm_before", "norm2", "layernorm_after", "cls_token", "embeddings.cls_token",
    "pos_embed", "embeddings.position_embeddings", "patch_embed.proj", "embeddings.patch_embeddings.projection",
    "attn.qkv", "attention._proj", "attn.proj", "attention.o_proj", "blocks.", "layers.", "norm.", "layernorm.", NULL
};
static const char *const dinov2_5[] = {
    "cls_token", "embeddings.cls_token", "pos_embed", "embeddings.position_embeddings",
    "register_tokens", "embeddings.register_tokens", "patch_embed.proj", "embeddings.patch_embeddings.projection",
    "attn.qkv", "attention._proj", "attn.proj", "attention.o_proj", "ls1.gamma", "layer_scale1.lambda1",
    "ls2.gamma", "layer_scale2.lambda1", "mlp.w3", "mlp.down_proj", "blocks.", "encoder.layer.", "norm.", "layernorm.", NULL
};
static const char *const dinov3_5[] = {
    "cls_token", "embeddings.cls_token", "storage_tokens", "embeddings.register_tokens",
    "patch_embed.proj", "embeddings.patch_embeddings", "attn.qkv", "attention._proj", "attn.proj", "attention.o_proj",
    "ls1.gamma", "layer_scale1.lambda1", "ls2.gamma", "layer_scale2.lambda1", "mlp.w1.", "mlp.gate_proj.",
    "mlp.w2.", "mlp.up_proj.", "mlp.w3", "mlp.down_proj", "blocks.", "model.layer.", NULL
};
static void write_relative(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    if (!f) return;
    fputs(text, f);
    fclose(f);
}
/* A backbone with random numbers everywhere; DINOv3's keys have no bias. */
static mmix_vision *random_backbone(mmix_ctx *m, mmix_vision_config c)
{
    mmix_vision *v = mmix_vision_create(m, c);
    mmix_params *p = mmix_vision_params(v);
    for (size_t i = 0; v && i < p->count; i++) {
        mmix_tensor *t = p->at[i].tensor;
        const int keys = c.positions == MMIX_POSITIONS_AXIAL && strstr(p->at[i].name, "qkv.bias");
        for (size_t e = 0; e < mmix_count(t); e++) {
            double x = 0.3 * mmix_random_normal(m, 0, i, e);
            if (keys && e / c.dim == 1) x = 0;
            mmix_data(t)[e] = (real)x;
        }
    }
    return v;
}
static int save_relative(mmix_ctx *m)
{
    return mmix_archive_save(m, RELATIVE, entries, count, NULL);
}
/* The entries as they are, or with another prefix. */
static void list_own(const mmix_vision *v, const char *prefix)
{
    const mmix_params *p = mmix_vision_params((mmix_vision *)v);
    count = 0;
    for (size_t i = 0; i < p->count; i++) {
        char name[160];
        snprintf(name, sizeof name, "%s%s", prefix, p->at[i].name);
        put(name, &p->at[i], 0, mmix_shape(p->at[i].tensor, 0));
    }
}
/* The entries as a state dict of transformers 5 names and cuts them. */
static void list_state_dict(const mmix_vision *v, const char *const *pairs)
{
    const mmix_params *p = mmix_vision_params((mmix_vision *)v);
    const size_t D = mmix_vision_config_of(v)->dim;
    count = 0;
    for (size_t i = 0; i < p->count; i++) {
        const size_t rows = mmix_shape(p->at[i].tensor, 0);
        char name[160], piece[160], *at;
        replaced(name, p->at[i].name, pairs);
        if ((at = strstr(name, "attention._proj")) != NULL) {
            for (size_t k = 0; k < 3; k++) {
                snprintf(piece, sizeof piece, "%.*s%c%s", (int)(at + 10 - name), name, "qkv"[k],
                         at + 10);
                if (pairs != dinov3_5 || k != 1 || !strstr(piece, "bias"))
                    put(piece, &p->at[i], k * D, D);
            }
        }
        else if ((at = strstr(name, "mlp.w12")) != NULL) {
            for (size_t k = 0; k < 2; k++) {
                snprintf(piece, sizeof piece, "%.*smlp.%s_proj%s", (int)(at - name), name,
                         k ? "up" : "gate", at + 7);
                put(piece, &p->at[i], k * rows / 2, rows / 2);
            }
        }
        else put(name, &p->at[i], 0, rows);
    }
}
/* Opens the entries and compares parameters and output with v's. */
static mmix_vision *opens_same(mmix_ctx *m, mmix_vision *v, const char *what)
{
    mmix_vision *w = save_relative(m) ? NULL : mmix_vision_load(m, RELATIVE);
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 1, 3, 12, 20), 1, 1);
    doing(what);
    FINE(m);
    if (!w) return NULL;
    CHECK_AT(same_values(mmix_vision_params(v), mmix_vision_params(w)), what);
    CHECK_AT(apart(mmix_vision_forward(m, v, image, NULL).tokens,
                   mmix_vision_forward(m, w, image, NULL).tokens)
                 <= 0,
             what);
    return w;
}
static void refused_relative(mmix_ctx *m, const char *text)
{
    CHECK_AT(!save_relative(m) && !mmix_vision_load(m, RELATIVE) && says(m, MMIX_ERROR_FILE, text),
             text);
    mmix_error_clear(m);
    mmix_reset(m);
}
/* config.json says what names and shapes leave open, or asks for what is not done. */
static void configs_beside(mmix_ctx *m)
{
    static const char good[] =
        "{\"model_type\": \"vit\", \"hidden_size\": 128, \"num_hidden_layers\": 3, "
        "\"num_attention_heads\": 4, \"layer_norm_eps\": 1e-3, \"hidden_act\": \"gelu\"}";
    static const struct { const char *from, *to, *message;
    } wrong[] = {
        { "\"gelu\"", "\"relu\"",
          "config.json: hidden_act: expected gelu, gelu_python, found relu" },
        { "\"gelu\"", "\"gelu_pytorch_tanh\"",
          "hidden_act: expected gelu, gelu_python, found gelu_pytorch_tanh" },
        { "heads\": 4", "heads\": 5",
          "num_attention_heads: expected a divisor of hidden_size, found 5" },
        { "heads\": 4", "heads\": 0", "num_attention_heads: expected 1 to 2147483647, found 0" },
        { "size\": 128", "size\": 192",
          "hidden_size: expected 128, as the weights have it, found 192" },
        { "layers\": 3", "layers\": 4",
          "num_hidden_layers: expected 3, as the weights have it, found 4" },
        { "1e-3", "\"small\"", "layer_norm_eps: expected a number from 0 on, found small" },
        { "\"vit\"", "\"beit\"",
          "model_type: expected vit, vit_mae, vit_msn, dinov2, dinov2_with_registers, dinov3_vit, "
          "found beit" },
        { "\"vit\"", "\"vit\", \"quantization_config\": {\"bits\": 8}",
          "quantization_config: expected weights that are not quantised" },
        { "{", "", "config.json: JSON byte" }
    };
    mmix_vision_config c = small(0);
    c.heads = 4;
    c.eps = 1e-3;
    c.positions = MMIX_POSITIONS_EXACT;
    mmix_vision *v = random_backbone(m, c), *w;
    foreign(v, 0);
    write_relative(RELATIVE_CONFIG, good);
    w = opens_same(m, v, "heads of 32 and eps, from config.json");
    if (w)
        CHECK(mmix_vision_config_of(w)->heads == 4
              && fabs(mmix_vision_config_of(w)->eps - 1e-3) < 1e-12);
    mmix_vision_destroy(w);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *at = strstr(good, wrong[i].from);
        char text[1024];
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, wrong[i].to,
                 at + strlen(wrong[i].from));
        write_relative(RELATIVE_CONFIG, text);
        refused_relative(m, wrong[i].message);
    }
    write_relative(RELATIVE_CONFIG,
                   "{\"architecture\": \"vit_tiny_patch16_224\", \"num_classes\": 10}");
    c.heads = 2;
    c.eps = 1e-12;
    mmix_vision_destroy(v);
    v = random_backbone(m, c);
    foreign(v, 0);
    mmix_vision_destroy(opens_same(m, v, "a config that says nothing of heads"));
    remove(RELATIVE_CONFIG);
    mmix_vision_destroy(v);
    v = random_backbone(m, small(7));
    foreign(v, 7);
    write_relative(
        RELATIVE_CONFIG,
        "{\"model_type\": \"dinov3_vit\", \"num_attention_heads\": 1, \"hidden_act\": \"silu\"}");
    mmix_vision_destroy(opens_same(m, v, "DINOv3 with its config"));
    write_relative(
        RELATIVE_CONFIG,
        "{\"model_type\": \"dinov3_vit\", \"num_attention_heads\": 1, \"hidden_act\": \"gelu\"}");
    refused_relative(m, "hidden_act: expected silu, swish, found gelu");
    write_relative(
        RELATIVE_CONFIG,
        "{\"model_type\": \"dinov3_vit\", \"num_attention_heads\": 1, \"hidden_act\": \"silu\", "
        "\"rope_parameters\": {\"rope_theta\": 50.0}}");
    refused_relative(m, "rope_theta: expected 100, found 50.0");
    remove(RELATIVE_CONFIG);
    mmix_vision_destroy(v);
}
/* Other names for the same arrays. */
static void renamed(mmix_ctx *m)
{
    static const struct {
        const char *name;
        int kind, swiglu;
        const char *const *pairs;
    } dicts[] = { { "ViT, state dict", 0, 0, vit_5 },
                  { "DINOv2, state dict", 5, 0, dinov2_5 },
                  { "DINOv2 with registers and SwiGLU, state dict", 6, 1, dinov2_5 },
                  { "DINOv3, state dict", 7, 1, dinov3_5 } };
    mmix_vision *v;
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++) {
        mmix_vision_config c = small(dicts[i].kind);
        if (!dicts[i].kind) c.eps = 1e-12;
        if (dicts[i].kind < 6) c.positions = MMIX_POSITIONS_EXACT;
        v = random_backbone(m, c);
        list_state_dict(v, dicts[i].pairs);
        mmix_vision_destroy(opens_same(m, v, dicts[i].name));
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
    v = random_backbone(m, small(5));            /* compiled block by block, and as a whole */
    list_own(v, "_orig_mod.");
    for (size_t i = 0; i < count; i++) {
        char name[160], *at = strstr(names[i], "blocks.");
        if (!at) continue;
        snprintf(name, sizeof name, "%.*s_orig_mod.%s", (int)(at + 9 - names[i]), names[i], at + 9);
        snprintf(names[i], sizeof names[i], "%s", name);
    }
    mmix_vision_destroy(opens_same(m, v, "_orig_mod inside of names"));
    put("_orig_mod.local_cls_norm.weight", &mmix_vision_params(v)->at[0], 0, 1);
    put("_orig_mod.decoder_pos_embed", &mmix_vision_params(v)->at[0], 0, 1);
    put("_orig_mod.decoder_blocks.0.norm1.weight", &mmix_vision_params(v)->at[0], 0, 1);
    mmix_vision_destroy(opens_same(m, v, "what only training reads"));
    mmix_vision_destroy(v);
}
/* timm: registers under another name, no position for the class token, DINOv2's SwiGLU as fc1
   and fc2. */
static void timm_names(mmix_ctx *m)
{
    static const char *const pairs[] = { "register_tokens", "reg_token", "mlp.w12", "mlp.fc1",
                                         "mlp.w3",          "mlp.fc2",   NULL };
    for (int kind = 5; kind < 7; kind++) {
        mmix_vision_config c = small(kind);
        c.positions = MMIX_POSITIONS_ANTIALIAS;
        mmix_vision *v = random_backbone(m, c);
        mmix_tensor *positions = mmix_params_find(mmix_vision_params(v), "pos_embed");
        for (size_t i = 0; i < c.dim; i++)
            mmix_data(positions)[i] = 0;
        list_own(v, "");
        for (size_t i = 0; i < count; i++) {
            char name[160];
            replaced(name, names[i], pairs);
            snprintf(names[i], sizeof names[i], "%s", name);
            if (strcmp(name, "pos_embed")) continue;
            entries[i].shape[1]--;
            entries[i].data = mmix_data(positions) + c.dim;
        }
        mmix_vision_destroy(opens_same(m, v, kind == 5 ? "DeiT III" : "timm, registers"));
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
}
/* The fixed sines of MAE and MoCo v3 for a grid of 3 x 3: quarters sin x, cos x, sin y, cos y;
   none for the class token. */
static void set_sines(mmix_vision *v)
{
    mmix_tensor *t = mmix_params_find(mmix_vision_params(v), "pos_embed");
    const size_t D = mmix_shape(t, 2);
    for (size_t e = 0; e < mmix_count(t); e++) {
        const size_t patch = e / D - 1, quarter = e % D / (D / 4);
        const double at = (double)(quarter < 2 ? patch % 3 : patch / 3)
                          * pow(10000, -(double)(e % (D / 4)) / (double)(D / 4));
        const double wave = quarter % 2 ? cos(at) : sin(at);
        mmix_data(t)[e] = (real)(e < D ? 0 : wave);
    }
}
static void heads_and_sines(mmix_ctx *m)
{
    mmix_vision_config c = small(0);
    mmix_vision *v, *w;
    c.positions = MMIX_POSITIONS_EXACT;
    v = random_backbone(m, c);
    set_sines(v);
    list_own(v, "");
    w = opens_same(m, v, "MAE's positions are resized to the size");
    if (w) CHECK(mmix_vision_config_of(w)->positions == MMIX_POSITIONS_EXACT);
    mmix_vision_destroy(w);
    put("fc_norm.weight", &mmix_vision_params(v)->at[0], 0, 1);
    mmix_vision_destroy(opens_same(m, v, "a norm of the classifier's"));
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], "norm.weight"))
            entries[i] = entries[--count];
    refused_relative(m, "reshaped fc_norm.weight");
    mmix_vision_destroy(v);
    c.dim = 384;
    c.heads = 12;
    c.depth = 1;
    v = random_backbone(m, c);
    set_sines(v);
    list_own(v, "module.momentum_encoder.");
    for (size_t i = 0, n = count; i < n; i++) {
        char name[160];
        snprintf(name, sizeof name, "module.base_encoder.%s",
                 names[i] + strlen("module.momentum_encoder."));
        entries[count] = entries[i];
        snprintf(names[count], sizeof names[count], "%s", name);
        entries[count].name = names[count];
        count++;
    }
    put("module.predictor.0.weight", &mmix_vision_params(v)->at[0], 0, 1);
    w = opens_same(m, v, "MoCo v3 has 12 heads");
    mmix_vision_destroy(w);
    list_own(v, "");
    refused_relative(m, "fixed sines in width 384: MoCo v3 has 12 heads there");
    mmix_vision_destroy(v);
}
/* Refusals that say what is not right. */
static void strangers(mmix_ctx *m)
{
    static const struct { const char *name, *message;
    } other[] = { { "patch_embed.backbone.stages.0.blocks.0.conv1.weight",
                    "a network of stages with convolutions" },
                  { "stages.0.blocks.0.conv1.conv.weight",
                    "a network of stages with convolutions" },
                  { "stages.0.blocks.0.conv_dw.weight", "a ConvNeXt" },
                  { "stages.0.0.dwconv.weight", "a ConvNeXt" },
                  { "dist_token", "a distilled DeiT" },
                  { "embeddings.distillation_token", "a distilled DeiT" },
                  { "blocks.0.attn.rel_pos_h", "SAM's image encoder" },
                  { "x.token_embedding.weight", "a text encoder" },
                  { "levels.0.blocks.0.conv1.weight", "a MambaVision" },
                  { "model.levels.2.blocks.0.mixer.A_log", "no cls_token" },
                  { "model.embed_tokens.weight",
                    "found no cls_token among 1 arrays; first: model.embed_tokens.weight" } };
    mmix_vision *v = random_backbone(m, small(0));
    mmix_vision_config c;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        count = 0;
        put(other[i].name, &mmix_vision_params(v)->at[0], 0, 1);
        if (strstr(other[i].message, "SAM"))
            put("neck.0.weight", &mmix_vision_params(v)->at[0], 0, 1);
        refused_relative(m, other[i].message);
    }
    /* 4 x 6 patches and the class token make a square number */
    foreign(v, 0);
    for (size_t i = 0; i < count; i++)
        if (strstr(names[i], "position_embeddings")) {
            entries[i].shape[1] = 9;
            entries[i].shape[2] = 128;
        }
    refused_relative(
        m, "9 positions, 3 blocks: without the class token's, the positions are no square");
    list_own(v, "");
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], "pos_embed"))
            entries[i] = entries[--count];
    refused_relative(m, "pos_embed is missing");
    mmix_vision_destroy(v);
    CHECK(mmix_vision_config_read(NULL, NULL, &c) == -1);
    CHECK(mmix_vision_save(NULL, NULL, RELATIVE) == -1
          && !mmix_vision_load_as(NULL, RELATIVE, MMIX_DTYPE_REAL));
    list_own(v = random_backbone(m, small(0)), "");
    CHECK(!save_relative(m) && mmix_vision_save(NULL, v, RELATIVE) == -1);
    CHECK(!mmix_vision_load_as(m, RELATIVE, MMIX_DTYPE_I32)
          && says(m, MMIX_ERROR_ARGUMENT, "dtype is"));
    CHECK(!mmix_decoder_load_llama2c(m, NULL, "", 0)
          && says(m, MMIX_ERROR_ARGUMENT, "name is NULL"));
    mmix_vision_destroy(v);
}
static void relatives(void)
{
    mmix_ctx *m = context(1, 0);
    mkdir(RELATIVES, 0777);
    configs_beside(m);
    renamed(m);
    timm_names(m);
    heads_and_sines(m);
    strangers(m);
    FINE(m);
    mmix_destroy(m);
    remove(RELATIVE);
    remove(RELATIVES);
}

/* ---- Vim, from smaller ops: one picture, its tokens one after the other ---- */

enum { VIM_D = 12, VIM_E = 24, VIM_N = 3, VIM_R = 2, VIM_W = 3, VIM_PATCH = 4, VIM_CLASSES = 5,
       VIM_TOKENS = 26 * VIM_D };                /* at most */
static mmix_vision_config small_vim(void)
{
    mmix_vision_config c = mmix_vision_config_vim(192, 0);
    c.dim = VIM_D;
    c.depth = 2;
    c.patch = VIM_PATCH;
    c.grid = 3;
    c.selective.d_inner = VIM_E;
    c.selective.d_state = VIM_N;
    c.selective.dt_rank = VIM_R;
    c.selective.conv_width = VIM_W;
    c.classes = VIM_CLASSES;
    return c;
}
static mmix_tensor *named(const mmix_params *p, size_t block, const char *name, const char *back)
{
    char full[160], *at;
    snprintf(full, sizeof full, "layers.%d.%s", (int)block, name);
    at = strchr(full, '#');                      /* where _b stands in the reverse's names */
    if (at) snprintf(at, sizeof full - (size_t)(at - full), "%s%s", back, strchr(name, '#') + 1);
    return mmix_params_find(p, full);
}
/* Rows of x (L, ·) in the opposite order. */
static mmix_tensor *flipped(mmix_ctx *m, mmix_tensor *x)
{
    size_t L = mmix_shape(x, 0);
    mmix_tensor *index = mmix_new(m, MMIX_DTYPE_I32, 1, &L);
    for (size_t i = 0; index && i < L; i++) mmix_data_i32(index)[i] = (int32_t)(L - 1 - i);
    return mmix_take_rows(m, x, index);
}
static mmix_tensor *below(mmix_ctx *m, mmix_tensor *top, mmix_tensor *next)
{
    mmix_tensor *pair[2];
    pair[0] = top;
    pair[1] = next;
    return top ? mmix_concat(m, 0, pair, 2) : next;
}
/* One direction, x and z (L, E) in its own order. */
static mmix_tensor *scanned(mmix_ctx *m, const mmix_params *p, size_t block, const char *back,
                            mmix_tensor *x, mmix_tensor *z)
{
    static const int taps_first[3] = { 2, 1, 0 };
    size_t L = mmix_shape(x, 0);
    mmix_tensor *taps = mmix_permute(m, named(p, block, "mixer.conv1d#.weight", back), taps_first);
    mmix_tensor *sum = NULL, *state = NULL, *y = NULL;
    for (size_t k = 0; k < VIM_W; k++) {         /* tap k reads what is W - 1 - k tokens back */
        size_t shift = VIM_W - 1 - k;
        mmix_tensor *read = mmix_slice(m, x, 0, 0, L - shift);
        if (shift) read = below(m, mmix_fill(mmix_new2(m, shift, VIM_E), 0), read);
        read = mmix_mul(m, read, shaped(m, mmix_slice(m, taps, 0, k, 1), 1, VIM_E, 0, 0));
        sum = sum ? mmix_add(m, sum, read) : read;
    }
    x = mmix_silu(m, mmix_add(m, sum, named(p, block, "mixer.conv1d#.bias", back)));
    mmix_tensor *low = mmix_linear(m, x, named(p, block, "mixer.x_proj#.weight", back), NULL);
    mmix_tensor *dt = mmix_softplus(m, mmix_linear(m, mmix_slice(m, low, 1, 0, VIM_R),
                                                   named(p, block, "mixer.dt_proj#.weight", back),
                                                   named(p, block, "mixer.dt_proj#.bias", back)));
    mmix_tensor *log = named(p, block, *back ? "mixer.A_b_log" : "mixer.A_log", back);
    mmix_tensor *A = mmix_affine(m, mmix_exp(m, log), -1, 0);
    for (size_t t = 0; t < L; t++) {
        mmix_tensor *d = shaped(m, mmix_slice(m, dt, 0, t, 1), 2, VIM_E, 1, 0);
        mmix_tensor *u = shaped(m, mmix_slice(m, x, 0, t, 1), 2, VIM_E, 1, 0);
        mmix_tensor *row = mmix_slice(m, low, 0, t, 1);
        mmix_tensor *added = mmix_mul(m, mmix_mul(m, d, u), mmix_slice(m, row, 1, VIM_R, VIM_N));
        if (state) state = mmix_mul(m, mmix_exp(m, mmix_mul(m, d, A)), state);
        state = state ? mmix_add(m, state, added) : added;
        mmix_tensor *C = mmix_slice(m, row, 1, VIM_R + VIM_N, VIM_N);
        y = below(m, y, shaped(m, mmix_sum_axis(m, mmix_mul(m, state, C), 1), 2, 1, VIM_E, 0));
    }
    y = mmix_add(m, y, mmix_mul(m, x, named(p, block, "mixer.D#", back)));
    return mmix_mul(m, y, mmix_silu(m, z));
}
/* The patches of a picture (1, 3, h, w) as rows of numbers, whole ones from every `stride`. */
static mmix_tensor *patch_rows(mmix_ctx *m, mmix_tensor *image, size_t stride)
{
    size_t h = mmix_shape(image, 2), w = mmix_shape(image, 3), P = VIM_PATCH, n = 0;
    size_t down = (h - P) / stride + 1, across = (w - P) / stride + 1;
    mmix_tensor *rows = mmix_new2(m, down * across, 3 * P * P);
    for (size_t i = 0; rows && i < down; i++)
        for (size_t j = 0; j < across; j++)
            for (size_t e = 0; e < 3 * P * P; e++) {
                size_t channel = e / (P * P), y = i * stride + e / P % P, x = j * stride + e % P;
                mmix_data(rows)[n++] = mmix_data(image)[(channel * h + y) * w + x];
            }
    return rows;
}
/* The tokens (L, D) of a Vim whose class token stands before patch number `at`. */
static mmix_tensor *composed(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image, size_t at)
{
    const mmix_vision_config *c = mmix_vision_config_of(v);
    const mmix_params *p = mmix_vision_params((mmix_vision *)v);
    mmix_tensor *weight = mmix_params_find(p, "patch_embed.proj.weight");
    mmix_tensor *x = mmix_linear(m, patch_rows(m, image, c->stride ? c->stride : c->patch),
                                 shaped(m, weight, 2, VIM_D, mmix_count(weight) / VIM_D, 0),
                                 mmix_params_find(p, "patch_embed.proj.bias"));
    size_t n = mmix_shape(x, 0);
    mmix_tensor *cls = shaped(m, mmix_params_find(p, "cls_token"), 2, 1, VIM_D, 0);
    mmix_tensor *all = below(m, cls, mmix_slice(m, x, 0, at, n - at));
    if (at) all = below(m, mmix_slice(m, x, 0, 0, at), all);
    x = mmix_add(m, all, shaped(m, mmix_params_find(p, "pos_embed"), 2, n + 1, VIM_D, 0));
    for (size_t i = 0; i < c->depth; i++) {
        mmix_tensor *u = mmix_rms_norm(m, x, named(p, i, "norm.weight", ""), c->eps);
        u = mmix_linear(m, u, named(p, i, "mixer.in_proj.weight", ""),
                        named(p, i, "mixer.in_proj.bias", ""));
        mmix_tensor *y = mmix_slice(m, u, 1, 0, VIM_E), *z = mmix_slice(m, u, 1, VIM_E, VIM_E);
        mmix_tensor *forward = scanned(m, p, i, "", y, z);
        mmix_tensor *reverse = scanned(m, p, i, "_b", flipped(m, y), flipped(m, z));
        y = mmix_add(m, forward, flipped(m, reverse));
        y = mmix_affine(m, y, c->selective.divide ? 0.5 : 1, 0);
        x = mmix_add(m, x, mmix_linear(m, y, named(p, i, "mixer.out_proj.weight", ""),
                                       named(p, i, "mixer.out_proj.bias", "")));
    }
    return mmix_rms_norm(m, x, mmix_params_find(p, "norm_f.weight"), c->eps);
}
/* The largest difference of n numbers over the largest magnitude of the second ones. */
static double off(const real *a, const real *b, size_t n)
{
    double top = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmax(top, fabs((double)b[i]));
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    }
    return top > 0 ? worst / top : HUGE_VAL;
}
/* Tokens, logits and the gradient of each parameter of a Vim beside the composition. */
static void vim_composed(mmix_vision_config c, size_t side, size_t at, const char *what)
{
    static real value[2][VIM_TOKENS + VIM_CLASSES];
    real *gradient[2] = { NULL, NULL };
    mmix_ctx *m = context(1, 3);
    mmix_vision *v = random_backbone(m, c);
    mmix_params *p = mmix_vision_params(v);
    size_t n = 0;
    memset(value, 0, sizeof value);
    mmix_params_require_grad(p, 1);
    mmix_record(m, 1);
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 1, 3, side, side), 1, 7);
    doing(what);
    for (size_t i = 0; i < p->count; i++) n += mmix_count(p->at[i].tensor);
    for (int k = 0; k < 2; k++) {
        mmix_tensor *tokens, *logits;
        if (k == 0) {
            mmix_features f = mmix_vision_forward(m, v, image, NULL);
            tokens = f.tokens;
            logits = mmix_vision_classify(m, v, &f);
        } else {
            tokens = composed(m, v, image, at);
            logits = mmix_linear(m, mmix_slice(m, tokens, 0, at, 1),
                                 mmix_params_find(p, "head.weight"),
                                 mmix_params_find(p, "head.bias"));
        }
        FINE(m);
        CHECK(mmix_count(tokens) <= VIM_TOKENS && mmix_count(logits) == VIM_CLASSES);
        mmix_read(tokens, value[k]);
        mmix_read(logits, value[k] + VIM_TOKENS);
        mmix_tensor *along = mmix_fill_normal(m, mmix_new2(m, 1, VIM_CLASSES), 1, 8);
        mmix_tensor *loss = mmix_sum(m, mmix_mul(m, logits, along));
        tokens = shaped(m, tokens, 1, mmix_count(tokens), 0, 0);
        along = mmix_fill_normal(m, mmix_new1(m, mmix_count(tokens)), 1, 9);
        loss = mmix_add(m, loss, mmix_sum(m, mmix_mul(m, tokens, along)));
        mmix_params_zero_grad(p);
        mmix_backward(m, loss);
        gradient[k] = (real *)calloc(n, sizeof(real));
        real *to = gradient[k];
        for (size_t i = 0; i < p->count; i++) {
            mmix_tensor *g = mmix_grad(p->at[i].tensor);
            if (CHECK_AT(g && to, p->at[i].name)) mmix_read(g, to);
            to += mmix_count(p->at[i].tensor);
        }
    }
    CHECK_AT(off(value[0], value[1], VIM_TOKENS) < 200 * EPS, what);
    CHECK_AT(off(value[0] + VIM_TOKENS, value[1] + VIM_TOKENS, VIM_CLASSES) < 200 * EPS, what);
    for (size_t i = 0, from = 0; i < p->count; i++) {
        size_t size = mmix_count(p->at[i].tensor);
        CHECK_AT(off(gradient[0] + from, gradient[1] + from, size) < 2000 * EPS, p->at[i].name);
        from += size;
    }
    FINE(m);
    for (int k = 0; k < 2; k++) free(gradient[k]);
    mmix_vision_destroy(v);
    mmix_destroy(m);
}
static void vim(void)
{
    mmix_vision_config c = small_vim();
    mmix_ctx *m = context(1, 0);
    vim_composed(c, 12, 4, "Vim");
    c.stride = 2;                                /* ((8 - 4)/2 + 1)² patches */
    vim_composed(c, 8, 4, "Vim, patches that overlap");
    c.stride = 1;
    c.grid = 5;
    vim_composed(c, 8, 12, "Vim, patches from every pixel");
    c = small_vim();
    c.selective.divide = 0;
    c.selective.bias = 1;
    c.class_token = MMIX_CLASS_FIRST;
    vim_composed(c, 12, 0, "Vim, class token first, directions added, biases");
    /* pixels beyond the last whole patch are left out, where patches overlap, too */
    c = small_vim();
    c.stride = 2;
    mmix_vision *v = random_backbone(m, c);
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 9, 13), 1, 7);
    mmix_tensor *less = mmix_slice(m, mmix_slice(m, image, 2, 0, 8), 3, 0, 12);
    mmix_features f = mmix_vision_forward(m, v, image, NULL);
    CHECK(f.grid_h == 3 && f.grid_w == 5);
    CHECK(gap(f.tokens, mmix_vision_forward(m, v, less, NULL).tokens) <= 0);
    CHECK(mmix_vision_flops(v, 9, 13) == mmix_vision_flops(v, 8, 12));
    FINE(m);
    mmix_vision_destroy(v);
    /* Vim's files of patches that overlap by half are told by their positions */
    c = small_vim();
    c.dim = 8;
    c.depth = 1;
    c.patch = 16;
    c.grid = 27;
    c.stride = 8;
    v = random_backbone(m, c);
    CHECK(v && !mmix_params_save(mmix_vision_params(v), PATH));
    mmix_vision *w = mmix_vision_load(m, PATH);
    CHECK(w && mmix_vision_config_of(w)->stride == 8 && mmix_vision_config_of(w)->classes == 5
          && same_values(mmix_vision_params(v), mmix_vision_params(w)));
    f = mmix_vision_forward(m, w, mmix_fill_normal(m, mmix_new4(m, 1, 3, 64, 48), 1, 7), NULL);
    CHECK(f.grid_h == 7 && f.grid_w == 5 && mmix_shape(f.tokens, 1) == 36);
    FINE(m);
    mmix_vision_destroy(w);
    mmix_vision_destroy(v);
    remove(PATH);
    c = small_vim();
    c.stride = 3;
    CHECK(!mmix_vision_create(m, c)
          && says(m, MMIX_ERROR_ARGUMENT, "stride is 3, expected a divisor of patch 4 or 0"));
    mmix_destroy(m);
}

/* ---- classifiers ---- */

/* The values of a tensor in a list that the caller frees: features are views. */
static real *values_of(const mmix_tensor *t)
{
    real *x = (real *)calloc(mmix_count(t) + 1, sizeof *x);
    if (x) mmix_read(t, x);
    return x;
}
/* Scales n numbers by the weight, after their RMS norm, or with a bias after their layer norm. */
static void norm_by_hand(double *x, size_t n, double eps, const real *weight, const real *bias)
{
    double mean = 0, square = 0;
    for (size_t i = 0; bias && i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++) {
        x[i] = (x[i] - mean) / sqrt(square + eps) * (double)weight[i];
        if (bias) x[i] += (double)bias[i];
    }
}
static const real *data_of(const mmix_params *p, const char *name)
{
    return mmix_data(mmix_params_find(p, name));
}
/* What the classifier reads of picture b, by hand. Returns how many numbers that are. */
static size_t pooled_by_hand(const mmix_vision *v, const mmix_features *f, size_t b, double *x)
{
    const mmix_vision_config *c = mmix_vision_config_of(v);
    const mmix_params *p = mmix_vision_params((mmix_vision *)v);
    size_t D = c->dim, n = mmix_shape(f->patches, 1), k = c->registers, N = D;
    real *token = values_of(f->token), *patches = values_of(f->patches);
    real *registers = f->registers ? values_of(f->registers) : NULL;
    for (size_t i = 0; i < D; i++) {
        double mean = 0;
        for (size_t t = 0; t < n; t++)
            mean += (double)patches[(b * n + t) * D + i] / (double)n;
        x[i] = (double)token[b * D + i];
        if (c->pool == MMIX_POOL_PATCHES || c->pool == MMIX_POOL_MEAN_NORM) x[i] = mean;
        x[D + i] = mean;                         /* read with BOTH alone */
    }
    if (c->pool == MMIX_POOL_BOTH) N = 2 * D;
    if (c->pool == MMIX_POOL_MEAN_NORM)
        norm_by_hand(x, D, c->eps, data_of(p, "fc_norm.weight"), data_of(p, "fc_norm.bias"));
    if (c->pool == MMIX_POOL_REGISTERS) {
        size_t rows = c->neck ? D / c->neck : D;
        N = k * rows;
        for (size_t i = 0; i < N; i++) {
            const real *r = registers + (b * k + i / rows) * D;
            x[i] = c->neck ? 0 : (double)r[i % rows];
            for (size_t j = 0; c->neck && j < D; j++)
                x[i] += (double)data_of(p, "neck.weight")[i % rows * D + j] * (double)r[j];
        }
        if (c->neck) norm_by_hand(x, N, c->eps, data_of(p, "norm_neck.weight"), NULL);
    }
    free(token);
    free(patches);
    free(registers);
    return N;
}
/* Each way to pool, beside what is computed by hand. */
static void pools(mmix_ctx *m)
{
    static const struct { const char *what; int kind, pool; size_t neck;
    } all[] = { { "ViT, the class token", 0, MMIX_POOL_TOKEN, 0 },
                { "ViT, the mean of the patches", 0, MMIX_POOL_PATCHES, 0 },
                { "ViT, its norm", 0, MMIX_POOL_MEAN_NORM, 0 },
                { "DINOv2 with registers, both", 6, MMIX_POOL_BOTH, 0 },
                { "DinoMamba-Reg, the registers' mean", 4, MMIX_POOL_TOKEN, 0 },
                { "Vim, the class token", 8, MMIX_POOL_TOKEN, 0 },
                { "Mamba-Reg, joined by a neck", 9, MMIX_POOL_REGISTERS, 4 },
                { "Mamba-Reg, without a neck", 9, MMIX_POOL_REGISTERS, 0 } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double x[512];
        mmix_vision_config c = small(all[i].kind);
        c.classes = 5;
        c.pool = all[i].pool;
        c.neck = all[i].neck;
        mmix_vision *v = random_backbone(m, c);
        mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 20), 1, 7);
        mmix_features f = mmix_vision_forward(m, v, image, NULL);
        mmix_tensor *pooled = mmix_vision_pooled(m, v, &f);
        mmix_tensor *logits = mmix_vision_classify(m, v, &f);
        const mmix_params *p = mmix_vision_params(v);
        doing(all[i].what);
        FINE(m);
        const size_t shape[2] = { 2, 5 };
        if (!CHECK(pooled && logits && has_shape(logits, 2, shape))) continue;
        real *found = values_of(pooled);
        for (size_t b = 0; b < 2; b++) {
            size_t N = pooled_by_hand(v, &f, b, x);
            double top = 0, worst = 0;
            CHECK(mmix_shape(pooled, 1) == N && mmix_count(pooled) == 2 * N);
            for (size_t e = 0; e < N; e++) {
                top = fmax(top, fabs(x[e]));
                worst = fmax(worst, fabs(x[e] - (double)found[b * N + e]));
            }
            CHECK(top > 0 && worst < 100 * EPS * top);
            for (size_t k = 0; k < 5; k++) {
                double logit = (double)data_of(p, "head.bias")[k];
                for (size_t e = 0; e < N; e++)
                    logit += x[e] * (double)data_of(p, "head.weight")[k * N + e];
                NEAR(mmix_data(logits)[b * 5 + k], logit, 2000 * EPS * (1 + top));
            }
        }
        free(found);
        CHECK(!mmix_vision_class_name(v, 0));
        mmix_vision_destroy(v);
        mmix_reset(m);
    }
}
static void pools_refused(mmix_ctx *m)
{
    mmix_vision_config c = small(0);
    mmix_vision *v = random_backbone(m, c), *reg;
    mmix_features f, none;
    memset(&none, 0, sizeof none);
    f = mmix_vision_forward(m, v, mmix_fill(mmix_new4(m, 1, 3, 8, 8), 1), NULL);
    doing("pools that are refused");
    CHECK(!mmix_vision_classify(m, v, &f)
          && says(m, MMIX_ERROR_ARGUMENT, "the backbone has no classifier"));
    CHECK(!mmix_vision_classify(m, NULL, &f) && says(m, MMIX_ERROR_ARGUMENT, "backbone is NULL"));
    CHECK(!mmix_vision_classify(m, v, NULL) && says(m, MMIX_ERROR_ARGUMENT, "features is NULL"));
    CHECK(!mmix_vision_pooled(m, v, &none) && says(m, MMIX_ERROR_ARGUMENT, "token is NULL"));
    CHECK(!mmix_vision_classify(NULL, v, &f) && !mmix_vision_class_name(NULL, 0));
    reg = random_backbone(m, small(9));          /* another width, no registers */
    CHECK(!mmix_vision_classify(m, reg, &f) && says(m, MMIX_ERROR_ARGUMENT, "token has shape (1, 128)"));
    mmix_vision_destroy(reg);
    c = small(9);
    c.dim = 128;
    reg = random_backbone(m, c);
    CHECK(!mmix_vision_classify(m, reg, &f)
          && says(m, MMIX_ERROR_ARGUMENT, "registers is NULL"));
    mmix_vision_destroy(reg);
    mmix_vision_destroy(v);
    c = small(0);
    c.pool = MMIX_POOL_REGISTERS;
    CHECK(!mmix_vision_create(m, c)
          && says(m, MMIX_ERROR_ARGUMENT, "expected MMIX_CLASS_REGISTERS"));
    c.pool = MMIX_POOL_TOKEN;
    c.neck = 2;
    CHECK(!mmix_vision_create(m, c) && says(m, MMIX_ERROR_ARGUMENT, "neck is 2 with dim 128"));
    c = small(9);
    c.neck = 3;
    CHECK(!mmix_vision_create(m, c) && says(m, MMIX_ERROR_ARGUMENT, "neck is 3 with dim 64"));
    c = small(0);
    c.pool = MMIX_POOL_REGISTERS + 1;
    CHECK(!mmix_vision_create(m, c) && says(m, MMIX_ERROR_ARGUMENT, "pool is 5"));
}
/* The entries' classifier as Hugging Face has it: beside the network, which has a prefix. */
static void list_classified(const mmix_vision *v, int kind)
{
    foreign(v, kind);
    for (size_t i = 0; i < count; i++) {
        char name[160];
        if (!strncmp(names[i], "head.", 5))
            snprintf(name, sizeof name, "classifier.%.100s", names[i] + 5);
        else snprintf(name, sizeof name, "vit.%.150s", names[i]);
        strcpy(names[i], name);
    }
}
/* Opens the entries and compares the logits with v's. */
static mmix_vision *classifies_same(mmix_ctx *m, mmix_vision *v, const char *what)
{
    mmix_vision *w = opens_same(m, v, what);
    mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 2, 3, 12, 20), 1, 1);
    mmix_features f = mmix_vision_forward(m, v, image, NULL);
    mmix_features g = mmix_vision_forward(m, w, image, NULL);
    if (w)
        CHECK_AT(gap(mmix_vision_classify(m, v, &f), mmix_vision_classify(m, w, &g)) <= 0, what);
    FINE(m);
    return w;
}
static const char labels[] =
    "{\"id2label\": {\"0\": \"tench\", \"2\": \"caf\\u00e9 \\\"au lait\\\"\", \"5\": \"none\", "
    "\"x\": \"y\", \"\": \"z\", \"99999999999999999999999\": \"far\", \"1\": 7}}";
static void has_labels(const mmix_vision *v, const char *what)
{
    const char *first = mmix_vision_class_name(v, 0), *third = mmix_vision_class_name(v, 2);
    CHECK_AT(first && !strcmp(first, "tench"), what);
    CHECK_AT(third && !strcmp(third, "caf\xc3\xa9 \"au lait\""), what);
    CHECK_AT(!mmix_vision_class_name(v, 1) && !mmix_vision_class_name(v, 3)
                 && !mmix_vision_class_name(v, 5),
             what);
}
/* Names of classes: from config.json, kept when saved, from metadata, and what are none. */
static void class_names(mmix_ctx *m)
{
    static const char *const nothing[] = { "{\"id2label\": 5}", "{\"id2label\": []}",
                                           "{\"label_names\": {}}", "{}" };
    mmix_vision_config c = small(0);
    c.classes = 3;
    c.positions = MMIX_POSITIONS_EXACT;
    c.eps = 1e-12;
    mmix_vision *v = random_backbone(m, c), *w, *kept = NULL;
    list_classified(v, 0);
    write_relative(RELATIVE_CONFIG, labels);
    w = classifies_same(m, v, "ViTForImageClassification");
    has_labels(w, "config.json");
    if (w) CHECK(!mmix_vision_save(m, w, PATH) && (kept = mmix_vision_load(m, PATH)) != NULL);
    FINE(m);
    has_labels(kept, "saved");
    mmix_vision_destroy(kept);
    mmix_vision_destroy(w);
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        write_relative(RELATIVE_CONFIG, nothing[i]);
        w = opens_same(m, v, nothing[i]);
        CHECK_AT(!mmix_vision_class_name(w, 0), nothing[i]);
        mmix_vision_destroy(w);
    }
    write_relative(RELATIVE_CONFIG, "{\"label_names\": [\"a\", 3, \"c\", \"d\"]}");
    w = opens_same(m, v, "timm's names of classes");
    CHECK(w && !strcmp(mmix_vision_class_name(w, 2), "c") && !mmix_vision_class_name(w, 1));
    mmix_vision_destroy(w);
    remove(RELATIVE_CONFIG);
    const char *metadata[] = { "id2label", "{\"1\": \"one\"}", NULL };
    CHECK(!mmix_archive_save(m, RELATIVE, entries, count, metadata));
    w = mmix_vision_load(m, RELATIVE);
    CHECK(w && !mmix_vision_class_name(w, 0) && !strcmp(mmix_vision_class_name(w, 1), "one"));
    mmix_vision_destroy(w);
    metadata[1] = "{\"1\": one}";
    CHECK(!mmix_archive_save(m, RELATIVE, entries, count, metadata)
          && !mmix_vision_load(m, RELATIVE) && says(m, MMIX_ERROR_FILE, "JSON byte"));
    /* without the classifier */
    mmix_vision_config read;
    CHECK(!save_relative(m));
    mmix_archive *a = mmix_archive_open(m, RELATIVE);
    CHECK(!mmix_vision_config_read(m, a, &read) && read.classes == 3
          && read.pool == MMIX_POOL_TOKEN);
    read.classes = 0;
    w = mmix_vision_create(m, read);
    CHECK(w && !mmix_params_read(mmix_vision_params(w), a, NULL)
          && !mmix_params_find(mmix_vision_params(w), "head.weight"));
    mmix_archive_close(a);
    FINE(m);
    mmix_vision_destroy(w);
    mmix_vision_destroy(v);
}
/* timm's files: how they pool stands in their config.json, and heads. */
static void timm_classes(mmix_ctx *m)
{
    static const char good[] =
        "{\"architecture\": \"vit_tiny_patch16_224\", \"num_classes\": 3, \"global_pool\": \"avg\", "
        "\"model_args\": {\"num_heads\": 4, \"embed_dim\": 128, \"depth\": 3, \"act_layer\": "
        "\"gelu\", \"class_token\": true, \"dynamic_img_pad\": false, \"pos_embed\": null}}";
    static const struct { const char *from, *to, *message;
    } wrong[] = {
        { "vit_tiny_patch16_224", "swin_tiny",
          "config.json: architecture: expected vit_\xe2\x80\xa6, deit_" },
        { "\"avg\"", "\"map\"", "config.json: global_pool: expected token, avg, found map" },
        { "\"avg\"", "\"\"", "global_pool: expected token, avg, found " },
        { "classes\": 3", "classes\": 4", "num_classes: expected 3, as the weights have it, found 4" },
        { "heads\": 4", "heads\": 5", "num_heads: expected a divisor of embed_dim, found 5" },
        { "heads\": 4", "heads\": 0", "num_heads: expected 1 to 2147483647, found 0" },
        { "dim\": 128", "dim\": 64", "embed_dim: expected 128, as the weights have it, found 64" },
        { "depth\": 3", "depth\": 2", "depth: expected 3, as the weights have it, found 2" },
        { "\"gelu\"", "\"silu\"", "act_layer: expected gelu, found silu" },
        { "pad\": false", "pad\": true", "dynamic_img_pad: expected none, found true" },
        { "embed\": null", "embed\": \"rope\"", "pos_embed: expected learn, found rope" },
        { "embed\": null", "embed\": null, \"qk_norm\": true",
          "qk_norm: expected none, found true" },
        { "\"model_args\": {", "\"model_args\": {\"global_pool\": \"avgmax\", ",
          "global_pool: expected token, avg, found avgmax" }
    };
    mmix_vision_config c = small(0);
    c.heads = 4;
    c.classes = 3;
    c.pool = MMIX_POOL_PATCHES;
    mmix_vision *v = random_backbone(m, c), *w;
    list_own(v, "");
    write_relative(RELATIVE_CONFIG, good);
    w = classifies_same(m, v, "timm, heads of 32 and the mean of the patches");
    if (w)
        CHECK(mmix_vision_config_of(w)->heads == 4
              && mmix_vision_config_of(w)->pool == MMIX_POOL_PATCHES);
    mmix_vision_destroy(w);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *at = strstr(good, wrong[i].from);
        char text[1024];
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, wrong[i].to,
                 at + strlen(wrong[i].from));
        write_relative(RELATIVE_CONFIG, text);
        refused_relative(m, wrong[i].message);
    }
    c.heads = 2;
    c.pool = MMIX_POOL_TOKEN;
    mmix_vision_destroy(v);
    v = random_backbone(m, c);
    list_own(v, "");
    write_relative(RELATIVE_CONFIG, "{\"architecture\": \"ours\", \"heads\": 4}");
    mmix_vision_destroy(classifies_same(m, v, "a config.json of another program"));
    c.heads = 4;
    mmix_vision_destroy(v);
    v = random_backbone(m, c);
    list_own(v, "");
    write_relative(RELATIVE_CONFIG, "{\"num_attention_heads\": 4, \"hidden_size\": 128}");
    mmix_vision_destroy(opens_same(m, v, "DINO's names, heads of 32 from a config.json"));
    remove(RELATIVE_CONFIG);
    mmix_vision_destroy(v);

    c = small(0);                                /* MAE fine-tuned, timm's with fc_norm */
    c.classes = 3;
    c.pool = MMIX_POOL_MEAN_NORM;
    v = random_backbone(m, c);
    list_own(v, "");
    mmix_vision_destroy(classifies_same(m, v, "a norm of the mean, by its name"));
    write_relative(RELATIVE_CONFIG,
                   "{\"architecture\": \"vit_base_patch16_224\", \"global_pool\": \"avg\"}");
    mmix_vision_destroy(classifies_same(m, v, "a norm of the mean, with timm's config"));
    write_relative(RELATIVE_CONFIG,
                   "{\"architecture\": \"vit_base_patch16_224\", \"global_pool\": \"token\"}");
    refused_relative(m, "global_pool: expected avg, found token");
    remove(RELATIVE_CONFIG);
    put("norm.weight", &mmix_vision_params(v)->at[0], 0, 1);
    refused_relative(m, "expected norm.weight or fc_norm.weight before the classifier, found both");
    mmix_vision_destroy(v);

    c = small(0);                                /* a classifier that reads what nobody knows */
    c.classes = 3;
    v = random_backbone(m, c);
    list_own(v, "");
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], "head.weight")) entries[i].shape[1] = 48;
    refused_relative(m, "head.weight: expected a classifier that reads 256 numbers, found one that "
                        "reads 48");
    mmix_vision_destroy(v);
}
/* Opening with names of classes, and classifying, where memory ends. */
static int classified(const mmix_options *o, void *user)
{
    mmix_ctx *m = mmix_create(o);
    (void)user;
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_vision *v = mmix_vision_load(m, RELATIVE);
    mmix_tensor *image = mmix_error(m) ? NULL : mmix_fill(mmix_new4(m, 2, 3, 8, 12), 1);
    mmix_features f = mmix_vision_forward(m, v, image, NULL);
    mmix_tensor *logits = mmix_error(m) ? NULL : mmix_vision_classify(m, v, &f);
    if (v && logits) mmix_vision_save(m, v, PATH);
    const int kind = mmix_error_kind(m);
    CHECK(kind || (logits && mmix_vision_class_name(v, 0)));
    mmix_vision_destroy(v);
    mmix_destroy(m);
    return kind;
}
/* Whatever stands in config.json and in the metadata, a file opens or is refused as a file. */
static void configs_changed(mmix_ctx *m)
{
    static const char *const right[] = {
        labels, "{\"label_names\": [\"a\", \"b\", \"c\"], \"architecture\": \"vit_small\", "
                "\"num_classes\": 3, \"global_pool\": \"avg\", \"model_args\": {\"num_heads\": 2, "
                "\"depth\": 1, \"act_layer\": \"gelu\", \"init_values\": 1e-5}}",
        "{\"model_type\": \"vit\", \"num_attention_heads\": 2, \"id2label\": {\"2\": \"c\"}}"
    };
    mmix_vision_config c = small(0);
    c.dim = 64;
    c.depth = 1;
    c.heads = 2;
    c.classes = 3;
    mmix_vision *v = random_backbone(m, c);
    list_own(v, "");
    CHECK(!save_relative(m));
    state = 11;
    for (int i = 0; i < 3000; i++) {
        static const char odd[] = "\"{}[]:,0123456789-eE.truefalsn\\x\xff";
        char text[512];
        const char *from = right[i % 3];
        size_t n = strlen(from);
        strcpy(text, from);
        for (size_t times = any(1, 3); times; times--) {
            size_t at = any(0, n - 1);
            if (i % 5 == 4) text[at] = 0;        /* cut */
            else text[at] = odd[any(0, sizeof odd - 2)];
        }
        write_relative(RELATIVE_CONFIG, text);
        mmix_vision *w = mmix_vision_load(m, RELATIVE);
        CHECK_AT(w ? !mmix_error(m) : mmix_error_kind(m) == MMIX_ERROR_FILE, text);
        for (size_t k = 0; w && k < 4; k++) {
            const char *name = mmix_vision_class_name(w, k);
            CHECK(k < 3 ? !name || strlen(name) < sizeof text : !name);
        }
        mmix_vision_destroy(w);
        mmix_error_clear(m);
        mmix_reset(m);
    }
    mmix_vision_destroy(v);
}
/* DINO has no labels: its networks are made without a classifier. */
static void classes_of_dino(mmix_ctx *m)
{
    mmix_dino_config c = mmix_dino_config_small_data();
    c.vision = small(8);
    mmix_dino *d = mmix_dino_create(m, c);
    mmix_vision *v = d ? mmix_dino_backbone(d, 1) : NULL;
    CHECK(v && !mmix_vision_config_of(v)->classes && !mmix_dino_config_of(d)->vision.classes
          && !mmix_params_find(mmix_vision_params(v), "head.weight"));
    mmix_dino_destroy(d);
    FINE(m);
}
static void classes(void)
{
    static const int kinds[] = { 0, 8, 9 };
    mmix_ctx *m = context(1, 0);
    mkdir(RELATIVES, 0777);
    pools(m);
    pools_refused(m);
    class_names(m);
    timm_classes(m);
    configs_changed(m);
    classes_of_dino(m);
    for (int i = 0; i < 3; i++) {
        mmix_vision_config c = small(kinds[i]);
        c.classes = 3;
        if (kinds[i] == 8) c.stride = 2;
        mmix_vision *v = random_backbone(m, c);
        if (kinds[i] == 0) list_classified(v, 0);
        else list_own(v, "");
        CHECK(!save_relative(m));
        write_relative(RELATIVE_CONFIG, labels);
        mmix_vision_destroy(v);
        mmix_reset(m);
        CHECK(memory_fails(classified, NULL, 1, 1) > 10);
        CHECK(memory_fails(classified, NULL, 0, 1) > 10);
    }
    FINE(m);
    mmix_destroy(m);
    remove(RELATIVE_CONFIG);
    remove(RELATIVE);
    remove(RELATIVES);
    remove(PATH);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = { { "tokens", tokens },     { "opening", opening },
                                   { "names", other_names }, { "plain names", plain_names },
                                   { "reading", reading },   { "trained", trained },
                                   { "halves", halves },     { "memory", opening_fails },
                                   { "dense", dense },       { "batches", batches },
                                   { "squares", squares },   { "pictures", pictures },
                                   { "arrays", arrays },     { "relatives", relatives },
                                   { "vim", vim },           { "classes", classes } };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
