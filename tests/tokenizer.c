/* tokenizer.c - demos/tokenizer.h: small vocabularies of each kind against ids found by hand, joins
   against the definition, regular expressions, normal forms, templates; broken files, broken UTF-8,
   long words, memory that runs out

       build/tokenizer
       build/tokenizer --encode FILE LINES OUT FLAGS LENGTH
       build/tokenizer --chat TEMPLATE CONVERSATIONS OUT THINK DATE

   These are for tests/tokenizer.py. LINES holds a length of 4 bytes and the bytes of each line; OUT
   gets a count and the ids, a length and the decoded bytes. LENGTH is 0, or that of
   tokenizer_encode_to. CONVERSATIONS holds a count of messages
   of 4 bytes, and for each its role (0 system, 1 user, 2 assistant), its length and its bytes; OUT
   gets 1 for an error, a length, and the text or the error. DATE is as 2025-3-7. */
#define _POSIX_C_SOURCE 200112L                  /* symlink */
#include "test.h"
#include <locale.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void *counted_malloc(size_t size);
static void counted_free(void *p);
#define TOKENIZER_MALLOC(size) counted_malloc(size)
#define TOKENIZER_FREE(p) counted_free(p)
#define TOKENIZER_IMPLEMENTATION
#include "../demos/tokenizer.h"

/* ---- memory that is counted, and fails at the n-th time ---- */

static long held, taken, fails_at;
static void *counted_malloc(size_t size)
{
    if (++taken == fails_at) return NULL;
    void *p = malloc(size ? size : 1);
    if (!p) abort();
    held++;
    return memset(p, 0xA5, size);                /* nobody may count on zeroes */
}
static void counted_free(void *p)
{
    if (p) held--;
    free(p);
}

/* ---- what the checks share ---- */

static char error[TOKENIZER_ERROR];

typedef struct bytes { char *at; size_t size; } bytes;
static void put(bytes *b, const void *from, size_t n)
{
    b->at = (char *)realloc(b->at, b->size + n + 1);
    if (!b->at) abort();
    if (n) memcpy(b->at + b->size, from, n);
    b->size += n;
    b->at[b->size] = 0;
}
static void put_text(bytes *b, const char *text) { put(b, text, strlen(text)); }
static void put_number(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) {
        const char byte = (char)(value >> 8 * i);
        put(b, &byte, 1);
    }
}
/* JSON, which is written here with ' for ". */
static void put_json(bytes *b, const char *json)
{
    size_t begin = b->size;
    put_text(b, json);
    for (size_t i = begin; i < b->size; i++)
        if (b->at[i] == '\'') b->at[i] = '"';
}
static tokenizer *opened(const char *json)
{
    bytes file = { NULL, 0 };
    put_json(&file, json);
    tokenizer *t = tokenizer_from("test", file.at, file.size, error);
    CHECK_AT(t != NULL, error);
    free(file.at);
    return t;
}
/* The ids of a text, as "1 2 3". */
static const char *ids_of(const tokenizer *t, const char *text, size_t n, int flags)
{
    static char list[4096];
    tokenizer_ids ids = { NULL, 0, 0 };
    size_t at = 0;
    list[0] = 0;
    if (tokenizer_encode(t, text, n, flags, &ids)) return "an error";
    for (size_t i = 0; i < ids.count && at + 16 < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, i ? " %d" : "%d", (int)ids.at[i]);
    tokenizer_ids_free(&ids);
    return list;
}
static void text_is(const char *got, const char *expected, int line)
{
    char more[900];
    snprintf(more, sizeof more, "found \"%.400s\", expected \"%.400s\"", got, expected);
    report(!strcmp(got, expected), __FILE__, line, "texts", more);
}
#define TEXT_IS(got, expected) text_is(got, expected, __LINE__)
#define IDS(t, text, expected) TEXT_IS(ids_of(t, text, strlen(text), 0), expected)
/* What ids decode to. */
static const char *text_of(const tokenizer *t, const int32_t *ids, size_t count)
{
    static char shown[256];
    tokenizer_text text = { NULL, 0, 0 };
    CHECK(!tokenizer_decode(t, ids, count, 0, &text));
    snprintf(shown, sizeof shown, "%s", text.at);
    tokenizer_text_free(&text);
    return shown;
}
/* What the ids of a text decode to. */
static const char *again_of(const tokenizer *t, const char *text, size_t n, int flags)
{
    static char shown[4096];
    tokenizer_ids ids = { NULL, 0, 0 };
    tokenizer_text back = { NULL, 0, 0 };
    CHECK(!tokenizer_encode(t, text, n, flags, &ids));
    CHECK(!tokenizer_decode(t, ids.at, ids.count, flags, &back));
    snprintf(shown, sizeof shown, "%s", back.at);
    tokenizer_ids_free(&ids);
    tokenizer_text_free(&back);
    return shown;
}
#define AGAIN(t, text, expected) TEXT_IS(again_of(t, text, strlen(text), 0), expected)
static void says_what(const char *what, const void *file, size_t size, int line)
{
    tokenizer *t = tokenizer_from("test", file, size, error);
    report(!t && strstr(error, what) && !strncmp(error, "test: ", 6), __FILE__, line, what, error);
    tokenizer_free(t);
}
static void wrong_json(const char *what, const char *json, int line)
{
    bytes file = { NULL, 0 };
    put_json(&file, json);
    says_what(what, file.at, file.size, line);
    free(file.at);
}
#define WRONG(what, json) wrong_json(what, json, __LINE__)

/* ---- tokenizer.json: BPE of bytes ---- */

#define BYTE_LEVEL "'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false}," \
    "'decoder':{'type':'ByteLevel'},"
/* "Ġ" U+0120 is a space, "Ã©" are the bytes of é, "ð" "Ł" "ĺ" "Ģ" those of U+1F600 */
#define HELLO "'model':{'type':'BPE','vocab':{'h':0,'e':1,'l':2,'o':3,'\\u0120':4," \
    "'he':5,'ll':6,'hell':7,'lo':8,'\\u0120h':9,'\\u00c3':10,'\\u00a9':11,'\\u00f0':12," \
    "'\\u0141':13,'\\u013a':14,'\\u0122':15,'\\u010a':16,'\\u00ef':17,'\\u00bf':18," \
    "'\\u00bd':19},'merges':['h e','l l','he ll',['l','o'],'\\u0120 h']}"
#define MODEL "'model':{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']}"
#define ADDED(flags) "'added_tokens':[{'id':20,'content':'<|x|>','special':true" flags "}," \
    "{'id':21,'content':'<|x|>y','special':true},{'id':22,'content':'oo'," \
    "'normalized':true}],"

static void check_bpe(void)
{
    tokenizer *t = opened("{" ADDED("") BYTE_LEVEL HELLO "}");
    doing("BPE of bytes");
    COMPARE(tokenizer_count(t) == 23, "count", tokenizer_count(t), 23);
    IDS(t, "", "");
    IDS(t, "hello", "7 3");
    IDS(t, "hello hello ho", "7 3 4 7 3 9 3");   /* "h e" comes before "Ġ h" */
    IDS(t, "lllo", "6 8");                       /* the leftmost l l first */
    IDS(t, "llo lo", "6 3 4 8");
    IDS(t, "\xC3\xA9", "10 11");
    IDS(t, "xyz", "");                           /* bytes without a token: none, as Hugging Face */
    IDS(t, "he<|x|>llo", "5 20 6 3");
    IDS(t, "he<|x|>yllo", "5 21 6 3");           /* the longest */
    IDS(t, "he<|x|>y", "5 21");
    IDS(t, "hoo o oo", "0 22 4 3 4 22");
    TEXT_IS(ids_of(t, "oo<|x|>", 7, TOKENIZER_LITERAL), "3 3");
    AGAIN(t, "hello <|x|> \xC3\xA9\nh", "hello <|x|> \xC3\xA9\nh");
    TEXT_IS(again_of(t, "he<|x|>oo", 9, TOKENIZER_SAID), "heoo");
    CHECK(tokenizer_find(t, "<|x|>") == 20 && tokenizer_find(t, "none") == -1);
    CHECK(tokenizer_is_special(t, 20) && !tokenizer_is_special(t, 22));
    CHECK(!strcmp(tokenizer_piece(t, 9, NULL), " h") && !strcmp(tokenizer_piece(t, 99, NULL), ""));
    tokenizer_free(t);
    doing("white space beside an added token");
    t = opened("{" ADDED(",'lstrip':true,'rstrip':true") BYTE_LEVEL HELLO "}");
    IDS(t, "he  <|x|> \n llo <|x|>", "5 20 6 3 20");
    tokenizer_free(t);
    doing("white space that another token took");
    t = opened("{'added_tokens':[{'id':20,'content':' ','lstrip':true,'rstrip':true},{'id':21,"
               "'content':'<x>','rstrip':true},{'id':22,'content':' e','lstrip':true},{'id':23,"
               "'content':'\\t'},{'id':24,'content':'\\n','lstrip':true}]," BYTE_LEVEL HELLO "}");
    IDS(t, "h  ", "0 20");                       /* the second space is of the first's token */
    IDS(t, "h   h", "0 20 0");
    IDS(t, "<x>  h h", "21 0 20 0");
    IDS(t, "<x> eh", "21 22 0");                 /* of " e" the "e" is left */
    IDS(t, "<x>\th", "21 23 0");                 /* without lstrip it counts again */
    IDS(t, "<x>\n \nh", "21 0");                 /* here Hugging Face's tokenizers end in a panic */
    tokenizer_free(t);
    doing("gaps between ids");
    t = opened("{" BYTE_LEVEL "'model':{'type':'BPE','vocab':{'a':0,'b':9},'merges':[]}}");
    CHECK(tokenizer_count(t) == 10 && !strcmp(tokenizer_piece(t, 5, NULL), ""));
    CHECK(tokenizer_find(t, "") == -1 && tokenizer_find(t, "b") == 9);
    tokenizer_free(t);
    doing("words whole");
    t = opened("{" BYTE_LEVEL "'model':{'type':'BPE','ignore_merges':true,'vocab':{'a':0,"
               "'b':1,'c':2,'ab':3,'abc':4},'merges':['a b']}}");
    IDS(t, "abc ab", "4 3");
    IDS(t, "abcc", "3 2 2");
    tokenizer_free(t);
    doing("a template");
    t = opened("{'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':"
               "{'id':'<|x|>'}},{'Sequence':{'id':'A'}},{'SpecialToken':{'id':'<|x|>'}}],"
               "'special_tokens':{'<|x|>':{'ids':[20,1]}}}," ADDED("") BYTE_LEVEL HELLO "}");
    TEXT_IS(ids_of(t, "he", 2, TOKENIZER_BEGIN), "20 1 5 20 1");
    IDS(t, "he", "5");
    CHECK(tokenizer_begin(t) == 20);
    tokenizer_free(t);
}

/* The definition: of all neighbours that may join, those with the lowest rank do, the leftmost of
   equals. */
static size_t join_slowly(const tokenizer *t, int32_t *id, size_t n)
{
    for (;;) {
        size_t best = SIZE_MAX;
        const tk_merge *first = NULL;
        for (size_t i = 0; i + 1 < n; i++) {
            const tk_merge *m = tk_merge_place(&t->merges, id[i], id[i + 1]);
            if (m->joined < 0 || (first && m->rank >= first->rank)) continue;
            best = i;
            first = m;
        }
        if (!first) return n;
        id[best] = first->joined;
        memmove(id + best + 1, id + best + 2, (n - best - 2) * sizeof *id);
        n--;
    }
}
static uint32_t drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
/* A model of the letters a to d whose merges are drawn. */
static tokenizer *random_model(uint32_t *state)
{
    char word[40][17], merges[40][40], joined[17];
    int words = 4, n = 0;
    bytes json = { NULL, 0 };
    for (int i = 0; i < 4; i++) snprintf(word[i], sizeof *word, "%c", 'a' + i);
    while (words < 40) {
        int left = (int)(drawn(state) % (uint32_t)words);
        int right = (int)(drawn(state) % (uint32_t)words);
        int same_word = 0;
        if (strlen(word[left]) + strlen(word[right]) > 8) continue;
        snprintf(joined, sizeof joined, "%.8s%.8s", word[left], word[right]);
        memcpy(word[words], joined, sizeof joined);
        for (int i = 0; i < words; i++) same_word |= !strcmp(word[i], word[words]);
        snprintf(merges[n++], sizeof *merges, "'%.15s %.15s'", word[left], word[right]);
        if (!same_word) words++;
        if (n == 40) break;
    }
    put_text(&json, "{" BYTE_LEVEL "'model':{'type':'BPE','vocab':{");
    for (int i = 0; i < words; i++) {
        char item[40];
        snprintf(item, sizeof item, "%s'%.15s':%d", i ? "," : "", word[i], i);
        put_text(&json, item);
    }
    put_text(&json, "},'merges':[");
    for (int i = 0; i < n; i++) {
        if (i) put_text(&json, ",");
        put_text(&json, merges[i]);
    }
    put_text(&json, "]}}");
    tokenizer *t = opened(json.at);
    free(json.at);
    return t;
}
static void check_definition(void)
{
    uint32_t state = 7;
    doing("joins against the definition");
    for (int model = 0; model < 20; model++) {
        tokenizer *t = random_model(&state);
        for (int k = 0; t && k < 50; k++) {
            char text[64];
            int32_t id[64];
            size_t n = drawn(&state) % 60 + 1;
            tokenizer_ids ids = { NULL, 0, 0 };
            for (size_t i = 0; i < n; i++) {
                id[i] = (int32_t)(drawn(&state) % 4);
                text[i] = (char)('a' + id[i]);
            }
            CHECK(!tokenizer_encode(t, text, n, 0, &ids));
            n = join_slowly(t, id, n);
            CHECK(ids.count == n && !memcmp(ids.at, id, n * sizeof *id));
            tokenizer_ids_free(&ids);
        }
        tokenizer_free(t);
    }
}

