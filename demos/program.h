/* program.h - what demos that work for long share: Ctrl-C and a clock. Needs POSIX 2001, or Windows. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <signal.h>
#include <time.h>
#ifdef _WIN32
#include <windows.h>
#endif

static volatile sig_atomic_t interrupted;
static void interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);                             /* a second Ctrl-C ends the program at once */
}

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

#endif
