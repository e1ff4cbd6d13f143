/* threads.c - the pool, and the same bits for any number of threads and for the caller's own; what
   the thread sanitizer runs */
#include "models.h"
#ifndef MMIX_NO_THREADS
#include <pthread.h>
#endif
#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

static void backwards_for(void *user, size_t count, mmix_task *task, void *arg)
{
    ++*(int *)user;
    for (size_t i = count; i-- > 0;) task(arg, i);
}
#ifndef MMIX_NO_THREADS
typedef struct one_task { mmix_task *task; void *arg; size_t i; } one_task;
static void *run_one(void *p)
{
    one_task *t = (one_task *)p;
    t->task(t->arg, t->i);
    return NULL;
}
static void thread_for(void *user, size_t count, mmix_task *task, void *arg)
{
    pthread_t thread[64];
    one_task t[64];
    ++*(int *)user;
    for (size_t i = 0; i < count; i++) {
        t[i].task = task;
        t[i].arg = arg;
        t[i].i = i;
        if (pthread_create(&thread[i], NULL, run_one, &t[i]))
            exit(3);
    }
    for (size_t i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
}
typedef struct apart_job { int mixer; uint64_t hash; } apart_job;
static void *train_apart(void *p)
{
    apart_job *j = (apart_job *)p;
    mmix_ctx *m = context(2, (uint64_t)j->mixer);
    j->hash = train(m, small_dino(j->mixer), 4);
    mmix_destroy(m);
    return NULL;
}
#endif

typedef struct pool_job { size_t n, number; unsigned char *hit; size_t *wrong; } pool_job;
static void pool_task(void *arg, size_t i)
{
    pool_job *j = (pool_job *)arg;
    if (j->number != 0x5eed || i >= j->n)
        j->wrong[0]++;
    else j->hit[i]++;
}
static void started(void *user, int lane) { ((unsigned char *)user)[lane]++; }
static void pool(void)
{
    unsigned char begun[8] = {0};
    mmix_options o;
    mmix_ctx *own;
    int lanes;
    memset(&o, 0, sizeof o);
    o.threads = 4;
    o.thread_start = started;
    o.thread_user = begun;
    doing("thread_start");
    own = mmix_create(&o);
    lanes = mmix_threads(own);
    /* waits for every thread, and none ends before it began */
    mmix_destroy(own);
    for (int lane = 0; lane < 8; lane++)
        IS(begun[lane], lane > 0 && lane < lanes);
    for (int threads = 2; threads <= 5; threads += 3) {
        mmix_ctx *m = context(threads, 0);
        size_t wrong = 0, stray = 0;
        unsigned char hit[64];
        doing("many short jobs");
        for (size_t r = 0; r < 400000; r++) {
            pool_job j;
            j.n = 2 + r * 7919 % 11 * (r % 2);
            j.number = 0x5eed;
            j.hit = hit;
            j.wrong = &stray;
            memset(hit, 0, sizeof hit);
            mmix_parallel_for(m, j.n, pool_task, &j);
            for (size_t i = 0; i < j.n; i++)
                wrong += hit[i] != 1;
            j.number = 0;
        }
        IS(wrong, 0);
        IS(stray, 0);
        mmix_destroy(m);
    }
}
static void same_bits(void)
{
    static const int counts[4] = { 1, 2, 3, 5 };
    draw();
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++) {
        uint64_t first = 0, h;
        mmix_options o;
        int calls = 0;
        mmix_ctx *m;
        snprintf(about, sizeof about, "same bits, %s", mixer_name(mixer));
        for (int k = 0; k < 4; k++) {
            m = context(counts[k], 1000 + (uint64_t)k);              /* the run's own seed counts */
            h = train(m, small_dino(mixer), 5);
            FINE(m);
            if (!k) first = h;
            COMPARE(h == first && h, "the same for any number of threads", counts[k], 1);
            mmix_destroy(m);
        }
        memset(&o, 0, sizeof o);
        o.threads = 4;
        o.parallel_user = &calls;
        for (int k = 0; k < 2; k++) {
            o.parallel_for = backwards_for;
#ifndef MMIX_NO_THREADS
            if (k) o.parallel_for = thread_for;
#endif
            m = mmix_create(&o);
            COMPARE(train(m, small_dino(mixer), k ? 2 : 5) == (k ? 0 : first) || k,
                    "the same for the caller's threads", 0, 1);
            if (k) {
                mmix_ctx *alone = context(1, 0);
                mmix_reset(m);
                COMPARE(train(m, small_dino(mixer), 2) == train(alone, small_dino(mixer), 2),
                        "the same for the caller's threads", 0, 1);
                mmix_destroy(alone);
            }
            FINE(m);
            mmix_destroy(m);
        }
        CHECK(calls > 10);
        m = context(2, 1);
        {
            mmix_dino_config c = small_dino(mixer);
            c.seed = 78;
            CHECK(train(m, c, 5) != first);
        }
        mmix_destroy(m);
    }
    /* the last piece of many is no product of one picture's rows */
    doing("pictures of one patch");
    for (size_t B = 96; B < 200; B += B == 97 ? 94 : 1) {
        uint64_t first = 0;
        for (int k = 0; k < 3; k++) {
            mmix_ctx *m = context(counts[k], 1);
            mmix_vision_config c = small_vision(MMIX_MIXER_SOFTMAX);
            mmix_vision *v = mmix_vision_create(m, c);
            mmix_tensor *token =
                mmix_vision_forward(m, v,
                                    mmix_fill_normal(m, mmix_new4(m, B, 3, c.patch, c.patch), 1, 3),
                                    NULL)
                    .token;
            const uint64_t h = token ? hash_of(mmix_data(token), mmix_count(token), 1) : 0;
            if (!k) first = h;
            COMPARE(h && h == first, "the same for any number of threads", (double)B, counts[k]);
            mmix_vision_destroy(v);
            mmix_destroy(m);
        }
    }
#ifndef MMIX_NO_THREADS
    {
        apart_job job[3];
        pthread_t thread[3];
        doing("contexts in their own threads");
        for (int k = 0; k < 3; k++) {
            job[k].mixer = k;
            pthread_create(&thread[k], NULL, train_apart, &job[k]);
        }
        for (int k = 0; k < 3; k++) {
            mmix_ctx *m;
            pthread_join(thread[k], NULL);
            m = context(1, 0);
            COMPARE(job[k].hash && job[k].hash == train(m, small_dino(k), 4), "as alone", k, k);
            mmix_destroy(m);
        }
    }
#else
    skipped++;
    printf("skipped: contexts in their own threads (MMIX_NO_THREADS)\n");
#endif
}

