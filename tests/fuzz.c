/* fuzz.c - bytes that nobody meant well, for the readers of files

   Without libFuzzer: without a FUZZ_… it has a main, for any compiler.

       build/fuzz                 hostile files, then seeds and 1000 changes of each; ends with a sum
       build/fuzz --runs N        N changes of each
       build/fuzz FILE...         these files, to see a finding again
       build/fuzz --corpus DIR    writes the seeds (with -DFUZZ_MAIN -DFUZZ_PTH: those of .pth alone)
       build/fuzz --hostile DIR   writes files that once took too much memory, or worse

   With it (clang 14: Debian's clang and libclang-rt-14-dev), 10 minutes a format. FUZZ_ANY, with a corpus of
   all formats, takes what comes. Without MMIX_NO_SIMD the compilation takes four times as long:

       for f in SAFETENSORS NPY PTH PPM; do
           clang -g -O1 -std=c99 -DFUZZ_$f -DMMIX_NO_SIMD -fsanitize=fuzzer,address,undefined \
               -fno-sanitize-recover=undefined tests/fuzz.c -o build/fuzz_$f -lm -lpthread
           cc -std=c99 -DFUZZ_MAIN -DFUZZ_$f tests/fuzz.c -o build/fuzz_seeds -lm -lpthread
           mkdir -p build/corpus_$f && build/fuzz_seeds --corpus build/corpus_$f
           build/fuzz_$f -max_total_time=600 -timeout=10 -max_len=16384 -print_final_stats=1 \
               -artifact_prefix=build/$f- build/corpus_$f
       done

   Small files of other origin (../shared/reference/checkpoint and malformed) may be copied into a corpus. A
   finding lies in build/FORMAT-crash-…

   What holds for every input: no crash, no leak, never more than BUDGET held; a refusal of kind
   MMIX_ERROR_FILE in one line; of an accepted file every entry can be found by its name and read. */
#if !defined FUZZ_SAFETENSORS && !defined FUZZ_NPY && !defined FUZZ_PTH && !defined FUZZ_PPM
#if !defined FUZZ_ANY && !defined FUZZ_MAIN
#define FUZZ_MAIN
#endif
#undef FUZZ_ANY
#define FUZZ_ANY
#define FUZZ_SAFETENSORS
#define FUZZ_NPY
#define FUZZ_PTH
#define FUZZ_PPM
#endif
#define _POSIX_C_SOURCE 200112L                  /* posix_memalign */
#include "test.h"

/* The library's copy of the file, and as much again for what it makes of it. */
#define BUDGET(size) (2 * (size) + (1u << 20))
enum { READ_MOST = 1 << 22 };                    /* elements read of one file: entries may share their data */

/* ---- memory that is counted ---- */

/* Blocks end where they were asked to end, so that a sanitizer sees the first byte beyond; without one the
   bytes behind a block are a guard. */
#if defined(__has_feature)                       /* clang's way */
#if __has_feature(address_sanitizer)
#define FUZZ_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FUZZ_SANITIZED
#endif
#ifdef FUZZ_SANITIZED
enum { GUARD = 0 };
#else
enum { GUARD = 64 };
#endif
typedef struct counts { size_t live, peak; int wrong; } counts;

static void *counted_alloc(void *user, size_t size)
{
    counts *c = (counts *)user;
    void *raw;
    if (posix_memalign(&raw, 64, 64 + size + GUARD)) return NULL;
    unsigned char *p = (unsigned char *)raw + 64;
    memcpy(raw, &size, sizeof size);
    memset(p + size, 0x5a, GUARD);
    c->live += size;
    if (c->live > c->peak) c->peak = c->live;
    return p;
}
static void counted_free(void *user, void *ptr, size_t size)
{
    counts *c = (counts *)user;
    unsigned char *p = (unsigned char *)ptr;
    size_t asked;
    memcpy(&asked, p - 64, sizeof asked);
    c->wrong |= asked != size;
    for (int i = 0; i < GUARD; i++) c->wrong |= p[asked + i] != 0x5a;
    c->live -= size;
    free(p - 64);
}

static counts count;
static void *counted_block(size_t size) { return counted_alloc(&count, size); }
static void counted_release(void *p)             /* whose size is not told */
{
    size_t asked;
    if (!p) return;
    memcpy(&asked, (unsigned char *)p - 64, sizeof asked);
    counted_free(&count, p, asked);
}
#define BYTES_MALLOC(size) counted_block(size)
#define BYTES_FREE(p) counted_release(p)
#include "../demos/ppm.h"

static mmix_ctx *counting(void)
{
    static mmix_ctx *m;                          /* one for all inputs: most files take less time than it */
    mmix_options o;
    if (m) return m;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    o.allocator.alloc = counted_alloc;
    o.allocator.free = counted_free;
    o.allocator.user = &count;
    o.allocator.byte_limit = (size_t)256 << 20;  /* more than BUDGET of anything here, less than a machine */
    return m = mmix_create(&o);
}

/* ---- what must hold: NULL, or in words what does not ---- */

