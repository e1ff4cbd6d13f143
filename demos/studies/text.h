/* text.h - llama2.c's tokenizer: a text as the tokens of a decoder, and back

       tokenizer *t = tokenizer_load(m, "tok512.bin");               // NULL: mmix_error(m) says why
       size_t shape[2] = { 1, tokenizer_encode(t, "Once upon a time", 1, 0, prompt, 64) };
       mmix_sequence text = { mmix_from_i32(m, 2, shape, prompt), NULL, 0, NULL, NULL };
       size_t made = mmix_decoder_generate(m, d, &text, NULL, more, 200);
       for (size_t i = 0; i < made; i++) fputs(tokenizer_piece(t, more[i], NULL), stdout);
       tokenizer_free(t);

   Byte-pair encoding with scores (Kudo & Richardson 2018): a text begins as single characters,
   and the adjacent pair whose joined text is the piece of highest score is merged, again and
   again. The definition looks at all pairs for each merge. Here pairs wait in a heap, the
   highest score first, of equal ones the leftmost; a pair that a merge has changed is recognised
   when it comes up and dropped.

   This file needs no other; include mamba_mix.h before it. Memory comes from malloc, or from
   TEXT_MALLOC and TEXT_FREE where these are defined before; errors go to the context
   (mmix_fail). */
#ifndef TEXT_H
#define TEXT_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TEXT_MALLOC
#define TEXT_MALLOC(size) malloc(size)
#define TEXT_FREE(p) free(p)
#endif

typedef struct text_piece {
    const char *text;
    size_t length;
    float score;
} text_piece;
typedef struct tokenizer {
    mmix_ctx *m;
    size_t count, longest;                   /* pieces; bytes of the longest one */
    char *text;                              /* all pieces, each ended by 0 */
    text_piece *piece;                       /* (count) */
    const text_piece **sorted;               /* (count): by text, of equal ones by number */
    char byte[256][2];                       /* each byte as a text */
} tokenizer;

/* ---- memory and files ------------------------------------------------------------------------ */

/* Memory for `count` things, for TEXT_FREE; NULL after an error, and mmix_fail if there is none. */
static inline void *text_alloc(mmix_ctx *m, size_t count, size_t size)
{
    if (mmix_error(m)) return NULL;
    void *p = NULL;
    if (count <= SIZE_MAX / size) p = TEXT_MALLOC(count ? count * size : 1);
    if (!p) mmix_fail(m, MMIX_ERROR_MEMORY, "out of memory: %.0f bytes more",
                      (double)count * (double)size);
    return p;
}

/* The bytes of an open file, all of them; NULL if they cannot be read (a folder opens, but does
   not read). */
static inline unsigned char *text_read(mmix_ctx *m, FILE *f, size_t *size)
{
    if (getc(f) == EOF && ferror(f)) return NULL;
    if (fseek(f, 0, SEEK_END)) return NULL;
    long length = ftell(f);
    if (length < 0 || fseek(f, 0, SEEK_SET)) return NULL;
    unsigned char *bytes = (unsigned char *)text_alloc(m, (size_t)length, 1);
    if (!bytes) return NULL;
    if (fread(bytes, 1, (size_t)length, f) != (size_t)length) {
        TEXT_FREE(bytes);
        return NULL;
    }
    *size = (size_t)length;
    return bytes;
}

/* A whole file, for TEXT_FREE; NULL after mmix_fail. */
static inline unsigned char *text_load(mmix_ctx *m, const char *path, size_t *size)
{
    *size = 0;
    if (mmix_error(m)) return NULL;
    FILE *f = fopen(path, "rb");
    if (!f) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    unsigned char *bytes = text_read(m, f, size);
    fclose(f);
    if (!bytes && !mmix_error(m))
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a file that can be read, found another thing",
                  path);
    return bytes;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static inline int text_compare(const text_piece *p, const char *text, size_t n)
{
    const int c = memcmp(p->text, text, p->length < n ? p->length : n);
    return c ? c : (p->length > n) - (p->length < n);
}
static inline int text_order(const void *a, const void *b)
{
    const text_piece *x = *(const text_piece *const *)a;
    const text_piece *y = *(const text_piece *const *)b;
    const int c = text_compare(x, y->text, y->length);
    return c ? c : (x > y) - (x < y);
}
/* The first piece with this text, or -1. */
static inline int32_t text_find(const tokenizer *t, const char *text, size_t n)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (text_compare(t->sorted[mid], text, n) < 0) low = mid + 1;
        else high = mid;
    }
    return low < t->count && !text_compare(t->sorted[low], text, n) ?
        (int32_t)(t->sorted[low] - t->piece) : -1;
}

