/* device.c - tensors on a device: memory that nobody may read but its own put, get and kernels, for
   its pages are closed between their calls. What runs there has the bits of the host. */
#define _DEFAULT_SOURCE
#define _DARWIN_C_SOURCE
#include "models.h"

#if !defined(__unix__) && !defined(__APPLE__)
int main(void)
{
    printf("skipped: tensors on a device (no mmap here)\n");
    skipped++;
    return summary();
}
#else
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

/* ---- the device ---- */

enum {
    BLOCKS = 1 << 14,
    REGION = 1 << 28,
    NONE = 0,
    FORWARD = 1,
    BACKWARD = 2,
    DECLINES = 4,
    ALL = FORWARD | BACKWARD
};
typedef struct fake {
    char *block[BLOCKS];
    size_t size[BLOCKS], n, allocations, fail_alloc, copies[2], fail_copy, wrong, calls;
    int inside;                                  /* a kernel: the pages are open until it ends */
    /* which there are; DECLINES: of every third call there is none */
    int kernels;
    mmix_op_functions table[MMIX_OP_COUNT];
} fake;
/* all devices' memory, from the front; begun anew when nothing is left of it */
static char *region;
static size_t taken;
static int is_open;
static void door(int open)
{
    is_open = open;
    if (taken && mprotect(region, taken, open ? PROT_READ | PROT_WRITE : PROT_NONE)) {
        printf("mprotect of %zu bytes: %s\n", taken, strerror(errno));
        abort();
    }
}
/* Says where a page was touched that is closed, or what else was wrong, and ends the program. */
static void fell(int signal_number, siginfo_t *info, void *context)
{
    const char *at = (const char *)info->si_addr;
    (void)context;
    printf("FAILED signal %d, code %d: address %p", signal_number, info->si_code, (const void *)at);
    if (region && at >= region && at < region + REGION)
        printf(", byte %zu of the device, %zu of which are taken, the door %s",
               (size_t)(at - region), taken, is_open ? "open" : "closed");
    printf("\n");
    fflush(stdout);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}
static void watch(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_sigaction = fell;
    act.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
}
static void *fake_alloc(void *user, size_t size)
{
    fake *f = (fake *)user;
    if (!region)
        region = (char *)mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1, 0);
    if (!f->n) taken = 0;
    if (region == (char *)MAP_FAILED || ++f->allocations == f->fail_alloc || f->n == BLOCKS
        || size + 64 > REGION - taken)
        return NULL;
    char *p = f->block[f->n] = region + taken;
    f->size[f->n++] = size;
    taken += (size + 63) / 64 * 64;
    door(1);
    memset(p, 0xff, size);                       /* NaN */
    door(f->inside);
    return p;
}
static void fake_free(void *user, void *ptr, size_t size)
{
    fake *f = (fake *)user;
    size_t i = 0;
    while (i < f->n && f->block[i] != ptr) i++;
    if (i == f->n || f->size[i] != size) {
        f->wrong++;
        return;
    }
    f->block[i] = f->block[--f->n];
    f->size[i] = f->size[f->n];
}
static int fake_copy(fake *f, void *to, const void *from, size_t size, int up)
{
    const size_t at = (size_t)(up ? to : from);
    size_t i = 0;
    while (i < f->n && at - (size_t)f->block[i] >= f->size[i])
        i++;
    if (i == f->n || at - (size_t)f->block[i] + size > f->size[i]) {
        f->wrong++;
        return -1;
    }
    if (++f->copies[up] + f->copies[!up] == f->fail_copy)
        return -1;
    door(1);
    memcpy(to, from, size);
    door(f->inside);
    return 0;
}
static int fake_put(void *user, void *device, const void *host, size_t size)
{
    return fake_copy((fake *)user, device, host, size, 1);
}
static int fake_get(void *user, void *host, const void *device, size_t size)
{
    return fake_copy((fake *)user, host, device, size, 0);
}
/* An op's own function, let in for as long as it runs. */
static int fake_kernel(mmix_ctx *m, mmix_call *c)
{
    fake *f = (fake *)mmix_op_user(m);
    const mmix_op_functions own = mmix_op_get(m, c->op);
    const int back = c->dy[0] != NULL;
    int failed;
    if (!back
        && ((f->kernels & DECLINES && ++f->calls % 3 == 0)
            || (c->recorded && !(f->kernels & BACKWARD))))
        return 1;
    door(f->inside = 1);
    failed = (back ? own.backward : own.forward)(m, c);
    door(f->inside = 0);
    return failed;
}
static mmix_options with_device(fake *f, int kernels)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = 2;
    o.seed = 9;
    o.device.alloc = fake_alloc;
    o.device.free = fake_free;
    o.device.put = fake_put;
    o.device.get = fake_get;
    o.device.user = f;
    o.device.kernels = kernels ? f->table : NULL;
    f->kernels = kernels;
    for (int op = 0; op < MMIX_OP_COUNT; op++)
        f->table[op].forward = f->table[op].backward = fake_kernel;
    return o;
}
static mmix_ctx *device(fake *f, int kernels)
{
    memset(f, 0, sizeof *f);
    const mmix_options o = with_device(f, kernels);
    mmix_ctx *m = mmix_create(&o);
    mmix_op_user_set(m, f);
    return m;
}

