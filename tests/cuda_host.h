/* cuda_host.h - a device that is not there, but runs the kernels

   Included before mamba_mix_cuda.cu with MMIX_CUDA_HOST defined, this makes a C++ compiler build
   the very same kernels for the CPU. Each thread of a block is a fiber with a stack of its own; at
   a barrier or a warp's collective it hands over to the next one that can go on. One block runs at
   a time, from the first to the last or, with cuda_host.descending, the other way round.

   What it notices: a barrier or collective that not all threads reach (and which ones wait where),
   lanes of a warp in different collectives, shared memory beyond what the launch asked for and
   device memory beyond its end (built with -fsanitize=address), values read before they were
   written (all memory begins as NaN), a missing barrier (a warp runs as far ahead as barriers let
   it, the first or, with cuda_host.descending, the last: results must be right, and their bits
   equal), device memory that is not freed, host memory that is read, written or freed while a copy
   is under way (copies and kernels run at the next cudaStreamSynchronize, not before), shared
   memory read or written while a cp.async to it is under way (it holds NaN until its thread
   waits), more shared memory than a kernel was allowed, 16 bytes copied or stored that do not
   begin on 16, a result that depends on the order of blocks, a long sum left to tensor cores,
   which cut where a float is rounded (unless cuda_host.exact is set).
   What it cannot notice: blocks that wait for each other or meet halfway, bank conflicts, and
   speed.

   The runtime's calls are faked and can be told to fail; see struct cuda_host. */
#ifndef CUDA_HOST_H
#define CUDA_HOST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <functional>
#include <map>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define CUDA_HOST_ASAN 1
#endif

#define __global__
#define __device__
#define __host__
#define __shared__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

static dim3 threadIdx, blockIdx, blockDim, gridDim;
enum { CUDA_HOST_DEVICES = 8, CUDA_HOST_SHARED = 232448 };
enum { CUDA_HOST_THREADS = 512, CUDA_HOST_STACK = 256 * 1024 };
static uint4 mmixi_cuda_shared[CUDA_HOST_SHARED / 16];

/* ---- the fake's switches and counters ---- */

typedef enum cudaError {
    cudaSuccess,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorLaunchFailure = 719
} cudaError_t;
static struct cuda_host {
    int devices = 1, driver = 13000, major = 9;
    int device = 0;                              /* the current one */
    int no_code = 0;                             /* the program was compiled for other GPUs */
    int sticky = 0;              /* the next failure stays: every call after it fails, too */
    int descending = 0;          /* the order of blocks, and of the threads of a block */
    int exact = 0;               /* tensor cores add in double and round once, and do not cut */
    long fail_malloc = 0, fail_pinned = 0;       /* the n-th call from now fails; 0: none does */
    long fail_launch = 0, fail_copy = 0, fail_sync = 0;
    size_t memory = (size_t)1 << 33;             /* bytes of the device */
    size_t bytes = 0, pinned = 0, streams = 0;   /* held now */
    size_t launches = 0, mallocs = 0;            /* so far */
    /* of each device: bytes a block can have */
    int shared[CUDA_HOST_DEVICES] = { CUDA_HOST_SHARED };
    size_t told = 0;                             /* calls of cudaFuncSetAttribute so far */
    cudaError_t last = cudaSuccess;      /* kept, as the runtime does, until cudaGetLastError */
    /* of each device and kernel: bytes of shared memory, where it is allowed more than 48 KB */
    std::map<std::pair<int, void *>, int> allowed;
    std::vector<std::function<void()>> queue;    /* copies and kernels that wait */
} cuda_host;
static cudaError_t cuda_host_error(cudaError_t e) { return cuda_host.last = e; }
/* Whether this call is the one that was told to fail; sticky: it, or one after it. */
static int cuda_host_fails(long *n)
{
    if (cuda_host.sticky > 1) return 1;
    if (*n <= 0 || --*n > 0) return 0;
    if (cuda_host.sticky) cuda_host.sticky = 2;
    return 1;
}
/* Makes the device current whose blocks can have so many bytes of shared memory, a new one if
   there is none. */