/* ---- the file: the longest piece's length, then score (float32), length (int32) and bytes of
   each piece -- */

static inline uint32_t text_u32(const unsigned char *p)                  /* little-endian */
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
/* The number of pieces, and their bytes with an ending 0 each in *text; 0 if the file is none. */
static inline size_t text_scan(const unsigned char *p, size_t size, size_t *text)
{
    size_t n = 0, at = 4;
    *text = 0;
    while (size >= 12 && at < size) {
        if (size - at < 8) return 0;
        const size_t length = text_u32(p + at + 4);
        if (length > text_u32(p) || length > size - at - 8) return 0;
        at += 8 + length;
        *text += length + 1;
        n++;
    }
    return n <= INT32_MAX ? n : 0;
}

static inline void tokenizer_free(tokenizer *t)
{
    if (!t) return;
    TEXT_FREE(t->text);
    TEXT_FREE(t->piece);
    TEXT_FREE(t->sorted);
    TEXT_FREE(t);
}

/* A tokenizer from a file's bytes, called `name` in messages; NULL after mmix_fail. */
static inline tokenizer *tokenizer_from(mmix_ctx *m, const char *name, const void *bytes,
                                        size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t text = 0;
    if (mmix_error(m)) return NULL;
    const size_t n = bytes ? text_scan(p, size, &text) : 0;
    if (n < 3 + 256) {
        mmix_fail(m, MMIX_ERROR_FILE,
                  "%s: expected a llama2.c tokenizer (a length, then score, length and bytes "
                  "of each of at least 259 pieces), found %.0f bytes that are none", name,
                  (double)size);
        return NULL;
    }
    tokenizer *t = (tokenizer *)text_alloc(m, 1, sizeof *t);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->m = m;
    t->count = n;
    t->text = (char *)text_alloc(m, text, 1);
    t->piece = (text_piece *)text_alloc(m, n, sizeof *t->piece);
    t->sorted = (const text_piece **)text_alloc(m, n, sizeof *t->sorted);
    if (mmix_error(m)) {
        tokenizer_free(t);
        return NULL;
    }
    char *to = t->text;
    p += 4;
    for (size_t i = 0; i < n; i++) {
        text_piece *piece = &t->piece[i];
        const uint32_t score = text_u32(p);
        memcpy(&piece->score, &score, sizeof score);
        piece->length = text_u32(p + 4);
        piece->text = (const char *)memcpy(to, p + 8, piece->length);
        to[piece->length] = 0;
        if (piece->length > t->longest) t->longest = piece->length;
        t->sorted[i] = piece;
        to += piece->length + 1;
        p += 8 + piece->length;
    }
    qsort(t->sorted, n, sizeof *t->sorted, text_order);
    for (int i = 0; i < 256; i++) t->byte[i][0] = (char)i;
    return t;
}
static inline tokenizer *tokenizer_load(mmix_ctx *m, const char *path)
{
    size_t size;
    unsigned char *bytes = text_load(m, path, &size);
    if (!bytes) return NULL;
    tokenizer *t = tokenizer_from(m, path, bytes, size);
    TEXT_FREE(bytes);
    return t;
}

static inline size_t tokenizer_count(const tokenizer *t) { return t ? t->count : 0; }
/* The bytes of a token, terminated by 0; *length (or NULL) for bytes that are 0 themselves.
   After token 1 a text drops the first space: that is the caller's. "" for a number that is no
   token. */
static inline const char *tokenizer_piece(const tokenizer *t, int32_t token, size_t *length)
{
    const int there = t && token >= 0 && (size_t)token < t->count;
    const char *text = there ? t->piece[token].text : "";
    size_t n = there ? t->piece[token].length : 0;
    unsigned byte;
    if (n == 6 && !memcmp(text, "<0x", 3) && text[5] == '>' && sscanf(text + 3, "%2x", &byte) ==
        1) {
        text = t->byte[byte];                            /* a byte that stands for itself */
        n = 1;
    }
    if (length) *length = n;
    return text;
}

/* ---- encoding -------------------------------------------------------------------------------- */

typedef struct text_node {
    int32_t token;
    size_t before, after;
} text_node;  /* SIZE_MAX: none */
typedef struct text_pair {
    float score;
    size_t at;
    int32_t left, right, joined;
} text_pair;
typedef struct text_merge {
    const tokenizer *t;
    text_node *node;  /* the text's pieces as a list; token -1: merged into another */
    text_pair *heap;
    size_t pairs;
    char *joined;                            /* room for two pieces */
} text_merge;