/* ---- regular expressions ---- */

/* The parts of a text, with | between them. */
static const char *cut(const tokenizer *t, const char *pattern, const char *text)
{
    static char list[1024];
    tk_step step;
    tk_frames frames = { NULL, 0, 0 };
    tk_pieces to;
    const tk_piece piece = { text, strlen(text), 0 };
    tokenizer copy = *t;
    size_t begin = 0;
    memset(&step, 0, sizeof step);
    memset(&to, 0, sizeof to);
    copy.error = error;
    copy.name = "test";
    error[0] = 0;
    list[0] = 0;
    if (tk_regex_compile(&copy, &step.regex, pattern, 0)) snprintf(list, sizeof list, "%s", error);
    else {
        CHECK(!tk_split(&step, &frames, &piece, &to));
        for (size_t i = 0; i < to.count; i++) {
            size_t at = strlen(list);
            snprintf(list + at, sizeof list - at, "%s%.*s", i ? "|" : "", (int)(to.end[i] - begin),
                     to.text.at + begin);
            begin = to.end[i];
        }
    }
    tk_regex_free(&step.regex);
    tk_release(frames.at);
    tk_release(to.end);
    tokenizer_text_free(&to.text);
    return list;
}
static void check_regex(void)
{
    static const char llama3[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    tokenizer *t = opened("{" BYTE_LEVEL HELLO "}");
    doing("regular expressions");
    if (!t) return;
    TEXT_IS(cut(t, tk_gpt2_pattern, "Hello's  w\xC3\xB6rld 12345, it'S"),
         "Hello|'s| | w\xC3\xB6rld| 12345|,| it|'|S");
    TEXT_IS(cut(t, tk_gpt2_pattern, "a  \n b   "), "a|  \n| b|   ");
    TEXT_IS(cut(t, llama3, "I'LL go!!\n\n x12345\t\ty"), "I|'LL| go|!!\n\n| x|123|45|\t|\ty");
    TEXT_IS(cut(t, llama3, "  \n  a"), "  \n| | a");
    TEXT_IS(cut(t, "a|ab|abc", "abc"), "a|bc");             /* the first, not the longest */
    TEXT_IS(cut(t, "(?:a[bx])+c", "abaxc abab"), "abaxc| abab");
    TEXT_IS(cut(t, "(?:ab)*c", "ababcxc"), "ababc|x|c");
    TEXT_IS(cut(t, "x(?:ab)?y", "xabyxyxab"), "xaby|xy|xab");
    TEXT_IS(cut(t, "a+ab", "aaabz"), "aaab|z");          /* goes back one */
    TEXT_IS(cut(t, "a++ab", "aaabz"), "aaabz");          /* does not */
    TEXT_IS(cut(t, "a++b", "aaabc"), "aaab|c");
    TEXT_IS(cut(t, "a{2}", "aaaaa"), "aa|aa|a");
    TEXT_IS(cut(t, "a{2,}", "aaaaaba"), "aaaaa|ba");
    TEXT_IS(cut(t, "\xC3\xA9+|\xF0\x9F\x98\x80", "\xC3\xA9\xC3\xA9x\xF0\x9F\x98\x80"),
         "\xC3\xA9\xC3\xA9|x|\xF0\x9F\x98\x80");
    TEXT_IS(cut(t, "\\p{Lu}\\p{Ll}*", "HelloWorld"), "Hello|World");
    TEXT_IS(cut(t, "\\P{L}+", "ab12cd"), "ab|12|cd");
    TEXT_IS(cut(t, "[a-c\\-x]+", "zab-xz"), "z|ab-x|z");
    TEXT_IS(cut(t, "[^a-c]", "axb"), "a|x|b");
    TEXT_IS(cut(t, "a(?=b)", "abac"), "a|bac");
    TEXT_IS(cut(t, "(?i:ks)", "xKSks\xE2\x84\xAA\xC5\xBFx"), "x|KS|ks|\xE2\x84\xAA\xC5\xBF|x");
    TEXT_IS(cut(t, "\\s", "a\xC2\xA0" "b\xE3\x80\x80" "c\xE2\x80\x8B" "d"),
         "a|\xC2\xA0|b|\xE3\x80\x80|c\xE2\x80\x8B" "d");  /* U+200B is no white space */
    TEXT_IS(cut(t, "\\u00e9|\\x41", "A\xC3\xA9"), "A|\xC3\xA9");
    static const char *const wrong[] = { "(a", "a)", "[a", "*a", "a**", "a*?", "(?<n>a)", "\\w+",
        "\\bx", "^a", "a$", "a?", "(?:a?)*b", "a|", "(?:a+)+b", "(?:a|ab)*c",
        "a(?:)*", "a(?:)+", "()+a", "a(?:(?:))*", "a(?:|b)*", "a(?:(?:){1})+", "a(?:(?=b))*",
        "a(?:(?:)?)*", "a(?:b{0})*", "[[a]]", "[a&&b]", "\\p{Han}", "(?i:[a])",
        "(?i:\xC3\xA9)", "(?i:ss)", "(?:ab){2}", "(?=a)+b", "a{,3}", "a{3,1}", "\\", "[b-a]", "",
        "\\k<n>", "(?>a)", "\\1", "\\p{Q}" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)    /* not run: some would not end */
        CHECK_AT(strstr(cut(t, wrong[i], ""), "regular expression"), wrong[i]);
    CHECK(strstr(cut(t, "a(?:)*", ""), "a repetition of nothing"));
    TEXT_IS(cut(t, "a(?:)?b", "cab"), "c|ab");   /* once at most: that ends */
    char deep[400];
    memset(deep, '(', 200);
    memset(deep + 200, ')', 199);
    deep[399] = 0;
    CHECK(strstr(cut(t, deep, "a"), "nesting"));
    tokenizer_free(t);
}
static void check_behaviours(void)
{
    static const char *const expected[][2] = {
        { "Isolated", "0 3 3 1 3 2" }, { "Removed", "0 1 2" }, { "Contiguous", "0 4 1 3 2" },
        { "MergedWithPrevious", "6 3 7 2" }, { "MergedWithNext", "0 3 8 9" } };
    doing("what a split does with its matches");
    for (size_t i = 0; i < 5; i++) {             /* of "a--b-c", where "--" is a word */
        char json[900];
        snprintf(json, sizeof json, "{'pre_tokenizer':{'type':'Sequence','pretokenizers':["
                 "{'type':'Split','pattern':{'String':'-'},'behavior':'%s'},"
                 "{'type':'ByteLevel','add_prefix_space':false,'use_regex':false}]},"
                 "'decoder':{'type':'ByteLevel'},'model':{'vocab':{'a':0,'b':1,'c':2,"
                 "'-':3,'--':4,'-c':9,'-b':8,'a-':6,'b-':7},'merges':['- -','a -',"
                 "'b -','- b','- c']}}", expected[i][0]);
        tokenizer *t = opened(json);
        IDS(t, "a--b-c", expected[i][1]);
        tokenizer_free(t);
    }
}

/* ---- normal form C ---- */

static void check_nfc(void)
{
    static const char *const pair[][2] = {
        { "plain", "plain" }, { "e\xCC\x81", "\xC3\xA9" }, { "\xC3\xA9", "\xC3\xA9" },
        /* q, dot above, dot below: sorted, nothing to join */
        { "q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87" },
        /* a, ring, acute: joined twice; the mark between blocks one of its own class */
        { "a\xCC\x8A\xCC\x81", "\xC7\xBB" }, { "a\xCC\x85\xCC\x81", "a\xCC\x85\xCC\x81" },
        { "\xE2\x84\xAB", "\xC3\x85" },                          /* Angstrom */
        { "\xCD\x84", "\xCC\x88\xCC\x81" },                      /* U+0344 is never put together */
        { "\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC" },          /* nor U+0958 */
        { "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81" },      /* Hangul, three letters */
        { "\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81" }, { "\xEA\xB0\x81", "\xEA\xB0\x81" },
        { "\xF3\xA0\x87\xAF\xCC\x80" "a", "\xF3\xA0\x87\xAF\xCC\x80" "a" } };
    tokenizer *t = opened("{'normalizer':{'type':'NFC'}," BYTE_LEVEL HELLO "}");
    doing("normal form C");
    for (size_t i = 0; t && i < sizeof pair / sizeof *pair; i++) {
        tokenizer_text to = { NULL, 0, 0 };
        CHECK(!tk_nfc(&t->unicode, pair[i][0], strlen(pair[i][0]), &to));
        TEXT_IS(to.at, pair[i][1]);
        tokenizer_text_free(&to);
    }
    IDS(t, "e\xCC\x81", "10 11");
    tokenizer_free(t);
}

/* ---- characters: Llama 2's and unigram models in a tokenizer.json ---- */

#define BAR "\xE2\x96\x81"
#define SPACES "'decoder':{'type':'Sequence','decoders':[{'type':'Replace','pattern':" \
    "{'String':'" BAR "'},'content':' '},{'type':'ByteFallback'},{'type':'Fuse'}," \
    "{'type':'Strip','content':' ','start':1,'stop':0}]},"
#define LLAMA "'normalizer':{'type':'Sequence','normalizers':[{'type':'Prepend'," \
    "'prepend':'" BAR "'},{'type':'Replace','pattern':{'String':' '},'content':'" \
    BAR "'}]}," SPACES

static void check_characters(void)
{
    doing("BPE of characters");
    tokenizer *t = opened("{" LLAMA "'model':{'type':'BPE','unk_token':'<u>','fuse_unk':"
        "true,'vocab':{'<u>':0,'" BAR "':1,'h':2,'\xC3\xA9':3,'" BAR "h':4,'" BAR
        "h\xC3\xA9':5},'merges':['" BAR " h','" BAR "h \xC3\xA9']}}");
    IDS(t, "h\xC3\xA9 h", "5 4");
    IDS(t, "zzh", "1 0 2");                      /* unknown ones are fused */
    AGAIN(t, "h\xC3\xA9  h", "h\xC3\xA9  h");    /* one space at the beginning is dropped */
    AGAIN(t, " h", " h");
    static const int32_t later[] = { 2, 4 };     /* a space that is not at the beginning stays */
    TEXT_IS(text_of(t, later, 2), "h h");
    tokenizer_free(t);
    doing("Metaspace, unigram");
    t = opened("{'pre_tokenizer':{'type':'Metaspace','replacement':'" BAR "','prepend_scheme'"
        ":'always','split':true}," SPACES "'model':{'type':'Unigram','unk_id':0,'vocab':["
        "['<u>',0],['" BAR "',-3],['a',-2],['b',-2.5],['ab',-3],['" BAR "a',-4],['abb',"
        "-9]]}}");
    IDS(t, "ab", "1 4");                         /* -6: "▁a" "b" has -6.5 */
    IDS(t, "abb a", "1 4 3 5");                  /* -8.5 against -12; -4 against -5 */
    IDS(t, "axyb", "5 0 3");
    AGAIN(t, "ab a", "ab a");
    tokenizer_free(t);
    doing("unigram, all scores above zero");
    t = opened("{" SPACES "'model':{'type':'Unigram','unk_id':0,'vocab':[['<u>',95],['a',100],"
        "['ab',92]]}}");
    IDS(t, "ab", "1 0");                         /* 100 + 92 - 10 against 92 */
    tokenizer_free(t);
}

/* "▁" before what begins where the text does, whatever steps do before: the ids are those of
   Hugging Face's tokenizers 0.23. */
#define METASPACE_FIRST "{'type':'Metaspace','prepend_scheme':'first'}"
static void check_first(void)
{
    static const char texts[8][8] = { "a b", " a b", "aab", "  ", "", "<x>a", "<x> a", " <y>a b" };
    static const struct { const char *normalizer, *before, *expected[8]; } steps[] = {
        { "null", "", { "1 2 1 3", "1 2 1 3", "1 2 2 3", "1 1", "", "4 2", "4 1 2", "1 5 2 1 3" } },
        { "null", "{'type':'WhitespaceSplit'},",
          { "1 2 3", "2 3", "1 2 2 3", "", "", "4 2", "4 2", "5 2 3" } },
        { "{'type':'Strip'}", "",
          { "1 2 1 3", "2 1 3", "1 2 2 3", "", "", "4 2", "4 2", "5 2 1 3" } },
        { "{'type':'Strip','strip_left':false}", "",
          { "1 2 1 3", "1 2 1 3", "1 2 2 3", "", "", "4 2", "4 1 2", "1 5 2 1 3" } },
        { "{'type':'Replace','pattern':{'String':'aa'},'content':'b'}", "",
          { "1 2 1 3", "1 2 1 3", "3 3", "1 1", "", "4 2", "4 1 2", "1 5 2 1 3" } },
        { "{'type':'Replace','pattern':{'String':'a'},'content':'b'}", "",
          { "1 3 1 3", "1 3 1 3", "1 3 3 3", "1 1", "", "4 3", "4 1 3", "1 5 3 1 3" } },
        { "{'type':'Replace','pattern':{'Regex':'[ab]+'},'content':'a'}", "",
          { "1 2 1 2", "1 2 1 2", "2", "1 1", "", "4 2", "4 1 2", "1 5 2 1 2" } },
        { "{'type':'Replace','pattern':{'Regex':'\\\\s+'},'content':''}", "",
          { "1 2 3", "2 3", "1 2 2 3", "", "", "4 2", "4 2", "5 2 3" } },
        { "{'type':'Sequence','normalizers':[{'type':'NFC'},{'type':'Lowercase'}]}",
          "{'type':'WhitespaceSplit'},",
          { "1 2 3", "2 3", "1 2 2 3", "", "", "4 2", "4 2", "5 2 3" } } };
    doing("Metaspace before what is first");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char json[1200];
        snprintf(json, sizeof json, "{'normalizer':%s,'pre_tokenizer':{'type':'Sequence',"
                 "'pretokenizers':[%s" METASPACE_FIRST "]}," SPACES "'added_tokens':[{'id':4,"
                 "'content':'<x>','special':true},{'id':5,'content':'<y>','rstrip':true,"
                 "'normalized':true}],'model':{'type':'BPE','unk_token':'<u>','vocab':{'<u>':0,"
                 "'" BAR "':1,'a':2,'b':3},'merges':[]}}", steps[i].normalizer, steps[i].before);
        tokenizer *t = opened(json);
        for (int k = 0; t && k < 8; k++) IDS(t, texts[k], steps[i].expected[k]);
        tokenizer_free(t);
    }
    /* what a step puts before the text stems from its first character: two pieces begin there */
    tokenizer *t = opened("{'normalizer':{'type':'Prepend','prepend':'b'},'pre_tokenizer':{'type':"
        "'Sequence','pretokenizers':[{'type':'Split','pattern':{'String':'b'},'behavior':"
        "'Isolated'}," METASPACE_FIRST "]}," SPACES "'model':{'type':'BPE','vocab':{'" BAR
        "':1,'a':2,'b':3},'merges':[]}}");
    IDS(t, "aab", "1 3 1 2 2 3");
    tokenizer_free(t);
}
/* The decoder Metaspace drops "▁" of the first token, and no true space. */
static void check_metaspace_decoder(void)
{
#define METASPACE "{'type':'Metaspace','prepend_scheme':'always'}"
#define BYTES_AND "{'type':'Sequence','decoders':[" METASPACE ",{'type':'ByteFallback'}," \
    "{'type':'Fuse'}"
    static const char *const decoder[] = { METASPACE, BYTES_AND "]}", BYTES_AND
        ",{'type':'Strip','content':' ','start':1,'stop':0}]}" };
    static const int32_t ids[][3] = { { 0, 1, 1 }, { 2, 1, 1 }, { 3, 3, 1 }, { 4, 4, 1 },
                                      { 0, 2, 1 }, { 2, 0, 1 }, { 5, 1, 1 }, { 0, 0, 1 } };
    static const char *const expected[][8] = {
        { " aa", "aa", "a aa", "aba ba", "  a", " a", "<0x20>aa", "  a" },
        { " aa", "aa", "a aa", "aba ba", "  a", " a", " aa", "  a" },
        { "aa", "aa", "a aa", "aba ba", " a", "a", "aa", " a" } };
    doing("the decoder Metaspace");
    for (int i = 0; i < 3; i++) {
        char json[900];
        snprintf(json, sizeof json, "{'decoder':%s,'model':{'type':'BPE','vocab':{' ':0,'a':1,'" BAR
                 "':2,'" BAR "a':3,'a" BAR "b':4,'<0x20>':5},'merges':[]}}", decoder[i]);
        tokenizer *t = opened(json);
        for (int k = 0; t && k < 8; k++) TEXT_IS(text_of(t, ids[k], 3), expected[i][k]);
        tokenizer_free(t);
    }
    WRONG("Metaspace behind a Replace", "{'decoder':{'type':'Sequence','decoders':[{'type':'Replace"
          "','pattern':{'String':'" BAR "'},'content':' '}," METASPACE "]}," MODEL "}");
}
/* Of names that stand twice in an object the last counts. */
static void check_twice(void)
{
    doing("names that stand twice");
    tokenizer *t = opened("{" SPACES "'model':{'type':'BPE','vocab':{'a':1,'b':2,'a':3,'c':1,'b':"
        "4},'merges':[]}}");
    IDS(t, "abc", "3 4 1");
    static const int32_t ids[] = { 1, 2, 3, 4 };
    TEXT_IS(text_of(t, ids, 4), "cab");          /* 2 is no token any more */
    CHECK(tokenizer_find(t, "a") == 3 && tokenizer_find(t, "c") == 1);
    tokenizer_free(t);
    t = opened("{" BYTE_LEVEL "'model':{'type':'BPE','vocab':{'\\u0120':0,'a':1,'\\u0120a':2,'"
        "\\u0120a':3,'a':1},'merges':['\\u0120 a']}}");
    IDS(t, "a a", "1 3");
    CHECK(tokenizer_find(t, "\xC4\xA0" "a") == 3 && !*tokenizer_piece(t, 2, NULL));
    tokenizer_free(t);
    t = opened("{'padding':{'pad_id':0,'pad_id':1}," BYTE_LEVEL MODEL "}");
    CHECK(tokenizer_pad(t) == 1);
    tokenizer_free(t);
}
/* Numbers are read whatever point the locale has. */
static void check_numbers(void)
{
    static const char *const locales[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8",
        "fr_FR.utf8", "fr_FR", "ru_RU.UTF-8", "pt_BR.UTF-8", "German_Germany.1252" };
    static const struct { const char *text; size_t n; double number; } numbers[] = {
        { "1,5]", 1, 1 }, { "-1.5]", 4, -1.5 }, { "-2.5e-1,", 7, -0.25 }, { "1.e2", 4, 100 },
        { "1.2.3", 0, 0 }, { "-", 0, 0 }, { "x", 0, 0 }, { "1e", 0, 0 } };
    char json[400] = "{'a':0.";
    const char *comma = NULL;
    size_t n = strlen(json);
    memset(json + n, '1', 61);
    memcpy(json + n + 61, "}", 2);
    for (int round = 0; round < 2; round++) {
        doing(round ? "numbers, in a locale with a decimal comma" : "numbers");
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            double number;
            COMPARE(tk_json_number(numbers[i].text, &number) == numbers[i].n, numbers[i].text,
                    tk_json_number(numbers[i].text, &number), numbers[i].n);
            if (numbers[i].n) IS(number, numbers[i].number);
        }
        tokenizer *t = opened("{" SPACES "'model':{'type':'Unigram','unk_id':0,'vocab':[['<u>',0],"
            "['a',-1.5],['b',-1.75],['ab',-3.125],['ba',-3.375e0]],'dropout':0.0}}");
        IDS(t, "abba", "3 2 1");                 /* -3.125 against -3.25; -3.375 against -3.25 */
        tokenizer_free(t);
        WRONG("dropout", "{" BYTE_LEVEL "'model':{'dropout':0.1,'vocab':{'a':0},'merges':[]}}");
        WRONG("without a model", json);          /* 63 bytes, which are read */
        for (size_t i = 0; !round && !comma && i < sizeof locales / sizeof *locales; i++)
            if (setlocale(LC_NUMERIC, locales[i]) && *localeconv()->decimal_point == ',')
                comma = locales[i];
        if (!comma) break;
    }
    setlocale(LC_NUMERIC, "C");
    if (!comma) {
        puts("skipped: numbers in a locale with a decimal comma (there is none here)");
        skipped++;
    }
    doing("numbers");
    memcpy(json + n + 61, "1}", 3);
    double number;
    CHECK(tk_json_number(json + n - 2, &number) == 0);
    CHECK(tk_json_number(json + n - 1, &number) == 63);
    WRONG("a number of more than 63 bytes at byte 5", json);
}

