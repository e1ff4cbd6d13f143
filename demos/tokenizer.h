/* tokenizer.h - text to token ids and back, as the tokenizers of language models do it

   A model reads and writes numbers. Its tokenizer is the file that says which piece of text each
   number stands for:

       #define TOKENIZER_IMPLEMENTATION                 // in one file of the program
       #include "tokenizer.h"

       char error[TOKENIZER_ERROR];
       tokenizer *t = tokenizer_load("model.gguf", error);          // NULL: error says why
       tokenizer_ids ids = { NULL, 0, 0 };
       tokenizer_text text = { NULL, 0, 0 };
       tokenizer_encode(t, "Hello, world", 12, TOKENIZER_BEGIN, &ids);
       tokenizer_decode(t, ids.at, ids.count, 0, &text);            // text.at: "Hello, world"
       tokenizer_ids_free(&ids);
       tokenizer_text_free(&text);
       tokenizer_free(t);

   It needs no other file and no package.

   WHAT IT READS
     tokenizer.json     Hugging Face's: BPE and unigram models
     tokenizer.model    SentencePiece's: BPE and unigram models
     *.gguf             the values tokenizer.ggml.*: gpt2 (BPE of bytes), llama (SentencePiece's
                        BPE); files beside it do not count
     spiece.model       SigLIP's, where tokenizer_config.json says so; else as tokenizer.model
     vocab.json         CLIP's and Qwen2's, with merges.txt beside it (and added_tokens.json)
     a folder           the first that is there of spiece.model, tokenizer.json, tokenizer.model,
                        vocab.json; the chat template and the names of the tokens that begin, end
                        and fill up a text from tokenizer_config.json and chat_template.jinja

   HOW A TEXT BECOMES IDS
     1. Tokens with a meaning of their own ("<|im_end|>") are found in the text, the leftmost and
        longest first. What lies between them goes on.
     2. A normalizer changes characters: NFC, small letters, SentencePiece's map of characters, "▁"
        before the text and for each space.
     3. Pre-tokenizers cut it into words, most by a regular expression. >>regex runs the expressions
        that the files hold (GPT-2's, Llama 3's, Qwen2's, DeepSeek's, …) rather than knowing them.
     4. The model cuts each word into tokens. BPE (Sennrich et al. 2016) begins with single
        characters or bytes and joins the two neighbours that its list has first, or whose piece has
        the highest score, again and again. A unigram model (Kudo 2018) finds the pieces with the
        largest sum of scores (Viterbi). What is in no piece becomes its bytes, or an unknown token.

   Of a file everything counts that changes an id. What is not done here (other normalizers,
   dropout, word pieces, …) is refused with a message that names it. How long a text may be and what
   fills it up is the caller's, as it is with transformers: tokenizer_encode_to.

   Ids equal those of Hugging Face's tokenizers 0.22 and of SentencePiece 0.2: tests/tokenizer.py
   compares. Text that is no UTF-8 is read as they get it from Python's errors="replace": U+FFFD for
   each broken part. Decoding is exact to the byte, whatever the tokens are; a reader of UTF-8 who
   replaces broken parts gets what Hugging Face's decoder gives.

   Memory comes from malloc, or from TOKENIZER_MALLOC and TOKENIZER_FREE where these are defined.
   Nothing crashes on a wrong file, nothing is printed, nothing global changes. A loaded tokenizer
   is only read, so that threads can share it.

   Licence: MIT or public domain, at your choice, as mamba_mix.h. */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tokenizer tokenizer;
/* Lists that grow. They begin as zeroes; what lies in them is freed by the functions below. */
typedef struct tokenizer_ids {
    int32_t *at;
    size_t count, room;
} tokenizer_ids;
typedef struct tokenizer_text {
    char *at;                                    /* ends with a 0 that is not counted, or NULL */
    size_t count, room;
} tokenizer_text;
void tokenizer_ids_free(tokenizer_ids *ids);
void tokenizer_text_free(tokenizer_text *text);
/* Append an id, n bytes. Return 0, or -1 without memory. */
int tokenizer_ids_add(tokenizer_ids *ids, int32_t id);
int tokenizer_text_add(tokenizer_text *text, const char *bytes, size_t n);

enum { TOKENIZER_ERROR = 320 };                  /* bytes of a message, its 0 included */
/* Returns the tokenizer of a file or folder; NULL on error, with a message of one line in
   error[TOKENIZER_ERROR]. */
tokenizer *tokenizer_load(const char *path, char *error);
/* Does the same for a file's bytes, of which it keeps what it needs. name is for messages. */
tokenizer *tokenizer_from(const char *name, const void *bytes, size_t size, char *error);
/* Frees a tokenizer. NULL is allowed. */
void tokenizer_free(tokenizer *t);

/* Returns one more than the largest id. */
size_t tokenizer_count(const tokenizer *t);
/* Returns the id of the token that is written so, special ones included; -1: there is none. */
int32_t tokenizer_find(const tokenizer *t, const char *text);
/* Returns the bytes that a token stands for, *n of them (n may be NULL), and a 0 behind them; ""
   for a number that is no token. */
const char *tokenizer_piece(const tokenizer *t, int32_t id, size_t *n);
/* Returns 1 for a token such as "<|im_end|>", which is no part of what is said. */
int tokenizer_is_special(const tokenizer *t, int32_t id);
/* Return the token that begins or ends a text, or fills it up, as the file says; -1: it has
   none. */
int32_t tokenizer_begin(const tokenizer *t);
int32_t tokenizer_end(const tokenizer *t);
int32_t tokenizer_pad(const tokenizer *t);

enum {
    /* encode: tokens around the text as the file wants them (template; add_bos_token, and without
       it, of a GGUF, what llama.cpp does; of a tokenizer.model the token that begins a text) */
    TOKENIZER_BEGIN = 1,
    /* encode: special tokens are not looked for, "<|im_end|>" is eleven characters like others */
    TOKENIZER_LITERAL = 2,
    /* decode: special tokens are left out */
    TOKENIZER_SAID = 4,
    /* encode: capital letters become small ones first, whatever the file says (SigLIP 2, whose file
       is Gemma's) */
    TOKENIZER_LOWER = 8
};
/* Appends the ids of n bytes of text. Returns 0, or -1 without memory. */
int tokenizer_encode(const tokenizer *t, const char *text, size_t n, int flags, tokenizer_ids *ids);
/* Appends `length` ids, as networks of pictures and texts want them: the text cut at its end, so
   that it fits, TOKENIZER_BEGIN's tokens around it if they are asked for, filled up with
   tokenizer_pad (if there is none tokenizer_end, else 0). Returns 0; -1 without memory, or if not
   even those tokens fit. */
int tokenizer_encode_to(const tokenizer *t, const char *text, size_t n, int flags, size_t length,
                        tokenizer_ids *ids);
/* Appends the bytes of ids. Returns 0, or -1 without memory. Numbers that are no token give no
   bytes. */
int tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, int flags,
                     tokenizer_text *text);
/* The same, token by token as a model writes: appends what can be shown. The bytes of an unfinished
   character wait in the stream, which begins as zeroes, for the next token; _end appends them as
   they are. */
typedef struct tokenizer_stream {
    int has_token;                               /* one came: the next is not a text's first */
    int has_shown;                               /* one showed more than spaces that are dropped */
    int spaces;                                  /* at the beginning, dropped so far */
    size_t held;
    char hold[4];
} tokenizer_stream;
int tokenizer_stream_add(const tokenizer *t, tokenizer_stream *s, int32_t id, int flags,
                         tokenizer_text *text);
int tokenizer_stream_end(tokenizer_stream *s, tokenizer_text *text);

/* How a model was taught to converse. A template is a program in a language of its own (Jinja),
   which is not run here. These are known by their text, and others are refused by name. */
enum {
    TOKENIZER_CHAT_NONE,                         /* the file has no template: a base model */
    TOKENIZER_CHAT_UNKNOWN,
    TOKENIZER_CHATML,                            /* SmolLM2, Qwen2, Qwen2.5, Falcon-H1 */
    TOKENIZER_CHAT_LLAMA3,
    TOKENIZER_CHAT_ZEPHYR,                       /* TinyLlama, Zephyr */
    TOKENIZER_CHAT_MISTRAL,                      /* "[INST] … [/INST]" */
    TOKENIZER_CHAT_MISTRAL3,                     /* "[INST] …[/INST]" */
    TOKENIZER_CHAT_TEKKEN,                       /* "[INST]…[/INST]": Mistral Nemo */
    TOKENIZER_CHAT_LLAMA31,                      /* Llama 3.1, 3.2, 3.3: with dates */
    TOKENIZER_CHAT_QWEN3,                        /* ChatML, and answers with <think> */
    TOKENIZER_CHAT_SMOLLM3,
    TOKENIZER_CHAT_GRANITE,                      /* 3.0 to 4.1 */
    TOKENIZER_CHAT_FALCON,                       /* "User: …", "Assistant: …": Falcon Mamba */
    TOKENIZER_CHAT_FALCON3,                      /* and OLMo 2, Tülu 3 */
    TOKENIZER_CHAT_NEMOTRON_H,
    TOKENIZER_CHAT_NEMOTRON,                     /* Nemotron Nano 2 */
    TOKENIZER_CHAT_GEMMA                         /* Gemma 3 */
};
typedef struct tokenizer_message {
    const char *role;                            /* "system" (only first), "user", "assistant" */
    const char *text;
} tokenizer_message;
typedef struct tokenizer_chat_options {
    /* Whether the model thinks before it answers: 1, -1 for no, 0 as its template has it untold.
       Qwen3, SmolLM3, Granite 3.2 and Nemotron Nano 2 have the choice. */
    int think;
    /* Today, which some templates tell the model. year 0: 26 July 2024, as Llama 3.1's has it. */
    int year, month, day;
} tokenizer_chat_options;
/* Returns which template a tokenizer's file has, TOKENIZER_CHAT_…. */
int tokenizer_chat_kind(const tokenizer *t);
/* Appends a conversation and what calls for the next answer, for tokenizer_encode without flags, as
   the template does: a system message of its own where messages begin with no other, and earlier
   answers without what was thought, if it leaves that out. Special tokens that a message's text
   holds count as such; a program that passes on what strangers write removes them before. options:
   NULL is all zero. Returns 0; -1 on error, with a message in error[TOKENIZER_ERROR]. */
int tokenizer_chat(const tokenizer *t, const tokenizer_message *messages, size_t count,
                   const tokenizer_chat_options *options, tokenizer_text *text, char *error);
/* Returns the token that ends an answer in such a conversation; -1: there is none. */
int32_t tokenizer_chat_end(const tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif

#ifdef TOKENIZER_IMPLEMENTATION
#ifndef TOKENIZER_IMPLEMENTED
#define TOKENIZER_IMPLEMENTED

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TOKENIZER_MALLOC
#define TOKENIZER_MALLOC(size) malloc(size)
#define TOKENIZER_FREE(p) free(p)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* CONTENTS   >>lists   >>unicode   >>nfc   >>small letters   >>character map   >>regex   >>words
              >>pieces   >>bpe   >>unigram   >>encode   >>decode   >>json   >>tokenizer.json
              >>gguf   >>sentencepiece   >>files   >>chat   >>tables */

/* ==== >>lists ========================================================================
   memory, lists that grow, and what a tokenizer is made of
   ==================================================================================== */

/* A larger place for a list of `used` things that is to hold `need`; NULL without memory, and the
   old one stays. */
static void *tk_grow(void *old, size_t *room, size_t used, size_t need, size_t size)
{
    if (need <= *room) return old;
    size_t more = *room < 8 ? 16 : *room + *room / 2;
    if (more < need) more = need;
    if (more > SIZE_MAX / 2 / size) return NULL;
    void *p = TOKENIZER_MALLOC(more * size);
    if (!p) return NULL;
    if (used) memcpy(p, old, used * size);
    if (old) TOKENIZER_FREE(old);
    *room = more;
    return p;
}
static void tk_release(void *p)
{
    if (p) TOKENIZER_FREE(p);
}

void tokenizer_ids_free(tokenizer_ids *ids)
{
    tk_release(ids->at);
    memset(ids, 0, sizeof *ids);
}
void tokenizer_text_free(tokenizer_text *text)
{
    tk_release(text->at);
    memset(text, 0, sizeof *text);
}
int tokenizer_ids_add(tokenizer_ids *ids, int32_t id)
{
    int32_t *at = (int32_t *)tk_grow(ids->at, &ids->room, ids->count, ids->count + 1, sizeof *at);
    if (!at) return -1;
    ids->at = at;
    ids->at[ids->count++] = id;
    return 0;
}
int tokenizer_text_add(tokenizer_text *text, const char *bytes, size_t n)
{
    char *at = (char *)tk_grow(text->at, &text->room, text->count, text->count + n + 1, 1);
    if (!at) return -1;
    text->at = at;
    if (n) memcpy(at + text->count, bytes, n);
    text->count += n;
    at[text->count] = 0;
    return 0;
}
static int tk_say(tokenizer_text *text, const char *words)
{
    return tokenizer_text_add(text, words, strlen(words));
}

/* Words in an order that finds those with which a text begins; see >>words. */
typedef struct tk_word {
    const char *text;
    size_t n;
    int32_t value;
} tk_word;
typedef struct tk_words {
    tk_word *at;
    size_t count, room;
} tk_words;
/* A hash table of words. A place whose text is NULL is free; there are twice as many as words. */
typedef struct tk_table {
    tk_word *place;
    size_t places;
} tk_table;
/* Which two tokens join (BPE), when, and to which. The joined token of a free place is -1. */
typedef struct tk_merge {
    int32_t left, right, joined, rank;
} tk_merge;
typedef struct tk_merges {
    tk_merge *place;
    size_t places;
} tk_merges;

/* Runs of equal values of code points, from one start to the next. */
typedef struct tk_runs {
    uint32_t *start;
    unsigned char *value;
    size_t count;
} tk_runs;
/* A character and the one or two that it is made of (second 0: one). */
typedef struct tk_parts {
    uint32_t point, first, second;
} tk_parts;
typedef struct tk_unicode {
    tk_runs categories, classes;
    tk_parts *apart, *together;                  /* by point; those that compose, by parts */
    size_t aparts, togethers;
} tk_unicode;

/* A compiled regular expression; see >>regex. */
typedef struct tk_set {
    uint32_t categories;                         /* a bit for each general category */
    uint32_t low[4];                             /* the answer for the code points below 128 */
    size_t range, ranges;
    int negated;
} tk_set;
typedef struct tk_op {
    int what;
    /* Of a repetition: it is possessive, nothing of it is given back. Of a split: the jump is tried
       first. Of a look ahead: it must not match. */
    int flag;
    size_t set;
    uint32_t least, most;
    ptrdiff_t jump;
} tk_op;
typedef struct tk_regex {
    const tk_unicode *unicode;
    tk_set *set;
    size_t sets, set_room;
    uint32_t (*range)[2];
    size_t ranges, range_room;
    tk_op *op;
    size_t ops, op_room;
} tk_regex;

/* SentencePiece's map of characters: a trie of texts, and what they become; see >>character map. */
typedef struct tk_map {
    const unsigned char *trie;                   /* units of four bytes */
    size_t units;
    const char *texts;                           /* each ends with a 0, the last one, too */
    size_t bytes;                                /* 0: there is no map */
} tk_map;

/* One step on the way from a text to words. */
enum { TK_NFC, TK_PREPEND, TK_REPLACE, TK_EXCHANGE, TK_LOWER, TK_STRIP, TK_MAP, TK_METASPACE,
       TK_SPLIT, TK_PREFIX };
enum { TK_ISOLATED, TK_REMOVED, TK_CONTIGUOUS, TK_WITH_PREVIOUS, TK_WITH_NEXT };
enum { TK_ALWAYS, TK_FIRST, TK_NEVER };          /* when TK_METASPACE puts "▁" before a text */
typedef struct tk_step {
    int what, behaviour, inverted, prepend, split;
    const char *from, *to;                       /* of TK_REPLACE; TK_PREPEND, TK_EXCHANGE: to */
    int left, right;                             /* of TK_STRIP */
    tk_map map;                                  /* of TK_MAP */
    tk_regex regex;                              /* of TK_SPLIT, TK_EXCHANGE */
} tk_step;
typedef struct tk_steps {
    tk_step *at;
    size_t count, room;
} tk_steps;

/* A token that is found in the text itself. */
typedef struct tk_added {
    const char *text;
    size_t n;
    int32_t id;
    int left, right;                             /* takes the white space beside it, too */
} tk_added;
typedef struct tk_added_list {
    tk_added *at;
    size_t count, room;
    tk_words words;                              /* values are places in `at` */
    unsigned char first[256];                    /* 1: a word begins with this byte */
} tk_added_list;

/* What a token is: SentencePiece's numbers, which are also those of GGUF. 0: there is none. */
enum { TK_NORMAL = 1, TK_UNKNOWN, TK_CONTROL, TK_USER, TK_UNUSED, TK_BYTE };
typedef struct tk_token {
    const char *text, *shown;                    /* as the file writes it, as it is decoded */
    size_t n, shown_n;
    double score;
    int type, special;
} tk_token;
/* Texts of a tokenizer lie in blocks that are freed together. */
typedef struct tk_block {
    struct tk_block *next;
    size_t used, room;
} tk_block;

enum { TK_BPE_RANKED, TK_BPE_SCORED, TK_UNIGRAM };
struct tokenizer {
    const char *name;                            /* while it is loaded, for messages */
    char *error;
    tk_block *blocks;
    tk_unicode unicode;
    tk_token *token;
    size_t count, token_room;
    int32_t begin, end, unknown, pad;
    int pads_left;                               /* 1: what fills up stands before the text */
    tokenizer_ids before, after;                 /* what TOKENIZER_BEGIN puts around a text */

    tk_added_list added, added_normal;           /* found before and after the normalizer */
    tk_steps normalizer, cuts;

    int model;                                   /* TK_BPE_RANKED, … */
    int of_bytes;                                /* words are bytes; else characters */
    int byte_fallback, fuse_unknown, whole_words;
    const char *mark;                            /* of a word's last character, "</w>", or NULL */
    tk_table table;                              /* the words of the model */
    tk_words words;                              /* the same for TK_UNIGRAM */
    tk_merges merges;
    int32_t byte[256];                           /* the token of each byte, -1: none */
    int32_t last[256];                           /* the same of a word's last byte, with the mark */
    double worst, best;                          /* score */
    int single;                                  /* sums of scores are floats */
    int spm;                                     /* SentencePiece's normalizer comes first */
    int dummy_prefix, squeeze, suffix;
    tk_map map;
    int siglip, keeps_case;                      /* SigLIP's way with texts comes before it */
    int canonical;                               /* OpenCLIP's comes first of all */
    tk_words user;                               /* its user-defined symbols */

    int drop_spaces;                             /* so many at a text's beginning, decoding */
    const char *drop_first;                      /* all of these of the first token, or NULL */
    const char *chat;                            /* the template, or NULL */
};

/* Keeps the first message. Returns -1. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 2, 3)))
#endif
static int tk_refuse(tokenizer *t, const char *format, ...)
{
    va_list list;
    if (!t->error || *t->error) return -1;
    int n = snprintf(t->error, TOKENIZER_ERROR, "%.120s: ", t->name);
    va_start(list, format);
    if (n > 0) vsnprintf(t->error + n, (size_t)(TOKENIZER_ERROR - n), format, list);
    va_end(list);
    for (char *c = t->error; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    return -1;
}
static int tk_no_memory(tokenizer *t) { return tk_refuse(t, "out of memory"); }

/* n bytes that live as long as the tokenizer, and a 0 behind them; NULL without memory. */
static char *tk_keep(tokenizer *t, const char *bytes, size_t n)
{
    tk_block *b = t->blocks;
    if (!b || b->room - b->used < n + 1) {
        size_t room = n + 1 > 65536 ? n + 1 : 65536;
        b = (tk_block *)TOKENIZER_MALLOC(sizeof *b + room);
        if (!b) {
            tk_no_memory(t);
            return NULL;
        }
        b->next = t->blocks;
        b->used = 0;
        b->room = room;
        t->blocks = b;
    }
    char *to = (char *)(b + 1) + b->used;
    if (n) memcpy(to, bytes, n);
    to[n] = 0;
    b->used += n + 1;
    return to;
}

/* ==== >>unicode ======================================================================
   UTF-8, and what kind of character a code point is

   General categories have numbers in the order of tk_category_names. The tables at the end of this
   file are texts: a letter for each run of code points with the same value, and the run's length
   behind it if that is not 1.
   ==================================================================================== */

static const char tk_category_names[] =
    "CcCfCnCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs";
static const char tk_digits[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-*/.,:;=<>_";
static const uint32_t tk_white[][2] = { { 9, 13 }, { 0x20, 0x20 }, { 0x85, 0x85 }, { 0xA0, 0xA0 },
    { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F },
    { 0x205F, 0x205F }, { 0x3000, 0x3000 } };
enum { TK_WHITES = sizeof tk_white / sizeof *tk_white, TK_POINTS = 0x110000 };

static int tk_is_white(uint32_t c)
{
    for (size_t i = 0; i < TK_WHITES; i++)
        if (c >= tk_white[i][0] && c <= tk_white[i][1]) return 1;
    return 0;
}
/* The code point at the beginning of UTF-8 that is valid; *n bytes. */
static uint32_t tk_point(const char *text, size_t *n)
{
    const unsigned char *p = (const unsigned char *)text;
    *n = 1;
    if (p[0] < 0x80) return p[0];
    *n = 2;
    if (p[0] < 0xE0) return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    *n = 3;
    if (p[0] < 0xF0) return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    *n = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}
static size_t tk_write(uint32_t c, char *to)         /* as UTF-8; how many bytes */
{
    size_t n = c < 0x80 ? 1 : 4;
    if (c >= 0x80 && c < 0x800) n = 2;
    if (c >= 0x800 && c < 0x10000) n = 3;
    if (n == 1) {
        to[0] = (char)c;
        return n;
    }
    for (size_t i = n; i-- > 1;) {
        to[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    to[0] = (char)((0xF00u >> n & 0xFF) | c);
    return n;
}
static int tk_is_tail(char c) { return ((unsigned char)c & 0xC0) == 0x80; }
/* How many of n bytes begin a character. *whole: 1 if they are all of it, 0 if bytes are missing
   or wrong: then they are the longest part that could have begun one (Unicode, 3.9). */
static size_t tk_character(const char *text, size_t n, int *whole)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t length = 1;
    unsigned char low = 0x80, high = 0xBF;
    *whole = p[0] < 0x80;
    if (*whole || p[0] < 0xC2 || p[0] > 0xF4) return 1;
    if (p[0] >= 0xE0) length = 2;
    if (p[0] >= 0xF0) length = 3;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xED) high = 0x9F;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xF4) high = 0x8F;
    for (size_t i = 1; i <= length; i++) {
        if (i >= n || p[i] < low || p[i] > high) return i;
        low = 0x80;
        high = 0xBF;
    }
    *whole = 1;
    return length + 1;
}
/* Appends a text with U+FFFD for what is broken. */
static int tk_add_valid(tokenizer_text *to, const char *text, size_t n)
{
    size_t begin = 0;
    for (size_t i = 0; i < n;) {
        int whole;
        size_t length = tk_character(text + i, n - i, &whole);
        if (!whole) {
            if (tokenizer_text_add(to, text + begin, i - begin)) return -1;
            if (tk_say(to, "\xEF\xBF\xBD")) return -1;
            begin = i + length;
        }
        i += length;
    }
    return tokenizer_text_add(to, text + begin, n - begin);
}
static int tk_is_valid(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        int whole;
        i += tk_character(text + i, n - i, &whole);
        if (!whole) return 0;
    }
    return 1;
}

/* The tables at the end of this file. */
enum { TK_CATEGORIES, TK_CLASSES, TK_SINGLE, TK_PAIR, TK_APART };
static const char *const *tk_rows(int which);
static const unsigned char *tk_class_values(void);

static int tk_digit(char c) { return (int)(strchr(tk_digits, c) - tk_digits); }
/* Reads a table of runs. `values`, or NULL for letters' own numbers, says what letters mean. */
static int tk_runs_read(tokenizer *t, tk_runs *runs, const char *const *rows,
                        const unsigned char *values)
{
    size_t letters = 0;
    uint32_t point = 0, length = 0;
    for (const char *const *row = rows; *row; row++) letters += strlen(*row);
    runs->start = (uint32_t *)TOKENIZER_MALLOC((letters + 1) * sizeof *runs->start);
    runs->value = (unsigned char *)TOKENIZER_MALLOC(letters + 1);
    if (!runs->start || !runs->value) return tk_no_memory(t);
    for (const char *const *row = rows; *row; row++) {
        for (const char *c = *row; *c; c++) {
            if (*c >= '0' && *c <= '9') {
                length = 10 * length + (uint32_t)(*c - '0');
                continue;
            }
            /* the next run begins: the last one was of its number, or of 1 */
            if (runs->count) point += length ? length : 1;
            length = 0;
            int digit = tk_digit(*c);
            runs->start[runs->count] = point;
            runs->value[runs->count++] = values ? values[digit] : (unsigned char)digit;
        }
    }
    return 0;
}
static int tk_runs_find(const tk_runs *runs, uint32_t c)
{
    size_t low = 0, high = runs->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (runs->start[middle] <= c) low = middle;
        else high = middle;
    }
    return runs->value[low];
}

/* ==== >>nfc ==========================================================================
   Unicode's normal form C: marks in one order, letters joined with the marks that they can take

   First every character falls into what it is made of; then marks that follow each other are sorted
   by their class, equal ones left as they were; then a letter takes up the marks behind it for
   which the pair has a character of its own (Unicode Standard Annex 15). Hangul follows from
   arithmetic.
   ==================================================================================== */

enum { TK_HANGUL = 0xAC00, TK_HANGUL_L = 0x1100, TK_HANGUL_V = 0x1161, TK_HANGUL_T = 0x11A7,
       TK_LS = 19, TK_VS = 21, TK_TS = 28 };

typedef struct tk_mark {
    uint32_t point, order;
    int rank;                                    /* the combining class, 0: none */
} tk_mark;
typedef struct tk_marks {
    tk_mark *at;
    size_t count, room;
} tk_marks;

static int tk_parts_by_point(const void *a, const void *b)
{
    const tk_parts *x = (const tk_parts *)a, *y = (const tk_parts *)b;
    return (x->point > y->point) - (x->point < y->point);
}
static int tk_parts_by_parts(const void *a, const void *b)
{
    const tk_parts *x = (const tk_parts *)a, *y = (const tk_parts *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->second > y->second) - (x->second < y->second);
}
static int tk_marks_by_rank(const void *a, const void *b)
{
    const tk_mark *x = (const tk_mark *)a, *y = (const tk_mark *)b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Reads a table of characters of so many parts behind the others; how many there are then. Where
   `to` is NULL they are only counted. */
static size_t tk_parts_read(tk_parts *to, size_t count, int which, int parts)
{
    uint32_t number[3] = { 0, 0, 0 };            /* the last code point, its parts */
    int digits = 0, at = 1;
    for (const char *const *row = tk_rows(which); *row; row++) {
        for (const char *c = *row; *c; c++) {
            if (*c == '!') {
                at = 0;
                number[0] = 0;
                continue;
            }
            if (digits == 0) number[at] = 0;
            number[at] = number[at] << 6 | (uint32_t)tk_digit(*c);
            if (++digits < 3) continue;
            digits = 0;
            if (at++ < parts) continue;
            at = 1;
            if (to) {
                to[count].point = number[0];
                to[count].first = number[1];
                to[count].second = parts == 2 ? number[2] : 0;
            }
            count++;
            number[0]++;
        }
    }
    return count;
}
static int tk_nfc_read(tokenizer *t)
{
    tk_unicode *u = &t->unicode;
    if (u->apart) return 0;
    size_t single = tk_parts_read(NULL, 0, TK_SINGLE, 1);
    size_t pair = tk_parts_read(NULL, 0, TK_PAIR, 2);
    size_t apart = tk_parts_read(NULL, 0, TK_APART, 2);
    u->together = (tk_parts *)TOKENIZER_MALLOC(pair * sizeof *u->together);
    u->apart = (tk_parts *)TOKENIZER_MALLOC((single + pair + apart) * sizeof *u->apart);
    if (!u->together || !u->apart) return tk_no_memory(t);
    u->togethers = tk_parts_read(u->together, 0, TK_PAIR, 2);
    u->aparts = tk_parts_read(u->apart, 0, TK_SINGLE, 1);
    u->aparts = tk_parts_read(u->apart, u->aparts, TK_PAIR, 2);
    u->aparts = tk_parts_read(u->apart, u->aparts, TK_APART, 2);
    qsort(u->together, u->togethers, sizeof *u->together, tk_parts_by_parts);
    qsort(u->apart, u->aparts, sizeof *u->apart, tk_parts_by_point);
    return tk_runs_read(t, &u->classes, tk_rows(TK_CLASSES), tk_class_values());
}

static int tk_mark_add(const tk_unicode *u, tk_marks *marks, uint32_t c)
{
    tk_mark *at = (tk_mark *)tk_grow(marks->at, &marks->room, marks->count, marks->count + 1,
                                     sizeof *at);
    if (!at) return -1;
    marks->at = at;
    at += marks->count;
    at->point = c;
    at->order = (uint32_t)marks->count++;
    at->rank = c < 0x300 ? 0 : tk_runs_find(&u->classes, c);
    return 0;
}
/* Appends what a character is made of. */
static int tk_take_apart(const tk_unicode *u, tk_marks *marks, uint32_t c)
{
    tk_parts key = { c, 0, 0 };
    if (c < 0xC0) return tk_mark_add(u, marks, c);
    if (c >= TK_HANGUL && c < TK_HANGUL + TK_LS * TK_VS * TK_TS) {
        uint32_t i = c - TK_HANGUL;
        if (tk_mark_add(u, marks, TK_HANGUL_L + i / (TK_VS * TK_TS))) return -1;
        if (tk_mark_add(u, marks, TK_HANGUL_V + i / TK_TS % TK_VS)) return -1;
        return i % TK_TS ? tk_mark_add(u, marks, TK_HANGUL_T + i % TK_TS) : 0;
    }
    const tk_parts *found = (const tk_parts *)bsearch(&key, u->apart, u->aparts, sizeof key,
                                                      tk_parts_by_point);
    if (!found) return tk_mark_add(u, marks, c);
    if (tk_take_apart(u, marks, found->first)) return -1;
    return found->second ? tk_take_apart(u, marks, found->second) : 0;
}
/* The character that is made of two; 0: there is none. */
static uint32_t tk_put_together(const tk_unicode *u, uint32_t first, uint32_t second)
{
    tk_parts key = { 0, first, second };
    uint32_t l = first - TK_HANGUL_L, v = second - TK_HANGUL_V;
    if (l < TK_LS && v < TK_VS) return TK_HANGUL + (l * TK_VS + v) * TK_TS;
    uint32_t syllable = first - TK_HANGUL, tail = second - TK_HANGUL_T;
    if (syllable < TK_LS * TK_VS * TK_TS && syllable % TK_TS == 0 && tail && tail < TK_TS)
        return first + tail;
    const tk_parts *found = (const tk_parts *)bsearch(&key, u->together, u->togethers, sizeof key,
                                                      tk_parts_by_parts);
    return found ? found->point : 0;
}
static void tk_marks_sort(tk_marks *marks)
{
    for (size_t i = 0; i < marks->count; i++) {
        size_t n = 0;
        while (i + n < marks->count && marks->at[i + n].rank) n++;
        if (n > 1) qsort(marks->at + i, n, sizeof *marks->at, tk_marks_by_rank);
        i += n;
    }
}
static void tk_marks_join(const tk_unicode *u, tk_marks *marks)
{
    size_t count = 0, letter = SIZE_MAX;
    int between = -1;                            /* the class of the last mark that was left */
    for (size_t i = 0; i < marks->count; i++) {
        tk_mark c = marks->at[i];
        uint32_t joined = 0;
        if (letter != SIZE_MAX && between < c.rank)
            joined = tk_put_together(u, marks->at[letter].point, c.point);
        if (joined) {
            marks->at[letter].point = joined;
            continue;
        }
        between = c.rank;
        if (c.rank == 0) {
            letter = count;
            between = -1;
        }
        marks->at[count++] = c;
    }
    marks->count = count;
}
/* Appends n bytes of valid text in normal form C. */
static int tk_nfc(const tk_unicode *u, const char *text, size_t n, tokenizer_text *to)
{
    tk_marks marks = { NULL, 0, 0 };
    size_t length, plain = 0;
    int bad = 0;
    char bytes[4];
    while (plain < n && (unsigned char)text[plain] < 0x80) plain++;
    if (plain == n) return tokenizer_text_add(to, text, n);
    for (size_t i = 0; i < n && !bad; i += length)
        bad = tk_take_apart(u, &marks, tk_point(text + i, &length));
    tk_marks_sort(&marks);
    tk_marks_join(u, &marks);
    for (size_t i = 0; i < marks.count && !bad; i++)
        bad = tokenizer_text_add(to, bytes, tk_write(marks.at[i].point, bytes));
    tk_release(marks.at);
    return bad;
}

/* ==== >>small letters ================================================================
   letter by letter, as Rust does it, or as Python does, where a sigma that ends a word is ς
   ==================================================================================== */

/* Runs of capital letters: the first, how many, from one to the next, and what makes one small. */
static const int32_t (*tk_lower_runs(size_t *count))[4];

/* The small letter of a capital one; else the character itself. İ, which becomes two, is none. */
static uint32_t tk_small(uint32_t c)
{
    size_t count, low = 0;
    const int32_t (*run)[4] = tk_lower_runs(&count);
    size_t high = count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if ((uint32_t)run[middle][0] <= c) low = middle;
        else high = middle;
    }
    int32_t past = (int32_t)c - run[low][0];
    if (past < 0 || past % run[low][2] || past / run[low][2] >= run[low][1]) return c;
    return (uint32_t)((int32_t)c + run[low][3]);
}
/* Whether a character is in one of n ranges that rise. */
static int tk_in_ranges(uint32_t c, const uint32_t (*range)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= range[i][0] && c <= range[i][1]) return 1;
    return 0;
}
static int tk_is_category(const tk_unicode *u, uint32_t c, const char *names)
{
    const char *name = tk_category_names + 2 * tk_runs_find(&u->categories, c);
    for (; *names; names += 2)
        if (!strncmp(name, names, 2)) return 1;
    return 0;
}
/* Unicode's Cased: letters of both sizes, and Other_Lowercase and Other_Uppercase. */
static int tk_is_cased(const tk_unicode *u, uint32_t c)
{
    static const uint32_t others[][2] = { { 0xAA, 0xAA }, { 0xBA, 0xBA }, { 0x2B0, 0x2B8 },
        { 0x2C0, 0x2C1 }, { 0x2E0, 0x2E4 }, { 0x345, 0x345 }, { 0x37A, 0x37A }, { 0x10FC, 0x10FC },
        { 0x1D2C, 0x1D6A }, { 0x1D78, 0x1D78 }, { 0x1D9B, 0x1DBF }, { 0x2071, 0x2071 },
        { 0x207F, 0x207F }, { 0x2090, 0x209C }, { 0x2160, 0x217F }, { 0x24B6, 0x24E9 },
        { 0x2C7C, 0x2C7D }, { 0xA69C, 0xA69D }, { 0xA770, 0xA770 }, { 0xA7F2, 0xA7F4 },
        { 0xA7F8, 0xA7F9 }, { 0xAB5C, 0xAB5F }, { 0xAB69, 0xAB69 }, { 0x10780, 0x10780 },
        { 0x10783, 0x10785 }, { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA }, { 0x1E030, 0x1E06D },
        { 0x1F130, 0x1F149 }, { 0x1F150, 0x1F169 }, { 0x1F170, 0x1F189 } };
    return tk_is_category(u, c, "LlLuLt")
        || tk_in_ranges(c, others, sizeof others / sizeof *others);
}
/* Unicode's Case_Ignorable: marks, and what may stand within a word. */
static int tk_is_case_ignorable(const tk_unicode *u, uint32_t c)
{
    static const uint32_t others[][2] = { { 0x27, 0x27 }, { 0x2E, 0x2E }, { 0x3A, 0x3A },
        { 0xB7, 0xB7 }, { 0x387, 0x387 }, { 0x55F, 0x55F }, { 0x5F4, 0x5F4 }, { 0x2018, 0x2019 },
        { 0x2024, 0x2024 }, { 0x2027, 0x2027 }, { 0xFE13, 0xFE13 }, { 0xFE52, 0xFE52 },
        { 0xFE55, 0xFE55 }, { 0xFF07, 0xFF07 }, { 0xFF0E, 0xFF0E }, { 0xFF1A, 0xFF1A } };
    return tk_is_category(u, c, "MnMeCfLmSk")
        || tk_in_ranges(c, others, sizeof others / sizeof *others);
}
/* Whether the sigma at text[at] ends a word: a letter with a size comes before it, none behind. */
static int tk_is_final_sigma(const tk_unicode *u, const char *text, size_t n, size_t at)
{
    size_t i = at, length;
    int before = 0;
    while (i && !before) {
        for (i--; tk_is_tail(text[i]); i--) {}
        uint32_t c = tk_point(text + i, &length);
        if (tk_is_case_ignorable(u, c)) continue;
        before = tk_is_cased(u, c);
        if (!before) return 0;
    }
    if (!before) return 0;
    tk_point(text + at, &length);
    for (i = at + length; i < n; i += length) {
        uint32_t c = tk_point(text + i, &length);
        if (!tk_is_case_ignorable(u, c)) return !tk_is_cased(u, c);
    }
    return 1;
}
/* Appends n bytes of valid text in small letters; `words`: sigmas at the ends of words are ς. */
static int tk_lower(const tk_unicode *u, const char *text, size_t n, int words, tokenizer_text *to)
{
    char bytes[4];
    size_t length;
    for (size_t i = 0; i < n; i += length) {
        uint32_t c = tk_point(text + i, &length), small = tk_small(c);
        if (words && c == 0x3A3 && tk_is_final_sigma(u, text, n, i)) small = 0x3C2;
        int bad = c == 0x130 ? tk_say(to, "i\xCC\x87")
            : tokenizer_text_add(to, bytes, tk_write(small, bytes));
        if (bad) return -1;
    }
    return 0;
}