/* ---- the same on the host and on the device ---- */

static uint64_t read_into(uint64_t h, const mmix_tensor *t)
{
    const size_t n = mmix_count(t);
    real *x = (real *)malloc((n + 1) * sizeof *x);
    if (!t || mmix_read(t, x)) h = 0;
    else h = hash_of(x, n, h);
    free(x);
    return h;
}
static uint64_t number_into(uint64_t h, double x)
{
    for (size_t i = 0; i < sizeof x; i++)
        h = (h ^ ((const unsigned char *)&x)[i]) * 1099511628211u;
    return h;
}
static uint64_t read_params(uint64_t h, const mmix_params *p)
{
    for (size_t i = 0; p && i < p->count; i++)
        h = read_into(h, p->at[i].tensor);
    return h;
}
static uint64_t read_file(uint64_t h, const char *path)
{
    FILE *f = fopen(path, "rb");
    for (int c; f && (c = getc(f)) != EOF;)
        h = (h ^ (uint64_t)c) * 1099511628211u;
    if (f) fclose(f);
    return f ? h : 0;
}
typedef uint64_t work_on(mmix_ctx *m);
/* Runs it on the host and with each kind of device: the results are one. */
static void alike(const char *what, work_on *run)
{
    static const struct {
        int kernels;
        const char *name;
    } kinds[] = { { NONE, "no kernels" },
                  { ALL, "kernels for all" },
                  { FORWARD, "kernels without backward" },
                  { ALL | DECLINES, "kernels that decline" } };
    mmix_ctx *m = context(2, 9);
    const uint64_t expected = run(m);
    size_t calls[MMIX_OP_COUNT];
    static fake f;
    doing(what);
    FINE(m);
    CHECK(mmix_op_calls(m, MMIX_OP_LINEAR, 0) == 0);
    mmix_destroy(m);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int same = 1, host = 0, there = 0;
        m = device(&f, kinds[i].kernels);
        CHECK_AT(run(m) == expected, kinds[i].name);
        report(!mmix_error(m), __FILE__, __LINE__, kinds[i].name, mmix_error(m));
        for (int op = 0; op < MMIX_OP_COUNT; op++) {
            const size_t on_host = mmix_op_calls(m, op, 0), on_device = mmix_op_calls(m, op, 1);
            /* without kernels more may be fused into a call: that device sets no number */
            if (i == 1) calls[op] = on_host + on_device;
            if (i > 1) same &= on_host + on_device == calls[op];
            host |= on_host > 0;
            there |= on_device > 0;
        }
        CHECK_AT(same, kinds[i].name);
        CHECK_AT(host || kinds[i].kernels & FORWARD, kinds[i].name);
        CHECK_AT(there == (kinds[i].kernels != NONE) || kinds[i].kernels == FORWARD, kinds[i].name);
        CHECK_AT((f.copies[0] && f.copies[1]) == there, kinds[i].name);
        mmix_destroy(m);
        CHECK_AT(!f.n && !f.wrong, kinds[i].name);
    }
}

/* ---- every op ---- */

