/* gguf.c - GGUF: blocks against what their format says, what a file may hold, what is refused, and
   decoders, which are those of Hugging Face with the same weights

       build/gguf                          from the repository's root; writes into build/
       build/gguf --read FILE OUT KEY...   writes what can be read to OUT (.safetensors), with
                                           these values: for tests/gguf_package.py */
#include "decoders.h"

#define FOLDER "build/gguf_test"
#define PATH FOLDER "/model.gguf"
#define HF_PATH FOLDER "/model.safetensors"

/* ---- a file that is written ---- */

/* types of values, and of arrays of plain numbers */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, LIST, U64, I64, F64 };
enum { ARRAY_F32 = 0, ARRAY_F16 = 1, ARRAY_I8 = 24, ARRAY_I16, ARRAY_I32, ARRAY_I64, ARRAY_F64,
       ARRAY_BF16 = 30 };

typedef struct bytes { unsigned char *at; size_t size, room; } bytes;
static void put(bytes *b, const void *from, size_t n)
{
    if (b->size + n > b->room) {
        b->room = 2 * b->room + n;
        b->at = (unsigned char *)realloc(b->at, b->room);
        if (!b->at) abort();
    }
    if (n) memcpy(b->at + b->size, from, n);
    b->size += n;
}
static void put_number(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)(value >> 8 * i);
        put(b, &byte, 1);
    }
}
static void put_text(bytes *b, const char *text)
{
    put_number(b, strlen(text), 8);
    put(b, text, strlen(text));
}
static void put_zeros_to(bytes *b, size_t multiple)
{
    while (b->size % multiple) put_number(b, 0, 1);
}

typedef struct gguf {
    uint64_t version, n_values, n_arrays;
    size_t alignment;
    bytes values, arrays, data;
} gguf;
static gguf begin(unsigned version)
{
    gguf g;
    memset(&g, 0, sizeof g);
    g.version = version;
    g.alignment = 32;
    return g;
}
static void key_is(gguf *g, const char *key, int type)
{
    put_text(&g->values, key);
    put_number(&g->values, (uint64_t)type, 4);
    g->n_values++;
}
static void number_is(gguf *g, const char *key, int type, uint64_t bits)
{
    static const int size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    key_is(g, key, type);
    put_number(&g->values, bits, size[type]);
}
static void text_is(gguf *g, const char *key, const char *text)
{
    key_is(g, key, TEXT);
    put_text(&g->values, text);
}
static void aligned(gguf *g, size_t alignment)
{
    number_is(g, "general.alignment", U32, alignment);
    g->alignment = alignment;
}
/* An array whose data begin at `offset`. */
static void array_at(gguf *g, const char *name, int ndim, const size_t *shape, int type,
                     uint64_t offset)
{
    put_text(&g->arrays, name);
    put_number(&g->arrays, (uint64_t)ndim, 4);
    for (int i = ndim; i-- > 0;) put_number(&g->arrays, shape[i], 8);
    put_number(&g->arrays, (uint64_t)type, 4);
    put_number(&g->arrays, offset, 8);
    g->n_arrays++;
}
static void array_is(gguf *g, const char *name, int ndim, const size_t *shape, int type,
                     const void *data, size_t n)
{
    put_zeros_to(&g->data, g->alignment);
    array_at(g, name, ndim, shape, type, g->data.size);
    put(&g->data, data, n);
}
static bytes finish(gguf *g)
{
    bytes b;
    memset(&b, 0, sizeof b);
    put(&b, "GGUF", 4);
    put_number(&b, g->version, 4);
    put_number(&b, g->n_arrays, 8);
    put_number(&b, g->n_values, 8);
    put(&b, g->values.at, g->values.size);
    put(&b, g->arrays.at, g->arrays.size);
    put_zeros_to(&b, g->alignment ? g->alignment : 1);
    put(&b, g->data.at, g->data.size);
    free(g->values.at);
    free(g->arrays.at);
    free(g->data.at);
    return b;
}
static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) return;
    fwrite(data, 1, n, f);
    fclose(f);
}

/* ---- files that are opened ---- */

/* A context that may hold four megabytes: a count that is believed shows as an error of memory. */
static mmix_ctx *small_ctx(void)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    o.allocator.byte_limit = 4 << 20;
    return mmix_create(&o);
}
static mmix_archive *open_bytes(mmix_ctx *m, const bytes *b)
{
    return mmix_archive_open_memory(m, "memory", b->at, b->size);
}
/* The file is refused with exactly this message, and is freed here. */
static void refuses(mmix_ctx *m, bytes b, const char *message, int line)
{
    const size_t before = mmix_memory(m).bytes;
    mmix_archive *a = open_bytes(m, &b);
    const char *e = mmix_error(m);
    char whole[400];
    snprintf(whole, sizeof whole, "memory: expected %s", message);
    const int ok = !a && e && mmix_error_kind(m) == MMIX_ERROR_FILE && !strcmp(e, whole);
    report(ok, __FILE__, line, message, e ? e : "no error");
    mmix_archive_close(a);
    mmix_error_clear(m);
    CHECK(mmix_memory(m).bytes == before);
    free(b.at);
}
#define REFUSES(file, message) refuses(m, file, message, __LINE__)
/* What the messages of cut files end with. */
#define AGAIN ": it is cut, download it again"

/* Reads all that an archive has; 0 where something is not as it should be. */
static int walk(mmix_ctx *m, const mmix_archive *a)
{
    int fine = 1;
    for (size_t i = 0; i < mmix_archive_count(a); i++) {
        const mmix_entry *e = mmix_archive_entry(a, i);
        const size_t n = mmix_entry_count(e);
        if (n > 1 << 20) return 0;
        double *d = (double *)malloc((n + 1) * sizeof *d);
        fine = fine && mmix_archive_find(a, e->name) == e;
        const int bad = mmix_archive_read(m, a, e, MMIX_FILE_F64, d, n);
        fine = fine && !bad == (e->dtype != MMIX_FILE_OTHER);
        if (bad) fine = fine && strstr(mmix_error(m), "numbers that can be read, found ");
        mmix_error_clear(m);
        free(d);
    }
    return fine;
}
/* 1: a file that can be read, 0: refused as it should be, -1: a leak, no message, much memory. */
static int outcome(mmix_ctx *m, const unsigned char *file, size_t size)
{
    const size_t before = mmix_memory(m).bytes;
    mmix_archive *a = mmix_archive_open_memory(m, "memory", file, size);
    int result = a != NULL;
    if (a && !walk(m, a)) result = -1;
    if (!a && (mmix_error_kind(m) != MMIX_ERROR_FILE || strlen(mmix_error(m)) < 20)) result = -1;
    mmix_archive_close(a);
    mmix_error_clear(m);
    return mmix_memory(m).bytes == before ? result : -1;
}

/* ---- blocks, element by element as ggml's documents and headers define them ---- */

static unsigned u16_of(const unsigned char *p) { return p[0] | (unsigned)p[1] << 8; }
static double half_of(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31);
    const double sign = bits >> 15 ? -1 : 1;
    const double part = (double)(bits & 1023) / 1024;
    if (exponent == 31) return part > 0 ? (double)NAN : sign * (double)INFINITY;
    if (!exponent) return sign * ldexp(part, -14);
    return sign * ldexp(1 + part, exponent - 15);
}
static double half_at(const unsigned char *p) { return half_of(u16_of(p)); }
static int signed_of(unsigned char byte) { return byte < 128 ? byte : byte - 256; }
static unsigned low(unsigned char byte) { return byte & 15u; }
static unsigned high(unsigned char byte) { return byte >> 4; }
/* Number i of 32 in 16 bytes: those of 0 … 15 are the lower halves. */
static unsigned four_of(const unsigned char *p, size_t i)
{
    return i < 16 ? low(p[i]) : high(p[i - 16]);
}
static double q4_0(const unsigned char *p, size_t i)
{
    return half_at(p) * ((double)four_of(p + 2, i) - 8);
}
static double q4_1(const unsigned char *p, size_t i)
{
    return half_at(p) * (double)four_of(p + 4, i) + half_at(p + 2);
}
static double q8_0(const unsigned char *p, size_t i) { return half_at(p) * signed_of(p[2 + i]); }
/* Bit i of a row of bytes, the lowest of the first byte before all. */
static unsigned bit_of(const unsigned char *p, size_t i) { return (unsigned)p[i / 8] >> i % 8 & 1u; }
static double q5_0(const unsigned char *p, size_t i)
{
    return half_at(p) * ((double)(four_of(p + 6, i) + 16 * bit_of(p + 2, i)) - 16);
}
static double q5_1(const unsigned char *p, size_t i)
{
    const float scaled = (float)(half_at(p) * (double)(four_of(p + 8, i) + 16 * bit_of(p + 4, i)));
    return (double)scaled + half_at(p + 2);
}
static double iq4(const unsigned char *p, size_t i)
{
    static const double values[] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                     1, 13, 25, 38, 53, 69, 89, 113 };
    return values[four_of(p, i)];
}
static double iq4_nl(const unsigned char *p, size_t i) { return half_at(p) * iq4(p + 2, i); }
/* The scale of part j of 8, of six bits: four of them in the half bytes behind two bytes, in which
   are the upper two. */
static double iq4_xs(const unsigned char *p, size_t i)
{
    const size_t j = i / 32;
    const unsigned below = j % 2 ? high(p[4 + j / 2]) : low(p[4 + j / 2]);
    const unsigned above = u16_of(p + 2) >> 2 * j & 3u;
    return half_at(p) * ((double)(below + 16 * above) - 32) * iq4(p + 8 + 16 * j, i % 32);
}
/* Number i of 256 has two bits of a byte: 128 numbers are in 32 bytes, first the lowest bits of all
   of these, then those above them. */