/* ==== >>character map ================================================================
   SentencePiece's map of characters (nmt_nfkc and the like): texts, and what takes their place

   The map begins with the bytes of a trie, a double array (Aoe 1989) as Darts-clone lays it out:
   from a node with offset o byte b leads to node ^ o ^ b, if that is labelled b. A leaf has the
   place of a text behind the trie. SentencePiece takes the longest text that fits, again and again.
   Hugging Face's tokenizers take for each cluster of less than six bytes the shortest one with
   which it begins, in the place of all of it, and else go character by character.
   ==================================================================================== */

static uint32_t tk_unit(const tk_map *map, size_t i)
{
    const unsigned char *p = map->trie + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
/* The text of the longest or shortest key with which `text` begins, and its length; NULL: none. */
static const char *tk_map_find(const tk_map *map, const char *text, size_t n, int longest,
                               size_t *length)
{
    const char *found = NULL;
    size_t node = 0;
    uint32_t unit = map->units ? tk_unit(map, 0) : 0;
    for (size_t i = 0; i < n && map->units; i++) {
        node ^= (size_t)(unit >> 10) << ((unit & 0x200) >> 6) ^ (unsigned char)text[i];
        if (node >= map->units) break;
        unit = tk_unit(map, node);
        if ((unit & 0x800000FF) != (unsigned char)text[i]) break;
        if (!(unit >> 8 & 1)) continue;
        size_t leaf = node ^ (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
        size_t at = leaf < map->units ? tk_unit(map, leaf) & 0x7FFFFFFF : map->bytes;
        if (at >= map->bytes) break;
        found = map->texts + at;
        *length = i + 1;
        if (!longest) break;
    }
    return found;
}
/* Takes a map's bytes, which are kept. Returns 0, or -1. */
static int tk_map_read(tokenizer *t, tk_map *map, const char *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint32_t trie = 0;
    for (size_t i = 0; i < 4 && n > 4; i++) trie |= (uint32_t)p[i] << 8 * i;
    if (n < 9 || trie < 4 || trie % 4 || trie > n - 5 || bytes[n - 1])
        return tk_refuse(t, "expected a map of characters, a trie and texts, found %.0f bytes",
                         (double)n);
    const char *own = tk_keep(t, bytes, n);
    if (!own) return -1;
    map->trie = (const unsigned char *)own + 4;
    map->units = trie / 4;
    map->texts = own + 4 + trie;
    map->bytes = n - 4 - trie;
    if (!tk_is_valid(map->texts, map->bytes))
        return tk_refuse(t, "expected UTF-8 in a map of characters");
    return 0;
}
/* Whether a character goes on with the cluster that the ones before it began (Unicode Standard
   Annex 29), as far as clusters of less than six bytes go. */
static int tk_goes_on(const tk_unicode *u, uint32_t before, uint32_t c)
{
    static const uint32_t more[][2] = { { 0xE33, 0xE33 }, { 0xEB3, 0xEB3 }, { 0x200C, 0x200D },
        { 0xFF9E, 0xFF9F }, { 0x1F3FB, 0x1F3FF }, { 0xE0020, 0xE007F } };
    static const uint32_t apart[][2] = { { 0x102B, 0x102C }, { 0x1038, 0x1038 },
        { 0x1062, 0x1064 }, { 0x1067, 0x106D }, { 0x1083, 0x1083 }, { 0x1087, 0x108C },
        { 0x108F, 0x108F }, { 0x109A, 0x109C }, { 0x1A61, 0x1A61 }, { 0x1A63, 0x1A64 },
        { 0xAA7B, 0xAA7B }, { 0xAA7D, 0xAA7D }, { 0x11720, 0x11721 } };
    static const uint32_t prefix[][2] = { { 0x600, 0x605 }, { 0x6DD, 0x6DD }, { 0x70F, 0x70F },
        { 0x890, 0x891 }, { 0x8E2, 0x8E2 }, { 0xD4E, 0xD4E }, { 0x110BD, 0x110BD },
        { 0x110CD, 0x110CD } };
    int is_more = tk_in_ranges(c, more, sizeof more / sizeof *more);
    int is_control = tk_is_category(u, c, "CcCfZlZp") && !is_more
        && !tk_in_ranges(c, prefix, sizeof prefix / sizeof *prefix);
    if (before == '\r' && c == '\n') return 1;
    if (tk_in_ranges(before, prefix, sizeof prefix / sizeof *prefix) && !is_control) return 1;
    if (tk_is_category(u, before, "CcCfZlZp") && before != 0x200C && before != 0x200D) return 0;
    if (is_more) return 1;
    return tk_is_category(u, c, "MnMeMc")
        && !tk_in_ranges(c, apart, sizeof apart / sizeof *apart);
}
/* Appends n bytes of valid text as Hugging Face's tokenizers map them. */
static int tk_map_clusters(const tk_unicode *u, const tk_map *map, const char *text, size_t n,
                           tokenizer_text *to)
{
    for (size_t i = 0; i < n;) {
        size_t first, next = 0, length = 0, unused;
        uint32_t before = tk_point(text + i, &first);
        for (length = first; i + length < n; length += next) {
            uint32_t c = tk_point(text + i + length, &next);
            if (!tk_goes_on(u, before, c)) break;
            before = c;
        }
        size_t part = length < 6 ? length : 0;
        const char *found = part ? tk_map_find(map, text + i, part, 0, &unused) : NULL;
        if (found && tk_say(to, found)) return -1;
        for (size_t k = 0; k < length && !found; k += next) {
            tk_point(text + i + k, &next);
            const char *one = tk_map_find(map, text + i + k, next, 0, &unused);
            if (one ? tk_say(to, one) : tokenizer_text_add(to, text + i + k, next)) return -1;
        }
        i += length;
    }
    return 0;
}

/* ==== >>regex ========================================================================
   regular expressions, as far as tokenizers use them (Oniguruma's, over Unicode)

   Characters, classes [a-z\p{L}] and [^…], \s \S \d \p{L} \P{L}, groups (?:…) and (?i:…),
   alternatives, ? * + {m,n} and the possessive ?+ *+ ++, (?=…) and (?!…). Others are refused, and
   so are repeated groups with choices in them, for which going back has no end.

   An expression becomes a list of operations for a machine that tries one way and keeps the other
   ways to go on from in frames. The one operation that reads text is "least to most characters of a
   set": its frame is a range of places to go back to, so that a run of a million letters costs one
   frame.
   ==================================================================================== */

enum { TK_OP_REPEAT, TK_OP_SPLIT, TK_OP_JUMP, TK_OP_LOOK, TK_OP_DONE };
enum { TK_NESTED = 50 };                         /* groups in groups, lists in lists */

typedef struct tk_frame {
    size_t op, at, low;                          /* low SIZE_MAX: not a range */
} tk_frame;
typedef struct tk_frames {
    tk_frame *at;
    size_t count, room;
} tk_frames;

static int tk_set_has(const tk_regex *r, const tk_set *set, uint32_t c)
{
    if (c < 128) return (int)(set->low[c / 32] >> c % 32 & 1);
    int in = (int)(set->categories >> tk_runs_find(&r->unicode->categories, c) & 1);
    for (size_t i = 0; i < set->ranges && !in; i++) {
        const uint32_t *range = r->range[set->range + i];
        in = c >= range[0] && c <= range[1];
    }
    return in != set->negated;
}
static int tk_frame_push(tk_frames *f, size_t op, size_t at, size_t low)
{
    tk_frame *p = (tk_frame *)tk_grow(f->at, &f->room, f->count, f->count + 1, sizeof *p);
    if (!p) return -1;
    f->at = p;
    p += f->count++;
    p->op = op;
    p->at = at;
    p->low = low;
    return 0;
}
/* Reads as many characters of a set as may be. 1, 0: too few, -1: no memory. */
static int tk_regex_repeat(const tk_regex *r, tk_frames *f, size_t op, const char *text, size_t n,
                           size_t *at)
{
    const tk_op *o = &r->op[op];
    const tk_set *set = &r->set[o->set];
    size_t low = *at, length;
    uint32_t count = 0;
    while (count < o->most && *at < n && tk_set_has(r, set, tk_point(text + *at, &length))) {
        *at += length;
        if (++count == o->least) low = *at;
    }
    if (count < o->least) return 0;
    if (*at > low && !o->flag && tk_frame_push(f, op + 1, *at, low)) return -1;
    return 1;
}
/* Goes back to the last frame. 0: there is none above `base`. */
static int tk_regex_back(tk_frames *f, size_t base, const char *text, size_t *op, size_t *at)
{
    if (f->count == base) return 0;
    tk_frame *top = &f->at[f->count - 1];
    if (top->low != SIZE_MAX) {
        top->at--;
        while (tk_is_tail(text[top->at])) top->at--;
    }
    *op = top->op;
    *at = top->at;
    if (top->low == SIZE_MAX || top->at == top->low) f->count--;
    return 1;
}
/* Matches from operation `op` on, at place `at`. 1 with *end, 0, or -1 without memory. */
static int tk_regex_match(const tk_regex *r, tk_frames *f, size_t op, const char *text, size_t n,
                          size_t at, size_t *end)
{
    size_t base = f->count;
    for (;;) {
        const tk_op *o = &r->op[op];
        size_t jump = (size_t)((ptrdiff_t)op + o->jump);
        int good = 1;
        switch (o->what) {
        case TK_OP_DONE:
            f->count = base;
            *end = at;
            return 1;
        case TK_OP_JUMP:
            op = jump;
            break;
        case TK_OP_SPLIT:
            if (tk_frame_push(f, o->flag ? op + 1 : jump, at, SIZE_MAX)) return -1;
            op = o->flag ? jump : op + 1;
            break;
        case TK_OP_LOOK:
            good = tk_regex_match(r, f, op + 1, text, n, at, end);
            if (good >= 0) good = good != o->flag;
            op = jump;
            break;
        default:
            good = tk_regex_repeat(r, f, op, text, n, &at);
            op++;
        }
        if (good < 0) return -1;
        if (!good && !tk_regex_back(f, base, text, &op, &at)) return 0;
    }
}

/* ---- compiling ---- */

typedef struct tk_compiler {
    tokenizer *t;
    tk_regex *r;
    const char *pattern, *at;
    int ignore_case;
    char last;                                   /* the letter before, if case is ignored */
} tk_compiler;

static int tk_regex_refuse(tk_compiler *c, const char *what)
{
    return tk_refuse(c->t, "%s is not done, in the regular expression \"%.90s\"", what, c->pattern);
}
static int tk_op_add(tk_compiler *c, size_t at, int what)        /* inserts it */
{
    tk_regex *r = c->r;
    tk_op *p = (tk_op *)tk_grow(r->op, &r->op_room, r->ops, r->ops + 1, sizeof *p);
    if (!p) return tk_no_memory(c->t);
    r->op = p;
    memmove(p + at + 1, p + at, (r->ops - at) * sizeof *p);
    memset(p + at, 0, sizeof *p);
    p[at].what = what;
    r->ops++;
    return 0;
}
static int tk_range_add(tk_compiler *c, uint32_t first, uint32_t last)
{
    tk_regex *r = c->r;
    uint32_t (*p)[2] = (uint32_t (*)[2])tk_grow(r->range, &r->range_room, r->ranges, r->ranges + 1,
                                                sizeof *p);
    if (!p) return tk_no_memory(c->t);
    r->range = p;
    p[r->ranges][0] = first;
    p[r->ranges][1] = last;
    r->ranges++;
    return 0;
}
/* Ends a set whose ranges are those from set->range on, and adds the operation that reads one of
   it. */
static int tk_set_end(tk_compiler *c, tk_set *set)
{
    tk_regex *r = c->r;
    set->ranges = r->ranges - set->range;
    for (uint32_t i = 0; i < 128; i++) {
        int in = (int)(set->categories >> tk_runs_find(&r->unicode->categories, i) & 1);
        for (size_t k = set->range; k < r->ranges; k++)
            if (i >= r->range[k][0] && i <= r->range[k][1]) in = 1;
        if (in != set->negated) set->low[i / 32] |= (uint32_t)1 << i % 32;
    }
    tk_set *p = (tk_set *)tk_grow(r->set, &r->set_room, r->sets, r->sets + 1, sizeof *p);
    if (!p) return tk_no_memory(c->t);
    r->set = p;
    p[r->sets] = *set;
    if (tk_op_add(c, r->ops, TK_OP_REPEAT)) return -1;
    tk_op *o = &r->op[r->ops - 1];
    o->set = r->sets++;
    o->least = 1;
    o->most = 1;
    return 0;
}
static tk_set tk_set_begin(const tk_compiler *c)
{
    tk_set set;
    memset(&set, 0, sizeof set);
    set.range = c->r->ranges;
    return set;
}
/* A character that stands for itself, or with (?i:) for its other case, too: that of a letter of
   ASCII (two of these have a third form). */
static int tk_literal(tk_compiler *c, uint32_t point)
{
    tk_set set = tk_set_begin(c);
    uint32_t other = point;
    if (c->ignore_case && point >= 128) return tk_regex_refuse(c, "(?i: with other letters");
    if (c->ignore_case && ((point | 32) >= 'a' && (point | 32) <= 'z')) other = point ^ 32;
    if (tk_range_add(c, point, point) || tk_range_add(c, other, other)) return -1;
    if (other != point) {
        char small = (char)(point | 32);
        if (small == 's' && tk_range_add(c, 0x17F, 0x17F)) return -1;
        if (small == 'k' && tk_range_add(c, 0x212A, 0x212A)) return -1;
        /* ss, ff, fi, fl and st are one letter each somewhere */
        if ((c->last == 's' && (small == 's' || small == 't')) ||
            (c->last == 'f' && strchr("fil", small)))
            return tk_regex_refuse(c, "(?i: with ss, st, ff, fi or fl");
        c->last = small;
    }
    return tk_set_end(c, &set);
}
static int tk_hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
/* \p{L}: the categories that it names. */
static int tk_categories(tk_compiler *c, uint32_t *categories)
{
    const char *name = c->at + 1, *close = strchr(c->at, '}');
    size_t n = close ? (size_t)(close - name) : 0;
    int inverted = c->at[-1] == 'P';
    *categories = 0;
    if (*c->at != '{' || n < 1 || n > 2) return tk_regex_refuse(c, "a \\p{} of more than a letter");
    for (unsigned i = 0; i < sizeof tk_category_names / 2; i++)
        if (!strncmp(tk_category_names + 2 * (size_t)i, name, n)) *categories |= (uint32_t)1 << i;
    if (!*categories) return tk_regex_refuse(c, "such a \\p{}");
    if (inverted) *categories = ~*categories;
    c->at = close + 1;
    return 0;
}
/* What stands behind a backslash: a character in *point, or UINT32_MAX for things that are added to
   the set. */
static int tk_escape(tk_compiler *c, tk_set *set, uint32_t *point, int inside)
{
    static const char from[] = "rntfv", to[] = "\r\n\t\f\v";
    char what = *c->at;
    uint32_t categories = 0;
    if (!what) return tk_regex_refuse(c, "a \\ at the end");
    c->at++;
    *point = UINT32_MAX;
    if ((what == 's' || what == 'S') && !(what == 'S' && inside)) {
        set->negated ^= what == 'S';
        for (size_t i = 0; i < TK_WHITES; i++)
            if (tk_range_add(c, tk_white[i][0], tk_white[i][1])) return -1;
        return 0;
    }
    if (what == 'd') {
        for (unsigned i = 0; i < sizeof tk_category_names / 2; i++)
            if (!strncmp(tk_category_names + 2 * (size_t)i, "Nd", 2))
                set->categories |= (uint32_t)1 << i;
        return 0;
    }
    if (what == 'p' || what == 'P') {
        if (tk_categories(c, &categories)) return -1;
        set->categories |= categories;
        return 0;
    }
    if (strchr(from, what)) {
        *point = (uint32_t)(unsigned char)to[strchr(from, what) - from];
        return 0;
    }
    if (what == 'u' || what == 'x') {
        int digits = what == 'u' ? 4 : 2;
        *point = 0;
        for (int i = 0; i < digits; i++) {
            if (tk_hex(*c->at) < 0) return tk_regex_refuse(c, "such a \\x or \\u");
            *point = *point << 4 | (uint32_t)tk_hex(*c->at++);
        }
        return 0;
    }
    int letter = ((what | 32) >= 'a' && (what | 32) <= 'z') || (what >= '0' && what <= '9');
    if (letter || (unsigned char)what >= 0x80) return tk_regex_refuse(c, "such a \\");
    *point = (uint32_t)(unsigned char)what;
    return 0;
}
/* A character of a class, or UINT32_MAX. */
static int tk_class_point(tk_compiler *c, tk_set *set, uint32_t *point)
{
    size_t n;
    if (!*c->at) return tk_regex_refuse(c, "a [ without ]");
    if (*c->at == '[' || !strncmp(c->at, "&&", 2)) return tk_regex_refuse(c, "a class in a class");
    if (*c->at == '\\') {
        c->at++;
        return tk_escape(c, set, point, 1);
    }
    *point = tk_point(c->at, &n);
    c->at += n;
    return 0;
}
static int tk_class(tk_compiler *c)              /* behind the [ */
{
    tk_set set = tk_set_begin(c);
    uint32_t first, last;
    if (c->ignore_case) return tk_regex_refuse(c, "(?i: with classes");
    if (*c->at == '^') {
        set.negated = 1;
        c->at++;
    }
    if (*c->at == ']') return tk_regex_refuse(c, "an empty class");
    while (*c->at != ']') {
        if (tk_class_point(c, &set, &first)) return -1;
        if (first == UINT32_MAX) continue;
        last = first;
        if (*c->at == '-' && c->at[1] && c->at[1] != ']') {
            c->at++;
            if (tk_class_point(c, &set, &last)) return -1;
            if (last == UINT32_MAX || last < first) return tk_regex_refuse(c, "such a range");
        }
        if (tk_range_add(c, first, last)) return -1;
    }
    c->at++;
    return tk_set_end(c, &set);
}

static int tk_branches(tk_compiler *c, int depth, size_t *least);

/* ? * + {m} {m,} {m,n} and a + behind the first three; *most 0: there is none. */
static int tk_quantifier(tk_compiler *c, uint32_t *least, uint32_t *most, int *possessive)
{
    char what = *c->at;
    char *end;
    *least = what == '+';
    *most = what == '?' ? 1 : UINT32_MAX;
    *possessive = 0;
    if (!what || !strchr("?*+{", what)) {
        *most = 0;
        return 0;
    }
    c->at++;
    if (what == '{') {
        if (*c->at < '0' || *c->at > '9') return tk_regex_refuse(c, "such a {");
        *least = (uint32_t)strtoul(c->at, &end, 10);
        *most = *least;
        if (*end == ',') {
            *most = UINT32_MAX;
            end++;
            if (*end >= '0' && *end <= '9') *most = (uint32_t)strtoul(end, &end, 10);
        }
        if (*end != '}' || *least > 1000 || !*most || *most < *least)
            return tk_regex_refuse(c, "such a {");
        c->at = end + 1;
    }
    if (*c->at == '+' && what != '{') {
        *possessive = 1;
        c->at++;
    }
    if (*c->at && strchr("?*+{", *c->at)) return tk_regex_refuse(c, "a lazy or double repetition");
    return 0;
}
/* The repetition of a group whose operations begin at `begin`. */
static int tk_group_repeat(tk_compiler *c, size_t begin, size_t *least)
{
    uint32_t low, high;
    int possessive;
    size_t body = c->r->ops - begin;
    if (tk_quantifier(c, &low, &high, &possessive)) return -1;
    if (!high) return 0;
    if (possessive || low > 1 || (high != 1 && high != UINT32_MAX))
        return tk_regex_refuse(c, "a possessive or counted repetition of a group");
    if (high > 1 && !*least) return tk_regex_refuse(c, "a repetition of nothing");
    /* with choices inside, such a group can be matched in exponentially many ways */
    for (size_t i = begin; high > 1 && i < c->r->ops; i++) {
        const tk_op *o = &c->r->op[i];
        if (o->what != TK_OP_REPEAT || o->least != o->most)
            return tk_regex_refuse(c, "a repetition of choices or repetitions");
    }
    if (high > 1 && low) {                       /* body, split back */
        if (tk_op_add(c, c->r->ops, TK_OP_SPLIT)) return -1;
        c->r->op[c->r->ops - 1].flag = 1;
        c->r->op[c->r->ops - 1].jump = -(ptrdiff_t)body;
        return 0;
    }
    if (!low) {                                  /* split over the body, (jump back) */
        *least = 0;
        if (tk_op_add(c, begin, TK_OP_SPLIT)) return -1;
        c->r->op[begin].jump = (ptrdiff_t)body + (high > 1 ? 2 : 1);
        if (high > 1 && tk_op_add(c, c->r->ops, TK_OP_JUMP)) return -1;
        if (high > 1) c->r->op[c->r->ops - 1].jump = -(ptrdiff_t)body - 1;
    }
    return 0;
}
static int tk_group(tk_compiler *c, int depth, size_t *least)    /* behind the ( */
{
    size_t begin = c->r->ops;
    int ignored = c->ignore_case, look = 0;
    if (depth >= TK_NESTED) return tk_regex_refuse(c, "such deep nesting");
    if (*c->at == '?') {
        look = c->at[1] == '=' || c->at[1] == '!';
        if (!strncmp(c->at, "?i:", 3)) c->ignore_case = 1;
        else if (!look && c->at[1] != ':') return tk_regex_refuse(c, "such a (?");
        if (look && tk_op_add(c, begin, TK_OP_LOOK)) return -1;
        if (look) c->r->op[begin].flag = c->at[1] == '!';
        c->at += c->at[1] == 'i' ? 3 : 2;
    }
    c->last = 0;
    if (tk_branches(c, depth + 1, least)) return -1;
    if (*c->at != ')') return tk_regex_refuse(c, "a ( without )");
    c->at++;
    c->ignore_case = ignored;
    c->last = 0;
    if (!look) return tk_group_repeat(c, begin, least);
    *least = 0;
    if (tk_op_add(c, c->r->ops, TK_OP_DONE)) return -1;
    c->r->op[begin].jump = (ptrdiff_t)(c->r->ops - begin);
    if (*c->at && strchr("?*+{", *c->at)) return tk_regex_refuse(c, "a repeated (?= or (?!");
    return 0;
}
/* One character, class or escape, and how often. */
static int tk_atom(tk_compiler *c, size_t *least)
{
    tk_set set = tk_set_begin(c);
    uint32_t point, low, high;
    size_t n;
    int possessive, bad;
    if (strchr("^$*+?{", *c->at)) return tk_regex_refuse(c, "^, $ or a repetition of nothing");
    if (*c->at == '[') {
        c->at++;
        bad = tk_class(c);
    } else if (*c->at == '\\') {
        c->at++;
        bad = tk_escape(c, &set, &point, 0);
        if (!bad) bad = point == UINT32_MAX ? tk_set_end(c, &set) : tk_literal(c, point);
    } else if (*c->at == '.') {
        c->at++;
        set.negated = 1;
        bad = tk_range_add(c, '\n', '\n') || tk_set_end(c, &set);
    } else {
        point = tk_point(c->at, &n);
        c->at += n;
        bad = tk_literal(c, point);
    }
    if (bad || tk_quantifier(c, &low, &high, &possessive)) return -1;
    *least = high ? low : 1;
    tk_op *o = &c->r->op[c->r->ops - 1];
    if (!high) return 0;
    o->least = low;
    o->most = high;
    o->flag = possessive;
    c->last = 0;
    return 0;
}
/* Alternatives, up to a ) or the end; *least: the fewest characters that match. */
static int tk_branches(tk_compiler *c, int depth, size_t *least)
{
    size_t begin = c->r->ops, sum = 0, part = 0;
    size_t first = begin;                        /* of this alternative */
    *least = SIZE_MAX;
    for (;; sum += part) {
        if (*c->at == '(') {
            c->at++;
            if (tk_group(c, depth, &part)) return -1;
            continue;
        }
        if (*c->at && *c->at != '|' && *c->at != ')') {
            if (tk_atom(c, &part)) return -1;
            continue;
        }
        if (sum < *least) *least = sum;
        if (*c->at != '|') break;
        /* split to the next one before it, and a jump to the end behind it, set below */
        c->at++;
        c->last = 0;
        if (tk_op_add(c, first, TK_OP_SPLIT) || tk_op_add(c, c->r->ops, TK_OP_JUMP)) return -1;
        c->r->op[first].jump = (ptrdiff_t)(c->r->ops - first);
        first = c->r->ops;
        sum = 0;
        part = 0;
    }
    for (size_t at = begin; at != first;) {
        size_t next = at + (size_t)c->r->op[at].jump;
        c->r->op[next - 1].jump = (ptrdiff_t)(c->r->ops - (next - 1));
        at = next;
    }
    return 0;
}
/* Compiles an expression, or a text that stands for itself. */
static int tk_regex_compile(tokenizer *t, tk_regex *r, const char *pattern, int itself)
{
    tk_compiler c = { t, r, pattern, pattern, 0, 0 };
    size_t least = 1, n;
    r->unicode = &t->unicode;
    if (!*pattern) return tk_regex_refuse(&c, "an empty pattern");
    if (!tk_is_valid(pattern, strlen(pattern))) return tk_regex_refuse(&c, "broken UTF-8");
    for (; itself && *c.at; c.at += n)
        if (tk_literal(&c, tk_point(c.at, &n))) return -1;
    if (!itself && tk_branches(&c, 0, &least)) return -1;
    if (*c.at) return tk_regex_refuse(&c, "a ) without (");
    if (!least) return tk_regex_refuse(&c, "a match of nothing");
    return tk_op_add(&c, r->ops, TK_OP_DONE);
}
static void tk_regex_free(tk_regex *r)
{
    tk_release(r->set);
    tk_release(r->range);
    tk_release(r->op);
}

/* ==== >>words ========================================================================
   finding words: whole ones in a hash table, beginnings of a text in a sorted list
   ==================================================================================== */

static uint64_t tk_hash(const char *text, size_t n)      /* FNV-1a, mixed */
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}
static size_t tk_places(size_t count)            /* a power of two, at least twice the count */
{
    size_t places = 16;
    while (places < 2 * count) places *= 2;
    return places;
}
static int tk_table_open(tokenizer *t, tk_table *table, size_t words)
{
    table->places = tk_places(words);
    table->place = (tk_word *)TOKENIZER_MALLOC(table->places * sizeof *table->place);
    if (!table->place) return tk_no_memory(t);
    memset(table->place, 0, table->places * sizeof *table->place);
    return 0;
}
/* The place of a word, or the free one where it belongs. */
static tk_word *tk_table_place(const tk_table *table, const char *text, size_t n)
{
    size_t i = (size_t)tk_hash(text, n) & (table->places - 1);
    for (;;) {
        tk_word *w = &table->place[i];
        if (!w->text || (w->n == n && !memcmp(w->text, text, n))) return w;
        i = (i + 1) & (table->places - 1);
    }
}
static int32_t tk_table_find(const tk_table *table, const char *text, size_t n)
{
    const tk_word *w = tk_table_place(table, text, n);
    return w->text ? w->value : -1;
}
/* Adds a word; where it is there already the first stays. */
static void tk_table_add(tk_table *table, const char *text, size_t n, int32_t value)
{
    tk_word *w = tk_table_place(table, text, n);
    if (w->text) return;
    w->text = text;
    w->n = n;
    w->value = value;
}

/* The same, but the last one counts. */
static void tk_table_set(tk_table *table, const char *text, size_t n, int32_t value)
{
    tk_word *w = tk_table_place(table, text, n);
    w->text = text;
    w->n = n;
    w->value = value;
}

static tk_merge *tk_merge_place(const tk_merges *merges, int32_t left, int32_t right)
{
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(key >> 29) & (merges->places - 1);
    for (;;) {
        tk_merge *m = &merges->place[i];
        if (m->joined < 0 || (m->left == left && m->right == right)) return m;
        i = (i + 1) & (merges->places - 1);
    }
}
static int tk_merges_open(tokenizer *t, size_t count)
{
    tk_merges *merges = &t->merges;
    merges->places = tk_places(count);
    merges->place = (tk_merge *)TOKENIZER_MALLOC(merges->places * sizeof *merges->place);
    if (!merges->place) return tk_no_memory(t);
    for (size_t i = 0; i < merges->places; i++) merges->place[i].joined = -1;
    return 0;
}

static int tk_words_add(tokenizer *t, tk_words *words, const char *text, size_t n, int32_t value)
{
    tk_word *at = (tk_word *)tk_grow(words->at, &words->room, words->count, words->count + 1,
                                     sizeof *at);
    if (!at) return tk_no_memory(t);
    words->at = at;
    at += words->count++;
    at->text = text;
    at->n = n;
    at->value = value;
    return 0;
}
static int tk_words_order(const void *a, const void *b)
{
    const tk_word *x = (const tk_word *)a, *y = (const tk_word *)b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    if (order) return order;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}
/* Sorts the words; of equal ones the first stays. */
static void tk_words_sort(tk_words *words)
{
    size_t count = 0;
    if (words->count) qsort(words->at, words->count, sizeof *words->at, tk_words_order);
    for (size_t i = 0; i < words->count; i++) {
        const tk_word *last = words->at + (count ? count - 1 : 0), *w = &words->at[i];
        if (count && last->n == w->n && !memcmp(last->text, w->text, w->n)) continue;
        words->at[count++] = *w;
    }
    words->count = count;
}
/* The words from low to high share their first k bytes; leaves those whose next one is `byte`.
   Returns the value of the word that ends there, or -1. */
static int32_t tk_words_narrow(const tk_words *words, size_t *low, size_t *high, size_t k,
                               unsigned char byte)
{
    size_t bound[2];
    for (unsigned i = 0; i < 2; i++) {           /* the first that is not below byte, byte + 1 */
        size_t from = i ? bound[0] : *low, to = *high;
        while (from < to) {
            size_t middle = (from + to) / 2;
            const tk_word *w = &words->at[middle];
            if (w->n <= k || (unsigned char)w->text[k] < byte + i) from = middle + 1;
            else to = middle;
        }
        bound[i] = from;
    }
    *low = bound[0];
    *high = bound[1];
    if (*low == *high || words->at[*low].n != k + 1) return -1;
    return words->at[*low].value;
}
/* The longest word with which a text begins: its value and length, or -1. */
static int32_t tk_words_longest(const tk_words *words, const char *text, size_t n, size_t *length)
{
    size_t low = 0, high = words->count;
    int32_t longest = -1;
    for (size_t k = 0; k < n && low < high; k++) {
        int32_t value = tk_words_narrow(words, &low, &high, k, (unsigned char)text[k]);
        if (value < 0) continue;
        longest = value;
        *length = k + 1;
    }
    return longest;
}

/* ==== >>pieces =======================================================================
   from the text between special tokens to words: normalizers and pre-tokenizers, step by step
   ==================================================================================== */

/* A text that is cut: piece i ends at end[i], where the next one begins. */
typedef struct tk_pieces {
    tokenizer_text text;
    size_t *end;
    size_t count, room;
    size_t head;                                 /* see tk_piece */
} tk_pieces;
/* A piece that takes a step. Its head are the bytes that stem from the first character of the whole
   text: Metaspace asks whether there are any. A step that drops that character leaves none. */
typedef struct tk_piece {
    const char *text;
    size_t n, head;
} tk_piece;

typedef struct tk_node {                         /* a token of a word, in a list; see >>bpe */
    size_t begin, end, before, after;            /* bytes of the word; nodes, SIZE_MAX: none */
    int32_t id;
    int fixed;                                   /* joins with none */
} tk_node;
typedef struct tk_pair {                         /* two neighbours that may join */
    double order;                                /* the smallest first */
    size_t at;
    int32_t joined;
} tk_pair;
typedef struct tk_path {                         /* the best way to here; see >>unigram */
    double score;
    size_t from;                                 /* SIZE_MAX: none yet */
    int32_t id;
} tk_path;

/* What an encoding needs besides, kept from word to word. */
typedef struct tk_work {
    tokenizer_text valid;
    tk_pieces from, to;
    tk_frames frames;
    tk_node *node;
    tk_pair *pair;
    tk_path *path;
    size_t nodes, pairs, node_room, pair_room, path_room;
} tk_work;
static void tk_work_free(tk_work *w)
{
    tokenizer_text_free(&w->valid);
    tokenizer_text_free(&w->from.text);
    tokenizer_text_free(&w->to.text);
    tk_release(w->from.end);
    tk_release(w->to.end);
    tk_release(w->frames.at);
    tk_release(w->node);
    tk_release(w->pair);
    tk_release(w->path);
}

/* Ends a piece where the text ends now; an empty one is none. */
static int tk_piece_end(tk_pieces *p)
{
    size_t begin = p->count ? p->end[p->count - 1] : 0;
    if (p->text.count == begin) return 0;
    size_t *end = (size_t *)tk_grow(p->end, &p->room, p->count, p->count + 1, sizeof *end);
    if (!end) return -1;
    p->end = end;
    p->end[p->count++] = p->text.count;
    return 0;
}
/* Whether a part of a split text goes on in the same piece as the part before it. */
static int tk_joins(int behaviour, int match, int match_before)
{
    if (behaviour == TK_CONTIGUOUS) return match == match_before;
    if (behaviour == TK_WITH_PREVIOUS) return match && !match_before;
    return behaviour == TK_WITH_NEXT && !match && match_before;
}
/* How many of the bytes from begin to end are among the first `head`. */
static size_t tk_head_of(size_t head, size_t begin, size_t end)
{
    if (head <= begin) return 0;
    return head < end ? head - begin : end - begin;
}
/* Appends the bytes of a piece from begin to end. */
static int tk_piece_add(tk_pieces *to, const tk_piece *p, size_t begin, size_t end)
{
    to->head += tk_head_of(p->head, begin, end);
    return tokenizer_text_add(&to->text, p->text + begin, end - begin);
}
/* Appends words that take the place of the bytes up to `end`, or stand before the first, which ends
   at 1. They stem from the last of these bytes, as Hugging Face has it. */
static int tk_piece_say(tk_pieces *to, const tk_piece *p, size_t end, const char *words)
{
    if (end <= p->head) to->head += strlen(words);
    return tk_say(&to->text, words);
}
/* Appends a part, a match of the expression or what lies between two; *last is that of the part
   before, -1: this is the first. */
static int tk_part_add(const tk_step *step, tk_pieces *to, const tk_piece *p, size_t begin,
                       size_t end, int match, int *last)
{
    if (begin == end) return 0;
    match = match != step->inverted;
    if (step->behaviour == TK_REMOVED && match) return tk_piece_end(to);
    if (*last >= 0 && !tk_joins(step->behaviour, match, *last) && tk_piece_end(to)) return -1;
    *last = match;
    return tk_piece_add(to, p, begin, end);
}
/* Finds the first match from a place on. 1 with where it begins and ends, 0, or -1 without
   memory. */
static int tk_regex_find(const tk_step *step, tk_frames *frames, const char *text, size_t n,
                         size_t from, size_t *begin, size_t *end)
{
    size_t length;
    for (*begin = from; *begin < n; *begin += length) {
        int found = tk_regex_match(&step->regex, frames, 0, text, n, *begin, end);
        if (found) return found;
        tk_point(text + *begin, &length);
    }
    return 0;
}
static int tk_split(const tk_step *step, tk_frames *frames, const tk_piece *p, tk_pieces *to)
{
    size_t from = 0, at = 0, end = 0;
    int last = -1, found;
    for (;; from = end) {
        found = tk_regex_find(step, frames, p->text, p->n, from, &at, &end);
        if (found < 0) return -1;
        if (!found) break;
        if (tk_part_add(step, to, p, from, at, 0, &last)) return -1;
        if (tk_part_add(step, to, p, at, end, 1, &last)) return -1;
    }
    if (tk_part_add(step, to, p, from, p->n, 0, &last)) return -1;
    return tk_piece_end(to);
}
static int tk_begins(const char *text, size_t n, const char *with)
{
    size_t length = strlen(with);
    return n >= length && !memcmp(text, with, length);
}
/* Appends a piece with another text for each one that is `from`. */
static int tk_replace(const tk_piece *p, const char *from, const char *with, tk_pieces *to)
{
    size_t length = strlen(from), begin = 0;
    for (size_t i = 0; i < p->n;) {
        if (!tk_begins(p->text + i, p->n - i, from)) {
            i++;
            continue;
        }
        if (tk_piece_add(to, p, begin, i) || tk_piece_say(to, p, i + length, with)) return -1;
        i += length;
        begin = i;
    }
    return tk_piece_add(to, p, begin, p->n);
}
/* Appends a piece with `step->to` for each match of the expression. */
static int tk_exchange(const tk_step *step, tk_frames *frames, const tk_piece *p, tk_pieces *to)
{
    size_t from = 0, at = 0, end = 0;
    int found;
    for (;; from = end) {
        found = tk_regex_find(step, frames, p->text, p->n, from, &at, &end);
        if (found < 0) return -1;
        if (!found) return tk_piece_add(to, p, from, p->n);
        if (tk_piece_add(to, p, from, at) || tk_piece_say(to, p, end, step->to)) return -1;
    }
}
/* Python's white space has four characters more than Unicode's. */
static int tk_is_blank(uint32_t c, int python)
{
    return tk_is_white(c) || (python && c >= 0x1C && c <= 0x1F);
}
/* Takes white space from the ends of a text. */
static void tk_trim(const char **text, size_t *n, int left, int right, int python)
{
    size_t length;
    while (left && *n && tk_is_blank(tk_point(*text, &length), python)) {
        *text += length;
        *n -= length;
    }
    while (right && *n) {
        size_t last = *n - 1;
        while (tk_is_tail((*text)[last])) last--;
        if (!tk_is_blank(tk_point(*text + last, &length), python)) break;
        *n = last;
    }
}
/* "▁" for each space, and before the text. */
static int tk_metaspace(const tk_step *step, const tk_piece *p, tk_pieces *to)
{
    int prepend = step->prepend == TK_ALWAYS || (step->prepend == TK_FIRST && p->head);
    if (tk_begins(p->text, p->n, " ") || tk_begins(p->text, p->n, step->to)) prepend = 0;
    if (prepend && tk_piece_say(to, p, 1, step->to)) return -1;
    return tk_replace(p, " ", step->to, to);
}
static int tk_strip_piece(const tk_step *step, const tk_piece *p, tk_pieces *to)
{
    const char *text = p->text;
    size_t n = p->n;
    tk_trim(&text, &n, step->left, step->right, 0);
    size_t begin = (size_t)(text - p->text);
    return tk_piece_add(to, p, begin, begin + n);
}
static int tk_change(const tokenizer *t, const tk_step *step, const char *text, size_t n,
                     tokenizer_text *to)
{
    if (step->what == TK_NFC) return tk_nfc(&t->unicode, text, n, to);
    if (step->what == TK_LOWER) return tk_lower(&t->unicode, text, n, 0, to);
    return tk_map_clusters(&t->unicode, &step->map, text, n, to);
}
/* Changes characters where they stand: TK_NFC, TK_LOWER, TK_MAP. The head is what it becomes alone;
   where a map drops it, what follows takes its place, as Hugging Face has it. */
static int tk_change_piece(const tokenizer *t, const tk_step *step, const tk_piece *p,
                           tk_pieces *to)
{
    size_t before = to->text.count, head;
    if (tk_change(t, step, p->text, p->head, &to->text)) return -1;
    head = to->text.count - before;
    if (p->head && !head) head = 1;
    to->text.count = before;
    if (tk_change(t, step, p->text, p->n, &to->text)) return -1;
    to->head += tk_head_of(head, 0, to->text.count - before);
    return 0;
}
/* Takes one step with one piece. */
static int tk_step_piece(const tokenizer *t, const tk_step *step, tk_frames *frames,
                         const tk_piece *p, tk_pieces *to)
{
    int bad = 0;
    switch (step->what) {
    case TK_SPLIT:
        return tk_split(step, frames, p, to);
    case TK_REPLACE:
        bad = tk_replace(p, step->from, step->to, to);
        break;
    case TK_EXCHANGE:
        bad = tk_exchange(step, frames, p, to);
        break;
    case TK_STRIP:
        bad = tk_strip_piece(step, p, to);
        break;
    case TK_METASPACE:
        bad = tk_metaspace(step, p, to);
        break;
    case TK_PREFIX:
        if (!tk_begins(p->text, p->n, " ")) bad = tk_piece_say(to, p, 1, " ");
        if (!bad) bad = tk_piece_add(to, p, 0, p->n);
        break;
    case TK_PREPEND:
        bad = tk_piece_say(to, p, 1, step->to) || tk_piece_add(to, p, 0, p->n);
        break;
    default:
        bad = tk_change_piece(t, step, p, to);
    }
    return bad || tk_piece_end(to) ? -1 : 0;
}
/* Takes steps with all pieces in w->from, where the outcome lies, too. */
static int tk_steps_take(const tokenizer *t, const tk_steps *steps, tk_work *w)
{
    for (size_t s = 0; s < steps->count; s++) {
        tk_pieces was = w->from;
        size_t begin = 0;
        w->to.count = 0;
        w->to.text.count = 0;
        w->to.head = 0;
        for (size_t i = 0; i < was.count; i++) {
            size_t end = was.end[i];
            tk_piece p = { was.text.at + begin, end - begin, tk_head_of(was.head, begin, end) };
            if (tk_step_piece(t, &steps->at[s], &w->frames, &p, &w->to)) return -1;
            begin = end;
        }
        w->from = w->to;
        w->to = was;
    }
    return 0;
}
static int tk_pieces_set(tk_pieces *p, const char *text, size_t n, size_t head)
{
    p->count = 0;
    p->text.count = 0;
    p->head = head;
    return tokenizer_text_add(&p->text, text, n) || tk_piece_end(p) ? -1 : 0;
}

/* ---- SentencePiece's normalizer ---- */

static const char tk_low_bar[] = "\xE2\x96\x81";         /* ▁, which stands for a space */

/* The next characters of a text as SentencePiece's normalizer gives them: a user-defined symbol or
   one character as it is, or what the map has for the longest text there. *length bytes are read,
   *shown are what they become; *symbol: 1 for a user-defined symbol. */
static const char *tk_spm_next(const tokenizer *t, const char *text, size_t n, size_t *length,
                               size_t *shown, int *symbol)
{
    const char *found = NULL;
    *symbol = tk_words_longest(&t->user, text, n, length) >= 0;
    if (!*symbol) {
        found = tk_map_find(&t->map, text, n, 1, length);
        if (!found) tk_point(text, length);
    }
    *shown = found ? strlen(found) : *length;
    return found ? found : text;
}
/* What SentencePiece does with a text: its map of characters; "▁" for each space and before the
   text (dummy_prefix) or behind it (suffix), or none but single ones between words (squeeze). */
static int tk_spm_normalize(const tokenizer *t, const char *text, size_t n, tokenizer_text *to)
{
    size_t i = 0, length = 0, shown = 0;
    int after_space = t->squeeze, symbol;
    to->count = 0;
    while (after_space && i < n) {
        const char *part = tk_spm_next(t, text + i, n - i, &length, &shown, &symbol);
        if (shown != 1 || *part != ' ') break;
        i += length;
    }
    if (i == n) return 0;
    if (t->dummy_prefix && !t->suffix && tk_say(to, tk_low_bar)) return -1;
    for (; i < n; i += length) {
        const char *part = tk_spm_next(t, text + i, n - i, &length, &shown, &symbol);
        while (after_space && shown && *part == ' ' && !symbol) {
            part++;
            shown--;
        }
        if (shown) after_space = part[shown - 1] == ' ' && t->squeeze;
        for (size_t k = 0; k < shown; k++) {
            int space = part[k] == ' ' && !symbol;
            if (space ? tk_say(to, tk_low_bar) : tokenizer_text_add(to, part + k, 1)) return -1;
        }
    }
    while (t->squeeze && to->count >= 3 && !memcmp(to->at + to->count - 3, tk_low_bar, 3))
        to->count -= 3;
    return t->dummy_prefix && t->suffix ? tk_say(to, tk_low_bar) : 0;
}
/* Appends a text without punctuation of ASCII, with one space for white space, and none at the
   ends. */
static int tk_plain_words(const char *text, size_t n, tokenizer_text *to)
{
    static const char punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    tokenizer_text words = { NULL, 0, 0 };
    size_t length;
    int bad = 0;
    for (size_t i = 0; !bad && i < n; i += length) {
        uint32_t c = tk_point(text + i, &length);
        int is_space = words.count && words.at[words.count - 1] == ' ';
        if (c < 128 && c && strchr(punctuation, (int)c)) continue;
        if (!tk_is_blank(c, 1)) bad = tokenizer_text_add(&words, text + i, length);
        else if (!is_space) bad = tk_say(&words, " ");
    }
    const char *at = words.at;
    size_t count = words.count;
    if (!bad) tk_trim(&at, &count, 1, 1, 1);
    if (!bad) bad = tokenizer_text_add(to, at, count);
    tokenizer_text_free(&words);
    return bad ? -1 : 0;
}
/* SigLIP's way with a text before that (SiglipTokenizer of transformers): small letters, plain
   words, "▁" if it is the first. The unknown token stands before it as a text; see
   tk_siglip_encode. */
static int tk_siglip_text(const tokenizer *t, const char *text, size_t n, int first,
                          tokenizer_text *to)
{
    tk_piece p = { text, n, 0 };
    tk_pieces with = { { NULL, 0, 0 }, NULL, 0, 0, 0 };
    tokenizer_text *spaced = &with.text, small = { NULL, 0, 0 };
    int bad = tk_replace(&p, tk_low_bar, " ", &with);
    if (!bad && first) bad = tk_say(&small, tk_low_bar);
    if (!bad && t->keeps_case) bad = tokenizer_text_add(&small, spaced->at, spaced->count);
    else if (!bad) bad = tk_lower(&t->unicode, spaced->at, spaced->count, 1, &small);
    to->count = 0;
    if (!bad) bad = tk_say(to, t->token[t->unknown].text);
    if (!bad) bad = tk_plain_words(small.at, small.count, to);
    tokenizer_text_free(spaced);
    tokenizer_text_free(&small);
    return bad ? -1 : 0;
}
/* OpenCLIP's "canonicalize", which comes before the tokenizer: a space for each "_", small letters,
   plain words. (It also mends wrong encodings and reads entities of HTML, which is not done.) */
static int tk_canonical(const tokenizer *t, const char *text, size_t n, tokenizer_text *to)
{
    tk_piece p = { text, n, 0 };
    tk_pieces with = { { NULL, 0, 0 }, NULL, 0, 0, 0 };
    tokenizer_text *spaced = &with.text, small = { NULL, 0, 0 };
    int bad = tk_replace(&p, "_", " ", &with);
    if (!bad) bad = tk_lower(&t->unicode, spaced->at, spaced->count, 1, &small);
    if (!bad) bad = tk_plain_words(small.at, small.count, to);
    tokenizer_text_free(spaced);
    tokenizer_text_free(&small);
    return bad ? -1 : 0;
}

/* ==== >>bpe ==========================================================================
   byte-pair encoding

   The definition: of all neighbours that may join, the two that come first do (by the list's order
   or the highest score; of equals the leftmost), until there are none. It looks at the whole word
   for each join. Here the pairs wait in a heap. One that a join has changed is recognised when it
   comes up (its two tokens now join to another, or to none), so that a word of n tokens takes
   n log n steps.
   ==================================================================================== */

static int tk_node_add(tk_work *w, size_t begin, size_t end, int32_t id, int fixed)
{
    tk_node *at = (tk_node *)tk_grow(w->node, &w->node_room, w->nodes, w->nodes + 1, sizeof *at);
    if (!at) return -1;
    w->node = at;
    at += w->nodes;
    at->begin = begin;
    at->end = end;
    at->id = id;
    at->fixed = fixed;
    at->before = w->nodes ? w->nodes - 1 : SIZE_MAX;
    at->after = SIZE_MAX;
    if (w->nodes) at[-1].after = w->nodes;
    w->nodes++;
    return 0;
}
/* What a node and the next one join to, or -1; *order: how early. */
static int32_t tk_joined(const tokenizer *t, const tk_work *w, const char *word, size_t at,
                         double *order)
{
    const tk_node *left = &w->node[at];
    if (left->after == SIZE_MAX) return -1;
    const tk_node *right = &w->node[left->after];
    if (left->fixed || right->fixed) return -1;
    if (t->model == TK_BPE_SCORED) {
        int32_t id = tk_table_find(&t->table, word + left->begin, right->end - left->begin);
        if (id >= 0) *order = -t->token[id].score;
        return id;
    }
    if (left->id < 0 || right->id < 0 || !t->merges.places) return -1;
    const tk_merge *m = tk_merge_place(&t->merges, left->id, right->id);
    *order = m->rank;
    return m->joined;
}
static int tk_sooner(const tk_pair *a, const tk_pair *b)
{
    if (a->order < b->order) return 1;
    return !(b->order < a->order) && a->at < b->at;
}
static int tk_pair_push(const tokenizer *t, tk_work *w, const char *word, size_t at)
{
    tk_pair p = { 0, at, -1 };
    size_t i = w->pairs;
    if (at == SIZE_MAX) return 0;
    p.joined = tk_joined(t, w, word, at, &p.order);
    if (p.joined < 0) return 0;
    tk_pair *heap = (tk_pair *)tk_grow(w->pair, &w->pair_room, i, i + 1, sizeof *heap);
    if (!heap) return -1;
    w->pair = heap;
    w->pairs++;
    for (; i && tk_sooner(&p, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = p;
    return 0;
}
static tk_pair tk_pair_pop(tk_work *w)
{
    tk_pair *heap = w->pair;
    tk_pair top = heap[0], last = heap[--w->pairs];
    size_t i = 0;
    for (;;) {
        size_t down = 2 * i + 1;
        if (down + 1 < w->pairs && tk_sooner(&heap[down + 1], &heap[down])) down++;
        if (down >= w->pairs || !tk_sooner(&heap[down], &last)) break;
        heap[i] = heap[down];
        i = down;
    }
    heap[i] = last;
    return top;
}
static int tk_join_all(const tokenizer *t, tk_work *w, const char *word)
{
    double order = 0;
    w->pairs = 0;
    for (size_t i = 0; i + 1 < w->nodes; i++)
        if (tk_pair_push(t, w, word, i)) return -1;
    while (w->pairs) {
        tk_pair p = tk_pair_pop(w);
        tk_node *left = &w->node[p.at];
        if (left->begin == left->end || tk_joined(t, w, word, p.at, &order) != p.joined) continue;
        tk_node *right = &w->node[left->after];
        left->id = p.joined;
        left->end = right->end;
        left->after = right->after;
        right->begin = right->end;               /* none any more */
        if (left->after != SIZE_MAX) w->node[left->after].before = p.at;
        if (tk_pair_push(t, w, word, left->before)) return -1;
        if (tk_pair_push(t, w, word, p.at)) return -1;
    }
    return 0;
}
/* A character that is no word: its bytes, or the unknown token, which may take up the one
   before. */
static int tk_node_unknown(const tokenizer *t, tk_work *w, const char *word, size_t begin,
                           size_t end)
{
    tk_node *last = w->nodes ? &w->node[w->nodes - 1] : NULL;
    if (t->byte_fallback) {
        for (size_t i = begin; i < end; i++)
            if (tk_node_add(w, i, i + 1, t->byte[(unsigned char)word[i]], 0)) return -1;
        return 0;
    }
    if (t->unknown < 0) return 0;
    if (t->fuse_unknown && last && last->id == t->unknown) {
        last->end = end;
        return 0;
    }
    return tk_node_add(w, begin, end, t->unknown, 0);
}
/* The first tokens of a word for ranked pairs: bytes, or characters. */
static int tk_begin_ranked(const tokenizer *t, tk_work *w, const char *word, size_t n)
{
    size_t length = 1;
    for (size_t i = 0; i < n; i += length) {
        if (!t->of_bytes) tk_point(word + i, &length);
        const int32_t *byte = t->mark && i + 1 == n ? t->last : t->byte;
        int32_t id = t->of_bytes ? byte[(unsigned char)word[i]] :
            tk_table_find(&t->table, word + i, length);
        if (id >= 0 ? tk_node_add(w, i, i + length, id, 0) :
            tk_node_unknown(t, w, word, i, i + length)) return -1;
    }
    return 0;
}
/* The same for pairs with scores: characters and user-defined symbols. */
static int tk_begin_scored(const tokenizer *t, tk_work *w, const char *word, size_t n)
{
    size_t length;
    for (size_t i = 0; i < n; i += length) {
        int32_t id = tk_words_longest(&t->user, word + i, n - i, &length);
        int fixed = id >= 0;
        if (!fixed) {
            tk_point(word + i, &length);
            id = tk_table_find(&t->table, word + i, length);
        }
        if (tk_node_add(w, i, i + length, id, fixed)) return -1;
    }
    return 0;
}
/* SentencePiece's way with what is left without a token: bytes, or one unknown token for all that
   stand together. */
static int tk_end_scored(const tokenizer *t, tk_work *w, const char *word, tokenizer_ids *ids)
{
    int32_t last = -1;
    for (size_t i = 0; i < w->nodes; i++) {
        const tk_node *node = &w->node[i];
        int32_t id = node->id;
        if (node->begin == node->end) continue;
        if (id < 0 && t->byte_fallback) {
            for (size_t k = node->begin; k < node->end; k++)
                if (tokenizer_ids_add(ids, t->byte[(unsigned char)word[k]])) return -1;
            last = -1;
            continue;
        }
        if (id < 0) id = t->unknown;
        if (id >= 0 && (id != t->unknown || last != id) && tokenizer_ids_add(ids, id)) return -1;
        last = id;
    }
    return 0;
}
static int tk_bpe(const tokenizer *t, tk_work *w, const char *word, size_t n, tokenizer_ids *ids)
{
    int scored = t->model == TK_BPE_SCORED;
    int32_t whole = t->whole_words ? tk_table_find(&t->table, word, n) : -1;
    if (whole >= 0) return tokenizer_ids_add(ids, whole);
    w->nodes = 0;
    if (scored ? tk_begin_scored(t, w, word, n) : tk_begin_ranked(t, w, word, n)) return -1;
    if (tk_join_all(t, w, word)) return -1;
    if (scored) return tk_end_scored(t, w, word, ids);
    for (size_t i = 0; i < w->nodes; i++)
        if (w->node[i].begin < w->node[i].end && tokenizer_ids_add(ids, w->node[i].id)) return -1;
    return 0;
}

/* ==== >>unigram ======================================================================
   the pieces with the largest sum of scores (Viterbi)

   score[end] = max over words from begin to end of score[begin] + score of the word. A character
   that is no word of its own counts as unknown, with ten less than the lowest score. Hugging Face
   adds doubles, SentencePiece 0.2.3 floats (0.2.0 doubles that it keeps as floats), so that ties
   fall otherwise: of "éééé" with pieces of one, two and three of them the order may differ.
   ==================================================================================== */

static double tk_word_score(const tokenizer *t, int32_t id, size_t n)
{
    if (t->spm && t->token[id].type == TK_USER) return (double)n * t->best - 0.1;
    return t->token[id].score;
}
static void tk_path_try(const tokenizer *t, tk_path *to, size_t from, int32_t id, double score)
{
    if (t->single) score = (double)(float)score;
    if (to->from != SIZE_MAX && !(score > to->score)) return;
    to->from = from;
    to->id = id;
    to->score = score;
}
static int tk_unigram_paths(const tokenizer *t, tk_work *w, const char *word, size_t n)
{
    size_t length;
    double unknown = t->worst - 10;
    if (t->single) unknown = (double)((float)t->worst - 10.0f);
    tk_path *path = (tk_path *)tk_grow(w->path, &w->path_room, 0, n + 1, sizeof *path);
    if (!path) return -1;
    w->path = path;
    for (size_t i = 0; i <= n; i++) {
        path[i].score = 0;
        path[i].from = SIZE_MAX;
        path[i].id = -1;
    }
    for (size_t at = 0; at < n; at += length) {
        size_t low = 0, high = t->words.count;
        int alone = 0;
        tk_point(word + at, &length);
        for (size_t k = 0; at + k < n && low < high; k++) {
            int32_t id = tk_words_narrow(&t->words, &low, &high, k, (unsigned char)word[at + k]);
            if (id < 0) continue;
            tk_path_try(t, &path[at + k + 1], at, id,
                        path[at].score + tk_word_score(t, id, k + 1));
            if (k + 1 == length) alone = 1;
        }
        if (!alone) tk_path_try(t, &path[at + length], at, t->unknown, path[at].score + unknown);
    }
    return 0;
}
static int tk_unigram(const tokenizer *t, tk_work *w, const char *word, size_t n,
                      tokenizer_ids *ids)
{
    if (!n) return 0;
    if (tk_unigram_paths(t, w, word, n)) return -1;
    /* turns the way back, from the end, into a list of places */
    w->nodes = 0;
    for (size_t end = n; end; end = w->path[end].from)
        if (tk_node_add(w, w->path[end].from, end, w->path[end].id, 0)) return -1;
    for (size_t i = w->nodes; i-- > 0;) {
        size_t begin = w->node[i].begin;
        int32_t id = w->node[i].id;
        if (id != t->unknown) {
            if (tokenizer_ids_add(ids, id)) return -1;
            continue;
        }
        while (i && w->node[i - 1].id == t->unknown) i--;
        size_t end = w->node[i].end;
        int32_t whole = tk_table_find(&t->table, word + begin, end - begin);
        if (whole < 0 && !t->byte_fallback) whole = t->unknown;
        if (whole >= 0) {
            if (tokenizer_ids_add(ids, whole)) return -1;
            continue;
        }
        for (size_t k = begin; k < end; k++)
            if (tokenizer_ids_add(ids, t->byte[(unsigned char)word[k]])) return -1;
    }
    return 0;
}

/* ==== >>encode =======================================================================
   from a text to ids
   ==================================================================================== */

static int tk_word_encode(const tokenizer *t, tk_work *w, const char *word, size_t n,
                          tokenizer_ids *ids)
{
    if (t->model == TK_UNIGRAM) return tk_unigram(t, w, word, n, ids);
    return tk_bpe(t, w, word, n, ids);
}
/* A text without tokens in it, normalized: into words, and these into ids. */
static int tk_encode_cut(const tokenizer *t, tk_work *w, tokenizer_ids *ids)
{
    size_t begin = 0;
    if (tk_steps_take(t, &t->cuts, w)) return -1;
    for (size_t i = 0; i < w->from.count; i++) {
        size_t end = w->from.end[i];
        if (tk_word_encode(t, w, w->from.text.at + begin, end - begin, ids)) return -1;
        begin = end;
    }
    return 0;
}

/* A token that was found in a text. */
typedef struct tk_found {
    size_t begin, end;                           /* of it, with the white space that it takes */
    size_t next;                                 /* where the search goes on */
} tk_found;
/* Widens a match by the white space that its token takes. Returns 0 where the token takes some
   before it (lstrip) and the one before, which ends at `from`, took all of it: nothing is left. */
static int tk_added_widen(const tk_added *added, const char *text, size_t n, size_t from,
                          tk_found *f)
{
    size_t length = 0;
    f->end = f->next;
    while (added->left && f->begin > from) {
        size_t before = f->begin - 1;
        while (before > from && tk_is_tail(text[before])) before--;
        if (!tk_is_white(tk_point(text + before, &length))) break;
        f->begin = before;
    }
    while (added->right && f->end < n && tk_is_white(tk_point(text + f->end, &length)))
        f->end += length;
    if (!added->left || f->end > from) return 1;
    f->end = from;
    return 0;
}
/* Finds the next token of a list behind the last one. Returns its place in the list, or -1 with
   begin at the text's end. Like Hugging Face's, the search goes on behind the token itself: a token
   of white space is found even where the one before it took that, but for one with lstrip. */
static int32_t tk_added_next(const tk_added_list *list, const char *text, size_t n, tk_found *f)
{
    size_t length = 0, at = f->next, from = f->end;
    while (at < n) {
        int32_t found = -1;
        if (list->first[(unsigned char)text[at]])
            found = tk_words_longest(&list->words, text + at, n - at, &length);
        if (found < 0) {
            at++;
            continue;
        }
        f->begin = at;
        f->next = at + length;
        if (tk_added_widen(&list->at[found], text, n, from, f)) return found;
        at = f->next;
    }
    f->begin = n;
    return -1;
}
/* Encodes a text that lies in w->from as one piece: tokens that are found after the normalizer,
   and what lies between them. */
static int tk_encode_normal(const tokenizer *t, tk_work *w, int flags, tokenizer_ids *ids)
{
    const tk_added_list *list = &t->added_normal;
    tokenizer_text text = { NULL, 0, 0 };
    tk_found f = { 0, 0, 0 };
    int bad = 0;
    if (tk_steps_take(t, &t->normalizer, w)) return -1;
    if ((flags & TOKENIZER_LITERAL) || !list->count || !w->from.count)
        return tk_encode_cut(t, w, ids);
    size_t head = w->from.head;
    bad = tokenizer_text_add(&text, w->from.text.at, w->from.text.count);
    while (!bad) {
        size_t begin = f.end;
        int32_t found = tk_added_next(list, text.at, text.count, &f);
        size_t n = f.begin > begin ? f.begin - begin : 0;
        bad = tk_pieces_set(&w->from, text.at + begin, n, tk_head_of(head, begin, begin + n));
        if (!bad) bad = tk_encode_cut(t, w, ids);
        if (found < 0 || bad) break;
        bad = tokenizer_ids_add(ids, list->at[found].id);
    }
    tokenizer_text_free(&text);
    return bad;
}
/* Encodes a text of SigLIP's behind the unknown token as a text, and drops the tokens which that
   has alone. So SentencePiece does not take the text for the beginning of one. */
static int tk_siglip_encode(const tokenizer *t, tk_work *w, const char *text, size_t n, int first,
                            tokenizer_ids *ids)
{
    const tk_token *unknown = &t->token[t->unknown];
    tokenizer_ids alone = { NULL, 0, 0 }, all = { NULL, 0, 0 };
    tokenizer_text *normal = &w->from.text;
    int bad = tk_spm_normalize(t, unknown->text, unknown->n, normal)
        || tk_word_encode(t, w, normal->at, normal->count, &alone)
        || tk_siglip_text(t, text, n, first, &w->to.text)
        || tk_spm_normalize(t, w->to.text.at, w->to.text.count, normal)
        || tk_word_encode(t, w, normal->at, normal->count, &all);
    for (size_t i = alone.count; i < all.count && !bad; i++)
        bad = tokenizer_ids_add(ids, all.at[i]);
    tokenizer_ids_free(&alone);
    tokenizer_ids_free(&all);
    return bad ? -1 : 0;
}
static int tk_encode_part(const tokenizer *t, tk_work *w, const char *text, size_t n, int first,
                          int flags, tokenizer_ids *ids)
{
    size_t head;
    if (!n) return 0;
    if (!t->spm) {
        tk_point(text, &head);
        if (tk_pieces_set(&w->from, text, n, first ? head : 0)) return -1;
        return tk_encode_normal(t, w, flags, ids);
    }
    if (t->siglip) return tk_siglip_encode(t, w, text, n, first, ids);
    if (tk_spm_normalize(t, text, n, &w->from.text)) return -1;
    return tk_word_encode(t, w, w->from.text.at, w->from.text.count, ids);
}
static int tk_encode(const tokenizer *t, tk_work *w, int flags, tokenizer_ids *ids)
{
    const char *text = w->valid.at;
    size_t n = w->valid.count;
    tk_found f = { 0, 0, 0 };
    if (flags & TOKENIZER_LITERAL) return tk_encode_part(t, w, text, n, 1, flags, ids);
    for (;;) {
        size_t begin = f.end;
        int32_t found = tk_added_next(&t->added, text, n, &f);
        size_t part = f.begin > begin ? f.begin - begin : 0;
        if (tk_encode_part(t, w, text + begin, part, begin == 0, flags, ids)) return -1;
        if (found < 0) return 0;
        if (tokenizer_ids_add(ids, t->added.at[found].id)) return -1;
    }
}
/* A text in w->valid: U+FFFD for what is broken, in small letters if that is asked for. */
static int tk_valid_text(const tokenizer *t, tk_work *w, const char *text, size_t n, int flags)
{
    int lower = (flags & TOKENIZER_LOWER) && !t->siglip;         /* which has its own way */
    if (!lower && !t->canonical) return tk_add_valid(&w->valid, text, n);
    tokenizer_text valid = { NULL, 0, 0 };
    int bad = tk_add_valid(&valid, text, n);
    if (!bad && t->canonical) bad = tk_canonical(t, valid.at, valid.count, &w->valid);
    else if (!bad) bad = tk_lower(&t->unicode, valid.at, valid.count, 0, &w->valid);
    tokenizer_text_free(&valid);
    return bad;
}
int tokenizer_encode(const tokenizer *t, const char *text, size_t n, int flags, tokenizer_ids *ids)
{
    tk_work w;
    int bad = 0;
    if (!t || (n && !text)) return -1;
    memset(&w, 0, sizeof w);
    for (size_t i = 0; i < t->before.count && (flags & TOKENIZER_BEGIN) && !bad; i++)
        bad = tokenizer_ids_add(ids, t->before.at[i]);
    if (!bad && n) bad = tk_valid_text(t, &w, text, n, flags) || tk_encode(t, &w, flags, ids);
    for (size_t i = 0; i < t->after.count && (flags & TOKENIZER_BEGIN) && !bad; i++)
        bad = tokenizer_ids_add(ids, t->after.at[i]);
    tk_work_free(&w);
    return bad ? -1 : 0;
}

static int tk_ids_append(tokenizer_ids *ids, const int32_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tokenizer_ids_add(ids, from[i])) return -1;
    return 0;
}
int tokenizer_encode_to(const tokenizer *t, const char *text, size_t n, int flags, size_t length,
                        tokenizer_ids *ids)
{
    tokenizer_ids all = { NULL, 0, 0 };
    static const tokenizer_ids none = { NULL, 0, 0 };
    int begins = flags & TOKENIZER_BEGIN;
    if (!t) return -1;
    const tokenizer_ids *before = begins ? &t->before : &none;
    const tokenizer_ids *after = begins ? &t->after : &none;
    size_t around = before->count + after->count;
    if (length < around || tokenizer_encode(t, text, n, flags & ~TOKENIZER_BEGIN, &all)) return -1;
    size_t count = all.count < length - around ? all.count : length - around;
    size_t fill = length - around - count;
    int32_t pad = t->pad >= 0 ? t->pad : t->end;
    int bad = 0;
    if (pad < 0) pad = 0;
    for (size_t i = 0; i < fill && t->pads_left && !bad; i++) bad = tokenizer_ids_add(ids, pad);
    if (!bad) bad = tk_ids_append(ids, before->at, before->count);
    if (!bad) bad = tk_ids_append(ids, all.at, count);
    if (!bad) bad = tk_ids_append(ids, after->at, after->count);
    for (size_t i = 0; i < fill && !t->pads_left && !bad; i++) bad = tokenizer_ids_add(ids, pad);
    tokenizer_ids_free(&all);
    return bad ? -1 : 0;
}

/* ==== >>decode =======================================================================
   from ids to a text
   ==================================================================================== */

size_t tokenizer_count(const tokenizer *t) { return t ? t->count : 0; }
int32_t tokenizer_begin(const tokenizer *t) { return t ? t->begin : -1; }
int32_t tokenizer_end(const tokenizer *t) { return t ? t->end : -1; }
int32_t tokenizer_pad(const tokenizer *t) { return t ? t->pad : -1; }
static const tk_token *tk_token_of(const tokenizer *t, int32_t id)
{
    if (!t || id < 0 || (size_t)id >= t->count || !t->token[id].type) return NULL;
    return &t->token[id];
}
const char *tokenizer_piece(const tokenizer *t, int32_t id, size_t *n)
{
    const tk_token *token = tk_token_of(t, id);
    if (n) *n = token ? token->shown_n : 0;
    return token ? token->shown : "";
}
int tokenizer_is_special(const tokenizer *t, int32_t id)
{
    const tk_token *token = tk_token_of(t, id);
    return token && token->special;
}
int32_t tokenizer_find(const tokenizer *t, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; t && text && i < t->count; i++) {
        const tk_token *token = &t->token[i];
        if (token->type && token->n == n && !memcmp(token->text, text, n)) return (int32_t)i;
    }
    return -1;
}
/* How many of n bytes end with a whole or a broken character: what is left may become one. */
static size_t tk_finished(const char *text, size_t n)
{
    size_t back = n < 3 ? n : 3;
    for (size_t i = n - back; i < n; i++) {
        int whole;
        if (tk_is_tail(text[i])) continue;
        size_t length = tk_character(text + i, n - i, &whole);
        if (!whole && i + length == n && (unsigned char)text[i] >= 0xC2 &&
            (unsigned char)text[i] <= 0xF4) return i;
    }
    return n;
}
int tokenizer_stream_add(const tokenizer *t, tokenizer_stream *s, int32_t id, int flags,
                         tokenizer_text *text)
{
    const tk_token *token = tk_token_of(t, id);
    size_t begin = text->count;
    if (!token || ((flags & TOKENIZER_SAID) && token->special)) return 0;
    if (tokenizer_text_add(text, s->hold, s->held)) return -1;
    /* of the first token's text true spaces stay; it shows others for what is dropped, too */
    const char *drop = s->has_token || token->type == TK_BYTE ? NULL : t->drop_first;
    const char *shown = drop ? token->text : token->shown;
    size_t n = drop ? token->n : token->shown_n;
    s->has_token = 1;
    for (size_t i = 0; i < n; i++) {
        if (drop && tk_begins(shown + i, n - i, drop)) {
            i += strlen(drop) - 1;
            continue;
        }
        if (!s->has_shown && shown[i] == ' ' && s->spaces < t->drop_spaces) {
            s->spaces++;
            continue;
        }
        s->has_shown = 1;
        if (tokenizer_text_add(text, shown + i, 1)) return -1;
    }
    size_t finished = tk_finished(text->at + begin, text->count - begin);
    s->held = text->count - begin - finished;
    memcpy(s->hold, text->at + begin + finished, s->held);
    text->count = begin + finished;
    text->at[text->count] = 0;
    return 0;
}
int tokenizer_stream_end(tokenizer_stream *s, tokenizer_text *text)
{
    int bad = tokenizer_text_add(text, s->hold, s->held);
    memset(s, 0, sizeof *s);
    return bad;
}
int tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, int flags,
                     tokenizer_text *text)
{
    tokenizer_stream s;
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i < count; i++)
        if (tokenizer_stream_add(t, &s, ids[i], flags, text)) return -1;
    return tokenizer_stream_end(&s, text);
}

