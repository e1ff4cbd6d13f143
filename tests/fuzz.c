/* fuzz.c - bytes that nobody meant well, for the readers of files

   Without libFuzzer: without a FUZZ_… it has a main, for any compiler.

       build/fuzz                 hostile files, seeds and 1000 changes of each, then small networks
                                  by the names of DINOv2 and
                                  DINOv3 and indices of their files; ends with a sum
       build/fuzz --runs N        N changes of each
       build/fuzz FILE...         these files, to see a finding again
       build/fuzz --corpus DIR    writes the seeds (with -DFUZZ_MAIN -DFUZZ_PTH: those of .pth
                                  alone)
       build/fuzz --hostile DIR   writes files that once took too much memory, or worse

   With it (clang 14: Debian's clang and libclang-rt-14-dev), 10 minutes a format. FUZZ_ANY, with a
   corpus of all formats, takes what comes. Without MMIX_NO_SIMD the compilation takes four times as
   long:

       for f in SAFETENSORS NPY PTH GGUF PPM; do
           clang -g -O1 -std=c99 -DFUZZ_$f -DMMIX_NO_SIMD -fsanitize=fuzzer,address,undefined \
               -fno-sanitize-recover=undefined tests/fuzz.c -o build/fuzz_$f -lm -lpthread
           cc -std=c99 -DFUZZ_MAIN -DFUZZ_$f tests/fuzz.c -o build/fuzz_seeds -lm -lpthread
           mkdir -p build/corpus_$f && build/fuzz_seeds --corpus build/corpus_$f
           build/fuzz_$f -max_total_time=600 -timeout=10 -max_len=16384 -print_final_stats=1 \
               -artifact_prefix=build/$f- build/corpus_$f
       done

   Small files of other origin (../shared/reference/checkpoint and malformed) may be copied into a
   corpus. A finding lies in build/FORMAT-crash-…

   What holds for every input: no crash, no leak, never more than BUDGET held; a refusal of kind
   MMIX_ERROR_FILE in one line; of an accepted file every entry can be found by its name and read.
   */
#if !defined FUZZ_SAFETENSORS && !defined FUZZ_NPY && !defined FUZZ_PTH && !defined FUZZ_GGUF \
    && !defined FUZZ_PPM
#if !defined FUZZ_ANY && !defined FUZZ_MAIN
#define FUZZ_MAIN
#endif
#undef FUZZ_ANY
#define FUZZ_ANY
#define FUZZ_SAFETENSORS
#define FUZZ_NPY
#define FUZZ_PTH
#define FUZZ_GGUF
#define FUZZ_PPM
#endif
#define _POSIX_C_SOURCE 200112L                  /* posix_memalign */
#include "test.h"

/* The library's copy of the file, and what it makes of it: a pickle's values are 20 bytes, and
   an instruction is one. */
#define BUDGET(size) (32 * (size) + (2u << 20))
/* elements read of one file: entries may share their data */
enum { READ_MOST = 1 << 22 };

/* ---- memory that is counted ---- */

/* Blocks end where they were asked to end, so that a sanitizer sees the first byte beyond; without
   one the bytes behind a block are a guard. */
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
    for (int i = 0; i < GUARD; i++)
        c->wrong |= p[asked + i] != 0x5a;
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
#include "../demos/studies/ppm.h"

static mmix_ctx *counting(void)
{
    /* one for all inputs: most files take less time than it */
    static mmix_ctx *m;
    mmix_options o;
    if (m) return m;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    o.allocator.alloc = counted_alloc;
    o.allocator.free = counted_free;
    o.allocator.user = &count;
    /* more than BUDGET of anything here, less than a machine */
    o.allocator.byte_limit = (size_t)256 << 20;
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

static const char *entry_is_wrong(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e,
                                  size_t *left)
{
    /* by MMIX_FILE_F64 … and MMIX_FILE_Q4_0 …: bytes of so many numbers */
    static const size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 2, 4, 8, 1, 0,
                                   18, 20, 34, 144, 176, 210, 22, 24, 84, 110, 18, 136};
    static const size_t of[] = {32, 32, 32, 256, 256, 256, 32, 32, 256, 256, 32, 256};
    size_t n = 1, bytes;
    int some = 1;
    if (e->dtype < MMIX_FILE_OTHER || e->dtype > MMIX_FILE_IQ4_XS
        || e->dtype == MMIX_FILE_REAL_AS_BF16 || e->ndim < 0
        || e->ndim > MMIX_FILE_MAX_DIMS)
        return "an entry has no dtype or too many axes";
    for (int i = 0; i < e->ndim; i++)
        some = some && e->shape[i];
    for (int i = 0; some && i < e->ndim; i++) {
        if (n > SIZE_MAX / 8 / e->shape[i]) return "an entry's shape wraps around";
        n *= e->shape[i];
    }
    n = some ? n : 0;
    if (!e->name || mmix_archive_find(a, e->name) != e)
        return "an entry is not found by its name";
    if (e->dtype == MMIX_FILE_OTHER) {           /* listed; reading it is an error of the file */
        double none;
        if (!mmix_archive_read(m, a, e, MMIX_FILE_F64, &none, n) || refusal(m))
            return "an entry of no numbers is read";
        mmix_error_clear(m);
        return NULL;
    }
    const int block = e->dtype >= MMIX_FILE_Q4_0;
    const size_t together = block ? of[e->dtype - MMIX_FILE_Q4_0] : 1;
    bytes = n / together * sizes[e->dtype];
    if (mmix_entry_count(e) != n || e->bytes != bytes || n % together)
        return "an entry's bytes are not its shape";
    if (n > *left) return NULL;
    *left -= n;
    double *d = (double *)malloc((n + !n) * sizeof *d);
    mmix_real *r = (mmix_real *)malloc((n + !n) * sizeof *r);
    int64_t *k = (int64_t *)malloc((n + !n) * sizeof *k);
    const int bad = mmix_archive_read(m, a, e, MMIX_FILE_F64, d, n)
                    || mmix_archive_read(m, a, e, MMIX_FILE_REAL, r, n);
    const int refused = mmix_archive_read(m, a, e, MMIX_FILE_I64, k, n) != 0;
    free(d);
    free(r);
    free(k);
    if (bad) return "an entry can't be read";
    /* some of U64 are too large */
    if (refused != (block || e->dtype < MMIX_FILE_I64) && e->dtype != MMIX_FILE_U64) return
        "an entry is read, or refused, as integers";
    if (refused && refusal(m)) return refusal(m);
    mmix_error_clear(m);
    return NULL;
}

static int accepted;                             /* by the last of these two */

/* The bytes in memory, or the file at `path` that holds them. */
static const char *archive_is_wrong(mmix_ctx *m, const char *path, const unsigned char *data,
                                    size_t size)
{
    const size_t before = count.live, bytes = mmix_memory(m).bytes;
    size_t left = READ_MOST, held;
    const char *wrong = NULL;
    mmix_memory_peak_clear(m);
    count.peak = before;
    mmix_archive *a = path ? mmix_archive_open(m, path)
                           : mmix_archive_open_memory(m, "file", data, size);
    accepted = a != NULL;
    held = count.peak - before;
    if (mmix_memory(m).peak - bytes != held) wrong = "the context miscounts its memory";
    if (held > BUDGET(size)) wrong = "holds more memory than the budget";
    if (!wrong && !a) wrong = refusal(m);
    if (!wrong && a && mmix_error(m)) wrong = "opens with an error";
    for (size_t i = 0; !wrong && i < mmix_archive_count(a); i++)
        wrong = entry_is_wrong(m, a, mmix_archive_entry(a, i), &left);
    if (a && mmix_archive_entry(a, mmix_archive_count(a))) wrong = "has one entry too many";
    if (a && mmix_archive_metadata(a, "no such key, is there?"))
        wrong = "answers for a key it has not";
    mmix_archive_close(a);
    mmix_error_clear(m);
    if (!wrong && (count.live != before || mmix_memory(m).bytes != bytes))
        wrong = "leaks";
    return wrong;
}

