/* mamba_mix_cuda.cu - the token mixers of mamba_mix.h on a GPU

   Softmax attention, linear attention and Mamba-2 (SSD), forward and backward, as hand-written
   kernels, and one call that lets a program which ran on the CPU use them:

       #define MAMBA_MIX_IMPLEMENTATION
       #include "mamba_mix.h"
       #include "mamba_mix_cuda.cu"                               // in a C file: the declarations alone
       #include <stdio.h>

       int main(void)
       {
           mmix_ctx *m = mmix_create(NULL);
           mmix_cuda_options options = { 0 };
           size_t B = 64, L = 198, H = 16, P = 64, N = 64;
           mmix_tensor *x = mmix_fill_normal(m, mmix_new4(m, B, L, H, P), 1, 0);
           mmix_tensor *b = mmix_fill_normal(m, mmix_new4(m, B, L, 1, N), 1, 1);
           mmix_tensor *c = mmix_fill_normal(m, mmix_new4(m, B, L, 1, N), 1, 2);
           mmix_tensor *dt = mmix_fill(mmix_new3(m, B, L, H), 0.1), *a = mmix_fill(mmix_new1(m, H), -1);
           mmix_mixer ssd = mmix_mixer_ssd(x, dt, a, b, c);
           mmix_cuda_statistics done;
           options.quiet = 1;                                     // no GPU: the CPU does it
           mmix_cuda_attach(m, &options);
           printf("%g\n", mmix_item(mmix_mean(m, mmix_mix(m, &ssd))));
           mmix_cuda_stats(m, &done);
           printf("%d calls on the GPU\n", (int)done.device_calls);
           if (mmix_error(m)) puts(mmix_error(m));
           mmix_cuda_detach(m);
           mmix_destroy(m);
           return 0;
       }

       nvcc -O3 -arch=native program.c mamba_mix_cuda.cu -o program

   WORDS                     that the code has short names for

     job                     what a kernel is given: the caller's struct, `r`, and what was derived from it
     tile                    64 rows of an array in shared memory
     strip                   16 x 64 results of a warp in registers: an accumulator of mma.sync, 8 fragments
     fragment                what a lane holds of the 16 x 8 or 16 x 16 numbers that one mma.sync takes
     chunk                   64 tokens of an SSD, one step of its walk along the sequence
     piece, segments         SSD: a part of a sequence that a block walks along, and how many there are
     top, over, delta        attention, of each query: the largest score times log2 e, 1 / Σ e^(s - largest)
                             and dy · y; in the FlashAttention papers m, 1/l and D
     span, seen              the keys that a query's mask lets it see; what 64 queries see together
     place                   a token's number within its window, as differences of a bias count it
     share                   heads of the queries that read one head of the keys (GQA), or of B and C
     team                    4 warps of a block, which may have two teams that do different things at once
     whole tile              64 keys that all queries of a block, or a warp, see: a path without branches
     stage                   one of two tiles, of which one is loaded while the other one is multiplied

   CONTENTS                  search for the tag, e.g. >>cuda-ssd

     >>cuda-api-kernels      the mixers on device pointers: structs, workspace, stream, errors
     >>cuda-api-attach       the mixers of a context on the GPU
     >>cuda-device           number formats, and each PTX instruction in a wrapper of its own
     >>cuda-arrays           heads, sequences, sums over heads
     >>cuda-naive-ssd        SSD as a loop over time
     >>cuda-naive-attention  softmax attention as a loop over the keys
     >>cuda-products         16 x 64 strips of small matrix products on the tensor cores
     >>cuda-ssd              SSD in chunks of 64 tokens, the state on chip
     >>cuda-attention        softmax attention in tiles of 64 keys, without an L x L matrix
     >>cuda-linear           linear attention: features, sums, the causal form as an SSD that forgets nothing
     >>cuda-attach           pack, copy, launch, copy, unpack

   HOW TO BUILD IT IN        an NVIDIA GPU from compute capability 8.0, CUDA Toolkit 12 or 13

     A C or C++ file that includes this one sees the declarations. A CUDA unit compiles the kernels too,
     unless MMIX_CUDA_API_ONLY is defined before. mamba_mix.h knows nothing of this file. It is for MMIX_REAL
     = float: a unit in double does not link with it, and MMIX_STATIC, which hides the library from other
     units, is an error.

   SOURCES
     Dao & Gu 2024, "Transformers are SSMs" (chunks of SSD); Dao 2023, "FlashAttention-2" (tiles, the order of
     the backward); Milakov & Gimelshein 2018 (online softmax); NVIDIA, "PTX ISA", 9.7.14 (fragments of
     mma.sync); Ootomo & Yokota 2022 (float products from three of tf32).

   Licence: MIT or public domain, at your choice; see the end of mamba_mix.h. */

#ifndef MAMBA_MIX_CUDA_H
#define MAMBA_MIX_CUDA_H

#ifdef MMIX_STATIC
#error "mamba_mix_cuda.cu calls the library from a unit of its own, which MMIX_STATIC hides it from"
#endif
#include "mamba_mix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== >>cuda-api-kernels =============================================================
   the mixers on device pointers

   The structs are those of >>api-kernels in mamba_mix.h with a precision, a workspace and a stream:
   zero one first, then say sizes, options and where the arrays lie, all in device memory. Nothing
   is allocated and nothing waits: calls queue their kernels on the stream and return. Gradients are
   written over what was there, and left out where p is NULL. The same call gives the same bits each
   time.

   A call returns 0, MMIX_CUDA_UNSUPPORTED if the kernels have no form for these sizes (see each
   struct; with `naive` there are no limits), or the CUDA runtime's error. The workspace, aligned as
   cudaMalloc aligns, has the bytes that `…_workspace` says and may be used for something else after
   the call's kernels.

       mmix_cuda_attention x = {0};
       x.B = 1; x.L = x.S = L; x.H = 8; x.N = x.P = 64; x.scale = 0.125;
       x.q = mmix_cuda_head_view_rows(q, L, 8, 64, 8);      // k, v, y likewise
       error = mmix_cuda_attention_forward(&x);
   ==================================================================================== */

/* .precision. F32: arrays in float; products of three tf32 products each, which err by about 2⁻²¹.
   TF32: arrays in float, products of one (about 2⁻¹¹). BF16: arrays (B, L, heads, width) in bf16,
   everything else, sums and states in float. */
enum { MMIX_CUDA_F32, MMIX_CUDA_TF32, MMIX_CUDA_BF16 };
enum { MMIX_CUDA_UNSUPPORTED = -1 };
/* What a call returned, in words. */
MMIXDEF const char *mmix_cuda_error_text(int error);

/* As mmix_head_view: an array (B, L, heads, width), width contiguous, its first element and by how
   many elements the next sequence, token and head are away; head h of H reads head h / share. */
typedef struct mmix_cuda_head_view {
    void *p;
    ptrdiff_t batch, token, head;
    size_t share;
} mmix_cuda_head_view;
MMIXDEF mmix_cuda_head_view mmix_cuda_head_view_rows(void *p, size_t L, size_t heads, size_t width,
                                                     size_t H);

/* h_t = e^(a_t) h_{t-1} + δ_t x_t B_tᵀ,   y_t = h_t C_t + D x_t,   a_t = δ_t A,   A < 0,
   δ = clamp(softplus(dt + dt_bias)). Kernels in tiles: N, P ≤ 128 (backward in float
   not both above 64), on sm_90; what fits in less shared memory is in docs/07-cuda.md. */
typedef struct mmix_cuda_ssd {
    int precision, naive;                        /* naive: the loop over time, one thread a head */
    size_t B, L, H, N, P;
    mmix_cuda_head_view x, dt, b, c, y;              /* dt of width 1 */
    const float *A, *D, *dt_bias;                /* (H); D (H, D_width) or NULL; (H) or NULL */
    size_t D_width;                              /* P: D for each channel; 0 or 1: one a head */
    int dt_softplus, reverse;                    /* reverse: from the last token to the first */
    double dt_low, dt_high;                      /* no limits if dt_high is 0 */
    const float *initial_state;                  /* (B, H, P, N) or NULL */
    float *final_state;                          /* (B, H, P, N) or NULL; may be the initial one */
    const int32_t *seq_idx;                      /* (B, L), seq_batch from row to row; or NULL */
    ptrdiff_t seq_batch;
    mmix_cuda_head_view dy, dx, ddt, db, dc;
    float *dA, *dD, *ddt_bias, *dinitial;        /* or NULL */
    const float *dfinal;                         /* (B, H, P, N) or NULL */
    /* a sequence is scanned in so many pieces at once, 0: chosen */
    size_t segments;
    void *workspace, *stream;                    /* stream: a cudaStream_t, NULL: the default one */
} mmix_cuda_ssd;
MMIXDEF size_t mmix_cuda_ssd_workspace(const mmix_cuda_ssd *x, int backward);
/* With L = 1 it is mmix_cuda_ssd_step. */
MMIXDEF int mmix_cuda_ssd_forward(const mmix_cuda_ssd *x);
/* Needs nothing of the forward but its inputs. */
MMIXDEF int mmix_cuda_ssd_backward(const mmix_cuda_ssd *x);
/* One token, L = 1, of any N and P: the state goes from initial_state to final_state, which may be
   the same. No workspace. */
MMIXDEF int mmix_cuda_ssd_step(const mmix_cuda_ssd *x);

/* y_i = Σ_j p_ij v_j,   p_i = softmax over the allowed j of scale · q_i·k_j (+ bias). Tiles: N, P ≤ 128. */
typedef struct mmix_cuda_attention {
    int precision, naive;
    size_t B, L, S, H, N, P;                     /* S keys */
    mmix_cuda_head_view q, k, v, y;                  /* k and v have equal shares */
    double scale;
    int mask;                                    /* MMIX_MASK_… */
    size_t prefix, left, right, grid[3], window[3], shift[3];    /* window[0] = 0: no windows */
    const int32_t *lefts;                        /* (L), with MMIX_MASK_BAND; or NULL */
    const float *bias;  /* (H, Π (2 window_a - 1)), with windows; or NULL */
    const int32_t *seq_idx;                      /* (B, L), seq_batch from row to row; or NULL */
    ptrdiff_t seq_batch;
    /* (B, H, L): of each query the largest score t, times log2 e, and 1 / Σ e^(s - t). Forward
       writes them unless NULL, backward reads them */
    float *top, *over;
    mmix_cuda_head_view dy, dq, dk, dv;
    float *dbias;                                /* or NULL */
    void *workspace, *stream;
} mmix_cuda_attention;
MMIXDEF size_t mmix_cuda_attention_workspace(const mmix_cuda_attention *x, int backward);
MMIXDEF int mmix_cuda_attention_forward(const mmix_cuda_attention *x);
/* Needs y, top and over of the forward. */
MMIXDEF int mmix_cuda_attention_backward(const mmix_cuda_attention *x);

/* y_i = Σ_j φ(q_i)·ψ(k_j) v_j, over all j or over j ≤ i; with `normalize` divided by Σ_j
   φ(q_i)·ψ(k_j) + eps. Tiles, causal only: as SSD in float with P + normalize for P. */
typedef struct mmix_cuda_linear_attention {
    int precision, naive;
    size_t B, L, S, H, N, P;
    mmix_cuda_head_view q, k, v, y;                  /* k and v have equal shares */
    int feature, normalize, causal;              /* MMIX_FEATURE_…; 1 or 0 */
    double eps;
    /* causal only: states (B, H / share, P + normalize, N) or NULL, the final one may be the
       initial one; (B, L), seq_batch from row to row, or NULL */
    const float *initial_state;
    float *final_state;
    const int32_t *seq_idx;
    ptrdiff_t seq_batch;
    mmix_cuda_head_view dy, dq, dk, dv;
    const float *dfinal;                         /* or NULL */
    float *dinitial;                             /* or NULL */
    void *workspace, *stream;
} mmix_cuda_linear_attention;
MMIXDEF size_t mmix_cuda_linear_attention_workspace(const mmix_cuda_linear_attention *x,
                                                    int backward);
MMIXDEF int mmix_cuda_linear_attention_forward(const mmix_cuda_linear_attention *x);
MMIXDEF int mmix_cuda_linear_attention_backward(const mmix_cuda_linear_attention *x);

/* ==== >>cuda-api-attach ==============================================================
   the mixers of a context on the GPU

   Tensors stay in the host's memory. A mixer's call is packed into pinned memory, copied, run, and
   its result copied back, all on one stream, before mmix_mix returns. What the kernels have no form
   for, and what is too small to be worth the journey, the CPU does as before, and mmix_cuda_stats
   says so.
   ==================================================================================== */

typedef struct mmix_cuda_options {
    int device;  /* which GPU; becomes the calling thread's current one */
    int precision;                               /* MMIX_CUDA_… */
    /* 1: where the GPU, its driver or its memory fail, the CPU does the work, silently but for the
       statistics; 0: that is the context's error, of kind MMIX_ERROR_DEVICE */
    int quiet;
    /* A call of fewer multiply-adds stays on the CPU; 1: none stays; 0: a default, 5·10⁷, and 100
       for each number that would travel: where an H100 and the 16 threads of its host are level */
    double least;
    size_t memory;  /* bytes of device memory to hold at most, 0: no limit */
    int naive;                                   /* the naive kernels, for tests */
} mmix_cuda_options;

/* What happened since the attachment. */
typedef struct mmix_cuda_statistics {
    size_t device_calls, host_calls;             /* of the mixers, forward and backward each one */
    /* why on the host; of a small one the forward counts */
    size_t host_small, host_unsupported, host_failed;
    size_t copies, bytes_up, bytes_down;         /* transfers */
    size_t device_bytes, pinned_bytes;           /* held now */
    size_t on_device[MMIX_OP_COUNT], on_host[MMIX_OP_COUNT];  /* calls of each op; mmix_op_name */
    char failure[160];                           /* the last failure of the device, or "" */
} mmix_cuda_statistics;

#define mmix_cuda_attach MMIXI_JOIN(mmix_cuda_attach_, MMIX_REAL)
/* From now on m's mixers run on the GPU; options may be NULL. Returns 0; 1 if there is no usable
   GPU and options.quiet is set: then m is not attached, and nothing else has changed; or -1. To be
   detached before mmix_destroy. */
MMIXDEF int mmix_cuda_attach(mmix_ctx *m, const mmix_cuda_options *options);
/* Gives device memory back and the table of ops what it had before. What was recorded meanwhile can
   still be differentiated, on the CPU. An error if an op was overridden in between and still is:
   last come, first gone. */
MMIXDEF void mmix_cuda_detach(mmix_ctx *m);
/* All 0 if m is not attached. */
MMIXDEF void mmix_cuda_stats(const mmix_ctx *m, mmix_cuda_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif

/* ####################################################################################
   The implementation
   #################################################################################### */

#if (defined(__CUDACC__) || defined(MMIX_CUDA_HOST)) && !defined(MMIX_CUDA_API_ONLY) \
    && !defined(MMIX_CUDA_DONE)
#define MMIX_CUDA_DONE

#define MMIXI_CUDA_IS_float 1
#define MMIXI_CUDA_IS_double 0
#if !MMIXI_JOIN(MMIXI_CUDA_IS_, MMIX_REAL)
#error "mamba_mix_cuda.cu is for MMIX_REAL=float"
#endif
#ifndef MMIX_CUDA_HOST                           /* tests/cuda_host.h, where there is no GPU */
#include <cuda_runtime.h>
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <map>
#include <mutex>
#include <set>
#include <utility>

/* ==== >>cuda-device ==================================================================
   number formats, and each PTX instruction in a wrapper of its own

   With MMIX_CUDA_HOST the same kernels are compiled for the CPU, one fiber a thread, and each
   wrapper calls its twin from tests/cuda_host.h.
   ==================================================================================== */

/* Functions of the device, of both sides; kernels of one thread a thing, and of blocks of 4 warps,
   with 255 registers a thread at most; their argument. */
#define MMIXI_CUDA_INLINE static __device__ __forceinline__
#define MMIXI_CUDA_BOTH static __host__ __device__ __forceinline__
#define MMIXI_CUDA_KERNEL static __global__ void
#define MMIXI_CUDA_TILES static __global__ void __launch_bounds__(128, 2)
/* the same with so many teams of 128 threads, or with registers for so many blocks */
#define MMIXI_CUDA_TEAMS(teams) static __global__ void __launch_bounds__(128 * (teams), 2 / (teams))
#define MMIXI_CUDA_BLOCKS(blocks) static __global__ void __launch_bounds__(128, blocks)
#define MMIXI_CUDA_JOB const __grid_constant__

/* The upper half of a float. */
struct mmixi_cuda_bf16 { uint16_t bits; };

MMIXI_CUDA_INLINE float mmixi_cuda_float(float x) { return x; }
MMIXI_CUDA_INLINE float mmixi_cuda_float(mmixi_cuda_bf16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}
/* To bf16, rounded to the nearest, and back, on the host. */
static uint16_t mmixi_cuda_half(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return x != x ? 0x7fc0 : (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}
static float mmixi_cuda_whole(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* Two floats, rounded to the nearest bf16, the first in the lower half. */
MMIXI_CUDA_INLINE uint32_t mmixi_cuda_pack(float low, float high)
{
#ifdef MMIX_CUDA_HOST
    return mmixi_cuda_half(low) | (uint32_t)mmixi_cuda_half(high) << 16;
#else
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
#endif
}
MMIXI_CUDA_INLINE void mmixi_cuda_set(float *to, float x) { *to = x; }
MMIXI_CUDA_INLINE void mmixi_cuda_set(mmixi_cuda_bf16 *to, float x)
{
    to->bits = (uint16_t)mmixi_cuda_pack(x, 0);
}
/* Rounded to the 10 bits of fraction that tf32 has. (A NaN's bits must not be rounded up into a
   number.) */
MMIXI_CUDA_INLINE uint32_t mmixi_cuda_tf32(float x)
{
#ifdef MMIX_CUDA_HOST
    return x != x ? 0x7fffe000u : (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
#else
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
#endif
}
/* c (16, 8) += a (16, 8) b (8, 8); who holds what is said at mmixi_cuda_a */
MMIXI_CUDA_INLINE void mmixi_cuda_mma_tf32(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
#ifdef MMIX_CUDA_HOST
    cuda_host_mma_tf32(c, a, b0, b1);
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
/* c (16, 8) += a (16, 16) b (16, 8) */
MMIXI_CUDA_INLINE void mmixi_cuda_mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
#ifdef MMIX_CUDA_HOST
    cuda_host_mma_bf16(c, a, b0, b1);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* ldmatrix: four (8, 8) tiles of 2-byte numbers. Lane l names row l % 8 of tile l / 8, 16 bytes of
   shared memory, and gets of tile i in r[i] what a fragment wants of it: row l / 4, columns 2 (l %
   4) and the next; of its transpose where TRANSPOSED. */
template <int TRANSPOSED> MMIXI_CUDA_INLINE void mmixi_cuda_ldmatrix(uint32_t *r, const void *row)
{
#ifdef MMIX_CUDA_HOST
    cuda_host_ldmatrix(r, row, TRANSPOSED);
#else
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
#endif
}
/* cp.async: 16 bytes, or 4, of device memory to shared memory, zeros unless `seen`; they are there
   after the wait, for the thread itself, and for the block after the barrier behind it. */
template <int BYTES> MMIXI_CUDA_INLINE void mmixi_cuda_copy(void *to, const void *from, int seen)
{
#ifdef MMIX_CUDA_HOST
    cuda_host_copy(to, from, BYTES, seen);
#else
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(seen ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(seen ? 4 : 0)
                     : "memory");
#endif
}
MMIXI_CUDA_INLINE void mmixi_cuda_wait(void)
{
#ifdef MMIX_CUDA_HOST
    cuda_host_wait();
#else
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
/* 16 bytes of registers to where 16 begin. */
MMIXI_CUDA_INLINE void mmixi_cuda_store(void *to, const uint32_t *r)
{
    const uint4 v = { r[0], r[1], r[2], r[3] };
#ifdef MMIX_CUDA_HOST
    cuda_host_aligned(to, 16, "a store");
#endif
    *(uint4 *)to = v;
}
/* 2^x, 0 for -∞; off by 2⁻²² of it at most. Exponents are kept in base 2, multiplied by log2 e
   where they arise. */
MMIXI_CUDA_INLINE float mmixi_cuda_exp2(float x)
{
#ifdef MMIX_CUDA_HOST
    return exp2f(x);
#else
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#endif
}
#define MMIXI_CUDA_LOG2E 1.44269504088896340736f

/* Before a loop over registers, which have no run-time index. */
#ifdef MMIX_CUDA_HOST
#define MMIXI_CUDA_UNROLL
#define MMIXI_CUDA_ROLLED
#else
#define MMIXI_CUDA_UNROLL _Pragma("unroll")
/* the body is long enough; more of it at once only takes registers */
#define MMIXI_CUDA_ROLLED _Pragma("unroll 1")
#endif

#ifndef MMIX_CUDA_HOST
extern __shared__ uint4 mmixi_cuda_shared[];
#endif
/* What the runtime was asked of each device, and told of each kernel there: once, because these
   calls take about as long as a launch does. Every access holds the lock. */
static struct mmixi_cuda_known {
    std::mutex lock;
    std::map<int, size_t> shared;  /* of a device: bytes of shared memory of a block */
    /* device and kernel: it may use all of them */
    std::set<std::pair<int, const void *> > allowed;
} mmixi_cuda_known;
/* Bytes of shared memory that a block can have on the current device: 227 KB on sm_90, 163 on
   sm_80, 99 on sm_86, sm_89 and sm_120. */
static int mmixi_cuda_most(size_t *most)
{
    int device = 0, bytes = 0;
    *most = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e != cudaSuccess) return (int)e;
    std::lock_guard<std::mutex> hold(mmixi_cuda_known.lock);
    const std::map<int, size_t>::const_iterator found = mmixi_cuda_known.shared.find(device);
    if (found != mmixi_cuda_known.shared.end()) {
        *most = found->second;
        return 0;
    }
    e = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e != cudaSuccess) return (int)e;
    *most = (size_t)bytes;
    mmixi_cuda_known.shared[device] = *most;
    return 0;
}
/* Lets a kernel use more shared memory than the 48 KB that it has unasked: all that a block can
   have, since the same kernel serves calls of other sizes. */
template <class J> static int mmixi_cuda_allow(void (*kernel)(J), size_t shared)
{
    size_t most;
    int device = 0;
    const int error = mmixi_cuda_most(&most);
    if (error) return error;
    if (shared > most) return MMIX_CUDA_UNSUPPORTED;
    cudaError_t e = cudaGetDevice(&device);
    if (e != cudaSuccess) return (int)e;
    const std::pair<int, const void *> key(device, (const void *)kernel);
    std::lock_guard<std::mutex> hold(mmixi_cuda_known.lock);
    if (mmixi_cuda_known.allowed.count(key)) return 0;
    e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most);
    if (e == cudaSuccess) mmixi_cuda_known.allowed.insert(key);
    return (int)e;
}
/* Queues `threads` threads a block; `kernel` takes a job by value and uses `shared` bytes of
   mmixi_cuda_shared. */
template <class J>
static int mmixi_cuda_launch(void (*kernel)(J), size_t blocks, unsigned threads, size_t shared,
                             void *stream, const J &job)
{
    J copy = job;
    void *arguments[1];
    arguments[0] = &copy;
    if (!blocks) return 0;
    if (blocks > 0x7fffffff) return MMIX_CUDA_UNSUPPORTED;
    if (shared > 48 * 1024) {
        const int error = mmixi_cuda_allow(kernel, shared);
        if (error) return error;
    }
    return (int)cudaLaunchKernel(kernel, dim3((unsigned)blocks), dim3(threads), arguments, shared,
                                 (cudaStream_t)stream);
}
/* One thread for each of n things. */
template <class J> static int mmixi_cuda_each(void (*kernel)(J), size_t n, void *stream,
                                              const J &job)
{
    return mmixi_cuda_launch(kernel, (n + 127) / 128, 128, 0, stream, job);
}
MMIXI_CUDA_INLINE size_t mmixi_cuda_thread(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}
static inline size_t mmixi_cuda_round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
template <class T> MMIXI_CUDA_BOTH T mmixi_cuda_min(T a, T b) { return a < b ? a : b; }
template <class T> MMIXI_CUDA_BOTH T mmixi_cuda_max(T a, T b) { return a > b ? a : b; }

/* The next part of a workspace; with base NULL only counted. */
static inline float *mmixi_cuda_part(char *base, size_t *at, size_t floats)
{
    float *p = base ? (float *)(base + *at) : NULL;
    *at += mmixi_cuda_round_up(floats * sizeof(float), 256);
    return p;
}

/* ==== >>cuda-arrays ==================================================================
   heads, sequences, sums over heads
   ==================================================================================== */

MMIXDEF const char *mmix_cuda_error_text(int error)
{
    if (error == MMIX_CUDA_UNSUPPORTED) return "no kernel for these sizes";
    return cudaGetErrorString((cudaError_t)error);
}
MMIXDEF mmix_cuda_head_view mmix_cuda_head_view_rows(void *p, size_t L, size_t heads, size_t width,
                                                     size_t H)
{
    mmix_cuda_head_view v;
    v.p = p;
    v.token = (ptrdiff_t)(heads * width);
    v.batch = (ptrdiff_t)L * v.token;
    v.head = (ptrdiff_t)width;
    v.share = H / heads;
    return v;
}
/* The first number of token t of head h. */
template <class T>
MMIXI_CUDA_INLINE T *mmixi_cuda_at(const mmix_cuda_head_view &v, size_t b, size_t t, size_t h)
{
    return (T *)v.p + (ptrdiff_t)b * v.batch + (ptrdiff_t)t * v.token
        + (ptrdiff_t)((unsigned)h / (unsigned)v.share) * v.head;
}
static void mmixi_cuda_reverse(mmix_cuda_head_view *v, size_t L, size_t bytes)
{
    if (v->p) v->p = (char *)v->p + (ptrdiff_t)(L - 1) * v->token * (ptrdiff_t)bytes;
    v->token = -v->token;
}

/* Where heads that share an array's head each have a gradient for it: first all of them, (B, L, H,
   width), then their sum in the order of heads. A thread has EACH neighbouring numbers: 16 bytes
   where rows of both begin on 16, or one. */
struct mmixi_cuda_sum {
    const void *part;
    mmix_cuda_head_view to;
    size_t B, L, H, width;
};
template <class T, int EACH> struct alignas(EACH * sizeof(T)) mmixi_cuda_few { T v[EACH]; };
template <class T, int EACH> MMIXI_CUDA_KERNEL mmixi_cuda_sum_heads(MMIXI_CUDA_JOB mmixi_cuda_sum j)
{
    typedef mmixi_cuda_few<T, EACH> few;
    const size_t groups = j.H / j.to.share;
    const size_t columns = j.width / EACH;
    const size_t i = mmixi_cuda_thread();
    const size_t column = i % columns * EACH;
    const size_t g = i / columns % groups;
    const size_t t = i / columns / groups % j.L;
    const size_t b = i / columns / groups / j.L;
    if (b >= j.B) return;
    const size_t first = (b * j.L + t) * j.H + g * j.to.share;
    const T *from = (const T *)j.part + first * j.width + column;
    float sum[EACH] = { 0 };
    for (size_t h = 0; h < j.to.share; h++) {
        const few x = *(const few *)from;
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < EACH; e++) sum[e] += mmixi_cuda_float(x.v[e]);
        from += j.width;
    }
    few y;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < EACH; e++) mmixi_cuda_set(&y.v[e], sum[e]);
    *(few *)(mmixi_cuda_at<T>(j.to, b, t, g * j.to.share) + column) = y;
}
/* Whether all of an array's rows begin on 16 bytes, and are of so many. */
template <class T> MMIXI_CUDA_BOTH int mmixi_cuda_aligned(const mmix_cuda_head_view &v,
                                                          size_t width)
{
    const size_t steps = (size_t)v.batch | (size_t)v.token | (size_t)v.head | width;
    return !(((uintptr_t)v.p | steps * sizeof(T)) & 15);
}
template <class T>
static int mmixi_cuda_sum_run(const void *part, const mmix_cuda_head_view &to, size_t B, size_t L,
                              size_t H, size_t width, void *stream)
{
    enum { EACH = 16 / sizeof(T) };
    if (!part || !to.p) return 0;
    mmixi_cuda_sum j;
    j.part = part;
    j.to = to;
    j.B = B;
    j.L = L;
    j.H = H;
    j.width = width;
    const size_t numbers = B * L * (H / to.share) * width;
    if (mmixi_cuda_aligned<T>(to, width))
        return mmixi_cuda_each(mmixi_cuda_sum_heads<T, EACH>, numbers / EACH, stream, j);
    return mmixi_cuda_each(mmixi_cuda_sum_heads<T, 1>, numbers, stream, j);
}
/* Where a gradient goes: the array, or its part where heads share it. */
struct mmixi_cuda_place {
    mmix_cuda_head_view to;
    void *part;
};
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_put(const mmixi_cuda_place &d, size_t L, size_t H, size_t width,
                                      size_t b, size_t t, size_t h, size_t w, float x)
{
    if (d.part) mmixi_cuda_set((T *)d.part + ((b * L + t) * H + h) * width + w, x);
    else if (d.to.p) mmixi_cuda_set(mmixi_cuda_at<T>(d.to, b, t, h) + w, x);
}

/* Of each token the first one of its run of equal seq_idx, and the end: (B, L, 2). A block has a
   sequence, a thread a stretch of it, walked once to the end, with where a run begins, and back,
   with where it ends. */
struct mmixi_cuda_runs {
    const int32_t *seq_idx;
    ptrdiff_t seq_batch;
    size_t L;
    int32_t *runs;
};
MMIXI_CUDA_INLINE int mmixi_cuda_run_begins(const int32_t *seq, int t)
{
    return t == 0 || seq[t] != seq[t - 1];
}
MMIXI_CUDA_TILES mmixi_cuda_find_runs(MMIXI_CUDA_JOB mmixi_cuda_runs j)
{
    const int L = (int)j.L;
    const int tid = (int)threadIdx.x;
    const int stretch = (L + 127) / 128;
    const int from = mmixi_cuda_min(tid * stretch, L);
    const int to = mmixi_cuda_min(from + stretch, L);
    const int32_t *seq = j.seq_idx + (ptrdiff_t)blockIdx.x * j.seq_batch;
    int32_t *runs = j.runs + 2 * j.L * blockIdx.x;
    int *first = (int *)mmixi_cuda_shared;  /* the first run that begins in each stretch, or L */
    int *last = first + 128;                     /* the last one, or 0 */
    int low = 0;
    int high = L;
    first[tid] = L;
    last[tid] = 0;
    for (int t = from; t < to; t++) {
        if (!mmixi_cuda_run_begins(seq, t)) continue;
        first[tid] = mmixi_cuda_min(first[tid], t);
        last[tid] = t;
    }
    __syncthreads();
    for (int i = 0; i < tid; i++) low = mmixi_cuda_max(low, last[i]);
    for (int i = tid + 1; i < 128; i++) high = mmixi_cuda_min(high, first[i]);
    for (int t = from; t < to; t++) {
        if (mmixi_cuda_run_begins(seq, t)) low = t;
        runs[2 * t] = low;
    }
    for (int t = to - 1; t >= from; t--) {
        runs[2 * t + 1] = high;
        if (mmixi_cuda_run_begins(seq, t)) high = t;
    }
}
static int mmixi_cuda_runs_run(const int32_t *seq_idx, ptrdiff_t seq_batch, size_t B, size_t L,
                               int32_t *runs, void *stream)
{
    mmixi_cuda_runs j;
    if (!seq_idx) return 0;
    j.seq_idx = seq_idx;
    j.seq_batch = seq_batch;
    j.L = L;
    j.runs = runs;
    return mmixi_cuda_launch(mmixi_cuda_find_runs, B, 128, 2 * 128 * sizeof(int), stream, j);
}

/* ==== >>cuda-naive-ssd ===============================================================
   h_t = e^(a_t) h_{t-1} + δ_t x_t B_tᵀ,   y_t = h_t C_t + D x_t

   One thread a sequence and head, one loop over time: what the fast kernels must equal. Backward,
   with dh the gradient of h_t, from the last token to the first:
       dh += dy_t C_tᵀ;   dC_t = dy_t h_t;   dB_t = δ_t x_t dh;   dx_t = δ_t dh B_t + D dy_t
       da_t = e^(a_t) dh · h_{t-1};   dδ_t = dh · x_t B_tᵀ + A da_t;   dh ← e^(a_t) dh
   ==================================================================================== */

struct mmixi_cuda_ssd_job {
    mmix_cuda_ssd r;  /* arrays begin at the scan's first token, whichever end */
    ptrdiff_t seq_token;                         /* 1 or -1 */
    mmixi_cuda_place dx, db, dc;
    float *dhead;  /* (B, H, 2 + D_width): dA, dbias, dD of each sequence */
    float *state, *all;  /* naive: (B, H, P, N); of all tokens (B, H, L, P, N) */
    /* What follows is for tiles, see >>cuda-ssd. A sequence has `chunks` of 64 tokens. It is cut
       into `segments` pieces of `run` chunks each. */
    size_t chunks, segments, run;
    size_t heads;  /* that a block of the forward takes one after another */
    /* N, and the columns of P that a block takes, both rounded up to 16; `splits` blocks take all
       columns. */
    int n, p, splits;
    float *begin, *end;  /* (B, H, segments, N, P): h before a piece; dh after it */
    float *sums;  /* (B, H, segments): sum of a over a piece, in base 2 */
    void *states;  /* (B, H, chunks, N, P): h before each chunk, for products */
};

/* δ of a token, what it came from, and a: -∞ where a packed sequence begins, which nothing decays
   into. */
struct mmixi_cuda_token { float u, delta, a; };
template <class T>
MMIXI_CUDA_INLINE mmixi_cuda_token mmixi_cuda_ssd_token(const mmixi_cuda_ssd_job &j, size_t b,
                                                        size_t t, size_t h)
{
    mmixi_cuda_token k;
    const float bias = j.r.dt_bias ? j.r.dt_bias[h] : 0;
    k.u = mmixi_cuda_float(*mmixi_cuda_at<T>(j.r.dt, b, t, h)) + bias;
    k.delta = !j.r.dt_softplus || k.u > 20 ? k.u : log1pf(expf(k.u));
    if (j.r.dt_high > 0) {
        if (k.delta < (float)j.r.dt_low) k.delta = (float)j.r.dt_low;
        if (k.delta > (float)j.r.dt_high) k.delta = (float)j.r.dt_high;
    }
    k.a = k.delta * j.r.A[h];
    if (j.r.seq_idx && t) {
        const int32_t *seq = j.r.seq_idx + (ptrdiff_t)b * j.r.seq_batch;
        seq += (ptrdiff_t)t * j.seq_token;
        if (seq[0] != seq[-j.seq_token]) k.a = -INFINITY;
    }
    return k;
}
/* ∂/∂dt from dδ: nothing where the clamp holds δ, and softplus' slope is a sigmoid. */
MMIXI_CUDA_INLINE float mmixi_cuda_ssd_ddt(const mmix_cuda_ssd &r, const mmixi_cuda_token &k,
                                           float d)
{
    const int inside = k.delta > (float)r.dt_low && k.delta < (float)r.dt_high;
    if (r.dt_high > 0 && !inside) return 0;
    return r.dt_softplus ? d / (1 + expf(-k.u)) : d;
}
/* D x of channel p, or D dy; 0 without a D, for any x. */
MMIXI_CUDA_INLINE float mmixi_cuda_ssd_skip(const mmix_cuda_ssd &r, size_t h, size_t p, float x)
{
    if (!r.D) return 0;
    if (r.D_width > 1) return r.D[h * r.D_width + p] * x;
    return r.D[h] * x;
}

/* Copies n numbers; of no array they are 0. */
MMIXI_CUDA_INLINE void mmixi_cuda_floats(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = from ? from[i] : 0;
}
/* Head i of all sequences has its state (P, N) at i P N, if there is an array of states. */
MMIXI_CUDA_INLINE const float *mmixi_cuda_ssd_state_of(const float *states, size_t i, size_t size)
{
    return states ? states + i * size : NULL;
}

/* h ← e^a h + δ x Bᵀ and y = h C + D x of one token. */
template <class T>
static __device__ void mmixi_cuda_ssd_naive_token(const mmixi_cuda_ssd_job &j, size_t b, size_t t,
                                                  size_t h, float *state)
{
    const mmixi_cuda_token k = mmixi_cuda_ssd_token<T>(j, b, t, h);
    const T *x = mmixi_cuda_at<T>(j.r.x, b, t, h);
    const T *B = mmixi_cuda_at<T>(j.r.b, b, t, h);
    const T *C = mmixi_cuda_at<T>(j.r.c, b, t, h);
    const float decay = expf(k.a);
    for (size_t p = 0; p < j.r.P; p++) {
        float *row = state + p * j.r.N;
        const float xp = mmixi_cuda_float(x[p]);
        float y = 0;
        for (size_t n = 0; n < j.r.N; n++) {
            row[n] = decay * row[n] + k.delta * xp * mmixi_cuda_float(B[n]);
            y += row[n] * mmixi_cuda_float(C[n]);
        }
        y += mmixi_cuda_ssd_skip(j.r, h, p, xp);
        if (j.r.y.p) mmixi_cuda_set(mmixi_cuda_at<T>(j.r.y, b, t, h) + p, y);
    }
}
template <class T> MMIXI_CUDA_KERNEL mmixi_cuda_ssd_naive(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    const size_t i = mmixi_cuda_thread();
    const size_t b = i / j.r.H;
    const size_t h = i % j.r.H;
    const size_t size = j.r.P * j.r.N;
    if (b >= j.r.B) return;
    float *state = j.state + i * size;
    mmixi_cuda_floats(state, mmixi_cuda_ssd_state_of(j.r.initial_state, i, size), size);
    for (size_t t = 0; t < j.r.L; t++) {
        mmixi_cuda_ssd_naive_token<T>(j, b, t, h, state);
        if (j.all) mmixi_cuda_floats(j.all + (i * j.r.L + t) * size, state, size);
    }
    if (j.r.final_state) mmixi_cuda_floats(j.r.final_state + i * size, state, size);
}

/* dh += dy Cᵀ, dC = dy h and dB = δ x dh of one token; returns what B adds to dδ. */
template <class T>
static __device__ float mmixi_cuda_ssd_naive_dbc(const mmixi_cuda_ssd_job &j, size_t b, size_t t,
                                                 size_t h, const mmixi_cuda_token &k, float *dh,
                                                 const float *now)
{
    const size_t L = j.r.L;
    const size_t H = j.r.H;
    const size_t N = j.r.N;
    const T *x = mmixi_cuda_at<T>(j.r.x, b, t, h);
    const T *B = mmixi_cuda_at<T>(j.r.b, b, t, h);
    const T *C = mmixi_cuda_at<T>(j.r.c, b, t, h);
    const T *dy = mmixi_cuda_at<T>(j.r.dy, b, t, h);
    float ddelta = 0;
    for (size_t n = 0; n < N; n++) {
        float dB = 0;
        float dC = 0;
        for (size_t p = 0; p < j.r.P; p++) {
            const float up = mmixi_cuda_float(dy[p]);
            dh[p * N + n] += up * mmixi_cuda_float(C[n]);
            dC += up * now[p * N + n];
            dB += mmixi_cuda_float(x[p]) * dh[p * N + n];
        }
        mmixi_cuda_put<T>(j.dc, L, H, N, b, t, h, n, dC);
        mmixi_cuda_put<T>(j.db, L, H, N, b, t, h, n, k.delta * dB);
        ddelta += mmixi_cuda_float(B[n]) * dB;
    }
    return ddelta;
}
/* dx = δ dh B + D dy, dD += dy x and dh ← e^a dh of one token; returns dh · h_{t-1}. */
template <class T>
static __device__ float mmixi_cuda_ssd_naive_dx(const mmixi_cuda_ssd_job &j, size_t b, size_t t,
                                                size_t h, const mmixi_cuda_token &k, float *dh,
                                                const float *before, float *dD)
{
    const size_t N = j.r.N;
    const size_t P = j.r.P;
    const T *x = mmixi_cuda_at<T>(j.r.x, b, t, h);
    const T *B = mmixi_cuda_at<T>(j.r.b, b, t, h);
    const T *dy = mmixi_cuda_at<T>(j.r.dy, b, t, h);
    const float decay = expf(k.a);
    float da = 0;
    for (size_t p = 0; p < P; p++) {
        const float up = mmixi_cuda_float(dy[p]);
        float dx = 0;
        for (size_t n = 0; n < N; n++) {
            dx += dh[p * N + n] * mmixi_cuda_float(B[n]);
            if (before) da += dh[p * N + n] * before[p * N + n];
            dh[p * N + n] *= decay;
        }
        dx = k.delta * dx + mmixi_cuda_ssd_skip(j.r, h, p, up);
        mmixi_cuda_put<T>(j.dx, j.r.L, j.r.H, P, b, t, h, p, dx);
        dD[j.r.D_width > 1 ? p : 0] += up * mmixi_cuda_float(x[p]);
    }
    return da;
}
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_ssd_naive_backward(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    const size_t i = mmixi_cuda_thread();
    const size_t b = i / j.r.H;
    const size_t h = i % j.r.H;
    const size_t size = j.r.P * j.r.N;
    if (b >= j.r.B) return;
    float *dh = j.state + i * size;
    float *dhead = j.dhead + i * (2 + j.r.D_width);
    mmixi_cuda_floats(dhead, NULL, 2 + j.r.D_width);
    mmixi_cuda_floats(dh, mmixi_cuda_ssd_state_of(j.r.dfinal, i, size), size);
    for (size_t t = j.r.L; t-- > 0;) {
        const mmixi_cuda_token k = mmixi_cuda_ssd_token<T>(j, b, t, h);
        const float *now = j.all + (i * j.r.L + t) * size;
        const float *before = now - size;
        if (!t) before = mmixi_cuda_ssd_state_of(j.r.initial_state, i, size);
        float ddelta = mmixi_cuda_ssd_naive_dbc<T>(j, b, t, h, k, dh, now);
        float da = mmixi_cuda_ssd_naive_dx<T>(j, b, t, h, k, dh, before, dhead + 2);
        da *= expf(k.a);
        dhead[0] += k.delta * da;
        ddelta = mmixi_cuda_ssd_ddt(j.r, k, ddelta + j.r.A[h] * da);
        dhead[1] += ddelta;
        if (j.r.ddt.p) mmixi_cuda_set(mmixi_cuda_at<T>(j.r.ddt, b, t, h), ddelta);
    }
    if (j.r.dinitial) mmixi_cuda_floats(j.r.dinitial + i * size, dh, size);
}
/* dA, dbias and dD: sums over the sequences, in their order. */
MMIXI_CUDA_KERNEL mmixi_cuda_ssd_sum_sequences(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    const size_t i = mmixi_cuda_thread();
    const size_t W = 2 + j.r.D_width;
    const size_t h = i / W;
    const size_t e = i % W;
    float sum = 0;
    if (h >= j.r.H) return;
    for (size_t b = 0; b < j.r.B; b++) {
        const float *piece = j.dhead + (b * j.r.H + h) * j.segments * W;
        for (size_t k = 0; k < j.segments; k++) sum += piece[k * W + e];
    }
    if (e == 0 && j.r.dA) j.r.dA[h] = sum;
    if (e == 1 && j.r.ddt_bias) j.r.ddt_bias[h] = sum;
    if (e > 1 && j.r.dD) j.r.dD[h * j.r.D_width + e - 2] = sum;
}

/* ==== >>cuda-naive-attention =========================================================
   y_i = Σ_j p_ij v_j,   p_i = softmax over the allowed j of s_ij = scale · q_i·k_j + bias

   One thread a query, one loop over the keys. Backward, with δ_i = dy_i · y_i:
       dv_j = Σ_i p_ij dy_i,   ds_ij = p_ij (dy_i · v_j - δ_i),   dq_i = scale Σ_j ds_ij k_j,
       dk_j = scale Σ_i ds_ij q_i,   dbias = the sum of ds_ij over all pairs of that distance
   ==================================================================================== */

struct mmixi_cuda_attention_job {
    mmix_cuda_attention r;
    float scale, scale2;                         /* of products; in base 2: times log2 e */
    int32_t *runs;                               /* (B, L, 2) with seq_idx */
    float *delta;                                /* (B, H, L): δ, for the tiles' backward */
    unsigned windows[3], window_count;           /* on each axis; 0: no windows */
    unsigned most;                               /* tokens of the largest window; 0: no windows */
    size_t distances;                            /* that bias has numbers for */
    unsigned pieces;                             /* of the batch's windows, for the tiles' dbias */
    mmixi_cuda_place dbias;  /* (1, 1, H · tiles of queries · pieces, distances) */
    int n, p, stages;  /* widths rounded up to 16; stages of tiles that move */
};

/* The window that a coordinate lies in, on an axis whose second window begins at `shift` (0: at
   `window`). */
MMIXI_CUDA_BOTH size_t mmixi_cuda_window_of(size_t at, size_t window, size_t shift)
{
    return shift ? (at + window - shift) / window : at / window;
}
/* Query i of sequence b sees the keys low … high - 1, and of them those in its window. */
static __device__ void mmixi_cuda_span(const mmixi_cuda_attention_job &j, size_t b, size_t i,
                                       size_t *low, size_t *high)
{
    const mmix_cuda_attention &r = j.r;
    const size_t at = i + r.S - r.L;
    *low = 0;
    *high = r.S;
    if (r.mask == MMIX_MASK_CAUSAL || r.mask == MMIX_MASK_PREFIX) *high = at + 1;
    if (r.mask == MMIX_MASK_PREFIX && at < r.prefix) *high = mmixi_cuda_min(r.prefix, r.S);
    if (r.mask == MMIX_MASK_BAND) {
        const size_t left = r.lefts ? (size_t)r.lefts[i] : r.left;
        *low = at - mmixi_cuda_min(at, left);
        *high = at + 1 + mmixi_cuda_min(r.S - at - 1, r.right);
    }
    if (j.runs) {
        const int32_t *run = j.runs + 2 * (b * r.L + i);
        *low = mmixi_cuda_max(*low, (size_t)run[0]);
        *high = mmixi_cuda_min(*high, (size_t)run[1]);
    }
}
/* Whether query i and key t lie in one window, and their distance as bias counts it. */
static __device__ int mmixi_cuda_near(const mmix_cuda_attention &r, size_t i, size_t t,
                                      size_t *distance)
{
    size_t across = 1;  /* tokens from one coordinate of axis a to the next */
    size_t apart = 1;                            /* and distances */
    int near = 1;
    *distance = 0;
    if (!r.window[0]) return 1;
    for (int a = 2; a >= 0; a--) {
        const size_t window = r.window[a];
        const size_t of_i = i / across % r.grid[a];
        const size_t of_t = t / across % r.grid[a];
        const size_t window_i = mmixi_cuda_window_of(of_i, window, r.shift[a]);
        near &= window_i == mmixi_cuda_window_of(of_t, window, r.shift[a]);
        *distance += (of_i + window - 1 - of_t) * apart;
        across *= r.grid[a];
        apart *= 2 * window - 1;
    }
    return near;
}
template <class T> static __device__ float mmixi_cuda_dot(size_t n, const T *a, const T *b)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += mmixi_cuda_float(a[i]) * mmixi_cuda_float(b[i]);
    return sum;
}
/* The score of query i and key t in base 2, -∞ where the query does not see the key. */
template <class T>
static __device__ float mmixi_cuda_score(const mmixi_cuda_attention_job &j, size_t b, size_t h,
                                         size_t i, size_t t)
{
    const T *q = mmixi_cuda_at<T>(j.r.q, b, i, h);
    const T *k = mmixi_cuda_at<T>(j.r.k, b, t, h);
    size_t low, high, distance;
    mmixi_cuda_span(j, b, i, &low, &high);
    const int near = mmixi_cuda_near(j.r, i, t, &distance);
    if (!near || t < low || t >= high) return -INFINITY;
    const float bias = j.r.bias ? MMIXI_CUDA_LOG2E * j.r.bias[h * j.distances + distance] : 0;
    return j.scale2 * mmixi_cuda_dot(j.r.N, q, k) + bias;
}
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_attention_naive(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    const size_t at = mmixi_cuda_thread();
    const size_t i = at % j.r.L;
    const size_t h = at / j.r.L % j.r.H;
    const size_t b = at / j.r.L / j.r.H;
    float top = -INFINITY;
    float sum = 0;
    if (b >= j.r.B) return;
    for (size_t t = 0; t < j.r.S; t++) top = fmaxf(top, mmixi_cuda_score<T>(j, b, h, i, t));
    for (size_t t = 0; t < j.r.S; t++) sum += exp2f(mmixi_cuda_score<T>(j, b, h, i, t) - top);
    for (size_t p = 0; p < j.r.P; p++) {
        float y = 0;
        for (size_t t = 0; t < j.r.S; t++) {
            const T *v = mmixi_cuda_at<T>(j.r.v, b, t, h);
            y += exp2f(mmixi_cuda_score<T>(j, b, h, i, t) - top) * mmixi_cuda_float(v[p]);
        }
        mmixi_cuda_set(mmixi_cuda_at<T>(j.r.y, b, i, h) + p, y / sum);
    }
    if (j.r.top) j.r.top[at] = top;
    if (j.r.over) j.r.over[at] = 1 / sum;
}
/* Returns ds_ij and gives p_ij in `weight`. */
template <class T>
static __device__ float mmixi_cuda_dscore(const mmixi_cuda_attention_job &j, size_t b, size_t h,
                                          size_t i, size_t t, float *weight)
{
    const size_t at = (b * j.r.H + h) * j.r.L + i;
    const T *dy = mmixi_cuda_at<T>(j.r.dy, b, i, h);
    const T *y = mmixi_cuda_at<T>(j.r.y, b, i, h);
    const T *v = mmixi_cuda_at<T>(j.r.v, b, t, h);
    *weight = exp2f(mmixi_cuda_score<T>(j, b, h, i, t) - j.r.top[at]) * j.r.over[at];
    return *weight * (mmixi_cuda_dot(j.r.P, dy, v) - mmixi_cuda_dot(j.r.P, dy, y));
}
/* dq of one query and channel. */
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_attention_naive_dq(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    const size_t n = mmixi_cuda_thread() % j.r.N;
    const size_t at = mmixi_cuda_thread() / j.r.N;
    const size_t i = at % j.r.L;
    const size_t h = at / j.r.L % j.r.H;
    const size_t b = at / j.r.L / j.r.H;
    float dq = 0;
    float weight;
    if (b >= j.r.B) return;
    for (size_t t = 0; t < j.r.S; t++) {
        const T *k = mmixi_cuda_at<T>(j.r.k, b, t, h);
        dq += mmixi_cuda_dscore<T>(j, b, h, i, t, &weight) * mmixi_cuda_float(k[n]);
    }
    mmixi_cuda_set(mmixi_cuda_at<T>(j.r.dq, b, i, h) + n, j.scale * dq);
}
/* dk and dv of one key and channel, over the queries of all heads that share it. */
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_attention_naive_dkv(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    const size_t share = j.r.k.share;
    const size_t groups = j.r.H / share;
    const size_t width = mmixi_cuda_max(j.r.N, j.r.P);
    const size_t channel = mmixi_cuda_thread() % width;
    const size_t at = mmixi_cuda_thread() / width;
    const size_t t = at % j.r.S;
    const size_t first = at / j.r.S % groups * share;        /* the group's first head */
    const size_t b = at / j.r.S / groups;
    const int in_k = channel < j.r.N;
    const int in_v = channel < j.r.P;
    float dk = 0;
    float dv = 0;
    float weight;
    if (b >= j.r.B) return;
    for (size_t h = first; h < first + share; h++)
        for (size_t i = 0; i < j.r.L; i++) {
            const T *q = mmixi_cuda_at<T>(j.r.q, b, i, h);
            const T *dy = mmixi_cuda_at<T>(j.r.dy, b, i, h);
            const float ds = mmixi_cuda_dscore<T>(j, b, h, i, t, &weight);
            if (in_k) dk += ds * mmixi_cuda_float(q[channel]);
            if (in_v) dv += weight * mmixi_cuda_float(dy[channel]);
        }
    if (in_k && j.r.dk.p) mmixi_cuda_set(mmixi_cuda_at<T>(j.r.dk, b, t, first) + channel, j.scale * dk);
    if (in_v && j.r.dv.p) mmixi_cuda_set(mmixi_cuda_at<T>(j.r.dv, b, t, first) + channel, dv);
}
/* The key that lies at this distance from query i: its token, or -1 where the grid has none. */
static __device__ ptrdiff_t mmixi_cuda_key_at(const mmix_cuda_attention &r, size_t i,
                                              size_t distance)
{
    size_t key = 0;
    size_t across = 1;
    int inside = 1;
    for (int a = 2; a >= 0; a--) {
        const size_t span = 2 * r.window[a] - 1;
        const size_t apart = distance % span;
        const size_t from = i / across % r.grid[a] + r.window[a] - 1;
        inside &= from >= apart && from - apart < r.grid[a];
        key += (from - apart) * across;
        across *= r.grid[a];
        distance /= span;
    }
    return inside ? (ptrdiff_t)key : -1;
}
/* A distance's bias: each query meets it at one key at most. */
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_attention_naive_dbias(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    const size_t at = mmixi_cuda_thread();
    const size_t h = at / j.distances;
    float sum = 0;
    float weight;
    if (h >= j.r.H) return;
    for (size_t i = 0; i < j.r.L; i++) {
        const ptrdiff_t key = mmixi_cuda_key_at(j.r, i, at % j.distances);
        for (size_t b = 0; key >= 0 && b < j.r.B; b++)
            sum += mmixi_cuda_dscore<T>(j, b, h, i, (size_t)key, &weight);
    }
    j.r.dbias[at] = sum;
}