/* ---- SentencePiece's file ---- */

static void put_varint(bytes *b, uint64_t value)
{
    for (; value > 127; value >>= 7) put_number(b, (value & 127) | 128, 1);
    put_number(b, value, 1);
}
static void put_message(bytes *b, unsigned field, const void *from, size_t n)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    put(b, from, n);
}
static void put_piece(bytes *b, const char *text, float score, unsigned type)
{
    bytes piece = { NULL, 0 };
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    put_message(&piece, 1, text, strlen(text));
    put_varint(&piece, 2 << 3 | 5);
    put_number(&piece, bits, 4);
    if (type != TK_NORMAL) {
        put_varint(&piece, 3 << 3);
        put_varint(&piece, type);
    }
    put_message(b, 1, piece.at, piece.size);
    free(piece.at);
}
typedef struct spm { unsigned kind, prefix, squeeze, suffix; } spm;
/* Pieces for both kinds: "h" 3, "e" 4, "▁" 5, "▁h" 6, "he" 7, "▁he" 8, "<x>" 9, and with fallback
   the bytes from 10 on. */
static bytes spm_file(spm o, int fallback)
{
    bytes file = { NULL, 0 }, trainer = { NULL, 0 }, normalizer = { NULL, 0 };
    put_piece(&file, "<unk>", 0, TK_UNKNOWN);
    put_piece(&file, "<s>", 0, TK_CONTROL);
    put_piece(&file, "</s>", 0, TK_CONTROL);
    put_piece(&file, "h", -4, TK_NORMAL);
    put_piece(&file, "e", -4.5f, TK_NORMAL);
    put_piece(&file, BAR, -5, TK_NORMAL);
    put_piece(&file, BAR "h", -2, TK_NORMAL);
    put_piece(&file, "he", -1, TK_NORMAL);
    put_piece(&file, BAR "he", -3, TK_NORMAL);
    put_piece(&file, "<x>", 0, TK_USER);
    for (unsigned i = 0; fallback && i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        put_piece(&file, name, 0, TK_BYTE);
    }
    put_varint(&trainer, 3 << 3);
    put_varint(&trainer, o.kind);
    put_varint(&trainer, 24 << 3);
    put_varint(&trainer, o.suffix);
    put_varint(&normalizer, 3 << 3);
    put_varint(&normalizer, o.prefix);
    put_varint(&normalizer, 4 << 3);
    put_varint(&normalizer, o.squeeze);
    put_message(&file, 2, trainer.at, trainer.size);
    put_message(&file, 3, normalizer.at, normalizer.size);
    free(trainer.at);
    free(normalizer.at);
    return file;
}
static tokenizer *spm_open(spm o, int fallback)
{
    bytes file = spm_file(o, fallback);
    tokenizer *t = tokenizer_from("test", file.at, file.size, error);
    CHECK_AT(t != NULL, error);
    free(file.at);
    return t;
}
static void check_spm(void)
{
    const spm bpe = { 2, 1, 0, 0 }, unigram = { 1, 1, 0, 0 }, squeeze = { 2, 1, 1, 0 };
    const spm bare = { 2, 0, 0, 0 }, suffix = { 2, 1, 0, 1 };
    doing("SentencePiece, BPE");
    tokenizer *t = spm_open(bpe, 1);
    IDS(t, "he he", "8 8");
    IDS(t, "hehe", "8 7");
    IDS(t, "h  e", "6 5 5 4");
    IDS(t, "h\xC3\xA9", "6 205 179");            /* 10 + 0xC3, 10 + 0xA9 */
    IDS(t, "h<x>h", "6 9 3");
    IDS(t, "<s>he", "1 8");
    TEXT_IS(ids_of(t, "<s>", 3, TOKENIZER_LITERAL), "5 70 125 72");
    TEXT_IS(ids_of(t, "he", 2, TOKENIZER_BEGIN), "1 8");
    AGAIN(t, "he he\xC3\xA9", "he he\xC3\xA9");
    AGAIN(t, "  he", "  he");
    CHECK(tokenizer_begin(t) == 1 && tokenizer_end(t) == 2 && tokenizer_is_special(t, 1));
    tokenizer_free(t);
    t = spm_open(bpe, 0);
    IDS(t, "hzzhz", "6 0 3 0");
    AGAIN(t, "hzz", "h \xE2\x81\x87 ");
    tokenizer_free(t);
    doing("SentencePiece, unigram");
    t = spm_open(unigram, 1);
    IDS(t, "he he", "8 8");                      /* -3 against -5 -1 */
    IDS(t, "heh", "8 3");
    IDS(t, "hz", "6 132");
    IDS(t, "h<x>e", "6 9 4");
    tokenizer_free(t);
    t = spm_open(unigram, 0);
    IDS(t, "hzzh", "6 0 3");
    tokenizer_free(t);
    doing("SentencePiece, spaces");
    t = spm_open(squeeze, 1);
    IDS(t, "  he   he  ", "8 8");
    IDS(t, "   ", "");
    static const int32_t spaces[] = { 5, 5, 8, 5, 5 };   /* all at the beginning are dropped */
    TEXT_IS(text_of(t, spaces, 5), "he  ");
    tokenizer_free(t);
    t = spm_open(bare, 1);
    IDS(t, "he he", "7 8");
    tokenizer_free(t);
    t = spm_open(suffix, 1);
    IDS(t, "he", "7 5");
    tokenizer_free(t);
}
static void check_spm_refused(void)
{
    const spm bpe = { 2, 1, 0, 0 }, words = { 3, 1, 0, 0 };
    doing("SentencePiece, refused");
    bytes file = spm_file(words, 1);
    says_what("type 3", file.at, file.size, __LINE__);
    free(file.at);
    file = spm_file(bpe, 1);
    bytes more = { NULL, 0 }, map = { NULL, 0 };
    put(&more, file.at, file.size);
    put_message(&map, 2, "abc", 3);
    put_message(&more, 3, map.at, map.size);
    says_what("a trie and texts, found 3 bytes", more.at, more.size, __LINE__);
    free(more.at);
    more.at = NULL;
    more.size = 0;
    put(&more, file.at, file.size);
    put_piece(&more, "unused", 0, TK_UNUSED);
    says_what("unused", more.at, more.size, __LINE__);
    free(more.at);
    free(map.at);
    for (size_t n = 0; n < 90; n++) {            /* all ends */
        tokenizer *t = tokenizer_from("test", file.at, n, error);
        CHECK(t || *error);
        tokenizer_free(t);
    }
    free(file.at);
    WRONG("another", "no tokenizer");
    WRONG("another", "");
}

