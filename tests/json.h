/* json.h - a reader of JSON for the tests, apart from the library's: golden cases and lists of
   files are held against the library by another reader than its own. Takes what it is given to be
   well formed; json_read returns NULL if it is not. */
#ifndef TEST_JSON_H
#define TEST_JSON_H
#include "test.h"

typedef struct Json {
    /* { [ " 0 t f n, as the value begins; 0 for every number */
    char kind;
    /* of a member; a string, decoded, else the number or word as it stands */
    char *key, *text;
    size_t length;                               /* how many items */
    struct Json *first, *next;
} Json;

SHARED void json_free(Json *v)
{
    while (v) {
        Json *next = v->next;
        json_free(v->first);
        free(v->key);
        free(v->text);
        free(v);
        v = next;
    }
}
SHARED const char *json_space(const char *s) { return s + strspn(s, " \t\r\n"); }
/* *s stands behind the opening quote, then behind the closing one */
SHARED char *json_string(const char **s)
{
    char *out = (char *)malloc(3 * strlen(*s) + 1), *to = out;
    for (; **s && **s != '"'; ++*s) {
        static const char code[] = "bfnrt", is[] = "\b\f\n\r\t";
        const char *c;
        unsigned long u = 0, low = 0;
        if (**s != '\\') {
            *to++ = **s;
            continue;
        }
        if (*++*s == 'u' && sscanf(*s + 1, "%4lx", &u) == 1) {
            *s += 4;
            if (u >= 0xD800 && u < 0xDC00 && sscanf(*s + 1, "\\u%4lx", &low) == 1) {
                u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
                *s += 6;
            }
            if (u < 0x80) *to++ = (char)u;
            else {
                if (u < 0x800)
                    *to++ = (char)(0xC0 | u >> 6);
                else {
                    if (u < 0x10000)
                        *to++ = (char)(0xE0 | u >> 12);
                    else {
                        *to++ = (char)(0xF0 | u >> 18);
                        *to++ = (char)(0x80 | (u >> 12 & 63));
                    }
                    *to++ = (char)(0x80 | (u >> 6 & 63));
                }
                *to++ = (char)(0x80 | (u & 63));
            }
        }
        else {
            c = strchr(code, **s);
            *to++ = c && *c ? is[c - code] : **s;
        }
    }
    *to = 0;
    if (**s) ++*s;
    return out;
}
SHARED Json *json_value(const char **s)
{
    Json *v = (Json *)calloc(1, sizeof *v), **to = &v->first;
    const char open = *(*s = json_space(*s));
    const char close = open == '{' ? '}' : ']';
    v->kind = open == '-' || (open >= '0' && open <= '9') ? '0' : open;
    if (open == '"') {
        ++*s;
        v->text = json_string(s);
        return v;
    }
    if (open != '{' && open != '[') {
        const size_t n = strcspn(*s, " \t\r\n,]}");
        v->text = (char *)calloc(n + 1, 1);
        memcpy(v->text, *s, n);
        *s += n;
        if (n && strchr("0tfn", v->kind)) return v;
        json_free(v);
        return (Json *)NULL;
    }
    for (*s = json_space(*s + 1); **s != close; to = &(*to)->next, v->length++) {
        char *key = NULL;
        if (v->length && *(*s)++ != ',') {
            json_free(v);
            return (Json *)NULL;
        }
        if (open == '{') {
            *s = json_space(*s);
            if (*(*s)++ != '"') {
                json_free(v);
                return (Json *)NULL;
            }
            key = json_string(s);
            *s = json_space(*s) + 1;             /* the colon */
        }
        *to = json_value(s);
        if (!*to) {
            free(key);
            json_free(v);
            return (Json *)NULL;
        }
        (*to)->key = key;
        *s = json_space(*s);
    }
    ++*s;
    return v;
}
SHARED Json *json_read(const char *text) { return json_value(&text); }

/* All take NULL, for what is not there. */
SHARED const Json *json_first(const Json *v) { return v ? v->first : NULL; }
SHARED const Json *json_find(const Json *object, const char *key)
{
    const Json *v = json_first(object);
    while (v && !(v->key && !strcmp(v->key, key)))
        v = v->next;
    return v;
}
SHARED const char *json_text(const Json *v) { return v && v->kind == '"' ? v->text : NULL; }
SHARED double json_number(const Json *v, double otherwise)
{
    return v && v->kind == '0' ? strtod(v->text, NULL) : otherwise;
}
SHARED size_t json_size(const Json *v) { return (size_t)json_number(v, 0); }
SHARED int json_flag(const Json *v, int otherwise)
{
    if (v && v->kind == 't') return 1;
    if (v && v->kind == 'f') return 0;
    return otherwise;
}
#endif
