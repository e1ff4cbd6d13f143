/* report.h - one HTML file with text, tables, pictures and charts in it, that opens anywhere,
   without scripts

       report r;
       if (report_open(&r, "build/report.html", "Title") < 0) … // r.error says why
       report_html(&r, "<p>%d steps</p>\n", steps);       // printf of HTML; report_text escapes
       report_table(&r, "|loss|k-NN");                          // head, then rows, then NULL
       report_row(&r, "softmax|%.2f|%.3f", loss, knn);
       report_table(&r, NULL);
       report_picture(&r, rgb, 96, 96, 144, "a dog");     // PNG inside the page, shown 144 wide
       report_chart(&r, &chart);                                // SVG
       if (report_close(&r) < 0) …                              // only now the file takes its name

       FILE *f = svg_open("figures", "cost.svg", 690, 412, ""); // figures: files of their own
       svg_text(f, 345, 20, 0, "middle", "%d tokens", n);
       figure_close(f, "</svg>\n");

   Pictures are written by the encoder below: rows predicted from their neighbours, LZ77, the
   fixed Huffman code. */
#ifndef REPORT_H
#define REPORT_H

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <direct.h>
#else
#include <sys/stat.h>
#endif

typedef struct report {
    FILE *file;
    char path[1200], draft[1210], error[1400];
} report;

#ifndef REPORT_PROGRAM
#define REPORT_PROGRAM "demo"                /* in front of its messages */
#endif

/* "REPORT_PROGRAM: what went wrong" and a line end, to stderr; returns 2, the exit status of bad
   input. */
static inline int report_refuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs(REPORT_PROGRAM ": ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return 2;
}
/* What is being done, to stderr, before it is done. */
static inline void report_say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}
/* What so few steps of learning say, for stderr and for the page; NULL if they are enough to say
   more. */
static inline const char *report_few(size_t steps)
{
    return steps < 100 ? "so few steps show that everything runs; what is learned in them means "
                         "nothing." : NULL;
}
/* Reads an option's whole number from low to high. 0, or an exit status with the reason said. */
static inline int report_whole(const char *option, const char *text, unsigned long long low,
                               unsigned long long high, unsigned long long *n)
{
    char *end;
    *n = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && *n >= low && *n <= high) return 0;
    return high == ULLONG_MAX ? report_refuse("%s %s: give a whole number", option, text)
                              : report_refuse("%s %s: give a whole number from %llu to %llu",
                                              option, text, low, high);
}

/* ---- PNG (ISO 15948) in zlib (RFC 1950) in deflate (RFC 1951) -------------------------------- */

typedef struct report_bytes {
    uint8_t *at;
    size_t count, room;
    uint32_t bits;                           /* not yet a whole byte */
    int bit_count, failed;
} report_bytes;

static inline void report_byte(report_bytes *b, uint32_t value)
{
    if (b->count == b->room) {
        size_t room = b->room ? 2 * b->room : 4096;
        uint8_t *more = (uint8_t *)realloc(b->at, room);
        if (!more) {
            b->failed = 1;
            return;
        }
        b->at = more;
        b->room = room;
    }
    b->at[b->count++] = (uint8_t)(value & 255);
}

/* PNG and zlib: highest byte first */
static inline void report_u32(report_bytes *b, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) report_byte(b, value >> shift);
}

/* deflate: lowest bit first */
static inline void report_bits(report_bytes *b, uint32_t value, int count)
{
    b->bits |= value << b->bit_count;
    for (b->bit_count += count; b->bit_count >= 8; b->bit_count -= 8, b->bits >>= 8)
        report_byte(b, b->bits);
}

/* Huffman codes come highest bit first */
static inline void report_code(report_bytes *b, uint32_t code, int count)
{
    uint32_t turned = 0;
    for (int i = 0; i < count; i++) turned |= (code >> i & 1) << (count - 1 - i);
    report_bits(b, turned, count);
}

static inline void report_symbol(report_bytes *b, uint32_t s)  /* RFC 1951, 3.2.6: the fixed code */
{
    if (s < 144) report_code(b, 0x30 + s, 8);
    else if (s < 256) report_code(b, 0x190 + s - 144, 9);
    else if (s < 280) report_code(b, s - 256, 7);
    else report_code(b, 0xC0 + s - 280, 8);
}

static inline int report_log2(uint32_t x)
{
    int n = 0;
    while (x >>= 1) n++;
    return n;
}

/* "The next `length` bytes are those `distance` back": both as a class and the bits below it
   (3.2.5). */
static inline void report_copy(report_bytes *b, uint32_t length, uint32_t distance)
{
    uint32_t l = length - 3;
    uint32_t d = distance - 1;
    if (length == 258) report_symbol(b, 285);
    else if (l < 8) report_symbol(b, 257 + l);
    else {
        int extra = report_log2(l) - 2;
        report_symbol(b, 261 + 4 * (uint32_t)extra + (l >> extra & 3));
        report_bits(b, l & ((1u << extra) - 1), extra);
    }
    if (d < 4) report_code(b, d, 5);
    else {
        int extra = report_log2(d) - 1;
        report_code(b, 2 + 2 * (uint32_t)extra + (d >> extra & 1), 5);
        report_bits(b, d & ((1u << extra) - 1), extra);
    }
}

/* A zlib stream of n bytes. Three bytes seen before (the last 32 such places are tried) begin a
   copy. */