static inline int cuda_host_use(int shared)
{
    cuda_host.device = 0;
    while (cuda_host.device < cuda_host.devices && cuda_host.shared[cuda_host.device] != shared)
        cuda_host.device++;
    if (cuda_host.device == cuda_host.devices) cuda_host.shared[cuda_host.devices++] = shared;
    return cuda_host.device;
}

/* ---- fibers ---- */

/* A cp.async under way; `from` NULL: zeros. */
struct cuda_host_pending { void *to; const void *from; size_t bytes; };
typedef struct cuda_host_fiber {
    std::vector<cuda_host_pending> pending;
    void *sp;
    char *stack;
    void *fake;                                  /* the address sanitizer's */
    int done, waits;                             /* waits: 0, 1 for its warp, 2 for the block */
    unsigned generation;
} cuda_host_fiber;
typedef uint32_t cuda_host_slot[10];             /* what a lane hands in where its warp meets */
typedef struct cuda_host_warp {
    unsigned arrived, lanes, generation;
    unsigned multiplied;                         /* the meeting that `product` is of */
    const char *kind;
    cuda_host_slot slot[2][32];
    float product[16 * 8];
} cuda_host_warp;
static cuda_host_fiber cuda_host_fibers[CUDA_HOST_THREADS];
static cuda_host_warp cuda_host_warps[CUDA_HOST_THREADS / 32];
static struct {
    unsigned count, arrived, generation, at;
    void *main_sp, *fake;
    void (*run)(void);
} cuda_host_block;

#if defined(__x86_64__)
extern "C" void cuda_host_switch(void **save, void *load);
__asm__(".text\n.globl cuda_host_switch\n.type cuda_host_switch,@function\ncuda_host_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size cuda_host_switch,.-cuda_host_switch\n");
static void *cuda_host_stack_begin(char *top, void (*entry)(void))
{
    void **sp = (void **)top;
    *--sp = 0;
    *--sp = (void *)entry;
    for (int i = 0; i < 6; i++) *--sp = 0;
    return sp;
}
#else
#include <ucontext.h>                            /* slower: two system calls a switch */
static void cuda_host_switch(void **save, void *load)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, (ucontext_t *)load);
}
static void *cuda_host_stack_begin(char *top, void (*entry)(void))
{
    ucontext_t *c = (ucontext_t *)(top - ((sizeof(ucontext_t) + 63) & ~(size_t)63));
    getcontext(c);
    c->uc_stack.ss_sp = top - CUDA_HOST_STACK;
    c->uc_stack.ss_size = (size_t)((char *)c - (top - CUDA_HOST_STACK));
    c->uc_link = 0;
    makecontext(c, entry, 0);
    return c;
}
#endif

static void cuda_host_die(const char *what, const char *kind)
{
    fprintf(stderr, "cuda_host: %s (%s), block %u, thread %u\n", what, kind, blockIdx.x,
            cuda_host_block.at);
    for (unsigned i = 0; i < cuda_host_block.count; i++)
        fprintf(stderr, "%c", cuda_host_fibers[i].done ? '.' : "-wb"[cuda_host_fibers[i].waits]);
    fprintf(stderr, "\n");
    exit(3);
}
static int cuda_host_ready(unsigned i)
{
    const cuda_host_fiber *f = &cuda_host_fibers[i];
    if (f->done) return 0;
    if (f->waits == 1) return cuda_host_warps[i / 32].generation != f->generation;
    if (f->waits == 2) return cuda_host_block.generation != f->generation;
    return 1;
}
/* The next thread that can go on, or -1: one of the same warp as long as there is one, so that a
   warp runs as far ahead of the others as barriers let it, and what it writes too early is seen. */