static const char *picture_is_wrong(mmix_ctx *m, const char *path, const unsigned char *data,
                                    size_t size)
{
    const size_t before = count.live;
    size_t width = 7, height = 7;
    unsigned sum = 0;
    const char *wrong = NULL;
    count.peak = before;
    uint8_t *rgb = path ? ppm_load(m, path, &width, &height)
        : ppm_read(m, "file", data, size, &width, &height);
    accepted = rgb != NULL;
    if (count.peak - before > (path ? 4 : 3) * size + (1u << 10))
        wrong = "holds more than a picture of gray";
    if (!wrong && !rgb)
        wrong = width || height ? "refused with a size" : refusal(m);
    for (size_t i = 0; rgb && i < width * height * 3; i++)
        sum += rgb[i];
    if (rgb && (!width || !height || sum > 255 * width * height * 3))
        wrong = "a picture without pixels";
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
    const char *wrong = (picture ? picture_is_wrong : archive_is_wrong)(counting(), path, data,
                                                                        size);
    return count.wrong ? count.wrong = 0,
                         "wrote behind a block, or freed it with another size" : wrong;
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
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(value >> 8 * i);
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
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
        table[i] = c;
    }
    while (n--)
        crc = crc >> 8 ^ table[(crc ^ *p++) & 255];
    return ~crc;
}

typedef struct zip { bytes file, directory; size_t members; } zip;

/* A line of the directory for a local header at `local`. */
static void zip_list(zip *z, const void *name, size_t length, uint32_t crc, size_t size,
                     size_t local)
{
    unsigned char d[46] = {0};
    set_number(d, 0x02014b50, 4);
    set_number(d + 16, crc, 4);
    set_number(d + 20, size, 4);
    set_number(d + 24, size, 4);
    set_number(d + 28, length, 2);
    set_number(d + 42, local, 4);
    put(&z->directory, d, sizeof d);
    put(&z->directory, name, length);
    z->members++;
}
static void zip_local(bytes *b, const void *name, size_t length, uint32_t crc, size_t size)
{
    unsigned char d[30] = {0};
    set_number(d, 0x04034b50, 4);
    set_number(d + 14, crc, 4);
    set_number(d + 18, size, 4);
    set_number(d + 22, size, 4);
    set_number(d + 26, length, 2);
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
        put_number(&z->file, 0x06064b50, 4);
        put_number(&z->file, 44, 8);
        /* versions, disks */
        put_number(&z->file, 0, 4);
        put_number(&z->file, 0, 8);
        put_number(&z->file, z->members, 8);
        put_number(&z->file, z->members, 8);
        put_number(&z->file, listed, 8);
        put_number(&z->file, at, 8);
        put_number(&z->file, 0x07064b50, 4);
        put_number(&z->file, 0, 4);
        put_number(&z->file, end, 8);
        put_number(&z->file, 1, 4);
    }
    put_number(&z->file, 0x06054b50, 4);
    put_number(&z->file, 0, 4);
    put_number(&z->file, z->members, 2);
    put_number(&z->file, z->members, 2);
    put_number(&z->file, listed, 4);
    put_number(&z->file, at, 4);
    put_number(&z->file, 0, 2);
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
    members = number(b + end + 10, 2);
    at = number(b + end + 16, 4);
    if (end >= 20 && number(b + end - 20, 4) == 0x07064b50) {
        const uint64_t big = number(b + end - 12, 8);
        if (size < 56 || big > size - 56) return 0;
        members = number(b + big + 32, 8);
        at = number(b + big + 48, 8);
    }
    for (; n < members && n < most; n++) {
        member *f = &list[n];
        if (at > size || size - at < 46 || number(b + at, 4) != 0x02014b50)
            break;
        f->entry = (size_t)at;
        f->size = (size_t)number(b + at + 24, 4);
        f->local = (size_t)number(b + at + 42, 4);
        f->name = (size_t)at + 46;
        f->length = (size_t)number(b + at + 28, 2);
        at += 46 + f->length + number(b + at + 30, 2) + number(b + at + 32, 2);
        if (f->length > size - f->name || f->local > size || size - f->local < 30)
            break;
        f->data = f->local + 30
                  + (size_t)(number(b + f->local + 26, 2) + number(b + f->local + 28, 2));
        if (f->data > size || f->size > size - f->data) break;
    }
    return n;
}

/* ---- changes that get past the checksums and lengths ---- */

#ifdef FUZZ_MAIN
static uint64_t dice = 1;
static size_t roll(size_t n)                     /* 0 … n - 1 */
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return n ? (size_t)(dice >> 20) % n : 0;
}
/* A few bytes changed, put in, taken out or copied; what libFuzzer's own does better. */
static size_t change(unsigned char *d, size_t size, size_t most)
{
    static const unsigned char edge[] = { 0,   1,   127, 128, 255, '0', '9',
                                          '"', '(', '[', '{', ',', '-', '\\' };
    for (size_t times = 1 + roll(3); times--;) {
        size_t at = roll(size), n = 1 + roll(8);
        switch (roll(5)) {
        case 0:
            if (size)
                d[at] = (unsigned char)(d[at] ^ 1u << roll(8));
            break;
        case 1:
            if (size) d[at] = edge[roll(sizeof edge)];
            break;
        case 2:
            if (n < size - at)
                memmove(d + at, d + at + n, size - at - n), size -= n;
            break;
        case 3:
            if (n > most - size) break;
            memmove(d + at + n, d + at, size - at);
            size += n;
            while (n--)
                d[at + n] = roll(2) ? edge[roll(sizeof edge)] : (unsigned char)roll(256);
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
    for (size_t i = 0; i + 1 < b->size; i++)
        n += b->at[i] == 'K';
    if (!n) return;
    which = seed % n;
    for (size_t i = 0; i + 1 < b->size; i++)
        if (b->at[i] == 'K' && !which--) {
            const unsigned bit = seed / 64 % 64;
            put(b, "eight more", 8);
            memmove(b->at + i + 10, b->at + i + 2, b->size - i - 10);
            b->at[i] = 0x8a;
            b->at[i + 1] = 8;
            set_number(b->at + i + 2, ((uint64_t)1 << bit) + seed / 4096 % 3 - 1, 8);
            return;
        }
}

/* The whole with its checksums mended; a member in its place; or a member of another length in a
   new zip. */
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
    /* a pickle is the part with most to it */
    for (size_t i = 0; more & 1024 && i < n; i++)
        if (list[i].length >= 8 && !memcmp(data + list[i].name + list[i].length - 8, "data.pkl", 8))
            f = &list[i];
    if (how == 1) {
        if (f->size)
            change(data + f->data, f->size, f->size);
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
        if (f == &list[i])
            zip_add_named(&z, data + f->name, f->length, b.at, b.size);
        else
            zip_add_named(&z, data + list[i].name, list[i].length, data + list[i].data,
                          list[i].size);
    out = zip_end(&z, 0);
    if (out.size <= most)
        memcpy(data, out.at, size = out.size);
    free(out.at);
    free(b.at);
    return size;
}

/* A number of a GGUF becomes one near a power of two, or of a type, or some bytes change. */
static size_t gguf_change(unsigned char *data, size_t size, size_t most, unsigned seed)
{
    const unsigned more = seed / 8 * 2654435761u >> 7;
    const size_t n = seed / 4 % 2 ? 8 : 4, at = size > n ? more % (size - n) : 0;
    if (size <= n + 24 || seed % 4 == 0) return change(data, size, most);
    if (seed % 4 == 1) set_number(data + at, ((uint64_t)1 << roll(64)) + roll(3) - 1, (int)n);
    else if (seed % 4 == 2) set_number(data + at, roll(48), (int)n);
    else set_number(data + 8 + 8 * roll(2), roll(2) ? roll(40) : (uint64_t)1 << roll(64), 8);
    return size;
}

/* A safetensors header changed and its length put right. */
static size_t header_change(unsigned char *data, size_t size, size_t most)
{
    const uint64_t n = size >= 8 ? number(data, 8) : 0;
    bytes b = {NULL, 0, 0}, out = {NULL, 0, 0};
    if (size < 8 || n > size - 8)
        return change(data, size, most);
    put(&b, data + 8, (size_t)n);
    b.at = (unsigned char *)realloc(b.at, b.room = (size_t)n + 64);
    if (!b.at) abort();
    b.size = change(b.at, (size_t)n, b.room);
    put_number(&out, b.size, 8);
    put(&out, b.at, b.size);
    put(&out, data + 8 + n, size - 8 - (size_t)n);
    if (out.size <= most)
        memcpy(data, out.at, size = out.size);
    free(b.at);
    free(out.at);
    return size;
}

static size_t one_change(unsigned char *data, size_t size, size_t most, unsigned seed)
{
    if (begins(data, size, "PK\3\4"))
        return zip_change(data, size, most, seed);
    if (begins(data, size, "GGUF")) return gguf_change(data, size, most, seed);
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
    if (!begins(data, size, "PK\3\4") && !begins(data, size, "\x93NUMPY"))
        return 0;
#elif defined FUZZ_GGUF
    if (!begins(data, size, "GGUF")) return 0;
#elif defined FUZZ_SAFETENSORS
    if (begins(data, size, "GGUF")) return 0;
    if (begins(data, size, "PK\3\4") || begins(data, size, "\x93NUMPY"))
        return 0;
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
    for (size_t i = 0; i < n; i++)
        put_number(&b, i, 1);
    return b;
}

static void safetensors_seeds(void)
{
    bytes deep = text_bytes("{\"a\":["), page = text_bytes("{\"__metadata__\":{\"k\":\"v\"}}");
    seed_is("plain.safetensors",
            safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":"
                        "[0,24]},\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]}}",
                        32));
    seed_is("metadata.safetensors",
            safetensors(" {\"__metadata__\":{\"k\":\"v\\u00e9\\ud83d\\ude00\\n\"}, "
                        "\"a/"
                        "\xc3\xa9\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2],"
                        "\"more\":[null,true,-1.5e+3,"
                        "{\"deep\":[[],{}]}]},\n\"e\":{\"shape\":[0,7],\"data_offsets\":[2,2],"
                        "\"dtype\":\"F64\"}}  ",
                        2));
    seed_is("dtypes.safetensors", safetensors(
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[8,12]},"
        "\"c\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[12,16]},"
        "\"d\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[16,18]},"
        "\"e\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[18,19]},"
        "\"f\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[19,21]},"
        "\"g\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[21,22]},"
        "\"h\":{\"dtype\":\"U64\",\"shape\":[2],\"data_offsets\":[22,38]},"
        "\"i\":{\"dtype\":\"U16\",\"shape\":[1],\"data_offsets\":[38,40]}}", 40));
    seed_is("empty.safetensors", safetensors("{}", 0));
    put_times(&page, " ", 4096 - 8 - page.size);
    put(&page, "", 1);
    /* nothing behind it */
    seed_is("page.safetensors", safetensors((const char *)page.at, 0));
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
        snprintf(one, sizeof one,
                 "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%d,%d]}", i ? "," : "",
                 i, i, i + 1);
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
    for (size_t i = 0; i < n; i++)
        put_number(&b, i, 1);
    return b;
}