static inline void report_zlib(report_bytes *b, const uint8_t *in, size_t n)
{
    enum { BUCKETS = 1 << 15, NONE = 0 };
    uint32_t *head = (uint32_t *)calloc(BUCKETS, sizeof *head);
    uint32_t *before = (uint32_t *)malloc((n + 1) * sizeof *before);
    if (!head || !before) {
        free(head);
        free(before);
        b->failed = 1;
        return;
    }
    report_byte(b, 0x78);
    report_byte(b, 0x01);
    b->bits = 0;
    b->bit_count = 0;
    report_bits(b, 3, 3);  /* last block, fixed code */
    for (size_t i = 0, next; i < n; i = next) {
        size_t best = 0, from = 0;
        size_t limit = n - i < 258 ? n - i : 258;
        if (limit >= 3) {
            uint32_t bucket = ((in[i] * 65599u + in[i + 1]) * 65599u + in[i + 2]) *
                2654435761u >> 17;
            size_t at = head[bucket];  /* place + 1, so that 0 is none */
            for (int tries = 32; at != NONE && i + 1 - at <= 32768 && tries > 0;
                 at = before[at], tries--) {
                size_t same = 0;
                while (same < limit && in[at - 1 + same] == in[i + same]) same++;
                if (same > best) {
                    best = same;
                    from = at - 1;
                }
            }
        }
        if (best >= 3) {
            report_copy(b, (uint32_t)best, (uint32_t)(i - from));
            next = i + best;
        } else {
            report_symbol(b, in[i]);
            next = i + 1;
        }
        for (size_t k = i; k < next && k + 3 <= n; k++) {
            uint32_t bucket = ((in[k] * 65599u + in[k + 1]) * 65599u + in[k + 2]) *
                2654435761u >> 17;
            before[k + 1] = head[bucket];
            head[bucket] = (uint32_t)(k + 1);
        }
    }
    report_symbol(b, 256);
    report_bits(b, 0, (8 - b->bit_count) & 7);
    uint32_t low = 1, high = 0;                                              /* Adler-32 */
    for (size_t i = 0; i < n; i++) {
        low = (low + in[i]) % 65521;
        high = (high + low) % 65521;
    }
    report_u32(b, high << 16 | low);
    free(head);
    free(before);
}

