/* size.c - how much there is to read: the tokens of a C file (comments not counted, a literal is one) and its lines, beside
   what they may be.   size FILE TOKENS LINES */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Comments go, and literals become the letter s: what is left is what the tokens are counted in. */
static char *bare(char *text)
{
    char *to = text;
    for (const char *s = text; *s; ) {
        const char *end = NULL;
        if (s[0] == '/' && s[1] == '*') end = strstr(s + 2, "*/"), end = end ? end + 2 : NULL;
        else if (s[0] == '/' && s[1] == '/') end = s + strcspn(s, "\n");
        else if (*s == '"' || *s == '\'') {
            for (end = s + 1; *end && *end != *s && *end != '\n'; end++)
                if (*end == '\\' && end[1]) end++;
            end = *end == *s ? end + 1 : NULL;   /* an apostrophe in an #error opens nothing */
            if (end) *to++ = 's';
        }
        if (end) s = end;
        else *to++ = *s++;
    }
    *to = 0;
    return text;
}
static size_t tokens(const char *s)
{
    static const char *const of_three[] = { "<<=", ">>=" },
        *const of_two[] = { "->", "++", "--", "&&", "||", "<<", ">>", "-=", "+=", "*=", "/=", "%=", "&=", "|=", "^=", "<=", ">=", "==", "!=" };
    size_t n = 0;
    while (*s) {
        size_t length = 1;
        if (isspace((unsigned char)*s) || ((unsigned char)*s & 0xC0) == 0x80) { s++; continue; }
        if (isalpha((unsigned char)*s) || *s == '_') while (isalnum((unsigned char)s[length]) || s[length] == '_') length++;
        else if (isdigit((unsigned char)*s)) while (isalnum((unsigned char)s[length]) || s[length] == '_' || s[length] == '.') length++;
        else {
            for (size_t i = 0; i < sizeof of_two / sizeof *of_two; i++) if (!strncmp(s, of_two[i], 2)) length = 2;
            for (size_t i = 0; i < sizeof of_three / sizeof *of_three; i++) if (!strncmp(s, of_three[i], 3)) length = 3;
        }
        s += length, n++;
    }
    return n;
}

int main(int argc, char **argv)
{
    enum { MOST = 1 << 24 };
    FILE *f = argc == 4 ? fopen(argv[1], "rb") : NULL;
    char *text = (char *)calloc(MOST, 1);
    size_t lines = 0;
    if (!f || !text) return fprintf(stderr, "size FILE TOKENS LINES\n"), 2;
    const size_t n = fread(text, 1, MOST - 1, f);
    fclose(f);
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    printf("%s: %lu tokens, budget %s; %lu lines, budget %s\n", argv[1], (unsigned long)tokens(bare(text)), argv[2], (unsigned long)lines, argv[3]);
    free(text);
    return 0;
}
