/* test.h - what the test programs share: checks that are counted, contexts, an allocator that
   counts and fails, random tensors and how far apart two of them are.

   A program that includes this holds the implementation, so that `cc tests/NAME.c -lm -lpthread`
   builds it. The Makefile compiles the implementation once for each configuration and links it:
   MMIX_LINKED leaves it out here. */
#ifndef TEST_H
#define TEST_H
#ifndef MMIX_LINKED
#define MAMBA_MIX_IMPLEMENTATION
#endif
#include "../mamba_mix.h"
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define SHARED static __attribute__((unused))      /* no program uses all of this */
#else
#define SHARED static
#endif
/* ARENA_BLOCK: step memory grows by so many bytes. SLOW: tiny tiles and sanitizers take five to
   twenty times as long, so that what repeats the same code on more numbers is done less often. */
#ifdef MMIX_REGRESSION
enum { ARENA_BLOCK = 256, SLOW = 1 };
#else
enum { ARENA_BLOCK = 1 << 20, SLOW = 0 };
#endif
typedef mmix_real real;
SHARED const double EPS = sizeof(real) == 4 ? 1.2e-7 : 2.3e-16;

/* ---- checks ---- */

static int passed, failed, skipped;
/* the case in words: stands before what a check says */
static char about[704];
SHARED void doing(const char *what) { snprintf(about, sizeof about, "%s", what); }

/* A line for a check that failed: what, and what else there is to say (NULL: nothing). Returns
   ok. */
SHARED int report(int ok, const char *file, int line, const char *what, const char *more)
{
    if (ok) passed++;
    else if (failed++ < 200) {
        printf("FAILED %s:%d: ", file, line);
        if (*about) printf("%s: ", about);
        printf("%s", what);
        if (more && *more) printf(": %s", more);
        putchar('\n');
    }
    return ok;
}
SHARED int report_numbers(int ok, const char *file, int line, const char *what, double got,
                          double expected)
{
    char more[64];
    if (ok) return ++passed;
    snprintf(more, sizeof more, "%.12g, expected %.12g", got, expected);
    return report(0, file, line, what, more);
}
#define CHECK(x) report((x) != 0, __FILE__, __LINE__, #x, NULL)
#define CHECK_AT(x, more) report((x) != 0, __FILE__, __LINE__, #x, more)
#define COMPARE(ok, what, got, expected) \
    report_numbers((ok) != 0, __FILE__, __LINE__, what, (double)(got), (double)(expected))
#define NEAR(x, y, bound) near_to((double)(x), (double)(y), bound, __FILE__, __LINE__, #x)
#define IS(x, y) NEAR(x, y, 0)
SHARED int near_to(double x, double y, double bound, const char *file, int line, const char *what)
{
    return report_numbers(fabs(x - y) <= bound, file, line, what, x, y);
}

/* The context keeps an error of that kind with this text in it, which is cleared; another one is
   shown. */
SHARED int says(mmix_ctx *m, int kind, const char *text)
{
    const char *e = mmix_error(m);
    const int ok = e && mmix_error_kind(m) == kind && strstr(e, text);
    if (!ok) printf("    found: %s\n", e ? e : "no error");
    mmix_error_clear(m);
    return ok;
}
/* The call returned what stands for failure, and the message holds both texts. */
SHARED int refused(mmix_ctx *m, int bad, int kind, const char *a, const char *b, const char *file,
                   int line, const char *call)
{
    const char *e = mmix_error(m);
    const int ok = bad && e && strstr(e, a);
    if (ok)
        return report(says(m, kind, b), file, line, call, b);
    printf("    found: %s\n", e ? e : "no error");
    mmix_error_clear(m);
    return report(0, file, line, call, a);
}
#define REFUSED_AS(kind, m, bad, a, b) refused(m, (bad) != 0, kind, a, b, __FILE__, __LINE__, #bad)
#define REFUSED(m, bad, text) REFUSED_AS(MMIX_ERROR_ARGUMENT, m, bad, text, "")
#define BAD(x, a, b) REFUSED_AS(MMIX_ERROR_ARGUMENT, m, !(x), a, b) /* of what returns a pointer \
                                                                     */
#define BAD_INT(x, a, b) \
    REFUSED_AS(MMIX_ERROR_ARGUMENT, m, (x) != 0, a, b) /* of what returns 0 if all is well */