/* ==== >>json =========================================================================
   a file of JSON as a list of nodes, each with its first child and its next sibling
   ==================================================================================== */

typedef struct tk_json {
    int type;                                    /* one of n t f 0 " [ { */
    const char *key, *text;                      /* ended by 0; of a string, of a number */
    size_t key_n, n;                             /* a string may hold zeroes */
    size_t first, next;                          /* nodes; 0: none */
} tk_json;
typedef struct tk_document {
    tokenizer *t;
    char *bytes, *at;                            /* a copy, in which texts lose their escapes */
    tk_json *node;
    size_t count, room;
} tk_document;

static int tk_json_value(tk_document *d, size_t *node, int depth);

static int tk_json_refuse(tk_document *d, const char *what)
{
    return tk_refuse(d->t, "expected JSON, found %s at byte %.0f", what,
                     (double)(d->at - d->bytes));
}
static void tk_json_space(tk_document *d)
{
    while (*d->at == ' ' || *d->at == '\n' || *d->at == '\r' || *d->at == '\t') d->at++;
}
/* What numbers are written with, the point first: neither nan nor 0x. */
static const char tk_json_digits[] = ".-+eE0123456789";
enum { TK_NUMBER = 63 };                         /* bytes of a number at most */
/* Reads a number, whose point is "." whatever the locale's is. Returns its bytes; 0: there is none,
   or a longer one. */