static unsigned two_of(const unsigned char *p, size_t i)
{
    const size_t of = i % 128;
    return (unsigned)p[i / 128 * 32 + of % 32] >> of / 32 * 2 & 3u;
}
static double q2_k(const unsigned char *p, size_t i)
{
    const unsigned char scales = p[i / 16];
    const float scaled = (float)(half_at(p + 80) * low(scales) * two_of(p + 16, i));
    return (double)scaled - (double)(float)(half_at(p + 82) * high(scales));
}
/* 16 scales of six bits in 12 bytes: the lower halves of the first eight are the lower four bits of
   the first eight scales, the upper halves those of the others; byte 8 + j has the upper bits of
   the scales j, j + 4, j + 8, j + 12. */
static double q3_k(const unsigned char *p, size_t i)
{
    const unsigned char *s = p + 96;
    const size_t j = i / 16;
    const unsigned below = j < 8 ? low(s[j]) : high(s[j - 8]);
    const unsigned above = (unsigned)s[8 + j % 4] >> j / 4 * 2 & 3u;
    const unsigned third = (unsigned)p[i % 32] >> i / 32 & 1u;
    const double q = (double)two_of(p + 32, i) - (third ? 0 : 4);
    return half_at(p + 108) * ((double)(below + 16 * above) - 32) * q;
}

/* The scale of part j of 8 and its minimum: six bits each. Bytes 0 to 3 begin the scales 0 to 3,
   bytes 4 to 7 the minima 0 to 3; their upper two bits are those of the parts 4 to 7, whose lower
   four are in the bytes 8 to 11, the scale's first. */
static unsigned k_scale(const unsigned char *p, size_t j)
{
    return j < 4 ? p[j] & 63u : low(p[j + 4]) + 16u * (p[j - 4] >> 6);
}
static unsigned k_minimum(const unsigned char *p, size_t j)
{
    return j < 4 ? p[j + 4] & 63u : high(p[j + 4]) + 16u * (p[j] >> 6);
}
/* Part j of 8 is the lower halves of 32 bytes for an even j, and the upper ones for an odd. */
static unsigned k_four(const unsigned char *p, size_t i)
{
    const unsigned char byte = p[i / 64 * 32 + i % 32];
    return i / 32 % 2 ? high(byte) : low(byte);
}
static double k_value(const unsigned char *p, size_t i, unsigned q)
{
    const double scale = half_at(p) * k_scale(p + 4, i / 32);
    return scale * q - half_at(p + 2) * k_minimum(p + 4, i / 32);
}
static double q4_k(const unsigned char *p, size_t i) { return k_value(p, i, k_four(p + 16, i)); }
static double q5_k(const unsigned char *p, size_t i)
{
    const unsigned fifth = (unsigned)p[16 + i % 32] >> i / 32 & 1u;
    return k_value(p, i, k_four(p + 48, i) + 16 * fifth);
}
/* 128 numbers have 64 bytes of four bits and 32 of two: number l of a quarter has its lower four
   bits in byte l or l + 32, and its upper two in byte l. */
static double q6_k(const unsigned char *p, size_t i)
{
    const size_t of = i % 128, l = of % 32, quarter = of / 32;
    const unsigned char *fours = p + i / 128 * 64;
    const unsigned char *twos = p + 128 + i / 128 * 32;
    const unsigned char four = fours[l + quarter % 2 * 32];
    const unsigned above = (unsigned)twos[l] >> 2 * quarter & 3u;
    const unsigned below = quarter < 2 ? low(four) : high(four);
    const double scale = half_at(p + 208) * signed_of(p[192 + i / 16]);
    return scale * ((double)(below + 16 * above) - 32);
}
typedef struct block_type {
    int type, dtype;
    size_t elements, bytes;
    const char *name;
    double (*value)(const unsigned char *p, size_t i);
} block_type;
enum {
    BLOCK_TYPES = 12, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10, Q3_K = 11,
    Q4_K = 12, Q5_K = 13, Q6_K = 14, IQ4_NL = 20, IQ4_XS = 23
};
static const block_type block_types[BLOCK_TYPES] = {
    { Q5_0, MMIX_FILE_Q5_0, 32, 2 + 4 + 16, "Q5_0", q5_0 },
    { Q5_1, MMIX_FILE_Q5_1, 32, 2 + 2 + 4 + 16, "Q5_1", q5_1 },
    { IQ4_NL, MMIX_FILE_IQ4_NL, 32, 2 + 16, "IQ4_NL", iq4_nl },
    { IQ4_XS, MMIX_FILE_IQ4_XS, 256, 2 + 2 + 4 + 128, "IQ4_XS", iq4_xs },
    { Q2_K, MMIX_FILE_Q2_K, 256, 16 + 64 + 2 + 2, "Q2_K", q2_k },
    { Q3_K, MMIX_FILE_Q3_K, 256, 32 + 64 + 12 + 2, "Q3_K", q3_k },
    { Q4_0, MMIX_FILE_Q4_0, 32, 2 + 16, "Q4_0", q4_0 },
    { Q4_1, MMIX_FILE_Q4_1, 32, 2 + 2 + 16, "Q4_1", q4_1 },
    { Q8_0, MMIX_FILE_Q8_0, 32, 2 + 32, "Q8_0", q8_0 },
    { Q4_K, MMIX_FILE_Q4_K, 256, 2 + 2 + 12 + 128, "Q4_K", q4_k },
    { Q5_K, MMIX_FILE_Q5_K, 256, 2 + 2 + 12 + 32 + 128, "Q5_K", q5_k },
    { Q6_K, MMIX_FILE_Q6_K, 256, 128 + 64 + 16 + 2, "Q6_K", q6_k }
};
static const block_type *block_type_of(int type)
{
    for (int i = 0; i < BLOCK_TYPES; i++)
        if (block_types[i].type == type) return &block_types[i];
    return NULL;
}
static unsigned char *random_bytes(size_t n)
{
    unsigned char *p = (unsigned char *)malloc(n + 1);
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)any(0, 255);
    return p;
}
/* Whether it is the float next to a value; NaN for NaN. */
static int is_float(double found, double value)
{
    const float expected = (float)value;
    if (isnan(value)) return isnan(found);
    return found - (double)expected == 0 || found == (double)expected;
}
/* How many of n numbers are not those of the blocks. */
static size_t differences(const block_type *t, const unsigned char *data, const double *x, size_t n)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *block = data + i / t->elements * t->bytes;
        wrong += !is_float(x[i], t->value(block, i % t->elements));
    }
    return wrong;
}
/* Blocks in three axes: they are read as they are defined, as each type of floats. */
static void blocks_are_read(mmix_ctx *m, const block_type *t, const unsigned char *data,
                            size_t blocks)
{
    const size_t shape[3] = { blocks / 2, 1, 2 * t->elements }, n = blocks * t->elements;
    gguf g = begin(3);
    array_is(&g, "w", 3, shape, t->type, data, blocks * t->bytes);
    bytes b = finish(&g);
    mmix_archive *a = open_bytes(m, &b);
    const mmix_entry *e = mmix_archive_find(a, "w");
    double *x = (double *)malloc(n * sizeof *x);
    float *f = (float *)malloc(n * sizeof *f);
    real *r = (real *)malloc(n * sizeof *r);
    doing(t->name);
    CHECK(e && e->dtype == t->dtype && e->ndim == 3 && e->bytes == blocks * t->bytes);
    CHECK(e && !memcmp(e->shape, shape, sizeof shape) && mmix_entry_count(e) == n);
    CHECK(!strcmp(mmix_file_dtype_name(t->dtype), t->name));
    if (CHECK(e && !mmix_archive_read(m, a, e, MMIX_FILE_F64, x, n))) {
        CHECK(!mmix_archive_read(m, a, e, MMIX_FILE_F32, f, n));
        CHECK(!mmix_archive_read(m, a, e, MMIX_FILE_REAL, r, n));
        COMPARE(!differences(t, data, x, n), "numbers that are not the blocks'",
                differences(t, data, x, n), 0);
        for (size_t i = 0; i < n; i++) x[i] = (double)f[i];
        CHECK(!differences(t, data, x, n));
        for (size_t i = 0; i < n; i++) x[i] = (double)r[i];
        CHECK(!differences(t, data, x, n));
    }
    FINE(m);
    mmix_archive_close(a);
    free(b.at);
    free(x);
    free(f);
    free(r);
}
static void blocks(void)
{
    mmix_ctx *m = context(1, 0);
    for (int i = 0; i < BLOCK_TYPES; i++) {
        const block_type *t = &block_types[i];
        unsigned char *data = random_bytes(600 * t->bytes);
        blocks_are_read(m, t, data, 600);
        memset(data, 0, 600 * t->bytes);
        blocks_are_read(m, t, data, 2);
        memset(data, 0xff, 600 * t->bytes);
        blocks_are_read(m, t, data, 2);
        free(data);
    }
    /* every scale there is */
    unsigned char *data = random_bytes(65536 * 34);
    for (size_t bits = 0; bits < 65536; bits++) {
        data[bits * 34] = (unsigned char)bits;
        data[bits * 34 + 1] = (unsigned char)(bits >> 8);
    }
    blocks_are_read(m, block_type_of(Q8_0), data, 65536);
    free(data);
    doing("");
    mmix_destroy(m);
}
/* Blocks are not integers, and are not written. */
static void blocks_are_floats(void)
{
    mmix_ctx *m = small_ctx();
    for (int i = 0; i < BLOCK_TYPES; i++) {
        const block_type *t = &block_types[i];
        const size_t shape[1] = { t->elements };
        unsigned char *data = random_bytes(t->bytes);
        int64_t integers[256];
        char message[160];
        gguf g = begin(3);
        array_is(&g, "w", 1, shape, t->type, data, t->bytes);
        bytes b = finish(&g);
        mmix_archive *a = open_bytes(m, &b);
        const mmix_entry *e = mmix_archive_entry(a, 0);
        snprintf(message, sizeof message, "memory: entry \"w\": expected integers, found %s",
                 t->name);
        CHECK(e && mmix_archive_read(m, a, e, MMIX_FILE_I64, integers, t->elements));
        CHECK(says(m, MMIX_ERROR_FILE, message));
        CHECK(mmix_archive_read(m, a, e, MMIX_FILE_I32, integers, t->elements));
        CHECK(says(m, MMIX_ERROR_FILE, message));
        CHECK(mmix_archive_read(m, a, e, t->dtype, integers, t->elements));
        CHECK(mmix_error(m) != NULL);
        mmix_error_clear(m);
        CHECK(mmix_archive_save(m, HF_PATH, e, 1, NULL) && says(m, MMIX_ERROR_ARGUMENT, "dtype"));
        CHECK(mmix_archive_save(m, FOLDER "/w.npy", e, 1, NULL));
        CHECK(says(m, MMIX_ERROR_ARGUMENT, "dtype"));
        mmix_archive_close(a);
        free(b.at);
        free(data);
    }
    mmix_destroy(m);
}