/* ---- GGUF ---- */

typedef struct gguf { bytes values; uint64_t count; } gguf;
static void put_key(gguf *g, const char *key, unsigned type)
{
    put_number(&g->values, strlen(key), 8);
    put_text(&g->values, key);
    put_number(&g->values, type, 4);
    g->count++;
}
static void put_string(gguf *g, const char *key, const char *text)
{
    put_key(g, key, 8);
    put_number(&g->values, strlen(text), 8);
    put_text(&g->values, text);
}
static void put_id(gguf *g, const char *key, uint64_t id)
{
    put_key(g, key, 4);
    put_number(&g->values, id, 4);
}
static void put_strings(gguf *g, const char *key, const char *const *text, size_t n)
{
    put_key(g, key, 9);
    put_number(&g->values, 8, 4);
    put_number(&g->values, n, 8);
    for (size_t i = 0; i < n; i++) {
        put_number(&g->values, strlen(text[i]), 8);
        put_text(&g->values, text[i]);
    }
}
static void put_words(gguf *g, const char *key, unsigned type, const uint32_t *word, size_t n)
{
    put_key(g, key, 9);
    put_number(&g->values, type, 4);
    put_number(&g->values, n, 8);
    for (size_t i = 0; i < n; i++) put_number(&g->values, word[i], 4);
}
static bytes gguf_end(gguf *g, unsigned version)
{
    bytes file = { NULL, 0 };
    put_text(&file, "GGUF");
    put_number(&file, version, 4);
    put_number(&file, 0, 8);
    put_number(&file, g->count, 8);
    put(&file, g->values.at, g->values.size);
    free(g->values.at);
    return file;
}
/* The bytes file of kind gpt2, with this tokenizer.ggml.pre. */
static bytes gguf_bpe(const char *pre, unsigned version)
{
    static const char *const tokens[] = { "h", "e", "1", "2", "\xC4\xA0", "he", "\xC4\xA0h", "12",
                                          "<|im_start|>", "<|im_end|>", "e1" };
    static const char *const merges[] = { "h e", "\xC4\xA0 h", "1 2", "e 1" };
    static const uint32_t types[] = { 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 1 };
    gguf g = { { NULL, 0 }, 0 };
    put_string(&g, "general.name", "a test");
    put_string(&g, "tokenizer.ggml.model", "gpt2");
    put_string(&g, "tokenizer.ggml.pre", pre);
    put_strings(&g, "tokenizer.ggml.tokens", tokens, 11);
    put_words(&g, "tokenizer.ggml.token_type", 5, types, 11);
    put_strings(&g, "tokenizer.ggml.merges", merges, 4);
    put_id(&g, "tokenizer.ggml.bos_token_id", 8);
    put_id(&g, "tokenizer.ggml.eos_token_id", 9);
    put_string(&g, "tokenizer.chat_template", "<|im_start|> <|im_end|>");
    return gguf_end(&g, version);
}
/* Adds a flag to a GGUF. */
static void put_flag(bytes *file, const char *key, unsigned value)
{
    put_number(file, strlen(key), 8);
    put_text(file, key);
    put_number(file, 7, 4);
    put_number(file, value, 1);
    file->at[16]++;                              /* how many values there are */
}
/* Kind llama; its two user-defined symbols have spaces, as llama.cpp writes them for "▁". */
static bytes gguf_llama(unsigned squeeze)
{
    static const char *const tokens[] = { "<unk>", "<s>", "</s>", "h", "e", BAR, BAR "h", "he",
                                          "  ", " e" };
    static const float scores[] = { 0, 0, 0, -4, -4, -5, -2, -1, 0, 0 };
    static const uint32_t types[] = { 2, 3, 3, 1, 1, 1, 1, 1, 4, 4 };
    gguf g = { { NULL, 0 }, 0 };
    uint32_t bits[10];
    memcpy(bits, scores, sizeof bits);
    put_string(&g, "tokenizer.ggml.model", "llama");
    put_strings(&g, "tokenizer.ggml.tokens", tokens, 10);
    put_words(&g, "tokenizer.ggml.scores", 6, bits, 10);
    put_words(&g, "tokenizer.ggml.token_type", 5, types, 10);
    put_key(&g, "tokenizer.ggml.remove_extra_whitespaces", 7);
    put_number(&g.values, squeeze, 1);
    put_id(&g, "tokenizer.ggml.unknown_token_id", 0);
    put_id(&g, "tokenizer.ggml.bos_token_id", 1);
    put_id(&g, "tokenizer.ggml.eos_token_id", 2);
    return gguf_end(&g, 3);
}
/* Kind llama, whose tokens are the bytes and "</s>": none is unknown. */
static bytes gguf_all_bytes(void)
{
    static char names[257][8];
    static uint32_t types[257], bits[257];
    const char *tokens[257];
    gguf g = { { NULL, 0 }, 0 };
    for (unsigned i = 0; i < 257; i++) {
        if (i < 256) snprintf(names[i], sizeof *names, "<0x%02X>", i);
        else snprintf(names[i], sizeof *names, "</s>");
        tokens[i] = names[i];
        types[i] = i < 256 ? TK_BYTE : TK_CONTROL;
    }
    put_string(&g, "tokenizer.ggml.model", "llama");
    put_strings(&g, "tokenizer.ggml.tokens", tokens, 257);
    put_words(&g, "tokenizer.ggml.scores", 6, bits, 257);
    put_words(&g, "tokenizer.ggml.token_type", 5, types, 257);
    return gguf_end(&g, 3);
}
static void check_gguf(void)
{
    /* digits alone, or together; llama.cpp begins Llama 3's texts without add_bos_token, too */
    static const char *const pre[] = { "smollm", "gpt-2", "llama-bpe", "qwen2", "llama3",
                                       "llama-v3", "starcoder", "refact", "deepseek-r1-qwen" };
    static const char *const expected[] = { "5 4 2 3 9", "5 4 7 9", "8 5 4 7 9", "5 4 2 3 9",
        "8 5 4 7 9", "8 5 4 7 9", "5 4 2 3 9", "5 4 2 3 9", "5 4 2 3 9" };
    for (int i = 0; i < 9; i++) {
        bytes file = gguf_bpe(pre[i], 3);
        doing(pre[i]);
        tokenizer *t = tokenizer_from("test", file.at, file.size, error);
        CHECK_AT(t != NULL, error);
        TEXT_IS(ids_of(t, "he 12<|im_end|>", 15, TOKENIZER_BEGIN), expected[i]);
        CHECK(tokenizer_begin(t) == 8 && tokenizer_end(t) == 9 && tokenizer_count(t) == 11);
        CHECK(tokenizer_chat_kind(t) == TOKENIZER_CHATML && tokenizer_chat_end(t) == 9);
        tokenizer_free(t);
        free(file.at);
    }
    doing("GGUF, what its flags say of its ends");
    bytes file = gguf_bpe("llama-bpe", 3);
    put_flag(&file, "tokenizer.ggml.add_bos_token", 0);
    put_flag(&file, "tokenizer.ggml.add_eos_token", 1);
    tokenizer *t = tokenizer_from("test", file.at, file.size, error);
    if (CHECK_AT(t != NULL, error)) TEXT_IS(ids_of(t, "he", 2, TOKENIZER_BEGIN), "5 9");
    tokenizer_free(t);
    free(file.at);
    doing("GGUF, llama");
    file = gguf_llama(1);
    t = tokenizer_from("test", file.at, file.size, error);
    CHECK_AT(t != NULL, error);
    IDS(t, "h   e", "6 8 9");                    /* symbols keep their spaces */
    IDS(t, "h e he ", "6 9 5 7");
    tokenizer_free(t);
    free(file.at);
    file = gguf_llama(0);
    t = tokenizer_from("test", file.at, file.size, error);
    CHECK_AT(t != NULL, error);
    TEXT_IS(ids_of(t, "he", 2, TOKENIZER_BEGIN), "1 5 7");
    IDS(t, "hzz h", "6 0 6");
    IDS(t, "h   e  h", "6 8 9 8 3");
    AGAIN(t, "he h  e", "he h  e");
    tokenizer_free(t);
    doing("GGUF, refused");
    for (size_t n = 4; n < file.size; n++) {
        t = tokenizer_from("test", file.at, n, error);
        CHECK(!t && *error);
        tokenizer_free(t);
    }
    free(file.at);
    file = gguf_bpe("tekken", 3);
    says_what("tekken", file.at, file.size, __LINE__);
    free(file.at);
    file = gguf_bpe("gpt-2", 1);
    says_what("version 2 or 3", file.at, file.size, __LINE__);
    free(file.at);
}

/* ---- what is refused in a tokenizer.json ---- */

static void check_refused(void)
{
    doing("refused by name");
    WRONG("NFKC", "{'normalizer':{'type':'NFKC'}," BYTE_LEVEL MODEL "}");
    WRONG("StripAccents", "{'normalizer':{'type':'Sequence','normalizers':[{'type':"
            "'Lowercase'},{'type':'StripAccents'}]}," BYTE_LEVEL MODEL "}");
    WRONG("such a (?", "{'normalizer':{'type':'Replace','pattern':{'Regex':'(?<=a)b'},"
            "'content':'b'}," BYTE_LEVEL MODEL "}");
    WRONG("base 64", "{'normalizer':{'type':'Precompiled','precompiled_charsmap':'a-b'},"
            BYTE_LEVEL MODEL "}");
    WRONG("a trie and texts", "{'normalizer':{'type':'Precompiled','precompiled_charsmap':'AAAA'},"
            BYTE_LEVEL MODEL "}");
    WRONG("Whitespace", "{'pre_tokenizer':{'type':'Whitespace'}," MODEL "}");
    WRONG("behind ByteLevel", "{'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type'"
            ":'ByteLevel'},{'type':'Digits'}]}," MODEL "}");
    WRONG("as cls of RobertaProcessing", "{'post_processor':{'type':'RobertaProcessing'},"
            BYTE_LEVEL MODEL "}");
    WRONG("as sep of RobertaProcessing", "{'post_processor':{'type':'RobertaProcessing',"
            "'cls':['a',0],'sep':['c',3]}," BYTE_LEVEL MODEL "}");
    WRONG("BertProcessing", "{'post_processor':{'type':'BertProcessing'}," BYTE_LEVEL MODEL "}");
    WRONG("WordPiece", "{'decoder':{'type':'WordPiece'}," MODEL "}");
    WRONG("WordPiece", "{" BYTE_LEVEL "'model':{'type':'WordPiece'}}");
    WRONG("decoder", "{" MODEL "}");
    WRONG("pad_id", "{'padding':{'pad_id':3}," BYTE_LEVEL MODEL "}");
    WRONG("single_word", "{'added_tokens':[{'id':3,'content':'x','single_word':true}],"
            BYTE_LEVEL MODEL "}");
    WRONG("dropout", "{" BYTE_LEVEL "'model':{'dropout':0.1,'vocab':{'a':0},'merges':[]}}");
    WRONG("suffix", "{" BYTE_LEVEL "'model':{'end_of_word_suffix':'@','vocab':{'a':0},"
            "'merges':[]}}");
    WRONG("suffix", "{'model':{'end_of_word_suffix':'</w>','vocab':{'a':0},'merges':[]}}");
    WRONG("prefix", "{" BYTE_LEVEL "'model':{'continuing_subword_prefix':'##','vocab':{'a':0},"
            "'merges':[]}}");
    WRONG("<0x00>", "{'model':{'byte_fallback':true,'vocab':{'a':0},'merges':[]}}");
    WRONG("merge 0", "{" BYTE_LEVEL "'model':{'vocab':{'a':0},'merges':['a b']}}");
    WRONG("merge 0", "{" BYTE_LEVEL "'model':{'vocab':{'a':0},'merges':['ab']}}");
    WRONG("large gaps", "{" BYTE_LEVEL "'model':{'vocab':{'a':99999999},'merges':[]}}");
    /* of three tokens ids go up to 4120, however far those before went */
    WRONG("large gaps, found 30000", "{'added_tokens':[{'id':4100,'content':'x','special':true},"
            "{'id':30000,'content':'y','special':true}]," BYTE_LEVEL
            "'model':{'vocab':{'a':0},'merges':[]}}");
    tokenizer *t = opened("{'added_tokens':[{'id':4100,'content':'x','special':true},{'id':4119,"
            "'content':'y','special':true}]," BYTE_LEVEL "'model':{'vocab':{'a':0},'merges':[]}}");
    IDS(t, "axy", "0 4100 4119");
    tokenizer_free(t);
    WRONG("unk_token", "{" BYTE_LEVEL "'model':{'unk_token':'u','vocab':{'a':0},"
            "'merges':[]}}");
    WRONG("unk_id", "{'model':{'type':'Unigram','unk_id':5,'vocab':[['a',0]]}}");
    WRONG("without a model", "{}");
    WRONG("JSON", "{'a':");
    WRONG("surrogate", "{'a':'\\ud800'}");
    WRONG("surrogate", "{'a':'\\ud800\\u0041'}");
    WRONG("JSON", "{'a':1} x");
    WRONG("JSON", "{'a':-nan}");
    WRONG("JSON", "{'a':0x10}");
    WRONG("finite", "{'model':{'type':'Unigram','unk_id':0,'vocab':[['a',-1e999]]}}");
    WRONG("UTF-8", "{'a':'\xFF'}");
    char deep[400] = "{'a':";
    memset(deep + 5, '[', 300);
    deep[305] = 0;
    WRONG("nesting", deep);
    CHECK(!tokenizer_load("build/there is none.json", error) && strstr(error, "none.json"));
    CHECK(!tokenizer_load("build", error) && *error);
}

