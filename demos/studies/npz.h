/* npz.h - np.savez_compressed's files for mmix_archive_open, which reads .npz that are stored only

       mmix_archive *a = npz_open(m, "weights.npz");       // NULL: mmix_error(m) says why

   A .npz is a zip of .npy files (PKWARE's APPNOTE 6.3), each deflated (RFC 1951). A copy of the zip
   in memory has them stored, and goes to mmix_archive_open_memory, which checks their sums. What
   is no zip, has nothing deflated in it, or is not laid out as a zip has to be goes to
   mmix_archive_open as it is, which opens it or says what is wrong. Zip64 is not unpacked.

   Include mamba_mix.h before this. */
#ifndef NPZ_H
#define NPZ_H

#include "bytes.h"

/* ---- inflate --------------------------------------------------------------------------------- */

enum { NPZ_LONGEST = 15, NPZ_CODES = 1 << NPZ_LONGEST, NPZ_SYMBOLS = 288 };

/* For the next 15 bits of the stream the symbol that they begin with, times 16, plus its length in
   bits; 0: no symbol begins so. */
typedef struct npz_table { uint16_t at[NPZ_CODES]; } npz_table;

typedef struct npz_stream {
    const uint8_t *in, *end;
    uint64_t held;                               /* `count` bits, the next one lowest */
    unsigned count;
    int broken;
    uint8_t *out;
    size_t made, room;
    npz_table literals, distances;
} npz_stream;

static inline unsigned npz_peek(npz_stream *s)   /* the next 15 bits, zeros behind the end */
{
    while (s->count <= 48 && s->in < s->end) {
        s->held |= (uint64_t)*s->in++ << s->count;
        s->count += 8;
    }
    return (unsigned)(s->held & (NPZ_CODES - 1));
}
static inline void npz_drop(npz_stream *s, unsigned bits)
{
    if (bits > s->count) {
        s->broken = 1;
        bits = s->count;
    }
    s->held >>= bits;
    s->count -= bits;
}
static inline unsigned npz_bits(npz_stream *s, unsigned bits)    /* at most 15 */
{
    unsigned value = npz_peek(s) & ((1u << bits) - 1);
    npz_drop(s, bits);
    return value;
}
static inline unsigned npz_symbol(npz_stream *s, const npz_table *table)
{
    unsigned entry = table->at[npz_peek(s)];
    if (!entry) s->broken = 1;
    npz_drop(s, entry & 15);
    return entry >> 4;
}

/* The table of a canonical code, of which n symbols have these lengths (3.2.2). 0, or -1 if there
   are more codes than fit. Codes that are not used are found where one is read. */
static inline int npz_table_make(npz_table *table, const uint8_t *length, unsigned n)
{
    unsigned count[NPZ_LONGEST + 1] = {0}, next[NPZ_LONGEST + 2] = {0};
    memset(table, 0, sizeof *table);
    for (unsigned i = 0; i < n; i++) count[length[i]]++;
    for (unsigned bits = 1; bits <= NPZ_LONGEST; bits++) {
        unsigned before = bits > 1 ? count[bits - 1] : 0;
        next[bits] = (next[bits - 1] + before) << 1;
        if (next[bits] + count[bits] > 1u << bits) return -1;
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned bits = length[i], turned = 0;
        if (!bits) continue;
        unsigned code = next[bits]++;            /* its highest bit comes first */
        for (unsigned b = 0; b < bits; b++) turned |= (code >> b & 1) << (bits - 1 - b);
        for (; turned < NPZ_CODES; turned += 1u << bits)
            table->at[turned] = (uint16_t)(i << 4 | bits);
    }
    return 0;
}

/* The two codes of a block: the fixed ones (3.2.6), or read (3.2.7). */
static inline void npz_codes_fixed(npz_stream *s)
{
    uint8_t length[NPZ_SYMBOLS];
    for (int i = 0; i < NPZ_SYMBOLS; i++) {
        length[i] = 8;
        if (i >= 144 && i < 256) length[i] = 9;
        if (i >= 256 && i < 280) length[i] = 7;
    }
    npz_table_make(&s->literals, length, NPZ_SYMBOLS);
    memset(length, 5, 30);
    npz_table_make(&s->distances, length, 30);
}
static inline void npz_codes_read(npz_stream *s)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1,
                                      15};
    uint8_t length[32 + NPZ_SYMBOLS] = {0};
    unsigned literals = npz_bits(s, 5) + 257;
    unsigned distances = npz_bits(s, 5) + 1;
    unsigned lengths = npz_bits(s, 4) + 4;
    for (unsigned i = 0; i < lengths; i++) length[order[i]] = (uint8_t)npz_bits(s, 3);
    if (literals > NPZ_SYMBOLS || npz_table_make(&s->literals, length, 19)) s->broken = 1;
    memset(length, 0, sizeof length);
    for (unsigned i = 0; i < literals + distances && !s->broken;) {
        unsigned symbol = npz_symbol(s, &s->literals), times = 1;
        uint8_t value = (uint8_t)symbol;
        if (symbol == 16) {                      /* the one before, again */
            if (!i) s->broken = 1;
            else value = length[i - 1];
            times = 3 + npz_bits(s, 2);
        }
        if (symbol > 16) {
            value = 0;
            times = symbol == 17 ? 3 + npz_bits(s, 3) : 11 + npz_bits(s, 7);
        }
        if (times > literals + distances - i) s->broken = 1;
        for (; times > 0 && !s->broken; times--) length[i++] = value;
    }
    if (s->broken || npz_table_make(&s->literals, length, literals)
        || npz_table_make(&s->distances, length + literals, distances)) s->broken = 1;
}

