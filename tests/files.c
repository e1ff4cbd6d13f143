/* files.c - archives: what is written comes back, and what is wrong is refused

   Run from the repository's root; writes into build/. With ../shared/reference there, its malformed
   files and its checkpoints are read as well. */
#include "json.h"

#define PATH "build/files_test.safetensors"

/* A context that may hold a megabyte: a length that is believed shows as an error of memory. */
static mmix_ctx *small_ctx(void)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    o.allocator.byte_limit = 1 << 20;
    return mmix_create(&o);
}
static int exists(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}
/* An archive of one entry is saved, or one in memory (bytes NULL: a file) opened and closed: the
   context holds what it held. */
typedef struct source {
    const char *path;
    const void *bytes;
    size_t size;
    const mmix_entry *entry;
} source;
static int filed(const mmix_options *options, void *user)
{
    static const char *const metadata[] = {"a", "b", NULL};
    const source *s = (const source *)user;
    mmix_options o = *options;
    o.allocator.byte_limit = 1 << 20;
    mmix_ctx *m = mmix_create(&o);
    if (!m) return MMIX_ERROR_MEMORY;
    const size_t before = mmix_memory(m).bytes;
    mmix_archive *a;
    if (s->entry) a = NULL;
    else if (s->bytes)
        a = mmix_archive_open_memory(m, s->path, s->bytes, s->size);
    else a = mmix_archive_open(m, s->path);
    const int done = s->entry ? !mmix_archive_save(m, s->path, s->entry, 1, metadata) : a != NULL;
    const int kind = mmix_error_kind(m);
    CHECK(done == !kind && !exists(PATH ".tmp"));
    mmix_archive_close(a);
    CHECK(mmix_memory(m).bytes == before);
    mmix_destroy(m);
    return kind;
}

static uint64_t bits_of(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, 8);
    return bits;
}

/* A file in memory: the header as it stands and n bytes of data, 0, 1, 2, …; *size is its
   length. */
static unsigned char *make(const char *header, size_t header_length, size_t n, size_t *size)
{
    unsigned char *file = (unsigned char *)malloc(8 + header_length + n + 1);
    for (size_t i = 0; i < 8; i++)
        file[i] = (unsigned char)((uint64_t)header_length >> 8 * i);
    memcpy(file + 8, header, header_length);
    for (size_t i = 0; i < n; i++)
        file[8 + header_length + i] = (unsigned char)i;
    *size = 8 + header_length + n;
    return file;
}

/* Reads everything an archive has to give. */
static int walk(mmix_ctx *m, const mmix_archive *a)
{
    int bad = 0;
    for (size_t i = 0; i < mmix_archive_count(a); i++) {
        const mmix_entry *e = mmix_archive_entry(a, i);
        size_t n = mmix_entry_count(e);
        double *d = (double *)malloc((n + 1) * sizeof *d);
        mmix_real *r = (mmix_real *)malloc((n + 1) * sizeof *r);
        int64_t *k = (int64_t *)malloc((n + 1) * sizeof *k);
        bad += mmix_archive_find(a, e->name) != e;
        if (e->dtype == MMIX_FILE_OTHER) {       /* listed; reading it fails by name */
            bad += !mmix_archive_read(m, a, e, MMIX_FILE_F64, d, n);
            bad += !mmix_error(m) || !strstr(mmix_error(m), "numbers that can be read");
            mmix_error_clear(m);
            free(d);
            free(r);
            free(k);
            continue;
        }
        bad += mmix_archive_read(m, a, e, MMIX_FILE_F64, d, n) != 0;
        bad += mmix_archive_read(m, a, e, MMIX_FILE_REAL, r, n) != 0;
        /* some are too large */
        bad += e->dtype >= MMIX_FILE_I64 && e->dtype != MMIX_FILE_U64
            && mmix_archive_read(m, a, e, MMIX_FILE_I64, k, n) != 0;
        free(d);
        free(r);
        free(k);
    }
    return !bad;
}

/* 1: a valid archive, 0: refused as it should be, -1: a leak, no message, a large allocation. */
static int outcome(mmix_ctx *m, const void *bytes, size_t size)
{
    const size_t before = mmix_memory(m).bytes;
    mmix_archive *a = mmix_archive_open_memory(m, "memory", bytes, size);
    int result = a != NULL;
    if (a && !walk(m, a)) result = -1;
    if (!a && (mmix_error_kind(m) != MMIX_ERROR_FILE || strlen(mmix_error(m)) < 20
        || strchr(mmix_error(m), '\n')))
        result = -1;
    mmix_archive_close(a);
    mmix_error_clear(m);
    return mmix_memory(m).bytes == before ? result : -1;
}

/* Whether the first n bytes of a file are refused with the advice for what is cut. Of fewer than 8
   nobody can say what they were. */
static int refused_as_cut(mmix_ctx *m, const unsigned char *file, size_t n)
{
    /* so that a sanitizer sees a read beyond */
    unsigned char *cut = (unsigned char *)malloc(n ? n : 1);
    memcpy(cut, file, n);
    mmix_archive *a = mmix_archive_open_memory(m, "memory", cut, n);
    const char *advice = n > 8 ? "cut, download it again" : "expected";
    int refused = !a && mmix_error(m) && strstr(mmix_error(m), advice);
    if (!refused) printf("    cut after %u bytes: %s\n", (unsigned)n, mmix_error(m));
    mmix_archive_close(a);
    mmix_error_clear(m);
    refused = refused && outcome(m, cut, n) == 0;
    free(cut);
    return refused;
}
static int outcome_header(mmix_ctx *m, const char *header, size_t n)
{
    size_t size;
    unsigned char *file = make(header, strlen(header), n, &size);
    int result = outcome(m, file, size);
    free(file);
    return result;
}

/* ---- headers that are wrong ---- */

#define F32 "\"dtype\":\"F32\","
#define I32 "\"dtype\":\"I32\","
#define I8 "\"dtype\":\"I8\","
#define U8 "\"dtype\":\"U8\","
#define SHAPE "\"shape\":"
#define AT "\"data_offsets\":"
#define A "{\"a\":{" F32 SHAPE "[3]," AT "[0,12]}"

static void headers(void)
{
    static const char *const good[] = {
        A "}", A "}   ", " \n" A "\t}\r",
        "{ \"a\" : { \"shape\" : [ 3 , 1 ] , " AT "[ 0,12 ],\"dtype\":\"F32\"} }",
        A ",\"__metadata__\":{}}", A ",\"b\":{" I8 SHAPE "[0]," AT "[12,12]}}",
        A ",\"b\":{" I8 SHAPE "[0]," AT "[0,0]}}",
        "{\"a\":{" F32 SHAPE "[1,1,1,1,1,1,1,3]," AT "[0,12],\"more\":[null,true,-1.5e+3]}}",
        "{\"a\":{\"dtype\":\"BOOL\"," SHAPE "[12]," AT "[0,12]}}", "{\"\":{" U8 SHAPE "[12]," AT "[0,12]}}",
        "{\"\\ud83d\\uDE00\\u00e9\\/\\\"\\\\\\n\":{" U8 SHAPE "[12]," AT "[0,12]}}"
    };
    static const char *const bad[] = {
        "",
        " ",
        "hello, world",
        "{",
        A,
        A "}}",
        A "} x",
        A ",}",
        A ",,}",
        "[1,2,3]",
        "null",
        "12",
        "\"a\"",
        "{}",
        "{\"a\":1}",
        "{\"a\":[]}",
        "{\"a\":{}}",
        "{\"__metadata__\":{}}",
        A ",\"__metadata__\":1}",
        A ",\"__metadata__\":[]}",
        A ",\"__metadata__\":{\"k\":1}}",
        A ",\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}",
        A ",\"__metadata__\":{},\"__metadata__\":{}}",
        A ",\"b\":{" I8 SHAPE "[0]," AT "[6,6]}}",                 /* empty, inside a */
        A ",\"b\":{" F32 SHAPE "[2]," AT "[4,12]}}",               /* overlapping */
        "{\"a\":{" F32 SHAPE "[2]," AT "[4,12]},\"b\":{" F32 SHAPE "[1]," AT "[8,12]}}", /* both */
        "{\"\\n\":{" F32 SHAPE "[3]}}", /* the message stays one line */
        A ",\"a\":{" F32 SHAPE "[0]," AT "[12,12]}}", /* the same name */
        A ",\"\\u0061\":{" F32 SHAPE "[0]," AT "[12,12]}}",
        "{\"a\":{" F32 SHAPE "[2]," AT "[0,8]}}", /* data left over */
        "{\"a\":{" F32 SHAPE "[2]," AT "[4,12]}}", /* a gap */
        "{\"a\":{" F32 SHAPE "[4]," AT "[0,16]}}", /* beyond the end */
        "{\"a\":{" F32 SHAPE "[3]," AT "[12,0]}}",
        "{\"a\":{" F32 SHAPE "[3]," AT "[-12,0]}}",
        "{\"a\":{" F32 SHAPE "[-3,-1]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[1.5,2]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[3.0]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[3e0]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[03]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[+3]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[\"3\"]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[true]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[[3]]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "3," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[4611686018427387907]," AT "[0,12]}}", /* bytes 12 modulo 2^64 */
        "{\"a\":{" F32 SHAPE "[4294967296,4294967296,3]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[18446744073709551619]," AT "[0,12]}}", /* 3 modulo 2^64 */
        "{\"a\":{" F32 SHAPE "[3]," AT "[0,18446744073709551628]}}",
        "{\"a\":{" F32 SHAPE "[1,1,1,1,1,1,1,1,3]," AT "[0,12]}}", /* nine axes */
        "{\"a\":{\"dtype\":\"F64\"," SHAPE "[3]," AT "[0,12]}}",
        "{\"a\":{\"dtype\":\"F99\"," SHAPE "[3]," AT "[0,12]}}",
        "{\"a\":{\"dtype\":\"\"," SHAPE "[3]," AT "[0,12]}}",
        "{\"a\":{\"dtype\":7," SHAPE "[3]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[3]}}",
        "{\"a\":{" F32 AT "[0,12]}}",
        "{\"a\":{" SHAPE "[3]," AT "[0,12]}}",
        "{\"a\":{" F32 SHAPE "[3]," AT "[0]}}",
        "{\"a\":{" F32 SHAPE "[3]," AT "[0,12,12]}}",
        "{\"a\":{" F32 SHAPE "[3]," AT "12}}",
        "{\"a\":{" F32 SHAPE "[3]," AT "{\"0\":0,\"1\":12}}}",
        "{\"a\":{" F32 "\"dtype\":\"F32\"," SHAPE "[3]," AT "[0,12]}}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        A ",\"b\":tru}",
        A ",\"b\":nulll}",
        A ",\"b\":-}",
        A ",\"b\":1.}",
        A ",\"b\":.5}",
        A ",\"b\":1e}",
        A ",\"b\":\"}",
        A ",\"b\":true.5}",
        A ",\"b\":nulle7}",
        A ",\"b\":false0}"
    };
    /* What may not stand in a string: lone surrogates, U+0000, control characters, what is not
       UTF-8. */
    static const char *const good_text[] = {"x", "\\u0001", "\\ud83d\\ude00", "\\b\\f\\n\\r\\t\\/",
        "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF",
        "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "\x7F"};
    static const char *const bad_text[] = {"\\u0000", "\\ud800", "\\ud800x", "\\ud800\\u0041",
        "\\ud800\\ue000", "\\udc00", "\\u12", "\\u12g4", "\\x41", "\\", "\n",
        "\x01", "\x80", "\xFF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xE2\x82",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x90\x80"};
    mmix_ctx *m = small_ctx();
    char text[512];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_AT(outcome_header(m, good[i], 12) == 1, good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_AT(outcome_header(m, bad[i], 12) == 0, bad[i]);
    CHECK(outcome_header(m, "{}", 0) == 1);
    CHECK(outcome_header(m, "{\"__metadata__\":{\"k\":\"v\"}}", 0) == 1);
    for (size_t i = 0; i < sizeof good_text / sizeof *good_text; i++) {
        snprintf(text, sizeof text, "{\"%s\":{" I32 SHAPE "[3]," AT "[0,12]}}", good_text[i]);
        CHECK_AT(outcome_header(m, text, 12) == 1, good_text[i]);
    }
    for (size_t i = 0; i < sizeof bad_text / sizeof *bad_text; i++) {
        snprintf(text, sizeof text, "{\"%s\":{" I32 SHAPE "[3]," AT "[0,12]}}", bad_text[i]);
        CHECK_AT(outcome_header(m, text, 12) == 0, bad_text[i]);
        snprintf(text, sizeof text, A ",\"__metadata__\":{\"k\":\"%s\"}}", bad_text[i]);
        CHECK_AT(outcome_header(m, text, 12) == 0, bad_text[i]);
    }

    /* Lengths of the header. */
    size_t size;
    unsigned char *file = make(A "}", strlen(A "}"), 12, &size);
    for (int i = 0; i < 64; i++) {
        uint64_t length = ((uint64_t)1 << i) + (i == 63 ? 5 : strlen(A "}"));
        for (int j = 0; j < 8; j++)
            file[j] = (unsigned char)(length >> 8 * j);
        CHECK(outcome(m, file, size) == 0);
    }
    memset(file, 255, 8);
    CHECK(outcome(m, file, size) == 0);
    free(file);

    /* Depth. */
    for (size_t depth = 60; depth < 60000; depth = depth < 70 ? depth + 1 : depth * 9) {
        char *deep = (char *)malloc(2 * depth + 200), *d = deep;
        d += sprintf(d, A ",\"b\":");
        memset(d, '[', depth);
        d += depth;
        memset(d, ']', depth);
        d += depth;
        strcpy(d, "}");
        CHECK(outcome_header(m, deep, 12) == 0);                  /* b is no entry at any depth */
        d = deep + sprintf(deep, "{\"a\":{" I32 SHAPE "[3]," AT "[0,12],\"b\":");
        memset(d, '[', depth);
        d += depth;
        memset(d, ']', depth);
        d += depth;
        strcpy(d, "}}");
        /* two objects and 62 more levels */
        CHECK(outcome_header(m, deep, 12) == (depth <= 62));
        free(deep);
    }
    mmix_destroy(m);
}

/* ---- every truncation, every byte ---- */

static void damage(void)
{
    static const char header[] = "{\"__metadata__\":{\"k\":\"\\u00e9\"},\"w.a\":{" F32 SHAPE
                                 "[2,3]," AT "[8,32]},\"b\":{\"dtype\":\"I64\"," SHAPE "[]," AT
                                 "[0,8]},"
                                 "\"e\":{\"dtype\":\"BF16\"," SHAPE "[0,3]," AT "[32,32]}}";
    mmix_ctx *m = small_ctx();
    size_t size, valid = 0, wrong = 0;
    unsigned char *file = make(header, sizeof header - 1, 32, &size);
    CHECK(outcome(m, file, size) == 1);
    for (size_t n = 0; n < size; n++) CHECK(refused_as_cut(m, file, n));
    for (size_t i = 0; i < size; i++)
        for (int x = 1; x < 256; x++) {
            file[i] = (unsigned char)(file[i] ^ x);
            int result = outcome(m, file, size);
            valid += result == 1;
            wrong += result < 0;
            file[i] = (unsigned char)(file[i] ^ x);
        }
    CHECK(wrong == 0);
    /* data may be anything, a header not */
    CHECK(valid >= 32 * 255 && valid < (size - 8) * 255 / 2);
    free(file);
    mmix_destroy(m);
}

/* ---- zip, .npz, .pth ---- */

typedef struct zip {
    unsigned char bytes[8192], directory[2048];
    size_t size, listed, members;
} zip;
static size_t put_number(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
    return (size_t)bytes;
}
static uint64_t number_of(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    while (bytes-- > 0) value = value << 8 | from[bytes];
    return value;
}
static uint32_t crc32_of(const void *data, size_t n)                 /* of zip */
{
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
    }
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ ((const unsigned char *)data)[i]) & 255];
    return ~crc;
}
static void zip_add(zip *z, const char *name, const void *data, size_t size)
{
    const size_t length = strlen(name), at = z->size;
    unsigned char *b = z->bytes + z->size;
    unsigned char *d = z->directory + z->listed;
    memset(b, 0, 30);
    memset(d, 0, 46);
    put_number(b, 0x04034b50, 4);
    put_number(d, 0x02014b50, 4);
    put_number(b + 14, crc32_of(data, size), 4);
    memcpy(d + 16, b + 14, 4);
    put_number(b + 18, size, 4);
    put_number(b + 22, size, 4);
    put_number(b + 26, length, 2);
    put_number(d + 20, size, 4);
    put_number(d + 24, size, 4);
    put_number(d + 28, length, 2);
    put_number(d + 42, at, 4);
    memcpy(b + 30, name, length);
    memcpy(d + 46, name, length);
    memcpy(b + 30 + length, data, size);
    z->size += 30 + length + size;
    z->listed += 46 + length;
    z->members++;
}
static void zip_end(zip *z)
{
    const size_t at = z->size;
    memcpy(z->bytes + at, z->directory, z->listed);
    unsigned char *e = z->bytes + at + z->listed;
    memset(e, 0, 22);
    put_number(e, 0x06054b50, 4);
    put_number(e + 8, z->members, 2);
    put_number(e + 10, z->members, 2);
    put_number(e + 12, z->listed, 4);
    put_number(e + 16, at, 4);
    z->size = at + z->listed + 22;
}
/* What torch.save of PyTorch 2.13 wrote for {'teacher': OrderedDict(backbone_w=w, t=w.t()), 'h':
   bfloat16 (1.5, -2), 'i': (3, 4), 'args': Namespace(lr=0.1, n=None), 'epoch': 7, 'p': Parameter(1,
   1)} with w = 0 … 5, 2 x 3. */