static inline void report_chunk(report_bytes *b, const char *name, const uint8_t *data, size_t n)
{
    report_u32(b, (uint32_t)n);
    size_t start = b->count;
    for (int i = 0; i < 4; i++) report_byte(b, (uint8_t)name[i]);
    for (size_t i = 0; i < n; i++) report_byte(b, data[i]);
    uint32_t crc = 0xFFFFFFFFu;  /* CRC-32, bit by bit */
    for (size_t i = start; i < b->count; i++) {
        crc ^= b->at[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    report_u32(b, ~crc);
}

/* whichever is nearest to left + up - corner */
static inline int report_paeth(int left, int up, int corner)
{
    int a = abs(up - corner);
    int b = abs(left - corner);
    int c = abs(left + up - 2 * corner);
    if (a <= b && a <= c) return left;
    return b <= c ? up : corner;
}

/* A PNG file of 8-bit RGB (channels 3) or gray (1) pixels; free() it. NULL if memory ran out. */
static inline uint8_t *report_png(const uint8_t *pixels, size_t width, size_t height,
                                  size_t channels, size_t *size)
{
    report_bytes rows, packed, file;
    memset(&rows, 0, sizeof rows);
    memset(&packed, 0, sizeof packed);
    memset(&file, 0, sizeof file);
    size_t stride = width * channels;
    for (size_t y = 0; y < height; y++) {
        const uint8_t *row = pixels + y * stride;
        const uint8_t *above = y ? row - stride : NULL;
        uint32_t filter = 0, least = 0;
        for (uint32_t f = 0; f < 6; f++) {  /* none, sub, up, average, Paeth; then the best */
            uint32_t kind = f < 5 ? f : filter;
            uint32_t sum = 0;
            if (f == 5) report_byte(&rows, kind);
            for (size_t i = 0; i < stride; i++) {
                int left = i >= channels ? row[i - channels] : 0;
                int up = above ? above[i] : 0;
                int corner = i >= channels && above ? above[i - channels] : 0;
                int guess[5] = {0, left, up, (left + up) / 2, report_paeth(left, up, corner)};
                uint8_t rest = (uint8_t)(row[i] - guess[kind]);
                sum += rest < 128 ? rest : 256u - rest;
                if (f == 5) report_byte(&rows, rest);
            }
            if (!f || (f < 5 && sum < least)) {
                least = sum;
                filter = f;
            }
        }
    }
    if (!rows.failed) report_zlib(&packed, rows.at, rows.count);
    /* width, height, 8 bits, colour type */
    uint8_t header[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        header[i] = (uint8_t)(width >> (24 - 8 * i) & 255);
        header[4 + i] = (uint8_t)(height >> (24 - 8 * i) & 255);
    }
    header[9] = channels == 3 ? 2 : 0;
    static const uint8_t sign[8] = {137, 'P', 'N', 'G', '\r', '\n', 26, '\n'};
    for (int i = 0; i < 8; i++) report_byte(&file, sign[i]);
    report_chunk(&file, "IHDR", header, 13);
    report_chunk(&file, "IDAT", packed.at, packed.count);
    report_chunk(&file, "IEND", NULL, 0);
    int failed = rows.failed || packed.failed || file.failed;
    free(rows.at);
    free(packed.at);
    if (failed) {
        free(file.at);
        return NULL;
    }
    *size = file.count;
    return file.at;
}

/* ---- colours --------------------------------------------------------------------------------- */

/* A map's value, 0 … 1, as a colour: Oklab lightness rises evenly from 0.22 to 0.94 while the
   hue goes from violet over blue and green to yellow, so that equal steps look equal and a gray
   print still reads. Polynomials fitted to that path. */
static inline void report_heat(double t, uint8_t *rgb)
{
    static const double fit[3][6] = {{0.094, 1.724, -10.024, 15.386, -4.486, -1.755},
                                     {0.037, 0.930, 0.078, 0.602, -1.050, 0.347},
                                     {0.245, 1.066, -0.358, -0.477, -0.698, 0.679}};
    t = t > 0 ? fmin(t, 1) : 0;
    for (int c = 0; c < 3; c++) {
        double v = 0;
        for (int k = 5; k >= 0; k--) v = v * t + fit[c][k];
        rgb[c] = (uint8_t)(fmin(fmax(v, 0), 1) * 255 + 0.5);
    }
}

/* ---- files: written under another name, so that one is there whole or not at all ------------- */

/* Closes a file that was written under the name `draft`, and gives it its own. 0; or -1 and errno
   if it was not written whole: the file that was there before stays. */
static inline int report_rename(FILE *f, const char *draft, const char *path)
{
    int failed = ferror(f) != 0;
    failed |= fclose(f) != 0;
#ifdef _WIN32
    if (!failed) remove(path);  /* rename does not replace there */
#endif
    if (!failed) failed = rename(draft, path) != 0;
    if (!failed) return 0;
    int reason = errno;
    remove(draft);
    errno = reason;
    return -1;
}
/* Writes a text as a file. 0, or -1 and errno. */
static inline int report_write(const char *path, const char *text)
{
    char draft[1310];
    if ((size_t)snprintf(draft, sizeof draft, "%s.tmp", path) >= sizeof draft) {
        errno = ENAMETOOLONG;
        return -1;
    }
    FILE *f = fopen(draft, "wb");
    if (!f) return -1;
    fputs(text, f);
    return report_rename(f, draft, path);
}

/* ---- the page -------------------------------------------------------------------------------- */

static inline int report_open(report *r, const char *path, const char *title)
{
    memset(r, 0, sizeof *r);
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->draft, sizeof r->draft, "%s.tmp", r->path);
    r->file = fopen(r->draft, "wb");
    if (!r->file) {
        snprintf(r->error, sizeof r->error, "cannot write %s: %s", r->draft, strerror(errno));
        return -1;
    }
    fprintf(r->file,
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>%s</title>\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n"
            ":root{color-scheme:light dark;--ink:#1d2329;--soft:#66717d;--line:#d9dee4;--page:#fff;"
            "--c0:#2f6fd0;--c1:#c8602a;--c2:#2d8f5a;--c3:#8a4fb5;--c4:#14808a;--c5:#a3812a}\n"
            "@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--soft:#96a1ac;--line:#3a424a;"
            "--page:#171b1f;"
            "--c0:#74a7f2;--c1:#ef9a68;--c2:#6cc795;--c3:#c295e6;--c4:#5cc4ce;--c5:#d9bd6a}}\n"
            "body{font:15px/1.5 "
            "system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:72rem;"
            "margin:2rem auto;padding:0 1rem}\n"
            "h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2.2rem 0 .4rem}"
            "p{margin:.4rem 0;max-width:48rem}ul,ol{max-width:46rem;padding-left:1.4rem;"
            "margin:.4rem 0}\n"
            ".soft,figcaption{color:var(--soft);font-size:.87rem}"
            "code{font-size:.87em;overflow-wrap:anywhere}"
            "sub,sup{font-size:12px;line-height:0}\n"
            /* what is wider than the page scrolls, under its first column; a shade at the right
               says so until its end */
            ".wide{overflow-x:auto;background:linear-gradient(to left,var(--page) "
            "40%%,transparent) 100%% 0/4rem 100%% no-repeat local,linear-gradient(to "
            "left,var(--line),transparent) 100%% 0/1.2rem 100%% no-repeat scroll}.wide "
            "td:first-child,.wide th:first-child{position:sticky;left:0;background:var(--page)}\n"
            "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px;"
            "margin:.6rem 0}\n"
            "th,td{padding:.25rem .5rem;text-align:right;border-bottom:1px solid var(--line);"
            "vertical-align:top}\n"
            "th{font-weight:600;color:var(--soft)}tr:first-child th{vertical-align:bottom}"
            "th:first-child,td:first-child{text-align:left}\n"
            ".row{display:flex;flex-wrap:wrap;gap:1rem 2rem}figure{margin:.5rem 0}"
            "figure.chart{flex:0 1 27rem;max-width:27rem}figcaption{margin-top:.3rem}"
            "details{max-width:48rem;margin:.4rem 0}summary{cursor:pointer}\n"
            ".pictures th,.pictures td{border:0;padding:.15rem;text-align:center}"
            "img{display:block;border-radius:2px}"
            ".said th,.said td{padding:.15rem .6rem}.wide table:not(.pictures) "
            "td:not(:first-child){white-space:nowrap}.asked td:first-child{min-width:9rem;"
            "max-width:26rem}"
            ".fit{width:100%%;max-width:52rem;table-layout:fixed}.fit img{width:100%%}\n"
            "svg{width:100%%;height:auto;display:block}svg text{font-size:14px;fill:var(--soft);"
            "stroke:var(--page);stroke-width:3px;paint-order:stroke}\n"
            ".axis{stroke:var(--line);stroke-width:1;fill:none}"
            ".mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 4;fill:none}\n"
            ".curve{fill:none;stroke-width:1.8;stroke-linejoin:round}"
            ".before{stroke-dasharray:5 4}\n"
            "@media(max-width:40rem){th,td{padding:.25rem .4rem}.wide table:not(.pictures) "
            "td:first-child{min-width:6rem}.small img{width:5.1rem}}\n"
            "</style>\n<h1>%s</h1>\n", title, title);
    return 0;
}

#if defined(__GNUC__) || defined(__clang__)
#define REPORT_PRINTF __attribute__((format(printf, 2, 3)))
#else
#define REPORT_PRINTF
#endif

static inline void REPORT_PRINTF report_html(report *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(r->file, format, list);
    va_end(list);
}

static inline void report_escape(FILE *f, const char *text, size_t n)
{
    for (; n-- > 0; text++)
        switch (*text) {
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '&': fputs("&amp;", f); break;
        case '"': fputs("&quot;", f); break;
        default:  fputc(*text, f);
        }
}
static inline void report_text(report *r, const char *text) { report_escape(r->file, text,
        strlen(text)); }

static inline void report_cells(report *r, const char *tag, const char *cells)  /* "a|b|c" */
{
    fputs("<tr>", r->file);
    for (const char *end = cells; end; cells = end + 1) {
        end = strchr(cells, '|');
        fprintf(r->file, "<%s>", tag);
        report_escape(r->file, cells, end ? (size_t)(end - cells) : strlen(cells));
        fprintf(r->file, "</%s>", tag);
        if (!end) break;
    }
    fputs("</tr>\n", r->file);
}

/* Begins a table with the given head, or ends it (NULL). */
static inline void report_table(report *r, const char *head)
{
    fputs(head ? "<div class=\"wide\"><table>\n" : "</table></div>\n", r->file);
    if (head) report_cells(r, "th", head);
}

static inline void REPORT_PRINTF report_row(report *r, const char *format, ...)
{
    char cells[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(cells, sizeof cells, format, list);
    va_end(list);
    report_cells(r, "td", cells);
}

/* ---- results: the same columns on stdout, as JSON and in the page ---------------------------- */

typedef struct report_column {
    const char *key, *text, *head;  /* the name in JSON, the head on stdout, the head in the page */
    int width, digits;                       /* of the text; after the point */
} report_column;

/* A line on stdout: the heads (value NULL) or the values behind a name; "-" for what is not
   there (NAN). */
static inline void report_columns_text(const report_column *column, int count, const char *name,
                                       const double *value)
{
    printf("%-8s", name);
    for (int c = 0; c < count; c++)
        if (!value) printf(" %*s", column[c].width, column[c].text);
        else if (isfinite(value[c])) printf(" %*.*f", column[c].width, column[c].digits, value[c]);
        else printf(" %*s", column[c].width, "-");
    printf("\n");
}

/* Whether a lies more than two standard errors of the difference above b (1), below it (-1), or
   neither (0). */
static inline int report_differ(double a, double a_error, double b, double b_error)
{
    double off = a - b;
    double two = 2 * hypot(a_error, b_error);
    if (off > two) return 1;
    return off < -two ? -1 : 0;
}
static const char *const report_sign[3] = {" ▼", "", " ▲"};      /* of report_differ, + 1 */

/* Half of a 95 % interval is so many standard errors. */
static const double report_half = 1.96;

/* The heads of two kinds of columns with the error of the column before: "±" has one standard
   error, REPORT_95 half of a 95 % interval. Returns how many standard errors that is; 0: of any
   other column. */
#define REPORT_95 "± 95 %"
static inline double report_error_of(const char *head)
{
    if (!strcmp(head, "±")) return 1;
    return strcmp(head, REPORT_95) ? 0 : report_half;
}

/* Writes a number as a text; a whole one from 10,000 on gets a comma before each three digits. */
static inline size_t report_number_text(char *out, size_t room, double value, int digits)
{
    char figures[32], grouped[48];
    size_t n = 0;
    if (digits || !(value >= 1e4) || value >= 1e15)
        return (size_t)snprintf(out, room, "%.*f", digits, value);
    int length = snprintf(figures, sizeof figures, "%.0f", value);
    for (int i = 0; i < length; i++) {
        int left = length - i;
        if (i && left % 3 == 0) grouped[n++] = ',';
        grouped[n++] = figures[i];
    }
    grouped[n] = 0;
    return (size_t)snprintf(out, room, "%s", grouped);
}

/* The same as a row of a table in the page; the heads begin it. An error stands in the cell of the
   column before; a value that report_differ tells from `base` (or NULL) is marked. */
static inline void report_columns_html(report *r, const report_column *column, int count,
                                       const char *name, const double *value, const double *base)
{
    char cells[2048];
    size_t n = (size_t)snprintf(cells, sizeof cells, "%s", name);
    for (int c = 0; c < count && n < sizeof cells; c++) {
        double error = c + 1 < count ? report_error_of(column[c + 1].head) : 0;
        if (!value) n += (size_t)snprintf(cells + n, sizeof cells - n, "|%s", column[c].head);
        else if (!isfinite(value[c])) n += (size_t)snprintf(cells + n, sizeof cells - n, "|-");
        else {
            char number[64];
            report_number_text(number, sizeof number, value[c], column[c].digits);
            n += (size_t)snprintf(cells + n, sizeof cells - n, "|%s", number);
        }
        if (error <= 0) continue;
        int off = 0;
        if (value && base)
            off = report_differ(value[c], value[c + 1] / error, base[c], base[c + 1] / error);
        c++;
        if (value && isfinite(value[c]) && n < sizeof cells)
            n += (size_t)snprintf(cells + n, sizeof cells - n, " ± %.*f%s", column[c].digits,
                                  value[c], report_sign[1 + off]);
    }
    if (value) report_cells(r, "td", cells);
    else report_table(r, cells);
}

/* "key": value on stdout; null for NAN. */
static inline void report_json(const char *key, double value, const char *after)
{
    if (isfinite(value)) printf("\"%s\": %.9g%s", key, value, after);
    else printf("\"%s\": null%s", key, after);
}

/* A string of JSON on stdout. */
static inline void report_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if ((unsigned char)*text < 32) printf("\\u%04x", (unsigned)*text);
        else printf("%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    putchar('"');
}

/* ---- pictures and charts --------------------------------------------------------------------- */

/* RGB pixels as a PNG inside the page, shown `side` wide. */
static inline void report_picture(report *r, const uint8_t *rgb, size_t width, size_t height,
                                  int side, const char *alt)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = 0;
    uint8_t *png = report_png(rgb, width, height, 3, &size);
    if (!png) return;
    fprintf(r->file, "<img width=\"%d\" alt=\"", side);
    report_text(r, alt);
    fputs("\" src=\"data:image/png;base64,", r->file);
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t three = (uint32_t)png[i] << 16;
        if (left > 1) three |= (uint32_t)png[i + 1] << 8;
        if (left > 2) three |= png[i + 2];
        fputc(digits[three >> 18], r->file);
        fputc(digits[three >> 12 & 63], r->file);
        fputc(left > 1 ? digits[three >> 6 & 63] : '=', r->file);
        fputc(left > 2 ? digits[three & 63] : '=', r->file);
    }
    fputs("\">", r->file);
    free(png);
}