/* ---- arrays of plain numbers; names, shapes, alignment ---- */

static void plain(void)
{
    static const struct { int type, dtype; size_t size; const char *bits; double value; } of[] = {
        { ARRAY_F32, MMIX_FILE_F32, 4, "\0\0\x20\xc0", -2.5 },
        { ARRAY_F16, MMIX_FILE_F16, 2, "\0\x3e", 1.5 },
        { ARRAY_I8, MMIX_FILE_I8, 1, "\x80", -128 },
        { ARRAY_I16, MMIX_FILE_I16, 2, "\xff\x7f", 32767 },
        { ARRAY_I32, MMIX_FILE_I32, 4, "\xfe\xff\xff\xff", -2 },
        { ARRAY_I64, MMIX_FILE_I64, 8, "\0\0\0\0\0\0\0\x80", -9223372036854775808.0 },
        { ARRAY_F64, MMIX_FILE_F64, 8, "\0\0\0\0\0\0\xe4\xbf", -0.625 },
        { ARRAY_BF16, MMIX_FILE_BF16, 2, "\xc0\x3f", 1.5 }
    };
    mmix_ctx *m = small_ctx();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t shape[2] = { 3, 1 };
        double x[3] = { 0, 0, 0 };
        char three[24];
        for (size_t k = 0; k < 3; k++) memcpy(three + k * of[i].size, of[i].bits, of[i].size);
        gguf g = begin(2);
        array_is(&g, "w", 2, shape, of[i].type, three, 3 * of[i].size);
        bytes b = finish(&g);
        mmix_archive *a = open_bytes(m, &b);
        const mmix_entry *e = mmix_archive_find(a, "w");
        doing(mmix_file_dtype_name(of[i].dtype));
        CHECK(e && e->dtype == of[i].dtype && e->bytes == 3 * of[i].size);
        CHECK(e && !mmix_archive_read(m, a, e, MMIX_FILE_F64, x, 3));
        IS(x[0], of[i].value);
        IS(x[2], of[i].value);
        FINE(m);
        mmix_archive_close(a);
        free(b.at);
    }
    doing("");
    mmix_destroy(m);
}
static void shapes(void)
{
    static const size_t shape[4] = { 2, 3, 4, 5 }, none[2] = { 3, 0 };
    static const char *const names[] = { "0", "1", "\xc3\xa9\xf0\x9f\x98\x80", "a \"b\"", "" };
    mmix_ctx *m = small_ctx();
    float numbers[120];
    double x[120];
    gguf g = begin(3);
    for (int i = 0; i < 120; i++) numbers[i] = (float)i;
    for (int axes = 0; axes < 5; axes++) {
        size_t n = 1;
        for (int k = 0; k < axes; k++) n *= shape[k];
        array_is(&g, names[axes], axes, shape, ARRAY_F32, numbers, 4 * n);
    }
    array_is(&g, "none", 2, none, Q4_K, NULL, 0);
    array_at(&g, "the same", 2, shape, ARRAY_F32, 0);            /* from the first array on */
    bytes b = finish(&g);
    mmix_archive *a = open_bytes(m, &b);
    CHECK(a && mmix_archive_count(a) == 7);
    for (int axes = 0; a && axes < 5; axes++) {
        const mmix_entry *e = mmix_archive_find(a, names[axes]);
        doing(names[axes]);
        if (!CHECK(e && e == mmix_archive_entry(a, (size_t)axes) && e->ndim == axes)) continue;
        CHECK(!memcmp(e->shape, shape, (size_t)axes * sizeof *shape));
        const size_t n = mmix_entry_count(e);
        CHECK(!mmix_archive_read(m, a, e, MMIX_FILE_F64, x, n));
        IS(x[n - 1], n - 1);
    }
    doing("");
    const mmix_entry *e = mmix_archive_find(a, "none");
    CHECK(e && mmix_entry_count(e) == 0 && !e->bytes && e->shape[0] == 3 && e->shape[1] == 0);
    CHECK(e && !mmix_archive_read(m, a, e, MMIX_FILE_F64, x, 0));
    CHECK(mmix_archive_find(a, "the same") && walk(m, a));
    FINE(m);
    mmix_archive_close(a);
    free(b.at);
    mmix_destroy(m);
}
/* From memory and from a file, which is mapped where the system can. */
static void alignments(void)
{
    static const size_t of[] = { 1, 2, 24, 32, 64, 4096, 65536, 1048576 };
    static const size_t shape[1] = { 3 };
    static const float one[3] = { 1, 2, 3 }, two[3] = { 4, 5, 6 };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int from_file = 0; from_file < 2; from_file++) {
            mmix_ctx *m = context(1, 0);
            double x[3] = { 0, 0, 0 };
            gguf g = begin(3);
            aligned(&g, of[i]);
            array_is(&g, "one", 1, shape, ARRAY_F32, one, sizeof one);
            array_is(&g, "two", 1, shape, ARRAY_F32, two, sizeof two);
            bytes b = finish(&g);
            write_file(PATH, b.at, b.size);
            mmix_archive *a = from_file ? mmix_archive_open(m, PATH) : open_bytes(m, &b);
            const mmix_entry *e = mmix_archive_find(a, "two");
            CHECK(e && !mmix_archive_read(m, a, e, MMIX_FILE_F64, x, 3));
            IS(x[0], 4);
            IS(x[2], 6);
            FINE(m);
            mmix_archive_close(a);
            free(b.at);
            mmix_destroy(m);
        }
}

/* ---- metadata ---- */

static void lists(gguf *g)                       /* of numbers, texts, lists, and of nothing */
{
    key_is(g, "numbers", LIST);
    put_number(&g->values, I16, 4);
    put_number(&g->values, 5, 8);
    put(&g->values, "0123456789", 10);
    key_is(g, "texts", LIST);
    put_number(&g->values, TEXT, 4);
    put_number(&g->values, 3, 8);
    put_text(&g->values, "one");
    put_text(&g->values, "");
    put_text(&g->values, "\xff is not UTF-8");
    key_is(g, "nothing", LIST);
    put_number(&g->values, F64, 4);
    put_number(&g->values, 0, 8);
    key_is(g, "nested", LIST);
    put_number(&g->values, LIST, 4);
    put_number(&g->values, 2, 8);
    put_number(&g->values, U8, 4);
    put_number(&g->values, 3, 8);
    put(&g->values, "abc", 3);
    put_number(&g->values, TEXT, 4);
    put_number(&g->values, 1, 8);
    put_text(&g->values, "x");
}
static void metadata(void)
{
    static const struct { const char *key; int type; uint64_t bits; const char *text; } of[] = {
        { "u8", U8, 200, "200" },
        { "i8", I8, 200, "-56" },
        { "u16", U16, 65535, "65535" },
        { "i16", I16, 65535, "-1" },
        { "u32", U32, 4294967295u, "4294967295" },
        { "i32", I32, 2147483648u, "-2147483648" },
        { "f32", F32, 0x3727c5ac, "9.99999975e-06" },
        { "a million", F32, 0x49742400, "1000000" },
        { "yes", BOOL, 1, "true" },
        { "no", BOOL, 0, "false" },
        { "u64", U64, UINT64_MAX, "18446744073709551615" },
        { "i64", I64, (uint64_t)1 << 63, "-9223372036854775808" },
        { "f64", F64, 0x3fb999999999999au, "0.10000000000000001" }
    };
    static const char *const texts[] = {
        "", "plain", "\"quoted\" and \\ and /", "\x01\t\n\r\x1f\x7f", "\xc3\xa9\xf0\x9f\x98\x80",
        "{\"a\": [1, 2]}", "\\u0041", "%s %d %n"
    };
    for (unsigned version = 2; version < 4; version++) {
        mmix_ctx *m = small_ctx();
        char key[64];
        gguf g = begin(version);
        lists(&g);
        for (size_t i = 0; i < sizeof of / sizeof *of; i++)
            number_is(&g, of[i].key, of[i].type, of[i].bits);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            snprintf(key, sizeof key, "key of %s", texts[i]);
            text_is(&g, key, texts[i]);
        }
        bytes b = finish(&g);
        mmix_archive *a = open_bytes(m, &b);
        CHECK_AT(a && !mmix_archive_count(a), mmix_error(m));
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
            const char *text = mmix_archive_metadata(a, of[i].key);
            CHECK_AT(text && !strcmp(text, of[i].text), of[i].key);
        }
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            snprintf(key, sizeof key, "key of %s", texts[i]);
            const char *text = mmix_archive_metadata(a, key);
            CHECK_AT(text && !strcmp(text, texts[i]), texts[i]);
        }
        const char *listed = mmix_archive_metadata(a, "numbers");
        CHECK_AT(listed && !strcmp(listed, "[12592,13106,13620,14134,14648]"), listed);
        listed = mmix_archive_metadata(a, "nothing");
        CHECK_AT(listed && !strcmp(listed, "[]"), listed);
        CHECK(!mmix_archive_metadata(a, "texts") && !mmix_archive_metadata(a, "nested"));
        CHECK(!mmix_archive_metadata(a, "another key"));
        FINE(m);
        mmix_archive_close(a);
        free(b.at);
        mmix_destroy(m);
    }
}