static void npy_seeds(void)
{
    static const struct { char name[16], header[80]; int version; size_t n;
    } list[] = {
        { "f4.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 1, 24 },
        { "f8.npy", "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 2), }\n", 1, 48 },
        { "f2.npy", "{'descr': '>f2', 'fortran_order': False, 'shape': (3,), }\n", 1, 6 },
        { "i8.npy", "{'descr': '>i8', 'fortran_order': True, 'shape': (2, 1, 2), }\n", 2, 32 },
        { "i4.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (), }\n", 3, 4 },
        { "i2.npy", "{'descr': '=i2', 'fortran_order': False, 'shape': (0, 4), }\n", 1, 0 },
        { "i1.npy", "{'descr': '|i1', 'fortran_order': False, 'shape': (5,), }\n", 1, 5 },
        { "u1.npy",
          "{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2, 1, 2, 1, 2, 1, 1), }\n", 1, 8 },
        { "u4.npy", "{'descr': '>u4', 'fortran_order': False, 'shape': (2,), }\n", 1, 8 },
        { "b1.npy", "{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2), }\n", 1, 4 },
        { "python2.npy", "{'descr': '<i2', 'fortran_order': True, 'shape': (2L, 2L), }\n", 1, 8 }
    };
    zip z;
    bytes b, second;
    memset(&z, 0, sizeof z);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        b = npy(list[i].header, list[i].version, list[i].n);
        if (i < 3)
            zip_add(&z, list[i].name, b.at, b.size);
        seed_is(list[i].name, b);
    }
    b = npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }\n", 1, 16);
    zip_add(&z, "complex.npy", b.at, b.size);
    free(b.at);
    b = npy("{'descr': [('x', '<f4'), ('y', '|S3')], 'fortran_order': False, 'shape': (2,), }\n", 1,
            14);
    zip_add(&z, "records.npy", b.at, b.size);
    free(b.at);
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

    /* A member in another's data. a is big-endian, so turning its bytes round changes b's header,
       which said until then that there is nothing to copy. */
    b = text_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }  ");
    const size_t half = b.size & ~(size_t)1;
    b.size = half;
    put_text(&b, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }  ");
    for (size_t i = half; i + 1 < b.size; i += 2) {
        const unsigned char c = b.at[i];
        b.at[i] = b.at[i + 1];
        b.at[i + 1] = c;
    }
    put_number(&b, 0, 1);
    b.at[b.size - 1] = 0;
    second = npy((const char *)b.at, 1, 32);
    const size_t data = b.size - 1 + 32;         /* b's header and data, which are a's data */
    free(b.at);
    bytes a = {NULL, 0, 0}, inner = {NULL, 0, 0};
    char header[96];
    snprintf(header, sizeof header, "{'descr': '>f2', 'fortran_order': False, 'shape': (%zu,), } ",
             data / 2);
    zip_local(&inner, "b.npy", 5, 0, second.size);
    const size_t local = inner.size;
    put(&inner, second.at, second.size);
    put_text(&a, "\x93NUMPY");
    put_number(&a, 1, 2);
    put_number(&a, strlen(header) + local + 10, 2);
    put_text(&a, header);
    memset(&z, 0, sizeof z);
    zip_local(&z.file, "a.npy", 5, 0, a.size + inner.size);
    const size_t begin = z.file.size + a.size;   /* of b's local header */
    put(&a, inner.at, inner.size);
    put(&z.file, a.at, a.size);
    zip_list(&z, "a.npy", 5, crc32_of(a.at, a.size), a.size, 0);
    zip_list(&z, "b.npy", 5, crc32_of(second.at, second.size), second.size, begin);
    free(a.at);
    free(inner.at);
    free(second.at);
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
    if (n < 256) put(b, "K", 1);
    else put(b, "\x8a\x08", 2);
    put_number(b, n, n < 256 ? 1 : 8);
}
#define DICT "ccollections\nOrderedDict\n)R"
/* What torch.save writes for a tensor of ndim <= 2 in storage `key` of `total` elements. */
static void py_tensor(bytes *b, const char *type, const char *key, uint64_t total, uint64_t offset,
                      int ndim, const uint64_t *shape, const uint64_t *stride)
{
    put_text(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    py_text(b, "storage");
    put_text(b, "ctorch\n");
    put_text(b, type);
    put_text(b, "\n");
    py_text(b, key);
    py_text(b, "cpu");
    py_int(b, total);
    put_text(b, "tQ");
    py_int(b, offset);
    put_text(b, "(");
    for (int i = 0; i < ndim; i++)
        py_int(b, shape[i]);
    put_text(b, "t(");
    for (int i = 0; i < ndim; i++)
        py_int(b, stride[i]);
    put_text(b, "t\x89" DICT "tR");
}
/* A .pth file of the pickle, which is freed, and three storages: 6 floats, 2 numbers of 8 bytes,
   4 of 2. */
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
    py_text(&b, "w");
    py_tensor(&b, "FloatStorage", "0", 6, 0, 2, two_three, three_one);
    py_text(&b, "i");
    py_tensor(&b, "LongStorage", "1", 2, 1, 1, one, one);
    put_text(&b, "u.");
    seed_is("flat.pth", pth(b, 0));

    /* a training run: names in names, memory, objects */
    b = text_bytes("\x80\2");
    PUT(&b, "}q\0(");
    py_text(&b, "teacher");
    put_text(&b, DICT "(");
    py_text(&b, "w");
    py_tensor(&b, "FloatStorage", "0", 6, 0, 2, three_two, one_three);
    put_text(&b, "q\1");
    py_text(&b, "again");
    put_text(&b, "h\1u");
    py_text(&b, "args");
    put_text(&b, "cargparse\nNamespace\n)\x81}(");
    py_text(&b, "lr");
    PUT(&b, "G\x3f\xb9\0\0\0\0\0\0");
    py_text(&b, "none");
    put_text(&b, "Nub");
    py_text(&b, "p");
    put_text(&b, "ctorch._utils\n_rebuild_parameter\n(");
    py_tensor(&b, "DoubleStorage", "1", 2, 0, 1, two, one);
    put_text(&b, "\x88" DICT "tR");
    py_text(&b, "steps");
    PUT(&b, "](M\1\1J\xff\xff\xff\xff" "eu.");
    seed_is("training.pth", pth(b, 1));

    b = text_bytes("\x80\4\x95");                /* protocol 4 */
    put_number(&b, 99, 8);
    PUT(&b, "}\x94\x8c\1h\x94\x8c\x0ctorch._utils\x94\x8c\x12_rebuild_tensor_v2\x94\x93\x94(("
            "\x8c\7storage"
            "\x94\x8c\5torch\x8c\x0f"
            "BFloat16Storage\x93\x8c\1"
            "2\x8c\3cpuK\4tQK\0K\2K\2\x86K\1K\2\x86\x89"
            "\x8c\x0b"
            "collections\x8c\x0bOrderedDict\x93)RtRs.");
    seed_is("protocol4.pth", pth(b, 0));

    /* what may stand beside weights, and tensors that are no plain ones */
    b = text_bytes("\x80\2}(");
    py_text(&b, "n");
    py_tensor(&b, "FloatStorage", "0", 6, 0, 1, two, one);
    b.size -= 2;                                 /* a seventh argument: the sign is another */
    put_text(&b, "}");
    py_text(&b, "neg");
    put_text(&b, "\x88stR");
    py_text(&b, "set");
    PUT(&b, "c__builtin__\nset\n](K\1K\2e\x85R");
    py_text(&b, "counter");
    PUT(&b, "ccollections\nCounter\n}K\1K\2s\x85R");
    py_text(&b, "dtype");
    put_text(&b, "ctorch\nint64\n");
    py_text(&b, "path");
    put_text(&b, "cpathlib\nPosixPath\n");
    py_text(&b, "tmp");
    put_text(&b, "\x85R");
    py_text(&b, "complex");
    py_tensor(&b, "ComplexFloatStorage", "0", 3, 0, 1, two, one);
    py_text(&b, "meta");
    PUT(&b,
        "ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\nK\2\x85K\1\x85\x89tR");
    py_text(&b, "sparse");
    put_text(&b, "ctorch._utils\n_rebuild_sparse_tensor\n");
    py_text(&b, "torch.sparse_coo");
    put_text(&b, "(");
    py_tensor(&b, "LongStorage", "1", 2, 0, 1, two, one);
    PUT(&b, "ctorch\nSize\nK\3K\3\x86\x85Rt\x86R");
    py_text(&b, "typed");
    put_text(&b, "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v3\n");
    put_text(&b, "ctorch\nTensor\n((");
    py_text(&b, "storage");
    put_text(&b, "ctorch.storage\nUntypedStorage\n");
    py_text(&b, "2");
    py_text(&b, "cpu");
    py_int(&b, 8);
    PUT(&b, "tQK\0K\2\x85K\1\x85\x89" DICT "ctorch\nuint16\nt}tRu.");
    seed_is("beside.pth", pth(b, 0));

    b = text_bytes("\x80\2");                    /* every instruction makes a value */
    put_times(&b, "N", 200000);
    put_text(&b, ".");
    hostile_is("pickle.pth", pth(b, 0));
    b = text_bytes("\x80\2}(");                  /* 64 MB of one number: a.expand(32768, 1024) */
    py_text(&b, "w");
    py_tensor(&b, "BFloat16Storage", "2", 4, 0, 2, many, zero);
    put_text(&b, "u.");
    hostile_is("expanded.pth", pth(b, 0));
    /* 2^61 numbers of 8 bytes are 0 bytes, modulo 2^64 */
    b = text_bytes("\x80\2}(");
    py_text(&b, "w");
    py_tensor(&b, "DoubleStorage", "1", 2, 0, 1, half, zero);
    put_text(&b, "u.");
    hostile_is("wraps.pth", pth(b, 0));
    /* a long name before many, each recalled in four bytes */
    b = text_bytes("\x80\2}");
    py_text(&b, "w");
    put_text(&b, "q\1");
    put_text(&b, "0");
    py_tensor(&b, "FloatStorage", "0", 6, 0, 1, one, one);
    put_text(&b, "q\2" "0(X");
    put_number(&b, 1000, 4);
    put_times(&b, "n", 1000);
    put_text(&b, "}(");
    put_times(&b, "h\1h\2", 10000);
    put_text(&b, "uu.");
    hostile_is("names.pth", pth(b, 0));
}