static int cuda_host_next(unsigned me)
{
    const unsigned n = cuda_host_block.count;
    const unsigned base = me / 32 * 32;
    const unsigned lanes = n - base < 32 ? n - base : 32;
    for (unsigned i = 1; i < lanes; i++) {
        const unsigned at = base + (me - base + (cuda_host.descending ? lanes - i : i)) % lanes;
        if (cuda_host_ready(at)) return (int)at;
    }
    for (unsigned i = 1; i <= n; i++) {
        const unsigned at = (me + (cuda_host.descending ? n - i : i)) % n;
        if (cuda_host_ready(at)) return (int)at;
    }
    return -1;
}
/* Hands over to it; when all are done, back to the launch. */
static void cuda_host_yield(void)
{
    const unsigned n = cuda_host_block.count, me = cuda_host_block.at;
    cuda_host_fiber *from = &cuda_host_fibers[me];
    const int next = cuda_host_next(me);
    if (next < 0) {
        for (unsigned i = 0; i < n; i++)
            if (!cuda_host_fibers[i].done)
                cuda_host_die("threads wait for others that never come", "divergence");
#ifdef CUDA_HOST_ASAN
        __sanitizer_start_switch_fiber(0, cuda_host_block.fake, 0);
#endif
        cuda_host_switch(&from->sp, cuda_host_block.main_sp);
    } else if ((unsigned)next != me) {
        cuda_host_block.at = (unsigned)next;
#ifdef CUDA_HOST_ASAN
        __sanitizer_start_switch_fiber(from->done ? 0 : &from->fake, cuda_host_fibers[next].stack,
                                       CUDA_HOST_STACK);
#endif
        cuda_host_switch(&from->sp, cuda_host_fibers[next].sp);
#ifdef CUDA_HOST_ASAN
        __sanitizer_finish_switch_fiber(from->fake, 0, 0);
#endif
    }
    from->waits = 0;
    threadIdx = dim3(me, 0, 0);
}
#ifdef CUDA_HOST_ASAN
static const void *cuda_host_main_stack;
static size_t cuda_host_main_stack_size;
#endif
static void cuda_host_entry(void)
{
#ifdef CUDA_HOST_ASAN
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(0, &bottom, &size);
    if (!cuda_host_main_stack) {                 /* the first came from there */
        cuda_host_main_stack = bottom;
        cuda_host_main_stack_size = size;
    }
#endif
    threadIdx = dim3(cuda_host_block.at, 0, 0);
    cuda_host_block.run();
    if (!cuda_host_fibers[cuda_host_block.at].pending.empty())
        cuda_host_die("a thread returned with copies under way", "cp.async");
    cuda_host_fibers[cuda_host_block.at].done = 1;
    for (;;) {
        const unsigned n = cuda_host_block.count;
        const int next = cuda_host_next(cuda_host_block.at);
        if (next >= 0) {
            cuda_host_fiber *from = &cuda_host_fibers[cuda_host_block.at];
            cuda_host_block.at = (unsigned)next;
#ifdef CUDA_HOST_ASAN
            __sanitizer_start_switch_fiber(0, cuda_host_fibers[next].stack, CUDA_HOST_STACK);
#endif
            cuda_host_switch(&from->sp, cuda_host_fibers[next].sp);
        } else {
            for (unsigned i = 0; i < n; i++)
                if (!cuda_host_fibers[i].done)
                    cuda_host_die("threads wait for others that have returned", "divergence");
#ifdef CUDA_HOST_ASAN
            __sanitizer_start_switch_fiber(0, cuda_host_main_stack, cuda_host_main_stack_size);
#endif
            cuda_host_switch(&cuda_host_fibers[cuda_host_block.at].sp, cuda_host_block.main_sp);
        }
    }
}
static void cuda_host_run_block(void)
{
    const unsigned n = cuda_host_block.count;
    cuda_host_block.arrived = 0;
    for (unsigned i = 0; i < n; i++) {
        cuda_host_fiber *f = &cuda_host_fibers[i];
        if (!f->stack) f->stack = (char *)aligned_alloc(64, CUDA_HOST_STACK);
        f->done = f->waits = 0;
        f->sp = cuda_host_stack_begin(f->stack + CUDA_HOST_STACK, cuda_host_entry);
    }
    for (unsigned w = 0; w < (n + 31) / 32; w++) {
        cuda_host_warps[w].arrived = 0;
        cuda_host_warps[w].lanes = n - 32 * w < 32 ? n - 32 * w : 32;
    }
    cuda_host_block.at = cuda_host.descending ? n - 1 : 0;
    const cuda_host_fiber *first = &cuda_host_fibers[cuda_host_block.at];
#ifdef CUDA_HOST_ASAN
    __sanitizer_start_switch_fiber(&cuda_host_block.fake, first->stack, CUDA_HOST_STACK);
#endif
    cuda_host_switch(&cuda_host_block.main_sp, first->sp);
#ifdef CUDA_HOST_ASAN
    __sanitizer_finish_switch_fiber(cuda_host_block.fake, 0, 0);
#endif
}