typedef struct report_curve {
    const char *name;                        /* at the line's end */
    const double *x, *y;
    size_t count;
    int colour, dashed;                      /* colour 0 … 5 */
} report_curve;
typedef struct report_plot {
    const char *x_label, *y_label, *caption;
    report_curve curve[12];
    size_t curves;
    double level;                            /* a level drawn across, if level_name is set */
    const char *level_name;
    double mark;  /* a place on the x axis, drawn upright, if mark_name is set */
    const char *mark_name;
    double low, high;                        /* of y, if low < high; else from the curves */
    int square, diagonal;                    /* as high as wide; a line from corner to corner */
    int log_x, log_y;  /* logarithmic axes: values above 0; low, high, level and mark, too */
} report_plot;

static inline double report_tick(double range, int about)  /* 1, 2 or 5 times a power of ten */
{
    double step = pow(10, floor(log10(range / about)));
    double rest = range / about / step;
    if (rest < 1.5) return step;
    if (rest < 3.5) return 2 * step;
    return rest < 7.5 ? 5 * step : 10 * step;
}

/* Where a value stands on its axis: its logarithm, or itself. Without one (0 or less) it is not
   drawn. */
static inline double report_place(double v, int logarithmic)
{
    if (!logarithmic) return v;
    return v > 0 ? log10(v) : NAN;
}