/* ---- what is refused ---- */

/* A file of one array of two axes, of this type and offset; it has `n` bytes of data. */
static bytes one_array(int type, size_t rows, size_t columns, uint64_t offset, size_t n)
{
    const size_t shape[2] = { rows, columns };
    unsigned char *data = random_bytes(n);
    gguf g = begin(3);
    put(&g.data, data, n);
    array_at(&g, "w", 2, shape, type, offset);
    free(data);
    return finish(&g);
}
/* The same file with a number of n bytes at `at` exchanged. */
static bytes with_number(bytes b, size_t at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) b.at[at + (size_t)i] = (unsigned char)(value >> 8 * i);
    return b;
}
static void headers(void)
{
    mmix_ctx *m = small_ctx();
    char message[200];
    const uint64_t versions[] = { 0, 1, 4, 0x03000000, 0x02000000, 4294967295u };
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        snprintf(message, sizeof message, "GGUF of version 2 or 3, little-endian, found %.0f",
                 (double)versions[i]);
        REFUSES(with_number(one_array(ARRAY_F32, 1, 1, 0, 4), 4, versions[i], 4), message);
    }
    for (int bit = 1; bit < 64; bit++) {         /* more arrays, more values than there are */
        const uint64_t many = (uint64_t)1 << bit;
        bytes b = one_array(ARRAY_F32, 1, 1, 0, 0);
        b.size = 4 + 4 + 8 + 8 + (8 + 1 + 4 + 16 + 4 + 8);       /* ends with the array */
        REFUSES(with_number(b, 8, many, 8), "more arrays, found the end of the file" AGAIN);
        gguf g = begin(3);
        number_is(&g, "k", U8, 7);
        g.alignment = 1;
        snprintf(message, sizeof message, "%.0f values, found the end of the file" AGAIN,
                 (double)many);
        REFUSES(with_number(finish(&g), 16, many, 8), message);
        g = begin(3);
        text_is(&g, "k", "v");
        b = finish(&g);
        if (bit > 6) {                           /* the length of the key, then of the text */
            with_number(b, 24, many, 8);
            REFUSES(b, "1 values, found the end of the file" AGAIN);
            g = begin(3);
            text_is(&g, "k", "v");
            REFUSES(with_number(finish(&g), 37, many, 8),
                    "1 values, found the end of the file" AGAIN);
        } else free(b.at);
    }
    for (size_t alignment = 0; alignment < 3; alignment++) {
        static const size_t of[3] = { 0, 1048577, 4294967295u };
        gguf g = begin(3);
        number_is(&g, "general.alignment", U32, of[alignment]);
        snprintf(message, sizeof message, "a general.alignment of 1 to 1048576, found %.0f",
                 (double)of[alignment]);
        REFUSES(finish(&g), message);
    }
    gguf g = begin(3);
    key_is(&g, "k", 13);
    put_number(&g.values, 0, 8);
    REFUSES(finish(&g), "values of types 0 to 12, found 13");
    mmix_destroy(m);
}
/* A list of `depth` lists inside of each other, the innermost of `type` and `count` items. */
static bytes nested(int depth, uint64_t type, uint64_t count)
{
    gguf g = begin(3);
    key_is(&g, "k", LIST);
    for (int i = 1; i < depth; i++) {
        put_number(&g.values, LIST, 4);
        put_number(&g.values, 1, 8);
    }
    put_number(&g.values, type, 4);
    put_number(&g.values, count, 8);
    return finish(&g);
}
static void values_refused(void)
{
    static const char end[] = "1 values, found the end of the file" AGAIN;
    static const char deep[] = "lists of values of types 0 to 12, nested at most 5 deep, found "
                               "another";
    mmix_ctx *m = small_ctx();
    for (int depth = 1; depth < 6; depth++) {
        bytes b = nested(depth, U8, 0);
        COMPARE(outcome(m, b.at, b.size) == 1, "a list of lists", depth, depth);
        free(b.at);
    }
    REFUSES(nested(6, U8, 0), deep);
    REFUSES(nested(10000, U8, 0), deep);
    REFUSES(nested(1, 13, 0), deep);
    REFUSES(nested(2, 4294967295u, 0), deep);
    for (int type = 0; type < 13; type++) {
        REFUSES(nested(1, (uint64_t)type, (uint64_t)1 << 60), end);
        REFUSES(nested(2, (uint64_t)type, UINT64_MAX), end);
    }
    gguf g = begin(3);
    text_is(&g, "twice", "1");
    text_is(&g, "twice", "2");
    bytes b = finish(&g);
    CHECK(outcome(m, b.at, b.size) == 0);
    free(b.at);
    static const char *const bad[] = { "\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        g = begin(3);
        text_is(&g, "k", bad[i]);
        b = finish(&g);
        CHECK(outcome(m, b.at, b.size) == 0);
        free(b.at);
        g = begin(3);
        text_is(&g, bad[i], "v");
        b = finish(&g);
        CHECK(outcome(m, b.at, b.size) == 0);
        free(b.at);
    }
    g = begin(3);                                /* a zero inside of a text */
    text_is(&g, "k", "a?b");
    b = finish(&g);
    b.at[4 + 4 + 8 + 8 + 8 + 1 + 4 + 8 + 1] = 0;
    CHECK(outcome(m, b.at, b.size) == 0);
    free(b.at);
    mmix_destroy(m);
}
static void arrays_refused(void)
{
    static const char within[] = "memory: entry \"w\": expected rows of whole blocks of a known "
                                 "type, found type %d";
    mmix_ctx *m = small_ctx();
    char message[200];
    for (int type = 0; type < 300; type++) {     /* those that ggml took away or will have */
        const int taken_away = type == 4 || type == 5 || (type >= 31 && type <= 33)
                               || (type >= 36 && type <= 38);
        if (type < 42 && !taken_away) continue;
        snprintf(message, sizeof message, within, type);
        bytes b = one_array(type, 1, 256, 0, 1024);
        mmix_archive *a = open_bytes(m, &b);
        CHECK_AT(!a && says(m, MMIX_ERROR_FILE, message), message);
        mmix_archive_close(a);
        free(b.at);
    }
    for (int i = 0; i < BLOCK_TYPES; i++) {
        const block_type *t = &block_types[i];
        snprintf(message, sizeof message, within, t->type);
        const size_t columns[] = { t->elements - 1, t->elements + 1, t->elements / 2, 1 };
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
            bytes b = one_array(t->type, t->elements, columns[k], 0, t->elements * t->bytes);
            mmix_archive *a = open_bytes(m, &b);
            CHECK_AT(!a && says(m, MMIX_ERROR_FILE, message), message);
            mmix_archive_close(a);
            free(b.at);
        }
        gguf g = begin(3);                       /* a scalar is no block */
        array_is(&g, "w", 0, NULL, t->type, message, t->bytes < 200 ? t->bytes : 200);
        bytes b = finish(&g);
        mmix_archive *a = open_bytes(m, &b);
        CHECK_AT(!a && says(m, MMIX_ERROR_FILE, message), message);
        mmix_archive_close(a);
        free(b.at);
    }
    mmix_destroy(m);
}
/* Messages about one entry are not begun as those about a file. */
static void entry_refuses(mmix_ctx *m, bytes b, const char *message, int line)
{
    mmix_archive *a = open_bytes(m, &b);
    const char *e = mmix_error(m);
    const int ok = !a && e && mmix_error_kind(m) == MMIX_ERROR_FILE && !strcmp(e, message);
    report(ok, __FILE__, line, message, e ? e : "no error");
    mmix_archive_close(a);
    mmix_error_clear(m);
    free(b.at);
}
#define ENTRY_REFUSES(file, message) \
    entry_refuses(m, file, "memory: entry \"w\": expected " message, __LINE__)