/* ---- barriers and what a warp does together ---- */

static inline void __syncthreads(void)
{
    cuda_host_fiber *f = &cuda_host_fibers[cuda_host_block.at];
    if (++cuda_host_block.arrived == cuda_host_block.count) {
        cuda_host_block.arrived = 0;
        cuda_host_block.generation++;
        return;
    }
    f->waits = 2;
    f->generation = cuda_host_block.generation;
    cuda_host_yield();
}
/* All lanes of a warp meet; returns the warp's slots that were filled before. The other half of
   the slots is for the next meeting, so that nobody writes where somebody still reads. */
static inline const cuda_host_slot *cuda_host_meet(const char *kind, const uint32_t *mine,
                                                   int words)
{
    const unsigned at = cuda_host_block.at, lane = at % 32;
    cuda_host_warp *w = &cuda_host_warps[at / 32];
    const unsigned parity = w->generation & 1;
    if (!w->arrived) w->kind = kind;
    else if (w->kind != kind) cuda_host_die("lanes of a warp in different collectives", kind);
    for (int i = 0; i < words; i++) w->slot[parity][lane][i] = mine[i];
    if (++w->arrived == w->lanes) {
        w->arrived = 0;
        w->generation++;
    } else {
        cuda_host_fibers[at].waits = 1;
        cuda_host_fibers[at].generation = w->generation;
        cuda_host_yield();
    }
    return w->slot[parity];
}
static const char cuda_host_is_shfl[] = "__shfl", cuda_host_is_tf32[] = "mma tf32",
    cuda_host_is_bf16[] = "mma bf16", cuda_host_is_ldmatrix[] = "ldmatrix";
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline float __uint_as_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t __float_as_uint(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
/* The value of another lane, or one's own where there is no such lane. */
static inline uint32_t cuda_host_shfl(unsigned mask, uint32_t u, unsigned from)
{
    if (mask != 0xffffffffu) cuda_host_die("a shuffle with part of the warp", cuda_host_is_shfl);
    return cuda_host_meet(cuda_host_is_shfl, &u, 1)[from < 32 ? from : threadIdx.x % 32][0];
}
static inline int __shfl_sync(unsigned mask, int v, int lane)
{
    return (int)cuda_host_shfl(mask, (uint32_t)v, (unsigned)lane);
}
static inline float __shfl_xor_sync(unsigned mask, float v, int lanes)
{
    const unsigned from = threadIdx.x % 32 ^ (unsigned)lanes;
    return __uint_as_float(cuda_host_shfl(mask, __float_as_uint(v), from));
}
static inline int __shfl_xor_sync(unsigned mask, int v, int lanes)
{
    return (int)cuda_host_shfl(mask, (uint32_t)v, threadIdx.x % 32 ^ (unsigned)lanes);
}
static inline float __shfl_up_sync(unsigned mask, float v, unsigned lanes)
{
    return __uint_as_float(cuda_host_shfl(mask, __float_as_uint(v), threadIdx.x % 32 - lanes));
}
static inline float __shfl_down_sync(unsigned mask, float v, unsigned lanes)
{
    return __uint_as_float(cuda_host_shfl(mask, __float_as_uint(v), threadIdx.x % 32 + lanes));
}
static inline void cuda_host_aligned(const void *p, size_t bytes, const char *kind)
{
    if ((uintptr_t)p % bytes) cuda_host_die("an address that is no multiple of the bytes", kind);
}
/* cp.async and its wait: until then there is NaN. */
static inline void cuda_host_copy(void *to, const void *from, size_t bytes, int seen)
{
    cuda_host_aligned(to, bytes, "cp.async");
    cuda_host_aligned(from, bytes, "cp.async");
    memset(to, 0xff, bytes);
    cuda_host_fibers[cuda_host_block.at].pending.push_back({ to, seen ? from : NULL, bytes });
}
static inline void cuda_host_wait(void)
{
    std::vector<cuda_host_pending> &pending = cuda_host_fibers[cuda_host_block.at].pending;
    for (const cuda_host_pending &c : pending)
        if (c.from) memcpy(c.to, c.from, c.bytes);
        else memset(c.to, 0, c.bytes);
    pending.clear();
}

#define CUDA_HOST_UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#if defined(__clang__)
#define CUDA_HOST_QUICK                          /* has no word for it, and needs none */
#else
#define CUDA_HOST_QUICK __attribute__((optimize("O3")))
#endif
/* A row of a product, c (8) += a (depth) b (depth, 8), each sum as tensor cores are reported to
   make it (Fasi, Higham, Mikaitis & Pranesh 2021, "Numerical behavior of NVIDIA tensor cores"):
   products are exact, each term is cut at the last of the 24 bits of the largest one, and so is
   their sum. Newer ones keep a bit or two more; without them the error is the largest. Most of the
   time of a test goes here: the loops over columns become vector instructions, and the sanitizers
   leave it out, since nothing that is tested is in it. */
CUDA_HOST_QUICK CUDA_HOST_UNCHECKED
static void cuda_host_row(float *c, const double *a, const double (*b)[8], unsigned depth)
{
    double terms[17][8], sum[8], most[8], unit[8], each[8];
    int32_t units[8] = { 0 };                    /* of terms below 2^24, at most 17 */
    uint64_t bits[8];
    for (unsigned i = 0; i < 8; i++) {
        terms[0][i] = sum[i] = (double)c[i];
        most[i] = fabs(sum[i]);
    }
    for (unsigned k = 0; k < depth; k++)
        for (unsigned i = 0; i < 8; i++) {
            const double term = a[k] * b[k][i], size = fabs(term);
            terms[k + 1][i] = term;
            sum[i] += term;
            most[i] = size > most[i] ? size : most[i];
        }
    for (unsigned i = 0; i < 8; i++) {           /* what is not cut counts no units */
        c[i] = (float)sum[i];
        if (!cuda_host.exact && fabs(sum[i]) < HUGE_VAL) continue;
        for (unsigned k = 0; k <= depth; k++) terms[k][i] = 0;
        most[i] = 0;
    }
    /* a unit is 2^23 less than the power of two in `most` */
    memcpy(bits, most, sizeof bits);
    for (unsigned i = 0; i < 8; i++) bits[i] = (bits[i] >> 52 << 52) - ((uint64_t)23 << 52);
    memcpy(unit, bits, sizeof unit);
    for (unsigned i = 0; i < 8; i++) each[i] = most[i] > 0 ? 1 / unit[i] : 0;
    for (unsigned k = 0; k <= depth; k++)
        for (unsigned i = 0; i < 8; i++) units[i] += (int32_t)(terms[k][i] * each[i]);
    for (unsigned i = 0; i < 8; i++) sum[i] = (double)units[i] * unit[i];
    memcpy(bits, sum, sizeof bits);
    for (unsigned i = 0; i < 8; i++) bits[i] = bits[i] >> 29 << 29;      /* 24 of 53 bits */
    memcpy(sum, bits, sizeof sum);
    for (unsigned i = 0; i < 8; i++) c[i] = most[i] > 0 ? (float)sum[i] : c[i];
}

/* ---- ldmatrix and mma.sync: who holds what, as the PTX manual says it, or as CUTLASS does ---- */

#ifdef MMIX_CUDA_LAYOUTS
#include "cuda_layouts.h"
#else
/* ldmatrix .x4: lane l hands in row l % 8 of tile l / 8, and takes of tile i row l / 4, columns 2
   (l % 4) and the next, of it or of its transpose (PTX ISA, ldmatrix). */
static inline void cuda_host_ldmatrix(uint32_t *r, const void *row, int transposed)
{
    uint32_t mine[4];
    if ((uintptr_t)row % 16)
        cuda_host_die("a row that does not begin on 16 bytes", cuda_host_is_ldmatrix);
    memcpy(mine, row, sizeof mine);
    const cuda_host_slot *s = cuda_host_meet(cuda_host_is_ldmatrix, mine, 4);
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned shift = g % 2 * 16;
        const uint32_t low = s[8 * i + 2 * t][g / 2] >> shift;
        const uint32_t high = s[8 * i + 2 * t + 1][g / 2] >> shift;
        r[i] = transposed ? (low & 0xffff) | high << 16 : s[8 * i + g][t];
    }
}
/* The numbers of a word, `step` apart: one tf32, of which the hardware reads 19 bits, or two bf16,
   the lower column or row in its lower half. */