static const char *refusal(mmix_ctx *m)
{
    const char *e = mmix_error(m);
    if (!e) return "refused without a message";
    if (mmix_error_kind(m) == MMIX_ERROR_MEMORY) return "runs out of memory instead of refusing";
    if (mmix_error_kind(m) != MMIX_ERROR_FILE) return "refused, but not as a file";
    if (strlen(e) < 20) return "refused in too few words";
    for (; *e; e++)
        if ((unsigned char)*e < 32) return "refused in more than one line";
    return NULL;
}

static const char *entry_is_wrong(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, size_t *left)
{
    static const size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};                /* by MMIX_FILE_F64 … */
    size_t n = 1, bytes;
    int some = 1;
    if (e->dtype < 0 || e->dtype > MMIX_FILE_BOOL || e->ndim < 0 || e->ndim > MMIX_FILE_MAX_DIMS)
        return "an entry has no dtype or too many axes";
    for (int i = 0; i < e->ndim; i++) some = some && e->shape[i];
    for (int i = 0; some && i < e->ndim; i++) {
        if (n > SIZE_MAX / 8 / e->shape[i]) return "an entry's shape wraps around";
        n *= e->shape[i];
    }
    bytes = some ? n * sizes[e->dtype] : 0;
    n = some ? n : 0;
    if (mmix_entry_count(e) != n || e->bytes != bytes) return "an entry's bytes are not its shape";
    if (!e->name || mmix_archive_find(a, e->name) != e) return "an entry is not found by its name";
    if (n > *left) return NULL;
    *left -= n;
    double *d = (double *)malloc((n + !n) * sizeof *d);
    mmix_real *r = (mmix_real *)malloc((n + !n) * sizeof *r);
    int64_t *k = (int64_t *)malloc((n + !n) * sizeof *k);
    const int bad = mmix_archive_read(m, a, e, MMIX_FILE_F64, d, n) || mmix_archive_read(m, a, e, MMIX_FILE_REAL, r, n);
    const int refused = mmix_archive_read(m, a, e, MMIX_FILE_I64, k, n) != 0;
    free(d), free(r), free(k);
    if (bad) return "an entry can't be read";
    if (refused != (e->dtype < MMIX_FILE_I64)) return "an entry is read, or refused, as integers";
    if (refused && refusal(m)) return refusal(m);
    mmix_error_clear(m);
    return NULL;
}

static int accepted;                             /* by the last of these two */

/* The bytes in memory, or the file at `path` that holds them. */
static const char *archive_is_wrong(mmix_ctx *m, const char *path, const unsigned char *data, size_t size)
{
    const size_t before = count.live, bytes = mmix_memory(m).bytes;
    size_t left = READ_MOST, held;
    const char *wrong = NULL;
    mmix_memory_peak_clear(m);
    count.peak = before;
    mmix_archive *a = path ? mmix_archive_open(m, path) : mmix_archive_open_memory(m, "file", data, size);
    accepted = a != NULL;
    held = count.peak - before;
    if (mmix_memory(m).peak - bytes != held) wrong = "the context miscounts its memory";
    if (held > BUDGET(size)) wrong = "holds more memory than the budget";
    if (!wrong && !a) wrong = refusal(m);
    if (!wrong && a && mmix_error(m)) wrong = "opens with an error";
    for (size_t i = 0; !wrong && i < mmix_archive_count(a); i++)
        wrong = entry_is_wrong(m, a, mmix_archive_entry(a, i), &left);
    if (a && mmix_archive_entry(a, mmix_archive_count(a))) wrong = "has one entry too many";
    if (a && mmix_archive_metadata(a, "no such key, is there?")) wrong = "answers for a key it has not";
    mmix_archive_close(a);
    mmix_error_clear(m);
    if (!wrong && (count.live != before || mmix_memory(m).bytes != bytes)) wrong = "leaks";
    return wrong;
}

static const char *picture_is_wrong(mmix_ctx *m, const char *path, const unsigned char *data, size_t size)
{
    const size_t before = count.live;
    size_t width = 7, height = 7;
    unsigned sum = 0;
    const char *wrong = NULL;
    count.peak = before;
    uint8_t *rgb = path ? ppm_load(m, path, &width, &height)
        : ppm_read(m, "file", data, size, &width, &height);
    accepted = rgb != NULL;
    if (count.peak - before > (path ? 4 : 3) * size + (1u << 10)) wrong = "holds more than a picture of grey";
    if (!wrong && !rgb) wrong = width || height ? "refused with a size" : refusal(m);
    for (size_t i = 0; rgb && i < width * height * 3; i++) sum += rgb[i];
    if (rgb && (!width || !height || sum > 255 * width * height * 3)) wrong = "a picture without pixels";
    ppm_free(rgb);
    mmix_error_clear(m);
    if (!wrong && count.live != before) wrong = "leaks";
    return wrong;
}