enum { REPORT_TICKS = 64 };
/* Values to write at an axis from place `low` to `high`: about so many even steps; on a
   logarithmic one 1, 2 and 5 times the powers of ten or, of four decades and more, the powers
   alone. Returns how many. */
static inline int report_ticks(double low, double high, int about, int logarithmic, double *value)
{
    static const int lead[3] = {1, 2, 5};
    int n = 0;
    if (!logarithmic) {
        double tick = report_tick(high - low, about);
        for (double v = ceil(low / tick - 1e-9) * tick; v <= high + tick * 1e-6 && n < REPORT_TICKS;
             v += tick)
            value[n++] = fabs(v) < tick * 1e-6 ? 0 : v;
        return n;
    }
    for (int power = (int)floor(low); power <= high && n + 3 <= REPORT_TICKS; power++)
        for (int k = 0; k < (high - low < 4 ? 3 : 1); k++) {
            double v = lead[k] * pow(10, power);
            double at = log10(v);
            if (at > low - 1e-9 && at < high + 1e-9) value[n++] = v;
        }
    return n;
}

/* A mark at a place, one shape for each colour, hollow on broken lines: told apart without the
   colour. */
static inline void report_mark(FILE *f, int colour, int hollow, double x, double y, double size)
{
    static const char *const shape[6] = {"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-3.5-3.5h7v7h-7z",
                                         "M0-5l4.5 8h-9z",
                                         "M0-5l4.5 5l-4.5 5l-4.5-5z", "M0 5l4.5-8h-9z",
                                         "M-4.5-1.5h9v3h-9z"};
    static const char *const solid[6] = {"c0", "c1", "c2", "c3", "c4", "c5"};
    colour %= 6;
    fprintf(f, "<path transform=\"translate(%.1f %.1f)scale(%g)\" stroke=\"var(--c%d)\" "
               "fill=\"var(--%s)\" "
            "d=\"%s\"/>", x, y, size, colour, hollow ? "page" : solid[colour], shape[colour]);
}

enum { REPORT_NAMES = 180 };  /* room at the right of a chart for its curves' names, at most */
/* How wide a text of the charts is, about; rather less than this. */
static inline double report_wide(const char *text)
{
    double n = 0;
    for (; *text; text++) n += (*text & 0xC0) != 0x80;   /* UTF-8 */
    return 8.4 * n;
}

typedef struct report_axes {
    /* of the plot in the drawing; (x - x0) kx, (y - y0) ky */
    double left, right, top, floor, x0, y0, kx, ky;
    int log_x, log_y;
} report_axes;

/* Draws a curve through points, of more than 400 through the means of as many stretches as fit,
   with marks on the way. Returns the height of its end, NAN if nothing of it is there. */
static inline double report_line(FILE *f, const report_curve *curve, const report_axes *a)
{
    size_t group = (curve->count + 399) / 400;
    size_t points = 0, marked = 0;
    double *at = (double *)malloc((curve->count + 1) * 2 * sizeof *at);
    double end = NAN;
    const char *pen = "M";
    if (!at) return NAN;
    fprintf(f, "<path class=\"curve%s\" stroke=\"var(--c%d)\" d=\"", curve->dashed ? " before" : "",
            curve->colour % 6);
    for (size_t i = 0; i < curve->count; i += group) {
        double x = 0, y = 0;
        size_t count = curve->count - i < group ? curve->count - i : group;
        for (size_t k = i; k < i + count; k++) {
            x += curve->x[k] / (double)count;
            y += curve->y[k] / (double)count;
        }
        x = report_place(x, a->log_x);
        y = report_place(y, a->log_y);
        if (!isfinite(x) || !isfinite(y)) {
            pen = "M";
            continue;
        }
        at[2 * points] = a->left + (x - a->x0) * a->kx;
        end = at[2 * points + 1] = a->floor - (y - a->y0) * a->ky;
        fprintf(f, "%s%.1f %.1f", pen, at[2 * points], end);
        points++;
        pen = "L";
    }
    fputs("\"/>\n", f);
    /* a sixth of the way apart, each colour a little later */
    for (size_t i = 0; i < points; i++) {
        double way = 6 * (at[2 * i] - a->left) / (a->right - a->left) - 0.15 * (curve->colour % 6);
        if (way < (double)marked && i + 1 < points) continue;
        report_mark(f, curve->colour, curve->dashed, at[2 * i], at[2 * i + 1], 1);
        marked = (size_t)fmax(0, way) + 1;
    }
    free(at);
    return end;
}

/* The curves' names beside their ends, apart from each other. */
static inline void report_names(FILE *f, const report_plot *p, const double *end,
                                const report_axes *a)
{
    enum { APART = 15 };
    size_t order[12], n = 0;
    double at = a->top + 4, height[12];
    for (size_t c = 0; c < p->curves; c++)
        if (p->curve[c].name && isfinite(end[c])) {
            size_t k = n++;
            for (; k && end[order[k - 1]] > end[c]; k--) order[k] = order[k - 1];
            order[k] = c;
        }
    for (size_t k = 0; k < n; k++, at += APART) height[k] = at = fmax(at, end[order[k]]);
    at = a->floor;
    /* too low: pushed up again */
    for (size_t k = n; k-- > 0; at -= APART) height[k] = at = fmin(at, height[k]);
    for (size_t k = 0; k < n; k++) {
        const report_curve *c = &p->curve[order[k]];
        report_mark(f, c->colour, c->dashed, a->right + 10, height[k], 1);
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\"", a->right + 18, height[k] + 5);
        if (report_wide(c->name) > REPORT_NAMES - 2)     /* squeezed, not cut */
            fprintf(f, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"", REPORT_NAMES - 20);
        fputc('>', f);
        report_escape(f, c->name, strlen(c->name));
        fputs("</text>\n", f);
    }
}