static size_t tk_json_number(const char *text, double *number)
{
    char copy[2 * TK_NUMBER], *end;
    size_t n = strspn(text, tk_json_digits), whole = strspn(text, tk_json_digits + 1);
    *number = 0;
    if (!n || n > TK_NUMBER) return 0;
    memcpy(copy, text, whole);
    copy[whole] = 0;
    if (whole < n)
        snprintf(copy + whole, sizeof copy - whole, "%s%.*s", localeconv()->decimal_point,
                 (int)(n - whole - 1), text + whole + 1);
    *number = strtod(copy, &end);
    return *end ? 0 : n;
}
/* Four digits behind \u. */
static int tk_json_unit(tk_document *d, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        if (tk_hex(*d->at) < 0) return tk_json_refuse(d, "a wrong \\u");
        *unit = *unit << 4 | (uint32_t)tk_hex(*d->at++);
    }
    return 0;
}
static int tk_json_escape(tk_document *d, char **to)     /* behind the backslash */
{
    static const char from[] = "\"\\/bfnrt", with[] = "\"\\/\b\f\n\r\t";
    uint32_t unit, low = 0;
    char what = *d->at++;
    const char *found = what ? strchr(from, what) : NULL;
    if (found) {
        *(*to)++ = with[found - from];
        return 0;
    }
    if (what != 'u') return tk_json_refuse(d, "an unknown escape");
    if (tk_json_unit(d, &unit)) return -1;
    if (unit >= 0xD800 && unit < 0xDC00 && d->at[0] == '\\' && d->at[1] == 'u') {
        d->at += 2;
        if (tk_json_unit(d, &low)) return -1;
        if (low < 0xDC00 || low > 0xDFFF) return tk_json_refuse(d, "half a surrogate pair");
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    if (unit >= 0xD800 && unit < 0xE000) return tk_json_refuse(d, "half a surrogate pair");
    *to += tk_write(unit, *to);
    return 0;
}
static int tk_json_text(tk_document *d, const char **text, size_t *n)    /* at the quote */
{
    char *to = ++d->at;
    *text = to;
    while (*d->at != '"') {
        if ((unsigned char)*d->at < 0x20) return tk_json_refuse(d, "a control character in a text");
        if (*d->at == '\\') {
            d->at++;
            if (tk_json_escape(d, &to)) return -1;
            continue;
        }
        *to++ = *d->at++;
    }
    d->at++;
    *to = 0;
    *n = (size_t)(to - *text);
    return 0;
}
/* A list or an object, behind its bracket. */
static int tk_json_list(tk_document *d, size_t node, int depth)
{
    int object = d->node[node].type == '{';
    char close = object ? '}' : ']';
    size_t last = 0, child = 0;
    const char *key = "";
    size_t key_n = 0;
    if (depth >= TK_NESTED) return tk_json_refuse(d, "such deep nesting");
    tk_json_space(d);
    if (*d->at == close) {
        d->at++;
        return 0;
    }
    for (;;) {
        tk_json_space(d);
        if (object) {
            if (*d->at != '"') return tk_json_refuse(d, "no name");
            if (tk_json_text(d, &key, &key_n)) return -1;
            tk_json_space(d);
            if (*d->at++ != ':') return tk_json_refuse(d, "no colon");
        }
        if (tk_json_value(d, &child, depth + 1)) return -1;
        d->node[child].key = key;
        d->node[child].key_n = key_n;
        if (last) d->node[last].next = child;
        else d->node[node].first = child;
        last = child;
        tk_json_space(d);
        char c = *d->at++;
        if (c == close) return 0;
        if (c != ',') return tk_json_refuse(d, "neither a comma nor an end");
    }
}
static int tk_json_value(tk_document *d, size_t *node, int depth)
{
    static const char *const word[] = { "null", "true", "false" };
    tk_json *at = (tk_json *)tk_grow(d->node, &d->room, d->count, d->count + 1, sizeof *at);
    if (!at) return tk_no_memory(d->t);
    d->node = at;
    *node = d->count++;
    at += *node;
    memset(at, 0, sizeof *at);
    tk_json_space(d);
    at->type = (unsigned char)*d->at;
    at->text = d->at;
    if (*d->at == '"') return tk_json_text(d, &at->text, &at->n);
    if (*d->at == '{' || *d->at == '[') {
        d->at++;
        return tk_json_list(d, *node, depth);
    }
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(word[i]);
        if (strncmp(d->at, word[i], n)) continue;
        d->at += n;
        return 0;
    }
    double number;
    size_t digits = tk_json_number(d->at, &number);
    if (strspn(d->at, tk_json_digits) > TK_NUMBER)
        return tk_json_refuse(d, "a number of more than 63 bytes");
    if (!digits) return tk_json_refuse(d, *d->at ? "no value" : "the end");
    at->type = '0';
    d->at += digits;
    return 0;
}
static void tk_json_close(tk_document *d)
{
    tk_release(d->bytes);
    tk_release(d->node);
    d->bytes = NULL;
    d->node = NULL;
}
/* Reads a document; its root is node 0. Close it in any case. */
static int tk_json_open(tokenizer *t, tk_document *d, const void *bytes, size_t size)
{
    size_t root;
    memset(d, 0, sizeof *d);
    d->t = t;
    if (!tk_is_valid((const char *)bytes, size)) return tk_refuse(t, "expected UTF-8");
    d->bytes = (char *)TOKENIZER_MALLOC(size + 1);
    if (!d->bytes) return tk_no_memory(t);
    if (size) memcpy(d->bytes, bytes, size);
    d->bytes[size] = 0;
    d->at = d->bytes;
    if (tk_json_value(d, &root, 0)) return -1;
    tk_json_space(d);
    if (d->at != d->bytes + size) return tk_json_refuse(d, "more behind the end");
    return 0;
}
/* The value of a key, the last one where it stands twice; NULL if there is none or it is null. */
static const tk_json *tk_get(const tk_document *d, const tk_json *object, const char *key)
{
    size_t i = object && object->type == '{' ? object->first : 0;
    const tk_json *found = NULL;
    for (; i; i = d->node[i].next)
        if (!strcmp(d->node[i].key, key)) found = &d->node[i];
    return found && found->type != 'n' ? found : NULL;
}
static const tk_json *tk_first(const tk_document *d, const tk_json *list)
{
    return list && list->first ? &d->node[list->first] : NULL;
}
static const tk_json *tk_next(const tk_document *d, const tk_json *item)
{
    return item->next ? &d->node[item->next] : NULL;
}
/* The text of a key, `other` if there is none. */
static const char *tk_get_text(const tk_document *d, const tk_json *object, const char *key,
                               const char *other)
{
    const tk_json *value = tk_get(d, object, key);
    return value && value->type == '"' ? value->text : other;
}
static int tk_get_flag(const tk_document *d, const tk_json *object, const char *key, int other)
{
    const tk_json *value = tk_get(d, object, key);
    if (value && value->type == 't') return 1;
    return value && value->type == 'f' ? 0 : other;
}
/* A whole number from 0 on, or -1. */
static int32_t tk_json_id(const tk_json *value)
{
    double number = -1;
    if (value && value->type == '0') tk_json_number(value->text, &number);
    return number >= 0 && number < 1 << 28 && floor(number) == number ? (int32_t)number : -1;
}

/* ==== >>tokenizer.json ===============================================================
   Hugging Face's file
   ==================================================================================== */

static const char tk_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static tk_step *tk_step_add(tokenizer *t, tk_steps *steps, int what)
{
    tk_step *at = (tk_step *)tk_grow(steps->at, &steps->room, steps->count, steps->count + 1,
                                     sizeof *at);
    if (!at) {
        tk_no_memory(t);
        return NULL;
    }
    steps->at = at;
    at += steps->count++;
    memset(at, 0, sizeof *at);
    at->what = what;
    return at;
}
/* A step before the others of the normalizer. */
static int tk_steps_begin(tokenizer *t, int what)
{
    tk_steps *steps = &t->normalizer;
    if (!tk_step_add(t, steps, what)) return -1;
    tk_step step = steps->at[steps->count - 1];
    memmove(steps->at + 1, steps->at, (steps->count - 1) * sizeof step);
    steps->at[0] = step;
    return 0;
}
static int tk_split_add(tokenizer *t, const char *pattern, int itself, int behaviour)
{
    tk_step *step = tk_step_add(t, &t->cuts, TK_SPLIT);
    if (!step) return -1;
    step->behaviour = behaviour;
    return tk_regex_compile(t, &step->regex, pattern, itself);
}

/* The value of a digit of base 64, -1 for another character. */
static int tk_base64(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}
/* A map of characters, in base 64. */
static int tk_json_map(tokenizer *t, tk_step *step, const tk_json *text)
{
    tokenizer_text bytes = { NULL, 0, 0 };
    uint32_t bits = 0;
    int count = 0, bad = 0;
    for (size_t i = 0; i < text->n && text->text[i] != '=' && !bad; i++) {
        int digit = tk_base64(text->text[i]);
        if (digit < 0) bad = tk_refuse(t, "expected base 64 as precompiled_charsmap");
        bits = bits << 6 | (uint32_t)(digit & 63);
        count += 6;
        if (count < 8 || bad) continue;
        count -= 8;
        char byte = (char)(bits >> count & 0xFF);
        bad = tokenizer_text_add(&bytes, &byte, 1) ? tk_no_memory(t) : 0;
    }
    if (!bad) bad = tk_map_read(t, &step->map, bytes.at ? bytes.at : "", bytes.count);
    tokenizer_text_free(&bytes);
    return bad;
}
/* Normalizers that are a step of their own. 1: it is none of them. */
static int tk_json_normalizer_step(tokenizer *t, const tk_document *d, const tk_json *n)
{
    const char *type = tk_get_text(d, n, "type", "");
    const char *regex = tk_get_text(d, tk_get(d, n, "pattern"), "Regex", NULL);
    const char *to = tk_get_text(d, n, "content", NULL);
    const tk_json *map = tk_get(d, n, "precompiled_charsmap");
    int what = -1;
    if (!strcmp(type, "NFC")) what = TK_NFC;
    if (!strcmp(type, "Lowercase")) what = TK_LOWER;
    if (!strcmp(type, "Strip")) what = TK_STRIP;
    if (!strcmp(type, "Replace") && regex && to) what = TK_EXCHANGE;
    if (!strcmp(type, "Precompiled") && map && map->type == '"') what = TK_MAP;
    if (what < 0) return 1;
    if (what == TK_MAP && !map->n) return 0;     /* none */
    tk_step *step = tk_step_add(t, &t->normalizer, what);
    if (!step) return -1;
    if (what == TK_NFC) return tk_nfc_read(t);
    step->left = tk_get_flag(d, n, "strip_left", 1);
    step->right = tk_get_flag(d, n, "strip_right", 1);
    if (what == TK_MAP) return tk_json_map(t, step, map);
    if (what != TK_EXCHANGE) return 0;
    step->to = tk_keep(t, to, strlen(to));
    if (!step->to) return -1;
    return tk_regex_compile(t, &step->regex, regex, 0);
}
static int tk_json_normalizer(tokenizer *t, const tk_document *d, const tk_json *n, int depth)
{
    const char *type = tk_get_text(d, n, "type", "");
    if (!n) return 0;
    if (!strcmp(type, "Sequence") && depth < 4) {
        const tk_json *item = tk_first(d, tk_get(d, n, "normalizers"));
        for (; item; item = tk_next(d, item))
            if (tk_json_normalizer(t, d, item, depth + 1)) return -1;
        return 0;
    }
    int taken = tk_json_normalizer_step(t, d, n);
    if (taken <= 0) return taken;
    const char *from = tk_get_text(d, tk_get(d, n, "pattern"), "String", NULL);
    const char *to = tk_get_text(d, n, "prepend", NULL);
    int what = TK_PREPEND;
    if (!strcmp(type, "Replace") && from && *from) {
        what = TK_REPLACE;
        to = tk_get_text(d, n, "content", NULL);
    } else if (strcmp(type, "Prepend")) to = NULL;
    if (!to) return tk_refuse(t, "the normalizer \"%.40s\" is not done (Lowercase, NFC, "
                              "Precompiled, Prepend, Replace, Strip are)", type);
    tk_step *step = tk_step_add(t, &t->normalizer, what);
    if (!step) return -1;
    step->to = tk_keep(t, to, strlen(to));
    step->from = from ? tk_keep(t, from, strlen(from)) : "";
    return step->to && step->from ? 0 : -1;
}

static int tk_json_split(tokenizer *t, const tk_document *d, const tk_json *n)
{
    static const char *const name[] = { "Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext" };
    const tk_json *pattern = tk_get(d, n, "pattern");
    const char *regex = tk_get_text(d, pattern, "Regex", NULL);
    const char *text = tk_get_text(d, pattern, "String", NULL);
    const char *behaviour = tk_get_text(d, n, "behavior", "");
    int i = 0;
    while (i < 5 && strcmp(behaviour, name[i])) i++;
    if (i == 5) return tk_refuse(t, "the behavior \"%.40s\" of Split is not done", behaviour);
    if (!regex && !text) return tk_refuse(t, "expected a Regex or a String as Split's pattern");
    if (tk_split_add(t, regex ? regex : text, !regex, i)) return -1;
    t->cuts.at[t->cuts.count - 1].inverted = tk_get_flag(d, n, "invert", 0);
    return 0;
}
static int tk_json_metaspace(tokenizer *t, const tk_document *d, const tk_json *n)
{
    const char *to = tk_get_text(d, n, "replacement", tk_low_bar);
    const char *scheme = tk_get_text(d, n, "prepend_scheme",
                                     tk_get_flag(d, n, "add_prefix_space", 1) ? "always" : "never");
    tk_step *step = tk_step_add(t, &t->cuts, TK_METASPACE);
    if (!step) return -1;
    step->to = tk_keep(t, to, strlen(to));
    if (!step->to) return -1;
    step->prepend = TK_ALWAYS;
    if (!strcmp(scheme, "first")) step->prepend = TK_FIRST;
    if (!strcmp(scheme, "never")) step->prepend = TK_NEVER;
    return tk_get_flag(d, n, "split", 1) ? tk_split_add(t, step->to, 1, TK_WITH_NEXT) : 0;
}
static int tk_json_cuts(tokenizer *t, const tk_document *d, const tk_json *n, int depth)
{
    const char *type = tk_get_text(d, n, "type", "");
    if (!n) return 0;
    if (t->of_bytes) return tk_refuse(t, "the pre_tokenizer \"%.40s\" behind ByteLevel is not done",
                                      type);
    if (!strcmp(type, "Sequence") && depth < 4) {
        const tk_json *item = tk_first(d, tk_get(d, n, "pretokenizers"));
        for (; item; item = tk_next(d, item))
            if (tk_json_cuts(t, d, item, depth + 1)) return -1;
        return 0;
    }
    if (!strcmp(type, "Split")) return tk_json_split(t, d, n);
    if (!strcmp(type, "Metaspace")) return tk_json_metaspace(t, d, n);
    if (!strcmp(type, "Digits")) {
        int each = tk_get_flag(d, n, "individual_digits", 0);
        return tk_split_add(t, "\\p{N}", 0, each ? TK_ISOLATED : TK_CONTIGUOUS);
    }
    if (!strcmp(type, "WhitespaceSplit")) return tk_split_add(t, "\\s", 0, TK_REMOVED);
    if (strcmp(type, "ByteLevel"))
        return tk_refuse(t, "the pre_tokenizer \"%.40s\" is not done (ByteLevel, Digits, "
                         "Metaspace, Sequence, Split, WhitespaceSplit are)", type);
    t->of_bytes = 1;
    if (tk_get_flag(d, n, "add_prefix_space", 1) && !tk_step_add(t, &t->cuts, TK_PREFIX)) return -1;
    if (!tk_get_flag(d, n, "use_regex", 1)) return 0;
    return tk_split_add(t, tk_gpt2_pattern, 0, TK_ISOLATED);
}

/* ---- the model ---- */

/* The byte that a character of GPT-2's alphabet stands for, or -1: printable ones for themselves,
   the others are numbered from 256 on. */
static int tk_byte_of(uint32_t c)
{
    int printable = (c > 32 && c < 127) || (c > 160 && c < 256 && c != 173);
    if (printable) return (int)c;
    if (c < 256 || c >= 256 + 68) return -1;
    c -= 256;
    if (c <= 32) return (int)c;
    if (c == 33) return 127;
    return c == 67 ? 173 : (int)c + 94;
}
/* Appends the bytes of a text in that alphabet; 0: it has other characters. */
static int tk_unmap(const char *text, size_t n, char *to, size_t *bytes)
{
    size_t length;
    *bytes = 0;
    for (size_t i = 0; i < n; i += length) {
        int byte = tk_byte_of(tk_point(text + i, &length));
        if (byte < 0) return 0;
        to[(*bytes)++] = (char)byte;
    }
    return 1;
}
/* Token `id`, a text of the vocabulary; `entries` says how large ids may be. */
static tk_token *tk_token_set(tokenizer *t, int32_t id, size_t entries, const char *text, size_t n,
                              int type)
{
    if (id < 0 || (size_t)id > 8 * entries + 4096) {
        tk_refuse(t, "expected ids from 0 on without large gaps, found %.0f", (double)id);
        return NULL;
    }
    size_t need = (size_t)id + 1 > entries ? (size_t)id + 1 : entries;
    tk_token *at = (tk_token *)tk_grow(t->token, &t->token_room, t->count, need, sizeof *at);
    if (!at) {
        tk_no_memory(t);
        return NULL;
    }
    t->token = at;
    for (; t->count <= (size_t)id; t->count++) memset(at + t->count, 0, sizeof *at);
    tk_token *token = &t->token[id];
    char *own = tk_keep(t, text, n);
    if (!own) return NULL;
    token->text = own;
    token->n = n;
    token->shown = own;
    token->shown_n = n;
    token->type = type;
    return token;
}
/* Of a model of bytes: what stands behind the characters. Tokens with other characters are no
   words. */
static int tk_token_bytes(tokenizer *t, tk_token *token, int *word)
{
    *word = 1;
    if (!t->of_bytes) return 0;
    char *bytes = tk_keep(t, token->text, token->n);
    if (!bytes) return -1;
    *word = tk_unmap(token->text, token->n, bytes, &token->shown_n);
    if (*word) {
        bytes[token->shown_n] = 0;
        token->shown = bytes;
    } else token->shown_n = token->n;
    return 0;
}
static int tk_merge_add(tokenizer *t, size_t rank, const char *left, size_t left_n,
                        const char *right, size_t right_n, tokenizer_text *room)
{
    size_t first = left_n, second = right_n;
    room->count = 0;
    if (tokenizer_text_add(room, left, left_n) || tokenizer_text_add(room, right, right_n))
        return tk_no_memory(t);
    int good = 1;
    if (t->of_bytes) {
        good = tk_unmap(left, left_n, room->at, &first);
        good = good && tk_unmap(right, right_n, room->at + first, &second);
    }
    int32_t a = good ? tk_table_find(&t->table, room->at, first) : -1;
    int32_t b = good ? tk_table_find(&t->table, room->at + first, second) : -1;
    int32_t joined = good ? tk_table_find(&t->table, room->at, first + second) : -1;
    if (a < 0 || b < 0 || joined < 0)
        return tk_refuse(t, "merge %.0f (\"%.*s\" \"%.*s\"): expected words of the vocabulary",
                         (double)rank, left_n < 40 ? (int)left_n : 40, left,
                         right_n < 40 ? (int)right_n : 40, right);
    tk_merge *m = tk_merge_place(&t->merges, a, b);
    m->left = a;
    m->right = b;
    m->joined = joined;
    m->rank = (int32_t)rank;
    return 0;
}
/* "left right" as one text. */
static int tk_merge_add_pair(tokenizer *t, size_t rank, const char *text, size_t n,
                             tokenizer_text *room)
{
    const char *space = n ? (const char *)memchr(text, ' ', n) : NULL;
    if (!space) return tk_refuse(t, "merge %.0f: expected two words and a space", (double)rank);
    size_t left = (size_t)(space - text);
    return tk_merge_add(t, rank, text, left, space + 1, n - left - 1, room);
}
static size_t tk_json_count(const tk_document *d, const tk_json *list)
{
    size_t n = 0;
    for (const tk_json *item = tk_first(d, list); item; item = tk_next(d, item)) n++;
    return n;
}
static int tk_json_merges(tokenizer *t, const tk_document *d, const tk_json *list,
                          tokenizer_text *room)
{
    size_t rank = 0;
    if (tk_merges_open(t, tk_json_count(d, list))) return -1;
    for (const tk_json *item = tk_first(d, list); item; item = tk_next(d, item), rank++) {
        const tk_json *left = item->type == '[' ? tk_first(d, item) : NULL;
        const tk_json *right = left ? tk_next(d, left) : NULL;
        int bad;
        if (left && right && left->type == '"' && right->type == '"')
            bad = tk_merge_add(t, rank, left->text, left->n, right->text, right->n, room);
        else if (item->type == '"') bad = tk_merge_add_pair(t, rank, item->text, item->n, room);
        else bad = tk_refuse(t, "merge %.0f: expected two words", (double)rank);
        if (bad) return -1;
    }
    return 0;
}
/* Finds the token of each byte: a word of it alone, or one named "<0x0A>". All 256 are needed
   where characters fall back to bytes. Where a word's last byte has a mark it is another token. */
static int tk_bytes_find(tokenizer *t)
{
    char name[8], marked[16];
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        int n = snprintf(marked, sizeof marked, "x%s", t->mark ? t->mark : "");
        marked[0] = byte;
        t->last[i] = tk_table_find(&t->table, marked, (size_t)n);
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        t->byte[i] = t->of_bytes ? tk_table_find(&t->table, &byte, 1) :
            tk_table_find(&t->table, name, 6);
        if (t->byte_fallback && t->byte[i] < 0)
            return tk_refuse(t, "byte_fallback without the token %s is not done", name);
    }
    return 0;
}
/* Adds a word of an object. Where its name stands there twice the token before is none any more. */
static void tk_json_word(tokenizer *t, int32_t id)
{
    const tk_token *token = &t->token[id];
    const tk_word *w = tk_table_place(&t->table, token->shown, token->shown_n);
    if (w->text && w->value != id && t->token[w->value].shown == w->text)
        t->token[w->value].type = 0;
    tk_table_set(&t->table, token->shown, token->shown_n, id);
}
static int tk_json_bpe(tokenizer *t, const tk_document *d, const tk_json *model,
                       tokenizer_text *room)
{
    const char *mark = tk_get_text(d, model, "end_of_word_suffix", "");
    const tk_json *vocabulary = tk_get(d, model, "vocab"), *dropout = tk_get(d, model, "dropout");
    const char *unknown = tk_get_text(d, model, "unk_token", NULL);
    size_t entries = tk_json_count(d, vocabulary);
    if (*tk_get_text(d, model, "continuing_subword_prefix", ""))
        return tk_refuse(t, "a continuing_subword_prefix in a BPE model is not done");
    if (*mark && (strcmp(mark, "</w>") || !t->of_bytes))
        return tk_refuse(t, "the end_of_word_suffix \"%.40s\" is not done (\"</w>\" of a ByteLevel "
                         "model is)", mark);
    if (*mark) t->mark = "</w>";
    double dropped = 0;
    if (dropout) tk_json_number(dropout->text, &dropped);
    if (dropped != 0) return tk_refuse(t, "dropout is not done");
    if (!entries || vocabulary->type != '{') return tk_refuse(t, "expected a vocab, found none");
    t->model = TK_BPE_RANKED;
    t->byte_fallback = tk_get_flag(d, model, "byte_fallback", 0);
    t->fuse_unknown = tk_get_flag(d, model, "fuse_unk", 0);
    t->whole_words = tk_get_flag(d, model, "ignore_merges", 0);
    if (t->byte_fallback && t->of_bytes)
        return tk_refuse(t, "byte_fallback of a ByteLevel model is not done");
    if (tk_table_open(t, &t->table, entries)) return -1;
    for (const tk_json *item = tk_first(d, vocabulary); item; item = tk_next(d, item)) {
        int word;
        int32_t id = tk_json_id(item);
        tk_token *token = tk_token_set(t, id, entries, item->key, item->key_n, TK_NORMAL);
        if (!token || tk_token_bytes(t, token, &word)) return -1;
        if (word) tk_json_word(t, id);
    }
    if (unknown) {
        t->unknown = tokenizer_find(t, unknown);
        if (t->unknown < 0) return tk_refuse(t, "unk_token \"%.40s\" is not in the vocab", unknown);
        t->token[t->unknown].type = TK_UNKNOWN;
    }
    if (tk_bytes_find(t)) return -1;
    return tk_json_merges(t, d, tk_get(d, model, "merges"), room);
}
static int tk_json_unigram(tokenizer *t, const tk_document *d, const tk_json *model)
{
    const tk_json *vocabulary = tk_get(d, model, "vocab");
    size_t entries = tk_json_count(d, vocabulary);
    int32_t id = 0;
    if (t->of_bytes) return tk_refuse(t, "ByteLevel before a Unigram model is not done");
    if (!entries) return tk_refuse(t, "expected a vocab, found none");
    t->model = TK_UNIGRAM;
    t->worst = DBL_MAX;
    t->byte_fallback = tk_get_flag(d, model, "byte_fallback", 0);
    t->unknown = tk_json_id(tk_get(d, model, "unk_id"));
    if (t->unknown < 0 || (size_t)t->unknown >= entries)
        return tk_refuse(t, "expected a Unigram model's unk_id below %.0f", (double)entries);
    if (tk_table_open(t, &t->table, entries)) return -1;
    for (const tk_json *item = tk_first(d, vocabulary); item; item = tk_next(d, item), id++) {
        const tk_json *text = tk_first(d, item), *score = text ? tk_next(d, text) : NULL;
        if (!score || text->type != '"' || score->type != '0')
            return tk_refuse(t, "token %.0f: expected a text and a score", (double)id);
        tk_token *token = tk_token_set(t, id, entries, text->text, text->n, TK_NORMAL);
        if (!token) return -1;
        tk_json_number(score->text, &token->score);
        if (!(fabs(token->score) <= DBL_MAX))
            return tk_refuse(t, "token %.0f: expected a finite score", (double)id);
        if (token->score < t->worst) t->worst = token->score;
        tk_table_set(&t->table, token->text, token->n, id);
    }
    for (size_t i = 0; i < t->table.places; i++) {
        const tk_word *w = &t->table.place[i];
        if (w->n && tk_words_add(t, &t->words, w->text, w->n, w->value)) return -1;
    }
    tk_words_sort(&t->words);
    return tk_bytes_find(t);
}

