/* arguments.h - a program's options: where their values go, and how they are read

       const argument known[] = {
           {"--run", &o->run, NULL, 0, 0, NULL, NULL},              // text
           {"--steps", NULL, &o->steps, 1, 1000, NULL, NULL},       // whole, from 1 to 1000
           {"--rate", NULL, NULL, 0, 10, &o->rate, NULL},           // real, from 0 to 10
           {"--bf16", NULL, NULL, 0, 0, NULL, &o->bf16},            // flag
       };
       int status = read_arguments(known, sizeof known / sizeof *known, help, argc, argv);

   Include report.h before it, which says what is wrong. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An option: one of text, whole (from low to high), real (from 0 to high) and flag is where its
   value goes. */
typedef struct argument {
    const char *name, **text;
    unsigned long long *whole, low, high;
    double *real;
    int *flag;
} argument;

static inline int read_real(const char *option, const char *text, double most, double *number)
{
    char *end;
    *number = strtod(text, &end);
    if (end != text && !*end && *number >= 0 && *number <= most) return 0;
    return report_refuse("%s %s: give a number from 0 to %g", option, text, most);
}
/* Reads the arguments behind argv[1], the command. 0, or an exit status; -1: help was asked for,
   and written. */
static inline int read_arguments(const argument *known, size_t all, const char *help, int argc,
                          char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        if (i == 1) continue;
        while (k < all && strcmp(argv[i], known[k].name)) k++;
        if (k == all)
            return report_refuse("%s: no such option; --help lists them all", argv[i]);
        if (known[k].flag) {
            *known[k].flag = 1;
            continue;
        }
        if (++i == argc)
            return report_refuse("%s wants a value after it; --help says which", known[k].name);
        if (known[k].text) *known[k].text = argv[i];
        else if (known[k].real) {
            if (read_real(known[k].name, argv[i], (double)known[k].high, known[k].real)) return 2;
        } else if (report_whole(known[k].name, argv[i], known[k].low, known[k].high,
                                known[k].whole)) return 2;
    }
    return 0;
}

/* Reads whole numbers apart by commas, at most LIST. Returns how many, or 0 after a message. */
enum { LIST = 12 };
static inline size_t read_list(const char *option, const char *text, size_t *number)
{
    size_t n = 0;
    for (const char *at = text; *at;) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);
        if (end == at || n == LIST || (*end && *end != ',')) n = LIST + 1;
        if (n > LIST) break;
        number[n++] = (size_t)value;
        at = *end ? end + 1 : end;
    }
    if (n && n <= LIST) return n;
    report_refuse("%s %s: give one to %d whole numbers apart by commas", option, text, LIST);
    return 0;
}

/* Whether a file can be read. */
static inline int there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}

#endif