/* No error is kept; one that is there is shown and cleared. */
#define FINE(m) no_error(m, __FILE__, __LINE__)
SHARED void no_error(mmix_ctx *m, const char *file, int line)
{
    report(!mmix_error(m), file, line, "an error", mmix_error(m));
    mmix_error_clear(m);
}

SHARED int summary(void)                           /* the last line, and what main returns */
{
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
/* Runs the sections that the arguments name; without arguments all. */
typedef struct section { const char *name; void (*run)(void); } section;
SHARED int sections(const section *all, size_t n, int argc, char **argv)
{
    for (size_t i = 0; i < n; i++) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; a++)
            wanted |= !strcmp(argv[a], all[i].name);
        if (wanted) {
            all[i].run();
            doing("");
        }
    }
    return summary();
}

/* ---- contexts ---- */

SHARED const char *mixer_name(int mixer)
{
    switch (mixer) {
    case MMIX_MIXER_SOFTMAX: return "softmax";
    case MMIX_MIXER_LINEAR: return "linear";
    case MMIX_MIXER_SELECTIVE: return "selective";
    default: return "ssd";
    }
}

SHARED mmix_ctx *context(int threads, uint64_t seed)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = threads;
    o.seed = seed;
    return mmix_create(&o);
}

/* An allocator that counts, checks sizes, fails call number fail_at and, with a limit, every
   call beyond it. */
typedef struct counter { size_t live, bytes, calls, fail_at, limit; int wrong; } counter;
SHARED void *counter_alloc(void *user, size_t size)
{
    counter *c = (counter *)user;
    size_t *p;
    if (++c->calls == c->fail_at || (c->limit && c->calls > c->limit))
        return NULL;
    p = (size_t *)malloc(size + 16);
    if (!p) return NULL;
    p[0] = size;
    c->live++;
    c->bytes += size;
    return (char *)p + 16;
}
SHARED void counter_free(void *user, void *ptr, size_t size)
{
    counter *c = (counter *)user;
    size_t *p;
    if (!ptr) {
        c->wrong++;
        return;
    }
    p = (size_t *)(void *)((char *)ptr - 16);
    c->wrong += p[0] != size;
    c->live--;
    c->bytes -= size;
    free(p);
}
SHARED mmix_options counted(counter *c)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.allocator.alloc = counter_alloc;
    o.allocator.free = counter_free;
    o.allocator.user = c;
    o.threads = 1;
    return o;
}

/* Something to do in a context of its own, made by these options: 0, or the kind of the error
   that it met. */
typedef int work(const mmix_options *o, void *user);
/* Lets allocation n of `run` fail, alone or (rest) with all that follow, for n = 1, 1 + step, …:
   each time the error is one of memory, and nothing is left. Returns how many allocations there
   are. */
SHARED size_t memory_fails(work *run, void *user, int rest, size_t step)
{
    size_t total = 1;
    /* first none fails, and they are counted */
    for (size_t n = 0; n < total; n += n ? step : 1) {
        counter c;
        memset(&c, 0, sizeof c);
        mmix_options o = counted(&c);
        if (rest) o.allocator.count_limit = n;
        else c.fail_at = n;
        const int kind = run(&o, user);
        if (n)
            COMPARE(kind == MMIX_ERROR_MEMORY, "the kind of error where memory ends", kind,
                    MMIX_ERROR_MEMORY);
        else COMPARE(kind == 0, "with all memory", kind, 0);
        COMPARE(!c.live && !c.wrong && !(rest && n && c.calls > n),
                "nothing is left where memory ends", n, c.live);
        if (!n) total = c.calls + !rest;
    }
    return total - !rest;
}

/* ---- random numbers, of the tests' own: the library's are not tested by themselves ---- */