static inline void npz_block_stored(npz_stream *s)
{
    npz_bits(s, s->count & 7);                   /* what is held are whole bytes and these bits */
    unsigned low = npz_bits(s, 8), length = npz_bits(s, 8) << 8 | low;
    low = npz_bits(s, 8);
    unsigned check = npz_bits(s, 8) << 8 | low;
    if ((length ^ check) != 0xFFFF || length > s->room - s->made) s->broken = 1;
    for (; length > 0 && !s->broken; length--) s->out[s->made++] = (uint8_t)npz_bits(s, 8);
}

/* Literals and copies until the block's end (3.2.5). Lengths grow by four classes of as many bits
   more, distances by two. */
static inline void npz_block(npz_stream *s)
{
    while (!s->broken) {
        unsigned symbol = npz_symbol(s, &s->literals);
        if (s->broken || symbol == 256) return;
        if (symbol < 256) {
            if (s->made == s->room) s->broken = 1;
            else s->out[s->made++] = (uint8_t)symbol;
            continue;
        }
        unsigned l = symbol - 257, length = 3 + l;
        if (l >= 8 && l < 28) {
            unsigned extra = l / 4 - 1;
            length = 3 + ((4 + l % 4) << extra) + npz_bits(s, extra);
        }
        if (l == 28) length = 258;
        if (l > 28) s->broken = 1;
        unsigned d = npz_symbol(s, &s->distances), distance = 1 + d;
        if (d >= 4 && d < 30) {
            unsigned extra = d / 2 - 1;
            distance = 1 + ((2 + d % 2) << extra) + npz_bits(s, extra);
        }
        if (d >= 30 || distance > s->made || length > s->room - s->made) s->broken = 1;
        for (; length > 0 && !s->broken; length--, s->made++)
            s->out[s->made] = s->out[s->made - distance];
    }
}

/* Unpacks `size` deflated bytes, all of them, to exactly `room` bytes. 0, or -1 if they do not make
   so many. `s` is scratch. */
static inline int npz_inflate(npz_stream *s, const uint8_t *in, size_t size, uint8_t *out,
                              size_t room)
{
    s->in = in;
    s->end = in + size;
    s->held = 0;
    s->count = 0;
    s->broken = 0;
    s->out = out;
    s->made = 0;
    s->room = room;
    for (unsigned last = 0; !last && !s->broken;) {
        last = npz_bits(s, 1);
        unsigned kind = npz_bits(s, 2);
        if (kind == 0) npz_block_stored(s);
        if (kind == 1) npz_codes_fixed(s);
        if (kind == 2) npz_codes_read(s);
        if (kind == 3) s->broken = 1;
        if (kind == 1 || kind == 2) npz_block(s);
    }
    int left_over = s->in != s->end || s->count > 7;
    return s->broken || s->made != room || left_over ? -1 : 0;
}

/* ---- zip ------------------------------------------------------------------------------------- */

enum { NPZ_LOCAL = 30, NPZ_CENTRAL = 46, NPZ_END = 22 };         /* bytes of the three headers */

static inline uint32_t npz_u16(const uint8_t *p) { return (uint32_t)(p[0] | p[1] << 8); }
static inline uint32_t npz_u32(const uint8_t *p) { return npz_u16(p) | npz_u16(p + 2) << 16; }
static inline void npz_put(uint8_t *p, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(value >> 8 * i & 255);
}

/* An entry of the directory. */
typedef struct npz_entry {
    const uint8_t *central, *name, *data;
    uint32_t method, packed, size, name_length;
} npz_entry;

/* The directory of a zip without a comment: where it begins, and how many entries; 0: it is not
   one, or is a Zip64. */
static inline uint32_t npz_directory(const uint8_t *bytes, size_t size, size_t *at)
{
    if (size < NPZ_END || npz_u32(bytes) != 0x04034b50) return 0;
    const uint8_t *end = bytes + size - NPZ_END;
    *at = npz_u32(end + 16);
    return npz_u32(end) == 0x06054b50 && *at < size ? npz_u16(end + 10) : 0;
}

/* The entry at place `at` of the directory; returns where the next one is, 0 if something does not
   lie inside of the file or has a size that deflate cannot reach. */