/* Where the plot stands in a drawing 400 wide, and its scale: on the left there are numbers, on
   the right names. */
static inline report_axes report_frame(const report_plot *p, double x0, double x1, double y0,
                                       double y1)
{
    report_axes a;
    double ticks[REPORT_TICKS];
    char text[32];
    a.left = a.right = 0;
    for (int i = 0, n = report_ticks(y0, y1, 5, p->log_y, ticks); i < n; i++) {
        snprintf(text, sizeof text, "%.6g", ticks[i]);
        a.left = fmax(a.left, report_wide(text) + 8);
    }
    for (size_t c = 0; c < p->curves; c++)
        if (p->curve[c].name) a.right = fmax(a.right, report_wide(p->curve[c].name) + 20);
    a.right = 400 - fmin(REPORT_NAMES, fmax(14, a.right));
    a.top = 28;
    a.floor = a.top + (p->square ? a.right - a.left : 220);
    a.x0 = x0;
    a.y0 = y0;
    a.kx = (a.right - a.left) / (x1 - x0);
    a.ky = (a.floor - a.top) / (y1 - y0);
    a.log_x = p->log_x;
    a.log_y = p->log_y;
    return a;
}

/* How much of the curves passes through a box of the drawing: points on the way from one of
   their points to the next. */
static inline size_t report_crowd(const report_plot *p, const report_axes *a, double x, double y,
                                  double wide, double high)
{
    enum { PIECES = 16 };
    size_t n = 0;
    for (size_t c = 0; c < p->curves; c++)
        for (size_t i = 1; i < p->curve[c].count; i++) {
            const double *cx = p->curve[c].x + i - 1;
            const double *cy = p->curve[c].y + i - 1;
            for (int k = 0; k <= PIECES; k++) {
                double t = (double)k / PIECES;
                double u[2] = {report_place(cx[0], a->log_x), report_place(cx[1], a->log_x)};
                double v[2] = {report_place(cy[0], a->log_y), report_place(cy[1], a->log_y)};
                double at_x = a->left + ((1 - t) * u[0] + t * u[1] - a->x0) * a->kx - x;
                double at_y = a->floor - ((1 - t) * v[0] + t * v[1] - a->y0) * a->ky - y;
                n += at_x > 0 && at_x < wide && at_y > 0 && at_y < high;
            }
        }
    return n;
}

static inline void report_chart(report *r, const report_plot *p)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY, ticks[REPORT_TICKS],
        end[12];
    FILE *f = r->file;
    for (size_t c = 0; c < p->curves; c++)
        for (size_t i = 0; i < p->curve[c].count; i++) {
            double x = report_place(p->curve[c].x[i], p->log_x);
            double y = report_place(p->curve[c].y[i], p->log_y);
            if (!isfinite(x) || !isfinite(y)) continue;
            x0 = fmin(x0, x);
            x1 = fmax(x1, x);
            y0 = fmin(y0, y);
            y1 = fmax(y1, y);
        }
    double level = report_place(p->level, p->log_y);
    double mark = report_place(p->mark, p->log_x);
    if (p->level_name) {
        y0 = fmin(y0, level);
        y1 = fmax(y1, level);
    }
    if (!(x0 <= x1)) {
        x0 = y0 = 0;
        x1 = y1 = 1;
    }
    if (x1 - x0 < 1e-12) x1 = x0 + 1;
    if (p->low < p->high) {
        y0 = report_place(p->low, p->log_y);
        y1 = report_place(p->high, p->log_y);
    } else if (p->log_y) {
        y0 -= 0.05;
        y1 += 0.05;
    } else {
        double tick = report_tick(fmax(y1 - y0, 1e-6), 6);
        y0 = floor(y0 / tick) * tick;
        y1 = ceil(y1 / tick) * tick;
        if (y1 - y0 < tick) y1 = y0 + tick;
    }
    report_axes a = report_frame(p, x0, x1, y0, y1);
    fprintf(f, "<figure class=\"chart\"><svg viewBox=\"0 0 400 %g\" role=\"img\">\n<text x=\"0\" "
               "y=\"14\">",
            a.floor + 46);
    report_text(r, p->y_label);
    fputs("</text>\n", f);
    for (int i = 0, n = report_ticks(y0, y1, 5, p->log_y, ticks); i < n; i++) {
        double at = a.floor - (report_place(ticks[i], p->log_y) - y0) * a.ky;
        fprintf(f, "<path class=\"axis\" d=\"M%g %.1fH%g\"/>", a.left, at, a.right);
        fprintf(f, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", a.left - 6,
                at + 5, ticks[i]);
    }
    for (int i = 0, n = report_ticks(x0, x1, 4, p->log_x, ticks); i < n; i++) {
        double at = a.left + (report_place(ticks[i], p->log_x) - x0) * a.kx;
        fprintf(f, "<path class=\"axis\" d=\"M%.1f %gv5\"/>", at, a.floor);
        fprintf(f, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%.6g</text>\n", at,
                a.floor + 20, ticks[i]);
    }
    fprintf(f, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">",
            fmax((a.left + a.right) / 2, report_wide(p->x_label) / 2), a.floor + 40);
    report_text(r, p->x_label);
    fputs("</text>\n", f);
    if (p->diagonal)
        fprintf(f, "<path class=\"mark\" d=\"M%g %gL%g %g\"/>\n", a.left, a.floor, a.right, a.top);
    for (size_t c = 0; c < p->curves; c++) end[c] = report_line(f, &p->curve[c], &a);
    if (p->level_name) {
        double at = a.floor - (level - y0) * a.ky;
        double wide = report_wide(p->level_name);
        int best = 0;
        size_t least = SIZE_MAX;
        /* the name: right or left, below or above, where least is in its way */
        for (int place = 0; place < 4; place++) {
            double x = place & 1 ? a.left + 2 : a.right - 2 - wide;
            double y = at + (place & 2 ? -16 : 4);
            size_t n = y < a.top - 12 ? SIZE_MAX : report_crowd(p, &a, x, y, wide, 12);
            if (n < least) {
                least = n;
                best = place;
            }
        }
        fprintf(f, "<path class=\"mark\" d=\"M%g %.1fH%g\"/>", a.left, at, a.right);
        double text_x = best & 1 ? a.left + 2 : a.right - 2;
        double text_y = best & 2 ? at - 5 : at + 14;
        const char *anchor = best & 1 ? "start" : "end";
        fprintf(f, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"%s\">", text_x, text_y, anchor);
        report_text(r, p->level_name);
        fputs("</text>\n", f);
    }
    if (p->mark_name && mark >= x0 && mark <= x1) {
        double at = a.left + (mark - x0) * a.kx;
        int late = 2 * at > a.left + a.right;
        fprintf(f, "<path class=\"mark\" d=\"M%.1f %gV%g\"/>", at, a.top, a.floor);
        const char *anchor = late ? "end" : "start";
        double text_x = at + (late ? -5 : 5);
        fprintf(f, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"%s\">", text_x, a.top + 12, anchor);
        report_text(r, p->mark_name);
        fputs("</text>\n", f);
    }
    report_names(f, p, end, &a);
    fputs("</svg><figcaption>", f);
    report_text(r, p->caption);
    fputs("</figcaption></figure>\n", f);
}