static const char torch_pickle[] =
    "\x80\x02\x7d\x71\x00\x28\x58\x07\x00\x00\x00\x74\x65\x61\x63\x68\x65\x72\x71\x01\x63\x63\x6f\x6c"
    "\x6c\x65\x63\x74\x69\x6f\x6e\x73\x0a\x4f\x72\x64\x65\x72\x65\x64\x44\x69\x63\x74\x0a\x71\x02\x29"
    "\x52\x71\x03\x28\x58\x0a\x00\x00\x00\x62\x61\x63\x6b\x62\x6f\x6e\x65\x5f\x77\x71\x04\x63\x74\x6f"
    "\x72\x63\x68\x2e\x5f\x75\x74\x69\x6c\x73\x0a\x5f\x72\x65\x62\x75\x69\x6c\x64\x5f\x74\x65\x6e\x73"
    "\x6f\x72\x5f\x76\x32\x0a\x71\x05\x28\x28\x58\x07\x00\x00\x00\x73\x74\x6f\x72\x61\x67\x65\x71\x06"
    "\x63\x74\x6f\x72\x63\x68\x0a\x46\x6c\x6f\x61\x74\x53\x74\x6f\x72\x61\x67\x65\x0a\x71\x07\x58\x01"
    "\x00\x00\x00\x30\x71\x08\x58\x03\x00\x00\x00\x63\x70\x75\x71\x09\x4b\x06\x74\x71\x0a\x51\x4b\x00"
    "\x4b\x02\x4b\x03\x86\x71\x0b\x4b\x03\x4b\x01\x86\x71\x0c\x89\x68\x02\x29\x52\x71\x0d\x74\x71\x0e"
    "\x52\x71\x0f\x58\x01\x00\x00\x00\x74\x71\x10\x68\x05\x28\x28\x68\x06\x68\x07\x68\x08\x68\x09\x4b"
    "\x06\x74\x71\x11\x51\x4b\x00\x4b\x03\x4b\x02\x86\x71\x12\x4b\x01\x4b\x03\x86\x71\x13\x89\x68\x02"
    "\x29\x52\x71\x14\x74\x71\x15\x52\x71\x16\x75\x58\x01\x00\x00\x00\x68\x71\x17\x68\x05\x28\x28\x68"
    "\x06\x63\x74\x6f\x72\x63\x68\x0a\x42\x46\x6c\x6f\x61\x74\x31\x36\x53\x74\x6f\x72\x61\x67\x65\x0a"
    "\x71\x18\x58\x01\x00\x00\x00\x31\x71\x19\x68\x09\x4b\x02\x74\x71\x1a\x51\x4b\x00\x4b\x02\x85\x71"
    "\x1b\x4b\x01\x85\x71\x1c\x89\x68\x02\x29\x52\x71\x1d\x74\x71\x1e\x52\x71\x1f\x58\x01\x00\x00\x00"
    "\x69\x71\x20\x68\x05\x28\x28\x68\x06\x63\x74\x6f\x72\x63\x68\x0a\x4c\x6f\x6e\x67\x53\x74\x6f\x72"
    "\x61\x67\x65\x0a\x71\x21\x58\x01\x00\x00\x00\x32\x71\x22\x68\x09\x4b\x02\x74\x71\x23\x51\x4b\x00"
    "\x4b\x02\x85\x71\x24\x4b\x01\x85\x71\x25\x89\x68\x02\x29\x52\x71\x26\x74\x71\x27\x52\x71\x28\x58"
    "\x04\x00\x00\x00\x61\x72\x67\x73\x71\x29\x63\x61\x72\x67\x70\x61\x72\x73\x65\x0a\x4e\x61\x6d\x65"
    "\x73\x70\x61\x63\x65\x0a\x71\x2a\x29\x81\x71\x2b\x7d\x71\x2c\x28\x58\x02\x00\x00\x00\x6c\x72\x71"
    "\x2d\x47\x3f\xb9\x99\x99\x99\x99\x99\x9a\x58\x01\x00\x00\x00\x6e\x71\x2e\x4e\x75\x62\x58\x05\x00"
    "\x00\x00\x65\x70\x6f\x63\x68\x71\x2f\x4b\x07\x58\x01\x00\x00\x00\x70\x71\x30\x63\x74\x6f\x72\x63"
    "\x68\x2e\x5f\x75\x74\x69\x6c\x73\x0a\x5f\x72\x65\x62\x75\x69\x6c\x64\x5f\x70\x61\x72\x61\x6d\x65"
    "\x74\x65\x72\x0a\x71\x31\x68\x05\x28\x28\x68\x06\x68\x07\x58\x01\x00\x00\x00\x33\x71\x32\x68\x09"
    "\x4b\x02\x74\x71\x33\x51\x4b\x00\x4b\x02\x85\x71\x34\x4b\x01\x85\x71\x35\x89\x68\x02\x29\x52\x71"
    "\x36\x74\x71\x37\x52\x71\x38\x88\x68\x02\x29\x52\x71\x39\x87\x71\x3a\x52\x71\x3b\x75\x2e";