/* ---- broken UTF-8, streams, long words ---- */

static void check_broken(void)
{
    tokenizer *t = opened("{" BYTE_LEVEL HELLO "}");
    tokenizer_stream s;
    tokenizer_text text = { NULL, 0, 0 };
    doing("broken UTF-8");
    /* U+FFFD is 17 18 19, once for each longest part that could have begun a character */
    IDS(t, "h\xFFh", "0 17 18 19 0");
    IDS(t, "h\xF0\x9F\x98h", "0 17 18 19 0");
    IDS(t, "h\xE2\x82", "0 17 18 19");
    IDS(t, "\xC0\x80", "17 18 19 17 18 19");
    IDS(t, "\xED\xA0\x80", "17 18 19 17 18 19 17 18 19");
    IDS(t, "\xF4\x90\x80\x80", "17 18 19 17 18 19 17 18 19 17 18 19");
    TEXT_IS(ids_of(t, "h\0h", 3, 0), "0 0");        /* a zero is a byte, here one without a token */
    doing("a stream");
    memset(&s, 0, sizeof s);
    static const int32_t smile[] = { 12, 13, 14, 15 };
    for (int i = 0; i < 4; i++) {
        CHECK(!tokenizer_stream_add(t, &s, smile[i], 0, &text));
        CHECK(text.count == (i < 3 ? 0u : 4u));
    }
    TEXT_IS(text.at, "\xF0\x9F\x98\x80");
    text.count = 0;
    CHECK(!tokenizer_stream_add(t, &s, 12, 0, &text) && !tokenizer_stream_add(t, &s, 0, 0, &text));
    TEXT_IS(text.at, "\xF0h");                      /* nothing more can come of it */
    text.count = 0;
    CHECK(!tokenizer_stream_add(t, &s, 10, 0, &text) && text.count == 0);
    CHECK(!tokenizer_stream_add(t, &s, 555, 0, &text) && text.count == 0);
    CHECK(!tokenizer_stream_end(&s, &text));
    TEXT_IS(text.at, "\xC3");
    tokenizer_text_free(&text);
    CHECK(tokenizer_encode(NULL, "a", 1, 0, NULL) == -1);
    tokenizer_free(t);
}
static void check_long(void)
{
    enum { LONG = 1 << 20 };
    static const char *const unit[] = { "l", "hello", " ", "\xC3\xA9", "1", "\n " };
    tokenizer *t = opened("{" ADDED("") BYTE_LEVEL HELLO "}");
    char *text = (char *)malloc(LONG + 8);
    doing("a word of a million letters");
    for (size_t k = 0; text && k < sizeof unit / sizeof *unit; k++) {
        size_t n = 0, length = strlen(unit[k]);
        tokenizer_ids ids = { NULL, 0, 0 };
        clock_t begin = clock();
        for (; n + length <= LONG; n += length) memcpy(text + n, unit[k], length);
        CHECK(!tokenizer_encode(t, text, n, 0, &ids));
        if (k == 0) CHECK(ids.count == LONG / 2 && ids.at[0] == 6);
        CHECK((double)(clock() - begin) / CLOCKS_PER_SEC < 20);  /* a square takes hours */
        tokenizer_ids_free(&ids);
    }
    free(text);
    tokenizer_free(t);
}

/* ---- templates ---- */