static void places(void)
{
    const uint64_t distant = (uint64_t)1 << 60, beyond = (uint64_t)SIZE_MAX / 2 + 1;
    const size_t five[5] = { 1, 1, 1, 1, 1 };
    mmix_ctx *m = small_ctx();
    ENTRY_REFUSES(one_array(ARRAY_F32, 2, 3, 0, 23),
                  "24 bytes of data inside of the file, found fewer" AGAIN);
    ENTRY_REFUSES(one_array(ARRAY_F32, 2, 3, 1, 24),
                  "24 bytes of data inside of the file, found fewer" AGAIN);
    ENTRY_REFUSES(one_array(ARRAY_F32, 0, 3, 25, 24),
                  "0 bytes of data inside of the file, found fewer" AGAIN);
    ENTRY_REFUSES(one_array(Q4_K, 2, 256, 0, 287),
                  "288 bytes of data inside of the file, found fewer" AGAIN);
    if (sizeof(size_t) == 8) {
        ENTRY_REFUSES(one_array(ARRAY_F32, 2, 3, distant, 24),
                      "24 bytes of data inside of the file, found fewer" AGAIN);
        ENTRY_REFUSES(one_array(ARRAY_F64, (size_t)distant, (size_t)distant, 0, 24),
                      "rows of whole blocks of a known type, found type 28");
    }
    ENTRY_REFUSES(one_array(ARRAY_F32, 2, 3, beyond, 24), "data inside of the file");
    ENTRY_REFUSES(one_array(ARRAY_F32, 2, 3, UINT64_MAX, 24), "data inside of the file");
    ENTRY_REFUSES(one_array(ARRAY_F32, 2, (size_t)beyond, 0, 24), "a shape that fits in memory");
    ENTRY_REFUSES(one_array(ARRAY_F32, SIZE_MAX, 0, 0, 24), "a shape that fits in memory");
    gguf g = begin(3);
    array_at(&g, "w", 5, five, ARRAY_F32, 0);
    ENTRY_REFUSES(finish(&g), "at most 4 axes, found 5");
    g = begin(3);
    array_at(&g, "w", 2, five, ARRAY_F32, 0);
    array_at(&g, "w", 1, five, ARRAY_F32, 0);
    put_number(&g.data, 0, 4);
    ENTRY_REFUSES(finish(&g), "each name once, found it twice");
    g = begin(3);
    array_at(&g, "w?v", 1, five, ARRAY_F32, 0);
    put_number(&g.data, 0, 4);
    ENTRY_REFUSES(with_number(finish(&g), 33, 0, 1), "a name without a zero in it");
    g = begin(3);
    array_at(&g, "w\xff", 1, five, ARRAY_F32, 0);
    put_number(&g.data, 0, 4);
    bytes b = finish(&g);
    CHECK(outcome(m, b.at, b.size) == 0);
    free(b.at);
    mmix_destroy(m);
}
/* Types that are listed; only reading them is an error. */
static void unread(void)
{
    static const struct { int type; size_t elements, bytes; const char *name; } of[] = {
        { 9, 32, 36, "Q8_1" }, { 15, 256, 292, "Q8_K" }, { 16, 256, 66, "IQ2_XXS" },
        { 17, 256, 74, "IQ2_XS" }, { 18, 256, 98, "IQ3_XXS" }, { 19, 256, 50, "IQ1_S" },
        { 21, 256, 110, "IQ3_S" }, { 22, 256, 82, "IQ2_S" }, { 29, 256, 56, "IQ1_M" },
        { 34, 256, 54, "TQ1_0" }, { 35, 256, 66, "TQ2_0" }, { 39, 32, 17, "MXFP4" },
        { 40, 64, 36, "NVFP4" }, { 41, 128, 18, "Q1_0" }
    };
    mmix_ctx *m = small_ctx();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t n = of[i].elements, bytes_each = of[i].bytes;
        double x[512];
        char message[100];
        bytes b = one_array(of[i].type, 2, n, 0, 2 * bytes_each);
        mmix_archive *a = open_bytes(m, &b);
        const mmix_entry *e = mmix_archive_find(a, "w");
        doing(of[i].name);
        CHECK(e && e->dtype == MMIX_FILE_OTHER && e->bytes == 2 * bytes_each && e->shape[1] == n);
        snprintf(message, sizeof message,
                 "memory: entry \"w\": expected numbers that can be read, found %s", of[i].name);
        CHECK(e && mmix_archive_read(m, a, e, MMIX_FILE_F64, x, 2 * n));
        CHECK(says(m, MMIX_ERROR_FILE, message));
        mmix_archive_close(a);
        free(b.at);
        b = one_array(of[i].type, 2, n, 0, 2 * bytes_each - 1);
        CHECK(outcome(m, b.at, b.size) == 0);
        free(b.at);
        b = one_array(of[i].type, 2, n + 1, 0, 4 * bytes_each);
        CHECK(outcome(m, b.at, b.size) == 0);
        free(b.at);
    }
    doing("");
    mmix_destroy(m);
}

/* ---- damage, and memory that ends ---- */

static bytes small_file(unsigned version)
{
    static const size_t matrix[2] = { 1, 32 }, one[1] = { 2 };
    unsigned char *data = random_bytes(64);
    gguf g = begin(version);
    aligned(&g, 8);
    lists(&g);
    number_is(&g, "f", F32, 0x3f800000);
    text_is(&g, "k", "\xc3\xa9\"\n");
    array_is(&g, "w.a", 2, matrix, Q4_1, data, 20);
    array_is(&g, "b", 2, matrix, 20, data, 18);
    array_is(&g, "c", 1, one, ARRAY_I16, data, 4);
    free(data);
    return finish(&g);
}
static void damage(void)
{
    mmix_ctx *m = small_ctx();
    size_t valid = 0, wrong = 0;
    bytes b = small_file(3);
    CHECK(outcome(m, b.at, b.size) == 1);
    for (size_t n = 0; n < b.size; n++) {
        unsigned char *cut = (unsigned char *)malloc(n + !n);    /* a sanitizer sees beyond */
        memcpy(cut, b.at, n);
        mmix_archive *a = mmix_archive_open_memory(m, "memory", cut, n);
        const char *e = mmix_error(m);
        int ok = !a && e && mmix_error_kind(m) == MMIX_ERROR_FILE;
        if (ok && n >= 8) ok = strstr(e, AGAIN) != NULL;
        if (!ok) printf("    cut after %u bytes: %s\n", (unsigned)n, e ? e : "no error");
        wrong += !ok;
        mmix_archive_close(a);
        mmix_error_clear(m);
        free(cut);
    }
    COMPARE(!wrong, "cut files that are not refused", wrong, 0);
    wrong = 0;
    for (size_t i = 0; i < b.size; i++)
        for (int k = 0; k < 11; k++) {
            static const unsigned char with[11] = { 1, 2, 4, 8, 16, 32, 64, 128, 255, 127, 3 };
            b.at[i] = (unsigned char)(b.at[i] ^ with[k]);
            const int result = outcome(m, b.at, b.size);
            valid += result == 1;
            wrong += result < 0;
            b.at[i] = (unsigned char)(b.at[i] ^ with[k]);
        }
    COMPARE(!wrong, "changed files that are neither read nor refused", wrong, 0);
    CHECK(valid > 11 * 60 && valid < 11 * b.size * 2 / 3);
    free(b.at);
    mmix_destroy(m);
}
static int opened(const mmix_options *options, void *user)
{
    const bytes *b = (const bytes *)user;
    mmix_ctx *m = mmix_create(options);
    if (!m) return MMIX_ERROR_MEMORY;
    const size_t before = mmix_memory(m).bytes;
    mmix_archive *a = open_bytes(m, b);
    const int kind = mmix_error_kind(m);
    CHECK((a != NULL) == !kind);
    mmix_archive_close(a);
    CHECK(mmix_memory(m).bytes == before);
    mmix_destroy(m);
    return kind;
}
static void memory(void)
{
    bytes b = small_file(2);
    const size_t calls = memory_fails(opened, &b, 0, 1);
    CHECK(calls > 5 && memory_fails(opened, &b, 1, 1) == calls);
    free(b.at);
}

/* ---- decoders ---- */

/* A decoder as Hugging Face's files have it, and the same in GGUF: each matrix is of the next type
   of a list, and the decoder's values are what those blocks hold. */
typedef struct kind {
    const char *architecture;
    int bias, tied;
    size_t dim, heads, kv_heads, ffn, vocabulary;
    const int *types;                            /* of matrices, ending with -1 */
} kind;
static const int mixed[] = { Q8_0, ARRAY_F32, Q4_1, ARRAY_F16, Q4_0, ARRAY_BF16, -1 };
static const int halves[] = { ARRAY_F16, Q4_0, ARRAY_BF16, -1 };
static const int large[] = { Q6_K, Q4_K, Q5_K, Q4_K, -1 };
static const int smaller[] = { Q3_K, Q2_K, IQ4_XS, Q3_K, -1 };
static const int fives[] = { Q5_0, IQ4_NL, Q5_1, Q8_0, Q5_0, -1 };
static const int fours[] = { Q4_0, Q4_1, Q4_K, Q4_1, Q8_0, -1 };
static const kind kinds[] = {
    { "llama", 0, 0, 32, 4, 2, 64, 40, mixed },
    { "qwen2", 1, 0, 32, 4, 2, 64, 40, mixed },
    { "llama", 0, 1, 64, 4, 4, 32, WORDS, halves },
    { "qwen2", 1, 1, 32, 2, 1, 32, WORDS, mixed },
    { "llama", 0, 0, 256, 4, 2, 256, WORDS, large },
    { "qwen2", 1, 0, 256, 4, 2, 256, WORDS, fours },
    { "llama", 0, 0, 256, 4, 2, 256, WORDS, smaller },
    { "qwen2", 1, 0, 32, 4, 2, 64, 40, fives }
};
enum { KINDS = 8, DEPTH = 2, THETA = 500 };
static const double EPSILON = 0.0009765625;      /* the same in float and double */