template <int TF32> CUDA_HOST_UNCHECKED
static inline void cuda_host_numbers(double *to, unsigned step, uint32_t word)
{
    to[0] = (double)__uint_as_float(TF32 ? word & 0xffffe000u : word << 16);
    if (!TF32) to[step] = (double)__uint_as_float(word & 0xffff0000u);
}
/* a (16, 8 words) and b (8 words, 8) of what the lanes handed in. Lane l, with g = l / 4 and
   t = l % 4, holds the words a (g, t), (g+8, t), (g, t+4), (g+8, t+4) and b (t, g), (t+4, g) (PTX
   ISA, m16n8k8 .tf32 and m16n8k16 .bf16). */
template <int TF32> CUDA_HOST_UNCHECKED
static inline void cuda_host_gather(const cuda_host_slot *s, double (*a)[16], double (*b)[8])
{
    const unsigned per = TF32 ? 1 : 2;
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned g = lane / 4, t = lane % 4;
        cuda_host_numbers<TF32>(&a[g][per * t], 1, s[lane][0]);
        cuda_host_numbers<TF32>(&a[g + 8][per * t], 1, s[lane][1]);
        cuda_host_numbers<TF32>(&a[g][per * (t + 4)], 1, s[lane][2]);
        cuda_host_numbers<TF32>(&a[g + 8][per * (t + 4)], 1, s[lane][3]);
        cuda_host_numbers<TF32>(&b[per * t][g], 8, s[lane][4]);
        cuda_host_numbers<TF32>(&b[per * (t + 4)][g], 8, s[lane][5]);
    }
}
/* Where in c (16, 8) number i of a lane is, of (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1). */
static inline unsigned cuda_host_place(unsigned lane, unsigned i)
{
    const unsigned row = lane / 4 + 8 * (i / 2);
    return 8 * row + 2 * (lane % 4) + i % 2;
}
#endif