static mmix_tensor *normal(mmix_ctx *m, uint64_t stream, int ndim, size_t a, size_t b, size_t c,
                           size_t d)
{
    size_t s[4];
    s[0] = a;
    s[1] = b;
    s[2] = c;
    s[3] = d;
    return mmix_require_grad(
        mmix_fill_normal(m, mmix_new(m, MMIX_DTYPE_REAL, ndim, s), 0.7, stream));
}
static mmix_tensor *numbers(mmix_ctx *m, size_t n, int32_t below)
{
    int32_t x[16];
    for (size_t i = 0; i < n; i++)
        x[i] = (int32_t)(i * 5 % 7) % below;
    return mmix_from_i32(m, 1, &n, x);
}
enum { CASES = 48 };
static mmix_tensor *made(mmix_ctx *m, int i, mmix_tensor **leaf)
{
    mmix_tensor *x = leaf[0] = normal(m, 1, 3, 2, 6, 8, 0);
    mmix_tensor *y = leaf[1] = normal(m, 2, 3, 2, 6, 8, 0);
    mmix_tensor *v = leaf[2] = normal(m, 3, 1, 8, 0, 0, 0);
    mmix_tensor *w = leaf[3] = normal(m, 4, 2, 8, 8, 0, 0);
    mmix_tensor *positive = mmix_require_grad(mmix_fill(mmix_new3(m, 2, 6, 8), 0.4));
    mmix_tensor *part[2], *q, *k, *mask;
    mmix_mixer mixer;
    mmix_real center[8] = { 0 };
    part[0] = x;
    part[1] = y;
    q = mmix_reshape(m, x, 4, (const size_t[4]) { 2, 6, 2, 4 });
    k = mmix_reshape(m, y, 4, (const size_t[4]) { 2, 6, 2, 4 });
    switch (i) {
    case 0: return mmix_add(m, x, v);
    case 1: return mmix_mul(m, x, y);
    case 2: return mmix_div(m, x, leaf[4] = positive);
    case 3: return mmix_affine(m, x, 3, 1);
    case 4: return mmix_exp(m, x);
    case 5: return mmix_log(m, leaf[4] = positive);
    case 6: return mmix_sqrt(m, leaf[4] = positive);
    case 7: return mmix_silu(m, x);
    case 8: return mmix_gelu(m, x);
    case 9: return mmix_softplus(m, x);
    case 10: return mmix_sum_axis(m, x, 1);
    case 11: return mmix_sum(m, x);
    case 12: return mmix_matmul(m, x, mmix_permute(m, y, (const int[3]) { 0, 2, 1 }));
    case 13: return mmix_concat(m, 1, part, 2);
    case 14: return mmix_take_rows(m, w, numbers(m, 5, 8));
    case 15: return mmix_softmax(m, x, 2);
    case 16: return mmix_layer_norm(m, x, v, v, 1e-5);
    case 17: return mmix_rms_norm(m, x, v, 1e-5);
    case 18: return mmix_gated_rms_norm(m, x, y, v, 1e-5, 2);
    case 19: return mmix_l2_normalize(m, x, 1e-9);
    case 20:
        return mmix_linear_residual(m, mmix_slice(m, x, 1, 1, 5), w, v, mmix_slice(m, y, 1, 0, 5),
                                    NULL);
    case 21: return mmix_causal_conv1d(m, x, leaf[4] = normal(m, 5, 3, 8, 1, 3, 0), v, NULL);
    case 22: return mmix_interpolate(m, q, MMIX_RESIZE_BICUBIC, 3, 7, 0, 0);
    case 23:
        return mmix_cross_entropy(m, mmix_slice(m, x, 1, 0, 5),
                                  mmix_reshape(m, numbers(m, 10, 8), 2, (const size_t[2]){ 2, 5 }),
                                  -1);
    case 24: return mmix_weight_norm(m, w, leaf[4] = normal(m, 6, 2, 8, 1, 0, 0));
    case 25: return mmix_rope(m, q, numbers(m, 6, 7), NULL);
    case 26: mixer = mmix_mixer_softmax(q, k, q); return mmix_mix(m, &mixer);
    case 27:
        mixer = mmix_mixer_linear(q, k, k);
        mixer.feature = MMIX_FEATURE_ELU1;
        return mmix_mix(m, &mixer);
    case 28:
        mixer = mmix_mixer_ssd(q, leaf[4] = normal(m, 7, 3, 2, 6, 2, 0),
                               mmix_fill(mmix_new1(m, 2), -0.3), k, q);
        return mmix_mix(m, &mixer);
    case 29:
        return mmix_dino_loss(m, mmix_reshape(m, x, 2, (const size_t[2]){ 12, 8 }),
                              mmix_fill_normal(m, mmix_new2(m, 6, 8), 1, 3), center, 4, 0.1, 0.04,
                              0.9, NULL);
    case 30:
        return mmix_add_rows(m, x, mmix_slice(m, y, 1, 0, 3),
                             mmix_slice(m, numbers(m, 4, 6), 0, 1, 3));
    case 31: return mmix_kd_hidden(m, x, mmix_fill_normal(m, mmix_new3(m, 2, 6, 8), 1, 3), NULL, 1);
    case 32:
        mask = mmix_reshape(m, numbers(m, 12, 2), 2, (const size_t[2]) { 2, 6 });
        return mmix_kd_token(m, x, mmix_fill_normal(m, mmix_new3(m, 2, 6, 8), 1, 3), mask, 2);
    case 33: return mmix_maximum(m, x, y);
    case 34: return mmix_relu(m, x);
    case 35: return mmix_abs(m, x);
    case 36: return mmix_sigmoid(m, x);
    case 37: return mmix_tanh(m, x);
    case 38: return mmix_pow(m, x, 2);
    case 39: return mmix_dropout(m, x, 0.4, 1, 2);
    case 40: return mmix_add(m, mmix_mul(m, x, x), mmix_gelu(m, x));
    case 41:
        return mmix_patch_embed(m, mmix_reshape(m, x, 4, (const size_t[4]){ 1, 2, 6, 8 }),
                                normal(m, 5, 4, 3, 2, 2, 2), NULL);
    case 42:
        mixer = mmix_mixer_softmax(q, k, q);
        mixer.mask = MMIX_MASK_CAUSAL;
        return mmix_mix(m, &mixer);
    case 43:
        mixer = mmix_mixer_linear(q, k, k);
        mixer.mask = MMIX_MASK_CAUSAL;
        return mmix_mix(m, &mixer);
    case 44:
        mixer = mmix_mixer_selective(mmix_slice(m, q, 3, 0, 1),
                                     leaf[4] = normal(m, 7, 3, 2, 6, 2, 0),
                                     mmix_rates(m, mmix_slice(m, w, 0, 0, 2)),
                                     mmix_reshape(m, x, 4, (const size_t[4]){ 2, 6, 1, 8 }),
                                     mmix_reshape(m, y, 4, (const size_t[4]){ 2, 6, 1, 8 }));
        mixer.z = mmix_slice(m, k, 3, 1, 1);
        return mmix_mix(m, &mixer);
    case 45: return mmix_rates(m, x);
    case 46: return mmix_gelu_tanh(m, x);
    default: return mmix_insert_token(m, x, v, 2);
    }
}
static uint64_t ops(mmix_ctx *m)
{
    uint64_t h = 1;
    for (int i = 0; i < CASES; i++) {
        mmix_tensor *leaf[5] = { NULL }, *y, *loss;
        mmix_record(m, 1);
        y = made(m, i, leaf);
        h = read_into(h, y);
        if (!y) {
            printf("case %d\n", i);
            return 0;
        }
        loss = mmix_sum(m, mmix_mul(m, y, y));
        mmix_backward(m, loss);
        h = number_into(h, mmix_item(loss));
        for (int k = 0; k < 5; k++)
            if (leaf[k] && mmix_grad(leaf[k]))
                h = read_into(h, mmix_grad(leaf[k]));
        mmix_record(m, 0);
        mmix_reset(m);
    }
    return h;
}

