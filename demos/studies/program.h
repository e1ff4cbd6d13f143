/* program.h - what demos that work for long share: Ctrl-C, a clock, a screen, an order. Needs
   POSIX 2001, or Windows. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <signal.h>
#include <time.h>
#ifdef _WIN32
#include <io.h>
#include <windows.h>
#else
#include <unistd.h>
#endif

static volatile sig_atomic_t interrupted;
static void interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);  /* a second Ctrl-C ends the program at once */
}

/* Whether stderr is a screen, where a line of progress is written over. */
static inline int on_screen(void)
{
#ifdef _WIN32
    return _isatty(2);
#else
    return isatty(2);
#endif
}

/* Seconds between two lines of progress; where they stay, still so few that nobody thinks it
   hangs. */
static inline double line_pause(void) { return on_screen() ? 0.5 : 5; }

static double now(void)                                  /* seconds */
{
#ifdef _WIN32
    return (double)GetTickCount64() / 1000;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
}

/* Of doubles, for qsort. */
static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

#endif
