/* amx.h - AMX's instructions in plain C, for processors without them: what Intel's "Architectures
   Software Developer's Manual" says of each, and the faults that they would raise. Included before
   mamba_mix.h. */
#ifndef TEST_AMX_H
#define TEST_AMX_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MMIXI_AMX "avx512bf16,avx512vnni"
#define MMIXI_AMX_GRANTED() 1

/* The eight tiles, and their shapes: the first 64 bytes are those of LDTILECFG. */
static __thread struct amx_shapes {
    uint8_t palette, start_row, zeros[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_shape;
static __thread char amx_tile[8][16][64];

static void amx_want(int right, const char *what)
{
    if (right) return;
    printf("AMX would fault: %s\n", what);
    abort();
}
static void amx_want_tile(int tile)
{
    amx_want(amx_shape.palette == 1 && amx_shape.rows[tile], "a tile that has no shape");
}

static void amx_load_shapes(const void *from)
{
    memcpy(&amx_shape, from, sizeof amx_shape);
    memset(amx_tile, 0, sizeof amx_tile);
    amx_want(amx_shape.palette == 1 && !amx_shape.start_row, "not palette 1");
    for (int i = 0; i < 14; i++) amx_want(!amx_shape.zeros[i], "reserved bytes");
    for (int i = 0; i < 16; i++) {
        amx_want(!amx_shape.rows[i] == !amx_shape.row_bytes[i], "rows without bytes");
        amx_want(amx_shape.rows[i] <= 16 && amx_shape.row_bytes[i] <= 64, "a tile too large");
        amx_want(i < 8 || !amx_shape.rows[i], "more than eight tiles");
    }
}
static void amx_release(void) { memset(&amx_shape, 0, sizeof amx_shape); }
static void amx_load(int tile, const void *from, size_t stride)
{
    amx_want_tile(tile);
    memset(amx_tile[tile], 0, sizeof amx_tile[tile]);
    for (size_t r = 0; r < amx_shape.rows[tile]; r++)
        memcpy(amx_tile[tile][r], (const char *)from + r * stride, amx_shape.row_bytes[tile]);
}
static void amx_zero(int tile)
{
    amx_want_tile(tile);
    memset(amx_tile[tile], 0, sizeof amx_tile[tile]);
}
static void amx_store(int tile, void *to, size_t stride)
{
    amx_want_tile(tile);
    for (size_t r = 0; r < amx_shape.rows[tile]; r++)
        memcpy((char *)to + r * stride, amx_tile[tile][r], amx_shape.row_bytes[tile]);
}
static void amx_want_product(int c, int a, int b)
{
    amx_want_tile(c);
    amx_want_tile(a);
    amx_want_tile(b);
    amx_want(c != a && c != b && a != b, "a product of the same tile");
    amx_want(amx_shape.rows[c] == amx_shape.rows[a], "rows of sums that are not those of a");
    amx_want(amx_shape.row_bytes[a] == 4 * amx_shape.rows[b], "a that is not as wide as b is high");
    amx_want(amx_shape.row_bytes[c] == amx_shape.row_bytes[b], "sums that are not as wide as b");
}
static float amx_bf16(const char *from)
{
    uint16_t half;
    memcpy(&half, from, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* TDPBF16PS: the products of the first and of the second numbers of pairs are summed apart, from 0;
   the sum of both is added to c. Unlike here, subnormals count as 0. */
static void amx_multiply_bf16(int c, int a, int b)
{
    amx_want_product(c, a, b);
    for (size_t m = 0; m < amx_shape.rows[c]; m++)
        for (size_t n = 0; n < amx_shape.row_bytes[c] / 4u; n++) {
            float sum[2] = { 0, 0 }, old;
            for (size_t k = 0; k < amx_shape.rows[b]; k++)
                for (size_t i = 0; i < 2; i++)
                    sum[i] = fmaf(amx_bf16(&amx_tile[a][m][4 * k + 2 * i]),
                                  amx_bf16(&amx_tile[b][k][4 * n + 2 * i]), sum[i]);
            memcpy(&old, &amx_tile[c][m][4 * n], sizeof old);
            old += sum[0] + sum[1];
            memcpy(&amx_tile[c][m][4 * n], &old, sizeof old);
        }
}
/* TDPBSSD: bytes with signs on both sides. */
static void amx_multiply_bytes(int c, int a, int b)
{
    amx_want_product(c, a, b);
    for (size_t m = 0; m < amx_shape.rows[c]; m++)
        for (size_t n = 0; n < amx_shape.row_bytes[c] / 4u; n++) {
            int32_t sum;
            memcpy(&sum, &amx_tile[c][m][4 * n], sizeof sum);
            for (size_t k = 0; k < amx_shape.rows[b]; k++)
                for (size_t i = 0; i < 4; i++)
                    sum += (int8_t)amx_tile[a][m][4 * k + i] * (int8_t)amx_tile[b][k][4 * n + i];
            memcpy(&amx_tile[c][m][4 * n], &sum, sizeof sum);
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#define _tile_loadconfig(from) amx_load_shapes(from)
#define _tile_release() amx_release()
#define _tile_loadd(tile, from, stride) amx_load(tile, from, stride)
#define _tile_zero(tile) amx_zero(tile)
#define _tile_stored(tile, to, stride) amx_store(tile, to, stride)
#define _tile_dpbf16ps(c, a, b) amx_multiply_bf16(c, a, b)
#define _tile_dpbssd(c, a, b) amx_multiply_bytes(c, a, b)

#endif
