/* qwen - Qwen2-VL and Qwen2.5-VL that transformers wrote, beside what it computed with them

     qwen          those of tests/golden/qwen
     qwen DIR      those of the folder that tests/qwen_cases.py filled

   Levels of prepared pictures are to be equal. Features, logits and the gradients of the tower are
   to be within 2e-4 of the largest magnitude, in doubles within 1e-9. */
#include "theirs.h"

#define GOLDEN "tests/golden/qwen"
static double worst;

static void beside(mmix_tensor *found, mmix_tensor *expected, const char *what)
{
    if (!CHECK_AT(found && expected && mmix_count(found) == mmix_count(expected), what)) return;
    double error = apart(found, expected);
    if (error > worst) worst = error;
    near_to(error, 0, WITHIN, __FILE__, __LINE__, what);
}
static mmix_tensor *numbered(mmix_ctx *m, const mmix_archive *a, const char *name, size_t i)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%d", name, (int)i);
    return array(m, a, full);
}
/* The film that the tower makes of the levels number i. */
static mmix_tensor *prepared(mmix_ctx *m, const mmix_qwen_vision *v, const mmix_archive *a, size_t i)
{
    static uint8_t levels[1 << 17];
    mmix_picture frame[16];
    char name[32];
    snprintf(name, sizeof name, "pixels.%d", (int)i);
    const mmix_entry *e = mmix_archive_find(a, name);
    if (!CHECK_AT(e && mmix_entry_count(e) <= sizeof levels && e->shape[0] <= 16, name)) return NULL;
    mmix_archive_read(m, a, e, MMIX_FILE_U8, levels, mmix_entry_count(e));
    for (size_t f = 0; f < e->shape[0]; f++) {
        frame[f].rgb = levels + f * e->shape[1] * e->shape[2] * 3;
        frame[f].width = e->shape[2];
        frame[f].height = e->shape[1];
    }
    return mmix_qwen_vision_film(m, v, frame, e->shape[0]);
}
/* Whether both films have the same levels: a level is 1/255 over the deviation. */
static void same_levels(mmix_tensor *found, mmix_tensor *expected)
{
    if (!CHECK(found && expected && mmix_ndim(found) == 5)) return;
    for (int axis = 0; axis < 5; axis++) CHECK(mmix_shape(found, axis) == mmix_shape(expected, axis));
    size_t n = mmix_count(found) == mmix_count(expected) ? mmix_count(found) : 0;
    double far = 0;
    for (size_t i = 0; i < n; i++)
        far = fmax(far, fabs((double)(mmix_data(found)[i] - mmix_data(expected)[i])));
    NEAR(far, 0, 1e-6);
}
static void compare_tower(mmix_ctx *m, mmix_qwen_vision *v, const mmix_archive *expected)
{
    mmix_params *p = mmix_qwen_vision_params(v);
    mmix_tensor *spans = array(m, expected, "spans");
    size_t n = mmix_shape(spans, 0);
    for (size_t i = 0; i < n; i++) {
        mmix_tensor *film = numbered(m, expected, "film", i);
        same_levels(prepared(m, v, expected, i), film);
        mmix_tensor *features = mmix_qwen_vision_forward(m, v, film);
        beside(features, numbered(m, expected, "features", i), "features");
        FINE(m);
    }
    mmix_params_require_grad(p, 1);
    mmix_record(m, 1);
    mmix_tensor *loss = NULL;
    for (size_t i = 0; i < n; i++) {
        mmix_tensor *features = mmix_qwen_vision_forward(m, v, numbered(m, expected, "film", i));
        mmix_tensor *weight = numbered(m, expected, "weight", i);
        const size_t shape[3] = { mmix_shape(features, 0), mmix_shape(features, 1),
                                  mmix_shape(features, 2) };
        weight = mmix_reshape(m, weight, 3, shape);
        mmix_tensor *part = mmix_sum(m, mmix_mul(m, features, weight));
        loss = loss ? mmix_add(m, loss, part) : part;
    }
    mmix_backward(m, loss);
    mmix_record(m, 0);
    for (size_t i = 0; i < p->count && !mmix_error(m); i++) {
        char name[192];
        snprintf(name, sizeof name, "gradient.%.180s", p->at[i].name);
        if (!mmix_archive_find(expected, name)) continue;        /* golden ones have the small */
        beside(mmix_grad(p->at[i].tensor), array(m, expected, name), name);
    }
    FINE(m);
    mmix_params_require_grad(p, 0);
}
static void look(const char *folder, const char *name)
{
    char path[512];
    doing(name);
    worst = 0;
    mmix_ctx *m = mmix_create(NULL);
    snprintf(path, sizeof path, "%.200s/%.100s/expected.safetensors", folder, name);
    mmix_archive *expected = mmix_archive_open(m, path);
    snprintf(path, sizeof path, "%.200s/%.100s/model.safetensors", folder, name);
    mmix_archive *a = mmix_archive_open(m, path);
    mmix_qwen_vision_config c;
    memset(&c, 0, sizeof c);
    c.dim = 16; c.heads = strcmp(name,"qwen2.5") ? 2 : 4; c.patch = 4; c.least = 200; c.most = 3000;
    c.newer = strncmp(name, "qwen2.5", 7) == 0; c.depth = c.newer ? 3 : 2; c.ffn = c.newer ? 20 : 32;
    c.width = strcmp(name,"qwen2.5") ? 16 : 32; c.full[1] = 1; c.window = c.newer ? 4 : 0; c.activation = strcmp(name, "qwen2") ? 0 : 2;
    if (!strcmp(name, "qwen2.5-film")) c.window = 6, c.full[0]=c.full[2]=1,c.full[1]=0;
    if (!strcmp(name, "qwen2.5-full")) c.window = 2, c.full[1]=0;
    mmix_qwen_vision *v = mmix_qwen_vision_create(m, c);
    mmix_params_read(mmix_qwen_vision_params(v), a, strstr(name, "-flat") ? "visual." : "model.visual.");
    FINE(m);
    if (v && expected) compare_tower(m, v, expected);
    printf("%-16s at most %.1e apart\n", name, worst);
    mmix_archive_close(a);
    mmix_archive_close(expected);
    mmix_qwen_vision_destroy(v);
    mmix_destroy(m);
}
int main(int argc, char **argv)
{
    each_in(argc == 2 ? argv[1] : GOLDEN, look);
    return summary();
}