/* c (16, 8) += a b. The lane that comes last makes the product for all of them. */
template <int TF32> CUDA_HOST_UNCHECKED
static inline void cuda_host_mma(const char *kind, float *c, const uint32_t *a, uint32_t b0,
                                 uint32_t b1)
{
    uint32_t mine[10] = { a[0], a[1], a[2], a[3], b0, b1 };
    for (unsigned i = 0; i < 4; i++) mine[6 + i] = __float_as_uint(c[i]);
    const cuda_host_slot *s = cuda_host_meet(kind, mine, 10);
    cuda_host_warp *w = &cuda_host_warps[threadIdx.x / 32];
    if (w->multiplied != w->generation) {
        double left[16][16], right[16][8];
        w->multiplied = w->generation;
        cuda_host_gather<TF32>(s, left, right);
        for (unsigned lane = 0; lane < 32; lane++)
            for (unsigned i = 0; i < 4; i++)
                w->product[cuda_host_place(lane, i)] = __uint_as_float(s[lane][6 + i]);
        for (unsigned row = 0; row < 16; row++)
            cuda_host_row(w->product + 8 * row, left[row], right, TF32 ? 8 : 16);
    }
    for (unsigned i = 0; i < 4; i++) c[i] = w->product[cuda_host_place(threadIdx.x % 32, i)];
}
static inline void cuda_host_mma_tf32(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    cuda_host_mma<1>(cuda_host_is_tf32, c, a, b0, b1);
}
static inline void cuda_host_mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    cuda_host_mma<0>(cuda_host_is_bf16, c, a, b0, b1);
}