static const char chatml[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
static const char chatml_bare[] = "{{'<|im_start|>' + role + '\n' + content + '<|im_end|>'}}";
static const char chatml_tools[] =
    "{{- '<|im_start|>system\\n' }}{{- 'You are Qwen.' }}{%- else %}"
    "{{- '<|im_start|>system\\nYou are Qwen.<|im_end|>\\n' }}";
static const char llama3[] =
    "{{ bos_token }}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' "
    "+ message['content'] | trim + '<|eot_id|>' }}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}";
static const char llama31[] =
    "{{- bos_token }}{%- set date_string = strftime_now(\"%d %b %Y\") %}"
    "{%- set system_message = \"\" %}{{- \"Cutting Knowledge Date: May 2020\\n\" }}"
    "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}"
    "{{- system_message }}\n{{- \"<|eot_id|>\" }}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
    "+ message['content'] | trim + '<|eot_id|>' }}";
/* It ends inside of what writes the day; what lies behind its end is none of it. */
static const char llama31_cut[] =
    "{{- bos_token }}{%- set system_message = \"\" %}{{- \"Cutting Knowledge Date: May 2020\\n\" }}"
    "{{- system_message }}\n{{- \"<|eot_id|>\" }}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
    "+ message['content'] | trim + '<|eot_id|>' }}{%- set date_string = strftime_now(\"%d\""
    "\0+ ' and more'";
static const char qwen3[] =
    "{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}"
    "{%- if '</think>' in content %}{%- if loop.index0 > ns.last_query_index %}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}";
static const char qwen3_thinks[] =
    "{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}"
    "{%- if '</think>' in content %}{%- if loop.index0 > ns.last_query_index %}"
    "{{- '<|im_start|>assistant\\n<think>\\n' }}";
static const char smollm3[] =
    "{{- \"<|im_start|>system\\n\" -}}{{- \"Knowledge Cutoff Date: May 2020\\n\" -}}"
    "{%- set today = strftime_now('%d %B %Y') -%}{{- \"Today Date: \" ~ today ~ \"\\n\" -}}"
    "{{- \"Reasoning Mode: \" + mode -}}{{- \"## Custom Instructions\\n\\n\" -}}"
    "{%- elif reasoning_mode == \"/think\" -%}{{- \"Think a \\\"lot\\\".\\n\\n\" -}}"
    "{%- else -%}{{- \"Be quick.\\n\\n\" -}}{%- endif -%}/system_override<|im_end|>";
static const char granite[] =
    "{%- set system_message = \"Today's Date: \" + strftime_now('%B %d, %Y') + '.' %}"
    "{%- elif thinking %}{%- set system_message = system_message + \" Think.\" %}"
    "{%- else %}\n  {%- set system_message = system_message + \" Help.\" %}"
    "{{- '<|start_of_role|>' + role + '<|end_of_role|>' + message['content'] + '<|end_of_text|>"
    "\n' }}{%- if add_generation_prompt %}\n{{- '<|start_of_role|>assistant' }}";
static const char granite4[] =
    "{%- set g4_default_system_message = 'Help.' %}"
    "{%- set ns.system_message = messages[0].content %}"
    "{{- '<|start_of_role|>user<|end_of_role|>' + content.val + '<|end_of_text|>\\n' }}"
    "{{- '<|start_of_role|>assistant<|end_of_role|>' }}";
static const char falcon[] =
    "{{ '\n\nUser: ' + message['content'].strip().replace('\\r\\n', '\n') }}"
    "{{ '\n\nAssistant: ' + message['content'].strip() }}{{ '\n\nAssistant:' }}";
static const char falcon3[] =
    "{{- '<|user|>\\n' + message['content'] + '\\n' }}"
    "{{- '<|assistant|>\\n' + message['content'] + eos_token + '\\n' }}{{- '<|assistant|>\\n' }}";
static const char nemotron[] =
    "{%- elif '/no_think' in content -%}{{- '<SPECIAL_10>System\n' -}}{{- '\n\n' -}}"
    "{%- set messages = messages[1:] -%}{{- '\n<SPECIAL_12>\n' -}}";
static const char nemotron_h[] =
    "{{ '<SPECIAL_10>System\\n' }}{{ '\\n<SPECIAL_11>Assistant\\n' }}"
    "{%- if \"{'reasoning': True}\" in messages[0]['content'] -%}";
static const char tekken[] =
    "{{- bos_token }}{{- \"[INST]\" + system_message + \"\\n\\n\" + message[\"content\"] "
    "+ \"[/INST]\" }}{{- \"[INST]\" + message[\"content\"] + \"[/INST]\" }}"
    "{{- message[\"content\"] + eos_token}}";
static const char mixtral[] =
    "{%- if loop.first and system_message is defined %}{{- bos_token }}"
    "{{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}"
    "{{- ' [INST] ' + message['content'] + ' [/INST]' }}"
    "{{- ' ' + message['content'] + eos_token}}";
static const char zephyr[] = "{{ '<|user|>\n' + message['content'] + eos_token }}<|assistant|>";
static const char mistral[] =
    "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif %}"
    "{{ message['content'] + eos_token + ' ' }}";
static const char mistral3[] =
    "{{- bos_token }}{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}{%- elif %}"
    "{{- \" \" + message[\"content\"]|trim + eos_token}}";
static const char trimming[] = "<|im_start|> + message['content'] | trim + <|im_end|>";
static const char ours_and_more[] =
    "<|im_start|>{{ messages[0]['content'] }}<think>{{ '</think>' }}<|im_end|>";
static const char phi3[] = "{{ '<|user|>\n' + c + '<|end|>\n<|assistant|>' + eos_token }}";

static void chat_is_with(const tokenizer_chat_options *options, const char *template_text,
                         const tokenizer_message *m, size_t count, const char *expected, int line)
{
    tokenizer *t = opened("{'added_tokens':[{'id':20,'content':'<s>','special':true},{'id':"
                          "21,'content':'</s>','special':true}]," BYTE_LEVEL HELLO "}");
    tokenizer_text text = { NULL, 0, 0 };
    if (!t) return;
    t->chat = template_text;
    t->begin = 20;
    t->end = 21;
    int bad = tokenizer_chat(t, m, count, options, &text, error), again = -1;
    if (bad) text_is(strstr(error, expected) ? expected : error, expected, line);
    else text_is(text.at, expected, line);
    tokenizer_text_free(&text);
    long before = held;
    for (long n = 1; n < 100 && again && !bad; n++) {    /* memory runs out */
        taken = 0;
        fails_at = n;
        again = tokenizer_chat(t, m, count, options, &text, error);
        fails_at = 0;
        tokenizer_text_free(&text);
        CHECK((again == 0) == (taken < n) && held == before);
        CHECK(!again || !strcmp(error, "out of memory"));
    }
    tokenizer_free(t);
}
/* A template with a few bytes changed or without its end: any text or error will do. */
static void break_chat(const char *template_text, const tokenizer_message *m, size_t count)
{
    uint32_t seed = 5;
    size_t n = strlen(template_text);
    tokenizer *t = opened("{" ADDED("") BYTE_LEVEL HELLO "}");
    char *text = (char *)malloc(n + 1);
    for (long k = 0; k < 300 && t && text && n; k++) {
        tokenizer_text to = { NULL, 0, 0 };
        memcpy(text, template_text, n + 1);
        for (uint32_t changes = drawn(&seed) % 4; changes > 0; changes--)
            text[drawn(&seed) % n] = "'\"\\n%+~{} "[drawn(&seed) % 10];
        if (k % 3 == 0) text[drawn(&seed) % n] = 0;
        t->chat = text;
        int bad = tokenizer_chat(t, m, count, NULL, &to, error);
        CHECK(bad ? *error != 0 : to.at != NULL);
        tokenizer_text_free(&to);
    }
    if (t) t->chat = NULL;
    free(text);
    tokenizer_free(t);
}
static void chat_is(const char *template_text, const tokenizer_message *m, size_t count,
                    const char *expected, int line)
{
    if (template_text) break_chat(template_text, m, count);
    chat_is_with(NULL, template_text, m, count, expected, line);
}
static const tokenizer_message turns[] = {
    { "user", " Hi\xC2\xA0" }, { "assistant", "<think>\nhm\n</think>\n\nHo\n" },
    { "user", "Q\n\nR" } };
static const tokenizer_message spaced[] = { { "system", "S \t" }, { "user", "Q" } };
static const tokenizer_message quick[] = { { "system", "/no_think S" }, { "user", "Q" } };
/* What templates make of them that tell the day or have a switch for thinking. */
static void check_chat_options(void)
{
    static const tokenizer_message over[] = { { "system", "S /system_override" }, { "user", "Q" } };
    const tokenizer_message *m = turns, *told = spaced;
    tokenizer_chat_options day, thinks, answers;
    memset(&day, 0, sizeof day);
    day.year = 2025;
    day.month = 3;
    day.day = 7;
    thinks = day;
    answers = day;
    thinks.think = 1;
    answers.think = -1;
    doing("chat templates with options");
    chat_is(llama31, told, 2, "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge "
            "Date: May 2020\nToday Date: 26 Jul 2024\n\nS<|eot_id|><|start_header_id|>user"
            "<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
            __LINE__);
    chat_is_with(&day, llama31, m, 1, "<s><|start_header_id|>system<|end_header_id|>\n\nCutting "
                 "Knowledge Date: May 2020\nToday Date: 07 Mar 2025\n\n<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>"
                 "assistant<|end_header_id|>\n\n", __LINE__);
    chat_is(llama31_cut, told, 2, "<s><|start_header_id|>system<|end_header_id|>\n\nCutting "
            "Knowledge Date: May 2020\nToday Date: 26\n\nS<|eot_id|><|start_header_id|>user"
            "<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
            __LINE__);
    chat_is_with(&thinks, llama31, m, 1, "no switch for thinking", __LINE__);
    chat_is(qwen3, m, 3, "<|im_start|>user\n Hi\xC2\xA0<|im_end|>\n<|im_start|>assistant\nHo\n"
            "<|im_end|>\n<|im_start|>user\nQ\n\nR<|im_end|>\n<|im_start|>assistant\n", __LINE__);
    chat_is_with(&answers, qwen3, told, 2, "<|im_start|>system\nS \t<|im_end|>\n<|im_start|>user\n"
                 "Q<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", __LINE__);
    chat_is(qwen3_thinks, m + 2, 1, "<|im_start|>user\nQ\n\nR<|im_end|>\n<|im_start|>assistant\n"
            "<think>\n", __LINE__);
    chat_is_with(&answers, qwen3_thinks, m + 2, 1, "no switch for thinking", __LINE__);
    chat_is_with(&day, smollm3, m, 3, "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: "
                 "May 2020\nToday Date: 07 March 2025\nReasoning Mode: /think\n\n## Custom "
                 "Instructions\n\nThink a \"lot\".\n\n<|im_end|>\n<|im_start|>user\n Hi\xC2\xA0"
                 "<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nHo\n<|im_end|>\n"
                 "<|im_start|>user\nQ\n\nR<|im_end|>\n<|im_start|>assistant\n", __LINE__);
    chat_is_with(&answers, smollm3, m + 2, 1, "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff "
                 "Date: May 2020\nToday Date: 07 March 2025\nReasoning Mode: /no_think\n\n## "
                 "Custom Instructions\n\nBe quick.\n\n<|im_end|>\n<|im_start|>user\nQ\n\nR"
                 "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n", __LINE__);
    chat_is_with(&thinks, smollm3, quick, 2, "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff "
                 "Date: May 2020\nToday Date: 07 March 2025\nReasoning Mode: /no_think\n\n## "
                 "Custom Instructions\n\n S\n\n<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
                 "<|im_start|>assistant\n<think>\n\n</think>\n", __LINE__);
    chat_is(smollm3, over, 2, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
            "<|im_start|>assistant\n", __LINE__);
    chat_is_with(&day, granite, m + 2, 1, "<|start_of_role|>system<|end_of_role|>Today's Date: "
                 "March 07, 2025. Help.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>Q\n\nR"
                 "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>", __LINE__);
    chat_is_with(&thinks, granite, m + 2, 1, "<|start_of_role|>system<|end_of_role|>Today's Date: "
                 "March 07, 2025. Think.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>Q\n\nR"
                 "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>", __LINE__);
    day.month = 13;
    chat_is_with(&day, llama31, m, 1, "a month from 1 to 12", __LINE__);
}
/* And others. */
static void check_chat_kinds(void)
{
    static const tokenizer_message true_h[] = { { "system", "{'reasoning': True}" },
                                                { "user", "Q" } };
    const tokenizer_message *m = turns, *told = spaced;
    doing("chat templates of one kind and another");
    chat_is(granite4, m + 2, 1, "<|start_of_role|>system<|end_of_role|>Help.<|end_of_text|>\n"
            "<|start_of_role|>user<|end_of_role|>Q\n\nR<|end_of_text|>\n<|start_of_role|>"
            "assistant<|end_of_role|>", __LINE__);
    chat_is(falcon, m, 3, "\n\nUser: Hi\n\nAssistant: <think>\nhm\n</think>\nHo\n\nUser: Q\nR"
            "\n\nAssistant:", __LINE__);
    chat_is(falcon3, m, 3, "<|user|>\n Hi\xC2\xA0\n<|assistant|>\n<think>\nhm\n</think>\n\nHo\n"
            "</s>\n<|user|>\nQ\n\nR\n<|assistant|>\n", __LINE__);
    chat_is(nemotron, m, 3, "<SPECIAL_10>System\n\n\n<SPECIAL_11>User\nHi\n<SPECIAL_11>Assistant\n"
            "Ho\n<SPECIAL_12>\n<SPECIAL_11>User\nQ\n\nR\n<SPECIAL_11>Assistant\n<think>\n",
            __LINE__);
    chat_is(nemotron, quick, 2, "<SPECIAL_10>System\nS\n\n<SPECIAL_11>User\nQ\n<SPECIAL_11>"
            "Assistant\n<think></think>", __LINE__);
    chat_is(nemotron_h, true_h, 2, "<SPECIAL_10>System\n{'reasoning': True}\n<SPECIAL_11>User\nQ\n"
            "<SPECIAL_11>Assistant\n<think>\n", __LINE__);
    chat_is(tekken, told, 2, "<s>[INST]S \t\n\nQ[/INST]", __LINE__);
    chat_is(mixtral, told, 2, "<s> [INST] S \t\n\nQ [/INST]", __LINE__);
}
static void check_chat(void)
{
    static const tokenizer_message m[] = { { "user", " Hi " }, { "assistant", "Ho" },
                                           { "user", "Q" } };
    static const tokenizer_message told[] = { { "system", "S" }, { "user", "Q" } };
    doing("chat templates");
    chat_is(chatml, m, 3, "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n"
            "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n", __LINE__);
    chat_is(chatml, told, 2, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
            "<|im_start|>assistant\n", __LINE__);
    chat_is(chatml_bare, m + 2, 1,
            "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n", __LINE__);
    chat_is(chatml_tools, m + 2, 1, "<|im_start|>system\nYou are Qwen.<|im_end|>\n"
            "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n", __LINE__);
    chat_is(llama3, m, 1, "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n", __LINE__);
    chat_is(zephyr, told, 2, "<|system|>\nS</s>\n<|user|>\nQ</s>\n<|assistant|>\n", __LINE__);
    chat_is(mistral, m, 3, "<s>[INST]  Hi  [/INST]Ho</s> [INST] Q [/INST]", __LINE__);
    chat_is(mistral3, m, 3, "<s>[INST]  Hi [/INST] Ho</s>[INST] Q[/INST]", __LINE__);
    chat_is(mistral, told, 2, "has no system message", __LINE__);
    chat_is(trimming, m, 1, "template is not done", __LINE__);
    chat_is("{{ '<|im_start|>system<|im_end|>' }}", m + 2, 1,
            "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n", __LINE__);
    chat_is("{{ '<|im_start|>' + strftime_now('%A') + '<|im_end|>' }}", m, 1, "not done", __LINE__);
    chat_is(ours_and_more, m, 1, "template is not done", __LINE__);
    chat_is(phi3, m, 1, "template is not done", __LINE__);
    chat_is("something else", m, 1, "template is not done", __LINE__);
    chat_is(NULL, m, 1, "no chat template", __LINE__);
    chat_is(chatml, m, 2, "in turns", __LINE__);
    chat_is(chatml, m, 0, "in turns", __LINE__);
}
static void write_bytes(const char *path, const bytes *file)
{
    FILE *f = fopen(path, "wb");
    if (CHECK(f != NULL)) {
        fwrite(file->at, 1, file->size, f);
        fclose(f);
    }
}
static void write_json(const char *path, const char *text)
{
    bytes file = { NULL, 0 };
    put_json(&file, text);
    write_bytes(path, &file);
    free(file.at);
}
/* "a" 0 "b" 1 "a</w>" 2 "b</w>" 3 "ab" 4 "ab</w>" 5 "ba" 6, and what begins and ends. */
#define CLIP_VOCAB "{'a':0,'b':1,'a</w>':2,'b</w>':3,'ab':4,'ab</w>':5,'ba':6," \
    "'<|startoftext|>':7,'<|endoftext|>':8}"
/* A path of n bytes to build/tokenizer_folder. */
static const char *long_path(size_t n)
{
    static const char end[] = "/tokenizer_folder";
    static char path[2048] = "build";
    for (size_t i = 5; i < n; i++) path[i] = "./"[i % 2];
    memcpy(path + n + 1 - sizeof end, end, sizeof end);
    return path;
}
static void check_long_paths(void)
{
    doing("long paths");
    write_json("build/tokenizer_folder/tokenizer_config.json", "{'bos_token':'h','bos_token':'e'}");
    for (size_t n = 880; n <= 1100; n++) {
        tokenizer *t = tokenizer_load(long_path(n), error);
        if (n > 1001) CHECK_AT(!t && strstr(error, "expected at most 1023 bytes of a path"), error);
        else if (CHECK_AT(t != NULL, error)) CHECK(tokenizer_begin(t) == 1);
        tokenizer_free(t);
    }
    remove("build/tokenizer_folder/tokenizer_config.json");
    write_json("build/tokenizer_folder/vocab.json", CLIP_VOCAB);
    write_json("build/tokenizer_folder/merges.txt", "a b</w>\na b\nb a\n");
    rename("build/tokenizer_folder/tokenizer.json", "build/tokenizer_folder/other");
    for (size_t n = 880; n <= 1100; n++) {
        tokenizer *t = tokenizer_load(long_path(n), error);
        if (n > 1001) CHECK_AT(!t && strstr(error, "expected at most 1023 bytes of a path"), error);
        else CHECK_AT(t && tokenizer_end(t) == 8, error);
        tokenizer_free(t);
    }
    rename("build/tokenizer_folder/other", "build/tokenizer_folder/tokenizer.json");
    remove("build/tokenizer_folder/vocab.json");
    remove("build/tokenizer_folder/merges.txt");
}
static void check_folder(void)
{
    doing("a folder");
    mkdir("build", 0777);
    mkdir("build/tokenizer_folder", 0777);
    write_json("build/tokenizer_folder/tokenizer.json", "{" ADDED("") BYTE_LEVEL HELLO "}");
    write_json("build/tokenizer_folder/tokenizer_config.json",
               "{'bos_token':'<|x|>','eos_token':{'content':'<|x|>y'},'chat_template':[{"
               "'name':'default','template':'<|im_start|> <|im_end|>'}]}");
    static const char *const path[] = { "build/tokenizer_folder", "build/tokenizer_folder/",
                                        "build/tokenizer_folder/tokenizer.json" };
    for (int i = 0; i < 3; i++) {
        tokenizer *t = tokenizer_load(path[i], error);
        CHECK_AT(t != NULL, error);
        CHECK(tokenizer_begin(t) == 20 && tokenizer_end(t) == 21);
        CHECK(tokenizer_chat_kind(t) == TOKENIZER_CHATML);
        IDS(t, "hello", "7 3");
        tokenizer_free(t);
    }
    long before = held;
    int good = 0;
    doing("a folder, and memory runs out");
    for (long n = 1; n < 300 && !good; n++) {
        taken = 0;
        fails_at = n;
        tokenizer *t = tokenizer_load(path[0], error);
        good = t != NULL;
        CHECK(good == (taken < n) && (good || strstr(error, "out of memory")));
        tokenizer_free(t);
        CHECK(held == before);
    }
    fails_at = 0;
    CHECK(good);
    doing("a folder");
    CHECK(!tokenizer_load(NULL, error) && strstr(error, "NULL"));
    CHECK(!tokenizer_from("test", NULL, 5, error) && *error);
    write_json("build/tokenizer_folder/tokenizer_config.json", "{'bos_token':");
    CHECK(!tokenizer_load(path[0], error) && strstr(error, "tokenizer_config.json"));
    remove("build/tokenizer_folder/tokenizer_config.json");
    write_json("build/tokenizer_folder/chat_template.jinja", "[INST] [/INST]");
    tokenizer *t = tokenizer_load(path[0], error);
    CHECK(t && tokenizer_chat_kind(t) == TOKENIZER_CHAT_MISTRAL);
    tokenizer_free(t);
    remove("build/tokenizer_folder/chat_template.jinja");
    check_long_paths();
    remove("build/tokenizer_folder/tokenizer.json");
    remove("build/tokenizer_folder");
}

/* ---- networks of pictures and texts ---- */

#define CLIP_AROUND "'normalizer':{'type':'Sequence','normalizers':[{'type':'NFC'},{'type':" \
    "'Replace','pattern':{'Regex':'\\\\s+'},'content':' '},{'type':'Lowercase'}]}," \
    "'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Split','pattern':{'Regex':" \
    "'[\\\\p{L}]+|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+'},'behavior':'Removed','invert':true},{" \
    "'type':'ByteLevel','add_prefix_space':false}]},'decoder':{'type':'ByteLevel'}," \
    "'post_processor':{'type':'RobertaProcessing','cls':['<|startoftext|>',7],'sep':[" \
    "'<|endoftext|>',8]},'added_tokens':[{'id':7,'content':'<|startoftext|>','special':true}," \
    "{'id':8,'content':'<|endoftext|>','special':true}],"
#define CLIP_MODEL "'model':{'type':'BPE','end_of_word_suffix':'</w>','unk_token':" \
    "'<|endoftext|>','vocab':" CLIP_VOCAB ",'merges':['a b</w>','a b','b a']}"
/* The ids of exactly so many. */
static const char *ids_to(const tokenizer *t, const char *text, size_t length, int flags)
{
    static char list[512];
    tokenizer_ids ids = { NULL, 0, 0 };
    size_t at = 0;
    list[0] = 0;
    if (tokenizer_encode_to(t, text, strlen(text), flags, length, &ids)) return "an error";
    for (size_t i = 0; i < ids.count; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, i ? " %d" : "%d", (int)ids.at[i]);
    tokenizer_ids_free(&ids);
    return list;
}
static void check_clip_ids(const tokenizer *t)
{
    IDS(t, "a", "2");
    IDS(t, "AB  ab\n", "5 5");                   /* small letters, white space */
    IDS(t, "abab", "4 5");                       /* "a b</w>" comes first */
    IDS(t, "aba", "4 2");
    IDS(t, "ba", "1 2");                         /* no "b a</w>" */
    IDS(t, "a1b", "2 8 3");                      /* unknown: each byte is the token that ends */
    IDS(t, "ab<|endoftext|>b", "5 8 3");
    AGAIN(t, "ab b", "ab b ");
    TEXT_IS(ids_of(t, "ab", 2, TOKENIZER_BEGIN), "7 5 8");
    TEXT_IS(ids_to(t, "ab", 6, TOKENIZER_BEGIN), "7 5 8 8 8 8");
    TEXT_IS(ids_to(t, "ab a b a b", 5, TOKENIZER_BEGIN), "7 5 2 3 8");
    TEXT_IS(ids_to(t, "ab", 2, TOKENIZER_BEGIN), "7 8");
    TEXT_IS(ids_to(t, "ab", 1, TOKENIZER_BEGIN), "an error");
    TEXT_IS(ids_to(t, "ab", 3, 0), "5 8 8");
    CHECK(tokenizer_begin(t) == 7 && tokenizer_end(t) == 8);
}
/* A folder opens, or says that memory is used up; nothing is lost then. */
static void memory_fails_in(const char *folder)
{
    long before = held;
    int good = 0;
    for (long n = 1; n < 400 && !good; n++) {
        taken = 0;
        fails_at = n;
        tokenizer *t = tokenizer_load(folder, error);
        good = t != NULL;
        CHECK(good == (taken < n) && (good || strstr(error, "out of memory")));
        tokenizer_free(t);
        CHECK(held == before);
    }
    fails_at = 0;
}
static void check_clip(void)
{
    doing("CLIP");
    tokenizer *t = opened("{" CLIP_AROUND CLIP_MODEL "}");
    check_clip_ids(t);
    tokenizer_free(t);
    doing("CLIP, vocab.json and merges.txt");
    mkdir("build", 0777);
    mkdir("build/tokenizer_clip", 0777);
    write_json("build/tokenizer_clip/vocab.json", CLIP_VOCAB);
    CHECK(!tokenizer_load("build/tokenizer_clip", error) && strstr(error, "clip/merges.txt: "));
    write_json("build/tokenizer_clip/merges.txt", "#version: 0.2\na b</w>\r\na b\nb a\n");
    t = tokenizer_load("build/tokenizer_clip", error);
    if (CHECK_AT(t != NULL, error)) check_clip_ids(t);
    CHECK(tokenizer_pad(t) == 8);
    tokenizer_free(t);
    write_json("build/tokenizer_clip/tokenizer_config.json",
               "{'pad_token':'b','padding_side':'left'}");
    t = tokenizer_load("build/tokenizer_clip/vocab.json", error);
    if (CHECK_AT(t != NULL, error)) TEXT_IS(ids_to(t, "ab", 5, TOKENIZER_BEGIN), "1 1 7 5 8");
    tokenizer_free(t);
    memory_fails_in("build/tokenizer_clip");
    write_json("build/tokenizer_clip/vocab.json", "{'a':0}");
    CHECK(!tokenizer_load("build/tokenizer_clip", error) && strstr(error, "CLIP's vocabulary"));
    write_json("build/tokenizer_clip/merges.txt", "a b c");
    write_json("build/tokenizer_clip/vocab.json", CLIP_VOCAB);
    CHECK(!tokenizer_load("build/tokenizer_clip", error) && strstr(error, "merge 0"));
    remove("build/tokenizer_clip/vocab.json");
    remove("build/tokenizer_clip/merges.txt");
    remove("build/tokenizer_clip/tokenizer_config.json");
    remove("build/tokenizer_clip");
}
static void check_qwen2_files(void)
{
    static const char folder[] = "build/tokenizer_qwen2";
    doing("Qwen2, vocab.json, merges.txt and added_tokens.json");
    mkdir(folder, 0777);
    write_json("build/tokenizer_qwen2/vocab.json",
               "{'a':0,'b':1,'1':2,'2':3,'\xc4\xa0':4,'\xc4\x8a':5,'ab':6,'12':7,'\xc4\xa0" "ab':8,"
               "'\xc4\x8a\xc4\x8a':9,'\xc4\x8a" "a':10}");
    write_json("build/tokenizer_qwen2/merges.txt",
               "#version: 0.2\na b\n1 2\n\xc4\xa0 ab\n\xc4\x8a \xc4\x8a\n\xc4\x8a a\n");
    CHECK(!tokenizer_load(folder, error) && strstr(error, "CLIP's vocabulary"));
    write_json("build/tokenizer_qwen2/added_tokens.json", "{'<x>':20,'<\\u00e9>':21}");
    write_json("build/tokenizer_qwen2/tokenizer_config.json",
               "{'tokenizer_class':'Qwen2Tokenizer','eos_token':'<x>'}");
    tokenizer *t = tokenizer_load(folder, error);
    if (CHECK_AT(t != NULL, error)) {
        IDS(t, "ab ab", "6 8");
        IDS(t, "12", "2 3");                     /* digits are words of their own */
        IDS(t, "a\n\nb", "0 9 1");
        IDS(t, "a\na", "0 5 0");                 /* ends of lines are no part of a word */
        IDS(t, "a<x>b<\xc3\xa9>", "0 20 1 21");
        CHECK(tokenizer_end(t) == 20 && tokenizer_count(t) == 22);
    }
    tokenizer_free(t);
    memory_fails_in(folder);
    /* names with what JSON escapes, and one that stands there twice */
    write_json("build/tokenizer_qwen2/added_tokens.json",
               "{'<x>':20,'<\\n>':21,'\\u0001\\t\\\"\\\\':22,'<x>':23,'z\\u0000z':24}");
    t = tokenizer_load(folder, error);
    if (CHECK_AT(t != NULL, error)) {
        IDS(t, "a<\n>b<x>\1\t\"\\", "0 21 1 23 22");
        TEXT_IS(ids_of(t, "az\0z", 4, 0), "0 24");
        CHECK(tokenizer_end(t) == 23 && !*tokenizer_piece(t, 20, NULL));
    }
    tokenizer_free(t);
    write_json("build/tokenizer_qwen2/added_tokens.json", "{'<x>':");
    CHECK(!tokenizer_load(folder, error));
    TEXT_IS(error, "added_tokens.json: expected JSON, found the end at byte 7");
    remove("build/tokenizer_qwen2/added_tokens.json");
    write_json("build/tokenizer_qwen2/vocab.json", "{'a':0,}");
    CHECK(!tokenizer_load(folder, error));
    TEXT_IS(error, "build/tokenizer_qwen2/vocab.json: expected JSON, found no name at byte 7");
    write_json("build/tokenizer_qwen2/tokenizer_config.json", "[");
    CHECK(!tokenizer_load(folder, error) && strstr(error, "tokenizer_config.json: expected JSON"));
    remove("build/tokenizer_qwen2/vocab.json");
    remove("build/tokenizer_qwen2/merges.txt");
    remove("build/tokenizer_qwen2/added_tokens.json");
    remove("build/tokenizer_qwen2/tokenizer_config.json");
    remove(folder);
}
/* Pieces with a map: "H" becomes "he", U+3000 a space, "\1" nothing. */
static bytes spm_mapped(void)
{
    enum { UNITS = 0x400 };
    static const struct { unsigned node, label, next, leaf; } units[] = {
        { 0x100 ^ 'H', 'H', 0x100 ^ 'H' ^ 0x300, 0x300 },
        { 0x100 ^ 1, 1, 0x100 ^ 1 ^ 0x301, 0x301 },
        { 0x100 ^ 0xE3, 0xE3, 0x200 ^ 0x100 ^ 0xE3, 0 },
        { 0x200 ^ 0x80, 0x80, 0x280 ^ 0x200 ^ 0x80, 0 },
        { 0x280 ^ 0x80, 0x80, 0x280 ^ 0x80 ^ 0x302, 0x302 }
    };
    static const char texts[] = "he\0\0 ";
    static const unsigned at[] = { 0, 3, 4 };
    uint32_t trie[UNITS] = { 0x100u << 10 };
    const spm unigram = { 1, 1, 1, 0 };
    bytes file = spm_file(unigram, 0), map = { NULL, 0 }, normalizer = { NULL, 0 };
    for (unsigned i = 0, leaf = 0; i < 5; i++) {
        trie[units[i].node] = units[i].next << 10 | units[i].label;
        if (!units[i].leaf) continue;
        trie[units[i].node] |= 1u << 8;
        trie[units[i].leaf] = 1u << 31 | at[leaf++];
    }
    put_number(&map, sizeof trie, 4);
    for (size_t i = 0; i < UNITS; i++) put_number(&map, trie[i], 4);
    put(&map, texts, sizeof texts);
    put_message(&normalizer, 2, map.at, map.size);
    put_message(&file, 3, normalizer.at, normalizer.size);
    free(map.at);
    free(normalizer.at);
    return file;
}
static void check_map(void)
{
    bytes file = spm_mapped();
    doing("a map of characters");
    tokenizer *t = tokenizer_from("test", file.at, file.size, error);
    CHECK_AT(t != NULL, error);
    IDS(t, "He", "8 4");                         /* "▁hee" */
    IDS(t, "he\xE3\x80\x80\xE3\x80\x80he ", "8 8");
    IDS(t, "h\1e", "8");
    IDS(t, "\xE3\x80\x81", "5 0");              /* it begins as U+3000 does */
    tokenizer_free(t);
    free(file.at);
}
static void check_siglip(void)
{
    bytes file = spm_mapped();
    doing("SigLIP");
    mkdir("build/tokenizer_siglip", 0777);
    write_bytes("build/tokenizer_siglip/spiece.model", &file);
    free(file.at);
    tokenizer *t = tokenizer_load("build/tokenizer_siglip", error);
    if (CHECK_AT(t != NULL, error)) IDS(t, "h-E", "6 0");
    tokenizer_free(t);
    write_json("build/tokenizer_siglip/tokenizer_config.json",
               "{'tokenizer_class':'SiglipTokenizer'}");
    t = tokenizer_load("build/tokenizer_siglip", error);
    if (CHECK_AT(t != NULL, error)) {
        IDS(t, "h-E", "8");
        IDS(t, "<s>", "5 0");                    /* no token of its own: "s" */
        TEXT_IS(ids_to(t, " H.E!  hE ", 6, TOKENIZER_BEGIN), "5 8 8 2 2 2");
        CHECK(tokenizer_pad(t) == 2 && tokenizer_end(t) == 2);
    }
    tokenizer_free(t);
    long before = held;
    int good = 0;
    for (long n = 1; n < 400 && !good; n++) {
        tokenizer_ids ids = { NULL, 0, 0 };
        taken = 0;
        fails_at = n;
        t = tokenizer_load("build/tokenizer_siglip", error);
        good = t && !tokenizer_encode_to(t, "He h, he", 8, TOKENIZER_BEGIN, 9, &ids);
        CHECK(good == (taken < n));
        tokenizer_ids_free(&ids);
        tokenizer_free(t);
        CHECK(held == before);
    }
    fails_at = 0;
    doing("SigLIP without a token that ends a text");
    remove("build/tokenizer_siglip/spiece.model");
    file.at = NULL;
    file.size = 0;
    put_piece(&file, "<unk>", 0, TK_UNKNOWN);
    put_piece(&file, "a", -1, TK_NORMAL);
    write_bytes("build/tokenizer_siglip/tokenizer.model", &file);
    free(file.at);
    CHECK(!tokenizer_load("build/tokenizer_siglip", error)
          && strstr(error, "expected a token that ends a text, found none"));
    doing("a GGUF beside SigLIP's settings");
    file = gguf_all_bytes();
    write_bytes("build/tokenizer_siglip/tokenizer.model", &file);
    free(file.at);
    t = tokenizer_load("build/tokenizer_siglip", error);
    if (CHECK_AT(t != NULL, error)) IDS(t, "a", "226 150 129 97");
    tokenizer_free(t);
    remove("build/tokenizer_siglip/tokenizer.model");
    remove("build/tokenizer_siglip/tokenizer_config.json");
    remove("build/tokenizer_siglip");
}
static void check_openclip(void)
{
    doing("OpenCLIP's way with texts");
    mkdir("build/tokenizer_open", 0777);
    write_json("build/tokenizer_open/tokenizer.json", "{" BYTE_LEVEL HELLO "}");
    write_json("build/tokenizer_open/open_clip_config.json", "{'model_cfg':{'text_cfg':{"
               "'tokenizer_kwargs':{'clean':'canonicalize'}}}}");
    tokenizer *t = tokenizer_load("build/tokenizer_open", error);
    if (CHECK_AT(t != NULL, error)) IDS(t, " HE_L-lo, ", "5 4 6 3");
    tokenizer_free(t);
    write_json("build/tokenizer_open/open_clip_config.json", "{'model_cfg':{'text_cfg':{"
               "'tokenizer_kwargs':{'clean':'other'}}}}");
    CHECK(!tokenizer_load("build/tokenizer_open", error) && strstr(error, "clean \"other\""));
    remove("build/tokenizer_open/tokenizer.json");
    remove("build/tokenizer_open/open_clip_config.json");
    remove("build/tokenizer_open");
}
/* A GGUF takes nothing from files beside it, be they right or wrong. */
static void check_gguf_alone(void)
{
    static const char *const configs[] = {
        "{'eos_token':'h','pad_token':'e','chat_template':'<|im_start|> <|im_end|>'}", "[" };
    bytes file = gguf_llama(0);
    doing("a GGUF with other files in its folder");
    mkdir("build/tokenizer_gguf", 0777);
    write_bytes("build/tokenizer_gguf/model.gguf", &file);
    write_json("build/tokenizer_gguf/chat_template.jinja", "[INST] [/INST]");
    free(file.at);
    for (int i = 0; i < 2; i++) {
        write_json("build/tokenizer_gguf/tokenizer_config.json", configs[i]);
        write_json("build/tokenizer_gguf/open_clip_config.json", configs[i]);
        tokenizer *t = tokenizer_load("build/tokenizer_gguf/model.gguf", error);
        if (CHECK_AT(t != NULL, error)) {
            CHECK(tokenizer_end(t) == 2 && tokenizer_pad(t) == -1);
            CHECK(tokenizer_chat_kind(t) == TOKENIZER_CHAT_NONE);
        }
        tokenizer_free(t);
    }
    remove("build/tokenizer_gguf/model.gguf");
    remove("build/tokenizer_gguf/chat_template.jinja");
    remove("build/tokenizer_gguf/tokenizer_config.json");
    remove("build/tokenizer_gguf/open_clip_config.json");
    remove("build/tokenizer_gguf");
}
/* Files that are there and cannot be read: a link to itself does not open, of a folder no byte is
   read. Both are errors with the file's name, where none would be no error. */
static void check_unreadable(void)
{
    static const char *const files[] = { "spiece.model", "tokenizer_config.json",
        "open_clip_config.json", "chat_template.jinja", "added_tokens.json" };
    mkdir("build/tokenizer_unread", 0777);
    write_json("build/tokenizer_unread/tokenizer.json", "{" BYTE_LEVEL HELLO "}");
    for (int i = 0; i < 10; i++) {
        int folder = i % 2;
        const char *name = files[i / 2];
        char path[64], expected[200];
        doing(name);
        snprintf(path, sizeof path, "build/tokenizer_unread/%s", name);
        if (i == 8) {                            /* the last one is read for Qwen2's vocab.json */
            remove("build/tokenizer_unread/tokenizer.json");
            write_json("build/tokenizer_unread/vocab.json", "{'a':0}");
            write_json("build/tokenizer_unread/merges.txt", "");
            write_json("build/tokenizer_unread/tokenizer_config.json",
                       "{'tokenizer_class':'Qwen2Tokenizer'}");
        }
        tokenizer *t = tokenizer_load("build/tokenizer_unread", error);
        CHECK_AT(t != NULL, error);
        tokenizer_free(t);
        CHECK(!(folder ? mkdir(path, 0777) : symlink(name, path)));
        snprintf(expected, sizeof expected, "%s: %s", path, strerror(folder ? EISDIR : ELOOP));
        t = tokenizer_load("build/tokenizer_unread", error);
        CHECK(!t);
        TEXT_IS(error, expected);
        tokenizer_free(t);
        remove(path);
    }
    remove("build/tokenizer_unread/vocab.json");
    remove("build/tokenizer_unread/merges.txt");
    remove("build/tokenizer_unread/tokenizer_config.json");
    remove("build/tokenizer_unread");
}
static void check_small(void)
{
    doing("small letters");
    tokenizer *t = opened("{'normalizer':{'type':'Lowercase'}," BYTE_LEVEL HELLO "}");
    IDS(t, "HELLO \xC3\x89", "7 3 4 10 11");    /* É */
    tokenizer_free(t);
    t = opened("{" BYTE_LEVEL HELLO "}");
    TEXT_IS(ids_of(t, "HELLO", 5, TOKENIZER_LOWER), "7 3");
    char small[64];
    tokenizer_text to = { NULL, 0, 0 };
    static const char sigmas[] = "\xCE\x9F\xCE\x94\xCE\x9F\xCE\xA3 \xCE\xA3 "
        "\xC4\xB0'\xCE\xA3.\xCE\xA3";
    CHECK(!tk_lower(&t->unicode, sigmas, sizeof sigmas - 1, 1, &to));
    snprintf(small, sizeof small, "%s", to.at);
    TEXT_IS(small, "\xCE\xBF\xCE\xB4\xCE\xBF\xCF\x82 \xCF\x83 i\xCC\x87'\xCF\x83.\xCF\x82");
    tokenizer_text_free(&to);
    tokenizer_free(t);
}

/* ---- memory that runs out, files that are broken ---- */

enum { FILES = 9 };
static bytes file_of(int i)
{
    const spm bpe = { 2, 1, 0, 0 }, unigram = { 1, 1, 1, 0 };
    bytes b = { NULL, 0 };
    if (i == 0) put_json(&b, "{" ADDED(",'lstrip':true") BYTE_LEVEL HELLO "}");
    if (i == 1) put_json(&b, "{'normalizer':{'type':'NFC'}," ADDED("") BYTE_LEVEL HELLO "}");
    if (i == 2) put_json(&b, "{'pre_tokenizer':{'type':'Metaspace','prepend_scheme':'first'},"
        SPACES "'model':{'type':'Unigram','unk_id':0,'vocab':[['<u>',0],['a',-2],['" BAR
        "',-3]]}}");
    if (i == 3) b = spm_file(bpe, 1);
    if (i == 4) b = spm_file(unigram, 0);
    if (i == 5) b = gguf_bpe("llama-bpe", 3);
    if (i == 6) b = gguf_llama(0);
    if (i == 7) put_json(&b, "{" CLIP_AROUND CLIP_MODEL "}");
    if (i == 8) b = spm_mapped();
    return b;
}
/* Opens, encodes, decodes. 1 if all of it went well. */
static int use(const bytes *file)
{
    static const char text[] = "hello <|x|> e\xCC\x81 he's 12 \xFF\xF0\x9F\x98\x80 <s> aaa";
    static const tokenizer_message m = { "user", "he" };
    tokenizer_ids ids = { NULL, 0, 0 };
    tokenizer_text back = { NULL, 0, 0 };
    tokenizer *t = tokenizer_from("test", file->at, file->size, error);
    int good = t && !tokenizer_encode(t, text, sizeof text - 1, TOKENIZER_BEGIN, &ids);
    good = good && !tokenizer_decode(t, ids.at, ids.count, 0, &back);
    if (t) tokenizer_chat(t, &m, 1, NULL, &back, error);
    if (t && *error && !strcmp(error, "out of memory")) good = 0;
    for (size_t i = 0; i < ids.count && t; i++)
        if (ids.at[i] < 0 || (size_t)ids.at[i] >= tokenizer_count(t)) CHECK(!"an id in range");
    if (!t) CHECK(strlen(error) > 6);
    tokenizer_ids_free(&ids);
    tokenizer_text_free(&back);
    tokenizer_free(t);
    return good;
}
static void check_memory(void)
{
    long before = held;
    doing("memory runs out");
    for (int i = 0; i < FILES; i++) {
        bytes file = file_of(i);
        int good = 0;
        for (long n = 1; n < 3000 && !good; n++) {
            taken = 0;
            fails_at = n;
            good = use(&file);
            CHECK(good == (taken < n));          /* no failure is passed over */
            CHECK(held == before);
        }
        fails_at = 0;
        CHECK(good);
        free(file.at);
    }
}
static void check_fuzz(void)
{
    long before = held;
    uint32_t state = 11;
    doing("broken files");
    for (int i = 0; i < FILES; i++) {
        bytes file = file_of(i);
        for (long k = 0; k < 2000; k++) {
            bytes copy = { NULL, 0 };
            put(&copy, file.at, file.size);
            for (uint32_t changes = drawn(&state) % 4 + 1; changes > 0; changes--) {
                size_t at = drawn(&state) % copy.size;
                uint32_t kind = drawn(&state) % 4;
                if (kind == 0) copy.at[at] = (char)drawn(&state);
                if (kind == 1) copy.at[at] ^= (char)(1 << drawn(&state) % 8);
                if (kind == 2) copy.at[at] = "\"[]{},:\\0\xFF\x7F"[drawn(&state) % 11];
                if (kind == 3 && at) copy.size = drawn(&state) % 8 ? copy.size : at;
            }
            use(&copy);
            free(copy.at);
        }
        free(file.at);
    }
    CHECK(held == before);
}

/* ---- for tests/tokenizer.py ---- */

static int encode_file(char **argv)
{
    clock_t begin = clock();
    tokenizer *t = tokenizer_load(argv[2], error);
    double opening = (double)(clock() - begin) / CLOCKS_PER_SEC, encoding = 0;
    FILE *in = fopen(argv[3], "rb"), *out = fopen(argv[4], "wb");
    uint32_t n;
    char *line = NULL;
    if (!t || !in || !out) return printf("%s\n", t ? "no such file" : error) > 0;
    while (fread(&n, sizeof n, 1, in) == 1) {
        tokenizer_ids ids = { NULL, 0, 0 };
        tokenizer_text back = { NULL, 0, 0 };
        line = (char *)realloc(line, n + 1);
        if (!line || fread(line, 1, n, in) != n) return 1;
        begin = clock();
        int flags = atoi(argv[5]);
        size_t length = (size_t)atoi(argv[6]);
        if (length ? tokenizer_encode_to(t, line, n, flags, length, &ids)
            : tokenizer_encode(t, line, n, flags, &ids)) return 1;
        encoding += (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (tokenizer_decode(t, ids.at, ids.count, 0, &back)) return 1;
        n = (uint32_t)ids.count;
        fwrite(&n, sizeof n, 1, out);
        fwrite(ids.at, sizeof *ids.at, ids.count, out);
        n = (uint32_t)back.count;
        fwrite(&n, sizeof n, 1, out);
        fwrite(back.at, 1, back.count, out);
        tokenizer_ids_free(&ids);
        tokenizer_text_free(&back);
    }
    printf("opened in %.3f s, encoded in %.3f s\n", opening, encoding);
    free(line);
    fclose(in);
    fclose(out);
    tokenizer_free(t);
    return 0;
}

static int read_size(FILE *in, uint32_t *n)
{
    return fread(n, sizeof *n, 1, in) == 1;
}
/* The text of a conversation that a template makes, or an error's words. */
static int write_conversation(const tokenizer *t, FILE *in, FILE *out, uint32_t count,
                              const tokenizer_chat_options *options)
{
    static const char *const roles[] = { "system", "user", "assistant" };
    tokenizer_message m[16];
    tokenizer_text text = { NULL, 0, 0 };
    int good = count <= 16;
    uint32_t read = 0, role, n;
    for (; good && read < count; read++) {
        good = read_size(in, &role) && read_size(in, &n) && role < 3;
        char *line = (char *)calloc(n + 1, 1);
        good = good && line && fread(line, 1, n, in) == n;
        m[read].role = roles[good ? role : 0];
        m[read].text = line;
    }
    uint32_t bad = good && tokenizer_chat(t, m, count, options, &text, error) != 0;
    n = (uint32_t)(bad ? strlen(error) : text.count);
    fwrite(&bad, sizeof bad, 1, out);
    fwrite(&n, sizeof n, 1, out);
    if (n) fwrite(bad ? error : text.at, 1, n, out);
    for (uint32_t i = 0; i < read; i++) free((char *)(uintptr_t)m[i].text);
    tokenizer_text_free(&text);
    return good;
}
/* --chat TEMPLATE CONVERSATIONS OUT THINK DATE, with <s> and </s> around texts */
static int converse(char **argv)
{
    FILE *f = fopen(argv[2], "rb"), *in = fopen(argv[3], "rb"), *out = fopen(argv[4], "wb");
    tokenizer *t = opened("{'added_tokens':[{'id':20,'content':'<s>','special':true},{'id':"
                          "21,'content':'</s>','special':true}]," BYTE_LEVEL HELLO "}");
    char *text = (char *)calloc(1, 1 << 20);
    tokenizer_chat_options options;
    uint32_t count;
    if (!f || !in || !out || !t || !text || !fread(text, 1, (1 << 20) - 1, f)) return 1;
    memset(&options, 0, sizeof options);
    options.think = atoi(argv[5]);
    if (sscanf(argv[6], "%d-%d-%d", &options.year, &options.month, &options.day) != 3) return 1;
    t->chat = text;
    t->begin = 20;
    t->end = 21;
    int good = 1;
    while (good && read_size(in, &count)) good = write_conversation(t, in, out, count, &options);
    fclose(f);
    fclose(in);
    fclose(out);
    tokenizer_free(t);
    free(text);
    return !good;
}

int main(int argc, char **argv)
{
    static const section all[] = {
        { "bpe", check_bpe }, { "definition", check_definition }, { "regex", check_regex },
        { "behaviours", check_behaviours }, { "nfc", check_nfc },
        { "characters", check_characters }, { "first", check_first },
        { "metaspace", check_metaspace_decoder }, { "twice", check_twice },
        { "numbers", check_numbers }, { "spm", check_spm }, { "refused", check_spm_refused },
        { "gguf", check_gguf }, { "refused", check_refused }, { "broken", check_broken },
        { "long", check_long }, { "chat", check_chat },
        { "chat", check_chat_options }, { "chat", check_chat_kinds }, { "folder", check_folder },
        { "clip", check_clip }, { "qwen2", check_qwen2_files }, { "map", check_map },
        { "siglip", check_siglip }, { "openclip", check_openclip }, { "alone", check_gguf_alone },
        { "unreadable", check_unreadable }, { "small", check_small },
        { "memory", check_memory }, { "fuzz", check_fuzz },
    };
    if (argc == 7 && !strcmp(argv[1], "--encode")) return encode_file(argv);
    if (argc == 7 && !strcmp(argv[1], "--chat")) return converse(argv);
    const int bad = sections(all, sizeof all / sizeof all[0], argc, argv);
    return bad || held;
}