/* Room for a sentence that is known only when the rest of the page is written: where it is, for
   report_fill. */
enum { REPORT_ROOM = 2000 };
static inline long report_leave(report *r)
{
    long at = ftell(r->file);
    fprintf(r->file, "%*s\n", REPORT_ROOM, "");
    return at;
}
static inline void report_fill(report *r, long at, const char *html)
{
    long end = ftell(r->file);
    if (at < 0 || fseek(r->file, at, SEEK_SET)) return;
    fprintf(r->file, "%.*s", REPORT_ROOM, html);
    fseek(r->file, end, SEEK_SET);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Gives the file its name. 0, or -1 and the file that was there before stays. */
static inline int report_close(report *r)
{
    fputs("</html>\n", r->file);
    if (!report_rename(r->file, r->draft, r->path)) return 0;
    snprintf(r->error, sizeof r->error, "cannot write %s: %s", r->path, strerror(errno));
    return -1;
}

/* Without a file: the one that was there before stays. */
static inline void report_drop(report *r)
{
    fclose(r->file);
    remove(r->draft);
}

static inline int report_mkdir(const char *folder)
{
#ifdef _WIN32
    return _mkdir(folder);
#else
    return mkdir(folder, 0777);
#endif
}

/* Makes the folders on the way to the file `path`, and tries whether one can be written there.
   0, or -1 and errno: where a folder could not be made, why it could not, and not that it is
   missing. */
static inline int report_folders(const char *path)
{
    char part[1300];
    int reason = 0;
    for (size_t i = *path != 0; path[i] && i < sizeof part; i++) {
        if (path[i] != '/' && path[i] != '\\') continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (report_mkdir(part) == 0 || errno == EEXIST) continue;
        if (!reason) reason = errno;
    }
    snprintf(part, sizeof part, "%s.try", path);
    FILE *f = fopen(part, "wb");
    if (!f) {
        if (errno == ENOENT && reason) errno = reason;
        return -1;
    }
    fclose(f);
    return remove(part);
}

/* The path FOLDER/NAME, and FOLDER/report.html, tried before anything is worked on. 0, or an
   exit status with the reason said. */
static inline int report_try(const char *folder, const char *name, char *path, size_t room)
{
    if (!*folder)
        return report_refuse("an empty name is no folder: give --out or --figures another");
    if ((size_t)snprintf(path, room, "%s/%s", folder, name) >= room)
        return report_refuse("%s: this name is too long", folder);
    return report_folders(path) ? report_refuse("cannot write %s: %s", path, strerror(errno)) : 0;
}
static inline int report_ready(const char *folder, char *path, size_t room)
{
    return report_try(folder, "report.html", path, room);
}

/* ---- figures: files of their own; what cannot be written ends the program with status 2
   ---------------- */

/* The figures that are being written; FIGURES at a time. */
enum { FIGURES = 4 };
typedef struct figure_file {
    FILE *file;                              /* NULL: no figure */
    char path[1100], draft[1110];
} figure_file;
static figure_file figure_files[FIGURES];

static inline figure_file *figure_of(const FILE *f)      /* f NULL: a place for a new one */
{
    int i = 0;
    while (i < FIGURES && figure_files[i].file != f) i++;
    if (i == FIGURES) exit(report_refuse("%d figures at a time are the most", FIGURES));
    return &figure_files[i];
}
/* Opens FOLDER/NAME, and makes the folders on the way. */
static inline FILE *figure_open(const char *folder, const char *name)
{
    figure_file *figure = figure_of(NULL);
    char path[1100];
    if (report_try(folder, name, path, sizeof path)) exit(2);
    memcpy(figure->path, path, sizeof path);
    snprintf(figure->draft, sizeof figure->draft, "%s.tmp", path);
    figure->file = fopen(figure->draft, "wb");
    if (!figure->file) exit(report_refuse("cannot write %s: %s", path, strerror(errno)));
    return figure->file;
}
static inline void figure_close(FILE *f, const char *end)
{
    figure_file *figure = figure_of(f);
    fputs(end, f);
    figure->file = NULL;
    if (report_rename(f, figure->draft, figure->path))
        exit(report_refuse("cannot write %s: %s", figure->path, strerror(errno)));
}
static inline void figure_png(const char *folder, const char *name, const uint8_t *rgb,
                              size_t width, size_t height)
{
    size_t size = 0;
    uint8_t *png = report_png(rgb, width, height, 3, &size);
    if (!png) exit(report_refuse("no memory for %s", name));
    FILE *f = figure_open(folder, name);
    fwrite(png, 1, size, f);
    figure_close(f, "");
    free(png);
}

/* A letter's strokes, "xyxy…", a blank between two, in a grid of 4 or 6 x 8: capitals from 0
   down to 6, small letters from 2. The first and last point are met; between them the points
   pull a quadratic spline, the same one twice to a corner. */
static inline const char *figure_letter(char c)
{
    static const char *const small[26] = {
        "4246 444202064644", "0006 040242460604", "434202064645", "4046 444202064644",
            "0444444202064645", "30101216 0232",
        "444202064644 4246482807", "0006 0402424446", "0206 0000", "12161808 1010", "0006 32040436",
        "0006",
        "0206 0402323436 3432626466", "0206 0402424446", "224246060222", "0208 040242460604",
        "4248 444202064644",
        "0206 040232", "4342020444460605", "10151636 0232", "0204064644 4246", "02262642",
        "0216162323363642", "0246 4206",
        "0226 4218", "024242060646"};
    static const char *const capital[26] = {
        "06202046 1434", "06000040430303 0343460606", "414000064645", "06000040460606",
            "400000060646 0333",
        "40000006 0333", "4140000646434323", "0006 4046 0343", "0006", "3035360604",
        "0006 40030346", "00060636",
        "0600002424404046", "060000464640", "204046060020", "06000040430303", "204046060020 3447",
        "06000040430303 2346", "4140000343460605", "0040 2026", "000306464340", "00262640",
        "0016162222363640",
        "0046 4006", "00232340 2326", "004040060646"};
    static const char *const digit[10] = {"204046060020", "02202026", "01004043060646",
                                          "0100404313 1343460605",
        "303004040444 3236", "4000000242460605", "30000646430304", "00404016",
        "204043030020 234346060323",
        "16464000034342"};
    static const char mark[] = ".,:-=()+/";
    static const char *const marks[] = {"0606", "1607", "0303 0606", "0434", "0343 0545", "200326",
                                        "002306", "0444 2226",
                                        "0630"};
    const char *at = c ? strchr(mark, c) : NULL;
    if (c >= 'a' && c <= 'z') return small[c - 'a'];
    if (c >= 'A' && c <= 'Z') return capital[c - 'A'];
    if (c >= '0' && c <= '9') return digit[c - '0'];
    return at ? marks[at - mark] : "";
}

/* Darkens pixels (height, width, 3) within `radius` of the line from a to b. */
static inline void figure_line(uint8_t *rgb, size_t width, size_t height, const double *a,
                               const double *b, double radius)
{
    double ux = b[0] - a[0];
    double uy = b[1] - a[1];
    double square = ux * ux + uy * uy;
    double reach = radius + 1;
    size_t x1 = (size_t)fmin((double)width, fmax(0, fmax(a[0], b[0]) + reach));
    size_t y1 = (size_t)fmin((double)height, fmax(0, fmax(a[1], b[1]) + reach));
    for (size_t y = (size_t)fmax(0, fmin(a[1], b[1]) - reach); y < y1; y++)
        for (size_t x = (size_t)fmax(0, fmin(a[0], b[0]) - reach); x < x1; x++) {
            double px = (double)x + 0.5 - a[0];
            double py = (double)y + 0.5 - a[1];
            double t = square > 0 ? fmin(1, fmax(0, (px * ux + py * uy) / square)) : 0;
            /* of the light */
            double left = fmin(1, fmax(0, hypot(px - t * ux, py - t * uy) - radius + 0.5));
            for (size_t c = 3 * (y * width + x); c < 3 * (y * width + x) + 3; c++)
                rgb[c] = (uint8_t)fmin(rgb[c], 29 + left * 226);
        }
}

/* Writes on pixels (height, width, 3): `unit` is a sixth of a capital's height, y the base line.
   Returns where it ends; without pixels it only measures. */
static inline double figure_words(uint8_t *rgb, size_t width, size_t height, double x, double y,
                                  double unit, const char *text)
{
    enum { PIECES = 8 };
    for (; *text; text++) {
        const char *p = figure_letter(*text);
        double right = *p ? 0 : 1.5;
        while (*p) {                                     /* a stroke */
            double at[16][2], end[2][2];                 /* its points; the ends of a piece */
            int n = 0;
            for (; *p && *p != ' '; p += 2, n++) {
                right = fmax(right, p[0] - '0');
                at[n][0] = x + unit * (p[0] - '0');
                at[n][1] = y + unit * (p[1] - '6');
            }
            p += *p == ' ';
            memcpy(end, at, sizeof *end);
            for (int i = 1; rgb && (i == 1 || i < n - 1); i++) {
                const double *from = i > 1 ? NULL : at[0];
                const double *to = i + 2 < n ? NULL : at[n - 1];
                const double *pull = at[n > 2 ? i : 0];
                for (int piece = 1; piece <= PIECES; piece++) {
                    double t = (double)piece / PIECES;
                    for (int c = 0; c < 2; c++) {        /* between two pulls the middle */
                        double a = from ? from[c] : (at[i - 1][c] + at[i][c]) / 2;
                        double b = to ? to[c] : (at[i][c] + at[i + 1][c]) / 2;
                        end[piece % 2][c] = (1 - t) * ((1 - t) * a + 2 * t * pull[c]) + t * t * b;
                    }
                    figure_line(rgb, width, height, end[0], end[1], 0.42 * unit);
                }
            }
        }
        x += (right + 1.9) * unit;
    }
    return x;
}

/* `style`: attributes for all that follows. */
static inline FILE *svg_open(const char *folder, const char *name, double width, double height,
                             const char *style)
{
    FILE *f = figure_open(folder, name);
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-size=\"14\" "
            "font-family=\"sans-serif\" fill=\"#1d2329\"%s>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", width, height, style);
    return f;
}
static inline void svg_text(FILE *f, double x, double y, int size, const char *anchor,
                            const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(f, "<text x=\"%g\" y=\"%g\"", x, y);
    if (size) fprintf(f, " font-size=\"%d\"", size);                      /* 0: the drawing's, 14 */
    fprintf(f, " text-anchor=\"%s\">", anchor);
    vfprintf(f, format, list);
    fputs("</text>\n", f);
    va_end(list);
}
static inline void svg_box(FILE *f, double x, double y, double w, double h, const char *paint, ...)
{
    va_list list;
    va_start(list, paint);
    fprintf(f, "<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" ", x, y, w, h);
    vfprintf(f, paint, list);                            /* attributes, printf's way */
    fputs("/>\n", f);
    va_end(list);
}

#endif