/* ---- added tokens, template, decoder ---- */

static int tk_added_add(tokenizer *t, tk_added_list *list, const char *text, size_t n, int32_t id)
{
    tk_added *at = (tk_added *)tk_grow(list->at, &list->room, list->count, list->count + 1,
                                       sizeof *at);
    if (!at) return tk_no_memory(t);
    list->at = at;
    at += list->count;
    memset(at, 0, sizeof *at);
    at->text = text;
    at->n = n;
    at->id = id;
    list->first[(unsigned char)text[0]] = 1;
    return tk_words_add(t, &list->words, text, n, (int32_t)list->count++);
}
/* `entries`: of the vocabulary and all added tokens. */
static int tk_json_added(tokenizer *t, const tk_document *d, const tk_json *item, size_t entries,
                         tk_work *w)
{
    int32_t id = tk_json_id(tk_get(d, item, "id"));
    const tk_json *content = tk_get(d, item, "content");
    int special = tk_get_flag(d, item, "special", 0);
    int normal = tk_get_flag(d, item, "normalized", !special);
    int word = 1;
    if (!content || content->type != '"' || !content->n)
        return tk_refuse(t, "added token %.0f: expected its content", (double)id);
    if (tk_get_flag(d, item, "single_word", 0))
        return tk_refuse(t, "single_word of the added token \"%.60s\" is not done", content->text);
    tk_token *token = tk_token_set(t, id, entries, content->text, content->n,
                                   special ? TK_CONTROL : TK_USER);
    if (!token || tk_token_bytes(t, token, &word)) return -1;
    token->special = special;
    tk_added_list *list = normal ? &t->added_normal : &t->added;
    const char *text = token->text;
    size_t n = token->n;
    if (normal && t->normalizer.count) {
        if (tk_pieces_set(&w->from, text, n, 0)) return tk_no_memory(t);
        if (tk_steps_take(t, &t->normalizer, w)) return tk_no_memory(t);
        n = w->from.text.count;
        text = tk_keep(t, w->from.text.at, n);
        if (!text) return -1;
    }
    if (!n) return 0;
    if (tk_added_add(t, list, text, n, id)) return -1;
    list->at[list->count - 1].left = tk_get_flag(d, item, "lstrip", 0);
    list->at[list->count - 1].right = tk_get_flag(d, item, "rstrip", 0);
    return 0;
}
/* What a template puts before and behind a text. */
static int tk_json_template(tokenizer *t, const tk_document *d, const tk_json *processor)
{
    tokenizer_ids *to = &t->before;
    const tk_json *item = tk_first(d, tk_get(d, processor, "single"));
    for (; item; item = tk_next(d, item)) {
        const tk_json *special = tk_get(d, item, "SpecialToken");
        if (!special) {
            to = &t->after;
            continue;
        }
        const tk_json *known = tk_get(d, tk_get(d, processor, "special_tokens"),
                                      tk_get_text(d, special, "id", ""));
        const tk_json *id = tk_first(d, tk_get(d, known, "ids"));
        if (!id) return tk_refuse(t, "a special token of the template has no ids");
        for (; id; id = tk_next(d, id)) {
            int32_t number = tk_json_id(id);
            if (number < 0 || (size_t)number >= t->count)
                return tk_refuse(t, "a special token of the template has no token's id");
            if (tokenizer_ids_add(to, number)) return tk_no_memory(t);
        }
    }
    if (t->before.count) t->begin = t->before.at[0];
    return 0;
}
/* "cls" before a text and "sep" behind it, each a text and an id. */
static int tk_json_roberta(tokenizer *t, const tk_document *d, const tk_json *processor)
{
    static const char *const name[] = { "cls", "sep" };
    tokenizer_ids *const to[] = { &t->before, &t->after };
    for (int i = 0; i < 2; i++) {
        const tk_json *text = tk_first(d, tk_get(d, processor, name[i]));
        int32_t id = tk_json_id(text ? tk_next(d, text) : NULL);
        if (id < 0 || (size_t)id >= t->count)
            return tk_refuse(t, "expected a token's id as %s of RobertaProcessing", name[i]);
        if (tokenizer_ids_add(to[i], id)) return tk_no_memory(t);
    }
    t->begin = t->before.at[0];
    t->end = t->after.at[0];
    return 0;
}
static int tk_json_processor(tokenizer *t, const tk_document *d, const tk_json *processor,
                             int depth)
{
    const char *type = tk_get_text(d, processor, "type", "");
    if (!processor || !strcmp(type, "ByteLevel")) return 0;      /* that changes offsets, no ids */
    if (!strcmp(type, "TemplateProcessing")) return tk_json_template(t, d, processor);
    if (!strcmp(type, "RobertaProcessing")) return tk_json_roberta(t, d, processor);
    if (strcmp(type, "Sequence") || depth > 3)
        return tk_refuse(t, "the post_processor \"%.40s\" is not done (ByteLevel, "
                         "RobertaProcessing, Sequence, TemplateProcessing are)", type);
    const tk_json *item = tk_first(d, tk_get(d, processor, "processors"));
    for (; item; item = tk_next(d, item))
        if (tk_json_processor(t, d, item, depth + 1)) return -1;
    return 0;
}

/* Makes what a token shows of its text: a space for each `bar`, a byte for "<0x0A>", which is one
   of TK_BYTE. */
static int tk_token_show(tokenizer *t, tk_token *token, const char *bar, int bytes)
{
    size_t n = 0, length = strlen(bar);
    if (bytes && token->n == 6 && !memcmp(token->text, "<0x", 3) && token->text[5] == '>' &&
        tk_hex(token->text[3]) >= 0 && tk_hex(token->text[4]) >= 0) {
        char byte = (char)(tk_hex(token->text[3]) * 16 + tk_hex(token->text[4]));
        token->shown = tk_keep(t, &byte, 1);
        token->shown_n = 1;
        token->type = TK_BYTE;
        return token->shown ? 0 : -1;
    }
    char *to = tk_keep(t, token->text, token->n);
    if (!to) return -1;
    for (size_t i = 0; i < token->n;) {
        if (length && tk_begins(token->text + i, token->n - i, bar)) {
            to[n++] = ' ';
            i += length;
        } else to[n++] = token->text[i++];
    }
    to[n] = 0;
    token->shown = to;
    token->shown_n = n;
    return 0;
}
/* One decoder of a sequence: what it says of `bar`, bytes and spaces at the beginning. */
static int tk_json_decoder_part(tokenizer *t, const tk_document *d, const tk_json *decoder,
                                const char **bar, int *bytes)
{
    const char *type = tk_get_text(d, decoder, "type", "");
    if (!strcmp(type, "Fuse")) return 0;
    if (!strcmp(type, "ByteFallback")) {
        *bytes = 1;
        return 0;
    }
    if (!strcmp(type, "Replace")) {
        const char *from = tk_get_text(d, tk_get(d, decoder, "pattern"), "String", "");
        if (**bar || !*from || strcmp(tk_get_text(d, decoder, "content", ""), " "))
            return tk_refuse(t, "a decoder Replace of other things than one text by a space is not "
                             "done");
        *bar = from;
        return 0;
    }
    if (!strcmp(type, "Strip") && !strcmp(tk_get_text(d, decoder, "content", ""), " ") &&
        tk_json_id(tk_get(d, decoder, "stop")) == 0) {
        t->drop_spaces = tk_json_id(tk_get(d, decoder, "start"));
        return t->drop_spaces < 0 ? tk_refuse(t, "expected a start of the decoder Strip") : 0;
    }
    if (!strcmp(type, "Metaspace")) {
        if (**bar) return tk_refuse(t, "a decoder Metaspace behind a Replace is not done");
        *bar = tk_get_text(d, decoder, "replacement", tk_low_bar);
        int never = !strcmp(tk_get_text(d, decoder, "prepend_scheme", ""), "never");
        if (never || !**bar || !tk_get_flag(d, decoder, "add_prefix_space", 1)) return 0;
        t->drop_first = tk_keep(t, *bar, strlen(*bar));
        return t->drop_first ? 0 : -1;
    }
    return tk_refuse(t, "the decoder \"%.40s\" is not done (ByteFallback, ByteLevel, Fuse, "
                     "Metaspace, Replace, Sequence, Strip of spaces are)", type);
}
/* A space for the mark that ends a word. */
static int tk_show_marks(tokenizer *t)
{
    size_t n = t->mark ? strlen(t->mark) : 0;
    for (size_t i = 0; i < t->count && n; i++) {
        tk_token *token = &t->token[i];
        size_t rest = token->shown_n - n;
        if (!token->type || token->shown_n <= n) continue;
        if (memcmp(token->shown + rest, t->mark, n)) continue;
        char *own = tk_keep(t, token->shown, rest + 1);
        if (!own) return -1;
        own[rest] = ' ';
        own[rest + 1] = 0;
        token->shown = own;
        token->shown_n = rest + 1;
    }
    return 0;
}
static int tk_json_decoder(tokenizer *t, const tk_document *d, const tk_json *decoder)
{
    const char *type = tk_get_text(d, decoder, "type", "none"), *bar = "";
    int bytes = 0, sequence = !strcmp(type, "Sequence"), of_bytes = !strcmp(type, "ByteLevel");
    if (of_bytes != t->of_bytes)
        return tk_refuse(t, "the decoder \"%.40s\" %s the pre_tokenizer ByteLevel is not done",
                         type, t->of_bytes ? "of" : "without");
    if (t->of_bytes) return tk_show_marks(t);
    const tk_json *item = sequence ? tk_first(d, tk_get(d, decoder, "decoders")) : decoder;
    for (; item; item = sequence ? tk_next(d, item) : NULL)
        if (tk_json_decoder_part(t, d, item, &bar, &bytes)) return -1;
    if (!decoder) return tk_refuse(t, "expected a decoder, found none");
    for (size_t i = 0; i < t->count; i++)
        if (t->token[i].type && tk_token_show(t, &t->token[i], bar, bytes)) return -1;
    return 0;
}

static int tk_json_tokenizer(tokenizer *t, const tk_document *d, tk_work *w)
{
    const tk_json *root = &d->node[0], *model = tk_get(d, root, "model");
    const char *type = tk_get_text(d, model, "type", "");
    int bad;
    if (!model) return tk_refuse(t, "expected a tokenizer.json, found JSON without a model");
    if (tk_json_normalizer(t, d, tk_get(d, root, "normalizer"), 0)) return -1;
    if (tk_json_cuts(t, d, tk_get(d, root, "pre_tokenizer"), 0)) return -1;
    if (!strcmp(type, "BPE") || (!*type && tk_get(d, model, "merges")))
        bad = tk_json_bpe(t, d, model, &w->valid);
    else if (!strcmp(type, "Unigram")) bad = tk_json_unigram(t, d, model);
    else bad = tk_refuse(t, "the model \"%.40s\" is not done (BPE, Unigram are)", type);
    if (bad) return -1;
    const tk_json *added = tk_get(d, root, "added_tokens");
    size_t entries = t->count + tk_json_count(d, added);
    for (const tk_json *item = tk_first(d, added); item; item = tk_next(d, item))
        if (tk_json_added(t, d, item, entries, w)) return -1;
    tk_words_sort(&t->added.words);
    tk_words_sort(&t->added_normal.words);
    if (tk_json_processor(t, d, tk_get(d, root, "post_processor"), 0)) return -1;
    t->pad = tk_json_id(tk_get(d, tk_get(d, root, "padding"), "pad_id"));
    if (t->pad >= 0 && (size_t)t->pad >= t->count)
        return tk_refuse(t, "expected a token's id as pad_id of padding");
    return tk_json_decoder(t, d, tk_get(d, root, "decoder"));
}
static int tk_read_json(tokenizer *t, const void *bytes, size_t size)
{
    tk_document d;
    tk_work w;
    memset(&w, 0, sizeof w);
    int bad = tk_json_open(t, &d, bytes, size) || tk_json_tokenizer(t, &d, &w);
    tk_work_free(&w);
    tk_json_close(&d);
    return bad;
}

/* ==== >>gguf =========================================================================
   the values tokenizer.ggml.* of a GGUF
   ==================================================================================== */

/* What is left of the file. A read beyond its end gives 0, and sets `cut`. */
typedef struct tk_bytes {
    const unsigned char *at, *end;
    int cut;
} tk_bytes;
typedef struct tk_list {                         /* a list of a GGUF, or none (count 0) */
    tk_bytes items;
    uint64_t type, count;
} tk_list;
enum { TK_GGUF_I32 = 5, TK_GGUF_F32 = 6, TK_GGUF_TEXT = 8, TK_GGUF_LIST = 9, TK_GGUF_TYPES = 13 };
typedef struct tk_gguf {
    tk_list tokens, types, scores, merges;
    const char *model, *pre, *chat;              /* texts, not ended by 0 */
    size_t model_n, pre_n, chat_n;
    int32_t begin, end, unknown;                 /* -1: not in the file */
    int add_begin, add_end, add_space, squeeze;
} tk_gguf;

static uint64_t tk_number(tk_bytes *b, size_t bytes)     /* little-endian */
{
    uint64_t n = 0;
    if ((size_t)(b->end - b->at) < bytes) b->cut = 1;
    if (b->cut) return 0;
    for (size_t i = 0; i < bytes; i++) n |= (uint64_t)b->at[i] << 8 * i;
    b->at += bytes;
    return n;
}
static float tk_float(tk_bytes *b)
{
    uint32_t bits = (uint32_t)tk_number(b, 4);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static const char *tk_gguf_text(tk_bytes *b, size_t *n)
{
    uint64_t length = tk_number(b, 8);
    if (length > (uint64_t)(b->end - b->at)) b->cut = 1;
    *n = b->cut ? 0 : (size_t)length;
    b->at += *n;
    return (const char *)b->at - *n;
}
/* Goes past a value; 0 for a type that nobody knows. */
static int tk_gguf_skip(tk_bytes *b, uint64_t type, int depth)
{
    static const unsigned char size[TK_GGUF_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    size_t n;
    if (type >= TK_GGUF_TYPES || depth > 4) return 0;
    if (type == TK_GGUF_TEXT) tk_gguf_text(b, &n);
    if (size[type]) tk_number(b, size[type]);
    if (type != TK_GGUF_LIST) return 1;
    uint64_t of = tk_number(b, 4), count = tk_number(b, 8);
    if (of >= TK_GGUF_TYPES) return 0;
    if (size[of]) {
        if (count > (uint64_t)(b->end - b->at) / size[of]) b->cut = 1;
        else b->at += (size_t)count * size[of];
        return 1;
    }
    for (uint64_t i = 0; i < count && !b->cut; i++)
        if (!tk_gguf_skip(b, of, depth + 1)) return 0;
    return 1;
}
static int tk_named(const char *name, size_t n, const char *is)
{
    return n == strlen(is) && !memcmp(name, is, n);
}
/* Keeps a value if it says something of the tokenizer; `b` is a copy, at the value. */
static void tk_gguf_keep(tk_gguf *g, const char *key, size_t n, uint64_t type, tk_bytes b)
{
    struct { const char *name; tk_list *list; } list[] = {
        { "tokenizer.ggml.tokens", &g->tokens }, { "tokenizer.ggml.token_type", &g->types },
        { "tokenizer.ggml.scores", &g->scores }, { "tokenizer.ggml.merges", &g->merges } };
    struct { const char *name, **text; size_t *n; } text[] = {
        { "tokenizer.ggml.model", &g->model, &g->model_n },
        { "tokenizer.ggml.pre", &g->pre, &g->pre_n },
        { "tokenizer.chat_template", &g->chat, &g->chat_n } };
    struct { const char *name; int32_t *id; } id[] = {
        { "tokenizer.ggml.bos_token_id", &g->begin }, { "tokenizer.ggml.eos_token_id", &g->end },
        { "tokenizer.ggml.unknown_token_id", &g->unknown } };
    struct { const char *name; int *flag; } flag[] = {
        { "tokenizer.ggml.add_bos_token", &g->add_begin },
        { "tokenizer.ggml.add_eos_token", &g->add_end },
        { "tokenizer.ggml.add_space_prefix", &g->add_space },
        { "tokenizer.ggml.remove_extra_whitespaces", &g->squeeze } };
    for (int i = 0; i < 4; i++) {
        if (type != TK_GGUF_LIST || !tk_named(key, n, list[i].name)) continue;
        list[i].list->type = tk_number(&b, 4);
        list[i].list->count = tk_number(&b, 8);
        list[i].list->items = b;
        return;
    }
    for (int i = 0; i < 3; i++)
        if (type == TK_GGUF_TEXT && tk_named(key, n, text[i].name))
            *text[i].text = tk_gguf_text(&b, text[i].n);
    for (int i = 0; i < 3; i++)
        if ((type == 4 || type == 5) && tk_named(key, n, id[i].name))
            *id[i].id = (int32_t)(tk_number(&b, 4) & 0x7FFFFFFF);
    for (int i = 0; i < 4; i++)
        if (type == 7 && tk_named(key, n, flag[i].name)) *flag[i].flag = tk_number(&b, 1) != 0;
}
/* Finds the values. 0; 1: the file goes on behind the bytes that there are; -1: a type that nobody
   knows, or another version. */
static int tk_gguf_scan(tk_gguf *g, const void *bytes, size_t size)
{
    tk_bytes b = { (const unsigned char *)bytes + 4, (const unsigned char *)bytes + size, 0 };
    memset(g, 0, sizeof *g);
    g->begin = -1;
    g->end = -1;
    g->unknown = -1;
    g->add_begin = -1;
    g->add_end = -1;
    g->add_space = -1;
    uint64_t version = tk_number(&b, 4);
    tk_number(&b, 8);                            /* how many arrays */
    uint64_t values = tk_number(&b, 8);
    if (!b.cut && version != 2 && version != 3) return -1;
    for (uint64_t i = 0; i < values && !b.cut; i++) {
        size_t n;
        const char *key = tk_gguf_text(&b, &n);
        uint64_t type = tk_number(&b, 4);
        tk_bytes value = b;
        if (!tk_gguf_skip(&b, type, 0)) return -1;
        if (!b.cut) tk_gguf_keep(g, key, n, type, value);
    }
    return b.cut;
}

/* Where a token is found: control tokens in the text, other words by the model; user-defined ones
   in the text, or, as SentencePiece has it, first of all by its model. */
static int tk_gguf_place(tokenizer *t, const tk_token *token, int32_t id, int word)
{
    int user = token->type == TK_USER;
    if (token->type == TK_CONTROL || (user && !t->spm))
        return tk_added_add(t, &t->added, token->text, token->n, id);
    if (user && tk_words_add(t, &t->user, token->text, token->n, id)) return -1;
    if (!word || (token->type != TK_NORMAL && !user)) return 0;
    const char *key = t->of_bytes ? token->shown : token->text;
    tk_table_add(&t->table, key, t->of_bytes ? token->shown_n : token->n, id);
    return 0;
}
/* The tokens. */
static int tk_gguf_tokens(tokenizer *t, tk_gguf *g)
{
    size_t count = (size_t)g->tokens.count;
    int scored = t->model == TK_BPE_SCORED;
    if (!count || g->tokens.type != TK_GGUF_TEXT || count > INT32_MAX / 16)
        return tk_refuse(t, "expected tokenizer.ggml.tokens, found none");
    if (scored && (g->scores.count != count || g->scores.type != TK_GGUF_F32))
        return tk_refuse(t, "expected %.0f tokenizer.ggml.scores, found %.0f", (double)count,
                         (double)g->scores.count);
    if (g->types.count != count || g->types.type != TK_GGUF_I32)
        return tk_refuse(t, "expected %.0f of tokenizer.ggml.token_type, found %.0f", (double)count,
                         (double)g->types.count);
    if (tk_table_open(t, &t->table, count)) return -1;
    for (size_t i = 0; i < count; i++) {
        size_t n;
        int word = 1;
        const char *text = tk_gguf_text(&g->tokens.items, &n);
        int type = (int)tk_number(&g->types.items, 4);
        if (type < TK_NORMAL || type > TK_BYTE || !tk_is_valid(text, n))
            return tk_refuse(t, "token %.0f: expected UTF-8 and a type of 1 to 6", (double)i);
        tk_token *token = tk_token_set(t, (int32_t)i, count, text, n, type);
        if (!token || tk_token_bytes(t, token, &word)) return -1;
        if (scored) token->score = (double)tk_float(&g->scores.items);
        if (!(fabs(token->score) <= FLT_MAX))
            return tk_refuse(t, "token %.0f: expected a finite score", (double)i);
        token->special = type == TK_CONTROL;
        if (n && tk_gguf_place(t, token, (int32_t)i, word)) return -1;
    }
    tk_words_sort(&t->added.words);
    tk_words_sort(&t->user);
    return 0;
}
static int tk_gguf_merges(tokenizer *t, tk_gguf *g)
{
    tokenizer_text room = { NULL, 0, 0 };
    int bad = 0;
    if (g->merges.count > INT32_MAX / 16 || (g->merges.count && g->merges.type != TK_GGUF_TEXT))
        return tk_refuse(t, "expected tokenizer.ggml.merges as texts");
    if (tk_merges_open(t, (size_t)g->merges.count)) return -1;
    for (size_t i = 0; i < (size_t)g->merges.count && !bad; i++) {
        size_t n;
        const char *text = tk_gguf_text(&g->merges.items, &n);
        bad = tk_is_valid(text, n) ? tk_merge_add_pair(t, i, text, n, &room) :
            tk_refuse(t, "merge %.0f: expected UTF-8", (double)i);
    }
    tokenizer_text_free(&room);
    return bad;
}
static const char tk_qwen2_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
/* How words are cut, and whether a token begins a text where the file does not say:
   tokenizer.ggml.pre names it. */
static int tk_gguf_cuts(tokenizer *t, tk_gguf *g)
{
    static const char llama3[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static const struct {
        const char *name, *pattern;
        int digits, whole_words, nfc, begins;
    } known[] = {
        { "gpt-2", tk_gpt2_pattern, 0, 0, 0, 0 }, { "smollm", tk_gpt2_pattern, 1, 0, 0, 0 },
        { "starcoder", tk_gpt2_pattern, 1, 0, 0, 0 }, { "refact", tk_gpt2_pattern, 1, 0, 0, 0 },
        { "llama-bpe", llama3, 0, 1, 0, 1 }, { "llama3", llama3, 0, 1, 0, 1 },
        { "llama-v3", llama3, 0, 1, 0, 1 }, { "qwen2", tk_qwen2_pattern, 0, 0, 1, 0 },
        { "deepseek-r1-qwen", tk_qwen2_pattern, 0, 0, 1, 0 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!tk_named(g->pre, g->pre_n, known[i].name)) continue;
        t->whole_words = known[i].whole_words;
        if (g->add_begin < 0) g->add_begin = known[i].begins;
        if (known[i].digits && tk_split_add(t, "\\p{N}", 0, TK_ISOLATED)) return -1;
        if (known[i].nfc && (!tk_step_add(t, &t->normalizer, TK_NFC) || tk_nfc_read(t))) return -1;
        return tk_split_add(t, known[i].pattern, 0, TK_ISOLATED);
    }
    return tk_refuse(t, "tokenizer.ggml.pre \"%.*s\" is not done (gpt-2, llama-bpe, qwen2, smollm, "
                     "starcoder are)", g->pre_n < 40 ? (int)g->pre_n : 40, g->pre ? g->pre : "");
}
/* The tokens around a text, and which is unknown. */
static int tk_gguf_ids(tokenizer *t, const tk_gguf *g)
{
    const int32_t id[] = { g->begin, g->end, g->unknown };
    for (int i = 0; i < 3; i++)
        if (id[i] >= 0 && (size_t)id[i] >= t->count)
            return tk_refuse(t, "expected token ids below %.0f, found %.0f", (double)t->count,
                             (double)id[i]);
    t->begin = g->begin;
    t->end = g->end;
    if (t->spm) t->unknown = g->unknown;
    int begins = g->add_begin < 0 ? t->spm : g->add_begin;
    if (begins && t->begin >= 0 && tokenizer_ids_add(&t->before, t->begin)) return tk_no_memory(t);
    int ends = g->add_end > 0;
    if (ends && t->end >= 0 && tokenizer_ids_add(&t->after, t->end)) return tk_no_memory(t);
    return 0;
}
/* What tokens of SentencePiece show, which of them stand for a byte, and whether all do. */
static int tk_spm_finish(tokenizer *t)
{
    int all = 1;
    for (int i = 0; i < 256; i++) t->byte[i] = -1;
    for (size_t i = 0; i < t->count; i++) {
        tk_token *token = &t->token[i];
        int byte = token->type == TK_BYTE;
        if (tk_token_show(t, token, tk_low_bar, byte)) return -1;
        if (byte && (token->n != 6 || token->shown_n != 1))
            return tk_refuse(t, "token %.0f: expected a byte as <0x0A>", (double)i);
        if (byte) t->byte[(unsigned char)token->shown[0]] = (int32_t)i;
    }
    for (int i = 0; i < 256; i++)
        if (t->byte[i] < 0) all = 0;
    t->byte_fallback = all;
    if (!all && t->unknown < 0) return tk_refuse(t, "expected a token for what is unknown");
    t->drop_spaces = t->dummy_prefix ? 1 : 0;
    if (t->squeeze) t->drop_spaces = INT_MAX;
    return 0;
}
static int tk_read_gguf(tokenizer *t, const void *bytes, size_t size)
{
    tk_gguf g;
    int scan = tk_gguf_scan(&g, bytes, size);
    if (scan > 0) return tk_refuse(t, "expected the values of a GGUF, found the end of the file");
    if (scan < 0) return tk_refuse(t, "expected a GGUF of version 2 or 3 with values of types 0 to "
                                   "12, nested at most 5 deep");
    if (!g.model_n) return tk_refuse(t, "expected a tokenizer (tokenizer.ggml.model), found none");
    int gpt2 = tk_named(g.model, g.model_n, "gpt2");
    if (!gpt2 && !tk_named(g.model, g.model_n, "llama"))
        return tk_refuse(t, "tokenizer.ggml.model \"%.*s\" is not done (gpt2, llama are)",
                         g.model_n < 40 ? (int)g.model_n : 40, g.model);
    t->of_bytes = gpt2;
    t->model = gpt2 ? TK_BPE_RANKED : TK_BPE_SCORED;
    t->spm = !gpt2;
    t->dummy_prefix = t->spm && g.add_space != 0;
    t->squeeze = t->spm && g.squeeze;
    if (g.chat && tk_is_valid(g.chat, g.chat_n)) {
        t->chat = tk_keep(t, g.chat, g.chat_n);
        if (!t->chat) return -1;
    }
    if (tk_gguf_tokens(t, &g)) return -1;
    if (!t->spm && (tk_bytes_find(t) || tk_gguf_cuts(t, &g))) return -1;
    if (tk_gguf_ids(t, &g)) return -1;
    return t->spm ? tk_spm_finish(t) : tk_gguf_merges(t, &g);
}

/* ==== >>sentencepiece ================================================================
   SentencePiece's tokenizer.model: a message of protocol buffers

   ModelProto: 1 pieces { 1 text, 2 score, 3 type }, 2 trainer { 3 kind, 24 suffix, 35 bytes,
   40 to 43 ids }, 3 normalizer { 2 map, 3 dummy prefix, 4 squeeze, 5 escape }.
   ==================================================================================== */

typedef struct tk_field {
    uint64_t number, value;                      /* value of a varint, or a float's bytes */
    tk_bytes bytes;                              /* of a text or message */
    int kind;                                    /* 0 varint, 1 eight bytes, 2 bytes, 5 four */
} tk_field;

static uint64_t tk_varint(tk_bytes *b)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = tk_number(b, 1);
        n |= (byte & 0x7F) << shift;
        if (byte < 0x80) return n;
    }
    b->cut = 1;
    return 0;
}
/* The next field of a message; 0 at its end, or where it is broken (b->cut). */
static int tk_field_next(tk_bytes *b, tk_field *f)
{
    if (b->cut || b->at == b->end) return 0;
    uint64_t key = tk_varint(b);
    f->number = key >> 3;
    f->kind = (int)(key & 7);
    f->value = 0;
    f->bytes = *b;
    if (f->kind == 0) f->value = tk_varint(b);
    else if (f->kind == 1) f->value = tk_number(b, 8);
    else if (f->kind == 5) f->value = tk_number(b, 4);
    else if (f->kind == 2) {
        uint64_t n = tk_varint(b);
        if (n > (uint64_t)(b->end - b->at)) b->cut = 1;
        f->bytes.at = b->at;
        f->bytes.end = b->at + (b->cut ? 0 : (size_t)n);
        b->at = f->bytes.end;
    } else b->cut = 1;
    return !b->cut;
}
static int tk_spm_piece(tokenizer *t, tk_bytes message, int32_t id, size_t entries)
{
    tk_bytes text = { NULL, NULL, 0 };
    tk_field f;
    float score = 0;
    int type = TK_NORMAL;
    while (tk_field_next(&message, &f)) {
        tk_bytes four = f.bytes;
        if (f.number == 1 && f.kind == 2) text = f.bytes;
        if (f.number == 2 && f.kind == 5) score = tk_float(&four);
        if (f.number == 3 && f.kind == 0) type = f.value > TK_BYTE ? 0 : (int)f.value;
    }
    size_t n = (size_t)(text.end - text.at);
    if (message.cut || !n || !type || !tk_is_valid((const char *)text.at, n))
        return tk_refuse(t, "piece %.0f: expected a text, a score and a type", (double)id);
    if (!(fabs((double)score) <= (double)FLT_MAX))
        return tk_refuse(t, "piece %.0f: expected a finite score", (double)id);
    if (type == TK_UNUSED) return tk_refuse(t, "unused pieces are not done");
    tk_token *token = tk_token_set(t, id, entries, (const char *)text.at, n, type);
    if (!token) return -1;
    token->score = (double)score;
    token->special = type == TK_CONTROL;
    if (type == TK_CONTROL) return tk_added_add(t, &t->added, token->text, n, id);
    if (type == TK_USER && tk_words_add(t, &t->user, token->text, n, id)) return -1;
    if (type != TK_NORMAL && type != TK_USER) return 0;
    if (type == TK_NORMAL && token->score < t->worst) t->worst = token->score;
    if (type == TK_NORMAL && token->score > t->best) t->best = token->score;
    tk_table_add(&t->table, token->text, n, id);
    return tk_words_add(t, &t->words, token->text, n, id);
}
/* Reads the trainer's and the normalizer's options. */
static int tk_spm_options(tokenizer *t, tk_bytes trainer, tk_bytes normalizer)
{
    tk_field f;
    uint64_t kind = 1;
    int escape = 1;
    tk_bytes map = { NULL, NULL, 0 };
    t->unknown = 0;
    t->begin = 1;
    t->end = 2;
    while (tk_field_next(&trainer, &f)) {
        int32_t id = f.value < INT32_MAX ? (int32_t)f.value : -1;
        if (f.kind != 0) continue;
        if (f.number == 3) kind = f.value;
        if (f.number == 24) t->suffix = f.value != 0;
        if (f.number == 40) t->unknown = id;
        if (f.number == 41) t->begin = id;
        if (f.number == 42) t->end = id;
        if (f.number == 43) t->pad = id;
    }
    t->dummy_prefix = 1;
    t->squeeze = 1;
    while (tk_field_next(&normalizer, &f)) {
        if (f.number == 2 && f.kind == 2) map = f.bytes;
        if (f.number == 3 && f.kind == 0) t->dummy_prefix = f.value != 0;
        if (f.number == 4 && f.kind == 0) t->squeeze = f.value != 0;
        if (f.number == 5 && f.kind == 0) escape = f.value != 0;
    }
    if (trainer.cut || normalizer.cut) return tk_refuse(t, "expected options, found a broken end");
    size_t size = (size_t)(map.end - map.at);
    if (size && tk_map_read(t, &t->map, (const char *)map.at, size)) return -1;
    if (!escape) return tk_refuse(t, "a normalizer without escape_whitespaces is not done");
    if (kind != 1 && kind != 2) return tk_refuse(t, "a model of type %.0f is not done (1 unigram "
                                                 "and 2 BPE are)", (double)kind);
    t->model = kind == 1 ? TK_UNIGRAM : TK_BPE_SCORED;
    return 0;
}
static int tk_read_spm(tokenizer *t, const void *bytes, size_t size)
{
    tk_bytes all = { (const unsigned char *)bytes, (const unsigned char *)bytes + size, 0 };
    tk_bytes again = all, trainer = { NULL, NULL, 0 }, normalizer = { NULL, NULL, 0 };
    tk_field f;
    size_t entries = 0;
    int32_t id = 0;
    while (tk_field_next(&all, &f)) {
        if (f.number == 1 && f.kind == 2) entries++;
        if (f.number == 2 && f.kind == 2) trainer = f.bytes;
        if (f.number == 3 && f.kind == 2) normalizer = f.bytes;
    }
    if (all.cut || !entries || entries > INT32_MAX / 16)
        return tk_refuse(t, "expected a tokenizer.json, a tokenizer.model or a GGUF, found another "
                         "file");
    t->spm = 1;
    t->single = 1;
    t->worst = FLT_MAX;
    t->best = FLT_MIN;                          /* as SentencePiece: below all scores it is this */
    if (tk_spm_options(t, trainer, normalizer)) return -1;
    if (tk_table_open(t, &t->table, entries)) return -1;
    while (tk_field_next(&again, &f))
        if (f.number == 1 && f.kind == 2 && tk_spm_piece(t, f.bytes, id++, entries)) return -1;
    int32_t *const ids[] = { &t->unknown, &t->begin, &t->end, &t->pad };
    for (int i = 0; i < 4; i++)
        if ((size_t)*ids[i] >= entries) *ids[i] = -1;
    if (t->unknown < 0 || t->token[t->unknown].type != TK_UNKNOWN)
        return tk_refuse(t, "expected an unknown piece, found none at %.0f", (double)t->unknown);
    if (t->begin >= 0 && tokenizer_ids_add(&t->before, t->begin)) return tk_no_memory(t);
    tk_words_sort(&t->words);
    tk_words_sort(&t->added.words);
    tk_words_sort(&t->user);
    if (tk_spm_finish(t)) return -1;
    t->token[t->unknown].shown = " \xE2\x81\x87 ";
    t->token[t->unknown].shown_n = 5;
    return 0;
}

/* ==== >>files ========================================================================
   opening
   ==================================================================================== */

void tokenizer_free(tokenizer *t)
{
    if (!t) return;
    tk_steps *const steps[] = { &t->normalizer, &t->cuts };
    void *const places[] = {
        t->unicode.categories.start, t->unicode.categories.value, t->unicode.classes.start,
        t->unicode.classes.value, t->unicode.apart, t->unicode.together, t->token, t->added.at,
        t->added.words.at, t->added_normal.at, t->added_normal.words.at, t->table.place,
        t->words.at, t->merges.place, t->user.at };
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < steps[i]->count; k++) tk_regex_free(&steps[i]->at[k].regex);
        tk_release(steps[i]->at);
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) tk_release(places[i]);
    tokenizer_ids_free(&t->before);
    tokenizer_ids_free(&t->after);
    for (tk_block *b = t->blocks, *next; b; b = next) {
        next = b->next;
        TOKENIZER_FREE(b);
    }
    TOKENIZER_FREE(t);
}
tokenizer *tokenizer_from(const char *name, const void *bytes, size_t size, char *error)
{
    const char *text = bytes ? (const char *)bytes : "";
    size_t space = 0;
    int bad;
    *error = 0;
    if (!bytes) size = 0;
    tokenizer *t = (tokenizer *)TOKENIZER_MALLOC(sizeof *t);
    if (!t) {
        snprintf(error, TOKENIZER_ERROR, "%.120s: out of memory", name);
        return NULL;
    }
    memset(t, 0, sizeof *t);
    t->name = name;
    t->error = error;
    t->begin = -1;
    t->end = -1;
    t->unknown = -1;
    t->pad = -1;
    bad = tk_runs_read(t, &t->unicode.categories, tk_rows(TK_CATEGORIES), NULL);
    while (space < size && strchr(" \t\r\n", text[space]) && text[space]) space++;
    int gguf = size >= 4 && !memcmp(text, "GGUF", 4), json = space < size && text[space] == '{';
    if (!bad && gguf) bad = tk_read_gguf(t, text, size);
    else if (!bad && json) bad = tk_read_json(t, text, size);
    else if (!bad) bad = tk_read_spm(t, text, size);
    t->name = NULL;
    t->error = NULL;
    if (!bad) return t;
    tokenizer_free(t);
    return NULL;
}

