/* bytes.h - what ppm.h stands on: memory, whole files, and a number that tells bytes apart

   Memory comes from malloc, or from BYTES_MALLOC and BYTES_FREE where these are defined before.
   Errors go to the context (mmix_fail), so that mmix_error(m) tells of a demo's reader what it
   tells of the library's. Include mamba_mix.h before this. */
#ifndef BYTES_H
#define BYTES_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BYTES_MALLOC
#define BYTES_MALLOC(size) malloc(size)
#define BYTES_FREE(p) free(p)
#endif

static inline void *bytes_alloc(mmix_ctx *m, size_t count, size_t size)
{
    const size_t bytes = size && count > SIZE_MAX / size ? 0 : count * size;
    void *p = NULL;
    if (!mmix_error(m) && (bytes || !count || !size)) p = BYTES_MALLOC(bytes ? bytes : 1);
    if (!p && !mmix_error(m))
        mmix_fail(m, MMIX_ERROR_MEMORY, "out of memory: %.0f bytes more",
                  (double)count * (double)size);
    return p;
}

/* A whole file and `behind` zeros behind it, for BYTES_FREE; NULL after mmix_fail. */
static inline unsigned char *bytes_read(mmix_ctx *m, const char *path, size_t behind, size_t *size)
{
    unsigned char *bytes = NULL;
    long length = -1;
    FILE *f = mmix_error(m) ? NULL : fopen(path, "rb");
    *size = 0;
    if (mmix_error(m)) return NULL;
    if (!f) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    int ok = getc(f) != EOF || !ferror(f);               /* a folder opens, but does not read */
    if (ok && !fseek(f, 0, SEEK_END)) length = ftell(f);
    if (length >= 0 && !fseek(f, 0, SEEK_SET))
        bytes = (unsigned char *)bytes_alloc(m, (size_t)length + behind, 1);
    if (bytes && fread(bytes, 1, (size_t)length, f) != (size_t)length) {
        BYTES_FREE(bytes);
        bytes = NULL;
    }
    fclose(f);
    if (!bytes && !mmix_error(m))
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a file that can be read, found another thing",
                  path);
    *size = bytes ? (size_t)length : 0;
    if (bytes && behind) memset(bytes + length, 0, behind);
    return bytes;
}
static inline unsigned char *bytes_load(mmix_ctx *m, const char *path, size_t *size)
{
    return bytes_read(m, path, 0, size);
}
/* A file as a text, for BYTES_FREE; NULL after mmix_fail. */
static inline char *bytes_text(mmix_ctx *m, const char *path)
{
    size_t size;
    return (char *)bytes_read(m, path, 1, &size);
}

/* FNV-1a: a number that others than these bytes hardly have. It begins with BYTES_HASH, or with what
   it was for the bytes before. */
#define BYTES_HASH UINT64_C(0xcbf29ce484222325)
static inline uint64_t bytes_hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ byte[i]) * UINT64_C(0x100000001b3);
    return h;
}
/* The same of all weights, of narrow matrices as reals. Without memory mmix_fail. */
static inline uint64_t bytes_hash_params(const mmix_params *p)
{
    uint64_t h = BYTES_HASH;
    for (size_t i = 0; i < p->count && !mmix_error(p->m); i++) {
        const mmix_tensor *t = p->at[i].tensor;
        size_t n = mmix_count(t);
        if (mmix_dtype(t) == MMIX_DTYPE_REAL) {
            h = bytes_hash(h, mmix_data(t), n * sizeof(mmix_real));
            continue;
        }
        mmix_real *wide = (mmix_real *)bytes_alloc(p->m, n, sizeof *wide);
        if (wide && !mmix_read(t, wide)) h = bytes_hash(h, wide, n * sizeof *wide);
        BYTES_FREE(wide);
    }
    return h;
}
/* The same of a file, after what was hashed before it; mmix_fail if it cannot be read. */
static inline uint64_t bytes_hash_file(mmix_ctx *m, uint64_t h, const char *path)
{
    size_t size;
    unsigned char *bytes = bytes_load(m, path, &size);
    if (bytes) h = bytes_hash(h, bytes, size);
    BYTES_FREE(bytes);
    return h;
}

#endif