static int begins(const unsigned char *data, size_t size, const char *with)
{
    return size >= strlen(with) && !memcmp(data, with, strlen(with));
}
static int is_picture(const unsigned char *data, size_t size)
{
    return begins(data, size, "P5") || begins(data, size, "P6");
}
static const char *is_wrong(const char *path, const unsigned char *data, size_t size)
{
#if defined FUZZ_ANY
    const int picture = is_picture(data, size);
#elif defined FUZZ_PPM
    const int picture = 1;
#else
    const int picture = 0;
#endif
    const char *wrong = (picture ? picture_is_wrong : archive_is_wrong)(counting(), path, data, size);
    return count.wrong ? count.wrong = 0, "wrote behind a block, or freed it with another size" : wrong;
}

/* ---- bytes and zip files in the making ---- */

typedef struct bytes { unsigned char *at; size_t size, room; } bytes;

static void put(bytes *b, const void *from, size_t n)
{
    if (n > b->room - b->size) {
        b->room = 2 * (b->size + n);
        b->at = (unsigned char *)realloc(b->at, b->room);
        if (!b->at) abort();
    }
    if (n) memcpy(b->at + b->size, from, n);
    b->size += n;
}
static void set_number(unsigned char *at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) at[i] = (unsigned char)(value >> 8 * i);
}
static uint64_t number(const unsigned char *p, int n)
{
    uint64_t value = 0;
    while (n-- > 0) value = value << 8 | p[n];
    return value;
}
static void put_number(bytes *b, uint64_t value, int n)
{
    unsigned char le[8];
    set_number(le, value, n);
    put(b, le, (size_t)n);
}

static uint32_t crc32_of(const unsigned char *p, size_t n)
{
    static uint32_t table[256];
    uint32_t crc = 0xffffffffu;
    for (uint32_t i = 0; i < 256 && !table[255]; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
        table[i] = c;
    }
    while (n--) crc = crc >> 8 ^ table[(crc ^ *p++) & 255];
    return ~crc;
}

typedef struct zip { bytes file, directory; size_t members; } zip;

/* A line of the directory for a local header at `local`. */
static void zip_list(zip *z, const void *name, size_t length, uint32_t crc, size_t size, size_t local)
{
    unsigned char d[46] = {0};
    set_number(d, 0x02014b50, 4), set_number(d + 16, crc, 4);
    set_number(d + 20, size, 4), set_number(d + 24, size, 4);
    set_number(d + 28, length, 2), set_number(d + 42, local, 4);
    put(&z->directory, d, sizeof d);
    put(&z->directory, name, length);
    z->members++;
}
static void zip_local(bytes *b, const void *name, size_t length, uint32_t crc, size_t size)
{
    unsigned char d[30] = {0};
    set_number(d, 0x04034b50, 4), set_number(d + 14, crc, 4);
    set_number(d + 18, size, 4), set_number(d + 22, size, 4), set_number(d + 26, length, 2);
    put(b, d, sizeof d);
    put(b, name, length);
}
static void zip_add_named(zip *z, const void *name, size_t length, const void *data, size_t size)
{
    const uint32_t crc = crc32_of((const unsigned char *)data, size);
    zip_list(z, name, length, crc, size, z->file.size);
    zip_local(&z->file, name, length, crc, size);
    put(&z->file, data, size);
}
/* The end; `big` adds the 64-bit form, as torch.save does. The file is the caller's. */
static bytes zip_end(zip *z, int big)
{
    const size_t at = z->file.size, listed = z->directory.size, end = at + listed;
    put(&z->file, z->directory.at, listed);
    if (big) {
        put_number(&z->file, 0x06064b50, 4), put_number(&z->file, 44, 8);
        put_number(&z->file, 0, 4), put_number(&z->file, 0, 8);      /* versions, disks */
        put_number(&z->file, z->members, 8), put_number(&z->file, z->members, 8);
        put_number(&z->file, listed, 8), put_number(&z->file, at, 8);
        put_number(&z->file, 0x07064b50, 4), put_number(&z->file, 0, 4);
        put_number(&z->file, end, 8), put_number(&z->file, 1, 4);
    }
    put_number(&z->file, 0x06054b50, 4), put_number(&z->file, 0, 4);
    put_number(&z->file, z->members, 2), put_number(&z->file, z->members, 2);
    put_number(&z->file, listed, 4), put_number(&z->file, at, 4), put_number(&z->file, 0, 2);
    free(z->directory.at);
    return z->file;
}

/* Where things stand in a zip file; the members up to the first that can't be reached. */
typedef struct member { size_t entry, local, name, length, data, size; } member;

static size_t zip_walk(const unsigned char *b, size_t size, member *list, size_t most)
{
    size_t end = size >= 22 ? size - 22 : 0, n = 0;
    uint64_t at, members;
    while (end && number(b + end, 4) != 0x06054b50) end--;
    if (!end) return 0;
    members = number(b + end + 10, 2), at = number(b + end + 16, 4);
    if (end >= 20 && number(b + end - 20, 4) == 0x07064b50) {
        const uint64_t big = number(b + end - 12, 8);
        if (size < 56 || big > size - 56) return 0;
        members = number(b + big + 32, 8), at = number(b + big + 48, 8);
    }
    for (; n < members && n < most; n++) {
        member *f = &list[n];
        if (at > size || size - at < 46 || number(b + at, 4) != 0x02014b50) break;
        f->entry = (size_t)at, f->size = (size_t)number(b + at + 24, 4);
        f->local = (size_t)number(b + at + 42, 4);
        f->name = (size_t)at + 46, f->length = (size_t)number(b + at + 28, 2);
        at += 46 + f->length + number(b + at + 30, 2) + number(b + at + 32, 2);
        if (f->length > size - f->name || f->local > size || size - f->local < 30) break;
        f->data = f->local + 30 + (size_t)(number(b + f->local + 26, 2) + number(b + f->local + 28, 2));
        if (f->data > size || f->size > size - f->data) break;
    }
    return n;
}