/* ==== >>cuda-products ================================================================
   16 x 64 strips of small matrix products on the tensor cores

   A block has 4 warps. A warp makes a strip c (16, 64) = a (16, depth) b (depth, 64) of a product,
   16 columns of a and 16 rows of b at a time, in one mma.sync of bf16 or two of tf32 for each 8
   columns of c. Lane l, with g = l / 4 and t = 2 (l % 4), holds

       of a (16, 16): rows g and g + 8, columns t, t + 1, t + 8, t + 9
       of b (16, 8): rows t, t + 1, t + 8, t + 9, column g
       of c (16, 8): rows g and g + 8, columns t, t + 1

   That is mma.m16n8k16's own order. m16n8k8 of tf32 wants columns l % 4 and l % 4 + 4: given t and
   t + 1, in a and in b alike, it adds the same products in another order. So in every format two
   neighbouring columns of one row are one load, and two results c are the a of the next product, as
   they lie in registers.
   ==================================================================================== */

enum { MMIXI_CUDA_THREADS = 128, MMIXI_CUDA_TILE = 64, MMIXI_CUDA_STRIP = 8 };

template <int K> struct mmixi_cuda_format { typedef float type; };
template <> struct mmixi_cuda_format<MMIX_CUDA_BF16> { typedef mmixi_cuda_bf16 type; };

/* Words of a and b; F32 splits a number into the tf32 nearest to it and the tf32 nearest to the
   rest. */
template <int K> struct mmixi_cuda_a { uint32_t r[8]; };
template <int K> struct mmixi_cuda_b { uint32_t r[4]; };
template <> struct mmixi_cuda_a<MMIX_CUDA_F32> { uint32_t r[8], rest[8]; };
template <> struct mmixi_cuda_b<MMIX_CUDA_F32> { uint32_t r[4], rest[4]; };
template <> struct mmixi_cuda_a<MMIX_CUDA_BF16> { uint32_t r[4]; };
template <> struct mmixi_cuda_b<MMIX_CUDA_BF16> { uint32_t r[2]; };

/* Two neighbouring numbers into place e of a fragment: (g, t), (g + 8, t), (g, t + 8), (g + 8, t +
   8) of a; (t, g), (t + 8, g) of b. `step` is how far apart the two words of a tf32 fragment
   lie. */
MMIXI_CUDA_INLINE void mmixi_cuda_fill(uint32_t *r, int at, int step, float x, float y)
{
    r[at] = mmixi_cuda_tf32(x);
    r[at + step] = mmixi_cuda_tf32(y);
}
/* The float that a product takes for a tf32: PTX leaves open what cvt writes into the lower 13
   bits, and mma.sync does not read them. */
MMIXI_CUDA_INLINE float mmixi_cuda_tf32_value(uint32_t word)
{
    return __uint_as_float(word & 0xffffe000u);
}
MMIXI_CUDA_INLINE void mmixi_cuda_fill_rest(const uint32_t *r, uint32_t *rest, int at, int step,
                                            float x, float y)
{
    rest[at] = mmixi_cuda_tf32(x - mmixi_cuda_tf32_value(r[at]));
    rest[at + step] = mmixi_cuda_tf32(y - mmixi_cuda_tf32_value(r[at + step]));
}
MMIXI_CUDA_INLINE void mmixi_cuda_set_pair(mmixi_cuda_a<MMIX_CUDA_TF32> &a, int e, float x, float y)
{
    mmixi_cuda_fill(a.r, e / 2 * 4 + e % 2, 2, x, y);
}
MMIXI_CUDA_INLINE void mmixi_cuda_set_pair(mmixi_cuda_a<MMIX_CUDA_F32> &a, int e, float x, float y)
{
    mmixi_cuda_fill(a.r, e / 2 * 4 + e % 2, 2, x, y);
    mmixi_cuda_fill_rest(a.r, a.rest, e / 2 * 4 + e % 2, 2, x, y);
}
MMIXI_CUDA_INLINE void mmixi_cuda_set_pair(mmixi_cuda_a<MMIX_CUDA_BF16> &a, int e, float x, float y)
{
    a.r[e] = mmixi_cuda_pack(x, y);
}
MMIXI_CUDA_INLINE void mmixi_cuda_put_b(mmixi_cuda_b<MMIX_CUDA_TF32> &b, int e, float x, float y)
{
    mmixi_cuda_fill(b.r, 2 * e, 1, x, y);
}
MMIXI_CUDA_INLINE void mmixi_cuda_put_b(mmixi_cuda_b<MMIX_CUDA_F32> &b, int e, float x, float y)
{
    mmixi_cuda_fill(b.r, 2 * e, 1, x, y);
    mmixi_cuda_fill_rest(b.r, b.rest, 2 * e, 1, x, y);
}
/* c (16, 8) += a (16, 16) b (16, 8) */
MMIXI_CUDA_INLINE void mmixi_cuda_mma(float *c, const mmixi_cuda_a<MMIX_CUDA_TF32> &a,
                                      const mmixi_cuda_b<MMIX_CUDA_TF32> &b)
{
    mmixi_cuda_mma_tf32(c, a.r, b.r[0], b.r[1]);
    mmixi_cuda_mma_tf32(c, a.r + 4, b.r[2], b.r[3]);
}
MMIXI_CUDA_INLINE void mmixi_cuda_mma(float *c, const mmixi_cuda_a<MMIX_CUDA_F32> &a,
                                      const mmixi_cuda_b<MMIX_CUDA_F32> &b)
{
    /* Tensor cores cut where a float addition rounds, so a long sum left to them drifts: each 16
       columns begin at 0 and are added as floats. Rest times rest is left out, 2⁻²² of the product
       at most. The rest of an infinite number is none: ∞ - ∞. */
    float large[4] = { 0, 0, 0, 0 }, small[4] = { 0, 0, 0, 0 };
    mmixi_cuda_mma_tf32(small, a.rest, b.r[0], b.r[1]);
    mmixi_cuda_mma_tf32(small, a.r, b.rest[0], b.rest[1]);
    mmixi_cuda_mma_tf32(small, a.rest + 4, b.r[2], b.r[3]);
    mmixi_cuda_mma_tf32(small, a.r + 4, b.rest[2], b.rest[3]);
    mmixi_cuda_mma_tf32(large, a.r, b.r[0], b.r[1]);
    mmixi_cuda_mma_tf32(large, a.r + 4, b.r[2], b.r[3]);
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 4; e++) {
        const float sum = fabsf(large[e]) < INFINITY ? large[e] + small[e] : large[e];
        c[e] += sum;
    }
}
MMIXI_CUDA_INLINE void mmixi_cuda_mma(float *c, const mmixi_cuda_a<MMIX_CUDA_BF16> &a,
                                      const mmixi_cuda_b<MMIX_CUDA_BF16> &b)
{
    mmixi_cuda_mma_bf16(c, a.r, b.r[0], b.r[1]);
}

MMIXI_CUDA_INLINE int mmixi_cuda_lane_row(void) { return (int)(threadIdx.x % 32 / 4); }
MMIXI_CUDA_INLINE int mmixi_cuda_lane_pair(void) { return (int)(threadIdx.x % 4 * 2); }

/* a and b of numbers f(row, column) */
template <int K, class F> MMIXI_CUDA_INLINE mmixi_cuda_a<K> mmixi_cuda_a_of(F f)
{
    const int g = mmixi_cuda_lane_row(), t = mmixi_cuda_lane_pair();
    mmixi_cuda_a<K> a;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 4; e++) {
        const int row = g + e % 2 * 8, column = t + e / 2 * 8;
        mmixi_cuda_set_pair(a, e, f(row, column), f(row, column + 1));
    }
    return a;
}
template <int K, class F> MMIXI_CUDA_INLINE mmixi_cuda_b<K> mmixi_cuda_b_of(F f)
{
    const int g = mmixi_cuda_lane_row(), t = mmixi_cuda_lane_pair();
    mmixi_cuda_b<K> b;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) mmixi_cuda_put_b(b, e, f(t + e * 8, g), f(t + e * 8 + 1, g));
    return b;
}
/* Two neighbours in one load, or store. */
MMIXI_CUDA_INLINE float2 mmixi_cuda_pair(const float *p) { return *(const float2 *)p; }
MMIXI_CUDA_INLINE float2 mmixi_cuda_pair(const mmixi_cuda_bf16 *p)
{
    const uint32_t x = *(const uint32_t *)p;
    const float2 v = { __uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u) };
    return v;
}
MMIXI_CUDA_INLINE void mmixi_cuda_set2(float *to, float x, float y)
{
    const float2 v = { x, y };
    *(float2 *)to = v;
}
MMIXI_CUDA_INLINE void mmixi_cuda_set2(mmixi_cuda_bf16 *to, float x, float y)
{
    *(uint32_t *)to = mmixi_cuda_pack(x, y);
}
/* Fragments out of tiles in shared memory. a = 16 rows, or columns; the right side of 16 columns of
   c, two b, = the transpose of 16 rows, or 16 rows and columns. Of bf16 each is one ldmatrix. */
template <int K> struct mmixi_cuda_b2 { mmixi_cuda_b<K> half[2]; };
MMIXI_CUDA_INLINE int mmixi_cuda_lane_low(void) { return (int)(threadIdx.x % 8); }
MMIXI_CUDA_INLINE int mmixi_cuda_lane_8(void) { return (int)(threadIdx.x / 8 % 2 * 8); }
MMIXI_CUDA_INLINE int mmixi_cuda_lane_16(void) { return (int)(threadIdx.x / 16 % 2 * 8); }
template <int K> MMIXI_CUDA_INLINE mmixi_cuda_a<K> mmixi_cuda_a_rows(const float *tile, int ld)
{
    const float *p = tile + mmixi_cuda_lane_row() * ld + mmixi_cuda_lane_pair();
    mmixi_cuda_a<K> a;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 4; e++) {
        const float2 v = mmixi_cuda_pair(p + e % 2 * 8 * ld + e / 2 * 8);
        mmixi_cuda_set_pair(a, e, v.x, v.y);
    }
    return a;
}
template <int K>
MMIXI_CUDA_INLINE mmixi_cuda_a<K> mmixi_cuda_a_rows(const mmixi_cuda_bf16 *tile, int ld)
{
    const int row = mmixi_cuda_lane_low() + mmixi_cuda_lane_8();
    mmixi_cuda_a<K> a;
    mmixi_cuda_ldmatrix<0>(a.r, tile + row * ld + mmixi_cuda_lane_16());
    return a;
}
/* a (16, 16), column c scaled by scale[c], for floats if there is a scale */
template <int K>
MMIXI_CUDA_INLINE mmixi_cuda_a<K> mmixi_cuda_a_columns(const float *tile, int ld,
                                                       const float *scale)
{
    return mmixi_cuda_a_of<K>([=](int row, int column) {
        return (scale ? scale[column] : 1) * tile[column * ld + row];
    });
}
template <int K>
MMIXI_CUDA_INLINE mmixi_cuda_a<K> mmixi_cuda_a_columns(const mmixi_cuda_bf16 *tile, int ld,
                                                       const float *scale)
{
    const int row = mmixi_cuda_lane_low() + mmixi_cuda_lane_16();
    mmixi_cuda_a<K> a;
    mmixi_cuda_ldmatrix<1>(a.r, tile + row * ld + mmixi_cuda_lane_8());
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 4; e++) {
        const float2 by = mmixi_cuda_pair(scale + mmixi_cuda_lane_pair() + e / 2 * 8);
        a.r[e] = mmixi_cuda_pack(by.x * __uint_as_float(a.r[e] << 16),
                                 by.y * __uint_as_float(a.r[e] & 0xffff0000u));
    }
    return a;
}
/* Two b of bf16, as ldmatrix gives them. */
template <int K> MMIXI_CUDA_INLINE mmixi_cuda_b2<K> mmixi_cuda_b2_of(const uint32_t (&r)[4])
{
    mmixi_cuda_b2<K> b;
    b.half[0].r[0] = r[0];
    b.half[0].r[1] = r[1];
    b.half[1].r[0] = r[2];
    b.half[1].r[1] = r[3];
    return b;
}
template <int K> MMIXI_CUDA_INLINE mmixi_cuda_b2<K> mmixi_cuda_b_rows(const float *tile, int ld)
{
    const float *p = tile + mmixi_cuda_lane_row() * ld + mmixi_cuda_lane_pair();
    mmixi_cuda_b2<K> b;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 4; e++) {
        const float2 v = mmixi_cuda_pair(p + e / 2 * 8 * ld + e % 2 * 8);
        mmixi_cuda_put_b(b.half[e / 2], e % 2, v.x, v.y);
    }
    return b;
}
template <int K>
MMIXI_CUDA_INLINE mmixi_cuda_b2<K> mmixi_cuda_b_rows(const mmixi_cuda_bf16 *tile, int ld)
{
    const int row = mmixi_cuda_lane_low() + mmixi_cuda_lane_16();
    uint32_t r[4];
    mmixi_cuda_ldmatrix<0>(r, tile + row * ld + mmixi_cuda_lane_8());
    return mmixi_cuda_b2_of<K>(r);
}
template <int K> MMIXI_CUDA_INLINE mmixi_cuda_b2<K> mmixi_cuda_b_columns(const float *tile, int ld)
{
    mmixi_cuda_b2<K> b;
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < 2; i++)
        b.half[i] = mmixi_cuda_b_of<K>([=](int row, int column) { return tile[row * ld + 8 * i + column]; });
    return b;
}
template <int K>
MMIXI_CUDA_INLINE mmixi_cuda_b2<K> mmixi_cuda_b_columns(const mmixi_cuda_bf16 *tile, int ld)
{
    const int row = mmixi_cuda_lane_low() + mmixi_cuda_lane_8();
    uint32_t r[4];
    mmixi_cuda_ldmatrix<1>(r, tile + row * ld + mmixi_cuda_lane_16());
    return mmixi_cuda_b2_of<K>(r);
}
/* a = columns 16 i … 16 i + 15 of a strip in registers */
template <int K> MMIXI_CUDA_INLINE mmixi_cuda_a<K> mmixi_cuda_a_strip(const float (*c)[4], int i)
{
    mmixi_cuda_a<K> a;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 4; e++) {
        const float *pair = c[2 * i + e / 2] + e % 2 * 2;
        mmixi_cuda_set_pair(a, e, pair[0], pair[1]);
    }
    return a;
}

/* A strip: element e of c[i] is row g + 8 (e / 2), column 8 i + t + e % 2. f(c, row, column) for
   each of them. */
template <int S, class F> MMIXI_CUDA_INLINE void mmixi_cuda_strip_each(float (&c)[S][4], F f)
{
    const int g = mmixi_cuda_lane_row(), t = mmixi_cuda_lane_pair();
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < S; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) f(c[i][e], g + e / 2 * 8, 8 * i + t + e % 2);
}
template <int S> MMIXI_CUDA_INLINE void mmixi_cuda_strip_zero(float (&c)[S][4])
{
    mmixi_cuda_strip_each(c, [](float &x, int, int) { x = 0; });
}
template <int S> MMIXI_CUDA_INLINE void mmixi_cuda_strip_scale(float (&c)[S][4], float by)
{
    mmixi_cuda_strip_each(c, [&](float &x, int, int) { x *= by; });
}
template <int S>
MMIXI_CUDA_INLINE void mmixi_cuda_strip_scale_rows(float (&c)[S][4], const float *by)
{
    mmixi_cuda_strip_each(c, [&](float &x, int row, int) { x *= by[row]; });
}
/* c += a b for the groups of 8 columns from `first` to before `end`, both even; a(k) gives the
   fragment that begins at column k, b(k, i) the one of rows k … k + 15 and columns 8 i … 8 i + 15.
   DEPTH: as `depth`, or 0 where that is not a constant. */
template <int DEPTH, int S, class A, class B>
MMIXI_CUDA_INLINE void mmixi_cuda_strip_add(float (&c)[S][4], int first, int end, int depth, A a,
                                            B b)
{
    auto add = [&](int k) {
        const auto left = a(k);
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < S; i += 2) {
            if (i < first || i >= end) continue;
            const auto right = b(k, i);
            mmixi_cuda_mma(c[i], left, right.half[0]);
            mmixi_cuda_mma(c[i + 1], left, right.half[1]);
        }
    };
    if (DEPTH) {
        MMIXI_CUDA_UNROLL
        for (int k = 0; k < DEPTH; k += 16) add(k);
    } else {
        MMIXI_CUDA_ROLLED
        for (int k = 0; k < depth; k += 16) add(k);
    }
}
/* c += a bᵀ for rows 8 first … 8 end - 1 of b; tiles of `depth` columns. */
template <int K, int DEPTH, int S, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_strip_rows(float (&c)[S][4], int first, int end, int depth,
                                             const T *a, const T *b)
{
    const int ld = depth + 8;
    mmixi_cuda_strip_add<DEPTH>(c, first, end, depth,
        [&](int k) { return mmixi_cuda_a_rows<K>(a + k, ld); },
        [&](int k, int i) { return mmixi_cuda_b_rows<K>(b + 8 * i * ld + k, ld); });
}
/* c += w b, w a strip in registers, of which columns 16 first … 16 end - 1 count. */
template <int K, int S, int W, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_strip_through(float (&c)[S][4], const float (&w)[W][4], int first,
                                                int end, int columns, const T *b, int ld)
{
    MMIXI_CUDA_UNROLL
    for (int k = 0; k < W / 2; k++) {
        if (k < first || k >= end) continue;
        const mmixi_cuda_a<K> left = mmixi_cuda_a_strip<K>(w, k);
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < S; i += 2) {
            if (i >= columns) continue;
            const mmixi_cuda_b2<K> right = mmixi_cuda_b_columns<K>(b + 16 * k * ld + 8 * i, ld);
            mmixi_cuda_mma(c[i], left, right.half[0]);
            mmixi_cuda_mma(c[i + 1], left, right.half[1]);
        }
    }
}
/* Two words in each of two lanes, `bit` apart: the lower one gets both x, the upper one both y.

       before   lower: x0 y0   upper: x1 y1         after   lower: x0 x1   upper: y0 y1

   One swap for each bit of a lane's number transposes a square of words between lanes. */
MMIXI_CUDA_INLINE void mmixi_cuda_swap(uint32_t &x, uint32_t &y, int bit)
{
    const int upper = (int)threadIdx.x & bit;
    const uint32_t other = (uint32_t)__shfl_xor_sync(0xffffffffu, (int)(upper ? x : y), bit);
    if (upper) x = other;
    else y = other;
}
/* 16 bytes of a row, from 2 numbers each that the 4 lanes of the row have of 2 neighbouring c, or 4
   for bf16; returns at which column, counted from the first c's. */
MMIXI_CUDA_INLINE int mmixi_cuda_strip_16(uint32_t (&r)[4], const float (*c)[4], int e,
                                          const float *)
{
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < 4; i++) r[i] = __float_as_uint(c[i / 2][e + i % 2]);
    mmixi_cuda_swap(r[0], r[2], 1);
    mmixi_cuda_swap(r[1], r[3], 1);
    return (int)threadIdx.x % 2 * 8 + (int)threadIdx.x % 4 / 2 * 4;
}
MMIXI_CUDA_INLINE int mmixi_cuda_strip_16(uint32_t (&r)[4], const float (*c)[4], int e,
                                          const mmixi_cuda_bf16 *)
{
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < 4; i++) r[i] = mmixi_cuda_pack(c[i][e], c[i][e + 1]);
    mmixi_cuda_swap(r[0], r[2], 2);
    mmixi_cuda_swap(r[1], r[3], 2);
    mmixi_cuda_swap(r[0], r[1], 1);
    mmixi_cuda_swap(r[2], r[3], 1);
    return (int)threadIdx.x % 4 * 8;
}
/* A strip's first `rows` rows and `width` columns to row(r), which may lie anywhere; aligned: all
   begin on 16 bytes, and are of so many. */
template <class T, int S, class F>
MMIXI_CUDA_INLINE void mmixi_cuda_strip_store(const float (&c)[S][4], int rows, int width,
                                              int aligned, F row)
{
    const int g = mmixi_cuda_lane_row(), t = mmixi_cuda_lane_pair();
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 4; e += 2) {
        const int there = g + 4 * e < rows;
        T *const to = row(g + 4 * e);
        if (aligned) {
            MMIXI_CUDA_UNROLL
            for (int i = 0; i < S; i += 8 / (int)sizeof(T)) {
                uint32_t r[4];
                const int at = 8 * i + mmixi_cuda_strip_16(r, c + i, e, to);
                if (there && at < width) mmixi_cuda_store(to + at, r);
            }
        } else if (there) {
            MMIXI_CUDA_UNROLL
            for (int i = 0; i < S; i++) {
                if (8 * i + t < width) mmixi_cuda_set(to + 8 * i + t, c[i][e]);
                if (8 * i + t + 1 < width) mmixi_cuda_set(to + 8 * i + t + 1, c[i][e + 1]);
            }
        }
    }
}
/* The sum over the 4 lanes that hold a row, in all of them. */
MMIXI_CUDA_INLINE float mmixi_cuda_row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
MMIXI_CUDA_INLINE float mmixi_cuda_row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* A block has one team of 4 warps, or two of them that do different things at the same time. The
   number of a thread, and of a warp, within its team. */
MMIXI_CUDA_INLINE int mmixi_cuda_member(void) { return (int)threadIdx.x % MMIXI_CUDA_THREADS; }
MMIXI_CUDA_INLINE int mmixi_cuda_warp(void) { return (int)threadIdx.x / 32 % 4; }
/* Whether this thread belongs to the first team. */
MMIXI_CUDA_INLINE int mmixi_cuda_first_team(void) { return threadIdx.x < MMIXI_CUDA_THREADS; }
/* The same as the warp's first lane has it: so the compiler knows that it is one number in all
   lanes, and that branches on it are taken by whole warps. On an H100 SSD's forward takes 0.97 of
   the time then and attention of long sequences 0.86, but SSD's backward 1.03. A whole warp calls
   it, with nothing before it that only some lanes do. */
MMIXI_CUDA_INLINE int mmixi_cuda_same_warp(void)
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
}
/* A team's threads as rows of `columns` of them, or of the next power of two, so that none is
   found by division: begin with (row, column) and go on `step` rows below. */
struct mmixi_cuda_threads { int row, column, step; };
MMIXI_CUDA_INLINE mmixi_cuda_threads mmixi_cuda_threads_of(int columns)
{
    const int shift = columns > 1 ? 32 - __clz(columns - 1) : 0;
    const int tid = mmixi_cuda_member();
    mmixi_cuda_threads v;
    v.row = tid >> shift;
    v.column = tid & ((1 << shift) - 1);
    v.step = MMIXI_CUDA_THREADS >> shift;
    return v;
}
template <class T> static int mmixi_cuda_fixed(const mmix_cuda_head_view &v, size_t width)
{
    return mmixi_cuda_aligned<T>(v, width) && v.token == (int)v.token;
}
/* One head of one sequence of an array: rows of `width` numbers, from token to token; whether all
   begin on 16 bytes. WIDTH: the launch has seen that they do, and are of so many; or 0. */