/* How llama.cpp names a parameter of Hugging Face's. */
static void gguf_name(char *out, size_t room, const char *name)
{
    static const char *const of[][2] = {
        { "input_layernorm", "attn_norm" }, { "post_attention_layernorm", "ffn_norm" },
        { "self_attn.q_proj", "attn_q" }, { "self_attn.k_proj", "attn_k" },
        { "self_attn.v_proj", "attn_v" }, { "self_attn.o_proj", "attn_output" },
        { "mlp.gate_proj", "ffn_gate" }, { "mlp.up_proj", "ffn_up" },
        { "mlp.down_proj", "ffn_down" }
    };
    int layer = 0, length = 0;
    snprintf(out, room, "?%s", name);
    if (!strcmp(name, "model.embed_tokens.weight")) snprintf(out, room, "token_embd.weight");
    if (!strcmp(name, "model.norm.weight")) snprintf(out, room, "output_norm.weight");
    if (!strcmp(name, "lm_head.weight")) snprintf(out, room, "output.weight");
    if (sscanf(name, "model.layers.%d.%n", &layer, &length) != 1 || !length) return;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t n = strlen(of[i][0]);
        if (!strncmp(name + length, of[i][0], n))
            snprintf(out, room, "blk.%d.%s%s", layer, of[i][1], name + length + n);
    }
}
static size_t bytes_of(int type, size_t n)
{
    const block_type *t = block_type_of(type);
    if (t) return n / t->elements * t->bytes;
    return type == ARRAY_F32 ? 4 * n : 2 * n;
}
static double value_of(int type, const unsigned char *data, size_t i)
{
    const block_type *t = block_type_of(type);
    float f;
    uint32_t bits;
    if (t) return (double)(float)t->value(data + i / t->elements * t->bytes, i % t->elements);
    if (type == ARRAY_F16) return half_at(data + 2 * i);
    if (type == ARRAY_BF16) bits = (uint32_t)u16_of(data + 2 * i) << 16;
    else bits = u16_of(data + 4 * i) | (uint32_t)u16_of(data + 4 * i + 2) << 16;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}
static void set_half(unsigned char *p, size_t exponent, int negative)
{
    const size_t bits = any(0, 1023) | exponent << 10 | (size_t)(negative != 0) << 15;
    p[0] = (unsigned char)bits;
    p[1] = (unsigned char)(bits >> 8);
}
/* Random data of n numbers whose size is about that of weights. */
static unsigned char *weights_of(int type, size_t n)
{
    const block_type *t = block_type_of(type);
    unsigned char *data = random_bytes(bytes_of(type, n));
    for (size_t i = 0; !t && i < n; i++) {
        const float f = (float)(uniform() - 0.5);
        uint32_t bits;
        memcpy(&bits, &f, sizeof f);
        if (type == ARRAY_F16) set_half(data + 2 * i, any(9, 13), uniform() < 0.5);
        for (size_t k = 0; type == ARRAY_BF16 && k < 2; k++)
            data[2 * i + k] = (unsigned char)(bits >> (16 + 8 * k));
        for (size_t k = 0; type == ARRAY_F32 && k < 4; k++)
            data[4 * i + k] = (unsigned char)(bits >> 8 * k);
    }
    for (size_t i = 0; t && i < n / t->elements; i++) {
        unsigned char *p = data + i * t->bytes;
        switch (type) {
        case Q2_K: set_half(p + 80, 8, 0); set_half(p + 82, 8, 0); break;
        case Q3_K: set_half(p + 108, 5, 0); break;
        case Q6_K: set_half(p + 208, 1, 0); break;
        case Q4_K: set_half(p, 4, 0); set_half(p + 2, 7, 0); break;
        case Q5_K: set_half(p, 3, 0); set_half(p + 2, 7, 0); break;
        case Q4_1: set_half(p, 10, 0); set_half(p + 2, 12, 1); break;
        case Q5_1: set_half(p, 9, 0); set_half(p + 2, 12, 1); break;
        case Q4_0: set_half(p, 10, 0); break;
        case Q5_0: set_half(p, 9, 0); break;
        case IQ4_XS: set_half(p, 2, 0); break;
        default: set_half(p, 6, 0); break;               /* Q8_0, IQ4_NL */
        }
    }
    return data;
}
/* Where row r of a GGUF's q or k stands in Hugging Face's: llama.cpp's converter brings together
   what rotary positions turn as pairs, which there is half a head apart. */
static size_t unpermuted(size_t r, size_t head)
{
    const size_t in = r % head;
    return r - in + in % 2 * (head / 2) + in / 2;
}
/* Fills a parameter and adds its array. */
static void fill(gguf *g, const mmix_param *p, int type, size_t permuted_head)
{
    mmix_tensor *t = p->tensor;
    const int ndim = mmix_ndim(t);
    const size_t n = mmix_count(t), columns = mmix_shape(t, ndim - 1);
    size_t shape[2] = { mmix_shape(t, 0), columns };
    unsigned char *data = weights_of(type, n);
    char name[100];
    for (size_t i = 0; i < n; i++) {
        size_t row = i / columns;
        if (permuted_head) row = unpermuted(row, permuted_head);
        mmix_data(t)[row * columns + i % columns] = (real)value_of(type, data, i);
    }
    gguf_name(name, sizeof name, p->name);
    CHECK_AT(*name != '?', name);
    array_is(g, name, ndim, shape, type, data, bytes_of(type, n));
    free(data);
}
static mmix_decoder *decoder_of(mmix_ctx *m, const kind *k, gguf *g)
{
    mmix_decoder_config c;
    memset(&c, 0, sizeof c);
    c.vocabulary = k->vocabulary;
    c.dim = k->dim;
    c.depth = DEPTH;
    c.ffn = k->ffn;
    c.heads = k->heads;
    c.kv_heads = k->kv_heads;
    c.eps = EPSILON;
    c.rope.theta = THETA;
    c.bias = k->bias;
    c.tied = k->tied;
    mmix_decoder *d = mmix_decoder_create(m, c);
    const int *type = k->types;
    for (size_t i = 0; d && i < d->params->count; i++) {
        const mmix_param *p = &d->params->at[i];
        const int is_matrix = mmix_ndim(p->tensor) == 2;
        const int turned = strstr(p->name, ".q_proj.") || strstr(p->name, ".k_proj.");
        const int permuted = turned && !strcmp(k->architecture, "llama");
        if (*type < 0) type = k->types;
        fill(g, p, is_matrix ? *type : ARRAY_F32, permuted ? c.dim / c.heads : 0);
        type += is_matrix;
    }
    FINE(m);
    return d;
}

/* A value of the metadata instead of the right one; of type -1: none. */
typedef struct change {
    const char *key;
    int type;
    uint64_t bits;
    const char *text, *message;
} change;
static void change_is(gguf *g, const change *c)
{
    if (c->type == TEXT) text_is(g, c->key, c->text);
    else if (c->type == LIST) {
        key_is(g, c->key, LIST);
        put_number(&g->values, U32, 4);
        put_number(&g->values, 0, 8);
    } else if (c->type >= 0) number_is(g, c->key, c->type, c->bits);
}
static void decoder_metadata(gguf *g, const kind *k, const change *c)
{
    const struct { const char *name; int type; uint64_t bits; } of[] = {
        { "embedding_length", U32, k->dim }, { "block_count", U32, DEPTH },
        { "feed_forward_length", U32, k->ffn }, { "attention.head_count", U32, k->heads },
        { "attention.head_count_kv", U64, k->kv_heads },
        { "attention.layer_norm_rms_epsilon", F32, 0x3a800000 },
        { "rope.freq_base", F32, 0x43fa0000 }, { "rope.dimension_count", U16, k->dim / k->heads },
        { "context_length", U32, 77 }
    };
    int changed = 0;
    text_is(g, "general.name", "a tiny model");
    if (c && !strcmp(c->key, "general.architecture")) change_is(g, c);
    else text_is(g, "general.architecture", k->architecture);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char key[100];
        snprintf(key, sizeof key, "%s.%s", k->architecture, of[i].name);
        const int is_this = c && !strcmp(c->key, key);
        changed |= is_this;
        if (is_this) change_is(g, c);
        else number_is(g, key, of[i].type, of[i].bits);
    }
    if (c && !changed && strcmp(c->key, "general.architecture")) change_is(g, c);
}
/* Writes Hugging Face's two files of a decoder. */
static void write_hf(mmix_ctx *m, const mmix_decoder *d, const kind *k)
{
    mmix_entry e[64];
    char config[700];
    size_t n = 0;
    for (; n < d->params->count && n < 64; n++) e[n] = entry_of(&d->params->at[n]);
    CHECK(n == d->params->count && !mmix_archive_save(m, HF_PATH, e, n, NULL));
    snprintf(config, sizeof config,
             "{\"model_type\": \"%s\", \"hidden_size\": %d, \"intermediate_size\": %d, "
             "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
             "\"num_key_value_heads\": %d, \"rms_norm_eps\": %.17g, \"rope_theta\": %d, "
             "\"vocab_size\": %d, \"tie_word_embeddings\": %s, \"hidden_act\": \"silu\"}",
             k->architecture, (int)k->dim, (int)k->ffn, DEPTH, (int)k->heads, (int)k->kv_heads,
             EPSILON, THETA, (int)k->vocabulary, k->tied ? "true" : "false");
    write_file(FOLDER "/config.json", config, strlen(config));
}
static real *text_logits(mmix_ctx *m, const mmix_decoder *d)
{
    mmix_sequence s = sequence(m, 0, 9);
    s.n_spans = 0;
    real *v = copied(mmix_decoder_logits(m, d, mmix_decoder_forward(m, d, &s, NULL)));
    mmix_reset(m);
    return v;
}
/* Writes a file of kind k, with a change of its values, and frees what it is made of. */
static void write_decoder(gguf *g, mmix_decoder *d, const kind *k, const change *c)
{
    decoder_metadata(g, k, c);
    bytes b = finish(g);
    write_file(PATH, b.at, b.size);
    free(b.at);
    mmix_decoder_destroy(d);
}
/* The logits of a file in GGUF are those of Hugging Face's; bit for bit where the rows of q and k
   have the same order. */