enum { TORCH_PICKLE = sizeof torch_pickle - 1 };
static void torch_zip(zip *z, const char *pickle)
{
    static const float w[6] = { 0, 1, 2, 3, 4, 5 }, one[2] = { 1, 1 };
    static const int64_t i[2] = { 3, 4 };
    static const uint16_t h[2] = { 0x3fc0, 0xc000 };
    memset(z, 0, sizeof *z);
    zip_add(z, "archive/data.pkl", pickle, TORCH_PICKLE);
    zip_add(z, "archive/byteorder", "little", 6);
    zip_add(z, "archive/data/0", w, sizeof w);
    zip_add(z, "archive/data/1", h, sizeof h);
    zip_add(z, "archive/data/2", i, sizeof i);
    zip_add(z, "archive/data/3", one, sizeof one);
    zip_end(z);
}
static void numpy_array(zip *z, const char *name, const char *header, const void *data, size_t size)
{
    unsigned char npy[512] = "\x93NUMPY\1";
    const size_t length = strlen(header);
    put_number(npy + 8, length, 2);
    memcpy(npy + 10, header, length);
    memcpy(npy + 10 + length, data, size);
    zip_add(z, name, npy, 10 + length + size);
}
static double one_value(mmix_ctx *m, const mmix_archive *a, const char *name, size_t at)
{
    double d[16];
    const mmix_entry *e = mmix_archive_find(a, name);
    return e && mmix_entry_count(e) <= 16
                   && !mmix_archive_read(m, a, e, MMIX_FILE_F64, d, mmix_entry_count(e))
               ? d[at]
               : -99;
}
static void torch_and_numpy(void)
{
    static zip z, w;
    static const double numbers[4] = { 1, 2, 3, 4 };
    static const unsigned char big[4] = { 0x3f, 0x80, 0, 0 }, most[4] = { 0xff, 0xfe, 0xfd, 0xfc };
    mmix_ctx *m = small_ctx();
    char pickle[TORCH_PICKLE];
    size_t wrong = 0, valid = 0;
    torch_zip(&z, torch_pickle);
    mmix_archive *a = mmix_archive_open_memory(m, "memory", z.bytes, z.size);
    CHECK_AT(a && mmix_archive_count(a) == 5, mmix_error(m));
    CHECK(one_value(m, a, "teacher.backbone_w", 4) == 4 && one_value(m, a, "teacher.t", 1) == 3
          && one_value(m, a, "h", 1) == -2 && one_value(m, a, "i", 1) == 4
          && one_value(m, a, "p", 0) == 1);
    CHECK(mmix_archive_find(a, "teacher.t") && mmix_archive_find(a, "teacher.t")->shape[0] == 3);
    mmix_archive_close(a);
    memset(&w, 0, sizeof w);
    numpy_array(&w, "a.npy", "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }\n",
                numbers, sizeof numbers);
    numpy_array(&w, "b.npy", "{'descr': '>f4', 'fortran_order': False, 'shape': (), }\n", big,
                sizeof big);
    numpy_array(&w, "c.npy", "{'descr': '>u4', 'fortran_order': False, 'shape': (), }\n", most,
                sizeof most);
    numpy_array(&w, "d.npy", "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }\n", most,
                sizeof most);
    numpy_array(&w, "e.npy", "{'descr': '<u8', 'fortran_order': False, 'shape': (), }\n", numbers,
                sizeof *numbers);
    zip_end(&w);
    a = mmix_archive_open_memory(m, "memory", w.bytes, w.size);
    CHECK_AT(a && one_value(m, a, "a", 1) == 3 && one_value(m, a, "b", 0) == 1, mmix_error(m));
    CHECK(one_value(m, a, "c", 0) == 0xfffefdfc && one_value(m, a, "d", 0) == 0xfeff
          && one_value(m, a, "d", 1) == 0xfcfd);
    CHECK(one_value(m, a, "e", 0) == (double)0x3ff0000000000000u);
    mmix_archive_close(a);
    for (int bad = 0; bad < 8; bad++) {          /* headers that are no such dict */
        static const char *const header[] = {
            "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }\n",
            "{'descr': '<F8', 'fortran_order': True, 'shape': (2, 2), }\n",
            "{'descr': 'f8', 'fortran_order': True, 'shape': (2, 2), }\n",
            "{'descr': '<f8', 'shape': (2, 2), }\n",
            "{'descr': '<f8', 'fortran_order': 1, 'shape': (2, 2), }\n",
            "{'descr': '<f8', 'fortran_order': True, 'shape': (2,, 2), }\n",
            "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2) ",
            "{'descr': [('x', '<f8')], 'fortran_order': True, 'shape': (2, 2), }\n"
        };
        static zip one;
        memset(&one, 0, sizeof one);
        numpy_array(&one, "a.npy", header[bad], numbers, sizeof numbers);
        zip_end(&one);
        /* records are listed */
        CHECK_AT(outcome(m, one.bytes, one.size) == (bad == 0 || bad == 7), header[bad]);
    }
    /* the n-th allocation fails: a clean error, and nothing is left */
    for (int which = 0; which < 2; which++) {
        const zip *from = which ? &w : &z;
        source f = {"memory", from->bytes, from->size, NULL};
        CHECK(memory_fails(filed, &f, 1, 1) >= 9);
    }
    /* cut anywhere, any byte changed: refused (checksums), or as good as before */
    for (int which = 0; which < 2; which++) {
        zip *f = which ? &w : &z;
        for (size_t n = 0; n < f->size; n++) CHECK(refused_as_cut(m, f->bytes, n));
        for (size_t i = 0; i < f->size; i++)
            for (int bit = 0; bit < 8; bit++) {
                f->bytes[i] = (unsigned char)(f->bytes[i] ^ 1 << bit);
                wrong += outcome(m, f->bytes, f->size) < 0;
                f->bytes[i] = (unsigned char)(f->bytes[i] ^ 1 << bit);
            }
    }
    CHECK(wrong == 0);
    /* the pickle machine without the checksum's help */
    for (size_t i = 0; i < TORCH_PICKLE; i++)
        for (int x = 1; x < 256; x++) {
            memcpy(pickle, torch_pickle, sizeof pickle);
            pickle[i] = (char)(pickle[i] ^ x);
            torch_zip(&z, pickle);
            int result = outcome(m, z.bytes, z.size);
            wrong += result < 0;
            valid += result == 1;
        }
    if (getenv("FILES_SHOW"))
        printf("pickles: %d wrong, %d valid\n", (int)wrong, (int)valid);
    CHECK(wrong == 0 && valid > 1000 && valid < TORCH_PICKLE * 128);
    {                                            /* a name that is found within what is known */
        static const char evil[] = "\x80\x02}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(("
                                   "X\7\0\0\0storagec1 torch\nFloatStorage\n"
                                   "X\1\0\0\0"
                                   "0X\3\0\0\0cpuK\1tQK\0K\1\x85K\1\x85\x89}tRs.";
        memset(&z, 0, sizeof z);
        zip_add(&z, "archive/data.pkl", evil, sizeof evil - 1);
        zip_add(&z, "archive/data/0", "\0\0\x80\x3f", 4);
        zip_end(&z);
        CHECK(!mmix_archive_open_memory(m, "memory", z.bytes, z.size)
              && mmix_error_kind(m) == MMIX_ERROR_FILE);
        mmix_error_clear(m);
    }
    mmix_destroy(m);
}

/* A zip file of one member, whose name and place its directory lists `times` times (with other
   last letters). */
static unsigned char *zip_of(const char *name, const void *data, size_t n, size_t times,
                             size_t *size)
{
    const size_t length = strlen(name), entry = 46 + length, at = 30 + length + n;
    const uint32_t crc = crc32_of(data, n);
    unsigned char *z = (unsigned char *)calloc(at + times * entry + 22, 1);
    unsigned char *d = z + at;
    put_number(z, 0x04034b50, 4);
    put_number(z + 26, length, 2);
    memcpy(z + 30, name, length);
    memcpy(z + 30 + length, data, n);
    for (size_t i = 0; i < times; i++, d += entry) {
        put_number(d, 0x02014b50, 4);
        put_number(d + 16, crc, 4);
        put_number(d + 20, n, 4);
        put_number(d + 24, n, 4);
        put_number(d + 28, length, 2);
        memcpy(d + 46, name, length);
        for (size_t k = 0, rest = i; rest; k++, rest /= 26)
            d[46 + length - 1 - k] = (unsigned char)('a' + rest % 26);
    }
    put_number(d, 0x06054b50, 4);
    put_number(d + 8, times, 2);
    put_number(d + 10, times, 2);
    put_number(d + 12, times * entry, 4);
    put_number(d + 16, at, 4);
    *size = at + times * entry + 22;
    return z;
}
/* A folder whose name is longer than what is looked for. */
static void torch_long_folder(void)
{
    mmix_ctx *m = mmix_create(NULL);
    for (size_t length = 490; length < 520; length += 1) {
        char name[600];
        size_t size;
        memset(name, 'f', length);
        strcpy(name + length, "/data.pkl");
        unsigned char *file = zip_of(name, "\x80\x02}.", 4, 1, &size);
        mmix_archive *a = mmix_archive_open_memory(m, "memory", file, size);
        int fits = length + strlen("/data.pkl") < 512;
        CHECK((a != NULL) == fits);
        if (!fits) CHECK(strstr(mmix_error(m), "a folder with a shorter name"));
        mmix_error_clear(m);
        mmix_archive_close(a);
        free(file);
    }
    mmix_destroy(m);
}
/* Files that say more than they hold: refused soon, and with memory in proportion to their size.
   That of very many arrays without bytes is right. */
static void proportion(void)
{
    enum { N = 1 << 20 };
    char *text = (char *)malloc(N + 64);
    for (int kind = 0; kind < 12; kind++) {
        static const char empty_array[] =
            ",\"%zx\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
        static const char ops[] = "N}]('", *const headers[] = { "{\"a\":[0",
                                                                "{\"__metadata__\":{\"k\":\"v\"}" };
        mmix_options o;
        unsigned char *file;
        size_t size, at = 0;
        memset(&o, 0, sizeof o);
        o.threads = 1;
        mmix_ctx *m = mmix_create(&o);
        /* many numbers in a header; many members of no bytes */
        if (kind < 2) {
            at = (size_t)sprintf(text, "%s", headers[kind]);
            for (size_t i = 0; at < N - 64; i++) {
                if (kind) at += (size_t)sprintf(text + at, empty_array, i);
                else at += (size_t)sprintf(text + at, ",0");
            }
            at += (size_t)sprintf(text + at, kind ? "}" : "]}");
            file = make(text, at, 0, &size);
        }
        else if (kind < 7) {                     /* a value for each byte of a pickle */
            memset(text, ops[kind - 2], N);
            memcpy(text, "\x80\x02", 2);
            file = zip_of("archive/data.pkl", text, N, 1, &size);
        }
        else if (kind == 7)
            file = zip_of("archive/data.pkl", "\x80\x02}r\xff\xff\xff\x0f.", 9, 1,
                          &size); /* memo 2^28 */
        else if (kind == 8)
            file = zip_of("archive/aaaaa.npy", text, N / 4, 20000, &size); /* all the same bytes */
        else if (kind == 9)
            file = zip_of("aaaaa.npy", text, 1, 60000, &size);
        else {                                   /* one number, seen as very many by strides of 0 */
            static const char tensor[] = "\x80\x02}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n(("
                                         "X\7\0\0\0storagectorch\nFloatStorage\n"
                                         "X\1\0\0\0"
                                         "0X\3\0\0\0cpuK\1tQK\0";
            zip *z = (zip *)calloc(1, sizeof *z);
            memcpy(text, tensor, sizeof tensor - 1);
            at = sizeof tensor - 1;
            /* 2^24 x 2^16, then 2^48 x 2^48 */
            static const char wide[] = "J\0\0\0\1J\0\0\1\0\x86K\0K\0\x86\x89}tRs.",
                wider[] = "\x8a\7\0\0\0\0\0\0\1\x8a\7\0\0\0\0\0\0\1\x86K\0K\0\x86\x89}tRs.";
            if (kind == 10) memcpy(text + at, wide, sizeof wide);
            else memcpy(text + at, wider, sizeof wider);
            zip_add(z, "archive/data.pkl", text, at + (kind == 10 ? sizeof wide : sizeof wider));
            zip_add(z, "archive/data/0", "\0\0\x80\x3f", 4);
            zip_end(z);
            size = z->size;
            file = (unsigned char *)malloc(size);
            memcpy(file, z->bytes, size);
            free(z);
        }
        const size_t before = mmix_memory(m).bytes;
        char note[32];
        snprintf(note, sizeof note, "file %d", kind);
        mmix_memory_peak_clear(m);
        mmix_archive *a = mmix_archive_open_memory(m, "memory", file, size);
        if (kind == 1)
            CHECK_AT(mmix_archive_count(a) > 17000, mmix_error(m));
        else CHECK_AT(!a && mmix_error_kind(m) == MMIX_ERROR_FILE, note);
        CHECK_AT(mmix_memory(m).peak - before <= 32 * size + ((size_t)2 << 20), note);
        mmix_archive_close(a);
        CHECK_AT(mmix_memory(m).bytes == before, note);
        if (getenv("FILES_SHOW"))
            printf("%d: %zu bytes, %zu held: %s\n", kind, size, mmix_memory(m).peak - before,
                   mmix_error(m) ? mmix_error(m) : "opened");
        mmix_destroy(m);
        free(file);
    }
    free(text);
}

/* ---- what stands beside the weights ---- */

typedef struct pickle { char bytes[4096]; size_t size; } pickle;
static void add(pickle *p, const void *bytes, size_t n)
{
    memcpy(p->bytes + p->size, bytes, n);
    p->size += n;
}
/* Instructions: "text" stands for a text, everything else is itself; a literal with zeros goes
   in by add. */
static void say(pickle *p, const char *instructions)
{
    for (const char *c = instructions; *c; c++) {
        if (*c != '"') {
            add(p, c, 1);
            continue;
        }
        const char *end = strchr(c + 1, '"');
        const size_t n = (size_t)(end - c - 1);
        char length[5] = "X";
        put_number((unsigned char *)length + 1, n, 4);
        add(p, length, 5);
        add(p, c + 1, n);
        c = end;
    }
}
/* A tensor of 2 numbers of storage `key`, as _rebuild_tensor_v2 or v3 has it; the rest is what
   follows the hooks. */