template <class T> struct mmixi_cuda_view {
    T *p;
    ptrdiff_t token;
    int width, aligned;
};
template <int WIDTH, class T>
MMIXI_CUDA_INLINE mmixi_cuda_view<T> mmixi_cuda_view_of(const mmix_cuda_head_view &v, size_t b,
                                                        size_t h, size_t width)
{
    mmixi_cuda_view<T> x;
    x.p = v.p ? mmixi_cuda_at<T>(v, b, 0, h) : NULL;
    x.token = WIDTH ? (int)v.token : v.token;
    x.width = WIDTH ? WIDTH : (int)width;
    x.aligned = WIDTH || mmixi_cuda_aligned<T>(v, width);
    return x;
}
/* A tile of `rows` rows: those of the tokens token(0) … token(count - 1), the rest, up to `padded`
   columns, zero. 16 bytes at a time where everything is aligned, which are under way until
   mmixi_cuda_wait. */
template <class T, class F>
MMIXI_CUDA_INLINE void mmixi_cuda_load(T *tile, int ld, const mmixi_cuda_view<T> &v, int rows,
                                       int count, int padded, F token)
{
    const int each = v.aligned ? 16 / (int)sizeof(T) : 1;
    const mmixi_cuda_threads at = mmixi_cuda_threads_of(padded / each);
    const int column = at.column * each;
    const int inside = column < v.width;
    if (column >= padded) return;
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < rows; i += at.step) {
        const int row = i + at.row;
        const int seen = inside && row < count;
        T *const to = tile + row * ld + column;
        const T *from = v.p + token(mmixi_cuda_min(row, count - 1)) * v.token + (inside ? column : 0);
        if (row >= rows) break;
        if (v.aligned) mmixi_cuda_copy<16>(to, from, seen);
        else if (seen) *to = *from;
        else mmixi_cuda_set(to, 0);
    }
}
/* The same for tokens that follow each other, first … first + count - 1: a thread finds its first
   row by a product and the next ones by adding. A row behind the last one is not read, whatever its
   address. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_load_tokens(T *tile, int ld, const mmixi_cuda_view<T> &v,
                                              int first, int count, int padded)
{
    const int each = v.aligned ? 16 / (int)sizeof(T) : 1;
    const mmixi_cuda_threads at = mmixi_cuda_threads_of(padded / each);
    const int column = at.column * each;
    const int inside = column < v.width;
    const T *from = v.p + (first + at.row) * v.token + (inside ? column : 0);
    if (column >= padded) return;
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_TILE; i += at.step) {
        const int row = i + at.row;
        T *const to = tile + row * ld + column;
        const int seen = inside && row < count;
        if (at.step > MMIXI_CUDA_TILE && row >= MMIXI_CUDA_TILE) break;
        if (v.aligned) mmixi_cuda_copy<16>(to, from, seen);
        else if (seen) *to = *from;
        else mmixi_cuda_set(to, 0);
        from += at.step * v.token;
    }
}
/* How many of the 64 tokens from t on a sequence of L has. */
MMIXI_CUDA_BOTH int mmixi_cuda_tokens_from(size_t t, size_t L)
{
    return (int)mmixi_cuda_min(L - t, (size_t)MMIXI_CUDA_TILE);
}

/* ==== >>cuda-ssd =====================================================================
   SSD in chunks of 64 tokens, the state on chip

       y_i = Σ_{j≤i} W_ij x_j + p_i C_i h,      h ← p_Q h + Σ_j r_j δ_j B_jᵀ x_j
       W_ij = L_ij S_ij δ_j, S = C Bᵀ, L_ij = e^(a_{j+1} + … + a_i), p_i = e^(a_1 + … + a_i), r_j = L_Qj

   A block of 4 warps walks along its sequence and head, chunk after chunk, and keeps h (N, P) in
   shared memory: what goes through device memory is x, dt, B, C and y, once. Warp w owns tokens 16
   w … 16 w + 15 of a chunk: its strips of S and W never leave its registers. Heads that share B and
   C can be taken by one block, S once for all of them.

   Where B · H blocks are too few for the GPU's processors, a sequence is cut into pieces: a first
   launch finds what each piece leaves in an h that was 0, a scan over the pieces makes of that the
   h before each, and the same forward kernel starts from there.

   L. The exponents are sums of terms ≤ 0, and each factor is e to a sum of its own terms, never a
   difference of prefix sums and never a quotient: a chunk has 4 blocks of 16 tokens, with

       L_ij = near_ij                          i and j in one block: 120 true exponentials a block
            = high_i · across_IJ · low_j       high_i = e^(sum from I's first token to i),
                                               low_j = e^(sum behind j to J's last), across: blocks between
       p_i = before_I · high_i,   r_j = low_j · after_J

   A token that begins a packed sequence has a = -∞ : what is before it is multiplied by e^-∞ = 0.

   Backward, with T = dY Xᵀ and dh the gradient of the h behind the chunk: (formulas as in >>ssd of
   mamba_mix.h)
       dx_j = Σ_{i≥j} W_ij dy_i + r_j δ_j B_j dh + D dy_j          dh ← p_Q dh + Σ_i p_i C_iᵀ dy_i
       dS_ij = T_ij L_ij δ_j;   dC = dS B, dC_i += p_i dy_i hᵀ;   dB = dSᵀ C, dB_j += r_j δ_j x_j dhᵀ
       da_k = Σ_{j<k≤i} T_ij W_ij + Σ_{i≥k} p_i dy_i hᵀ·C_i + Σ_{j<k} r_j δ_j x_j dhᵀ·B_j + p_Q h·dh
   A block first walks forward to leave the h before each of its chunks in device memory, then back.
   Once with its 16 tokens as rows i of S and T, for dC, and once as columns j, for dB and dx, a
   warp makes its strips itself: 2 of 11 products are made twice, and none goes through shared
   memory. The sum over j < k ≤ i has only terms of its own: whole blocks before k's by rows, blocks
   behind it by columns, and k's own block number by number; a difference of row and column sums
   would leave the rounding of large terms in small ones. Where heads share x, B or C the sums over
   them are a second launch, in a fixed order.
   ==================================================================================== */

struct mmixi_cuda_decays {
    /* exponents in base 2; into: p_i; step: low_j δ_j; weight: r_j δ_j */
    float u[64], delta[64], a[64], high[64], low[64], step[64], into[64], weight[64];
    /* of j and i % 16, 0 for i < j; 17: other banks for other rows */
    float near[64][17];
    float block[4], across[4][4], sum, total;    /* total: p_Q = 2^sum */
};
/* Sums of Z = T ∘ W, strictly below the diagonal: block: of I's rows and J's columns, J < I; near:
   the numbers of the blocks on the diagonal. row: of row i left of its block, and what enters it
   from h; column: of column j below its block, and what it leaves in h; enters, leaves: these, of
   each block. whole: column sums without δ_j, diagonal included; alone: what j leaves in h without
   r_j δ_j. */
struct mmixi_cuda_ssd_sums {
    float row[64], column[64], whole[64], alone[64], near[64][17], block[4][4], enters[4], leaves[4], part[4];
};

/* Where tiles lie in shared memory: (64, n) B and C, (64, p) x and dy, (n, p) h of each head, and
   dh, as products read them; states as they are summed, in float, are others where those are bf16.
   Returns bytes. */
template <class T> struct mmixi_cuda_ssd_tiles {
    T *b, *c, *x, *dy, *h, *dh;
    float *sum_h, *sum_dh;  /* in one place for bf16: first the one, then the other */
    mmixi_cuda_decays *d;
    mmixi_cuda_ssd_sums *s;
};
/* The next `bytes` of shared memory, counted in multiples of 16. */
MMIXI_CUDA_BOTH char *mmixi_cuda_take(char *base, size_t *at, size_t bytes)
{
    char *p = base + *at;
    *at += (bytes + 15) / 16 * 16;
    return p;
}
template <class T>
MMIXI_CUDA_BOTH size_t mmixi_cuda_ssd_layout(mmixi_cuda_ssd_tiles<T> *v, char *base, int n, int p,
                                             int heads, int back)
{
    const size_t rows_n = (size_t)MMIXI_CUDA_TILE * (size_t)(n + 8) * sizeof(T);
    const size_t rows_p = (size_t)MMIXI_CUDA_TILE * (size_t)(p + 8) * sizeof(T);
    const size_t state = (size_t)n * (size_t)(p + 8);
    const int apart = sizeof(T) != sizeof(float);
    size_t at = 0;
    v->b = (T *)mmixi_cuda_take(base, &at, rows_n);
    v->c = (T *)mmixi_cuda_take(base, &at, rows_n);
    v->x = (T *)mmixi_cuda_take(base, &at, rows_p);
    v->dy = (T *)mmixi_cuda_take(base, &at, back ? rows_p : 0);
    v->h = (T *)mmixi_cuda_take(base, &at, (size_t)heads * state * sizeof(T));
    v->dh = (T *)mmixi_cuda_take(base, &at, back ? state * sizeof(T) : 0);
    v->sum_h = (float *)v->h;
    v->sum_dh = (float *)v->dh;
    if (apart) {
        v->sum_h = (float *)mmixi_cuda_take(base, &at, (size_t)heads * state * sizeof(float));
        v->sum_dh = v->sum_h;
    }
    v->d = (mmixi_cuda_decays *)mmixi_cuda_take(base, &at, sizeof *v->d);
    v->s = (mmixi_cuda_ssd_sums *)mmixi_cuda_take(base, &at, back ? sizeof *v->s : 0);
    return at;
}

/* The first 64 threads: near_ij, low_j and low_j δ_j of token `at` of the chunk. */
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_decays_low(mmixi_cuda_decays *d, int at)
{
    const int own = at % 16;
    const int first = at - own;
    float sum = 0;
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < 16; i++) {
        if (i > own) sum += d->a[first + i];
        d->near[at][i] = i < own ? 0 : mmixi_cuda_exp2(sum);         /* 2^0 = 1 for i = own */
    }
    d->low[at] = mmixi_cuda_exp2(sum);
    d->step[at] = d->low[at] * d->delta[at];
}
/* The other 64: high_i, and with a block's last token the block's sum. */
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_decays_high(mmixi_cuda_decays *d, int at)
{
    const int own = at % 16;
    const int first = at - own;
    float sum = 0;
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < 16; i++)
        if (i <= own) sum += d->a[first + i];
    d->high[at] = mmixi_cuda_exp2(sum);
    if (own == 15) d->block[at / 16] = sum;
}
/* across_IJ: what the blocks between J and I decay. */
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_decays_across(mmixi_cuda_decays *d, int I, int J)
{
    float sum = 0;
    for (int i = 1; i < 3; i++)
        if (i > J && i < I) sum += d->block[i];
    d->across[I][J] = mmixi_cuda_exp2(sum);
}
/* All of mmixi_cuda_decays for the chunk at token t; the block has come together since the last
   one's were read, and ends together, with the tiles that were loaded before. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_decays(const mmixi_cuda_ssd_job &j, mmixi_cuda_decays *d,
                                             size_t b, size_t t, size_t h)
{
    const int at = (int)threadIdx.x % 64;
    const int lower = threadIdx.x < 64;
    const int upper = !lower && mmixi_cuda_first_team();
    const int I = at / 16;
    float other = 0;  /* exponents of the blocks behind, or before, the token's */
    if (lower) {
        mmixi_cuda_token k = { 0, 0, 0 };  /* behind the end: nothing enters and nothing decays */
        if (t + (size_t)at < j.r.L) k = mmixi_cuda_ssd_token<T>(j, b, t + (size_t)at, h);
        d->u[at] = k.u;
        d->delta[at] = k.delta;
        d->a[at] = MMIXI_CUDA_LOG2E * k.a;
    }
    __syncthreads();
    if (lower) mmixi_cuda_ssd_decays_low(d, at);
    if (upper) mmixi_cuda_ssd_decays_high(d, at);
    __syncthreads();
    for (int J = 0; J < 4; J++) {
        const int counts = lower ? J > I : J < I;
        if (counts) other += d->block[J];
    }
    if (lower) d->weight[at] = d->step[at] * mmixi_cuda_exp2(other);
    if (upper) d->into[at] = d->high[at] * mmixi_cuda_exp2(other);
    if (threadIdx.x < 16) mmixi_cuda_ssd_decays_across(d, at / 4, at % 4);
    if (threadIdx.x == 64) {
        d->sum = d->block[0] + d->block[1] + d->block[2] + d->block[3];
        d->total = mmixi_cuda_exp2(d->sum);
    }
    mmixi_cuda_wait();
    __syncthreads();
}
/* state (n, p) ← total · state + Σ_t scale_t rows_tᵀ values_t rows (64, n), values (64, p); `copy`:
   as products read it. Each of the block's warps has rows of its own. */
template <int K, int TEAMS, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_grow(int n, int p, float *state, T *copy, float total,
                                           const float *scale, const T *rows, const T *values)
{
    const int ldn = n + 8, ldp = p + 8;
    for (int n0 = (int)(threadIdx.x / 32) * 16; n0 < n; n0 += 64 * TEAMS)
        for (int p0 = 0; p0 < p; p0 += 64) {
            float c[MMIXI_CUDA_STRIP][4];
            const int columns = mmixi_cuda_min(8, (p - p0) / 8);
            mmixi_cuda_strip_zero(c);            /* not the state: see mmixi_cuda_mma */
            mmixi_cuda_strip_add<K == MMIX_CUDA_BF16 ? 64 : 0>(c, 0, columns, 64,
                [&](int k) { return mmixi_cuda_a_columns<K>(rows + k * ldn + n0, ldn, scale + k); },
                [&](int k, int i) { return mmixi_cuda_b_columns<K>(values + k * ldp + p0 + 8 * i, ldp); });
            MMIXI_CUDA_UNROLL
            for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
                MMIXI_CUDA_UNROLL
                for (int e = 0; e < 4 && i < columns; e += 2) {
                    const int at = (n0 + mmixi_cuda_lane_row() + 4 * e) * ldp + p0 + 8 * i
                        + mmixi_cuda_lane_pair();
                    const float2 before = mmixi_cuda_pair(state + at);
                    const float x = total * before.x + c[i][e], y = total * before.y + c[i][e + 1];
                    mmixi_cuda_set2(state + at, x, y);
                    if (K == MMIX_CUDA_BF16) mmixi_cuda_set2(copy + at, x, y);
                }
        }
}
/* A state from (N, P) of a workspace, or (P, N) of the interface, or zero; and back. Of P's columns
   those from p0 on, of which there are `width`. Neighbouring threads have neighbouring numbers of
   the array. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_state_load(const mmixi_cuda_ssd_job &j, int n, int p,
                                                 float *state, T *copy, const float *np,
                                                 const float *pn, int p0, int width)
{
    const int N = (int)j.r.N;
    const int P = (int)j.r.P;
    const int rows = np ? n : p;
    const int columns = np ? p : n;
    const mmixi_cuda_threads v = mmixi_cuda_threads_of(columns);
    for (int r = v.row; r < rows; r += v.step) {
        const int row = np ? r : v.column;
        const int column = np ? v.column : r;
        const int inside = row < N && column < width;
        float x = 0;
        if (v.column >= columns) break;
        if (inside && np) x = np[row * P + p0 + column];
        else if (inside && pn) x = pn[(p0 + column) * N + row];
        state[row * (p + 8) + column] = x;
        mmixi_cuda_set(copy + row * (p + 8) + column, x);
    }
}
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_state_store_np(const mmixi_cuda_ssd_job &j, int p,
                                                     const float *state, float *np, int p0,
                                                     int width)
{
    const mmixi_cuda_threads v = mmixi_cuda_threads_of(width);
    if (v.column >= width) return;
    for (int r = v.row; r < (int)j.r.N; r += v.step)
        np[r * (int)j.r.P + p0 + v.column] = state[r * (p + 8) + v.column];
}
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_state_store_pn(const mmixi_cuda_ssd_job &j, int p,
                                                     const float *state, float *pn, int p0,
                                                     int width)
{
    const int N = (int)j.r.N;
    const mmixi_cuda_threads v = mmixi_cuda_threads_of(N);
    if (v.column >= N) return;
    for (int r = v.row; r < width; r += v.step)
        pn[(p0 + r) * N + v.column] = state[v.column * (p + 8) + r];
}
/* The h before a chunk, (N, P) of a workspace, as products read it; and back: behind
   mmixi_cuda_wait. */
template <class T>
MMIXI_CUDA_INLINE int mmixi_cuda_ssd_rows_aligned(const mmixi_cuda_ssd_job &j)
{
    return j.r.P * sizeof(T) % 16 == 0;
}
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_chunk_store(const mmixi_cuda_ssd_job &j, int p, const T *h,
                                                  size_t index)
{
    const int N = (int)j.r.N;
    const int P = (int)j.r.P;
    const int each = mmixi_cuda_ssd_rows_aligned<T>(j) ? 16 / (int)sizeof(T) : 1;
    const mmixi_cuda_threads v = mmixi_cuda_threads_of(P / each);
    const int column = v.column * each;
    T *states = (T *)j.states + index * j.r.N * j.r.P;
    if (column >= P) return;
    for (int r = v.row; r < N; r += v.step) {
        T *to = states + r * P + column;
        const T *from = h + r * (p + 8) + column;
        if (each > 1) *(uint4 *)to = *(const uint4 *)from;
        else *to = *from;
    }
}
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_chunk_load(const mmixi_cuda_ssd_job &j, int n, int p, T *h,
                                                 size_t index)
{
    mmixi_cuda_view<T> v;
    v.p = (T *)j.states + index * j.r.N * j.r.P;
    v.token = (ptrdiff_t)j.r.P;
    v.width = (int)j.r.P;
    v.aligned = mmixi_cuda_ssd_rows_aligned<T>(j);
    mmixi_cuda_load(h, p + 8, v, n, (int)j.r.N, p, [](int r) { return r; });
}
/* The sum of a number of each thread of the first team, in their order, in all of them; parts: 128
   floats of shared memory. */
MMIXI_CUDA_INLINE float mmixi_cuda_block_sum(float *parts, float x)
{
    float sum = 0;
    __syncthreads();                             /* what lay in parts was read */
    if (mmixi_cuda_first_team()) parts[threadIdx.x] = x;
    __syncthreads();
    for (int i = 0; i < MMIXI_CUDA_THREADS; i++) sum += parts[i];
    return sum;
}
/* The sum over the 8 lanes that hold a column, and over the 4 of a row, in all of them. */
MMIXI_CUDA_INLINE float mmixi_cuda_column_sum(float x)
{
    for (int lanes = 4; lanes < 32; lanes *= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}
/* Which sequence, head, piece of the sequence and columns of P this block has, and its chunks, from
   first to before end. */
struct mmixi_cuda_ssd_piece {
    size_t b, h, piece, index, first, end;
    int p0, width;
};
MMIXI_CUDA_INLINE mmixi_cuda_ssd_piece mmixi_cuda_ssd_piece_of(const mmixi_cuda_ssd_job &j,
                                                               size_t heads)
{
    mmixi_cuda_ssd_piece v;
    const unsigned splits = (unsigned)j.splits;
    const unsigned segments = (unsigned)j.segments;
    const unsigned blocks = (unsigned)j.r.H / (unsigned)heads;
    const unsigned i = blockIdx.x / splits;
    v.p0 = (int)(blockIdx.x % splits) * j.p;
    v.width = mmixi_cuda_min(j.p, (int)j.r.P - v.p0);
    v.piece = i % segments;
    v.h = i / segments % blocks * heads;
    v.b = i / segments / blocks;
    v.index = (v.b * j.r.H + v.h) * j.segments + v.piece;
    v.first = v.piece * j.run;
    v.end = mmixi_cuda_min(v.first + j.run, j.chunks);
    return v;
}
/* Its columns of a head. */
template <int WIDTH, class T>
MMIXI_CUDA_INLINE mmixi_cuda_view<T> mmixi_cuda_columns(const mmix_cuda_head_view &v,
                                                        const mmixi_cuda_ssd_job &j,
                                                        const mmixi_cuda_ssd_piece &piece, size_t h)
{
    mmixi_cuda_view<T> x = mmixi_cuda_view_of<WIDTH, T>(v, piece.b, h, j.r.P);
    if (x.p) x.p += piece.p0;
    if (!WIDTH) x.width = piece.width;
    return x;
}

/* What a piece leaves of an h that was 0 before it, or of a dh that was 0 behind it. N, P: widths,
   where they are constants, or 0. */
template <int K, int N, int P, int BACK>
MMIXI_CUDA_TILES mmixi_cuda_ssd_leave(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    const int n = N ? N : j.n;
    const int p = P ? P : j.p;
    const mmixi_cuda_ssd_piece v = mmixi_cuda_ssd_piece_of(j, 1);
    const mmix_cuda_head_view &left = BACK ? j.r.c : j.r.b;
    const mmix_cuda_head_view &right = BACK ? j.r.dy : j.r.x;
    const mmixi_cuda_view<T> rows = mmixi_cuda_view_of<N, T>(left, v.b, v.h, j.r.N);
    const mmixi_cuda_view<T> values = mmixi_cuda_columns<P, T>(right, j, v, v.h);
    mmixi_cuda_ssd_tiles<T> s;
    float sum = 0;
    mmixi_cuda_ssd_layout(&s, (char *)mmixi_cuda_shared, n, p, 1, 0);
    mmixi_cuda_ssd_state_load(j, n, p, s.sum_h, s.h, NULL, NULL, v.p0, v.width);
    for (size_t i = v.first; i < v.end; i++) {
        const size_t chunk = BACK ? v.first + v.end - 1 - i : i;
        const size_t t = chunk * 64;
        const int tokens = mmixi_cuda_tokens_from(t, j.r.L);
        const float *scale = BACK ? s.d->into : s.d->weight;
        __syncthreads();
        mmixi_cuda_load_tokens(s.b, n + 8, rows, (int)t, tokens, n);
        mmixi_cuda_load_tokens(s.x, p + 8, values, (int)t, tokens, p);
        mmixi_cuda_ssd_decays<T>(j, s.d, v.b, t, v.h);
        mmixi_cuda_ssd_grow<K, 1>(n, p, s.sum_h, s.h, s.d->total, scale, s.b, s.x);
        sum += s.d->sum;
    }
    __syncthreads();
    float *states = BACK ? j.end : j.begin;
    mmixi_cuda_ssd_state_store_np(j, p, s.sum_h, states + v.index * j.r.N * j.r.P, v.p0, v.width);
    if (!BACK && !v.p0 && !threadIdx.x) j.sums[v.index] = sum;
}
/* From what the pieces leave to the h before, or the dh behind, each of them: one thread for each
   number. */
template <int BACK> MMIXI_CUDA_KERNEL mmixi_cuda_ssd_scan(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    const size_t N = j.r.N;
    const size_t P = j.r.P;
    const size_t e = mmixi_cuda_thread() % (N * P);          /* of (N, P), as pieces leave it */
    const size_t head = mmixi_cuda_thread() / (N * P);
    const size_t n = e / P;
    const size_t p = e % P;
    const float *from = BACK ? j.r.dfinal : j.r.initial_state;
    float *states = BACK ? j.end : j.begin;
    if (head >= j.r.B * j.r.H) return;
    float carry = from ? from[head * N * P + p * N + n] : 0;
    for (size_t k = 0; k < j.segments; k++) {
        const size_t at = head * j.segments + (BACK ? j.segments - 1 - k : k);
        const float left = states[at * N * P + e];
        states[at * N * P + e] = carry;
        carry = exp2f(j.sums[at]) * carry + left;
    }
}

/* W = S ∘ L, column j times δ_j, of this warp's rows up to their block on the diagonal. f(w, s, J,
   row, column) makes more of a weight w and the s that it came from; rows and columns are those of
   the chunk. */
template <class F>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_weights(float (&S)[MMIXI_CUDA_STRIP][4],
                                              const mmixi_cuda_decays *d, int warp, F f)
{
    const int own = 16 * warp + mmixi_cuda_lane_row();
    const float high[2] = { d->high[own], d->high[own + 8] };
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++) {
        const int column = 8 * i + mmixi_cuda_lane_pair();
        if (i / 2 > warp) continue;
        if (i / 2 < warp) {
            const float2 step = mmixi_cuda_pair(d->step + column);
            const float across = d->across[warp][i / 2];
            MMIXI_CUDA_UNROLL
            for (int e = 0; e < 4; e++) S[i][e] *= high[e / 2] * across * (e % 2 ? step.y : step.x);
        } else {
            MMIXI_CUDA_UNROLL
            for (int e = 0; e < 4; e++)
                S[i][e] *= d->near[column + e % 2][(own + e / 2 * 8) % 16] * d->delta[column + e % 2];
        }
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) f(S[i][e], i, e, own + e / 2 * 8, column + e % 2);
    }
}

/* c += D x, or D dy, for columns p0 … of P; tile: x's rows. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_add_skip(float (&c)[MMIXI_CUDA_STRIP][4],
                                               const mmixi_cuda_ssd_job &j, size_t h, int p0,
                                               const T *tile, int ld)
{
    if (!j.r.D) return;
    const int wide = j.r.D_width > 1, last = (int)j.r.P - 1;
    const float *D = j.r.D + h * j.r.D_width;
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++) {
        const int column = 8 * i + mmixi_cuda_lane_pair();
        if (p0 + column > last) continue;
        const float low = D[wide ? p0 + column : 0],
            high = D[wide ? mmixi_cuda_min(p0 + column + 1, last) : 0];
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e += 2) {
            const float2 x = mmixi_cuda_pair(tile + (mmixi_cuda_lane_row() + 4 * e) * ld + column);
            c[i][e] += low * x.x;
            c[i][e + 1] += high * x.y;
        }
    }
}

/* A warp's strip to columns p0 … of its tokens, row0 … of the chunk at t, if anywhere. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_put_strip(const float (&c)[MMIXI_CUDA_STRIP][4],
                                            const mmixi_cuda_view<T> &v, size_t L, size_t t,
                                            int row0, int p0)
{
    const int rows = (int)mmixi_cuda_min(L - t, (size_t)64) - row0;
    T *const to = v.p + (ptrdiff_t)(t + (size_t)row0) * v.token + p0;
    if (!v.p) return;
    mmixi_cuda_strip_store<T>(c, rows, v.width - p0, v.aligned,
                              [&](int row) { return to + row * v.token; });
}

/* y of this warp's tokens of a chunk: p_i C h + W x + D x, 64 columns at a time. S = C Bᵀ is not
   changed: the block's next head takes it, too. */
template <int K, int N, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_chunk_y(const mmixi_cuda_ssd_job &j,
                                              const mmixi_cuda_ssd_tiles<T> &s,
                                              const float (&S)[MMIXI_CUDA_STRIP][4], const T *state,
                                              int warp, int n, int p, const mmixi_cuda_view<T> &y,
                                              size_t t, size_t h, int first_p)
{
    const int ldn = n + 8;
    const int ldp = p + 8;
    const int row0 = 16 * warp;
    const mmixi_cuda_decays *d = s.d;
    float W[MMIXI_CUDA_STRIP][4];
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) W[i][e] = S[i][e];
    mmixi_cuda_ssd_weights(W, d, warp, [](float &, int, int, int, int) {});
    for (int p0 = 0; p0 < p; p0 += 64) {
        const int columns = mmixi_cuda_min(8, (p - p0) / 8);
        float c[MMIXI_CUDA_STRIP][4];
        mmixi_cuda_strip_zero(c);
        mmixi_cuda_strip_add<N>(c, 0, columns, n,
            [&](int at) { return mmixi_cuda_a_rows<K>(s.c + row0 * ldn + at, ldn); },
            [&](int at, int i) { return mmixi_cuda_b_columns<K>(state + at * ldp + p0 + 8 * i, ldp); });
        mmixi_cuda_strip_scale_rows(c, d->into + row0);
        mmixi_cuda_strip_through<K>(c, W, 0, warp + 1, columns, s.x + p0, ldp);
        mmixi_cuda_ssd_add_skip(c, j, h, first_p + p0, s.x + row0 * ldp + p0, ldp);
        mmixi_cuda_put_strip(c, y, j.r.L, t, row0, p0);
    }
}
template <int K, int N, int P>
MMIXI_CUDA_TILES mmixi_cuda_ssd_forward(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    const int n = N ? N : j.n;
    const int p = P ? P : j.p;
    const int ldn = n + 8;
    const int ldp = p + 8;
    const int warp = mmixi_cuda_same_warp();
    const int heads = (int)j.heads;
    const mmixi_cuda_ssd_piece v = mmixi_cuda_ssd_piece_of(j, j.heads);
    const mmixi_cuda_view<T> B = mmixi_cuda_view_of<N, T>(j.r.b, v.b, v.h, j.r.N);
    const mmixi_cuda_view<T> C = mmixi_cuda_view_of<N, T>(j.r.c, v.b, v.h, j.r.N);
    mmixi_cuda_view<T> x = mmixi_cuda_columns<P, T>(j.r.x, j, v, v.h);
    mmixi_cuda_view<T> y = mmixi_cuda_columns<P, T>(j.r.y, j, v, v.h);
    const size_t NP = j.r.N * j.r.P;
    mmixi_cuda_ssd_tiles<T> s;
    float S[MMIXI_CUDA_STRIP][4];
    mmixi_cuda_ssd_layout(&s, (char *)mmixi_cuda_shared, n, p, heads, 0);
    for (int k = 0; k < heads; k++) {
        const size_t head = v.b * j.r.H + v.h + (size_t)k;
        const float *begin = mmixi_cuda_ssd_state_of(j.begin, head * j.segments + v.piece, NP);
        const float *initial = mmixi_cuda_ssd_state_of(j.r.initial_state, head, NP);
        mmixi_cuda_ssd_state_load(j, n, p, s.sum_h + k * n * ldp, s.h + k * n * ldp, begin, initial, v.p0,
                                  v.width);
    }
    for (size_t chunk = v.first; chunk < v.end; chunk++)
        for (int k = 0; k < heads; k++) {
            const size_t t = chunk * 64;
            const size_t h = v.h + (size_t)k;
            const int tokens = mmixi_cuda_tokens_from(t, j.r.L);
            T *state = s.h + k * n * ldp;
            __syncthreads();                     /* the last chunk's tiles were read */
            if (!k) {
                mmixi_cuda_load_tokens(s.b, ldn, B, (int)t, tokens, n);
                mmixi_cuda_load_tokens(s.c, ldn, C, (int)t, tokens, n);
            }
            if (heads > 1) {
                x = mmixi_cuda_columns<P, T>(j.r.x, j, v, h);
                y = mmixi_cuda_columns<P, T>(j.r.y, j, v, h);
            }
            mmixi_cuda_load_tokens(s.x, ldp, x, (int)t, tokens, p);
            mmixi_cuda_ssd_decays<T>(j, s.d, v.b, t, h);
            if (16 * warp < tokens) {            /* this warp has a token */
                if (!k) {                        /* S, up to the block on the diagonal */
                    mmixi_cuda_strip_zero(S);
                    mmixi_cuda_strip_rows<K, N>(S, 0, 2 * warp + 2, n, s.c + 16 * warp * ldn, s.b);
                }
                mmixi_cuda_ssd_chunk_y<K, N>(j, s, S, (const T *)state, warp, n, p, y, t, h, v.p0);
            }
            __syncthreads();                     /* h was read */
            if (chunk + 1 < v.end || j.r.final_state)    /* or nobody reads the h behind it */
                mmixi_cuda_ssd_grow<K, 1>(n, p, s.sum_h + k * n * ldp, state, s.d->total, s.d->weight, s.b,
                                          s.x);
        }
    __syncthreads();
    if (!j.r.final_state || v.piece + 1 < j.segments) return;
    for (int k = 0; k < heads; k++) {
        float *final_state = j.r.final_state + (v.b * j.r.H + v.h + (size_t)k) * NP;
        mmixi_cuda_ssd_state_store_pn(j, p, s.sum_h + k * n * ldp, final_state, v.p0, v.width);
    }
}

/* Where a gradient goes: to its array, or to its part where heads share it. */
template <int WIDTH, class T>
MMIXI_CUDA_INLINE mmixi_cuda_view<T> mmixi_cuda_place_of(const mmixi_cuda_place &d, size_t L,
                                                         size_t H, size_t width, size_t b, size_t h)
{
    mmixi_cuda_view<T> v = mmixi_cuda_view_of<WIDTH, T>(d.to, b, h, width);
    if (!d.part) return v;
    v.p = (T *)d.part + (b * L * H + h) * width;
    v.token = (ptrdiff_t)(H * width);
    v.aligned = WIDTH || width * sizeof(T) % 16 == 0;
    return v;
}
/* The sum of c over each row of a tile, number by number: of a lane's two rows, this lane's
   part. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_strip_dot(float *sum, const float (&c)[MMIXI_CUDA_STRIP][4],
                                            const T *tile, int ld, int columns)
{
    tile += mmixi_cuda_lane_row() * ld + mmixi_cuda_lane_pair();
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4 && i < columns; e += 2) {
            const float2 x = mmixi_cuda_pair(tile + 4 * e * ld + 8 * i);
            sum[e / 2] += c[i][e] * x.x + c[i][e + 1] * x.y;
        }
}

/* A chunk of the backward: its first token, how many groups of 16 tokens it has, widths, and its
   tiles. */
template <class T> struct mmixi_cuda_ssd_chunk {
    size_t t;
    int strips, n, p;
    mmixi_cuda_ssd_tiles<T> s;
};
/* This warp's tokens as i. S = C Bᵀ and T = dY Xᵀ up to the diagonal, then dS = T ∘ L δ_j in T's
   place, and
       dC = dS B + p (dY hᵀ)
   Of the terms of da it leaves what enters each of its tokens, Σ_j Z_ij over earlier blocks and
   p_i dy_i hᵀ·C_i, and the Z_ij of its own block one by one. */
template <int K, int N, int P, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_rows(const mmixi_cuda_ssd_job &j,
                                                const mmixi_cuda_ssd_chunk<T> &chunk,
                                                const mmixi_cuda_view<T> &dC)
{
    const mmixi_cuda_ssd_tiles<T> &s = chunk.s;
    const int n = N ? N : chunk.n;
    const int p = P ? P : chunk.p;
    const int ldn = n + 8;
    const int ldp = p + 8;
    const int tid = (int)threadIdx.x;
    const int warp = mmixi_cuda_warp();
    const int row0 = 16 * warp;
    const int own = row0 + mmixi_cuda_lane_row();
    float block[4] = { 0, 0, 0, 0 };  /* Σ Z of this warp's rows and each block's columns */
    /* of the lane's two rows: from h, from blocks */
    float enters[2] = { 0, 0 }, left[2] = { 0, 0 };
    if (warp < chunk.strips) {
        float S[MMIXI_CUDA_STRIP][4], dS[MMIXI_CUDA_STRIP][4];
        mmixi_cuda_strip_zero(S);
        mmixi_cuda_strip_zero(dS);
        mmixi_cuda_strip_rows<K, N>(S, 0, 2 * warp + 2, n, s.c + row0 * ldn, s.b);
        mmixi_cuda_strip_rows<K, P>(dS, 0, 2 * warp + 2, p, s.dy + row0 * ldp, s.x);
        mmixi_cuda_ssd_weights(dS, s.d, warp, [&](float &d_score, int i, int e, int row, int column) {
            const float Z = d_score * S[i][e];
            if (i / 2 == warp) s.s->near[row][column % 16] = Z;
            else {
                block[i / 2] += Z;
                left[e / 2] += Z;
            }
        });
        for (int n0 = 0; n0 < n; n0 += 64) {
            const int columns = mmixi_cuda_min(8, (n - n0) / 8);
            float c[MMIXI_CUDA_STRIP][4];
            mmixi_cuda_strip_zero(c);
            mmixi_cuda_strip_rows<K, P>(c, 0, columns, p, s.dy + row0 * ldp, s.h + n0 * ldp);
            mmixi_cuda_strip_scale_rows(c, s.d->into + row0);
            mmixi_cuda_strip_dot(enters, c, s.c + row0 * ldn + n0, ldn, columns);
            mmixi_cuda_strip_through<K>(c, dS, 0, warp + 1, columns, s.b + n0, ldn);
            mmixi_cuda_put_strip(c, dC, j.r.L, chunk.t, row0, n0);
        }
    }
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        enters[e] = mmixi_cuda_row_sum(enters[e]);
        left[e] = mmixi_cuda_row_sum(left[e]);
        if (tid % 4 == 0) s.s->row[own + 8 * e] = enters[e] + left[e];
    }
    enters[0] = mmixi_cuda_column_sum(enters[0] + enters[1]);
    if (tid % 32 == 0) s.s->enters[warp] = enters[0];
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < 4; i++) {
        const float sum = mmixi_cuda_column_sum(mmixi_cuda_row_sum(block[i]));
        if (tid % 32 == 0) s.s->block[warp][i] = sum;
    }
}
/* Of the lane's two columns: Σ Z below their block; Σ T L S, which δ_j multiplies; the share of
   dh. */
struct mmixi_cuda_column_sums { float column[2], whole[2], alone[2]; };
/* From Sᵀ and Tᵀ to Wᵀ and dSᵀ in their places, from this warp's block on the diagonal on. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_weights(float (&W)[MMIXI_CUDA_STRIP][4],
                                                   float (&dS)[MMIXI_CUDA_STRIP][4],
                                                   const mmixi_cuda_ssd_tiles<T> &s,
                                                   mmixi_cuda_column_sums *sums)
{
    const mmixi_cuda_decays *d = s.d;
    const int warp = mmixi_cuda_warp();
    const int own = 16 * warp + mmixi_cuda_lane_row();
    const float low[2] = { d->low[own], d->low[own + 8] };
    const float delta[2] = { d->delta[own], d->delta[own + 8] };
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++) {
        const int at = 8 * i + mmixi_cuda_lane_pair();
        const float across = d->across[i / 2][warp];
        if (i / 2 < warp) continue;
        const float2 high = mmixi_cuda_pair(d->high + at);
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) {
            float decay = (e % 2 ? high.y : high.x) * across * low[e / 2];
            if (i / 2 == warp) decay = d->near[own + e / 2 * 8][(at + e % 2) % 16];
            const float z = dS[i][e] * W[i][e] * decay;
            sums->whole[e / 2] += z;
            if (i / 2 > warp) sums->column[e / 2] += z * delta[e / 2];
            W[i][e] *= decay * delta[e / 2];
            dS[i][e] *= decay * delta[e / 2];
        }
    }
}
/* What the lanes of a column have found, added and left in shared memory. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_leave(const mmixi_cuda_ssd_tiles<T> &s,
                                                 mmixi_cuda_column_sums *sums)
{
    const int tid = (int)threadIdx.x;
    const int warp = mmixi_cuda_warp();
    const int own = 16 * warp + mmixi_cuda_lane_row();
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        const float column = mmixi_cuda_row_sum(sums->column[e]);
        const float whole = mmixi_cuda_row_sum(sums->whole[e]);
        const float alone = mmixi_cuda_row_sum(sums->alone[e]);
        sums->alone[e] = alone * s.d->weight[own + 8 * e];
        if (tid % 4) continue;
        s.s->whole[own + 8 * e] = whole;
        s.s->alone[own + 8 * e] = alone;
        s.s->column[own + 8 * e] = column + sums->alone[e];
    }
    const float leaves = mmixi_cuda_column_sum(sums->alone[0] + sums->alone[1]);
    if (tid % 32 == 0) s.s->leaves[warp] = leaves;
}
/* The same tokens as j. Sᵀ = B Cᵀ and Tᵀ = X dYᵀ from the diagonal on, then Wᵀ and dSᵀ in their
   places, and
       dB = dSᵀ C + r δ (X dhᵀ),   dX = Wᵀ dY + r δ (B dh) + D dY
   Of the terms of da it leaves what leaves each of its tokens: Σ_i Z_ij over later blocks and
   r_j δ_j x_j dhᵀ·B_j. */