/* ---- changes that get past the checksums and lengths ---- */

#ifdef FUZZ_MAIN
static uint64_t dice = 1;
static size_t roll(size_t n)                     /* 0 … n - 1 */
{
    dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
    return n ? (size_t)(dice >> 20) % n : 0;
}
/* A few bytes changed, put in, taken out or copied; what libFuzzer's own does better. */
static size_t change(unsigned char *d, size_t size, size_t most)
{
    static const unsigned char edge[] = {0, 1, 127, 128, 255, '0', '9', '"', '(', '[', '{', ',', '-', '\\'};
    for (size_t times = 1 + roll(3); times--;) {
        size_t at = roll(size), n = 1 + roll(8);
        switch (roll(5)) {
        case 0: if (size) d[at] = (unsigned char)(d[at] ^ 1u << roll(8)); break;
        case 1: if (size) d[at] = edge[roll(sizeof edge)]; break;
        case 2: if (n < size - at) memmove(d + at, d + at + n, size - at - n), size -= n; break;
        case 3:
            if (n > most - size) break;
            memmove(d + at + n, d + at, size - at), size += n;
            while (n--) d[at + n] = roll(2) ? edge[roll(sizeof edge)] : (unsigned char)roll(256);
            break;
        default: if (n < size - at) memmove(d + roll(size - n), d + at, n);
        }
    }
    return size;
}
#else
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
static size_t change(unsigned char *d, size_t size, size_t most)
{
    return most ? LLVMFuzzerMutate(d, size, most) : 0;
}
#endif

static void zip_repair(unsigned char *data, size_t size)
{
    member list[64];
    size_t n = zip_walk(data, size, list, 64);
    for (size_t i = 0; i < n; i++) {
        const uint32_t crc = crc32_of(data + list[i].data, list[i].size);
        set_number(data + list[i].entry + 16, crc, 4);
        set_number(data + list[i].local + 14, crc, 4);
    }
}

/* One of a pickle's numbers of a byte becomes one of 8: near a power of two. */
static void big_number(bytes *b, unsigned seed)
{
    size_t n = 0, which;
    for (size_t i = 0; i + 1 < b->size; i++) n += b->at[i] == 'K';
    if (!n) return;
    which = seed % n;
    for (size_t i = 0; i + 1 < b->size; i++)
        if (b->at[i] == 'K' && !which--) {
            const unsigned bit = seed / 64 % 64;
            put(b, "eight more", 8);
            memmove(b->at + i + 10, b->at + i + 2, b->size - i - 10);
            b->at[i] = 0x8a, b->at[i + 1] = 8;
            set_number(b->at + i + 2, ((uint64_t)1 << bit) + seed / 4096 % 3 - 1, 8);
            return;
        }
}

/* The whole with its checksums mended; a member in its place; or a member of another length in a new zip. */
static size_t zip_change(unsigned char *data, size_t size, size_t most, unsigned seed)
{
    member list[64], *f;
    const size_t n = zip_walk(data, size, list, 64);
    const unsigned how = seed % 4, more = seed / 4 * 2654435761u >> 7;
    if (!n || !how) {
        size = change(data, size, most);
        zip_repair(data, size);
        return size;
    }
    f = &list[more % n];
    for (size_t i = 0; more & 1024 && i < n; i++)                 /* a pickle is the part with most to it */
        if (list[i].length >= 8 && !memcmp(data + list[i].name + list[i].length - 8, "data.pkl", 8))
            f = &list[i];
    if (how == 1) {
        if (f->size) change(data + f->data, f->size, f->size);
        zip_repair(data, size);
        return size;
    }
    zip z;
    bytes b = {NULL, 0, 0}, out;
    memset(&z, 0, sizeof z);
    put(&b, data + f->data, f->size);
    if (how == 2) big_number(&b, more);
    else {
        b.size = f->size + 64;
        b.at = (unsigned char *)realloc(b.at, b.room = b.size);
        if (!b.at) abort();
        b.size = change(b.at, f->size, b.size);
    }
    for (size_t i = 0; i < n; i++)
        if (f == &list[i]) zip_add_named(&z, data + f->name, f->length, b.at, b.size);
        else zip_add_named(&z, data + list[i].name, list[i].length, data + list[i].data, list[i].size);
    out = zip_end(&z, 0);
    if (out.size <= most) memcpy(data, out.at, size = out.size);
    free(out.at), free(b.at);
    return size;
}