static void decoders(void)
{
    for (int i = 0; i < KINDS; i++) {
        const kind *k = &kinds[i];
        const int same_order = !strcmp(k->architecture, "qwen2");
        const size_t n = BATCH * TOKENS * k->vocabulary;
        mmix_ctx *m = context(1, 0);
        snprintf(about, sizeof about, "%s, kind %d", k->architecture, i);
        gguf g = begin(i % 2 ? 2 : 3);
        mmix_decoder *d = decoder_of(m, k, &g);
        decoder_metadata(&g, k, NULL);
        bytes b = finish(&g);
        write_file(PATH, b.at, b.size);
        write_hf(m, d, k);
        mmix_decoder *theirs = mmix_decoder_load(m, HF_PATH);
        mmix_decoder *back = mmix_decoder_load(m, PATH);
        FINE(m);
        if (CHECK(theirs && back)) {
            real *x = text_logits(m, theirs), *y = text_logits(m, back);
            double top = 0;
            for (size_t e = 0; e < n; e++) top = fmax(top, fabs((double)x[e]));
            CHECK(same_lists(d->params, theirs->params) && top > 0.1);
            CHECK(same_lists(d->params, back->params) == same_order);
            NEAR(most(x, y, n), 0, same_order ? 0 : 30 * TOL * fmax(1, top));
            CHECK(back->config.tied == k->tied && back->config.bias == k->bias);
            CHECK(back->config.rope.interleaved == !same_order);
            IS(back->config.eps, EPSILON);
            IS(back->config.rope.theta, THETA);
            FINE(m);
            free(x);
            free(y);
        }
        free(b.at);
        mmix_decoder_destroy(back);
        mmix_decoder_destroy(theirs);
        mmix_decoder_destroy(d);
        mmix_destroy(m);
    }
}
/* Writes kind k with a change of its metadata, and an array more where `extra` names one. */
static void write_changed(mmix_ctx *m, const kind *k, const change *c, const char *extra)
{
    const size_t shape[1] = { 4 };
    gguf g = begin(3);
    mmix_decoder *d = decoder_of(m, k, &g);
    if (extra) array_is(&g, extra, 1, shape, ARRAY_F32, "0123456789abcdef", 16);
    write_decoder(&g, d, k, c);
}
static void decoder_refused(mmix_ctx *m, const char *message, int line)
{
    mmix_decoder *d = mmix_decoder_load(m, PATH);
    const char *e = mmix_error(m);
    char whole[300];
    snprintf(whole, sizeof whole, PATH ": %s", message);
    const int ok = !d && e && mmix_error_kind(m) == MMIX_ERROR_FILE && !strcmp(e, whole);
    report(ok, __FILE__, line, message, e ? e : "no error");
    mmix_error_clear(m);
    mmix_decoder_destroy(d);
    mmix_reset(m);
}
/* YaRN's own numbers: its magnitude, and what is refused. */
static void yarns(mmix_ctx *m)
{
    static const change of[] = {
        { "llama.rope.scaling.yarn_ext_factor", F32, 0x3f800000, NULL, NULL },
        { "llama.rope.scaling.yarn_ext_factor", F32, 0xbf800000, NULL, NULL },
        { "llama.rope.scaling.yarn_ext_factor", F32, 0, NULL,
          "llama.rope.scaling.yarn_ext_factor: expected 1 or none, found 0" },
        { "llama.rope.scaling.yarn_log_multiplier", F32, 0x3f800000, NULL,
          "rope.scaling.yarn_log_multiplier: expected none: YaRN's magnitude has no second part" },
        { "llama.rope.scaling.yarn_attn_factor", F32, 0, NULL,
          "llama.rope.scaling.yarn_attn_factor: expected a number above 0, found 0" },
        { "llama.rope.scaling.yarn_attn_factor", F32, 0x3fa00000, NULL, NULL },
        { "llama.rope.scaling.attn_factor", F32, 0x40000000, NULL, NULL }
    };
    static const double magnitudes[] = { 1.1386294361119891, 1.1386294361119891, 0, 0, 0, 1.25,
                                         2.2772588722239782 };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        gguf g = begin(3);
        mmix_decoder *d = decoder_of(m, &kinds[0], &g);
        text_is(&g, "llama.rope.scaling.type", "yarn");
        number_is(&g, "llama.rope.scaling.factor", F32, 0x40800000);
        number_is(&g, of[i].key, of[i].type, of[i].bits);
        write_decoder(&g, d, &kinds[0], NULL);
        if (of[i].message) {
            decoder_refused(m, of[i].message, __LINE__);
            continue;
        }
        d = mmix_decoder_load(m, PATH);
        FINE(m);
        if (CHECK(d)) NEAR(d->config.rope.magnitude, magnitudes[i], 1e-12);
        mmix_decoder_destroy(d);
    }
}
static void decoders_refused(void)
{
    static const change of[] = {
        { "general.architecture", TEXT, 0, "gemma2",
          "general.architecture: expected llama, smollm3, granite, qwen2, qwen2vl, qwen3, gemma3, mamba, "
          "mamba2, granitehybrid, falcon-h1 or nemotron_h, found gemma2" },
        { "general.architecture", -1, 0, NULL,
          "general.architecture: expected llama, smollm3, granite, qwen2, qwen2vl, qwen3, gemma3, mamba, "
          "mamba2, granitehybrid, falcon-h1 or nemotron_h, found none" },
        { "llama.expert_count", U32, 8, NULL,
          "expert_count: expected none: mixtures of experts are not done here" },
        { "llama.embedding_length", -1, 0, NULL,
          "llama.embedding_length: expected a number, found none" },
        { "llama.embedding_length", TEXT, 0, "wide",
          "llama.embedding_length: expected a number, found wide" },
        { "llama.embedding_length", I32, 4294967264u, NULL,
          "llama.embedding_length: expected a whole number from 0 to 2147483647, found -32" },
        { "llama.block_count", -1, 0, NULL, "llama.block_count: expected a number, found none" },
        { "llama.feed_forward_length", LIST, 0, NULL,
          "feed_forward_length: expected 2 whole numbers, found []" },
        { "llama.attention.head_count", F32, 0x40200000, NULL,
          "llama.attention.head_count: expected a whole number from 0 to 2147483647, found 2.5" },
        { "llama.attention.head_count", U32, 0, NULL, "expected heads and a width above 0" },
        { "llama.embedding_length", U32, 0, NULL, "expected heads and a width above 0" },
        { "llama.attention.layer_norm_rms_epsilon", -1, 0, NULL,
          "llama.attention.layer_norm_rms_epsilon: expected a number, found none" },
        { "llama.rope.freq_base", BOOL, 1, NULL,
          "llama.rope.freq_base: expected a number, found true" },
        { "llama.rope.freq_base", F32, 0, NULL,
          "llama.rope.freq_base: expected a number above 0, found 0" },
        { "llama.attention.causal", BOOL, 0, NULL,
          "attention.causal: expected true, found false" },
        { "llama.rope.dimension_count", U32, 4, NULL,
          "rope.dimension_count: expected the width of a head, 8, found 4: the order of such heads "
          "in a GGUF does not fit their rotation; open the model's folder instead" },
        { "llama.rope.scaling.factor", F32, 0xc0800000, NULL,
          "llama.rope.scaling.factor: expected a number above 0, found -4" },
        { "llama.rope.scaling.attn_factor", F32, 0x40000000, NULL,
          "llama.rope.scaling.attn_factor: expected 1 without YaRN, found 2" },
        { "llama.attention.causal", U8, 0, NULL, "attention.causal: expected true, found 0" },
        { "llama.attention.layer_norm_rms_epsilon", F32, 0xb727c5ac, NULL,
          "llama.attention.layer_norm_rms_epsilon: expected a number above 0, found "
          "-9.99999975e-06" },
        { "llama.rope.freq_base", F32, 0xff800000, NULL,
          "llama.rope.freq_base: expected a number, found -inf" },
        { "llama.feed_forward_length", TEXT, 0, "[[[[[[[[", "feed_forward_length: expected 2 whole numbers, found [[[[[[[[" },
        { "split.count", U16, 3, NULL,
          "split.count: expected a model in one file, found one of 3 files; llama.cpp's "
          "llama-gguf-split --merge joins them" }
    };
    mmix_ctx *m = context(1, 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        write_changed(m, &kinds[0], &of[i], NULL);
        decoder_refused(m, of[i].message, __LINE__);
    }
    yarns(m);
    write_changed(m, &kinds[0], NULL, "blk.0.attn_qkv.bias");
    decoder_refused(m, "expected attn_q, attn_k and attn_v, found attn_qkv: convert the model without "
                    "--fuse-qkv", __LINE__);
    write_changed(m, &kinds[0], NULL, "rope_freqs.weight");
    CHECK(!mmix_decoder_load(m, PATH));
    CHECK(says(m, MMIX_ERROR_FILE, "rope_freqs.weight: expected the frequencies of Llama 3.1"));
    mmix_reset(m);
    mmix_destroy(m);
}
/* What is no harm: values that say what is done anyway, and those that may be missing. */
static void decoders_allowed(void)
{
    static const change of[] = {
        { "llama.rope.scaling.type", TEXT, 0, "none", NULL },
        { "llama.rope.scaling.factor", F32, 0x3f800000, NULL, NULL },
        { "llama.rope.scale_linear", F32, 0, NULL, NULL },
        { "llama.expert_count", U32, 0, NULL, NULL },
        { "llama.attention.causal", BOOL, 1, NULL, NULL },
        { "llama.attention.sliding_window", U32, 0, NULL, NULL },
        { "llama.attention.key_length", U32, 8, NULL, NULL },
        { "llama.rope.dimension_count", -1, 0, NULL, NULL },
        { "tokenizer.ggml.tokens", LIST, 0, NULL, NULL }
    };
    mmix_ctx *m = context(1, 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        write_changed(m, &kinds[0], &of[i], NULL);
        mmix_decoder *d = mmix_decoder_load(m, PATH);
        CHECK_AT(d != NULL, of[i].key);
        FINE(m);
        mmix_decoder_destroy(d);
    }
    mmix_destroy(m);
}
/* Sizes that are not those of the arrays, and arrays that are missing. */
static void decoders_of_other_sizes(void)
{
    static const change of[] = {
        { "llama.embedding_length", U32, 64, NULL, NULL },
        { "llama.block_count", U32, 3, NULL, NULL },
        { "llama.block_count", U32, 2147483647, NULL, NULL },
        { "llama.feed_forward_length", U32, 63, NULL, NULL },
        { "llama.attention.head_count", U32, 5, NULL, NULL },
        { "llama.attention.head_count_kv", U32, 4, NULL, NULL },
        { "llama.attention.head_count_kv", U32, 3, NULL, NULL },
        { "llama.attention.key_length", U32, 2147483646, NULL, NULL }
    };
    mmix_ctx *m = context(1, 0);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        write_changed(m, &kinds[0], &of[i], NULL);
        const size_t before = mmix_memory(m).bytes;
        mmix_decoder *d = mmix_decoder_load(m, PATH);
        CHECK_AT(!d && mmix_error(m), of[i].key);
        mmix_error_clear(m);
        mmix_decoder_destroy(d);
        mmix_reset(m);
        COMPARE(mmix_memory(m).bytes <= before + 2 * ARENA_BLOCK + 65536, of[i].key,
                mmix_memory(m).bytes, before);
    }
    mmix_destroy(m);
}