template <int K, int N, int P, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_columns(const mmixi_cuda_ssd_job &j,
                                                   const mmixi_cuda_ssd_chunk<T> &chunk, size_t h,
                                                   const mmixi_cuda_view<T> &dB,
                                                   const mmixi_cuda_view<T> &dx)
{
    const mmixi_cuda_ssd_tiles<T> &s = chunk.s;
    const float *weight = s.d->weight;
    const int n = N ? N : chunk.n;
    const int p = P ? P : chunk.p;
    const int ldn = n + 8;
    const int ldp = p + 8;
    const int strips = chunk.strips;
    const int warp = mmixi_cuda_warp();
    const int row0 = 16 * warp;
    mmixi_cuda_column_sums sums = { { 0, 0 }, { 0, 0 }, { 0, 0 } };
    float W[MMIXI_CUDA_STRIP][4], dS[MMIXI_CUDA_STRIP][4], c[MMIXI_CUDA_STRIP][4];
    if (warp < strips) {
        mmixi_cuda_strip_zero(W);
        mmixi_cuda_strip_zero(dS);
        mmixi_cuda_strip_rows<K, N>(W, 2 * warp, 2 * strips, n, s.b + row0 * ldn, s.c);
        mmixi_cuda_strip_rows<K, P>(dS, 2 * warp, 2 * strips, p, s.x + row0 * ldp, s.dy);
        mmixi_cuda_ssd_back_weights(W, dS, s, &sums);
        for (int n0 = 0; n0 < n; n0 += 64) {
            const int columns = mmixi_cuda_min(8, (n - n0) / 8);
            mmixi_cuda_strip_zero(c);
            mmixi_cuda_strip_rows<K, P>(c, 0, columns, p, s.x + row0 * ldp, s.dh + n0 * ldp);
            mmixi_cuda_strip_dot(sums.alone, c, s.b + row0 * ldn + n0, ldn, columns);
            mmixi_cuda_strip_scale_rows(c, weight + row0);
            mmixi_cuda_strip_through<K>(c, dS, warp, strips, columns, s.c + n0, ldn);
            mmixi_cuda_put_strip(c, dB, j.r.L, chunk.t, row0, n0);
        }
    }
    mmixi_cuda_ssd_back_leave(s, &sums);
    for (int p0 = 0; p0 < p && warp < strips; p0 += 64) {
        const int columns = mmixi_cuda_min(8, (p - p0) / 8);
        mmixi_cuda_strip_zero(c);
        mmixi_cuda_strip_add<N>(c, 0, columns, n,
            [&](int at) { return mmixi_cuda_a_rows<K>(s.b + row0 * ldn + at, ldn); },
            [&](int at, int i) {
                return mmixi_cuda_b_columns<K>(s.dh + at * ldp + p0 + 8 * i, ldp);
            });
        mmixi_cuda_strip_scale_rows(c, weight + row0);
        mmixi_cuda_strip_through<K>(c, W, warp, strips, columns, s.dy + p0, ldp);
        mmixi_cuda_ssd_add_skip(c, j, h, p0, s.dy + row0 * ldp + p0, ldp);
        mmixi_cuda_put_strip(c, dx, j.r.L, chunk.t, row0, p0);
    }
}
/* h · dh over the whole block's state: each warp of a team leaves its part. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_dot(const mmixi_cuda_ssd_tiles<T> &s, int n, int p)
{
    const int ldp = p + 8;
    const mmixi_cuda_threads grid = mmixi_cuda_threads_of(p / 2);
    float dot = 0;
    for (int i = grid.row; i < n && 2 * grid.column < p; i += grid.step) {
        const float2 x = mmixi_cuda_pair(s.h + i * ldp + 2 * grid.column);
        const float2 y = mmixi_cuda_pair(s.sum_dh + i * ldp + 2 * grid.column);
        dot += x.x * y.x + x.y * y.y;
    }
    for (int lanes = 16; lanes; lanes /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, lanes);
    if (threadIdx.x % 32 == 0) s.s->part[mmixi_cuda_warp()] = dot;
}
/* da of this thread's token, which it shares with the other lane of its pair: a sum of terms that
   are all its own. In its block a token has those that enter it or a later token, those that leave
   an earlier one, and the Z_ij with j < k ≤ i; of other blocks the sums that pass over it. */
MMIXI_CUDA_INLINE float mmixi_cuda_ssd_back_da(const mmixi_cuda_decays *d,
                                               const mmixi_cuda_ssd_sums *sums)
{
    const int tid = (int)threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int k = tid / 2;
    const int at = k % 16;
    float suffix = sums->row[k];
    float prefix = sums->column[k];
    float inner = 0;
    float da = (sums->part[0] + sums->part[1] + sums->part[2] + sums->part[3]) * d->total;
    for (int lanes = 2; lanes < 32; lanes *= 2) {
        const float behind = __shfl_down_sync(0xffffffffu, suffix, lanes);
        const float before = __shfl_up_sync(0xffffffffu, prefix, lanes);
        if (lane + lanes < 32) suffix += behind;
        if (lane >= lanes) prefix += before;
    }
    prefix = __shfl_up_sync(0xffffffffu, prefix, 2);
    for (int i = at; i < 16; i++)
        for (int m = tid % 2; m < at; m += 2) inner += sums->near[16 * warp + i][m];
    inner += __shfl_xor_sync(0xffffffffu, inner, 1);
    da += suffix + inner;
    if (at) da += prefix;
    for (int i = 0; i < 4; i++) {
        if (i < warp) da += sums->leaves[i];
        if (i > warp) da += sums->enters[i];
        for (int m = 0; i > warp && m < warp; m++) da += sums->block[i][m];
    }
    return da;
}
/* Sums over a block's tokens: of dA and dbias each thread has those of token tid / 2 of each chunk,
   of dD that of channel tid. */
struct mmixi_cuda_ssd_own { float dA, dbias, dD; };
/* From da to ddt, and to dA and dbias; two lanes a token, a warp a block of 16. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_steps(const mmixi_cuda_ssd_job &j,
                                                 const mmixi_cuda_ssd_chunk<T> &chunk, size_t b,
                                                 size_t h, mmixi_cuda_ssd_own *own)
{
    const mmixi_cuda_decays *d = chunk.s.d;
    const mmixi_cuda_ssd_sums *sums = chunk.s.s;
    const int k = (int)threadIdx.x / 2, warp = (int)threadIdx.x / 32;
    const float da = mmixi_cuda_ssd_back_da(d, sums);
    if (threadIdx.x % 2 || chunk.t + (size_t)k >= j.r.L) return;
    const mmixi_cuda_token token = { d->u[k], d->delta[k], 0 };
    float after = 0;  /* the exponent of what lies behind the token's block */
    for (int i = warp + 1; i < 4; i++) after += d->block[i];
    float ddelta = sums->whole[k] + d->low[k] * mmixi_cuda_exp2(after) * sums->alone[k] + j.r.A[h] * da;
    ddelta = mmixi_cuda_ssd_ddt(j.r, token, ddelta);
    own->dA += token.delta * da;
    own->dbias += ddelta;
    if (j.r.ddt.p) mmixi_cuda_set(mmixi_cuda_at<T>(j.r.ddt, b, chunk.t + (size_t)k, h), ddelta);
}
/* dD of a chunk: Σ dy x over its tokens, a thread a channel. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_skip(const mmixi_cuda_ssd_tiles<T> &s, int p,
                                                mmixi_cuda_ssd_own *own)
{
    const int tid = (int)threadIdx.x;
    const int ldp = p + 8;
    if (tid >= p) return;
    for (int i = 0; i < 64; i++)
        own->dD += mmixi_cuda_float(s.dy[i * ldp + tid]) * mmixi_cuda_float(s.x[i * ldp + tid]);
}
/* The head's own gradients: dA and dbias are sums over tokens, dD is a number for each channel or
   their sum. */
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_head(const mmixi_cuda_ssd_job &j, float *parts,
                                                float *dhead, mmixi_cuda_ssd_own own)
{
    const size_t tid = threadIdx.x;
    own.dA = mmixi_cuda_block_sum(parts, own.dA);
    own.dbias = mmixi_cuda_block_sum(parts, own.dbias);
    if (j.r.D_width == 1) own.dD = mmixi_cuda_block_sum(parts, own.dD);
    if (!tid) {
        dhead[0] = own.dA;
        dhead[1] = own.dbias;
    }
    if (tid < j.r.D_width) dhead[2 + tid] = own.dD;
}
/* How many teams a block of the backward has. Shared memory has room for two blocks of bf16 and
   N = 64 on a processor, and for one of N = 128, which therefore has two teams: 0.78 of the time on
   an H100. In float, where there is one block as well, two teams took 0.9 to 1.4 times as long as
   one, as sizes were. */
template <int K, int N> struct mmixi_cuda_ssd_teams {
    enum { COUNT = K == MMIX_CUDA_BF16 && N == 128 ? 2 : 1 };
};
/* Whether this thread belongs to the last team, which is the first one where there is but one. */
template <int TEAMS> MMIXI_CUDA_INLINE int mmixi_cuda_last_team(void)
{
    return TEAMS == 1 || threadIdx.x >= MMIXI_CUDA_THREADS;
}
/* Forward, for the h before each chunk of a piece, which goes to the workspace; the last one's
   stays in shared memory. */
template <int K, int TEAMS, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_ssd_back_states(const mmixi_cuda_ssd_job &j,
                                                  const mmixi_cuda_ssd_piece &v,
                                                  const mmixi_cuda_ssd_tiles<T> &s, int n, int p,
                                                  const mmixi_cuda_view<T> &B,
                                                  const mmixi_cuda_view<T> &x)
{
    const size_t head = v.b * j.r.H + v.h;
    const size_t NP = j.r.N * j.r.P;
    if (mmixi_cuda_first_team())
        mmixi_cuda_ssd_state_load(j, n, p, s.sum_h, s.h, mmixi_cuda_ssd_state_of(j.begin, v.index, NP),
                                  mmixi_cuda_ssd_state_of(j.r.initial_state, head, NP), 0, (int)j.r.P);
    for (size_t chunk = v.first; chunk + 1 < v.end; chunk++) {
        const int first = (int)(64 * chunk);     /* of 64 tokens: only the last chunk has fewer */
        __syncthreads();
        if (mmixi_cuda_first_team()) mmixi_cuda_load_tokens(s.b, n + 8, B, first, MMIXI_CUDA_TILE, n);
        if (mmixi_cuda_last_team<TEAMS>()) {
            mmixi_cuda_load_tokens(s.x, p + 8, x, first, MMIXI_CUDA_TILE, p);
            mmixi_cuda_ssd_chunk_store(j, p, s.h, head * j.chunks + chunk);
        }
        mmixi_cuda_ssd_decays<T>(j, s.d, v.b, 64 * chunk, v.h);
        mmixi_cuda_ssd_grow<K, TEAMS>(n, p, s.sum_h, s.h, s.d->total, s.d->weight, s.b, s.x);
    }
    __syncthreads();
}
/* Where a block has two teams the first one takes the rows of S and T, and the other one their
   columns, at the same time. */
template <int K, int N, int P>
MMIXI_CUDA_TEAMS((mmixi_cuda_ssd_teams<K, N>::COUNT))
mmixi_cuda_ssd_backward(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    constexpr int TEAMS = mmixi_cuda_ssd_teams<K, N>::COUNT;
    const int one = mmixi_cuda_first_team();
    const int other = mmixi_cuda_last_team<TEAMS>();
    const int n = N ? N : j.n;
    const int p = P ? P : j.p;
    const int ldn = n + 8;
    const int ldp = p + 8;
    const mmixi_cuda_ssd_piece v = mmixi_cuda_ssd_piece_of(j, 1);
    const size_t b = v.b, h = v.h, L = j.r.L, H = j.r.H, NP = j.r.N * j.r.P;
    const size_t head = b * H + h;
    const mmixi_cuda_view<T> B = mmixi_cuda_view_of<N, T>(j.r.b, b, h, j.r.N);
    const mmixi_cuda_view<T> C = mmixi_cuda_view_of<N, T>(j.r.c, b, h, j.r.N);
    const mmixi_cuda_view<T> x = mmixi_cuda_view_of<P, T>(j.r.x, b, h, j.r.P);
    const mmixi_cuda_view<T> dy = mmixi_cuda_view_of<P, T>(j.r.dy, b, h, j.r.P);
    const mmixi_cuda_view<T> dB = mmixi_cuda_place_of<N, T>(j.db, L, H, j.r.N, b, h);
    const mmixi_cuda_view<T> dC = mmixi_cuda_place_of<N, T>(j.dc, L, H, j.r.N, b, h);
    const mmixi_cuda_view<T> dx = mmixi_cuda_place_of<P, T>(j.dx, L, H, j.r.P, b, h);
    mmixi_cuda_ssd_own own = { 0, 0, 0 };
    mmixi_cuda_ssd_chunk<T> chunk;
    chunk.n = n;
    chunk.p = p;
    mmixi_cuda_ssd_layout(&chunk.s, (char *)mmixi_cuda_shared, n, p, 1, 1);
    const mmixi_cuda_ssd_tiles<T> &s = chunk.s;
    mmixi_cuda_ssd_back_states<K, TEAMS>(j, v, s, n, p, B, x);
    if (other)
        mmixi_cuda_ssd_state_load(j, n, p, s.sum_dh, s.dh, mmixi_cuda_ssd_state_of(j.end, v.index, NP),
                                  mmixi_cuda_ssd_state_of(j.r.dfinal, head, NP), 0, (int)j.r.P);
    for (size_t index = v.end; index-- > v.first;) {
        const int tokens = mmixi_cuda_tokens_from(64 * index, L);
        const int first = (int)(64 * index);
        chunk.t = 64 * index;
        chunk.strips = (tokens + 15) / 16;
        __syncthreads();                         /* the chunk behind was read */
        if (one) {
            mmixi_cuda_load_tokens(s.b, ldn, B, first, tokens, n);
            mmixi_cuda_load_tokens(s.x, ldp, x, first, tokens, p);
            mmixi_cuda_load_tokens(s.dy, ldp, dy, first, tokens, p);
        }
        if (other) {
            if (index + 1 < v.end) mmixi_cuda_ssd_chunk_load(j, n, p, s.h, head * j.chunks + index);
            mmixi_cuda_load_tokens(s.c, ldn, C, first, tokens, n);
        }
        mmixi_cuda_ssd_decays<T>(j, s.d, b, chunk.t, h);
        if (one) {
            mmixi_cuda_ssd_back_rows<K, N, P>(j, chunk, dC);
            if (j.r.dD) mmixi_cuda_ssd_back_skip(s, p, &own);
            mmixi_cuda_ssd_back_dot(s, n, p);
        }
        if (other) mmixi_cuda_ssd_back_columns<K, N, P>(j, chunk, h, dB, dx);
        __syncthreads();                         /* the sums have come; h and dh were read */
        if (one) mmixi_cuda_ssd_back_steps(j, chunk, b, h, &own);
        if (index > v.first || j.r.dinitial)     /* or nobody reads the dh before it */
            mmixi_cuda_ssd_grow<K, TEAMS>(n, p, s.sum_dh, s.dh, s.d->total, s.d->into, s.c, s.dy);
    }
    __syncthreads();
    if (j.r.dinitial && !v.piece && one)
        mmixi_cuda_ssd_state_store_pn(j, p, s.sum_dh, j.r.dinitial + head * NP, 0, (int)j.r.P);
    mmixi_cuda_ssd_back_head(j, (float *)s.x, j.dhead + v.index * (2 + j.r.D_width), own);
}

/* h ← e^a h + δ x Bᵀ, y = h C + D x of one token: a block for each sequence and head, a warp for
   each row of h. */
template <class T> MMIXI_CUDA_TILES mmixi_cuda_ssd_step(MMIXI_CUDA_JOB mmixi_cuda_ssd_job j)
{
    const size_t N = j.r.N;
    const size_t P = j.r.P;
    const size_t b = blockIdx.x / j.r.H;
    const size_t h = blockIdx.x % j.r.H;
    const size_t lane = threadIdx.x % 32;
    const mmixi_cuda_token k = mmixi_cuda_ssd_token<T>(j, b, 0, h);
    const T *x = mmixi_cuda_at<T>(j.r.x, b, 0, h);
    const T *B = mmixi_cuda_at<T>(j.r.b, b, 0, h);
    const T *C = mmixi_cuda_at<T>(j.r.c, b, 0, h);
    const float decay = expf(k.a);
    for (size_t p = threadIdx.x / 32; p < P; p += MMIXI_CUDA_THREADS / 32) {
        const float xp = mmixi_cuda_float(x[p]);
        float y = 0;
        for (size_t n = lane; n < N; n += 32) {
            const size_t at = (blockIdx.x * P + p) * N + n;
            const float before = j.r.initial_state ? j.r.initial_state[at] : 0;
            const float state = decay * before + k.delta * xp * mmixi_cuda_float(B[n]);
            if (j.r.final_state) j.r.final_state[at] = state;
            y += state * mmixi_cuda_float(C[n]);
        }
        for (int lanes = 16; lanes; lanes /= 2) y += __shfl_xor_sync(0xffffffffu, y, lanes);
        if (lane || !j.r.y.p) continue;
        mmixi_cuda_set(mmixi_cuda_at<T>(j.r.y, b, 0, h) + p, y + mmixi_cuda_ssd_skip(j.r, h, p, xp));
    }
}

/* Bytes of shared memory of a block that has `heads` heads. */
static size_t mmixi_cuda_ssd_bytes(const mmixi_cuda_ssd_job *j, int back, int heads)
{
    mmixi_cuda_ssd_tiles<float> floats;
    mmixi_cuda_ssd_tiles<mmixi_cuda_bf16> halves;
    if (j->r.precision == MMIX_CUDA_BF16)
        return mmixi_cuda_ssd_layout(&halves, NULL, j->n, j->p, heads, back);
    return mmixi_cuda_ssd_layout(&floats, NULL, j->n, j->p, heads, back);
}
enum { MMIXI_CUDA_BUSY = 264 };                  /* blocks that keep a GPU busy */
/* So many heads that share B and C as leave blocks enough, and room for two blocks where one can
   have `most` bytes; at most 4. Each head's sums are the same for any number of heads. */
static size_t mmixi_cuda_ssd_together(const mmixi_cuda_ssd_job *j, size_t most)
{
    size_t heads = 1;
    if (j->segments > 1 || j->splits > 1) return 1;
    for (size_t k = 2; k <= 4; k *= 2) {
        const int shared = j->r.b.share % k == 0 && j->r.c.share % k == 0;
        const int busy = j->r.B * j->r.H / k >= MMIXI_CUDA_BUSY;
        const int room = mmixi_cuda_ssd_bytes(j, 0, (int)k) <= most / 2;
        if (shared && busy && room) heads = k;
    }
    return heads;
}
/* Turns the arrays around, so that a scan from the last token to the first runs forward. */
static void mmixi_cuda_ssd_reverse(mmixi_cuda_ssd_job *j, size_t bytes)
{
    mmix_cuda_ssd *r = &j->r;
    mmix_cuda_head_view *views[] = { &r->x, &r->dt, &r->b, &r->c, &r->y, &r->dy, &r->dx, &r->ddt, &r->db,
                                     &r->dc };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) mmixi_cuda_reverse(views[i], r->L, bytes);
    if (r->seq_idx) r->seq_idx += r->L - 1;
    j->seq_token = -1;
}
/* Into how many pieces a sequence is cut: as asked for, or so many that few sequences keep a GPU
   busy. */
static size_t mmixi_cuda_ssd_segments(const mmixi_cuda_ssd_job *j)
{
    const size_t heads = j->r.B * j->r.H;
    const int few = heads > 0 && heads < MMIXI_CUDA_BUSY / 2 && j->chunks >= 8;
    size_t segments = j->r.segments;
    if (j->r.naive) return 1;
    if (!segments) segments = few ? MMIXI_CUDA_BUSY / heads : 1;
    return mmixi_cuda_max(mmixi_cuda_min(segments, j->chunks), (size_t)1);
}
/* Room for (B, L, H, width) in the workspace, where heads share a gradient's array and are added
   later. */
static void *mmixi_cuda_ssd_part(const mmixi_cuda_ssd_job *j, const mmix_cuda_head_view *v,
                                 size_t width, size_t bytes, char *base, size_t *at)
{
    if (v->share <= 1) return NULL;
    return mmixi_cuda_part(base, at, (j->r.B * j->r.L * j->r.H * width * bytes + 3) / 4);
}
/* The job of a call; with base NULL its workspace is only counted. Returns bytes of workspace. All
   that decides the order of sums depends on the shapes alone, never on the GPU: it is part of the
   result. */
static size_t mmixi_cuda_ssd_begin(mmixi_cuda_ssd_job *j, const mmix_cuda_ssd *x, int back,
                                   char *base)
{
    const size_t bytes = x->precision == MMIX_CUDA_BF16 ? 2 : 4;
    const size_t heads = x->B * x->H;
    const size_t state = x->N * x->P;
    size_t at = 0;
    memset(j, 0, sizeof *j);
    j->r = *x;
    j->r.D_width = mmixi_cuda_max(x->D_width, (size_t)1);
    j->seq_token = 1;
    if (x->reverse) mmixi_cuda_ssd_reverse(j, bytes);
    j->chunks = (x->L + 63) / 64;
    j->n = (int)mmixi_cuda_round_up(x->N, 16);
    j->p = (int)mmixi_cuda_round_up(x->P, 16);
    j->heads = 1;
    j->splits = 1;
    j->segments = mmixi_cuda_ssd_segments(j);
    if (x->L) {                                  /* without a token: one piece of no chunks */
        j->run = (j->chunks + j->segments - 1) / j->segments;
        j->segments = (j->chunks + j->run - 1) / j->run;
    }
    if (j->segments > 1) {
        j->begin = mmixi_cuda_part(base, &at, heads * j->segments * state);
        j->sums = mmixi_cuda_part(base, &at, heads * j->segments);
        if (back) j->end = mmixi_cuda_part(base, &at, heads * j->segments * state);
    }
    if (x->naive) {
        j->state = mmixi_cuda_part(base, &at, heads * state);
        if (back) j->all = mmixi_cuda_part(base, &at, heads * x->L * state);
    } else if (back && j->run > 1)
        j->states = mmixi_cuda_part(base, &at, (heads * j->chunks * state * bytes + 3) / 4);
    if (!back) return at;
    j->dx.to = j->r.dx;
    j->db.to = j->r.db;
    j->dc.to = j->r.dc;
    j->dx.part = mmixi_cuda_ssd_part(j, &x->x, x->P, bytes, base, &at);
    j->db.part = mmixi_cuda_ssd_part(j, &x->b, x->N, bytes, base, &at);
    j->dc.part = mmixi_cuda_ssd_part(j, &x->c, x->N, bytes, base, &at);
    j->dhead = mmixi_cuda_part(base, &at, heads * j->segments * (2 + j->r.D_width));
    return at;
}
/* Where a sequence is cut into pieces: the h before each of them, and for a backward the dh
   behind. */
template <int K, int N, int P>
static int mmixi_cuda_ssd_pieces(const mmixi_cuda_ssd_job &j, const mmixi_cuda_ssd_job &forward,
                                 int back)
{
    const size_t blocks = j.r.B * j.r.H * j.segments * (size_t)forward.splits;
    const size_t bytes = mmixi_cuda_ssd_bytes(&forward, 0, 1);
    const size_t states = j.r.B * j.r.H * j.r.N * j.r.P;
    void *stream = j.r.stream;
    if (j.segments == 1) return 0;
    int error = mmixi_cuda_launch(mmixi_cuda_ssd_leave<K, N, P, 0>, blocks, 128, bytes, stream, forward);
    if (!error) error = mmixi_cuda_each(mmixi_cuda_ssd_scan<0>, states, stream, j);
    if (error || !back) return error;
    error = mmixi_cuda_launch(mmixi_cuda_ssd_leave<K, N, P, 1>, blocks, 128, bytes, stream, forward);
    if (!error) error = mmixi_cuda_each(mmixi_cuda_ssd_scan<1>, states, stream, j);
    return error;
}
template <int K, int N, int P>
static int mmixi_cuda_ssd_tiled(const mmixi_cuda_ssd_job &j, const mmixi_cuda_ssd_job &forward,
                                int back)
{
    const size_t pieces = j.r.B * j.r.H * j.segments;
    const size_t blocks = pieces * (size_t)forward.splits / forward.heads;
    const int error = mmixi_cuda_ssd_pieces<K, N, P>(j, forward, back);
    if (error) return error;
    if (back)
        return mmixi_cuda_launch(mmixi_cuda_ssd_backward<K, N, P>, pieces,
                                 128 * mmixi_cuda_ssd_teams<K, N>::COUNT, mmixi_cuda_ssd_bytes(&j, 1, 1),
                                 j.r.stream, j);
    return mmixi_cuda_launch(mmixi_cuda_ssd_forward<K, N, P>, blocks, 128,
                             mmixi_cuda_ssd_bytes(&forward, 0, (int)forward.heads), j.r.stream, forward);
}
/* Whether kernels of fixed widths can have the call: P is 64, and all rows are aligned. */
template <class T> static int mmixi_cuda_ssd_fixed(const mmixi_cuda_ssd_job &j)
{
    int fixed = j.r.P == 64;
    for (const mmix_cuda_head_view *v : { &j.r.x, &j.r.y, &j.r.dy, &j.r.dx })
        fixed &= mmixi_cuda_fixed<T>(*v, j.r.P);
    for (const mmix_cuda_head_view *v : { &j.r.b, &j.r.c, &j.r.db, &j.r.dc })
        fixed &= mmixi_cuda_fixed<T>(*v, j.r.N);
    return fixed;
}
template <int K> static int mmixi_cuda_ssd_by_tiles(const mmixi_cuda_ssd_job &j, int back)
{
    typedef typename mmixi_cuda_format<K>::type T;
    enum { HALF = K == MMIX_CUDA_BF16 };         /* which has kernels for the usual widths */
    mmixi_cuda_ssd_job forward = j;
    size_t most;
    const int error = mmixi_cuda_most(&most);
    if (error) return error;
    if (j.n > 128 || j.p > 128) return MMIX_CUDA_UNSUPPORTED;
    if (back && mmixi_cuda_ssd_bytes(&j, 1, 1) > most) return MMIX_CUDA_UNSUPPORTED;
    /* columns of P do not know of each other: a block of the forward takes as many as it has room
       for */
    while (mmixi_cuda_ssd_bytes(&forward, 0, 1) > most && forward.p > 16)
        forward.p = (int)mmixi_cuda_round_up((size_t)forward.p / 2, 16);
    forward.splits = ((int)j.r.P + forward.p - 1) / forward.p;
    forward.heads = mmixi_cuda_ssd_together(&forward, most);
    const int fixed = HALF && forward.p == 64 && mmixi_cuda_ssd_fixed<T>(j);
    if (fixed && j.r.N == 64) return mmixi_cuda_ssd_tiled<K, HALF * 64, HALF * 64>(j, forward, back);
    if (fixed && j.r.N == 128) return mmixi_cuda_ssd_tiled<K, HALF * 128, HALF * 64>(j, forward, back);
    return mmixi_cuda_ssd_tiled<K, 0, 0>(j, forward, back);
}
template <class T> static int mmixi_cuda_ssd_by_loops(const mmixi_cuda_ssd_job &j, int back)
{
    const size_t heads = j.r.B * j.r.H;
    mmixi_cuda_ssd_job forward = j;
    if (back) {                                  /* whose forward is for the states alone */
        forward.r.y.p = NULL;
        forward.r.final_state = NULL;
    }
    int error = mmixi_cuda_each(mmixi_cuda_ssd_naive<T>, heads, j.r.stream, forward);
    if (!error && back) error = mmixi_cuda_each(mmixi_cuda_ssd_naive_backward<T>, heads, j.r.stream, j);
    return error;
}
/* Sums of gradients over the heads that share an array, and over the sequences. */
template <class T> static int mmixi_cuda_ssd_add_up(const mmixi_cuda_ssd_job &j)
{
    const mmix_cuda_ssd &r = j.r;
    const size_t numbers = r.H * (2 + r.D_width);
    int error = mmixi_cuda_sum_run<T>(j.dx.part, j.dx.to, r.B, r.L, r.H, r.P, r.stream);
    if (!error) error = mmixi_cuda_sum_run<T>(j.db.part, j.db.to, r.B, r.L, r.H, r.N, r.stream);
    if (!error) error = mmixi_cuda_sum_run<T>(j.dc.part, j.dc.to, r.B, r.L, r.H, r.N, r.stream);
    if (!error && (r.dA || r.ddt_bias || r.dD))
        error = mmixi_cuda_each(mmixi_cuda_ssd_sum_sequences, numbers, r.stream, j);
    return error;
}
template <int K> static int mmixi_cuda_ssd_run(const mmixi_cuda_ssd_job &j, int back)
{
    typedef typename mmixi_cuda_format<K>::type T;
    const int error = j.r.naive ? mmixi_cuda_ssd_by_loops<T>(j, back) : mmixi_cuda_ssd_by_tiles<K>(j, back);
    if (error || !back) return error;
    return mmixi_cuda_ssd_add_up<T>(j);
}
static int mmixi_cuda_ssd_call(const mmix_cuda_ssd *x, int back)
{
    mmixi_cuda_ssd_job j;
    mmixi_cuda_ssd_begin(&j, x, back, (char *)x->workspace);
    switch (x->precision) {
    case MMIX_CUDA_BF16: return mmixi_cuda_ssd_run<MMIX_CUDA_BF16>(j, back);
    case MMIX_CUDA_TF32: return mmixi_cuda_ssd_run<MMIX_CUDA_TF32>(j, back);
    default: return mmixi_cuda_ssd_run<MMIX_CUDA_F32>(j, back);
    }
}
MMIXDEF size_t mmix_cuda_ssd_workspace(const mmix_cuda_ssd *x, int backward)
{
    mmixi_cuda_ssd_job j;
    return mmixi_cuda_ssd_begin(&j, x, backward, NULL);
}
MMIXDEF int mmix_cuda_ssd_forward(const mmix_cuda_ssd *x)
{
    return x->L == 1 && !x->naive ? mmix_cuda_ssd_step(x) : mmixi_cuda_ssd_call(x, 0);
}
MMIXDEF int mmix_cuda_ssd_backward(const mmix_cuda_ssd *x) { return mmixi_cuda_ssd_call(x, 1); }
MMIXDEF int mmix_cuda_ssd_step(const mmix_cuda_ssd *x)
{
    mmixi_cuda_ssd_job j;
    const size_t heads = x->B * x->H;
    mmixi_cuda_ssd_begin(&j, x, 0, NULL);
    if (x->precision == MMIX_CUDA_BF16)
        return mmixi_cuda_launch(mmixi_cuda_ssd_step<mmixi_cuda_bf16>, heads, 128, 0, x->stream, j);
    return mmixi_cuda_launch(mmixi_cuda_ssd_step<float>, heads, 128, 0, x->stream, j);
}

/* ==== >>cuda-attention ===============================================================
   softmax attention in tiles of 64 keys, without an L x L matrix

   A block has 64 queries of a head, a warp 16 of them. Scores of one tile of keys, in base 2, are a
   strip in registers; a running maximum t and sum l of each row let the next tile be added, as in
   >>softmax attention of mamba_mix.h. The strip of weights is, as it lies, the left side of the
   product with V.

   Of the tiles that move past the block's own one is multiplied while the next one is under way:
   two stages, where shared memory has room. Only tiles that a mask's edge crosses look at single
   keys; those outside are not loaded.

   Backward in two launches, and no sum is made by more than one block: one with 64 queries a block,
   for dq (and δ_i = dy_i · y_i, which it leaves for the other), one with 64 keys, for dk and dv,
   that walks over the queries of all heads that share the keys (two, one for each, for widths above
   64). They make the weights again from t and 1/l. 7 products (8) against the 5 of a kernel that
   adds dq with atomics, whose bits change from run to run. A bias's gradient is a launch of its
   own.

   From 512 queries on the forward of the usual widths has 128 queries a block and 32 a warp, in two
   strips, so that each fragment of keys and values that is read serves two products.

   Where all keys of a block lie in one tile δ_i is Σ_j p_ij (dy_i · v_j) instead: the same number,
   but with the roundings of what it is subtracted from, so that a query with one key has a gradient
   of exactly 0.

   A window of a grid is a sequence of its own: rows are fetched from the tokens that lie in it.
   ==================================================================================== */

/* The tokens that a block looks at: all, or a window's: extent tokens on each axis from origin
   on. */
struct mmixi_cuda_window {
    int windows, origin[3], extent[3], grid[3], queries, keys;
    unsigned over[2];  /* 2³² over extent 1 · extent 2, and extent 2, rounded up */
};
MMIXI_CUDA_INLINE void mmixi_cuda_window_sized(mmixi_cuda_window *v)
{
    v->queries = v->keys = v->extent[0] * v->extent[1] * v->extent[2];
    v->over[0] = 0xffffffffu / (unsigned)(v->extent[1] * v->extent[2]) + 1;
    v->over[1] = 0xffffffffu / (unsigned)v->extent[2] + 1;
}
template <int FIXED>
MMIXI_CUDA_INLINE mmixi_cuda_window mmixi_cuda_window_at(const mmixi_cuda_attention_job &j,
                                                         unsigned index)
{
    mmixi_cuda_window v;
    v.windows = !FIXED && j.window_count != 0;
    v.queries = (int)j.r.L;
    v.keys = (int)j.r.S;
    if (!v.windows) return v;
    MMIXI_CUDA_UNROLL
    for (int a = 2; a >= 0; a--) {
        const int of_axis = (int)(index % j.windows[a]);
        const int window = (int)j.r.window[a];
        const int shift = (int)j.r.shift[a];
        const int grid = (int)j.r.grid[a];
        const int begin = shift ? shift + (of_axis - 1) * window : of_axis * window;
        index /= j.windows[a];
        v.origin[a] = mmixi_cuda_max(begin, 0);
        v.extent[a] = mmixi_cuda_min(begin + window, grid) - v.origin[a];
        v.grid[a] = grid;
    }
    mmixi_cuda_window_sized(&v);
    return v;
}
/* i / d by 2³² / d, which is exact for products below 2³². */
MMIXI_CUDA_INLINE int mmixi_cuda_window_row(const mmixi_cuda_window &v, int i, int d, unsigned over)
{
    if (d == 1) return i;
    return v.keys < 65536 ? (int)__umulhi((unsigned)i, over) : i / d;
}
/* A token's coordinates within its window. */
struct mmixi_cuda_place3 { int at[3]; };
MMIXI_CUDA_INLINE mmixi_cuda_place3 mmixi_cuda_window_place3(const mmixi_cuda_window &v, int i)
{
    mmixi_cuda_place3 p;
    p.at[0] = mmixi_cuda_window_row(v, i, v.extent[1] * v.extent[2], v.over[0]);
    i -= p.at[0] * v.extent[1] * v.extent[2];
    p.at[1] = mmixi_cuda_window_row(v, i, v.extent[2], v.over[1]);
    p.at[2] = i - p.at[1] * v.extent[2];
    return p;
}
MMIXI_CUDA_INLINE int mmixi_cuda_window_token3(const mmixi_cuda_window &v,
                                               const mmixi_cuda_place3 &p)
{
    return ((v.origin[0] + p.at[0]) * v.grid[1] + v.origin[1] + p.at[1]) * v.grid[2] + v.origin[2] + p.at[2];
}
MMIXI_CUDA_INLINE int mmixi_cuda_window_token(const mmixi_cuda_window &v, int i)
{
    return v.windows ? mmixi_cuda_window_token3(v, mmixi_cuda_window_place3(v, i)) : i;
}
/* A number of each token of a window; differences of two tell their distance. */
MMIXI_CUDA_INLINE int mmixi_cuda_window_place(const mmixi_cuda_attention_job &j,
                                              const mmixi_cuda_window &v, int i)
{
    const mmixi_cuda_place3 p = mmixi_cuda_window_place3(v, i);
    return (p.at[0] * (2 * (int)j.r.window[1] - 1) + p.at[1]) * (2 * (int)j.r.window[2] - 1) + p.at[2];
}

/* What 64 queries see: one of them something from the key `least` on and before `most`, all of them
   all keys from `all` to before `end`. */
struct mmixi_cuda_seen { int least, most, all, end; };
/* The keys low … high - 1 that each of the 64 sees, and what each of two warps' 32 see together. */
struct mmixi_cuda_spans {
    int low[64], high[64];
    mmixi_cuda_seen part[2];
};
/* Of the queries of a stage what the forward left of their softmax, and δ; of a stage's tokens the
   places in their window. */