/* A safetensors header changed and its length put right. */
static size_t header_change(unsigned char *data, size_t size, size_t most)
{
    const uint64_t n = size >= 8 ? number(data, 8) : 0;
    bytes b = {NULL, 0, 0}, out = {NULL, 0, 0};
    if (size < 8 || n > size - 8) return change(data, size, most);
    put(&b, data + 8, (size_t)n);
    b.at = (unsigned char *)realloc(b.at, b.room = (size_t)n + 64);
    if (!b.at) abort();
    b.size = change(b.at, (size_t)n, b.room);
    put_number(&out, b.size, 8), put(&out, b.at, b.size), put(&out, data + 8 + n, size - 8 - (size_t)n);
    if (out.size <= most) memcpy(data, out.at, size = out.size);
    free(b.at), free(out.at);
    return size;
}

static size_t one_change(unsigned char *data, size_t size, size_t most, unsigned seed)
{
    if (begins(data, size, "PK\3\4")) return zip_change(data, size, most, seed);
    if (begins(data, size, "\x93NUMPY") || is_picture(data, size) || seed % 4 == 0)
        return change(data, size, most);
    return header_change(data, size, most);
}

#ifndef FUZZ_MAIN

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    return one_change(data, size, max_size, seed);
}
/* Each target keeps to its own format, which the first bytes tell. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *wrong;
#if defined FUZZ_ANY
#elif defined FUZZ_PTH
    if (!begins(data, size, "PK\3\4")) return 0;
#elif defined FUZZ_NPY
    if (!begins(data, size, "PK\3\4") && !begins(data, size, "\x93NUMPY")) return 0;
#elif defined FUZZ_SAFETENSORS
    if (begins(data, size, "PK\3\4") || begins(data, size, "\x93NUMPY")) return 0;
#endif
    wrong = is_wrong(NULL, data, size);
    if (wrong) {
        fprintf(stderr, "fuzz: a file of %zu bytes: %s\n", size, wrong);
        abort();
    }
    return 0;
}

#else

/* ---- seeds, and hostile files ---- */

#define PUT(b, literal) put(b, literal, sizeof(literal) - 1)
static void put_text(bytes *b, const char *text) { put(b, text, strlen(text)); }
static void put_times(bytes *b, const char *text, size_t times)
{
    while (times--) put_text(b, text);
}
static bytes text_bytes(const char *text)
{
    bytes b = {NULL, 0, 0};
    put_text(&b, text);
    return b;
}
static void zip_add(zip *z, const char *name, const void *data, size_t size)
{
    zip_add_named(z, name, strlen(name), data, size);
}

typedef struct seed { const char *name; bytes file; } seed;
static seed seeds[64], hostile[16];
static size_t seed_count, hostile_count;

static void seed_is(const char *name, bytes file)
{
    seeds[seed_count].name = name;
    seeds[seed_count++].file = file;
}
static void hostile_is(const char *name, bytes file)
{
    hostile[hostile_count].name = name;
    hostile[hostile_count++].file = file;
}
/* A header and n bytes of data, 0, 1, 2, … */
static bytes safetensors(const char *header, size_t n)
{
    bytes b = {NULL, 0, 0};
    put_number(&b, strlen(header), 8);
    put_text(&b, header);
    for (size_t i = 0; i < n; i++) put_number(&b, i, 1);
    return b;
}

static void safetensors_seeds(void)
{
    bytes deep = text_bytes("{\"a\":["), page = text_bytes("{\"__metadata__\":{\"k\":\"v\"}}");
    seed_is("plain.safetensors", safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":"
        "[0,24]},\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]}}", 32));
    seed_is("metadata.safetensors", safetensors(" {\"__metadata__\":{\"k\":\"v\\u00e9\\ud83d\\ude00\\n\"}, "
        "\"a/\xc3\xa9\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2],\"more\":[null,true,-1.5e+3,"
        "{\"deep\":[[],{}]}]},\n\"e\":{\"shape\":[0,7],\"data_offsets\":[2,2],\"dtype\":\"F64\"}}  ", 2));
    seed_is("dtypes.safetensors", safetensors(
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[8,12]},"
        "\"c\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[12,16]},"
        "\"d\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[16,18]},"
        "\"e\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[18,19]},"
        "\"f\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[19,21]},"
        "\"g\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[21,22]}}", 22));
    seed_is("empty.safetensors", safetensors("{}", 0));
    put_times(&page, " ", 4096 - 8 - page.size), put(&page, "", 1);
    seed_is("page.safetensors", safetensors((const char *)page.at, 0));          /* nothing behind it */
    free(page.at);

    /* A value of two bytes becomes a node of many. */
    put_times(&deep, "0,", 100000);
    put(&deep, "0]}", 4);
    hostile_is("json_list.safetensors", safetensors((const char *)deep.at, 0));
    free(deep.at);
    /* The smallest entries there are. */
    deep = text_bytes("{");
    for (int i = 0; i < 8000; i++) {
        char one[80];
        snprintf(one, sizeof one, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%d,%d]}",
                 i ? "," : "", i, i, i + 1);
        put_text(&deep, one);
    }
    put(&deep, "}", 2);
    hostile_is("json_entries.safetensors", safetensors((const char *)deep.at, 8000));
    free(deep.at);
}

