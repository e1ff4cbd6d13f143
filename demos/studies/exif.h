/* exif.h - which way up a photograph is

   A camera that was turned writes the pixels as its sensor lay, and a number from 1 to 8 that
   says how to turn them (EXIF 2.3, tag 0x0112): what the first row and the first column of the
   pixels are in the picture.

       1 top, left       3 bottom, right       5 left, top        7 right, bottom
       2 top, right      4 bottom, left        6 right, top       8 left, bottom

   In a JPEG it stands in the segment APP1, which begins with "Exif" and holds a small TIFF file:
   a byte order, and tables of entries (tag, type, count, value) of 12 bytes. The first table has
   it. */
#ifndef EXIF_H
#define EXIF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { EXIF_UPRIGHT = 1, EXIF_TAG_ORIENTATION = 0x0112, EXIF_TYPE_SHORT = 3, EXIF_BYTES = 65536 };

/* A number of two or four bytes, in the order that the file says. */
static inline uint32_t exif_number(const uint8_t *p, int bytes, int big)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) {
        int at = big ? i : bytes - 1 - i;
        value = value << 8 | p[at];
    }
    return value;
}

/* The orientation in a TIFF file of `size` bytes, EXIF_UPRIGHT if it has none. */
static inline int exif_tiff(const uint8_t *tiff, size_t size)
{
    if (size < 8) return EXIF_UPRIGHT;
    int big = tiff[0] == 'M';
    if (tiff[0] != tiff[1] || (tiff[0] != 'M' && tiff[0] != 'I')) return EXIF_UPRIGHT;
    if (exif_number(tiff + 2, 2, big) != 42) return EXIF_UPRIGHT;
    size_t table = exif_number(tiff + 4, 4, big);
    if (table > size - 2) return EXIF_UPRIGHT;
    size_t entries = exif_number(tiff + table, 2, big);
    for (size_t i = 0; i < entries; i++) {
        size_t at = table + 2 + 12 * i;
        if (at + 12 > size) return EXIF_UPRIGHT;
        if (exif_number(tiff + at, 2, big) != EXIF_TAG_ORIENTATION) continue;
        if (exif_number(tiff + at + 2, 2, big) != EXIF_TYPE_SHORT) return EXIF_UPRIGHT;
        uint32_t value = exif_number(tiff + at + 8, 2, big);
        return value >= 1 && value <= 8 ? (int)value : EXIF_UPRIGHT;
    }
    return EXIF_UPRIGHT;
}

/* The orientation in the first `size` bytes of a JPEG; EXIF_UPRIGHT if they say nothing, or are
   none. */
static inline int exif_orientation(const uint8_t *jpeg, size_t size)
{
    size_t at = 2;
    if (size < 4 || jpeg[0] != 0xff || jpeg[1] != 0xd8) return EXIF_UPRIGHT;
    while (at + 4 <= size && jpeg[at] == 0xff) {             /* segments: a marker, then a length */
        uint8_t marker = jpeg[at + 1];
        size_t length = exif_number(jpeg + at + 2, 2, 1);
        if (marker == 0xda || length < 2) return EXIF_UPRIGHT;               /* the pixels begin */
        size_t end = at + 2 + length;
        if (end > size) end = size;
        if (marker == 0xe1 && end >= at + 10 && !memcmp(jpeg + at + 4, "Exif\0\0", 6))
            return exif_tiff(jpeg + at + 10, end - at - 10);
        at += 2 + length;
    }
    return EXIF_UPRIGHT;
}

/* Whether rows become columns. */
static inline int exif_swaps(int orientation) { return orientation >= 5; }

/* Writes pixels (height, width, 3) as the picture is to be seen; rows and columns change places
   if exif_swaps. */
static inline void exif_turn(uint8_t *to, const uint8_t *from, size_t width, size_t height,
                             int orientation)
{
    int from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    int from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    size_t columns = exif_swaps(orientation) ? height : width;
    size_t rows = exif_swaps(orientation) ? width : height;
    for (size_t y = 0; y < rows; y++) {
        for (size_t x = 0; x < columns; x++) {
            size_t from_x = exif_swaps(orientation) ? y : x;
            size_t from_y = exif_swaps(orientation) ? x : y;
            if (from_right) from_x = width - 1 - from_x;
            if (from_below) from_y = height - 1 - from_y;
            memcpy(to + (y * columns + x) * 3, from + (from_y * width + from_x) * 3, 3);
        }
    }
}

#endif