struct mmixi_cuda_stage {
    float top[64], over[64], delta[64];
    int place[64];
};
/* A block's own tile of n and of p columns, those of each stage, and what belongs to them. */
template <class T> struct mmixi_cuda_attention_tiles {
    T *own_n, *own_p, *n, *p;
    mmixi_cuda_spans *spans;
    mmixi_cuda_stage *rows;
};
template <class T>
MMIXI_CUDA_BOTH size_t mmixi_cuda_attention_layout(mmixi_cuda_attention_tiles<T> *s, char *base,
                                                   int n, int p, int back, int stages)
{
    const size_t rows_n = (size_t)MMIXI_CUDA_TILE * (size_t)(n + 8) * sizeof(T);
    const size_t rows_p = (size_t)MMIXI_CUDA_TILE * (size_t)(p + 8) * sizeof(T);
    size_t at = 0;
    s->own_n = (T *)mmixi_cuda_take(base, &at, rows_n);
    s->own_p = (T *)mmixi_cuda_take(base, &at, back ? rows_p : 0);
    s->n = (T *)mmixi_cuda_take(base, &at, (size_t)stages * rows_n);
    s->p = (T *)mmixi_cuda_take(base, &at, (size_t)stages * rows_p);
    s->spans = (mmixi_cuda_spans *)mmixi_cuda_take(base, &at, 2 * sizeof *s->spans);
    s->rows = (mmixi_cuda_stage *)mmixi_cuda_take(base, &at, (size_t)stages * sizeof *s->rows);
    return at;
}
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_load_window(T *tile, int ld, const mmixi_cuda_view<T> &v,
                                              const mmixi_cuda_window &w, int first, int end,
                                              int padded)
{
    const int count = mmixi_cuda_min(end - first, (int)MMIXI_CUDA_TILE);
    if (!w.windows) {
        mmixi_cuda_load_tokens(tile, ld, v, first, count, padded);
        return;
    }
    mmixi_cuda_load(tile, ld, v, MMIXI_CUDA_TILE, count, padded,
                    [&](int r) { return mmixi_cuda_window_token(w, first + r); });
}
/* Places of tokens first …, for a bias. */
template <int FIXED>
MMIXI_CUDA_INLINE void mmixi_cuda_places(const mmixi_cuda_attention_job &j, int *place,
                                         const mmixi_cuda_window &w, int first)
{
    if (!FIXED && j.r.bias && threadIdx.x < 64)
        place[threadIdx.x] = mmixi_cuda_window_place(j, w,
                                                     mmixi_cuda_min(first + (int)threadIdx.x, w.keys - 1));
}
/* The keys that query i of the window sees, as places of the window; none if there is no such
   query. */
MMIXI_CUDA_INLINE void mmixi_cuda_window_span(const mmixi_cuda_attention_job &j,
                                              const mmixi_cuda_window &w, size_t b, int i,
                                              size_t *low, size_t *high)
{
    *low = 0;
    *high = 0;
    if (i >= w.queries) return;
    if (!w.windows) mmixi_cuda_span(j, b, (size_t)i, low, high);
    else if (j.r.mask == MMIX_MASK_CAUSAL) *high = (size_t)i + 1;
    else *high = (size_t)w.keys;
}
/* What queries i … i + 63 see, in places of the window. The block comes together. */
MMIXI_CUDA_INLINE mmixi_cuda_seen mmixi_cuda_spans_of(const mmixi_cuda_attention_job &j,
                                                      mmixi_cuda_spans *spans,
                                                      const mmixi_cuda_window &w, size_t b, int i)
{
    __syncthreads();
    if (threadIdx.x < 64) {
        size_t low, high;
        mmixi_cuda_window_span(j, w, b, i + (int)threadIdx.x, &low, &high);
        mmixi_cuda_seen v;
        v.least = low < high ? (int)low : w.keys;
        v.most = low < high ? (int)high : 0;
        v.all = (int)low;
        v.end = (int)high;
        spans->low[threadIdx.x] = (int)low;
        spans->high[threadIdx.x] = (int)high;
        for (int lanes = 16; lanes; lanes /= 2) {
            v.least = mmixi_cuda_min(v.least, __shfl_xor_sync(0xffffffffu, v.least, lanes));
            v.most = mmixi_cuda_max(v.most, __shfl_xor_sync(0xffffffffu, v.most, lanes));
            v.all = mmixi_cuda_max(v.all, __shfl_xor_sync(0xffffffffu, v.all, lanes));
            v.end = mmixi_cuda_min(v.end, __shfl_xor_sync(0xffffffffu, v.end, lanes));
        }
        if (threadIdx.x % 32 == 0) spans->part[threadIdx.x / 32] = v;
    }
    __syncthreads();
    const mmixi_cuda_seen first = spans->part[0];
    const mmixi_cuda_seen second = spans->part[1];
    mmixi_cuda_seen both;
    both.least = mmixi_cuda_min(first.least, second.least);
    both.most = mmixi_cuda_max(first.most, second.most);
    both.all = mmixi_cuda_max(first.all, second.all);
    both.end = mmixi_cuda_min(first.end, second.end);
    return both;
}
/* A fixed kernel has a simple mask: every query sees all keys, or all up to its own, and nothing
   else has a say. What a block of queries sees is then said by two sums, with no barrier and no
   memory. */
static int mmixi_cuda_simple_mask(const mmix_cuda_attention &r)
{
    const int simple = r.mask == MMIX_MASK_NONE || r.mask == MMIX_MASK_CAUSAL;
    return simple && !r.window[0] && !r.seq_idx;
}
/* Before which key query i of a simple mask stops; a query behind the last one sees nothing. */
MMIXI_CUDA_INLINE int mmixi_cuda_simple_end(const mmixi_cuda_attention_job &j,
                                            const mmixi_cuda_window &w, int i)
{
    const int end = j.r.mask == MMIX_MASK_CAUSAL ? i + w.keys - w.queries + 1 : w.keys;
    return i < w.queries ? end : 0;
}
/* What queries i … i + 63 see; `spans` says it of each of them where the mask is not simple. */
template <int FIXED>
MMIXI_CUDA_INLINE mmixi_cuda_seen mmixi_cuda_seen_of(const mmixi_cuda_attention_job &j,
                                                     mmixi_cuda_spans *spans,
                                                     const mmixi_cuda_window &w, size_t b, int i)
{
    if (!FIXED) return mmixi_cuda_spans_of(j, spans, w, b, i);
    mmixi_cuda_seen seen;
    seen.least = 0;
    seen.most = mmixi_cuda_simple_end(j, w, mmixi_cuda_min(i + 63, w.queries - 1));
    seen.all = 0;
    seen.end = i + 63 < w.queries ? mmixi_cuda_simple_end(j, w, i) : 0;
    return seen;
}
/* Queries, or keys, of the largest window, or all. */
MMIXI_CUDA_BOTH size_t mmixi_cuda_most_tokens(const mmixi_cuda_attention_job &j, int queries)
{
    if (j.window_count) return j.most;
    return queries ? j.r.L : j.r.S;
}
/* Which block of queries, or of keys, of which window, head (or group) and sequence; of causal
   queries the longest rows first. */
struct mmixi_cuda_attention_piece {
    size_t b, h;
    int first;
    mmixi_cuda_window w;
};
template <int FIXED>
MMIXI_CUDA_INLINE mmixi_cuda_attention_piece
mmixi_cuda_attention_piece_of(const mmixi_cuda_attention_job &j, size_t heads, int queries)
{
    mmixi_cuda_attention_piece v;
    const unsigned tiles = (unsigned)((mmixi_cuda_most_tokens(j, queries) + 63) / 64);
    const unsigned windows = FIXED ? 1 : mmixi_cuda_max(j.window_count, 1u);
    const unsigned tile = blockIdx.x % tiles;
    const unsigned rest = blockIdx.x / tiles;
    const int backwards = queries && j.r.mask == MMIX_MASK_CAUSAL;
    v.first = (int)((backwards ? tiles - 1 - tile : tile) * 64);
    v.w = mmixi_cuda_window_at<FIXED>(j, rest % windows);
    v.h = rest / windows % (unsigned)heads;
    v.b = rest / windows / (unsigned)heads;
    return v;
}

/* Of a lane's two queries what they see, their places, and their head's bias, at distance 0. */
struct mmixi_cuda_own {
    int low[2], high[2], place[2];
    const float *bias;
};
template <int FIXED>
MMIXI_CUDA_INLINE mmixi_cuda_own mmixi_cuda_own_of(const mmixi_cuda_attention_job &j,
                                                   const mmixi_cuda_window &w,
                                                   const mmixi_cuda_spans *spans, size_t h,
                                                   int first, int row)
{
    mmixi_cuda_own v;
    v.bias = !FIXED && j.r.bias ? j.r.bias + (h * j.distances + j.distances / 2) : NULL;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        const int at = row + 8 * e;
        v.low[e] = FIXED ? 0 : spans->low[at];
        v.high[e] = FIXED ? mmixi_cuda_simple_end(j, w, first + at) : spans->high[at];
        v.place[e] = 0;
        if (v.bias) v.place[e] = mmixi_cuda_window_place(j, w, mmixi_cuda_min(first + at, w.keys - 1));
    }
    return v;
}
/* What a score is multiplied by when its exponential is taken, in the same instruction as the
   subtraction of the row's largest. A fixed kernel leaves products q · k as they are until then
   (its scale is positive, so that the largest product is the largest score); the others have scaled
   them, for the bias, and multiply by 1. */
template <int FIXED>
MMIXI_CUDA_INLINE float mmixi_cuda_late_scale(const mmixi_cuda_attention_job &j)
{
    return FIXED ? j.scale2 : 1;
}
/* From products q · k with the keys first … to scores in base 2, up to the late scale; -∞ where a
   query does not see the key. */
template <int FIXED>
MMIXI_CUDA_INLINE void mmixi_cuda_scores(float (&S)[MMIXI_CUDA_STRIP][4],
                                         const mmixi_cuda_attention_job &j,
                                         const mmixi_cuda_own &own, const int *place, int first,
                                         const mmixi_cuda_seen &seen)
{
    if (!FIXED) mmixi_cuda_strip_scale(S, j.scale2);
    if (own.bias) mmixi_cuda_strip_each(S, [&](float &x, int row, int column) {
        x += MMIXI_CUDA_LOG2E * own.bias[own.place[row / 8] - place[column]];
    });
    if (first >= seen.all && first + 64 <= seen.end) return;         /* all of them are seen */
    mmixi_cuda_strip_each(S, [&](float &x, int row, int column) {
        if (first + column < own.low[row / 8] || first + column >= own.high[row / 8]) x = -INFINITY;
    });
}
/* A strip's rows to tokens first … of a window. */
template <class T, int W>
MMIXI_CUDA_INLINE void mmixi_cuda_store_window(const float (&c)[W][4], const mmixi_cuda_view<T> &v,
                                               const mmixi_cuda_window &w, int first, int end)
{
    mmixi_cuda_strip_store<T>(c, end - first, v.width, v.aligned, [&](int row) {
        return v.p + mmixi_cuda_window_token(w, first + row) * v.token;
    });
}

/* How many of a tile's 4 groups of 16 tokens `tokens` need. */
MMIXI_CUDA_INLINE int mmixi_cuda_strips_of(int tokens)
{
    return (mmixi_cuda_min(tokens, (int)MMIXI_CUDA_TILE) + 15) / 16;
}

/* One tile's step of the online softmax. S: scores of the lane's two rows, then their weights e^(s
   - t), t the largest score so far; top, sum: t and Σ weights; what was summed before, y too, is
   scaled to the new t. */
template <int W>
MMIXI_CUDA_INLINE void mmixi_cuda_online_softmax(float (&S)[MMIXI_CUDA_STRIP][4], float (&y)[W][4],
                                                 float (&top)[2], float (&sum)[2], float late)
{
    float scale[2];
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        float high = -INFINITY;
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
            high = fmaxf(high, fmaxf(S[i][2 * e], S[i][2 * e + 1]));
        high = fmaxf(top[e], late * mmixi_cuda_row_max(high));
        const float base = high == -INFINITY ? 0 : high;     /* nothing yet: all weights are 0 */
        scale[e] = mmixi_cuda_exp2(top[e] - base);
        top[e] = high;
        sum[e] *= scale[e];
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < MMIXI_CUDA_STRIP; i++) {
            S[i][2 * e] = mmixi_cuda_exp2(late * S[i][2 * e] - base);
            S[i][2 * e + 1] = mmixi_cuda_exp2(late * S[i][2 * e + 1] - base);
            sum[e] += S[i][2 * e] + S[i][2 * e + 1];
        }
    }
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < W; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) y[i][e] *= scale[e / 2];
}
/* The tile of keys and values from `first` on, to a stage. */
template <int FIXED, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_load_keys(const mmixi_cuda_attention_job &j,
                                            const mmixi_cuda_attention_tiles<T> &s,
                                            const mmixi_cuda_window &w,
                                            const mmixi_cuda_view<T> &keys,
                                            const mmixi_cuda_view<T> &values, int n, int p,
                                            int first, int stage)
{
    mmixi_cuda_load_window(s.n + stage * 64 * (n + 8), n + 8, keys, w, first, w.keys, n);
    mmixi_cuda_load_window(s.p + stage * 64 * (p + 8), p + 8, values, w, first, w.keys, p);
    mmixi_cuda_places<FIXED>(j, s.rows[stage].place, w, first);
}
/* What the backward wants of a lane's two queries: the largest score and 1 / Σ of their softmax.
   `sum` is the lane's part of Σ, and becomes 1 / Σ. */
MMIXI_CUDA_INLINE void mmixi_cuda_store_softmax(const mmixi_cuda_attention_job &j,
                                                const mmixi_cuda_window &w, size_t b, size_t h,
                                                int lane_row, const float (&top)[2],
                                                float (&sum)[2])
{
    for (int e = 0; e < 2; e++) {
        const int row = lane_row + 8 * e;
        sum[e] = 1 / mmixi_cuda_row_sum(sum[e]);
        if (row >= w.queries || threadIdx.x % 4) continue;
        const size_t index = (b * j.r.H + h) * j.r.L + (size_t)mmixi_cuda_window_token(w, row);
        if (j.r.top) j.r.top[index] = top[e];
        if (j.r.over) j.r.over[index] = sum[e];
    }
}
/* y, top and sum with one more tile of keys. WHOLE: all queries see all of its 64 keys, so that no
   branch is left. */
template <int K, int FIXED, int WHOLE, int WIDTH, int W, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_forward_tile(float (&y)[W][4], float (&top)[2], float (&sum)[2],
                                               const mmixi_cuda_attention_job &j,
                                               const mmixi_cuda_own &own,
                                               const mmixi_cuda_seen &seen, const int *place,
                                               const T *q, const T *k, const T *v, int n, int p,
                                               int first)
{
    const float late = mmixi_cuda_late_scale<FIXED>(j);
    const int strips = WHOLE ? MMIXI_CUDA_STRIP / 2 : mmixi_cuda_strips_of(seen.most - first);
    float S[MMIXI_CUDA_STRIP][4];
    mmixi_cuda_strip_zero(S);
    mmixi_cuda_strip_rows<K, WIDTH>(S, 0, 2 * strips, n, q, k);
    if (!WHOLE) mmixi_cuda_scores<FIXED>(S, j, own, place, first, seen);
    mmixi_cuda_online_softmax(S, y, top, sum, late);
    mmixi_cuda_strip_through<K>(y, S, 0, strips, p / 8, v, p + 8);
}
/* Whether every query of a fixed kernel's block, or warp, sees all keys first … first + 63. */
template <int FIXED> MMIXI_CUDA_INLINE int mmixi_cuda_whole_tile(const mmixi_cuda_seen &seen, int first)
{
    return FIXED && first >= seen.all && first + 64 <= seen.end;
}
/* W: strips of 8 columns that N and P need at most. FIXED: both need all of them, arrays are
   aligned, there is room for two stages, the mask is simple and the scale positive. */
template <int K, int W, int FIXED>
MMIXI_CUDA_BLOCKS(FIXED && W == 8 ? 4 : 2)
mmixi_cuda_attention_forward(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    constexpr int WIDTH = FIXED ? 8 * W : 0;
    const int stages = FIXED ? 2 : j.stages;
    const int n = WIDTH ? WIDTH : j.n;
    const int p = WIDTH ? WIDTH : j.p;
    const int row0 = 16 * mmixi_cuda_same_warp();
    const int lane_row = row0 + mmixi_cuda_lane_row();
    const mmixi_cuda_attention_piece at = mmixi_cuda_attention_piece_of<FIXED>(j, j.r.H, 1);
    const mmixi_cuda_window &w = at.w;
    mmixi_cuda_attention_tiles<T> s;
    float y[W][4], top[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 };
    if (at.first >= w.queries) return;
    mmixi_cuda_attention_layout(&s, (char *)mmixi_cuda_shared, n, p, 0, stages);
    const mmixi_cuda_view<T> queries = mmixi_cuda_view_of<WIDTH, T>(j.r.q, at.b, at.h, j.r.N);
    const mmixi_cuda_view<T> keys = mmixi_cuda_view_of<WIDTH, T>(j.r.k, at.b, at.h, j.r.N);
    const mmixi_cuda_view<T> values = mmixi_cuda_view_of<WIDTH, T>(j.r.v, at.b, at.h, j.r.P);
    mmixi_cuda_load_window(s.own_n, n + 8, queries, w, at.first, w.queries, n);
    const mmixi_cuda_seen seen = mmixi_cuda_seen_of<FIXED>(j, s.spans, w, at.b, at.first);
    const mmixi_cuda_own own = mmixi_cuda_own_of<FIXED>(j, w, s.spans, at.h, at.first, lane_row);
    const T *q = s.own_n + row0 * (n + 8);
    mmixi_cuda_strip_zero(y);
    mmixi_cuda_load_keys<FIXED>(j, s, w, keys, values, n, p, seen.least / 64 * 64, 0);
    int stage = 0;
    for (int first = seen.least / 64 * 64; first < seen.most; first += 64) {
        const T *k = s.n + stage * 64 * (n + 8);
        const T *v = s.p + stage * 64 * (p + 8);
        const int more = first + 64 < seen.most;
        const int queried = at.first + row0 < w.queries;     /* this warp has a query */
        const int *place = s.rows[stage].place;
        mmixi_cuda_wait();
        __syncthreads();  /* this tile has come, and the one before was read */
        if (stages > 1 && more)
            mmixi_cuda_load_keys<FIXED>(j, s, w, keys, values, n, p, first + 64, stage ^ 1);
        if (queried && mmixi_cuda_whole_tile<FIXED>(seen, first))
            mmixi_cuda_forward_tile<K, FIXED, FIXED, WIDTH>(y, top, sum, j, own, seen, place, q, k, v, n, p,
                                                            first);
        else if (queried)
            mmixi_cuda_forward_tile<K, FIXED, 0, WIDTH>(y, top, sum, j, own, seen, place, q, k, v, n, p,
                                                        first);
        if (stages == 1 && more) {
            __syncthreads();
            mmixi_cuda_load_keys<FIXED>(j, s, w, keys, values, n, p, first + 64, 0);
        }
        stage ^= stages - 1;
    }
    mmixi_cuda_wait();                           /* where no key is seen */
    mmixi_cuda_store_softmax(j, w, at.b, at.h, at.first + lane_row, top, sum);
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < W; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) y[i][e] *= sum[e / 2];
    const mmixi_cuda_view<T> results = mmixi_cuda_view_of<WIDTH, T>(j.r.y, at.b, at.h, j.r.P);
    mmixi_cuda_store_window(y, results, w, at.first + row0, w.queries);
}

/* The same for long sequences, in a fixed kernel: a block has 128 queries and a warp 32 of them, two
   strips. A fragment of keys or values is then read from shared memory once for two products, and
   the queries' own fragments stay in registers. */
enum { MMIXI_CUDA_LONG_BLOCK = 128, MMIXI_CUDA_LONG_FROM = 512 };
/* Which of them a block has, the longest rows first. */
MMIXI_CUDA_INLINE mmixi_cuda_attention_piece
mmixi_cuda_long_piece_of(const mmixi_cuda_attention_job &j)
{
    mmixi_cuda_attention_piece v;
    const unsigned tiles = (unsigned)((j.r.L + MMIXI_CUDA_LONG_BLOCK - 1) / MMIXI_CUDA_LONG_BLOCK);
    const unsigned tile = blockIdx.x % tiles;
    const unsigned head = blockIdx.x / tiles;
    const int backwards = j.r.mask == MMIX_MASK_CAUSAL;
    v.first = (int)(backwards ? tiles - 1 - tile : tile) * MMIXI_CUDA_LONG_BLOCK;
    v.h = head % (unsigned)j.r.H;
    v.b = head / (unsigned)j.r.H;
    v.w = mmixi_cuda_window_at<1>(j, 0);
    return v;
}
/* What the 32 queries of a warp see, from query `first` on. */
MMIXI_CUDA_INLINE mmixi_cuda_seen mmixi_cuda_long_seen(const mmixi_cuda_attention_job &j,
                                                       const mmixi_cuda_window &w, int first)
{
    const int last = first + 31;
    mmixi_cuda_seen seen;
    seen.least = 0;
    seen.all = 0;
    seen.most = first < w.queries ? mmixi_cuda_simple_end(j, w, mmixi_cuda_min(last, w.queries - 1)) : 0;
    seen.end = last < w.queries ? mmixi_cuda_simple_end(j, w, first) : 0;
    return seen;
}
/* Two strips of scores: q kᵀ for the tile's first 16 `strips` keys. */
template <int K, int DEPTH, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_long_scores(float (&S)[2][MMIXI_CUDA_STRIP][4],
                                              const mmixi_cuda_a<K> (&q)[2][DEPTH / 16], const T *k,
                                              int strips)
{
    const int ld = DEPTH + 8;
    MMIXI_CUDA_UNROLL
    for (int c = 0; c < DEPTH / 16; c++)
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < MMIXI_CUDA_STRIP; i += 2) {
            if (i >= 2 * strips) continue;
            const mmixi_cuda_b2<K> right = mmixi_cuda_b_rows<K>(k + 8 * i * ld + 16 * c, ld);
            MMIXI_CUDA_UNROLL
            for (int s = 0; s < 2; s++) {
                mmixi_cuda_mma(S[s][i], q[s][c], right.half[0]);
                mmixi_cuda_mma(S[s][i + 1], q[s][c], right.half[1]);
            }
        }
}
/* y += weights · v, both strips. */
template <int K, int W, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_long_values(float (&y)[2][W][4],
                                              const float (&S)[2][MMIXI_CUDA_STRIP][4], const T *v,
                                              int strips)
{
    const int ld = 8 * W + 8;
    MMIXI_CUDA_UNROLL
    for (int c = 0; c < MMIXI_CUDA_STRIP / 2; c++) {
        if (c >= strips) continue;
        const mmixi_cuda_a<K> left[2] = { mmixi_cuda_a_strip<K>(S[0], c), mmixi_cuda_a_strip<K>(S[1], c) };
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < W; i += 2) {
            const mmixi_cuda_b2<K> right = mmixi_cuda_b_columns<K>(v + 16 * c * ld + 8 * i, ld);
            MMIXI_CUDA_UNROLL
            for (int s = 0; s < 2; s++) {
                mmixi_cuda_mma(y[s][i], left[s], right.half[0]);
                mmixi_cuda_mma(y[s][i + 1], left[s], right.half[1]);
            }
        }
    }
}
/* Both strips with one more tile of keys, as mmixi_cuda_forward_tile. */
template <int K, int WHOLE, int W, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_long_tile(float (&y)[2][W][4], float (&top)[2][2],
                                            float (&sum)[2][2], const mmixi_cuda_attention_job &j,
                                            const mmixi_cuda_own (&own)[2],
                                            const mmixi_cuda_seen &seen,
                                            const mmixi_cuda_a<K> (&q)[2][W / 2], const T *k,
                                            const T *v, int first)
{
    const float late = mmixi_cuda_late_scale<1>(j);
    const int strips = WHOLE ? MMIXI_CUDA_STRIP / 2 : mmixi_cuda_strips_of(seen.most - first);
    float S[2][MMIXI_CUDA_STRIP][4];
    mmixi_cuda_strip_zero(S[0]);
    mmixi_cuda_strip_zero(S[1]);
    mmixi_cuda_long_scores<K, 8 * W>(S, q, k, strips);
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        if (!WHOLE) mmixi_cuda_scores<1>(S[e], j, own[e], NULL, first, seen);
        mmixi_cuda_online_softmax(S[e], y[e], top[e], sum[e], late);
    }
    mmixi_cuda_long_values<K, W>(y, S, v, strips);
}
template <int K, int W>
MMIXI_CUDA_TILES mmixi_cuda_attention_forward_long(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    constexpr int WIDTH = 8 * W;
    const int ld = WIDTH + 8;
    const int warp = mmixi_cuda_same_warp();
    const mmixi_cuda_attention_piece at = mmixi_cuda_long_piece_of(j);
    const mmixi_cuda_window &w = at.w;
    const int row0 = at.first + 32 * warp;       /* this warp's first query */
    const int after = mmixi_cuda_min(at.first + MMIXI_CUDA_LONG_BLOCK, w.queries);
    const int end = mmixi_cuda_simple_end(j, w, after - 1);
    const mmixi_cuda_seen seen = mmixi_cuda_long_seen(j, w, row0);
    mmixi_cuda_attention_tiles<T> s;
    mmixi_cuda_a<K> q[2][WIDTH / 16];
    float y[2][W][4], top[2][2], sum[2][2];
    mmixi_cuda_own own[2];
    mmixi_cuda_attention_layout(&s, (char *)mmixi_cuda_shared, WIDTH, WIDTH, 1, 2);
    const mmixi_cuda_view<T> queries = mmixi_cuda_view_of<WIDTH, T>(j.r.q, at.b, at.h, j.r.N);
    const mmixi_cuda_view<T> keys = mmixi_cuda_view_of<WIDTH, T>(j.r.k, at.b, at.h, j.r.N);
    const mmixi_cuda_view<T> values = mmixi_cuda_view_of<WIDTH, T>(j.r.v, at.b, at.h, j.r.P);
    /* half of the queries lie in each of the block's own tiles */
    mmixi_cuda_load_window(s.own_n, ld, queries, w, at.first, w.queries, WIDTH);
    mmixi_cuda_load_window(s.own_p, ld, queries, w, at.first + 64, w.queries, WIDTH);
    mmixi_cuda_load_keys<1>(j, s, w, keys, values, WIDTH, WIDTH, 0, 0);
    mmixi_cuda_wait();
    __syncthreads();
    const T *rows = (warp < 2 ? s.own_n : s.own_p) + warp % 2 * 32 * ld;
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        MMIXI_CUDA_UNROLL
        for (int c = 0; c < WIDTH / 16; c++) q[e][c] = mmixi_cuda_a_rows<K>(rows + 16 * e * ld + 16 * c, ld);
        own[e] = mmixi_cuda_own_of<1>(j, w, s.spans, at.h, row0, 16 * e + mmixi_cuda_lane_row());
        mmixi_cuda_strip_zero(y[e]);
        top[e][0] = top[e][1] = -INFINITY;
        sum[e][0] = sum[e][1] = 0;
    }
    int stage = 0;
    for (int first = 0; first < end; first += 64) {
        const T *k = s.n + stage * 64 * ld;
        const T *v = s.p + stage * 64 * ld;
        mmixi_cuda_wait();
        __syncthreads();  /* this tile has come, and the one before was read */
        stage ^= 1;
        if (first + 64 < end) mmixi_cuda_load_keys<1>(j, s, w, keys, values, WIDTH, WIDTH, first + 64, stage);
        if (mmixi_cuda_whole_tile<1>(seen, first))
            mmixi_cuda_long_tile<K, 1>(y, top, sum, j, own, seen, q, k, v, first);
        else if (first < seen.most)              /* one of this warp's queries sees a key of it */
            mmixi_cuda_long_tile<K, 0>(y, top, sum, j, own, seen, q, k, v, first);
    }
    const mmixi_cuda_view<T> results = mmixi_cuda_view_of<WIDTH, T>(j.r.y, at.b, at.h, j.r.P);
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        mmixi_cuda_store_softmax(j, w, at.b, at.h, row0 + 16 * e + mmixi_cuda_lane_row(), top[e], sum[e]);
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < W; i++)
            MMIXI_CUDA_UNROLL
            for (int k = 0; k < 4; k++) y[e][i][k] *= sum[e][k / 2];
        mmixi_cuda_store_window(y[e], results, w, row0 + 16 * e, w.queries);
    }
}

/* δ_i = dy_i · y_i of the block's 64 queries, half a row a thread, from tiles of 64 rows. */
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_row_deltas(float *delta, const T *dy, const T *y, int p, int ld)
{
    const int row = (int)threadIdx.x / 2;
    float sum = 0;
    for (int c = (int)threadIdx.x % 2 * 2; c < p; c += 4) {
        const float2 up = mmixi_cuda_pair(dy + row * ld + c);
        const float2 value = mmixi_cuda_pair(y + row * ld + c);
        sum += up.x * value.x + up.y * value.y;
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (threadIdx.x % 2 == 0) delta[row] = sum;
}
/* From scores S and Z_ij = dy_i · v_j to ds_ij = p_ij (Z_ij - δ_i), in S's place. `one`: all keys
   lie in this tile, and δ_i is made of its products (see the room's head). */
MMIXI_CUDA_INLINE void mmixi_cuda_dscores(float (&S)[MMIXI_CUDA_STRIP][4],
                                          const float (&Z)[MMIXI_CUDA_STRIP][4],
                                          const float (&top)[2], const float (&over)[2],
                                          float (&delta)[2], float late, int one)
{
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++)
            S[i][e] = over[e / 2] * mmixi_cuda_exp2(late * S[i][e] - top[e / 2]);
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2 && one; e++) {
        delta[e] = 0;
        MMIXI_CUDA_UNROLL
        for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
            delta[e] += S[i][2 * e] * Z[i][2 * e] + S[i][2 * e + 1] * Z[i][2 * e + 1];
        delta[e] = mmixi_cuda_row_sum(delta[e]);
    }
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) S[i][e] *= Z[i][e] - delta[e / 2];
}
/* The block's queries and dy; and δ of a lane's two queries, with what the forward left of their
   softmax. The rows of y lie for that where the first values come later. */
template <int WIDTH, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_dq_begin(const mmixi_cuda_attention_job &j,
                                           const mmixi_cuda_attention_tiles<T> &s,
                                           const mmixi_cuda_attention_piece &at, int n, int p)
{
    const mmixi_cuda_view<T> q = mmixi_cuda_view_of<WIDTH, T>(j.r.q, at.b, at.h, j.r.N);
    const mmixi_cuda_view<T> dy = mmixi_cuda_view_of<WIDTH, T>(j.r.dy, at.b, at.h, j.r.P);
    const mmixi_cuda_view<T> y = mmixi_cuda_view_of<WIDTH, T>(j.r.y, at.b, at.h, j.r.P);
    mmixi_cuda_load_window(s.own_n, n + 8, q, at.w, at.first, at.w.queries, n);
    mmixi_cuda_load_window(s.own_p, p + 8, dy, at.w, at.first, at.w.queries, p);
    mmixi_cuda_load_window(s.p, p + 8, y, at.w, at.first, at.w.queries, p);
}
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_dq_rows(const mmixi_cuda_attention_job &j,
                                          const mmixi_cuda_attention_tiles<T> &s,
                                          const mmixi_cuda_attention_piece &at, int p, int lane_row,
                                          float (&top)[2], float (&over)[2], float (&delta)[2])
{
    mmixi_cuda_wait();
    __syncthreads();                             /* y and dy have come */
    mmixi_cuda_row_deltas(s.rows->delta, s.own_p, s.p, p, p + 8);
    __syncthreads();
    MMIXI_CUDA_UNROLL
    for (int e = 0; e < 2; e++) {
        const int row = at.first + lane_row + 8 * e;
        const int there = row < at.w.queries;
        const size_t token = there ? (size_t)mmixi_cuda_window_token(at.w, row) : 0;
        const size_t index = (at.b * j.r.H + at.h) * j.r.L + token;
        delta[e] = s.rows->delta[lane_row + 8 * e];
        top[e] = there ? j.r.top[index] : 0;
        over[e] = there ? j.r.over[index] : 0;
    }
}
/* δ of a lane's two queries, for the other launch. */
MMIXI_CUDA_INLINE void mmixi_cuda_store_delta(const mmixi_cuda_attention_job &j,
                                              const mmixi_cuda_attention_piece &at, int lane_row,
                                              const float (&delta)[2])
{
    float *rows = j.delta + (at.b * j.r.H + at.h) * j.r.L;
    for (int e = 0; e < 2; e++) {
        const int row = lane_row + 8 * e;
        if (row >= at.w.queries || threadIdx.x % 4) continue;
        rows[mmixi_cuda_window_token(at.w, row)] = delta[e];
    }
}
/* dq with one more tile of keys; WHOLE as in mmixi_cuda_forward_tile. */
template <int K, int FIXED, int WHOLE, int WIDTH, int W, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_dq_tile(float (&dq)[W][4], const float (&top)[2],
                                          const float (&over)[2], float (&delta)[2],
                                          const mmixi_cuda_attention_job &j,
                                          const mmixi_cuda_attention_tiles<T> &s,
                                          const mmixi_cuda_own &own, const mmixi_cuda_seen &seen,
                                          int row0, int n, int p, int first, int stage)
{
    const float late = mmixi_cuda_late_scale<FIXED>(j);
    const int strips = WHOLE ? MMIXI_CUDA_STRIP / 2 : mmixi_cuda_strips_of(seen.most - first);
    const int one = seen.least / 64 == (seen.most - 1) / 64;
    const T *k = s.n + stage * 64 * (n + 8);
    const T *v = s.p + stage * 64 * (p + 8);
    float S[MMIXI_CUDA_STRIP][4], Z[MMIXI_CUDA_STRIP][4];
    mmixi_cuda_strip_zero(S);
    mmixi_cuda_strip_zero(Z);
    mmixi_cuda_strip_rows<K, WIDTH>(S, 0, 2 * strips, n, s.own_n + row0 * (n + 8), k);
    mmixi_cuda_strip_rows<K, WIDTH>(Z, 0, 2 * strips, p, s.own_p + row0 * (p + 8), v);
    if (!WHOLE) mmixi_cuda_scores<FIXED>(S, j, own, s.rows[stage].place, first, seen);
    mmixi_cuda_dscores(S, Z, top, over, delta, late, one);
    mmixi_cuda_strip_through<K>(dq, S, 0, strips, n / 8, k, n + 8);
}
/* W, FIXED: as in mmixi_cuda_attention_forward. */
template <int K, int W, int FIXED>
MMIXI_CUDA_BLOCKS(FIXED && W == 8 ? 3 : 2)
mmixi_cuda_attention_dq(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    constexpr int WIDTH = FIXED ? 8 * W : 0;
    const int stages = FIXED ? 2 : j.stages;
    const int n = WIDTH ? WIDTH : j.n;
    const int p = WIDTH ? WIDTH : j.p;
    /* mmixi_cuda_same_warp would take a register, and spill another */
    const int row0 = 16 * mmixi_cuda_warp();
    const int lane_row = row0 + mmixi_cuda_lane_row();
    const mmixi_cuda_attention_piece at = mmixi_cuda_attention_piece_of<FIXED>(j, j.r.H, 1);
    const mmixi_cuda_window &w = at.w;
    mmixi_cuda_attention_tiles<T> s;
    float dq[W][4], top[2], over[2], delta[2];
    if (at.first >= w.queries) return;
    mmixi_cuda_attention_layout(&s, (char *)mmixi_cuda_shared, n, p, 1, stages);
    const mmixi_cuda_view<T> keys = mmixi_cuda_view_of<WIDTH, T>(j.r.k, at.b, at.h, j.r.N);
    const mmixi_cuda_view<T> values = mmixi_cuda_view_of<WIDTH, T>(j.r.v, at.b, at.h, j.r.P);
    mmixi_cuda_dq_begin<WIDTH>(j, s, at, n, p);
    const mmixi_cuda_seen seen = mmixi_cuda_seen_of<FIXED>(j, s.spans, w, at.b, at.first);
    mmixi_cuda_dq_rows(j, s, at, p, lane_row, top, over, delta);
    const mmixi_cuda_own own = mmixi_cuda_own_of<FIXED>(j, w, s.spans, at.h, at.first, lane_row);
    mmixi_cuda_strip_zero(dq);
    mmixi_cuda_load_keys<FIXED>(j, s, w, keys, values, n, p, seen.least / 64 * 64, 0);
    int stage = 0;
    for (int first = seen.least / 64 * 64; first < seen.most; first += 64) {
        const int more = first + 64 < seen.most;
        const int queried = at.first + row0 < w.queries;     /* this warp has a query */
        mmixi_cuda_wait();
        __syncthreads();
        if (stages > 1 && more)
            mmixi_cuda_load_keys<FIXED>(j, s, w, keys, values, n, p, first + 64, stage ^ 1);
        if (queried && mmixi_cuda_whole_tile<FIXED>(seen, first))
            mmixi_cuda_dq_tile<K, FIXED, FIXED, WIDTH>(dq, top, over, delta, j, s, own, seen, row0, n, p,
                                                       first, stage);
        else if (queried)
            mmixi_cuda_dq_tile<K, FIXED, 0, WIDTH>(dq, top, over, delta, j, s, own, seen, row0, n, p, first,
                                                   stage);
        if (stages == 1 && more) {
            __syncthreads();
            mmixi_cuda_load_keys<FIXED>(j, s, w, keys, values, n, p, first + 64, 0);
        }
        stage ^= stages - 1;
    }
    mmixi_cuda_wait();
    mmixi_cuda_store_delta(j, at, at.first + lane_row, delta);
    mmixi_cuda_strip_scale(dq, j.scale);
    if (!j.r.dq.p) return;
    const mmixi_cuda_view<T> results = mmixi_cuda_view_of<WIDTH, T>(j.r.dq, at.b, at.h, j.r.N);
    mmixi_cuda_store_window(dq, results, w, at.first + row0, w.queries);
}

/* From products S_ji = k_j · q_i (scaled already, unless `late` is to do it) and Z_ji = v_j · dy_i,
   of this warp's keys and the queries q0 … of a stage, to p_ij and ds_ij = p_ij (Z_ji - δ_i). */