/* ---- networks ---- */

static uint64_t mmate(mmix_ctx *m)
{
    static const mmix_span spans[1] = { { 2, { 1, 2, 3 }, 0, 0 } };
    mmix_params *p = mmix_params_create(m);
    mmix_mmate_layer layer;
    mmix_layout layout;
    mmix_tensor *x, *y;
    uint64_t h = 1;
    memset(&layout, 0, sizeof layout);
    layout.spans = spans;
    layout.n_spans = 1;
    mmix_mmate_init(&layer, p, "", 8, 2, 1, 4, 1, 1, NULL);
    layer.rope.theta = 100;
    mmix_params_allocate(p);
    mmix_params_require_grad(p, 1);
    mmix_record(m, MMIX_RECORD_LAYERS);
    x = normal(m, 1, 3, 2, 10, 8, 0);
    y = mmix_mmate_forward(m, &layer, x, x, &layout);
    h = read_into(h, y);
    mmix_backward(m, mmix_mean(m, mmix_mul(m, y, y)));
    h = read_into(h, mmix_grad(x));
    for (size_t i = 0; i < p->count; i++)
        h = read_into(h, mmix_grad(p->at[i].tensor));
    mmix_params_destroy(p);
    return h;
}
/* Three steps of a backbone and a linear layer behind it. */
static uint64_t learns(mmix_ctx *m, int kind, int record, int sgd)
{
    mmix_vision *v = mmix_vision_create(m, small_vision(kind));
    mmix_params *p = mmix_vision_params(v);
    mmix_optimizer s;
    mmix_adamw o = mmix_adamw_config_default();
    mmix_sgd g = mmix_sgd_config_default();
    uint64_t h = 1;
    memset(&s, 0, sizeof s);
    if (sgd) mmix_sgd_init(&s, p);
    else mmix_adamw_init(&s, p);
    for (int step = 0; step < 3; step++) {
        mmix_features f;
        mmix_tensor *loss;
        double norm;
        mmix_record(m, record);
        f = mmix_vision_forward(m, v,
                                mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 16), 1, (uint64_t)step),
                                NULL);
        loss = mmix_cross_entropy(m, f.token, numbers(m, 2, 5), -1);
        mmix_backward(m, loss);
        mmix_record(m, 0);
        norm = sgd ? mmix_sgd_step(&s, &g, -1, NULL) : mmix_adamw_step(&s, &o, 1, NULL);
        h = number_into(number_into(h, norm), mmix_item(loss));
        mmix_reset(m);
    }
    h = read_params(h, p);
    mmix_vision_save(m, v, "build/device.safetensors");
    h = read_file(h, "build/device.safetensors");
    mmix_optimizer_free(&s);
    mmix_vision_destroy(v);
    v = mmix_vision_load(m, "build/device.safetensors");
    h = read_params(h, mmix_vision_params(v));
    if (v)
        h = read_into(h, mmix_vision_forward(m, v,
                                             mmix_fill_normal(m, mmix_new4(m, 2, 3, 16, 16), 1, 7),
                                             NULL)
                             .tokens);
    mmix_reset(m);
    mmix_vision_destroy(v);
    return h;
}
static uint64_t vit(mmix_ctx *m) { return learns(m, MMIX_MIXER_SOFTMAX, 1, 0); }
static uint64_t vim(mmix_ctx *m) { return learns(m, MMIX_MIXER_SSD, MMIX_RECORD_LAYERS, 0); }
static uint64_t linear(mmix_ctx *m) { return learns(m, MMIX_MIXER_LINEAR, 1, 1); }
/* Slabs: averages, and gradients that are begun anew, added to, and handed in. */
static uint64_t slabs(mmix_ctx *m)
{
    static const size_t shape[2] = { 4, 8 };
    mmix_params *p[2];
    mmix_tensor *w[2];
    mmix_tensor *x = normal(m, 1, 2, 3, 8, 0, 0);
    mmix_tensor *g = mmix_fill_normal(m, mmix_new2(m, 3, 4), 1, 2);
    mmix_tensor *y;
    uint64_t h = 1;
    for (int i = 0; i < 2; i++) {
        p[i] = mmix_params_create(m);
        w[i] = mmix_params_add(p[i], "", i ? "v" : "w", 2, shape, MMIX_INIT_NORMAL, 1, 0);
        mmix_params_allocate(p[i]);
    }
    p[1]->at[0].name = p[0]->at[0].name;
    mmix_params_require_grad(p[0], 1);
    for (int i = 0; i < 6; i++) {
        mmix_record(m, 1);
        y = mmix_linear(m, mmix_gelu(m, x), mmix_mul(m, w[0], w[0]), NULL);
        if (i % 2) mmix_backward_from(m, &y, &g, 1);
        else
            mmix_backward(m, mmix_sum(m, mmix_mul(m, y,
                                                  mmix_linear(m, x, mmix_slice(m, w[0], 0, 0, 4),
                                                              NULL))));
        mmix_record(m, 0);
        if (i == 1)
            h = read_into(h, mmix_grad(w[0]));
        if (i == 2 || i == 4) mmix_params_zero_grad(p[0]);
        if (i < 2)
            mmix_ema(p[1], p[0], 0.9); /* it brings gradients to the host */
        h = read_into(h, mmix_linear(m, x, w[1], NULL));
        if (i == 3) mmix_fill(g, 0.3);
    }
    h = read_into(h, mmix_grad(w[0]));
    for (int i = 0; i < 2; i++)
        mmix_params_destroy(p[i]);
    mmix_reset(m);
    return h;
}
/* DINO: crops, teacher, centre, its file, and a run that goes on. */
static uint64_t dino(mmix_ctx *m)
{
    mmix_dino *d;
    mmix_dino_stats s;
    uint64_t h = 1;
    draw();
    mmix_dino_config c = small_dino(MMIX_MIXER_SSD);
    c.shards = 2;
    d = mmix_dino_create(m, c);
    for (int i = 0; d && i < 2 && mmix_dino_step(d, pictures, PICTURES, &s) == 1; i++)
        h = hash_stats(&s, h);
    if (d) mmix_dino_save(d, "build/device_dino.safetensors", "");
    h = read_file(h, "build/device_dino.safetensors");
    mmix_dino_destroy(d);
    d = mmix_dino_load(m, "build/device_dino.safetensors");
    if (d && mmix_dino_step(d, pictures, PICTURES, &s) == 1)
        h = hash_stats(&s, h);
    mmix_dino_destroy(d);
    return h;
}
/* A decoder token by token, with what it carries. */
static uint64_t decoder(mmix_ctx *m)
{
    mmix_decoder_config c;
    mmix_decoder *d;
    uint64_t h = 1;
    memset(&c, 0, sizeof c);
    c.mmate.conv_width = 3;
    c.vocabulary = 23;
    c.dim = 12;
    c.depth = 2;
    c.ffn = 10;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 6;
    c.bias = 1;
    for (int kind = 0; kind < 2; kind++) {
        mmix_mix_state *s;
        c.mixer = kind ? MMIX_DECODER_ATTENTION : MMIX_DECODER_MMATE;
        d = mmix_decoder_create(m, c);
        s = d ? mmix_decoder_state_create(d) : NULL;
        for (int32_t t = 0; s && t < 6; t++) {
            mmix_sequence q;
            memset(&q, 0, sizeof q);
            q.tokens = mmix_reshape(m, numbers(m, t ? 1 : 5, 23), 2,
                                    (const size_t[2]){ 1, t ? 1 : 5 });
            h = read_into(h, mmix_decoder_step(m, d, &q, s));
            mmix_reset(m);
            if (t == 3) {
                mmix_mix_state *copy = mmix_mix_state_copy(s);
                mmix_mix_state_destroy(s);
                s = copy;
            }
        }
        mmix_mix_state_destroy(s);
        mmix_decoder_destroy(d);
    }
    return h;
}
/* An upstream gradient may have a gradient of its own, that lies somewhere else than its values. */
static uint64_t upstream(mmix_ctx *m)
{
    mmix_tensor *x = normal(m, 1, 2, 3, 8, 0, 0);
    mmix_tensor *w = normal(m, 2, 2, 3, 8, 0, 0);
    mmix_tensor *y;
    mmix_record(m, 1);
    mmix_backward(m, mmix_sum(m, mmix_mul(m, x, x)));
    y = mmix_gelu(m, w);
    real v[24];
    for (int i = 0; i < 24; i++)
        v[i] = (real)(i % 5);
    mmix_write(x, v);                            /* newer than what the device has of it */
    mmix_backward_from(m, &y, &x, 1);
    const uint64_t h = read_into(read_into(1, mmix_grad(w)), mmix_grad(x));
    mmix_record(m, 0);
    mmix_reset(m);
    return h;
}
/* What looks at numbers without an op. */
static uint64_t looks(mmix_ctx *m)
{
    static const size_t flat[2] = { 12, 8 }, four[4] = { 2, 6, 2, 4 }, rows[2] = { 1, 4 };
    mmix_tensor *leaf[5] = { NULL }, *y = made(m, 8, leaf), *x = mmix_reshape(m, y, 2, flat),
                *q = mmix_reshape(m, y, 4, four), *part;
    mmix_mixer mixer = mmix_mixer_softmax(q, q, q);
    mmix_knn_result knn;
    mmix_pca_result pca;
    mmix_map map;
    uint64_t h = read_into(1, mmix_mix_matrix(m, &mixer));
    h = read_into(h, mmix_mix_rows_mean(m, &mixer, rows, 1));
    mmix_knn(m, x, numbers(m, 12, 3), NULL, NULL, 3, 2, 0.1, &knn);
    h = number_into(h, knn.top1);
    mmix_pca(m, mmix_gelu(m, x), 2, &pca);
    mmix_feature_map(m, NULL, mmix_slice(m, y, 1, 0, 1), mmix_gelu(m, y), 2, 3, 4, 6, &map);
    h = read_into(h, map.map);
    h = read_into(h, mmix_mass_threshold(m, mmix_softmax(m, map.map, 3), 0.6));
    part = mmix_gelu(m, y);                      /* what a block leaves survives a rewind */
    mmix_mark mark = mmix_mark_here(m);
    part = mmix_mul(m, part, part);
    mmix_rewind_keep(m, mark, &part, 1);
    h = read_into(h, mmix_affine(m, part, 2, 0));
    mmix_reset(m);
    return h;
}