static void say_tensor(pickle *p, const char *function, const char *storage, const char *key,
                       int elements, const char *rest)
{
    char text[256];
    const unsigned char count[2] = { 'K', (unsigned char)elements };
    snprintf(text, sizeof text, "ctorch._utils\n_rebuild_tensor_%s\n((\"storage\"c%s\"%s\"\"cpu\"",
             function, storage, key);
    say(p, text);
    add(p, count, 2);
    add(p, "tQK\0K\2\x85K\1\x85\x89", 11);
    say(p, "ccollections\nOrderedDict\n)R");
    say(p, rest);
    say(p, "tR");
}
static pickle pickle_begin(void)
{
    pickle p;
    memset(&p, 0, sizeof p);
    say(&p, "\x80\x02}(");
    return p;
}
/* The archive of a pickle; storages 0: two floats 1 and 2, 1: 0 and 1 in a byte each, 2: 255, 255,
   1, 0, 3: the same with 12 bytes more. */
static mmix_archive *archived(mmix_ctx *m, const pickle *p)
{
    static const float two[2] = { 1, 2 };
    static const unsigned char bytes[16] = { 255, 255, 1, 0, 2 };
    static zip z;
    memset(&z, 0, sizeof z);
    zip_add(&z, "a/data.pkl", p->bytes, p->size);
    zip_add(&z, "a/data/0", two, sizeof two);
    zip_add(&z, "a/data/1", "\0\1", 2);
    zip_add(&z, "a/data/2", bytes, 4);
    zip_add(&z, "a/data/3", bytes, 16);
    zip_end(&z);
    return mmix_archive_open_memory(m, "memory", z.bytes, z.size);
}
/* The same, which ends its dictionary first. */
static mmix_archive *pickled(mmix_ctx *m, pickle *p)
{
    say(p, "u.");
    return archived(m, p);
}
static int unread(mmix_ctx *m, const mmix_archive *a, const char *name, const char *says_what)
{
    double d[16];
    const mmix_entry *e = mmix_archive_find(a, name);
    if (!e || e->dtype != MMIX_FILE_OTHER || mmix_entry_count(e) > 16)
        return 0;
    const int refused = mmix_archive_read(m, a, e, MMIX_FILE_F64, d, mmix_entry_count(e));
    const int right = refused && strstr(mmix_error(m), name) && strstr(mmix_error(m), says_what);
    mmix_error_clear(m);
    return right;
}
/* All types of numbers that a .pth may have: every storage by its name, uint16 and wider by
   _rebuild_tensor_v3. */
static void torch_types(void)
{
    mmix_ctx *m = small_ctx();
    pickle p = pickle_begin();
    say(&p, "\"bool\"");
    say_tensor(&p, "v2", "torch\nBoolStorage\n", "1", 2, "");
    say(&p, "\"u16\"");
    say_tensor(&p, "v3", "torch.storage\nUntypedStorage\n", "2", 4, "ctorch\nuint16\n");
    say(&p, "\"u64\"");
    say_tensor(&p, "v3", "torch.storage\nUntypedStorage\n", "3", 16, "ctorch\nuint64\n");
    say(&p, "\"float8\"");
    say_tensor(&p, "v3", "torch.storage\nUntypedStorage\n", "1", 2, "ctorch\nfloat8_e4m3fn\n");
    say(&p, "\"complex\"");
    say_tensor(&p, "v2", "torch\nComplexFloatStorage\n", "3", 2, "");
    say(&p, "\"w\"");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "");
    mmix_archive *a = pickled(m, &p);
    CHECK_AT(mmix_archive_count(a) == 6, mmix_error(m));
    CHECK(one_value(m, a, "bool", 0) == 0 && one_value(m, a, "bool", 1) == 1);
    CHECK(a && mmix_archive_find(a, "bool")->dtype == MMIX_FILE_BOOL);
    CHECK(one_value(m, a, "u16", 0) == 65535 && one_value(m, a, "u16", 1) == 1);
    CHECK(one_value(m, a, "u64", 0) == 65535.0 + 65536 + 2 * 4294967296.0
          && one_value(m, a, "w", 1) == 2);
    CHECK(unread(m, a, "float8", "float8_e4m3fn") && unread(m, a, "complex", "complex64"));
    mmix_archive_close(a);

    static const char *const storages[] = { "Double", "Float", "Half", "BFloat16", "Long",
                                            "Int",    "Short", "Char", "Byte",     "Bool" };
    static const int dtypes[] = { MMIX_FILE_F64, MMIX_FILE_F32, MMIX_FILE_F16, MMIX_FILE_BF16,
                                  MMIX_FILE_I64, MMIX_FILE_I32, MMIX_FILE_I16, MMIX_FILE_I8,
                                  MMIX_FILE_U8,  MMIX_FILE_BOOL };
    static const int elements[] = { 2, 4, 8, 8, 2, 4, 8, 16, 16, 16 };
    for (int i = 0; i < 10; i++) {
        char storage[64];
        snprintf(storage, sizeof storage, "torch\n%sStorage\n", storages[i]);
        p = pickle_begin();
        say(&p, "\"x\"");
        say_tensor(&p, "v2", storage, "3", elements[i], "");
        a = pickled(m, &p);
        CHECK_AT(a && mmix_archive_entry(a, 0)->dtype == dtypes[i], storage);
        mmix_archive_close(a);
    }
    mmix_destroy(m);
}
/* The sign of a lazily negated tensor, with other tensors of the same storage untouched. */
static void torch_negative(void)
{
    mmix_ctx *m = small_ctx();
    pickle p = pickle_begin();
    say(&p, "\"n\"");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "}\"neg\"\x88s");
    say(&p, "\"w\"");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "}\"neg\"\x89s");
    say(&p, "\"i0\"");
    say_tensor(&p, "v2", "torch\nShortStorage\n", "2", 2, "}");
    mmix_archive *a = pickled(m, &p);
    CHECK_AT(a && one_value(m, a, "n", 0) == -1 && one_value(m, a, "n", 1) == -2, mmix_error(m));
    CHECK(one_value(m, a, "w", 0) == 1 && one_value(m, a, "w", 1) == 2);
    CHECK(one_value(m, a, "i0", 0) == -1 && one_value(m, a, "i0", 1) == 1);
    mmix_archive_close(a);
    p = pickle_begin();
    say(&p, "\"i\"");
    say_tensor(&p, "v2", "torch\nShortStorage\n", "2", 2, "}(\"conj\"\x89\"neg\"\x88u");
    a = pickled(m, &p);
    CHECK_AT(a && one_value(m, a, "i", 0) == 1 && one_value(m, a, "i", 1) == -1, mmix_error(m));
    mmix_archive_close(a);
    mmix_destroy(m);
}
/* Objects of TorchScript have what their state says, at any depth; one without a dictionary has
   nothing, and the state of others is none of them. */
static void torch_script(void)
{
    mmix_ctx *m = small_ctx();
    pickle p;
    memset(&p, 0, sizeof p);
    say(&p, "\x80\2c__torch__\nNet\n)\x81}(\"training\"\x89\"fc\"");
    say(&p, "c__torch__.torch.nn.modules.linear.___torch_mangle_1\nLinear\n)\x81q\1}(\"weight\"");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "");
    say(&p, "\"bias\"N\"sizes\"ctorch.jit._pickle\nbuild_intlist\n](K\1K\2e\x85R");
    say(&p, "ub\"again\"h\1\"packed\"c__torch__.torch.classes\nPacked\n)\x81K\1\x85" "b");
    say(&p, "\"bare\"c__torch__\nBare\n)\x81\"w\"");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "");
    say(&p, "ub.");
    mmix_archive *a = archived(m, &p);
    CHECK_AT(mmix_archive_count(a) == 3, mmix_error(m));
    CHECK(one_value(m, a, "fc.weight", 1) == 2 && one_value(m, a, "again.weight", 0) == 1);
    CHECK(one_value(m, a, "w", 1) == 2);
    mmix_archive_close(a);
    p = pickle_begin();
    say(&p, "\"other\"ccollections\nOrderedDict\n)R}(\"_metadata\"");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "");
    say(&p, "ub");
    a = pickled(m, &p);
    CHECK_AT(a && !mmix_archive_count(a), mmix_error(m));
    mmix_archive_close(a);
    static const char *const bad[] = { "\x80\2K\1b.", "\x80\2c__torch__\nNet\n)\x81.",
                                       "\x80\2c__torch__\nNet\n}b." };
    for (int i = 0; i < 3; i++) {
        memset(&p, 0, sizeof p);
        say(&p, bad[i]);
        REFUSED_AS(MMIX_ERROR_FILE, m, !archived(m, &p), "the pickle of a file of weights",
                   i ? "holds no dictionary" : "empty stack");
    }
    mmix_destroy(m);
}
/* Each of these beside a tensor leaves it readable; what is a tensor, but not of plain numbers,
   is listed. */