/* ---- decoders whose matrices are of four bits ---- */

/* The nearest float16 of a value, ties to even, as a double. */
static double to_half(double x)
{
    int exponent;
    frexp(x, &exponent);
    if (exponent < -13) exponent = -13;
    const double unit = ldexp(1, exponent - 11);
    return nearbyint(x / unit) * unit;
}
/* Element i of such blocks in four bits: its value itself, or for Q4_K that of products that are
   float16. */
static double value_in_four(const block_type *t, const unsigned char *data, size_t i)
{
    const unsigned char *p = data + i / t->elements * t->bytes;
    const size_t of = i % t->elements;
    if (t->type != Q4_K) return t->value(p, of);
    const double scale = to_half(half_at(p) * k_scale(p + 4, of / 32));
    const double minimum = to_half(half_at(p + 2) * k_minimum(p + 4, of / 32));
    return scale * k_four(p + 16, of) - minimum;
}
static void fours_are_kept(mmix_ctx *m, const mmix_archive *a, const mmix_decoder *d)
{
    int taken = 0, of_four = 0;
    for (size_t i = 0; i < d->params->count; i++) {
        const mmix_tensor *t = d->params->at[i].tensor;
        char name[100];
        gguf_name(name, sizeof name, d->params->at[i].name);
        const mmix_entry *e = mmix_archive_find(a, name);
        if (!CHECK_AT(e && mmix_entry_count(e) == mmix_count(t), name)) continue;
        const int is_four = e->dtype == MMIX_FILE_Q4_0 || e->dtype == MMIX_FILE_Q4_1
                            || e->dtype == MMIX_FILE_Q4_K;
        of_four += is_four;
        if (!is_four || mmix_dtype(t) != MMIX_DTYPE_Q4) continue;
        size_t wrong = 0;
        real *x = copied(t);
        for (int k = 0; k < BLOCK_TYPES; k++)
            for (size_t n = 0; block_types[k].dtype == e->dtype && n < mmix_count(t); n++) {
                const unsigned char *data = (const unsigned char *)e->data;
                wrong += !is_float((double)(float)x[n], value_in_four(&block_types[k], data, n));
            }
        free(x);
        taken++;
        COMPARE(!wrong, name, wrong, 0);
    }
    COMPARE(taken >= 2 || !of_four, "matrices that were taken as they are", taken, 2);
    FINE(m);
}
/* Other matrices are rounded as mmix_params_narrow rounds them. */
static void others_are_rounded(const mmix_archive *a, const mmix_decoder *d,
                               const mmix_decoder *rounded)
{
    for (size_t i = 0; i < d->params->count; i++) {
        char name[100];
        gguf_name(name, sizeof name, d->params->at[i].name);
        const mmix_entry *e = mmix_archive_find(a, name);
        if (!e || e->dtype == MMIX_FILE_Q4_0 || e->dtype == MMIX_FILE_Q4_1) continue;
        if (e->dtype == MMIX_FILE_Q4_K) continue;
        const mmix_tensor *x = d->params->at[i].tensor, *y = rounded->params->at[i].tensor;
        CHECK_AT(mmix_dtype(x) == mmix_dtype(y) && gap(x, y) <= 0, name);
    }
}
static void four_bits(void)
{
    for (int i = 0; i < KINDS; i++)
        for (int threads = 1; threads < 4; threads += 2) {
            mmix_ctx *m = context(threads, 0);
            snprintf(about, sizeof about, "four bits, kind %d, %d threads", i, threads);
            write_changed(m, &kinds[i], NULL, NULL);
            mmix_archive *a = mmix_archive_open(m, PATH);
            mmix_decoder *d = mmix_decoder_load_as(m, PATH, MMIX_DTYPE_Q4);
            mmix_decoder *rounded = mmix_decoder_load(m, PATH);
            if (CHECK(a && d && rounded && !mmix_params_narrow(rounded->params, MMIX_DTYPE_Q4))) {
                fours_are_kept(m, a, d);
                others_are_rounded(a, d, rounded);
            }
            FINE(m);
            mmix_decoder_destroy(d);
            mmix_decoder_destroy(rounded);
            mmix_archive_close(a);
            mmix_destroy(m);
        }
}
static int loaded(const mmix_options *options, void *user)
{
    mmix_ctx *m = mmix_create(options);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_decoder *d = mmix_decoder_load_as(m, PATH, *(const int *)user);
    const int kind_of_error = mmix_error_kind(m);
    CHECK((d != NULL) == !kind_of_error);
    mmix_decoder_destroy(d);
    mmix_destroy(m);
    return kind_of_error;
}
static void decoder_memory(void)
{
    static const int dtypes[] = { MMIX_DTYPE_REAL, MMIX_DTYPE_BF16, MMIX_DTYPE_I8, MMIX_DTYPE_Q4 };
    mmix_ctx *m = context(1, 0);
    write_changed(m, &kinds[1], NULL, NULL);
    mmix_destroy(m);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        int dtype = dtypes[i];
        CHECK(memory_fails(loaded, &dtype, 0, 3) > 10);
        CHECK(memory_fails(loaded, &dtype, 1, 3) > 10);
    }
}

/* Writes an archive's arrays as float32, and those metadata that it has. 0, or 1. */
static int rewrite(const char *from, const char *to, char **keys, int n_keys)
{
    const char *words[65];
    mmix_ctx *m = context(2, 0);
    mmix_archive *a = mmix_archive_open(m, from);
    const size_t count = mmix_archive_count(a);
    mmix_entry *e = (mmix_entry *)calloc(count + 1, sizeof *e);
    size_t n = 0, n_words = 0;
    for (size_t i = 0; i < count; i++) {
        e[n] = *mmix_archive_entry(a, i);
        if (e[n].dtype == MMIX_FILE_OTHER) continue;
        const size_t elements = mmix_entry_count(&e[n]);
        float *values_of = (float *)malloc((elements + 1) * sizeof *values_of);
        mmix_archive_read(m, a, &e[n], MMIX_FILE_F32, values_of, elements);
        e[n].dtype = MMIX_FILE_F32;
        e[n++].data = values_of;
    }
    for (int i = 0; i < n_keys && n_words < 64; i++) {
        const char *text = mmix_archive_metadata(a, keys[i]);
        if (!text) continue;
        words[n_words++] = keys[i];
        words[n_words++] = text;
    }
    words[n_words] = NULL;
    if (a && !mmix_error(m)) mmix_archive_save(m, to, e, n, words);
    const int bad = mmix_error(m) != NULL;
    if (bad) puts(mmix_error(m));
    while (n > 0) free((void *)(uintptr_t)e[--n].data);
    free(e);
    mmix_archive_close(a);
    mmix_destroy(m);
    return bad;
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "blocks", blocks }, { "blocks are floats", blocks_are_floats }, { "plain", plain },
        { "shapes", shapes }, { "alignments", alignments }, { "metadata", metadata },
        { "headers", headers }, { "values", values_refused }, { "arrays", arrays_refused },
        { "places", places }, { "unread", unread }, { "damage", damage }, { "memory", memory },
        { "decoders", decoders }, { "decoders refused", decoders_refused },
        { "decoders allowed", decoders_allowed }, { "other sizes", decoders_of_other_sizes },
        { "four bits", four_bits }, { "decoder memory", decoder_memory }
    };
    if (argc > 3 && !strcmp(argv[1], "--read"))
        return rewrite(argv[2], argv[3], argv + 4, argc - 4);
    mkdir("build", 0777);
    mkdir(FOLDER, 0777);
    const int bad = sections(all, sizeof all / sizeof all[0], argc, argv);
    remove(PATH);
    remove(HF_PATH);
    remove(FOLDER "/config.json");
    remove(FOLDER);
    return bad;
}
