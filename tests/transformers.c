/* transformers - networks that transformers and timm wrote, opened as they are, beside what these
   computed with them

     transformers DIR     the folder that tests/transformers_cases.py or tests/timm_cases.py
                          filled: a folder in it for each network

   Token, registers, patches and logits of every picture are to be within 2e-4 of the largest
   magnitude, and names of classes are to be the same. A folder without a network stands for one
   that the version of transformers did not have. tests/transformers.sh does all of this. */
#include "test.h"
#include <dirent.h>

enum { MAX_NETWORKS = 64 };
static const char ANSWERS[] = "expected.safetensors";
static double worst;                             /* of the network at hand */

static int there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}
/* The array HxW.part as a tensor; NULL if there is none. */
static mmix_tensor *array(mmix_ctx *m, const mmix_archive *a, const char *picture, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "%.40s.%s", picture, part);
    const mmix_entry *e = mmix_archive_find(a, name);
    mmix_tensor *t = e ? mmix_new(m, MMIX_DTYPE_REAL, e->ndim, e->shape) : NULL;
    if (t)
        mmix_archive_read(m, a, e, MMIX_FILE_REAL, mmix_data(t), mmix_count(t));
    return t;
}
static void beside(mmix_tensor *found, mmix_tensor *expected, const char *what)
{
    size_t shape[MMIX_MAX_DIMS];
    if (!found && !expected) return;             /* registers of a network that has none */
    for (int i = 0; expected && i < mmix_ndim(expected); i++)
        shape[i] = mmix_shape(expected, i);
    if (!CHECK_AT(found && expected && has_shape(found, mmix_ndim(expected), shape), what))
        return;
    const double error = apart(found, expected);
    if (error > worst) worst = error;
    near_to(error, 0, 2e-4, __FILE__, __LINE__, what);
}
static void picture(mmix_ctx *m, const mmix_vision *v, const mmix_archive *expected,
                    const char *size)
{
    mmix_tensor *image = array(m, expected, size, "image");
    mmix_features f = mmix_vision_forward(m, v, image, NULL);
    beside(f.token, array(m, expected, size, "token"), "token");
    beside(f.registers, array(m, expected, size, "registers"), "registers");
    beside(f.patches, array(m, expected, size, "patches"), "patches");
    mmix_tensor *logits = array(m, expected, size, "logits");
    if (logits)
        beside(mmix_vision_classify(m, v, &f), logits, "logits");
    if (f.patches)
        CHECK(f.grid_h * f.grid_w == mmix_shape(f.patches, 1));
    FINE(m);
    mmix_reset(m);
}
/* The classes' names beside those in the metadata, {"0": NAME, …}: each stands there, as JSON
   writes it where it has no other letters than ASCII's. */
static void labels(const mmix_vision *v, const mmix_archive *expected)
{
    const char *text = mmix_archive_metadata(expected, "id2label");
    size_t n = 0;
    if (!text) return;
    for (; mmix_vision_class_name(v, n); n++) {
        char item[256];
        const char *name = mmix_vision_class_name(v, n);
        if (strspn(name, "abcdefghijklmnopqrstuvwxyz ") != strlen(name)) continue;
        snprintf(item, sizeof item, "\"%d\": \"%.200s\"", (int)n, name);
        CHECK_AT(strstr(text, item), item);
    }
    CHECK(n > 0 && n == mmix_vision_config_of(v)->classes);
}
static void network(const char *folder, const char *name)
{
    char path[2048], what[192];
    size_t pictures = 0;
    mmix_ctx *m = mmix_create(NULL);
    snprintf(path, sizeof path, "%.900s/%.900s/model.safetensors", folder, name);
    if (!there(path)) strcat(path, ".index.json");
    doing(name);
    if (!there(path)) {
        printf("skipped: %s (this version of transformers has none)\n", name);
        skipped++;
        mmix_destroy(m);
        return;
    }
    worst = 0;
    mmix_vision *v = mmix_vision_load(m, path);
    snprintf(path, sizeof path, "%.900s/%.900s/%s", folder, name, ANSWERS);
    mmix_archive *expected = v ? mmix_archive_open(m, path) : NULL;
    for (size_t i = 0; expected && i < mmix_archive_count(expected); i++) {
        const char *of = mmix_archive_entry(expected, i)->name, *dot = strchr(of, '.');
        char size[48];
        if (!dot || strcmp(dot, ".image")) continue;
        snprintf(size, sizeof size, "%.*s", (int)(dot - of), of);
        snprintf(what, sizeof what, "%.100s %s", name, size);
        doing(what);
        picture(m, v, expected, size);
        pictures++;
    }
    doing(name);
    if (v) labels(v, expected);
    FINE(m);
    CHECK(pictures > 0);
    if (pictures)
        printf("%-20s %zu pictures, largest error %.1e of the maximum\n", name, pictures, worst);
    mmix_archive_close(expected);
    mmix_vision_destroy(v);
    mmix_destroy(m);
}
static int by_name(const void *a, const void *b)
{
    return strcmp((const char *)a, (const char *)b);
}

int main(int argc, char **argv)
{
    static char name[MAX_NETWORKS][256];
    size_t n = 0;
    if (argc != 2) {
        printf("skipped: networks of transformers (give the folder that "
               "tests/transformers_cases.py filled)\n");
        skipped++;
        return summary();
    }
    DIR *d = opendir(argv[1]);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (*e->d_name != '.' && n < MAX_NETWORKS)
            snprintf(name[n++], sizeof name[0], "%.255s", e->d_name);
    if (d) closedir(d);
    CHECK_AT(n > 0, argv[1]);
    qsort(name, n, sizeof name[0], by_name);
    for (size_t i = 0; i < n; i++)
        network(argv[1], name[i]);
    return summary();
}