/* ---- GGUF ---- */

static void gguf_text(bytes *b, const char *text)
{
    put_number(b, strlen(text), 8);
    put_text(b, text);
}
static void gguf_begin(bytes *b, unsigned version, uint64_t arrays, uint64_t values)
{
    put_text(b, "GGUF");
    put_number(b, version, 4);
    put_number(b, arrays, 8);
    put_number(b, values, 8);
}
static void gguf_array(bytes *b, const char *name, uint64_t rows, uint64_t columns, unsigned type,
                       uint64_t offset)
{
    gguf_text(b, name);
    put_number(b, 2, 4);
    put_number(b, columns, 8);
    put_number(b, rows, 8);
    put_number(b, type, 4);
    put_number(b, offset, 8);
}
/* n bytes of data, from the next multiple of 32 on. */
static void gguf_data(bytes *b, size_t n)
{
    while (b->size % 32) put_number(b, 0, 1);
    for (size_t i = 0; i < n; i++) put_number(b, i * 7, 1);
}
static void gguf_key(bytes *b, const char *key, unsigned type)
{
    gguf_text(b, key);
    put_number(b, type, 4);
}
static void gguf_values(bytes *b)                /* 15 of them: each type, and two lists more */
{
    static const int size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    for (unsigned type = 0; type < 13; type++) {
        char key[16];
        snprintf(key, sizeof key, "type %u", type);
        gguf_key(b, key, type);
        put_number(b, 0x3fc00001u, size[type]);
        if (type == 8) gguf_text(b, "\xc3\xa9 \"quoted\"\n");
        if (type == 9) {
            put_number(b, 5, 4);
            put_number(b, 2, 8);
            put_number(b, 77, 8);
        }
    }
    gguf_key(b, "texts", 9);
    put_number(b, 8, 4);
    put_number(b, 2, 8);
    gguf_text(b, "one");
    gguf_text(b, "");
    gguf_key(b, "lists", 9);
    put_number(b, 9, 4);
    put_number(b, 1, 8);
    put_number(b, 0, 4);
    put_number(b, 3, 8);
    put_text(b, "abc");
}
static void gguf_seeds(void)
{
    static const struct { unsigned type; uint64_t columns, offset; } of[] = {
        { 0, 4, 0 }, { 1, 4, 0 }, { 2, 32, 32 }, { 3, 64, 0 }, { 6, 32, 0 }, { 8, 32, 64 },
        { 12, 256, 0 }, { 13, 256, 0 }, { 14, 256, 32 }, { 20, 32, 0 }, { 24, 3, 0 }, { 25, 3, 1 },
        { 26, 3, 0 }, { 27, 3, 0 }, { 28, 3, 0 }, { 30, 3, 2 }, { 39, 32, 0 }
    };
    enum { ARRAYS = sizeof of / sizeof *of };
    bytes b = {NULL, 0, 0};
    gguf_begin(&b, 3, ARRAYS, 0);
    for (size_t i = 0; i < ARRAYS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", of[i].type);
        gguf_array(&b, name, 2, of[i].columns, of[i].type, of[i].offset);
    }
    gguf_data(&b, 512);
    seed_is("arrays.gguf", b);
    memset(&b, 0, sizeof b);
    gguf_begin(&b, 2, 1, 16);
    gguf_values(&b);
    gguf_key(&b, "general.alignment", 4);
    put_number(&b, 32, 4);
    gguf_array(&b, "w", 1, 3, 0, 0);
    gguf_data(&b, 12);
    seed_is("values.gguf", b);
    memset(&b, 0, sizeof b);
    gguf_begin(&b, 3, 0, 0);
    seed_is("empty.gguf", b);

    memset(&b, 0, sizeof b);                     /* the smallest arrays there are */
    gguf_begin(&b, 3, 40000, 0);
    for (unsigned i = 0; i < 40000; i++) {
        put_number(&b, 2, 8);
        put_number(&b, 0x0101 + i % 100 + i / 100 * 256, 2);
        put_number(&b, 0, 4);
        put_number(&b, i % 2 ? 24 : 0, 4);
        put_number(&b, 0, 8);
    }
    gguf_data(&b, 4);
    hostile_is("small_arrays.gguf", b);
    memset(&b, 0, sizeof b);                     /* characters that JSON writes with six */
    gguf_begin(&b, 3, 0, 2);
    gguf_key(&b, "controls", 8);
    put_number(&b, 100000, 8);
    put_times(&b, "\1", 100000);
    gguf_key(&b, "colons", 8);
    put_number(&b, 100000, 8);
    put_times(&b, ":", 100000);
    hostile_is("texts.gguf", b);
    memset(&b, 0, sizeof b);                     /* lists of lists of lists … */
    gguf_begin(&b, 3, 0, 1);
    gguf_key(&b, "deep", 9);
    for (int i = 0; i < 100000; i++) {
        put_number(&b, 9, 4);
        put_number(&b, 1000, 8);
    }
    hostile_is("lists.gguf", b);
}