/* A file's first bytes, at most `most`, for tk_release; *more: there are others behind them. NULL
   with errno, which is 0 where memory ran out. */
static char *tk_file_read(const char *path, size_t most, size_t *size, int *more)
{
    FILE *f = fopen(path, "rb");
    char *bytes = NULL;
    size_t room = 0, want, got;
    *size = 0;
    if (!f) return NULL;
    do {
        errno = 0;
        char *at = (char *)tk_grow(bytes, &room, *size, *size + 65536, 1);
        if (!at) {
            tk_release(bytes);
            fclose(f);
            errno = 0;
            return NULL;
        }
        bytes = at;
        want = room - *size < most - *size ? room - *size : most - *size;
        got = fread(bytes + *size, 1, want, f);
        *size += got;
    } while (got == want && *size < most);
    *more = got == want && getc(f) != EOF;
    int error = ferror(f) ? errno : 0;
    fclose(f);
    if (!error) return bytes;
    tk_release(bytes);
    errno = error;
    return NULL;
}
/* Why tk_file_read returned NULL. */
static const char *tk_file_reason(void) { return errno ? strerror(errno) : "out of memory"; }

/* ---- vocab.json and merges.txt, CLIP's or Qwen2's ---- */

/* A text as JSON writes it. */
static int tk_say_json(tokenizer_text *text, const char *bytes, size_t n)
{
    int bad = tk_say(text, "\"");
    for (size_t i = 0; i < n && !bad; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        char control[8];
        if (byte < 0x20) {
            snprintf(control, sizeof control, "\\u%04x", (unsigned)byte);
            bad = tk_say(text, control);
            continue;
        }
        if (byte == '"' || byte == '\\') bad = tk_say(text, "\\");
        if (!bad) bad = tokenizer_text_add(text, bytes + i, 1);
    }
    return bad || tk_say(text, "\"") ? -1 : 0;
}
/* Words of JSON that have ` for ". */
static int tk_say_quoted(tokenizer_text *text, const char *words)
{
    int bad = 0;
    for (; *words && !bad; words++) bad = tokenizer_text_add(text, *words == '`' ? "\"" : words, 1);
    return bad;
}
/* The lines of merges.txt as a list of JSON, without the one that says a version. */
static int tk_say_merges(tokenizer_text *text, const char *lines, size_t n)
{
    int bad = tk_say(text, "["), first = 1;
    for (size_t i = 0; i < n && !bad;) {
        const char *end = (const char *)memchr(lines + i, '\n', n - i);
        size_t length = end ? (size_t)(end - lines) - i : n - i, shown = length;
        if (shown && lines[i + shown - 1] == '\r') shown--;
        if (shown && !tk_begins(lines + i, shown, "#version")) {
            bad = (!first && tk_say(text, ",")) || tk_say_json(text, lines + i, shown);
            first = 0;
        }
        i += length + 1;
    }
    return bad || tk_say(text, "]") ? -1 : 0;
}
/* What CLIP's tokenizer.json says around its vocabulary (CLIPTokenizer of transformers), with ` for
   ". %d: the ids of the tokens that begin, end, fill up, and again begin and end a text. */
static const char tk_clip_json[] =
    "{`normalizer`:{`type`:`Sequence`,`normalizers`:[{`type`:`NFC`},{`type`:`Replace`,`pattern`:"
    "{`Regex`:`\\\\s+`},`content`:` `},{`type`:`Lowercase`}]},`pre_tokenizer`:{`type`:`Sequence`,"
    "`pretokenizers`:[{`type`:`Split`,`pattern`:{`Regex`:`<\\\\|startoftext\\\\|>|"
    "<\\\\|endoftext\\\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\\\p{L}]+|[\\\\p{N}]|"
    "[^\\\\s\\\\p{L}\\\\p{N}]+`},`behavior`:`Removed`,`invert`:true},{`type`:`ByteLevel`,"
    "`add_prefix_space`:false}]},`decoder`:{`type`:`ByteLevel`},`post_processor`:{`type`:"
    "`RobertaProcessing`,`cls`:[`<|startoftext|>`,%d],`sep`:[`<|endoftext|>`,%d]},"
    "`padding`:{`pad_id`:%d},`added_tokens`:[{`id`:%d,`content`:`<|startoftext|>`,"
    "`special`:true},{`id`:%d,`content`:`<|endoftext|>`,`special`:true}],"
    "`model`:{`type`:`BPE`,`end_of_word_suffix`:`</w>`,`unk_token`:`<|endoftext|>`,`vocab`:";

static tokenizer *tk_from_clip(const char *path, const char *vocab, size_t size,
                               const char *merges, size_t merges_size, char *error)
{
    static const char *const around[] = { "<|startoftext|>", "<|endoftext|>" };
    tokenizer_text text = { NULL, 0, 0 };
    tokenizer messages;
    tk_document d;
    char head[2048];
    int32_t id[2] = { -1, -1 };
    memset(&messages, 0, sizeof messages);
    messages.name = path;
    messages.error = error;
    int bad = tk_json_open(&messages, &d, vocab, size);
    for (int i = 0; i < 2 && !bad; i++) id[i] = tk_json_id(tk_get(&d, &d.node[0], around[i]));
    tk_json_close(&d);
    if (!bad && (id[0] < 0 || id[1] < 0))
        bad = tk_refuse(&messages, "expected CLIP's vocabulary, with <|startoftext|> and "
                        "<|endoftext|>, or a tokenizer_config.json of Qwen2Tokenizer beside it; "
                        "other tokenizers are read from their tokenizer.json");
    if (bad) return NULL;
    snprintf(head, sizeof head, tk_clip_json, (int)id[0], (int)id[1], (int)id[1], (int)id[0],
             (int)id[1]);
    bad = tk_say_quoted(&text, head) || tokenizer_text_add(&text, vocab, size)
        || tk_say(&text, ",\"merges\":") || tk_say_merges(&text, merges, merges_size)
        || tk_say(&text, "}}");
    if (bad) tk_no_memory(&messages);
    tokenizer *t = bad ? NULL : tokenizer_from(path, text.at, text.count, error);
    tokenizer_text_free(&text);
    return t;
}
/* What Qwen2's tokenizer.json says around its vocabulary and its added tokens (Qwen2Tokenizer of
   transformers), before its pattern and behind it, with ` for ". */
static const char *const tk_qwen2_json[] = {
    "{`normalizer`:{`type`:`NFC`},`pre_tokenizer`:{`type`:`Sequence`,`pretokenizers`:[{`type`:"
    "`Split`,`pattern`:{`Regex`:",
    "},`behavior`:`Isolated`,`invert`:false},{`type`:`ByteLevel`,`add_prefix_space`:false,"
    "`use_regex`:false}]},`decoder`:{`type`:`ByteLevel`},`model`:{`type`:`BPE`,`vocab`:"
};

/* The members of added_tokens.json, names with their ids, as a list of tokenizer.json. Where a name
   stands there twice the last one counts. */
static int tk_say_added(tokenizer *messages, tokenizer_text *text, const char *added, size_t size)
{
    tk_document d;
    tk_table ids = { NULL, 0 };
    char words[64];
    messages->name = "added_tokens.json";
    int bad = tk_json_open(messages, &d, added, size) || tk_say(text, "[");
    const tk_json *root = bad ? NULL : &d.node[0], *item = tk_first(&d, root);
    if (!bad) bad = tk_table_open(messages, &ids, tk_json_count(&d, root));
    for (const tk_json *i = item; i && !bad; i = tk_next(&d, i))
        tk_table_set(&ids, i->key, i->key_n, tk_json_id(i));
    for (const char *comma = ""; item && !bad; item = tk_next(&d, item)) {
        int32_t id = tk_json_id(item);
        if (tk_table_find(&ids, item->key, item->key_n) != id) continue;
        snprintf(words, sizeof words, "%s{\"special\":true,\"id\":%d,\"content\":", comma,
                 (int)id);
        bad = tk_say(text, words) || tk_say_json(text, item->key, item->key_n)
            || tk_say(text, "}");
        comma = ",";
    }
    tk_release(ids.place);
    tk_json_close(&d);
    return bad || tk_say(text, "]") ? -1 : 0;
}

/* The files of a tokenizer that has no tokenizer.json; the last two may be missing. */
enum { TK_VOCAB, TK_MERGES, TK_ADDED, TK_CONFIG, TK_FILES };
typedef struct tk_files {
    char *bytes[TK_FILES];
    size_t size[TK_FILES];
} tk_files;
static tokenizer *tk_from_qwen2(const char *path, const tk_files *f, char *error)
{
    tokenizer_text text = { NULL, 0, 0 };
    tokenizer messages;
    tk_document d;
    memset(&messages, 0, sizeof messages);
    messages.name = path;
    messages.error = error;
    int bad = tk_json_open(&messages, &d, f->bytes[TK_VOCAB], f->size[TK_VOCAB]);
    tk_json_close(&d);
    if (bad) return NULL;
    bad = tk_say_quoted(&text, tk_qwen2_json[0])
        || tk_say_json(&text, tk_qwen2_pattern, strlen(tk_qwen2_pattern))
        || tk_say_quoted(&text, tk_qwen2_json[1])
        || tokenizer_text_add(&text, f->bytes[TK_VOCAB], f->size[TK_VOCAB])
        || tk_say(&text, ",\"merges\":")
        || tk_say_merges(&text, f->bytes[TK_MERGES], f->size[TK_MERGES]) || tk_say(&text, "}");
    if (!bad && f->bytes[TK_ADDED])
        bad = tk_say(&text, ",\"added_tokens\":")
            || tk_say_added(&messages, &text, f->bytes[TK_ADDED], f->size[TK_ADDED]);
    bad = bad || tk_say(&text, "}");
    if (bad && !*error) tk_no_memory(&messages);
    tokenizer *t = bad ? NULL : tokenizer_from(path, text.at, text.count, error);
    tokenizer_text_free(&text);
    return t;
}
/* Whether tokenizer_config.json is Qwen2's; -1 after a message. */
static int tk_is_qwen2(const tk_files *f, char *error)
{
    tk_document d;
    tokenizer messages;
    memset(&messages, 0, sizeof messages);
    messages.name = "tokenizer_config.json";
    messages.error = error;
    if (!f->bytes[TK_CONFIG]) return 0;
    int bad = tk_json_open(&messages, &d, f->bytes[TK_CONFIG], f->size[TK_CONFIG]);
    const char *name = bad ? "" : tk_get_text(&d, &d.node[0], "tokenizer_class", "");
    int is = !strcmp(name, "Qwen2Tokenizer") || !strcmp(name, "Qwen2TokenizerFast");
    tk_json_close(&d);
    return bad ? -1 : is;
}
enum { TK_PATH = 1024 };                         /* bytes of a path, its 0 included */
/* Writes the path of a file: so many bytes of its folder, and a name. Returns 0, or -1 after a
   message: there is no room. */
static int tk_path_set(char *path, const char *folder, size_t n, const char *name, char *error)
{
    size_t length = n + strlen(name);
    if (length < TK_PATH) {
        snprintf(path, TK_PATH, "%.*s%s", (int)n, folder, name);
        return 0;
    }
    snprintf(error, TOKENIZER_ERROR, "%.120s: expected at most %d bytes of a path with its file, "
             "found %.0f", folder, TK_PATH - 1, (double)length);
    return -1;
}
/* Opens a vocab.json with the files beside it. */
static tokenizer *tk_load_vocab(const char *path, char *error)
{
    static const char *const names[TK_FILES] = { "vocab.json", "merges.txt", "added_tokens.json",
                                                 "tokenizer_config.json" };
    char name[TK_PATH];
    tk_files f;
    size_t n = strlen(path) - strlen(names[0]);
    int more, bad = 0;
    memset(&f, 0, sizeof f);
    for (int i = 0; i < TK_FILES && !bad; i++) {
        bad = tk_path_set(name, path, n, names[i], error);
        if (bad) break;
        f.bytes[i] = tk_file_read(name, SIZE_MAX, &f.size[i], &more);
        bad = !f.bytes[i] && (i <= TK_MERGES || errno != ENOENT);
        if (bad) snprintf(error, TOKENIZER_ERROR, "%.120s: %s", name, tk_file_reason());
    }
    tokenizer *t = NULL;
    int is_qwen2 = bad ? -1 : tk_is_qwen2(&f, error);
    if (is_qwen2 > 0) t = tk_from_qwen2(path, &f, error);
    else if (is_qwen2 == 0)
        t = tk_from_clip(path, f.bytes[TK_VOCAB], f.size[TK_VOCAB], f.bytes[TK_MERGES],
                         f.size[TK_MERGES], error);
    for (int i = 0; i < TK_FILES; i++) tk_release(f.bytes[i]);
    return t;
}
/* Of a GGUF, which *is_gguf tells, the beginning is read, up to where its values end. */
static tokenizer *tk_load_file(const char *path, int *is_gguf, char *error)
{
    size_t size, most = (size_t)16 << 20;
    int more = 0;
    tk_gguf g;
    char *bytes = tk_file_read(path, most, &size, &more);
    *is_gguf = bytes && size >= 4 && !memcmp(bytes, "GGUF", 4);
    while (bytes && more && (!*is_gguf || tk_gguf_scan(&g, bytes, size) > 0)) {
        tk_release(bytes);
        most = *is_gguf ? 2 * most : SIZE_MAX;
        bytes = tk_file_read(path, most, &size, &more);
    }
    if (!bytes) {
        snprintf(error, TOKENIZER_ERROR, "%.120s: %s", path, tk_file_reason());
        return NULL;
    }
    tokenizer *t = tokenizer_from(path, bytes, size, error);
    tk_release(bytes);
    return t;
}

/* The token that a text or an object with `content` names, or -1. */
static int32_t tk_config_token(const tokenizer *t, const tk_document *d, const char *key)
{
    const tk_json *value = tk_get(d, &d->node[0], key);
    const char *text = tk_get_text(d, value, "content", NULL);
    if (value && value->type == '"') text = value->text;
    return text ? tokenizer_find(t, text) : -1;
}
/* SigLIP's texts end with "</s>", which also fills them up. */
static int tk_siglip_begin(tokenizer *t, const tk_document *d)
{
    t->siglip = 1;
    t->keeps_case = !tk_get_flag(d, &d->node[0], "do_lower_case", 1);
    t->before.count = 0;
    t->after.count = 0;
    int32_t end = tk_config_token(t, d, "eos_token"), pad = tk_config_token(t, d, "pad_token");
    t->end = end >= 0 ? end : tokenizer_find(t, "</s>");
    t->pad = pad >= 0 ? pad : t->end;
    if (t->end < 0) return tk_refuse(t, "expected a token that ends a text, found none");
    /* no other token is found in a text */
    const int32_t found[] = { t->end, t->pad, t->unknown };
    t->added.count = 0;
    t->added.words.count = 0;
    memset(t->added.first, 0, sizeof t->added.first);
    for (int i = 0; i < 3; i++) {
        const tk_token *token = &t->token[found[i]];
        if (tk_added_add(t, &t->added, token->text, token->n, found[i])) return -1;
        t->added.at[i].left = 1;
        t->added.at[i].right = 1;
    }
    tk_words_sort(&t->added.words);
    return tokenizer_ids_add(&t->after, t->end) ? tk_no_memory(t) : 0;
}
/* Takes the template and the tokens from tokenizer_config.json. A list of templates has names. */
static int tk_config_take(tokenizer *t, const tk_document *d)
{
    const char *class_name = tk_get_text(d, &d->node[0], "tokenizer_class", "");
    int32_t pad = tk_config_token(t, d, "pad_token");
    if (pad >= 0) t->pad = pad;
    t->pads_left = !strcmp(tk_get_text(d, &d->node[0], "padding_side", "right"), "left");
    if (t->spm && !strcmp(class_name, "SiglipTokenizer") && tk_siglip_begin(t, d)) return -1;
    int lowers = !strcmp(class_name, "Siglip2Tokenizer");
    if (lowers && !t->spm && tk_steps_begin(t, TK_LOWER)) return -1;

    const tk_json *chat = tk_get(d, &d->node[0], "chat_template");
    int32_t begin = tk_config_token(t, d, "bos_token"), end = tk_config_token(t, d, "eos_token");
    if (begin >= 0) t->begin = begin;
    if (end >= 0) t->end = end;
    const char *text = chat && chat->type == '"' ? chat->text : NULL;
    for (const tk_json *item = tk_first(d, chat); item && !text; item = tk_next(d, item))
        if (!strcmp(tk_get_text(d, item, "name", ""), "default"))
            text = tk_get_text(d, item, "template", NULL);
    if (text) t->chat = tk_keep(t, text, strlen(text));
    return text && !t->chat ? -1 : 0;
}
/* Takes from open_clip_config.json how texts are cleaned. */
static int tk_openclip_take(tokenizer *t, const tk_document *d)
{
    const tk_json *text = tk_get(d, tk_get(d, &d->node[0], "model_cfg"), "text_cfg");
    const char *clean = tk_get_text(d, tk_get(d, text, "tokenizer_kwargs"), "clean", "lower");
    t->canonical = !strcmp(clean, "canonicalize");
    if (t->canonical || !strcmp(clean, "lower") || !strcmp(clean, "whitespace")) return 0;
    return tk_refuse(t, "clean \"%.40s\" is not done (canonicalize, lower, whitespace are)", clean);
}
/* Reads tokenizer_config.json, open_clip_config.json and chat_template.jinja in `folder` (its slash
   included), where they are there. */
static int tk_load_beside(tokenizer *t, const char *folder, char *error)
{
    static const char *const name[] = { "tokenizer_config.json", "open_clip_config.json",
                                        "chat_template.jinja" };
    char path[TK_PATH];
    tk_document d;
    int bad = 0, more;
    t->error = error;
    t->name = path;
    for (int i = 0; i < 3 && !bad; i++) {
        size_t size;
        bad = tk_path_set(path, folder, strlen(folder), name[i], error);
        if (bad) break;
        char *bytes = tk_file_read(path, SIZE_MAX, &size, &more);
        if (!bytes) {
            if (errno != ENOENT) bad = tk_refuse(t, "%s", tk_file_reason());
            continue;
        }
        if (i < 2) {
            bad = tk_json_open(t, &d, bytes, size)
                || (i ? tk_openclip_take(t, &d) : tk_config_take(t, &d));
            tk_json_close(&d);
        } else if (tk_is_valid(bytes, size)) {
            t->chat = tk_keep(t, bytes, size);
            bad = !t->chat;
        }
        tk_release(bytes);
    }
    t->error = NULL;
    t->name = NULL;
    return bad;
}
/* Writes into `file` which file a path means: of a folder the first that is there of four, else the
   path itself. Returns 0, or -1 after a message. */
static int tk_path_find(char *file, const char *path, char *error)
{
    static const char *const names[] = { "/spiece.model", "/tokenizer.json", "/tokenizer.model",
                                         "/vocab.json" };
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    for (int i = 0; i < 4; i++) {
        if (tk_path_set(file, path, n, names[i], error)) return -1;
        FILE *f = fopen(file, "rb");
        if (f) {
            fclose(f);
            return 0;
        }
        if (errno == ENOENT || errno == ENOTDIR) continue;   /* ENOTDIR: the path is a file's */
        snprintf(error, TOKENIZER_ERROR, "%.120s: %s", file, strerror(errno));
        return -1;
    }
    return tk_path_set(file, path, strlen(path), "", error);
}
tokenizer *tokenizer_load(const char *path, char *error)
{
    char file[TK_PATH];
    int is_gguf = 0;
    *error = 0;
    if (!path) {
        snprintf(error, TOKENIZER_ERROR, "expected a path, found NULL");
        return NULL;
    }
    if (tk_path_find(file, path, error)) return NULL;
    size_t n = strlen(file);
    int is_vocab = n >= 10 && !strcmp(file + n - 10, "vocab.json");
    tokenizer *t = is_vocab ? tk_load_vocab(file, error) : tk_load_file(file, &is_gguf, error);
    while (n && file[n - 1] != '/' && file[n - 1] != '\\') n--;
    file[n] = 0;
    if (!t || is_gguf || !tk_load_beside(t, file, error)) return t;
    tokenizer_free(t);
    return NULL;
}

/* ==== >>chat =========================================================================
   conversations as models were taught them

   A template is known by words in its text, and what it makes of a conversation is written here.
   What differs within a kind is read from the text: what it says of the model, how it writes a
   date, spaces around a mark.
   ==================================================================================== */

/* What is behind `words` in a template, or NULL: they are not there. A line's end in words is that
   of the template or "\\n", which is how strings write it; a tab is any white space or none. */
static const char *tk_behind(const char *at, const char *words)
{
    for (; *at; at++) {
        const char *p = at, *w = words;
        for (; *w; w++) {
            size_t n = *p == *w;
            if (*w == '\n' && p[0] == '\\' && p[1] == 'n') n = 2;
            if (*w == '\t') n = strspn(p, " \t\r\n");
            if (!n && *w != '\t') break;
            p += n;
        }
        if (!*w) return p;
    }
    return NULL;
}
static int tk_has(const tokenizer *t, const char *words)
{
    return tk_behind(t->chat, words) != NULL;
}

