/* mamba_mix.h - token mixers, vision backbones and self-supervised learning in one C file

   Softmax attention, linear attention and Mamba-2 (SSD) are the same thing, Y = M X, with three ways to build
   the L x L matrix M. This library computes all three, forward and backward, on any CPU, and builds on them:
   ViT, LinearViT and DinoVim backbones, DINO training without labels, feature maps, k-NN and Binary-AUC;
   decoders of text and pictures, and LinMU, which turns their attention into linear mixers. No packages, no
   flags: one header. One C or C++ file has the define before the include.

   A complete program; it asks how much each token of a sequence moves the mean of the output:

       #define MAMBA_MIX_IMPLEMENTATION
       #include "mamba_mix.h"
       #include <stdio.h>

       int main(void)
       {
           mmix_ctx *m = mmix_create(NULL);                          // malloc, all cores, the best SIMD level
           size_t B = 1, L = 6, H = 2, P = 4, N = 3;
           mmix_tensor *x = mmix_randn(m, mmix_new4(m, B, L, H, P), 1, 0);
           mmix_tensor *b = mmix_randn(m, mmix_new4(m, B, L, 1, N), 1, 1);
           mmix_tensor *c = mmix_randn(m, mmix_new4(m, B, L, 1, N), 1, 2);
           mmix_tensor *dt = mmix_fill(mmix_new3(m, B, L, H), 0.1), *a = mmix_fill(mmix_new1(m, H), -1);
           mmix_require_grad(x);
           mmix_record(m, 1);
           mmix_mixer ssd = mmix_mixer_ssd(x, dt, a, b, c);          // options are fields: ssd.D = D;
           mmix_backward(m, mmix_mean(m, mmix_mix(m, &ssd)));
           for (size_t t = 0; !mmix_error(m) && t < L; t++)
               printf("token %d: %g\n", (int)t, (double)mmix_data(mmix_grad(x))[t * H * P]);
           if (mmix_error(m)) puts(mmix_error(m));                   // the first thing that went wrong
           mmix_destroy(m);
           return 0;
       }

       cc -O2 program.c -o program -lm -lpthread

   CONTENTS                  search for the tag, e.g. >>ssd
     The public part                  The implementation
     >>api-context >>api-layers       >>errors & memory >>norms       >>linear attention  >>dino
     >>api-tensors >>api-vision       >>random          >>linear      >>softmax attention >>distillation
     >>api-tape    >>api-decoder      >>threads         >>convolution >>layers            >>metrics
     >>api-ops     >>api-metrics      >>micro-kernels   >>patches     >>losses            >>video
     >>api-mixers  >>api-dino         >>gemm            >>heads       >>optimisers        >>images
     >>api-kernels >>api-distillation >>tensors         >>rope        >>m-mate            >>files
     >>api-files                      >>tape            >>mixing      >>backbones         >>model files
     >>api-images                     >>elementary ops  >>ssd         >>decoder           >>context

   BUILD SWITCHES            define before the include, the same in every unit
     MMIX_STATIC         the whole API is static to the unit that includes it
     MMIX_NO_STDIO       no file is ever opened: loading and saving report that they were compiled out
     MMIX_NO_THREADS     no pool, no pthread; mmix_options.parallel_for works if `threads` says how many
     MMIX_NO_SIMD        the portable C kernels only
     MMIX_REGRESSION     tiny blocks, chunks and tiles, freed memory poisoned: for tests
     MMIX_REAL           float (default) or double; units of different reals do not link
     MMIX_SELF           this file's name in quotes, if you gave it another (it includes itself)

   CONVENTIONS
     Shapes are written with these letters: B batch, L tokens, D model width, H heads, G groups (key/value
     heads), N query or state width, P value width of a head, S keys, Q chunk, K classes, W convolution width.
     Row-major; sizes are size_t; tokens and labels int32_t.

     Two lifetimes. What a _create, _open or _load returns lives until its _destroy, _close or _free (those
     take NULL; what runs a model that is NULL says so). Contexts go last. What an op returns, its gradient
     included, lives until mmix_reset, or the mmix_rewind that encloses it. mmix_backward consumes what was
     recorded: afterwards the values of recorded ops are gone (a scalar such as a loss stays readable), and
     the gradients of parameters and of tensors marked with mmix_require_grad are there.

     Errors are values. A failing call returns NULL, -1 or 0 as its comment says, and the context keeps the
     first message until mmix_error_clear. While a message is kept ops return NULL, and given NULL they return
     NULL, so that a chain of calls is checked once, at its end. Nothing exits, prints or aborts.

     A context and what was made from it belong to one thread at a time; two contexts can work in two threads.
     The same seed gives the same bits for any number of threads (for one SIMD level). After fork a child may
     use what it has with one thread, its own.

   SOURCES
     Dao & Gu 2024, "Transformers are SSMs" (Mamba-2, SSD); Zhu et al. 2024, "Vision Mamba"; Caron et al.
     2021, "Emerging properties in self-supervised vision transformers" (DINO); Dosovitskiy et al. 2021 (ViT);
     "RNN as Linear Transformer", CVPR 2026, arXiv 2511.18380 (LinearViT, DinoVim, Binary-AUC); Wang & Jha,
     "LinMU", arXiv 2601.01322 (M-MATE, distillation).

   Licence: MIT or public domain, at your choice; see the end of the file. */

#ifndef MAMBA_MIX_H
#define MAMBA_MIX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MMIX_VERSION 10000                   /* 1.00.00 */
#ifndef MMIX_REAL
#define MMIX_REAL float
#endif
#ifndef MMIXDEF
#ifdef MMIX_STATIC
#if defined(__GNUC__) || defined(__clang__)
#define MMIXDEF static __attribute__((unused))
#else
#define MMIXDEF static
#endif
#else
#define MMIXDEF extern
#endif
#endif

typedef MMIX_REAL mmix_real;                 /* all arithmetic on tensors */

/* Functions that take or give reals, or what points to them, carry the type in their symbols: units of
   different reals do not link. */
#define MMIXI_JOIN2(a, b) a##b
#define MMIXI_JOIN(a, b) MMIXI_JOIN2(a, b)
#define MMIXI_TYPED(name) MMIXI_JOIN(name##_, MMIX_REAL)
#define mmix_create MMIXI_TYPED(mmix_create)
#define mmix_from MMIXI_TYPED(mmix_from)
#define mmix_data MMIXI_TYPED(mmix_data)
#define mmix_read MMIXI_TYPED(mmix_read)
#define mmix_write MMIXI_TYPED(mmix_write)
#define mmix_save MMIXI_TYPED(mmix_save)
#define mmix_heads_plain MMIXI_TYPED(mmix_heads_plain)
#define mmix_raw_kept MMIXI_TYPED(mmix_raw_kept)
#define mmix_raw_scratch MMIXI_TYPED(mmix_raw_scratch)
#define mmix_raw_forward MMIXI_TYPED(mmix_raw_forward)
#define mmix_raw_backward MMIXI_TYPED(mmix_raw_backward)
#define mmix_picture_normalise MMIXI_TYPED(mmix_picture_normalise)
#define mmix_augment_crop MMIXI_TYPED(mmix_augment_crop)
#define mmix_params_create MMIXI_TYPED(mmix_params_create)
#define mmix_sample MMIXI_TYPED(mmix_sample)
#define mmix_feature_map MMIXI_TYPED(mmix_feature_map)
#define mmix_dino_loss MMIXI_TYPED(mmix_dino_loss)
#define mmix_ibot_loss MMIXI_TYPED(mmix_ibot_loss)
#define mmix_dino_center MMIXI_TYPED(mmix_dino_center)
#define mmix_adamw_init MMIXI_TYPED(mmix_adamw_init)
#define mmix_sgd_init MMIXI_TYPED(mmix_sgd_init)
#define mmix_linear_probe MMIXI_TYPED(mmix_linear_probe)

typedef struct mmix_ctx mmix_ctx;            /* memory, threads, random numbers, the tape, the last error */
typedef struct mmix_tensor mmix_tensor;      /* an array with a shape; see >>api-tensors */

/* The version of the implementation that was linked, to hold against MMIX_VERSION. */
MMIXDEF int mmix_version(void);

#define MMIX_MAX_DIMS 6

/* ==== >>api-context ==================================================================
   ==================================================================================== */

/* Where memory comes from. A zeroed struct is malloc and free. alloc returns NULL when it has nothing; free
   gets the size that was asked for. The limits hold for the context and everything made from it; 0 is no
   limit. Calls come from the context's own thread only. */
typedef struct mmix_allocator {
    void *(*alloc)(void *user, size_t size);
    void (*free)(void *user, void *ptr, size_t size);
    void *user;
    size_t byte_limit;                       /* bytes held at one time */
    size_t count_limit;                      /* allocations ever made: the next one fails */
} mmix_allocator;

typedef void mmix_task(void *arg, size_t index);

enum { MMIX_SIMD_AUTO, MMIX_SIMD_NONE, MMIX_SIMD_AVX2, MMIX_SIMD_AVX512, MMIX_SIMD_NEON };

/* Memory of a device, a GPU's say, that tensors lie in, and what computes there; alloc NULL: there is none.
   What tensors lie in is on the host and, as large, on the device; numbers are copied when somebody on the
   other side asks for them. Calls come from the context's own thread. */
typedef struct mmix_device {
    void *(*alloc)(void *user, size_t size);             /* NULL when it has nothing */
    void (*free)(void *user, void *ptr, size_t size);
    /* Copy size bytes up, or down, before they return: 0, or -1. */
    int (*put)(void *user, void *device, const void *host, size_t size);
    int (*get)(void *user, void *host, const void *device, size_t size);
    void *user;
    /* NULL, or MMIX_OP_COUNT pairs that outlive the context, by MMIX_OP_…; NULLs: there is no kernel. In
       them addresses, mmix_data's, mmix_save's and the call's, are those on the device. forward returns 0,
       -1 after mmix_fail, or, before it has written or saved anything, 1: it does not do this call, as
       without a backward none that is recorded. Then the op's function runs on the host. A call's backward
       runs where its forward ran. */
    const struct mmix_op_functions *kernels;
    int strict;                              /* 1: an op that no kernel runs is an error */
} mmix_device;

/* Everything a context can be told; zeroes are the defaults. */
typedef struct mmix_options {
    mmix_allocator allocator;
    int threads;                             /* 0: all cores, at most 64 */
    int simd;                                /* AUTO: MMIX_SIMD=none or avx2 in the environment, or the best
                                                there is. A level that is not there falls to the next lower */
    uint64_t seed;
    /* Your own threads instead of the built-in pool: call task(arg, i) for each i < count, in any order, at
       most `threads` at a time, and return when all are done. */
    void (*parallel_for)(void *user, size_t count, mmix_task *task, void *arg);
    void *parallel_user;
    /* NULL, or called by each thread of the built-in pool as its first act, lane 1 … threads - 1 (lane 0 is
       the context's own thread): to pin it to a core, to name it, to set its priority. */
    void (*thread_start)(void *user, int lane);
    void *thread_user;
    mmix_device device;
} mmix_options;

/* A new context, or NULL if memory ran out; options may be NULL and is not kept. */
MMIXDEF mmix_ctx *mmix_create(const mmix_options *options);

/* Frees the context. Destroy models first: their memory was counted here. NULL is allowed. */
MMIXDEF void mmix_destroy(mmix_ctx *m);

/* Kinds of error. */
enum { MMIX_OK, MMIX_ERROR_ARGUMENT, MMIX_ERROR_MEMORY, MMIX_ERROR_FILE, MMIX_ERROR_DEVICE,
      MMIX_ERROR_INTERRUPTED };

/* The first message since the last clear, or NULL. mmix_error(NULL) says that a context could not be made. */
MMIXDEF const char *mmix_error(const mmix_ctx *m);
/* Its kind, MMIX_OK if there is none. */
MMIXDEF int mmix_error_kind(const mmix_ctx *m);
/* Forgets it; ops work again. */
MMIXDEF void mmix_error_clear(mmix_ctx *m);
/* Reports an error of your own op or loader, printf-like, unless one is kept already. Returns -1. */
MMIXDEF int mmix_fail(mmix_ctx *m, int kind, const char *format, ...)
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

typedef struct mmix_memory_use { size_t bytes, peak, allocations; } mmix_memory_use;
/* Bytes held now and at most since the context was made (or the peak cleared), and allocations so far. */
MMIXDEF mmix_memory_use mmix_memory(const mmix_ctx *m);
/* Lets the peak begin anew at what is held now. */
MMIXDEF void mmix_memory_peak_clear(mmix_ctx *m);

/* Drops every op's result, gradient and record since the last reset: the next step begins. */
MMIXDEF void mmix_reset(mmix_ctx *m);

/* A point in step memory to come back to. */
typedef struct mmix_place { size_t block, low, high; } mmix_place;
typedef struct mmix_mark { mmix_place step, header; size_t nodes; mmix_tensor *graded; } mmix_mark;
/* Where step memory stands now. A mark ends with mmix_reset. */
MMIXDEF mmix_mark mmix_mark_here(mmix_ctx *m);
/* Drops what came after the mark: results, records and gradients, also of older leaves, not of parameters. */
MMIXDEF void mmix_rewind(mmix_ctx *m, mmix_mark mark);
/* The same, but the n ≤ 8 tensors of keep, no views with gaps, survive: they are moved to the mark and
   keep[i] is set to the new tensor. With one call a block a network of any depth runs in the memory of one
   block. Nothing may have been recorded since the mark. Returns 0, or -1. */
MMIXDEF int mmix_rewind_keep(mmix_ctx *m, mmix_mark mark, mmix_tensor **keep, size_t n);

/* How many threads work, and the SIMD level in words ("avx512"). */
MMIXDEF int mmix_threads(const mmix_ctx *m);
MMIXDEF const char *mmix_simd_name(const mmix_ctx *m);

/* task(arg, i) for each i < count on the context's threads, until all are done; inside a task, one by one. */
MMIXDEF void mmix_parallel_for(mmix_ctx *m, size_t count, mmix_task *task, void *arg);

/* Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): the value depends on the key alone,
   never on the order of calls. `purpose` says what for, `step` when, `element` which one; the context's seed
   is part of the key. purpose < 0x8000 (from there on they are the library's own), step < 2^48. */
MMIXDEF uint32_t mmix_random_u32(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element);
/* [0, 1) */
MMIXDEF double mmix_random_uniform(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element);
/* mean 0, deviation 1 */
MMIXDEF double mmix_random_normal(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element);
/* The context's seed, and another. */
MMIXDEF uint64_t mmix_seed(const mmix_ctx *m);
MMIXDEF void mmix_seed_set(mmix_ctx *m, uint64_t seed);

/* ==== >>api-tensors ==================================================================
   row-major arrays with strides; the last axis is contiguous
   ==================================================================================== */

enum {
    MMIX_DTYPE_REAL, MMIX_DTYPE_I32, MMIX_DTYPE_U8,
    MMIX_DTYPE_BF16                          /* the upper half of a float: weights of mmix_linear alone */
};

/* New tensors of 0 (a scalar) to MMIX_MAX_DIMS axes in step memory, values undefined; NULL on error. */
MMIXDEF mmix_tensor *mmix_new(mmix_ctx *m, int dtype, int ndim, const size_t *shape);
MMIXDEF mmix_tensor *mmix_new1(mmix_ctx *m, size_t a);
MMIXDEF mmix_tensor *mmix_new2(mmix_ctx *m, size_t a, size_t b);
MMIXDEF mmix_tensor *mmix_new3(mmix_ctx *m, size_t a, size_t b, size_t c);
MMIXDEF mmix_tensor *mmix_new4(mmix_ctx *m, size_t a, size_t b, size_t c, size_t d);
/* The same filled with n = the product of shape values in row-major order. */
MMIXDEF mmix_tensor *mmix_from(mmix_ctx *m, int ndim, const size_t *shape, const mmix_real *values);
MMIXDEF mmix_tensor *mmix_from_i32(mmix_ctx *m, int ndim, const size_t *shape, const int32_t *values);
/* Sets every element of reals or integers; returns t. */
MMIXDEF mmix_tensor *mmix_fill(mmix_tensor *t, double value);
/* Normal numbers of mean 0; `stream` tells one tensor's numbers from another's. Returns t. */
MMIXDEF mmix_tensor *mmix_randn(mmix_ctx *m, mmix_tensor *t, double deviation, uint64_t stream);

/* MMIX_DTYPE_…; the number of axes. */
MMIXDEF int mmix_dtype(const mmix_tensor *t);
MMIXDEF int mmix_ndim(const mmix_tensor *t);
/* Size and step (in elements) of an axis, from the end if it is negative; 0 for one that is not there. */
MMIXDEF size_t mmix_shape(const mmix_tensor *t, int axis);
MMIXDEF size_t mmix_stride(const mmix_tensor *t, int axis);
/* Number of elements. */
MMIXDEF size_t mmix_count(const mmix_tensor *t);
/* The first element, or NULL if the values are gone or of another type; mind the strides of a view. With a
   device reals are NULL outside of an op's functions: mmix_read and mmix_write copy them. */
MMIXDEF mmix_real *mmix_data(const mmix_tensor *t);
MMIXDEF int32_t *mmix_data_i32(const mmix_tensor *t);
/* The value of a tensor of one element (of a loss also after mmix_backward), NAN if it has more. */
MMIXDEF double mmix_item(const mmix_tensor *t);
/* Copies all elements out (in), row-major, strides followed. 0, or -1 if there are no real values. */
MMIXDEF int mmix_read(const mmix_tensor *t, mmix_real *values);
MMIXDEF int mmix_write(mmix_tensor *t, const mmix_real *values);

/* Views: no copy, gradients flow into what is viewed. reshape copies if the strides leave no other way. */
MMIXDEF mmix_tensor *mmix_reshape(mmix_ctx *m, mmix_tensor *t, int ndim, const size_t *shape);
/* Elements start … start+count-1 of an axis; t itself if these are all. */
MMIXDEF mmix_tensor *mmix_slice(mmix_ctx *m, mmix_tensor *t, int axis, size_t start, size_t count);

/* ==== >>api-tape =====================================================================
   reverse-mode differentiation over coarse nodes

   An op runs at once. If recording is on and one of its inputs needs a gradient it also appends one node to
   the tape; mmix_backward walks the nodes in reverse order and calls each op's backward.
   ==================================================================================== */

enum { MMIX_RECORD_LAYERS = 2 };
/* Turns recording on (1) or off (0); off at first. Returns what it was. MMIX_RECORD_LAYERS: on, but each
   block of a backbone, and each half of a decoder's layer, is one mmix_checkpoint; what a sequence points to
   must last until mmix_backward then. Set before, it also holds for the steps that record by themselves,
   mmix_dino_step and mmix_distill_step. */
MMIXDEF int mmix_record(mmix_ctx *m, int on);
/* Asks for the gradient of a leaf: what no recorded op returned. Returns t. Parameters: mmix_params_train. */
MMIXDEF mmix_tensor *mmix_require_grad(mmix_tensor *t);
/* The gradient after mmix_backward, of t's shape, in step memory; NULL if there is none. */
MMIXDEF mmix_tensor *mmix_grad(const mmix_tensor *t);
/* Adds d loss / d leaf to the gradient of every leaf that asked, and consumes the tape; 0, or -1. The first
   starts from a scalar, the second from the upstream gradients of n outputs, each of its output's shape. */
MMIXDEF int mmix_backward(mmix_ctx *m, mmix_tensor *loss);
MMIXDEF int mmix_backward_from(mmix_ctx *m, mmix_tensor **outputs, mmix_tensor **gradients, size_t n);

/* One call of an op, as its two halves see it. Outputs are allocated before forward runs. */
#define MMIX_MAX_INPUTS 12
#define MMIX_MAX_SAVED 4
typedef struct mmix_call {
    mmix_ctx *m;
    int op;                                  /* MMIX_OP_…, or MMIX_OP_COUNT of a custom op */
    int recorded;                            /* 0: no backward will come, keep nothing */
    mmix_tensor *in[MMIX_MAX_INPUTS];        /* NULL where an optional input was left out */
    mmix_tensor *out[2];
    /* what forward keeps for backward (mmix_save); freed with the node */
    mmix_real *saved[MMIX_MAX_SAVED];
    size_t saved_count[MMIX_MAX_SAVED];
    /* the op's numbers: sizes and flags, reals; a larger op's struct, copied with the node */
    size_t size[4];
    double number[2];
    const void *options;
    /* For backward. dy: gradients of the outputs, contiguous; dy[0] is there, dy[1] may be NULL. dx[i]: where
       the gradient of in[i] goes, all of it, with in[i]'s strides, or NULL if none is wanted; add[i]: 1, to
       what is there, 0: over it. Inputs with a bit in `constant` get none; the gradient of input `passed` - 1
       is dy[0] itself, which is handed on after backward. */
    const mmix_real *dy[2];
    mmix_real *dx[MMIX_MAX_INPUTS];
    int add[MMIX_MAX_INPUTS];
    unsigned constant, passed;
    int where;                               /* it ran: 1, on the device; the library's own */
} mmix_call;

/* An op's two halves. Both return 0, or -1 after mmix_fail. An input must not be overwritten between its op
   and mmix_backward, which reads it again (an error under MMIX_REGRESSION). */
typedef int mmix_op_function(mmix_ctx *m, mmix_call *call);
typedef struct mmix_op_functions { mmix_op_function *forward, *backward; } mmix_op_functions;
/* Step memory that lasts as long as the call's node; NULL on error. */
MMIXDEF mmix_real *mmix_save(mmix_ctx *m, mmix_call *call, int slot, size_t count);

/* The ops of the table. Who computes elsewhere overrides them one by one; the rest stays as it is. Their
   functions have their tensors in the host's memory, kernels of mmix_device in the device's. */
enum {
    MMIX_OP_ADD, MMIX_OP_MUL, MMIX_OP_DIV, MMIX_OP_SCALE, MMIX_OP_EXP, MMIX_OP_LOG, MMIX_OP_SQRT,
    MMIX_OP_SILU, MMIX_OP_GELU, MMIX_OP_SOFTPLUS, MMIX_OP_SUM_AXIS, MMIX_OP_SUM, MMIX_OP_MATMUL,
    MMIX_OP_CONCAT, MMIX_OP_GATHER, MMIX_OP_SOFTMAX, MMIX_OP_LAYER_NORM, MMIX_OP_RMS_NORM,
    MMIX_OP_GATED_RMS_NORM, MMIX_OP_L2_NORMALISE, MMIX_OP_LINEAR, MMIX_OP_CONV1D, MMIX_OP_RESIZE,
    MMIX_OP_CROSS_ENTROPY, MMIX_OP_WEIGHT_NORM, MMIX_OP_ROPE, MMIX_OP_SOFTMAX_ATTENTION,
    MMIX_OP_LINEAR_ATTENTION, MMIX_OP_SSD, MMIX_OP_DINO_LOSS, MMIX_OP_ADD_ROWS, MMIX_OP_FUSE_DIRECTIONS,
    MMIX_OP_KD_HIDDEN, MMIX_OP_KD_TOKEN, MMIX_OP_MAX, MMIX_OP_RELU, MMIX_OP_ABS, MMIX_OP_SIGMOID,
    MMIX_OP_TANH, MMIX_OP_POWER, MMIX_OP_COUNT
};
/* Overrides an op of this context; NULL functions restore the built-in ones. 0, or -1 for an unknown op. */
MMIXDEF int mmix_kernel_set(mmix_ctx *m, int op, const mmix_op_functions *functions);
/* What runs an op now, for an override that hands some of its calls on; NULLs for an unknown op. */
MMIXDEF mmix_op_functions mmix_kernel(const mmix_ctx *m, int op);
/* With a device: how many halves of an op, forward or backward, ran on the host (on_device 0), or by kernels
   (1). MMIX_OP_COUNT are custom ops. */
MMIXDEF size_t mmix_op_calls(const mmix_ctx *m, int op, int on_device);
/* A pointer that overrides keep with their context, NULL at first. */
MMIXDEF void mmix_kernel_user_set(mmix_ctx *m, void *user);
MMIXDEF void *mmix_kernel_user(const mmix_ctx *m);
/* The op's name, e.g. "linear". */
MMIXDEF const char *mmix_op_name(int op);

/* A user's own op: out = f(inputs), an output of the given shape. `user` is kept as a pointer and arrives as
   call->options; backward may be NULL if no gradient will be asked for. */
MMIXDEF mmix_tensor *mmix_custom(mmix_ctx *m, mmix_tensor **inputs, size_t n, int ndim, const size_t *shape,
                                 mmix_op_functions functions, const void *user);

typedef mmix_tensor *mmix_block_function(mmix_ctx *m, const void *user, mmix_tensor **inputs);
/* y = f(inputs) as one node that keeps y alone: backward runs f again and goes back through its ops then
   (Chen et al. 2016). The memory of one f in place of all, for about a third more time; the gradients have
   the same bits if y has the same with and without recording (a SwiGLU of many tokens goes by parts without,
   which may round otherwise). f makes the same y each time from its inputs (some may be NULL), the `size`
   bytes at user, which are copied (0: the pointer is), and parameters. Returns NULL on error. Without
   recording it is f itself. */
MMIXDEF mmix_tensor *mmix_checkpoint(mmix_ctx *m, mmix_block_function *f, const void *user, size_t size,
                                     mmix_tensor **inputs, size_t n);

/* ==== >>api-ops ======================================================================
   differentiable operations; each returns a new tensor, or NULL on error

   Comments give the formula, then shapes. (…, D) means any leading axes. Inputs may be views.
   ==================================================================================== */

/* Elementwise, with the shapes aligned at the right and sizes of 1 stretched (as NumPy does). */
MMIXDEF mmix_tensor *mmix_add(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b);
MMIXDEF mmix_tensor *mmix_sub(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b);
MMIXDEF mmix_tensor *mmix_mul(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b);
MMIXDEF mmix_tensor *mmix_div(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b);
/* The larger one; where they are equal each gets half of the gradient, as torch.maximum has it. */
MMIXDEF mmix_tensor *mmix_max(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b);
/* alpha x + beta */
MMIXDEF mmix_tensor *mmix_scale(mmix_ctx *m, mmix_tensor *x, double alpha, double beta);
/* e^x; ln x; the square root; x σ(x); x/2 (1 + erf(x/√2)); ln(1 + e^x), x itself above 20 as in PyTorch */
MMIXDEF mmix_tensor *mmix_exp(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_log(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_sqrt(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_silu(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_gelu(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_softplus(mmix_ctx *m, mmix_tensor *x);
/* max(x, 0); |x|; 1/(1 + e^-x); (e^x - e^-x)/(e^x + e^-x); x^p, of x < 0 for a whole p alone. The slope of
   relu and abs at 0 is 0. */
MMIXDEF mmix_tensor *mmix_relu(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_abs(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_sigmoid(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_tanh(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_power(mmix_ctx *m, mmix_tensor *x, double p);
/* x with each number set to 0 with probability `rate`, the others over 1 - rate (Srivastava et al. 2014),
   drawn from the seed, step and stream (below 2³²). For training; a rate of 0 gives x itself. */
MMIXDEF mmix_tensor *mmix_dropout(mmix_ctx *m, mmix_tensor *x, double rate, uint64_t step, uint64_t stream);

/* Sum over one axis, which disappears; sum and mean of all elements: a scalar. */
MMIXDEF mmix_tensor *mmix_sum_axis(mmix_ctx *m, mmix_tensor *x, int axis);
MMIXDEF mmix_tensor *mmix_sum(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_mean(mmix_ctx *m, mmix_tensor *x);

/* a b: (…, I, J) and (…, J, K) → (…, I, K), equal leading axes. */
MMIXDEF mmix_tensor *mmix_matmul(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b);
/* Axes in another order, copied: axis i of the result is axis order[i] of x. */
MMIXDEF mmix_tensor *mmix_permute(mmix_ctx *m, mmix_tensor *x, const int *order);
/* n tensors, at most MMIX_MAX_INPUTS, one after another along an axis. */
MMIXDEF mmix_tensor *mmix_concat(mmix_ctx *m, int axis, mmix_tensor **parts, size_t n);
/* Rows of a table: (V, D) and int32 indices (…) → (…, D). */
MMIXDEF mmix_tensor *mmix_gather(mmix_ctx *m, mmix_tensor *table, mmix_tensor *index);
/* x (B, L, D) with the tokens of part (B, n, D) added to those at index (n) int32, in each sequence. */
MMIXDEF mmix_tensor *mmix_add_rows(mmix_ctx *m, mmix_tensor *x, mmix_tensor *part, mmix_tensor *index);
/* x (B, L, D) with one token (D), the same for all B, put in before index `at`: (B, L+1, D). */
MMIXDEF mmix_tensor *mmix_insert_token(mmix_ctx *m, mmix_tensor *x, mmix_tensor *token, size_t at);

/* e^x / Σ e^x along an axis. */
MMIXDEF mmix_tensor *mmix_softmax(mmix_ctx *m, mmix_tensor *x, int axis);
/* (x - mean) / √(variance + eps) · weight + bias over the last axis; x (…, D), weight, bias (D) or NULL. */
MMIXDEF mmix_tensor *mmix_layer_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                     double eps);
/* x / √(mean(x²) + eps) · weight over the last axis; weight (D) or NULL. Zhang & Sennrich 2019. */
MMIXDEF mmix_tensor *mmix_rms_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, double eps);
/* u = x · silu(z), then the RMS norm of each of `groups` runs of D/groups features, then · weight: the gate
   comes before the norm (mamba_ssm with norm_before_gate = False). x, z (…, D), weight (D). */
MMIXDEF mmix_tensor *mmix_gated_rms_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *z, mmix_tensor *weight,
                                         double eps, size_t groups);
/* x / max(‖x‖, eps) over the last axis. */
MMIXDEF mmix_tensor *mmix_l2_normalise(mmix_ctx *m, mmix_tensor *x, double eps);

/* x weightᵀ + bias: x (…, I), weight (O, I), bias (O) or NULL → (…, O). */
MMIXDEF mmix_tensor *mmix_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias);
/* residual + s · (x weightᵀ + bias), one s for each index of the first axis (drop path). NULL is 0, 1. */
MMIXDEF mmix_tensor *mmix_linear_add(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                     mmix_tensor *residual, mmix_tensor *s);

/* Causal depthwise convolution, y_t = act(bias + Σ_k weight[:,0,k] x_{t-(W-1)+k}), zeros before the first
   token. x (B, L, D), weight (D, 1, W), bias (D) or NULL. */
typedef struct mmix_conv1d_options {
    int silu;                                /* act = silu, else none */
    int reverse;                             /* the sequence is read from its end; results stay in place */
    mmix_tensor *initial_state;              /* (B, D, W-1): the tokens before the first, oldest first; not
                                                together with seq_idx */
    mmix_tensor *seq_idx;                    /* (B, L) int32: a tap counts only within its own number */
    mmix_tensor **final_state;               /* where to put the last W-1 inputs (B, D, W-1), NULL if W is
                                                1; or NULL */
} mmix_conv1d_options;
/* Options NULL: none. */
MMIXDEF mmix_tensor *mmix_conv1d(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                 const mmix_conv1d_options *options);

/* Convolution with stride = kernel = p: x (B, C, Y, X), weight (D, C, p, p), bias (D) → (B, ⌊Y/p⌋⌊X/p⌋, D),
   tokens row by row; pixels beyond the last whole patch are dropped. */
MMIXDEF mmix_tensor *mmix_patch_embed(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias);
/* x (B, C, h, w) → (B, C, out_h, out_w). Output i samples at (i + ½)/scale - ½ (align_corners false); a scale
   of 0 means out/in. Bicubic with a = -3/4 and bilinear as PyTorch's, whose indices are clamped to the edge;
   bicubic with a = -1/2 and a kernel that widens as the picture shrinks, as Pillow's. */
enum { MMIX_BICUBIC, MMIX_BILINEAR, MMIX_BICUBIC_ANTIALIAS };
/* `filter` is one of them. */
MMIXDEF mmix_tensor *mmix_resize(mmix_ctx *m, mmix_tensor *x, int filter, size_t out_h, size_t out_w,
                                 double scale_h, double scale_w);

/* Mean of -log softmax(logits)[target] over the targets ≠ ignore_index; 0 if none is left. logits (…, K),
   target (…) int32. With a target of reals (…, K), distributions (labels that are smoothed, mixed or a
   teacher's), the mean over the rows of -Σ_k target_k log softmax(logits)_k. It gets no gradient. */
MMIXDEF mmix_tensor *mmix_cross_entropy(mmix_ctx *m, mmix_tensor *logits, mmix_tensor *target,
                                        int32_t ignore_index);
/* weight v: (K, D) rows g_k v_k / ‖v_k‖, g (K, 1). Salimans & Kingma 2016. */
MMIXDEF mmix_tensor *mmix_weight_norm(mmix_ctx *m, mmix_tensor *v, mmix_tensor *g);

/* ==== >>api-mixers ===================================================================
   Y = M X: one struct, one name a face, three mixers

     softmax attention   M = mask ∘ softmax(scale · Q Kᵀ)
     linear attention    M = mask ∘ (φ(Q) ψ(K)ᵀ)
     Mamba-2 SSD         M = L ∘ (C Bᵀ) diag(dt) + diag(D)
                         L_ij = exp(a_{j+1} + … + a_i) for i ≥ j, else 0,   a = dt A

   Vaswani et al. 2017; Katharopoulos et al. 2020; Dao & Gu 2024. Q ≡ C, K ≡ B, V ≡ X: the struct has one set
   of names for all. Heads: q has H, k and v have H or a divisor of it; head h reads group ⌊h / (H/G)⌋.
   ==================================================================================== */

enum { MMIX_SOFTMAX, MMIX_LINEAR, MMIX_SSD };                                        /* mmix_mixer.kind */
/* .mask, which key j query i sees. CAUSAL: j ≤ i. PREFIX: j ≤ i, or both i and j < prefix. BAND (sliding
   window): i - left ≤ j ≤ i + right. With more keys than queries and a mask the queries are the last L of the
   S tokens. SSD is causal by itself; linear attention has NONE and CAUSAL. */
enum { MMIX_MASK_NONE, MMIX_MASK_CAUSAL, MMIX_MASK_PREFIX, MMIX_MASK_BAND };
/* .feature: φ, ψ */
enum { MMIX_FEATURE_SOFTMAX_BOTH, MMIX_FEATURE_EFFICIENT, MMIX_FEATURE_ELU1, MMIX_FEATURE_RELU,
      MMIX_FEATURE_NONE };
enum { MMIX_FORWARD, MMIX_REVERSE, MMIX_BOTH };                                      /* .direction of SSD */
typedef struct mmix_mixer {
    int kind;
    mmix_tensor *q;              /* (B, L, H, N): queries; SSD's C (there H or a divisor of it) */
    mmix_tensor *k;              /* (B, S, G, N): keys; SSD's B (there S = L) */
    mmix_tensor *v;              /* (B, S, G, P): values; SSD's x */
    /* softmax attention */
    double scale;                /* 0: 1/√N */
    int mask;
    size_t prefix, left, right;  /* of MMIX_MASK_PREFIX and _BAND */
    mmix_tensor *lefts;          /* (L) int32 or NULL: with BAND a left of each query's own, at most `left` */
    /* Windows: the tokens are a grid (raster order, up to 3 axes, the axes left over 1), and a query sees the
       keys in its own window only, of them with MMIX_MASK_CAUSAL those not after it. On an axis of n tokens
       the first window ends at `shift` (0: at `window`), the others have `window` tokens, the last what is
       left: nothing is joined around the edge. window[0] = 0: no windows. See mmix_mixer_windows. */
    size_t grid[3], window[3], shift[3];
    /* With windows, (H, Π (2 window_a - 1)) or NULL, Swin's relative position bias: added to the score of
       i, j by their distance on the grid, d_a = i_a - j_a + window_a - 1, the last axis fastest. */
    mmix_tensor *bias;
    /* linear attention. softmax_both: softmax over the N features of each token, for q and k (LinearViT).
       efficient: over features for q, over tokens for k (not causal). elu1: x + 1 for x > 0, else e^x. relu.
       none: q and k are features already, of your own making. */
    int feature;
    int normalise;               /* divide row i by (its sum + eps): 1 yes, -1 no, 0: yes for elu1 and relu */
    double eps;                  /* 0: 1e-6 */
    /* SSD */
    mmix_tensor *dt;             /* (B, L, H) */
    mmix_tensor *A;              /* (H), negative */
    mmix_tensor *D;              /* (H), or (H, P) for each channel its own, or NULL: adds D x */
    mmix_tensor *dt_bias;        /* (H) or NULL: added to dt */
    int dt_softplus;             /* then dt = softplus(dt + dt_bias) */
    double dt_low, dt_high;      /* then clamped, if dt_high > 0; at a limit its gradient is 0 */
    int direction;               /* both: ½ (forward + reverse), D x once */
    /* The state before the first token, and where to put the one after the last; or NULL. SSD: (B, H, P, N).
       Causal linear attention: (B, G, P, N), with `normalise` (B, G, P + 1, N), the last for rows' sums. */
    mmix_tensor *initial_state, **final_state;
    size_t chunk;                /* tokens of a chunk, 0: chosen; changes nothing but rounding and speed */
    /* Packing, for SSD, causal linear and softmax attention: (B, L) int32 or NULL. Runs of equal numbers are
       sequences of their own, which see nothing of each other; the initial state enters the first. What it or
       a mask hides is multiplied by 0: an infinity or NaN there reaches tokens that must not see it. */
    mmix_tensor *seq_idx;
} mmix_mixer;
/* The structs with these tensors and all options at their defaults. */
MMIXDEF mmix_mixer mmix_mixer_softmax(mmix_tensor *q, mmix_tensor *k, mmix_tensor *v);
MMIXDEF mmix_mixer mmix_mixer_linear(mmix_tensor *q, mmix_tensor *k, mmix_tensor *v);
/* x (B, L, Gx, P), dt (B, L, H), A (H), B (B, L, G, N), C (B, L, Gc, N). */
MMIXDEF mmix_mixer mmix_mixer_ssd(mmix_tensor *x, mmix_tensor *dt, mmix_tensor *A, mmix_tensor *B,
                                  mmix_tensor *C);

/* Swin's windows (Liu et al. 2021) on 1 to 3 axes: with `shifted` they are moved by half a window on the axes
   that have more than one. */
MMIXDEF void mmix_mixer_windows(mmix_mixer *mixer, int axes, const size_t *grid, const size_t *window,
                                int shifted);

/* y (B, L, H, P), differentiable in every tensor of the struct; memory grows with L, not with L². */
MMIXDEF mmix_tensor *mmix_mix(mmix_ctx *m, const mmix_mixer *mixer);
/* M (B, H, L, S) with y = M v for each head, for looking: not recorded. An initial state or a D for each
   channel is an error, because y is not M x then. */
MMIXDEF mmix_tensor *mmix_mix_matrix(mmix_ctx *m, const mmix_mixer *mixer);
/* The mean of n rows of M, (B, H, S): what those outputs read. It is the gradient of y with respect to v, and
   costs no more than a backward, where M is L S large. Not recorded; refuses what mmix_mix_matrix does. */
MMIXDEF mmix_tensor *mmix_mix_rows(mmix_ctx *m, const mmix_mixer *mixer, const size_t *rows, size_t n);
typedef void mmix_look(void *user, mmix_ctx *m, const mmix_mixer *mixer);
/* look(user, m, mixer) is called with each mixer that mmix_mix runs on m, alone or inside of layers and
   models, before it runs: to draw M, to measure ranks. A model that records nothing may go through a batch in
   parts, each block part after part. Nothing is recorded meanwhile, and what look leaves in step memory is
   dropped when it returns. look NULL: no more. */
MMIXDEF void mmix_mix_watch(mmix_ctx *m, mmix_look *look, void *user);
/* The definition of SSD as a loop over time, one token after another: what mmix_mix must equal. Not recorded,
   for reading and for tests; options as mmix_mix, MMIX_BOTH excepted. */
MMIXDEF mmix_tensor *mmix_ssd_reference(mmix_ctx *m, const mmix_mixer *mixer);

/* What causal mixers carry from one token to the next: keys and values of softmax attention, else the state,
   in one slot a mixer (a layer of a decoder, say). The memory is the context's and lasts until destroyed.

       mmix_state *s = mmix_state_create(m, layers);
       for (each token) for (each layer i) y = mmix_mix_step(m, &mixer, s, i);  */
typedef struct mmix_state mmix_state;
/* Empty; NULL on error. */
MMIXDEF mmix_state *mmix_state_create(mmix_ctx *m, size_t slots);
MMIXDEF void mmix_state_destroy(mmix_state *s);
/* The next token is the first again, in all slots. */
MMIXDEF void mmix_state_clear(mmix_state *s);
/* A second one with the same content, for another continuation; NULL on error. */
MMIXDEF mmix_state *mmix_state_copy(const mmix_state *s);
/* Tokens that a slot has seen; bytes of all slots. */
MMIXDEF size_t mmix_state_tokens(const mmix_state *s, size_t slot);
MMIXDEF size_t mmix_state_bytes(const mmix_state *s);
/* mmix_mix of the next tokens, one or many, whose q, k, v (x, dt, B, C) the mixer has: the sequence in any
   pieces gives what it gives whole. Not recorded. Softmax attention needs a mask that hides later tokens, and
   remembers all earlier ones (with MMIX_MASK_BAND, twice `left` or `left` and the piece); a prefix must be
   whole in the first piece. The others carry N x P numbers a head. An error leaves the state as it was,
   but for a lack of memory: then clear it or go on from a copy. An initial_state enters with the first
   piece and is NULL with the others; final_state, if asked for, is a copy of the state after this one. */
MMIXDEF mmix_tensor *mmix_mix_step(mmix_ctx *m, const mmix_mixer *mixer, mmix_state *s, size_t slot);

/* The order in which LinMU's layer `layer` visits the T frames of Y x X tokens, each followed by `separators`
   more: perm[r] is the token visited r-th, inverse[perm[r]] = r, both of T (Y X + separators). By layer mod
   4: frames, rows in each; frames, columns; rows of all frames, time innermost; columns of all frames. With
   time innermost the separators come last. perm or inverse may be NULL. */
MMIXDEF void mmix_scan_order(size_t layer, size_t T, size_t Y, size_t X, size_t separators, int32_t *perm,
                             int32_t *inverse);

/* Rotary positions (Su et al. 2021): pair i < R/2 of each head's features is turned by pos · theta^(-2i/R),
   (u, v) → (u cos - v sin, u sin + v cos). */
typedef struct mmix_rope_options {
    double theta;                /* 0: 10000 */
    size_t dim;                  /* R: so many features turn, the others pass; even; 0: all */
    int interleaved;             /* pairs are (2i, 2i+1), else (i, i + R/2) */
    /* Three axes (Qwen2-VL's M-RoPE): so many pairs turn by the position on the first axis, the next by the
       second, … together R/2. All 0: one axis. */
    size_t sections[3];
} mmix_rope_options;
/* x (B, L, H, N) → the same shape. pos int32 (L), or (B, L); with sections (3, L), or (3, B, L). Or the
   angles themselves, reals (n, R/2): the last n ≤ L tokens turn by them, those before do not; of the options
   `interleaved` alone counts then. Options NULL: the defaults. */
MMIXDEF mmix_tensor *mmix_rope(mmix_ctx *m, mmix_tensor *x, mmix_tensor *pos,
                               const mmix_rope_options *options);

/* ==== >>api-kernels ==================================================================
   the mixers as plain functions on pointers, steps and sizes

   For programs with tensors of their own: no context, no tape, no allocation, no thread. One struct for all
   says sizes, options and where the arrays lie; zero it first. A call does all B sequences and H heads in the
   calling thread; calls on others can run in other threads. Nothing is checked. Gradients are written over
   what was there, or added, and left out where p is NULL.

       mmix_raw x = {0};
       x.o.kind = MMIX_SOFTMAX;
       x.B = 1; x.L = x.S = L; x.H = 8; x.N = x.P = 64;
       x.q = mmix_heads_plain(q, L, 8, 64, 8);           // k, v, y likewise
       mmix_raw_forward(&x, scratch);
   ==================================================================================== */

/* An array (B, L, heads, width), width contiguous: its first element, and by how many reals the next
   sequence, token and head are away. Head h of H reads head h / share, share = H / heads. */
typedef struct mmix_heads { mmix_real *p; ptrdiff_t batch, token, head; size_t share; } mmix_heads;
/* The struct of a row-major array; p may be NULL. */
MMIXDEF mmix_heads mmix_heads_plain(mmix_real *p, size_t L, size_t heads, size_t width, size_t H);

/* The tensors of a mixer, in the order of call->in in the mixers' ops. */
enum { MMIX_IN_Q, MMIX_IN_K, MMIX_IN_V, MMIX_IN_SEQ_IDX, MMIX_IN_STATE, MMIX_IN_BIAS, MMIX_IN_LEFTS,
      MMIX_IN_DT, MMIX_IN_A, MMIX_IN_D, MMIX_IN_DT_BIAS };

typedef struct mmix_raw {
    mmix_mixer o;                                /* kind, options, not MMIX_BOTH; its tensors are not read */
    size_t B, L, S, H, N, P;                     /* S keys, of SSD L */
    mmix_heads q, k, v, y;                       /* of attention k and v have equal shares */
    const int32_t *seq_idx;                      /* (B, L), seq_batch from row to row; or NULL */
    ptrdiff_t seq_batch;
    const mmix_real *initial_state;              /* shapes as in mmix_mixer; or NULL */
    mmix_real *final_state;                      /* may be the initial one; or NULL */
    const mmix_real *bias;                       /* softmax attention; or NULL */
    const int32_t *lefts;
    mmix_heads dt;                               /* SSD; of width 1 */
    const mmix_real *A, *D, *dt_bias;            /* (H); D (H, D_width) or NULL; (H) or NULL */
    size_t D_width;                              /* P: D for each channel; 0 or 1: one a head */
    /* What forward writes for the backward, or NULL. (B, H, L): 1 / (sum of each row of M before it is
       divided), of softmax attention and with `normalise`; of softmax attention the largest score, which that
       sum is taken relative to. mmix_raw_kept(x) reals, which softmax attention can do without. */
    mmix_real *inverse_sum, *row_max, *kept;
    mmix_heads dy, dq, dk, dv, ddt;
    const mmix_real *dfinal;                     /* or NULL */
    mmix_real *grad[MMIX_MAX_INPUTS];            /* [MMIX_IN_…] of state, bias, A, D and dt_bias; or NULL */
    int add[MMIX_MAX_INPUTS];                    /* add[MMIX_IN_…] 1: a gradient is added to what is there */
} mmix_raw;
/* Reals of `kept`: SSD's and linear attention's states before each chunk; softmax attention's e^(score - m),
   a fifth off the backward's time, 0 beyond 512 keys. Reals of scratch, which is aligned as malloc aligns. */
MMIXDEF size_t mmix_raw_kept(const mmix_raw *x);
MMIXDEF size_t mmix_raw_scratch(const mmix_raw *x, int backward);
/* y, the final state, and what is kept. With L = 1 and final_state = initial_state: decoding. */
MMIXDEF void mmix_raw_forward(const mmix_raw *x, mmix_real *scratch);
/* Needs y and what the forward kept. */
MMIXDEF void mmix_raw_backward(const mmix_raw *x, mmix_real *scratch);

/* ==== >>api-files ====================================================================
   named arrays in files

   A checkpoint is an archive of named arrays. Loading one by name:

       mmix_archive *a = mmix_archive_open(m, "vit.safetensors");
       const mmix_entry *e = mmix_archive_find(a, "cls_token");           // NULL: not in the file
       mmix_archive_read(m, a, e, MMIX_FILE_REAL, values, count);         // any dtype becomes mmix_real
       mmix_archive_close(a);

   Nothing in a file is believed: a wrong one is refused with one line, what was expected and what found.
   ==================================================================================== */

/* What the elements of an entry are. */
enum {
    MMIX_FILE_F64, MMIX_FILE_F32, MMIX_FILE_F16, MMIX_FILE_BF16,
    MMIX_FILE_I64, MMIX_FILE_I32, MMIX_FILE_I16, MMIX_FILE_I8, MMIX_FILE_U8,
    MMIX_FILE_U16, MMIX_FILE_U32, MMIX_FILE_U64, MMIX_FILE_BOOL,
    MMIX_FILE_REAL_AS_BF16,                  /* saving only: mmix_real, rounded to BF16 in the file */
    MMIX_FILE_REAL = sizeof(mmix_real) == 8 ? MMIX_FILE_F64 : MMIX_FILE_F32
};
/* "F64" … "BOOL", NULL for another number. */
MMIXDEF const char *mmix_file_dtype_name(int dtype);

/* One array: row-major, in this machine's byte order. */
#define MMIX_FILE_MAX_DIMS 8
typedef struct mmix_entry {
    const char *name;                        /* UTF-8; in an archive the archive's, as data is */
    int dtype, ndim;                         /* ndim 0: a scalar */
    size_t shape[MMIX_FILE_MAX_DIMS];
    size_t bytes;                            /* shape times element size; saving does not look at it */
    const void *data;                        /* in an archive it may be unaligned: see the reading below */
} mmix_entry;

typedef struct mmix_archive mmix_archive;

/* Opens a file; NULL on error. What it is, its first bytes say: .safetensors, of several the .index.json
   beside them; NumPy's .npy (one entry, "array") and .npz, not compressed; PyTorch's .pth (1.6 and later),
   whose dictionaries' keys are joined by dots ("teacher.backbone.cls_token"). The pickle in it is read, never
   run: names other than those of a file of weights are refused, and so is what is no file (a fifo, say).
   Where the system can (POSIX) the file is mapped: do not shorten it meanwhile. Of a .safetensors only what
   is looked at is read; the others have checksums, or are small. At most twice its size + 1 MiB are held. */
MMIXDEF mmix_archive *mmix_archive_open(mmix_ctx *m, const char *path);
/* The same for a file that is in memory (and copied); name is for messages, and says where the files of an
   index lie. There with MMIX_NO_STDIO, too. */
MMIXDEF mmix_archive *mmix_archive_open_memory(mmix_ctx *m, const char *name, const void *bytes, size_t size);
/* Frees the archive, its entries and names. NULL is allowed. */
MMIXDEF void mmix_archive_close(mmix_archive *a);

/* Number of entries; entry i, in the file's order, NULL beyond the end. A NULL archive is empty. */
MMIXDEF size_t mmix_archive_count(const mmix_archive *a);
MMIXDEF const mmix_entry *mmix_archive_entry(const mmix_archive *a, size_t i);
/* The entry of that name, or NULL if there is none, which is not an error. */
MMIXDEF const mmix_entry *mmix_archive_find(const mmix_archive *a, const char *name);
/* The value of a key of the file's metadata, or NULL. */
MMIXDEF const char *mmix_archive_metadata(const mmix_archive *a, const char *key);
/* Number of elements. */
MMIXDEF size_t mmix_entry_count(const mmix_entry *e);

/* Copies the elements of an entry out as MMIX_FILE_REAL, F64, F32, I64 or I32; count must be
   mmix_entry_count(e). As integers floating entries are refused, and values that do not fit. 0, or -1. */
MMIXDEF int mmix_archive_read(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, int dtype,
                              void *values, size_t count);

/* Writes n entries, and metadata = key, value, key, value, …, NULL (or NULL), as .safetensors. To a path that
   ends in .npy goes one array (not of BF16) in NumPy's format 1.0, its name aside. Equal arguments give equal
   bytes. The file appears whole or not at all: PATH.PROCESS.0.tmp is written, synced and renamed.
   A link is followed, an old file's mode kept; a device or fifo is written into. 0, or -1. */
MMIXDEF int mmix_archive_save(mmix_ctx *m, const char *path, const mmix_entry *entries, size_t n,
                              const char *const *metadata);

/* ==== >>api-images ===================================================================
   8-bit RGB pictures, bit for bit as Pillow treats them; random crops

   Functions on pictures touch the caller's buffers only, allocate nothing and know no context, so they run
   inside parallel tasks. They return 0, or -1 with nothing written if an argument is out of its range. Those
   that need scratch tell how much: `…_scratch` returns bytes, 0 if the arguments are out of range. Scratch is
   aligned as malloc aligns. Sides are 1 … 2²⁴ pixels.
   ==================================================================================== */

/* Rows of interleaved R, G, B; owned by the caller. */
typedef struct mmix_picture { const uint8_t *rgb; size_t width, height; } mmix_picture;
typedef struct mmix_box { size_t top, left, height, width; } mmix_box;

/* `from` of a picture is brought to width x height, and `to` of that is kept. */
typedef struct mmix_resizing { mmix_box from, to; size_t width, height; } mmix_resizing;
/* All of a box; and of a picture to be evaluated the crop x crop pixels in the middle, when its shorter side
   has become `side` >= crop. */
MMIXDEF mmix_resizing mmix_resizing_box(mmix_box box, size_t width, size_t height);
MMIXDEF mmix_resizing mmix_resizing_evaluate(size_t in_width, size_t in_height, size_t side, size_t crop);
/* Bicubic (a = -1/2), antialiased, horizontally first. `out` is not `in`. */
MMIXDEF size_t mmix_picture_resize_scratch(mmix_resizing r);
MMIXDEF int mmix_picture_resize(uint8_t *out, mmix_picture in, mmix_resizing r, void *scratch);

/* What can be done to width x height pixels in place. */
enum {
    /* by a factor of 0 … 1000, 1 changes nothing; saturation 0 is grey */
    MMIX_CHANGE_BRIGHTNESS, MMIX_CHANGE_CONTRAST, MMIX_CHANGE_SATURATION,
    MMIX_CHANGE_HUE,                         /* by -1/2 … 1/2 of a turn */
    MMIX_CHANGE_FLIP,                        /* columns reversed; 0 */
    MMIX_CHANGE_GREY,                        /* luma (0.299 R + 0.587 G + 0.114 B) in all channels; 0 */
    MMIX_CHANGE_SOLARISE,                    /* levels v from the amount (0 … 256) on become 255 - v */
    MMIX_CHANGE_BLUR                         /* Pillow's GaussianBlur, sigma 0 … 1000 */
};
/* Scratch is for blur alone, else NULL. */
MMIXDEF size_t mmix_picture_blur_scratch(size_t width, size_t height);
MMIXDEF int mmix_picture_change(uint8_t *rgb, size_t width, size_t height, int change, double amount,
                                void *scratch);
/* out (3, height, width) = (v/255 - mean)/deviation, a deviation not 0; NULL, NULL: ImageNet's (0.485, 0.456,
   0.406; 0.229, 0.224, 0.225), which all the backbones here expect. */
MMIXDEF int mmix_picture_normalise(mmix_real *out, mmix_picture in, const double *mean,
                                   const double *deviation);

/* (1, 3, height, width) of what is kept of a picture, resized and normalised. NULL on error. */
MMIXDEF mmix_tensor *mmix_image_resized(mmix_ctx *m, mmix_picture in, mmix_resizing r);
/* (1, 3, size, size) from a picture of any size: evaluation to size · 256/224 (rounded) and size. */
MMIXDEF mmix_tensor *mmix_image(mmix_ctx *m, const uint8_t *rgb, size_t width, size_t height, size_t size);

/* DINO's augmentation (Caron et al. 2021). Crops 0 and 1 are global, the others local. In the order they are
   applied: random box and resize, flip, jitter, grey, blur, solarise, normalise. Pairs are ranges. */
typedef struct mmix_augment {
    size_t global_size, local_size;          /* pixels a side */
    size_t local_count;                      /* local crops of each picture; may be 0 */
    double global_scale[2], local_scale[2];  /* share of the picture's area */
    double aspect[2];                        /* width / height, log-uniform */
    double flip, jitter, grey;               /* probabilities, … */
    double blur[3], solarise[3];             /* … of global 0, global 1, locals */
    double brightness, contrast, saturation; /* strength s: a factor of 1 - s … 1 + s */
    double hue;                              /* -s … s of a turn; the four come in random order */
    double sigma[2];                         /* of the blur, pixels */
    double mean[3], deviation[3];
} mmix_augment;
/* The paper's: 2 x 224 (0.4-1), 8 x 96 (0.05-0.4), aspect 3/4-4/3, flip 0.5, jitter 0.8 (0.4, 0.4, 0.2, 0.1),
   grey 0.2, blur 1 / 0.1 / 0.5 of 0.1-2, solarise 0 / 0.2 / 0, ImageNet's mean and deviation. */
MMIXDEF mmix_augment mmix_augment_dino(void);

/* Number `crop` (< 2¹⁶) of a picture that stands at place `image` (< 2⁴⁰) of a batch. Its random numbers
   depend on the context's seed and (step, image, crop) only, not on threads or the order of calls. */
typedef struct mmix_crop {
    const mmix_ctx *m;
    const mmix_augment *config;
    mmix_picture picture;
    uint64_t step;
    size_t image, crop;
} mmix_crop;
/* The box that it takes from its picture, as torchvision's RandomResizedCrop does: ten tries, then the
   largest box in the middle whose aspect is in range. */
MMIXDEF mmix_box mmix_augment_box(const mmix_crop *c);
/* The crop, out (3, s, s) with s the global or local size; may run inside a task. -1 with nothing written if
   the picture is empty or too large, or a size is 0; the rest of config is taken as checked
   (mmix_augment_batch does). Scratch is for any crop of a picture of these sides. */
MMIXDEF size_t mmix_augment_scratch(const mmix_augment *config, size_t width, size_t height);
MMIXDEF int mmix_augment_crop(mmix_real *out, const mmix_crop *c, void *scratch);
/* All crops of the B pictures at places b = first … first + B - 1 of a batch, pictures[index[b]] (index NULL:
   pictures[b]), on all threads: global (2B, 3, s, s) and local (local_count·B, 3, s', s') or NULL, both crop
   after crop. 0, or -1. */
MMIXDEF int mmix_augment_batch(mmix_ctx *m, const mmix_augment *config, const mmix_picture *pictures,
                               const size_t *index, size_t first, size_t B, uint64_t step,
                               mmix_tensor *global, mmix_tensor *local);

/* ==== >>api-layers ===================================================================
   parameters with checkpoint names, and the layers made of them
   ==================================================================================== */

/* Initial values: CONSTANT a; NORMAL of deviation a; UNIFORM in [a, b); LOG_UNIFORM: the logarithm of a
   number uniform in [a, b) (A_log); STEP: the inverse softplus of a number log-uniform in [a, b), at least
   1e-4 (dt_bias); SPREAD: the same of numbers spread evenly on the logarithmic scale; LAST_TAP: 1 at the end
   of each row, else 0 (a convolution that is the identity). They depend on the context's seed and the
   parameter's name. */
enum { MMIX_START_CONSTANT = 'C', MMIX_START_NORMAL = 'N', MMIX_START_UNIFORM = 'U', MMIX_START_STEP = 'S',
      MMIX_START_LOG_UNIFORM = 'L', MMIX_START_SPREAD = 'E', MMIX_START_LAST_TAP = 'T' };
typedef struct mmix_start { int kind; double a, b; } mmix_start;

typedef struct mmix_param {
    const char *name;
    mmix_tensor *tensor;
    int decay, frozen;                       /* decay: weight decay holds for it */
    mmix_start start;
} mmix_param;

/* All parameters of one model: values, gradients and moments lie in one slab each, in the order of `at`. The
   only door for optimiser, saver, EMA and all-reduce. */
typedef struct mmix_params {
    mmix_ctx *m;
    mmix_param *at;
    size_t count, elements;                  /* parameters; real numbers in all of them */
    mmix_real *values, *gradients;           /* the slabs; gradients are NULL until mmix_params_train */
    mmix_real *packed;                       /* NULL until mmix_params_pack */
    size_t capacity, slab, packed_reals;     /* of `at`; of a slab, with padding to 64 bytes; of `packed` */
    int bf16;                                /* matrices are MMIX_DTYPE_BF16; such a list is not trained */
    double deviation;                        /* of what layers begin with at random; 0: 0.02 */
    struct mmix_params *adapters;            /* of mmix_params_lora; NULL: none */
    struct { size_t rank; double alpha; int targets; } lora;
    int in_run;                              /* a distillation run trains it */
    struct mmixi_owned *owned;               /* what is freed with the list */
} mmix_params;

/* An empty list; NULL on error. */
MMIXDEF mmix_params *mmix_params_create(mmix_ctx *m);
MMIXDEF void mmix_params_destroy(mmix_params *p);
/* Adds a parameter, its name made of prefix and name; it has no values until mmix_params_allocate, which
   begins with MMIX_START_… of a and b. NULL on error. Decay is set for two and more axes unless the name ends
   in ".bias". */
MMIXDEF mmix_tensor *mmix_params_add(mmix_params *p, const char *prefix, const char *name, int ndim,
                                     const size_t *shape, int start, double a, double b);
/* Makes the slab with the initial values; after it nothing can be added. 0, or -1. */
MMIXDEF int mmix_params_allocate(mmix_params *p);
/* Makes the slab of gradients (train = 1) or frees it (0). With it the parameters that are not frozen ask for
   gradients. */
MMIXDEF int mmix_params_train(mmix_params *p, int train);
/* Copies the matrices the way products read them (pack = 1), or frees the copies (0). Worth it for inference
   on few tokens, where copying them each time is a fifth of the work; takes the matrices' memory once more.
   What the library itself does to a parameter drops its copy; after writing through a pointer call this
   again. 0, or -1. */
MMIXDEF int mmix_params_pack(mmix_params *p, int pack);
/* Low-rank matrices beside a weight (O, I): x Wᵀ + alpha/r (x Aᵀ) Bᵀ (LoRA, Hu et al. 2021). A (r, I), B (O,
   r); NULL: none. */
typedef struct mmix_lora { mmix_tensor *A, *B; double alpha; } mmix_lora;
/* The linear layer itself with them. */
MMIXDEF mmix_tensor *mmix_lora_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                      const mmix_lora *lora, mmix_tensor *residual, mmix_tensor *s);
enum { MMIX_LORA_FFN = 1, MMIX_LORA_MIXER = 2 };                                   /* targets */
/* Low-rank adapters beside a model's matrices: those of its MLPs or SwiGLUs, of its mixers (q, k, v, o; of a
   Mamba-2 the first and the last), or both. A begins uniform as in a linear layer, B with 0. They are a list
   of their own, `adapters`. A linear layer takes a weight with its adapter; files of models hold their sum,
   those of runs both. 0, or -1. */
MMIXDEF int mmix_params_lora(mmix_params *p, size_t rank, double alpha, int targets);
/* Adds the adapters to their matrices and drops them; not while a mmix_distill trains them. 0, or -1. */
MMIXDEF int mmix_params_merge(mmix_params *p);
/* Reads every parameter by name, whatever its dtype in the file. Names in the file begin with `prefix` ("":
   nothing), the parameters' own do not. NULL: it is found, as what stands before the first parameter's name
   (module., backbone., teacher. of a training run); of several one with "teacher" in it is taken, else the
   shortest; classifiers ("head.…", "lm_head.…"), mask tokens and constants that are no parameters are left
   alone. An error, with nothing read: a parameter that is missing or has another shape, or a name with the
   prefix that is no parameter. 0, or -1. */
MMIXDEF int mmix_params_read(mmix_params *p, const mmix_archive *archive, const char *prefix);
/* What would be wrong with that, a line each: "missing NAME (3, 4)", "reshaped NAME (4, 3), expected (3, 4)",
   "unexpected NAME (5)". "" if all fit; in step memory; NULL on error. */
MMIXDEF const char *mmix_params_compare(const mmix_params *p, const mmix_archive *archive,
                                        const char *prefix);
/* The same from a file, prefix NULL, and to a .safetensors file. 0, or -1. */
MMIXDEF int mmix_params_load(mmix_params *p, const char *path);
MMIXDEF int mmix_params_save(const mmix_params *p, const char *path);
/* By name; NULL if there is none (no error). */
MMIXDEF mmix_tensor *mmix_params_find(const mmix_params *p, const char *name);
/* Forgets the gradients, without a pass over them: the next backward writes instead of adding. */
MMIXDEF void mmix_params_zero_grad(mmix_params *p);

/* Layers. An _init adds the layer's parameters to p: 0, or -1. A layer makes y (B, L, D) of x (B, L, D),
   unless it says otherwise; with a residual, residual + s y, s as in mmix_linear_add. */

/* Attention with a fused projection: qkv (B, L, 3D) in the order q, k, v, each heads x D/heads; mixer;
   proj. */
typedef struct mmix_attention_layer {
    mmix_tensor *qkv_weight, *qkv_bias, *proj_weight, *proj_bias;    /* (3D, D), …; biases may be NULL */
    size_t heads;
    mmix_mixer options;                      /* of MMIX_SOFTMAX or MMIX_LINEAR; q, k, v are filled in */
    mmix_rope_options rope;                  /* turns q and k, positions from 0; theta 0: not */
    mmix_tensor *angles;                     /* NULL, or in place of positions: as mmix_rope's */
    int no_key_bias;                         /* the middle third of qkv_bias counts as 0 */
} mmix_attention_layer;
/* kind MMIX_SOFTMAX or MMIX_LINEAR; bias 0: qkv and proj have none. */
MMIXDEF int mmix_attention_init(mmix_attention_layer *layer, mmix_params *p, const char *prefix, size_t D,
                                size_t heads, int kind, int bias);
/* With a state x are the next tokens, one or many, and go on from what `slot` carries: as mmix_mix_step. */
MMIXDEF mmix_tensor *mmix_attention(mmix_ctx *m, const mmix_attention_layer *layer, mmix_tensor *x,
                                    mmix_tensor *residual, mmix_tensor *s, mmix_state *state, size_t slot);

/* Mamba-2 (mamba_ssm 2.x): in_proj → z, xBC, dt; convolution and SiLU over xBC; SSD; gated RMS norm;
   out_proj. Bidirectional (Vision Mamba "v2"): a second convolution, A, dt bias, D and norm read the same
   projection from the end; the results are averaged before the one out_proj. */
typedef struct mmix_mamba2_options {
    size_t d_inner, d_state, head_dim, groups, conv_width;           /* 0: 2D, N 64, P 64, G 1, W 4 */
    int bidirectional;
    double eps;                              /* of the norm; 0: 1e-5 */
    double dt_low, dt_high;                  /* dt_limit; none if dt_high is 0 */
    double out_scale;                        /* factor of out_proj's initial values, 1/√depth in Vim; 0: 1 */
} mmix_mamba2_options;
typedef struct mmix_mamba2_direction {
    mmix_tensor *conv_weight, *conv_bias, *dt_bias, *A_log, *D, *norm;
} mmix_mamba2_direction;
typedef struct mmix_mamba2_layer {
    mmix_mamba2_options options;             /* with the defaults filled in */
    size_t heads;                            /* d_inner / head_dim */
    mmix_tensor *in_proj, *out_proj;         /* (2 d_inner + 2GN + H, D), (D, d_inner); no biases */
    mmix_mamba2_direction dir[2];            /* forward; …_b: reverse */
} mmix_mamba2_layer;
/* State from one piece of a sequence to the next: conv (B, d_inner + 2GN, W-1), ssm (B, H, P, N). NULL in:
   zeros; out: the results, in step memory. Or both lie in a slot of `in`: as mmix_mix_step. Not for
   bidirectional layers, not with seq_idx. */
typedef struct mmix_mamba2_state { mmix_tensor *conv, *ssm; mmix_state *in; size_t slot; } mmix_mamba2_state;
/* options NULL: the defaults. */
MMIXDEF int mmix_mamba2_init(mmix_mamba2_layer *layer, mmix_params *p, const char *prefix, size_t D,
                             const mmix_mamba2_options *options);
/* seq_idx (B, L) int32 or NULL; state NULL, or read and then replaced. */
MMIXDEF mmix_tensor *mmix_mamba2(mmix_ctx *m, const mmix_mamba2_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s, mmix_tensor *seq_idx,
                                 mmix_mamba2_state *state);

typedef struct mmix_mlp_layer { mmix_tensor *fc1_weight, *fc1_bias, *fc2_weight, *fc2_bias; } mmix_mlp_layer;
/* fc1 (F, D), fc2 (O, F), with biases. */
MMIXDEF int mmix_mlp_init(mmix_mlp_layer *layer, mmix_params *p, const char *prefix, size_t D, size_t F,
                          size_t O);
/* y (…, O) = fc2(gelu(fc1 x)), x (…, D). */
MMIXDEF mmix_tensor *mmix_mlp(mmix_ctx *m, const mmix_mlp_layer *layer, mmix_tensor *x, mmix_tensor *residual,
                              mmix_tensor *s);

/* up NULL: gate is both, (2F, D). Biases in this order; NULL: none. */
typedef struct mmix_swiglu_layer { mmix_tensor *gate, *up, *down, *bias[3]; } mmix_swiglu_layer;
/* Parameters gate_proj.weight and up_proj.weight (F, D), down_proj.weight (D, F), without biases. */
MMIXDEF int mmix_swiglu_init(mmix_swiglu_layer *layer, mmix_params *p, const char *prefix, size_t D,
                             size_t F);
/* y = down(silu(gate x) · up x), x (…, D) (Shazeer 2020). */
MMIXDEF mmix_tensor *mmix_swiglu(mmix_ctx *m, const mmix_swiglu_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s);

/* Stochastic depth (Huang et al. 2016): s (B), each 0 with probability `rate`, else 1/(1 - rate). NULL
   without an error if rate is 0. `stream`, below 2³², tells the layers and crops of one step apart. */
MMIXDEF mmix_tensor *mmix_drop_path(mmix_ctx *m, size_t B, double rate, uint64_t step, uint64_t stream);

/* A medium among the text: T frames of Y x X tokens from `start` on (an image: T = 1), separator tokens after
   each frame. Text is what lies in no span; spans lie in order and apart. */
typedef struct mmix_span { size_t start, grid[3], separators; } mmix_span;
/* How a mixer of decoder layers finds its tokens. */
typedef struct mmix_layout {
    const mmix_span *spans;
    size_t n_spans;
    mmix_tensor *positions;  /* rotary: int32 (L), or (3, L) of three axes; NULL: on from what the slot saw */
    /* (B, H, P, N): of Flex-MA, before the first token, or NULL; where to put that after the last, or NULL */
    mmix_tensor *initial_state, **final_state;
    mmix_state *state;                       /* NULL: a whole sequence; else its next piece, which ends no */
    size_t slot;                             /* span halfway: as mmix_mix_step, in `slot` and `slot + 1` */
    /* One span: in Local-Swin the tokens that are not of its grid see all, and all see them. angles (L, N/2)
       turn q and k of Local-Swin in place of positions; NULL: none do. */
    int global;
    mmix_tensor *angles;
} mmix_layout;

/* Attention with projections of their own: q (H·N, D), k (G·N, D), v (G·P, D), o (D, H·P), in this order. */
typedef struct mmix_projections {
    mmix_tensor *weight[4], *bias[4];        /* biases may be NULL */
    size_t heads, kv_heads;                  /* H, G */
} mmix_projections;
/* .branches; ATTENTION: in their place causal softmax attention, with the projections `flex` */
enum { MMIX_BRANCH_BOTH, MMIX_BRANCH_FLEX, MMIX_BRANCH_SWIN, MMIX_BRANCH_ATTENTION };
enum { MMIX_FUSE_GATE, MMIX_FUSE_MEAN, MMIX_FUSE_SUM };                            /* .directions */
/* M-MATE = Flex-MA + Local-Swin. Zeroes are the defaults. */
typedef struct mmix_mmate_options {
    int branches;
    int branch_gate;                         /* 1: u flex + (1 - u) swin, u = σ(w x) a token; 0: their sum */
    /* Flex-MA: SSD with C = q, B = k, X = v, dt = softplus(dt_proj x + dt_bias), A = -e^A_log. A forward scan
       over all tokens, those of a span in the order of mmix_scan_order; in each span a reverse scan of its
       own. At span tokens the two are fused: gate g f + (1 - g) b with g = σ(gate x) a head; mean; sum. */
    int directions;
    int shared_directions;                   /* 1: the reverse scan has the forward's dt and A */
    int skip;                                /* 1: adds D x */
    size_t conv_width;                       /* W > 1: a causal convolution over C, B, X, at first none */
    int output_gate;                         /* 1: times silu(z_proj x + z_bias), at first 1 */
    int norm;                                /* 1: RMS norm (after the gate) before o_proj */
    /* Local-Swin: softmax attention of a span's grid tokens in windows of frames, rows, columns. */
    size_t window[3];                        /* 0: of 1 x 16 x 16 for images, 16 x 4 x 4 for videos */
    size_t shift_period;                     /* p: shifted where layer mod p ≥ p/2; even; 0: 2 */
    int causal_window;                       /* 1: within a window only earlier tokens */
    size_t text_window;                      /* w: text sees text less than w tokens back; 0: none */
} mmix_mmate_options;

typedef struct mmix_mmate_layer {
    mmix_mmate_options options;
    size_t index;                            /* of the layer: tells scan order and shift */
    mmix_projections flex, swin;
    struct { mmix_tensor *dt_proj, *dt_bias, *A_log; } dir[2];           /* forward, reverse */
    mmix_tensor *gate_weight, *gate_bias, *D, *conv_weight, *z_weight, *z_bias, *norm, *branch_gate_weight,
        *branch_gate_bias;
    mmix_rope_options rope;                  /* of Local-Swin and attention; theta 0: none */
} mmix_mmate_layer;
/* Adds flex.q_proj.weight, …, swin.…, branch_gate.… to p, of attention q_proj.weight, …, for N = P = width,
   with biases for q, k, v (bias 1), for o, too (2), or none; options NULL: the defaults. 0, or -1. */
MMIXDEF int mmix_mmate_init(mmix_mmate_layer *layer, mmix_params *p, const char *prefix, size_t D,
                            size_t heads, size_t kv_heads, size_t width, size_t index, int bias,
                            const mmix_mmate_options *options);
/* x (B, L, D) → (B, L, D), plus residual unless that is NULL; layout NULL: text alone. options.branches may
   be set in a copy of the layer: of Local-Swin alone, what takes no part gets 0, without o_proj's bias. */
MMIXDEF mmix_tensor *mmix_mmate(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                mmix_tensor *residual, const mmix_layout *layout);
/* M (B, H, L, L), y = M v for each head before o_proj (and without output_gate and norm), by the definition:
   what mmix_mmate must equal. Of both branches their sum, weighted by their gate, if any. Not recorded. */
MMIXDEF mmix_tensor *mmix_mmate_matrix(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                       const mmix_layout *layout);

/* ==== >>api-vision ===================================================================
   backbones: pictures in, tokens out
   ==================================================================================== */

/* Where the class token stands: FIRST with attention, any of these with Mamba. RELEASED is what DinoVim's
   code does: once in front, with position, and a second time, without, in the middle, where the output is
   read. REGISTERS (DinoMamba-Reg): k tokens with positions of their own, register i (of 0 … k - 1) at index
   S + i (S + 1) with S = ⌊n/(k + 1)⌋ for n patches; the output is their mean. LAST: behind the patches and
   the registers that nothing reads, where a forward scan has seen all; so it is where a block has M-MATE. */
enum { MMIX_CLASS_FIRST, MMIX_CLASS_MIDDLE, MMIX_CLASS_RELEASED, MMIX_CLASS_REGISTERS, MMIX_CLASS_LAST };

/* What mixes the tokens of a block in place of .mixer: attention; M-MATE of a span, the patches, whose
   separators are the registers and the class token, or one branch of it. In Local-Swin these see all, and all
   see them. */
enum { MMIX_BLOCK_MIXER, MMIX_BLOCK_SOFTMAX, MMIX_BLOCK_LINEAR, MMIX_BLOCK_MMATE, MMIX_BLOCK_FLEX,
      MMIX_BLOCK_SWIN };
enum { MMIX_VISION_BLOCKS = 48 };

/* Positions of patches, for grids other than the stored one: stored ones resized by scale factors
   (g + 0.1)/g0 (DINO, and DINOv2's own files without registers), to the size (Hugging Face's of these), or
   with antialiasing (DINOv2 with registers). AXIAL (DINOv3, names and parts too): nothing is stored; q and k
   of patches turn, of N features a head, by 2π c / 100^(4p/N), p < N/4, for the row's coordinate
   c = 2(i + ½)/gh - 1, then so for the column's; k has no bias. */
enum { MMIX_POSITIONS_DINO, MMIX_POSITIONS_EXACT, MMIX_POSITIONS_ANTIALIAS, MMIX_POSITIONS_AXIAL };

typedef struct mmix_vision_config {
    int mixer;                               /* MMIX_SOFTMAX: ViT, _LINEAR: LinearViT, _SSD: DinoVim */
    size_t dim, depth, heads;                /* heads: not for MMIX_SSD, where it is 2 dim / head_dim */
    double mlp_ratio;                        /* width of the MLP over dim; not for MMIX_SSD */
    size_t patch, grid;                      /* a patch's side in pixels; stored positions: grid², or none */
    double eps;                              /* of the norms */
    double drop_path;                        /* rate of the last block; rises linearly from 0 */
    int class_token;                         /* MMIX_CLASS_…; ViT: FIRST */
    /* k of MMIX_CLASS_REGISTERS, 0: 12. With attention: so many tokens more behind the class token, without
       positions, that nothing reads (DINOv2, DINOv3; Darcet et al. 2023) */
    size_t registers;
    int normalise;                           /* as mmix_mixer.normalise, for MMIX_LINEAR */
    int positions;                           /* MMIX_POSITIONS_… */
    /* With attention. swiglu: w3(silu(w1 x) · w2 x) in place of the MLP, mlp_ratio dim wide; layer_scale: the
       residual gets γ · what a half of a block makes, γ (D) (Touvron et al. 2021) */
    int swiglu, layer_scale;
    mmix_mamba2_options mamba;               /* for MMIX_SSD; bidirectional and out_scale are set here */
    /* Initial values. deviation: of tokens, stored positions and all matrices but patches' and Mamba's; 0:
       0.02, the systems', which at 768 is 1/√(3 dim), what PyTorch's linear layers begin with. sincos, if not
       0: stored positions of patches begin with sines and cosines of that amplitude (He et al. 2022, A.1) */
    double deviation, sincos;
    int feature;                             /* as mmix_mixer.feature, of linear attention */
    int blocks[MMIX_VISION_BLOCKS];          /* MMIX_BLOCK_… of the first so many; with attention */
    mmix_mmate_options mmate;                /* of those with M-MATE; .branches is set there */
} mmix_vision_config;

/* The systems, for 224 x 224 pixels: DINO's ViT, 192 (tiny), 384 (small) or 768 (base) wide; LinearViT, 768;
   DinoVim in its released form and DinoMamba-Reg, which stores 7 x 7 positions, 256, 512 or 768. DINOv2, for
   518 x 518, 384 to 1536 wide, with 0 or 4 registers (Oquab et al. 2023); DINOv3, 384 to 1280 (Siméoni et al.
   2025), S+ and H+ with swiglu. Heads are 64 wide. */
MMIXDEF mmix_vision_config mmix_vit(size_t dim, size_t patch);
MMIXDEF mmix_vision_config mmix_linearvit(size_t dim);
MMIXDEF mmix_vision_config mmix_dinovim(size_t dim);
MMIXDEF mmix_vision_config mmix_mambareg(size_t dim);
MMIXDEF mmix_vision_config mmix_dinov2(size_t dim, size_t registers);
MMIXDEF mmix_vision_config mmix_dinov3(size_t dim, int swiglu);

typedef struct mmix_vision mmix_vision;
/* A backbone with random values from the context's seed; NULL on error (heads that do not divide dim, …). */
MMIXDEF mmix_vision *mmix_vision_create(mmix_ctx *m, mmix_vision_config config);
/* A backbone of `config`, of the teacher's sizes, with its weights: by name, and q, k, v and o of its
   attention in both branches of what took its place. NULL on error. */
MMIXDEF mmix_vision *mmix_vision_from(const mmix_vision *teacher, mmix_vision_config config);
MMIXDEF void mmix_vision_destroy(mmix_vision *v);
MMIXDEF const mmix_vision_config *mmix_vision_config_of(const mmix_vision *v);
MMIXDEF mmix_params *mmix_vision_params(const mmix_vision *v);
/* Multiply-adds times two of one image of h x w pixels. */
MMIXDEF double mmix_vision_flops(const mmix_vision *v, size_t h, size_t w);
/* Where the tokens stand, among all of them, of which `features` are the mean, for n patches: the class
   token, or the registers. Writes them to `at` unless that is NULL; returns how many. */
MMIXDEF size_t mmix_vision_class_index(const mmix_vision_config *config, size_t n, size_t *at);
/* A backbone from a file of any format that mmix_archive_open knows: mmix_vision_config_read, creation and
   mmix_params_read (prefix NULL) in one. NULL on error. With dtype MMIX_DTYPE_BF16 the matrices stay bf16, in
   half the memory and rounded to 8 bits if the file has more; products widen them, so that results are those
   of the rounded numbers. Such a backbone is not trained; gradients pass through it. */
MMIXDEF mmix_vision *mmix_vision_open(mmix_ctx *m, const char *path);
MMIXDEF mmix_vision *mmix_vision_open_as(mmix_ctx *m, const char *path, int dtype);
/* The config of the backbone in an archive. Files of mmix_vision_save and mmix_dino_save hold it. Of others
   names and shapes tell it, and what these leave open is assumed: softmax attention (a LinearViT has the same
   names) in heads of 64, B and C in one group, the class token as RELEASED, the norms' eps. 0, or -1. */
MMIXDEF int mmix_vision_config_read(mmix_ctx *m, const mmix_archive *archive, mmix_vision_config *config);
/* Writes the parameters and the config as .safetensors. 0, or -1. */
MMIXDEF int mmix_vision_save(mmix_ctx *m, const mmix_vision *v, const char *path);

/* Tensors in step memory; views of one another where B > 1, so mmix_read copies their rows, not mmix_data. */
typedef struct mmix_features {
    mmix_tensor *token;                      /* (B, D): class token or registers' mean, after the norm */
    mmix_tensor *registers;                  /* (B, k, D): the registers, read or not; NULL without */
    mmix_tensor *patches;                    /* (B, n, D): patch tokens after the final norm, raster order */
    mmix_tensor *tokens;                     /* (B, L, D): all of them in the model's order */
    /* (B, n_last D): class tokens (registers' means) of the last n_last blocks after the final norm, first
       block first (of Mamba the mixer's output, without the residual); NULL unless asked */
    mmix_tensor *intermediate;
    mmix_tensor **dense;                     /* NULL, or n_dense (B, D, gh, gw): patch tokens */
    size_t grid_h, grid_w;
} mmix_features;
typedef struct mmix_vision_options {
    size_t n_last;                           /* how many last blocks `intermediate` joins; 0: none */
    /* Blocks, from 0 on and rising, whose output `dense` holds as maps, for a head of the user's own. Of
       Mamba with the residual. dense_norm: after the final norm, else as they are. */
    const size_t *dense;
    size_t n_dense;
    int dense_norm, train;                   /* train: drop path is on */
    uint64_t step, stream;                   /* for drop path's random numbers; stream below 2²² */
    /* As of mmix_decoder_options: `depth` places for what a block's mixer makes (not Mamba), for its output;
       what blocks read. class_last: tokens stand as with MMIX_CLASS_LAST, where the mixer does not mind */
    mmix_tensor **mixed, **outputs, **inputs;
    int class_last;
    /* (B, n) of 0 and 1: the patches where it is 1 are mask_token (D) before they get their positions */
    mmix_tensor *masked, *mask_token;
} mmix_vision_options;
/* What the class token reads of each patch in block `block`, (B, H, gh, gw): its row of M, head by head, or
   the mean of the registers' rows; of Mamba the mean of both directions'. image as below; NULL on error. Not
   recorded. */
MMIXDEF mmix_tensor *mmix_vision_attention(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image,
                                           size_t block);
/* image (B, 3, h, w), normalised; options NULL for none. All members NULL on error. Not recording, memory
   does not grow with depth. */
MMIXDEF mmix_features mmix_vision_forward(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image,
                                          const mmix_vision_options *options);

/* ==== >>api-decoder ==================================================================
   decoders of text and media: causal attention, or M-MATE in its place (LinMU, arXiv 2601.01322)

   A layer is x += mixer(norm x), x += SwiGLU(norm x) with RMS norms. Tokens are numbers; demos/text.h has
   llama2.c's tokenizer. Greedy continuation of a text:

       mmix_decoder *d = mmix_decoder_open(m, "stories260K.bin");
       tokenizer *t = tokenizer_load(m, "tok512.bin");
       int32_t prompt[64], more[200];
       size_t shape[2] = { 1, tokenizer_encode(t, "Once upon a time", 1, 0, prompt, 64) };
       mmix_sequence text = { mmix_from_i32(m, 2, shape, prompt), NULL, 0, NULL };
       size_t made = mmix_decoder_continue(m, d, &text, NULL, more, 200);
       for (size_t i = 0; i < made; i++) fputs(tokenizer_piece(t, more[i], NULL), stdout);
   ==================================================================================== */

/* What a decoder reads: B sequences of L tokens with the same spans. */
typedef struct mmix_sequence {
    mmix_tensor *tokens;                     /* (B, L) int32; not read where media's features stand */
    const mmix_span *spans;
    size_t n_spans;
    mmix_tensor *media;                      /* (B, n, F): features of grid tokens; NULL: `tokens` has them */
} mmix_sequence;
enum { MMIX_DECODER_ATTENTION, MMIX_DECODER_MMATE };                               /* .mixer */
typedef struct mmix_decoder_config {
    int mixer;
    size_t vocabulary, dim, depth, ffn;      /* K, D, layers, F of SwiGLU */
    size_t heads, kv_heads, head_dim;        /* kv_heads 0: heads; head_dim 0: dim / heads */
    double eps;                              /* of the norms; 0: 1e-5 */
    mmix_rope_options rope;                  /* theta 0: 10000 */
    int bias;                                /* 1: q, k and v have biases; 2: o, too */
    int tied;                                /* 1: the classifier is the embedding */
    size_t media;                            /* F of media, which an MLP (GELU) brings to D; 0: no media */
    mmix_mmate_options mmate;
} mmix_decoder_config;

/* Fields are for reading. */
typedef struct mmix_decoder {
    mmix_ctx *m;
    mmix_decoder_config config;              /* with the defaults filled in */
    mmix_params *params;                     /* named as in Hugging Face's Llama and Qwen2 */
    mmix_tensor *embedding, *norm, *classifier;
    mmix_mlp_layer projector;                /* of media */
    struct mmixi_decoder_layer *layer;
} mmix_decoder;
/* A decoder with random values from the context's seed; NULL on error. */
MMIXDEF mmix_decoder *mmix_decoder_create(mmix_ctx *m, mmix_decoder_config config);
MMIXDEF void mmix_decoder_destroy(mmix_decoder *d);
/* From a file: one of mmix_decoder_save; llama2.c's .bin; or Hugging Face's .safetensors (or .bin of
   PyTorch) of a Llama, Mistral or Qwen2 with its config.json in the same folder. NULL on error. */
MMIXDEF mmix_decoder *mmix_decoder_open(mmix_ctx *m, const char *path);
/* llama2.c's format from memory (Karpathy 2023): 7 int32, then float32 weights. */
MMIXDEF mmix_decoder *mmix_decoder_from_llama2c(mmix_ctx *m, const char *name, const void *bytes,
                                                size_t size);
/* Writes parameters, adapters merged, and config as .safetensors. 0, or -1. */
MMIXDEF int mmix_decoder_save(const mmix_decoder *d, const char *path);

typedef struct mmix_decoder_options {
    /* NULL, or `depth` places each for the outputs (B, L, D) of the mixers, the layers, the mixers' norms */
    mmix_tensor **mixed, **outputs, **normed;
    mmix_tensor **inputs;    /* NULL, or what layers read in place of the one before; NULL there: as usual */
} mmix_decoder_options;
/* The tokens after the last norm, (B, L, D); options NULL: none. */
MMIXDEF mmix_tensor *mmix_decoder_forward(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                          const mmix_decoder_options *options);
/* (…, D) → (…, K) */
MMIXDEF mmix_tensor *mmix_decoder_logits(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *hidden);
/* M (B, H, L, L) of one layer: attention's, or as of mmix_mmate_matrix. Not recorded. */
MMIXDEF mmix_tensor *mmix_decoder_matrix(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                         size_t layer);

/* What a decoder remembers of the tokens before, none at first: with attention keys and values of all, with
   M-MATE states of one size (and the last text_window keys). Not longer than d lives. NULL on error. */
MMIXDEF mmix_state *mmix_decoder_state_create(const mmix_decoder *d);
/* Reads the next tokens, one or many (a span is in one piece, and starts from the piece's first token); the
   logits (B, K) after the last. Not recorded. After an error clear the state or go on from a copy. */
MMIXDEF mmix_tensor *mmix_decoder_step(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *piece,
                                       mmix_state *s);

/* How a token is drawn: temperature 0: the largest logit; else from softmax(logits / temperature), of which
   the likeliest top_k (0: all), and of those the likeliest with together `top_p` (0: all) are kept, by the
   context's seed, `stream` and its place. */
typedef struct mmix_sampling {
    double temperature, top_p;
    uint64_t stream;
    int32_t stop;                            /* the last token to make, none if 0 */
    size_t top_k;
} mmix_sampling;
/* One token from logits (K); place: its number in the sequence. 0 on error: logits are NULL after a chain of
   calls that failed, one is not a number, or all are -infinity. */
MMIXDEF int32_t mmix_sample(mmix_ctx *m, const mmix_real *logits, size_t K, const mmix_sampling *sampling,
                            uint64_t place);
/* Continues a sequence (B, L), its rows in step memory, by at most `count` tokens, the stop token included:
   tokens (B, count); a row that stopped is filled with the stop token. Returns the longest row's number of
   tokens, 0 after an error. sampling NULL: the largest logit, no stop. */
MMIXDEF size_t mmix_decoder_continue(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                     const mmix_sampling *sampling, int32_t *tokens, size_t count);

/* ==== >>api-metrics ==================================================================
   what features are worth: maps, Binary-AUC, mIoU, k-NN, linear heads, PCA

   Tensors in; results are plain arrays in step memory. Functions that return int return 0, or -1 with a
   message and a zeroed result. Nothing here is recorded.
   ==================================================================================== */

enum { MMIX_MAP_COSINE, MMIX_MAP_DOT };      /* mmix_map_options.similarity */
typedef struct mmix_map_options {
    int similarity;
    const size_t *positions;                 /* the tokens of query that count (registers); NULL: all */
    size_t n_positions;
    const char *token, *layer;               /* what query and patches are: "register 3", "block 2" */
} mmix_map_options;
typedef struct mmix_map {
    mmix_tensor *similarity;                 /* (B, 1, gh, gw): of the query with each patch */
    mmix_tensor *scaled;                     /* (B, 1, gh, gw): each image's least → 0, largest → 1 */
    mmix_tensor *map;                        /* (B, 1, h, w): scaled, bilinear */
    char how[320];                           /* in words: layer, token, similarity, scaling */
} mmix_map;
/* Similarity of the mean of the tokens of query (B, L, D) or (B, D) with each of patches (B, gh·gw, D). Of
   what mmix_vision_forward returns: f.token (f.tokens with positions), f.patches, f.grid_h, f.grid_w. */
MMIXDEF int mmix_feature_map(mmix_ctx *m, const mmix_map_options *options, const mmix_tensor *query,
                             const mmix_tensor *patches, size_t gh, size_t gw, size_t h, size_t w,
                             mmix_map *result);

/* Of each map (…, gh, gw), none negative, 1 at the fewest cells that hold at least `mass` of its sum, the
   largest; else 0: what a head of mmix_vision_attention looks at. DINO's mass is 0.6 (Caron et al. 2021,
   figure 3). A tensor of map's shape, or NULL. */
MMIXDEF mmix_tensor *mmix_mass_threshold(mmix_ctx *m, const mmix_tensor *map, double mass);

typedef struct mmix_auc_options {
    size_t thresholds;                       /* 0: every distinct value of the map (exact). T ≥ 2: the T
                                                thresholds 1 - k/(T-1), the map scaled to [0, 1] first */
    int32_t void_label;                      /* pixels of this label are left out; 0: none are */
    int pooled;                              /* all pixels as one image, instead of the mean over images */
} mmix_auc_options;
typedef struct mmix_auc {
    double auc;                              /* max(raw, 1 - raw), the mean over images */
    double *auc_raw;                         /* (count): of each image, or the pooled one */
    size_t count;
    /* The ROC curve (points), from (0,0) to (1,1). Of several images the mean curve: (0,0), then what
       mmix_roc_add gives at fpr 0, 0.01, …, 1. */
    double *fpr, *tpr;
    size_t points;
} mmix_auc;
/* How well a map tells foreground from background: the area under its ROC curve. map (N, map_h, map_w); mask
   (N, h, w) of labels, int32: 0 background, all others foreground. Of different sizes they are compared on
   the map's grid: the mask is averaged over each cell by area, and a share s counts s as foreground, 1 - s as
   background. An image without foreground or background is an error that names it; pooled, only all together
   need both. */
MMIXDEF int mmix_binary_auc(mmix_ctx *m, const mmix_auc_options *options, const mmix_tensor *map,
                            const mmix_tensor *mask, mmix_auc *result);
/* Vertical averaging (Fawcett 2006): adds to tpr[i], i < points, the curve's rate at fpr i/(points-1), the
   upper end where it rises vertically. A curve of area < ½ is turned first, (1-fpr, 1-tpr), as `auc` is. Zero
   tpr before the first image; divide by their number after the last. */
MMIXDEF void mmix_roc_add(double *tpr, size_t points, const mmix_auc *roc);
/* |P ∩ F| / |P ∪ F| with P: map ≥ threshold, F: label ≠ 0, without pixels of void_label (0: none); 1 if both
   are empty. map and mask (N, h, w). */
MMIXDEF int mmix_binary_iou(mmix_ctx *m, const mmix_tensor *map, const mmix_tensor *mask, double threshold,
                            int32_t void_label, double *iou);

/* A class of a confusion matrix: its diagonal, and the sums of its row and its column. */
typedef struct mmix_miou_count { uint64_t both, label, pred; } mmix_miou_count;
/* Adds pictures to count (classes), which is zeros at first; no picture is kept. pred and label are int32 of
   one shape, 0 … classes-1; pixels of void_label are left out (-1, say: none are). 0, or -1. */
MMIXDEF int mmix_miou_add(mmix_ctx *m, mmix_miou_count *count, size_t classes, const mmix_tensor *pred,
                          const mmix_tensor *label, int32_t void_label);
typedef struct mmix_miou_result {
    double miou;                             /* mean over the classes in pred or label of their IoU */
    double accuracy;                         /* share of right pixels */
    double balanced;                         /* mean over the classes in label of their right shares */
} mmix_miou_result;
/* What was added up. iou (classes) or NULL: both / (label + pred - both), of absent classes 0. */
MMIXDEF mmix_miou_result mmix_miou(const mmix_miou_count *count, size_t classes, double *iou);

typedef struct mmix_knn_result {
    double *votes;                           /* (tests, classes) */
    int32_t *pred;                           /* (tests): the largest vote, the lowest label on a tie */
    double top1;                             /* share of right ones; 0 without test labels */
    double balanced;                         /* mean over the classes tested of their right shares */
} mmix_knn_result;
/* The k train rows of largest cosine (of equal ones the earlier) vote e^(cosine/temperature) for their label;
   k 0: 20; temperature 0: 0.07, else at least 0.002. train (trains, D), test (tests, D), labels (trains) and
   (tests), int32: 0 … classes-1; test_label may be NULL. test NULL: leave one out, each of at least two train
   rows is a test row, too, and all others vote. */
MMIXDEF int mmix_knn(mmix_ctx *m, mmix_tensor *train, const mmix_tensor *train_label, mmix_tensor *test,
                     const mmix_tensor *test_label, size_t classes, size_t k, double temperature,
                     mmix_knn_result *result);

/* Writes the n pictures of numbers rows, each below count: tokens x (n, gh·gw, dim), labels (n, h, w). It may
   make them by ops of the context, whose results are dropped after it; it may not reset. Returns 0; anything
   else stops the call, with what it told mmix_fail, or else as MMIX_ERROR_INTERRUPTED. */
typedef int mmix_source_function(void *user, const size_t *rows, size_t n, mmix_real *x, int32_t *label);
/* Frozen features with labels, a batch at a time: in memory, in a file, or computed on the fly. */
typedef struct mmix_source {
    size_t count, dim;                       /* pictures; features of a token */
    size_t gh, gw, h, w;                     /* grid of tokens; of labels. 1, 1, 1, 1: a vector, its class */
    mmix_source_function *read;
    void *user;
} mmix_source;

#define MMIX_MAX_RATES 16
typedef struct mmix_probe_config {
    size_t classes, batch, epochs;           /* pictures read at a time; 0 epochs: `start` is judged */
    size_t rates;                            /* heads that learn side by side */
    double rate[MMIX_MAX_RATES];             /* of a batch of 256, scales with it; cosine to 0 by epochs */
    double momentum, weight_decay;           /* decay of weights and biases */
    double held;                             /* share of the train pictures that only choose among rates; 0:
                                                the first is taken */
    int32_t void_label;                      /* pixels that do not count */
    mmix_tensor *start;                      /* (classes, dim + 1) as `head`; NULL: N(0, 0.01²), biases 0 */
} mmix_probe_config;
/* DINO's: batch 256, 100 epochs, rate 1e-3, momentum 0.9, no decay. Our own: held 0.1, void_label -1. The
   caller sets classes. */
MMIXDEF mmix_probe_config mmix_probe_default(void);
typedef struct mmix_probe_result {
    mmix_tensor *head;                       /* (classes, dim + 1): that of the best rate */
    mmix_tensor *weight, *bias;              /* its columns for mmix_linear: (classes, dim), (classes) */
    size_t best, steps;                      /* index of the rate; batches learned */
    double *loss;                            /* (steps, rates): of each batch, before its step */
    double *held;                            /* (rates): mIoU there, of one label a picture accuracy */
    mmix_miou_count *count;                  /* (classes): of the best head on the test source */
    mmix_miou_result test;
} mmix_probe_result;
/* Linear heads by SGD on the mean cross-entropy of the pixels that count: a linear probe, or with masks a
   segmentation head, whose logits become the mask's size as by mmix_resize (MMIX_BILINEAR). Batches are drawn
   without replacement, anew each epoch; what is left of one is left out. Of several rates the first that is
   best on the pictures held out, never the test ones, is taken; a loss that is not finite loses. test may be
   NULL. Draws come from the context's seed. Memory: a batch, twice its logits, three times the heads. */
MMIXDEF int mmix_linear_probe(mmix_ctx *m, const mmix_probe_config *config, const mmix_source *train,
                              const mmix_source *test, mmix_probe_result *result);

typedef struct mmix_pca_result {
    double *mean;                            /* (D) */
    double *components;                      /* (k, D): of length 1; the entry of largest size is positive */
    double *variance;                        /* (k): falling; divided by rows - 1 */
    double *projection;                      /* (rows, k): (x - mean) · component */
} mmix_pca_result;
/* The k directions in which x (rows, D) varies most; rows ≥ 2, k ≤ D. */
MMIXDEF int mmix_pca(mmix_ctx *m, const mmix_tensor *x, size_t k, mmix_pca_result *result);

typedef struct mmix_rank {
    size_t matrices, rows, cols, width;      /* blocks down and across; singular values of a block */
    /* (matrices, rows, cols): number of σ > max(height, width) eps σ₁; e^(entropy of σ/Σσ); Σσ²/σ₁². All 0
       for a block of zeros */
    double *numerical, *effective, *stable;
    double *singular;                        /* (matrices, rows, cols, width): σ, falling; zeros fill up */
} mmix_rank;
/* Ranks of the blocks of M (…, rows, cols), by singular values in double: matrices are cut into block x block
   (the last ones smaller; 0: one block). eps 0: that of mmix_real, the noise in what it holds. */
MMIXDEF int mmix_rank_of(mmix_ctx *m, mmix_tensor *M, size_t block, double eps, mmix_rank *result);
/* The claims of arXiv 2511.18380 beside what is measured, for B x H matrices of n x n blocks:
   rank(M_IJ) ≤ rank(L_IJ) N for SSD and ≤ N for linear attention where I ≠ J (there, without a mask, where
   I = J, too), ≤ C for softmax attention and on a causal diagonal. */
typedef struct mmix_mixer_rank {
    size_t block;                            /* C */
    mmix_rank M, whole;                      /* of the blocks; of each whole matrix */
    double *decay;                           /* (B·H, n, n): numerical rank of L's blocks; NULL but for SSD */
    double *bound;                           /* (B·H, n, n): the bound; 0 for a block of zeros (a mask's) */
    double *diagonal;                        /* (B·H): Σ over diagonal blocks ≤ that of a triangular M */
    double *joined;                          /* (B, n, n): rank of what the block adds to the layer's output,
                                                M_IJ x_J of all heads side by side, times out_projᵀ */
} mmix_mixer_rank;
/* out_proj (D, H·P), or NULL: without it; block 0: ⌊L/2⌋; eps as mmix_rank_of's. */
MMIXDEF int mmix_mix_rank(mmix_ctx *m, const mmix_mixer *mixer, mmix_tensor *out_proj, size_t block,
                          double eps, mmix_mixer_rank *result);
/* Feature vectors (B, D) of tokens (B, L, D): the mean, or the maximum, of those at positions, or of all
   others. Class strategies: the class token; the mean or the maximum of all but class tokens and registers;
   or both, joined by mmix_concat. */
MMIXDEF mmix_tensor *mmix_pool_tokens(mmix_ctx *m, const mmix_tensor *tokens, const size_t *positions,
                                      size_t n, int others, int max);

/* How the labels of a video's first frame travel (below). */
typedef struct mmix_video_config {
    size_t frames;                           /* the context: the first frame and the last so many, or none */
    size_t radius;                           /* in tokens, of the square around a token; 0: everywhere */
    size_t k;                                /* tokens of all context that count, the most similar */
    double temperature;
} mmix_video_config;
/* DINO's on DAVIS: 7, 12, 5, 0.1. */
MMIXDEF mmix_video_config mmix_video_davis(void);
typedef struct mmix_video mmix_video;
/* Object segmentation without training (Jabri et al. 2020; Caron et al. 2021, section 4.2.2): each patch of a
   new frame takes the labels of the patches before it that look most alike. tokens (gh·gw, D) or
   (1, gh·gw, D): of the first frame, as f.patches of mmix_vision_forward; mask (h, w) of its labels
   0 … K-1, int32, 0 the background. Holds frames + 1 frames' tokens and labels, however long the video is.
   NULL on error. */
MMIXDEF mmix_video *mmix_video_create(mmix_ctx *m, mmix_video_config config, const mmix_tensor *tokens,
                                      size_t gh, size_t gw, const mmix_tensor *mask, size_t K);
/* NULL is allowed. */
MMIXDEF void mmix_video_destroy(mmix_video *v);
typedef struct mmix_video_frame {
    mmix_tensor *soft;                       /* (K, gh, gw): sum 1 at each token */
    mmix_tensor *labels;                     /* (h, w), int32: the largest of soft, bilinear, each label's
                                                least → 0 and largest → 1 (a map of one value
                                                stays); the lower label on a tie */
} mmix_video_frame;
/* The next frame, of tokens of the first one's shape. 0, or -1: then the video stands where it stood. */
MMIXDEF int mmix_video_next(mmix_video *v, const mmix_tensor *tokens, mmix_video_frame *result);

typedef struct mmix_video_scores {           /* zeros at first */
    size_t count;
    double J, F;                             /* means over what was measured */
    double J_recall, F_recall;               /* shares of it with more than 0.5 */
    double last_J, last_F;                   /* what was measured last */
} mmix_video_scores;
/* The measures of DAVIS (Perazzi et al. 2016), of one object in one frame, taken into scores: J, the IoU of
   the region; F, of its boundary, from precision and recall. predicted, truth (h, w), int32: the object is
   where they hold this label. Call it with each object (not the background) of each frame but a video's first
   and last: then scores are DAVIS's of that video. Over several, DAVIS averages objects: a struct each. 0, or
   -1: then scores is as it was. */
MMIXDEF int mmix_video_jf(mmix_ctx *m, const mmix_tensor *predicted, const mmix_tensor *truth, int32_t object,
                          mmix_video_scores *scores);

/* ==== >>api-dino =====================================================================
   self-distillation without labels, optimiser and schedules
   ==================================================================================== */

/* DINO's head: 1 to 8 linear layers with GELU between (mlp.0, mlp.2, …; a single one is mlp), `hidden` wide
   and `bottleneck` at the end, L2 normalisation, weight-normed linear map to K prototypes
   (last_layer.weight_g, weight_v). */
typedef struct mmix_dino_head {
    mmix_tensor *weight[8], *bias[8], *weight_g, *weight_v;
    size_t layers;
} mmix_dino_head;
/* Adds the head's parameters to p. 0, or -1. */
MMIXDEF int mmix_dino_head_init(mmix_dino_head *head, mmix_params *p, const char *prefix, size_t D,
                                size_t hidden, size_t bottleneck, size_t K, size_t layers);
/* x (rows, D) → (rows, K). */
MMIXDEF mmix_tensor *mmix_dino_head_forward(mmix_ctx *m, const mmix_dino_head *head, mmix_tensor *x);

typedef struct mmix_dino_loss_stats {
    double teacher_entropy, teacher_kl_uniform, center_norm;
} mmix_dino_loss_stats;
/* The mean over teacher views q = softmax((t - center)/teacher_temp) and other student views v of
   -Σ q log softmax(s_v/student_temp). student (crops·B, K), teacher (2B, K), both crop after crop; center (K)
   is read, then becomes momentum center + (1 - momentum) mean(t). stats may be NULL. Gradient for the student
   only. Caron et al. 2021, algorithm 1. */
MMIXDEF mmix_tensor *mmix_dino_loss(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_real *center, size_t crops, double student_temp, double teacher_temp,
                                    double momentum, mmix_dino_loss_stats *stats);

/* The same for patches that the student does not see, Σ_r weight_r · -Σ q log softmax(s_r/student_temp) with
   q = softmax((t_r - center)/teacher_temp): student and teacher (M, K), weight (M) or NULL, 1/M. center
   becomes center + (1 - momentum) Σ_r weight_r (t_r - center). Zhou et al. 2022 (iBOT), eq. 3. */
MMIXDEF mmix_tensor *mmix_ibot_loss(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_tensor *weight, mmix_real *center, double student_temp,
                                    double teacher_temp, double momentum,
                                    mmix_dino_loss_stats *stats);

/* start → base in equal steps over the first warmup_epochs · iters steps, both ends included; then
   base → final by half a cosine, which ends one after the last of epochs · iters steps. */
MMIXDEF double mmix_schedule_cosine(double base, double final, size_t epochs, size_t iters,
                                    size_t warmup_epochs, double start, size_t step);
/* start_factor · base → base over `warmup` steps, then base → final by (1 - progress)^power; the last step is
   final. */
MMIXDEF double mmix_schedule_poly(double base, double final, size_t steps, size_t warmup, double start_factor,
                                  double power, size_t step);
/* The same warm-up, then base times gamma to the number of milestones (in epochs of iters steps) reached. */
MMIXDEF double mmix_schedule_multistep(double base, double gamma, const size_t *milestones, size_t n,
                                       size_t iters, size_t warmup, double start_factor, size_t step);

/* AdamW (Loshchilov & Hutter 2019): p ← p (1 - lr wd), then p ← p - lr/(1-β1ᵗ) · m / (√v/√(1-β2ᵗ) + eps). */
typedef struct mmix_adamw { double lr, weight_decay, beta1, beta2, eps; } mmix_adamw;
MMIXDEF mmix_adamw mmix_adamw_default(void);                      /* 1e-3, 0.01, 0.9, 0.999, 1e-8 */
/* The moments of one parameter list; each parameter counts its own steps. */
typedef struct mmix_adamw_state { mmix_params *params; mmix_real *m, *v; uint64_t *steps; } mmix_adamw_state;
/* Moments of 0 for p, which it also makes trainable; 0, or -1. Free them before p. */
MMIXDEF int mmix_adamw_init(mmix_adamw_state *state, mmix_params *p);
MMIXDEF void mmix_adamw_free(mmix_adamw_state *state);
/* One step. `clip` > 0 scales each tensor's gradient by min(1, clip/(‖g‖ + 1e-6)), `clip` < 0 all of them by
   min(1, -clip/(‖all gradients‖ + 1e-6)); skip (count flags) or NULL leaves parameters out altogether: no
   decay, no moments, no step counted. Gradients are zeroed for the next step. Returns ‖all gradients‖ before
   clipping. After an error, as of a gradient that is not finite, 0, and nothing has changed. */
MMIXDEF double mmix_adamw_step(mmix_adamw_state *state, const mmix_adamw *options, double clip,
                               const unsigned char *skip);
/* SGD (Sutskever et al. 2013; torch.optim.SGD): g ← g + wd p; b ← g in the first step, later momentum b +
   (1 - dampening) g; p ← p - lr b, nesterov: p - lr (g + momentum b). */
typedef struct mmix_sgd { double lr, weight_decay, momentum, dampening; int nesterov; } mmix_sgd;
MMIXDEF mmix_sgd mmix_sgd_default(void);                          /* 1e-3, 0, 0.9, 0, 0 */
/* As mmix_adamw_init and _step: b is the state's m, there is no v; mmix_adamw_free frees it. */
MMIXDEF int mmix_sgd_init(mmix_adamw_state *state, mmix_params *p);
MMIXDEF double mmix_sgd_step(mmix_adamw_state *state, const mmix_sgd *options, double clip,
                             const unsigned char *skip);
/* teacher ← momentum teacher + (1 - momentum) student, in the same order. 0, or -1 if the names differ. */
MMIXDEF int mmix_ema(mmix_params *teacher, const mmix_params *student, double momentum);

/* What a head reads of a picture: the class token (or the registers' mean), as in the paper; the mean of the
   patches; or both, side by side. */
enum { MMIX_READ_TOKEN, MMIX_READ_MEAN, MMIX_READ_BOTH };

typedef struct mmix_dino_config {
    mmix_vision_config vision;
    size_t head_hidden, head_bottleneck, prototypes, head_layers;
    mmix_augment augment;                    /* crops; see >>api-images */
    size_t batch, epochs;                    /* a batch of any size goes through in slices of one memory */
    size_t iters;                            /* steps an epoch; 0: count / batch, at least 1 */
    double lr, min_lr;                       /* lr is for a batch of 256 and scales with it */
    size_t warmup_epochs;
    double weight_decay, weight_decay_end, clip;
    size_t freeze_last_layer;                /* epochs; `last_layer` parameters are left out of the step */
    double momentum;                         /* of the teacher, cosine to 1 */
    double center_momentum, student_temp, teacher_temp, teacher_temp_warm;
    size_t teacher_temp_epochs;
    int teacher_drop_path;                   /* 1: the teacher has drop path, too, as in DinoMamba's code */
    uint64_t seed;
    int read;                                /* by the head: MMIX_READ_… */
    size_t shards;                           /* of a batch; 0: 1. See mmix_dino_share */
    /* iBOT (Zhou et al. 2022), if patch_weight is not 0: of the share mask_chance of the global crops the
       student does not see a part of the patches, drawn from mask_part, in blocks. What the teacher says of
       them, by the same head, is a second loss, of this weight. The paper's: 1, 0.5, 0.1 to 0.5 */
    double patch_weight, mask_chance, mask_part[2];
} mmix_dino_config;
/* The paper's setting (ViT-S/16, 65,536 prototypes), and one for a few thousand small pictures (the paper's
   collapses there). */
MMIXDEF mmix_dino_config mmix_dino_default(void);
MMIXDEF mmix_dino_config mmix_dino_small_data(void);

typedef struct mmix_dino_stats {
    size_t step, steps, epoch;               /* this step (from 0), of how many */
    double loss, lr, weight_decay, momentum, gradient_norm;
    double teacher_entropy, teacher_kl_uniform, center_norm;     /* in nats; ln K is uniform */
    const char *collapse;                    /* NULL, or in words: a loss stuck at ln K, an entropy at 0 */
    double patch_loss;                       /* of iBOT, without its weight */
} mmix_dino_stats;

typedef struct mmix_dino mmix_dino;
/* A run before its first step; NULL on error. */
MMIXDEF mmix_dino *mmix_dino_create(mmix_ctx *m, mmix_dino_config config);
MMIXDEF void mmix_dino_destroy(mmix_dino *d);
/* One step on a batch of the `count` pictures, in an order drawn anew each epoch of config.iters steps: fewer
   than these ask for are gone through again, of more the rest is left out. 1: go on, 0: the epochs are over,
   -1: mmix_error, and the run is as it was. Calls mmix_reset. stats may be NULL. */
MMIXDEF int mmix_dino_step(mmix_dino *d, const mmix_picture *pictures, size_t count, mmix_dino_stats *stats);
/* The same on crops that the caller made, in step memory: global (2B, 3, s, s) and local (n·B, 3, s', s') or
   NULL, crop after crop. config.iters must be set. The caller calls mmix_reset. */
MMIXDEF int mmix_dino_step_crops(mmix_dino *d, mmix_tensor *global, mmix_tensor *local,
                                 mmix_dino_stats *stats);
/* Makes of x (n), one shard's share, the sum over all shards, ((x0 + x1) + x2) + … in their order, the same
   in each process. 0, or else the step fails. */
typedef int mmix_sum_function(void *user, mmix_real *x, size_t n);
/* Training on several machines. A batch is cut into config.shards runs of pictures, and what they bring
   (gradients, the next centre, the loss) is added. A process alone goes through all of them; after this call
   it makes `shard` and leaves the rest to `sum`, once a step. Both ways give the same bits. All processes
   hold the same run and pictures. sum NULL: alone again. 0, or -1. */
MMIXDEF int mmix_dino_share(mmix_dino *d, size_t shard, mmix_sum_function *sum, void *user);
/* Parameters of the heads, by DINO's names (mlp.0.weight, …), with iBOT before them mask_token; the centre
   (K), with iBOT that of patches behind it. */
MMIXDEF mmix_params *mmix_dino_head_params(mmix_dino *d, int teacher);
MMIXDEF mmix_real *mmix_dino_center(mmix_dino *d);
/* The backbones; the teacher's (1) is the one to use. They live as long as d. */
MMIXDEF mmix_vision *mmix_dino_backbone(mmix_dino *d, int teacher);
MMIXDEF const mmix_dino_config *mmix_dino_config_of(const mmix_dino *d);
/* The whole run: both networks, moments, centre, step and configuration. A loaded run goes on bit for bit.
   `note` (may be NULL) is kept in the file for the caller; mmix_dino_note returns that of the file the run
   was loaded from, "" if there is none. */
MMIXDEF int mmix_dino_save(const mmix_dino *d, const char *path, const char *note);
MMIXDEF mmix_dino *mmix_dino_load(mmix_ctx *m, const char *path);
MMIXDEF const char *mmix_dino_note(const mmix_dino *d);

/* ==== >>api-distillation =============================================================
   attention in, M-MATE out: weights reused, then learned in stages (arXiv 2601.01322, section 3.2)

       mmix_decoder *student = mmix_linmu_from(teacher, NULL);
       mmix_distill *run = mmix_distill_create(teacher, student, mmix_linmu_stages());
       while (fill(&batch, run->number) && mmix_distill_step(run, &batch, &stats) > 0) mmix_reset(m);
   ==================================================================================== */

/* Mean of (student - teacher)², (B, L, D), over features and the positions whose mask, (B, L) int32, is not 0
   (NULL: all); over the mean of teacher² there, if relative; of (layers, B, L, D) the layers' mean. Gradients
   are the student's alone, here and below. */
MMIXDEF mmix_tensor *mmix_kd_hidden(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_tensor *mask, int relative);
/* T² times the mean over those positions of Σ_k p_k (ln p_k - ln q_k), p = softmax(teacher/T), q =
   softmax(student/T); logits (B, L, K). Hinton et al. 2015. */
MMIXDEF mmix_tensor *mmix_kd_token(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher, mmix_tensor *mask,
                                   double temperature);

/* A decoder with M-MATE in the place of the teacher's attention: flex and swin take its q, k, v and o, all
   else is copied, with the teacher's adapters added. options NULL: the defaults. NULL on error. */
MMIXDEF mmix_decoder *mmix_linmu_from(const mmix_decoder *teacher, const mmix_mmate_options *options);
/* Scales the columns of each head in Flex-MA's o_proj so that what the head brings to the layer has the root
   mean square of the teacher's on this sequence, layer by layer on the teacher's inputs. 0, or -1. */
MMIXDEF int mmix_linmu_calibrate(mmix_decoder *student, const mmix_decoder *teacher,
                                 const mmix_sequence *sequence);

/* What trains: the branches (a gate between them belongs to both), adapters, everything else. */
enum { MMIX_TRAIN_FLEX = 1, MMIX_TRAIN_SWIN = 2, MMIX_TRAIN_LORA = 4, MMIX_TRAIN_REST = 8 };
typedef struct mmix_stage {
    int train;
    /* λ of L_hid (kd_hidden, relative, of the mixers' outputs), L_tok (kd_token at answer tokens), L_seq
       (cross-entropy on answers that the teacher decodes), L_sup (on the true ones); T of L_tok */
    double hidden, token, sequence, supervised, temperature;
    size_t steps, warmup;                    /* optimiser steps; the rate rises over the first of them */
    double lr, min_lr, weight_decay, clip;   /* then falls by half a cosine */
    double patches;                          /* of backbones, below */
    int hidden_outputs, teacher_inputs;      /* as those of the config, for this stage alone */
} mmix_stage;
#define MMIX_MAX_STAGES 8
typedef struct mmix_distill_config {
    mmix_stage stage[MMIX_MAX_STAGES];
    size_t stages, step_tokens;              /* answer tokens that make an optimiser step; 0: a call's */
    size_t lora_rank; double lora_alpha; int lora_targets;           /* as mmix_params_lora's */
    int calibrate;                           /* 1: mmix_linmu_calibrate on the first batch */
    int hidden_outputs;                      /* 1: L_hid compares the layers' outputs, not the mixers' */
    int teacher_inputs;                      /* 1: each student layer reads what the teacher's layer reads */
} mmix_distill_config;
/* Three: Flex-MA alone, L_hid + L_tok; both branches, the same; both and LoRA (rank 8, alpha 16, on SwiGLU),
   L_tok + L_seq + L_sup. 300 steps each at 1e-3, 1e-3, 5e-4: these, and λ = T = 1, are in no source. */
MMIXDEF mmix_distill_config mmix_linmu_stages(void);

/* Sequences with answers. */
typedef struct mmix_distill_batch {
    mmix_sequence input;
    mmix_tensor *target;                     /* (B, L) int32: the token wanted after this one, or -1 */
    mmix_tensor *mask;                       /* (B, L) int32: 0 where tokens only fill up; NULL: none do */
    /* For L_seq the input with the teacher's answers, and its targets; NULL: the teacher decodes now,
       greedily, as many tokens as each row's answer has, which must be one run behind all spans then */
    const mmix_sequence *decoded;
    mmix_tensor *decoded_target;
} mmix_distill_batch;

typedef struct mmix_distill_stats {
    size_t stage, step, steps;               /* before this call; optimiser steps of the stage */
    double loss, hidden, token, sequence, supervised;            /* of this batch; each without its λ */
    double lr, gradient_norm;                /* of the optimiser step, if there was one */
    size_t tokens;                           /* answer tokens, or images */
    int updated;                             /* 1: the optimiser made a step */
    double patches;
} mmix_distill_stats;
/* A run; fields are for reading. */
typedef struct mmix_distill {
    mmix_ctx *m;
    const mmix_decoder *teacher;
    mmix_decoder *student;
    mmix_distill_config config;
    uint64_t stage, step;                    /* optimiser steps made in the stage */
    uint64_t number;                         /* of the next call, from 0 on: a resumed run goes on with it */
    uint64_t tokens, adapters;               /* answer tokens whose gradients wait; 1 if LoRA is there */
    mmix_adamw_state adamw[2];               /* of decoder and adapters; zeroed where nothing trains */
    char *note;                              /* of a loaded run, "" if there is none; NULL for a new one */
    const mmix_vision *vision_teacher;       /* of a run of backbones, in place of decoders */
    mmix_vision *vision_student;
    mmix_params *params;                     /* the student's */
} mmix_distill;
/* Before its first step. Teacher and student stay the caller's and outlive it; a student is in one run at a
   time. Adapters that it has already are those of the run, in place of lora_…. A stage that has nothing to
   train (Flex-MA in a student of Local-Swin alone) is an error. NULL on error. */
MMIXDEF mmix_distill *mmix_distill_create(const mmix_decoder *teacher, mmix_decoder *student,
                                          mmix_distill_config config);
/* Adapters stay with the student, for mmix_params_merge; all its parameters may train again. */
MMIXDEF void mmix_distill_destroy(mmix_distill *run);
/* Losses and gradients of one batch, and an optimiser step when enough tokens have come. 1: go on, 0: the
   stages are over (nothing was done), -1: mmix_error. The caller resets the batch; stats may be NULL. */
MMIXDEF int mmix_distill_step(mmix_distill *run, const mmix_distill_batch *batch, mmix_distill_stats *stats);
/* A batch's losses without learning: L_hid, L_tok and L_sup whatever their λ, L_seq where its is above 0;
   `loss` is their sum with the λ of the stage (of the last one, when all are over). 0, or -1. */
MMIXDEF int mmix_distill_losses(mmix_distill *run, const mmix_distill_batch *batch,
                                mmix_distill_stats *stats);
/* The whole run but the teacher: student, adapters, moments, stage and step, configs. A loaded run goes on
   bit for bit; with it *student, which is the caller's to destroy after the run. note as mmix_dino_save's. */
MMIXDEF int mmix_distill_save(const mmix_distill *run, const char *path, const char *note);
MMIXDEF mmix_distill *mmix_distill_load(const mmix_decoder *teacher, const char *path,
                                        mmix_decoder **student);

/* Backbones: the same engine, without labels. A student of mmix_vision_from learns its teacher's features
   from images (B, 3, h, w). In a stage `hidden` is λ of the blocks' mixers or outputs, `token` of the class
   token and `patches` of the patch tokens after the final norm: relative square error + 1 - cosine.
   MMIX_TRAIN_FLEX is linear attention, too, and MMIX_TRAIN_REST all else; `sequence` and `supervised` are for
   decoders. */
/* Three: each block's new mixer on the teacher's inputs; these, end to end, on the blocks' outputs;
   everything on the features. 300 steps each, at 1e-3, 1e-4 and 3e-6. Of a ViT-S of 12 blocks the second
   diverged at 1e-3 within ten steps, and in the third 3e-5 forgot what the stages before had learned. */
MMIXDEF mmix_distill_config mmix_vision_stages(void);
MMIXDEF mmix_distill *mmix_vision_distill_create(const mmix_vision *teacher, mmix_vision *student,
                                                 mmix_distill_config config);
/* As mmix_distill_step and mmix_distill_losses, of a batch of images. */
MMIXDEF int mmix_vision_distill_step(mmix_distill *run, mmix_tensor *images, mmix_distill_stats *stats);
MMIXDEF int mmix_vision_distill_losses(mmix_distill *run, mmix_tensor *images, mmix_distill_stats *stats);
/* What mmix_distill_save wrote of such a run. */
MMIXDEF mmix_distill *mmix_vision_distill_load(const mmix_vision *teacher, const char *path,
                                               mmix_vision **student);
/* As mmix_linmu_calibrate, of Flex-MA and of linear attention; where the teacher is Local-Swin nothing is. */
MMIXDEF int mmix_vision_calibrate(mmix_vision *student, const mmix_vision *teacher, mmix_tensor *images);

#ifdef __cplusplus
}
#endif
#endif /* MAMBA_MIX_H */

/* ####################################################################################
   The implementation
   #################################################################################### */

#if defined(MAMBA_MIX_IMPLEMENTATION) && !defined(MAMBA_MIX_IMPLEMENTATION_DONE)
#define MAMBA_MIX_IMPLEMENTATION_DONE

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if (defined(__unix__) || defined(__APPLE__)) && !defined(MMIX_NO_STDIO)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define MMIXI_MAPS 1
#endif
#if defined(__linux__) && !defined(__TINYC__)
#include <sys/mman.h>
#define MMIXI_HUGE ((size_t)2 << 20)
#ifndef MADV_HUGEPAGE                            /* -std=c99 hides it and madvise */
#define MADV_HUGEPAGE 14
#define MADV_DONTNEED 4
int madvise(void *address, size_t bytes, int advice);
#endif
#endif

/* 1 in the double build: MMIX_REAL is a keyword, which the preprocessor can only compare by pasting it. */
#define MMIXI_IS_float 0
#define MMIXI_IS_double 1
#define MMIXI_DOUBLE MMIXI_JOIN(MMIXI_IS_, MMIX_REAL)

#if defined(__SANITIZE_ADDRESS__)
#define MMIXI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MMIXI_ASAN 1
#endif
#endif
#ifdef MMIXI_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* What is to be inlined says so, and what is to be vectors is written as vectors: gcc's guesses at both, and
   its search for what could be shared, cost three tenths of the time to compile and gain nothing that bench.c
   can see. Around rooms where no time is spent (files, and what only calls ops) there are fewer still. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-vectorize", "no-inline-small-functions", "no-gcse", "no-tree-dominator-opts", \
                     "no-thread-jumps", "no-tree-vrp", "no-schedule-insns2")
#if __FLT_EVAL_METHOD__ == 2                     /* x87 rounds what is stored: exp_v counts on it */
#pragma GCC optimize("float-store")
#endif
#endif
#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && defined(__GNUC__) && !defined(__clang__)
#define MMIXI_COLD_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"Og\")")
#define MMIXI_COLD_END _Pragma("GCC pop_options")
#else
#define MMIXI_COLD_BEGIN
#define MMIXI_COLD_END
#endif

/* A plain loop: the definition of an op, as the formula above it says it. No op calls it, a compiler drops
   it, and the tests hold the fast code against it. */
#if defined(__GNUC__)
#define MMIXI_PLAIN static __attribute__((unused))
#else
#define MMIXI_PLAIN static
#endif

/* ==== >>errors & memory ==============================================================

   Lasting memory comes straight from the allocator. Step memory is one arena that ops fill from its two ends:
   what forward returns and keeps grows from the low end, gradients from the high end, and backward frees both
   as it leaves a node. What is freed at an end moves that end back; what is freed in the middle becomes a
   hole, which the next gradient of the same size takes (in a network of equal blocks that is nearly always
   possible). The arena grows by blocks while a step is new, and the reset after it makes one block of what
   was needed: a steady step neither allocates nor touches a fresh page.
   ==================================================================================== */

/* Sizes of blocks, chunks and tiles: tiny in debugging builds, so that small inputs meet every edge. */
#ifdef MMIX_REGRESSION
#define MMIXI_SIZE(size, tiny) tiny
#else
#define MMIXI_SIZE(size, tiny) size
#endif
enum { MMIXI_ALIGN = 64, MMIXI_MAX_THREADS = 64, MMIXI_HOLES = 512 };
enum { MMIXI_BLOCK = MMIXI_SIZE(1 << 20, 256), MMIXI_HEADER_BLOCK = MMIXI_SIZE(1 << 16, 256) };

/* Addresses are numbers here. Of a block low … high is free. */
typedef struct mmixi_block { size_t base, size, low, high; } mmixi_block;
typedef struct mmixi_hole { size_t at, size; } mmixi_hole;
typedef struct mmixi_arena {
    mmixi_block *block;
    size_t count, capacity, current, least;      /* the block that is being filled; bytes of a new one */
    size_t used, peak;                           /* bytes outside the free middles, holes included; at most */
} mmixi_arena;

typedef struct mmixi_node {
    mmix_op_functions run;
    mmix_call call;
#ifdef MMIX_REGRESSION
    uint64_t digest[MMIX_MAX_INPUTS];            /* of the inputs, which nobody may overwrite */
#endif
} mmixi_node;
/* Memory that is there twice. */
typedef struct mmixi_twin { size_t base, size; char *device; } mmixi_twin;
typedef struct mmixi_pool mmixi_pool;
struct mmix_ctx {
    mmix_options options;
    mmix_memory_use memory;
    char error[256];
    int error_kind;
    uint64_t seed;
    struct mmixi_kernels *k;                     /* the micro-kernels of this machine, see >>micro-kernels */
    mmix_op_functions table[MMIX_OP_COUNT];      /* the ops, see >>tape */
    void *table_user;                            /* mmix_kernel_user */
    size_t calls[2][MMIX_OP_COUNT + 1];          /* mmix_op_calls */
    mmixi_twin *twin;
    size_t twins, twin_capacity;
    int inside;                                  /* an op's function, MMIXI_HOST, or a kernel, MMIXI_KERNEL */
    mmixi_arena step, header;                    /* values and gradients; tensor structs and copied options */
    mmixi_hole hole[MMIXI_HOLES + 1];            /* the last is for mmixi_step_free's own use */
    size_t holes;
    mmixi_node *node;                            /* the tape */
    size_t nodes, node_capacity;
    mmix_tensor *graded;                         /* leaves with a gradient in step memory, the latest first */
    int recording, in_backward, in_parallel;
    const mmix_mark *rerun;                      /* where the checkpoint's backward began that is running */
    size_t lanes;                                /* threads that work, the caller's included */
    mmixi_pool *pool;
    mmix_look *look;                             /* mmix_mix_watch */
    void *look_user;
};

MMIXDEF const char *mmix_error(const mmix_ctx *m)
{
    return !m ? "mmix_create: out of memory" : m->error_kind ? m->error : NULL;
}
MMIXDEF int mmix_error_kind(const mmix_ctx *m) { return m ? m->error_kind : MMIX_ERROR_MEMORY; }
MMIXDEF void mmix_error_clear(mmix_ctx *m) { m->error_kind = MMIX_OK; }
static size_t mmixi_utf8_span(const char *s);    /* with the files */
/* A message stays one line of UTF-8, whatever a file says. */
MMIXDEF int mmix_fail(mmix_ctx *m, int kind, const char *format, ...)
{
    va_list list;
    char *p = m->error;
    if (m->error_kind) return -1;
    va_start(list, format);
    vsnprintf(p, sizeof m->error, format, list);
    va_end(list);
    for (; *p; p++) if ((unsigned char)*p < 32 || *p == 127) *p = '?';
    while (p = m->error + mmixi_utf8_span(m->error), *p) *p = '?';
    m->error_kind = kind;
    return -1;
}
enum { MMIXI_DEPTH_MAX = 1000 };                 /* blocks of a model */
/* Whether a number lies where it has to: 0, or -1. */
static int mmixi_within(mmix_ctx *m, const char *who, const char *name, double value, double low, double high)
{
    return value >= low && value <= high ? 0 : mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s is %.10g, expected "
                                                         "%.10g to %.10g", who, name, value, low, high);
}
/* Plain arguments by name: pointers, marked by *, may not be NULL, sizes not 0. 1, or 0 after mmix_fail. */
static int mmixi_given(mmix_ctx *m, const char *who, const char *names, ...)
{
    va_list list;
    va_start(list, names);
    for (int length; *names && m && !m->error_kind; names += length + 2 * (names[length] == ',')) {
        int pointer = *names == '*';
        length = (int)strcspn(names, ",");
        if (pointer ? !va_arg(list, const void *) : !va_arg(list, size_t))
            mmix_fail(m, MMIX_ERROR_ARGUMENT, pointer ? "%s: %.*s is NULL"
                      : "%s: %.*s is 0, expected at least 1", who, length - pointer, names + pointer);
    }
    va_end(list);
    return m && !m->error_kind;
}
/* a b, or where that is too large, SIZE_MAX: bytes that nobody has. */
static size_t mmixi_mul(size_t a, size_t b) { return b && a > SIZE_MAX / b ? SIZE_MAX : a * b; }
static inline size_t mmixi_min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t mmixi_max(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t mmixi_ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
static inline size_t mmixi_round_up(size_t a, size_t b) { return mmixi_ceil_div(a, b) * b; }
/* Memory is taken, or free: every float becomes a NaN under MMIX_REGRESSION. */
static void mmixi_poison(size_t at, size_t size, int on)
{
    void *p = (void *)at;
#ifdef MMIXI_ASAN
    __asan_unpoison_memory_region(p, size);      /* parts of it may be poisoned already */
#endif
#ifdef MMIX_REGRESSION
    if (on) memset(p, 0xff, size);
#endif
#ifdef MMIXI_ASAN
    if (on) __asan_poison_memory_region(p, size);
#endif
    (void)p; (void)size; (void)on;
}

/* malloc; on Linux large blocks are offered pages of 2 MiB. The mixers walk over rows that lie pages apart,
   and looking up small pages costs them 3 to 15 % (Sapphire Rapids). */
static void *mmixi_malloc(void *user, size_t size)
{
    void *p = malloc(size);
    (void)user;
#ifdef MMIXI_HUGE
    if (p && size >= 4 * MMIXI_HUGE) {
        size_t skip = (size_t)(0 - (uintptr_t)p) % MMIXI_HUGE;         /* to the first whole page */
        madvise((char *)p + skip, (size - skip) / MMIXI_HUGE * MMIXI_HUGE, MADV_HUGEPAGE);
    }
#endif
    return p;
}
static void mmixi_mfree(void *user, void *ptr, size_t size) { (void)user; (void)size; free(ptr); }
/* Lasting memory, aligned to a cache line; the byte before it holds how far it lies in the allocator's. */
static void *mmixi_alloc(mmix_ctx *m, size_t bytes)
{
    const mmix_allocator *a = &m->options.allocator;
    size_t size = bytes + MMIXI_ALIGN;
    unsigned char *raw = NULL, *p;
    if (size > bytes && m->memory.allocations <= a->count_limit - 1          /* 0 - 1 is all there is */
        && m->memory.bytes + size - 1 <= a->byte_limit - 1) raw = (unsigned char *)a->alloc(a->user, size);
    if (!raw) {
        mmix_fail(m, MMIX_ERROR_MEMORY, "out of memory: %.0f bytes more, %.0f held", (double)bytes,
                  (double)m->memory.bytes);
        return NULL;
    }
    m->memory.allocations++; m->memory.bytes += size;
    if (m->memory.bytes > m->memory.peak) m->memory.peak = m->memory.bytes;
    p = raw + (MMIXI_ALIGN - (size_t)((uintptr_t)raw % MMIXI_ALIGN));
    p[-1] = (unsigned char)(p - raw);
    return p;
}
/* Zeroed lasting memory; NULL on error, and after one. */
static void *mmixi_zeroed(mmix_ctx *m, size_t bytes)
{
    void *p = !m || m->error_kind ? NULL : mmixi_alloc(m, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}
static void mmixi_free(mmix_ctx *m, void *ptr, size_t bytes)
{
    unsigned char *p = (unsigned char *)ptr;
    if (!p) return;
    for (size_t i = 0; i < m->twins; i++)
        if (m->twin[i].base == (size_t)ptr) {
            m->options.device.free(m->options.device.user, m->twin[i].device, m->twin[i].size);
            m->twin[i] = m->twin[--m->twins];
        }
    m->memory.bytes -= bytes + MMIXI_ALIGN;
    m->options.allocator.free(m->options.allocator.user, p - p[-1], bytes + MMIXI_ALIGN);
}
/* The array with room for `need` elements, doubled where it has less; as it was if there is no memory. */
static void *mmixi_grow(mmix_ctx *m, void *array, size_t *capacity, size_t need, size_t element)
{
    size_t n = mmixi_max(need, *capacity ? 2 * *capacity : 8);
    void *bigger = need > *capacity ? mmixi_alloc(m, n * element) : NULL;
    if (!bigger) return array;
    if (array) memcpy(bigger, array, *capacity * element);
    mmixi_free(m, array, *capacity * element);
    *capacity = n;
    return bigger;
}
/* p, lasting memory for tensors: if there is a device, as much of it goes with it. NULL on error. */
static void *mmixi_twinned(mmix_ctx *m, void *p, size_t bytes)
{
    const mmix_device *d = &m->options.device;
    mmixi_twin twin = { (size_t)p, bytes, NULL };
    if (!p || !d->alloc) return p;
    m->twin = (mmixi_twin *)mmixi_grow(m, m->twin, &m->twin_capacity, m->twins + 1, sizeof twin);
    if (m->twins < m->twin_capacity) twin.device = (char *)d->alloc(d->user, bytes);
    if (twin.device) return m->twin[m->twins++] = twin, p;
    mmix_fail(m, MMIX_ERROR_MEMORY, "out of the device's memory: %.0f bytes more", (double)bytes);
    mmixi_free(m, p, bytes);
    return NULL;
}
/* The same place on the device, NULL if it has none; or on the host. */
static inline void *mmixi_other(const mmix_ctx *m, const void *p, int device)
{
    for (const mmixi_twin *t = m->twin; t < m->twin + m->twins; t++) {
        size_t at = (size_t)p - (device ? t->base : (size_t)t->device);
        if (at < t->size) return (device ? t->device : (char *)t->base) + at;
    }
    return device ? NULL : (void *)(uintptr_t)p;
}
MMIXDEF mmix_memory_use mmix_memory(const mmix_ctx *m) { return m->memory; }
MMIXDEF void mmix_memory_peak_clear(mmix_ctx *m) { m->memory.peak = m->memory.bytes; }

/* ---- the arena ---- */

/* Frees the blocks from `first` on; returns their bytes. */
static size_t mmixi_arena_cut(mmix_ctx *m, mmixi_arena *a, size_t first)
{
    size_t bytes = 0;
    for (; a->count > first; bytes += a->block[a->count].size) {
        mmixi_block *b = &a->block[--a->count];
        mmixi_poison(b->base, b->size, 0);
        mmixi_free(m, (void *)b->base, b->size);
    }
    a->current = mmixi_min(a->current, first ? first - 1 : 0);
    return bytes;
}
static int mmixi_arena_add(mmix_ctx *m, mmixi_arena *a, size_t bytes)
{
    mmixi_block b = { 0, bytes, 0, 0 };
    a->block = (mmixi_block *)mmixi_grow(m, a->block, &a->capacity, a->count + 1, sizeof b);
    if (a->count == a->capacity
        || !(b.base = b.low = (size_t)mmixi_twinned(m, mmixi_alloc(m, bytes), bytes))) return -1;
    mmixi_poison(b.base, bytes, 1);
    b.high = b.low + bytes; a->block[a->count++] = b;
    return 0;
}
static void mmixi_arena_free(mmix_ctx *m, mmixi_arena *a)
{
    mmixi_arena_cut(m, a, 0);
    mmixi_free(m, a->block, a->capacity * sizeof *a->block);
}

/* `bytes` (a multiple of MMIXI_ALIGN) from the low or the high end of the next block with room for them. If
   there is none, empty blocks at the end give way to one that holds them all: else a first pass would touch
   much more than it needs. NULL on error. */
static void *mmixi_arena_take(mmix_ctx *m, mmixi_arena *a, size_t bytes, int high)
{
    size_t i = a->current, end = a->count, grown, at;
    mmixi_block *b = a->block;
    while (i < a->count && b[i].high - b[i].low < bytes) i++;
    if (i == a->count) {
        while (end > a->current + 1 && b[end - 1].high - b[end - 1].low == b[end - 1].size) end--;
        grown = mmixi_arena_cut(m, a, end);
#ifdef MMIX_REGRESSION
        grown = bytes < a->least ? a->least - bytes : 0;
#else
        /* generous while small: what is not touched costs nothing */
        grown = mmixi_max(mmixi_max(grown, a->least),
                          mmixi_round_up(mmixi_min(a->peak, a->peak / 2 + (4u << 20)), MMIXI_ALIGN));
#endif
        if (mmixi_arena_add(m, a, bytes + grown)) return NULL;
        i = a->count - 1;
    }
    a->current = i;
    b = &a->block[i];
    at = high ? b->high -= bytes : (b->low += bytes) - bytes; a->used += bytes;
    a->peak = mmixi_max(a->peak, a->used);
    mmixi_poison(at, bytes, 0);
    return (void *)at;
}
static size_t mmixi_step_size(size_t bytes) { return mmixi_round_up(mmixi_max(bytes, 1), MMIXI_ALIGN); }
static void *mmixi_step(mmix_ctx *m, size_t bytes)
{
    if (bytes <= SIZE_MAX / 2) return mmixi_arena_take(m, &m->step, mmixi_step_size(bytes), 0);
    mmix_fail(m, MMIX_ERROR_MEMORY, "out of memory: an array of more than half the address space");
    return NULL;
}
/* Step memory for a x b numbers. */
static void *mmixi_step_array(mmix_ctx *m, size_t a, size_t b, size_t size)
{
    return mmixi_step(m, mmixi_mul(mmixi_mul(a, b), size));
}
static double *mmixi_doubles(mmix_ctx *m, size_t a, size_t b)
{
    return (double *)mmixi_step_array(m, a, b, sizeof(double));
}
static mmix_real *mmixi_reals(mmix_ctx *m, size_t a, size_t b)
{
    return (mmix_real *)mmixi_step_array(m, a, b, sizeof(mmix_real));
}

/* Gradient memory: a hole of the right size, or the high end. */
static void *mmixi_step_high(mmix_ctx *m, size_t bytes)
{
    size_t size = mmixi_step_size(bytes);
    for (size_t i = m->holes; i-- > 0;)
        if (m->hole[i].size == size) {
            size_t at = m->hole[i].at;
            m->hole[i] = m->hole[--m->holes];
            mmixi_poison(at, size, 0);
            return (void *)at;
        }
    return mmixi_arena_take(m, &m->step, size, 1);
}

/* The block of step memory that holds an address. */
static mmixi_block *mmixi_block_of(const mmix_ctx *m, size_t at)
{
    mmixi_block *b = m->step.block;
    while (at - b->base >= b->size) b++;
    return b;
}

/* Gives back step memory before the reset. Only a hint: what can't be noted is free after the reset. What a
   checkpoint's backward took from the low end is all dropped after it: no gradient may move in there. */
static void mmixi_step_free(mmix_ctx *m, void *ptr, size_t bytes)
{
    const mmix_place *from = m->rerun ? &m->rerun->step : NULL;
    const mmixi_block *first = from ? &m->step.block[from->block] : NULL;
    size_t at = (size_t)ptr, i = m->holes;
    mmixi_hole *h = &m->hole[i];
    mmixi_block *b;
    if (!ptr) return;
    b = mmixi_block_of(m, at);
    h->at = at; h->size = mmixi_step_size(bytes);
    mmixi_poison(at, h->size, 1);
    if (at + h->size != b->low && at != b->high) {
        if (i == MMIXI_HOLES) return;
        m->holes += !from || at >= b->low || b < first || (b == first && at < from->low);
        return;
    }
    for (m->holes++; i < m->holes; ) {           /* an end moves back; a hole may lie at the new one */
        h = &m->hole[i++];
        if (h->at + h->size == b->low) b->low -= h->size;
        else if (h->at == b->high) b->high += h->size;
        else continue;
        m->step.used -= h->size; *h = m->hole[--m->holes];
        i = from ? m->holes : 0;
    }
}

static void *mmixi_header(mmix_ctx *m, size_t bytes)
{
    void *p = mmixi_arena_take(m, &m->header, mmixi_step_size(bytes), 0);
    return p ? memset(p, 0, bytes) : NULL;
}

static mmix_place mmixi_place_in(const mmixi_arena *a)
{
    mmix_place place = { a->current, 0, SIZE_MAX };      /* before there is a block: all of the first one */
    if (a->count) { place.low = a->block[a->current].low; place.high = a->block[a->current].high; }
    return place;
}
MMIXDEF mmix_mark mmix_mark_here(mmix_ctx *m)
{
    mmix_mark mark = { mmixi_place_in(&m->step), mmixi_place_in(&m->header), m->nodes, m->graded };
    return mark;
}

/* Takes the low end back to a place and, where nothing will ask for gradients any more, the high end too. */
static void mmixi_arena_back(mmixi_arena *a, mmix_place to, int drop_high)
{
    for (size_t i = a->count; i-- > to.block;) {
        mmixi_block *b = &a->block[i];
        size_t low = mmixi_max(i == to.block ? to.low : 0, b->base),
            high = drop_high ? mmixi_min(i == to.block ? to.high : SIZE_MAX, b->base + b->size) : b->high;
        if (low < b->low) mmixi_poison(low, b->low - low, 1);
        if (high > b->high) mmixi_poison(b->high, high - b->high, 1);
        a->used -= (b->low - low) + (high - b->high);
        b->low = low; b->high = high;
    }
    a->current = to.block;
}

static void mmixi_drop_gradients(mmix_ctx *m, mmix_tensor *until);         /* with the tape */
/* Both ends go back, the high one if it is to be dropped, with the holes in what goes. During a backward pass
   gradients and holes stay. */
static void mmixi_rewind(mmix_ctx *m, mmix_mark mark, int drop_high)
{
    size_t holes = m->holes;
    m->nodes = mmixi_min(m->nodes, mark.nodes);
    mmixi_arena_back(&m->step, mark.step, drop_high);
    if (m->in_backward) return;
    m->holes = 0;
    for (const mmixi_hole *h = m->hole; h < m->hole + holes; h++) {
        const mmixi_block *b = mmixi_block_of(m, h->at);
        if (h->at < b->low || h->at >= b->high) m->hole[m->holes++] = *h;
    }
    mmixi_drop_gradients(m, mark.graded);
    mmixi_arena_back(&m->header, mark.header, 0);
}
MMIXDEF void mmix_rewind(mmix_ctx *m, mmix_mark mark) { mmixi_rewind(m, mark, !m->in_backward); }
MMIXDEF void mmix_reset(mmix_ctx *m)
{
    mmix_mark start = { { 0, 0, SIZE_MAX }, { 0, 0, 0 }, 0, NULL };
    if (!m) return;
    m->holes = 0;
    mmix_rewind(m, start);
    m->step.used = 0;
#ifndef MMIX_REGRESSION
    if (m->step.count > 1) {                     /* one of what this step needed, else the next op tries */
        int kind = m->error_kind;
        mmixi_arena_cut(m, &m->step, 0);
        if (mmixi_arena_add(m, &m->step, mmixi_round_up(m->step.peak, MMIXI_BLOCK)) && !kind)
            mmix_error_clear(m);
    }
#endif
    m->step.peak = 0;
}

/* ==== >>random =======================================================================
   Philox 4x32-10: ten rounds of multiply and swap over (counter, key)

   The counter is (element, step, purpose), the key the seed. Salmon, Moraes, Dror & Shaw 2011, "Parallel
   random numbers: as easy as 1, 2, 3"; the test holds its known answers.
   ==================================================================================== */

/* Purposes of the library itself; a user's are below. */
enum { MMIXI_RANDOM_RANDN = 0x8000, MMIXI_RANDOM_INIT, MMIXI_RANDOM_DROP_PATH, MMIXI_RANDOM_EPOCH,
      MMIXI_RANDOM_AUGMENT, MMIXI_RANDOM_SAMPLE, MMIXI_RANDOM_DROPOUT, MMIXI_RANDOM_MASK };

static void mmixi_philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0; c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1; c[3] = (uint32_t)a;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
}
typedef struct mmixi_bits { uint32_t c[4]; } mmixi_bits;
static mmixi_bits mmixi_random(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element)
{
    mmixi_bits bits = { { (uint32_t)element, (uint32_t)(element >> 32), (uint32_t)step,
                          (uint32_t)(step >> 32) ^ (purpose << 16) } };
    mmixi_philox(bits.c, (uint32_t)m->seed, (uint32_t)(m->seed >> 32));
    return bits;
}
static inline double mmixi_unit(const uint32_t c[2])            /* 53 bits in [0, 1) */
{
    return ((double)(c[0] >> 5) * 67108864.0 + (double)(c[1] >> 6)) / 9007199254740992.0;
}
MMIXDEF uint64_t mmix_seed(const mmix_ctx *m) { return m->seed; }
MMIXDEF void mmix_seed_set(mmix_ctx *m, uint64_t seed) { m->seed = seed; }
MMIXDEF uint32_t mmix_random_u32(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element)
{
    return mmixi_random(m, purpose, step, element).c[0];
}
MMIXDEF double mmix_random_uniform(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element)
{
    mmixi_bits bits = mmixi_random(m, purpose, step, element);
    return mmixi_unit(bits.c);
}
static double mmixi_log(double x);
static double mmixi_cos(double x);

/* Box & Muller 1958: √(-2 ln u) cos(2πv) */
MMIXDEF double mmix_random_normal(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element)
{
    mmixi_bits b = mmixi_random(m, purpose, step, element);
    return sqrt(-2 * mmixi_log(1 - mmixi_unit(b.c))) * mmixi_cos(6.283185307179586 * mmixi_unit(b.c + 2));
}

/* ==== >>threads ======================================================================
   a pool of lanes that pull task numbers from one counter

   mmixi_ranges(m, n, grain, task, arg) cuts 0 … n-1 into ranges of `grain`, which comes from shapes where
   sums cross ranges. Which lane gets which range is chance, so a task's arithmetic depends on its range
   alone and its scratch on its lane alone: the result is the same for any number of threads. Idle workers
   spin ten microseconds, then sleep; a caller waits for tasks, not for a worker that the system parked.

   In tasks subnormal numbers count as 0: each costs a hundred cycles, and states and gradients that fade are
   full of them (an SSD backward ran six times slower with gradients of 1e-8 and decays of e^-1 a token).
   ==================================================================================== */

#if defined(__TINYC__)                            /* knows neither atomics nor these registers */
#ifndef MMIX_NO_THREADS
#define MMIX_NO_THREADS
#endif
#elif defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#define MMIXI_FLUSH 0x8040u                      /* flush to zero, denormals are zeros */
#define MMIXI_FLOATS_GET(mode) mode = _mm_getcsr()
#define MMIXI_FLOATS_SET(mode) _mm_setcsr((unsigned)(mode))
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define MMIXI_FLUSH 0x1000000u
#define MMIXI_FLOATS_GET(mode) __asm__ volatile("mrs %0, fpcr" : "=r"(mode))
#define MMIXI_FLOATS_SET(mode) __asm__ volatile("msr fpcr, %0" : : "r"(mode))
#endif
#ifndef MMIXI_FLUSH
#define MMIXI_FLUSH 0u
#define MMIXI_FLOATS_GET(mode) mode = 0
#define MMIXI_FLOATS_SET(mode) ((void)(mode))
#endif
/* Subnormals count as 0 from here on (or no longer do); returns what MMIXI_FLOATS_SET takes. */
static uint64_t mmixi_flush(int on)
{
    uint64_t bits = MMIXI_FLUSH, old;
    MMIXI_FLOATS_GET(old);
    MMIXI_FLOATS_SET(on ? old | bits : old & ~bits);
    return old;
}
typedef struct mmixi_range { size_t begin, end, lane; } mmixi_range;
typedef void mmixi_range_task(void *arg, mmixi_range range);
typedef struct mmixi_job { mmixi_range_task *task; void *arg; size_t n, grain, lanes; } mmixi_job;
static void mmixi_job_run(const mmixi_job *j, size_t i, size_t lane)
{
    mmixi_range range = { i * j->grain, mmixi_min(j->n, (i + 1) * j->grain), lane };
    j->task(j->arg, range);
}
/* Ranges lane, lane + lanes, … in this thread: all, or what one call of the user's parallel_for does. */
static void mmixi_job_lane(void *arg, size_t lane)
{
    const mmixi_job *j = (const mmixi_job *)arg;
    uint64_t old = mmixi_flush(1);
    for (size_t i = lane; i * j->grain < j->n; i += j->lanes) mmixi_job_run(j, i, lane);
    MMIXI_FLOATS_SET(old);
}

#if !defined(MMIX_NO_THREADS)
#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
typedef HANDLE mmixi_thread;
typedef SRWLOCK mmixi_mutex;                     /* this and the next begin as zeros and need no end */
typedef CONDITION_VARIABLE mmixi_cond;
#define MMIXI_THREAD_MAIN static DWORD WINAPI
#define MMIXI_THREAD_START(t, main, arg) ((*(t) = CreateThread(NULL, 0, main, arg, 0, NULL)) != NULL)
#define MMIXI_THREAD_END(t) (WaitForSingleObject(t, INFINITE), CloseHandle(t))
#define MMIXI_LOCK AcquireSRWLockExclusive
#define MMIXI_UNLOCK ReleaseSRWLockExclusive
#define MMIXI_WAIT(c, x) SleepConditionVariableSRW(c, x, INFINITE, 0)
#define MMIXI_WAKE WakeAllConditionVariable
static long mmixi_process(void) { return 0; }    /* there is no fork */
static int mmixi_cores(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}
#else
#include <pthread.h>
#include <unistd.h>
typedef pthread_t mmixi_thread;
typedef pthread_mutex_t mmixi_mutex;
typedef pthread_cond_t mmixi_cond;
#define MMIXI_THREAD_MAIN static void *
#define MMIXI_THREAD_START(t, main, arg) !pthread_create(t, NULL, main, arg)
#define MMIXI_THREAD_END(t) pthread_join(t, NULL)
#define MMIXI_LOCK pthread_mutex_lock
#define MMIXI_UNLOCK pthread_mutex_unlock
#define MMIXI_WAIT pthread_cond_wait
#define MMIXI_WAKE pthread_cond_broadcast
static long mmixi_process(void) { return (long)getpid(); }
static int mmixi_cores(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }
#endif

/* 64-bit atomics, sequentially consistent. */
#if defined(_MSC_VER)
#include <intrin.h>
typedef volatile long long mmixi_atomic;
#define MMIXI_GET(a) _InterlockedOr64(a, 0)
#define MMIXI_PUT(a, v) _InterlockedExchange64(a, v)
#define MMIXI_SWAP(a, is, v) (_InterlockedCompareExchange64(a, v, is) == (is))
#define MMIXI_NEXT(a) _InterlockedIncrement64(a)
#define MMIXI_PAUSE() YieldProcessor()
#else
typedef long long mmixi_atomic;
#define MMIXI_GET(a) __atomic_load_n(a, __ATOMIC_SEQ_CST)
#define MMIXI_PUT(a, v) __atomic_store_n(a, v, __ATOMIC_SEQ_CST)
#define MMIXI_SWAP(a, is, v) __sync_bool_compare_and_swap(a, is, v)
#define MMIXI_NEXT(a) __sync_add_and_fetch(a, 1)
#if defined(__x86_64__) || defined(__i386__)
#define MMIXI_PAUSE() __asm__ __volatile__("pause")
#elif defined(__aarch64__)
#define MMIXI_PAUSE() __asm__ __volatile__("yield")
#else
#define MMIXI_PAUSE() ((void)0)
#endif
#endif

enum { MMIXI_SPINS = 1000 };
typedef struct mmixi_worker { mmixi_pool *pool; size_t lane; mmixi_thread thread; } mmixi_worker;
/* One job at a time. The ticket holds (job number << 32 | next range): a worker claims a range by raising it,
   which fails if the job has changed meanwhile: a late worker never touches one that is gone. Before job (an
   address) and count change, the ticket is closed: it gets a number of its own and a range below no count. A
   negative ticket ends the workers. */
struct mmixi_pool {
    mmixi_atomic ticket, done, count, job;
    mmixi_mutex mutex;
    mmixi_cond work, finished;
    const mmix_options *options;
    long process;                                /* of the threads; a forked child has none of them */
    size_t workers;
    mmixi_worker worker[MMIXI_MAX_THREADS];
};

static void mmixi_pool_wake(mmixi_pool *p, mmixi_cond *cond)
{
    MMIXI_LOCK(&p->mutex);
    MMIXI_WAKE(cond);
    MMIXI_UNLOCK(&p->mutex);
}
static void mmixi_pool_work(mmixi_pool *p, long long number, size_t lane)
{
    uint64_t old = mmixi_flush(1);
    for (;;) {
        long long ticket = MMIXI_GET(&p->ticket), count = MMIXI_GET(&p->count), job = MMIXI_GET(&p->job),
            i = ticket & 0xffffffff;
        if (ticket >> 32 != number || i >= count) break;
        if (!MMIXI_SWAP(&p->ticket, ticket, ticket + 1)) continue;
        mmixi_job_run((const mmixi_job *)(intptr_t)job, (size_t)i, lane);
        if (MMIXI_NEXT(&p->done) == count) mmixi_pool_wake(p, &p->finished);
    }
    MMIXI_FLOATS_SET(old);
}
/* Waits while the job has this number (a worker), or while it is not done (lane 0). */
static int mmixi_pool_waits(mmixi_pool *p, long long number, size_t lane)
{
    return lane ? MMIXI_GET(&p->ticket) >> 32 == number : MMIXI_GET(&p->done) < MMIXI_GET(&p->count);
}
static void mmixi_pool_wait(mmixi_pool *p, long long number, size_t lane)
{
    int spins = lane ? MMIXI_SPINS : 4 * MMIXI_SPINS;
    while (spins-- > 0 && mmixi_pool_waits(p, number, lane)) MMIXI_PAUSE();
    if (!mmixi_pool_waits(p, number, lane)) return;
    MMIXI_LOCK(&p->mutex);
    while (mmixi_pool_waits(p, number, lane)) MMIXI_WAIT(lane ? &p->work : &p->finished, &p->mutex);
    MMIXI_UNLOCK(&p->mutex);
}
MMIXI_THREAD_MAIN mmixi_pool_main(void *arg)
{
    const mmixi_worker *w = (const mmixi_worker *)arg;
    mmixi_pool *p = w->pool;
    if (p->options->thread_start) p->options->thread_start(p->options->thread_user, (int)w->lane);
    for (long long number = 0;;) {
        mmixi_pool_wait(p, number, w->lane);
        number = MMIXI_GET(&p->ticket) >> 32;
        if (number < 0) return 0;
        mmixi_pool_work(p, number, w->lane);
    }
}

/* 0 in a forked child: fork copies the memory of a process, not its threads. */
static int mmixi_pool_run(mmixi_pool *p, size_t count, const mmixi_job *job)
{
    long long number = ((MMIXI_GET(&p->ticket) >> 32) + 2) & 0x7fffffff;
    if (p->process != mmixi_process()) return 0;
    MMIXI_PUT(&p->ticket, (number ^ 1) << 32 | 0xffffffff);
    MMIXI_PUT(&p->done, 0);
    MMIXI_PUT(&p->count, (long long)count);
    MMIXI_PUT(&p->job, (long long)(intptr_t)job);
    MMIXI_PUT(&p->ticket, number << 32);
    mmixi_pool_wake(p, &p->work);
    mmixi_pool_work(p, number, 0);
    mmixi_pool_wait(p, number, 0);
    return 1;
}

/* A pool of m->lanes - 1 workers; where the system gives fewer, there are fewer lanes. NULL on error. */
static mmixi_pool *mmixi_pool_create(mmix_ctx *m)
{
    mmixi_pool *p = (mmixi_pool *)mmixi_zeroed(m, sizeof *p);
    if (!p) return NULL;
    p->options = &m->options; p->process = mmixi_process();
#ifndef _WIN32
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->finished, NULL);
#endif
    for (; p->workers < m->lanes - 1; p->workers++) {
        mmixi_worker *w = &p->worker[p->workers];
        w->pool = p; w->lane = p->workers + 1;
        if (!MMIXI_THREAD_START(&w->thread, mmixi_pool_main, w)) break;
    }
    m->lanes = p->workers + 1;
    return p;
}
static void mmixi_pool_destroy(mmix_ctx *m, mmixi_pool *p)
{
    if (p && p->process == mmixi_process()) {
        MMIXI_PUT(&p->ticket, -1);
        mmixi_pool_wake(p, &p->work);
        for (size_t i = 0; i < p->workers; i++) MMIXI_THREAD_END(p->worker[i].thread);
#ifndef _WIN32
        pthread_cond_destroy(&p->finished);
        pthread_cond_destroy(&p->work);
        pthread_mutex_destroy(&p->mutex);
#endif
    }
    mmixi_free(m, p, sizeof *p);
}
#else
static int mmixi_cores(void) { return 1; }
static void mmixi_pool_destroy(mmix_ctx *m, mmixi_pool *p) { (void)m, (void)p; }
static mmixi_pool *mmixi_pool_create(mmix_ctx *m)
{
    m->lanes = 1;
    return NULL;
}
static int mmixi_pool_run(mmixi_pool *p, size_t count, const mmixi_job *job)
{
    return (void)p, (void)count, (void)job, 0;
}
#endif

static void mmixi_ranges(mmix_ctx *m, size_t n, size_t grain, mmixi_range_task *task, void *arg)
{
    mmixi_job job = { task, arg, n, mmixi_max(grain, 1), 1 };
    size_t count = mmixi_ceil_div(n, job.grain);
    int together = m->lanes > 1 && count > 1 && count <= 0x7fffffff && !m->in_parallel;
    if (together) m->in_parallel = 1;
    if (together && m->options.parallel_for) {
        job.lanes = mmixi_min(m->lanes, count);
        m->options.parallel_for(m->options.parallel_user, job.lanes, mmixi_job_lane, &job);
    }
    else if (!together || !mmixi_pool_run(m->pool, count, &job)) mmixi_job_lane(&job, 0);
    if (together) m->in_parallel = 0;
}
typedef struct mmixi_user_job { mmix_task *task; void *arg; } mmixi_user_job;
static void mmixi_user_run(void *arg, mmixi_range range)
{
    const mmixi_user_job *job = (const mmixi_user_job *)arg;
    uint64_t old = mmixi_flush(0);         /* the user's arithmetic is the user's */
    job->task(job->arg, range.begin);
    MMIXI_FLOATS_SET(old);
}
MMIXDEF void mmix_parallel_for(mmix_ctx *m, size_t count, mmix_task *task, void *arg)
{
    mmixi_user_job job = { task, arg };
    mmixi_ranges(m, count, 1, mmixi_user_run, &job);
}
MMIXDEF int mmix_threads(const mmix_ctx *m) { return (int)m->lanes; }

/* ==== >>micro-kernels ================================================================
   our own exp, log, sin, cos, erfc; the table of inner loops, one table for each SIMD level
   ==================================================================================== */

/* libm rounds differently from system to system; these do not, and err by a unit or two in the last place.
   For that no compiler may fuse a multiply and an add here. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

#if defined(__GNUC__) || defined(__clang__)
#define MMIXI_MATH static __attribute__((unused))    /* not every build needs every one */
#else
#define MMIXI_MATH static
#endif

#define MMIXI_LN2_HI 0.6931471804855391      /* ln 2 cut after 33 bits: products with small n are exact */
#define MMIXI_LN2_LO 7.440617110012397e-11

/* e^x = 2^n e^r with |r| <= ln 2 / 2, and the Taylor series of e^r. */
MMIXI_MATH double mmixi_exp(double x)
{
    double n, r, sum = 1;
    if (!(x < 709.79)) return x > 0 ? HUGE_VAL : x;          /* the last: NaN */
    if (x < -745.2) return 0;
    n = floor(x * 1.4426950408889634 + 0.5);
    r = x - n * MMIXI_LN2_HI - n * MMIXI_LN2_LO;
    for (int k = 14; k > 0; k--) sum = 1 + r / k * sum;
    return ldexp(sum, (int)n);
}

/* log x = e ln 2 + log(1 + f), and with s = f / (2 + f):
   log(1 + f) = 2 atanh s = f - s (f - 2 (s²/3 + s⁴/5 + …)). */
MMIXI_MATH double mmixi_log(double x)
{
    int e;
    double f, s, z, sum = 0;
    if (!(x > 0)) return x < 0 ? (double)NAN : x == 0 ? -HUGE_VAL : x;
    if (x > 1.797693134862315708e308) return x;              /* infinity */
    f = frexp(x, &e);
    if (f < 0.70710678118654752) { f *= 2; e--; }
    f -= 1; s = f / (2 + f);
    z = s * s;
    for (int k = 23; k > 1; k -= 2) sum = z * (sum + 1.0 / k);
    return e * MMIXI_LN2_HI + (f - (s * (f - 2 * sum) - e * MMIXI_LN2_LO));
}

/* log(1 + x): what 1 + x loses of x is made good in first order. */
MMIXI_MATH double mmixi_log1p(double x)
{
    double u = 1 + x;
    if (u == 1 || !(x < 1e17)) return u == 1 ? x : mmixi_log(x);
    return u > 0 ? mmixi_log(u) * (x / (u - 1)) : mmixi_log(u);
}
/* e^x - 1 for x <= 0, likewise */
MMIXI_MATH double mmixi_expm1(double x)
{
    double u = mmixi_exp(x);
    return u == 1 ? x : u > 0 ? (u - 1) * (x / mmixi_log(u)) : u - 1;
}
/* x^p, a small whole one by multiplication */
MMIXI_MATH double mmixi_pow(double x, double p)
{
    double y = 1;
    if (p == floor(p) && fabs(p) <= 64) {
        for (double n = fabs(p); n > 0; n--) y *= x;
        return p < 0 ? 1 / y : y;
    }
    y = mmixi_exp(p * mmixi_log(fabs(x)));
    return x >= 0 || p == floor(p) ? x < 0 && fmod(p, 2) != 0 ? -y : y : (double)NAN;
}

/* x = q π/2 + r, |r| <= π/4, π/2 in three parts of 33, 33 and 53 bits: exact enough for |x| <= 1e6. */
MMIXI_MATH double mmixi_sin_quarter(double x, int quarters)
{
    double q = floor(x * 0.63661977236758134 + 0.5), z, sum = 1;
    double r = x - q * 1.5707963267341256 - q * 6.077100506303966e-11 - q * 2.0222662487959506e-21;
    int quarter = (int)(((int64_t)q + quarters) & 3), odd = quarter & 1;
    z = r * r;
    /* cos r, or sin r / r */
    for (int k = odd ? 18 : 19; k > 1; k -= 2) sum = 1 - z / (k * (k - 1)) * sum;
    if (!odd) sum *= r;
    return quarter & 2 ? -sum : sum;
}
MMIXI_MATH double mmixi_sin(double x) { return mmixi_sin_quarter(x, 0); }
MMIXI_MATH double mmixi_cos(double x) { return mmixi_sin_quarter(x, 1); }

/* erfc x = 1 - erf x, by erf's series near 0 and farther out by the continued fraction
   e^(-x²)/√π / (x + (1/2)/(x + (2/2)/(x + …))), which is exact relative to its tiny values. x² is split so
   that e^(-x²) is, too. */
MMIXI_MATH double mmixi_erfc(double x)
{
    double high = floor(x * 4096) / 4096;
    double power = mmixi_exp(-high * high) * mmixi_exp((high - x) * (high + x));
    double sum = 0;
    if (!(x == x)) return x;
    if (x < 0) return 2 - mmixi_erfc(-x);
    if (x > 27.3) return 0;
    if (x < 1.5) {
        for (int k = 30; k > 0; k--) sum = 2 * x * x / (2 * k + 1) * (1 + sum);
        return 1 - 1.1283791670955126 * x * power * (1 + sum);
    }
    for (int k = 20 + (int)(130 / (x * x)); k > 0; k--) sum = 0.5 * k / (x + sum);
    return 0.56418958354775629 * power / (x + sum);
}

#if defined(__clang__)
#pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

/* A view of a matrix: element (i, j) is p[i rs + j cs]. What a view is read for alone may be const: whoever
   makes it knows. */
typedef struct mmixi_mat { mmix_real *p; size_t rows, cols; ptrdiff_t rs, cs; } mmixi_mat;
/* Row-major, `step` reals from row to row. */
static inline mmixi_mat mmixi_matrix(const mmix_real *p, size_t rows, size_t cols, ptrdiff_t step)
{
    mmixi_mat a = { (mmix_real *)p, rows, cols, step, 1 };
    return a;
}
static inline mmixi_mat mmixi_t(mmixi_mat a)            /* transposed */
{
    mmixi_mat t = { a.p, a.cols, a.rows, a.cs, a.rs };
    return t;
}
static inline mmixi_mat mmixi_part(mmixi_mat a, size_t i, size_t j, size_t rows, size_t cols) /* from i, j */
{
    a.p += (ptrdiff_t)i * a.rs + (ptrdiff_t)j * a.cs;
    a.rows = rows; a.cols = cols;
    return a;
}

/* The inner loops, each with its arguments. Vectors are contiguous, of any length, aligned or not; an output
   may be an input. A sum keeps several partial sums in an order that depends on n alone. tests/kernels.c has
   the plain loop of each. */

/* c = or += a b + bias; c at most mr x nr; bias (cols) or NULL. The rows of b and c are contiguous; strides
   may be negative, the depth 0; of b only p and rs are read */
#define MMIXI_ARGS_tile \
    (const mmixi_mat *c, const mmixi_mat *a, const mmixi_mat *b, int add, const mmix_real *bias)
/* x · y; Σ x; the largest x, -infinity if n is 0; Σ (x - mean)² */
#define MMIXI_ARGS_dot (size_t n, const mmix_real *x, const mmix_real *y)
#define MMIXI_ARGS_sum (size_t n, const mmix_real *x)
#define MMIXI_ARGS_largest MMIXI_ARGS_sum
#define MMIXI_ARGS_variance (size_t n, const mmix_real *x, mmix_real mean)
/* y += a x; y = a x; y = a y + (1 - a) x */
#define MMIXI_ARGS_axpy (size_t n, mmix_real a, const mmix_real *x, mmix_real *y)
#define MMIXI_ARGS_scale MMIXI_ARGS_axpy
#define MMIXI_ARGS_lerp MMIXI_ARGS_axpy
/* z = x + y; z = x y; z += x y */
#define MMIXI_ARGS_add (size_t n, const mmix_real *x, const mmix_real *y, mmix_real *z)
#define MMIXI_ARGS_mul MMIXI_ARGS_add
#define MMIXI_ARGS_mul_add MMIXI_ARGS_add
/* z = scale z + residual, which may be NULL: what follows a matrix product */
#define MMIXI_ARGS_finish (size_t n, mmix_real scale, const mmix_real *residual, mmix_real *z)
/* y = f(x), dx = or += dy f'(x): e^x, silu = x / (1 + e^-x), gelu = x Φ(x), softplus = log(1 + e^x), x above
   20 */
#define MMIXI_ARGS_exp_each (size_t n, const mmix_real *x, mmix_real *y)
#define MMIXI_ARGS_silu MMIXI_ARGS_exp_each
#define MMIXI_ARGS_gelu MMIXI_ARGS_exp_each
#define MMIXI_ARGS_softplus MMIXI_ARGS_exp_each
#define MMIXI_ARGS_silu_backward (size_t n, const mmix_real *x, const mmix_real *dy, mmix_real *dx, int add)
#define MMIXI_ARGS_gelu_backward MMIXI_ARGS_silu_backward
#define MMIXI_ARGS_softplus_backward MMIXI_ARGS_silu_backward
/* y = exp(scale x - shift), which must be at most 88: a softmax's numerators; returns their sum */
#define MMIXI_ARGS_exp_row (size_t n, mmix_real scale, const mmix_real *x, mmix_real shift, mmix_real *y)
/* y = e^(x - max x) / its sum; dx = or += y (dy - along) */
#define MMIXI_ARGS_softmax MMIXI_ARGS_exp_each
#define MMIXI_ARGS_softmax_backward \
    (size_t n, const mmix_real *y, const mmix_real *dy, mmix_real along, mmix_real *dx, int add)
/* y = (x - mean) rstd w + b; w, b may be NULL */
#define MMIXI_ARGS_normalise \
    (size_t n, const mmix_real *x, mmix_real mean, mmix_real rstd, const mmix_real *w, const mmix_real *b, \
     mmix_real *y)
/* its backward in two passes: with x̂ = (x - mean) rstd and g = w dy, the sums of g and of g x̂; then
   dx = or += rstd (g - g_mean - x̂ gx_mean), dw += dy x̂, db += dy; w, dw, db may be NULL */
#define MMIXI_ARGS_normalise_sums \
    (size_t n, const mmix_real *dy, const mmix_real *x, mmix_real mean, mmix_real rstd, const mmix_real *w, \
     mmix_real *g, mmix_real *gx)
#define MMIXI_ARGS_normalise_backward \
    (size_t n, const mmix_real *dy, const mmix_real *x, mmix_real mean, mmix_real rstd, const mmix_real *w, \
     mmix_real g_mean, mmix_real gx_mean, mmix_real *dx, int add, mmix_real *dw, mmix_real *db)
/* one row of an SSD chunk: decay = before e, or 0 where that is below e^-80; weight = decay score dt */
#define MMIXI_ARGS_ssd_row \
    (size_t n, mmix_real e, const mmix_real *before, const mmix_real *score, const mmix_real *dt, \
     mmix_real *decay, mmix_real *weight)
/* its backward: u = dweight decay; dscore += u dt; column += u score; returns then Σ column dt */
#define MMIXI_ARGS_ssd_row_backward \
    (size_t n, const mmix_real *dweight, const mmix_real *decay, const mmix_real *score, \
     const mmix_real *dt, mmix_real *dscore, mmix_real *column)
/* one token of an SSD head, state h (P, N): h = e h + x bᵀ, y = h c */
#define MMIXI_ARGS_ssd_step \
    (size_t P, size_t N, mmix_real e, const mmix_real *x, const mmix_real *b, const mmix_real *c, \
     mmix_real *h, mmix_real *y)
/* one token of a depthwise convolution: u = bias + Σ_k w_k x_k over `taps` rows (NULL: left out); w (taps,
   ldw); bias may be NULL, or u. Its weights' gradient: dw_k += du x_k, db += du */
#define MMIXI_ARGS_conv \
    (size_t n, size_t taps, const mmix_real *const *x, const mmix_real *w, size_t ldw, \
     const mmix_real *bias, mmix_real *u)
#define MMIXI_ARGS_conv_weight \
    (size_t n, size_t taps, const mmix_real *du, const mmix_real *const *x, mmix_real *dw, size_t ldw, \
     mmix_real *db)
/* g' = g clip; mo = b1 mo + (1 - b1) g'; v = b2 v + (1 - b2) g'²; p = keep p - rate mo / (√v root + eps) */
#define MMIXI_ARGS_adamw \
    (size_t n, mmix_real *p, const mmix_real *g, mmix_real *mo, mmix_real *v, mmix_real clip, \
     mmix_real keep, mmix_real rate, mmix_real b1, mmix_real b2, mmix_real root, mmix_real eps)
/* y[j ldy + i] = x[i ldx + j], i < rows, j < cols */
#define MMIXI_ARGS_transpose \
    (size_t rows, size_t cols, const mmix_real *x, ptrdiff_t ldx, mmix_real *y, ptrdiff_t ldy)

/* All of them: V gives nothing back, R a number. */
#define MMIXI_KERNELS(V, R)                                                                                  \
    V(tile) R(dot) R(sum) R(largest) R(variance) V(axpy) V(scale) V(lerp) V(add) V(mul) V(mul_add) V(finish) \
    V(exp_each) V(silu) V(gelu) V(softplus) V(silu_backward) V(gelu_backward) V(softplus_backward)           \
    R(exp_row) V(softmax) V(softmax_backward) V(normalise) V(normalise_sums) V(normalise_backward)           \
    V(ssd_row) R(ssd_row_backward) V(ssd_step) V(conv) V(conv_weight) V(adamw) V(transpose)
#define MMIXI_FIELD_V(name) void (*name) MMIXI_ARGS_##name;
#define MMIXI_FIELD_R(name) mmix_real (*name) MMIXI_ARGS_##name;
/* One table for each SIMD level. */
typedef struct mmixi_kernels {
    char name[8];
    size_t mr, nr, lanes;                        /* the tile, at most; reals in a vector */
    MMIXI_KERNELS(MMIXI_FIELD_V, MMIXI_FIELD_R)
} mmixi_kernels;

/* Which levels this compiler can build. The double build is for checking and has the portable one alone. */
#if !defined(MMIX_NO_SIMD) && !MMIXI_DOUBLE && !defined(__TINYC__)
#if defined(__x86_64__) && !defined(_MSC_VER) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 7))
#define MMIXI_X86
#include <immintrin.h>
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
#define MMIXI_ARM                                /* every such machine has NEON */
#include <arm_neon.h>
#endif
#endif
#if defined(__GNUC__) || defined(__clang__)
#define MMIXI_FETCH(p) __builtin_prefetch(p)
#ifdef __OPTIMIZE__
#define MMIXI_INLINE static inline MMIXI_TARGET __attribute__((always_inline))
#else
#define MMIXI_INLINE static inline MMIXI_TARGET
#endif
#define MMIXI_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define MMIXI_UNROLL MMIXI_PRAGMA(clang loop unroll(full))
#else
#define MMIXI_UNROLL MMIXI_PRAGMA(GCC unroll 16)
#endif
#else
#define MMIXI_FETCH(p) ((void)(p))
#define MMIXI_INLINE static inline
#define MMIXI_UNROLL
#endif

/* The kernels stand once, in the block below. The file includes itself once a level to compile them:
   MMIXI_LEVEL is defined then, and that block is all that such an inclusion sees. So the implementation's #if
   closes before the block and opens again behind it.

   V is a vector of W reals; + - * / are the compiler's, lane by lane, also with a scalar. A level defines the
   rest. T says which lanes are live: loads of dead lanes give 0, stores leave them alone. EACH is the loop of
   every row: its statements with t = ALL at each whole vector i, then at what is left of n. They stand twice
   so that whole vectors need no masks; AT and TO load and store a vector there. */
#define MMIXI_NAME(name) MMIXI_JOIN(mmixi_##name##_, MMIXI_LEVEL_NAME)
#define MMIXI_STRING2(x) #x
#define MMIXI_STRING(x) MMIXI_STRING2(x)
#define MMIXI_KERNEL(type, name) static MMIXI_TARGET type MMIXI_NAME(name) MMIXI_ARGS_##name
#define MMIXI_VECTOR(name) MMIXI_INLINE MMIXI_V MMIXI_NAME(name)

#define MMIXI_LOADT(t, p) ((t) == MMIXI_ALL ? MMIXI_LOAD(p) : MMIXI_LOADM(t, p))
#define MMIXI_STORET(t, p, v) \
    do { if ((t) == MMIXI_ALL) MMIXI_STORE(p, v); else MMIXI_STOREM(t, p, v); } while (0)
#define MMIXI_PICKT(t, v, other) ((t) == MMIXI_ALL ? (v) : MMIXI_PICKM(t, v, other))
#define MMIXI_AT(x) MMIXI_LOADT(t, (x) + i)
#define MMIXI_TO(y, v) do { const MMIXI_V to_ = v; MMIXI_STORET(t, (y) + i, to_); } while (0)
#define MMIXI_EACH(...)                                                                                      \
    do {                                                                                                     \
        size_t i = 0;                                                                                        \
        for (; i + MMIXI_W <= n; i += MMIXI_W) { enum { t = MMIXI_ALL }; __VA_ARGS__ }                       \
        if (MMIXI_W > 1 && i < n) { const MMIXI_T t = MMIXI_TAIL(n - i); __VA_ARGS__ }                       \
    } while (0)
/* Sums in `count` parts s[j], whole vectors in turn, what is left in the first: s[j] = the expression. */
#define MMIXI_PARTS(count, first, ...)                                                                       \
    MMIXI_V s[count];                                                                                        \
    size_t from = 0;                                                                                         \
    MMIXI_UNROLL                                                                                             \
    for (size_t j = 0; j < count; j++) s[j] = MMIXI_SET(first);                                              \
    for (; from + count * MMIXI_W <= n; from += count * MMIXI_W) {                                           \
        enum { t = MMIXI_ALL };                                                                              \
        MMIXI_UNROLL                                                                                         \
        for (size_t j = 0; j < count; j++) {                                                                 \
            size_t i = from + j * MMIXI_W;                                                             \
            s[j] = __VA_ARGS__;                                                                              \
        }                                                                                                    \
    }                                                                                                        \
    for (size_t i = from; i < n; i += MMIXI_W) {                                                             \
        const MMIXI_T t = MMIXI_TAIL(n - i);                                                                 \
        enum { j = 0 };                                                                                      \
        s[j] = __VA_ARGS__;                                                                                  \
    }
#define MMIXI_LONG (256 * MMIXI_W)               /* longer sums are halved: rounding grows with log n */
#define MMIXI_HALF(n) ((n) / 2 / MMIXI_W * MMIXI_W)
#define MMIXI_LINE(x, a, b) MMIXI_FMA(x, MMIXI_SET(a), MMIXI_SET(b))                             /* a x + b */
#endif /* the implementation, as far as the micro-kernels */

#ifdef MMIXI_LEVEL

#if MMIXI_LEVEL == 512

#define MMIXI_LEVEL_NAME avx512
#define MMIXI_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi2")))
#define MMIXI_W 16
#define MMIXI_MR 8                               /* 24 sums, 3 of b and 1 of a: 28 of 32 registers */
#define MMIXI_NV 3
#define MMIXI_V __m512
#define MMIXI_T __mmask16
#define MMIXI_ALL 0xffff
#define MMIXI_TAIL(left) ((__mmask16)((left) < 16 ? (1u << (left)) - 1 : 0xffffu))
#define MMIXI_LOAD(p) _mm512_loadu_ps(p)
#define MMIXI_STORE(p, v) _mm512_storeu_ps(p, v)
#define MMIXI_LOADM(t, p) _mm512_maskz_loadu_ps(t, p)
#define MMIXI_STOREM(t, p, v) _mm512_mask_storeu_ps(p, t, v)
#define MMIXI_PICKM(t, v, other) _mm512_mask_blend_ps(t, other, v)
#define MMIXI_SET(x) _mm512_set1_ps((float)(x))
#define MMIXI_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MMIXI_MIN(a, b) _mm512_maskz_min_ps(0xffff, a, b)
#define MMIXI_MAX(a, b) _mm512_maskz_max_ps(0xffff, a, b)
#define MMIXI_SQRT(a) _mm512_maskz_sqrt_ps(0xffff, a)
#define MMIXI_IF_LESS(a, b, x, y) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x)
#define MMIXI_TIMES_2N(p, n, x) \
    _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, MMIXI_SET(MMIXI_EXP_LEAST), _CMP_NLT_UQ), p, n)

#elif MMIXI_LEVEL == 2

#define MMIXI_LEVEL_NAME avx2
#define MMIXI_TARGET __attribute__((target("avx2,fma")))
#define MMIXI_W 8
#define MMIXI_MR 6                               /* 12 sums, 2 of b and 1 of a: 15 of 16 registers */
#define MMIXI_NV 2
#define MMIXI_V __m256
#define MMIXI_MASK(t) \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(t)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define MMIXI_LOAD(p) _mm256_loadu_ps(p)
#define MMIXI_STORE(p, v) _mm256_storeu_ps(p, v)
#define MMIXI_LOADM(t, p) _mm256_maskload_ps(p, MMIXI_MASK(t))
#define MMIXI_STOREM(t, p, v) _mm256_maskstore_ps(p, MMIXI_MASK(t), v)
#define MMIXI_PICKM(t, v, other) _mm256_blendv_ps(other, v, _mm256_castsi256_ps(MMIXI_MASK(t)))
#define MMIXI_SET(x) _mm256_set1_ps((float)(x))
#define MMIXI_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MMIXI_MIN(a, b) _mm256_min_ps(a, b)
#define MMIXI_MAX(a, b) _mm256_max_ps(a, b)
#define MMIXI_SQRT(a) _mm256_sqrt_ps(a)
#define MMIXI_IF_LESS(a, b, x, y) _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define MMIXI_TIMES_2N(p, n, x) \
    _mm256_andnot_ps(_mm256_cmp_ps(x, MMIXI_SET(MMIXI_EXP_LEAST), _CMP_LT_OQ), \
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), \
                                             _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23))))

#elif MMIXI_LEVEL == 128

#define MMIXI_LEVEL_NAME neon
#define MMIXI_TARGET
#define MMIXI_W 4
#define MMIXI_MR 8                               /* 24 sums, 3 of b and 1 of a: 28 of 32 registers */
#define MMIXI_NV 3
#define MMIXI_V float32x4_t
#define MMIXI_LOAD(p) vld1q_f32(p)
#define MMIXI_STORE(p, v) vst1q_f32(p, v)
#define MMIXI_LOADM(t, p) mmixi_neon_load(t, p)
#define MMIXI_STOREM(t, p, v) mmixi_neon_store(t, p, v)
#define MMIXI_PICKM(t, v, other)                                                           /* 0 1 2 3 < t */ \
    vbslq_f32(vcltq_u32(vcombine_u32(vcreate_u32((uint64_t)1 << 32), vcreate_u32(((uint64_t)3 << 32) + 2)), \
                        vdupq_n_u32((uint32_t)(t))), v, other)
#define MMIXI_SET(x) vdupq_n_f32((float)(x))
#define MMIXI_FMA(a, b, c) vfmaq_f32(c, a, b)
#define MMIXI_MIN(a, b) vbslq_f32(vcltq_f32(a, b), a, b)     /* b if one is NaN, as on x86 */
#define MMIXI_MAX(a, b) vbslq_f32(vcgtq_f32(a, b), a, b)
#define MMIXI_SQRT(a) vsqrtq_f32(a)
#define MMIXI_IF_LESS(a, b, x, y) vbslq_f32(vcltq_f32(a, b), x, y)
#define MMIXI_TIMES_2N(p, n, x) \
    MMIXI_IF_LESS(x, MMIXI_SET(MMIXI_EXP_LEAST), MMIXI_SET(0), \
        vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), \
                                        vshlq_n_s32(vcvtq_s32_f32(n), 23))))

static inline float32x4_t mmixi_neon_load(size_t t, const float *p)
{
    float x[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < t && i < 4; i++) x[i] = p[i];
    return vld1q_f32(x);
}
static inline void mmixi_neon_store(size_t t, float *p, float32x4_t v)
{
    float x[4];
    vst1q_f32(x, v);
    for (size_t i = 0; i < t && i < 4; i++) p[i] = x[i];
}

#else                                            /* portable: a vector of one real */

#define MMIXI_LEVEL_NAME none
#define MMIXI_TARGET
#define MMIXI_W 1
#define MMIXI_MR 3
#define MMIXI_NV 3
#define MMIXI_V mmix_real
#define MMIXI_LOAD(p) (*(p))
#define MMIXI_STORE(p, v) (void)(*(p) = (v))
#define MMIXI_LOADM(t, p) ((void)(t), *(p))
#define MMIXI_STOREM(t, p, v) ((void)(t), (void)(*(p) = (v)))
#define MMIXI_PICKM(t, v, other) (other)
#define MMIXI_SET(x) ((mmix_real)(x))
#define MMIXI_FMA(a, b, c) ((a) * (b) + (c))
#define MMIXI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MMIXI_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MMIXI_SQRT(a) ((mmix_real)sqrt((double)(a)))
#define MMIXI_IF_LESS(a, b, x, y) ((a) < (b) ? (x) : (y))
#define MMIXI_TIMES_2N(p, n, x) ((x) < MMIXI_EXP_LEAST ? 0.0f : mmixi_times_2n(p, n))

#if !MMIXI_DOUBLE
static inline float mmixi_times_2n(float p, float n)
{
    uint32_t a;
    memcpy(&a, &p, 4);
    a += n == n ? (uint32_t)(int32_t)n << 23 : 0;        /* NaN stays NaN */
    memcpy(&p, &a, 4);
    return p;
}
#endif

#endif

#ifndef MMIXI_T                                  /* without masks: how many lanes are live */
#define MMIXI_T size_t
#define MMIXI_ALL MMIXI_W
#define MMIXI_TAIL(left) ((left) < MMIXI_W ? (left) : MMIXI_W)
#endif

/* The sum and the largest of the lanes, halves against halves. */
#if MMIXI_W == 4
MMIXI_INLINE mmix_real MMIXI_NAME(lanes_sum)(MMIXI_V v) { return vaddvq_f32(v); }
MMIXI_INLINE mmix_real MMIXI_NAME(lanes_max)(MMIXI_V v) { return vmaxvq_f32(v); }
#elif MMIXI_W == 1
MMIXI_INLINE mmix_real MMIXI_NAME(lanes_sum)(MMIXI_V v) { return v; }
MMIXI_INLINE mmix_real MMIXI_NAME(lanes_max)(MMIXI_V v) { return v; }
#else
#if MMIXI_W == 16
#define MMIXI_EIGHT(v, op) \
    op(_mm512_maskz_extractf32x8_ps(0xff, v, 0), _mm512_maskz_extractf32x8_ps(0xff, v, 1))
#else
#define MMIXI_EIGHT(v, op) (v)
#endif
#define MMIXI_HALVES(name, op8, op4)                                                                         \
    MMIXI_INLINE mmix_real MMIXI_NAME(name)(MMIXI_V v)                                                       \
    {                                                                                                        \
        const __m256 h = MMIXI_EIGHT(v, op8);                                                                \
        __m128 q = op4(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));                              \
        q = op4(q, _mm_movehl_ps(q, q));                                                                     \
        return _mm_cvtss_f32(op4(q, _mm_shuffle_ps(q, q, 1)));                                               \
    }
MMIXI_HALVES(lanes_sum, _mm256_add_ps, _mm_add_ps)
MMIXI_HALVES(lanes_max, _mm256_max_ps, _mm_max_ps)
#undef MMIXI_HALVES
#undef MMIXI_EIGHT
#endif

/* ---- functions of a vector ---- */

#if MMIXI_DOUBLE                                 /* exactness before speed: this build is for checking */

MMIXI_VECTOR(exp_v)(double x) { return mmixi_exp(x); }
MMIXI_VECTOR(exp_down_v)(double x) { return mmixi_exp(x); }
MMIXI_VECTOR(softplus_v)(double x) { return x > 20 ? x : mmixi_log1p(mmixi_exp(x)); }
MMIXI_VECTOR(tail_v)(double a, double *bell)
{
    *bell = mmixi_exp(-0.5 * a * a);
    return 0.5 * mmixi_erfc(0.70710678118654752 * a);
}

#else

/* e^x = 2^n e^r. Adding 1.5 2^23 rounds x / ln 2 to an integer n, which is added to p's exponent: of a NaN it
   is 0, and NaN stays NaN, whatever its bits. Polynomial: least largest relative error on |r| <= ln 2 / 2
   (3e-9), fitted by us. Below LEAST the answer is 0 and never a subnormal, above MOST infinity. exp_down_v
   is for x up to MOST: in a softmax a quarter less time. */
#define MMIXI_EXP_LEAST -87.3f
#define MMIXI_EXP_MOST 88.72283f
MMIXI_VECTOR(exp_down_v)(MMIXI_V x)
{
    const MMIXI_V t = MMIXI_LINE(x, 1.44269504f, 12582912.0f), n = t - MMIXI_SET(12582912.0f);
    MMIXI_V r, rr, p;
    r = MMIXI_FMA(n, MMIXI_SET(-0.693115234375f), x);        /* 12 bits of ln 2: the product is exact */
    r = MMIXI_FMA(n, MMIXI_SET(-3.194618329871446e-5f), r);
    rr = r * r;                                  /* Estrin's order: a shorter chain than Horner's */
    p = MMIXI_LINE(r, 0.008368735201656818f, 0.04166838899254799f);
    p = MMIXI_FMA(rr, MMIXI_SET(0.001381455920636654f), p);
    p = MMIXI_FMA(rr, p, MMIXI_LINE(r, 0.1666652113199234f, 0.4999999403953552f));
    p = MMIXI_FMA(rr, p, r) + MMIXI_SET(1);
    return MMIXI_TIMES_2N(p, n, x);
}
MMIXI_VECTOR(exp_v)(MMIXI_V x)
{
    const MMIXI_V most = MMIXI_SET(MMIXI_EXP_MOST);
    return MMIXI_IF_LESS(most, x, MMIXI_SET(HUGE_VAL), MMIXI_NAME(exp_down_v)(MMIXI_MIN(most, x)));
}

/* max(x, 0) + log(1 + u), u = e^-|x|; log(1 + u) = 2 atanh s, s = u / (2 + u) in [0, 1/3] (fitted by us,
   5e-9). */
MMIXI_VECTOR(softplus_v)(MMIXI_V x)
{
    const MMIXI_V zero = MMIXI_SET(0);
    const MMIXI_V plus = MMIXI_MAX(zero, x), minus = MMIXI_MIN(zero, x);     /* in this order NaN stays NaN */
    const MMIXI_V u = MMIXI_NAME(exp_down_v)(minus - plus), s = u / (u + MMIXI_SET(2)), z = s * s;
    const MMIXI_V p = MMIXI_FMA(z * z, MMIXI_LINE(z, 0.1400599330663681f, 0.14000903069972992f),
                                MMIXI_LINE(z, 0.2001076340675354f, 0.3333320915699005f));
    return MMIXI_IF_LESS(MMIXI_SET(20), x, x, plus + MMIXI_FMA((s + s) * z, p, s + s));
}

/* Φ(-a), the tail of the normal distribution, a >= 0, and e^(-a²/2); both 0 from a = 13.3 on. Their quotient
   is a rational function, fitted by us: relative error 5e-8 where Φ is not small, below 1e-6 everywhere. */
MMIXI_VECTOR(tail_v)(MMIXI_V a, MMIXI_V *bell)
{
    MMIXI_V up, down, aa;
    a = MMIXI_MIN(a, MMIXI_SET(20)); aa = a * a;
    up = MMIXI_LINE(a, 0.015018963254988194f, 0.11114613711833954f);
    up = MMIXI_FMA(aa, up, MMIXI_LINE(a, 0.3476709723472595f, 0.5f));
    down = MMIXI_LINE(a, 0.2782955467700958f, 0.9137501120567322f);
    down = MMIXI_FMA(aa, MMIXI_SET(0.037655308842659f), down);
    down = MMIXI_FMA(aa, down, MMIXI_LINE(a, 1.4932230710983276f, 1));
    *bell = MMIXI_NAME(exp_down_v)(aa * MMIXI_SET(-0.5f));
    return *bell * (up / down);
}

#endif

/* 1 / (1 + e^-x) */
MMIXI_VECTOR(sigmoid_v)(MMIXI_V x)
{
    const MMIXI_V one = MMIXI_SET(1);
    return one / (one + MMIXI_NAME(exp_v)(MMIXI_SET(0) - x));
}
MMIXI_VECTOR(silu_v)(MMIXI_V x) { return x * MMIXI_NAME(sigmoid_v)(x); }
/* σ(x) (1 + x σ(-x)); with u = e^-|x| one of σ(x), σ(-x) is 1 / (1 + u), the other u / (1 + u) */
MMIXI_VECTOR(silu_slope_v)(MMIXI_V x)
{
    const MMIXI_V zero = MMIXI_SET(0), one = MMIXI_SET(1), u = MMIXI_NAME(exp_down_v)(MMIXI_MIN(x, zero - x));
    const MMIXI_V upper = one / (one + u), lower = u * upper;
    return MMIXI_FMA(upper * lower, x, MMIXI_IF_LESS(x, zero, lower, upper));
}
/* x Φ(x) = max(x, 0) - |x| Φ(-|x|) */
MMIXI_VECTOR(gelu_v)(MMIXI_V x)
{
    const MMIXI_V zero = MMIXI_SET(0);
    MMIXI_V bell, a = MMIXI_MAX(x, zero - x);
    /* an infinity times the tail's 0 would be NaN; in this order NaN stays NaN */
    a = MMIXI_MIN(MMIXI_SET(1e30), a);
    return MMIXI_FMA(-a, MMIXI_NAME(tail_v)(a, &bell), MMIXI_MAX(x, zero));
}
/* Φ(x) + x φ(x) */
MMIXI_VECTOR(gelu_slope_v)(MMIXI_V x)
{
    const MMIXI_V zero = MMIXI_SET(0);
    MMIXI_V bell, tail = MMIXI_NAME(tail_v)(MMIXI_MAX(x, zero - x), &bell);
    tail = MMIXI_IF_LESS(x, zero, tail, MMIXI_SET(1) - tail);
    x = MMIXI_MIN(MMIXI_SET(1e30), MMIXI_MAX(MMIXI_SET(-1e30), x));
    return MMIXI_FMA(x, bell * MMIXI_SET(0.39894228040143268), tail);
}
MMIXI_VECTOR(softplus_slope_v)(MMIXI_V x)
{
    return MMIXI_IF_LESS(MMIXI_SET(20), x, MMIXI_SET(1), MMIXI_NAME(sigmoid_v)(x));
}

/* ---- rows ---- */

MMIXI_KERNEL(mmix_real, dot)
{
    size_t half = MMIXI_HALF(n);
    if (n > MMIXI_LONG) return MMIXI_NAME(dot)(half, x, y) + MMIXI_NAME(dot)(n - half, x + half, y + half);
    MMIXI_PARTS(4, 0, MMIXI_FMA(MMIXI_AT(x), MMIXI_AT(y), s[j]))
    return MMIXI_NAME(lanes_sum)((s[0] + s[1]) + (s[2] + s[3]));
}
MMIXI_KERNEL(mmix_real, sum)
{
    size_t half = MMIXI_HALF(n);
    if (n > MMIXI_LONG) return MMIXI_NAME(sum)(half, x) + MMIXI_NAME(sum)(n - half, x + half);
    MMIXI_PARTS(4, 0, s[j] + MMIXI_AT(x))
    return MMIXI_NAME(lanes_sum)((s[0] + s[1]) + (s[2] + s[3]));
}
MMIXI_KERNEL(mmix_real, largest)
{
    MMIXI_PARTS(2, -HUGE_VAL, MMIXI_MAX(s[j], MMIXI_PICKT(t, MMIXI_AT(x), MMIXI_SET(-HUGE_VAL))))
    return MMIXI_NAME(lanes_max)(MMIXI_MAX(s[0], s[1]));
}
MMIXI_VECTOR(add_square)(MMIXI_V s, MMIXI_V d) { return MMIXI_FMA(d, d, s); }
MMIXI_KERNEL(mmix_real, variance)
{
    const MMIXI_V vmean = MMIXI_SET(mean);
    size_t half = MMIXI_HALF(n);
    if (n > MMIXI_LONG)
        return MMIXI_NAME(variance)(half, x, mean) + MMIXI_NAME(variance)(n - half, x + half, mean);
    MMIXI_PARTS(2, 0, MMIXI_NAME(add_square)(s[j], MMIXI_PICKT(t, MMIXI_AT(x), vmean) - vmean))
    return MMIXI_NAME(lanes_sum)(s[0] + s[1]);
}

#define MMIXI_MAP(name, y, f) MMIXI_KERNEL(void, name) { MMIXI_EACH(MMIXI_TO(y, f);); }
MMIXI_MAP(axpy, y, MMIXI_FMA(MMIXI_SET(a), MMIXI_AT(x), MMIXI_AT(y)))
MMIXI_MAP(scale, y, MMIXI_SET(a) * MMIXI_AT(x))
MMIXI_MAP(lerp, y, MMIXI_FMA(MMIXI_SET(a), MMIXI_AT(y), MMIXI_SET(1 - a) * MMIXI_AT(x)))
MMIXI_MAP(add, z, MMIXI_AT(x) + MMIXI_AT(y))
MMIXI_MAP(mul, z, MMIXI_AT(x) * MMIXI_AT(y))
MMIXI_MAP(mul_add, z, MMIXI_FMA(MMIXI_AT(x), MMIXI_AT(y), MMIXI_AT(z)))
MMIXI_MAP(exp_each, y, MMIXI_NAME(exp_v)(MMIXI_AT(x)))
MMIXI_MAP(silu, y, MMIXI_NAME(silu_v)(MMIXI_AT(x)))
MMIXI_MAP(gelu, y, MMIXI_NAME(gelu_v)(MMIXI_AT(x)))
MMIXI_MAP(softplus, y, MMIXI_NAME(softplus_v)(MMIXI_AT(x)))
#define MMIXI_MAP_BACK(name, d)                                                                              \
    MMIXI_KERNEL(void, name)                                                                                 \
    {                                                                                                        \
        MMIXI_EACH(                                                                                          \
            MMIXI_V dv = d;                                                                                  \
            if (add) dv += MMIXI_AT(dx);                                                                     \
            MMIXI_TO(dx, dv);                                                                                \
        );                                                                                                   \
    }
MMIXI_MAP_BACK(silu_backward, MMIXI_AT(dy) * MMIXI_NAME(silu_slope_v)(MMIXI_AT(x)))
MMIXI_MAP_BACK(gelu_backward, MMIXI_AT(dy) * MMIXI_NAME(gelu_slope_v)(MMIXI_AT(x)))
MMIXI_MAP_BACK(softplus_backward, MMIXI_AT(dy) * MMIXI_NAME(softplus_slope_v)(MMIXI_AT(x)))
MMIXI_MAP_BACK(softmax_backward, MMIXI_AT(y) * (MMIXI_AT(dy) - MMIXI_SET(along)))
#undef MMIXI_MAP
#undef MMIXI_MAP_BACK

MMIXI_KERNEL(void, finish)
{
    const MMIXI_V a = MMIXI_SET(scale);
    MMIXI_EACH(
        MMIXI_V v = MMIXI_AT(z);
        if (residual) v = MMIXI_FMA(v, a, MMIXI_AT(residual));
        else v = v * a;
        MMIXI_TO(z, v);
    );
}

MMIXI_KERNEL(mmix_real, exp_row)
{
    const MMIXI_V a = MMIXI_SET(scale), b = MMIXI_SET(-shift);
    size_t half = MMIXI_HALF(n);
    MMIXI_V sum = MMIXI_SET(0);
    if (n > MMIXI_LONG) {
        mmix_real first = MMIXI_NAME(exp_row)(half, scale, x, shift, y);
        return first + MMIXI_NAME(exp_row)(n - half, scale, x + half, shift, y + half);
    }
    MMIXI_EACH(
        const MMIXI_V e = MMIXI_NAME(exp_down_v)(MMIXI_FMA(a, MMIXI_AT(x), b));
        MMIXI_TO(y, e);
        sum += MMIXI_PICKT(t, e, MMIXI_SET(0));
    );
    return MMIXI_NAME(lanes_sum)(sum);
}

/* Short rows stay in registers from the first pass, for the maximum, to the last. */
MMIXI_KERNEL(void, softmax)
{
    enum { SHORT = 4 };
    const MMIXI_V least = MMIXI_SET(-HUGE_VAL);
    MMIXI_V v[SHORT], top = least, sum = MMIXI_SET(0);
    if (MMIXI_W == 1 || n > SHORT * MMIXI_W) {
        mmix_real s = MMIXI_NAME(exp_row)(n, 1, x, MMIXI_NAME(largest)(n, x), y);
        MMIXI_NAME(scale)(n, 1 / s, y, y);
        return;
    }
#define MMIXI_SHORT_TAIL(j) MMIXI_TAIL(n > j * MMIXI_W ? n - j * MMIXI_W : 0)
    MMIXI_UNROLL
    for (size_t j = 0; j < SHORT; j++) {
        const MMIXI_T t = MMIXI_SHORT_TAIL(j);
        v[j] = MMIXI_PICKT(t, MMIXI_LOADM(t, x + j * MMIXI_W), least);
        top = MMIXI_MAX(top, v[j]);
    }
    top = MMIXI_SET(MMIXI_NAME(lanes_max)(top));
    MMIXI_UNROLL
    for (size_t j = 0; j < SHORT; j++) {
        v[j] = MMIXI_NAME(exp_down_v)(v[j] - top);
        sum += v[j];
    }
    sum = MMIXI_SET(1 / MMIXI_NAME(lanes_sum)(sum));
    MMIXI_UNROLL
    for (size_t j = 0; j < SHORT; j++) {
        const MMIXI_T t = MMIXI_SHORT_TAIL(j);
        MMIXI_STORET(t, y + j * MMIXI_W, v[j] * sum);
    }
#undef MMIXI_SHORT_TAIL
}

MMIXI_KERNEL(void, normalise)
{
    const MMIXI_V vmean = MMIXI_SET(mean), vrstd = MMIXI_SET(rstd);
    MMIXI_EACH(
        MMIXI_V v = (MMIXI_AT(x) - vmean) * vrstd;
        if (w) v *= MMIXI_AT(w);
        if (b) v += MMIXI_AT(b);
        MMIXI_TO(y, v);
    );
}
MMIXI_KERNEL(void, normalise_sums)
{
    const MMIXI_V vmean = MMIXI_SET(mean);
    MMIXI_V s = MMIXI_SET(0), sx = s;
    MMIXI_EACH(
        MMIXI_V d = MMIXI_AT(dy);
        if (w) d *= MMIXI_AT(w);
        s += d;
        sx = MMIXI_FMA(d, MMIXI_AT(x) - vmean, sx);
    );
    *g = MMIXI_NAME(lanes_sum)(s); *gx = MMIXI_NAME(lanes_sum)(sx) * rstd;
}
MMIXI_KERNEL(void, normalise_backward)
{
    const MMIXI_V vmean = MMIXI_SET(mean), vrstd = MMIXI_SET(rstd);
    const MMIXI_V vg = MMIXI_SET(g_mean), vgx = MMIXI_SET(-gx_mean);
    MMIXI_EACH(
        MMIXI_V d = MMIXI_AT(dy);
        const MMIXI_V xhat = (MMIXI_AT(x) - vmean) * vrstd;
        if (dw) MMIXI_TO(dw, MMIXI_FMA(d, xhat, MMIXI_AT(dw)));
        if (db) MMIXI_TO(db, d + MMIXI_AT(db));
        if (w) d *= MMIXI_AT(w);
        d = vrstd * MMIXI_FMA(xhat, vgx, d - vg);
        if (add) d += MMIXI_AT(dx);
        MMIXI_TO(dx, d);
    );
}

MMIXI_KERNEL(void, ssd_row)
{
    const MMIXI_V ve = MMIXI_SET(e), least = MMIXI_SET(1.8048513878454153e-35);                  /* e^-80 */
    MMIXI_EACH(
        MMIXI_V d = ve * MMIXI_AT(before);
        d = MMIXI_IF_LESS(d, least, MMIXI_SET(0), d);
        MMIXI_TO(decay, d);
        MMIXI_TO(weight, d * MMIXI_AT(score) * MMIXI_AT(dt));
    );
}
MMIXI_KERNEL(mmix_real, ssd_row_backward)
{
    MMIXI_V sum = MMIXI_SET(0);
    MMIXI_EACH(
        const MMIXI_V u = MMIXI_AT(dweight) * MMIXI_AT(decay), vdt = MMIXI_AT(dt);
        const MMIXI_V c = MMIXI_FMA(u, MMIXI_AT(score), MMIXI_AT(column));
        MMIXI_TO(dscore, MMIXI_FMA(u, vdt, MMIXI_AT(dscore)));
        MMIXI_TO(column, c);
        sum = MMIXI_FMA(c, vdt, sum);
    );
    return MMIXI_NAME(lanes_sum)(sum);
}
MMIXI_KERNEL(void, ssd_step)
{
    const MMIXI_V ve = MMIXI_SET(e);
    size_t n = N;                                /* of MMIXI_EACH */
    for (size_t p = 0; p < P; p++, h += N) {
        const MMIXI_V vx = MMIXI_SET(x[p]);
        MMIXI_V sum = MMIXI_SET(0);
        MMIXI_EACH(
            const MMIXI_V v = MMIXI_FMA(vx, MMIXI_AT(b), ve * MMIXI_AT(h));
            MMIXI_TO(h, v);
            sum = MMIXI_FMA(MMIXI_PICKT(t, v, MMIXI_SET(0)), MMIXI_AT(c), sum);    /* ∞ times 0 beside N */
        );
        y[p] = MMIXI_NAME(lanes_sum)(sum);
    }
}

MMIXI_KERNEL(void, conv)
{
    MMIXI_EACH(
        MMIXI_V v = MMIXI_SET(0);
        if (bias) v = MMIXI_AT(bias);
        for (size_t k = 0; k < taps; k++) if (x[k]) v = MMIXI_FMA(MMIXI_AT(x[k]), MMIXI_AT(w + k * ldw), v);
        MMIXI_TO(u, v);
    );
}
MMIXI_KERNEL(void, conv_weight)
{
    MMIXI_EACH(
        const MMIXI_V d = MMIXI_AT(du);
        MMIXI_TO(db, d + MMIXI_AT(db));
        for (size_t k = 0; k < taps; k++)
            if (x[k]) MMIXI_TO(dw + k * ldw, MMIXI_FMA(d, MMIXI_AT(x[k]), MMIXI_AT(dw + k * ldw)));
    );
}

MMIXI_KERNEL(void, adamw)
{
    MMIXI_EACH(
        const MMIXI_V d = MMIXI_AT(g) * MMIXI_SET(clip);
        const MMIXI_V m1 = MMIXI_FMA(MMIXI_SET(b1), MMIXI_AT(mo), MMIXI_SET(1 - b1) * d);
        const MMIXI_V m2 = MMIXI_FMA(MMIXI_SET(b2), MMIXI_AT(v), MMIXI_SET(1 - b2) * (d * d));
        const MMIXI_V root_m2 = MMIXI_FMA(MMIXI_SQRT(m2), MMIXI_SET(root), MMIXI_SET(eps));
        const MMIXI_V step = MMIXI_SET(rate) * m1 / root_m2;
        MMIXI_TO(mo, m1);
        MMIXI_TO(v, m2);
        MMIXI_TO(p, MMIXI_FMA(MMIXI_AT(p), MMIXI_SET(keep), MMIXI_SET(0) - step));
    );
}

/* ---- blocks ---- */

#if MMIXI_LEVEL == 2 || MMIXI_LEVEL == 512
/* 8 x 8 in registers: interleave pairs of rows, then pairs of pairs, then exchange the halves. */
MMIXI_INLINE void MMIXI_NAME(transpose_8)(const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    __m256 r[8], s[8];
    MMIXI_UNROLL
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(x + i * ldx);
    MMIXI_UNROLL
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    MMIXI_UNROLL
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
    MMIXI_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(y + i * ldy, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(y + (i + 4) * ldy, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#elif MMIXI_LEVEL == 128
/* Four times 4 x 4 in registers: single lanes change between pairs of rows, then halves between two pairs. */
MMIXI_INLINE void MMIXI_NAME(transpose_8)(const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    for (int part = 0; part < 4; part++) {
        const float *from = x + part / 2 * 4 * ldx + part % 2 * 4;
        float *to = y + part % 2 * 4 * ldy + part / 2 * 4;
        const float32x4x2_t s = vtrnq_f32(vld1q_f32(from), vld1q_f32(from + ldx));
        const float32x4x2_t t = vtrnq_f32(vld1q_f32(from + 2 * ldx), vld1q_f32(from + 3 * ldx));
        for (int i = 0; i < 2; i++) {
            vst1q_f32(to + i * ldy, vcombine_f32(vget_low_f32(s.val[i]), vget_low_f32(t.val[i])));
            vst1q_f32(to + (2 + i) * ldy, vcombine_f32(vget_high_f32(s.val[i]), vget_high_f32(t.val[i])));
        }
    }
}
#endif

MMIXI_KERNEL(void, transpose)
{
    ptrdiff_t R = (ptrdiff_t)rows, C = (ptrdiff_t)cols;
    ptrdiff_t R8 = 0, C8 = 0;                    /* what transpose_8 does of it */
#if MMIXI_W > 1
    R8 = R - R % 8; C8 = C - C % 8;
    for (ptrdiff_t j16 = 0; j16 < C8; j16 += 16)                 /* 16: both halves of a cache line of x */
        for (ptrdiff_t i = 0; i < R8; i += 8)
            for (ptrdiff_t j = j16; j < C8 && j < j16 + 16; j += 8)
                MMIXI_NAME(transpose_8)(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
#endif
    for (ptrdiff_t j = 0; j < C; j++)
        for (ptrdiff_t i = j < C8 ? R8 : 0; i < R; i++) y[j * ldy + i] = x[i * ldx + j];
}

/* The tile. rows and vecs are constants wherever this is inlined, so that s stays in registers; ragged says
   that the last vector of each row may not be whole. */
MMIXI_INLINE void MMIXI_NAME(tile_of)(const size_t rows, const size_t vecs, const int ragged,
                                      const mmixi_mat *c, const mmixi_mat *a, const mmixi_mat *b, int add,
                                      const mmix_real *bias)
{
    MMIXI_V s[MMIXI_MR][MMIXI_NV], vb[MMIXI_NV];
    const MMIXI_T t = MMIXI_TAIL(c->cols - (vecs - 1) * MMIXI_W);
    const mmix_real *from = a->p, *row = b->p;
    ptrdiff_t ars = a->rs, acs = a->cs, ldb = b->rs, ldc = c->rs;
    mmix_real *to = c->p;
#define MMIXI_VEC(p) \
    (ragged && j + 1 == vecs ? MMIXI_LOADM(t, (p) + j * MMIXI_W) : MMIXI_LOAD((p) + j * MMIXI_W))
    MMIXI_UNROLL
    for (size_t j = 0; j < vecs; j++) {          /* the sums begin with the bias */
        MMIXI_V start = MMIXI_SET(0);
        if (bias) start = MMIXI_VEC(bias);
        MMIXI_UNROLL
        for (size_t i = 0; i < rows; i++) s[i][j] = start;
    }
    for (size_t k = 0, depth = a->cols; k < depth; k++, from += acs, row += ldb) {
        /* a new panel is far away: on Sapphire Rapids 3 to 8 % of a large product */
        for (size_t j = 0; j < vecs; j++) MMIXI_FETCH(row + 16 * ldb + j * MMIXI_W);
        MMIXI_UNROLL
        for (size_t j = 0; j < vecs; j++) vb[j] = MMIXI_VEC(row);
        MMIXI_UNROLL
        for (size_t i = 0; i < rows; i++) {
            const MMIXI_V va = MMIXI_SET(from[(ptrdiff_t)i * ars]);
            MMIXI_UNROLL
            for (size_t j = 0; j < vecs; j++) s[i][j] = MMIXI_FMA(va, vb[j], s[i][j]);
        }
    }
    if (add) {
        const mmix_real *old = to;
        MMIXI_UNROLL
        for (size_t i = 0; i < rows; i++, old += ldc)
            MMIXI_UNROLL
            for (size_t j = 0; j < vecs; j++) s[i][j] += MMIXI_VEC(old);
    }
    MMIXI_UNROLL
    for (size_t i = 0; i < rows; i++, to += ldc) {
        MMIXI_UNROLL
        for (size_t j = 0; j < vecs; j++)
            if (ragged && j + 1 == vecs) MMIXI_STOREM(t, to + j * MMIXI_W, s[i][j]);
            else MMIXI_STORE(to + j * MMIXI_W, s[i][j]);
    }
#undef MMIXI_VEC
}

MMIXI_KERNEL(void, tile)
{
    switch (c->rows * 4 + (c->cols + MMIXI_W - 1) / MMIXI_W) {
    /* where masks cost nothing, or there are none, one form does for whole and ragged tiles */
#define MMIXI_TILE(r, v)                                                                                     \
    case r * 4 + v:                                                                                          \
        if (r > MMIXI_MR || v > MMIXI_NV) break;                                                             \
        if (MMIXI_W != 1 && MMIXI_W != 16 && c->cols == v * MMIXI_W)                                         \
            MMIXI_NAME(tile_of)(r, v, 0, c, a, b, add, bias);                                                \
        else MMIXI_NAME(tile_of)(r, v, MMIXI_W > 1, c, a, b, add, bias);                                     \
        break;
#define MMIXI_TILES(r) MMIXI_TILE(r, 1) MMIXI_TILE(r, 2) MMIXI_TILE(r, 3)
    MMIXI_TILES(1) MMIXI_TILES(2) MMIXI_TILES(3) MMIXI_TILES(4)
    MMIXI_TILES(5) MMIXI_TILES(6) MMIXI_TILES(7) MMIXI_TILES(8)
#undef MMIXI_TILE
#undef MMIXI_TILES
    default: break;
    }
}

/* A function, not a constant: a table of addresses would be data that the loader writes. */
static void MMIXI_NAME(fill)(mmixi_kernels *k)
{
#define MMIXI_ENTRY(name) k->name = MMIXI_NAME(name);
    strcpy(k->name, MMIXI_STRING(MMIXI_LEVEL_NAME));
    k->mr = MMIXI_MR; k->nr = MMIXI_NV * MMIXI_W; k->lanes = MMIXI_W;
    MMIXI_KERNELS(MMIXI_ENTRY, MMIXI_ENTRY)
#undef MMIXI_ENTRY
}

#undef MMIXI_LEVEL_NAME
#undef MMIXI_TARGET
#undef MMIXI_W
#undef MMIXI_MR
#undef MMIXI_NV
#undef MMIXI_V
#undef MMIXI_T
#undef MMIXI_ALL
#undef MMIXI_TAIL
#undef MMIXI_EXP_LEAST
#undef MMIXI_EXP_MOST
#undef MMIXI_MASK
#undef MMIXI_LOAD
#undef MMIXI_STORE
#undef MMIXI_LOADM
#undef MMIXI_STOREM
#undef MMIXI_PICKM
#undef MMIXI_SET
#undef MMIXI_FMA
#undef MMIXI_MIN
#undef MMIXI_MAX
#undef MMIXI_SQRT
#undef MMIXI_IF_LESS
#undef MMIXI_TIMES_2N
#undef MMIXI_LEVEL
#endif /* MMIXI_LEVEL */

#if defined(MAMBA_MIX_IMPLEMENTATION) && !defined(MMIXI_SECOND_HALF)
#define MMIXI_SECOND_HALF                        /* goes on; no inclusion for a level comes here */

#ifndef MMIX_SELF
#define MMIX_SELF "mamba_mix.h"                  /* this file's name, if you gave it another */
#endif

/* Short loops that cross a cache line are up to a fifth slower: one line each. And here gcse brings 2 %. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("align-loops=64", "gcse")
#endif
#define MMIXI_LEVEL 0
#include MMIX_SELF
#ifdef MMIXI_X86
#define MMIXI_LEVEL 2
#include MMIX_SELF
#define MMIXI_LEVEL 512
#include MMIX_SELF
#endif
#ifdef MMIXI_ARM
#define MMIXI_LEVEL 128
#include MMIX_SELF
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

MMIXI_MATH mmix_real mmixi_exp_real(mmix_real x) { return mmixi_exp_v_none(x); }

/* The table for a level of mmix_options, or for the next lower one that this machine has. */
static void mmixi_kernels_fill(mmixi_kernels *k, int simd)
{
    int all = simd == MMIX_SIMD_AUTO;
#if defined(MMIXI_X86) || defined(MMIXI_ARM)
    const char *word = all ? getenv("MMIX_SIMD") : NULL;
    if (word && !strcmp(word, "none")) all = 0;
    if (word && !strcmp(word, "avx2")) all = 0, simd = MMIX_SIMD_AVX2;
#endif
#ifdef MMIXI_ARM
    if (all || simd == MMIX_SIMD_NEON) mmixi_fill_neon(k);
    else
#endif
#ifdef MMIXI_X86
    all |= simd == MMIX_SIMD_AVX512;
    __builtin_cpu_init();
    if (all && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("bmi2")) mmixi_fill_avx512(k);
    else if ((all || simd == MMIX_SIMD_AVX2) && __builtin_cpu_supports("avx2")
             && __builtin_cpu_supports("fma")) mmixi_fill_avx2(k);
    else
#endif
    mmixi_fill_none(k);
    (void)all;
}

/* ==== >>gemm =========================================================================
   c = or += a b, rows x depth times depth x cols

   Goto & van de Geijn 2008, "Anatomy of high-performance matrix multiplication". The plain form is three
   loops:

       for (i < rows) for (j < cols) for (k < depth) c[i][j] += a[i][k] * b[k][j];

   depth is cut into blocks, cols into panels of at most nr, rows into tiles of at most mr; the tile kernel
   keeps its part of c in registers while it runs down one block of depth. b is copied panel by panel where
   that pays (always if its rows are not contiguous), once for all threads, or once for many products
   (packed_b). a is mostly read where it lies. However they are cut, each element of c is summed in order of
   k: any number of threads gives the same bits. Measured: 92 to 99 % of one Zen 4 core's peak on the
   shapes of a ViT, 64 x 64 x 64 in 5 microseconds.
   ==================================================================================== */

/* c = or += a b + bias, then what a layer does to it. c's rows are contiguous; a and b have any strides. */
typedef struct mmixi_gemm {
    mmixi_mat c, a, b;
    int add;                                     /* 0: nothing of c is read */
    const mmix_real *bias;                       /* (cols), or NULL */
    /* NULL, or (with add 0) c = residual + row_scale[…] (a b + bias) */
    const mmix_real *residual; ptrdiff_t ldr;
    const mmix_real *row_scale; size_t rows_per_scale;   /* row_scale[row / rows_per_scale]; NULL: 1 */
    int gelu;                                    /* at last c = gelu(c) */
    const mmix_real *packed_b;                   /* NULL, or what mmixi_gemm_pack made of b, read instead */
    const uint16_t *half;                        /* NULL, or b as bf16 in place of b.p, widened in packing */
} mmixi_gemm;

/* In debugging builds products of sizes that do not fit stop at once. */
static void mmixi_fit(mmixi_mat c, mmixi_mat a, mmixi_mat b)
{
#ifdef MMIX_REGRESSION
    if (c.rows != a.rows || c.cols != b.cols || a.cols != b.rows || c.cs != 1) abort();
#endif
    (void)c, (void)a, (void)b;
}
static inline mmixi_gemm mmixi_product_of(mmixi_mat c, mmixi_mat a, mmixi_mat b, int add)
{
    mmixi_gemm g = { c, a, b, add, NULL, NULL, 0, NULL, 0, 0, NULL, NULL };
    mmixi_fit(c, a, b);
    return g;
}

static inline float mmixi_bf16(uint16_t half)
{
    union { uint32_t bits; float f; } u;
    u.bits = (uint32_t)half << 16;
    return u.f;
}

/* Cuts: depth of a block (b's panel of it stays in L2, a's tile in L1); rows and panels of a task;
   multiply-adds of the least task worth a thread. From WIDE elements of c on plain b is packed too; before,
   far rows cost less than the copy, unless they are a multiple of APART reals apart: then a panel's column
   falls into a few sets of the nearest cache. */
enum { MMIXI_KC = MMIXI_SIZE(384, 5), MMIXI_MC = MMIXI_SIZE(128, 16), MMIXI_NC = MMIXI_SIZE(16, 2),
      MMIXI_TASK_WORK = MMIXI_SIZE(1 << 20, 1), MMIXI_WIDE = MMIXI_SIZE(1 << 19, 5000),
      MMIXI_APART = MMIXI_SIZE(256, 16) };

/* Where part i of n begins when `total` is cut as evenly as possible, the larger parts first. A small product
   has few steps for each division: the ends, and so all of one part, do without. */
static inline size_t mmixi_cut(size_t total, size_t i, size_t n)
{
    return i == 0 ? 0 : i == n ? total : total / n * i + mmixi_min(total % n, i);
}
/* Part i of n: its size; *at is where it begins. */
static inline size_t mmixi_span(size_t total, size_t i, size_t n, size_t *at)
{
    *at = mmixi_cut(total, i, n);
    return mmixi_cut(total, i + 1, n) - *at;
}

/* Panels of b: whole vectors, as equal as possible (64 = 32 + 32, not 48 + 16). */
static inline size_t mmixi_panels(const mmixi_kernels *k, size_t cols) { return mmixi_ceil_div(cols, k->nr); }
static inline size_t mmixi_panel(const mmixi_kernels *k, size_t cols, size_t p)
{
    return mmixi_cut(mmixi_ceil_div(cols, k->lanes), p, mmixi_panels(k, cols)) * k->lanes;
}
static inline size_t mmixi_depths(size_t depth) { return depth ? mmixi_ceil_div(depth, MMIXI_KC) : 1; }
/* Packed b: for each block of depth, for each panel, depth rows of the panel's width (whole vectors). */
static inline size_t mmixi_gemm_packed(const mmixi_kernels *k, size_t depth, size_t cols)
{
    return depth * mmixi_round_up(cols, k->lanes);
}

/* a or c may be triangular: its other half is neither read nor written but in tiles on the diagonal. */
enum { MMIXI_WHOLE, MMIXI_LOWER_A, MMIXI_UPPER_A, MMIXI_LOWER_C };
/* Panels first … last - 1 of c = or += a b + bias (cols, or NULL). packed: NULL, or what b is read from;
   copy: NULL, or room for one block of a, whose columns are contiguous. */
static void mmixi_gemm_panels(const mmixi_kernels *k, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add,
                              const mmix_real *bias, size_t first, size_t last, const mmix_real *packed,
                              mmix_real *copy, int triangle)
{
    size_t rows = c.rows, tiles = mmixi_ceil_div(rows, k->mr), height = rows / tiles, higher = rows % tiles,
        cols = c.cols, vectors = mmixi_ceil_div(cols, k->lanes), panels = mmixi_panels(k, cols),
        depths = mmixi_depths(a.cols);
    for (size_t d = 0, k0; d < depths; d++, add = 1, bias = NULL) {
        size_t depth = mmixi_span(a.cols, d, depths, &k0);
        mmixi_mat block = mmixi_part(a, 0, k0, rows, depth);
        if (copy) {
            for (size_t l = 0; l < depth; l++)
                memcpy(copy + l * rows, block.p + (ptrdiff_t)l * a.cs, rows * sizeof *copy);
            block = mmixi_t(mmixi_matrix(copy, depth, rows, (ptrdiff_t)rows));
        }
        for (size_t p = first, j = mmixi_panel(k, cols, first), end; p < last; p++, j = end) {
            end = mmixi_min(mmixi_cut(vectors, p + 1, panels) * k->lanes, cols);
            const mmix_real *part = packed ? packed + mmixi_gemm_packed(k, k0, cols) + j * depth
                : b.p + (ptrdiff_t)k0 * b.rs + (ptrdiff_t)j;
            mmixi_mat to = mmixi_matrix(c.p, 0, end - j, c.rs), from = block, panel = mmixi_matrix(part, 0, 0,
                packed ? (ptrdiff_t)mmixi_round_up(end - j, k->lanes) : b.rs);
            for (size_t t = 0, i = 0, next; t < tiles; i = next) {
                next = i + height + (t++ < higher);
                size_t begin = triangle == MMIXI_UPPER_A && i > k0 ? mmixi_min(i - k0, depth) : 0;
                size_t stop = triangle != MMIXI_LOWER_A ? depth : next > k0 ? mmixi_min(next - k0, depth) : 0;
                to.p = c.p + (ptrdiff_t)i * c.rs + (ptrdiff_t)j; to.rows = next - i;
                if (triangle == MMIXI_LOWER_C) to.cols = next > j ? mmixi_min(next, end) - j : 0;
                from.p = block.p + (ptrdiff_t)i * block.rs + (ptrdiff_t)begin * block.cs;
                from.cols = stop - begin;
                panel.p = mmixi_matrix(part, 0, 0, 0).p + (ptrdiff_t)begin * panel.rs;
                if (to.cols) k->tile(&to, &from, &panel, add, bias ? bias + j : NULL);
            }
        }
    }
}

/* For use inside tasks: c = or += a b without threads or packing; the rows of b and c are contiguous. */
static inline void mmixi_multiply_part(const mmixi_kernels *k, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add,
                                       int triangle)
{
    mmixi_fit(c, a, b);
    if (c.rows && c.cols)
        mmixi_gemm_panels(k, c, a, b, add, NULL, 0, mmixi_panels(k, c.cols), NULL, NULL, triangle);
}
static inline void mmixi_multiply(const mmixi_kernels *k, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add)
{
    mmixi_multiply_part(k, c, a, b, add, MMIXI_WHOLE);
}
typedef struct mmixi_gemm_plan {
    const mmixi_kernels *k;
    mmixi_gemm g;
    mmix_real *packed, *copy;                    /* of b, in each lane of a block of a; or NULL */
    int dots;                                    /* a row or two times columns of b: dot products */
    size_t row_parts, panel_parts;
} mmixi_gemm_plan;

static void mmixi_gemm_pack_task(void *arg, mmixi_range range)
{
    const mmixi_gemm_plan *plan = (const mmixi_gemm_plan *)arg;
    mmixi_mat b = plan->g.b;
    size_t depths = mmixi_depths(b.rows), panels = mmixi_panels(plan->k, b.cols);
    size_t k0, p, depth = mmixi_span(b.rows, range.begin % depths, depths, &k0);
    size_t left = mmixi_span(panels, range.begin / depths, plan->panel_parts, &p);
    for (; left > 0; left--, p++) {
        size_t j = mmixi_panel(plan->k, b.cols, p), ld = mmixi_panel(plan->k, b.cols, p + 1) - j;
        size_t width = mmixi_min(ld, b.cols - j);
        const mmix_real *from = plan->g.half ? NULL : mmixi_part(b, k0, j, depth, width).p;
        mmix_real *to = plan->packed + mmixi_gemm_packed(plan->k, k0, b.cols) + j * depth;
        if (!from)
            for (size_t top = 0; top < depth; top += 32)         /* so few rows of the panel stay in L1 */
                for (size_t w = 0; w < width; w++) {
                    const uint16_t *half = plan->g.half + (ptrdiff_t)k0 * b.rs + (ptrdiff_t)(j + w) * b.cs;
                    for (size_t i = top; i < mmixi_min(top + 32, depth); i++)
                        to[i * ld + w] = mmixi_bf16(half[(ptrdiff_t)i * b.rs]);
                }
        else if (b.rs == 1 && b.cs != 1) plan->k->transpose(width, depth, from, b.cs, to, (ptrdiff_t)ld);
        else
            for (size_t i = 0; i < depth; i++, from += b.rs, to += ld) {
                if (b.cs == 1) memcpy(to, from, width * sizeof *to);
                else for (size_t w = 0; w < width; w++) to[w] = from[(ptrdiff_t)w * b.cs];
            }
    }
}

/* Packs b, mmixi_gemm_packed(k, depth, cols) reals. */
static void mmixi_gemm_pack(mmix_ctx *m, const mmixi_gemm *g, mmix_real *to)
{
    mmixi_gemm_plan plan = { m->k, *g, to, NULL, 0, 0, mmixi_ceil_div(mmixi_panels(m->k, g->b.cols), 4) };
    if (!g->b.cols || !g->b.rows) return;
    mmixi_ranges(m, mmixi_depths(g->b.rows) * plan.panel_parts, 1, mmixi_gemm_pack_task, &plan);
}

static void mmixi_gemm_task(void *arg, mmixi_range range)
{
    const mmixi_gemm_plan *plan = (const mmixi_gemm_plan *)arg;
    const mmixi_kernels *k = plan->k;
    const mmixi_gemm *g = &plan->g;
    size_t cols = g->c.cols, panels = mmixi_panels(k, cols);
    size_t at, first;
    size_t tiles = mmixi_span(mmixi_ceil_div(g->c.rows, k->mr), range.begin % plan->row_parts,
                              plan->row_parts, &at);
    size_t rows = mmixi_min(tiles * k->mr, g->c.rows - (at *= k->mr));
    size_t last = mmixi_span(panels, range.begin / plan->row_parts, plan->panel_parts, &first) + first;
    size_t j0 = mmixi_panel(k, cols, first), j1 = mmixi_min(mmixi_panel(k, cols, last), cols);
    mmixi_mat c = mmixi_part(g->c, at, 0, rows, cols), a = mmixi_part(g->a, at, 0, rows, g->a.cols);
    if (!plan->dots)
        mmixi_gemm_panels(k, c, a, g->b, g->add, g->bias, first, last, plan->packed,
                          plan->copy ? plan->copy + range.lane * MMIXI_MC * MMIXI_KC : NULL, MMIXI_WHOLE);
    else
        for (size_t j = j0; j < j1; j++)
            for (size_t i = 0; i < rows; i++) {
                mmix_real *to = c.p + (ptrdiff_t)i * c.rs + (ptrdiff_t)j;
                mmix_real dot = k->dot(a.cols, a.p + (ptrdiff_t)i * a.rs, g->b.p + (ptrdiff_t)j * g->b.cs);
                if (g->bias) dot += g->bias[j];
                *to = g->add ? *to + dot : dot;
            }
    for (size_t i = 0; i < rows && (g->residual || g->row_scale || g->gelu); i++) {
        mmix_real scale = g->row_scale ? g->row_scale[(at + i) / g->rows_per_scale] : (mmix_real)1;
        mmix_real *row = c.p + (ptrdiff_t)i * c.rs + (ptrdiff_t)j0;
        const mmix_real *residual = !g->residual ? NULL
            : g->residual + (ptrdiff_t)(at + i) * g->ldr + (ptrdiff_t)j0;
        if (residual || g->row_scale) k->finish(j1 - j0, scale, residual, row);
        if (g->gelu) k->gelu(j1 - j0, row, row);
    }
}

/* Where a has few rows what is packed of b can be much more than a and c: pieces of at most so many reals a
   thread. */
enum { MMIXI_PACK_ROWS = 512, MMIXI_PACK_MOST = MMIXI_SIZE(1 << 17, 1 << 8) };
/* 0, or -1 if there is no memory for packing. */
static int mmixi_gemm_run(mmix_ctx *m, const mmixi_gemm *g)
{
    size_t rows = g->c.rows, cols = g->c.cols, depth = g->a.cols;
    mmixi_mat a = g->a, b = g->b;
    mmix_mark mark = mmix_mark_here(m);
    int dots = !g->packed_b && !g->half && rows <= 2 && a.cs == 1 && b.rs == 1 && b.cs != 1;
    int pack = !g->packed_b && !dots && depth && (g->half || b.cs != 1 || b.rs == 0
        || (rows >= 64 && (rows * cols >= MMIXI_WIDE || b.rs % MMIXI_APART == 0)));
    /* a transposed: every tile would come back to each cache line of a, on as many pages as it is deep */
    int copy = a.rs == 1 && a.cs != 1 && rows >= MMIXI_MC / 2;
    size_t piece = cols, least = (copy ? 8 : 4) * m->k->mr;    /* few rows would copy a in crumbs */
    mmixi_gemm_plan plan = { m->k, *g, (mmix_real *)g->packed_b, NULL, dots, 0, 0 };
    if (!rows || !cols) return 0;
    if (pack) {
        size_t some = mmixi_round_up(MMIXI_PACK_MOST * m->lanes / depth + 1, m->k->nr);
        if (rows <= MMIXI_PACK_ROWS) piece = mmixi_min(cols, some);
        plan.packed = mmixi_reals(m, mmixi_gemm_packed(m->k, depth, piece), 1);
    }
    if (copy) plan.copy = mmixi_reals(m, m->lanes, MMIXI_MC * MMIXI_KC);
    if ((pack && !plan.packed) || (copy && !plan.copy)) {
        mmix_rewind(m, mark);
        return -1;
    }
    for (size_t at = 0; at < cols; at += piece) {
        size_t n = mmixi_min(piece, cols - at);
        plan.g.b = mmixi_part(b, 0, g->half ? 0 : at, depth, n);
        if (g->half) plan.g.half = g->half + (ptrdiff_t)at * b.cs;
        plan.g.c = mmixi_part(g->c, 0, at, rows, n);
        if (g->bias) plan.g.bias = g->bias + at;
        if (g->residual) plan.g.residual = g->residual + at;
        if (pack) mmixi_gemm_pack(m, &plan.g, plan.packed);
        /* tasks: at most MC rows, whole tiles, and NC panels; more and smaller ones where there is work */
        size_t panels = mmixi_panels(m->k, n);
        double work = (double)rows * (double)n * (double)(depth + 1) / (int)MMIXI_TASK_WORK;
        size_t want = (size_t)(work < 64 ? work : 64);
        plan.row_parts = mmixi_ceil_div(rows, MMIXI_MC / m->k->mr * m->k->mr);
        plan.panel_parts = mmixi_ceil_div(panels, MMIXI_NC);
        while (plan.row_parts * plan.panel_parts < want && plan.row_parts * least <= rows)
            plan.row_parts *= 2;
        while (plan.row_parts * plan.panel_parts < want && plan.panel_parts * 2 <= panels)
            plan.panel_parts *= 2;
        mmixi_ranges(m, plan.row_parts * plan.panel_parts, 1, mmixi_gemm_task, &plan);
    }
    mmix_rewind(m, mark);
    return 0;
}
/* c = or += a b by all threads. 0, or -1 if there is no memory for packing. */
MMIXI_MATH int mmixi_product(mmix_ctx *m, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add)
{
    mmixi_gemm g = mmixi_product_of(c, a, b, add);
    return mmixi_gemm_run(m, &g);
}

/* ==== >>tensors ======================================================================
   arrays with shapes, and the check of an op's arguments

   A tensor that an op returns owns a contiguous piece of step memory; a view has the strides of what it views
   and no gradient of its own.
   ==================================================================================== */

struct mmix_tensor {
    int dtype, ndim;
    size_t shape[MMIX_MAX_DIMS], stride[MMIX_MAX_DIMS];
    void *data;                                  /* of an owner; NULL when backward freed it */
    mmix_ctx *m;
    mmix_tensor *base;                           /* of a view: the tensor that owns the memory */
    size_t offset;                               /* of a view: elements from the base's first */
    mmix_real *grad;                             /* of an owner, contiguous */
    mmix_tensor *next_graded;                    /* in the context's list of leaves with a gradient */
    int wants;                                   /* a gradient: a leaf, or MMIXI_RECORDED an op's output */
    int written;                                 /* something is in the gradient; MMIXI_LENT: the caller's */
    mmix_real scalar;                            /* data of a single element: backward does not free it */
    unsigned char lasting,                       /* a parameter: any context may use it */
        where, grad_where;                       /* of an owner: MMIXI_HERE … */
    /* of a matrix in a packed list: what mmixi_gemm_pack made of its transpose with panels of packed_nr */
    const mmix_real *packed;
    size_t packed_nr;
    const mmix_lora *lora;                       /* of a weight: its adapter, or NULL */
};
static size_t mmixi_dtype_size(int dtype)
{
    return dtype == MMIX_DTYPE_REAL ? sizeof(mmix_real) : dtype == MMIX_DTYPE_I32 ? sizeof(int32_t)
        : dtype == MMIX_DTYPE_BF16 ? sizeof(uint16_t) : 1;
}
static mmix_tensor *mmixi_owner(const mmix_tensor *t) { return t->base ? t->base : (mmix_tensor *)t; }
/* An axis counted from the front, -1 if t has none such. */
static inline int mmixi_axis(const mmix_tensor *t, int axis)
{
    int a = t && axis < 0 ? axis + t->ndim : axis;
    return t && a >= 0 && a < t->ndim ? a : -1;
}
MMIXDEF int mmix_dtype(const mmix_tensor *t) { return t ? t->dtype : MMIX_DTYPE_REAL; }
MMIXDEF int mmix_ndim(const mmix_tensor *t) { return t ? t->ndim : 0; }
MMIXDEF size_t mmix_shape(const mmix_tensor *t, int axis)
{
    int a = mmixi_axis(t, axis);
    return a < 0 ? 0 : t->shape[a];
}
MMIXDEF size_t mmix_stride(const mmix_tensor *t, int axis)
{
    int a = mmixi_axis(t, axis);
    return a < 0 ? 0 : t->stride[a];
}
MMIXDEF size_t mmix_count(const mmix_tensor *t)
{
    size_t n = t ? 1 : 0;
    for (int i = 0; t && i < t->ndim; i++) n *= t->shape[i];
    return n;
}
static size_t mmixi_bytes(const mmix_tensor *t) { return mmix_count(t) * mmixi_dtype_size(t->dtype); }
/* Bytes of an owner, whose rows may have gaps behind them; 0 of one that never was. */
static size_t mmixi_held(const mmix_tensor *t)
{
    return (t->ndim ? t->shape[0] * t->stride[0] : t->data != NULL) * mmixi_dtype_size(t->dtype);
}
/* Numbers are up to date on the host, on both sides, or on the device. */
enum { MMIXI_HERE, MMIXI_BOTH, MMIXI_THERE };
enum { MMIXI_HOST = 1, MMIXI_KERNEL };
/* Copies an owner's values, or its gradient, to the side that asks, if they are not there. Where they are. */
static void *mmixi_bring(mmix_tensor *t, int gradient, int device)
{
    mmix_ctx *m = t->m;
    const mmix_device *d = &m->options.device;
    void *here = gradient ? t->grad : t->data, *there = mmixi_other(m, here, 1);
    unsigned char *where = gradient ? &t->grad_where : &t->where;
    if (here && *where == (device ? MMIXI_HERE : MMIXI_THERE)) {
        if (device ? d->put(d->user, there, here, mmixi_held(t))
            : d->get(d->user, here, there, mmixi_held(t)))
            mmix_fail(m, MMIX_ERROR_DEVICE, "the device's %s failed", device ? "put" : "get");
        *where = MMIXI_BOTH;
    }
    return device ? there : here;
}
/* Where an owner that has been on the device is read and, outside of ops, perhaps written. */
static char *mmixi_fetch(mmix_tensor *t)
{
    void *p = mmixi_bring(t, 0, t->m->inside == MMIXI_KERNEL);
    if (!t->m->inside) t->where = MMIXI_HERE;
    return (char *)p;
}
static inline void *mmixi_data(const mmix_tensor *t, int dtype)
{
    mmix_tensor *owner = t && t->dtype == dtype ? mmixi_owner(t) : NULL;
    char *data = !owner ? NULL : owner->where ? mmixi_fetch(owner) : (char *)owner->data;
    return data ? data + t->offset * mmixi_dtype_size(dtype) : NULL;
}
static const uint16_t *mmixi_halves(const mmix_tensor *t)
{
    return (const uint16_t *)mmixi_data(t, MMIX_DTYPE_BF16);
}
/* mmix_data wherever the numbers are. */
static inline mmix_real *mmixi_of(const mmix_tensor *t)
{
    return (mmix_real *)mmixi_data(t, MMIX_DTYPE_REAL);
}
MMIXDEF mmix_real *mmix_data(const mmix_tensor *t)
{
    return t && t->m->twins && !t->m->inside ? NULL : mmixi_of(t);
}
MMIXDEF int32_t *mmix_data_i32(const mmix_tensor *t) { return (int32_t *)mmixi_data(t, MMIX_DTYPE_I32); }

/* ---- making ---- */
/* Fills in dtype, shape and the strides of a contiguous tensor; the number of bytes, or 0 after an error. */
static size_t mmixi_describe(mmix_ctx *m, mmix_tensor *t, const char *who, int dtype, int ndim,
                             const size_t *shape)
{
    size_t bytes = mmixi_dtype_size(dtype);
    if (mmixi_within(m, who, "dtype (MMIX_DTYPE_…)", dtype, MMIX_DTYPE_REAL, MMIX_DTYPE_BF16)
        || mmixi_within(m, who, "the number of axes", ndim, 0, MMIX_MAX_DIMS)
        || (ndim && !shape && mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: shape is NULL", who))) return 0;
    t->m = m; t->dtype = dtype; t->ndim = ndim;
    for (int i = ndim; i-- > 0;) {
        t->shape[i] = shape[i]; t->stride[i] = bytes / mmixi_dtype_size(dtype);
        bytes = mmixi_mul(bytes, shape[i]);
        if (!bytes || bytes == SIZE_MAX) {
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: axis %d has size %.0f, expected 1 to what memory "
                      "has room for", who, i, (double)shape[i]);
            return 0;
        }
    }
    return bytes;
}
static mmix_tensor *mmixi_tensor(mmix_ctx *m) { return (mmix_tensor *)mmixi_header(m, sizeof(mmix_tensor)); }

/* A tensor on behalf of `who`, filled with `values` if there are any; NULL on error or while one is kept. */
static mmix_tensor *mmixi_new(mmix_ctx *m, const char *who, int dtype, int ndim, const size_t *shape,
                              const void *values)
{
    mmix_tensor *t = !m || m->error_kind ? NULL : mmixi_tensor(m);
    size_t bytes = t ? mmixi_describe(m, t, who, dtype, ndim, shape) : 0;
    if (bytes) t->data = bytes <= sizeof t->scalar ? &t->scalar : mmixi_step(m, bytes);
    if (!bytes || !t->data) return NULL;
    if (values) memmove(t->data, values, bytes);
    return t;
}
/* A tensor of x's shape, NULL if x is. */
static mmix_tensor *mmixi_like(mmix_ctx *m, const char *who, const mmix_tensor *x)
{
    return x ? mmixi_new(m, who, MMIX_DTYPE_REAL, x->ndim, x->shape, NULL) : NULL;
}
MMIXDEF mmix_tensor *mmix_new(mmix_ctx *m, int dtype, int ndim, const size_t *shape)
{
    return mmixi_new(m, "mmix_new", dtype, ndim, shape, NULL);
}
static mmix_tensor *mmixi_new_axes(mmix_ctx *m, int ndim, size_t a, size_t b, size_t c, size_t d)
{
    const size_t shape[4] = { a, b, c, d };
    return mmix_new(m, MMIX_DTYPE_REAL, ndim, shape);
}
MMIXDEF mmix_tensor *mmix_new1(mmix_ctx *m, size_t a) { return mmixi_new_axes(m, 1, a, 0, 0, 0); }
MMIXDEF mmix_tensor *mmix_new2(mmix_ctx *m, size_t a, size_t b) { return mmixi_new_axes(m, 2, a, b, 0, 0); }
MMIXDEF mmix_tensor *mmix_new3(mmix_ctx *m, size_t a, size_t b, size_t c)
{
    return mmixi_new_axes(m, 3, a, b, c, 0);
}
MMIXDEF mmix_tensor *mmix_new4(mmix_ctx *m, size_t a, size_t b, size_t c, size_t d)
{
    return mmixi_new_axes(m, 4, a, b, c, d);
}
MMIXDEF mmix_tensor *mmix_from(mmix_ctx *m, int ndim, const size_t *shape, const mmix_real *values)
{
    if (!mmixi_given(m, "mmix_from", "*values", values)) return NULL;
    return mmixi_new(m, "mmix_from", MMIX_DTYPE_REAL, ndim, shape, values);
}
MMIXDEF mmix_tensor *mmix_from_i32(mmix_ctx *m, int ndim, const size_t *shape, const int32_t *values)
{
    if (!mmixi_given(m, "mmix_from_i32", "*values", values)) return NULL;
    return mmixi_new(m, "mmix_from_i32", MMIX_DTYPE_I32, ndim, shape, values);
}

/* ---- walking ----
   A tensor as rows of contiguous numbers: the last axis is a row, the leading axes are counted together. */
static inline size_t mmixi_cols(const mmix_tensor *t) { return t->ndim ? t->shape[t->ndim - 1] : 1; }
static inline size_t mmixi_rows(const mmix_tensor *t) { return mmix_count(t) / mmixi_cols(t); }
/* Elements from the first one to place `index`, in row-major order, of the first axes. */
static inline size_t mmixi_offset(const mmix_tensor *t, int axes, size_t index)
{
    size_t at = 0;
    for (; --axes > 0; index /= t->shape[axes]) at += index % t->shape[axes] * t->stride[axes];
    return axes < 0 ? 0 : at + index * t->stride[0];
}
static size_t mmixi_place(const mmix_tensor *t, size_t i) { return mmixi_offset(t, t->ndim, i); }
/* To where a row begins. */
static inline size_t mmixi_row_offset(const mmix_tensor *t, size_t row)
{
    return mmixi_offset(t, t->ndim - 1, row);
}
/* Whether one step leads from each row to the next, and which. */
static int mmixi_even_rows(const mmix_tensor *t, size_t *step)
{
    size_t next = 0;                             /* the step of an axis outside of those seen */
    *step = mmixi_cols(t);
    for (int i = t->ndim - 1; i-- > 0;) {
        if (t->shape[i] == 1) continue;
        if (!next) *step = t->stride[i];
        else if (t->stride[i] != next) return 0;
        next = t->stride[i] * t->shape[i];
    }
    return 1;
}
static inline int mmixi_contiguous(const mmix_tensor *t)
{
    size_t step;
    return mmixi_even_rows(t, &step) && step == mmixi_cols(t);
}

/* y = x, or y += x */
static inline void mmixi_put(const mmixi_kernels *k, size_t n, const mmix_real *x, mmix_real *y, int add)
{
    if (add) k->add(n, x, y, y);
    else memcpy(y, x, n * sizeof *x);
}
static inline size_t mmixi_row_grain(size_t cols) { return mmixi_max(1, 8192 / mmixi_max(cols, 1)); }
/* All rows, on all threads: x and y lie as the tensors say. */
typedef struct mmixi_put_job {
    const mmixi_kernels *k;
    const mmix_tensor *as_x, *as_y;
    const mmix_real *x;
    mmix_real *y;
    int add;
} mmixi_put_job;
static void mmixi_put_range(void *arg, mmixi_range range)
{
    const mmixi_put_job *j = (const mmixi_put_job *)arg;
    for (size_t r = range.begin; r < range.end; r++)
        mmixi_put(j->k, mmixi_cols(j->as_x), j->x + mmixi_row_offset(j->as_x, r),
                  j->y + mmixi_row_offset(j->as_y, r), j->add);
}
static void mmixi_put_all(mmix_ctx *m, const mmix_tensor *as_x, const mmix_real *x, const mmix_tensor *as_y,
                          mmix_real *y, int add)
{
    mmixi_put_job j = { m->k, as_x, as_y, x, y, add };
    mmixi_ranges(m, mmixi_rows(as_x), mmixi_row_grain(mmixi_cols(as_x)), mmixi_put_range, &j);
}
static void mmixi_zero_range(void *arg, mmixi_range range)
{
    memset((mmix_real *)arg + range.begin, 0, (range.end - range.begin) * sizeof(mmix_real));
}
static inline void mmixi_zero(mmix_ctx *m, size_t n, mmix_real *x)
{
    mmixi_ranges(m, n, 1 << 15, mmixi_zero_range, x);
}

/* mmix_data for writing: what was packed of the values is out of date. */
static mmix_real *mmixi_overwrite(mmix_tensor *t)
{
    if (t) mmixi_owner(t)->packed = NULL;
    return mmixi_of(t);
}
MMIXDEF mmix_tensor *mmix_fill(mmix_tensor *t, double value)
{
    mmix_real *x = mmixi_overwrite(t);
    int32_t *k = mmix_data_i32(t);
    for (size_t r = 0; (x || k) && r < mmixi_rows(t); r++)
        for (size_t i = mmixi_row_offset(t, r), end = i + mmixi_cols(t); i < end; i++) {
            if (x) x[i] = (mmix_real)value;
            else k[i] = (int32_t)value;
        }
    return t;
}
MMIXDEF mmix_tensor *mmix_randn(mmix_ctx *m, mmix_tensor *t, double deviation, uint64_t stream)
{
    mmix_real *x = mmixi_overwrite(t);
    for (size_t i = 0; x && i < mmix_count(t); i++)
        x[mmixi_place(t, i)] = (mmix_real)(deviation * mmix_random_normal(m, MMIXI_RANDOM_RANDN, stream, i));
    return t;
}
/* Between a tensor and an array of its rows: `to`, or else `from`. */
static int mmixi_transfer(const mmix_tensor *t, const char *who, mmix_real *to, const mmix_real *from)
{
    mmix_real *x = mmixi_of(t);
    if (!x || (!to && !from))
        return t ? mmix_fail(t->m, MMIX_ERROR_ARGUMENT, x ? "%s: values is NULL"
                             : "%s: there are no real values", who) : -1;
    for (size_t r = 0, n = mmixi_cols(t); r < mmixi_rows(t); r++) {
        mmix_real *row = x + mmixi_row_offset(t, r);
        memcpy(from ? row : to + r * n, from ? from + r * n : row, n * sizeof *row);
    }
    return 0;
}
MMIXDEF int mmix_read(const mmix_tensor *t, mmix_real *values)
{
    return mmixi_transfer(t, "mmix_read", values, NULL);
}
MMIXDEF int mmix_write(mmix_tensor *t, const mmix_real *values)
{
    mmixi_overwrite(t);
    return mmixi_transfer(t, "mmix_write", NULL, values);
}
MMIXDEF double mmix_item(const mmix_tensor *t)
{
    const mmix_real *x = mmixi_of(t);
    return x && mmix_count(t) == 1 ? (double)*x : (double)NAN;
}

/* ---- checking arguments ----
   Shapes are written as comments write them, and bind their letters:

       mmixi_expect(m, who, &d, "weight OD, x ...D, bias? O, residual? ~O", weight, x, bias, residual)

   A letter is bound where it comes first, unless it was before; a digit is that size, * any; ... are any
   leading axes, ~ the same again. `?` may be NULL; `:i32`, `:any` is another type than real. */
typedef struct mmixi_dims {
    size_t A, B, C, D, E, F, G, H, unused, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z;
} mmixi_dims;
enum { MMIXI_TEXT = 96 };                        /* a shape in words */
static const char *mmixi_shape_text(const mmix_tensor *t, char text[MMIXI_TEXT])
{
    size_t at = 0;
    for (int i = 0; i < t->ndim; i++)
        at += (size_t)snprintf(text + at, MMIXI_TEXT - at, t->shape[i] ? "%s%.9g" : "%s*", i ? ", " : "(",
                               (double)t->shape[i]);
    snprintf(text + at, MMIXI_TEXT - at, at ? ")" : "()");
    return text;
}
/* All arguments of a call: 1, or 0 after mmix_fail. dims may be NULL where the spec has no letters; letters
   begin unbound, unless the spec begins with +. Every op of a single token passes here: it is read once. */
static int mmixi_expect(mmix_ctx *m, const char *who, mmixi_dims *dims, const char *spec, ...)
{
    static const char kinds[][4][24] = {
        { "", "is int32, expected real", "is u8, expected real", "is bf16, expected real" },
        { "is real, expected int32", "", "is u8, expected int32", "is bf16, expected int32" } };
    const mmix_tensor *lead = NULL;              /* the last with `...`, which stood for so many axes */
    int leading = 0;
    va_list list;
    va_start(list, spec);
    if (*spec == '+') spec++;
    else if (dims) memset(dims, 0, sizeof *dims);
    while (*spec && m && !m->error_kind) {
        const mmix_tensor *t = va_arg(list, mmix_tensor *);
        const char *name = spec, *at, *wrong = NULL;
        char words[4 * MMIXI_TEXT], found[MMIXI_TEXT], text[MMIXI_TEXT];
        int dtype = MMIX_DTYPE_REAL, optional = 0, axes = 0, front;
        mmix_tensor expected;
        for (; *spec != ' '; spec++) {
            if (*spec == ':')
                dtype = spec[1] == 'i' ? MMIX_DTYPE_I32
                    : spec[1] == 'w' && mmix_dtype(t) != MMIX_DTYPE_BF16 ? dtype : -1;
            optional |= *spec == '?';
        }
        at = ++spec;
        spec += *at == '.' ? 3 : *at == '~';
        while (spec[axes] && spec[axes] != ',') axes++;
        if (t && *at == '.') { lead = t; leading = t->ndim > axes ? t->ndim - axes : 0; }
        front = spec > at ? leading : 0;
        expected.ndim = front + axes;
        if (!t) wrong = optional ? NULL : "is NULL";
        else if (t->m != m && (!t->lasting || t->m->twins || m->twins)) wrong = "belongs to another context";
        else if (!mmixi_owner(t)->data)
            wrong = t->lasting ? "has no values (mmix_params_allocate comes first)"
                : "has no values (mmix_backward consumed it)";
        else if (dtype >= 0 && t->dtype != dtype) wrong = kinds[dtype][t->dtype];
        else {
            int fits = t->ndim == expected.ndim;
            for (int i = 0; i < expected.ndim; i++) {
                char c = i < front ? '*' : spec[i - front];
                size_t *letter = c >= 'A' ? (size_t *)dims + (c - 'A') : NULL, size;
                if (fits && letter && !*letter) *letter = t->shape[i];
                size = i < front ? lead->shape[i] : letter ? *letter : c == '*' ? 0 : (size_t)(c - '0');
                fits &= !size || size == t->shape[i];
                expected.shape[i] = size;
            }
            if (!fits) {
                snprintf(words, sizeof words, "has shape %s, expected %s: %s%.*s", mmixi_shape_text(t, found),
                         mmixi_shape_text(&expected, text), spec > at ? "…" : "", axes, spec);
                wrong = words;
            }
        }
        if (wrong)
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %.*s %s", who, (int)strcspn(name, "?: "), name, wrong);
        spec += axes + (spec[axes] ? 2 : 0);
    }
    va_end(list);
    return m && !m->error_kind;
}

/* ---- views ---- */
static mmix_tensor *mmixi_view(mmix_ctx *m, mmix_tensor *t, size_t offset)
{
    mmix_tensor *v = mmixi_tensor(m);
    if (!v) return NULL;
    *v = *t;
    v->base = mmixi_owner(t); v->offset += offset;
    v->grad = NULL; v->packed = NULL; v->lora = NULL;
    return v;
}
static int mmixi_wants(const mmix_tensor *t)
{
    return t && t->dtype == MMIX_DTYPE_REAL && mmixi_owner(t)->wants;
}
MMIXDEF mmix_tensor *mmix_slice(mmix_ctx *m, mmix_tensor *t, int axis, size_t start, size_t count)
{
    size_t size = mmix_shape(t, axis);
    char text[MMIXI_TEXT];
    mmix_tensor *v = NULL;
    if (!mmixi_expect(m, "mmix_slice", NULL, "t:any ...", t)) return NULL;
    if (!count || start > size || count > size - start)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_slice: %.0f elements from %.0f on axis %d of %s",
                  (double)count, (double)start, axis, mmixi_shape_text(t, text));
    else if (count == size) return t;
    else v = mmixi_view(m, t, start * mmix_stride(t, axis));
    if (v) v->shape[mmixi_axis(t, axis)] = count;
    return v;
}

/* ==== >>tape =========================================================================
   backpropagation: y = f(x) was recorded, dL/dy is there, dL/dx = (∂y/∂x)ᵀ dL/dy is added to what x has

   mmixi_run calls an op's forward and appends a node; mmix_backward walks the nodes from the last to the
   first, calls each backward whose output's gradient was written, and frees what the node held.
   ==================================================================================== */

enum { MMIXI_RECORDED = 2, MMIXI_LENT = 2 };     /* .wants, .written */
MMIXDEF mmix_tensor *mmix_require_grad(mmix_tensor *t)
{
    mmix_tensor *owner = t && t->dtype == MMIX_DTYPE_REAL ? mmixi_owner(t) : NULL;
    if (owner && owner->lasting && !owner->grad)
        mmix_fail(owner->m, MMIX_ERROR_ARGUMENT, "mmix_require_grad: for parameters call mmix_params_train");
    else if (owner && !owner->wants) owner->wants = 1;
    return t;
}
/* Leaves that came to a gradient after `until` did have none again. */
static void mmixi_drop_gradients(mmix_ctx *m, mmix_tensor *until)
{
    for (; m->graded != until; m->graded = m->graded->next_graded) {
        m->graded->grad = NULL; m->graded->written = 0;
    }
}
/* Where the gradient of t goes, with t's strides; NULL if none is wanted, or for lack of memory. *add: if
   something is there already, at least zeros: around the share of a view, and where what several inputs share
   is written in any order. */
static mmix_real *mmixi_grad_target(mmix_ctx *m, mmix_tensor *t, int shared, int *add)
{
    mmix_tensor *owner = mmixi_wants(t) ? mmixi_owner(t) : NULL;
    if (!owner) return NULL;
    if (!owner->grad || owner->written == MMIXI_LENT) {
        mmix_real *own = (mmix_real *)mmixi_step_high(m, mmixi_bytes(owner));
        if (!own) return NULL;
        if (owner->grad) memcpy(own, owner->grad, mmixi_bytes(owner));
        if (owner->wants == 1) { owner->next_graded = m->graded; m->graded = owner; }
        owner->grad = own;
    }
    if (owner->written != 1) owner->grad_where = MMIXI_HERE;
    shared |= t->base != NULL;
    if (shared && !owner->written) mmixi_zero(m, mmix_count(owner), owner->grad);
    *add = shared || owner->written;
    owner->written = 1;
    return owner->grad + t->offset;
}
/* An owner whose gradient is read, or written, on the host. */
static mmix_tensor *mmixi_grad_here(mmix_tensor *t)
{
    if (t->grad_where) mmixi_bring(t, 1, 0);
    t->grad_where = MMIXI_HERE;
    return t;
}
/* What has reached `from` is the gradient of t: it becomes t's if t has none and it may, else it is added. */
static void mmixi_grad_give(mmix_ctx *m, mmix_tensor *from, mmix_tensor *t)
{
    int add, whole = from->written && !t->base && t->wants == MMIXI_RECORDED && !t->grad;
    mmix_real *to = whole ? NULL : mmixi_grad_target(m, t, 0, &add);
    if (to) mmixi_grad_here(mmixi_owner(t));
    if (to) mmixi_put_all(m, from, mmixi_grad_here(from)->grad, t, to, add);
    if (!whole) return;
    t->grad = from->grad; t->written = from->written; t->grad_where = from->grad_where; from->grad = NULL;
}
MMIXDEF mmix_tensor *mmix_grad(const mmix_tensor *t)
{
    mmix_tensor *owner = mmixi_wants(t) ? mmixi_owner(t) : NULL,
        *all = owner && owner->written ? mmixi_view(t->m, owner, 0) : NULL,
        *g = all ? mmixi_view(t->m, (mmix_tensor *)t, 0) : NULL;
    if (!g) return NULL;
    all->data = mmixi_grad_here(owner)->grad; all->wants = all->where = 0;
    all->base = NULL; g->base = all;
    return g;
}

/* ---- nodes ---- */
MMIXDEF int mmix_record(mmix_ctx *m, int on)
{
    int was = m ? m->recording : 0;
    if (m) m->recording = on;
    return was;
}
MMIXDEF mmix_real *mmix_save(mmix_ctx *m, mmix_call *call, int slot, size_t count)
{
    void *p = mmixi_reals(m, count, 1);
    call->saved[slot] = (mmix_real *)mmixi_other(m, p, m->inside == MMIXI_KERNEL);
    call->saved_count[slot] = count;
    return call->saved[slot];
}

#ifdef MMIX_REGRESSION
/* A number that changes with the values of t. */
static uint64_t mmixi_digest(const mmix_tensor *t)
{
    uint64_t sum = 1469598103934665603u;
    const unsigned char *p = t ? (const unsigned char *)mmixi_data(t, t->dtype) : NULL;
    for (size_t i = 0, n = mmix_count(t), size = t ? mmixi_dtype_size(t->dtype) : 0; p && i < n; i++)
        for (size_t byte = 0, at = mmixi_place(t, i) * size; byte < size; byte++)
            sum = (sum ^ p[at + byte]) * 1099511628211u;
    return sum;
}
#endif
/* p for as long as the step: a copy of its `size` bytes, or itself if size is 0. */
static const void *mmixi_kept(mmix_ctx *m, const void *p, size_t size)
{
    void *copy = size ? mmixi_header(m, size) : NULL;
    return copy ? memcpy(copy, p, size) : size ? NULL : p;
}
/* ---- on the host, or on a device ---- */

/* Runs half of an op on one side: what it reads is brought there, what it writes is noted to be there. The
   ops in a checkpoint see to themselves. */
static int mmixi_call_on(mmix_ctx *m, mmix_op_function *f, mmix_call *c, int device)
{
    unsigned char made = device ? MMIXI_THERE : MMIXI_HERE;
    int was = m->inside, back = c->dy[0] != NULL, failed;
    if (!m->twins || c->constant == ~0u) return f(m, c);
    for (int i = 0; i < MMIX_MAX_INPUTS; i++) {
        mmix_tensor *t = c->in[i] ? mmixi_owner(c->in[i]) : NULL;
        if (!t) continue;
        if (t->dtype == MMIX_DTYPE_I32) t->where = MMIXI_HERE;         /* mmix_data_i32 may be in use */
        mmixi_bring(t, 0, device);
        if (!c->dx[i]) continue;
        if (c->add[i]) mmixi_bring(t, 1, device);
        c->dx[i] = (mmix_real *)mmixi_other(m, c->dx[i], device);
        t->grad_where = made;
    }
    for (int i = 0; i < 2 && c->out[i]; i++) {
        mmix_tensor *t = mmixi_owner(c->out[i]);
        if (!back) t->where = made;
        mmixi_bring(t, 0, device); mmixi_bring(t, 1, device);
        c->dy[i] = (const mmix_real *)mmixi_other(m, c->dy[i], device);
    }
    if (m->error_kind) return -1;
    c->where = device;
    m->inside = MMIXI_HOST + device;
    failed = f(m, c);
    m->inside = was;
    m->calls[device][c->op] += failed <= 0;
    return failed;
}
/* Runs an op whose call holds inputs and outputs; records it if an input wants a gradient, or call->recorded
   is 1 before. `options` is copied, unless size is 0. Its first output, or NULL. */
static mmix_tensor *mmixi_run_functions(mmix_ctx *m, const mmix_op_functions *run, mmix_call *call,
                                        const void *options, size_t size)
{
    const mmix_op_functions *kernel = m->options.device.kernels;
    mmixi_node *node;
    int failed = 1;
    if (m->error_kind || !call->out[0]) return NULL;
    for (int i = 0; m->recording && i < MMIX_MAX_INPUTS; i++) call->recorded |= mmixi_wants(call->in[i]);
    call->m = m;
    call->options = call->recorded ? mmixi_kept(m, options, size) : options;
    if (m->error_kind) return NULL;
    if (kernel && call->op < MMIX_OP_COUNT && (kernel += call->op)->forward)
        failed = mmixi_call_on(m, kernel->forward, call, 1);
    if (failed <= 0) run = kernel;
    else if (m->options.device.strict && run->forward)
        mmix_fail(m, MMIX_ERROR_DEVICE, "%s: no kernel ran it", mmix_op_name(call->op));
    else failed = run->forward ? mmixi_call_on(m, run->forward, call, 0) : 0;
    if (failed || m->error_kind) return NULL;
    for (int i = 0; i < 2 && call->out[i]; i++) call->out[i]->wants = call->recorded ? MMIXI_RECORDED : 0;
    if (!call->recorded) return call->out[0];
    m->node = (mmixi_node *)mmixi_grow(m, m->node, &m->node_capacity, m->nodes + 1, sizeof *m->node);
    if (m->error_kind) return NULL;
    node = &m->node[m->nodes++];
    node->run = *run; node->call = *call;
#ifdef MMIX_REGRESSION
    for (int i = 0; i < MMIX_MAX_INPUTS; i++) node->digest[i] = mmixi_digest(call->in[i]);
#endif
    return call->out[0];
}
static mmix_tensor *mmixi_run(mmix_ctx *m, int op, mmix_call *call, const void *options, size_t size)
{
    call->op = op;
    return mmixi_run_functions(m, &m->table[op], call, options, size);
}

/* Fills in what a backward asks of its call: dy, dx and add. If only the second output was used the first
   one's gradient is zeros. 0, or -1. */
static int mmixi_resolve(mmix_ctx *m, mmix_call *c)
{
    unsigned skip = c->constant | (1u << c->passed >> 1);
    int add;
    for (int i = 0; i < 2 && c->out[i]; i++) c->dy[i] = c->out[i]->grad;
    if (!c->dy[0]) c->dy[0] = mmixi_grad_target(m, c->out[0], 1, &add);
    for (int i = 0; i < MMIX_MAX_INPUTS; i++) {
        int shared = 0;
        if (!mmixi_wants(c->in[i]) || skip >> i & 1) continue;
        for (int j = i + 1; j < MMIX_MAX_INPUTS; j++)
            shared |= c->in[j] && !(skip >> j & 1) && mmixi_owner(c->in[j]) == mmixi_owner(c->in[i]);
        c->dx[i] = mmixi_grad_target(m, c->in[i], shared, &c->add[i]);
    }
    return m->error_kind ? -1 : 0;
}

/* Frees what a node held, the last taken first. */
static void mmixi_node_free(mmix_ctx *m, mmixi_node *node)
{
    for (int i = MMIX_MAX_SAVED; i-- > 0;)
        mmixi_step_free(m, mmixi_other(m, node->call.saved[i], 0),
                        node->call.saved_count[i] * sizeof(mmix_real));
    for (int i = 2; i-- > 0;) {
        mmix_tensor *out = node->call.out[i];
        if (!out) continue;
        if (out->written != MMIXI_LENT) mmixi_step_free(m, out->grad, mmixi_bytes(out));
        out->grad = NULL; out->wants = out->written = 0;
        if (out->data == &out->scalar) continue;
        mmixi_step_free(m, out->data, mmixi_bytes(out));
        out->data = NULL;
    }
}
/* The backward of one node, in step memory that is given back. */
static int mmixi_node_backward(mmix_ctx *m, mmixi_node *node)
{
    mmix_mark mark = mmix_mark_here(m);
    mmix_call *call = &node->call;
    int failed;
    if (!node->run.backward)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_backward: a custom op without a backward function is in the way");
#ifdef MMIX_REGRESSION
    for (int i = 0; i < MMIX_MAX_INPUTS; i++)
        if (node->digest[i] != mmixi_digest(call->in[i]))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_backward: input %d of %s was overwritten after it "
                             "was recorded", i, mmix_op_name(call->op));
#endif
    failed = mmixi_resolve(m, call) || mmixi_call_on(m, node->run.backward, call, call->where)
        || m->error_kind;
    if (!failed && call->passed) mmixi_grad_give(m, call->out[0], call->in[call->passed - 1]);
    mmix_rewind(m, mark);
    return failed || m->error_kind;
}

/* Backpropagation: from the last recorded op back to number `bottom`, each turns the gradients of its outputs
   into those of its inputs and frees what it kept. */
static int mmixi_backward(mmix_ctx *m, size_t bottom)
{
    int was_recording = mmix_record(m, 0), was_inside = m->in_backward, failed = m->error_kind;
    m->in_backward = 1;
    while (m->nodes > bottom) {
        mmixi_node node = m->node[--m->nodes];
        const mmix_tensor *second = node.call.out[1];
        if (!failed && (node.call.out[0]->grad || (second && second->grad)))
            failed = mmixi_node_backward(m, &node);
        mmixi_node_free(m, &node);
    }
    m->recording = was_recording; m->in_backward = was_inside;
    /* gradients may live in a later block than the low end does; the marks of the next ops must cover them */
    for (size_t i = m->step.count; !was_inside && i-- > m->step.current + 1;)
        if (m->step.block[i].high < m->step.block[i].base + m->step.block[i].size) m->step.current = i;
    return failed ? -1 : 0;
}
MMIXDEF int mmix_backward_from(mmix_ctx *m, mmix_tensor **outputs, mmix_tensor **gradients, size_t n)
{
    if (!mmixi_given(m, "mmix_backward", "*outputs, *gradients", outputs, gradients)) return -1;
    if (m->in_backward)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_backward inside of a backward: the tape is in use");
    for (size_t k = 0; k < n; k++) {
        char spec[64];
        snprintf(spec, sizeof spec, "outputs[%d] ..., gradients[%d] ~", (int)k, (int)k);
        if (!mmixi_expect(m, "mmix_backward", NULL, spec, outputs[k], gradients[k])) return -1;
        if (!mmixi_wants(outputs[k]))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "mmix_backward: output %d was not recorded (mmix_record is off, or nothing "
                             "it depends on asked for a gradient, or a backward consumed it)", (int)k);
    }
    for (size_t k = 0; k < n; k++) {             /* lent, unless it has gaps or is an op's own output */
        mmix_tensor g = *gradients[k];
        g.grad = mmixi_of(gradients[k]);
        g.grad_where = MMIXI_HERE;
        g.written = mmixi_owner(&g)->wants != MMIXI_RECORDED && mmixi_contiguous(&g) ? MMIXI_LENT : 0;
        mmixi_grad_give(m, &g, outputs[k]);
    }
    return m->error_kind ? -1 : mmixi_backward(m, 0);
}
MMIXDEF int mmix_backward(mmix_ctx *m, mmix_tensor *loss)
{
    char text[MMIXI_TEXT];
    mmix_tensor *one;
    if (!mmixi_expect(m, "mmix_backward", NULL, "loss ...", loss)) return -1;
    if (mmix_count(loss) != 1)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_backward: loss has shape %s, expected one element",
                         mmixi_shape_text(loss, text));
    one = mmix_fill(mmixi_like(m, "mmix_backward", loss), 1);
    return mmix_backward_from(m, &loss, &one, 1);
}

/* Begins the call of an op that is not in the table. 0, or -1. */
static int mmixi_inputs(mmix_ctx *m, const char *who, mmix_call *call, mmix_tensor **inputs, size_t n)
{
    memset(call, 0, sizeof *call);
    call->op = MMIX_OP_COUNT;
    if (!mmixi_given(m, who, n ? "*inputs" : "", inputs)
        || mmixi_within(m, who, "the number of inputs", (double)n, 0, MMIX_MAX_INPUTS)) return -1;
    for (size_t i = 0; i < n; i++)
        if (!mmixi_expect(m, who, NULL, "input?:any ...", call->in[i] = inputs[i])) return -1;
    return 0;
}
MMIXDEF mmix_tensor *mmix_custom(mmix_ctx *m, mmix_tensor **inputs, size_t n, int ndim, const size_t *shape,
                                 mmix_op_functions functions, const void *user)
{
    mmix_call call;
    if (mmixi_inputs(m, "mmix_custom", &call, inputs, n)) return NULL;
    call.out[0] = mmixi_new(m, "mmix_custom", MMIX_DTYPE_REAL, ndim, shape, NULL);
    return mmixi_run_functions(m, &functions, &call, user, 0);
}
enum { MMIXI_KEEP = 8 };
MMIXDEF int mmix_rewind_keep(mmix_ctx *m, mmix_mark mark, mmix_tensor **keep, size_t n)
{
    mmix_tensor was[MMIXI_KEEP];
    int falls = 0;
    if (!m || m->error_kind) return -1;
    if (n > MMIXI_KEEP || m->nodes > mark.nodes)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, n > MMIXI_KEEP
                         ? "mmix_rewind_keep: %d tensors, expected at most 8"
                         : "mmix_rewind_keep: ops were recorded since the mark", (int)n);
    for (size_t i = 0; i < n; i++) {
        const mmix_tensor *t = keep[i];
        void *data = t && mmixi_contiguous(t) ? mmixi_data(t, t->dtype) : NULL;
        if (!data)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "mmix_rewind_keep: tensor %d is NULL or a view with gaps", (int)i);
        was[i] = *t; was[i].data = data;         /* of a view it is the base's */
#if !defined(MMIX_REGRESSION) && !defined(MMIXI_ASAN)            /* there what is dropped is overwritten */
        if (n == 1 && m->step.count) {           /* one that comes to lie lower in its block is just moved */
            const mmixi_block *b = &m->step.block[mark.step.block];
            size_t low = mmixi_max(mark.step.low, b->base);
            falls = (size_t)data - low < b->low - low;
        }
#endif
        if (falls) break;
        was[i].data = mmixi_arena_take(m, &m->step, mmixi_step_size(mmixi_bytes(t)), 1);     /* not a hole */
        if (!was[i].data) return -1;
        memcpy(was[i].data, data, mmixi_bytes(t));
    }
    mmixi_rewind(m, mark, 0);
    for (size_t i = 0; i < n; i++) {
        keep[i] = mmixi_new(m, "mmix_rewind_keep", was[i].dtype, was[i].ndim, was[i].shape, was[i].data);
        if (!keep[i]) return -1;
        keep[i]->wants = was[i].wants == 1;
    }
    for (size_t i = n; !falls && i-- > 0;) mmixi_step_free(m, was[i].data, mmixi_bytes(&was[i]));
    return 0;
}

static mmix_tensor *mmixi_compact(mmix_ctx *m, mmix_tensor *x);            /* with the elementary ops */
typedef struct mmixi_rerun { mmix_block_function *f; const void *user; } mmixi_rerun;
static int mmixi_checkpoint_backward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_rerun *o = (const mmixi_rerun *)call->options;
    size_t bottom = m->nodes;
    const mmix_mark *outer = m->rerun, from = mmix_mark_here(m);
    int failed;
    mmix_tensor *y;
    m->rerun = &from; mmix_record(m, 1);
    y = o->f(m, o->user, call->in);
    mmix_record(m, 0);
    if (y) mmixi_grad_give(m, call->out[0], y);
    failed = mmixi_backward(m, bottom);
    m->rerun = outer;
    return !y || failed ? -1 : 0;
}
MMIXDEF mmix_tensor *mmix_checkpoint(mmix_ctx *m, mmix_block_function *f, const void *user, size_t size,
                                     mmix_tensor **inputs, size_t n)
{
    mmix_op_functions functions = { NULL, mmixi_checkpoint_backward };
    mmix_call call;
    mmixi_rerun o;
    mmix_mark mark;
    int recording;
    if (mmixi_inputs(m, "mmix_checkpoint", &call, inputs, n)) return NULL;
    if (!m->recording) return f(m, user, call.in);
    o.f = f; o.user = mmixi_kept(m, user, size);
    if (m->error_kind) return NULL;
    mark = mmix_mark_here(m);
    recording = mmix_record(m, 0);
    call.out[0] = mmixi_compact(m, f(m, o.user, call.in));
    mmix_record(m, recording);
    if (mmix_rewind_keep(m, mark, call.out, 1)) return NULL;
    call.recorded = 1;
    call.constant = ~0u;                         /* the ops inside see to the gradients */
    return mmixi_run_functions(m, &functions, &call, &o, sizeof o);
}
/* A block of a model: a checkpoint if layers are recorded as such. */
static mmix_tensor *mmixi_layer(mmix_ctx *m, mmix_block_function *f, const void *user, size_t size,
                                mmix_tensor **inputs, size_t n)
{
    return m->recording == MMIX_RECORD_LAYERS ? mmix_checkpoint(m, f, user, size, inputs, n)
        : f(m, user, inputs);
}

/* ==== >>elementary ops ===============================================================
   an op in one place: formula, forward, backward, the public function

   An op reads its call (>>api-tape): in and out, and in the backward dy and dx. A function that runs both
   ways tells them apart by dy. Most see their tensors as matrices of rows, whose last axis is contiguous, and
   share the rows out among the threads.
   ==================================================================================== */

static inline mmix_call mmixi_call(mmix_tensor *a, mmix_tensor *b, mmix_tensor *c)
{
    mmix_call call;
    memset(&call, 0, sizeof call);
    call.in[0] = a; call.in[1] = b; call.in[2] = c;
    return call;
}
/* Runs an op without options whose output has this shape. */
static mmix_tensor *mmixi_run_new(mmix_ctx *m, const char *who, int op, mmix_call *call, int ndim,
                                  const size_t *shape)
{
    call->out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, ndim, shape, NULL);
    return mmixi_run(m, op, call, NULL, 0);
}
/* What a function returns that makes a tensor, after mmix_fail. */
static mmix_tensor *mmixi_none(int failed)
{
    (void)failed;
    return NULL;
}
static mmix_tensor *mmixi_unfit(mmix_ctx *m, const char *who, const mmix_tensor *a, const mmix_tensor *b,
                                const char *expected)
{
    char x[MMIXI_TEXT], y[MMIXI_TEXT];
    return mmixi_none(mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: shapes %s and %s, expected %s", who,
                                mmixi_shape_text(a, x), mmixi_shape_text(b, y), expected));
}

/* p, the values of t or their gradient, as a matrix of rows; t's values. */
static inline mmixi_mat mmixi_rows_of(const mmix_tensor *t, const mmix_real *p)
{
    size_t step;
    mmixi_even_rows(t, &step);
    return mmixi_matrix(p, mmixi_rows(t), mmixi_cols(t), (ptrdiff_t)step);
}
static inline mmixi_mat mmixi_values(const mmix_tensor *t) { return mmixi_rows_of(t, mmixi_of(t)); }
static inline mmix_real *mmixi_row(mmixi_mat a, size_t i) { return a.p + (ptrdiff_t)i * a.rs; }

/* task on runs of n rows, `grain` at a time. */
typedef void mmixi_rows_task(const mmix_call *c, mmixi_range range);
typedef struct mmixi_rows_job { const mmix_call *call; mmixi_rows_task *task; } mmixi_rows_job;
static void mmixi_rows_range(void *arg, mmixi_range range)
{
    const mmixi_rows_job *j = (const mmixi_rows_job *)arg;
    j->task(j->call, range);
}
static int mmixi_over(const mmix_call *c, size_t n, size_t grain, mmixi_rows_task *task)
{
    mmixi_rows_job j = { c, task };
    mmixi_ranges(c->m, n, grain, mmixi_rows_range, &j);
    return 0;
}
/* The same on the rows of a tensor. */
static int mmixi_over_rows(const mmix_call *c, const mmix_tensor *t, mmixi_rows_task *task)
{
    return mmixi_over(c, mmixi_rows(t), mmixi_row_grain(mmixi_cols(t)), task);
}
/* Row r of n numbers, of an op whose output has the shape of its first input: forward x to y, backward dy to
   dx. dy is NULL forward, dx where it is not wanted. */
typedef struct mmixi_row_pass {
    size_t r, n;
    ptrdiff_t step;
    const mmix_real *x, *dy;
    mmix_real *y, *dx;
} mmixi_row_pass;
static inline mmixi_row_pass mmixi_row_first(const mmix_call *c, size_t r)
{
    mmixi_mat x = mmixi_values(c->in[0]);
    ptrdiff_t in = (ptrdiff_t)r * x.rs, out = (ptrdiff_t)(r * x.cols);
    mmixi_row_pass p = { r, x.cols, x.rs, x.p + in, c->dy[0] ? c->dy[0] + out : NULL,
                         mmixi_of(c->out[0]) + out, c->dx[0] ? c->dx[0] + in : NULL };
    return p;
}
static inline void mmixi_row_next(mmixi_row_pass *p)
{
    p->r++; p->x += p->step; p->y += p->n;
    if (p->dy) p->dy += p->n;
    if (p->dx) p->dx += p->step;
}

/* ---- add, mul, div, max, scale: elementwise, on views of any steps ---------------------------
   add: y = α a + β b, so da = α dy, db = β dy;  mul: y = a b;  div: y = a / b, da = dy / b, db = -y dy / b;
   max: da = dy where a > b, dy / 2 where a = b;  scale: y = α a + β, there is no b. Backward is the same op
   on dy and the other one (div: on b). A stretched operand is a view that does not step there: its gradient
   is the sum, in order. */
static void mmixi_binary_rows(const mmix_call *c, mmixi_range range)
{
    const mmixi_kernels *k = c->m->k;
    const mmix_tensor *out = c->out[0];
    int op = c->op, back = c->dy[0] != NULL, max = op == MMIX_OP_MAX,
        product = op == MMIX_OP_MUL || op == MMIX_OP_DIV,
        two = product || max || (op == MMIX_OP_ADD && !back);      /* b is read */
    size_t n = mmixi_cols(out);
    for (int i = 0; i <= back; i++) {
        const mmix_tensor *ta = back ? out : c->in[0], *to = back ? c->in[i] : out,
            *tb = c->in[!back || op == MMIX_OP_DIV || !i];
        mmix_real alpha = (mmix_real)c->number[i], beta = back ? 0 : (mmix_real)c->number[1];
        size_t sa = mmix_stride(ta, -1), sb = mmix_stride(tb, -1), sy = mmix_stride(to, -1);
        int add = c->add[i], dense = sa == 1 && sy == 1 && (sb == 1 || !two) && !max;
        mmix_real *y0 = mmixi_of(out);
        const mmix_real *a0 = back ? c->dy[0] : mmixi_of(ta), *b0 = two ? mmixi_of(tb) : NULL;
        for (size_t r = range.begin; r < range.end && (!back || c->dx[i]); r++) {
            mmix_real *own = y0 + r * n, *y = back ? c->dx[i] + mmixi_row_offset(to, r) : own;
            const mmix_real *a = a0 + (back ? r * n : mmixi_row_offset(ta, r)),
                *b = two ? b0 + mmixi_row_offset(tb, r) : a,
                *x = max && back ? mmixi_of(to) + mmixi_row_offset(to, r) : a;    /* whose gradient it is */
            if (dense && op == MMIX_OP_MUL) (add ? k->mul_add : k->mul)(n, a, b, y);
            else if (dense && two && !product && alpha == 1 && beta == 1) k->add(n, a, b, y);
            else if (dense && !product) {
                if (two) k->scale(n, beta, b, y);
                else if (beta != 0) for (size_t j = 0; j < n; j++) y[j] = beta;
                (add || two || beta != 0 ? k->axpy : k->scale)(n, alpha, a, y);
            }
            else for (size_t j = 0; j < n; j++, a += sa, b += sb, y += sy) {
                mmix_real v = op == MMIX_OP_MUL ? *a * *b : op == MMIX_OP_DIV ? *a / *b * (i ? -own[j] : 1)
                    : !max ? alpha * *a + beta * (two ? *b : 1) : !back ? *a >= *b || *a != *a ? *a : *b
                    : *a * (mmix_real)((x[j * sy] > *b) + 0.5 * (x[j * sy] == *b));
                *y = add ? *y + v : v;
            }
        }
    }
}
static int mmixi_binary_run(mmix_ctx *m, mmix_call *c)
{
    size_t rows = mmixi_rows(c->out[0]), together = c->dy[0] && c->size[0];    /* in one place */
    (void)m;
    return mmixi_over(c, rows, together ? rows : mmixi_row_grain(mmixi_cols(c->out[0])), mmixi_binary_rows);
}
static mmix_tensor *mmixi_stretched(mmix_ctx *m, mmix_tensor *t, const mmix_tensor *as)
{
    mmix_tensor *v = !as || !t || mmix_count(t) == mmix_count(as) ? t : mmixi_view(m, t, 0);
    for (int i = -mmix_ndim(as); v && v != t && i < 0; i++) {
        v->ndim = as->ndim; v->shape[as->ndim + i] = mmix_shape(as, i);
        v->stride[as->ndim + i] = mmix_shape(t, i) > 1 ? mmix_stride(t, i) : 0;
    }
    return v;
}
static mmix_tensor *mmixi_binary(mmix_ctx *m, const char *who, int op, mmix_tensor *a, mmix_tensor *b,
                                 double alpha, double beta)
{
    mmix_call call = mmixi_call(NULL, NULL, NULL);
    size_t shape[MMIX_MAX_DIMS] = {0};
    if (!mmixi_expect(m, who, NULL, op == MMIX_OP_SCALE ? "x ..." : "a ..., b ...", a, b)) return NULL;
    int ndim = b && b->ndim > a->ndim ? b->ndim : a->ndim;
    for (int i = 0; i < ndim; i++) {
        size_t na = mmix_shape(a, i - ndim), nb = mmix_shape(b, i - ndim);
        shape[i] = mmixi_max(na, nb);
        if (na != nb && mmixi_min(na, nb) > 1)
            return mmixi_unfit(m, who, a, b, "equal sizes, or 1, counted from the last axis");
    }
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, ndim, shape, NULL);
    call.in[0] = mmixi_stretched(m, a, call.out[0]);
    call.in[1] = mmixi_stretched(m, b, call.out[0]);
    call.number[0] = alpha; call.number[1] = beta;
    call.size[0] = b && (call.in[0] != a || call.in[1] != b || mmixi_owner(a) == mmixi_owner(b));
    return mmixi_run(m, op, &call, NULL, 0);
}
MMIXDEF mmix_tensor *mmix_scale(mmix_ctx *m, mmix_tensor *x, double alpha, double beta)
{
    return mmixi_binary(m, "mmix_scale", MMIX_OP_SCALE, x, NULL, alpha, beta);
}
static mmix_tensor *mmixi_copied(mmix_ctx *m, mmix_tensor *x)
{
    return x ? mmixi_binary(m, "mmix_reshape of a view with gaps", MMIX_OP_SCALE, x, NULL, 1, 0) : NULL;
}
#define MMIXI_BINARY(name, op, beta) \
    MMIXDEF mmix_tensor *mmix_##name(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b) \
    { \
        return mmixi_binary(m, "mmix_" #name, op, a, b, 1, beta); \
    }
MMIXI_BINARY(add, MMIX_OP_ADD, 1)
MMIXI_BINARY(sub, MMIX_OP_ADD, -1)
MMIXI_BINARY(mul, MMIX_OP_MUL, 1)
MMIXI_BINARY(div, MMIX_OP_DIV, 1)
MMIXI_BINARY(max, MMIX_OP_MAX, 1)
#undef MMIXI_BINARY

/* ---- axes in another order, other shapes ------------------------------------------------ */
MMIXDEF mmix_tensor *mmix_permute(mmix_ctx *m, mmix_tensor *x, const int *order)
{
    mmix_tensor *v = mmixi_expect(m, "mmix_permute", NULL, "x ...", x) ? mmixi_view(m, x, 0) : NULL;
    for (int i = 0, seen = 0; v && i < x->ndim; i++) {
        int a = order ? mmixi_axis(x, order[i]) : -1;
        if (a < 0 || seen & 1 << a)
            return mmixi_none(mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_permute: order[%d] is %d, expected "
                                        "each of 0 … %d once", i, order ? order[i] : -1, x->ndim - 1));
        seen |= 1 << a;
        v->shape[i] = x->shape[a]; v->stride[i] = x->stride[a];
    }
    return mmixi_copied(m, v);
}
/* x, or a copy where one step does not lead from row to row, or where there are gaps; NULL for NULL. */
static mmix_tensor *mmixi_strided(mmix_ctx *m, mmix_tensor *x)
{
    size_t step;
    return !x || mmixi_even_rows(x, &step) ? x : mmixi_copied(m, x);
}
static mmix_tensor *mmixi_compact(mmix_ctx *m, mmix_tensor *x)
{
    return !x || mmixi_contiguous(x) ? x : mmixi_copied(m, x);
}
/* Runs an op on rows whose output has the shape of its first input. */
static mmix_tensor *mmixi_run_like(mmix_ctx *m, const char *who, int op, mmix_call *call)
{
    mmix_tensor *x = call->in[0] = mmixi_strided(m, call->in[0]);
    return x ? mmixi_run_new(m, who, op, call, x->ndim, x->shape) : NULL;
}
MMIXDEF mmix_tensor *mmix_reshape(mmix_ctx *m, mmix_tensor *t, int ndim, const size_t *shape)
{
    mmix_tensor *v = mmixi_expect(m, "mmix_reshape", NULL, "t:any ...", t) ? mmixi_view(m, t, 0) : NULL;
    if (!v || !mmixi_describe(m, v, "mmix_reshape", t->dtype, ndim, shape)) return NULL;
    if (mmix_count(v) != mmix_count(t)) return mmixi_unfit(m, "mmix_reshape", t, v, "as many elements");
    if (mmixi_contiguous(t)) return v;
    /* splitting the last axis keeps the strides of the others: (B, L, HP) with gaps becomes (B, L, H, P) */
    size_t front = (size_t)(t->ndim - 1) * sizeof *shape;
    if (ndim < t->ndim || memcmp(shape, t->shape, front))
        return mmix_reshape(m, mmixi_copied(m, t), ndim, shape);
    memcpy(v->stride, t->stride, front);
    return v;
}

/* ---- one tensor in, one of its shape out ------------------------------------------------
   dx = dy f'(x), from x again; softmax of a row: y = e^(x - max) / Σ;  dx = y (dy - Σ y dy) */
/* The rare ones, in double: f(x), or its slope. */
static double mmixi_rare(int op, double x, double p, int slope)
{
    int tangent = op == MMIX_OP_TANH;
    double e = tangent ? mmixi_expm1(-2 * fabs(x)) : op == MMIX_OP_SIGMOID ? mmixi_exp(-fabs(x)) : 0,
        t = tangent ? -e / (2 + e) : 1 / (1 + e);
    switch (op) {
    case MMIX_OP_EXP: return mmixi_exp(x);
    case MMIX_OP_LOG: return slope ? 1 / x : mmixi_log(x);
    case MMIX_OP_SQRT: return slope ? 0.5 / sqrt(x) : sqrt(x);
    case MMIX_OP_RELU: return slope ? x > 0 : x > 0 || x != x ? x : 0;
    case MMIX_OP_ABS: return slope ? (x > 0) - (x < 0) : fabs(x);
    case MMIX_OP_SIGMOID: return slope ? e * t * t : x < 0 ? e * t : t;
    case MMIX_OP_TANH: return slope ? 4 * (1 + e) / (2 + e) / (2 + e) : x < 0 ? -t : t;
    default: return !slope ? mmixi_pow(x, p) : p != 0 ? p * mmixi_pow(x, p - 1) : 0;
    }
}
static void mmixi_unary_rows(const mmix_call *c, mmixi_range range)
{
    const mmixi_kernels *k = c->m->k;
    int op = c->op, add = c->add[0];
    for (mmixi_row_pass p = mmixi_row_first(c, range.begin); p.r < range.end; mmixi_row_next(&p)) {
        const mmix_real *x = p.x, *dy = p.dy;
        mmix_real *y = p.y, *dx = p.dx;
        size_t n = p.n;
        switch (op) {
        case MMIX_OP_SILU: dy ? k->silu_backward(n, x, dy, dx, add) : k->silu(n, x, y); break;
        case MMIX_OP_GELU: dy ? k->gelu_backward(n, x, dy, dx, add) : k->gelu(n, x, y); break;
        case MMIX_OP_SOFTPLUS: dy ? k->softplus_backward(n, x, dy, dx, add) : k->softplus(n, x, y); break;
        case MMIX_OP_SOFTMAX:
            dy ? k->softmax_backward(n, y, dy, k->dot(n, y, dy), dx, add) : k->softmax(n, x, y);
            break;
        default:
            for (size_t i = 0; i < n; i++) {
                double f = mmixi_rare(op, (double)x[i], c->number[0], dy != NULL);
                if (dy) dx[i] = (add ? dx[i] : 0) + (mmix_real)((double)dy[i] * f);
                else y[i] = (mmix_real)f;
            }
        }
    }
}
static mmix_tensor *mmixi_unary(mmix_ctx *m, const char *who, int op, mmix_tensor *x, double number)
{
    mmix_call call = mmixi_call(x, NULL, NULL);
    call.number[0] = number;
    return mmixi_expect(m, who, NULL, "x ...", x) ? mmixi_run_like(m, who, op, &call) : NULL;
}
#define MMIXI_UNARY(name, op) \
    MMIXDEF mmix_tensor *mmix_##name(mmix_ctx *m, mmix_tensor *x) \
    { \
        return mmixi_unary(m, "mmix_" #name, op, x, 0); \
    }
MMIXI_UNARY(exp, MMIX_OP_EXP)
MMIXI_UNARY(log, MMIX_OP_LOG)
MMIXI_UNARY(sqrt, MMIX_OP_SQRT)
MMIXI_UNARY(silu, MMIX_OP_SILU)
MMIXI_UNARY(gelu, MMIX_OP_GELU)
MMIXI_UNARY(softplus, MMIX_OP_SOFTPLUS)
MMIXI_UNARY(relu, MMIX_OP_RELU)
MMIXI_UNARY(abs, MMIX_OP_ABS)
MMIXI_UNARY(sigmoid, MMIX_OP_SIGMOID)
MMIXI_UNARY(tanh, MMIX_OP_TANH)
#undef MMIXI_UNARY
MMIXDEF mmix_tensor *mmix_power(mmix_ctx *m, mmix_tensor *x, double p)
{
    return mmixi_unary(m, "mmix_power", MMIX_OP_POWER, x, p);
}
/* Axis a of x counted from 0, or -1 after mmix_fail. */
static int mmixi_axis_of(mmix_ctx *m, const char *who, const mmix_tensor *x, int axis)
{
    char text[MMIXI_TEXT];
    int a = mmixi_axis(x, axis);
    return a >= 0 ? a : mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: axis %d of %s, expected %d to %d", who, axis,
                                  mmixi_shape_text(x, text), -x->ndim, x->ndim - 1);
}
MMIXDEF mmix_tensor *mmix_softmax(mmix_ctx *m, mmix_tensor *x, int axis)
{
    int order[MMIX_MAX_DIMS] = { 0, 1, 2, 3, 4, 5 }, a;
    if (!mmixi_expect(m, "mmix_softmax", NULL, "x ...", x)) return NULL;
    a = mmixi_axis_of(m, "mmix_softmax", x, axis);
    if (a < 0 || a == x->ndim - 1) return mmixi_unary(m, "mmix_softmax", MMIX_OP_SOFTMAX, x, 0);
    order[a] = x->ndim - 1; order[x->ndim - 1] = a;      /* that axis and the last change places, and back */
    return mmix_permute(m, mmix_softmax(m, mmix_permute(m, x, order), -1), order);
}

/* ---- sums over an axis or everything: x as (outer, n, inner), n and inner = size[0, 1] ------- */
static int mmixi_sum_run(mmix_ctx *m, mmix_call *c)
{
    const mmix_real *x = mmixi_of(c->in[0]), *dy = c->dy[0];
    mmix_real *y = mmixi_of(c->out[0]), *dx = c->dx[0];
    size_t n = c->size[0], inner = c->size[1];
    int add = c->add[0];
    for (size_t i = 0, at = 0; i < mmix_count(c->out[0]); i += inner) {
        if (!dy && inner == 1) y[i] = m->k->sum(n, x + i * n);
        else for (size_t j = 0; j < n; j++, at += inner) {
            if (!dy) mmixi_put(m->k, inner, x + at, y + i, j > 0);
            else for (size_t q = 0; q < inner; q++) dx[at + q] = (add ? dx[at + q] : 0) + dy[i + q];
        }
    }
    return 0;
}
static mmix_tensor *mmixi_sum_over(mmix_ctx *m, const char *who, int op, mmix_tensor *x, int axis)
{
    mmix_call call = mmixi_call(NULL, NULL, NULL);
    size_t shape[MMIX_MAX_DIMS];
    int ndim = 0, a = -1;
    if (!mmixi_expect(m, who, NULL, "x ...", x)
        || (op == MMIX_OP_SUM_AXIS && (a = mmixi_axis_of(m, who, x, axis)) < 0)
        || !(x = mmixi_compact(m, x))) return NULL;
    for (int i = 0; a >= 0 && i < x->ndim; i++) if (i != a) shape[ndim++] = x->shape[i];
    call.in[0] = x; call.size[0] = a < 0 ? mmix_count(x) : x->shape[a];
    call.size[1] = a < 0 || x->shape[a] < 2 ? 1 : x->stride[a];
    return mmixi_run_new(m, who, op, &call, ndim, shape);
}
MMIXDEF mmix_tensor *mmix_sum_axis(mmix_ctx *m, mmix_tensor *x, int axis)
{
    return mmixi_sum_over(m, "mmix_sum_axis", MMIX_OP_SUM_AXIS, x, axis);
}
MMIXDEF mmix_tensor *mmix_sum(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_sum_over(m, "mmix_sum", MMIX_OP_SUM, x, 0);
}
MMIXDEF mmix_tensor *mmix_mean(mmix_ctx *m, mmix_tensor *x)
{
    return mmix_scale(m, mmixi_sum_over(m, "mmix_mean", MMIX_OP_SUM, x, 0), 1 / (double)mmix_count(x), 0);
}

/* ---- matmul: c = a b for each leading index;  da = dc bᵀ, db = aᵀ dc ---------------------- */
/* Matrix i of a contiguous tensor (…, J, K) with the values, or the gradient, p. */
static mmixi_mat mmixi_matrix_at(const mmix_tensor *t, const mmix_real *p, size_t i)
{
    size_t J = mmix_shape(t, -2);
    return mmixi_part(mmixi_rows_of(t, p), i * J, 0, J, mmixi_cols(t));
}
static int mmixi_matmul_run(mmix_ctx *m, mmix_call *call)
{
    const mmix_tensor *ta = call->in[0], *tb = call->in[1], *tc = call->out[0];
    mmix_real *da = call->dx[0], *db = call->dx[1];
    int failed = 0;
    for (size_t i = 0; i < mmixi_rows(ta) / mmix_shape(ta, -2); i++) {
        mmixi_mat a = mmixi_matrix_at(ta, mmixi_of(ta), i), b = mmixi_matrix_at(tb, mmixi_of(tb), i),
            c = mmixi_matrix_at(tc, call->dy[0] ? call->dy[0] : mmixi_of(tc), i);
        if (!call->dy[0]) failed |= mmixi_product(m, c, a, b, 0);
        if (da) failed |= mmixi_product(m, mmixi_matrix_at(ta, da, i), c, mmixi_t(b), call->add[0]);
        if (db) failed |= mmixi_product(m, mmixi_matrix_at(tb, db, i), mmixi_t(a), c, call->add[1]);
    }
    return failed;
}
MMIXDEF mmix_tensor *mmix_matmul(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)
{
    mmix_call call;
    size_t shape[MMIX_MAX_DIMS];
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_matmul", &d, "a ...MK, b ~KN", a, b)) return NULL;
    call = mmixi_call(mmixi_compact(m, a), mmixi_compact(m, b), NULL);
    memcpy(shape, a->shape, sizeof shape);
    shape[a->ndim - 1] = d.N;
    return mmixi_run_new(m, "mmix_matmul", MMIX_OP_MATMUL, &call, a->ndim, shape);
}

/* ---- concat, gather, add_rows, insert_token: rows moved about ------------------------------ */
/* Each part is a view of the output, along axis size[0]. */
static int mmixi_concat_run(mmix_ctx *m, mmix_call *c)
{
    size_t a = c->size[0];
    mmix_tensor place = *c->out[0];
    for (size_t p = 0, at = 0; p < MMIX_MAX_INPUTS && c->in[p]; at += place.shape[a] * place.stride[a], p++) {
        const mmix_tensor *part = c->in[p];
        place.shape[a] = part->shape[a];
        if (!c->dy[0]) mmixi_put_all(m, part, mmixi_of(part), &place, mmixi_of(c->out[0]) + at, 0);
        else if (c->dx[p]) mmixi_put_all(m, &place, c->dy[0] + at, part, c->dx[p], c->add[p]);
    }
    return 0;
}
MMIXDEF mmix_tensor *mmix_concat(mmix_ctx *m, int axis, mmix_tensor **parts, size_t n)
{
    const char *who = "mmix_concat";
    mmix_call call;
    mmixi_dims d;
    size_t shape[MMIX_MAX_DIMS];
    int a, ndim;
    if (mmixi_inputs(m, who, &call, parts, n) || !mmixi_expect(m, who, &d, "parts[0] ...", call.in[0])
        || (a = mmixi_axis_of(m, who, parts[0], axis)) < 0) return NULL;
    ndim = parts[0]->ndim;
    memcpy(shape, parts[0]->shape, sizeof shape);
    shape[a] = 0;
    for (size_t p = 0; p < n; p++) {             /* equal but along a */
        char spec[32];
        snprintf(spec, sizeof spec, "+parts[%d] %.*s*%.*s", (int)p, a, "ABCDE", ndim - 1 - a, "VWXYZ");
        if (!mmixi_expect(m, who, &d, spec, parts[p])) return NULL;
        shape[a] += parts[p]->shape[a];
    }
    call.size[0] = (size_t)a;
    return mmixi_run_new(m, who, MMIX_OP_CONCAT, &call, ndim, shape);
}

/* Number i of an integer tensor in row-major order. */
static inline int mmixi_index(const mmix_tensor *t, size_t i) { return mmix_data_i32(t)[mmixi_place(t, i)]; }
/* Whether all of them lie below n. */
static int mmixi_index_ok(mmix_ctx *m, const char *who, const char *name, const mmix_tensor *t, size_t n)
{
    for (size_t i = 0; i < mmix_count(t); i++) {
        int32_t at = mmixi_index(t, i);
        if (at < 0 || (size_t)at >= n)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s[%.0f] is %d, expected 0 to %.0f", who, name,
                             (double)i, (int)at, (double)(n - 1)), 0;
    }
    return 1;
}
/* gather: out[i] = table[index[i]];  add_rows: y = x, then y[b, index[i]] += part[b, i], and dy is handed on
   to x. Either is the other's backward: some columns of all rows of a list and of a table, in which a row may
   be met twice. */
static void mmixi_gather_columns(const mmix_call *c, mmixi_range range)
{
    int gather = c->op == MMIX_OP_GATHER, back = c->dy[0] != NULL, scatter = gather == back;
    const mmix_tensor *in = c->in[!gather], *y = c->out[0], *index = c->in[2 - gather];
    mmixi_mat ours = mmixi_rows_of(in, (back ? c->dx[!gather] : mmixi_of(in)) + range.begin),
        theirs = mmixi_rows_of(y, (back ? c->dy[0] : mmixi_of(y)) + range.begin),
        table = gather ? ours : theirs, list = gather ? theirs : ours;
    size_t n = mmix_count(index), L = mmix_shape(gather ? in : y, -2);
    for (size_t i = 0; i < list.rows; i++) {
        mmix_real *row = mmixi_row(table, i / n * L + (size_t)mmixi_index(index, i % n)),
            *place = mmixi_row(list, i);
        mmixi_put(c->m->k, range.end - range.begin, scatter ? place : row, scatter ? row : place,
                  scatter || c->add[1]);
    }
}
static int mmixi_gather_run(mmix_ctx *m, mmix_call *c)
{
    const mmix_tensor *x = c->in[0], *y = c->out[0];
    size_t D = mmixi_cols(x);
    if (c->op == MMIX_OP_ADD_ROWS && !c->dy[0]) mmixi_put_all(m, x, mmixi_of(x), y, mmixi_of(y), 0);
    if (c->dy[0] && !c->dx[0] && !c->dx[1]) return 0;
    return mmixi_over(c, D, mmixi_max(64, mmixi_ceil_div(D, m->lanes)), mmixi_gather_columns);
}
MMIXDEF mmix_tensor *mmix_gather(mmix_ctx *m, mmix_tensor *table, mmix_tensor *index)
{
    mmix_call call = mmixi_call(table, index, table);              /* twice: its gradient begins with zeros */
    size_t shape[MMIX_MAX_DIMS + 1];
    if (!mmixi_expect(m, "mmix_gather", NULL, "table **, index:i32 ...", table, index)
        || !mmixi_index_ok(m, "mmix_gather", "index", index, table->shape[0])) return NULL;
    memcpy(shape, index->shape, sizeof index->shape);
    shape[index->ndim] = table->shape[1];
    return mmixi_run_new(m, "mmix_gather", MMIX_OP_GATHER, &call, index->ndim + 1, shape);
}
MMIXDEF mmix_tensor *mmix_add_rows(mmix_ctx *m, mmix_tensor *x, mmix_tensor *part, mmix_tensor *index)
{
    mmix_call call = mmixi_call(x, NULL, index);
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_add_rows", &d, "x BLD, index:i32 N, part BND", x, index, part)
        || !mmixi_index_ok(m, "mmix_add_rows", "index", index, d.L)) return NULL;
    call.in[1] = mmixi_strided(m, part); call.passed = 1;
    return mmixi_run_new(m, "mmix_add_rows", MMIX_OP_ADD_ROWS, &call, 3, x->shape);
}
MMIXDEF mmix_tensor *mmix_insert_token(mmix_ctx *m, mmix_tensor *x, mmix_tensor *token, size_t at)
{
    const char *spec = mmix_ndim(token) == 3 ? "x BLD, token 11D" : "x BLD, token D";
    mmix_tensor *part[3];
    mmixi_dims d;
    size_t n = 0;
    if (!mmixi_expect(m, "mmix_insert_token", &d, spec, x, token)
        || mmixi_within(m, "mmix_insert_token", "at", (double)at, 0, (double)d.L)) return NULL;
    if (at) part[n++] = mmix_slice(m, x, 1, 0, at);
    part[n++] = mmix_add(m, mmix_fill(mmix_new3(m, d.B, 1, d.D), 0), token);     /* of each sequence */
    if (at < d.L) part[n++] = mmix_slice(m, x, 1, at, d.L - at);
    return mmix_concat(m, 1, part, n);
}

/* ==== >>norms ========================================================================
   y = w (x - μ) / r + b,  r = √(variance + eps)  (RMS: μ = 0);  gated: x · silu(z) in place of x

   x (rows, D), w and b (D). Kept for the backward: μ and 1/r of each row. With x̂ = (x - μ)/r, g = w dy:

       dx = (g - mean(g) - x̂ mean(g x̂)) / r,   dw = Σ dy x̂,   db = Σ dy

   y feels neither a shift of x nor a stretch, so dx loses its parts along 1 and x̂ (RMS: along x̂ only).
   Ba et al. 2016; Zhang & Sennrich 2019.
   torch: F.layer_norm(x, (D,), w, b, eps);  x * rsqrt(x.pow(2).mean(-1, True) + eps) * w
   ==================================================================================== */

/* Weight gradients are sums over rows: a partial sum for each of at most 16 runs of rows, added in order. */
enum { MMIXI_PARTIALS = 16 };
static size_t mmixi_partial_grain(size_t rows) { return mmixi_max(8, mmixi_ceil_div(rows, MMIXI_PARTIALS)); }
static inline void mmixi_partial_sum(const mmixi_kernels *k, size_t parts, size_t D, size_t step,
                              const mmix_real *partial, mmix_real *to, int add)
{
    for (size_t p = 0; to && p < parts; p++) mmixi_put(k, D, partial + p * step, to, add || p);
}

/* in: x, w, b, z; size: groups, rows of a task, tasks of a backward. saved: of each row 1/r (groups), then μ.
   options, while it runs: sums of dw and db of each such task; silu(z), u = x silu(z) and du of each lane. */
static void mmixi_norm_rows(const mmix_call *c, mmixi_range range)
{
    const mmixi_kernels *k = c->m->k;
    const mmix_tensor *tz = c->in[3];
    size_t groups = c->size[0], D = mmixi_cols(c->in[0]), d = D / groups;
    int center = c->op == MMIX_OP_LAYER_NORM;
    const mmix_real *w = mmixi_of(c->in[1]), *b = mmixi_of(c->in[2]), width = (mmix_real)d;
    mmix_real *sums = (mmix_real *)(uintptr_t)c->options,
        *gate = sums + (c->size[2] * 2 + range.lane * 3) * D,
        *u = gate + (c->dy[0] ? D : 0), *du = u + D,       /* a forward needs silu(z) no longer */
        *dw = c->dy[0] ? sums + range.begin / c->size[1] * 2 * D : NULL;
    mmixi_mat z = tz ? mmixi_values(tz) : mmixi_matrix(gate, 0, 0, 0);
    for (mmixi_row_pass p = mmixi_row_first(c, range.begin); p.r < range.end; mmixi_row_next(&p)) {
        const mmix_real *x = tz ? u : p.x, *gates = mmixi_row(z, p.r);
        mmix_real *to = tz || !p.dx ? du : p.dx, sum, along,
            *kept = c->saved[0] ? c->saved[0] + p.r * (groups + 1) : NULL;
        if (tz) {
            k->silu(D, gates, gate);
            k->mul(D, p.x, gate, u);
        }
        for (size_t g = 0, i = 0; g < groups; g++, i += d) {
            const mmix_real *wg = w ? w + i : NULL;
            mmix_real mean = p.dy ? kept[groups] : center ? k->sum(d, x + i) / width : 0;
            if (p.dy) {
                k->normalise_sums(d, p.dy + i, x + i, mean, kept[g], wg, &sum, &along);
                k->normalise_backward(d, p.dy + i, x + i, mean, kept[g], wg, center ? sum / width : 0,
                                      along / width, to + i, to == p.dx && c->add[0], dw + i, dw + D + i);
                continue;
            }
            double variance = k->variance(d, x + i, mean) / (double)width;
            mmix_real rstd = (mmix_real)(1 / sqrt(variance + c->number[0]));
            k->normalise(d, x + i, mean, rstd, wg, b, p.y + i);
            if (kept) kept[g] = rstd, kept[groups] = mean;
        }
        if (tz && p.dx) (c->add[0] ? k->mul_add : k->mul)(D, du, gate, p.dx);        /* dx = du silu(z), */
        if (tz && c->dx[3]) {                                                        /* dz = du x silu'(z) */
            k->mul(D, du, p.x, du);
            k->silu_backward(D, gates, du, c->dx[3] + (gates - z.p), c->add[3]);
        }
    }
}
static int mmixi_norm_run(mmix_ctx *m, mmix_call *c)
{
    size_t rows = mmixi_rows(c->in[0]), D = mmixi_cols(c->in[0]), back = c->dy[0] != NULL,
        grain = back ? mmixi_partial_grain(rows) : mmixi_row_grain(D),
        parts = back * mmixi_ceil_div(rows, grain);
    if (!back && c->recorded && !mmix_save(m, c, 0, rows * (c->size[0] + 1))) return -1;
    mmix_mark mark = mmix_mark_here(m);
    mmix_real *scratch = mmixi_reals(m, 2 * parts + 3 * m->lanes, D);
    c->options = scratch; c->size[1] = grain; c->size[2] = parts;
    if (!scratch) return -1;
    mmixi_zero(m, parts * 2 * D, scratch);
    mmixi_over(c, rows, grain, mmixi_norm_rows);
    mmixi_partial_sum(m->k, parts, D, 2 * D, scratch, c->dx[1], c->add[1]);
    mmixi_partial_sum(m->k, parts, D, 2 * D, scratch + D, c->dx[2], c->add[2]);
    mmix_rewind(m, mark);
    return 0;
}
static mmix_tensor *mmixi_norm(mmix_ctx *m, const char *who, int op, mmix_tensor *x, mmix_tensor *z,
                               mmix_tensor *weight, mmix_tensor *bias, double eps, size_t groups)
{
    mmix_call call = mmixi_call(x, weight, bias);
    mmixi_dims d;
    if (!mmixi_expect(m, who, &d, op == MMIX_OP_GATED_RMS_NORM ? "x ...D, weight? D, bias? D, z ~D"
                      : "x ...D, weight? D, bias? D", x, weight, bias, z)) return NULL;
    if (!groups || d.D % groups || !(eps >= 0))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %.0f features in %.0f groups, eps %g, expected groups that "
                  "divide them, eps at least 0", who, (double)d.D, (double)groups, eps);
    call.in[3] = mmixi_strided(m, z);
    call.size[0] = groups; call.number[0] = eps;
    return mmixi_run_like(m, who, op, &call);
}
MMIXDEF mmix_tensor *mmix_layer_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                     double eps)
{
    return mmixi_norm(m, "mmix_layer_norm", MMIX_OP_LAYER_NORM, x, NULL, weight, bias, eps, 1);
}
MMIXDEF mmix_tensor *mmix_rms_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, double eps)
{
    return mmixi_norm(m, "mmix_rms_norm", MMIX_OP_RMS_NORM, x, NULL, weight, NULL, eps, 1);
}
MMIXDEF mmix_tensor *mmix_gated_rms_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *z, mmix_tensor *weight,
                                         double eps, size_t groups)
{
    return mmixi_norm(m, "mmix_gated_rms_norm", MMIX_OP_GATED_RMS_NORM, x, z, weight, NULL, eps, groups);
}

/* ---- L2 normalisation and weight norm: y = g x / max(‖x‖, eps), one g a row or 1;
        dx = g/‖x‖ (dy - x̂ (x̂·dy)), dg = x̂·dy ------------------------------------------------ */
static void mmixi_unit_rows(const mmix_call *c, mmixi_range range)
{
    const mmixi_kernels *k = c->m->k;
    const mmix_real *g = mmixi_of(c->in[1]);
    for (mmixi_row_pass p = mmixi_row_first(c, range.begin); p.r < range.end; mmixi_row_next(&p)) {
        double norm = sqrt(k->variance(p.n, p.x, 0)), length = fmax(norm, c->number[0]);
        mmix_real scale = (mmix_real)((g ? g[p.r] : 1) / length);
        if (!p.dy) {
            k->scale(p.n, scale, p.x, p.y);
            continue;
        }
        mmix_real along = (mmix_real)(k->dot(p.n, p.x, p.dy) / length);
        if (p.dx) (c->add[0] ? k->axpy : k->scale)(p.n, scale, p.dy, p.dx);
        if (p.dx && norm > c->number[0])          /* else the length is a constant */
            k->axpy(p.n, -scale * along / (mmix_real)length, p.x, p.dx);
        if (c->dx[1]) mmixi_put(k, 1, &along, c->dx[1] + p.r, c->add[1]);
    }
}
/* Ops that take the rows of their first input one by one. */
static int mmixi_rows_run(mmix_ctx *m, mmix_call *c)
{
    (void)m;
    return mmixi_over_rows(c, c->in[0], c->op == MMIX_OP_L2_NORMALISE || c->op == MMIX_OP_WEIGHT_NORM
                           ? mmixi_unit_rows : mmixi_unary_rows);
}
MMIXDEF mmix_tensor *mmix_l2_normalise(mmix_ctx *m, mmix_tensor *x, double eps)
{
    if (m && !(eps >= 0))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_l2_normalise: eps %g, expected at least 0", eps);
    return mmixi_unary(m, "mmix_l2_normalise", MMIX_OP_L2_NORMALISE, x, eps);
}
MMIXDEF mmix_tensor *mmix_weight_norm(mmix_ctx *m, mmix_tensor *v, mmix_tensor *g)
{
    mmix_call call = mmixi_call(v, NULL, NULL);
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_weight_norm", &d, "v KD, g K1", v, g)) return NULL;
    call.in[1] = mmixi_compact(m, g);
    return mmixi_run_like(m, "mmix_weight_norm", MMIX_OP_WEIGHT_NORM, &call);
}

/* ==== >>linear =======================================================================
   y = x Wᵀ + b, or residual + s (x Wᵀ + b);  dx = dy W, dW = dyᵀ x, db = Σ dy

   x (rows, D), W (O, D), b (O), residual (rows, O), s one number for rows/|s| rows. All three products are
   one GEMM each, on x where it lies; bias, residual, s and (where nothing is recorded) gelu are its epilogue.
   A weight with an adapter (LoRA): y + alpha/r (x Aᵀ) Bᵀ, two more of these layers.
   torch: F.linear(x, W, b)
   ==================================================================================== */

/* in: x, W, b, residual, s; size[0]: gelu at the end */
static int mmixi_linear_forward(mmix_ctx *m, mmix_call *c)
{
    const mmix_tensor *w = c->in[1], *s = c->in[4];
    mmixi_mat x = mmixi_values(c->in[0]);
    mmixi_gemm g = mmixi_product_of(mmixi_values(c->out[0]), x, mmixi_t(mmixi_values(w)), 0);
    g.bias = mmixi_of(c->in[2]);
    g.half = mmixi_halves(w);
    g.gelu = c->size[0] != 0;
    if (w->packed && w->packed_nr == m->k->nr && x.rows > 2) g.packed_b = w->packed;     /* 2: dot products */
    g.residual = mmixi_of(c->in[3]);
    if (g.residual) g.ldr = mmixi_values(c->in[3]).rs;
    g.row_scale = mmixi_of(s);
    if (s) g.rows_per_scale = x.rows / mmix_count(s);
    return mmixi_gemm_run(m, &g);
}
static void mmixi_bias_columns(const mmix_call *c, mmixi_range range)
{
    mmixi_mat dy = mmixi_rows_of(c->out[0], c->dy[0] + range.begin);
    for (size_t r = 0; r < dy.rows; r++)
        mmixi_put(c->m->k, range.end - range.begin, mmixi_row(dy, r), c->dx[2] + range.begin, r || c->add[2]);
}
static int mmixi_linear_run(mmix_ctx *m, mmix_call *c)
{
    if (!c->dy[0]) return mmixi_linear_forward(m, c);
    const mmix_tensor *s = c->in[4], *y = c->out[0];
    size_t n = mmix_count(y), O = mmixi_cols(y), per = n / (s ? mmix_count(s) : 1);
    mmix_real *scaled = s ? mmixi_reals(m, n, 1) : NULL;
    mmixi_mat x = mmixi_values(c->in[0]), w = mmixi_values(c->in[1]), dy;
    for (size_t i = 0; scaled && i < n; i += per)
        m->k->scale(per, mmixi_of(s)[i / per], c->dy[0] + i, scaled + i);
    if (s) c->dy[0] = scaled;                    /* from here on dy is that of x Wᵀ + b */
    if (m->error_kind) return -1;
    dy = mmixi_rows_of(y, c->dy[0]);
    if (c->dx[2])
        mmixi_over(c, O, n < 8192 ? O : mmixi_max(16, mmixi_round_up(O / 8, 16)), mmixi_bias_columns);
    mmixi_gemm g = mmixi_product_of(mmixi_rows_of(c->in[0], c->dx[0]), dy, w, c->add[0]);
    g.half = mmixi_halves(c->in[1]);
    return (c->dx[0] && mmixi_gemm_run(m, &g))
        || (c->dx[1] && mmixi_product(m, mmixi_rows_of(c->in[1], c->dx[1]), mmixi_t(dy), x, c->add[1]));
}
static const mmix_lora *mmixi_lora_of(const mmix_tensor *weight) { return weight ? weight->lora : NULL; }
static mmix_tensor *mmixi_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                 mmix_tensor *residual, mmix_tensor *s, int gelu)
{
    const char *who = residual || s ? "mmix_linear_add" : "mmix_linear";
    mmix_call call = mmixi_call(x, weight, bias);
    mmixi_dims d;
    size_t shape[MMIX_MAX_DIMS];
    memset(&d, 0, sizeof d);
    d.B = mmix_ndim(x) > 1 ? mmix_shape(x, 0) : 1;
    if (!mmixi_expect(m, who, &d, "+weight:w OD, x ...D, bias? O, residual? ~O, s? B", weight, x, bias,
                      residual, s)) return NULL;
    call.in[0] = mmixi_strided(m, x);
    call.in[3] = mmixi_strided(m, residual); call.in[4] = s;
    call.constant = 1u << 4; call.passed = residual ? 4 : 0; call.size[0] = (size_t)gelu;
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = d.O;
    return mmixi_run_new(m, who, MMIX_OP_LINEAR, &call, x->ndim, shape);
}
MMIXDEF mmix_tensor *mmix_lora_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                      const mmix_lora *lora, mmix_tensor *residual, mmix_tensor *s)
{
    mmix_tensor *y = mmixi_linear(m, x, weight, bias, residual, s, 0);
    if (!y || !lora || !lora->A) return y;
    x = mmix_scale(m, mmix_linear(m, x, lora->A, NULL), lora->alpha / (double)lora->A->shape[0], 0);
    return mmix_linear_add(m, x, lora->B, NULL, y, s);
}
MMIXDEF mmix_tensor *mmix_linear_add(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                     mmix_tensor *residual, mmix_tensor *s)
{
    return mmix_lora_linear(m, x, weight, bias, mmixi_lora_of(weight), residual, s);
}
MMIXDEF mmix_tensor *mmix_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias)
{
    return mmix_linear_add(m, x, weight, bias, NULL, NULL);
}

/* ==== >>convolution ==================================================================
   u_t = b + Σ_k w_k ∘ x_{t-(W-1)+k},  y = u or silu(u)

   x (B, L, D), w (D, 1, W), b (D). Reverse: time runs from the end, so token t of the formula is row L-1-t.
   Tokens before the first come from initial_state (B, D, W-1), or are 0; with seq_idx a tap counts only if
   its token's number is t's. Backward, with du = dy silu'(u), u computed once more:

       dx_s = Σ_k w_k ∘ du_{s+(W-1)-k},   dw_k = Σ_t du_t ∘ x_{t-(W-1)+k},   db = Σ_t du_t

   In the code the past and x are one sequence: place s of it is entry s of the past, or token s - (W-1).
   torch: silu(F.conv1d(F.pad(x.mT, (W - 1, 0)), w, b, groups=D)).mT
   ==================================================================================== */

/* in: x, w, b, initial_state, seq_idx; size: silu, reverse */
typedef struct mmixi_conv {
    const mmix_call *c;
    size_t L, D, W, grain, places;               /* places: they are visited instead of tokens */
    mmix_real *w;                                /* transposed: (W, D) */
    mmix_real *x[2], *past[2];                   /* values and gradients; past (B, W-1, D); or NULL */
    /* du (B, L, D): forward y, without silu dy; dw and db of each run of `grain` tokens, (W + 1, D) */
    mmix_real *du, *partial;
    const mmix_real **taps;                      /* (lanes, W), each on its own cache lines */
} mmixi_conv;
/* Which row of a sequence is token t of the formula. */
static size_t mmixi_conv_row(const mmixi_conv *j, size_t t) { return j->c->size[1] ? j->L - 1 - t : t; }
/* Place s, or its gradient, as token t sees it: NULL where there is none, or of another number. */
static mmix_real *mmixi_conv_at(const mmixi_conv *j, int gradient, size_t b, size_t t, size_t s)
{
    const mmix_tensor *tx = j->c->in[0], *seq = j->c->in[4];
    const int32_t *number = seq ? mmix_data_i32(seq) + b * seq->stride[0] : NULL;
    size_t before = j->W - 1, row = mmixi_conv_row(j, s - before);
    mmix_real *x = j->x[gradient], *past = j->past[gradient];
    if (s < before) return past ? past + (b * before + s) * j->D : NULL;
    return !x || (number && number[row] != number[mmixi_conv_row(j, t)]) ? NULL
        : x + b * tx->stride[0] + row * tx->stride[1];
}
/* The rows that token i reads, tap by tap, from column d on; of places du of the tokens that read place i. */
static const mmix_real **mmixi_conv_taps(const mmixi_conv *j, size_t b, size_t i, size_t d, size_t lane)
{
    const mmix_real **x = j->taps + lane * mmixi_round_up(j->W, 8);
    for (size_t k = 0; k < j->W; k++) {
        size_t t = j->places ? i - k : i;        /* below 0 it is beyond L */
        x[k] = t < j->L ? mmixi_conv_at(j, 0, b, t, t + k) : NULL;
        if (j->places && x[k]) x[k] = j->du + (b * j->L + mmixi_conv_row(j, t)) * j->D;
        if (x[k]) x[k] += d;
    }
    return x;
}
/* Of tokens y; backward du, and a run's part of dw and db: so few columns at a time that their weights,
   gradients and rows in use stay in the first cache. Of places dx: s is tap k of token s - k. */
static void mmixi_conv_rows(void *arg, mmixi_range range)
{
    const mmixi_conv *j = (const mmixi_conv *)arg;
    const mmixi_kernels *k = j->c->m->k;
    const mmix_real *dy = j->c->dy[0], *bias = mmixi_of(j->c->in[2]);
    size_t silu = j->c->size[0], D = j->D, W = j->W, before = W - 1, rows = j->L + j->places * before,
        columns = dy ? 512 : D;
    for (size_t d = 0; d < D; d += columns)
        for (size_t r = range.begin; r < range.end; r++) {
            size_t b = r / rows, i = r % rows, n = mmixi_min(columns, D - d);
            const mmix_real **x = mmixi_conv_taps(j, b, i, d, range.lane), *w = j->w + d;
            if (j->places) {
                mmix_real *dx = mmixi_conv_at(j, 1, b, i - before, i);
                if (dx) k->conv(n, W, x, w, D, i >= before && j->c->add[0] ? dx + d : NULL, dx + d);
                continue;
            }
            mmix_real *y = j->du + (r - i + mmixi_conv_row(j, i)) * D + d,
                *dw = j->partial + range.begin / j->grain * (W + 1) * D + d;
            if (!dy || silu) k->conv(n, W, x, w, D, bias ? bias + d : NULL, y);
            if (silu) dy ? k->silu_backward(n, y, dy + (y - j->du), y, 0) : k->silu(n, y, y);
            if (dy) k->conv_weight(n, W, y, x, dw, D, dw + W * D);
        }
}
/* The last W-1 places, as the last token sees them; backward their gradients are added. */
static void mmixi_conv_final(const mmixi_conv *j, size_t B)
{
    const mmix_real *dy = j->c->dy[1];
    mmix_real *y = j->c->dy[0] ? NULL : mmixi_of(j->c->out[1]);
    size_t before = j->W - 1;
    for (size_t r = 0; r < B * before && (y || dy); r++) {
        size_t b = r / before, s = r % before;
        mmix_real *x = mmixi_conv_at(j, dy != NULL, b, j->L - 1, j->L + s);
        for (size_t d = 0, at = b * j->D * before + s; d < j->D; d++, at += before)
            if (y) y[at] = x ? x[d] : 0;
            else if (x) x[d] += dy[at];
    }
}
/* (n, rows, cols) → (n, cols, rows): in step memory, NULL of NULL; into a gradient, unless that is NULL */
static mmix_real *mmixi_transposed(mmix_ctx *m, size_t n, size_t rows, size_t cols, const mmix_real *x)
{
    mmix_real *y = x ? mmixi_reals(m, n, rows * cols) : NULL;
    for (size_t i = 0; y && i < n * rows * cols; i += rows * cols)
        m->k->transpose(rows, cols, x + i, (ptrdiff_t)cols, y + i, (ptrdiff_t)rows);
    return y;
}
static void mmixi_put_transposed(mmix_ctx *m, size_t n, size_t rows, size_t cols, const mmix_real *x,
                                 mmix_real *to, int add)
{
    const mmix_real *y = to ? mmixi_transposed(m, n, rows, cols, x) : NULL;
    if (y) mmixi_put(m->k, n * rows * cols, y, to, add);
}
static int mmixi_conv_run(mmix_ctx *m, mmix_call *c)
{
    mmix_mark mark = mmix_mark_here(m);
    /* own: so many tokens a task that it reads its columns' weights for several of them */
    const size_t *shape = c->in[0]->shape, back = c->dy[0] != NULL, B = shape[0], rows = B * shape[1],
        D = shape[2], W = c->in[1]->shape[2], step = (W + 1) * D, own = mmixi_row_grain(D / 4),
        grain = back ? mmixi_partial_grain(rows) : own, parts = mmixi_ceil_div(rows, grain);
    mmixi_conv j = { c, shape[1], D, W, grain, 0, mmixi_transposed(m, 1, D, W, mmixi_of(c->in[1])),
                     { mmixi_of(c->in[0]), c->dx[0] },
                     { mmixi_transposed(m, B, D, W - 1, mmixi_of(c->in[3])),
                       c->dx[3] ? mmixi_reals(m, B, (W - 1) * D) : NULL },
                     !back ? mmixi_of(c->out[0]) : c->size[0] ? mmixi_reals(m, rows, D)
                     : (mmix_real *)(uintptr_t)c->dy[0], mmixi_reals(m, back * parts, step), NULL };
    j.taps = (const mmix_real **)mmixi_step_array(m, m->lanes, mmixi_round_up(W, 8), sizeof *j.taps);
    if (m->error_kind) return -1;
    mmixi_zero(m, back * parts * step, j.partial);
    mmixi_ranges(m, rows, grain, mmixi_conv_rows, &j);
    j.places = 1;
    if (c->dx[0] || j.past[1]) mmixi_ranges(m, rows + B * (W - 1), own, mmixi_conv_rows, &j);
    mmixi_conv_final(&j, B);
    if (back) {
        mmixi_partial_sum(m->k, parts - 1, step, step, j.partial + step, j.partial, 1);
        mmixi_put_transposed(m, 1, W, D, j.partial, c->dx[1], c->add[1]);
        if (c->dx[2]) mmixi_put(m->k, D, j.partial + W * D, c->dx[2], c->add[2]);
        mmixi_put_transposed(m, B, W - 1, D, j.past[1], c->dx[3], c->add[3]);
    }
    mmix_rewind(m, mark);
    return 0;
}
MMIXDEF mmix_tensor *mmix_conv1d(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                 const mmix_conv1d_options *options)
{
    const char *who = "mmix_conv1d";
    const mmix_conv1d_options none = { 0, 0, NULL, NULL, NULL }, *o = options ? options : &none;
    mmix_call call = mmixi_call(x, weight, bias);
    mmixi_dims d;
    if (!mmixi_expect(m, who, &d, "x BLD, weight D1W, bias? D, seq_idx?:i32 BL", x, weight, bias, o->seq_idx))
        return NULL;
    d.V = d.W - 1;
    if (!mmixi_expect(m, who, &d, "+initial_state? BDV", o->initial_state)) return NULL;
    if (o->initial_state && o->seq_idx)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: initial_state and seq_idx do not go together", who);
    call.in[1] = mmixi_compact(m, weight);
    call.in[3] = d.V ? mmixi_compact(m, o->initial_state) : NULL;
    call.in[4] = o->seq_idx;
    call.size[0] = o->silu != 0; call.size[1] = o->reverse != 0;
    call.out[0] = mmixi_like(m, who, x);
    if (o->final_state) *o->final_state = call.out[1] = d.W > 1 ? mmix_new3(m, d.B, d.D, d.V) : NULL;
    return mmixi_run(m, MMIX_OP_CONV1D, &call, NULL, 0);
}

/* ==== >>patches ======================================================================
   pictures to tokens: patch embedding, positions for another grid
   ==================================================================================== */

/* A linear layer of the columns (B, L, C P P): a copy of the pixels as (B, Y/P, X/P, C, P, P). */
MMIXDEF mmix_tensor *mmix_patch_embed(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias)
{
    static const int order[] = { 0, 2, 4, 1, 3, 5 };
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_patch_embed", &d, "x BCYX, weight DCPP, bias? D", x, weight, bias))
        return NULL;
    mmix_mark mark = mmix_mark_here(m);
    if (d.Y < d.P || d.X < d.P)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_patch_embed: pictures of %.0f x %.0f pixels are smaller than "
                  "a patch of %.0f", (double)d.Y, (double)d.X, (double)d.P);
    const size_t patches[] = { d.B, d.C, d.Y / d.P, d.P, d.X / d.P, d.P },
        columns[] = { d.B, patches[2] * patches[4], d.C * d.P * d.P }, rows[] = { d.D, columns[2] };
    x = mmix_slice(m, mmix_slice(m, x, 2, 0, patches[2] * d.P), 3, 0, patches[4] * d.P);
    x = mmix_reshape(m, mmix_permute(m, mmix_reshape(m, x, 6, patches), order), 3, columns);
    x = mmix_linear(m, x, mmix_reshape(m, weight, 2, rows), bias);
    return !x || x->wants || !mmix_rewind_keep(m, mark, &x, 1) ? x : NULL;
}

/* ---- resizing: along an axis y_i = Σ over taps of weight x_at, the same weights backward ---- */

/* An input of an output, never beyond the ends, and its weight; those of output `out` of an axis of n inputs,
   `ratio` to an output (see >>images), and how many, at most 4 or n. */
typedef struct mmixi_tap { size_t at; double weight; } mmixi_tap;
static size_t mmixi_resize_taps(int filter, size_t n, double ratio, size_t out, mmixi_tap *tap);
/* size: filter, axis; number: input steps per output step. Behind an output's taps stands one at n. */
static int mmixi_resize_run(mmix_ctx *m, mmix_call *c)
{
    mmix_mark mark = mmix_mark_here(m);
    const mmix_tensor *in = c->in[0];
    const mmix_real *dy = c->dy[0];
    double ratio = c->number[0];
    size_t axis = c->size[1], n = in->shape[axis], inner = in->stride[axis], count = c->out[0]->shape[axis],
        most = mmixi_min(mmixi_max(4, n), (size_t)(4 * fmax(ratio, 1)) + 1) + 1, at = 0;
    mmixi_tap *tap = (mmixi_tap *)mmixi_step_array(m, count, most, sizeof *tap);
    mmix_real *x = dy ? c->dx[0] : mmixi_of(in), *y = mmixi_of(c->out[0]);
    if (!tap) return -1;
    if (dy && !c->add[0]) mmixi_zero(m, mmix_count(in), x);
    for (size_t i = 0; i < count; i++)
        tap[i * most + mmixi_resize_taps((int)c->size[0], n, ratio, i, tap + i * most)].at = n;
    for (size_t left = mmix_count(in); left; left -= n * inner, x += n * inner)
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < inner; k++, at++) {
                double sum = 0;
                for (const mmixi_tap *t = tap + i * most; t->at < n; t++)
                    if (dy) x[t->at * inner + k] += (mmix_real)(t->weight * dy[at]);
                    else sum += t->weight * x[t->at * inner + k];
                if (!dy) y[at] = (mmix_real)sum;
            }
    mmix_rewind(m, mark);
    return 0;
}
MMIXDEF mmix_tensor *mmix_resize(mmix_ctx *m, mmix_tensor *x, int filter, size_t out_h, size_t out_w,
                                 double scale_h, double scale_w)
{
    static const char who[] = "mmix_resize";
    if (!mmixi_expect(m, who, NULL, "x ****", x)) return NULL;
    for (size_t axis = 3; x && axis > 1; axis--) {
        mmix_call call = mmixi_call(mmixi_compact(m, x), NULL, NULL);
        size_t shape[MMIX_MAX_DIMS], n = axis > 2 ? out_w : out_h;
        double scale = axis > 2 ? scale_w : scale_h;
        if (mmixi_within(m, who, "filter", filter, MMIX_BICUBIC, MMIX_BICUBIC_ANTIALIAS)
            || mmixi_within(m, who, axis > 2 ? "out_w" : "out_h", (double)n, 1, INT32_MAX)
            || (!(scale == 0) && mmixi_within(m, who, axis > 2 ? "scale_w, if not 0," : "scale_h, if not 0,",
                                              scale, 1e-6, 1e6))) return NULL;
        memcpy(shape, x->shape, sizeof shape);
        shape[axis] = n;
        call.size[0] = (size_t)filter; call.size[1] = axis;
        call.number[0] = scale > 0 ? 1 / scale : (double)x->shape[axis] / (double)n;
        x = mmixi_run_new(m, who, MMIX_OP_RESIZE, &call, 4, shape);
    }
    return x;
}

/* ==== >>heads ========================================================================
   how the mixers see a tensor (B, L, heads, width): a pointer and three steps
   ==================================================================================== */

MMIXDEF mmix_heads mmix_heads_plain(mmix_real *p, size_t L, size_t heads, size_t width, size_t H)
{
    ptrdiff_t head = (ptrdiff_t)width, token = (ptrdiff_t)heads * head;
    mmix_heads v = { p, (ptrdiff_t)L * token, token, head, H / heads };
    return v;
}
/* t (B, L, heads, width) or (B, L, heads); data is t's own or that of its gradient, which has its strides. */
static inline mmix_heads mmixi_heads_of(const mmix_tensor *t, const mmix_real *data, size_t H)
{
    const size_t *step = t->stride;
    mmix_heads v = { (mmix_real *)data, (ptrdiff_t)step[0], (ptrdiff_t)step[1], (ptrdiff_t)step[2],
                     H / t->shape[2] };
    return v;
}
static inline mmix_real *mmixi_at(const mmix_heads *v, size_t b, size_t t, size_t h)
{
    return v->p + (ptrdiff_t)b * v->batch + (ptrdiff_t)t * v->token + (ptrdiff_t)(h / v->share) * v->head;
}
/* Row after row: to = 0; to = or += from */
static void mmixi_zero_rows(mmixi_mat to)
{
    for (size_t i = 0; i < to.rows; i++) memset(mmixi_row(to, i), 0, to.cols * sizeof *to.p);
}
static void mmixi_put_rows(const mmixi_kernels *k, mmixi_mat from, mmixi_mat to, int add)
{
    for (size_t i = 0; i < from.rows; i++) mmixi_put(k, from.cols, mmixi_row(from, i), mmixi_row(to, i), add);
}

/* ==== >>rope =========================================================================
   rotary positions: pair i of a head's features turns by angle = pos · theta^(-2i/R)

       (u, v) → (u cos - v sin, u sin + v cos);   backward: the same turn the other way

   q_i·k_j then depends on i - j alone (Su et al. 2021). Angles are formed in double: positions reach 10⁵.
   ==================================================================================== */

/* in: x, pos; options: all filled in. saved[0]: cos and sin of the angles of size[0] (L or B L) positions;
   size[1] tokens before them do not turn. */
static void mmixi_rope_angles(const mmix_call *c, mmixi_range range)
{
    const mmix_rope_options *o = (const mmix_rope_options *)c->options;
    const size_t *s = o->sections;
    double log_theta = mmixi_log(o->theta);
    for (size_t i = 0; i < o->dim / 2; i++) {
        double frequency = mmixi_exp(-2 * (double)i / (double)o->dim * log_theta);
        size_t axis = !s[0] || i < s[0] ? 0 : i < s[0] + s[1] ? 1 : 2;
        for (size_t t = range.begin; t < range.end; t++) {
            const mmix_real *angles = mmixi_of(c->in[1]);
            double angle = angles ? (double)angles[mmixi_row_offset(c->in[1], t) + i]
                : frequency * mmixi_index(c->in[1], axis * c->size[0] + t);
            mmix_real *turn = c->saved[0] + t * o->dim + 2 * i;
            turn[0] = (mmix_real)mmixi_cos(angle); turn[1] = (mmix_real)mmixi_sin(angle);
        }
    }
}
static void mmixi_rope_rows(const mmix_call *c, mmixi_range range)
{
    const mmix_rope_options *o = (const mmix_rope_options *)c->options;
    const mmix_tensor *in = c->in[0];
    const mmix_real *values = mmixi_of(in), *dy = c->dy[0];
    mmix_real *y = mmixi_of(c->out[0]);
    size_t N = in->shape[3], step = o->interleaved ? 2 : 1, other = o->interleaved ? 1 : o->dim / 2;
    for (size_t r = range.begin; r < range.end; r++) {
        size_t at = mmixi_row_offset(in, r), t = r / in->shape[2] % (c->size[0] + c->size[1]);
        size_t R = t < c->size[1] ? 0 : o->dim;
        const mmix_real *x = dy ? dy + r * N : values + at, *turn = c->saved[0] + (t - c->size[1]) * R;
        mmix_real *z = dy ? c->dx[0] + at : y + r * N;
        if (R < N) mmixi_put(c->m->k, N - R, x + R, z + R, c->add[0]);
        if (!c->add[0]) memset(z, 0, R * sizeof *z);
        for (size_t i = 0; i < R / 2 * step; i += step, turn += 2) {
            mmix_real cosine = turn[0], sine = dy ? -turn[1] : turn[1], u = x[i], v = x[i + other];
            z[i] += u * cosine - v * sine; z[i + other] += u * sine + v * cosine;
        }
    }
}
static int mmixi_rope_run(mmix_ctx *m, mmix_call *c)
{
    size_t R = ((const mmix_rope_options *)c->options)->dim;
    mmix_mark mark = mmix_mark_here(m);
    if (!c->dy[0]) {
        if (!mmix_save(m, c, 0, c->size[0] * R)) return -1;
        mmixi_over(c, c->size[0], mmixi_row_grain(R * 2), mmixi_rope_angles);
    }
    mmixi_over_rows(c, c->in[0], mmixi_rope_rows);
    if (!c->recorded) mmix_rewind(m, mark);
    return 0;
}
/* Whether heads of N can be turned so. */
static int mmixi_rope_check(mmix_ctx *m, const char *who, const mmix_rope_options *o, size_t N)
{
    const size_t *part = o->sections, sum = part[0] + part[1] + part[2], R = o->dim ? o->dim : N;
    if (R % 2 == 0 && R <= N && (!sum || (sum == R / 2 && part[0])) && o->theta >= 0 && o->theta <= DBL_MAX)
        return 1;
    return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: rope.dim %.0f of heads of %.0f, sections %.0f + %.0f + "
                     "%.0f, rope.theta %g; dim is even, at most a head, and twice the sections' sum, of "
                     "which the first is not 0, theta at least 0", who, (double)R, (double)N, (double)part[0],
                     (double)part[1], (double)part[2], o->theta), 0;
}
MMIXDEF mmix_tensor *mmix_rope(mmix_ctx *m, mmix_tensor *x, mmix_tensor *pos,
                               const mmix_rope_options *options)
{
    static const char specs[5][24] = { "x BLHN, pos:i32 L", "x BLHN, pos:i32 BL", "x BLHN, pos:i32 3L",
                                       "x BLHN, pos:i32 3BL", "x BLHN, pos TR" };
    mmix_call call = mmixi_call(x, pos, NULL);
    mmix_rope_options o;
    mmixi_dims d;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    int sections = o.sections[0] || o.sections[1] || o.sections[2], batched = mmix_ndim(pos) > 1 + sections,
        angles = mmixi_of(pos) != NULL;
    if (!mmixi_expect(m, "mmix_rope", &d, specs[angles ? 4 : 2 * sections + batched], x, pos)) return NULL;
    if (angles) o.dim = 2 * d.R, o.sections[0] = o.sections[1] = o.sections[2] = 0;
    if (!mmixi_rope_check(m, "mmix_rope", &o, d.N)
        || (angles && mmixi_within(m, "mmix_rope", "rows of angles", (double)d.T, 1, (double)d.L)))
        return NULL;
    if (o.theta <= 0) o.theta = 10000;
    if (!o.dim) o.dim = d.N;
    call.size[0] = angles ? d.T : batched ? d.B * d.L : d.L; call.size[1] = angles ? d.L - d.T : 0;
    call.constant = 2;                           /* pos */
    call.out[0] = mmixi_like(m, "mmix_rope", x);
    return mmixi_run(m, MMIX_OP_ROPE, &call, &o, sizeof o);
}

/* ==== >>mixing =======================================================================
   Y = M X: M itself, and what the three mixers have in common

       softmax attention   M_ij = e^(s_ij) / Σ_t e^(s_it),   s_ij = scale · q_i·k_j + bias_ij
       linear attention    M_ij = φ(q_i)·ψ(k_j), with `normalise` divided by Σ_t φ(q_i)·ψ(k_t) + eps
       SSD                 M_ij = e^(a_{j+1} + … + a_i) C_i·B_j δ_j, + D where i = j;   a = δ A

   for every j that i sees, else 0; Q ≡ C, K ≡ B, V ≡ X. The plain loop, mmixi_mix_plain, is this definition.
   The fast forms, none of which makes M, are the next three rooms: passes over an mmix_raw, in tasks of
   sequences and heads, by the threads of a context or by the caller's.
   ==================================================================================== */

enum { MMIXI_QUERY_BLOCK = MMIXI_SIZE(24, 2), MMIXI_KEY_TILE = MMIXI_SIZE(512, 3) };
typedef struct mmixi_keys { size_t begin, end; } mmixi_keys;
/* A token, its window and its place on the grid: places differ as do the numbers of bias for a distance. */
typedef struct mmixi_spot { size_t at, window, place; } mmixi_spot;
/* What the tasks of a pass know; below what each writes, in a copy of its own. */
typedef struct mmixi_pass {
    mmix_raw r;
    mmix_mixer o;                                /* its options, the defaults filled in */
    const mmixi_kernels *k;
    void (*task)(struct mmixi_pass *j, size_t index, size_t lane);
    int back, linear, reverse;
    size_t L, S, H, N, P, D_width;               /* with windows L and S are those of the largest */
    size_t tasks, lanes, lane_size, kept;        /* lane_size: reals of scratch; kept: mmix_raw_kept */
    mmix_real *scratch;
    /* the scan, SSD and linear attention */
    size_t V, NV;                                /* columns of v, state: P, or P + 1; reals of a state */
    size_t shared;                               /* heads that share a state; of softmax attention, a task */
    size_t chunk, one, Q;                        /* up to `one` tokens are one chunk; Q: the longest */
    int full, step;                              /* linear, not causal; one token, state changed in place */
    int single;                                  /* softmax attention of one query: untransposed */
    size_t heads, blocks;                        /* heads a task takes, tasks a sequence */
    size_t kept_states;                          /* of a head: before each chunk but the first */
    mmix_real *dhead;                            /* of sequences dA, dbias (B, H), dD (B, H, D_width) */
    /* dC, dB: so many tasks add to one, in dq and dk or, where part is not 0, each to its own reals */
    size_t parts[2], part[2];
    mmix_heads target[2];
    /* softmax attention: keys of a tile; reals between two rows of scores; a forward task takes `run`
       queries, a head has `runs`; windows of a sequence; numbers of bias that a head has, dbias of each
       window; of each axis its windows, and the tokens that the first lacks */
    size_t T, ld, run, runs, windows, distances, many[3], before[3];
    mmix_real *dbias;
    mmixi_spot *order;                           /* (windows, L): each window's tokens, … */
    size_t *count;                               /* … and how many they are; NULL: no windows */
    /* A task of the scan: head `head` of tokens start … end - 1, chunk `number` of sequence b; its heads, or
       queries of softmax attention, are first … last - 1. */
    size_t b, first, last, head, number, start, end, q;              /* q = end - start */
    mmixi_keys own;                              /* of a packed sequence: the tokens, of the last one met */
    size_t origin;                               /* the scan's first token, … */
    ptrdiff_t turn;                              /* … and step: 0 and 1, or L - 1 and -1 */
    int enters, leaves;                          /* a state comes in; one goes out to the next chunk */
    mmix_real *states, *entry;                   /* (heads, N, V): h of each, or its gradient; the place of
                                                    `in`, which may also point at what was kept */
    mmixi_mat h, in, in_t, dh_t;                 /* h of this head; h_in (N, V); transposes (V, N) */
    mmixi_mat B, C, dB, dC, Br, Cp, E;           /* (q, N); Br = r δ B, Cp = p C: what meets the state */
    mmixi_mat x, y, near_x, near_y;              /* (q, V); in the backward y is dy */
    mmixi_mat scores, decay, W, dW, dscores;     /* (q, q): S, L, … */
    mmix_real *t;                                /* a transpose (max(N, V), q) */
    mmix_real *u, *delta, *e, *p, *w, *da, *dd, *f;     /* (q); w = r δ */
    mmix_real *top, *sum, *along;                /* (N): of keys under a softmax over tokens */
    /* A task of softmax attention: a head of window `window` of all sequences, its S tokens in order; in the
       backward all `shared` heads that have k and v in common. Block by block: rows queries from i on, that
       see n of the tile's keys from `from` on, row r those of seen[r], and whole[r]: no others; again[r]:
       some of an earlier tile, add: any row does. Keys count from the tile's. */
    size_t window, tile, i, rows, from, n;
    mmixi_keys seen[MMIXI_QUERY_BLOCK];
    int add, again[MMIXI_QUERY_BLOCK], whole[MMIXI_QUERY_BLOCK];
    /* Of the tile: k, v, in the forward v and in the backward k side by side (heads may lie pages apart,
       their rows fall into a few sets of the nearest cache); transposes; sums of dk, dv. Of the block: scale
       q, dy, dq; scores become e^(s - m), then p. A window's rows are gathered. Of queries m, l in sum. */
    mmixi_mat key, value, key_t, value_t, dkey, dvalue, query, dy, dquery;
    mmix_real *row_max;
} mmixi_pass;
static void mmixi_scan_begin(mmixi_pass *j);
static mmixi_range_task mmixi_scan_sum;
static void mmixi_softmax_begin(mmixi_pass *j);

/* ---- the definition ---- */

/* f = φ of the rows of x. For MMIX_FEATURE_EFFICIENT's keys see mmixi_linear_rows. */
static void mmixi_feature_rows(const mmixi_kernels *k, int feature, mmixi_mat f, mmixi_mat x)
{
    size_t N = x.cols;
    mmix_real elu = feature == MMIX_FEATURE_ELU1;
    for (size_t r = 0; r < x.rows; r++) {
        const mmix_real *from = mmixi_row(x, r);
        mmix_real *to = mmixi_row(f, r);
        /* a head's rows lie so far apart that the machine does not guess the next ones */
        for (size_t i = 0; i < N; i += 64 / sizeof *to) MMIXI_FETCH(from + 8 * x.rs + i);
        if (feature == MMIX_FEATURE_SOFTMAX_BOTH || feature == MMIX_FEATURE_EFFICIENT)
            k->softmax(N, from, to);
        else if (feature == MMIX_FEATURE_NONE) memcpy(to, from, N * sizeof *to);
        else for (size_t i = 0; i < N; i++)
            to[i] = !(from[i] < 0) ? from[i] + elu : elu > 0 ? mmixi_exp_real(from[i]) : 0;    /* NaN stays */
    }
}
/* δ = clamp(softplus(u)), u = dt + bias, of tokens of a head */
static void mmixi_ssd_delta(const mmixi_pass *j, size_t head, mmixi_mat dt, mmix_real *u, mmix_real *delta)
{
    mmix_real low = (mmix_real)j->o.dt_low, high = (mmix_real)j->o.dt_high;
    for (size_t i = 0; i < dt.rows; i++)
        u[i] = delta[i] = *mmixi_row(dt, i) + (j->r.dt_bias ? j->r.dt_bias[head] : 0);
    if (j->o.dt_softplus) j->k->softplus(dt.rows, u, delta);
    for (size_t i = 0; high > 0 && i < dt.rows; i++)
        delta[i] = delta[i] < low ? low : delta[i] > high ? high : delta[i];
}
/* The packed sequence that token t lies in. */
static mmixi_keys mmixi_sequence(const mmix_raw *r, size_t b, size_t t)
{
    const int32_t *seq = r->seq_idx ? r->seq_idx + (ptrdiff_t)b * r->seq_batch : NULL;
    mmixi_keys run = { seq ? t : 0, seq ? t + 1 : r->L };
    while (run.begin && seq[run.begin - 1] == seq[t]) run.begin--;
    while (run.end < r->L && seq[run.end] == seq[t]) run.end++;
    return run;
}
/* What query i of this packed sequence sees, windows aside. More keys than queries: those are the last. */
static mmixi_keys mmixi_seen(const mmixi_pass *j, mmixi_keys own, size_t i)
{
    const mmix_raw *r = &j->r;
    const mmix_mixer *o = &j->o;
    size_t at = i + r->S - r->L, left = j->reverse ? 0 : at, right = r->S - 1 - at; /* tokens beside it */
    if (o->mask == MMIX_MASK_BAND) {
        left = mmixi_min(left, r->lefts ? (size_t)r->lefts[i] : o->left);
        right = mmixi_min(right, o->right);
    }
    else if (o->mask && !j->reverse)
        right = o->mask == MMIX_MASK_PREFIX && at < o->prefix ? mmixi_min(right, o->prefix - 1 - at) : 0;
    own.begin = mmixi_max(own.begin, at - left);
    own.end = mmixi_min(r->seq_idx ? own.end : r->S, at + 1 + right);
    return own;
}
static mmixi_spot mmixi_spot_of(const mmixi_pass *j, size_t i)
{
    mmixi_spot s = { i, 0, 0 };
    size_t windows = 1, places = 1;
    for (int a = 3; j->count && a-- > 0; i /= j->o.grid[a]) {
        size_t at = i % j->o.grid[a];
        s.window += (at + j->before[a]) / j->o.window[a] * windows;
        s.place += at * places;
        windows *= j->many[a]; places *= 2 * j->o.window[a] - 1;
    }
    return s;
}
/* Where head h's numbers of bias lie for a query at this place: that for a key at another is [-place]. */
static size_t mmixi_bias_at(const mmixi_pass *j, size_t h, size_t place)
{
    return h * j->distances + j->distances / 2 + place;
}
/* M (L, S) of a head; delta: SSD's of each token, else NULL. */
static void mmixi_mix_plain(const mmixi_pass *j, size_t b, size_t h, const mmix_real *delta, mmix_real *M)
{
    const mmix_raw *r = &j->r;
    int softmax = j->o.kind == MMIX_SOFTMAX;
    for (size_t i = 0; i < r->L; i++, M += r->S) {
        mmixi_keys seen = mmixi_seen(j, mmixi_sequence(r, b, i), i);
        mmixi_spot query = mmixi_spot_of(j, i);
        double largest = -HUGE_VAL, sum = j->o.eps, decay = 1;
        for (size_t n = 0; n < r->S; n++) {              /* away from the query: SSD forgets on the way */
            size_t t = j->reverse ? n : r->S - 1 - n;
            mmixi_spot key = mmixi_spot_of(j, t);
            double w = softmax ? -HUGE_VAL : 0;
            if (t >= seen.begin && t < seen.end && query.window == key.window) {
                w = j->o.scale * (double)j->k->dot(j->N, mmixi_at(&r->q, b, i, h), mmixi_at(&r->k, b, t, h));
                if (r->bias) w += (double)r->bias[mmixi_bias_at(j, h, query.place) - key.place];
                if (delta)
                    w *= decay * (double)delta[t], decay *= mmixi_exp((double)delta[t] * (double)r->A[h]);
            }
            M[t] = (mmix_real)w; largest = w > largest ? w : largest;
        }
        for (size_t t = 0; t < r->S; t++) {
            if (softmax) M[t] = (mmix_real)mmixi_exp((double)M[t] - largest);
            sum += (double)M[t];
        }
        for (size_t t = 0; t < r->S && j->o.normalise > 0; t++) M[t] = (mmix_real)((double)M[t] / sum);
        if (r->D) M[i] += r->D[h];
    }
}

/* ---- a pass ---- */

static inline int mmixi_normalises(const mmix_mixer *x)
{
    return x->kind == MMIX_LINEAR && (x->normalise ? x->normalise > 0 : x->feature == MMIX_FEATURE_ELU1
                                      || x->feature == MMIX_FEATURE_RELU);
}
/* x with its defaults filled in. Softmax attention normalises, too, and the others have a scale of 1. */
static mmix_mixer mmixi_mixer_settled(const mmix_mixer *x, size_t N)
{
    mmix_mixer o = *x;
    int softmax = x->kind == MMIX_SOFTMAX;
    if (!softmax || x->scale == 0) o.scale = softmax ? 1 / sqrt((double)N) : 1;
    if (softmax || !(x->eps > 0)) o.eps = softmax ? 0 : 1e-6;
    o.normalise = softmax || mmixi_normalises(x) ? 1 : -1;
    if (x->kind == MMIX_SSD) o.mask = MMIX_MASK_CAUSAL;
    if (!softmax) o.window[0] = 0;
    for (int a = 0; a < 3 && o.window[0]; a++) {
        o.grid[a] = mmixi_max(x->grid[a], 1); o.window[a] = mmixi_max(x->window[a], 1);
    }
    return o;
}
/* Parts of scratch; with base NULL only their sizes are added up. */
#define MMIXI_TABLE(name, type, n) \
    s->name = base && (n) > 0 ? (type *)(void *)(base + at) : NULL; \
    at += mmixi_round_up((n) * sizeof(type) / sizeof(mmix_real), 16)
#define MMIXI_PART(name, n) MMIXI_TABLE(name, mmix_real, n)
#define MMIXI_MAT(name, rows, cols) \
    s->name = mmixi_matrix(base ? base + at : NULL, rows, cols, (ptrdiff_t)(cols)); \
    at += mmixi_round_up((rows) * (cols), 16)
static size_t mmixi_pass_room(mmixi_pass *s, mmix_real *base)
{
    size_t rows = s->r.B * s->H, windows = s->o.window[0] ? s->windows : 0, at = 0;
    MMIXI_PART(scratch, s->lanes * s->lane_size);
    MMIXI_PART(dhead, s->back && s->o.kind == MMIX_SSD ? rows * (2 + s->D_width) : 0);
    for (int i = 0; i < 2; i++) if (s->part[i]) { MMIXI_PART(target[i].p, s->parts[i] * s->part[i]); }
    MMIXI_PART(dbias, s->back && s->r.grad[MMIX_IN_BIAS] ? rows * s->windows * s->distances : 0);
    MMIXI_TABLE(order, mmixi_spot, windows * s->L); MMIXI_TABLE(count, size_t, windows);
    return at;
}
/* A pass of r by the threads of m or, with m NULL, by the caller's. Returns what it takes of scratch. */
static size_t mmixi_pass_begin(mmixi_pass *j, mmix_raw r, int back, mmix_ctx *m)
{
    memset(j, 0, sizeof *j);
    j->r = r; j->back = back;
    j->o = mmixi_mixer_settled(&r.o, r.N);
    j->k = m ? m->k : NULL; j->lanes = m ? m->lanes : 1;
    j->L = r.L; j->S = r.S; j->H = r.H; j->N = r.N; j->P = r.P; j->D_width = mmixi_max(r.D_width, 1);
    if (r.o.kind == MMIX_SOFTMAX) mmixi_softmax_begin(j);
    else mmixi_scan_begin(j);
    return mmixi_pass_room(j, NULL);
}
/* Fills the tables in scratch. 0, or -1 if there is none. */
static int mmixi_pass_tables(mmixi_pass *j, mmix_real *scratch)
{
    if (!scratch) return -1;
    mmixi_pass_room(j, scratch);
    if (j->dhead) memset(j->dhead, 0, j->r.B * j->H * (2 + j->D_width) * sizeof *j->dhead);
    if (j->count) memset(j->count, 0, j->windows * sizeof *j->count);
    for (size_t i = 0; j->count && i < j->r.L; i++) {
        mmixi_spot token = mmixi_spot_of(j, i);
        j->order[token.window * j->L + j->count[token.window]++] = token;
    }
    return 0;
}
/* The gradient of an input: the sum of parts of n numbers each. */
static void mmixi_pass_sum(const mmixi_pass *j, int input, size_t n, size_t parts, const mmix_real *from)
{
    mmixi_partial_sum(j->k, parts, n, n, from, j->r.grad[input], j->r.add[input]);
}
static void mmixi_pass_task(void *arg, mmixi_range range)
{
    mmixi_pass j = *(const mmixi_pass *)arg;
    j.task(&j, range.begin, range.lane);
}
static void mmixi_pass_run(mmix_ctx *m, mmixi_pass *j)
{
    size_t B = j->r.B, H = j->H;
    if (m) mmixi_ranges(m, j->tasks, 1, mmixi_pass_task, j);
    else for (mmixi_range one = { 0, 1, 0 }; one.begin < j->tasks; one.begin++) mmixi_pass_task(j, one);
    if (j->dbias) mmixi_pass_sum(j, MMIX_IN_BIAS, H * j->distances, B * j->windows, j->dbias);
    if (!j->dhead) return;
    mmixi_pass_sum(j, MMIX_IN_A, H, B, j->dhead);
    mmixi_pass_sum(j, MMIX_IN_DT_BIAS, H, B, j->dhead + B * H);
    mmixi_pass_sum(j, MMIX_IN_D, H * j->D_width, B, j->dhead + 2 * B * H);
    if (m) mmixi_ranges(m, B * j->L, 16, mmixi_scan_sum, j);     /* alone, parts of dB, dC are in place */
}

MMIXDEF size_t mmix_raw_kept(const mmix_raw *x)
{
    mmixi_pass j;
    mmixi_pass_begin(&j, *x, 0, NULL);
    return j.kept;
}
MMIXDEF size_t mmix_raw_scratch(const mmix_raw *x, int backward)
{
    mmixi_pass j;
    return mmixi_pass_begin(&j, *x, backward, NULL);
}
static void mmixi_raw_run(const mmix_raw *x, int back, mmix_real *scratch)
{
    mmixi_pass j;
    mmixi_kernels k;
    mmixi_kernels_fill(&k, MMIX_SIMD_AUTO);
    mmixi_pass_begin(&j, *x, back, NULL);
    j.k = &k;
    mmixi_pass_tables(&j, scratch);
    mmixi_pass_run(NULL, &j);
}
MMIXDEF void mmix_raw_forward(const mmix_raw *x, mmix_real *scratch) { mmixi_raw_run(x, 0, scratch); }
MMIXDEF void mmix_raw_backward(const mmix_raw *x, mmix_real *scratch) { mmixi_raw_run(x, 1, scratch); }

/* ---- the ops: one call, one function. in: MMIX_IN_…; out: y, final state; saved: inverse_sum, row_max,
        kept; options: the mixer, settled, whose tensors are not read ---- */

static mmix_raw mmixi_raw_of(const mmix_call *c)
{
    mmix_tensor *const *in = c->in, *y = c->out[0], *q = in[MMIX_IN_Q], *k = in[MMIX_IN_K],
        *v = in[MMIX_IN_V], *dt = in[MMIX_IN_DT] ? in[MMIX_IN_DT] : y;
    size_t H = y->shape[2], P = y->shape[3];
    mmix_raw r = {
        *(const mmix_mixer *)c->options, y->shape[0], y->shape[1], k->shape[1], H, k->shape[3], P,
        mmixi_heads_of(q, mmixi_of(q), H), mmixi_heads_of(k, mmixi_of(k), H),
        mmixi_heads_of(v, mmixi_of(v), H), mmixi_heads_of(y, mmixi_of(y), H),
        mmix_data_i32(in[MMIX_IN_SEQ_IDX]), (ptrdiff_t)mmix_stride(in[MMIX_IN_SEQ_IDX], 0),
        mmixi_of(in[MMIX_IN_STATE]), mmixi_of(c->out[1]), mmixi_of(in[MMIX_IN_BIAS]),
        mmix_data_i32(in[MMIX_IN_LEFTS]), mmixi_heads_of(dt, mmixi_of(in[MMIX_IN_DT]), H),
        mmixi_of(in[MMIX_IN_A]), mmixi_of(in[MMIX_IN_D]), mmixi_of(in[MMIX_IN_DT_BIAS]),
        mmix_ndim(in[MMIX_IN_D]) == 2 ? P : 1, NULL, NULL, NULL,
        mmixi_heads_of(y, c->dy[0], H), mmixi_heads_of(q, c->dx[MMIX_IN_Q], H),
        mmixi_heads_of(k, c->dx[MMIX_IN_K], H), mmixi_heads_of(v, c->dx[MMIX_IN_V], H),
        mmixi_heads_of(dt, c->dx[MMIX_IN_DT], H), c->dy[1], { NULL }, { 0 }
    };
    memcpy(r.grad, c->dx, sizeof r.grad);
    memcpy(r.add, c->add, sizeof r.add);
    return r;
}
static int mmixi_mixer_run(mmix_ctx *m, mmix_call *c)
{
    mmixi_pass j;
    int back = c->dy[0] != NULL;
    size_t scratch = mmixi_pass_begin(&j, mmixi_raw_of(c), back, m), rows = j.r.B * j.H * j.r.L;
    size_t softmax = j.o.kind == MMIX_SOFTMAX, keep[3] = { j.o.normalise > 0 ? rows : 0, softmax * rows,
                                                           softmax && j.S > 2 * (j.N + j.P) ? 0 : j.kept };
    for (int i = 0; i < 3 && c->recorded && !back; i++)
        if (keep[i] && !mmix_save(m, c, i, keep[i])) return -1;
    j.r.inverse_sum = c->saved[0]; j.r.row_max = c->saved[1]; j.r.kept = c->saved[2];
    mmix_mark mark = mmix_mark_here(m);
    if (mmixi_pass_tables(&j, mmixi_reals(m, scratch, 1))) return -1;
    mmixi_pass_run(m, &j);
    mmix_rewind(m, mark);
    return 0;
}
/* Of a mixer: heads; a state is (B, …). */
static size_t mmixi_mixer_heads(const mmix_mixer *x)
{
    return (x->kind == MMIX_SSD ? x->dt : x->q)->shape[2];
}
static void mmixi_state_shape(const mmix_mixer *x, size_t *shape)
{
    shape[0] = x->v->shape[0]; shape[1] = (x->kind == MMIX_SSD ? x->dt : x->v)->shape[2];
    shape[2] = x->v->shape[3] + (size_t)mmixi_normalises(x); shape[3] = x->k->shape[3];
}
/* The call for a mixer that was checked, with y; o takes its options. */
static mmix_call mmixi_mixer_call(mmix_ctx *m, const mmix_mixer *x, mmix_mixer *o)
{
    mmix_call c = mmixi_call(x->q, x->k, x->v);
    *o = mmixi_mixer_settled(x, x->k->shape[3]);
    c.options = o;
    c.in[MMIX_IN_SEQ_IDX] = x->seq_idx;
    c.in[MMIX_IN_STATE] = mmixi_compact(m, x->initial_state);
    if (x->kind == MMIX_SSD) {
        c.in[MMIX_IN_DT] = x->dt; c.in[MMIX_IN_DT_BIAS] = x->dt_bias;
        c.in[MMIX_IN_A] = x->A; c.in[MMIX_IN_D] = mmixi_compact(m, x->D);
    }
    else {
        c.in[MMIX_IN_BIAS] = mmixi_compact(m, x->bias);
        c.in[MMIX_IN_LEFTS] = x->lefts;
    }
    c.out[0] = mmix_new4(m, x->q->shape[0], x->q->shape[1], mmixi_mixer_heads(x), x->v->shape[3]);
    return c;
}

/* ---- what a mixer may be ---- */

MMIXDEF mmix_mixer mmix_mixer_softmax(mmix_tensor *q, mmix_tensor *k, mmix_tensor *v)
{
    mmix_mixer x;
    memset(&x, 0, sizeof x);
    x.q = q; x.k = k; x.v = v;
    return x;
}
MMIXDEF mmix_mixer mmix_mixer_linear(mmix_tensor *q, mmix_tensor *k, mmix_tensor *v)
{
    mmix_mixer x = mmix_mixer_softmax(q, k, v);
    x.kind = MMIX_LINEAR;
    return x;
}
MMIXDEF mmix_mixer mmix_mixer_ssd(mmix_tensor *x, mmix_tensor *dt, mmix_tensor *A, mmix_tensor *B,
                                  mmix_tensor *C)
{
    mmix_mixer y = mmix_mixer_softmax(C, B, x);
    y.kind = MMIX_SSD;
    y.dt = dt; y.A = A;
    return y;
}
MMIXDEF void mmix_mixer_windows(mmix_mixer *x, int axes, const size_t *grid, const size_t *window,
                                int shifted)
{
    int n = axes > 0 && axes < 4 && grid && window ? axes : 0;
    for (int a = 0; a < 3; a++) {
        x->grid[a] = a < n ? grid[a] : 1; x->window[a] = a < n ? window[a] : 1;
        x->shift[a] = shifted && x->grid[a] > x->window[a] ? x->window[a] / 2 : 0;
    }
    if (!n) {                                    /* for mmixi_windows_check */
        x->shift[0] = SIZE_MAX; x->shift[1] = (size_t)axes;
    }
}
static int mmixi_mixer_refuse(mmix_ctx *m, const char *who, const mmix_mixer *x, const char *wrong)
{
    char q[MMIXI_TEXT], k[MMIXI_TEXT], v[MMIXI_TEXT];
    return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s; mask %d%s, q %s, k %s, v %s, y of %.0f heads, prefix "
                     "of %.0f, feature %d, direction %d", who, wrong, x->mask,
                     x->seq_idx ? " and seq_idx" : "", mmixi_shape_text(x->q, q),
                     mmixi_shape_text(x->k, k), mmixi_shape_text(x->v, v),
                     (double)mmixi_mixer_heads(x), (double)x->prefix, x->feature, x->direction), 0;
}
/* d has H, L and S. */
static int mmixi_windows_check(mmix_ctx *m, const char *who, const mmix_mixer *x, mmixi_dims *d)
{
    static const char shift[3][9] = { "shift[0]", "shift[1]", "shift[2]" };
    mmix_mixer o = mmixi_mixer_settled(x, d->N);
    double tokens = 1, distances = 1;
    if (x->shift[0] == SIZE_MAX)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: mmix_mixer_windows was called with %d axes, expected "
                         "1 to 3, and the grid and the window on each, not NULL", who, (int)x->shift[1]), 0;
    for (int a = 0; a < 3; a++) {
        if (mmixi_within(m, who, shift[a], (double)o.shift[a], 0, (double)(o.window[a] - 1))) return 0;
        tokens *= (double)o.grid[a]; distances *= 2 * (double)o.window[a] - 1;
    }
    if (tokens != (double)d->L || d->S != d->L)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: a grid of %.0f x %.0f x %.0f for %.0f queries and "
                         "%.0f keys", who, (double)o.grid[0], (double)o.grid[1], (double)o.grid[2],
                         (double)d->L, (double)d->S), 0;
    d->D = distances < 1e9 ? (size_t)distances : SIZE_MAX;
    return mmixi_expect(m, who, d, "+bias? HD", x->bias);
}
/* Whether x is a mixer, for all that is done with one. */
static int mmixi_mixer_check(mmix_ctx *m, const char *who, const mmix_mixer *x)
{
    if (!x || x->kind < MMIX_SOFTMAX || x->kind > MMIX_SSD)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, x ? "%s: kind %d, expected MMIX_SOFTMAX, MMIX_LINEAR or "
                         "MMIX_SSD" : "%s: expected a mixer, found NULL", who, x ? x->kind : 0), 0;
    int ssd = x->kind == MMIX_SSD, linear = x->kind == MMIX_LINEAR, windows = x->window[0] > 0,
        state = x->initial_state || x->final_state;
    mmixi_dims d;
    memset(&d, 0, sizeof d);
    d.R = mmix_shape(x->v, 3) + (size_t)mmixi_normalises(x);
    if (!mmixi_expect(m, who, &d, !ssd ? "+q BLHN, k BSGN, v BSGP, seq_idx?:i32 BL, lefts?:i32 L, "
                      "initial_state? BGRN" : mmix_ndim(x->D) == 2 ? "+C BLZN, B BLGN, x BLXP, "
                      "seq_idx?:i32 BL, dt BLH, initial_state? BHRN, A H, dt_bias? H, D? HP"
                      : "+C BLZN, B BLGN, x BLXP, seq_idx?:i32 BL, dt BLH, initial_state? BHRN, A H, "
                      "dt_bias? H, D? H", x->q, x->k, x->v,
                      x->seq_idx, ssd ? x->dt : x->lefts, ssd || linear ? x->initial_state : NULL, x->A,
                      x->dt_bias, x->D)
        || (!ssd && !linear && windows && !mmixi_windows_check(m, who, x, &d))) return 0;
    const char *wrong = ssd
        ? d.H % d.G || d.H % d.X || d.H % d.Z ? "the heads of x, B and C must divide dt's"
        : x->direction < MMIX_FORWARD || x->direction > MMIX_BOTH
        ? "expected a direction of MMIX_FORWARD, _REVERSE or _BOTH"
        : x->direction == MMIX_BOTH && state ? "MMIX_BOTH takes and returns no state" : NULL
        : d.H % d.G ? "heads of k and v do not divide q's"
        : x->mask < 0 || x->mask > MMIX_MASK_BAND || (x->mask && d.S < d.L) || (x->seq_idx && d.S != d.L)
        ? "a mask is none to band and needs a key for each query, seq_idx as many keys as queries"
        : linear && (x->feature < 0 || x->feature > MMIX_FEATURE_NONE || x->mask > MMIX_MASK_CAUSAL
                     || (x->mask ? x->feature == MMIX_FEATURE_EFFICIENT || d.S != d.L : x->seq_idx || state))
        ? "linear attention has no form with this feature, mask and number of keys, and a state with "
          "MMIX_MASK_CAUSAL alone"
        : !linear && state ? "softmax attention has no initial or final state; see mmix_mix_step"
        : x->bias && !windows ? "a bias without windows"
        : windows && (linear || x->mask > MMIX_MASK_CAUSAL || x->seq_idx)
        ? "windows are for softmax attention with MMIX_MASK_NONE or _CAUSAL and without seq_idx"
        : x->lefts && x->mask != MMIX_MASK_BAND ? "lefts are for MMIX_MASK_BAND" : NULL;
    if (wrong) return mmixi_mixer_refuse(m, who, x, wrong);
    return ssd || mmixi_index_ok(m, who, "lefts", x->lefts, mmixi_min(x->left, INT32_MAX) + 1);
}

/* ---- the faces ---- */

/* φ of a tensor */
static mmix_tensor *mmixi_features(mmix_ctx *m, mmix_tensor *x, int feature)
{
    mmix_tensor *f = mmixi_like(m, "mmix_mix_matrix", x = mmixi_compact(m, x));
    if (f) mmixi_feature_rows(m->k, feature, mmixi_values(f), mmixi_values(x));
    return f;
}
/* The plain loops: f for each head of each sequence, with SSD's δ of each token and that head's part of
   out (B, H, ·, ·). Returns y, NULL on error. */
typedef void mmixi_head_loop(const mmixi_pass *j, size_t b, size_t h, const mmix_real *delta, mmix_real *out);
static mmix_tensor *mmixi_plain(mmix_ctx *m, const mmix_mixer *x, mmixi_head_loop *f, mmix_tensor *out)
{
    mmix_mixer o;
    mmixi_pass j;
    const mmix_raw *r = &j.r;
    mmix_call call = mmixi_mixer_call(m, x, &o);
    mmix_real *delta = mmixi_reals(m, 2, x->q->shape[1]);
    if (m->error_kind
        || mmixi_pass_tables(&j, mmixi_reals(m, mmixi_pass_begin(&j, mmixi_raw_of(&call), 0, m), 1)))
        return NULL;
    for (size_t b = 0; b < r->B; b++)
        for (size_t h = 0; h < r->H; h++) {
            if (r->A)
                mmixi_ssd_delta(&j, h, mmixi_matrix(mmixi_at(&r->dt, b, 0, h), r->L, 1, r->dt.token),
                                delta + r->L, delta);
            f(&j, b, h, r->A ? delta : NULL, mmixi_of(out) + (b * r->H + h) * out->shape[2] * out->shape[3]);
        }
    return call.out[0];
}
/* The mean of n rows of M: with v of as many columns P as heads share it, dy is 1/n in the column of its
   head, and dv (B, S, G, P) holds the rows of G P = H heads. */
static mmix_tensor *mmixi_mix_rows(mmix_ctx *m, mmix_mixer x, const size_t *rows, size_t n)
{
    static const int heads_first[4] = { 0, 2, 3, 1 };
    size_t B = x.v->shape[0], S = x.v->shape[1], G = x.v->shape[2], H = mmixi_mixer_heads(&x), P = H / G,
        L = x.q->shape[1], shape[3] = { B, H, S };
    mmix_tensor *dv = mmix_new4(m, B, S, G, P), *dy = mmix_fill(mmix_new4(m, B, L, H, P), 0);
    mmix_mark mark = mmix_mark_here(m);
    mmix_mixer o;
    x.v = mmix_fill(mmix_new4(m, B, S, G, P), 0); x.final_state = NULL;
    for (size_t i = 0; dy && i < B * n * H; i++) {
        size_t h = i % H, token = i / H / n * L + rows[i / H % n];
        mmixi_of(dy)[(token * H + h) * P + h % P] += (mmix_real)(1 / (double)n);
    }
    if (m->error_kind) return NULL;
    mmix_call call = mmixi_mixer_call(m, &x, &o);
    call.m = m; call.op = MMIX_OP_SOFTMAX_ATTENTION + x.kind; call.recorded = 1;
    mmix_op_functions run = m->table[call.op];
    if (m->error_kind || mmixi_call_on(m, run.forward, &call, 0)) return NULL;
    call.dy[0] = mmixi_of(dy); call.dx[MMIX_IN_V] = mmixi_of(dv);
    if (mmixi_call_on(m, run.backward, &call, 0)) return NULL;
    mmix_rewind(m, mark);
    return mmix_reshape(m, mmix_permute(m, dv, heads_first), 3, shape);
}
/* y, and the final state in `into` if that is given; or, plain, M; or, if there are n, the mean of some rows.
   Where SSD goes both ways it is ½ (forward + reverse). */
static mmix_tensor *mmixi_mix(mmix_ctx *m, const mmix_mixer *x, int plain, mmix_tensor *into,
                              const size_t *rows, size_t n)
{
    mmix_mixer o = *x;
    if (x->kind == MMIX_SSD && x->direction == MMIX_BOTH) {
        o.direction = MMIX_FORWARD;
        mmix_tensor *y = mmixi_mix(m, &o, plain, NULL, rows, n);
        o.direction = MMIX_REVERSE;
        return mmixi_binary(m, "mmix_mix", MMIX_OP_ADD, y, mmixi_mix(m, &o, plain, NULL, rows, n), 0.5, 0.5);
    }
    if (n) return mmixi_mix_rows(m, o, rows, n);
    if (plain) {
        if (x->kind == MMIX_LINEAR) {
            o.q = mmixi_features(m, x->q, x->feature);
            o.k = x->feature == MMIX_FEATURE_EFFICIENT ? mmix_softmax(m, x->k, 1)
                : mmixi_features(m, x->k, x->feature);
        }
        into = mmix_new4(m, x->q->shape[0], mmixi_mixer_heads(x), x->q->shape[1], x->k->shape[1]);
        return mmixi_plain(m, &o, mmixi_mix_plain, into) ? into : NULL;
    }
    mmix_call call = mmixi_mixer_call(m, x, &o);
    size_t shape[4];
    mmixi_state_shape(x, shape);
    call.out[1] = x->final_state ? *x->final_state = mmix_new(m, MMIX_DTYPE_REAL, 4, shape) : into;
    return mmixi_run(m, MMIX_OP_SOFTMAX_ATTENTION + x->kind, &call, &o, sizeof o);
}
MMIXDEF void mmix_mix_watch(mmix_ctx *m, mmix_look *look, void *user)
{
    m->look = look; m->look_user = user;
}
MMIXDEF mmix_tensor *mmix_mix(mmix_ctx *m, const mmix_mixer *x)
{
    if (!mmixi_mixer_check(m, "mmix_mix", x)) return NULL;
    mmix_look *watch = m->look;
    if (watch) {
        mmix_mark mark = mmix_mark_here(m);
        int record = mmix_record(m, 0);
        m->look = NULL;                          /* it may mix, too */
        watch(m->look_user, m, x);
        m->look = watch;
        mmix_record(m, record);
        mmix_rewind(m, mark);
    }
    return m->error_kind ? NULL : mmixi_mix(m, x, 0, NULL, NULL, 0);
}
/* M, or the mean of n of its rows. */
static mmix_tensor *mmixi_mix_shown(mmix_ctx *m, const char *who, const mmix_mixer *x, const size_t *rows,
                                    size_t n)
{
    if (!mmixi_mixer_check(m, who, x)) return NULL;
    if (x->initial_state || (x->kind == MMIX_SSD && mmix_ndim(x->D) == 2))
        return mmixi_none(mmix_fail(m, MMIX_ERROR_ARGUMENT,
                                    "%s: with an initial state, or a D for each channel, y is not M x", who));
    for (size_t i = 0; i < n; i++)
        if (mmixi_within(m, who, "a row", (double)rows[i], 0, (double)x->q->shape[1] - 1)) return NULL;
    int record = mmix_record(m, 0);
    mmix_tensor *M = mmixi_mix(m, x, !n, NULL, rows, n);
    mmix_record(m, record);
    return M;
}
MMIXDEF mmix_tensor *mmix_mix_matrix(mmix_ctx *m, const mmix_mixer *x)
{
    return mmixi_mix_shown(m, "mmix_mix_matrix", x, NULL, 0);
}
MMIXDEF mmix_tensor *mmix_mix_rows(mmix_ctx *m, const mmix_mixer *x, const size_t *rows, size_t n)
{
    return !mmixi_given(m, "mmix_mix_rows", "*rows, n", rows, n) ? NULL
        : mmixi_mix_shown(m, "mmix_mix_rows", x, rows, n);
}

/* ---- steps: what a mixer carries from token to token ---- */

/* Arrays that outlive the step, (B, rows, ·, ·) with stride[0] for more rows than there are. Of softmax
   attention keys and values (B, tokens, G, ·), of M-MATE's text also places; else the state (B, H, P, N), and
   for a convolution its last inputs (B, D, W-1, 1). */
typedef struct mmixi_state_slot { size_t tokens; mmix_tensor part[3]; } mmixi_state_slot;
struct mmix_state {
    mmix_ctx *m;
    size_t slots;
    mmixi_state_slot *slot;
};
enum { MMIXI_CARRIED_VALUES = 1, MMIXI_CARRIED_CONV };           /* behind keys, or a state */

/* Part i of 3 · slots. */
static mmix_tensor *mmixi_carried_part(const mmix_state *s, size_t i) { return &s->slot[i / 3].part[i % 3]; }
MMIXDEF size_t mmix_state_bytes(const mmix_state *s)
{
    if (!s) return 0;
    size_t bytes = s->slots * (sizeof *s + sizeof *s->slot);
    for (size_t i = 0; i < 3 * s->slots; i++) bytes += mmixi_held(mmixi_carried_part(s, i));
    return bytes;
}
MMIXDEF mmix_state *mmix_state_create(mmix_ctx *m, size_t slots)
{
    size_t bytes = mmixi_mul(slots, sizeof(mmix_state) + sizeof(mmixi_state_slot));
    if (!slots || bytes == SIZE_MAX)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_state_create: %.0f slots, expected 1 to what memory has room "
                  "for", (double)slots);
    mmix_state *s = (mmix_state *)mmixi_zeroed(m, bytes);
    if (!s) return NULL;
    s->m = m; s->slots = slots;
    s->slot = (mmixi_state_slot *)(void *)(s + 1);
    return s;
}
MMIXDEF void mmix_state_clear(mmix_state *s)
{
    for (size_t i = 0; s && i < 3 * s->slots; i++)
        mmixi_free(s->m, mmixi_carried_part(s, i)->data, mmixi_held(mmixi_carried_part(s, i)));
    if (s) memset(s->slot, 0, s->slots * sizeof *s->slot);
}
MMIXDEF void mmix_state_destroy(mmix_state *s)
{
    mmix_state_clear(s);
    if (s) mmixi_free(s->m, s, mmix_state_bytes(s));
}
MMIXDEF mmix_state *mmix_state_copy(const mmix_state *s)
{
    mmix_state *copy = s ? mmix_state_create(s->m, s->slots) : NULL;
    for (size_t i = 0; copy && i < 3 * s->slots; i++) {
        const mmix_tensor *from = mmixi_carried_part(s, i);
        mmix_tensor *to = mmixi_carried_part(copy, i);
        const void *data = mmixi_of(from);
        copy->slot[i / 3].tokens = s->slot[i / 3].tokens;
        *to = *from;
        if (!data) continue;
        to->data = mmixi_twinned(s->m, mmixi_alloc(s->m, mmixi_held(from)), mmixi_held(from));
        if (!to->data) {
            mmix_state_destroy(copy);
            return NULL;
        }
        memcpy(to->data, data, mmixi_held(from));
    }
    return copy;
}
MMIXDEF size_t mmix_state_tokens(const mmix_state *s, size_t slot)
{
    return s && slot < s->slots ? s->slot[slot].tokens : 0;
}
/* Whether rows go with what is carried; sees 0: these are all. */
static int mmixi_carried_check(mmix_ctx *m, const mmix_tensor *c, const char *what, const mmix_tensor *rows,
                               size_t sees)
{
    char found[MMIXI_TEXT], carried[MMIXI_TEXT];
    int same = 1;
    for (int i = 0; i < 4; i++) same &= c->shape[i] == rows->shape[i] || (i == 1 && sees);
    return same || !c->data ? 1
        : (mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_mix_step: %s %s for a slot that carries %s", what,
                     mmixi_shape_text(rows, found), mmixi_shape_text(c, carried)), 0);
}
/* A view of what is carried and of shape[1] rows after it, zeros where nothing was; whoever writes them adds
   them to c->shape[1]. A row sees the last `sees`, itself included: if room is short it doubles, and the
   others go. An array that does not grow has sees 0. NULL on error: other sizes than before, or memory. */
static mmix_tensor *mmixi_carried_rows(mmix_ctx *m, mmix_tensor *c, const char *what, const size_t *shape,
                                       size_t sees)
{
    mmix_tensor *all = mmixi_tensor(m);
    size_t have = sees ? c->shape[1] : 0, n = mmixi_min(have, sees - 1), row = shape[2] * shape[3];
    if (!all || !mmixi_describe(m, all, "mmix_mix_step", MMIX_DTYPE_REAL, 4, shape)
        || !mmixi_carried_check(m, c, what, all, sees)) return NULL;
    if ((have + shape[1]) * row > c->stride[0]) {
        all->shape[1] = mmixi_max(2 * n, n + shape[1]);
        all->stride[0] = all->shape[1] * row;
        all->data = mmixi_twinned(m, mmixi_zeroed(m, mmixi_held(all)), mmixi_held(all));
        if (!all->data) return NULL;
        for (size_t i = 0; i < shape[0] && n; i++)
            memcpy(mmixi_of(all) + i * all->stride[0], mmixi_of(c) + i * c->stride[0] + (have - n) * row,
                   n * row * sizeof(mmix_real));
        mmixi_free(m, c->data, mmixi_held(c));
        *c = *all;
        if (sees) c->shape[1] = n;
    }
    *all = *c;
    all->base = c;                               /* in which the numbers are told to be here or there */
    if (sees) all->shape[1] += shape[1];
    return all;
}
/* The last inputs (B, D, W-1) of a convolution that a slot carries, zeros at first. */
static mmix_tensor *mmixi_carried_conv(mmix_ctx *m, mmix_state *s, size_t slot, size_t B, size_t D, size_t W)
{
    const size_t shape[4] = { B, D, W - 1, 1 };
    mmix_tensor *last = mmixi_carried_rows(m, &s->slot[slot].part[MMIXI_CARRIED_CONV], "convolution inputs",
                                           shape, 0);
    if (last) last->ndim = 3;
    return last;
}
static int mmixi_slot_check(mmix_ctx *m, const char *who, const mmix_state *s, size_t slot)
{
    return s && s->m == m && slot < s->slots ? 1
        : (mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: slot %.0f of a state with %.0f, which must be this "
                     "context's", who, (double)slot, s ? (double)s->slots : 0.0), 0);
}
MMIXDEF mmix_tensor *mmix_mix_step(mmix_ctx *m, const mmix_mixer *mixer, mmix_state *s, size_t slot)
{
    static const char what[3][7] = { "state", "keys", "values" };
    if (!mmixi_mixer_check(m, "mmix_mix_step", mixer)
        || !mmixi_slot_check(m, "mmix_mix_step", s, slot)) return NULL;
    mmix_mixer x = *mixer;
    mmixi_state_slot *at = &s->slot[slot];
    size_t shape[4], L = x.q->shape[1],
        sees = x.mask == MMIX_MASK_BAND && x.left < SIZE_MAX ? x.left + 1 : SIZE_MAX;
    int softmax = x.kind == MMIX_SOFTMAX;
    const char *wrong = x.seq_idx || x.window[0] ? "seq_idx and windows have no steps"
        : x.initial_state && at->tokens ? "an initial state, but the slot carries one"
        : (x.kind == MMIX_SSD ? x.direction != MMIX_FORWARD
           : x.mask == MMIX_MASK_NONE || (x.mask == MMIX_MASK_BAND && x.right))
        ? "the mixer lets tokens see later ones"
        : L != x.k->shape[1] ? "as many keys as queries, those before are in the state"
        : x.mask == MMIX_MASK_PREFIX && !at->tokens && L < x.prefix
        ? "the first piece has less tokens than the prefix" : NULL;
    if (wrong) return mmixi_none(mmixi_mixer_refuse(m, "mmix_mix_step", &x, wrong));
    /* keys are checked where they are stored; both must fit before anything changes */
    if (softmax && !mmixi_carried_check(m, &at->part[MMIXI_CARRIED_VALUES], "values", x.v, 1)) return NULL;
    x.final_state = NULL;
    mmixi_state_shape(&x, shape);
    int record = mmix_record(m, 0);
    for (int i = 0; i <= softmax && !m->error_kind; i++) {  /* what is carried, and these tokens */
        mmix_tensor **t = !softmax ? &x.initial_state : i ? &x.v : &x.k, *from = *t, *to;
        to = *t = mmixi_carried_rows(m, &at->part[i], what[i + softmax], softmax ? from->shape : shape,
                                     softmax ? sees : 0);
        if (to && softmax) to = mmix_slice(m, to, 1, to->shape[1] - L, L);
        if (to && from) mmixi_put_all(m, from, mmixi_of(from), to, mmixi_of(to), 0);
    }
    mmix_tensor *y = m->error_kind ? NULL : mmixi_mix(m, &x, 0, x.initial_state, NULL, 0);
    if (y) {
        at->tokens += L;
        for (int i = 0; i < 2 && softmax; i++) at->part[i].shape[1] += L;
        if (mixer->final_state) *mixer->final_state = mmixi_copied(m, x.initial_state);
    }
    mmix_record(m, record);
    return y;
}

MMIXDEF void mmix_scan_order(size_t layer, size_t T, size_t Y, size_t X, size_t separators, int32_t *perm,
                             int32_t *inverse)
{
    size_t by_columns = layer % 2, time_inside = layer / 2 % 2, cells = Y * X, frame = cells + separators;
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < frame; i++) {
            size_t cell = by_columns && i < cells ? i % X * Y + i / X : i,
                rank = !time_inside ? t * frame + cell
                : i < cells ? cell * T + t : cells * T + t * separators + (i - cells);
            if (perm) perm[rank] = (int32_t)(t * frame + i);
            if (inverse) inverse[t * frame + i] = (int32_t)rank;
        }
}

/* ==== >>ssd ==========================================================================
   h_t = e^(a_t) h_{t-1} + δ_t B_tᵀ x_t,   y_t = C_t h_t + D x_t,   a_t = δ_t A

   One head at a time; h (N, P), x and y (L, P), B and C (L, N), δ (L) = clamp(softplus(dt + bias)). Dao & Gu
   2024. This loop over time is mmix_ssd_reference.

   The fast form, the scan, takes chunks of Q tokens: inside a chunk the mixer is a small matrix, between
   chunks it is the state:

       y_i = Σ_{j≤i} W_ij x_j + p_i C_i h_in,      h_out = p_Q h_in + Σ_j r_j δ_j B_jᵀ x_j,      r_j = L_Qj,
       W_ij = L_ij S_ij δ_j,   S = C Bᵀ,   L_ij = e^(a_{j+1} + … + a_i),   p_i = e^(a_1 + … + a_i)

   Small matrix products in place of memory traffic: Q/2 (P + N G/H) + 2 N P multiply-adds a token and head,
   and without the state, L/2 (P + N G/H), if one chunk holds the whole sequence: up to 4 N P / (P + N G/H)
   tokens that is cheaper, since of n chunks the first reads no state and the last writes none. L is built row
   by row, L_ij = L_{i-1,j} e^(a_i): a product of its own terms and never a quotient of prefix products, so
   that a large |a| somewhere leaves small terms elsewhere exact; one multiplication takes the place of an
   exponential. Entries below e⁻⁸⁰ are dropped. S is shared by all heads that share B and C.
   Causal linear attention is the same scan of B = ψ(K), C = φ(Q) and x = V that forgets nothing:
   a = 0, δ = 1, so that W = S, p = r = 1. Its heads that share B and x share the state, too.

   Backward, with dh = ∂/∂h_out and dW = dY Xᵀ:
       dx_j = Σ_{i≥j} W_ij dy_i + r_j δ_j B_j dh + D dy_j       dh_in = p_Q dh + Σ_i p_i C_iᵀ dy_i
       dS_ij = dW_ij L_ij δ_j;   dC = dS B, dC_i += p_i dy_i h_inᵀ;   dB = dSᵀ C, dB_j += r_j δ_j x_j dhᵀ
   and every exponent collects the gradient of what it multiplies: a_k is part of L_ij for j < k ≤ i, of p_i
   for i ≥ k, of r_j for j < k, and of p_Q:
       da_k = Σ_{j<k≤i} dW_ij W_ij + Σ_{i≥k} p_i dy_i h_inᵀ·C_i + Σ_{j<k} r_j δ_j x_j dhᵀ·B_j + p_Q h_in·dh
   These are sums of their own terms as well (column sums grow from the last row up), not differences.
   ==================================================================================== */

/* The definition: token after token, with h (P, N) as in the interface. */
static void mmixi_ssd_plain(const mmixi_pass *j, size_t b, size_t h, const mmix_real *delta, mmix_real *state)
{
    const mmix_raw *r = &j->r;
    for (size_t n = 0; n < r->L; n++) {
        size_t t = j->reverse ? r->L - 1 - n : n;
        mmixi_keys own = mmixi_sequence(r, b, t);
        const mmix_real *x = mmixi_at(&r->v, b, t, h), *B = mmixi_at(&r->k, b, t, h),
            *C = mmixi_at(&r->q, b, t, h), decay = mmixi_exp_real(delta[t] * r->A[h]);
        mmix_real *y = mmixi_at(&r->y, b, t, h);
        if (n && t == (j->reverse ? own.end - 1 : own.begin)) memset(state, 0, r->P * r->N * sizeof *state);
        for (size_t p = 0; p < r->P; p++) {
            mmix_real *row = state + p * r->N;
            double sum = 0;
            for (size_t i = 0; i < r->N; i++) {
                row[i] = decay * row[i] + delta[t] * x[p] * B[i];
                sum += (double)row[i] * (double)C[i];
            }
            y[p] = (mmix_real)sum + (r->D ? r->D[h * j->D_width + p % j->D_width] * x[p] : 0);
        }
    }
}
MMIXDEF mmix_tensor *mmix_ssd_reference(mmix_ctx *m, const mmix_mixer *x)
{
    size_t shape[4];
    if (!mmixi_mixer_check(m, "mmix_ssd_reference", x)) return NULL;
    if (x->kind != MMIX_SSD || x->direction == MMIX_BOTH)
        return mmixi_none(mmixi_mixer_refuse(m, "mmix_ssd_reference", x, "expected MMIX_SSD, one direction "
                                             "at a time, not MMIX_BOTH"));
    int record = mmix_record(m, 0);
    mmixi_state_shape(x, shape);
    mmix_tensor *h = x->initial_state ? mmixi_copied(m, x->initial_state)
        : mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 4, shape), 0), *y = mmixi_plain(m, x, mmixi_ssd_plain, h);
    mmix_record(m, record);
    if (y && x->final_state) *x->final_state = h;
    return y;
}

enum { MMIXI_SCAN_CHUNK = MMIXI_SIZE(64, 3), MMIXI_SCAN_ONE_CHUNK = MMIXI_SIZE(256, 0) };

/* Lays a chunk of q tokens out; returns the reals it takes. What does not depend on q comes first. */
static size_t mmixi_chunk_room(mmixi_pass *s, size_t q, mmix_real *base)
{
    size_t N = s->N, V = s->V, ssd = s->linear ? 0 : q, linear = q - ssd, causal = s->full ? 0 : q, at = 0;
    if (base && base == s->states && q == s->q) return 0;        /* as the last chunk */
    MMIXI_PART(states, s->step ? 0 : s->heads / s->shared * s->NV);
    MMIXI_MAT(in, N, V); MMIXI_MAT(in_t, V, N); MMIXI_MAT(dh_t, V, N);
    s->entry = s->in.p;
    MMIXI_PART(top, N); MMIXI_PART(sum, N); MMIXI_PART(along, N);
    MMIXI_MAT(scores, causal, causal); MMIXI_MAT(dW, causal, causal); MMIXI_PART(t, mmixi_max(N, V) * causal);
    MMIXI_MAT(decay, ssd, ssd); MMIXI_MAT(W, ssd, ssd); MMIXI_MAT(dscores, ssd, ssd);
    MMIXI_MAT(Cp, q, N); MMIXI_MAT(Br, q, N); MMIXI_MAT(E, q, N); MMIXI_MAT(dB, linear, N);
    MMIXI_MAT(near_x, q, V); MMIXI_MAT(near_y, q, V);
    MMIXI_PART(u, ssd); MMIXI_PART(delta, ssd); MMIXI_PART(e, ssd); MMIXI_PART(p, ssd); MMIXI_PART(w, ssd);
    MMIXI_PART(da, ssd); MMIXI_PART(dd, ssd); MMIXI_PART(f, ssd);
    s->q = q;
    if (linear) s->W = s->scores, s->dscores = s->dW, s->C = s->Cp, s->B = s->Br, s->dC = s->E;
    return at;
}
/* The chunk's rows of this head, as the scan goes: a reverse one is the same loop from the last token with a
   negative step, so nothing is ever flipped. */
static inline mmixi_mat mmixi_tokens(const mmixi_pass *j, const mmix_heads *v, size_t cols)
{
    ptrdiff_t step = j->turn * v->token;
    return mmixi_matrix(mmixi_at(v, j->b, j->origin, j->head) + (ptrdiff_t)j->start * step, j->q, cols, step);
}

/* u, δ and e^(δ A) */
static void mmixi_ssd_steps(const mmixi_pass *j)
{
    mmixi_ssd_delta(j, j->head, mmixi_tokens(j, &j->r.dt, 1), j->u, j->delta);
    j->k->scale(j->q, j->r.A[j->head], j->delta, j->e);
    j->k->exp_each(j->q, j->e, j->e);
}
/* y += D x; D is a number a head, or one a channel. */
static void mmixi_ssd_skip(const mmixi_pass *j, mmixi_mat x, mmixi_mat y)
{
    const mmix_real *D = j->r.D + j->head * j->D_width;
    for (size_t i = 0; j->r.D && i < y.rows; i++)
        if (j->D_width > 1) j->k->mul_add(j->P, D, mmixi_row(x, i), mmixi_row(y, i));
        else j->k->axpy(j->P, *D, mmixi_row(x, i), mmixi_row(y, i));
}

/* The chunk of token t, and whether a state comes and goes. Chunks begin anew where a packed sequence begins,
   and depend on that sequence alone, so that packed equals separate. */
static void mmixi_chunk_find(mmixi_pass *j, size_t t)
{
    size_t at = j->reverse ? j->L - 1 - t : t;
    if (at < j->own.begin || at >= j->own.end) j->own = mmixi_sequence(&j->r, j->b, at);
    size_t n = j->own.end - j->own.begin, first = j->reverse ? j->L - j->own.end : j->own.begin,
        Q = n > j->one ? j->chunk : n;
    j->start = first + (t - first) / Q * Q;
    j->end = mmixi_min(first + n, j->start + Q);
    j->enters = j->start ? j->start > first : j->r.initial_state || j->r.grad[MMIX_IN_STATE];
    j->leaves = j->end < j->L ? j->end < first + n : j->back ? j->r.dfinal != NULL : j->r.final_state != NULL;
}
static size_t mmixi_scan_chunks(mmixi_pass *j)
{
    size_t n = 0;
    for (j->end = j->own.end = 0; j->end < j->L; n++) mmixi_chunk_find(j, j->end);
    return n;
}

/* ---- states: (B, H / shared, V, N) in the interface, here (N, V) ---- */

static void mmixi_transpose(const mmixi_kernels *k, mmixi_mat to, mmixi_mat from)             /* to = fromᵀ */
{
    k->transpose(from.rows, from.cols, from.p, from.rs, to.p, to.rs);
}
/* This head's in an array of the interface. */
static inline mmixi_mat mmixi_state_of(const mmixi_pass *j, const mmix_real *p)
{
    return mmixi_matrix(p + (j->b * j->H + j->head) / j->shared * j->NV, j->V, j->N, (ptrdiff_t)j->N);
}
/* The one before a chunk that is not the first, kept for the backward. */
static inline mmix_real *mmixi_state_kept(const mmixi_pass *j)
{
    return j->r.kept + ((j->b * j->H + j->head) / j->shared * j->kept_states + j->number - 1) * j->NV;
}
static void mmixi_state_read(const mmixi_pass *j, const mmix_real *from, mmixi_mat h)
{
    if (from) mmixi_transpose(j->k, h, mmixi_state_of(j, from));
    else memset(h.p, 0, j->NV * sizeof *h.p);
}
static inline void mmixi_chunk_head(mmixi_pass *j, size_t h)
{
    j->head = h;
    j->h = mmixi_matrix(j->states + (h - j->first) / j->shared * j->NV, j->N, j->V, (ptrdiff_t)j->V);
}
/* The states that a task begins with, or what they have become. */
static void mmixi_task_states(mmixi_pass *j, int end)
{
    const mmix_raw *r = &j->r;
    const mmix_real *p = end ? j->back ? r->grad[MMIX_IN_STATE] : r->final_state
        : j->back ? r->dfinal : r->initial_state;
    for (size_t h = j->last; h > j->first;) {
        mmixi_chunk_head(j, h -= j->shared);
        if (!end) mmixi_state_read(j, p, j->h);
        else if (p) {
            mmixi_transpose(j->k, j->in_t, j->h);
            mmixi_put_rows(j->k, j->in_t, mmixi_state_of(j, p), j->back && r->add[MMIX_IN_STATE]);
        }
    }
}
/* A task's place, and one token of it. */
static void mmixi_task_begin(mmixi_pass *j, size_t index, size_t lane)
{
    mmixi_chunk_room(j, 1, j->scratch + lane * j->lane_size);
    j->b = index / j->blocks;
    j->origin = j->reverse ? j->L - 1 : 0; j->turn = j->reverse ? -1 : 1;
    j->first = j->head = index % j->blocks * j->heads;
    j->last = mmixi_min(j->H, j->first + j->heads);
    if (!j->step) mmixi_task_states(j, 0);
}

/* One token with a state that is changed in place, at the speed at which that comes and goes. */
static void mmixi_ssd_step_task(mmixi_pass *j, size_t index, size_t lane)
{
    mmixi_task_begin(j, index, lane);
    for (; j->head < j->last; j->head++) {
        mmixi_mat x = mmixi_tokens(j, &j->r.v, j->P), y = mmixi_tokens(j, &j->r.y, j->P);
        mmixi_ssd_steps(j);
        j->k->scale(j->P, j->delta[0], x.p, j->near_x.p);
        j->k->ssd_step(j->P, j->N, j->e[0], j->near_x.p, mmixi_tokens(j, &j->r.k, j->N).p,
                       mmixi_tokens(j, &j->r.q, j->N).p, mmixi_state_of(j, j->r.final_state).p, y.p);
        mmixi_ssd_skip(j, x, y);
    }
}

/* ---- products with lower triangular matrices; entries right of the diagonal are 0 as far as a tile that has
        row i may read ---- */

static inline void mmixi_lower_edge(const mmixi_kernels *k, mmixi_mat a, size_t i)
{
    for (size_t z = i + 1; z < mmixi_min(a.cols, i + k->mr); z++) mmixi_row(a, i)[z] = 0;
}
/* c = or += a b; a may be the transpose of a lower triangular matrix. */
static void mmixi_lower(const mmixi_kernels *k, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add)
{
    mmixi_multiply_part(k, c, a, b, add, a.cs == 1 ? MMIXI_LOWER_A : MMIXI_UPPER_A);
}
/* c = the lower triangle of a bᵀ; t takes bᵀ */
static void mmixi_lower_scores(const mmixi_pass *j, mmixi_mat c, mmixi_mat a, mmixi_mat b)
{
    mmixi_mat bt = mmixi_matrix(j->t, b.cols, b.rows, (ptrdiff_t)b.rows);
    mmixi_transpose(j->k, bt, b);
    mmixi_multiply_part(j->k, c, a, bt, 0, MMIXI_LOWER_C);
    for (size_t i = 0; i < a.rows; i++) mmixi_lower_edge(j->k, c, i);
}

/* ---- the scan ---- */

/* With >>linear attention: C = φ(q) (MMIX_IN_Q) or B = ψ(k) (MMIX_IN_K), or back from dC and dB to dq and dk;
   y = num / den, or its gradient. */
static void mmixi_linear_rows(const mmixi_pass *j, int input, int back);
static void mmixi_linear_divide(const mmixi_pass *j);
static void mmixi_linear_task(mmixi_pass *j, size_t index, size_t lane);

/* x, where linear attention divides with a column of ones. SSD reads it often, its heads lie pages apart:
   near each other its rows stay in the nearest cache. */
static void mmixi_chunk_x(mmixi_pass *j)
{
    j->x = mmixi_tokens(j, &j->r.v, j->P);
    if (j->linear && j->V == j->P) return;
    mmixi_put_rows(j->k, j->x, j->near_x, 0);
    j->x = j->near_x;
    for (size_t i = 0; j->V > j->P && i < j->q; i++) mmixi_row(j->x, i)[j->P] = 1;
}
/* Where y goes, or dy, likewise; of linear attention that divides num and den side by side, or their
   gradients. */
static void mmixi_chunk_y(mmixi_pass *j)
{
    j->y = mmixi_tokens(j, j->back ? &j->r.dy : &j->r.y, j->P);
    if (j->V == j->P && (j->linear || !j->back)) return;
    if (j->back && j->linear) mmixi_linear_divide(j);
    else if (j->back) mmixi_put_rows(j->k, j->y, j->near_y, 0);
    j->y = j->near_y;
}
/* W of one chunk and head from S; p C and r δ B. p is one exponential of the sum, not a product of
   exponentials: the state is multiplied by it in every chunk, and the roundings of thousands of factors near
   1 would add up (to 1e-5 over 4096 tokens that forget nothing). */
static void mmixi_ssd_weights(const mmixi_pass *j)
{
    const mmixi_kernels *k = j->k;
    double a = 0;
    mmixi_ssd_steps(j);
    for (size_t i = 0; i < j->q; i++)
        j->p[i] = (mmix_real)(a += (double)j->delta[i] * (double)j->r.A[j->head]);
    k->exp_each(j->q, j->p, j->p);
    for (size_t i = 0; i < j->q; i++) {
        mmix_real *L = mmixi_row(j->decay, i), *W = mmixi_row(j->W, i), *S = mmixi_row(j->scores, i);
        if (j->p[i] < (mmix_real)1.8e-35) j->p[i] = 0;
        if (i) k->ssd_row(i, j->e[i], L - j->q, S, j->delta, L, W);
        L[i] = 1; W[i] = S[i] * j->delta[i];
        mmixi_lower_edge(k, j->W, i);
    }
    k->mul(j->q, mmixi_row(j->decay, j->q - 1), j->delta, j->w);
    for (size_t i = 0; i < j->q; i++) {
        if (j->enters) k->scale(j->N, j->p[i], mmixi_row(j->C, i), mmixi_row(j->Cp, i));
        if (j->leaves) k->scale(j->N, j->w[i], mmixi_row(j->B, i), mmixi_row(j->Br, i));
    }
}
/* Whether head h of the task does not have its B (or C, or x) of the head before. */
static int mmixi_chunk_new(const mmixi_pass *j, const mmix_heads *v, size_t h)
{
    return h == j->first || h % v->share == 0;
}
/* B, C and x of head h, where y goes, and what the products need of them; on the way back also dy, dW = dY Xᵀ
   and room for dB, dC and dS. What heads share is read once. */
static void mmixi_chunk_read(mmixi_pass *j, size_t h)
{
    int first = 0;
    mmixi_chunk_head(j, h);
    if (mmixi_chunk_new(j, &j->r.v, h)) mmixi_chunk_x(j);
    mmixi_chunk_y(j);
    for (int i = MMIX_IN_Q; i <= MMIX_IN_K; i++) {
        const mmix_heads *from = i ? &j->r.k : &j->r.q;
        mmixi_mat *f = i ? &j->B : &j->C, *df = i ? &j->dB : &j->dC;
        int own = mmixi_chunk_new(j, from, h);
        first |= own;
        if (!j->linear) *f = mmixi_tokens(j, from, j->N);
        else if (own) mmixi_linear_rows(j, i, 0);
        if (j->back && !j->linear) {
            *df = mmixi_tokens(j, &j->target[i], j->N);
            df->p += j->first / j->heads % j->parts[i] * j->part[i];
        }
        if (j->back && own && (j->linear || j->part[i] || !j->r.add[i])) mmixi_zero_rows(*df);
    }
    if (first) mmixi_lower_scores(j, j->scores, j->C, j->B);
    if (!j->linear) mmixi_ssd_weights(j);
    if (!j->back) return;
    if (first && !j->linear) mmixi_zero_rows(j->dscores);
    mmixi_lower_scores(j, j->dW, j->y, j->x);
}

/* h = p_Q h + (r δ B)ᵀ x; or of dh, with p C and dy */
static void mmixi_state_next(const mmixi_pass *j, mmixi_mat from, mmixi_mat values)
{
    if (j->enters && !j->linear) j->k->scale(j->NV, j->p[j->q - 1], j->h.p, j->h.p);
    mmixi_multiply(j->k, j->h, mmixi_t(from), values, j->enters);
}
static void mmixi_scan_forward(mmixi_pass *j)
{
    const mmixi_kernels *k = j->k;
    if (j->r.kept && j->number && j->head % j->shared == 0)
        memcpy(mmixi_state_kept(j), j->h.p, j->NV * sizeof *j->h.p);
    mmixi_lower(k, j->y, j->W, j->x, 0);                         /* y = W x + p C h */
    if (j->enters) mmixi_multiply(k, j->y, j->Cp, j->h, 1);
    if (j->linear) mmixi_linear_divide(j);
    else mmixi_ssd_skip(j, j->x, j->y);
    if (j->leaves && (j->head + 1) % j->shared == 0) mmixi_state_next(j, j->Br, j->x);
}

/* Of a product of w_i a_i with a state: E = d stateᵀ,  f_i = E_i · a_i,  da_i += w_i E_i */
static void mmixi_ssd_state_product(const mmixi_pass *j, mmixi_mat d, mmixi_mat state_t, const mmix_real *w,
                                    mmixi_mat a, mmixi_mat da)
{
    mmixi_multiply(j->k, j->E, d, state_t, 0);
    for (size_t i = 0; i < j->q; i++) {
        j->f[i] = j->k->dot(j->N, mmixi_row(j->E, i), mmixi_row(a, i));
        j->k->axpy(j->N, w[i], mmixi_row(j->E, i), mmixi_row(da, i));
    }
}
/* A head's dA, dbias and dD, and on the way dS, dB, dC and ddt. Inside the chunk, from the last row up,
   da = Σ dW W, dS, and in dd the gradient of δ in W; then what h_in gave to y and the chunk to h_out. Last dd
   goes through δ = clamp(softplus(u)), u = dt + bias. */
static void mmixi_ssd_head_backward(const mmixi_pass *j)
{
    const mmixi_kernels *k = j->k;
    size_t heads = j->r.B * j->H, head = j->b * j->H + j->head, last = j->q - 1;
    const mmix_real *r = mmixi_row(j->decay, last);
    mmix_real A = j->r.A[j->head], low = (mmix_real)j->o.dt_low, high = (mmix_real)j->o.dt_high, after = 0,
        dA = 0, dbias = 0, *dD = j->dhead + 2 * heads + head * j->D_width;
    memset(j->dd, 0, j->q * sizeof *j->dd);
    for (size_t i = j->q; i-- > 0;) {
        const mmix_real *dW = mmixi_row(j->dW, i), *S = mmixi_row(j->scores, i);
        mmix_real *dS = mmixi_row(j->dscores, i);
        j->da[i] = i ? k->ssd_row_backward(i, dW, mmixi_row(j->decay, i), S, j->delta, dS, j->dd) : 0;
        dS[i] += dW[i] * j->delta[i]; j->dd[i] += dW[i] * S[i];
    }
    if (j->enters) mmixi_ssd_state_product(j, j->y, j->in_t, j->p, j->C, j->dC);
    for (size_t i = j->q; j->enters && i-- > 0;) j->da[i] += after += j->p[i] * j->f[i];
    if (j->leaves) mmixi_ssd_state_product(j, j->x, j->dh_t, j->w, j->B, j->dB);
    after = j->leaves && j->enters ? j->p[last] * k->dot(j->NV, j->in.p, j->h.p) : 0;
    for (size_t i = 0; i < j->q; i++) {
        mmix_real f = j->leaves ? r[i] * j->f[i] : 0;
        j->da[i] += after; after += j->delta[i] * f;
        j->dd[i] += f + A * j->da[i];
        dA += j->da[i] * j->delta[i];
        if (high > 0 && !(j->delta[i] > low && j->delta[i] < high)) j->dd[i] = 0;
    }
    if (j->o.dt_softplus) k->softplus_backward(j->q, j->u, j->dd, j->dd, 0);
    if (j->r.ddt.p)
        mmixi_put_rows(k, mmixi_matrix(j->dd, j->q, 1, 1), mmixi_tokens(j, &j->r.ddt, 1),
                       j->r.add[MMIX_IN_DT]);
    for (size_t i = 0; i < j->q; i++) {
        dbias += j->dd[i];
        if (j->D_width > 1) k->mul_add(j->P, mmixi_row(j->y, i), mmixi_row(j->x, i), dD);
        else if (j->r.D) *dD += k->dot(j->P, mmixi_row(j->y, i), mmixi_row(j->x, i));
    }
    j->dhead[head] += dA; j->dhead[heads + head] += dbias;
}
static void mmixi_scan_backward(mmixi_pass *j)
{
    const mmixi_kernels *k = j->k;
    size_t next = j->head + 1;
    int first = j->head % j->shared == 0;        /* of those that share a state */
    if (first && j->enters) {
        j->in.p = j->number ? mmixi_state_kept(j) : j->entry;
        if (!j->number) mmixi_state_read(j, j->r.initial_state, j->in);
        mmixi_transpose(k, j->in_t, j->in);
    }
    if (first && j->leaves) mmixi_transpose(k, j->dh_t, j->h);
    if (!j->linear) mmixi_ssd_head_backward(j);
    else {
        if (j->enters) mmixi_multiply(k, j->dC, j->y, j->in_t, 1);
        if (j->leaves && first) mmixi_multiply(k, j->dB, j->x, j->dh_t, 1);
    }
    if (j->r.dv.p) {
        mmixi_mat dx = mmixi_tokens(j, &j->r.dv, j->P);
        mmixi_lower(k, dx, mmixi_t(j->W), mmixi_part(j->y, 0, 0, j->q, j->P),
                    j->r.add[MMIX_IN_V] || j->head % j->r.dv.share);
        if (j->leaves && first) mmixi_multiply(k, dx, j->Br, mmixi_part(j->h, 0, 0, j->N, j->P), 1);
        if (!j->linear) mmixi_ssd_skip(j, j->y, dx);
    }
    if (!j->enters) memset(j->h.p, 0, j->NV * sizeof *j->h.p);           /* dh becomes ∂/∂h_in */
    else mmixi_state_next(j, j->Cp, j->y);
    /* dC and dB of the scores, once for all heads that shared them */
    if (next < j->last && !mmixi_chunk_new(j, &j->r.k, next) && !mmixi_chunk_new(j, &j->r.q, next)) return;
    mmixi_lower(k, j->dC, j->dscores, j->B, 1);
    mmixi_lower(k, j->dB, mmixi_t(j->dscores), j->C, 1);
    if (!j->linear) return;
    mmixi_linear_rows(j, MMIX_IN_Q, 1);
    if (next % j->shared == 0) mmixi_linear_rows(j, MMIX_IN_K, 1);
}

/* Chunk after chunk, in the backward from the last to the first, head after head. */
static void mmixi_scan_task(mmixi_pass *j, size_t index, size_t lane)
{
    mmixi_task_begin(j, index, lane);
    size_t chunks = mmixi_scan_chunks(j);
    j->start = j->L; j->end = 0;
    for (size_t n = 0; n < chunks; n++) {
        j->number = j->back ? chunks - 1 - n : n;
        mmixi_chunk_find(j, j->back ? j->start - 1 : j->end);
        mmixi_chunk_room(j, j->end - j->start, j->states);
        for (size_t h = j->first; h < j->last; h++) {
            mmixi_chunk_read(j, h);
            (j->back ? mmixi_scan_backward : mmixi_scan_forward)(j);
        }
    }
    mmixi_task_states(j, 1);
}
/* Tokens of dk and dq: the sums of what the tasks made of them. */
static void mmixi_scan_sum(void *arg, mmixi_range range)
{
    const mmixi_pass *j = (const mmixi_pass *)arg;
    for (int i = MMIX_IN_Q; i <= MMIX_IN_K; i++) {
        const mmix_heads *to = i ? &j->r.dk : &j->r.dq;
        for (size_t t = to->p && j->part[i] ? range.begin : range.end; t < range.end; t++)
            for (size_t h = 0; h < j->H; h += to->share)
                for (size_t n = 0; n < j->parts[i]; n++)
                    mmixi_put(j->k, j->N, mmixi_at(&j->target[i], 0, t, h) + n * j->part[i],
                              mmixi_at(to, t / j->L, t % j->L, h), j->r.add[i] || n);
    }
}

/* Where heads share B and C, the fewer the tasks the fewer times S is computed and the fewer partial sums dB
   and dC have. Those fix the order of summation: a backward's number of tasks may not depend on that of
   threads. */
static void mmixi_scan_begin(mmixi_pass *j)
{
    const mmix_raw *r = &j->r;
    size_t share[2] = { r->q.share, r->k.share }, NP = j->N * j->P;
    j->linear = j->o.kind == MMIX_LINEAR;
    j->full = j->linear && j->o.mask != MMIX_MASK_CAUSAL;
    j->reverse = !j->linear && j->o.direction == MMIX_REVERSE;
    j->step = !j->linear && j->L == 1 && r->final_state && r->final_state == r->initial_state;
    j->task = j->full ? mmixi_linear_task : j->step ? mmixi_ssd_step_task : mmixi_scan_task;
    j->V = j->P + (j->o.normalise > 0); j->NV = j->N * j->V;
    j->shared = j->linear ? r->v.share : 1;
    j->chunk = j->one = j->o.chunk;
    if (!j->chunk) {
        j->chunk = MMIXI_SCAN_CHUNK;
        j->one = mmixi_min(MMIXI_SCAN_ONE_CHUNK, 4 * NP / (j->P + j->N / mmixi_min(share[0], share[1])));
    }
    j->Q = mmixi_min(j->L, mmixi_max(r->seq_idx || j->L <= j->one ? j->one : 0, j->chunk));
    for (; j->b < r->B; j->b++) j->kept_states = mmixi_max(j->kept_states, mmixi_scan_chunks(j) - 1);
    if (j->full) j->Q = MMIXI_SCAN_CHUNK, j->kept_states = j->number = 1;   /* a block of tokens; the state */
    j->kept = r->B * (j->H / j->shared) * j->kept_states * j->NV;
    /* heads that share an x stay together, because they add into one dx; a task takes whole groups of B and C
       or equal parts of one. A megabyte of state is not worth waking a thread. */
    size_t tasks = j->linear ? r->B * j->H : j->step ? mmixi_ceil_div(r->B * j->H * NP, 262144)
        : mmixi_max(share[0] == 1 && share[1] == 1 ? 16 : 1,
                    !j->k ? 1 : j->back ? 8 : mmixi_max(4, 2 * j->lanes));
    j->heads = mmixi_round_up(mmixi_ceil_div(j->H, mmixi_max(1, tasks / r->B)), r->v.share);
    while ((j->heads % share[0] && share[0] % j->heads) || (j->heads % share[1] && share[1] % j->heads))
        j->heads += r->v.share;
    j->blocks = mmixi_ceil_div(j->H, j->heads); j->tasks = r->B * j->blocks;
    for (int i = MMIX_IN_Q; j->back && !j->linear && i <= MMIX_IN_K; i++) {
        j->target[i] = i ? r->dk : r->dq;
        j->parts[i] = mmixi_ceil_div(share[i], j->heads);
        if (j->target[i].p && j->parts[i] == 1) continue;
        j->target[i] = mmix_heads_plain(NULL, j->L, j->H / share[i], j->N, j->H);
        j->part[i] = r->B * (size_t)j->target[i].batch;
    }
    j->lane_size = mmixi_chunk_room(j, j->Q, NULL);
}

/* ==== >>linear attention =============================================================
   y_i = Σ_j M_ij v_j,   M_ij = φ(q_i)·ψ(k_j)

   As φ(Q) (ψ(K)ᵀ V) the L x L matrix never exists: the state ψ(K)ᵀ V is N x P. With `normalise` row i is
   divided by its sum + eps; a column of ones beside V makes that sum another column of the product, so that
   forward and backward know only one matrix product: y = num / den, dnum = dy / den, dden = -(dy · y) / den.
   Katharopoulos et al. 2020 (elu + 1); Shen et al. 2021 (efficient attention); LinearViT: arXiv 2511.18380.

   The plain loop is mmixi_mix_plain. The full form is ψ(K)ᵀ V once for all queries; the causal form is the
   scan of >>ssd.
   ==================================================================================== */

/* φ of a block of queries or ψ of its keys, or their gradient from that of φ or ψ; a softmax over tokens has
   the maximum and 1/sum of each feature. */
static void mmixi_linear_rows(const mmixi_pass *j, int input, int back)
{
    int feature = j->o.feature, add = j->r.add[input], tokens = input && feature == MMIX_FEATURE_EFFICIENT;
    const mmix_heads *heads = input ? back ? &j->r.dk : &j->r.k : back ? &j->r.dq : &j->r.q;
    mmixi_mat f = input ? j->B : j->C, df = input ? j->dB : j->dC;
    if (!heads->p) return;
    mmixi_mat x = mmixi_tokens(j, heads, j->N);
    if (!back && !tokens) mmixi_feature_rows(j->k, feature, f, x);
    for (size_t r = 0; (back || tokens) && r < j->q; r++) {
        mmix_real *to = mmixi_row(x, r), *y = mmixi_row(f, r), *dy = mmixi_row(df, r);
        if (tokens)
            for (size_t n = 0; n < j->N; n++)
                if (back) to[n] = (add ? to[n] : 0) + y[n] * (dy[n] - j->along[n]);
                else y[n] = mmixi_exp_real(to[n] - j->top[n]) * j->sum[n];
        else if (feature == MMIX_FEATURE_SOFTMAX_BOTH || feature == MMIX_FEATURE_EFFICIENT)
            j->k->softmax_backward(j->N, y, dy, j->k->dot(j->N, y, dy), to, add);
        else for (size_t n = 0, N = j->N; n < N; n++) {
            mmix_real elu = feature == MMIX_FEATURE_ELU1, one = feature == MMIX_FEATURE_NONE || y[n] > elu,
                g = (one > 0 ? 1 : elu * y[n]) * dy[n];                /* slope 1; elu + 1: e^x; relu: 0 */
            to[n] = add ? to[n] + g : g;
        }
    }
}
/* Where rows are divided: y = num / den, which lie side by side, or dnum and dden. */
static void mmixi_linear_divide(const mmixi_pass *j)
{
    mmixi_mat y = mmixi_tokens(j, &j->r.y, j->P), dy = j->back ? mmixi_tokens(j, &j->r.dy, j->P) : y;
    mmix_real *inverse = j->r.inverse_sum;
    if (inverse) inverse += (j->b * j->H + j->head) * j->L + j->start;
    for (size_t i = 0; j->V > j->P && i < j->q; i++) {
        mmix_real *row = mmixi_row(j->near_y, i), *sum = row + j->P;
        if (!j->back) {
            *sum = 1 / (*sum + (mmix_real)j->o.eps);
            j->k->scale(j->P, *sum, row, mmixi_row(y, i));
            if (inverse) inverse[i] = *sum;
            continue;
        }
        *sum = -j->k->dot(j->P, mmixi_row(dy, i), mmixi_row(y, i)) * inverse[i];
        j->k->scale(j->P, inverse[i], mmixi_row(dy, i), row);
    }
}

/* The full form: one key/value group of one sequence, its state serves all its query heads. Two sweeps, the
   first makes a state for the second: state = ψ(K)ᵀ V, Y = φ(Q) state; and the same backward from the queries
   to the keys: dstate = φ(Q)ᵀ dY, dφ = dY stateᵀ; dV = ψ(K) dstate, dψ = V dstateᵀ. */
static void mmixi_linear_task(mmixi_pass *j, size_t index, size_t lane)
{
    const mmixi_kernels *k = j->k;
    mmixi_task_begin(j, index, lane);
    mmixi_mat state = j->h, x = mmixi_matrix(mmixi_at(&j->r.k, j->b, 0, j->head), j->S, j->N, j->r.k.token);
    if (j->r.kept) state.p = mmixi_state_kept(j);
    if (j->back) mmixi_transpose(k, j->in_t, state);
    for (size_t n = 0; j->o.feature == MMIX_FEATURE_EFFICIENT && n < j->N; n++) {
        double sum = 0;
        j->top[n] = x.p[n];
        for (size_t t = 1; t < j->S; t++) if (mmixi_row(x, t)[n] > j->top[n]) j->top[n] = mmixi_row(x, t)[n];
        for (size_t t = 0; t < j->S; t++) sum += (double)mmixi_exp_real(mmixi_row(x, t)[n] - j->top[n]);
        j->sum[n] = (mmix_real)(1 / sum);
    }
    for (int second = 0, keys = !j->back; second < 2; second++, keys = !keys) {
        size_t tokens = keys ? j->S : j->L;
        if (second && j->back) {
            mmixi_transpose(k, j->dh_t, j->h);
            /* a column of ψ = softmax over tokens needs Σ_s ψ dψ, which is Σ_p state dstate */
            for (size_t n = 0; n < j->N; n++)
                j->along[n] = k->dot(j->V, mmixi_row(state, n), mmixi_row(j->h, n));
        }
        for (j->head = j->first; j->head < (keys ? j->first + 1 : j->last); j->head++)
            for (j->start = 0; j->start < tokens; j->start += j->q) {
                mmixi_chunk_room(j, mmixi_min(j->Q, tokens - j->start), j->states);
                mmixi_linear_rows(j, keys, 0);
                (keys ? mmixi_chunk_x : mmixi_chunk_y)(j);
                mmixi_mat f = keys ? j->B : j->C, values = keys ? j->x : j->y;
                if (!second)
                    mmixi_multiply(k, j->back ? j->h : state, mmixi_t(f), values, j->back || j->start);
                else if (!j->back) mmixi_multiply(k, j->y, f, state, 0), mmixi_linear_divide(j);
                else if (j->r.dv.p)
                    mmixi_multiply(k, mmixi_tokens(j, &j->r.dv, j->P), f, mmixi_part(j->h, 0, 0, j->N, j->P),
                                   j->r.add[MMIX_IN_V]);
                if (!j->back) continue;
                mmixi_multiply(k, keys ? j->dB : j->dC, values, keys ? j->dh_t : j->in_t, 0);
                mmixi_linear_rows(j, keys, 1);
            }
    }
}

/* ==== >>softmax attention ============================================================
   y_i = Σ_j p_ij v_j,   p_i = softmax over the allowed j of s_ij = scale · q_i·k_j + bias_ij

   q (B, L, H, N), k (B, S, G, N), v (B, S, G, P), y (B, L, H, P); G divides H. The plain loop,
   mmixi_mix_plain, makes all of p. The fast form never does: it takes keys in tiles. For each block of
   queries and each tile the scores are a small product; a running maximum m and sum l of each row let later
   tiles be added (Milakov & Gimelshein 2018; Dao et al. 2022):

       m' = max(m, max_j s_ij),   l' = l e^(m - m') + Σ_j e^(s_ij - m'),
       y' = y e^(m - m') + Σ_j e^(s_ij - m') v_j,   and at the end y = y'/l'

   With up to MMIXI_KEY_TILE keys there is one tile and nothing is rescaled. Kept for the backward: m and 1/l
   of each row; with them p is formed again tile by tile. Of few keys, up to 2 (N + P), e^(s - m) is kept,
   too: that is no more than q, k, v and y are.

   Every mask lets a query see one run of keys, tiles outside are not visited. A window of a grid is a
   sequence of its own, whose tokens lie apart.     torch: F.scaled_dot_product_attention(q, k, v, mask)
   ==================================================================================== */

static size_t mmixi_softmax_room(mmixi_pass *s, mmix_real *base)
{
    size_t R = MMIXI_QUERY_BLOCK, N = s->N, P = s->P, T = s->T, back = s->back != 0,
        windows = s->o.window[0] != 0, at = 0;
    MMIXI_MAT(key_t, N, s->ld); MMIXI_MAT(value_t, back * P, s->ld); MMIXI_MAT(query, R, N);
    MMIXI_MAT(scores, R, s->ld); MMIXI_MAT(dscores, back * R, s->ld); MMIXI_MAT(y, windows * R, P);
    MMIXI_MAT(dy, back * R, P); MMIXI_MAT(dquery, back * R, N); MMIXI_MAT(key, back || windows ? T : 0, N);
    MMIXI_MAT(value, windows || (!back && s->run > 1) ? T : 0, P);
    MMIXI_MAT(dkey, back * windows * T, N); MMIXI_MAT(dvalue, back * windows * T, P);
    MMIXI_PART(row_max, back ? 0 : s->run); MMIXI_PART(sum, back ? 0 : s->run);
    return at;
}
/* Queries from i on against the keys of the tile; whether they see any. */
static int mmixi_softmax_block(mmixi_pass *j, size_t i)
{
    size_t n = mmixi_min(j->T, j->S - j->tile), end = 0;
    j->i = i; j->from = n; j->add = 0;
    j->rows = mmixi_min(MMIXI_QUERY_BLOCK, j->last - i);
    for (size_t r = 0; r < j->rows; r++) {
        if (i + r < j->own.begin || i + r >= j->own.end) j->own = mmixi_sequence(&j->r, j->b, i + r);
        mmixi_keys all = mmixi_seen(j, j->own, i + r), *seen = &j->seen[r];
        j->add |= j->again[r] = all.begin < j->tile;
        j->whole[r] = !j->again[r] && mmixi_min(all.end, j->S) <= j->tile + n;
        seen->begin = mmixi_min(mmixi_max(all.begin, j->tile) - j->tile, n);
        seen->end = mmixi_min(mmixi_max(all.end, j->tile) - j->tile, n);
        if (seen->begin == seen->end) seen->begin = seen->end = n;
        else end = mmixi_max(end, seen->end);
        j->from = mmixi_min(j->from, seen->begin);
    }
    j->n = end - j->from;
    return end > j->from;
}
/* Token t of the task in the sequence. */
static size_t mmixi_softmax_token(const mmixi_pass *j, size_t t) { return j->order ? j->order[t].at : t; }
/* Rows of the task's tokens from t on are put, or with add 1 added, where they belong; -1: the other way. */
static void mmixi_softmax_put(const mmixi_pass *j, mmixi_mat rows, const mmix_heads *a, size_t t, int add)
{
    mmix_real *base = mmixi_at(a, j->b, 0, j->head);
    for (size_t i = 0; i < rows.rows; i++) {
        mmix_real *row = mmixi_row(rows, i), *at = base + (ptrdiff_t)mmixi_softmax_token(j, t + i) * a->token;
        mmixi_put(j->k, rows.cols, add < 0 ? at : row, add < 0 ? row : at, add > 0);
    }
}
/* n rows from token t on: where they lie, or in `room` if they lie apart or are to be copied. */
static mmixi_mat mmixi_softmax_rows_of(const mmixi_pass *j, const mmix_heads *a, size_t t, size_t n,
                                       mmixi_mat room, int copy)
{
    if (!j->order && !copy) return mmixi_matrix(mmixi_at(a, j->b, t, j->head), n, room.cols, a->token);
    room.rows = n;
    mmixi_softmax_put(j, room, a, t, -1);
    return room;
}
/* Kept e^(s - m) of row r of the block, from the tile's first key on. */
static mmix_real *mmixi_softmax_kept(const mmixi_pass *j, size_t r)
{
    return j->r.kept + ((j->window * j->H + j->head) * j->L + j->i + r) * j->ld;
}
/* Row r's numbers for keys that it does not see become 0. */
static void mmixi_softmax_hide(const mmixi_pass *j, size_t r, mmix_real *row)
{
    size_t all = j->from + j->n, begin = mmixi_min(j->seen[r].begin, all),
        end = mmixi_min(j->seen[r].end, all);
    memset(row + j->from, 0, (begin - j->from) * sizeof *row);
    memset(row + end, 0, (all - end) * sizeof *row);
}
/* The rows of dk or dv that a tile's products are added to, zeroed by the first tile. */
static void mmixi_softmax_sums(const mmixi_pass *j, const mmix_heads *a, size_t n, int input, mmixi_mat *sum)
{
    if (a->p) *sum = mmixi_softmax_rows_of(j, a, j->tile, n, *sum, 0);
    if (a->p && (j->order || !j->r.add[input])) mmixi_zero_rows(*sum);
}
static void mmixi_softmax_tile(mmixi_pass *j)
{
    const mmix_raw *x = &j->r;
    int back = j->back;
    size_t n = mmixi_min(j->T, j->S - j->tile);
    j->key = mmixi_softmax_rows_of(j, &x->k, j->tile, n, j->key, back);
    if (!(back ? x->kept != NULL : j->single)) mmixi_transpose(j->k, j->key_t, j->key);
    j->value = mmixi_softmax_rows_of(j, &x->v, j->tile, n, j->value, !back && !j->single);
    if (!back) return;
    mmixi_transpose(j->k, j->value_t, j->value);
    mmixi_softmax_sums(j, &x->dk, n, MMIX_IN_K, &j->dkey);
    mmixi_softmax_sums(j, &x->dv, n, MMIX_IN_V, &j->dvalue);
}
/* Q = scale q of the block */
static mmixi_mat mmixi_softmax_queries(const mmixi_pass *j)
{
    mmixi_mat q = mmixi_softmax_rows_of(j, &j->r.q, j->i, j->rows, j->query, 0);
    for (size_t r = 0; r < j->rows; r++)
        j->k->scale(q.cols, (mmix_real)j->o.scale, mmixi_row(q, r), mmixi_row(j->query, r));
    return mmixi_part(j->query, 0, 0, j->rows, q.cols);
}
/* S = Q Kᵀ + bias of the block and the tile; S is (rows, n). */
static void mmixi_softmax_scores(const mmixi_pass *j, mmixi_mat S, mmixi_mat Q)
{
    if (!j->single) mmixi_multiply(j->k, S, Q, mmixi_part(j->key_t, 0, j->from, Q.cols, j->n), 0);
    else for (size_t t = 0; t < j->n; t++) S.p[t] = j->k->dot(Q.cols, Q.p, mmixi_row(j->key, j->from + t));
    for (size_t r = 0; j->r.bias && r < j->rows; r++) {
        const mmix_real *bias = j->r.bias + mmixi_bias_at(j, j->head, j->order[j->i + r].place);
        for (size_t t = 0; t < j->n; t++)
            mmixi_row(S, r)[t] += bias[-(ptrdiff_t)j->order[j->tile + j->from + t].place];
    }
}

/* Each row of scores becomes e^(s - m), with m and l brought up to date and y rescaled to them. */
static void mmixi_softmax_forward(mmixi_pass *j)
{
    mmixi_mat y = mmixi_softmax_rows_of(j, &j->r.y, j->i, j->rows, j->y, 0);
    if (j->r.kept) j->scores.p = mmixi_softmax_kept(j, 0);
    mmixi_mat scores = mmixi_part(j->scores, 0, j->from, j->rows, j->n);
    mmixi_softmax_scores(j, scores, mmixi_softmax_queries(j));
    for (size_t r = 0; r < j->rows; r++) {
        size_t a = j->seen[r].begin, n = j->seen[r].end - a;
        mmix_real *row_max = &j->row_max[j->i - j->first + r], *sum = &j->sum[j->i - j->first + r],
            *p = mmixi_row(j->scores, r), before = *row_max, here = j->k->largest(n, p + a);
        if (n) {
            *row_max = j->again[r] && before > here ? before : here < -FLT_MAX ? -FLT_MAX : here;
            here = j->k->exp_row(n, 1, p + a, *row_max, p + a);
            if (j->again[r]) {
                mmix_real fade = mmixi_exp_real(before - *row_max);
                here += *sum * fade;
                j->k->scale(j->P, fade, mmixi_row(y, r), mmixi_row(y, r));
            }
            *sum = here;
        }
        mmixi_softmax_hide(j, r, p);
    }
    mmixi_multiply(j->k, y, scores, mmixi_part(j->value, j->from, 0, j->n, j->P), j->add);
    if (j->order) mmixi_softmax_put(j, y, &j->r.y, j->i, 0);
}

/* ---- backward ----
   y_i = Σ_j p_ij v_j, so dv_j = Σ_i p_ij dy_i and dp_ij = dy_i · v_j. A softmax feels no constant that is
   added to all of its scores, so what they would all get, δ_i = Σ_j p_ij dp_ij = dy_i · y_i, is taken off:

       ds_ij = p_ij (dp_ij - δ_i),   dq_i = scale Σ_j ds_ij k_j,   dk_j = scale Σ_i ds_ij q_i,   dbias = ds */

static void mmixi_softmax_backward(mmixi_pass *j)
{
    const mmix_raw *x = &j->r;
    const mmixi_kernels *k = j->k;
    size_t rows = j->rows, from = j->from, N = j->N, P = j->P;
    mmixi_mat scores = mmixi_part(j->scores, 0, from, rows, j->n),
        dscores = mmixi_part(j->dscores, 0, from, rows, j->n), dq = mmixi_part(j->dquery, 0, 0, rows, N),
        Q = mmixi_softmax_queries(j), dy = mmixi_softmax_rows_of(j, &x->dy, j->i, rows, j->dy, 1);
    if (!x->kept) mmixi_softmax_scores(j, scores, Q);
    mmixi_multiply(k, dscores, dy, mmixi_part(j->value_t, 0, from, P, j->n), 0);
    /* p from the scores or from what was kept of them, ds in the place of dp and in the bias' gradient */
    for (size_t r = 0; r < rows; r++) {
        size_t a = j->seen[r].begin, n = j->seen[r].end - a, t = mmixi_softmax_token(j, j->i + r),
            at = (j->b * j->H + j->head) * x->L + t;
        mmix_real *p = mmixi_row(j->scores, r), *ds = mmixi_row(j->dscores, r);
        if (!x->kept) k->exp_row(n, 1, p + a, x->row_max[at], p + a);
        k->scale(n, x->inverse_sum[at], (x->kept ? mmixi_softmax_kept(j, r) : p) + a, p + a);
        /* where one tile has all of the row, the sum over j is as good, and exact with one key */
        mmix_real delta = j->whole[r] ? k->dot(n, p + a, ds + a)
            : k->dot(P, mmixi_row(j->dy, r), mmixi_at(&x->y, j->b, t, j->head));
        k->softmax_backward(n, p + a, ds + a, delta, ds + a, 0);
        for (size_t s = a; j->dbias && s < a + n; s++)
            j->dbias[mmixi_bias_at(j, j->head, j->order[j->i + r].place) - j->order[j->tile + s].place]
                += ds[s];
        mmixi_softmax_hide(j, r, p);
        mmixi_softmax_hide(j, r, ds);
    }
    if (x->dv.p) mmixi_multiply(k, mmixi_part(j->dvalue, from, 0, j->n, P), mmixi_t(scores), dy, 1);
    if (x->dk.p) mmixi_multiply(k, mmixi_part(j->dkey, from, 0, j->n, N), mmixi_t(dscores), Q, 1);
    if (!x->dq.p) return;
    mmixi_multiply(k, dq, dscores, mmixi_part(j->key, from, 0, j->n, N), 0);
    k->scale(rows * N, (mmix_real)j->o.scale, dq.p, dq.p);
    mmixi_softmax_put(j, dq, &x->dq, j->i, x->add[MMIX_IN_Q] || j->add);
}

static void mmixi_softmax_task(mmixi_pass *j, size_t index, size_t lane)
{
    size_t heads = j->H / j->shared, first = index / j->runs % heads * j->shared;
    mmixi_softmax_room(j, j->scratch + lane * j->lane_size);
    j->first = index % j->runs * j->run;
    j->last = mmixi_min(j->L, j->first + j->run); j->head = first;
    j->window = index / j->runs / heads; j->b = j->window / j->windows;
    if (j->dbias) {
        j->dbias += j->window * j->H * j->distances;
        memset(j->dbias + first * j->distances, 0, j->shared * j->distances * sizeof *j->dbias);
    }
    if (j->order) {
        j->order += j->window % j->windows * j->L;
        j->S = j->last = j->count[j->window % j->windows];
    }
    for (j->tile = 0; j->tile < j->S; j->tile += j->T) {
        int ready = j->back;                     /* dk and dv begin at 0, whoever sees the keys */
        if (ready) mmixi_softmax_tile(j);
        for (size_t h = 0; h < j->shared; h++)
            for (size_t i = j->first; i < j->last; i += j->rows) {
                j->head = first + h;
                if (!mmixi_softmax_block(j, i)) continue;
                if (!ready++) mmixi_softmax_tile(j);
                (j->back ? mmixi_softmax_backward : mmixi_softmax_forward)(j);
            }
        if (!j->back || !j->order) continue;
        if (j->r.dk.p) mmixi_softmax_put(j, j->dkey, &j->r.dk, j->tile, j->r.add[MMIX_IN_K]);
        if (j->r.dv.p) mmixi_softmax_put(j, j->dvalue, &j->r.dv, j->tile, j->r.add[MMIX_IN_V]);
    }
    for (size_t i = j->first; !j->back && i < j->last; i++) {        /* all tiles are in: y = y'/l */
        size_t t = mmixi_softmax_token(j, i), at = (j->b * j->H + j->head) * j->r.L + t;
        mmix_real inverse = 1 / j->sum[i - j->first], *y = mmixi_at(&j->r.y, j->b, t, j->head);
        j->k->scale(j->P, inverse, y, y);
        if (!j->r.row_max) continue;
        j->r.row_max[at] = j->row_max[i - j->first]; j->r.inverse_sum[at] = inverse;
    }
}
static void mmixi_softmax_begin(mmixi_pass *j)
{
    const mmix_mixer *o = &j->o;
    size_t heads = j->r.B * j->H, L = j->L;
    j->windows = 1; j->distances = j->r.bias ? 1 : 0;
    if (o->window[0]) j->L = j->S = 1;
    for (int a = 0; o->window[0] && a < 3; a++) {
        j->before[a] = (o->window[a] - o->shift[a]) % o->window[a];
        j->windows *= j->many[a] = (o->grid[a] - 1 + j->before[a]) / o->window[a] + 1;
        j->L = j->S *= mmixi_min(o->window[a], o->grid[a]);
        j->distances *= 2 * o->window[a] - 1;
    }
    j->T = mmixi_min(j->S, MMIXI_KEY_TILE);
    j->ld = mmixi_round_up(j->T, 16) | 16;       /* else the rows share a few sets of the cache */
    j->run = mmixi_max(4 * MMIXI_QUERY_BLOCK, mmixi_ceil_div(L * heads, 16));
    if (j->back || o->window[0] || heads >= 16) j->run = j->L;
    j->run = mmixi_min(mmixi_round_up(j->run, MMIXI_QUERY_BLOCK), j->L);
    j->runs = mmixi_ceil_div(j->L, j->run); j->single = j->run < 2 && !j->back;
    j->task = mmixi_softmax_task;
    j->shared = j->back ? j->r.k.share : 1;
    j->tasks = heads / j->shared * j->windows * j->runs;
    j->kept = j->S > j->T ? 0 : heads * j->windows * j->L * j->ld;
    j->lane_size = mmixi_softmax_room(j, NULL);
}

#undef MMIXI_TABLE
#undef MMIXI_PART

MMIXI_COLD_BEGIN

/* ==== >>layers =======================================================================
   parameters in one slab, and LoRA's beside them; attention, MLP, SwiGLU, Mamba-2: a few ops each. Where a
   layer can go on from a state, that is the same code with the state in place of zeros.
   ==================================================================================== */

MMIXDEF mmix_params *mmix_params_create(mmix_ctx *m)
{
    mmix_params *p = (mmix_params *)mmixi_zeroed(m, sizeof *p);
    if (p) p->m = m;
    return p;
}
/* Zeroed memory that goes with the list: names, tensors, values, the model itself. NULL on error. */
typedef struct mmixi_owned { struct mmixi_owned *next; size_t bytes; } mmixi_owned;
static void *mmixi_own(mmix_params *p, size_t bytes)
{
    mmixi_owned *o = p ? (mmixi_owned *)mmixi_zeroed(p->m, bytes += MMIXI_ALIGN) : NULL;
    if (!o) return NULL;
    o->next = p->owned; o->bytes = bytes;
    p->owned = o;
    return (char *)o + MMIXI_ALIGN;
}
MMIXDEF void mmix_params_destroy(mmix_params *p)
{
    if (!p) return;
    mmix_params_destroy(p->adapters);
    while (p->owned) {
        mmixi_owned *o = p->owned;
        p->owned = o->next;
        mmixi_free(p->m, o, o->bytes);
    }
    mmixi_free(p->m, p->at, p->capacity * sizeof *p->at);
    mmixi_free(p->m, p->values, p->slab * sizeof *p->values);
    mmixi_free(p->m, p->gradients, p->slab * sizeof *p->gradients);
    mmixi_free(p->m, p->packed, p->packed_reals * sizeof *p->packed);
    mmixi_free(p->m, p, sizeof *p);
}
MMIXDEF mmix_tensor *mmix_params_find(const mmix_params *p, const char *name)
{
    for (size_t i = 0; p && i < p->count; i++) if (!strcmp(p->at[i].name, name)) return p->at[i].tensor;
    return NULL;
}
static mmix_real *mmixi_slab(const mmix_params *p)
{
    size_t bytes = p->slab * sizeof(mmix_real);
    return (mmix_real *)mmixi_twinned(p->m, mmixi_zeroed(p->m, bytes), bytes);
}
static size_t mmixi_slab_size(const mmix_tensor *t)      /* reals, padded to whole cache lines */
{
    return mmixi_round_up(mmixi_bytes(t), MMIXI_ALIGN) / sizeof(mmix_real);
}
/* Copies a matrix (O, I) to `to` as a linear layer's product reads it. The reals this takes, 0 of anything
   else and of one that is packed; where `to` is NULL they are only counted. */
static size_t mmixi_pack(mmix_ctx *m, mmix_tensor *t, mmix_real *to)
{
    mmixi_gemm g;
    if (mmix_ndim(t) != 2 || (t->packed && t->packed_nr == m->k->nr)) return 0;
    if (to) {
        memset(&g, 0, sizeof g);
        g.b = mmixi_t(mmixi_values(t)); g.half = mmixi_halves(t);
        mmixi_gemm_pack(m, &g, to);
        t->packed = to; t->packed_nr = m->k->nr;
    }
    return mmixi_gemm_packed(m->k, t->shape[1], t->shape[0]);
}
enum { MMIXI_PARAM_NAME = 224 };         /* bytes of a name with its 0; files may have a prefix before it */
MMIXDEF mmix_tensor *mmix_params_add(mmix_params *p, const char *prefix, const char *name, int ndim,
                                     const size_t *shape, int start, double a, double b)
{
    char full[MMIXI_PARAM_NAME] = "";
    if (!p) return NULL;
    size_t length = prefix && name ? (size_t)snprintf(full, sizeof full, "%s%s", prefix, name) : SIZE_MAX;
    mmix_ctx *m = p->m;
    if (length >= MMIXI_PARAM_NAME)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_params_add: expected a prefix and a name of together at most "
                  "%d bytes, found %s", MMIXI_PARAM_NAME - 1, *full ? "more" : "NULL");
    else if (p->values || mmix_params_find(p, full))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, p->values ? "mmix_params_add: %s comes after mmix_params_allocate"
                  : "mmix_params_add: %s is there already", full);
    mmix_tensor *t = (mmix_tensor *)mmixi_own(p, sizeof *t + length + 1);
    if (!t) return NULL;
    p->at = (mmix_param *)mmixi_grow(m, p->at, &p->capacity, p->count + 1, sizeof *p->at);
    mmix_param q = { (const char *)memcpy(t + 1, full, length + 1), t,
                     ndim > 1 && (length < 5 || strcmp(full + length - 5, ".bias")), 0, { start, a, b } };
    if (mmixi_describe(m, t, full, p->bf16 && ndim == 2 ? MMIX_DTYPE_BF16 : MMIX_DTYPE_REAL, ndim, shape)
        > SIZE_MAX / 2 + 1 - p->slab * sizeof(mmix_real))
        mmix_fail(m, MMIX_ERROR_MEMORY, "mmix_params_add: with %s the parameters are too large", full);
    if (m->error_kind) return NULL;
    t->lasting = 1; p->at[p->count++] = q;
    p->elements += mmix_count(t); p->slab += mmixi_slab_size(t); p->packed_reals += mmixi_pack(m, t, NULL);
    return t;
}
/* Element i of a parameter at the start. */
static double mmixi_start_value(const mmix_param *q, uint64_t stream, size_t i)
{
    const mmix_tensor *t = q->tensor;
    int kind = q->start.kind, step = kind == MMIX_START_STEP || kind == MMIX_START_SPREAD;
    double a = q->start.a, b = q->start.b, u;
    if (kind == MMIX_START_CONSTANT) return a;
    if (kind == MMIX_START_LAST_TAP) return (i + 1) % mmixi_cols(t) == 0;
    if (kind == MMIX_START_NORMAL) return a * mmix_random_normal(t->m, MMIXI_RANDOM_INIT, stream, i);
    if (kind == MMIX_START_SPREAD) u = ((double)i + 0.5) / (double)mmix_count(t);
    else u = mmix_random_uniform(t->m, MMIXI_RANDOM_INIT, stream, i);
    if (step) a = mmixi_log(a), b = mmixi_log(b);
    u = a + (b - a) * u;
    if (!step) return kind == MMIX_START_UNIFORM ? u : mmixi_log(u);
    u = fmax(1e-4, mmixi_exp(u));
    return u + mmixi_log(-(mmixi_exp(-u) - 1));          /* softplus(y) = u for y = u + ln(1 - e^-u) */
}
static void mmixi_start_range(void *arg, mmixi_range range)
{
    const mmix_param *q = (const mmix_param *)arg;
    mmix_real *x = mmixi_of(q->tensor);
    uint64_t stream = 14695981039346656037u;             /* of its own for each name: FNV-1a */
    for (const char *c = q->name; *c; c++) stream = (stream ^ (unsigned char)*c) * 1099511628211u;
    for (size_t i = range.begin; i < range.end; i++) x[i] = (mmix_real)mmixi_start_value(q, stream, i);
}
/* start 0: zeros; a file's values will follow. */
static int mmixi_params_allocate(mmix_params *p, int start)
{
    if (!p || p->m->error_kind) return -1;
    if (p->values) return 0;
    p->values = mmixi_slab(p);
    for (size_t i = 0, at = 0; p->values && i < p->count; i++) {
        mmix_tensor *t = p->at[i].tensor;
        t->data = p->values + at; at += mmixi_slab_size(t);
        if (start) mmixi_ranges(p->m, mmix_count(t), 1 << 14, mmixi_start_range, p->at + i);
    }
    return p->values ? 0 : -1;
}
MMIXDEF int mmix_params_allocate(mmix_params *p) { return mmixi_params_allocate(p, 1); }
static void mmixi_param_here(mmix_tensor *t) { mmixi_of(t); mmixi_grad_here(t); }
/* The end of a model's creation: the values, unless start is 0, since a file has them. Whether all went well;
   else all is freed, and what was wrong with the config is the file's error. */
static int mmixi_model_ready(mmix_ctx *m, mmix_params *p, int start)
{
    if (p && !m->error_kind && !(start && mmix_params_allocate(p))) return 1;
    mmix_params_destroy(p);
    if (!start && m->error_kind == MMIX_ERROR_ARGUMENT) m->error_kind = MMIX_ERROR_FILE;
    return 0;
}
/* Whether there are values, if they are needed; these and the gradients are on the host then. */
static int mmixi_params_ready(const mmix_params *p, const char *who, int needed)
{
    if (p && needed && !p->values)
        mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "%s: mmix_params_allocate comes first", who);
    for (size_t i = 0; p && needed && i < p->count; i++) mmixi_param_here(p->at[i].tensor);
    return p && !p->m->error_kind;
}
MMIXDEF int mmix_params_train(mmix_params *p, int train)
{
    if (!mmixi_params_ready(p, "mmix_params_train", train)) return -1;
    if (p->bf16) return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_params_train: the matrices are bf16");
    if (!train || !p->gradients) {
        mmixi_free(p->m, p->gradients, p->slab * sizeof *p->gradients);
        p->gradients = train ? mmixi_slab(p) : NULL;
    }
    if (p->m->error_kind) return -1;
    for (size_t i = 0; i < p->count; i++) {
        mmix_tensor *t = p->at[i].tensor;
        t->grad = train ? p->gradients + (mmixi_of(t) - p->values) : NULL;
        t->wants = train && !p->at[i].frozen; t->written = t->grad_where = 0;
    }
    return 0;
}
MMIXDEF void mmix_params_zero_grad(mmix_params *p)
{
    for (size_t i = 0; p && i < p->count; i++) p->at[i].tensor->written = 0;
}
/* The values change: no packed copy holds any more. */
static void mmixi_params_changed(const mmix_params *p)
{
    for (size_t i = 0; i < p->count; i++) p->at[i].tensor->packed = NULL;
}
MMIXDEF int mmix_params_pack(mmix_params *p, int pack)
{
    if (!mmixi_params_ready(p, "mmix_params_pack", pack)) return -1;
    mmixi_params_changed(p);
    mmixi_free(p->m, p->packed, p->packed_reals * sizeof *p->packed);
    p->packed = pack ? (mmix_real *)mmixi_alloc(p->m, p->packed_reals * sizeof *p->packed) : NULL;
    for (size_t i = 0, at = 0; p->packed && i < p->count; i++)
        at += mmixi_pack(p->m, p->at[i].tensor, p->packed + at);
    return p->m->error_kind ? -1 : 0;
}
/* The matrices among n tensors that are not packed become views that are, in step memory. */
static void mmixi_packed(mmix_ctx *m, mmix_tensor **w, size_t n)
{
    for (; n-- > 0; w++) {
        size_t reals = mmixi_pack(m, *w, NULL);
        mmix_tensor *view = reals ? mmixi_view(m, *w, 0) : NULL;
        mmix_real *to = view ? mmixi_reals(m, reals, 1) : NULL;
        if (!to) continue;
        mmixi_pack(m, view, to);
        view->lora = (*w)->lora;
        *w = view;
    }
}

/* ---- declaring parameters ---- */
/* Many in one line: name, shape, how the values start.

       mmixi_declare(p, "fc.", &d, "weight OD uniform, +bias O zeros", &layer->weight)

   The letters of shapes are bound in d, a digit is that size. A pointer says where the tensor goes, NULL that
   it is left out; one with + before the name goes to the struct's next member, if the one before it went. *
   at the end: the values are multiplied by a number that follows the pointer. 0, or -1. */
static int mmixi_declare(mmix_params *p, const char *prefix, const mmixi_dims *d, const char *spec, ...)
{
    /* Word, MMIX_START_…, a, b. With / the values are divided by √fan, the numbers that go into one output:
       of all axes but the first, of a vector as of the parameter before it. `uniform` is what PyTorch's
       linear layers and convolutions begin with (Kaiming, a = √5), `lecun` a normal distribution as wide. */
    static const char starts[] = "uniform U -1 1 /, lecun N 1 0 /, zeros C 0 0, ones C 1 0, normal N 2e-2 0, "
        "A_log L 1 16, dt_bias S 1e-3 1e-1, dt_spread E 1e-3 1e-1, last_tap T 0 0";
    mmix_tensor **to = NULL;
    va_list list;
    if (!p) return -1;
    size_t fan = 1;
    va_start(list, spec);
    for (const char *at = spec; at; at = strchr(at, ',')) {
        char name[48], shape[8], word[16], mark[2] = "", kind;
        size_t size[MMIX_MAX_DIMS];
        int ndim = 0;
        double scale = 1, a, b;
        at += strspn(at, ", +");
        if (at == spec || at[-1] != '+') to = va_arg(list, mmix_tensor **);
        else if (to) to++;
        if (sscanf(at, "%47s %7s %15[a-zA-Z_]%1[*]", name, shape, word, mark) == 4)
            scale = va_arg(list, double);
        for (; shape[ndim]; ndim++) {
            char letter = shape[ndim];
            size[ndim] = letter < 'A' ? (size_t)(letter - '0') : ((const size_t *)d)[letter - 'A'];
            if (ndim) fan = size[ndim] * (ndim > 1 ? fan : 1);
        }
        sscanf(strstr(starts, word) + strlen(word), " %c %lf %lf %1[/]", &kind, &a, &b, mark);
        if (*mark == '/') scale /= sqrt((double)fan);
        else if (kind == MMIX_START_NORMAL && p->deviation > 0) a = p->deviation;
        if (to) *to = mmix_params_add(p, prefix, name, ndim, size, kind, a * scale, b * scale);
    }
    va_end(list);
    return p->m->error_kind ? -1 : 0;
}

/* ---- adapters ---- */
/* Which of MMIX_LORA_… the matrix of this name belongs to, or 0. */
static int mmixi_lora_target(const char *name)
{
    static const char part[][20] = { ".mlp.", ".q_proj.", ".k_proj.", ".v_proj.", ".o_proj.", ".attn.qkv.",
                                     ".attn.proj.", ".mixer.in_proj.", ".mixer.out_proj." };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (strstr(name, part[i])) return i ? MMIX_LORA_MIXER : MMIX_LORA_FFN;
    return 0;
}
/* The number of the block that a name is of: its first. */
static size_t mmixi_name_block(const char *name)
{
    return strtoul(name + strcspn(name, "0123456789"), NULL, 10);
}
static void mmixi_lora_drop(mmix_params *p)
{
    for (size_t i = 0; i < p->count; i++) p->at[i].tensor->lora = NULL;
    mmix_params_destroy(p->adapters);
    p->adapters = NULL;
}
/* One beside a matrix. */
static void mmixi_lora_beside(mmix_params *p, const mmix_param *q)
{
    mmix_lora *lora = (mmix_lora *)mmixi_own(p->adapters, sizeof *lora);
    char prefix[MMIXI_PARAM_NAME];
    mmixi_dims d;
    if (!lora) return;
    snprintf(prefix, strlen(q->name) - strlen("weight") + 1, "%s", q->name);
    d.O = q->tensor->shape[0]; d.P = q->tensor->shape[1]; d.R = p->lora.rank;
    mmixi_declare(p->adapters, prefix, &d, "lora_A.weight RP uniform, +lora_B.weight OR zeros", &lora->A);
    lora->alpha = p->lora.alpha; q->tensor->lora = lora;
}
MMIXDEF int mmix_params_lora(mmix_params *p, size_t rank, double alpha, int targets)
{
    if (!mmixi_params_ready(p, "mmix_params_lora", 1)) return -1;
    if (!rank || p->adapters || p->bf16 || !(targets & (MMIX_LORA_FFN | MMIX_LORA_MIXER)))
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_params_lora: rank %.0f, targets %d%s", (double)rank,
                         targets, p->adapters ? "; there are adapters already" : p->bf16 ? ", of bf16" : "");
    const mmix_param *at = p->at, *end = at + p->count, *of;
    p->lora.rank = rank; p->lora.alpha = alpha; p->lora.targets = targets;
    p->adapters = mmix_params_create(p->m);
    for (const mmix_param *q = at; p->adapters && q < end; q = of)
        /* in this order moments lie in files of runs */
        for (int target = MMIX_LORA_FFN; target <= MMIX_LORA_MIXER; target++)
            for (of = q; of < end && mmixi_name_block(of->name) == mmixi_name_block(q->name); of++)
                if (targets & target && of->tensor->ndim == 2 && mmixi_lora_target(of->name) == target)
                    mmixi_lora_beside(p, of);
    if (p->adapters && !p->adapters->count)
        mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_params_lora: there is no matrix of targets %d", targets);
    if (!mmix_params_allocate(p->adapters)) return 0;
    mmixi_lora_drop(p);
    return -1;
}
/* W + alpha/r B A for the matrices in `values`, which lie as the slab. */
static void mmixi_lora_add(const mmix_params *p, mmix_real *values)
{
    mmix_ctx *m = p->m;
    for (size_t i = 0; i < p->count; i++) {
        const mmix_tensor *w = p->at[i].tensor;
        mmix_mark mark = mmix_mark_here(m);
        const mmix_tensor *low = w->lora ? mmix_matmul(m, w->lora->B, w->lora->A) : NULL;
        if (low)
            m->k->axpy(mmix_count(low), (mmix_real)(w->lora->alpha / (double)p->lora.rank), mmixi_of(low),
                       values + (mmixi_of(w) - p->values));
        mmix_rewind(m, mark);
    }
}
/* The slab; where there are adapters a copy with them, in step memory. NULL on error. */
static mmix_real *mmixi_params_merged(const mmix_params *p)
{
    mmix_real *copy = p->adapters ? mmixi_reals(p->m, p->slab, 1) : NULL;
    if (copy && mmixi_params_ready(p, "", 1))
        mmixi_lora_add(p, (mmix_real *)memcpy(copy, p->values, p->slab * sizeof *copy));
    return p->adapters ? copy : p->values;
}
MMIXDEF int mmix_params_merge(mmix_params *p)
{
    if (!mmixi_params_ready(p, "mmix_params_merge", 1)) return -1;
    if (p->adapters && p->in_run)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_params_merge: a run holds these adapters; "
                         "mmix_distill_destroy comes first");
    mmix_mark mark = mmix_mark_here(p->m);
    mmix_real *merged = mmixi_params_merged(p);
    if (!p->m->error_kind) memmove(p->values, merged, p->slab * sizeof *merged);
    mmix_rewind(p->m, mark);
    if (p->m->error_kind) return -1;
    mmixi_params_changed(p);
    mmixi_lora_drop(p);
    return 0;
}

/* ---- numbers of configs ---- */
/* A config's numbers, said once, in the order of its struct and of files, for checks, text and parsing: "size
   dim 1 4096" is a size_t of 1 to 4096; without the second limit up to INT32_MAX, without both any; decimal
   points would depend on the locale. Kinds are size, int, double and halves (of a uint64_t, the upper first);
   with a digit so many; with a capital letter older files lack it. | begins or ends a struct with doubles. */
typedef struct mmixi_setting {
    void *at;
    size_t count;
    int kind, may_lack;                          /* kind: its first letter */
    double low, high;
    char name[32];
} mmixi_setting;
/* The next one of a text, and beyond it; `at` is where the one before it ends in the struct. 0 at the end. */
static int mmixi_setting_next(mmixi_setting *s, const char **text, const void **at)
{
    const char *t = *text + strspn(*text, ", ");
    char type[16], *p = (char *)(uintptr_t)*at;
    int edge = *t == '|',
        given = sscanf(t += edge, "%15s %31[a-z0-9_.] %lf %lf", type, s->name, &s->low, &s->high);
    if (given < 2) return 0;
    s->may_lack = type[0] < 'a'; s->kind = type[0] | 32;           /* in small letters */
    if (given < 4) s->high = given < 3 && s->kind != 'i' ? HUGE_VAL : INT32_MAX;
    if (given < 3) s->low = s->kind == 's' ? 0 : -s->high;
    s->count = mmixi_max(1, strtoul(type + strcspn(type, "0123456789"), NULL, 10));
    size_t size = s->kind == 's' ? sizeof(size_t) : s->kind == 'd' ? sizeof(double) : sizeof(int),
        align = !edge && strchr("si", s->kind) ? size : offsetof(mmix_start, a);    /* of a double */
    s->at = p += (0 - (uintptr_t)p) % align; *at = p + s->count * size;
    *text = t + strcspn(t, ",");
    return 1;
}
/* Number i of a setting; unless x is NULL it is set to *x first. */
static double mmixi_setting_number(const mmixi_setting *s, size_t i, const double *x)
{
    size_t *size = (size_t *)s->at;
    int *flag = (int *)s->at;
    double *real = (double *)s->at;
    uint64_t *halves = (uint64_t *)s->at;
    switch (s->kind) {
    case 's':
        if (x) size[i] = (size_t)fmin(*x, (double)(SIZE_MAX / 2));
        return (double)size[i];
    case 'i':
        if (x) flag[i] = (int)*x;
        return flag[i];
    case 'd':
        if (x) real[i] = *x;
        return real[i];
    default:
        if (x) *halves = *halves << 32 | (uint64_t)*x;
        return (double)(*halves >> (i ? 0 : 32) & UINT32_MAX);
    }
}
static int mmixi_settings_check(mmix_ctx *m, const char *who, const void *config, const char *settings)
{
    for (mmixi_setting s; mmixi_setting_next(&s, &settings, &config);)
        for (size_t i = 0; i < s.count; i++)
            if (mmixi_within(m, who, s.name, mmixi_setting_number(&s, i, NULL), s.low, s.high)) return -1;
    return 0;
}
/* mmix_reshape with the sizes as arguments; NULL for NULL. */
static mmix_tensor *mmixi_as(mmix_ctx *m, mmix_tensor *x, int ndim, size_t a, size_t b, size_t c, size_t d)
{
    const size_t shape[4] = { a, b, c, d };
    return x ? mmix_reshape(m, x, ndim, shape) : NULL;
}
/* The rows of x as a matrix. */
static mmix_tensor *mmixi_flat(mmix_ctx *m, mmix_tensor *x)
{
    return x ? mmixi_as(m, x, 2, mmixi_rows(x), mmixi_cols(x), 0, 0) : NULL;
}
/* Features from … from + heads·width - 1 of (B, L, ·) as (B, L, heads, width): a view. */
static mmix_tensor *mmixi_split_heads(mmix_ctx *m, mmix_tensor *x, size_t from, size_t heads, size_t width)
{
    x = mmix_slice(m, x, 2, from, heads * width);
    return mmixi_as(m, x, 4, mmix_shape(x, 0), mmix_shape(x, 1), heads, width);
}
static mmix_tensor *mmixi_join_heads(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_as(m, x, 3, mmix_shape(x, 0), mmix_shape(x, 1), mmix_shape(x, 2) * mmix_shape(x, 3), 0);
}
/* The tokens of x (B, L, D) in a list, (B, n, D); where they follow each other a view, or x. */
static mmix_tensor *mmixi_tokens_listed(mmix_ctx *m, mmix_tensor *x, const mmix_tensor *list)
{
    const int32_t *at = mmix_data_i32(list);
    size_t B = mmix_shape(x, 0), L = mmix_shape(x, 1), n = mmix_count(list), shape[2] = { B, n }, run = 0;
    while (run < n && at[run] == at[0] + (int32_t)run) run++;
    if (n && run == n) return mmix_slice(m, x, 1, (size_t)at[0], n);
    mmix_tensor *rows = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; rows && i < B * n; i++) mmix_data_i32(rows)[i] = (int32_t)(i / n * L) + at[i % n];
    return mmix_gather(m, mmixi_flat(m, x), rows);
}
/* A layer's value for whoever asked: into the tensor made for it, or itself where there is none. */
static void mmixi_layer_tap(mmix_tensor **taps, size_t i, mmix_tensor *x)
{
    if (taps && !taps[i]) taps[i] = x;
    else if (taps && x) mmix_write(taps[i], mmixi_of(x));
}
/* Nothing is recorded, and the linear layer is the library's own: then it may be run in other portions, and
   with more in its product, than ops say. */
static int mmixi_infers(const mmix_ctx *m)
{
    return !m->recording && m->table[MMIX_OP_LINEAR].forward == mmixi_linear_run;
}
enum { MMIXI_SWIGLU_ROWS = MMIXI_SIZE(1024, 3), MMIXI_VISION_ROWS = MMIXI_SIZE(192, 16) };
/* For inference on much: y = f of three inputs, each NULL or with y's first axis, of which `rows` go at a
   time; what lies between is small then, and stays in the caches. y may be in[0]. A piece's tokens: of a
   SwiGLU for any number of threads, that bits are equal; of a backbone for each thread. */
static mmix_tensor *mmixi_pieces(mmix_ctx *m, mmix_block_function *f, const void *user, mmix_tensor **in,
                                 size_t rows, mmix_tensor *y)
{
    size_t more = mmix_ndim(y) == 3 ? 2 / mmix_shape(y, 1) : 2;  /* one or two rows would be dot products */
    for (size_t at = 0, n, all = mmix_shape(y, 0); at < all && !m->error_kind; at += n) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_tensor *part[3];
        n = all - at <= rows + more ? all - at : rows;
        for (int i = 0; i < 3; i++) part[i] = in[i] ? mmix_slice(m, in[i], 0, at, n) : NULL;
        mmix_tensor *made = f(m, user, part);
        if (made) memcpy(mmixi_of(y) + at * mmix_stride(y, 0), mmixi_of(made), mmixi_bytes(made));
        mmix_rewind(m, mark);
    }
    return y;
}

/* ---- attention: y = proj(mix(qkv x)) ---- */
MMIXDEF int mmix_attention_init(mmix_attention_layer *layer, mmix_params *p, const char *prefix, size_t D,
                                size_t heads, int kind, int bias)
{
    mmixi_dims d;
    memset(layer, 0, sizeof *layer);
    if (!heads || D % heads || (kind != MMIX_SOFTMAX && kind != MMIX_LINEAR))
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_attention_init: width %.0f, %.0f heads, kind %d; "
                         "expected heads that divide the width, kind MMIX_SOFTMAX or MMIX_LINEAR", (double)D,
                         (double)heads, kind);
    layer->heads = heads; layer->options.kind = kind;
    d.D = D; d.T = 3 * D;
    return mmixi_declare(p, prefix, &d, bias ? "qkv.weight TD normal, +qkv.bias T zeros, "
                         "+proj.weight DD normal, +proj.bias D zeros" : "qkv.weight TD normal, "
                         "proj.weight DD normal", &layer->qkv_weight, &layer->proj_weight);
}
/* What proj reads, (B, L, D); with a state nothing may be recorded. */
static mmix_tensor *mmixi_attention_heads(mmix_ctx *m, const mmix_attention_layer *layer, mmix_tensor *x,
                                          mmix_state *state, size_t slot)
{
    mmix_mixer mixer = layer->options;
    size_t H = layer->heads;
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_attention", &d, "x BLD", x)
        || (state && !mmixi_slot_check(m, "mmix_attention", state, slot))) return NULL;
    mmix_tensor *bias = layer->qkv_bias, *at = layer->angles;
    if (layer->no_key_bias && bias) {
        mmix_tensor *mask = mmix_fill(mmix_new1(m, 3 * d.D), 1);
        mmix_fill(mmix_slice(m, mask, 0, d.D, d.D), 0);
        bias = mmix_mul(m, bias, mask);
    }
    mmix_tensor *qkv = mmix_linear(m, x, layer->qkv_weight, bias),
        *qk = mmixi_split_heads(m, qkv, 0, 2 * H, d.D / H);
    if (!at && layer->rope.theta > 0) {
        at = mmix_new(m, MMIX_DTYPE_I32, 1, &d.L);
        for (size_t t = 0; at && t < d.L; t++)
            mmix_data_i32(at)[t] = (int32_t)(mmix_state_tokens(state, slot) + t);
    }
    if (at) qk = mmix_rope(m, qk, at, &layer->rope);
    mixer.q = mmix_slice(m, qk, 2, 0, H); mixer.k = mmix_slice(m, qk, 2, H, H);
    mixer.v = mmixi_split_heads(m, qkv, 2 * d.D, H, d.D / H);
    return mmixi_join_heads(m, state ? mmix_mix_step(m, &mixer, state, slot) : mmix_mix(m, &mixer));
}
MMIXDEF mmix_tensor *mmix_attention(mmix_ctx *m, const mmix_attention_layer *layer, mmix_tensor *x,
                                    mmix_tensor *residual, mmix_tensor *s, mmix_state *state, size_t slot)
{
    int record = mmix_record(m, state ? 0 : m->recording);
    x = mmixi_attention_heads(m, layer, x, state, slot);
    x = mmix_linear_add(m, x, layer->proj_weight, layer->proj_bias, residual, s);
    mmix_record(m, record);
    return x;
}

/* ---- MLP: y = fc2(gelu(fc1 x));  SwiGLU: y = down(silu(gate x) · up x) ---- */
MMIXDEF int mmix_mlp_init(mmix_mlp_layer *layer, mmix_params *p, const char *prefix, size_t D, size_t F,
                          size_t O)
{
    mmixi_dims d;
    d.D = D; d.F = F; d.O = O;
    return mmixi_declare(p, prefix, &d, "fc1.weight FD normal, +fc1.bias F zeros, +fc2.weight OF normal, "
                         "+fc2.bias O zeros", &layer->fc1_weight);
}
MMIXDEF mmix_tensor *mmix_mlp(mmix_ctx *m, const mmix_mlp_layer *layer, mmix_tensor *x, mmix_tensor *residual,
                              mmix_tensor *s)
{
    /* the backward of gelu needs what went in, and so does an adapter */
    int inside = mmixi_infers(m) && !mmixi_lora_of(layer->fc1_weight);
    x = inside ? mmixi_linear(m, x, layer->fc1_weight, layer->fc1_bias, NULL, NULL, 1)
        : mmix_gelu(m, mmix_linear(m, x, layer->fc1_weight, layer->fc1_bias));
    return mmix_linear_add(m, x, layer->fc2_weight, layer->fc2_bias, residual, s);
}
MMIXDEF int mmix_swiglu_init(mmix_swiglu_layer *layer, mmix_params *p, const char *prefix, size_t D, size_t F)
{
    mmixi_dims d;
    memset(layer, 0, sizeof *layer);
    d.D = D; d.F = F;
    return mmixi_declare(p, prefix, &d, "gate_proj.weight FD normal, +up_proj.weight FD normal, "
                         "+down_proj.weight DF normal", &layer->gate);
}
/* in: x, residual, s */
static mmix_tensor *mmixi_swiglu(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    const mmix_swiglu_layer *l = (const mmix_swiglu_layer *)user;
    mmix_tensor *gate = mmix_linear(m, in[0], l->gate, l->bias[0]), *up;
    size_t F = mmix_shape(l->down, 1);
    if (l->up) up = mmix_linear(m, in[0], l->up, l->bias[1]);
    else up = mmix_slice(m, gate, -1, F, F), gate = mmix_slice(m, gate, -1, 0, F);
    return mmix_linear_add(m, mmix_mul(m, mmix_silu(m, gate), up), l->down, l->bias[2], in[1], in[2]);
}
MMIXDEF mmix_tensor *mmix_swiglu(mmix_ctx *m, const mmix_swiglu_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s)
{
    mmix_swiglu_layer packed = *layer;
    mmix_tensor *in[3] = { x, residual, s };
    mmixi_dims d;
    if (!mmixi_infers(m) || s || mmix_ndim(x) != 3 || mmix_shape(x, 1) <= MMIXI_SWIGLU_ROWS)
        return mmixi_swiglu(m, layer, in);
    if (!mmixi_expect(m, "mmix_swiglu", &d, "x BLD, residual? BLD", x, residual)) return NULL;
    mmix_tensor *y = mmix_new2(m, d.B * d.L, mmix_shape(layer->down, 0));
    mmixi_packed(m, &packed.gate, 3);
    in[0] = mmixi_flat(m, x); in[1] = mmixi_flat(m, residual);
    mmixi_pieces(m, mmixi_swiglu, &packed, in, MMIXI_SWIGLU_ROWS, y);
    return mmixi_as(m, y, 3, d.B, d.L, mmix_shape(y, 1), 0);
}

/* ---- Mamba-2: in_proj → [z | x B C | dt]; convolution + SiLU over x B C; SSD with A = -e^A_log; gated norm;
   out_proj ---- */
static void mmixi_default(size_t *x, size_t value) { if (!*x) *x = value; }
MMIXDEF int mmix_mamba2_init(mmix_mamba2_layer *layer, mmix_params *p, const char *prefix, size_t D,
                             const mmix_mamba2_options *options)
{
    mmix_mamba2_options *o = &layer->options;
    mmixi_dims d;
    memset(layer, 0, sizeof *layer);
    if (options) *o = *options;
    mmixi_default(&o->d_inner, 2 * D); mmixi_default(&o->d_state, 64); mmixi_default(&o->head_dim, 64);
    mmixi_default(&o->groups, 1); mmixi_default(&o->conv_width, 4);
    if (!(o->eps > 0)) o->eps = 1e-5;
    if (!(o->out_scale > 0)) o->out_scale = 1;
    d.D = D; d.E = o->d_inner; d.W = o->conv_width; d.H = layer->heads = d.E / o->head_dim;
    d.M = d.E + 2 * o->groups * o->d_state; d.P = d.E + d.M + d.H;
    if (d.E % o->head_dim || d.H % o->groups)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_mamba2_init: inner width %.0f does not make heads "
                         "of %.0f in %.0f groups", (double)d.E, (double)o->head_dim, (double)o->groups);
    return mmixi_declare(p, prefix, &d, "in_proj.weight PD uniform, conv1d.weight M1W uniform, "
                         "+conv1d.bias M uniform, +dt_bias H dt_bias, +A_log H A_log, +D H ones, "
                         "+norm.weight E ones, conv1d_b.weight M1W uniform, +conv1d_b.bias M uniform, "
                         "+dt_b_bias H dt_bias, +A_log_b H A_log, +D_b H ones, +norm_b.weight E ones, "
                         "out_proj.weight DE uniform*", &layer->in_proj, &layer->dir->conv_weight,
                         o->bidirectional ? &layer->dir[1].conv_weight : NULL, &layer->out_proj,
                         o->out_scale);
}
/* Without recording drops what came after the mark but t; returns that. */
static mmix_tensor *mmixi_keep_only(mmix_ctx *m, mmix_mark mark, mmix_tensor *t)
{
    return !t || m->recording || !mmix_rewind_keep(m, mark, &t, 1) ? t : NULL;
}
/* mmix_conv1d; of the next tokens of a slot, which carries the inputs before them, unless s is NULL. */
static mmix_tensor *mmixi_conv_step(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                    mmix_conv1d_options o, mmix_state *s, size_t slot)
{
    mmix_tensor *last, *past = NULL;
    if (s && mmix_shape(weight, 2) > 1) {
        past = mmixi_carried_conv(m, s, slot, mmix_shape(x, 0), weight->shape[0], weight->shape[2]);
        o.initial_state = past; o.final_state = &last;
    }
    x = mmix_conv1d(m, x, weight, bias, &o);
    if (x && past) mmix_write(past, mmixi_of(last));
    return x;
}
MMIXDEF mmix_tensor *mmix_mamba2(mmix_ctx *m, const mmix_mamba2_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s, mmix_tensor *seq_idx,
                                 mmix_mamba2_state *state)
{
    const mmix_mamba2_options *o = &layer->options;
    size_t N = o->d_state, G = o->groups, E = o->d_inner, H = layer->heads, M = E + 2 * G * N,
        slot = state ? state->slot : 0;
    int both = o->bidirectional != 0;
    mmix_state *in = state ? state->in : NULL;
    mmix_mark mark = mmix_mark_here(m);
    mmixi_dims d;
    if (state && (both || seq_idx))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_mamba2: %s", both ? "a bidirectional layer has no state to "
                  "carry over" : "state and seq_idx do not go together");
    if (!mmixi_expect(m, "mmix_mamba2", &d, "x BLD", x)
        || (in && !mmixi_slot_check(m, "mmix_mamba2", in, slot))) return NULL;
    if (in) state = NULL;                        /* the slot carries everything */
    int record = mmix_record(m, in ? 0 : m->recording);
    mmix_tensor *u = mmix_linear(m, x, layer->in_proj, NULL), *y = NULL, *forward = NULL;
    for (int r = MMIX_FORWARD; r <= both; r++) {         /* MMIX_REVERSE, too */
        mmix_mark inner = mmix_mark_here(m);
        const mmix_mamba2_direction *w = layer->dir + r;
        mmix_conv1d_options conv = { 1, r, state ? state->conv : NULL, seq_idx, state ? &state->conv : NULL };
        mmix_tensor *xbc = mmixi_conv_step(m, mmix_slice(m, u, 2, E, M), w->conv_weight, w->conv_bias, conv,
                                           in, slot);
        mmix_mixer ssd = mmix_mixer_ssd(mmixi_split_heads(m, xbc, 0, H, o->head_dim),
                                        mmix_slice(m, u, 2, E + M, H),
                                        mmix_scale(m, mmix_exp(m, w->A_log), -1, 0),
                                        mmixi_split_heads(m, xbc, E, G, N),
                                        mmixi_split_heads(m, xbc, E + G * N, G, N));
        ssd.D = w->D; ssd.dt_bias = w->dt_bias; ssd.dt_softplus = 1; ssd.dt_low = o->dt_low;
        ssd.dt_high = o->dt_high; ssd.direction = r; ssd.seq_idx = seq_idx;
        if (state) ssd.initial_state = state->ssm, ssd.final_state = &state->ssm;
        forward = y;
        y = mmixi_join_heads(m, in ? mmix_mix_step(m, &ssd, in, slot) : mmix_mix(m, &ssd));
        y = mmix_gated_rms_norm(m, y, mmix_slice(m, u, 2, 0, E), w->norm, o->eps, G);
        if (!state) y = mmixi_keep_only(m, inner, y);    /* a state after this came after the mark, too */
    }
    if (both) y = mmixi_binary(m, "mmix_mamba2", MMIX_OP_ADD, forward, y, 0.5, 0.5);
    if (!state) y = mmixi_keep_only(m, mark, y);
    y = mmix_linear_add(m, y, layer->out_proj, NULL, residual, s);
    mmix_record(m, record);
    return y;
}
/* (n) of 0, or 1/(1 - rate) */
static mmix_tensor *mmixi_drop(mmix_ctx *m, uint32_t purpose, size_t n, double rate, uint64_t step,
                               uint64_t stream)
{
    mmix_tensor *s = rate > 0 ? mmix_new1(m, n) : NULL;
    for (size_t i = 0; s && i < n; i++)
        mmixi_of(s)[i] = mmix_random_uniform(m, purpose, step, stream << 32 | i) < rate ? 0
            : (mmix_real)(1 / (1 - rate));
    return s;
}
MMIXDEF mmix_tensor *mmix_drop_path(mmix_ctx *m, size_t B, double rate, uint64_t step, uint64_t stream)
{
    return mmixi_drop(m, MMIXI_RANDOM_DROP_PATH, B, rate, step, stream);
}
MMIXDEF mmix_tensor *mmix_dropout(mmix_ctx *m, mmix_tensor *x, double rate, uint64_t step, uint64_t stream)
{
    if (!mmixi_expect(m, "mmix_dropout", NULL, "x ...", x)
        || mmixi_within(m, "mmix_dropout", "rate", rate, 0, 0.999999)) return NULL;
    mmix_tensor *s = mmixi_drop(m, MMIXI_RANDOM_DROPOUT, mmix_count(x), rate, step, stream);
    return rate > 0 ? mmix_mul(m, x, mmix_reshape(m, s, x->ndim, x->shape)) : x;
}

MMIXI_COLD_END

/* ==== >>losses =======================================================================
   means of -Σ q log softmax(x / T) over rows

   For cross-entropy q is one class or given, for DINO the teacher's views, in distillation the teacher's
   softmax. With p = softmax(x/T) and Σ q = n the gradient of a row is (n p - q) / T. The maximum is taken off
   x first: logits of some thousands keep their digits. torch: F.cross_entropy(x, target, ignore_index=…);
   F.kl_div(s.log_softmax(-1), t.log_softmax(-1), log_target=True)
   ==================================================================================== */

/* in: x, target, mask. What an op does not need is 0. */
typedef struct mmixi_loss_options {
    double T, weight;                            /* temperature; of a row in the mean */
    int32_t ignore, relative;                    /* a class; of kd_hidden: over the mean of each layer's t² */
    size_t layer, pictures;                      /* rows of one mean, 0: all; DINO, as the next line */
    double teacher_T, *entropy;
    const mmix_real *center, *rows;              /* rows: weights of the teacher's, or NULL */
    /* scratch: (rows) losses and Σ t², or the teacher's entropies; four blocks a lane */
    double *loss, *square;
    mmix_real *blocks;
} mmixi_loss_options;
static mmixi_loss_options mmixi_loss_of(double T, double weight)
{
    mmixi_loss_options o;
    memset(&o, 0, sizeof o);
    o.T = T; o.weight = weight;
    return o;
}
/* Rows go by in blocks that stay in the nearest cache. */
enum { MMIXI_LOSS_BLOCK = MMIXI_SIZE(2048, 8) };
/* saved: of each row the largest x, Σ q / Σ e^((x - max)/T), of kd_token the largest t, 1 / Σ e^((t -
   max)/T), else 1; of kd_hidden the weights of the layers. DINO: the teacher's distributions (2B, K). */
enum { MMIXI_LOSS_ROWS, MMIXI_LOSS_TEACHER };

static double mmixi_total(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    return sum;
}
static inline size_t mmixi_loss_counts(const mmix_call *c, const mmixi_loss_options *o, size_t r)
{
    return c->in[2] ? mmixi_index(c->in[2], r % o->layer) != 0
        : c->in[1]->dtype != MMIX_DTYPE_I32 || mmixi_index(c->in[1], r) != o->ignore;
}
/* The distributions that row r is held against, or the teacher's logits; how many, 0 of a class. */
static size_t mmixi_loss_targets(const mmix_call *c, const mmixi_loss_options *o, size_t r,
                                 const mmix_real *q[2])
{
    const mmix_tensor *target = c->in[1];
    const mmix_real *teacher = c->saved[MMIXI_LOSS_TEACHER];
    size_t B = o->pictures, n = 0, K = mmixi_cols(target);
    for (size_t v = 0; B && v < 2; v++)          /* student row (v, b): the teacher's views of b but v */
        if (v != r / B) q[n++] = teacher + (v * B + r % B) * K;
    if (!B && teacher) q[n++] = teacher + r * K;
    else if (!B && mmixi_of(target)) q[n++] = mmixi_of(target) + mmixi_row_offset(target, r);
    return n;
}
/* Row x, backward with dx, and room for four blocks at u. With u = x - max x its loss is Σ q log Σ e^(u/T) -
   Σ q u / T. For kd_token q = e^(v/T) / Σ with v = t - max t, and Σ q log q is added: log (Σ e^(u/T) / Σ
   e^(v/T)) - Σ q (u - v) / T. */
static void mmixi_loss_row(const mmix_call *c, const mmixi_loss_options *o, size_t r, double weight,
                           const mmix_real *x, mmix_real *dx, mmix_real *u)
{
    const mmixi_kernels *k = c->m->k;
    int kd = c->op == MMIX_OP_KD_TOKEN;
    const mmix_real *q[2], inverse_T = (mmix_real)(1 / o->T), scale = (mmix_real)(weight / o->T);
    mmix_real mass = 0, along = 0, *e = u + MMIXI_LOSS_BLOCK, *d = e + MMIXI_LOSS_BLOCK,
        *eq = d + MMIXI_LOSS_BLOCK, *top = c->saved[MMIXI_LOSS_ROWS] + 4 * r, *share = top + 1,
        *top_q = top + 2, *share_q = top + 3;
    size_t K = mmixi_cols(c->in[0]), n = mmixi_loss_targets(c, o, r, q);
    int32_t label = n ? 0 : mmixi_index(c->in[1], r);
    double sum = 0, sum_q = !n, sum_qu;
    if (!dx) *top = k->largest(K, x);
    if (!dx && kd) *top_q = k->largest(K, q[0]);
    sum_qu = n ? 0 : (double)x[label] - *top;
    for (size_t i = 0, w; i < K; i += w) {
        mmix_real *p = dx && !c->add[0] ? dx + i : e, shift = *top;
        const mmix_real *from = x + i;
        w = mmixi_min(MMIXI_LOSS_BLOCK, K - i);
        if (kd || inverse_T != 1) {
            k->normalise(w, from, shift, 1, NULL, NULL, u);
            from = u; shift = 0;
        }
        sum += k->exp_row(w, inverse_T, from, shift, p);
        if (dx) k->scale(w, scale * *share, p, p);
        for (size_t s = 0; s < n; s++) {
            const mmix_real *target = kd ? eq : q[s] + i;
            if (kd) {
                k->normalise(w, q[s] + i, *top_q, -1, NULL, NULL, d);        /* -v */
                k->exp_row(w, -inverse_T, d, 0, eq);
                k->add(w, u, d, d);
            }
            if (dx) k->axpy(w, -scale * *share_q, target, p);
            else k->normalise_sums(w, target, kd ? d : from, shift, 1, NULL, &mass, &along);
            sum_q += mass; sum_qu += along;
        }
        if (dx && c->add[0]) k->add(w, e, dx + i, dx + i);
    }
    if (dx && !n) dx[label] -= scale;
    if (dx) return;
    double norm = kd ? sum_q : 1;
    *share = (mmix_real)(sum_q / norm / sum); *share_q = (mmix_real)(1 / norm);
    o->loss[r] = sum_q / norm * mmixi_log(sum / norm) - sum_qu / norm / o->T;
}
/* Σ (x - t)² of a row, and Σ t² */
static void mmixi_kd_hidden_row(const mmix_call *c, const mmixi_loss_options *o, size_t r, double weight,
                                const mmix_real *x, mmix_real *dx, mmix_real *d)
{
    const mmixi_kernels *k = c->m->k;
    const mmix_real *t = mmixi_of(c->in[1]) + mmixi_row_offset(c->in[1], r);
    size_t D = mmixi_cols(c->in[0]);
    for (size_t i = 0, w; i < D; i += w) {
        w = mmixi_min(MMIXI_LOSS_BLOCK, D - i);
        memcpy(d, x + i, w * sizeof *d);
        k->axpy(w, -1, t + i, d);
        if (dx) (c->add[0] ? k->axpy : k->scale)(w, (mmix_real)(2 * weight), d, dx + i);
        else o->loss[r] += k->variance(w, d, 0), o->square[r] += k->variance(w, t + i, 0);
    }
}
static void mmixi_loss_rows(const mmix_call *c, mmixi_range range)
{
    const mmixi_loss_options *o = (const mmixi_loss_options *)c->options;
    mmixi_mat x = mmixi_values(c->in[0]), to = mmixi_rows_of(c->in[0], c->dx[0]);
    for (size_t r = range.begin; r < range.end; r++) {
        double weight = o->relative ? c->saved[MMIXI_LOSS_ROWS][r / o->layer] : o->weight;
        mmix_real *dx = c->dy[0] ? mmixi_row(to, r) : NULL;
        if (!dx) o->loss[r] = o->square[r] = 0;
        if (mmixi_loss_counts(c, o, r))
            (c->op == MMIX_OP_KD_HIDDEN ? mmixi_kd_hidden_row : mmixi_loss_row)
                (c, o, r, dx ? weight * *c->dy[0] : 1, mmixi_row(x, r), dx,
                 o->blocks + range.lane * 4 * MMIXI_LOSS_BLOCK);
        else if (dx && !c->add[0]) memset(dx, 0, x.cols * sizeof *dx);
    }
}
/* softmax((t - c)/T) and its entropy; then the row's weight */
static void mmixi_dino_teacher_rows(const mmix_call *c, mmixi_range range)
{
    const mmixi_loss_options *o = (const mmixi_loss_options *)c->options;
    mmixi_mat teacher = mmixi_values(c->in[1]);
    size_t K = teacher.cols;
    for (size_t r = range.begin; r < range.end; r++) {
        mmix_real *t = mmixi_row(teacher, r), *q = c->saved[MMIXI_LOSS_TEACHER] + r * K;
        for (size_t i = 0; i < K; i++) q[i] = (t[i] - o->center[i]) / (mmix_real)o->teacher_T;
        c->m->k->softmax(K, q, q);
        o->square[r] = 0;
        for (size_t i = 0; i < K; i++) o->square[r] -= q[i] > 0 ? q[i] * mmixi_log(q[i]) : 0;
        if (o->rows) c->m->k->scale(K, o->rows[r], q, q);
    }
}
static int mmixi_loss_run(mmix_ctx *m, mmix_call *c)
{
    mmixi_loss_options *o = (mmixi_loss_options *)c->options;      /* the call's own */
    int back = c->dy[0] != NULL;
    size_t rows = mmixi_rows(c->in[0]), teachers = o->center && !back ? mmixi_rows(c->in[1]) : 0;
    double loss = 0;
    if (back && !c->dx[0]) return 0;
    if (!back) mmix_save(m, c, MMIXI_LOSS_ROWS, 4 * rows);
    if (teachers) mmix_save(m, c, MMIXI_LOSS_TEACHER, mmix_count(c->in[1]));
    mmix_mark mark = mmix_mark_here(m);
    o->loss = mmixi_doubles(m, rows, 2);
    o->blocks = mmixi_reals(m, m->lanes, 4 * MMIXI_LOSS_BLOCK);
    if (m->error_kind) return -1;
    o->square = o->loss + rows;
    if (teachers) {
        mmixi_over_rows(c, c->in[1], mmixi_dino_teacher_rows);
        *o->entropy = mmixi_total(o->square, teachers) / (double)teachers;
    }
    mmixi_over_rows(c, c->in[0], mmixi_loss_rows);
    for (size_t r = 0; !back && r < rows; r += o->layer) {
        double square = mmixi_total(o->square + r, o->layer),
            weight = o->relative ? (double)o->layer / (double)rows / (square > 0 ? square : 1) : o->weight;
        if (o->relative) c->saved[MMIXI_LOSS_ROWS][r / o->layer] = (mmix_real)weight;
        loss += mmixi_total(o->loss + r, o->layer) * weight;
    }
    if (!back) *mmixi_of(c->out[0]) = (mmix_real)loss;
    mmix_rewind(m, mark);
    return 0;
}
/* The mean over the rows that count, times the weight. */
static mmix_tensor *mmixi_loss(mmix_ctx *m, int op, mmix_tensor *x, mmix_tensor *target, mmix_tensor *mask,
                               mmixi_loss_options o)
{
    mmix_call call = mmixi_call(mmixi_strided(m, x), target, mask);
    size_t count = 0;
    if (m->error_kind) return NULL;
    if (!o.layer) o.layer = mmixi_rows(x);
    for (size_t r = 0; r < o.layer; r++) count += mmixi_loss_counts(&call, &o, r);
    o.weight /= (double)mmixi_max(count, 1);
    call.constant = 1u << 1;
    call.out[0] = mmix_new(m, MMIX_DTYPE_REAL, 0, NULL);
    return mmixi_run(m, op, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_cross_entropy(mmix_ctx *m, mmix_tensor *logits, mmix_tensor *target,
                                        int32_t ignore_index)
{
    int labels = mmix_dtype(target) == MMIX_DTYPE_I32;
    mmixi_loss_options o = mmixi_loss_of(1, 1);
    mmixi_dims d;
    o.ignore = ignore_index;
    if (!mmixi_expect(m, "mmix_cross_entropy", &d, labels ? "logits ...K, target:i32 ~"
                      : "logits ...K, target ~K", logits, target)) return NULL;
    for (size_t r = 0; labels && r < mmix_count(target); r++) {
        int32_t label = mmixi_index(target, r);
        if (label != ignore_index && (label < 0 || (size_t)label >= d.K))
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_cross_entropy: target %.0f is class %d of %.0f",
                      (double)r, (int)label, (double)d.K);
    }
    return mmixi_loss(m, MMIX_OP_CROSS_ENTROPY, logits, target, NULL, o);
}

/* ---- distillation: a student s against its teacher t, over the positions whose mask is not 0 ----
   kd_hidden   mean over the layers of the mean of (s - t)², over the mean of t² if relative
   kd_token    T² times the mean of Σ_k p_k (ln p_k - ln q_k), p = softmax(t/T), q = softmax(s/T); the
               gradient of a row is T (q - p) over their number */

MMIXDEF mmix_tensor *mmix_kd_hidden(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_tensor *mask, int relative)
{
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_kd_hidden", &d, mmix_ndim(student) == 4
                      ? "student NBLD, teacher NBLD, mask?:i32 BL"
                      : "student BLD, teacher BLD, mask?:i32 BL", student, teacher, mask)) return NULL;
    mmixi_loss_options o = mmixi_loss_of(1, 1 / (double)(mmixi_max(d.N, 1) * d.D));
    o.relative = relative; o.layer = d.B * d.L;
    return mmixi_loss(m, MMIX_OP_KD_HIDDEN, student, teacher, mask, o);
}
MMIXDEF mmix_tensor *mmix_kd_token(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher, mmix_tensor *mask,
                                   double temperature)
{
    mmixi_loss_options o = mmixi_loss_of(temperature, temperature * temperature);
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_kd_token", &d, "student BLD, teacher BLD, mask?:i32 BL", student, teacher,
                      mask)
        || mmixi_within(m, "mmix_kd_token", "temperature", temperature, 1e-30, HUGE_VAL)) return NULL;
    return mmixi_loss(m, MMIX_OP_KD_TOKEN, student, teacher, mask, o);
}

/* ---- DINO: student row (v, b) meets the teacher's views i ≠ v of picture b, softmax((t - c)/T_t); Caron et
   al. 2021, eq. 2 to 4. iBOT (crops 0): row r meets row r ---- */
static mmix_tensor *mmixi_teacher_loss(mmix_ctx *m, const char *who, mmix_tensor *student,
                                       mmix_tensor *teacher, mmix_tensor *weight, mmix_real *center,
                                       size_t crops, double student_temp, double teacher_temp,
                                       double momentum, mmix_dino_loss_stats *stats)
{
    mmixi_dims d;
    double entropy = 0, norm = 0, share = weight ? 0 : 1;
    const mmix_real *rows = mmixi_of(weight);
    if (!mmixi_expect(m, who, &d, crops ? "student NK, teacher TK" : "student TK, teacher TK, weight? T",
                      student, teacher, weight)
        || !mmixi_given(m, who, "*center", center)
        || mmixi_within(m, who, "student_temp", student_temp, 1e-30, HUGE_VAL)
        || mmixi_within(m, who, "teacher_temp", teacher_temp, 1e-30, HUGE_VAL)) return NULL;
    if (crops && (crops < 2 || d.T % 2 || d.T * crops != 2 * d.N))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %.0f student rows, %.0f teacher rows (2 views each) for %.0f "
                  "crops (at least 2)", who, (double)d.N, (double)d.T, (double)crops);
    /* of the mean over rows: a picture has so many pairs of views; rows with weights are summed */
    double times = crops ? (double)crops / (double)(2 * crops - 2) : rows ? (double)d.T : 1;
    mmixi_loss_options o = mmixi_loss_of(student_temp, times);
    o.pictures = crops ? d.T / 2 : 0; o.teacher_T = teacher_temp; o.entropy = &entropy; o.center = center;
    o.rows = rows;
    mmix_tensor *loss = mmixi_loss(m, MMIX_OP_DINO_LOSS, student, teacher, NULL, o);
    for (size_t r = 0; rows && r < d.T; r++) share += rows[r];
    for (size_t k = 0; loss && k < d.K; k++) {   /* c ← c + (1 - momentum) Σ weight (t - c) */
        double mean = 0;
        for (size_t r = 0; r < d.T; r++)
            mean += (double)mmixi_of(teacher)[r * teacher->stride[0] + k] * (rows ? rows[r] : 1);
        if (!rows) mean /= (double)d.T;
        center[k] = (mmix_real)((1 - share * (1 - momentum)) * center[k] + (1 - momentum) * mean);
        norm += (double)center[k] * center[k];
    }
    if (loss && stats) {
        stats->teacher_entropy = entropy;
        stats->teacher_kl_uniform = mmixi_log((double)d.K) - entropy;
        stats->center_norm = sqrt(norm);
    }
    return loss;
}
MMIXDEF mmix_tensor *mmix_dino_loss(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_real *center, size_t crops, double student_temp, double teacher_temp,
                                    double momentum, mmix_dino_loss_stats *stats)
{
    return mmixi_teacher_loss(m, "mmix_dino_loss", student, teacher, NULL, center, mmixi_max(crops, 1),
                              student_temp, teacher_temp, momentum, stats);
}
MMIXDEF mmix_tensor *mmix_ibot_loss(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_tensor *weight, mmix_real *center, double student_temp,
                                    double teacher_temp, double momentum, mmix_dino_loss_stats *stats)
{
    return mmixi_teacher_loss(m, "mmix_ibot_loss", student, teacher, weight, center, 0, student_temp,
                              teacher_temp, momentum, stats);
}
MMIXDEF int mmix_dino_head_init(mmix_dino_head *head, mmix_params *p, const char *prefix, size_t D,
                                size_t hidden, size_t bottleneck, size_t K, size_t layers)
{
    mmixi_dims d;
    if (head) memset(head, 0, sizeof *head);
    if (!p || !mmixi_given(p->m, "mmix_dino_head_init", "*head", head)) return -1;
    if (mmixi_settings_check(p->m, "mmix_dino_head_init", &layers, "size layers 1 8")) return -1;
    head->layers = layers;
    d.D = D; d.K = K;
    for (size_t i = 0; i < layers; i++, d.D = d.O) {
        char spec[64];
        snprintf(spec, sizeof spec, layers > 1 ? "mlp.%d.weight OD normal, mlp.%d.bias O zeros"
                 : "mlp.weight OD normal, mlp.bias O zeros", 2 * (int)i, 2 * (int)i);
        d.O = i + 1 < layers ? hidden : bottleneck;
        mmixi_declare(p, prefix, &d, spec, head->weight + i, head->bias + i);
    }
    return mmixi_declare(p, prefix, &d, "last_layer.weight_g K1 ones, last_layer.weight_v KD uniform",
                         &head->weight_g, &head->weight_v);
}
MMIXDEF mmix_tensor *mmix_dino_head_forward(mmix_ctx *m, const mmix_dino_head *head, mmix_tensor *x)
{
    for (size_t i = 0; i < head->layers; i++)
        x = mmix_linear(m, i ? mmix_gelu(m, x) : x, head->weight[i], head->bias[i]);
    return mmix_linear(m, mmix_l2_normalise(m, x, 1e-12), mmix_weight_norm(m, head->weight_v, head->weight_g),
                       NULL);
}

/* The bits of a number without its sign, in the order of the magnitudes: infinity and NaN are the
   largest. They tell a NaN even from a compiler that was told that there are none
   (-ffinite-math-only), which drops comparisons that only a NaN fails. */
static inline uint64_t mmixi_magnitude_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & ~((uint64_t)1 << 63);
}
static inline int mmixi_is_finite(double x)
{
    return mmixi_magnitude_bits(x) < (uint64_t)2047 << 52;
}
static inline int mmixi_is_nan(double x)
{
    return mmixi_magnitude_bits(x) > (uint64_t)2047 << 52;
}

MMIXI_COLD_BEGIN

/* ==== >>optimisers ===================================================================
   AdamW and SGD with clipping, the teacher's moving average, schedules

   Parameters lie in one slab, so both are loops over pieces of it; a piece never crosses two parameters, and
   the squares of a gradient are added piece after piece, in order.
   ==================================================================================== */

enum { MMIXI_PIECE = 16384 };
static double mmixi_power(double x, double y) { return mmixi_exp(y * mmixi_log(x)); }
MMIXDEF mmix_adamw mmix_adamw_default(void)
{
    mmix_adamw o = { 1e-3, 0.01, 0.9, 0.999, 1e-8 };
    return o;
}
MMIXDEF mmix_sgd mmix_sgd_default(void)
{
    mmix_sgd o = { 1e-3, 0, 0.9, 0, 0 };
    return o;
}
/* In one piece: m, v or (of SGD) not, steps. */
static size_t mmixi_moments_bytes(const mmix_params *p, size_t moments)
{
    return moments * p->slab * sizeof(mmix_real) + p->count * sizeof(uint64_t);
}
static int mmixi_moments_init(mmix_adamw_state *state, mmix_params *p, size_t moments)
{
    memset(state, 0, sizeof *state);
    if (mmix_params_train(p, 1)) return -1;
    state->m = (mmix_real *)mmixi_zeroed(p->m, mmixi_moments_bytes(p, moments));
    if (!state->m) return -1;
    state->params = p; state->v = moments > 1 ? state->m + p->slab : NULL;
    state->steps = (uint64_t *)(void *)(state->m + moments * p->slab);
    return 0;
}
MMIXDEF int mmix_adamw_init(mmix_adamw_state *state, mmix_params *p)
{
    return mmixi_moments_init(state, p, 2);
}
MMIXDEF int mmix_sgd_init(mmix_adamw_state *state, mmix_params *p) { return mmixi_moments_init(state, p, 1); }
MMIXDEF void mmix_adamw_free(mmix_adamw_state *state)
{
    if (!state->params) return;
    mmixi_free(state->params->m, state->m, mmixi_moments_bytes(state->params, state->v ? 2 : 1));
    memset(state, 0, sizeof *state);
}
/* The gradients of n lists. */
static void mmixi_adamw_zero(const mmix_adamw_state *state, int n)
{
    for (int i = 0; i < n; i++) mmix_params_zero_grad(state[i].params);
}
/* p, its gradient times factor, its b. */
static void mmixi_sgd_update(const mmix_sgd *o, size_t n, mmix_real *p, const mmix_real *g, mmix_real *b,
                             double factor, int decay, int first)
{
    mmix_real scale = (mmix_real)factor, wd = (mmix_real)(decay ? o->weight_decay : 0),
        lr = (mmix_real)o->lr, momentum = (mmix_real)o->momentum,
        keep = (mmix_real)(momentum > 0 ? 1 - o->dampening : 1);         /* torch: 0 has no b */
    for (size_t i = 0; i < n; i++) {
        mmix_real d = scale * g[i] + wd * p[i];
        b[i] = first ? d : momentum * b[i] + keep * d;
        p[i] -= lr * (o->nesterov ? d + momentum * b[i] : b[i]);
    }
}
/* One parameter: of its gradient the square of each piece, or with a factor of it the update. */
typedef struct mmixi_adamw_job {
    struct mmixi_adamw_job *next;
    const void *o;                               /* mmix_adamw, or of a state without v mmix_sgd */
    const mmix_adamw_state *s;
    const mmix_param *q;
    uint64_t *steps;
    double factor, square[1];                    /* as many as there are pieces */
} mmixi_adamw_job;
static void mmixi_adamw_range(void *arg, mmixi_range range)
{
    mmixi_adamw_job *j = (mmixi_adamw_job *)arg;
    const mmix_params *p = j->s->params;
    const mmix_adamw *o = (const mmix_adamw *)j->o;
    double t = (double)*j->steps;
    size_t at = (size_t)(mmixi_of(j->q->tensor) - p->values) + range.begin, n = range.end - range.begin;
    mmix_real *x = p->values + at, *g = p->gradients + at, *b = j->s->m + at;
    if (j->factor < 0) j->square[range.begin / MMIXI_PIECE] = p->m->k->variance(n, g, 0);
    else if (!j->s->v)
        mmixi_sgd_update((const mmix_sgd *)j->o, n, x, g, b, j->factor, j->q->decay, *j->steps == 1);
    else p->m->k->adamw(n, x, g, b, j->s->v + at, (mmix_real)j->factor,
                        (mmix_real)(1 - o->lr * (j->q->decay ? o->weight_decay : 0)),
                        (mmix_real)(o->lr / (1 - mmixi_power(o->beta1, t))), (mmix_real)o->beta1,
                        (mmix_real)o->beta2, (mmix_real)(1 / sqrt(1 - mmixi_power(o->beta2, t))),
                        (mmix_real)o->eps);
}
/* A step of n lists, those without parameters left out, or of none. Gradients count `scale` times, skip is of
   the last list. ‖all gradients‖, or -1. */
static double mmixi_adamw_lists(mmix_ctx *m, mmix_adamw_state *state, int n, const void *options,
                                double scale, double clip, const unsigned char *skip)
{
    mmix_mark mark = mmix_mark_here(m);
    mmix_adamw_state *s;
    mmixi_adamw_job *updates = NULL, *j;
    double all = 0;
    for (s = state; s < state + n; s++)
        for (size_t k = 0; s->params && !m->error_kind && k < s->params->count; k++) {
            const mmix_param *q = s->params->at + k;
            size_t count = mmix_count(q->tensor), pieces = mmixi_ceil_div(count, MMIXI_PIECE);
            if (q->frozen || !q->tensor->written) continue;
            mmixi_param_here(q->tensor);
            j = (mmixi_adamw_job *)mmixi_step(m, sizeof *j + pieces * sizeof *j->square);
            if (!j) break;
            j->o = options; j->s = s; j->q = q; j->steps = s->steps + k; j->factor = -1;
            mmixi_ranges(m, count, MMIXI_PIECE, mmixi_adamw_range, j);
            double norm = sqrt(mmixi_total(j->square, pieces)) * scale;
            all += norm * norm;
            if (!(norm - norm == 0))
                mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_%s_step: the gradient of %s has the norm %g, "
                          "expected a finite one; nothing was changed", s->v ? "adamw" : "sgd",
                          q->name, norm);
            if (skip && s + 1 == state + n && skip[k]) continue;
            j->factor = scale * (clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1);
            j->next = updates; updates = j;
        }
    for (j = updates; j && !m->error_kind; j = j->next) {
        ++*j->steps;
        if (clip < 0) j->factor *= fmin(1, -clip / (sqrt(all) + 1e-6));
        mmixi_overwrite(j->q->tensor);
        mmixi_ranges(m, mmix_count(j->q->tensor), MMIXI_PIECE, mmixi_adamw_range, j);
    }
    if (!m->error_kind) mmixi_adamw_zero(state, n);
    mmix_rewind(m, mark);
    return m->error_kind ? -1 : sqrt(all);
}
static double mmixi_optimiser_step(mmix_adamw_state *state, int sgd, const char *who, const void *options,
                                   const char *settings, double clip, const unsigned char *skip)
{
    mmix_ctx *m = state->params ? state->params->m : NULL;
    if (!m || mmixi_settings_check(m, who, options, settings)) return 0;
    if (sgd == (state->v != NULL))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: state is that of another optimiser", who);
    return fmax(0, mmixi_adamw_lists(m, state, 1, options, 1, clip, skip));
}
MMIXDEF double mmix_adamw_step(mmix_adamw_state *state, const mmix_adamw *options, double clip,
                               const unsigned char *skip)
{
    return mmixi_optimiser_step(state, 0, "mmix_adamw_step", options,
                                "double lr 0 1e30, double weight_decay 0 1e30, double beta1 0 "
                                "999999999e-9, double beta2 0 999999999e-9, double eps 0 1e30", clip, skip);
}
MMIXDEF double mmix_sgd_step(mmix_adamw_state *state, const mmix_sgd *options, double clip,
                             const unsigned char *skip)
{
    return mmixi_optimiser_step(state, 1, "mmix_sgd_step", options,
                                "double lr 0 1e30, double weight_decay 0 1e30, double momentum 0 1, "
                                "double dampening 0 1, int nesterov 0 1", clip, skip);
}
typedef struct mmixi_ema_job { const mmix_params *teacher, *student; mmix_real momentum; } mmixi_ema_job;
static void mmixi_ema_range(void *arg, mmixi_range range)
{
    const mmixi_ema_job *j = (const mmixi_ema_job *)arg;
    j->teacher->m->k->lerp(range.end - range.begin, j->momentum, j->student->values + range.begin,
                           j->teacher->values + range.begin);
}
MMIXDEF int mmix_ema(mmix_params *teacher, const mmix_params *student, double momentum)
{
    mmixi_ema_job j = { teacher, student, (mmix_real)momentum };
    if (!mmixi_params_ready(teacher, "mmix_ema", 1) || !mmixi_params_ready(student, "mmix_ema", 1)) return -1;
    int same = teacher->count == student->count && teacher->slab == student->slab && !student->bf16;
    for (size_t i = 0; same && i < teacher->count; i++)
        same = !strcmp(teacher->at[i].name, student->at[i].name)
            && mmix_count(teacher->at[i].tensor) == mmix_count(student->at[i].tensor);
    if (!same)
        return mmix_fail(teacher->m, MMIX_ERROR_ARGUMENT,
                         "mmix_ema: teacher and student have different parameters");
    mmixi_ranges(teacher->m, teacher->slab, MMIXI_PIECE, mmixi_ema_range, &j);
    mmixi_params_changed(teacher);
    return 0;
}

/* ---- schedules ---- */
/* i of n values, both ends included */
static double mmixi_line(double from, double to, size_t i, size_t n)
{
    return n < 2 ? from : from + (to - from) * (double)i / (double)(n - 1);
}
MMIXDEF double mmix_schedule_cosine(double base, double final, size_t epochs, size_t iters,
                                    size_t warmup_epochs, double start, size_t step)
{
    size_t warm = warmup_epochs * iters, rest = epochs * iters > warm ? epochs * iters - warm : 1;
    if (step < warm) return mmixi_line(start, base, step, warm);
    return final + (base - final)
        * (1 + mmixi_cos(3.141592653589793 * (double)mmixi_min(step - warm, rest) / (double)rest)) / 2;
}
MMIXDEF double mmix_schedule_poly(double base, double final, size_t steps, size_t warmup, double start_factor,
                                  double power, size_t step)
{
    double left = mmixi_line(0, 1, steps > step ? steps - 1 - step : 0, steps - warmup);
    if (step < warmup) return base * mmixi_line(start_factor, 1, step, warmup);
    return final + (base - final) * (left > 0 ? mmixi_power(left, power) : 0);
}
MMIXDEF double mmix_schedule_multistep(double base, double gamma, const size_t *milestones, size_t n,
                                       size_t iters, size_t warmup, double start_factor, size_t step)
{
    double lr = base * (step < warmup ? mmixi_line(start_factor, 1, step, warmup) : 1);
    for (size_t i = 0; iters && i < n; i++) lr *= milestones[i] <= step / iters ? gamma : 1;
    return lr;
}

/* ==== >>m-mate =======================================================================
   decoder mixers with projections of their own: causal attention, and M-MATE = Flex-MA + Local-Swin

   C, B, X are what q, k and v are in attention. A head of Flex-MA visits the tokens in its layer's order,
   those of a span in place of the span:

       f_r = h_r C_r + D X_r,   h_r = e^(δ_r A) h_{r-1} + δ_r X_r B_rᵀ        over all tokens
       b_r                      the same from the last token of a span to its first, δ and A its own
       y_r = f_r in text, in spans g f_r + (1 - g) b_r with g = σ(z_r), ½ (f_r + b_r), or f_r + b_r

   A head of Local-Swin is softmax attention of grid tokens in windows of their span's grid, and of text
   tokens to those less than `text_window` tokens back:

       y_t = Σ_j e^(q_t·k_j/√N) v_j / Σ_j e^(q_t·k_j/√N)                       j: what t may see

   Both are mixers of other rooms on lists of tokens, put back where these stand (mmixi_mix_on): in the plain
   form, the definition, as matrices, M with y = M v. A span's tokens stay together in scan order: so reverse
   scans are one SSD over the tokens from the first span to the last one's end, as packed sequences.
   ==================================================================================== */

/* ---- spans: where the tokens are ---- */

/* Spans lie in order, apart and inside L tokens: 1, or 0 after mmix_fail. In double no product overflows. */
static int mmixi_spans_check(mmix_ctx *m, const char *who, const mmix_span *spans, size_t n, size_t L)
{
    double end = 0;
    if (n && !mmixi_given(m, who, "*spans", spans)) return 0;
    for (size_t i = 0; i < n; i++) {
        const mmix_span *s = &spans[i];
        double low = end, start = (double)s->start,
            cells = (double)s->grid[0] * (double)s->grid[1] * (double)s->grid[2];
        end = start + cells + (double)s->grid[0] * (double)s->separators;
        if (cells < 1 || start < low || end > (double)L)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: span %d has %.0f grid tokens and lies from %.0f to "
                             "%.0f, expected some, between %.0f and the %.0f tokens there are", who, (int)i,
                             cells, start, end, low, (double)L), 0;
    }
    return 1;
}

/* Grid: of spans, without separators. Text: outside of spans. Other: text and separators. */
enum { MMIXI_KIND_ALL, MMIXI_KIND_GRID, MMIXI_KIND_TEXT, MMIXI_KIND_OTHER, MMIXI_KINDS };
/* The tokens of a call, in step memory. Lists are int32. */
typedef struct mmixi_layout {
    mmix_layout of;                              /* as the caller says, with positions in any case */
    size_t B, L, seen;                           /* seen: how many tokens the slot has read before */
    size_t first, n;                             /* n tokens from `first` on: first span to end of the last */
    mmix_tensor *list[MMIXI_KINDS];              /* the tokens of a kind, rising; NULL: there are none */
    mmix_tensor *position[MMIXI_KINDS];          /* their rotary positions, with three axes (3, ·) */
    mmix_tensor *runs;                           /* (B, L): of each span an odd number, of text an even one */
    int plain;                                   /* M is asked for */
} mmixi_layout;

/* For x (B, L, …) and a base as `spec` says. Positions are the caller's, or go on from *next or, without
   that, from what the slot has seen. With `next` they have three axes as in Qwen2-VL: a span's tokens are at
   (t, y, x) behind its start, a separator where its frame's last token is, text behind the longest axis. */
static int mmixi_layout_begin(mmix_ctx *m, const char *who, mmixi_layout *a, const mmix_layout *layout,
                              const char *spec, const mmix_tensor *x, const mmix_tensor *base, size_t *next)
{
    mmixi_dims d;
    memset(a, 0, sizeof *a);
    if (layout) a->of = *layout;
    const mmix_tensor *given = a->of.positions;
    int three = next || mmix_ndim(given) == 2;
    if (!mmixi_expect(m, who, &d, spec, x, base)
        || !mmixi_expect(m, who, &d, three ? "+positions?:i32 3L" : "+positions?:i32 L", given)
        || mmixi_within(m, who, "the number of tokens", (double)d.L, 1, INT32_MAX)
        || !mmixi_spans_check(m, who, a->of.spans, a->of.n_spans, d.L)) return -1;
    if (a->of.global && (a->of.n_spans != 1 || a->of.state))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: `global` expects a whole sequence of one span", who);
    const mmix_span *s = a->of.spans;
    const size_t shape[4] = { 3, d.L, d.B, d.L };
    size_t n[MMIXI_KINDS] = {0}, left = a->of.n_spans, own;
    a->B = d.B; a->L = d.L; a->seen = own = mmix_state_tokens(a->of.state, a->of.slot);
    for (int k = 0; k < MMIXI_KINDS; k++) {
        a->position[k] = mmix_new(m, MMIX_DTYPE_I32, 1 + three, shape + !three);
        a->list[k] = mmix_new(m, MMIX_DTYPE_I32, 1, shape + 1);
    }
    a->runs = mmix_new(m, MMIX_DTYPE_I32, 2, shape + 2);
    if (!a->runs) return -1;
    if (!next) next = &own;
    for (size_t t = 0; t < d.L; t++) {
        int in = left && t >= s->start, grid = 0, ends = 0;
        size_t at[3] = { *next, *next, *next };
        if (in) {
            size_t plane = s->grid[1] * s->grid[2], frame = plane + s->separators, r = t - s->start,
                cell = mmixi_min(r % frame, plane - 1);
            grid = cell == r % frame; ends = r + 1 == s->grid[0] * frame;
            if (three) at[0] += r / frame, at[1] += cell / s->grid[2], at[2] += cell % s->grid[2];
        }
        const int is[MMIXI_KINDS] = { 1, grid, !in, !grid };
        for (size_t b = 0; b < d.B; b++) mmix_data_i32(a->runs)[b * d.L + t] = (int32_t)(2 * left) + in;
        for (int k = 0; k < MMIXI_KINDS; k++) {
            if (!is[k]) continue;
            for (size_t axis = 0; axis < (three ? 3 : 1); axis++)
                mmix_data_i32(a->position[k])[axis * d.L + n[k]] = given ? mmixi_index(given, axis * d.L + t)
                    : (int32_t)at[axis];
            mmix_data_i32(a->list[k])[n[k]++] = (int32_t)t;
        }
        *next += !in || !three;
        if (!in) continue;
        a->first = a->of.spans->start; a->n = t + 1 - a->first;
        if (!ends) continue;
        if (three) *next += mmixi_max(s->grid[0], mmixi_max(s->grid[1], s->grid[2]));
        s++; left--;
    }
    for (int k = 0; k < MMIXI_KINDS; k++) {
        a->position[k]->shape[three] = a->list[k]->shape[0] = n[k];
        if (!n[k]) a->list[k] = NULL;
    }
    a->of.positions = *a->position;
    return 0;
}
/* The tokens in the order in which a layer visits them, or the inverse of that. */
static mmix_tensor *mmixi_visits(mmix_ctx *m, const mmixi_layout *a, size_t layer, int inverse)
{
    mmix_tensor *order = mmix_from_i32(m, 1, &a->L, mmix_data_i32(*a->list));
    for (size_t i = 0; order && i < a->of.n_spans; i++) {
        const mmix_span *s = &a->of.spans[i];
        int32_t *at = mmix_data_i32(order) + s->start;
        mmix_scan_order(layer, s->grid[0], s->grid[1], s->grid[2], s->separators, inverse ? NULL : at,
                        inverse ? at : NULL);
        for (size_t r = s->grid[0] * (s->grid[1] * s->grid[2] + s->separators); r-- > 0;)
            at[r] += (int32_t)s->start;
    }
    return order;
}

/* ---- mixers of lists of tokens: the definition, the fast form ---- */

enum { MMIXI_Q, MMIXI_K, MMIXI_V, MMIXI_O };
static const int mmixi_swap_middle[4] = { 0, 2, 1, 3 };
/* What a mixer brings to the tokens of a list, (B, n, H, P): of a sequence by itself, or, with a state and
   `slot` not negative, of one that goes on from what so many slots after the call's carry. In the plain form,
   the definition, (B, n, H, L): M with its columns where the keys stand, which are the list's. */
static mmix_tensor *mmixi_mix_on(mmix_ctx *m, const mmix_mixer *x, mmix_tensor *list, const mmixi_layout *a,
                                 int slot)
{
    mmix_tensor *M, *y;
    size_t n = mmix_count(list);
    if (!a->plain)
        return slot < 0 || !a->of.state ? mmix_mix(m, x)
            : mmix_mix_step(m, x, a->of.state, a->of.slot + (size_t)slot);
    M = mmix_permute(m, mmix_mix_matrix(m, x), mmixi_swap_middle);
    y = mmix_fill(mmix_new4(m, a->B, mmix_shape(M, 1), mmix_shape(M, 2), a->L), 0);
    for (size_t i = 0; y && i < mmix_count(M); i++)
        mmixi_of(y)[i / n * a->L + (size_t)mmix_data_i32(list)[i % n]] += mmixi_of(M)[i];
    return y;
}
/* One of an attention's projections. */
static mmix_tensor *mmixi_project(mmix_ctx *m, const mmix_projections *p, int which, mmix_tensor *x,
                                  mmix_tensor *residual)
{
    return mmix_linear_add(m, x, p->weight[which], p->bias[which], residual, NULL);
}
/* A mixer of tokens u (B, n, D): q, k, v or C, B, X, as heads (B, n, H or G, N), with `conv` convolved. */
static mmix_mixer mmixi_projected(mmix_ctx *m, const mmix_projections *p, mmix_tensor *u, mmix_tensor *conv,
                                  const mmixi_layout *a)
{
    const mmix_conv1d_options causal = { 0, 0, NULL, NULL, NULL };
    mmix_tensor *part[3];
    for (int i = 0; i < 3; i++) part[i] = mmixi_project(m, p, i, u, NULL);
    if (conv) u = mmixi_conv_step(m, mmix_concat(m, 2, part, 3), conv, NULL, causal, a->of.state, a->of.slot);
    for (size_t i = 0, from = 0; i < 3 && part[i]; i++) {
        size_t heads = i == MMIXI_Q ? p->heads : p->kv_heads, wide = part[i]->shape[2];
        part[i] = mmixi_split_heads(m, conv ? u : part[i], from, heads, wide / heads);
        if (conv) from += wide;
    }
    return mmix_mixer_softmax(part[MMIXI_Q], part[MMIXI_K], part[MMIXI_V]);
}
/* Causal softmax attention among the tokens of a kind, q and k turned by their angles or rotary positions. */
static mmix_mixer mmixi_attend(mmix_ctx *m, const mmix_mmate_layer *w, const mmix_projections *of,
                               mmix_tensor *x, const mmixi_layout *a, int kind)
{
    mmix_mixer mixer = mmixi_projected(m, of, mmixi_tokens_listed(m, x, a->list[kind]), NULL, a);
    mmix_tensor *at = a->of.angles ? a->of.angles : w->rope.theta > 0 ? a->position[kind] : NULL;
    if (at) {
        mixer.q = mmix_rope(m, mixer.q, at, &w->rope);
        mixer.k = mmix_rope(m, mixer.k, at, &w->rope);
    }
    mixer.mask = MMIX_MASK_CAUSAL;
    return mixer;
}

/* ---- Flex-MA: two scans, fused ---- */

/* What o_proj reads, (B, L, H·P), of causal attention, or: the scans of x in the layer's order, forward over
   all tokens, reverse from the first span to the last one's end, fused. */
static mmix_tensor *mmixi_flex_heads(mmix_ctx *m, const mmix_mmate_layer *f, mmix_tensor *x,
                                     const mmixi_layout *a)
{
    mmix_mark mark = mmix_mark_here(m);
    mmix_mixer scan;
    if (f->options.branches == MMIX_BRANCH_ATTENTION) {
        scan = mmixi_attend(m, f, &f->flex, x, a, MMIXI_KIND_ALL);
        return mmixi_join_heads(m, mmixi_mix_on(m, &scan, *a->list, a, 0));
    }
    int directions = f->options.directions;
    mmix_tensor *order = mmixi_visits(m, a, f->index, 0), *u = mmixi_tokens_listed(m, x, order), *y, *z;
    mmix_call fuse = mmixi_call(NULL, NULL, NULL);
    scan = mmixi_projected(m, &f->flex, u, f->conv_weight, a);
    scan.kind = MMIX_SSD; scan.dt_softplus = 1; scan.D = f->D;
    scan.initial_state = a->of.initial_state; scan.final_state = a->of.final_state;
    for (int d = MMIX_FORWARD; ; d++) {
        int own = f->dir[d].A_log ? d : MMIX_FORWARD;
        scan.dt = mmix_linear(m, u, f->dir[own].dt_proj, NULL); scan.dt_bias = f->dir[own].dt_bias;
        scan.A = mmix_scale(m, mmix_exp(m, f->dir[own].A_log), -1, 0);
        fuse.in[d] = mmixi_mix_on(m, &scan, order, a, -d);
        if (!a->n || d == MMIX_REVERSE) break;
        mmix_tensor **part[4] = { &scan.q, &scan.k, &scan.v, &u };
        for (int i = 0; i < 4; i++) *part[i] = mmix_slice(m, *part[i], 1, a->first, a->n);
        order = mmix_slice(m, order, 0, a->first, a->n);
        scan.direction = MMIX_REVERSE; scan.initial_state = NULL; scan.final_state = NULL;
        if (directions == MMIX_FUSE_SUM) scan.D = NULL;
        if (a->of.n_spans > 1) scan.seq_idx = mmix_slice(m, a->runs, 1, a->first, a->n);
    }
    y = fuse.in[0];
    if (a->n) {                                  /* there are spans */
        if (directions == MMIX_FUSE_GATE) fuse.in[2] = mmix_linear(m, u, f->gate_weight, f->gate_bias);
        fuse.in[3] = a->runs; fuse.size[0] = a->first; fuse.number[0] = directions == MMIX_FUSE_SUM ? 1 : 0.5;
        y = mmixi_run_like(m, "mmix_mmate", MMIX_OP_FUSE_DIRECTIONS, &fuse);
    }
    y = mmixi_tokens_listed(m, mmixi_join_heads(m, y), mmixi_visits(m, a, f->index, 1));
    if (a->plain) return y;
    if (!a->of.final_state) y = mmixi_keep_only(m, mark, y);
    if (!f->z_weight) return f->norm ? mmix_rms_norm(m, y, f->norm, 1e-5) : y;
    z = mmix_linear(m, x, f->z_weight, f->z_bias);
    return f->norm ? mmix_gated_rms_norm(m, y, z, f->norm, 1e-5, 1) : mmix_mul(m, y, mmix_silu(m, z));
}
/* In spans y = g f + (1 - g) b, g = σ(z), or c (f + b) without z, elsewhere f; dz = g (1 - g) Σ_p dy (f - b).
   in: f (B, L, H, P), of tokens from `first` on b (B, n, H, P), z (B, n, H); runs. size: first. number: c. */
static void mmixi_fuse_heads(const mmix_call *c, mmixi_range range)
{
    const mmixi_kernels *k = c->m->k;
    size_t L = c->in[0]->shape[1], n = c->in[1]->shape[1], H = c->in[0]->shape[2], P = c->in[0]->shape[3];
    const mmix_real *x[2] = { mmixi_of(c->in[0]), mmixi_of(c->in[1]) }, *z = mmixi_of(c->in[2]);
    for (size_t i = range.begin; i < range.end; i++) {
        size_t t = i / H % L, r = t - c->size[0],                      /* before `first` r wraps round */
            j = (i / H / L * n + r) * H + i % H, at[2] = { i * P, j * P };
        const mmix_real *dy = c->dy[0] ? c->dy[0] + i * P : NULL;
        mmix_real share[2] = { 1, 0 };
        if (mmix_data_i32(c->in[3])[t] % 2) {
            share[0] = z ? 1 / (1 + mmixi_exp_real(-z[j])) : (mmix_real)c->number[0];
            share[1] = z ? 1 - share[0] : share[0];
        }
        for (int d = 0; d < 1 + (r < n); d++)
            if (!dy) (d ? k->axpy : k->scale)(P, share[d], x[d] + at[d], mmixi_of(c->out[0]) + i * P);
            else if (c->dx[d]) (c->add[d] ? k->axpy : k->scale)(P, share[d], dy, c->dx[d] + at[d]);
        if (r < n && c->dx[2])
            c->dx[2][j] = (c->add[2] ? c->dx[2][j] : 0) + share[0] * share[1]
                * (k->dot(P, dy, x[0] + at[0]) - k->dot(P, dy, x[1] + at[1]));
    }
}
static int mmixi_fuse_run(mmix_ctx *m, mmix_call *c)
{
    (void)m;
    return mmixi_over_rows(c, c->in[0], mmixi_fuse_heads);
}

/* ---- Local-Swin ---- */

/* A layer's windows of a span. */
static void mmixi_swin_windows(const mmix_mmate_layer *w, const mmix_span *s, mmix_mixer *x)
{
    static const size_t usual[2][3] = { { 16, 4, 4 }, { 1, 16, 16 } };   /* of videos, of images */
    mmix_mmate_options o = w->options;
    mmixi_default(&o.shift_period, 2);
    for (int k = 0; k < 3; k++) mmixi_default(&o.window[k], usual[s->grid[0] == 1][k]);
    mmix_mixer_windows(x, 3, s->grid, o.window, w->index % o.shift_period >= o.shift_period / 2);
}
/* Of the grid tokens, (B, n, H, P): each span a sequence with windows; neighbours of equal grids at once. */
static mmix_tensor *mmixi_swin_grid(mmix_ctx *m, const mmix_mmate_layer *w, mmix_mixer all,
                                    const mmixi_layout *a)
{
    const mmix_span *s = a->of.spans, *end = s + a->of.n_spans;
    size_t parts = 0;
    mmix_tensor *part[MMIX_MAX_INPUTS], *y;
    for (size_t at = 0, equal, n; s < end; s += equal, at += n) {
        mmix_mixer mixer = all;
        mmix_tensor **own = &mixer.q;            /* k and v behind it */
        size_t cells = s->grid[0] * s->grid[1] * s->grid[2];
        for (equal = 1; !a->plain && s + equal < end; equal++)
            if (memcmp(s->grid, s[equal].grid, sizeof s->grid)) break;
        n = equal * cells;
        for (int k = 0; k < 3; k++) {
            y = mmix_slice(m, own[k], 1, at, n);
            own[k] = mmixi_as(m, y, 4, a->B * equal, cells, mmix_shape(y, 2), mmix_shape(y, 3));
        }
        if (!w->options.causal_window) mixer.mask = MMIX_MASK_NONE;
        mmixi_swin_windows(w, s, &mixer);
        y = mmixi_mix_on(m, &mixer, mmix_slice(m, a->list[MMIXI_KIND_GRID], 0, at, cells), a, -1);
        part[parts++] = mmixi_as(m, y, 4, a->B, n, mmix_shape(y, 2), mmix_shape(y, 3));
        if (parts == 1 || (parts < MMIX_MAX_INPUTS && s + equal < end)) continue;
        part[0] = mmix_concat(m, 1, part, parts);        /* so many go into one */
        parts = 1;
    }
    return part[0];
}
/* Heads of the tokens in a list. */
static mmix_tensor *mmixi_heads_listed(mmix_ctx *m, mmix_tensor *x, const mmix_tensor *list)
{
    size_t H = mmix_shape(x, 2), N = mmix_shape(x, 3);
    return mmixi_split_heads(m, mmixi_tokens_listed(m, mmixi_join_heads(m, x), list), 0, H, N);
}
/* With `global`: of the tokens of no grid, which see all; or of the grid's, (B, n, H, P), as packed
   sequences: each window with those others before it, whose own rows are dropped there. */
static mmix_tensor *mmixi_swin_global(mmix_ctx *m, const mmix_mmate_layer *w, mmix_mixer x,
                                      const mmixi_layout *a, int kind)
{
    mmix_tensor *grid = a->list[MMIXI_KIND_GRID], *others = a->list[MMIXI_KIND_OTHER], *list, *row,
        **own = &x.q;                            /* k and v behind it */
    size_t n = 0, G = mmix_count(others), cells = mmix_count(grid);
    if (w->options.causal_window)
        return mmixi_none(mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_mmate: causal_window and layout.global do "
                                    "not go together"));
    x.mask = MMIX_MASK_NONE;
    if (kind == MMIXI_KIND_OTHER) {
        x.q = mmixi_heads_listed(m, x.q, others);
        return mmixi_mix_on(m, &x, *a->list, a, -1);
    }
    mmixi_pass j;                                /* for its windows alone */
    mmix_raw r;
    memset(&r, 0, sizeof r);
    r.N = 1; r.L = cells;
    mmixi_swin_windows(w, a->of.spans, &r.o);
    const size_t room = mmixi_pass_begin(&j, r, 0, m), shape[2] = { a->B, cells + j.windows * G };
    list = mmix_new(m, MMIX_DTYPE_I32, 1, shape + 1); row = mmix_new(m, MMIX_DTYPE_I32, 1, &cells);
    x.seq_idx = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    mmix_mark mark = mmix_mark_here(m);
    if (m->error_kind || mmixi_pass_tables(&j, mmixi_reals(m, room, 1))) return NULL;
    for (size_t i = 0, begin = 0; i < j.windows; i++, begin = n) {
        for (size_t g = 0; g < G; g++) mmix_data_i32(list)[n++] = mmix_data_i32(others)[g];
        for (size_t k = 0; k < j.count[i]; k++) {
            size_t cell = j.order[i * j.L + k].at;
            mmix_data_i32(row)[cell] = (int32_t)n;
            mmix_data_i32(list)[n++] = mmix_data_i32(grid)[cell];
        }
        for (size_t b = 0; b < a->B; b++)
            for (size_t t = begin; t < n; t++) mmix_data_i32(x.seq_idx)[b * shape[1] + t] = (int32_t)i;
    }
    mmix_rewind(m, mark);
    for (int k = 0; k < 3; k++) own[k] = mmixi_heads_listed(m, own[k], list);
    return mmixi_heads_listed(m, mmixi_mix_on(m, &x, list, a, -1), row);
}
/* Of the text tokens, (B, n, H, P). In slot + 1 are keys, values and places of earlier pieces. */
static mmix_tensor *mmixi_swin_text(mmix_ctx *m, size_t window, mmix_mixer mixer, const mmixi_layout *a)
{
    mmix_tensor *list = a->list[MMIXI_KIND_TEXT], *places,
        *carried = a->of.state ? &a->of.state->slot[a->of.slot + 1].part[MMIXI_CARRIED_CONV] : NULL;
    const size_t n = mmix_count(list), shape[4] = { 1, n, 1, 1 };
    places = carried ? mmixi_carried_rows(m, carried, "places", shape, window)
        : mmix_new(m, MMIX_DTYPE_REAL, 4, shape);
    mixer.mask = MMIX_MASK_BAND; mixer.left = window - 1; mixer.lefts = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
    if (m->error_kind) return NULL;
    if (carried) carried->shape[1] += n;
    mmix_real *sees = mmixi_of(places), *place = sees + places->shape[1] - n;           /* from *sees on */
    for (size_t i = 0; i < n; i++, place++) {
        *place = (mmix_real)(a->seen + (size_t)mmix_data_i32(list)[i]);
        while (*place - *sees >= (mmix_real)window) sees++;
        mmix_data_i32(mixer.lefts)[i] = (int32_t)(place - sees);
    }
    return mmixi_mix_on(m, &mixer, list, a, 1);
}

/* flex + swin, with a gate u flex + (1 - u) swin, u = σ(z), in the rows of tokens that take part. */
static mmix_tensor *mmixi_mmate(mmix_ctx *m, const mmix_mmate_layer *w, mmix_tensor *x, mmix_tensor *residual,
                                const mmixi_layout *a)
{
    mmix_mark mark = mmix_mark_here(m);
    const mmix_mmate_options *o = &w->options;
    int both = o->branches == MMIX_BRANCH_BOTH, gate = both && w->branch_gate_weight,
        swins = both || o->branches == MMIX_BRANCH_SWIN, record = m->recording;
    mmix_tensor *y = residual;
    if (a->plain || a->of.state) mmix_record(m, 0);
    if (o->branches != MMIX_BRANCH_SWIN) {
        y = mmixi_flex_heads(m, w, x, a);
        if (!a->plain) y = mmixi_project(m, &w->flex, MMIXI_O, y, gate ? NULL : residual);
    }
    if (both && !a->of.final_state) y = mmixi_keep_only(m, mark, y);
    if (!y) y = mmix_fill(mmix_new3(m, a->B, a->L, a->plain ? w->swin.heads * a->L : mmix_shape(x, 2)), 0);
    mmix_mixer mixer;
    if (swins && a->of.global) mixer = mmixi_attend(m, w, &w->swin, x, a, MMIXI_KIND_ALL);
    for (int kind = MMIXI_KIND_GRID; swins && kind <= MMIXI_KIND_OTHER; kind++) {
        mmix_tensor *list = a->list[kind], *swin, *z;
        if (!list || kind == (a->of.global ? MMIXI_KIND_TEXT : MMIXI_KIND_OTHER)
            || (kind == MMIXI_KIND_TEXT && !o->text_window)) continue;
        if (!a->of.global) mixer = mmixi_attend(m, w, &w->swin, x, a, kind);
        swin = mmixi_join_heads(m, a->of.global ? mmixi_swin_global(m, w, mixer, a, kind)
                                : kind == MMIXI_KIND_GRID ? mmixi_swin_grid(m, w, mixer, a)
                                : mmixi_swin_text(m, o->text_window, mixer, a));
        if (!a->plain) swin = mmixi_project(m, &w->swin, MMIXI_O, swin, NULL);
        if (gate) {                              /* 1 - σ(z) = σ(-z) = e^-softplus(z) */
            z = mmix_linear(m, mmixi_tokens_listed(m, x, list), w->branch_gate_weight, w->branch_gate_bias);
            swin = mmix_mul(m, mmix_exp(m, mmix_scale(m, mmix_softplus(m, z), -1, 0)),
                            mmix_sub(m, swin, mmixi_tokens_listed(m, y, list)));
        }
        y = mmix_add_rows(m, y, swin, list);
    }
    if (gate && residual) y = mmix_add(m, residual, y);
    if (y && a->of.state) a->of.state->slot[a->of.slot].tokens = a->seen + a->L;   /* a scan has done so */
    mmix_record(m, record);
    return y;
}
MMIXDEF mmix_tensor *mmix_mmate(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                mmix_tensor *residual, const mmix_layout *layout)
{
    mmixi_layout a;
    return mmixi_layout_begin(m, "mmix_mmate", &a, layout, "x BLD, residual? BLD", x, residual, NULL)
        || (a.of.state && !mmixi_slot_check(m, "mmix_mmate", a.of.state, mmixi_max(a.of.slot, a.of.slot + 1)))
        ? NULL : mmixi_mmate(m, layer, x, residual, &a);
}
MMIXDEF mmix_tensor *mmix_mmate_matrix(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                       const mmix_layout *layout)
{
    mmixi_layout a;
    if ((layout && (layout->state || layout->initial_state))
        || (layer->conv_weight && layer->options.branches < MMIX_BRANCH_SWIN))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_mmate_matrix: with a state or a convolution y is not M v");
    if (mmixi_layout_begin(m, "mmix_mmate_matrix", &a, layout, "x BLD", x, NULL, NULL)) return NULL;
    a.plain = 1; x = mmixi_mmate(m, layer, x, NULL, &a);
    return mmix_permute(m, mmixi_as(m, x, 4, a.B, a.L, mmix_shape(x, 2) / a.L, a.L), mmixi_swap_middle);
}
MMIXDEF int mmix_mmate_init(mmix_mmate_layer *layer, mmix_params *p, const char *prefix, size_t D,
                            size_t heads, size_t kv_heads, size_t width, size_t index, int bias,
                            const mmix_mmate_options *options)
{
    const mmix_mmate_options *o = &layer->options;
    mmixi_dims d;
    char own[160];
    memset(layer, 0, sizeof *layer);
    if (options) layer->options = *options;
    if (mmixi_settings_check(p->m, "mmix_mmate_init", o, "int branches 0 3, int branch_gate, "
                             "int directions 0 2, int shared_directions, int skip, size conv_width, "
                             "int output_gate, int norm, size3 window, size shift_period, int causal_window, "
                             "size text_window 0")) return -1;
    if (!heads || !kv_heads || heads % kv_heads || !width || o->shift_period % 2)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_mmate_init: %.0f heads of width %.0f, %.0f for "
                         "keys and values, which must divide them; shift_period %.0f, which must be even",
                         (double)heads, (double)width, (double)kv_heads, (double)o->shift_period);
    layer->index = index;
    d.D = D; d.H = heads; d.W = o->conv_width;
    d.E = heads * width; d.K = kv_heads * width; d.C = d.E + 2 * d.K;
    for (int i = 0, attention = o->branches == MMIX_BRANCH_ATTENTION; i < 2; i++) {
        mmix_projections *of = i ? &layer->swin : &layer->flex;
        mmix_tensor **w = of->weight, **b = of->bias;
        if (i ? attention || o->branches == MMIX_BRANCH_FLEX : o->branches == MMIX_BRANCH_SWIN) continue;
        snprintf(own, sizeof own, attention ? "%s" : i ? "%sswin." : "%sflex.", prefix);
        of->heads = heads; of->kv_heads = kv_heads;
        mmixi_declare(p, own, &d, "q_proj.weight ED normal, q_proj.bias E zeros, k_proj.weight KD normal, "
                      "k_proj.bias K zeros, v_proj.weight KD normal, v_proj.bias K zeros, "
                      "o_proj.weight DE normal, o_proj.bias D zeros", w, bias ? b : NULL, w + 1,
                      bias ? b + 1 : NULL, w + 2, bias ? b + 2 : NULL, w + 3, bias > 1 ? b + 3 : NULL);
        if (i || attention) continue;
        mmixi_declare(p, own, &d, "dt_proj.weight HD zeros, +dt_bias H dt_spread, +A_log H zeros, "
                      "dt_proj_b.weight HD zeros, +dt_b_bias H dt_spread, +A_log_b H zeros, "
                      "gate.weight HD zeros, +gate.bias H zeros, D H zeros, conv1d.weight C1W last_tap, "
                      "z_proj.weight ED zeros, +z_proj.bias E ones*, norm.weight E ones",
                      &layer->dir[0].dt_proj, o->shared_directions ? NULL : &layer->dir[1].dt_proj,
                      o->directions == MMIX_FUSE_GATE ? &layer->gate_weight : NULL,
                      o->skip ? &layer->D : NULL, o->conv_width > 1 ? &layer->conv_weight : NULL,
                      o->output_gate ? &layer->z_weight : NULL, 1.2784645427610738,    /* its silu is 1 */
                      o->norm ? &layer->norm : NULL);
    }
    return mmixi_declare(p, prefix, &d, "branch_gate.weight 1D zeros, +branch_gate.bias 1 zeros",
                         o->branches == MMIX_BRANCH_BOTH && o->branch_gate ? &layer->branch_gate_weight
                         : NULL);
}

/* ---- attention out, M-MATE in ---- */

/* Copies what a student has of its teacher, whose slab lies in `values`: by name, and attention's q, k, v and
   o, of which the first three may be one `fused` matrix, to both branches. 0, or -1: a size is another. */
static int mmixi_mmate_reuse(const char *who, const mmix_params *student, const mmix_params *teacher,
                             const mmix_real *values, int fused, int no_key_bias)
{
    static const char parts[] = "qkvo";
    for (size_t i = 0; i < student->count; i++) {
        const mmix_param *to = &student->at[i];
        const char *at = strstr(to->name, ".mmate."), *dot = at ? strchr(at + 7, '.') : NULL,
            *part = dot && !strncmp(dot + 2, "_proj.", 6) ? strchr(parts, dot[1]) : NULL;
        int third = fused && part && *part != 'o';
        size_t n = mmix_count(to->tensor);
        char name[160];
        if (part)
            snprintf(name, sizeof name, "%.*s%s%s", (int)(at - to->name), to->name, !fused ? ".self_attn"
                     : third ? ".attn.qkv" : ".attn.proj", fused ? dot + 7 : dot);
        const mmix_tensor *from = mmix_params_find(teacher, part ? name : to->name);
        if (!from || (no_key_bias && strstr(to->name, ".k_proj.bias"))) continue;        /* it is 0 */
        if (mmix_count(from) != n * (third ? 3 : 1) || !mmixi_of(from))
            return mmix_fail(student->m, MMIX_ERROR_ARGUMENT, "%s: %s has %.0f reals, in the teacher it is "
                             "of %.0f%s", who, to->name, (double)n, (double)mmix_count(from),
                             mmixi_of(from) ? "" : " bf16");
        memcpy(mmixi_of(to->tensor), values + (mmixi_of(from) - teacher->values)
               + (third ? (size_t)(part - parts) * n : 0), n * sizeof *values);
    }
    return 0;
}

/* ==== >>backbones ====================================================================
   ViT, LinearViT, DINOv2, DINOv3, DinoVim, DinoMamba-Reg

   ViT:  x = [cls; patches] + positions;  x += attn(norm1 x), x += mlp(norm2 x);  tokens = norm(x)
         DINOv2, v3: [cls; registers; patches],  x += γ1 · attn(norm1 x), x += γ2 · ffn(norm2 x)
         Of a block M-MATE may stand in the place of attention: [patches; registers; cls] are its one span.
   Vim:  x = patches + positions, class tokens between them;  x += mixer(norm x), bidirectional Mamba-2;
         tokens = norm_f(x)
   Names are the systems' checkpoints'. Without recording each block's temporaries are dropped as it ends.
   ==================================================================================== */

typedef struct mmixi_norm_pair { mmix_tensor *weight, *bias; } mmixi_norm_pair;      /* bias NULL: RMS norm */
typedef struct mmixi_vision_block {
    mmixi_norm_pair norm[2];
    mmix_attention_layer attention; mmix_mlp_layer mlp;            /* or Mamba */
    mmix_mmate_layer mmate;                      /* in place of attention */
    mmix_swiglu_layer swiglu;                    /* or, without it, the MLP */
    mmix_tensor *gamma[2];
    mmix_mamba2_layer mamba;
} mmixi_vision_block;
struct mmix_vision {
    mmix_params *params;                         /* the model lies in its parameters' memory */
    mmix_vision_config config;
    mmix_tensor *cls, *cls_positions, *positions, *registers, *patch_weight, *patch_bias;
    mmixi_norm_pair norm;
    mmixi_vision_block *block;
};
static mmix_vision_config mmixi_vision_base(int mixer, size_t dim, size_t depth, size_t heads, size_t patch)
{
    int vim = mixer == MMIX_SSD;
    mmix_vision_config c;
    memset(&c, 0, sizeof c);
    c.mixer = mixer; c.dim = dim; c.depth = depth; c.heads = heads; c.mlp_ratio = 4; c.drop_path = 0.1;
    c.patch = patch; c.grid = patch ? 224 / patch : 0; c.eps = vim ? 1e-5 : 1e-6;
    c.class_token = vim ? MMIX_CLASS_RELEASED : MMIX_CLASS_FIRST; c.mamba.bidirectional = 1;
    return c;
}
MMIXDEF mmix_vision_config mmix_vit(size_t dim, size_t patch)
{
    return mmixi_vision_base(MMIX_SOFTMAX, dim, 12, dim / 64, patch);
}
MMIXDEF mmix_vision_config mmix_linearvit(size_t dim)
{
    return mmixi_vision_base(MMIX_LINEAR, dim, 12, dim / 64, 16);
}
MMIXDEF mmix_vision_config mmix_dinovim(size_t dim) { return mmixi_vision_base(MMIX_SSD, dim, 24, 0, 16); }
MMIXDEF mmix_vision_config mmix_mambareg(size_t dim)
{
    mmix_vision_config c = mmix_dinovim(dim);
    c.class_token = MMIX_CLASS_REGISTERS; c.registers = 12; c.grid = 7;
    return c;
}
MMIXDEF mmix_vision_config mmix_dinov2(size_t dim, size_t registers)
{
    mmix_vision_config c = mmix_vit(dim, 14);
    c.grid = 37; c.registers = registers; c.layer_scale = 1; c.swiglu = dim == 1536;
    c.positions = registers ? MMIX_POSITIONS_ANTIALIAS : MMIX_POSITIONS_DINO;
    c.depth = dim < 1024 ? 12 : dim < 1536 ? 24 : 40;
    if (c.swiglu) c.mlp_ratio = 8.0 / 3;
    return c;
}
MMIXDEF mmix_vision_config mmix_dinov3(size_t dim, int swiglu)
{
    mmix_vision_config c = mmix_vit(dim, 16);
    c.registers = 4; c.layer_scale = 1; c.swiglu = swiglu; c.positions = MMIX_POSITIONS_AXIAL; c.eps = 1e-5;
    c.depth = dim < 1024 ? 12 : dim < 1280 ? 24 : 32;
    return c;
}
/* All numbers of a config, in the order of files. */
static const char mmixi_vision_settings[] =
    "int mixer 0 2, size dim 1, size depth 1 1000, size heads 0, double mlp_ratio, size patch 1 4096, "
    "size grid 1 16384, double eps 0 1, double drop_path 0 99e-2, int class_token 0 4, Size registers 0, "
    "int normalise, Int positions 0 3, Int swiglu, Int layer_scale, |size mamba.d_inner 0, "
    "size mamba.d_state 0, size mamba.head_dim 0, size mamba.groups 0, "
    "size mamba.conv_width 0, int mamba.bidirectional, double mamba.eps, double mamba.dt_low, "
    "double mamba.dt_high, double mamba.out_scale, Double deviation 0 10, Double sincos 0 10, "
    "Int feature 0 4, Int48 blocks 0 5, |Int mmate.branches 0 2, Int mmate.branch_gate, "
    "Int mmate.directions 0 2, Int mmate.shared_directions, Int mmate.skip, Size mmate.conv_width 0, "
    "Int mmate.output_gate, Int mmate.norm, Size3 mmate.window, Size mmate.shift_period, "
    "Int mmate.causal_window 0 0, Size mmate.text_window 0 0";

/* What mixes the tokens of a ViT's block: MMIX_BLOCK_SOFTMAX, … */
static int mmixi_vision_kind(const mmix_vision_config *c, size_t i)
{
    return i < MMIX_VISION_BLOCKS && c->blocks[i] ? c->blocks[i]
        : c->mixer == MMIX_LINEAR ? MMIX_BLOCK_LINEAR : MMIX_BLOCK_SOFTMAX;
}

/* ---- creation ---- */
/* The parameters; an error stays in the context. LayerScale begins with 1, as for blocks that are trained
   from the start. */
static void mmixi_vision_declare(mmix_vision *v)
{
    const mmix_vision_config *c = &v->config;
    int vim = c->mixer == MMIX_SSD, many = c->class_token == MMIX_CLASS_REGISTERS,
        axial = c->positions == MMIX_POSITIONS_AXIAL;
    mmix_params *p = v->params;
    mmixi_dims d;
    d.D = c->dim; d.F = (size_t)((double)d.D * c->mlp_ratio + 1e-6); d.G = 2 * d.F;
    d.P = c->patch; d.K = many ? c->registers : 1; d.R = c->registers;
    d.N = !many + c->grid * c->grid;
    mmixi_declare(p, "", &d, "cls_token 1KD normal, pos_embed_cls 1KD normal, pos_embed 1ND normal", &v->cls,
                  many ? &v->cls_positions : NULL, axial ? NULL : &v->positions);
    if (d.R && !many)
        mmixi_declare(p, axial ? "storage" : "register", &d, "_tokens 1RD normal", &v->registers);
    mmixi_declare(p, "patch_embed.proj.", &d, vim ? "weight D3PP lecun, +bias D zeros"
                  : "weight D3PP uniform, +bias D uniform", &v->patch_weight);
    for (size_t i = 0; i < c->depth; i++) {
        mmixi_vision_block *b = v->block + i;
        char block[40], part[48];
        int kind = mmixi_vision_kind(c, i);
        snprintf(block, sizeof block, vim ? "layers.%d." : "blocks.%d.", (int)i);
        snprintf(part, sizeof part, vim ? "%smixer." : kind < MMIX_BLOCK_MMATE ? "%sattn." : "%smmate.",
                 block);
        if (vim) {
            mmix_mamba2_init(&b->mamba, p, part, d.D, &c->mamba);
            mmixi_declare(p, block, &d, "norm.weight D ones", &b->norm->weight);
            continue;
        }
        mmixi_declare(p, block, &d, "norm1.weight D ones, +norm1.bias D zeros", &b->norm->weight);
        if (kind >= MMIX_BLOCK_MMATE) {
            mmix_mmate_options o = c->mmate;
            o.branches = kind - MMIX_BLOCK_MMATE;
            mmix_mmate_init(&b->mmate, p, part, d.D, c->heads, c->heads, d.D / mmixi_max(c->heads, 1), i, 2,
                            &o);
        } else {
            mmix_attention_init(&b->attention, p, part, d.D, c->heads, kind - MMIX_BLOCK_SOFTMAX, 1);
            b->attention.options.normalise = c->normalise; b->attention.no_key_bias = axial;
            b->attention.options.feature = c->feature;
        }
        mmixi_declare(p, block, &d, "norm2.weight D ones, +norm2.bias D zeros", &b->norm[1].weight);
        snprintf(part, sizeof part, "%smlp.", block);
        if (!c->swiglu) mmix_mlp_init(&b->mlp, p, part, d.D, d.F, d.D);
        else if (axial)
            mmixi_declare(p, part, &d, "w1.weight FD normal, +w2.weight FD normal, +w3.weight DF normal, "
                          "w1.bias F zeros, +w2.bias F zeros, +w3.bias D zeros", &b->swiglu.gate,
                          b->swiglu.bias);
        else
            mmixi_declare(p, part, &d, "w12.weight GD normal, w3.weight DF normal, w12.bias G zeros, "
                          "w3.bias D zeros", &b->swiglu.gate, &b->swiglu.down, b->swiglu.bias,
                          b->swiglu.bias + 2);
        if (c->layer_scale) mmixi_declare(p, block, &d, "ls1.gamma D ones, +ls2.gamma D ones", b->gamma);
    }
    mmixi_declare(p, "", &d, vim ? "norm_f.weight D ones" : "norm.weight D ones, +norm.bias D zeros",
                  &v->norm.weight);
}
/* Stored positions of patches: sines and cosines of the column, then of the row, at D/4 frequencies each. */
static void mmixi_vision_sincos(const mmix_vision *v)
{
    size_t D = v->config.dim, g = v->config.grid, quarter = D / 4;
    mmix_real *row = mmixi_of(v->positions) + (v->cls_positions ? 0 : D);
    for (size_t at = 0; at < g * g; at++, row += D)
        for (size_t i = 0; i < 4 * quarter; i++) {
            size_t kind = i / quarter, place = kind < 2 ? at % g : at / g;
            double period = mmixi_exp(9.210340371976184 * (double)(i % quarter) / (double)quarter),
                angle = (double)place / period;          /* 1 to 10,000 patches a radian */
            row[i] = (mmix_real)(v->config.sincos * (kind % 2 ? mmixi_cos(angle) : mmixi_sin(angle)));
        }
}
/* start 0: without values; a file's will follow, and what is wrong with the config is the file's fault. -1:
   the same, the matrices being bf16. */
static mmix_vision *mmixi_vision_create(mmix_ctx *m, mmix_vision_config c, int start)
{
    int vim = c.mixer == MMIX_SSD, axial = c.positions == MMIX_POSITIONS_AXIAL;
    if (mmix_error(m)) return NULL;
    if (axial) c.grid = 1;                       /* of none */
    mmixi_settings_check(m, "mmix_vision_create", &c, mmixi_vision_settings);
    if (!vim)
        mmixi_within(m, "mmix_vision_create", "mlp_ratio · dim", c.mlp_ratio * (double)c.dim, 1, INT32_MAX);
    for (size_t i = 0; i < c.depth && i < MMIX_VISION_BLOCKS; i++) {
        if (vim) mmixi_within(m, "mmix_vision_create", "blocks, of Mamba,", c.blocks[i], 0, 0);
        if (c.blocks[i] >= MMIX_BLOCK_MMATE && !c.class_token) c.class_token = MMIX_CLASS_LAST;
    }
    if (!vim && c.class_token != MMIX_CLASS_FIRST && c.class_token != MMIX_CLASS_LAST)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_vision_create: class_token is %d with mixer %d, expected "
                  "MMIX_CLASS_FIRST or _LAST with attention", c.class_token, c.mixer);
    c.mamba.bidirectional = 1; c.mamba.out_scale = 1 / sqrt((double)c.depth);
    c.mamba.dt_high = fmin(c.mamba.dt_high, FLT_MAX);            /* infinity: a file's config can't say it */
    if (c.class_token == MMIX_CLASS_REGISTERS) mmixi_default(&c.registers, 12);
    else if (vim) c.registers = 0;
    if (vim ? axial : !c.heads || c.dim % c.heads || (axial && c.dim / c.heads % 4))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_vision_create: dim %.0f, %.0f heads; expected heads that "
                  "divide it%s", (double)c.dim, (double)c.heads,
                  axial ? ", of a multiple of 4, and attention" : "");
    mmix_params *p = mmix_params_create(m);
    mmix_vision *v = (mmix_vision *)mmixi_own(p, sizeof *v + c.depth * sizeof *v->block);
    if (v) {
        v->params = p; v->config = c; v->block = (mmixi_vision_block *)(v + 1); p->bf16 = start < 0;
        p->deviation = c.deviation;
        mmixi_vision_declare(v);
    }
    if (!mmixi_model_ready(m, p, start > 0)) return NULL;
    if (start > 0 && c.sincos > 0 && v->positions) mmixi_vision_sincos(v);
    return v;
}
MMIXDEF mmix_vision *mmix_vision_create(mmix_ctx *m, mmix_vision_config config)
{
    return mmixi_vision_create(m, config, 1);
}
MMIXDEF mmix_vision *mmix_vision_from(const mmix_vision *teacher, mmix_vision_config config)
{
    if (!teacher) return NULL;
    const mmix_params *from = teacher->params;
    mmix_mark mark = mmix_mark_here(from->m);
    mmix_vision *v = mmixi_vision_create(from->m, config, 1);
    const mmix_real *values = mmixi_params_merged(from);
    int bad = !v || from->m->error_kind || mmixi_mmate_reuse("mmix_vision_from", v->params, from, values, 1,
                                                 config.positions == MMIX_POSITIONS_AXIAL);
    mmix_rewind(from->m, mark);
    if (!bad) return v;
    mmix_vision_destroy(v);
    return NULL;
}
MMIXDEF void mmix_vision_destroy(mmix_vision *v) { if (v) mmix_params_destroy(v->params); }
MMIXDEF const mmix_vision_config *mmix_vision_config_of(const mmix_vision *v)
{
    return v ? &v->config : NULL;
}
MMIXDEF mmix_params *mmix_vision_params(const mmix_vision *v) { return v ? v->params : NULL; }
/* Tokens that are neither patches nor read. */
static size_t mmixi_vision_unread(const mmix_vision_config *c)
{
    return c->class_token == MMIX_CLASS_RELEASED ? 1
        : c->class_token == MMIX_CLASS_FIRST || c->class_token == MMIX_CLASS_LAST ? c->registers : 0;
}
/* Multiply-adds: each weight once a token, those of the patches once a patch, and the mixers', a token and
   channel: of softmax L twice (of windows what a token sees there), of linear attention N twice, of a scan so
   much in each direction; of Mamba 2 N P a head, token and direction (SSD's recurrence). */
MMIXDEF double mmix_vision_flops(const mmix_vision *v, size_t h, size_t w)
{
    const mmix_vision_config *c = &v->config;
    const mmix_mamba2_options *o = &v->block->mamba.options;
    const size_t *window = c->mmate.window;
    int vim = c->mixer == MMIX_SSD;
    uint64_t n = h / c->patch * (w / c->patch), N = vim ? 0 : c->dim / c->heads, sum = 0,
        L = n + mmix_vision_class_index(c, 0, NULL) + mmixi_vision_unread(c),
        cells = (window[1] ? window[1] : 16) * (window[2] ? window[2] : 16),
        sees = (cells < n ? cells : n) + L - n;
    for (size_t i = 0; i < c->depth; i++) {
        int kind = mmixi_vision_kind(c, i);
        sum += L * (vim ? 4 * o->d_inner * o->d_state : c->dim
                    * (kind == MMIX_BLOCK_SOFTMAX ? 2 * L : kind == MMIX_BLOCK_LINEAR ? 2 * N
                       : (kind == MMIX_BLOCK_SWIN ? 0 : 4 * N) + (kind == MMIX_BLOCK_FLEX ? 0 : 2 * sees)));
    }
    for (size_t i = 0; i < v->params->count; i++) {
        const mmix_tensor *t = v->params->at[i].tensor;          /* (1, …): a class token, positions */
        if (t->ndim > 1 && t->shape[0] > 1) sum += (t == v->patch_weight ? n : L) * mmix_count(t);
    }
    return 2 * (double)sum;
}

/* ---- tokens ---- */
/* Patch tokens (B, gh gw, D) as planes, (B, D, gh, gw). */
static mmix_tensor *mmixi_vision_planes(mmix_ctx *m, mmix_tensor *patches, size_t gh, size_t gw)
{
    static const int to_planes[4] = { 0, 3, 1, 2 };
    patches = mmixi_as(m, patches, 4, mmix_shape(patches, 0), gh, gw, mmix_shape(patches, 2));
    return mmix_permute(m, patches, to_planes);
}
MMIXDEF size_t mmix_vision_class_index(const mmix_vision_config *c, size_t n, size_t *at)
{
    size_t k = c->class_token != MMIX_CLASS_REGISTERS ? 1 : c->registers ? c->registers : 12;
    const size_t place[8] = { 0, n / 2, (n + 1) / 2, n / (k + 1), n + c->registers },
        S = place[c->class_token & 7];
    for (size_t i = 0; at && i < k; i++) at[i] = S + i * (S + 1);
    return k;
}
/* One forward: what was asked for, and where its tokens stand. They are made as those that nothing reads,
   class tokens and patches: `unread`, `at` and `patch` are their places, `from` the reverse. */
typedef struct mmixi_vision_run {
    const mmix_vision *v;
    const mmixi_vision_block *b;
    mmix_vision_options o;
    mmix_tensor *unread, *at, *patch, *from;
    mmix_tensor *angles, *read;                  /* of MMIX_POSITIONS_AXIAL; for mmix_vision_attention */
    size_t i, B, together, done;                 /* block; images: all; in it at once; features taken */
    int take;                                    /* 1: features of this block are taken */
    mmixi_layout layout;                         /* with MMIX_CLASS_LAST: one span, all tokens */
    mmix_tensor *x;                              /* (B, L, D), what block number i, b, reads */
    mmix_mark mark;                              /* what comes after it goes when a block ends */
    mmix_features f;
} mmixi_vision_run;
/* Stored positions of patches for a picture, (1, n, D): as they are only if it is square in pixels, too. */
static mmix_tensor *mmixi_vision_positions(mmix_ctx *m, const mmixi_vision_run *r, const mmix_tensor *image)
{
    static const int to_tokens[4] = { 0, 2, 3, 1 };
    const mmix_vision_config *c = &r->v->config;
    size_t g = c->grid, h = r->f.grid_h, w = r->f.grid_w;
    double more = c->positions == MMIX_POSITIONS_DINO ? 0.1 : 0;
    mmix_tensor *at = mmix_slice(m, r->v->positions, 1, !r->v->cls_positions, g * g);
    if (h == g && w == g && image->shape[2] == image->shape[3]) return at;
    at = mmix_resize(m, mmixi_vision_planes(m, at, g, g), c->positions == MMIX_POSITIONS_ANTIALIAS
                     ? MMIX_BICUBIC_ANTIALIAS : MMIX_BICUBIC, h, w, ((double)h + more) / (double)g,
                     ((double)w + more) / (double)g);
    return mmixi_as(m, mmix_permute(m, at, to_tokens), 3, 1, h * w, c->dim, 0);
}
/* The angles of MMIX_POSITIONS_AXIAL, (n, N/2), with zeros for tokens behind the patches. */
static mmix_tensor *mmixi_vision_angles(mmix_ctx *m, const mmix_vision_config *c, size_t gh, size_t gw,
                                        size_t behind)
{
    size_t quarter = c->dim / c->heads / 4, n = gh * gw;
    mmix_tensor *angles = mmix_fill(mmix_new2(m, n + behind, 2 * quarter), 0);
    for (size_t i = 0; angles && i < n * 2 * quarter; i++) {
        size_t t = i / quarter / 2, column = i / quarter % 2, at = column ? t % gw : t / gw;
        double c01 = ((double)at + 0.5) / (double)(column ? gw : gh),
            period = mmixi_exp(mmixi_log(100) * (double)(i % quarter) / (double)quarter);
        mmixi_of(angles)[i] = (mmix_real)(6.283185307179586 * (2 * c01 - 1) / period);
    }
    return angles;
}
/* The tokens before the first block, (B, L, D). */
static mmix_tensor *mmixi_vision_embed(mmix_ctx *m, const mmixi_vision_run *r, mmix_tensor *image)
{
    const mmix_vision *v = r->v;
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *cls = v->cls, *part[2],
        *patches = mmix_patch_embed(m, image, v->patch_weight, v->patch_bias);
    if (r->o.masked) {                           /* x + mask (token - x) */
        mmix_tensor *mask = mmixi_as(m, r->o.masked, 3, r->B, r->f.grid_h * r->f.grid_w, 1, 0);
        patches = mmix_add(m, patches, mmix_mul(m, mask, mmix_sub(m, r->o.mask_token, patches)));
    }
    if (v->positions) patches = mmix_add(m, patches, mmixi_vision_positions(m, r, image));
    patches = mmixi_keep_only(m, mark, patches);
    if (v->positions)
        cls = mmix_add(m, cls, v->cls_positions ? v->cls_positions : mmix_slice(m, v->positions, 1, 0, 1));
    int released = v->config.class_token == MMIX_CLASS_RELEASED;
    part[0] = released ? cls : v->registers; part[1] = released ? v->cls : cls;
    if (*part) part[1] = mmix_concat(m, 1, part, 2);
    part[0] = mmix_add(m, part[1], mmix_fill(mmix_new3(m, r->B, 1, 1), 0));      /* the same for each image */
    part[1] = patches;
    return mmixi_tokens_listed(m, mmix_concat(m, 1, part, 2), r->from);
}
static mmix_tensor *mmixi_vision_norm(mmix_ctx *m, const mmixi_vision_run *r, const mmixi_norm_pair *norm,
                                      mmix_tensor *x)
{
    double eps = r->v->config.eps;
    return norm->bias ? mmix_layer_norm(m, x, norm->weight, norm->bias, eps)
        : mmix_rms_norm(m, x, norm->weight, eps);
}
/* What a backbone says of images: the mean of their class tokens x (B, count, D), (B, D). */
static mmix_tensor *mmixi_vision_mean(mmix_ctx *m, mmix_tensor *x)
{
    return mmix_scale(m, mmix_sum_axis(m, x, 1), 1 / (double)mmix_shape(x, 1), 0);
}
/* ---- blocks ---- */
/* A block. in: x, and for each half s (B) or NULL: x += s γ ∘ f(norm x), which the last linear layer of f
   adds itself unless LayerScale's γ (D) stands between (Touvron et al. 2021) or f itself is asked for.
   Features are the class tokens of its output, of Mamba, which has one half, of the mixer's without the
   residual, after the final norm: the next D columns of `intermediate`. */
static mmix_tensor *mmixi_vision_layer(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    mmixi_vision_run *r = (mmixi_vision_run *)user;
    const mmixi_vision_block *b = r->b;
    size_t D = r->v->config.dim, n = mmix_shape(in[0], 0);
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *x = in[0], *u = NULL, *pair[2];
    int vim = b->mamba.heads > 0, mmate = !vim && !b->attention.heads,
        itself = vim ? !r->take : !b->gamma[0] && !(mmate && in[1]) && !r->o.mixed;    /* a layer adds to x */
    for (int half = 0; half < 2; half++) {
        mmix_tensor *onto = itself ? x : NULL, *s = itself ? in[1 + half] : NULL;
        u = mmixi_vision_norm(m, r, b->norm + half, x);
        if (half && b->swiglu.down) u = mmix_swiglu(m, &b->swiglu, u, onto, s);
        else if (half) u = mmix_mlp(m, &b->mlp, u, onto, s);
        else if (vim) u = mmix_mamba2(m, &b->mamba, u, onto, s, NULL, NULL);
        else if (mmate) {
            mmixi_layout layout = r->layout;
            layout.B = n;                        /* of so many images at a time */
            u = mmixi_mmate(m, &b->mmate, u, onto, &layout);
        }
        else {
            mmix_attention_layer attention = b->attention;
            attention.angles = r->angles;
            u = mmix_attention(m, &attention, u, onto, s, NULL, 0);
        }
        if (!half) mmixi_layer_tap(r->o.mixed, r->i, u);
        if (itself) x = u;
        else {
            mmix_tensor *more = b->gamma[half] ? mmix_mul(m, u, b->gamma[half]) : u;
            s = mmixi_as(m, in[1 + half], 3, n, 1, 1, 0);
            x = mmix_add(m, x, s ? mmix_mul(m, more, s) : more);
        }
        if (vim) break;
        u = x = half ? x : mmixi_keep_only(m, mark, x);
    }
    if (!r->take) return x;
    pair[0] = r->f.intermediate;
    pair[1] = mmixi_vision_mean(m, mmixi_vision_norm(m, r, &r->v->norm, mmixi_tokens_listed(m, u, r->at)));
    if (m->recording) r->f.intermediate = *pair ? mmix_concat(m, 1, pair, 2) : pair[1];
    else {
        u = mmix_slice(m, mmix_slice(m, *pair, 0, r->done % r->B, n), 1, r->done / r->B * D, D);
        mmix_write(u, mmixi_of(pair[1]));
        r->done += n;
    }
    return x;
}
/* ---- forward ---- */
/* Memory for what is asked for and outlasts the blocks. */
static void mmixi_vision_asked(mmix_ctx *m, const char *who, mmixi_vision_run *r, size_t L)
{
    const mmix_vision_config *c = &r->v->config;
    const mmix_vision_options *o = &r->o;
    mmix_features *f = &r->f;
    if (o->n_dense) f->dense = (mmix_tensor **)mmixi_step_array(m, o->n_dense, 1, sizeof *f->dense);
    for (size_t i = 0; i < o->n_dense && !m->error_kind; i++) {
        char name[32];
        snprintf(name, sizeof name, "dense[%d]", (int)i);
        mmixi_within(m, who, name, (double)o->dense[i], i ? (double)o->dense[i - 1] + 1 : 0,
                     (double)c->depth - 1);
        f->dense[i] = m->recording ? NULL : mmix_new4(m, r->B, c->dim, f->grid_h, f->grid_w);
    }
    if (o->n_last && !m->recording) f->intermediate = mmix_new2(m, r->B, o->n_last * c->dim);
    for (size_t i = 0; i < 2 * c->depth; i++) {
        mmix_tensor **taps = i % 2 ? o->mixed : o->outputs;
        if (taps) taps[i / 2] = m->recording ? NULL : mmix_new3(m, r->B, L, c->dim);
    }
}
/* Where L tokens stand, n of them patches, `unread` read by nothing: into r; of MMIX_CLASS_LAST as one span.
   0, or -1. */
static int mmixi_vision_places(mmix_ctx *m, const char *who, mmixi_vision_run *r, const mmix_vision_config *c,
                               size_t unread, size_t n, size_t L, mmix_tensor *image)
{
    size_t cls = L - n, *at = (size_t *)mmixi_step_array(m, cls, 1, sizeof *at);
    int last = c->class_token == MMIX_CLASS_LAST;
    mmix_tensor *place = mmix_new(m, MMIX_DTYPE_I32, 1, &L);
    r->from = mmix_new(m, MMIX_DTYPE_I32, 1, &L);
    if (unread) r->unread = mmix_slice(m, place, 0, 0, unread);
    r->at = mmix_slice(m, place, 0, unread, cls - unread);
    r->patch = mmix_slice(m, place, 0, cls, n);
    if (c->positions == MMIX_POSITIONS_AXIAL)
        r->angles = mmixi_vision_angles(m, c, r->f.grid_h, r->f.grid_w, last ? cls : 0);
    if (m->error_kind) return -1;
    for (size_t i = 0; i < unread; i++) at[i] = c->class_token == MMIX_CLASS_FIRST ? i + 1 : last ? n + i : 0;
    mmix_vision_class_index(c, n, at + unread);
    for (size_t i = 0, made = cls; i < L; i++) {
        size_t k = 0;
        while (k < cls && at[k] != i) k++;
        if (k == cls) k = made++;                /* the next patch */
        mmix_data_i32(r->from)[i] = (int32_t)k; mmix_data_i32(place)[k] = (int32_t)i;
    }
    if (!last) return 0;
    mmix_span *span = (mmix_span *)mmixi_header(m, sizeof *span);
    const mmix_layout layout = { span, 1, NULL, NULL, NULL, NULL, 0, 1, r->angles };
    if (!span) return -1;
    span->separators = cls;
    span->grid[0] = 1; span->grid[1] = r->f.grid_h; span->grid[2] = r->f.grid_w;
    return mmixi_layout_begin(m, who, &r->layout, &layout, "places:i32 L, image B3HW", place, image, NULL);
}
/* Checks and plans; x before the first block. NULL on error. */
static mmix_tensor *mmixi_vision_begin(mmix_ctx *m, const char *who, mmixi_vision_run *r,
                                       const mmix_vision *v, const mmix_vision_options *options,
                                       mmix_tensor *image)
{
    memset(r, 0, sizeof *r);
    if (!mmixi_given(m, who, "*backbone", v)) return NULL;
    r->v = v;
    if (options) r->o = *options;
    mmix_vision_config c = v->config;
    const mmix_vision_options *o = &r->o;
    mmixi_dims d;
    if (o->class_last && c.mixer != MMIX_SSD) c.class_token = MMIX_CLASS_LAST;
    if (!mmixi_expect(m, who, &d, "image B3HW", image)
        || mmixi_within(m, who, "the shorter side of a picture",
                        (double)mmixi_min(d.H, d.W), (double)c.patch, HUGE_VAL)
        || mmixi_within(m, who, "n_last", (double)o->n_last, 0, (double)c.depth)
        || (o->n_dense && !mmixi_given(m, who, "*dense", o->dense))) return NULL;
    r->B = d.B; r->f.grid_h = d.H / c.patch; r->f.grid_w = d.W / c.patch;
    size_t unread = mmixi_vision_unread(&c), n = r->f.grid_h * r->f.grid_w,
        L = unread + mmix_vision_class_index(&c, 0, NULL) + n;
    d.N = n; d.D = c.dim;
    if (o->masked) mmixi_expect(m, who, &d, "+masked BN, mask_token D", o->masked, o->mask_token);
    mmixi_vision_asked(m, who, r, L);
    if (mmixi_vision_places(m, who, r, &c, unread, n, L, image)) return NULL;
    /* about the rows the threads want; who trains, or has another linear layer, gets all images at once */
    r->together = o->train || o->mixed || o->inputs || !mmixi_infers(m) ? d.B
        : mmixi_max(1, (MMIXI_VISION_ROWS * m->lanes + L / 2) / L);
    r->mark = mmix_mark_here(m);
    return r->x = mmixi_keep_only(m, r->mark, mmixi_vision_embed(m, r, image));
}
/* r->x through the blocks before `end`; for inference on many images some go at a time, and in place. NULL on
   error. */
static mmix_tensor *mmixi_vision_blocks(mmix_ctx *m, mmixi_vision_run *r, size_t end)
{
    const mmix_vision_config *c = &r->v->config;
    const mmix_vision_options *o = &r->o;
    for (size_t i = r->i, k = 0; r->x && i < end; r->i = ++i) {
        mmixi_vision_block b = r->v->block[i];
        mmix_tensor *in[3] = { o->inputs && o->inputs[i] ? o->inputs[i] : r->x, NULL, NULL }, *x, *y;
        for (uint64_t half = 0; half < 2 && o->train && i; half++)
            in[1 + half] = mmix_drop_path(m, r->B, c->drop_path * (double)i / (double)(c->depth - 1), o->step,
                                          o->stream * 1024 + 2 * i + half);
        r->b = r->v->block + i; r->take = i + o->n_last >= c->depth;
        if (r->together < r->B) {
            r->b = &b;                           /* matrices are packed once, with the biases */
            mmixi_packed(m, &b.attention.qkv_weight, 4); mmixi_packed(m, &b.mlp.fc1_weight, 4);
            mmixi_packed(m, &b.mamba.in_proj, 2); mmixi_packed(m, &b.swiglu.gate, 3);
            x = mmixi_pieces(m, mmixi_vision_layer, r, in, r->together, r->x);
        }
        else if (r->take || o->mixed) x = mmixi_vision_layer(m, r, in);
        else x = mmixi_layer(m, mmixi_vision_layer, r, sizeof *r, in, 3);
        if (k < o->n_dense && o->dense[k] == i) {
            y = o->dense_norm ? mmixi_vision_norm(m, r, &r->v->norm, x) : x;
            y = mmixi_vision_planes(m, mmixi_tokens_listed(m, y, r->patch), r->f.grid_h, r->f.grid_w);
            mmixi_layer_tap(r->f.dense, k++, y);
        }
        r->x = mmixi_keep_only(m, r->mark, x);
        mmixi_layer_tap(o->outputs, i, r->x);
    }
    return r->x;
}
MMIXDEF mmix_features mmix_vision_forward(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image,
                                          const mmix_vision_options *options)
{
    mmixi_vision_run r;
    if (mmixi_vision_begin(m, "mmix_vision_forward", &r, v, options, image)) {
        mmix_tensor *x = mmixi_vision_blocks(m, &r, v->config.depth), *y;
        r.f.tokens = x = mmixi_vision_norm(m, &r, &v->norm, x);
        y = mmixi_tokens_listed(m, x, r.at);
        r.f.token = mmixi_vision_mean(m, y);
        if (v->config.registers) r.f.registers = v->registers ? mmixi_tokens_listed(m, x, r.unread) : y;
        r.f.patches = mmixi_tokens_listed(m, x, r.patch);
    }
    if (mmix_error(m)) memset(&r.f, 0, sizeof r.f);      /* of what could not be created it has the reason */
    return r.f;
}

/* ---- what the class token reads ---- */
/* Adds what row `row` of M (B, H, rows, L) has for the patches, over n. */
static void mmixi_vision_read(const mmixi_vision_run *r, const mmix_tensor *M, size_t rows, size_t row,
                              mmix_real n)
{
    size_t patches = mmix_count(r->patch), L = mmix_shape(M, -1);
    for (size_t i = 0; M && i < mmix_count(r->read); i++) {
        size_t column = (size_t)mmix_data_i32(r->patch)[i % patches];
        mmixi_of(r->read)[i] += mmixi_of(M)[(i / patches * rows + row) * L + column] / n;
    }
}
static void mmixi_vision_look(void *user, mmix_ctx *m, const mmix_mixer *mixer)
{
    const mmixi_vision_run *r = (const mmixi_vision_run *)user;
    size_t n = mmix_count(r->at), *rows = (size_t *)mmixi_step_array(m, n, 1, sizeof *rows);
    if (!rows) return;
    mmix_vision_class_index(&r->v->config, mmix_count(r->patch), rows);
    mmixi_vision_read(r, mmix_mix_rows(m, mixer, rows, n), 1, 0,
                      mixer->kind == MMIX_SSD ? 2 : 1);          /* the mean of two directions */
}
MMIXDEF mmix_tensor *mmix_vision_attention(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image,
                                           size_t block)
{
    mmixi_vision_run r;
    int record = mmix_record(m, 0);
    if (mmixi_vision_begin(m, "mmix_vision_attention", &r, v, NULL, image)
        && !mmixi_within(m, "mmix_vision_attention", "block", (double)block, 0,
                         (double)v->config.depth - 1)) {
        const mmixi_vision_block *b = v->block + block;
        size_t heads = b->mamba.heads ? b->mamba.heads : v->config.heads, n = mmix_count(r.at);
        mmix_look *look = m->look;
        void *user = m->look_user;
        mmix_mark mark = r.mark;
        r.together = r.B;                        /* one look sees all pictures */
        r.read = mmix_fill(mmix_new4(m, r.B, heads, r.f.grid_h, r.f.grid_w), 0);
        r.mark = mmix_mark_here(m);
        mmix_tensor *x = mmixi_vision_blocks(m, &r, block);
        if (!b->mamba.heads && !b->attention.heads) {            /* several mixers make M-MATE's M */
            x = mmixi_vision_norm(m, &r, b->norm, x);
            mmix_tensor *M = mmix_mmate_matrix(m, &b->mmate, x, &r.layout.of);
            for (size_t i = 0; i < n; i++)
                mmixi_vision_read(&r, M, mmix_shape(M, -1), (size_t)mmix_data_i32(r.at)[i], (mmix_real)n);
        }
        else {
            mmix_mix_watch(m, mmixi_vision_look, &r);
            mmixi_vision_blocks(m, &r, block + 1);
            mmix_mix_watch(m, look, user);
        }
        r.read = mmixi_keep_only(m, mark, r.read);
    }
    mmix_record(m, record);
    return mmix_error(m) ? NULL : r.read;
}

/* ==== >>decoder ======================================================================
   x = embedding[tokens], of media an MLP of their features;
   for each layer x += mixer(norm1 x), x += SwiGLU(norm2 x);   logits = classifier · norm x

   The mixer is causal attention or M-MATE. A whole sequence and the next piece of one take the same path.
   Without recording each layer's temporaries are dropped as it ends.
   ==================================================================================== */

typedef struct mmixi_decoder_layer {
    mmix_tensor *norm[2];                        /* of the mixer, of SwiGLU */
    mmix_mmate_layer mmate;                      /* of attention only `flex` */
    mmix_swiglu_layer ffn;
} mmixi_decoder_layer;

static void mmixi_decoder_declare(mmix_decoder *d)
{
    const mmix_decoder_config *c = &d->config;
    mmix_params *p = d->params;
    int mmate = c->mixer == MMIX_DECODER_MMATE;
    mmix_mmate_options o;
    mmixi_dims size;
    char at[64];
    memset(&o, 0, sizeof o);
    o.branches = MMIX_BRANCH_ATTENTION;
    if (mmate) o = c->mmate;
    size.D = c->dim; size.K = c->vocabulary;
    mmixi_declare(p, "", &size, "model.embed_tokens.weight KD normal", &d->embedding);
    if (c->media) mmix_mlp_init(&d->projector, p, "multi_modal_projector.", c->media, c->dim, c->dim);
    for (size_t i = 0; i < c->depth && !p->m->error_kind; i++) {
        mmixi_decoder_layer *l = &d->layer[i];
        char *end = at + snprintf(at, 32, "model.layers.%d.", (int)i);
        mmixi_declare(p, at, &size, "input_layernorm.weight D ones, +post_attention_layernorm.weight D ones",
                      l->norm);
        strcpy(end, mmate ? "mmate." : "self_attn.");
        mmix_mmate_init(&l->mmate, p, at, c->dim, c->heads, c->kv_heads, c->head_dim, i, c->bias, &o);
        l->mmate.rope = c->rope;
        strcpy(end, "mlp.");
        mmix_swiglu_init(&l->ffn, p, at, c->dim, c->ffn);
    }
    d->classifier = d->embedding;
    mmixi_declare(p, "", &size, "model.norm.weight D ones, lm_head.weight KD normal", &d->norm,
                  c->tied ? NULL : &d->classifier);
}
/* All numbers of a config, in the order of files. */
static const char mmixi_decoder_settings[] =
    "int mixer 0 1, size vocabulary 1, size dim 1, size depth 1 1000, size ffn 1, size heads 1, "
    "size kv_heads 1, size head_dim 1, double eps, double rope.theta, size rope.dim, int rope.interleaved, "
    "size3 rope.sections, |int bias 0 2, int tied, size media 0, int mmate.branches 0 2, "
    "int mmate.branch_gate, int mmate.directions, int mmate.shared_directions, int mmate.skip, "
    "size mmate.conv_width 0, int mmate.output_gate, int mmate.norm, size3 mmate.window, "
    "size mmate.shift_period, int mmate.causal_window, size mmate.text_window";
/* Fills in what is 0, and checks. start 0: without values, as mmixi_vision_create. */
static mmix_decoder *mmixi_decoder_create(mmix_ctx *m, mmix_decoder_config c, int start)
{
    if (mmix_error(m)) return NULL;
    mmixi_default(&c.kv_heads, c.heads);
    if (!c.head_dim && c.heads && c.dim % c.heads)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_decoder_create: dim %.0f is no multiple of the %.0f heads, "
                  "and head_dim is 0", (double)c.dim, (double)c.heads);
    if (c.heads) mmixi_default(&c.head_dim, c.dim / c.heads);
    if (!(c.eps > 0)) c.eps = 1e-5;
    if (c.rope.theta <= 0) c.rope.theta = 10000;
    if (!mmixi_settings_check(m, "mmix_decoder_create", &c, mmixi_decoder_settings))
        mmixi_rope_check(m, "mmix_decoder_create", &c.rope, c.head_dim);
    mmix_params *p = mmix_params_create(m);
    mmix_decoder *d = (mmix_decoder *)mmixi_own(p, sizeof *d + c.depth * sizeof *d->layer);
    if (d) {
        d->m = m; d->params = p; d->config = c;
        d->layer = (mmixi_decoder_layer *)(d + 1);
        mmixi_decoder_declare(d);
    }
    return mmixi_model_ready(m, p, start) ? d : NULL;
}
MMIXDEF mmix_decoder *mmix_decoder_create(mmix_ctx *m, mmix_decoder_config config)
{
    return mmixi_decoder_create(m, config, 1);
}
MMIXDEF void mmix_decoder_destroy(mmix_decoder *d) { if (d) mmix_params_destroy(d->params); }

/* ---- forward: a sequence on its way through the layers ---- */
/* x is what layer number i, l, reads. Under MMIX_RECORD_LAYERS each half of a layer keeps a copy of this. */
typedef struct mmixi_decoder_pass {
    const mmix_decoder *d;
    mmix_decoder_options o;
    mmixi_layout a;
    mmix_mark mark;                              /* what comes after it goes when a layer ends */
    size_t i;
    int half;                                    /* of the layer: 0 its mixer, 1 SwiGLU */
    const mmixi_decoder_layer *l;
    mmix_tensor *x;
} mmixi_decoder_pass;
/* The tokens' features (B, L, D): embeddings, and with media at the grid tokens an MLP of those. */
static mmix_tensor *mmixi_decoder_embed(mmix_ctx *m, const char *who, const mmixi_decoder_pass *s,
                                        const mmix_sequence *q)
{
    const mmix_decoder *d = s->d;
    size_t B = s->a.B, L = s->a.L;
    mmix_tensor *grid = s->a.list[MMIXI_KIND_GRID], *tokens = NULL, *x, *y,
        *list = s->a.list[q->media ? MMIXI_KIND_OTHER : MMIXI_KIND_ALL];
    const size_t shape[2] = { B, mmix_count(list) };
    mmixi_dims size;
    size.B = B; size.N = mmix_count(grid); size.F = d->config.media;
    if ((q->media && !mmixi_given(m, who, "config.media, spans of media", size.F, size.N))
        || !mmixi_expect(m, who, &size, "+media? BNF", q->media)) return NULL;
    if (list) tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; i < mmix_count(tokens); i++) {
        size_t b = i / shape[1], t = (size_t)mmix_data_i32(list)[i % shape[1]];
        int32_t token = mmix_data_i32(tokens)[i] = mmixi_index(q->tokens, b * L + t);
        if (token < 0 || (size_t)token >= d->config.vocabulary)
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: token %.0f of sequence %.0f is %d, expected 0 to %.0f",
                      who, (double)t, (double)b, (int)token, (double)d->config.vocabulary - 1);
    }
    x = list ? mmix_gather(m, d->embedding, tokens) : NULL;
    if (!q->media) return x;
    y = mmix_fill(mmix_new3(m, B, L, d->config.dim), 0);
    if (x) y = mmix_add_rows(m, y, x, list);
    return mmix_add_rows(m, y, mmix_mlp(m, &d->projector, q->media, NULL, NULL), grid);
}
/* Half a layer, x += f(norm x). */
static mmix_tensor *mmixi_decoder_half(mmix_ctx *m, const void *user, mmix_tensor **x)
{
    const mmixi_decoder_pass *s = (const mmixi_decoder_pass *)user;
    mmix_tensor *u = mmix_rms_norm(m, *x, s->l->norm[s->half], s->d->config.eps);
    if (s->half) return mmix_swiglu(m, &s->l->ffn, u, *x, NULL);
    mmixi_layer_tap(s->o.normed, s->i, u);
    return mmixi_mmate(m, &s->l->mmate, u, s->o.mixed ? NULL : *x, &s->a);
}
/* x through the layers before `end`. NULL on error. */
static mmix_tensor *mmixi_decoder_layers(mmix_ctx *m, const char *who, mmixi_decoder_pass *s, size_t end)
{
    const mmix_decoder_options *o = &s->o;
    for (; s->i < end && s->x; s->i++, s->l++) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_tensor *x = o->inputs && o->inputs[s->i] ? o->inputs[s->i] : s->x, *y;
        if (x != s->x && !mmixi_expect(m, who, NULL, "x ..., inputs ~", s->x, x)) return NULL;
        s->a.of.slot = 2 * s->i; s->half = 0;
        if (o->normed) y = mmixi_decoder_half(m, s, &x);
        else y = mmixi_layer(m, mmixi_decoder_half, s, sizeof *s, &x, 1);
        mmixi_layer_tap(o->mixed, s->i, y);
        if (o->mixed) y = mmix_add(m, x, y);
        y = mmixi_keep_only(m, mark, y); s->half = 1;
        s->x = mmixi_keep_only(m, s->mark, mmixi_layer(m, mmixi_decoder_half, s, sizeof *s, &y, 1));
        mmixi_layer_tap(o->outputs, s->i, s->x);
    }
    return s->x;
}
/* Checks a sequence and brings it before layer `end`; with `state` it goes on from there. NULL on error. */
static mmix_tensor *mmixi_decoder_run(mmix_ctx *m, const char *who, mmixi_decoder_pass *s,
                                      const mmix_decoder *d, const mmix_sequence *q,
                                      const mmix_decoder_options *options, mmix_state *state, size_t end)
{
    size_t next = 0;
    memset(s, 0, sizeof *s);
    if (!mmixi_given(m, who, "*decoder, *sequence", d, q)) return NULL;
    const mmix_layout layout = { q->spans, q->n_spans, NULL, NULL, NULL, state, 0, 0, NULL };
    s->d = d; s->l = d->layer;
    if (options) s->o = *options;
    if (mmixi_layout_begin(m, who, &s->a, &layout, "tokens:i32 BL", q->tokens, NULL,
                           !d->config.rope.sections[0] ? NULL
                           : state ? &state->slot[2 * d->config.depth].tokens : &next)) return NULL;
    mmix_tensor **taps[3] = { s->o.mixed, s->o.outputs, s->o.normed };
    for (size_t i = 0; i < 3 * d->config.depth; i++)
        if (taps[i % 3])
            taps[i % 3][i / 3] = m->recording ? NULL : mmix_new3(m, s->a.B, s->a.L, d->config.dim);
    s->mark = mmix_mark_here(m); s->x = mmixi_decoder_embed(m, who, s, q);
    return mmixi_decoder_layers(m, who, s, mmixi_min(end, d->config.depth));
}
MMIXDEF mmix_tensor *mmix_decoder_forward(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                          const mmix_decoder_options *options)
{
    mmixi_decoder_pass s;
    mmix_tensor *x = mmixi_decoder_run(m, "mmix_decoder_forward", &s, d, sequence, options, NULL, SIZE_MAX);
    return x ? mmix_rms_norm(m, x, d->norm, d->config.eps) : NULL;
}
MMIXDEF mmix_tensor *mmix_decoder_logits(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *hidden)
{
    return mmixi_given(m, "mmix_decoder_logits", "*decoder", d) ? mmix_linear(m, hidden, d->classifier, NULL)
        : NULL;
}
MMIXDEF mmix_tensor *mmix_decoder_matrix(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                         size_t layer)
{
    mmixi_decoder_pass s;
    if (!mmixi_given(m, "mmix_decoder_matrix", "*decoder", d)
        || mmixi_within(m, "mmix_decoder_matrix", "layer", (double)layer, 0, (double)d->config.depth - 1))
        return NULL;
    int record = mmix_record(m, 0);
    mmix_tensor *M = NULL,
        *x = mmixi_decoder_run(m, "mmix_decoder_matrix", &s, d, sequence, NULL, NULL, layer);
    if (x) M = mmix_mmate_matrix(m, &s.l->mmate, mmix_rms_norm(m, x, *s.l->norm, d->config.eps), &s.a.of);
    mmix_record(m, record);
    return M;
}

/* ---- one piece after another ---- */
/* Slots: of layer i 2i and 2i + 1; then two whose `tokens` are the next rotary position and, from the first
   step on, whose state it is. */
MMIXDEF mmix_state *mmix_decoder_state_create(const mmix_decoder *d)
{
    return d ? mmix_state_create(d->m, 2 * d->config.depth + 2) : NULL;
}
MMIXDEF mmix_tensor *mmix_decoder_step(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *piece,
                                       mmix_state *state)
{
    mmixi_decoder_pass s;
    if (!mmixi_given(m, "mmix_decoder_step", "*decoder, *state", d, state)) return NULL;
    size_t self = (size_t)(uintptr_t)d, *owner = &state->slot[state->slots - 1].tokens;
    if (state->m != m || state->slots != 2 * d->config.depth + 2 || (*owner && *owner != self))
        return mmixi_none(mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_decoder_step: expected a state of this "
                                    "decoder and its context, found another"));
    *owner = self;
    mmix_mark mark = mmix_mark_here(m);
    int record = mmix_record(m, 0);
    mmix_tensor *x = mmixi_decoder_run(m, "mmix_decoder_step", &s, d, piece, NULL, state, SIZE_MAX);
    x = mmixi_flat(m, mmix_slice(m, x, 1, s.a.L - 1, 1));
    x = mmix_rms_norm(m, x, d->norm, d->config.eps);
    x = mmixi_keep_only(m, mark, mmix_decoder_logits(m, d, x));
    mmix_record(m, record);
    return x;
}

/* ---- drawing the next token ---- */
/* A number that belongs to another. */
typedef struct mmixi_scored { double score, label; } mmixi_scored;
static mmixi_scored *mmixi_scored_sort(mmixi_scored *a, mmixi_scored *b, size_t n);   /* with the metrics */
MMIXDEF int32_t mmix_sample(mmix_ctx *m, const mmix_real *logits, size_t K, const mmix_sampling *sampling,
                            uint64_t place)
{
    mmix_mark mark = mmix_mark_here(m);
    mmixi_scored *all;
    size_t best = 0, n = K;
    double sum = 0, u;
    if (!mmixi_given(m, "mmix_sample", "*logits, K", logits, K)) return 0;
    for (size_t k = 1; k < K && logits[best] == logits[best]; k++)     /* to the first that is not a number */
        if (!(logits[k] <= logits[best])) best = k;
    if (!(logits[best] > -(mmix_real)INFINITY))          /* -infinity excludes a token, but not all */
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_sample: the logits are not finite: that of token %.0f "
                         "of %.0f is %s (sequence %.0f, place %.0f)", (double)best, (double)K,
                         logits[best] != logits[best] ? "not a number" : "-infinity, as all are",
                         (double)(place >> 32), (double)(place & UINT32_MAX)), 0;
    if (!sampling || !(sampling->temperature > 0) || logits[best] > FLT_MAX
        || (all = (mmixi_scored *)mmixi_step_array(m, K, 2, sizeof *all)) == NULL) return (int32_t)best;
    for (size_t k = 0; k < K; k++) {
        all[k].label = (double)k;
        sum += all[k].score = mmixi_exp((double)(logits[k] - logits[best]) / sampling->temperature);
    }
    double share = sampling->top_p > 0 && sampling->top_p < 1 ? sampling->top_p : 1;
    if (sampling->top_k && sampling->top_k < K) n = sampling->top_k;
    if (n < K || share < 1) {
        all = mmixi_scored_sort(all, all + K, K);        /* of equal ones the lower number first */
        if (n < K) {
            sum = 0;
            for (size_t k = 0; k < n; k++) sum += all[k].score;
        }
        double enough = share * sum;
        if (share < 1) for (n = 0, sum = 0; sum < enough; n++) sum += all[n].score;
    }
    u = mmix_random_uniform(m, MMIXI_RANDOM_SAMPLE, sampling->stream, place) * sum;
    for (size_t k = 0; k < n && u >= 0; u -= all[k++].score) best = (size_t)all[k].label;
    mmix_rewind(m, mark);
    return (int32_t)best;
}
MMIXDEF size_t mmix_decoder_continue(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                     const mmix_sampling *sampling, int32_t *tokens, size_t count)
{
    int32_t stop = sampling ? sampling->stop : 0;
    mmixi_dims size;
    if (!mmixi_given(m, "mmix_decoder_continue", "*decoder, *sequence, *tokens", d, sequence,
                           count ? (void *)tokens : &size)
        || !mmixi_expect(m, "mmix_decoder_continue", &size, "tokens:i32 BL", sequence->tokens)) return 0;
    const size_t shape[2] = { size.B, 1 };
    size_t made = 0, unfinished = size.B;
    mmix_state *s = mmix_decoder_state_create(d);
    mmix_sequence last = { mmix_new(m, MMIX_DTYPE_I32, 2, shape), NULL, 0, NULL };
    mmix_mark mark = mmix_mark_here(m);
    for (size_t i = 0; i < size.B * count; i++) tokens[i] = stop;
    for (; s && unfinished && made < count; made++) {
        const mmix_tensor *logits = mmix_decoder_step(m, d, made ? &last : sequence, s);
        unfinished = 0;
        for (size_t b = 0, K = mmix_shape(logits, 1); logits && b < size.B; b++) {
            int32_t *token = mmix_data_i32(last.tokens) + b;
            if (!stop || !made || *token != stop)
                *token = mmix_sample(m, mmixi_of(logits) + b * K, K, sampling,
                                     (uint64_t)b << 32 | mmix_state_tokens(s, 0));
            tokens[b * count + made] = *token;
            unfinished += !stop || *token != stop;
        }
        mmix_rewind(m, mark);
    }
    mmix_state_destroy(s);
    return m->error_kind ? 0 : made;
}

/* ---- attention in, M-MATE out ---- */
MMIXDEF mmix_decoder *mmix_linmu_from(const mmix_decoder *teacher, const mmix_mmate_options *options)
{
    if (!teacher) return NULL;
    mmix_ctx *m = teacher->m;
    mmix_decoder_config c = teacher->config;
    if (c.mixer != MMIX_DECODER_ATTENTION)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_linmu_from: expected a decoder with attention, found M-MATE");
    c.mixer = MMIX_DECODER_MMATE; if (options) c.mmate = *options;
    mmix_mark mark = mmix_mark_here(m);
    const mmix_real *values = mmixi_params_merged(teacher->params);
    mmix_decoder *d = mmix_decoder_create(m, c); /* of the teacher's sizes */
    if (d) mmixi_mmate_reuse("mmix_linmu_from", d->params, teacher->params, values, 0, 0);
    mmix_rewind(m, mark);
    return d;
}
/* Scales the columns of each head in o[1]: what it makes of y[1] gets the size of what o[0] makes of y[0]. */
static void mmixi_calibrate(mmix_ctx *m, mmix_tensor *const o[2], mmix_tensor *const y[2], size_t heads)
{
    size_t D = mmix_shape(o[1], 1), P = D / heads;
    for (size_t at = 0; at < D && !m->error_kind; at += P) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_tensor *columns = NULL, *u;
        double square[2], share;
        for (int i = 0; i < 2; i++) {
            columns = mmix_slice(m, o[i], 1, at, P);
            u = mmix_linear(m, mmix_slice(m, y[i], 2, at, P), columns, NULL);
            square[i] = mmix_item(mmix_sum(m, mmix_mul(m, u, u)));
        }
        share = sqrt(square[0] / square[1]);
        u = share > 0 && share <= FLT_MAX ? mmix_scale(m, columns, share, 0) : NULL;
        if (u) mmix_write(columns, mmixi_of(u));
        mmix_rewind(m, mark);
    }
}
MMIXDEF int mmix_linmu_calibrate(mmix_decoder *student, const mmix_decoder *teacher,
                                 const mmix_sequence *sequence)
{
    mmix_ctx *m = student ? student->m : NULL;
    mmixi_decoder_pass s;
    if (!m || !teacher || m->error_kind) return -1;
    const mmix_decoder_config *c = &student->config, *t = &teacher->config;
    if (teacher->m != m || t->mixer != MMIX_DECODER_ATTENTION || c->mixer != MMIX_DECODER_MMATE
        || t->depth != c->depth || t->heads != c->heads || t->head_dim != c->head_dim)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_linmu_calibrate: expected an M-MATE decoder with its "
                         "teacher's sizes");
    if (c->mmate.branches == MMIX_BRANCH_SWIN) return 0;
    mmix_mark mark = mmix_mark_here(m);
    int record = mmix_record(m, 0);
    mmix_tensor *x = mmixi_decoder_run(m, "mmix_linmu_calibrate", &s, teacher, sequence, NULL, NULL, 0);
    for (; x && s.i < c->depth; x = mmixi_decoder_layers(m, "mmix_linmu_calibrate", &s, s.i + 1)) {
        mmix_mark layer = mmix_mark_here(m);
        const mmix_mmate_layer *of[2] = { &s.l->mmate, &student->layer[s.i].mmate };
        mmix_tensor *u = mmix_rms_norm(m, x, *s.l->norm, t->eps), *o[2], *y[2];
        for (int i = 0; i < 2; i++)
            o[i] = of[i]->flex.weight[MMIXI_O], y[i] = mmixi_flex_heads(m, of[i], u, &s.a);
        mmixi_calibrate(m, o, y, c->heads);
        mmix_rewind(m, layer);
    }
    mmix_record(m, record);
    mmix_rewind(m, mark);
    return m->error_kind ? -1 : 0;
}

/* ==== >>dino =========================================================================
   self-distillation: a student learns from all crops what a slow average of itself says of two

   One step: (1) the teacher runs on the 2 global crops, the student on all; the loss uses the old
   centre; (2) the new centre; (3) gradients, clipped tensor by tensor; (4) while epoch <
   freeze_last_layer the prototypes are left out; (5) AdamW; (6) teacher = m teacher + (1 - m)
   student. Caron et al. 2021, algorithm 1. iBOT adds to (1) what the teacher says of patches that
   the student does not see.

   (1) to (3) run on slices of the batch, one after another, for no picture's loss depends on
   another picture: only one slice's crops and activations are in memory, and they stay in the
   caches. A batch of any size is a sum over slices, and a sum over processes if it is cut into
   shards.
   ==================================================================================== */

/* A slice has about so many tokens: products of so many rows run at full speed. */
enum { MMIXI_DINO_TOKENS = MMIXI_SIZE(1536, 1) };
/* A run has collapsed after so many steps in a row that look like it. */
enum { MMIXI_COLLAPSE_STEPS = 50 };
/* What a shard brings beside its gradients: four sums, and from MMIXI_DINO_CENTER on its part of
   the next centres. */
enum { MMIXI_DINO_LOSS, MMIXI_DINO_ENTROPY, MMIXI_DINO_KL, MMIXI_DINO_PATCHES, MMIXI_DINO_CENTER };

typedef struct mmixi_dino_net {                  /* a backbone and its head */
    mmix_vision *vision;
    mmix_params *params;                         /* the head's */
    mmix_dino_head head;
    mmix_tensor *mask_token;                     /* of iBOT */
} mmixi_dino_net;
struct mmix_dino {
    mmix_ctx *m;
    mmix_dino_config config;
    mmixi_dino_net net[2];                       /* the student's, the teacher's */
    mmix_adamw_state adamw[2];                   /* the student's backbone, its head */
    mmix_real *center;
    unsigned char *skip;                         /* of the head's parameters: 1 for last_layer */
    uint64_t step, iters;                        /* the counters of files, in this order */
    uint64_t at_uniform, at_zero;                /* steps in a row: loss at ln K, entropy at 0 */
    char *note;
    size_t shard;                                /* this process's, if `sum` adds up all */
    mmix_sum_function *sum;
    void *sum_user;
};

MMIXDEF mmix_dino_config mmix_dino_default(void)
{
    mmix_dino_config c;
    memset(&c, 0, sizeof c);
    c.vision = mmix_vit(384, 16);
    c.head_hidden = 2048;
    c.head_bottleneck = 256;
    c.prototypes = 65536;
    c.head_layers = 3;
    c.augment = mmix_augment_dino();
    c.batch = 256;
    c.epochs = 100;
    c.lr = 5e-4;
    c.min_lr = 1e-6;
    c.warmup_epochs = 10;
    c.weight_decay = 0.04;
    c.weight_decay_end = 0.4;
    c.clip = 3;
    c.freeze_last_layer = 1;
    c.momentum = 0.996;
    c.center_momentum = 0.9;
    c.student_temp = 0.1;
    c.teacher_temp = 0.04;
    c.teacher_temp_warm = 0.04;
    c.read = MMIX_READ_TOKEN;
    c.shards = 1;
    c.mask_chance = 0.5;                         /* of iBOT, whose patch_weight is 0: off */
    c.mask_part[0] = 0.1;
    c.mask_part[1] = 0.5;
    return c;
}
MMIXDEF mmix_dino_config mmix_dino_small_data(void)
{
    mmix_dino_config c = mmix_dino_default();
    c.vision = mmixi_vision_base(MMIX_SOFTMAX, 128, 4, 4, 8);
    c.vision.grid = 8;
    c.vision.drop_path = 0;
    c.vision.deviation = 0.05;                   /* 1/√(3 · 128) */
    c.vision.sincos = 0.3;
    c.head_hidden = 512;
    c.head_bottleneck = 128;
    c.prototypes = 1024;
    c.augment.global_size = 64;
    c.augment.local_size = 32;
    c.augment.local_count = 4;
    c.batch = 48;
    c.lr = 1e-3 * 256 / 48;
    c.momentum = 0.99;
    /* At 0.04 the centred teacher stays nearly uniform for hundreds of steps: too long for a short
       run. */
    c.teacher_temp = 0.02;
    c.teacher_temp_warm = 0.02;
    return c;
}

/* All numbers of a config behind the backbone's. The crops' are checked where crops are made; 3e38
   is what a float holds. */
static const char mmixi_dino_settings[] =
    "size head_hidden 0, size head_bottleneck 1, size prototypes 2, size head_layers 1 8, "
    "|size augment.global_size, size augment.local_size, size augment.local_count, "
    "double2 augment.global_scale, double2 augment.local_scale, double2 augment.aspect, "
    "double augment.flip, double augment.jitter, double augment.grey, double3 augment.blur, "
    "double3 augment.solarise, double augment.brightness, double augment.contrast, "
    "double augment.saturation, double augment.hue, double2 augment.sigma, double3 augment.mean, "
    "double3 augment.deviation, size batch 1, size epochs 1, "
    "size iters 0, double lr 0 3e38, double min_lr 0 3e38, size warmup_epochs 0, "
    "double weight_decay 0 3e38, double weight_decay_end 0 3e38, double clip -3e38 3e38, "
    "size freeze_last_layer 0, double momentum 0 1, double center_momentum 0 1, "
    "double student_temp 1e-9 1e9, double teacher_temp 1e-9 1e9, "
    "double teacher_temp_warm 1e-9 1e9, size teacher_temp_epochs 0, Int teacher_drop_path, "
    "halves2 seed 0 4294967295, Int read 0 2, Size shards 0 65536, Double patch_weight 0 3e38, "
    "Double mask_chance 0 1, Double2 mask_part 0 1";

/* ---- a run ---- */

MMIXDEF void mmix_dino_destroy(mmix_dino *d)
{
    if (!d) return;
    for (int i = 2; i-- > 0;) {
        mmix_adamw_free(&d->adamw[i]);
        mmix_vision_destroy(d->net[i].vision);
        mmix_params_destroy(d->net[i].params);
    }
    mmixi_free(d->m, d, sizeof *d);
}
static int mmixi_dino_has_ibot(const mmix_dino_config *c) { return c->patch_weight > 0; }
/* Numbers of all centres: the tokens', and with iBOT the patches' behind it. */
static size_t mmixi_dino_centers(const mmix_dino_config *c)
{
    return mmixi_dino_has_ibot(c) ? 2 * c->prototypes : c->prototypes;
}
/* Makes what a run has beside its networks, when these have values. 0, or not 0 on error. */
static int mmixi_dino_begin(mmix_dino *d)
{
    mmix_params *head = d->net[0].params;
    size_t centers = mmixi_dino_centers(&d->config);
    d->center = (mmix_real *)mmixi_own(head, centers * sizeof *d->center);
    d->skip = (unsigned char *)mmixi_own(head, head->count);
    if (d->skip) d->skip[head->count - 1] = 1;           /* last_layer.weight_v */
    if (mmix_adamw_init(&d->adamw[0], d->net[0].vision->params))
        return -1;
    return mmix_adamw_init(&d->adamw[1], head);
}
/* One network as the config says, with values if `start`. 0, or -1. */
static int mmixi_dino_net_make(const mmix_dino *d, mmixi_dino_net *net, int start)
{
    const mmix_dino_config *c = &d->config;
    mmix_ctx *m = d->m;
    size_t width = c->read == MMIX_READ_BOTH ? 2 * c->vision.dim : c->vision.dim;
    mmixi_dims size;
    size.D = c->vision.dim;
    net->vision = mmixi_vision_create(m, c->vision, start);
    net->params = mmix_params_create(m);
    if (m->error_kind) return -1;
    net->params->deviation = c->vision.deviation;
    if (mmixi_dino_has_ibot(c))
        mmixi_declare(net->params, "", &size, "mask_token D zeros", &net->mask_token);
    if (mmix_dino_head_init(&net->head, net->params, "", width, c->head_hidden, c->head_bottleneck,
                            c->prototypes, c->head_layers)) return -1;
    net->params->at[net->params->count - 2].frozen = 1;          /* last_layer.weight_g */
    if (start) mmix_params_allocate(net->params);
    return m->error_kind ? -1 : 0;
}
/* The config's numbers. 0, or -1. */
static int mmixi_dino_check(mmix_ctx *m, const mmix_dino_config *c)
{
    static const char who[] = "mmix_dino_create";
    if (mmixi_settings_check(m, who, &c->head_hidden, mmixi_dino_settings))
        return -1;
    if (c->head_layers == 1) return 0;           /* nothing lies between the layers */
    return mmixi_settings_check(m, who, &c->head_hidden, "size head_hidden 1");
}
/* Networks as the config says; start 0: without values, as mmixi_vision_create, for a file that
   brings them. Returns whether that failed. */
static int mmixi_dino_make(mmix_dino *d, int start)
{
    mmix_ctx *m = d->m;
    uint64_t seed = m->seed;
    int failed = m->error_kind || mmixi_dino_check(m, &d->config);
    d->iters = d->config.iters;
    m->seed = d->config.seed;                    /* whatever came before in this context */
    for (int i = 0; i < 2 && !failed; i++)
        failed = mmixi_dino_net_make(d, &d->net[i], start);
    m->seed = seed;
    if (!start && m->error_kind == MMIX_ERROR_ARGUMENT) m->error_kind = MMIX_ERROR_FILE;
    if (m->error_kind) return 1;
    return start && mmixi_dino_begin(d);
}
MMIXDEF mmix_dino *mmix_dino_create(mmix_ctx *m, mmix_dino_config config)
{
    mmix_dino *d = (mmix_dino *)mmixi_zeroed(m, sizeof *d);
    if (!d) return NULL;
    d->m = m;
    d->config = config;
    if (!mmixi_dino_make(d, 1)) return d;
    mmix_dino_destroy(d);
    return NULL;
}
MMIXDEF mmix_vision *mmix_dino_backbone(mmix_dino *d, int teacher)
{
    return d ? d->net[teacher != 0].vision : NULL;
}
MMIXDEF mmix_params *mmix_dino_head_params(mmix_dino *d, int teacher)
{
    return d ? d->net[teacher != 0].params : NULL;
}
MMIXDEF mmix_real *mmix_dino_center(mmix_dino *d)
{
    return d ? d->center : NULL;
}
MMIXDEF const mmix_dino_config *mmix_dino_config_of(const mmix_dino *d)
{
    return d ? &d->config : NULL;
}
MMIXDEF const char *mmix_dino_note(const mmix_dino *d)
{
    if (!d) return NULL;
    return d->note ? d->note : "";
}

/* ---- crops ---- */

/* A batch: the caller's crops, or pictures in an order, which are cut slice by slice. */
typedef struct mmixi_dino_batch {
    mmix_tensor *crops[2];                       /* global, local */
    const mmix_picture *pictures;                /* NULL: there are crops */
    const size_t *order;
    size_t B, pixels;                            /* pictures; pixels of all crops of one */
} mmixi_dino_batch;
/* Cuts the crops of pictures at … at + n - 1. 0, or -1. */
static int mmixi_dino_cut(const mmix_dino *d, const mmixi_dino_batch *b, size_t at, size_t n,
                          mmix_tensor *crops[2])
{
    const mmix_augment *a = &d->config.augment;
    mmix_ctx *m = d->m;
    crops[0] = mmix_new4(m, 2 * n, 3, a->global_size, a->global_size);
    crops[1] = NULL;
    if (a->local_count)
        crops[1] = mmix_new4(m, a->local_count * n, 3, a->local_size, a->local_size);
    return mmix_augment_batch(m, a, b->pictures, b->order, at, n, d->step, crops[0], crops[1]);
}
/* Crops of pictures at … at + n - 1, crop after crop. 0, or -1. */
static int mmixi_dino_crops(const mmix_dino *d, const mmixi_dino_batch *b, size_t at, size_t n,
                            mmix_tensor *crops[2])
{
    mmix_ctx *m = d->m;
    if (b->pictures)
        return mmixi_dino_cut(d, b, at, n, crops);
    for (int i = 0; i < 2; i++) {
        crops[i] = NULL;
        if (!b->crops[i]) continue;
        const size_t *shape = b->crops[i]->shape;
        size_t views = shape[0] / b->B;          /* crops of a picture */
        mmix_tensor *x = mmixi_as(m, b->crops[i], 4, views, 3 * b->B, shape[2], shape[3]);
        x = mmix_slice(m, x, 1, 3 * at, 3 * n);
        crops[i] = mmixi_as(m, x, 4, views * n, 3, shape[2], shape[3]);
    }
    return m->error_kind ? -1 : 0;
}

/* ---- what iBOT hides ---- */

typedef struct mmixi_dino_mask {
    mmix_tensor *masked;                         /* (global crops, patches): 1 if hidden, else 0 */
    size_t count;                                /* of hidden patches */
    mmix_tensor *at;                             /* (count): their places among all patches */
    /* (count): 1 over how many are hidden in the patch's crop, and over the number of crops. */
    mmix_tensor *weight;
} mmixi_dino_mask;
static double mmixi_dino_draw(const mmix_dino *d, uint64_t crop, uint64_t i)
{
    return mmix_random_uniform(d->m, MMIXI_RANDOM_MASK, d->step, crop << 20 | i);
}
/* One try to hide a rectangle of patches of which at most `left` are not hidden yet; `draw` numbers
   its four random numbers. Returns how many more it hides, 0 if it does not fit. */
static size_t mmixi_dino_hide_more(const mmix_dino *d, uint64_t crop, uint64_t draw, size_t left,
                                   size_t gh, size_t gw, mmix_real *mask)
{
    double side = (double)(mmixi_min(gh, gw) / 3);
    double area = fmin(side * side, (double)left);
    double ratio = mmixi_exp((2 * mmixi_dino_draw(d, crop, draw) - 1) * mmixi_log(0.3));
    area += ((double)left - area) * mmixi_dino_draw(d, crop, draw + 1);
    size_t h = (size_t)rint(sqrt(area * ratio)), w = (size_t)rint(sqrt(area / ratio)), more = 0;
    if (h == 0 || w == 0 || h >= gh || w >= gw)
        return 0;
    size_t y = (size_t)(mmixi_dino_draw(d, crop, draw + 2) * (double)(gh - h + 1));
    size_t x = (size_t)(mmixi_dino_draw(d, crop, draw + 3) * (double)(gw - w + 1));
    mmix_real *corner = mask + y * gw + x;
    for (size_t k = 0; k < h * w; k++)
        more += corner[k / w * gw + k % w] == 0;
    if (more > left) return 0;
    for (size_t k = 0; more > 0 && k < h * w; k++)
        corner[k / w * gw + k % w] = 1;
    return more;
}
/* Hides patches of a crop of gh x gw in rectangles, until ten tries in a row find no room for
   another (Bao et al. 2022, algorithm 1, with the least area of iBOT's code). Returns how many. */
static size_t mmixi_dino_hide(const mmix_dino *d, uint64_t crop, size_t gh, size_t gw,
                              mmix_real *mask)
{
    const double *part = d->config.mask_part;
    if (mmixi_dino_draw(d, crop, 0) >= d->config.mask_chance)
        return 0;
    double wanted = part[0] + (part[1] - part[0]) * mmixi_dino_draw(d, crop, 1);
    size_t count = (size_t)(wanted * (double)(gh * gw)), left = count;
    int misses = 0;
    for (uint64_t draw = 4; left > 0 && misses < 10; draw += 4) {
        size_t more = mmixi_dino_hide_more(d, crop, draw, left, gh, gw, mask);
        left -= more;
        misses = more ? 0 : misses + 1;
    }
    return count - left;
}
/* What iBOT hides of the pictures at … at + n - 1. 0, or -1. */
static int mmixi_dino_masks(const mmix_dino *d, const mmixi_dino_batch *b, size_t at, size_t n,
                            const mmix_tensor *global, mmixi_dino_mask *mask)
{
    mmix_ctx *m = d->m;
    memset(mask, 0, sizeof *mask);
    if (!mmixi_dino_has_ibot(&d->config)) return 0;
    size_t gh = global->shape[2] / d->config.vision.patch;
    size_t gw = global->shape[3] / d->config.vision.patch;
    size_t patches = gh * gw, all = 2 * n * patches;
    mask->masked = mmix_fill(mmix_new2(m, 2 * n, patches), 0);
    mask->at = mmix_new(m, MMIX_DTYPE_I32, 1, &all);
    mask->weight = mmix_new1(m, all);
    if (m->error_kind) return -1;
    for (size_t i = 0; i < 2 * n; i++) {
        mmix_real *row = mmixi_of(mask->masked) + i * patches;
        size_t crop = i / n * b->B + at + i % n;         /* its number in the whole batch */
        size_t hidden = mmixi_dino_hide(d, crop, gh, gw, row);
        for (size_t k = 0; k < patches; k++) {
            if (row[k] == 0) continue;
            mmix_data_i32(mask->at)[mask->count] = (int32_t)(i * patches + k);
            mmixi_of(mask->weight)[mask->count] = (mmix_real)(1 / (double)(2 * n * hidden));
            mask->count++;
        }
    }
    if (mask->count > 0) {
        mask->at = mmix_slice(m, mask->at, 0, 0, mask->count);
        mask->weight = mmix_slice(m, mask->weight, 0, 0, mask->count);
    }
    return m->error_kind ? -1 : 0;
}

/* ---- both networks on a slice ---- */

/* What a head reads of a picture: its token, the mean of its patches, or both. */
static mmix_tensor *mmixi_dino_read_picture(const mmix_dino *d, const mmix_features *f)
{
    mmix_tensor *both[2] = { f->token, NULL };
    if (d->config.read != MMIX_READ_TOKEN)
        both[1] = mmixi_vision_mean(d->m, f->patches);
    if (d->config.read == MMIX_READ_BOTH)
        return mmix_concat(d->m, 1, both, 2);
    return both[d->config.read];
}
/* What it reads of the patches that iBOT hides: each patch stands for token and mean. */
static mmix_tensor *mmixi_dino_read_patches(const mmix_dino *d, const mmix_features *f,
                                            const mmixi_dino_mask *mask)
{
    mmix_tensor *hidden = mmix_gather(d->m, mmixi_flat(d->m, f->patches), mask->at);
    mmix_tensor *both[2] = { hidden, hidden };
    if (d->config.read == MMIX_READ_BOTH)
        return mmix_concat(d->m, 1, both, 2);
    return hidden;
}
/* What a network says of the first `kinds` kinds of crops, global and local, and then of the
   patches in the mask, seen in the global ones. */
static mmix_tensor *mmixi_dino_forward(const mmix_dino *d, const mmixi_dino_net *net,
                                       mmix_tensor *const crops[2], size_t kinds,
                                       const mmixi_dino_mask *mask, mmix_vision_options *options)
{
    mmix_ctx *m = d->m;
    mmix_tensor *x[3];
    size_t count = kinds;
    for (size_t i = 0; i < kinds; i++) {
        mmix_features f = mmix_vision_forward(m, net->vision, crops[i], options);
        x[i] = mmixi_dino_read_picture(d, &f);
        if (i == 0 && mask->count > 0) {
            x[kinds] = mmixi_dino_read_patches(d, &f, mask);
            count = kinds + 1;
        }
        options->masked = NULL;                  /* nothing is hidden in the local crops */
        options->stream++;
    }
    return mmix_dino_head_forward(m, &net->head, mmix_concat(m, 0, x, count));
}
/* Streams of drop path's random numbers: a slice's are numbered by its first picture, and the
   teacher's are apart from the student's. */
static mmix_tensor *mmixi_dino_teach(const mmix_dino *d, mmix_tensor *const crops[2],
                                     const mmixi_dino_mask *mask, size_t at)
{
    mmix_vision_options o;
    memset(&o, 0, sizeof o);
    o.train = d->config.teacher_drop_path;
    o.step = d->step;
    o.stream = 2 * at + ((uint64_t)1 << 20);
    return mmixi_dino_forward(d, &d->net[1], crops, 1, mask, &o);
}
static mmix_tensor *mmixi_dino_study(const mmix_dino *d, mmix_tensor *const crops[2],
                                     const mmixi_dino_mask *mask, size_t at)
{
    mmix_vision_options o;
    memset(&o, 0, sizeof o);
    o.train = 1;
    o.step = d->step;
    o.stream = 2 * at;
    o.masked = mask->masked;
    o.mask_token = d->net[0].mask_token;
    return mmixi_dino_forward(d, &d->net[0], crops, crops[1] ? 2 : 1, mask, &o);
}

/* ---- gradients of a batch ---- */

/* A shard of a batch while its slices run. */
typedef struct mmixi_dino_shard {
    const mmix_dino *d;
    const mmixi_dino_batch *batch;
    double teacher_temp;
    int record;                                  /* the state of recording while the student runs */
    double *sum;                                 /* (MMIXI_DINO_CENTER + K), over the slices */
    mmix_real *center;                           /* (K): as one slice alone would move it */
} mmixi_dino_shard;
/* The loss of a slice, of which `part` is the share in the batch. Adds all but the centres to the
   sums. */
static mmix_tensor *mmixi_dino_slice_loss(const mmixi_dino_shard *j, mmix_tensor *student,
                                          mmix_tensor *teacher, const mmixi_dino_mask *mask,
                                          size_t pictures, double part)
{
    const mmix_dino_config *c = &j->d->config;
    mmix_ctx *m = j->d->m;
    size_t global = 2 * pictures, views = mmix_shape(student, 0) - mask->count;
    mmix_dino_loss_stats of;
    mmix_tensor *said = mmix_slice(m, student, 0, 0, views);
    mmix_tensor *target = mmix_slice(m, teacher, 0, 0, global);
    mmix_tensor *loss = mmix_dino_loss(m, said, target, j->center, views / pictures,
                                       c->student_temp, j->teacher_temp, c->center_momentum, &of);
    if (!loss) return NULL;
    j->sum[MMIXI_DINO_LOSS] += part * mmix_item(loss);
    j->sum[MMIXI_DINO_ENTROPY] += part * of.teacher_entropy;
    j->sum[MMIXI_DINO_KL] += part * of.teacher_kl_uniform;
    if (mask->count == 0) return loss;
    said = mmix_slice(m, student, 0, views, mask->count);
    target = mmix_slice(m, teacher, 0, global, mask->count);
    mmix_tensor *patches = mmix_ibot_loss(m, said, target, mask->weight, j->center + c->prototypes,
                                          c->student_temp, j->teacher_temp, c->center_momentum,
                                          NULL);
    j->sum[MMIXI_DINO_PATCHES] += part * mmix_item(patches);
    return mmix_add(m, loss, mmix_scale(m, patches, c->patch_weight, 0));
}
/* Gradients and sums of pictures at … at + pictures - 1 of the batch. 0, or -1. */
static int mmixi_dino_slice(const mmixi_dino_shard *j, size_t at, size_t pictures)
{
    const mmix_dino *d = j->d;
    mmix_ctx *m = d->m;
    size_t K = mmixi_dino_centers(&d->config);
    double part = (double)pictures / (double)j->batch->B;
    mmix_mark all = mmix_mark_here(m);
    mmixi_dino_mask mask;
    mmix_tensor *crops[2];
    if (mmixi_dino_crops(d, j->batch, at, pictures, crops))
        return -1;
    if (mmixi_dino_masks(d, j->batch, at, pictures, crops[0], &mask))
        return -1;

    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *teacher = mmixi_keep_only(m, mark, mmixi_dino_teach(d, crops, &mask, at));
    memcpy(j->center, d->center, K * sizeof *d->center);         /* each slice uses the old one */
    mmix_record(m, j->record);
    mmix_tensor *student = mmixi_dino_study(d, crops, &mask, at);
    mmix_tensor *loss = NULL;
    if (!m->error_kind)
        loss = mmixi_dino_slice_loss(j, student, teacher, &mask, pictures, part);
    loss = mmix_scale(m, loss, part, 0);
    mmix_record(m, 0);
    if (!loss || mmix_backward(m, loss)) return -1;
    for (size_t k = 0; k < K; k++)
        j->sum[MMIXI_DINO_CENTER + k] += part * j->center[k];
    mmix_rewind(m, all);
    return 0;
}
/* (1) to (3) for one shard, slice by slice. What it brings beside its gradients goes to `share`, or
   with `add` is added to what is there. */
static void mmixi_dino_shard_run(const mmix_dino *d, const mmixi_dino_batch *b, size_t shard,
                                 double teacher_temp, mmix_real *share, int add)
{
    const mmix_dino_config *c = &d->config;
    mmix_ctx *m = d->m;
    size_t K = mmixi_dino_centers(c), n = MMIXI_DINO_CENTER + K, begin;
    size_t pictures = mmixi_span(b->B, shard, mmixi_max(1, c->shards), &begin);
    size_t tokens = b->pixels / (c->vision.patch * c->vision.patch);
    size_t fit = mmixi_ceil_div(MMIXI_DINO_TOKENS, mmixi_max(1, tokens));
    size_t slices = mmixi_ceil_div(pictures, fit);
    mmixi_dino_shard j;
    j.d = d;
    j.batch = b;
    j.teacher_temp = teacher_temp;
    j.sum = mmixi_doubles(m, n, 1);
    j.center = mmixi_reals(m, K, 1);
    if (m->error_kind) return;
    memset(j.sum, 0, n * sizeof *j.sum);
    int record = mmix_record(m, 0);
    j.record = record ? record : 1;
    for (size_t i = 0; i < slices; i++) {
        size_t at, count = mmixi_span(pictures, i, slices, &at);
        if (mmixi_dino_slice(&j, begin + at, count)) break;
    }
    mmix_record(m, record);
    if (m->error_kind) return;
    for (size_t k = 0; k < n; k++) {
        mmix_real sum = (mmix_real)j.sum[k];
        share[k] = add ? share[k] + sum : sum;
    }
}
/* Copies every gradient that there is to x, one behind the other, or adds it to what is there.
   Returns where they end in x. */
static mmix_real *mmixi_dino_pack(const mmix_dino *d, mmix_real *x, int add)
{
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < d->adamw[i].params->count; k++) {
            mmix_tensor *t = d->adamw[i].params->at[k].tensor;
            if (!t->written) continue;
            mmixi_grad_here(t);
            mmixi_put(d->m->k, mmix_count(t), t->grad, x, add);
            x += mmix_count(t);
        }
    return x;
}
/* The way back. */
static void mmixi_dino_unpack(const mmix_dino *d, const mmix_real *x)
{
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < d->adamw[i].params->count; k++) {
            mmix_tensor *t = d->adamw[i].params->at[k].tensor;
            if (!t->written) continue;
            mmixi_grad_here(t);
            mmixi_put(d->m->k, mmix_count(t), x, t->grad, 0);
            x += mmix_count(t);
        }
}
/* What the batch's shares say, added up. */
static void mmixi_dino_report(const mmix_dino *d, const mmix_real *share, mmix_dino_stats *s)
{
    const mmix_real *center = share + MMIXI_DINO_CENTER;
    double square = 0;
    for (size_t k = 0; k < d->config.prototypes; k++)
        square += (double)center[k] * center[k];
    s->center_norm = sqrt(square);
    s->loss = share[MMIXI_DINO_LOSS];
    s->teacher_entropy = share[MMIXI_DINO_ENTROPY];
    s->teacher_kl_uniform = share[MMIXI_DINO_KL];
    s->patch_loss = share[MMIXI_DINO_PATCHES];
}
/* Gradients of the whole batch: shard after shard, or of this process's shard, to which `sum` adds
   those of the others. Returns the next centres, or NULL on error. If there is something to add,
   the gradients stand behind the share in one array; one shard alone leaves them where they are. */
static const mmix_real *mmixi_dino_gradients(const mmix_dino *d, const mmixi_dino_batch *b,
                                             mmix_dino_stats *s)
{
    const mmix_dino_config *c = &d->config;
    mmix_ctx *m = d->m;
    size_t n = MMIXI_DINO_CENTER + mmixi_dino_centers(c), shards = mmixi_max(1, c->shards);
    size_t begin = 0, end = shards, room = n;
    int adds = shards > 1 || d->sum;
    double temp = c->teacher_temp;
    temp = mmix_schedule_cosine(temp, temp, 0, 1, c->teacher_temp_epochs, c->teacher_temp_warm,
                                s->epoch);
    if (d->sum) {
        begin = d->shard;
        end = d->shard + 1;
    }
    for (int i = 0; adds && i < 2; i++)
        room += d->adamw[i].params->elements;
    mmix_real *share = mmixi_reals(m, room, 1), *packed = NULL;
    for (size_t shard = begin; shard < end && !m->error_kind; shard++) {
        mmixi_adamw_zero(d->adamw, 2);
        mmixi_dino_shard_run(d, b, shard, temp, share, shard > begin);
        if (adds && !m->error_kind)
            packed = mmixi_dino_pack(d, share + n, shard > begin);
    }
    if (m->error_kind) return NULL;
    if (d->sum && d->sum(d->sum_user, share, (size_t)(packed - share)))
        mmix_fail(m, MMIX_ERROR_INTERRUPTED,
                  "mmix_dino_step: the sum over %.0f shards failed; the run stands where it stood",
                  (double)shards);
    if (m->error_kind) return NULL;
    if (adds) mmixi_dino_unpack(d, share + n);
    mmixi_dino_report(d, share, s);
    return share + MMIXI_DINO_CENTER;
}
MMIXDEF int mmix_dino_share(mmix_dino *d, size_t shard, mmix_sum_function *sum, void *user)
{
    if (!d || d->m->error_kind) return -1;
    size_t shards = mmixi_max(1, d->config.shards);
    if (mmixi_within(d->m, "mmix_dino_share", "shard", (double)shard, 0, (double)shards - 1))
        return -1;
    d->shard = shard;
    d->sum = sum;
    d->sum_user = user;
    return 0;
}

/* ---- a step ---- */

/* The schedules at this step: into stats, and as options of AdamW. */
static mmix_adamw mmixi_dino_schedules(const mmix_dino *d, mmix_dino_stats *s)
{
    const mmix_dino_config *c = &d->config;
    mmix_adamw adamw = mmix_adamw_default();
    double lr = c->lr * (double)c->batch / 256;
    s->lr = mmix_schedule_cosine(lr, c->min_lr, c->epochs, d->iters, c->warmup_epochs, 0, d->step);
    s->weight_decay = mmix_schedule_cosine(c->weight_decay, c->weight_decay_end, c->epochs,
                                           d->iters, 0, 0, d->step);
    s->momentum = mmix_schedule_cosine(c->momentum, 1, c->epochs, d->iters, 0, 0, d->step);
    adamw.lr = s->lr;
    adamw.weight_decay = s->weight_decay;
    return adamw;
}
/* Counts the steps in a row that look like a collapse. Returns NULL, or says which one it is. */
static const char *mmixi_dino_collapse(mmix_dino *d, const mmix_dino_stats *s)
{
    double uniform = mmixi_log((double)d->config.prototypes);
    int is_uniform = s->loss > 0.99 * uniform && s->teacher_entropy > 0.99 * uniform;
    int is_zero = s->teacher_entropy < 0.001 * uniform;
    d->at_uniform = is_uniform ? d->at_uniform + 1 : 0;
    d->at_zero = is_zero ? d->at_zero + 1 : 0;
    if (d->at_uniform >= MMIXI_COLLAPSE_STEPS)
        return "collapsed: the loss is stuck at ln K and the teacher's output is uniform";
    if (d->at_zero >= MMIXI_COLLAPSE_STEPS)
        return "collapsed: the teacher's entropy is 0, it gives every picture to one prototype";
    return NULL;
}
/* A step on a batch. 1: go on, 0: the epochs are over and nothing was done, -1: error. */
static int mmixi_dino_step(mmix_dino *d, const mmixi_dino_batch *b, mmix_dino_stats *stats)
{
    static const char who[] = "mmix_dino_step";
    const mmix_dino_config *c = &d->config;
    mmix_ctx *m = d->m;
    mmix_dino_stats unused, *s = stats ? stats : &unused;
    uint64_t seed = m->seed;
    memset(s, 0, sizeof *s);
    s->step = d->step;
    s->steps = c->epochs * d->iters;
    s->epoch = d->step / d->iters;
    if (s->step >= s->steps) return 0;
    if (mmixi_within(m, who, "config.shards", (double)c->shards, 0, (double)b->B))
        return -1;
    m->seed = c->seed;
    const mmix_real *center = mmixi_dino_gradients(d, b, s);
    m->seed = seed;
    if (!mmixi_is_finite(s->loss))
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "%s: the loss of step %.0f is not a number; a lower lr may help",
                  who, (double)d->step);
    mmix_adamw adamw = mmixi_dino_schedules(d, s);
    const unsigned char *skip = s->epoch < c->freeze_last_layer ? d->skip : NULL;
    s->gradient_norm = mmixi_adamw_lists(m, d->adamw, 2, &adamw, 1, c->clip, skip);
    mmixi_adamw_zero(d->adamw, 2);
    if (m->error_kind) return -1;                /* a step that fails leaves the run as it was */
    memcpy(d->center, center, mmixi_dino_centers(c) * sizeof *center);
    mmix_ema(d->net[1].vision->params, d->net[0].vision->params, s->momentum);
    mmix_ema(d->net[1].params, d->net[0].params, s->momentum);
    s->collapse = mmixi_dino_collapse(d, s);
    d->step++;
    return 1;
}
MMIXDEF int mmix_dino_step_crops(mmix_dino *d, mmix_tensor *global, mmix_tensor *local,
                                 mmix_dino_stats *stats)
{
    static const char who[] = "mmix_dino_step_crops";
    mmixi_dino_batch b;
    mmixi_dims k;
    if (!d) return -1;
    mmix_ctx *m = d->m;
    if (!mmixi_given(m, who, "config.iters", (size_t)d->iters))
        return -1;
    if (!mmixi_expect(m, who, &k, "global G3HW, local? L3YX", global, local))
        return -1;
    memset(&b, 0, sizeof b);
    b.crops[0] = global;
    b.crops[1] = local;
    b.B = k.G / 2;
    if (k.G % 2 || k.L % b.B)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %.0f global and %.0f local crops", who,
                         (double)k.G, (double)k.L);
    b.pixels = (mmix_count(global) + mmix_count(local)) / (3 * b.B);
    return mmixi_dino_step(d, &b, stats);
}
/* Brings numbers into an order that is drawn anew for each epoch: Fisher & Yates. */
static void mmixi_shuffle(const mmix_ctx *m, size_t *order, size_t n, uint64_t epoch)
{
    for (size_t i = n; i-- > 1;) {
        double u = mmix_random_uniform(m, MMIXI_RANDOM_EPOCH, epoch, i);
        size_t other = (size_t)(u * (double)(i + 1)), swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
}
MMIXDEF int mmix_dino_step(mmix_dino *d, const mmix_picture *pictures, size_t count,
                           mmix_dino_stats *stats)
{
    if (!d) return -1;
    mmix_ctx *m = d->m;
    mmix_reset(m);
    if (!mmixi_given(m, "mmix_dino_step", "*pictures, count", pictures, count))
        return -1;
    const mmix_augment *a = &d->config.augment;
    size_t B = d->config.batch;
    size_t global = a->global_size * a->global_size, local = a->local_size * a->local_size;
    size_t *order = (size_t *)mmixi_step_array(m, count + B, 1, sizeof *order);
    uint64_t seed = m->seed, iters = d->iters;
    if (!order) return -1;
    if (d->iters == 0)
        d->iters = mmixi_max(1, count / B);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    m->seed = d->config.seed;
    mmixi_shuffle(m, order, count, d->step / d->iters);
    m->seed = seed;
    for (size_t i = 0; i < B; i++)
        order[count + i] = order[i];             /* behind the last come the first again */
    mmixi_dino_batch b;
    memset(&b, 0, sizeof b);
    b.pictures = pictures;
    b.order = order + d->step % d->iters * B % count;
    b.B = B;
    b.pixels = 2 * global + a->local_count * local;
    int result = mmixi_dino_step(d, &b, stats);
    if (result < 0) d->iters = iters;
    return result;
}

/* ==== >>distillation =================================================================
   a student with M-MATE learns in stages what its teacher with attention says

       loss = λ_hidden L_hid + λ_token L_tok + λ_sequence L_seq + λ_supervised L_sup

   L_hid compares what the layers of student and teacher make, L_tok their logits at the answers;
   L_seq and L_sup are cross-entropies on the teacher's answers and on the true ones (arXiv
   2601.01322, section 3.2).

   One call runs the teacher without recording and then the student on the same tokens. Logits are
   computed at the answer positions alone. A call's gradients are weighted by its number of answer
   tokens, so that batches of any size add up to the gradient of one large batch (L_hid nearly: it
   is relative to the mean square of its own batch), and the optimiser makes a step when enough
   tokens have come. Each stage freezes what it does not train and begins with moments of 0.
   ==================================================================================== */

/* What the stages of both recipes share; the losses' weights are 0. */
static mmix_stage mmixi_stage_of(int train, double lr, double min_lr, size_t warmup)
{
    mmix_stage stage;
    memset(&stage, 0, sizeof stage);
    stage.train = train;
    stage.temperature = 1;
    stage.steps = 300;
    stage.warmup = warmup;
    stage.lr = lr;
    stage.min_lr = min_lr;
    stage.weight_decay = 0.01;
    stage.clip = 1;
    return stage;
}
MMIXDEF mmix_distill_config mmix_linmu_stages(void)
{
    const int both = MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN;
    mmix_distill_config c;
    memset(&c, 0, sizeof c);
    c.stages = 3;

    c.stage[0] = mmixi_stage_of(MMIX_TRAIN_FLEX, 1e-3, 1e-5, 10);
    c.stage[0].hidden = 1;
    c.stage[0].token = 1;

    c.stage[1] = mmixi_stage_of(both, 1e-3, 1e-5, 10);
    c.stage[1].hidden = 1;
    c.stage[1].token = 1;

    c.stage[2] = mmixi_stage_of(both | MMIX_TRAIN_LORA, 5e-4, 1e-5, 10);
    c.stage[2].token = 1;
    c.stage[2].sequence = 1;
    c.stage[2].supervised = 1;

    c.lora_rank = 8;
    c.lora_alpha = 16;
    c.lora_targets = MMIX_LORA_FFN;
    c.calibrate = 1;
    return c;
}
MMIXDEF mmix_distill_config mmix_vision_stages(void)
{
    const int mixers = MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN;
    mmix_distill_config c;
    memset(&c, 0, sizeof c);
    c.stages = 3;

    c.stage[0] = mmixi_stage_of(mixers, 1e-3, 1e-5, 10);
    c.stage[0].hidden = 1;
    c.stage[0].teacher_inputs = 1;

    c.stage[1] = mmixi_stage_of(mixers, 1e-4, 1e-6, 50);
    c.stage[1].hidden = 1;
    c.stage[1].hidden_outputs = 1;

    c.stage[2] = mmixi_stage_of(mixers | MMIX_TRAIN_REST, 3e-6, 1e-7, 50);
    c.stage[2].token = 1;
    c.stage[2].patches = 1;

    c.calibrate = 1;
    return c;
}
/* All numbers of a stage, and of the rest of a run's config, in the order of files. */
static const char mmixi_stage_settings[] =
    "int train 1 15, double hidden 0 1e308, double token 0 1e308, double sequence 0 1e308, "
    "double supervised 0 1e308, double temperature 1e-307 1e308, size steps, size warmup, "
    "double lr 1e-307 1e308, double min_lr 0 1e308, double weight_decay 0 1e308, "
    "double clip 0 1e308, Double patches 0 1e308, Int hidden_outputs, Int teacher_inputs";
static const char mmixi_distill_settings[] =
    "size stages 1 8, size step_tokens, size lora_rank, double lora_alpha, int lora_targets, "
    "int calibrate, int hidden_outputs, int teacher_inputs";

/* ---- what a stage trains ---- */

/* The MMIX_TRAIN_… flags that a stage needs, all of them, to train the parameter of this name,
   which is of the form blocks.0.attn.…; v is the backbone, or NULL for a decoder. */
static int mmixi_param_needs(const char *name, const mmix_vision *v)
{
    if (strstr(name, ".lora_")) return MMIX_TRAIN_LORA;
    if (strstr(name, ".mmate.flex.")) return MMIX_TRAIN_FLEX;
    if (strstr(name, ".mmate.swin.")) return MMIX_TRAIN_SWIN;
    if (strstr(name, ".mmate."))                 /* the gate between the two */
        return MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN;
    if (v && strstr(name, ".attn.")) {
        int kind = mmixi_vision_kind(&v->config, mmixi_name_block(name));
        if (kind == MMIX_BLOCK_LINEAR) return MMIX_TRAIN_FLEX;
    }
    return MMIX_TRAIN_REST;
}
static int mmixi_param_trains(int train, const char *name, const mmix_vision *v)
{
    int needs = mmixi_param_needs(name, v);
    return (train & needs) == needs;
}
/* Whether any parameter of a list, which may be NULL, belongs to what trains. */
static int mmixi_stage_trains(int train, const mmix_params *p, const mmix_vision *v)
{
    for (size_t k = 0; p && k < p->count; k++)
        if (mmixi_param_trains(train, p->at[k].name, v))
            return 1;
    return 0;
}
/* Freezes what does not belong to it, and nothing else. */
static void mmixi_stage_freeze(int train, mmix_params *p, const mmix_vision *v)
{
    for (size_t k = 0; p && k < p->count; k++)
        p->at[k].frozen = !mmixi_param_trains(train, p->at[k].name, v);
}
/* Gives the student LoRA's adapters if `train` has them and there are none yet. 0, or -1. */
static int mmixi_distill_adapt(mmix_distill *run, int train)
{
    mmix_distill_config *c = &run->config;
    mmix_params *model = run->params;
    if ((train & MMIX_TRAIN_LORA) && !model->adapters
        && mmix_params_lora(model, c->lora_rank, c->lora_alpha, c->lora_targets)) return -1;
    if (!model->adapters) return 0;
    /* They may be the caller's, with sizes of their own: a saved run has to say what they are. */
    c->lora_rank = model->lora.rank;
    c->lora_alpha = model->lora.alpha;
    c->lora_targets = model->lora.targets;
    return 0;
}
/* Begins the run's stage, or the next one that has steps: freezes the rest and sets moments to 0.
   When all stages are over nothing is frozen and there are no moments. 0, or -1. */
static int mmixi_distill_begin(mmix_distill *run)
{
    const mmix_distill_config *c = &run->config;
    while (run->stage < c->stages && c->stage[run->stage].steps == 0)
        run->stage++;
    int over = run->stage >= c->stages;
    int train = over ? ~0 : c->stage[run->stage].train;
    if (mmixi_distill_adapt(run, over ? 0 : train)) return -1;
    mmix_params *list[2] = { run->params, run->params->adapters };
    for (int i = 0; i < 2; i++) {
        mmix_adamw_free(&run->adamw[i]);
        mmix_params_train(list[i], 0);
        mmixi_stage_freeze(train, list[i], run->vision_student);
        if (over || !mmixi_stage_trains(train, list[i], run->vision_student))
            continue;
        if (mmix_adamw_init(&run->adamw[i], list[i]))
            return -1;
    }
    return 0;
}

/* ---- a run ---- */

/* Whether a stage finds something to train: in the student, or in the adapters that it will have.
   */
static int mmixi_stage_has(const mmix_distill *run, const mmix_stage *stage)
{
    const mmix_distill_config *c = &run->config;
    if (!(stage->train & MMIX_TRAIN_LORA))
        return mmixi_stage_trains(stage->train, run->params, run->vision_student);
    if (run->params->adapters) return 1;
    return c->lora_rank > 0 && (c->lora_targets & (MMIX_LORA_FFN | MMIX_LORA_MIXER)) != 0;
}
/* Stage number i of a run that is about to be made. 0, or -1. */
static int mmixi_stage_check(const char *who, const mmix_distill *run, size_t i)
{
    mmix_ctx *m = run->m;
    const mmix_distill_config *c = &run->config;
    const mmix_stage *s = &c->stage[i];
    char name[64];
    snprintf(name, sizeof name, "%s: stage %d", who, (int)i);
    if (mmixi_settings_check(m, name, s, mmixi_stage_settings)) return -1;
    double own = run->vision_student ? s->patches : s->sequence + s->supervised;
    if (mmixi_within(m, name, "the sum of the losses' weights", s->hidden + (s->token + own),
                     DBL_MIN, DBL_MAX)) return -1;
    if (s->steps == 0 || mmixi_stage_has(run, s)) return 0;
    return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                     "%s: expected that it trains something that the student "
                     "has, found train %d, and LoRA of rank %.0f at targets %d", name, s->train,
                     (double)c->lora_rank, c->lora_targets);
}
/* What a run's student and config have to be, whatever the models are. 0, or -1. */
static int mmixi_distill_check(const char *who, const mmix_distill *run)
{
    mmix_ctx *m = run->m;
    int own_teacher = run->student == run->teacher;
    if (run->vision_student) own_teacher = run->vision_student == run->vision_teacher;
    if (run->params->in_run)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a student that is in no other run",
                         who);
    if (own_teacher)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "%s: expected a student that is another model than its "
                         "teacher", who);
    if (mmixi_settings_check(m, who, &run->config.stages, mmixi_distill_settings))
        return -1;
    for (size_t i = 0; i < run->config.stages; i++)
        if (mmixi_stage_check(who, run, i)) return -1;
    return 0;
}
/* A run in its first stage, of a draft that holds context, config, both models and the student's
   parameters. NULL on error, and after one. */
static mmix_distill *mmixi_distill_new(const char *who, const mmix_distill *draft)
{
    if (draft->m->error_kind || mmixi_distill_check(who, draft)) return NULL;
    mmix_distill *run = (mmix_distill *)mmixi_zeroed(draft->m, sizeof *run);
    if (!run) return NULL;
    *run = *draft;
    run->params->in_run = 1;
    if (mmixi_distill_begin(run)) {
        mmix_distill_destroy(run);
        return NULL;
    }
    return run;
}
MMIXDEF mmix_distill *mmix_distill_create(const mmix_decoder *teacher, mmix_decoder *student,
                                          mmix_distill_config config)
{
    static const char who[] = "mmix_distill_create";
    mmix_distill draft;
    mmixi_dims d;
    if (!teacher || !student || student->m->error_kind) return NULL;
    mmix_ctx *m = student->m;
    const mmix_decoder_config *t = &teacher->config, *s = &student->config;
    if (teacher->m != m || t->depth != s->depth || t->media != s->media) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "%s: expected a student of its teacher's context, depth and "
                  "media, found %.0f and %.0f for %.0f and %.0f", who, (double)s->depth,
                  (double)s->media, (double)t->depth, (double)t->media);
        return NULL;
    }
    if (!mmixi_expect(m, who, &d, "teacher.embedding KD, student.embedding KD", teacher->embedding,
                      student->embedding)) return NULL;
    memset(&draft, 0, sizeof draft);
    draft.m = m;
    draft.config = config;
    draft.teacher = teacher;
    draft.student = student;
    draft.params = student->params;
    return mmixi_distill_new(who, &draft);
}
/* Whether mmix_vision_from may have made the student of this teacher with attention. 1, or 0 with a
   message, or without one if either is NULL. */
static int mmixi_vision_alike(const char *who, const mmix_vision *teacher,
                              const mmix_vision *student)
{
    if (!teacher || !student || student->params->m->error_kind) return 0;
    mmix_ctx *m = student->params->m;
    const mmix_vision_config *t = &teacher->config, *s = &student->config;
    int same_sizes = t->depth == s->depth && t->dim == s->dim && t->heads == s->heads
        && t->patch == s->patch && t->registers == s->registers;
    int scans = t->mixer == MMIX_SSD || s->mixer == MMIX_SSD;
    if (teacher->params->m == m && same_sizes && !scans) return 1;
    mmix_fail(m, MMIX_ERROR_ARGUMENT,
              "%s: expected a student as mmix_vision_from makes it of a teacher "
              "with attention, of its context", who);
    return 0;
}
MMIXDEF mmix_distill *mmix_vision_distill_create(const mmix_vision *teacher, mmix_vision *student,
                                                 mmix_distill_config config)
{
    static const char who[] = "mmix_vision_distill_create";
    mmix_distill draft;
    if (!mmixi_vision_alike(who, teacher, student)) return NULL;
    memset(&draft, 0, sizeof draft);
    draft.m = student->params->m;
    draft.config = config;
    draft.vision_teacher = teacher;
    draft.vision_student = student;
    draft.params = student->params;
    return mmixi_distill_new(who, &draft);
}
MMIXDEF void mmix_distill_destroy(mmix_distill *run)
{
    if (!run) return;
    run->params->in_run = 0;
    run->stage = run->config.stages;             /* over: all parameters may train again */
    mmixi_distill_begin(run);
    mmixi_free(run->m, run, sizeof *run);
}

/* ---- answers ---- */

/* The answers to a sequence (B, L): of each the row among B·L, rising, and the token wanted after
   it. */
typedef struct mmixi_answers {
    mmix_sequence input;
    mmix_tensor *rows, *wanted;                  /* (1, n) int32 */
} mmixi_answers;
/* Finds the answers in target (B, L): its tokens that are not negative, at least one, each in the
   decoder's vocabulary. `name` is what the message calls the target. 0, or -1. */
static int mmixi_answers_find(const mmix_decoder *d, const char *who, const char *name,
                              const mmix_sequence *input, const mmix_tensor *target,
                              mmixi_answers *a)
{
    mmix_ctx *m = d->m;
    size_t L = target->shape[1], count = 0;
    const size_t shape[2] = { 1, mmix_count(target) };
    a->input = *input;
    a->rows = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    a->wanted = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; !m->error_kind && i < shape[1]; i++) {
        int32_t token = mmixi_index(target, i);
        if (token < 0) continue;
        if ((size_t)token >= d->config.vocabulary)
            mmix_fail(m, MMIX_ERROR_ARGUMENT,
                      "%s: %s of position %.0f of sequence %.0f is %d, expected at "
                      "most %.0f", who, name, (double)(i % L), (double)(i / L), (int)token,
                      (double)d->config.vocabulary - 1);
        mmix_data_i32(a->rows)[count] = (int32_t)i;
        mmix_data_i32(a->wanted)[count] = token;
        count++;
    }
    if (m->error_kind) return -1;
    if (count == 0)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: no answer: every %s is negative", who, name);
    a->rows->shape[1] = count;
    a->wanted->shape[1] = count;
    return 0;
}
/* Row number k of answers, among B·L. */
static size_t mmixi_answer_row(const mmixi_answers *a, size_t k)
{
    return (uint32_t)mmix_data_i32(a->rows)[k];
}

/* Neighbouring sequences whose answers begin at one place. The teacher decodes them together. */
typedef struct mmixi_answer_group {
    size_t begin, end;                           /* answers begin … end - 1 of the list */
    size_t first, count;                         /* sequences first … first + count - 1 */
    size_t from;                                 /* the position of the first answer in each */
    size_t longest;                              /* answers of the sequence that has most */
} mmixi_answer_group;
/* The group that begins with answer g->begin. 0, or -1 if the answers of a sequence are not one
   run. */
static int mmixi_answers_group(mmix_ctx *m, const char *who, const mmixi_answers *a,
                               mmixi_answer_group *g)
{
    size_t L = a->input.tokens->shape[1], answers = mmix_count(a->rows);
    g->end = g->begin;
    g->first = mmixi_answer_row(a, g->begin) / L;
    g->from = mmixi_answer_row(a, g->begin) % L;
    g->count = 0;
    g->longest = 0;
    while (g->end < answers && mmixi_answer_row(a, g->end) == (g->first + g->count) * L + g->from) {
        size_t sequence = g->first + g->count, start = g->end;
        while (g->end < answers && mmixi_answer_row(a, g->end) / L == sequence)
            g->end++;
        size_t length = g->end - start, last = mmixi_answer_row(a, g->end - 1) % L;
        if (last != g->from + length - 1)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "%s: row %.0f has %.0f targets at %.0f to %.0f; where the teacher "
                             "is to decode, an answer is one run behind all spans",
                             who, (double)sequence, (double)length, (double)g->from, (double)last);
        g->longest = mmixi_max(g->longest, length);
        g->count++;
    }
    return 0;
}
/* The teacher's answers to a group: into made->wanted, and as input where an answer is not the last
   token. 0, or -1. */
static int mmixi_distill_decode_group(const mmix_decoder *teacher, const char *who,
                                      const mmixi_answer_group *g, mmixi_answers *made)
{
    mmix_ctx *m = teacher->m;
    const mmix_sequence *input = &made->input;
    size_t L = input->tokens->shape[1];
    mmix_sequence asked = *input;                /* up to the token before the first answer */
    if (!mmixi_spans_check(m, who, input->spans, input->n_spans, g->from + 1))
        return -1;
    asked.tokens = mmix_slice(m, input->tokens, 0, g->first, g->count);
    asked.tokens = mmix_slice(m, asked.tokens, 1, 0, g->from + 1);
    if (input->media)
        asked.media = mmix_slice(m, input->media, 0, g->first, g->count);
    int32_t *said = (int32_t *)mmixi_step_array(m, g->count, g->longest, sizeof *said);
    if (!mmix_decoder_continue(m, teacher, &asked, NULL, said, g->longest))
        return -1;
    for (size_t k = g->begin; k < g->end; k++) {
        size_t row = mmixi_answer_row(made, k), sequence = row / L, position = row % L;
        int32_t token = said[(sequence - g->first) * g->longest + position - g->from];
        mmix_data_i32(made->wanted)[k] = token;
        if (position + 1 < L)
            mmix_data_i32(input->tokens)[row + 1] = token;
    }
    return 0;
}
/* The teacher's own answers in place of those in a, decoded greedily. 0, or -1. */
static int mmixi_distill_decode(const mmix_decoder *teacher, const char *who,
                                const mmixi_answers *a, mmixi_answers *made)
{
    mmix_ctx *m = teacher->m;
    const mmix_tensor *given = a->input.tokens;
    *made = *a;
    made->input.tokens = mmix_new(m, MMIX_DTYPE_I32, 2, given->shape);
    made->wanted = mmix_new(m, MMIX_DTYPE_I32, 2, a->rows->shape);
    if (m->error_kind) return -1;
    for (size_t i = 0; i < mmix_count(given); i++)
        mmix_data_i32(made->input.tokens)[i] = mmixi_index(given, i);
    mmixi_answer_group group;
    group.begin = 0;
    while (group.begin < mmix_count(a->rows)) {
        mmix_mark mark = mmix_mark_here(m);
        if (mmixi_answers_group(m, who, a, &group)) return -1;
        if (mmixi_distill_decode_group(teacher, who, &group, made)) return -1;
        mmix_rewind(m, mark);
        group.begin = group.end;
    }
    return m->error_kind ? -1 : 0;
}

/* ---- losses ---- */

/* Whether the student reads the same before all answers in q as in their own sequence. In each row
   only the tokens up to the last answer matter. */
static int mmixi_same_until(const mmixi_answers *a, const mmix_sequence *q)
{
    const mmix_sequence *own = &a->input;
    size_t L = own->tokens->shape[1], i = 0;
    if (own->media != q->media || own->spans != q->spans || own->n_spans != q->n_spans)
        return 0;
    if (q->tokens->shape[1] != L) return 0;
    for (size_t k = 0; k < mmix_count(a->rows); k++) {
        size_t answer = mmixi_answer_row(a, k);
        for (; i <= answer; i++) {
            int matters = i / L == answer / L;   /* the next answer may be of a later row */
            if (matters && mmixi_index(own->tokens, i) != mmixi_index(q->tokens, i))
                return 0;
        }
    }
    return 1;
}
/* Logits (1, n, K) at the answers, of tokens x (B, L, D). */
static mmix_tensor *mmixi_answer_logits(const mmix_decoder *d, mmix_tensor *x,
                                        const mmixi_answers *a)
{
    return mmix_decoder_logits(d->m, d, mmix_gather(d->m, mmixi_flat(d->m, x), a->rows));
}

/* A call on one batch. It computes the losses whose λ is above 0; a call that does not learn
   computes the others, too, but for L_seq, which needs the teacher's answers. */
typedef struct mmixi_lesson {
    mmix_distill *run;
    const mmix_stage *stage;
    mmix_distill_stats *stats;
    const char *who;
    const mmix_distill_batch *batch;             /* of decoders */
    mmix_tensor *images;                         /* of backbones */
    int learn, calibrate;                        /* calibrate: before anything else */
    int record;                                  /* the state of recording while the student runs */
    /* Places for a tensor a layer: what the mixers and the layers of both networks make, and what
       the student's layers read in place of the layer before (its first place stays NULL: the
       embedding, as usual). NULL where nobody asks. */
    size_t depth;
    mmix_tensor **teacher_mixed, **teacher_outputs;
    mmix_tensor **student_mixed, **student_outputs, **student_inputs;
    mmix_tensor *loss;                           /* the weighted sum, NULL at first */
} mmixi_lesson;
/* Whether a loss of this weight is wanted. */
static int mmixi_lesson_wants(const mmixi_lesson *l, double weight)
{
    return !l->learn || weight > 0;
}
/* Adds weight · x to the loss, and the value of x to *seen. */
static void mmixi_lesson_add(mmixi_lesson *l, double weight, mmix_tensor *x, double *seen)
{
    mmix_ctx *m = l->run->m;
    *seen += mmix_item(x);
    if (!(weight > 0)) return;
    x = mmix_scale(m, x, weight, 0);
    l->loss = l->loss ? mmix_add(m, l->loss, x) : x;
}
/* L_hid: the mean over the layers, of what their mixers or they themselves make. */
static void mmixi_lesson_hidden(mmixi_lesson *l, mmix_tensor *mask)
{
    mmix_ctx *m = l->run->m;
    mmix_tensor **student = l->student_outputs, **teacher = l->teacher_outputs;
    if (l->student_mixed) {
        student = l->student_mixed;
        teacher = l->teacher_mixed;
    }
    for (size_t i = 0; student && i < l->depth; i++) {
        mmix_tensor *loss = mmix_kd_hidden(m, student[i], teacher[i], mask, 1);
        loss = mmix_scale(m, loss, 1 / (double)l->depth, 0);
        mmixi_lesson_add(l, l->stage->hidden, loss, &l->stats->hidden);
    }
}

/* ---- a lesson of decoders ---- */

/* The true answers of the batch, and those for L_seq: the batch's own, or what the teacher decodes
   now if the stage wants them. 0, or -1. */
static int mmixi_decoder_answers(const mmixi_lesson *l, mmixi_answers *truth,
                                 mmixi_answers *decoded)
{
    const mmix_distill *run = l->run;
    const mmix_distill_batch *b = l->batch;
    mmixi_dims d;
    if (!mmixi_given(run->m, l->who, "*batch", b))
        return -1;
    if (!mmixi_expect(run->m, l->who, &d, "tokens:i32 BL, target:i32 BL, mask?:i32 BL",
                      b->input.tokens, b->target, b->mask)) return -1;
    if (mmixi_answers_find(run->student, l->who, "target", &b->input, b->target, truth))
        return -1;
    if (!b->decoded) {
        if (!(l->stage->sequence > 0)) return 0;
        return mmixi_distill_decode(run->teacher, l->who, truth, decoded);
    }
    if (!mmixi_expect(run->m, l->who, &d, "+decoded:i32 BT, decoded_target:i32 BT",
                      b->decoded->tokens, b->decoded_target)) return -1;
    return mmixi_answers_find(run->student, l->who, "decoded_target", b->decoded, b->decoded_target,
                              decoded);
}
/* The teacher's logits at the answers. Not recorded. */
static mmix_tensor *mmixi_decoder_teach(mmixi_lesson *l, const mmixi_answers *a)
{
    const mmix_decoder *teacher = l->run->teacher;
    mmix_decoder_options o;
    memset(&o, 0, sizeof o);
    o.mixed = l->teacher_mixed;
    o.outputs = l->teacher_outputs;
    mmix_tensor *x = mmix_decoder_forward(l->run->m, teacher, &a->input, &o);
    return mmixi_answer_logits(teacher, x, a);
}
/* The student's tokens. */
static mmix_tensor *mmixi_decoder_study(mmixi_lesson *l, const mmixi_answers *a)
{
    mmix_decoder_options o;
    memset(&o, 0, sizeof o);
    o.mixed = l->student_mixed;
    o.outputs = l->student_outputs;
    o.inputs = l->student_inputs;
    return mmix_decoder_forward(l->run->m, l->run->student, &a->input, &o);
}
/* L_seq. x is what the student made of the true answers: where it has read the same by itself
   before the teacher's answers, it need not run again. */
static void mmixi_lesson_sequence(mmixi_lesson *l, const mmixi_answers *truth,
                                  const mmixi_answers *decoded, mmix_tensor *x)
{
    mmix_ctx *m = l->run->m;
    const mmix_decoder *student = l->run->student;
    if (l->student_inputs || !mmixi_same_until(decoded, &truth->input))
        x = mmix_decoder_forward(m, student, &decoded->input, NULL);
    mmix_tensor *logits = mmixi_answer_logits(student, x, decoded);
    mmix_tensor *loss = mmix_cross_entropy(m, logits, decoded->wanted, -1);
    mmixi_lesson_add(l, l->stage->sequence, loss, &l->stats->sequence);
}
static void mmixi_decoder_lesson(mmixi_lesson *l)
{
    mmix_distill *run = l->run;
    const mmix_stage *s = l->stage;
    mmix_ctx *m = run->m;
    mmixi_answers truth, decoded;
    if (mmixi_decoder_answers(l, &truth, &decoded)) return;
    if (l->calibrate && mmix_linmu_calibrate(run->student, run->teacher, &truth.input))
        return;

    mmix_tensor *teacher = mmixi_decoder_teach(l, &truth);
    mmix_record(m, l->record);
    mmix_tensor *x = mmixi_decoder_study(l, &truth);
    mmix_tensor *student = mmixi_answer_logits(run->student, x, &truth);

    mmixi_lesson_hidden(l, l->batch->mask);
    if (mmixi_lesson_wants(l, s->token)) {
        mmix_tensor *loss = mmix_kd_token(m, student, teacher, NULL, s->temperature);
        mmixi_lesson_add(l, s->token, loss, &l->stats->token);
    }
    if (mmixi_lesson_wants(l, s->supervised)) {
        mmix_tensor *loss = mmix_cross_entropy(m, student, truth.wanted, -1);
        mmixi_lesson_add(l, s->supervised, loss, &l->stats->supervised);
    }
    if (s->sequence > 0)
        mmixi_lesson_sequence(l, &truth, &decoded, x);
    l->stats->tokens = mmix_count(truth.rows);

    if (l->learn && !mmixi_wants(l->loss))
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "%s: nothing that stage %.0f trains takes part in this batch "
                  "(Local-Swin needs spans or a text window)", l->who, (double)run->stage);
}

/* ---- a lesson of backbones ---- */

/* The relative square error of features (B, L, D) or (B, D), and what their mean cosine lacks of 1.
   */
static mmix_tensor *mmixi_unlike(mmix_ctx *m, mmix_tensor *x, mmix_tensor *teacher)
{
    if (mmix_ndim(x) == 2) {
        x = mmixi_as(m, x, 3, 1, mmix_shape(x, 0), mmix_shape(x, 1), 0);
        teacher = mmixi_as(m, teacher, 3, 1, mmix_shape(teacher, 0), mmix_shape(teacher, 1), 0);
    }
    double rows = (double)(mmix_shape(x, 0) * mmix_shape(x, 1));
    mmix_tensor *unit = mmix_l2_normalise(m, x, 1e-12);
    mmix_tensor *teacher_unit = mmix_l2_normalise(m, teacher, 1e-12);
    mmix_tensor *cosines = mmix_sum(m, mmix_mul(m, unit, teacher_unit));
    mmix_tensor *lacks = mmix_scale(m, cosines, -1 / rows, 1);
    return mmix_add(m, mmix_kd_hidden(m, x, teacher, NULL, 1), lacks);
}
static void mmixi_vision_lesson(mmixi_lesson *l)
{
    mmix_ctx *m = l->run->m;
    const mmix_stage *s = l->stage;
    const mmix_vision *teacher = l->run->vision_teacher;
    mmix_vision *student = l->run->vision_student;
    mmix_vision_options o;
    if (l->calibrate && mmix_vision_calibrate(student, teacher, l->images)) return;
    memset(&o, 0, sizeof o);
    o.class_last = student->config.class_token == MMIX_CLASS_LAST;
    o.mixed = l->teacher_mixed;
    o.outputs = l->teacher_outputs;
    mmix_features t = mmix_vision_forward(m, teacher, l->images, &o);
    mmix_record(m, l->record);
    o.mixed = l->student_mixed;
    o.outputs = l->student_outputs;
    o.inputs = l->student_inputs;
    mmix_features x = mmix_vision_forward(m, student, l->images, &o);
    mmixi_lesson_hidden(l, NULL);
    /* Who only looks wants the features that the student makes of its own inputs. */
    if (!l->learn && l->student_inputs)
        x = mmix_vision_forward(m, student, l->images, NULL);
    if (mmixi_lesson_wants(l, s->token))
        mmixi_lesson_add(l, s->token, mmixi_unlike(m, x.token, t.token), &l->stats->token);
    if (mmixi_lesson_wants(l, s->patches))
        mmixi_lesson_add(l, s->patches, mmixi_unlike(m, x.patches, t.patches), &l->stats->patches);
    l->stats->tokens = mmix_shape(l->images, 0);
}

/* ---- a call ---- */

/* A call on a run that has to be of backbones or else of decoders. Says in stats where the run
   stands. 0, or -1. `unused` takes the stats that nobody asked for. */
static int mmixi_lesson_begin(mmixi_lesson *l, const char *who, mmix_distill *run, int of_backbones,
                              mmix_distill_stats *stats, mmix_distill_stats *unused)
{
    memset(l, 0, sizeof *l);
    l->stats = stats ? stats : unused;
    memset(l->stats, 0, sizeof *l->stats);
    if (!run || run->m->error_kind) return -1;
    if (of_backbones != (run->vision_student != NULL))
        return mmix_fail(run->m, MMIX_ERROR_ARGUMENT, "%s: run of %s is NULL", who,
                         of_backbones ? "backbones" : "decoders");
    l->run = run;
    l->who = who;
    l->stats->stage = run->stage;
    l->stats->step = run->step;
    if (run->stage < run->config.stages) {
        l->stage = &run->config.stage[run->stage];
        l->stats->steps = l->stage->steps;
    } else {                                     /* all are over: the last one lends its weights */
        l->stage = &run->config.stage[run->config.stages - 1];
    }
    return 0;
}
/* Places for what the layers make, as the config and the stage ask for it. 0, or -1. */
static int mmixi_lesson_places(mmixi_lesson *l)
{
    const mmix_distill *run = l->run;
    size_t depth = run->student ? run->student->config.depth : run->vision_student->config.depth;
    int hidden = mmixi_lesson_wants(l, l->stage->hidden);
    int compares_outputs = run->config.hidden_outputs || l->stage->hidden_outputs;
    int gives_inputs = run->config.teacher_inputs || l->stage->teacher_inputs;
    /* The student's; the teacher's mixers'; what layers read, and what follows the last of them. */
    mmix_tensor **student = (mmix_tensor **)mmixi_header(run->m, (3 * depth + 1) * sizeof *student);
    if (!student) return -1;
    mmix_tensor **mixed = student + depth, **inputs = mixed + depth;
    l->depth = depth;
    if (hidden && compares_outputs) {
        l->student_outputs = student;
        l->teacher_outputs = inputs + 1;
    } else if (hidden) {
        l->student_mixed = student;
        l->teacher_mixed = mixed;
    }
    if (gives_inputs) {                          /* the teacher's output feeds the next layer */
        l->teacher_outputs = inputs + 1;
        l->student_inputs = inputs;
    }
    return 0;
}
/* The losses of the batch. Leaves the recorded loss times the number of answer tokens in *weighted.
   0, or -1; recording is as before. */
static int mmixi_lesson_losses(mmixi_lesson *l, mmix_tensor **weighted)
{
    mmix_ctx *m = l->run->m;
    if (mmixi_lesson_places(l)) return -1;
    int record = mmix_record(m, 0);
    if (l->learn) l->record = record ? record : 1;
    if (l->run->vision_student) mmixi_vision_lesson(l);
    else mmixi_decoder_lesson(l);
    l->stats->loss = mmix_item(l->loss);
    *weighted = mmix_scale(m, l->loss, (double)l->stats->tokens, 0);
    mmix_record(m, record);
    return m->error_kind ? -1 : 0;
}
/* A call that only looks. 0, or -1. */
static int mmixi_lesson_look(mmixi_lesson *l)
{
    mmix_ctx *m = l->run->m;
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *weighted;
    if (mmixi_lesson_losses(l, &weighted)) return -1;
    mmix_rewind(m, mark);
    return 0;
}
/* The optimiser's step, and the next stage after the last step of one. After an error what has been
   added up is of no use and is dropped. 1: go on, -1: error. */
static int mmixi_distill_update(mmix_distill *run, const mmix_stage *s, mmix_distill_stats *stats)
{
    mmix_adamw o = mmix_adamw_default();
    double start = s->lr / (double)(s->warmup + 1);
    stats->lr = mmix_schedule_cosine(s->lr, s->min_lr, s->steps, 1, s->warmup, start, run->step);
    o.lr = stats->lr;
    o.weight_decay = s->weight_decay;
    stats->gradient_norm = mmixi_adamw_lists(run->m, run->adamw, 2, &o, 1 / (double)run->tokens,
                                             s->clip, NULL);
    run->tokens = 0;
    mmixi_adamw_zero(run->adamw, 2);
    if (run->m->error_kind) return -1;
    stats->updated = 1;
    run->step++;
    if (run->step < s->steps) return 1;
    run->step = 0;
    run->stage++;
    return mmixi_distill_begin(run) ? -1 : 1;
}
/* A call that learns. 1: go on, 0: the stages are over, -1: error. */
static int mmixi_lesson_learn(mmixi_lesson *l)
{
    mmix_distill *run = l->run;
    mmix_ctx *m = run->m;
    mmix_tensor *weighted;
    if (run->stage == run->config.stages) return 0;
    mmix_mark mark = mmix_mark_here(m);
    l->learn = 1;
    l->calibrate = run->number == 0 && run->config.calibrate;
    if (mmixi_lesson_losses(l, &weighted)) return -1;
    if (!mmixi_is_finite(l->stats->loss))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "%s: the loss (a lower rate may help) is %.10g, expected "
                         "%.10g to %.10g", l->who, l->stats->loss, -DBL_MAX, DBL_MAX);
    if (!mmix_backward(m, weighted)) {
        run->number++;
        run->tokens += l->stats->tokens;
    }
    mmix_rewind(m, mark);
    if (!m->error_kind && run->tokens < run->config.step_tokens)
        return 1;
    return mmixi_distill_update(run, l->stage, l->stats);
}
MMIXDEF int mmix_distill_losses(mmix_distill *run, const mmix_distill_batch *batch,
                                mmix_distill_stats *stats)
{
    mmix_distill_stats unused;
    mmixi_lesson l;
    if (mmixi_lesson_begin(&l, "mmix_distill_losses", run, 0, stats, &unused))
        return -1;
    l.batch = batch;
    return mmixi_lesson_look(&l);
}
MMIXDEF int mmix_distill_step(mmix_distill *run, const mmix_distill_batch *batch,
                              mmix_distill_stats *stats)
{
    mmix_distill_stats unused;
    mmixi_lesson l;
    if (mmixi_lesson_begin(&l, "mmix_distill_step", run, 0, stats, &unused))
        return -1;
    l.batch = batch;
    return mmixi_lesson_learn(&l);
}
MMIXDEF int mmix_vision_distill_losses(mmix_distill *run, mmix_tensor *images,
                                       mmix_distill_stats *stats)
{
    mmix_distill_stats unused;
    mmixi_lesson l;
    if (mmixi_lesson_begin(&l, "mmix_vision_distill_losses", run, 1, stats, &unused))
        return -1;
    l.images = images;
    return mmixi_lesson_look(&l);
}
MMIXDEF int mmix_vision_distill_step(mmix_distill *run, mmix_tensor *images,
                                     mmix_distill_stats *stats)
{
    mmix_distill_stats unused;
    mmixi_lesson l;
    if (mmixi_lesson_begin(&l, "mmix_vision_distill_step", run, 1, stats, &unused))
        return -1;
    l.images = images;
    return mmixi_lesson_learn(&l);
}

/* ---- calibration of a backbone ---- */

/* The attention heads (B, L, D) that a block makes of normed tokens u, before its output weights,
   which become *weight. */
static mmix_tensor *mmixi_vision_heads(mmix_ctx *m, const mmixi_vision_run *r,
                                       const mmixi_vision_block *block, mmix_tensor *u,
                                       mmix_tensor **weight)
{
    if (block->mmate.flex.heads) {
        *weight = block->mmate.flex.weight[MMIXI_O];
        return mmixi_flex_heads(m, &block->mmate, u, &r->layout);
    }
    mmix_attention_layer attention = block->attention;
    attention.angles = r->angles;
    *weight = attention.proj_weight;
    return mmixi_attention_heads(m, &attention, u, NULL, 0);
}
/* Whether block number i has heads to calibrate: Flex-MA or linear attention that came from
   attention. */
static int mmixi_vision_calibrates(const mmix_vision *student, const mmix_vision *teacher, size_t i)
{
    int kind = mmixi_vision_kind(&student->config, i);
    if (kind == MMIX_BLOCK_SOFTMAX || kind == MMIX_BLOCK_SWIN) return 0;
    return mmixi_vision_kind(&teacher->config, i) != MMIX_BLOCK_SWIN;
}
MMIXDEF int mmix_vision_calibrate(mmix_vision *student, const mmix_vision *teacher,
                                  mmix_tensor *images)
{
    static const char who[] = "mmix_vision_calibrate";
    mmixi_vision_run r;
    mmix_vision_options options;
    if (!mmixi_vision_alike(who, teacher, student)) return -1;
    mmix_ctx *m = student->params->m;
    mmix_mark mark = mmix_mark_here(m);
    int record = mmix_record(m, 0);
    memset(&options, 0, sizeof options);
    options.class_last = student->config.class_token == MMIX_CLASS_LAST;
    mmix_tensor *x = mmixi_vision_begin(m, who, &r, teacher, &options, images);
    while (x && r.i < teacher->config.depth) {
        if (mmixi_vision_calibrates(student, teacher, r.i)) {
            mmix_mark block = mmix_mark_here(m);
            const mmixi_vision_block *both[2] = { teacher->block + r.i, student->block + r.i };
            mmix_tensor *u = mmixi_vision_norm(m, &r, both[0]->norm, x), *weight[2], *heads[2];
            for (int k = 0; k < 2; k++)
                heads[k] = mmixi_vision_heads(m, &r, both[k], u, &weight[k]);
            mmixi_calibrate(m, weight, heads, teacher->config.heads);
            mmix_rewind(m, block);
        }
        x = mmixi_vision_blocks(m, &r, r.i + 1);
    }
    mmix_record(m, record);
    mmix_rewind(m, mark);
    return m->error_kind ? -1 : 0;
}
MMIXI_COLD_END

/* ==== >>metrics ======================================================================
   what features are worth: maps, Binary-AUC, IoU, k-NN, linear heads, ranks, PCA, class strategies

   Sums are in double, and every output is one task's: the number of threads changes nothing. Where
   a formula is a few lines, a plain loop stands under it.
   ==================================================================================== */

static inline double mmixi_dot(const double *x, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}
/* Zeroes what a call fills in. 0, or -1 if there is nothing to fill. */
static int mmixi_result(mmix_ctx *m, const char *who, void *result, size_t bytes)
{
    if (result) {
        memset(result, 0, bytes);
        return 0;
    }
    if (m) mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: result is NULL", who);
    return -1;
}
/* 0, or -1 where a number of t is not finite, or too large for a sum of squares. */
static int mmixi_bounded(mmix_ctx *m, const char *who, const char *name, const mmix_tensor *t)
{
    const uint64_t bound = mmixi_magnitude_bits(MMIXI_DOUBLE ? 1e150 : 1e18);
    size_t rows = mmixi_rows(t), cols = mmixi_cols(t);
    for (size_t r = 0; r < rows; r++) {
        const mmix_real *x = mmixi_of(t) + mmixi_row_offset(t, r);
        for (size_t i = 0; i < cols; i++) {
            if (mmixi_magnitude_bits(x[i]) < bound) continue;
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "%s: row %.0f of %s holds %g, expected finite numbers",
                             who, (double)r, name, x[i]);
        }
    }
    return 0;
}

/* Returns the least of n numbers; the largest goes to *high. */
static double mmixi_ends(const mmix_real *x, size_t n, double *high)
{
    double low = *x, most = *x;
    for (size_t i = 1; i < n; i++) {
        low = fmin(low, x[i]);
        most = fmax(most, x[i]);
    }
    *high = most;
    return low;
}

/* ------------------------------------------------------------------------------------
   Feature maps      s = cos(q, patch) or q · patch;  (s - min) / (max - min);  bilinear

   q is the mean of an image's query tokens. A cosine with a row of zeros is 0: lengths are at least
   1e-12.
   torch: F.interpolate(scaled, (h, w), mode="bilinear", align_corners=False)
   ------------------------------------------------------------------------------------ */

/* What a map is of, in words: the caller's if there are any, or else what the options say. */
static void mmixi_map_words(const mmix_map_options *o, size_t gh, size_t gw, size_t h, size_t w,
                            mmix_map *map)
{
    char token[64] = "mean of the given query";
    if (o->positions && o->n_positions == 1)
        snprintf(token, sizeof token, "token %.0f", (double)o->positions[0]);
    else if (o->positions)
        snprintf(token, sizeof token, "mean of token %.0f and %.0f more", (double)o->positions[0],
                 (double)o->n_positions - 1);
    const char *layer = o->layer ? o->layer : "patches as given";
    const char *query = o->token ? o->token : token;
    const char *similarity = o->similarity == MMIX_MAP_DOT ? "dot product" : "cosine";
    snprintf(map->how, sizeof map->how,
             "%.60s; %.60s; %s with each patch token; min-max scaled to [0, 1]; "
             "bilinear from %.0f x %.0f to %.0f x %.0f", layer, query, similarity,
             (double)gh, (double)gw, (double)h, (double)w);
}
/* The mean (B, D) of an image's query tokens, (B, L, D) or (B, D). Not recorded. */
static mmix_tensor *mmixi_map_query(mmix_ctx *m, const mmix_map_options *o,
                                    const mmix_tensor *query, const mmixi_dims *d)
{
    size_t L = mmixi_max(d->L, 1);
    mmix_tensor *tokens = mmixi_as(m, (mmix_tensor *)query, 3, d->B, L, d->D, 0);
    if (!o->positions)
        return mmix_pool_tokens(m, tokens, NULL, 0, 1, 0);        /* of all */
    return mmix_pool_tokens(m, tokens, o->positions, o->n_positions, 0, 0);
}
/* Similarities of image b, and the same scaled to [0, 1]; of one value everywhere, 0. */
static void mmixi_map_image(const mmix_ctx *m, const mmix_map *map, const mmix_tensor *query,
                            const mmix_tensor *patches, const mmixi_dims *d, size_t b)
{
    const mmix_real *q = mmixi_of(query) + b * d->D;
    mmix_real *similarity = mmixi_of(map->similarity) + b * d->N;
    mmix_real *scaled = mmixi_of(map->scaled) + b * d->N;
    for (size_t i = 0; i < d->N; i++) {
        const mmix_real *patch = mmixi_of(patches) + mmixi_row_offset(patches, b * d->N + i);
        similarity[i] = m->k->dot(d->D, q, patch);
    }
    double high, low = mmixi_ends(similarity, d->N, &high);
    double range = high - low;
    for (size_t i = 0; i < d->N; i++) {
        double share = high > low ? (similarity[i] - low) / range : 0;
        scaled[i] = (mmix_real)share;
    }
}
MMIXDEF int mmix_feature_map(mmix_ctx *m, const mmix_map_options *options, const mmix_tensor *query,
                             const mmix_tensor *patches, size_t gh, size_t gw, size_t h, size_t w,
                             mmix_map *result)
{
    static const char who[] = "mmix_feature_map";
    mmix_map_options o;
    mmix_map map;
    mmixi_dims d;
    if (mmixi_result(m, who, result, sizeof *result)) return -1;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    memset(&d, 0, sizeof d);
    d.N = gh * gw;
    const char *spec = mmix_ndim(query) == 2 ? "+query BD, patches BND" : "+query BLD, patches BND";
    if (!mmixi_expect(m, who, &d, spec, query, patches))
        return -1;
    if (!mmixi_given(m, who, "h, w", h, w))
        return -1;
    if (mmixi_within(m, who, "similarity", o.similarity, MMIX_MAP_COSINE, MMIX_MAP_DOT))
        return -1;

    int record = mmix_record(m, 0);
    mmix_tensor *mean = mmixi_map_query(m, &o, query, &d);
    if (o.similarity == MMIX_MAP_COSINE) {
        mean = mmix_l2_normalise(m, mean, 1e-12);
        patches = mmix_l2_normalise(m, (mmix_tensor *)patches, 1e-12);
    }
    mmix_record(m, record);
    memset(&map, 0, sizeof map);
    map.similarity = mmix_new4(m, d.B, 1, gh, gw);
    map.scaled = mmix_new4(m, d.B, 1, gh, gw);
    if (m->error_kind) return -1;
    for (size_t b = 0; b < d.B; b++)
        mmixi_map_image(m, &map, mean, patches, &d, b);
    if (mmixi_bounded(m, who, "similarities", map.similarity)) return -1;
    map.map = mmix_resize(m, map.scaled, MMIX_BILINEAR, h, w, 0, 0);
    if (!map.map) return -1;
    mmixi_map_words(&o, gh, gw, h, w, &map);
    *result = map;
    return 0;
}

/* ---- scores in order ---- */

/* Merges a[begin … middle - 1] and a[middle … end - 1], each falling, into b; of equal scores those
   of the left half come first. */
static void mmixi_scored_merge(const mmixi_scored *a, mmixi_scored *b, size_t begin, size_t middle,
                               size_t end)
{
    size_t left = begin, right = middle;
    for (size_t at = begin; at < end; at++) {
        if (right >= end || (left < middle && a[left].score >= a[right].score))
            b[at] = a[left++];
        else b[at] = a[right++];
    }
}
/* Merge sort, the largest score first: stable, and faster than qsort by half. Returns a or b,
   whichever holds the result. */
static mmixi_scored *mmixi_scored_sort(mmixi_scored *a, mmixi_scored *b, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = mmixi_min(begin + width, n);
            mmixi_scored_merge(a, b, begin, middle, mmixi_min(middle + width, n));
        }
        mmixi_scored *swap = a;
        a = b;
        b = swap;
    }
    return a;
}
/* best (k): the largest scores so far, falling. A larger one takes its place among them, behind
   equal ones. */
static inline void mmixi_scored_take(mmixi_scored *best, size_t k, mmixi_scored it)
{
    mmixi_scored *at = best + k - 1;
    if (!(it.score > at->score)) return;
    for (; at > best && it.score > at[-1].score; at--)
        *at = at[-1];
    *at = it;
}
static void mmixi_scored_none(mmixi_scored *best, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        best[i].score = -HUGE_VAL;
        best[i].label = 0;
    }
}

MMIXDEF mmix_tensor *mmix_mass_threshold(mmix_ctx *m, const mmix_tensor *map, double mass)
{
    static const char who[] = "mmix_mass_threshold";
    mmixi_dims d;
    if (!mmixi_expect(m, who, &d, "map ...YX", map))
        return NULL;
    if (mmixi_settings_check(m, who, &mass, "double mass 0 1")) return NULL;
    if (mmixi_bounded(m, who, "map", map)) return NULL;
    size_t cells = d.Y * d.X;
    mmix_tensor *kept = mmix_fill(mmixi_like(m, who, map), 0);
    mmix_mark mark = mmix_mark_here(m);
    mmixi_scored *all = (mmixi_scored *)mmixi_step_array(m, 2, cells, sizeof *all);
    if (m->error_kind) return NULL;
    for (size_t at = 0; at < mmix_count(map); at += cells) {
        double left = 0;                         /* of the mass that is wanted */
        for (size_t i = 0; i < cells; i++) {
            all[i].score = mmixi_of(map)[mmixi_place(map, at + i)];
            all[i].label = (double)(at + i);
            left += mass * all[i].score;
        }
        const mmixi_scored *sorted = mmixi_scored_sort(all, all + cells, cells);
        for (size_t i = 0; i < cells && left > 0 && sorted[i].score > 0; i++) {
            mmixi_of(kept)[(size_t)sorted[i].label] = 1;
            left -= sorted[i].score;
        }
    }
    mmix_rewind(m, mark);
    return kept;
}

/* ------------------------------------------------------------------------------------
   Binary-AUC        R(t, S) = |map ≥ t ∩ S| / |S|;  TPR: S = foreground, FPR: S = background

   The area under (FPR, TPR) by trapezoids. With every distinct value a threshold it is the rank
   statistic P(fore > back) + ½ P(fore = back) (Hanley & McNeil 1982). auc = max(area, 1 - area),
   since a map may be right upside down ("RNN as Linear Transformer"). The plain loop counts all
   pairs, N² of them; the fast one sorts the pixels once.
   ------------------------------------------------------------------------------------ */

/* map, mask (n). */
MMIXI_PLAIN double mmixi_plain_auc(const mmix_real *map, const int32_t *mask, size_t n)
{
    double wins = 0, pairs = 0;
    for (size_t fore = 0; fore < n; fore++)
        for (size_t back = 0; back < n; back++) {
            if (mask[fore] == 0 || mask[back] != 0) continue;
            if (map[fore] > map[back]) wins += 1;
            if (map[fore] == map[back]) wins += 0.5;
            pairs++;
        }
    return wins / pairs;
}

typedef struct mmixi_auc_job {
    const mmix_tensor *map, *mask;               /* (N, Y, X), (N, H, W) */
    size_t Y, X, H, W;
    size_t thresholds;                           /* 0: every value */
    int32_t void_label;
} mmixi_auc_job;
/* The area of cell (i, k) of the map over an image's labels, without void pixels; *fore is the part
   of it that is foreground. Lengths are counted in 1/Y of a pixel down and 1/X across, so that
   areas are whole numbers. */
static size_t mmixi_auc_area(const mmixi_auc_job *j, const int32_t *labels, size_t i, size_t k,
                             size_t *fore)
{
    size_t step = j->mask->stride[1], all = 0;
    size_t top = i * j->H;
    size_t bottom = top + j->H;
    size_t left = k * j->W;
    size_t right = left + j->W;
    *fore = 0;
    for (size_t y = top / j->Y; y * j->Y < bottom; y++) {
        size_t above = mmixi_max(y * j->Y, top);
        size_t below = mmixi_min((y + 1) * j->Y, bottom);
        for (size_t x = left / j->X; x * j->X < right; x++) {
            size_t before = mmixi_max(x * j->X, left);
            size_t behind = mmixi_min((x + 1) * j->X, right);
            size_t area = (below - above) * (behind - before);
            int32_t label = labels[y * step + x];
            if (label != 0 && label == j->void_label) continue;
            if (label != 0) *fore += area;
            all += area;
        }
    }
    return all;
}
/* The cells of images first … last - 1 that are not all void: their value in the map, and as label
   the share of the cell that is foreground. Returns how many. */
static size_t mmixi_auc_cells(mmix_ctx *m, const mmixi_auc_job *j, size_t first, size_t last,
                              mmixi_scored *cell)
{
    size_t n = 0;
    for (size_t row = first * j->Y; row < last * j->Y; row++) {
        size_t image = row / j->Y;
        const mmix_real *score = mmixi_of(j->map) + mmixi_row_offset(j->map, row);
        size_t at = mmixi_row_offset(j->mask, image * j->H);
        const int32_t *labels = mmix_data_i32(j->mask) + at;
        for (size_t k = 0; k < j->X; k++) {
            size_t fore, all = mmixi_auc_area(j, labels, row % j->Y, k, &fore);
            if (all == 0) continue;
            if (!mmixi_is_finite(score[k]))
                mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_auc: the map of image %.0f holds "
                          "%g, expected finite numbers", (double)image, score[k]);
            cell[n].score = score[k];
            cell[n].label = (double)fore / (double)all;
            n++;
        }
    }
    return n;
}
/* Threshold number i of T, from the largest value (0) to the least (T - 1), at equal distances. */
static double mmixi_auc_threshold(const mmixi_scored *sorted, size_t n, size_t i, size_t T)
{
    double w = (double)i / (double)(T - 1);
    return (1 - w) * sorted[0].score + w * sorted[n - 1].score;
}
/* Walks n sorted cells, threshold by threshold. What lies above each goes to fpr and tpr, as
   counts, behind a first point (0, 0). Returns the number of points; *area is that under the curve
   of counts: where shares are whole it is an integer divided by 2, exact. */
static size_t mmixi_auc_walk(const mmixi_scored *sorted, size_t n, size_t T, double *fpr,
                             double *tpr, double *area)
{
    size_t points = 1, above = 0;
    double fore = 0;
    *area = 0;
    fpr[0] = 0;
    tpr[0] = 0;
    if (n == 0) return points;
    while (T ? points <= T : above < n) {
        double t;
        if (T) t = mmixi_auc_threshold(sorted, n, points - 1, T);
        else t = sorted[above].score;
        while (above < n && sorted[above].score >= t) {
            fore += sorted[above].label;
            above++;
        }
        double back = (double)above - fore;
        double width = back - fpr[points - 1];
        *area += width * (fore + tpr[points - 1]) / 2;
        fpr[points] = back;
        tpr[points] = fore;
        points++;
    }
    return points;
}
/* The curve of images first … last - 1 as one. 0, or -1. */
static int mmixi_auc_curve(mmix_ctx *m, const mmixi_auc_job *j, size_t first, size_t last,
                           mmix_auc *result)
{
    size_t cells = (last - first) * j->Y * j->X;
    size_t T = j->thresholds, most = T ? T : cells;      /* thresholds */
    size_t room = most + 1;
    double *raw = mmixi_doubles(m, 2 * room + 1, 1), area;
    mmix_mark mark = mmix_mark_here(m);
    mmixi_scored *cell = (mmixi_scored *)mmixi_step_array(m, 2, cells, sizeof *cell);
    if (m->error_kind) return -1;
    size_t n = mmixi_auc_cells(m, j, first, last, cell);
    if (m->error_kind) return -1;
    const mmixi_scored *sorted = mmixi_scored_sort(cell, cell + cells, n);
    double *fpr = raw + 1, *tpr = fpr + room;
    size_t points = mmixi_auc_walk(sorted, n, T, fpr, tpr, &area);
    double back = fpr[points - 1];
    double fore = tpr[points - 1];
    if (!(fore > 0) || !(back > 0)) {
        const char *lacks = fore > 0 ? "background" : "foreground";
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_auc: no %s in the masks of images "
                         "%.0f to %.0f", lacks, (double)first, (double)(last - 1));
    }
    for (size_t p = 1; p < points; p++) {
        fpr[p] /= back;
        tpr[p] /= fore;
    }
    *raw = area / (fore * back);
    result->auc = fmax(*raw, 1 - *raw);
    result->auc_raw = raw;
    result->count = 1;
    result->fpr = fpr;
    result->tpr = tpr;
    result->points = points;
    mmix_rewind(m, mark);
    return 0;
}
/* The mean over N images: of the areas, and of the curves at fpr 0, 0.01, …, 1 behind (0, 0). 0, or
   -1. */
static int mmixi_auc_mean(mmix_ctx *m, const mmixi_auc_job *j, size_t N, mmix_auc *result)
{
    mmix_auc mean, one;
    mean.auc = 0;
    mean.auc_raw = mmixi_doubles(m, N, 1);
    mean.count = N;
    mean.points = 102;
    mean.fpr = mmixi_doubles(m, mean.points, 1);
    mean.tpr = mmixi_doubles(m, mean.points, 1);
    if (m->error_kind) return -1;
    for (size_t p = 0; p < mean.points; p++) {
        mean.fpr[p] = fmax(0, (double)p - 1) / 100;
        mean.tpr[p] = 0;
    }
    for (size_t i = 0; i < N; i++) {
        mmix_mark mark = mmix_mark_here(m);
        if (mmixi_auc_curve(m, j, i, i + 1, &one)) return -1;
        mean.auc_raw[i] = *one.auc_raw;
        mean.auc += one.auc / (double)N;
        mmix_roc_add(mean.tpr + 1, mean.points - 1, &one);
        mmix_rewind(m, mark);
    }
    for (size_t p = 0; p < mean.points; p++)
        mean.tpr[p] /= (double)N;
    *result = mean;
    return 0;
}
MMIXDEF int mmix_binary_auc(mmix_ctx *m, const mmix_auc_options *options, const mmix_tensor *map,
                            const mmix_tensor *mask, mmix_auc *result)
{
    static const char who[] = "mmix_binary_auc";
    static const mmix_auc_options none = { 0, 0, 0 };
    mmixi_auc_job j;
    mmixi_dims d;
    if (mmixi_result(m, who, result, sizeof *result)) return -1;
    if (!options) options = &none;
    if (!mmixi_expect(m, who, &d, "map NYX, mask:i32 NHW", map, mask))
        return -1;
    double T = (double)options->thresholds;
    if (T > 0 && mmixi_within(m, who, "thresholds, if not 0 (exact),", T, 2, 1e9))
        return -1;
    j.map = map;
    j.mask = mask;
    j.Y = d.Y;
    j.X = d.X;
    j.H = d.H;
    j.W = d.W;
    j.thresholds = options->thresholds;
    j.void_label = options->void_label;
    if (d.N == 1 || options->pooled)
        return mmixi_auc_curve(m, &j, 0, d.N, result);
    return mmixi_auc_mean(m, &j, d.N, result);
}
/* A curve that is better turned, (1-fpr, 1-tpr), is walked from its end. */
MMIXDEF void mmix_roc_add(double *tpr, size_t points, const mmix_auc *roc)
{
    if (!tpr || !roc || roc->points == 0) return;
    int turned = roc->count == 1 && *roc->auc_raw < 0.5;
    ptrdiff_t at = 0, end = (ptrdiff_t)roc->points - 1, step = 1;
    if (turned) {
        at = end;
        end = 0;
        step = -1;
    }
    for (size_t i = 0; i < points; i++) {
        double x = (double)i / (double)mmixi_max(points - 1, 1);
        if (turned) x = 1 - x;
        for (; at != end; at += step) {          /* to the last point that x has reached */
            double beyond = (double)step * (roc->fpr[at + step] - x);
            if (beyond > 1e-12) break;
        }
        double y = roc->tpr[at];
        if (at != end) {
            double width = roc->fpr[at + step] - roc->fpr[at];
            double rise = roc->tpr[at + step] - y;
            y += rise * (x - roc->fpr[at]) / width;
        }
        tpr[i] += turned ? 1 - y : y;
    }
}

/* ------------------------------------------------------------------------------------
   IoU               |P ∩ F| / |P ∪ F| of two sets of pixels
   mIoU              its mean over classes c of {pred = c} and {label = c}, from three counts each
   ------------------------------------------------------------------------------------ */

MMIXDEF int mmix_binary_iou(mmix_ctx *m, const mmix_tensor *map, const mmix_tensor *mask,
                            double threshold, int32_t void_label, double *iou)
{
    static const char who[] = "mmix_binary_iou";
    mmixi_dims d;
    size_t both = 0, either = 0;
    if (mmixi_result(m, who, iou, sizeof *iou)) return -1;
    if (!mmixi_expect(m, who, &d, "map NYX, mask:i32 NYX", map, mask))
        return -1;
    if (mmixi_is_nan(threshold))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: threshold is NaN", who);
    for (size_t r = 0; r < mmixi_rows(map); r++) {
        const mmix_real *value = mmixi_of(map) + mmixi_row_offset(map, r);
        const int32_t *label = mmix_data_i32(mask) + mmixi_row_offset(mask, r);
        for (size_t i = 0; i < d.X; i++) {
            if (label[i] != 0 && label[i] == void_label) continue;
            int predicted = value[i] >= threshold;
            int is = label[i] != 0;
            both += predicted && is;
            either += predicted || is;
        }
    }
    *iou = either ? (double)both / (double)either : 1;
    return 0;
}

/* Takes in a pixel of a label and a prediction. */
static inline void mmixi_miou_pixel(mmix_miou_count *count, int32_t label, size_t pred)
{
    count[label].label++;
    count[pred].pred++;
    count[label].both += (size_t)label == pred;
}
/* Whether both numbers of a pixel are classes. */
static int mmixi_miou_check(mmix_ctx *m, size_t classes, int32_t label, int32_t pred)
{
    static const char who[] = "mmix_miou_add";
    double last = (double)classes - 1;
    if (mmixi_within(m, who, "a label", label, 0, last))
        return 0;
    return !mmixi_within(m, who, "a prediction", pred, 0, last);
}
MMIXDEF int mmix_miou_add(mmix_ctx *m, mmix_miou_count *count, size_t classes,
                          const mmix_tensor *pred, const mmix_tensor *label, int32_t void_label)
{
    static const char who[] = "mmix_miou_add";
    if (!mmixi_expect(m, who, NULL, "pred:i32 ..., label:i32 ~", pred, label))
        return -1;
    if (!mmixi_given(m, who, "*count", count)) return -1;
    size_t rows = mmixi_rows(label), cols = mmixi_cols(label);
    for (int pass = 0; pass < 2; pass++)         /* all pixels are checked, then counted */
        for (size_t r = 0; r < rows; r++) {
            const int32_t *is = mmix_data_i32(label) + mmixi_row_offset(label, r);
            const int32_t *said = mmix_data_i32(pred) + mmixi_row_offset(pred, r);
            for (size_t i = 0; i < cols; i++) {
                if (is[i] == void_label) continue;
                if (pass == 0 && !mmixi_miou_check(m, classes, is[i], said[i]))
                    return -1;
                if (pass == 1) mmixi_miou_pixel(count, is[i], (size_t)said[i]);
            }
        }
    return 0;
}
MMIXDEF mmix_miou_result mmix_miou(const mmix_miou_count *count, size_t classes, double *iou)
{
    mmix_miou_result r = { 0, 0, 0 };
    double seen = 0, tested = 0, pixels = 0;
    for (size_t k = 0; count && k < classes; k++) {
        double both = (double)count[k].both;
        double label = (double)count[k].label;
        double either = label + (double)count[k].pred - both;
        double share = both / fmax(either, 1);
        if (iou) iou[k] = share;
        r.miou += share;
        r.accuracy += both;
        r.balanced += both / fmax(label, 1);
        seen += either > 0;
        tested += label > 0;
        pixels += label;
    }
    r.miou /= fmax(seen, 1);
    r.accuracy /= fmax(pixels, 1);
    r.balanced /= fmax(tested, 1);
    return r;
}

/* ------------------------------------------------------------------------------------
   k-NN              votes_c = Σ e^(cos(test, train_i)/T) over the k nearest train rows i of label c

   Wu et al. 2018, section 3.4; DINO's eval_knn.py. Cosines are dot products of rows of length 1. A
   tile of test rows shares one walk over the train rows, which stream from memory; the k largest
   cosines stay sorted.
   ------------------------------------------------------------------------------------ */

MMIXI_PLAIN double mmixi_plain_cosine(const mmix_real *x, const mmix_real *y, size_t D)
{
    double dot = 0, square_x = 0, square_y = 0;
    for (size_t i = 0; i < D; i++) {
        dot += (double)x[i] * y[i];
        square_x += (double)x[i] * x[i];
        square_y += (double)y[i] * y[i];
    }
    double length_x = fmax(sqrt(square_x), 1e-12);
    double length_y = fmax(sqrt(square_y), 1e-12);
    return dot / (length_x * length_y);
}
/* votes (classes) of one row test (D); train (N, D), label (N). A train row is among the k nearest
   if fewer than k are nearer; of equal ones the earlier is the nearer. */
MMIXI_PLAIN void mmixi_plain_knn(double *votes, const mmix_real *test, const mmix_real *train,
                                 const int32_t *label, size_t N, size_t D, size_t classes,
                                 size_t k, double T)
{
    for (size_t c = 0; c < classes; c++)
        votes[c] = 0;
    for (size_t i = 0; i < N; i++) {
        double cosine = mmixi_plain_cosine(test, train + i * D, D);
        size_t nearer = 0;
        for (size_t other = 0; other < N; other++) {
            double its = mmixi_plain_cosine(test, train + other * D, D);
            if (its > cosine || (its == cosine && other < i)) nearer++;
        }
        if (nearer < k)
            votes[label[i]] += exp(cosine / T);
    }
}

enum { MMIXI_KNN_TILE = 8 };
typedef struct mmixi_knn_job {
    const mmixi_kernels *kernel;
    mmixi_mat train, test;                       /* of length 1; if one, no row votes on itself */
    const int32_t *label;
    size_t k, classes;
    double T;
    mmixi_scored *best;                          /* (lanes, tile, k): largest cosines, falling */
    double *votes;
    int32_t *pred;
} mmixi_knn_job;
/* The votes of a test row's neighbours, and who wins them. */
static void mmixi_knn_vote(const mmixi_knn_job *j, const mmixi_scored *best, size_t row)
{
    double *votes = j->votes + row * j->classes;
    size_t winner = 0;
    memset(votes, 0, j->classes * sizeof *votes);
    for (size_t i = 0; i < j->k; i++) {
        size_t label = (size_t)best[i].label;
        votes[label] += mmixi_exp(best[i].score / j->T);
    }
    for (size_t c = 1; c < j->classes; c++)
        if (votes[c] > votes[winner]) winner = c;
    j->pred[row] = (int32_t)winner;
}
static void mmixi_knn_tile(void *arg, mmixi_range range)
{
    const mmixi_knn_job *j = (const mmixi_knn_job *)arg;
    mmixi_mat train = j->train, test = j->test;
    int itself = test.p == train.p;
    size_t k = j->k, rows = range.end - range.begin;
    mmixi_scored *best = j->best + range.lane * MMIXI_KNN_TILE * k, it;
    mmixi_scored_none(best, rows * k);
    for (size_t t = 0; t < train.rows; t++) {
        const mmix_real *voter = mmixi_row(train, t);
        it.label = (double)j->label[t];
        for (size_t i = 0; i < rows; i++) {
            size_t row = range.begin + i;
            if (itself && t == row) continue;
            it.score = j->kernel->dot(test.cols, mmixi_row(test, row), voter);
            mmixi_scored_take(best + i * k, k, it);
        }
    }
    for (size_t i = 0; i < rows; i++)
        mmixi_knn_vote(j, best + i * k, range.begin + i);
}
/* The arrays of mmix_knn. 0, or -1. */
static int mmixi_knn_check(mmix_ctx *m, mmixi_dims *d, const mmix_tensor *train,
                           const mmix_tensor *train_label, const mmix_tensor *test,
                           const mmix_tensor *test_label, size_t classes)
{
    static const char who[] = "mmix_knn";
    if (!mmixi_expect(m, who, d, "train ND, train_label:i32 N, test TD, test_label?:i32 T", train,
                      train_label, test, test_label)) return -1;
    if (mmixi_settings_check(m, who, &classes, "size classes 1")) return -1;
    if (mmixi_bounded(m, who, "train", train)) return -1;
    if (mmixi_bounded(m, who, "test", test)) return -1;
    if (!mmixi_index_ok(m, who, "train_label", train_label, classes))
        return -1;
    if (!mmixi_index_ok(m, who, "test_label", test_label, classes))
        return -1;
    return 0;
}
MMIXDEF int mmix_knn(mmix_ctx *m, mmix_tensor *train, const mmix_tensor *train_label,
                     mmix_tensor *test, const mmix_tensor *test_label, size_t classes, size_t k,
                     double temperature, mmix_knn_result *result)
{
    static const char who[] = "mmix_knn";
    int others = test == NULL;
    mmixi_knn_job j;
    mmixi_dims d;
    if (mmixi_result(m, who, result, sizeof *result)) return -1;
    if (others) {
        test = train;
        test_label = train_label;
    }
    j.T = temperature == 0 ? 0.07 : temperature;
    if (mmixi_knn_check(m, &d, train, train_label, test, test_label, classes))
        return -1;
    if (mmixi_is_nan(j.T))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: temperature is NaN", who);
    if (mmixi_within(m, who, "temperature", j.T, 0.002, HUGE_VAL))
        return -1;
    if (others && mmixi_within(m, who, "train's number of rows", (double)d.N, 2, HUGE_VAL))
        return -1;
    mmix_tensor *pred = mmix_new(m, MMIX_DTYPE_I32, 1, &d.T);
    double *votes = mmixi_doubles(m, d.T, classes);
    mmix_mark mark = mmix_mark_here(m);
    train = mmix_l2_normalise(m, train, 1e-12);
    test = others ? train : mmix_l2_normalise(m, test, 1e-12);
    if (m->error_kind) return -1;
    j.kernel = m->k;
    j.train = mmixi_values(train);
    j.test = mmixi_values(test);
    j.label = mmix_data_i32(train_label);
    j.k = mmixi_min(k ? k : 20, d.N - (size_t)others);
    j.classes = classes;
    size_t rows = m->lanes * MMIXI_KNN_TILE;
    j.best = (mmixi_scored *)mmixi_step_array(m, rows, j.k, sizeof *j.best);
    j.votes = votes;
    j.pred = mmix_data_i32(pred);
    mmix_miou_count *count = (mmix_miou_count *)mmixi_step_array(m, classes, 1, sizeof *count);
    if (m->error_kind) return -1;
    mmixi_ranges(m, d.T, MMIXI_KNN_TILE, mmixi_knn_tile, &j);
    memset(count, 0, classes * sizeof *count);
    if (test_label)
        mmix_miou_add(m, count, classes, pred, test_label, -1);
    mmix_miou_result share = mmix_miou(count, classes, NULL);
    result->votes = j.votes;
    result->pred = j.pred;
    result->top1 = share.accuracy;
    result->balanced = share.balanced;
    mmix_rewind(m, mark);
    return 0;
}

/* ------------------------------------------------------------------------------------
   Linear heads      z = W x + b, one head a rate
                     loss = mean of -log softmax(resize(z))[label];  SGD

   The heads of all rates are one matrix W (rates · K, D + 1), b its last column: logits are one
   product with the features and a 1 behind each, gradients are another. Between the two each pixel
   takes its logits from the four tokens around it and gives its gradient, p - 1[label], back to
   them: nothing of a mask's size times K is ever stored. A 1 x 1 grid and mask is a row of features
   with its label.
   torch: F.cross_entropy(F.interpolate(z, (h, w), mode="bilinear"), label, ignore_index=void)
   ------------------------------------------------------------------------------------ */

/* So many gradients are added in float, and then such sums in double. */
enum { MMIXI_PROBE_RUN = 64 };
/* Pictures, and what the heads make of them. */
typedef struct mmixi_probe_job {
    const mmixi_kernels *kernel;
    const mmix_source *source;
    size_t K, rates;
    int32_t ignore;
    mmix_real *weights;                          /* (rates, K, D + 1) */
    mmix_miou_count *count;                      /* (rates, K) */
    /* Of the batch at hand: */
    int32_t *label;                              /* (n, h, w) */
    mmix_real *logits;                           /* (n, gh·gw, rates·K), of tokens */
    mmix_real *scratch;                          /* (lanes, 4, rates·K) */
    /* While heads learn: */
    mmix_real *gradient;                         /* of the weights */
    mmix_real *d_logits;                         /* as logits */
    double pixel_weight;                         /* 1 over the pixels that count */
    double *loss;                                /* (n, rates) */
    double *corner;                              /* (lanes, 4, rates·K) */
} mmixi_probe_job;
/* The four tokens around a pixel: number 2 i + k is the i-th of its two rows, the k-th of its two
   columns. */
typedef struct mmixi_probe_taps {
    mmixi_tap y[2], x[2];
} mmixi_probe_taps;
static void mmixi_probe_row(const mmix_source *s, size_t y, mmixi_probe_taps *taps)
{
    double ratio = (double)s->gh / (double)s->h;
    mmixi_resize_taps(MMIX_BILINEAR, s->gh, ratio, y, taps->y);
}
static void mmixi_probe_column(const mmix_source *s, size_t x, mmixi_probe_taps *taps)
{
    double ratio = (double)s->gw / (double)s->w;
    mmixi_resize_taps(MMIX_BILINEAR, s->gw, ratio, x, taps->x);
}
/* Where token t of the four begins in logits and d_logits. */
static size_t mmixi_probe_token(const mmixi_probe_job *j, size_t picture,
                                const mmixi_probe_taps *taps, int t)
{
    const mmix_source *s = j->source;
    size_t row = picture * s->gh + taps->y[t / 2].at;
    size_t token = row * s->gw + taps->x[t % 2].at;
    return token * j->rates * j->K;
}
/* The logits of a pixel, for all rates. */
static void mmixi_probe_pixel(const mmixi_probe_job *j, size_t picture,
                              const mmixi_probe_taps *taps, mmix_real *logits)
{
    size_t C = j->rates * j->K;
    memset(logits, 0, C * sizeof *logits);
    for (int t = 0; t < 4; t++) {
        double weight = taps->y[t / 2].weight * taps->x[t % 2].weight;
        const mmix_real *token = j->logits + mmixi_probe_token(j, picture, taps, t);
        if (weight > 0) j->kernel->axpy(C, (mmix_real)weight, token, logits);
    }
}
/* Counts what the heads say of pictures. */
static void mmixi_probe_count_range(void *arg, mmixi_range range)
{
    const mmixi_probe_job *j = (const mmixi_probe_job *)arg;
    const mmix_source *s = j->source;
    size_t K = j->K, pixels = s->h * s->w;
    mmix_real *logits = j->scratch + range.lane * 4 * j->rates * K;
    mmixi_probe_taps taps;
    for (size_t i = range.begin * pixels; i < range.end * pixels; i++) {
        if (j->label[i] == j->ignore) continue;
        mmixi_probe_row(s, i % pixels / s->w, &taps);
        mmixi_probe_column(s, i % s->w, &taps);
        mmixi_probe_pixel(j, i / pixels, &taps, logits);
        for (size_t r = 0; r < j->rates; r++) {
            const mmix_real *u = logits + r * K;
            const mmix_real top = j->kernel->largest(K, u);
            size_t winner = 0;
            while (u[winner] < top) winner++;
            mmixi_miou_pixel(j->count + r * K, j->label[i], winner);
        }
    }
}

/* A cell: the pixels of a picture that lie between the same four tokens, rows y … y_end - 1 and
   columns x … x_end - 1; and what a thread needs for it. */
typedef struct mmixi_probe_cell {
    size_t picture, y, y_end, x, x_end;
    mmix_real *logits, *gradient;                /* (C) of a pixel, C = rates · K */
    mmix_real *side;                             /* (2, C): from a run of pixels, left and right */
    double *corner;                              /* (4, C): from the cell, for each of the four */
} mmixi_probe_cell;
/* The gradient of a pixel of this label, for all rates; its losses are added up. */
static void mmixi_probe_learn_pixel(const mmixi_probe_job *j, const mmixi_probe_cell *cell,
                                    int32_t label)
{
    size_t K = j->K;
    for (size_t r = 0; r < j->rates; r++) {
        const mmix_real *u = cell->logits + r * K;
        const mmix_real top = j->kernel->largest(K, u);
        mmix_real *e = cell->gradient + r * K;
        double sum = j->kernel->exp_row(K, 1, u, top, e);
        double loss = mmixi_log(sum) - ((double)u[label] - top);
        j->loss[cell->picture * j->rates + r] += j->pixel_weight * loss;
        j->kernel->scale(K, (mmix_real)(j->pixel_weight / sum), e, e);
        e[label] -= (mmix_real)j->pixel_weight;
    }
}
/* The gradients of pixels x … end - 1 of row y, at most MMIXI_PROBE_RUN, for the tokens left and
   right of them: cell->side. */
static void mmixi_probe_learn_run(const mmixi_probe_job *j, const mmixi_probe_cell *cell, size_t y,
                                  size_t x, size_t end, mmixi_probe_taps *taps)
{
    const mmix_source *s = j->source;
    const int32_t *label = j->label + (cell->picture * s->h + y) * s->w;
    size_t C = j->rates * j->K;
    memset(cell->side, 0, 2 * C * sizeof *cell->side);
    for (; x < end; x++) {
        if (label[x] == j->ignore) continue;
        mmixi_probe_column(s, x, taps);
        mmixi_probe_pixel(j, cell->picture, taps, cell->logits);
        mmixi_probe_learn_pixel(j, cell, label[x]);
        for (size_t k = 0; k < 2; k++) {
            mmix_real share = (mmix_real)taps->x[k].weight;
            mmix_real *side = cell->side + k * C;
            if (share > 0) j->kernel->axpy(C, share, cell->gradient, side);
        }
    }
}
/* The gradients of a cell that is one run. */
static void mmixi_probe_learn_small(const mmixi_probe_job *j, const mmixi_probe_cell *cell)
{
    size_t C = j->rates * j->K;
    mmixi_probe_taps taps;
    mmixi_probe_row(j->source, cell->y, &taps);
    mmixi_probe_learn_run(j, cell, cell->y, cell->x, cell->x_end, &taps);
    mmixi_probe_column(j->source, cell->x, &taps);       /* all pixels have the same four tokens */
    for (int t = 0; t < 4; t++) {
        mmix_real share = (mmix_real)taps.y[t / 2].weight;
        const mmix_real *side = cell->side + (size_t)(t % 2) * C;
        mmix_real *to = j->d_logits + mmixi_probe_token(j, cell->picture, &taps, t);
        if (share > 0) j->kernel->axpy(C, share, side, to);
    }
}
/* Adds a run's gradients to the cell's corners. */
static void mmixi_probe_add_run(const mmixi_probe_cell *cell, const mmixi_probe_taps *taps,
                                size_t C)
{
    for (int t = 0; t < 4; t++) {
        double share = taps->y[t / 2].weight;
        const mmix_real *side = cell->side + (size_t)(t % 2) * C;
        double *corner = cell->corner + (size_t)t * C;
        for (size_t c = 0; share > 0 && c < C; c++)
            corner[c] += share * side[c];
    }
}
/* The gradients of a cell of several runs. A token may get those of a million pixels: the sum of so
   many would lose digits in float. */
static void mmixi_probe_learn_large(const mmixi_probe_job *j, const mmixi_probe_cell *cell)
{
    size_t C = j->rates * j->K, end;
    mmixi_probe_taps taps;
    memset(cell->corner, 0, 4 * C * sizeof *cell->corner);
    for (size_t y = cell->y; y < cell->y_end; y++) {
        mmixi_probe_row(j->source, y, &taps);
        for (size_t x = cell->x; x < cell->x_end; x = end) {
            end = mmixi_min(x + MMIXI_PROBE_RUN, cell->x_end);
            mmixi_probe_learn_run(j, cell, y, x, end, &taps);
            mmixi_probe_add_run(cell, &taps, C);
        }
    }
    mmixi_probe_column(j->source, cell->x, &taps);       /* all pixels have the same four tokens */
    for (int t = 0; t < 4; t++) {
        mmix_real *to = j->d_logits + mmixi_probe_token(j, cell->picture, &taps, t);
        const double *corner = cell->corner + (size_t)t * C;
        for (size_t c = 0; c < C; c++)
            to[c] += (mmix_real)corner[c];
    }
}
/* The first pixel behind `at`, of `pixels` along an axis, that lies between other tokens. */
static size_t mmixi_probe_cell_end(size_t tokens, size_t pixels, size_t at)
{
    mmixi_tap first[2], tap[2];
    double ratio = (double)tokens / (double)pixels;
    mmixi_resize_taps(MMIX_BILINEAR, tokens, ratio, at, first);
    for (at++; at < pixels; at++) {
        mmixi_resize_taps(MMIX_BILINEAR, tokens, ratio, at, tap);
        int same = tap[0].at == first[0].at && tap[1].at == first[1].at;
        if (!same) break;
    }
    return at;
}
/* Losses and gradients of pictures, cell by cell. */
static void mmixi_probe_learn_range(void *arg, mmixi_range range)
{
    const mmixi_probe_job *j = (const mmixi_probe_job *)arg;
    const mmix_source *s = j->source;
    size_t C = j->rates * j->K;
    mmixi_probe_cell cell;
    cell.logits = j->scratch + range.lane * 4 * C;
    cell.gradient = cell.logits + C;
    cell.side = cell.gradient + C;
    cell.corner = j->corner + range.lane * 4 * C;
    for (size_t picture = range.begin; picture < range.end; picture++) {
        cell.picture = picture;
        for (cell.y = 0; cell.y < s->h; cell.y = cell.y_end) {
            cell.y_end = mmixi_probe_cell_end(s->gh, s->h, cell.y);
            for (cell.x = 0; cell.x < s->w; cell.x = cell.x_end) {
                cell.x_end = mmixi_probe_cell_end(s->gw, s->w, cell.x);
                size_t rows = cell.y_end - cell.y, columns = cell.x_end - cell.x;
                if (rows == 1 && columns <= MMIXI_PROBE_RUN)
                    mmixi_probe_learn_small(j, &cell);
                else mmixi_probe_learn_large(j, &cell);
            }
        }
    }
}

/* Reads pictures number rows[0 … n - 1] as X (n · gh·gw, D + 1), with a 1 behind each token's
   features, and their labels. *counted: pixels that are not void. 0, or -1. */
static int mmixi_probe_read(mmix_ctx *m, mmixi_probe_job *j, const size_t *rows, size_t n,
                            mmix_tensor *X, size_t *counted)
{
    static const char who[] = "mmix_linear_probe";
    const mmix_source *s = j->source;
    size_t D = s->dim, width = D + 1;
    mmix_real *x = mmixi_of(X);
    if (s->read(s->user, rows, n, x, j->label))
        mmix_fail(m, MMIX_ERROR_INTERRUPTED, "%s: stopped by its source at row %.0f", who,
                  (double)*rows);
    if (m->error_kind) return -1;
    for (size_t r = mmix_shape(X, 0); r-- > 0;) {        /* the last row moves first */
        mmix_real *row = x + r * width;
        memmove(row, x + r * D, D * sizeof *x);
        row[D] = 1;
    }
    if (mmixi_bounded(m, who, "a batch", X)) return -1;
    size_t pixels = n * s->h * s->w, count = 0;
    double last = (double)j->K - 1;
    for (size_t i = 0; i < pixels; i++) {
        if (j->label[i] == j->ignore) continue;
        if (mmixi_within(m, who, "a label", j->label[i], 0, last))
            return -1;
        count++;
    }
    *counted = count;
    return 0;
}
/* Room for a batch of n pictures, the features among it, and their logits. NULL on error. */
static mmix_tensor *mmixi_probe_logits(mmix_ctx *m, mmixi_probe_job *j, const size_t *rows,
                                       size_t n, size_t *counted)
{
    const mmix_source *s = j->source;
    size_t D = s->dim;
    size_t C = j->rates * j->K;
    size_t tokens = mmixi_mul(n, s->gh * s->gw);
    mmix_tensor *X = mmix_new2(m, tokens, D + 1);
    j->label = (int32_t *)mmixi_step_array(m, n, s->h * s->w, sizeof *j->label);
    j->logits = mmixi_reals(m, tokens, C);
    j->scratch = mmixi_reals(m, m->lanes * 4, C);
    if (m->error_kind || mmixi_probe_read(m, j, rows, n, X, counted))
        return NULL;
    mmixi_mat x = mmixi_values(X);
    mmixi_mat W = mmixi_matrix(j->weights, C, D + 1, x.rs);
    mmixi_mat Z = mmixi_matrix(j->logits, tokens, C, (ptrdiff_t)C);
    return mmixi_product(m, Z, x, mmixi_t(W), 0) ? NULL : X;
}
/* The gradient of n pictures; the rates' losses go to loss. 0, or -1. */
static int mmixi_probe_learn(mmix_ctx *m, mmixi_probe_job *j, const size_t *rows, size_t n,
                             double *loss)
{
    const mmix_source *s = j->source;
    mmix_mark mark = mmix_mark_here(m);
    size_t R = j->rates, C = R * j->K, counted;
    mmix_tensor *X = mmixi_probe_logits(m, j, rows, n, &counted);
    if (!X) return -1;
    size_t tokens = mmix_shape(X, 0);
    j->d_logits = mmixi_reals(m, tokens, C);
    j->loss = mmixi_doubles(m, n, R);
    j->corner = mmixi_doubles(m, m->lanes * 4, C);
    if (m->error_kind) return -1;
    j->pixel_weight = 1 / (double)mmixi_max(counted, 1);
    memset(j->d_logits, 0, tokens * C * sizeof *j->d_logits);
    memset(j->loss, 0, n * R * sizeof *j->loss);
    mmixi_ranges(m, n, mmixi_row_grain(s->h * s->w * C), mmixi_probe_learn_range, j);
    memset(loss, 0, R * sizeof *loss);
    for (size_t i = 0; i < n * R; i++)
        loss[i % R] += j->loss[i];
    mmixi_mat x = mmixi_values(X);
    mmixi_mat dW = mmixi_matrix(j->gradient, C, s->dim + 1, x.rs);
    mmixi_mat dZ = mmixi_matrix(j->d_logits, tokens, C, (ptrdiff_t)C);
    if (mmixi_product(m, dW, mmixi_t(dZ), x, 0))
        return -1;
    mmix_rewind(m, mark);
    return 0;
}
/* The counts of the first n pictures of order. */
static void mmixi_probe_count(mmix_ctx *m, mmixi_probe_job *j, const size_t *order, size_t n,
                              size_t batch)
{
    memset(j->count, 0, j->rates * j->K * sizeof *j->count);
    for (size_t at = 0; at < n; at += batch) {
        mmix_mark mark = mmix_mark_here(m);
        size_t pictures = mmixi_min(batch, n - at), counted;
        if (!mmixi_probe_logits(m, j, order + at, pictures, &counted))
            return;
        mmixi_ranges(m, pictures, pictures, mmixi_probe_count_range, j);         /* as one task */
        mmix_rewind(m, mark);
    }
}
/* All epochs: batches of the n pictures of order, which is drawn anew for each. loss (steps,
   rates). */
static void mmixi_probe_train(mmix_ctx *m, const mmix_probe_config *o, mmixi_probe_job *j,
                              size_t *order, size_t n, size_t batch, size_t steps, double *loss)
{
    size_t R = o->rates;
    size_t part = j->K * (j->source->dim + 1);
    size_t iters = n / batch;
    mmix_real *momentum = mmixi_reals(m, R, part);
    mmix_sgd sgd;
    memset(&sgd, 0, sizeof sgd);
    sgd.weight_decay = o->weight_decay;
    sgd.momentum = o->momentum;
    j->gradient = mmixi_reals(m, R, part);
    if (m->error_kind) return;
    for (size_t step = 0; step < steps; step++) {
        size_t epoch = step / iters;
        if (step % iters == 0) mmixi_shuffle(m, order, n, epoch);
        const size_t *rows = order + step % iters * batch;
        if (mmixi_probe_learn(m, j, rows, batch, loss + step * R))
            return;
        for (size_t i = 0; i < R; i++) {
            size_t at = i * part;
            double lr = o->rate[i] * (double)batch / 256;
            sgd.lr = mmix_schedule_cosine(lr, 0, o->epochs, 1, 0, 0, epoch);
            mmixi_sgd_update(&sgd, part, j->weights + at, j->gradient + at,
                             momentum + at, 1, 1, step == 0);
        }
    }
}
MMIXI_COLD_BEGIN
MMIXDEF mmix_probe_config mmix_probe_default(void)
{
    mmix_probe_config o;
    memset(&o, 0, sizeof o);
    o.batch = 256;
    o.epochs = 100;
    o.rates = 1;
    o.rate[0] = 1e-3;
    o.momentum = 0.9;
    o.held = 0.1;
    o.void_label = -1;
    return o;
}
/* A source of features of this width. 0, or -1. */
static int mmixi_source_check(mmix_ctx *m, const char *who, const mmix_source *s, size_t dim)
{
    if (mmixi_settings_check(m, who, s,
                             "size count 1, size dim 1, size gh 1 65536, size gw 1 65536, "
                             "size h 1 65536, size w 1 65536")) return -1;
    if (!s->read) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: read is NULL", who);
    double width = (double)dim;
    return mmixi_within(m, who, "dim", (double)s->dim, width, width);
}
/* The arguments of mmix_linear_probe. 0, or -1. */
static int mmixi_probe_check(mmix_ctx *m, const mmix_probe_config *o, const mmix_source *train,
                             const mmix_source *test)
{
    static const char who[] = "mmix_linear_probe";
    mmixi_dims d;
    if (!mmixi_given(m, who, "*config, *train", o, train))
        return -1;
    if (mmixi_settings_check(m, who, o,
                             "size classes 1, size batch 1, size epochs 0, size rates 1 16, "
                             "double16 rate 0 1e30, double momentum 0 1, "
                             "double weight_decay 0 1e30, double held 0 9e-1")) return -1;
    if (mmixi_source_check(m, who, train, train->dim)) return -1;
    if (test && mmixi_source_check(m, who, test, train->dim))
        return -1;
    memset(&d, 0, sizeof d);
    d.D = train->dim + 1;
    d.K = o->classes;
    return mmixi_expect(m, who, &d, "+start? KD", o->start) ? 0 : -1;
}
/* Element i of a head (K, D + 1) before it learns. */
static mmix_real mmixi_probe_start(const mmix_ctx *m, const mmix_probe_config *o, size_t i,
                                   size_t width)
{
    if (o->start)
        return mmixi_of(o->start)[mmixi_place(o->start, i)];
    if (i % width == width - 1) return 0;        /* a bias */
    return (mmix_real)(0.01 * mmix_random_normal(m, MMIXI_RANDOM_INIT, 0, i));
}
/* The rate that does best on the pictures held out, the first of equal ones: r->held and r->best.
   `last`: the losses of the last step, or NULL. 0, or -1 if no loss is finite. */
static int mmixi_probe_choose(mmix_ctx *m, const mmixi_probe_job *j, const double *last,
                              mmix_probe_result *r)
{
    size_t labels = j->source->h * j->source->w;
    for (size_t i = 0; i < j->rates; i++) {
        mmix_miou_result share = mmix_miou(j->count + i * j->K, j->K, NULL);
        r->held[i] = labels > 1 ? share.miou : share.accuracy;
        if (last && !mmixi_is_finite(last[i]))
            r->held[i] = -1;
        if (r->held[i] > r->held[r->best])
            r->best = i;
    }
    if (r->held[r->best] >= 0) return 0;
    return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_linear_probe: rate: no loss stays finite");
}
MMIXDEF int mmix_linear_probe(mmix_ctx *m, const mmix_probe_config *o, const mmix_source *train,
                              const mmix_source *test, mmix_probe_result *result)
{
    mmix_probe_result r;
    mmixi_probe_job j;
    if (mmixi_result(m, "mmix_linear_probe", result, sizeof *result)) return -1;
    if (mmixi_probe_check(m, o, train, test)) return -1;
    size_t R = o->rates;
    size_t D = train->dim + 1;
    size_t K = o->classes;
    size_t part = K * D;
    size_t held = 0;
    if (R > 1) {
        double wanted = ceil((double)train->count * o->held);
        held = mmixi_min((size_t)wanted, train->count - 1);
    }
    size_t learned = train->count - held;
    size_t batch = mmixi_min(o->batch, learned);
    memset(&r, 0, sizeof r);
    r.steps = o->epochs * (learned / batch);
    r.head = mmix_new2(m, K, D);
    r.loss = mmixi_doubles(m, r.steps, R);
    r.held = mmixi_doubles(m, R, 1);
    r.count = (mmix_miou_count *)mmixi_step_array(m, R, K, sizeof *r.count);
    mmix_mark mark = mmix_mark_here(m);
    size_t most = test ? mmixi_max(train->count, test->count) : train->count;
    size_t *order = (size_t *)mmixi_step_array(m, most, 1, sizeof *order);
    memset(&j, 0, sizeof j);
    j.kernel = m->k;
    j.source = train;
    j.K = K;
    j.rates = R;
    j.ignore = o->void_label;
    j.weights = mmixi_reals(m, R, part);
    j.count = r.count;
    if (m->error_kind) return -1;

    for (size_t i = 0; i < R * part; i++)
        j.weights[i] = mmixi_probe_start(m, o, i % part, D);
    for (size_t i = 0; i < most; i++)
        order[i] = i;
    mmixi_shuffle(m, order, train->count, UINT32_MAX);           /* the first are held out */
    mmixi_probe_train(m, o, &j, order + held, learned, batch, r.steps, r.loss);
    if (m->error_kind) return -1;
    mmixi_probe_count(m, &j, order, held, batch);
    if (m->error_kind) return -1;
    const double *last = r.steps > 0 ? r.loss + (r.steps - 1) * R : NULL;
    if (mmixi_probe_choose(m, &j, last, &r))
        return -1;

    j.weights += r.best * part;
    j.rates = 1;
    memcpy(mmixi_of(r.head), j.weights, part * sizeof *j.weights);
    for (size_t i = 0; i < most; i++)
        order[i] = i;
    j.source = test;
    mmixi_probe_count(m, &j, order, test ? test->count : 0, o->batch);
    r.test = mmix_miou(r.count, K, NULL);
    mmix_rewind(m, mark);
    mmix_tensor *bias = mmix_slice(m, r.head, 1, D - 1, 1);
    r.weight = mmix_slice(m, r.head, 1, 0, D - 1);
    r.bias = mmixi_as(m, bias, 1, K, 0, 0, 0);
    if (m->error_kind) return -1;
    *result = r;
    return 0;
}
MMIXI_COLD_END

/* ------------------------------------------------------------------------------------
   Rank              σ of a block; p = σ/Σσ
                     numerical: how many σ > max(height, width) eps σ₁
                     effective: e^(-Σ p log p);   stable: Σσ² / σ₁²

   Effective rank: Roy & Vetterli 2007. The bounds of mmix_mix_rank: arXiv 2511.18380.

   One-sided Jacobi (Hestenes 1958): pairs of columns of A are turned until all are orthogonal; then
   their lengths are the singular values. Small ones come out as exact as large ones.
   ------------------------------------------------------------------------------------ */

/* Both of n singular values, not all of them 0. */
MMIXI_PLAIN double mmixi_plain_effective_rank(const double *sigma, size_t n)
{
    double sum = 0, entropy = 0;
    for (size_t i = 0; i < n; i++)
        sum += sigma[i];
    for (size_t i = 0; i < n; i++) {
        double p = sigma[i] / sum;
        if (p > 0) entropy -= p * log(p);
    }
    return exp(entropy);
}
MMIXI_PLAIN double mmixi_plain_stable_rank(const double *sigma, size_t n)
{
    double squares = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        squares += sigma[i] * sigma[i];
        largest = fmax(largest, sigma[i]);
    }
    return squares / (largest * largest);
}

/* Turns the columns x and y, of squared lengths *p and *q, so that they are orthogonal and x is the
   longer one. Returns 0 if they are so already. */
static int mmixi_singular_turn(double *x, double *y, size_t len, double *p, double *q)
{
    double along = mmixi_dot(x, y, len);
    double size = fabs(along);
    double more = fmax(*p, *q);
    double less = fmin(*p, *q);
    double noise = 1e-15 * sqrt(more) * sqrt(less) + 1e-290;
    int swap = *p < more;
    if (!swap && size <= noise) return 0;
    /* The cotangent of twice the angle (Jacobi 1846), then tangent, cosine and sine of the angle.
       more - less may be flushed to 0 where the lengths differ, so size itself is asked. */
    double cot = size > 0 ? (more - less) / (2 * size) : HUGE_VAL;
    double t = 1 / (cot + sqrt(cot * cot + 1));
    double c = 1 / sqrt(t * t + 1);
    double s = along < 0 ? -t * c : t * c;
    *p = more + t * size;                        /* the longer becomes longer */
    *q = fmax(less - t * size, 0);
    if (swap) {
        double sine = s;
        s = c;
        c = sine;
    }
    for (size_t i = 0; i < len; i++) {
        double u = x[i], v = y[i];
        x[i] = c * u + s * v;
        y[i] = c * v - s * u;
    }
    return 1;
}
/* The n rows of a (n, len) are the columns in question: they are made orthogonal, of falling
   lengths sigma. */
static void mmixi_singular(double *a, size_t n, size_t len, double *sigma)
{
    int turned = 1;
    for (int sweep = 0; sweep < 60 && turned; sweep++) {
        turned = 0;
        for (size_t i = 0; i < n; i++)
            sigma[i] = mmixi_dot(a + i * len, a + i * len, len);
        for (size_t p = 0; p < n; p++) {
            double *x = a + p * len;
            for (size_t q = p + 1; q < n; q++)
                turned |= mmixi_singular_turn(x, a + q * len, len, sigma + p, sigma + q);
        }
    }
    for (size_t i = 0; i < n; i++)
        sigma[i] = sqrt(sigma[i]);
}

typedef struct mmixi_rank_job {
    mmixi_mat M;                                 /* matrices of R rows, in blocks of up to h x w */
    size_t R, h, w;
    double eps, *scratch;                        /* (lanes, h, w) */
    mmix_rank r;
} mmixi_rank_job;
/* Copies a block to a, its largest number made 1. Returns that number's size. */
static double mmixi_rank_copy(mmixi_mat block, double *a)
{
    double top = 0;
    size_t n = block.rows * block.cols;
    for (size_t e = 0; e < n; e++) {
        mmixi_mat element = mmixi_part(block, e / block.cols, e % block.cols, 1, 1);
        a[e] = *element.p;
        top = fmax(top, fabs(a[e]));
    }
    for (size_t e = 0; top > 0 && e < n; e++)
        a[e] /= top;
    return top;
}
static void mmixi_rank_task(void *arg, mmixi_range range)
{
    const mmixi_rank_job *j = (const mmixi_rank_job *)arg;
    const mmix_rank *r = &j->r;
    size_t index = range.begin;
    size_t line = index / r->cols;
    size_t matrix = line / r->rows;
    size_t i = line % r->rows * j->h;
    size_t k = index % r->cols * j->w;
    size_t rows = mmixi_min(j->h, j->R - i);
    size_t cols = mmixi_min(j->w, j->M.cols - k);
    mmixi_mat block = mmixi_part(j->M, matrix * j->R + i, k, rows, cols);
    double *a = j->scratch + range.lane * j->h * j->w;
    double *sigma = r->singular + index * r->width;
    if (block.cols <= block.rows) block = mmixi_t(block);        /* the shorter side is turned */
    double top = mmixi_rank_copy(block, a), sum = 0, logs = 0;
    if (!(top > 0)) return;
    mmixi_singular(a, block.rows, block.cols, sigma);
    double largest = sigma[0];
    double unit = top * largest;
    double noise = (double)block.cols * j->eps;
    for (size_t z = block.rows; z-- > 0;) {
        double p = sigma[z] / largest;
        r->numerical[index] += p > noise;
        r->stable[index] += p * p;
        sum += p;
        if (p > 0) logs += p * mmixi_log(p);
        sigma[z] = p * unit;
    }
    r->effective[index] = sum * mmixi_exp(-logs / sum);  /* -Σ p log p = log Σσ - Σ σ log σ / Σσ */
}

MMIXI_COLD_BEGIN
MMIXDEF int mmix_rank_of(mmix_ctx *m, mmix_tensor *M, size_t block, double eps, mmix_rank *result)
{
    static const char who[] = "mmix_rank_of";
    mmixi_rank_job j;
    mmixi_dims d;
    if (mmixi_result(m, who, result, sizeof *result)) return -1;
    if (!mmixi_expect(m, who, &d, "M ...RC", M)) return -1;
    if (mmixi_bounded(m, who, "M", M)) return -1;
    M = mmixi_strided(m, M);
    if (!M) return -1;
    j.M = mmixi_values(M);
    j.R = d.R;
    j.h = mmixi_min(block ? block : d.R, d.R);
    j.w = mmixi_min(block ? block : d.C, d.C);
    j.r.matrices = mmixi_rows(M) / d.R;
    j.r.rows = mmixi_ceil_div(d.R, j.h);
    j.r.cols = mmixi_ceil_div(d.C, j.w);
    j.r.width = mmixi_min(j.h, j.w);
    size_t n = j.r.matrices * j.r.rows * j.r.cols;
    double *numbers = mmixi_doubles(m, n, 3 + j.r.width);
    j.scratch = mmixi_doubles(m, m->lanes, j.h * j.w);
    if (m->error_kind) return -1;
    memset(numbers, 0, n * (3 + j.r.width) * sizeof *numbers);
    j.r.numerical = numbers;
    j.r.effective = numbers + n;
    j.r.stable = numbers + 2 * n;
    j.r.singular = numbers + 3 * n;
    j.eps = eps;
    if (!(eps > 0)) j.eps = MMIXI_DOUBLE ? DBL_EPSILON : FLT_EPSILON;
    mmixi_ranges(m, n, 1, mmixi_rank_task, &j);
    *result = j.r;
    return 0;
}
/* The numerical ranks of L's blocks: with scores of 1 the matrix of an SSD mixer is L alone. NULL
   on error. */
static double *mmixi_decay_ranks(mmix_ctx *m, const mmix_mixer *ssd, const mmixi_dims *d,
                                 size_t block, double eps)
{
    mmix_mixer decay = *ssd;
    mmix_tensor *ones = mmix_new4(m, d->B, d->L, 1, 1);
    ones = mmix_fill(ones, 1);
    mmix_rank rank;
    decay.q = ones;
    decay.k = ones;
    decay.D = NULL;
    decay.final_state = NULL;
    if (mmix_rank_of(m, mmix_mix_matrix(m, &decay), block, eps, &rank))
        return NULL;
    return rank.numerical;
}

/* What mmix_mix_rank measures, and on what. */
typedef struct mmixi_mix_rank_job {
    const mmix_mixer *mixer;
    mmix_tensor *M, *out_proj;                   /* (B, H, L, L); (D, W) or NULL */
    double eps;
    mmixi_dims d;                                /* B, H, L, P, and W = H·P */
    mmix_mixer_rank r;
} mmixi_mix_rank_job;
/* Block (i, j) of all heads' matrices of a sequence, by its first row and column. */
typedef struct mmixi_mix_block {
    size_t sequence, index;                      /* index: among the n x n blocks of a matrix */
    size_t row, column, rows, cols;
} mmixi_mix_block;
/* The bound of one head's block, number `at` of all blocks. */
static double mmixi_mix_bound(const mmixi_mix_rank_job *j, const mmixi_mix_block *b, size_t at)
{
    const mmix_mixer *x = j->mixer;
    double full = (double)mmixi_min(b->rows, b->cols);
    double N = (double)mmix_shape(x->k, 3);
    int diagonal = b->row == b->column;
    if (!(j->r.M.numerical[at] > 0))             /* zeros, as a mask leaves them */
        return 0;
    if (x->kind == MMIX_SSD)
        return diagonal ? full : fmin(full, N * j->r.decay[at]);
    if (x->kind == MMIX_LINEAR) {
        int triangular = diagonal && x->mask == MMIX_MASK_CAUSAL;
        return triangular ? full : fmin(full, N);
    }
    return full;
}
/* A block's bounds and its part in the diagonals, head by head; and the rank of what it adds to the
   layer's output, M_IJ x_J of all heads side by side. */
static void mmixi_mix_rank_block(mmix_ctx *m, const mmixi_mix_rank_job *j, const mmixi_mix_block *b,
                                 double *joined)
{
    const mmixi_dims *d = &j->d;
    const mmix_mixer *x = j->mixer;
    const mmix_mixer_rank *r = &j->r;
    size_t n = r->M.rows * r->M.cols;
    mmix_heads v = mmixi_heads_of(x->v, mmixi_of(x->v), d->H);
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *out = mmix_new2(m, b->rows, d->W);
    mmix_rank rank;
    if (!out) return;
    mmixi_mat all_M = mmixi_values(j->M), all_Y = mmixi_values(out);
    for (size_t h = 0; h < d->H; h++) {
        size_t head = b->sequence * d->H + h;
        size_t at = head * n + b->index;
        r->bound[at] = mmixi_mix_bound(j, b, at);
        if (b->index == 0) r->diagonal[head] = 0;
        if (b->row == b->column)
            r->diagonal[head] += r->M.numerical[at];
        mmix_real *x_j = mmixi_at(&v, b->sequence, b->column, h);
        mmixi_mat X = mmixi_matrix(x_j, b->cols, d->P, v.token);
        mmixi_mat M = mmixi_part(all_M, head * d->L + b->row, b->column, b->rows, b->cols);
        mmixi_mat Y = mmixi_part(all_Y, 0, h * d->P, b->rows, d->P);
        mmixi_multiply(m->k, Y, M, X, 0);
    }
    if (j->out_proj)
        out = mmix_linear(m, out, j->out_proj, NULL);
    if (!mmix_rank_of(m, out, 0, j->eps, &rank))
        *joined = *rank.numerical;
    mmix_rewind(m, mark);
}
MMIXDEF int mmix_mix_rank(mmix_ctx *m, const mmix_mixer *mixer, mmix_tensor *out_proj, size_t block,
                          double eps, mmix_mixer_rank *result)
{
    static const char who[] = "mmix_mix_rank";
    mmixi_mix_rank_job j;
    mmixi_dims *d = &j.d;
    mmix_mixer_rank *r = &j.r;
    if (mmixi_result(m, who, result, sizeof *result)) return -1;
    if (!mmixi_given(m, who, "*mixer", mixer)) return -1;
    memset(&j, 0, sizeof j);
    j.mixer = mixer;
    j.out_proj = out_proj;
    j.eps = eps;
    j.M = mmix_mix_matrix(m, mixer);
    d->P = mmix_shape(mixer->v, 3);
    d->W = mmix_shape(j.M, 1) * d->P;
    if (!mmixi_expect(m, who, d, "+M BHLL, out_proj? *W", j.M, out_proj))
        return -1;
    if (block == 0) block = mmixi_max(d->L / 2, 1);
    block = mmixi_min(block, d->L);
    r->block = block;
    if (mmix_rank_of(m, j.M, block, eps, &r->M))
        return -1;
    if (mixer->kind == MMIX_SSD)
        r->decay = mmixi_decay_ranks(m, mixer, d, block, eps);
    if (mmix_rank_of(m, j.M, 0, eps, &r->whole))
        return -1;
    size_t n = r->M.rows * r->M.cols;
    r->bound = mmixi_doubles(m, r->M.matrices, n);
    r->diagonal = mmixi_doubles(m, r->M.matrices, 1);
    r->joined = mmixi_doubles(m, d->B, n);
    for (size_t e = 0; e < d->B * n && !m->error_kind; e++) {
        mmixi_mix_block b;
        b.sequence = e / n;
        b.index = e % n;
        b.row = b.index / r->M.cols * block;
        b.column = b.index % r->M.cols * block;
        b.rows = mmixi_min(block, d->L - b.row);
        b.cols = mmixi_min(block, d->L - b.column);
        mmixi_mix_rank_block(m, &j, &b, r->joined + e);
    }
    if (m->error_kind) return -1;
    *result = *r;
    return 0;
}
MMIXI_COLD_END

/* ------------------------------------------------------------------------------------
   PCA               C v = λ v for the k largest λ;  C = Σ (x - mean)(x - mean)ᵀ
                     variance = λ / (rows - 1)

   Subspace iteration (Bauer 1957): a block of vectors V (block, D) is multiplied by C again and
   again; between, Jacobi's turns make the images V C orthogonal, and their lengths are the λ. Each
   round gains a factor λ_k / λ_(block+1); a block of all D directions is done after two. A trace of
   the unit matrix is added to C, so that no image vanishes.
   ------------------------------------------------------------------------------------ */

typedef struct mmixi_pca_job {
    size_t N, D, k, block;
    double *centred;                             /* (N, D): x - mean */
    double *covariance;                          /* (D, D): C */
    double *v, *images;                          /* (block, D): V, of length 1, and V C */
    double *lambda;                              /* (block): lengths of the images */
    double energy, trace;                        /* Σ λ, never 0; what C's diagonal gets */
} mmixi_pca_job;
/* Row i of C from its diagonal on. */
static void mmixi_pca_covariance_row(void *arg, mmixi_range range)
{
    const mmixi_pca_job *j = (const mmixi_pca_job *)arg;
    size_t D = j->D, i = range.begin;
    double *row = j->covariance + i * D;
    memset(row, 0, D * sizeof *row);
    for (size_t r = 0; r < j->N; r++) {
        const double *x = j->centred + r * D, x_i = x[i];
        for (size_t d = i; d < D; d++)
            row[d] += x_i * x[d];
    }
}
/* The image of vector number i. */
static void mmixi_pca_image(void *arg, mmixi_range range)
{
    const mmixi_pca_job *j = (const mmixi_pca_job *)arg;
    size_t D = j->D, i = range.begin;
    const double *v = j->v + i * D;
    double *image = j->images + i * D;
    memset(image, 0, D * sizeof *image);
    for (size_t r = 0; r < D; r++) {
        const double *row = j->covariance + r * D, v_r = v[r];
        for (size_t d = 0; d < D; d++)
            image[d] += v_r * row[d];
    }
}
/* The rows of x without their mean. */
static void mmixi_pca_centre(mmixi_pca_job *j, const mmix_tensor *x, double *mean)
{
    size_t D = j->D, numbers = j->N * D;
    memset(mean, 0, D * sizeof *mean);
    double *centred = j->centred;
    for (size_t i = 0; i < numbers; i++) {
        centred[i] = mmixi_of(x)[mmixi_place(x, i)];
        mean[i % D] += centred[i] / (double)j->N;
    }
    j->energy = 1e-124;
    for (size_t i = 0; i < numbers; i++) {
        centred[i] -= mean[i % D];
        j->energy += centred[i] * centred[i];
    }
    j->trace = 1e-16 * j->energy;
}
static void mmixi_pca_covariance(mmix_ctx *m, mmixi_pca_job *j)
{
    size_t D = j->D;
    mmixi_ranges(m, D, 1, mmixi_pca_covariance_row, j);
    for (size_t a = 0; a < D; a++) {             /* the other half */
        double *row = j->covariance + a * D;
        for (size_t b = 0; b < a; b++)
            row[b] = j->covariance[b * D + a];
        row[a] += j->trace;
    }
}
/* Vectors to begin with: noise, or if all D directions are in the block, the axes. */
static void mmixi_pca_start(mmixi_pca_job *j)
{
    uint32_t noise = 1;
    int axes = j->block == j->D;
    for (size_t i = 0; i < j->block * j->D; i++) {
        noise = noise * 1664525u + 1013904223u;
        j->v[i] = noise / 4294967296.0 - 0.5;
        if (axes) j->v[i] = i % (j->D + 1) == 0;
    }
}
/* One round. Returns |C v - λ v|² for all k vectors together. */
static double mmixi_pca_round(mmix_ctx *m, mmixi_pca_job *j)
{
    size_t D = j->D;
    double wrong = 0;
    mmixi_ranges(m, j->block, 1, mmixi_pca_image, j);
    mmixi_singular(j->images, j->block, D, j->lambda);
    for (size_t i = 0; i < j->block * D; i++) {
        double lambda = j->lambda[i / D];
        double error = j->images[i] - lambda * j->v[i];
        if (i < j->k * D) wrong += error * error;
        j->v[i] = j->images[i] / lambda;
    }
    return wrong;
}
/* Component number i of the result, with its sign, its variance, and the projections on it. */
static void mmixi_pca_component(const mmixi_pca_job *j, size_t i, const mmix_pca_result *r)
{
    size_t D = j->D;
    const double *v = j->v + i * D;
    double *component = r->components + i * D, most = 0;
    for (size_t e = 0; e < D; e++)
        if (fabs(v[e]) > fabs(most))
            most = v[e];
    for (size_t e = 0; e < D; e++)
        component[e] = most < 0 ? -v[e] : v[e];
    double lambda = fmax(j->lambda[i] - j->trace, 0);
    r->variance[i] = lambda / (double)(j->N - 1);
    for (size_t row = 0; row < j->N; row++) {
        const double *x = j->centred + row * D;
        r->projection[row * j->k + i] = mmixi_dot(x, component, D);
    }
}
MMIXDEF int mmix_pca(mmix_ctx *m, const mmix_tensor *x, size_t k, mmix_pca_result *result)
{
    static const char who[] = "mmix_pca";
    mmix_pca_result r;
    mmixi_pca_job j;
    mmixi_dims d;
    if (mmixi_result(m, who, result, sizeof *result)) return -1;
    if (!mmixi_expect(m, who, &d, "x ND", x))
        return -1;
    if (mmixi_within(m, who, "k", (double)k, 1, (double)d.D))
        return -1;
    if (mmixi_within(m, who, "x's number of rows", (double)d.N, 2, HUGE_VAL))
        return -1;
    if (mmixi_bounded(m, who, "x", x)) return -1;
    j.N = d.N;
    j.D = d.D;
    j.k = k;
    j.block = mmixi_min(2 * k + 8, d.D);
    r.mean = mmixi_doubles(m, d.D, 1);
    r.components = mmixi_doubles(m, k, d.D);
    r.variance = mmixi_doubles(m, k, 1);
    r.projection = mmixi_doubles(m, d.N, k);
    mmix_mark mark = mmix_mark_here(m);
    j.centred = mmixi_doubles(m, d.N, d.D);
    j.covariance = mmixi_doubles(m, d.D, d.D);
    j.v = mmixi_doubles(m, j.block, d.D);
    j.images = mmixi_doubles(m, j.block, d.D);
    j.lambda = mmixi_doubles(m, j.block, 1);
    if (m->error_kind) return -1;
    mmixi_pca_centre(&j, x, r.mean);
    mmixi_pca_covariance(m, &j);
    mmixi_pca_start(&j);
    double wrong = HUGE_VAL;
    double bound = 1e-26 * j.energy * j.energy;
    for (int round = 0; round < 300 && wrong > bound; round++)   /* what is left varies equally */
        wrong = mmixi_pca_round(m, &j);
    for (size_t i = 0; i < k; i++)
        mmixi_pca_component(&j, i, &r);
    mmix_rewind(m, mark);
    *result = r;
    return 0;
}

/* ------------------------------------------------------------------------------------
   Class strategies  the mean or the maximum over tokens
   ------------------------------------------------------------------------------------ */

/* The mean, or the maximum, of one feature over the tokens that are used; x is that of token 0. */
static double mmixi_pool_feature(const mmix_tensor *tokens, const mmix_real *x, const char *used,
                                 int max)
{
    double sum = 0, count = 0, most = -HUGE_VAL;
    for (size_t t = 0; t < tokens->shape[1]; t++) {
        if (!used[t]) continue;
        double value = x[t * tokens->stride[1]];
        sum += value;
        count++;
        most = fmax(most, value);
    }
    return max ? most : sum / count;
}
/* Marks in used (L) the n tokens at positions, or all others. Returns how many are used; 0 is an
   error, and has a message. */
static size_t mmixi_pool_uses(mmix_ctx *m, const size_t *positions, size_t n, int others, size_t L,
                              char *used)
{
    static const char who[] = "mmix_pool_tokens";
    size_t count = 0;
    if (n > 0 && !mmixi_given(m, who, "*positions", positions))
        return 0;
    memset(used, others != 0, L);
    double last = (double)L - 1;
    for (size_t i = 0; i < n; i++) {
        if (mmixi_within(m, who, "a position", (double)positions[i], 0, last))
            return 0;
        used[positions[i]] = !others;
    }
    for (size_t t = 0; t < L; t++)
        count += used[t] != 0;
    if (count == 0)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: none of %.0f tokens is left", who, (double)L);
    return count;
}
MMIXDEF mmix_tensor *mmix_pool_tokens(mmix_ctx *m, const mmix_tensor *tokens,
                                      const size_t *positions, size_t n, int others, int max)
{
    mmixi_dims d;
    if (!mmixi_expect(m, "mmix_pool_tokens", &d, "tokens BLD", tokens))
        return NULL;
    mmix_tensor *out = mmix_new2(m, d.B, d.D);
    char *used = (char *)mmixi_step_array(m, d.L, 1, 1);
    if (m->error_kind) return NULL;
    if (mmixi_pool_uses(m, positions, n, others, d.L, used) == 0)
        return NULL;
    for (size_t b = 0; b < d.B; b++) {
        const mmix_real *x = mmixi_of(tokens) + b * tokens->stride[0];
        mmix_real *to = mmixi_of(out) + b * d.D;
        for (size_t i = 0; i < d.D; i++)
            to[i] = (mmix_real)mmixi_pool_feature(tokens, x + i, used, max);
    }
    return out;
}

/* ==== >>video ========================================================================
   labels of a first frame carried through a video by likeness of patches; the measures J and F
   ==================================================================================== */

/* ------------------------------------------------------------------------------------
   Propagation       label(p) = Σ w_q label(q),  w = softmax of cos(p, q)/T over the k likest q

   Jabri et al. 2020; DINO's eval_video_segmentation.py. The context is the first frame, whose
   labels are true, and the last n. By definition

       for (each token p)
           for (each frame of the context) for (each token q within the radius of p)
           keep cos(p, q) if it is among the k largest so far

   where of equal ones the earlier stays (DINO's code has all that equal the k-th). A label that
   fades is drawn as large as before, since each map is scaled by its own largest value, as there.

   A cosine is a dot product of rows of length 1: 0.88 s a frame for 60 x 107 tokens of width 384
   and 8 frames on one core (AVX2), 1.3 s for each frame of the context with all of it in sight.
   ------------------------------------------------------------------------------------ */

struct mmix_video {
    mmix_ctx *m;
    mmix_video_config config;
    mmixi_dims d;                                /* N = Y·X tokens, D wide; K labels; H·W pixels */
    size_t seen;                                 /* frames, the first included */
    mmix_params *memory;                         /* no parameters: it owns this and the frames */
    mmix_real *frame;                            /* (1 + frames) of: tokens (N, D), labels (K, N) */
    /* While a frame is being worked on: its tokens (N, D) of length 1 and its labels (K, N); and
       best (lanes, k), the largest cosines, falling, and where in `frame` the labels of those
       tokens lie. */
    mmix_real *x, *soft;
    mmixi_scored *best;
};
/* Numbers of a frame in memory. */
static size_t mmixi_video_frame_size(const mmix_video *v)
{
    return v->d.N * (v->d.D + v->d.K);
}
/* Where the memory of a frame begins: the first has a place of its own, the last ones take turns.
   */
static mmix_real *mmixi_video_at(const mmix_video *v, size_t frame)
{
    size_t place = frame == 0 ? 0 : 1 + (frame - 1) % v->config.frames;
    return v->frame + place * mmixi_video_frame_size(v);
}
/* The frame of the context behind this one: behind the first, the earliest of the last ones. */
static size_t mmixi_video_after(const mmix_video *v, size_t frame)
{
    size_t earliest = v->seen - mmixi_min(v->seen, v->config.frames);
    return mmixi_max(frame + 1, earliest);
}
/* Takes x and soft over as the frame seen last. */
static void mmixi_video_keep(mmix_video *v)
{
    size_t tokens = v->d.N * v->d.D;
    size_t labels = v->d.N * v->d.K;
    if (v->seen > 0 && v->config.frames == 0) return;
    mmix_real *to = mmixi_video_at(v, v->seen);
    memcpy(to, v->x, tokens * sizeof *to);
    memcpy(to + tokens, v->soft, labels * sizeof *to);
    v->seen++;
}

/* The k tokens of a frame of the context that are most like the token at row y, column x. */
static void mmixi_video_match(const mmix_video *v, size_t frame, size_t y, size_t x,
                              mmixi_scored *best)
{
    size_t X = v->d.X;
    size_t D = v->d.D;
    size_t R = v->config.radius;
    size_t top = y - mmixi_min(y, R);
    size_t bottom = mmixi_min(v->d.Y, y + R + 1);
    size_t left = x - mmixi_min(x, R);
    size_t right = mmixi_min(X, x + R + 1);
    const mmix_real *token = v->x + (y * X + x) * D;
    const mmix_real *tokens = mmixi_video_at(v, frame);
    const mmix_real *labels = tokens + v->d.N * D;
    mmixi_scored it;
    for (size_t there = top; there < bottom; there++)
        for (size_t at = there * X + left; at < there * X + right; at++) {
            it.score = v->m->k->dot(D, token, tokens + at * D);
            it.label = (double)(labels + at - v->frame);
            mmixi_scored_take(best, v->config.k, it);
        }
}
/* The labels of the token at row y, column x: the mean of those of the best, weighted by the
   softmax. */
static void mmixi_video_mean(const mmix_video *v, size_t y, size_t x, mmixi_scored *best)
{
    size_t N = v->d.N;
    size_t k = v->config.k;
    size_t token = y * v->d.X + x;
    double top = best->score;
    double T = v->config.temperature;
    double sum = 0;
    for (size_t i = 0; i < k; i++) {
        best[i].score = mmixi_exp((best[i].score - top) / T);
        sum += best[i].score;
    }
    for (size_t c = 0; c < v->d.K; c++) {
        const mmix_real *labels = v->frame + c * N;
        double mean = 0;
        for (size_t i = 0; i < k; i++) {
            size_t place = (size_t)best[i].label;
            mean += best[i].score * labels[place];
        }
        v->soft[c * N + token] = (mmix_real)(mean / sum);
    }
}
/* A row of tokens. */
static void mmixi_video_row(void *arg, mmixi_range range)
{
    const mmix_video *v = (const mmix_video *)arg;
    size_t k = v->config.k, y = range.begin;
    mmixi_scored *best = v->best + range.lane * k;
    for (size_t x = 0; x < v->d.X; x++) {
        mmixi_scored_none(best, k);
        for (size_t f = 0; f < v->seen; f = mmixi_video_after(v, f))
            mmixi_video_match(v, f, y, x, best);
        mmixi_video_mean(v, y, x, best);
    }
}

MMIXDEF mmix_video_config mmix_video_davis(void)
{
    mmix_video_config c;
    c.frames = 7;
    c.radius = 12;
    c.k = 5;
    c.temperature = 0.1;
    return c;
}
/* The tokens of a frame as rows of length 1. 0, or -1. */
static int mmixi_video_tokens(mmix_ctx *m, const char *who, mmix_video *v,
                              const mmix_tensor *tokens)
{
    const char *spec = mmix_ndim(tokens) == 3 ? "+tokens 1ND" : "+tokens ND";
    if (!mmixi_expect(m, who, &v->d, spec, tokens))
        return -1;
    if (mmixi_bounded(m, who, "tokens", tokens)) return -1;
    mmix_tensor *unit = mmix_l2_normalise(m, (mmix_tensor *)tokens, 1e-12);
    v->x = mmixi_of(unit);
    return m->error_kind ? -1 : 0;
}
/* A token of the first frame has the label of the pixel in its middle, as the protocol's masks have
   (resized to the grid, nearest): each token is one object's, and figures compare with published
   ones. An object that no middle meets is lost. */
static mmix_real *mmixi_video_first_labels(mmix_ctx *m, const mmixi_dims *d,
                                           const mmix_tensor *mask)
{
    mmix_tensor *zeros = mmix_fill(mmix_new3(m, d->K, d->Y, d->X), 0);
    mmix_real *soft = mmixi_of(zeros);
    for (size_t i = 0; soft && i < d->N; i++) {
        size_t row = i / d->X;
        size_t column = i % d->X;
        size_t y = (2 * row + 1) * d->H / (2 * d->Y);
        size_t x = (2 * column + 1) * d->W / (2 * d->X);
        size_t label = (size_t)mmixi_index(mask, y * d->W + x);
        soft[label * d->N + i] = 1;
    }
    return soft;
}
/* A video in memory of its own, of a draft that has everything but frames. NULL on error. */
static mmix_video *mmixi_video_new(const mmix_video *draft)
{
    mmix_ctx *m = draft->m;
    size_t frames = draft->config.frames + 1;
    size_t numbers = mmixi_mul(draft->d.N, draft->d.D + draft->d.K);
    size_t bytes = mmixi_mul(numbers, frames * sizeof(mmix_real));
    bytes = mmixi_min(bytes, SIZE_MAX / 2);
    mmix_params *memory = mmix_params_create(m);
    mmix_real *frame = (mmix_real *)mmixi_own(memory, bytes);
    mmix_video *v = (mmix_video *)mmixi_own(memory, sizeof *v);
    if (m->error_kind) {
        mmix_params_destroy(memory);
        return NULL;
    }
    *v = *draft;
    v->memory = memory;
    v->frame = frame;
    return v;
}
MMIXDEF mmix_video *mmix_video_create(mmix_ctx *m, mmix_video_config config,
                                      const mmix_tensor *tokens, size_t gh, size_t gw,
                                      const mmix_tensor *mask, size_t K)
{
    static const char who[] = "mmix_video_create";
    mmix_video draft;
    memset(&draft, 0, sizeof draft);
    draft.d.N = mmixi_mul(gh, gw);
    draft.d.Y = gh;
    draft.d.X = gw;
    draft.d.K = K;
    if (!mmixi_given(m, who, "gh, gw, K", gh, gw, K))
        return NULL;
    if (mmixi_settings_check(m, who, &config, "size frames 0 1e6, size radius, size k 1, "
                             "double temperature 1e-6")) return NULL;
    if (!mmixi_expect(m, who, &draft.d, "+mask:i32 HW", mask))
        return NULL;
    if (!mmixi_index_ok(m, who, "mask", mask, K)) return NULL;
    mmix_mark mark = mmix_mark_here(m);
    if (mmixi_video_tokens(m, who, &draft, tokens)) return NULL;
    draft.m = m;
    draft.soft = mmixi_video_first_labels(m, &draft.d, mask);
    draft.config = config;
    size_t farthest = mmixi_max(gh, gw);
    size_t tokens_seen = (config.frames + 1) * draft.d.N;
    draft.config.k = mmixi_min(config.k, tokens_seen);
    draft.config.radius = mmixi_min(config.radius, farthest);
    if (config.radius == 0) draft.config.radius = farthest;
    mmix_video *v = mmixi_video_new(&draft);
    if (!v) return NULL;
    mmixi_video_keep(v);
    mmix_rewind(m, mark);
    return v;
}
MMIXDEF void mmix_video_destroy(mmix_video *v)
{
    if (v) mmix_params_destroy(v->memory);
}
/* The labels (h, w) of a frame: at each pixel the largest of the maps (K, h, w), each scaled so
   that its least value is 0 and its largest 1; of equal ones the lower. A map of one value
   everywhere, but for rounding, stays as it is. Where map 0 was there are then the largest values.
   */
static void mmixi_video_labels(const mmix_video *v, mmix_real *maps, int32_t *labels)
{
    size_t pixels = v->d.H * v->d.W;
    mmix_real *best = maps;
    for (size_t c = 0; c < v->d.K; c++) {
        const mmix_real *map = maps + c * pixels;
        double high, low = mmixi_ends(map, pixels, &high);
        double range = high - low;
        int even = !(range > 1e-5 * high);
        for (size_t i = 0; i < pixels; i++) {
            double scaled = even ? map[i] : (map[i] - low) / range;
            mmix_real value = (mmix_real)scaled;
            if (c > 0 && !(value > best[i])) continue;
            best[i] = value;
            labels[i] = (int32_t)c;
        }
    }
}
MMIXDEF int mmix_video_next(mmix_video *v, const mmix_tensor *tokens, mmix_video_frame *result)
{
    static const char who[] = "mmix_video_next";
    mmix_video_frame r;
    mmix_ctx *m = v ? v->m : NULL;
    if (mmixi_result(m, who, result, sizeof *result)) return -1;
    if (!v) return -1;
    const mmixi_dims *d = &v->d;
    const size_t shape[2] = { d->H, d->W };
    r.soft = mmix_new3(m, d->K, d->Y, d->X);
    r.labels = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    mmix_mark mark = mmix_mark_here(m);
    v->soft = mmixi_of(r.soft);
    size_t k = v->config.k;
    v->best = (mmixi_scored *)mmixi_step_array(m, m->lanes, k, sizeof *v->best);
    if (mmixi_video_tokens(m, who, v, tokens)) return -1;
    mmixi_ranges(m, d->Y, 1, mmixi_video_row, v);
    mmix_tensor *planes = mmixi_as(m, r.soft, 4, 1, d->K, d->Y, d->X);
    mmix_tensor *large = mmix_resize(m, planes, MMIX_BILINEAR, d->H, d->W, 0, 0);
    if (!large) return -1;
    mmixi_video_labels(v, mmixi_of(large), mmix_data_i32(r.labels));
    mmixi_video_keep(v);
    mmix_rewind(m, mark);
    *result = r;
    return 0;
}

/* ------------------------------------------------------------------------------------
   J and F           J = |P ∩ T| / |P ∪ T|;  F = 2 p r / (p + r) of boundaries

   Perazzi et al. 2016. A pixel is on an object's boundary if it and its right, lower or lower right
   neighbour are not alike, one inside, one outside: the border of the picture is none. p is the
   share of the prediction's boundary that has a pixel of the truth's within a disk of 0.008 of the
   picture's diagonal, rounded up to pixels, r the share of the truth's that has one of the
   prediction's. A share of nothing is 1: F is 1 without any boundary, 0 if one of the two has none.
   J of nothing at all is 1.
   ------------------------------------------------------------------------------------ */

/* Whether pixel (y, x) of a mask is on the object's boundary. */
static int mmixi_video_edge(const mmix_tensor *mask, int32_t object, size_t y, size_t x)
{
    size_t row = mask->stride[0];
    const int32_t *at = mmix_data_i32(mask) + y * row + x;
    size_t down = y + 1 < mask->shape[0] ? row : 0;
    size_t right = x + 1 < mask->shape[1] ? 1 : 0;
    int inside = at[0] == object;
    int right_too = (at[right] == object) == inside;
    int down_too = (at[down] == object) == inside;
    int both_too = (at[down + right] == object) == inside;
    return !(right_too && down_too && both_too);
}
/* Whether the boundary in a mask comes within R pixels of (y, x). */
static int mmixi_video_touches(const mmix_tensor *mask, int32_t object, size_t y, size_t x,
                               size_t R)
{
    size_t top = y - mmixi_min(y, R);
    size_t bottom = mmixi_min(mask->shape[0], y + R + 1);
    size_t left = x - mmixi_min(x, R);
    size_t right = mmixi_min(mask->shape[1], x + R + 1);
    for (size_t v = top; v < bottom; v++)
        for (size_t u = left; u < right; u++) {
            size_t down = v - y, across = u - x;         /* below 0 they wrap; squares are right */
            if (down * down + across * across > R * R) continue;
            if (mmixi_video_edge(mask, object, v, u)) return 1;
        }
    return 0;
}
/* The share of a's boundary that is near b's. */
static double mmixi_video_near(const mmix_tensor *a, const mmix_tensor *b, int32_t object)
{
    size_t h = a->shape[0], w = a->shape[1];
    double diagonal = sqrt((double)(h * h + w * w));
    size_t R = (size_t)ceil(0.008 * diagonal);
    double found = 0, all = 0;
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) {
            if (!mmixi_video_edge(a, object, y, x)) continue;
            found += mmixi_video_touches(b, object, y, x, R);
            all++;
        }
    return all > 0 ? found / all : 1;
}
/* Takes a number into the mean of n. */
static void mmixi_video_mean_of(double *mean, double x, double n)
{
    *mean += (x - *mean) / n;
}
MMIXDEF int mmix_video_jf(mmix_ctx *m, const mmix_tensor *predicted, const mmix_tensor *truth,
                          int32_t object, mmix_video_scores *scores)
{
    static const char who[] = "mmix_video_jf";
    double both = 0, either = 0;
    mmixi_dims d;
    if (!mmixi_expect(m, who, &d, "predicted:i32 HW, truth:i32 HW", predicted, truth))
        return -1;
    if (!mmixi_given(m, who, "*scores", scores)) return -1;
    for (size_t i = 0; i < d.H * d.W; i++) {
        int in_predicted = mmixi_index(predicted, i) == object;
        int in_truth = mmixi_index(truth, i) == object;
        both += in_predicted && in_truth;
        either += in_predicted || in_truth;
    }
    double J = either > 0 ? both / either : 1;
    double precision = mmixi_video_near(predicted, truth, object);
    double recall = mmixi_video_near(truth, predicted, object);
    double sum = precision + recall;
    double F = sum > 0 ? 2 * precision * recall / sum : 0;
    scores->count++;
    double n = (double)scores->count;
    scores->last_J = J;
    scores->last_F = F;
    mmixi_video_mean_of(&scores->J, J, n);
    mmixi_video_mean_of(&scores->F, F, n);
    mmixi_video_mean_of(&scores->J_recall, J > 0.5, n);
    mmixi_video_mean_of(&scores->F_recall, F > 0.5, n);
    return 0;
}

/* ==== >>images =======================================================================
   8-bit RGB exactly as Pillow computes it, DINO's crops from it

   The systems whose weights and figures this library reproduces were trained on pictures that Pillow resized,
   jittered and blurred; a resize that is merely good differs by several levels and moves features. So each
   step is done in Pillow's own number format: 22-bit fixed point for resizing, 24-bit for blurring, float32
   where it says float here, and each is rounded to 8 bits before the next. Pictures are (height, width, 3).
   No compiler may fuse a multiply and an add here: on some machines other pixels would come out.
   ------------------------------------------------------------------------------------ */

enum { MMIXI_SIDE_MAX = 1 << 24 };
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

static int mmixi_sides_ok(size_t width, size_t height)
{
    return width && height && width <= MMIXI_SIDE_MAX && height <= MMIXI_SIDE_MAX;
}
static int mmixi_box_ok(mmix_box b, size_t width, size_t height)
{
    return b.width && b.width <= width && b.left <= width - b.width
        && b.height && b.height <= height && b.top <= height - b.height;
}

/* ---- resize -----------------------------------------------------------------------
   Output i of m from n inputs, r = n/m, f = max(r, 1), centre c = (i + 1/2) r:

       out_i = Σ_j w_j in_j,  w_j ∝ k((j - c + 1/2)/f),  ⌊c - 2f + 1/2⌋ ≤ j < ⌊c + 2f + 1/2⌋,

   k the cubic of Keys 1981 with a = -1/2, Σ w = 1 over the j that exist, w rounded to multiples of 2⁻²².
   Along the rows first, then along the columns, 8 bits between. PyTorch's filters have f = 1 and take the
   last input for those beyond it: a = -3/4, or k(x) = 1 - |x| for -1 < x < 1.
   torchvision: Resize(interpolation=BICUBIC) of a PIL image */
static size_t mmixi_resize_taps(int filter, size_t n, double ratio, size_t out, mmixi_tap *tap)
{
    int smooth = filter == MMIX_BICUBIC_ANTIALIAS;
    double f = smooth && ratio > 1 ? ratio : 1, shrink = 1 / f, reach = filter == MMIX_BILINEAR ? 1 : 2 * f,
        c = ((double)out + 0.5) * ratio, end = floor(c + reach + 0.5), last = (double)(n - 1), sum = 0,
        a = smooth ? -0.5 : -0.75;
    size_t count = 0;
    for (double j = floor(c - reach + 0.5); j < end; j++) {
        double x = fabs((j - c + 0.5) * shrink);
        if (smooth && (j < 0 || j > last)) continue;
        tap[count].at = (size_t)(j < 0 ? 0 : j > last ? last : j);
        sum += tap[count++].weight = filter == MMIX_BILINEAR ? 1 - x
            : x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
            : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
    }
    for (size_t k = 0; smooth && k < count; k++) tap[k].weight /= sum;
    return count;
}

/* `count` outputs of an axis. Of output i: tap[i step], the first input it needs, counted from the first that
   any needs; tap[i step + 1], how many; then their weights. n: inputs needed. */
typedef struct mmixi_taps { int32_t *tap; size_t step, count, first, n; } mmixi_taps;
/* Outputs start … start+count-1 of m from n; w (n) is scratch. */
static mmixi_taps mmixi_taps_make(int32_t *tap, mmixi_tap *w, size_t n, size_t m, size_t start, size_t count)
{
    double ratio = (double)n / (double)m;
    mmixi_taps t = { tap, (size_t)ceil(2 * fmax(ratio, 1)) * 2 + 3, count, 0, 0 };
    for (size_t i = 0; i < count; i++, tap += t.step) {
        size_t taps = mmixi_resize_taps(MMIX_BICUBIC_ANTIALIAS, n, ratio, start + i, w);
        if (!i) t.first = w->at;
        t.n = w->at - t.first + taps;
        tap[0] = (int32_t)(w->at - t.first); tap[1] = (int32_t)taps;
        for (size_t j = 0; j < taps; j++)
            tap[2 + j] = (int32_t)(w[j].weight * 4194304 + (w[j].weight < 0 ? -0.5 : 0.5));
    }
    return t;
}
/* Two lines go as one, two levels in a word, so that one multiplication weighs both (twice as fast as one by
   one): modulo 2⁶⁴, w (a + 2³² b) is w a + 2³² (w b), whatever the signs. Pixels are `step` bytes apart; the
   last line of an odd number goes with itself. */
static void mmixi_pair(uint64_t *line, const uint8_t *p, const uint8_t *q, size_t step, size_t n)
{
    for (; n--; p += step, q += step, line += 3)
        for (int c = 0; c < 3; c++) line[c] = p[c] | (uint64_t)q[c] << 32;
}
static uint8_t mmixi_byte(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }
/* A sum of 22-bit weights times levels, begun at 2²⁹ + 2²¹: it stays positive, and is rounded. */
static inline uint8_t mmixi_level(uint64_t sum) { return mmixi_byte((int)(sum >> 22 & 1023) - 128); }
/* One axis: out (t->count, lines), transposed, from t->n pixels of each line, lines `next` bytes apart. */
static void mmixi_resample(uint8_t *out, const uint8_t *in, size_t next, size_t lines, const mmixi_taps *t,
                           uint64_t *line)
{
    for (size_t i = 0; i < lines; i += 2) {
        size_t other = i + 1 < lines ? 3 : 0;
        const int32_t *tap = t->tap;
        uint8_t *to = out + 3 * i;
        mmixi_pair(line, in + i * next, in + (i + other / 3) * next, 3, t->n);
        for (size_t k = 0; k < t->count; k++, tap += t->step, to += 3 * lines) {
            const uint64_t *p = line + 3 * tap[0];
            uint64_t r = 0x2020000020200000u, g = r, b = r;
            for (int32_t j = 0; j < tap[1]; j++, p += 3) {
                uint64_t w = (uint64_t)(int64_t)tap[2 + j];
                r += w * p[0]; g += w * p[1]; b += w * p[2];
            }
            to[other] = mmixi_level(r >> 32); to[other + 1] = mmixi_level(g >> 32);
            to[other + 2] = mmixi_level(b >> 32);
            to[0] = mmixi_level(r); to[1] = mmixi_level(g); to[2] = mmixi_level(b);
        }
    }
}
MMIXDEF mmix_resizing mmix_resizing_box(mmix_box box, size_t width, size_t height)
{
    mmix_resizing r = { box, { 0, 0, height, width }, width, height };
    return r;
}
/* The longer side becomes ⌊side·long/short⌋, the middle begins at round((h - crop)/2), halves to even.
   torchvision: Resize(side, BICUBIC), CenterCrop(crop). */
MMIXDEF mmix_resizing mmix_resizing_evaluate(size_t in_width, size_t in_height, size_t side, size_t crop)
{
    uint64_t low = mmixi_min(in_height, in_width);
    mmix_resizing r = { { 0, 0, in_height, in_width }, { 0, 0, crop, crop }, 0, 0 };
    if (!mmixi_sides_ok(in_width, in_height) || !mmixi_sides_ok(side, crop)
        || side * (uint64_t)mmixi_max(in_height, in_width) / low > MMIXI_SIDE_MAX) return r;
    r.height = (size_t)(side * (uint64_t)in_height / low);
    r.width = (size_t)(side * (uint64_t)in_width / low);
    r.to.top = (size_t)rint((double)(r.height - crop) / 2);
    r.to.left = (size_t)rint((double)(r.width - crop) / 2);
    return r;
}
/* In this order: a pair of lines (the weights of one output before), the taps of both axes (at most 4n + 9m),
   the picture between; and what is kept, to which not every caller gives room here. */
MMIXDEF size_t mmix_picture_resize_scratch(mmix_resizing r)
{
    uint64_t bytes = 40 * ((uint64_t)r.from.width + r.from.height + r.width + r.height) + 8
        + 3 * (uint64_t)r.to.width * (r.from.height + r.to.height);
    return mmixi_sides_ok(r.from.width, r.from.height) && mmixi_sides_ok(r.width, r.height)
        && mmixi_box_ok(r.to, r.width, r.height) && (size_t)bytes == bytes ? (size_t)bytes : 0;
}
MMIXDEF int mmix_picture_resize(uint8_t *out, mmix_picture in, mmix_resizing r, void *scratch)
{
    uint64_t *line = (uint64_t *)scratch;
    mmixi_tap *w = (mmixi_tap *)scratch;
    if (!in.rgb || !mmix_picture_resize_scratch(r) || !mmixi_box_ok(r.from, in.width, in.height)) return -1;
    int32_t *tap = (int32_t *)(void *)(line + 3 * (r.from.width + r.from.height));
    mmixi_taps x = mmixi_taps_make(tap, w, r.from.width, r.width, r.to.left, r.to.width);
    mmixi_taps y = mmixi_taps_make(tap + x.count * x.step, w, r.from.height, r.height, r.to.top, r.to.height);
    uint8_t *middle = (uint8_t *)(y.tap + y.count * y.step);                 /* (columns, rows) */
    in.rgb += ((r.from.top + y.first) * in.width + r.from.left + x.first) * 3;
    mmixi_resample(middle, in.rgb, in.width * 3, y.n, &x, line);
    mmixi_resample(out, middle, y.n * 3, x.count, &y, line);
    return 0;
}

/* ---- pixel by pixel --------------------------------------------------------------- */
static int mmixi_luma(const uint8_t *p) { return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16; }
/* Brightness, contrast, saturation: z + factor (v - z), cut to 0 … 255; z = 0, the mean luma, the pixel's. */
static uint8_t mmixi_blended(int v, int z, float factor)
{
    float product = factor * (float)(v - z);
    return mmixi_byte((int)((float)z + product));
}
/* Hue: to HSV with 8 bits each, H + turn modulo 256, and back: v (1 - s g) with g = max(0, min(k, 4 - k, 1)),
   k = (6H + 5, 3, 1) mod 6 for R, G, B. S and the way back are in integers, g times 255: for all colours that
   is what Pillow's float32 comes to. */
static void mmixi_hue(uint8_t *rgb, uint8_t *end, unsigned turn)
{
    uint8_t share[256][3];                         /* g; by H */
    for (int H = 0; H < 256; H++)
        for (int c = 0, k; c < 3; c++) {
            k = (6 * H + 255 * (5 - 2 * c)) % 1530;
            share[H][c] = mmixi_byte(k < 510 ? k : 1020 - k);
        }
    for (; rgb < end; rgb += 3) {
        int top = rgb[0] >= rgb[1] ? 2 * (rgb[0] < rgb[2]) : 1 + (rgb[1] < rgb[2]), high = rgb[top],
            a = high - rgb[top ? top - 1 : 2], b = high - rgb[top < 2 ? top + 1 : 0], range = a > b ? a : b;
        if (!range) continue;                      /* grey has no hue */
        float h = (float)(2 * top + (double)((float)a / (float)range) - (float)b / (float)range);
        h = (float)(h * (1.0 / 6) + (h < 0));
        const uint8_t *g = share[((unsigned)(int)(h * 255.0) + turn) & 255];
        for (int c = 0, S = 255 * range / high; c < 3; c++)
            rgb[c] = (uint8_t)((unsigned)(high * (65025 - S * g[c]) + 32512) / 65025);
    }
}

/* ---- blur -------------------------------------------------------------------------
   A Gaussian as three boxes (Gwosdek et al. 2011) of fractional radius r, R = ⌊r⌋: the 2R+1 pixels in the
   middle weigh w = ⌊2²⁴/(2r+1)⌋ and the two outside e = ⌊(2²⁴ - (2R+1)w)/2⌋. The sum of the middle slides, so
   the cost does not depend on sigma; lines go in pairs, two levels in a word. */
enum { MMIXI_BLUR_MAX = 1000 };                    /* sigma, and R */
MMIXDEF size_t mmix_picture_blur_scratch(size_t width, size_t height)
{
    return mmixi_sides_ok(width, height) ? 24 * (mmixi_max(width, height) + 4 * MMIXI_BLUR_MAX + 4) : 0;
}
/* One box over n pixels of paired lines, which begin R + 1 after p and end up at p; beyond their ends, for
   R + 1, stand the first and the last. */
static void mmixi_blur_box(uint64_t *p, size_t n, size_t R, uint64_t w, uint64_t e)
{
    size_t ends = 3 * R + 3, box = 6 * R + 3, after = 3 * n + ends;
    for (int c = 0; c < 3; c++, p++) {
        uint64_t sum = 0;                          /* of the pixels x-R-1 … x+R-1 */
        for (size_t k = 0; k < ends; k += 3) {
            p[k] = p[ends]; p[after + k] = p[after - 3];
        }
        for (size_t k = 0; k < box; k += 3) sum += p[k];
        for (size_t x = 0; x < 3 * n; x += 3) {
            sum += p[x + box] - p[x];
            p[x] = (w * sum + e * (p[x] + p[x + box + 3]) + 0x80000000800000u) >> 24 & 0xff000000ffu;
        }
    }
}
static void mmixi_blur(uint8_t *rgb, size_t width, size_t height, float sigma, uint64_t *line)
{
    float variance = sigma * sigma / 3, l = (float)floor(((float)sqrt(12.0 * variance + 1) - 1) / 2),
        r = l + (2 * l + 1) * (l * (l + 1) - 3 * variance) / (6 * (variance - (l + 1) * (l + 1)));
    size_t R = (size_t)r, n = width, lines = height, step = 3;
    uint32_t w = (uint32_t)(16777216.0f / (2 * r + 1)), e = (16777216u - (uint32_t)(2 * R + 1) * w) / 2;
    for (int columns = 0; columns < 2; columns++, n = height, lines = width, step = 3 * width) {
        size_t next = 3 * width + 3 - step;
        for (size_t i = 0; i < lines; i += 2) {
            uint8_t *p = rgb + i * next, *q = i + 1 < lines ? p + next : p;
            mmixi_pair(line + 9 * R + 9, p, q, step, n);
            for (size_t k = 3; k-- > 0;) mmixi_blur_box(line + k * (3 * R + 3), n, R, w, e);
            for (size_t x = 0; x < 3 * n; p += step - 3, q += step - 3)
                for (int c = 0; c < 3; c++, x++) {
                    *p++ = (uint8_t)line[x]; *q++ = (uint8_t)(line[x] >> 32);
                }
        }
    }
}
MMIXDEF int mmix_picture_change(uint8_t *rgb, size_t width, size_t height, int change, double amount,
                                void *scratch)
{
    static const double most[] = { 1000, 1000, 1000, 0.5, 0, 0, 256, MMIXI_BLUR_MAX };
    uint8_t *end = rgb + 3 * width * height, level[256];
    uint64_t sum = 0;
    if (!mmixi_sides_ok(width, height) || change < 0 || change > MMIX_CHANGE_BLUR
        || !(amount >= (change == MMIX_CHANGE_HUE ? -0.5 : 0) && amount <= most[change])) return -1;
    switch (change) {
    case MMIX_CHANGE_SATURATION: case MMIX_CHANGE_GREY:
        for (; rgb < end; rgb += 3) {
            int z = mmixi_luma(rgb);
            MMIXI_UNROLL
            for (int c = 0; c < 3; c++) rgb[c] = mmixi_blended(rgb[c], z, (float)amount);
        }
        break;
    case MMIX_CHANGE_HUE: mmixi_hue(rgb, end, (unsigned)(int)(255 * amount)); break;
    case MMIX_CHANGE_FLIP:
        for (; rgb < end; rgb += 3 * width)
            for (uint8_t *p = rgb, *q = p + 3 * width - 3, pixel[3]; p < q; p += 3, q -= 3) {
                memcpy(pixel, p, 3); memcpy(p, q, 3); memcpy(q, pixel, 3);
            }
        break;
    case MMIX_CHANGE_BLUR: mmixi_blur(rgb, width, height, (float)amount, (uint64_t *)scratch); break;
    default:                                       /* level by level: brightness, contrast, solarise */
        for (uint8_t *p = rgb; p < end && change == MMIX_CHANGE_CONTRAST; p += 3)
            sum += (unsigned)mmixi_luma(p);
        for (int v = 0, z = (int)((double)sum * 3 / (double)(end - rgb) + 0.5); v < 256; v++)
            level[v] = change != MMIX_CHANGE_SOLARISE ? mmixi_blended(v, z, (float)amount)
                : (uint8_t)(v >= amount ? 255 - v : v);
        for (; rgb < end; rgb++) *rgb = level[*rgb];
    }
    return 0;
}

/* ---- real planes ------------------------------------------------------------------ */
static int mmixi_deviation_ok(const double *d) { return fabs(d[0]) > 0 && fabs(d[1]) > 0 && fabs(d[2]) > 0; }
MMIXDEF int mmix_picture_normalise(mmix_real *out, mmix_picture in, const double *mean,
                                   const double *deviation)
{
    mmix_augment imagenet = mmix_augment_dino();
    if (!mean) mean = imagenet.mean;
    if (!deviation) deviation = imagenet.deviation;
    if (!mmixi_sides_ok(in.width, in.height) || !mmixi_deviation_ok(deviation)) return -1;
    for (size_t c = 0; c < 3; c++) {
        mmix_real of[256];                         /* 256 divisions instead of one a sample */
        for (int v = 0; v < 256; v++) of[v] = (mmix_real)((v / 255.0 - mean[c]) / deviation[c]);
        for (size_t i = c; i < 3 * in.width * in.height; i += 3) *out++ = of[in.rgb[i]];
    }
    return 0;
}
MMIXDEF mmix_tensor *mmix_image_resized(mmix_ctx *m, mmix_picture in, mmix_resizing r)
{
    size_t bytes = mmix_picture_resize_scratch(r);
    mmix_tensor *image = bytes ? mmix_new4(m, 1, 3, r.to.height, r.to.width) : NULL;
    mmix_mark mark = mmix_mark_here(m);
    uint8_t *pixels = image ? (uint8_t *)mmixi_step(m, bytes) : NULL;
    mmix_picture out = { pixels, r.to.width, r.to.height };
    if (mmix_error(m)) return NULL;
    if (!pixels || mmix_picture_resize(pixels, in, r, pixels + mmixi_round_up(3 * out.width * out.height, 8)))
        return mmixi_none(mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_image: expected a picture, a box in it and "
                                    "sizes of 1 to 2^24, also of what is resized before it is cut, found "
                                    "%.0f x %.0f%s to %.0f x %.0f", (double)in.width, (double)in.height,
                                    in.rgb ? "" : " at NULL", (double)out.width, (double)out.height));
    mmix_picture_normalise(mmixi_of(image), out, NULL, NULL);
    mmix_rewind(m, mark);
    return image;
}
MMIXDEF mmix_tensor *mmix_image(mmix_ctx *m, const uint8_t *rgb, size_t width, size_t height, size_t size)
{
    size_t side = size <= MMIXI_SIDE_MAX ? (size * 256 + 112) / 224 : 0;
    mmix_picture in = { rgb, width, height };
    return mmix_image_resized(m, in, mmix_resizing_evaluate(width, height, side, size));
}

/* ---- DINO's crops ----------------------------------------------------------------- */
MMIXDEF mmix_augment mmix_augment_dino(void)
{
    mmix_augment paper = {
        224, 96, 8, { 0.4, 1 }, { 0.05, 0.4 }, { 3.0 / 4, 4.0 / 3 },         /* sizes, scales, aspect */
        0.5, 0.8, 0.2, { 1, 0.1, 0.5 }, { 0, 0.2, 0 },                       /* chances */
        0.4, 0.4, 0.2, 0.1, { 0.1, 2 },                                      /* strengths, sigma */
        { 0.485, 0.456, 0.406 }, { 0.229, 0.224, 0.225 }                     /* ImageNet's mean, deviation */
    };
    return paper;
}
/* A crop's random numbers: which of them is the last 8 bits of the element, so each stands on its own. Boxes:
   4 try + (area, aspect, top, left); factors: + change; orders: + place. */
enum {
    MMIXI_DRAW_FLIP = 40, MMIXI_DRAW_JITTER, MMIXI_DRAW_GREY, MMIXI_DRAW_BLUR, MMIXI_DRAW_SIGMA,
    MMIXI_DRAW_SOLARISE,    MMIXI_DRAW_FACTOR = 48, MMIXI_DRAW_ORDER = 52
};
static double mmixi_draw(const mmix_crop *c, int which, double low, double high)
{
    uint64_t element = (uint64_t)c->image << 24 | (uint64_t)c->crop << 8 | (uint64_t)which;
    return low + (high - low) * mmix_random_uniform(c->m, MMIXI_RANDOM_AUGMENT, c->step, element);
}
static size_t mmixi_draw_upto(const mmix_crop *c, int which, size_t n)
{
    return mmixi_min((size_t)mmixi_draw(c, which, 0, (double)n + 1), n);
}
MMIXDEF mmix_box mmix_augment_box(const mmix_crop *c)
{
    const double *scale = c->crop < 2 ? c->config->global_scale : c->config->local_scale,
        *aspect = c->config->aspect;
    double width = (double)c->picture.width, height = (double)c->picture.height, w = 0, h = 0;
    mmix_box box;
    int at = 0, found = 0;
    for (; !found && at < MMIXI_DRAW_FLIP; at += 4) {
        double area = width * height * mmixi_draw(c, at, scale[0], scale[1]),
            ratio = mmixi_exp(mmixi_draw(c, at + 1, mmixi_log(aspect[0]), mmixi_log(aspect[1])));
        w = rint(sqrt(area * ratio)); h = rint(sqrt(area / ratio));
        found = w >= 1 && w <= width && h >= 1 && h <= height;
    }
    if (!found) w = width / height > aspect[1] ? rint(height * aspect[1]) : width;
    if (!found) h = width / height < aspect[0] ? rint(width / aspect[0]) : height;
    box.height = (size_t)fmax(h, 1); box.width = (size_t)fmax(w, 1);
    box.top = c->picture.height - box.height; box.left = c->picture.width - box.width;
    box.top = found ? mmixi_draw_upto(c, at - 2, box.top) : box.top / 2;
    box.left = found ? mmixi_draw_upto(c, at - 1, box.left) : box.left / 2;
    return box;
}
/* Brightness, contrast, saturation and hue in any order (Fisher and Yates, from the last on). */
static void mmixi_jitter(const mmix_crop *c, uint8_t *rgb, size_t s)
{
    const mmix_augment *a = c->config;
    double strength[4] = { a->brightness, a->contrast, a->saturation, a->hue };
    int order[4] = { 0, 1, 2, 3 };
    for (int i = 3; i > 0; i--) {
        size_t j = mmixi_draw_upto(c, MMIXI_DRAW_ORDER + i, (size_t)i);
        int change = order[j];
        order[j] = order[i]; order[i] = change;
    }
    for (int i = 0; i < 4; i++) {
        int change = order[i], nothing = change != MMIX_CHANGE_HUE;        /* a turn of 0, or a factor of 1 */
        double x = strength[change], low = fmax(nothing - x, nothing - 1), high = nothing + x;
        mmix_picture_change(rgb, s, s, change, mmixi_draw(c, MMIXI_DRAW_FACTOR + change, low, high), NULL);
    }
}
MMIXDEF size_t mmix_augment_scratch(const mmix_augment *config, size_t width, size_t height)
{
    mmix_box all = { 0, 0, height, width };
    size_t s = mmixi_max(config->global_size, config->local_count ? config->local_size : 0),
        bytes = mmix_picture_resize_scratch(mmix_resizing_box(all, s, s));
    return bytes ? bytes + mmix_picture_blur_scratch(1, 1) : 0;
}
/* The jitter comes before the flip here: it feels no order of columns. */
MMIXDEF int mmix_augment_crop(mmix_real *out, const mmix_crop *c, void *scratch)
{
    static const int draw[] = { MMIXI_DRAW_FLIP, MMIXI_DRAW_GREY, MMIXI_DRAW_BLUR, MMIXI_DRAW_SOLARISE },
        change[] = { MMIX_CHANGE_FLIP, MMIX_CHANGE_GREY, MMIX_CHANGE_BLUR, MMIX_CHANGE_SOLARISE };
    const mmix_augment *a = c->config;
    size_t s = c->crop < 2 ? a->global_size : a->local_size, kind = mmixi_min(c->crop, 2);
    double chance[] = { a->flip, a->grey, a->blur[kind], a->solarise[kind] },
        amount[] = { 0, 0, mmixi_draw(c, MMIXI_DRAW_SIGMA, a->sigma[0], a->sigma[1]), 128 };
    uint8_t *rgb = (uint8_t *)scratch, *more = rgb + mmixi_round_up(3 * s * s, 8);
    mmix_picture done = { rgb, s, s };
    if (!mmixi_sides_ok(c->picture.width, c->picture.height)
        || mmix_picture_resize(rgb, c->picture, mmix_resizing_box(mmix_augment_box(c), s, s), more))
        return -1;
    if (mmixi_draw(c, MMIXI_DRAW_JITTER, 0, 1) < a->jitter) mmixi_jitter(c, rgb, s);
    for (int i = 0; i < 4; i++)
        if (mmixi_draw(c, draw[i], 0, 1) < chance[i])
            mmix_picture_change(rgb, s, s, change[i], amount[i], more);
    return mmix_picture_normalise(out, done, a->mean, a->deviation);
}
/* A config's numbers; two are a range. Without local crops their size and scale count for nothing. */
static int mmixi_augment_check(mmix_ctx *m, const char *who, const mmix_augment *a)
{
    const char *text = "size global_size 1 16777216, size local_size 1 16777216, size local_count 0 65533, "
        "double2 global_scale 1e-12 1, double2 local_scale 1e-12 1, double2 aspect 1e-6 1e6, "
        "double flip 0 1, double jitter 0 1, double grey 0 1, double3 blur 0 1, double3 solarise 0 1, "
        "double brightness 0 999, double contrast 0 999, double saturation 0 999, double hue 0 5e-1, "
        "double2 sigma 0 1000, double3 mean -3e38 3e38, double3 deviation -3e38 3e38";
    const void *at = a;
    for (mmixi_setting s; mmixi_setting_next(&s, &text, &at);)
        for (size_t i = 0; i < s.count && (a->local_count || strncmp(s.name, "local_s", 7)); i++)
            if (mmixi_within(m, who, s.name, mmixi_setting_number(&s, i, NULL),
                             i && s.count == 2 ? mmixi_setting_number(&s, 0, NULL) : s.low, s.high))
                return -1;
    return mmixi_deviation_ok(a->deviation) ? 0
        : mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: a deviation is 0, expected another number", who);
}
typedef struct mmixi_augment_job {
    mmix_crop crop;                                /* but its picture and numbers */
    const mmix_picture *pictures;
    const size_t *index;
    size_t first, B, bytes;
    mmix_tensor *out[2];                           /* global, local */
    char *scratch;                                 /* (lanes, bytes) */
} mmixi_augment_job;
static void mmixi_augment_task(void *arg, mmixi_range range)
{
    const mmixi_augment_job *j = (const mmixi_augment_job *)arg;
    size_t i = range.begin, b = j->first + i % j->B, local = i >= 2 * j->B;
    const mmix_tensor *out = j->out[local];
    mmix_crop crop = j->crop;
    crop.picture = j->pictures[j->index ? j->index[b] : b];
    crop.image = b; crop.crop = i / j->B;
    mmix_augment_crop(mmixi_of(out) + (i - local * 2 * j->B) * out->stride[0], &crop,
                      j->scratch + range.lane * j->bytes);
}
MMIXDEF int mmix_augment_batch(mmix_ctx *m, const mmix_augment *config, const mmix_picture *pictures,
                               const size_t *index, size_t first, size_t B, uint64_t step,
                               mmix_tensor *global, mmix_tensor *local)
{
    const char *who = "mmix_augment_batch";
    mmixi_augment_job job = { { m, config, { NULL, 0, 0 }, step, 0, 0 }, pictures, index, first, B, 0,
                              { global, local }, NULL };
    mmix_mark mark = mmix_mark_here(m);
    mmixi_dims d;
    if (!mmixi_given(m, who, "*config, *pictures, number of pictures", config, pictures, B)
        || mmixi_augment_check(m, who, config)) return -1;
    for (size_t b = first; b < first + B; b++) {
        size_t i = index ? index[b] : b;
        mmix_picture p = pictures[i];
        size_t bytes = p.rgb ? mmix_augment_scratch(config, p.width, p.height) : 0;
        if (!bytes)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: picture %.0f: expected sides of 1 to 2^24 that "
                             "this machine has room for, found %.0f x %.0f%s", who, (double)i,
                             (double)p.width, (double)p.height, p.rgb ? "" : " at NULL");
        job.bytes = mmixi_max(job.bytes, mmixi_round_up(bytes, 64));         /* whole cache lines */
    }
    for (size_t k = 0; k < 2 && (!k || config->local_count); k++) {
        d.N = k ? config->local_count * B : 2 * B;
        d.S = k ? config->local_size : config->global_size;
        if (!mmixi_expect(m, who, &d, k ? "+local N3SS" : "+global N3SS", job.out[k])) return -1;
        mmix_tensor crop = *job.out[k];
        crop.shape[0] = 1;
        if (!mmixi_contiguous(&crop))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s: expected each crop contiguous, found another "
                             "layout", who, k ? "local" : "global");
    }
    job.scratch = (char *)mmixi_step_array(m, job.bytes, m->lanes, 1);
    if (!job.scratch) return -1;
    mmixi_ranges(m, (2 + config->local_count) * B, 1, mmixi_augment_task, &job);
    mmix_rewind(m, mark);
    return 0;
}
#if defined(__clang__)
#pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

MMIXI_COLD_BEGIN
/* ==== >>files ========================================================================
   archives of named arrays: .safetensors, .npy, .npz and .pth in; .safetensors and .npy out

   Each reader walks its own format and hands what it finds to mmixi_archive_add: a name, a type, a shape, the
   bytes and how they lie. There the sizes are checked, and what is not row-major becomes so. All memory comes
   from mmixi_archive_alloc, in proportion to the file. mmixi_archive_finish sees that a name is there once.
   ==================================================================================== */

#include <locale.h>
/* ---- whole files ---- */
enum { MMIXI_PATH = 4096 };
/* A file in memory: mapped, or lasting memory. */
typedef struct mmixi_file_bytes { uint8_t *bytes; size_t size; int mapped; } mmixi_file_bytes;
/* What C lacks: a file that was not there before, bringing it to the disk, taking another's name. */
#ifndef MMIX_NO_STDIO
#if defined(_WIN32)
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <sys/stat.h>
static FILE *mmixi_file_new(const char *path)
{
    int descriptor = _open(path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY, _S_IREAD | _S_IWRITE);
    return descriptor < 0 ? NULL : _fdopen(descriptor, "wb");
}
#define MMIXI_SYNC(f) _commit(_fileno(f))
#define MMIXI_PROCESS() (unsigned long)_getpid()
#ifdef __cplusplus
extern "C"
#endif
__declspec(dllimport) int __stdcall MoveFileExA(const char *from, const char *to, unsigned long flags);
#define MMIXI_RENAME(from, to) !MoveFileExA(from, to, 1 | 8)     /* replaces what is there; written through */
#define MMIXI_SEEK _fseeki64
#define MMIXI_TELL _ftelli64
#else
static FILE *mmixi_file_new(const char *path) { return fopen(path, "wbx"); }
#define MMIXI_SEEK fseek                         /* long has the bits of size_t */
#define MMIXI_TELL ftell
#ifdef MMIXI_MAPS
#if defined(__STRICT_ANSI__) && !defined(__cplusplus)            /* -std=c99 hides them */
int fileno(FILE *f);
int fsync(int descriptor);
ssize_t readlink(const char *path, char *to, size_t room);
#endif
#define MMIXI_SYNC(f) fsync(fileno(f))
#define MMIXI_PROCESS() (unsigned long)getpid()
#define MMIXI_RENAME(from, to) rename(from, to)
#else
#define MMIXI_SYNC(f) 0
#define MMIXI_PROCESS() 0ul
#define MMIXI_RENAME(from, to) (remove(to), rename(from, to))
#endif
#endif
#endif
static void mmixi_file_free(mmix_ctx *m, mmixi_file_bytes *f)
{
#ifdef MMIXI_MAPS
    if (f->mapped) munmap(f->bytes, f->size);
#endif
    if (!f->mapped) mmixi_free(m, f->bytes, f->size);
}
/* The whole file; bytes NULL after mmix_fail. It is mapped where it can be, each page read when it is looked
   at and copied when it is changed; not on Windows, where a mapped file could not be replaced. */
static mmixi_file_bytes mmixi_file_read(mmix_ctx *m, const char *who, const char *path)
{
    mmixi_file_bytes file = { NULL, 0, 0 };
    if (!mmixi_given(m, who, "*path", path)) return file;
#ifdef MMIX_NO_STDIO
    mmix_fail(m, MMIX_ERROR_FILE, "%s: %s: files were compiled out (MMIX_NO_STDIO)", who, path);
#else
    FILE *f = NULL;
    uint64_t length = SIZE_MAX;
    int regular = 1;
#ifdef MMIXI_MAPS
    struct stat info;
    regular = stat(path, &info) || S_ISREG(info.st_mode);        /* before opening: a fifo would wait there */
#endif
    errno = 0;
    if (regular && (f = fopen(path, "rb")) != NULL && !MMIXI_SEEK(f, 0, SEEK_END))
        length = (uint64_t)MMIXI_TELL(f);
    if (length < SIZE_MAX && !MMIXI_SEEK(f, 0, SEEK_SET)) {
        file.size = (size_t)length;
#ifdef MMIXI_MAPS
        void *map = mmap(NULL, file.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(f), 0);
        file.mapped = map != MAP_FAILED, file.bytes = (uint8_t *)map;
#endif
        if (!file.mapped && (file.bytes = (uint8_t *)mmixi_alloc(m, file.size)) != NULL
            && fread(file.bytes, 1, file.size, f) != file.size) {
            mmixi_file_free(m, &file);
            file.bytes = NULL;
        }
    }
    if (!file.bytes)
        mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be opened: %s", path, regular && errno ? strerror(errno)
                  : "expected a file, found a folder, a device, a fifo or an early end");
    if (f) fclose(f);
#endif
    return file;
}

/* ---- types of numbers ---- */
/* By MMIX_FILE_F64 …: as .safetensors and as .npy call it; its size in a file. */
static const char mmixi_file_names[2][MMIX_FILE_REAL_AS_BF16 + 1][8] = {
    {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "U16", "U32", "U64", "BOOL", "BF16"},
    {"f8", "f4", "f2", "-", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "b1", "-"}
};
static const size_t mmixi_file_size[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 2, 4, 8, 1, 2};
MMIXDEF const char *mmix_file_dtype_name(int dtype)
{
    return dtype >= 0 && dtype <= MMIX_FILE_REAL_AS_BF16 ? mmixi_file_names[0][dtype] : NULL;
}

#if defined(__GNUC__) || defined(__clang__)
#define MMIXI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define MMIXI_PRINTF(text, first)
#endif
/* ---- names ---- */
/* A character as UTF-8; how many bytes, 0 if it is none (half of a pair, say: 0xD800 to 0xDFFF). */
static size_t mmixi_utf8(long code, char out[4])
{
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (code < 0 || code > 0x10FFFF || code >> 11 == 0xD800 >> 11) return 0;
    for (size_t i = n; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(n == 1 ? code : (0xF00 >> n & 0xFF) | code);
    return n;
}
/* Length of the UTF-8 character at s (zero-terminated); 0 if it is none, or longer than it has to be. */
static size_t mmixi_utf8_length(const char *s)
{
    uint8_t c = (uint8_t)*s;
    size_t n = c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    long code = n == 1 ? c : c & (0x7F >> n);
    char out[4];
    for (size_t i = 1; i < n && s[i]; i++) code = code << 6 | (s[i] & 0x3F);
    return mmixi_utf8(code, out) == n && !memcmp(s, out, n) ? n : 0;
}
/* How many bytes of a text are UTF-8, from its beginning. */
static size_t mmixi_utf8_span(const char *s)
{
    size_t at = 0, n = 1;
    while (s[at] && n) at += n = mmixi_utf8_length(s + at);
    return at;
}
static int mmixi_compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
/* Sorts n names, or structs that begin with one, and returns a name that is there twice, or NULL. */
static const char *mmixi_key_twice(void *keys, size_t n, size_t size)
{
    const char *at = (const char *)keys;
    if (n) qsort(keys, n, size, mmixi_compare_keys);
    for (size_t i = 1; i < n; i++, at += size)
        if (!mmixi_compare_keys(at, at + size)) return *(const char *const *)(const void *)at;
    return NULL;
}

/* ---- JSON ----
   A text is checked once (strict: 64 levels, no key twice, no U+0000) and written anew where it stands:
   without spaces, its strings decoded, a zero in the place of the closing quote. From then on a value is a
   pointer to its first character, and who wants something walks there. */
typedef struct mmixi_json_scan {
    char *at, *to;                           /* the text ends with a zero, which is valid nowhere in JSON */
    const char **keys;                       /* of the objects that are open */
    size_t n_keys;
    const char *expected, *found;            /* found NULL: what stands at `at` */
} mmixi_json_scan;
static char mmixi_json_peek(mmixi_json_scan *s)
{
    s->at += strspn(s->at, " \t\n\r");
    return *s->at;
}
static int mmixi_json_take(mmixi_json_scan *s, char c, const char *expected)
{
    s->expected = expected;
    if (mmixi_json_peek(s) != c) return 0;
    *s->to++ = *s->at++;
    return 1;
}
/* \u and four hexadecimal digits, or -1. */
static long mmixi_json_hex(const char *s)
{
    char four[5] = "";
    if (strncmp(s, "\\u", 2) || strspn(s + 2, "0123456789abcdefABCDEF") < 4) return -1;
    memcpy(four, s + 2, 4);
    return strtol(four, NULL, 16);
}
/* A string's characters, as they are or escaped: never shorter than in UTF-8. */
static int mmixi_json_string(mmixi_json_scan *s)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (!mmixi_json_take(s, '"', "a key")) return 0;
    s->expected = "a string of UTF-8";
    for (size_t n, taken; *s->at != '"'; s->at += taken, s->to += n) {
        n = taken = (uint8_t)*s->at < 32 ? 0 : mmixi_utf8_length(s->at);
        if (*s->at != '\\') memmove(s->to, s->at, n);
        else {
            const char *letter = s->at[1] ? strchr(letters, s->at[1]) : NULL;
            long code = letter ? meant[letter - letters] : mmixi_json_hex(s->at), low;
            taken = letter ? 2 : 6;
            if (code >> 10 == 0xD800 >> 10) {                /* half of a pair, ten bits each */
                low = mmixi_json_hex(s->at + 6), taken = 12;
                code = low >> 10 == 0xDC00 >> 10 ? 0x10000 + ((code & 1023) << 10 | (low & 1023)) : 0;
            }
            n = code > 0 ? mmixi_utf8(code, s->to) : 0;
        }
        if (!n) return 0;
    }
    s->at++, *s->to++ = 0;
    return 1;
}
/* true, false, null, or a number: where its characters lead from each state. */
static int mmixi_json_scalar(mmixi_json_scan *s)
{
    static const char classes[] = "-+0123456789.eE", next[][16] = {
        "1-2333333333---", "--2333333333---",                    /* the beginning; behind the sign */
        "------------466", "--3333333333466",                    /* behind a leading 0; among digits */
        "--5555555555---", "--5555555555-66",                    /* behind the point; among its digits */
        "778888888888---", "--8888888888---", "--8888888888---"  /* behind e; its sign; its digits */
    };
    const char *word = *s->at == 't' ? "true" : *s->at == 'f' ? "false" : "null", *c;
    int state = 0, named = !strncmp(s->at, word, strlen(word));
    s->expected = "a value";
    for (; named && *word; word++) *s->to++ = *s->at++;
    if (named) return 1;
    for (; *s->at && (c = strchr(classes, *s->at)) != NULL; *s->to++ = *s->at++)
        if ((state = next[state][c - classes] - '0') < 0) return 0;
    return state == 2 || state == 3 || state == 5 || state == 8;
}
static int mmixi_json_value(mmixi_json_scan *s, int depth)
{
    char kind = mmixi_json_peek(s), close = (char)(kind + 2);    /* { } and [ ] in ASCII */
    size_t outer = s->n_keys;
    if (kind == '"') return mmixi_json_string(s);
    if (kind != '{' && kind != '[') return mmixi_json_scalar(s);
    s->expected = "at most 64 levels";
    if (depth == 64) return 0;
    mmixi_json_take(s, kind, NULL);
    if (mmixi_json_take(s, close, NULL)) return 1;
    do {
        if (kind == '{') {
            s->keys[s->n_keys++] = s->to + 1;
            if (!mmixi_json_string(s) || !mmixi_json_take(s, ':', "':'")) return 0;
        }
        if (!mmixi_json_value(s, depth + 1)) return 0;
    } while (mmixi_json_take(s, ',', NULL));
    if (!mmixi_json_take(s, close, kind == '{' ? "',' or '}'" : "',' or ']'")) return 0;
    s->found = mmixi_key_twice((void *)(s->keys + outer), s->n_keys - outer, sizeof *s->keys);
    s->expected = "every key once"; s->n_keys = outer;
    return !s->found;
}
/* Checks and decodes `length` bytes, which a zero follows, with at most `room` bytes of memory. 0, or -1. */
static int mmixi_json_open(mmix_ctx *m, const char *what, char *text, size_t length, size_t room)
{
    mmixi_json_scan s = { text, text, NULL, 0, NULL, NULL };
    size_t most = 1;                             /* each key has a colon, but one that lacks it */
    for (size_t i = 0; i < length; i++) most += text[i] == ':';
    if (most > room / sizeof *s.keys)
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected fewer keys than %.0f bytes hold", what,
                         (double)room);
    s.keys = (const char **)mmixi_alloc(m, most * sizeof *s.keys);
    if (!s.keys) return -1;
    int ok = mmixi_json_value(&s, 0) && mmixi_json_take(&s, 0, "the end") && s.at > text + length;
    mmixi_free(m, (void *)s.keys, most * sizeof *s.keys);
    if (ok) return 0;
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: JSON byte %.0f: expected %s, found %.20s", what,
                     (double)(s.at - text), s.expected,
                     s.found ? s.found : s.at == text + length ? "the end" : s.at);
}
/* Just beyond a value. */
static const char *mmixi_json_end(const char *v)
{
    int depth = 0;
    if (!strchr("{[\"", *v)) return v + strcspn(v, ",]}");
    do {
        if (*v == '"') v += strlen(v) + 1;
        else depth += (*v == '{' || *v == '[') - (*v == '}' || *v == ']'), v++;
    } while (depth);
    return v;
}
/* The item of a list after `at`, or after itself the first; *key NULL in an array. NULL at the end. */
static const char *mmixi_json_next(const char *list, const char *at, const char **key)
{
    if (!list || (*list != '{' && *list != '[')) return NULL;
    at = at == list ? at + 1 : mmixi_json_end(at);
    at += *at == ',';
    if (*at == '}' || *at == ']') return NULL;
    *key = *list == '{' ? at + 1 : NULL;
    return *key ? mmixi_json_end(at) + 1 : at;               /* behind the colon */
}
/* The member of that name, or NULL. */
static const char *mmixi_json_find(const char *object, const char *wanted)
{
    const char *key, *v = object;
    while ((v = mmixi_json_next(object, v, &key)) != NULL && !(key && !strcmp(key, wanted))) { }
    return v;
}
static const char *mmixi_json_text(const char *v) { return v && *v == '"' ? v + 1 : NULL; }
/* A member that is a text. */
static const char *mmixi_json_word(const char *object, const char *key, const char *otherwise)
{
    const char *text = mmixi_json_text(mmixi_json_find(object, key));
    return text ? text : otherwise;
}
/* true 1, false 0, anything else `otherwise`. */
static int mmixi_json_flag(const char *v, int otherwise)
{
    return v && *v == 't' ? 1 : v && *v == 'f' ? 0 : otherwise;
}
/* A list of sizes, digits alone: how many; -1 if it is none, has more than `most`, or one is too large. */
static int mmixi_json_sizes(const char *list, size_t *out, int most)
{
    const char *key, *v = list;
    char *end;
    int n = 0;
    for (errno = 0; (v = mmixi_json_next(list, v, &key)) != NULL; n++) {
        unsigned long long size = strtoull(v, &end, 10);
        if (n == most || !strspn(v, "0123456789") || errno || size != (size_t)size
            || end != mmixi_json_end(v)) return -1;
        out[n] = (size_t)size;
    }
    return list && *list == '[' ? n : -1;
}
/* Numbers in files have a point, those of strtod and printf what the user's locale writes ("," or "٫"). */
static void mmixi_point(char out[64], const char *number, const char *from, const char *to)
{
    const char *at = strstr(number, from);
    int before = (int)(at ? at - number : (ptrdiff_t)strlen(number));
    snprintf(out, 64, "%.*s%s%s", before, number, at ? to : "", at ? at + strlen(from) : "");
}
/* A number as double, `otherwise` if v is none. */
static double mmixi_json_number(const char *v, double otherwise)
{
    char token[64], local[64];
    if (!v || !strspn(v, "-0123456789") || mmixi_json_end(v) - v > 40) return otherwise;
    snprintf(token, sizeof token, "%.*s", (int)(mmixi_json_end(v) - v), v);
    mmixi_point(local, token, ".", localeconv()->decimal_point);
    return strtod(local, NULL);
}

/* ---- bytes ---- */
/* An integer of `bytes` bytes, the lowest first. */
static uint64_t mmixi_number(const uint8_t *p, int bytes)
{
    uint64_t n = 0;
    while (bytes-- > 0) n = n << 8 | p[bytes];
    return n;
}
static int mmixi_big_endian_here(void)
{
    uint16_t one = 1;
    return !*(const uint8_t *)&one;
}
/* Elements of `size` bytes from a file's byte order, big or little, to that of this machine, or back. */
static void mmixi_byte_order(uint8_t *p, size_t bytes, size_t size, int big)
{
    if (big == mmixi_big_endian_here()) return;
    for (; bytes >= size; bytes -= size, p += size)
        for (size_t i = 0, j = size - 1; i < j; i++, j--) {
            uint8_t c = p[i];
            p[i] = p[j], p[j] = c;
        }
}

/* ---- archives ---- */
typedef struct mmixi_named { const char *name; const mmix_entry *entry; } mmixi_named;
struct mmix_archive {
    mmix_ctx *m;
    mmix_params *own;                        /* without parameters: memory that goes with the archive */
    mmixi_file_bytes file;                   /* all of it; arrays are turned where they stand */
    mmix_entry *entries;                     /* in the order that they were added, of .safetensors by data */
    mmixi_named *by_name;
    size_t count;
    const char *metadata;                    /* a JSON object, or NULL */
    char path[MMIXI_PATH];                   /* for messages, and for what lies beside it */
    size_t most;                             /* bytes that the context may hold while it is read */
    int paged;                               /* mapped, no array turned (index: in all shards): can be read again */
    mmix_archive *shard;                     /* of an index the files that it names, in a list */
};
/* "PATH: entry "NAME": expected …", without the entry if name is NULL. Returns -1. */
MMIXI_PRINTF(3, 4) static int mmixi_refuse(const mmix_archive *a, const char *name, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return mmix_fail(a->m, MMIX_ERROR_FILE,
                     name ? "%.100s: entry \"%.60s\": expected %s" : "%.100s: %sexpected %s",
                     a->path, name ? name : "", text);
}
/* Zeros that are freed with the archive. Whatever a file says, what is made of it takes, with its bytes, at
   most twice its size and a megabyte. */
static void *mmixi_archive_alloc(mmix_archive *a, size_t bytes)
{
    if ((double)bytes + 2 * MMIXI_ALIGN <= (double)(a->most - a->m->memory.bytes))
        return mmixi_own(a->own, bytes);
    mmixi_refuse(a, NULL, "names and shapes in proportion to %.0f bytes, found more", (double)a->file.size);
    return NULL;
}
/* An array of n elements, or NULL, with room for 2n + 1. The old one goes at once if it came last. */
static void *mmixi_archive_grow(mmix_archive *a, const void *array, size_t n, size_t element)
{
    mmixi_owned *latest = a->own->owned;
    void *p = mmixi_archive_alloc(a, mmixi_mul(2 * n + 1, element));
    if (!p || !array) return p;
    memcpy(p, array, n * element);
    if ((char *)latest + MMIXI_ALIGN == array) {
        a->own->owned->next = latest->next;
        mmixi_free(a->m, latest, latest->bytes);
    }
    return p;
}
MMIXDEF void mmix_archive_close(mmix_archive *a)
{
    if (!a) return;
    mmix_archive_close(a->shard);
    mmixi_file_free(a->m, &a->file);
    mmix_params_destroy(a->own);
}
/* The bytes that an entry's shape takes, in double: exact as far as there is memory, and large beyond. */
static double mmixi_entry_bytes(const mmix_entry *e)
{
    double bytes = (double)mmixi_file_size[e->dtype];
    for (int i = 0; i < e->ndim; i++) bytes *= (double)e->shape[i];
    return bytes;
}
/* Copies elements that lie by strides into a row-major array; returns where it ends. */
static uint8_t *mmixi_entry_copy(uint8_t *to, const uint8_t *from, size_t size, int ndim,
                                       const size_t *shape, const size_t *stride)
{
    if (!ndim) return (uint8_t *)memcpy(to, from, size) + size;
    for (size_t i = 0; i < *shape; i++, from += *stride * size)
        to = mmixi_entry_copy(to, from, size, ndim - 1, shape + 1, stride + 1);
    return to;
}
/* One more entry; with strides, which count elements, it need not be row-major nor fill its bytes. */
static int mmixi_archive_add(mmix_archive *a, mmix_entry e, const size_t *stride)
{
    size_t size = mmixi_file_size[e.dtype], stored = e.bytes / size, step = 1;
    double bytes = mmixi_entry_bytes(&e), last = 0;
    int plain = 1;
    e.bytes = (size_t)fmin(bytes, (double)(SIZE_MAX / 2));
    for (int d = stride && e.bytes ? e.ndim : 0; d-- > 0; step *= e.shape[d]) {
        plain = plain && (e.shape[d] == 1 || stride[d] == step);
        last += (double)(e.shape[d] - 1) * (double)stride[d];
    }
    if (e.bytes && last >= (double)stored)
        return mmixi_refuse(a, e.name, "elements inside a storage of %.0f, found one beyond", (double)stored);
    if (!plain) {
        uint8_t *copy = (uint8_t *)mmixi_archive_alloc(a, e.bytes);
        if (!copy) return -1;
        mmixi_entry_copy(copy, (const uint8_t *)e.data, size, e.ndim, e.shape, stride);
        e.data = copy;
    }
    if (!(a->count & (a->count - 1)))            /* 0 or a power of 2: there is no room for one more */
        a->entries = (mmix_entry *)mmixi_archive_grow(a, a->entries, a->count, sizeof e);
    if (!a->entries) return -1;
    a->entries[a->count++] = e;
    return 0;
}
/* The same, of an array that fills its bytes and whose type, shape and order are members of a JSON object. */
static int mmixi_archive_json(mmix_archive *a, mmix_entry e, int npy, const char *object)
{
    const char *type = mmixi_json_word(object, npy ? "descr" : "dtype", NULL),
        *shape = mmixi_json_find(object, "shape");
    int fortran = mmixi_json_flag(mmixi_json_find(object, "fortran_order"), npy ? -1 : 0);
    size_t stride[MMIX_FILE_MAX_DIMS], step = 1;
    e.dtype = type && fortran >= 0 && (!npy || strspn(type, "<>|=")) ? MMIX_FILE_BOOL : -1;
    while (e.dtype >= 0 && strcmp(mmixi_file_names[npy][e.dtype], type + npy)) e.dtype--;
    if (e.dtype < 0)
        return mmixi_refuse(a, e.name, "dtype F64, F32, F16, BF16, I64 … I8, U64 … U8, BOOL (.npy: <f8, <f4, "
                            "<f2, <i8 … |i1, <u8 … |u1, |b1, and fortran_order), found %.20s",
                            type ? type : "none");
    e.ndim = mmixi_json_sizes(shape, e.shape, MMIX_FILE_MAX_DIMS);
    if (e.ndim < 0)
        return mmixi_refuse(a, e.name, "a shape of at most %d sizes, found %.40s", MMIX_FILE_MAX_DIMS,
                            shape ? shape : "none");
    if (mmixi_entry_bytes(&e) != (double)e.bytes)
        return mmixi_refuse(a, e.name, "%.0f bytes for its shape in %s, found %.0f", mmixi_entry_bytes(&e),
                            mmix_file_dtype_name(e.dtype), (double)e.bytes);
    for (int d = 0; d < e.ndim; step *= e.shape[d++]) stride[d] = step;
    mmixi_byte_order((uint8_t *)e.data, e.bytes, mmixi_file_size[e.dtype], *type == '>');
    return mmixi_archive_add(a, e, fortran ? stride : NULL);
}
/* When all are there: names are UTF-8 and there once. */
static int mmixi_archive_finish(mmix_archive *a)
{
    a->by_name = (mmixi_named *)mmixi_archive_alloc(a, a->count * sizeof *a->by_name);
    if (!a->by_name) return -1;
    for (size_t i = 0; i < a->count; i++) {
        const char *name = a->by_name[i].name = a->entries[i].name;
        a->by_name[i].entry = &a->entries[i];
        if (name[mmixi_utf8_span(name)]) return mmixi_refuse(a, name, "a name of UTF-8, found another");
    }
    const char *twice = mmixi_key_twice(a->by_name, a->count, sizeof *a->by_name);
    return twice ? mmixi_refuse(a, twice, "each name once, found it twice") : 0;
}

/* ---- .safetensors (github.com/huggingface/safetensors, "Format") ----
   8 bytes   n, the length of the header, little-endian
   n bytes   JSON: {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, …,
                    "__metadata__": {"key": "text", …}}
   the rest  the arrays, little-endian, row-major; offsets count from here, without gaps and overlaps */
/* By where the data begin, then where they end, then by name. */
static int mmixi_compare_data(const void *x, const void *y)
{
    const mmix_entry *a = (const mmix_entry *)x, *b = (const mmix_entry *)y;
    const char *p = (const char *)a->data, *q = (const char *)b->data;
    if (p == q) p += a->bytes, q += b->bytes;
    return p == q ? strcmp(a->name, b->name) : p < q ? -1 : 1;
}
static int mmixi_safetensors(mmix_archive *a)
{
    uint8_t *data = a->file.bytes;
    size_t size = a->file.size, at = 0, part[2];
    uint64_t n = size < 8 ? 0 : mmixi_number(data, 8);
    char *text = (char *)data + 7;               /* one early: its end has room for a zero */
    const char *key, *i = text;
    if (size < 8 || n > size - 8)
        return mmixi_refuse(a, NULL, ".safetensors, .npy, .npz or .pth, found %.0f bytes that as "
                            ".safetensors would have a header of %.0f", (double)size, (double)n);
    a->paged = a->file.mapped && !mmixi_big_endian_here();
    data += 8 + n, size -= 8 + (size_t)n;
    memmove(text, text + 1, (size_t)n);
    text[n] = 0;
    if (mmixi_json_open(a->m, a->path, text, (size_t)n, a->most - a->m->memory.bytes)) return -1;
    if (*text != '{') return mmixi_refuse(a, NULL, "a header {…}, found %.20s", text);
    while ((i = mmixi_json_next(text, i, &key)) != NULL) {
        const char *offsets = mmixi_json_find(i, "data_offsets");
        if (!strcmp(key, "__metadata__")) {
            a->metadata = i;
            continue;
        }
        if (mmixi_json_sizes(offsets, part, 2) != 2 || part[0] > part[1] || part[1] > size)
            return mmixi_refuse(a, key, "two data_offsets in order inside %.0f bytes of data, found %.40s",
                                (double)size, offsets ? offsets : "none");
        mmix_entry e = { key, 0, 0, {0}, part[1] - part[0], data + part[0] };
        if (mmixi_archive_json(a, e, 0, i)) return -1;
    }
    for (i = a->metadata; i && *i == (i == a->metadata ? '{' : '"'); )
        i = mmixi_json_next(a->metadata, i, &key);
    if (i) return mmixi_refuse(a, NULL, "__metadata__ of keys and strings, found %.20s", i);
    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, mmixi_compare_data);
    for (const mmix_entry *e = a->entries; e < a->entries + a->count; at += e++->bytes)
        if (e->data != data + at)
            return mmixi_refuse(a, e->name, "data from byte %.0f on, where those before end, found %.0f",
                                (double)at, (double)((const uint8_t *)e->data - data));
    return at == size ? 0 : mmixi_refuse(a, NULL, "%.0f bytes of data, found %.0f", (double)at, (double)size);
}

/* ---- .npy: "\x93NUMPY", version, length of the header: a Python dict of descr, fortran_order, shape ---- */
/* Python's dicts, tuples, texts and booleans as JSON, where they stand. */
static void mmixi_python_json(char *s)
{
    static const char python[] = "'()", json[] = "\"[]";
    for (; *s; s++) {
        const char *c = strchr(python, *s);
        if (c) *s = json[c - python];
        if (!strncmp(s, "True", 4) || !strncmp(s, "False", 5)) *s |= 32;
        if (*s == ',' && strchr(")}", s[1 + strspn(s + 1, " ")])) *s = ' ';      /* (3,) */
    }
}
/* One array in bytes[0 … size). */
static int mmixi_npy(mmix_archive *a, const char *name, uint8_t *bytes, size_t size)
{
    size_t begin = size > 6 && bytes[6] > 1 ? 12 : 10,
        length = size < 12 ? 0 : (size_t)mmixi_number(bytes + 8, (int)begin - 8);
    char *header = (char *)bytes + begin;
    if (!length || memcmp(bytes, "\x93NUMPY", 6) || bytes[6] - 1u > 2 || length > size - begin)
        return mmixi_refuse(a, name, "a .npy file of version 1, 2 or 3, found %.0f bytes, header of %.0f",
                            (double)size, (double)length);
    header[length - 1] = 0;                      /* a line end */
    mmixi_python_json(header);
    if (mmixi_json_open(a->m, a->path, header, strlen(header), a->most - a->m->memory.bytes)) return -1;
    mmix_entry e = { name, 0, 0, {0}, size - begin - length, header + length };
    return mmixi_archive_json(a, e, 1, header);
}

/* ---- zip, as np.savez and torch.save write it: members stored, not compressed, one after another ---- */
static uint32_t mmixi_crc32(const uint8_t *p, size_t n)
{
    uint32_t table[256], crc = 0xffffffffu;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    while (n--) crc = crc >> 8 ^ table[(crc ^ *p++) & 255];
    return ~crc;
}
/* Reads numbers that follow one another from byte `at` on, of as many bytes as the digits in `widths` say. 1,
   or 0: the first one, the signature, is another, or they are not all inside the file. */
static int mmixi_zip_record(const mmix_archive *zip, uint64_t at, uint64_t signature, const char *widths,
                            uint64_t *number)
{
    for (int i = 0, bytes; widths[i]; i++, at += (uint64_t)bytes) {
        bytes = widths[i] - '0';
        if (at > zip->file.size || zip->file.size - at < (size_t)bytes) return 0;
        number[i] = mmixi_number(zip->file.bytes + at, bytes);
        if (*number != signature) return 0;
    }
    return 1;
}
/* All members become entries of bytes, by way of the directory; their data lie before it and in its order. */
static int mmixi_zip_members(mmix_archive *zip)
{
    uint64_t size = zip->file.size, end = size + 1, least = size - mmixi_min(zip->file.size, 22 + 65535),
        from = 0, count = 0, directory = 0, d[12], local[6], wide[5], at;
    while (!count && end-- > least)
        if (mmixi_zip_record(zip, end, 0x06054b50, "462442", d)) count = d[2], directory = d[4];
    if (mmixi_zip_record(zip, end - 20, 0x07064b50, "448", d))   /* the 64-bit form */
        count = mmixi_zip_record(zip, d[2], 0x06064b50, "48488888", d) ? d[5] : 0, directory = d[7];
    if (!count || directory > size)
        return mmixi_refuse(zip, NULL, "the end of a zip file, with its directory's place, found none in "
                            "%.0f bytes", (double)size);
    for (at = directory; count--; ) {
        uint64_t extra, stop;
        char *name = (char *)zip->file.bytes + at + 45;          /* one early: its end has room for a zero */
        /* 2 method, 4 checksum, 5 bytes in the file, 6 bytes, 7, 8 and 9 lengths of name, extra fields and
           comment, 11 place of the local header, later of the data */
        if (!mmixi_zip_record(zip, at, 0x02014b50, "462444422284", d) || size - at < 46 + d[7] + d[8])
            return mmixi_refuse(zip, NULL, "a member of the directory at byte %.0f", (double)at);
        extra = at + 46 + d[7], stop = extra + d[8], at = stop + d[9];
        /* what has no room in its field is in the extra one of kind 1 */
        while (extra + 4 <= stop && !mmixi_zip_record(zip, extra, 1, "22888", wide))
            extra += 4 + mmixi_number(zip->file.bytes + extra + 2, 2);
        for (int k = 5, i = 2; extra + 4 <= stop && k < 12; k++)
            if (d[k] == 0xffffffffu && i < 5) d[k] = wide[i++];
        memmove(name, name + 1, (size_t)d[7]); name[d[7]] = 0;
        if (d[2] || d[5] != d[6] || strlen(name) != d[7])
            return mmixi_refuse(zip, name, "it stored, not compressed, without a zero in its name, found "
                                "method %d", (int)d[2]);
        if (!mmixi_zip_record(zip, d[11], 0x04034b50, "486822", local)
            || (d[11] += 30 + local[4] + local[5]) < from || d[11] > directory || d[5] > directory - d[11])
            return mmixi_refuse(zip, name, "its data between those before and the directory, found %.0f "
                                "bytes at %.0f", (double)d[5], (double)d[11]);
        from = d[11] + d[5];
        const uint8_t *data = zip->file.bytes + d[11];
        mmix_entry e = { name, MMIX_FILE_U8, 1, { (size_t)d[5] }, (size_t)d[5], data };
        if (mmixi_crc32(data, e.bytes) != d[4])
            return mmixi_refuse(zip, name, "the data of its checksum, found others: the file is damaged");
        if (mmixi_archive_add(zip, e, NULL)) return -1;
    }
    return mmixi_archive_finish(zip);
}

/* ---- .pth: the pickle of a dictionary of tensors, read and never run ----
   A pickle is a program for a stack machine. This one knows the instructions that torch.save writes; its
   values are only looked at: calls make a tensor of _rebuild_tensor_v2, a dictionary of OrderedDict, and an
   opaque thing of the few other names that training scripts leave beside their weights. Values are cells of
   one array, chained by their numbers, from the top of the stack down, or from a list's first item on. */
/* A value. Its kind: ( the mark, i an integer, t a text, z one with a zero in it, g a name, o opaque; l a
   list; d a dictionary: a list of key, value, key, …; T a tensor: the list of its arguments; s a storage: its
   id. A name's number is the kind of what it makes when it is called, or the digit of a dtype. */
typedef struct mmixi_py {
    int64_t number;
    const char *text;
    uint32_t first, last, next;                  /* of a list; in a chain, 0 at its end */
    uint32_t memo;                               /* no part of the value: what is remembered as this number */
    int kind;
} mmixi_py;
typedef struct mmixi_pickle {
    mmix_archive *a, *zip;
    uint8_t *p, *end;
    mmixi_py *cell;                              /* the first is none */
    size_t n, capacity, remembered, visits;      /* visits: a dictionary may stand in many others */
    uint32_t top;
    char wrong[96];
} mmixi_pickle;
/* What MODULE.NAME makes when it is called, or the digit of a storage's dtype; 0 if it is refused. */
static int mmixi_pickle_name(mmixi_pickle *k, const char *module, const char *name)
{
    static const char known[] =                  /* a dictionary, a tensor, its argument, opaque things */
        "0 torch.DoubleStorage, 1 torch.FloatStorage, 2 torch.HalfStorage, 3 torch.BFloat16Storage, "
        "4 torch.LongStorage, 5 torch.IntStorage, 6 torch.ShortStorage, 7 torch.CharStorage, "
        "8 torch.ByteStorage, 9 torch.BoolStorage, d collections.OrderedDict, "
        "T torch._utils._rebuild_tensor_v2, p torch._utils._rebuild_parameter, o argparse.Namespace, "
        "o torch.Size, o torch.device, o numpy.core.multiarray.scalar, o numpy._core.multiarray.scalar, "
        "o numpy.dtype, o _codecs.encode, o torch.float32, o torch.float64, o torch.float16, "
        "o torch.bfloat16, o collections.defaultdict,";
    char whole[128];
    snprintf(whole, sizeof whole, " %s.%s,", module, name);
    const char *at = strstr(known, whole);
    if (!at) snprintf(k->wrong, sizeof k->wrong, "asks for%.50s which is refused: nothing was run", whole);
    return at ? at[-1] : 0;
}
/* Each instruction: the bytes of a number that follows it, how many values it takes from the stack ('(': all
   from a mark on), what it does, the kind of value that it makes, its code. It does: + the number; = as many
   bytes as it says; p put, g get; c a name; l no more; a append to the list on top; r a call; v version. */
static const char mmixi_pickle_codes[] =
    "10v-\x80" "80--\x95" "00.-." "00+((" "00+oN" "00+o\x88" "00+o\x89" "10+iK" "20+iM" "40+iJ" "10=i\x8a"
    "80+oG" "00ld}" "00ll]" "00ll)" "40=tX" "10=t\x8c" "40=oT" "40=oB" "10=oU" "10=oC" "10p-q" "40p-r"
    "00p-\x94" "10g-h" "40g-j" "00cgc" "02cg\x93" "01ll\x85" "02ll\x86" "03ll\x87" "0(llt" "0(lll" "0(ldd"
    "01a-a" "02a-s" "0(a-u" "0(a-e" "01lsQ" "02r-R" "02r-\x81" "01--0" "01--b";
/* The next line, as a text. */
static const char *mmixi_pickle_line(mmixi_pickle *k)
{
    char *line = (char *)k->p, *end = (char *)memchr(line, '\n', (size_t)(k->end - k->p));
    if (!end) return "";
    *end = 0, k->p += end + 1 - line;
    return line;
}
/* The topmost `count` values, or (below 0) all to the last mark, become a list. 0, or -1: too few. */
static int mmixi_pickle_take(mmixi_pickle *k, int count, mmixi_py *list)
{
    mmixi_py *cell = k->cell;
    int marked = count < 0;
    while (marked ? cell[k->top].kind != '(' : count-- > 0) {
        uint32_t at = k->top;
        if (!at) return -1;
        k->top = cell[at].next; cell[at].next = list->first, list->first = at;
        if (!list->last) list->last = at;
    }
    if (marked) k->top = cell[k->top].next;
    return 0;
}
/* One instruction: NULL, or what is wrong; "" at the end. */
static const char *mmixi_pickle_step(mmixi_pickle *k)
{
    const char op = (char)*k->p++, *code = mmixi_pickle_codes;
    mmixi_py made, *cell = k->cell, *top;
    const char *module;
    size_t n;
    int shift, kind;
    while (*code && code[4] != op) code += 5;
    if (!*code) {
        snprintf(k->wrong, sizeof k->wrong, "has the instruction 0x%02x", (uint8_t)op);
        return k->wrong;
    }
    memset(&made, 0, sizeof made);
    n = (size_t)mmixi_number(k->p, *code - '0');           /* behind the pickle is the zip's directory */
    k->p += *code - '0';
    made.number = (int32_t)n, made.text = "", made.kind = code[3];
    if (mmixi_pickle_take(k, code[1] - '0', &made)) return "takes from an empty stack";
    top = &cell[k->top];
    switch (code[2]) {
    case 'v': return n >= 2 && n <= 5 ? NULL : "is not of protocol 2 to 5";
    case '.': return top->kind == 'd' && !top->next ? "" : "holds no dictionary of tensors";
    case '=':                                    /* a text goes one byte early: its end has room for a zero */
        if (made.number < 0 || made.number > k->end - k->p) return "ends too early";
        shift = (int)(64 - 8 * n) & 63;
        made.number = (int64_t)(mmixi_number(k->p, n < 8 ? (int)n : 8) << shift) >> shift;
        if (made.kind == 'i' && n > 8) made.kind = 'o';
        if (made.kind == 't' && memchr(k->p, 0, n)) made.kind = 'z';
        made.text = (char *)memmove(k->p - 1, k->p, n); k->p += n, k->p[-1] = 0;
        break;
    case 'p':
        n = *code == '0' ? k->remembered : n, k->remembered++;
        if (n >= k->n) return "remembers its values out of order";
        cell[n].memo = k->top;
        break;
    case 'g':
        if (n >= k->n || !cell[n].memo) return "recalls what it never remembered";
        made = cell[cell[n].memo];
        break;
    case 'c':
        module = op == 'c' ? mmixi_pickle_line(k) : cell[made.first].text;
        made.number = mmixi_pickle_name(k, module, op == 'c' ? mmixi_pickle_line(k) : cell[made.last].text);
        if (!made.number) return k->wrong;
        break;
    case 'a':
        if (!k->top) return "appends to an empty stack";
        *(top->first ? &cell[top->last].next : &top->first) = made.first;
        if (made.last) top->last = made.last;
        break;
    case 'r':
        if (cell[made.first].kind != 'g' || cell[made.last].kind != 'l') return "calls what can't be called";
        kind = (int)cell[made.first].number;
        made = cell[made.last], made.kind = kind;
        if (made.kind == 'p') made = cell[made.first];
    }
    if (made.kind == '-') return NULL;
    made.memo = 0, made.next = k->top, cell[k->n] = made; k->top = (uint32_t)k->n++;
    return NULL;
}
/* Sizes in a chain, as far as there are integers: how many, or -1 if one is below 0 or there are too many. */
static int mmixi_py_sizes(const mmixi_py *cell, uint32_t at, size_t *out)
{
    int n = 0;
    for (; cell[at].kind == 'i'; at = cell[at].next) {
        if (n == MMIX_FILE_MAX_DIMS || (uint64_t)cell[at].number > SIZE_MAX / 2) return -1;
        out[n++] = (size_t)cell[at].number;
    }
    return n;
}
/* The member FOLDER/NAME KEY, or NULL; all lie in one folder. */
static const mmix_entry *mmixi_pth_member(const mmix_archive *zip, const char *name, const char *key)
{
    const char *first = zip->entries->name;
    char path[512];
    snprintf(path, sizeof path, "%.*s/%s%s", (int)strcspn(first, "/"), first, name, key);
    return mmix_archive_find(zip, path);
}
/* _rebuild_tensor_v2(storage, offset, size, stride, …), storage = ("storage", type, key, device, count). */
static int mmixi_pth_tensor(mmixi_pickle *k, const char *name, const mmixi_py *tensor)
{
    const mmixi_py *cell = k->cell, *storage = &cell[tensor->first], *shape = &cell[cell[storage->next].next],
        *what = &cell[cell[storage->first].first], *type = &cell[what->next], *key = &cell[type->next];
    size_t stride[MMIX_FILE_MAX_DIMS], begin[MMIX_FILE_MAX_DIMS], count[MMIX_FILE_MAX_DIMS];
    mmix_entry e = { name, (int)type->number - '0', 0, {0}, 0, NULL };
    e.ndim = mmixi_py_sizes(cell, shape->first, e.shape);
    if (storage->kind != 's' || what->kind != 't' || strcmp(what->text, "storage") || type->kind != 'g'
        || (unsigned)e.dtype > MMIX_FILE_BOOL || key->kind != 't' || e.ndim < 0
        || mmixi_py_sizes(cell, cell[key->next].next, count) != 1
        || mmixi_py_sizes(cell, storage->next, begin) != 1
        || mmixi_py_sizes(cell, cell[shape->next].first, stride) != e.ndim)
        return mmixi_refuse(k->a, name, "a tensor of a storage, sizes and strides from 0 on, found another");
    size_t size = mmixi_file_size[e.dtype];
    const mmix_entry *file = mmixi_pth_member(k->zip, "data/", key->text);
    if (!file || (double)file->bytes != (double)*count * (double)size)
        return mmixi_refuse(k->a, name, "a member data/%s of %.0f numbers, found %.0f bytes", key->text,
                            (double)*count, file ? (double)file->bytes : 0);
    *begin = mmixi_min(*begin, *count) * size;   /* behind the end only what is empty can begin */
    e.data = (const uint8_t *)file->data + *begin;
    e.bytes = file->bytes - *begin;
    return mmixi_archive_add(k->a, e, stride);
}
/* All tensors below a dictionary, named by their keys joined with dots. */
static int mmixi_pth_walk(mmixi_pickle *k, const mmixi_py *d, const char *prefix, int depth)
{
    const mmixi_py *cell = k->cell, *key, *value;
    for (uint32_t at = d->first; at; at = value->next, k->visits++) {
        key = &cell[at], value = &cell[key->next];
        /* other things are there, too, such as the optimiser's numbered states */
        if ((value->kind != 'T' && value->kind != 'd') || (key->kind != 't' && key->kind != 'z')) continue;
        if (k->visits > 2 * k->n || depth == 8 || key->kind == 'z')
            return mmixi_refuse(k->a, NULL, "the pickle of a file of weights, found one that nests names "
                                "deeper or more often than that, or a name with a zero in it");
        size_t room = strlen(prefix) + strlen(key->text) + 2;
        char *name = (char *)mmixi_archive_alloc(k->a, room);
        if (!name) return -1;
        snprintf(name, room, "%s%s%s", prefix, *prefix ? "." : "", key->text);
        if (value->kind == 'd' ? mmixi_pth_walk(k, value, name, depth + 1)
            : mmixi_pth_tensor(k, name, value)) return -1;
    }
    return 0;
}
static int mmixi_pth(mmix_archive *a, mmix_archive *zip, const mmix_entry *file)
{
    const char *wrong = file->bytes > INT32_MAX ? "has more than 2 GiB" : NULL;
    mmixi_pickle k;
    memset(&k, 0, sizeof k);
    k.a = a, k.zip = zip;
    k.p = (uint8_t *)file->data, k.end = k.p + file->bytes;
    for (k.n = 1; !wrong; wrong = k.p < k.end ? mmixi_pickle_step(&k) : "never stops")
        if (k.n >= k.capacity) {
            k.capacity = 2 * k.n + 1;
            k.cell = (mmixi_py *)mmixi_archive_grow(zip, k.cell, k.n, sizeof *k.cell);
            if (!k.cell) return -1;
        }
    if (*wrong) return mmixi_refuse(a, NULL, "the pickle of a file of weights, found one that %s", wrong);
    return mmixi_pth_walk(&k, &k.cell[k.top], "", 0);
}
static int mmixi_zip(mmix_archive *a)
{
    mmix_archive zip = *a;                       /* of its members; what it takes is freed in the end */
    zip.own = mmix_params_create(a->m);
    int failed = !zip.own || mmixi_zip_members(&zip);
    const mmix_entry *pickle = failed ? NULL : mmixi_pth_member(&zip, "data.pkl", ""),
        *order = pickle ? mmixi_pth_member(&zip, "byteorder", "") : NULL;
    if (pickle && (mmixi_big_endian_here()
                   || (order && (order->bytes < 6 || memcmp(order->data, "little", 6)))))
        failed = mmixi_refuse(a, NULL, "weights of, and on, a little-endian machine, found another");
    else if (pickle) failed = mmixi_pth(a, &zip, pickle);
    for (mmix_entry *e = zip.entries; !pickle && !failed && e < zip.entries + zip.count; e++) {
        char *dot = (char *)strrchr(e->name, '.');
        if (!dot || strcmp(dot, ".npy"))
            failed = mmixi_refuse(a, e->name, "members NAME.npy, or data.pkl of torch.save, found another");
        else *dot = 0, failed = mmixi_npy(a, e->name, (uint8_t *)e->data, e->bytes);
    }
    mmix_params_destroy(zip.own);
    return failed;
}

/* ---- .index.json: {"weight_map": {"NAME": "FILE", …}}, a network in several files beside it ---- */
/* JSON begins at once, where a .safetensors has its header's length, whose last byte is 0. */
static int mmixi_is_index(const mmixi_file_bytes *f)
{
    return f->size > 8 && *f->bytes == '{' && f->bytes[7];
}
/* The path of a file beside the archive's. */
static void mmixi_path_beside(const mmix_archive *a, const char *name, char path[MMIXI_PATH])
{
    size_t n = strlen(a->path);
    while (n && !strchr("/\\", a->path[n - 1])) n--;
    snprintf(path, MMIXI_PATH, "%.*s%s", (int)n, a->path, name);
}
/* All of a file as JSON, checked and decoded, in memory of the archive. NULL on error. */
static char *mmixi_file_json(mmix_archive *a, const char *path, const mmixi_file_bytes *f)
{
    char *text = f->bytes ? (char *)mmixi_archive_alloc(a, f->size + 1) : NULL;
    if (!text) return NULL;
    memcpy(text, f->bytes, f->size);
    return mmixi_json_open(a->m, path, text, f->size, a->most - a->m->memory.bytes) ? NULL : text;
}
static mmix_archive *mmixi_archive_new(mmix_ctx *m, const char *path, mmixi_file_bytes file);
static int mmixi_shards(mmix_archive *a)
{
    const char *text = mmixi_file_json(a, a->path, &a->file), *map = mmixi_json_find(text, "weight_map"),
        *at = map, *key;
    char path[MMIXI_PATH];
    if (!text) return -1;
    if (!map || *map != '{') return mmixi_refuse(a, NULL, "the index of a network, with a weight_map");
    a->paged = 1;
    while ((at = mmixi_json_next(map, at, &key)) != NULL) {
        const char *name = mmixi_json_text(at);
        mmix_archive *shard = a->shard;
        size_t held = a->m->memory.bytes;
        if (!name || strpbrk(name, "/\\"))
            return mmixi_refuse(a, key, "in a file beside the index, found %.40s", name ? name : "none");
        mmixi_path_beside(a, name, path);
        while (shard && strcmp(shard->path, path)) shard = shard->shard;
        if (!shard) {
            mmixi_file_bytes file = mmixi_file_read(a->m, "mmix_archive_open", path);
            if (file.bytes && mmixi_is_index(&file)) {
                mmixi_file_free(a->m, &file);
                return mmixi_refuse(a, key, "arrays in %.40s, found an index", name);
            }
            shard = mmixi_archive_new(a->m, path, file);
            if (!shard) return -1;
            shard->shard = a->shard; a->shard = shard; a->paged &= shard->paged;
            a->most += 4 * (a->m->memory.bytes - held);         /* and what lists them, while it grows */
            for (const mmix_entry *e = shard->entries; e < shard->entries + shard->count; e++)
                if (mmixi_archive_add(a, *e, NULL)) return -1;
        }
        if (!mmix_archive_find(shard, key)) return mmixi_refuse(a, key, "in %.40s, which has none", name);
    }
    return 0;
}

/* ---- opening and reading ---- */
/* Takes the file, whatever comes of it; NULL, too, if there is none. */
static mmix_archive *mmixi_archive_new(mmix_ctx *m, const char *path, mmixi_file_bytes file)
{
    size_t size = mmixi_min(file.size, SIZE_MAX / 4);
    uint64_t magic = !file.bytes || size < 8 ? 0 : mmixi_number(file.bytes, 4);
    mmix_params *own = file.bytes ? mmix_params_create(m) : NULL;
    mmix_archive *a = (mmix_archive *)mmixi_own(own, sizeof *a);
    if (!a) {
        mmixi_file_free(m, &file);
        mmix_params_destroy(own);
        return NULL;
    }
    a->m = m, a->own = own, a->file = file;
    a->most = m->memory.bytes + (file.mapped ? 2 * size : size) + ((size_t)1 << 20) - 2 * MMIXI_PATH;
    snprintf(a->path, sizeof a->path, "%s", path);
    int failed = magic == 0x0a8a0280
        ? mmixi_refuse(a, NULL, "a zip file, found a bare pickle, as torch.save wrote before version 1.6: "
                       "save it anew")
        : magic == 0x4d554e93 ? mmixi_npy(a, "array", file.bytes, size)          /* "\x93NUM" */
        : magic == 0x04034b50 ? mmixi_zip(a)                                     /* "PK\3\4" */
        : mmixi_is_index(&a->file) ? mmixi_shards(a) : mmixi_safetensors(a);
    if (!failed && !mmixi_archive_finish(a)) return a;
    mmix_archive_close(a);
    return NULL;
}
MMIXDEF mmix_archive *mmix_archive_open(mmix_ctx *m, const char *path)
{
    return mmixi_archive_new(m, path, mmixi_file_read(m, "mmix_archive_open", path));
}
MMIXDEF mmix_archive *mmix_archive_open_memory(mmix_ctx *m, const char *name, const void *bytes, size_t size)
{
    mmixi_file_bytes copy = { NULL, size, 0 };
    if (mmixi_given(m, "mmix_archive_open_memory", "*name, *bytes", name, size ? bytes : name))
        copy.bytes = (uint8_t *)mmixi_alloc(m, size);
    if (copy.bytes && size) memcpy(copy.bytes, bytes, size);
    return mmixi_archive_new(m, name, copy);
}
MMIXDEF size_t mmix_archive_count(const mmix_archive *a) { return a ? a->count : 0; }
MMIXDEF const mmix_entry *mmix_archive_entry(const mmix_archive *a, size_t i)
{
    return a && i < a->count ? &a->entries[i] : NULL;
}
MMIXDEF const mmix_entry *mmix_archive_find(const mmix_archive *a, const char *name)
{
    const mmixi_named *found = !a || !name || !a->count ? NULL
        : (const mmixi_named *)bsearch(&name, a->by_name, a->count, sizeof *a->by_name, mmixi_compare_keys);
    return found ? found->entry : NULL;
}
MMIXDEF const char *mmix_archive_metadata(const mmix_archive *a, const char *key)
{
    return a && key ? mmixi_json_word(a->metadata, key, NULL) : NULL;
}
MMIXDEF size_t mmix_entry_count(const mmix_entry *e)
{
    size_t n = e ? 1 : 0;
    for (int i = 0; e && i < e->ndim; i++) n *= e->shape[i];
    return n;
}
MMIXI_COLD_END

/* An F32, F16 (sign 1, exponent 5, fraction 10 bits) or BF16 of a file. */
static inline float mmixi_file_float(const uint8_t *p, int from)
{
    union { uint32_t bits; float f; } u;
    uint16_t half;
    memcpy(&half, p, 2);
    if (from == MMIX_FILE_BF16) return mmixi_bf16(half);
    if (from == MMIX_FILE_F32) return memcpy(&u, p, 4), u.f;
    int exponent = half >> 10 & 31, fraction = half & 1023, normal = exponent > 0;
    u.bits = (uint32_t)(127 + exponent - normal - 24) << 23;     /* a power of 2 */
    u.f *= (float)(fraction + 1024 * normal);
    if (exponent == 31) u.f = fraction ? (float)NAN : (float)INFINITY;
    return half & 0x8000 ? -u.f : u.f;
}
/* The nearest BF16, ties to even. */
static uint16_t mmixi_to_bf16(mmix_real x)
{
    float f = (float)x;
    double beyond = fabs((double)x) - fabs((double)f);
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (f != f) return (uint16_t)(bits >> 16 | 0x40u);            /* NaN stays NaN */
    if ((bits & 0xFFFFu) == 0x8000u)             /* a tie, but perhaps not in double */
        bits += (uint32_t)(beyond > 0) - (uint32_t)(beyond < 0);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
MMIXDEF int mmix_archive_read(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, int dtype,
                              void *values, size_t count)
{
    if (!mmixi_given(m, "mmix_archive_read", "*archive, *entry, *values", a, e, count ? values : e))
        return -1;
    mmix_archive in = *a;
    in.m = m;                                    /* messages go there */
    const uint8_t *p = (const uint8_t *)e->data;
    int from = e->dtype, single = from > MMIX_FILE_F64 && from < MMIX_FILE_I64;      /* F32, F16 or BF16 */
    size_t size = mmixi_file_size[from], shift = 64 - 8 * size, skip = mmixi_big_endian_here() ? 8 - size : 0;
    if (count != mmix_entry_count(e))
        return mmixi_refuse(&in, e->name, "%.0f elements, found %.0f", (double)count,
                            (double)mmix_entry_count(e));
    if (dtype >= MMIX_FILE_I64 && from < MMIX_FILE_I64)
        return mmixi_refuse(&in, e->name, "integers, found %s", mmix_file_dtype_name(from));
    if (from == dtype && count) memcpy(values, p, e->bytes);
    else if (single && dtype == MMIX_FILE_F32)    /* what is asked for most, three times as fast */
        for (size_t i = 0; i < count; i++, p += size) ((float *)values)[i] = mmixi_file_float(p, from);
    else for (size_t i = 0; i < count; i++, p += size) {
        uint64_t bits = 0;
        int64_t v = 0;
        double d;
        int large = 0;                           /* above the largest int64_t */
        if (single) d = mmixi_file_float(p, from);
        else if (from == MMIX_FILE_F64) memcpy(&d, p, size);     /* it need not be aligned */
        else {
            memcpy((char *)&bits + skip, p, size);
            v = from < MMIX_FILE_U8 ? (int64_t)(bits << shift) >> shift      /* with its sign */
                : from == MMIX_FILE_BOOL ? bits != 0 : (int64_t)bits;
            large = from == MMIX_FILE_U64 && v < 0;
            d = large ? (double)bits : (double)v;
        }
        if (dtype == MMIX_FILE_F64) ((double *)values)[i] = d;
        else if (dtype == MMIX_FILE_F32) ((float *)values)[i] = (float)d;
        else if (dtype == MMIX_FILE_BF16) ((uint16_t *)values)[i] = mmixi_to_bf16((mmix_real)d);
        else if (dtype == MMIX_FILE_I64 && !large) ((int64_t *)values)[i] = v;
        else if (dtype == MMIX_FILE_I32 && v == (int32_t)v && !large) ((int32_t *)values)[i] = (int32_t)v;
        else
            return mmixi_refuse(&in, e->name, "what can be read as %s, found %.0f",
                                dtype == MMIX_FILE_I32 ? "32-bit integers" : dtype == MMIX_FILE_I64
                                ? "64-bit integers" : "F64, F32, BF16, I64 or I32", d);
    }
    return 0;
}

MMIXI_COLD_BEGIN

/* ---- saving ---- */
/* Text that is measured (out NULL) and then written by the same calls; room for a zero more. */
typedef struct mmixi_text { char *out; size_t at, room; } mmixi_text;
MMIXI_PRINTF(2, 3) static void mmixi_print(mmixi_text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    t->at += (size_t)vsnprintf(t->out ? t->out + t->at : NULL, t->out ? t->room - t->at : 0, format, list);
    va_end(list);
}
static void mmixi_print_sizes(mmixi_text *t, int n, const size_t *sizes, const char *between)
{
    for (int i = 0; i < n; i++) mmixi_print(t, "%s%.0f", i ? between : "", (double)sizes[i]);
}
static void mmixi_print_quoted(mmixi_text *t, const char *before, const char *s)
{
    for (mmixi_print(t, "%s\"", before); *s; s++)
        if ((uint8_t)*s < 32) mmixi_print(t, "\\u%04x", (unsigned)*s);
        else mmixi_print(t, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
    mmixi_print(t, "\"");
}
/* The length of what follows; JSON, in the order of saving, which `at` follows. */
static void mmixi_safetensors_header(mmixi_text *t, uint64_t length, const mmix_entry *entries, size_t n,
                                     const char *const *metadata)
{
    const char *before = "{";
    double at = 0, end;
    for (int i = 0; i < 64; i += 8) mmixi_print(t, "%c", (int)(length >> i & 255));
    if (metadata && *metadata) {
        mmixi_print(t, "{\"__metadata__\":");
        for (; *metadata; metadata += 2, before = ",") {
            mmixi_print_quoted(t, before, metadata[0]);
            mmixi_print_quoted(t, ":", metadata[1]);
        }
        mmixi_print(t, "}");
    }
    for (size_t size = 8; size; size /= 2)
        for (const mmix_entry *e = entries; e < entries + n; e++) {
            if (mmixi_file_size[e->dtype] != size) continue;
            mmixi_print_quoted(t, before, e->name);
            mmixi_print(t, ":{\"dtype\":\"%s\",\"shape\":[", mmix_file_dtype_name(e->dtype));
            mmixi_print_sizes(t, e->ndim, e->shape, ",");
            end = at + mmixi_entry_bytes(e);
            mmixi_print(t, "],\"data_offsets\":[%.0f,%.0f]}", at, end);
            at = end, before = ",";
        }
    mmixi_print(t, *before == '{' ? "{}" : "}");
    mmixi_print(t, "%*s", (int)(7 & (0 - t->at)), "");            /* to a multiple of 8 */
}
/* The magic bytes, version 1.0, the length of what follows; a Python dict, a line end at a multiple of 64. */
static void mmixi_npy_header(mmixi_text *t, uint64_t length, const mmix_entry *e)
{
    const char *type = mmixi_file_names[1][e->dtype];
    mmixi_print(t, "\x93NUMPY%c%c%c%c", 1, 0, (int)(length & 255), (int)(length >> 8));
    mmixi_print(t, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", "<|"[type[1] == '1'], type);
    mmixi_print_sizes(t, e->ndim, e->shape, ", ");
    mmixi_print(t, e->ndim == 1 ? ",), }" : "), }");
    mmixi_print(t, "%*s\n", (int)(63 - t->at % 64), "");
}

#ifndef MMIX_NO_STDIO
/* The entry's elements as the file has them, by way of a chunk that is rounded and turned as needed. */
static int mmixi_file_put(FILE *f, const mmix_entry *e)
{
    uint16_t chunk[2048];
    size_t size = mmixi_file_size[e->dtype], count = mmix_entry_count(e), n;
    for (size_t i = 0; i < count; i += n) {
        n = mmixi_min(count - i, sizeof chunk / size);
        if (e->dtype != MMIX_FILE_REAL_AS_BF16) memcpy(chunk, (const char *)e->data + i * size, n * size);
        else for (size_t j = 0; j < n; j++) chunk[j] = mmixi_to_bf16(((const mmix_real *)e->data)[i + j]);
        mmixi_byte_order((uint8_t *)chunk, n * size, size, 0);
        if (fwrite(chunk, size, n, f) != n) return -1;
    }
    return 0;
}
#endif
/* The header, then entries in falling size of element: each is aligned, without gaps. The rest: its API. */
static int mmixi_save(mmix_ctx *m, const char *path, const mmixi_text *header, const mmix_entry *e, size_t n)
{
#ifdef MMIX_NO_STDIO
    (void)header, (void)e, (void)n;
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: files were compiled out (MMIX_NO_STDIO)", path);
#else
    char target[MMIXI_PATH], temporary[MMIXI_PATH + 40];
    int bad = snprintf(target, sizeof target, "%s", path) >= MMIXI_PATH, replaces = 1;
    FILE *f = NULL;
#ifdef MMIXI_MAPS
    struct stat old;
    int there, links = 0;
    for (ssize_t k; !bad && (k = readlink(target, temporary, MMIXI_PATH)) >= 0; ) {
        char *slash = strrchr(target, '/'), *name = slash && *temporary != '/' ? slash + 1 : target;
        bad = links++ == 40 || k >= target + MMIXI_PATH - name;  /* a ring, or too long */
        if (!bad) memcpy(name, temporary, (size_t)k), name[k] = 0;
    }
    there = !stat(target, &old); replaces = !there || S_ISREG(old.st_mode);
#endif
    if (bad)
        return mmix_fail(m, MMIX_ERROR_FILE, "%.150s: cannot be written: its path, or that of the link's "
                         "target, is too long", path);
    for (int i = 0; !f && i < 1000 && (!i || errno == EEXIST); i++) {
        snprintf(temporary, sizeof temporary, "%s.%lu.%d.tmp", target, MMIXI_PROCESS(), i);
        f = replaces ? mmixi_file_new(temporary) : fopen(target, "wb");
    }
#ifdef MMIXI_MAPS
    if (f && replaces && there) chmod(temporary, old.st_mode & 0777);
#endif
    bad = !f || fwrite(header->out, 1, header->at, f) != header->at;
    for (size_t size = 8; size; size /= 2)
        for (size_t i = 0; i < n; i++)
            bad = bad || (mmixi_file_size[e[i].dtype] == size && mmixi_file_put(f, &e[i]));
    bad = bad || fflush(f) || (replaces && MMIXI_SYNC(f));
    if (f && fclose(f)) bad = 1;
    if (!bad && (!replaces || !MMIXI_RENAME(temporary, target))) return 0;
    mmix_fail(m, MMIX_ERROR_FILE, "%.150s: cannot be written: %s", path, strerror(errno));
    if (f && replaces) remove(temporary);
    return -1;
#endif
}
MMIXDEF int mmix_archive_save(mmix_ctx *m, const char *path, const mmix_entry *entries, size_t n,
                              const char *const *metadata)
{
    const char *who = "mmix_archive_save", *dot = path ? strrchr(path, '.') : NULL, *wrong = NULL;
    int npy = dot && !strcmp(dot, ".npy");
    mmixi_text text = {NULL, 0, 0};
    if (!mmixi_given(m, who, "*path, *entry", path, n ? (const void *)entries : path)) return -1;
    for (size_t i = 0; !wrong && metadata && metadata[i]; i += 2)
        if (!metadata[i + 1]) wrong = "key, value, …, NULL in metadata, found a key alone";
    if (npy && (n != 1 || metadata)) wrong = "one array without metadata";
    if (wrong) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s: expected %s", who, path, wrong);
    for (const mmix_entry *e = entries; e < entries + n; e++) {
        double bytes;
        wrong = !npy && (!e->name || !strcmp(e->name, "__metadata__"))
            ? "a name that is free, found none or __metadata__"
            : !mmix_file_dtype_name(e->dtype) ? "a dtype MMIX_FILE_…, found another number"
            : npy && *mmixi_file_names[1][e->dtype] == '-' ? "another dtype, found BF16"
            : e->ndim < 0 || e->ndim > MMIX_FILE_MAX_DIMS ? "0 to 8 axes, found another number"
            : (bytes = mmixi_entry_bytes(e)) > (double)(SIZE_MAX / 2)
            ? "a shape that fits in memory, found more" : bytes > 0 && !e->data ? "data, found NULL" : NULL;
        if (wrong)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s: entry %.0f: expected %s", who, path,
                             (double)(e - entries), wrong);
    }
    /* measured; read, as a reader will: names are UTF-8 and there once; as it is saved */
    for (int pass = 0; pass < 3 && !m->error_kind; pass++) {
        uint64_t length = text.at;
        text.at = 0;
        if (npy) mmixi_npy_header(&text, length - 10, entries);
        else mmixi_safetensors_header(&text, length - 8, entries, n, metadata);
        if (!pass) text.room = text.at + 1, text.out = (char *)mmixi_alloc(m, text.room);
        else if (pass == 1 && !npy && mmixi_json_open(m, path, text.out + 8, text.at - 8, SIZE_MAX)
                 && m->error_kind == MMIX_ERROR_FILE) m->error_kind = MMIX_ERROR_ARGUMENT;
    }
    if (!m->error_kind) mmixi_save(m, path, &text, entries, n);
    mmixi_free(m, text.out, text.room);
    return m->error_kind ? -1 : 0;
}

/* ==== >>model files ==================================================================
   parameters by name; backbones, decoders and training runs with their configuration as JSON in the metadata

   What a file holds is one walk for both directions: configs, parameters under a prefix, arrays. Without an
   archive it collects them to be saved, with one it reads each at once; after an error it does nothing.
   ==================================================================================== */

enum { MMIXI_PART_NAME = 256 };

/* ---- names ----
   A network's parameters have one system's names; Hugging Face's files name and cut them differently. A map
   says which part of a name becomes what; of what stands between | each holds the parameter's next rows. */
static const char mmixi_hf_vit[] =                   /* from cls_token on: DINOv2 */
    "norm1 layernorm_before, norm2 layernorm_after, mlp.fc1 intermediate.dense, mlp.fc2 output.dense, "
    "cls_token embeddings.cls_token, register_tokens embeddings.register_tokens, pos_embed "
    "embeddings.position_embeddings, patch_embed.proj embeddings.patch_embeddings.projection, blocks. "
    "encoder.layer., attn.qkv attention.attention.query|attention.attention.key|attention.attention.value, "
    "attn.proj attention.output.dense, ls1.gamma layer_scale1.lambda1, ls2.gamma layer_scale2.lambda1, "
    "mlp.w12 mlp.weights_in, mlp.w3 mlp.weights_out, norm. layernorm.";
static const char mmixi_hf_dinov3[] =
    "cls_token embeddings.cls_token, storage_tokens embeddings.register_tokens, patch_embed.proj "
    "embeddings.patch_embeddings, blocks. layer., attn.qkv "
    "attention.q_proj|attention.k_proj|attention.v_proj, attn.proj attention.o_proj, ls1.gamma "
    "layer_scale1.lambda1, ls2.gamma layer_scale2.lambda1, mlp.fc1 mlp.up_proj, mlp.fc2 mlp.down_proj, "
    "mlp.w1 mlp.gate_proj, mlp.w2 mlp.up_proj, mlp.w3 mlp.down_proj";

typedef struct mmixi_names {
    const mmix_archive *a;
    const char *map;                             /* NULL: a file's names are the parameters' */
    int chunked;                                 /* blocks.C.N. for blocks.N., whatever C is */
    char prefix[MMIXI_PART_NAME];                /* what stands before all of them */
    char full[2 * MMIXI_PART_NAME];              /* a parameter's name in the file, or of a piece of it, … */
    int pieces;                                  /* … of which there are so many */
} mmixi_names;
static void mmixi_file_name(mmixi_names *f, const char *name, int piece)
{
    char key[48], value[112], rest[MMIXI_PART_NAME];
    f->pieces = 1;
    snprintf(f->full, sizeof f->full, "%s%.255s", f->prefix, name);
    for (const char *map = f->map; map; map = strchr(map, ',')) {
        sscanf(map += strspn(map, ", "), "%47s %111[^,]", key, value);
        char *at = strstr(f->full + strlen(f->prefix), key), *word = value;
        if (!at) continue;
        for (char *c = value; *c; c++) f->pieces += *c == '|';
        for (int i = 0; i < piece && strchr(word, '|'); i++) word = strchr(word, '|') + 1;
        snprintf(rest, sizeof rest, "%s", at + strlen(key));
        snprintf(at, (size_t)(f->full + sizeof f->full - at), "%.*s%s", (int)strcspn(word, "|"), word, rest);
    }
}
/* Its entry, or NULL. */
static const mmix_entry *mmixi_entry(mmixi_names *f, const char *name, int piece)
{
    char chunk[2 * MMIXI_PART_NAME];
    size_t before = strlen(f->prefix) + 7;
    mmixi_file_name(f, name, piece);
    const mmix_entry *e = mmix_archive_find(f->a, f->full);
    for (int c = 0; !e && f->chunked && !strncmp(name, "blocks.", 7) && c <= atoi(name + 7); c++) {
        snprintf(chunk, sizeof chunk, "%.*s%d.%.255s", (int)before, f->full, c, f->full + before);
        e = mmix_archive_find(f->a, chunk);
    }
    return e;
}
/* Finds out how a file names parameters, of which `first` is one. prefix NULL: what stands before that in the
   file. Where there are several (a training run holds student and teacher) one with "teacher" in it, else the
   shortest. */
static mmixi_names mmixi_names_of(const mmix_archive *a, const char *prefix, const char *first)
{
    mmixi_names f = {a, NULL, 0, "", "", 1};
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < mmix_archive_count(a); i++) {
        const char *name = a->entries[i].name;
        if (strstr(name, "layernorm_before")) f.map = mmixi_hf_vit;
        else if (!f.map && strstr(name, "embeddings.position_embeddings"))
            f.map = strstr(mmixi_hf_vit, "cls");
        else if (strstr(name, "embeddings.patch_embeddings.weight")) f.map = mmixi_hf_dinov3;
        f.chunked |= strstr(name, "blocks.0.0.norm1.weight") != NULL;
    }
    mmixi_file_name(&f, first, 0);
    for (size_t i = 0; !prefix && i < mmix_archive_count(a); i++) {
        const char *name = a->entries[i].name;
        size_t before = strlen(name) - strlen(f.full),                   /* of a shorter one it is huge */
            rank = before + (strstr(name, "teacher") ? 0 : MMIXI_PART_NAME);
        if (before >= MMIXI_PART_NAME || rank >= best || strcmp(name + before, f.full)
            || (before && name[before - 1] != '.')) continue;
        best = rank;
        snprintf(f.prefix, before + 1, "%s", name);
    }
    if (prefix) snprintf(f.prefix, sizeof f.prefix, "%s", prefix);
    return f;
}
/* What is in files of weights and in no formula here: classifiers, tokens of masked patches, constants. */
static int mmixi_entry_unused(const char *name)
{
    static const char known[] = "head. lm_head. pooler. mask_token embeddings.mask_token "
                                "rope_embed.periods ";
    for (const char *word = known; *word; word += strcspn(word, " ") + 1)
        if (!strncmp(name, word, strcspn(word, " "))) return 1;
    return strstr(name, ".attn.qkv.bias_mask") || strstr(name, ".rotary_emb.inv_freq");
}

/* ---- parameters ---- */
static void mmixi_print_entry(mmixi_text *t, const char *what, const mmix_entry *e, const char *expected)
{
    mmixi_print(t, "%s %s (", what, e->name);
    mmixi_print_sizes(t, e->ndim, e->shape, ", ");
    mmixi_print(t, *expected ? "), expected %s\n" : ")\n", expected);
}
MMIXDEF const char *mmix_params_compare(const mmix_params *p, const mmix_archive *archive, const char *prefix)
{
    char shape[MMIXI_TEXT];
    mmixi_text t = {NULL, 0, 0};
    size_t n = mmix_archive_count(archive);
    if (!p) return NULL;
    mmixi_names names = mmixi_names_of(archive, prefix, p->count ? p->at->name : "");
    char *used = (char *)mmixi_step(p->m, n + 1);
    for (int pass = 0; pass < 2 && !p->m->error_kind; pass++) {          /* measured, then into step memory */
        t.room = t.at + 1; t.at = 0;
        if (pass) t.out = (char *)mmixi_header(p->m, t.room);
        memset(used, 0, n);
        for (const mmix_param *q = p->at; q < p->at + p->count; q++)
            for (int piece = 0; piece == 0 || piece < names.pieces; piece++) {
                const mmix_entry *e = mmixi_entry(&names, q->name, piece);
                mmix_tensor expected = *q->tensor;
                expected.shape[0] /= (size_t)names.pieces;
                mmixi_shape_text(&expected, shape);
                if (e) used[e - archive->entries] = 1;
                /* DINOv3's keys have no bias, and Hugging Face's files none for them */
                else if (names.map != mmixi_hf_dinov3 || piece != 1 || !strstr(q->name, ".attn.qkv.bias"))
                    mmixi_print(&t, "missing %s %s\n", names.full, shape);
                if (e && (e->ndim != expected.ndim
                          || memcmp(e->shape, expected.shape, (size_t)e->ndim * sizeof *e->shape)))
                    mmixi_print_entry(&t, "reshaped", e, shape);
            }
        for (size_t i = 0; i < n; i++) {
            const mmix_entry *e = &archive->entries[i];
            size_t before = strlen(names.prefix);
            if (used[i] || strncmp(e->name, names.prefix, before)) continue;
            if (prefix || !mmixi_entry_unused(e->name + before)) mmixi_print_entry(&t, "unexpected", e, "");
        }
    }
    return t.out;
}
/* What has been read of a mapped .safetensors need not stay in memory: whole pages of it, of up to 64 KiB. */
static void mmixi_entry_forget(const mmix_archive *a, const mmix_entry *e)
{
    size_t begin = (size_t)(0 - (uintptr_t)e->data) % 65536;
    if (!a->paged || e->bytes <= begin) return;
#ifdef MMIXI_HUGE
    madvise((char *)(uintptr_t)e->data + begin, (e->bytes - begin) / 65536 * 65536, MADV_DONTNEED);
#endif
}
MMIXDEF int mmix_params_read(mmix_params *p, const mmix_archive *archive, const char *prefix)
{
    double count[3] = {0};
    if (!p) return -1;
    mmix_mark mark = mmix_mark_here(p->m);
    const char *text = mmix_params_compare(p, archive, prefix);
    for (const char *line = text; line && *line; line += strcspn(line, "\n") + 1)
        count[*line == 'm' ? 0 : *line == 'r' ? 1 : 2]++;
    if (text && *text)
        mmix_fail(p->m, MMIX_ERROR_FILE, "%.150s: expected %.0f parameters, found %.0f missing, %.0f of "
                  "another shape, %.0f unexpected; first: %.*s", archive ? archive->path : "no file",
                  (double)p->count, count[0], count[1], count[2], (int)strcspn(text, "\n"), text);
    mmix_rewind(p->m, mark);
    if (mmixi_params_allocate(p, 0)) return -1;
    mmixi_params_changed(p);
    mmixi_names names = mmixi_names_of(archive, prefix, p->count ? p->at->name : "");
    for (const mmix_param *q = p->at; q < p->at + p->count; q++)
        for (int piece = 0; piece == 0 || piece < names.pieces; piece++) {
            const mmix_entry *e = mmixi_entry(&names, q->name, piece);
            int dtype = q->tensor->dtype, type = dtype == MMIX_DTYPE_BF16 ? MMIX_FILE_BF16 : MMIX_FILE_REAL;
            size_t n = mmix_count(q->tensor) / (size_t)names.pieces, bytes = n * mmixi_dtype_size(dtype);
            char *to = (char *)mmixi_data(q->tensor, dtype) + (size_t)piece * bytes;
            if (!e) memset(to, 0, bytes);
            else if (mmix_archive_read(p->m, archive, e, type, to, n)) return -1;
            else mmixi_entry_forget(archive, e);
        }
    return 0;
}
MMIXDEF int mmix_params_load(mmix_params *p, const char *path)
{
    mmix_archive *a = p ? mmix_archive_open(p->m, path) : NULL;
    int failed = mmix_params_read(p, a, NULL);
    mmix_archive_close(a);
    return failed;
}

/* ---- the walk ---- */
typedef struct mmixi_model_file {
    mmix_ctx *m;
    mmix_archive *a;                             /* NULL: to be saved */
    mmix_mark mark;                              /* what the walk needs comes after it */
    mmix_entry *entries;                         /* to be saved */
    size_t n, room, n_metadata;
    const char *metadata[9];
    mmixi_text config;                           /* the one at hand: written, or checked JSON */
} mmixi_model_file;

static void mmixi_model_metadata(mmixi_model_file *f, const char *key, const char *value)
{
    f->metadata[f->n_metadata++] = key; f->metadata[f->n_metadata++] = value;
}
/* The value of a key, "" if there is none. */
static const char *mmixi_metadata(const mmix_archive *a, const char *key)
{
    return mmixi_json_word(a ? a->metadata : NULL, key, "");
}
static int mmixi_format_is(const mmix_archive *a, const char *format)
{
    return !strcmp(mmixi_metadata(a, "format"), format);
}
/* To read an archive, which is closed at the end, or without one to save; format NULL: any. */
static mmixi_model_file mmixi_model_begin(mmix_ctx *m, mmix_archive *a, const char *format)
{
    mmixi_model_file f;
    memset(&f, 0, sizeof f);
    f.m = m; f.a = a; f.mark = mmix_mark_here(m);
    if (format) mmixi_model_metadata(&f, "format", format);
    if (format && a && !mmixi_format_is(a, format))
        mmixi_refuse(a, NULL, "a file of the format \"%s\"", format);
    return f;
}
/* Saves what has been collected, or closes the archive. 0, or -1. */
static int mmixi_model_end(mmixi_model_file *f, const char *path)
{
    if (!f->a) mmix_archive_save(f->m, path, f->entries, f->n, f->metadata);
    mmixi_free(f->m, f->entries, f->room * sizeof *f->entries);
    mmix_archive_close(f->a);
    mmix_rewind(f->m, f->mark);
    return f->m->error_kind ? -1 : 0;
}
/* One array: noted, or read. */
static void mmixi_model_array(mmixi_model_file *f, const char *prefix, const char *name, int dtype, int ndim,
                              const size_t *shape, void *data)
{
    char *full = (char *)mmixi_step(f->m, MMIXI_PART_NAME);
    mmix_entry e = {full, dtype, ndim, {0}, 0, data};
    if (!full) return;
    snprintf(full, MMIXI_PART_NAME, "%s%s", prefix, name);
    memcpy(e.shape, shape, (size_t)ndim * sizeof *shape);
    const mmix_entry *found = mmix_archive_find(f->a, full);
    if (found) mmix_archive_read(f->m, f->a, found, dtype, data, mmix_entry_count(&e));
    else if (f->a) mmixi_refuse(f->a, NULL, "an array %s", full);
    else {
        f->entries = (mmix_entry *)mmixi_grow(f->m, f->entries, &f->room, f->n + 1, sizeof e);
        if (f->n < f->room) f->entries[f->n++] = e;
    }
}
static void mmixi_model_params(mmixi_model_file *f, const char *prefix, mmix_params *p)
{
    if (f->a) mmix_params_read(p, f->a, prefix);
    mmix_real *merged = !f->a && !*prefix && p->adapters ? mmixi_params_merged(p) : NULL;   /* not of a run */
    for (size_t i = 0; !f->a && !f->m->error_kind && i < p->count; i++) {
        const mmix_tensor *t = p->at[i].tensor;
        void *data = merged ? merged + (mmixi_of(t) - p->values) : mmixi_data(t, t->dtype);
        mmixi_model_array(f, prefix, p->at[i].name, mmixi_halves(t) ? MMIX_FILE_BF16 : MMIX_FILE_REAL,
                          t->ndim, t->shape, data);
    }
}
static void mmixi_model_counters(mmixi_model_file *f, uint64_t *counter, size_t n)
{
    mmixi_model_array(f, "", "counters", MMIX_FILE_I64, 1, &n, counter);
    for (size_t i = 0; i < n; i++)
        if (counter[i] > INT64_MAX)
            mmixi_refuse(f->a, "counters", "numbers from 0 on, found %.0f", (double)(int64_t)counter[i]);
}
static void mmixi_model_adamw(mmixi_model_file *f, const char *prefix, const mmix_adamw_state *a)
{
    mmixi_model_array(f, prefix, "m", MMIX_FILE_REAL, 1, &a->params->slab, a->m);
    mmixi_model_array(f, prefix, "v", MMIX_FILE_REAL, 1, &a->params->slab, a->v);
    mmixi_model_array(f, prefix, "steps", MMIX_FILE_I64, 1, &a->params->count, a->steps);
}

/* ---- configs: {"name":[numbers], …}, by the texts that the checks read ---- */
enum { MMIXI_CONFIG_TEXT = 8192 };
/* A number alone may stand without a list, as in Hugging Face's files. */
static void mmixi_setting_parse(const mmixi_model_file *f, const char *name, const mmixi_setting *s)
{
    const char *list = mmixi_json_find(f->config.out, name), *item = list, *unused;
    /* a file can say anything: more blocks than it has arrays are not worth the time to make them */
    double x, high = strcmp(s->name, "depth") ? s->high : fmin(s->high, (double)f->a->count);
    size_t k = 0;
    if (s->may_lack && (!list || *list == 'n')) return;          /* left out, or null */
    for (; k < s->count; k++) {
        item = list && *list == '[' ? mmixi_json_next(list, item, &unused) : list;
        x = mmixi_json_number(item, (double)NAN);
        if (!(x >= s->low && x <= high)) break;
        mmixi_setting_number(s, k, &x);
    }
    if (k < s->count || mmixi_json_next(list, item, &unused))
        mmix_fail(f->m, MMIX_ERROR_FILE, "%s: the config has no valid %s, expected %d of %.10g to %.10g",
                  f->a->path, name, (int)s->count, s->low, high);
}
static void mmixi_setting_print(mmixi_text *t, const char *name, const mmixi_setting *s)
{
    mmixi_print(t, "%s\"%s\":", t->at ? "," : "{", name);
    for (size_t k = 0; k < s->count; k++) {
        char number[64], local[64];
        snprintf(local, sizeof local, "%.17g", mmixi_setting_number(s, k, NULL));
        mmixi_point(number, local, localeconv()->decimal_point, ".");
        mmixi_print(t, "%s%s", k ? "," : "[", number);
    }
    mmixi_print(t, "]");
}
/* A config in the metadata under `key`, or for NULL more of the last one, `prefix` before its names. */
static void mmixi_model_config(mmixi_model_file *f, const char *key, const char *prefix, const void *config,
                               const char *settings)
{
    mmixi_text *t = &f->config;
    if (key) {
        const char *text = mmixi_metadata(f->a, key);
        t->at = 0; t->room = f->a ? strlen(text) + 1 : (size_t)MMIXI_CONFIG_TEXT;
        t->out = (char *)mmixi_step(f->m, t->room);
        if (!t->out) return;
        strcpy(t->out, text);
        mmixi_model_metadata(f, key, t->out);    /* to be saved */
        if (f->a) mmixi_json_open(f->m, f->a->path, t->out, strlen(text), SIZE_MAX);
    } else if (t->at) t->at--;                   /* its last brace */
    for (mmixi_setting s; !f->m->error_kind && mmixi_setting_next(&s, &settings, &config);) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, s.name);
        if (f->a) mmixi_setting_parse(f, name, &s);
        else mmixi_setting_print(t, name, &s);
    }
    if (!f->a) mmixi_print(t, "}");
}

/* ---- weights ---- */
static const char mmixi_vision_format[] = "mamba_mix vision 1", mmixi_dino_format[] = "mamba_mix dino run 1",
    mmixi_decoder_format[] = "mamba_mix decoder 1";
MMIXDEF int mmix_params_save(const mmix_params *p, const char *path)
{
    if (!p) return -1;
    mmixi_model_file f = mmixi_model_begin(p->m, NULL, NULL);
    mmixi_model_params(&f, "", (mmix_params *)p);
    return mmixi_model_end(&f, path);
}
MMIXDEF int mmix_vision_save(mmix_ctx *m, const mmix_vision *v, const char *path)
{
    if (!v) return -1;
    mmixi_model_file f = mmixi_model_begin(m, NULL, mmixi_vision_format);
    mmixi_model_config(&f, "config", "vision.", &v->config, mmixi_vision_settings);
    mmixi_model_params(&f, "", v->params);
    return mmixi_model_end(&f, path);
}
MMIXDEF int mmix_decoder_save(const mmix_decoder *d, const char *path)
{
    if (!d) return -1;
    mmixi_model_file f = mmixi_model_begin(d->m, NULL, mmixi_decoder_format);
    mmixi_model_config(&f, "config", "", &d->config, mmixi_decoder_settings);
    mmixi_model_params(&f, "", d->params);
    return mmixi_model_end(&f, path);
}

/* ---- backbones ---- */
/* Size `axis` of an array, 0 if there is none. */
static size_t mmixi_entry_size(mmixi_names *f, const char *name, int axis)
{
    const mmix_entry *e = mmixi_entry(f, name, 0);
    return e && axis < e->ndim ? e->shape[axis] : 0;
}
/* Networks whose files look like those of a backbone and are not read. */
static void mmixi_vision_refuse(mmix_ctx *m, const mmix_archive *a, size_t dim)
{
    for (size_t i = 0; i < a->count && !m->error_kind; i++) {
        const char *name = a->entries[i].name, *what = !strncmp(name, "neck.", 5) || strstr(name, ".neck.")
            ? "upstream Mamba-Reg, whose registers are joined by a neck; this library has DinoMamba-Reg, "
              "whose output is their mean"
            : strstr(name, "stages.0.") ? "a ConvNeXt, which has no tokens"
            : strstr(name, "text_model.") || strstr(name, "token_embedding") ? "a text encoder" : NULL;
        if (what) mmix_fail(m, MMIX_ERROR_FILE, "%s: \"%s\" belongs to %s", a->path, name, what);
    }
    if (dim == 4096) mmix_fail(m, MMIX_ERROR_FILE, "%s: DINOv3's 7B is not supported; S to H+ are", a->path);
}
/* What names and shapes tell of a backbone. */
static void mmixi_vision_guess(mmix_ctx *m, const mmix_archive *a, mmix_vision_config *c)
{
    char block[40];
    mmixi_names f = mmixi_names_of(a, NULL, "cls_token");
    size_t dim = mmixi_entry_size(&f, "cls_token", 2),
        patch = mmixi_entry_size(&f, "patch_embed.proj.weight", 3),
        many = mmixi_entry_size(&f, "pos_embed_cls", 1), storage = mmixi_entry_size(&f, "storage_tokens", 1),
        registers = storage + mmixi_entry_size(&f, "register_tokens", 1),
        positions = mmixi_entry_size(&f, "pos_embed", 1), cells = positions - !many,
        swiglu = mmixi_max(mmixi_entry_size(&f, "blocks.0.mlp.w1.weight", 0),
                           mmixi_entry_size(&f, "blocks.0.mlp.w12.weight", 0) / 2),
        mlp = swiglu ? swiglu : mmixi_entry_size(&f, "blocks.0.mlp.fc1.weight", 0),
        inner = mmixi_entry_size(&f, "layers.0.mixer.out_proj.weight", 1),
        conv = mmixi_entry_size(&f, "layers.0.mixer.conv1d.weight", 0),
        heads = mmixi_entry_size(&f, "layers.0.mixer.A_log", 0);
    mmixi_vision_refuse(m, a, dim);
    /* heads of 64, but for ViT-H, which has 16 (DINOv3's H+, with registers, 20) */
    *c = mmixi_vision_base(mlp ? MMIX_SOFTMAX : MMIX_SSD, dim, 0,
                           dim == 1280 && !registers ? 16 : mmixi_max(dim / 64, 1), patch);
    c->grid = (size_t)(sqrt((double)cells) + 0.5);
    c->layer_scale = mmixi_entry_size(&f, "blocks.0.ls1.gamma", 0) > 0; c->swiglu = swiglu > 0;
    c->registers = many + registers;
    if (many) c->class_token = MMIX_CLASS_REGISTERS;
    if (storage) c->positions = MMIX_POSITIONS_AXIAL, c->eps = 1e-5, cells = c->grid = 1;
    else if (registers) c->positions = MMIX_POSITIONS_ANTIALIAS;
    else if (f.map) c->positions = MMIX_POSITIONS_EXACT;
    if (f.map == mmixi_hf_vit) c->eps = 1e-12;
    if (mlp) c->mlp_ratio = (double)mlp / (double)dim;
    c->mamba.d_inner = inner; c->mamba.d_state = (mmixi_max(conv, inner) - inner) / 2;
    c->mamba.head_dim = heads ? inner / heads : 0;
    c->mamba.conv_width = mmixi_entry_size(&f, "layers.0.mixer.conv1d.weight", 2);
    do snprintf(block, sizeof block, mlp ? "blocks.%d.norm1.weight" : "layers.%d.norm.weight", (int)c->depth);
    while (mmixi_entry(&f, block, 0) && ++c->depth <= MMIXI_DEPTH_MAX);
    if (!dim || !patch || !cells || c->grid * c->grid != cells || !c->depth)
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected the weights of a ViT, DINOv2, DINOv3, DinoVim or "
                  "DinoMamba-Reg, found cls_token of width %.0f, patch %.0f, %.0f positions, %.0f blocks",
                  a->path, (double)dim, (double)patch, (double)positions, (double)c->depth);
}
MMIXDEF int mmix_vision_config_read(mmix_ctx *m, const mmix_archive *archive, mmix_vision_config *config)
{
    mmixi_model_file f = mmixi_model_begin(m, (mmix_archive *)archive, NULL);
    if (!mmixi_given(m, "mmix_vision_config_read", "*archive, *config", archive, config)) return -1;
    memset(config, 0, sizeof *config);
    if (!mmixi_format_is(archive, mmixi_vision_format) && !mmixi_format_is(archive, mmixi_dino_format))
        mmixi_vision_guess(m, archive, config);
    else mmixi_model_config(&f, "config", "vision.", config, mmixi_vision_settings);
    mmix_rewind(m, f.mark);
    return m->error_kind ? -1 : 0;
}
MMIXDEF mmix_vision *mmix_vision_open_as(mmix_ctx *m, const char *path, int dtype)
{
    mmix_archive *a = mmix_archive_open(m, path);
    mmix_vision_config config;
    mmix_vision *v = a && !mmix_vision_config_read(m, a, &config) ? mmixi_vision_create(
        m, config, dtype == MMIX_DTYPE_BF16 ? -1 : 0) : NULL;
    if (v) mmix_params_read(v->params, a, NULL);
    mmix_archive_close(a);
    if (a && !m->error_kind) return v;
    mmix_vision_destroy(v);
    return NULL;
}
MMIXDEF mmix_vision *mmix_vision_open(mmix_ctx *m, const char *path)
{
    return mmix_vision_open_as(m, path, MMIX_DTYPE_REAL);
}

/* ---- decoders ---- */
/* llama2.c: dim, ffn, layers, heads, kv heads, vocabulary (negative: with a classifier of its own), length;
   then the parameters with these in their names as float32, each of all layers, and before the classifier
   two tables of length x head/2 that are not used. */
static const char mmixi_llama2c_order[] = "embed_tokens\0input_layernorm\0q_proj\0k_proj\0v_proj\0o_proj\0"
    "post_attention_layernorm\0gate_proj\0down_proj\0up_proj\0model.norm\0lm_head\0";
MMIXDEF mmix_decoder *mmix_decoder_from_llama2c(mmix_ctx *m, const char *name, const void *bytes, size_t size)
{
    const uint8_t *p = (const uint8_t *)bytes;
    double weights = 0;
    mmix_decoder_config c;
    mmix_decoder *d = NULL;
    size_t n[7] = {0};
    if (mmix_error(m)) return NULL;
    for (int i = 0; p && size >= 28 && i < 7; i++, p += 4) n[i] = (size_t)(int32_t)mmixi_number(p, 4);
    memset(&c, 0, sizeof c);
    c.dim = n[0]; c.ffn = n[1]; c.depth = n[2]; c.heads = n[3]; c.kv_heads = n[4];
    c.tied = n[5] <= INT32_MAX; c.vocabulary = c.tied ? n[5] : 0 - n[5]; c.rope.interleaved = 1;
    if (n[4] && n[6]) d = mmixi_decoder_create(m, c, 0);                 /* refuses other sizes below 1 */
    if (d) weights = 4 * ((double)d->params->elements + (double)n[6] * (double)d->config.head_dim);
    if (m->error_kind == MMIX_ERROR_FILE) mmix_error_clear(m);
    if (!d || 28 + weights != (double)size)
        mmix_fail(m, MMIX_ERROR_FILE, "%s: as a llama2.c model expected 28 bytes of 7 int32 and "
                  "%.0f of the float32 weights they speak of, found %.0f", name, weights, (double)size);
    if (m->error_kind || mmixi_params_allocate(d->params, 0)) {
        mmix_decoder_destroy(d);
        return NULL;
    }
    for (const char *part = mmixi_llama2c_order; *part; part += strlen(part) + 1) {
        if (!strcmp(part, "lm_head")) p += 4 * n[6] * d->config.head_dim;
        for (const mmix_param *q = d->params->at; q < d->params->at + d->params->count; q++) {
            if (!strstr(q->name, part)) continue;
            for (size_t e = 0; e < mmix_count(q->tensor); e++, p += 4) {
                union { uint32_t bits; float f32; } u;
                u.bits = (uint32_t)mmixi_number(p, 4);
                mmixi_of(q->tensor)[e] = (mmix_real)u.f32;
            }
        }
    }
    return d;
}
/* Hugging Face's names of a config's numbers from `vocabulary` on. */
static const char mmixi_hf_settings[] =
    "size vocab_size, size hidden_size, size num_hidden_layers, size intermediate_size, size "
    "num_attention_heads, Size num_key_value_heads, Size head_dim, Double rms_norm_eps, Double rope_theta";
/* From Hugging Face's config.json of a Llama or a Qwen2, beside the archive. */
static void mmixi_hf_read(mmixi_model_file *f, mmix_decoder_config *c)
{
    char path[MMIXI_PATH];
    mmixi_path_beside(f->a, "config.json", path);
    mmixi_file_bytes file = mmixi_file_read(f->m, "mmix_decoder_open", path);
    char *v = f->config.out = mmixi_file_json(f->a, path, &file);
    mmixi_file_free(f->m, &file);
    if (!v) return;
    const char *type = mmixi_json_word(v, "model_type", "none"),
        *act = mmixi_json_word(v, "hidden_act", "silu"), *rope = mmixi_json_find(v, "rope_parameters"),
        *scaling = rope ? rope : mmixi_json_find(v, "rope_scaling"),
        *kind = mmixi_json_word(scaling, "rope_type", mmixi_json_word(scaling, "type", "default"));
    c->bias = !strcmp(type, "qwen2") ? 1 : 2 * mmixi_json_flag(mmixi_json_find(v, "attention_bias"), 0);
    if ((c->bias != 1 && strcmp(type, "llama")
         && (strcmp(type, "mistral") || mmixi_json_number(mmixi_json_find(v, "sliding_window"), 0) > 0))
        || strcmp(act, "silu") || strcmp(kind, "default")
        || mmixi_json_flag(mmixi_json_find(v, "mlp_bias"), 0)
        || mmixi_json_flag(mmixi_json_find(v, "use_sliding_window"), 0))
        mmix_fail(f->m, MMIX_ERROR_FILE, "%s: expected model_type llama, mistral or qwen2, SwiGLU without "
                  "biases, plain rotary positions, no sliding window, found %s, hidden_act %s, rope %s", path,
                  type, act, kind);
    c->eps = 1e-6;
    mmixi_model_config(f, NULL, "", &c->vocabulary, mmixi_hf_settings);
    c->rope.theta = mmixi_json_number(mmixi_json_find(rope, "rope_theta"), c->rope.theta);
    c->depth = mmixi_min(c->depth, f->a->count);             /* the file lacks the others */
    c->tied = mmixi_json_flag(mmixi_json_find(v, "tie_word_embeddings"), 0);
}
MMIXDEF mmix_decoder *mmix_decoder_open(mmix_ctx *m, const char *path)
{
    mmixi_file_bytes file = mmixi_file_read(m, "mmix_decoder_open", path);
    if (!file.bytes) return NULL;
    if (file.size <= 8 || (file.bytes[8] != '{' && !mmixi_is_index(&file)
                           && memcmp(file.bytes, "PK", 2))) {         /* no .safetensors, no .pth */
        mmix_decoder *d = mmix_decoder_from_llama2c(m, path, file.bytes, file.size);
        mmixi_file_free(m, &file);
        return d;
    }
    mmix_archive *a = mmixi_archive_new(m, path, file);
    if (!a) return NULL;
    mmixi_model_file f = mmixi_model_begin(m, a, NULL);
    mmix_decoder_config c;
    memset(&c, 0, sizeof c);
    if (!mmixi_format_is(a, mmixi_decoder_format)) mmixi_hf_read(&f, &c);
    else mmixi_model_config(&f, "config", "", &c, mmixi_decoder_settings);
    mmix_decoder *d = mmixi_decoder_create(m, c, 0);
    if (d) mmix_params_read(d->params, a, NULL);
    if (!mmixi_model_end(&f, NULL)) return d;
    mmix_decoder_destroy(d);
    return NULL;
}

/* ---- training runs ---- */
/* The caller's note; one that is read lies in memory that goes with the parameters. */
static void mmixi_model_note(mmixi_model_file *f, mmix_params *p, char **own, const char *note)
{
    if (!f->a) mmixi_model_metadata(f, "note", note ? note : "");
    else note = mmixi_metadata(f->a, "note"), *own = (char *)mmixi_own(p, strlen(note) + 1);
    if (f->a && *own) strcpy(*own, note);
}
/* Saves a run, or reads it from an archive: the config, of which it is made; student.backbone.NAME,
   student.head.NAME, teacher.…; the moments, the centre, counters. */
static int mmixi_dino_file(mmix_dino *d, mmix_archive *a, const char *path, const char *note)
{
    mmixi_model_file f = mmixi_model_begin(d->m, a, mmixi_dino_format);
    mmixi_model_config(&f, "config", "vision.", &d->config.vision, mmixi_vision_settings);
    mmixi_model_config(&f, NULL, "", &d->config.head_hidden, mmixi_dino_settings);
    if (a) mmixi_dino_make(d, 0);
    for (int i = 0; i < 2 && !d->m->error_kind; i++) {
        mmixi_model_params(&f, i ? "teacher.backbone." : "student.backbone.", d->net[i].vision->params);
        mmixi_model_params(&f, i ? "teacher.head." : "student.head.", d->net[i].params);
    }
    if (!d->m->error_kind && !(a && mmixi_dino_begin(d))) {
        mmixi_model_adamw(&f, "adamw.backbone.", &d->adamw[0]);
        mmixi_model_adamw(&f, "adamw.head.", &d->adamw[1]);
        size_t centers = mmixi_dino_centers(&d->config);
        mmixi_model_array(&f, "", "center", MMIX_FILE_REAL, 1, &centers, d->center);
        mmixi_model_counters(&f, &d->step, 4);
        mmixi_model_note(&f, d->net[0].params, &d->note, note);
    }
    return mmixi_model_end(&f, path);
}
MMIXDEF int mmix_dino_save(const mmix_dino *d, const char *path, const char *note)
{
    return d ? mmixi_dino_file((mmix_dino *)d, NULL, path, note) : -1;
}
MMIXDEF mmix_dino *mmix_dino_load(mmix_ctx *m, const char *path)
{
    mmix_dino *d = (mmix_dino *)mmixi_zeroed(m, sizeof *d);
    mmix_archive *a = d ? mmix_archive_open(m, path) : NULL;
    if (d) d->m = m;
    if (a && !mmixi_dino_file(d, a, NULL, NULL)) return d;
    mmix_dino_destroy(d);
    return NULL;
}
/* Saves a run, or makes the one that a file holds: the configs; the student's parameters, counters, the
   adapters, the moments, the gradients that wait for the optimiser, and which of them were written. NULL on
   error. */
static mmix_distill *mmixi_distill_file(mmix_distill *run, const mmix_decoder *teacher,
                                        const mmix_vision *seen, const char *path, const char *note)
{
    mmix_ctx *m = seen ? seen->params->m : teacher->m;
    mmix_archive *a = run ? NULL : mmix_archive_open(m, path);
    if (!run && !a) return NULL;
    char stage[] = "stage[0].";
    mmix_distill_config c = run ? run->config : mmix_linmu_stages();     /* read over, as the model's */
    mmix_decoder *d = run ? run->student : NULL;
    mmix_vision *v = run ? run->vision_student : NULL;
    mmixi_model_file f = mmixi_model_begin(m, a, "mamba_mix distillation run 1");
    mmixi_model_config(&f, "config", "", &c.stages, mmixi_distill_settings);
    for (size_t i = 0; i < c.stages; i++, stage[6]++)
        mmixi_model_config(&f, NULL, stage, &c.stage[i], mmixi_stage_settings);
    if (seen) {
        mmix_vision_config size = (v ? v : seen)->config;
        mmixi_model_config(&f, "vision", "", &size, mmixi_vision_settings);
        if (a) v = mmixi_vision_create(m, size, 0);
    } else {
        mmix_decoder_config size = (d ? d : teacher)->config;
        mmixi_model_config(&f, "decoder", "", &size, mmixi_decoder_settings);
        if (a) d = mmixi_decoder_create(m, size, 0);
    }
    mmix_params *list = v ? v->params : d ? d->params : NULL;
    if (list) mmixi_model_params(&f, "student.", list);
    if (a) run = seen ? mmix_vision_distill_create(seen, v, c) : mmix_distill_create(teacher, d, c);
    if (run) {
        run->adapters = list->adapters != NULL;
        mmixi_model_counters(&f, &run->stage, 5);
        if (run->stage > c.stages)
            mmixi_refuse(a, NULL, "stage 0 to %.0f, found %.0f", (double)c.stages, (double)run->stage);
        if (run->adapters && !list->adapters)
            mmix_params_lora(list, c.lora_rank, c.lora_alpha, c.lora_targets);
        if (a) mmixi_distill_begin(run);
        if (list->adapters) mmixi_model_params(&f, "adapters.", list->adapters);
        mmixi_model_note(&f, list, &run->note, note);
    }
    for (int i = 0; i < 2 && !m->error_kind; i++) {
        const char *moments = i ? "adamw.adapters." : "adamw.decoder.";
        const mmix_params *p = run->adamw[i].params;
        int64_t *written = p && run->tokens ? (int64_t *)mmixi_step(m, p->count * sizeof *written) : NULL;
        if (p) mmixi_model_adamw(&f, moments, &run->adamw[i]);
        if (!written) continue;
        mmixi_params_ready(p, "", 1);
        for (size_t k = 0; k < p->count; k++) written[k] = p->at[k].tensor->written;
        mmixi_model_array(&f, moments, "gradients", MMIX_FILE_REAL, 1, &p->slab, p->gradients);
        mmixi_model_array(&f, moments, "written", MMIX_FILE_I64, 1, &p->count, written);
        for (size_t k = 0; k < p->count; k++) p->at[k].tensor->written = written[k] != 0;
    }
    if (!mmixi_model_end(&f, path)) return run;
    if (a) mmix_distill_destroy(run), mmix_decoder_destroy(d), mmix_vision_destroy(v);
    return NULL;
}
MMIXDEF int mmix_distill_save(const mmix_distill *run, const char *path, const char *note)
{
    return run && mmixi_distill_file((mmix_distill *)run, run->teacher, run->vision_teacher, path, note)
        ? 0 : -1;
}
MMIXDEF mmix_distill *mmix_vision_distill_load(const mmix_vision *teacher, const char *path,
                                               mmix_vision **student)
{
    mmix_ctx *m = teacher ? teacher->params->m : NULL;
    mmix_distill *run = mmixi_given(m, "mmix_vision_distill_load", "*student", student)
        ? mmixi_distill_file(NULL, NULL, teacher, path, NULL) : NULL;
    if (student) *student = run ? run->vision_student : NULL;
    return run;
}
MMIXDEF mmix_distill *mmix_distill_load(const mmix_decoder *teacher, const char *path, mmix_decoder **student)
{
    mmix_ctx *m = teacher ? teacher->m : NULL;
    mmix_distill *run = mmixi_given(m, "mmix_distill_load", "*student", student)
        ? mmixi_distill_file(NULL, teacher, NULL, path, NULL) : NULL;
    if (student) *student = run ? run->student : NULL;
    return run;
}
MMIXI_COLD_END

/* ==== >>context ======================================================================
   the table of ops, and creation
   ==================================================================================== */

/* The ops in their numbers' order, each with its function, which runs both ways. */
#define MMIXI_OPS(ONE)                                                                                      \
    ONE(add, binary) ONE(mul, binary) ONE(div, binary) ONE(scale, binary) ONE(exp, rows) ONE(log, rows)     \
    ONE(sqrt, rows) ONE(silu, rows) ONE(gelu, rows) ONE(softplus, rows)                      \
    ONE(sum_axis, sum) ONE(sum, sum) ONE(matmul, matmul) ONE(concat, concat) ONE(gather, gather)            \
    ONE(softmax, rows) ONE(layer_norm, norm) ONE(rms_norm, norm) ONE(gated_rms_norm, norm)                  \
    ONE(l2_normalise, rows) ONE(linear, linear) ONE(conv1d, conv)                                           \
    ONE(resize, resize) ONE(cross_entropy, loss) ONE(weight_norm, rows) ONE(rope, rope)                     \
    ONE(softmax_attention, mixer) ONE(linear_attention, mixer) ONE(ssd, mixer)                              \
    ONE(dino_loss, loss) ONE(add_rows, gather) ONE(fuse_directions, fuse) ONE(kd_hidden, loss)            \
    ONE(kd_token, loss) ONE(max, binary) ONE(relu, rows) ONE(abs, rows) ONE(sigmoid, rows) ONE(tanh, rows)  \
    ONE(power, rows)
#define MMIXI_OP_NAME(name, function) #name,
#define MMIXI_OP_ONE(name, function) table->forward = table->backward = mmixi_##function##_run, table++;
MMIXDEF int mmix_version(void) { return MMIX_VERSION; }
static const char mmixi_op_names[][20] = { MMIXI_OPS(MMIXI_OP_NAME) "custom" };
MMIXDEF const char *mmix_op_name(int op) { return op >= 0 && op <= MMIX_OP_COUNT ? mmixi_op_names[op] : "?"; }
static void mmixi_ops_fill(mmix_op_functions *table) { MMIXI_OPS(MMIXI_OP_ONE) }
MMIXDEF int mmix_kernel_set(mmix_ctx *m, int op, const mmix_op_functions *functions)
{
    mmix_op_functions table[MMIX_OP_COUNT];
    if (mmixi_within(m, "mmix_kernel_set", "op", op, 0, MMIX_OP_COUNT - 1)) return -1;
    mmixi_ops_fill(table);
    m->table[op] = functions ? *functions : table[op];
    return 0;
}
MMIXDEF size_t mmix_op_calls(const mmix_ctx *m, int op, int on_device)
{
    return op >= 0 && op <= MMIX_OP_COUNT ? m->calls[!!on_device][op] : 0;
}
MMIXDEF mmix_op_functions mmix_kernel(const mmix_ctx *m, int op)
{
    static const mmix_op_functions none = { NULL, NULL };
    return op >= 0 && op < MMIX_OP_COUNT ? m->table[op] : none;
}
MMIXDEF void mmix_kernel_user_set(mmix_ctx *m, void *user) { m->table_user = user; }
MMIXDEF void *mmix_kernel_user(const mmix_ctx *m) { return m->table_user; }
MMIXDEF const char *mmix_simd_name(const mmix_ctx *m) { return m->k->name; }

MMIXDEF mmix_ctx *mmix_create(const mmix_options *options)
{
    mmix_ctx start, *m;
    int lanes;
    mmix_allocator *allocator = &start.options.allocator;
    memset(&start, 0, sizeof start);
    if (options) start.options = *options;
    if (!allocator->alloc || !allocator->free) {
        allocator->alloc = mmixi_malloc; allocator->free = mmixi_mfree;
    }
    if (!start.options.device.alloc) memset(&start.options.device, 0, sizeof start.options.device);
    start.seed = start.options.seed; lanes = start.options.threads;
    if (lanes < 1) lanes = mmixi_cores();
    start.lanes = lanes < 1 ? 1 : mmixi_min((size_t)lanes, MMIXI_MAX_THREADS);
    start.step.least = MMIXI_BLOCK; start.header.least = MMIXI_HEADER_BLOCK;
    mmixi_ops_fill(start.table);
    m = (mmix_ctx *)mmixi_alloc(&start, sizeof *m);
    if (!m) return NULL;
    *m = start;
    m->k = (mmixi_kernels *)mmixi_alloc(m, sizeof *m->k);
    if (m->k) mmixi_kernels_fill(m->k, m->options.simd);
    if (m->k && m->lanes > 1 && !m->options.parallel_for) m->pool = mmixi_pool_create(m);
    if (!m->error_kind) return m;
    mmix_destroy(m);
    return NULL;
}
MMIXDEF void mmix_destroy(mmix_ctx *m)
{
    if (!m) return;
    mmixi_pool_destroy(m, m->pool);
    mmixi_arena_free(m, &m->step);
    mmixi_arena_free(m, &m->header);
    mmixi_free(m, m->node, m->node_capacity * sizeof *m->node);
    mmixi_free(m, m->twin, m->twin_capacity * sizeof *m->twin);
    mmixi_free(m, m->k, sizeof *m->k);
    mmix_ctx end = *m;
    mmixi_free(&end, m, sizeof *m);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif /* MAMBA_MIX_IMPLEMENTATION */

/* ------------------------------------------------------------------------------------
   This software is available under two licences; choose whichever you prefer.

   ALTERNATIVE A - MIT License. Copyright (c) 2026 the mamba_mix authors

   Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
   associated documentation files (the "Software"), to deal in the Software without restriction, including
   without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
   copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
   following conditions: The above copyright notice and this permission notice shall be included in all copies
   or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND,
   EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A
   PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR
   ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
   OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

   ALTERNATIVE B - Public Domain (www.unlicense.org). This is free and unencumbered software released into the
   public domain. Anyone is free to copy, modify, publish, use, compile, sell, or distribute this software,
   either in source code form or as a compiled binary, for any purpose, commercial or non-commercial, and by
   any means. In jurisdictions that recognize copyright laws, the author or authors of this software dedicate
   any and all copyright interest in the software to the public domain. THE SOFTWARE IS PROVIDED "AS IS",
   WITHOUT WARRANTY OF ANY KIND.
   ------------------------------------------------------------------------------------ */