/* A .npy file of n bytes of data. */
static bytes npy(const char *header, int version, size_t n)
{
    bytes b = {NULL, 0, 0};
    put_text(&b, "\x93NUMPY");
    put_number(&b, (uint64_t)version, 2);
    put_number(&b, strlen(header), version == 1 ? 2 : 4);
    put_text(&b, header);
    for (size_t i = 0; i < n; i++) put_number(&b, i, 1);
    return b;
}

static void npy_seeds(void)
{
    static const struct { char name[16], header[80]; int version; size_t n; } list[] = {
        {"f4.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 24},
        {"f8.npy", "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 2), }\n", 1, 48},
        {"f2.npy", "{'descr': '>f2', 'fortran_order': False, 'shape': (3,), }\n", 1, 6},
        {"i8.npy", "{'descr': '>i8', 'fortran_order': True, 'shape': (2, 1, 2), }\n", 2, 32},
        {"i4.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (), }\n", 3, 4},
        {"i2.npy", "{'descr': '=i2', 'fortran_order': False, 'shape': (0, 4), }\n", 1, 0},
        {"i1.npy", "{'descr': '|i1', 'fortran_order': False, 'shape': (5,), }\n", 1, 5},
        {"u1.npy", "{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2, 1, 2, 1, 2, 1, 1), }\n", 1, 8},
        {"b1.npy", "{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2), }\n", 1, 4}
    };
    zip z;
    bytes b, second;
    memset(&z, 0, sizeof z);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        b = npy(list[i].header, list[i].version, list[i].n);
        if (i < 3) zip_add(&z, list[i].name, b.at, b.size);
        seed_is(list[i].name, b);
    }
    seed_is("three.npz", zip_end(&z, 0));
    memset(&z, 0, sizeof z);
    zip_add(&z, "a.b.npy", seeds[seed_count - 2].file.at, seeds[seed_count - 2].file.size);
    seed_is("one64.npz", zip_end(&z, 1));

    /* Members that share their bytes, and each wants a copy: 500 times 64 kB. */
    b = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 32768), }\n", 1, 65536);
    memset(&z, 0, sizeof z);
    zip_local(&z.file, "a.npy", 5, 0, b.size);
    put(&z.file, b.at, b.size);
    for (int i = 0; i < 500; i++) {
        char name[24];
        snprintf(name, sizeof name, "%d.npy", i);
        zip_list(&z, name, strlen(name), crc32_of(b.at, b.size), b.size, 0);
    }
    free(b.at);
    hostile_is("shared.npz", zip_end(&z, 0));

    /* A member in another's data. a is big-endian, so turning its bytes round changes b's header, which said
       until then that there is nothing to copy. */
    b = text_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }  ");
    const size_t half = b.size & ~(size_t)1;
    b.size = half;
    put_text(&b, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }  ");
    for (size_t i = half; i + 1 < b.size; i += 2) {
        const unsigned char c = b.at[i];
        b.at[i] = b.at[i + 1], b.at[i + 1] = c;
    }
    put_number(&b, 0, 1);
    b.at[b.size - 1] = 0;
    second = npy((const char *)b.at, 1, 32);
    const size_t data = b.size - 1 + 32;         /* b's header and data, which are a's data */
    free(b.at);
    bytes a = {NULL, 0, 0}, inner = {NULL, 0, 0};
    char header[96];
    snprintf(header, sizeof header, "{'descr': '>f2', 'fortran_order': False, 'shape': (%zu,), } ", data / 2);
    zip_local(&inner, "b.npy", 5, 0, second.size);
    const size_t local = inner.size;
    put(&inner, second.at, second.size);
    put_text(&a, "\x93NUMPY");
    put_number(&a, 1, 2), put_number(&a, strlen(header) + local + 10, 2);
    put_text(&a, header);
    memset(&z, 0, sizeof z);
    zip_local(&z.file, "a.npy", 5, 0, a.size + inner.size);
    const size_t begin = z.file.size + a.size;   /* of b's local header */
    put(&a, inner.at, inner.size);
    put(&z.file, a.at, a.size);
    zip_list(&z, "a.npy", 5, crc32_of(a.at, a.size), a.size, 0);
    zip_list(&z, "b.npy", 5, crc32_of(second.at, second.size), second.size, begin);
    free(a.at), free(inner.at), free(second.at);
    hostile_is("overlap.npz", zip_end(&z, 0));
}

