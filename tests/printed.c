/* printed.c - does a program of a document print what the document says?

   printed DOCUMENT N OUTPUT      the document's C block N, and a file with what it printed

   What is written is the first indented block between the program and the next heading or fenced
   block. Words must be equal; runs of blanks count as one, empty lines as none. A number with a
   point or an exponent may be off by one unit of its last written digit, because SIMD levels round
   differently; a count may not. A comment between program and block, in a line of its own, says
   what the machine decides:

       <!-- printed: us ms KiB vary -->     a number before one of these words may be any that is
                                            above 0
       <!-- printed: numbers vary -->       every number may be any
       <!-- printed: within 0.3 -->         numbers may be off by 30 %, or by one unit
       <!-- printed: nothing -->            the output is not written down

   Ends with 0 if they agree, with 2 if the program says that it lacks a file ("no FILE: give it as
   an argument"), else with 1 and words why. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096 };
typedef struct rules { char vary[LINE]; double within; int any, nothing; } rules;
typedef struct number { double value, unit; const char *end; int count; } number;

/* The number that begins at s, if one does: a digit after a letter or _ belongs to a name, as in
   y_1. */
static int number_at(const char *line, const char *s, number *n)
{
    int after = s > line && (isalnum((unsigned char)s[-1]) || s[-1] == '_' || s[-1] == '.');
    const char *p = s + (!after && (*s == '-' || *s == '+'));
    const char *digits = p;
    if (after || !isdigit((unsigned char)*p)) return 0;
    char text[LINE];
    int decimals = 0, power = 0;
    while (isdigit((unsigned char)*p)) p++;
    if (*p == '.' && isdigit((unsigned char)p[1]))
        for (p++; isdigit((unsigned char)*p); p++) decimals++;
    n->count = !decimals;
    if (*p == 'e' && isdigit((unsigned char)p[1 + (p[1] == '-' || p[1] == '+')])) {
        char *end;
        power = (int)strtol(p + 1, &end, 10);
        p = end;
        n->count = 0;
    }
    if (p == digits) return 0;
    memcpy(text, s, (size_t)(p - s));
    text[p - s] = 0;
    n->value = strtod(text, NULL);
    n->unit = pow(10, power - decimals);
    n->end = p;
    return 1;
}

/* Is what follows a number one of the words that make it vary? */
static int varies(const char *s, const rules *r)
{
    s += strspn(s, " ");
    for (const char *w = r->vary; *(w += strspn(w, " ")); w += strcspn(w, " ")) {
        size_t n = strcspn(w, " ");
        if (!strncmp(s, w, n) && !isalnum((unsigned char)s[n]))
            return 1;
    }
    return 0;
}

static int numbers_agree(const number *written, const number *printed, const rules *r)
{
    double off = fabs(written->value - printed->value);
    if (r->any) return 1;
    if (varies(written->end, r)) return printed->value > 0;
    if (r->within > 0 && off <= r->within * fabs(written->value))
        return 1;
    if (written->count && r->within == 0)
        return printed->count && off == 0;
    /* 1.001: decimal fractions are not exact */
    return off <= written->unit * 1.001;
}

static int lines_agree(const char *written, const char *printed, const rules *r)
{
    const char *w = written + strspn(written, " ");
    const char *p = printed + strspn(printed, " ");
    while (*w || *p) {
        number a, b;
        if (number_at(written, w, &a) && number_at(printed, p, &b)) {
            if (!numbers_agree(&a, &b, r)) return 0;
            w = a.end;
            p = b.end;
        } else if (*w == ' ' && *p == ' ') w += strspn(w, " "), p += strspn(p, " ");
        else if (*w++ != *p++) return 0;
    }
    return 1;
}

/* The next line, without its end and the blanks before it. */
static int next(FILE *f, char *line, int *at)
{
    if (!fgets(line, LINE, f)) {
        *line = 0;
        return 0;
    }
    for (size_t n = strlen(line); n && isspace((unsigned char)line[n - 1]);)
        line[--n] = 0;
    ++*at;
    return 1;
}
static int next_printed(FILE *f, char *line)
{
    int at = 0;
    while (next(f, line, &at)) if (*line) return 1;
    return 0;
}

static void read_rule(const char *line, rules *r)
{
    char text[LINE];
    double within;
    if (sscanf(line, "<!-- printed: %4000[^>]", text) != 1) return;
    char *end = strstr(text, "--"), *vary = strstr(text, "vary");
    if (end) *end = 0;
    if (!strncmp(text, "nothing", 7)) r->nothing = 1;
    else if (!strncmp(text, "numbers vary", 12)) r->any = 1;
    else if (sscanf(text, "within %lf", &within) == 1)
        r->within = within;
    else if (vary) {
        *vary = 0;
        strcpy(r->vary, text);
    }
}

int main(int argc, char **argv)
{
    static char line[LINE], printed[LINE];
    static rules r;
    int at = 0, blocks = 0;
    int wanted = argc == 4 ? atoi(argv[2]) : 0;
    int inside = 0;
    FILE *document = argc == 4 ? fopen(argv[1], "r") : NULL;
    FILE *output = document ? fopen(argv[3], "r") : NULL;
    if (!output || wanted < 1) {
        puts("printed DOCUMENT N OUTPUT, which are there");
        return 1;
    }
    while (blocks < wanted && next(document, line, &at))
        blocks += !strcmp(line, "```c");
    if (blocks < wanted) {
        printf("%s has no C block %d\n", argv[1], wanted);
        return 1;
    }
    while (next(document, line, &at) && strncmp(line, "```", 3))
        ;
    int start = at, more = next_printed(output, printed);
    while (next(document, line, &at) && !r.nothing) {
        if (!*line) continue;
        int indented = !strncmp(line, "    ", 4);
        if (inside && !indented) break;
        if (*line == '#' || !strncmp(line, "```", 3)) break;
        if (!indented) {
            read_rule(line, &r);
            continue;
        }
        if (!inside && !strncmp(printed, "no ", 3) && strstr(printed, "argument")) {
            puts(printed);
            return 2;
        }
        inside = 1;
        if (!more || !lines_agree(line + 4, printed, &r))
            return printf("%s:%d\n  written: %s\n  printed: %s\n", argv[1], at, line + 4,
                          more ? printed : "(no more)"), 1;
        more = next_printed(output, printed);
    }
    if (r.nothing) return 0;
    if (!inside) {
        printf("%s:%d: nothing is written of what this program prints\n", argv[1], start);
        return 1;
    }
    if (more) {
        printf("%s:%d\n  printed, but not written: %s\n", argv[1], at, printed);
        return 1;
    }
    return 0;
}