/* ---- the runtime ---- */

typedef struct CUstream_st *cudaStream_t;
typedef enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost } cudaMemcpyKind;
typedef enum { cudaFuncAttributeMaxDynamicSharedMemorySize } cudaFuncAttribute;
typedef enum { cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrComputeCapabilityMinor } cudaDeviceAttr;
typedef struct { int binaryVersion; } cudaFuncAttributes;
enum { cudaStreamNonBlocking = 1 };

static inline const char *cudaGetErrorString(cudaError_t e)
{
    switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "invalid argument";
    }
}
static inline cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 0;
    if (cuda_host.driver < 12000) return cuda_host_error(cudaErrorInsufficientDriver);
    if (!cuda_host.devices) return cuda_host_error(cudaErrorNoDevice);
    *n = cuda_host.devices;
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int d)
{
    if (d < 0 || d >= cuda_host.devices) return cuda_host_error(cudaErrorInvalidDevice);
    cuda_host.device = d;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDevice(int *d)
{
    *d = cuda_host.device;
    return cuda_host.devices ? cudaSuccess : cuda_host_error(cudaErrorNoDevice);
}
static inline cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int d)
{
    if (d < 0 || d >= cuda_host.devices) return cuda_host_error(cudaErrorInvalidDevice);
    switch (a) {
    case cudaDevAttrComputeCapabilityMajor: *v = cuda_host.major; break;
    case cudaDevAttrComputeCapabilityMinor: *v = 0; break;
    default: *v = cuda_host.shared[d];
    }
    return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **p, size_t n)
{
    *p = 0;
    if (cuda_host_fails(&cuda_host.fail_malloc) || n > cuda_host.memory - cuda_host.bytes)
        return cuda_host_error(cudaErrorMemoryAllocation);
    char *base = (char *)malloc(n + 64);
    memcpy(base, &n, sizeof n);
    memset(base + 64, 0xff, n);
    cuda_host.bytes += n;
    cuda_host.mallocs++;
    *p = base + 64;
    return cudaSuccess;
}
/* Nothing may be freed while copies or kernels are under way: the real device might not wait for
   them. */
