/* bytes.h - what ppm.h stands on: memory and whole files

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

/* A whole file, for BYTES_FREE; NULL after mmix_fail. */
static inline unsigned char *bytes_load(mmix_ctx *m, const char *path, size_t *size)
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
        bytes = (unsigned char *)bytes_alloc(m, (size_t)length, 1);
    if (bytes && fread(bytes, 1, (size_t)length, f) != (size_t)length) {
        BYTES_FREE(bytes);
        bytes = NULL;
    }
    fclose(f);
    if (!bytes && !mmix_error(m))
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a file that can be read, found another thing",
                  path);
    *size = bytes ? (size_t)length : 0;
    return bytes;
}

#endif