SHARED uint64_t state = 1;
SHARED double uniform(void)                        /* [0, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 9007199254740992.0;
}
SHARED size_t any(size_t low, size_t high)
{
    return low + (size_t)(uniform() * (double)(high - low + 1));
}
SHARED mmix_tensor *random4(mmix_ctx *m, size_t a, size_t b, size_t c, size_t d, double low,
                            double high)
{
    mmix_tensor *t = mmix_new4(m, a, b, c, d);
    for (size_t i = 0; i < mmix_count(t); i++)
        mmix_data(t)[i] = (real)(low + (high - low) * uniform());
    return t;
}
SHARED mmix_tensor *shaped(mmix_ctx *m, mmix_tensor *t, int ndim, size_t a, size_t b, size_t c)
{
    size_t s[3];
    s[0] = a;
    s[1] = b;
    s[2] = c;
    return mmix_reshape(m, t, ndim, s);
}
SHARED mmix_tensor *random3(mmix_ctx *m, size_t a, size_t b, size_t c, double low, double high)
{
    return shaped(m, random4(m, 1, a, b, c, low, high), 3, a, b, c);
}
SHARED mmix_tensor *random1(mmix_ctx *m, size_t a, double low, double high)
{
    return shaped(m, random4(m, 1, 1, 1, a, low, high), 1, a, 0, 0);
}

/* ---- values ---- */

SHARED int has_shape(const mmix_tensor *t, int ndim, const size_t *shape)
{
    int same = t && mmix_ndim(t) == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = mmix_shape(t, i) == shape[i];
    return same;
}
SHARED double largest(mmix_tensor *t)
{
    double top = 0;
    for (size_t i = 0; i < mmix_count(t); i++)
        if (fabs((double)mmix_data(t)[i]) > top)
            top = fabs((double)mmix_data(t)[i]);
    return top;
}
/* largest |a - b| / (largest |b| + tiny); 1e9 for a NaN or another shape */
SHARED double apart(mmix_tensor *a, mmix_tensor *b)
{
    double worst = 0, top = 1e-30;
    real *x, *y;
    size_t n = mmix_count(a);
    if (!a || !b || n != mmix_count(b)) return 1e9;
    x = (real *)malloc(n * sizeof *x);
    y = (real *)malloc(n * sizeof *y);
    mmix_read(a, x);
    mmix_read(b, y);
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)x[i] - (double)y[i]);
        if (!(d <= worst))
            worst = d - d == 0 ? d : 1e9;
        if (fabs((double)y[i]) > top)
            top = fabs((double)y[i]);
    }
    free(x);
    free(y);
    return worst / top;
}
/* largest |a - b|; 1e30 for a NaN or another shape */
SHARED double gap(const mmix_tensor *a, const mmix_tensor *b)
{
    const size_t n = mmix_count(a);
    double worst = 0;
    real *x, *y;
    if (!a || !b || n != mmix_count(b)) return 1e30;
    x = (real *)malloc(2 * n * sizeof *x);
    y = x + n;
    if (mmix_read(a, x) || mmix_read(b, y)) worst = 1e30;
    for (size_t i = 0; i < n; i++) {
        const double e = fabs((double)x[i] - (double)y[i]);
        if (!(e <= worst)) worst = isnan(e) ? 1e30 : e;
    }
    free(x);
    return worst;
}
#define ALIKE(a, b, eps) near_to(apart(a, b), 0, eps, __FILE__, __LINE__, #a " is " #b)
#define SAME(a, b) near_to(apart(a, b), 0, 0, __FILE__, __LINE__, #a " has the bits of " #b)

/* FNV-1a of the bytes of n reals, going on from h. */
SHARED uint64_t hash_of(const real *x, size_t n, uint64_t h)
{
    const unsigned char *p = (const unsigned char *)x;
    for (size_t i = 0; i < n * sizeof *x; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

#ifndef MMIX_MIXERS_ONLY
/* The list of reals gets the numbers that the narrow one's matrices stand for. */
SHARED void widen(const mmix_params *narrow, const mmix_params *reals)
{
    for (size_t i = 0; i < narrow->count; i++)
        CHECK(!mmix_read(narrow->at[i].tensor, mmix_data(reals->at[i].tensor)));
}
SHARED mmix_entry entry_of(const mmix_param *p)    /* a parameter as it is written to a file */
{
    mmix_entry e;
    memset(&e, 0, sizeof e);
    e.name = p->name;
    e.dtype = MMIX_FILE_REAL;
    e.ndim = mmix_ndim(p->tensor);
    for (int i = 0; i < e.ndim; i++)
        e.shape[i] = mmix_shape(p->tensor, i);
    e.data = mmix_data(p->tensor);
    return e;
}
SHARED uint64_t hash_params(const mmix_params *p, uint64_t h)
{
    for (size_t i = 0; i < p->count; i++)
        h = hash_of(mmix_data(p->at[i].tensor), mmix_count(p->at[i].tensor), h);
    return h;
}
#endif
#endif
