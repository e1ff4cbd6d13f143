/* ppm.h - pictures of 8 bits as binary PPM (P6) and PGM (P5) files

       size_t width, height;
       uint8_t *rgb = ppm_load(m, "dog.ppm", &width, &height);       // NULL: mmix_error(m) says why
       mmix_tensor *image = mmix_image(m, rgb, width, height, 224);
       ppm_free(rgb);

   "P6" (RGB) or "P5" (gray), then width, height and the largest level as decimal numbers, each
   after white space or comments (# to the end of the line), one byte of white space, then the
   rows. http://netpbm.sourceforge.net/doc/ppm.html Include mamba_mix.h before this. */
#ifndef PPM_H
#define PPM_H

#include "bytes.h"

enum { PPM_SIDE_MAX = 1 << 24 };

static inline int ppm_is_space(unsigned c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next number of the header, -1 if there is none or it is too large. */
static inline long ppm_number(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at;
    long value = 0;
    for (; p < end && (ppm_is_space(*p) || *p == '#'); p++)
        if (*p == '#') while (p + 1 < end && *p != '\n' && *p != '\r') p++;
    if (p == *at || p == end || *p < '0' || *p > '9') return -1;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (*p - '0');
        if (value > PPM_SIDE_MAX) return -1;
    }
    *at = p;
    return value;
}

/* A file's bytes, called `name` in messages, as (height, width, 3) for ppm_free; gray becomes
   RGB, a smaller largest level is spread to 255, what follows the picture is ignored. NULL with
   width and height 0 after mmix_fail. */
static inline uint8_t *ppm_read(mmix_ctx *m, const char *name, const void *bytes, size_t size,
                                size_t *width, size_t *height)
{
    const uint8_t *p = (const uint8_t *)bytes;
    const uint8_t *at = p + 2;
    const uint8_t *end = p + size;
    const int magic = size >= 2 && p[0] == 'P' && (p[1] == '5' || p[1] == '6');
    const size_t channels = magic && p[1] == '6' ? 3 : 1;
    const char *expected = NULL;
    long number[3] = {-1, -1, -1};                       /* width, height, largest level */
    uint8_t *rgb;
    *width = *height = 0;
    if (mmix_error(m)) return NULL;
    for (int i = 0; magic && i < 3 && (!i || number[i - 1] >= 0); i++)
        number[i] = ppm_number(&at, end);
    if (!magic) expected = "P6 or P5 at the start: not a binary PPM or PGM";
    else if (number[0] < 1 || number[1] < 1)
        expected = "width and height of 1 to 2^24 in the header";
    else if (number[2] < 1 || number[2] > 255)
        expected = "a largest level of 1 to 255 in the header";
    else if (at == end || !ppm_is_space(*at)) expected = "white space after the header";
    if (expected) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected %s", name, expected);
        return NULL;
    }
    const uint64_t count = (uint64_t)number[0] * (uint64_t)number[1];
    const unsigned most = (unsigned)number[2];
    at++;
    if (count * channels > (uint64_t)(end - at)) {
        mmix_fail(m, MMIX_ERROR_FILE,
                  "%s: expected %ld x %ld pixels after the header, found %.0f bytes", name,
                  number[0], number[1], (double)(end - at));
        return NULL;
    }
    rgb = (uint8_t *)bytes_alloc(m, (size_t)count, 3);
    if (!rgb) return NULL;
    for (size_t i = 0; i < 3 * (size_t)count; i++) {
        unsigned v = at[channels == 3 ? i : i / 3];
        rgb[i] = (uint8_t)(v >= most ? 255 : (v * 255 + most / 2) / most);
    }
    *width = (size_t)number[0];
    *height = (size_t)number[1];
    return rgb;
}

static inline uint8_t *ppm_load(mmix_ctx *m, const char *path, size_t *width, size_t *height)
{
    size_t size;
    unsigned char *bytes = bytes_load(m, path, &size);
    *width = *height = 0;
    if (!bytes) return NULL;
    uint8_t *rgb = ppm_read(m, path, bytes, size, width, height);
    BYTES_FREE(bytes);
    return rgb;
}

static inline void ppm_free(uint8_t *rgb) { if (rgb) BYTES_FREE(rgb); }

/* Writes (height, width, channels) as P6 (3 channels) or P5 (1), by way of PATH.tmp, which then
   takes the name. 0, or -1 after mmix_fail. */
static inline int ppm_save(mmix_ctx *m, const char *path, const uint8_t *pixels, size_t width,
                           size_t height, size_t channels)
{
    if (mmix_error(m)) return -1;
    if (!pixels || !width || !height || width > PPM_SIDE_MAX || height > PPM_SIDE_MAX)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "ppm_save: expected sides of 1 to 2^24, found %.0f x %.0f%s",
                         (double)width, (double)height, pixels ? "" : " at NULL");
    char *draft = (char *)bytes_alloc(m, strlen(path) + 5, 1);
    if (!draft) return -1;
    snprintf(draft, strlen(path) + 5, "%s.tmp", path);
    FILE *f = fopen(draft, "wb");
    int bad = !f;
    if (f) {
        const size_t count = width * height * channels;
        fprintf(f, "P%c\n%lu %lu\n255\n", channels == 3 ? '6' : '5', (unsigned long)width,
                (unsigned long)height);
        bad = fwrite(pixels, 1, count, f) != count;
        bad = fclose(f) || bad;
#ifdef _WIN32
        if (!bad) remove(path);                          /* rename replaces nothing there */
#endif
        bad = bad || rename(draft, path);
        if (bad) remove(draft);
    }
    if (bad) mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be written by way of %s: %s", path, draft,
                       strerror(errno));
    BYTES_FREE(draft);
    return bad ? -1 : 0;
}

#endif