static void torch_beside(void)
{
    static const char *const opaque[] = {
        "ccollections\nCounter\n}(\"a\"K\2u\x85R", "c__builtin__\nset\n](K\1K\2e\x85R", "c__builtin__\nfrozenset\n](K\1e\x85R",
        "cbuiltins\nbytearray\n\"abc\"\"latin-1\"\x86R", "c__builtin__\nbytearray\nc_codecs\nencode\n\"abc\"\"latin1\"\x86R\x85R",
        "c__builtin__\ncomplex\nG\1\1\1\1\1\1\1\1G\1\1\1\1\1\1\1\1\x86R", "ctorch\nint64\n", "ctorch\nuint8\n", "ctorch\nbool\n",
        "ctorch\nfloat8_e5m2\n", "ctorch\ncomplex64\n", "ctorch.serialization\n_get_layout\n\"torch.strided\"\x85R",
        "ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R", "ctorch\ndevice\n\"cpu\"\x85R", "ctorch\nSize\n(K\1K\2t\x85R",
        "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\1\x85\"b\"\x87R(K\1K\3\x85\"f8\"\x89\"bytes\"tb",
        "cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\1\x85\"b\"\x87R", "cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\n"
        "\"f8\"\x89\x88\x87R(K\3\"<\"NNNtb\"bytes\"\x86R", "cpathlib\nPosixPath\n\"a\"\"b\"\x86R", "cpathlib._local\nPosixPath\n\"a\"\x85R",
        "cpathlib\nWindowsPath\n\"a\"\x85R", "cdatetime\ndatetime\n\"0123456789\"\x85R", "cdatetime\ntimedelta\nK\1K\1K\1\x87R",
        "\x8f(K\1K\2\x90", "(K\1K\2\x91", "cargparse\nNamespace\n)\x81}(\"p\"cpathlib\nPosixPath\n\"a\"\x85Rub"};
    static const char *const refused[] = { "cposix\nsystem\n\"true\"\x85R",
                                           "cos\nsystem\n\"true\"\x85R",
                                           "cbuiltins\neval\n\"1\"\x85R",
                                           "c__builtin__\ngetattr\n\"a\"\"b\"\x86R",
                                           "cnumpy\nload\n\"a\"\x85R",
                                           "cpathlib\nPath.unlink\n\"a\"\x85R",
                                           "ctorch.hub\nload\n\"a\"\x85R",
                                           "ctorch\nload\n\"a\"\x85R",
                                           "ctorch\nint64\n)R" };
    mmix_ctx *m = small_ctx();
    for (size_t i = 0; i < sizeof opaque / sizeof *opaque + sizeof refused / sizeof *refused; i++) {
        const int good = i < sizeof opaque / sizeof *opaque;
        const char *what = good ? opaque[i] : refused[i - sizeof opaque / sizeof *opaque];
        pickle p = pickle_begin();
        say(&p, "\"other\"");
        say(&p, what);
        say(&p, "\"w\"");
        say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "");
        mmix_archive *a = pickled(m, &p);
        if (good)
            CHECK_AT(mmix_archive_count(a) == 1 && one_value(m, a, "w", 1) == 2, what);
        else CHECK_AT(!a && mmix_error_kind(m) == MMIX_ERROR_FILE, what);
        if (good && !a) puts(mmix_error(m));
        mmix_error_clear(m);
        mmix_archive_close(a);
    }

    pickle p = pickle_begin();
    say(&p, "\"buffer\"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_"
            "v2\nctorch\nTensor\n"
            "((\"storage\"ctorch\nFloatStorage\n\"0\"\"cpu\"K\2tQ");
    add(&p, "K\0K\2\x85K\1\x85\x89}t}(", 13);
    say(&p, "\"_is_buffer\"\x88utR\"state\"ctorch._utils\n_rebuild_parameter_with_state\n(");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "");
    say(&p, "\x88}}\"tag\"\"x\"stR\"sparse\"ctorch._utils\n_rebuild_sparse_tensor\nctorch."
            "serialization\n_get_layout\n"
            "\"torch.sparse_coo\"\x85R(");
    say_tensor(&p, "v2", "torch\nBoolStorage\n", "1", 2, "");
    say_tensor(&p, "v2", "torch\nFloatStorage\n", "0", 2, "");
    say(&p,
        "ctorch\nSize\nK\3K\3\x86\x85R\x88t\x86R\"meta\"ctorch._utils\n_rebuild_meta_tensor_no_"
        "storage\n"
        "(ctorch\nfloat32\nK\2K\5\x86K\5K\1\x86\x89tR\"quantised\"ctorch._utils\n_rebuild_qtensor\n"
        "((\"storage\"ctorch\nQInt8Storage\n\"1\"\"cpu\"K\2tQ");
    add(&p, "K\0", 2);
    say(&p, "K\2\x85K\1\x85" "ctorch\nper_tensor_affine\nG\1\1\1\1\1\1\1\1K\1\x87\x89}tR");
    mmix_archive *a = pickled(m, &p);
    CHECK_AT(mmix_archive_count(a) == 5, mmix_error(m));
    CHECK(one_value(m, a, "buffer", 1) == 2 && one_value(m, a, "state", 1) == 2);
    CHECK(unread(m, a, "sparse", "a sparse tensor")
          && mmix_archive_find(a, "sparse")->shape[1] == 3);
    CHECK(unread(m, a, "meta", "device meta") && mmix_archive_find(a, "meta")->shape[1] == 5);
    CHECK(unread(m, a, "quantised", "a quantised tensor")
          && mmix_archive_find(a, "quantised")->shape[0] == 2);
    mmix_archive_close(a);
    mmix_destroy(m);
}
/* One array of another type leaves the others readable. */
static void other_types(void)
{
    static const double one[4] = { 1, 2, 3, 4 };
    static const char header[] = "{\"c\":{\"dtype\":\"C64\"," SHAPE "[1]," AT
                                 "[0,8]},\"f\":{\"dtype\":\"F8_E4M3\"," SHAPE "[2,2]," AT
                                 "[8,12]},\"w\":{" U8 SHAPE "[4]," AT "[12,16]}}";
    static const char *const wrong_bytes = "{\"c\":{\"dtype\":\"C64\"," SHAPE "[2]," AT "[0,12]}}";
    static const char *const npy[] = { "<U3", "|O", "<c16", "|S5", "<M8[D]", "<f16", "|V8" };
    mmix_ctx *m = small_ctx();
    size_t size;
    unsigned char *file = make(header, sizeof header - 1, 16, &size);
    mmix_archive *a = mmix_archive_open_memory(m, "memory", file, size);
    CHECK_AT(mmix_archive_count(a) == 3 && one_value(m, a, "w", 1) == 13, mmix_error(m));
    CHECK(unread(m, a, "c", "C64") && unread(m, a, "f", "F8_E4M3"));
    CHECK(a && mmix_archive_find(a, "f")->ndim == 2 && mmix_archive_find(a, "f")->bytes == 4);
    mmix_archive_close(a);
    free(file);
    CHECK(outcome_header(m, wrong_bytes, 12) == 0);
    for (size_t i = 0; i < sizeof npy / sizeof *npy; i++) {
        static zip z;
        char text[128];
        memset(&z, 0, sizeof z);
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }\n",
                 npy[i]);
        numpy_array(&z, "other.npy", text, one, 16);
        numpy_array(&z, "w.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }\n", one,
                    sizeof one);
        zip_end(&z);
        a = mmix_archive_open_memory(m, "memory", z.bytes, z.size);
        CHECK_AT(mmix_archive_count(a) == 2 && one_value(m, a, "w", 3) == 4, npy[i]);
        CHECK_AT(unread(m, a, "other", npy[i]), npy[i]);
        mmix_archive_close(a);
    }
    CHECK(!mmix_file_dtype_name(MMIX_FILE_OTHER));
    mmix_entry e;
    memset(&e, 0, sizeof e);
    e.name = "a";
    e.dtype = MMIX_FILE_OTHER;
    CHECK(mmix_archive_save(m, PATH, &e, 1, NULL) == -1
          && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT);
    mmix_destroy(m);
}
/* Many small arrays: names and shapes take more than the numbers. */
static void append(unsigned char **at, const void *bytes, size_t n)
{
    memcpy(*at, bytes, n);
    *at += n;
}
static void many_small_json(void)
{
    enum { N = 20000 };
    char *text = (char *)malloc(N * 80), *c = text;
    mmix_ctx *m = mmix_create(NULL);
    size_t size;
    c += sprintf(c, "{");
    for (int i = 0; i < N; i++)
        c += sprintf(c, "%s\"l.%d\":{" F32 SHAPE "[1]," AT "[%d,%d]}", i ? "," : "", i, 4 * i,
                     4 * i + 4);
    c += sprintf(c, "}");
    unsigned char *file = make(text, (size_t)(c - text), 4 * N, &size);
    mmix_archive *a = mmix_archive_open_memory(m, "memory", file, size);
    CHECK_AT(mmix_archive_count(a) == N, mmix_error(m));
    mmix_archive_close(a);
    free(file);
    free(text);
    mmix_destroy(m);
}
/* A zip file of two members, in memory of its own. */
typedef struct part { const char *name; const void *data; size_t size; } part;
static unsigned char *zip_two(const part member[2], size_t *size)
{
    unsigned char *file = (unsigned char *)calloc(member[0].size + member[1].size + 1024, 1);
    unsigned char *b = file;
    size_t place[2];
    for (int i = 0; i < 2; i++) {
        place[i] = (size_t)(b - file);
        put_number(b, 0x04034b50, 4);
        put_number(b + 26, strlen(member[i].name), 2);
        b += 30;
        append(&b, member[i].name, strlen(member[i].name));
        append(&b, member[i].data, member[i].size);
    }
    const size_t directory = (size_t)(b - file);
    for (int i = 0; i < 2; i++) {
        put_number(b, 0x02014b50, 4);
        put_number(b + 16, crc32_of(member[i].data, member[i].size), 4);
        put_number(b + 20, member[i].size, 4);
        put_number(b + 24, member[i].size, 4);
        put_number(b + 28, strlen(member[i].name), 2);
        put_number(b + 42, place[i], 4);
        b += 46;
        append(&b, member[i].name, strlen(member[i].name));
    }
    put_number(b, 0x06054b50, 4);
    put_number(b + 8, 2, 2);
    put_number(b + 10, 2, 2);
    put_number(b + 12, (size_t)(b - file) - directory, 4);
    put_number(b + 16, directory, 4);
    *size = (size_t)(b + 22 - file);
    return file;
}
/* Tensors of one storage, about 40 bytes of a pickle each. */
static void many_small_pth(void)
{
    enum { N = 5000 };
    static const char first[] = "\x80\x02}ctorch._utils\n_rebuild_tensor_v2\nq\1"
                                "0X\7\0\0\0storageq\2"
                                "0ctorch\nFloatStorage\nq\3"
                                "0X\1\0\0\0"
                                "0q\4"
                                "0X\3\0\0\0cpuq\5"
                                "0(";
    static const char tensor[] = "h\1((h\2h\3h\4h\5K\2tQK\0K\2\x85K\1\x85\x89}tR";
    unsigned char *pickle_bytes = (unsigned char *)malloc(N * 64 + 1024), *q = pickle_bytes;
    mmix_ctx *m = mmix_create(NULL);
    part member[2];
    size_t size;
    append(&q, first, sizeof first - 1);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "%05d", i);
        append(&q, "X\5\0\0\0", 5);
        append(&q, name, 5);
        append(&q, tensor, sizeof tensor - 1);
    }
    append(&q, "u.", 2);
    member[0].name = "a/data.pkl";
    member[0].data = pickle_bytes;
    member[0].size = (size_t)(q - pickle_bytes);
    member[1].name = "a/data/0";
    member[1].data = "\0\0\x80\x3f\0\0\0\x40";
    member[1].size = 8;
    unsigned char *file = zip_two(member, &size);
    mmix_archive *a = mmix_archive_open_memory(m, "memory", file, size);
    CHECK_AT(mmix_archive_count(a) == N && one_value(m, a, "04999", 1) == 2, mmix_error(m));
    mmix_archive_close(a);
    free(pickle_bytes);
    free(file);
    mmix_destroy(m);
}
/* Numbers of a zip file's directory that stand in the extra field, as those of files beyond 4
   GiB do. */
static void zip_wide(void)
{
    static const double one[2] = { 1, 2 };
    static zip z;
    mmix_ctx *m = small_ctx();
    for (int bad = 0; bad < 6; bad++) {
        /* another kind, then the one of 64 bits */
        unsigned char extra[5 + 4 + 24] = { 7, 0, 1, 0, 99, 1, 0, 24 };
        memset(&z, 0, sizeof z);
        numpy_array(&z, "w.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", one,
                    sizeof one);
        unsigned char *record = z.directory, *behind = record + 46 + 5;
        put_number(extra + 9, bad == 1 ? 7 : number_of(record + 24, 4), 8);
        put_number(extra + 17, number_of(record + 20, 4), 8);
        put_number(extra + 25, bad == 2 ? 1 : 0, 8);
        if (bad == 3) put_number(extra + 25, UINT64_MAX - 20, 8);
        if (bad == 4) put_number(extra + 7, 23, 2);              /* no room for the place */
        if (bad == 5) put_number(extra + 2, 60000, 2);           /* longer than all fields */
        put_number(record + 20, 0xffffffff, 4);
        put_number(record + 24, 0xffffffff, 4);
        put_number(record + 42, 0xffffffff, 4);
        put_number(record + 30, sizeof extra, 2);
        memcpy(behind, extra, sizeof extra);
        z.listed += sizeof extra;
        zip_end(&z);
        CHECK(outcome(m, z.bytes, z.size) == !bad);
    }
    mmix_destroy(m);
}
/* Small things: numbers of Python 2, an archive of nothing, more axes than eight, a byte order
   mark. */
static void small_things(void)
{
    static const double one[6] = { 1, 2, 3, 4, 5, 6 };
    static const struct { const char *file, *says;
    } foreign[] = { { "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12\n",
                      "Git LFS pointer: fetch it with git lfs pull" },
                    { "<!DOCTYPE html>\n<html><head>", "a web page (HTML): download the file" },
                    { "\n <HTML lang=en>", "a web page (HTML): download the file" },
                    { "24ka\1\0\0\0\0\0\0\0", "llama2.c's version 1" },
                    { "\xff\xd8\xff\xe0 JFIF", "found 9 bytes that are none of these" },
                    { "{\"model_type\": \"vit\"}", "found other JSON" } };
    static zip z, none;
    mmix_ctx *m = small_ctx();
    memset(&z, 0, sizeof z);
    numpy_array(&z, "w.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L), }\n", one,
                sizeof one);
    zip_end(&z);
    mmix_archive *a = mmix_archive_open_memory(m, "memory", z.bytes, z.size);
    CHECK_AT(a && one_value(m, a, "w", 5) == 6 && mmix_archive_entry(a, 0)->shape[1] == 3,
             mmix_error(m));
    mmix_archive_close(a);
    memset(&none, 0, sizeof none);
    zip_end(&none);
    a = mmix_archive_open_memory(m, "memory", none.bytes, none.size);
    CHECK_AT(a && mmix_archive_count(a) == 0, mmix_error(m));
    mmix_archive_close(a);
    CHECK(outcome_header(m, "{\"nine\":{" F32 SHAPE "[1,1,1,1,1,1,1,1,3]," AT "[0,12]}}", 12) == 0);
    size_t size;
    unsigned char *file = make("{\"nine\":{" F32 SHAPE "[1,1,1,1,1,1,1,1,3]," AT "[0,12]}}",
                               strlen("{\"nine\":{" F32 SHAPE "[1,1,1,1,1,1,1,1,3]," AT "[0,12]}}"),
                               12, &size);
    CHECK(!mmix_archive_open_memory(m, "memory", file, size)
          && says(m, MMIX_ERROR_FILE,
                  "entry \"nine\": expected a shape of at most 8 sizes, found 9"));
    free(file);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        size = i == 3 ? 12 : strlen(foreign[i].file);
        CHECK_AT(!mmix_archive_open_memory(m, "memory", foreign[i].file, size)
                 && says(m, MMIX_ERROR_FILE, foreign[i].says), foreign[i].says);
    }
    mmix_destroy(m);
}

#ifdef MMIX_NO_STDIO

static void no_stdio(void)
{
    mmix_ctx *m = small_ctx();
    CHECK(mmix_archive_open(m, PATH) == NULL && strstr(mmix_error(m), "MMIX_NO_STDIO"));
    mmix_error_clear(m);
    CHECK(mmix_archive_save(m, PATH, NULL, 0, NULL) == -1
          && strstr(mmix_error(m), "MMIX_NO_STDIO"));
    mmix_destroy(m);
}

