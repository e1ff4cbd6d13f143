/* pytorch - the library's half of tests/pytorch.py, which writes what is read here and compares
   what is written

     pytorch features MODEL CHECKPOINT IN.npz OUT.safetensors    of every array of normalized images
                                                                 in IN
     pytorch logits CHECKPOINT IN.npz OUT.safetensors            of every array (sequences, tokens)
                                                                 in IN
     pytorch image OUT.safetensors PICTURE.ppm…                  mmix_image of each at 224 x 224
     pytorch memory MODEL CHECKPOINT BATCH                       taken by one pass of BATCH images
                                                                 */
#include "test.h"
#include "../demos/studies/ppm.h"

enum { MAX_ENTRIES = 64, LAST = 4 };             /* class tokens of the last 4 blocks */

/* What is to be written: in step memory, so that nothing may be reset before the file is. */
typedef struct Output {
    mmix_entry entry[MAX_ENTRIES];
    char name[MAX_ENTRIES][64];
    size_t count;
} Output;

static void put(mmix_ctx *m, Output *out, const char *of, const char *what, const mmix_tensor *t)
{
    size_t shape[MMIX_MAX_DIMS];
    if (!t || out->count == MAX_ENTRIES) return;
    for (int i = 0; i < mmix_ndim(t); i++)
        shape[i] = mmix_shape(t, i);
    /* t may be a view with gaps */
    mmix_tensor *whole = mmix_new(m, MMIX_DTYPE_REAL, mmix_ndim(t), shape);
    if (!whole || mmix_read(t, mmix_data(whole))) return;
    mmix_entry *e = &out->entry[out->count];
    snprintf(out->name[out->count], sizeof out->name[0], "%.40s.%s", of, what);
    e->name = out->name[out->count++];
    e->dtype = MMIX_FILE_REAL;
    e->ndim = mmix_ndim(t);
    memcpy(e->shape, shape, sizeof shape);
    e->data = mmix_data(whole);
}

/* "open": whatever the names and shapes in the file say that it is. */
static mmix_vision *load(mmix_ctx *m, const char *model, const char *checkpoint)
{
    mmix_vision_config c;
    if (!strcmp(model, "open")) return mmix_vision_load(m, checkpoint);
    if (!strcmp(model, "vit")) c = mmix_vision_config_vit(384, 16);
    else if (!strcmp(model, "linearvit")) {
        c = mmix_vision_config_vit(384, 16);
        c.mixer = MMIX_MIXER_LINEAR;
    }
    else if (!strcmp(model, "dinovim")) c = mmix_vision_config_dinovim(512);
    else if (!strcmp(model, "mambareg")) c = mmix_vision_config_mambareg(512);
    else {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "no model \"%s\" here", model);
        return NULL;
    }
    mmix_vision *v = mmix_vision_create(m, c);
    if (v) mmix_params_load(mmix_vision_params(v), checkpoint);
    return v;
}

static void features(mmix_ctx *m, char **arg)
{
    static Output out;
    mmix_vision *v = load(m, arg[0], arg[1]);
    mmix_archive *in = mmix_archive_open(m, arg[2]);
    mmix_vision_options options = {0};
    options.n_last = LAST;
    for (size_t i = 0; !mmix_error(m) && i < mmix_archive_count(in); i++) {
        const mmix_entry *e = mmix_archive_entry(in, i);
        mmix_tensor *image = mmix_new(m, MMIX_DTYPE_REAL, e->ndim, e->shape);
        if (!image
            || mmix_archive_read(m, in, e, MMIX_FILE_REAL, mmix_data(image), mmix_count(image)))
            break;
        mmix_features f = mmix_vision_forward(m, v, image, &options);
        put(m, &out, e->name, "token", f.token);
        put(m, &out, e->name, "patches", f.patches);
        put(m, &out, e->name, "intermediate", f.intermediate);
    }
    if (!mmix_error(m))
        mmix_archive_save(m, arg[3], out.entry, out.count, NULL);
    mmix_archive_close(in);
    mmix_vision_destroy(v);
}