static void ppm_seeds(void)
{
    bytes b = text_bytes("P6\n# a comment\n2 1\n255\n");
    put(&b, "\0\1\2\xff\xfe\xfd", 6);
    seed_is("colour.ppm", b);
    seed_is("gray.pgm", text_bytes("P5 3\t2 7 abcdef and more"));
    hostile_is("large.ppm", text_bytes("P6 16777216 16777216 255\n"));
}

/* ---- main ---- */

static int passed, failed;

static void run(const char *name, const unsigned char *data, size_t size)
{
    /* a sanitizer sees beyond */
    unsigned char *exact = (unsigned char *)malloc(size + !size);
    const char *wrong;
    if (size) memcpy(exact, data, size);
    wrong = is_wrong(NULL, exact, size);
    free(exact);
    if (!wrong) passed++;
    else {
        failed++;
        printf("%s, %zu bytes: %s\n", name, size, wrong);
    }
}
static int save(const char *path, const unsigned char *data, size_t size)
{
    /* a new file is not waited for, as a shortened one is */
    remove(path);
    FILE *f = fopen(path, "wb");
    const int ok = f && (!size || fwrite(data, 1, size, f) == size);
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
    else {
        failed++;
        printf("%s, %zu bytes, as a file: %s\n", name, size, wrong);
    }
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
    else {
        failed++;
        printf("%s: refused\n", s->name);
    }
    for (size_t n = 0; n < size; n++)
        run(s->name, s->file.at, n);
    for (size_t i = 0; i < runs; i++) {
        const int was = failed;
        /* up to four changes */
        if (i % 4 == 0)
            memcpy(d, s->file.at, size = s->file.size);
        size = one_change(d, size, MOST, (unsigned)roll(1u << 30));
        snprintf(name, sizeof name, "%s, change %zu", s->name, i);
        run(name, d, size);
        if (failed != was && save("build/fuzz_finding", d, size))
            puts("    it lies in build/fuzz_finding");
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

/* ---- networks by other systems' names, and the index of one in several files ---- */

#if defined FUZZ_SAFETENSORS && !defined MMIX_NO_STDIO
#include <sys/stat.h>

/* What is in these files, names and shapes: 1 2, sizes D P N R F, G = 2F; then those of a block,
   and the blocks. Of Mamba D, 2D = F, 4D = G, with 2 numbers of state and dt of 1. */
#define FUZZ_DIRECTION(b, A)                                                                       \
    "mixer.conv1d" b ".weight F12 mixer.conv1d" b ".bias F mixer.x_proj" b ".weight 5F "           \
    "mixer.dt_proj" b ".weight F1 mixer.dt_proj" b ".bias F mixer." A " F2 mixer.D" b " F "
#define FUZZ_MAMBA                                                                                 \
    "norm.weight D mixer.in_proj.weight GD mixer.out_proj.weight DF "                              \
    FUZZ_DIRECTION("", "A_log") FUZZ_DIRECTION("_b", "A_b_log")
static const struct { const char *name, *outside, *in_block, *block[2];
} systems[] = {
    { "DINOv2, Hugging Face",
      "embeddings.cls_token 11D embeddings.mask_token 1D embeddings.position_embeddings 1ND "
      "embeddings.patch_embeddings.projection.weight D3PP "
      "embeddings.patch_embeddings.projection.bias D layernorm.weight D layernorm.bias D",
      "norm1.weight D norm1.bias D attention.attention.query.weight DD "
      "attention.attention.query.bias D "
      "attention.attention.key.weight DD attention.attention.key.bias D "
      "attention.attention.value.weight DD "
      "attention.attention.value.bias D attention.output.dense.weight DD "
      "attention.output.dense.bias D layer_scale1.lambda1 D "
      "norm2.weight D norm2.bias D mlp.fc1.weight FD mlp.fc1.bias F mlp.fc2.weight DF mlp.fc2.bias "
      "D layer_scale2.lambda1 D",
      { "encoder.layer.0.", "encoder.layer.1." } },
    { "DINOv2, SwiGLU, Hugging Face",
      "embeddings.cls_token 11D embeddings.register_tokens 1RD embeddings.position_embeddings 1ND "
      "embeddings.patch_embeddings.projection.weight D3PP "
      "embeddings.patch_embeddings.projection.bias D layernorm.weight D layernorm.bias D",
      "norm1.weight D norm1.bias D attention.attention.query.weight DD "
      "attention.attention.query.bias D "
      "attention.attention.key.weight DD attention.attention.key.bias D "
      "attention.attention.value.weight DD "
      "attention.attention.value.bias D attention.output.dense.weight DD "
      "attention.output.dense.bias D layer_scale1.lambda1 D "
      "norm2.weight D norm2.bias D mlp.weights_in.weight GD mlp.weights_in.bias G "
      "mlp.weights_out.weight DF mlp.weights_out.bias D "
      "layer_scale2.lambda1 D",
      { "encoder.layer.0.", "encoder.layer.1." } },
    { "DINOv3, SwiGLU, Hugging Face",
      "embeddings.cls_token 11D embeddings.mask_token 11D embeddings.register_tokens 1RD "
      "embeddings.patch_embeddings.weight D3PP embeddings.patch_embeddings.bias D norm.weight D "
      "norm.bias D",
      "norm1.weight D norm1.bias D attention.q_proj.weight DD attention.q_proj.bias D "
      "attention.k_proj.weight DD "
      "attention.v_proj.weight DD attention.v_proj.bias D attention.o_proj.weight DD "
      "attention.o_proj.bias D layer_scale1.lambda1 D "
      "norm2.weight D norm2.bias D mlp.gate_proj.weight FD mlp.gate_proj.bias F mlp.up_proj.weight "
      "FD mlp.up_proj.bias F "
      "mlp.down_proj.weight DF mlp.down_proj.bias D layer_scale2.lambda1 D",
      { "layer.0.", "layer.1." } },
    { "DINOv3",
      "cls_token 11D storage_tokens 1RD mask_token 1D rope_embed.periods 2 patch_embed.proj.weight "
      "D3PP patch_embed.proj.bias D "
      "norm.weight D norm.bias D",
      "norm1.weight D norm1.bias D attn.qkv.weight TD attn.qkv.bias T attn.qkv.bias_mask T "
      "attn.proj.weight DD attn.proj.bias D "
      "ls1.gamma D norm2.weight D norm2.bias D mlp.fc1.weight FD mlp.fc1.bias F mlp.fc2.weight DF "
      "mlp.fc2.bias D ls2.gamma D",
      { "blocks.0.", "blocks.1." } },
    { "DINOv2, a teacher's in chunks",
      "teacher.cls_token 11D teacher.pos_embed 1ND teacher.mask_token 1D "
      "teacher.patch_embed.proj.weight D3PP teacher.patch_embed.proj.bias D teacher.norm.weight D "
      "teacher.norm.bias D student.cls_token 11D",
      "norm1.weight D norm1.bias D attn.qkv.weight TD attn.qkv.bias T attn.proj.weight DD "
      "attn.proj.bias D "
      "ls1.gamma D norm2.weight D norm2.bias D mlp.w12.weight GD mlp.w12.bias G mlp.w3.weight DF "
      "mlp.w3.bias D ls2.gamma D",
      { "teacher.blocks.0.0.", "teacher.blocks.1.1." } },
    { "DINOv2",
      "cls_token 11D pos_embed 1ND mask_token 1D patch_embed.proj.weight D3PP "
      "patch_embed.proj.bias D norm.weight D norm.bias D",
      "norm1.weight D norm1.bias D attn.qkv.weight TD attn.qkv.bias T attn.proj.weight DD "
      "attn.proj.bias D "
      "ls1.gamma D norm2.weight D norm2.bias D mlp.fc1.weight FD mlp.fc1.bias F mlp.fc2.weight DF "
      "mlp.fc2.bias D ls2.gamma D",
      { "blocks.0.", "blocks.1." } },
    { "Vim",
      "cls_token 11D pos_embed 1ND patch_embed.proj.weight D3PP patch_embed.proj.bias D "
      "norm_f.weight D head.weight 3D head.bias 3",
      FUZZ_MAMBA,
      { "layers.0.", "layers.1." } },
    { "Mamba-Reg",
      "cls_token 1RD pos_embed_cls 1RD pos_embed 14D patch_embed.proj.weight D3PP "
      "patch_embed.proj.bias D norm_f.weight D neck.weight 4D norm_neck.weight D head.weight 3D "
      "head.bias 3",
      FUZZ_MAMBA,
      { "layers.0.", "layers.1." } },
    { "ViT with a norm of its classifier, timm",
      "cls_token 11D pos_embed 1ND patch_embed.proj.weight D3PP patch_embed.proj.bias D "
      "fc_norm.weight D fc_norm.bias D head.weight 3D head.bias 3",
      "norm1.weight D norm1.bias D attn.qkv.weight TD attn.qkv.bias T attn.proj.weight DD "
      "attn.proj.bias D norm2.weight D norm2.bias D mlp.fc1.weight FD mlp.fc1.bias F "
      "mlp.fc2.weight DF mlp.fc2.bias D",
      { "blocks.0.", "blocks.1." } }
};
enum { SYSTEMS = sizeof systems / sizeof *systems, D = 8, ARRAYS = 64 };

typedef struct array { char name[128]; int ndim; uint64_t shape[6]; const char *dtype; } array;
typedef struct network { array at[ARRAYS]; size_t count; } network;

static void network_add(network *n, const char *before, const char *list)
{
    static const char letters[] = "12345PNRDFGT";
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 2, 5, 2, D, 2 * D, 4 * D, 3 * D};
    char name[96], shape[8];
    for (int used; sscanf(list, " %95s %7s%n", name, shape, &used) == 2; list += used) {
        array *a = &n->at[n->count++];
        snprintf(a->name, sizeof a->name, "%s%s", before, name);
        a->ndim = (int)strlen(shape);
        a->dtype = "F32";
        for (int i = 0; i < a->ndim; i++)
            a->shape[i] = sizes[strchr(letters, shape[i]) - letters];
    }
}
static const network *network_of(size_t system)
{
    static network all[SYSTEMS];
    network *n = &all[system];
    if (n->count) return n;
    network_add(n, "", systems[system].outside);
    for (int i = 0; i < 2; i++)
        network_add(n, systems[system].block[i], systems[system].in_block);
    return n;
}
static void network_remove(network *n, size_t i) { n->at[i] = n->at[--n->count]; }

/* Arrays from, to, as .safetensors. What has more than 64 KiB has no data. */
static bytes network_file(const network *n, size_t from, size_t to)
{
    bytes header = text_bytes("{"), b = {NULL, 0, 0};
    uint64_t at = 0;
    for (size_t i = from; i < to; i++) {
        const array *a = &n->at[i];
        uint64_t size;
        if (!strcmp(a->dtype, "F64")) size = 8;
        else if (!strcmp(a->dtype, "F32")) size = 4;
        else size = 2;
        uint64_t all = size;
        char text[400];
        for (int k = 0; k < a->ndim; k++)
            all = a->shape[k] && all > 65536 / a->shape[k] ? 65537 : all * a->shape[k];
        for (int k = 0; k < a->ndim; k++)
            if (!a->shape[k])
                all = 0;
        if (all > 65536) all = 0;
        snprintf(text, sizeof text,
                 "%s\"%s\":{\"dtype\":\"%s\",\"data_offsets\":[%.0f,%.0f],\"shape\":[",
                 i > from ? "," : "", a->name, a->dtype, (double)at, (double)(at + all));
        put_text(&header, text);
        at += all;
        for (int k = 0; k < a->ndim; k++) {
            snprintf(text, sizeof text, "%s%llu", k ? "," : "", (unsigned long long)a->shape[k]);
            put_text(&header, text);
        }
        put_text(&header, "]}");
    }
    put_text(&header, "}");
    put_number(&b, header.size, 8);
    put(&b, header.at, header.size);
    /* floats of about 0.1 */
    for (uint64_t i = 0; i < at / 2; i++)
        put_number(&b, i % 2 ? 0x3d00 + i * 7 % 199 : 0, 2);
    free(header.at);
    return b;
}

/* All readers of a network, in a context of its own, which is all gone in the end. A refusal leaves
   the parameters of `fixed`, a network of the system's own, as they were; what is accepted
   computes. */
static const char *network_is_wrong(const char *path, size_t size, size_t system)
{
    static unsigned turn = 0;
    const size_t before = count.live, grid = 2;
    mmix_options o;
    mmix_vision_config c = mmix_vision_config_vit(D, 2), read;
    const char *wrong = NULL;
    memset(&o, 0, sizeof o);
    o.threads = 1;
    o.allocator.alloc = counted_alloc;
    o.allocator.free = counted_free;
    o.allocator.user = &count;
    /* the archive, the network, a picture's steps */
    o.allocator.byte_limit = 2 * BUDGET(size) + ((size_t)8 << 20);
    mmix_ctx *m = mmix_create(&o);
    c.heads = 1;
    c.depth = 2;
    c.grid = grid;
    c.mlp_ratio = 2;
    c.layer_scale = 1;
    c.registers = system > 0 && system < 4 ? 2 : 0,
    c.swiglu = system == 1 || system == 2 || system == 4;
    c.positions = system == 2 || system == 3 ? MMIX_POSITIONS_AXIAL : MMIX_POSITIONS_EXACT;
    mmix_vision *fixed = mmix_vision_create(m, c), *v;
    mmix_params *p = mmix_vision_params(fixed);
    const uint64_t hash = hash_params(p, 1);
    mmix_archive *a = mmix_archive_open(m, path);
    if (!a) {
        wrong = refusal(m);
        mmix_error_clear(m);
    }
    if (a && mmix_vision_config_read(m, a, &read)) {
        wrong = refusal(m);
        mmix_error_clear(m);
    }
    static const char *const prefix[] = {NULL, ""};
    for (int i = 0; a && !wrong && i < 2; i++) {
        /* read: other values from here on */
        if (!mmix_params_read(p, a, prefix[i])) break;
        wrong = refusal(m);
        mmix_error_clear(m);
        if (!wrong && hash_params(p, 1) != hash) wrong = "refused, but the parameters are others";
    }
    mmix_archive_close(a);
    v = NULL;
    if (!wrong) {
        static const int dtype[] = { MMIX_DTYPE_BF16, MMIX_DTYPE_REAL, MMIX_DTYPE_I8,
                                     MMIX_DTYPE_REAL, MMIX_DTYPE_Q4,   MMIX_DTYPE_REAL };
        v = mmix_vision_load_as(m, path, dtype[turn++ % 6]);
    }
    accepted = v != NULL;
    if (!wrong && !v) {
        wrong = refusal(m);
        mmix_error_clear(m);
    }
    if (v) {
        const size_t side = mmix_vision_config_of(v)->patch;
        mmix_tensor *image = mmix_new4(m, 1, 3, 2 * side, 3 * side);
        const mmix_features f = mmix_vision_forward(m, v, mmix_fill(image, 0.5), NULL);
        if (!f.token || mmix_error(m))
            wrong = "accepted, but it computes nothing";
        else if (mmix_vision_config_of(v)->classes && !mmix_vision_classify(m, v, &f))
            wrong = "accepted, but it does not classify";
    }
    mmix_vision_destroy(v);
    mmix_vision_destroy(fixed);
    mmix_destroy(m);
    if (!wrong && count.live != before) wrong = "leaks";
    return count.wrong ? count.wrong = 0,
                         "wrote behind a block, or freed it with another size" : wrong;
}

#define FILE_A "build/fuzz_a.safetensors"
#define FILE_B "build/fuzz_b.safetensors"
#define INDEX "build/fuzz.index.json"
/* Saves a network's file, asks the readers, and compares with what is expected: 1 accepted, 0
   refused, -1 either. */
static void network_run(const char *what, size_t system, bytes file, int expected)
{
    const char *wrong = save(FILE_A, file.at, file.size)
                            ? network_is_wrong(FILE_A, file.size, system)
                            : "can't be written";
    if (!wrong && expected >= 0 && accepted != expected)
        wrong = accepted ? "is accepted" : "is refused";
    if (!wrong) passed++;
    else if (failed++ < 50) {
        printf("%s, %s, %zu bytes: %s\n", systems[system].name, what, file.size, wrong);
        if (save("build/fuzz_finding", file.at, file.size))
            puts("    it lies in build/fuzz_finding");
    }
    free(file.at);
}
/* What a network may lack, or have in other sizes. */
static int optional(size_t system, const char *name)
{
    /* those of registers alone are any grid's, 3 x 3, too */
    if (strstr(systems[system].name, "Reg") && !strcmp(name, "pos_embed")) return 1;
    return strstr(name, "mask") || strstr(name, "register_tokens") || strstr(name, "storage_tokens")
           || strstr(name, "periods") || strstr(name, "student.") || strstr(name, "head.");
}
/* Each array once without, under another name, twice, and with each axis another size; and no
   axis, or one more. */
static void network_each(size_t system)
{
    static const uint64_t sizes[] = {0, D + 1, 4096, (uint64_t)1 << 32, UINT64_MAX};
    const network right = *network_of(system);
    char what[200];
    network_run("as it is", system, network_file(&right, 0, right.count), 1);
    for (size_t i = 0; i < right.count; i++) {
        const array *was = &right.at[i];
        const int expected = optional(system, was->name) ? -1 : 0;
        /* what begins so may stand there unused */
        const int begins = strstr(was->name, "fc_norm.") ? -1 : expected;
        network n = right;
        network_remove(&n, i);
        snprintf(what, sizeof what, "without %s", was->name);
        network_run(what, system, network_file(&n, 0, n.count), expected);
        n = right;
        n.at[n.count] = *was;
        snprintf(n.at[n.count++].name, sizeof was->name, "%.100s.x", was->name);
        network_run("an array too many", system, network_file(&n, 0, n.count), begins);
        n = right;
        n.at[n.count++] = *was;
        network_run("an array twice", system, network_file(&n, 0, n.count), 0);
        /* two other sizes for each axis; one axis less, or more */
        for (int k = 0; k < 2 * (was->ndim + 1); k++) {
            const int axis = k / 2 - 1;
            const uint64_t other = sizes[(i * 3 + (size_t)k) % (sizeof sizes / sizeof *sizes)];
            n = right;
            if (axis < 0)
                n.at[i].ndim += k ? 1 : -1, n.at[i].shape[was->ndim] = 1;
            else n.at[i].shape[axis] = other;
            snprintf(what, sizeof what, "%s with axis %d of %llu", was->name, axis,
                     (unsigned long long)other);
            network_run(what, system, network_file(&n, 0, n.count), expected);
        }
    }
}
/* A few changes at once, names of another system among them. */
static void network_change(network *n)
{
    static const char *const strange[] = {
        "neck.weight", "neck.\\n", "head.bias", "fc_norm.weight", "layers.0.mixer.x_proj.weight", "norm_neck.weight", "\\u0001", "text_model.weight", "stages.0.x", "token_embedding.weight", "embeddings.position_embeddings", "pos_embed_cls",
        "embeddings.patch_embeddings.weight", "blocks.0.0.norm1.weight", "layers.0.mixer.A_log", "head.weight", "x.head.weight",
        "cls_token", "a.embeddings.cls_token", "teacher.embeddings.cls_token", "storage_tokens", "register_tokens",
        "encoder.layer.2.norm1.weight", "layer.2.norm1.weight", "", ".", "%s%n", "\\u0000", "caf\xc3\xa9", "embeddings.cls_token.embeddings.cls_token"
    };
    for (size_t times = 1 + roll(4); times-- && n->count; ) {
        const size_t i = roll(n->count), k = roll(6);
        array *a = &n->at[i];
        array *b = &n->at[roll(n->count)];
        const network *other = network_of(roll(SYSTEMS));
        const array *c = &other->at[roll(other->count)];
        uint64_t *axis = &a->shape[roll(4)];
        char block[24];
        switch (roll(11)) {
        case 0: *axis += roll(2) ? 1 : (uint64_t)-1; break;
        case 1:
            *axis = ((uint64_t)1 << roll(64)) + roll(3) - 1, a->shape[roll(2)] *= roll(2);
            break;
        case 2: network_remove(n, i); break;
        case 3: snprintf(a->name, sizeof a->name, "%s", c->name); break;
        case 4:
            if (n->count < ARRAYS)
                n->at[n->count++] = *c;
            break;
        case 5:
            snprintf(a->name, sizeof a->name, "%s",
                     strange[roll(sizeof strange / sizeof *strange)]);
            break;
        case 6:
            if (n->count < ARRAYS)
                n->at[n->count] = *a, snprintf(n->at[n->count++].name, sizeof a->name, "%s",
                                               strange[roll(sizeof strange / sizeof *strange)]);
            break;
        case 7: a->ndim = (int)k % 5; break;
        case 8: {
            const char *even = k ? "I16" : "F64";
            a->dtype = k % 2 ? "BF16" : even;
            break;
        }
        case 9: memcpy(a->shape, b->shape, sizeof a->shape), a->ndim = b->ndim; break;
        default:                                 /* a block is gone, or is another's */
            snprintf(block, sizeof block, ".%d.", (int)k % 2);
            for (size_t j = n->count; j-- > 0; )
                if (strstr(n->at[j].name, block)) {
                    if (k < 2) network_remove(n, j);
                    else if (k < 4)
                        *strstr(n->at[j].name, block) = '_';
                    else strstr(n->at[j].name, block)[1] = (char)('0' + k);
                }
        }
    }
}
/* All of a width, without data: (0, …) but for the class token. */
static void network_wide(size_t system, uint64_t width)
{
    network n = *network_of(system);
    for (size_t i = 0; i < n.count; i++) {
        int keeps = strstr(n.at[i].name, "cls_token") && width < 10000;
        for (int k = 0; k < n.at[i].ndim; k++) {
            uint64_t *side = &n.at[i].shape[k];
            if (*side < D && k > 0) continue;
            if (!keeps) *side = 0;               /* the first alone */
            else if (*side >= D) *side *= width / D;
            keeps = 1;
        }
    }
    network_run("wide, without numbers", system, network_file(&n, 0, n.count), 0);
}
static void networks(size_t runs)
{
    enum { MOST = 1 << 15 };
    static unsigned char d[MOST];
    for (size_t s = 0; s < SYSTEMS; s++) {
        const network *right = network_of(s);
        bytes file = network_file(right, 0, right->count);
        network_each(s);
        for (uint64_t width = 4096; width; width *= 256) network_wide(s, width);
        for (size_t i = 0; i < runs; i++) {
            network n = *right;
            network_change(&n);
            network_run("changed", s, network_file(&n, 0, n.count), -1);
            /* the same in bytes, of names and shapes above all */
            bytes b = {NULL, 0, 0};
            memcpy(d, file.at, file.size);
            size_t size = one_change(d, file.size, MOST, (unsigned)roll(1u << 30));
            put(&b, d, i % 8 ? size : roll(file.size));
            network_run("bytes", s, b, i % 8 ? -1 : 0);
        }
        free(file.at);
    }
    remove(FILE_A);
}

/* ---- .index.json ---- */

/* of an array; as they stand in JSON */
typedef struct place { char name[128], file[128]; } place;
typedef struct plan { place at[ARRAYS + 8]; size_t count; const char *before, *behind; } plan;

static bytes plan_text(const plan *p)
{
    bytes b = text_bytes(p->before);
    for (size_t i = 0; i < p->count; i++) {
        char text[300];
        snprintf(text, sizeof text, "%s\"%s\": %s", i ? ",\n  " : "", p->at[i].name, p->at[i].file);
        put_text(&b, text);
    }
    put_text(&b, p->behind);
    return b;
}
/* Opens build/fuzz.index.json of these bytes, which are freed; `held` bytes are in the files
   that it may name. */
static void index_run(const char *what, size_t system, bytes text, size_t held, int expected)
{
    const char *wrong = save(INDEX, text.at, text.size)
                            ? archive_is_wrong(counting(), INDEX, text.at, text.size + held)
                            : "can't be written";
    if (!wrong) wrong = network_is_wrong(INDEX, text.size + held, system);
    if (!wrong && expected >= 0 && accepted != expected)
        wrong = accepted ? "is accepted" : "is refused";
    if (!wrong) passed++;
    else if (failed++ < 50) {
        printf("index of %s, %s: %s\n", systems[system].name, what, wrong);
        if (save("build/fuzz_finding", text.at, text.size))
            puts("    it lies in build/fuzz_finding");
    }
    free(text.at);
}
/* What stands for a file in an index, in JSON: none is one with arrays beside it. */
static const char *const no_file[] = {
    "\"fuzz_c.safetensors\"", "\"\"", "\".\"", "\"..\"", "\"../build/fuzz_a.safetensors\"", "\"./fuzz_a.safetensors\"", "\"/etc/passwd\"",
    "\"..\\\\fuzz_a.safetensors\"", "\"fuzz.index.json\"", "\"fuzz_2.index.json\"", "\"fuzz_folder\"", "\"fuzz_folder/\"", "\"fuzz_fifo\"",
    "\"fuzz_empty\"", "\"fuzz_a.safetensors\\u0000\"", "\"fuzz_a.safetensors \"", "\"%s%n%s%n\"", "\"\\u0007\\n\"", "\"\\ud83d\\ude00\"",
    "7", "null", "true", "[\"fuzz_a.safetensors\"]", "{\"file\":\"fuzz_a.safetensors\"}", "{}"
};
static void index_change(plan *p)
{
    for (size_t times = 1 + roll(3); times-- && p->count; ) {
        place *a = &p->at[roll(p->count)];
        place *b = &p->at[roll(p->count)];
        place was = *a;
        switch (roll(6)) {
        case 0:
            snprintf(a->file, sizeof a->file, "%s",
                     no_file[roll(sizeof no_file / sizeof *no_file)]);
            break;
        case 1:
            memcpy(a->file, b->file, sizeof a->file), memcpy(b->file, was.file, sizeof b->file);
            break;
        case 2:
            memcpy(a->name, b->name, sizeof a->name);
            if (roll(2))
                memcpy(b->name, was.name, sizeof b->name);
            break;
        case 3: *a = p->at[--p->count]; break;
        case 4:
            if (p->count < ARRAYS + 8)
                p->at[p->count++] = *b;
            break;
        default: a->name[roll(strlen(a->name) + 1)] = (char)('a' + roll(26));
        }
    }
}
static void index_each(const plan *right, size_t system, size_t held)
{
    static const char *const around[][2] = { { "{\"weight_map\": [", "]}" },
                                             { "{\"weight_map\": {\"weight_map\": {", "}}}" },
                                             { "{\"Weight_map\": {", "}}" },
                                             { "{", "}" },
                                             { "[{", "}]" },
                                             { "{\"weight_map\": {", "}" },
                                             { "{\"weight_map\": {", "}}}" },
                                             { "{\"weight_map\": {", ",}}" },
                                             { "{\"weight_map\": {}, \"more\": {", "}}" },
                                             { "{\"weight_map\": {}, \"weight_map\": {", "}}" } };
    char what[300];
    bytes text = plan_text(right);
    /* cut short */
    for (size_t n = 0; n < text.size; n += n < 40 || n + 4 > text.size ? 1 : 61) {
        bytes part = {NULL, 0, 0};
        put(&part, text.at, n);
        index_run("cut short", system, part, held, 0);
    }
    index_run("as it is", system, text, held, 1);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        plan p = *right;
        p.before = around[i][0];
        p.behind = around[i][1];
        index_run(p.before, system, plan_text(&p), held, 0);
    }
    for (size_t i = 0; i < right->count; i += right->count - 1)
        for (size_t k = 0; k < sizeof no_file / sizeof *no_file; k++) {
            plan p = *right;
            snprintf(p.at[i].file, sizeof p.at[i].file, "%s", no_file[k]);
            snprintf(what, sizeof what, "%s in %s", p.at[i].name, no_file[k]);
            index_run(what, system, plan_text(&p), held, 0);
        }
    /* the files are there, but by a path: that is no file beside the index */
    for (int k = 0; k < 3; k++) {
        plan p = *right;
        static const char *const way[] = { "../build/", "./", "fuzz_folder/../" };
        for (size_t i = 0; i < p.count; i++)
            snprintf(p.at[i].file, sizeof p.at[i].file, "\"%s%s", way[k], right->at[i].file + 1);
        index_run("by a path", system, plan_text(&p), held, 0);
    }
    for (size_t i = 0; i < right->count; i += 5) {
        plan p = *right;
        memcpy(p.at[i].file, right->at[right->count - 1 - i].file, sizeof p.at[i].file);
        index_run("in the wrong file", system, plan_text(&p), held,
                  !strcmp(p.at[i].file, right->at[i].file));
        p = *right;
        p.at[p.count++] = right->at[i];
        index_run("a name twice", system, plan_text(&p), held, 0);
        p = *right;
        snprintf(p.at[i].name, sizeof p.at[i].name, "%.100s.x", right->at[i].name);
        index_run("a name that no file has", system, plan_text(&p), held, 0);
    }
}
static void indices(size_t runs)
{
    enum { MOST = 1 << 14 };
    static const char back[] = "{\"weight_map\": {\"a\": \"fuzz.index.json\"}}";
    static unsigned char d[MOST];
    remove("build/fuzz_fifo");
    mkdir("build/fuzz_folder", 0777);
    mkfifo("build/fuzz_fifo", 0666);
    save("build/fuzz_empty", NULL, 0);
    save("build/fuzz_2.index.json", (const unsigned char *)back, sizeof back - 1);
    for (size_t s = 0; s < SYSTEMS; s++) {
        const network *n = network_of(s);
        const size_t half = n->count / 2;
        const bytes a = network_file(n, 0, half), b = network_file(n, half, n->count);
        plan right = { { { "", "" } },
                       n->count,
                       "{\"metadata\": {\"total_size\": 1234},\n \"weight_map\": {\n  ",
                       "}}" };
        for (size_t i = 0; i < n->count; i++) {
            snprintf(right.at[i].name, sizeof right.at[i].name, "%s", n->at[i].name);
            snprintf(right.at[i].file, sizeof right.at[i].file, "\"fuzz_%c.safetensors\"",
                     i < half ? 'a' : 'b');
        }
        if (!save(FILE_A, a.at, a.size) || !save(FILE_B, b.at, b.size)) {
            failed++;
            puts("build/fuzz_… can't be written");
        }
        index_each(&right, s, a.size + b.size);
        for (size_t i = 0; i < runs; i++) {
            plan p = right;
            index_change(&p);
            bytes text = plan_text(&p);
            index_run("changed", s, text, a.size + b.size, -1);
            bytes changed = {NULL, 0, 0};
            text = plan_text(&right);
            memcpy(d, text.at, text.size);
            put(&changed, d, change(d, text.size, MOST));
            free(text.at);
            index_run("bytes", s, changed, a.size + b.size, -1);
        }
        /* both files the same: each name is there twice */
        if (!save(FILE_B, a.at, a.size)) failed++;
        index_run("one file under two names", s, plan_text(&right), a.size + a.size, 0);
        free(a.at);
        free(b.at);
    }
    remove("build/fuzz_folder");
    remove("build/fuzz_fifo");
    remove("build/fuzz_empty");
    remove("build/fuzz_2.index.json");
    remove(FILE_A);
    remove(FILE_B);
    remove(INDEX);
}
#endif

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
#ifdef FUZZ_GGUF
    gguf_seeds();