static inline void cuda_host_idle(const char *what)
{
    if (cuda_host.queue.empty()) return;
    fprintf(stderr, "cuda_host: %s while work is under way\n", what);
    exit(3);
}
static inline cudaError_t cudaFree(void *p)
{
    size_t n;
    if (!p) return cudaSuccess;
    cuda_host_idle("cudaFree");
    memcpy(&n, (char *)p - 64, sizeof n);
    cuda_host.bytes -= n;
    free((char *)p - 64);
    return cudaSuccess;
}
static inline cudaError_t cudaMallocHost(void **p, size_t n)
{
    *p = 0;
    if (cuda_host_fails(&cuda_host.fail_pinned)) return cuda_host_error(cudaErrorMemoryAllocation);
    *p = malloc(n);
    memset(*p, 0xff, n);
    cuda_host.pinned++;
    return cudaSuccess;
}
static inline cudaError_t cudaFreeHost(void *p)
{
    if (!p) return cudaSuccess;
    cuda_host_idle("cudaFreeHost");
    cuda_host.pinned--;
    free(p);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind,
                                          cudaStream_t)
{
    if (cuda_host_fails(&cuda_host.fail_copy)) return cuda_host_error(cudaErrorLaunchFailure);
    cuda_host.queue.push_back([=] { memcpy(to, from, n); });
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = (cudaStream_t)(uintptr_t)1;
    cuda_host.streams++;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t)
{
    cuda_host_idle("cudaStreamDestroy");
    cuda_host.streams--;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    for (const std::function<void()> &work : cuda_host.queue) work();
    cuda_host.queue.clear();
    if (cuda_host_fails(&cuda_host.fail_sync)) return cuda_host_error(cudaErrorLaunchFailure);
    return cudaSuccess;
}
static inline cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = cuda_host.last;
    cuda_host.last = cudaSuccess;
    return e;
}
template <class F>
static inline cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute, int n)
{
    if (n > cuda_host.shared[cuda_host.device]) return cuda_host_error(cudaErrorInvalidValue);
    cuda_host.allowed[std::make_pair(cuda_host.device, (void *)kernel)] = n;
    cuda_host.told++;
    return cudaSuccess;
}
template <class F> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *code, F *)
{
    if (cuda_host.no_code) return cuda_host_error(cudaErrorNoKernelImageForDevice);
    code->binaryVersion = 10 * cuda_host.major;
    return cudaSuccess;
}

/* A launch: every block, one after another. */
template <class J> struct cuda_host_launch {
    static void (*kernel)(J);
    static const J *job;
    static void thread(void) { kernel(*job); }
};
template <class J> void (*cuda_host_launch<J>::kernel)(J);
template <class J> const J *cuda_host_launch<J>::job;
template <class J>
static void cuda_host_run(void (*kernel)(J), dim3 grid, dim3 block, const J &job, size_t shared)
{
    cuda_host_launch<J>::kernel = kernel;
    cuda_host_launch<J>::job = &job;
    cuda_host_block.run = cuda_host_launch<J>::thread;
    cuda_host_block.count = block.x;
    blockDim = block;
    gridDim = grid;
    for (unsigned b = 0; b < grid.x; b++) {
        blockIdx = dim3(cuda_host.descending ? grid.x - 1 - b : b, 0, 0);
        if (shared) memset(mmixi_cuda_shared, 0xff, shared);
#ifdef CUDA_HOST_ASAN
        char *beyond = (char *)mmixi_cuda_shared + shared;
        __asan_poison_memory_region(beyond, sizeof mmixi_cuda_shared - shared);
#endif
        cuda_host_run_block();
#ifdef CUDA_HOST_ASAN
        __asan_unpoison_memory_region(mmixi_cuda_shared, sizeof mmixi_cuda_shared);
#endif
    }
}
template <class J>
static cudaError_t cudaLaunchKernel(void (*kernel)(J), dim3 grid, dim3 block, void **args,
                                    size_t shared, cudaStream_t)
{
    const J job = *(const J *)args[0];
    if (cuda_host_fails(&cuda_host.fail_launch)) return cuda_host_error(cudaErrorLaunchFailure);
    if (!grid.x || grid.y != 1 || grid.z != 1 || !block.x || block.x > CUDA_HOST_THREADS)
        return cuda_host_error(cudaErrorInvalidConfiguration);
    const std::pair<int, void *> here = std::make_pair(cuda_host.device, (void *)kernel);
    if (shared > 48 * 1024 && shared > (size_t)cuda_host.allowed[here])
        return cuda_host_error(cudaErrorInvalidValue);
    cuda_host.launches++;
    cuda_host.queue.push_back([=] { cuda_host_run(kernel, grid, block, job, shared); });
    return cudaSuccess;
}
#endif