static void py_text(bytes *b, const char *text)
{
    put_text(b, "X");
    put_number(b, strlen(text), 4);
    put_text(b, text);
}
static void py_int(bytes *b, uint64_t n)
{
    put(b, n < 256 ? "K" : "\x8a\x08", n < 256 ? 1 : 2);
    put_number(b, n, n < 256 ? 1 : 8);
}
#define DICT "ccollections\nOrderedDict\n)R"
/* What torch.save writes for a tensor of ndim <= 2 in storage `key` of `total` elements. */
static void py_tensor(bytes *b, const char *type, const char *key, uint64_t total, uint64_t offset, int ndim,
                      const uint64_t *shape, const uint64_t *stride)
{
    put_text(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    py_text(b, "storage");
    put_text(b, "ctorch\n"), put_text(b, type), put_text(b, "\n");
    py_text(b, key), py_text(b, "cpu"), py_int(b, total);
    put_text(b, "tQ"), py_int(b, offset);
    put_text(b, "(");
    for (int i = 0; i < ndim; i++) py_int(b, shape[i]);
    put_text(b, "t(");
    for (int i = 0; i < ndim; i++) py_int(b, stride[i]);
    put_text(b, "t\x89" DICT "tR");
}
/* A .pth file of the pickle, which is freed, and three storages: 6 floats, 2 numbers of 8 bytes, 4 of 2. */
static bytes pth(bytes pickle, int big)
{
    static const float f[6] = {0, 1, 2, 3, 4, 5};
    static const int64_t i[2] = {3, 4};
    static const uint16_t h[4] = {0x3f80, 0xc000, 1, 2};
    zip z;
    memset(&z, 0, sizeof z);
    zip_add(&z, "a/data.pkl", pickle.at, pickle.size);
    zip_add(&z, "a/byteorder", "little", 6);
    zip_add(&z, "a/data/0", f, sizeof f);
    zip_add(&z, "a/data/1", i, sizeof i);
    zip_add(&z, "a/data/2", h, sizeof h);
    free(pickle.at);
    return zip_end(&z, big);
}

static void pth_seeds(void)
{
    static const uint64_t two_three[2] = {2, 3}, three_one[2] = {3, 1}, three_two[2] = {3, 2},
        one_three[2] = {1, 3}, two[1] = {2}, one[1] = {1}, zero[2] = {0, 0};
    static const uint64_t half[1] = {(uint64_t)1 << 61}, many[2] = {1 << 15, 1 << 10};
    bytes b = text_bytes("\x80\2}(");
    py_text(&b, "w"), py_tensor(&b, "FloatStorage", "0", 6, 0, 2, two_three, three_one);
    py_text(&b, "i"), py_tensor(&b, "LongStorage", "1", 2, 1, 1, one, one);
    put_text(&b, "u.");
    seed_is("flat.pth", pth(b, 0));

    b = text_bytes("\x80\2");                    /* a training run: names in names, memory, objects */
    PUT(&b, "}q\0(");
    py_text(&b, "teacher"), put_text(&b, DICT "("), py_text(&b, "w");
    py_tensor(&b, "FloatStorage", "0", 6, 0, 2, three_two, one_three), put_text(&b, "q\1");
    py_text(&b, "again"), put_text(&b, "h\1u");
    py_text(&b, "args"), put_text(&b, "cargparse\nNamespace\n)\x81}("), py_text(&b, "lr");
    PUT(&b, "G\x3f\xb9\0\0\0\0\0\0"), py_text(&b, "none"), put_text(&b, "Nub"), py_text(&b, "p");
    put_text(&b, "ctorch._utils\n_rebuild_parameter\n(");
    py_tensor(&b, "DoubleStorage", "1", 2, 0, 1, two, one), put_text(&b, "\x88" DICT "tR");
    py_text(&b, "steps"), PUT(&b, "](M\1\1J\xff\xff\xff\xff" "eu.");
    seed_is("training.pth", pth(b, 1));

    b = text_bytes("\x80\4\x95");                /* protocol 4 */
    put_number(&b, 99, 8);
    PUT(&b, "}\x94\x8c\1h\x94\x8c\x0ctorch._utils\x94\x8c\x12_rebuild_tensor_v2\x94\x93\x94((\x8c\7storage"
        "\x94\x8c\5torch\x8c\x0f" "BFloat16Storage\x93\x8c\1" "2\x8c\3cpuK\4tQK\0K\2K\2\x86K\1K\2\x86\x89"
        "\x8c\x0b" "collections\x8c\x0bOrderedDict\x93)RtRs.");
    seed_is("protocol4.pth", pth(b, 0));

    b = text_bytes("\x80\2");                    /* every instruction makes a value */
    put_times(&b, "N", 200000), put_text(&b, ".");
    hostile_is("pickle.pth", pth(b, 0));
    b = text_bytes("\x80\2}(");                  /* 64 MB of one number: a.expand(32768, 1024) */
    py_text(&b, "w"), py_tensor(&b, "BFloat16Storage", "2", 4, 0, 2, many, zero), put_text(&b, "u.");
    hostile_is("expanded.pth", pth(b, 0));
    b = text_bytes("\x80\2}(");                  /* 2^61 numbers of 8 bytes are 0 bytes, modulo 2^64 */
    py_text(&b, "w"), py_tensor(&b, "DoubleStorage", "1", 2, 0, 1, half, zero), put_text(&b, "u.");
    hostile_is("wraps.pth", pth(b, 0));
    b = text_bytes("\x80\2}");                   /* a long name before many, each recalled in four bytes */
    py_text(&b, "w"), put_text(&b, "q\1"), put_text(&b, "0");
    py_tensor(&b, "FloatStorage", "0", 6, 0, 1, one, one), put_text(&b, "q\2" "0(X");
    put_number(&b, 1000, 4), put_times(&b, "n", 1000);
    put_text(&b, "}("), put_times(&b, "h\1h\2", 10000), put_text(&b, "uu.");
    hostile_is("names.pth", pth(b, 0));
}

static void ppm_seeds(void)
{
    bytes b = text_bytes("P6\n# a comment\n2 1\n255\n");
    put(&b, "\0\1\2\xff\xfe\xfd", 6);
    seed_is("colour.ppm", b);
    seed_is("grey.pgm", text_bytes("P5 3\t2 7 abcdef and more"));
    hostile_is("large.ppm", text_bytes("P6 16777216 16777216 255\n"));
}

/* ---- main ---- */

static int passed, failed;

static void run(const char *name, const unsigned char *data, size_t size)
{
    unsigned char *exact = (unsigned char *)malloc(size + !size);                /* a sanitizer sees beyond */
    const char *wrong;
    if (size) memcpy(exact, data, size);
    wrong = is_wrong(NULL, exact, size);
    free(exact);
    if (!wrong) passed++;
    else failed++, printf("%s, %zu bytes: %s\n", name, size, wrong);
}
static int save(const char *path, const unsigned char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    const int ok = f && fwrite(data, 1, size, f) == size;
    return f && !fclose(f) && ok;
}
/* From memory and from a file, which may be mapped instead of read: the same must come of it. */
static void run_file(const char *name, const unsigned char *data, size_t size)
{
    run(name, data, size);
#ifndef MMIX_NO_STDIO
    const char *wrong;
    const int before = accepted;
    if (!save("build/fuzz_file", data, size)) wrong = "build/fuzz_file can't be written";
    else wrong = is_wrong("build/fuzz_file", data, size);
    if (!wrong && accepted != before) wrong = "accepted from memory or from a file alone";
    remove("build/fuzz_file");
    if (!wrong) passed++;
    else failed++, printf("%s, %zu bytes, as a file: %s\n", name, size, wrong);
#endif
}
/* Accepted as it is; then cut short at every byte and changed `runs` times. */
static void run_seed(const seed *s, size_t runs)
{
    enum { MOST = 1 << 13 };
    static unsigned char d[MOST];
    char name[64];
    size_t size = s->file.size;
    run_file(s->name, s->file.at, size);
    if (accepted) passed++;
    else failed++, printf("%s: refused\n", s->name);
    for (size_t n = 0; n < size; n++) run(s->name, s->file.at, n);
    for (size_t i = 0; i < runs; i++) {
        const int was = failed;
        if (i % 4 == 0) memcpy(d, s->file.at, size = s->file.size);              /* up to four changes */
        size = one_change(d, size, MOST, (unsigned)roll(1u << 30));
        snprintf(name, sizeof name, "%s, change %zu", s->name, i);
        run(name, d, size);
        if (failed != was && save("build/fuzz_finding", d, size)) puts("    it lies in build/fuzz_finding");
    }
}
static int save_all(const char *folder, const seed *list, size_t n, size_t most)
{
    for (size_t i = 0; i < n; i++) {
        char path[512];
        if (list[i].file.size > most) continue;
        snprintf(path, sizeof path, "%s/%s", folder, list[i].name);
        if (!save(path, list[i].file.at, list[i].file.size)) {
            printf("%s can't be written\n", path);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    size_t runs = 1000;
    int files = 0;
    setvbuf(stdout, NULL, _IOLBF, 1 << 12);      /* what was found before a crash is to be read */
#ifdef FUZZ_SAFETENSORS
    safetensors_seeds();
#endif
#ifdef FUZZ_NPY
    npy_seeds();
#endif
#ifdef FUZZ_PTH
    pth_seeds();
#endif
#ifdef FUZZ_PPM
    ppm_seeds();
#endif
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--corpus"))        /* with those of the hostile files that are small */
            return save_all(next, seeds, seed_count, SIZE_MAX)
                || save_all(next, hostile, hostile_count, 4096);
        if (!strcmp(argv[i], "--hostile")) return save_all(next, hostile, hostile_count, SIZE_MAX);
        if (!strcmp(argv[i], "--runs")) { runs = (size_t)strtoul(next, NULL, 10), i++; continue; }
        static unsigned char data[1 << 24];
        FILE *f = fopen(argv[i], "rb");
        size_t size = f ? fread(data, 1, sizeof data, f) : 0;
        if (!f) failed++, printf("%s can't be read\n", argv[i]);
        else fclose(f), run_file(argv[i], data, size);
        files++;
    }
    for (size_t i = 0; !files && i < hostile_count; i++)
        run_file(hostile[i].name, hostile[i].file.at, hostile[i].file.size);
    for (size_t i = 0; !files && i < seed_count; i++) run_seed(&seeds[i], runs);
    for (size_t i = 0; i < seed_count; i++) free(seeds[i].file.at);
    for (size_t i = 0; i < hostile_count; i++) free(hostile[i].file.at);
    mmix_destroy(counting());
    if (count.live) failed++, printf("%zu bytes are left at the end\n", count.live);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}

#endif