/* Without a number of threads a context has as many as the cores that the process may use. */
#if defined(__linux__)
#ifdef __cplusplus
extern "C"
#endif
int sched_getaffinity(pid_t process, size_t size, unsigned long *set);
int sched_setaffinity(pid_t process, size_t size, const unsigned long *set);
#endif
static void allowed(void)
{
    doing("cores that the process may use");
#if defined(__linux__) && !defined(MMIX_NO_THREADS)
    unsigned long all[128] = { 0 }, one[128] = { 0 };
    int cores = 0, first = -1;
    mmix_ctx *m;
    CHECK(!sched_getaffinity(0, sizeof all, all));
    for (int i = 0; i < 8192; i++) {
        int bits = 8 * (int)sizeof *all;
        int on = (int)(all[i / bits] >> i % bits & 1);
        if (on && first < 0) first = i;
        cores += on;
    }
    m = mmix_create(NULL);
    IS(mmix_threads(m), cores < 64 ? cores : 64);
    mmix_destroy(m);
    one[first / (8 * (int)sizeof *one)] = 1ul << first % (8 * (int)sizeof *one);
    CHECK(!sched_setaffinity(0, sizeof one, one));
    m = mmix_create(NULL);
    IS(mmix_threads(m), 1);
    mmix_destroy(m);
    m = context(3, 0);
    IS(mmix_threads(m), 3);                      /* more only if they are asked for */
    mmix_destroy(m);
    CHECK(!sched_setaffinity(0, sizeof all, all));
#else
    skipped++;
    printf("skipped: cores that the process may use (not Linux, or no threads)\n");
#endif
}

/* A forked child has the memory of a context but not its threads: it works alone, with the same
   result, and frees it. */
static void forked(void)
{
#ifdef _WIN32
    skipped++;
    printf("skipped: a context in a forked child (no fork)\n");
#else
    mmix_ctx *m = context(4, 0);
    const uint64_t alone = train(m, small_dino(2), 2);
    int status = -1;
    pid_t child;
    doing("a context in a forked child");
    mmix_reset(m);
    fflush(stdout);
    child = fork();
    if (!child) {
        int same;
        alarm(60);                               /* a hang is a failure */
        same = train(m, small_dino(2), 2) == alone;
        mmix_destroy(m);
        _exit(same ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
          && WEXITSTATUS(status) == 0);
    mmix_reset(m);
    CHECK(train(m, small_dino(2), 2) == alone);     /* the parent's pool is whole */
    FINE(m);
    mmix_destroy(m);
#endif
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "pool", pool }, { "bits", same_bits }, { "forked", forked }, { "allowed", allowed }
    };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