/* Whether a template writes the day with anything but %d, %B, %b and %Y. */
static int tk_chat_has_other_days(const tokenizer *t)
{
    const char *at = tk_behind(t->chat, "strftime_now(");
    for (; at; at = tk_behind(at, "strftime_now("))
        for (const char *p = at; *p && *p != ')'; p++)
            if (*p == '%' && (!p[1] || !strchr("dBbY", p[1]))) return 1;
    return 0;
}
/* Templates with the marks of others that say more, or less. */
static int tk_chat_is_another(const tokenizer *t)
{
    static const char *const words[] = { "<<SYS>>", "<|end|>", "[SYSTEM_PROMPT]", "<|im_sep|>",
                                         "<|endofprompt|>" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (tk_has(t, words[i])) return 1;
    return tk_chat_has_other_days(t);
}
/* Whether what a ChatML template says of its own is in strings, or in "system_message". */
static int tk_chat_is_said_plainly(const tokenizer *t)
{
    static const char mark[] = "<|im_start|>system";
    if (tk_has(t, "enable_thinking")) return 0;
    if (tk_has(t, "system_message") && !tk_has(t, "'<|im_start|>system\n' + system_message + "))
        return 0;
    for (const char *at = strstr(t->chat, mark); at; at = strstr(at + 1, mark))
        if (at == t->chat || !strchr("'\"", at[-1])) return 0;
    return 1;
}
/* The kind of a template with ChatML's marks. */
static int tk_chat_kind_of_chatml(const tokenizer *t)
{
    if (tk_has(t, "\"Reasoning Mode: \"") && tk_has(t, "\"## Custom Instructions\n\n\""))
        return tk_has(t, "\"None\"") ? TOKENIZER_CHAT_UNKNOWN : TOKENIZER_CHAT_SMOLLM3;
    if (tk_has(t, "trim") || tk_has(t, "strip()")) return TOKENIZER_CHAT_UNKNOWN;
    if (!tk_has(t, "<think>"))
        return tk_chat_is_said_plainly(t) ? TOKENIZER_CHATML : TOKENIZER_CHAT_UNKNOWN;
    if (!tk_has(t, "if '</think>' in ") || !tk_has(t, "if loop.index0 > ns.last_query_index"))
        return TOKENIZER_CHAT_UNKNOWN;
    if (tk_has(t, "'<|im_start|>assistant\n<think>\n'")) return TOKENIZER_CHAT_QWEN3;
    return tk_has(t, "enable_thinking is false\t%}\t{{-\t'<think>\n\n</think>\n\n'") ?
        TOKENIZER_CHAT_QWEN3 : TOKENIZER_CHAT_UNKNOWN;
}
/* Kinds, and words that are all in their templates. */
static const struct {
    int kind;
    const char *words[3];
} tk_chat_known[] = {
    { TOKENIZER_CHAT_LLAMA31, { "{{-\tsystem_message\t}}\t{{-\t\"<|eot_id|>\"",
                                "set system_message = \"\"",
                                "+ message['content'] | trim + '<|eot_id|>'" } },
    { TOKENIZER_CHAT_LLAMA3, { "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
                               "\t+ message['content'] | trim + '<|eot_id|>'", "bos_token",
                               "'<|start_header_id|>assistant<|end_header_id|>\n\n'" } },
    { TOKENIZER_CHAT_MISTRAL, { "[INST] ", " [/INST]", "" } },
    { TOKENIZER_CHAT_MISTRAL3, { "[INST] ", "[/INST]", "" } },
    { TOKENIZER_CHAT_TEKKEN, { "\"[INST]\" + message", "[/INST]", "" } },
    { TOKENIZER_CHAT_GRANITE, { "add_generation_prompt\t%}\t{{-\t'<|start_of_role|>assistant",
                                "<|end_of_role|>' + message['content'] + '<|end_of_text|>\n'",
                                "" } },
    { TOKENIZER_CHAT_GRANITE, { "'<|start_of_role|>assistant<|end_of_role|>'",
                                "<|end_of_role|>' + content.val + '<|end_of_text|>\n'",
                                "set ns.system_message = messages[0].content" } },
    { TOKENIZER_CHAT_NEMOTRON, { "<SPECIAL_10>System\n", "\n<SPECIAL_12>\n", "'/no_think'" } },
    { TOKENIZER_CHAT_NEMOTRON_H, { "<SPECIAL_10>System\n", "{'reasoning': True}",
                                   "\n<SPECIAL_11>Assistant\n" } },
    { TOKENIZER_CHAT_FALCON, { "'\n\nUser: ' + message['content'].strip()",
                               "'\n\nAssistant: ' + message['content'].strip()",
                               "'\n\nAssistant:'" } },
    { TOKENIZER_CHAT_FALCON3, { "'<|user|>\n' + message['content'] + '\n'", "'<|assistant|>\n'",
                                "message['content'] + eos_token" } },
    { TOKENIZER_CHAT_GEMMA, { "set first_user_prefix = messages[0]['content'] + '\n\n'",
                              "'<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first",
                              "'<end_of_turn>\n'" } },
    { TOKENIZER_CHAT_ZEPHYR, { "'<|user|>\n' + message['content'] + eos_token", "<|assistant|>",
                               "" } },
};
int tokenizer_chat_kind(const tokenizer *t)
{
    if (!t || !t->chat) return TOKENIZER_CHAT_NONE;
    if (tk_chat_is_another(t)) return TOKENIZER_CHAT_UNKNOWN;
    if (tk_has(t, "<|im_start|>") && tk_has(t, "<|im_end|>")) return tk_chat_kind_of_chatml(t);
    for (size_t i = 0; i < sizeof tk_chat_known / sizeof *tk_chat_known; i++) {
        const char *const *words = tk_chat_known[i].words;
        if (tk_has(t, words[0]) && tk_has(t, words[1]) && tk_has(t, words[2]))
            return tk_chat_known[i].kind;
    }
    return TOKENIZER_CHAT_UNKNOWN;
}

/* ---- what a template says itself ---- */

typedef struct tk_chat {
    const tokenizer *t;
    const tokenizer_chat_options *options;
    int kind, think;
    tokenizer_text *to;
    tokenizer_text said;                         /* of one message, as the template changes it */
} tk_chat;

/* The day as Python's strftime writes it in English: %d, %B, %b and %Y. */
static int tk_chat_day(const tk_chat *c, const char *format, size_t n, tokenizer_text *to)
{
    static const char *const month[] = { "January", "February", "March", "April", "May", "June",
        "July", "August", "September", "October", "November", "December" };
    const tokenizer_chat_options *o = c->options;
    int year = 2024, number = 7, day = 26, bad = 0;
    if (o && o->year) {
        year = o->year;
        number = o->month;
        day = o->day;
    }
    for (size_t i = 0; i < n && !bad; i++) {
        char digits[16];
        char what = format[i] == '%' && i + 1 < n ? format[++i] : 0;
        snprintf(digits, sizeof digits, what == 'd' ? "%02d" : "%d", what == 'd' ? day : year);
        if (what == 'd' || what == 'Y') bad = tk_say(to, digits);
        else if (what == 'B') bad = tk_say(to, month[number - 1]);
        else if (what == 'b') bad = tokenizer_text_add(to, month[number - 1], 3);
        else bad = tokenizer_text_add(to, format + i, 1);
    }
    return bad;
}
/* Appends what the template's expression at `at` says: strings, and the day, with "+" between
   them. What else it adds is left out. */
static int tk_chat_say(const tk_chat *c, const char *at, tokenizer_text *to)
{
    static const char today[] = "strftime_now(";
    while (at) {
        int is_day = !strncmp(at, today, sizeof today - 1);
        if (is_day) at += sizeof today - 1;
        char quote = *at++;
        if (quote != '"' && quote != '\'') return 0;
        const char *end = at;
        while (*end && *end != quote) end += *end == '\\' && end[1] ? 2 : 1;
        if (is_day && tk_chat_day(c, at, (size_t)(end - at), to)) return -1;
        for (; at < end && !is_day; at++) {
            char letter = *at;
            if (letter == '\\') letter = *++at;
            if (letter == 'n' && at[-1] == '\\') letter = '\n';
            if (tokenizer_text_add(to, &letter, 1)) return -1;
        }
        at = *end ? end + 1 : end;
        if (is_day && *at == ')') at++;          /* a template may end before it */
        at += strspn(at, " \n");
        if (*at != '+' && *at != '~') return 0;
        at += 1 + strspn(at + 1, " \n");
    }
    return 0;
}
/* The same of an expression behind words. */
static int tk_chat_say_behind(const tk_chat *c, const char *words, tokenizer_text *to)
{
    return tk_chat_say(c, tk_behind(c->t->chat, words), to);
}
static const char *tk_token_text(const tokenizer *t, int32_t id)
{
    const tk_token *token = tk_token_of(t, id);
    return token ? token->text : "";
}

/* ---- what templates change in a message ---- */

/* The bytes of the white space with which a text begins, as Python strips it; 0: none. */
static size_t tk_white_bytes(const char *text, size_t n)
{
    size_t length = 1;
    unsigned char first = (unsigned char)*text;
    if (first >= 0xC0) length = first < 0xE0 ? 2 : 3;
    if (length > n || !tk_is_valid(text, length)) return 0;
    uint32_t point = tk_point(text, &length);
    return tk_is_white(point) || (point >= 0x1C && point <= 0x1F) ? length : 0;
}
static void tk_drop(tokenizer_text *x, size_t n)     /* from the beginning */
{
    if (!n) return;
    memmove(x->at, x->at + n, x->count - n + 1);
    x->count -= n;
}
static void tk_strip_end(tokenizer_text *x)
{
    for (;;) {
        size_t length = 0;
        for (size_t n = 1; n <= 3 && n <= x->count && !length; n++)
            if (tk_white_bytes(x->at + x->count - n, n) == n) length = n;
        if (!length) return;
        x->count -= length;
        x->at[x->count] = 0;
    }
}
static void tk_strip(tokenizer_text *x)
{
    size_t n = 0, length = 1;
    while (n < x->count && length) {
        length = tk_white_bytes(x->at + n, x->count - n);
        n += length;
    }
    tk_drop(x, n);
    tk_strip_end(x);
}
static void tk_strip_lines(tokenizer_text *x)        /* line ends at the beginning */
{
    tk_drop(x, strspn(x->at, "\n"));
}
/* Puts `with`, which is no longer, in the place of each `word`. */
static void tk_shorten(tokenizer_text *x, const char *word, const char *with)
{
    size_t n = strlen(word), m = strlen(with), at = 0, to = 0;
    while (at < x->count) {
        if (strncmp(x->at + at, word, n)) {
            x->at[to++] = x->at[at++];
        } else {
            memcpy(x->at + to, with, m);
            to += m;
            at += n;
        }
    }
    x->count = to;
    x->at[to] = 0;
}
/* Leaves what is behind a mark: the last one, or the first and up to the second. */
static void tk_cut(tokenizer_text *x, const char *mark, int last)
{
    const char *at = strstr(x->at, mark), *next = at;
    while (next && last) {
        at = next;
        next = strstr(at + strlen(mark), mark);
    }
    if (!at) return;
    tk_drop(x, (size_t)(at - x->at) + strlen(mark));
    next = last ? NULL : strstr(x->at, mark);
    if (next) x->count = (size_t)(next - x->at);
    x->at[x->count] = 0;
}

/* ---- messages ---- */

/* What stands before a message's role, between it and the text, and behind the text. */
static const struct tk_role_marks {
    int kind;
    const char *before, *between, *after;
} tk_chat_marks[] = {
    { TOKENIZER_CHATML, "<|im_start|>", "\n", "<|im_end|>\n" },
    { TOKENIZER_CHAT_QWEN3, "<|im_start|>", "\n", "<|im_end|>\n" },
    { TOKENIZER_CHAT_SMOLLM3, "<|im_start|>", "\n", "<|im_end|>\n" },
    { TOKENIZER_CHAT_LLAMA3, "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>" },
    { TOKENIZER_CHAT_LLAMA31, "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>" },
    { TOKENIZER_CHAT_ZEPHYR, "<|", "|>\n", "\n" },
    { TOKENIZER_CHAT_FALCON3, "<|", "|>\n", "\n" },
    { TOKENIZER_CHAT_GRANITE, "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n" },
    { TOKENIZER_CHAT_GEMMA, "<start_of_turn>", "\n", "<end_of_turn>\n" },
};
static const struct tk_role_marks *tk_marks_of(int kind)
{
    for (size_t i = 0; i < sizeof tk_chat_marks / sizeof *tk_chat_marks; i++)
        if (tk_chat_marks[i].kind == kind) return &tk_chat_marks[i];
    return NULL;
}
static int tk_chat_open(const tk_chat *c, const char *role)
{
    const struct tk_role_marks *marks = tk_marks_of(c->kind);
    int system = !strcmp(role, "system"), user = !strcmp(role, "user");
    if (c->kind == TOKENIZER_CHAT_GEMMA && !user) role = "model";
    if (marks)
        return tk_say(c->to, marks->before) || tk_say(c->to, role) || tk_say(c->to, marks->between);
    if (c->kind == TOKENIZER_CHAT_FALCON) {
        if (system) return 0;
        return tk_say(c->to, user ? "\n\nUser: " : "\n\nAssistant: ");
    }
    if (system) return tk_say(c->to, "<SPECIAL_10>System\n");
    if (c->kind == TOKENIZER_CHAT_NEMOTRON)
        return tk_say(c->to, user ? "<SPECIAL_11>User\n" : "<SPECIAL_11>Assistant\n");
    return user ? tk_say(c->to, "\n<SPECIAL_11>User\n") : 0;
}
static int tk_chat_close(const tk_chat *c, const char *role)
{
    const struct tk_role_marks *marks = tk_marks_of(c->kind);
    const char *end = tk_token_text(c->t, c->t->end);
    int user = !strcmp(role, "user"), answer = !strcmp(role, "assistant");
    int ended = c->kind == TOKENIZER_CHAT_ZEPHYR || (c->kind == TOKENIZER_CHAT_FALCON3 && answer);
    if (ended && tk_say(c->to, end)) return -1;
    if (marks) return tk_say(c->to, marks->after);
    if (c->kind == TOKENIZER_CHAT_NEMOTRON_H && user)
        return tk_say(c->to, "\n<SPECIAL_11>Assistant\n");
    if (c->kind != TOKENIZER_CHAT_NEMOTRON) return 0;
    if (user) return tk_say(c->to, "\n");
    if (answer) return tk_say(c->to, "\n<SPECIAL_12>\n");
    return tk_say(c->to, tk_has(c->t, "'\n\n'\t-}}\t{%-\tset messages = messages[1:]") ?
                  "\n\n" : "\n");
}
/* Writes a message whose text is c->said. */
static int tk_chat_write(const tk_chat *c, const char *role)
{
    return tk_chat_open(c, role) || tokenizer_text_add(c->to, c->said.at, c->said.count) ||
        tk_chat_close(c, role);
}
/* Falcon's lines: one end in the place of two. */
static void tk_chat_lines(tk_chat *c)
{
    if (c->kind != TOKENIZER_CHAT_FALCON) return;
    if (strstr(c->t->chat, "\\r\\n")) tk_shorten(&c->said, "\r\n", "\n");
    tk_shorten(&c->said, "\n\n", "\n");
}
/* Makes c->said a message's text, with what a template does to all of them. */
static int tk_chat_take(tk_chat *c, const char *text)
{
    int nemotron = c->kind == TOKENIZER_CHAT_NEMOTRON || c->kind == TOKENIZER_CHAT_NEMOTRON_H;
    c->said.count = 0;
    if (tk_say(&c->said, text)) return -1;
    if (c->kind == TOKENIZER_CHAT_NEMOTRON) {
        tk_shorten(&c->said, "/think", "");
        tk_shorten(&c->said, "/no_think", "");
    }
    if (nemotron || c->kind == TOKENIZER_CHAT_LLAMA3 || c->kind == TOKENIZER_CHAT_LLAMA31 ||
        c->kind == TOKENIZER_CHAT_FALCON || c->kind == TOKENIZER_CHAT_GEMMA) tk_strip(&c->said);
    return 0;
}

/* ---- the system message ---- */

/* The system message that a ChatML template has for a conversation without one: what its strings
   say between the marks, or "system_message". Empty: it has none. */
static int tk_chat_system_of_chatml(tk_chat *c)
{
    static const char begin[] = "<|im_start|>system\n";
    const char *at = tk_behind(c->t->chat, "<|im_start|>system"), *end = NULL;
    for (; at && !end; at = tk_behind(at, "<|im_start|>system")) {
        c->said.count = 0;
        if (tk_chat_say(c, at - (sizeof begin - 1), &c->said)) return -1;
        if (!c->said.count || strncmp(c->said.at, begin, sizeof begin - 1)) continue;
        tk_drop(&c->said, sizeof begin - 1);
        end = strstr(c->said.at, "<|im_end|>");
        if (end) c->said.count = (size_t)(end - c->said.at);
    }
    if (end) return 0;
    c->said.count = 0;
    at = tk_behind(c->t->chat, "set system_message = '");
    return at ? tk_chat_say(c, at - 1, &c->said) : 0;
}
/* "Cutting Knowledge Date", "Today Date" and what was told. */
static int tk_chat_system_of_llama(tk_chat *c, const char *told)
{
    const char *knowledge = strstr(c->t->chat, "\"Cutting Knowledge Date: ");
    if (tk_chat_open(c, "system")) return -1;
    if (knowledge && (tk_chat_say(c, knowledge, c->to) || tk_say(c->to, "Today Date: ") ||
        tk_chat_say_behind(c, "set date_string = ", c->to) || tk_say(c->to, "\n\n"))) return -1;
    if (tk_chat_take(c, told ? told : "")) return -1;
    return tokenizer_text_add(c->to, c->said.at, c->said.count) || tk_chat_close(c, "system");
}
/* A block with the day, the mode, and what was told or what stands for it. */
static int tk_chat_system_of_smollm3(tk_chat *c, const char *told)
{
    static const char override[] = "/system_override";
    const char *text = told ? told : "", *mode;
    if (strstr(text, "/no_think")) c->think = 0;
    else if (strstr(text, "/think")) c->think = 1;
    mode = c->think ? "/think\n\n" : "/no_think\n\n";
    if (tk_chat_take(c, text)) return -1;
    tk_shorten(&c->said, "/no_think", "");
    tk_shorten(&c->said, "/think", "");
    tk_strip_end(&c->said);
    if (strstr(text, override) && strstr(c->t->chat, override)) {
        tk_shorten(&c->said, override, "");
        tk_strip_end(&c->said);
        return tk_chat_write(c, "system");
    }
    int bad = tk_chat_open(c, "system") || tk_say(c->to, "## Metadata\n\n") ||
        tk_chat_say(c, strstr(c->t->chat, "\"Knowledge Cutoff Date: "), c->to);
    if (!bad && tk_has(c->t, "\"Today Date: \""))
        bad = tk_say(c->to, "Today Date: ") || tk_chat_say_behind(c, "set today = ", c->to) ||
            tk_say(c->to, "\n");
    bad = bad || tk_say(c->to, "Reasoning Mode: ") || tk_say(c->to, mode) ||
        tk_say(c->to, "## Custom Instructions\n\n");
    if (bad) return -1;
    if (c->said.count)
        bad = tokenizer_text_add(c->to, c->said.at, c->said.count) || tk_say(c->to, "\n\n");
    else bad = tk_chat_say_behind(c, c->think ? "elif reasoning_mode == \"/think\"\t-%}\t{{-\t" :
                                  "\n\n\"\t-}}\t{%-\telse\t-%}\t{{-\t", c->to);
    return bad || tk_chat_close(c, "system");
}
/* Granite's says which model it is, and versions 3.1 to 3.3 the day, where nothing was told. */
static int tk_chat_system_of_granite(tk_chat *c, const char *told)
{
    const char *const whole = "set g4_default_system_message = ";
    int fourth = tk_has(c->t, "set ns.system_message = messages[0].content"), bad;
    const char *parts = tk_behind(c->t->chat, "set system_message = \t\"");
    if (told && (*told || !fourth)) return tk_chat_take(c, told) || tk_chat_write(c, "system");
    c->said.count = 0;
    bad = tk_chat_say_behind(c, whole, &c->said);
    if (!bad && !fourth && parts) {
        bad = tk_chat_say(c, parts - 1, &c->said) || tk_chat_say(c, tk_behind(parts,
            c->think ? "elif thinking\t%}\t{%-\tset system_message = system_message + " :
            "else\t%}\t{%-\tset system_message = system_message + "), &c->said);
    }
    if (bad || !c->said.count) return bad;
    return tk_chat_write(c, "system");
}
static int tk_chat_system(tk_chat *c, const char *told)
{
    int always = c->kind == TOKENIZER_CHAT_NEMOTRON || c->kind == TOKENIZER_CHAT_NEMOTRON_H;
    if (c->kind == TOKENIZER_CHAT_GEMMA) return 0;       /* it is part of the first question */
    if (c->kind == TOKENIZER_CHAT_LLAMA31) return tk_chat_system_of_llama(c, told);
    if (c->kind == TOKENIZER_CHAT_SMOLLM3) return tk_chat_system_of_smollm3(c, told);
    if (c->kind == TOKENIZER_CHAT_GRANITE) return tk_chat_system_of_granite(c, told);
    if (told || always) return tk_chat_take(c, told ? told : "") || tk_chat_write(c, "system");
    if (c->kind != TOKENIZER_CHATML) return 0;
    if (tk_chat_system_of_chatml(c)) return -1;
    return c->said.count ? tk_chat_write(c, "system") : 0;
}

/* ---- conversations ---- */

/* Whether messages are a system message at most, and then user and assistant in turns. */
static int tk_chat_check(const tokenizer_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int system = !strcmp(messages[i].role, "system");
        size_t turn = i - !strcmp(messages[0].role, "system");
        const char *expected = turn % 2 ? "assistant" : "user";
        if (!(i == 0 && system) && strcmp(messages[i].role, expected)) return 0;
    }
    return count > 0 && !strcmp(messages[count - 1].role, "user");
}
/* An earlier answer: what was thought is left out of most. */
static int tk_chat_answer(tk_chat *c, const char *text)
{
    if (c->kind == TOKENIZER_CHAT_NEMOTRON) {
        c->said.count = 0;
        if (tk_say(&c->said, text)) return -1;
        tk_cut(&c->said, "</think>", 0);
        tk_strip(&c->said);
        return tk_chat_write(c, "assistant");
    }
    if (tk_chat_take(c, text)) return -1;
    if (c->kind == TOKENIZER_CHAT_QWEN3 && strstr(text, "</think>")) {
        tk_cut(&c->said, "</think>", 1);
        tk_strip_lines(&c->said);
    }
    tk_chat_lines(c);
    if (c->kind != TOKENIZER_CHAT_SMOLLM3) return tk_chat_write(c, "assistant");
    tk_strip_lines(&c->said);
    return tk_chat_open(c, "assistant") || (!c->think && tk_say(c->to, "<think>\n\n</think>\n")) ||
        tokenizer_text_add(c->to, c->said.at, c->said.count) || tk_chat_close(c, "assistant");
}
/* Mistral's templates differ in the spaces around texts, and in whether the first or the last
   question has the system message before it. `told` is that of this message, or NULL. */
static int tk_chat_mistral(const tk_chat *c, const tokenizer_message *m, const char *told)
{
    const tokenizer *t = c->t;
    const char *open = c->kind == TOKENIZER_CHAT_TEKKEN ? "[INST]" : "[INST] ";
    const char *close = c->kind == TOKENIZER_CHAT_MISTRAL ? " [/INST]" : "[/INST]";
    int before = tk_has(t, "' ' + message['content']") || tk_has(t, "\" \" + message[\"content\"]");
    int after = tk_has(t, "eos_token + ' '") || tk_has(t, "eos_token + \" \"");
    tokenizer_text *to = c->to;
    if (!strcmp(m->role, "user")) {
        if (tk_has(t, "' [INST] ' + message") && tk_say(to, " ")) return -1;
        if (tk_say(to, open) || (told && (tk_say(to, told) || tk_say(to, "\n\n")))) return -1;
        return tk_say(to, m->text) || tk_say(to, close);
    }
    if (before && tk_say(to, " ")) return -1;
    tokenizer_text said = { NULL, 0, 0 };
    int bad = tk_say(&said, m->text);
    if (!bad && (tk_has(t, "trim") || tk_has(t, "strip()"))) tk_strip(&said);
    bad = bad || tokenizer_text_add(to, said.at, said.count);
    tokenizer_text_free(&said);
    return bad || tk_say(to, tk_token_text(t, t->end)) || (after && tk_say(to, " "));
}
static int tk_chat_is_mistral(int kind)
{
    return kind == TOKENIZER_CHAT_MISTRAL || kind == TOKENIZER_CHAT_MISTRAL3 ||
        kind == TOKENIZER_CHAT_TEKKEN;
}
/* Why a conversation has no text, or NULL. */
static const char *tk_chat_wrong(const tk_chat *c, const tokenizer_message *messages, size_t count)
{
    const tokenizer *t = c->t;
    const tokenizer_chat_options *o = c->options;
    int system = count && !strcmp(messages[0].role, "system");
    int qwen = c->kind == TOKENIZER_CHAT_QWEN3 && tk_has(t, "enable_thinking is false");
    int granite = c->kind == TOKENIZER_CHAT_GRANITE && tk_has(t, "elif thinking\t%}");
    if (c->kind == TOKENIZER_CHAT_NONE) return "the model has no chat template";
    if (c->kind == TOKENIZER_CHAT_UNKNOWN) return "the model's chat template is not done "
        "(those of ChatML, Llama 3, Zephyr, Mistral, Qwen3, SmolLM3, Granite, Falcon, Gemma 3 "
        "and Nemotron-H are)";
    if (!tk_chat_check(messages, count))
        return "expected messages of user and assistant in turns, the last of user";
    if (tk_chat_is_mistral(c->kind) && system && !tk_has(t, "+ system_message + "))
        return "the model's chat template (Mistral's) has no system message";
    if (c->kind == TOKENIZER_CHAT_QWEN3)
        for (size_t i = 0; i < count; i++)
            if (!strncmp(messages[i].text, "<tool_response>", 15))
                return "expected messages without <tool_response>: tools are not done";
    if (o && o->think && !qwen && !granite && c->kind != TOKENIZER_CHAT_SMOLLM3 &&
        c->kind != TOKENIZER_CHAT_NEMOTRON)
        return "the model's chat template has no switch for thinking";
    if (o && o->year && (o->month < 1 || o->month > 12 || o->day < 1 || o->day > 31))
        return "expected a month from 1 to 12 and a day from 1 to 31";
    return NULL;
}
/* What a template does untold, what it is told, and what Nemotron's messages say. */
static void tk_chat_set_think(tk_chat *c, const tokenizer_message *messages, size_t count)
{
    c->think = c->kind != TOKENIZER_CHAT_GRANITE;
    if (c->options && c->options->think) c->think = c->options->think > 0;
    for (size_t i = 0; i < count && c->kind == TOKENIZER_CHAT_NEMOTRON; i++) {
        int counts = strcmp(messages[i].role, "assistant") != 0;
        if (counts && strstr(messages[i].text, "/think")) c->think = 1;
        else if (counts && strstr(messages[i].text, "/no_think")) c->think = 0;
    }
}
/* What calls for the answer. `told` is the system message. */
static int tk_chat_call(const tk_chat *c, const char *told)
{
    tokenizer_text *to = c->to;
    if (tk_chat_is_mistral(c->kind)) return 0;
    if (c->kind == TOKENIZER_CHAT_FALCON) return tk_say(to, "\n\nAssistant:");
    if (tk_chat_open(c, "assistant")) return -1;
    switch (c->kind) {
    case TOKENIZER_CHAT_QWEN3:
        if (tk_has(c->t, "'<|im_start|>assistant\n<think>\n'")) return tk_say(to, "<think>\n");
        return c->think ? 0 : tk_say(to, "<think>\n\n</think>\n\n");
    case TOKENIZER_CHAT_SMOLLM3: return c->think ? 0 : tk_say(to, "<think>\n\n</think>\n");
    case TOKENIZER_CHAT_NEMOTRON: return tk_say(to, c->think ? "<think>\n" : "<think></think>");
    case TOKENIZER_CHAT_NEMOTRON_H:
        if (told && strstr(told, "{'reasoning': True}")) return tk_say(to, "<think>\n");
        return told && strstr(told, "{'reasoning': False}") ? tk_say(to, "<think></think>") : 0;
    default: return 0;
    }
}
/* Gemma's first question, with what was told before it. */
static int tk_chat_gemma(tk_chat *c, const char *told, const char *text)
{
    return tk_chat_take(c, text) || tk_chat_open(c, "user") || tk_say(c->to, told) ||
        tk_say(c->to, "\n\n") || tokenizer_text_add(c->to, c->said.at, c->said.count) ||
        tk_chat_close(c, "user");
}
/* Writes what a template makes of messages that were checked. */
static int tk_chat_all(tk_chat *c, const tokenizer_message *messages, size_t count)
{
    int mistral = tk_chat_is_mistral(c->kind), bad = 0;
    size_t first = !strcmp(messages[0].role, "system");
    const char *told = first ? messages[0].text : NULL;
    size_t told_at = tk_has(c->t, "loop.first and system_message") ? first : count - 1;
    tk_chat_set_think(c, messages, count);
    if (tk_has(c->t, "bos_token")) bad = tk_say(c->to, tk_token_text(c->t, c->t->begin));
    if (!bad && !mistral) bad = tk_chat_system(c, told);
    for (size_t i = first; i < count && !bad; i++) {
        const tokenizer_message *m = &messages[i];
        if (mistral) bad = tk_chat_mistral(c, m, i == told_at ? told : NULL);
        else if (!strcmp(m->role, "assistant")) bad = tk_chat_answer(c, m->text);
        else if (c->kind == TOKENIZER_CHAT_GEMMA && told && i == first)
            bad = tk_chat_gemma(c, told, m->text);
        else {
            bad = tk_chat_take(c, m->text);
            if (!bad) tk_chat_lines(c);
            bad = bad || tk_chat_write(c, "user");
        }
    }
    return bad || tk_chat_call(c, told);
}
int tokenizer_chat(const tokenizer *t, const tokenizer_message *messages, size_t count,
                   const tokenizer_chat_options *options, tokenizer_text *text, char *error)
{
    tk_chat c;
    memset(&c, 0, sizeof c);
    c.t = t;
    c.options = options;
    c.kind = tokenizer_chat_kind(t);
    c.to = text;
    const char *wrong = tk_chat_wrong(&c, messages, count);
    if (!wrong && tk_chat_all(&c, messages, count)) wrong = "out of memory";
    tokenizer_text_free(&c.said);
    snprintf(error, TOKENIZER_ERROR, "%s", wrong ? wrong : "");
    return wrong ? -1 : 0;
}
int32_t tokenizer_chat_end(const tokenizer *t)
{
    static const char *const mark[] = { "<|im_end|>", "<|eot_id|>", "<|end_of_text|>",
                                        "<SPECIAL_12>", "<end_of_turn>" };
    int kind = tokenizer_chat_kind(t), at = -1;
    if (kind == TOKENIZER_CHATML || kind == TOKENIZER_CHAT_QWEN3 || kind == TOKENIZER_CHAT_SMOLLM3)
        at = 0;
    if (kind == TOKENIZER_CHAT_LLAMA3 || kind == TOKENIZER_CHAT_LLAMA31) at = 1;
    if (kind == TOKENIZER_CHAT_GRANITE) at = 2;
    if (kind == TOKENIZER_CHAT_NEMOTRON) at = 3;
    if (kind == TOKENIZER_CHAT_GEMMA) at = 4;
    return at < 0 ? tokenizer_end(t) : tokenizer_find(t, mark[at]);
}

/* ==== >>tables =======================================================================
   Unicode 16.0.0, written by tests/unicode.py

   Categories and combining classes are runs (see >>unicode). Of the others each number is three
   digits of base 64 (tk_digits): what a character is made of, one number or two. Where a character
   does not follow the one before, "!" and its code point stand before it. Those of tk_unicode_apart
   are taken apart and never put together. Runs of capital letters (tk_unicode_lower) are numbers:
   the first letter, how many there are, the step from one to the next, and what is added to make it
   small.
   ==================================================================================== */