#else

static mmix_entry entry(const char *name, int dtype, int ndim, size_t a, size_t b, const void *data)
{
    mmix_entry e;
    memset(&e, 0, sizeof e);
    e.name = name;
    e.dtype = dtype;
    e.ndim = ndim;
    e.data = data;
    e.shape[0] = a;
    e.shape[1] = b;
    return e;
}

static unsigned char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = (unsigned char *)malloc(1 << 22);
    *size = f ? fread(bytes, 1, 1 << 22, f) : 0;
    if (f) fclose(f);
    return bytes;
}

static int spill(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(bytes, 1, size, f) == size;
    return f && !fclose(f) && ok;
}

/* ---- what is written comes back ---- */

static void round_trip(void)
{
    static const double f64[6] = {0.1, -0.0, 1e300, 5e-324, -2.5, 3};
    static const float f32[6] = {0.1f, -0.0f, 3e38f, 1e-45f, -2.5f, 3};
    static const uint16_t f16[6] = {0x3C00, 0x0001, 0x03FF, 0x7BFF, 0x8000, 0xC100},
        bf16[6] = {0x3F80, 1, 0x7F7F, 0x8000, 0xC020, 0x4049};
    static const int64_t i64[6] = {INT64_MAX, INT64_MIN, 0, -1, 1, (int64_t)1 << 53};
    static const int32_t i32[6] = {INT32_MAX, INT32_MIN, 0, -1, 1, 7};
    static const int16_t i16[6] = {32767, -32768, 0, -1, 1, 7};
    static const int8_t i8[6] = {127, -128, 0, -1, 1, 7};
    static const uint8_t u8[6] = {0, 255, 1, 127, 128, 7}, flag[6] = {0, 1, 1, 0, 0, 1};
    static const double want16[6] = {1, 1.0 / 16777216, 1023.0 / 16777216, 65504, -0.0, -2.5};
    static const uint16_t u16[6] = {0, 65535, 1, 32768, 2, 7};
    static const uint32_t u32[6] = {0, UINT32_MAX, 1, 2147483648u, 2, 7};
    static const uint64_t u64[6] = {0, UINT64_MAX, 1, (uint64_t)1 << 63, INT64_MAX, 7};
    mmix_real real[6] = {(mmix_real)0.1, 1, 2, 3, 4, -5};
    mmix_entry e[19];
    size_t n = 0, before;
    /* small ones first: the rest need aligning */
    e[n++] = entry("u8", MMIX_FILE_U8, 2, 3, 2, u8);
    e[n++] = entry("bool", MMIX_FILE_BOOL, 2, 1, 6, flag);
    e[n++] = entry("i8", MMIX_FILE_I8, 1, 5, 0, i8);
    e[n++] = entry("f16", MMIX_FILE_F16, 1, 6, 0, f16);
    e[n++] = entry("bf16", MMIX_FILE_BF16, 1, 6, 0, bf16);
    e[n++] = entry("i16", MMIX_FILE_I16, 2, 2, 3, i16);
    e[n++] = entry("u16", MMIX_FILE_U16, 2, 2, 3, u16);
    e[n++] = entry("u32", MMIX_FILE_U32, 1, 6, 0, u32);
    e[n++] = entry("u64", MMIX_FILE_U64, 1, 6, 0, u64);
    e[n++] = entry("f32", MMIX_FILE_F32, 2, 2, 3, f32);
    e[n++] = entry("i32", MMIX_FILE_I32, 1, 5, 0, i32);
    e[n++] = entry("f64", MMIX_FILE_F64, 2, 2, 3, f64);
    e[n++] = entry("i64", MMIX_FILE_I64, 1, 6, 0, i64);
    e[n++] = entry("real", MMIX_FILE_REAL, 1, 6, 0, real);
    e[n++] = entry("scalar", MMIX_FILE_REAL, 0, 0, 0, real + 5);
    e[n++] = entry("empty", MMIX_FILE_F32, 2, 0, 3, NULL);
    e[n++] = entry("", MMIX_FILE_I64, 1, 0, 0, NULL);
    e[n++] = entry("a/b \"q\" \\ \n\x1F uni\xC3\xA9 \xF0\x9F\x98\x80", MMIX_FILE_U8, 1, 1, 0, u8);
    e[n++] = entry("eight", MMIX_FILE_U8, 8, 1, 1, u8);
    for (int i = 0; i < 8; i++)
        e[n - 1].shape[i] = i == 6 ? 5 : 1;
    static const char *const metadata[] = {"format", "mmix", "args", "{\"a\": [1, \"\\\"\"]}\n\t",
        "\xE2\x82\xAC", "", NULL};

    mmix_ctx *m = small_ctx();
    before = mmix_memory(m).bytes;
    CHECK(mmix_archive_save(m, PATH, e, n, metadata) == 0);
    CHECK(mmix_memory(m).bytes == before && !exists(PATH ".tmp"));
    mmix_archive *a = mmix_archive_open(m, PATH);
    CHECK_AT(a && mmix_archive_count(a) == n && walk(m, a), mmix_error(m));
    for (size_t i = 0; a && i < n; i++) {
        const mmix_entry *r = mmix_archive_find(a, e[i].name);
        CHECK_AT(r && r->dtype == e[i].dtype && r->ndim == e[i].ndim
            && !strcmp(r->name, e[i].name), e[i].name);
        if (!r) continue;
        for (int d = 0; d < r->ndim; d++)
            CHECK(r->shape[d] == e[i].shape[d]);
        CHECK(!r->bytes || !memcmp(r->data, e[i].data, r->bytes));
        CHECK(!r->bytes || (uintptr_t)r->data % (r->bytes / mmix_entry_count(r)) == 0);
    }
    CHECK(mmix_archive_metadata(a, "format")
          && !strcmp(mmix_archive_metadata(a, "format"), "mmix"));
    CHECK(mmix_archive_metadata(a, "args")
          && !strcmp(mmix_archive_metadata(a, "args"), metadata[3]));
    CHECK(mmix_archive_metadata(a, "\xE2\x82\xAC") && !*mmix_archive_metadata(a, "\xE2\x82\xAC"));
    CHECK(!mmix_archive_metadata(a, "f32") && !mmix_archive_metadata(NULL, "args")
        && !mmix_archive_metadata(a, NULL));
    CHECK(!mmix_archive_find(a, "__metadata__") && !mmix_archive_find(a, "f3")
        && !mmix_archive_find(a, "f322") && !mmix_archive_find(NULL, "a"));
    CHECK(!mmix_archive_entry(a, n) && !mmix_archive_count(NULL) && !mmix_error(m));

    double d[6];
    int64_t k[6];
    int32_t k32[6];
    mmix_real x[6];
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "f64"), MMIX_FILE_F64, d, 6)
          && !memcmp(d, f64, sizeof d));
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "f32"), MMIX_FILE_F64, d, 6));
    for (int i = 0; i < 6; i++)
        CHECK(bits_of(d[i]) == bits_of((double)f32[i]));
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "f16"), MMIX_FILE_F64, d, 6)
          && !memcmp(d, want16, sizeof d));
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "i64"), MMIX_FILE_I64, k, 6)
          && !memcmp(k, i64, sizeof k));
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "i16"), MMIX_FILE_I64, k, 6)
          && k[1] == -32768 && k[0] == 32767);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "i32"), MMIX_FILE_I32, k32, 5)
        && !memcmp(k32, i32, 5 * sizeof *k32));
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "i8"), MMIX_FILE_I32, k32, 5)
          && k32[1] == -128 && k32[3] == -1);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "u8"), MMIX_FILE_I32, k32, 6)
          && k32[1] == 255);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "u16"), MMIX_FILE_I32, k32, 6)
          && k32[1] == 65535 && k32[3] == 32768);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "u32"), MMIX_FILE_I64, k, 6)
          && k[1] == UINT32_MAX && k[3] == 2147483648);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "u64"), MMIX_FILE_F64, d, 6)
          && d[1] > 1.8e19 && d[3] > 9.2e18 && d[5] < 8);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "bool"), MMIX_FILE_REAL, x, 6) && x[1] > 0
          && !(x[0] > 0) && x[5] < 2);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "real"), MMIX_FILE_REAL, x, 6)
          && !memcmp(x, real, sizeof x));
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "i32"), MMIX_FILE_REAL, x, 5) && x[4] > 0
          && x[4] < 2);
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "empty"), MMIX_FILE_REAL, NULL, 0));

    /* What the reading functions refuse. */
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "f32"), MMIX_FILE_REAL, x, 5) == -1
        && mmix_error_kind(m) == MMIX_ERROR_FILE);
    /* a message is kept */
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "f64"), MMIX_FILE_F64, d, 6) == -1);
    CHECK(mmix_archive_open(m, PATH) == NULL);
    mmix_error_clear(m);
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "f32"), MMIX_FILE_I64, k, 6) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "i64"), MMIX_FILE_I32, k32, 6) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "u32"), MMIX_FILE_I32, k32, 6) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "u64"), MMIX_FILE_I32, k32, 6) == -1
        && strstr(mmix_error(m), "18446744073709551616")), mmix_error_clear(m);        /* not -1 */
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "u64"), MMIX_FILE_I64, k, 6) == -1
        && strstr(mmix_error(m), "64-bit integers")), mmix_error_clear(m);
    CHECK(mmix_archive_read(m, a, NULL, MMIX_FILE_REAL, x, 6) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_read(m, NULL, mmix_archive_entry(a, 0), MMIX_FILE_REAL, x, 6) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_read(m, a, mmix_archive_find(a, "f32"), MMIX_FILE_REAL, NULL, 6) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_open(m, NULL) == NULL
        && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT), mmix_error_clear(m);
    CHECK(mmix_archive_open(m, "build") == NULL
        && mmix_error_kind(m) == MMIX_ERROR_FILE), mmix_error_clear(m);
    CHECK(mmix_archive_open(m, "build/is not there") == NULL
        && mmix_error_kind(m) == MMIX_ERROR_FILE), mmix_error_clear(m);
    mmix_archive_close(a);
    mmix_archive_close(NULL);

    /* The entries of an archive save as they are, and equal arguments give equal bytes. */
    size_t size, size2;
    unsigned char *bytes = slurp(PATH, &size), *bytes2;
    CHECK(bytes[8] == '{' && (bytes[0] & 7) == 0);                /* the header, padded to 8 */
    a = mmix_archive_open(m, PATH);
    CHECK(a && mmix_archive_save(m, PATH, mmix_archive_entry(a, 0), n, metadata) == 0);
    bytes2 = slurp(PATH, &size2);
    CHECK(size == size2 && !memcmp(bytes, bytes2, size));
    mmix_archive_close(a);
    free(bytes);
    free(bytes2);

    CHECK(mmix_archive_save(m, PATH, NULL, 0, NULL) == 0);
    a = mmix_archive_open(m, PATH);
    CHECK(a && mmix_archive_count(a) == 0 && !mmix_archive_find(a, "a")
          && !mmix_archive_entry(a, 0));
    mmix_archive_close(a);
    CHECK(mmix_archive_save(m, PATH, NULL, 0, metadata) == 0);
    a = mmix_archive_open(m, PATH);
    CHECK_AT(a && mmix_archive_count(a) == 0 && mmix_archive_metadata(a, "format"), mmix_error(m));
    mmix_archive_close(a);
    CHECK(mmix_memory(m).bytes == before);
    mmix_destroy(m);
}

