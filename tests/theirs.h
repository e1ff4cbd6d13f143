/* theirs.h - models that transformers wrote, a folder each: what their tests share */
#ifndef TEST_THEIRS_H
#define TEST_THEIRS_H
#include "test.h"
#include <dirent.h>
#include <sys/stat.h>

enum { MAX_FOLDERS = 64 };

SHARED int there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}
/* An array as a tensor of its type; NULL if there is none. */
SHARED mmix_tensor *array(mmix_ctx *m, const mmix_archive *a, const char *name)
{
    const mmix_entry *e = mmix_archive_find(a, name);
    int is_whole = e && e->dtype == MMIX_FILE_I32;
    int dtype = is_whole ? MMIX_DTYPE_I32 : MMIX_DTYPE_REAL;
    mmix_tensor *t = e ? mmix_new(m, dtype, e->ndim, e->shape) : NULL;
    if (!CHECK_AT(t != NULL, name)) return NULL;
    if (is_whole) mmix_archive_read(m, a, e, MMIX_FILE_I32, mmix_data_i32(t), mmix_count(t));
    else mmix_archive_read(m, a, e, MMIX_FILE_REAL, mmix_data(t), mmix_count(t));
    return t;
}
static double worst;                             /* error of the model at hand */
static double within = sizeof(mmix_real) == 8 ? 1e-9 : 2e-4;         /* what is allowed now */

/* Compares numbers with those that are expected. Returns their error. */
SHARED double error_beside(mmix_tensor *found, mmix_tensor *expected, const char *what)
{
    if (!CHECK_AT(found && expected && mmix_count(found) == mmix_count(expected), what)) return 0;
    const double error = apart(found, expected);
    near_to(error, 0, within, __FILE__, __LINE__, what);
    return error;
}
/* The same, and remembers the worst. */
SHARED void beside(mmix_tensor *found, mmix_tensor *expected, const char *what)
{
    const double error = error_beside(found, expected, what);
    if (error > worst) worst = error;
}
/* Does `opened` with each of n paths while its allocations fail (memory_fails); it makes more than 30
   of them. */
SHARED void each_memory_fails(work *opened, const char *const *paths, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s", paths[i]);
        doing(path);
        CHECK(memory_fails(opened, path, 0, step) > 30);
    }
    doing("");
}
/* A whole file as a text; its length. */
SHARED size_t text_of(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, room - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
    return n;
}
SHARED void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (CHECK_AT(f != NULL, path)) {
        fwrite(bytes, 1, n, f);
        fclose(f);
    }
}
SHARED int by_name(const void *a, const void *b)
{
    return strcmp((const char *)a, (const char *)b);
}
/* Calls look(folder, name) for each name in a folder, in order. */
SHARED void each_in(const char *folder, void (*look)(const char *, const char *))
{
    static char names[MAX_FOLDERS][128];
    size_t n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (*e->d_name != '.' && n < MAX_FOLDERS)
            snprintf(names[n++], sizeof names[0], "%.100s", e->d_name);
    if (dir) closedir(dir);
    CHECK_AT(n > 0, folder);
    qsort(names, n, sizeof names[0], by_name);
    for (size_t i = 0; i < n; i++) look(folder, names[i]);
}

#endif