/* ---- the rest ---- */

static int cube(mmix_ctx *m, mmix_call *c)
{
    (void)m;
    for (size_t i = 0; i < mmix_count(c->in[0]); i++) {
        const real x = mmix_data(c->in[0])[i];
        if (!c->dy[0])
            mmix_data(c->out[0])[i] = x * x * x;
        else c->dx[0][i] = 3 * x * x * c->dy[0][i];
    }
    return 0;
}
/* In inference a device's kernels are asked as often as in training: nothing is fused on the host
   behind their back. */
static void infers(void)
{
    static fake f;
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SSD; mixer++) {
        mmix_ctx *m = device(&f, ALL);
        mmix_vision *v = mmix_vision_create(m, small_vision(mixer));
        mmix_tensor *image = mmix_fill_normal(m, mmix_new4(m, 4, 3, 32, 32), 1, 7);
        size_t calls[2];
        doing("infers");
        for (int record = 0; record < 2; record++) {
            const size_t before = mmix_op_calls(m, MMIX_OP_LINEAR, 1);
            mmix_record(m, record);
            mmix_vision_forward(m, v, image, NULL);
            calls[record] = mmix_op_calls(m, MMIX_OP_LINEAR, 1) - before;
        }
        CHECK(calls[0] > 0 && calls[0] == calls[1] && !mmix_op_calls(m, MMIX_OP_LINEAR, 0));
        mmix_record(m, 0);
        FINE(m);
        mmix_vision_destroy(v);
        mmix_destroy(m);
    }
}
/* Who may read what, and where it is. */
static void doors(void)
{
    static fake f;
    mmix_ctx *m = device(&f, ALL), *other = context(1, 1);
    mmix_tensor *x = mmix_fill(mmix_new2(m, 2, 3), 2);
    mmix_tensor *y = mmix_affine(m, x, 2, 1);
    mmix_tensor *z;
    mmix_tensor *labels = numbers(m, 2, 3);
    int32_t *label = mmix_data_i32(labels);      /* it stays good */
    mmix_params *p = mmix_params_create(m);
    const size_t shape[2] = { 4, 3 };
    mmix_op_functions functions = { cube, cube };
    real v[6];
    doing("doors");
    CHECK(y && !mmix_data(x) && !mmix_data(y) && mmix_data_i32(labels));
    CHECK(f.copies[1] == 1 && f.copies[0] == 0);
    IS(mmix_read(y, v), 0);
    IS(v[5], 5);
    CHECK(f.copies[1] == 1 && f.copies[0] == 1);
    IS(mmix_read(y, v), 0);                      /* it is on both sides */
    mmix_affine(m, x, 3, 0);
    CHECK(f.copies[1] == 1 && f.copies[0] == 1);
    v[5] = 7;
    IS(mmix_write(x, v), 0);                     /* not on the device any more */
    IS(mmix_item(mmix_sum(m, mmix_slice(m, mmix_slice(m, x, 0, 1, 1), 1, 2, 1))), 7);
    CHECK(f.copies[1] == 2);
    z = mmix_fill(mmix_new4(m, 1, 2, 1, 2), 1);
    mmix_rope(m, z, labels, NULL);
    label[0] = label[1] = 0;                     /* turns by nothing, if the kernel sees it */
    mmix_read(mmix_rope(m, z, labels, NULL), v);
    CHECK(v[0] == 1 && v[1] == 1 && v[2] == 1 && v[3] == 1);
    /* one's own op is on the host, and counted */
    mmix_require_grad(x);
    mmix_record(m, 1);
    z = mmix_custom_op(m, &x, 1, 2, (const size_t[2]) { 2, 3 }, functions, NULL);
    IS(mmix_backward(m, mmix_sum(m, z)), 0);
    IS(mmix_read(mmix_grad(x), v), 0);
    IS(v[5], 3 * 49);
    IS(mmix_op_calls(m, MMIX_OP_COUNT, 0), 2);
    IS(mmix_op_calls(m, MMIX_OP_SUM, 1), 3);
    IS(mmix_op_calls(m, -1, 1) + mmix_op_calls(m, MMIX_OP_COUNT + 1, 0), 0);
    CHECK(!strcmp(mmix_op_name(MMIX_OP_COUNT), "custom"));
    FINE(m);
    /* parameters stay in their context */
    x = mmix_params_add(p, "", "weight", 2, shape, MMIX_INIT_NORMAL, 1, 0);
    IS(mmix_params_allocate(p), 0);
    REFUSED(other, mmix_linear(other, mmix_fill(mmix_new2(other, 2, 3), 1), x, NULL) == NULL,
            "another context");
    mmix_params_destroy(p);
    mmix_destroy(other);
    mmix_destroy(m);
    CHECK(!f.n && !f.wrong);
    /* kernels without memory are no device */
    mmix_options o = with_device(&f, ALL);
    o.device.alloc = NULL;
    o.device.strict = 1;
    m = mmix_create(&o);
    x = mmix_affine(m, mmix_fill(mmix_new1(m, 1), 2), 3, 1);
    CHECK(x && mmix_data(x) && *mmix_data(x) == 7);
    FINE(m);
    mmix_destroy(m);
}
static void strict(void)
{
    static fake f;
    memset(&f, 0, sizeof f);
    mmix_options o = with_device(&f, ALL);
    o.device.strict = 1;
    memset(&f.table[MMIX_OP_SOFTMAX], 0, sizeof *f.table);
    memset(&f.table[MMIX_OP_SELECTIVE_SCAN], 0, sizeof *f.table);
    mmix_ctx *m = mmix_create(&o);
    mmix_op_user_set(m, &f);
    mmix_tensor *x = mmix_fill_normal(m, mmix_new2(m, 2, 3), 1, 0);
    mmix_tensor *y = mmix_gelu(m, x);
    mmix_op_functions functions = { cube, cube };
    doing("strict");
    FINE(m);
    REFUSED_AS(MMIX_ERROR_DEVICE, m, !mmix_softmax(m, y, 1), "softmax: no kernel ran it", "");
    REFUSED_AS(MMIX_ERROR_DEVICE, m,
               !mmix_custom_op(m, &x, 1, 2, (const size_t[2]){ 2, 3 }, functions, NULL),
               "custom: no kernel", "");
    mmix_mixer scan = mmix_mixer_selective(mmix_fill(mmix_new4(m, 1, 3, 2, 1), 1),
                                           mmix_fill(mmix_new3(m, 1, 3, 2), 1),
                                           mmix_fill(mmix_new2(m, 2, 4), -1),
                                           mmix_fill(mmix_new4(m, 1, 3, 1, 4), 1),
                                           mmix_fill(mmix_new4(m, 1, 3, 1, 4), 1));
    REFUSED_AS(MMIX_ERROR_DEVICE, m, !mmix_mix(m, &scan), "selective_scan: no kernel ran it", "");
    IS(mmix_op_calls(m, MMIX_OP_SOFTMAX, 0), 0);
    CHECK(mmix_gelu(m, y) != NULL);
    f.kernels |= DECLINES;
    f.calls = 2;
    REFUSED_AS(MMIX_ERROR_DEVICE, m, !mmix_gelu(m, y), "gelu: no kernel ran it", "");
    mmix_destroy(m);
    CHECK(!f.n && !f.wrong);
}
/* Allocation, or copy, number n fails: an error of its kind, and nothing is left. */
static void failures(void)
{
    for (int copies = 0; copies < 2; copies++)
        for (size_t n = 1, total = 1; n <= total; n += copies ? 7 : 1) {
            static fake f;
            mmix_ctx *m = device(&f, ALL);
            doing(copies ? "copies fail" : "the device's memory ends");
            if (n == 1 && total == 1) {          /* all there are */
                vim(m);
                total = copies ? f.copies[0] + f.copies[1] : f.allocations;
                mmix_destroy(m);
                m = device(&f, ALL);
            }
            f.fail_alloc = copies ? 0 : n;
            f.fail_copy = copies ? n : 0;
            vim(m);
            COMPARE(mmix_error_kind(m) == (copies ? MMIX_ERROR_DEVICE : MMIX_ERROR_MEMORY)
                        && strstr(mmix_error(m), "the device's"),
                    "the kind of error", mmix_error_kind(m), n);
            mmix_destroy(m);
            COMPARE(!f.n && !f.wrong, "nothing is left", f.n, n);
        }
}

static void every_op(void)
{
    static fake f;
    mmix_ctx *m = device(&f, ALL);
    alike("ops", ops);
    ops(m);
    mmate(m);
    doing("each op of the table, forward and backward");
    for (int op = 0; op < MMIX_OP_COUNT; op++)
        CHECK_AT(mmix_op_calls(m, op, 1) >= 2 && !mmix_op_calls(m, op, 0), mmix_op_name(op));
    mmix_destroy(m);
}
static void networks(void)
{
    alike("M-MATE", mmate);
    alike("ViT", vit);
    alike("DinoVim", vim);
    alike("LinearViT", linear);
    alike("slabs", slabs);
    alike("DINO", dino);
    alike("a decoder", decoder);
    alike("looking", looks);
    alike("upstream", upstream);
}
int main(int argc, char **argv)
{
    static const section all[] = { { "doors", doors },
                                   { "infers", infers },
                                   { "ops", every_op },
                                   { "networks", networks },
                                   { "strict", strict },
                                   { "failures", failures } };
    watch();
    return sections(all, sizeof all / sizeof *all, argc, argv);
}
#endif