/* Every half of either kind against its definition; BF16 rounding at and beside ties. */
static void halves(void)
{
    static uint16_t all[65536];
    static double d[65536];
    static mmix_real x[65536];
    int wrong = 0;
    mmix_entry e[3];
    mmix_ctx *m = mmix_create(NULL);
    for (unsigned i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    e[0] = entry("f16", MMIX_FILE_F16, 1, 65536, 0, all);
    e[1] = entry("bf16", MMIX_FILE_BF16, 1, 65536, 0, all);
    CHECK(mmix_archive_save(m, PATH, e, 2, NULL) == 0);
    mmix_archive *a = mmix_archive_open(m, PATH);
    for (int kind = 0; kind < 2; kind++) {
        int fraction_bits = kind ? 7 : 10;
        int top = kind ? 255 : 31;
        int bias = kind ? 127 : 15;
        CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, kind ? "bf16" : "f16"), MMIX_FILE_F64,
                                 d, 65536));
        for (int i = 0; i < 65536; i++) {
            int exponent = (i & 0x7FFF) >> fraction_bits, fraction = i & ((1 << fraction_bits) - 1);
            double want = exponent ? ldexp(1 + ldexp(fraction, -fraction_bits), exponent - bias)
                                   : ldexp(fraction, 1 - bias - fraction_bits);
            if (exponent == top && fraction) wrong += !isnan(d[i]);
            else if (exponent == top)
                wrong += !isinf(d[i]) || (d[i] < 0) != (i > 0x7FFF);
            else wrong += bits_of(d[i]) != bits_of(i & 0x8000 ? -want : want);
        }
    }
    CHECK(wrong == 0);

    /* bf16 → real → bf16 is the identity. */
    CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "bf16"), MMIX_FILE_REAL, x, 65536));
    mmix_archive_close(a);
    e[0] = entry("x", MMIX_FILE_REAL_AS_BF16, 1, 65536, 0, x);
    CHECK(mmix_archive_save(m, PATH, e, 1, NULL) == 0);
    a = mmix_archive_open(m, PATH);
    const mmix_entry *r = mmix_archive_find(a, "x");
    CHECK(r && r->dtype == MMIX_FILE_BF16 && r->bytes == 131072);
    for (int i = 0; r && i < 65536; i++) {
        uint16_t got;
        memcpy(&got, (const unsigned char *)r->data + 2 * i, 2);
        wrong += (i & 0x7FFF) > 0x7F80 ? (got & 0x7FFF) <= 0x7F80 : got != i;
    }
    CHECK(wrong == 0);
    mmix_archive_close(a);

    static const double tiny = 1 / 1099511627776.0;               /* 2^-40 */
    const double value[] = { 1 + 1 / 256.0,
                             1 + 3 / 256.0,
                             1 + 1 / 256.0 + 1e-6,
                             -1 - 1 / 256.0,
                             3.4e38,
                             1e-45,
                             -0.0,
                             1 + 1 / 256.0 + tiny,
                             1 + 3 / 256.0 - tiny,
                             -1 - 1 / 256.0 - tiny };
    static const uint16_t want[] = { 0x3F80, 0x3F82, 0x3F81, 0xBF80, 0x7F80,
                                     0,      0x8000, 0x3F81, 0x3F81, 0xBF81 };
    const size_t n = sizeof(mmix_real) == 8 ? 10 : 7;             /* the last three need double */
    for (size_t i = 0; i < n; i++)
        x[i] = (mmix_real)value[i];
    e[0].shape[0] = n;
    CHECK(mmix_archive_save(m, PATH, e, 1, NULL) == 0);
    a = mmix_archive_open(m, PATH);
    CHECK(a && !memcmp(mmix_archive_entry(a, 0)->data, want, 2 * n));
    mmix_archive_close(a);

    /* NaN stays NaN */
    const uint32_t nan_bits[] = {0x7FFFFFFFu, 0x7F800001u, 0xFFC00001u};
    for (int i = 0; i < 3; i++) {
        float f;
        memcpy(&f, &nan_bits[i], 4);
        x[i] = (mmix_real)f;
    }
    e[0].shape[0] = 3;
    CHECK(mmix_archive_save(m, PATH, e, 1, NULL) == 0);
    a = mmix_archive_open(m, PATH);
    CHECK(a && !mmix_archive_read(m, a, mmix_archive_entry(a, 0), MMIX_FILE_F64, d, 3));
    CHECK(isnan(d[0]) && isnan(d[1]) && isnan(d[2]));
    mmix_archive_close(a);
    mmix_destroy(m);
}

static void many(void)
{
    enum { N = 5000 };
    static char names[N][24];
    static int32_t values[N];
    static mmix_entry e[N];
    mmix_ctx *m = mmix_create(NULL);
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "layers.%d.w", (i * 7919) % N);
        values[i] = i;
        e[i] = entry(names[i], i % 3 ? MMIX_FILE_I32 : MMIX_FILE_U8, i % 2, 1, 0, &values[i]);
    }
    CHECK(mmix_archive_save(m, PATH, e, N, NULL) == 0);
    mmix_archive *a = mmix_archive_open(m, PATH);
    CHECK(mmix_archive_count(a) == N);
    for (int i = 0; a && i < N; i++) {
        int32_t got = -1;
        wrong += mmix_archive_read(m, a, mmix_archive_find(a, names[i]), MMIX_FILE_I32, &got, 1)
            || got != (i % 3 ? i : i & 255);
    }
    CHECK(wrong == 0);
    mmix_archive_close(a);
    mmix_destroy(m);
}

/* ---- what goes wrong on the way ---- */

static void saving_fails(void)
{
    static const int32_t value[2] = {1, 2};
    static const char *const key_alone[] = {"a", "b", "c", NULL},
        *const key_twice[] = {"a", "1", "a", "2", NULL},
        *const not_utf8[] = {"a", "\xFF", NULL};
    mmix_ctx *m = small_ctx();
    mmix_entry good = entry("a", MMIX_FILE_I32, 1, 2, 0, value), e[2];
    const size_t before = mmix_memory(m).bytes;
    CHECK(mmix_archive_save(m, PATH, &good, 1, NULL) == 0);
    size_t size, size2;
    unsigned char *bytes = slurp(PATH, &size), *bytes2;
    for (int i = 0; i < 12; i++) {
        e[0] = e[1] = good;
        e[1].name = "b";
        const char *const *metadata = NULL;
        if (i == 8) metadata = key_alone;
        if (i == 9) metadata = key_twice;
        if (i == 10) metadata = not_utf8;
        if (i == 0) e[1].name = "a";
        if (i == 1) e[1].name = NULL;
        if (i == 2) e[1].name = "\xC3";
        if (i == 3) e[1].name = "__metadata__";
        if (i == 4) e[1].dtype = -1;
        if (i == 5) e[1].dtype = 100;
        if (i == 6) e[1].ndim = 9;
        if (i == 7) e[1].data = NULL;
        if (i == 11) {
            e[1].ndim = 2;
            e[1].shape[0] = e[1].shape[1] = SIZE_MAX / 2;
        }
        CHECK(mmix_archive_save(m, PATH, e, 2, metadata) == -1
            && mmix_error_kind(m) == MMIX_ERROR_ARGUMENT);
        CHECK(mmix_archive_save(m, PATH, &good, 1, NULL) == -1);            /* a message is kept */
        mmix_error_clear(m);
    }
    CHECK(mmix_archive_save(m, NULL, &good, 1, NULL) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_save(m, PATH, NULL, 1, NULL) == -1);
    mmix_error_clear(m);
    CHECK(mmix_archive_save(m, "build/no folder/x.safetensors", &good, 1, NULL) == -1);
    CHECK(mmix_error_kind(m) == MMIX_ERROR_FILE);
    mmix_error_clear(m);
    CHECK(!exists("build/no folder/x.safetensors"));
    CHECK(mmix_archive_save(m, "build", &good, 1, NULL) == -1
          && mmix_error_kind(m) == MMIX_ERROR_FILE);
    CHECK(!exists("build.tmp"));
    mmix_error_clear(m);
#ifdef __linux__
    CHECK(mmix_archive_save(m, "/dev/full", &good, 1, NULL) == -1
          && mmix_error_kind(m) == MMIX_ERROR_FILE);
    /* a full disk; devices are written into */
    CHECK(exists("/dev/full"));
    mmix_error_clear(m);
#endif
    bytes2 = slurp(PATH, &size2);
    CHECK(size == size2 && !memcmp(bytes, bytes2, size));         /* the good file is as it was */
    free(bytes);
    free(bytes2);
    CHECK(mmix_memory(m).bytes == before);
    mmix_destroy(m);
}

/* What stands at the path already: a link, a mode, a device, a fifo, other people's temporary
   files. */
#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* the shell's test, which needs no headers */
static int made_of(const char *path, const char *test)
{
    char command[256];
    snprintf(command, sizeof command, "test %s %s", test, path);
    return system(command) == 0;
}
/* A name that leaves no room for a temporary one beside it. */
static void saving_long_name(void)
{
    static const int32_t value[2] = {1, 2};
    const mmix_entry e = entry("a", MMIX_FILE_I32, 1, 2, 0, value);
    mmix_ctx *m = small_ctx();
    char name[300] = "build/over/";
    CHECK(system("rm -rf build/over && mkdir -p build/over") == 0);
    memset(name + 11, 'n', 255);
    name[11 + 255] = 0;
    CHECK_AT(mmix_archive_save(m, name, &e, 1, NULL) == 0, mmix_error(m));
    struct stat info;
    CHECK(!stat(name, &info) && info.st_size > 60);
    CHECK(system("ls -A build/over | grep -c . | grep -qx 1") == 0);
    remove(name);
    mmix_destroy(m);
}
static void saving_over(void)
{
    static const int32_t value[2] = {1, 2};
    const mmix_entry e = entry("a", MMIX_FILE_I32, 1, 2, 0, value);
    mmix_ctx *m = small_ctx();
    struct stat info;
    char name[128];
    CHECK(system("rm -rf build/over && mkdir -p build/over/deep && echo old >build/over/deep/file")
          == 0);
    CHECK(system("cd build/over && ln -s deep/file link && ln -s link twice && ln -s new dangling "
                 "&& ln -s ring ring")
          == 0);
    CHECK(!chmod("build/over/deep/file", 0640));
    /* links stay */
    CHECK_AT(mmix_archive_save(m, "build/over/twice", &e, 1, NULL) == 0, mmix_error(m));
    CHECK(made_of("build/over/twice", "-L") && made_of("build/over/link", "-L")
          && !made_of("build/over/deep/file", "-L"));
    CHECK(!stat("build/over/deep/file", &info) && (info.st_mode & 0777) == 0640
          && info.st_size > 60);
    mmix_archive_close(mmix_archive_open(m, "build/over/twice"));
    CHECK(!mmix_error(m));
    CHECK(mmix_archive_save(m, "build/over/dangling", &e, 1, NULL) == 0
          && made_of("build/over/new", "-s"));
    CHECK(made_of("build/over/dangling", "-L"));
    CHECK(mmix_archive_save(m, "build/over/ring", &e, 1, NULL) == -1
          && mmix_error_kind(m) == MMIX_ERROR_FILE);
    mmix_error_clear(m);
    CHECK(!chmod("build/over/new", 0444)
          && mmix_archive_save(m, "build/over/new", &e, 1, NULL) == 0);
    CHECK(!stat("build/over/new", &info) && (info.st_mode & 0777) == 0444);

    /* names that we would have taken are somebody's: they stay as they are */
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "build/over/deep/file.%lu.%d.tmp", (unsigned long)getpid(), i);
        CHECK(spill(name, "mine", 4));
    }
    CHECK(mmix_archive_save(m, "build/over/link", &e, 1, NULL) == 0 && !stat(name, &info)
          && info.st_size == 4);
    snprintf(name, sizeof name, "ls build/over/deep | grep -c . | grep -qx 4");
    CHECK(system(name) == 0);

    CHECK(mmix_archive_save(m, "/dev/null", &e, 1, NULL) == 0 && made_of("/dev/null", "-c"));
    CHECK(system("mkfifo build/over/fifo && cat build/over/fifo >build/over/through &") == 0);
    for (int i = 0; i < 500 && !made_of("build/over/fifo", "-p"); i++)
        system("sleep 0.01");
    alarm(20);                                   /* what would wait for ever ends the test */
    CHECK(mmix_archive_save(m, "build/over/fifo", &e, 1, NULL) == 0
          && made_of("build/over/fifo", "-p"));
    for (int i = 0; i < 500 && !made_of("build/over/through", "-s"); i++)
        system("sleep 0.01");
    CHECK(made_of("build/over/through", "-s"));
    CHECK(!mmix_archive_open(m, "build/over/fifo") && strstr(mmix_error(m), "fifo"));
    mmix_error_clear(m);
    CHECK(!mmix_decoder_load(m, "build/over/fifo") && strstr(mmix_error(m), "fifo"));
    mmix_error_clear(m);
    CHECK(!mmix_archive_open(m, "/dev/null") && mmix_error_kind(m) == MMIX_ERROR_FILE);
    mmix_error_clear(m);
    alarm(0);
    memset(name, 'n', sizeof name);
    char *deep = (char *)malloc(5000);
    memset(deep, 'x', 5000);
    deep[4999] = 0;
    CHECK(mmix_archive_save(m, deep, &e, 1, NULL) == -1 && strstr(mmix_error(m), "too long"));
    mmix_error_clear(m);
    free(deep);
    CHECK(system("rm -rf build/over") == 0);
    mmix_destroy(m);
}
#endif