static inline int text_sooner(const text_pair *a, const text_pair *b)
{
    return a->score > b->score || (!(a->score < b->score) && a->at < b->at);
}
static inline void text_swap(text_pair *a, text_pair *b)
{
    const text_pair was = *a;
    *a = *b;
    *b = was;
}
/* Puts the pair that begins at node `at` into the heap if it makes a piece. */
static inline void text_push(text_merge *e, size_t at)
{
    const size_t after = at == SIZE_MAX ? SIZE_MAX : e->node[at].after;
    size_t i = e->pairs;
    if (after == SIZE_MAX) return;
    text_pair p = {0, at, e->node[at].token, e->node[after].token, -1};
    const text_piece *left = &e->t->piece[p.left];
    const text_piece *right = &e->t->piece[p.right];
    memcpy(e->joined, left->text, left->length);
    memcpy(e->joined + left->length, right->text, right->length);
    p.joined = text_find(e->t, e->joined, left->length + right->length);
    if (p.joined < 0) return;
    p.score = e->t->piece[p.joined].score;
    e->heap[e->pairs++] = p;
    for (; i && text_sooner(&e->heap[i], &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        text_swap(&e->heap[i], &e->heap[(i - 1) / 2]);
}
static inline text_pair text_pop(text_merge *e)
{
    const text_pair top = e->heap[0];
    e->heap[0] = e->heap[--e->pairs];
    for (size_t i = 0, down; (down = 2 * i + 1) < e->pairs; i = down) {
        if (down + 1 < e->pairs && text_sooner(&e->heap[down + 1], &e->heap[down])) down++;
        if (!text_sooner(&e->heap[down], &e->heap[i])) break;
        text_swap(&e->heap[i], &e->heap[down]);
    }
    return top;
}
/* Nodes for " " and the code points of a text, or their bytes where a code point is no piece;
   how many. */
static inline size_t text_begin(const text_merge *e, const char *text)
{
    const size_t length = strlen(text);
    const int32_t space = length ? text_find(e->t, " ", 1) : -1;
    size_t count = 0;
    if (space >= 0) e->node[count++].token = space;
    for (size_t i = 0, n; i < length; i += n) {
        for (n = 1; n < 4 && ((unsigned char)text[i + n] & 0xC0) == 0x80; n++) continue;
        const int32_t token = text_find(e->t, text + i, n);
        if (token >= 0) e->node[count++].token = token;
        else for (size_t k = 0; k < n; k++) e->node[count++].token = (unsigned char)text[i + k] + 3;
    }
    for (size_t i = 0; i < count; i++) {
        e->node[i].before = i ? i - 1 : SIZE_MAX;
        e->node[i].after = i + 1 < count ? i + 1 : SIZE_MAX;
    }
    return count;
}
static inline void text_merge_all(text_merge *e, size_t count)
{
    for (size_t i = 0; i < count; i++) text_push(e, i);
    while (e->pairs) {
        const text_pair p = text_pop(e);
        text_node *left = &e->node[p.at];
        if (left->token != p.left || left->after == SIZE_MAX ||
            e->node[left->after].token != p.right) continue;
        e->node[left->after].token = -1;
        left->token = p.joined;
        left->after = e->node[left->after].after;
        if (left->after != SIZE_MAX) e->node[left->after].before = p.at;
        text_push(e, left->before);
        text_push(e, p.at);
    }
}

/* Tokens of a UTF-8 text, with token 1 before and 2 after it if asked: how many there are, of
   which the first `room` are written; 0 after an error. */
static inline size_t tokenizer_encode(const tokenizer *t, const char *text, int begin, int end,
                                      int32_t *tokens, size_t room)
{
    text_merge e = {t, NULL, NULL, 0, NULL};
    size_t n = 0;
    if (!t || mmix_error(t->m)) return 0;
    if (!text || (room && !tokens)) {
        mmix_fail(t->m, MMIX_ERROR_ARGUMENT,
                  "tokenizer_encode: expected a text and room for tokens, found NULL");
        return 0;
    }
    const size_t most = strlen(text) + 1;
    e.node = (text_node *)text_alloc(t->m, most, sizeof *e.node);
    e.heap = (text_pair *)text_alloc(t->m, most, 3 * sizeof *e.heap);   /* a merge adds at most 2 */
    e.joined = (char *)text_alloc(t->m, t->longest + 1, 2);
    if (!mmix_error(t->m)) {
        const size_t count = text_begin(&e, text);
        text_merge_all(&e, count);
        if (begin && n++ < room) tokens[0] = 1;
        for (size_t i = 0; i < count; i++)
            if (e.node[i].token >= 0 && n++ < room) tokens[n - 1] = e.node[i].token;
        if (end && n++ < room) tokens[n - 1] = 2;
    }
    TEXT_FREE(e.node);
    TEXT_FREE(e.heap);
    TEXT_FREE(e.joined);
    return n;
}

#endif