template <int STRIP>
MMIXI_CUDA_INLINE void mmixi_cuda_key_weights(float (&S)[STRIP][4], float (&Z)[STRIP][4],
                                              const mmixi_cuda_stage *rows, int q0, float late)
{
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < STRIP; i++) {
        const int column = q0 + 8 * i + mmixi_cuda_lane_pair();
        const float2 top = mmixi_cuda_pair(rows->top + column);
        const float2 over = mmixi_cuda_pair(rows->over + column);
        const float2 delta = mmixi_cuda_pair(rows->delta + column);
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) {
            const float score = late * S[i][e] - (e % 2 ? top.y : top.x);
            S[i][e] = (e % 2 ? over.y : over.x) * mmixi_cuda_exp2(score);
            Z[i][e] = S[i][e] * (Z[i][e] - (e % 2 ? delta.y : delta.x));
        }
    }
}
/* Zeros where query i0 + q0 + column does not see the key. */
template <int FIXED, int STRIP>
MMIXI_CUDA_INLINE void mmixi_cuda_key_mask(float (&S)[STRIP][4], float (&Z)[STRIP][4],
                                           const mmixi_cuda_attention_job &j,
                                           const mmixi_cuda_window &w,
                                           const mmixi_cuda_spans *spans, int first_key, int i0,
                                           int q0)
{
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < STRIP; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) {
            const int key = first_key + mmixi_cuda_lane_row() + e / 2 * 8;
            const int column = q0 + 8 * i + mmixi_cuda_lane_pair() + e % 2;
            int sees;
            if (FIXED) sees = key < mmixi_cuda_simple_end(j, w, i0 + column);
            else sees = key >= spans->low[column] && key < spans->high[column];
            S[i][e] = sees ? S[i][e] : 0;
            Z[i][e] = sees ? Z[i][e] : 0;
        }
}
/* The block's keys and values, and for a bias the places of a lane's two keys. */
template <int FIXED, int WIDTH, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_dkv_begin(const mmixi_cuda_attention_job &j,
                                            const mmixi_cuda_attention_tiles<T> &s,
                                            const mmixi_cuda_attention_piece &at, size_t own, int n,
                                            int p, int (&place)[2])
{
    const mmixi_cuda_window &w = at.w;
    const int lane_row = (int)threadIdx.x / 32 * 16 + mmixi_cuda_lane_row();
    const mmixi_cuda_view<T> keys = mmixi_cuda_view_of<WIDTH, T>(j.r.k, at.b, own, j.r.N);
    const mmixi_cuda_view<T> values = mmixi_cuda_view_of<WIDTH, T>(j.r.v, at.b, own, j.r.P);
    mmixi_cuda_load_window(s.own_n, n + 8, keys, w, at.first, w.keys, n);
    mmixi_cuda_load_window(s.own_p, p + 8, values, w, at.first, w.keys, p);
    for (int e = 0; e < 2 && !FIXED && j.r.bias; e++) {
        const int key = at.first + lane_row + 8 * e;
        place[e] = mmixi_cuda_window_place(j, w, mmixi_cuda_min(key, w.keys - 1));
    }
}
/* The first tile from i on with a query that sees one of the block's keys, and what its queries
   see. Of a simple mask the first tile is such, and all behind it are. */
template <int FIXED>
MMIXI_CUDA_INLINE int mmixi_cuda_next_queries(const mmixi_cuda_attention_job &j,
                                              mmixi_cuda_spans *spans,
                                              const mmixi_cuda_attention_piece &at, int i,
                                              mmixi_cuda_seen *found)
{
    for (; i < at.w.queries; i += 64) {
        *found = mmixi_cuda_seen_of<FIXED>(j, spans, at.w, at.b, i);
        if (FIXED || (found->least < at.first + 64 && found->most > at.first)) break;
    }
    return i;
}
/* The tile of queries i0 … of head h to a stage: q, dy, what the forward left of their softmax, and
   δ. */
template <int FIXED, int WIDTH, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_load_queries(const mmixi_cuda_attention_job &j,
                                               const mmixi_cuda_attention_tiles<T> &s,
                                               const mmixi_cuda_attention_piece &at, int n, int p,
                                               int i0, size_t h, int stage)
{
    const mmixi_cuda_window &w = at.w;
    const int tid = (int)threadIdx.x;
    mmixi_cuda_stage *rows = s.rows + stage;
    const mmixi_cuda_view<T> q = mmixi_cuda_view_of<WIDTH, T>(j.r.q, at.b, h, j.r.N);
    const mmixi_cuda_view<T> dy = mmixi_cuda_view_of<WIDTH, T>(j.r.dy, at.b, h, j.r.P);
    mmixi_cuda_load_window(s.n + stage * 64 * (n + 8), n + 8, q, w, i0, w.queries, n);
    mmixi_cuda_load_window(s.p + stage * 64 * (p + 8), p + 8, dy, w, i0, w.queries, p);
    mmixi_cuda_places<FIXED>(j, rows->place, w, i0);
    if (tid >= 64) return;
    const int there = i0 + tid < w.queries;
    const size_t token = (size_t)(there ? mmixi_cuda_window_token(w, i0 + tid) : 0);
    const size_t index = (at.b * j.r.H + h) * j.r.L + token;
    mmixi_cuda_copy<4>(rows->top + tid, j.r.top + index, there);
    mmixi_cuda_copy<4>(rows->over + tid, j.r.over + index, there);
    mmixi_cuda_copy<4>(rows->delta + tid, j.delta + index, there);
}
/* A tile of queries i0 … of head h, as it lies in its stage, and what they see. */
struct mmixi_cuda_query_tile {
    int i0, stage, turn;
    size_t h;
    mmixi_cuda_seen seen;
};
/* dv += P dy and dk += dS q for this warp's keys and one tile of queries, 8 STRIP of them at a
   time. `place`: of a lane's two keys, for a bias. GRADIENTS: 1 dv, 2 dk, 3 both. WHOLE: there are
   64 queries, which all see the block's keys. */
template <int K, int FIXED, int WHOLE, int GRADIENTS, int STRIP, int WIDTH, int W, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_dkv_tile(float (&dk)[W][4], float (&dv)[W][4],
                                           const mmixi_cuda_attention_job &j,
                                           const mmixi_cuda_attention_tiles<T> &s,
                                           const mmixi_cuda_attention_piece &at,
                                           const mmixi_cuda_query_tile &tile, int row0, int n,
                                           int p, const int (&place)[2])
{
    const mmixi_cuda_window &w = at.w;
    const int ldn = n + 8;
    const int ldp = p + 8;
    const float late = mmixi_cuda_late_scale<FIXED>(j);
    const mmixi_cuda_stage *rows = s.rows + tile.stage;
    const mmixi_cuda_spans *spans = s.spans + tile.turn;
    const T *q = s.n + tile.stage * 64 * ldn;
    const T *dy = s.p + tile.stage * 64 * ldp;
    const size_t center = tile.h * j.distances + j.distances / 2;
    const float *bias = !FIXED && j.r.bias ? j.r.bias + center : NULL;
    const int whole = at.first >= tile.seen.all && at.first + 64 <= tile.seen.end;
    const int end = WHOLE ? 64 : mmixi_cuda_min(64, w.queries - tile.i0);
    MMIXI_CUDA_ROLLED
    for (int q0 = 0; q0 < end; q0 += 8 * STRIP) {
        const int there = WHOLE ? 4 : mmixi_cuda_strips_of(end - q0);
        const int strips = mmixi_cuda_min((int)STRIP / 2, there);
        float S[STRIP][4], Z[STRIP][4];
        mmixi_cuda_strip_zero(S);
        mmixi_cuda_strip_zero(Z);
        mmixi_cuda_strip_rows<K, WIDTH>(S, 0, 2 * strips, n, s.own_n + row0 * ldn, q + q0 * ldn);
        if (GRADIENTS & 2)
            mmixi_cuda_strip_rows<K, WIDTH>(Z, 0, 2 * strips, p, s.own_p + row0 * ldp, dy + q0 * ldp);
        if (!FIXED) mmixi_cuda_strip_scale(S, j.scale2);
        if (bias) mmixi_cuda_strip_each(S, [&](float &x, int row, int column) {
            x += MMIXI_CUDA_LOG2E * bias[rows->place[q0 + column] - place[row / 8]];
        });
        mmixi_cuda_key_weights(S, Z, rows, q0, late);
        if (!WHOLE && !whole) mmixi_cuda_key_mask<FIXED>(S, Z, j, w, spans, at.first + row0, tile.i0, q0);
        if (GRADIENTS & 1) mmixi_cuda_strip_through<K>(dv, S, 0, strips, p / 8, dy + q0 * ldp, ldp);
        if (GRADIENTS & 2) mmixi_cuda_strip_through<K>(dk, Z, 0, strips, n / 8, q + q0 * ldn, ldn);
    }
}
/* GRADIENTS: 1 dv, 2 dk, 3 both; both of 128 columns are more than a thread has registers for. */
template <int K, int W, int FIXED, int GRADIENTS>
MMIXI_CUDA_TILES mmixi_cuda_attention_dkv(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    /* queries that the scores' strip has: half of them where dk or dv take twice the registers, and
       for floats, whose sums outside of the mma take some more */
    constexpr int STRIP = MMIXI_CUDA_STRIP / (W > MMIXI_CUDA_STRIP || K == MMIX_CUDA_F32 ? 2 : 1);
    constexpr int WIDTH = FIXED ? 8 * W : 0;
    const int stages = FIXED ? 2 : j.stages;
    const int n = WIDTH ? WIDTH : j.n;
    const int p = WIDTH ? WIDTH : j.p;
    const size_t share = j.r.k.share;
    const mmixi_cuda_attention_piece at = mmixi_cuda_attention_piece_of<FIXED>(j, j.r.H / share, 0);
    const mmixi_cuda_window &w = at.w;
    const size_t own = at.h * share;             /* the first head that shares the keys */
    mmixi_cuda_attention_tiles<T> s;
    float dk[W][4], dv[W][4];
    int place[2] = { 0, 0 };
    if (at.first >= w.keys) return;
    mmixi_cuda_attention_layout(&s, (char *)mmixi_cuda_shared, n, p, 1, stages);
    mmixi_cuda_dkv_begin<FIXED, WIDTH>(j, s, at, own, n, p, place);
    mmixi_cuda_strip_zero(dk);
    mmixi_cuda_strip_zero(dv);
    const int row0 = 16 * mmixi_cuda_same_warp();
    const int keyed = at.first + row0 < w.keys;  /* this warp has a key */
    mmixi_cuda_query_tile tile;
    mmixi_cuda_seen then = { 0, 0, 0, 0 };       /* what the next tile's queries see */
    int begin = 0;
    if (j.r.mask == MMIX_MASK_CAUSAL)
        begin = mmixi_cuda_max(at.first - (w.keys - w.queries), 0) / 64 * 64;
    tile.h = own;
    tile.turn = 0;
    tile.stage = 0;
    tile.i0 = mmixi_cuda_next_queries<FIXED>(j, s.spans, at, begin, &tile.seen);
    if (tile.i0 < w.queries) mmixi_cuda_load_queries<FIXED, WIDTH>(j, s, at, n, p, tile.i0, own, 0);
    /* the tile's queries of each head, then the next tile */
    while (tile.i0 < w.queries) {
        const int same = tile.h + 1 < own + share;
        const size_t next_h = same ? tile.h + 1 : own;
        int next = tile.i0;
        if (!same)
            next = mmixi_cuda_next_queries<FIXED>(j, s.spans + (tile.turn ^ 1), at, tile.i0 + 64, &then);
        mmixi_cuda_wait();
        __syncthreads();
        if (stages > 1 && next < w.queries)
            mmixi_cuda_load_queries<FIXED, WIDTH>(j, s, at, n, p, next, next_h, tile.stage ^ 1);
        if (keyed && mmixi_cuda_whole_tile<FIXED>(tile.seen, at.first))
            mmixi_cuda_dkv_tile<K, FIXED, FIXED, GRADIENTS, STRIP, WIDTH>(dk, dv, j, s, at, tile, row0, n, p,
                                                                          place);
        else if (keyed)
            mmixi_cuda_dkv_tile<K, FIXED, 0, GRADIENTS, STRIP, WIDTH>(dk, dv, j, s, at, tile, row0, n, p,
                                                                      place);
        if (stages == 1 && next < w.queries) {
            __syncthreads();
            mmixi_cuda_load_queries<FIXED, WIDTH>(j, s, at, n, p, next, next_h, 0);
        }
        if (!same) {
            tile.turn ^= 1;
            tile.seen = then;
        }
        tile.stage ^= stages - 1;
        tile.i0 = next;
        tile.h = next_h;
    }
    mmixi_cuda_wait();
    mmixi_cuda_strip_scale(dk, j.scale);
    const mmixi_cuda_view<T> to_v = mmixi_cuda_view_of<WIDTH, T>(j.r.dv, at.b, own, j.r.P);
    const mmixi_cuda_view<T> to_k = mmixi_cuda_view_of<WIDTH, T>(j.r.dk, at.b, own, j.r.N);
    const int row = at.first + row0;
    if ((GRADIENTS & 1) && j.r.dv.p) mmixi_cuda_store_window(dv, to_v, w, row, w.keys);
    if ((GRADIENTS & 2) && j.r.dk.p) mmixi_cuda_store_window(dk, to_k, w, row, w.keys);
}

/* dbias. All windows have the places of one box: a pair of places has the same distance in each of
   them, and adds nothing where a window at the grid's edge lacks one of the two. A block has 64
   places of queries of a head. For each 64 places of keys it walks over a piece of the batch's
   windows, with the sums of ds of its pairs in registers; then pairs of one distance are added, in
   the order of queries. */
enum { MMIXI_CUDA_PAIRS = 64 * 65 };
/* The box of all windows, and the one at hand, which has the box's first places on each axis or
   fewer. */
struct mmixi_cuda_box { mmixi_cuda_window box, window; };
/* The token at a place of the box, or one near to it where the window lacks it. */
MMIXI_CUDA_INLINE int mmixi_cuda_box_token(const mmixi_cuda_box &v, int i)
{
    mmixi_cuda_place3 at = mmixi_cuda_window_place3(v.box, mmixi_cuda_min(i, v.box.keys - 1));
    for (int a = 0; a < 3; a++) at.at[a] = mmixi_cuda_min(at.at[a], v.window.extent[a] - 1);
    return mmixi_cuda_window_token3(v.window, at);
}
/* Whether the window has this place of the box. */
MMIXI_CUDA_INLINE int mmixi_cuda_box_has(const mmixi_cuda_box &v, int i)
{
    const mmixi_cuda_place3 at = mmixi_cuda_window_place3(v.box, i);
    int inside = i < v.box.keys;
    for (int a = 0; a < 3; a++) inside &= at.at[a] < v.window.extent[a];
    return inside;
}
template <class T>
MMIXI_CUDA_INLINE void mmixi_cuda_load_box(T *tile, const mmix_cuda_head_view &v,
                                           const mmixi_cuda_box &box, size_t b, size_t h,
                                           size_t width, int padded, int first)
{
    const mmixi_cuda_view<T> rows = mmixi_cuda_view_of<0, T>(v, b, h, width);
    mmixi_cuda_load(tile, padded + 8, rows, 64, 64, padded,
                    [&](int r) { return mmixi_cuda_box_token(box, first + r); });
}
/* Of a lane's two queries what the forward left of their softmax, δ, the place in the box, and the
   place of the first key that is not seen. */
struct mmixi_cuda_pair_rows {
    float top[2], over[2], delta[2];
    int place[2], high[2];
};
MMIXI_CUDA_INLINE void mmixi_cuda_pair_rows_load(mmixi_cuda_pair_rows *v,
                                                 const mmixi_cuda_attention_job &j,
                                                 const mmixi_cuda_box &box, size_t b, size_t h,
                                                 int row0)
{
    for (int e = 0; e < 2; e++) {
        const int row = row0 + 8 * e;
        const size_t index = (b * j.r.H + h) * j.r.L + (size_t)mmixi_cuda_box_token(box, row);
        v->top[e] = j.r.top[index];
        v->over[e] = j.r.over[index];
        v->delta[e] = j.delta[index];
        v->high[e] = j.r.mask == MMIX_MASK_CAUSAL ? row + 1 : box.box.keys;
        if (!mmixi_cuda_box_has(box, row)) v->high[e] = 0;
    }
}
/* sum_ij += ds_ij = p_ij (dy_i · v_j - δ_i) of this warp's queries and the tile's keys in one
   window, from the tiles that were loaded. */
template <int K, class T>
MMIXI_CUDA_INLINE void mmixi_cuda_pairs_add(float (&sum)[MMIXI_CUDA_STRIP][4],
                                            const mmixi_cuda_attention_job &j,
                                            const mmixi_cuda_attention_tiles<T> &s,
                                            const mmixi_cuda_pair_rows &rows, const float *bias,
                                            int key)
{
    const int row0 = (int)threadIdx.x / 32 * 16;
    float S[MMIXI_CUDA_STRIP][4], Z[MMIXI_CUDA_STRIP][4];
    mmixi_cuda_strip_zero(S);
    mmixi_cuda_strip_zero(Z);
    mmixi_cuda_strip_rows<K, 0>(S, 0, 8, j.n, s.own_n + row0 * (j.n + 8), s.n);
    mmixi_cuda_strip_rows<K, 0>(Z, 0, 8, j.p, s.own_p + row0 * (j.p + 8), s.p);
    MMIXI_CUDA_UNROLL
    for (int i = 0; i < MMIXI_CUDA_STRIP; i++)
        MMIXI_CUDA_UNROLL
        for (int e = 0; e < 4; e++) {
            const int row = e / 2;
            const int column = 8 * i + mmixi_cuda_lane_pair() + e % 2;
            const int place = s.rows->place[column];
            if (place < 0 || key + column >= rows.high[row]) continue;
            const float of_pair = MMIXI_CUDA_LOG2E * bias[rows.place[row] - place];
            const float weight = mmixi_cuda_exp2(j.scale2 * S[i][e] + of_pair - rows.top[row]);
            sum[i][e] += rows.over[row] * (Z[i][e] - rows.delta[row]) * weight;
        }
}
/* to[d] += the pairs of each distance d, in the order of queries: those of places first … of
   queries and key … of keys, (64, 65) in `pairs`. */
MMIXI_CUDA_INLINE void mmixi_cuda_pairs_store(const mmixi_cuda_attention_job &j,
                                              const mmixi_cuda_window &box, const float *pairs,
                                              float *to, int first, int key)
{
    const int center = (int)j.distances / 2;
    const int last = mmixi_cuda_min(first + 64, box.keys) - 1;
    const int end = mmixi_cuda_min(key + 64, box.keys) - 1;
    const int low = mmixi_cuda_window_place(j, box, first) - mmixi_cuda_window_place(j, box, end);
    const int high = mmixi_cuda_window_place(j, box, last) - mmixi_cuda_window_place(j, box, key);
    for (int d = (int)threadIdx.x; d < (int)j.distances; d += MMIXI_CUDA_THREADS) {
        const int none = d < low + center || d > high + center;
        float total = key ? to[d] : 0;
        int apart[3];
        int left = d;
        for (int a = 2; a >= 0; a--) {
            const int span = 2 * (int)j.r.window[a] - 1;
            apart[a] = left % span - (int)j.r.window[a] + 1;
            left /= span;
        }
        for (int i = first; !none && i <= last; i++) {
            const mmixi_cuda_place3 at = mmixi_cuda_window_place3(box, i);
            int t = 0;
            int inside = 1;
            for (int a = 0; a < 3; a++) {
                const int x = at.at[a] - apart[a];
                inside &= x >= 0 && x < box.extent[a];
                t = t * box.extent[a] + x;
            }
            if (inside && t >= key && t <= end) total += pairs[(i - first) * 65 + t - key];
        }
        to[d] = total;
    }
}
template <int K>
MMIXI_CUDA_TILES mmixi_cuda_attention_dbias(MMIXI_CUDA_JOB mmixi_cuda_attention_job j)
{
    typedef typename mmixi_cuda_format<K>::type T;
    const int tid = (int)threadIdx.x;
    const int row0 = tid / 32 * 16;
    const unsigned tiles = (j.most + 63) / 64;
    const unsigned piece = blockIdx.x % j.pieces;
    const unsigned rest = blockIdx.x / j.pieces;
    const unsigned walk = (unsigned)j.r.B * j.window_count;
    const int first = (int)(rest % tiles) * 64;
    const int lane_row = first + row0 + mmixi_cuda_lane_row();
    const size_t h = rest / tiles;
    const float *bias = j.r.bias + h * j.distances + j.distances / 2;
    float *pairs = (float *)mmixi_cuda_shared;   /* where the tiles were */
    float *to = mmixi_cuda_place_of<0, float>(j.dbias, 1, gridDim.x, j.distances, 0, blockIdx.x).p;
    mmixi_cuda_attention_tiles<T> s;
    mmixi_cuda_pair_rows rows;
    mmixi_cuda_box box;
    mmixi_cuda_attention_layout(&s, (char *)mmixi_cuda_shared, j.n, j.p, 1, 1);
    box.box = mmixi_cuda_window_at<0>(j, 0);
    for (int a = 0; a < 3; a++) box.box.extent[a] = (int)mmixi_cuda_min(j.r.window[a], j.r.grid[a]);
    mmixi_cuda_window_sized(&box.box);
    const int keys = box.box.keys;
    const int key_end = j.r.mask == MMIX_MASK_CAUSAL ? mmixi_cuda_min(keys, first + 64) : keys;
    for (int e = 0; e < 2; e++)
        rows.place[e] = mmixi_cuda_window_place(j, box.box, mmixi_cuda_min(lane_row + 8 * e, keys - 1));
    for (int key = 0; key < key_end; key += 64) {
        float sum[MMIXI_CUDA_STRIP][4];
        mmixi_cuda_strip_zero(sum);
        for (unsigned turn = piece; turn < walk; turn += j.pieces) {
            const size_t b = turn / j.window_count;
            box.window = mmixi_cuda_window_at<0>(j, turn % j.window_count);
            __syncthreads();                     /* the last tiles, or pairs, were read */
            mmixi_cuda_load_box(s.own_n, j.r.q, box, b, h, j.r.N, j.n, first);
            mmixi_cuda_load_box(s.own_p, j.r.dy, box, b, h, j.r.P, j.p, first);
            mmixi_cuda_load_box(s.n, j.r.k, box, b, h, j.r.N, j.n, key);
            mmixi_cuda_load_box(s.p, j.r.v, box, b, h, j.r.P, j.p, key);
            if (tid < 64) {
                const int there = mmixi_cuda_box_has(box, key + tid);
                s.rows->place[tid] = there ? mmixi_cuda_window_place(j, box.box, key + tid) : -1;
            }
            mmixi_cuda_pair_rows_load(&rows, j, box, b, h, lane_row);
            mmixi_cuda_wait();
            __syncthreads();
            mmixi_cuda_pairs_add<K>(sum, j, s, rows, bias, key);
        }
        __syncthreads();
        mmixi_cuda_strip_each(sum, [&](float &x, int row, int column) {
            pairs[(row0 + row) * 65 + column] = x;
        });
        __syncthreads();
        mmixi_cuda_pairs_store(j, box.box, pairs, to, first, key);
    }
}

/* The windows of a grid: how many on each axis, and of how many tokens the largest is. */
static void mmixi_cuda_attention_windows(mmixi_cuda_attention_job *j)
{
    const mmix_cuda_attention &r = j->r;
    size_t most = 1;
    j->distances = 1;
    if (!r.window[0]) return;
    for (int a = 0; a < 3; a++) {
        const size_t last = mmixi_cuda_window_of(r.grid[a] - 1, r.window[a], r.shift[a]);
        j->windows[a] = (unsigned)last + 1;
        j->distances *= 2 * r.window[a] - 1;
        most *= mmixi_cuda_min(r.window[a], r.grid[a]);
    }
    j->window_count = j->windows[0] * j->windows[1] * j->windows[2];
    j->most = (unsigned)most;
}
/* The job of a call; with base NULL its workspace is only counted. Returns bytes of workspace.
   Shapes alone say what is added first, as in SSD. */
static size_t mmixi_cuda_attention_begin(mmixi_cuda_attention_job *j, const mmix_cuda_attention *x,
                                         int back, char *base)
{
    size_t at = 0;
    memset(j, 0, sizeof *j);
    j->r = *x;
    j->scale = (float)x->scale;
    j->scale2 = (float)(x->scale * 1.4426950408889634);
    mmixi_cuda_attention_windows(j);
    j->n = (int)mmixi_cuda_round_up(x->N, 16);
    j->p = (int)mmixi_cuda_round_up(x->P, 16);
    if (x->seq_idx) j->runs = (int32_t *)mmixi_cuda_part(base, &at, 2 * x->B * x->L);
    if (!back || x->naive) return at;
    j->delta = mmixi_cuda_part(base, &at, x->B * x->H * x->L);
    if (!x->dbias || !x->bias) return at;
    const size_t tiles = (mmixi_cuda_max(j->most, 1u) + 63) / 64;
    const size_t walk = x->B * j->window_count;
    const size_t blocks = x->H * tiles;
    j->pieces = (unsigned)mmixi_cuda_max(mmixi_cuda_min(MMIXI_CUDA_BUSY / blocks, walk), (size_t)1);
    j->dbias.to = mmix_cuda_head_view_rows(x->dbias, 1, x->H, j->distances, blocks * j->pieces);
    if (j->dbias.to.share > 1)
        j->dbias.part = mmixi_cuda_part(base, &at, blocks * j->pieces * j->distances);
    return at;
}
/* Bytes of shared memory; two stages where as many blocks fit as with one, or two. */
template <int K> static size_t mmixi_cuda_attention_bytes(const mmixi_cuda_attention_job &j,
                                                          int back, int stages)
{
    mmixi_cuda_attention_tiles<typename mmixi_cuda_format<K>::type> s;
    return mmixi_cuda_attention_layout(&s, NULL, j.n, j.p, back, stages);
}
template <int K> static int mmixi_cuda_attention_stages(const mmixi_cuda_attention_job &j, int back,
                                                        size_t most)
{
    const size_t one = most / mmixi_cuda_attention_bytes<K>(j, back, 1);
    const size_t two = most / mmixi_cuda_attention_bytes<K>(j, back, 2);
    return two && two >= mmixi_cuda_min(one, (size_t)2) ? 2 : 1;
}
/* Blocks of 64 queries of each window and head, and of 64 keys of each window and group of
   heads. */
static size_t mmixi_cuda_query_blocks(const mmixi_cuda_attention_job &j)
{
    const size_t windows = mmixi_cuda_max(j.window_count, 1u);
    return j.r.B * j.r.H * windows * ((mmixi_cuda_most_tokens(j, 1) + 63) / 64);
}
static size_t mmixi_cuda_key_blocks(const mmixi_cuda_attention_job &j)
{
    const size_t windows = mmixi_cuda_max(j.window_count, 1u);
    return j.r.B * (j.r.H / j.r.k.share) * windows * ((mmixi_cuda_most_tokens(j, 0) + 63) / 64);
}
/* dk and dv: one launch for widths up to 64, one each above. */
template <int K, int W, int FIXED>
static int mmixi_cuda_attention_tiled_dkv(const mmixi_cuda_attention_job &j, size_t bytes)
{
    constexpr int FIRST = W > 8 ? 1 : 3;         /* 1 dv, 2 dk, 3 both */
    constexpr int SECOND = W > 8 ? 2 : 3;
    const size_t blocks = mmixi_cuda_key_blocks(j);
    const int two = FIRST == 1;
    int error = 0;
    if (j.r.dv.p || (!two && j.r.dk.p))
        error = mmixi_cuda_launch(mmixi_cuda_attention_dkv<K, W, FIXED, FIRST>, blocks, 128, bytes,
                                  j.r.stream, j);
    if (error || !two || !j.r.dk.p) return error;
    return mmixi_cuda_launch(mmixi_cuda_attention_dkv<K, W, FIXED, SECOND>, blocks, 128, bytes, j.r.stream,
                             j);
}
/* A bias's gradient, and the sum of its pieces. */
template <int K> static int mmixi_cuda_attention_tiled_dbias(const mmixi_cuda_attention_job &j)
{
    const size_t parts = j.r.H * j.dbias.to.share;
    const size_t tiles = mmixi_cuda_attention_bytes<K>(j, 1, 1);
    const size_t bytes = mmixi_cuda_max(tiles, MMIXI_CUDA_PAIRS * sizeof(float));
    const int error = mmixi_cuda_launch(mmixi_cuda_attention_dbias<K>, parts, 128, bytes, j.r.stream, j);
    if (error) return error;
    return mmixi_cuda_sum_run<float>(j.dbias.part, j.dbias.to, 1, 1, parts, j.distances, j.r.stream);
}
/* The forward: kernels for long sequences are of fixed widths up to 64. */
template <int K, int W, int FIXED>
static int mmixi_cuda_attention_tiled_forward(const mmixi_cuda_attention_job &j)
{
    enum { LONG = FIXED && W == 8 };
    size_t blocks = mmixi_cuda_query_blocks(j);
    size_t bytes = mmixi_cuda_attention_bytes<K>(j, 0, j.stages);
    if (!LONG || j.r.L < MMIXI_CUDA_LONG_FROM)
        return mmixi_cuda_launch(mmixi_cuda_attention_forward<K, W, FIXED>, blocks, 128, bytes, j.r.stream,
                                 j);
    blocks = j.r.B * j.r.H * ((j.r.L + MMIXI_CUDA_LONG_BLOCK - 1) / MMIXI_CUDA_LONG_BLOCK);
    bytes = mmixi_cuda_attention_bytes<K>(j, 1, 2);
    return mmixi_cuda_launch(mmixi_cuda_attention_forward_long<LONG ? K : MMIX_CUDA_BF16, 8>, blocks, 128,
                             bytes, j.r.stream, j);
}
template <int K, int W, int FIXED>
static int mmixi_cuda_attention_tiled(mmixi_cuda_attention_job j, int back)
{
    const size_t blocks = mmixi_cuda_query_blocks(j);
    size_t most;
    int error = mmixi_cuda_most(&most);
    if (error) return error;
    j.stages = mmixi_cuda_attention_stages<K>(j, back, most);
    if (!back) return mmixi_cuda_attention_tiled_forward<K, W, FIXED>(j);
    const size_t bytes = mmixi_cuda_attention_bytes<K>(j, back, j.stages);
    error = mmixi_cuda_launch(mmixi_cuda_attention_dq<K, W, FIXED>, blocks, 128, bytes, j.r.stream, j);
    if (!error) error = mmixi_cuda_attention_tiled_dkv<K, W, FIXED>(j, bytes);
    if (!error && j.dbias.to.p) error = mmixi_cuda_attention_tiled_dbias<K>(j);
    return error;
}
/* Whether kernels of fixed widths can have the call. */
template <int K> static int mmixi_cuda_attention_fixed(const mmixi_cuda_attention_job &j, int back,
                                                       size_t most)
{
    typedef typename mmixi_cuda_format<K>::type T;
    const mmix_cuda_attention &r = j.r;
    const int usual = r.N == r.P && (r.N == 64 || r.N == 128);
    if (K != MMIX_CUDA_BF16 || !usual || !(j.scale2 > 0) || !mmixi_cuda_simple_mask(r)) return 0;
    if (mmixi_cuda_attention_stages<K>(j, back, most) != 2) return 0;
    for (const mmix_cuda_head_view *v : { &r.q, &r.k, &r.v, &r.y, &r.dy, &r.dq, &r.dk, &r.dv })
        if (!mmixi_cuda_fixed<T>(*v, r.N)) return 0;
    return 1;
}
template <int K> static int mmixi_cuda_attention_by_tiles(const mmixi_cuda_attention_job &j,
                                                          int back)
{
    enum { HALF = K == MMIX_CUDA_BF16 };         /* which has kernels for the usual widths */
    const int narrow = j.n <= 64 && j.p <= 64;
    size_t most;
    const int error = mmixi_cuda_most(&most);
    if (j.n > 128 || j.p > 128) return MMIX_CUDA_UNSUPPORTED;
    if (error) return error;
    if (mmixi_cuda_attention_fixed<K>(j, back, most))
        return narrow ? mmixi_cuda_attention_tiled<K, 8, HALF>(j, back)
            : mmixi_cuda_attention_tiled<K, 16, HALF>(j, back);
    return narrow ? mmixi_cuda_attention_tiled<K, 8, 0>(j, back)
        : mmixi_cuda_attention_tiled<K, 16, 0>(j, back);
}
template <class T> static int mmixi_cuda_attention_by_loops(const mmixi_cuda_attention_job &j)
{
    return mmixi_cuda_each(mmixi_cuda_attention_naive<T>, j.r.B * j.r.H * j.r.L, j.r.stream, j);
}
template <class T>
static int mmixi_cuda_attention_by_loops_backward(const mmixi_cuda_attention_job &j)
{
    const mmix_cuda_attention &r = j.r;
    const size_t queries = r.B * r.H * r.L;
    const size_t keys = r.B * (r.H / r.k.share) * r.S;
    const size_t width = mmixi_cuda_max(r.N, r.P);
    int error = 0;
    if (r.dq.p) error = mmixi_cuda_each(mmixi_cuda_attention_naive_dq<T>, queries * r.N, r.stream, j);
    if (!error && (r.dk.p || r.dv.p))
        error = mmixi_cuda_each(mmixi_cuda_attention_naive_dkv<T>, keys * width, r.stream, j);
    if (!error && r.dbias && r.bias)
        error = mmixi_cuda_each(mmixi_cuda_attention_naive_dbias<T>, r.H * j.distances, r.stream, j);
    return error;
}
template <int K> static int mmixi_cuda_attention_run(const mmixi_cuda_attention_job &j, int back)
{
    typedef typename mmixi_cuda_format<K>::type T;
    const mmix_cuda_attention &r = j.r;
    const int error = mmixi_cuda_runs_run(r.seq_idx, r.seq_batch, r.B, r.L, j.runs, r.stream);
    if (error) return error;
    if (!r.naive) return mmixi_cuda_attention_by_tiles<K>(j, back);
    return back ? mmixi_cuda_attention_by_loops_backward<T>(j) : mmixi_cuda_attention_by_loops<T>(j);
}
static int mmixi_cuda_attention_call(const mmix_cuda_attention *x, int back)
{
    mmixi_cuda_attention_job j;
    mmixi_cuda_attention_begin(&j, x, back, (char *)x->workspace);
    switch (x->precision) {
    case MMIX_CUDA_BF16: return mmixi_cuda_attention_run<MMIX_CUDA_BF16>(j, back);
    case MMIX_CUDA_TF32: return mmixi_cuda_attention_run<MMIX_CUDA_TF32>(j, back);
    default: return mmixi_cuda_attention_run<MMIX_CUDA_F32>(j, back);
    }
}
MMIXDEF size_t mmix_cuda_attention_workspace(const mmix_cuda_attention *x, int backward)
{
    mmixi_cuda_attention_job j;
    return mmixi_cuda_attention_begin(&j, x, backward, NULL);
}
MMIXDEF int mmix_cuda_attention_forward(const mmix_cuda_attention *x)
{
    return mmixi_cuda_attention_call(x, 0);
}
MMIXDEF int mmix_cuda_attention_backward(const mmix_cuda_attention *x)
{
    return mmixi_cuda_attention_call(x, 1);
}

/* ==== >>cuda-linear ==================================================================
   linear attention: features, sums, the causal form as an SSD that forgets nothing

   With a column of ones beside V where rows are normalized, num and den are one product (see
   >>linear attention of mamba_mix.h). Everything between the arrays of the interface is float, also
   for BF16:

       F = φ(q) (B, L, H, N),  G = ψ(k) (B, S, G, N),  V' = [v 1] (B, S, G, V),  Y' = [num den] (B, L, H, V)

   The full form multiplies from the right: h = Σ_j ψ_jᵀ v'_j, once for all heads of a group, and
   y'_i = φ_i h. The causal form is SSD with δ = 1 and A = 0, on the same kernels. Naive: one thread
   a query, one loop over the keys. Backward of the full form: dh = Σ_i φ_iᵀ dy'_i, dφ_i = dy'_i hᵀ,
   dψ_j = v'_j dhᵀ, dv_j = ψ_j dh.
   ==================================================================================== */

struct mmixi_cuda_linear_job {
    mmix_cuda_linear_attention r;
    size_t G, V;                                 /* key/value heads; P, or P + 1 */
    float *F, *G1, *V1, *Y1;                     /* φ(q), ψ(k), V' and Y' of the room's head */
    float *D1, *dF, *dG, *dV1;                   /* gradients of Y', φ(q), ψ(k) and V' */
    /* ψ = softmax over the tokens only, (B, G, N, 3): a column's largest k, 1/Σ, and Σ ψ dψ over
       the tokens */
    float *columns;
    float *state, *dstate;                       /* full: (B, G, N, V) */
    int32_t *runs;
    /* causal, as an SSD: one and then zeros (H); the heads' states (B, H, V, N), and their
       gradients */
    float *constants;
    float *first, *last, *dfirst, *dlast;
    char *inner;                                 /* its workspace */
};

/* Index i of an array (B, tokens, heads). */
struct mmixi_cuda_row_at { size_t b, t, h; };
MMIXI_CUDA_INLINE mmixi_cuda_row_at mmixi_cuda_row_of(size_t i, size_t tokens, size_t heads)
{
    mmixi_cuda_row_at v;
    v.h = i % heads;
    v.t = i / heads % tokens;
    v.b = i / heads / tokens;
    return v;
}

static __device__ float mmixi_cuda_feature(int feature, float x)
{
    if (feature == MMIX_FEATURE_ELU1) return x > 0 ? x + 1 : expf(x);
    return feature == MMIX_FEATURE_RELU ? fmaxf(x, 0) : x;
}
static __device__ float mmixi_cuda_feature_slope(int feature, float f)
{
    if (feature == MMIX_FEATURE_ELU1) return f > 1 ? 1 : f;
    return feature == MMIX_FEATURE_RELU && !(f > 0) ? 0 : 1;
}
/* Whether φ is a softmax over the channels; so is ψ then, but for EFFICIENT, whose ψ is one over
   the tokens. */