/* The n-th allocation fails, for every n, while saving and while opening. */
static void allocation_fails(void)
{
    static const char *const metadata[] = {"a", "b", NULL};
    static const int32_t value[2] = {1, 2};
    const mmix_entry e = entry("a", MMIX_FILE_I32, 1, 2, 0, value);
    mmix_ctx *m = small_ctx();
    CHECK(mmix_archive_save(m, PATH, &e, 1, metadata) == 0);
    mmix_destroy(m);
    source saving = {PATH, NULL, 0, &e}, opening = {PATH, NULL, 0, NULL};
    CHECK(memory_fails(filed, &saving, 1, 1) >= 4 && memory_fails(filed, &opening, 1, 1) >= 7);
}

/* Every truncation of a file, through the file system. */
static void truncated_files(void)
{
    static const int32_t value[2] = {1, 2};
    const mmix_entry e = entry("a", MMIX_FILE_I32, 1, 2, 0, value);
    mmix_ctx *m = small_ctx();
    size_t size, before = mmix_memory(m).bytes;
    CHECK(mmix_archive_save(m, PATH, &e, 1, NULL) == 0);
    unsigned char *bytes = slurp(PATH, &size);
    for (size_t n = 0; n <= size; n++) {
        CHECK(spill(PATH, bytes, n));
        mmix_archive *a = mmix_archive_open(m, PATH);
        CHECK(n == size ? a != NULL : !a && mmix_error_kind(m) == MMIX_ERROR_FILE
            && strstr(mmix_error(m), PATH));
        mmix_archive_close(a);
        mmix_error_clear(m);
        CHECK(mmix_memory(m).bytes == before);
    }
    free(bytes);
    mmix_destroy(m);
}

/* ---- a network in several files ---- */

static void shards(void)
{
    static const char *const shard[2] = {"build/files_1.safetensors", "build/files_2.safetensors"};
    static const char index[] = "build/files.index.json";
    source whole = {index, NULL, 0, NULL};
    static const float one[6] = {1, 2, 3, 4, 5, 6}, two[2] = {7, 8};
    static const struct { const char *text, *says;
    } wrong[] = {
        { "{\"weight_map\": {\"a\": \"files_1.safetensors\", \"b\": \"files_1.safetensors\"}}",
          "entry \"b\": expected in files_1" },
        { "{\"weight_map\": {\"a\": \"files_3.safetensors\"}}",
          "files_3.safetensors: cannot be opened" },
        { "{\"weight_map\": {\"a\": \"../build/files_1.safetensors\"}}",
          "expected in a file beside the index" },
        { "{\"weight_map\": {\"a\": 7}}", "expected in a file beside the index, found none" },
        { "{\"weight_map\": {\"a\": \"files.index.json\"}}",
          "expected arrays in files.index.json, found an index" },
        { "{\"weight_map\": [\"a\", \"b\"]}", "with a weight_map" },
        { "{\"weights\": {\"a\": 1}}", "with a weight_map" },
        { "{\"weight_map\": {\"a\": \"files_1", "JSON" },
        { "{\"weight_map\": {\"a\": \"files_1.safetensors\", \"b\": \"files_2.safetensors\", "
          "\"c\": \"files_2.safetensors\"}}",
          "entry \"c\"" }
    };
    mmix_entry e[2];
    float values[6] = {0};
    mmix_ctx *m = context(1, 0);
    memset(e, 0, sizeof e);
    e[0].name = "a";
    e[0].dtype = MMIX_FILE_F32;
    e[0].ndim = 2;
    e[0].shape[0] = 2;
    e[0].shape[1] = 3;
    e[0].data = one;
    e[1].name = "b";
    e[1].dtype = MMIX_FILE_F32;
    e[1].ndim = 1;
    e[1].shape[0] = 2;
    e[1].data = two;
    for (int i = 0; i < 2; i++)
        CHECK(!mmix_archive_save(m, shard[i], &e[i], 1, NULL));
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        const int right = i == sizeof wrong / sizeof *wrong;
        const char *text = right ? "\xEF\xBB\xBF\r\n{\"metadata\": {\"total_size\": 32}, "
                                   "\"weight_map\": {\"b\": \"files_2.safetensors\", "
                                   "\"a\": \"files_1.safetensors\"}}"
                                 : wrong[i].text;
        FILE *f = fopen(index, "wb");
        CHECK(f && fputs(text, f) >= 0 && !fclose(f));
        mmix_archive *a = mmix_archive_open(m, index);
        if (!right) {
            CHECK_AT(!a && says(m, MMIX_ERROR_FILE, wrong[i].says), text);
            continue;
        }
        CHECK(a && mmix_archive_count(a) == 2 && mmix_archive_find(a, "a")->shape[1] == 3);
        CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "a"), MMIX_FILE_F32, values, 6)
              && !memcmp(values, one, sizeof one));
        CHECK(!mmix_archive_read(m, a, mmix_archive_find(a, "b"), MMIX_FILE_F32, values, 2)
              && !memcmp(values, two, sizeof two));
        mmix_archive_close(a);
        CHECK(memory_fails(filed, &whole, 1, 1) >= 9);
    }
    mmix_destroy(m);
    for (int i = 0; i < 2; i++)
        remove(shard[i]);
    remove(index);
}

/* ---- ../shared/reference ---- */

#define REFERENCE "../shared/reference/"

static void reference(void)
{
    static const char *const checkpoints[] = {"dtypes", "edges", "names"};
    char path[256];
    mmix_ctx *m = small_ctx();
    size_t size, n = 0;
    if (!exists(REFERENCE "malformed/malformed.json")) {
        puts(REFERENCE " is not there: skipped");
        skipped++;
        mmix_destroy(m);
        return;
    }
    unsigned char *text = slurp(REFERENCE "malformed/malformed.json", &size);
    text[size] = 0;                              /* there is room: slurp's */
    Json *list = json_read((const char *)text);
    CHECK(list != NULL);
    free(text);
    for (const Json *i = json_first(list); i; i = i->next) {
        const char *file = json_text(json_find(i, "file"));
        const size_t before = mmix_memory(m).bytes;
        if (!file) continue;
        snprintf(path, sizeof path, REFERENCE "malformed/%s", file);
        mmix_archive *a = mmix_archive_open(m, path);
        CHECK_AT(!a && mmix_error_kind(m) == MMIX_ERROR_FILE && strstr(mmix_error(m), file)
            && !strchr(mmix_error(m), '\n'), file);
        if (getenv("FILES_SHOW"))
            puts(mmix_error(m) ? mmix_error(m) : "?");
        mmix_archive_close(a);
        mmix_error_clear(m);
        CHECK_AT(mmix_memory(m).bytes == before, file);
        n++;
    }
    json_free(list);
    CHECK(n >= 42);

    for (size_t c = 0; c < sizeof checkpoints / sizeof *checkpoints; c++) {
        snprintf(path, sizeof path, REFERENCE "checkpoint-%s.safetensors", checkpoints[c]);
        mmix_archive *want = mmix_archive_open(m, path);
        snprintf(path, sizeof path, REFERENCE "checkpoint/%s.safetensors", checkpoints[c]);
        mmix_archive *got = mmix_archive_open(m, path);
        CHECK_AT(want && got && mmix_archive_count(want) == mmix_archive_count(got), mmix_error(m));
        CHECK(mmix_archive_metadata(want, "case")
            && !strcmp(mmix_archive_metadata(want, "case"), "checkpoint"));
        for (size_t i = 0; i < mmix_archive_count(want); i++) {
            const mmix_entry *w = mmix_archive_entry(want, i);
            /* out.NAME */
            const mmix_entry *g = mmix_archive_find(got, w->name + 4);
            double x[64], y[64];
            size_t count = mmix_entry_count(w);
            CHECK_AT(g && count <= 64 && !mmix_archive_read(m, want, w, MMIX_FILE_F64, x, count)
                && !mmix_archive_read(m, got, g, MMIX_FILE_F64, y, count)
                && g->ndim == w->ndim && !memcmp(g->shape, w->shape, sizeof g->shape)
                && !memcmp(x, y, count * sizeof *x), w->name);
        }
        mmix_archive_close(want);
        mmix_archive_close(got);
    }
    mmix_destroy(m);
}

/* A number of /proc/self/status, in bytes; 0 where there is none. */
static size_t status(const char *key)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
            kib = (size_t)strtoul(line + strlen(key) + 1, NULL, 10);
    if (f) fclose(f);
    return kib * 1024;
}
/* A list of one matrix and one vector; dtype MMIX_DTYPE_REAL or that of the matrix. */
static mmix_params *two_params(mmix_ctx *m, int dtype)
{
    enum { ROWS = ARENA_BLOCK == 256 ? 37 : 2049, COLUMNS = ARENA_BLOCK == 256 ? 70 : 2080 };
    static const size_t shape[2] = { ROWS, COLUMNS };
    mmix_params *p = mmix_params_create(m);
    if (!p) return NULL;
    p->dtype = dtype;
    mmix_params_add(p, "", "fc.weight", 2, shape, MMIX_INIT_NORMAL, 0.1, 0);
    mmix_params_add(p, "", "fc.bias", 1, shape, MMIX_INIT_UNIFORM, -1, 1);
    return p;
}
/* Whether two lists have the same numbers. */
static int same_numbers(const mmix_params *a, const mmix_params *b)
{
    int same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        const size_t n = mmix_count(a->at[i].tensor);
        real *x = (real *)malloc(2 * n * sizeof *x);
        same = x && !mmix_read(a->at[i].tensor, x) && !mmix_read(b->at[i].tensor, x + n)
            && !memcmp(x, x + n, n * sizeof *x);
        free(x);
    }
    return same;
}
/* Weights of several bands of a file: in each type they are what narrowing makes of them in memory,
   and reading takes 1.15 of their memory and what a band takes, since the file's pages are given
   back behind. */
static void in_bands(void)
{
    static const int types[] = { MMIX_DTYPE_REAL, MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8,
                                 MMIX_DTYPE_Q4 };
    mmix_ctx *m = context(3, 1);
    mmix_params *p = two_params(m, MMIX_DTYPE_REAL);
    if (!CHECK(!mmix_params_allocate(p))) return;
    mmix_entry e[2];
    for (size_t i = 0; i < 2; i++) e[i] = entry_of(&p->at[i]);
    CHECK(!mmix_archive_save(m, PATH, e, 2, NULL));
    mmix_params_destroy(p);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        mmix_params *read = two_params(m, types[t]), *want = two_params(m, MMIX_DTYPE_REAL);
        mmix_params_allocate(want);
        if (t) CHECK(!mmix_params_narrow(want, types[t]));
        FILE *f = fopen("/proc/self/clear_refs", "w");
        const int measures = f && fputs("5", f) >= 0 && !fflush(f);  /* the peak begins anew */
        if (f) fclose(f);
        const size_t before = status("VmRSS");
        CHECK(!mmix_params_load(read, PATH));
        const size_t took = status("VmHWM") - before, weights = read->slab * sizeof(mmix_real);
        CHECK(same_numbers(read, want));
#if defined(__linux__) && !defined(MMIX_REGRESSION) && !defined(__SANITIZE_ADDRESS__)
        if (!measures || !before) skipped++;
        else if (!CHECK(took < weights + weights / 100 * 15 + (4u << 20)))
            printf("type %d: %.1f MiB for %.1f MiB of weights\n", types[t],
                   (double)took / 1048576, (double)weights / 1048576);
#endif
        (void)measures, (void)took, (void)weights;
        mmix_params_destroy(read);
        mmix_params_destroy(want);
    }
    CHECK(!mmix_error(m));
    remove(PATH);
    mmix_destroy(m);
}
#endif

int main(void)
{
    headers();
    damage();
    torch_and_numpy();
    proportion();
    torch_types();
    torch_negative();
    torch_script();
    torch_beside();
    torch_long_folder();
    other_types();
    many_small_json();
    many_small_pth();
    zip_wide();
    small_things();
#ifdef MMIX_NO_STDIO
    no_stdio();
#else
    CHECK(!strcmp(mmix_file_dtype_name(MMIX_FILE_F16), "F16")
          && !strcmp(mmix_file_dtype_name(MMIX_FILE_BOOL), "BOOL"));
    CHECK(!mmix_file_dtype_name(-1) && !mmix_file_dtype_name(MMIX_FILE_IQ4_XS + 1));
    round_trip();
    in_bands();
    halves();
    many();
    saving_fails();
    shards();
#if defined(__unix__) || defined(__APPLE__)
    saving_over();
    saving_long_name();
#endif
    allocation_fails();
    truncated_files();
    reference();
    remove(PATH);
#endif
    return summary();
}