static void logits(mmix_ctx *m, char **arg)
{
    static Output out;
    mmix_decoder *d = mmix_decoder_load(m, arg[0]);
    mmix_archive *in = mmix_archive_open(m, arg[1]);
    for (size_t i = 0; !mmix_error(m) && i < mmix_archive_count(in); i++) {
        const mmix_entry *e = mmix_archive_entry(in, i);
        mmix_sequence s = {0};
        s.tokens = mmix_new(m, MMIX_DTYPE_I32, e->ndim, e->shape);
        if (!s.tokens
            || mmix_archive_read(m, in, e, MMIX_FILE_I32, mmix_data_i32(s.tokens),
                                 mmix_count(s.tokens)))
            break;
        put(m, &out, e->name, "logits",
            mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL)));
    }
    if (!mmix_error(m))
        mmix_archive_save(m, arg[2], out.entry, out.count, NULL);
    mmix_archive_close(in);
    mmix_decoder_destroy(d);
}

static void images(mmix_ctx *m, int n, char **arg)
{
    static Output out;
    for (int i = 1; i < n; i++) {
        size_t width, height;
        uint8_t *rgb = ppm_load(m, arg[i], &width, &height);
        char number[16];
        snprintf(number, sizeof number, "%d", i - 1);
        if (rgb)
            put(m, &out, number, "image", mmix_image(m, rgb, width, height, 224));
        ppm_free(rgb);
    }
    if (!mmix_error(m))
        mmix_archive_save(m, arg[0], out.entry, out.count, NULL);
}

/* A line of /proc/self/status in KiB; 0 where there is none. */
static unsigned long status(const char *key)
{
    char line[256];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)))
            sscanf(line + strlen(key), ": %lu", &kib);
    if (f) fclose(f);
    return kib;
}

static void memory(mmix_ctx *m, char **arg)
{
    size_t batch = 0;
    mmix_vision *v = load(m, arg[0], arg[1]);
    sscanf(arg[2], "%zu", &batch);
    /* first a small image, so that the threads and the code's pages are there and do not count */
    mmix_tensor *small = mmix_new4(m, 1, 3, 32, 32);
    if (v && small)
        mmix_vision_forward(m, v, mmix_fill(small, 0), NULL);
    mmix_reset(m);
    mmix_tensor *image = mmix_new4(m, batch, 3, 224, 224);
    if (image) mmix_fill_normal(m, image, 1, 0);

    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {  /* the peak begins anew */
        fputs("5", f);
        fclose(f);
    }
    mmix_memory_peak_clear(m);
    unsigned long rss = status("VmRSS");
    size_t held = mmix_memory(m).bytes;
    if (!mmix_error(m)) mmix_vision_forward(m, v, image, NULL);
    if (!mmix_error(m))
        printf("%lu %lu %zu %zu\n", rss, status("VmHWM"), held, mmix_memory(m).peak);
    mmix_vision_destroy(v);
}

int main(int n, char **arg)
{
    mmix_ctx *m = mmix_create(NULL);
    if (n == 6 && !strcmp(arg[1], "features"))
        features(m, arg + 2);
    else if (n == 5 && !strcmp(arg[1], "logits"))
        logits(m, arg + 2);
    else if (n >= 4 && !strcmp(arg[1], "image"))
        images(m, n - 2, arg + 2);
    else if (n == 5 && !strcmp(arg[1], "memory"))
        memory(m, arg + 2);
    else mmix_fail(m, MMIX_ERROR_ARGUMENT, "usage: python3 tests/pytorch.py build/pytorch");
    if (mmix_error(m)) fprintf(stderr, "%s\n", mmix_error(m));
    int bad = mmix_error(m) != NULL;
    mmix_destroy(m);
    return bad;
}