MMIXI_CUDA_INLINE int mmixi_cuda_feature_softmax(int feature)
{
    return feature == MMIX_FEATURE_SOFTMAX_BOTH || feature == MMIX_FEATURE_EFFICIENT;
}
template <class T>
static __device__ void mmixi_cuda_feature_row(int feature, size_t N, const T *x, float *f)
{
    float top = -INFINITY;
    float sum = 0;
    if (!mmixi_cuda_feature_softmax(feature)) {
        for (size_t n = 0; n < N; n++) f[n] = mmixi_cuda_feature(feature, mmixi_cuda_float(x[n]));
        return;
    }
    for (size_t n = 0; n < N; n++) top = fmaxf(top, mmixi_cuda_float(x[n]));
    for (size_t n = 0; n < N; n++) {
        f[n] = expf(mmixi_cuda_float(x[n]) - top);
        sum += f[n];
    }
    for (size_t n = 0; n < N; n++) f[n] /= sum;
}
/* dx = slope df or, of a softmax, f (df - Σ f df). */
template <class T>
static __device__ void mmixi_cuda_feature_row_backward(int feature, size_t N, const float *f,
                                                       const float *df, T *dx)
{
    if (mmixi_cuda_feature_softmax(feature)) {
        const float mean = mmixi_cuda_dot(N, f, df);
        for (size_t n = 0; n < N; n++) mmixi_cuda_set(dx + n, f[n] * (df[n] - mean));
        return;
    }
    for (size_t n = 0; n < N; n++) mmixi_cuda_set(dx + n, mmixi_cuda_feature_slope(feature, f[n]) * df[n]);
}
/* F, one thread a row. */
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_linear_queries(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(i, j.r.L, j.r.H);
    if (at.b >= j.r.B) return;
    const T *q = mmixi_cuda_at<T>(j.r.q, at.b, at.t, at.h);
    mmixi_cuda_feature_row(j.r.feature, j.r.N, q, j.F + i * j.r.N);
}
/* ψ = softmax over the tokens: a column's largest k, and 1/Σ. */
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_linear_columns(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const size_t n = i % j.r.N;
    const size_t head = i / j.r.N % j.G * j.r.k.share;
    const size_t b = i / j.r.N / j.G;
    float top = -INFINITY;
    float sum = 0;
    if (b >= j.r.B) return;
    for (size_t t = 0; t < j.r.S; t++) {
        const T *k = mmixi_cuda_at<T>(j.r.k, b, t, head);
        top = fmaxf(top, mmixi_cuda_float(k[n]));
    }
    for (size_t t = 0; t < j.r.S; t++) {
        const T *k = mmixi_cuda_at<T>(j.r.k, b, t, head);
        sum += expf(mmixi_cuda_float(k[n]) - top);
    }
    j.columns[3 * i] = top;
    j.columns[3 * i + 1] = 1 / sum;
}
/* The three numbers of each column of a sequence and key/value head. */
MMIXI_CUDA_INLINE const float *mmixi_cuda_columns_of(const mmixi_cuda_linear_job &j, size_t b,
                                                     size_t g)
{
    return j.columns + 3 * (b * j.G + g) * j.r.N;
}
/* ψ(k) and V', one thread a row. */
template <class T> MMIXI_CUDA_KERNEL mmixi_cuda_linear_keys(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(i, j.r.S, j.G);
    if (at.b >= j.r.B) return;
    const T *k = mmixi_cuda_at<T>(j.r.k, at.b, at.t, at.h * j.r.k.share);
    const T *v = mmixi_cuda_at<T>(j.r.v, at.b, at.t, at.h * j.r.k.share);
    float *psi = j.G1 + i * j.r.N;
    float *v1 = j.V1 + i * j.V;
    if (j.r.feature == MMIX_FEATURE_EFFICIENT) {
        const float *column = mmixi_cuda_columns_of(j, at.b, at.h);
        for (size_t n = 0; n < j.r.N; n++)
            psi[n] = expf(mmixi_cuda_float(k[n]) - column[3 * n]) * column[3 * n + 1];
    } else mmixi_cuda_feature_row(j.r.feature, j.r.N, k, psi);
    for (size_t p = 0; p < j.r.P; p++) v1[p] = mmixi_cuda_float(v[p]);
    if (j.V > j.r.P) v1[j.r.P] = 1;
}
/* 1 / (den + eps) of a row of Y'; 1 where rows are not normalized. */
MMIXI_CUDA_INLINE float mmixi_cuda_linear_over(const mmixi_cuda_linear_job &j, const float *y1)
{
    return j.r.normalize ? 1 / (y1[j.r.P] + (float)j.r.eps) : 1;
}
/* y, one thread a number. */
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_linear_divide(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t p = mmixi_cuda_thread() % j.r.P;
    const size_t row = mmixi_cuda_thread() / j.r.P;
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(row, j.r.L, j.r.H);
    const float *y1 = j.Y1 + row * j.V;
    if (at.b >= j.r.B) return;
    const float y = y1[p] * mmixi_cuda_linear_over(j, y1);
    mmixi_cuda_set(mmixi_cuda_at<T>(j.r.y, at.b, at.t, at.h) + p, y);
}
/* dnum = dy / den, dden = -(dy · y) / den */
template <class T>
MMIXI_CUDA_KERNEL mmixi_cuda_linear_upstream(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t row = mmixi_cuda_thread();
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(row, j.r.L, j.r.H);
    if (at.b >= j.r.B) return;
    const T *dy = mmixi_cuda_at<T>(j.r.dy, at.b, at.t, at.h);
    const float *y1 = j.Y1 + row * j.V;
    const float over = mmixi_cuda_linear_over(j, y1);
    float *d1 = j.D1 + row * j.V;
    float dot = 0;
    for (size_t p = 0; p < j.r.P; p++) {
        dot += mmixi_cuda_float(dy[p]) * y1[p];
        d1[p] = mmixi_cuda_float(dy[p]) * over;
    }
    if (j.r.normalize) d1[j.r.P] = -dot * over * over;
}
template <class T> MMIXI_CUDA_KERNEL mmixi_cuda_linear_dq(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(i, j.r.L, j.r.H);
    if (at.b >= j.r.B) return;
    T *dq = mmixi_cuda_at<T>(j.r.dq, at.b, at.t, at.h);
    mmixi_cuda_feature_row_backward(j.r.feature, j.r.N, j.F + i * j.r.N, j.dF + i * j.r.N, dq);
}
/* Σ ψ dψ over the tokens, of a softmax over them: one thread a column. */
MMIXI_CUDA_KERNEL mmixi_cuda_linear_column_dots(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const size_t n = i % j.r.N;
    const size_t g = i / j.r.N % j.G;
    const size_t b = i / j.r.N / j.G;
    float sum = 0;
    if (b >= j.r.B) return;
    for (size_t t = 0; t < j.r.S; t++) {
        const size_t key = ((b * j.r.S + t) * j.G + g) * j.r.N + n;
        sum += j.G1[key] * j.dG[key];
    }
    j.columns[3 * i + 2] = sum;
}
template <class T> MMIXI_CUDA_KERNEL mmixi_cuda_linear_dkv(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const size_t N = j.r.N;
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(i, j.r.S, j.G);
    const size_t head = at.h * j.r.k.share;
    const float *psi = j.G1 + i * N;
    const float *dpsi = j.dG + i * N;
    if (at.b >= j.r.B) return;
    if (j.r.dk.p && j.r.feature == MMIX_FEATURE_EFFICIENT) {
        T *dk = mmixi_cuda_at<T>(j.r.dk, at.b, at.t, head);
        const float *column = mmixi_cuda_columns_of(j, at.b, at.h);
        for (size_t n = 0; n < N; n++) mmixi_cuda_set(dk + n, psi[n] * (dpsi[n] - column[3 * n + 2]));
    } else if (j.r.dk.p) {
        T *dk = mmixi_cuda_at<T>(j.r.dk, at.b, at.t, head);
        mmixi_cuda_feature_row_backward(j.r.feature, N, psi, dpsi, dk);
    }
    if (j.r.dv.p) {
        T *dv = mmixi_cuda_at<T>(j.r.dv, at.b, at.t, head);
        for (size_t p = 0; p < j.r.P; p++) mmixi_cuda_set(dv + p, j.dV1[i * j.V + p]);
    }
}

/* ---- the definition ---- */

/* Query i sees the keys low … high - 1, and if low is 0 what was before the first token. */
static __device__ void mmixi_cuda_linear_span(const mmixi_cuda_linear_job &j, size_t b, size_t i,
                                              size_t *low, size_t *high)
{
    *low = j.runs && j.r.L ? (size_t)j.runs[2 * (b * j.r.L + i)] : 0;
    *high = j.r.causal ? i + 1 : j.r.S;
}
/* The state (V, N) of a sequence and key/value head in an array of them. */
MMIXI_CUDA_INLINE const float *mmixi_cuda_linear_state_of(const mmixi_cuda_linear_job &j,
                                                          const float *states, size_t b, size_t g)
{
    return states + (b * j.G + g) * j.V * j.r.N;
}
/* Y' of one query */
MMIXI_CUDA_KERNEL mmixi_cuda_linear_naive(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t row = mmixi_cuda_thread();
    const size_t N = j.r.N;
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(row, j.r.L, j.r.H);
    const size_t g = at.h / j.r.k.share;
    const float *f = j.F + row * N;
    float *y1 = j.Y1 + row * j.V;
    size_t low, high;
    if (at.b >= j.r.B) return;
    mmixi_cuda_linear_span(j, at.b, at.t, &low, &high);
    for (size_t v = 0; v < j.V; v++) {
        y1[v] = 0;
        if (!j.r.initial_state || low) continue;
        y1[v] = mmixi_cuda_dot(N, f, mmixi_cuda_linear_state_of(j, j.r.initial_state, at.b, g) + v * N);
    }
    for (size_t t = low; t < high; t++) {
        const size_t key = (at.b * j.r.S + t) * j.G + g;
        const float m = mmixi_cuda_dot(N, f, j.G1 + key * N);
        for (size_t v = 0; v < j.V; v++) y1[v] += m * j.V1[key * j.V + v];
    }
}
/* Index i of the states (B, G, V, N). */
struct mmixi_cuda_state_at { size_t b, g, v, n; };
MMIXI_CUDA_INLINE mmixi_cuda_state_at mmixi_cuda_state_at_of(const mmixi_cuda_linear_job &j,
                                                             size_t i)
{
    mmixi_cuda_state_at at;
    at.n = i % j.r.N;
    at.v = i / j.r.N % j.V;
    at.g = i / j.r.N / j.V % j.G;
    at.b = i / j.r.N / j.V / j.G;
    return at;
}
/* The state after the last token: one thread a number. */
MMIXI_CUDA_KERNEL mmixi_cuda_linear_naive_state(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const mmixi_cuda_state_at at = mmixi_cuda_state_at_of(j, i);
    size_t low, high;
    if (at.b >= j.r.B) return;
    mmixi_cuda_linear_span(j, at.b, j.r.L - 1, &low, &high);
    float sum = !low && j.r.initial_state ? j.r.initial_state[i] : 0;
    for (size_t t = low; t < high; t++) {
        const size_t key = (at.b * j.r.S + t) * j.G + at.g;
        sum += j.G1[key * j.r.N + at.n] * j.V1[key * j.V + at.v];
    }
    if (j.r.final_state) j.r.final_state[i] = sum;
}
/* The gradient of the state before the first token. */
MMIXI_CUDA_KERNEL mmixi_cuda_linear_naive_dinitial(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    const mmixi_cuda_state_at at = mmixi_cuda_state_at_of(j, i);
    const size_t first = at.g * j.r.k.share;
    const size_t end = first + j.r.k.share;
    size_t low, high;
    if (at.b >= j.r.B) return;
    mmixi_cuda_linear_span(j, at.b, j.r.L - 1, &low, &high);
    float sum = !low && j.r.dfinal ? j.r.dfinal[i] : 0;
    for (size_t t = 0; t < j.r.L; t++) {
        mmixi_cuda_linear_span(j, at.b, t, &low, &high);
        if (low) continue;
        for (size_t h = first; h < end; h++) {
            const size_t row = (at.b * j.r.L + t) * j.r.H + h;
            sum += j.F[row * j.r.N + at.n] * j.D1[row * j.V + at.v];
        }
    }
    j.r.dinitial[i] = sum;
}
/* dφ of one query: dφ_i = Σ_t (dy'_i · v'_t) ψ_t, and what the state before the first token
   adds. */
MMIXI_CUDA_KERNEL mmixi_cuda_linear_naive_df(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t row = mmixi_cuda_thread();
    const size_t N = j.r.N;
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(row, j.r.L, j.r.H);
    const size_t g = at.h / j.r.k.share;
    const float *d1 = j.D1 + row * j.V;
    float *df = j.dF + row * N;
    size_t low, high;
    if (at.b >= j.r.B) return;
    mmixi_cuda_linear_span(j, at.b, at.t, &low, &high);
    for (size_t n = 0; n < N; n++) {
        float sum = 0;
        if (j.r.initial_state && !low) {
            const float *state = mmixi_cuda_linear_state_of(j, j.r.initial_state, at.b, g);
            for (size_t v = 0; v < j.V; v++) sum += d1[v] * state[v * N + n];
        }
        df[n] = sum;
    }
    for (size_t t = low; t < high; t++) {
        const size_t key = (at.b * j.r.S + t) * j.G + g;
        const float m = mmixi_cuda_dot(j.V, d1, j.V1 + key * j.V);
        for (size_t n = 0; n < N; n++) df[n] += m * j.G1[key * N + n];
    }
}
/* What a key gives the last state: dψ = v' dh and dv' = ψ dhᵀ, with dh NULL where it gives
   nothing. */
static __device__ void mmixi_cuda_linear_naive_last(const mmixi_cuda_linear_job &j, size_t key,
                                                    const float *dh)
{
    const size_t N = j.r.N;
    for (size_t n = 0; n < N; n++) {
        float sum = 0;
        for (size_t v = 0; dh && v < j.V; v++) sum += j.V1[key * j.V + v] * dh[v * N + n];
        j.dG[key * N + n] = sum;
    }
    for (size_t v = 0; v < j.V; v++) {
        const float dv = dh ? mmixi_cuda_dot(N, j.G1 + key * N, dh + v * N) : 0;
        j.dV1[key * j.V + v] = dv;
    }
}
/* dψ and dv' of one key: dψ_t = Σ_i (dy'_i · v'_t) φ_i, dv'_t = Σ_i (φ_i · ψ_t) dy'_i, over the
   queries that see it of all heads that share it. */
MMIXI_CUDA_KERNEL mmixi_cuda_linear_naive_dg(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t key = mmixi_cuda_thread();
    const size_t N = j.r.N;
    const size_t V = j.V;
    const mmixi_cuda_row_at at = mmixi_cuda_row_of(key, j.r.S, j.G);
    const size_t first = at.h * j.r.k.share;
    const float *dlast = NULL;
    size_t low, high;
    if (at.b >= j.r.B) return;
    mmixi_cuda_linear_span(j, at.b, j.r.L - 1, &low, &high);
    if (j.r.dfinal && at.t >= low) dlast = mmixi_cuda_linear_state_of(j, j.r.dfinal, at.b, at.h);
    mmixi_cuda_linear_naive_last(j, key, dlast);
    for (size_t h = first; h < first + j.r.k.share; h++)
        for (size_t i = 0; i < j.r.L; i++) {
            const size_t row = (at.b * j.r.L + i) * j.r.H + h;
            mmixi_cuda_linear_span(j, at.b, i, &low, &high);
            if (at.t < low || at.t >= high) continue;
            const float m = mmixi_cuda_dot(N, j.F + row * N, j.G1 + key * N);
            const float d = mmixi_cuda_dot(V, j.D1 + row * V, j.V1 + key * V);
            for (size_t n = 0; n < N; n++) j.dG[key * N + n] += d * j.F[row * N + n];
            for (size_t v = 0; v < V; v++) j.dV1[key * V + v] += m * j.D1[row * V + v];
        }
}

/* ---- the full form from the right ---- */

/* m (B, G, R, C) = Σ over tokens and the heads of a group of x_tᵀ y_t; x (B, T, X, R), y (B, T, X,
   C), X = G or H. A block has 64 x 64 numbers of m, or 64 tokens of a head and 64 columns of y, and
   no sum is another's. */
struct mmixi_cuda_outer {
    const float *x, *y;
    float *m;
    size_t B, T, X, G, R, C;
};
/* A tile (64, 64) of a matrix of `rows` rows and `columns` columns at p, those from (row, column)
   on. Returns how many of its columns count, rounded up to 16. */
enum { MMIXI_CUDA_SQUARE = 64 * 72 };
MMIXI_CUDA_INLINE int mmixi_cuda_load_square(float *tile, const float *p, size_t token, size_t rows,
                                             size_t columns, size_t row, size_t column)
{
    const int width = (int)mmixi_cuda_min(columns - column, (size_t)64);
    const int padded = (width + 15) / 16 * 16;
    const int count = (int)mmixi_cuda_min(rows - row, (size_t)64);
    mmixi_cuda_view<float> v;
    v.p = (float *)p + row * token + column;
    v.token = (ptrdiff_t)token;
    v.width = width;
    v.aligned = token % 4 == 0 && width % 4 == 0 && (uintptr_t)p % 16 == 0;
    mmixi_cuda_load(tile, 72, v, 64, count, padded, [](int r) { return r; });
    return padded;
}
template <int K> MMIXI_CUDA_TILES mmixi_cuda_linear_outer(MMIXI_CUDA_JOB mmixi_cuda_outer j)
{
    const size_t across = (j.C + 63) / 64;
    const size_t down = (j.R + 63) / 64;
    const size_t column = blockIdx.x % across * 64;
    const size_t row = blockIdx.x / across % down * 64;
    const size_t group = blockIdx.x / across / down;
    const size_t share = j.X / j.G;
    const size_t head = group % j.G * share;     /* the group's first */
    const size_t b = group / j.G;
    const int row0 = (int)threadIdx.x / 32 * 16;
    float *x = (float *)mmixi_cuda_shared;
    float *y = x + MMIXI_CUDA_SQUARE;
    float c[MMIXI_CUDA_STRIP][4];
    mmixi_cuda_strip_zero(c);
    for (size_t t = 0; t < j.T; t += 64)
        for (size_t h = head; h < head + share; h++) {
            const size_t at = b * j.T * j.X + h;
            __syncthreads();                     /* the last tiles were read */
            const int rows = mmixi_cuda_load_square(x, j.x + at * j.R, j.X * j.R, j.T, j.R, t, row);
            const int columns = mmixi_cuda_load_square(y, j.y + at * j.C, j.X * j.C, j.T, j.C, t, column);
            mmixi_cuda_wait();
            __syncthreads();
            if (row0 >= rows) continue;
            mmixi_cuda_strip_add<0>(c, 0, columns / 8, 64,
                [&](int k) { return mmixi_cuda_a_columns<K>(x + k * 72 + row0, 72, NULL); },
                [&](int k, int n) { return mmixi_cuda_b_columns<K>(y + k * 72 + 8 * n, 72); });
        }
    float *to = j.m + (group * j.R + row + (size_t)row0) * j.C + column;
    const int rows = (int)mmixi_cuda_min(j.R - row, (size_t)64) - row0;
    const int columns = (int)mmixi_cuda_min(j.C - column, (size_t)64);
    mmixi_cuda_strip_store<float>(c, rows, columns, j.C % 4 == 0,
                                  [&](int r) { return to + (size_t)r * j.C; });
}
/* y (B, T, X, C) = x m, or x mᵀ with m (B, G, C, R) */
template <int K, int TRANSPOSED>
MMIXI_CUDA_TILES mmixi_cuda_linear_apply(MMIXI_CUDA_JOB mmixi_cuda_outer j)
{
    const size_t across = (j.C + 63) / 64;
    const size_t down = (j.T + 63) / 64;
    const size_t column = blockIdx.x % across * 64;
    const size_t t = blockIdx.x / across % down * 64;
    const size_t head = blockIdx.x / across / down;
    const size_t h = head % j.X;
    const size_t b = head / j.X;
    const size_t at = b * j.T * j.X + h;
    const float *m = j.m + (b * j.G + h / (j.X / j.G)) * j.R * j.C;
    const int row0 = (int)threadIdx.x / 32 * 16;
    const int columns = (int)mmixi_cuda_min(j.C - column, (size_t)64);
    float *x = (float *)mmixi_cuda_shared;
    float *right = x + MMIXI_CUDA_SQUARE;
    float c[MMIXI_CUDA_STRIP][4];
    mmixi_cuda_strip_zero(c);
    for (size_t r = 0; r < j.R; r += 64) {
        __syncthreads();
        const int depth = mmixi_cuda_load_square(x, j.x + at * j.R, j.X * j.R, j.T, j.R, t, r);
        if (TRANSPOSED) mmixi_cuda_load_square(right, m, j.R, j.C, j.R, column, r);
        else mmixi_cuda_load_square(right, m, j.C, j.R, j.C, r, column);
        mmixi_cuda_wait();
        __syncthreads();
        mmixi_cuda_strip_add<0>(c, 0, (columns + 15) / 16 * 2, depth,
            [&](int k) { return mmixi_cuda_a_rows<K>(x + row0 * 72 + k, 72); },
            [&](int k, int n) {
                return TRANSPOSED ? mmixi_cuda_b_rows<K>(right + 8 * n * 72 + k, 72)
                    : mmixi_cuda_b_columns<K>(right + k * 72 + 8 * n, 72);
            });
    }
    float *to = (float *)j.y + (at + (t + (size_t)row0) * j.X) * j.C + column;
    const int rows = (int)mmixi_cuda_min(j.T - t, (size_t)64) - row0;
    mmixi_cuda_strip_store<float>(c, rows, columns, j.C % 4 == 0,
                                  [&](int r) { return to + (size_t)r * j.X * j.C; });
}
/* What queries take part in, (B, L, H, …), or keys, (B, S, G, …); the two matrices, their widths,
   and m. */
static mmixi_cuda_outer mmixi_cuda_outer_queries(const mmixi_cuda_linear_job &j, const float *x,
                                                 size_t R, const float *y, size_t C, float *m)
{
    mmixi_cuda_outer o;
    o.x = x;
    o.y = y;
    o.m = m;
    o.B = j.r.B;
    o.T = j.r.L;
    o.X = j.r.H;
    o.G = j.G;
    o.R = R;
    o.C = C;
    return o;
}
static mmixi_cuda_outer mmixi_cuda_outer_keys(const mmixi_cuda_linear_job &j, const float *x,
                                              size_t R, const float *y, size_t C, float *m)
{
    mmixi_cuda_outer o = mmixi_cuda_outer_queries(j, x, R, y, C, m);
    o.T = j.r.S;
    o.X = j.G;
    return o;
}
template <int K> static int mmixi_cuda_outer_run(const mmixi_cuda_outer &o, void *stream)
{
    const size_t tiles = ((o.R + 63) / 64) * ((o.C + 63) / 64);
    return mmixi_cuda_launch(mmixi_cuda_linear_outer<K>, o.B * o.G * tiles, 128,
                             2 * MMIXI_CUDA_SQUARE * sizeof(float), stream, o);
}
template <int K, int TRANSPOSED>
static int mmixi_cuda_apply_run(const mmixi_cuda_outer &o, void *stream)
{
    const size_t tiles = ((o.T + 63) / 64) * ((o.C + 63) / 64);
    return mmixi_cuda_launch(mmixi_cuda_linear_apply<K, TRANSPOSED>, o.B * o.X * tiles, 128,
                             2 * MMIXI_CUDA_SQUARE * sizeof(float), stream, o);
}
/* h = Σ ψᵀ v', Y' = φ h */
template <int K> static int mmixi_cuda_linear_full(const mmixi_cuda_linear_job &j)
{
    const mmixi_cuda_outer h = mmixi_cuda_outer_keys(j, j.G1, j.r.N, j.V1, j.V, j.state);
    const mmixi_cuda_outer y = mmixi_cuda_outer_queries(j, j.F, j.r.N, j.Y1, j.V, j.state);
    const int error = mmixi_cuda_outer_run<K>(h, j.r.stream);
    if (error) return error;
    return mmixi_cuda_apply_run<K, 0>(y, j.r.stream);
}
/* dh = Σ φᵀ dY', dφ = dY' hᵀ, dψ = v' dhᵀ, dv' = ψ dh */
template <int K> static int mmixi_cuda_linear_full_backward(const mmixi_cuda_linear_job &j)
{
    const size_t N = j.r.N;
    const mmixi_cuda_outer dh = mmixi_cuda_outer_queries(j, j.F, N, j.D1, j.V, j.dstate);
    const mmixi_cuda_outer df = mmixi_cuda_outer_queries(j, j.D1, j.V, j.dF, N, j.state);
    const mmixi_cuda_outer dg = mmixi_cuda_outer_keys(j, j.V1, j.V, j.dG, N, j.dstate);
    const mmixi_cuda_outer dv = mmixi_cuda_outer_keys(j, j.G1, N, j.dV1, j.V, j.dstate);
    int error = mmixi_cuda_outer_run<K>(dh, j.r.stream);
    if (!error) error = mmixi_cuda_apply_run<K, 1>(df, j.r.stream);
    if (!error) error = mmixi_cuda_apply_run<K, 1>(dg, j.r.stream);
    if (!error) error = mmixi_cuda_apply_run<K, 0>(dv, j.r.stream);
    return error;
}

/* ---- the causal form as an SSD ---- */

/* States (B, G, V, N) of groups to the heads', to all or to the first of each group alone; and
   back: the first's, or the sum over the group. */
struct mmixi_cuda_spread {
    const float *from;
    float *to;
    size_t B, H, share, count;
    int all;
};
MMIXI_CUDA_KERNEL mmixi_cuda_linear_spread(MMIXI_CUDA_JOB mmixi_cuda_spread j)
{
    const size_t i = mmixi_cuda_thread();
    const size_t e = i % j.count;
    const size_t h = i / j.count % j.H;
    const size_t b = i / j.count / j.H;
    const size_t group = b * (j.H / j.share) + h / j.share;
    const int has = j.all || h % j.share == 0;
    if (b < j.B) j.to[i] = has ? j.from[group * j.count + e] : 0;
}
MMIXI_CUDA_KERNEL mmixi_cuda_linear_gather(MMIXI_CUDA_JOB mmixi_cuda_spread j)
{
    const size_t i = mmixi_cuda_thread();
    /* (B, groups, count) */
    const size_t groups = j.H / j.share;
    const size_t e = i % j.count;
    const size_t first = i / j.count % groups * j.share;
    const size_t b = i / j.count / groups;
    const size_t heads = j.all ? j.share : 1;
    float sum = 0;
    if (b >= j.B) return;
    for (size_t h = first; h < first + heads; h++) sum += j.from[(b * j.H + h) * j.count + e];
    j.to[i] = sum;
}
/* 1, and zeros: δ and A */
MMIXI_CUDA_KERNEL mmixi_cuda_linear_constants(MMIXI_CUDA_JOB mmixi_cuda_linear_job j)
{
    const size_t i = mmixi_cuda_thread();
    if (i <= j.r.H) j.constants[i] = i ? 0 : 1;
}
static mmix_cuda_ssd mmixi_cuda_linear_ssd(const mmixi_cuda_linear_job &j, int back)
{
    const mmix_cuda_linear_attention &r = j.r;
    mmix_cuda_ssd x;
    memset(&x, 0, sizeof x);
    x.precision = r.precision == MMIX_CUDA_F32 ? MMIX_CUDA_F32 : MMIX_CUDA_TF32;
    x.B = r.B;
    x.L = r.L;
    x.H = r.H;
    x.N = r.N;
    x.P = j.V;
    x.x = mmix_cuda_head_view_rows(j.V1, r.L, j.G, j.V, r.H);
    x.b = mmix_cuda_head_view_rows(j.G1, r.L, j.G, r.N, r.H);
    x.c = mmix_cuda_head_view_rows(j.F, r.L, r.H, r.N, r.H);
    x.y = mmix_cuda_head_view_rows(j.Y1, r.L, r.H, j.V, r.H);
    x.dt.p = j.constants;
    x.dt.share = 1;
    x.A = j.constants ? j.constants + 1 : NULL;
    x.initial_state = r.initial_state ? j.first : NULL;
    x.final_state = !back && r.final_state ? j.last : NULL;
    x.seq_idx = r.seq_idx;
    x.seq_batch = r.seq_batch;
    if (back) {
        x.dy = mmix_cuda_head_view_rows(j.D1, r.L, r.H, j.V, r.H);
        x.dx = mmix_cuda_head_view_rows(j.dV1, r.L, j.G, j.V, r.H);
        x.db = mmix_cuda_head_view_rows(j.dG, r.L, j.G, r.N, r.H);
        x.dc = mmix_cuda_head_view_rows(j.dF, r.L, r.H, r.N, r.H);
        x.dfinal = r.dfinal ? j.dlast : NULL;
        x.dinitial = r.dinitial ? j.dfirst : NULL;
    }
    x.workspace = j.inner;
    x.stream = r.stream;
    return x;
}
/* States of the groups (B, G, V, N) to those of the heads (B, H, V, N), to all heads or to each
   group's first. */
static int mmixi_cuda_spread_run(const mmixi_cuda_linear_job &j, const float *groups, float *heads,
                                 int all)
{
    mmixi_cuda_spread s;
    s.from = groups;
    s.to = heads;
    s.B = j.r.B;
    s.H = j.r.H;
    s.share = j.r.k.share;
    s.count = j.V * j.r.N;
    s.all = all;
    return mmixi_cuda_each(mmixi_cuda_linear_spread, s.B * s.H * s.count, j.r.stream, s);
}
/* And back: the sum over a group's heads, or its first head's. */
static int mmixi_cuda_gather_run(const mmixi_cuda_linear_job &j, const float *heads, float *groups,
                                 int all)
{
    mmixi_cuda_spread s;
    s.from = heads;
    s.to = groups;
    s.B = j.r.B;
    s.H = j.r.H;
    s.share = j.r.k.share;
    s.count = j.V * j.r.N;
    s.all = all;
    return mmixi_cuda_each(mmixi_cuda_linear_gather, s.B * j.G * s.count, j.r.stream, s);
}
static int mmixi_cuda_linear_causal(const mmixi_cuda_linear_job &j, int back)
{
    const mmix_cuda_linear_attention &r = j.r;
    const mmix_cuda_ssd x = mmixi_cuda_linear_ssd(j, back);
    int e = mmixi_cuda_each(mmixi_cuda_linear_constants, r.H + 1, r.stream, j);
    if (!e && x.initial_state) e = mmixi_cuda_spread_run(j, r.initial_state, j.first, 1);
    if (!e && x.dfinal) e = mmixi_cuda_spread_run(j, r.dfinal, j.dlast, 0);
    if (e) return e;
    e = back ? mmix_cuda_ssd_backward(&x) : mmix_cuda_ssd_forward(&x);
    if (!e && x.final_state) e = mmixi_cuda_gather_run(j, j.last, r.final_state, 0);
    if (!e && x.dinitial) e = mmixi_cuda_gather_run(j, j.dfirst, r.dinitial, 1);
    return e;
}

/* The causal form's part of the workspace: states of the heads, and what the SSD itself wants. */
static void mmixi_cuda_linear_begin_causal(mmixi_cuda_linear_job *j, int back, char *base,
                                           size_t *at)
{
    const mmix_cuda_linear_attention *x = &j->r;
    const size_t states = x->B * x->H * j->V * x->N;
    j->constants = mmixi_cuda_part(base, at, x->H + 1);
    if (x->initial_state) j->first = mmixi_cuda_part(base, at, states);
    if (x->final_state) j->last = mmixi_cuda_part(base, at, states);
    if (back && x->dfinal) j->dlast = mmixi_cuda_part(base, at, states);
    if (back && x->dinitial) j->dfirst = mmixi_cuda_part(base, at, states);
    const mmix_cuda_ssd inner = mmixi_cuda_linear_ssd(*j, back);
    const size_t forward = mmix_cuda_ssd_workspace(&inner, 0);
    const size_t backward = back ? mmix_cuda_ssd_workspace(&inner, 1) : 0;
    j->inner = base ? base + *at : NULL;
    *at += mmixi_cuda_max(forward, backward);
}
/* The job of a call; with base NULL its workspace is only counted. Returns bytes of workspace. */
static size_t mmixi_cuda_linear_begin(mmixi_cuda_linear_job *j, const mmix_cuda_linear_attention *x,
                                      int back, char *base)
{
    size_t at = 0;
    memset(j, 0, sizeof *j);
    j->r = *x;
    j->G = x->H / x->k.share;
    j->V = x->P + (x->normalize ? 1 : 0);
    const size_t queries = x->B * x->L * x->H;
    const size_t keys = x->B * x->S * j->G;
    const size_t columns = x->B * j->G * x->N;
    j->F = mmixi_cuda_part(base, &at, queries * x->N);
    j->G1 = mmixi_cuda_part(base, &at, keys * x->N);
    j->V1 = mmixi_cuda_part(base, &at, keys * j->V);
    j->Y1 = mmixi_cuda_part(base, &at, queries * j->V);
    if (x->feature == MMIX_FEATURE_EFFICIENT) j->columns = mmixi_cuda_part(base, &at, 3 * columns);
    if (x->seq_idx) j->runs = (int32_t *)mmixi_cuda_part(base, &at, 2 * x->B * x->L);
    if (back) {
        j->D1 = mmixi_cuda_part(base, &at, queries * j->V);
        j->dF = mmixi_cuda_part(base, &at, queries * x->N);
        j->dG = mmixi_cuda_part(base, &at, keys * x->N);
        j->dV1 = mmixi_cuda_part(base, &at, keys * j->V);
    }
    if (x->naive) return at;
    if (x->causal) {
        mmixi_cuda_linear_begin_causal(j, back, base, &at);
        return at;
    }
    j->state = mmixi_cuda_part(base, &at, columns * j->V);
    if (back) j->dstate = mmixi_cuda_part(base, &at, columns * j->V);
    return at;
}
/* Y' from φ, ψ and V', by one of the three ways. */
static int mmixi_cuda_linear_y(const mmixi_cuda_linear_job &j)
{
    const mmix_cuda_linear_attention &r = j.r;
    if (r.naive) {
        const size_t states = r.B * j.G * j.V * r.N;
        int e = mmixi_cuda_each(mmixi_cuda_linear_naive, r.B * r.L * r.H, r.stream, j);
        if (!e && r.final_state) e = mmixi_cuda_each(mmixi_cuda_linear_naive_state, states, r.stream, j);
        return e;
    }
    if (r.causal) return mmixi_cuda_linear_causal(j, 0);
    if (r.precision == MMIX_CUDA_F32) return mmixi_cuda_linear_full<MMIX_CUDA_F32>(j);
    return mmixi_cuda_linear_full<MMIX_CUDA_TF32>(j);
}
/* dφ, dψ and dV' from dY'. */
static int mmixi_cuda_linear_dy(const mmixi_cuda_linear_job &j)
{
    const mmix_cuda_linear_attention &r = j.r;
    if (r.naive) {
        const size_t states = r.B * j.G * j.V * r.N;
        int e = mmixi_cuda_each(mmixi_cuda_linear_naive_df, r.B * r.L * r.H, r.stream, j);
        if (!e) e = mmixi_cuda_each(mmixi_cuda_linear_naive_dg, r.B * r.S * j.G, r.stream, j);
        if (!e && r.dinitial) e = mmixi_cuda_each(mmixi_cuda_linear_naive_dinitial, states, r.stream, j);
        return e;
    }
    if (r.causal) return mmixi_cuda_linear_causal(j, 1);
    if (r.precision == MMIX_CUDA_F32) return mmixi_cuda_linear_full_backward<MMIX_CUDA_F32>(j);
    return mmixi_cuda_linear_full_backward<MMIX_CUDA_TF32>(j);
}
/* Features, and Y': what a forward divides, and what a backward divides by. */
template <class T> static int mmixi_cuda_linear_products(const mmixi_cuda_linear_job &j)
{
    const mmix_cuda_linear_attention &r = j.r;
    int e = mmixi_cuda_runs_run(r.seq_idx, r.seq_batch, r.B, r.L, j.runs, r.stream);
    if (!e) e = mmixi_cuda_each(mmixi_cuda_linear_queries<T>, r.B * r.L * r.H, r.stream, j);
    if (!e && j.columns) e = mmixi_cuda_each(mmixi_cuda_linear_columns<T>, r.B * j.G * r.N, r.stream, j);
    if (!e) e = mmixi_cuda_each(mmixi_cuda_linear_keys<T>, r.B * r.S * j.G, r.stream, j);
    if (!e) e = mmixi_cuda_linear_y(j);
    return e;
}
template <class T> static int mmixi_cuda_linear_run(const mmixi_cuda_linear_job &j)
{
    const int e = mmixi_cuda_linear_products<T>(j);
    if (e) return e;
    return mmixi_cuda_each(mmixi_cuda_linear_divide<T>, j.r.B * j.r.L * j.r.H * j.r.P, j.r.stream, j);
}
template <class T> static int mmixi_cuda_linear_run_backward(const mmixi_cuda_linear_job &j)
{
    const mmix_cuda_linear_attention &r = j.r;
    const size_t queries = r.B * r.L * r.H;
    const size_t columns = r.B * j.G * r.N;
    const size_t keys = r.B * r.S * j.G;
    mmixi_cuda_linear_job forward = j;
    forward.r.final_state = NULL;
    int e = mmixi_cuda_linear_products<T>(forward);
    if (!e) e = mmixi_cuda_each(mmixi_cuda_linear_upstream<T>, queries, r.stream, j);
    if (!e) e = mmixi_cuda_linear_dy(j);
    if (!e && r.dq.p) e = mmixi_cuda_each(mmixi_cuda_linear_dq<T>, queries, r.stream, j);
    if (!e && j.columns) e = mmixi_cuda_each(mmixi_cuda_linear_column_dots, columns, r.stream, j);
    if (!e && (r.dk.p || r.dv.p)) e = mmixi_cuda_each(mmixi_cuda_linear_dkv<T>, keys, r.stream, j);
    return e;
}
MMIXDEF size_t mmix_cuda_linear_attention_workspace(const mmix_cuda_linear_attention *x,
                                                    int backward)
{
    mmixi_cuda_linear_job j;
    return mmixi_cuda_linear_begin(&j, x, backward, NULL);
}
MMIXDEF int mmix_cuda_linear_attention_forward(const mmix_cuda_linear_attention *x)
{
    mmixi_cuda_linear_job j;
    mmixi_cuda_linear_begin(&j, x, 0, (char *)x->workspace);
    if (x->precision == MMIX_CUDA_BF16) return mmixi_cuda_linear_run<mmixi_cuda_bf16>(j);
    return mmixi_cuda_linear_run<float>(j);
}
MMIXDEF int mmix_cuda_linear_attention_backward(const mmix_cuda_linear_attention *x)
{
    mmixi_cuda_linear_job j;
    mmixi_cuda_linear_begin(&j, x, 1, (char *)x->workspace);
    if (x->precision == MMIX_CUDA_BF16) return mmixi_cuda_linear_run_backward<mmixi_cuda_bf16>(j);
    return mmixi_cuda_linear_run_backward<float>(j);
}