#endif
#ifdef FUZZ_PPM
    ppm_seeds();
#endif
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        /* with those of the hostile files that are small */
        if (!strcmp(argv[i], "--corpus"))
            return save_all(next, seeds, seed_count, SIZE_MAX)
                || save_all(next, hostile, hostile_count, 4096);
        if (!strcmp(argv[i], "--hostile"))
            return save_all(next, hostile, hostile_count, SIZE_MAX);
        if (!strcmp(argv[i], "--runs")) {
            runs = (size_t)strtoul(next, NULL, 10), i++;
            continue;
        }
        static unsigned char data[1 << 24];
        FILE *f = fopen(argv[i], "rb");
        size_t size = f ? fread(data, 1, sizeof data, f) : 0;
        if (!f) {
            failed++;
            printf("%s can't be read\n", argv[i]);
        }
        else {
            fclose(f);
            run_file(argv[i], data, size);
        }
        files++;
    }
    for (size_t i = 0; !files && i < hostile_count; i++)
        run_file(hostile[i].name, hostile[i].file.at, hostile[i].file.size);
    for (size_t i = 0; !files && i < seed_count; i++)
        run_seed(&seeds[i], runs);
#if defined FUZZ_SAFETENSORS && !defined MMIX_NO_STDIO
    if (!files) {
        networks(runs / 16);
        indices(runs / 32);
    }
#endif
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].file.at);
    for (size_t i = 0; i < hostile_count; i++)
        free(hostile[i].file.at);
    mmix_destroy(counting());
    if (count.live) {
        failed++;
        printf("%zu bytes are left at the end\n", count.live);
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}

#endif