static inline size_t npz_next(const uint8_t *bytes, size_t size, size_t at, npz_entry *e)
{
    enum { MOST_RATIO = 1032 };
    if (at > size || size - at < NPZ_CENTRAL || npz_u32(bytes + at) != 0x02014b50) return 0;
    e->central = bytes + at;
    e->method = npz_u16(e->central + 10);
    e->packed = npz_u32(e->central + 20);
    e->size = npz_u32(e->central + 24);
    e->name_length = npz_u16(e->central + 28);
    e->name = e->central + NPZ_CENTRAL;
    size_t local = npz_u32(e->central + 42);
    size_t next = at + NPZ_CENTRAL + e->name_length + npz_u16(e->central + 30)
        + npz_u16(e->central + 32);
    if (next > size || local > size || size - local < NPZ_LOCAL
        || npz_u32(bytes + local) != 0x04034b50) return 0;
    local += NPZ_LOCAL + npz_u16(bytes + local + 26) + npz_u16(bytes + local + 28);
    if (local > size || e->packed > size - local) return 0;
    if (e->size / MOST_RATIO > e->packed || (e->method && e->method != 8)) return 0;
    if (!e->method && e->packed != e->size) return 0;
    e->data = bytes + local;
    return next;
}

/* Writes an entry's header at p, `fixed` bytes and the name. */
static inline void npz_header(uint8_t *p, const npz_entry *e, uint32_t fixed, uint32_t local)
{
    int central = fixed == NPZ_CENTRAL;
    uint8_t *sums = p + (central ? 16 : 14);
    memset(p, 0, fixed);
    npz_put(p, central ? 0x02014b50 : 0x04034b50, 4);
    memcpy(sums, e->central + 16, 4);                            /* CRC-32 of what is unpacked */
    npz_put(sums + 4, e->size, 4);
    npz_put(sums + 8, e->size, 4);
    npz_put(sums + 12, e->name_length, 2);
    if (central) npz_put(p + 42, local, 4);
    memcpy(p + fixed, e->name, e->name_length);
}

/* How many bytes the copy takes; 0: there is nothing to unpack, or the file is not as it has to
   be. */
static inline size_t npz_copy_size(const uint8_t *bytes, size_t size)
{
    size_t at = 0, sum = NPZ_END;
    uint32_t entries = npz_directory(bytes, size, &at), deflated = 0;
    npz_entry e;
    for (uint32_t i = 0; i < entries; i++) {
        at = npz_next(bytes, size, at, &e);
        if (!at || sum > UINT32_MAX / 4 || e.size > UINT32_MAX / 4) return 0;
        sum += NPZ_LOCAL + NPZ_CENTRAL + 2 * (size_t)e.name_length + e.size;
        deflated += e.method == 8;
    }
    return deflated ? sum : 0;
}

/* Fills the copy in. 0, or -1. */
static inline int npz_copy(mmix_ctx *m, const char *path, const uint8_t *bytes, size_t size,
                           npz_stream *s, uint8_t *out, size_t room)
{
    size_t at = 0, to = 0, directory;
    uint32_t entries = npz_directory(bytes, size, &at);
    uint8_t *end = out + room - NPZ_END;
    npz_entry e;
    directory = room - NPZ_END;                          /* it ends where the end begins */
    for (uint32_t i = 0; i < entries; i++) {
        at = npz_next(bytes, size, at, &e);
        directory -= NPZ_CENTRAL + (size_t)e.name_length;
    }
    npz_put(end, 0x06054b50, 4);
    memset(end + 4, 0, NPZ_END - 4);
    npz_put(end + 8, entries, 2);
    npz_put(end + 10, entries, 2);
    npz_put(end + 12, (uint32_t)(room - NPZ_END - directory), 4);
    npz_put(end + 16, (uint32_t)directory, 4);
    npz_directory(bytes, size, &at);
    for (uint32_t i = 0; i < entries; i++) {
        at = npz_next(bytes, size, at, &e);
        npz_header(out + directory, &e, NPZ_CENTRAL, (uint32_t)to);
        npz_header(out + to, &e, NPZ_LOCAL, 0);
        directory += NPZ_CENTRAL + (size_t)e.name_length;
        to += NPZ_LOCAL + (size_t)e.name_length;
        if (!e.method) memcpy(out + to, e.data, e.size);
        else if (npz_inflate(s, e.data, e.packed, out + to, e.size))
            return mmix_fail(m, MMIX_ERROR_FILE, "%s: entry \"%.*s\": expected %.0f bytes when it "
                             "is unpacked, found a broken stream", path, (int)e.name_length,
                             (const char *)e.name, (double)e.size);
        to += e.size;
    }
    return 0;
}

/* See above; the caller closes what it returns. */
static inline mmix_archive *npz_open(mmix_ctx *m, const char *path)
{
    mmix_archive *a = NULL;
    size_t size = 0;
    uint8_t *bytes = bytes_load(m, path, &size);
    size_t room = bytes ? npz_copy_size(bytes, size) : 0;
    if (room) {
        npz_stream *s = (npz_stream *)bytes_alloc(m, 1, sizeof *s);
        uint8_t *copy = (uint8_t *)bytes_alloc(m, room, 1);
        if (s && copy && !npz_copy(m, path, bytes, size, s, copy, room))
            a = mmix_archive_open_memory(m, path, copy, room);
        BYTES_FREE(s);
        BYTES_FREE(copy);
    } else if (bytes) a = mmix_archive_open(m, path);
    BYTES_FREE(bytes);
    return a;
}

#endif