/* ==== >>cuda-attach ==================================================================
   pack, copy, launch, copy, unpack

   The functions below stand in the context's table of ops. Those of the three mixers find in the
   attachment whether the device is to do the call; if not, or if it cannot, they hand it to the
   functions that stood there before. Those of all other ops count and hand on.

   A call is laid out twice by the same code: once to count bytes, once to fill them. Inputs lie
   first, so that one copy takes them up, then results, which one copy takes down, then the
   workspace. Every array is packed: a view's gaps are not sent.
   ==================================================================================== */

struct mmixi_cuda_attachment {
    mmix_ctx *m;
    mmixi_cuda_attachment *next;
    mmix_cuda_options options;
    mmix_cuda_statistics done;
    mmix_op_functions before[MMIX_OP_COUNT];
    char *device, *pinned;
    size_t device_size, pinned_size;
    cudaStream_t stream;
    int broken;  /* an error that stays, or 0: see mmixi_cuda_stays */
};

/* The layout of a call under way: an array's place on the device and in pinned memory. While only
   bytes are counted pinned is NULL, and of the device's addresses counts only whether they are
   NULL. */
struct mmixi_cuda_layout {
    mmixi_cuda_attachment *a;
    char *device, *pinned;
    size_t at, up, down;                         /* now; end of the inputs; end of the results */
    int bf16;
};
static char *mmixi_cuda_reserve(mmixi_cuda_layout *t, size_t bytes, char **pinned)
{
    char *p = t->device + t->at;
    if (pinned) *pinned = t->pinned ? t->pinned + t->at : NULL;
    t->at += mmixi_cuda_round_up(bytes, 256);
    return p;
}
/* What to do with one row of `n` numbers of a tensor, the `at`-th. */
typedef void mmixi_cuda_row(void *user, float *row, size_t n, size_t at);
/* A walk over a tensor's rows, MMIXI_CUDA_ROWS of them a task of the context's threads: to pack and
   unpack takes longer than the kernels do. */
enum { MMIXI_CUDA_ROWS = 256 };
struct mmixi_cuda_walk {
    const mmix_tensor *t;
    float *data;
    mmixi_cuda_row *f;
    void *user;
    size_t n, rows;
};
static void mmixi_cuda_walk_task(void *arg, size_t task)
{
    const mmixi_cuda_walk *w = (const mmixi_cuda_walk *)arg;
    const size_t first = task * MMIXI_CUDA_ROWS;
    const size_t end = mmixi_cuda_min(first + MMIXI_CUDA_ROWS, w->rows);
    for (size_t r = first; r < end; r++) {
        size_t offset = 0;
        size_t rest = r;
        for (int a = mmix_ndim(w->t) - 2; a >= 0; a--) {
            offset += rest % mmix_shape(w->t, a) * mmix_stride(w->t, a);
            rest /= mmix_shape(w->t, a);
        }
        w->f(w->user, w->data + offset, w->n, r * w->n);
    }
}
static void mmixi_cuda_rows(mmix_ctx *m, const mmix_tensor *t, float *data, mmixi_cuda_row *f,
                            void *user)
{
    mmixi_cuda_walk w;
    w.t = t;
    w.data = data;
    w.f = f;
    w.user = user;
    w.n = mmix_ndim(t) ? mmix_shape(t, -1) : 1;
    w.rows = w.n ? mmix_count(t) / w.n : 0;
    mmix_parallel_for(m, (w.rows + MMIXI_CUDA_ROWS - 1) / MMIXI_CUDA_ROWS, mmixi_cuda_walk_task, &w);
}
/* Where packed numbers lie, in bf16 or in float, and whether they are added to a row or written
   over it. */
struct mmixi_cuda_packing {
    char *packed;
    int bf16, add;
};
static void mmixi_cuda_pack_row(void *user, float *row, size_t n, size_t at)
{
    const mmixi_cuda_packing *p = (const mmixi_cuda_packing *)user;
    if (!p->bf16) {
        memcpy((float *)p->packed + at, row, n * sizeof *row);
        return;
    }
    uint16_t *to = (uint16_t *)p->packed + at;
    for (size_t i = 0; i < n; i++) to[i] = mmixi_cuda_half(row[i]);
}
static void mmixi_cuda_unpack_row(void *user, float *row, size_t n, size_t at)
{
    const mmixi_cuda_packing *p = (const mmixi_cuda_packing *)user;
    const uint16_t *halves = (const uint16_t *)p->packed + at;
    const float *floats = (const float *)p->packed + at;
    for (size_t i = 0; i < n; i++) {
        const float x = p->bf16 ? mmixi_cuda_whole(halves[i]) : floats[i];
        row[i] = p->add ? row[i] + x : x;
    }
}
static size_t mmixi_cuda_number_bytes(int bf16) { return bf16 ? 2 : 4; }
/* Packs an input, and says where it will lie on the device: NULL of none. `data` has the tensor's
   strides; without data zeros are sent. */
static void *mmixi_cuda_send(mmixi_cuda_layout *t, const mmix_tensor *x, const float *data,
                             int bf16)
{
    mmixi_cuda_packing p;
    if (!x) return NULL;
    const size_t bytes = mmix_count(x) * mmixi_cuda_number_bytes(bf16);
    char *on_device = mmixi_cuda_reserve(t, bytes, &p.packed);
    p.bf16 = bf16;
    p.add = 0;
    if (!p.packed) return on_device;
    if (data) mmixi_cuda_rows(t->a->m, x, (float *)(uintptr_t)data, mmixi_cuda_pack_row, &p);
    else memset(p.packed, 0, bytes);
    return on_device;
}
static mmix_cuda_head_view mmixi_cuda_packed(void *p, const mmix_tensor *x, size_t H)
{
    const size_t width = mmix_ndim(x) > 3 ? mmix_shape(x, 3) : 1;
    return mmix_cuda_head_view_rows(p, mmix_shape(x, 1), mmix_shape(x, 2), width, H);
}
static const int32_t *mmixi_cuda_send_ints(mmixi_cuda_layout *t, const mmix_tensor *x)
{
    char *pinned;
    if (!x) return NULL;
    char *on_device = mmixi_cuda_reserve(t, mmix_count(x) * 4, &pinned);
    if (!pinned) return (const int32_t *)on_device;
    const size_t width = mmix_shape(x, -1);
    const size_t step = mmix_ndim(x) > 1 ? mmix_stride(x, 0) : 0;
    for (size_t r = 0; r < mmix_count(x) / width; r++)
        memcpy(pinned + r * width * 4, mmix_data_i32(x) + r * step, width * 4);
    return (const int32_t *)on_device;
}
static const float *mmixi_cuda_send_saved(mmixi_cuda_layout *t, const mmix_real *saved,
                                          size_t count)
{
    char *pinned, *p = mmixi_cuda_reserve(t, count * 4, &pinned);
    if (pinned) memcpy(pinned, saved, count * 4);
    return (const float *)p;
}

/* A result, and what becomes of it: the values of `t`, or what is added to or written over its
   gradient, or saved reals. */
struct mmixi_cuda_result {
    mmix_tensor *t;
    mmix_real *to;                               /* NULL: nobody asked for it */
    char *pinned;
    size_t count;
    int add, bf16;
};
struct mmixi_cuda_results {
    mmixi_cuda_result r[MMIX_MAX_INPUTS];
    int count;
};
/* Room for a result on the device: t's numbers or, with t NULL, `count` numbers of an array; NULL
   where nobody asked for it. */
static void *mmixi_cuda_expect(mmixi_cuda_layout *layout, mmixi_cuda_results *results,
                               mmix_tensor *t, mmix_real *to, size_t count, int add, int bf16)
{
    mmixi_cuda_result *r = &results->r[results->count];
    if (!to) return NULL;
    results->count++;
    r->t = t;
    r->to = to;
    r->count = t ? mmix_count(t) : count;
    r->add = add;
    r->bf16 = bf16;
    return mmixi_cuda_reserve(layout, r->count * mmixi_cuda_number_bytes(bf16), &r->pinned);
}
static void mmixi_cuda_deliver(mmix_ctx *m, mmixi_cuda_results *results)
{
    for (int i = 0; i < results->count; i++) {
        mmixi_cuda_result *r = &results->r[i];
        mmixi_cuda_packing p;
        p.packed = r->pinned;
        p.bf16 = r->bf16;
        p.add = r->add;
        if (r->t) mmixi_cuda_rows(m, r->t, r->to, mmixi_cuda_unpack_row, &p);
        else memcpy(r->to, r->pinned, r->count * sizeof *r->to);
    }
}

/* A mixer's call under way. A layer lays out its arrays in t and runs; while t->pinned is NULL it
   only counts bytes. */
struct mmixi_cuda_plan {
    mmixi_cuda_layout *t;
    mmix_call *call;
    int back;
    size_t H;
    mmixi_cuda_results results;
};
typedef int mmixi_cuda_layer(mmixi_cuda_plan *plan);

/* Inputs of the call go up: arrays of heads, in the attachment's precision; floats; integers. */
static mmix_cuda_head_view mmixi_cuda_input_heads(mmixi_cuda_plan *plan, int slot)
{
    const mmix_tensor *x = plan->call->in[slot];
    void *on_device = mmixi_cuda_send(plan->t, x, mmix_data(x), plan->t->bf16);
    return mmixi_cuda_packed(on_device, x, plan->H);
}
static const float *mmixi_cuda_input_reals(mmixi_cuda_plan *plan, int slot)
{
    const mmix_tensor *x = plan->call->in[slot];
    if (!x) return NULL;
    return (const float *)mmixi_cuda_send(plan->t, x, mmix_data(x), 0);
}
static const int32_t *mmixi_cuda_input_ints(mmixi_cuda_plan *plan, int slot)
{
    return mmixi_cuda_send_ints(plan->t, plan->call->in[slot]);
}
/* Gradients of the same inputs come down, unless nobody asked for them. */
static void *mmixi_cuda_gradient(mmixi_cuda_plan *plan, int slot, int bf16)
{
    mmix_call *call = plan->call;
    return mmixi_cuda_expect(plan->t, &plan->results, call->in[slot], call->dx[slot], 0, call->add[slot],
                             bf16);
}
static mmix_cuda_head_view mmixi_cuda_gradient_heads(mmixi_cuda_plan *plan, int slot)
{
    void *on_device = mmixi_cuda_gradient(plan, slot, plan->t->bf16);
    return mmixi_cuda_packed(on_device, plan->call->in[slot], plan->H);
}
static float *mmixi_cuda_gradient_reals(mmixi_cuda_plan *plan, int slot)
{
    return (float *)mmixi_cuda_gradient(plan, slot, 0);
}
/* Outputs come down from a forward: y, output 0, as heads; the last state, output 1, as floats. */
static void *mmixi_cuda_output(mmixi_cuda_plan *plan, int i, int bf16)
{
    mmix_tensor *out = plan->call->out[i];
    mmix_real *to = out ? mmix_data(out) : NULL;
    return mmixi_cuda_expect(plan->t, &plan->results, out, to, 0, 0, bf16);
}
static mmix_cuda_head_view mmixi_cuda_output_y(mmixi_cuda_plan *plan)
{
    return mmixi_cuda_packed(mmixi_cuda_output(plan, 0, plan->t->bf16), plan->call->out[0], plan->H);
}
static float *mmixi_cuda_output_state(mmixi_cuda_plan *plan)
{
    return (float *)mmixi_cuda_output(plan, 1, 0);
}
/* The outputs' gradients go up for a backward. */
static mmix_cuda_head_view mmixi_cuda_upstream_y(mmixi_cuda_plan *plan)
{
    const mmix_tensor *y = plan->call->out[0];
    void *on_device = mmixi_cuda_send(plan->t, y, plan->call->dy[0], plan->t->bf16);
    return mmixi_cuda_packed(on_device, y, plan->H);
}
static const float *mmixi_cuda_upstream_state(mmixi_cuda_plan *plan)
{
    if (!plan->call->dy[1]) return NULL;
    return (const float *)mmixi_cuda_send(plan->t, plan->call->out[1], plan->call->dy[1], 0);
}
/* Copies all inputs up. */
static int mmixi_cuda_send_up(const mmixi_cuda_layout *t)
{
    return (int)cudaMemcpyAsync(t->device, t->pinned, t->up, cudaMemcpyHostToDevice, t->a->stream);
}

/* SSD: q is C, k is B, v is x. */
static void mmixi_cuda_ssd_inputs(mmixi_cuda_plan *plan, mmix_cuda_ssd *x)
{
    x->x = mmixi_cuda_input_heads(plan, MMIX_IN_V);
    x->dt = mmixi_cuda_input_heads(plan, MMIX_IN_DT);
    x->A = mmixi_cuda_input_reals(plan, MMIX_IN_A);
    x->b = mmixi_cuda_input_heads(plan, MMIX_IN_K);
    x->c = mmixi_cuda_input_heads(plan, MMIX_IN_Q);
    x->D = mmixi_cuda_input_reals(plan, MMIX_IN_D);
    x->dt_bias = mmixi_cuda_input_reals(plan, MMIX_IN_DT_BIAS);
    x->initial_state = mmixi_cuda_input_reals(plan, MMIX_IN_STATE);
    x->seq_idx = mmixi_cuda_input_ints(plan, MMIX_IN_SEQ_IDX);
}
static void mmixi_cuda_ssd_gradients(mmixi_cuda_plan *plan, mmix_cuda_ssd *x)
{
    x->dx = mmixi_cuda_gradient_heads(plan, MMIX_IN_V);
    x->ddt = mmixi_cuda_gradient_heads(plan, MMIX_IN_DT);
    x->dA = mmixi_cuda_gradient_reals(plan, MMIX_IN_A);
    x->db = mmixi_cuda_gradient_heads(plan, MMIX_IN_K);
    x->dc = mmixi_cuda_gradient_heads(plan, MMIX_IN_Q);
    x->dD = mmixi_cuda_gradient_reals(plan, MMIX_IN_D);
    x->ddt_bias = mmixi_cuda_gradient_reals(plan, MMIX_IN_DT_BIAS);
    x->dinitial = mmixi_cuda_gradient_reals(plan, MMIX_IN_STATE);
}
static int mmixi_cuda_plan_ssd(mmixi_cuda_plan *plan)
{
    mmixi_cuda_layout *t = plan->t;
    const mmix_call *call = plan->call;
    const mmix_tensor *y = call->out[0];
    const mmix_mixer *o = (const mmix_mixer *)call->options;
    mmix_cuda_ssd x;
    memset(&x, 0, sizeof x);
    x.precision = t->a->options.precision;
    x.naive = t->a->options.naive;
    x.stream = t->a->stream;
    x.B = mmix_shape(y, 0);
    x.L = mmix_shape(y, 1);
    x.H = mmix_shape(y, 2);
    x.P = mmix_shape(y, 3);
    x.N = mmix_shape(call->in[MMIX_IN_K], 3);
    x.seq_batch = (ptrdiff_t)x.L;
    x.D_width = mmix_ndim(call->in[MMIX_IN_D]) == 2 ? x.P : 1;
    x.dt_softplus = o->dt_softplus;
    x.dt_low = o->dt_low;
    x.dt_high = o->dt_high;
    x.reverse = o->direction == MMIX_SCAN_REVERSE;
    mmixi_cuda_ssd_inputs(plan, &x);
    if (plan->back) {
        x.dy = mmixi_cuda_upstream_y(plan);
        x.dfinal = mmixi_cuda_upstream_state(plan);
    }
    t->up = t->at;
    if (plan->back) mmixi_cuda_ssd_gradients(plan, &x);
    else {
        x.y = mmixi_cuda_output_y(plan);
        x.final_state = mmixi_cuda_output_state(plan);
    }
    t->down = t->at;
    x.workspace = mmixi_cuda_reserve(t, mmix_cuda_ssd_workspace(&x, plan->back), NULL);
    if (!t->pinned) return 0;
    const int error = mmixi_cuda_send_up(t);
    if (error) return error;
    return plan->back ? mmix_cuda_ssd_backward(&x) : mmix_cuda_ssd_forward(&x);
}

static void mmixi_cuda_attention_options(mmix_cuda_attention *x, const mmix_mixer *o)
{
    x->scale = o->scale;
    x->mask = o->mask;
    x->prefix = o->prefix;
    x->left = o->left;
    x->right = o->right;
    for (int a = 0; a < 3; a++) {
        x->grid[a] = o->grid[a];
        x->window[a] = o->window[a];
        x->shift[a] = o->shift[a];
    }
}
static void mmixi_cuda_attention_inputs(mmixi_cuda_plan *plan, mmix_cuda_attention *x)
{
    x->q = mmixi_cuda_input_heads(plan, MMIX_IN_Q);
    x->k = mmixi_cuda_input_heads(plan, MMIX_IN_K);
    x->v = mmixi_cuda_input_heads(plan, MMIX_IN_V);
    x->bias = mmixi_cuda_input_reals(plan, MMIX_IN_BIAS);
    x->seq_idx = mmixi_cuda_input_ints(plan, MMIX_IN_SEQ_IDX);
    x->lefts = mmixi_cuda_input_ints(plan, MMIX_IN_LEFTS);
}
static void mmixi_cuda_attention_gradients(mmixi_cuda_plan *plan, mmix_cuda_attention *x)
{
    x->dq = mmixi_cuda_gradient_heads(plan, MMIX_IN_Q);
    x->dk = mmixi_cuda_gradient_heads(plan, MMIX_IN_K);
    x->dv = mmixi_cuda_gradient_heads(plan, MMIX_IN_V);
    x->dbias = mmixi_cuda_gradient_reals(plan, MMIX_IN_BIAS);
}
/* What a forward leaves for its backward beside y, two numbers a row: saved[0] is 1 / Σ, saved[1]
   the largest score. A backward sends them up again. */
static float *mmixi_cuda_saved_down(mmixi_cuda_plan *plan, int i, size_t rows)
{
    return (float *)mmixi_cuda_expect(plan->t, &plan->results, NULL, plan->call->saved[i], rows, 0, 0);
}
static float *mmixi_cuda_saved_up(mmixi_cuda_plan *plan, int i, size_t rows)
{
    return (float *)mmixi_cuda_send_saved(plan->t, plan->call->saved[i], rows);
}
static void mmixi_cuda_attention_upstream(mmixi_cuda_plan *plan, mmix_cuda_attention *x)
{
    const mmix_tensor *y = plan->call->out[0];
    const size_t rows = x->B * x->H * x->L;
    x->dy = mmixi_cuda_upstream_y(plan);
    x->y = mmixi_cuda_packed(mmixi_cuda_send(plan->t, y, mmix_data(y), plan->t->bf16), y, x->H);
    x->over = mmixi_cuda_saved_up(plan, 0, rows);
    x->top = mmixi_cuda_saved_up(plan, 1, rows);
}
static int mmixi_cuda_plan_attention(mmixi_cuda_plan *plan)
{
    mmixi_cuda_layout *t = plan->t;
    const mmix_call *call = plan->call;
    const mmix_tensor *y = call->out[0];
    const mmix_tensor *k = call->in[MMIX_IN_K];
    mmix_cuda_attention x;
    memset(&x, 0, sizeof x);
    x.precision = t->a->options.precision;
    x.naive = t->a->options.naive;
    x.stream = t->a->stream;
    x.B = mmix_shape(y, 0);
    x.L = mmix_shape(y, 1);
    x.H = mmix_shape(y, 2);
    x.P = mmix_shape(y, 3);
    x.S = mmix_shape(k, 1);
    x.N = mmix_shape(k, 3);
    x.seq_batch = (ptrdiff_t)x.L;
    mmixi_cuda_attention_options(&x, (const mmix_mixer *)call->options);
    mmixi_cuda_attention_inputs(plan, &x);
    if (plan->back) mmixi_cuda_attention_upstream(plan, &x);
    t->up = t->at;
    if (plan->back) mmixi_cuda_attention_gradients(plan, &x);
    else {
        x.y = mmixi_cuda_output_y(plan);
        x.over = mmixi_cuda_saved_down(plan, 0, x.B * x.H * x.L);
        x.top = mmixi_cuda_saved_down(plan, 1, x.B * x.H * x.L);
    }
    t->down = t->at;
    x.workspace = mmixi_cuda_reserve(t, mmix_cuda_attention_workspace(&x, plan->back), NULL);
    if (!t->pinned) return 0;
    const int error = mmixi_cuda_send_up(t);
    if (error) return error;
    return plan->back ? mmix_cuda_attention_backward(&x) : mmix_cuda_attention_forward(&x);
}

static void mmixi_cuda_linear_inputs(mmixi_cuda_plan *plan, mmix_cuda_linear_attention *x)
{
    x->q = mmixi_cuda_input_heads(plan, MMIX_IN_Q);
    x->k = mmixi_cuda_input_heads(plan, MMIX_IN_K);
    x->v = mmixi_cuda_input_heads(plan, MMIX_IN_V);
    x->initial_state = mmixi_cuda_input_reals(plan, MMIX_IN_STATE);
    x->seq_idx = mmixi_cuda_input_ints(plan, MMIX_IN_SEQ_IDX);
}
static void mmixi_cuda_linear_gradients(mmixi_cuda_plan *plan, mmix_cuda_linear_attention *x)
{
    x->dq = mmixi_cuda_gradient_heads(plan, MMIX_IN_Q);
    x->dk = mmixi_cuda_gradient_heads(plan, MMIX_IN_K);
    x->dv = mmixi_cuda_gradient_heads(plan, MMIX_IN_V);
    x->dinitial = mmixi_cuda_gradient_reals(plan, MMIX_IN_STATE);
}
static int mmixi_cuda_plan_linear(mmixi_cuda_plan *plan)
{
    mmixi_cuda_layout *t = plan->t;
    const mmix_call *call = plan->call;
    const mmix_tensor *y = call->out[0];
    const mmix_tensor *k = call->in[MMIX_IN_K];
    const mmix_mixer *o = (const mmix_mixer *)call->options;
    mmix_cuda_linear_attention x;
    memset(&x, 0, sizeof x);
    x.precision = t->a->options.precision;
    x.naive = t->a->options.naive;
    x.stream = t->a->stream;
    x.B = mmix_shape(y, 0);
    x.L = mmix_shape(y, 1);
    x.H = mmix_shape(y, 2);
    x.P = mmix_shape(y, 3);
    x.S = mmix_shape(k, 1);
    x.N = mmix_shape(k, 3);
    x.seq_batch = (ptrdiff_t)x.L;
    x.feature = o->feature;
    x.normalize = o->normalize > 0;
    x.causal = o->mask == MMIX_MASK_CAUSAL;
    x.eps = o->eps;
    mmixi_cuda_linear_inputs(plan, &x);
    if (plan->back) {
        x.dy = mmixi_cuda_upstream_y(plan);
        x.dfinal = mmixi_cuda_upstream_state(plan);
    }
    t->up = t->at;
    if (plan->back) mmixi_cuda_linear_gradients(plan, &x);
    else {
        x.y = mmixi_cuda_output_y(plan);
        x.final_state = mmixi_cuda_output_state(plan);
    }
    t->down = t->at;
    x.workspace = mmixi_cuda_reserve(t, mmix_cuda_linear_attention_workspace(&x, plan->back), NULL);
    if (!t->pinned) return 0;
    const int error = mmixi_cuda_send_up(t);
    if (error) return error;
    return plan->back ? mmix_cuda_linear_attention_backward(&x) : mmix_cuda_linear_attention_forward(&x);
}
static mmixi_cuda_layer *mmixi_cuda_layer_of(int op)
{
    switch (op) {
    case MMIX_OP_SSD: return mmixi_cuda_plan_ssd;
    case MMIX_OP_SOFTMAX_ATTENTION: return mmixi_cuda_plan_attention;
    case MMIX_OP_LINEAR_ATTENTION: return mmixi_cuda_plan_linear;
    default: return NULL;
    }
}

/* Two ways to allocate memory, and to free it: on the device, and pinned. */
typedef cudaError_t mmixi_cuda_get(void **p, size_t bytes);
typedef cudaError_t mmixi_cuda_give(void *p);
/* Makes room for `bytes`: at least twice what there was, so that lengths that grow by one ask
   seldom; where there is not so much, no more than is needed. */
static int mmixi_cuda_room(char **p, size_t *size, size_t bytes, size_t limit, mmixi_cuda_get *get,
                           mmixi_cuda_give *give)
{
    size_t roomy = mmixi_cuda_max(bytes, mmixi_cuda_min(2 * *size, limit));
    if (bytes <= *size) return 0;
    if (bytes > limit) return cudaErrorMemoryAllocation;
    give(*p);
    cudaError_t e = get((void **)p, roomy);
    if (e != cudaSuccess && roomy > bytes) {
        cudaGetLastError();
        roomy = bytes;
        e = get((void **)p, roomy);
    }
    *size = roomy;
    if (e != cudaSuccess) {
        *p = NULL;
        *size = 0;
    }
    return (int)e;
}
static int mmixi_cuda_grow(mmixi_cuda_attachment *a, size_t device, size_t pinned)
{
    const size_t limit = a->options.memory ? a->options.memory : SIZE_MAX;
    int e = mmixi_cuda_room(&a->device, &a->device_size, device, limit, cudaMalloc, cudaFree);
    if (!e) e = mmixi_cuda_room(&a->pinned, &a->pinned_size, pinned, SIZE_MAX, cudaMallocHost, cudaFreeHost);
    a->done.device_bytes = a->device_size;
    a->done.pinned_bytes = a->pinned_size;
    return e;
}
/* After an illegal address, and some others, the device answers every later call with the same
   error until the process ends. Then nothing is packed any more. */
static void mmixi_cuda_stays(mmixi_cuda_attachment *a)
{
    cudaGetLastError();                          /* not to be found by somebody else's next call */
    a->broken = (int)cudaStreamSynchronize(a->stream);
    cudaGetLastError();
}
/* The second time through a layer, which fills what the first one counted, launches, and waits. */
static int mmixi_cuda_execute(mmixi_cuda_plan *plan, mmixi_cuda_layer *layer)
{
    mmixi_cuda_layout *t = plan->t;
    mmixi_cuda_attachment *a = t->a;
    t->at = 0;
    t->device = a->device;
    t->pinned = a->pinned;
    plan->results.count = 0;
    int error = layer(plan);
    if (!error)
        error = (int)cudaMemcpyAsync(a->pinned + t->up, a->device + t->up, t->down - t->up,
                                     cudaMemcpyDeviceToHost, a->stream);
    /* the copy up may run though that failed */
    const int end = (int)cudaStreamSynchronize(a->stream);
    return error ? error : end;
}
static int mmixi_cuda_offload(mmixi_cuda_attachment *a, mmix_call *call, int back,
                              mmixi_cuda_layer *layer)
{
    mmixi_cuda_layout t;
    mmixi_cuda_plan plan;
    if (a->broken) return a->broken;
    memset(&t, 0, sizeof t);
    memset(&plan, 0, sizeof plan);
    t.a = a;
    t.bf16 = a->options.precision == MMIX_CUDA_BF16;
    plan.t = &t;
    plan.call = call;
    plan.back = back;
    plan.H = mmix_shape(call->out[0], 2);
    layer(&plan);                                /* only counts */
    int error = (int)cudaSetDevice(a->options.device);
    if (!error) error = mmixi_cuda_grow(a, t.at, t.down);
    if (!error) error = mmixi_cuda_execute(&plan, layer);
    if (error) {
        if (error != MMIX_CUDA_UNSUPPORTED) mmixi_cuda_stays(a);
        return error;
    }
    a->done.copies += 2;
    a->done.bytes_up += t.up;
    a->done.bytes_down += t.down - t.up;
    mmixi_cuda_deliver(a->m, &plan.results);
    return 0;
}

/* Multiply-adds of a forward call. */
static double mmixi_cuda_work(int op, const mmix_call *call)
{
    const mmix_mixer *o = (const mmix_mixer *)call->options;
    const mmix_tensor *y = call->out[0];
    const mmix_tensor *k = call->in[MMIX_IN_K];
    const double rows = (double)mmix_shape(y, 0) * (double)mmix_shape(y, 1) * (double)mmix_shape(y, 2);
    const double N = (double)mmix_shape(k, 3);
    const double P = (double)mmix_shape(y, 3);
    if (op != MMIX_OP_SOFTMAX_ATTENTION) return 2.0 * rows * N * P;
    if (!o->window[0]) return rows * (double)mmix_shape(k, 1) * (N + P);
    double keys = 1;                             /* of a window */
    for (int a = 0; a < 3; a++) keys *= (double)mmixi_cuda_min(o->window[a], o->grid[a]);
    return rows * keys * (N + P);
}
/* Saved in this slot: the device did the forward, so the host's backward has to do its own
   again. */
enum { MMIXI_CUDA_MARK = MMIX_MAX_SAVED - 1 };
/* Other ops than mixers keep what they like there. */
static int mmixi_cuda_marked(const mmix_call *call)
{
    return call->op >= MMIX_OP_SOFTMAX_ATTENTION && call->op <= MMIX_OP_SSD && call->saved[MMIXI_CUDA_MARK];
}
/* Numbers that travel to the device and back in a forward call. */
static double mmixi_cuda_numbers(const mmix_call *call)
{
    double numbers = (double)mmix_count(call->out[0]);
    for (int i = 0; i < MMIX_MAX_INPUTS; i++)
        if (call->in[i]) numbers += (double)mmix_count(call->in[i]);
    return numbers;
}
static double mmixi_cuda_least(const mmix_cuda_options *o, const mmix_call *call)
{
    if (o->least > 0) return o->least;
    return mmixi_cuda_max(5e7, 100 * mmixi_cuda_numbers(call));
}

static int mmixi_cuda_host(mmix_ctx *m, mmixi_cuda_attachment *a, mmix_call *call, int back)
{
    const mmix_op_functions run = a ? a->before[call->op] : mmix_op_get(m, call->op);
    mmix_call again = *call;
    if (a) a->done.on_host[call->op]++;
    if (!back) return run.forward(m, call);
    /* on a copy: the node frees its own; a forward sees no gradients */
    if (mmixi_cuda_marked(call)) {
        again.dy[0] = again.dy[1] = NULL;
        if (run.forward(m, &again)) return -1;
        again.dy[0] = call->dy[0];
        again.dy[1] = call->dy[1];
    }
    return run.backward(m, &again);
}
/* Whether the device is to do this call: of forwards what is worth the journey, of backwards those
   whose forward it did. */
static int mmixi_cuda_wanted(const mmixi_cuda_attachment *a, const mmix_call *call, int back)
{
    if (back) return mmixi_cuda_marked(call);
    return mmixi_cuda_work(call->op, call) >= mmixi_cuda_least(&a->options, call);
}
/* Room for what the backward will want. */
static int mmixi_cuda_save(mmix_ctx *m, mmix_call *call)
{
    const mmix_tensor *y = call->out[0];
    const size_t rows = mmix_shape(y, 0) * mmix_shape(y, 1) * mmix_shape(y, 2);
    if (call->op == MMIX_OP_SOFTMAX_ATTENTION) {
        if (!mmix_save_for_backward(m, call, 0, rows)) return -1;
        if (!mmix_save_for_backward(m, call, 1, rows)) return -1;
    }
    return mmix_save_for_backward(m, call, MMIXI_CUDA_MARK, 1) ? 0 : -1;
}
/* Counts a failure of the device; without `quiet` it is the context's error. */
static int mmixi_cuda_failed(mmix_ctx *m, mmixi_cuda_attachment *a, const mmix_call *call, int back,
                             int error)
{
    const char *direction = back ? "backward" : "forward";
    if (error == MMIX_CUDA_UNSUPPORTED) {
        a->done.host_unsupported++;
        return 0;
    }
    a->done.host_failed++;
    snprintf(a->done.failure, sizeof a->done.failure, "%s %s: %s", mmix_op_name(call->op), direction,
             mmix_cuda_error_text(error));
    if (a->options.quiet) return 0;
    return mmix_fail(m, MMIX_ERROR_DEVICE, "mmix_cuda: %s", a->done.failure);
}
static int mmixi_cuda_mixer(mmix_ctx *m, mmixi_cuda_attachment *a, mmix_call *call, int back,
                            mmixi_cuda_layer *layer)
{
    if (!mmixi_cuda_wanted(a, call, back)) {
        a->done.host_small += !back;
        a->done.host_calls++;
        return mmixi_cuda_host(m, a, call, back);
    }
    if (!back && call->recorded && mmixi_cuda_save(m, call)) return -1;
    const int error = mmixi_cuda_offload(a, call, back, layer);
    if (!error) {
        a->done.on_device[call->op]++;
        a->done.device_calls++;
        return 0;
    }
    if (mmixi_cuda_failed(m, a, call, back, error)) return -1;
    a->done.host_calls++;
    if (!back) {                                 /* the host saves what its own backward wants */
        for (int i = 0; i < MMIX_MAX_SAVED; i++) {
            call->saved[i] = NULL;
            call->saved_count[i] = 0;
        }
    }
    return mmixi_cuda_host(m, a, call, back);
}
/* The attachments of all contexts. mmix_op_user does not find them: it may be another
   override's. */
static mmixi_cuda_attachment *mmixi_cuda_attachments;
static std::mutex mmixi_cuda_lock;
static mmixi_cuda_attachment *mmixi_cuda_attached(const mmix_ctx *m)
{
    std::lock_guard<std::mutex> hold(mmixi_cuda_lock);
    mmixi_cuda_attachment *a = mmixi_cuda_attachments;
    while (a && a->m != m) a = a->next;
    return a;
}
/* Every op of an attached context comes through here: mixers go to the device, others are counted
   and handed on. */
static int mmixi_cuda_run(mmix_ctx *m, mmix_call *call, int back)
{
    /* NULL: detached since the op was recorded */
    mmixi_cuda_attachment *a = mmixi_cuda_attached(m);
    mmixi_cuda_layer *layer = mmixi_cuda_layer_of(call->op);
    if (!a || !layer) return mmixi_cuda_host(m, a, call, back);
    return mmixi_cuda_mixer(m, a, call, back, layer);
}
static int mmixi_cuda_forward(mmix_ctx *m, mmix_call *call) { return mmixi_cuda_run(m, call, 0); }
static int mmixi_cuda_backward(mmix_ctx *m, mmix_call *call) { return mmixi_cuda_run(m, call, 1); }
MMIXDEF void mmix_cuda_detach(mmix_ctx *m)
{
    mmixi_cuda_attachment *a = mmixi_cuda_attached(m);
    mmixi_cuda_attachment **at = &mmixi_cuda_attachments;
    int ours = 0;
    int other = 0;
    if (!a) return;
    for (int op = 0; op < MMIX_OP_COUNT; op++) {
        if (mmix_op_get(m, op).forward == mmixi_cuda_forward) ours++;
        else other = op;
    }
    /* none: the context was destroyed, and this is another one at its address */
    if (ours && ours < MMIX_OP_COUNT) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_cuda_detach: %s was overridden since mmix_cuda_attach; take "
                  "that back first", mmix_op_name(other));
        return;
    }
    if (ours)
        for (int op = 0; op < MMIX_OP_COUNT; op++) mmix_op_set(m, op, &a->before[op]);
    mmixi_cuda_lock.lock();
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    mmixi_cuda_lock.unlock();
    cudaFree(a->device);
    cudaFreeHost(a->pinned);
    cudaStreamDestroy(a->stream);
    free(a);
}
/* Makes the device current and a stream on it. On failure -1, and what is wrong in `text`; the
   current device is then what it was. */
static int mmixi_cuda_open(mmixi_cuda_attachment *a, char *text, size_t room)
{
    const int device = a->options.device;
    int devices = 0;
    int before = 0;
    int major = 0, minor = 0;
    cudaFuncAttributes code;
    cudaError_t e = cudaGetDeviceCount(&devices);
    if (e == cudaSuccess) e = cudaGetDevice(&before);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (e == cudaSuccess) e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (e != cudaSuccess) {
        snprintf(text, room, "%s", cudaGetErrorString(e));
        return -1;
    }
    if (major < 8) {
        snprintf(text, room, "the GPU's compute capability is %d.%d, below 8.0", major, minor);
        return -1;
    }
    e = cudaSetDevice(device);
    if (e == cudaSuccess) {
        /* any of the kernels: they were all compiled for the same GPUs */
        e = cudaFuncGetAttributes(&code, mmixi_cuda_linear_spread);
        if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&a->stream, cudaStreamNonBlocking);
        if (e == cudaSuccess) return 0;
        cudaSetDevice(before);
    }
    if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction)
        snprintf(text, room, "this program has no code for the GPU, whose compute capability is %d.%d: "
                 "compile it with -arch=sm_%d%d, or with -arch=native on its machine", major, minor, major,
                 minor);
    else snprintf(text, room, "%s", cudaGetErrorString(e));
    return -1;
}
MMIXDEF int mmix_cuda_attach(mmix_ctx *m, const mmix_cuda_options *options)
{
    mmixi_cuda_attachment *a;
    mmix_op_functions f;
    char text[160];
    if (!m || mmix_error(m)) return -1;
    mmix_cuda_detach(m);
    if (mmix_error(m)) return -1;
    a = (mmixi_cuda_attachment *)calloc(1, sizeof *a);
    if (!a) return mmix_fail(m, MMIX_ERROR_MEMORY, "mmix_cuda_attach: out of memory");
    if (options) a->options = *options;
    if (a->options.precision < MMIX_CUDA_F32 || a->options.precision > MMIX_CUDA_BF16) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "mmix_cuda_attach: precision %d, expected MMIX_CUDA_F32, _TF32 or _BF16",
                  a->options.precision);
        free(a);
        return -1;
    }
    if (mmixi_cuda_open(a, text, sizeof text)) {
        const int quiet = a->options.quiet;
        cudaGetLastError();                      /* not to be found by somebody else's next call */
        free(a);
        if (quiet) return 1;
        return mmix_fail(m, MMIX_ERROR_DEVICE, "mmix_cuda_attach: %s", text);
    }
    for (int op = 0; op < MMIX_OP_COUNT; op++) {
        a->before[op] = mmix_op_get(m, op);
        f.forward = mmixi_cuda_forward;
        f.backward = a->before[op].backward ? mmixi_cuda_backward : NULL;
        mmix_op_set(m, op, &f);
    }
    mmixi_cuda_lock.lock();
    a->m = m;
    a->next = mmixi_cuda_attachments;
    mmixi_cuda_attachments = a;
    mmixi_cuda_lock.unlock();
    return 0;
}
MMIXDEF void mmix_cuda_stats(const mmix_ctx *m, mmix_cuda_statistics *statistics)
{
    const mmixi_cuda_attachment *a = mmixi_cuda_attached(m);
    if (a) *statistics = a->done;
    else memset(statistics, 0, sizeof *statistics);
}

#endif