static const char *const tk_unicode_categories[] = {
    "a32Dv3xv3wsvzvrv2n10v2z3v2j26wvsyqyf26wzsza33Dvx4AvyAhuzbAyAzp2yfv2yphtp3vj23zj7f24zf8jfjfjf",
    "jfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjf2jfjfjfjfjfjfjfjf2jfjfjfjfjfjfjfjfjfjfjfjf",
    "jfjfjfjfjfjfjfjfjfjfjfj2fjfjf3j2fjfj2fj3f2j4fj2fj3f3j2fj2fjfjfj2fjf2jfj2fj3fjfj2f2hjf3h4jifj",
    "ifjifjfjfjfjfjfjfjfjf2jfjfjfjfjfjfjfjfjf2jifjfj3fjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfj",
    "fjfjfjfjfjfjfjf7j2fj2f2jfj4fjfjfjfjf69hf27g18y4g12y14g5y7gygy17m112jfjfgyjfc2gf3vjc4y2jvj3cj",
    "cj2fj17cj9f35jf2j3f3jfjfjfjfjfjfjfjfjfjfjfjf5jfzjfj2f2j51f48jfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjf",
    "jfAm5l2jfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfj2fjfjfjfjfjfjf2jfjfjfjfjfjfjfj",
    "fjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfcj38c2gv6f4",
    "1vrc2A2xcm45rmvm2vm2vmc8h27c4h4v2c11b6z3v2xv2A2m11vbv3h32gh10m21n10v4h2mh99vhm7bAm6g2m2Am4h2",
    "n10h3A2hv14cbhmh30m27c2h89m11hc14n10h33m9g2Av3gc2mx2h22m4gm9gm3gm5c2v15ch25m3c2vch11c5h24yh6",
    "cb2c5m9h41gm24bm32kh54mkmhk3m8k4mk2hm7h10m2v2n10vgh15mk2ch8c2h2c2h22ch7chc3h4c2mhk3m4c2k2c2k",
    "2mhc8kc4h2ch3m2c2n10h2x2p6Axhvmc2m2kch6c4h2c2h22ch7ch2ch2ch2c2mck3m2c4m2c2m3c3mc7h4chc7n10m2",
    "h3mvc10m2kch9ch3ch22ch7ch2ch5c2mhk3m5cm2kck2mc2hc15h2m2c2n10vxc7hm6cmk2ch8c2h2c2h22ch7ch2ch5",
    "c2mhkmkm4c2k2c2k2mc7m2kc4h2ch3m2c2n10Ahp6c10mhch6c3h3ch4c3h2chch2c3h2c3h3c3h12c4k2mk2c3k3ck3",
    "mc2hc6kc14n10p3A6xAc5mk3mh8ch3ch23ch16c2mhm3k4cm3cm4c7m2ch3c2hc2h2m2c2n10c7vp7Ahmk2vh8ch3ch2",
    "3ch10ch5c2mhkmk5cmk2ck2m2c7k2c6h2ch2m2c2n10ch2kc12m2k2h9ch3ch41m2hk3m4ck3ck3mhAc4h3kp7h3m2c2",
    "n10p9Ah6cmk2ch18c3h24ch9chc2h7c3mc4k3m3cmck8c6n10c2k2vc12h48mh2m7c4xh6gm8vn10v2c37h2chch5ch2",
    "4chch10mh2m9hc2h5cgcm7cn10c2h4c32hA3v15AvA3m2A6n10p10AmAmAmwswsk2h8ch36c4m14km5vm2h5m11cm36c",
    "A8mA6cA2v5A4v2c37h43k2m4km6km2k2m2hn10v6h6k2m2h4m3hk3h2k7h3m4h13mk2m2k6mhkn10k3mA2j38cjc5jc2",
    "f43vgf3h329ch4c2h7chch4c2h41ch4c2h33ch4c2h7chch4c2h15ch57ch4c2h67c2m3v9p20c3h16A10c6j86c2f6c",
    "2rh620Avh17Dh26wsc3h75v3o3h8c7h18m3kc9h19m2kv2c9h18m2c12h13ch3cm2c12h52m2km7k8mk2m11v3gv3xhm",
    "c2n10c6p10c6v6rv4m3bmn10c6h35gh53c7h5m2h34mhc5h70c10h31cm3k4m2k3c4k2mk6m3c4Ac3v2n10h30c2h5c1",
    "1h44c4h26c6n10pc3A34h23m2k2mc2v2h53kmkm7cmkmk2m8k6m10c2mn10c6n10c6v7gv6c2m14lm16c49m4kh47mkm",
    "5kmk5mk2h8cv2n10v7A10m9A9v3m2kh30km4k2m2km3h2n10h44mkm2k3mkm3k2c8v4h36k8m8k2m2c3v5n10c3h3n10",
    "h30g6v2f9jfc5j43c2j3v8c8m3vm13km7h4mh6mh2km2hc5f44g63f13gf34g37m64jfjfjfjfjfjfjfjfjfjfjfjfjf",
    "jfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjf",
    "jfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjf9jfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfj",
    "fjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjf9j8f6c2j6c2f8j8f8j8f6c2j6c2f8cjcjcjcjf8j8f14c2f8i8f8i",
    "8f8i8f5cf2j4iyfy3f3cf2j4iy3f4c2f2j4cy3f8j5y3c2f3cf2j4iy2cD11b5r6v2utwu2twuv8BCb5Dv9utv4q2v3z",
    "wsv11zvqv10Db5cb10pgc2p6z3wsgp10z3wscg13c3x33c15m13l4ml3m12c15A2jA4jA2fj3f2j3fAjA2zj5A6jAjAj",
    "Aj4Afj4fh4fA2f2j2z5jf4AzA2fAp16o35jfo4pA2c4z5A5z2A4zA2zA2zA7zA31z2A2zAzA31z268A8wswsA20z2A7w",
    "sA81zA30z25A40z6A72c22A11c21p60A78p22A183zA9zA54z8A111zA248wswswswswswswsp30A44z5wsz31wswsws",
    "wswsz16A256z131wswswswswswswswswswswsz63wswsz32wsz258A48z21A2z6A39c2A32cA105j48f48jfj3f2jfjf",
    "jfj4fjf2jf6g2j3fjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjf",
    "jfjfjfjfjfjfjfjfjfjfjf2A6jfjfm3jfc5v4pv2f38cfc5fc2h56c7gvc14mh23c9h7ch7ch7ch7ch7ch7ch7ch7cm3",
    "2v2ututv3utvutv9rv2rvutv2utwswswswsv5gv10r2v4rvwv13A2v3wswswswsrc34A26cA89c12A214c26A16Dv3Ag",
    "howswswswswsA2wswswswsrws2Ao9m4k2rg5A2o3ghvA2ch86c2m2y2g2hrh90vg3hc5h43ch94cA2p4A10h32A38c9A",
    "h16A31cp10A30p8Ap15A32p10A39p15A320h6592A64h21013gh1143c3A55c9h40g6v2h268gv3h16n10h2c20jfjfj",
    "fjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfhml3vm10vgjfjfjfjfjfjfjfjfjfjfjfjfjfjfg2m2h70o10m2v",
    "6c8y23g9y2jfjfjfjfjfjfjf3jfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfjfgf8jf",
    "jfj2fjfjfjfjfgy2jfjfhjfjf3jfjfjfjfjfjfjfjfjfjfj5fj5fjfjfjfjfjfjfjfj4fjfj2fc2jfcfcfjfjfjfjc21",
    "g3jfhg2fh7mh3mh4mh23k2m2kA4mc3p6A2xAc6h52v4c8k2h50k16m2c8v2n10c6m18h6v3hvh2mn10h28m8v2h23m11",
    "k2c11vh29c3m3kh47mk2m4k2m2k3v13cgn10c4v2h5mgh9n10h5ch41m6k2m2k2m2c9h3mh8mkc2n10c2v4h16gh6A3h",
    "kmkh50mhm3h2m2h5m2hmhc24h2gv2h11km2k2v2hg2kmc10h6c2h6c2h6c9h7ch7cf43yg4f9gy2c4f80h35k2mk2mk2",
    "vkmc2n10c6h11172c12h23c4h49c4e2048d6400h366c2h106c38f7c12f5c5hmh10zh13ch5chch2ch2ch108y17c16",
    "h363swA16h64c2h54c7Ac32h12xA3m16v7wsvc6m16vr2q2wswswswswswswswsv2wsv4q3v3cv4rwswswsv3zrz3cvx",
    "v2c4h5ch135c2bcv3xv3wsvzvrv2n10v2z3v2j26wvsyqyf26wzszwsvwsv2h10gh45g2h31c3h6c2h6c2h6c2h3c3x2",
    "zyAx2cAz4A2c10b3A2c2h12ch26ch19ch2ch15c2h14c34h123c5v3c4p45c3A9o53p4A17p2A3cA13c3Ac47A45mc13",
    "0h29c3h49c15mp27c4h32p4c9h20oh8oc5h38m5c5h30cvh36c4h8vo5c42j40f40h78c2n10c6j36c4f36c4h40c8h5",
    "2c11vj11cj15cj7cj2cf11cf15cf7cf2c3h52c12h311c9h22c10h8c24g6cg42cg9c69h6c2hch44ch2c3hc2h23cvp",
    "8h23A2p7h31c8p9c48h19ch2c5p5h22p6c3vh26c5vc64h56c4p2h2p16c2p46hm3cm2c5m4h4ch3ch29c2m3c4mp9c7",
    "v9c7h29p2vh29p3c32h8Ah28m2c4p5v7c9h54c3v7h22c2p8h19c5p8h18c7v4c12p7c80h73c55j51c13f51c7p6h36",
    "m4c8n10c6n10h4ghj22c3m5rgf22c8z2c208p31ch42cm2rc2h2c16h3c55m4h29p10hc8h22m11p4v5c22h18m4v4c3",
    "8h21p7c20h23c9kmkh53m15v7c4p20n10mh2m2hc9m3kh45k3m4k2m2v2bv4mc10bc2h25c7n10c6m3h36m5km8cn10v",
    "4hk2hc8h35mv2hc9m2kh48k3m9k2h4v4m4vkmn10hvhv3cp20c11h18ch25k3m3k2mkm2v6mh2mc62h7chch4ch15ch1",
    "0vc6h47mk3m8c5n10c6m2k2ch8c2h2c2h22ch7ch2ch5cm2hk2mk4c2k2c2k3c2hc6kc5h5k2c2m7c3m5c11h10chc2h",
    "ch38chk3m6ckc2kck4ck2mkmhmhv2cv2c8m2c29h53k3m8k2m3kmh4v5n10v2cvmh3c30h48k3m6kmk4m2km2h2vhc8n",
    "10c166h47k3m4c2k4m2km2v23h4m2c34h48k3m8k2mkm2v3hc11n10c6v13c19h43mkmk2m6kmhvc6n10c6n20c28h27",
    "c2mkmk2m4km5c4n10p2v3Ah7c185h44k3m9km2vc100j32f32n10p9c12h8c2hc2h8ch2ch24k6ck2c2m2kmhkhkmv3c",
    "9n10c70h8c2h39k3m4c2m2k4mhvhkc27hm10h40m6khm4v8mc8hm6k2m3h46m13km2v3hv5c13h73c7v10c182h33vc1",
    "4n10c6h9ch37km7cm6kmhv5c10n10p19c3v2h30c2m22ckm7km2km2c73h7ch2ch38m6c3mcm2cm7hmc8n10c6h6ch2c",
    "h32k5cm2ck2mkmhc7n10c310h19m2k2v2c7m2hkh13ch34k2m5c3k2mkmv13n10mc85hc15p21A8x4A17c13vh922c10",
    "2o111cv5c11h196c2636h97v2c13h1072b16mh6m15c10h3995c5h583c6841h30m12k3m3n10c1734h569c7h31cn10",
    "c4v2h79cn10c6h30c2m5vc10h48m7v5A4g4vAc10n10cp7ch21c5h19c432g3h40g2v3n10c198j32f32p23v4c101h7",
    "5c4mhk55c7m4g13c64g2vgmc11k2c14h6136c8h1238c41h10c8935g4cg7cg2ch291c15hc29h3c2hc14h4c8h396c2",
    "308h107c5h13c3h9c7h10c2Am2vb4c3932A240n10c6A436c76m46c2m23c9A116c60A246c10A39c2A60k2m3A3k6b8",
    "m8A2m7A30m4A61c21A66m3Ac122p20c12p20c12A87c9p25c135j26f26j26f7cf18j26f26jcj2c2jc2j2c2j4cj8f4",
    "cfcf7cf11j26f26j2cj4c2j8cj7cf26j2cj4cj5cjc3j7cf26j26f26j26f26j26f26j26f26j26f26j26f28c2j25zf",
    "25zf6j25zf25zf6j25zf25zf6j25zf25zf6j25zf25zf6jfc2n50A512m55A4m50A8mA14mA2v5c15m5cm15c1104f10",
    "hf20c6f6c213m7cm17c2m7cm2cm5c5g62c33mc112h45c3m7g7c2n10c4hAc320h30mc17h44m4n10c5xc464h27gm4n",
    "10c214h30m2hn10c4vc480h7ch4ch2ch15ch197c2p9m7c41j34f34m7gc4n10c4v2c785p59Ap3xp4c76p45Ap15c19",
    "4h4ch27ch2chc2hch10ch4chchc6hc4hchchch3ch2chc2hchchchchch2chc2h4ch7ch4ch4chch10ch17c5h3ch5ch",
    "17c52z2c270A44c4A100c12A15c2A15cA15cA37c10p13A161c56A29c13A44c4A9c7A2c14A6c154A251y5A728c4A1",
    "7c3A13c3A119c4A95c6A12c4Ac15A12c4A56c8A10c6A40c8A30c2A12c4A2c62A340c12A14c2A13c3A10c5A56c7A1",
    "5c2A11c6A9c7A147cA92n10c1030h42720c32h4154c6h222c2h5762c14h7473c15h622c2466h542c1506h4939c5h",
    "4192c711761bc30b96c128m240c65040d65534c2d65534c2",
    NULL
};
static const char *const tk_unicode_classes[] = {
    "a768Z21+U4+SU5Q2U4Q2U11b5U4Z8/ZU3Z3U2aZ3U4Z+U2Z-*2-*2-Z13a275Z5a265UZ4UZ3VUZ6U6Z2UZ2VYZghijk",
    "lmnop2qrsatauvaZUaoa72Z8ABCa48xyzABCDEZ2U2Z5UZ2Ua16Fa101Z7a2Z4UZa2Z2aUZ2Ua35Ga30ZUZ2UZ2U3ZU2",
    "ZUZ3UZUZUZUZ2a160Z7UZa9Ua24Z4aZ9aZ3aZ5a43U3a59Z2U3Z4a42Z5U5Z14aUZ2UZ2UZ3U3xyzZ3UZ2U2Z5a60da1",
    "6fa3ZUZ2a103da16fa48Za61da16fa110da16fa110da16fa127fa110da16fa7HIa101da16fa109f2a16fa124fa10",
    "9J2fa13K4a108L2fa13M4a76U2a27UaUaSa55NOaPa5O4a2OaZ2faZ2a62Ua112daf2a82Ua719Z3a948f2a30fa157f",
    "a10Za203Ya143VZUa219ZUa71fa20Z8a2Ua48Z5U6Z2UaU2Z2U2Z5UZ4a101da15fa38ZUZ7a54f2a58da11f2a67da1",
    "52Z3abU5Z2U4Zab7a4Ua6Za3Z2a198Z2UZ7UZ2*RUQZ37+Y2UTZ-UZUa720Z2b2Z4b3Z2a4Za3b2ZUZb2U4Za3070Z3a",
    "141fa96Z32a554TY+VW2a105e2a30164Za4Z10a32Z2a80Z2a276fa37fa151fa27Z18a57U3a37fa95da12fa239ZaZ",
    "2Ua2Z2a5Z2aZa52fa246fa20272wa769Z7U7Z2a973Ua226Ua149Z5a1682UaZa40ZbUa4fa165ZUa573Z4a65Z5a317",
    "Z2a80U3a70U2Z3UZU4a49ZUZUa192fa41fa14fa57fda69Z3a48f2a62da76fa9da106fda178dfa80d2a16fa24Z7a3",
    "Z5a89f3a113fa3da23Za99fda251fda126fa118fda115fa269fda258f2a4da156fa83fa18fa81fa421fa258daf2a",
    "81fa425f2a16876fa2496b5a59Z7a1209c2a19628ba5318S2b3a3XS5a8U8a2Z5U2a30Z4a148Z3a3515Z7aZ17a2Z7",
    "aZ2aZ5a100Za160Z7a375Za61Z4a508+2UZa254ZUa736U7a109Z6da988853",
    NULL
};
static const unsigned char tk_unicode_class[] = {
    0, 1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
    20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,
    36, 84, 91, 103, 107, 118, 122, 129, 130, 132, 202, 214, 216, 218, 220, 222,
    224, 226, 228, 230, 232, 233, 234, 240
};
static const char *const tk_unicode_single[] = {
    "!anaamaamb!andamt!an+ak,!an>aa;!aohac/!b<XaoS!b<ZaoT!b<-aoU!b</aoV!b<,apm!b<;apn!b<<apo!b>;a",
    "og!b>>ao,!b_jaoi!b_laoj!b_taoq!b_Baok!b_JaoW!b_Raoo!b_UaofabG!b_,aom!b_;aop!b_<ac+!caacaccad",
    "!ceMaoP!ceQabladf!cmPdaidaj!pKaiXigB+i;kiZig;re.YfpLj>Cj>CfLrjhrfwhfLigh*hzPh>fiy_iE:iJ.jcpg",
    "Ocg+BhdzhpEiq<jfQjNXe:cfn-gSehiBiyTj.Ef-qg_RixniLKgljihyiGFf;kgCxg-Qhl=jdoe>gfg/flEgtegRthiq",
    "hBNiabiygizCi/VjCYjTVj/:hImhL_h*Gipjjmej,_iRwfJFf=ehXGib>hjIhJkiZcjB/fJyfXIgOtg/Ag=ph+Vh./jz",
    "lflsiclfhCfhmhOCh*>ipXjz-iUaglpgOciR>e.,fVNgashohhvWfmxhJ;e>_f>Pe.ngZmgv.h+IfpdfHEhCbirjiQQg",
    "U:i>WgYigl>ilLgoGhvLe:UffPfhjgIbhZNijViRsjhpfl-frcfLZf;Sgxfg_>hKQjwTjPQj:xj;ofkBgBggT/i<If,+",
    "ggqgiagsAg=JhfjhsjhNkh/+ibVi=MitUjaJjnkfixfkJfs<hdiiJciQQf;jf_-gn;gUUhW>hn-e;KfB,fVNf*:gaCho",
    "YhrPh>Aibgji+jB*jDijGye>lhMUjg+jA.gdHe:gfdAfVUfW_gwzgOchhohzcit=jb=j>ngAijyUfkjgD;gFZg-bg:Ch",
    "qjhvzhHRh+qjHEffTgiUjz.faRf+zg/Qi=Qf>lgfegGxhohjAgfiPfqpfXLgytgDogIOgZLhqghxIh<,iJpiJHjhmjBI",
    "fm_g::fqDhhqhsyix:jAJjXxj:FgExg/lihOhRlhSGhYshlahcziTye;aim*fi:fihf:MglthZwfUfg+EgA+i=;iHmjz",
    "niMlf;tffafxa!pOqfHA!pOsgz+!pOvfhEhmQhBkhK=hLEhLLhMpjDwhY>h><!pOGiys!pOIiR.!pOLja.jd<!pOQjJV",
    "jJ=jKOj*+jdEjA/e>UfdNffnfljflKfnrfwDfygfzOfHafIOfXKfXUgcugfOggoghYgvpgxIgArgIfg-/g.Ag=IhfUhi",
    "RhqIhIrhK>hLjhLihLqhLwhLDhMnhMohPahQbhVah/+h.jh,bh<YiafihTij,ij,irxiKqiMwiSbiS,iZti+ii>*ja.j",
    "BJjF_jG;gb-KlUiiy!pPWe.Mfg-ffOe>affffgaflhfl:fwDfvvfwzfxIfHAfIZfLefLufPIfSOf;sf;zf<Pf>Tgdygf",
    "ogeiggogfGghYgi+gpegqCgrsgvwgz+gCxgCBgDwgT,gU:g-bg;Bg;lg=IhaEhfUhENhi-hkVhmQhrXhughu;hyDhyFh",
    "BkhBBhB+hDkhDahJmhQXhVahX;h-Bh/+h=>iafinsipViD,iLbiMgiMwiQ_iR.iRliSbiR>iRTiS,iUki+ii=.jbYjgz",
    "jj*jz=jBJjDwjFBjF_jGljG;jSsj>CIHkIHeJpvdUDeayea,LjjLZqN;tj<dj>o!VGae.<e..e,bGeIe<Ge>Ue>;facf",
    "b:fczfdNfdpdsEGy:ffnffuffKff/GuCds,ffNfgnGvlfgxfgKe;mfgSfg-PhFfh-fiddtFfi;fjgfjYfj/duvflhflj",
    "flKfl:fmffmgfmxfnjfnrfnAfnZfn<fn_fn_fn_GOShbWfpkfpFGTJfpRfpXfqgfsEfq.frifrOfsIft*fuqfvtfvJfw",
    "efwefwzfwRfwZfxcfCwfygfCxfzrfz+fihfJUfFofF+fGnfElfGYfGXfISHtKfJYfJ/fKgfKAfKIfLIHAOHBQfNSfOBf",
    "ONfNyfPMdBUdB=fSifS>fS>HNifVdfVyfVNfVZHSyfV_fWgf<tfWIdEbfXGfXUfZafYnH/Kf-dH/Mf-Uf-Rf-=f/Hf/I",
    "dGVf/<f.Of.<f,PdHIIgddH=f:Wf:Zf:*f;kQosf;>ImXImXiibf=If=IdJhJk.MhAf<If<RdJJf>Af_nf_xf_,gcbdK",
    ":dKCgcuIBugdhgfigfmgfogfmgf:ggoggYggKggVghEghYgh*giqgiBgjDgkXglugnqISmgm<gl=gnOgodgpKIVXgqIg",
    "pfgoPdOUgrPgr>gsDgr/dPSgvpgvSJakgxJgB.gzjdSzgArdSidRKfgsfgvgCagACicTepzgCxgCBgCHgDEgDtJpddTj",
    "gF:gEfgHsgIfJrTgIogGFgKudUDgLcgMJgNQgQOJAJgRBdWygSHJINgTudXogTYgUFgU:gU;JQnH+lJR:gXoJY=gY_gZ",
    "ngXNg+wg+>g-/g-bg-Pg-.g*fJ+Eg++g.Vg,Ud+Zg;lg;hJ;rg/,g<UJ<EJ>og_gha,haEhaBd*whbkhb<hb/hcTGuLh",
    "ffKjJhgCKoRhiOhi-hjqKyihkahkvKC-KGuhn:hold:ShoLd:.d:.hrhhrChrXhsfhtkd=BhuKKW*hu>KYshvWIgFhyq",
    "K>HK>.Lbed_=eaihB+LdZLdYLezLeZhCEhCFhCFhDkea,hElebgecwLqDhHohImhJmedJLyMhLwLAALBfhMphNReeVhP",
    "ahPkhPpLL=LQNLQNhRUeicLURhVghVjeiNLYahZsekGhZOhZJh+aL>gh-Jembh/hh.ch,fem+MiOMjhenzMlzh<:Mm>h",
    ">vh_:iafMtAMuJibGMwOibWJnFepvicYiedeqlie>fQ-MENME-JotJoCiibiiei>EerRikriklikDfkZikXikZik<ilM",
    "MS=ilLimDinJioTimJio<ipNirxintipkipmipCMW*M-RMZveuRitXitZiuwNpkivKM=SevDevHM>XNdsevRizqizCiz",
    "NizPiAPiAiiCoiBIiD,iCOiDRiEgexxiFHiGbex,iHGiHJNzNiJxiJEey-iJ:ds;NIUNLMeA>eBhiQGiRTiUkiXvNYOi",
    "YRiZbi+Bi-/N=VGGei/li*=i/WGJEi;ui=.OxsOxTjcujdXjerOCUjeBji.jlxjlyjj=jp,jqvOV:jwleMvjw/O-/eNM",
    "jBdf*YjCJPffPiAePUeP*jFGPqkeQYPswjGljGljGPPw*jJIeSZjKPjMNjNcjN>eVoPSWjSsjXajZ<eZoeZTj-NQdoeZ",
    ".QefQioQkrj:;e-wj;,j;>j=fj=pj=wj=;Qya",
    NULL
};
static const char *const tk_unicode_pair[] = {
    "!adaabbamaabbambabbamcabbamdabbamiabbamk!adhabdamNabfamaabfambabfamcabfamiabjamaabjambabjamc",
    "abjami!adraboamdabpamaabpambabpamcabpamdabpami!adzabvamaabvambabvamcabvamiabzamb!adGabHamaab",
    "HambabHamcabHamdabHamiabHamk!adNabJamNabLamaabLambabLamcabLamiabPamaabPambabPamcabPami!adXab",
    "UamdabVamaabVambabVamcabVamdabVami!ad,ab-amaab-ambab-amcab-amiab,amb!ad_ab,amiabbameabHameab",
    "bamgabHamgabbamOabHamOabdambabJambabdamcabJamcabdamhabJamhabdammabJammabeammabKamm!aesabfame",
    "abLameabfamgabLamgabfamhabLamhabfamOabLamOabfammabLammabhamcabNamcabhamgabNamgabhamhabNamhab",
    "hamNabNamNabiamcabOamc!aeOabjamdabPamdabjameabPameabjamgabPamgabjamOabPamOabjamh!ae+abkamcab",
    "QamcablamNabRamN!ae,abmambabSambabmamNabSamNabmammabSamm!afdaboambabUambaboamNabUamNaboammab",
    "Uamm!afmabpameabVameabpamgabVamgabpamlabVaml!afuabsambabYambabsamNabYamNabsammabYammabtambab",
    "ZambabtamcabZamcabtamNabZamNabtammabZammabuamNab+amNabuammab+amm!afOabvamdab-amdabvameab-ame",
    "abvamgab-amgabvamkab-amkabvamlab-amlabvamOab-amOabxamcab/amcabzamcab,amcabzamiabAambab:ambab",
    "Aamhab:amhabAammab:amm!agGabpamBabVamB!agVabvamBab-amB!ahnabbammabHammabjammabPammabpammabVa",
    "mmabvammab-ammadCamead=ameadCambad=ambadCammad=ammadCamaad=ama!ahEadeameadKameaiMameaiNamead",
    "gameadMame!ahMabhammabNammablammabRammabpamOabVamOahQameahRameag/ammaksammabQamm!ah+abhambab",
    "Namb!ah.aboamaabUamaadfambadLambadgambadMambadyambad.ambabbampabHampabbamrabHamrabfampabLamp",
    "abfamrabLamrabjampabPampabjamrabPamrabpampabVampabpamrabVamrabsampabYampabsamrabYamrabvampab",
    "-ampabvamrab-amrabtamMabZamMabuamMab+amM!aiEabiammabOamm!aiMabbamhabHamhabfamNabLamNadwamead",
    "*ameadvamead-ameabpamhabVamhaiUameaiVameabzameab,ame!aofacOambaoramb!aoiaovambaoxambaozamb!a",
    "omaoFamb!aooaoLambaoPambapkamb!aoQaozamiaoLamiaoXambao-ambao/ambao,ambaplamb!apkao,amiapfami",
    "ao_ambapfambapjamb!aptapsambapsami!aqaaqvamaaqvami!aqdaqtamb!aqhaqgami!aqmaqAambaqyamaaqJamg",
    "!aqzaqyamg!aq,aq.amg!arqaq-amaaq-ami!artaqZamb!arxarwami!arCaq:ambaq.amaardamg!ar*ar+ampar-a",
    "mp!atbaqwamgaq*amg!atqaqqamgaqWamgaqqamiaqWami!atwaqvamgaq-amg!atAatyamiatzamiaqwamiaq*amiaq",
    "xamiaq/ami!atIaqyameaq.ameaqyamiaq.amiaqEamiaq>ami!atQatOamiatPamiaqTamiarnamiaqJameardameaq",
    "JamiardamiaqJamlardamlaqNamiarhami!at.aqRamiarlami!ayIayNaztayNazuaziazuayNazvazkazu!aBaaBva",
    "zu!aBcaBbazu!aBtaBsazu!aKPaKOaK=!aKXaKWaK=!aK+aKZaK=!aNlaNhaM>aNhaNx!aTiaThaTw!aTlaThaS>aTha",
    "Tx!aUuaUsaVx!aVkaVgaU>aVhaU>aVgaVx!aXiaXgaXw!aZaaY_aZv!aZhaZgaZvaZgaZw!aZkaZgaZcaZkaZv!a-ka-",
    "ga+>a-ha+>a-ga-x!a/Aa/za/k!a/Ca/za/pa/Ca/ka/za/F!baMbaLbaU!bSgbSfbS-!bSibShbS-!bSkbSjbS-!bSm",
    "bSlbS-!bSobSnbS-!bSsbSrbS-!bS;bS:bS-!bS<bS=bS-!bTabS>bS-bS_bS-!bTdbTcbS-!b.aabbamLabHamLabca",
    "mhabIamhabcamJabIamJabcamXabIamXadhambadNambabeamhabKamhabeamJabKamJabeamXabKamXabeamNabKamN",
    "abeamTabKamTaesamaaetamaaesambaetambabfamTabLamTabfamWabLamWaiOamgaiPamgabgamhabMamhabhameab",
    "NameabiamhabOamhabiamJabOamJabiamiabOamiabiamNabOamNabiamUabOamUabjamWabPamWadpambadVambabla",
    "mbabRambablamJabRamJablamXabRamXabmamJabSamJb.*ameb./ameabmamXabSamXabmamTabSamTabnambabTamb",
    "abnamhabTamhabnamJabTamJaboamhabUamhaboamJabUamJaboamXabUamXaboamTabUamTadvambad-ambadvamiad",
    "-amiafmamaafnamaafmambafnambabqambabWambabqamhabWamhabsamhabYamhabsamJabYamJb,Aameb,Bameabsa",
    "mXabYamXabtamhabZamhabtamJabZamJafAamhafBamhafGamhafHamhb,Iamhb,Jamhabuamhab+amhabuamJab+amJ",
    "abuamXab+amXabuamTab+amTabvamKab-amKabvamWab-amWabvamTab-amTafOambafPambafQamiafRamiabwamdab",
    "*amdabwamJab*amJabxamaab/amaabxambab/ambabxamiab/amiabxamhab/amhabxamJab/amJabyamhab.amhabya",
    "miab.amiabzamhab,amhabAamcab:amcabAamJab:amJabAamXab:amXabOamXab+amiab/amkab,amk!b:Baf_amh!b",
    ":GabbamJabHamJabbamjabHamjadcambadIambadcamaadIamaadcamjadIamjadcamdadIamdb:Gamcb:Hamcaecamb",
    "aedambaecamaaedamaaecamjaedamjaecamdaedamdb:Gamgb:HamgabfamJabLamJabfamjabLamjabfamdabLamdad",
    "kambadQambadkamaadQamaadkamjadQamjadkamdadQamdb:.amcb:,amcabjamjabPamjabjamJabPamJabpamJabVa",
    "mJabpamjabVamjaduambad+ambaduamaad+amaaduamjad+amjaduamdad+amdb;mamcb;namcagGambagHambagGama",
    "agHamaagGamjagHamjagGamdagHamdagGamJagHamJabvamJab-amJabvamjab-amjagVambagWambagVamaagWamaag",
    "VamjagWamjagVamdagWamdagVamJagWamJabzamaab,amaabzamJab,amJabzamjab,amjabzamdab,amd!b=aaoXamt",
    "aoXamub=aamab=bamab=aambb=bambb=aancb=bancaoramtaoramub=iamab=jamab=iambb=jambb=iancb=jancao",
    "-amtao-amub=qamab=ramab=qambb=ramb!b=yaovamtaovamub=yamab=zamab=yambb=zamb!b=Gao/amtao/amub=",
    "Gamab=Hamab=Gambb=Hambb=Gancb=Hancaoxamtaoxamub=Oamab=Pamab=Oambb=Pambb=Oancb=Pancao,amtao,a",
    "mub=Wamab=Xamab=Wambb=Xambb=Wancb=Xancaozamtaozamub=.amab=,amab=.ambb=,ambb=.ancb=,ancao_amt",
    "ao_amub<aamab<bamab<aambb<bamb!b<iaoFamtaoFamub<iamab<jamab<iambb<jamb!b<qapfamtapfamub<qama",
    "b<ramab<qambb<rambb<qancb<ranc!b<zaoLamu!b<Bb<zama!b<Db<zamb!b<Fb<zancapjamtapjamub<Gamab<Ha",
    "mab<Gambb<Hambb<Gancb<HancaoPamtaoPamub<Oamab<Pamab<Oambb<Pambb<Oancb<PancaoXama!b<Yao-ama!b",
    "<+ao/ama!b<*ao,ama!b<.ao_ama!b<:apfama!b<=apjama!b>ab=aanfb=banfb=canfb=danfb=eanfb=fanfb=ga",
    "nfb=hanfb=ianfb=janfb=kanfb=lanfb=manfb=nanfb=oanfb=panfb=Ganfb=Hanfb=Ianfb=Janfb=Kanfb=Lanf",
    "b=Manfb=Nanfb=Oanfb=Panfb=Qanfb=Ranfb=Sanfb=Tanfb=Uanfb=Vanfb<Ganfb<Hanfb<Ianfb<Janfb<Kanfb<",
    "Lanfb<Manfb<Nanfb<Oanfb<Panfb<Qanfb<Ranfb<Sanfb<Tanfb<Uanfb<VanfaoXamgaoXameb<WanfaoXanfaoSa",
    "nf!b>*aoXancb>*anfaoramgaorameaorama!b>=aoranf!b_bacOancb<+anfao/anfaoUanf!b_gao/ancb_ganfao",
    "vama!b_kaoxama!b_maoxanfb>_amab>_ambb>_ancao,amgao,ameapkama!b_wao,ancapkancaozamgaozameaoza",
    "ma!b_Db_>amab_>ambb_>ancapfamgapfameaplama!b_KapbamtapbamuapfancaplancaoLamgaoLameaoLama!b_S",
    "aoHamuacOama!b_Yb<=anfapjanfapoanf!b_*apjancb_*anfaoFama!b_:aoPama!b_=aoPanf!cgAcgqam.cgsam.",
    "!cgUcguam.!chnchqam.chuam.chsam.!ciecidam.!cijciiam.!cimcilam.!ciKciJam.!ciMciLam.!cjbci=am.",
    "!cjecjdam.!cjhcjfam.!cjjcjiam.!cjGaa<am.!cjIcjHam.!cjTcjnam.aa=am.aa>am.cjKam.cjLam.!cj+cjYa",
    "m.cjZam.!cj.cj*am.cj/am.!ckacj:am.cj;am.!ckeckcam.ckdam.!ckickgam.ckham.!ckSckIam.ckOam.ckPa",
    "m.ckRam.!clGcj=am.cj<am.ckram.cksam.!clQckYam.ckZam.ck+am.ck-am.!dbmdbldcz!dbodbndcz!dbqdbpd",
    "cz!dbsdbrdcz!dbudbtdcz!dbwdbvdcz!dbydbxdcz!dbAdbzdcz!dbCdbBdcz!dbEdbDdcz!dbGdbFdcz!dbIdbHdcz",
    "!dbLdbKdcz!dbNdbMdcz!dbPdbOdcz!dbWdbVdczdbVdcA!dbZdbYdczdbYdcA!db*db-dczdb-dcA!db,db.dczdb.d",
    "cA!db=db;dczdb;dcA!dcudbgdcz!dcEdcDdcz!dcSdcRdcz!dcUdcTdcz!dcWdcVdcz!dcYdcXdcz!dc+dcZdcz!dc*",
    "dc-dcz!dc.dc/dcz!dc:dc,dcz!dc=dc;dcz!dc>dc<dcz!ddadc_dcz!ddcddbdcz!ddfddedcz!ddhddgdcz!ddjdd",
    "idcz!ddqddpdczddpdcA!ddtddsdczddsdcA!ddwddvdczddvdcA!ddzddydczddydcA!ddCddBdczddBdcA!dd+dcMd",
    "cz!dd/ddVdczddWdczddXdczddYdcz!dd>dd<dcz!qxjqxsamh!qxKqxAamh!rcArczrc:!rcCrcBrc:!rcRrcLrc:!r",
    "eUreXreNreYreN!rnlrnhrm>rnhrnx!rodrocrpj!rofroero;!roorolrpc!rorroqrpj!rpfrpcrpc!rphrpcro.rp",
    "crpj!rs;rs,rs:rs,rsW!rs>rs,rs<!rw:rw.rwVrw,rwV!rK.rK-rKW!weHweEweEweEwePweEweFwePweFweEweGwe",
    "HweFweIweFweHweG!w-Ow-Nw-Nw-Jw-Nw-Pw-N",
    NULL
};
static const char *const tk_unicode_apart[] = {
    "!aneamiamb!aLyaKvaK=aKwaK=aKxaK=aKCaK=aKHaK=aKIaK=aKRaK=aKVaK=!aNCaMHaM=aMIaM=!aNFaMVaM=!aOZ",
    "aOYaO=!aO*aO.aO=!aPzaOwaO=aOxaO=aOCaO=!aPEaORaO=!aTCaSHaS=aSIaS=!a<da<ca>/!a<na<ma>/!a<sa<ra",
    ">/!a<xa<wa>/!a<Ca<Ba>/!a<Pa<aa>-!a<Za<Xa<Y!a<-a<Xa<+a>Ya>a!a<.a>Za>a!a>ba<Xa>a!a>ta>sa>/!a>D",
    "a>Ca>/!a>Ia>Ha>/!a>Na>Ma>/!a>Sa>Ra>/!a>,a>qa>-!cRCcRDam.!pSDaxzaw+!pSFaxYaw/!pSQaxPaxbaxPaxc",
    "pTjaxbpTjaxcaxqaw/axqaw.axqaw=axraw=axsaw=axtaw=axuaw=axvaw=axwaw=!pS.axyaw=axzaw=axAaw=axBa",
    "w=axCaw=!pS>axEaw=!pTaaxGaw=axHaw=!pTdaxJaw=axKaw=!pTgaxMaw=axNaw=axOaw=axPaw=axQaw=axvaw,ax",
    "raw_axBaw_axKaw_!DfEDfxDfLDfyDfLDfFDfUDfFDfVDfFDfWDfFDfXDfFDfY!Dg;Dg,DfLDg:DfLDg;DfUDg=DfUDg",
    ";DfVDg=DfV",
    NULL
};
static const int32_t tk_unicode_lower[][4] = {
    { 65, 26, 1, 32 }, { 192, 23, 1, 32 }, { 216, 7, 1, 32 }, { 256, 24, 2, 1 }, { 306, 3, 2, 1 },
    { 313, 8, 2, 1 }, { 330, 23, 2, 1 }, { 376, 1, 1, -121 }, { 377, 3, 2, 1 }, { 385, 1, 1, 210 },
    { 386, 2, 2, 1 }, { 390, 1, 1, 206 }, { 391, 1, 1, 1 }, { 393, 2, 1, 205 }, { 395, 1, 1, 1 },
    { 398, 1, 1, 79 }, { 399, 1, 1, 202 }, { 400, 1, 1, 203 }, { 401, 1, 1, 1 },
    { 403, 1, 1, 205 }, { 404, 1, 1, 207 }, { 406, 1, 1, 211 }, { 407, 1, 1, 209 },
    { 408, 1, 1, 1 }, { 412, 1, 1, 211 }, { 413, 1, 1, 213 }, { 415, 1, 1, 214 }, { 416, 3, 2, 1 },
    { 422, 1, 1, 218 }, { 423, 1, 1, 1 }, { 425, 1, 1, 218 }, { 428, 1, 1, 1 }, { 430, 1, 1, 218 },
    { 431, 1, 1, 1 }, { 433, 2, 1, 217 }, { 435, 2, 2, 1 }, { 439, 1, 1, 219 }, { 440, 1, 1, 1 },
    { 444, 1, 1, 1 }, { 452, 1, 1, 2 }, { 453, 1, 1, 1 }, { 455, 1, 1, 2 }, { 456, 1, 1, 1 },
    { 458, 1, 1, 2 }, { 459, 9, 2, 1 }, { 478, 9, 2, 1 }, { 497, 1, 1, 2 }, { 498, 2, 2, 1 },
    { 502, 1, 1, -97 }, { 503, 1, 1, -56 }, { 504, 20, 2, 1 }, { 544, 1, 1, -130 },
    { 546, 9, 2, 1 }, { 570, 1, 1, 10795 }, { 571, 1, 1, 1 }, { 573, 1, 1, -163 },
    { 574, 1, 1, 10792 }, { 577, 1, 1, 1 }, { 579, 1, 1, -195 }, { 580, 1, 1, 69 },
    { 581, 1, 1, 71 }, { 582, 5, 2, 1 }, { 880, 2, 2, 1 }, { 886, 1, 1, 1 }, { 895, 1, 1, 116 },
    { 902, 1, 1, 38 }, { 904, 3, 1, 37 }, { 908, 1, 1, 64 }, { 910, 2, 1, 63 }, { 913, 17, 1, 32 },
    { 931, 9, 1, 32 }, { 975, 1, 1, 8 }, { 984, 12, 2, 1 }, { 1012, 1, 1, -60 }, { 1015, 1, 1, 1 },
    { 1017, 1, 1, -7 }, { 1018, 1, 1, 1 }, { 1021, 3, 1, -130 }, { 1024, 16, 1, 80 },
    { 1040, 32, 1, 32 }, { 1120, 17, 2, 1 }, { 1162, 27, 2, 1 }, { 1216, 1, 1, 15 },
    { 1217, 7, 2, 1 }, { 1232, 48, 2, 1 }, { 1329, 38, 1, 48 }, { 4256, 38, 1, 7264 },
    { 4295, 1, 1, 7264 }, { 4301, 1, 1, 7264 }, { 5024, 80, 1, 38864 }, { 5104, 6, 1, 8 },
    { 7305, 1, 1, 1 }, { 7312, 43, 1, -3008 }, { 7357, 3, 1, -3008 }, { 7680, 75, 2, 1 },
    { 7838, 1, 1, -7615 }, { 7840, 48, 2, 1 }, { 7944, 8, 1, -8 }, { 7960, 6, 1, -8 },
    { 7976, 8, 1, -8 }, { 7992, 8, 1, -8 }, { 8008, 6, 1, -8 }, { 8025, 4, 2, -8 },
    { 8040, 8, 1, -8 }, { 8072, 8, 1, -8 }, { 8088, 8, 1, -8 }, { 8104, 8, 1, -8 },
    { 8120, 2, 1, -8 }, { 8122, 2, 1, -74 }, { 8124, 1, 1, -9 }, { 8136, 4, 1, -86 },
    { 8140, 1, 1, -9 }, { 8152, 2, 1, -8 }, { 8154, 2, 1, -100 }, { 8168, 2, 1, -8 },
    { 8170, 2, 1, -112 }, { 8172, 1, 1, -7 }, { 8184, 2, 1, -128 }, { 8186, 2, 1, -126 },
    { 8188, 1, 1, -9 }, { 8486, 1, 1, -7517 }, { 8490, 1, 1, -8383 }, { 8491, 1, 1, -8262 },
    { 8498, 1, 1, 28 }, { 8544, 16, 1, 16 }, { 8579, 1, 1, 1 }, { 9398, 26, 1, 26 },
    { 11264, 48, 1, 48 }, { 11360, 1, 1, 1 }, { 11362, 1, 1, -10743 }, { 11363, 1, 1, -3814 },
    { 11364, 1, 1, -10727 }, { 11367, 3, 2, 1 }, { 11373, 1, 1, -10780 }, { 11374, 1, 1, -10749 },
    { 11375, 1, 1, -10783 }, { 11376, 1, 1, -10782 }, { 11378, 1, 1, 1 }, { 11381, 1, 1, 1 },
    { 11390, 2, 1, -10815 }, { 11392, 50, 2, 1 }, { 11499, 2, 2, 1 }, { 11506, 1, 1, 1 },
    { 42560, 23, 2, 1 }, { 42624, 14, 2, 1 }, { 42786, 7, 2, 1 }, { 42802, 31, 2, 1 },
    { 42873, 2, 2, 1 }, { 42877, 1, 1, -35332 }, { 42878, 5, 2, 1 }, { 42891, 1, 1, 1 },
    { 42893, 1, 1, -42280 }, { 42896, 2, 2, 1 }, { 42902, 10, 2, 1 }, { 42922, 1, 1, -42308 },
    { 42923, 1, 1, -42319 }, { 42924, 1, 1, -42315 }, { 42925, 1, 1, -42305 },
    { 42926, 1, 1, -42308 }, { 42928, 1, 1, -42258 }, { 42929, 1, 1, -42282 },
    { 42930, 1, 1, -42261 }, { 42931, 1, 1, 928 }, { 42932, 8, 2, 1 }, { 42948, 1, 1, -48 },
    { 42949, 1, 1, -42307 }, { 42950, 1, 1, -35384 }, { 42951, 2, 2, 1 }, { 42955, 1, 1, -42343 },
    { 42956, 8, 2, 1 }, { 42972, 1, 1, -42561 }, { 42997, 1, 1, 1 }, { 65313, 26, 1, 32 },
    { 66560, 40, 1, 40 }, { 66736, 36, 1, 40 }, { 66928, 11, 1, 39 }, { 66940, 15, 1, 39 },
    { 66956, 7, 1, 39 }, { 66964, 2, 1, 39 }, { 68736, 51, 1, 64 }, { 68944, 22, 1, 32 },
    { 71840, 32, 1, 32 }, { 93760, 32, 1, 32 }, { 93856, 25, 1, 27 }, { 125184, 34, 1, 34 }
};
static const char *const *tk_rows(int which)
{
    switch (which) {
    case TK_CATEGORIES: return tk_unicode_categories;
    case TK_CLASSES: return tk_unicode_classes;
    case TK_SINGLE: return tk_unicode_single;
    case TK_PAIR: return tk_unicode_pair;
    default: return tk_unicode_apart;
    }
}
static const unsigned char *tk_class_values(void) { return tk_unicode_class; }
static const int32_t (*tk_lower_runs(size_t *count))[4]
{
    *count = sizeof tk_unicode_lower / sizeof *tk_unicode_lower;
    return tk_unicode_lower;
}

#ifdef __cplusplus
}
#endif
#endif
#endif
