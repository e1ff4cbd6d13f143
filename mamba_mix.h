/* mamba_mix.h - token mixers, vision backbones and self-supervised learning in one C file

   Softmax attention, linear attention and Mamba-2 (SSD) are the same thing, Y = M X, with three ways to
   build the L x L matrix M. This library computes all three, forward and backward, on any CPU, and builds
   on them: ViT, LinearViT and DinoVim backbones, DINO training without labels, feature maps, k-NN and
   Binary-AUC; decoders of text and pictures, and LinMU, which turns their attention into linear mixers. No
   packages, no flags: one header.

   In one C or C++ file, before the include:

       #define MAMBA_MIX_IMPLEMENTATION
       #include "mamba_mix.h"

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

     The public part     The implementation
       >>api-context       >>errors & memory     >>elementary ops      >>softmax attention   >>tokenizer
       >>api-tensors       >>random              >>norms               >>mixing              >>dino
       >>api-tape          >>threads             >>linear              >>layers              >>distillation
       >>api-ops           >>micro-kernels       >>convolution         >>losses              >>metrics
       >>api-mixers        >>gemm                >>patches             >>optimisers          >>images
       >>api-files         >>tensors & tape      >>heads               >>backbones           >>files
       >>api-images                              >>ssd                 >>m-mate              >>model files
       >>api-layers                              >>linear attention    >>decoder             >>context
       >>api-vision
       >>api-decoder
       >>api-metrics
       >>api-dino
       >>api-distillation

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
     heads), N query or state width, P value width of a head, S keys, Q chunk, K classes, W convolution
     width. Row-major; sizes are size_t; tokens and labels int32_t.

     Two lifetimes. What a _create, _open or _load returns lives until its _destroy, _close or _free; look at
     it before you hand it on (those take NULL, and of a backbone, its parameters and a training run what
     loads, saves, packs and runs). What an op returns, its gradient included, lives until mmix_reset, or the
     mmix_rewind that encloses it. mmix_backward consumes what was recorded:
     afterwards the values of recorded ops are gone (a scalar such as a loss stays readable), and the
     gradients of parameters and of tensors marked with mmix_require_grad are there.

     Errors are values. A failing call returns NULL, -1 or 0 as its comment says, and the context keeps the
     first message until mmix_error_clear. While a message is kept ops return NULL, and given NULL they return
     NULL, so that a chain of calls is checked once, at its end. Nothing exits, prints or aborts.

     A context and what was made from it belong to one thread at a time; two contexts can work in two threads.
     The same seed gives the same bits for any number of threads (for one SIMD level).

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
typedef struct mmix_ctx mmix_ctx;            /* memory, threads, random numbers, the tape, the last error */
typedef struct mmix_tensor mmix_tensor;      /* an array with a shape; see >>api-tensors */

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
} mmix_options;

#define MMIXI_JOIN2(a, b) a##b
#define MMIXI_JOIN(a, b) MMIXI_JOIN2(a, b)
#define mmix_create MMIXI_JOIN(mmix_create_, MMIX_REAL)
/* A new context, or NULL if memory ran out; options may be NULL and is not kept. The symbol's name carries
   the real type (the macro above), so that a float unit and a double implementation do not link. */
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
typedef struct mmix_mark {
    size_t block, used, high, header_block, header_used, nodes;
    mmix_tensor *graded;
} mmix_mark;
/* Where step memory stands now. A mark ends with mmix_reset. */
MMIXDEF mmix_mark mmix_mark_here(mmix_ctx *m);
/* Drops what came after the mark: results, records and gradients, those of older leaves included; parameters
   keep theirs. */
MMIXDEF void mmix_rewind(mmix_ctx *m, mmix_mark mark);
/* The same, but the n ≤ 8 tensors of keep, no views with gaps, survive: they are moved to the mark and
   keep[i] is set to the new tensor. With one call a block a network of any depth runs in the memory of one
   block. Nothing may have been recorded since the mark. Returns 0, or -1. */
MMIXDEF int mmix_rewind_keep(mmix_ctx *m, mmix_mark mark, mmix_tensor **keep, size_t n);

/* How many threads work, and the SIMD level in words ("avx512"). */
MMIXDEF int mmix_threads(const mmix_ctx *m);
MMIXDEF const char *mmix_simd_name(const mmix_ctx *m);

/* task(arg, i) for each i < count on the context's threads; returns when all are done. From inside a task it
   runs the tasks one after another. */
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

enum { MMIX_DTYPE_REAL, MMIX_DTYPE_I32, MMIX_DTYPE_U8 };

/* New tensors in step memory, values undefined; NULL on error. A tensor has 0 (a scalar) to MMIX_MAX_DIMS
   axes. */
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
/* Normal numbers of mean 0 and the given deviation; `stream` tells one tensor's numbers from another's.
   Returns t. */
MMIXDEF mmix_tensor *mmix_randn(mmix_ctx *m, mmix_tensor *t, double deviation, uint64_t stream);

/* MMIX_DTYPE_…; the number of axes. */
MMIXDEF int mmix_dtype(const mmix_tensor *t);
MMIXDEF int mmix_ndim(const mmix_tensor *t);
/* Size and step (in elements) of an axis; negative axes count from the end. 0 for an axis that is not
   there. */
MMIXDEF size_t mmix_shape(const mmix_tensor *t, int axis);
MMIXDEF size_t mmix_stride(const mmix_tensor *t, int axis);
/* Number of elements. */
MMIXDEF size_t mmix_count(const mmix_tensor *t);
/* The first element, or NULL if the values are gone or of another type; mind the strides of a view. */
MMIXDEF mmix_real *mmix_data(const mmix_tensor *t);
MMIXDEF int32_t *mmix_data_i32(const mmix_tensor *t);
/* The value of a tensor of one element (of a loss also after mmix_backward), NAN if it has more. */
MMIXDEF double mmix_item(const mmix_tensor *t);
/* Copies all elements out (in), row-major, strides followed. 0, or -1 if there are no real values. */
MMIXDEF int mmix_read(const mmix_tensor *t, mmix_real *values);
MMIXDEF int mmix_write(mmix_tensor *t, const mmix_real *values);

/* Views: no copy, gradients flow into what is viewed. reshape copies if the strides leave no other way. */
MMIXDEF mmix_tensor *mmix_reshape(mmix_ctx *m, mmix_tensor *t, int ndim, const size_t *shape);
/* Elements start … start+count-1 of an axis. */
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
/* Asks for the gradient of a leaf (a tensor that no recorded op returned). Returns t. For parameters:
   mmix_params_train. */
MMIXDEF mmix_tensor *mmix_require_grad(mmix_tensor *t);
/* The gradient after mmix_backward, of t's shape; NULL if there is none. */
MMIXDEF mmix_tensor *mmix_grad(const mmix_tensor *t);
/* Adds d loss / d leaf to the gradient of every leaf that asked, and consumes the tape. mmix_backward starts
   from a scalar; mmix_backward_from takes the upstream gradients of n outputs, each of its output's shape. 0,
   or -1. */
MMIXDEF int mmix_backward(mmix_ctx *m, mmix_tensor *loss);
MMIXDEF int mmix_backward_from(mmix_ctx *m, mmix_tensor **outputs, mmix_tensor **gradients, size_t n);

/* What a kernel sees of one call of an op. Outputs are allocated before forward runs. */
#define MMIX_MAX_INPUTS 12
#define MMIX_MAX_SAVED 4
typedef struct mmix_call {
    mmix_tensor *in[MMIX_MAX_INPUTS];        /* NULL where an optional input was left out */
    mmix_tensor *out[2];
    /* what forward keeps for backward (mmix_save); freed with the node */
    mmix_real *saved[MMIX_MAX_SAVED];
    size_t saved_count[MMIX_MAX_SAVED];
    const void *options;                     /* the op's own struct (mmixi_…_options), copied with the node */
    int recorded;                            /* 0: no backward will come, keep nothing */
} mmix_call;

/* An op's two halves. Both return 0, or -1 after mmix_fail. backward adds into, or writes, the gradients of
   the inputs through mmix_grad_target. */
typedef int mmix_op_function(mmix_ctx *m, mmix_call *call);
typedef struct mmix_op_functions { mmix_op_function *forward, *backward; } mmix_op_functions;

/* For backward functions: where to put t's gradient, with t's strides, or NULL if none is wanted. *add says
   whether to add to what is there (1) or to write over it (0: the first contribution; nothing was zeroed). */
MMIXDEF mmix_real *mmix_grad_target(mmix_ctx *m, mmix_tensor *t, int *add);
/* Step memory that lasts as long as the call's node; NULL on error. */
MMIXDEF mmix_real *mmix_save(mmix_ctx *m, mmix_call *call, int slot, size_t count);

/* The ops of the table. A device overrides them one by one; the rest stays as it is. */
enum {
    MMIX_OP_COPY, MMIX_OP_ADD, MMIX_OP_MUL, MMIX_OP_DIV, MMIX_OP_SCALE, MMIX_OP_EXP,
    MMIX_OP_LOG, MMIX_OP_SQRT, MMIX_OP_SILU, MMIX_OP_GELU, MMIX_OP_SOFTPLUS, MMIX_OP_SUM_AXIS, MMIX_OP_SUM,
    MMIX_OP_MATMUL, MMIX_OP_CONCAT, MMIX_OP_GATHER, MMIX_OP_INSERT_TOKEN, MMIX_OP_SOFTMAX,
    MMIX_OP_LAYER_NORM, MMIX_OP_RMS_NORM, MMIX_OP_GATED_RMS_NORM, MMIX_OP_L2_NORMALISE, MMIX_OP_LINEAR,
    MMIX_OP_CONV1D, MMIX_OP_PATCH_EMBED, MMIX_OP_RESIZE, MMIX_OP_CROSS_ENTROPY,
    MMIX_OP_WEIGHT_NORM, MMIX_OP_ROPE, MMIX_OP_SOFTMAX_ATTENTION, MMIX_OP_LINEAR_ATTENTION,
    MMIX_OP_SSD, MMIX_OP_DINO_LOSS, MMIX_OP_ADD_ROWS, MMIX_OP_FUSE_DIRECTIONS, MMIX_OP_KD_HIDDEN,
    MMIX_OP_KD_TOKEN, MMIX_OP_COUNT
};
/* Overrides an op of this context; NULL functions restore the built-in ones. Returns 0, or -1 for an unknown
   op. */
MMIXDEF int mmix_kernel_set(mmix_ctx *m, int op, const mmix_op_functions *functions);
/* What runs an op now, for an override that hands some of its calls on; NULLs for an unknown op. */
MMIXDEF mmix_op_functions mmix_kernel(const mmix_ctx *m, int op);
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
/* alpha x + beta */
MMIXDEF mmix_tensor *mmix_scale(mmix_ctx *m, mmix_tensor *x, double alpha, double beta);
/* e^x; ln x; the square root; x σ(x); x/2 (1 + erf(x/√2)); ln(1 + e^x), x itself above 20 as in PyTorch */
MMIXDEF mmix_tensor *mmix_exp(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_log(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_sqrt(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_silu(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_gelu(mmix_ctx *m, mmix_tensor *x);
MMIXDEF mmix_tensor *mmix_softplus(mmix_ctx *m, mmix_tensor *x);

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
/* (x - mean) / √(variance + eps) · weight + bias over the last axis; x (…, D), weight and bias (D) or
   NULL. */
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
/* residual + s · (x weightᵀ + bias), s one number for each index of the first axis (drop path), or NULL for
   1. */
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
/* Bicubic (a = -3/4, align_corners false): x (B, C, h, w) → (B, C, out_h, out_w). Output i samples at
   (i + ½)/scale - ½; a scale of 0 means out/in. Indices are clamped to the edge. */
MMIXDEF mmix_tensor *mmix_bicubic_resize(mmix_ctx *m, mmix_tensor *x, size_t out_h, size_t out_w,
                                         double scale_h, double scale_w);
/* The same, bilinear. */
MMIXDEF mmix_tensor *mmix_bilinear_resize(mmix_ctx *m, mmix_tensor *x, size_t out_h, size_t out_w,
                                          double scale_h, double scale_w);
/* Bicubic (a = -1/2) with a kernel that widens as the picture shrinks, as Pillow's. */
MMIXDEF mmix_tensor *mmix_bicubic_resize_antialias(mmix_ctx *m, mmix_tensor *x, size_t out_h,
                                                   size_t out_w);

/* Mean of -log softmax(logits)[target] over the targets ≠ ignore_index; 0 if none is left. logits (…, K),
   target (…) int32. */
MMIXDEF mmix_tensor *mmix_cross_entropy(mmix_ctx *m, mmix_tensor *logits, mmix_tensor *target,
                                        int32_t ignore_index);
/* Mean over the rows of -Σ_k target_k log softmax(logits)_k; both (…, K), target a distribution (labels that
   are smoothed, mixed or a teacher's), which gets no gradient. */
MMIXDEF mmix_tensor *mmix_cross_entropy_soft(mmix_ctx *m, mmix_tensor *logits, mmix_tensor *target);
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
    /* With windows, (H, Π (2 window_a - 1)) or NULL: added to the score of i and j by the distance of their
       places on the grid, d_a = i_a - j_a + window_a - 1, the last axis fastest (Swin's relative position
       bias). */
    mmix_tensor *bias;

    /* linear attention. softmax_both: softmax over the N features of each token, for q and k (LinearViT).
       efficient: over features for q, over tokens for k (not causal). elu1: x + 1 for x > 0, else e^x. relu.
       none: q and k are features already, of your own making. */
    int feature;
    /* divide row i by (its sum + eps): 1 yes, -1 no, 0 the default: yes for elu1 and relu */
    int normalise;
    double eps;                  /* 0: 1e-6 */

    /* SSD */
    mmix_tensor *dt;             /* (B, L, H) */
    mmix_tensor *A;              /* (H), negative */
    mmix_tensor *D;              /* (H), or (H, P) for each channel its own, or NULL: adds D x */
    mmix_tensor *dt_bias;        /* (H) or NULL: added to dt */
    int dt_softplus;             /* then dt = softplus(dt + dt_bias) */
    double dt_low, dt_high;      /* then clamped, if dt_high > 0 */
    int direction;               /* both: ½ (forward + reverse), D x once */

    /* The state before the first token, or NULL; where to put the one after the last, or NULL. SSD: (B, H, P,
       N). Causal linear attention: (B, G, P, N), with `normalise` (B, G, P + 1, N), the last for the rows'
       sums */
    mmix_tensor *initial_state;
    mmix_tensor **final_state;
    size_t chunk;                /* tokens of a chunk, 0: chosen; changes nothing but rounding and speed */

    /* Packing, for SSD, causal linear and softmax attention: (B, L) int32 or NULL. Runs of equal numbers are
       sequences of their own, which see nothing of each other; the initial state enters the first. */
    mmix_tensor *seq_idx;
    /* What a mask or seq_idx hides is multiplied by 0: an infinity or a NaN among the values reaches tokens
       that must not see it. */
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
/* look(user, m, mixer) is called with each mixer that mmix_mix runs on m, alone or inside of layers and
   models, before it runs: to draw M, to measure ranks. Nothing is recorded meanwhile, and what look leaves in
   step memory is dropped when it returns. look NULL: no more. */
MMIXDEF void mmix_mix_watch(mmix_ctx *m, void (*look)(void *user, mmix_ctx *m, const mmix_mixer *mixer),
                            void *user);
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
   remembers all earlier ones (with MMIX_MASK_BAND, twice `left` at most); a prefix must be whole in the first
   piece. The others carry N x P numbers a head. An error leaves the state as it was, but for a lack of
   memory: then clear it or go on from a copy. An initial_state enters with the first piece and is NULL
   with the others; final_state, where it is asked for, is a copy of the state after this one. */
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
/* x (B, L, H, N) → the same shape. pos int32 (L), or (B, L); with sections (3, L), or (3, B, L). Options
   NULL: the defaults. */
MMIXDEF mmix_tensor *mmix_rope(mmix_ctx *m, mmix_tensor *x, mmix_tensor *pos,
                               const mmix_rope_options *options);

/* ==== >>api-kernels ==================================================================
   the mixers as plain functions on pointers, steps and sizes

   For programs with tensors of their own: no context, no tape, no allocation, no thread. A struct says sizes,
   options (as in mmix_mixer) and where the arrays lie; zero it first. A call does all B sequences and H heads
   in the calling thread; calls on other sequences or heads can run in other threads. Scratch (in reals,
   aligned as malloc aligns) has the size that `…_scratch` says. Nothing is checked. Gradients are written
   over what was there (or added, where there is a flag), and left out where p is NULL.

       mmix_raw_softmax x = {0};
       x.B = 1; x.L = x.S = L; x.H = 8; x.N = x.P = 64; x.scale = 0.125;
       x.q = mmix_heads_plain(q, L, 8, 64, 8);           // k, v, y likewise
       mmix_raw_softmax_forward(&x, scratch);
   ==================================================================================== */

/* An array (B, L, heads, width), width contiguous: its first element, and by how many reals the next
   sequence, token and head are away. Head h of H reads head h / share, share = H / heads. */
typedef struct mmix_heads { mmix_real *p; ptrdiff_t batch, token, head; size_t share; } mmix_heads;
/* The struct of a row-major array; p may be NULL. */
MMIXDEF mmix_heads mmix_heads_plain(mmix_real *p, size_t L, size_t heads, size_t width, size_t H);

typedef struct mmix_raw_softmax {
    size_t B, L, S, H, N, P;                     /* S keys */
    mmix_heads q, k, v, y;                       /* k and v have equal shares */
    double scale;
    int mask;
    size_t prefix, left, right, grid[3], window[3], shift[3];
    const int32_t *lefts;                        /* (L), of each query, with MMIX_MASK_BAND; or NULL */
    const mmix_real *bias;                       /* or NULL */
    const int32_t *seq_idx;                      /* (B, L), seq_batch from row to row; or NULL */
    ptrdiff_t seq_batch;
    /* (B, H, L): of each query the largest score t and 1 / Σ e^(s - t). Forward writes them unless NULL,
       backward reads them */
    mmix_real *top, *over;
    /* mmix_raw_softmax_scores(x) reals for e^(s - t), or NULL: the backward forms them anew */
    mmix_real *scores;
    mmix_heads dy, dq, dk, dv;
    mmix_real *dbias;                            /* or NULL */
    int add_q, add_k, add_v, add_bias;           /* 1: add to the gradient that is there */
} mmix_raw_softmax;
/* Reals of scratch. */
MMIXDEF size_t mmix_raw_softmax_scratch(const mmix_raw_softmax *x, int backward);
/* Reals of `scores`, B H L S with S rounded up to 32 k + 16: a fifth off the backward's time; 0 beyond 512
   keys, where scores must be NULL. */
MMIXDEF size_t mmix_raw_softmax_scores(const mmix_raw_softmax *x);
/* y, and top, over and scores. */
MMIXDEF void mmix_raw_softmax_forward(const mmix_raw_softmax *x, mmix_real *scratch);
/* Needs y, top and over of the forward, and scores if given. */
MMIXDEF void mmix_raw_softmax_backward(const mmix_raw_softmax *x, mmix_real *scratch);

typedef struct mmix_raw_linear {
    size_t B, L, S, H, N, P;
    mmix_heads q, k, v, y;                       /* k and v have equal shares */
    int feature, normalise, causal;              /* 1 or 0 */
    double eps;
    /* (B, H, L), with normalise: 1 / (row sum + eps). Forward writes it unless NULL, backward reads it */
    mmix_real *over;
    /* causal only: chunk 0: chosen; states (B, H / share, P + normalise, N) or NULL, the final one may be the
       initial one; (B, L), seq_batch from row to row, or NULL */
    size_t chunk;
    const mmix_real *initial_state;
    mmix_real *final_state;
    const int32_t *seq_idx;
    ptrdiff_t seq_batch;
    /* mmix_raw_linear_states(x) reals for the backward, or NULL */
    mmix_real *states;
    mmix_heads dy, dq, dk, dv;
    const mmix_real *dfinal;                     /* or NULL */
    mmix_real *dinitial;                         /* or NULL */
    int add_q, add_k, add_v, add_initial;        /* 1: add to the gradient that is there */
} mmix_raw_linear;
/* Reals of `states`; of scratch, for both passes. */
MMIXDEF size_t mmix_raw_linear_states(const mmix_raw_linear *x);
MMIXDEF size_t mmix_raw_linear_scratch(const mmix_raw_linear *x);
/* y, over, states and the final state. */
MMIXDEF void mmix_raw_linear_forward(const mmix_raw_linear *x, mmix_real *scratch);
/* Needs `states` of the forward, unless mmix_raw_linear_states is 0; with normalise y and over too. */
MMIXDEF void mmix_raw_linear_backward(const mmix_raw_linear *x, mmix_real *scratch);

typedef struct mmix_raw_ssd {
    size_t B, L, H, N, P;
    mmix_heads x, dt, b, c, y;                   /* dt of width 1 */
    const mmix_real *A, *D, *dt_bias;            /* (H); D (H, D_width) or NULL; (H) or NULL */
    size_t D_width;                              /* P: D for each channel; 0 or 1: one a head */
    int dt_softplus, reverse;
    double dt_low, dt_high;                      /* no limits if dt_high is 0 */
    size_t chunk;                                /* 0: chosen */
    const mmix_real *initial_state;              /* (B, H, P, N) or NULL */
    mmix_real *final_state;                      /* (B, H, P, N) or NULL; may be the initial one */
    const int32_t *seq_idx;                      /* (B, L), seq_batch from row to row; or NULL */
    ptrdiff_t seq_batch;
    mmix_real *states;                           /* mmix_raw_ssd_states(x) reals for the backward, or NULL */
    mmix_heads dy, dx, ddt, db, dc;              /* db and dc are not optional */
    mmix_real *dA, *dD, *ddt_bias, *dinitial;    /* or NULL */
    const mmix_real *dfinal;                     /* (B, H, P, N) or NULL */
} mmix_raw_ssd;
/* Reals of `states`; of scratch. */
MMIXDEF size_t mmix_raw_ssd_states(const mmix_raw_ssd *x);
MMIXDEF size_t mmix_raw_ssd_scratch(const mmix_raw_ssd *x, int backward);
/* With L = 1 and final_state = initial_state it is the decoding step. */
MMIXDEF void mmix_raw_ssd_forward(const mmix_raw_ssd *x, mmix_real *scratch);
/* Needs `states` of the forward, unless mmix_raw_ssd_states is 0. */
MMIXDEF void mmix_raw_ssd_backward(const mmix_raw_ssd *x, mmix_real *scratch);

/* ==== >>api-files ====================================================================
   named arrays in files

   A checkpoint is an archive of named arrays. Loading one by name:

       mmix_archive *a = mmix_archive_open(m, "vit.safetensors");
       const mmix_entry *e = mmix_archive_find(a, "cls_token");           // NULL: not in the file
       mmix_archive_read(m, a, e, values, count);                         // any dtype becomes mmix_real
       mmix_archive_close(a);

   Nothing in a file is believed: a wrong one is refused with one line, what was expected and what found.
   ==================================================================================== */

/* What the elements of an entry are. */
enum {
    MMIX_FILE_F64, MMIX_FILE_F32, MMIX_FILE_F16, MMIX_FILE_BF16,
    MMIX_FILE_I64, MMIX_FILE_I32, MMIX_FILE_I16, MMIX_FILE_I8, MMIX_FILE_U8, MMIX_FILE_BOOL,
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

/* Opens a file; NULL on error. What it is, its first bytes say: .safetensors; NumPy's .npy
   (one entry, "array") and .npz, not compressed; PyTorch's .pth (1.6 and later), whose dictionaries' keys are
   joined by dots ("teacher.backbone.cls_token"). The pickle in it is read, never run: names other than those
   of a file of weights are refused. Where the system can (POSIX) the file is mapped: do not shorten it
   meanwhile. Of a .safetensors only what is looked at is read; the others have checksums, or are small. At
   most twice the file's size and 1 MiB are held; what would need more is refused. */
MMIXDEF mmix_archive *mmix_archive_open(mmix_ctx *m, const char *path);
/* The same for a file that is in memory (and copied); name is for messages. There with MMIX_NO_STDIO, too. */
MMIXDEF mmix_archive *mmix_archive_open_memory(mmix_ctx *m, const char *name, const void *bytes, size_t size);
/* Frees the archive, its entries and names. NULL is allowed. */
MMIXDEF void mmix_archive_close(mmix_archive *a);

/* Number of entries; entry i, in the order of the data, NULL beyond the end. A NULL archive is empty. */
MMIXDEF size_t mmix_archive_count(const mmix_archive *a);
MMIXDEF const mmix_entry *mmix_archive_entry(const mmix_archive *a, size_t i);
/* The entry of that name, or NULL if there is none, which is not an error. */
MMIXDEF const mmix_entry *mmix_archive_find(const mmix_archive *a, const char *name);
/* The value of a key of the file's metadata, or NULL. */
MMIXDEF const char *mmix_archive_metadata(const mmix_archive *a, const char *key);
/* Number of elements. */
MMIXDEF size_t mmix_entry_count(const mmix_entry *e);

/* Copies the elements of an entry out, converted; count must be mmix_entry_count(e). 0, or -1. */
MMIXDEF int mmix_archive_read(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, mmix_real *values,
                              size_t count);
/* The same, as double in every build. */
MMIXDEF int mmix_archive_read_f64(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, double *values,
                                  size_t count);
/* As integers; floating entries are refused. */
MMIXDEF int mmix_archive_read_i64(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, int64_t *values,
                                  size_t count);
/* As integers; floating entries and values that do not fit are refused. */
MMIXDEF int mmix_archive_read_i32(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, int32_t *values,
                                  size_t count);

/* Writes a .safetensors file: n entries, and metadata = key, value, key, value, …, NULL (or NULL). Equal
   arguments give equal bytes. The file appears whole or not at all: PATH.tmp is written first, then renamed.
   0, or -1. */
MMIXDEF int mmix_safetensors_save(mmix_ctx *m, const char *path, const mmix_entry *entries, size_t n,
                                  const char *const *metadata);
/* Writes one array as NumPy's .npy (format 1.0), its name aside; BF16 has no form there. In the same way. */
MMIXDEF int mmix_npy_save(mmix_ctx *m, const char *path, const mmix_entry *entry);

/* ==== >>api-images ===================================================================
   8-bit RGB pictures, bit for bit as Pillow treats them; random crops; PPM files

   Functions on pictures touch the caller's buffers only, allocate nothing and know no context, so they run
   inside parallel tasks. They return 0, or -1 with nothing written if an argument is out of its range. Those
   that need scratch tell how much: `…_scratch` returns bytes, 0 if the arguments are out of range. Scratch is
   aligned as malloc aligns. Sides are 1 … 2²⁴ pixels.
   ==================================================================================== */

/* Rows of interleaved R, G, B; owned by the caller. */
typedef struct mmix_picture { const uint8_t *rgb; size_t width, height; } mmix_picture;
typedef struct mmix_box { size_t top, left, height, width; } mmix_box;

/* The box of `in` brought to width x height: bicubic (a = -1/2), antialiased, horizontally first. `out` is
   not `in`. */
MMIXDEF size_t mmix_picture_resize_scratch(mmix_box box, size_t width, size_t height);
MMIXDEF int mmix_picture_resize(uint8_t *out, size_t width, size_t height, mmix_picture in, mmix_box box,
                                void *scratch);
/* The evaluation transform: the shorter side becomes `side` (bicubic) and the crop x crop pixels in the
   middle are kept; crop <= side. */
MMIXDEF size_t mmix_picture_evaluate_scratch(size_t in_width, size_t in_height, size_t side, size_t crop);
MMIXDEF int mmix_picture_evaluate(uint8_t *out, size_t side, size_t crop, mmix_picture in, void *scratch);

/* In place, on `width` x `height` pixels. Columns reversed. */
MMIXDEF void mmix_picture_flip(uint8_t *rgb, size_t width, size_t height);
/* Luma (0.299 R + 0.587 G + 0.114 B) in all three channels. */
MMIXDEF void mmix_picture_grey(uint8_t *rgb, size_t width, size_t height);
/* Levels from `threshold` (0 … 256) on are turned round: v becomes 255 - v. */
MMIXDEF void mmix_picture_solarise(uint8_t *rgb, size_t width, size_t height, int threshold);
enum { MMIX_JITTER_BRIGHTNESS, MMIX_JITTER_CONTRAST, MMIX_JITTER_SATURATION, MMIX_JITTER_HUE };
/* The n changes order[0], order[1], … by factors[0], …: brightness, contrast and saturation by 0 … 1000 (1
   changes nothing), hue by -1/2 … 1/2 of a turn. */
MMIXDEF int mmix_picture_jitter(uint8_t *rgb, size_t width, size_t height, const int *order,
                                const double *factors, size_t n);
/* Pillow's GaussianBlur: three box filters along the rows, three along the columns; 0 <= sigma <= 1000. */
MMIXDEF size_t mmix_picture_blur_scratch(size_t width, size_t height);
MMIXDEF int mmix_picture_blur(uint8_t *rgb, size_t width, size_t height, double sigma, void *scratch);
/* out (3, height, width) = (v/255 - mean)/deviation, channel by channel; NULL, NULL: ImageNet's (0.485,
   0.456, 0.406; 0.229, 0.224, 0.225), which all the backbones here expect. A deviation is not 0. */
MMIXDEF int mmix_picture_normalise(mmix_real *out, mmix_picture in, const double *mean,
                                   const double *deviation);

/* (1, 3, size, size) from a picture of any size: mmix_picture_evaluate to size · 256/224 (rounded) and size,
   then mmix_picture_normalise. NULL on error. */
MMIXDEF mmix_tensor *mmix_image(mmix_ctx *m, const uint8_t *rgb, size_t width, size_t height, size_t size);
/* (1, 3, to_height, to_width): the whole picture, resized and normalised. NULL on error. */
MMIXDEF mmix_tensor *mmix_image_whole(mmix_ctx *m, const uint8_t *rgb, size_t width, size_t height,
                                      size_t to_width, size_t to_height);

/* DINO's augmentation (Caron et al. 2021). Crops 0 and 1 are global, the others local. In the order they are
   applied: random box and resize, flip, jitter, grey, blur, solarise, normalise. Pairs are ranges. */
typedef struct mmix_augment {
    size_t global_size, local_size;          /* pixels a side */
    size_t local_count;                      /* local crops of each picture; may be 0 */
    double global_scale[2], local_scale[2];  /* share of the picture's area */
    double aspect[2];                        /* width / height, log-uniform */
    double flip;                             /* probabilities from here … */
    double jitter, grey;
    double blur[3], solarise[3];             /* … to here; global 0, global 1, locals */
    double brightness, contrast, saturation; /* strength s: a factor of 1 - s … 1 + s */
    double hue;                              /* -s … s of a turn; the four come in random order */
    double sigma[2];                         /* of the blur, pixels */
    double mean[3], deviation[3];
} mmix_augment;
/* The paper's: 2 x 224 (0.4-1), 8 x 96 (0.05-0.4), aspect 3/4-4/3, flip 1/2, jitter (0.4, 0.4, 0.2, 0.1) with
   probability 0.8, grey 0.2, blur 1 / 0.1 / 0.5 with sigma 0.1-2, solarise 0 / 0.2 / 0, ImageNet's mean and
   deviation. */
MMIXDEF mmix_augment mmix_augment_dino(void);

/* Every random number below depends on the context's seed and on (step, image, crop) only, image being the
   place in the batch (< 2⁴⁰, crop < 2¹⁶): neither threads nor the order of calls matter. */

/* The box that crop `crop` takes from a picture, as torchvision's RandomResizedCrop does: ten tries, then the
   largest box in the middle whose aspect is in range. */
MMIXDEF mmix_box mmix_augment_box(const mmix_ctx *m, const mmix_augment *config, size_t width, size_t height,
                                  uint64_t step, size_t image, size_t crop);
/* One crop, out (3, s, s) with s the global or local size; may run inside a task. -1 with nothing written if
   the picture is empty or too large, or a size is 0; the rest of config is taken as checked
   (mmix_augment_batch does). */
MMIXDEF size_t mmix_augment_crop_scratch(const mmix_augment *config, size_t width, size_t height);
MMIXDEF int mmix_augment_crop(const mmix_ctx *m, mmix_real *out, const mmix_augment *config,
                              mmix_picture picture, uint64_t step, size_t image, size_t crop, void *scratch);
/* All crops of a batch of B pictures, pictures[index[b]] (index NULL: pictures[b]), on all threads: global
   (2B, 3, s, s) and local (local_count·B, 3, s', s'), both crop after crop; local is NULL if there are no
   local crops. 0, or -1. */
MMIXDEF int mmix_augment_batch(mmix_ctx *m, const mmix_augment *config, const mmix_picture *pictures,
                               const size_t *index, size_t B, uint64_t step, mmix_tensor *global,
                               mmix_tensor *local);

/* Binary PPM (P6) or PGM (P5, grey becomes RGB) of 8 bits, from memory and from a file: pixels that last
   until mmix_ppm_free, or NULL with width and height 0. What follows the picture is ignored. */
MMIXDEF uint8_t *mmix_ppm_read(mmix_ctx *m, const void *bytes, size_t size, size_t *width, size_t *height);
MMIXDEF uint8_t *mmix_ppm_load(mmix_ctx *m, const char *path, size_t *width, size_t *height);
MMIXDEF void mmix_ppm_free(mmix_ctx *m, uint8_t *rgb, size_t width, size_t height);
/* Writes a P6 file (mmix_pgm_save: P5, one byte a pixel) as `path`.tmp, which then takes the name. 0, or
   -1. */
MMIXDEF int mmix_ppm_save(mmix_ctx *m, const char *path, const uint8_t *rgb, size_t width, size_t height);
MMIXDEF int mmix_pgm_save(mmix_ctx *m, const char *path, const uint8_t *grey, size_t width, size_t height);

/* ==== >>api-layers ===================================================================
   parameters with checkpoint names, and the layers made of them
   ==================================================================================== */

/* Initial values: CONSTANT a; NORMAL of deviation a; UNIFORM in [a, b); LOG_UNIFORM: the logarithm of a
   number uniform in [a, b) (A_log); STEP: the inverse softplus of a number log-uniform in [a, b), at least
   1e-4 (dt_bias); SPREAD: the same of numbers spread evenly on the logarithmic scale; LAST_TAP: 1 at the end
   of each row, else 0 (a convolution that is the identity). They depend on the context's seed and the
   parameter's name. */
enum { MMIX_START_CONSTANT, MMIX_START_NORMAL, MMIX_START_UNIFORM, MMIX_START_LOG_UNIFORM, MMIX_START_STEP,
      MMIX_START_SPREAD, MMIX_START_LAST_TAP };
typedef struct mmix_start { int kind; double a, b; } mmix_start;
/* The struct of these three. */
MMIXDEF mmix_start mmix_start_from(int kind, double a, double b);

/* One parameter. `decay` says whether weight decay holds for it (not for anything one-dimensional). */
typedef struct mmix_param {
    const char *name;
    mmix_tensor *tensor;
    int decay, frozen;
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
    /* reals of the slabs, with the padding of each parameter to 64 bytes; of `packed` */
    size_t capacity, slab, packed_reals;
} mmix_params;

/* An empty list; NULL on error. */
MMIXDEF mmix_params *mmix_params_create(mmix_ctx *m);
MMIXDEF void mmix_params_destroy(mmix_params *p);
/* Adds a parameter, its name made of prefix and name; it has no values until mmix_params_allocate. NULL on
   error. Decay is set for two and more axes unless the name ends in ".bias". */
MMIXDEF mmix_tensor *mmix_params_add(mmix_params *p, const char *prefix, const char *name, int ndim,
                                     const size_t *shape, mmix_start start);
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
/* Reads every parameter by name, whatever its dtype in the file. Names in the file begin with `prefix` ("" or
   NULL: nothing), the parameters' own do not. An error, with nothing read: a parameter that is missing or has
   another shape, or a name with the prefix that is no parameter. 0, or -1. */
MMIXDEF int mmix_params_read(mmix_params *p, const mmix_archive *archive, const char *prefix);
/* What would be wrong with that, a line each: "missing NAME (3, 4)", "reshaped NAME (4, 3), expected (3, 4)",
   "unexpected NAME (5)". "" if all fit; in step memory; NULL on error. */
MMIXDEF const char *mmix_params_compare(const mmix_params *p, const mmix_archive *archive,
                                        const char *prefix);
/* The same from and to a .safetensors file. 0, or -1. */
MMIXDEF int mmix_params_load(mmix_params *p, const char *path);
MMIXDEF int mmix_params_save(const mmix_params *p, const char *path);
/* By name; NULL if there is none (no error). */
MMIXDEF mmix_tensor *mmix_params_find(const mmix_params *p, const char *name);
/* Forgets the gradients, without a pass over them: the next backward writes instead of adding. */
MMIXDEF void mmix_params_zero_grad(mmix_params *p);

/* Attention with a fused projection: qkv (B, L, 3D) in the order q, k, v, each heads x D/heads; mixer;
   proj. */
typedef struct mmix_attention_layer {
    /* qkv.weight (3D, D), … biases may be NULL */
    mmix_tensor *qkv_weight, *qkv_bias, *proj_weight, *proj_bias;
    size_t heads;
    /* kind MMIX_SOFTMAX or MMIX_LINEAR and its options; q, k, v are filled in */
    mmix_mixer options;
    mmix_rope_options rope;                      /* turns q and k, positions from 0; theta 0: not */
} mmix_attention_layer;
/* Adds the layer's parameters to p. 0, or -1. */
MMIXDEF int mmix_attention_init(mmix_attention_layer *layer, mmix_params *p, const char *prefix, size_t D,
                                size_t heads, int kind, int bias);
/* x (B, L, D) → (B, L, D). With a residual: residual + s · layer(x), s as in mmix_linear_add. */
MMIXDEF mmix_tensor *mmix_attention(mmix_ctx *m, const mmix_attention_layer *layer, mmix_tensor *x,
                                    mmix_tensor *residual, mmix_tensor *s);

/* The next tokens x (B, L, D), one or many, with what `slot` of the state carries: as mmix_mix_step. */
MMIXDEF mmix_tensor *mmix_attention_step(mmix_ctx *m, const mmix_attention_layer *layer, mmix_tensor *x,
                                         mmix_state *state, size_t slot);

/* Mamba-2 (mamba_ssm 2.x): in_proj → z, xBC, dt; convolution and SiLU over xBC; SSD; gated RMS norm;
   out_proj. Bidirectional (Vision Mamba "v2"): a second convolution, A, dt bias, D and norm read the same
   projection from the end; the results are averaged before the one out_proj. */
typedef struct mmix_mamba2_options {
    size_t d_inner;                          /* 0: 2D */
    size_t d_state;                          /* N; 0: 64 */
    size_t head_dim;                         /* P; 0: 64 */
    size_t groups;                           /* G; 0: 1 */
    size_t conv_width;                       /* W; 0: 4 */
    int bidirectional;
    double eps;                              /* of the norm; 0: 1e-5 */
    double dt_low, dt_high;                  /* dt_limit; none if dt_high is 0 */
    double out_scale;                        /* factor of out_proj's initial values, 1/√depth in Vim; 0: 1 */
} mmix_mamba2_options;
typedef struct mmix_mamba2_layer {
    mmix_mamba2_options options;             /* with the defaults filled in */
    size_t heads;                            /* d_inner / head_dim */
    mmix_tensor *in_proj, *out_proj;         /* (2 d_inner + 2GN + H, D), (D, d_inner); no biases */
    /* forward; …_b: reverse */
    struct { mmix_tensor *conv_weight, *conv_bias, *dt_bias, *A_log, *D, *norm; } dir[2];
} mmix_mamba2_layer;
/* State from one piece of a sequence to the next: conv (B, d_inner + 2GN, W-1), ssm (B, H, P, N). NULL in:
   zeros; out: the results, in step memory. Not for bidirectional layers, not with seq_idx. */
typedef struct mmix_mamba2_state { mmix_tensor *conv, *ssm; } mmix_mamba2_state;
/* Adds the layer's parameters to p; options NULL: the defaults. 0, or -1. */
MMIXDEF int mmix_mamba2_init(mmix_mamba2_layer *layer, mmix_params *p, const char *prefix, size_t D,
                             const mmix_mamba2_options *options);
/* x (B, L, D) → (B, L, D); residual and s as in mmix_attention. seq_idx (B, L) int32 or NULL; state NULL, or
   read and then replaced. */
MMIXDEF mmix_tensor *mmix_mamba2(mmix_ctx *m, const mmix_mamba2_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s, mmix_tensor *seq_idx,
                                 mmix_mamba2_state *state);

/* The next tokens, with the state and the convolution's last inputs in `slot`: as mmix_mix_step. */
MMIXDEF mmix_tensor *mmix_mamba2_step(mmix_ctx *m, const mmix_mamba2_layer *layer, mmix_tensor *x,
                                      mmix_state *state, size_t slot);

/* fc2(gelu(fc1 x)): fc1 (F, D), fc2 (O, F). */
typedef struct mmix_mlp_layer { mmix_tensor *fc1_weight, *fc1_bias, *fc2_weight, *fc2_bias; } mmix_mlp_layer;
/* Adds the layer's parameters to p. 0, or -1. */
MMIXDEF int mmix_mlp_init(mmix_mlp_layer *layer, mmix_params *p, const char *prefix, size_t D, size_t F,
                          size_t O);
/* x (…, D) → (…, O); residual and s as in mmix_attention. */
MMIXDEF mmix_tensor *mmix_mlp(mmix_ctx *m, const mmix_mlp_layer *layer, mmix_tensor *x, mmix_tensor *residual,
                              mmix_tensor *s);

/* Low-rank matrices beside a weight (O, I): x Wᵀ + alpha/r (x Aᵀ) Bᵀ (LoRA, Hu et al. 2021). A (r, I), B (O,
   r); NULL: none. */
typedef struct mmix_lora { mmix_tensor *A, *B; double alpha; } mmix_lora;

/* down(silu(gate x) · up x) (Shazeer 2020): gate and up (F, D), down (D, F), no biases; adapters beside them
   in this order. */
typedef struct mmix_swiglu_layer { mmix_tensor *gate, *up, *down; mmix_lora lora[3]; } mmix_swiglu_layer;
/* Adds gate_proj.weight, up_proj.weight and down_proj.weight to p. 0, or -1. */
MMIXDEF int mmix_swiglu_init(mmix_swiglu_layer *layer, mmix_params *p, const char *prefix, size_t D,
                             size_t F);
/* x (…, D) → (…, D); residual and s as in mmix_attention. */
MMIXDEF mmix_tensor *mmix_swiglu(mmix_ctx *m, const mmix_swiglu_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s);

/* x weightᵀ + bias + alpha/r (x Aᵀ) Bᵀ, see mmix_lora. */
MMIXDEF mmix_tensor *mmix_lora_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                      mmix_tensor *A, mmix_tensor *B, double alpha);

/* Stochastic depth (Huang et al. 2016): s (B), each 0 with probability `rate`, else 1/(1 - rate). NULL
   without an error if rate is 0. `stream` tells the layers and crops of one step apart. */
MMIXDEF mmix_tensor *mmix_drop_path(mmix_ctx *m, size_t B, double rate, uint64_t step, uint64_t stream);

/* ==== >>api-vision ===================================================================
   backbones: pictures in, tokens out
   ==================================================================================== */

/* Where the class token stands: FIRST with attention, and only there; the others with Mamba. RELEASED is what
   DinoVim's code does: once in front, with position, and a second time, without, in the middle, where the
   output is read. REGISTERS (DinoMamba-Reg): k tokens with positions of their own, register i (of 0 … k - 1)
   at index S + i (S + 1) with S = ⌊n/(k + 1)⌋ for n patches; the output is their mean. */
enum { MMIX_CLASS_FIRST, MMIX_CLASS_MIDDLE, MMIX_CLASS_RELEASED, MMIX_CLASS_REGISTERS };

typedef struct mmix_vision_config {
    /* MMIX_SOFTMAX (ViT), MMIX_LINEAR (LinearViT), MMIX_SSD (DinoVim) */
    int mixer;
    /* heads is not read for MMIX_SSD: there it is 2 dim / head_dim */
    size_t dim, depth, heads;
    double mlp_ratio;                        /* width of the MLP over dim; not for MMIX_SSD */
    /* side of a patch in pixels; positions are stored for grid x grid patches */
    size_t patch, grid;
    double eps;                              /* of the norms */
    double drop_path;                        /* rate of the last block; rises linearly from 0 */
    int class_token;                         /* MMIX_CLASS_…; ViT: FIRST */
    size_t registers;                        /* k of MMIX_CLASS_REGISTERS; 0: 12 */
    int normalise;                           /* as mmix_mixer.normalise, for MMIX_LINEAR */
    mmix_mamba2_options mamba;               /* for MMIX_SSD; bidirectional and out_scale are set here */
} mmix_vision_config;

/* The systems' sizes, for 224 x 224 pixels (DINO's ViT; LinearViT; DinoVim in its released form;
   DinoMamba-Reg, which stores 7 x 7 positions). */
MMIXDEF mmix_vision_config mmix_vit_tiny(size_t patch);
MMIXDEF mmix_vision_config mmix_vit_small(size_t patch);
MMIXDEF mmix_vision_config mmix_vit_base(size_t patch);
MMIXDEF mmix_vision_config mmix_linearvit_base(void);
MMIXDEF mmix_vision_config mmix_dinovim_tiny(void);
MMIXDEF mmix_vision_config mmix_dinovim_small(void);
MMIXDEF mmix_vision_config mmix_dinovim_base(void);
MMIXDEF mmix_vision_config mmix_mambareg_tiny(void);
MMIXDEF mmix_vision_config mmix_mambareg_small(void);
MMIXDEF mmix_vision_config mmix_mambareg_base(void);

typedef struct mmix_vision mmix_vision;
/* A backbone with random values from the context's seed; NULL on error (heads that do not divide dim, …). */
MMIXDEF mmix_vision *mmix_vision_create(mmix_ctx *m, mmix_vision_config config);
MMIXDEF void mmix_vision_destroy(mmix_vision *v);
MMIXDEF const mmix_vision_config *mmix_vision_config_of(const mmix_vision *v);
MMIXDEF mmix_params *mmix_vision_params(mmix_vision *v);
/* Number of parameters; multiply-adds times two of one image of h x w pixels. */
MMIXDEF size_t mmix_vision_parameters(const mmix_vision *v);
MMIXDEF double mmix_vision_flops(const mmix_vision *v, size_t h, size_t w);
/* Where the tokens stand, among all of them, of which `features` are the mean, for n patches: the class
   token, or the registers. Writes them to `at` unless that is NULL; returns how many. */
MMIXDEF size_t mmix_vision_class_index(const mmix_vision_config *config, size_t n, size_t *at);
/* A backbone from a file of any format that mmix_archive_open knows: mmix_vision_config_read, creation and
   mmix_vision_read in one. NULL on error. */
MMIXDEF mmix_vision *mmix_vision_open(mmix_ctx *m, const char *path);
/* The config of the backbone in an archive. Files of mmix_vision_save and mmix_dino_save hold it. Of others
   names and shapes tell it, and what these leave open is assumed: softmax attention (a LinearViT has the same
   names) in heads of 64, B and C in one group, the class token as RELEASED, the norms' eps. 0, or -1. */
MMIXDEF int mmix_vision_config_read(mmix_ctx *m, const mmix_archive *archive, mmix_vision_config *config);
/* Reads all parameters by name. What stands before the names (module., backbone., teacher. of a training run)
   is found by itself: before "cls_token"; of several one with "teacher" in it is taken, else the shortest. A
   classifier ("head.…") beside the backbone is left alone. Else as mmix_params_read. 0, or -1. */
MMIXDEF int mmix_vision_read(mmix_vision *v, const mmix_archive *archive);
MMIXDEF int mmix_vision_load(mmix_ctx *m, mmix_vision *v, const char *path);
/* mmix_params_compare for that. */
MMIXDEF const char *mmix_vision_compare(const mmix_vision *v, const mmix_archive *archive);
/* Writes the parameters and the config as .safetensors. 0, or -1. */
MMIXDEF int mmix_vision_save(mmix_ctx *m, const mmix_vision *v, const char *path);

/* Tensors in step memory; views of one another where B > 1, so mmix_read copies their rows, not mmix_data. */
typedef struct mmix_features {
    mmix_tensor *token;                      /* (B, D): the class token, or the registers' mean, after the
                                                final norm */
    mmix_tensor *registers;                  /* (B, k, D): they themselves; NULL without */
    /* (B, n, D): the patch tokens after the final norm, raster order */
    mmix_tensor *patches;
    mmix_tensor *tokens;                     /* (B, L, D): all of them in the model's order */
    /* (B, n_last D): class tokens (registers' means) of the last n_last blocks after the final norm, first
       block first (of Mamba the mixer's output, without the residual); NULL unless asked */
    mmix_tensor *intermediate;
    /* (n_dense) of (B, D, gh, gw): the patch tokens after each block asked for; NULL unless asked */
    mmix_tensor **dense;
    size_t grid_h, grid_w;
} mmix_features;
typedef struct mmix_vision_options {
    size_t n_last;                           /* how many last blocks `intermediate` joins; 0: none */
    /* Blocks, from 0 on and rising, whose output `dense` holds as maps, for a head of the user's own. Of
       Mamba with the residual. dense_norm: after the final norm, else as they are. */
    const size_t *dense;
    size_t n_dense;
    int dense_norm;
    int train;                               /* 1: drop path is on */
    uint64_t step, stream;                   /* for drop path's random numbers */
} mmix_vision_options;
/* image (B, 3, h, w), normalised; options NULL for none. All members NULL on error. Not recording, memory
   does not grow with depth. */
MMIXDEF mmix_features mmix_vision_forward(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image,
                                          const mmix_vision_options *options);
/* The same without options. */
MMIXDEF mmix_features mmix_vision_features(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image);

/* ==== >>api-decoder ==================================================================
   decoders of text and media: causal attention, or M-MATE in its place (LinMU, arXiv 2601.01322)

   A layer is x += mixer(norm x), x += SwiGLU(norm x) with RMS norms. Greedy continuation of a text:

       mmix_decoder *d = mmix_decoder_open(m, "stories260K.bin");
       mmix_tokenizer *t = mmix_tokenizer_load(m, "tok512.bin");
       int32_t prompt[64], more[200];
       size_t n = mmix_tokenizer_encode(t, "Once upon a time", 1, 0, prompt, 64);
       size_t made = mmix_decoder_generate(d, prompt, n, NULL, more, 200);
       for (size_t i = 0; i < made; i++) fputs(mmix_tokenizer_piece(t, more[i], NULL), stdout);
   ==================================================================================== */

/* A medium among the text: T frames of Y x X tokens from `start` on (an image: T = 1), each frame followed by
   so many separator tokens. Text is what lies in no span; spans lie in order and apart. */
typedef struct mmix_span { size_t start, grid[3], separators; } mmix_span;

/* What a decoder reads: B sequences of L tokens with the same spans. */
typedef struct mmix_sequence {
    mmix_tensor *tokens;                     /* (B, L) int32; not read where features stand */
    const mmix_span *spans;
    size_t n_spans;
    /* (B, n, F): features of the spans' grid tokens, span after span, in raster order; NULL: `tokens` has
       their numbers */
    mmix_tensor *media;
} mmix_sequence;

/* How a mixer of decoder layers finds its tokens. */
typedef struct mmix_layout {
    const mmix_span *spans;
    size_t n_spans;
    /* int32 (L), with three axes of rotary positions (3, L); NULL: 0 …, after what the slot has seen */
    mmix_tensor *positions;
    /* (B, H, P, N): of Flex-MA, before the first token, or NULL; where to put that after the last, or NULL */
    mmix_tensor *initial_state, **final_state;
    /* NULL: a whole sequence. Else the next piece of one, which ends no span halfway: as mmix_mix_step, in
       `slot` and `slot + 1` */
    mmix_state *state;
    size_t slot;
} mmix_layout;

/* Attention with projections of their own: q (H·N, D), k (G·N, D), v (G·P, D), o (D, H·P), in this order. */
typedef struct mmix_projections {
    mmix_tensor *weight[4], *bias[4];        /* biases may be NULL */
    mmix_lora lora[4];
    size_t heads, kv_heads;                  /* H, G */
} mmix_projections;
/* q_proj.weight, …, o_proj.weight for N = P = width, with biases for q, k, v (bias 1), for all four (2), or
   none. 0, or -1. */
MMIXDEF int mmix_projections_init(mmix_projections *layer, mmix_params *p, const char *prefix, size_t D,
                                  size_t heads, size_t kv_heads, size_t width, int bias);
/* Causal softmax attention: x (B, L, D) → (B, L, D), plus residual unless that is NULL. rope NULL: none. */
MMIXDEF mmix_tensor *mmix_causal_attention(mmix_ctx *m, const mmix_projections *layer, mmix_tensor *x,
                                           mmix_tensor *residual, const mmix_rope_options *rope,
                                           const mmix_layout *layout);

enum { MMIX_BRANCH_BOTH, MMIX_BRANCH_FLEX, MMIX_BRANCH_SWIN };                     /* .branches */
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
    mmix_rope_options rope;                  /* of Local-Swin; theta 0: none */
} mmix_mmate_layer;
/* Adds flex.q_proj.weight, …, swin.…, branch_gate.… to p; options NULL: the defaults. 0, or -1. */
MMIXDEF int mmix_mmate_init(mmix_mmate_layer *layer, mmix_params *p, const char *prefix, size_t D,
                            size_t heads, size_t kv_heads, size_t width, size_t index, int bias,
                            const mmix_mmate_options *options);
/* x (B, L, D) → (B, L, D), plus residual unless that is NULL; layout NULL: text alone. */
MMIXDEF mmix_tensor *mmix_mmate(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                mmix_tensor *residual, const mmix_layout *layout);
/* One branch of it alone, whatever the options say of branches. */
MMIXDEF mmix_tensor *mmix_flex_ma(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                  mmix_tensor *residual, const mmix_layout *layout);
/* The other one; tokens that take no part get 0, without o_proj's bias. */
MMIXDEF mmix_tensor *mmix_local_swin(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                     mmix_tensor *residual, const mmix_layout *layout);
/* M (B, H, L, L) of a branch, y = M v for each head before o_proj (and without output_gate and norm), for
   looking: not recorded. */
MMIXDEF mmix_tensor *mmix_flex_ma_matrix(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                         const mmix_layout *layout);
/* The same of Local-Swin: rows of tokens that take no part are 0. */
MMIXDEF mmix_tensor *mmix_local_swin_matrix(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                            const mmix_layout *layout);

enum { MMIX_DECODER_ATTENTION, MMIX_DECODER_MMATE };                               /* .mixer */
typedef struct mmix_decoder_config {
    int mixer;
    size_t vocabulary, dim, depth, ffn;      /* K, D, layers, F of SwiGLU */
    size_t heads, kv_heads, head_dim;        /* kv_heads 0: heads; head_dim 0: dim / heads */
    double eps;                              /* of the norms; 0: 1e-5 */
    mmix_rope_options rope;                  /* theta 0: 10000 */
    int bias;                                /* 1: q, k and v have biases; 2: o, too */
    int tied;                                /* 1: the classifier is the embedding */
    /* F of media features, which a two-layer MLP (GELU) brings to D; 0: no media */
    size_t media;
    mmix_mmate_options mmate;
} mmix_decoder_config;

typedef struct mmix_decoder mmix_decoder;
/* A decoder with random values from the context's seed; NULL on error. */
MMIXDEF mmix_decoder *mmix_decoder_create(mmix_ctx *m, mmix_decoder_config config);
MMIXDEF void mmix_decoder_destroy(mmix_decoder *d);
MMIXDEF const mmix_decoder_config *mmix_decoder_config_of(const mmix_decoder *d);
/* Names are those of Hugging Face's Llama and Qwen2 (model.layers.0.self_attn.q_proj.weight, …). */
MMIXDEF mmix_params *mmix_decoder_params(mmix_decoder *d);
/* From a file: one of mmix_decoder_save; llama2.c's .bin; or Hugging Face's .safetensors of a Llama or Qwen2
   with its config.json in the same folder. NULL on error. */
MMIXDEF mmix_decoder *mmix_decoder_open(mmix_ctx *m, const char *path);
/* llama2.c's format from memory (Karpathy 2023): 7 int32, then float32 weights. */
MMIXDEF mmix_decoder *mmix_decoder_from_llama2c(mmix_ctx *m, const char *name, const void *bytes,
                                                size_t size);
/* Writes parameters, adapters merged, and config as .safetensors. 0, or -1. */
MMIXDEF int mmix_decoder_save(const mmix_decoder *d, const char *path);

typedef struct mmix_decoder_options {
    /* NULL, or `depth` places each: for the outputs of the layers' mixers (B, L, D), of the layers, and of
       the norms before the mixers */
    mmix_tensor **mixed, **outputs, **normed;
    /* NULL, or what each layer reads in place of the one before it; NULL there: as usual */
    mmix_tensor **inputs;
} mmix_decoder_options;
/* The tokens after the last norm, (B, L, D); options NULL: none. */
MMIXDEF mmix_tensor *mmix_decoder_forward(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                          const mmix_decoder_options *options);
/* (…, D) → (…, K) */
MMIXDEF mmix_tensor *mmix_decoder_logits(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *hidden);
/* M (B, H, L, L) of one layer: attention's, or the sum of the branches', each weighted by the gate if there
   is one. Not recorded. */
MMIXDEF mmix_tensor *mmix_decoder_matrix(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                         size_t layer);

/* What a decoder remembers of the tokens before: with attention keys and values of all, with M-MATE states of
   one size (and the last text_window keys). */
typedef struct mmix_decoder_state mmix_decoder_state;
/* Of no tokens yet; lives on its own, but not longer than d. NULL on error. */
MMIXDEF mmix_decoder_state *mmix_decoder_state_create(const mmix_decoder *d);
MMIXDEF void mmix_decoder_state_destroy(mmix_decoder_state *s);
/* The next token is the first again. */
MMIXDEF void mmix_decoder_state_clear(mmix_decoder_state *s);
/* A second one with the same content; NULL on error. */
MMIXDEF mmix_decoder_state *mmix_decoder_state_copy(const mmix_decoder_state *s);
MMIXDEF size_t mmix_decoder_state_tokens(const mmix_decoder_state *s);
MMIXDEF size_t mmix_decoder_state_bytes(const mmix_decoder_state *s);
/* Reads the next tokens, one or many (a span is in one piece, its start counted from the piece's first
   token); the logits (B, K) after the last of them. Not recorded. After an error clear the state or go on
   from a copy. */
MMIXDEF mmix_tensor *mmix_decoder_step(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *piece,
                                       mmix_decoder_state *s);

/* How the next token is drawn: temperature 0: the largest logit; else from softmax(logits / temperature), of
   which only the likeliest tokens with together `top_p` are kept (0: all). Numbers from the context's seed,
   `stream` and the token's place. */
typedef struct mmix_sampling {
    double temperature, top_p;
    uint64_t stream;
    int32_t stop;                            /* the last token to make, none if 0 */
} mmix_sampling;
/* One token from logits (K); place: its number in the sequence. 0 on error, as after a chain of calls that
   ended in logits of NULL. */
MMIXDEF int32_t mmix_sample(mmix_ctx *m, const mmix_real *logits, size_t K, const mmix_sampling *sampling,
                            uint64_t place);
/* Continues `prompt` (n tokens of text) by at most `count` tokens, the stop token included; returns how many,
   0 after an error. sampling NULL: the largest logit, no stop. Calls mmix_reset. */
MMIXDEF size_t mmix_decoder_generate(const mmix_decoder *d, const int32_t *prompt, size_t n,
                                     const mmix_sampling *sampling, int32_t *tokens, size_t count);
/* The same from a sequence (B, L) with media, its rows in step memory: tokens (B, count); a row that stopped
   is filled with the stop token. Returns the longest row's number of tokens. Does not reset. */
MMIXDEF size_t mmix_decoder_continue(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                     const mmix_sampling *sampling, int32_t *tokens, size_t count);

enum { MMIX_LORA_FFN = 1, MMIX_LORA_MIXER = 2 };                                   /* targets */
/* Low-rank adapters (LoRA, Hu et al. 2021) beside the matrices of the layers' SwiGLU, of their mixers, or
   both: A uniform as in a linear layer, B = 0. They are parameters of a list of their own. 0, or -1. */
MMIXDEF int mmix_decoder_lora(mmix_decoder *d, size_t rank, double alpha, int targets);
/* NULL without adapters. */
MMIXDEF mmix_params *mmix_decoder_adapters(mmix_decoder *d);
/* Adds the adapters to their matrices and drops them; not while a mmix_distill trains them. 0, or -1. */
MMIXDEF int mmix_decoder_merge(mmix_decoder *d);

typedef struct mmix_tokenizer mmix_tokenizer;
/* llama2.c's tokenizer file, or its bytes: pieces with scores, joined pair by pair. NULL on error. */
MMIXDEF mmix_tokenizer *mmix_tokenizer_load(mmix_ctx *m, const char *path);
MMIXDEF mmix_tokenizer *mmix_tokenizer_from(mmix_ctx *m, const char *name, const void *bytes, size_t size);
MMIXDEF void mmix_tokenizer_destroy(mmix_tokenizer *t);
MMIXDEF size_t mmix_tokenizer_count(const mmix_tokenizer *t);
/* Tokens of a UTF-8 text, with token 1 before and 2 after it if asked: how many there are, of which the first
   `room` are written; 0 after an error. */
MMIXDEF size_t mmix_tokenizer_encode(const mmix_tokenizer *t, const char *text, int begin, int end,
                                     int32_t *tokens, size_t room);
/* The bytes of a token, terminated by 0; *length (or NULL) for bytes that are 0 themselves. After token 1 a
   text drops the first space: that is the caller's. "" for a number that is no token. */
MMIXDEF const char *mmix_tokenizer_piece(const mmix_tokenizer *t, int32_t token, size_t *length);

/* ==== >>api-metrics ==================================================================
   what features are worth: maps, Binary-AUC, k-NN, PCA

   Plain row-major arrays in; results lie in step memory. Functions that return int return 0, or -1 with a
   message and a zeroed result. Nothing here is recorded.
   ==================================================================================== */

enum { MMIX_MAP_COSINE, MMIX_MAP_DOT };      /* mmix_map_options.similarity */

typedef struct mmix_map_options {
    int similarity;
    /* For mmix_vision_map: the rows of features.tokens that are the query, by position; of several
       (registers) the mean. NULL: the class token. */
    const size_t *positions;
    size_t n_positions;
    /* For mmix_feature_map: what the caller says that query and patches are ("register 3", "block 2"). */
    const char *token, *layer;
} mmix_map_options;
typedef struct mmix_map {
    mmix_real *similarity;                   /* (B, gh, gw): of the query with each patch */
    mmix_real *scaled;                       /* (B, gh, gw): each image's least → 0, largest → 1 */
    mmix_real *map;                          /* (B, h, w): scaled, bilinear */
    size_t B, grid_h, grid_w, h, w;
    char how[320];                           /* in words: layer, token, similarity, scaling */
} mmix_map;
/* Similarity of the mean of the rows of query (queries, D) with each row of patches (gh·gw, D). One image. */
MMIXDEF int mmix_feature_map(mmix_ctx *m, const mmix_map_options *options, const mmix_real *query,
                             size_t queries, const mmix_real *patches, size_t gh, size_t gw, size_t D,
                             size_t h, size_t w, mmix_map *result);
/* The same for all images of a mmix_vision_forward: class token, or tokens by position, with the patches. */
MMIXDEF int mmix_vision_map(mmix_ctx *m, const mmix_map_options *options, const mmix_features *features,
                            size_t h, size_t w, mmix_map *result);

typedef struct mmix_auc_options {
    size_t thresholds;                       /* 0: every distinct value of the map (exact). T ≥ 2: the T
                                                thresholds 1 - k/(T-1), the map scaled to [0, 1] first */
    int32_t void_label;                      /* pixels of this label are left out; 0: none are */
    size_t map_h, map_w;                     /* size of a map; 0: that of the mask. Another compares on the
                                                token grid: the mask is averaged over each cell by area, and a
                                                share s counts s as foreground, 1 - s as background */
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
/* How well a map tells foreground from background: the area under its ROC curve. map (images, map_h, map_w);
   mask (images, h, w) of labels: 0 background, all others foreground. An image without foreground or
   background is an error that names it; pooled, only all together need both. */
MMIXDEF int mmix_binary_auc(mmix_ctx *m, const mmix_auc_options *options, const mmix_real *map,
                            const int32_t *mask, size_t images, size_t h, size_t w, mmix_auc *result);
/* Vertical averaging (Fawcett 2006): adds to tpr[i], i < points, the curve's rate at fpr i/(points-1), the
   upper end where it rises vertically. A curve of area < ½ is turned first, (1-fpr, 1-tpr), as `auc` is. Zero
   tpr before the first image; divide by their number after the last. */
MMIXDEF void mmix_roc_add(double *tpr, size_t points, const mmix_auc *roc);
/* |P ∩ F| / |P ∪ F| with P: map ≥ threshold, F: label ≠ 0, without pixels of void_label (0: none); 1 if both
   are empty. */
MMIXDEF int mmix_binary_iou(mmix_ctx *m, const mmix_real *map, const int32_t *mask, size_t count,
                            double threshold, int32_t void_label, double *iou);

typedef struct mmix_knn_options {
    size_t k;                                /* 0: 20; never more than there are train rows */
    double temperature;                      /* 0: 0.07; at least 0.002 */
} mmix_knn_options;
typedef struct mmix_knn_result {
    double *votes;                           /* (tests, classes) */
    int32_t *pred;                           /* (tests): the largest vote, the lowest label on a tie */
    double top1;                             /* share of right ones; 0 without test labels */
    double balanced;                         /* mean over the classes tested of their right shares */
} mmix_knn_result;
/* The k train rows of largest cosine (of equal ones the earlier) vote e^(cosine/temperature) for their label.
   train (trains, D), test (tests, D), labels 0 … classes-1; test_label may be NULL. */
MMIXDEF int mmix_knn(mmix_ctx *m, const mmix_knn_options *options, const mmix_real *train,
                     const int32_t *train_label, size_t trains, const mmix_real *test,
                     const int32_t *test_label, size_t tests, size_t D, size_t classes,
                     mmix_knn_result *result);

typedef struct mmix_pca_result {
    double *mean;                            /* (D) */
    double *components;                      /* (k, D): of length 1; the entry of largest size is positive */
    double *variance;                        /* (k): falling; divided by rows - 1 */
    double *projection;                      /* (rows, k): (x - mean) · component */
} mmix_pca_result;
/* The k directions in which x (rows, D) varies most; rows ≥ 2, k ≤ D. */
MMIXDEF int mmix_pca(mmix_ctx *m, const mmix_real *x, size_t rows, size_t D, size_t k,
                     mmix_pca_result *result);

typedef struct mmix_rank_options {
    size_t block;                            /* C: matrices are cut into C x C blocks (the last ones smaller);
                                                0: one block, in mmix_mix_rank ⌊L/2⌋ */
    double eps;                              /* 0: that of mmix_real, the noise in what it holds */
} mmix_rank_options;
typedef struct mmix_rank {
    size_t matrices, rows, cols, width;      /* blocks down and across; singular values of a block */
    /* (matrices, rows, cols): number of σ > max(height, width) eps σ₁; e^(entropy of σ/Σσ); Σσ²/σ₁². All 0
       for a block of zeros */
    double *numerical, *effective, *stable;
    double *singular;                        /* (matrices, rows, cols, width): σ, falling; zeros fill up */
} mmix_rank;
/* Ranks of the blocks of M (matrices, rows, cols), by singular values in double. */
MMIXDEF int mmix_rank_of(mmix_ctx *m, const mmix_rank_options *options, const mmix_real *M, size_t matrices,
                         size_t rows, size_t cols, mmix_rank *result);
/* The claims of arXiv 2511.18380 beside what is measured, for B x H matrices of n x n blocks:
   rank(M_IJ) ≤ rank(L_IJ) N for SSD and ≤ N for linear attention where I ≠ J (there, without a mask, where
   I = J, too), ≤ C for softmax attention and on a causal diagonal. */
typedef struct mmix_mixer_rank {
    size_t block;                            /* C */
    mmix_rank M, whole;                      /* of the blocks; of each whole matrix */
    double *decay;                           /* (B·H, n, n): numerical rank of L's blocks; NULL but for SSD */
    double *bound;                           /* (B·H, n, n): the bound; 0 for a block of zeros (a mask's) */
    /* (B·H): Σ of the diagonal blocks' ranks; of a block triangular M the whole rank is at least that */
    double *diagonal;
    double *joined;                          /* (B, n, n): rank of what the block adds to the layer's output,
                                                M_IJ x_J of all heads side by side, times out_projᵀ */
} mmix_mixer_rank;
/* out_proj (D, H·P), or NULL: without it. */
MMIXDEF int mmix_mix_rank(mmix_ctx *m, const mmix_rank_options *options, const mmix_mixer *mixer,
                          const mmix_tensor *out_proj, mmix_mixer_rank *result);
/* Frobenius distance of matrices of `count` numbers, ‖a - b‖ and ‖a - b‖/‖a‖, each (matrices) or NULL: a
   student's M against its teacher's. */
MMIXDEF void mmix_matrix_distance(const mmix_real *a, const mmix_real *b, size_t matrices, size_t count,
                                  double *distance, double *relative);
/* How local heads are: of M (matrices, L, L), tokens on a grid of gh x gw = L, the share of Σ|M_ij| where i
   and j are at most `radius` rows and columns apart, and the mean distance of i and j with weights |M_ij|, in
   tokens. Each (matrices) or NULL. */
MMIXDEF void mmix_head_reach(const mmix_real *M, size_t matrices, size_t gh, size_t gw, size_t radius,
                             double *share, double *distance);

enum { MMIX_POOL_CLS, MMIX_POOL_MEAN, MMIX_POOL_MAX, MMIX_POOL_CLS_MEAN, MMIX_POOL_CLS_MAX };
/* Feature vectors from tokens (B, L, D): the mean of the tokens at class_index; mean or maximum of all tokens
   but the special ones (class tokens, registers); or two of these joined. (B, D), (B, 2D) or NULL. */
MMIXDEF mmix_tensor *mmix_class_strategy(mmix_ctx *m, int strategy, const mmix_tensor *tokens,
                                         const size_t *class_index, size_t n_class,
                                         const size_t *special, size_t n_special);

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

/* start → base in equal steps over the first warmup_epochs · iters steps, both ends included; then
   base → final by half a cosine, which ends one after the last of epochs · iters steps. */
MMIXDEF double mmix_schedule_cosine(double base, double final, size_t epochs, size_t iters,
                                    size_t warmup_epochs, double start, size_t step);
/* warm → final in equal steps over warm_epochs epochs, then final. */
MMIXDEF double mmix_schedule_teacher_temp(double warm, double final, size_t warm_epochs, size_t epoch);
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
/* One step. `clip` > 0 scales each tensor's gradient by min(1, clip/(‖g‖ + 1e-6)); skip (count flags) or NULL
   leaves parameters out altogether: no decay, no moments, no step counted. Gradients are zeroed for the next
   step. Returns ‖all gradients‖ before clipping. After an error, as of a gradient that is not finite, 0, and
   nothing has changed. */
MMIXDEF double mmix_adamw_step(mmix_adamw_state *state, const mmix_adamw *options, double clip,
                               const unsigned char *skip);
/* teacher ← momentum teacher + (1 - momentum) student, name by name in the same order. 0, or -1 if the lists
   differ. */
MMIXDEF int mmix_ema(mmix_params *teacher, const mmix_params *student, double momentum);

typedef struct mmix_dino_config {
    mmix_vision_config vision;
    size_t head_hidden, head_bottleneck, prototypes, head_layers;
    mmix_augment augment;                    /* crops; see >>api-images */
    size_t batch, epochs;
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
} mmix_dino_config;
/* The paper's setting (ViT-S/16, 65,536 prototypes), and one for a few thousand small pictures (the paper's
   collapses there). */
MMIXDEF mmix_dino_config mmix_dino_default(void);
MMIXDEF mmix_dino_config mmix_dino_small_data(void);

typedef struct mmix_dino_stats {
    size_t step, steps, epoch;               /* this step (from 0), of how many */
    double loss, lr, weight_decay, momentum, gradient_norm;
    double teacher_entropy, teacher_kl_uniform, center_norm;     /* in nats; ln K is uniform */
    /* NULL, or in words what is wrong: a loss stuck at ln K, an entropy at 0 */
    const char *collapse;
} mmix_dino_stats;

typedef struct mmix_dino mmix_dino;
/* A run before its first step; NULL on error. */
MMIXDEF mmix_dino *mmix_dino_create(mmix_ctx *m, mmix_dino_config config);
MMIXDEF void mmix_dino_destroy(mmix_dino *d);
/* One step on a batch drawn from the `count` pictures, in an order drawn anew each epoch of config.iters
   steps: fewer pictures than these ask for are gone through again, of more the rest is left out. 1: go on, 0:
   the epochs are over (nothing was done), -1: mmix_error, and the run is as it was. Calls mmix_reset. stats
   may be NULL. */
MMIXDEF int mmix_dino_step(mmix_dino *d, const mmix_picture *pictures, size_t count, mmix_dino_stats *stats);
/* The same on crops that the caller made, in step memory: global (2B, 3, s, s) and local (n·B, 3, s', s') or
   NULL, crop after crop. config.iters must be set. The caller calls mmix_reset. */
MMIXDEF int mmix_dino_step_crops(mmix_dino *d, mmix_tensor *global, mmix_tensor *local,
                                 mmix_dino_stats *stats);
/* Parameters of the heads, by DINO's names (mlp.0.weight, …); the centre (K). */
MMIXDEF mmix_params *mmix_dino_head_params(mmix_dino *d, int teacher);
MMIXDEF mmix_real *mmix_dino_center(mmix_dino *d);
/* The backbones; the teacher is the one to use. They live as long as d. */
MMIXDEF mmix_vision *mmix_dino_teacher(mmix_dino *d);
MMIXDEF mmix_vision *mmix_dino_student(mmix_dino *d);
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
       while (mmix_distill_step(run, &batch, &stats) > 0) show(&stats);
   ==================================================================================== */

/* Mean of (student - teacher)² over the positions whose mask is not 0 and all features; over the mean of
   teacher² there, if relative; with four axes the mean over the first (layers). (B, L, D) or (layers, B, L,
   D); mask (B, L) int32 or NULL: all. Gradient for the student only. */
MMIXDEF mmix_tensor *mmix_kd_hidden(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_tensor *mask, int relative);
/* T² times the mean over those positions of Σ_k p_k (ln p_k - ln q_k), p = softmax(teacher/T), q =
   softmax(student/T); logits (B, L, K). Hinton et al. 2015. Gradient for the student only. */
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
       (cross-entropy on answers that the teacher decodes), L_sup (on the true ones) */
    double hidden, token, sequence, supervised;
    double temperature;                      /* T of L_tok */
    size_t steps, warmup;                    /* optimiser steps; the rate rises over the first of them */
    double lr, min_lr;                       /* then falls by half a cosine */
    double weight_decay, clip;
} mmix_stage;
#define MMIX_MAX_STAGES 8
typedef struct mmix_distill_config {
    mmix_stage stage[MMIX_MAX_STAGES];
    size_t stages;
    size_t step_tokens;                      /* answer tokens that make an optimiser step; 0: a call's */
    size_t lora_rank;
    double lora_alpha;
    int lora_targets;
    int calibrate;                           /* 1: mmix_linmu_calibrate on the first batch */
    int hidden_outputs;                      /* 1: L_hid compares the layers' outputs, not the mixers' */
    int teacher_inputs;                      /* 1: each student layer reads what the teacher's layer reads */
} mmix_distill_config;
/* The three stages: Flex-MA alone, L_hid + L_tok; both branches, the same; both and LoRA (rank 8, alpha 16,
   on SwiGLU), L_tok + L_seq + L_sup. 300 steps each at 1e-3, 1e-3 and 5e-4: these numbers, and λ = T = 1, are
   in no source. */
MMIXDEF mmix_distill_config mmix_linmu_stages(void);

/* Sequences with answers. target (B, L) int32: the token wanted after position i, or -1 where no answer is
   learned. */
typedef struct mmix_distill_batch {
    mmix_sequence input;
    mmix_tensor *target;
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
    size_t tokens;                           /* answer tokens */
    int updated;                             /* 1: the optimiser made a step */
} mmix_distill_stats;

typedef struct mmix_distill mmix_distill;
/* A run before its first step. Teacher and student stay the caller's and outlive it; a student is in one run
   at a time. Adapters that it has already are those of the run, in place of lora_…. A stage that has nothing
   to train (Flex-MA in a student of Local-Swin alone) is an error. NULL on error. */
MMIXDEF mmix_distill *mmix_distill_create(const mmix_decoder *teacher, mmix_decoder *student,
                                          mmix_distill_config config);
/* Adapters stay with the student: see mmix_decoder_merge. */
MMIXDEF void mmix_distill_destroy(mmix_distill *run);
/* Losses and gradients of one batch, and an optimiser step when enough tokens have come. 1: go on, 0: the
   stages are over (nothing was done), -1: mmix_error. The batch lies in step memory and is the caller's to
   reset; stats may be NULL. */
MMIXDEF int mmix_distill_step(mmix_distill *run, const mmix_distill_batch *batch, mmix_distill_stats *stats);
/* A batch's losses without learning: L_hid, L_tok and L_sup whatever their λ, L_seq where its is above 0;
   `loss` is their sum with the λ of the stage (of the last one, when all are over). 0, or -1. */
MMIXDEF int mmix_distill_losses(mmix_distill *run, const mmix_distill_batch *batch,
                                mmix_distill_stats *stats);
typedef int mmix_distill_next(void *user, mmix_ctx *m, uint64_t number, mmix_distill_batch *batch);
typedef int mmix_distill_show(void *user, const mmix_distill_stats *stats);
/* All stages: next fills the batch of call `number` (in step memory) and returns 0, or -1 to stop; show sees
   the stats and returns 0, or -1 to stop, and may be NULL. 0: finished, 1: stopped, -1: mmix_error. Calls
   mmix_reset. */
MMIXDEF int mmix_distill_run(mmix_distill *run, mmix_distill_next *next, mmix_distill_show *show, void *user);
/* The number of the next call, from 0 on: a resumed run goes on with it. */
MMIXDEF uint64_t mmix_distill_number(const mmix_distill *run);
/* What trains in the stage that comes next, a line each: "trained NAME (3, 4)" or "frozen NAME (3, 4)". In
   step memory; NULL on error. */
MMIXDEF const char *mmix_distill_table(const mmix_distill *run);
/* The whole run but the teacher: student, adapters, moments, stage and step, configs. A loaded run goes on
   bit for bit; with it *student, which is the caller's to destroy after the run. note as mmix_dino_save's. */
MMIXDEF int mmix_distill_save(const mmix_distill *run, const char *path, const char *note);
MMIXDEF mmix_distill *mmix_distill_load(const mmix_decoder *teacher, const char *path,
                                        mmix_decoder **student);
/* The note of a loaded run, "" if there is none; NULL for a new one. */
MMIXDEF const char *mmix_distill_note(const mmix_distill *run);

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

/* Around rooms where no time is spent (files, metrics, …): fewer passes, a tenth off the time to compile. */
#if defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__) && defined(__GNUC__) && !defined(__clang__)
#define MMIXI_COLD_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"O1\")")
#define MMIXI_COLD_END _Pragma("GCC pop_options")
#else
#define MMIXI_COLD_BEGIN
#define MMIXI_COLD_END
#endif

/* ==== >>errors & memory ==============================================================

   Lasting memory comes straight from the allocator. Step memory is one arena that ops fill from its two ends:
   what forward returns and keeps grows from the low end, gradients from the high end, and backward frees both
   as it leaves a node. What is freed at an end moves that end back; what is freed in the middle becomes a
   hole, which the next gradient of the same size takes (in a network of equal blocks that is nearly always
   possible). The arena grows by blocks while a step is new, and the reset after it makes one block of what
   was needed: a steady step neither allocates nor touches a fresh page.
   ==================================================================================== */

enum { MMIXI_ALIGN = 64, MMIXI_MAX_THREADS = 64 };
#ifdef MMIX_REGRESSION
enum { MMIXI_BLOCK = 256, MMIXI_HEADER_BLOCK = 256 };
#else
enum { MMIXI_BLOCK = 1 << 20, MMIXI_HEADER_BLOCK = 1 << 16 };
#endif

/* free: base + low … base + high */
typedef struct mmixi_block { char *base; size_t size, low, high; } mmixi_block;
typedef struct mmixi_hole { char *ptr; size_t size; } mmixi_hole;
typedef struct mmixi_arena {
    mmixi_block *block;
    /* current: the block that is being filled; least: bytes of a new one */
    size_t count, capacity, current, least;
    /* bytes outside the free middles, holes included, now and at most */
    size_t used, peak;
} mmixi_arena;

typedef struct mmixi_node { mmix_op_functions run; mmix_call call; } mmixi_node;
typedef struct mmixi_pool mmixi_pool;

struct mmix_ctx {
    mmix_allocator allocator;
    mmix_memory_use memory;
    char error[256];
    int error_kind;
    uint64_t seed;
    struct mmixi_kernels *k;                     /* the micro-kernels of this machine, see >>micro-kernels */
    mmix_op_functions table[MMIX_OP_COUNT];      /* the ops, see >>tensors & tape */
    void *table_user;                            /* mmix_kernel_user */
    mmixi_arena step, header;                    /* values and gradients; tensor structs and copied options */
    mmixi_hole *hole;
    size_t holes, hole_capacity;
    mmixi_node *node;                            /* the tape */
    size_t nodes, node_capacity;
    mmix_tensor *graded;                         /* leaves with a gradient in step memory, the latest first */
    int recording, in_backward;
    int again;                                   /* inside of a checkpoint's backward, which began at … */
    mmix_mark again_from;
    int lanes;                                   /* threads that work, the caller's included */
    int in_parallel;
    mmixi_pool *pool;
    void (*look)(void *user, mmix_ctx *m, const mmix_mixer *mixer);              /* mmix_mix_watch */
    void *look_user;
    void (*parallel_for)(void *user, size_t count, mmix_task *task, void *arg);
    void *parallel_user;
};

MMIXDEF const char *mmix_error(const mmix_ctx *m)
{
    if (!m) return "mmix_create: out of memory";
    return m->error_kind ? m->error : NULL;
}
MMIXDEF int mmix_error_kind(const mmix_ctx *m) { return m ? m->error_kind : MMIX_ERROR_MEMORY; }
MMIXDEF void mmix_error_clear(mmix_ctx *m) { m->error_kind = MMIX_OK; }

MMIXDEF int mmix_fail(mmix_ctx *m, int kind, const char *format, ...)
{
    if (m->error_kind == MMIX_OK) {
        va_list list;
        va_start(list, format);
        vsnprintf(m->error, sizeof m->error, format, list);
        va_end(list);
        m->error_kind = kind;
    }
    return -1;
}

enum { MMIXI_DEPTH_MAX = 1000 };                 /* blocks of a model */
/* A number of a config and where it has to lie. */
typedef struct mmixi_limit { const char *name; double value, low, high; } mmixi_limit;
static int mmixi_limits_check(mmix_ctx *m, const char *who, const mmixi_limit *limit, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(limit[i].value >= limit[i].low && limit[i].value <= limit[i].high))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s is %.10g, expected %.10g to %.10g", who,
                             limit[i].name, limit[i].value, limit[i].low, limit[i].high);
    return 0;
}

static int mmixi_mul_ok(size_t a, size_t b, size_t *out)
{
    if (b && a > SIZE_MAX / b) return 0;
    *out = a * b;
    return 1;
}
static size_t mmixi_min(size_t a, size_t b) { return a < b ? a : b; }
static size_t mmixi_max(size_t a, size_t b) { return a > b ? a : b; }
static size_t mmixi_ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
static size_t mmixi_round_up(size_t a, size_t b) { return mmixi_ceil_div(a, b) * b; }

static void mmixi_unpoison(void *p, size_t size)
{
#ifdef MMIXI_ASAN
    __asan_unpoison_memory_region(p, size);
#endif
    (void)p; (void)size;
}
static void mmixi_poison(void *p, size_t size)
{
#ifdef MMIX_REGRESSION
    mmixi_unpoison(p, size);                     /* parts of it may be poisoned already */
    memset(p, 0xff, size);                       /* every float becomes a NaN */
#endif
#ifdef MMIXI_ASAN
    __asan_poison_memory_region(p, size);
#endif
    (void)p; (void)size;
}

/* malloc; on Linux large blocks are offered pages of 2 MiB. The mixers walk over rows that lie pages apart,
   and looking up small pages costs them 3 to 15 % (Sapphire Rapids). */
static void *mmixi_malloc(void *user, size_t size)
{
    void *p = malloc(size);
    (void)user;
#ifdef MMIXI_HUGE
    if (p && size >= 4 * MMIXI_HUGE) {
        const size_t skip = (size_t)(0 - (uintptr_t)p) % MMIXI_HUGE;         /* to the first whole page */
        madvise((char *)p + skip, (size - skip) / MMIXI_HUGE * MMIXI_HUGE, MADV_HUGEPAGE);
    }
#endif
    return p;
}
static void mmixi_mfree(void *user, void *ptr, size_t size) { (void)user; (void)size; free(ptr); }

/* Lasting memory, aligned to a cache line; the byte before it holds the distance to what the allocator
   returned. */
static void *mmixi_alloc(mmix_ctx *m, size_t bytes)
{
    const mmix_allocator *a = &m->allocator;
    size_t size = bytes + MMIXI_ALIGN;
    unsigned char *raw = NULL, *p;
    if (size > bytes && (!a->count_limit || m->memory.allocations < a->count_limit)
        && (!a->byte_limit || (size <= a->byte_limit && m->memory.bytes <= a->byte_limit - size)))
        raw = (unsigned char *)a->alloc(a->user, size);
    if (!raw) {
        mmix_fail(m, MMIX_ERROR_MEMORY, "out of memory: %.0f bytes more, %.0f held", (double)bytes,
                  (double)m->memory.bytes);
        return NULL;
    }
    m->memory.allocations++;
    m->memory.bytes += size;
    if (m->memory.bytes > m->memory.peak) m->memory.peak = m->memory.bytes;
    p = raw + (MMIXI_ALIGN - (size_t)((uintptr_t)raw % MMIXI_ALIGN));
    p[-1] = (unsigned char)(p - raw);
    return p;
}

static void mmixi_free(mmix_ctx *m, void *ptr, size_t bytes)
{
    unsigned char *p = (unsigned char *)ptr;
    if (!p) return;
    m->memory.bytes -= bytes + MMIXI_ALIGN;
    m->allocator.free(m->allocator.user, p - p[-1], bytes + MMIXI_ALIGN);
}

/* Makes room for `need` elements of an array that grows by doubling; 0, or -1. */
static int mmixi_grow(mmix_ctx *m, void **array, size_t *capacity, size_t need, size_t element)
{
    size_t n = mmixi_max(need, *capacity ? 2 * *capacity : 8);
    void *bigger;
    if (need <= *capacity) return 0;
    bigger = mmixi_alloc(m, n * element);
    if (!bigger) return -1;
    if (*array) memcpy(bigger, *array, *capacity * element);
    mmixi_free(m, *array, *capacity * element);
    *array = bigger;
    *capacity = n;
    return 0;
}

MMIXDEF mmix_memory_use mmix_memory(const mmix_ctx *m) { return m->memory; }
MMIXDEF void mmix_memory_peak_clear(mmix_ctx *m) { m->memory.peak = m->memory.bytes; }

/* ---- the arena ---- */

/* Frees the blocks from `first` on; returns their bytes. */
static size_t mmixi_arena_cut(mmix_ctx *m, mmixi_arena *a, size_t first)
{
    size_t bytes = 0;
    for (; a->count > first; bytes += a->block[a->count].size) {
        const mmixi_block *b = &a->block[--a->count];
        mmixi_unpoison(b->base, b->size);
        mmixi_free(m, b->base, b->size);
    }
    a->current = mmixi_min(a->current, a->count ? a->count - 1 : 0);
    return bytes;
}
static void mmixi_arena_free(mmix_ctx *m, mmixi_arena *a) { mmixi_arena_cut(m, a, 0); }

static int mmixi_arena_add(mmix_ctx *m, mmixi_arena *a, size_t bytes)
{
    mmixi_block b;
    void *array = a->block;
    if (mmixi_grow(m, &array, &a->capacity, a->count + 1, sizeof *a->block)) return -1;
    a->block = (mmixi_block *)array;
    b.base = (char *)mmixi_alloc(m, bytes);
    if (!b.base) return -1;
    b.size = b.high = bytes;
    b.low = 0;
    mmixi_poison(b.base, bytes);
    a->block[a->count++] = b;
    return 0;
}

static size_t mmixi_block_left(const mmixi_block *b) { return b->high - b->low; }

/* `bytes` (a multiple of MMIXI_ALIGN) from the low or the high end; NULL on error. Empty blocks that are too
   small give way to one that holds them all: else a first pass would touch much more than it needs. */
static void *mmixi_arena_take(mmix_ctx *m, mmixi_arena *a, size_t bytes, int high)
{
    mmixi_block *b;
    char *p;
    while (a->current >= a->count || mmixi_block_left(&a->block[a->current]) < bytes) {
        size_t last = a->count, grown = 0;
        while (last > a->current + 1 && mmixi_block_left(&a->block[last - 1]) == a->block[last - 1].size)
            last--;
        if (a->current + 1 < a->count) {
            if (last > a->current + 1 || mmixi_block_left(&a->block[last]) >= bytes) {
                a->current++;
                continue;
            }
            grown = mmixi_arena_cut(m, a, last);
        }
#ifdef MMIX_REGRESSION
        grown = bytes < a->least ? a->least - bytes : 0;
#else
        /* generous while small: what is not touched costs nothing */
        grown = mmixi_max(mmixi_max(grown, a->least),
                          mmixi_round_up(mmixi_min(a->peak, a->peak / 2 + (4u << 20)), MMIXI_ALIGN));
#endif
        if (mmixi_arena_add(m, a, bytes + grown)) return NULL;
        a->current = a->count - 1;
    }
    b = &a->block[a->current];
    if (high) p = b->base + (b->high -= bytes);
    else {
        p = b->base + b->low;
        b->low += bytes;
    }
    a->used += bytes;
    if (a->used > a->peak) a->peak = a->used;
    mmixi_unpoison(p, bytes);
    return p;
}

static size_t mmixi_step_size(size_t bytes) { return mmixi_round_up(mmixi_max(bytes, 1), MMIXI_ALIGN); }

static void *mmixi_step(mmix_ctx *m, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        mmix_fail(m, MMIX_ERROR_MEMORY, "out of memory: a tensor of more than half the address space");
        return NULL;
    }
    return mmixi_arena_take(m, &m->step, mmixi_step_size(bytes), 0);
}

/* Gradient memory: a hole of the right size, or the high end. */
static void *mmixi_step_high(mmix_ctx *m, size_t bytes)
{
    size_t size = mmixi_step_size(bytes);
    for (size_t i = m->holes; i-- > 0;)
        if (m->hole[i].size == size) {
            void *p = m->hole[i].ptr;
            m->hole[i] = m->hole[--m->holes];
            mmixi_unpoison(p, size);
            return p;
        }
    return mmixi_arena_take(m, &m->step, size, 1);
}

/* Nobody may look between the two ends. */
static void mmixi_poison_free(mmixi_block *b) { mmixi_poison(b->base + b->low, b->high - b->low); }

/* Whether p lies in what a checkpoint's backward has taken from the low end, all of which is dropped after
   it: no gradient may move in there. */
static int mmixi_drops_again(const mmix_ctx *m, const mmixi_block *b, const char *p)
{
    const size_t i = (size_t)(b - m->step.block);
    return m->again && p < b->base + b->low
        && (i > m->again_from.block || (i == m->again_from.block && p >= b->base + m->again_from.used));
}

/* Gives back step memory before the reset. Only a hint: what can't be noted is free after the reset. */
static void mmixi_step_free(mmix_ctx *m, void *ptr, size_t bytes)
{
    char *p = (char *)ptr;
    size_t size = mmixi_step_size(bytes);
    mmixi_block *b = m->step.block;
    if (!p) return;
    while (p < b->base || p >= b->base + b->size) b++;              /* the block that it lies in */
    mmixi_poison(p, size);
    for (;;) {
        size_t i;
        if (p + size == b->base + b->low) b->low -= size;
        else if (p == b->base + b->high) b->high += size;
        else break;
        m->step.used -= size;
        if (m->again) return;
        for (i = 0; i < m->holes; i++)                              /* a hole may lie at the new end */
            if (m->hole[i].ptr + m->hole[i].size == b->base + b->low || m->hole[i].ptr == b->base + b->high)
                break;
        if (i == m->holes) return;
        p = m->hole[i].ptr;
        size = m->hole[i].size;
        m->hole[i] = m->hole[--m->holes];
    }
    if (m->holes < m->hole_capacity && !mmixi_drops_again(m, b, p)) {
        m->hole[m->holes].ptr = p;
        m->hole[m->holes++].size = size;
    }
}

static void *mmixi_header(mmix_ctx *m, size_t bytes)
{
    void *p = mmixi_arena_take(m, &m->header, mmixi_step_size(bytes), 0);
    if (p) memset(p, 0, bytes);
    return p;
}

MMIXDEF mmix_mark mmix_mark_here(mmix_ctx *m)
{
    mmix_mark mark;
    memset(&mark, 0, sizeof mark);
    mark.block = m->step.current;
    mark.header_block = m->header.current;
    mark.nodes = m->nodes;
    mark.graded = m->graded;
    mark.high = (size_t)-1;                      /* before there is a block: all of the first one */
    if (m->step.count) {
        mark.used = m->step.block[mark.block].low;
        mark.high = m->step.block[mark.block].high;
    }
    if (m->header.count) mark.header_used = m->header.block[mark.header_block].low;
    return mark;
}

/* Takes the low end back to (block, used) and, where nothing will ask for gradients any more, the high end
   too. */
static void mmixi_arena_back(mmixi_arena *a, size_t block, size_t used, size_t high, int drop_high)
{
    if (!a->count) return;
    for (size_t i = a->count; i-- > block;) {
        mmixi_block *b = &a->block[i];
        size_t low = i == block ? used : 0, top = b->high;
        if (drop_high) top = i == block ? mmixi_min(high, b->size) : b->size;
        if (low < b->low) mmixi_poison(b->base + low, b->low - low);
        if (top > b->high) mmixi_poison(b->base + b->high, top - b->high);
        a->used -= (b->low - low) + (top - b->high);
        b->low = low;
        b->high = top;
    }
    a->current = block;
}

static void mmixi_drop_gradients(mmix_ctx *m, mmix_tensor *until);         /* with the tape */

/* The low end goes back, and the high end too if it is to be dropped. During a backward pass gradients, their
   headers and the holes stay. */
static void mmixi_rewind(mmix_ctx *m, mmix_mark mark, int drop_high)
{
    int outside = !m->in_backward;
    size_t kept = 0;
    if (outside) mmixi_drop_gradients(m, mark.graded);
    /* a hole that lies in what is dropped goes too */
    for (size_t i = 0; outside && i < m->holes; i++)
        for (size_t j = 0; j <= mark.block && j < m->step.count; j++) {
            const mmixi_block *b = &m->step.block[j];
            size_t at = (size_t)((uintptr_t)m->hole[i].ptr - (uintptr_t)b->base);     /* huge if before */
            size_t low = j == mark.block ? mark.used : b->low,
                high = j == mark.block && drop_high ? mark.high : b->high;
            if (at < b->size && (at < low || at >= high)) m->hole[kept++] = m->hole[i];
        }
    if (outside) m->holes = kept;
    m->nodes = mmixi_min(m->nodes, mark.nodes);
    mmixi_arena_back(&m->step, mark.block, mark.used, mark.high, drop_high);
    if (outside) mmixi_arena_back(&m->header, mark.header_block, mark.header_used, (size_t)-1, 0);
}
MMIXDEF void mmix_rewind(mmix_ctx *m, mmix_mark mark) { mmixi_rewind(m, mark, !m->in_backward); }

MMIXDEF void mmix_reset(mmix_ctx *m)
{
    mmix_mark start;
    if (!m) return;
    memset(&start, 0, sizeof start);
    start.high = (size_t)-1;
    m->holes = 0;
    mmix_rewind(m, start);
    m->step.used = 0;
#ifndef MMIX_REGRESSION
    if (m->step.count > 1) {                     /* one block of what this step needed */
        size_t need = mmixi_round_up(m->step.peak, MMIXI_BLOCK);
        int kind = m->error_kind;
        mmixi_arena_free(m, &m->step);
        /* the next op tries again */
        if (mmixi_arena_add(m, &m->step, need) && !kind) mmix_error_clear(m);
    }
#endif
    m->step.peak = 0;
}

/* ---- whole files ----
   What is written goes to PATH.tmp, which mmixi_file_end brings to its place: whoever reads PATH meanwhile
   sees the old file or the whole new one. */

typedef struct mmixi_file { FILE *f; const char *who, *path; char *temporary; int bad; } mmixi_file;
/* A file in memory: `size` + 1 bytes of lasting memory, or mapped. */
typedef struct mmixi_file_bytes { unsigned char *bytes; size_t size; int mapped; } mmixi_file_bytes;

static int mmixi_path_ok(mmix_ctx *m, const char *who, const char *path)
{
    if (mmix_error(m)) return 0;
    if (!path) mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a path, found NULL", who);
#ifdef MMIX_NO_STDIO
    mmix_fail(m, MMIX_ERROR_FILE, "%s: %s: files were compiled out (MMIX_NO_STDIO)", who, path);
#endif
    return !mmix_error(m);
}

#ifdef MMIX_NO_STDIO

static unsigned char *mmixi_file_read(mmix_ctx *m, const char *who, const char *path, size_t *size)
{
    *size = 0;
    mmixi_path_ok(m, who, path);
    return NULL;
}
static int mmixi_file_begin(mmix_ctx *m, mmixi_file *f, const char *who, const char *path)
{
    (void)f;
    mmixi_path_ok(m, who, path);
    return -1;
}
static void mmixi_file_write(mmixi_file *f, const void *bytes, size_t n) { (void)f, (void)bytes, (void)n; }
static int mmixi_file_end(mmix_ctx *m, mmixi_file *f) { (void)m, (void)f; return -1; }

#else

/* The whole file in lasting memory, one byte longer than *size; NULL after mmix_fail. */
static unsigned char *mmixi_file_read(mmix_ctx *m, const char *who, const char *path, size_t *size)
{
    unsigned char *bytes = NULL;
    uint64_t length = 0;
    FILE *f;
    *size = 0;
    if (!mmixi_path_ok(m, who, path)) return NULL;
    f = fopen(path, "rb");
    if (!f) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    int ok = getc(f) != EOF || !ferror(f);                        /* a folder opens, but does not read */
#ifdef _WIN32
    ok = ok && !_fseeki64(f, 0, SEEK_END);
    length = ok ? (uint64_t)_ftelli64(f) : 0;
#else
    ok = ok && !fseek(f, 0, SEEK_END);                            /* long has the bits of size_t */
    length = ok ? (uint64_t)ftell(f) : 0;
#endif
    ok = ok && length < SIZE_MAX && length <= INT64_MAX && !fseek(f, 0, SEEK_SET);
    if (!ok) mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a file that can be read, found another thing", path);
    else bytes = (unsigned char *)mmixi_alloc(m, (size_t)length + 1);
    if (bytes && fread(bytes, 1, (size_t)length, f) != (size_t)length) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected %zu bytes, found an error before", path, (size_t)length);
        mmixi_free(m, bytes, (size_t)length + 1);
        bytes = NULL;
    }
    fclose(f);
    *size = (size_t)length;
    return bytes;
}

/* Begins a file. 0, or -1 after mmix_fail; path must last until the end. */
static int mmixi_file_begin(mmix_ctx *m, mmixi_file *f, const char *who, const char *path)
{
    size_t length;
    if (!mmixi_path_ok(m, who, path)) return -1;
    length = strlen(path);
    f->who = who;
    f->path = path;
    f->bad = 0;
    f->temporary = (char *)mmixi_alloc(m, length + 5);
    if (!f->temporary) return -1;
    memcpy(f->temporary, path, length);
    memcpy(f->temporary + length, ".tmp", 5);
    errno = 0;
    f->f = fopen(f->temporary, "wb");
    if (f->f) return 0;
    mmix_fail(m, MMIX_ERROR_FILE, "%s: %s: cannot be written: %s", who, f->temporary, strerror(errno));
    mmixi_free(m, f->temporary, length + 5);
    return -1;
}
static void mmixi_file_write(mmixi_file *f, const void *bytes, size_t n)
{
    f->bad = f->bad || fwrite(bytes, 1, n, f->f) != n;
}
/* Ends it: 0, or -1 if anything went wrong since the beginning; then nothing is left of it. */
static int mmixi_file_end(mmix_ctx *m, mmixi_file *f)
{
    int bad = f->bad || fflush(f->f);
    bad = fclose(f->f) || bad;
#ifdef _WIN32
    if (!bad) remove(f->path);                   /* rename replaces nothing there */
#endif
    bad = bad || rename(f->temporary, f->path);
    if (bad) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: %s: cannot be written by way of %s: %s", f->who, f->path,
                  f->temporary, errno ? strerror(errno) : "no reason given");
        remove(f->temporary);
    }
    mmixi_free(m, f->temporary, strlen(f->path) + 5);
    return bad ? -1 : 0;
}

#endif

/* ==== >>random =======================================================================
   Philox 4x32-10: ten rounds of multiply and swap over (counter, key)

   The counter is (element, step, purpose), the key the seed. Salmon, Moraes, Dror & Shaw 2011, "Parallel
   random numbers: as easy as 1, 2, 3"; the test holds its known answers.
   ==================================================================================== */

/* Purposes of the library itself; a user's are below. */
enum { MMIXI_RANDOM_RANDN = 0x8000, MMIXI_RANDOM_INIT, MMIXI_RANDOM_DROP_PATH, MMIXI_RANDOM_EPOCH,
      MMIXI_RANDOM_AUGMENT, MMIXI_RANDOM_SAMPLE };

static void mmixi_philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

static void mmixi_random(uint64_t seed, uint32_t purpose, uint64_t step, uint64_t element, uint32_t c[4])
{
    c[0] = (uint32_t)element;
    c[1] = (uint32_t)(element >> 32);
    c[2] = (uint32_t)step;
    c[3] = (uint32_t)(step >> 32) ^ (purpose << 16);
    mmixi_philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
}

static double mmixi_unit(uint32_t high, uint32_t low)            /* 53 bits in [0, 1) */
{
    return ((double)(high >> 5) * 67108864.0 + (double)(low >> 6)) / 9007199254740992.0;
}

MMIXDEF uint64_t mmix_seed(const mmix_ctx *m) { return m->seed; }
MMIXDEF void mmix_seed_set(mmix_ctx *m, uint64_t seed) { m->seed = seed; }

MMIXDEF uint32_t mmix_random_u32(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element)
{
    uint32_t c[4];
    mmixi_random(m->seed, purpose, step, element, c);
    return c[0];
}

MMIXDEF double mmix_random_uniform(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element)
{
    uint32_t c[4];
    mmixi_random(m->seed, purpose, step, element, c);
    return mmixi_unit(c[0], c[1]);
}

static double mmixi_log(double x);
static double mmixi_cos(double x);

/* Box & Muller 1958: √(-2 ln u) cos(2πv) */
MMIXDEF double mmix_random_normal(const mmix_ctx *m, uint32_t purpose, uint64_t step, uint64_t element)
{
    uint32_t c[4];
    mmixi_random(m->seed, purpose, step, element, c);
    return sqrt(-2 * mmixi_log(1 - mmixi_unit(c[0], c[1]))) * mmixi_cos(6.283185307179586 * mmixi_unit(c[2],
            c[3]));
}

/* ==== >>threads ======================================================================
   a pool of lanes that pull task numbers from one counter

   mmixi_parallel(m, count, task, arg) runs task(arg, i, lane) for every i < count. Which lane runs which i is
   left to chance, so a task's arithmetic depends on i alone and its scratch on `lane` alone: the result is
   the same for any number of threads. Idle workers spin for some ten microseconds, then sleep; a caller waits
   for tasks, not for workers, so a worker that the system has parked holds nobody up.

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
/* Subnormals count as 0 from here on (or no longer do); returns what mmixi_flush_end takes. */
static void mmixi_flush_end(uint64_t old) { MMIXI_FLOATS_SET(old); }
static uint64_t mmixi_flush(int on)
{
    const uint64_t bits = MMIXI_FLUSH;
    uint64_t old;
    MMIXI_FLOATS_GET(old);
    mmixi_flush_end(on ? old | bits : old & ~bits);
    return old;
}

typedef void mmixi_lane_task(void *arg, size_t index, size_t lane);

static size_t mmixi_lanes(const mmix_ctx *m) { return (size_t)m->lanes; }

/* Tasks first, first + step, … in this thread. */
static void mmixi_run_tasks(size_t first, size_t count, size_t step, size_t lane, mmixi_lane_task *task, void *arg)
{
    const uint64_t old = mmixi_flush(1);
    for (size_t i = first; i < count; i += step) task(arg, i, lane);
    mmixi_flush_end(old);
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

/* One job at a time. The ticket holds (job number << 32 | next task): a worker claims a task by raising it,
   which fails if the job has changed meanwhile, so that a late worker can never run an old task with a new
   argument. Before a job's count, task and argument change, the ticket is closed: it gets a number of its own
   and a task below no count. */
struct mmixi_pool {
    /* task and arg as integers: a late worker may read them while they change */
    mmixi_atomic ticket, done, count, task, arg, quit;
    mmixi_mutex mutex;
    mmixi_cond work, finished;
    mmix_options options;
    long process;                                /* of the threads; a forked child has none of them */
    int workers;
    mmixi_worker worker[MMIXI_MAX_THREADS];
};

static void mmixi_pool_wake(mmixi_pool *p, mmixi_cond *cond)
{
    MMIXI_LOCK(&p->mutex);
    MMIXI_WAKE(cond);
    MMIXI_UNLOCK(&p->mutex);
}

static void mmixi_pool_work(mmixi_pool *p, long long job, size_t lane)
{
    for (;;) {
        const long long ticket = MMIXI_GET(&p->ticket), count = MMIXI_GET(&p->count);
        const long long task = MMIXI_GET(&p->task), arg = MMIXI_GET(&p->arg), i = ticket & 0xffffffff;
        if (ticket >> 32 != job || i >= count) return;
        if (!MMIXI_SWAP(&p->ticket, ticket, ticket + 1)) continue;
        ((mmixi_lane_task *)(intptr_t)task)((void *)(intptr_t)arg, (size_t)i, lane);
        if (MMIXI_NEXT(&p->done) == count) mmixi_pool_wake(p, &p->finished);
    }
}

static int mmixi_pool_idle(mmixi_pool *p, long long job)
{
    return MMIXI_GET(&p->ticket) >> 32 == job && !MMIXI_GET(&p->quit);
}
MMIXI_THREAD_MAIN mmixi_pool_main(void *arg)
{
    const mmixi_worker *w = (const mmixi_worker *)arg;
    mmixi_pool *p = w->pool;
    if (p->options.thread_start) p->options.thread_start(p->options.thread_user, (int)w->lane);
    mmixi_flush(1);
    for (long long job = 0;;) {
        for (int spin = 0; spin < MMIXI_SPINS && mmixi_pool_idle(p, job); spin++) MMIXI_PAUSE();
        if (mmixi_pool_idle(p, job)) {
            MMIXI_LOCK(&p->mutex);
            while (mmixi_pool_idle(p, job)) MMIXI_WAIT(&p->work, &p->mutex);
            MMIXI_UNLOCK(&p->mutex);
        }
        if (MMIXI_GET(&p->quit)) return 0;
        job = MMIXI_GET(&p->ticket) >> 32;
        mmixi_pool_work(p, job, w->lane);
    }
}

static void mmixi_pool_run(mmixi_pool *p, size_t tasks, mmixi_lane_task *task, void *arg)
{
    const long long job = ((MMIXI_GET(&p->ticket) >> 32) + 2) & 0x7fffffff, count = (long long)tasks;
    MMIXI_PUT(&p->ticket, (job ^ 1) << 32 | 0xffffffff);
    MMIXI_PUT(&p->done, 0);
    MMIXI_PUT(&p->count, count);
    MMIXI_PUT(&p->task, (long long)(intptr_t)task);
    MMIXI_PUT(&p->arg, (long long)(intptr_t)arg);
    MMIXI_PUT(&p->ticket, job << 32);
    mmixi_pool_wake(p, &p->work);
    mmixi_pool_work(p, job, 0);
    for (int spin = 0; spin < 4 * MMIXI_SPINS && MMIXI_GET(&p->done) < count; spin++) MMIXI_PAUSE();
    if (MMIXI_GET(&p->done) == count) return;
    MMIXI_LOCK(&p->mutex);
    while (MMIXI_GET(&p->done) < count) MMIXI_WAIT(&p->finished, &p->mutex);
    MMIXI_UNLOCK(&p->mutex);
}
/* Whether the threads are there: fork copies the memory of a process, not its threads. */
static int mmixi_pool_here(const mmixi_pool *p) { return p->process == mmixi_process(); }

/* A pool of m->lanes - 1 workers; where the system gives fewer, there are fewer lanes. NULL and an error
   without memory. */
static mmixi_pool *mmixi_pool_create(mmix_ctx *m, const mmix_options *options)
{
    mmixi_pool *p = (mmixi_pool *)mmixi_alloc(m, sizeof *p);
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    if (options) p->options = *options;
    p->process = mmixi_process();
#ifndef _WIN32
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->finished, NULL);
#endif
    for (; p->workers < m->lanes - 1; p->workers++) {
        mmixi_worker *w = &p->worker[p->workers];
        w->pool = p;
        w->lane = (size_t)p->workers + 1;
        if (!MMIXI_THREAD_START(&w->thread, mmixi_pool_main, w)) break;
    }
    m->lanes = p->workers + 1;
    return p;
}

static void mmixi_pool_destroy(mmix_ctx *m, mmixi_pool *p)
{
    if (p && mmixi_pool_here(p)) {
        MMIXI_PUT(&p->quit, 1);
        mmixi_pool_wake(p, &p->work);
        for (int i = 0; i < p->workers; i++) MMIXI_THREAD_END(p->worker[i].thread);
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
static int mmixi_pool_here(const mmixi_pool *p) { return p != NULL; }
static void mmixi_pool_destroy(mmix_ctx *m, mmixi_pool *p) { (void)m, (void)p; }
static mmixi_pool *mmixi_pool_create(mmix_ctx *m, const mmix_options *options)
{
    (void)options;
    m->lanes = 1;
    return NULL;
}
static void mmixi_pool_run(mmixi_pool *p, size_t tasks, mmixi_lane_task *task, void *arg)
{
    (void)p, (void)tasks, (void)task, (void)arg;                 /* there is none */
}
#endif

/* With the user's parallel_for lane l of n takes tasks l, l + n, l + 2n, … */
typedef struct mmixi_lane_job { mmixi_lane_task *task; void *arg; size_t count, lanes; } mmixi_lane_job;
static void mmixi_lane_run(void *arg, size_t lane)
{
    const mmixi_lane_job *job = (const mmixi_lane_job *)arg;
    mmixi_run_tasks(lane, job->count, job->lanes, lane, job->task, job->arg);
}

static void mmixi_parallel(mmix_ctx *m, size_t count, mmixi_lane_task *task, void *arg)
{
    const int alone = m->lanes < 2 || count < 2 || count > 0x7fffffff || m->in_parallel;
    if (alone || (!m->parallel_for && !mmixi_pool_here(m->pool))) {
        mmixi_run_tasks(0, count, 1, 0, task, arg);
        return;
    }
    m->in_parallel = 1;
    if (m->parallel_for) {
        mmixi_lane_job job;
        job.task = task;
        job.arg = arg;
        job.count = count;
        job.lanes = mmixi_min((size_t)m->lanes, count);
        m->parallel_for(m->parallel_user, job.lanes, mmixi_lane_run, &job);
    }
    else {
        const uint64_t old = mmixi_flush(1);
        mmixi_pool_run(m->pool, count, task, arg);
        mmixi_flush_end(old);
    }
    m->in_parallel = 0;
}

/* Loops over 0 … n-1 in tasks of `grain`, a number that comes from shapes. */
typedef void mmixi_range_function(void *arg, size_t begin, size_t end, size_t lane);
typedef struct mmixi_range_job { mmixi_range_function *run; void *arg; size_t n, grain; } mmixi_range_job;
static void mmixi_range_task(void *arg, size_t index, size_t lane)
{
    const mmixi_range_job *job = (const mmixi_range_job *)arg;
    job->run(job->arg, index * job->grain, mmixi_min(job->n, (index + 1) * job->grain), lane);
}
static void mmixi_ranges(mmix_ctx *m, size_t n, size_t grain, mmixi_range_function *run, void *arg)
{
    mmixi_range_job job;
    job.run = run;
    job.arg = arg;
    job.n = n;
    job.grain = mmixi_max(grain, 1);
    mmixi_parallel(m, mmixi_ceil_div(n, job.grain), mmixi_range_task, &job);
}

typedef struct mmixi_user_job { mmix_task *task; void *arg; } mmixi_user_job;
static void mmixi_user_run(void *arg, size_t index, size_t lane)
{
    const mmixi_user_job *job = (const mmixi_user_job *)arg;
    const uint64_t old = mmixi_flush(0);         /* the user's arithmetic is the user's */
    (void)lane;
    job->task(job->arg, index);
    mmixi_flush_end(old);
}
MMIXDEF void mmix_parallel_for(mmix_ctx *m, size_t count, mmix_task *task, void *arg)
{
    mmixi_user_job job;
    job.task = task;
    job.arg = arg;
    mmixi_parallel(m, count, mmixi_user_run, &job);
}

MMIXDEF int mmix_threads(const mmix_ctx *m) { return m->lanes; }

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
    f -= 1;
    s = f / (2 + f);
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

/* x = q π/2 + r, |r| <= π/4, with π/2 in three parts of 33, 33 and 53 bits: exact enough for |x| up to
   1e6. */
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
static mmixi_mat mmixi_matrix(const mmix_real *p, size_t rows, size_t cols, ptrdiff_t step)
{
    mmixi_mat a;
    a.p = (mmix_real *)p;
    a.rows = rows;
    a.cols = cols;
    a.rs = step;
    a.cs = 1;
    return a;
}
static mmixi_mat mmixi_t(mmixi_mat a)            /* transposed */
{
    mmixi_mat t = mmixi_matrix(a.p, a.cols, a.rows, a.cs);
    t.cs = a.rs;
    return t;
}
static mmixi_mat mmixi_part(mmixi_mat a, size_t i, size_t j, size_t rows, size_t cols)       /* from (i, j) */
{
    a.p += (ptrdiff_t)i * a.rs + (ptrdiff_t)j * a.cs;
    a.rows = rows;
    a.cols = cols;
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
/* its backward: u = dweight decay; dscore += u dt; column += u score; returns the sum of column dt after that */
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
/* g' = g clip; mo = b1 mo + (1 - b1) g'; v = b2 v + (1 - b2) g'²; p = p keep - rate mo / (sqrt(v) root + eps) */
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
#define MMIXI_INLINE static inline MMIXI_TARGET __attribute__((always_inline))
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
#define MMIXI_PASTE2(name, level) mmixi_##name##_##level
#define MMIXI_PASTE(name, level) MMIXI_PASTE2(name, level)
#define MMIXI_NAME(name) MMIXI_PASTE(name, MMIXI_LEVEL_NAME)
#define MMIXI_STRING2(x) #x
#define MMIXI_STRING(x) MMIXI_STRING2(x)
#define MMIXI_KERNEL(type, name) static MMIXI_TARGET type MMIXI_NAME(name) MMIXI_ARGS_##name
#define MMIXI_VECTOR(name) MMIXI_INLINE MMIXI_V MMIXI_NAME(name)

#define MMIXI_LOADT(t, p) ((t) == MMIXI_ALL ? MMIXI_LOAD(p) : MMIXI_LOADM(t, p))
#define MMIXI_STORET(t, p, v) do { if ((t) == MMIXI_ALL) MMIXI_STORE(p, v); else MMIXI_STOREM(t, p, v); } while (0)
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
            const size_t i = from + j * MMIXI_W;                                                             \
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
#define MMIXI_TIMES_2N(p, n, t, x) \
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
#define MMIXI_TIMES_2N(p, n, t, x) \
    _mm256_andnot_ps(_mm256_cmp_ps(x, MMIXI_SET(MMIXI_EXP_LEAST), _CMP_LT_OQ), \
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), \
                                             _mm256_slli_epi32(_mm256_castps_si256(t), 23))))

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
#define MMIXI_TIMES_2N(p, n, t, x) \
    MMIXI_IF_LESS(x, MMIXI_SET(MMIXI_EXP_LEAST), MMIXI_SET(0), \
        vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), \
                                        vshlq_n_s32(vreinterpretq_s32_f32(t), 23))))

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
#define MMIXI_TIMES_2N(p, n, t, x) ((x) < MMIXI_EXP_LEAST ? 0.0f : mmixi_times_2n(p, t))

#if !MMIXI_DOUBLE
static inline float mmixi_times_2n(float p, float t)
{
    uint32_t a, b;
    memcpy(&a, &p, 4);
    memcpy(&b, &t, 4);
    a += b << 23;
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

/* e^x = 2^n e^r. Adding 1.5 2^23 rounds x / ln 2 to an integer n and leaves it in the low bits, which,
   shifted up, are an addition to p's exponent. Polynomial: least largest relative error on |r| <= ln 2 / 2
   (3e-9), fitted by us. Below LEAST the answer is 0 and never a subnormal, above MOST infinity; NaN stays
   NaN. exp_down_v is for x up to MOST: in a softmax a quarter less time. */
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
    return MMIXI_TIMES_2N(p, n, t, x);
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
    a = MMIXI_MIN(a, MMIXI_SET(20));
    aa = a * a;
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
    const size_t half = MMIXI_HALF(n);
    if (n > MMIXI_LONG) return MMIXI_NAME(dot)(half, x, y) + MMIXI_NAME(dot)(n - half, x + half, y + half);
    MMIXI_PARTS(4, 0, MMIXI_FMA(MMIXI_AT(x), MMIXI_AT(y), s[j]))
    return MMIXI_NAME(lanes_sum)((s[0] + s[1]) + (s[2] + s[3]));
}
MMIXI_KERNEL(mmix_real, sum)
{
    const size_t half = MMIXI_HALF(n);
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
    const size_t half = MMIXI_HALF(n);
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
    const size_t half = MMIXI_HALF(n);
    MMIXI_V sum = MMIXI_SET(0);
    if (n > MMIXI_LONG) {
        const mmix_real first = MMIXI_NAME(exp_row)(half, scale, x, shift, y);
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
        const mmix_real s = MMIXI_NAME(exp_row)(n, 1, x, MMIXI_NAME(largest)(n, x), y);
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
    *g = MMIXI_NAME(lanes_sum)(s);
    *gx = MMIXI_NAME(lanes_sum)(sx) * rstd;
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
    const size_t n = N;                          /* of MMIXI_EACH */
    for (size_t p = 0; p < P; p++, h += N) {
        const MMIXI_V vx = MMIXI_SET(x[p]);
        MMIXI_V sum = MMIXI_SET(0);
        MMIXI_EACH(
            const MMIXI_V v = MMIXI_FMA(vx, MMIXI_AT(b), ve * MMIXI_AT(h));
            MMIXI_TO(h, v);
            sum = MMIXI_FMA(v, MMIXI_AT(c), sum);
        );
        y[p] = MMIXI_NAME(lanes_sum)(sum);
    }
}

MMIXI_KERNEL(void, conv)
{
    MMIXI_EACH(
        MMIXI_V v = MMIXI_SET(0);
        if (bias) v = MMIXI_AT(bias);
        for (size_t k = 0; k < taps; k++)
            if (x[k]) v = MMIXI_FMA(MMIXI_AT(x[k]), MMIXI_AT(w + k * ldw), v);
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
        const MMIXI_V step = MMIXI_SET(rate) * m1 / MMIXI_FMA(MMIXI_SQRT(m2), MMIXI_SET(root), MMIXI_SET(eps));
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
/* Four times 4 x 4 in registers: exchange single lanes between pairs of rows, then halves between pairs of
   pairs. */
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
    const ptrdiff_t R = (ptrdiff_t)rows, C = (ptrdiff_t)cols;
    ptrdiff_t R8 = 0, C8 = 0;                    /* what transpose_8 does of it */
#if MMIXI_W > 1
    R8 = R - R % 8;
    C8 = C - C % 8;
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
    const ptrdiff_t ars = a->rs, acs = a->cs, ldb = b->rs, ldc = c->rs;
    mmix_real *to = c->p;
#define MMIXI_VEC(p) (ragged && j + 1 == vecs ? MMIXI_LOADM(t, (p) + j * MMIXI_W) : MMIXI_LOAD((p) + j * MMIXI_W))
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
    k->mr = MMIXI_MR;
    k->nr = MMIXI_NV * MMIXI_W;
    k->lanes = MMIXI_W;
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

/* Short loops that cross a cache line are up to a fifth slower: one line each. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("align-loops=64")
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
#if defined(MMIXI_X86) || defined(MMIXI_ARM)
    if (simd == MMIX_SIMD_AUTO) {
        const char *word = getenv("MMIX_SIMD");
        if (word && !strcmp(word, "none")) simd = MMIX_SIMD_NONE;
        if (word && !strcmp(word, "avx2")) simd = MMIX_SIMD_AVX2;
    }
#endif
#ifdef MMIXI_ARM
    if (simd == MMIX_SIMD_AUTO || simd == MMIX_SIMD_NEON) {
        mmixi_fill_neon(k);
        return;
    }
#endif
#ifdef MMIXI_X86
    if (simd == MMIX_SIMD_AUTO) simd = MMIX_SIMD_AVX512;
    __builtin_cpu_init();
    if (simd == MMIX_SIMD_AVX512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
        mmixi_fill_avx512(k);
        return;
    }
    if ((simd == MMIX_SIMD_AVX512 || simd == MMIX_SIMD_AVX2) && __builtin_cpu_supports("avx2")
        && __builtin_cpu_supports("fma")) {
        mmixi_fill_avx2(k);
        return;
    }
#endif
    (void)simd;
    mmixi_fill_none(k);
}

/* ==== >>gemm =========================================================================
   c = or += a b, rows x depth times depth x cols

   Goto & van de Geijn 2008, "Anatomy of high-performance matrix multiplication". The plain form is three
   loops:

       for (i < rows) for (j < cols) for (k < depth) c[i][j] += a[i][k] * b[k][j];

   depth is cut into blocks, cols into panels of at most nr, rows into tiles of at most mr; the tile kernel
   keeps its part of c in registers while it runs down one block of depth. b is copied panel by panel where
   that pays (always if its rows are not contiguous), once for all threads, or once for many products
   (packed_b). a is mostly read where it lies. What is cut where depends on the shape alone, and each element
   of c is summed in the order of k: any number of threads gives the same bits. Measured: 92 to 99 % of one
   Zen 4 core's peak on the shapes of a ViT, 64 x 64 x 64 in 5 microseconds.
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
    /* NULL, or what mmixi_gemm_pack made of b; b is not read then */
    const mmix_real *packed_b;
} mmixi_gemm;

/* In debugging builds products of sizes that do not fit stop at once. */
static void mmixi_fit(mmixi_mat c, mmixi_mat a, mmixi_mat b)
{
#ifdef MMIX_REGRESSION
    if (c.rows != a.rows || c.cols != b.cols || a.cols != b.rows || c.cs != 1) abort();
#endif
    (void)c, (void)a, (void)b;
}
static mmixi_gemm mmixi_product_of(mmixi_mat c, mmixi_mat a, mmixi_mat b, int add)
{
    mmixi_gemm g;
    memset(&g, 0, sizeof g);
    mmixi_fit(c, a, b);
    g.c = c;
    g.a = a;
    g.b = b;
    g.add = add;
    return g;
}

/* Cuts: depth of a block (b's panel of it stays in L2, a's tile in L1); rows and panels of a task;
   multiply-adds of the least task worth a thread. From WIDE elements of c on plain b is packed too; before,
   far rows cost less than the copy, unless they are a multiple of APART reals apart: then a panel's column
   falls into a few sets of the nearest cache. */
#ifdef MMIX_REGRESSION
enum { MMIXI_KC = 5, MMIXI_MC = 16, MMIXI_NC = 2, MMIXI_TASK_WORK = 1, MMIXI_WIDE = 5000,
      MMIXI_APART = 16 };
#else
enum { MMIXI_KC = 384, MMIXI_MC = 128, MMIXI_NC = 16, MMIXI_TASK_WORK = 1 << 20, MMIXI_WIDE = 1 << 19,
      MMIXI_APART = 256 };
#endif

/* Where part i of n begins when `total` is cut as evenly as possible. A small product has few steps for each
   division: the ends, and so all of one part, do without. */
static size_t mmixi_cut(size_t total, size_t i, size_t n)
{
    return i == 0 ? 0 : i == n ? total : total / n * i + total % n * i / n;
}
/* Part i of n: its size; *at is where it begins. */
static size_t mmixi_span(size_t total, size_t i, size_t n, size_t *at)
{
    *at = mmixi_cut(total, i, n);
    return mmixi_cut(total, i + 1, n) - *at;
}

/* Panels of b: whole vectors, as equal as possible (64 = 32 + 32, not 48 + 16). */
static size_t mmixi_panels(const mmixi_kernels *k, size_t cols) { return mmixi_ceil_div(cols, k->nr); }
static size_t mmixi_panel(const mmixi_kernels *k, size_t cols, size_t p)
{
    return mmixi_cut(mmixi_ceil_div(cols, k->lanes), p, mmixi_panels(k, cols)) * k->lanes;
}
static size_t mmixi_depths(size_t depth) { return depth ? mmixi_ceil_div(depth, MMIXI_KC) : 1; }
/* Packed b: for each block of depth, for each panel, depth rows of the panel's width (whole vectors). */
static size_t mmixi_gemm_packed(const mmixi_kernels *k, size_t depth, size_t cols)
{
    return depth * mmixi_round_up(cols, k->lanes);
}

/* Panels first … last - 1 of c = or += a b + bias (cols, or NULL). packed: NULL, or what b is read from; copy:
   NULL, or room for one block of a, whose columns are contiguous. */
static void mmixi_gemm_panels(const mmixi_kernels *k, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add,
                              const mmix_real *bias, size_t first, size_t last, const mmix_real *packed,
                              mmix_real *copy)
{
    const size_t rows = c.rows, cols = c.cols, depths = mmixi_depths(a.cols), tiles = mmixi_ceil_div(rows, k->mr);
    for (size_t d = 0, k0; d < depths; d++, add = 1, bias = NULL) {
        const size_t depth = mmixi_span(a.cols, d, depths, &k0);
        mmixi_mat block = mmixi_part(a, 0, k0, rows, depth);
        if (copy) {
            for (size_t l = 0; l < depth; l++)
                memcpy(copy + l * rows, block.p + (ptrdiff_t)l * a.cs, rows * sizeof *copy);
            block = mmixi_t(mmixi_matrix(copy, depth, rows, (ptrdiff_t)rows));
        }
        for (size_t p = first, j = mmixi_panel(k, cols, first), end; p < last; p++, j = end) {
            mmixi_mat panel = mmixi_part(b, k0, j, depth, 0), to = c, from = block;
            end = mmixi_panel(k, cols, p + 1);
            to.cols = mmixi_min(end, cols) - j;
            if (packed) {
                panel.p = mmixi_matrix(packed, 0, 0, 0).p + mmixi_gemm_packed(k, k0, cols) + j * depth;
                panel.rs = (ptrdiff_t)(end - j);
            }
            for (size_t i = 0, t = 0; t < tiles; t++) {
                to.rows = mmixi_span(rows, t, tiles, &i);
                to.p = c.p + (ptrdiff_t)i * c.rs + (ptrdiff_t)j;
                from.p = block.p + (ptrdiff_t)i * block.rs;
                k->tile(&to, &from, &panel, add, bias ? bias + j : NULL);
            }
        }
    }
}

/* For use inside tasks: c = or += a b without threads or packing; the rows of b and c are contiguous. */
static void mmixi_multiply(const mmixi_kernels *k, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add)
{
    mmixi_fit(c, a, b);
    if (c.rows && c.cols) mmixi_gemm_panels(k, c, a, b, add, NULL, 0, mmixi_panels(k, c.cols), NULL, NULL);
}
static void mmixi_gemm_small(const mmixi_kernels *k, size_t rows, size_t cols, size_t depth,
                             const mmix_real *a, ptrdiff_t ars, ptrdiff_t acs, const mmix_real *b,
                             ptrdiff_t ldb, mmix_real *c, ptrdiff_t ldc, int add)
{
    mmixi_mat va = mmixi_matrix(a, rows, depth, ars);
    va.cs = acs;
    mmixi_multiply(k, mmixi_matrix(c, rows, cols, ldc), va, mmixi_matrix(b, depth, cols, ldb), add);
}

typedef struct mmixi_gemm_plan {
    const mmixi_kernels *k;
    mmixi_gemm g;
    mmix_real *packed, *copy;                    /* of b, in each lane of a block of a; or NULL */
    int dots;                                    /* a row or two times columns of b: dot products */
    size_t row_parts, panel_parts;
} mmixi_gemm_plan;

static void mmixi_gemm_pack_task(void *arg, size_t index, size_t lane)
{
    const mmixi_gemm_plan *plan = (const mmixi_gemm_plan *)arg;
    const mmixi_mat b = plan->g.b;
    const size_t depths = mmixi_depths(b.rows), panels = mmixi_panels(plan->k, b.cols);
    size_t k0, p, depth = mmixi_span(b.rows, index % depths, depths, &k0);
    size_t left = mmixi_span(panels, index / depths, plan->panel_parts, &p);
    (void)lane;
    for (; left > 0; left--, p++) {
        const size_t j = mmixi_panel(plan->k, b.cols, p), ld = mmixi_panel(plan->k, b.cols, p + 1) - j;
        const size_t width = mmixi_min(ld, b.cols - j);
        const mmix_real *from = mmixi_part(b, k0, j, depth, width).p;
        mmix_real *to = plan->packed + mmixi_gemm_packed(plan->k, k0, b.cols) + j * depth;
        if (b.rs == 1 && b.cs != 1) plan->k->transpose(width, depth, from, b.cs, to, (ptrdiff_t)ld);
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
    mmixi_gemm_plan plan;
    if (!g->b.cols || !g->b.rows) return;
    plan.k = m->k;
    plan.g = *g;
    plan.packed = to;
    plan.panel_parts = mmixi_ceil_div(mmixi_panels(m->k, g->b.cols), 4);
    mmixi_parallel(m, mmixi_depths(g->b.rows) * plan.panel_parts, mmixi_gemm_pack_task, &plan);
}

static void mmixi_gemm_task(void *arg, size_t index, size_t lane)
{
    const mmixi_gemm_plan *plan = (const mmixi_gemm_plan *)arg;
    const mmixi_kernels *k = plan->k;
    const mmixi_gemm *g = &plan->g;
    const size_t cols = g->c.cols, panels = mmixi_panels(k, cols);
    size_t at, first;
    const size_t rows = mmixi_span(g->c.rows, index % plan->row_parts, plan->row_parts, &at);
    const size_t last = mmixi_span(panels, index / plan->row_parts, plan->panel_parts, &first) + first;
    const size_t j0 = mmixi_panel(k, cols, first), j1 = mmixi_min(mmixi_panel(k, cols, last), cols);
    const mmixi_mat c = mmixi_part(g->c, at, 0, rows, cols), a = mmixi_part(g->a, at, 0, rows, g->a.cols);
    if (!plan->dots)
        mmixi_gemm_panels(k, c, a, g->b, g->add, g->bias, first, last, plan->packed,
                          plan->copy ? plan->copy + lane * MMIXI_MC * MMIXI_KC : NULL);
    else
        for (size_t j = j0; j < j1; j++)
            for (size_t i = 0; i < rows; i++) {
                mmix_real *to = c.p + (ptrdiff_t)i * c.rs + (ptrdiff_t)j;
                mmix_real dot = k->dot(a.cols, a.p + (ptrdiff_t)i * a.rs, g->b.p + (ptrdiff_t)j * g->b.cs);
                if (g->bias) dot += g->bias[j];
                *to = g->add ? *to + dot : dot;
            }
    for (size_t i = 0; i < rows && (g->residual || g->row_scale || g->gelu); i++) {
        const mmix_real scale = g->row_scale ? g->row_scale[(at + i) / g->rows_per_scale] : (mmix_real)1;
        mmix_real *row = c.p + (ptrdiff_t)i * c.rs + (ptrdiff_t)j0;
        const mmix_real *residual = g->residual ? g->residual + (ptrdiff_t)(at + i) * g->ldr + (ptrdiff_t)j0 : NULL;
        if (residual || g->row_scale) k->finish(j1 - j0, scale, residual, row);
        if (g->gelu) k->gelu(j1 - j0, row, row);
    }
}

/* Where a has few rows what is packed of b can be much more than a and c: pieces of at most so many reals a
   thread. */
#ifdef MMIX_REGRESSION
enum { MMIXI_PACK_ROWS = 512, MMIXI_PACK_MOST = 1 << 8 };
#else
enum { MMIXI_PACK_ROWS = 512, MMIXI_PACK_MOST = 1 << 17 };
#endif
/* Tasks: parts of MC rows and NC panels, and more of them where there is work for more threads. */
static void mmixi_gemm_parts(mmixi_gemm_plan *plan)
{
    const size_t rows = plan->g.c.rows, cols = plan->g.c.cols, panels = mmixi_panels(plan->k, cols);
    const double work = (double)rows * (double)cols * (double)(plan->g.a.cols + 1) / (int)MMIXI_TASK_WORK;
    const size_t want = (size_t)(work < 64 ? work : 64);
    const size_t least = (plan->copy ? 8 : 4) * plan->k->mr;     /* a task of few rows would copy a in crumbs */
    plan->row_parts = mmixi_ceil_div(rows, MMIXI_MC);
    plan->panel_parts = mmixi_ceil_div(panels, MMIXI_NC);
    while (plan->row_parts * plan->panel_parts < want && plan->row_parts * least <= rows) plan->row_parts *= 2;
    while (plan->row_parts * plan->panel_parts < want && plan->panel_parts * 2 <= panels)
        plan->panel_parts *= 2;
}
/* 0, or -1 if there is no memory for packing. */
static int mmixi_gemm_run(mmix_ctx *m, const mmixi_gemm *g)
{
    const size_t rows = g->c.rows, cols = g->c.cols, depth = g->a.cols;
    const mmixi_mat a = g->a, b = g->b;
    const mmix_mark mark = mmix_mark_here(m);
    const int dots = !g->packed_b && rows <= 2 && a.cs == 1 && b.rs == 1 && b.cs != 1;
    const int pack = !g->packed_b && !dots && depth && (b.cs != 1 || b.rs == 0
        || (rows >= 64 && (rows * cols >= MMIXI_WIDE || b.rs % MMIXI_APART == 0)));
    /* a transposed: every tile would come back to each cache line of a, on as many pages as it is deep */
    const int copy = a.rs == 1 && a.cs != 1 && rows >= MMIXI_MC / 2;
    size_t piece = cols;
    mmixi_gemm_plan plan;
    if (!rows || !cols) return 0;
    plan.k = m->k;
    plan.dots = dots;
    plan.packed = (mmix_real *)g->packed_b;
    plan.copy = NULL;
    if (pack) {
        const size_t some = mmixi_round_up(MMIXI_PACK_MOST * mmixi_lanes(m) / depth + 1, m->k->nr);
        if (rows <= MMIXI_PACK_ROWS) piece = mmixi_min(cols, some);
        plan.packed = (mmix_real *)mmixi_step(m, mmixi_gemm_packed(m->k, depth, piece) * sizeof *plan.packed);
    }
    if (copy) plan.copy = (mmix_real *)mmixi_step(m, mmixi_lanes(m) * MMIXI_MC * MMIXI_KC * sizeof *plan.copy);
    if ((pack && !plan.packed) || (copy && !plan.copy)) {
        mmix_rewind(m, mark);
        return -1;
    }
    for (size_t at = 0; at < cols; at += piece) {
        const size_t n = mmixi_min(piece, cols - at);
        plan.g = *g;
        plan.g.b = mmixi_part(b, 0, at, depth, n);
        plan.g.c = mmixi_part(g->c, 0, at, rows, n);
        if (g->bias) plan.g.bias += at;
        if (g->residual) plan.g.residual += at;
        if (pack) mmixi_gemm_pack(m, &plan.g, plan.packed);
        mmixi_gemm_parts(&plan);
        mmixi_parallel(m, plan.row_parts * plan.panel_parts, mmixi_gemm_task, &plan);
    }
    mmix_rewind(m, mark);
    return 0;
}
/* c = or += a b by all threads. 0, or -1 if there is no memory for packing. */
MMIXI_MATH int mmixi_product(mmix_ctx *m, mmixi_mat c, mmixi_mat a, mmixi_mat b, int add)
{
    const mmixi_gemm g = mmixi_product_of(c, a, b, add);
    return mmixi_gemm_run(m, &g);
}

/* ==== >>tensors & tape ===============================================================

   A tensor that an op returns owns a contiguous piece of step memory; a view has the strides of what it views
   and no gradient of its own. The engine is short: mmixi_run calls an op's forward and appends a node;
   mmix_backward walks the nodes from the last to the first, calls each backward whose output's gradient was
   written, and frees what the node held.
   ==================================================================================== */

struct mmix_tensor {
    int dtype, ndim;
    size_t shape[MMIX_MAX_DIMS], stride[MMIX_MAX_DIMS];
    void *data;                                  /* NULL when backward freed it, and in a view: mmixi_data */
    mmix_ctx *m;
    mmix_tensor *base;                           /* of a view: the tensor that owns the memory */
    size_t offset;                               /* of a view: elements from the base's first */
    mmix_tensor *grad;
    mmix_tensor *next_graded;                    /* in the context's list of leaves with a gradient */
    /* wants a gradient; is no op's output; the gradient holds something; which is the caller's, to be read
       only */
    int wants, leaf, written, lent;
    /* the value of a one-element tensor, which outlives its node */
    mmix_real scalar;
    int lasting;                                 /* a parameter: any context may use it */
    /* of a matrix in a packed list: what mmixi_gemm_pack made of its transpose with panels of packed_nr */
    const mmix_real *packed;
    size_t packed_nr;
};

static size_t mmixi_dtype_size(int dtype)
{
    return dtype == MMIX_DTYPE_REAL ? sizeof(mmix_real) : dtype == MMIX_DTYPE_I32 ? sizeof(int32_t) : 1;
}

MMIXDEF int mmix_dtype(const mmix_tensor *t) { return t ? t->dtype : MMIX_DTYPE_REAL; }
MMIXDEF int mmix_ndim(const mmix_tensor *t) { return t ? t->ndim : 0; }
static int mmixi_axis(const mmix_tensor *t, int axis) { return axis < 0 ? axis + t->ndim : axis; }
MMIXDEF size_t mmix_shape(const mmix_tensor *t, int axis)
{
    int a = t ? mmixi_axis(t, axis) : -1;
    return a >= 0 && a < t->ndim ? t->shape[a] : 0;
}
MMIXDEF size_t mmix_stride(const mmix_tensor *t, int axis)
{
    int a = t ? mmixi_axis(t, axis) : -1;
    return a >= 0 && a < t->ndim ? t->stride[a] : 0;
}
MMIXDEF size_t mmix_count(const mmix_tensor *t)
{
    size_t n = t ? 1 : 0;
    for (int i = 0; t && i < t->ndim; i++) n *= t->shape[i];
    return n;
}
static size_t mmixi_bytes(const mmix_tensor *t) { return mmix_count(t) * mmixi_dtype_size(t->dtype); }
static void *mmixi_data(const mmix_tensor *t, int dtype)
{
    const mmix_tensor *owner = t && t->base ? t->base : t;
    if (!t || t->dtype != dtype || !owner->data) return NULL;
    return t->base ? (char *)owner->data + t->offset * mmixi_dtype_size(dtype) : t->data;
}
MMIXDEF mmix_real *mmix_data(const mmix_tensor *t) { return (mmix_real *)mmixi_data(t, MMIX_DTYPE_REAL); }
MMIXDEF int32_t *mmix_data_i32(const mmix_tensor *t) { return (int32_t *)mmixi_data(t, MMIX_DTYPE_I32); }

/* ---- making ---- */

/* Fills in dtype, shape and the strides of a contiguous tensor; the number of bytes, or 0 after an error. */
static size_t mmixi_describe(mmix_ctx *m, mmix_tensor *t, const char *who, int dtype, int ndim,
                             const size_t *shape)
{
    size_t bytes = mmixi_dtype_size(dtype);
    if (dtype < MMIX_DTYPE_REAL || dtype > MMIX_DTYPE_U8) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: dtype %d, expected MMIX_DTYPE_REAL, _I32 or _U8", who, dtype);
        return 0;
    }
    t->m = m;
    t->dtype = dtype;
    t->ndim = ndim;
    t->leaf = 1;
    if (ndim < 0 || ndim > MMIX_MAX_DIMS) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: a tensor has 0 to %d axes, not %d", who, MMIX_MAX_DIMS, ndim);
        return 0;
    }
    for (int i = ndim; i-- > 0;) {
        t->shape[i] = shape[i];
        t->stride[i] = bytes / mmixi_dtype_size(dtype);
        if (!shape[i] || !mmixi_mul_ok(bytes, shape[i], &bytes)) {
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: axis %d has size %.0f, expected 1 to what memory "
                      "has room for", who, i, (double)shape[i]);
            return 0;
        }
    }
    return bytes;
}

static mmix_tensor *mmixi_tensor(mmix_ctx *m) { return (mmix_tensor *)mmixi_header(m, sizeof(mmix_tensor)); }

/* Step memory for a x b numbers; a product that overflows is a lack of memory like any other. */
static void *mmixi_step_array(mmix_ctx *m, size_t a, size_t b, size_t size)
{
    size_t n, bytes;
    if (mmixi_mul_ok(a, b, &n) && mmixi_mul_ok(n, size, &bytes)) return mmixi_step(m, bytes);
    mmix_fail(m, MMIX_ERROR_MEMORY, "out of memory: an array of %zu x %zu numbers", a, b);
    return NULL;
}
static double *mmixi_doubles(mmix_ctx *m, size_t a, size_t b)
{
    return (double *)mmixi_step_array(m, a, b, sizeof(double));
}
static mmix_real *mmixi_reals(mmix_ctx *m, size_t a, size_t b)
{
    return (mmix_real *)mmixi_step_array(m, a, b, sizeof(mmix_real));
}

/* A tensor in step memory on behalf of `who`; NULL on error or while one is kept. */
static mmix_tensor *mmixi_new(mmix_ctx *m, const char *who, int dtype, int ndim, const size_t *shape)
{
    mmix_tensor *t = !m || m->error_kind ? NULL : mmixi_tensor(m);
    size_t bytes = t ? mmixi_describe(m, t, who, dtype, ndim, shape) : 0;
    if (!bytes) return NULL;
    t->data = mmixi_step(m, bytes);
    return t->data ? t : NULL;
}

MMIXDEF mmix_tensor *mmix_new(mmix_ctx *m, int dtype, int ndim, const size_t *shape)
{
    return mmixi_new(m, "mmix_new", dtype, ndim, shape);
}
MMIXDEF mmix_tensor *mmix_new1(mmix_ctx *m, size_t a) { return mmix_new(m, MMIX_DTYPE_REAL, 1, &a); }
MMIXDEF mmix_tensor *mmix_new2(mmix_ctx *m, size_t a, size_t b)
{
    size_t shape[2];
    shape[0] = a; shape[1] = b;
    return mmix_new(m, MMIX_DTYPE_REAL, 2, shape);
}
MMIXDEF mmix_tensor *mmix_new3(mmix_ctx *m, size_t a, size_t b, size_t c)
{
    size_t shape[3];
    shape[0] = a; shape[1] = b; shape[2] = c;
    return mmix_new(m, MMIX_DTYPE_REAL, 3, shape);
}
MMIXDEF mmix_tensor *mmix_new4(mmix_ctx *m, size_t a, size_t b, size_t c, size_t d)
{
    size_t shape[4];
    shape[0] = a; shape[1] = b; shape[2] = c; shape[3] = d;
    return mmix_new(m, MMIX_DTYPE_REAL, 4, shape);
}

MMIXDEF mmix_tensor *mmix_from(mmix_ctx *m, int ndim, const size_t *shape, const mmix_real *values)
{
    mmix_tensor *t = mmixi_new(m, "mmix_from", MMIX_DTYPE_REAL, ndim, shape);
    if (t) memcpy(t->data, values, mmix_count(t) * sizeof(mmix_real));
    return t;
}
MMIXDEF mmix_tensor *mmix_from_i32(mmix_ctx *m, int ndim, const size_t *shape, const int32_t *values)
{
    mmix_tensor *t = mmixi_new(m, "mmix_from_i32", MMIX_DTYPE_I32, ndim, shape);
    if (t) memcpy(t->data, values, mmix_count(t) * sizeof(int32_t));
    return t;
}

/* ---- walking ----
   A tensor as rows of contiguous numbers: the last axis is a row, the leading axes are counted together. */
static size_t mmixi_cols(const mmix_tensor *t) { return t->ndim ? t->shape[t->ndim - 1] : 1; }
static size_t mmixi_rows(const mmix_tensor *t) { return mmix_count(t) / mmixi_cols(t); }
static size_t mmixi_row_offset(const mmix_tensor *t, size_t row)
{
    size_t at = 0;
    for (int i = t->ndim - 1; i-- > 0;) {
        at += row % t->shape[i] * t->stride[i];
        row /= t->shape[i];
    }
    return at;
}
/* Whether one step leads from each row to the next, and which. */
static int mmixi_even_rows(const mmix_tensor *t, size_t *step)
{
    int last = -1;                               /* the innermost leading axis longer than 1 */
    *step = mmixi_cols(t);
    for (int i = t->ndim - 1; i-- > 0;) {
        if (t->shape[i] == 1) continue;
        if (last < 0) *step = t->stride[i];
        else if (t->stride[i] != t->stride[last] * t->shape[last]) return 0;
        last = i;
    }
    return 1;
}
static int mmixi_contiguous(const mmix_tensor *t)
{
    size_t step;
    return mmixi_even_rows(t, &step) && step == mmixi_cols(t);
}

/* y = x, or y += x */
static void mmixi_put(const mmixi_kernels *k, size_t n, const mmix_real *x, mmix_real *y, int add)
{
    if (add) k->add(n, x, y, y);
    else memcpy(y, x, n * sizeof *x);
}
static size_t mmixi_row_grain(size_t cols) { return mmixi_max(1, 8192 / mmixi_max(cols, 1)); }
/* All rows, on all threads: x and y lie as the tensors say. */
typedef struct mmixi_put_job { const mmix_ctx *m; const mmix_tensor *as_x, *as_y; const mmix_real *x;
                              mmix_real *y; int add; } mmixi_put_job;
static void mmixi_put_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_put_job *j = (const mmixi_put_job *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++)
        mmixi_put(j->m->k, mmixi_cols(j->as_x), j->x + mmixi_row_offset(j->as_x, r),
                  j->y + mmixi_row_offset(j->as_y, r), j->add);
}
static void mmixi_put_all(mmix_ctx *m, const mmix_tensor *as_x, const mmix_real *x, const mmix_tensor *as_y,
                          mmix_real *y, int add)
{
    mmixi_put_job j;
    j.m = m;
    j.as_x = as_x;
    j.as_y = as_y;
    j.x = x;
    j.y = y;
    j.add = add;
    mmixi_ranges(m, mmixi_rows(as_x), mmixi_row_grain(mmixi_cols(as_x)), mmixi_put_range, &j);
}
static void mmixi_zero_range(void *arg, size_t begin, size_t end, size_t lane)
{
    (void)lane;
    memset((mmix_real *)arg + begin, 0, (end - begin) * sizeof(mmix_real));
}
static void mmixi_zero(mmix_ctx *m, size_t n, mmix_real *x)
{
    mmixi_ranges(m, n, 1 << 15, mmixi_zero_range, x);
}

/* mmix_data for writing: what was packed of the values is out of date. */
static mmix_real *mmixi_overwrite(mmix_tensor *t)
{
    if (t) (t->base ? t->base : t)->packed = NULL;
    return mmix_data(t);
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
    if (!x) return t;
    for (size_t r = 0, n = mmixi_cols(t); r < mmixi_rows(t); r++)
        for (size_t i = 0; i < n; i++)
            x[mmixi_row_offset(t, r) + i] = (mmix_real)(deviation * mmix_random_normal(m, MMIXI_RANDOM_RANDN,
                    stream, r * n + i));
    return t;
}
MMIXDEF int mmix_read(const mmix_tensor *t, mmix_real *values)
{
    const mmix_real *x = mmix_data(t);
    if (!x) return t ? mmix_fail(t->m, MMIX_ERROR_ARGUMENT, "mmix_read: there are no real values") : -1;
    for (size_t r = 0, n = mmixi_cols(t); r < mmixi_rows(t); r++)
        memcpy(values + r * n, x + mmixi_row_offset(t, r), n * sizeof *x);
    return 0;
}
MMIXDEF int mmix_write(mmix_tensor *t, const mmix_real *values)
{
    mmix_real *x = mmixi_overwrite(t);
    if (!x) return t ? mmix_fail(t->m, MMIX_ERROR_ARGUMENT, "mmix_write: there are no real values") : -1;
    for (size_t r = 0, n = mmixi_cols(t); r < mmixi_rows(t); r++)
        memcpy(x + mmixi_row_offset(t, r), values + r * n, n * sizeof *x);
    return 0;
}
MMIXDEF double mmix_item(const mmix_tensor *t)
{
    const mmix_real *x = mmix_data(t);
    return x && mmix_count(t) == 1 ? (double)*x : (double)NAN;
}

/* ---- checking arguments ---- */

#define MMIXI_ANY ((size_t)-1)

static const char *mmixi_shape_text(const mmix_tensor *t, char text[96])
{
    size_t at = 1;
    strcpy(text, "(");
    for (int i = 0; i < t->ndim; i++)
        at += (size_t)snprintf(text + at, 96 - at, i ? ", %.9g" : "%.9g", (double)t->shape[i]);
    snprintf(text + at, 96 - at, ")");
    return text;
}

/* Whether t is there, of that type and shape (ndim -1: any number of axes, only the last has to be `a`); else
   an error. */
static int mmixi_check(mmix_ctx *m, const char *op, const char *name, const mmix_tensor *t, int dtype,
                       int ndim, size_t a, size_t b, size_t c, size_t d)
{
    static const char types[3][8] = { "real", "int32", "u8" };
    size_t want[4];
    char found[96], expected[96] = "(…, ";
    size_t at;
    int ok;
    want[0] = a; want[1] = b; want[2] = c; want[3] = d;
    if (!m || m->error_kind) return 0;
    if (!t) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s is NULL", op, name), 0;
    if (t->m != m && !t->lasting)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s belongs to another context", op, name), 0;
    if (t->dtype != dtype)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s is %s, expected %s", op, name, types[t->dtype],
                         types[dtype]), 0;
    if (!mmixi_data(t, dtype))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s has no values (%s)", op, name, t->lasting
                         ? "mmix_params_allocate comes first" : "mmix_backward consumed it"), 0;
    ok = ndim < 0 ? a == MMIXI_ANY || (t->ndim && t->shape[t->ndim - 1] == a) : t->ndim == ndim;
    for (int i = 0; ok && i < ndim; i++) ok = want[i] == MMIXI_ANY || t->shape[i] == want[i];
    if (ok) return 1;
    at = ndim < 0 ? strlen(expected) : 1;
    for (int i = 0; i < (ndim < 0 ? 1 : ndim); i++)
        if (want[i] == MMIXI_ANY)
            at += (size_t)snprintf(expected + at, sizeof expected - at, i ? ", *" : "*");
        else at += (size_t)snprintf(expected + at, sizeof expected - at, i ? ", %.9g" : "%.9g",
                                    (double)want[i]);
    snprintf(expected + at, sizeof expected - at, ")");
    mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s has shape %s, expected %s", op, name,
              mmixi_shape_text(t, found), expected);
    return 0;
}
/* The same of one that may be NULL. */
static int mmixi_optional(mmix_ctx *m, const char *op, const char *name, const mmix_tensor *t, int dtype,
                          int ndim, size_t a, size_t b, size_t c, size_t d)
{
    return !t || mmixi_check(m, op, name, t, dtype, ndim, a, b, c, d);
}
static int mmixi_check_real(mmix_ctx *m, const char *op, const char *name, const mmix_tensor *t)
{
    return mmixi_check(m, op, name, t, MMIX_DTYPE_REAL, -1, MMIXI_ANY, 0, 0, 0);
}

/* ---- views ---- */

static mmix_tensor *mmixi_view(mmix_ctx *m, mmix_tensor *t, size_t offset)
{
    mmix_tensor *v = mmixi_tensor(m);
    if (!v) return NULL;
    *v = *t;
    v->base = t->base ? t->base : t;
    v->offset = t->offset + offset;
    v->grad = NULL;
    v->data = NULL;
    v->packed = NULL;
    return v;
}
static mmix_tensor *mmixi_owner(mmix_tensor *t) { return t->base ? t->base : t; }
static int mmixi_wants(const mmix_tensor *t)
{
    return t && t->dtype == MMIX_DTYPE_REAL && (t->base ? t->base->wants : t->wants);
}

MMIXDEF mmix_tensor *mmix_slice(mmix_ctx *m, mmix_tensor *t, int axis, size_t start, size_t count)
{
    mmix_tensor *v;
    int a;
    if (!mmixi_check(m, "mmix_slice", "t", t, t ? t->dtype : MMIX_DTYPE_REAL, -1, MMIXI_ANY, 0, 0, 0))
        return NULL;
    a = mmixi_axis(t, axis);
    if (a < 0 || a >= t->ndim || !count || start > t->shape[a] || count > t->shape[a] - start) {
        char text[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_slice: %.0f elements from %.0f on axis %d of %s",
                  (double)count, (double)start, axis, mmixi_shape_text(t, text));
        return NULL;
    }
    v = mmixi_view(m, t, start * t->stride[a]);
    if (v) v->shape[a] = count;
    return v;
}

/* ---- gradients ---- */

MMIXDEF mmix_tensor *mmix_require_grad(mmix_tensor *t)
{
    mmix_tensor *owner = t ? mmixi_owner(t) : NULL;
    if (!t || t->dtype != MMIX_DTYPE_REAL) return t;
    if (owner->lasting && !owner->grad)
        mmix_fail(owner->m, MMIX_ERROR_ARGUMENT, "mmix_require_grad: for parameters call mmix_params_train");
    else owner->wants = 1;
    return t;
}

/* Gives an owner its gradient tensor; NULL on error. */
static mmix_tensor *mmixi_make_grad(mmix_ctx *m, mmix_tensor *t)
{
    if (!t->grad) {
        mmix_tensor *g = mmixi_tensor(m);
        size_t bytes = g ? mmixi_describe(m, g, "gradient", MMIX_DTYPE_REAL, t->ndim, t->shape) : 0;
        if (!bytes) return NULL;
        g->data = mmixi_step_high(m, bytes);
        if (!g->data) return NULL;
        t->grad = g;
        if (t->leaf) {
            t->next_graded = m->graded;
            m->graded = t;
        }
    }
    return t->grad;
}
/* Leaves that came to a gradient after `until` did have none again. */
static void mmixi_drop_gradients(mmix_ctx *m, mmix_tensor *until)
{
    for (; m->graded != until; m->graded = m->graded->next_graded) {
        m->graded->grad = NULL;
        m->graded->written = 0;
    }
}

MMIXDEF mmix_real *mmix_grad_target(mmix_ctx *m, mmix_tensor *t, int *add)
{
    mmix_tensor *owner;
    if (!mmixi_wants(t)) return NULL;
    owner = mmixi_owner(t);
    if (!mmixi_make_grad(m, owner)) return NULL;
    if (owner->lent) {
        mmix_real *own = (mmix_real *)mmixi_step_high(m, mmixi_bytes(owner));
        if (!own) return NULL;
        mmixi_put_all(m, owner, (const mmix_real *)owner->grad->data, owner, own, 0);
        owner->grad->data = own;
        owner->grad->base = NULL;
        owner->lent = 0;
    }
    /* a view's share of the gradient: the rest of it begins at zero */
    if (t->base && !owner->written) {
        mmixi_zero(m, mmix_count(owner), (mmix_real *)owner->grad->data);
        owner->written = 1;
    }
    *add = owner->written;
    owner->written = 1;
    return (mmix_real *)owner->grad->data + (t->base ? t->offset : 0);
}

/* Where tasks that write every element once write the gradient of an input. With *add 0 no other input's
   gradient lies there. */
static mmix_real *mmixi_grad_once(mmix_ctx *m, const mmix_call *call, int i, int *add)
{
    mmix_tensor *t = call->in[i];
    mmix_real *d = mmix_grad_target(m, t, add);
    int shared = 0;
    if (!d) *add = 0;
    for (int z = 0; d && z < MMIX_MAX_INPUTS; z++)
        shared |= z != i && call->in[z] && mmixi_owner(call->in[z]) == mmixi_owner(t);
    if (d && !*add && shared) {
        mmixi_zero(m, mmix_count(t), d);
        *add = 1;
    }
    return d;
}

/* The gradient of an output is that of the input t too: handed over if t has none yet, else added. To be
   called last, the output has none after it. */
static void mmixi_grad_pass(mmix_ctx *m, mmix_tensor *t, mmix_tensor *out)
{
    int add;
    mmix_real *d;
    if (!mmixi_wants(t)) return;
    if (!t->base && !t->leaf && !t->grad) {
        t->grad = out->grad;
        t->lent = out->lent;
        memcpy(t->grad->shape, t->shape, sizeof t->shape);
        memcpy(t->grad->stride, t->stride, sizeof t->stride);
        t->grad->ndim = t->ndim;
        t->written = 1;
        out->grad = NULL;
        out->written = 0;
        return;
    }
    d = mmix_grad_target(m, t, &add);
    if (d) mmixi_put_all(m, out, (const mmix_real *)out->grad->data, t, d, add);
}

MMIXDEF mmix_tensor *mmix_grad(const mmix_tensor *t)
{
    mmix_tensor *owner, *v;
    if (!t || !mmixi_wants(t)) return NULL;
    owner = t->base ? t->base : NULL;
    if (!owner) return t->written ? t->grad : NULL;
    if (!owner->written) return NULL;
    v = mmixi_view(t->m, owner->grad, t->offset);
    if (!v) return NULL;
    v->ndim = t->ndim;
    memcpy(v->shape, t->shape, sizeof v->shape);
    memcpy(v->stride, t->stride, sizeof v->stride);
    return v;
}

/* ---- the tape ---- */

MMIXDEF int mmix_record(mmix_ctx *m, int on)
{
    int was = m ? m->recording : 0;
    if (m) m->recording = on;
    return was;
}

MMIXDEF mmix_real *mmix_save(mmix_ctx *m, mmix_call *call, int slot, size_t count)
{
    call->saved[slot] = (mmix_real *)mmixi_step(m, count * sizeof(mmix_real));
    call->saved_count[slot] = count;
    return call->saved[slot];
}

/* Runs an op whose call holds inputs and outputs; records it if an input wants a gradient, or call->recorded
   is 1 before. 0, or -1. `options` is copied, unless size is 0. */
static int mmixi_run_functions(mmix_ctx *m, const mmix_op_functions *run, mmix_call *call,
                               const void *options, size_t size)
{
    int wants = call->recorded;
    if (m->error_kind || !call->out[0]) return -1;
    for (int i = 0; i < MMIX_MAX_INPUTS; i++) wants |= mmixi_wants(call->in[i]);
    call->recorded = wants && m->recording;
    call->options = options;
    if (call->recorded) {
        void *node = m->node;
        if (mmixi_grow(m, &node, &m->node_capacity, m->nodes + 1, sizeof *m->node)) return -1;
        m->node = (mmixi_node *)node;
        if (size) {
            void *copy = mmixi_header(m, size);
            if (!copy) return -1;
            memcpy(copy, options, size);
            call->options = copy;
        }
    }
    if (run->forward(m, call) || m->error_kind) return -1;
    for (int i = 0; i < 2; i++) {
        mmix_tensor *out = call->out[i];
        if (!out) continue;
        out->leaf = !call->recorded;
        out->wants = call->recorded && out->dtype == MMIX_DTYPE_REAL;
        if (mmix_count(out) == 1 && out->dtype == MMIX_DTYPE_REAL) {
            out->scalar = *(mmix_real *)out->data;
            if (!call->recorded) out->data = &out->scalar;
        }
    }
    if (call->recorded) {
        m->node[m->nodes].run = *run;
        m->node[m->nodes++].call = *call;
    }
    return 0;
}
static mmix_tensor *mmixi_run(mmix_ctx *m, int op, mmix_call *call, const void *options, size_t size)
{
    return mmixi_run_functions(m, &m->table[op], call, options, size) ? NULL : call->out[0];
}

/* The gradient that reached an output, or NULL if none did. */
static const mmix_real *mmixi_out_grad(const mmix_tensor *out)
{
    return out && out->written ? (const mmix_real *)out->grad->data : NULL;
}
/* The same for an output whose operation may have been asked for its other outputs alone: then zeros in step
   memory, or NULL for lack of it. Only read, though a mmix_heads has no const. */
static mmix_real *mmixi_out_grad_or_zeros(mmix_ctx *m, const mmix_tensor *out)
{
    const size_t n = mmix_count(out);
    mmix_real *zeros;
    if (out->written) return (mmix_real *)out->grad->data;
    zeros = mmixi_reals(m, n, 1);
    if (zeros) memset(zeros, 0, n * sizeof *zeros);
    return zeros;
}

/* Frees what a node held, the last taken first. */
static void mmixi_node_free(mmix_ctx *m, mmixi_node *node)
{
    for (int i = MMIX_MAX_SAVED; i-- > 0;)
        mmixi_step_free(m, node->call.saved[i], node->call.saved_count[i] * sizeof(mmix_real));
    for (int i = 2; i-- > 0;) {
        mmix_tensor *out = node->call.out[i];
        size_t bytes = out ? mmix_count(out) * mmixi_dtype_size(out->dtype) : 0;
        if (!out) continue;
        if (out->grad && !out->lent) mmixi_step_free(m, out->grad->data, bytes);
        mmixi_step_free(m, out->data, bytes);
        out->grad = NULL;
        out->wants = out->written = out->lent = 0;
        out->data = mmix_count(out) == 1 && out->dtype == MMIX_DTYPE_REAL ? &out->scalar : NULL;
    }
}

/* Walks the nodes above `bottom`. */
static int mmixi_backward(mmix_ctx *m, size_t bottom)
{
    int was_recording = m->recording, was_inside = m->in_backward, failed = 0;
    void *hole = m->hole;
    m->recording = 0;
    m->in_backward = 1;
    if (mmixi_grow(m, &hole, &m->hole_capacity, 512, sizeof *m->hole)) failed = 1;
    m->hole = (mmixi_hole *)hole;
    while (m->nodes > bottom) {
        mmixi_node node = m->node[--m->nodes];
        if (!failed && (mmixi_out_grad(node.call.out[0]) || mmixi_out_grad(node.call.out[1]))) {
            mmix_mark mark = mmix_mark_here(m);
            if (!node.run.backward)
                mmix_fail(m, MMIX_ERROR_ARGUMENT,
                          "mmix_backward: a custom op without a backward function is in the way");
            failed = m->error_kind || node.run.backward(m, &node.call) || m->error_kind;
            mmix_rewind(m, mark);
        }
        mmixi_node_free(m, &node);
    }
    m->recording = was_recording;
    m->in_backward = was_inside;
    /* gradients may live in a later block than the low end does; the marks of the next ops must cover them */
    for (size_t i = m->step.count; !was_inside && i-- > m->step.current + 1;)
        if (m->step.block[i].high < m->step.block[i].size) m->step.current = i;
    return failed ? -1 : 0;
}

/* g becomes, or is added to, the gradient of t. 0, or -1. */
static int mmixi_seed_grad(mmix_ctx *m, mmix_tensor *t, mmix_tensor *g)
{
    mmix_real *to;
    int add;
    if (!t->base && !t->leaf && !t->grad && mmixi_owner(g)->leaf && mmixi_contiguous(g)) {
        t->grad = mmixi_view(m, g, 0);           /* nothing is copied, unless more is added to it */
        if (!t->grad) return -1;
        t->grad->data = mmix_data(g);
        t->lent = t->written = 1;
        return 0;
    }
    to = mmix_grad_target(m, t, &add);
    if (!to) return -1;
    mmixi_put_all(m, g, mmix_data(g), t, to, add);
    return 0;
}
MMIXDEF int mmix_backward_from(mmix_ctx *m, mmix_tensor **outputs, mmix_tensor **gradients, size_t n)
{
    if (m->error_kind) return -1;
    for (size_t k = 0; k < n; k++) {
        mmix_tensor *t = outputs[k], *g = gradients[k];
        if (!mmixi_check_real(m, "mmix_backward", "output", t)
            || !mmixi_check_real(m, "mmix_backward", "gradient", g)) return -1;
        if (t->ndim != g->ndim || memcmp(t->shape, g->shape, (size_t)t->ndim * sizeof(size_t))) {
            char a[96], b[96];
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_backward: gradient %d has shape %s, its output %s",
                             (int)k, mmixi_shape_text(g, a), mmixi_shape_text(t, b));
        }
        if (!mmixi_wants(t))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "mmix_backward: output %d was not recorded (mmix_record is off, or nothing "
                             "it depends on asked for a gradient, or a backward consumed it)", (int)k);
    }
    for (size_t k = 0; k < n; k++)
        if (mmixi_seed_grad(m, outputs[k], gradients[k])) return -1;
    return mmixi_backward(m, 0);
}

MMIXDEF int mmix_backward(mmix_ctx *m, mmix_tensor *loss)
{
    mmix_real one = 1;
    mmix_tensor *seed;
    if (!mmixi_check_real(m, "mmix_backward", "loss", loss)) return -1;
    if (mmix_count(loss) != 1) {
        char text[96];
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_backward: loss has shape %s, expected one element",
                         mmixi_shape_text(loss, text));
    }
    seed = mmix_from(m, loss->ndim, loss->shape, &one);
    return seed ? mmix_backward_from(m, &loss, &seed, 1) : -1;
}

MMIXDEF mmix_tensor *mmix_custom(mmix_ctx *m, mmix_tensor **inputs, size_t n, int ndim, const size_t *shape,
                                 mmix_op_functions functions, const void *user)
{
    mmix_call call;
    memset(&call, 0, sizeof call);
    if (n > MMIX_MAX_INPUTS) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_custom: %d inputs, at most %d", (int)n, MMIX_MAX_INPUTS);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (inputs[i] && !mmixi_check(m, "mmix_custom", "an input", inputs[i], inputs[i]->dtype, -1,
                                      MMIXI_ANY, 0, 0, 0)) return NULL;
        call.in[i] = inputs[i];
    }
    call.out[0] = mmixi_new(m, "mmix_custom", MMIX_DTYPE_REAL, ndim, shape);
    return mmixi_run_functions(m, &functions, &call, user, 0) ? NULL : call.out[0];
}

enum { MMIXI_KEEP = 8 };
/* Whether the n tensors, taken anew one after another from `used` on, come to lie below where they are, each
   clear of the next: then they can be moved down without a copy. Not in a regression build, where what is
   dropped is overwritten. */
static int mmixi_keep_falls(const mmixi_block *b, size_t used, const mmix_tensor *was, size_t n)
{
    uintptr_t to = (uintptr_t)b->base + used;
#ifdef MMIX_REGRESSION
    return 0;
#endif
    for (size_t i = 0; i < n; i++) {
        const uintptr_t from = (uintptr_t)was[i].data;
        if (from < to || from + mmixi_bytes(&was[i]) > (uintptr_t)b->base + b->low) return 0;
        to += mmixi_step_size(mmixi_bytes(&was[i]));
        if (i + 1 < n && (uintptr_t)was[i + 1].data < from + mmixi_bytes(&was[i])) return 0;
    }
    return to <= (uintptr_t)b->base + b->high;
}
/* Else the kept tensors wait at the high end while the low end goes back. */
MMIXDEF int mmix_rewind_keep(mmix_ctx *m, mmix_mark mark, mmix_tensor **keep, size_t n)
{
    void *copy[MMIXI_KEEP];
    mmix_tensor was[MMIXI_KEEP];
    if (m->error_kind) return -1;
    if (n > MMIXI_KEEP || m->nodes > mark.nodes)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, n > MMIXI_KEEP ? "mmix_rewind_keep: at most 8 tensors"
                         : "mmix_rewind_keep: ops were recorded since the mark");
    for (size_t i = 0; i < n; i++) {
        if (!keep[i] || !mmixi_data(keep[i], keep[i]->dtype) || !mmixi_contiguous(keep[i]))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "mmix_rewind_keep: tensor %d is NULL or a view with gaps", (int)i);
        was[i] = *keep[i];
        was[i].data = mmixi_data(keep[i], was[i].dtype);         /* of a view it is the base's */
    }
    if (m->step.count && mmixi_keep_falls(&m->step.block[mark.block], mark.used, was, n)) {
        mmixi_rewind(m, mark, 0);
        for (size_t i = 0; i < n; i++) {
            keep[i] = mmixi_new(m, "mmix_rewind_keep", was[i].dtype, was[i].ndim, was[i].shape);
            if (!keep[i]) return -1;
            keep[i]->wants = was[i].leaf && was[i].wants;
            mmixi_unpoison(was[i].data, mmixi_bytes(&was[i]));
            memmove(keep[i]->data, was[i].data, mmixi_bytes(&was[i]));
        }
        mmixi_poison_free(&m->step.block[mark.block]);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        copy[i] = mmixi_arena_take(m, &m->step, mmixi_step_size(mmixi_bytes(&was[i])), 1);    /* in no hole */
        if (!copy[i]) return -1;
        memcpy(copy[i], was[i].data, mmixi_bytes(&was[i]));
    }
    mmixi_rewind(m, mark, 0);
    for (size_t i = 0; i < n; i++) {
        keep[i] = mmixi_new(m, "mmix_rewind_keep", was[i].dtype, was[i].ndim, was[i].shape);
        if (!keep[i]) return -1;
        keep[i]->wants = was[i].leaf && was[i].wants;
        memcpy(keep[i]->data, copy[i], mmixi_bytes(&was[i]));
    }
    for (size_t i = n; i-- > 0;)
        mmixi_step_free(m, copy[i], mmixi_bytes(&was[i]));
    return 0;
}

static mmix_tensor *mmixi_copied(mmix_ctx *m, mmix_tensor *x);             /* with the elementary ops */
typedef struct mmixi_again { mmix_block_function *f; const void *user; } mmixi_again;
static int mmixi_checkpoint_forward(mmix_ctx *m, mmix_call *call) { (void)m; (void)call; return 0; }
static int mmixi_checkpoint_backward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_again *o = (const mmixi_again *)call->options;
    const size_t bottom = m->nodes;
    const int was = m->again;
    const mmix_mark from = m->again_from;
    mmix_tensor *y;
    int failed = 0;
    m->again_from = mmix_mark_here(m);
    m->again = 1;
    mmix_record(m, 1);
    y = o->f(m, o->user, call->in);
    mmix_record(m, 0);
    if (y && mmixi_wants(y)) {
        failed = mmixi_seed_grad(m, y, call->out[0]->grad);
        failed |= mmixi_backward(m, bottom);
    }
    m->again = was;
    m->again_from = from;
    return !y || failed ? -1 : 0;
}
MMIXDEF mmix_tensor *mmix_checkpoint(mmix_ctx *m, mmix_block_function *f, const void *user, size_t size,
                                     mmix_tensor **inputs, size_t n)
{
    const mmix_op_functions functions = { mmixi_checkpoint_forward, mmixi_checkpoint_backward };
    const int recording = m->recording;
    mmix_call call;
    mmixi_again o;
    mmix_mark mark;
    memset(&call, 0, sizeof call);
    if (m->error_kind) return NULL;
    if (n > MMIX_MAX_INPUTS) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_checkpoint: %d inputs, at most %d", (int)n, MMIX_MAX_INPUTS);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) call.in[i] = inputs[i];
    if (!recording) return f(m, user, call.in);
    o.f = f;
    o.user = user;
    if (size) {
        void *copy = mmixi_header(m, size);
        if (!copy) return NULL;
        o.user = memcpy(copy, user, size);
    }
    mark = mmix_mark_here(m);
    mmix_record(m, 0);
    call.out[0] = f(m, o.user, call.in);
    if (call.out[0] && !mmixi_contiguous(call.out[0])) call.out[0] = mmixi_copied(m, call.out[0]);
    mmix_record(m, recording);
    if (!call.out[0] || mmix_rewind_keep(m, mark, call.out, 1)) return NULL;
    call.recorded = 1;
    return mmixi_run_functions(m, &functions, &call, &o, sizeof o) ? NULL : call.out[0];
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

   A forward gets outputs that are allocated; a backward asks mmix_grad_target where an input's gradient goes
   and whether to add (see >>api-tape). Most ops work on rows: the leading axes counted together, the last one
   contiguous.
   ==================================================================================== */

static mmix_call mmixi_call(mmix_tensor *a, mmix_tensor *b, mmix_tensor *c)
{
    mmix_call call;
    memset(&call, 0, sizeof call);
    call.in[0] = a; call.in[1] = b; call.in[2] = c;
    return call;
}


/* A job over the rows of a few operands; each op uses what it needs. */
typedef struct mmixi_rows_job {
    mmix_ctx *m;
    size_t cols, step;                           /* step: from a row of x to the next */
    const mmix_real *x, *w, *g;                  /* input; forward's result; upstream gradient */
    mmix_real *y;                                /* result */
    int add;
    void (*unary)(size_t n, const mmix_real *x, mmix_real *y);
    void (*unary_backward)(size_t n, const mmix_real *x, const mmix_real *dy, mmix_real *dx, int add);
} mmixi_rows_job;

/* ---- copy: axes in any order -------------------------------------------------------- */

typedef struct mmixi_copy_options { int order[MMIX_MAX_DIMS]; } mmixi_copy_options;

/* Walks the elements of `out` in order and says where each lies in a tensor with the strides `stride`. */
static void mmixi_copy_walk(const mmix_tensor *out, const size_t *stride, const mmix_real *from,
                            mmix_real *to, int scatter, int add)
{
    size_t index[MMIX_MAX_DIMS] = { 0 }, at = 0, n = mmix_count(out);
    for (size_t i = 0; i < n; i++) {
        if (scatter) to[at] = add ? to[at] + from[i] : from[i];
        else to[i] = from[at];
        for (int a = out->ndim; a-- > 0;) {
            at += stride[a];
            if (++index[a] < out->shape[a]) break;
            at -= stride[a] * index[a];
            index[a] = 0;
        }
    }
}
static void mmixi_copy_strides(const mmix_call *call, size_t stride[MMIX_MAX_DIMS])
{
    const mmixi_copy_options *o = (const mmixi_copy_options *)call->options;
    for (int i = 0; i < call->out[0]->ndim; i++) stride[i] = call->in[0]->stride[o->order[i]];
}
static int mmixi_copy_forward(mmix_ctx *m, mmix_call *call)
{
    size_t stride[MMIX_MAX_DIMS];
    (void)m;
    mmixi_copy_strides(call, stride);
    mmixi_copy_walk(call->out[0], stride, mmix_data(call->in[0]), mmix_data(call->out[0]), 0, 0);
    return 0;
}
static int mmixi_copy_backward(mmix_ctx *m, mmix_call *call)
{
    size_t stride[MMIX_MAX_DIMS];
    int add;
    mmix_real *dx = mmix_grad_target(m, call->in[0], &add);
    mmixi_copy_strides(call, stride);
    if (dx) mmixi_copy_walk(call->out[0], stride, mmixi_out_grad(call->out[0]), dx, 1, add);
    return 0;
}
MMIXDEF mmix_tensor *mmix_permute(mmix_ctx *m, mmix_tensor *x, const int *order)
{
    mmix_call call = mmixi_call(x, NULL, NULL);
    mmixi_copy_options o;
    size_t shape[MMIX_MAX_DIMS];
    int seen = 0;
    if (!mmixi_check_real(m, "mmix_permute", "x", x)) return NULL;
    for (int i = 0; i < x->ndim; i++) {
        o.order[i] = mmixi_axis(x, order[i]);
        if (o.order[i] < 0 || o.order[i] >= x->ndim || seen & 1 << o.order[i]) {
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_permute: order[%d] is %d, expected each of 0 … %d once",
                      i, order[i], x->ndim - 1);
            return NULL;
        }
        seen |= 1 << o.order[i];
        shape[i] = x->shape[o.order[i]];
    }
    call.out[0] = mmixi_new(m, "mmix_permute", MMIX_DTYPE_REAL, x->ndim, shape);
    return mmixi_run(m, MMIX_OP_COPY, &call, &o, sizeof o);
}
static mmix_tensor *mmixi_copied(mmix_ctx *m, mmix_tensor *x)
{
    static const int order[MMIX_MAX_DIMS] = { 0, 1, 2, 3, 4, 5 };
    return mmix_permute(m, x, order);
}
/* x itself if its rows are even (or, with `packed`, without gaps), else a copy that is. */
static mmix_tensor *mmixi_even(mmix_ctx *m, mmix_tensor *x, int packed)
{
    size_t step;
    if (!x || (mmixi_even_rows(x, &step) && (!packed || step == mmixi_cols(x)))) return x;
    return mmixi_copied(m, x);
}
static size_t mmixi_row_step(const mmix_tensor *x)
{
    size_t step;
    mmixi_even_rows(x, &step);
    return step;
}

MMIXDEF mmix_tensor *mmix_reshape(mmix_ctx *m, mmix_tensor *t, int ndim, const size_t *shape)
{
    mmix_tensor *v, is;
    size_t bytes;
    memset(&is, 0, sizeof is);
    if (!mmixi_check(m, "mmix_reshape", "t", t, t ? t->dtype : MMIX_DTYPE_REAL, -1, MMIXI_ANY, 0, 0, 0))
        return NULL;
    bytes = mmixi_describe(m, &is, "mmix_reshape", t->dtype, ndim, shape);
    if (!bytes) return NULL;
    if (mmix_count(&is) != mmix_count(t)) {
        char a[96], b[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_reshape: %s does not hold as many elements as %s",
                  mmixi_shape_text(&is, a), mmixi_shape_text(t, b));
        return NULL;
    }
    /* splitting the last axis keeps the strides of the others: (B, L, HP) with gaps becomes (B, L, H, P) */
    if (t->ndim && ndim >= t->ndim && !memcmp(shape, t->shape, (size_t)(t->ndim - 1) * sizeof *shape)) {
        v = mmixi_view(m, t, 0);
        if (!v) return NULL;
        v->ndim = ndim;
        for (int i = t->ndim - 1; i < ndim; i++) {
            v->shape[i] = shape[i];
            v->stride[i] = is.stride[i];
        }
        return v;
    }
    t = t->dtype == MMIX_DTYPE_REAL ? mmixi_even(m, t, 1) : t;
    if (t && !mmixi_contiguous(t))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_reshape: a view of integers with gaps is not copied");
    v = m->error_kind ? NULL : mmixi_view(m, t, 0);
    if (!v) return NULL;
    v->ndim = ndim;
    memcpy(v->shape, is.shape, sizeof is.shape);
    memcpy(v->stride, is.stride, sizeof is.stride);
    return v;
}

/* ---- add, mul, div: elementwise with stretched axes ------------------------------------
   add: y = α a + β b, so da = α dy, db = β dy;  mul: y = a b;  div: y = a / b, da = dy / b, db = -dy y / b.
   The gradient of a stretched axis is the sum over it, taken in order. */

typedef struct mmixi_binary_options {
    int op;
    mmix_real alpha, beta;
    /* of the output's axes: 0 where an operand is stretched */
    size_t step_a[MMIX_MAX_DIMS], step_b[MMIX_MAX_DIMS];
} mmixi_binary_options;
typedef struct mmixi_binary_job {
    const mmix_ctx *m;
    const mmixi_binary_options *o;
    const mmix_tensor *out;
    const mmix_real *a, *b, *dy, *yv;
    mmix_real *y, *da, *db;
    int add_a, add_b;
} mmixi_binary_job;

static size_t mmixi_stepped_offset(const mmix_tensor *out, const size_t *step, size_t row)
{
    size_t at = 0;
    for (int i = out->ndim - 1; i-- > 0;) {
        at += row % out->shape[i] * step[i];
        row /= out->shape[i];
    }
    return at;
}
static void mmixi_binary_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_binary_job *j = (const mmixi_binary_job *)arg;
    const mmixi_binary_options *o = j->o;
    size_t n = mmixi_cols(j->out), sa = o->step_a[MMIX_MAX_DIMS - 1], sb = o->step_b[MMIX_MAX_DIMS - 1];
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        const mmix_real *a = j->a + mmixi_stepped_offset(j->out, o->step_a, r),
            *b = j->b + mmixi_stepped_offset(j->out, o->step_b, r);
        mmix_real *y = j->y + r * n;
        if (sa && sb && o->op == MMIX_OP_ADD && o->alpha == 1 && o->beta == 1) j->m->k->add(n, a, b, y);
        else if (sa && sb && o->op == MMIX_OP_ADD) {
            j->m->k->scale(n, o->beta, b, y);
            j->m->k->axpy(n, o->alpha, a, y);
        }
        else if (sa && sb && o->op == MMIX_OP_MUL) j->m->k->mul(n, a, b, y);
        else if (o->op == MMIX_OP_ADD)
            for (size_t i = 0; i < n; i++) y[i] = o->alpha * a[i * sa] + o->beta * b[i * sb];
        else if (o->op == MMIX_OP_MUL) for (size_t i = 0; i < n; i++) y[i] = a[i * sa] * b[i * sb];
        else for (size_t i = 0; i < n; i++) y[i] = a[i * sa] / b[i * sb];
    }
}
static int mmixi_binary_forward(mmix_ctx *m, mmix_call *call)
{
    mmixi_binary_job j;
    memset(&j, 0, sizeof j);
    j.m = m;
    j.o = (const mmixi_binary_options *)call->options;
    j.out = call->out[0];
    j.a = mmix_data(call->in[0]);
    j.b = mmix_data(call->in[1]);
    j.y = mmix_data(call->out[0]);
    mmixi_ranges(m, mmixi_rows(j.out), mmixi_row_grain(mmixi_cols(j.out)), mmixi_binary_rows, &j);
    return 0;
}
static void mmixi_binary_rows_backward(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_binary_job *j = (const mmixi_binary_job *)arg;
    const mmixi_binary_options *o = j->o;
    size_t n = mmixi_cols(j->out), sa = o->step_a[MMIX_MAX_DIMS - 1], sb = o->step_b[MMIX_MAX_DIMS - 1];
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        size_t at = mmixi_stepped_offset(j->out, o->step_a, r),
            bt = mmixi_stepped_offset(j->out, o->step_b, r);
        const mmix_real *a = j->a + at, *b = j->b + bt, *dy = j->dy + r * n, *y = j->yv + r * n;
        if (o->op == MMIX_OP_ADD && sa && sb) {
            void (*give)(size_t, mmix_real, const mmix_real *, mmix_real *);
            give = j->add_a ? j->m->k->axpy : j->m->k->scale;
            if (j->da) give(n, o->alpha, dy, j->da + at);
            give = j->add_b ? j->m->k->axpy : j->m->k->scale;
            if (j->db) give(n, o->beta, dy, j->db + bt);
            continue;
        }
        for (size_t i = 0; j->da && i < n; i++) {
            mmix_real g = o->op == MMIX_OP_ADD ? o->alpha * dy[i] : o->op == MMIX_OP_MUL ? dy[i] * b[i * sb]
                : dy[i] / b[i * sb];
            j->da[at + i * sa] = j->add_a ? j->da[at + i * sa] + g : g;
        }
        for (size_t i = 0; j->db && i < n; i++) {
            mmix_real g = o->op == MMIX_OP_ADD ? o->beta * dy[i] : o->op == MMIX_OP_MUL ? dy[i] * a[i * sa]
                : -dy[i] * y[i] / b[i * sb];
            j->db[bt + i * sb] = j->add_b ? j->db[bt + i * sb] + g : g;
        }
    }
}
static int mmixi_binary_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_binary_job j;
    size_t n = mmix_count(call->out[0]);
    int stretched = mmix_count(call->in[0]) < n || mmix_count(call->in[1]) < n
        || mmixi_owner(call->in[0]) == mmixi_owner(call->in[1]);
    memset(&j, 0, sizeof j);
    j.m = m;
    j.o = (const mmixi_binary_options *)call->options;
    j.out = call->out[0];
    j.a = mmix_data(call->in[0]);
    j.b = mmix_data(call->in[1]);
    j.yv = mmix_data(call->out[0]);
    j.dy = mmixi_out_grad(call->out[0]);
    j.da = mmix_grad_target(m, call->in[0], &j.add_a);
    j.db = mmix_grad_target(m, call->in[1], &j.add_b);
    if (j.da && !j.add_a && stretched) {
        mmixi_zero(m, mmix_count(call->in[0]), j.da);
        j.add_a = 1;
    }
    if (j.db && !j.add_b && stretched) {
        mmixi_zero(m, mmix_count(call->in[1]), j.db);
        j.add_b = 1;
    }
    mmixi_ranges(m, mmixi_rows(j.out), stretched ? mmixi_rows(j.out) : mmixi_row_grain(mmixi_cols(j.out)),
                 mmixi_binary_rows_backward, &j);
    return 0;
}
static mmix_tensor *mmixi_binary(mmix_ctx *m, const char *who, int op, mmix_tensor *a, mmix_tensor *b,
                                 double alpha, double beta)
{
    mmix_call call = mmixi_call(a, b, NULL);
    mmixi_binary_options o;
    size_t shape[MMIX_MAX_DIMS];
    int ndim;
    if (!mmixi_check_real(m, who, "a", a) || !mmixi_check_real(m, who, "b", b)) return NULL;
    memset(&o, 0, sizeof o);
    o.op = op;
    o.alpha = (mmix_real)alpha;
    o.beta = (mmix_real)beta;
    ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    for (int i = 1; i <= ndim; i++) {            /* i-th axis from the right */
        size_t na = i <= a->ndim ? a->shape[a->ndim - i] : 1, nb = i <= b->ndim ? b->shape[b->ndim - i] : 1;
        if (na != nb && na != 1 && nb != 1) {
            char x[96], y[96];
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: shapes %s and %s do not go together", who,
                      mmixi_shape_text(a, x), mmixi_shape_text(b, y));
            return NULL;
        }
        shape[ndim - i] = na > nb ? na : nb;
        o.step_a[ndim - i] = i > a->ndim || na < shape[ndim - i] ? 0 : a->stride[a->ndim - i];
        o.step_b[ndim - i] = i > b->ndim || nb < shape[ndim - i] ? 0 : b->stride[b->ndim - i];
    }
    /* the last entry holds the step along a row, wherever the row's axis is */
    o.step_a[MMIX_MAX_DIMS - 1] = ndim ? o.step_a[ndim - 1] : 0;
    o.step_b[MMIX_MAX_DIMS - 1] = ndim ? o.step_b[ndim - 1] : 0;
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, ndim, shape);
    return mmixi_run(m, op, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_add(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)
{
    return mmixi_binary(m, "mmix_add", MMIX_OP_ADD, a, b, 1, 1);
}
MMIXDEF mmix_tensor *mmix_sub(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)
{
    return mmixi_binary(m, "mmix_sub", MMIX_OP_ADD, a, b, 1, -1);
}
MMIXDEF mmix_tensor *mmix_mul(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)
{
    return mmixi_binary(m, "mmix_mul", MMIX_OP_MUL, a, b, 1, 1);
}
MMIXDEF mmix_tensor *mmix_div(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)
{
    return mmixi_binary(m, "mmix_div", MMIX_OP_DIV, a, b, 1, 1);
}

/* ---- one tensor in, one of its shape out: scale, exp, log, sqrt, silu, gelu, softplus -------
   Backward gets x and dy; scale's is y = α x + β, dx = α dy. */

static void mmixi_exp_row(size_t n, const mmix_real *x, mmix_real *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (mmix_real)mmixi_exp((double)x[i]);
}
static void mmixi_exp_row_backward(size_t n, const mmix_real *x, const mmix_real *dy, mmix_real *dx, int add)
{
    for (size_t i = 0; i < n; i++) dx[i] = (add ? dx[i] : 0) + dy[i] * (mmix_real)mmixi_exp((double)x[i]);
}
static void mmixi_log_row(size_t n, const mmix_real *x, mmix_real *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (mmix_real)mmixi_log((double)x[i]);
}
static void mmixi_log_row_backward(size_t n, const mmix_real *x, const mmix_real *dy, mmix_real *dx, int add)
{
    for (size_t i = 0; i < n; i++) dx[i] = (add ? dx[i] : 0) + dy[i] / x[i];
}
static void mmixi_sqrt_row(size_t n, const mmix_real *x, mmix_real *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (mmix_real)sqrt((double)x[i]);
}
static void mmixi_sqrt_row_backward(size_t n, const mmix_real *x, const mmix_real *dy, mmix_real *dx, int add)
{
    for (size_t i = 0; i < n; i++) dx[i] = (add ? dx[i] : 0) + dy[i] * (mmix_real)(0.5 / sqrt((double)x[i]));
}
static void mmixi_unary_pick(const mmix_ctx *m, int op, mmixi_rows_job *j)
{
    j->unary = op == MMIX_OP_EXP ? mmixi_exp_row : op == MMIX_OP_LOG ? mmixi_log_row : op == MMIX_OP_SQRT
        ? mmixi_sqrt_row : op == MMIX_OP_SILU ? m->k->silu : op == MMIX_OP_GELU ? m->k->gelu : m->k->softplus;
    j->unary_backward = op == MMIX_OP_EXP ? mmixi_exp_row_backward : op == MMIX_OP_LOG
        ? mmixi_log_row_backward : op == MMIX_OP_SQRT ? mmixi_sqrt_row_backward : op == MMIX_OP_SILU
        ? m->k->silu_backward : op == MMIX_OP_GELU ? m->k->gelu_backward : m->k->softplus_backward;
}
typedef struct mmixi_unary_options { int op; mmix_real alpha, beta; } mmixi_unary_options;

static void mmixi_unary_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_rows_job *j = (const mmixi_rows_job *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++) j->unary(j->cols, j->x + r * j->step, j->y + r * j->cols);
}
static void mmixi_unary_rows_backward(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_rows_job *j = (const mmixi_rows_job *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++)
        j->unary_backward(j->cols, j->x + r * j->step, j->g + r * j->cols, j->y + r * j->step, j->add);
}
static mmixi_rows_job mmixi_rows_of(mmix_ctx *m, const mmix_tensor *x)
{
    mmixi_rows_job j;
    memset(&j, 0, sizeof j);
    j.m = m;
    j.cols = mmixi_cols(x);
    j.step = mmixi_row_step(x);
    j.x = mmix_data(x);
    return j;
}
static int mmixi_unary_forward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_unary_options *o = (const mmixi_unary_options *)call->options;
    mmixi_rows_job j = mmixi_rows_of(m, call->in[0]);
    j.y = mmix_data(call->out[0]);
    if (o->op == MMIX_OP_SCALE) {
        for (size_t r = 0; r < mmixi_rows(call->in[0]); r++)
            for (size_t i = 0; i < j.cols; i++)
                j.y[r * j.cols + i] = o->alpha * j.x[r * j.step + i] + o->beta;
        return 0;
    }
    mmixi_unary_pick(m, o->op, &j);
    mmixi_ranges(m, mmixi_rows(call->in[0]), mmixi_row_grain(j.cols), mmixi_unary_rows, &j);
    return 0;
}
static int mmixi_unary_backward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_unary_options *o = (const mmixi_unary_options *)call->options;
    mmixi_rows_job j = mmixi_rows_of(m, call->in[0]);
    j.g = mmixi_out_grad(call->out[0]);
    j.y = mmix_grad_target(m, call->in[0], &j.add);
    if (!j.y) return 0;
    if (o->op == MMIX_OP_SCALE) {
        for (size_t r = 0; r < mmixi_rows(call->in[0]); r++)
            for (size_t i = 0; i < j.cols; i++) {
                mmix_real *dx = j.y + r * j.step + i;
                *dx = (j.add ? *dx : 0) + o->alpha * j.g[r * j.cols + i];
            }
        return 0;
    }
    mmixi_unary_pick(m, o->op, &j);
    mmixi_ranges(m, mmixi_rows(call->in[0]), mmixi_row_grain(j.cols), mmixi_unary_rows_backward, &j);
    return 0;
}
static mmix_tensor *mmixi_unary(mmix_ctx *m, const char *who, int op, mmix_tensor *x, double alpha,
                                double beta)
{
    mmix_call call;
    mmixi_unary_options o;
    if (!mmixi_check_real(m, who, "x", x)) return NULL;
    x = mmixi_even(m, x, 0);
    if (!x) return NULL;
    call = mmixi_call(x, NULL, NULL);
    o.op = op;
    o.alpha = (mmix_real)alpha;
    o.beta = (mmix_real)beta;
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, x->ndim, x->shape);
    return mmixi_run(m, op, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_scale(mmix_ctx *m, mmix_tensor *x, double alpha, double beta)
{
    return mmixi_unary(m, "mmix_scale", MMIX_OP_SCALE, x, alpha, beta);
}
MMIXDEF mmix_tensor *mmix_exp(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_unary(m, "mmix_exp", MMIX_OP_EXP, x, 1, 0);
}
MMIXDEF mmix_tensor *mmix_log(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_unary(m, "mmix_log", MMIX_OP_LOG, x, 1, 0);
}
MMIXDEF mmix_tensor *mmix_sqrt(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_unary(m, "mmix_sqrt", MMIX_OP_SQRT, x, 1, 0);
}
MMIXDEF mmix_tensor *mmix_silu(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_unary(m, "mmix_silu", MMIX_OP_SILU, x, 1, 0);
}
MMIXDEF mmix_tensor *mmix_gelu(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_unary(m, "mmix_gelu", MMIX_OP_GELU, x, 1, 0);
}
MMIXDEF mmix_tensor *mmix_softplus(mmix_ctx *m, mmix_tensor *x)
{
    return mmixi_unary(m, "mmix_softplus", MMIX_OP_SOFTPLUS, x, 1, 0);
}

/* ---- sums: over one axis, over everything ------------------------------------------------- */

/* x as (outer, n, inner) */
typedef struct mmixi_axis_options { size_t outer, n, inner; } mmixi_axis_options;

static int mmixi_sum_axis_forward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_axis_options *o = (const mmixi_axis_options *)call->options;
    const mmix_real *x = mmix_data(call->in[0]);
    mmix_real *y = mmix_data(call->out[0]);
    if (o->inner == 1) {
        for (size_t i = 0; i < o->outer; i++) y[i] = m->k->sum(o->n, x + i * o->n);
        return 0;
    }
    for (size_t i = 0; i < o->outer; i++) {
        memcpy(y + i * o->inner, x + i * o->n * o->inner, o->inner * sizeof *y);
        for (size_t k = 1; k < o->n; k++)
            m->k->add(o->inner, x + (i * o->n + k) * o->inner, y + i * o->inner, y + i * o->inner);
    }
    return 0;
}
static int mmixi_sum_axis_backward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_axis_options *o = (const mmixi_axis_options *)call->options;
    const mmix_real *g = mmixi_out_grad(call->out[0]);
    int add;
    mmix_real *dx = mmix_grad_target(m, call->in[0], &add);
    if (!dx) return 0;
    for (size_t i = 0; i < o->outer; i++)
        for (size_t k = 0; k < o->n; k++) {
            mmix_real *row = dx + (i * o->n + k) * o->inner;
            for (size_t j = 0; j < o->inner; j++) row[j] = (add ? row[j] : 0) + g[i * o->inner + j];
        }
    return 0;
}
static mmix_tensor *mmixi_sum_over(mmix_ctx *m, const char *who, int op, mmix_tensor *x, int axis)
{
    mmix_call call;
    mmixi_axis_options o;
    size_t shape[MMIX_MAX_DIMS];
    int ndim = 0, a;
    if (!mmixi_check_real(m, who, "x", x)) return NULL;
    x = mmixi_even(m, x, 1);
    if (!x) return NULL;
    o.outer = o.inner = 1;
    o.n = mmix_count(x);
    if (op == MMIX_OP_SUM_AXIS) {
        a = mmixi_axis(x, axis);
        if (a < 0 || a >= x->ndim) {
            char text[96];
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: axis %d of %s", who, axis, mmixi_shape_text(x, text));
            return NULL;
        }
        o.n = x->shape[a];
        for (int i = 0; i < x->ndim; i++) {
            if (i < a) o.outer *= x->shape[i];
            if (i > a) o.inner *= x->shape[i];
            if (i != a) shape[ndim++] = x->shape[i];
        }
    }
    call = mmixi_call(x, NULL, NULL);
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, ndim, shape);
    return mmixi_run(m, op, &call, &o, sizeof o);
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
    return mmix_scale(m, mmixi_sum_over(m, "mmix_mean", MMIX_OP_SUM, x, 0), x ? 1 / (double)mmix_count(x) : 1,
                      0);
}

/* ---- matmul: c = a b for each leading index;  da = dc bᵀ, db = aᵀ dc ---------------------- */

static mmixi_gemm mmixi_gemm_of(size_t rows, size_t cols, size_t depth, const mmix_real *a, size_t ars,
                                size_t acs, const mmix_real *b, size_t brs, size_t bcs, mmix_real *c,
                                size_t ldc, int add)
{
    mmixi_mat va = mmixi_matrix(a, rows, depth, (ptrdiff_t)ars);
    mmixi_mat vb = mmixi_matrix(b, depth, cols, (ptrdiff_t)brs);
    va.cs = (ptrdiff_t)acs;
    vb.cs = (ptrdiff_t)bcs;
    return mmixi_product_of(mmixi_matrix(c, rows, cols, (ptrdiff_t)ldc), va, vb, add);
}
static int mmixi_matmul_forward(mmix_ctx *m, mmix_call *call)
{
    const mmix_tensor *a = call->in[0], *b = call->in[1];
    size_t I = mmix_shape(a, -2), J = mmix_shape(a, -1), K = mmix_shape(b, -1);
    for (size_t i = 0; i < mmix_count(a) / (I * J); i++) {
        mmixi_gemm g = mmixi_gemm_of(I, K, J, mmix_data(a) + i * I * J, J, 1, mmix_data(b) + i * J * K, K, 1,
                                     mmix_data(call->out[0]) + i * I * K, K, 0);
        if (mmixi_gemm_run(m, &g)) return -1;
    }
    return 0;
}
static int mmixi_matmul_backward(mmix_ctx *m, mmix_call *call)
{
    mmix_tensor *a = call->in[0], *b = call->in[1];
    const mmix_real *dc = mmixi_out_grad(call->out[0]);
    size_t I = mmix_shape(a, -2), J = mmix_shape(a, -1), K = mmix_shape(b, -1), n = mmix_count(a) / (I * J);
    int add;
    mmix_real *d = mmix_grad_target(m, a, &add);
    for (size_t i = 0; d && i < n; i++) {
        mmixi_gemm g = mmixi_gemm_of(I, J, K, dc + i * I * K, K, 1, mmix_data(b) + i * J * K, 1, K,
                                     d + i * I * J, J, add);
        if (mmixi_gemm_run(m, &g)) return -1;
    }
    d = mmix_grad_target(m, b, &add);
    for (size_t i = 0; d && i < n; i++) {
        mmixi_gemm g = mmixi_gemm_of(J, K, I, mmix_data(a) + i * I * J, 1, J, dc + i * I * K, K, 1,
                                     d + i * J * K, K, add);
        if (mmixi_gemm_run(m, &g)) return -1;
    }
    return 0;
}
MMIXDEF mmix_tensor *mmix_matmul(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)
{
    mmix_call call;
    size_t shape[MMIX_MAX_DIMS];
    char x[96], y[96];
    if (!mmixi_check_real(m, "mmix_matmul", "a", a) || !mmixi_check_real(m, "mmix_matmul", "b", b))
        return NULL;
    if (a->ndim < 2 || a->ndim != b->ndim || mmix_shape(a, -1) != mmix_shape(b, -2)
        || memcmp(a->shape, b->shape, (size_t)(a->ndim - 2) * sizeof(size_t))) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_matmul: shapes %s and %s, expected (…, I, J) and (…, J, K)",
                  mmixi_shape_text(a, x), mmixi_shape_text(b, y));
        return NULL;
    }
    a = mmixi_even(m, a, 1);
    b = mmixi_even(m, b, 1);
    if (!a || !b) return NULL;
    memcpy(shape, a->shape, sizeof shape);
    shape[a->ndim - 1] = mmix_shape(b, -1);
    call = mmixi_call(a, b, NULL);
    call.out[0] = mmixi_new(m, "mmix_matmul", MMIX_DTYPE_REAL, a->ndim, shape);
    return mmixi_run(m, MMIX_OP_MATMUL, &call, NULL, 0);
}

/* ---- concat, gather, insert_token: rows moved about ---------------------------------------- */

/* One part at a time: out[outer, at … at + n, inner] = part, where out has `total` on that axis. */
typedef struct mmixi_concat_options { size_t outer, inner, total, count; } mmixi_concat_options;

static int mmixi_concat_move(mmix_ctx *m, mmix_call *call, int back)
{
    const mmixi_concat_options *o = (const mmixi_concat_options *)call->options;
    const mmix_real *g = back ? mmixi_out_grad(call->out[0]) : NULL;
    size_t at = 0;
    for (size_t p = 0; p < o->count; p++) {
        size_t run = mmix_count(call->in[p]) / o->outer;
        int add = 0;
        mmix_real *part = back ? mmix_grad_target(m, call->in[p], &add) : mmix_data(call->in[p]);
        for (size_t i = 0; part && i < o->outer; i++) {
            if (back) mmixi_put(m->k, run, g + i * o->total * o->inner + at, part + i * run, add);
            else memcpy(mmix_data(call->out[0]) + i * o->total * o->inner + at, part + i * run,
                        run * sizeof *part);
        }
        at += run;
    }
    return 0;
}
static int mmixi_concat_forward(mmix_ctx *m, mmix_call *call) { return mmixi_concat_move(m, call, 0); }
static int mmixi_concat_backward(mmix_ctx *m, mmix_call *call) { return mmixi_concat_move(m, call, 1); }
MMIXDEF mmix_tensor *mmix_concat(mmix_ctx *m, int axis, mmix_tensor **parts, size_t n)
{
    mmix_call call = mmixi_call(NULL, NULL, NULL);
    mmixi_concat_options o;
    size_t shape[MMIX_MAX_DIMS];
    int a = 0;
    memset(&o, 0, sizeof o);
    o.outer = o.inner = 1;
    o.count = n;
    if (!n || n > MMIX_MAX_INPUTS) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_concat: %d parts, expected 1 to %d", (int)n, MMIX_MAX_INPUTS);
        return NULL;
    }
    for (size_t p = 0; p < n; p++) {
        const mmix_tensor *t = parts[p];
        int same;
        if (!mmixi_check_real(m, "mmix_concat", "a part", t)) return NULL;
        if (!p) {
            a = mmixi_axis(t, axis);
            memcpy(shape, t->shape, sizeof shape);
        }
        same = a >= 0 && a < t->ndim && t->ndim == parts[0]->ndim;
        for (int i = 0; same && i < t->ndim; i++) same = i == a || t->shape[i] == shape[i];
        if (!same) {
            char x[96], y[96];
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_concat: part %d has shape %s, the first %s; axis %d",
                      (int)p, mmixi_shape_text(t, x), mmixi_shape_text(parts[0], y), axis);
            return NULL;
        }
        o.total += t->shape[a];
        call.in[p] = mmixi_even(m, parts[p], 1);
        if (!call.in[p]) return NULL;
    }
    for (int i = 0; i < parts[0]->ndim; i++) {
        if (i < a) o.outer *= shape[i];
        if (i > a) o.inner *= shape[i];
    }
    shape[a] = o.total;
    call.out[0] = mmixi_new(m, "mmix_concat", MMIX_DTYPE_REAL, parts[0]->ndim, shape);
    return mmixi_run(m, MMIX_OP_CONCAT, &call, &o, sizeof o);
}

/* Number i of an integer tensor in row-major order. */
static int32_t mmixi_index(const mmix_tensor *t, size_t i)
{
    size_t n = mmixi_cols(t);
    return mmix_data_i32(t)[mmixi_row_offset(t, i / n) + i % n];
}
/* Rows of a table, forward all of some rows, backward (into the table's gradient) some columns of all rows:
   a row may be there twice. */
typedef struct mmixi_gather_job { const mmix_ctx *m; const mmix_tensor *index; const mmix_real *from;
                                 mmix_real *to; size_t D, step; } mmixi_gather_job;
static void mmixi_gather_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_gather_job *j = (const mmixi_gather_job *)arg;
    (void)lane;
    for (size_t i = begin; i < end; i++)
        memcpy(j->to + i * j->D, j->from + (size_t)mmixi_index(j->index, i) * j->step, j->D * sizeof *j->to);
}
static void mmixi_gather_back(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_gather_job *j = (const mmixi_gather_job *)arg;
    (void)lane;
    for (size_t i = 0; i < mmix_count(j->index); i++) {
        mmix_real *row = j->to + (size_t)mmixi_index(j->index, i) * j->step + begin;
        j->m->k->add(end - begin, j->from + i * j->D + begin, row, row);
    }
}
static int mmixi_gather_forward(mmix_ctx *m, mmix_call *call)
{
    mmixi_gather_job j;
    j.m = m;
    j.index = call->in[1];
    j.from = mmix_data(call->in[0]);
    j.to = mmix_data(call->out[0]);
    j.D = call->in[0]->shape[1];
    j.step = call->in[0]->stride[0];
    mmixi_ranges(m, mmix_count(j.index), mmixi_row_grain(j.D), mmixi_gather_range, &j);
    return 0;
}
static int mmixi_gather_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_gather_job j;
    int add;
    j.m = m;
    j.index = call->in[1];
    j.from = mmixi_out_grad(call->out[0]);
    j.to = mmix_grad_target(m, call->in[0], &add);
    j.D = call->in[0]->shape[1];
    j.step = call->in[0]->stride[0];
    if (!j.to) return 0;
    if (!add) mmixi_zero(m, mmix_count(call->in[0]), j.to);
    mmixi_ranges(m, j.D, 64, mmixi_gather_back, &j);
    return 0;
}
MMIXDEF mmix_tensor *mmix_gather(mmix_ctx *m, mmix_tensor *table, mmix_tensor *index)
{
    mmix_call call = mmixi_call(table, index, NULL);
    size_t shape[MMIX_MAX_DIMS];
    if (!mmixi_check(m, "mmix_gather", "table", table, MMIX_DTYPE_REAL, 2, MMIXI_ANY, MMIXI_ANY, 0, 0)
        || !mmixi_check(m, "mmix_gather", "index", index, MMIX_DTYPE_I32, -1, MMIXI_ANY, 0, 0,
                        0)) return NULL;
    for (size_t i = 0; i < mmix_count(index); i++)
        if (mmixi_index(index, i) < 0 || (size_t)mmixi_index(index, i) >= table->shape[0]) {
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_gather: index[%.0f] is %d, the table has %.0f rows",
                      (double)i, (int)mmixi_index(index, i), (double)table->shape[0]);
            return NULL;
        }
    memcpy(shape, index->shape, sizeof shape);
    if (index->ndim < MMIX_MAX_DIMS) shape[index->ndim] = table->shape[1];
    call.out[0] = mmixi_new(m, "mmix_gather", MMIX_DTYPE_REAL, index->ndim + 1, shape);
    return mmixi_run(m, MMIX_OP_GATHER, &call, NULL, 0);
}

/* x (B, L, D) with the tokens of part (B, n, D) added at index (n). */
static int mmixi_add_rows_run(mmix_ctx *m, const mmix_tensor *index, const mmix_tensor *as_part,
                              mmix_real *part, const mmix_tensor *as_all, mmix_real *all, int back, int add)
{
    const size_t D = as_all->shape[2];
    for (size_t b = 0; b < as_all->shape[0]; b++)
        for (size_t i = 0; i < as_part->shape[1]; i++) {
            mmix_real *row = all + b * as_all->stride[0] + (size_t)mmixi_index(index, i) * as_all->stride[1],
                *own = part + b * as_part->stride[0] + i * as_part->stride[1];
            if (back) mmixi_put(m->k, D, row, own, add);
            else mmixi_put(m->k, D, own, row, 1);
        }
    return 0;
}
static int mmixi_add_rows_forward(mmix_ctx *m, mmix_call *call)
{
    const mmix_tensor *x = call->in[0], *part = call->in[1], *y = call->out[0];
    mmixi_put_all(m, x, mmix_data(x), y, mmix_data(y), 0);
    return mmixi_add_rows_run(m, call->in[2], part, mmix_data(part), y, mmix_data(y), 0, 0);
}
static int mmixi_add_rows_backward(mmix_ctx *m, mmix_call *call)
{
    mmix_tensor *y = call->out[0];
    mmix_real *g = (mmix_real *)(uintptr_t)mmixi_out_grad(y), *d;
    int add;
    d = mmix_grad_target(m, call->in[1], &add);
    if (d) mmixi_add_rows_run(m, call->in[2], call->in[1], d, y, g, 1, add);
    if (!m->error_kind) mmixi_grad_pass(m, call->in[0], y);
    return 0;
}
MMIXDEF mmix_tensor *mmix_add_rows(mmix_ctx *m, mmix_tensor *x, mmix_tensor *part, mmix_tensor *index)
{
    const char *who = "mmix_add_rows";
    mmix_call call = mmixi_call(x, part, index);
    const size_t n = mmix_shape(index, 0);
    if (!mmixi_check(m, who, "x", x, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0)
        || !mmixi_check(m, who, "index", index, MMIX_DTYPE_I32, 1, MMIXI_ANY, 0, 0, 0)
        || !mmixi_check(m, who, "part", part, MMIX_DTYPE_REAL, 3, x->shape[0], n, x->shape[2],
                        0)) return NULL;
    for (size_t i = 0; i < n; i++)
        if (mmixi_index(index, i) < 0 || (size_t)mmixi_index(index, i) >= x->shape[1]) {
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: index[%.0f] is %d, x has %.0f tokens", who, (double)i,
                      (int)mmixi_index(index, i), (double)x->shape[1]);
            return NULL;
        }
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, 3, x->shape);
    return mmixi_run(m, MMIX_OP_ADD_ROWS, &call, NULL, 0);
}

typedef struct mmixi_insert_options { size_t at; } mmixi_insert_options;
static int mmixi_insert_forward(mmix_ctx *m, mmix_call *call)
{
    const mmix_tensor *x = call->in[0];
    size_t at = ((const mmixi_insert_options *)call->options)->at, L = x->shape[1], D = x->shape[2];
    (void)m;
    for (size_t b = 0; b < x->shape[0]; b++)
        for (size_t t = 0; t <= L; t++) {
            const mmix_real *from = mmix_data(x) + b * x->stride[0] + (t - (t > at)) * x->stride[1];
            if (t == at) from = mmix_data(call->in[1]);
            memcpy(mmix_data(call->out[0]) + (b * (L + 1) + t) * D, from, D * sizeof *from);
        }
    return 0;
}
static int mmixi_insert_backward(mmix_ctx *m, mmix_call *call)
{
    mmix_tensor *x = call->in[0];
    size_t at = ((const mmixi_insert_options *)call->options)->at, L = x->shape[1], D = x->shape[2];
    const mmix_real *g = mmixi_out_grad(call->out[0]);
    int add_x, add_t;
    mmix_real *dx = mmixi_grad_once(m, call, 0, &add_x), *dt = mmixi_grad_once(m, call, 1, &add_t);
    for (size_t b = 0; b < x->shape[0]; b++)
        for (size_t t = 0; t <= L; t++) {
            const mmix_real *row = g + (b * (L + 1) + t) * D;
            if (t == at && dt) mmixi_put(m->k, D, row, dt, add_t || b);
            if (t != at && dx)
                mmixi_put(m->k, D, row, dx + b * x->stride[0] + (t - (t > at)) * x->stride[1], add_x);
        }
    return 0;
}
MMIXDEF mmix_tensor *mmix_insert_token(mmix_ctx *m, mmix_tensor *x, mmix_tensor *token, size_t at)
{
    mmix_call call;
    mmixi_insert_options o;
    if (!mmixi_check(m, "mmix_insert_token", "x", x, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0)
        || !mmixi_check_real(m, "mmix_insert_token", "token", token)) return NULL;
    if (mmix_count(token) != x->shape[2] || mmixi_cols(token) != x->shape[2] || at > x->shape[1]) {
        char a[96], b[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_insert_token: a token of shape %s at %.0f of x %s",
                  mmixi_shape_text(token, a), (double)at, mmixi_shape_text(x, b));
        return NULL;
    }
    o.at = at;
    call = mmixi_call(x, token, NULL);
    call.out[0] = mmix_new3(m, x->shape[0], x->shape[1] + 1, x->shape[2]);
    return mmixi_run(m, MMIX_OP_INSERT_TOKEN, &call, &o, sizeof o);
}

/* ---- softmax: y = e^(x - max) / Σ;  dx = y (dy - Σ y dy) ------------------------------------ */

static void mmixi_softmax_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_rows_job *j = (const mmixi_rows_job *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++) j->m->k->softmax(j->cols, j->x + r * j->step, j->y + r * j->cols);
}
static int mmixi_softmax_forward(mmix_ctx *m, mmix_call *call)
{
    mmixi_rows_job j = mmixi_rows_of(m, call->in[0]);
    j.y = mmix_data(call->out[0]);
    mmixi_ranges(m, mmixi_rows(call->in[0]), mmixi_row_grain(j.cols), mmixi_softmax_rows, &j);
    return 0;
}
static void mmixi_softmax_rows_backward(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_rows_job *j = (const mmixi_rows_job *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        const mmix_real *y = j->w + r * j->cols, *g = j->g + r * j->cols;
        mmix_real *dx = j->y + r * j->step, s = j->m->k->dot(j->cols, y, g);
        j->m->k->softmax_backward(j->cols, y, g, s, dx, j->add);
    }
}
static int mmixi_softmax_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_rows_job j = mmixi_rows_of(m, call->in[0]);
    j.w = mmix_data(call->out[0]);
    j.g = mmixi_out_grad(call->out[0]);
    j.y = mmix_grad_target(m, call->in[0], &j.add);
    if (j.y)
        mmixi_ranges(m, mmixi_rows(call->in[0]), mmixi_row_grain(j.cols), mmixi_softmax_rows_backward, &j);
    return 0;
}
MMIXDEF mmix_tensor *mmix_softmax(mmix_ctx *m, mmix_tensor *x, int axis)
{
    mmix_call call;
    int order[MMIX_MAX_DIMS], a;
    if (!mmixi_check_real(m, "mmix_softmax", "x", x)) return NULL;
    a = mmixi_axis(x, axis);
    if (a < 0 || a >= x->ndim) {
        char text[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_softmax: axis %d of %s", axis, mmixi_shape_text(x, text));
        return NULL;
    }
    if (a != x->ndim - 1) {                      /* that axis and the last change places, and back */
        for (int i = 0; i < x->ndim; i++) order[i] = i == a ? x->ndim - 1 : i == x->ndim - 1 ? a : i;
        return mmix_permute(m, mmix_softmax(m, mmix_permute(m, x, order), -1), order);
    }
    x = mmixi_even(m, x, 0);
    if (!x) return NULL;
    call = mmixi_call(x, NULL, NULL);
    call.out[0] = mmixi_new(m, "mmix_softmax", MMIX_DTYPE_REAL, x->ndim, x->shape);
    return mmixi_run(m, MMIX_OP_SOFTMAX, &call, NULL, 0);
}

/* ==== >>norms ========================================================================
   y = w (x - μ) / r + b,  r = √(variance + eps)  (RMS: μ = 0);  gated: x · silu(z) in place of x

   x (rows, D), w and b (D). Kept for the backward: μ and 1/r of each row. With x̂ = (x - μ)/r, g = w dy:

       dx = (g - mean(g) - x̂ mean(g x̂)) / r,   dw = Σ dy x̂,   db = Σ dy

   y feels neither a shift of x nor a stretch, so dx loses its parts along 1 and x̂ (RMS: along x̂ only).
   Ba et al. 2016; Zhang & Sennrich 2019.
   ==================================================================================== */

/* Weight gradients are sums over rows: a partial sum for each of at most 16 runs of rows, added in order. */
enum { MMIXI_PARTIALS = 16 };
static size_t mmixi_partial_grain(size_t rows) { return mmixi_max(8, mmixi_ceil_div(rows, MMIXI_PARTIALS)); }
static void mmixi_partial_sum(const mmix_ctx *m, size_t parts, size_t D, size_t step,
                              const mmix_real *partial, mmix_real *to, int add)
{
    for (size_t p = 0; to && p < parts; p++) mmixi_put(m->k, D, partial + p * step, to, add || p);
}

typedef struct mmixi_norm_options { int center; size_t groups; double eps; } mmixi_norm_options;
typedef struct mmixi_norm_job {
    mmix_ctx *m;
    mmixi_norm_options o;
    size_t D, step_x, step_z, grain;
    const mmix_real *x, *z, *w, *b, *dy;         /* z: the gate, or NULL */
    mmix_real *y, *mean, *rstd;                  /* mean (rows) with `center`; rstd (rows, groups) */
    mmix_real *dx, *dz, *partial, *scratch;      /* partial: (tasks, 2D); scratch: 3D a lane */
    int add_x, add_z;
} mmixi_norm_job;

static void mmixi_norm_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_norm_job *j = (const mmixi_norm_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    size_t D = j->D, d = D / j->o.groups;
    for (size_t r = begin; r < end; r++) {
        const mmix_real *x = j->x + r * j->step_x;
        if (j->z) {
            mmix_real *u = j->scratch + lane * 3 * D;
            k->silu(D, j->z + r * j->step_z, u);
            k->mul(D, x, u, u);
            x = u;
        }
        for (size_t g = 0; g < j->o.groups; g++, x += d) {
            mmix_real mean = j->o.center ? k->sum(d, x) / (mmix_real)d : 0, rstd;
            rstd = (mmix_real)(1 / sqrt((double)k->variance(d, x, mean) / (double)d + j->o.eps));
            k->normalise(d, x, mean, rstd, j->w ? j->w + g * d : NULL, j->b, j->y + r * D + g * d);
            if (j->mean) j->mean[r] = mean;
            if (j->rstd) j->rstd[r * j->o.groups + g] = rstd;
        }
    }
}

static void mmixi_norm_rows_backward(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_norm_job *j = (const mmixi_norm_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    size_t D = j->D, d = D / j->o.groups;
    mmix_real *gate = j->scratch + lane * 3 * D, *u = gate + D, *du = u + D,
        *dw = j->partial + begin / j->grain * 2 * D, *db = dw + D;
    memset(dw, 0, 2 * D * sizeof *dw);
    for (size_t r = begin; r < end; r++) {
        const mmix_real *x = j->x + r * j->step_x, *in = x, *dy = j->dy + r * D;
        if (j->z) {
            k->silu(D, j->z + r * j->step_z, gate);
            k->mul(D, x, gate, u);
            in = u;
        }
        for (size_t g = 0; g < j->o.groups; g++) {
            mmix_real mean = j->o.center ? j->mean[r] : 0, rstd = j->rstd[r * j->o.groups + g], sum, along;
            const mmix_real *w = j->w ? j->w + g * d : NULL;
            mmix_real *to = j->z ? du + g * d : j->dx ? j->dx + r * j->step_x : du;
            k->normalise_sums(d, dy + g * d, in + g * d, mean, rstd, w, &sum, &along);
            k->normalise_backward(d, dy + g * d, in + g * d, mean, rstd, w,
                                  j->o.center ? sum / (mmix_real)d : 0, along / (mmix_real)d, to,
                                  !j->z && j->dx && j->add_x, dw + g * d, db + g * d);
        }
        if (j->z && j->dx) {                     /* u = x silu(z): dx = du silu(z), dz = du x silu'(z) */
            if (j->add_x) k->mul_add(D, du, gate, j->dx + r * j->step_x);
            else k->mul(D, du, gate, j->dx + r * j->step_x);
        }
        if (j->z && j->dz) {
            k->mul(D, du, x, du);
            k->silu_backward(D, j->z + r * j->step_z, du, j->dz + r * j->step_z, j->add_z);
        }
    }
}

static void mmixi_norm_fill(mmix_ctx *m, const mmix_call *call, mmixi_norm_job *j)
{
    memset(j, 0, sizeof *j);
    j->m = m;
    j->o = *(const mmixi_norm_options *)call->options;
    j->D = mmixi_cols(call->in[0]);
    j->step_x = mmixi_row_step(call->in[0]);
    j->x = mmix_data(call->in[0]);
    j->w = mmix_data(call->in[1]);
    j->b = mmix_data(call->in[2]);
    j->z = mmix_data(call->in[3]);
    if (j->z) j->step_z = mmixi_row_step(call->in[3]);
    j->mean = call->saved[0];
    j->rstd = call->saved[1];
}
static int mmixi_norm_forward(mmix_ctx *m, mmix_call *call)
{
    mmixi_norm_job j;
    size_t rows = mmixi_rows(call->in[0]);
    mmix_mark mark;
    const mmixi_norm_options *o = (const mmixi_norm_options *)call->options;
    if (call->recorded && ((o->center && !mmix_save(m, call, 0, rows))
                           || !mmix_save(m, call, 1, rows * o->groups))) return -1;
    mmixi_norm_fill(m, call, &j);
    j.y = mmix_data(call->out[0]);
    mark = mmix_mark_here(m);
    if (j.z) j.scratch = (mmix_real *)mmixi_step(m, mmixi_lanes(m) * 3 * j.D * sizeof *j.scratch);
    if (j.z && !j.scratch) return -1;
    mmixi_ranges(m, rows, mmixi_row_grain(j.D), mmixi_norm_rows, &j);
    mmix_rewind(m, mark);
    return 0;
}
static int mmixi_norm_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_norm_job j;
    size_t rows = mmixi_rows(call->in[0]), parts;
    int add_w = 0, add_b = 0;
    mmix_real *dw = mmixi_grad_once(m, call, 1, &add_w), *db = mmixi_grad_once(m, call, 2, &add_b);
    mmixi_norm_fill(m, call, &j);
    j.dy = mmixi_out_grad(call->out[0]);
    j.dx = mmixi_grad_once(m, call, 0, &j.add_x);
    j.dz = mmixi_grad_once(m, call, 3, &j.add_z);
    j.grain = mmixi_partial_grain(rows);
    parts = mmixi_ceil_div(rows, j.grain);
    j.partial = (mmix_real *)mmixi_step(m, parts * 2 * j.D * sizeof *j.partial);
    j.scratch = (mmix_real *)mmixi_step(m, mmixi_lanes(m) * 3 * j.D * sizeof *j.scratch);
    if (!j.partial || !j.scratch) return -1;
    mmixi_ranges(m, rows, j.grain, mmixi_norm_rows_backward, &j);
    mmixi_partial_sum(m, parts, j.D, 2 * j.D, j.partial, dw, add_w);
    mmixi_partial_sum(m, parts, j.D, 2 * j.D, j.partial + j.D, db, add_b);
    return 0;
}
static mmix_tensor *mmixi_norm(mmix_ctx *m, const char *who, int op, mmix_tensor *x, mmix_tensor *z,
                               mmix_tensor *weight, mmix_tensor *bias, int center, double eps, size_t groups)
{
    mmix_call call;
    mmixi_norm_options o;
    size_t D = mmix_shape(x, -1);
    if (!mmixi_check_real(m, who, "x", x)
        || !mmixi_optional(m, who, "weight", weight, MMIX_DTYPE_REAL, 1, D, 0, 0, 0)
        || !mmixi_optional(m, who, "bias", bias, MMIX_DTYPE_REAL, 1, D, 0, 0, 0)
        || !mmixi_optional(m, who, "z", z, MMIX_DTYPE_REAL, -1, D, 0, 0, 0)) return NULL;
    if (!x->ndim || !groups || D % groups || (z && mmixi_rows(z) != mmixi_rows(x)) || !(eps >= 0)) {
        char a[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: x %s with %.0f groups, eps %g%s", who, mmixi_shape_text(x, a),
                  (double)groups, eps, z && mmixi_rows(z) != mmixi_rows(x)
                  ? ", and z of another number of rows" : "");
        return NULL;
    }
    x = mmixi_even(m, x, 0);
    z = mmixi_even(m, z, 0);
    if (!x) return NULL;
    memset(&o, 0, sizeof o);
    o.center = center;
    o.groups = groups;
    o.eps = eps;
    call = mmixi_call(x, weight, bias);
    call.in[3] = z;
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, x->ndim, x->shape);
    return mmixi_run(m, op, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_layer_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                     double eps)
{
    return mmixi_norm(m, "mmix_layer_norm", MMIX_OP_LAYER_NORM, x, NULL, weight, bias, 1, eps, 1);
}
MMIXDEF mmix_tensor *mmix_rms_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, double eps)
{
    return mmixi_norm(m, "mmix_rms_norm", MMIX_OP_RMS_NORM, x, NULL, weight, NULL, 0, eps, 1);
}
MMIXDEF mmix_tensor *mmix_gated_rms_norm(mmix_ctx *m, mmix_tensor *x, mmix_tensor *z, mmix_tensor *weight,
                                         double eps, size_t groups)
{
    if (!mmixi_check_real(m, "mmix_gated_rms_norm", "z", z)) return NULL;
    return mmixi_norm(m, "mmix_gated_rms_norm", MMIX_OP_GATED_RMS_NORM, x, z, weight, NULL, 0, eps, groups);
}

/* ---- L2 normalisation and weight norm: y = g x / max(‖x‖, eps), one g a row or 1;
        dx = g/‖x‖ (dy - x̂ (x̂·dy)), dg = x̂·dy ------------------------------------------------ */

typedef struct mmixi_unit_options { double eps; } mmixi_unit_options;
typedef struct mmixi_unit_job {
    mmix_ctx *m;
    double eps;
    size_t D, step;
    const mmix_real *x, *g, *dy;
    mmix_real *y, *dx, *dg;
    int add, add_g;
} mmixi_unit_job;
static void mmixi_unit_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_unit_job *j = (const mmixi_unit_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        const mmix_real *x = j->x + r * j->step;
        double norm = sqrt((double)k->variance(j->D, x, 0)), length = norm > j->eps ? norm : j->eps;
        k->scale(j->D, (mmix_real)((j->g ? (double)j->g[r] : 1) / length), x, j->y + r * j->D);
    }
}
static void mmixi_unit_rows_backward(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_unit_job *j = (const mmixi_unit_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        const mmix_real *x = j->x + r * j->step, *dy = j->dy + r * j->D;
        double norm = sqrt((double)k->variance(j->D, x, 0)), length = norm > j->eps ? norm : j->eps;
        double along = (double)k->dot(j->D, x, dy) / length, scale = (j->g ? (double)j->g[r] : 1) / length;
        /* below eps the length is a constant */
        double back = norm > j->eps ? scale * along / length : 0;
        for (size_t i = 0; j->dx && i < j->D; i++) {
            mmix_real *d = j->dx + r * j->step + i;
            *d = (j->add ? *d : 0) + (mmix_real)(scale * (double)dy[i] - back * (double)x[i]);
        }
        if (j->dg) j->dg[r] = (j->add_g ? j->dg[r] : 0) + (mmix_real)along;
    }
}
static int mmixi_unit_run(mmix_ctx *m, mmix_call *call, int back)
{
    mmixi_unit_job j;
    memset(&j, 0, sizeof j);
    j.m = m;
    j.eps = ((const mmixi_unit_options *)call->options)->eps;
    j.D = mmixi_cols(call->in[0]);
    j.step = mmixi_row_step(call->in[0]);
    j.x = mmix_data(call->in[0]);
    j.g = mmix_data(call->in[1]);
    j.y = mmix_data(call->out[0]);
    if (back) {
        j.dy = mmixi_out_grad(call->out[0]);
        j.dx = mmix_grad_target(m, call->in[0], &j.add);
        j.dg = mmix_grad_target(m, call->in[1], &j.add_g);
    }
    mmixi_ranges(m, mmixi_rows(call->in[0]), mmixi_row_grain(j.D),
                 back ? mmixi_unit_rows_backward : mmixi_unit_rows, &j);
    return 0;
}
static int mmixi_unit_forward(mmix_ctx *m, mmix_call *call) { return mmixi_unit_run(m, call, 0); }
static int mmixi_unit_backward(mmix_ctx *m, mmix_call *call) { return mmixi_unit_run(m, call, 1); }
MMIXDEF mmix_tensor *mmix_l2_normalise(mmix_ctx *m, mmix_tensor *x, double eps)
{
    mmix_call call;
    mmixi_unit_options o;
    if (!mmixi_check_real(m, "mmix_l2_normalise", "x", x)) return NULL;
    x = mmixi_even(m, x, 0);
    if (!x) return NULL;
    o.eps = eps;
    call = mmixi_call(x, NULL, NULL);
    call.out[0] = mmixi_new(m, "mmix_l2_normalise", MMIX_DTYPE_REAL, x->ndim, x->shape);
    return mmixi_run(m, MMIX_OP_L2_NORMALISE, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_weight_norm(mmix_ctx *m, mmix_tensor *v, mmix_tensor *g)
{
    mmix_call call;
    mmixi_unit_options o;
    o.eps = 0;
    if (!mmixi_check(m, "mmix_weight_norm", "v", v, MMIX_DTYPE_REAL, 2, MMIXI_ANY, MMIXI_ANY, 0, 0)
        || !mmixi_check(m, "mmix_weight_norm", "g", g, MMIX_DTYPE_REAL, 2, v->shape[0], 1, 0, 0)) return NULL;
    call = mmixi_call(mmixi_even(m, v, 0), mmixi_even(m, g, 1), NULL);
    if (!call.in[0] || !call.in[1]) return NULL;
    call.out[0] = mmixi_new(m, "mmix_weight_norm", MMIX_DTYPE_REAL, 2, v->shape);
    return mmixi_run(m, MMIX_OP_WEIGHT_NORM, &call, &o, sizeof o);
}

/* ==== >>linear =======================================================================
   y = x Wᵀ + b, or residual + s (x Wᵀ + b);  dx = dy W, dW = dyᵀ x, db = Σ dy

   x (rows, I), W (O, I), b (O), residual (rows, O), s one number for rows/|s| rows. All three products are
   one GEMM each, on x where it lies; bias, residual, s and (where nothing is recorded) gelu are its epilogue.
   ==================================================================================== */

typedef struct mmixi_linear_op_options { int gelu; } mmixi_linear_op_options;

typedef struct mmixi_column_job { const struct mmixi_kernels *k; const mmix_real *x; mmix_real *y;
                                 size_t rows, step; int add; } mmixi_column_job;
static void mmixi_column_sum(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_column_job *j = (const mmixi_column_job *)arg;
    (void)lane;
    if (!j->add) memset(j->y + begin, 0, (end - begin) * sizeof *j->y);
    for (size_t r = 0; r < j->rows; r++)
        j->k->add(end - begin, j->x + r * j->step + begin, j->y + begin, j->y + begin);
}
/* y (cols) = or += the sum of the rows of x */
static void mmixi_column_sums(mmix_ctx *m, size_t rows, size_t cols, const mmix_real *x, size_t step,
                              mmix_real *y, int add)
{
    mmixi_column_job j;
    j.k = m->k;
    j.x = x;
    j.y = y;
    j.rows = rows;
    j.step = step;
    j.add = add;
    mmixi_ranges(m, cols, rows * cols < 8192 ? cols : mmixi_max(16, mmixi_round_up(cols / 8, 16)),
                 mmixi_column_sum, &j);
}

static int mmixi_linear_forward(mmix_ctx *m, mmix_call *call)
{
    const mmix_tensor *x = call->in[0], *w = call->in[1];
    size_t rows = mmixi_rows(x), I = mmixi_cols(x), O = w->shape[0];
    mmixi_gemm g = mmixi_gemm_of(rows, O, I, mmix_data(x), mmixi_row_step(x), 1, mmix_data(w), 1,
                                 w->stride[0], mmix_data(call->out[0]), O, 0);
    g.bias = mmix_data(call->in[2]);
    g.gelu = ((const mmixi_linear_op_options *)call->options)->gelu;
    if (w->packed && w->packed_nr == m->k->nr && rows > 2) g.packed_b = w->packed;     /* 2: dot products */
    if (call->in[3]) {
        g.residual = mmix_data(call->in[3]);
        g.ldr = (ptrdiff_t)mmixi_row_step(call->in[3]);
    }
    if (call->in[4]) {
        g.row_scale = mmix_data(call->in[4]);
        g.rows_per_scale = rows / mmix_count(call->in[4]);
    }
    return mmixi_gemm_run(m, &g);
}
static int mmixi_linear_backward(mmix_ctx *m, mmix_call *call)
{
    mmix_tensor *x = call->in[0], *w = call->in[1];
    size_t rows = mmixi_rows(x), I = mmixi_cols(x), O = w->shape[0];
    const mmix_real *dy = mmixi_out_grad(call->out[0]);
    int add;
    mmix_real *d;
    mmixi_gemm g;
    if (call->in[4]) {                           /* from here on dy is that of x Wᵀ + b */
        const mmix_real *s = mmix_data(call->in[4]);
        size_t per = rows / mmix_count(call->in[4]);
        mmix_real *scaled = (mmix_real *)mmixi_step(m, rows * O * sizeof *scaled);
        if (!scaled) return -1;
        for (size_t i = 0; i < mmix_count(call->in[4]); i++)
            m->k->scale(per * O, s[i], dy + i * per * O, scaled + i * per * O);
        dy = scaled;
    }
    d = mmix_grad_target(m, x, &add);
    if (d) {
        g = mmixi_gemm_of(rows, I, O, dy, O, 1, mmix_data(w), w->stride[0], 1, d, mmixi_row_step(x), add);
        if (mmixi_gemm_run(m, &g)) return -1;
    }
    d = mmix_grad_target(m, w, &add);
    if (d) {
        g = mmixi_gemm_of(O, I, rows, dy, 1, O, mmix_data(x), mmixi_row_step(x), 1, d, w->stride[0], add);
        if (mmixi_gemm_run(m, &g)) return -1;
    }
    d = mmix_grad_target(m, call->in[2], &add);
    if (d) mmixi_column_sums(m, rows, O, dy, O, d, add);
    mmixi_grad_pass(m, call->in[3], call->out[0]);
    return 0;
}
static mmix_tensor *mmixi_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                 mmix_tensor *residual, mmix_tensor *s, int gelu)
{
    mmix_call call;
    mmixi_linear_op_options o;
    size_t shape[MMIX_MAX_DIMS];
    if (!mmixi_check(m, "mmix_linear", "weight", weight, MMIX_DTYPE_REAL, 2, MMIXI_ANY, MMIXI_ANY, 0, 0)
        || !mmixi_check(m, "mmix_linear", "x", x, MMIX_DTYPE_REAL, -1, weight->shape[1], 0, 0, 0)
        || !mmixi_optional(m, "mmix_linear", "bias", bias, MMIX_DTYPE_REAL, 1, weight->shape[0], 0, 0, 0)
        || !mmixi_optional(m, "mmix_linear_add", "residual", residual, MMIX_DTYPE_REAL, -1, weight->shape[0],
                           0, 0, 0)
        || !mmixi_optional(m, "mmix_linear_add", "s", s, MMIX_DTYPE_REAL, 1, MMIXI_ANY, 0, 0, 0)) return NULL;
    if (residual && (residual->ndim != x->ndim
                     || memcmp(residual->shape, x->shape, ((size_t)x->ndim - 1) * sizeof *x->shape))) {
        char a[96], b[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_linear_add: the residual %s does not go with x %s",
                  mmixi_shape_text(residual, b), mmixi_shape_text(x, a));
        return NULL;
    }
    if (s && (!residual || mmix_count(s) != x->shape[0])) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_linear_add: s has %.0f numbers, expected %.0f%s",
                  (double)mmix_count(s), (double)x->shape[0], residual ? "" : "; s without a residual");
        return NULL;
    }
    x = mmixi_even(m, x, 0);
    residual = mmixi_even(m, residual, 0);
    if (!x) return NULL;
    call = mmixi_call(x, weight, bias);
    call.in[3] = residual;
    call.in[4] = s;
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = weight->shape[0];
    call.out[0] = mmixi_new(m, "mmix_linear", MMIX_DTYPE_REAL, x->ndim, shape);
    o.gelu = gelu;
    return mmixi_run(m, MMIX_OP_LINEAR, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_linear_add(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                     mmix_tensor *residual, mmix_tensor *s)
{
    return mmixi_linear(m, x, weight, bias, residual, s, 0);
}
MMIXDEF mmix_tensor *mmix_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias)
{
    return mmixi_linear(m, x, weight, bias, NULL, NULL, 0);
}

/* ==== >>convolution ==================================================================
   u_t = b + Σ_k w_k ∘ x_{t-(W-1)+k},  y = u or silu(u)

   x (B, L, D), w (D, 1, W), b (D). Reverse: time runs from the end, so token t of the formula is row L-1-t.
   Tokens before the first come from initial_state (B, D, W-1), or are 0; with seq_idx a tap counts only if
   its token's number is t's. Backward, with du = dy silu'(u), u computed once more:

       dx_s = Σ_k w_k ∘ du_{s+(W-1)-k},   dw_k = Σ_t du_t ∘ x_{t-(W-1)+k},   db = Σ_t du_t
   ==================================================================================== */

typedef struct mmixi_conv_options { int silu, reverse; } mmixi_conv_options;
typedef struct mmixi_conv_job {
    mmix_ctx *m;
    mmixi_conv_options o;
    /* ld, batch: from a token of x to the next, from a sequence to the next */
    size_t B, L, D, W, ld, batch;
    const mmix_real *x, *w, *b, *past;           /* w transposed: (W, D); past: (B, W-1, D) or NULL */
    const int32_t *seq;
    size_t seq_step;
    mmix_real *y;                                /* (B, L, D) */
    const mmix_real *dy;
    /* silu's input of one token, for each lane; for each run of `grain` tokens dw, db and a place for the Σ
       du of more than a few taps: (W + 2, D) */
    mmix_real *u, *partial;
    size_t grain;
    mmix_real *du, *dx;                          /* du is dy without silu */
    int add_x;
} mmixi_conv_job;

enum { MMIXI_CONV_TAPS = 4 };                    /* rows that one pass takes */

/* The row of x that tap k of token t (in time) reads, or NULL. */
static const mmix_real *mmixi_conv_tap(const mmixi_conv_job *j, size_t b, size_t t, size_t k)
{
    size_t s = t + k;                            /* s - (W-1) is the token */
    if (s < j->W - 1) return j->past ? j->past + (b * (j->W - 1) + s) * j->D : NULL;
    s -= j->W - 1;
    if (j->o.reverse) { s = j->L - 1 - s; t = j->L - 1 - t; }
    if (j->seq && j->seq[b * j->seq_step + s] != j->seq[b * j->seq_step + t]) return NULL;
    return j->x + b * j->batch + s * j->ld;
}
/* u of token t */
static void mmixi_conv_token(const mmixi_conv_job *j, size_t b, size_t t, mmix_real *u)
{
    const mmix_real *x[MMIXI_CONV_TAPS];
    for (size_t k = 0; k < j->W; k += MMIXI_CONV_TAPS) {
        size_t taps = mmixi_min(MMIXI_CONV_TAPS, j->W - k);
        for (size_t i = 0; i < taps; i++) x[i] = mmixi_conv_tap(j, b, t, k + i);
        j->m->k->conv(j->D, taps, x, j->w + k * j->D, j->D, k ? u : j->b, u);
    }
}
/* Where token t of the formula lies in (B, L, D). */
static size_t mmixi_conv_place(const mmixi_conv_job *j, size_t b, size_t t)
{
    return (b * j->L + (j->o.reverse ? j->L - 1 - t : t)) * j->D;
}
static void mmixi_conv_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_conv_job *j = (const mmixi_conv_job *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        size_t b = r / j->L, t = r % j->L;
        mmix_real *y = j->y + mmixi_conv_place(j, b, t);
        mmixi_conv_token(j, b, t, y);
        if (j->o.silu) j->m->k->silu(j->D, y, y);
    }
}
/* du, and a run's part of dw and db */
static void mmixi_conv_rows_backward(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_conv_job *j = (const mmixi_conv_job *)arg;
    size_t D = j->D;
    mmix_real *u = j->u + lane * D, *dw = j->partial + begin / j->grain * (j->W + 2) * D;
    memset(dw, 0, (j->W + 2) * D * sizeof *dw);
    for (size_t r = begin; r < end; r++) {
        size_t b = r / j->L, t = r % j->L;
        mmix_real *du = j->du + mmixi_conv_place(j, b, t);
        const mmix_real *x[MMIXI_CONV_TAPS];
        if (j->o.silu) {
            mmixi_conv_token(j, b, t, u);
            j->m->k->silu_backward(D, u, j->dy + mmixi_conv_place(j, b, t), du, 0);
        }
        for (size_t k = 0; k < j->W; k += MMIXI_CONV_TAPS) {
            size_t taps = mmixi_min(MMIXI_CONV_TAPS, j->W - k);
            for (size_t i = 0; i < taps; i++) x[i] = mmixi_conv_tap(j, b, t, k + i);
            j->m->k->conv_weight(D, taps, du, x, dw + k * D, D, dw + (k ? j->W + 1 : j->W) * D);
        }
    }
}
/* dx: token s is tap k of token s + (W-1) - k */
static void mmixi_conv_rows_dx(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_conv_job *j = (const mmixi_conv_job *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        size_t b = r / j->L, s = r % j->L;
        mmix_real *dx = j->dx + b * j->batch + (j->o.reverse ? j->L - 1 - s : s) * j->ld;
        const mmix_real *du[MMIXI_CONV_TAPS];
        for (size_t k = 0; k < j->W; k += MMIXI_CONV_TAPS) {
            size_t taps = mmixi_min(MMIXI_CONV_TAPS, j->W - k);
            for (size_t i = 0; i < taps; i++) {
                size_t t = s + (j->W - 1) - (k + i);
                int reached = t < j->L && mmixi_conv_tap(j, b, t, k + i);
                du[i] = reached ? j->du + mmixi_conv_place(j, b, t) : NULL;
            }
            j->m->k->conv(j->D, taps, du, j->w + k * j->D, j->D, k || j->add_x ? dx : NULL, dx);
        }
    }
}
/* (n, rows, cols) → (n, cols, rows) */
static void mmixi_transpose_each(const mmix_ctx *m, size_t n, size_t rows, size_t cols, const mmix_real *x,
                                 mmix_real *y)
{
    for (size_t i = 0; i < n; i++)
        m->k->transpose(rows, cols, x + i * rows * cols, (ptrdiff_t)cols, y + i * rows * cols,
                        (ptrdiff_t)rows);
}
static int mmixi_conv_fill(mmix_ctx *m, mmix_call *call, mmixi_conv_job *j)
{
    const mmix_tensor *x = call->in[0], *w = call->in[1], *past = call->in[3], *seq = call->in[4];
    mmix_real *t;
    memset(j, 0, sizeof *j);
    j->m = m;
    j->o = *(const mmixi_conv_options *)call->options;
    j->B = x->shape[0]; j->L = x->shape[1]; j->D = x->shape[2]; j->W = w->shape[2];
    j->batch = x->stride[0]; j->ld = x->stride[1];
    j->x = mmix_data(x);
    j->b = mmix_data(call->in[2]);
    j->w = t = (mmix_real *)mmixi_step(m, j->W * j->D * sizeof *t);
    if (!t) return -1;
    m->k->transpose(j->D, j->W, mmix_data(w), (ptrdiff_t)j->W, t, (ptrdiff_t)j->D);
    if (past && j->W > 1) {
        j->past = t = (mmix_real *)mmixi_step(m, j->B * (j->W - 1) * j->D * sizeof *t);
        if (!t) return -1;
        mmixi_transpose_each(m, j->B, j->D, j->W - 1, mmix_data(past), t);
    }
    if (seq) {
        j->seq = mmix_data_i32(seq);
        j->seq_step = seq->stride[0];
    }
    return 0;
}
static size_t mmixi_conv_grain(const mmixi_conv_job *j) { return mmixi_max(1, 4096 / j->D); }
/* Token i of the last W-1 inputs, as a tap: tap i+1 of the last token. */
static int mmixi_conv_forward(mmix_ctx *m, mmix_call *call)
{
    mmixi_conv_job j;
    mmix_mark mark;
    mark = mmix_mark_here(m);
    if (mmixi_conv_fill(m, call, &j)) return -1;
    j.y = mmix_data(call->out[0]);
    mmixi_ranges(m, j.B * j.L, mmixi_conv_grain(&j), mmixi_conv_rows, &j);
    if (call->out[1])
        for (size_t b = 0; b < j.B; b++)
            for (size_t i = 0; i + 1 < j.W; i++) {
                const mmix_real *x = mmixi_conv_tap(&j, b, j.L - 1, i + 1);
                for (size_t c = 0; c < j.D; c++)
                    mmix_data(call->out[1])[(b * j.D + c) * (j.W - 1) + i] = x ? x[c] : 0;
            }
    mmix_rewind(m, mark);
    return 0;
}
static int mmixi_conv_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_conv_job j;
    size_t n = mmix_count(call->out[0]), past_count;
    const mmix_real *dfinal = mmixi_out_grad(call->out[1]);
    size_t parts, rows, D;
    mmix_real *d, *dw, *dpast = NULL;
    int add;
    if (mmixi_conv_fill(m, call, &j)) return -1;
    rows = j.B * j.L;
    D = j.D;
    j.dy = mmixi_out_grad(call->out[0]);
    j.grain = mmixi_partial_grain(rows);
    parts = mmixi_ceil_div(rows, j.grain);
    past_count = j.B * (j.W - 1) * D;
    j.du = (mmix_real *)(uintptr_t)j.dy;
    if (j.o.silu || !j.dy) j.du = (mmix_real *)mmixi_step(m, n * sizeof *j.du);
    j.u = (mmix_real *)mmixi_step(m, mmixi_lanes(m) * D * sizeof *j.u);
    j.partial = (mmix_real *)mmixi_step(m, parts * (j.W + 2) * D * sizeof *j.partial);
    dw = (mmix_real *)mmixi_step(m, (j.W + 1) * D * sizeof *dw);
    if (mmixi_wants(call->in[3])) dpast = (mmix_real *)mmixi_step(m, past_count * sizeof *dpast);
    if (!j.du || !j.u || !j.partial || !dw || (mmixi_wants(call->in[3]) && !dpast)) return -1;
    if (!j.dy) {                                 /* only the final state was asked for */
        mmixi_zero(m, n, j.du);
        j.dy = j.du;
    }
    mmixi_ranges(m, rows, j.grain, mmixi_conv_rows_backward, &j);
    mmixi_partial_sum(m, parts, (j.W + 1) * D, (j.W + 2) * D, j.partial, dw, 0);
    j.dx = mmix_grad_target(m, call->in[0], &j.add_x);
    if (j.dx) mmixi_ranges(m, rows, mmixi_conv_grain(&j), mmixi_conv_rows_dx, &j);
    if (dpast) memset(dpast, 0, past_count * sizeof *dpast);
    for (size_t b = 0; dpast && b < j.B; b++)
        for (size_t t = 0; t < mmixi_min(j.L, j.W - 1); t++)
            for (size_t k = 0; t + k + 1 < j.W; k++)
                m->k->mul_add(D, j.du + mmixi_conv_place(&j, b, t), j.w + k * D,
                              dpast + (b * (j.W - 1) + t + k) * D);
    for (size_t b = 0; dfinal && b < j.B; b++)   /* the final state is a copy of inputs */
        for (size_t i = 0; i + 1 < j.W; i++) {
            size_t s = j.L + i, t = s - (j.W - 1);          /* s ≥ W-1: token t, else entry s of the past */
            mmix_real *to = s < j.W - 1 ? dpast ? dpast + (b * (j.W - 1) + s) * D : NULL
                          : j.dx ? j.dx + b * j.batch + (j.o.reverse ? j.L - 1 - t : t) * j.ld : NULL;
            if (to && mmixi_conv_tap(&j, b, j.L - 1, i + 1))
                for (size_t c = 0; c < D; c++) to[c] += dfinal[(b * D + c) * (j.W - 1) + i];
        }
    d = mmix_grad_target(m, call->in[2], &add);
    if (d) mmixi_put(m->k, D, dw + j.W * D, d, add);
    d = mmix_grad_target(m, call->in[1], &add);
    for (size_t c = 0; d && c < D; c++)
        for (size_t k = 0; k < j.W; k++) d[c * j.W + k] = (add ? d[c * j.W + k] : 0) + dw[k * D + c];
    d = dpast ? mmix_grad_target(m, call->in[3], &add) : NULL;
    for (size_t b = 0; d && b < j.B; b++)
        for (size_t c = 0; c < D; c++)
            for (size_t i = 0; i + 1 < j.W; i++) {
                mmix_real *to = d + (b * D + c) * (j.W - 1) + i;
                *to = (add ? *to : 0) + dpast[(b * (j.W - 1) + i) * D + c];
            }
    return 0;
}
MMIXDEF mmix_tensor *mmix_conv1d(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                 const mmix_conv1d_options *options)
{
    mmix_call call = mmixi_call(x, weight, bias);
    mmixi_conv_options o;
    mmix_tensor *past = options ? options->initial_state : NULL, *seq = options ? options->seq_idx : NULL;
    if (!mmixi_check(m, "mmix_conv1d", "x", x, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0)
        || !mmixi_check(m, "mmix_conv1d", "weight", weight, MMIX_DTYPE_REAL, 3, x->shape[2], 1, MMIXI_ANY, 0)
        || !mmixi_optional(m, "mmix_conv1d", "bias", bias, MMIX_DTYPE_REAL, 1, x->shape[2], 0, 0, 0)
        || !mmixi_optional(m, "mmix_conv1d", "initial_state", past, MMIX_DTYPE_REAL, 3, x->shape[0],
                           x->shape[2], weight->shape[2] - 1, 0)
        || !mmixi_optional(m, "mmix_conv1d", "seq_idx", seq, MMIX_DTYPE_I32, 2, x->shape[0], x->shape[1], 0,
                           0)) return NULL;
    if (past && seq) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_conv1d: initial_state and seq_idx do not go together");
        return NULL;
    }
    call.in[1] = mmixi_even(m, weight, 1);
    if (!call.in[1]) return NULL;
    o.silu = options && options->silu;
    o.reverse = options && options->reverse;
    call.in[3] = past ? mmixi_even(m, past, 1) : NULL;
    call.in[4] = seq;
    call.out[0] = mmix_new3(m, x->shape[0], x->shape[1], x->shape[2]);
    if (options && options->final_state) {
        if (weight->shape[2] > 1) call.out[1] = mmix_new3(m, x->shape[0], x->shape[2], weight->shape[2] - 1);
        *options->final_state = call.out[1];
    }
    return mmixi_run(m, MMIX_OP_CONV1D, &call, &o, sizeof o);
}

/* ==== >>patches ======================================================================
   pictures to tokens: patch embedding, positions for another grid
   ==================================================================================== */

/* The columns of the convolution: row (b, gy, gx) holds the patch as (C, p, p). back: added into x
   instead. */
static void mmixi_patch_columns(const mmix_tensor *x, size_t p, mmix_real *columns, mmix_real *dx)
{
    const mmix_real *pixels = mmix_data(x);
    size_t C = x->shape[1], gh = x->shape[2] / p, gw = x->shape[3] / p;
    for (size_t b = 0; b < x->shape[0]; b++)
        for (size_t gy = 0; gy < gh; gy++)
            for (size_t gx = 0; gx < gw; gx++)
                for (size_t c = 0; c < C; c++)
                    for (size_t y = 0; y < p; y++, columns += p) {
                        size_t at = b * x->stride[0] + c * x->stride[1] + (gy * p + y) * x->stride[2]
                            + gx * p;
                        if (!dx) memcpy(columns, pixels + at, p * sizeof *columns);
                        else for (size_t i = 0; i < p; i++) dx[at + i] += columns[i];
                    }
}
static int mmixi_patch_forward(mmix_ctx *m, mmix_call *call)
{
    const mmix_tensor *x = call->in[0], *w = call->in[1];
    size_t p = w->shape[3], D = w->shape[0], depth = mmix_count(w) / D, rows = mmixi_rows(call->out[0]);
    mmixi_gemm g;
    mmix_mark mark;
    mmix_real *columns;
    if (call->recorded && !mmix_save(m, call, 0, rows * depth)) return -1;
    mark = mmix_mark_here(m);
    columns = call->recorded ? call->saved[0] : (mmix_real *)mmixi_step(m, rows * depth * sizeof *columns);
    if (!columns) return -1;
    mmixi_patch_columns(x, p, columns, NULL);
    g = mmixi_gemm_of(rows, D, depth, columns, depth, 1, mmix_data(w), 1, depth, mmix_data(call->out[0]), D,
                      0);
    g.bias = mmix_data(call->in[2]);
    if (mmixi_gemm_run(m, &g)) return -1;
    mmix_rewind(m, mark);
    return 0;
}
static int mmixi_patch_backward(mmix_ctx *m, mmix_call *call)
{
    mmix_tensor *x = call->in[0], *w = call->in[1];
    size_t D = w->shape[0], depth = mmix_count(w) / D, rows = mmixi_rows(call->out[0]);
    const mmix_real *dy = mmixi_out_grad(call->out[0]);
    int add;
    mmix_real *d = mmix_grad_target(m, w, &add);
    mmixi_gemm g;
    if (d) {
        g = mmixi_gemm_of(D, depth, rows, dy, 1, D, call->saved[0], depth, 1, d, depth, add);
        if (mmixi_gemm_run(m, &g)) return -1;
    }
    d = mmix_grad_target(m, call->in[2], &add);
    if (d) mmixi_column_sums(m, rows, D, dy, D, d, add);
    d = mmix_grad_target(m, x, &add);
    if (d) {
        mmix_real *columns = (mmix_real *)mmixi_step(m, rows * depth * sizeof *columns);
        if (!columns) return -1;
        g = mmixi_gemm_of(rows, depth, D, dy, D, 1, mmix_data(w), depth, 1, columns, depth, 0);
        if (mmixi_gemm_run(m, &g)) return -1;
        if (!add) mmixi_zero(m, mmix_count(x), d);
        mmixi_patch_columns(x, w->shape[3], columns, d);
    }
    return 0;
}
MMIXDEF mmix_tensor *mmix_patch_embed(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias)
{
    const char *who = "mmix_patch_embed";
    mmix_call call = mmixi_call(x, weight, bias);
    size_t p = mmix_shape(weight, 3);
    if (!mmixi_check(m, who, "x", x, MMIX_DTYPE_REAL, 4, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY)
        || !mmixi_check(m, who, "weight", weight, MMIX_DTYPE_REAL, 4, MMIXI_ANY, x->shape[1], p, MMIXI_ANY)
        || !mmixi_optional(m, who, "bias", bias, MMIX_DTYPE_REAL, 1, weight->shape[0], 0, 0, 0)) return NULL;
    if (x->shape[2] < p || x->shape[3] < p) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "mmix_patch_embed: pictures of %.0f x %.0f pixels are smaller than a patch of %.0f",
                  (double)x->shape[2], (double)x->shape[3], (double)p);
        return NULL;
    }
    call.in[1] = mmixi_even(m, weight, 1);
    if (!call.in[1]) return NULL;
    call.out[0] = mmix_new3(m, x->shape[0], x->shape[2] / p * (x->shape[3] / p), weight->shape[0]);
    return mmixi_run(m, MMIX_OP_PATCH_EMBED, &call, NULL, 0);
}

/* ---- resizing: y = Σ over taps of weight_y weight_x x, the same weights backward ---- */

enum { MMIXI_BICUBIC, MMIXI_BILINEAR, MMIXI_ANTIALIAS };
/* input steps per output step */
typedef struct mmixi_resize_options { double ratio_h, ratio_w; int kind; } mmixi_resize_options;

/* Keys 1981; a = -3/4 as PyTorch has it, -1/2 as Pillow. */
static double mmixi_cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
/* The taps that make output `out` of n inputs: which, and their weights; returns how many. With `tap` NULL
   the most that there can be. */
static size_t mmixi_resize_taps(int kind, double ratio, size_t n, size_t out, size_t *tap, double *weight)
{
    const double wide = ratio > 1 ? ratio : 1, s = ((double)out + 0.5) * ratio - 0.5;
    const double first = floor(kind == MMIXI_BILINEAR && s < 0 ? 0 : s), last = (double)(n - 1);
    size_t count = 0;
    if (!tap) return kind == MMIXI_ANTIALIAS ? (size_t)(4 * wide) + 3 : 4;
    if (kind == MMIXI_ANTIALIAS) {               /* the kernel grows as the picture shrinks */
        const double begin = floor(fmax(s + 1 - 2 * wide, 0)), end = fmin(floor(s + 1 + 2 * wide), (double)n);
        double sum = 0;
        for (double at = begin; at < end; at++) {
            tap[count] = (size_t)at;
            sum += weight[count++] = mmixi_cubic(-0.5, (at - s) / wide);
        }
        for (size_t k = 0; k < count; k++) weight[k] /= sum;
        return count;
    }
    for (double at = first - (kind == MMIXI_BICUBIC); at <= first + (kind == MMIXI_BICUBIC ? 2 : 1); at++) {
        tap[count] = (size_t)fmin(fmax(at, 0), last);
        weight[count++] = kind == MMIXI_BICUBIC ? mmixi_cubic(-0.75, s - at) : 1 - fabs(fmax(s, 0) - at);
    }
    return count;
}
static int mmixi_resize_run(mmix_ctx *m, const mmix_call *call, const mmix_real *dy, mmix_real *dx)
{
    const mmixi_resize_options *o = (const mmixi_resize_options *)call->options;
    const mmix_tensor *x = call->in[0], *y = call->out[0];
    const mmix_real *in = mmix_data(x);
    const size_t oh = y->shape[2], ow = y->shape[3],
        most = mmixi_max(mmixi_resize_taps(o->kind, o->ratio_h, 1, 0, NULL, NULL),
                         mmixi_resize_taps(o->kind, o->ratio_w, 1, 0, NULL, NULL));
    size_t *tap = (size_t *)mmixi_step_array(m, most, 2, sizeof *tap);
    double *weight = mmixi_doubles(m, most, 2);
    mmix_real *out = mmix_data(y);
    if (!tap || !weight) return -1;
    for (size_t i = 0; i < oh; i++) {
        const size_t rows = mmixi_resize_taps(o->kind, o->ratio_h, x->shape[2], i, tap, weight);
        for (size_t j = 0; j < ow; j++) {
            const size_t cols = mmixi_resize_taps(o->kind, o->ratio_w, x->shape[3], j, tap + most,
                                                  weight + most);
            for (size_t plane = 0; plane < x->shape[0] * x->shape[1]; plane++) {
                const size_t to = (plane * oh + i) * ow + j,
                    from = plane / x->shape[1] * x->stride[0] + plane % x->shape[1] * x->stride[1];
                double sum = 0;
                for (size_t p = 0; p < rows; p++)
                    for (size_t q = 0; q < cols; q++) {
                        const size_t at = from + tap[p] * x->stride[2] + tap[most + q];
                        const double w = weight[p] * weight[most + q];
                        if (dy) dx[at] += (mmix_real)(w * (double)dy[to]);
                        else sum += w * (double)in[at];
                    }
                if (!dy) out[to] = (mmix_real)sum;
            }
        }
    }
    return 0;
}
static int mmixi_resize_forward(mmix_ctx *m, mmix_call *call)
{
    mmix_mark mark = mmix_mark_here(m);
    int failed = mmixi_resize_run(m, call, NULL, NULL);
    mmix_rewind(m, mark);
    return failed;
}
static int mmixi_resize_backward(mmix_ctx *m, mmix_call *call)
{
    int add;
    mmix_real *dx = mmix_grad_target(m, call->in[0], &add);
    if (!dx) return 0;
    if (!add) mmixi_zero(m, mmix_count(call->in[0]), dx);
    return mmixi_resize_run(m, call, mmixi_out_grad(call->out[0]), dx);
}
static int mmixi_scale_ok(double scale)          /* 0: from the sizes */
{
    return scale > 0 ? scale >= 1e-6 && scale <= 1e6 : scale >= 0;
}
static mmix_tensor *mmixi_resized(mmix_ctx *m, const char *who, int kind, mmix_tensor *x, size_t out_h,
                                 size_t out_w, double scale_h, double scale_w)
{
    mmix_call call = mmixi_call(x, NULL, NULL);
    mmixi_resize_options o;
    if (!mmixi_check(m, who, "x", x, MMIX_DTYPE_REAL, 4, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY))
        return NULL;
    if (!out_h || !out_w || out_h > INT32_MAX || out_w > INT32_MAX || !mmixi_scale_ok(scale_h)
        || !mmixi_scale_ok(scale_w)) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: to %.0f x %.0f with scales %g and %g, expected 1 to 2³¹ - 1, "
                  "and scales of 10⁻⁶ to 10⁶ or 0", who, (double)out_h, (double)out_w, scale_h, scale_w);
        return NULL;
    }
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.ratio_h = scale_h > 0 ? 1 / scale_h : (double)x->shape[2] / (double)out_h;
    o.ratio_w = scale_w > 0 ? 1 / scale_w : (double)x->shape[3] / (double)out_w;
    call.out[0] = mmix_new4(m, x->shape[0], x->shape[1], out_h, out_w);
    return mmixi_run(m, MMIX_OP_RESIZE, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_bicubic_resize(mmix_ctx *m, mmix_tensor *x, size_t out_h, size_t out_w,
                                         double scale_h, double scale_w)
{
    return mmixi_resized(m, "mmix_bicubic_resize", MMIXI_BICUBIC, x, out_h, out_w, scale_h, scale_w);
}
MMIXDEF mmix_tensor *mmix_bilinear_resize(mmix_ctx *m, mmix_tensor *x, size_t out_h, size_t out_w,
                                          double scale_h, double scale_w)
{
    return mmixi_resized(m, "mmix_bilinear_resize", MMIXI_BILINEAR, x, out_h, out_w, scale_h, scale_w);
}
MMIXDEF mmix_tensor *mmix_bicubic_resize_antialias(mmix_ctx *m, mmix_tensor *x, size_t out_h, size_t out_w)
{
    return mmixi_resized(m, "mmix_bicubic_resize_antialias", MMIXI_ANTIALIAS, x, out_h, out_w, 0, 0);
}

/* ==== >>heads ========================================================================
   how the mixers see a tensor (B, L, heads, width): a pointer and three steps

   A reverse scan is the same loop with the pointer at the last token and a negative step, so nothing is ever
   flipped.
   ==================================================================================== */

/* t (B, L, heads, width) or (B, L, heads); data is t's own or that of its gradient, which has its strides. */
static mmix_heads mmixi_heads_of(const mmix_tensor *t, mmix_real *data, size_t H)
{
    mmix_heads v;
    v.p = data;
    v.batch = (ptrdiff_t)t->stride[0];
    v.token = (ptrdiff_t)t->stride[1];
    v.head = (ptrdiff_t)t->stride[2];
    v.share = H / t->shape[2];
    return v;
}
MMIXDEF mmix_heads mmix_heads_plain(mmix_real *p, size_t L, size_t heads, size_t width, size_t H)
{
    mmix_heads v;
    v.p = p;
    v.token = (ptrdiff_t)(heads * width);
    v.batch = (ptrdiff_t)L * v.token;
    v.head = (ptrdiff_t)width;
    v.share = H / heads;
    return v;
}
static void mmixi_heads_reverse(mmix_heads *v, size_t L)
{
    if (v->p) v->p += (ptrdiff_t)(L - 1) * v->token;
    v->token = -v->token;
}
static mmix_real *mmixi_at(const mmix_heads *v, size_t b, size_t t, size_t h)
{
    return v->p + (ptrdiff_t)b * v->batch + (ptrdiff_t)t * v->token + (ptrdiff_t)(h / v->share) * v->head;
}
static void mmixi_zero_rows(size_t rows, size_t cols, mmix_real *to, ptrdiff_t ldt)
{
    for (size_t i = 0; i < rows; i++, to += ldt) memset(to, 0, cols * sizeof *to);
}
/* rows x cols, one row at a time: to = or += from */
static void mmixi_put_rows(const mmixi_kernels *k, size_t rows, size_t cols, const mmix_real *from,
                           ptrdiff_t ldf, mmix_real *to, ptrdiff_t ldt, int add)
{
    for (size_t i = 0; i < rows; i++)
        mmixi_put(k, cols, from + (ptrdiff_t)i * ldf, to + (ptrdiff_t)i * ldt, add);
}
/* How a sequence is cut into chunks: they begin anew where a packed sequence begins, and depend on that
   sequence alone, so that packed equals separate. One of up to `one` tokens is a single chunk. */
typedef struct mmixi_chunks { const int32_t *seq; ptrdiff_t step; size_t L, one, chunk; } mmixi_chunks;
static mmixi_chunks mmixi_chunks_of(const int32_t *seq, ptrdiff_t step, size_t L, size_t one, size_t chunk)
{
    mmixi_chunks c;
    c.seq = seq; c.step = step; c.L = L; c.one = one; c.chunk = chunk;
    return c;
}
/* Does a packed sequence begin at token t? */
static int mmixi_chunks_new(const mmixi_chunks *c, size_t t)
{
    return c->seq && t && c->seq[(ptrdiff_t)t * c->step] != c->seq[(ptrdiff_t)(t - 1) * c->step];
}
/* The chunk that token t lies in: start … end - 1. */
static void mmixi_chunks_at(const mmixi_chunks *c, size_t t, size_t *start, size_t *end)
{
    size_t first = c->seq ? t : 0, last = c->seq ? t + 1 : c->L, Q;
    while (first && !mmixi_chunks_new(c, first)) first--;
    while (last < c->L && !mmixi_chunks_new(c, last)) last++;
    Q = last - first > c->one ? c->chunk : last - first;
    *start = first + (t - first) / Q * Q;
    *end = mmixi_min(last, *start + Q);
}
static size_t mmixi_chunks_count(const mmixi_chunks *c)
{
    size_t n = 0;
    for (size_t t = 0, start; t < c->L; n++) mmixi_chunks_at(c, t, &start, &t);
    return n;
}
/* Scratch of one plain call: the library's own in step memory, or a raw function's from its caller. */
#define MMIXI_PART(name, size) s->name = base ? base + at : NULL; at += mmixi_round_up(size, 16)

/* ==== >>rope =========================================================================
   rotary positions: pair i of a head's features turns by angle = pos · theta^(-2i/R)

       (u, v) → (u cos - v sin, u sin + v cos);   backward: the same turn the other way

   q_i·k_j then depends on i - j alone (Su et al. 2021). Angles are formed in double: positions reach 10⁵.
   ==================================================================================== */

typedef struct mmixi_rope_options { double theta; size_t R, sections[3]; int interleaved;
                                   } mmixi_rope_options;
typedef struct mmixi_rope_job {
    mmixi_rope_options o;
    mmix_heads from, to;
    size_t L, H, N;
    const int32_t *pos;
    /* steps of pos; rows of the table that a sequence has to itself */
    size_t pos_axis, pos_batch, per_batch;
    const double *frequency;                     /* (R/2) */
    mmix_real *table;                            /* (L or B L, R/2, 2): cos, sin */
    int back, add;
} mmixi_rope_job;

static void mmixi_rope_table(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_rope_job *j = (const mmixi_rope_job *)arg;
    (void)lane;
    for (size_t t = begin; t < end; t++)
        for (size_t i = 0; i < j->o.R / 2; i++) {
            const size_t *s = j->o.sections, axis = !s[0] || i < s[0] ? 0 : i < s[0] + s[1] ? 1 : 2;
            const double angle = j->frequency[i]
                * j->pos[axis * j->pos_axis + t / j->L * j->pos_batch + t % j->L];
            j->table[t * j->o.R + 2 * i] = (mmix_real)mmixi_cos(angle);
            j->table[t * j->o.R + 2 * i + 1] = (mmix_real)mmixi_sin(angle);
        }
}
static void mmixi_rope_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_rope_job *j = (const mmixi_rope_job *)arg;
    const size_t half = j->o.R / 2, step = j->o.interleaved ? 2 : 1, other = j->o.interleaved ? 1 : half;
    (void)lane;
    for (size_t t = begin; t < end; t++)
        for (size_t h = 0; h < j->H; h++) {
            const mmix_real *x = mmixi_at(&j->from, t / j->L, t % j->L, h),
                *turn = j->table + (t / j->L * j->per_batch + t % j->L) * j->o.R;
            mmix_real *y = mmixi_at(&j->to, t / j->L, t % j->L, h);
            for (size_t i = 0; i < half; i++) {
                const mmix_real c = turn[2 * i], s = j->back ? -turn[2 * i + 1] : turn[2 * i + 1],
                    u = x[i * step], v = x[i * step + other];
                y[i * step] = (j->add ? y[i * step] : 0) + (u * c - v * s);
                y[i * step + other] = (j->add ? y[i * step + other] : 0) + (u * s + v * c);
            }
            for (size_t i = 2 * half; i < j->N; i++) y[i] = (j->add ? y[i] : 0) + x[i];
        }
}
static int mmixi_rope_run(mmix_ctx *m, mmix_call *call, int back)
{
    const mmix_tensor *x = call->in[0], *pos = call->in[1];
    const size_t B = x->shape[0], L = x->shape[1], H = x->shape[2];
    mmix_heads whole = mmix_heads_plain(mmix_data(call->out[0]), L, H, x->shape[3], H);
    mmixi_rope_job j;
    memset(&j, 0, sizeof j);
    j.o = *(const mmixi_rope_options *)call->options;
    j.L = L; j.H = H; j.N = x->shape[3];
    j.back = back;
    j.from = mmixi_heads_of(x, mmix_data(x), H);
    j.to = whole;
    j.table = call->saved[0];
    j.per_batch = pos->ndim - (j.o.sections[0] > 0) == 2 ? L : 0;
    if (back) {
        j.from = whole;
        j.from.p = (mmix_real *)(uintptr_t)mmixi_out_grad(call->out[0]);
        j.to = mmixi_heads_of(x, mmix_grad_target(m, call->in[0], &j.add), H);
    }
    else {
        const size_t half = j.o.R / 2, rows = j.per_batch ? B * L : L;
        double *frequency = mmixi_doubles(m, half + 1, 1);
        j.table = call->recorded ? mmix_save(m, call, 0, rows * j.o.R) : mmixi_reals(m, rows, j.o.R);
        if (!frequency || !j.table) return -1;
        for (size_t i = 0; i < half; i++)
            frequency[i] = mmixi_exp(-2 * (double)i / (double)j.o.R * mmixi_log(j.o.theta));
        j.frequency = frequency;
        j.pos = mmix_data_i32(pos);
        j.pos_axis = j.o.sections[0] ? pos->stride[0] : 0;
        j.pos_batch = j.per_batch ? pos->stride[pos->ndim - 2] : 0;
        mmixi_ranges(m, rows, mmixi_row_grain(j.o.R * 16), mmixi_rope_table, &j);
    }
    if (j.to.p) mmixi_ranges(m, B * L, mmixi_row_grain(H * j.N), mmixi_rope_range, &j);
    return 0;
}
static int mmixi_rope_forward(mmix_ctx *m, mmix_call *call) { return mmixi_rope_run(m, call, 0); }
static int mmixi_rope_backward(mmix_ctx *m, mmix_call *call) { return mmixi_rope_run(m, call, 1); }

/* Whether heads of N can be turned so. */
static int mmixi_rope_check(mmix_ctx *m, const char *who, const mmix_rope_options *o, size_t N)
{
    const size_t *part = o->sections, sum = part[0] + part[1] + part[2], R = o->dim ? o->dim : N;
    if (R % 2 || R > N || (sum && (sum != R / 2 || !part[0])))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: rope.dim %.0f of heads of %.0f, sections %.0f + %.0f + "
                         "%.0f; dim is even, at most a head, and twice the sections' sum, of which the first "
                         "is not 0", who, (double)R, (double)N, (double)part[0], (double)part[1],
                         (double)part[2]), 0;
    return o->theta <= DBL_MAX ? 1
        : (mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: rope.theta is %g, expected a number", who, o->theta), 0);
}
MMIXDEF mmix_tensor *mmix_rope(mmix_ctx *m, mmix_tensor *x, mmix_tensor *pos,
                               const mmix_rope_options *options)
{
    const char *who = "mmix_rope";
    mmix_call call = mmixi_call(x, pos, NULL);
    mmix_rope_options none;
    mmixi_rope_options o;
    size_t L = mmix_shape(x, 1), N = mmix_shape(x, 3), want[3];
    int n = 0;
    memset(&none, 0, sizeof none);
    memset(&o, 0, sizeof o);
    options = options ? options : &none;
    o.theta = options->theta > 0 ? options->theta : 10000;
    o.R = options->dim ? options->dim : N;
    o.interleaved = options->interleaved != 0;
    for (int a = 0; a < 3; a++) o.sections[a] = options->sections[a];
    if (o.sections[0] + o.sections[1] + o.sections[2]) want[n++] = 3;
    if (mmix_ndim(pos) > n + 1) want[n++] = mmix_shape(x, 0);
    want[n++] = L;
    if (!mmixi_check(m, who, "x", x, MMIX_DTYPE_REAL, 4, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY)
        || !mmixi_check(m, who, "pos", pos, MMIX_DTYPE_I32, n, want[0], n > 1 ? want[1] : 0,
                        n > 2 ? want[2] : 0, 0)) return NULL;
    if (!mmixi_rope_check(m, who, options, N)) return NULL;
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, 4, x->shape);
    return mmixi_run(m, MMIX_OP_ROPE, &call, &o, sizeof o);
}

/* ==== >>ssd ==========================================================================
   h_t = e^(a_t) h_{t-1} + δ_t B_tᵀ x_t,   y_t = C_t h_t + D x_t,   a_t = δ_t A

   One head at a time; h (N, P), x and y (L, P), B and C (L, N), δ (L). Dao & Gu 2024. δ = clamp(softplus(dt +
   bias)).

   The loop over time is the definition (mmixi_ssd_plain). The fast form takes chunks of Q tokens. Inside a
   chunk the mixer is a small matrix, between chunks it is the state:

       y_i = Σ_{j≤i} W_ij x_j + p_i C_i h_in,      h_out = p_Q h_in + Σ_j r_j δ_j B_jᵀ x_j
       W_ij = L_ij S_ij δ_j,   S = C Bᵀ,   L_ij = e^(a_{j+1} + … + a_i),   p_i = e^(a_1 + … + a_i),
       r_j = L_Qj

   Small matrix products in place of memory traffic: Q/2 (P + N G/H) + 2 N P multiply-adds a token and head,
   and without the state, L/2 (P + N G/H), if one chunk holds the whole sequence: up to 4 N P / (P + N G/H)
   tokens that is cheaper, since of n chunks the first reads no state and the last writes none. L is built row
   by row, L_ij = L_{i-1,j} e^(a_i): a product of its own terms and never a quotient of prefix products, so
   that a large |a| somewhere leaves small terms elsewhere exact; one multiplication takes the place of an
   exponential. Entries below e⁻⁸⁰ are dropped. S is shared by all heads that share B and C.

   Backward, with dh = ∂/∂h_out and T = dY Xᵀ (the gradient of W):
       dx_j = Σ_{i≥j} W_ij dy_i + r_j δ_j B_j dh + D dy_j       dh_in = p_Q dh + Σ_i p_i C_iᵀ dy_i
       dS_ij = T_ij L_ij δ_j;   dC = dS B, dC_i += p_i dy_i h_inᵀ;   dB = dSᵀ C, dB_j += r_j δ_j x_j dhᵀ
   and every exponent collects the gradient of what it multiplies: a_k is part of L_ij for j < k ≤ i, of p_i
   for i ≥ k, of r_j for j < k, and of p_Q:
       da_k = Σ_{j<k≤i} T_ij W_ij + Σ_{i≥k} p_i (dy_i h_inᵀ · C_i) + Σ_{j<k} r_j δ_j (x_j dhᵀ · B_j)
              + p_Q h_in · dh
   These are sums of their own terms as well (column sums grow from the last row up), not differences.
   ==================================================================================== */

#ifdef MMIX_REGRESSION
enum { MMIXI_SSD_CHUNK = 3, MMIXI_SSD_ONE_CHUNK = 0 };
#else
enum { MMIXI_SSD_CHUNK = 64, MMIXI_SSD_ONE_CHUNK = 256 };
#endif

/* What both passes know; pointers to gradients are NULL where none is wanted. */
typedef struct mmixi_ssd_job {
    mmix_raw_ssd r;                              /* arrays begin at the scan's first token, whichever end */
    const mmixi_kernels *k;
    ptrdiff_t seq_token;                         /* 1 or -1 */
    size_t Q, chunk;                             /* Q: the longest chunk */
    size_t one;                                  /* a sequence of up to so many tokens is one chunk */
    size_t heads, blocks;                        /* heads a task takes, tasks a sequence */
    /* states kept for each sequence and head: of every chunk but the first */
    size_t kept;
    int add_x, add_dt, add_first;                /* whether those gradients are added to what is there */
    /* so many tasks share a group of B and C; reals of one's partial sums, 0 if db, dc are the gradients */
    size_t parts_b, parts_c, part_b, part_c;
    mmix_real *dhead;                            /* (B, H, 2 + D_width): dA, dbias, dD of each sequence */
    mmix_real *scratch;
    size_t lane_size;
} mmixi_ssd_job;

/* A lane's scratch. All matrices are row-major, with Q, N or P columns. */
typedef struct mmixi_ssd_scratch {
    /* h: (heads, N, P), state or its gradient; the others (Q, Q) */
    mmix_real *h, *S, *L, *W, *T, *dS;
    /* a transpose (max(N, P), Q); p C and r δ B (Q, N); (Q, N); (P, N); (N, P); copies (Q, P) */
    mmix_real *t, *Cp, *Br, *E, *ht, *in, *x, *dy;
    mmix_real *u, *delta, *e, *p, *column, *da, *dd;   /* (Q) each */
} mmixi_ssd_scratch;
static size_t mmixi_ssd_scratch_fill(const mmixi_ssd_job *j, mmix_real *base, mmixi_ssd_scratch *s)
{
    size_t Q = j->Q, N = j->r.N, P = j->r.P, at = 0, QQ = mmixi_round_up(Q * Q, 16);
    MMIXI_PART(h, j->heads * N * P);
    MMIXI_PART(S, QQ); MMIXI_PART(L, QQ); MMIXI_PART(W, QQ); MMIXI_PART(T, QQ); MMIXI_PART(dS, QQ);
    MMIXI_PART(t, mmixi_max(N, P) * Q); MMIXI_PART(Cp, Q * N); MMIXI_PART(Br, Q * N); MMIXI_PART(E, Q * N);
    MMIXI_PART(ht, N * P); MMIXI_PART(in, N * P);
    MMIXI_PART(x, Q * P); MMIXI_PART(dy, Q * P);
    MMIXI_PART(u, Q); MMIXI_PART(delta, Q); MMIXI_PART(e, Q); MMIXI_PART(p, Q); MMIXI_PART(column, Q);
    MMIXI_PART(da, Q);
    MMIXI_PART(dd, Q);
    return at;
}

static mmixi_chunks mmixi_ssd_chunks(const mmixi_ssd_job *j, size_t b)
{
    return mmixi_chunks_of(j->r.seq_idx ? j->r.seq_idx + (ptrdiff_t)b * j->r.seq_batch : NULL, j->seq_token,
                           j->r.L, j->one, j->chunk);
}

/* About so many tasks: where heads share B and C, the fewer the tasks the fewer times S is computed and the
   fewer partial sums dB and dC have. Those fix the order of summation: in the backward the number of tasks
   may not depend on the number of threads. */
static void mmixi_ssd_begin(mmixi_ssd_job *j, const mmix_raw_ssd *r, const mmixi_kernels *k, size_t tasks)
{
    mmixi_ssd_scratch s;
    const size_t share = r->x.share, share_b = r->b.share, share_c = r->c.share;
    memset(j, 0, sizeof *j);
    j->r = *r;
    j->k = k;
    j->r.D_width = mmixi_max(r->D_width, 1);
    j->seq_token = r->reverse ? -1 : 1;
    if (r->reverse) {
        mmix_heads *v[10];
        v[0] = &j->r.x; v[1] = &j->r.dt; v[2] = &j->r.b; v[3] = &j->r.c; v[4] = &j->r.y;
        v[5] = &j->r.dx; v[6] = &j->r.ddt; v[7] = &j->r.db; v[8] = &j->r.dc; v[9] = &j->r.dy;
        for (int i = 0; i < 10; i++) mmixi_heads_reverse(v[i], r->L);
        if (r->seq_idx) j->r.seq_idx += r->L - 1;
    }
    j->chunk = j->one = r->chunk;
    if (!r->chunk) {
        j->chunk = MMIXI_SSD_CHUNK;
        j->one = 4 * r->N * r->P / (r->P + r->N / mmixi_min(share_b, share_c));
        j->one = mmixi_min(MMIXI_SSD_ONE_CHUNK, j->one);
    }
    j->Q = mmixi_min(r->L, mmixi_max(r->seq_idx || r->L <= j->one ? j->one : 0, j->chunk));
    for (size_t b = 0; b < r->B; b++) {
        const mmixi_chunks chunks = mmixi_ssd_chunks(j, b);
        j->kept = mmixi_max(j->kept, mmixi_chunks_count(&chunks) - 1);
    }
    /* heads that share an x stay together, because they add into one dx; a task takes whole groups of B and C
       or equal parts of one */
    if (share_b == 1 && share_c == 1) tasks = mmixi_max(tasks, 16);
    j->heads = mmixi_round_up(mmixi_ceil_div(r->H, mmixi_max(1, tasks / r->B)), share);
    while ((j->heads % share_b && share_b % j->heads) || (j->heads % share_c && share_c % j->heads))
        j->heads += share;
    j->parts_b = mmixi_ceil_div(share_b, j->heads);
    j->parts_c = mmixi_ceil_div(share_c, j->heads);
    j->blocks = mmixi_ceil_div(r->H, j->heads);
    j->lane_size = mmixi_ssd_scratch_fill(j, NULL, &s);
}

/* u = dt + bias, δ, e^(δ A) for q tokens of a head */
static void mmixi_ssd_steps(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s, size_t b, size_t start,
                            size_t q, size_t h)
{
    const mmix_real *dt = mmixi_at(&j->r.dt, b, start, h);
    for (size_t i = 0; i < q; i++)
        s->u[i] = s->delta[i] = dt[(ptrdiff_t)i * j->r.dt.token] + (j->r.dt_bias ? j->r.dt_bias[h] : 0);
    if (j->r.dt_softplus) j->k->softplus(q, s->u, s->delta);
    for (size_t i = 0; j->r.dt_high > 0 && i < q; i++) {
        if (s->delta[i] < (mmix_real)j->r.dt_low) s->delta[i] = (mmix_real)j->r.dt_low;
        if (s->delta[i] > (mmix_real)j->r.dt_high) s->delta[i] = (mmix_real)j->r.dt_high;
    }
    j->k->scale(q, j->r.A[h], s->delta, s->e);
    j->k->exp_each(q, s->e, s->e);
}

/* y += D x for one token; D is a number a head, or one a channel. */
static void mmixi_ssd_skip(const mmixi_ssd_job *j, size_t h, const mmix_real *x, mmix_real *y)
{
    if (j->r.D_width > 1) j->k->mul_add(j->r.P, j->r.D + h * j->r.D_width, x, y);
    else j->k->axpy(j->r.P, j->r.D[h], x, y);
}

/* ---- the definition: a loop over time. h (P, N) as in the interface, begun by the caller ---- */

static void mmixi_ssd_plain(const mmixi_ssd_job *j, mmix_real *h)
{
    const size_t P = j->r.P, N = j->r.N;
    mmixi_ssd_scratch s;
    mmixi_ssd_scratch_fill(j, j->scratch, &s);
    for (size_t b = 0; b < j->r.B; b++) {
        const mmixi_chunks chunks = mmixi_ssd_chunks(j, b);
        for (size_t head = 0; head < j->r.H; head++, h += P * N)
            for (size_t t = 0; t < j->r.L; t++) {
                const mmix_real *C = mmixi_at(&j->r.c, b, t, head), *B = mmixi_at(&j->r.b, b, t, head),
                    *x = mmixi_at(&j->r.x, b, t, head);
                mmix_real *y = mmixi_at(&j->r.y, b, t, head);
                if (mmixi_chunks_new(&chunks, t)) memset(h, 0, P * N * sizeof *h);
                mmixi_ssd_steps(j, &s, b, t, 1, head);
                for (size_t p = 0; p < P; p++) {
                    double sum = 0;
                    for (size_t n = 0; n < N; n++) {
                        h[p * N + n] = s.e[0] * h[p * N + n] + s.delta[0] * x[p] * B[n];
                        sum += (double)h[p * N + n] * (double)C[n];
                    }
                    y[p] = (mmix_real)sum;
                }
                if (j->r.D) mmixi_ssd_skip(j, head, x, y);
            }
    }
}
/* M = L ∘ (C Bᵀ) diag(δ) + diag(D), (B, H, L, L); of the reverse scan the same in reversed indices. `weight`
   times it is added. decay: L numbers. */
static void mmixi_ssd_matrix(const mmixi_ssd_job *j, double weight, double *decay, mmix_real *M)
{
    const size_t L = j->r.L;
    mmixi_ssd_scratch s;
    mmixi_ssd_scratch_fill(j, j->scratch, &s);
    for (size_t b = 0; b < j->r.B; b++) {
        const mmixi_chunks chunks = mmixi_ssd_chunks(j, b);
        for (size_t h = 0; h < j->r.H; h++, M += L * L)
            for (size_t t = 0; t < L; t++) {
                mmix_real *row = M + (j->r.reverse ? L - 1 - t : t) * L;
                mmixi_ssd_steps(j, &s, b, t, 1, h);
                for (size_t i = 0; i < t; i++) {
                    decay[i] *= (double)s.e[0];
                    if (decay[i] < 1.8e-35 || mmixi_chunks_new(&chunks, t)) decay[i] = 0;
                }
                decay[t] = 1;
                for (size_t i = 0; i <= t; i++) {
                    mmixi_ssd_steps(j, &s, b, i, 1, h);
                    row[j->r.reverse ? L - 1 - i : i] += (mmix_real)(weight * (decay[i] * (double)s.delta[0]
                        * (double)j->k->dot(j->r.N, mmixi_at(&j->r.c, b, t, h), mmixi_at(&j->r.b, b, i, h))
                        + (i == t && j->r.D ? (double)j->r.D[h] : 0)));
                }
            }
    }
}
/* One token with a state that is changed in place, at the speed at which that comes and goes. Heads begin …
   end - 1 of all sequences. */
static int mmixi_ssd_is_step(const mmix_raw_ssd *r)
{
    return r->L == 1 && r->final_state && r->final_state == r->initial_state;
}
static void mmixi_ssd_step_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_ssd_job *j = (const mmixi_ssd_job *)arg;
    const size_t NP = j->r.N * j->r.P;
    mmixi_ssd_scratch s;
    mmixi_ssd_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    for (size_t i = begin; i < end; i++) {
        const size_t b = i / j->r.H, h = i % j->r.H;
        const mmix_real *x = mmixi_at(&j->r.x, b, 0, h);
        mmix_real *y = mmixi_at(&j->r.y, b, 0, h), *state = j->r.final_state + i * NP;
        mmixi_ssd_steps(j, &s, b, 0, 1, h);
        j->k->scale(j->r.P, s.delta[0], x, s.x);
        j->k->ssd_step(j->r.P, j->r.N, s.e[0], s.x, mmixi_at(&j->r.b, b, 0, h), mmixi_at(&j->r.c, b, 0, h),
                       state, y);
        if (j->r.D) mmixi_ssd_skip(j, h, x, y);
    }
}

/* ---- chunks ---- */

/* a (rows x depth) lower triangular times b, skipping the blocks above the diagonal; a's entries there, up to
   the tile's edge, are 0. */
static void mmixi_lower(const mmixi_kernels *k, size_t q, size_t cols, const mmix_real *a, size_t lda,
                        const mmix_real *b, ptrdiff_t ldb, mmix_real *c, ptrdiff_t ldc, int add)
{
    for (size_t i = 0; i < q; i += k->mr) {
        size_t rows = mmixi_min(k->mr, q - i);
        mmixi_gemm_small(k, rows, cols, i + rows, a + i * lda, (ptrdiff_t)lda, 1, b, ldb,
                         c + (ptrdiff_t)i * ldc, ldc, add);
    }
}
/* aᵀ b for the same a */
static void mmixi_lower_transposed(const mmixi_kernels *k, size_t q, size_t cols, const mmix_real *a,
                                   size_t lda, const mmix_real *b, ptrdiff_t ldb, mmix_real *c, ptrdiff_t ldc,
                                   int add)
{
    for (size_t i = 0; i < q; i += k->mr)
        mmixi_gemm_small(k, mmixi_min(k->mr, q - i), cols, q - i, a + i * lda + i, 1, (ptrdiff_t)lda,
                         b + (ptrdiff_t)i * ldb, ldb, c + (ptrdiff_t)i * ldc, ldc, add);
}
/* c_ij = a_i · b_j for j up to the tile's edge right of the diagonal; t takes bᵀ. a and b have `width`
   columns. */
static void mmixi_lower_product(const mmixi_kernels *k, size_t q, size_t width, const mmix_real *a,
                                ptrdiff_t lda, const mmix_real *b, ptrdiff_t ldb, mmix_real *t, mmix_real *c,
                                size_t ldc)
{
    k->transpose(q, width, b, ldb, t, (ptrdiff_t)q);
    for (size_t i = 0; i < q; i += k->mr) {
        size_t rows = mmixi_min(k->mr, q - i);
        mmixi_gemm_small(k, rows, i + rows, width, a + (ptrdiff_t)i * lda, lda, 1, t, (ptrdiff_t)q,
                         c + i * ldc, (ptrdiff_t)ldc, 0);
    }
}

/* L and W of one chunk and head from S, e and δ, and p. That is one exponential of the sum, not a product of
   exponentials: the state is multiplied by it in every chunk, and the roundings of thousands of factors near
   1 would add up (to 1e-5 over 4096 tokens that forget nothing). */
static void mmixi_ssd_weights(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s, size_t q, mmix_real A)
{
    const mmixi_kernels *k = j->k;
    size_t Q = j->Q;
    double a = 0;
    for (size_t i = 0; i < q; i++) s->p[i] = (mmix_real)(a += (double)s->delta[i] * (double)A);
    k->exp_each(q, s->p, s->p);
    for (size_t i = 0; i < q; i++) {
        mmix_real *L = s->L + i * Q, *W = s->W + i * Q;
        s->p[i] = s->p[i] < (mmix_real)1.8e-35 ? 0 : s->p[i];
        if (i) k->ssd_row(i, s->e[i], L - Q, s->S + i * Q, s->delta, L, W);
        L[i] = 1;
        W[i] = s->S[i * Q + i] * s->delta[i];
        for (size_t z = i + 1; z < mmixi_min(q, mmixi_round_up(i + 1, k->mr)); z++) W[z] = 0;
    }
}
/* p_i C_i and r_j δ_j B_j; r is the last row of L */
static void mmixi_ssd_scaled(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s, size_t q, const mmix_real *C,
                             const mmix_real *B)
{
    const mmix_real *r = s->L + (q - 1) * j->Q;
    for (size_t i = 0; i < q; i++) {
        j->k->scale(j->r.N, s->p[i], C + (ptrdiff_t)i * j->r.c.token, s->Cp + i * j->r.N);
        j->k->scale(j->r.N, r[i] * s->delta[i], B + (ptrdiff_t)i * j->r.b.token, s->Br + i * j->r.N);
    }
}

static void mmixi_ssd_task(void *arg, size_t index, size_t lane)
{
    const mmixi_ssd_job *j = (const mmixi_ssd_job *)arg;
    const mmixi_kernels *k = j->k;
    mmixi_ssd_scratch s;
    size_t b = index / j->blocks, h0 = index % j->blocks * j->heads, h1 = mmixi_min(j->r.H, h0 + j->heads),
        N = j->r.N, P = j->r.P, NP = N * P, chunk = 0;
    const mmixi_chunks chunks = mmixi_ssd_chunks(j, b);
    mmixi_ssd_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    for (size_t h = h0; h < h1; h++) {
        if (j->r.initial_state)
            k->transpose(P, N, j->r.initial_state + (b * j->r.H + h) * NP, (ptrdiff_t)N, s.h + (h - h0) * NP,
                         (ptrdiff_t)P);
        else memset(s.h + (h - h0) * NP, 0, NP * sizeof *s.h);
    }
    for (size_t start = 0, end; start < j->r.L; start = end, chunk++) {
        const mmix_real *scored_c = NULL, *scored_b = NULL;
        size_t q;
        int fresh = start ? mmixi_chunks_new(&chunks, start) : !j->r.initial_state, wanted;
        mmixi_chunks_at(&chunks, start, &start, &end);
        q = end - start;
        wanted = end < j->r.L ? !mmixi_chunks_new(&chunks, end) : j->r.final_state != NULL;
        for (size_t h = h0; h < h1; h++) {
            const mmix_real *C = mmixi_at(&j->r.c, b, start, h), *B = mmixi_at(&j->r.b, b, start, h);
            mmix_real *y = mmixi_at(&j->r.y, b, start, h), *state = s.h + (h - h0) * NP;
            if (fresh) memset(state, 0, NP * sizeof *state);
            if (j->r.states && chunk)
                memcpy(j->r.states + ((b * j->r.H + h) * j->kept + chunk - 1) * NP, state,
                       NP * sizeof *state);
            if (C != scored_c || B != scored_b)
                mmixi_lower_product(k, q, N, C, j->r.c.token, B, j->r.b.token, s.t, s.S, j->Q);
            scored_c = C;
            scored_b = B;
            mmixi_ssd_steps(j, &s, b, start, q, h);
            mmixi_ssd_weights(j, &s, q, j->r.A[h]);
            mmixi_ssd_scaled(j, &s, q, C, B);
            /* near each other the rows of x stay in the nearest cache: heads lie pages apart */
            mmixi_put_rows(k, q, P, mmixi_at(&j->r.x, b, start, h), j->r.x.token, s.x, (ptrdiff_t)P, 0);
            mmixi_lower(k, q, P, s.W, j->Q, s.x, (ptrdiff_t)P, y, j->r.y.token, 0);
            if (!fresh)
                mmixi_gemm_small(k, q, P, N, s.Cp, (ptrdiff_t)N, 1, state, (ptrdiff_t)P, y, j->r.y.token, 1);
            for (size_t i = 0; j->r.D && i < q; i++)
                mmixi_ssd_skip(j, h, s.x + i * P, y + (ptrdiff_t)i * j->r.y.token);
            if (!wanted) continue;
            k->scale(NP, s.p[q - 1], state, state);
            mmixi_gemm_small(k, N, P, q, s.Br, 1, (ptrdiff_t)N, s.x, (ptrdiff_t)P, state, (ptrdiff_t)P, 1);
        }
    }
    for (size_t h = h0; j->r.final_state && h < h1; h++)
        k->transpose(N, P, s.h + (h - h0) * NP, (ptrdiff_t)P, j->r.final_state + (b * j->r.H + h) * NP,
                     (ptrdiff_t)N);
}

/* One head's part of one chunk in the backward pass. */
typedef struct mmixi_ssd_part {
    size_t b, h, start, q;                       /* tokens start … start + q - 1 of sequence b, head h */
    int enters, leaves;                          /* a state comes in; one goes out to the next chunk */
    const mmix_real *B, *C, *r, *in;             /* r: the last row of L; in: h_in, if it enters */
    mmix_real *dB, *dC, *dh;                     /* dh: ∂/∂h_out, and at the end ∂/∂h_in */
} mmixi_ssd_part;

/* Inside the chunk, from the last row up: da = Σ T W, dS, and in `column` the gradient of δ in W. */
static void mmixi_ssd_inside_backward(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s,
                                      const mmixi_ssd_part *c)
{
    size_t Q = j->Q;
    mmixi_lower_product(j->k, c->q, j->r.P, s->dy, (ptrdiff_t)j->r.P, s->x, (ptrdiff_t)j->r.P, s->t, s->T, Q);
    memset(s->column, 0, c->q * sizeof *s->column);
    for (size_t i = c->q; i-- > 0;) {
        mmix_real u = s->T[i * Q + i];
        s->da[i] = i ? j->k->ssd_row_backward(i, s->T + i * Q, s->L + i * Q, s->S + i * Q, s->delta,
                                                 s->dS + i * Q, s->column) : 0;
        s->dS[i * Q + i] += u * s->delta[i];
        s->column[i] += u * s->S[i * Q + i];
    }
}

/* What h_in gave to y and what the chunk gave to h_out: dC, dB and their parts of da; dd = ∂/∂δ. Returns
   dA. */
static mmix_real mmixi_ssd_state_backward(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s,
                                          const mmixi_ssd_part *c)
{
    const mmixi_kernels *k = j->k;
    size_t N = j->r.N, P = j->r.P, q = c->q;
    mmix_real after = 0, A = j->r.A[c->h], dA = 0;
    if (c->enters) {
        k->transpose(N, P, c->in, (ptrdiff_t)P, s->ht, (ptrdiff_t)N);
        mmixi_gemm_small(k, q, N, P, s->dy, (ptrdiff_t)j->r.P, 1, s->ht, (ptrdiff_t)N, s->E, (ptrdiff_t)N, 0);
    }
    for (size_t i = q; c->enters && i-- > 0;) {
        after += s->p[i] * k->dot(N, s->E + i * N, c->C + (ptrdiff_t)i * j->r.c.token);
        s->da[i] += after;
        k->axpy(N, s->p[i], s->E + i * N, c->dC + (ptrdiff_t)i * j->r.dc.token);
    }
    if (c->leaves) {
        k->transpose(N, P, c->dh, (ptrdiff_t)P, s->ht, (ptrdiff_t)N);
        mmixi_gemm_small(k, q, N, P, s->x, (ptrdiff_t)j->r.P, 1, s->ht, (ptrdiff_t)N, s->E, (ptrdiff_t)N, 0);
    }
    after = c->leaves && c->enters ? s->p[q - 1] * k->dot(N * P, c->in, c->dh) : 0;
    for (size_t i = 0; i < q; i++) {
        mmix_real f = c->leaves ? c->r[i] * k->dot(N, s->E + i * N, c->B + (ptrdiff_t)i * j->r.b.token) : 0;
        s->da[i] += after;
        after += s->delta[i] * f;
        s->dd[i] = s->column[i] + f + A * s->da[i];
        dA += s->da[i] * s->delta[i];
        if (c->leaves) k->axpy(N, c->r[i] * s->delta[i], s->E + i * N, c->dB + (ptrdiff_t)i * j->r.db.token);
    }
    return dA;
}

/* dx and dD, then dh becomes ∂/∂h_in. */
static void mmixi_ssd_values_backward(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s,
                                      const mmixi_ssd_part *c, mmix_real *dD)
{
    const mmixi_kernels *k = j->k;
    size_t N = j->r.N, P = j->r.P, q = c->q;
    if (j->r.dx.p) {
        mmix_real *dx = mmixi_at(&j->r.dx, c->b, c->start, c->h);
        mmixi_lower_transposed(k, q, P, s->W, j->Q, s->dy, (ptrdiff_t)P, dx, j->r.dx.token,
                               j->add_x || c->h % j->r.dx.share);
        if (c->leaves)
            mmixi_gemm_small(k, q, P, N, s->Br, (ptrdiff_t)N, 1, c->dh, (ptrdiff_t)P, dx, j->r.dx.token, 1);
        for (size_t i = 0; j->r.D && i < q; i++)
            mmixi_ssd_skip(j, c->h, s->dy + i * P, dx + (ptrdiff_t)i * j->r.dx.token);
    }
    for (size_t i = 0; j->r.D && i < q; i++)
        if (j->r.D_width > 1) k->mul_add(P, s->dy + i * P, s->x + i * P, dD);
        else *dD += k->dot(P, s->dy + i * P, s->x + i * P);
    if (c->enters) {
        k->scale(N * P, s->p[q - 1], c->dh, c->dh);
        mmixi_gemm_small(k, N, P, q, s->Cp, 1, (ptrdiff_t)N, s->dy, (ptrdiff_t)j->r.P, c->dh, (ptrdiff_t)P,
                         1);
    }
    else memset(c->dh, 0, N * P * sizeof *c->dh);
}

/* Through δ = clamp(softplus(u)), u = dt + bias. Returns dbias. */
static mmix_real mmixi_ssd_steps_backward(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s,
                                          const mmixi_ssd_part *c)
{
    mmix_real dbias = 0;
    for (size_t i = 0; j->r.dt_high > 0 && i < c->q; i++)
        if (!(s->delta[i] > (mmix_real)j->r.dt_low && s->delta[i] < (mmix_real)j->r.dt_high)) s->dd[i] = 0;
    if (j->r.dt_softplus) j->k->softplus_backward(c->q, s->u, s->dd, s->dd, 0);
    for (size_t i = 0; i < c->q; i++) {
        if (j->r.ddt.p) {
            mmix_real *ddt = mmixi_at(&j->r.ddt, c->b, c->start + i, c->h);
            *ddt = (j->add_dt ? *ddt : 0) + s->dd[i];
        }
        dbias += s->dd[i];
    }
    return dbias;
}

/* dC and dB of the scores, once for all heads that shared them. */
static void mmixi_ssd_scores_backward(const mmixi_ssd_job *j, const mmixi_ssd_scratch *s,
                                      const mmixi_ssd_part *c)
{
    mmixi_lower(j->k, c->q, j->r.N, s->dS, j->Q, c->B, j->r.b.token, c->dC, j->r.dc.token, 1);
    mmixi_lower_transposed(j->k, c->q, j->r.N, s->dS, j->Q, c->C, j->r.c.token, c->dB, j->r.db.token, 1);
    memset(s->dS, 0, j->Q * j->Q * sizeof *s->dS);
}

static void mmixi_ssd_task_backward(void *arg, size_t index, size_t lane)
{
    const mmixi_ssd_job *j = (const mmixi_ssd_job *)arg;
    const mmixi_kernels *k = j->k;
    mmixi_ssd_scratch s;
    size_t b = index / j->blocks, block = index % j->blocks, h0 = block * j->heads,
        h1 = mmixi_min(j->r.H, h0 + j->heads), N = j->r.N, P = j->r.P, NP = N * P, chunk;
    const mmixi_chunks chunks = mmixi_ssd_chunks(j, b);
    chunk = mmixi_chunks_count(&chunks);
    mmixi_ssd_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    memset(s.dS, 0, j->Q * j->Q * sizeof *s.dS);
    for (size_t h = h0; h < h1; h++) {
        if (j->r.dfinal)
            k->transpose(P, N, j->r.dfinal + (b * j->r.H + h) * NP, (ptrdiff_t)N, s.h + (h - h0) * NP,
                         (ptrdiff_t)P);
        else memset(s.h + (h - h0) * NP, 0, NP * sizeof *s.h);
    }
    for (size_t end = j->r.L, start; end; end = start) {
        mmixi_ssd_part c, scored;                /* scored: the head whose S and dS are in scratch */
        scored.C = scored.B = NULL;
        c.leaves = end < j->r.L ? !mmixi_chunks_new(&chunks, end) : j->r.dfinal != NULL;
        mmixi_chunks_at(&chunks, end - 1, &start, &end);
        c.enters = start ? !mmixi_chunks_new(&chunks, start) : j->r.initial_state != NULL;
        c.b = b;
        c.start = start;
        c.q = end - start;
        c.r = s.L + (c.q - 1) * j->Q;
        chunk--;
        for (size_t h = h0; h < h1; h++) {
            mmix_real *dhead = j->dhead + (b * j->r.H + h) * (2 + j->r.D_width);
            c.h = h;
            c.C = mmixi_at(&j->r.c, b, start, h);
            c.B = mmixi_at(&j->r.b, b, start, h);
            /* each is read by four products: near each other their rows stay in the nearest cache */
            mmixi_put_rows(j->k, c.q, P, mmixi_at(&j->r.x, b, start, h), j->r.x.token, s.x, (ptrdiff_t)P, 0);
            mmixi_put_rows(j->k, c.q, P, mmixi_at(&j->r.dy, b, start, h), j->r.dy.token, s.dy, (ptrdiff_t)P,
                           0);
            c.dC = mmixi_at(&j->r.dc, b, start, h) + block % j->parts_c * j->part_c;
            c.dB = mmixi_at(&j->r.db, b, start, h) + block % j->parts_b * j->part_b;
            c.dh = s.h + (h - h0) * NP;
            c.in = chunk ? j->r.states + ((b * j->r.H + h) * j->kept + chunk - 1) * NP : s.in;
            if (!chunk && c.enters)
                k->transpose(P, N, j->r.initial_state + (b * j->r.H + h) * NP, (ptrdiff_t)N, s.in,
                             (ptrdiff_t)P);
            if (c.C != scored.C) mmixi_zero_rows(c.q, N, c.dC, j->r.dc.token);
            if (c.B != scored.B) mmixi_zero_rows(c.q, N, c.dB, j->r.db.token);
            if (c.C != scored.C || c.B != scored.B) {
                if (scored.C) mmixi_ssd_scores_backward(j, &s, &scored);
                mmixi_lower_product(k, c.q, N, c.C, j->r.c.token, c.B, j->r.b.token, s.t, s.S, j->Q);
                scored = c;
            }
            mmixi_ssd_steps(j, &s, b, start, c.q, h);
            mmixi_ssd_weights(j, &s, c.q, j->r.A[h]);
            mmixi_ssd_scaled(j, &s, c.q, c.C, c.B);
            mmixi_ssd_inside_backward(j, &s, &c);
            dhead[0] += mmixi_ssd_state_backward(j, &s, &c);
            mmixi_ssd_values_backward(j, &s, &c, dhead + 2);
            dhead[1] += mmixi_ssd_steps_backward(j, &s, &c);
        }
        mmixi_ssd_scores_backward(j, &s, &scored);
    }
    for (size_t h = h0; j->r.dinitial && h < h1; h++) {
        k->transpose(N, P, s.h + (h - h0) * NP, (ptrdiff_t)P, s.ht, (ptrdiff_t)N);
        mmixi_put(j->k, NP, s.ht, j->r.dinitial + (b * j->r.H + h) * NP, j->add_first);
    }
}

/* The sums over sequences: d[0], d[1], d[2] (H, or D's shape) are the gradients of A, bias and D, or NULL. */
static void mmixi_ssd_heads_backward(const mmixi_ssd_job *j, mmix_real *const *d, const int *add)
{
    for (size_t i = 0; i < 3; i++)
        for (size_t h = 0, width = i < 2 ? 1 : j->r.D_width; d[i] && h < j->r.H * width; h++)
            for (size_t b = 0; b < j->r.B; b++)
                d[i][h] = (add[i] || b ? d[i][h] : 0)
                    + j->dhead[(b * j->r.H + h / width) * (2 + j->r.D_width) + i + h % width];
}

MMIXDEF size_t mmix_raw_ssd_states(const mmix_raw_ssd *x)
{
    mmixi_ssd_job j;
    mmixi_ssd_begin(&j, x, NULL, 1);
    return j.r.B * j.r.H * j.kept * j.r.N * j.r.P;
}
MMIXDEF size_t mmix_raw_ssd_scratch(const mmix_raw_ssd *x, int backward)
{
    mmixi_ssd_job j;
    mmixi_ssd_begin(&j, x, NULL, 1);
    return j.lane_size + (backward ? j.r.B * j.r.H * (2 + j.r.D_width) : 0);
}
MMIXDEF void mmix_raw_ssd_forward(const mmix_raw_ssd *x, mmix_real *scratch)
{
    mmixi_ssd_job j;
    mmixi_kernels k;
    mmixi_kernels_fill(&k, MMIX_SIMD_AUTO);
    mmixi_ssd_begin(&j, x, &k, 1);
    j.scratch = scratch;
    if (mmixi_ssd_is_step(x)) mmixi_ssd_step_range(&j, 0, x->B * x->H, 0);
    else for (size_t i = 0; i < x->B * j.blocks; i++) mmixi_ssd_task(&j, i, 0);
}
MMIXDEF void mmix_raw_ssd_backward(const mmix_raw_ssd *x, mmix_real *scratch)
{
    static const int add[3] = { 0, 0, 0 };
    mmixi_ssd_job j;
    mmixi_kernels k;
    mmix_real *d[3];
    mmixi_kernels_fill(&k, MMIX_SIMD_AUTO);
    mmixi_ssd_begin(&j, x, &k, 1);
    j.scratch = scratch;
    j.dhead = scratch + j.lane_size;
    memset(j.dhead, 0, x->B * x->H * (2 + j.r.D_width) * sizeof *j.dhead);
    for (size_t i = 0; i < x->B * j.blocks; i++) mmixi_ssd_task_backward(&j, i, 0);
    d[0] = x->dA; d[1] = x->ddt_bias; d[2] = x->dD;
    mmixi_ssd_heads_backward(&j, d, add);
}

/* in: x, dt, A, B, C, D, bias, initial state, seq_idx; out: y, final state; saved: the states before each
   chunk. */
static mmix_raw_ssd mmixi_ssd_raw(const mmix_call *call)
{
    mmix_raw_ssd r = *(const mmix_raw_ssd *)call->options;
    mmix_tensor *const *in = call->in;
    r.x = mmixi_heads_of(in[0], mmix_data(in[0]), r.H);
    r.dt = mmixi_heads_of(in[1], mmix_data(in[1]), r.H);
    r.b = mmixi_heads_of(in[3], mmix_data(in[3]), r.H);
    r.c = mmixi_heads_of(in[4], mmix_data(in[4]), r.H);
    r.A = mmix_data(in[2]);
    r.D = mmix_data(in[5]);
    r.dt_bias = mmix_data(in[6]);
    r.initial_state = mmix_data(in[7]);
    r.seq_idx = mmix_data_i32(in[8]);
    r.seq_batch = in[8] ? (ptrdiff_t)in[8]->stride[0] : 0;
    if (call->out[0]) r.y = mmix_heads_plain(mmix_data(call->out[0]), r.L, r.H, r.P, r.H);
    r.final_state = mmix_data(call->out[1]);
    r.states = call->saved[0];
    return r;
}
static int mmixi_ssd_forward(mmix_ctx *m, mmix_call *call)
{
    mmixi_ssd_job j;
    mmix_mark mark;
    mmix_raw_ssd r = mmixi_ssd_raw(call);
    mmixi_ssd_begin(&j, &r, m->k, mmixi_max(4, 2 * mmixi_lanes(m)));
    if (call->recorded && j.kept && !mmix_save(m, call, 0, r.B * r.H * j.kept * r.N * r.P)) return -1;
    j.r.states = call->saved[0];
    mark = mmix_mark_here(m);
    j.scratch = mmixi_reals(m, mmixi_lanes(m), j.lane_size);
    if (!j.scratch) return -1;
    if (mmixi_ssd_is_step(&r))                   /* a megabyte of state is not worth waking a thread */
        mmixi_ranges(m, r.B * r.H, mmixi_max(1, 262144 / (r.N * r.P)), mmixi_ssd_step_range, &j);
    else mmixi_parallel(m, r.B * j.blocks, mmixi_ssd_task, &j);
    mmix_rewind(m, mark);
    return 0;
}
/* Where the gradient of B or C is collected: in its own place, or in partial sums (parts, B, L, G, N). */
typedef struct mmixi_ssd_sum {
    const mmixi_kernels *k;
    const mmix_tensor *t;
    size_t parts, width, rows;
    int add;
    mmix_real *to, *partial;
} mmixi_ssd_sum;
static int mmixi_ssd_sum_begin(mmix_ctx *m, mmixi_ssd_sum *sum, mmix_tensor *t, size_t parts)
{
    memset(sum, 0, sizeof *sum);
    sum->k = m->k;
    sum->t = t;
    sum->parts = parts;
    sum->width = mmixi_cols(t);
    sum->rows = mmixi_rows(t);
    sum->to = mmix_grad_target(m, t, &sum->add);
    if (sum->to && !sum->add && parts == 1) return 0;        /* nobody else writes there before it is done */
    sum->partial = (mmix_real *)mmixi_step(m, parts * sum->rows * sum->width * sizeof *sum->partial);
    return sum->partial ? 0 : -1;
}
static void mmixi_ssd_sum_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_ssd_sum *s = (const mmixi_ssd_sum *)arg;
    (void)lane;
    for (size_t r = begin; r < end; r++)
        for (size_t part = 0; part < s->parts; part++)
            mmixi_put(s->k, s->width, s->partial + (part * s->rows + r) * s->width,
                      s->to + mmixi_row_offset(s->t, r), s->add || part);
}
static int mmixi_ssd_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_ssd_job j;
    mmix_tensor *const *in = call->in;
    mmix_raw_ssd r = mmixi_ssd_raw(call);
    mmix_real *d[3];
    mmixi_ssd_sum db, dc;
    int add[3], add_x, add_dt, add_first = 0;
    size_t heads;
    r.dfinal = mmixi_out_grad(call->out[1]);
    r.dx = mmixi_heads_of(in[0], mmixi_grad_once(m, call, 0, &add_x), r.H);
    r.ddt = mmixi_heads_of(in[1], mmixi_grad_once(m, call, 1, &add_dt), r.H);
    if (in[7]) r.dinitial = mmix_grad_target(m, in[7], &add_first);
    d[0] = mmix_grad_target(m, in[2], &add[0]);
    d[1] = mmix_grad_target(m, in[6], &add[1]);
    d[2] = mmix_grad_target(m, in[5], &add[2]);
    r.dy = r.y;
    r.dy.p = mmixi_out_grad_or_zeros(m, call->out[0]);
    if (!r.dy.p) return -1;
    mmixi_ssd_begin(&j, &r, m->k, 8);
    j.add_x = add_x;
    j.add_dt = add_dt;
    j.add_first = add_first;
    heads = r.B * r.H * (2 + j.r.D_width);
    if (mmixi_ssd_sum_begin(m, &db, in[3], j.parts_b)
        || mmixi_ssd_sum_begin(m, &dc, in[4], j.parts_c)) return -1;
    j.dhead = mmixi_reals(m, heads, 1);
    j.scratch = mmixi_reals(m, mmixi_lanes(m), j.lane_size);
    if (!j.dhead || !j.scratch) return -1;
    memset(j.dhead, 0, heads * sizeof *j.dhead);
    if (db.partial) j.part_b = mmix_count(in[3]);
    if (dc.partial) j.part_c = mmix_count(in[4]);
    j.r.db = mmix_heads_plain(db.partial ? db.partial : db.to, r.L, in[3]->shape[2], r.N, r.H);
    j.r.dc = mmix_heads_plain(dc.partial ? dc.partial : dc.to, r.L, in[4]->shape[2], r.N, r.H);
    if (r.reverse) mmixi_heads_reverse(&j.r.db, r.L);
    if (r.reverse) mmixi_heads_reverse(&j.r.dc, r.L);
    mmixi_parallel(m, r.B * j.blocks, mmixi_ssd_task_backward, &j);
    if (db.to && db.partial) mmixi_ranges(m, db.rows, mmixi_row_grain(db.width), mmixi_ssd_sum_range, &db);
    if (dc.to && dc.partial) mmixi_ranges(m, dc.rows, mmixi_row_grain(dc.width), mmixi_ssd_sum_range, &dc);
    mmixi_ssd_heads_backward(&j, d, add);
    return 0;
}

static int mmixi_ssd_check(mmix_ctx *m, const char *who, const mmix_mixer *x)
{
    const mmix_tensor *dt = x->dt;
    size_t B, L, H, Gx = mmix_shape(x->v, 2), Gb = mmix_shape(x->k, 2), Gc = mmix_shape(x->q, 2),
        N = mmix_shape(x->k, 3), P = mmix_shape(x->v, 3);
    if (!mmixi_check(m, who, "dt", dt, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0)) return 0;
    B = dt->shape[0]; L = dt->shape[1]; H = dt->shape[2];
    if (!mmixi_check(m, who, "x", x->v, MMIX_DTYPE_REAL, 4, B, L, MMIXI_ANY, MMIXI_ANY)
        || !mmixi_check(m, who, "B", x->k, MMIX_DTYPE_REAL, 4, B, L, MMIXI_ANY, MMIXI_ANY)
        || !mmixi_check(m, who, "C", x->q, MMIX_DTYPE_REAL, 4, B, L, MMIXI_ANY, N)
        || !mmixi_check(m, who, "A", x->A, MMIX_DTYPE_REAL, 1, H, 0, 0, 0)
        || !mmixi_optional(m, who, "D", x->D, MMIX_DTYPE_REAL, mmix_ndim(x->D) == 2 ? 2 : 1, H, P, 0, 0)
        || !mmixi_optional(m, who, "dt_bias", x->dt_bias, MMIX_DTYPE_REAL, 1, H, 0, 0, 0)
        || !mmixi_optional(m, who, "initial_state", x->initial_state, MMIX_DTYPE_REAL, 4, B, H, P, N)
        || !mmixi_optional(m, who, "seq_idx", x->seq_idx, MMIX_DTYPE_I32, 2, B, L, 0, 0)) return 0;
    if (H % Gx || H % Gb || H % Gc) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "%s: x has %.0f, B %.0f and C %.0f heads; each must divide dt's %.0f", who, (double)Gx,
                  (double)Gb, (double)Gc, (double)H);
        return 0;
    }
    if (x->direction < MMIX_FORWARD || x->direction > MMIX_BOTH) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: direction %d, expected MMIX_FORWARD, _REVERSE or _BOTH", who,
                  x->direction);
        return 0;
    }
    if (x->direction == MMIX_BOTH && (x->initial_state || x->final_state)) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: MMIX_BOTH takes and returns no state", who);
        return 0;
    }
    return 1;
}
/* The op's call for a mixer that was checked; r takes its options. */
static mmix_call mmixi_ssd_call(mmix_ctx *m, const mmix_mixer *x, int reverse, mmix_raw_ssd *r)
{
    mmix_call call = mmixi_call(x->v, x->dt, x->A);
    memset(r, 0, sizeof *r);
    r->B = x->dt->shape[0]; r->L = x->dt->shape[1]; r->H = x->dt->shape[2];
    r->N = x->k->shape[3]; r->P = x->v->shape[3];
    r->D_width = mmix_ndim(x->D) == 2 ? r->P : 1;
    r->dt_softplus = x->dt_softplus;
    r->dt_low = x->dt_low;
    r->dt_high = x->dt_high;
    r->reverse = reverse;
    r->chunk = x->chunk;
    call.in[3] = x->k;
    call.in[4] = x->q;
    call.in[5] = mmixi_even(m, x->D, 1);
    call.in[6] = x->dt_bias;
    call.in[7] = mmixi_even(m, x->initial_state, 1);
    call.in[8] = x->seq_idx;
    call.options = r;
    return call;
}
/* The final state goes into `into` if that is given. */
static mmix_tensor *mmixi_ssd(mmix_ctx *m, const mmix_mixer *x, int reverse, mmix_tensor *into)
{
    mmix_raw_ssd r;
    mmix_call call = mmixi_ssd_call(m, x, reverse, &r);
    call.out[0] = mmix_new4(m, r.B, r.L, r.H, r.P);
    call.out[1] = into;
    if (x->final_state) call.out[1] = *x->final_state = mmix_new4(m, r.B, r.H, r.P, r.N);
    return mmixi_run(m, MMIX_OP_SSD, &call, &r, sizeof r);
}
/* A job for the loops that are plain, with scratch for one thread; -1 on error. */
static int mmixi_ssd_plain_begin(mmix_ctx *m, const mmix_mixer *x, int reverse, mmix_tensor *y,
                                 mmixi_ssd_job *j)
{
    mmix_raw_ssd r;
    mmix_call call = mmixi_ssd_call(m, x, reverse, &r);
    call.out[0] = y;
    if (m->error_kind) return -1;
    r = mmixi_ssd_raw(&call);
    mmixi_ssd_begin(j, &r, m->k, 1);
    j->scratch = mmixi_reals(m, j->lane_size, 1);
    return j->scratch ? 0 : -1;
}
static int mmixi_ssd_matrix_of(mmix_ctx *m, const mmix_mixer *x, int reverse, double weight, mmix_real *M)
{
    mmixi_ssd_job j;
    double *decay = mmixi_doubles(m, x->dt->shape[1], 1);
    if (!decay || mmixi_ssd_plain_begin(m, x, reverse, NULL, &j)) return -1;
    mmixi_ssd_matrix(&j, weight, decay, M);
    return 0;
}
MMIXDEF mmix_tensor *mmix_ssd_reference(mmix_ctx *m, const mmix_mixer *x)
{
    mmixi_ssd_job j;
    mmix_tensor *y, *h;
    if (!mmixi_ssd_check(m, "mmix_ssd_reference", x)) return NULL;
    if (x->direction == MMIX_BOTH) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_ssd_reference: one direction at a time, not MMIX_BOTH");
        return NULL;
    }
    y = mmix_new4(m, x->dt->shape[0], x->dt->shape[1], x->dt->shape[2], x->v->shape[3]);
    h = mmix_new4(m, x->dt->shape[0], x->dt->shape[2], x->v->shape[3], x->k->shape[3]);
    if (!y || !h || mmixi_ssd_plain_begin(m, x, x->direction == MMIX_REVERSE, y, &j)) return NULL;
    if (j.r.initial_state) mmix_write(h, j.r.initial_state);
    else mmix_fill(h, 0);
    mmixi_ssd_plain(&j, mmix_data(h));
    if (x->final_state) *x->final_state = h;
    return y;
}

/* ==== >>linear attention =============================================================
   M_ij = φ(q_i)·ψ(k_j),   y = φ(Q) (ψ(K)ᵀ V)

   Multiplied in that order the L x L matrix never exists: the state ψ(K)ᵀ V is N x P. With `normalise` row i
   is divided by its sum + eps; a column of ones beside V makes that sum another column of the product, so
   that forward and backward know only one matrix product: y = num / den, dnum = dy / den, dden = -(dy · y) /
   den. Katharopoulos et al. 2020 (elu + 1); Shen et al. 2021 (efficient attention); LinearViT: arXiv
   2511.18380.

   The causal form goes through chunks, as an SSD that forgets nothing: inside a chunk M is a small matrix S,
   lower triangular, and the state h brings what was before it:

       y_i = Σ_{j≤i} S_ij v_j + φ_i h,   S_ij = φ_i·ψ_j,   h grows by Σ_j ψ_jᵀ v_j after the chunk

   Backward, with T_ij = dy_i · v_j and dh, which grows from the last chunk to the first by Σ_i φ_iᵀ dy_i:
       dφ_i = Σ_{j≤i} T_ij ψ_j + dy_i hᵀ,   dψ_j = Σ_{i≥j} T_ij φ_i + v_j dhᵀ,
       dv_j = Σ_{i≥j} S_ij dy_i + ψ_j dh
   All of it on the way back; h before each chunk is kept from the forward.
   ==================================================================================== */

#ifdef MMIX_REGRESSION
enum { MMIXI_LINEAR_BLOCK = 2 };
#else
enum { MMIXI_LINEAR_BLOCK = 64 };
#endif

/* f (rows, N) = φ of the rows of x. For MMIX_FEATURE_EFFICIENT's keys see mmixi_token_softmax. */
static void mmixi_feature_rows(const mmixi_kernels *k, int feature, size_t rows, size_t N, const mmix_real *x,
                               ptrdiff_t ldx, mmix_real *f)
{
    for (size_t r = 0; r < rows; r++, x += ldx, f += N) {
        /* a head's rows lie so far apart that the machine does not guess the next ones */
        for (size_t i = 0; i < N; i += 64 / sizeof *x) MMIXI_FETCH(x + 8 * ldx + i);
        if (feature == MMIX_FEATURE_SOFTMAX_BOTH || feature == MMIX_FEATURE_EFFICIENT)
            k->softmax(N, x, f);
        else if (feature == MMIX_FEATURE_ELU1)
            for (size_t i = 0; i < N; i++) f[i] = x[i] > 0 ? x[i] + 1 : mmixi_exp_real(x[i]);
        else if (feature == MMIX_FEATURE_NONE) memcpy(f, x, N * sizeof *f);
        else for (size_t i = 0; i < N; i++) f[i] = x[i] > 0 ? x[i] : 0;
    }
}
/* dx = or += the gradient of x, from f = φ(x) and df */
static void mmixi_feature_rows_backward(const mmixi_kernels *k, int feature, size_t rows, size_t N,
                                        const mmix_real *f, const mmix_real *df, mmix_real *dx, ptrdiff_t ldx,
                                        int add)
{
    for (size_t r = 0; r < rows; r++, dx += ldx, f += N, df += N) {
        if (feature == MMIX_FEATURE_SOFTMAX_BOTH || feature == MMIX_FEATURE_EFFICIENT)
            k->softmax_backward(N, f, df, k->dot(N, f, df), dx, add);
        else for (size_t i = 0; i < N; i++) {
            mmix_real slope = f[i] > 0 ? 1 : 0, g;                         /* relu */
            if (feature == MMIX_FEATURE_ELU1) slope = f[i] > 1 ? 1 : f[i];
            if (feature == MMIX_FEATURE_NONE) slope = 1;
            g = slope * df[i];
            dx[i] = add ? dx[i] + g : g;
        }
    }
}

static int mmixi_normalises(const mmix_mixer *x)
{
    return x->normalise ? x->normalise > 0 : x->feature == MMIX_FEATURE_ELU1
        || x->feature == MMIX_FEATURE_RELU;
}
/* The op's options: sizes and options of a raw call, without the arrays. */
static mmix_raw_linear mmixi_linear_options(const mmix_mixer *x)
{
    mmix_raw_linear r;
    memset(&r, 0, sizeof r);
    r.B = x->q->shape[0]; r.L = x->q->shape[1]; r.H = x->q->shape[2]; r.N = x->q->shape[3];
    r.S = x->k->shape[1]; r.P = x->v->shape[3];
    r.feature = x->feature;
    r.normalise = mmixi_normalises(x);
    r.eps = x->eps > 0 ? x->eps : 1e-6;
    r.causal = x->mask == MMIX_MASK_CAUSAL;
    r.chunk = x->chunk;
    return r;
}
/* The definition: M (B, H, L, S). */
static int mmixi_linear_matrix(mmix_ctx *m, const mmix_mixer *x, mmix_real *M)
{
    const mmix_raw_linear r = mmixi_linear_options(x);
    mmix_tensor *keys = r.feature == MMIX_FEATURE_EFFICIENT ? mmix_softmax(m, x->k, 1) : x->k;
    mmix_real *f = mmixi_reals(m, r.N, 1), *g = mmixi_reals(m, r.S, r.N);
    mmix_heads q, k;
    if (!keys || !f || !g) return -1;
    q = mmixi_heads_of(x->q, mmix_data(x->q), r.H);
    k = mmixi_heads_of(keys, mmix_data(keys), r.H);
    for (size_t b = 0; b < r.B; b++)
        for (size_t h = 0; h < r.H; h++) {
            const int32_t *seq = x->seq_idx ? mmix_data_i32(x->seq_idx) + b * x->seq_idx->stride[0] : NULL;
            mmixi_feature_rows(m->k, keys == x->k ? r.feature : (int)MMIX_FEATURE_NONE, r.S, r.N,
                               mmixi_at(&k, b, 0, h), k.token, g);
            for (size_t i = 0, first = 0; i < r.L; i++, M += r.S) {
                if (seq && i && seq[i] != seq[i - 1]) first = i;
                mmixi_feature_rows(m->k, r.feature, 1, r.N, mmixi_at(&q, b, i, h), 0, f);
                for (size_t t = 0; t < r.S; t++)
                    M[t] = (r.causal && t > i) || t < first ? 0 : m->k->dot(r.N, f, g + t * r.N);
                if (r.normalise) m->k->scale(r.S, (mmix_real)(1 / ((double)m->k->sum(r.S, M) + r.eps)), M, M);
            }
        }
    return 0;
}

typedef struct mmixi_linear_job {
    mmix_raw_linear r;
    const mmixi_kernels *k;
    /* key/value heads; columns of the state, P or P + 1; rows of a block, of a chunk's matrices (0: full) */
    size_t G, V, R, C;
    /* states kept for each sequence and key/value head: every chunk's but the first, or the full form's */
    size_t kept;
    mmix_real *scratch;
    size_t lane_size;
} mmixi_linear_job;
typedef struct mmixi_linear_scratch {
    mmix_real *state, *dstate, *turned;          /* (N, V), its gradient, a transpose (V, N) */
    /* a block: φ and its gradient (rows, N), of keys too; V's rows with the one, dV; y */
    mmix_real *f, *df, *g, *dg, *v, *dv, *y;
    mmix_real *S, *T, *t;                        /* (rows, rows); a transpose (max(N, V), rows) */
    mmix_real *top, *sum, *along;                /* of each feature of K under a softmax over tokens */
} mmixi_linear_scratch;
static size_t mmixi_linear_scratch_fill(const mmixi_linear_job *j, mmix_real *base, mmixi_linear_scratch *s)
{
    size_t N = j->r.N, V = j->V, R = j->R, C = j->C, at = 0;
    MMIXI_PART(state, N * V); MMIXI_PART(dstate, N * V); MMIXI_PART(turned, N * V);
    MMIXI_PART(f, R * N); MMIXI_PART(df, R * N); MMIXI_PART(g, R * N); MMIXI_PART(dg, R * N);
    MMIXI_PART(v, R * V); MMIXI_PART(dv, R * V); MMIXI_PART(y, R * V);
    MMIXI_PART(S, C * C); MMIXI_PART(T, C * C); MMIXI_PART(t, mmixi_max(N, V) * C);
    MMIXI_PART(top, N); MMIXI_PART(sum, N); MMIXI_PART(along, N);
    return at;
}

/* Softmax over the tokens, for each feature: first the maximum and the sum of each column, … */
static void mmixi_token_softmax(const mmixi_linear_job *j, const mmixi_linear_scratch *s, const mmix_real *x)
{
    for (size_t n = 0; n < j->r.N; n++) {
        double sum = 0;
        s->top[n] = x[n];
        for (size_t t = 1; t < j->r.S; t++)
            s->top[n] = x[(ptrdiff_t)t * j->r.k.token + (ptrdiff_t)n] > s->top[n]
            ? x[(ptrdiff_t)t * j->r.k.token + (ptrdiff_t)n] : s->top[n];
        for (size_t t = 0; t < j->r.S; t++)
            sum += (double)mmixi_exp_real(x[(ptrdiff_t)t * j->r.k.token + (ptrdiff_t)n] - s->top[n]);
        s->sum[n] = (mmix_real)(1 / sum);
    }
}
/* … then ψ of a block of keys, whatever the feature map. */
static void mmixi_linear_keys(const mmixi_linear_job *j, const mmixi_linear_scratch *s, size_t rows,
                              const mmix_real *x)
{
    if (j->r.feature != MMIX_FEATURE_EFFICIENT) {
        mmixi_feature_rows(j->k, j->r.feature, rows, j->r.N, x, j->r.k.token, s->g);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < j->r.N; n++)
            s->g[r * j->r.N + n] = mmixi_exp_real(x[(ptrdiff_t)r * j->r.k.token + (ptrdiff_t)n]
                                                  - s->top[n]) * s->sum[n];
}
static void mmixi_linear_queries(const mmixi_linear_job *j, const mmixi_linear_scratch *s, size_t b, size_t t,
                                 size_t h, size_t rows)
{
    mmixi_feature_rows(j->k, j->r.feature, rows, j->r.N, mmixi_at(&j->r.q, b, t, h), j->r.q.token, s->f);
}
/* The rows of V, or if row sums are wanted a copy with a one behind each; *ldv from row to row. */
static const mmix_real *mmixi_linear_values(const mmixi_linear_job *j, const mmixi_linear_scratch *s,
                                            size_t rows, const mmix_real *v, ptrdiff_t *ldv)
{
    *ldv = j->r.normalise ? (ptrdiff_t)j->V : j->r.v.token;
    if (!j->r.normalise) return v;
    mmixi_put_rows(j->k, rows, j->r.P, v, j->r.v.token, s->v, *ldv, 0);
    for (size_t r = 0; r < rows; r++) s->v[r * j->V + j->r.P] = 1;
    return s->v;
}
/* Where num and den of a block are to go; and y = num / den. */
static mmix_real *mmixi_linear_out(const mmixi_linear_job *j, const mmixi_linear_scratch *s, mmix_real *y,
                                   ptrdiff_t *ldo)
{
    *ldo = j->r.normalise ? (ptrdiff_t)j->V : j->r.y.token;
    return j->r.normalise ? s->y : y;
}
static void mmixi_linear_divide(const mmixi_linear_job *j, const mmixi_linear_scratch *s, size_t b, size_t t,
                                size_t h, size_t rows)
{
    for (size_t r = 0; j->r.normalise && r < rows; r++) {
        const mmix_real *row = s->y + r * j->V, over = 1 / (row[j->r.P] + (mmix_real)j->r.eps);
        j->k->scale(j->r.P, over, row, mmixi_at(&j->r.y, b, t + r, h));
        if (j->r.over) j->r.over[(b * j->r.H + h) * j->r.L + t + r] = over;
    }
}
/* dnum and dden of a block; without row sums dy itself. */
static const mmix_real *mmixi_linear_upstream(const mmixi_linear_job *j, const mmixi_linear_scratch *s,
                                              size_t b, size_t t, size_t h, size_t rows, ptrdiff_t *ldd)
{
    *ldd = j->r.normalise ? (ptrdiff_t)j->V : j->r.dy.token;
    if (!j->r.normalise) return mmixi_at(&j->r.dy, b, t, h);
    for (size_t r = 0; r < rows; r++) {
        const mmix_real over = j->r.over[(b * j->r.H + h) * j->r.L + t + r],
            *dy = mmixi_at(&j->r.dy, b, t + r, h);
        s->y[r * j->V + j->r.P] = -j->k->dot(j->r.P, dy, mmixi_at(&j->r.y, b, t + r, h)) * over;
        j->k->scale(j->r.P, over, dy, s->y + r * j->V);
    }
    return s->y;
}

/* ---- the full form: one key/value group of one sequence; its state serves all its query heads ---- */

static void mmixi_linear_state(const mmixi_linear_job *j, const mmixi_linear_scratch *s, size_t b, size_t h)
{
    const mmix_real *v;
    ptrdiff_t ldv;
    if (j->r.feature == MMIX_FEATURE_EFFICIENT) mmixi_token_softmax(j, s, mmixi_at(&j->r.k, b, 0, h));
    for (size_t t = 0; t < j->r.S; t += j->R) {
        size_t rows = mmixi_min(j->R, j->r.S - t);
        mmixi_linear_keys(j, s, rows, mmixi_at(&j->r.k, b, t, h));
        v = mmixi_linear_values(j, s, rows, mmixi_at(&j->r.v, b, t, h), &ldv);
        mmixi_gemm_small(j->k, j->r.N, j->V, rows, s->g, 1, (ptrdiff_t)j->r.N, v, ldv, s->state,
                         (ptrdiff_t)j->V, t > 0);
    }
}
static void mmixi_linear_task(void *arg, size_t index, size_t lane)
{
    const mmixi_linear_job *j = (const mmixi_linear_job *)arg;
    size_t b = index / j->G, share = j->r.H / j->G, h0 = index % j->G * share;
    mmixi_linear_scratch s;
    mmixi_linear_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    if (j->r.states) s.state = j->r.states + index * j->r.N * j->V;
    mmixi_linear_state(j, &s, b, h0);
    for (size_t h = h0; h < h0 + share; h++)
        for (size_t t = 0; t < j->r.L; t += j->R) {
            size_t rows = mmixi_min(j->R, j->r.L - t);
            ptrdiff_t ldo;
            mmix_real *out = mmixi_linear_out(j, &s, mmixi_at(&j->r.y, b, t, h), &ldo);
            mmixi_linear_queries(j, &s, b, t, h, rows);
            mmixi_gemm_small(j->k, rows, j->V, j->r.N, s.f, (ptrdiff_t)j->r.N, 1, s.state, (ptrdiff_t)j->V,
                             out, ldo, 0);
            mmixi_linear_divide(j, &s, b, t, h, rows);
        }
}
static void mmixi_linear_task_backward(void *arg, size_t index, size_t lane)
{
    const mmixi_linear_job *j = (const mmixi_linear_job *)arg;
    const mmixi_kernels *k = j->k;
    size_t b = index / j->G, share = j->r.H / j->G, h0 = index % j->G * share, N = j->r.N, P = j->r.P,
        V = j->V;
    const mmix_real *v, *d;
    ptrdiff_t ldv, ldd;
    mmixi_linear_scratch s;
    mmixi_linear_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    s.state = j->r.states + index * N * V;
    if (j->r.feature == MMIX_FEATURE_EFFICIENT) mmixi_token_softmax(j, &s, mmixi_at(&j->r.k, b, 0, h0));
    memset(s.dstate, 0, N * V * sizeof *s.dstate);
    k->transpose(N, V, s.state, (ptrdiff_t)V, s.turned, (ptrdiff_t)N);
    for (size_t h = h0; h < h0 + share; h++)
        for (size_t t = 0; t < j->r.L; t += j->R) {
            size_t rows = mmixi_min(j->R, j->r.L - t);
            mmixi_linear_queries(j, &s, b, t, h, rows);
            d = mmixi_linear_upstream(j, &s, b, t, h, rows, &ldd);
            mmixi_gemm_small(k, N, V, rows, s.f, 1, (ptrdiff_t)N, d, ldd, s.dstate, (ptrdiff_t)V, 1);
            if (!j->r.dq.p) continue;
            mmixi_gemm_small(k, rows, N, V, d, ldd, 1, s.turned, (ptrdiff_t)N, s.df, (ptrdiff_t)N, 0);
            mmixi_feature_rows_backward(k, j->r.feature, rows, N, s.f, s.df, mmixi_at(&j->r.dq, b, t, h),
                                        j->r.dq.token, j->r.add_q);
        }
    k->transpose(N, V, s.dstate, (ptrdiff_t)V, s.turned, (ptrdiff_t)N);
    /* a column of ψ = softmax over tokens needs Σ_s ψ dψ, which is Σ_p state dstate */
    for (size_t n = 0; n < N; n++) s.along[n] = k->dot(V, s.state + n * V, s.dstate + n * V);
    for (size_t t = 0; t < j->r.S; t += j->R) {
        size_t rows = mmixi_min(j->R, j->r.S - t);
        mmixi_linear_keys(j, &s, rows, mmixi_at(&j->r.k, b, t, h0));
        if (j->r.dv.p)
            mmixi_gemm_small(k, rows, P, N, s.g, (ptrdiff_t)N, 1, s.dstate, (ptrdiff_t)V,
                             mmixi_at(&j->r.dv, b, t, h0), j->r.dv.token, j->r.add_v);
        if (!j->r.dk.p) continue;
        v = mmixi_linear_values(j, &s, rows, mmixi_at(&j->r.v, b, t, h0), &ldv);
        mmixi_gemm_small(k, rows, N, V, v, ldv, 1, s.turned, (ptrdiff_t)N, s.dg, (ptrdiff_t)N, 0);
        if (j->r.feature != MMIX_FEATURE_EFFICIENT)
            mmixi_feature_rows_backward(k, j->r.feature, rows, N, s.g, s.dg, mmixi_at(&j->r.dk, b, t, h0),
                                        j->r.dk.token, j->r.add_k);
        else for (size_t r = 0; r < rows; r++) {
            mmix_real *dk = mmixi_at(&j->r.dk, b, t + r, h0);
            for (size_t n = 0; n < N; n++)
                dk[n] = (j->r.add_k ? dk[n] : 0) + s.g[r * N + n] * (s.dg[r * N + n] - s.along[n]);
        }
    }
}

/* ---- the causal form, chunk by chunk; states in the interface are (B, G, V, N) ---- */

static mmixi_chunks mmixi_linear_chunks(const mmixi_linear_job *j, size_t b)
{
    return mmixi_chunks_of(j->r.seq_idx ? j->r.seq_idx + (ptrdiff_t)b * j->r.seq_batch : NULL, 1, j->r.L,
                           j->R, j->R);
}
/* The state before the first chunk. */
static void mmixi_linear_initial(const mmixi_linear_job *j, const mmix_real *from, size_t index,
                                 mmix_real *state)
{
    if (from)
        j->k->transpose(j->V, j->r.N, from + index * j->V * j->r.N, (ptrdiff_t)j->r.N, state,
                        (ptrdiff_t)j->V);
    else memset(state, 0, j->V * j->r.N * sizeof *state);
}
/* c_ij = a_i · b_j for j ≤ i, 0 beyond, as far as products read it */
static void mmixi_linear_scores(const mmixi_linear_job *j, const mmixi_linear_scratch *s, size_t rows,
                                size_t width, const mmix_real *a, ptrdiff_t lda, const mmix_real *b,
                                ptrdiff_t ldb, mmix_real *c)
{
    mmixi_lower_product(j->k, rows, width, a, lda, b, ldb, s->t, c, j->C);
    for (size_t i = 0; i < rows; i++)
        for (size_t z = i + 1; z < mmixi_min(rows, mmixi_round_up(i + 1, j->k->mr)); z++) c[i * j->C + z] = 0;
}
static void mmixi_causal_task(void *arg, size_t index, size_t lane)
{
    const mmixi_linear_job *j = (const mmixi_linear_job *)arg;
    const mmixi_kernels *k = j->k;
    size_t b = index / j->G, share = j->r.H / j->G, h0 = index % j->G * share, N = j->r.N, V = j->V;
    const mmixi_chunks chunks = mmixi_linear_chunks(j, b);
    mmixi_linear_scratch s;
    mmixi_linear_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    mmixi_linear_initial(j, j->r.initial_state, index, s.state);
    for (size_t start = 0, end, chunk = 0; start < j->r.L; start = end, chunk++) {
        const int fresh = start ? mmixi_chunks_new(&chunks, start) : !j->r.initial_state;
        const mmix_real *v;
        size_t rows;
        ptrdiff_t ldv, ldo;
        mmixi_chunks_at(&chunks, start, &start, &end);
        rows = end - start;
        if (j->r.states && chunk)
            memcpy(j->r.states + (index * j->kept + chunk - 1) * N * V, s.state, N * V * sizeof *s.state);
        mmixi_linear_keys(j, &s, rows, mmixi_at(&j->r.k, b, start, h0));
        v = mmixi_linear_values(j, &s, rows, mmixi_at(&j->r.v, b, start, h0), &ldv);
        for (size_t h = h0; h < h0 + share; h++) {
            mmix_real *out = mmixi_linear_out(j, &s, mmixi_at(&j->r.y, b, start, h), &ldo);
            mmixi_linear_queries(j, &s, b, start, h, rows);
            mmixi_linear_scores(j, &s, rows, N, s.f, (ptrdiff_t)N, s.g, (ptrdiff_t)N, s.S);
            mmixi_lower(k, rows, V, s.S, j->C, v, ldv, out, ldo, 0);
            if (!fresh)
                mmixi_gemm_small(k, rows, V, N, s.f, (ptrdiff_t)N, 1, s.state, (ptrdiff_t)V, out, ldo, 1);
            mmixi_linear_divide(j, &s, b, start, h, rows);
        }
        mmixi_gemm_small(k, N, V, rows, s.g, 1, (ptrdiff_t)N, v, ldv, s.state, (ptrdiff_t)V, !fresh);
    }
    if (j->r.final_state)
        k->transpose(N, V, s.state, (ptrdiff_t)V, j->r.final_state + index * V * N, (ptrdiff_t)N);
}
static void mmixi_causal_task_backward(void *arg, size_t index, size_t lane)
{
    const mmixi_linear_job *j = (const mmixi_linear_job *)arg;
    const mmixi_kernels *k = j->k;
    size_t b = index / j->G, share = j->r.H / j->G, h0 = index % j->G * share, N = j->r.N, P = j->r.P,
        V = j->V;
    const mmixi_chunks chunks = mmixi_linear_chunks(j, b);
    const mmix_real *v, *d;
    ptrdiff_t ldv, ldd;
    mmixi_linear_scratch s;
    mmixi_linear_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    mmixi_linear_initial(j, j->r.initial_state, index, s.state);
    mmixi_linear_initial(j, j->r.dfinal, index, s.dstate);
    for (size_t end = j->r.L, start, chunk = mmixi_chunks_count(&chunks); end; end = start) {
        const int leaves = end < j->r.L ? !mmixi_chunks_new(&chunks, end) : j->r.dfinal != NULL;
        const mmix_real *in = --chunk ? j->r.states + (index * j->kept + chunk - 1) * N * V : s.state;
        size_t rows;
        int enters;
        mmixi_chunks_at(&chunks, end - 1, &start, &end);
        rows = end - start;
        enters = start ? !mmixi_chunks_new(&chunks, start) : j->r.initial_state != NULL;
        if (!leaves) memset(s.dstate, 0, N * V * sizeof *s.dstate);
        k->transpose(N, V, s.dstate, (ptrdiff_t)V, s.turned, (ptrdiff_t)N);
        mmixi_linear_keys(j, &s, rows, mmixi_at(&j->r.k, b, start, h0));
        v = mmixi_linear_values(j, &s, rows, mmixi_at(&j->r.v, b, start, h0), &ldv);
        mmixi_gemm_small(k, rows, N, V, v, ldv, 1, s.turned, (ptrdiff_t)N, s.dg, (ptrdiff_t)N, 0);
        mmixi_gemm_small(k, rows, P, N, s.g, (ptrdiff_t)N, 1, s.dstate, (ptrdiff_t)V, s.dv, (ptrdiff_t)P, 0);
        if (enters) k->transpose(N, V, in, (ptrdiff_t)V, s.turned, (ptrdiff_t)N);
        for (size_t h = h0; h < h0 + share; h++) {
            d = mmixi_linear_upstream(j, &s, b, start, h, rows, &ldd);
            mmixi_linear_queries(j, &s, b, start, h, rows);
            mmixi_linear_scores(j, &s, rows, N, s.f, (ptrdiff_t)N, s.g, (ptrdiff_t)N, s.S);
            mmixi_lower_transposed(k, rows, P, s.S, j->C, d, ldd, s.dv, (ptrdiff_t)P, 1);
            mmixi_linear_scores(j, &s, rows, V, d, ldd, v, ldv, s.T);
            mmixi_lower_transposed(k, rows, N, s.T, j->C, s.f, (ptrdiff_t)N, s.dg, (ptrdiff_t)N, 1);
            if (j->r.dq.p) {
                mmixi_lower(k, rows, N, s.T, j->C, s.g, (ptrdiff_t)N, s.df, (ptrdiff_t)N, 0);
                if (enters)
                    mmixi_gemm_small(k, rows, N, V, d, ldd, 1, s.turned, (ptrdiff_t)N, s.df, (ptrdiff_t)N, 1);
                mmixi_feature_rows_backward(k, j->r.feature, rows, N, s.f, s.df,
                                            mmixi_at(&j->r.dq, b, start, h), j->r.dq.token, j->r.add_q);
            }
            mmixi_gemm_small(k, N, V, rows, s.f, 1, (ptrdiff_t)N, d, ldd, s.dstate, (ptrdiff_t)V, 1);
        }
        if (j->r.dv.p)
            mmixi_put_rows(k, rows, P, s.dv, (ptrdiff_t)P, mmixi_at(&j->r.dv, b, start, h0), j->r.dv.token,
                           j->r.add_v);
        if (j->r.dk.p)
            mmixi_feature_rows_backward(k, j->r.feature, rows, N, s.g, s.dg, mmixi_at(&j->r.dk, b, start, h0),
                                        j->r.dk.token, j->r.add_k);
    }
    if (!j->r.dinitial) return;
    k->transpose(N, V, s.dstate, (ptrdiff_t)V, s.turned, (ptrdiff_t)N);
    mmixi_put(k, N * V, s.turned, j->r.dinitial + index * V * N, j->r.add_initial);
}

/* ---- a pass over everything ---- */

/* Makes a job of r; returns the reals of scratch that a thread needs. */
static size_t mmixi_linear_begin(mmixi_linear_job *j, const mmix_raw_linear *r, const mmixi_kernels *k)
{
    mmixi_linear_scratch s;
    memset(j, 0, sizeof *j);
    j->r = *r;
    j->k = k;
    j->G = r->H / r->k.share;
    j->V = r->P + (r->normalise ? 1 : 0);
    j->R = r->causal && r->chunk ? mmixi_min(r->chunk, r->L) : (size_t)MMIXI_LINEAR_BLOCK;
    j->C = r->causal ? j->R : 0;
    j->kept = !r->causal;
    for (size_t b = 0; r->causal && b < r->B; b++) {
        const mmixi_chunks chunks = mmixi_linear_chunks(j, b);
        j->kept = mmixi_max(j->kept, mmixi_chunks_count(&chunks) - 1);
    }
    return j->lane_size = mmixi_linear_scratch_fill(j, NULL, &s);
}
static mmixi_lane_task *mmixi_linear_task_of(const mmixi_linear_job *j, int back)
{
    if (j->r.causal) return back ? mmixi_causal_task_backward : mmixi_causal_task;
    return back ? mmixi_linear_task_backward : mmixi_linear_task;
}
static void mmixi_linear_raw(const mmix_raw_linear *x, int back, mmix_real *scratch)
{
    mmixi_linear_job j;
    mmixi_kernels k;
    mmixi_kernels_fill(&k, MMIX_SIMD_AUTO);
    mmixi_linear_begin(&j, x, &k);
    j.scratch = scratch;
    for (size_t i = 0; i < x->B * j.G; i++) mmixi_linear_task_of(&j, back)(&j, i, 0);
}
MMIXDEF size_t mmix_raw_linear_states(const mmix_raw_linear *x)
{
    mmixi_linear_job j;
    mmixi_linear_begin(&j, x, NULL);
    return x->B * j.G * j.kept * x->N * j.V;
}
MMIXDEF size_t mmix_raw_linear_scratch(const mmix_raw_linear *x)
{
    mmixi_linear_job j;
    return mmixi_linear_begin(&j, x, NULL);
}
MMIXDEF void mmix_raw_linear_forward(const mmix_raw_linear *x, mmix_real *scratch)
{
    mmixi_linear_raw(x, 0, scratch);
}
MMIXDEF void mmix_raw_linear_backward(const mmix_raw_linear *x, mmix_real *scratch)
{
    mmixi_linear_raw(x, 1, scratch);
}

/* in: q, k, v, seq_idx, initial state; out: y, final state; saved: 1 / den of each row; the states kept */
static int mmixi_linear_run(mmix_ctx *m, mmix_call *call, int back)
{
    mmix_raw_linear r = *(const mmix_raw_linear *)call->options;
    mmixi_linear_job j;
    mmix_mark mark;
    r.q = mmixi_heads_of(call->in[0], mmix_data(call->in[0]), r.H);
    r.k = mmixi_heads_of(call->in[1], mmix_data(call->in[1]), r.H);
    r.v = mmixi_heads_of(call->in[2], mmix_data(call->in[2]), r.H);
    r.y = mmix_heads_plain(mmix_data(call->out[0]), r.L, r.H, r.P, r.H);
    r.seq_idx = mmix_data_i32(call->in[3]);
    r.seq_batch = call->in[3] ? (ptrdiff_t)call->in[3]->stride[0] : 0;
    r.initial_state = mmix_data(call->in[4]);
    r.final_state = mmix_data(call->out[1]);
    if (back) {
        r.dy = r.y;
        r.dy.p = mmixi_out_grad_or_zeros(m, call->out[0]);
        if (!r.dy.p) return -1;
        r.dfinal = mmixi_out_grad(call->out[1]);
        r.dq = mmixi_heads_of(call->in[0], mmixi_grad_once(m, call, 0, &r.add_q), r.H);
        r.dk = mmixi_heads_of(call->in[1], mmixi_grad_once(m, call, 1, &r.add_k), r.H);
        r.dv = mmixi_heads_of(call->in[2], mmixi_grad_once(m, call, 2, &r.add_v), r.H);
        if (call->in[4]) r.dinitial = mmix_grad_target(m, call->in[4], &r.add_initial);
    }
    mmixi_linear_begin(&j, &r, m->k);
    if (call->recorded && !back) {
        if (r.normalise && !mmix_save(m, call, 0, r.B * r.H * r.L)) return -1;
        if (j.kept && !mmix_save(m, call, 1, r.B * j.G * j.kept * r.N * j.V)) return -1;
    }
    j.r.over = call->saved[0];
    j.r.states = call->saved[1];
    mark = mmix_mark_here(m);
    j.scratch = mmixi_reals(m, mmixi_lanes(m), j.lane_size);
    if (!j.scratch) return -1;
    mmixi_parallel(m, r.B * j.G, mmixi_linear_task_of(&j, back), &j);
    if (!back) mmix_rewind(m, mark);
    return 0;
}
static int mmixi_linear_attention_forward(mmix_ctx *m, mmix_call *call)
{
    return mmixi_linear_run(m, call, 0);
}
static int mmixi_linear_attention_backward(mmix_ctx *m, mmix_call *call)
{
    return mmixi_linear_run(m, call, 1);
}

/* ==== >>softmax attention ============================================================
   y_i = Σ_j p_ij v_j,   p_i = softmax over the allowed j of s_ij = scale · q_i·k_j

   The plain loop is the matrix, mmixi_softmax_matrix. The fast form takes keys in tiles. For each block of
   queries and each tile the scores are a small product; a running maximum t and sum l of each row let later
   tiles be added (Milakov & Gimelshein 2018; Dao et al. 2022):

       t' = max(t, max_j s_ij),   l' = l e^(t - t') + Σ_j e^(s_ij - t'),
       y' = y e^(t - t') + Σ_j e^(s_ij - t') v_j,   and at the end y = y'/l'

   With up to MMIXI_KEY_TILE keys there is one tile and nothing is rescaled. Kept for the backward: t and 1/l
   of each row; with them p is formed again tile by tile. Of few keys, up to 2 (N + P), e^(s - t) is kept,
   too: that is no more than q, k, v and y are. With δ_i = dy_i · y_i:
       dv_j = Σ_i p_ij dy_i,   ds_ij = p_ij (dy_i · v_j - δ_i),   dq_i = scale Σ_j ds_ij k_j,   dk_j = scale
       Σ_i ds_ij q_i

   Every mask but the window lets a query see one run of keys, low … high - 1; tiles outside are not visited.
   A window of a grid is a sequence of its own: its rows are brought together in scratch, and what is said
   above is done to them.
   ==================================================================================== */

#ifdef MMIX_REGRESSION
enum { MMIXI_QUERY_BLOCK = 2, MMIXI_KEY_TILE = 3 };
#else
enum { MMIXI_QUERY_BLOCK = 24, MMIXI_KEY_TILE = 512 };
#endif

typedef struct mmixi_softmax_job {
    mmix_raw_softmax r;
    const mmixi_kernels *k;
    /* key/value heads; T: keys of a tile, ld: of them the rows of scratch; a forward task takes `run`
       queries, a head has `runs`; tasks of the pass */
    size_t G, T, ld, run, runs, tasks;
    int back;
    /* (B, L, 2) with seq_idx: first token of i's sequence, end */
    size_t *packed;
    size_t windows[3], tokens;                   /* windows on each axis; tokens of one, 0: no windows */
    /* distances that bias has numbers for; in a window, a number for each token whose difference tells the
       distance; gradient of bias that each task makes (tasks, share, distances) */
    size_t distances;
    const int32_t *place;
    mmix_real *dbias;
    mmix_real *scratch;
    size_t lane_size;
} mmixi_softmax_job;
typedef struct mmixi_softmax_scratch {
    /* K and V of a tile transposed; scale · q; scores, their gradient; dq of a block */
    mmix_real *kt, *vt, *qs, *p, *dp, *dqs;
    /* rows of V (in the backward of K) and of dy, near each other: heads may lie pages apart, and their rows
       fall into a few sets of the nearest cache */
    mmix_real *kv, *dys;
    mmix_real *top, *sum;                        /* of each query of a task */
    /* the rows of a window, and t and 1/l of its queries */
    mmix_real *q, *k, *v, *y, *dy, *dq, *dk, *dv, *t, *over, *place;
} mmixi_softmax_scratch;
static size_t mmixi_softmax_scratch_fill(const mmixi_softmax_job *j, mmix_real *base,
                                         mmixi_softmax_scratch *s)
{
    size_t R = MMIXI_QUERY_BLOCK, T = j->ld, at = 0, N = j->r.N, P = j->r.P, n = j->tokens,
        m = j->back ? n : 0, share = j->r.H / j->G;
    MMIXI_PART(kt, N * T); MMIXI_PART(qs, R * N); MMIXI_PART(p, R * T); MMIXI_PART(top, j->run);
    MMIXI_PART(sum, j->run);
    MMIXI_PART(vt, j->back ? P * T : 0); MMIXI_PART(dp, j->back ? R * T : 0);
    MMIXI_PART(dqs, j->back ? R * N : 0); MMIXI_PART(dys, j->back ? R * P : 0);
    MMIXI_PART(kv, j->back ? T * N : j->run > 1 ? T * P : 0);
    MMIXI_PART(q, n * share * N); MMIXI_PART(k, n * N); MMIXI_PART(v, n * P); MMIXI_PART(y, n * share * P);
    MMIXI_PART(t, n * share); MMIXI_PART(over, n * share); MMIXI_PART(place, j->r.bias ? n : 0);
    MMIXI_PART(dy, m * share * P); MMIXI_PART(dq, m * share * N); MMIXI_PART(dk, m * N);
        MMIXI_PART(dv, m * P);
    return at;
}

/* Query i sees the keys low … high - 1. With more keys than queries, and a mask, the queries are the last. */
static void mmixi_softmax_span(const mmixi_softmax_job *j, size_t b, size_t i, size_t *low, size_t *high)
{
    const mmix_raw_softmax *r = &j->r;
    const size_t *packed = j->packed ? j->packed + 2 * (b * r->L + i) : NULL;
    size_t at = i + r->S - r->L;
    *low = 0;
    *high = r->S;
    if (r->mask == MMIX_MASK_CAUSAL || r->mask == MMIX_MASK_PREFIX) *high = at + 1;
    if (r->mask == MMIX_MASK_PREFIX && at < r->prefix) *high = mmixi_min(r->prefix, r->S);
    if (r->mask == MMIX_MASK_BAND) {
        *low = at - mmixi_min(at, r->lefts ? (size_t)r->lefts[i] : r->left);
        *high = at + 1 + mmixi_min(r->S - at - 1, r->right);
    }
    if (packed) {
        *low = mmixi_max(*low, packed[0]);
        *high = mmixi_min(*high, packed[1]);
    }
}
/* The window that a coordinate lies in, on an axis whose second window begins at `shift` (0: at `window`);
   and how many there are. */
static size_t mmixi_window_of(size_t at, size_t window, size_t shift)
{
    return shift ? (at + window - shift) / window : at / window;
}
static size_t mmixi_window_count(const mmix_raw_softmax *r, int axis)
{
    return mmixi_window_of(r->grid[axis] - 1, r->window[axis], r->shift[axis]) + 1;
}

/* The definition: M (B, H, L, S). */
static void mmixi_softmax_matrix(const mmixi_softmax_job *j, mmix_real *M)
{
    const mmix_raw_softmax *r = &j->r;
    for (size_t b = 0; b < r->B; b++)
        for (size_t h = 0; h < r->H; h++)
            for (size_t i = 0; i < r->L; i++, M += r->S) {
                size_t low, high;
                mmix_real top = (mmix_real)-HUGE_VAL;
                double sum = 0;
                mmixi_softmax_span(j, b, i, &low, &high);
                for (size_t t = 0; t < r->S; t++) {
                    int seen = t >= low && t < high;
                    /* tokens between two neighbours on this axis; distances between two on that of bias */
                    size_t across = 1, apart = 1, distance = h * j->distances;
                    for (int a = 3; j->tokens && a-- > 0; across *= r->grid[a],
                         apart *= 2 * r->window[a] - 1) {
                        const size_t at = i / across % r->grid[a], of = t / across % r->grid[a];
                        seen &= mmixi_window_of(at, r->window[a], r->shift[a])
                            == mmixi_window_of(of, r->window[a], r->shift[a]);
                        distance += (at + r->window[a] - 1 - of) * apart;
                    }
                    M[t] = (mmix_real)-HUGE_VAL;
                    if (seen)
                        M[t] = (mmix_real)(r->scale * (double)j->k->dot(r->N, mmixi_at(&r->q, b, i, h),
                                mmixi_at(&r->k, b, t, h)) + (r->bias ? (double)r->bias[distance] : 0));
                    top = M[t] > top ? M[t] : top;
                }
                for (size_t t = 0; t < r->S; t++) {
                    M[t] = M[t] < -(mmix_real)1e38 ? 0 : mmixi_exp_real(M[t] - top);
                    sum += (double)M[t];
                }
                for (size_t t = 0; t < r->S; t++) M[t] = (mmix_real)((double)M[t] / sum);
            }
}

/* What a block of queries sees of a tile: n keys from `from` on; first: nothing of earlier tiles. */
typedef struct mmixi_softmax_part { size_t rows, from, n; int first; } mmixi_softmax_part;
static mmixi_softmax_part mmixi_softmax_part_of(const mmixi_softmax_job *j, size_t b, size_t i, size_t rows,
                                                size_t tile)
{
    mmixi_softmax_part c;
    size_t low, high, end = mmixi_min(tile + j->T, j->r.S), least = j->r.S, most = 0;
    for (size_t r = 0; r < rows; r++) {
        mmixi_softmax_span(j, b, i + r, &low, &high);
        least = mmixi_min(least, low);
        most = mmixi_max(most, high);
    }
    c.rows = rows;
    c.from = mmixi_max(least, tile);
    c.n = mmixi_min(most, end) > c.from ? mmixi_min(most, end) - c.from : 0;
    c.first = least >= tile;
    return c;
}
/* Of them row i's: keys a … e - 1 of the part. Returns whether no earlier tile had any; *last: nor will later
   ones. */
static int mmixi_softmax_row(const mmixi_softmax_job *j, const mmixi_softmax_part *c, size_t b, size_t i,
                             size_t tile, size_t *a, size_t *e, int *last)
{
    size_t low, high;
    mmixi_softmax_span(j, b, i, &low, &high);
    *last = high <= tile + j->T;
    *a = mmixi_min(mmixi_max(low, c->from) - c->from, c->n);
    *e = high > c->from ? mmixi_max(mmixi_min(high - c->from, c->n), *a) : *a;
    return low >= tile;
}
/* Where token i of a window finds its numbers: that of the distance to token t is at [-place[t]]. */
static size_t mmixi_softmax_bias_at(const mmixi_softmax_job *j, size_t h, size_t i)
{
    return h * j->distances + j->distances / 2 + (size_t)j->place[i];
}
/* Kept e^(s - t) of query i: those of key 0, 1, … */
static mmix_real *mmixi_softmax_kept(const mmixi_softmax_job *j, size_t b, size_t i, size_t h)
{
    return j->r.scores + ((b * j->r.H + h) * j->r.L + i) * j->ld;
}
/* scale · q of a block */
static void mmixi_softmax_queries(const mmixi_softmax_job *j, const mmixi_softmax_scratch *s, size_t rows,
                                  size_t b, size_t i, size_t h)
{
    const mmix_real *q = mmixi_at(&j->r.q, b, i, h);
    for (size_t r = 0; r < rows; r++)
        j->k->scale(j->r.N, (mmix_real)j->r.scale, q + (ptrdiff_t)r * j->r.q.token, s->qs + r * j->r.N);
}
/* Scores of a part from qs and kt, the transposed tile. */
static void mmixi_softmax_scores(const mmixi_softmax_job *j, const mmixi_softmax_scratch *s,
                                 const mmixi_softmax_part *c, size_t b, size_t i, size_t h, size_t tile)
{
    size_t N = j->r.N;
    if (j->run > 1)
        mmixi_gemm_small(j->k, c->rows, c->n, N, s->qs, (ptrdiff_t)N, 1, s->kt + (c->from - tile),
                         (ptrdiff_t)j->ld, s->p, (ptrdiff_t)j->ld, 0);
    else for (size_t t = 0; t < c->n; t++)       /* for one query a transpose costs more than the products */
        s->p[t] = j->k->dot(N, s->qs, mmixi_at(&j->r.k, b, c->from + t, h));
    for (size_t r = 0; j->place && r < c->rows; r++) {
        const mmix_real *bias = j->r.bias + mmixi_softmax_bias_at(j, h, i + r);
        for (size_t t = 0; t < c->n; t++) s->p[r * j->ld + t] += bias[-j->place[c->from + t]];
    }
}

static void mmixi_softmax_task(void *arg, size_t index, size_t lane)
{
    const mmixi_softmax_job *j = (const mmixi_softmax_job *)arg;
    const mmix_raw_softmax *x = &j->r;
    const mmixi_kernels *k = j->k;
    size_t b = index / (x->H * j->runs), h = index / j->runs % x->H, i0 = index % j->runs * j->run,
        i1 = mmixi_min(x->L, i0 + j->run), P = x->P;
    mmixi_softmax_scratch s;
    mmixi_softmax_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    for (size_t tile = 0; tile < x->S; tile += j->T) {
        const size_t n = mmixi_min(j->T, x->S - tile);
        int ready = j->run < 2;                  /* the tile's K is transposed, its V copied */
        mmixi_softmax_part c;
        for (size_t i = i0; i < i1; i += c.rows) {
            mmix_real *y = mmixi_at(&x->y, b, i, h);
            c = mmixi_softmax_part_of(j, b, i, mmixi_min(MMIXI_QUERY_BLOCK, i1 - i), tile);
            if (!c.n) continue;
            if (!ready) {
                k->transpose(n, x->N, mmixi_at(&x->k, b, tile, h), x->k.token, s.kt, (ptrdiff_t)j->ld);
                mmixi_put_rows(k, n, P, mmixi_at(&x->v, b, tile, h), x->v.token, s.kv, (ptrdiff_t)P, 0);
                ready = 1;
            }
            if (x->scores) s.p = mmixi_softmax_kept(j, b, i, h) + c.from;
            mmixi_softmax_queries(j, &s, c.rows, b, i, h);
            mmixi_softmax_scores(j, &s, &c, b, i, h, tile);
            for (size_t r = 0; r < c.rows; r++) {
                mmix_real *p = s.p + r * j->ld, *top = &s.top[i - i0 + r], *sum = &s.sum[i - i0 + r], high,
                    was = *top;
                size_t a, e;
                int last, first = mmixi_softmax_row(j, &c, b, i + r, tile, &a, &e, &last);
                if (a < e) {
                    high = k->largest(e - a, p + a);
                    *top = !first && was > high ? was : high;
                    high = k->exp_row(e - a, 1, p + a, *top, p + a);
                    if (!first) {
                        mmix_real fade = mmixi_exp_real(was - *top);
                        *sum = *sum * fade + high;
                        k->scale(P, fade, y + (ptrdiff_t)r * x->y.token, y + (ptrdiff_t)r * x->y.token);
                    }
                    else *sum = high;
                }
                memset(p, 0, a * sizeof *p);
                memset(p + e, 0, (c.n - e) * sizeof *p);
            }
            if (j->run > 1)
                mmixi_gemm_small(k, c.rows, P, c.n, s.p, (ptrdiff_t)j->ld, 1, s.kv + (c.from - tile) * P,
                                 (ptrdiff_t)P, y, x->y.token, !c.first);
            else mmixi_gemm_small(k, 1, P, c.n, s.p, 0, 1, mmixi_at(&x->v, b, c.from, h), x->v.token, y, 0,
                                  !c.first);
        }
    }
    for (size_t i = i0; i < i1; i++) {
        mmix_real *y = mmixi_at(&x->y, b, i, h), over = 1 / s.sum[i - i0];
        k->scale(P, over, y, y);
        if (!x->top) continue;
        x->top[(b * x->H + h) * x->L + i] = s.top[i - i0];
        x->over[(b * x->H + h) * x->L + i] = over;
    }
}

/* One key/value group of one sequence: all its query heads add into the same dk and dv. */
static void mmixi_softmax_task_backward(void *arg, size_t index, size_t lane)
{
    const mmixi_softmax_job *j = (const mmixi_softmax_job *)arg;
    const mmix_raw_softmax *x = &j->r;
    const mmixi_kernels *k = j->k;
    size_t b = index / j->G, share = x->H / j->G, h0 = index % j->G * share, N = x->N, P = x->P;
    const ptrdiff_t ld = (ptrdiff_t)j->ld;
    mmixi_softmax_scratch s;
    mmixi_softmax_scratch_fill(j, j->scratch + lane * j->lane_size, &s);
    for (size_t tile = 0; tile < x->S; tile += j->T) {
        size_t n = mmixi_min(j->T, x->S - tile);
        mmixi_softmax_part c;
        if (!x->scores) k->transpose(n, N, mmixi_at(&x->k, b, tile, h0), x->k.token, s.kt, ld);
        k->transpose(n, P, mmixi_at(&x->v, b, tile, h0), x->v.token, s.vt, ld);
        mmixi_put_rows(k, n, N, mmixi_at(&x->k, b, tile, h0), x->k.token, s.kv, (ptrdiff_t)N, 0);
        if (x->dk.p && !x->add_k) mmixi_zero_rows(n, N, mmixi_at(&x->dk, b, tile, h0), x->dk.token);
        if (x->dv.p && !x->add_v) mmixi_zero_rows(n, P, mmixi_at(&x->dv, b, tile, h0), x->dv.token);
        for (size_t h = h0; h < h0 + share; h++)
            for (size_t i = 0; i < x->L; i += c.rows) {
                const mmix_real *y = mmixi_at(&x->y, b, i, h);
                c = mmixi_softmax_part_of(j, b, i, mmixi_min(MMIXI_QUERY_BLOCK, x->L - i), tile);
                if (!c.n) continue;
                mmixi_put_rows(k, c.rows, P, mmixi_at(&x->dy, b, i, h), x->dy.token, s.dys, (ptrdiff_t)P, 0);
                mmixi_softmax_queries(j, &s, c.rows, b, i, h);
                if (!x->scores) mmixi_softmax_scores(j, &s, &c, b, i, h, tile);
                mmixi_gemm_small(k, c.rows, c.n, P, s.dys, (ptrdiff_t)P, 1, s.vt + (c.from - tile), ld, s.dp,
                                 ld, 0);
                for (size_t r = 0; r < c.rows; r++) {
                    mmix_real *p = s.p + r * j->ld, *dp = s.dp + r * j->ld, delta;
                    size_t at = (b * x->H + h) * x->L + i + r, a, e;
                    int last, first = mmixi_softmax_row(j, &c, b, i + r, tile, &a, &e, &last);
                    if (!x->scores) k->exp_row(e - a, 1, p + a, x->top[at], p + a);
                    k->scale(e - a, x->over[at],
                             x->scores ? mmixi_softmax_kept(j, b, i + r, h) + c.from + a : p + a, p + a);
                    /* δ = Σ p dp = dy · y: the former where one tile has all of it, for it is exact with one
                       key */
                    delta = first && last ? k->dot(e - a, p + a, dp + a)
                        : k->dot(P, s.dys + r * P, y + (ptrdiff_t)r * x->y.token);
                    k->softmax_backward(e - a, p + a, dp + a, delta, dp + a, 0);
                    for (size_t t = a; j->dbias && t < e; t++)
                        j->dbias[mmixi_softmax_bias_at(j, h, i + r) - (size_t)j->place[c.from + t]] += dp[t];
                    memset(p, 0, a * sizeof *p);
                    memset(dp, 0, a * sizeof *dp);
                    memset(p + e, 0, (c.n - e) * sizeof *p);
                    memset(dp + e, 0, (c.n - e) * sizeof *dp);
                }
                if (x->dv.p)
                    mmixi_gemm_small(k, c.n, P, c.rows, s.p, 1, ld, s.dys, (ptrdiff_t)P,
                                     mmixi_at(&x->dv, b, c.from, h), x->dv.token, 1);
                if (x->dk.p)
                    mmixi_gemm_small(k, c.n, N, c.rows, s.dp, 1, ld, s.qs, (ptrdiff_t)N,
                                     mmixi_at(&x->dk, b, c.from, h), x->dk.token, 1);
                if (x->dq.p) {
                    mmixi_gemm_small(k, c.rows, N, c.n, s.dp, ld, 1, s.kv + (c.from - tile) * N,
                                     (ptrdiff_t)N, s.dqs, (ptrdiff_t)N, 0);
                    k->scale(c.rows * N, (mmix_real)x->scale, s.dqs, s.dqs);
                    mmixi_put_rows(k, c.rows, N, s.dqs, (ptrdiff_t)N, mmixi_at(&x->dq, b, i, h), x->dq.token,
                                   x->add_q || !c.first);
                }
            }
    }
}

/* ---- windows ---- */

/* The tokens of one window, begin … end - 1 on each axis. */
typedef struct mmixi_window { size_t begin[3], end[3]; } mmixi_window;
/* Rows of the window's tokens, in raster order: out of `all`'s sequence b and its `heads` heads from h0 on,
   into `own`; or, with `put`, the other way. */
static void mmixi_window_copy(const mmixi_softmax_job *j, const mmixi_window *w, const mmix_heads *all,
                              size_t b, size_t h0, size_t heads, size_t width, const mmix_heads *own, int put,
                              int add)
{
    const size_t *grid = j->r.grid, run = w->end[2] - w->begin[2];
    for (size_t h = 0; all->p && h < heads; h++) {
        size_t at = 0;
        for (size_t t = w->begin[0]; t < w->end[0]; t++)
            for (size_t y = w->begin[1]; y < w->end[1]; y++, at += run) {
                mmix_real *there = mmixi_at(all, b, (t * grid[1] + y) * grid[2] + w->begin[2], h0 + h),
                    *here = mmixi_at(own, 0, at, h);
                if (put) mmixi_put_rows(j->k, run, width, here, own->token, there, all->token, add);
                else mmixi_put_rows(j->k, run, width, there, all->token, here, own->token, 0);
            }
    }
}
static void mmixi_window_places(const mmixi_softmax_job *j, const mmixi_window *w, int32_t *place)
{
    const size_t *window = j->r.window;
    for (size_t t = 0; t < w->end[0] - w->begin[0]; t++)
        for (size_t y = 0; y < w->end[1] - w->begin[1]; y++)
            for (size_t x = 0; x < w->end[2] - w->begin[2]; x++)
                *place++ = (int32_t)((t * (2 * window[1] - 1) + y) * (2 * window[2] - 1) + x);
}
/* One key/value group in one window. */
static void mmixi_window_task(void *arg, size_t index, size_t lane)
{
    const mmixi_softmax_job *j = (const mmixi_softmax_job *)arg;
    const mmix_raw_softmax *x = &j->r;
    size_t g, b, share = x->H / j->G, n = 1, N = x->N, P = x->P, rest = index;
    const size_t own = share * j->distances;     /* numbers of bias that the group's heads have */
    mmixi_softmax_job in = *j;
    mmixi_softmax_scratch s;
    mmixi_window w;
    mmix_heads t, over, own_t, own_over;         /* of x->top and x->over, and of this window's */
    mmix_raw_softmax *y = &in.r;
    in.scratch = j->scratch + lane * j->lane_size;
    mmixi_softmax_scratch_fill(j, in.scratch, &s);
    for (int a = 3; a-- > 0; rest /= j->windows[a]) {
        size_t at = rest % j->windows[a], size = x->window[a], back = x->shift[a] ? size - x->shift[a] : 0;
        w.begin[a] = at ? at * size - back : 0;
        w.end[a] = mmixi_min(at * size + size - back, x->grid[a]);
        n *= w.end[a] - w.begin[a];
    }
    g = rest % j->G;
    b = rest / j->G;
    if (x->bias) {
        mmixi_window_places(j, &w, (int32_t *)(void *)s.place);
        in.place = (const int32_t *)(const void *)s.place;
        y->bias = x->bias + g * own;
        if (j->dbias) in.dbias = (mmix_real *)memset(j->dbias + index * own, 0, own * sizeof *in.dbias);
    }
    if (x->scores) y->scores = x->scores + index * share * j->tokens * j->ld;
    y->B = in.G = 1;
    y->L = y->S = n;
    y->H = share;
    y->q = mmix_heads_plain(s.q, n, share, N, share);
    y->k = mmix_heads_plain(s.k, n, 1, N, share);
    y->v = mmix_heads_plain(s.v, n, 1, P, share);
    y->y = mmix_heads_plain(s.y, n, share, P, share);
    t = mmix_heads_plain(x->top, x->H, x->L, 1, x->L);           /* (B, H, L): token and head change places */
    t.head = t.token;
    t.token = 1;
    own_t = own_over = over = t;
    over.p = x->over;
    y->top = own_t.p = x->top ? s.t : NULL;
    y->over = own_over.p = s.over;
    own_t.head = own_over.head = (ptrdiff_t)n;
    mmixi_window_copy(j, &w, &x->q, b, g * share, share, N, &y->q, 0, 0);
    mmixi_window_copy(j, &w, &x->k, b, g * share, 1, N, &y->k, 0, 0);
    mmixi_window_copy(j, &w, &x->v, b, g * share, 1, P, &y->v, 0, 0);
    if (!j->back) {
        for (size_t h = 0; h < share; h++) mmixi_softmax_task(&in, h, 0);
        mmixi_window_copy(j, &w, &x->y, b, g * share, share, P, &y->y, 1, 0);
        mmixi_window_copy(j, &w, &t, b, g * share, share, 1, &own_t, 1, 0);
        mmixi_window_copy(j, &w, &over, b, g * share, share, 1, &own_over, 1, 0);
        return;
    }
    mmixi_window_copy(j, &w, &t, b, g * share, share, 1, &own_t, 0, 0);
    mmixi_window_copy(j, &w, &over, b, g * share, share, 1, &own_over, 0, 0);
    y->dy = mmix_heads_plain(s.dy, n, share, P, share);
    y->dq = mmix_heads_plain(x->dq.p ? s.dq : NULL, n, share, N, share);
    y->dk = mmix_heads_plain(x->dk.p ? s.dk : NULL, n, 1, N, share);
    y->dv = mmix_heads_plain(x->dv.p ? s.dv : NULL, n, 1, P, share);
    y->add_q = y->add_k = y->add_v = 0;
    mmixi_window_copy(j, &w, &x->y, b, g * share, share, P, &y->y, 0, 0);
    mmixi_window_copy(j, &w, &x->dy, b, g * share, share, P, &y->dy, 0, 0);
    mmixi_softmax_task_backward(&in, 0, 0);
    mmixi_window_copy(j, &w, &x->dq, b, g * share, share, N, &y->dq, 1, x->add_q);
    mmixi_window_copy(j, &w, &x->dk, b, g * share, 1, N, &y->dk, 1, x->add_k);
    mmixi_window_copy(j, &w, &x->dv, b, g * share, 1, P, &y->dv, 1, x->add_v);
}

/* ---- a pass over everything ---- */

/* Makes a job of r; scratch for `lanes` threads, or NULL to learn how many reals it takes: returned. */
static size_t mmixi_softmax_begin(mmixi_softmax_job *j, const mmix_raw_softmax *r, const mmixi_kernels *k,
                                  int back, size_t lanes, mmix_real *scratch)
{
    mmixi_softmax_scratch s;
    size_t S = r->S, L = r->L, partial, packed = r->seq_idx ? 2 * r->B * L * sizeof(size_t)
        / sizeof(mmix_real) : 0;
    memset(j, 0, sizeof *j);
    j->r = *r;
    j->k = k;
    j->back = back;
    j->G = r->H / r->k.share;
    if (r->window[0]) {
        j->tokens = 1;
        for (int a = 0; a < 3; a++) {
            j->windows[a] = mmixi_window_count(r, a);
            j->tokens *= mmixi_min(r->window[a], r->grid[a]);
        }
        S = L = j->tokens;
        if (r->bias) j->distances = (2 * r->window[0] - 1) * (2 * r->window[1] - 1) * (2 * r->window[2] - 1);
    }
    j->T = mmixi_min(S, MMIXI_KEY_TILE);
    j->ld = mmixi_round_up(j->T, 16) | 16;       /* else the rows share a few sets of the cache */
    j->run = mmixi_max(4 * MMIXI_QUERY_BLOCK, mmixi_ceil_div(L * r->B * r->H, 16));
    j->run = j->tokens || r->B * r->H >= 16 ? L : mmixi_min(mmixi_round_up(j->run, MMIXI_QUERY_BLOCK), L);
    j->runs = mmixi_ceil_div(L, j->run);
    j->tasks = j->tokens ? r->B * j->G * j->windows[0] * j->windows[1] * j->windows[2]
        : back ? r->B * j->G : r->B * r->H * j->runs;
    j->lane_size = mmixi_softmax_scratch_fill(j, NULL, &s);
    if (scratch && packed) {
        j->packed = (size_t *)(void *)(scratch + lanes * j->lane_size);
        for (size_t b = 0; b < r->B; b++) {
            const int32_t *seq = r->seq_idx + (ptrdiff_t)b * r->seq_batch;
            size_t *p = j->packed + 2 * b * L;
            for (size_t i = 0; i < L; i++) p[2 * i] = i && seq[i] == seq[i - 1] ? p[2 * i - 2] : i;
            for (size_t i = L; i-- > 0;)
                p[2 * i + 1] = i + 1 < L && seq[i] == seq[i + 1] ? p[2 * i + 3] : i + 1;
        }
    }
    j->scratch = scratch;
    partial = r->dbias ? j->tasks * (r->H / j->G) * j->distances : 0;
    if (partial && scratch) j->dbias = scratch + lanes * j->lane_size + packed;
    return lanes * j->lane_size + packed + partial;
}
/* The sum of the tasks' gradients of bias, heads and distances begin … end - 1. */
static void mmixi_softmax_bias_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_softmax_job *j = (const mmixi_softmax_job *)arg;
    const size_t own = j->r.H / j->G * j->distances, windows = j->windows[0] * j->windows[1] * j->windows[2];
    (void)lane;
    for (size_t i = begin; i < end; i++) {
        mmix_real sum = 0;
        for (size_t b = 0; b < j->r.B; b++)
            for (size_t w = 0; w < windows; w++)
                sum += j->dbias[((b * j->G + i / own) * windows + w) * own + i % own];
        j->r.dbias[i] = (j->r.add_bias ? j->r.dbias[i] : 0) + sum;
    }
}
static mmixi_lane_task *mmixi_softmax_task_of(const mmixi_softmax_job *j)
{
    return j->tokens ? mmixi_window_task : j->back ? mmixi_softmax_task_backward : mmixi_softmax_task;
}

MMIXDEF size_t mmix_raw_softmax_scratch(const mmix_raw_softmax *x, int backward)
{
    mmixi_softmax_job j;
    return mmixi_softmax_begin(&j, x, NULL, backward, 1, NULL);
}
MMIXDEF size_t mmix_raw_softmax_scores(const mmix_raw_softmax *x)
{
    mmixi_softmax_job j;
    mmixi_softmax_begin(&j, x, NULL, 0, 1, NULL);
    if (!j.tokens) return x->S > j.T ? 0 : x->B * x->H * x->L * j.ld;
    return j.tokens > j.T ? 0 : j.tasks * (x->H / j.G) * j.tokens * j.ld;
}
static void mmixi_raw_softmax(const mmix_raw_softmax *x, int back, mmix_real *scratch)
{
    mmixi_softmax_job j;
    mmixi_kernels k;
    mmixi_kernels_fill(&k, MMIX_SIMD_AUTO);
    mmixi_softmax_begin(&j, x, &k, back, 1, scratch);
    for (size_t i = 0; i < j.tasks; i++) mmixi_softmax_task_of(&j)(&j, i, 0);
    if (j.dbias) mmixi_softmax_bias_range(&j, 0, x->H * j.distances, 0);
}
MMIXDEF void mmix_raw_softmax_forward(const mmix_raw_softmax *x, mmix_real *scratch)
{
    mmixi_raw_softmax(x, 0, scratch);
}
MMIXDEF void mmix_raw_softmax_backward(const mmix_raw_softmax *x, mmix_real *scratch)
{
    mmixi_raw_softmax(x, 1, scratch);
}

/* The op's options: sizes and options of a raw call, without the arrays, … */
static mmix_raw_softmax mmixi_softmax_options(const mmix_mixer *x)
{
    mmix_raw_softmax r;
    memset(&r, 0, sizeof r);
    r.B = x->q->shape[0]; r.L = x->q->shape[1]; r.H = x->q->shape[2]; r.N = x->q->shape[3];
    r.S = x->k->shape[1]; r.P = x->v->shape[3];
    r.scale = x->scale != 0 ? x->scale : 1 / sqrt((double)r.N);
    r.mask = x->mask;
    r.prefix = x->prefix; r.left = x->left; r.right = x->right;
    for (int a = 0; a < 3; a++) {
        r.grid[a] = mmixi_max(x->grid[a], 1);
        r.window[a] = x->window[0] ? mmixi_max(x->window[a], 1) : 0;
        r.shift[a] = x->shift[a];
    }
    return r;
}
/* … to which those of q, k, v and seq_idx are added. */
static void mmixi_softmax_arrays(mmix_raw_softmax *r, const mmix_tensor *q, const mmix_tensor *k,
                                 const mmix_tensor *v, const mmix_tensor *seq_idx, const mmix_tensor *bias,
                                 const mmix_tensor *lefts)
{
    r->bias = mmix_data(bias);
    r->lefts = mmix_data_i32(lefts);
    r->q = mmixi_heads_of(q, mmix_data(q), r->H);
    r->k = mmixi_heads_of(k, mmix_data(k), r->H);
    r->v = mmixi_heads_of(v, mmix_data(v), r->H);
    r->seq_idx = mmix_data_i32(seq_idx);
    r->seq_batch = seq_idx ? (ptrdiff_t)seq_idx->stride[0] : 0;
}
static int mmixi_softmax_matrix_of(mmix_ctx *m, const mmix_mixer *x, mmix_real *M)
{
    mmix_raw_softmax r = mmixi_softmax_options(x);
    mmixi_softmax_job j;
    mmix_real *scratch;
    mmixi_softmax_arrays(&r, x->q, x->k, x->v, x->seq_idx, mmixi_even(m, x->bias, 1), x->lefts);
    if (m->error_kind) return -1;
    scratch = mmixi_reals(m, mmixi_softmax_begin(&j, &r, m->k, 0, 1, NULL), 1);
    if (!scratch) return -1;
    mmixi_softmax_begin(&j, &r, m->k, 0, 1, scratch);
    mmixi_softmax_matrix(&j, M);
    return 0;
}
/* Memory for what the backward wants to have kept: t, 1/l and, of few keys, e^(s - t). */
static int mmixi_softmax_save(mmix_ctx *m, mmix_call *call, const mmix_raw_softmax *r)
{
    const size_t rows = r->B * r->H * r->L;
    size_t keys = r->S, scores;
    for (int a = 0; a < 3 && r->window[0]; a++)
        keys = (a ? keys : 1) * mmixi_min(r->window[a], r->grid[a]);
    scores = keys > 2 * (r->N + r->P) ? 0 : mmix_raw_softmax_scores(r);
    return mmix_save(m, call, 0, rows) && mmix_save(m, call, 1, rows)
        && (!scores || mmix_save(m, call, 2, scores)) ? 0 : -1;
}
static int mmixi_softmax_run(mmix_ctx *m, mmix_call *call, int back)
{
    mmix_raw_softmax r = *(const mmix_raw_softmax *)call->options;
    mmix_mark mark;
    mmixi_softmax_job j;
    mmix_real *scratch;
    mmixi_softmax_arrays(&r, call->in[0], call->in[1], call->in[2], call->in[3], call->in[4], call->in[5]);
    r.y = mmix_heads_plain(mmix_data(call->out[0]), r.L, r.H, r.P, r.H);
    if (!back && call->recorded && mmixi_softmax_save(m, call, &r)) return -1;
    mark = mmix_mark_here(m);
    r.top = call->saved[0];
    r.over = call->saved[1];
    r.scores = call->saved[2];
    if (back) {
        r.dy = r.y;
        r.dy.p = (mmix_real *)(uintptr_t)mmixi_out_grad(call->out[0]);
        r.dq = mmixi_heads_of(call->in[0], mmixi_grad_once(m, call, 0, &r.add_q), r.H);
        r.dk = mmixi_heads_of(call->in[1], mmixi_grad_once(m, call, 1, &r.add_k), r.H);
        r.dv = mmixi_heads_of(call->in[2], mmixi_grad_once(m, call, 2, &r.add_v), r.H);
        if (call->in[4]) r.dbias = mmix_grad_target(m, call->in[4], &r.add_bias);
    }
    scratch = mmixi_reals(m, mmixi_softmax_begin(&j, &r, m->k, back, mmixi_lanes(m), NULL), 1);
    if (!scratch) return -1;
    mmixi_softmax_begin(&j, &r, m->k, back, mmixi_lanes(m), scratch);
    mmixi_parallel(m, j.tasks, mmixi_softmax_task_of(&j), &j);
    if (j.dbias) mmixi_ranges(m, r.H * j.distances, 256, mmixi_softmax_bias_range, &j);
    if (!back) mmix_rewind(m, mark);
    return 0;
}
static int mmixi_softmax_attention_forward(mmix_ctx *m, mmix_call *call)
{
    return mmixi_softmax_run(m, call, 0);
}
static int mmixi_softmax_attention_backward(mmix_ctx *m, mmix_call *call)
{
    return mmixi_softmax_run(m, call, 1);
}

/* ==== >>mixing =======================================================================
   the three mixers behind one struct; their matrices; steps
   ==================================================================================== */

MMIXDEF mmix_mixer mmix_mixer_softmax(mmix_tensor *q, mmix_tensor *k, mmix_tensor *v)
{
    mmix_mixer x;
    memset(&x, 0, sizeof x);
    x.kind = MMIX_SOFTMAX;
    x.q = q;
    x.k = k;
    x.v = v;
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
    y.dt = dt;
    y.A = A;
    return y;
}
MMIXDEF void mmix_mixer_windows(mmix_mixer *x, int axes, const size_t *grid, const size_t *window,
                                int shifted)
{
    for (int a = 0; a < 3; a++) {
        x->grid[a] = a < axes ? grid[a] : 1;
        x->window[a] = a < axes ? window[a] : 1;
        x->shift[a] = shifted && x->grid[a] > x->window[a] ? x->window[a] / 2 : 0;
    }
}

static int mmixi_windows_check(mmix_ctx *m, const char *who, const mmix_mixer *x)
{
    size_t tokens = 1, distances = 1;
    for (int a = 0; a < 3; a++) {
        size_t grid = mmixi_max(x->grid[a], 1), window = mmixi_max(x->window[a], 1);
        if (x->shift[a] >= window && x->shift[a])
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "%s: shift %.0f of a window of %.0f on axis %d, expected less", who,
                (double)x->shift[a], (double)window, a), 0;
        if (!mmixi_mul_ok(tokens, grid, &tokens)) tokens = 0;
        if (!mmixi_mul_ok(distances, 2 * window - 1, &distances)) distances = 0;
    }
    if (!mmixi_optional(m, who, "bias", x->bias, MMIX_DTYPE_REAL, 2, x->q->shape[2], distances, 0,
                        0)) return 0;
    if (tokens != x->q->shape[1] || tokens != x->k->shape[1])
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: a grid of %.0f x %.0f x %.0f for %.0f queries and %.0f "
                         "keys", who, (double)mmixi_max(x->grid[0], 1), (double)mmixi_max(x->grid[1], 1),
                         (double)mmixi_max(x->grid[2], 1), (double)x->q->shape[1], (double)x->k->shape[1]), 0;
    if (x->kind != MMIX_SOFTMAX || x->mask > MMIX_MASK_CAUSAL || x->seq_idx)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: windows are for softmax attention with MMIX_MASK_NONE "
                         "or _CAUSAL and without seq_idx", who), 0;
    return 1;
}
static int mmixi_attention_check(mmix_ctx *m, const char *who, const mmix_mixer *x)
{
    size_t B = mmix_shape(x->q, 0), L = mmix_shape(x->q, 1), N = mmix_shape(x->q, 3), S = mmix_shape(x->k, 1),
        G = mmix_shape(x->k, 2), H = mmix_shape(x->q, 2);
    if (!mmixi_check(m, who, "q", x->q, MMIX_DTYPE_REAL, 4, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY)
        || !mmixi_check(m, who, "k", x->k, MMIX_DTYPE_REAL, 4, B, MMIXI_ANY, MMIXI_ANY, N)
        || !mmixi_check(m, who, "v", x->v, MMIX_DTYPE_REAL, 4, B, S, G, MMIXI_ANY)
        || !mmixi_optional(m, who, "seq_idx", x->seq_idx, MMIX_DTYPE_I32, 2, B, L, 0, 0)) return 0;
    if (H % G)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: k and v have %.0f heads, which do not divide q's %.0f",
                         who, (double)G, (double)H), 0;
    if (x->mask < MMIX_MASK_NONE || x->mask > MMIX_MASK_BAND || (x->mask != MMIX_MASK_NONE && S < L)
        || (x->seq_idx && S != L))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: mask %d%s with %.0f queries and %.0f keys; a mask "
                         "needs a key for each query, seq_idx equal numbers", who, x->mask,
                         x->seq_idx ? " and seq_idx" : "", (double)L, (double)S), 0;
    if (x->kind == MMIX_LINEAR
        && (x->feature < 0 || x->feature > MMIX_FEATURE_NONE || x->mask > MMIX_MASK_CAUSAL
            || (x->mask == MMIX_MASK_CAUSAL && (x->feature == MMIX_FEATURE_EFFICIENT || S != L))
            || (x->mask == MMIX_MASK_NONE && (x->seq_idx || x->initial_state || x->final_state))))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: linear attention has no form with feature %d, mask "
                         "%d%s%s, %.0f queries and %.0f keys", who, x->feature, x->mask,
                         x->seq_idx ? ", seq_idx" : "", x->initial_state || x->final_state ? ", a state" : "",
                         (double)L, (double)S), 0;
    if (x->kind == MMIX_LINEAR && !mmixi_optional(m, who, "initial_state", x->initial_state, MMIX_DTYPE_REAL,
                                                  4, B, G, x->v->shape[3] + (size_t)mmixi_normalises(x),
        N)) return 0;
    if (x->kind == MMIX_SOFTMAX && (x->initial_state || x->final_state))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: softmax attention has no initial or final state; see "
                         "mmix_mix_step", who), 0;
    if (x->bias && !x->window[0])
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: a bias without windows", who), 0;
    if (!mmixi_optional(m, who, "lefts", x->lefts, MMIX_DTYPE_I32, 1, L, 0, 0, 0)) return 0;
    for (size_t i = 0; x->lefts && i < L; i++)
        if (x->mask != MMIX_MASK_BAND || mmixi_index(x->lefts, i) < 0
            || (size_t)mmixi_index(x->lefts, i) > x->left)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: lefts[%.0f] is %d with mask %d, expected 0 to %.0f "
                             "with MMIX_MASK_BAND", who, (double)i, (int)mmixi_index(x->lefts, i), x->mask,
                             (double)x->left), 0;
    return !x->window[0] || mmixi_windows_check(m, who, x);
}
static int mmixi_mixer_check(mmix_ctx *m, const char *who, const mmix_mixer *x)
{
    if (!x) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a mixer, found NULL", who), 0;
    if (x->kind == MMIX_SSD) return mmixi_ssd_check(m, who, x);
    if (x->kind == MMIX_SOFTMAX || x->kind == MMIX_LINEAR) return mmixi_attention_check(m, who, x);
    mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: kind %d, expected MMIX_SOFTMAX, MMIX_LINEAR or MMIX_SSD", who,
              x->kind);
    return 0;
}

/* `state`: of SSD and of causal linear attention the state before, which the one after replaces; or NULL. */
static mmix_tensor *mmixi_mix(mmix_ctx *m, const mmix_mixer *x, mmix_tensor *state)
{
    mmix_call call;
    if (x->kind == MMIX_SSD) {
        if (x->direction != MMIX_BOTH) return mmixi_ssd(m, x, x->direction == MMIX_REVERSE, state);
        return mmixi_binary(m, "mmix_mix", MMIX_OP_ADD, mmixi_ssd(m, x, 0, NULL), mmixi_ssd(m, x, 1, NULL),
                            0.5, 0.5);
    }
    call = mmixi_call(x->q, x->k, x->v);
    if (x->kind == MMIX_SOFTMAX) {
        mmix_raw_softmax r = mmixi_softmax_options(x);
        call.in[3] = x->seq_idx;
        call.in[4] = mmixi_even(m, x->bias, 1);
        call.in[5] = x->lefts;
        call.out[0] = mmix_new4(m, r.B, r.L, r.H, r.P);
        return mmixi_run(m, MMIX_OP_SOFTMAX_ATTENTION, &call, &r, sizeof r);
    }
    else {
        mmix_raw_linear r = mmixi_linear_options(x);
        call.in[3] = x->seq_idx;
        call.in[4] = mmixi_even(m, state ? state : x->initial_state, 1);
        call.out[0] = mmix_new4(m, r.B, r.L, r.H, r.P);
        call.out[1] = state;
        if (x->final_state)
            call.out[1] = *x->final_state = mmix_new4(m, r.B, x->v->shape[2], r.P + (size_t)r.normalise, r.N);
        return mmixi_run(m, MMIX_OP_LINEAR_ATTENTION, &call, &r, sizeof r);
    }
}
MMIXDEF void mmix_mix_watch(mmix_ctx *m, void (*look)(void *user, mmix_ctx *m, const mmix_mixer *mixer),
                            void *user)
{
    m->look = look;
    m->look_user = user;
}
MMIXDEF mmix_tensor *mmix_mix(mmix_ctx *m, const mmix_mixer *x)
{
    void (*look)(void *user, mmix_ctx *m, const mmix_mixer *mixer) = m->look;
    if (!mmixi_mixer_check(m, "mmix_mix", x)) return NULL;
    if (look) {
        mmix_mark mark = mmix_mark_here(m);
        const int record = mmix_record(m, 0);
        m->look = NULL;                          /* it may mix, too */
        look(m->look_user, m, x);
        m->look = look;
        mmix_record(m, record);
        mmix_rewind(m, mark);
    }
    return m->error_kind ? NULL : mmixi_mix(m, x, NULL);
}

MMIXDEF mmix_tensor *mmix_mix_matrix(mmix_ctx *m, const mmix_mixer *x)
{
    mmix_tensor *M;
    int record, failed = 0;
    if (!mmixi_mixer_check(m, "mmix_mix_matrix", x)) return NULL;
    if (x->initial_state || (x->kind == MMIX_SSD && mmix_ndim(x->D) == 2)) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "mmix_mix_matrix: with an initial state, or a D for each channel, y is "
                  "not M x");
        return NULL;
    }
    M = x->kind == MMIX_SSD ? mmix_new4(m, x->dt->shape[0], x->dt->shape[2], x->dt->shape[1], x->dt->shape[1])
                            : mmix_new4(m, x->q->shape[0], x->q->shape[2], x->q->shape[1], x->k->shape[1]);
    if (!M) return NULL;
    record = mmix_record(m, 0);
    if (x->kind == MMIX_SOFTMAX) failed = mmixi_softmax_matrix_of(m, x, mmix_data(M));
    else if (x->kind == MMIX_LINEAR) failed = mmixi_linear_matrix(m, x, mmix_data(M));
    else {
        mmix_fill(M, 0);
        for (int d = MMIX_FORWARD; d <= MMIX_REVERSE && !failed; d++)
            if (x->direction == d || x->direction == MMIX_BOTH)
                failed = mmixi_ssd_matrix_of(m, x, d, x->direction == MMIX_BOTH ? 0.5 : 1, mmix_data(M));
    }
    mmix_record(m, record);
    return failed ? NULL : M;
}

/* ---- steps: what a mixer carries from token to token ---- */

/* An array that outlives the step: (B, ·, ·, ·), with room for more along axis 1. */
typedef struct mmixi_carried { mmix_real *p; size_t shape[4], room; } mmixi_carried;
/* Of softmax attention keys and values (B, tokens, G, ·); else the state (B, H, P, N), and for a convolution
   its last inputs (B, D, W-1, 1). */
typedef struct mmixi_state_slot { size_t tokens; mmixi_carried part[3]; } mmixi_state_slot;
struct mmix_state {
    mmix_ctx *m;
    size_t slots;
    mmixi_state_slot *slot;
};
enum { MMIXI_CARRIED_KEYS, MMIXI_CARRIED_STATE = 0, MMIXI_CARRIED_VALUES, MMIXI_CARRIED_CONV };

static size_t mmixi_carried_bytes(const mmixi_carried *c)
{
    return c->p ? c->shape[0] * c->room * c->shape[2] * c->shape[3] * sizeof *c->p : 0;
}
MMIXDEF mmix_state *mmix_state_create(mmix_ctx *m, size_t slots)
{
    mmix_state *s;
    size_t bytes;
    if (m->error_kind) return NULL;
    if (!slots || !mmixi_mul_ok(slots, sizeof *s->slot, &bytes)) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_state_create: %.0f slots, expected 1 to what memory has room "
                  "for", (double)slots);
        return NULL;
    }
    s = (mmix_state *)mmixi_alloc(m, sizeof *s);
    if (!s) return NULL;
    s->m = m;
    s->slots = slots;
    s->slot = (mmixi_state_slot *)mmixi_alloc(m, slots * sizeof *s->slot);
    if (!s->slot) {
        mmixi_free(m, s, sizeof *s);
        return NULL;
    }
    memset(s->slot, 0, slots * sizeof *s->slot);
    return s;
}
MMIXDEF void mmix_state_clear(mmix_state *s)
{
    for (size_t i = 0; i < s->slots; i++) {
        for (int k = 0; k < 3; k++)
            mmixi_free(s->m, s->slot[i].part[k].p, mmixi_carried_bytes(&s->slot[i].part[k]));
        memset(&s->slot[i], 0, sizeof s->slot[i]);
    }
}
MMIXDEF void mmix_state_destroy(mmix_state *s)
{
    mmix_ctx *m = s ? s->m : NULL;
    if (!s) return;
    mmix_state_clear(s);
    mmixi_free(m, s->slot, s->slots * sizeof *s->slot);
    mmixi_free(m, s, sizeof *s);
}
MMIXDEF mmix_state *mmix_state_copy(const mmix_state *s)
{
    mmix_state *copy = mmix_state_create(s->m, s->slots);
    for (size_t i = 0; copy && i < s->slots; i++) {
        copy->slot[i].tokens = s->slot[i].tokens;
        for (int k = 0; k < 3; k++) {
            const mmixi_carried *from = &s->slot[i].part[k];
            mmixi_carried *to = &copy->slot[i].part[k];
            size_t bytes = mmixi_carried_bytes(from);
            if (!bytes) continue;
            *to = *from;
            to->p = (mmix_real *)mmixi_alloc(s->m, bytes);
            if (!to->p) {
                mmix_state_destroy(copy);
                return NULL;
            }
            memcpy(to->p, from->p, bytes);
        }
    }
    return copy;
}
MMIXDEF size_t mmix_state_tokens(const mmix_state *s, size_t slot)
{
    return slot < s->slots ? s->slot[slot].tokens : 0;
}
MMIXDEF size_t mmix_state_bytes(const mmix_state *s)
{
    size_t bytes = sizeof *s + s->slots * sizeof *s->slot;
    for (size_t i = 0; i < s->slots; i++)
        for (int k = 0; k < 3; k++) bytes += mmixi_carried_bytes(&s->slot[i].part[k]);
    return bytes;
}

/* A tensor of what is carried: no copy. */
static mmix_tensor *mmixi_carried_view(mmix_ctx *m, const mmixi_carried *c)
{
    mmix_tensor *t = mmixi_tensor(m);
    if (!t || !mmixi_describe(m, t, "mmix_mix_step", MMIX_DTYPE_REAL, 4, c->shape)) return NULL;
    t->stride[0] = c->room * c->shape[2] * c->shape[3];
    t->data = c->p;
    return t;
}
static int mmixi_carried_check(mmix_ctx *m, const mmixi_carried *c, const char *what, size_t B, size_t a,
                               size_t b)
{
    return !c->p || (c->shape[0] == B && c->shape[2] == a && c->shape[3] == b) ? 1
        : (mmix_fail(m, MMIX_ERROR_ARGUMENT,
                     "mmix_mix_step: %s (%.0f, *, %.0f, %.0f) for a slot that carries (%.0f, *, %.0f, %.0f)",
                     what, (double)B, (double)a, (double)b, (double)c->shape[0], (double)c->shape[2],
                     (double)c->shape[3]), 0);
}
/* Lets the carried array grow by `more` along axis 1 and returns a view of all of it; zeros where nothing
   was. When room is short it doubles, and of what is there only the last `keep` stay. NULL on error: other
   sizes than before, or memory. */
static mmix_tensor *mmixi_carried_more(mmix_ctx *m, mmixi_carried *c, const char *what, size_t B, size_t more,
                                       size_t a, size_t b, size_t keep)
{
    const size_t have = c->shape[1], row = a * b;
    mmix_tensor *all;
    if (!mmixi_carried_check(m, c, what, B, a, b)) return NULL;
    if (have + more > c->room) {
        mmixi_carried to;
        const size_t kept = mmixi_min(have, keep);
        memset(&to, 0, sizeof to);
        to.shape[0] = B; to.shape[1] = kept; to.shape[2] = a; to.shape[3] = b;
        to.room = mmixi_max(2 * kept, kept + more);
        to.p = (mmix_real *)mmixi_alloc(m, B * to.room * row * sizeof *to.p);
        if (!to.p) return NULL;
        memset(to.p, 0, B * to.room * row * sizeof *to.p);
        for (size_t i = 0; i < B && kept; i++)
            memcpy(to.p + i * to.room * row, c->p + (i * c->room + have - kept) * row,
                   kept * row * sizeof *to.p);
        mmixi_free(m, c->p, mmixi_carried_bytes(c));
        *c = to;
    }
    c->shape[1] += more;
    all = mmixi_carried_view(m, c);
    if (!all) c->shape[1] -= more;
    return all;
}
/* The same for an array that does not grow: (B, n, a, b), zeros at first. */
static mmix_tensor *mmixi_carried_fixed(mmix_ctx *m, mmixi_carried *c, const char *what, size_t B, size_t n,
                                        size_t a, size_t b)
{
    if (c->p && c->shape[1] != n) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_mix_step: %s of %.0f rows for a slot that carries %.0f", what,
                  (double)n, (double)c->shape[1]);
        return NULL;
    }
    return mmixi_carried_more(m, c, what, B, c->p ? 0 : n, a, b, 0);
}

static int mmixi_slot_check(mmix_ctx *m, const char *who, const mmix_state *s, size_t slot)
{
    if (s && s->m == m && slot < s->slots) return 1;
    return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: slot %.0f of a state with %.0f, which must be this "
                     "context's", who, (double)slot, s ? (double)s->slots : 0.0), 0;
}
static int mmixi_step_check(mmix_ctx *m, const mmix_mixer *x, const mmix_state *s, size_t slot)
{
    const char *who = "mmix_mix_step";
    if (!mmixi_mixer_check(m, who, x) || !mmixi_slot_check(m, who, s, slot)) return 0;
    if (x->seq_idx || x->window[0] || (x->initial_state && s->slot[slot].tokens))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %s", who, x->seq_idx || x->window[0]
                         ? "seq_idx and windows have no steps"
                         : "an initial state, but the slot carries one"), 0;
    if (x->kind == MMIX_SSD ? x->direction != MMIX_FORWARD
        : x->mask == MMIX_MASK_NONE || (x->mask == MMIX_MASK_BAND && x->right))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: the mixer lets tokens see later ones (mask %d, "
                         "direction %d)", who, x->mask, x->direction), 0;
    if (x->kind != MMIX_SSD && x->q->shape[1] != x->k->shape[1])
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %.0f queries and %.0f keys; the keys before are in the "
                         "state", who, (double)x->q->shape[1], (double)x->k->shape[1]), 0;
    if (x->mask == MMIX_MASK_PREFIX && !s->slot[slot].tokens && x->q->shape[1] < x->prefix)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: the first piece has %.0f tokens, less than the prefix "
                         "of %.0f", who, (double)x->q->shape[1], (double)x->prefix), 0;
    return 1;
}
MMIXDEF mmix_tensor *mmix_mix_step(mmix_ctx *m, const mmix_mixer *mixer, mmix_state *s, size_t slot)
{
    mmix_mixer x;
    mmixi_carried *c;
    mmix_tensor *y = NULL;
    int record;
    if (!mmixi_step_check(m, mixer, s, slot)) return NULL;
    x = *mixer;
    c = s->slot[slot].part;
    record = mmix_record(m, 0);
    if (x.kind == MMIX_SOFTMAX) {
        const size_t B = x.q->shape[0], L = x.q->shape[1], G = x.k->shape[2],
            keep = x.mask == MMIX_MASK_BAND ? x.left : SIZE_MAX;
        mmixi_carried_check(m, &c[1], "values", B, G, x.v->shape[3]);    /* before keys go, values fit, too */
        for (int i = 0; i < 2 && !m->error_kind; i++) {
            mmix_tensor *from = i ? mixer->v : mixer->k, *to,
                *all = mmixi_carried_more(m, &c[i], i ? "values" : "keys", B, L, G, from->shape[3], keep);
            if (i) x.v = all;
            else x.k = all;
            to = all ? mmix_slice(m, all, 1, all->shape[1] - L, L) : NULL;
            if (to) mmixi_put_all(m, from, mmix_data(from), to, mmix_data(to), 0);
        }
        if (!m->error_kind) y = mmixi_mix(m, &x, NULL);
        for (int i = 0; !y && i < 2; i++)        /* what came in goes out again */
            if (i ? x.v != mixer->v && x.v : x.k != mixer->k && x.k) c[i].shape[1] -= L;
    }
    else {
        const size_t sums = x.kind == MMIX_LINEAR && mmixi_normalises(&x);
        mmix_tensor *state = mmixi_carried_fixed(m, &c[MMIXI_CARRIED_STATE], "state", x.v->shape[0],
                                                 (x.kind == MMIX_SSD ? x.dt : x.k)->shape[2],
                                                 x.v->shape[3] + sums, x.k->shape[3]);
        x.initial_state = state;
        x.final_state = NULL;
        if (state && mixer->initial_state)
            mmixi_put_all(m, mixer->initial_state, mmix_data(mixer->initial_state), state, mmix_data(state),
                          0);
        if (state) y = mmixi_mix(m, &x, state);
        if (y && mixer->final_state) *mixer->final_state = mmixi_copied(m, state);
    }
    if (y) s->slot[slot].tokens += mmix_shape(y, 1);
    mmix_record(m, record);
    return y;
}

/* ---- visiting orders ---- */

MMIXDEF void mmix_scan_order(size_t layer, size_t T, size_t Y, size_t X, size_t separators, int32_t *perm,
                             int32_t *inverse)
{
    const int by_columns = layer % 2, time_inside = layer / 2 % 2;
    const size_t outer = by_columns ? X : Y, inner = by_columns ? Y : X, frame = Y * X + separators;
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < frame; i++) {
            const size_t y = i / X, x = i % X, cell = by_columns ? x * inner + y : y * inner + x;
            const size_t rank = !time_inside ? t * frame + (i < Y * X ? cell : i)
                : i < Y * X ? cell * T + t : outer * inner * T + t * separators + (i - Y * X);
            if (perm) perm[rank] = (int32_t)(t * frame + i);
            if (inverse) inverse[t * frame + i] = (int32_t)rank;
        }
}

#undef MMIXI_PART

/* ==== >>layers =======================================================================
   parameters in one slab; attention, Mamba-2, MLP
   ==================================================================================== */

MMIXDEF mmix_start mmix_start_from(int kind, double a, double b)
{
    mmix_start s;
    s.kind = kind;
    s.a = a;
    s.b = b;
    return s;
}

MMIXDEF mmix_params *mmix_params_create(mmix_ctx *m)
{
    mmix_params *p = !m || m->error_kind ? NULL : (mmix_params *)mmixi_alloc(m, sizeof *p);
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    p->m = m;
    return p;
}

/* The parameter's tensor and its gradient's lie together. */
typedef struct mmixi_slot { mmix_tensor value, gradient; } mmixi_slot;

MMIXDEF void mmix_params_destroy(mmix_params *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) {
        mmixi_free(p->m, p->at[i].tensor, sizeof(mmixi_slot));
        mmixi_free(p->m, (void *)(uintptr_t)p->at[i].name, strlen(p->at[i].name) + 1);
    }
    mmixi_free(p->m, p->at, p->capacity * sizeof *p->at);
    mmixi_free(p->m, p->values, p->slab * sizeof(mmix_real));
    mmixi_free(p->m, p->gradients, p->slab * sizeof(mmix_real));
    mmixi_free(p->m, p->packed, p->packed_reals * sizeof(mmix_real));
    mmixi_free(p->m, p, sizeof *p);
}

MMIXDEF mmix_tensor *mmix_params_find(const mmix_params *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (!strcmp(p->at[i].name, name)) return p->at[i].tensor;
    return NULL;
}

/* Bytes of a name with its 0; files may have a prefix before it. */
enum { MMIXI_PARAM_NAME = 224 };
MMIXDEF mmix_tensor *mmix_params_add(mmix_params *p, const char *prefix, const char *name, int ndim,
                                     const size_t *shape, mmix_start start)
{
    size_t length, bytes = 0;
    mmix_ctx *m = p->m;
    mmix_param *q;
    mmixi_slot *slot;
    char *full;
    void *at = p->at;
    if (m->error_kind) return NULL;
    length = prefix && name ? strlen(prefix) + strlen(name) + 1 : 0;
    if (!length || length > MMIXI_PARAM_NAME) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_params_add: expected a prefix and a name of together at most "
                  "%d bytes, found %s", MMIXI_PARAM_NAME - 1, length ? "more" : "NULL");
        return NULL;
    }
    if (p->values) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_params_add: %s%s comes after mmix_params_allocate", prefix,
                  name);
        return NULL;
    }
    if (mmixi_grow(m, &at, &p->capacity, p->count + 1, sizeof *p->at)) return NULL;
    p->at = (mmix_param *)at;
    full = (char *)mmixi_alloc(m, length);
    slot = (mmixi_slot *)mmixi_alloc(m, sizeof *slot);
    if (full) snprintf(full, length, "%s%s", prefix, name);
    if (slot) memset(slot, 0, sizeof *slot);
    if (full && mmix_params_find(p, full))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_params_add: %s is there already", full);
    if (full && slot && !m->error_kind)
        bytes = mmixi_describe(m, &slot->value, full, MMIX_DTYPE_REAL, ndim, shape);
    if (bytes > SIZE_MAX / 2 - p->slab * sizeof(mmix_real))
        mmix_fail(m, MMIX_ERROR_MEMORY, "mmix_params_add: with %s the parameters are too large", full);
    if (!bytes || m->error_kind) {
        mmixi_free(m, full, length);
        mmixi_free(m, slot, sizeof *slot);
        return NULL;
    }
    slot->value.lasting = 1;
    slot->gradient = slot->value;
    q = &p->at[p->count++];
    memset(q, 0, sizeof *q);
    q->name = full;
    q->tensor = &slot->value;
    q->decay = ndim > 1 && (length < 6 || strcmp(full + length - 6, ".bias"));
    q->start = start;
    p->elements += mmix_count(q->tensor);
    p->slab += mmixi_round_up(mmix_count(q->tensor), MMIXI_ALIGN / sizeof(mmix_real));
    return q->tensor;
}

static uint64_t mmixi_name_hash(const char *name)                /* FNV-1a */
{
    uint64_t h = 14695981039346656037u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h;
}
typedef struct mmixi_start_job { const mmix_ctx *m; const mmix_param *q; uint64_t stream; } mmixi_start_job;
enum { MMIXI_START_BLOCK = 16384 };
static void mmixi_start_task(void *arg, size_t index)
{
    const mmixi_start_job *j = (const mmixi_start_job *)arg;
    const mmix_param *q = j->q;
    const double a = q->start.a, b = q->start.b;
    mmix_real *x = mmix_data(q->tensor);
    const size_t end = mmixi_min((index + 1) * MMIXI_START_BLOCK, mmix_count(q->tensor));
    for (size_t i = index * MMIXI_START_BLOCK; i < end; i++) {
        double u = q->start.kind == MMIX_START_CONSTANT ? 0 : q->start.kind == MMIX_START_NORMAL
            ? mmix_random_normal(j->m, MMIXI_RANDOM_INIT, j->stream, i)
            : mmix_random_uniform(j->m, MMIXI_RANDOM_INIT, j->stream, i);
        if (q->start.kind == MMIX_START_CONSTANT) u = a;
        else if (q->start.kind == MMIX_START_LAST_TAP) u = i % mmixi_cols(q->tensor) + 1
            == mmixi_cols(q->tensor);
        else if (q->start.kind == MMIX_START_NORMAL) u *= a;
        else if (q->start.kind == MMIX_START_UNIFORM) u = a + (b - a) * u;
        else if (q->start.kind == MMIX_START_LOG_UNIFORM) u = mmixi_log(a + (b - a) * u);
        else {                                   /* softplus(y) = d for y = d + ln(1 - e^-d) */
            double d;
            if (q->start.kind == MMIX_START_SPREAD) u = ((double)i + 0.5) / (double)mmix_count(q->tensor);
            d = mmixi_exp(mmixi_log(a) + (mmixi_log(b) - mmixi_log(a)) * u);
            d = d < 1e-4 ? 1e-4 : d;
            u = d + mmixi_log(-(mmixi_exp(-d) - 1));
        }
        x[i] = (mmix_real)u;
    }
}
static void mmixi_start_values(mmix_ctx *m, const mmix_param *q)
{
    mmixi_start_job j;
    j.m = m;
    j.q = q;
    j.stream = mmixi_name_hash(q->name);
    mmix_parallel_for(m, (mmix_count(q->tensor) + MMIXI_START_BLOCK - 1) / MMIXI_START_BLOCK,
                      mmixi_start_task, &j);
}

/* start 0: zeros; a file's values will follow. */
static int mmixi_params_allocate(mmix_params *p, int start)
{
    size_t at = 0;
    if (!p || p->m->error_kind) return -1;
    if (p->values) return 0;
    p->values = (mmix_real *)mmixi_alloc(p->m, p->slab * sizeof(mmix_real));
    if (!p->values) return -1;
    memset(p->values, 0, p->slab * sizeof(mmix_real));
    for (size_t i = 0; i < p->count; i++) {
        p->at[i].tensor->data = p->values + at;
        if (start) mmixi_start_values(p->m, &p->at[i]);
        at += mmixi_round_up(mmix_count(p->at[i].tensor), MMIXI_ALIGN / sizeof(mmix_real));
    }
    return 0;
}
MMIXDEF int mmix_params_allocate(mmix_params *p) { return mmixi_params_allocate(p, 1); }

MMIXDEF int mmix_params_train(mmix_params *p, int train)
{
    if (!p || p->m->error_kind) return -1;
    if (train && !p->values)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_params_train: mmix_params_allocate comes first");
    if (train && !p->gradients) {
        p->gradients = (mmix_real *)mmixi_alloc(p->m, p->slab * sizeof(mmix_real));
        if (!p->gradients) return -1;
        memset(p->gradients, 0, p->slab * sizeof(mmix_real));
    }
    if (!train) {
        mmixi_free(p->m, p->gradients, p->slab * sizeof(mmix_real));
        p->gradients = NULL;
    }
    for (size_t i = 0; i < p->count; i++) {
        mmixi_slot *slot = (mmixi_slot *)(void *)p->at[i].tensor;
        slot->gradient.data = train ? p->gradients + ((mmix_real *)slot->value.data - p->values) : NULL;
        slot->value.grad = train ? &slot->gradient : NULL;
        slot->value.wants = train && !p->at[i].frozen;
        slot->value.written = 0;
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
/* A matrix (O, I) as a linear layer's product reads it: packed_count reals at `to`. */
static size_t mmixi_packed_count(const mmix_ctx *m, const mmix_tensor *t)
{
    return mmixi_gemm_packed(m->k, t->shape[1], t->shape[0]);
}
static void mmixi_pack(mmix_ctx *m, mmix_tensor *t, mmix_real *to)
{
    const mmixi_gemm g = mmixi_gemm_of(0, t->shape[0], t->shape[1], NULL, 0, 0, mmix_data(t), 1, t->stride[0],
                                       NULL, 0, 0);
    mmixi_gemm_pack(m, &g, to);
    t->packed = to;
    t->packed_nr = m->k->nr;
}
MMIXDEF int mmix_params_pack(mmix_params *p, int pack)
{
    mmix_ctx *m = p ? p->m : NULL;
    size_t reals = 0;
    if (!m || m->error_kind) return -1;
    if (pack && !p->values)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_params_pack: mmix_params_allocate comes first");
    mmixi_params_changed(p);
    for (size_t i = 0; pack && i < p->count; i++)
        if (p->at[i].tensor->ndim == 2) reals += mmixi_packed_count(m, p->at[i].tensor);
    if (reals != p->packed_reals) {
        mmixi_free(m, p->packed, p->packed_reals * sizeof(mmix_real));
        p->packed_reals = 0;
        p->packed = reals ? (mmix_real *)mmixi_alloc(m, reals * sizeof(mmix_real)) : NULL;
        if (reals && !p->packed) return -1;
        p->packed_reals = reals;
    }
    reals = 0;
    for (size_t i = 0; pack && i < p->count; i++) {
        if (p->at[i].tensor->ndim != 2) continue;
        mmixi_pack(m, p->at[i].tensor, p->packed + reals);
        reals += mmixi_packed_count(m, p->at[i].tensor);
    }
    return 0;
}
/* A matrix with its values packed: itself, or *copy, whose packed values lie in step memory. */
static mmix_tensor *mmixi_packed(mmix_ctx *m, mmix_tensor *t, mmix_tensor *copy)
{
    mmix_real *to;
    if (t->packed && t->packed_nr == m->k->nr) return t;
    to = mmixi_reals(m, mmixi_packed_count(m, t), 1);
    if (!to) return t;
    *copy = *t;
    mmixi_pack(m, copy, to);
    return copy;
}

/* Shorthands of the layers below: a parameter of one to four axes. */
static mmix_tensor *mmixi_param(mmix_params *p, const char *prefix, const char *name, mmix_start start,
                                int ndim, size_t a, size_t b, size_t c, size_t d)
{
    size_t shape[4];
    shape[0] = a; shape[1] = b; shape[2] = c; shape[3] = d;
    return mmix_params_add(p, prefix, name, ndim, shape, start);
}
static mmix_start mmixi_zeros(void) { return mmix_start_from(MMIX_START_CONSTANT, 0, 0); }
static mmix_start mmixi_ones(void) { return mmix_start_from(MMIX_START_CONSTANT, 1, 0); }
static mmix_start mmixi_normal(double deviation) { return mmix_start_from(MMIX_START_NORMAL, deviation, 0); }
/* PyTorch's default for linear layers and convolutions: uniform in ± 1/√fan_in (Kaiming, a = √5) */
static mmix_start mmixi_fan_in(size_t fan, double factor)
{
    double bound = factor / sqrt((double)fan);
    return mmix_start_from(MMIX_START_UNIFORM, -bound, bound);
}

/* A view of one token of each sequence: (B, D) of (B, L, D). */
static mmix_tensor *mmixi_token(mmix_ctx *m, mmix_tensor *x, size_t at)
{
    mmix_tensor *v = mmix_slice(m, x, 1, at, 1);
    if (!v) return NULL;
    v->ndim = 2;
    v->shape[1] = x->shape[2];
    v->stride[1] = 1;
    return v;
}
/* Features from … from + heads·width - 1 of (B, L, ·) as (B, L, heads, width): a view. */
static mmix_tensor *mmixi_split_heads(mmix_ctx *m, mmix_tensor *x, size_t from, size_t heads, size_t width)
{
    mmix_tensor *part = mmix_slice(m, x, 2, from, heads * width);
    size_t shape[4];
    if (!part) return NULL;
    shape[0] = x->shape[0]; shape[1] = x->shape[1]; shape[2] = heads; shape[3] = width;
    return mmix_reshape(m, part, 4, shape);
}
static mmix_tensor *mmixi_join_heads(mmix_ctx *m, mmix_tensor *x)
{
    size_t shape[3];
    if (!x) return NULL;
    shape[0] = x->shape[0]; shape[1] = x->shape[1]; shape[2] = x->shape[2] * x->shape[3];
    return mmix_reshape(m, x, 3, shape);
}

/* ---- attention: y = proj(mix(qkv x)) ---- */

MMIXDEF int mmix_attention_init(mmix_attention_layer *layer, mmix_params *p, const char *prefix, size_t D,
                                size_t heads, int kind, int bias)
{
    memset(layer, 0, sizeof *layer);
    if (!heads || D % heads)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT,
                         "mmix_attention_init: width %.0f is not divided by %.0f heads", (double)D,
                         (double)heads);
    if (kind != MMIX_SOFTMAX && kind != MMIX_LINEAR)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT,
                         "mmix_attention_init: kind %d, expected MMIX_SOFTMAX or MMIX_LINEAR", kind);
    layer->heads = heads;
    layer->options.kind = kind;
    layer->qkv_weight = mmixi_param(p, prefix, "qkv.weight", mmixi_normal(0.02), 2, 3 * D, D, 0, 0);
    if (bias) layer->qkv_bias = mmixi_param(p, prefix, "qkv.bias", mmixi_zeros(), 1, 3 * D, 0, 0, 0);
    layer->proj_weight = mmixi_param(p, prefix, "proj.weight", mmixi_normal(0.02), 2, D, D, 0, 0);
    if (bias) layer->proj_bias = mmixi_param(p, prefix, "proj.bias", mmixi_zeros(), 1, D, 0, 0, 0);
    return p->m->error_kind ? -1 : 0;
}
/* With `state` the tokens go on from what its slot carries. */
static mmix_tensor *mmixi_attention(mmix_ctx *m, const char *who, const mmix_attention_layer *layer,
                                    mmix_tensor *x, mmix_tensor *residual, mmix_tensor *s, mmix_state *state,
                                    size_t slot)
{
    mmix_mixer mixer = layer->options;
    const size_t D = mmix_shape(x, -1), L = mmix_shape(x, 1), first = state ? mmix_state_tokens(state, slot)
        : 0;
    mmix_tensor *qkv;
    if (!mmixi_check(m, who, "x", x, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0)) return NULL;
    qkv = mmix_linear(m, x, layer->qkv_weight, layer->qkv_bias);
    if (!qkv) return NULL;
    mixer.q = mmixi_split_heads(m, qkv, 0, layer->heads, D / layer->heads);
    mixer.k = mmixi_split_heads(m, qkv, D, layer->heads, D / layer->heads);
    mixer.v = mmixi_split_heads(m, qkv, 2 * D, layer->heads, D / layer->heads);
    if (layer->rope.theta > 0) {
        mmix_tensor *pos = mmix_new(m, MMIX_DTYPE_I32, 1, &L);
        for (size_t t = 0; pos && t < L; t++) mmix_data_i32(pos)[t] = (int32_t)(first + t);
        mixer.q = mmix_rope(m, mixer.q, pos, &layer->rope);
        mixer.k = mmix_rope(m, mixer.k, pos, &layer->rope);
    }
    x = state ? mmix_mix_step(m, &mixer, state, slot) : mmix_mix(m, &mixer);
    return mmix_linear_add(m, mmixi_join_heads(m, x), layer->proj_weight, layer->proj_bias, residual, s);
}
MMIXDEF mmix_tensor *mmix_attention(mmix_ctx *m, const mmix_attention_layer *layer, mmix_tensor *x,
                                    mmix_tensor *residual, mmix_tensor *s)
{
    return mmixi_attention(m, "mmix_attention", layer, x, residual, s, NULL, 0);
}
MMIXDEF mmix_tensor *mmix_attention_step(mmix_ctx *m, const mmix_attention_layer *layer, mmix_tensor *x,
                                         mmix_state *state, size_t slot)
{
    mmix_tensor *y;
    int record;
    if (!state) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_attention_step: state is NULL");
        return NULL;
    }
    record = mmix_record(m, 0);
    y = mmixi_attention(m, "mmix_attention_step", layer, x, NULL, NULL, state, slot);
    mmix_record(m, record);
    return y;
}

/* ---- MLP ---- */

MMIXDEF int mmix_mlp_init(mmix_mlp_layer *layer, mmix_params *p, const char *prefix, size_t D, size_t F,
                          size_t O)
{
    layer->fc1_weight = mmixi_param(p, prefix, "fc1.weight", mmixi_normal(0.02), 2, F, D, 0, 0);
    layer->fc1_bias = mmixi_param(p, prefix, "fc1.bias", mmixi_zeros(), 1, F, 0, 0, 0);
    layer->fc2_weight = mmixi_param(p, prefix, "fc2.weight", mmixi_normal(0.02), 2, O, F, 0, 0);
    layer->fc2_bias = mmixi_param(p, prefix, "fc2.bias", mmixi_zeros(), 1, O, 0, 0, 0);
    return p->m->error_kind ? -1 : 0;
}
MMIXDEF mmix_tensor *mmix_mlp(mmix_ctx *m, const mmix_mlp_layer *layer, mmix_tensor *x, mmix_tensor *residual,
                              mmix_tensor *s)
{
    /* the backward of gelu needs what went in; and who has another linear layer may not know of gelu */
    if (!m->recording && m->table[MMIX_OP_LINEAR].forward == mmixi_linear_forward)
        x = mmixi_linear(m, x, layer->fc1_weight, layer->fc1_bias, NULL, NULL, 1);
    else x = mmix_gelu(m, mmix_linear(m, x, layer->fc1_weight, layer->fc1_bias));
    return mmix_linear_add(m, x, layer->fc2_weight, layer->fc2_bias, residual, s);
}

/* ---- SwiGLU, LoRA ---- */

MMIXDEF int mmix_swiglu_init(mmix_swiglu_layer *layer, mmix_params *p, const char *prefix, size_t D, size_t F)
{
    memset(layer, 0, sizeof *layer);
    layer->gate = mmixi_param(p, prefix, "gate_proj.weight", mmixi_normal(0.02), 2, F, D, 0, 0);
    layer->up = mmixi_param(p, prefix, "up_proj.weight", mmixi_normal(0.02), 2, F, D, 0, 0);
    layer->down = mmixi_param(p, prefix, "down_proj.weight", mmixi_normal(0.02), 2, D, F, 0, 0);
    return p->m->error_kind ? -1 : 0;
}
/* residual + s · (x weightᵀ + bias + alpha/r (x Aᵀ) Bᵀ), as in mmix_linear_add. */
static mmix_tensor *mmixi_adapted(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                  const mmix_lora *lora, mmix_tensor *residual, mmix_tensor *s)
{
    mmix_tensor *low;
    residual = mmix_linear_add(m, x, weight, bias, residual, s);
    if (!lora->A) return residual;
    low = mmix_scale(m, mmix_linear(m, x, lora->A, NULL), lora->alpha / (double)lora->A->shape[0], 0);
    return mmix_linear_add(m, low, lora->B, NULL, residual, s);
}
static mmix_tensor *mmixi_swiglu(mmix_ctx *m, const mmix_swiglu_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s)
{
    mmix_tensor *gate = mmix_silu(m, mmixi_adapted(m, x, layer->gate, NULL, &layer->lora[0], NULL, NULL)),
        *up = mmixi_adapted(m, x, layer->up, NULL, &layer->lora[1], NULL, NULL);
    return mmixi_adapted(m, mmix_mul(m, gate, up), layer->down, NULL, &layer->lora[2], residual, s);
}
#ifdef MMIX_REGRESSION
enum { MMIXI_SWIGLU_ROWS = 3 };
#else
enum { MMIXI_SWIGLU_ROWS = 1024 };               /* of tokens; for any number of threads: equal bits */
#endif
/* For inference on many tokens: some at a time, so that the wide rows between stay in the caches. */
static mmix_tensor *mmixi_swiglu_by_parts(mmix_ctx *m, mmix_swiglu_layer layer, mmix_tensor *x,
                                          mmix_tensor *residual)
{
    const size_t n = MMIXI_SWIGLU_ROWS, L = mmix_shape(x, 1), D = mmix_shape(layer.down, 0);
    mmix_tensor *y = mmix_new3(m, mmix_shape(x, 0), L, D), packed[3];
    layer.gate = mmixi_packed(m, layer.gate, &packed[0]);
    layer.up = mmixi_packed(m, layer.up, &packed[1]);
    layer.down = mmixi_packed(m, layer.down, &packed[2]);
    for (size_t i = 0; y && i < y->shape[0] * L && !m->error_kind; i += mmixi_min(n, L - i % L)) {
        const mmix_mark mark = mmix_mark_here(m);
        const size_t b = i / L, from = i % L, rows = mmixi_min(n, L - from);
        mmix_tensor *in[2], *part;
        in[0] = mmix_slice(m, mmix_slice(m, x, 0, b, 1), 1, from, rows);
        in[1] = residual ? mmix_slice(m, mmix_slice(m, residual, 0, b, 1), 1, from, rows) : NULL;
        part = mmixi_swiglu(m, &layer, in[0], in[1], NULL);
        if (part) memcpy(mmix_data(y) + i * D, mmix_data(part), mmixi_bytes(part));
        mmix_rewind(m, mark);
    }
    return y;
}
MMIXDEF mmix_tensor *mmix_swiglu(mmix_ctx *m, const mmix_swiglu_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s)
{
    /* who trains, or has another linear layer, gets all tokens at once */
    return !m->recording && !s && mmix_ndim(x) == 3 && mmix_shape(x, 1) > MMIXI_SWIGLU_ROWS
        && m->table[MMIX_OP_LINEAR].forward == mmixi_linear_forward
        ? mmixi_swiglu_by_parts(m, *layer, x, residual) : mmixi_swiglu(m, layer, x, residual, s);
}
MMIXDEF mmix_tensor *mmix_lora_linear(mmix_ctx *m, mmix_tensor *x, mmix_tensor *weight, mmix_tensor *bias,
                                      mmix_tensor *A, mmix_tensor *B, double alpha)
{
    mmix_lora lora;
    lora.A = A;
    lora.B = B;
    lora.alpha = alpha;
    return mmixi_adapted(m, x, weight, bias, &lora, NULL, NULL);
}

/* ---- Mamba-2: in_proj → [z | x B C | dt]; convolution + SiLU over x B C; SSD with A = -e^A_log; gated norm;
   out_proj ---- */

MMIXDEF int mmix_mamba2_init(mmix_mamba2_layer *layer, mmix_params *p, const char *prefix, size_t D,
                             const mmix_mamba2_options *options)
{
    static const char names[2][6][16] = {
        { "conv1d.weight", "conv1d.bias", "dt_bias", "A_log", "D", "norm.weight" },
        { "conv1d_b.weight", "conv1d_b.bias", "dt_b_bias", "A_log_b", "D_b", "norm_b.weight" }
    };
    mmix_mamba2_options o;
    size_t mixed;
    memset(layer, 0, sizeof *layer);
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    o.d_inner = o.d_inner ? o.d_inner : 2 * D;
    o.d_state = o.d_state ? o.d_state : 64;
    o.head_dim = o.head_dim ? o.head_dim : 64;
    o.groups = o.groups ? o.groups : 1;
    o.conv_width = o.conv_width ? o.conv_width : 4;
    o.eps = o.eps > 0 ? o.eps : 1e-5;
    o.out_scale = o.out_scale > 0 ? o.out_scale : 1;
    if (o.d_inner % o.head_dim || o.d_inner / o.head_dim % o.groups)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT,
                         "mmix_mamba2_init: inner width %.0f does not make heads of %.0f in %.0f groups",
                         (double)o.d_inner, (double)o.head_dim, (double)o.groups);
    layer->options = o;
    layer->heads = o.d_inner / o.head_dim;
    mixed = o.d_inner + 2 * o.groups * o.d_state;
    layer->in_proj = mmixi_param(p, prefix, "in_proj.weight", mmixi_fan_in(D, 1), 2,
                                 o.d_inner + mixed + layer->heads, D, 0, 0);
    for (int d = 0; d < 1 + (o.bidirectional != 0); d++) {
        layer->dir[d].conv_weight = mmixi_param(p, prefix, names[d][0], mmixi_fan_in(o.conv_width, 1), 3,
                                                mixed, 1, o.conv_width, 0);
        layer->dir[d].conv_bias = mmixi_param(p, prefix, names[d][1], mmixi_fan_in(o.conv_width, 1), 1, mixed,
                                              0, 0, 0);
        layer->dir[d].dt_bias = mmixi_param(p, prefix, names[d][2],
                                            mmix_start_from(MMIX_START_STEP, 1e-3, 1e-1), 1, layer->heads, 0,
                                            0, 0);
        layer->dir[d].A_log = mmixi_param(p, prefix, names[d][3],
                                          mmix_start_from(MMIX_START_LOG_UNIFORM, 1, 16), 1, layer->heads, 0,
                                          0, 0);
        layer->dir[d].D = mmixi_param(p, prefix, names[d][4], mmixi_ones(), 1, layer->heads, 0, 0, 0);
        layer->dir[d].norm = mmixi_param(p, prefix, names[d][5], mmixi_ones(), 1, o.d_inner, 0, 0, 0);
    }
    layer->out_proj = mmixi_param(p, prefix, "out_proj.weight", mmixi_fan_in(o.d_inner, o.out_scale), 2, D,
                                  o.d_inner, 0, 0);
    return p->m->error_kind ? -1 : 0;
}

/* Without recording drops what came after the mark but t; returns t. */
static mmix_tensor *mmixi_keep_only(mmix_ctx *m, mmix_mark mark, mmix_tensor *t)
{
    return !t || m->recording || !mmix_rewind_keep(m, mark, &t, 1) ? t : NULL;
}
/* One direction, from the projection u to the gated norm. With `carried` the state of its slot in place of
   state->ssm. */
static mmix_tensor *mmixi_mamba2_direction(mmix_ctx *m, const mmix_mamba2_layer *layer, int d, mmix_tensor *u,
                                           mmix_tensor *seq_idx, mmix_mamba2_state *state,
                                           mmix_state *carried, size_t slot)
{
    const mmix_mamba2_options *o = &layer->options;
    size_t GN = o->groups * o->d_state, inner = o->d_inner;
    const mmix_mark mark = mmix_mark_here(m);
    mmix_conv1d_options conv;
    mmix_mixer ssd;
    mmix_tensor *xbc, *y;
    memset(&conv, 0, sizeof conv);
    conv.silu = 1;
    conv.reverse = d;
    conv.seq_idx = seq_idx;
    conv.initial_state = state ? state->conv : NULL;
    conv.final_state = state ? &state->conv : NULL;
    xbc = mmix_conv1d(m, mmix_slice(m, u, 2, inner, inner + 2 * GN), layer->dir[d].conv_weight,
                      layer->dir[d].conv_bias, &conv);
    if (!xbc) return NULL;
    ssd = mmix_mixer_ssd(mmixi_split_heads(m, xbc, 0, layer->heads, o->head_dim),
                         mmix_slice(m, u, 2, 2 * inner + 2 * GN, layer->heads),
                         mmix_scale(m, mmix_exp(m, layer->dir[d].A_log), -1, 0),
                         mmixi_split_heads(m, xbc, inner, o->groups, o->d_state),
                         mmixi_split_heads(m, xbc, inner + GN, o->groups, o->d_state));
    ssd.D = layer->dir[d].D;
    ssd.dt_bias = layer->dir[d].dt_bias;
    ssd.dt_softplus = 1;
    ssd.dt_low = o->dt_low;
    ssd.dt_high = o->dt_high;
    ssd.direction = d ? MMIX_REVERSE : MMIX_FORWARD;
    ssd.seq_idx = seq_idx;
    if (state && !carried) {
        ssd.initial_state = state->ssm;
        ssd.final_state = &state->ssm;
    }
    y = mmixi_join_heads(m, carried ? mmix_mix_step(m, &ssd, carried, slot) : mmix_mix(m, &ssd));
    y = mmix_gated_rms_norm(m, y, mmix_slice(m, u, 2, 0, inner), layer->dir[d].norm, o->eps, o->groups);
    return state ? y : mmixi_keep_only(m, mark, y);      /* the new state came after the mark */
}
MMIXDEF mmix_tensor *mmix_mamba2(mmix_ctx *m, const mmix_mamba2_layer *layer, mmix_tensor *x,
                                 mmix_tensor *residual, mmix_tensor *s, mmix_tensor *seq_idx,
                                 mmix_mamba2_state *state)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *u, *y;
    if (!mmixi_check(m, "mmix_mamba2", "x", x, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0))
        return NULL;
    if (state && layer->options.bidirectional) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_mamba2: a bidirectional layer has no state to carry over");
        return NULL;
    }
    u = mmix_linear(m, x, layer->in_proj, NULL);
    y = mmixi_mamba2_direction(m, layer, 0, u, seq_idx, state, NULL, 0);
    if (layer->options.bidirectional)
        y = mmixi_binary(m, "mmix_mamba2", MMIX_OP_ADD, y, mmixi_mamba2_direction(m, layer, 1, u, seq_idx,
                NULL, NULL, 0), 0.5, 0.5);
    if (!state) y = mmixi_keep_only(m, mark, y);
    return mmix_linear_add(m, y, layer->out_proj, NULL, residual, s);
}

MMIXDEF mmix_tensor *mmix_mamba2_step(mmix_ctx *m, const mmix_mamba2_layer *layer, mmix_tensor *x,
                                      mmix_state *state, size_t slot)
{
    const char *who = "mmix_mamba2_step";
    const mmix_mamba2_options *o = &layer->options;
    const size_t taps = o->conv_width - 1;
    mmix_mamba2_state now;
    mmix_tensor *conv = NULL, *y;
    int record;
    if (!mmixi_check(m, who, "x", x, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0)) return NULL;
    if (!mmixi_slot_check(m, who, state, slot)) return NULL;
    if (o->bidirectional) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: the layer has 2 directions, expected 1", who);
        return NULL;
    }
    record = mmix_record(m, 0);
    if (taps)
        conv = mmixi_carried_fixed(m, &state->slot[slot].part[MMIXI_CARRIED_CONV], "convolution inputs",
                                   x->shape[0], o->d_inner + 2 * o->groups * o->d_state, taps, 1);
    now.conv = NULL;
    if (conv) {
        conv->ndim = 3;                          /* (B, D, W-1) */
        now.conv = conv;
    }
    now.ssm = NULL;
    y = mmixi_mamba2_direction(m, layer, 0, mmix_linear(m, x, layer->in_proj, NULL), NULL, &now, state, slot);
    y = mmix_linear_add(m, y, layer->out_proj, NULL, NULL, NULL);
    if (y && conv) mmixi_put_all(m, now.conv, mmix_data(now.conv), conv, mmix_data(conv), 0);
    mmix_record(m, record);
    return y;
}

MMIXDEF mmix_tensor *mmix_drop_path(mmix_ctx *m, size_t B, double rate, uint64_t step, uint64_t stream)
{
    mmix_tensor *s = rate > 0 && !m->error_kind ? mmix_new1(m, B) : NULL;
    for (size_t b = 0; s && b < B; b++)
        mmix_data(s)[b] = mmix_random_uniform(m, MMIXI_RANDOM_DROP_PATH, step, stream << 32 | b) < rate ? 0
            : (mmix_real)(1 / (1 - rate));
    return s;
}

/* ==== >>losses =======================================================================
   cross-entropy, DINO's loss and head

   Both losses are means of -Σ q log softmax(x): for cross-entropy q is one class or given, for DINO the
   teacher's distribution. With p = softmax(x) and Σ q = n the gradient of a row is n p - q. Kept: the maximum
   and 1/Σ e^(x - max) of each row.
   ==================================================================================== */

typedef struct mmixi_loss_job {
    mmix_ctx *m;
    size_t rows, K, step;
    const mmix_real *x;
    mmix_real *top, *over, *dx;
    double *loss;                                /* (rows) */
    int add;
    const int32_t *target;                       /* cross-entropy; NULL: t (rows, K) holds distributions */
    int32_t ignore;
    double scale;                                /* of the gradient */
    const mmix_real *t, *center;                 /* DINO: the teacher's rows (2B, K) */
    mmix_real *q;                                /* their distributions */
    double *entropy;
    size_t B;
    double student_temp, teacher_temp;
} mmixi_loss_job;

static void mmixi_xent_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_loss_job *j = (const mmixi_loss_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    mmix_real *e = j->q + lane * j->K;
    for (size_t r = begin; r < end; r++) {
        const mmix_real *x = j->x + r * j->step;
        mmix_real sum;
        j->loss[r] = 0;
        if (j->target && j->target[r] == j->ignore) continue;
        j->top[r] = k->largest(j->K, x);
        sum = k->exp_row(j->K, 1, x, j->top[r], e);
        j->over[r] = 1 / sum;
        j->loss[r] = mmixi_log((double)sum) + (double)j->top[r];
        if (j->target) j->loss[r] -= (double)x[j->target[r]];
        else {
            const mmix_real *t = j->t + r * j->K;
            j->loss[r] = j->loss[r] * (double)k->sum(j->K, t) - (double)k->dot(j->K, t, x);
        }
    }
}
static void mmixi_xent_rows_backward(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_loss_job *j = (const mmixi_loss_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    mmix_real *e = j->q + lane * j->K;
    for (size_t r = begin; r < end; r++) {
        mmix_real *dx = j->dx + r * j->step, n = 1;
        const mmix_real *t = j->target ? NULL : j->t + r * j->K;
        if (j->target && j->target[r] == j->ignore) {
            if (!j->add) memset(dx, 0, j->K * sizeof *dx);
            continue;
        }
        k->exp_row(j->K, 1, j->x + r * j->step, j->top[r], e);
        if (t) n = k->sum(j->K, t);
        else e[j->target[r]] -= 1 / j->over[r];
        if (j->add) k->axpy(j->K, n * (mmix_real)j->scale * j->over[r], e, dx);
        else k->scale(j->K, n * (mmix_real)j->scale * j->over[r], e, dx);
        if (t) k->axpy(j->K, -(mmix_real)j->scale, t, dx);
    }
}
typedef struct mmixi_xent_options { int32_t ignore; size_t left; } mmixi_xent_options;
static int mmixi_xent_fill(mmix_ctx *m, mmix_call *call, mmixi_loss_job *j)
{
    const mmixi_xent_options *o = (const mmixi_xent_options *)call->options;
    memset(j, 0, sizeof *j);
    j->m = m;
    j->rows = mmixi_rows(call->in[0]);
    j->K = mmixi_cols(call->in[0]);
    j->step = mmixi_row_step(call->in[0]);
    j->x = mmix_data(call->in[0]);
    j->target = mmix_data_i32(call->in[1]);
    j->t = mmix_data(call->in[1]);
    j->ignore = o->ignore;
    j->top = call->saved[0];
    j->over = call->saved[1];
    j->q = (mmix_real *)mmixi_step(m, mmixi_lanes(m) * j->K * sizeof *j->q);
    return j->q ? 0 : -1;
}
static int mmixi_xent_forward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_xent_options *o = (const mmixi_xent_options *)call->options;
    mmixi_loss_job j;
    double sum = 0;
    size_t rows = mmixi_rows(call->in[0]);
    mmix_mark mark;
    if (!mmix_save(m, call, 0, rows) || !mmix_save(m, call, 1, rows)) return -1;
    mark = mmix_mark_here(m);
    if (mmixi_xent_fill(m, call, &j)) return -1;
    j.loss = (double *)mmixi_step(m, rows * sizeof *j.loss);
    if (!j.loss) return -1;
    mmixi_ranges(m, rows, mmixi_row_grain(j.K), mmixi_xent_rows, &j);
    for (size_t r = 0; r < rows; r++) sum += j.loss[r];
    *mmix_data(call->out[0]) = (mmix_real)(o->left ? sum / (double)o->left : 0);
    mmix_rewind(m, mark);
    return 0;
}
static int mmixi_xent_backward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_xent_options *o = (const mmixi_xent_options *)call->options;
    mmixi_loss_job j;
    if (mmixi_xent_fill(m, call, &j)) return -1;
    j.dx = mmix_grad_target(m, call->in[0], &j.add);
    if (!j.dx) return 0;
    j.scale = o->left ? (double)*mmixi_out_grad(call->out[0]) / (double)o->left : 0;
    mmixi_ranges(m, j.rows, mmixi_row_grain(j.K), mmixi_xent_rows_backward, &j);
    return 0;
}
MMIXDEF mmix_tensor *mmix_cross_entropy(mmix_ctx *m, mmix_tensor *logits, mmix_tensor *target,
                                        int32_t ignore_index)
{
    mmix_call call;
    mmixi_xent_options o;
    memset(&o, 0, sizeof o);
    if (!mmixi_check_real(m, "mmix_cross_entropy", "logits", logits)
        || !mmixi_check(m, "mmix_cross_entropy", "target", target, MMIX_DTYPE_I32, -1, MMIXI_ANY, 0, 0,
                        0)) return NULL;
    logits = mmixi_even(m, logits, 0);
    if (!logits) return NULL;
    if (mmix_count(target) != mmixi_rows(logits) || !mmixi_contiguous(target)) {
        char a[96], b[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_cross_entropy: targets %s%s for logits %s",
                  mmixi_shape_text(target, a), mmixi_contiguous(target) ? "" : ", a view with gaps,",
                  mmixi_shape_text(logits, b));
        return NULL;
    }
    for (size_t r = 0; r < mmix_count(target); r++) {
        int32_t t = mmix_data_i32(target)[r];
        if (t == ignore_index) continue;
        o.left++;
        if (t < 0 || (size_t)t >= mmixi_cols(logits)) {
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_cross_entropy: target %.0f is class %d of %.0f",
                      (double)r, (int)t, (double)mmixi_cols(logits));
            return NULL;
        }
    }
    o.ignore = ignore_index;
    call = mmixi_call(logits, target, NULL);
    call.out[0] = mmixi_new(m, "mmix_cross_entropy", MMIX_DTYPE_REAL, 0, NULL);
    return mmixi_run(m, MMIX_OP_CROSS_ENTROPY, &call, &o, sizeof o);
}
MMIXDEF mmix_tensor *mmix_cross_entropy_soft(mmix_ctx *m, mmix_tensor *logits, mmix_tensor *target)
{
    const char *who = "mmix_cross_entropy_soft";
    mmix_call call;
    mmixi_xent_options o;
    memset(&o, 0, sizeof o);
    if (!mmixi_check_real(m, who, "logits", logits)
        || !mmixi_check(m, who, "target", target, MMIX_DTYPE_REAL, -1, mmix_shape(logits, -1), 0, 0, 0))
        return NULL;
    o.left = mmixi_rows(logits);
    if (!logits->ndim || mmixi_rows(target) != o.left) {
        char a[96], b[96];
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: targets %s for logits %s", who, mmixi_shape_text(target, a),
                  mmixi_shape_text(logits, b));
        return NULL;
    }
    call = mmixi_call(mmixi_even(m, logits, 0), mmixi_even(m, target, 1), NULL);
    if (!call.in[0] || !call.in[1]) return NULL;
    call.out[0] = mmixi_new(m, who, MMIX_DTYPE_REAL, 0, NULL);
    return mmixi_run(m, MMIX_OP_CROSS_ENTROPY, &call, &o, sizeof o);
}

/* ---- DINO: student row (v, b) meets the teacher's views i ≠ v of picture b ---- */

/* ---- distillation: a student s against its teacher t ----

   kd_hidden   mean over the layers of the mean of (s - t)², over the mean of t² if relative
   kd_token    T² times the mean of Σ_k p_k (ln p_k - ln q_k), p = softmax(t/T), q = softmax(s/T); the
               gradient of a row is T (q - p) over their number

   both over the positions whose mask is not 0. Kept of kd_hidden: the gradient's factor of each layer. */

typedef struct mmixi_kd_options { double T; int relative; } mmixi_kd_options;
typedef struct mmixi_kd_job {
    mmix_ctx *m;
    const mmix_tensor *s, *t;
    const int32_t *mask;                         /* (positions) or NULL: all */
    size_t K, positions;
    double T, scale;                             /* of the gradient of kd_token */
    const mmix_real *factor;                     /* of that of kd_hidden, (layers) */
    double *loss, *square;                       /* (rows), forward */
    mmix_real *ds, *row;                         /* backward; 2 K reals a thread */
    int add;
} mmixi_kd_job;

/* s_r - t_r into d. */
static void mmixi_kd_difference(const mmixi_kd_job *j, size_t r, mmix_real *d)
{
    memcpy(d, mmix_data(j->s) + mmixi_row_offset(j->s, r), j->K * sizeof *d);
    j->m->k->axpy(j->K, -1, mmix_data(j->t) + mmixi_row_offset(j->t, r), d);
}
static void mmixi_kd_hidden_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_kd_job *j = (const mmixi_kd_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    mmix_real *d = j->row + lane * 2 * j->K;
    for (size_t r = begin; r < end; r++) {
        const int out = j->mask && !j->mask[r % j->positions];
        if (!j->ds) j->loss[r] = j->square[r] = 0;
        if (out && j->ds && !j->add) memset(j->ds + mmixi_row_offset(j->s, r), 0, j->K * sizeof *d);
        if (out) continue;
        mmixi_kd_difference(j, r, d);
        if (!j->ds) {
            j->loss[r] = (double)k->variance(j->K, d, 0);
            j->square[r] = (double)k->variance(j->K, mmix_data(j->t) + mmixi_row_offset(j->t, r), 0);
            continue;
        }
        k->scale(j->K, j->factor[r / j->positions] * (mmix_real)j->scale, d, d);
        mmixi_put(k, j->K, d, j->ds + mmixi_row_offset(j->s, r), j->add);
    }
}
static void mmixi_kd_token_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_kd_job *j = (const mmixi_kd_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    const mmix_real over = (mmix_real)(1 / j->T);
    mmix_real *p = j->row + lane * 2 * j->K, *q = p + j->K;
    for (size_t r = begin; r < end; r++) {
        const mmix_real *s = mmix_data(j->s) + mmixi_row_offset(j->s, r),
            *t = mmix_data(j->t) + mmixi_row_offset(j->t, r);
        const int out = j->mask && !j->mask[r];
        mmix_real *ds = j->ds ? j->ds + mmixi_row_offset(j->s, r) : NULL, top_s, top_t, sum_s, sum_t;
        if (!ds) j->loss[r] = 0;
        if (out && ds && !j->add) memset(ds, 0, j->K * sizeof *ds);
        if (out) continue;
        top_s = k->largest(j->K, s) * over;
        top_t = k->largest(j->K, t) * over;
        sum_t = k->exp_row(j->K, over, t, top_t, p);
        sum_s = k->exp_row(j->K, over, s, top_s, q);
        if (ds) {                                /* q - p */
            k->scale(j->K, (mmix_real)j->scale / sum_s, q, q);
            k->axpy(j->K, -(mmix_real)j->scale / sum_t, p, q);
            mmixi_put(k, j->K, q, ds, j->add);
        }
        else {                                   /* ln p - ln q = (t - s)/T - ln Σ e^(t/T) + ln Σ e^(s/T) */
            mmixi_kd_difference(j, r, q);
            j->loss[r] = (double)top_s - (double)top_t + mmixi_log((double)sum_s / (double)sum_t)
                - (double)(k->dot(j->K, p, q) * over) / (double)sum_t;
        }
    }
}
/* Both ops, both ways: the rows' work, and what is made of their sums. */
static int mmixi_kd_run(mmix_ctx *m, mmix_call *call, int back, int token)
{
    const mmixi_kd_options *o = (const mmixi_kd_options *)call->options;
    const size_t rows = mmixi_rows(call->in[0]);
    mmixi_kd_job j;
    mmix_mark mark;
    size_t layers, n = 0;
    double loss = 0, up = back ? (double)*mmixi_out_grad(call->out[0]) : 0;
    memset(&j, 0, sizeof j);
    j.m = m;
    j.s = call->in[0];
    j.t = call->in[1];
    j.mask = mmix_data_i32(call->in[2]);
    j.K = mmixi_cols(j.s);
    layers = !token && j.s->ndim == 4 ? j.s->shape[0] : 1;
    j.positions = rows / layers;
    j.T = o->T;
    for (size_t i = 0; i < j.positions; i++) n += !j.mask || j.mask[i];
    if (!back && !mmix_save(m, call, 0, layers)) return -1;
    mark = mmix_mark_here(m);
    j.factor = call->saved[0];
    j.row = mmixi_reals(m, mmixi_lanes(m) * 2, j.K);
    if (back) {
        j.ds = mmix_grad_target(m, call->in[0], &j.add);
        j.scale = token ? up * o->T / (double)mmixi_max(n, 1) : up;
    }
    else {
        j.loss = mmixi_doubles(m, rows, 1);
        j.square = mmixi_doubles(m, rows, 1);
    }
    if (m->error_kind) return -1;
    if (!back || j.ds)
        mmixi_ranges(m, rows, mmixi_row_grain(j.K), token ? mmixi_kd_token_rows : mmixi_kd_hidden_rows, &j);
    if (back) return 0;
    for (size_t i = 0; i < layers; i++) {
        double sum = 0, square = 0, over;
        for (size_t r = i * j.positions; r < (i + 1) * j.positions; r++) {
            sum += j.loss[r];
            square += token ? 0 : j.square[r];
        }
        over = token ? o->T * o->T / (double)mmixi_max(n, 1)
            : 1 / (double)layers / (o->relative ? square > 0 ? square : 1 : (double)(mmixi_max(n, 1) * j.K));
        call->saved[0][i] = (mmix_real)(2 * over);
        loss += sum * over;
    }
    *mmix_data(call->out[0]) = (mmix_real)loss;
    mmix_rewind(m, mark);
    return 0;
}
static int mmixi_kd_hidden_forward(mmix_ctx *m, mmix_call *call) { return mmixi_kd_run(m, call, 0, 0); }
static int mmixi_kd_hidden_backward(mmix_ctx *m, mmix_call *call) { return mmixi_kd_run(m, call, 1, 0); }
static int mmixi_kd_token_forward(mmix_ctx *m, mmix_call *call) { return mmixi_kd_run(m, call, 0, 1); }
static int mmixi_kd_token_backward(mmix_ctx *m, mmix_call *call) { return mmixi_kd_run(m, call, 1, 1); }

static mmix_tensor *mmixi_kd(mmix_ctx *m, const char *who, int op, mmix_tensor *student, mmix_tensor *teacher,
                             mmix_tensor *mask, const mmixi_kd_options *o)
{
    mmix_call call = mmixi_call(student, teacher, mask);
    const int ndim = op == MMIX_OP_KD_HIDDEN && mmix_ndim(student) == 4 ? 4 : 3;
    size_t shape[4];
    for (int i = 0; i < 4; i++) shape[i] = mmix_shape(student, i);
    if (!mmixi_check(m, who, "student", student, MMIX_DTYPE_REAL, ndim, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY,
                     MMIXI_ANY)
        || !mmixi_check(m, who, "teacher", teacher, MMIX_DTYPE_REAL, ndim, shape[0], shape[1], shape[2],
                        shape[3])
        || !mmixi_optional(m, who, "mask", mask, MMIX_DTYPE_I32, 2, shape[ndim - 3], shape[ndim - 2], 0, 0))
        return NULL;
    if (!(o->T > 0)) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: temperature %g, expected a number above 0", who, o->T);
        return NULL;
    }
    call.in[2] = mask && !mmixi_contiguous(mask) ? mmixi_copied(m, mask) : mask;
    call.out[0] = mmix_new(m, MMIX_DTYPE_REAL, 0, NULL);
    return mmixi_run(m, op, &call, o, sizeof *o);
}
MMIXDEF mmix_tensor *mmix_kd_hidden(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_tensor *mask, int relative)
{
    mmixi_kd_options o;
    o.T = 1;
    o.relative = relative;
    return mmixi_kd(m, "mmix_kd_hidden", MMIX_OP_KD_HIDDEN, student, teacher, mask, &o);
}
MMIXDEF mmix_tensor *mmix_kd_token(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher, mmix_tensor *mask,
                                   double temperature)
{
    mmixi_kd_options o;
    o.T = temperature;
    o.relative = 0;
    return mmixi_kd(m, "mmix_kd_token", MMIX_OP_KD_TOKEN, student, teacher, mask, &o);
}

typedef struct mmixi_dino_options { size_t crops; double student_temp,
                                   teacher_temp; const mmix_real *center; double *entropy;
                                   } mmixi_dino_options;

static void mmixi_dino_teacher_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_loss_job *j = (const mmixi_loss_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    (void)lane;
    for (size_t r = begin; r < end; r++) {
        mmix_real *q = j->q + r * j->K, sum;
        const mmix_real *t = j->t + r * j->K;
        double entropy = 0;
        for (size_t i = 0; i < j->K; i++) q[i] = (t[i] - j->center[i]) / (mmix_real)j->teacher_temp;
        sum = k->exp_row(j->K, 1, q, k->largest(j->K, q), q);
        k->scale(j->K, 1 / sum, q, q);
        for (size_t i = 0; i < j->K; i++) entropy -= q[i] > 0 ? (double)q[i] * mmixi_log((double)q[i]) : 0;
        j->entropy[r] = entropy;
    }
}
/* The loss of one student row, or its gradient if dx is there. */
static void mmixi_dino_student_rows(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_loss_job *j = (const mmixi_loss_job *)arg;
    const struct mmixi_kernels *k = j->m->k;
    mmix_real *e = j->dx ? NULL : j->top + lane * j->K;          /* forward: a lane's row */
    for (size_t r = begin; r < end; r++) {
        const mmix_real *x = j->x + r * j->K, *q[2];
        mmix_real inv = (mmix_real)(1 / j->student_temp), top = k->largest(j->K, x) * inv, sum;
        size_t n = 0, v = r / j->B, b = r % j->B;
        for (size_t i = 0; i < 2; i++)
            if (i != v) q[n++] = j->q + (i * j->B + b) * j->K;
        if (!j->dx) {
            double loss = 0;
            sum = k->exp_row(j->K, inv, x, top, e);
            for (size_t i = 0; i < n; i++)
                loss += mmixi_log((double)sum) + (double)top - (double)k->dot(j->K, q[i], x) * (double)inv;
            j->loss[r] = loss;
        }
        else {
            mmix_real *dx = j->dx + r * j->K;
            mmix_real scale = (mmix_real)(j->scale / j->student_temp);
            mmix_real *to = j->add ? j->top + lane * j->K : dx;
            sum = k->exp_row(j->K, inv, x, top, to);
            k->scale(j->K, (mmix_real)n * scale / sum, to, to);
            for (size_t i = 0; i < n; i++) k->axpy(j->K, -scale, q[i], to);
            if (j->add) k->add(j->K, to, dx, dx);
        }
    }
}
static void mmixi_dino_fill(mmix_ctx *m, mmix_call *call, mmixi_loss_job *j)
{
    const mmixi_dino_options *o = (const mmixi_dino_options *)call->options;
    memset(j, 0, sizeof *j);
    j->m = m;
    j->rows = call->in[0]->shape[0];
    j->K = call->in[0]->shape[1];
    j->x = mmix_data(call->in[0]);
    j->t = mmix_data(call->in[1]);
    j->B = j->rows / o->crops;
    j->center = o->center;
    j->student_temp = o->student_temp;
    j->teacher_temp = o->teacher_temp;
    j->scale = 1 / ((double)(2 * o->crops - 2) * (double)j->B);
    j->q = call->saved[0];
}
static int mmixi_dino_forward(mmix_ctx *m, mmix_call *call)
{
    const mmixi_dino_options *o = (const mmixi_dino_options *)call->options;
    mmixi_loss_job j;
    mmix_mark mark;
    double sum = 0;
    if (!mmix_save(m, call, 0, mmix_count(call->in[1]))) return -1;
    mmixi_dino_fill(m, call, &j);
    mark = mmix_mark_here(m);
    j.loss = (double *)mmixi_step(m, j.rows * sizeof *j.loss);
    j.entropy = (double *)mmixi_step(m, 2 * j.B * sizeof *j.entropy);
    j.top = (mmix_real *)mmixi_step(m, mmixi_lanes(m) * j.K * sizeof *j.top);
    if (!j.loss || !j.entropy || !j.top) return -1;
    mmixi_ranges(m, 2 * j.B, mmixi_row_grain(j.K), mmixi_dino_teacher_rows, &j);
    mmixi_ranges(m, j.rows, mmixi_row_grain(j.K), mmixi_dino_student_rows, &j);
    for (size_t r = 0; r < j.rows; r++) sum += j.loss[r];
    *mmix_data(call->out[0]) = (mmix_real)(sum * j.scale);
    *o->entropy = 0;
    for (size_t r = 0; r < 2 * j.B; r++) *o->entropy += j.entropy[r] / (double)(2 * j.B);
    mmix_rewind(m, mark);
    return 0;
}
static int mmixi_dino_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_loss_job j;
    mmixi_dino_fill(m, call, &j);
    j.scale *= (double)*mmixi_out_grad(call->out[0]);
    j.dx = mmix_grad_target(m, call->in[0], &j.add);
    if (!j.dx) return 0;
    j.top = (mmix_real *)mmixi_step(m, mmixi_lanes(m) * j.K * sizeof *j.top);
    if (!j.top) return -1;
    mmixi_ranges(m, j.rows, mmixi_row_grain(j.K), mmixi_dino_student_rows, &j);
    return 0;
}
MMIXDEF mmix_tensor *mmix_dino_loss(mmix_ctx *m, mmix_tensor *student, mmix_tensor *teacher,
                                    mmix_real *center, size_t crops, double student_temp, double teacher_temp,
                                    double momentum, mmix_dino_loss_stats *stats)
{
    mmix_call call = mmixi_call(student, teacher, NULL);
    mmixi_dino_options o;
    double entropy = 0, norm = 0;
    size_t K = mmix_shape(student, 1), B = crops ? mmix_shape(student, 0) / crops : 0;
    mmix_tensor *loss;
    if (!mmixi_check(m, "mmix_dino_loss", "student", student, MMIX_DTYPE_REAL, 2, MMIXI_ANY, MMIXI_ANY, 0, 0))
        return NULL;
    if (crops < 2 || B * crops != student->shape[0] || !(student_temp > 0) || !(teacher_temp > 0)) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "mmix_dino_loss: %.0f student rows for %.0f crops (at least 2), temperatures %g and %g",
                  (double)student->shape[0], (double)crops, student_temp, teacher_temp);
        return NULL;
    }
    if (!mmixi_check(m, "mmix_dino_loss", "teacher", teacher, MMIX_DTYPE_REAL, 2, 2 * B, K, 0, 0))
        return NULL;
    if (!center) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_dino_loss: center is NULL");
        return NULL;
    }
    call.in[0] = mmixi_even(m, student, 1);
    call.in[1] = mmixi_even(m, teacher, 1);
    if (!call.in[0] || !call.in[1]) return NULL;
    memset(&o, 0, sizeof o);
    o.crops = crops;
    o.student_temp = student_temp;
    o.teacher_temp = teacher_temp;
    o.center = center;
    o.entropy = &entropy;
    call.out[0] = mmixi_new(m, "mmix_dino_loss", MMIX_DTYPE_REAL, 0, NULL);
    loss = mmixi_run(m, MMIX_OP_DINO_LOSS, &call, &o, sizeof o);
    if (!loss) return NULL;
    for (size_t k = 0; k < K; k++) {
        double mean = 0;
        for (size_t r = 0; r < 2 * B; r++) mean += (double)mmix_data(call.in[1])[r * K + k];
        center[k] = (mmix_real)(momentum * (double)center[k] + (1 - momentum) * mean / (double)(2 * B));
        norm += (double)center[k] * (double)center[k];
    }
    if (stats) {
        stats->teacher_entropy = entropy;
        stats->teacher_kl_uniform = mmixi_log((double)K) - entropy;
        stats->center_norm = sqrt(norm);
    }
    return loss;
}

/* ---- the head ---- */

MMIXDEF int mmix_dino_head_init(mmix_dino_head *head, mmix_params *p, const char *prefix, size_t D,
                                size_t hidden, size_t bottleneck, size_t K, size_t layers)
{
    char name[24];
    memset(head, 0, sizeof *head);
    if (layers < 1 || layers > 8)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT, "mmix_dino_head_init: %.0f layers, expected 1 to 8",
                         (double)layers);
    head->layers = layers;
    for (size_t i = 0; i < layers; i++) {
        size_t in = i ? hidden : D, out = i + 1 < layers ? hidden : bottleneck;
        if (layers == 1) snprintf(name, sizeof name, "mlp.weight");
        else snprintf(name, sizeof name, "mlp.%d.weight", 2 * (int)i);
        head->weight[i] = mmixi_param(p, prefix, name, mmixi_normal(0.02), 2, out, in, 0, 0);
        strcpy(strrchr(name, '.'), ".bias");
        head->bias[i] = mmixi_param(p, prefix, name, mmixi_zeros(), 1, out, 0, 0, 0);
    }
    head->weight_g = mmixi_param(p, prefix, "last_layer.weight_g", mmixi_ones(), 2, K, 1, 0, 0);
    head->weight_v = mmixi_param(p, prefix, "last_layer.weight_v", mmixi_fan_in(bottleneck, 1), 2, K,
                                 bottleneck, 0, 0);
    return p->m->error_kind ? -1 : 0;
}
MMIXDEF mmix_tensor *mmix_dino_head_forward(mmix_ctx *m, const mmix_dino_head *head, mmix_tensor *x)
{
    for (size_t i = 0; i < head->layers; i++) {
        if (i) x = mmix_gelu(m, x);
        x = mmix_linear(m, x, head->weight[i], head->bias[i]);
    }
    return mmix_linear(m, mmix_l2_normalise(m, x, 1e-12), mmix_weight_norm(m, head->weight_v, head->weight_g),
                       NULL);
}

/* ==== >>optimisers ===================================================================
   AdamW with clipping, the teacher's moving average, schedules

   Parameters lie in one slab, so both are loops over pieces of it; a piece never crosses two parameters, and
   the squares of a gradient are added piece after piece, in order.
   ==================================================================================== */

enum { MMIXI_PIECE = 16384 };

MMIXDEF mmix_adamw mmix_adamw_default(void)
{
    mmix_adamw o;
    o.lr = 1e-3;
    o.weight_decay = 0.01;
    o.beta1 = 0.9;
    o.beta2 = 0.999;
    o.eps = 1e-8;
    return o;
}
MMIXDEF int mmix_adamw_init(mmix_adamw_state *state, mmix_params *p)
{
    mmix_ctx *m = p->m;
    memset(state, 0, sizeof *state);
    if (m->error_kind || mmix_params_train(p, 1)) return -1;
    state->params = p;
    state->m = (mmix_real *)mmixi_alloc(m, p->slab * sizeof *state->m);
    state->v = (mmix_real *)mmixi_alloc(m, p->slab * sizeof *state->v);
    state->steps = (uint64_t *)mmixi_alloc(m, p->count * sizeof *state->steps);
    if (!state->m || !state->v || !state->steps) {
        mmix_adamw_free(state);
        return -1;
    }
    memset(state->m, 0, p->slab * sizeof *state->m);
    memset(state->v, 0, p->slab * sizeof *state->v);
    memset(state->steps, 0, p->count * sizeof *state->steps);
    return 0;
}
MMIXDEF void mmix_adamw_free(mmix_adamw_state *state)
{
    mmix_params *p = state->params;
    if (!p) return;
    mmixi_free(p->m, state->m, p->slab * sizeof *state->m);
    mmixi_free(p->m, state->v, p->slab * sizeof *state->v);
    mmixi_free(p->m, state->steps, p->count * sizeof *state->steps);
    memset(state, 0, sizeof *state);
}

typedef struct mmixi_piece { size_t param, at, n; } mmixi_piece;          /* at: in the slab */
typedef struct mmixi_adamw_job {
    mmix_adamw_state *state;
    const mmix_adamw *o;
    mmixi_piece *piece;
    size_t pieces;
    double *square;                              /* of each piece, then of each parameter */
    double *clip;                                /* the factor of each parameter; < 0: left out */
} mmixi_adamw_job;

static void mmixi_adamw_square(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_adamw_job *j = (const mmixi_adamw_job *)arg;
    const mmix_params *p = j->state->params;
    (void)lane;
    for (size_t i = begin; i < end; i++) {
        const mmixi_piece *c = &j->piece[i];
        int counts = !p->at[c->param].frozen && p->at[c->param].tensor->written;
        j->square[i] = counts ? (double)p->m->k->variance(c->n, p->gradients + c->at, 0) : 0;
    }
}
static void mmixi_adamw_update(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_adamw_job *j = (const mmixi_adamw_job *)arg;
    const mmix_params *p = j->state->params;
    const mmix_adamw *o = j->o;
    (void)lane;
    for (size_t i = begin; i < end; i++) {
        const mmixi_piece *c = &j->piece[i];
        double t = (double)j->state->steps[c->param], decay = p->at[c->param].decay ? o->weight_decay : 0;
        if (j->clip[c->param] < 0) continue;
        p->m->k->adamw(c->n, p->values + c->at, p->gradients + c->at, j->state->m + c->at,
                       j->state->v + c->at, (mmix_real)j->clip[c->param], (mmix_real)(1 - o->lr * decay),
                       (mmix_real)(o->lr / (1 - mmixi_exp(t * mmixi_log(o->beta1)))), (mmix_real)o->beta1,
                       (mmix_real)o->beta2, (mmix_real)(1 / sqrt(1 - mmixi_exp(t * mmixi_log(o->beta2)))),
                       (mmix_real)o->eps);
    }
}
/* What a step does with each parameter, in step memory; nothing changes yet. ‖gradients‖², or -1. */
static double mmixi_adamw_begin(mmixi_adamw_job *j, mmix_adamw_state *state, const mmix_adamw *options,
                                double clip, const unsigned char *skip)
{
    mmix_params *p = state->params;
    mmix_ctx *m = p->m;
    const size_t pieces = p->count + p->slab / MMIXI_PIECE;
    double all = 0;
    j->state = state;
    j->o = options;
    j->pieces = 0;
    j->piece = (mmixi_piece *)mmixi_step(m, pieces * sizeof *j->piece);
    j->square = (double *)mmixi_step(m, pieces * sizeof *j->square);
    j->clip = (double *)mmixi_step(m, p->count * sizeof *j->clip);
    if (!j->piece || !j->square || !j->clip) return -1;
    for (size_t i = 0; i < p->count; i++) {
        size_t start = (size_t)(mmix_data(p->at[i].tensor) - p->values), count = mmix_count(p->at[i].tensor);
        int out = p->at[i].frozen || (skip && skip[i]) || !p->at[i].tensor->written;
        j->clip[i] = out ? -1 : 1;
        for (size_t at = 0; at < count; at += MMIXI_PIECE) {
            mmixi_piece *piece = &j->piece[j->pieces++];
            piece->param = i;
            piece->at = start + at;
            piece->n = mmixi_min(MMIXI_PIECE, count - at);
        }
    }
    mmixi_ranges(m, j->pieces, 1, mmixi_adamw_square, j);
    for (size_t i = 0; i < j->pieces;) {
        size_t param = j->piece[i].param;
        double square = 0, norm;
        for (; i < j->pieces && j->piece[i].param == param; i++) square += j->square[i];
        all += square;
        norm = sqrt(square);
        if (!(norm - norm == 0))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_adamw_step: the gradient of %s has the norm %g, "
                             "expected a finite one; nothing was changed", p->at[param].name, norm);
        if (clip > 0 && j->clip[param] > 0 && clip / (norm + 1e-6) < 1) j->clip[param] = clip / (norm + 1e-6);
    }
    return all;
}
static void mmixi_adamw_end(mmixi_adamw_job *j)
{
    mmix_params *p = j->state->params;
    for (size_t i = 0; i < p->count; i++) j->state->steps[i] += j->clip[i] >= 0;
    mmixi_ranges(p->m, j->pieces, 1, mmixi_adamw_update, j);
    mmixi_params_changed(p);
    mmix_params_zero_grad(p);
}
/* A step of n lists, 1 or 2, of all or of none; skip is of the last. What has no parameters is left out.
   ‖all gradients‖, or -1. */
static double mmixi_adamw_lists(mmix_ctx *m, mmix_adamw_state *state, int n, const mmix_adamw *options,
                                double clip, const unsigned char *skip)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmixi_adamw_job j[2];
    double square = 0;
    for (int i = 0; i < n && !m->error_kind; i++)
        if (state[i].params)
            square += mmixi_adamw_begin(&j[i], &state[i], options, clip, i + 1 == n ? skip : NULL);
    for (int i = 0; i < n && !m->error_kind; i++)
        if (state[i].params) mmixi_adamw_end(&j[i]);
    mmix_rewind(m, mark);
    return m->error_kind ? -1 : sqrt(square);
}
MMIXDEF double mmix_adamw_step(mmix_adamw_state *state, const mmix_adamw *options, double clip,
                               const unsigned char *skip)
{
    mmix_ctx *m = state->params ? state->params->m : NULL;
    const double norm = m ? mmixi_adamw_lists(m, state, 1, options, clip, skip) : 0;
    return norm < 0 ? 0 : norm;
}

typedef struct mmixi_ema_job { mmix_ctx *m; mmix_real momentum; const mmix_real *from; mmix_real *to;
                              } mmixi_ema_job;
static void mmixi_ema_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_ema_job *j = (const mmixi_ema_job *)arg;
    (void)lane;
    j->m->k->lerp(end - begin, j->momentum, j->from + begin, j->to + begin);
}
MMIXDEF int mmix_ema(mmix_params *teacher, const mmix_params *student, double momentum)
{
    mmixi_ema_job j;
    int same = teacher->count == student->count && teacher->slab == student->slab;
    if (!teacher->values || !student->values)
        return mmix_fail(teacher->m, MMIX_ERROR_ARGUMENT, "mmix_ema: mmix_params_allocate comes first");
    for (size_t i = 0; same && i < teacher->count; i++)
        same = !strcmp(teacher->at[i].name, student->at[i].name)
            && mmix_count(teacher->at[i].tensor) == mmix_count(student->at[i].tensor);
    if (!same)
        return mmix_fail(teacher->m, MMIX_ERROR_ARGUMENT,
                         "mmix_ema: teacher and student have different parameters");
    j.m = teacher->m;
    j.momentum = (mmix_real)momentum;
    j.from = student->values;
    j.to = teacher->values;
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
    return final + (base - final) * (1 + mmixi_cos(3.141592653589793 * (double)mmixi_min(step - warm,
            rest) / (double)rest)) / 2;
}
MMIXDEF double mmix_schedule_teacher_temp(double warm, double final, size_t warm_epochs, size_t epoch)
{
    return epoch < warm_epochs ? mmixi_line(warm, final, epoch, warm_epochs) : final;
}
MMIXDEF double mmix_schedule_poly(double base, double final, size_t steps, size_t warmup, double start_factor,
                                  double power, size_t step)
{
    double left;
    if (step < warmup) return base * mmixi_line(start_factor, 1, step, warmup);
    left = steps < warmup + 2 ? 0 : 1 - (double)(mmixi_min(step, steps - 1) - warmup) / (double)(steps
            - warmup - 1);
    return final + (base - final) * (left > 0 ? mmixi_exp(power * mmixi_log(left)) : 0);
}
MMIXDEF double mmix_schedule_multistep(double base, double gamma, const size_t *milestones, size_t n,
                                       size_t iters, size_t warmup, double start_factor, size_t step)
{
    double lr = step < warmup ? base * mmixi_line(start_factor, 1, step, warmup) : base;
    for (size_t i = 0; iters && i < n; i++) lr *= milestones[i] <= step / iters ? gamma : 1;
    return lr;
}

/* ==== >>backbones ====================================================================
   ViT, LinearViT, DinoVim, DinoMamba-Reg

   ViT:  x = [cls; patches] + positions;  x += attn(norm1 x), x += mlp(norm2 x);  tokens = norm(x)
   Vim:  residual += hidden, hidden = mixer(norm residual), bidirectional Mamba-2;  tokens = norm_f(residual +
   hidden)

   Names are those of the systems' checkpoints. Without recording each block's temporaries are dropped as it
   ends.
   ==================================================================================== */

typedef struct mmixi_vision_block {
    mmix_tensor *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;      /* Vim: norm1_weight alone */
    mmix_attention_layer attention;
    mmix_mlp_layer mlp;
    mmix_mamba2_layer mamba;
} mmixi_vision_block;

struct mmix_vision {
    mmix_ctx *m;
    mmix_vision_config config;
    mmix_params *params;
    mmix_tensor *cls, *cls_positions, *positions, *patch_weight, *patch_bias, *norm_weight, *norm_bias;
    mmixi_vision_block *block;
};

static mmix_vision_config mmixi_vision_base(int mixer, size_t dim, size_t depth, size_t heads, size_t patch)
{
    mmix_vision_config c;
    memset(&c, 0, sizeof c);
    c.mixer = mixer;
    c.dim = dim;
    c.depth = depth;
    c.heads = heads;
    c.mlp_ratio = 4;
    c.patch = patch;
    c.grid = patch ? 224 / patch : 0;
    c.eps = mixer == MMIX_SSD ? 1e-5 : 1e-6;
    c.drop_path = 0.1;
    c.class_token = mixer == MMIX_SSD ? MMIX_CLASS_RELEASED : MMIX_CLASS_FIRST;
    c.mamba.bidirectional = 1;
    return c;
}
MMIXDEF mmix_vision_config mmix_vit_tiny(size_t patch)
{
    return mmixi_vision_base(MMIX_SOFTMAX, 192, 12, 3, patch);
}
MMIXDEF mmix_vision_config mmix_vit_small(size_t patch)
{
    return mmixi_vision_base(MMIX_SOFTMAX, 384, 12, 6, patch);
}
MMIXDEF mmix_vision_config mmix_vit_base(size_t patch)
{
    return mmixi_vision_base(MMIX_SOFTMAX, 768, 12, 12, patch);
}
MMIXDEF mmix_vision_config mmix_linearvit_base(void)
{
    return mmixi_vision_base(MMIX_LINEAR, 768, 12, 12, 16);
}
MMIXDEF mmix_vision_config mmix_dinovim_tiny(void) { return mmixi_vision_base(MMIX_SSD, 256, 24, 0, 16); }
MMIXDEF mmix_vision_config mmix_dinovim_small(void) { return mmixi_vision_base(MMIX_SSD, 512, 24, 0, 16); }
MMIXDEF mmix_vision_config mmix_dinovim_base(void) { return mmixi_vision_base(MMIX_SSD, 768, 24, 0, 16); }
static mmix_vision_config mmixi_mambareg(size_t dim)
{
    mmix_vision_config c = mmixi_vision_base(MMIX_SSD, dim, 24, 0, 16);
    c.class_token = MMIX_CLASS_REGISTERS;
    c.registers = 12;
    c.grid = 7;
    return c;
}
MMIXDEF mmix_vision_config mmix_mambareg_tiny(void) { return mmixi_mambareg(256); }
MMIXDEF mmix_vision_config mmix_mambareg_small(void) { return mmixi_mambareg(512); }
MMIXDEF mmix_vision_config mmix_mambareg_base(void) { return mmixi_mambareg(768); }

/* start 0: without values, which mmixi_params_read makes when it has seen that the file has them. */
static int mmixi_vision_declare(mmix_vision *v, int start)
{
    const mmix_vision_config *c = &v->config;
    mmix_params *p = v->params;
    size_t D = c->dim, F = (size_t)((double)D * c->mlp_ratio), fan = 3 * c->patch * c->patch;
    int vim = c->mixer == MMIX_SSD;
    char prefix[48];
    size_t k = c->registers;
    v->cls = mmixi_param(p, "", "cls_token", mmixi_normal(0.02), 3, 1, mmixi_max(k, 1), D, 0);
    if (k) v->cls_positions = mmixi_param(p, "", "pos_embed_cls", mmixi_normal(0.02), 3, 1, k, D, 0);
    v->positions = mmixi_param(p, "", "pos_embed", mmixi_normal(0.02), 3, 1, (k ? 0 : 1) + c->grid * c->grid,
                               D, 0);
    v->patch_weight = mmixi_param(p, "", "patch_embed.proj.weight",
                                  vim ? mmixi_normal(1 / sqrt((double)fan)) : mmixi_fan_in(fan, 1), 4, D, 3,
                                  c->patch, c->patch);
    v->patch_bias = mmixi_param(p, "", "patch_embed.proj.bias", vim ? mmixi_zeros() : mmixi_fan_in(fan, 1), 1,
                                D, 0, 0, 0);
    for (size_t i = 0; i < c->depth; i++) {
        mmixi_vision_block *b = &v->block[i];
        if (vim) {
            mmix_mamba2_options o = c->mamba;
            o.out_scale = 1 / sqrt((double)c->depth);
            snprintf(prefix, sizeof prefix, "layers.%d.mixer.", (int)i);
            if (mmix_mamba2_init(&b->mamba, p, prefix, D, &o)) return -1;
            snprintf(prefix, sizeof prefix, "layers.%d.", (int)i);
            b->norm1_weight = mmixi_param(p, prefix, "norm.weight", mmixi_ones(), 1, D, 0, 0, 0);
            continue;
        }
        snprintf(prefix, sizeof prefix, "blocks.%d.", (int)i);
        b->norm1_weight = mmixi_param(p, prefix, "norm1.weight", mmixi_ones(), 1, D, 0, 0, 0);
        b->norm1_bias = mmixi_param(p, prefix, "norm1.bias", mmixi_zeros(), 1, D, 0, 0, 0);
        snprintf(prefix, sizeof prefix, "blocks.%d.attn.", (int)i);
        if (mmix_attention_init(&b->attention, p, prefix, D, c->heads, c->mixer, 1)) return -1;
        b->attention.options.normalise = c->normalise;
        snprintf(prefix, sizeof prefix, "blocks.%d.", (int)i);
        b->norm2_weight = mmixi_param(p, prefix, "norm2.weight", mmixi_ones(), 1, D, 0, 0, 0);
        b->norm2_bias = mmixi_param(p, prefix, "norm2.bias", mmixi_zeros(), 1, D, 0, 0, 0);
        snprintf(prefix, sizeof prefix, "blocks.%d.mlp.", (int)i);
        if (mmix_mlp_init(&b->mlp, p, prefix, D, F, D)) return -1;
    }
    v->norm_weight = mmixi_param(p, "", vim ? "norm_f.weight" : "norm.weight", mmixi_ones(), 1, D, 0, 0, 0);
    if (!vim) v->norm_bias = mmixi_param(p, "", "norm.bias", mmixi_zeros(), 1, D, 0, 0, 0);
    return start ? mmix_params_allocate(p) : p->m->error_kind ? -1 : 0;
}

static int mmixi_vision_config_check(mmix_ctx *m, const mmix_vision_config *c)
{
    static const char who[] = "mmix_vision_create";
    const int vim = c->mixer == MMIX_SSD;
    const mmixi_limit limit[] = {
        { "mixer", (double)c->mixer, MMIX_SOFTMAX, MMIX_SSD }, { "dim", (double)c->dim, 1, INT32_MAX },
        { "depth", (double)c->depth, 1, MMIXI_DEPTH_MAX }, { "patch", (double)c->patch, 1, 4096 },
        { "grid", (double)c->grid, 1, 16384 }, { "eps", c->eps, 0, 1 },
        { "drop_path", c->drop_path, 0, 0.99 },
        { "mlp_ratio · dim", vim ? 1 : c->mlp_ratio * (double)c->dim, 1, INT32_MAX },
        { "registers", (double)c->registers, 0, INT32_MAX },
        { "mamba.d_inner", (double)c->mamba.d_inner, 0, INT32_MAX },
        { "mamba.d_state", (double)c->mamba.d_state, 0, INT32_MAX },
        { "mamba.head_dim", (double)c->mamba.head_dim, 0, INT32_MAX },
        { "mamba.groups", (double)c->mamba.groups, 0, INT32_MAX },
        { "mamba.conv_width", (double)c->mamba.conv_width, 0, INT32_MAX }
    };
    if (mmixi_limits_check(m, who, limit, sizeof limit / sizeof *limit)) return -1;
    if (c->class_token < 0 || c->class_token > MMIX_CLASS_REGISTERS
        || vim == (c->class_token == MMIX_CLASS_FIRST))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: class_token is %d with mixer %d, expected "
                         "MMIX_CLASS_FIRST with attention, another with MMIX_SSD", who, c->class_token,
                         c->mixer);
    return 0;
}
static mmix_vision *mmixi_vision_create(mmix_ctx *m, mmix_vision_config config, int start)
{
    mmix_vision *v;
    if (mmix_error(m)) return NULL;
    if (mmixi_vision_config_check(m, &config)) {
        if (!start) m->error_kind = MMIX_ERROR_FILE;             /* what a file says of a backbone */
        return NULL;
    }
    v = (mmix_vision *)mmixi_alloc(m, sizeof *v);
    if (!v) return NULL;
    memset(v, 0, sizeof *v);
    v->m = m;
    v->config = config;
    v->config.mamba.bidirectional = 1;
    /* a step that is not limited; a file's config can't say infinity */
    if (config.mamba.dt_high > FLT_MAX) v->config.mamba.dt_high = FLT_MAX;
    if (config.class_token != MMIX_CLASS_REGISTERS) v->config.registers = 0;
    else if (!config.registers) v->config.registers = 12;
    v->params = mmix_params_create(m);
    v->block = (mmixi_vision_block *)mmixi_alloc(m, config.depth * sizeof *v->block);
    if (v->block) memset(v->block, 0, config.depth * sizeof *v->block);
    if (!v->params || !v->block || mmixi_vision_declare(v, start)) {
        mmix_vision_destroy(v);
        return NULL;
    }
    return v;
}
MMIXDEF mmix_vision *mmix_vision_create(mmix_ctx *m, mmix_vision_config config)
{
    return mmixi_vision_create(m, config, 1);
}
MMIXDEF void mmix_vision_destroy(mmix_vision *v)
{
    if (!v) return;
    mmix_params_destroy(v->params);
    mmixi_free(v->m, v->block, v->config.depth * sizeof *v->block);
    mmixi_free(v->m, v, sizeof *v);
}
MMIXDEF const mmix_vision_config *mmix_vision_config_of(const mmix_vision *v)
{
    return v ? &v->config : NULL;
}
MMIXDEF mmix_params *mmix_vision_params(mmix_vision *v) { return v ? v->params : NULL; }
MMIXDEF size_t mmix_vision_parameters(const mmix_vision *v) { return v ? v->params->elements : 0; }

/* Multiply-adds: the matrix products, and for the mixers L² D twice (softmax), N D L twice (linear), 2 N P a
   head, token and direction (SSD's recurrence) with its convolution. */
MMIXDEF double mmix_vision_flops(const mmix_vision *v, size_t h, size_t w)
{
    const mmix_vision_config *c = &v->config;
    double D = (double)c->dim, n = (double)(h / c->patch * (w / c->patch)),
        L = n + (c->class_token == MMIX_CLASS_RELEASED ? 2 : (double)mmixi_max(c->registers, 1)), block;
    if (c->mixer == MMIX_SSD) {
        const mmix_mamba2_options *o = &v->block[0].mamba.options;
        double inner = (double)o->d_inner, GN = (double)(o->groups * o->d_state),
            H = (double)v->block[0].mamba.heads;
        block = L * (D * (2 * inner + 2 * GN + H) + inner * D
                     + 2 * ((inner + 2 * GN) * (double)o->conv_width + 2 * inner * (double)o->d_state));
    }
    else {
        block = L * D * (4 * D + 2 * c->mlp_ratio * D);
        block += 2 * L * D * (c->mixer == MMIX_SOFTMAX ? L : D / (double)c->heads);
    }
    return 2 * (n * 3 * (double)(c->patch * c->patch) * D + (double)c->depth * block);
}

/* Patch tokens (B, gh gw, D) as planes, (B, D, gh, gw). */
static mmix_tensor *mmixi_vision_planes(mmix_ctx *m, mmix_tensor *patches, size_t gh, size_t gw)
{
    static const int to_planes[4] = { 0, 3, 1, 2 };
    size_t shape[4];
    shape[0] = mmix_shape(patches, 0); shape[1] = gh; shape[2] = gw; shape[3] = mmix_shape(patches, 2);
    return mmix_permute(m, mmix_reshape(m, patches, 4, shape), to_planes);
}
/* Positions of the patches for a gh x gw grid, (1, n, D). Stored ones are resized as DINO does, with scale
   factors (g + 0.1)/g0; only of a picture that is square in pixels, too, are they taken as they are. */
static mmix_tensor *mmixi_vision_positions(mmix_ctx *m, const mmix_vision *v, size_t gh, size_t gw,
                                           int square)
{
    static const int to_tokens[4] = { 0, 2, 3, 1 };
    size_t g = v->config.grid, shape[3];
    mmix_tensor *p = mmix_slice(m, v->positions, 1, v->config.registers ? 0 : 1, g * g);
    if (gh == g && gw == g && square) return p;
    p = mmixi_vision_planes(m, p, g, g);
    p = mmix_bicubic_resize(m, p, gh, gw, ((double)gh + 0.1) / (double)g, ((double)gw + 0.1) / (double)g);
    shape[0] = 1; shape[1] = gh * gw; shape[2] = v->config.dim;
    return mmix_reshape(m, mmix_permute(m, p, to_tokens), 3, shape);
}

MMIXDEF size_t mmix_vision_class_index(const mmix_vision_config *c, size_t n, size_t *at)
{
    const size_t k = c->registers ? c->registers : 12, S = n / (k + 1);
    if (c->class_token != MMIX_CLASS_REGISTERS) {
        if (at)
            *at = c->class_token == MMIX_CLASS_FIRST ? 0 : c->class_token == MMIX_CLASS_MIDDLE ? n / 2
                : (n + 1) / 2;
        return 1;
    }
    for (size_t i = 0; at && i < k; i++) at[i] = S + i * (S + 1);
    return k;
}
/* The tokens at `index` (count) of each sequence of x (B, L, D): (B, count, D). */
static mmix_tensor *mmixi_tokens_at(mmix_ctx *m, mmix_tensor *x, const size_t *index, size_t count)
{
    size_t B = mmix_shape(x, 0), L = mmix_shape(x, 1), shape[2];
    mmix_tensor *rows;
    shape[0] = B; shape[1] = count;
    rows = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    for (size_t i = 0; rows && i < B * count; i++)
        mmix_data_i32(rows)[i] = (int32_t)(i / count * L + index[i % count]);
    shape[0] = B * L; shape[1] = mmix_shape(x, 2);
    return mmix_gather(m, mmix_reshape(m, x, 2, shape), rows);
}
/* The mean of the class tokens: (B, D) of (B, L, D). */
static mmix_tensor *mmixi_vision_mean(mmix_ctx *m, mmix_tensor *x, const size_t *at, size_t count)
{
    if (count == 1) return mmixi_token(m, x, *at);
    return mmix_scale(m, mmix_sum_axis(m, mmixi_tokens_at(m, x, at, count), 1), 1 / (double)count, 0);
}

/* patches (B, n, D) with the registers between them. */
static mmix_tensor *mmixi_vision_registers(mmix_ctx *m, const mmix_vision *v, mmix_tensor *patches,
                                           const size_t *at)
{
    const size_t k = v->config.registers, n = mmix_shape(patches, 1);
    size_t *index = (size_t *)mmixi_step_array(m, n + k, 1, sizeof *index);
    mmix_tensor *parts[2];
    if (!index) return NULL;
    parts[0] = patches;
    parts[1] = mmix_add(m, mmix_add(m, v->cls, v->cls_positions),
                        m->error_kind ? NULL : mmix_fill(mmix_new3(m, mmix_shape(patches, 0), 1, 1), 0));
    for (size_t i = 0, r = 0; i < n + k; i++) {
        const int here = r < k && at[r] == i;
        index[i] = here ? n + r : i - r;
        r += (size_t)here;
    }
    return mmixi_tokens_at(m, mmix_concat(m, 1, parts, 2), index, n + k);
}
static mmix_tensor *mmixi_vision_embed(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image, size_t gh,
                                       size_t gw, const size_t *at)
{
    const mmix_vision_config *c = &v->config;
    mmix_tensor *x = mmix_add(m, mmix_patch_embed(m, image, v->patch_weight, v->patch_bias),
                              mmixi_vision_positions(m, v, gh, gw, image->shape[2] == image->shape[3])),
        *cls;
    if (c->registers) return mmixi_vision_registers(m, v, x, at);
    cls = mmix_add(m, v->cls, mmix_slice(m, v->positions, 1, 0, 1));
    if (c->class_token != MMIX_CLASS_RELEASED) return mmix_insert_token(m, x, cls, *at);
    return mmix_insert_token(m, mmix_insert_token(m, x, cls, 0), v->cls, *at);
}
/* The n patch tokens of x (B, L, D) in raster order, (B, n, D). `other` are the L - n others, rising. */
static mmix_tensor *mmixi_vision_patches(mmix_ctx *m, mmix_tensor *x, const size_t *other, size_t others)
{
    const size_t n = mmix_shape(x, 1) - others;
    size_t *patch;
    if (!x || other[others - 1] == others - 1) return mmix_slice(m, x, 1, others, n);    /* all in front */
    patch = (size_t *)mmixi_step_array(m, n, 1, sizeof *patch);
    for (size_t i = 0, r = 0; patch && i < n + others; i++)
        if (r < others && other[r] == i) r++;
        else patch[i - r] = i;
    return patch ? mmixi_tokens_at(m, x, patch, n) : NULL;
}
static mmix_tensor *mmixi_vision_norm(mmix_ctx *m, const mmix_vision *v, mmix_tensor *x)
{
    return v->norm_bias ? mmix_layer_norm(m, x, v->norm_weight, v->norm_bias, v->config.eps)
        : mmix_rms_norm(m, x, v->norm_weight, v->config.eps);
}
/* The features of one block for `intermediate`, (B, D): of hidden (B, L, D) the class token after the final
   norm, or the mean of the registers. */
static mmix_tensor *mmixi_vision_feature(mmix_ctx *m, const mmix_vision *v, mmix_tensor *hidden,
                                         const size_t *at, size_t count)
{
    return count == 1 ? mmixi_vision_norm(m, v, mmixi_token(m, hidden, *at))
        : mmixi_vision_mean(m, mmixi_vision_norm(m, v, hidden), at, count);
}
/* One block; s and s2 as in mmix_linear_add. *hidden, unless that is NULL, is what intermediate features are
   read from: the block's output, of Mamba the mixer's, without the residual. */
static mmix_tensor *mmixi_vision_step(mmix_ctx *m, const mmix_vision *v, const mmixi_vision_block *b,
                                      mmix_tensor *x, mmix_tensor *s, mmix_tensor *s2, mmix_tensor **hidden)
{
    const mmix_mark mark = mmix_mark_here(m);
    const double eps = v->config.eps;
    mmix_tensor *u;
    if (v->config.mixer == MMIX_SSD) {
        size_t shape[3];
        u = mmix_rms_norm(m, x, b->norm1_weight, eps);
        if (!hidden) return mmix_mamba2(m, &b->mamba, u, x, s, NULL, NULL);
        *hidden = mmix_mamba2(m, &b->mamba, u, NULL, NULL, NULL, NULL);
        shape[0] = mmix_shape(x, 0); shape[1] = shape[2] = 1;
        return mmix_add(m, x, s ? mmix_mul(m, *hidden, mmix_reshape(m, s, 3, shape)) : *hidden);
    }
    u = mmix_layer_norm(m, x, b->norm1_weight, b->norm1_bias, eps);
    x = mmixi_keep_only(m, mark, mmix_attention(m, &b->attention, u, x, s));
    u = mmix_layer_norm(m, x, b->norm2_weight, b->norm2_bias, eps);
    x = mmix_mlp(m, &b->mlp, u, x, s2);
    if (hidden) *hidden = x;
    return x;
}
typedef struct mmixi_vision_part { const mmix_vision *v; const mmixi_vision_block *b; } mmixi_vision_part;
static mmix_tensor *mmixi_vision_layer(mmix_ctx *m, const void *user, mmix_tensor **in)        /* x, s, s2 */
{
    const mmixi_vision_part *p = (const mmixi_vision_part *)user;
    return mmixi_vision_step(m, p->v, p->b, in[0], in[1], in[2], NULL);
}
/* The same for inference on many images, n at a time and in place: what lies between is small then. feature
   (B, D), or NULL. */
static void mmixi_vision_step_by_parts(mmix_ctx *m, const mmix_vision *v, mmixi_vision_block b,
                                       mmix_tensor *x, size_t n, mmix_tensor *feature, const size_t *at,
                                       size_t count)
{
    mmix_tensor packed[4], *hidden;
    if (v->config.mixer == MMIX_SSD) {
        b.mamba.in_proj = mmixi_packed(m, b.mamba.in_proj, &packed[0]);
        b.mamba.out_proj = mmixi_packed(m, b.mamba.out_proj, &packed[1]);
    }
    else {
        b.attention.qkv_weight = mmixi_packed(m, b.attention.qkv_weight, &packed[0]);
        b.attention.proj_weight = mmixi_packed(m, b.attention.proj_weight, &packed[1]);
        b.mlp.fc1_weight = mmixi_packed(m, b.mlp.fc1_weight, &packed[2]);
        b.mlp.fc2_weight = mmixi_packed(m, b.mlp.fc2_weight, &packed[3]);
    }
    for (size_t i = 0; i < x->shape[0] && !m->error_kind; i += n) {
        const mmix_mark mark = mmix_mark_here(m);
        mmix_tensor *part = mmix_slice(m, x, 0, i, mmixi_min(n, x->shape[0] - i)),
            *y = mmixi_vision_step(m, v, &b, part, NULL, NULL, feature ? &hidden : NULL);
        if (y) memcpy(mmix_data(part), mmix_data(y), mmixi_bytes(y));
        if (y && feature) {
            const mmix_tensor *f = mmixi_vision_feature(m, v, hidden, at, count);
            if (f) memcpy(mmix_data(feature) + i * f->shape[1], mmix_data(f), mmixi_bytes(f));
        }
        mmix_rewind(m, mark);
    }
}

/* Without recording drops all after the mark but x and list. 0, or -1. */
static int mmixi_vision_settle(mmix_ctx *m, mmix_mark mark, mmix_tensor **x, mmix_tensor **list)
{
    mmix_tensor *keep[2];
    if (!*x) return -1;
    if (m->recording) return 0;
    keep[0] = *list ? *list : *x;                /* the older one lies lower */
    keep[1] = *x;
    if (mmix_rewind_keep(m, mark, keep, *list ? 2 : 1)) return -1;
    *x = keep[*list != NULL];
    if (*list) *list = keep[0];
    return 0;
}
#ifdef MMIX_REGRESSION
enum { MMIXI_VISION_ROWS = 16 };
#else
enum { MMIXI_VISION_ROWS = 192 };                        /* of tokens, for each thread */
#endif
MMIXDEF mmix_features mmix_vision_forward(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image,
                                          const mmix_vision_options *options)
{
    const mmix_vision_config *c = mmix_vision_config_of(v);
    mmix_vision_options o;
    mmix_features f;
    mmix_tensor *x, *list = NULL;
    mmix_mark mark;
    size_t B, n, depth, count, others, together, *other, *at;
    memset(&f, 0, sizeof f);
    memset(&o, 0, sizeof o);
    if (!v) return f;                            /* the context has the reason */
    depth = c->depth;
    count = mmix_vision_class_index(c, 0, NULL);         /* of `at`, the tokens read; among the others … */
    others = count + (c->class_token == MMIX_CLASS_RELEASED);    /* … DinoVim's first stands before them */
    if (options) o = *options;
    if (!mmixi_check(m, "mmix_vision_forward", "image", image, MMIX_DTYPE_REAL, 4, MMIXI_ANY, 3, MMIXI_ANY,
                     MMIXI_ANY)) return f;
    if (o.n_last > depth) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_vision_forward: the last %.0f blocks of %.0f",
                  (double)o.n_last, (double)depth);
        return f;
    }
    if (o.n_dense && !o.dense) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_vision_forward: dense is NULL, expected %.0f blocks",
                  (double)o.n_dense);
        return f;
    }
    for (size_t i = 0; i < o.n_dense; i++)
        if (o.dense[i] >= depth || (i && o.dense[i] <= o.dense[i - 1])) {
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_vision_forward: dense[%.0f] is %.0f, expected rising "
                      "numbers below %.0f", (double)i, (double)o.dense[i], (double)depth);
            return f;
        }
    B = image->shape[0];
    f.grid_h = image->shape[2] / c->patch;
    f.grid_w = image->shape[3] / c->patch;
    n = f.grid_h * f.grid_w;
    if (!n) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "mmix_vision_forward: pictures of %.0f x %.0f pixels are smaller than a patch of %.0f",
                  (double)image->shape[2], (double)image->shape[3], (double)c->patch);
        memset(&f, 0, sizeof f);
        return f;
    }
    other = (size_t *)mmixi_step_array(m, others, 1, sizeof *other);
    if (o.n_dense) f.dense = (mmix_tensor **)mmixi_step_array(m, o.n_dense, 1, sizeof *f.dense);
    for (size_t i = 0; f.dense && i < o.n_dense; i++)
        f.dense[i] = m->recording ? NULL : mmix_new4(m, B, c->dim, f.grid_h, f.grid_w);
    if (m->error_kind) {
        memset(&f, 0, sizeof f);
        return f;
    }
    *other = 0;
    at = other + (others - count);
    mmix_vision_class_index(c, n, at);
    mark = mmix_mark_here(m);
    x = mmixi_vision_embed(m, v, image, f.grid_h, f.grid_w, at);
    /* rows enough for the threads; who trains, or has another linear layer, gets all images at once */
    together = o.train || m->recording || m->table[MMIX_OP_LINEAR].forward != mmixi_linear_forward ? B
        : mmixi_ceil_div(MMIXI_VISION_ROWS * mmixi_lanes(m), n);
    for (size_t i = 0, dense = 0; !mmixi_vision_settle(m, mark, &x, &list) && i < depth; i++) {
        const mmixi_vision_block *b = &v->block[i];
        const int keep = i + o.n_last >= depth;
        const double rate = o.train && depth > 1 ? c->drop_path * (double)i / (double)(depth - 1) : 0;
        const uint64_t stream = o.stream * 1024 + 2 * i;
        mmix_tensor *pair[2];
        if (B > together) {
            pair[1] = keep ? mmix_new2(m, B, c->dim) : NULL;
            mmixi_vision_step_by_parts(m, v, *b, x, together, pair[1], at, count);
        }
        else {
            mmixi_vision_part part;
            mmix_tensor *hidden, *in[3];
            part.v = v;
            part.b = b;
            in[0] = x;
            in[1] = mmix_drop_path(m, B, rate, o.step, stream);
            in[2] = c->mixer == MMIX_SSD ? NULL : mmix_drop_path(m, B, rate, o.step, stream + 1);
            x = keep ? mmixi_vision_step(m, v, b, x, in[1], in[2], &hidden)
                : mmixi_layer(m, mmixi_vision_layer, &part, sizeof part, in, 3);
            pair[1] = keep && x ? mmixi_vision_feature(m, v, hidden, at, count) : NULL;
        }
        pair[0] = list;
        if (keep) list = list ? mmix_concat(m, 1, pair, 2) : pair[1];
        if (dense < o.n_dense && o.dense[dense] == i && x) {
            mmix_tensor *seen = mmixi_vision_patches(m, o.dense_norm ? mmixi_vision_norm(m, v, x) : x, other,
                                                     others), **map = &f.dense[dense++];
            seen = mmixi_vision_planes(m, seen, f.grid_h, f.grid_w);
            if (m->recording) *map = seen;
            else if (seen) memcpy((*map)->data, seen->data, mmixi_bytes(seen)); /* which outlasts the block */
        }
    }
    f.tokens = mmixi_vision_norm(m, v, x);
    f.intermediate = list;
    if (f.tokens) {
        f.token = mmixi_vision_mean(m, f.tokens, at, count);
        if (c->registers) f.registers = mmixi_tokens_at(m, f.tokens, at, count);
        f.patches = mmixi_vision_patches(m, f.tokens, other, others);
    }
    if (m->error_kind) memset(&f, 0, sizeof f);
    return f;
}
MMIXDEF mmix_features mmix_vision_features(mmix_ctx *m, const mmix_vision *v, mmix_tensor *image)
{
    return mmix_vision_forward(m, v, image, NULL);
}

/* ==== >>m-mate =======================================================================
   decoder mixers: causal attention with projections of its own, and M-MATE = Flex-MA + Local-Swin

       Flex-MA       f_t = h_t C_t,  h_t = e^(δ_t A) h_{t-1} + δ_t X_t B_tᵀ over all tokens, those of a span
                     in its layer's order;  b the same backwards in each span;  y = g f + (1 - g) b there
       Local-Swin    softmax attention in windows of a span's grid

   C, B, X are what q, k and v are in attention. x is brought into scan order once, and all that follows reads
   runs of it; a span's reverse scan is a slice, or with several spans one pass whose state begins anew where
   a span does. Local-Swin works on the grid tokens alone; what it brings is added to their rows.

   Both are linear in the values: with the identity as values the same code returns M.
   ==================================================================================== */

/* ---- where the tokens are ---- */

typedef struct mmixi_layout {
    const mmix_layout *of;
    mmix_layout none;                            /* for who has none */
    /* seen: tokens that the slot has; first … end - 1: from the first span to the last one's end */
    size_t B, L, seen, first, end;
    /* token visited r-th by layers of a scan order, and its inverse; NULL: as they stand */
    size_t *order[4], *inverse[4];
    /* grid tokens; all others; those outside of spans */
    size_t *grid, *rest, *text, n_grid, n_rest, n_text;
    mmix_tensor *inside, *sequence;              /* (end - first): 1 in spans; (B, end - first): which run */
    mmix_tensor *positions;
} mmixi_layout;

static size_t mmixi_span_tokens(const mmix_span *s)
{
    return s->grid[0] * (s->grid[1] * s->grid[2] + s->separators);
}
static int mmixi_spans_check(mmix_ctx *m, const char *who, const mmix_span *spans, size_t n, size_t L)
{
    size_t end = 0;
    if (n && !spans)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected %.0f spans, found NULL", who, (double)n), 0;
    for (size_t i = 0; i < n; i++) {
        const mmix_span *s = &spans[i];
        size_t frame, all;
        if (!s->grid[0] || !mmixi_mul_ok(s->grid[1], s->grid[2], &frame) || !frame
            || frame + s->separators < frame || !mmixi_mul_ok(s->grid[0], frame + s->separators, &all)
            || s->start < end || s->start > L || all > L - s->start)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: span %.0f has %.0f x %.0f x %.0f tokens and %.0f "
                             "separators a frame from %.0f on, expected it whole between %.0f and the %.0f "
                             "tokens there are", who, (double)i, (double)s->grid[0], (double)s->grid[1],
                             (double)s->grid[2], (double)s->separators, (double)s->start, (double)end,
                             (double)L), 0;
        end = s->start + all;
    }
    return 1;
}
/* Token `at` of a span in the order of its tokens: whether it is one of the grid. */
static int mmixi_span_grid(const mmix_span *s, size_t at)
{
    return at % (s->grid[1] * s->grid[2] + s->separators) < s->grid[1] * s->grid[2];
}
static int mmixi_layout_orders(mmix_ctx *m, mmixi_layout *a, size_t order)
{
    int same = 1;
    size_t *perm = (size_t *)mmixi_step_array(m, a->L, 1, sizeof *perm),
        *inverse = (size_t *)mmixi_step_array(m, a->L, 1, sizeof *inverse);
    int32_t *rank = (int32_t *)mmixi_step_array(m, a->L, 1, sizeof *rank);
    if (!perm || !inverse || !rank) return -1;
    for (size_t t = 0; t < a->L; t++) perm[t] = t;
    for (size_t i = 0; i < a->of->n_spans; i++) {
        const mmix_span *s = &a->of->spans[i];
        mmix_scan_order(order, s->grid[0], s->grid[1], s->grid[2], s->separators, rank, NULL);
        for (size_t r = 0; r < mmixi_span_tokens(s); r++) {
            perm[s->start + r] = s->start + (size_t)rank[r];
            same &= rank[r] == (int32_t)r;
        }
    }
    for (size_t r = 0; r < a->L; r++) inverse[perm[r]] = r;
    a->order[order] = same ? NULL : perm;
    a->inverse[order] = same ? NULL : inverse;
    return 0;
}
/* Finds everything for layers `from` … `to` - 1 of the kind; in step memory. 0, or -1. */
static int mmixi_layout_fill(mmix_ctx *m, const char *who, mmixi_layout *a, const mmix_layout *layout,
                             size_t B, size_t L, size_t from, size_t to)
{
    memset(a, 0, sizeof *a);
    a->of = layout = layout ? layout : &a->none;
    a->B = B;
    a->L = L;
    if (layout->state) a->seen = mmix_state_tokens(layout->state, layout->slot);
    if (!mmixi_spans_check(m, who, layout->spans, layout->n_spans, a->L)) return -1;
    if (a->L > INT32_MAX)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %.0f tokens, at most 2³¹ - 1", who, (double)a->L);
    a->grid = (size_t *)mmixi_step_array(m, a->L, 1, sizeof *a->grid);
    a->rest = (size_t *)mmixi_step_array(m, a->L, 1, sizeof *a->rest);
    a->text = (size_t *)mmixi_step_array(m, a->L, 1, sizeof *a->text);
    if (m->error_kind) return -1;
    for (size_t t = 0, i = 0; t < a->L; t++) {
        const mmix_span *s;
        while (i < layout->n_spans && t >= layout->spans[i].start + mmixi_span_tokens(&layout->spans[i])) i++;
        s = i < layout->n_spans && t >= layout->spans[i].start ? &layout->spans[i] : NULL;
        if (s && mmixi_span_grid(s, t - s->start)) a->grid[a->n_grid++] = t;
        else a->rest[a->n_rest++] = t;
        if (!s) a->text[a->n_text++] = t;
    }
    for (size_t i = from; layout->n_spans && i < to && i < from + 4; i++)
        if (mmixi_layout_orders(m, a, i % 4)) return -1;
    if (layout->n_spans) {
        const mmix_span *last = &layout->spans[layout->n_spans - 1];
        a->first = layout->spans[0].start;
        a->end = last->start + mmixi_span_tokens(last);
    }
    if (layout->n_spans > 1) {
        size_t shape[2];
        int32_t *inside, *sequence;
        shape[0] = a->B;
        shape[1] = a->end - a->first;
        a->inside = mmix_new(m, MMIX_DTYPE_I32, 1, shape + 1);
        a->sequence = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
        if (!a->sequence) return -1;
        inside = mmix_data_i32(a->inside);
        sequence = mmix_data_i32(a->sequence);
        memset(inside, 0, shape[1] * sizeof *inside);
        for (size_t i = 0, at = 0; i < layout->n_spans; i++) {   /* run 2i: span i, 2i + 1: text behind it */
            const size_t start = layout->spans[i].start - a->first,
                end = start + mmixi_span_tokens(&layout->spans[i]);
            for (; at < start; at++) sequence[at] = (int32_t)(2 * i) - 1;
            for (; at < end; at++) {
                sequence[at] = (int32_t)(2 * i);
                inside[at] = 1;
            }
        }
        for (size_t b = 1; b < a->B; b++)
            memcpy(sequence + b * shape[1], sequence, shape[1] * sizeof *sequence);
    }
    a->positions = layout->positions;
    if (mmix_ndim(a->positions) == 2
        ? !mmixi_check(m, who, "positions", a->positions, MMIX_DTYPE_I32, 2, 3, L, 0, 0)
        : !mmixi_optional(m, who, "positions", a->positions, MMIX_DTYPE_I32, 1, L, 0, 0, 0)) return -1;
    if (!a->positions) {
        a->positions = mmix_new(m, MMIX_DTYPE_I32, 1, &a->L);
        for (size_t t = 0; a->positions && t < a->L; t++)
            mmix_data_i32(a->positions)[t] = (int32_t)(a->seen + t);
    }
    return m->error_kind ? -1 : 0;
}
/* The same for x (B, L, D) of a caller, which is checked first. */
static int mmixi_layout_of(mmix_ctx *m, const char *who, mmixi_layout *a, const mmix_layout *layout,
                           const mmix_tensor *x, size_t from, size_t to)
{
    return mmixi_check(m, who, "x", x, MMIX_DTYPE_REAL, 3, MMIXI_ANY, MMIXI_ANY, MMIXI_ANY, 0)
        ? mmixi_layout_fill(m, who, a, layout, x->shape[0], x->shape[1], from, to) : -1;
}
/* Tokens `index` of x, in all sequences; one run of them is a view. */
static mmix_tensor *mmixi_tokens_of(mmix_ctx *m, mmix_tensor *x, const size_t *index, size_t n)
{
    if (n && index[n - 1] - index[0] == n - 1 && index[0] <= index[n - 1]) {
        int run = 1;
        for (size_t i = 1; run && i < n; i++) run = index[i] == index[0] + i;
        if (run) return mmix_slice(m, x, 1, index[0], n);
    }
    return mmixi_tokens_at(m, x, index, n);
}
/* Positions of those tokens. */
static mmix_tensor *mmixi_positions_of(mmix_ctx *m, const mmixi_layout *a, const size_t *index, size_t n)
{
    const mmix_tensor *all = a->positions;
    const size_t axes = all && all->ndim == 2 ? 3 : 1;
    size_t shape[2];
    mmix_tensor *pos;
    shape[0] = axes;
    shape[1] = n;
    pos = axes == 3 ? mmix_new(m, MMIX_DTYPE_I32, 2, shape) : mmix_new(m, MMIX_DTYPE_I32, 1, &n);
    for (size_t i = 0; pos && i < axes * n; i++)
        mmix_data_i32(pos)[i] = mmixi_index(all, i / n * a->L + index[i % n]);
    return pos;
}

/* ---- projections ---- */

enum { MMIXI_Q, MMIXI_K, MMIXI_V, MMIXI_O };
MMIXDEF int mmix_projections_init(mmix_projections *layer, mmix_params *p, const char *prefix, size_t D,
                                  size_t heads, size_t kv_heads, size_t width, int bias)
{
    static const char names[4][2][16] = {
        { "q_proj.weight", "q_proj.bias" }, { "k_proj.weight", "k_proj.bias" },
        { "v_proj.weight", "v_proj.bias" }, { "o_proj.weight", "o_proj.bias" }
    };
    memset(layer, 0, sizeof *layer);
    if (!heads || !kv_heads || heads % kv_heads || !width)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT,
                         "mmix_projections_init: %.0f heads of width %.0f, %.0f for "
                         "keys and values, which must divide them", (double)heads, (double)width,
                         (double)kv_heads);
    layer->heads = heads;
    layer->kv_heads = kv_heads;
    for (int i = 0; i < 4; i++) {
        const size_t wide = (i == MMIXI_K || i == MMIXI_V ? kv_heads : heads) * width,
            out = i == MMIXI_O ? D : wide;
        layer->weight[i] = mmixi_param(p, prefix, names[i][0], mmixi_normal(0.02), 2, out,
                                       i == MMIXI_O ? wide : D, 0, 0);
        if (bias > (i == MMIXI_O))
            layer->bias[i] = mmixi_param(p, prefix, names[i][1], mmixi_zeros(), 1, out, 0, 0, 0);
    }
    return p->m->error_kind ? -1 : 0;
}
/* Projection i of x, plus residual unless that is NULL. */
static mmix_tensor *mmixi_project(mmix_ctx *m, const mmix_projections *p, int i, mmix_tensor *x,
                                  mmix_tensor *residual)
{
    return mmixi_adapted(m, x, p->weight[i], p->bias[i], &p->lora[i], residual, NULL);
}
/* The same as heads: (B, L, H or G, N). */
static mmix_tensor *mmixi_project_heads(mmix_ctx *m, const mmix_projections *p, int i, mmix_tensor *x)
{
    const size_t heads = i == MMIXI_Q ? p->heads : p->kv_heads;
    x = mmixi_project(m, p, i, x, NULL);
    return mmixi_split_heads(m, x, 0, heads, mmix_shape(x, -1) / mmixi_max(heads, 1));
}
/* Softmax attention's mixer of x: q and k turned by `positions` unless rope is NULL. values NULL: x's own. */
static mmix_mixer mmixi_project_softmax(mmix_ctx *m, const mmix_projections *p, mmix_tensor *x,
                                        mmix_tensor *values, const mmix_rope_options *rope,
                                        mmix_tensor *positions)
{
    mmix_mixer mixer = mmix_mixer_softmax(mmixi_project_heads(m, p, MMIXI_Q, x),
                                          mmixi_project_heads(m, p, MMIXI_K, x),
                                          values ? values : mmixi_project_heads(m, p, MMIXI_V, x));
    if (rope && rope->theta > 0 && mixer.k) {
        mixer.q = mmix_rope(m, mixer.q, positions, rope);
        mixer.k = mmix_rope(m, mixer.k, positions, rope);
    }
    return mixer;
}
static mmix_mixer mmixi_causal_mixer(mmix_ctx *m, const mmix_projections *layer, mmix_tensor *x,
                                     const mmix_rope_options *rope, const mmixi_layout *a)
{
    mmix_mixer mixer = mmixi_project_softmax(m, layer, x, NULL, rope, a->positions);
    mixer.mask = MMIX_MASK_CAUSAL;
    return mixer;
}
/* What causal attention's heads bring, (B, L, H, N). */
static mmix_tensor *mmixi_causal_heads(mmix_ctx *m, const mmix_projections *layer, mmix_tensor *x,
                                       const mmix_rope_options *rope, const mmixi_layout *a)
{
    const mmix_mixer mixer = mmixi_causal_mixer(m, layer, x, rope, a);
    return !mixer.v ? NULL : a->of->state ? mmix_mix_step(m, &mixer, a->of->state, a->of->slot)
        : mmix_mix(m, &mixer);
}
static mmix_tensor *mmixi_causal(mmix_ctx *m, const mmix_projections *layer, mmix_tensor *x,
                                 mmix_tensor *residual, const mmix_rope_options *rope, const mmixi_layout *a)
{
    mmix_tensor *y = mmixi_join_heads(m, mmixi_causal_heads(m, layer, x, rope, a));
    return y ? mmixi_project(m, layer, MMIXI_O, y, residual) : NULL;
}
MMIXDEF mmix_tensor *mmix_causal_attention(mmix_ctx *m, const mmix_projections *layer, mmix_tensor *x,
                                           mmix_tensor *residual, const mmix_rope_options *rope,
                                           const mmix_layout *layout)
{
    mmixi_layout a;
    return mmixi_layout_of(m, "mmix_causal_attention", &a, layout, x, 0, 0) ? NULL
        : mmixi_causal(m, layer, x, residual, rope, &a);
}

/* ---- two directions into one ----

   At the tokens of spans y = g f + (1 - g) b with g = σ(z), ½ (f + b), or f + b; elsewhere f. f (B, L, H, P);
   b (B, R, H, P) and z (B, R, H) from token `first` on; inside (R) tells the span tokens, NULL: all. The
   gradient of z is g (1 - g) Σ_p dy (f - b). */

typedef struct mmixi_fuse_options { size_t first; int directions; } mmixi_fuse_options;
typedef struct mmixi_fuse_job {
    const mmix_ctx *m;
    const mmix_call *call;
    const mmix_real *dy;
    mmix_real *df, *db, *dz;
    int add_f, add_b, add_z;
} mmixi_fuse_job;
static void mmixi_fuse_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_fuse_job *j = (const mmixi_fuse_job *)arg;
    const mmixi_fuse_options *o = (const mmixi_fuse_options *)j->call->options;
    const mmix_tensor *f = j->call->in[0], *b = j->call->in[1], *z = j->call->in[2], *inside = j->call->in[3],
        *y = j->call->out[0];
    const struct mmixi_kernels *k = j->m->k;
    const size_t L = f->shape[1], R = b->shape[1], H = f->shape[2], P = f->shape[3];
    (void)lane;
    for (size_t i = begin; i < end; i++) {
        const size_t s = i / L, t = i % L, r = t - o->first;
        const int here = t >= o->first && r < R && (!inside || mmix_data_i32(inside)[r]);
        for (size_t h = 0; h < H; h++) {
            const size_t at_f = s * f->stride[0] + t * f->stride[1] + h * f->stride[2],
                at_y = (i * H + h) * P, at_b = here ? s * b->stride[0] + r * b->stride[1] + h * b->stride[2]
                : 0,
                at_z = here && z ? s * z->stride[0] + r * z->stride[1] + h : 0;
            mmix_real g = 1, rest = 0;           /* shares of f and b */
            if (here) g = rest = o->directions == MMIX_FUSE_SUM ? 1 : (mmix_real)0.5;
            if (here && z) {
                g = 1 / (1 + mmixi_exp_real(-mmix_data(z)[at_z]));
                rest = 1 - g;
            }
            if (!j->dy) {
                k->scale(P, g, mmix_data(f) + at_f, mmix_data(y) + at_y);
                if (here) k->axpy(P, rest, mmix_data(b) + at_b, mmix_data(y) + at_y);
                continue;
            }
            if (j->df && j->add_f) k->axpy(P, g, j->dy + at_y, j->df + at_f);
            else if (j->df) k->scale(P, g, j->dy + at_y, j->df + at_f);
            if (here && j->db && j->add_b) k->axpy(P, rest, j->dy + at_y, j->db + at_b);
            else if (here && j->db) k->scale(P, rest, j->dy + at_y, j->db + at_b);
            if (here && j->dz) {
                const mmix_real d = g * (1 - g) * (k->dot(P, j->dy + at_y, mmix_data(f) + at_f)
                                                   - k->dot(P, j->dy + at_y, mmix_data(b) + at_b));
                j->dz[at_z] = (j->add_z ? j->dz[at_z] : 0) + d;
            }
        }
    }
}
static int mmixi_fuse_run(mmix_ctx *m, mmix_call *call, mmixi_fuse_job *j)
{
    const mmix_tensor *f = call->in[0];
    j->m = m;
    j->call = call;
    mmixi_ranges(m, f->shape[0] * f->shape[1], mmixi_row_grain(f->shape[2] * f->shape[3]), mmixi_fuse_range,
                 j);
    return 0;
}
static int mmixi_fuse_forward(mmix_ctx *m, mmix_call *call)
{
    mmixi_fuse_job j;
    memset(&j, 0, sizeof j);
    return mmixi_fuse_run(m, call, &j);
}
static int mmixi_fuse_backward(mmix_ctx *m, mmix_call *call)
{
    mmixi_fuse_job j;
    memset(&j, 0, sizeof j);
    j.dy = mmixi_out_grad(call->out[0]);
    j.df = mmix_grad_target(m, call->in[0], &j.add_f);
    j.db = mmix_grad_target(m, call->in[1], &j.add_b);
    if (call->in[2]) j.dz = mmix_grad_target(m, call->in[2], &j.add_z);
    if (m->error_kind) return -1;
    if (call->in[3] && j.db && !j.add_b) {       /* text between the spans gets none */
        mmixi_zero(m, mmix_count(call->in[1]), j.db);
        j.add_b = 1;
    }
    if (call->in[3] && j.dz && !j.add_z) {
        mmixi_zero(m, mmix_count(call->in[2]), j.dz);
        j.add_z = 1;
    }
    return mmixi_fuse_run(m, call, &j);
}
static mmix_tensor *mmixi_fuse(mmix_ctx *m, mmix_tensor *f, mmix_tensor *b, mmix_tensor *z,
                               const mmixi_layout *a, int directions)
{
    mmix_call call = mmixi_call(f, b, z);
    mmixi_fuse_options o;
    if (!f || !b || (directions == MMIX_FUSE_GATE && !z)) return NULL;
    o.first = a->first;
    o.directions = directions;
    call.in[3] = a->inside;
    call.out[0] = mmix_new(m, MMIX_DTYPE_REAL, 4, f->shape);
    return mmixi_run(m, MMIX_OP_FUSE_DIRECTIONS, &call, &o, sizeof o);
}

/* ---- M-MATE ---- */

MMIXDEF int mmix_mmate_init(mmix_mmate_layer *layer, mmix_params *p, const char *prefix, size_t D,
                            size_t heads, size_t kv_heads, size_t width, size_t index, int bias,
                            const mmix_mmate_options *options)
{
    static const char names[2][3][20] = { { "dt_proj.weight", "dt_bias", "A_log" },
                                         { "dt_proj_b.weight", "dt_b_bias", "A_log_b" } };
    const size_t wide = heads * width;
    mmix_mmate_options o;
    char flex[160], swin[160];
    memset(layer, 0, sizeof *layer);
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    if (o.branches < MMIX_BRANCH_BOTH || o.branches > MMIX_BRANCH_SWIN || o.directions < MMIX_FUSE_GATE
        || o.directions > MMIX_FUSE_SUM || o.shift_period % 2 || o.text_window > INT32_MAX)
        return mmix_fail(p->m, MMIX_ERROR_ARGUMENT,
                         "mmix_mmate_init: branches %d, directions %d, shift period "
                         "%.0f, text window %.0f; expected MMIX_BRANCH_…, MMIX_FUSE_…, an even period",
                         o.branches, o.directions, (double)o.shift_period, (double)o.text_window);
    layer->options = o;
    layer->index = index;
    snprintf(flex, sizeof flex, "%sflex.", prefix);
    snprintf(swin, sizeof swin, "%sswin.", prefix);
    if (o.branches != MMIX_BRANCH_SWIN) {
        if (mmix_projections_init(&layer->flex, p, flex, D, heads, kv_heads, width, bias)) return -1;
        for (int d = 0; d < 2 - (o.shared_directions != 0); d++) {
            layer->dir[d].dt_proj = mmixi_param(p, flex, names[d][0], mmixi_zeros(), 2, heads, D, 0, 0);
            layer->dir[d].dt_bias = mmixi_param(p, flex, names[d][1],
                                                mmix_start_from(MMIX_START_SPREAD, 1e-3, 1e-1), 1, heads, 0,
                                                0, 0);
            layer->dir[d].A_log = mmixi_param(p, flex, names[d][2], mmixi_zeros(), 1, heads, 0, 0, 0);
        }
        if (o.directions == MMIX_FUSE_GATE) {
            layer->gate_weight = mmixi_param(p, flex, "gate.weight", mmixi_zeros(), 2, heads, D, 0, 0);
            layer->gate_bias = mmixi_param(p, flex, "gate.bias", mmixi_zeros(), 1, heads, 0, 0, 0);
        }
        if (o.skip) layer->D = mmixi_param(p, flex, "D", mmixi_zeros(), 1, heads, 0, 0, 0);
        if (o.conv_width > 1)                    /* at first the identity */
            layer->conv_weight = mmixi_param(p, flex, "conv1d.weight",
                                             mmix_start_from(MMIX_START_LAST_TAP, 0, 0), 3,
                                             wide + 2 * kv_heads * width, 1, o.conv_width, 0);
        if (o.output_gate) {                     /* silu(1.278…) = 1 */
            layer->z_weight = mmixi_param(p, flex, "z_proj.weight", mmixi_zeros(), 2, wide, D, 0, 0);
            layer->z_bias = mmixi_param(p, flex, "z_proj.bias",
                                        mmix_start_from(MMIX_START_CONSTANT, 1.2784645427610738, 0), 1, wide,
                                        0, 0, 0);
        }
        if (o.norm) layer->norm = mmixi_param(p, flex, "norm.weight", mmixi_ones(), 1, wide, 0, 0, 0);
    }
    if (o.branches != MMIX_BRANCH_FLEX
        && mmix_projections_init(&layer->swin, p, swin, D, heads, kv_heads, width, bias)) return -1;
    if (o.branches == MMIX_BRANCH_BOTH && o.branch_gate) {
        layer->branch_gate_weight = mmixi_param(p, prefix, "branch_gate.weight", mmixi_zeros(), 2, 1, D, 0,
                                                0);
        layer->branch_gate_bias = mmixi_param(p, prefix, "branch_gate.bias", mmixi_zeros(), 1, 1, 0, 0, 0);
    }
    return p->m->error_kind ? -1 : 0;
}

/* C, B, X of the tokens xs in scan order, after the convolution if there is one: part[0 … 2] as heads. */
static int mmixi_flex_project(mmix_ctx *m, const mmix_mmate_layer *f, mmix_tensor *xs, const mmixi_layout *a,
                              mmix_tensor *part[3])
{
    const mmix_projections *p = &f->flex;
    mmix_conv1d_options conv;
    mmix_tensor *carried = NULL, *last, *u;
    for (int i = 0; i < 3; i++) part[i] = mmixi_project(m, p, i, xs, NULL);
    if (m->error_kind) return -1;
    if (f->conv_weight) {
        const size_t wide[3] = { part[0]->shape[2], part[1]->shape[2], part[2]->shape[2] };
        memset(&conv, 0, sizeof conv);
        if (a->of->state) {
            carried = mmixi_carried_fixed(m, &a->of->state->slot[a->of->slot].part[MMIXI_CARRIED_CONV],
                                          "convolution inputs", a->B, f->conv_weight->shape[0],
                                          f->options.conv_width - 1, 1);
            if (!carried) return -1;
            carried->ndim = 3;                   /* (B, D, W-1) */
            conv.initial_state = carried;
            conv.final_state = &last;
        }
        u = mmix_conv1d(m, mmix_concat(m, 2, part, 3), f->conv_weight, NULL, &conv);
        if (u && carried) mmixi_put_all(m, last, mmix_data(last), carried, mmix_data(carried), 0);
        for (size_t i = 0, from = 0; i < 3; from += wide[i++]) part[i] = mmix_slice(m, u, 2, from, wide[i]);
    }
    for (int i = 0; i < 3; i++) {
        const size_t heads = mmixi_max(i ? p->kv_heads : p->heads, 1);
        part[i] = mmixi_split_heads(m, part[i], 0, heads, mmix_shape(part[i], 2) / heads);
    }
    return m->error_kind ? -1 : 0;
}
/* The scan of direction d over tokens from … from + n - 1 of part, dt from the same tokens of xs. */
static mmix_mixer mmixi_flex_scan(mmix_ctx *m, const mmix_mmate_layer *f, int d, mmix_tensor *xs,
                                  mmix_tensor *part[3], size_t from, size_t n)
{
    const int own = f->dir[d].A_log ? d : 0;
    mmix_mixer ssd;
    ssd = mmix_mixer_ssd(mmix_slice(m, part[2], 1, from, n),
                         mmix_linear(m, mmix_slice(m, xs, 1, from, n), f->dir[own].dt_proj, NULL),
                         mmix_scale(m, mmix_exp(m, f->dir[own].A_log), -1, 0),
                         mmix_slice(m, part[1], 1, from, n), mmix_slice(m, part[0], 1, from, n));
    ssd.dt_bias = f->dir[own].dt_bias;
    ssd.dt_softplus = 1;
    ssd.D = d && f->options.directions == MMIX_FUSE_SUM ? NULL : f->D;
    ssd.direction = d ? MMIX_REVERSE : MMIX_FORWARD;
    return ssd;
}
/* What Flex-MA's heads bring, (B, L, H, P). values (B, L, 1, P) NULL: v_proj x. */
static mmix_tensor *mmixi_flex_heads(mmix_ctx *m, const mmix_mmate_layer *f, mmix_tensor *x,
                                     mmix_tensor *values, const mmixi_layout *a)
{
    const size_t *order = a->order[f->index % 4], n = a->end - a->first;
    mmix_tensor *xs = order ? mmixi_tokens_at(m, x, order, a->L) : x, *part[3], *y;
    mmix_mixer scan;
    if (mmixi_flex_project(m, f, xs, a, part)) return NULL;
    if (values) {
        const size_t shape[4] = { a->B, a->L, 1, mmix_shape(values, 2) };
        part[2] = mmix_reshape(m, order ? mmixi_tokens_at(m, values, order, a->L) : values, 4, shape);
    }
    scan = mmixi_flex_scan(m, f, 0, xs, part, 0, a->L);
    scan.initial_state = a->of->initial_state;
    scan.final_state = a->of->final_state;
    y = m->error_kind ? NULL : a->of->state ? mmix_mix_step(m, &scan, a->of->state, a->of->slot)
        : mmix_mix(m, &scan);
    if (n && y) {
        mmix_tensor *z = f->options.directions != MMIX_FUSE_GATE ? NULL
            : mmix_linear(m, mmix_slice(m, xs, 1, a->first, n), f->gate_weight, f->gate_bias);
        scan = mmixi_flex_scan(m, f, 1, xs, part, a->first, n);
        scan.seq_idx = a->sequence;
        y = m->error_kind ? NULL : mmixi_fuse(m, y, mmix_mix(m, &scan), z, a, f->options.directions);
    }
    if (order && y) {                            /* back to where the tokens stand */
        const size_t shape[4] = { a->B, a->L, y->shape[2], y->shape[3] };
        y = mmix_reshape(m, mmixi_tokens_at(m, mmixi_join_heads(m, y), a->inverse[f->index % 4], a->L), 4,
                         shape);
    }
    return y;
}
/* What o_proj reads: (B, L, H·P). */
static mmix_tensor *mmixi_flex_mixed(mmix_ctx *m, const mmix_mmate_layer *f, mmix_tensor *x,
                                     const mmixi_layout *a)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *y = mmixi_join_heads(m, mmixi_flex_heads(m, f, x, NULL, a)), *z = NULL;
    if (!y) return NULL;
    if (!a->of->final_state) y = mmixi_keep_only(m, mark, y);
    if (f->z_weight) z = mmix_linear(m, x, f->z_weight, f->z_bias);
    if (z && f->norm) y = mmix_gated_rms_norm(m, y, z, f->norm, 1e-5, 1);
    else if (z) y = mmix_mul(m, y, mmix_silu(m, z));
    else if (f->norm) y = mmix_rms_norm(m, y, f->norm, 1e-5);
    return y;
}
static mmix_tensor *mmixi_flex(mmix_ctx *m, const mmix_mmate_layer *f, mmix_tensor *x, mmix_tensor *residual,
                               const mmixi_layout *a)
{
    mmix_tensor *y = mmixi_flex_mixed(m, f, x, a);
    return y ? mmixi_project(m, &f->flex, MMIXI_O, y, residual) : NULL;
}

/* Of the grid tokens' mixer: each span a sequence, spans with equal grids at once. (B, n_grid, H, P). */
static mmix_tensor *mmixi_swin_grid(mmix_ctx *m, const mmix_mmate_layer *w, mmix_mixer all,
                                    const mmixi_layout *a)
{
    static const size_t image[3] = { 1, 16, 16 }, video[3] = { 16, 4, 4 };
    const mmix_mmate_options *o = &w->options;
    const size_t period = o->shift_period ? o->shift_period : 2;
    const int shifted = w->index % period >= period / 2;
    mmix_tensor *done[MMIX_MAX_INPUTS];
    size_t n_done = 0, at = 0;
    for (size_t i = 0, more; i < a->of->n_spans && !m->error_kind; i += more) {
        const mmix_span *s = &a->of->spans[i];
        const size_t n = s->grid[0] * s->grid[1] * s->grid[2];
        mmix_tensor *of[3] = { all.q, all.k, all.v }, *y;
        mmix_mixer mixer = all;
        size_t shape[4], window[3];
        for (more = 1; i + more < a->of->n_spans; more++)
            if (memcmp(s->grid, a->of->spans[i + more].grid, sizeof s->grid)) break;
        for (int k = 0; k < 3; k++) {
            shape[0] = a->B * more;
            shape[1] = n;
            shape[2] = mmix_shape(of[k], 2);
            shape[3] = mmix_shape(of[k], 3);
            of[k] = mmix_reshape(m, mmix_slice(m, of[k], 1, at, more * n), 4, shape);
        }
        mixer.q = of[0];
        mixer.k = of[1];
        mixer.v = of[2];
        mixer.mask = o->causal_window ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
        for (int k = 0; k < 3; k++)
            window[k] = o->window[k] ? o->window[k] : s->grid[0] == 1 ? image[k] : video[k];
        mmix_mixer_windows(&mixer, 3, s->grid, window, shifted);
        y = m->error_kind ? NULL : mmix_mix(m, &mixer);
        if (!y) return NULL;
        shape[0] = a->B;
        shape[1] = more * n;
        shape[2] = y->shape[2];
        shape[3] = y->shape[3];
        done[n_done++] = mmix_reshape(m, y, 4, shape);
        at += more * n;
        if (n_done == MMIX_MAX_INPUTS) {         /* so many go into one */
            done[0] = mmix_concat(m, 1, done, n_done);
            n_done = 1;
        }
    }
    return n_done > 1 ? mmix_concat(m, 1, done, n_done) : n_done ? done[0] : NULL;
}
/* Of the text tokens: each sees those less than text_window tokens back. What came before this piece is in
   slot + 1: keys, values, and the tokens' places. (B, n_text, H, P). */
static mmix_tensor *mmixi_swin_text(mmix_ctx *m, const mmix_mmate_layer *w, mmix_mixer mixer,
                                    const mmixi_layout *a)
{
    const size_t n = a->n_text, window = w->options.text_window;
    mmix_state *state = a->of->state;
    mmixi_carried *carried = state ? &state->slot[a->of->slot + 1].part[MMIXI_CARRIED_CONV] : NULL;
    mmix_tensor *places = carried ? mmixi_carried_more(m, carried, "places", 1, n, 1, 1, window) : NULL;
    const size_t before = places ? places->shape[1] - n : 0;
    mmix_real *place = mmix_data(places);
    mixer.lefts = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
    if (m->error_kind) return NULL;
    for (size_t i = 0, low = 0, old = 0; i < n; i++) {         /* low, old: first in sight, here and before */
        while (a->text[i] - a->text[low] >= window) low++;
        while (old < before && (double)(a->seen + a->text[i]) - (double)place[old] >= (double)window) old++;
        mmix_data_i32(mixer.lefts)[i] = (int32_t)(i - low + (before - old));
    }
    for (size_t i = 0; i < n && place; i++) place[before + i] = (mmix_real)(a->seen + a->text[i]);
    mixer.mask = MMIX_MASK_BAND;
    mixer.left = window - 1;
    return state ? mmix_mix_step(m, &mixer, state, a->of->slot + 1) : mmix_mix(m, &mixer);
}
/* What Local-Swin's heads bring to the tokens that take part, grid before text, (B, n, H, P), and their
   index; NULL without an error if there are none. values (B, L, P) NULL: v_proj x. */
static mmix_tensor *mmixi_swin_heads(mmix_ctx *m, const mmix_mmate_layer *w, mmix_tensor *x,
                                     mmix_tensor *values, const mmixi_layout *a, mmix_tensor **index)
{
    const size_t n[2] = { a->n_grid, w->options.text_window ? a->n_text : 0 };
    const size_t *tokens[2] = { a->grid, a->text };
    size_t count = n[0] + n[1], parts = 0;
    mmix_tensor *part[2];
    if (!count) return NULL;
    *index = mmix_new(m, MMIX_DTYPE_I32, 1, &count);
    for (size_t i = 0; *index && i < count; i++)
        mmix_data_i32(*index)[i] = (int32_t)(i < n[0] ? tokens[0][i] : tokens[1][i - n[0]]);
    for (int i = 0; i < 2; i++) {
        mmix_tensor *own, *pos, *v = NULL;
        mmix_mixer mixer;
        if (!n[i] || m->error_kind) continue;
        own = mmixi_tokens_of(m, x, tokens[i], n[i]);
        pos = mmixi_positions_of(m, a, tokens[i], n[i]);
        if (values) {
            const size_t shape[4] = { a->B, n[i], 1, mmix_shape(values, 2) };
            v = mmix_reshape(m, mmixi_tokens_of(m, values, tokens[i], n[i]), 4, shape);
        }
        mixer = mmixi_project_softmax(m, &w->swin, own, v, &w->rope, pos);
        if (values && mixer.k && w->swin.kv_heads > 1) {         /* the same values for each group */
            mmix_tensor *same[2] = { mixer.v, mixer.v };
            for (size_t g = 1; g < w->swin.kv_heads; g++) same[0] = mmix_concat(m, 2, same, 2);
            mixer.v = same[0];
        }
        if (!m->error_kind) part[parts++] = (i ? mmixi_swin_text : mmixi_swin_grid)(m, w, mixer, a);
    }
    return m->error_kind ? NULL : parts == 2 ? mmix_concat(m, 1, part, 2) : part[0];
}
/* base with Local-Swin's rows: plus swin; or, with a gate, base + (1 - u) (swin - flex), flex being the other
   branch alone. */
static mmix_tensor *mmixi_swin(mmix_ctx *m, const mmix_mmate_layer *w, mmix_tensor *x, mmix_tensor *base,
                               mmix_tensor *flex, const mmixi_layout *a)
{
    mmix_tensor *index, *y = mmixi_swin_heads(m, w, x, NULL, a, &index);
    if (!y) return m->error_kind ? NULL : base;
    y = mmixi_project(m, &w->swin, MMIXI_O, mmixi_join_heads(m, y), NULL);
    if (flex && y) {                             /* 1 - σ(z) = σ(-z) = e^-softplus(z) */
        const size_t n = mmix_count(index);
        size_t *tokens = (size_t *)mmixi_step_array(m, n, 1, sizeof *tokens);
        mmix_tensor *z;
        for (size_t i = 0; tokens && i < n; i++) tokens[i] = (size_t)mmix_data_i32(index)[i];
        if (!tokens) return NULL;
        z = mmix_linear(m, mmixi_tokens_of(m, x, tokens, n), w->branch_gate_weight, w->branch_gate_bias);
        z = mmix_exp(m, mmix_scale(m, mmix_softplus(m, z), -1, 0));
        y = mmix_mul(m, z, mmix_sub(m, y, mmixi_tokens_of(m, flex, tokens, n)));
    }
    return mmix_add_rows(m, base, y, index);
}
static mmix_tensor *mmixi_zeros_like(mmix_ctx *m, const mmix_tensor *x)
{
    return mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, x->ndim, x->shape), 0);
}
static mmix_tensor *mmixi_mmate(mmix_ctx *m, const mmix_mmate_layer *layer, int branches, mmix_tensor *x,
                                mmix_tensor *residual, const mmixi_layout *a)
{
    const mmix_mark mark = mmix_mark_here(m);
    const int gate = branches == MMIX_BRANCH_BOTH && layer->branch_gate_weight;
    mmix_tensor *y = residual, *flex = NULL;
    if (branches != MMIX_BRANCH_SWIN) y = flex = mmixi_flex(m, layer, x, gate ? NULL : residual, a);
    if (gate && residual && y) y = mmix_add(m, residual, y);
    if (branches == MMIX_BRANCH_BOTH && !gate && !a->of->final_state) y = mmixi_keep_only(m, mark, y);
    if (!y && !m->error_kind) y = mmixi_zeros_like(m, x);
    if (branches != MMIX_BRANCH_FLEX && y) y = mmixi_swin(m, layer, x, y, gate ? flex : NULL, a);
    /* who has no scan counts its tokens here */
    if (branches == MMIX_BRANCH_SWIN && y && a->of->state) a->of->state->slot[a->of->slot].tokens += a->L;
    return y;
}
static mmix_tensor *mmixi_mmate_of(mmix_ctx *m, const char *who, const mmix_mmate_layer *layer, int branches,
                                   mmix_tensor *x, mmix_tensor *residual, const mmix_layout *layout)
{
    mmixi_layout a;
    mmix_tensor *y;
    int record;
    if (mmixi_layout_of(m, who, &a, layout, x, layer->index, layer->index + 1)
        || !mmixi_optional(m, who, "residual", residual, MMIX_DTYPE_REAL, 3, a.B, a.L, x->shape[2], 0))
        return NULL;
    if (a.of->state && (!mmixi_slot_check(m, who, a.of->state, a.of->slot)
                        || !mmixi_slot_check(m, who, a.of->state, a.of->slot + 1))) return NULL;
    record = a.of->state ? mmix_record(m, 0) : m->recording;
    y = mmixi_mmate(m, layer, branches, x, residual, &a);
    mmix_record(m, record);
    return y;
}
MMIXDEF mmix_tensor *mmix_mmate(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                mmix_tensor *residual, const mmix_layout *layout)
{
    return mmixi_mmate_of(m, "mmix_mmate", layer, layer->options.branches, x, residual, layout);
}
MMIXDEF mmix_tensor *mmix_flex_ma(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                  mmix_tensor *residual, const mmix_layout *layout)
{
    return mmixi_mmate_of(m, "mmix_flex_ma", layer, MMIX_BRANCH_FLEX, x, residual, layout);
}
MMIXDEF mmix_tensor *mmix_local_swin(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                     mmix_tensor *residual, const mmix_layout *layout)
{
    return mmixi_mmate_of(m, "mmix_local_swin", layer, MMIX_BRANCH_SWIN, x, residual, layout);
}

/* ---- the matrix face: what comes out when the values are the identity ---- */

/* y (B, n, H, L), rows of M at `index` (NULL: all of them in order), as M (B, H, L, L); the others are 0. */
static mmix_tensor *mmixi_matrix_rows(mmix_ctx *m, const mmix_tensor *y, const mmix_tensor *index, size_t B,
                                      size_t H, size_t L)
{
    mmix_tensor *M = mmix_fill(mmix_new4(m, B, H, L, L), 0);
    for (size_t b = 0; M && y && b < B; b++)
        for (size_t i = 0; i < y->shape[1]; i++)
            for (size_t h = 0; h < H; h++)
                memcpy(mmix_data(M) + ((b * H + h) * L + (index ? (size_t)mmixi_index(index, i) : i)) * L,
                       mmix_data(y) + b * y->stride[0] + i * y->stride[1] + h * y->stride[2],
                       L * sizeof(mmix_real));
    return M;
}
static mmix_tensor *mmixi_identity(mmix_ctx *m, size_t B, size_t L)
{
    mmix_tensor *t = mmix_fill(mmix_new3(m, B, L, L), 0);
    for (size_t i = 0; t && i < B * L; i++) mmix_data(t)[i * L + i % L] = 1;
    return t;
}
static mmix_tensor *mmixi_mmate_matrix(mmix_ctx *m, const char *who, const mmix_mmate_layer *layer,
                                       int branch, mmix_tensor *x, const mmix_layout *layout)
{
    mmixi_layout a;
    mmix_tensor *index = NULL, *y, *values;
    int record;
    if ((layout && (layout->state || layout->initial_state))
        || (branch == MMIX_BRANCH_FLEX && layer->conv_weight)) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: with a state or a convolution y is not M v", who);
        return NULL;
    }
    if (mmixi_layout_of(m, who, &a, layout, x, layer->index, layer->index + 1)) return NULL;
    record = mmix_record(m, 0);
    values = mmixi_identity(m, a.B, a.L);
    if (!values) y = NULL;
    else if (branch == MMIX_BRANCH_FLEX) y = mmixi_flex_heads(m, layer, x, values, &a);
    else y = mmixi_swin_heads(m, layer, x, values, &a, &index);
    mmix_record(m, record);
    return m->error_kind ? NULL
        : mmixi_matrix_rows(m, y, index, a.B,
                            (branch == MMIX_BRANCH_FLEX ? &layer->flex : &layer->swin)->heads, a.L);
}
MMIXDEF mmix_tensor *mmix_flex_ma_matrix(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                         const mmix_layout *layout)
{
    return mmixi_mmate_matrix(m, "mmix_flex_ma_matrix", layer, MMIX_BRANCH_FLEX, x, layout);
}
MMIXDEF mmix_tensor *mmix_local_swin_matrix(mmix_ctx *m, const mmix_mmate_layer *layer, mmix_tensor *x,
                                            const mmix_layout *layout)
{
    return mmixi_mmate_matrix(m, "mmix_local_swin_matrix", layer, MMIX_BRANCH_SWIN, x, layout);
}

/* ==== >>decoder ======================================================================
   embedding and media → layers x += mixer(norm1 x), x += SwiGLU(norm2 x) → norm → classifier

   Text tokens are rows of the embedding; grid tokens of spans are features of a vision backbone that a small
   MLP brings to the decoder's width. Without recording each layer's temporaries are dropped as it ends.
   ==================================================================================== */

typedef struct mmixi_decoder_layer {
    mmix_tensor *norm1, *norm2;
    mmix_projections attention;                  /* or … */
    mmix_mmate_layer mmate;
    mmix_swiglu_layer ffn;
} mmixi_decoder_layer;
struct mmix_decoder {
    mmix_ctx *m;
    mmix_decoder_config config;
    mmix_params *params, *adapters;
    struct { size_t rank; double alpha; int targets; } lora;   /* of the adapters, if there are any */
    int in_run;                                  /* a distillation run trains it */
    mmix_tensor *embedding, *norm, *classifier;
    mmix_mlp_layer projector;
    mmixi_decoder_layer *layer;
};

/* start 0: without values, as mmixi_vision_declare. */
static int mmixi_decoder_declare(mmix_decoder *d, int start)
{
    const mmix_decoder_config *c = &d->config;
    mmix_params *p = d->params;
    const size_t D = c->dim;
    char prefix[64];
    d->embedding = mmixi_param(p, "", "model.embed_tokens.weight", mmixi_normal(0.02), 2, c->vocabulary, D, 0,
                               0);
    if (c->media && mmix_mlp_init(&d->projector, p, "multi_modal_projector.", c->media, D, D)) return -1;
    for (size_t i = 0; i < c->depth; i++) {
        mmixi_decoder_layer *l = &d->layer[i];
        snprintf(prefix, sizeof prefix, "model.layers.%d.", (int)i);
        l->norm1 = mmixi_param(p, prefix, "input_layernorm.weight", mmixi_ones(), 1, D, 0, 0, 0);
        l->norm2 = mmixi_param(p, prefix, "post_attention_layernorm.weight", mmixi_ones(), 1, D, 0, 0, 0);
        snprintf(prefix, sizeof prefix, "model.layers.%d.%s", (int)i, c->mixer ? "mmate." : "self_attn.");
        if (c->mixer == MMIX_DECODER_MMATE
            ? mmix_mmate_init(&l->mmate, p, prefix, D, c->heads, c->kv_heads, c->head_dim, i, c->bias,
                              &c->mmate)
            : mmix_projections_init(&l->attention, p, prefix, D, c->heads, c->kv_heads, c->head_dim, c->bias))
            return -1;
        l->mmate.rope = c->rope;
        snprintf(prefix, sizeof prefix, "model.layers.%d.mlp.", (int)i);
        if (mmix_swiglu_init(&l->ffn, p, prefix, D, c->ffn)) return -1;
    }
    d->norm = mmixi_param(p, "", "model.norm.weight", mmixi_ones(), 1, D, 0, 0, 0);
    d->classifier = c->tied ? d->embedding
        : mmixi_param(p, "", "lm_head.weight", mmixi_normal(0.02), 2, c->vocabulary, D, 0, 0);
    return start ? mmix_params_allocate(p) : p->m->error_kind ? -1 : 0;
}
/* Fills in what is 0, and checks. 0, or -1. */
static int mmixi_decoder_config_check(mmix_ctx *m, mmix_decoder_config *c)
{
    static const char who[] = "mmix_decoder_create";
    c->kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    if (!c->head_dim && c->heads && c->dim % c->heads)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: dim %.0f is no multiple of the %.0f heads, and "
                         "head_dim is 0", who, (double)c->dim, (double)c->heads);
    if (!c->head_dim && c->heads) c->head_dim = c->dim / c->heads;
    if (!(c->eps > 0)) c->eps = 1e-5;
    if (c->rope.theta <= 0) c->rope.theta = 10000;
    {
        const mmixi_limit limit[] = {
            { "vocabulary", (double)c->vocabulary, 1, INT32_MAX }, { "dim", (double)c->dim, 1, INT32_MAX },
            { "depth", (double)c->depth, 1, MMIXI_DEPTH_MAX }, { "ffn", (double)c->ffn, 1, INT32_MAX },
            { "heads", (double)c->heads, 1, INT32_MAX }, { "kv_heads", (double)c->kv_heads, 1, INT32_MAX },
            { "head_dim", (double)c->head_dim, 1, INT32_MAX }, { "media", (double)c->media, 0, INT32_MAX },
            { "mmate.conv_width", (double)c->mmate.conv_width, 0, INT32_MAX }
        };
        if (mmixi_limits_check(m, who, limit, sizeof limit / sizeof *limit)) return -1;
    }
    if (c->heads % c->kv_heads)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: kv_heads is %.0f, expected a divisor of the %.0f heads",
                         who, (double)c->kv_heads, (double)c->heads);
    if (c->mixer < MMIX_DECODER_ATTENTION || c->mixer > MMIX_DECODER_MMATE || c->bias < 0 || c->bias > 2)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: mixer is %d and bias %d, expected "
                         "MMIX_DECODER_ATTENTION or _MMATE and 0 to 2", who, c->mixer, c->bias);
    return mmixi_rope_check(m, who, &c->rope, c->head_dim) ? 0 : -1;
}
static mmix_decoder *mmixi_decoder_create(mmix_ctx *m, mmix_decoder_config c, int start)
{
    mmix_decoder *d;
    if (mmix_error(m)) return NULL;
    if (mmixi_decoder_config_check(m, &c)) {
        if (!start) m->error_kind = MMIX_ERROR_FILE;             /* what a file says of a model */
        return NULL;
    }
    d = (mmix_decoder *)mmixi_alloc(m, sizeof *d);
    if (!d) return NULL;
    memset(d, 0, sizeof *d);
    d->m = m;
    d->config = c;
    d->params = mmix_params_create(m);
    d->layer = (mmixi_decoder_layer *)mmixi_alloc(m, c.depth * sizeof *d->layer);
    if (d->layer) memset(d->layer, 0, c.depth * sizeof *d->layer);
    if (!d->params || !d->layer || mmixi_decoder_declare(d, start)) {
        mmix_decoder_destroy(d);
        return NULL;
    }
    return d;
}
MMIXDEF mmix_decoder *mmix_decoder_create(mmix_ctx *m, mmix_decoder_config config)
{
    return mmixi_decoder_create(m, config, 1);
}
MMIXDEF void mmix_decoder_destroy(mmix_decoder *d)
{
    if (!d) return;
    mmix_params_destroy(d->params);
    mmix_params_destroy(d->adapters);
    mmixi_free(d->m, d->layer, d->config.depth * sizeof *d->layer);
    mmixi_free(d->m, d, sizeof *d);
}
MMIXDEF const mmix_decoder_config *mmix_decoder_config_of(const mmix_decoder *d)
{
    return d ? &d->config : NULL;
}
MMIXDEF mmix_params *mmix_decoder_params(mmix_decoder *d) { return d ? d->params : NULL; }

/* ---- forward ---- */

/* Rotary positions of L tokens, *next the first one's and then the one after the last. With three axes a
   span's tokens stand at (t, y, x) from the span's start on, a separator where its frame's last token does,
   and text goes on behind the longest axis (Qwen2-VL). */
static mmix_tensor *mmixi_decoder_positions(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *q,
                                            size_t L, size_t *next)
{
    const int axes = d->config.rope.sections[0] ? 3 : 1;
    const size_t shape[2] = { 3, L };
    mmix_tensor *pos = axes == 3 ? mmix_new(m, MMIX_DTYPE_I32, 2, shape) : mmix_new(m, MMIX_DTYPE_I32, 1, &L);
    int32_t *to = mmix_data_i32(pos);
    size_t p = *next;
    for (size_t t = 0, i = 0; to && t < L; t++) {
        const mmix_span *s = i < q->n_spans ? &q->spans[i] : NULL;
        size_t at[3];
        at[0] = at[1] = at[2] = p;
        if (!s || axes == 1 || t < s->start) p++;
        else {
            const size_t Y = s->grid[1], X = s->grid[2], frame = Y * X + s->separators, in = t - s->start,
                cell = mmixi_min(in % frame, Y * X - 1);
            at[0] += in / frame;
            at[1] += cell / X;
            at[2] += cell % X;
            if (in + 1 == mmixi_span_tokens(s)) {
                p += mmixi_max(s->grid[0], mmixi_max(Y, X));
                i++;
            }
        }
        for (int k = 0; k < axes; k++) to[(size_t)k * L + t] = (int32_t)at[k];
    }
    *next = p;
    return pos;
}
/* The layout of a sequence whose tokens were checked, for all layers; *next as above. */
static int mmixi_decoder_layout(mmix_ctx *m, const char *who, const mmix_decoder *d, const mmix_sequence *q,
                                mmix_state *state, size_t *next, mmix_layout *layout, mmixi_layout *a)
{
    const size_t B = q->tokens->shape[0], L = q->tokens->shape[1];
    memset(layout, 0, sizeof *layout);
    layout->spans = q->spans;
    layout->n_spans = q->n_spans;
    layout->state = state;
    if (!mmixi_spans_check(m, who, q->spans, q->n_spans, L)) return -1;
    layout->positions = mmixi_decoder_positions(m, d, q, L, next);
    return mmixi_layout_fill(m, who, a, layout, B, L, 0, d->config.mixer == MMIX_DECODER_MMATE
                             ? d->config.depth : 0);
}
static int mmixi_sequence_check(mmix_ctx *m, const char *who, const mmix_decoder *d, const mmix_sequence *q,
                                const mmixi_layout *a)
{
    if (q->media && (!d->config.media || !q->n_spans))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "%s: media for a decoder with features of width %.0f and %.0f "
                         "spans", who, (double)d->config.media, (double)q->n_spans), 0;
    if (!mmixi_optional(m, who, "media", q->media, MMIX_DTYPE_REAL, 3, a->B, a->n_grid, d->config.media, 0))
        return 0;
    for (size_t b = 0; b < a->B; b++)
        for (size_t i = 0; i < (q->media ? a->n_rest : a->L); i++) {
            const size_t t = q->media ? a->rest[i] : i;
            const int32_t token = mmixi_index(q->tokens, b * a->L + t);
            if (token < 0 || (size_t)token >= d->config.vocabulary)
                return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                                 "%s: token %.0f of sequence %.0f is %d, expected 0 to "
                                 "%.0f", who, (double)t, (double)b, (int)token,
                                 (double)d->config.vocabulary - 1), 0;
        }
    return 1;
}
static mmix_tensor *mmixi_i32_of(mmix_ctx *m, const size_t *values, size_t n)
{
    mmix_tensor *t = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
    for (size_t i = 0; t && i < n; i++) mmix_data_i32(t)[i] = (int32_t)values[i];
    return t;
}
static mmix_tensor *mmixi_decoder_embed(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *q,
                                        const mmixi_layout *a)
{
    mmix_tensor *x, *tokens;
    size_t shape[2];
    if (!q->media) return mmix_gather(m, d->embedding, q->tokens);
    shape[0] = a->B;
    shape[1] = a->n_rest;
    x = mmix_fill(mmix_new3(m, a->B, a->L, d->config.dim), 0);
    if (a->n_rest) {
        tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
        for (size_t i = 0; tokens && i < a->B * a->n_rest; i++)
            mmix_data_i32(tokens)[i] = mmixi_index(q->tokens, i / a->n_rest * a->L + a->rest[i % a->n_rest]);
        x = mmix_add_rows(m, x, mmix_gather(m, d->embedding, tokens), mmixi_i32_of(m, a->rest, a->n_rest));
    }
    return mmix_add_rows(m, x, mmix_mlp(m, &d->projector, q->media, NULL, NULL),
                         mmixi_i32_of(m, a->grid, a->n_grid));
}
/* A layer's value for whoever asked: into the tensor made for it, or itself while recording. */
static void mmixi_decoder_tap(mmix_ctx *m, mmix_tensor **taps, size_t i, mmix_tensor *x)
{
    if (!taps || !x) return;
    if (m->recording) taps[i] = x;
    else if (taps[i]) mmixi_put_all(m, x, mmix_data(x), taps[i], mmix_data(taps[i]), 0);
}
/* The two halves of a layer. apart: the mixer's output is wanted without the residual. */
typedef struct mmixi_decoder_half {
    const mmix_decoder *d;
    const mmixi_layout *a;
    mmix_tensor **normed;
    size_t i;
    int apart;
} mmixi_decoder_half;
static mmix_tensor *mmixi_decoder_mix(mmix_ctx *m, const void *user, mmix_tensor **x)
{
    const mmixi_decoder_half *h = (const mmixi_decoder_half *)user;
    const mmix_decoder_config *c = &h->d->config;
    const mmixi_decoder_layer *l = &h->d->layer[h->i];
    mmix_tensor *u = mmix_rms_norm(m, *x, l->norm1, c->eps), *residual = h->apart ? NULL : *x;
    mmixi_decoder_tap(m, h->normed, h->i, u);
    return c->mixer == MMIX_DECODER_MMATE ? mmixi_mmate(m, &l->mmate, c->mmate.branches, u, residual, h->a)
        : mmixi_causal(m, &l->attention, u, residual, &c->rope, h->a);
}
static mmix_tensor *mmixi_decoder_ffn(mmix_ctx *m, const void *user, mmix_tensor **x)
{
    const mmixi_decoder_half *h = (const mmixi_decoder_half *)user;
    const mmixi_decoder_layer *l = &h->d->layer[h->i];
    return mmix_swiglu(m, &l->ffn, mmix_rms_norm(m, *x, l->norm2, h->d->config.eps), *x, NULL);
}
static mmix_tensor *mmixi_decoder_layer_of(mmix_ctx *m, const mmix_decoder *d, size_t i, mmix_tensor *x,
                                           const mmixi_layout *a, const mmix_decoder_options *o)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmixi_decoder_half h;
    mmix_tensor *y;
    h.d = d;
    h.a = a;
    h.normed = o->normed;
    h.i = i;
    h.apart = o->mixed != NULL;
    y = o->normed ? mmixi_decoder_mix(m, &h, &x) : mmixi_layer(m, mmixi_decoder_mix, &h, sizeof h, &x, 1);
    mmixi_decoder_tap(m, o->mixed, i, y);
    if (h.apart) y = mmix_add(m, x, y);
    y = mmixi_keep_only(m, mark, y);
    return mmixi_layer(m, mmixi_decoder_ffn, &h, sizeof h, &y, 1);
}
/* With `state` the sequence goes on from there; *next as in mmixi_decoder_positions. */
static mmix_tensor *mmixi_decoder_run(mmix_ctx *m, const char *who, const mmix_decoder *d,
                                      const mmix_sequence *q, const mmix_decoder_options *options,
                                      mmix_state *state, size_t *next)
{
    mmix_decoder_options o;
    mmix_tensor **taps[3], *x;
    mmix_layout *layout;                         /* these two last as long as what is recorded */
    mmixi_layout *a;
    mmix_mark mark;
    memset(&o, 0, sizeof o);
    if (!d || m->error_kind) return NULL;
    if (options) o = *options;
    if (!q) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a sequence, found NULL", who),
        (mmix_tensor *)NULL;
    if (!mmixi_check(m, who, "tokens", q->tokens, MMIX_DTYPE_I32, 2, MMIXI_ANY, MMIXI_ANY, 0, 0)) return NULL;
    layout = (mmix_layout *)mmixi_header(m, sizeof *layout);
    a = (mmixi_layout *)mmixi_header(m, sizeof *a);
    if (!layout || !a || mmixi_decoder_layout(m, who, d, q, state, next, layout, a)
        || !mmixi_sequence_check(m, who, d, q, a)) return NULL;
    taps[0] = o.mixed;
    taps[1] = o.outputs;
    taps[2] = o.normed;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; taps[k] && i < d->config.depth; i++)
            taps[k][i] = m->recording ? NULL : mmix_new3(m, a->B, a->L, d->config.dim);
    mark = mmix_mark_here(m);
    x = mmixi_decoder_embed(m, d, q, a);
    for (size_t i = 0; i < d->config.depth && x; i++) {
        mmix_tensor *in = o.inputs && o.inputs[i] ? o.inputs[i] : x;
        if (!mmixi_check(m, who, "inputs", in, MMIX_DTYPE_REAL, 3, a->B, a->L, d->config.dim, 0)) return NULL;
        layout->slot = 2 * i;
        x = mmixi_keep_only(m, mark, mmixi_decoder_layer_of(m, d, i, in, a, &o));
        mmixi_decoder_tap(m, o.outputs, i, x);
    }
    return x;
}
MMIXDEF mmix_tensor *mmix_decoder_forward(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                          const mmix_decoder_options *options)
{
    size_t next = 0;
    mmix_tensor *x = mmixi_decoder_run(m, "mmix_decoder_forward", d, sequence, options, NULL, &next);
    return x ? mmix_rms_norm(m, x, d->norm, d->config.eps) : NULL;
}
MMIXDEF mmix_tensor *mmix_decoder_logits(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *hidden)
{
    return d ? mmix_linear(m, hidden, d->classifier, NULL) : NULL;
}
/* The branch gate u of tokens that take part in Local-Swin: their rows of flex by u, of swin by 1 - u. */
static void mmixi_gate_rows(mmix_ctx *m, const mmix_mmate_layer *w, mmix_tensor *x, const mmixi_layout *a,
                            mmix_tensor *flex, mmix_tensor *swin)
{
    const mmix_tensor *z = mmix_linear(m, x, w->branch_gate_weight, w->branch_gate_bias);
    const size_t n = a->n_grid + (w->options.text_window ? a->n_text : 0), H = mmix_shape(flex, 1), L = a->L;
    for (size_t b = 0; z && flex && swin && b < a->B; b++)
        for (size_t i = 0; i < n; i++) {
            const size_t t = i < a->n_grid ? a->grid[i] : a->text[i - a->n_grid];
            const mmix_real u = 1 / (1 + mmixi_exp_real(-mmix_data(z)[b * L + t]));
            for (size_t h = 0; h < H; h++) {
                mmix_real *f = mmix_data(flex) + ((b * H + h) * L + t) * L,
                    *s = mmix_data(swin) + ((b * H + h) * L + t) * L;
                m->k->scale(L, u, f, f);
                m->k->scale(L, 1 - u, s, s);
            }
        }
}
MMIXDEF mmix_tensor *mmix_decoder_matrix(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                         size_t layer)
{
    const char *who = "mmix_decoder_matrix";
    mmix_decoder_options o;
    mmix_layout layout;
    mmixi_layout a;
    mmix_tensor *M = NULL, *x, **normed;
    size_t next = 0, again = 0;
    int record;
    if (!d || m->error_kind) return NULL;
    if (layer >= d->config.depth) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: layer %.0f of %.0f", who, (double)layer,
                  (double)d->config.depth);
        return NULL;
    }
    memset(&o, 0, sizeof o);
    normed = o.normed = (mmix_tensor **)mmixi_step_array(m, d->config.depth, 1, sizeof *o.normed);
    record = mmix_record(m, 0);
    x = normed ? mmixi_decoder_run(m, who, d, sequence, &o, NULL, &next) : NULL;
    if (x && !mmixi_decoder_layout(m, who, d, sequence, NULL, &again, &layout, &a)) {
        const mmixi_decoder_layer *l = &d->layer[layer];
        const int branches = d->config.mmate.branches;
        if (d->config.mixer == MMIX_DECODER_ATTENTION) {
            mmix_mixer mixer = mmixi_causal_mixer(m, &l->attention, normed[layer], &d->config.rope, &a);
            M = m->error_kind ? NULL : mmix_mix_matrix(m, &mixer);
        }
        else {
            if (branches != MMIX_BRANCH_SWIN) M = mmix_flex_ma_matrix(m, &l->mmate, normed[layer], &layout);
            if (branches != MMIX_BRANCH_FLEX) {
                mmix_tensor *swin = mmix_local_swin_matrix(m, &l->mmate, normed[layer], &layout);
                if (l->mmate.branch_gate_weight) mmixi_gate_rows(m, &l->mmate, normed[layer], &a, M, swin);
                M = M ? mmix_add(m, M, swin) : swin;
            }
        }
    }
    mmix_record(m, record);
    return M;
}

/* ---- one token after another ---- */

struct mmix_decoder_state { const mmix_decoder *of; mmix_state *state; size_t next; };
MMIXDEF mmix_decoder_state *mmix_decoder_state_create(const mmix_decoder *d)
{
    mmix_decoder_state *s = !d || d->m->error_kind ? NULL
        : (mmix_decoder_state *)mmixi_alloc(d->m, sizeof *s);
    if (!s) return NULL;
    s->of = d;
    s->next = 0;
    s->state = mmix_state_create(d->m, 2 * d->config.depth);
    if (s->state) return s;
    mmixi_free(d->m, s, sizeof *s);
    return NULL;
}
MMIXDEF void mmix_decoder_state_destroy(mmix_decoder_state *s)
{
    if (!s) return;
    mmix_state_destroy(s->state);
    mmixi_free(s->of->m, s, sizeof *s);
}
MMIXDEF void mmix_decoder_state_clear(mmix_decoder_state *s)
{
    if (!s) return;
    mmix_state_clear(s->state);
    s->next = 0;
}
MMIXDEF mmix_decoder_state *mmix_decoder_state_copy(const mmix_decoder_state *s)
{
    mmix_decoder_state *copy = s ? mmix_decoder_state_create(s->of) : NULL;
    if (!copy) return NULL;
    mmix_state_destroy(copy->state);
    copy->next = s->next;
    copy->state = mmix_state_copy(s->state);
    if (copy->state) return copy;
    mmixi_free(s->of->m, copy, sizeof *copy);
    return NULL;
}
MMIXDEF size_t mmix_decoder_state_tokens(const mmix_decoder_state *s)
{
    return s ? mmix_state_tokens(s->state, 0) : 0;
}
MMIXDEF size_t mmix_decoder_state_bytes(const mmix_decoder_state *s)
{
    return s ? sizeof *s + mmix_state_bytes(s->state) : 0;
}
MMIXDEF mmix_tensor *mmix_decoder_step(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *piece,
                                       mmix_decoder_state *s)
{
    const char *who = "mmix_decoder_step";
    const mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *x;
    int record;
    if (!d || m->error_kind) return NULL;
    if (!s || s->of != d || m != d->m) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a state of this decoder and its context, found %s",
                  who, s ? "another" : "NULL");
        return NULL;
    }
    record = mmix_record(m, 0);
    x = mmixi_decoder_run(m, who, d, piece, NULL, s->state, &s->next);
    if (x) x = mmix_rms_norm(m, mmixi_token(m, x, x->shape[1] - 1), d->norm, d->config.eps);
    x = mmixi_keep_only(m, mark, mmix_decoder_logits(m, d, x));
    mmix_record(m, record);
    return x;
}

/* ---- drawing the next token ---- */

typedef struct mmixi_likely { double p; size_t token; } mmixi_likely;
static int mmixi_likelier(const void *a, const void *b)          /* of equal ones the lower number first */
{
    const mmixi_likely *x = (const mmixi_likely *)a, *y = (const mmixi_likely *)b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : (x->token > y->token) - (x->token < y->token);
}
MMIXDEF int32_t mmix_sample(mmix_ctx *m, const mmix_real *logits, size_t K, const mmix_sampling *sampling,
                            uint64_t place)
{
    const mmix_mark mark = mmix_mark_here(m);
    mmixi_likely *all;
    size_t best = 0, n = K;
    double sum = 0, u;
    if (!logits || !K)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_sample: expected logits of at least one token, found "
                         "%s", logits ? "none" : "NULL"), 0;
    for (size_t k = 1; k < K; k++) if (logits[k] > logits[best]) best = k;
    if (!sampling || !(sampling->temperature > 0) || logits[best] > FLT_MAX) return (int32_t)best;
    all = (mmixi_likely *)mmixi_step_array(m, K, 1, sizeof *all);
    if (!all) return (int32_t)best;
    for (size_t k = 0; k < K; k++) {
        all[k].token = k;
        all[k].p = mmixi_exp((double)(logits[k] - logits[best]) / sampling->temperature);
        sum += all[k].p;
    }
    if (sampling->top_p > 0 && sampling->top_p < 1) {
        const double enough = sampling->top_p * sum;
        qsort(all, K, sizeof *all, mmixi_likelier);
        for (n = 0, sum = 0; n < K && sum < enough; n++) sum += all[n].p;
    }
    u = mmix_random_uniform(m, MMIXI_RANDOM_SAMPLE, sampling->stream, place) * sum;
    best = all[n - 1].token;                     /* where rounding leaves nothing */
    for (size_t k = 0; k < n; k++) {
        u -= all[k].p;
        if (u >= 0) continue;
        best = all[k].token;
        break;
    }
    mmix_rewind(m, mark);
    return (int32_t)best;
}
MMIXDEF size_t mmix_decoder_continue(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *sequence,
                                     const mmix_sampling *sampling, int32_t *tokens, size_t count)
{
    const char *who = "mmix_decoder_continue";
    const int32_t stop = sampling ? sampling->stop : 0;
    const size_t K = d ? d->config.vocabulary : 0, B = sequence ? mmix_shape(sequence->tokens, 0) : 0;
    mmix_mark mark;
    mmix_decoder_state *s;
    size_t made = 0, going = B;
    if (!d || m->error_kind) return 0;
    if (!sequence || (!tokens && count))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a sequence and room for tokens, found NULL",
                         who), (size_t)0;
    if (!mmixi_check(m, who, "tokens", sequence->tokens, MMIX_DTYPE_I32, 2, MMIXI_ANY, MMIXI_ANY, 0, 0))
        return 0;
    mark = mmix_mark_here(m);
    s = mmix_decoder_state_create(d);
    while (s && going && made < count) {
        mmix_sequence next;
        mmix_tensor *logits;
        size_t shape[2];
        memset(&next, 0, sizeof next);
        shape[0] = B;
        shape[1] = 1;
        if (made) next.tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
        for (size_t b = 0; next.tokens && b < B; b++)
            mmix_data_i32(next.tokens)[b] = tokens[b * count + made - 1];
        logits = mmix_decoder_step(m, d, made ? &next : sequence, s);
        if (!logits) break;
        going = 0;
        for (size_t b = 0; b < B; b++) {
            int32_t *row = tokens + b * count;
            const int over = stop && made && row[made - 1] == stop;
            row[made] = over ? stop : mmix_sample(m, mmix_data(logits) + b * K, K, sampling,
                                                  (uint64_t)b << 32 | mmix_decoder_state_tokens(s));
            going += !stop || row[made] != stop;
        }
        made++;
        mmix_rewind(m, mark);
    }
    for (size_t b = 0; b < B; b++)               /* all rows stopped before the end */
        for (size_t i = made; i < count && made; i++) tokens[b * count + i] = stop;
    mmix_decoder_state_destroy(s);
    return m->error_kind ? 0 : made;
}
MMIXDEF size_t mmix_decoder_generate(const mmix_decoder *d, const int32_t *prompt, size_t n,
                                     const mmix_sampling *sampling, int32_t *tokens, size_t count)
{
    mmix_sequence q;
    size_t shape[2];
    if (!d || d->m->error_kind) return 0;
    if (!prompt || !n)
        return mmix_fail(d->m, MMIX_ERROR_ARGUMENT, "mmix_decoder_generate: expected a prompt of at least "
                         "one token, found %s", prompt ? "none" : "NULL"), (size_t)0;
    mmix_reset(d->m);
    memset(&q, 0, sizeof q);
    shape[0] = 1;
    shape[1] = n;
    q.tokens = mmix_from_i32(d->m, 2, shape, prompt);
    return q.tokens ? mmix_decoder_continue(d->m, d, &q, sampling, tokens, count) : 0;
}

/* ---- adapters ---- */

enum { MMIXI_LORA_SLOTS = 11 };
/* Adapter k of a layer, the weight beside which it lies, and the weight's name; NULL where the layer has no
   such matrix or it is not among the targets. */
static mmix_lora *mmixi_lora_slot(const mmix_decoder *d, size_t i, size_t k, int targets,
                                  mmix_tensor **weight, char name[96])
{
    static const char names[MMIXI_LORA_SLOTS][20] = { "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
                                                     "q_proj", "k_proj", "v_proj", "o_proj", "swin.q_proj",
                                                     "swin.k_proj", "swin.v_proj", "swin.o_proj" };
    mmixi_decoder_layer *l = &d->layer[i];
    const int mmate = d->config.mixer == MMIX_DECODER_MMATE;
    mmix_projections *p = k >= 7 ? &l->mmate.swin : mmate ? &l->mmate.flex : &l->attention;
    mmix_tensor *ffn[3];
    ffn[0] = l->ffn.gate;
    ffn[1] = l->ffn.up;
    ffn[2] = l->ffn.down;
    if (!(targets & (k < 3 ? MMIX_LORA_FFN : MMIX_LORA_MIXER))) return NULL;
    *weight = k < 3 ? ffn[k] : p->weight[(k - 3) % 4];
    snprintf(name, 96, "model.layers.%d.%s%s.", (int)i, k < 3 ? "" : !mmate ? "self_attn."
             : k < 7 ? "mmate.flex." : "mmate.", names[k]);
    return !*weight ? NULL : k < 3 ? &l->ffn.lora[k] : &p->lora[(k - 3) % 4];
}
MMIXDEF mmix_params *mmix_decoder_adapters(mmix_decoder *d) { return d ? d->adapters : NULL; }
static void mmixi_decoder_adapters_drop(mmix_decoder *d)
{
    mmix_tensor *weight;
    char name[96];
    for (size_t i = 0; i < d->config.depth; i++)
        for (size_t k = 0; k < MMIXI_LORA_SLOTS; k++) {
            mmix_lora *lora = mmixi_lora_slot(d, i, k, ~0, &weight, name);
            if (lora) memset(lora, 0, sizeof *lora);
        }
    mmix_params_destroy(d->adapters);
    d->adapters = NULL;
}
MMIXDEF int mmix_decoder_lora(mmix_decoder *d, size_t rank, double alpha, int targets)
{
    mmix_tensor *weight;
    char name[96];
    if (!d || d->m->error_kind) return -1;
    if (!rank || d->adapters || !(targets & (MMIX_LORA_FFN | MMIX_LORA_MIXER)))
        return mmix_fail(d->m, MMIX_ERROR_ARGUMENT, "mmix_decoder_lora: rank %.0f, targets %d%s",
                         (double)rank, targets, d->adapters ? "; the decoder has adapters already" : "");
    d->lora.rank = rank;
    d->lora.alpha = alpha;
    d->lora.targets = targets;
    d->adapters = mmix_params_create(d->m);
    for (size_t i = 0; d->adapters && i < d->config.depth; i++)
        for (size_t k = 0; k < MMIXI_LORA_SLOTS; k++) {
            mmix_lora *lora = mmixi_lora_slot(d, i, k, targets, &weight, name);
            if (!lora) continue;
            lora->A = mmixi_param(d->adapters, name, "lora_A.weight", mmixi_fan_in(weight->shape[1], 1), 2,
                                  rank, weight->shape[1], 0, 0);
            lora->B = mmixi_param(d->adapters, name, "lora_B.weight", mmixi_zeros(), 2, weight->shape[0],
                                  rank, 0, 0);
            lora->alpha = alpha;
        }
    if (d->adapters && !mmix_params_allocate(d->adapters)) return 0;
    if (d->adapters) mmixi_decoder_adapters_drop(d);
    return -1;
}
/* The weights with their adapters added, in `values`, which lies like the slab of the parameters. */
static int mmixi_decoder_merged(const mmix_decoder *d, mmix_real *values)
{
    mmix_ctx *m = d->m;
    for (size_t i = 0; i < d->config.depth; i++)
        for (size_t k = 0; k < MMIXI_LORA_SLOTS; k++) {
            const mmix_mark mark = mmix_mark_here(m);
            const int record = mmix_record(m, 0);
            mmix_tensor *weight, *low;
            char name[96];
            const mmix_lora *lora = mmixi_lora_slot(d, i, k, ~0, &weight, name);
            low = lora && lora->A ? mmix_matmul(m, lora->B, lora->A) : NULL;
            if (low)
                m->k->axpy(mmix_count(low), (mmix_real)(lora->alpha / (double)lora->A->shape[0]),
                           mmix_data(low), values + (mmix_data(weight) - d->params->values));
            mmix_record(m, record);
            mmix_rewind(m, mark);
        }
    return m->error_kind ? -1 : 0;
}
/* A copy of the parameters' slab with the adapters added; the caller's. NULL on error. */
static mmix_real *mmixi_decoder_values(const mmix_decoder *d)
{
    const size_t bytes = d->params->slab * sizeof(mmix_real);
    mmix_real *values = (mmix_real *)mmixi_alloc(d->m, bytes);
    if (!values) return NULL;
    memcpy(values, d->params->values, bytes);
    if (!mmixi_decoder_merged(d, values)) return values;
    mmixi_free(d->m, values, bytes);
    return NULL;
}
MMIXDEF int mmix_decoder_merge(mmix_decoder *d)
{
    if (!d || d->m->error_kind) return -1;
    if (d->adapters && d->in_run)
        return mmix_fail(d->m, MMIX_ERROR_ARGUMENT, "mmix_decoder_merge: a run holds these adapters; "
                         "mmix_distill_destroy comes first");
    if (mmixi_decoder_merged(d, d->params->values)) return -1;
    mmixi_params_changed(d->params);
    if (d->adapters) mmixi_decoder_adapters_drop(d);
    return 0;
}

/* ---- attention in, M-MATE out ---- */

/* The teacher's parameter of which a student's is the copy: the same name, of both branches the attention's.
   */
static const mmix_tensor *mmixi_linmu_source(const mmix_decoder *teacher, const char *name)
{
    const char *at = strstr(name, ".mmate."), *tail = at ? strchr(at + 7, '.') : NULL;
    char from[160];
    if (!at) return mmix_params_find(teacher->params, name);
    if (!tail) return NULL;
    snprintf(from, sizeof from, "%.*s.self_attn%s", (int)(at - name), name, tail);
    return mmix_params_find(teacher->params, from);
}
MMIXDEF mmix_decoder *mmix_linmu_from(const mmix_decoder *teacher, const mmix_mmate_options *options)
{
    mmix_decoder_config c;
    mmix_decoder *d;
    mmix_real *values;
    if (!teacher || teacher->m->error_kind) return NULL;
    c = teacher->config;
    if (c.mixer != MMIX_DECODER_ATTENTION) {
        mmix_fail(teacher->m, MMIX_ERROR_ARGUMENT,
                  "mmix_linmu_from: expected a decoder with attention, found "
                  "M-MATE");
        return NULL;
    }
    c.mixer = MMIX_DECODER_MMATE;
    if (options) c.mmate = *options;
    values = teacher->adapters ? mmixi_decoder_values(teacher) : teacher->params->values;
    d = values ? mmix_decoder_create(teacher->m, c) : NULL;
    for (size_t i = 0; d && i < d->params->count; i++) {
        const mmix_tensor *from = mmixi_linmu_source(teacher, d->params->at[i].name);
        if (from)
            memcpy(d->params->at[i].tensor->data, values + (mmix_data(from) - teacher->params->values),
                   mmixi_bytes(from));
    }
    if (teacher->adapters) mmixi_free(teacher->m, values, teacher->params->slab * sizeof *values);
    return d;
}
/* Σ of the squares of what each of H heads brings through o_proj (D, H·P), y (B, L, H·P). */
static void mmixi_head_squares(mmix_ctx *m, mmix_tensor *y, mmix_tensor *o_proj, size_t H, double *square)
{
    const size_t P = mmix_shape(y, 2) / H;
    for (size_t h = 0; h < H; h++) {
        const mmix_mark mark = mmix_mark_here(m);
        const mmix_tensor *own = mmix_linear(m, mmix_slice(m, y, 2, h * P, P),
                                             mmix_slice(m, o_proj, 1, h * P, P), NULL);
        square[h] = 0;
        for (size_t r = 0; own && r < mmixi_rows(own); r++)
            square[h] += (double)m->k->variance(own->shape[2], mmix_data(own) + r * own->shape[2], 0);
        mmix_rewind(m, mark);
    }
}
MMIXDEF int mmix_linmu_calibrate(mmix_decoder *student, const mmix_decoder *teacher,
                                 const mmix_sequence *sequence)
{
    const char *who = "mmix_linmu_calibrate";
    mmix_ctx *m = student ? student->m : NULL;
    mmix_mark mark;
    mmix_decoder_options o;
    mmix_layout layout;
    mmixi_layout a;
    size_t next = 0, again = 0, H, N;
    double *square;
    int record;
    if (!m || !teacher || m->error_kind) return -1;
    H = student->config.heads;
    N = student->config.head_dim;
    if (teacher->m != m || teacher->config.mixer != MMIX_DECODER_ATTENTION
        || student->config.mixer != MMIX_DECODER_MMATE || teacher->config.depth != student->config.depth
        || teacher->config.heads != H || teacher->config.head_dim != N)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected an M-MATE decoder with its teacher's sizes",
                         who);
    if (student->config.mmate.branches == MMIX_BRANCH_SWIN) return 0;
    mark = mmix_mark_here(m);
    record = mmix_record(m, 0);
    memset(&o, 0, sizeof o);
    square = mmixi_doubles(m, 2, H);
    o.normed = (mmix_tensor **)mmixi_step_array(m, teacher->config.depth, 1, sizeof *o.normed);
    if (o.normed && square && mmixi_decoder_run(m, who, teacher, sequence, &o, NULL, &next)) {
        /* scan orders are the student's, positions the teacher's */
        const int failed = mmixi_decoder_layout(m, who, student, sequence, NULL, &next, &layout, &a);
        a.positions = mmixi_decoder_positions(m, teacher, sequence, a.L, &again);
        if (!failed && a.positions)
            for (size_t i = 0; i < student->config.depth && !m->error_kind; i++) {
                const mmix_mark here = mmix_mark_here(m);
                mmix_tensor *weight = student->layer[i].mmate.flex.weight[MMIXI_O],
                    *own = mmixi_flex_mixed(m, &student->layer[i].mmate, o.normed[i], &a),
                    *its = mmixi_join_heads(m,
                                            mmixi_causal_heads(m, &teacher->layer[i].attention, o.normed[i],
                                                               &teacher->config.rope, &a));
                if (!own || !its) break;
                mmixi_head_squares(m, own, weight, H, square);
                mmixi_head_squares(m, its, teacher->layer[i].attention.weight[MMIXI_O], H, square + H);
                if (m->error_kind) break;
                for (size_t k = 0; k < mmix_count(weight); k++) {
                    const size_t h = k % (H * N) / N;
                    if (square[h] > 0 && square[H + h] > 0)
                        mmix_data(weight)[k] *= (mmix_real)sqrt(square[H + h] / square[h]);
                }
                mmix_rewind(m, here);
            }
        mmixi_params_changed(student->params);
    }
    mmix_record(m, record);
    mmix_rewind(m, mark);
    return m->error_kind ? -1 : 0;
}

/* ==== >>tokenizer ====================================================================
   llama2.c's tokenizer: the adjacent pair whose joined text is the piece of highest score is merged, again
   and again (byte-pair encoding with scores; Kudo & Richardson 2018)

   The definition looks at all pairs for each merge. Here pairs wait in a heap, the highest score first, of
   equal ones the leftmost; a pair that a merge has changed is recognised when it comes up and dropped.
   ==================================================================================== */

struct mmix_tokenizer {
    mmix_ctx *m;
    size_t count, size;                          /* pieces; bytes of `text` */
    char *text;                                  /* all pieces, each ended by 0 */
    size_t *at;                                  /* (count + 1): where each begins */
    mmix_real *score;
    int32_t *sorted;                             /* by text, of equal ones by number */
    size_t longest;                              /* bytes of the longest piece and 1 */
    char byte[256][2];                           /* each byte as a text */
};

static size_t mmixi_piece_length(const mmix_tokenizer *t, size_t i) { return t->at[i + 1] - t->at[i] - 1; }
/* The order of piece i and a text of n bytes. */
static int mmixi_piece_compare(const mmix_tokenizer *t, size_t i, const char *text, size_t n)
{
    const size_t own = mmixi_piece_length(t, i);
    const int c = memcmp(t->text + t->at[i], text, mmixi_min(own, n));
    return c ? c : (own > n) - (own < n);
}
/* The first piece with this text, or -1. */
static int32_t mmixi_piece_find(const mmix_tokenizer *t, const char *text, size_t n)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (mmixi_piece_compare(t, (size_t)t->sorted[mid], text, n) < 0) low = mid + 1;
        else high = mid;
    }
    return low < t->count && !mmixi_piece_compare(t, (size_t)t->sorted[low], text, n) ? t->sorted[low] : -1;
}
/* Merge sort of t->sorted: qsort's comparison would have to know t. */
static void mmixi_pieces_sort(const mmix_tokenizer *t, int32_t *list, int32_t *scratch, size_t n)
{
    const size_t half = n / 2;
    size_t i = 0, j = half, k = 0;
    if (n < 2) return;
    mmixi_pieces_sort(t, list, scratch, half);
    mmixi_pieces_sort(t, list + half, scratch, n - half);
    while (i < half && j < n) {
        const size_t b = (size_t)list[j];
        scratch[k++] = mmixi_piece_compare(t, (size_t)list[i], t->text + t->at[b], mmixi_piece_length(t, b))
            <= 0
            ? list[i++] : list[j++];
    }
    while (i < half) scratch[k++] = list[i++];
    memcpy(list, scratch, k * sizeof *list);     /* the rest of the right half is in place */
}
/* int32 and float32, little-endian, of a file. */
static uint32_t mmixi_le32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static float mmixi_le_float(const unsigned char *p)
{
    const uint32_t bits = mmixi_le32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
/* The file: the longest piece's length, then (score, length, bytes) of each. Returns the number of pieces,
   and their bytes with an ending 0 each in *text; 0 if it is none. */
static size_t mmixi_tokenizer_scan(const unsigned char *p, size_t size, size_t *text)
{
    size_t n = 0, at = 4;
    *text = 0;
    while (size >= 12 && at < size) {
        size_t length;
        if (size - at < 8) return 0;
        length = mmixi_le32(p + at + 4);
        if (length > mmixi_le32(p) || length > size - at - 8) return 0;
        at += 8 + length;
        *text += length + 1;
        n++;
    }
    return n <= INT32_MAX ? n : 0;
}
MMIXDEF mmix_tokenizer *mmix_tokenizer_from(mmix_ctx *m, const char *name, const void *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t text, n, at = 4;
    mmix_tokenizer *t;
    int32_t *scratch;
    if (m->error_kind) return NULL;
    n = bytes ? mmixi_tokenizer_scan(p, size, &text) : 0;
    if (n < 3 + 256) {
        mmix_fail(m, MMIX_ERROR_FILE,
                  "%s: expected a llama2.c tokenizer (a length, then score, length and bytes "
                  "of each of at least 259 pieces), found %.0f bytes that are none", name, (double)size);
        return NULL;
    }
    t = (mmix_tokenizer *)mmixi_alloc(m, sizeof *t);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->m = m;
    t->count = n;
    t->size = text;
    t->text = (char *)mmixi_alloc(m, text);
    t->at = (size_t *)mmixi_alloc(m, (n + 1) * sizeof *t->at);
    t->score = (mmix_real *)mmixi_alloc(m, n * sizeof *t->score);
    t->sorted = (int32_t *)mmixi_alloc(m, n * sizeof *t->sorted);
    scratch = (int32_t *)mmixi_alloc(m, n * sizeof *scratch);
    if (!m->error_kind) {
        t->at[0] = 0;
        for (size_t i = 0; i < n; i++) {
            const size_t length = mmixi_le32(p + at + 4);
            t->score[i] = (mmix_real)mmixi_le_float(p + at);
            memcpy(t->text + t->at[i], p + at + 8, length);
            t->text[t->at[i] + length] = 0;
            t->at[i + 1] = t->at[i] + length + 1;
            t->longest = mmixi_max(t->longest, length + 1);
            t->sorted[i] = (int32_t)i;
            at += 8 + length;
        }
        mmixi_pieces_sort(t, t->sorted, scratch, n);
        for (int i = 0; i < 256; i++) t->byte[i][0] = (char)i;
    }
    mmixi_free(m, scratch, n * sizeof *scratch);
    if (!m->error_kind) return t;
    mmix_tokenizer_destroy(t);
    return NULL;
}
MMIXDEF void mmix_tokenizer_destroy(mmix_tokenizer *t)
{
    if (!t) return;
    mmixi_free(t->m, t->text, t->size);
    mmixi_free(t->m, t->at, (t->count + 1) * sizeof *t->at);
    mmixi_free(t->m, t->score, t->count * sizeof *t->score);
    mmixi_free(t->m, t->sorted, t->count * sizeof *t->sorted);
    mmixi_free(t->m, t, sizeof *t);
}
MMIXDEF size_t mmix_tokenizer_count(const mmix_tokenizer *t) { return t ? t->count : 0; }
MMIXDEF const char *mmix_tokenizer_piece(const mmix_tokenizer *t, int32_t token, size_t *length)
{
    const int there = t && token >= 0 && (size_t)token < t->count;
    const char *piece = there ? t->text + t->at[token] : "";
    size_t n = there ? mmixi_piece_length(t, (size_t)token) : 0;
    unsigned byte;
    if (n == 6 && !memcmp(piece, "<0x", 3) && piece[5] == '>' && sscanf(piece + 3, "%2x", &byte) == 1) {
        piece = t->byte[byte];                   /* a byte that stands for itself */
        n = 1;
    }
    if (length) *length = n;
    return piece;
}

/* ---- encoding ---- */

typedef struct mmixi_bpe_node { int32_t token; size_t before, after; } mmixi_bpe_node;   /* SIZE_MAX: none */
typedef struct mmixi_bpe_pair { mmix_real score; size_t at; int32_t left, right, joined; } mmixi_bpe_pair;
typedef struct mmixi_bpe {
    const mmix_tokenizer *t;
    mmixi_bpe_node *node;
    mmixi_bpe_pair *heap;
    size_t pairs;
    char *joined;                                /* room for two pieces */
} mmixi_bpe;

static int mmixi_bpe_sooner(const mmixi_bpe_pair *a, const mmixi_bpe_pair *b)
{
    return a->score > b->score || (!(a->score < b->score) && a->at < b->at);
}
static void mmixi_bpe_swap(mmixi_bpe_pair *a, mmixi_bpe_pair *b)
{
    const mmixi_bpe_pair was = *a;
    *a = *b;
    *b = was;
}
/* Puts the pair that begins at node `at` into the heap if it makes a piece. */
static void mmixi_bpe_push(mmixi_bpe *e, size_t at)
{
    const mmix_tokenizer *t = e->t;
    const size_t after = at == SIZE_MAX ? SIZE_MAX : e->node[at].after;
    mmixi_bpe_pair p;
    size_t n, m, i = e->pairs;
    if (after == SIZE_MAX) return;
    p.at = at;
    p.left = e->node[at].token;
    p.right = e->node[after].token;
    n = mmixi_piece_length(t, (size_t)p.left);
    m = mmixi_piece_length(t, (size_t)p.right);
    memcpy(e->joined, t->text + t->at[p.left], n);
    memcpy(e->joined + n, t->text + t->at[p.right], m);
    p.joined = mmixi_piece_find(t, e->joined, n + m);
    if (p.joined < 0) return;
    p.score = t->score[p.joined];
    e->heap[e->pairs++] = p;
    for (; i && mmixi_bpe_sooner(&e->heap[i], &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        mmixi_bpe_swap(&e->heap[i], &e->heap[(i - 1) / 2]);
}
static mmixi_bpe_pair mmixi_bpe_pop(mmixi_bpe *e)
{
    const mmixi_bpe_pair top = e->heap[0];
    e->heap[0] = e->heap[--e->pairs];
    for (size_t i = 0, down; (down = 2 * i + 1) < e->pairs; i = down) {
        if (down + 1 < e->pairs && mmixi_bpe_sooner(&e->heap[down + 1], &e->heap[down])) down++;
        if (!mmixi_bpe_sooner(&e->heap[down], &e->heap[i])) break;
        mmixi_bpe_swap(&e->heap[i], &e->heap[down]);
    }
    return top;
}
/* Nodes for " " and the code points of a text, or their bytes where a code point is no piece; how many. */
static size_t mmixi_bpe_begin(const mmixi_bpe *e, const char *text)
{
    const size_t length = strlen(text);
    size_t count = 0;
    int32_t space = length ? mmixi_piece_find(e->t, " ", 1) : -1;
    if (space >= 0) e->node[count++].token = space;
    for (size_t i = 0, n; i < length; i += n) {
        int32_t token;
        for (n = 1; n < 4 && ((unsigned char)text[i + n] & 0xC0) == 0x80; n++) {}
        token = mmixi_piece_find(e->t, text + i, n);
        if (token >= 0) e->node[count++].token = token;
        else for (size_t k = 0; k < n; k++) e->node[count++].token = (unsigned char)text[i + k] + 3;
    }
    for (size_t i = 0; i < count; i++) {
        e->node[i].before = i ? i - 1 : SIZE_MAX;
        e->node[i].after = i + 1 < count ? i + 1 : SIZE_MAX;
    }
    return count;
}
static void mmixi_bpe_merge(mmixi_bpe *e, size_t count)
{
    for (size_t i = 0; i < count; i++) mmixi_bpe_push(e, i);
    while (e->pairs) {
        const mmixi_bpe_pair p = mmixi_bpe_pop(e);
        mmixi_bpe_node *left = &e->node[p.at];
        if (left->token != p.left || left->after == SIZE_MAX || e->node[left->after].token
            != p.right) continue;
        e->node[left->after].token = -1;         /* gone */
        left->token = p.joined;
        left->after = e->node[left->after].after;
        if (left->after != SIZE_MAX) e->node[left->after].before = p.at;
        mmixi_bpe_push(e, left->before);
        mmixi_bpe_push(e, p.at);
    }
}
MMIXDEF size_t mmix_tokenizer_encode(const mmix_tokenizer *t, const char *text, int begin, int end,
                                     int32_t *tokens, size_t room)
{
    size_t most, n = 0, count;
    mmixi_bpe e;
    if (!t || t->m->error_kind) return 0;
    if (!text || (room && !tokens)) {
        mmix_fail(t->m, MMIX_ERROR_ARGUMENT,
                  "mmix_tokenizer_encode: expected a text and room for tokens, found "
                  "NULL");
        return 0;
    }
    most = strlen(text) + 1;
    e.t = t;
    e.pairs = 0;
    e.node = (mmixi_bpe_node *)mmixi_alloc(t->m, most * sizeof *e.node);
    e.heap = (mmixi_bpe_pair *)mmixi_alloc(t->m, 3 * most * sizeof *e.heap);     /* a merge adds at most 2 */
    e.joined = (char *)mmixi_alloc(t->m, 2 * t->longest);
    if (!t->m->error_kind) {
        count = mmixi_bpe_begin(&e, text);
        mmixi_bpe_merge(&e, count);
        if (begin && n++ < room) tokens[0] = 1;
        for (size_t i = 0; i < count; i++)
            if (e.node[i].token >= 0 && n++ < room) tokens[n - 1] = e.node[i].token;
        if (end && n++ < room) tokens[n - 1] = 2;
    }
    mmixi_free(t->m, e.node, most * sizeof *e.node);
    mmixi_free(t->m, e.heap, 3 * most * sizeof *e.heap);
    mmixi_free(t->m, e.joined, 2 * t->longest);
    return n;
}

/* ==== >>dino =========================================================================
   self-distillation: a student on all crops learns what a slow average of itself says of the global ones

   One step: (1) teacher on the 2 global crops, student on all; loss with the old centre; (2) new centre; (3)
   gradients, clipped tensor by tensor; (4) while epoch < freeze_last_layer the prototypes are left out; (5)
   AdamW; (6) teacher = m teacher + (1 - m) student. Caron et al. 2021, algorithm 1.

   (1) and (3) run on slices of the batch, one after another, for no picture's loss depends on another
   picture: only one slice's activations are in memory, and they stay in the caches.
   ==================================================================================== */

enum { MMIXI_COLLAPSE_STEPS = 50 };
#ifdef MMIX_REGRESSION
enum { MMIXI_DINO_TOKENS = 1 };
#else
enum { MMIXI_DINO_TOKENS = 1536 };               /* of a slice: products of so many rows run at full speed */
#endif

typedef struct mmixi_dino_net {                  /* backbone and head of the student (0) or the teacher (1) */
    mmix_vision *vision;
    mmix_params *params;                         /* the head's */
    mmix_dino_head head;
} mmixi_dino_net;

struct mmix_dino {
    mmix_ctx *m;
    mmix_dino_config config;
    mmixi_dino_net net[2];
    mmix_adamw_state adamw[2];                   /* backbone, head */
    mmix_real *center;
    unsigned char *skip;                         /* of the head's parameters: 1 for last_layer */
    size_t skip_count;
    size_t step, iters;
    size_t *order, count;                        /* the epoch's order of the pictures */
    size_t order_epoch;
    size_t at_uniform, at_zero;                  /* steps in a row with the loss at ln K, with no entropy */
    char *note;
    size_t note_size;
};

MMIXDEF mmix_dino_config mmix_dino_default(void)
{
    mmix_dino_config c;
    memset(&c, 0, sizeof c);
    c.vision = mmix_vit_small(16);
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
    c.teacher_temp = c.teacher_temp_warm = 0.04;
    return c;
}
MMIXDEF mmix_dino_config mmix_dino_small_data(void)
{
    mmix_dino_config c = mmix_dino_default();
    c.vision = mmix_vit_tiny(8);
    c.vision.dim = 128;
    c.vision.depth = 4;
    c.vision.heads = 4;
    c.vision.grid = 8;
    c.vision.drop_path = 0;
    c.head_hidden = 512;
    c.head_bottleneck = 128;
    c.prototypes = 1024;
    c.augment.global_size = 64;
    c.augment.local_size = 32;
    c.augment.local_count = 4;
    c.batch = 48;
    c.lr = 1e-3 * 256 / 48;
    c.momentum = 0.99;
    /* at 0.04 the centred teacher stays nearly uniform for hundreds of steps: too long for a short run */
    c.teacher_temp = c.teacher_temp_warm = 0.02;
    return c;
}

MMIXDEF void mmix_dino_destroy(mmix_dino *d)
{
    if (!d) return;
    for (int i = 0; i < 2; i++) mmix_adamw_free(&d->adamw[i]);
    for (int i = 0; i < 2; i++) {
        mmix_vision_destroy(d->net[i].vision);
        mmix_params_destroy(d->net[i].params);
    }
    mmixi_free(d->m, d->center, d->config.prototypes * sizeof *d->center);
    mmixi_free(d->m, d->skip, d->skip_count);
    mmixi_free(d->m, d->order, d->count * sizeof *d->order);
    mmixi_free(d->m, d->note, d->note_size);
    mmixi_free(d->m, d, sizeof *d);
}

static int mmixi_dino_config_check(mmix_ctx *m, const mmix_dino_config *c)
{
    const double most = FLT_MAX;
    const mmixi_limit limit[] = {
        { "batch", (double)c->batch, 1, INT32_MAX }, { "epochs", (double)c->epochs, 1, INT32_MAX },
        { "iters", (double)c->iters, 0, INT32_MAX },
        { "head_hidden", (double)c->head_hidden, (double)(c->head_layers > 1), INT32_MAX },
        { "head_bottleneck", (double)c->head_bottleneck, 1, INT32_MAX },
        { "prototypes", (double)c->prototypes, 2, INT32_MAX },
        { "head_layers", (double)c->head_layers, 1, 8 },
        { "lr", c->lr, 0, most }, { "min_lr", c->min_lr, 0, most },
        { "warmup_epochs", (double)c->warmup_epochs, 0, INT32_MAX },
        { "weight_decay", c->weight_decay, 0, most }, { "weight_decay_end", c->weight_decay_end, 0, most },
        { "clip", c->clip, -most, most }, { "freeze_last_layer", (double)c->freeze_last_layer, 0, INT32_MAX },
        { "momentum", c->momentum, 0, 1 }, { "center_momentum", c->center_momentum, 0, 1 },
        { "student_temp", c->student_temp, 1e-9, 1e9 }, { "teacher_temp", c->teacher_temp, 1e-9, 1e9 },
        { "teacher_temp_warm", c->teacher_temp_warm, 1e-9, 1e9 },
        { "teacher_temp_epochs", (double)c->teacher_temp_epochs, 0, INT32_MAX }
    };
    return mmixi_limits_check(m, "mmix_dino_create", limit, sizeof limit / sizeof *limit);
}
/* start 0: without values, as mmixi_vision_declare. */
static int mmixi_dino_declare(mmix_dino *d, int start)
{
    const mmix_dino_config *c = &d->config;
    mmix_ctx *m = d->m;
    for (int i = 0; i < 2; i++) {
        mmixi_dino_net *net = &d->net[i];
        net->vision = mmixi_vision_create(m, c->vision, start);
        net->params = mmix_params_create(m);
        if (!net->vision || !net->params
            || mmix_dino_head_init(&net->head, net->params, "", c->vision.dim, c->head_hidden,
                                   c->head_bottleneck, c->prototypes, c->head_layers)) return -1;
        for (size_t k = 0; k < net->params->count; k++)
            if (net->params->at[k].tensor == net->head.weight_g) net->params->at[k].frozen = 1;
        if (start && mmix_params_allocate(net->params)) return -1;
    }
    return 0;
}
/* What a run has beside its networks, when these have values. */
static int mmixi_dino_begin(mmix_dino *d)
{
    const size_t K = d->config.prototypes;
    mmix_ctx *m = d->m;
    if (mmix_adamw_init(&d->adamw[0], d->net[0].vision->params)
        || mmix_adamw_init(&d->adamw[1], d->net[0].params)) return -1;
    d->center = (mmix_real *)mmixi_alloc(m, K * sizeof *d->center);
    d->skip_count = d->net[0].params->count;
    d->skip = (unsigned char *)mmixi_alloc(m, d->skip_count);
    d->note = (char *)mmixi_alloc(m, 1);
    d->note_size = d->note ? 1 : 0;
    if (!d->center || !d->skip || !d->note) return -1;
    d->note[0] = 0;
    memset(d->center, 0, K * sizeof *d->center);
    for (size_t k = 0; k < d->net[0].params->count; k++)
        d->skip[k] = strstr(d->net[0].params->at[k].name, "last_layer") != NULL;
    return 0;
}
static mmix_dino *mmixi_dino_create(mmix_ctx *m, const mmix_dino_config *config, int start)
{
    mmix_dino *d;
    uint64_t seed;
    if (mmix_error(m)) return NULL;
    seed = m->seed;
    if (mmixi_dino_config_check(m, config)) {
        if (!start) m->error_kind = MMIX_ERROR_FILE;             /* what a file says of a run */
        return NULL;
    }
    d = (mmix_dino *)mmixi_alloc(m, sizeof *d);
    if (!d) return NULL;
    memset(d, 0, sizeof *d);
    d->m = m;
    d->config = *config;
    d->iters = config->iters;
    /* a run's numbers are its own, whatever the context did before */
    m->seed = config->seed;
    if (mmixi_dino_declare(d, start) || (start && mmixi_dino_begin(d))) {
        mmix_dino_destroy(d);
        d = NULL;
    }
    m->seed = seed;
    return d;
}
MMIXDEF mmix_dino *mmix_dino_create(mmix_ctx *m, mmix_dino_config config)
{
    return mmixi_dino_create(m, &config, 1);
}

MMIXDEF mmix_vision *mmix_dino_teacher(mmix_dino *d) { return d ? d->net[1].vision : NULL; }
MMIXDEF mmix_vision *mmix_dino_student(mmix_dino *d) { return d ? d->net[0].vision : NULL; }
MMIXDEF mmix_params *mmix_dino_head_params(mmix_dino *d, int teacher)
{
    return d ? d->net[teacher != 0].params : NULL;
}
MMIXDEF mmix_real *mmix_dino_center(mmix_dino *d) { return d ? d->center : NULL; }
MMIXDEF const mmix_dino_config *mmix_dino_config_of(const mmix_dino *d) { return d ? &d->config : NULL; }
MMIXDEF const char *mmix_dino_note(const mmix_dino *d) { return d ? d->note : NULL; }

/* Pictures b0 … b0 + n - 1 of crops that lie crop after crop, B pictures each. */
static mmix_tensor *mmixi_dino_slice(mmix_ctx *m, mmix_tensor *crops, size_t B, size_t b0, size_t n)
{
    mmix_tensor *y;
    size_t shape[4], one;
    if (!crops || n == B) return crops;
    memcpy(shape, crops->shape, sizeof shape);
    one = shape[1] * shape[2] * shape[3];
    y = mmix_new4(m, shape[0] / B * n, shape[1], shape[2], shape[3]);
    for (size_t v = 0; y && v < shape[0] / B; v++)
        for (size_t i = 0; i < n; i++)
            memcpy(mmix_data(y) + (v * n + i) * one, mmix_data(crops) + (v * B + b0 + i) * crops->stride[0],
                   one * sizeof(mmix_real));
    return y;
}

/* Class tokens of the teacher's (1) or the student's (0) views, then the head; stream: of drop path. */
static mmix_tensor *mmixi_dino_forward_net(mmix_dino *d, int which, mmix_tensor *global, mmix_tensor *local,
                                           uint64_t stream)
{
    mmix_vision_options o;
    mmix_tensor *part[2];
    memset(&o, 0, sizeof o);
    o.train = !which || d->config.teacher_drop_path;
    o.step = d->step;
    o.stream = stream += which ? 1u << 20 : 0;   /* of its own */
    part[0] = mmix_vision_forward(d->m, d->net[which].vision, global, &o).token;
    if (local) {
        o.stream = stream + 1;
        part[1] = mmix_vision_forward(d->m, d->net[which].vision, local, &o).token;
        part[0] = mmix_concat(d->m, 0, part, 2);
    }
    return mmix_dino_head_forward(d->m, &d->net[which].head, part[0]);
}

static const char *mmixi_dino_collapse(mmix_dino *d, double loss, double entropy)
{
    double uniform = mmixi_log((double)d->config.prototypes);
    d->at_uniform = loss > 0.99 * uniform && entropy > 0.99 * uniform ? d->at_uniform + 1 : 0;
    d->at_zero = entropy < 0.001 * uniform ? d->at_zero + 1 : 0;
    if (d->at_uniform >= MMIXI_COLLAPSE_STEPS)
        return "collapsed: the loss is stuck at ln K and the teacher's output is uniform";
    if (d->at_zero >= MMIXI_COLLAPSE_STEPS)
        return "collapsed: the teacher's entropy is 0, it gives every picture to one prototype";
    return NULL;
}

/* (1) to (3) for the whole batch: gradients, loss, entropy, and in step memory the next centre, which is
   returned. record: how the student is. NULL on error. */
static mmix_real *mmixi_dino_gradients(mmix_dino *d, mmix_tensor *global, mmix_tensor *local, int record,
                                       mmix_dino_stats *s)
{
    const mmix_dino_config *c = &d->config;
    mmix_ctx *m = d->m;
    const size_t views = global->shape[0], B = views / 2, crops = (views + mmix_shape(local, 0)) / B,
        K = c->prototypes, p = c->vision.patch;
    const size_t tokens = 2 * (mmix_shape(global, 2) / p) * (mmix_shape(global, 3) / p)
        + (crops - 2) * (mmix_shape(local, 2) / p) * (mmix_shape(local, 3) / p);
    const size_t slices = mmixi_ceil_div(B, mmixi_ceil_div(MMIXI_DINO_TOKENS, mmixi_max(1, tokens)));
    const double temp = mmix_schedule_teacher_temp(c->teacher_temp_warm, c->teacher_temp,
                                                   c->teacher_temp_epochs, s->epoch);
    mmix_real *center = (mmix_real *)mmixi_step(m, K * sizeof *center);
    double *mean = (double *)mmixi_step(m, K * sizeof *mean), norm = 0;
    if (!center || !mean) return NULL;
    for (size_t k = 0; k < K; k++) mean[k] = 0;
    for (size_t i = 0; i < slices && !m->error_kind; i++) {
        const size_t b0 = mmixi_cut(B, i, slices), n = mmixi_cut(B, i + 1, slices) - b0;
        const double share = (double)n / (double)B;
        const mmix_mark mark = mmix_mark_here(m);
        mmix_dino_loss_stats ls;
        mmix_tensor *g = mmixi_dino_slice(m, global, B, b0, n), *l = mmixi_dino_slice(m, local, B, b0, n),
            *up = mmix_new(m, MMIX_DTYPE_REAL, 0, NULL), *teacher, *loss;
        if (m->error_kind) return NULL;
        teacher = mmixi_dino_forward_net(d, 1, g, NULL, 0);
        memcpy(center, d->center, K * sizeof *center);           /* all slices are judged by the old one */
        mmix_record(m, record);
        loss = mmix_dino_loss(m, mmixi_dino_forward_net(d, 0, g, l, 2 * i), teacher, center, crops,
                              c->student_temp, temp, 0, &ls);
        mmix_record(m, 0);
        if (!loss) return NULL;
        mmix_fill(up, share);
        mmix_backward_from(m, &loss, &up, 1);
        s->loss += share * mmix_item(loss);
        s->teacher_entropy += share * ls.teacher_entropy;
        s->teacher_kl_uniform += share * ls.teacher_kl_uniform;
        for (size_t k = 0; k < K; k++) mean[k] += share * (double)center[k];
        mmix_rewind(m, mark);
    }
    for (size_t k = 0; k < K; k++) {
        center[k] = (mmix_real)(c->center_momentum * (double)d->center[k] + (1 - c->center_momentum)
                                * mean[k]);
        norm += (double)center[k] * (double)center[k];
    }
    s->center_norm = sqrt(norm);
    return m->error_kind ? NULL : center;
}

MMIXDEF int mmix_dino_step_crops(mmix_dino *d, mmix_tensor *global, mmix_tensor *local,
                                 mmix_dino_stats *stats)
{
    const mmix_dino_config *c = mmix_dino_config_of(d);
    mmix_ctx *m;
    mmix_dino_stats s;
    mmix_adamw adamw = mmix_adamw_default();
    size_t views = mmix_shape(global, 0), B = views / 2, all;
    uint64_t seed;
    mmix_real *center;
    int record;
    memset(&s, 0, sizeof s);
    if (!d || d->m->error_kind) return -1;       /* of what could not be created the context has the reason */
    m = d->m;
    seed = m->seed;
    if (!d->iters) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_dino_step_crops: config.iters is 0");
    s.step = d->step;
    s.steps = c->epochs * d->iters;
    s.epoch = d->step / d->iters;
    if (stats) *stats = s;
    if (d->step >= s.steps) return 0;
    if (!mmixi_check(m, "mmix_dino_step_crops", "global", global, MMIX_DTYPE_REAL, 4, MMIXI_ANY, 3, MMIXI_ANY,
                     MMIXI_ANY)
        || !mmixi_optional(m, "mmix_dino_step_crops", "local", local, MMIX_DTYPE_REAL, 4, MMIXI_ANY, 3,
                           MMIXI_ANY, MMIXI_ANY)) return -1;
    all = views + mmix_shape(local, 0);
    if (!B || views % 2 || all % B)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_dino_step_crops: %.0f global and %.0f local crops",
                         (double)views, (double)(all - views));
    m->seed = c->seed;
    record = mmix_record(m, 0);
    center = mmixi_dino_gradients(d, global, local, record ? record : 1, &s);
    mmix_record(m, record);
    m->seed = seed;
    if (center && !(s.loss - s.loss == 0))
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "mmix_dino_step_crops: the loss of step %.0f is not a number; a lower lr may help",
                  (double)d->step);
    s.lr = mmix_schedule_cosine(c->lr * (double)c->batch / 256, c->min_lr, c->epochs, d->iters,
                                c->warmup_epochs, 0, d->step);
    s.weight_decay = mmix_schedule_cosine(c->weight_decay, c->weight_decay_end, c->epochs, d->iters, 0, 0,
                                          d->step);
    adamw.lr = s.lr;
    adamw.weight_decay = s.weight_decay;
    s.momentum = mmix_schedule_cosine(c->momentum, 1, c->epochs, d->iters, 0, 0, d->step);
    s.gradient_norm = m->error_kind ? -1
        : mmixi_adamw_lists(m, d->adamw, 2, &adamw, c->clip, s.epoch < c->freeze_last_layer ? d->skip : NULL);
    if (s.gradient_norm < 0) {                   /* a step that fails leaves the run as it was */
        for (int i = 0; i < 2; i++) mmix_params_zero_grad(d->adamw[i].params);
        return -1;
    }
    memcpy(d->center, center, c->prototypes * sizeof *center);
    mmix_ema(d->net[1].vision->params, d->net[0].vision->params, s.momentum);
    mmix_ema(d->net[1].params, d->net[0].params, s.momentum);
    s.collapse = mmixi_dino_collapse(d, s.loss, s.teacher_entropy);
    d->step++;
    if (stats) *stats = s;
    return 1;
}

/* The pictures in the epoch's order: Fisher & Yates, numbers from (epoch, place). */
static int mmixi_dino_shuffle(mmix_dino *d, size_t count, size_t epoch)
{
    if (d->order && d->count == count && d->order_epoch == epoch) return 0;
    if (d->count != count) {
        mmixi_free(d->m, d->order, d->count * sizeof *d->order);
        d->count = 0;
        d->order = (size_t *)mmixi_alloc(d->m, count * sizeof *d->order);
        if (!d->order) return -1;
        d->count = count;
    }
    for (size_t i = 0; i < count; i++) d->order[i] = i;
    for (size_t i = count; i-- > 1;) {
        size_t j = (size_t)(mmix_random_uniform(d->m, MMIXI_RANDOM_EPOCH, epoch, i) * (double)(i + 1)),
            swap = d->order[i];
        d->order[i] = d->order[j];
        d->order[j] = swap;
    }
    d->order_epoch = epoch;
    return 0;
}
MMIXDEF int mmix_dino_step(mmix_dino *d, const mmix_picture *pictures, size_t count, mmix_dino_stats *stats)
{
    const mmix_augment *a;
    mmix_ctx *m;
    size_t B, *index;
    int failed;
    mmix_tensor *global, *local = NULL;
    uint64_t seed;
    if (!d) return -1;
    m = d->m;
    a = &d->config.augment;
    B = d->config.batch;
    seed = m->seed;
    mmix_reset(m);
    if (m->error_kind) return -1;
    if (!pictures || !count) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_dino_step: no pictures");
    if (!d->iters) d->iters = mmixi_max(1, count / B);
    if (d->step >= d->config.epochs * d->iters)          /* over: it needs no crops to say so */
        return mmix_dino_step_crops(d, NULL, NULL, stats);
    index = (size_t *)mmixi_step(m, B * sizeof *index);
    global = mmix_new4(m, 2 * B, 3, a->global_size, a->global_size);
    if (a->local_count) local = mmix_new4(m, a->local_count * B, 3, a->local_size, a->local_size);
    if (!index || !global || (a->local_count && !local)) return -1;
    m->seed = d->config.seed;
    failed = mmixi_dino_shuffle(d, count, d->step / d->iters);
    for (size_t i = 0; !failed && i < B; i++) index[i] = d->order[(d->step % d->iters * B + i) % count];
    if (!failed) failed = mmix_augment_batch(m, a, pictures, index, B, d->step, global, local);
    m->seed = seed;
    return failed ? -1 : mmix_dino_step_crops(d, global, local, stats);
}

/* ==== >>distillation =================================================================
   a student with M-MATE learns in stages what its teacher with attention says

   One call: the teacher without recording, its mixers' outputs kept if L_hid asks for them; the student on
   the same tokens; logits at answer positions alone; gradients weighted by the number of answer tokens, so
   that batches of any size add up to one of them all (L_hid nearly: it is relative to its own batch's mean
   square), and an optimiser step when there are enough. Each stage freezes what it does not train and begins
   with moments of 0.
   ==================================================================================== */

struct mmix_distill {
    mmix_ctx *m;
    const mmix_decoder *teacher;
    mmix_decoder *student;
    mmix_distill_config config;
    size_t stage, step;                          /* optimiser steps made in the stage */
    uint64_t number;                             /* calls made */
    size_t tokens;                               /* answer tokens whose gradients wait */
    mmix_adamw_state adamw[2];                   /* of decoder and adapters; zeroed where nothing trains */
    char *note;
    size_t note_size;
};

MMIXDEF mmix_distill_config mmix_linmu_stages(void)
{
    mmix_distill_config c;
    memset(&c, 0, sizeof c);
    c.stages = 3;
    for (int i = 0; i < 3; i++) {
        mmix_stage *s = &c.stage[i];
        s->train = i == 0 ? MMIX_TRAIN_FLEX : i == 1 ? MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN
            : MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN | MMIX_TRAIN_LORA;
        s->hidden = i < 2;
        s->token = 1;
        s->sequence = s->supervised = i == 2;
        s->temperature = 1;
        s->steps = 300;
        s->warmup = 10;
        s->lr = i < 2 ? 1e-3 : 5e-4;
        s->min_lr = 1e-5;
        s->weight_decay = 0.01;
        s->clip = 1;
    }
    c.lora_rank = 8;
    c.lora_alpha = 16;
    c.lora_targets = MMIX_LORA_FFN;
    c.calibrate = 1;
    return c;
}

static int mmixi_stage_trains(int train, const char *name)
{
    const char *mmate = strstr(name, ".mmate.");
    const int needs = strstr(name, ".lora_") ? MMIX_TRAIN_LORA : !mmate ? MMIX_TRAIN_REST
        : !strncmp(mmate + 7, "flex.", 5) ? MMIX_TRAIN_FLEX : !strncmp(mmate + 7, "swin.", 5)
        ? MMIX_TRAIN_SWIN
        : MMIX_TRAIN_FLEX | MMIX_TRAIN_SWIN;
    return (train & needs) == needs;
}
/* Freezes and thaws a list for a stage, and gives it moments of 0 if any of it trains. */
static int mmixi_distill_list(mmix_params *p, int train, mmix_adamw_state *adamw)
{
    int any = 0;
    mmix_adamw_free(adamw);
    for (size_t i = 0; p && i < p->count; i++) {
        p->at[i].frozen = !mmixi_stage_trains(train, p->at[i].name);
        any |= !p->at[i].frozen;
    }
    return any ? mmix_adamw_init(adamw, p) : p ? mmix_params_train(p, 0) : 0;
}
static int mmixi_distill_begin(mmix_distill *run)
{
    mmix_distill_config *c = &run->config;
    mmix_decoder *d = run->student;
    const int train = run->stage < c->stages ? c->stage[run->stage].train : 0;
    if (train & MMIX_TRAIN_LORA && !d->adapters
        && mmix_decoder_lora(d, c->lora_rank, c->lora_alpha, c->lora_targets)) return -1;
    if (d->adapters) {                           /* perhaps the caller's: a saved run says what they are */
        c->lora_rank = d->lora.rank;
        c->lora_alpha = d->lora.alpha;
        c->lora_targets = d->lora.targets;
    }
    return mmixi_distill_list(d->params, train, &run->adamw[0])
        || mmixi_distill_list(d->adapters, train, &run->adamw[1]) ? -1 : 0;
}
/* What is wrong with a stage, or NULL. */
static const char *mmixi_stage_wrong(const mmix_distill_config *c, const mmix_stage *s, const mmix_decoder *d)
{
    const double least[7] = { s->hidden, s->token, s->sequence, s->supervised, s->min_lr, s->weight_decay,
                              s->clip };
    int any = s->train & MMIX_TRAIN_LORA;
    if (s->train < 1 || s->train > 15) return "train is a sum of MMIX_TRAIN_…";
    if (any && !d->adapters
        && (!c->lora_rank || !(c->lora_targets & (MMIX_LORA_FFN | MMIX_LORA_MIXER))))
        return "LoRA wants a rank and targets";
    if (!(s->temperature > 0 && s->temperature <= DBL_MAX)) return "the temperature is above 0";
    if (!(s->lr > 0 && s->lr <= DBL_MAX)) return "the rate is above 0";
    for (int i = 0; i < 7; i++)
        if (!(least[i] >= 0 && least[i] <= DBL_MAX))
            return "the weights of losses, min_lr, weight_decay and clip are not below 0";
    if (!(s->hidden + s->token + s->sequence + s->supervised > 0)) return "a loss has a weight above 0";
    for (size_t i = 0; !any && i < d->params->count; i++)
        any = mmixi_stage_trains(s->train, d->params->at[i].name);
    return any || !s->steps ? NULL : "it trains something that the student has";
}
MMIXDEF mmix_distill *mmix_distill_create(const mmix_decoder *teacher, mmix_decoder *student,
                                          mmix_distill_config config)
{
    const char *who = "mmix_distill_create";
    mmix_ctx *m = student ? student->m : NULL;
    mmix_distill *run;
    if (!m || !teacher || m->error_kind) return NULL;
    if (teacher == student || student->in_run) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a student that is %s", who,
                  student->in_run ? "in no other run" : "another decoder than its teacher");
        return NULL;
    }
    if (teacher->m != m || teacher->config.vocabulary != student->config.vocabulary
        || teacher->config.depth != student->config.depth || teacher->config.dim != student->config.dim
        || teacher->config.media != student->config.media) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "%s: expected a student of its teacher's context, vocabulary, depth, dim and media, "
                  "found %.0f, %.0f, %.0f and %.0f for %.0f, %.0f, %.0f and %.0f", who,
                  (double)student->config.vocabulary, (double)student->config.depth,
                  (double)student->config.dim,
                  (double)student->config.media, (double)teacher->config.vocabulary,
                  (double)teacher->config.depth, (double)teacher->config.dim, (double)teacher->config.media);
        return NULL;
    }
    if (!config.stages || config.stages > MMIX_MAX_STAGES) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: %.0f stages, expected 1 to %d", who, (double)config.stages,
                  MMIX_MAX_STAGES);
        return NULL;
    }
    for (size_t i = 0; i < config.stages; i++) {
        const mmix_stage *s = &config.stage[i];
        const char *wrong = mmixi_stage_wrong(&config, s, student);
        if (!wrong) continue;
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "%s: stage %.0f, expected that %s; found train %d, LoRA of rank %.0f at targets %d, "
                  "temperature %g, rate %g to %g, losses weighted %g, %g, %g, %g, decay %g, clip %g", who,
                  (double)i, wrong, s->train, (double)config.lora_rank, config.lora_targets, s->temperature,
                  s->lr, s->min_lr, s->hidden, s->token, s->sequence, s->supervised, s->weight_decay,
                  s->clip);
        return NULL;
    }
    run = (mmix_distill *)mmixi_alloc(m, sizeof *run);
    if (!run) return NULL;
    memset(run, 0, sizeof *run);
    run->m = m;
    run->teacher = teacher;
    run->student = student;
    run->config = config;
    student->in_run = 1;
    if (!mmixi_distill_begin(run)) return run;
    mmix_distill_destroy(run);
    return NULL;
}
MMIXDEF void mmix_distill_destroy(mmix_distill *run)
{
    if (!run) return;
    run->student->in_run = 0;
    mmixi_distill_list(run->student->params, 0, &run->adamw[0]);
    mmixi_distill_list(run->student->adapters, 0, &run->adamw[1]);
    mmixi_free(run->m, run->note, run->note_size);
    mmixi_free(run->m, run, sizeof *run);
}
MMIXDEF uint64_t mmix_distill_number(const mmix_distill *run) { return run ? run->number : 0; }
MMIXDEF const char *mmix_distill_note(const mmix_distill *run) { return run ? run->note : NULL; }

/* ---- answers ---- */

/* The answers of a batch: n of them; of each the row among B·L, and the token wanted. */
typedef struct mmixi_answers { mmix_tensor *rows, *wanted; size_t n; } mmixi_answers;
static int mmixi_answers_find(mmix_ctx *m, const mmix_tensor *target, mmixi_answers *a)
{
    size_t shape[2];
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < mmix_count(target); i++) a->n += mmixi_index(target, i) >= 0;
    shape[0] = 1;
    shape[1] = a->n;
    a->rows = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    a->wanted = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
    if (!a->rows || !a->wanted) return -1;
    for (size_t i = 0, k = 0; i < mmix_count(target); i++) {
        if (mmixi_index(target, i) < 0) continue;
        mmix_data_i32(a->rows)[k] = (int32_t)i;
        mmix_data_i32(a->wanted)[k++] = mmixi_index(target, i);
    }
    return 0;
}
/* Logits (1, n, K) at the answers. */
static mmix_tensor *mmixi_answer_logits(mmix_ctx *m, const mmix_decoder *d, mmix_tensor *hidden,
                                        const mmixi_answers *a)
{
    size_t shape[2];
    if (!hidden) return NULL;
    shape[0] = hidden->shape[0] * hidden->shape[1];
    shape[1] = hidden->shape[2];
    return mmix_decoder_logits(m, d, mmix_gather(m, mmix_reshape(m, hidden, 2, shape), a->rows));
}
/* Targets that are tokens of the decoder, at least one of them. */
static int mmixi_targets_check(const mmix_distill *run, const char *who, const char *name,
                               const mmix_tensor *target)
{
    const size_t K = run->student->config.vocabulary, L = target->shape[1];
    size_t n = 0;
    for (size_t i = 0; i < mmix_count(target); i++) {
        const int32_t token = mmixi_index(target, i);
        n += token >= 0;
        if (token >= 0 && (size_t)token >= K)
            return mmix_fail(run->m, MMIX_ERROR_ARGUMENT, "%s: %s of position %.0f of sequence %.0f is %d, "
                             "expected at most %.0f", who, name, (double)(i % L), (double)(i / L), (int)token,
                             (double)K - 1), 0;
    }
    return n ? 1 : (mmix_fail(run->m, MMIX_ERROR_ARGUMENT, "%s: no answer: every %s is negative", who, name),
                    0);
}
static int mmixi_distill_check(const mmix_distill *run, const char *who, const mmix_distill_batch *b)
{
    mmix_ctx *m = run->m;
    const size_t B = b ? mmix_shape(b->input.tokens, 0) : 0, L = b ? mmix_shape(b->input.tokens, 1) : 0;
    if (!b) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a batch, found NULL", who), 0;
    return mmixi_check(m, who, "tokens", b->input.tokens, MMIX_DTYPE_I32, 2, MMIXI_ANY, MMIXI_ANY, 0, 0)
        && mmixi_check(m, who, "target", b->target, MMIX_DTYPE_I32, 2, B, L, 0, 0)
        && mmixi_targets_check(run, who, "target", b->target)
        && mmixi_spans_check(m, who, b->input.spans, b->input.n_spans, L)
        && mmixi_optional(m, who, "mask", b->mask, MMIX_DTYPE_I32, 2, B, L, 0, 0)
        && (!b->decoded || (mmixi_check(m, who, "decoded", b->decoded->tokens, MMIX_DTYPE_I32, 2, B,
                                        MMIXI_ANY, 0, 0)
                            && mmixi_check(m, who, "decoded_target", b->decoded_target, MMIX_DTYPE_I32, 2, B,
                                           b->decoded->tokens->shape[1], 0, 0)
                            && mmixi_targets_check(run, who, "decoded_target", b->decoded_target)));
}
/* Rows of a tensor (B, …). */
static mmix_tensor *mmixi_sequences_of(mmix_ctx *m, mmix_tensor *x, mmix_tensor *rows)
{
    size_t shape[MMIX_MAX_DIMS];
    mmix_tensor *y;
    memcpy(shape, x->shape, sizeof shape);
    shape[1] = mmix_count(x) / x->shape[0];
    y = mmix_gather(m, mmix_reshape(m, x, 2, shape), rows);
    memcpy(shape, x->shape, sizeof shape);
    shape[0] = mmix_count(rows);
    return mmix_reshape(m, y, x->ndim, shape);
}
/* The teacher's own answers, greedily, in place of the true ones: rows whose answers begin at the same place
   together. */
static int mmixi_distill_decode(const mmix_distill *run, const char *who, const mmix_distill_batch *b,
                                mmix_sequence *decoded, mmix_tensor **target)
{
    mmix_ctx *m = run->m;
    const size_t B = b->input.tokens->shape[0], L = b->input.tokens->shape[1];
    const mmix_span *last = b->input.n_spans ? &b->input.spans[b->input.n_spans - 1] : NULL;
    const size_t behind = last ? last->start + mmixi_span_tokens(last) : 0;      /* the first place there */
    size_t *first = (size_t *)mmixi_step_array(m, B, 2, sizeof *first), *length = first + B;
    int32_t *tokens, *wanted;
    *decoded = b->input;
    decoded->tokens = mmix_new(m, MMIX_DTYPE_I32, 2, b->input.tokens->shape);
    *target = mmix_new(m, MMIX_DTYPE_I32, 2, b->input.tokens->shape);
    if (!first || !decoded->tokens || !*target) return -1;
    tokens = mmix_data_i32(decoded->tokens);
    wanted = mmix_data_i32(*target);
    for (size_t r = 0; r < B; r++) {
        first[r] = L;
        length[r] = 0;
        for (size_t t = 0; t < L; t++) {
            tokens[r * L + t] = mmixi_index(b->input.tokens, r * L + t);
            wanted[r * L + t] = -1;
            if (mmixi_index(b->target, r * L + t) < 0) continue;
            if (!length[r]++) first[r] = t;
            if (first[r] + length[r] != t + 1 || t + 1 < behind)
                return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: position %.0f of row %.0f has a target %s; "
                                 "where the teacher is to decode, an answer is one run behind all spans", who,
                                 (double)t, (double)r,
                                 t + 1 < behind ? "before a span's end" : "after a gap");
        }
    }
    for (size_t r = 0; r < B; r++) {
        const mmix_mark mark = mmix_mark_here(m);
        const size_t at = first[r];
        size_t n = 0, count = 0, shape[2];
        mmix_sequence q = b->input;
        mmix_tensor *rows;
        int32_t *made;
        if (at == L) continue;
        for (size_t i = r; i < B; i++)
            if (first[i] == at) {
                n++;
                count = mmixi_max(count, length[i]);
            }
        rows = mmix_new(m, MMIX_DTYPE_I32, 1, &n);
        shape[0] = n;
        shape[1] = at + 1;
        q.tokens = mmix_new(m, MMIX_DTYPE_I32, 2, shape);
        made = (int32_t *)mmixi_step_array(m, n, count, sizeof *made);
        if (!rows || !q.tokens || !made) return -1;
        for (size_t i = r, k = 0; i < B; i++)
            if (first[i] == at) {
                mmix_data_i32(rows)[k] = (int32_t)i;
                memcpy(mmix_data_i32(q.tokens) + k++ * shape[1], tokens + i * L, shape[1] * sizeof *tokens);
            }
        if (q.media) q.media = mmixi_sequences_of(m, q.media, rows);
        if (!mmix_decoder_continue(m, run->teacher, &q, NULL, made, count)) return -1;
        for (size_t k = 0; k < n; k++) {
            const size_t i = (size_t)mmix_data_i32(rows)[k];
            for (size_t t = 0; t < length[i] && at + t < L; t++) {
                wanted[i * L + at + t] = made[k * count + t];
                if (at + t + 1 < L) tokens[i * L + at + t + 1] = made[k * count + t];
            }
            first[i] = L;                        /* done */
        }
        mmix_rewind(m, mark);
    }
    return 0;
}
/* Whether two sequences are the same as far as the answers of `target` depend on them. */
static int mmixi_same_until(const mmix_sequence *a, const mmix_sequence *b, const mmix_tensor *target)
{
    const size_t B = b->tokens->shape[0], L = b->tokens->shape[1];
    if (a->media != b->media || a->tokens->shape[1] != L || a->spans != b->spans || a->n_spans != b->n_spans)
        return 0;
    for (size_t r = 0; r < B; r++) {
        size_t end = L;
        while (end && mmixi_index(target, r * L + end - 1) < 0) end--;
        for (size_t t = 0; t < end; t++)
            if (mmixi_index(a->tokens, r * L + t) != mmixi_index(b->tokens, r * L + t)) return 0;
    }
    return 1;
}

/* ---- losses ---- */

static mmix_tensor *mmixi_weighted(mmix_ctx *m, mmix_tensor *sum, double weight, mmix_tensor *loss,
                                   double *seen)
{
    *seen = mmix_item(loss);
    if (!(weight > 0)) return sum;
    loss = mmix_scale(m, loss, weight, 0);
    return sum ? mmix_add(m, sum, loss) : loss;
}
/* All losses of a checked batch whose λ is above 0 (with `all` the others, too, but L_seq): their sum,
   recorded if recording is on; the parts in stats. NULL on error. */
static mmix_tensor *mmixi_distill_loss(const mmix_distill *run, const char *who, const mmix_distill_batch *b,
                                       int all, mmix_distill_stats *stats)
{
    mmix_ctx *m = run->m;
    const mmix_distill_config *c = &run->config;
    const mmix_stage *s = &c->stage[mmixi_min(run->stage, c->stages - 1)];
    const size_t depth = run->student->config.depth;
    const int record = mmix_record(m, 0), hid = all || s->hidden > 0;
    mmix_decoder_options teach, learn;
    mmix_tensor **taps = (mmix_tensor **)mmixi_step_array(m, 3 * depth, 1, sizeof *taps), *teacher, *student,
        *x, *sum = NULL, *target = b->decoded_target;
    mmix_sequence decoded;
    mmixi_answers a, own;
    if (!taps || mmixi_answers_find(m, b->target, &a)) return NULL;
    stats->tokens = a.n;
    memset(&teach, 0, sizeof teach);
    memset(&learn, 0, sizeof learn);
    if (hid && !c->hidden_outputs) {
        teach.mixed = taps;
        learn.mixed = taps + depth;
    }
    if ((hid && c->hidden_outputs) || c->teacher_inputs) teach.outputs = taps + (teach.mixed ? 2 * depth : 0);
    if (hid && c->hidden_outputs) learn.outputs = taps + depth;
    if (s->sequence > 0 && b->decoded) decoded = *b->decoded;
    else if (s->sequence > 0 && mmixi_distill_decode(run, who, b, &decoded, &target)) return NULL;
    teacher = mmixi_answer_logits(m, run->teacher, mmix_decoder_forward(m, run->teacher, &b->input, &teach),
                                  &a);
    if (c->teacher_inputs && teacher) {          /* the first layer reads the embedding, as the teacher's */
        learn.inputs = (mmix_tensor **)mmixi_step_array(m, depth, 1, sizeof *learn.inputs);
        for (size_t i = 0; learn.inputs && i < depth; i++) learn.inputs[i] = i ? teach.outputs[i - 1] : NULL;
    }
    mmix_record(m, record);
    x = m->error_kind ? NULL : mmix_decoder_forward(m, run->student, &b->input, &learn);
    student = mmixi_answer_logits(m, run->student, x, &a);
    if (hid && student) {
        mmix_tensor *mean = NULL, **its = teach.mixed ? teach.mixed : teach.outputs,
            **of = learn.mixed ? learn.mixed : learn.outputs;
        for (size_t i = 0; i < depth; i++) {
            mmix_tensor *one = mmix_kd_hidden(m, of[i], its[i], b->mask, 1);
            mean = mean ? mmix_add(m, mean, one) : one;
        }
        sum = mmixi_weighted(m, sum, s->hidden, mmix_scale(m, mean, 1 / (double)depth, 0), &stats->hidden);
    }
    if ((all || s->token > 0) && student)
        sum = mmixi_weighted(m, sum, s->token, mmix_kd_token(m, student, teacher, NULL, s->temperature),
                             &stats->token);
    if ((all || s->supervised > 0) && student)
        sum = mmixi_weighted(m, sum, s->supervised, mmix_cross_entropy(m, student, a.wanted, -1),
                             &stats->supervised);
    if (s->sequence > 0 && student && !mmixi_answers_find(m, target, &own)) {
        if (!mmixi_same_until(&decoded, &b->input, target) || c->teacher_inputs)
            x = mmix_decoder_forward(m, run->student, &decoded, NULL);
        sum = mmixi_weighted(m, sum, s->sequence,
                             mmix_cross_entropy(m, mmixi_answer_logits(m, run->student, x, &own), own.wanted,
                                                -1),
                             &stats->sequence);
    }
    return m->error_kind ? NULL : sum;
}
static void mmixi_distill_stats(const mmix_distill *run, mmix_distill_stats *s)
{
    memset(s, 0, sizeof *s);
    s->stage = run->stage;
    s->step = run->step;
    s->steps = run->stage < run->config.stages ? run->config.stage[run->stage].steps : 0;
}
MMIXDEF int mmix_distill_losses(mmix_distill *run, const mmix_distill_batch *batch, mmix_distill_stats *stats)
{
    mmix_distill_stats s;
    mmix_mark mark;
    mmix_tensor *loss;
    int record;
    if (!run || run->m->error_kind || !mmixi_distill_check(run, "mmix_distill_losses", batch)) return -1;
    mmixi_distill_stats(run, &s);
    mark = mmix_mark_here(run->m);
    record = mmix_record(run->m, 0);
    loss = mmixi_distill_loss(run, "mmix_distill_losses", batch, 1, &s);
    if (loss) s.loss = mmix_item(loss);
    mmix_record(run->m, record);
    mmix_rewind(run->m, mark);
    if (stats) *stats = s;
    return run->m->error_kind ? -1 : 0;
}

/* ---- steps ---- */

typedef struct mmixi_scale_job { const mmix_params *p; mmix_real scale; } mmixi_scale_job;
static void mmixi_scale_range(void *arg, size_t begin, size_t end, size_t lane)
{
    const mmixi_scale_job *j = (const mmixi_scale_job *)arg;
    mmix_real *g = j->p->gradients + begin;
    (void)lane;
    j->p->m->k->scale(end - begin, j->scale, g, g);
}
/* The optimiser's step on what has been added up, and the next stage if it was the last. */
static int mmixi_distill_update(mmix_distill *run, mmix_distill_stats *s)
{
    const mmix_stage *stage = &run->config.stage[run->stage];
    mmix_adamw o = mmix_adamw_default();
    o.lr = s->lr = mmix_schedule_cosine(stage->lr, stage->min_lr, stage->steps, 1, stage->warmup,
                                        stage->lr / (double)(stage->warmup + 1), run->step);
    o.weight_decay = stage->weight_decay;
    for (int i = 0; i < 2; i++) {
        mmixi_scale_job j;
        j.p = run->adamw[i].params;
        j.scale = (mmix_real)(1 / (double)run->tokens);
        if (j.p) mmixi_ranges(run->m, j.p->slab, MMIXI_PIECE, mmixi_scale_range, &j);
    }
    run->tokens = 0;
    s->gradient_norm = mmixi_adamw_lists(run->m, run->adamw, 2, &o, stage->clip, NULL);
    if (s->gradient_norm < 0) {                  /* what had been added up is of no use */
        for (int i = 0; i < 2; i++) mmix_params_zero_grad(run->adamw[i].params);
        return -1;
    }
    s->updated = 1;
    if (++run->step < stage->steps) return 0;
    run->step = 0;
    run->stage++;
    return mmixi_distill_begin(run);
}
MMIXDEF int mmix_distill_step(mmix_distill *run, const mmix_distill_batch *batch, mmix_distill_stats *stats)
{
    mmix_ctx *m = run ? run->m : NULL;
    mmix_distill_stats s;
    mmix_tensor *loss, *up;
    mmix_mark mark;
    int record, failed = 0;
    if (!run || m->error_kind) return -1;
    while (run->stage < run->config.stages && !run->config.stage[run->stage].steps) {
        run->stage++;                            /* a stage of no steps */
        if (mmixi_distill_begin(run)) return -1;
    }
    mmixi_distill_stats(run, &s);
    if (stats) *stats = s;
    if (run->stage >= run->config.stages) return 0;
    if (!mmixi_distill_check(run, "mmix_distill_step", batch)) return -1;
    if (!run->number && run->config.calibrate
        && mmix_linmu_calibrate(run->student, run->teacher, &batch->input)) return -1;
    mark = mmix_mark_here(m);
    record = mmix_record(m, m->recording ? m->recording : 1);
    loss = mmixi_distill_loss(run, "mmix_distill_step", batch, 0, &s);
    mmix_record(m, record);
    if (!loss) return -1;
    s.loss = mmix_item(loss);
    if (!mmixi_wants(loss))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_distill_step: nothing that stage %.0f trains takes "
                         "part in this batch (Local-Swin needs spans or a text window)", (double)run->stage);
    if (!(s.loss - s.loss == 0))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_distill_step: the loss of call %.0f is not a number; a lower "
                         "rate may help", (double)run->number);
    up = mmix_new(m, MMIX_DTYPE_REAL, 0, NULL);
    if (!up) return -1;
    mmix_fill(up, (double)s.tokens);
    if (mmix_backward_from(m, &loss, &up, 1)) return -1;
    mmix_rewind(m, mark);
    run->number++;
    run->tokens += s.tokens;
    if (run->tokens >= run->config.step_tokens) failed = mmixi_distill_update(run, &s);
    if (stats) *stats = s;
    return failed ? -1 : 1;
}
MMIXDEF int mmix_distill_run(mmix_distill *run, mmix_distill_next *next, mmix_distill_show *show, void *user)
{
    if (!run) return -1;
    if (!next) return mmix_fail(run->m, MMIX_ERROR_ARGUMENT, "mmix_distill_run: next is NULL");
    for (;;) {
        mmix_distill_batch batch;
        mmix_distill_stats stats;
        int more;
        mmix_reset(run->m);
        if (run->stage >= run->config.stages) return run->m->error_kind ? -1 : 0;
        memset(&batch, 0, sizeof batch);
        if (next(user, run->m, run->number, &batch)) return run->m->error_kind ? -1 : 1;
        more = mmix_distill_step(run, &batch, &stats);
        if (more <= 0) return more;
        if (show && show(user, &stats)) return 1;
    }
}
/* ==== >>metrics ======================================================================

   Feature maps, Binary-AUC, IoU, k-NN, PCA, class strategies. Sums are in double; every output is one task's,
   so threads change nothing.
   ==================================================================================== */

/* ------------------------------------------------------------------------------------
   Feature maps      s = cos(q, patch) or q · patch;  (s - min) / (max - min);  bilinear

   q (D): the query, patches (gh, gw, D), s (gh, gw), map (h, w).
   torch: F.interpolate(scaled, (h, w), mode="bilinear", align_corners=False)
   ------------------------------------------------------------------------------------ */

typedef struct mmixi_map_source {
    const mmix_real *query, *patches;
    const size_t *at;                            /* which rows of query; NULL: the first `queries` */
    size_t queries, query_step, patch_step, D;   /* steps from row to row */
    int similarity;
} mmixi_map_source;

/* Output i of `out` over an axis of n cells is (1 - w) cell[*a] + w cell[*b]. Returns w. */
static double mmixi_map_tap(size_t i, size_t n, size_t out, size_t *a, size_t *b)
{
    double s = ((double)i + 0.5) * (double)n / (double)out - 0.5;
    if (s < 0) s = 0;
    *a = mmixi_min((size_t)s, n - 1);
    *b = mmixi_min(*a + 1, n - 1);
    return s - (double)*a;
}

/* Image b of the result; q (D) is scratch. Returns 0 if a similarity is not finite. */
static int mmixi_map_image(mmix_map *r, size_t b, const mmixi_map_source *from, double *q)
{
    size_t n = r->grid_h * r->grid_w, D = from->D;
    mmix_real *similarity = r->similarity + b * n, *scaled = r->scaled + b * n;
    mmix_real *map = r->map + b * r->h * r->w;
    double low = 0, high = 0, length = 0;
    for (size_t d = 0; d < D; d++) {
        q[d] = 0;
        for (size_t i = 0; i < from->queries; i++)
            q[d] += (double)from->query[(from->at ? from->at[i] : i) * from->query_step + d];
        q[d] /= (double)from->queries;
        length += q[d] * q[d];
    }
    for (size_t i = 0; i < n; i++) {
        const mmix_real *patch = from->patches + i * from->patch_step;
        double dot = 0, square = 0, s;
        for (size_t d = 0; d < D; d++) {
            dot += q[d] * (double)patch[d];
            square += (double)patch[d] * (double)patch[d];
        }
        if (from->similarity == MMIX_MAP_COSINE) {
            if (length > 1e-24) dot /= sqrt(length);             /* a vector of length 0 is like nothing: 0 */
            if (square > 1e-24) dot /= sqrt(square);
        }
        similarity[i] = (mmix_real)dot;
        s = (double)similarity[i];
        if (!(fabs(s) <= DBL_MAX)) return 0;
        if (i == 0 || s < low) low = s;
        if (i == 0 || s > high) high = s;
    }
    for (size_t i = 0; i < n; i++)
        scaled[i] = (mmix_real)(high > low ? ((double)similarity[i] - low) / (high - low) : 0);
    for (size_t y = 0; y < r->h; y++) {
        size_t y0, y1, x0, x1;
        double wy = mmixi_map_tap(y, r->grid_h, r->h, &y0, &y1);
        const mmix_real *top = scaled + y0 * r->grid_w, *bottom = scaled + y1 * r->grid_w;
        for (size_t x = 0; x < r->w; x++) {
            double wx = mmixi_map_tap(x, r->grid_w, r->w, &x0, &x1);
            double above = (1 - wx) * (double)top[x0] + wx * (double)top[x1];
            double below = (1 - wx) * (double)bottom[x0] + wx * (double)bottom[x1];
            *map++ = (mmix_real)((1 - wy) * above + wy * below);
        }
    }
    return 1;
}

/* All r->B images, `next_query` and `next_patches` numbers apart, r's sizes being filled in. */
static int mmixi_map_run(mmix_ctx *m, const char *who, mmix_map *r, mmixi_map_source from, size_t next_query,
                         size_t next_patches, const char *layer, const char *token)
{
    const char *similarity = from.similarity == MMIX_MAP_DOT ? "dot product" : "cosine";
    size_t cells, pixels, b = 0;
    double *q;
    mmix_mark mark;
    if (from.similarity != MMIX_MAP_COSINE && from.similarity != MMIX_MAP_DOT)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "%s: similarity is %d, expected MMIX_MAP_COSINE or MMIX_MAP_DOT", who,
                         from.similarity);
    if (!r->B || !r->grid_h || !r->grid_w || !from.D || !r->h || !r->w || !from.queries)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "%s: no size may be 0: %zu images, %zu queries, grid %zu x %zu, width %zu, map"
                         " %zu x %zu", who, r->B, from.queries, r->grid_h, r->grid_w, from.D, r->h, r->w);
    if (!mmixi_mul_ok(r->grid_h, r->grid_w, &cells) || !mmixi_mul_ok(r->h, r->w, &pixels))
        return mmix_fail(m, MMIX_ERROR_MEMORY, "%s: a grid of %zu x %zu or a map of %zu x %zu is too large",
                         who, r->grid_h, r->grid_w, r->h, r->w);
    r->similarity = mmixi_reals(m, r->B, cells);
    r->scaled = mmixi_reals(m, r->B, cells);
    r->map = mmixi_reals(m, r->B, pixels);
    mark = mmix_mark_here(m);
    q = mmixi_doubles(m, from.D, 1);
    if (!r->similarity || !r->scaled || !r->map || !q) return -1;
    for (; b < r->B && mmixi_map_image(r, b, &from, q); b++) {
        from.query += next_query;
        from.patches += next_patches;
    }
    mmix_rewind(m, mark);
    if (b < r->B)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: a similarity of image %zu is not finite", who, b);
    snprintf(r->how, sizeof r->how,
             "%.60s; %.60s; %s with each patch token; min-max scaled to [0, 1]; bilinear from %zu x %zu to "
             "%zu x %zu", layer, token, similarity, r->grid_h, r->grid_w, r->h, r->w);
    return 0;
}

MMIXDEF int mmix_feature_map(mmix_ctx *m, const mmix_map_options *options, const mmix_real *query,
                             size_t queries, const mmix_real *patches, size_t gh, size_t gw, size_t D,
                             size_t h, size_t w, mmix_map *result)
{
    const char *token = queries == 1 ? "query as given" : "mean of the given queries";
    const char *layer = "patches as given";
    mmixi_map_source from;
    mmix_map r;
    memset(&from, 0, sizeof from);
    memset(&r, 0, sizeof r);
    memset(result, 0, sizeof *result);
    if (mmix_error(m)) return -1;
    if (!query || !patches)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_feature_map: %s is NULL", query ? "patches" : "query");
    from.query = query;
    from.patches = patches;
    from.queries = queries;
    from.query_step = from.patch_step = from.D = D;
    from.similarity = options ? options->similarity : MMIX_MAP_COSINE;
    if (options && options->token) token = options->token;
    if (options && options->layer) layer = options->layer;
    r.B = 1;
    r.grid_h = gh;
    r.grid_w = gw;
    r.h = h;
    r.w = w;
    if (mmixi_map_run(m, "mmix_feature_map", &r, from, 0, 0, layer, token)) return -1;
    *result = r;
    return 0;
}

MMIXDEF int mmix_vision_map(mmix_ctx *m, const mmix_map_options *options, const mmix_features *features,
                            size_t h, size_t w, mmix_map *result)
{
    int by_position = options && options->positions;
    const mmix_tensor *query = by_position ? features->tokens : features->token, *patches = features->patches;
    size_t L = by_position ? mmix_shape(query, 1) : 1, n = mmix_shape(patches, 1);
    char token[64] = "class token";
    mmixi_map_source from;
    mmix_map r;
    memset(&from, 0, sizeof from);
    memset(&r, 0, sizeof r);
    memset(result, 0, sizeof *result);
    if (mmix_error(m)) return -1;
    from.query = mmix_data(query);
    from.patches = mmix_data(patches);
    if (!from.query || !from.patches)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_vision_map: features.%s has no values here",
                         from.query ? "patches" : by_position ? "tokens" : "token");
    from.at = by_position ? options->positions : NULL;
    from.queries = by_position ? options->n_positions : 1;
    from.query_step = by_position ? mmix_stride(query, 1) : 0;
    from.patch_step = mmix_stride(patches, 1);
    from.D = mmix_shape(patches, -1);
    from.similarity = options ? options->similarity : MMIX_MAP_COSINE;
    r.B = mmix_shape(patches, 0);
    r.grid_h = features->grid_h;
    r.grid_w = features->grid_w;
    r.h = h;
    r.w = w;
    if (mmix_shape(query, 0) != r.B || mmix_shape(query, -1) != from.D || r.grid_h * r.grid_w != n)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_vision_map: patches (%zu, %zu, %zu) do not go with queries of width %zu of %zu"
                         " images on a grid of %zu x %zu", r.B, n, from.D, mmix_shape(query, -1),
                         mmix_shape(query, 0), r.grid_h, r.grid_w);
    for (size_t i = 0; from.at && i < from.queries; i++)
        if (from.at[i] >= L)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_vision_map: positions[%zu] is %zu of %zu tokens",
                             i, from.at[i], L);
    if (features->registers) snprintf(token, sizeof token, "mean of the registers");
    if (from.at && from.queries == 1) snprintf(token, sizeof token, "token %zu", from.at[0]);
    if (from.at && from.queries > 1)
        snprintf(token, sizeof token, "mean of %zu tokens, %zu to %zu", from.queries, from.at[0],
                 from.at[from.queries - 1]);
    if (mmixi_map_run(m, "mmix_vision_map", &r, from, mmix_stride(query, 0), mmix_stride(patches, 0),
                      "last block after the final norm", token)) return -1;
    *result = r;
    return 0;
}

/* ------------------------------------------------------------------------------------
   Binary-AUC        R(t, S) = |map ≥ t ∩ S| / |S|;  TPR: S = foreground, FPR: S = background

   The area under (FPR, TPR) by trapezoids. With every distinct value a threshold it is the rank statistic
   P(fore > back) + ½ P(fore = back) (Hanley & McNeil 1982). auc = max(area, 1 - area), since a map may be
   right upside down ("RNN as Linear Transformer").
   ------------------------------------------------------------------------------------ */

enum { MMIXI_ROC_POINTS = 102 };                 /* of a mean curve: (0, 0), then fpr 0, 0.01, …, 1 */

typedef struct mmixi_auc_item { double value, fore, back; } mmixi_auc_item;
typedef struct mmixi_auc_size { size_t map_h, map_w, h, w; int32_t void_label; } mmixi_auc_size;

/* Merge sort, largest value first (qsort differs between platforms). Returns where the result is. */
static mmixi_auc_item *mmixi_auc_sort(mmixi_auc_item *a, mmixi_auc_item *b, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        mmixi_auc_item *sorted = b;
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t middle = mmixi_min(start + width, n), end = mmixi_min(middle + width, n);
            size_t i = start, j = middle;
            for (size_t o = start; o < end; o++) {
                int left = j >= end || (i < middle && a[i].value >= a[j].value);
                b[o] = left ? a[i++] : a[j++];
            }
        }
        b = a;
        a = sorted;
    }
    return a;
}

/* Length that pixel i and the cell from `start` to `end` have in common. */
static double mmixi_auc_overlap(size_t i, double start, double end)
{
    double a = (double)i > start ? (double)i : start, b = (double)i + 1 < end ? (double)i + 1 : end;
    return b - a;
}

/* One item for each cell of the map that is not all void: its value, and its shares of foreground and
   background by area. Where the map has the mask's size the cells are the pixels. Returns how many. */
static size_t mmixi_auc_items(mmixi_auc_item *items, const mmix_real *map, const int32_t *mask,
                              mmixi_auc_size z)
{
    double dy = (double)z.map_h, dx = (double)z.map_w;
    size_t n = 0;
    for (size_t r = 0; r < z.map_h; r++)
        for (size_t c = 0; c < z.map_w; c++, map++) {
            double top = (double)r * (double)z.h / dy, bottom = (double)(r + 1) * (double)z.h / dy;
            double left = (double)c * (double)z.w / dx, right = (double)(c + 1) * (double)z.w / dx;
            double fore = 0, back = 0;
            for (size_t y = (size_t)top; (double)y < bottom; y++)
                for (size_t x = (size_t)left; (double)x < right; x++) {
                    int32_t label = mask[y * z.w + x];
                    double area = mmixi_auc_overlap(y, top, bottom) * mmixi_auc_overlap(x, left, right);
                    if (z.void_label != 0 && label == z.void_label) continue;
                    if (label != 0) fore += area;
                    else back += area;
                }
            if (fore + back <= 0) continue;
            items[n].value = (double)*map;
            items[n].fore = fore / (fore + back);
            items[n].back = 1 - items[n].fore;
            n++;
        }
    return n;
}

/* The curve of n sorted items. Returns its area: over pixels an integer / (2 · fore · back), exact. */
static double mmixi_auc_curve(mmix_auc *roc, const mmixi_auc_item *s, size_t n, size_t thresholds)
{
    double fore = 0, back = 0, area = 0, low = s[n - 1].value, range = s[0].value - low;
    size_t i = 0, p = 1;
    roc->fpr[0] = roc->tpr[0] = 0;
    for (; thresholds ? p <= thresholds : i < n; p++) {
        double t = thresholds ? 1 - (double)(p - 1) / (double)(thresholds - 1) : s[i].value;
        double fore_before = fore, back_before = back;
        for (; i < n; i++) {
            double value = !thresholds ? s[i].value : range > 0 ? (s[i].value - low) / range : 0;
            if (!(value >= t)) break;
            fore += s[i].fore;
            back += s[i].back;
        }
        area += (back - back_before) * (fore + fore_before) / 2;
        roc->fpr[p] = back;
        roc->tpr[p] = fore;
    }
    roc->points = p;
    while (p-- > 1) {
        roc->fpr[p] /= back;
        roc->tpr[p] /= fore;
    }
    return area / (fore * back);
}

/* The items of images first … first + count - 1, checked; how many, or 0 after an error. */
static size_t mmixi_auc_gather(mmix_ctx *m, mmixi_auc_item *items, const mmix_real *map, const int32_t *mask,
                               mmixi_auc_size z, size_t first, size_t count)
{
    double fore = 0, back = 0;
    size_t n = 0, cells = z.map_h * z.map_w, pixels = z.h * z.w;
    for (size_t i = first; i < first + count; i++) {
        size_t end = n + mmixi_auc_items(items + n, map + i * cells, mask + i * pixels, z);
        for (; n < end; n++) {
            fore += items[n].fore;
            back += items[n].back;
            if (fabs(items[n].value) <= DBL_MAX) continue;
            mmix_fail(m, MMIX_ERROR_ARGUMENT,
                      "mmix_binary_auc: the map of image %zu holds a value that is not finite", i);
            return 0;
        }
    }
    if (fore > 0 && back > 0) return n;
    if (count > 1)
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_auc: all %zu masks together have no %s", count,
                  fore > 0 ? "background" : "foreground");
    else
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_auc: the mask of image %zu has no %s", first,
                  fore > 0 ? "background" : "foreground");
    return 0;
}

MMIXDEF int mmix_binary_auc(mmix_ctx *m, const mmix_auc_options *options, const mmix_real *map,
                            const int32_t *mask, size_t images, size_t h, size_t w, mmix_auc *result)
{
    mmix_auc_options o;
    mmix_auc all, one;                           /* one: of one image, scratch if there are several */
    mmixi_auc_size z;
    mmixi_auc_item *items;
    mmix_mark mark;
    size_t each, curves, cells, count, pixels, capacity;
    memset(&o, 0, sizeof o);
    memset(&all, 0, sizeof all);
    memset(&one, 0, sizeof one);
    memset(result, 0, sizeof *result);
    if (options) o = *options;
    if (mmix_error(m)) return -1;
    if (!map || !mask)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_auc: %s is NULL", map ? "mask" : "map");
    if (images == 0 || h == 0 || w == 0)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_auc: no size may be 0: %zu images of %zu x %zu",
                         images, h, w);
    if (o.thresholds == 1 || o.thresholds > SIZE_MAX / 64)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_binary_auc: thresholds is %zu, expected 0 (exact) or 2 and more",
                         o.thresholds);
    if ((o.map_h == 0) != (o.map_w == 0))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_binary_auc: map_h is %zu and map_w %zu, expected both or neither", o.map_h,
                         o.map_w);
    z.map_h = o.map_h ? o.map_h : h;
    z.map_w = o.map_w ? o.map_w : w;
    z.h = h;
    z.w = w;
    z.void_label = o.void_label;
    each = o.pooled ? images : 1;
    curves = images / each;
    if (!mmixi_mul_ok(z.map_h, z.map_w, &cells) || !mmixi_mul_ok(cells, each, &count)
        || !mmixi_mul_ok(h, w, &pixels))
        return mmix_fail(m, MMIX_ERROR_MEMORY,
                         "mmix_binary_auc: maps of %zu x %zu or masks of %zu x %zu are too large", z.map_h,
                         z.map_w, h, w);
    capacity = (o.thresholds ? o.thresholds : count) + 1;

    all.count = curves;
    all.points = curves > 1 ? (size_t)MMIXI_ROC_POINTS : capacity;
    all.auc_raw = mmixi_doubles(m, curves, 1);
    all.fpr = mmixi_doubles(m, all.points, 1);
    all.tpr = mmixi_doubles(m, all.points, 1);
    mark = mmix_mark_here(m);
    items = (mmixi_auc_item *)mmixi_step_array(m, 2, count, sizeof(mmixi_auc_item));
    one.count = 1;
    one.fpr = curves > 1 ? mmixi_doubles(m, capacity, 1) : all.fpr;
    one.tpr = curves > 1 ? mmixi_doubles(m, capacity, 1) : all.tpr;
    if (!all.auc_raw || !all.fpr || !all.tpr || !items || !one.fpr || !one.tpr) return -1;
    for (size_t p = 0; curves > 1 && p < all.points; p++) {
        all.fpr[p] = p ? (double)(p - 1) / (MMIXI_ROC_POINTS - 2) : 0;
        all.tpr[p] = 0;
    }
    for (size_t c = 0; c < curves; c++) {
        size_t n = mmixi_auc_gather(m, items, map, mask, z, c * each, each);
        if (!n) return -1;
        one.auc_raw = all.auc_raw + c;
        *one.auc_raw = mmixi_auc_curve(&one, mmixi_auc_sort(items, items + count, n), n, o.thresholds);
        all.auc += (*one.auc_raw > 0.5 ? *one.auc_raw : 1 - *one.auc_raw) / (double)curves;
        if (curves > 1) mmix_roc_add(all.tpr + 1, all.points - 1, &one);
        else all.points = one.points;
    }
    for (size_t p = 0; curves > 1 && p < all.points; p++) all.tpr[p] /= (double)curves;
    mmix_rewind(m, mark);
    *result = all;
    return 0;
}

/* The j-th of n points, in rising order; turned: less by 1. */
static double mmixi_roc_point(const double *rate, size_t j, size_t n, int turn)
{
    return turn ? -rate[n - 1 - j] : rate[j];
}

MMIXDEF void mmix_roc_add(double *tpr, size_t points, const mmix_auc *roc)
{
    int turn = roc->count == 1 && roc->auc_raw[0] < 0.5;
    size_t n = roc->points, j = 0;
    for (size_t i = 0; i < points && n > 0; i++) {
        /* turned, x - 1, rounded as the rates are, so that what is equal is found equal */
        const size_t step = turn ? points - 1 - i : i;
        double x = points > 1 ? (turn ? -1 : 1) * (double)step / (double)(points - 1) : -turn, x0, y0, x1;
        while (j + 1 < n && mmixi_roc_point(roc->fpr, j + 1, n, turn) <= x) j++;
        x0 = mmixi_roc_point(roc->fpr, j, n, turn);
        y0 = mmixi_roc_point(roc->tpr, j, n, turn);
        tpr[i] += turn + y0;
        if (j + 1 == n) continue;
        x1 = mmixi_roc_point(roc->fpr, j + 1, n, turn);
        tpr[i] += (mmixi_roc_point(roc->tpr, j + 1, n, turn) - y0) * (x - x0) / (x1 - x0);
    }
}

MMIXDEF int mmix_binary_iou(mmix_ctx *m, const mmix_real *map, const int32_t *mask, size_t count,
                            double threshold, int32_t void_label, double *iou)
{
    size_t both = 0, either = 0;
    *iou = 0;
    if (mmix_error(m)) return -1;
    if (!map || !mask)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_iou: %s is NULL", map ? "mask" : "map");
    if (threshold != threshold) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_binary_iou: threshold is NaN");
    for (size_t i = 0; i < count; i++) {
        int predicted = (double)map[i] >= threshold, fore = mask[i] != 0;
        if (void_label != 0 && mask[i] == void_label) continue;
        both += predicted && fore;
        either += predicted || fore;
    }
    *iou = either ? (double)both / (double)either : 1;
    return 0;
}

/* ------------------------------------------------------------------------------------
   k-NN              votes_c = Σ e^(cos(test, train_i)/T) over the k nearest train rows i of label c

   Wu et al. 2018, section 3.4; DINO's eval_knn.py. Cosines are dot products of rows of length 1. A tile of
   test rows shares one walk over the train rows, which stream from memory; the k largest cosines stay sorted.
   ------------------------------------------------------------------------------------ */

enum { MMIXI_KNN_TILE = 8 };

typedef struct mmixi_knn_job {
    mmix_ctx *m;
    const mmix_real *train, *test;               /* rows of length 1 */
    const int32_t *label;
    double *best;                                /* (lanes, tile, k): largest cosines, falling */
    size_t *who;                                 /* (lanes, tile, k): the train rows they belong to */
    double *votes;
    int32_t *pred;
    size_t trains, tests, D, k, classes;
    double temperature;
} mmixi_knn_job;

/* Rows divided by max(norm, 1e-12). Returns the first row with a value that is not finite, or `rows`. */
static size_t mmixi_knn_unit(mmix_real *y, const mmix_real *x, size_t rows, size_t D)
{
    for (size_t r = 0; r < rows; r++, x += D, y += D) {
        double norm = 0;
        for (size_t d = 0; d < D; d++) norm += (double)x[d] * (double)x[d];
        if (!(norm <= DBL_MAX)) return r;
        norm = norm > 1e-24 ? sqrt(norm) : 1e-12;
        for (size_t d = 0; d < D; d++) y[d] = (mmix_real)((double)x[d] / norm);
    }
    return rows;
}

static void mmixi_knn_task(void *arg, size_t index, size_t lane)
{
    const mmixi_knn_job *j = (const mmixi_knn_job *)arg;
    size_t start = index * MMIXI_KNN_TILE, rows = mmixi_min(j->tests - start, MMIXI_KNN_TILE), k = j->k;
    for (size_t t = 0; t < j->trains; t++)
        for (size_t r = 0; r < rows; r++) {
            double *best = j->best + (lane * MMIXI_KNN_TILE + r) * k;
            size_t *who = j->who + (lane * MMIXI_KNN_TILE + r) * k, at = t;
            double cosine = (double)j->m->k->dot(j->D, j->test + (start + r) * j->D, j->train + t * j->D);
            if (t >= k) {
                if (!(cosine > best[k - 1])) continue;
                at = k - 1;
            }
            for (; at > 0 && cosine > best[at - 1]; at--) {
                best[at] = best[at - 1];
                who[at] = who[at - 1];
            }
            best[at] = cosine;
            who[at] = t;
        }
    for (size_t r = 0; r < rows; r++) {
        const double *best = j->best + (lane * MMIXI_KNN_TILE + r) * k;
        const size_t *who = j->who + (lane * MMIXI_KNN_TILE + r) * k;
        double *votes = j->votes + (start + r) * j->classes;
        size_t winner = 0;
        memset(votes, 0, j->classes * sizeof *votes);
        for (size_t i = 0; i < k; i++) votes[j->label[who[i]]] += mmixi_exp(best[i] / j->temperature);
        for (size_t c = 1; c < j->classes; c++) if (votes[c] > votes[winner]) winner = c;
        j->pred[start + r] = (int32_t)winner;
    }
}

static int mmixi_knn_labels(mmix_ctx *m, const char *name, const int32_t *label, size_t n, size_t classes)
{
    for (size_t i = 0; label && i < n; i++)
        if (label[i] < 0 || (size_t)label[i] >= classes)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_knn: %s[%zu] is %d, expected 0 to %zu", name, i,
                             (int)label[i], classes - 1);
    return 0;
}

MMIXDEF int mmix_knn(mmix_ctx *m, const mmix_knn_options *options, const mmix_real *train,
                     const int32_t *train_label, size_t trains, const mmix_real *test,
                     const int32_t *test_label, size_t tests, size_t D, size_t classes,
                     mmix_knn_result *result)
{
    mmixi_knn_job j;
    mmix_knn_result r;
    mmix_mark mark;
    mmix_real *train_unit, *test_unit;
    size_t bad_train, bad_test, lists = mmixi_lanes(m) * MMIXI_KNN_TILE, right = 0, present = 0;
    double *seen, *hit;                          /* (classes): test rows of each class, right ones */
    memset(&j, 0, sizeof j);
    memset(&r, 0, sizeof r);
    memset(result, 0, sizeof *result);
    if (mmix_error(m)) return -1;
    if (!train || !train_label || !test)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_knn: %s is NULL",
                         !train ? "train" : !test ? "test" : "train_label");
    if (!trains || !tests || !D || !classes || classes > INT32_MAX)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_knn: expected sizes of at least 1 and fewer than 2^31 "
                         "classes, found %zu train and %zu test rows, width %zu, %zu classes", trains, tests,
                         D, classes);
    j.m = m;
    j.label = train_label;
    j.trains = trains;
    j.tests = tests;
    j.D = D;
    j.k = mmixi_min(options && options->k ? options->k : 20, trains);
    j.classes = classes;
    j.temperature = options && options->temperature != 0 ? options->temperature : 0.07;
    if (!(j.temperature >= 0.002))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_knn: temperature is %g, expected at least 0.002 for e^(1/temperature) < ∞",
                         j.temperature);
    if (mmixi_knn_labels(m, "train_label", train_label, trains, classes)) return -1;
    if (mmixi_knn_labels(m, "test_label", test_label, tests, classes)) return -1;

    j.votes = r.votes = mmixi_doubles(m, tests, classes);
    j.pred = r.pred = (int32_t *)mmixi_step_array(m, tests, 1, sizeof(int32_t));
    mark = mmix_mark_here(m);
    j.train = train_unit = mmixi_reals(m, trains, D);
    j.test = test_unit = mmixi_reals(m, tests, D);
    j.best = mmixi_doubles(m, lists, j.k);
    j.who = (size_t *)mmixi_step_array(m, lists, j.k, sizeof(size_t));
    seen = mmixi_doubles(m, classes, 1);
    hit = mmixi_doubles(m, classes, 1);
    if (!r.votes || !r.pred || !train_unit || !test_unit || !j.best || !j.who || !seen || !hit) return -1;
    bad_train = mmixi_knn_unit(train_unit, train, trains, D);
    bad_test = mmixi_knn_unit(test_unit, test, tests, D);
    if (bad_train < trains || bad_test < tests)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_knn: row %zu of %s holds a value that is not finite",
                         bad_train < trains ? bad_train : bad_test, bad_train < trains ? "train" : "test");
    mmixi_parallel(m, mmixi_ceil_div(tests, MMIXI_KNN_TILE), mmixi_knn_task, &j);

    memset(seen, 0, classes * sizeof *seen);
    memset(hit, 0, classes * sizeof *hit);
    for (size_t i = 0; test_label && i < tests; i++) {
        seen[test_label[i]] += 1;
        hit[test_label[i]] += r.pred[i] == test_label[i];
        right += r.pred[i] == test_label[i];
    }
    for (size_t c = 0; c < classes; c++) {
        if (seen[c] <= 0) continue;
        r.balanced += hit[c] / seen[c];
        present++;
    }
    r.top1 = (double)right / (double)tests;
    if (present) r.balanced /= (double)present;
    mmix_rewind(m, mark);
    *result = r;
    return 0;
}

/* ------------------------------------------------------------------------------------
   Rank              σ of a block; numerical, effective and stable rank; the bounds of the paper

   One-sided Jacobi (Hestenes 1958): pairs of columns of A are turned until all are orthogonal; then their
   lengths are the singular values. Small ones come out as exact as large ones.
   ------------------------------------------------------------------------------------ */

/* Jacobi 1846: the turn (c, s), of the smaller angle, that makes (app, apq; apq, aqq) diagonal; returns its
   tangent. */
static double mmixi_turn(double app, double apq, double aqq, double *c, double *s)
{
    const double cot = (aqq - app) / (2 * apq),          /* of twice the angle */
        t = (cot < 0 ? -1 : 1) / (fabs(cot) + sqrt(cot * cot + 1));
    *c = 1 / sqrt(t * t + 1);
    *s = t * *c;
    return t;
}
/* The n rows of a (n, len) are the columns in question; a is overwritten. sigma (n), falling. */
static void mmixi_singular(double *a, size_t n, size_t len, double *sigma)
{
    int turned = 1;
    for (int sweep = 0; sweep < 60 && turned; sweep++) {
        turned = 0;
        for (size_t i = 0; i < n; i++) {
            sigma[i] = 0;
            for (size_t t = 0; t < len; t++) sigma[i] += a[i * len + t] * a[i * len + t];
        }
        for (size_t p = 0; p + 1 < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                double *x = a + p * len, *y = a + q * len, along = 0, t, c, s;
                for (size_t i = 0; i < len; i++) along += x[i] * y[i];
                if (fabs(along) <= 1e-15 * sqrt(sigma[p]) * sqrt(sigma[q]) || fabs(along) < 1e-290) continue;
                turned = 1;
                t = mmixi_turn(sigma[p], along, sigma[q], &c, &s);
                for (size_t i = 0; i < len; i++) {
                    const double u = x[i], v = y[i];
                    x[i] = c * u - s * v;
                    y[i] = s * u + c * v;
                }
                sigma[p] -= t * along;
                sigma[q] += t * along;
                if (sigma[p] < 0) sigma[p] = 0;
            }
    }
    for (size_t i = 0; i < n; i++) {             /* lengths anew, then insertion by size */
        double length = 0;
        size_t at = i;
        for (size_t t = 0; t < len; t++) length += a[i * len + t] * a[i * len + t];
        length = sqrt(length);
        for (; at && sigma[at - 1] < length; at--) sigma[at] = sigma[at - 1];
        sigma[at] = length;
    }
}

typedef struct mmixi_rank_job {
    const double *M;                             /* (matrices, rows, cols) */
    size_t rows, cols, block_h, block_w;
    double eps;
    mmix_rank *r;
    double *scratch;
} mmixi_rank_job;
static void mmixi_rank_task(void *arg, size_t index, size_t lane)
{
    const mmixi_rank_job *j = (const mmixi_rank_job *)arg;
    const mmix_rank *r = j->r;
    const size_t i = index / r->cols % r->rows * j->block_h, k = index % r->cols * j->block_w,
        h = mmixi_min(j->block_h, j->rows - i), w = mmixi_min(j->block_w, j->cols - k), n = mmixi_min(h, w);
    const double *M = j->M + (index / r->cols / r->rows * j->rows + i) * j->cols + k;
    double *a = j->scratch + lane * j->block_h * j->block_w, *sigma = r->singular + index * r->width, top = 0,
        sum = 0, squares = 0, entropy = 0;
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) top = fmax(top, fabs(M[y * j->cols + x]));
    for (size_t z = 0; z < r->width; z++) sigma[z] = 0;
    r->numerical[index] = r->effective[index] = r->stable[index] = 0;
    if (!(top > 0)) return;
    for (size_t y = 0; y < h; y++)               /* the shorter side is turned */
        for (size_t x = 0; x < w; x++) a[w <= h ? x * h + y : y * w + x] = M[y * j->cols + x] / top;
    mmixi_singular(a, n, mmixi_max(h, w), sigma);
    for (size_t z = 0; z < n; z++) {
        r->numerical[index] += sigma[z] > (double)mmixi_max(h, w) * j->eps * sigma[0];
        sum += sigma[z];
        squares += sigma[z] * sigma[z];
    }
    for (size_t z = 0; z < n; z++)
        if (sigma[z] > 0) entropy -= sigma[z] / sum * mmixi_log(sigma[z] / sum);
    r->effective[index] = mmixi_exp(entropy);
    r->stable[index] = squares / (sigma[0] * sigma[0]);
    for (size_t z = 0; z < n; z++) sigma[z] *= top;
}
static int mmixi_rank(mmix_ctx *m, const double *M, size_t matrices, size_t rows, size_t cols, size_t block,
                      double eps, mmix_rank *result)
{
    mmixi_rank_job j;
    mmix_rank r;
    size_t blocks;
    memset(&j, 0, sizeof j);
    memset(&r, 0, sizeof r);
    j.M = M;
    j.rows = rows; j.cols = cols;
    j.block_h = mmixi_min(block ? block : rows, rows);
    j.block_w = mmixi_min(block ? block : cols, cols);
    j.eps = eps > 0 ? eps : sizeof(mmix_real) == 8 ? 2.220446049250313e-16 : 1.1920928955078125e-7;
    r.matrices = matrices;
    r.rows = mmixi_ceil_div(rows, j.block_h);
    r.cols = mmixi_ceil_div(cols, j.block_w);
    r.width = mmixi_min(j.block_h, j.block_w);
    blocks = matrices * r.rows * r.cols;
    r.numerical = mmixi_doubles(m, blocks, 1);
    r.effective = mmixi_doubles(m, blocks, 1);
    r.stable = mmixi_doubles(m, blocks, 1);
    r.singular = mmixi_doubles(m, blocks, r.width);
    j.scratch = mmixi_doubles(m, mmixi_lanes(m), j.block_h * j.block_w);
    if (!r.numerical || !r.effective || !r.stable || !r.singular || !j.scratch) return -1;
    j.r = &r;
    mmixi_parallel(m, blocks, mmixi_rank_task, &j);
    *result = r;
    return 0;
}
static const double *mmixi_as_doubles(mmix_ctx *m, const mmix_real *values, size_t n)
{
    double *d = mmixi_doubles(m, n, 1);
    for (size_t i = 0; d && i < n; i++) d[i] = (double)values[i];
    return d;
}
MMIXDEF int mmix_rank_of(mmix_ctx *m, const mmix_rank_options *options, const mmix_real *M, size_t matrices,
                         size_t rows, size_t cols, mmix_rank *result)
{
    const double *d;
    size_t count;
    memset(result, 0, sizeof *result);
    if (m->error_kind) return -1;
    if (!M || !matrices || !mmixi_mul_ok(rows, cols, &count) || !count
        || !mmixi_mul_ok(matrices, count, &count) || count > SIZE_MAX / sizeof *d)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_rank_of: %.0f matrices of %.0f x %.0f%s",
                         (double)matrices, (double)rows, (double)cols, M ? "" : ", M is NULL");
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)M[i]) < 1e150))
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_rank_of: element %.0f of M is %g", (double)i,
                             (double)M[i]);
    d = mmixi_as_doubles(m, M, count);
    if (!d) return -1;
    return mmixi_rank(m, d, matrices, rows, cols, options ? options->block : 0, options ? options->eps : 0,
                      result);
}

/* Rows I of Σ over j in J of M_h[i, j] v_h[j], all heads side by side, then out_projᵀ: what block (I, J) adds
   to the layer's output. */
static double *mmixi_rank_joined(mmix_ctx *m, const double *M, const mmix_mixer *x, const mmix_tensor *proj,
                                 size_t C, size_t b, size_t I, size_t J, size_t *width)
{
    const size_t H = x->kind == MMIX_SSD ? x->dt->shape[2] : x->q->shape[2], L = x->v->shape[1],
        P = x->v->shape[3], D = proj ? proj->shape[0] : H * P, rows = mmixi_min(C, L - I * C);
    const mmix_heads v = mmixi_heads_of(x->v, mmix_data(x->v), H);
    double *sum = mmixi_doubles(m, rows, H * P), *out = proj ? mmixi_doubles(m, rows, D) : sum;
    *width = D;
    if (!sum || !out) return NULL;
    memset(sum, 0, rows * H * P * sizeof *sum);
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = J * C; j < mmixi_min(L, J * C + C); j++) {
                const mmix_real *from = mmixi_at(&v, b, j, h);
                const double w = M[((b * H + h) * L + I * C + i) * L + j];
                for (size_t p = 0; p < P; p++) sum[(i * H + h) * P + p] += w * (double)from[p];
            }
    for (size_t i = 0; proj && i < rows; i++)
        for (size_t d = 0; d < D; d++) {
            const mmix_real *w = mmix_data(proj) + d * proj->stride[0];
            out[i * D + d] = 0;
            for (size_t p = 0; p < H * P; p++) out[i * D + d] += (double)w[p] * sum[i * H * P + p];
        }
    return out;
}
/* The matrix of L alone: the same mixer with scores of 1. */
static int mmixi_rank_of_decay(mmix_ctx *m, const mmix_mixer *x, size_t C, double eps, mmix_rank *r)
{
    mmix_mixer decay = *x;
    const size_t n = x->dt->shape[0] * x->dt->shape[2], L = x->dt->shape[1];
    mmix_tensor *one = mmix_new4(m, x->dt->shape[0], L, 1, 1), *M;
    const double *d;
    if (!one) return -1;
    decay.q = decay.k = mmix_fill(one, 1);
    decay.D = NULL;
    decay.final_state = NULL;
    M = mmix_mix_matrix(m, &decay);
    d = M ? mmixi_as_doubles(m, mmix_data(M), n * L * L) : NULL;
    return d ? mmixi_rank(m, d, n, L, L, C, eps, r) : -1;
}
MMIXDEF int mmix_mix_rank(mmix_ctx *m, const mmix_rank_options *options, const mmix_mixer *x,
                          const mmix_tensor *out_proj, mmix_mixer_rank *result)
{
    const char *who = "mmix_mix_rank";
    mmix_mixer_rank r;
    mmix_rank decay, part;
    mmix_tensor *M;
    size_t L, N, B, H, C, n;
    const double *d;
    const double eps = options ? options->eps : 0;
    memset(&r, 0, sizeof r);
    memset(&decay, 0, sizeof decay);
    *result = r;
    M = mmix_mix_matrix(m, x);
    if (!M) return -1;
    B = M->shape[0]; H = M->shape[1]; L = M->shape[2]; N = x->k->shape[3];
    if (L != M->shape[3] || L < 2)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: a matrix of %.0f x %.0f, expected a square one", who,
                         (double)L, (double)M->shape[3]);
    if (!mmixi_optional(m, who, "out_proj", out_proj, MMIX_DTYPE_REAL, 2, MMIXI_ANY, H * x->v->shape[3], 0,
                        0)) return -1;
    C = r.block = mmixi_min(options && options->block ? options->block : L / 2, L);
    d = mmixi_as_doubles(m, mmix_data(M), B * H * L * L);
    if (!d || mmixi_rank(m, d, B * H, L, L, C, eps, &r.M) || mmixi_rank(m, d, B * H, L, L, 0, eps, &r.whole)
        || (x->kind == MMIX_SSD && mmixi_rank_of_decay(m, x, C, eps, &decay))) return -1;
    n = r.M.rows;
    r.decay = decay.numerical;
    r.bound = mmixi_doubles(m, B * H, n * n);
    r.diagonal = mmixi_doubles(m, B * H, 1);
    r.joined = mmixi_doubles(m, B, n * n);
    if (!r.bound || !r.diagonal || !r.joined) return -1;
    for (size_t h = 0; h < B * H; h++) {
        r.diagonal[h] = 0;
        for (size_t i = 0; i < n * n; i++) {
            const size_t I = i / n, J = i % n, rows = mmixi_min(C, L - I * C), cols = mmixi_min(C, L - J * C),
                small = mmixi_min(rows, cols);
            const double low = x->kind == MMIX_SSD ? decay.numerical[h * n * n + i] * (double)N : (double)N;
            const int causal = x->kind == MMIX_SSD || x->mask == MMIX_MASK_CAUSAL;
            double bound = x->kind == MMIX_SOFTMAX || (I == J && causal) ? (double)small
                : fmin((double)small, low);
            r.bound[h * n * n + i] = r.M.numerical[h * n * n + i] > 0 ? bound : 0;
            if (I == J) r.diagonal[h] += r.M.numerical[h * n * n + i];
        }
    }
    for (size_t i = 0; i < B * n * n; i++) {
        const size_t b = i / (n * n), I = i / n % n, J = i % n;
        mmix_mark mark = mmix_mark_here(m);
        size_t width;
        const double *sum = mmixi_rank_joined(m, d, x, out_proj, C, b, I, J, &width);
        if (!sum || mmixi_rank(m, sum, 1, mmixi_min(C, L - I * C), width, 0, eps, &part)) return -1;
        r.joined[i] = part.numerical[0];
        mmix_rewind(m, mark);
    }
    *result = r;
    return 0;
}
MMIXDEF void mmix_matrix_distance(const mmix_real *a, const mmix_real *b, size_t matrices, size_t count,
                                  double *distance, double *relative)
{
    for (size_t h = 0; h < matrices; h++) {
        double apart = 0, size = 0;
        for (size_t i = h * count; i < (h + 1) * count; i++) {
            apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
            size += (double)a[i] * (double)a[i];
        }
        if (distance) distance[h] = sqrt(apart);
        if (relative) relative[h] = size > 0 ? sqrt(apart / size) : apart > 0 ? HUGE_VAL : 0;
    }
}
MMIXDEF void mmix_head_reach(const mmix_real *M, size_t matrices, size_t gh, size_t gw, size_t radius,
                             double *share, double *distance)
{
    const size_t L = gh * gw;
    for (size_t h = 0; h < matrices; h++) {
        double all = 0, inside = 0, reach = 0;
        for (size_t i = 0; i < L; i++)
            for (size_t j = 0; j < L; j++) {
                const double w = fabs((double)M[(h * L + i) * L + j]),
                    y = fabs((double)(i / gw) - (double)(j / gw)),
                    x = fabs((double)(i % gw) - (double)(j % gw));
                all += w;
                if (fmax(y, x) <= (double)radius) inside += w;
                reach += w * sqrt(y * y + x * x);
            }
        if (share) share[h] = all > 0 ? inside / all : 0;
        if (distance) distance[h] = all > 0 ? reach / all : 0;
    }
}

/* ------------------------------------------------------------------------------------
   PCA               C v = λ v for the k largest λ, C = Σ (x - mean)(x - mean)ᵀ;  variance = λ / (rows - 1)

   Subspace iteration (Bauer 1957): a block of orthonormal vectors V (block, D) is multiplied by C again and
   again; in their span the problem is small, V C Vᵀ, and Jacobi's rotations solve it. Each round gains a
   factor λ_k / λ_(block+1). A block of all D directions is done after one round.
   ------------------------------------------------------------------------------------ */

/* Makes the symmetric a (n, n) diagonal by Jacobi's turns; the columns of v (n, n) are then its
   eigenvectors. */
static void mmixi_jacobi(double *a, double *v, size_t n)
{
    for (size_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
    for (int sweep = 0; sweep < 60; sweep++) {
        double off = 0, all = 0;
        for (size_t i = 0; i < n * n; i++) {
            all += a[i] * a[i];
            if (i % (n + 1) != 0) off += a[i] * a[i];
        }
        if (off <= 1e-34 * all) return;
        for (size_t p = 0; p + 1 < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                double c, s;
                if (fabs(a[p * n + q]) <= 0) continue;
                mmixi_turn(a[p * n + p], a[p * n + q], a[q * n + q], &c, &s);
                for (size_t i = 0; i < n; i++) {
                    double x = a[i * n + p], y = a[i * n + q];
                    a[i * n + p] = c * x - s * y;
                    a[i * n + q] = s * x + c * y;
                    x = v[i * n + p];
                    y = v[i * n + q];
                    v[i * n + p] = c * x - s * y;
                    v[i * n + q] = s * x + c * y;
                }
                for (size_t i = 0; i < n; i++) {
                    double x = a[p * n + i], y = a[q * n + i];
                    a[p * n + i] = c * x - s * y;
                    a[q * n + i] = s * x + c * y;
                }
            }
    }
}

/* Makes the n ≤ D rows of v (n, D) orthonormal by Gram and Schmidt, twice each, since once leaves rounding
   errors. A row of zeros or in the span of those before it is replaced by noise. */
static void mmixi_orthonormal(double *v, size_t n, size_t D)
{
    uint32_t noise = 1;
    for (size_t i = 0; i < n; i++) {
        double *row = v + i * D;
        for (int pass = 0; pass < 2; pass++) {
            double before = 0, after = 0;
            for (size_t d = 0; d < D; d++) before += row[d] * row[d];
            for (size_t p = 0; p < i; p++) {
                double along = 0;
                for (size_t d = 0; d < D; d++) along += row[d] * v[p * D + d];
                for (size_t d = 0; d < D; d++) row[d] -= along * v[p * D + d];
            }
            for (size_t d = 0; d < D; d++) after += row[d] * row[d];
            if (after > 1e-24 * before) {
                after = sqrt(after);
                for (size_t d = 0; d < D; d++) row[d] /= after;
                continue;
            }
            for (size_t d = 0; d < D; d++) {
                noise = noise * 1664525u + 1013904223u;
                row[d] = (double)(noise >> 8) / 16777216 - 0.5;
            }
            pass = -1;
        }
    }
}

typedef struct mmixi_pca_job { const double *x; double *c, *v, *y; size_t rows, D; } mmixi_pca_job;

static void mmixi_pca_covariance(void *arg, size_t i, size_t lane)       /* row i of C from the diagonal on */
{
    const mmixi_pca_job *j = (const mmixi_pca_job *)arg;
    double *c = j->c + i * j->D;
    (void)lane;
    memset(c, 0, j->D * sizeof *c);
    for (size_t r = 0; r < j->rows; r++) {
        const double *x = j->x + r * j->D;
        for (size_t d = i; d < j->D; d++) c[d] += x[i] * x[d];
    }
}

static void mmixi_pca_apply(void *arg, size_t q, size_t lane)            /* y_q = C v_q */
{
    const mmixi_pca_job *j = (const mmixi_pca_job *)arg;
    const double *v = j->v + q * j->D;
    double *y = j->y + q * j->D;
    (void)lane;
    memset(y, 0, j->D * sizeof *y);
    for (size_t i = 0; i < j->D; i++) {
        const double *c = j->c + i * j->D;
        for (size_t d = 0; d < j->D; d++) y[d] += v[i] * c[d];
    }
}

MMIXDEF int mmix_pca(mmix_ctx *m, const mmix_real *x, size_t rows, size_t D, size_t k,
                     mmix_pca_result *result)
{
    mmix_pca_result r;
    mmixi_pca_job j;
    mmix_mark mark;
    double *centred, *span, *turn, energy = 0;
    size_t *order, block = k < D / 2 ? mmixi_min(2 * k + 8, D) : D;
    memset(&r, 0, sizeof r);
    memset(&j, 0, sizeof j);
    memset(result, 0, sizeof *result);
    if (mmix_error(m)) return -1;
    if (!x) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_pca: x is NULL");
    if (rows < 2 || D == 0)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_pca: x is (%zu, %zu), expected 2 rows or more", rows,
                         D);
    if (k == 0 || k > D)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_pca: k is %zu, expected 1 to the width %zu", k, D);
    r.mean = mmixi_doubles(m, D, 1);
    r.components = mmixi_doubles(m, k, D);
    r.variance = mmixi_doubles(m, k, 1);
    r.projection = mmixi_doubles(m, rows, k);
    mark = mmix_mark_here(m);
    j.x = centred = mmixi_doubles(m, rows, D);
    j.c = mmixi_doubles(m, D, D);
    j.v = mmixi_doubles(m, block, D);
    j.y = mmixi_doubles(m, block, D);
    span = mmixi_doubles(m, block, block);
    turn = mmixi_doubles(m, block, block);
    order = (size_t *)mmixi_step_array(m, block, 1, sizeof(size_t));
    if (mmix_error(m)) return -1;
    j.rows = rows;
    j.D = D;
    for (size_t d = 0; d < D; d++) {
        r.mean[d] = 0;
        for (size_t i = 0; i < rows; i++) r.mean[d] += (double)x[i * D + d];
        r.mean[d] /= (double)rows;
        for (size_t i = 0; i < rows; i++) {
            double centre = (double)x[i * D + d] - r.mean[d];
            centred[i * D + d] = centre;
            energy += centre * centre;
        }
    }
    if (!(energy <= DBL_MAX))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_pca: x holds a value that is not finite");
    mmixi_parallel(m, D, mmixi_pca_covariance, &j);
    for (size_t a = 0; a < D; a++) for (size_t b = 0; b < a; b++) j.c[a * D + b] = j.c[b * D + a];

    memset(j.v, 0, block * D * sizeof(double));          /* zeros, which the first round makes noise */
    for (int round = 0; round < 300; round++) {          /* what isn't told apart by then varies equally */
        double wrong = 0;
        mmixi_orthonormal(j.v, block, D);
        mmixi_parallel(m, block, mmixi_pca_apply, &j);
        for (size_t p = 0; p < block; p++)
            for (size_t q = 0; q <= p; q++) {
                double sum = 0;
                for (size_t d = 0; d < D; d++) sum += j.v[p * D + d] * j.y[q * D + d];
                span[p * block + q] = span[q * block + p] = sum;
            }
        mmixi_jacobi(span, turn, block);
        for (size_t p = 0; p < block; p++) {             /* insertion sort by falling eigenvalue */
            size_t at = p;
            for (; at > 0 && span[p * (block + 1)] > span[order[at - 1] * (block + 1)]; at--)
                order[at] = order[at - 1];
            order[at] = p;
        }
        for (size_t i = 0; i < k; i++) {
            double lambda = span[order[i] * (block + 1)], square = 0;
            for (size_t d = 0; d < D; d++) {
                double vector = 0, image = 0;
                for (size_t p = 0; p < block; p++) {
                    vector += turn[p * block + order[i]] * j.v[p * D + d];
                    image += turn[p * block + order[i]] * j.y[p * D + d];
                }
                r.components[i * D + d] = vector;
                square += (image - lambda * vector) * (image - lambda * vector);
            }
            r.variance[i] = lambda > 0 ? lambda / (double)(rows - 1) : 0;
            if (square > wrong) wrong = square;
        }
        if (sqrt(wrong) <= 1e-13 * energy) break;        /* energy = Σ λ */
        memcpy(j.v, j.y, block * D * sizeof(double));
    }
    for (size_t i = 0; i < k; i++) {
        double *component = r.components + i * D, most = 0;
        for (size_t d = 0; d < D; d++) if (fabs(component[d]) > fabs(most)) most = component[d];
        for (size_t d = 0; most < 0 && d < D; d++) component[d] = -component[d];
        for (size_t row = 0; row < rows; row++) {
            double sum = 0;
            for (size_t d = 0; d < D; d++) sum += centred[row * D + d] * component[d];
            r.projection[row * k + i] = sum;
        }
    }
    mmix_rewind(m, mark);
    *result = r;
    return 0;
}

/* ------------------------------------------------------------------------------------
   Class strategies  [mean of tokens[class_index] | mean or max of the tokens that are not special]
   ------------------------------------------------------------------------------------ */

static int mmixi_class_check(mmix_ctx *m, int strategy, const mmix_tensor *tokens, int cls,
                             const size_t *class_index, size_t n_class)
{
    size_t L = mmix_shape(tokens, 1);
    if (!tokens) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_class_strategy: tokens is NULL");
    if (strategy < MMIX_POOL_CLS || strategy > MMIX_POOL_CLS_MAX)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_class_strategy: strategy is %d, expected one of MMIX_POOL_…", strategy);
    if (mmix_ndim(tokens) != 3 || !mmix_data(tokens))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                         "mmix_class_strategy: tokens has %d axes%s, expected (B, L, D)", mmix_ndim(tokens),
                         mmix_data(tokens) ? "" : " and no values here");
    if (cls && n_class == 0)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_class_strategy: n_class is 0, expected at least 1");
    for (size_t i = 0; cls && i < n_class; i++)
        if (class_index[i] >= L)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT,
                             "mmix_class_strategy: class_index[%zu] is %zu of %zu tokens", i, class_index[i],
                             L);
    return 0;
}

MMIXDEF mmix_tensor *mmix_class_strategy(mmix_ctx *m, int strategy, const mmix_tensor *tokens,
                                         const size_t *class_index, size_t n_class,
                                         const size_t *special, size_t n_special)
{
    int cls = strategy != MMIX_POOL_MEAN && strategy != MMIX_POOL_MAX, rest = strategy != MMIX_POOL_CLS;
    int max = strategy == MMIX_POOL_MAX || strategy == MMIX_POOL_CLS_MAX;
    size_t B = mmix_shape(tokens, 0), L = mmix_shape(tokens, 1), D = mmix_shape(tokens, 2), left = 0;
    size_t next = mmix_stride(tokens, 0), step = mmix_stride(tokens, 1);
    unsigned char *skip;
    mmix_tensor *out;
    mmix_real *y;
    mmix_mark mark;
    if (mmix_error(m)) return NULL;
    if (mmixi_class_check(m, strategy, tokens, cls, class_index, n_class)) return NULL;
    out = mmix_new2(m, B, cls && rest ? 2 * D : D);
    mark = mmix_mark_here(m);
    skip = (unsigned char *)mmixi_step(m, L);
    if (!out || !skip) return NULL;
    memset(skip, 0, L);
    for (size_t i = 0; i < n_special; i++) if (special[i] < L) skip[special[i]] = 1;
    for (size_t t = 0; t < L; t++) left += !skip[t];
    if (rest && left == 0) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT,
                  "mmix_class_strategy: all %zu tokens are special, there is no mean or maximum", L);
        return NULL;
    }
    y = mmix_data(out);
    for (size_t b = 0; b < B; b++) {
        const mmix_real *x = mmix_data(tokens) + b * next;
        for (size_t d = 0; cls && d < D; d++) {
            double sum = 0;
            for (size_t i = 0; i < n_class; i++) sum += (double)x[class_index[i] * step + d];
            *y++ = (mmix_real)(sum / (double)n_class);
        }
        for (size_t d = 0; rest && d < D; d++) {
            double sum = 0, most = -HUGE_VAL;
            for (size_t t = 0; t < L; t++) {
                double value = (double)x[t * step + d];
                if (skip[t]) continue;
                sum += value;
                if (value > most) most = value;
            }
            *y++ = (mmix_real)(max ? most : sum / (double)left);
        }
    }
    mmix_rewind(m, mark);
    return out;
}

/* ==== >>images =======================================================================
   8-bit RGB exactly as Pillow computes it, DINO's crops from it, PPM files

   The systems whose weights and figures this library reproduces were trained on pictures that Pillow resized,
   jittered and blurred; a resize that is merely good differs from Pillow's by several levels and moves
   features. So each step is done in Pillow's own number format: 22-bit fixed point for resizing, 24-bit for
   blurring, float32 where it says float here, and each is rounded to 8 bits before the next. Pictures are
   (height, width, 3).

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

/* ---- resize -----------------------------------------------------------------------
   Output i of m from n inputs, r = n/m, f = max(r, 1), centre c = (i + 1/2) r:

       out_i = Σ_j w_j in_j,  w_j ∝ k((j - c + 1/2)/f),  max(⌊c - 2f + 1/2⌋, 0) ≤ j < min(⌊c + 2f + 1/2⌋, n),

   k the cubic of Keys 1981 with a = -1/2, Σ w = 1, w rounded to multiples of 2⁻²². Along the rows first, then
   along the columns, 8 bits between. */

typedef struct mmixi_taps { uint32_t *first, *length; int32_t *weight; size_t most; } mmixi_taps;

/* Taps of one output at most. */
static size_t mmixi_taps_most(size_t n, size_t m)
{
    double f = n > m ? (double)n / (double)m : 1;
    return (size_t)ceil(2 * f) * 2 + 1;
}

/* Outputs start … start+count-1 of m from n; the tables are cut from *memory, w holds `most` numbers. */
static mmixi_taps mmixi_taps_make(char **memory, double *w, size_t n, size_t m, size_t start, size_t count)
{
    double r = (double)n / (double)m, f = r > 1 ? r : 1, shrink = 1 / f;
    mmixi_taps t;
    t.most = mmixi_taps_most(n, m);
    t.first = (uint32_t *)(void *)*memory;
    t.length = t.first + count;
    t.weight = (int32_t *)(void *)(t.length + count);
    *memory = (char *)(void *)(t.weight + count * t.most);
    for (size_t i = 0; i < count; i++) {
        double c = ((double)(start + i) + 0.5) * r, low = c - 2 * f + 0.5, high = c + 2 * f + 0.5, sum = 0;
        size_t begin = low > 0 ? (size_t)low : 0, end = high < (double)n ? (size_t)high : n;
        for (size_t j = begin; j < end; j++) {
            w[j - begin] = mmixi_cubic(-0.5, ((double)j - c + 0.5) * shrink);
            sum += w[j - begin];
        }
        for (size_t j = 0; j < end - begin; j++) {
            double share = w[j] / sum * 4194304;
            t.weight[i * t.most + j] = (int32_t)(share < 0 ? share - 0.5 : share + 0.5);
        }
        t.first[i] = (uint32_t)begin;
        t.length[i] = (uint32_t)(end - begin);
    }
    return t;
}

static uint8_t mmixi_level(int32_t sum)            /* a sum of 22-bit weights times levels, 2²¹ included */
{
    return sum <= 0 ? 0 : sum >= 1 << 30 ? 255 : (uint8_t)(sum >> 22);
}

/* Two levels in one word, so that one multiplication weighs both (twice as fast as one by one): modulo 2⁶⁴,
   w (a + 2³² b) is w a + 2³² (w b), whatever the signs. */
static uint64_t mmixi_pair(uint8_t a, uint8_t b) { return a | (uint64_t)b << 32; }

static void mmixi_pair_levels(uint64_t sum, uint8_t *a, uint8_t *b)
{
    int32_t low = (int32_t)(uint32_t)sum;
    *a = mmixi_level(low);
    *b = mmixi_level((int32_t)(uint32_t)((sum - (uint64_t)(int64_t)low) >> 32));
}

/* levels[2k], levels[2k + 1] = Σ_j weight_j in_jk for k < words (a multiple of 3), n rows `stride` apart. */
static void mmixi_weigh(uint8_t *levels, const uint64_t *in, size_t stride, const int32_t *weight, size_t n,
                        size_t words)
{
    const uint64_t half = (1u << 21) + ((uint64_t)1 << 53);
    for (size_t k = 0; k < words; k += 3, levels += 6) {
        const uint64_t *p = in + k;
        uint64_t x = half, y = half, z = half;
        for (size_t j = 0; j < n; j++, p += stride) {
            uint64_t w = (uint64_t)(int64_t)weight[j];
            x += w * p[0];
            y += w * p[1];
            z += w * p[2];
        }
        mmixi_pair_levels(x, levels, levels + 1);
        mmixi_pair_levels(y, levels + 2, levels + 3);
        mmixi_pair_levels(z, levels + 4, levels + 5);
    }
}

/* Bytes for a window of c_h x c_w pixels out of m_h x m_w from n_h x n_w; 0 if that is out of range. */
static size_t mmixi_resize_scratch(size_t n_h, size_t n_w, size_t m_h, size_t m_w, size_t c_h, size_t c_w)
{
    uint64_t most_x, most_y, bytes, words = ((uint64_t)c_w + 1) / 2 * 3;
    if (!mmixi_sides_ok(n_w, n_h) || !mmixi_sides_ok(m_w, m_h)) return 0;
    most_x = mmixi_taps_most(n_w, m_w);
    most_y = mmixi_taps_most(n_h, m_h);
    bytes = 8 * (most_x > most_y ? most_x : most_y) + 8 * (words * n_h + 3 * (uint64_t)n_w) + 4 * words;
    bytes += c_w * (8 + 4 * most_x) + c_h * (8 + 4 * most_y);
    return (uint64_t)(size_t)bytes == bytes ? (size_t)bytes : 0;
}

/* The window c of the box brought to m_h x m_w. */
static void mmixi_resize(uint8_t *out, mmix_picture in, mmix_box box, size_t m_h, size_t m_w, mmix_box c,
                         void *scratch)
{
    size_t most = mmixi_max(mmixi_taps_most(box.width, m_w), mmixi_taps_most(box.height, m_h));
    size_t words = (c.width + 1) / 2 * 3;
    double *w = (double *)scratch;
    uint64_t *line = (uint64_t *)(void *)(w + most);            /* two rows of the box, paired */
    uint64_t *middle = line + 3 * box.width;                    /* (rows, words): pairs of neighbours */
    char *memory = (char *)(middle + words * box.height);
    mmixi_taps tx = mmixi_taps_make(&memory, w, box.width, m_w, c.left, c.width);
    mmixi_taps ty = mmixi_taps_make(&memory, w, box.height, m_h, c.top, c.height);
    uint8_t *a = (uint8_t *)memory, *b = a + 2 * words;         /* two finished rows */
    size_t row0 = ty.first[0];
    size_t rows = ty.first[c.height - 1] + ty.length[c.height - 1] - row0;
    memset(a, 0, 4 * words);                                    /* an odd width leaves a column unused */
    for (size_t y = 0; y < rows; y += 2) {
        const uint8_t *p = in.rgb + ((box.top + row0 + y) * in.width + box.left) * 3;
        const uint8_t *q = y + 1 < rows ? p + in.width * 3 : p;
        for (size_t x = 0; x < 3 * box.width; x++) line[x] = mmixi_pair(p[x], q[x]);
        for (size_t x = 0; x < c.width; x++) {
            uint8_t levels[6];
            mmixi_weigh(levels, line + 3 * tx.first[x], 3, tx.weight + x * tx.most, tx.length[x], 3);
            for (size_t k = 0; k < 3; k++) {
                a[3 * x + k] = levels[2 * k];
                b[3 * x + k] = levels[2 * k + 1];
            }
        }
        for (size_t k = 0; k < (y + 1 < rows ? 2 * words : words); k++) {   /* b follows a, row y + 1 row y */
            middle[y * words + k] = mmixi_pair(a[2 * k], a[2 * k + 1]);
        }
    }
    for (size_t y = 0; y < c.height; y++) {
        const uint64_t *first = middle + (ty.first[y] - row0) * words;
        mmixi_weigh(a, first, words, ty.weight + y * ty.most, ty.length[y], words);
        memcpy(out + y * c.width * 3, a, c.width * 3);
    }
}

static mmix_box mmixi_box(size_t top, size_t left, size_t height, size_t width)
{
    mmix_box box;
    box.top = top; box.left = left; box.height = height; box.width = width;
    return box;
}

MMIXDEF size_t mmix_picture_resize_scratch(mmix_box box, size_t width, size_t height)
{
    return mmixi_resize_scratch(box.height, box.width, height, width, height, width);
}

MMIXDEF int mmix_picture_resize(uint8_t *out, size_t width, size_t height, mmix_picture in, mmix_box box,
                                void *scratch)
{
    if (!mmix_picture_resize_scratch(box, width, height)) return -1;
    if (box.height > in.height || box.top > in.height - box.height) return -1;
    if (box.width > in.width || box.left > in.width - box.width) return -1;
    mmixi_resize(out, in, box, height, width, mmixi_box(0, 0, height, width), scratch);
    return 0;
}

/* The shorter side becomes `side`, the longer ⌊side·long/short⌋; the middle begins at round((h - crop)/2),
   halves to even. torchvision: Resize(side, BICUBIC), CenterCrop(crop). */
static int mmixi_evaluate_sizes(size_t h, size_t w, size_t side, size_t crop, size_t *m_h, size_t *m_w,
                                mmix_box *c)
{
    size_t low = h < w ? h : w, high = h < w ? w : h, d;
    uint64_t longer;
    if (!mmixi_sides_ok(w, h) || !mmixi_sides_ok(side, crop) || crop > side) return -1;
    longer = (uint64_t)side * high / low;
    if (longer > MMIXI_SIDE_MAX) return -1;
    *m_h = h < w ? side : (size_t)longer;
    *m_w = h < w ? (size_t)longer : side;
    *c = mmixi_box(0, 0, crop, crop);
    d = *m_h - crop;
    c->top = d / 2 + (d % 4 == 3);
    d = *m_w - crop;
    c->left = d / 2 + (d % 4 == 3);
    return 0;
}

MMIXDEF size_t mmix_picture_evaluate_scratch(size_t in_width, size_t in_height, size_t side, size_t crop)
{
    size_t m_h, m_w;
    mmix_box c;
    if (mmixi_evaluate_sizes(in_height, in_width, side, crop, &m_h, &m_w, &c)) return 0;
    return mmixi_resize_scratch(in_height, in_width, m_h, m_w, crop, crop);
}

MMIXDEF int mmix_picture_evaluate(uint8_t *out, size_t side, size_t crop, mmix_picture in, void *scratch)
{
    size_t m_h, m_w;
    mmix_box c;
    if (mmixi_evaluate_sizes(in.height, in.width, side, crop, &m_h, &m_w, &c)) return -1;
    mmixi_resize(out, in, mmixi_box(0, 0, in.height, in.width), m_h, m_w, c, scratch);
    return 0;
}

/* ---- pixel by pixel --------------------------------------------------------------- */

static unsigned mmixi_luma(const uint8_t *p)
{
    return (19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16;
}

MMIXDEF void mmix_picture_flip(uint8_t *rgb, size_t width, size_t height)
{
    for (size_t y = 0; y < height; y++, rgb += width * 3) {
        uint8_t *p = rgb, *q = rgb + width * 3 - 3;
        for (; p < q; p += 3, q -= 3) {
            for (int c = 0; c < 3; c++) {
                uint8_t swap = p[c];
                p[c] = q[c];
                q[c] = swap;
            }
        }
    }
}

MMIXDEF void mmix_picture_grey(uint8_t *rgb, size_t width, size_t height)
{
    for (uint8_t *p = rgb, *end = rgb + width * height * 3; p < end; p += 3) {
        p[0] = p[1] = p[2] = (uint8_t)mmixi_luma(p);
    }
}

MMIXDEF void mmix_picture_solarise(uint8_t *rgb, size_t width, size_t height, int threshold)
{
    for (size_t i = 0; i < width * height * 3; i++) {
        if (rgb[i] >= threshold) rgb[i] = (uint8_t)(255 - rgb[i]);
    }
}

/* Brightness, contrast, saturation: out = z + factor (v - z), truncated to 0 … 255, with z = 0, the picture's
   mean luma, the pixel's luma. v - z has 511 values, so the float32 products come from a table. */
static void mmixi_blend_table(float *product, double factor)            /* product[255 + v - z] */
{
    for (int d = -255; d <= 255; d++) product[255 + d] = (float)factor * (float)d;
}

static uint8_t mmixi_blend(int z, float product)
{
    float v = (float)z + product;
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)(int)v;
}

static void mmixi_blend_constant(uint8_t *rgb, size_t count, const float *product, int z)
{
    uint8_t level[256];
    for (int v = 0; v < 256; v++) level[v] = mmixi_blend(z, product[255 + v - z]);
    for (size_t i = 0; i < count; i++) rgb[i] = level[rgb[i]];
}

static void mmixi_saturation(uint8_t *rgb, size_t count, const float *product)
{
    for (uint8_t *p = rgb, *end = rgb + count; p < end; p += 3) {
        int z = (int)mmixi_luma(p);
        for (int c = 0; c < 3; c++) p[c] = mmixi_blend(z, product[255 + p[c] - z]);
    }
}

/* Hue: to HSV with 8 bits each, H + turn modulo 256, and back. */
static void mmixi_hue(uint8_t *rgb, size_t count, unsigned turn)
{
    float part[256], share[256];                   /* of H: 6H/255 = sector + part; of S: S/255 */
    uint8_t sector[256];
    for (int i = 0; i < 256; i++) {
        double sixths = i * 6.0 / 255.0;
        sector[i] = (uint8_t)((int)sixths % 6);
        part[i] = (float)(sixths - (int)sixths);
        share[i] = (float)(i / 255.0);
    }
    for (uint8_t *p = rgb, *end = rgb + count; p < end; p += 3) {
        int r = p[0], g = p[1], b = p[2];
        int high = r > g ? (r > b ? r : b) : (g > b ? g : b);
        int low = r < g ? (r < b ? r : b) : (g < b ? g : b);
        float range = (float)(high - low), h, f, s;
        double to_r, to_g, to_b;
        uint8_t v = (uint8_t)high, zero, down, up;
        int H, S;
        if (high == low) continue;                 /* grey has no hue */
        to_r = (double)((float)(high - r) / range);
        to_g = (double)((float)(high - g) / range);
        to_b = (double)((float)(high - b) / range);
        h = (float)(r == high ? to_b - to_g : g == high ? 2 + to_r - to_b : 4 + to_g - to_r);
        h = (float)(h / 6.0 + 1.0 - (h >= 0 ? 1.0 : 0.0));
        H = (int)(((unsigned)(int)(h * 255.0) + turn) & 255);
        S = (int)(range / (float)high * 255.0);
        f = part[H];
        s = share[S];
        zero = (uint8_t)(int)(v * (1.0 - (double)s) + 0.5);
        down = (uint8_t)(int)(v * (1.0 - (double)(s * f)) + 0.5);
        up = (uint8_t)(int)(v * (1.0 - (double)s * (1.0 - (double)f)) + 0.5);
        switch (S ? sector[H] : 6) {
        case 0: p[0] = v; p[1] = up; p[2] = zero; break;
        case 1: p[0] = down; p[1] = v; p[2] = zero; break;
        case 2: p[0] = zero; p[1] = v; p[2] = up; break;
        case 3: p[0] = zero; p[1] = down; p[2] = v; break;
        case 4: p[0] = up; p[1] = zero; p[2] = v; break;
        case 5: p[0] = v; p[1] = zero; p[2] = down; break;
        default: p[0] = p[1] = p[2] = v; break;
        }
    }
}

MMIXDEF int mmix_picture_jitter(uint8_t *rgb, size_t width, size_t height, const int *order,
                                const double *factors, size_t n)
{
    size_t count = width * height * 3;
    if (!mmixi_sides_ok(width, height)) return -1;
    for (size_t i = 0; i < n; i++) {
        int hue = order[i] == MMIX_JITTER_HUE;
        if (order[i] < MMIX_JITTER_BRIGHTNESS || order[i] > MMIX_JITTER_HUE) return -1;
        if (!(factors[i] >= (hue ? -0.5 : 0) && factors[i] <= (hue ? 0.5 : 1000))) return -1;
    }
    for (size_t i = 0; i < n; i++) {
        float product[511];
        if (order[i] == MMIX_JITTER_HUE) {
            mmixi_hue(rgb, count, (unsigned)(int)(255 * factors[i]) & 255);
            continue;
        }
        mmixi_blend_table(product, factors[i]);
        if (order[i] == MMIX_JITTER_BRIGHTNESS) mmixi_blend_constant(rgb, count, product, 0);
        if (order[i] == MMIX_JITTER_SATURATION) mmixi_saturation(rgb, count, product);
        if (order[i] == MMIX_JITTER_CONTRAST) {
            uint64_t sum = 0;
            for (size_t j = 0; j < count; j += 3) sum += mmixi_luma(rgb + j);
            mmixi_blend_constant(rgb, count, product, (int)((double)sum / (double)(count / 3) + 0.5));
        }
    }
    return 0;
}

/* ---- blur -------------------------------------------------------------------------
   A Gaussian as three boxes (Gwosdek et al. 2011) of fractional radius r, R = ⌊r⌋: the 2R+1 pixels in the
   middle weigh w = ⌊2²⁴/(2r+1)⌋ and the two outside e = ⌊(2²⁴ - (2R+1)w)/2⌋. The sum of the middle slides, so
   the cost does not depend on sigma; lines go in pairs, two levels in a word. */

/* One box over n pixels of paired lines; beyond the ends stands the last pixel. */
static void mmixi_blur_box(uint64_t *out, const uint64_t *in, size_t n, size_t R, uint64_t w, uint64_t e)
{
    const uint64_t half = ((uint64_t)1 << 23) + ((uint64_t)1 << 55), levels = 255 + ((uint64_t)255 << 32);
    size_t last = n - 1, seen = mmixi_min(R, last);
    uint64_t sum[3];
    for (size_t c = 0; c < 3; c++) {               /* of the pixels -R-1 … R-1 */
        sum[c] = in[c] * (R + 1) + in[3 * last + c] * (R - seen);
        for (size_t k = 0; k < seen; k++) sum[c] += in[3 * k + c];
    }
    for (size_t x = 0; x < n; x++, out += 3) {
        const uint64_t *before = in + 3 * (x > R ? x - R - 1 : 0), *enters = in + 3 * mmixi_min(x + R, last);
        const uint64_t *after = in + 3 * mmixi_min(x + R + 1, last);
        for (size_t c = 0; c < 3; c++) {
            sum[c] += enters[c] - before[c];
            out[c] = (w * sum[c] + e * (before[c] + after[c]) + half) >> 24 & levels;
        }
    }
}

/* Two lines of n pixels, `step` bytes from one to the next. */
static void mmixi_blur_lines(uint8_t *p, uint8_t *q, size_t step, size_t n, size_t R, uint32_t w, uint32_t e,
                             uint64_t *a)
{
    uint64_t *b = a + 3 * n;
    for (size_t x = 0; x < n; x++) {
        for (size_t c = 0; c < 3; c++) a[3 * x + c] = mmixi_pair(p[x * step + c], q[x * step + c]);
    }
    mmixi_blur_box(b, a, n, R, w, e);
    mmixi_blur_box(a, b, n, R, w, e);
    mmixi_blur_box(b, a, n, R, w, e);
    for (size_t x = 0; x < n; x++, p += step, q += step) {
        for (size_t c = 0; c < 3; c++) {
            p[c] = (uint8_t)b[3 * x + c];
            q[c] = (uint8_t)(b[3 * x + c] >> 32);
        }
    }
}

MMIXDEF size_t mmix_picture_blur_scratch(size_t width, size_t height)
{
    return mmixi_sides_ok(width, height) ? 6 * sizeof(uint64_t) * mmixi_max(width, height) : 0;
}

MMIXDEF int mmix_picture_blur(uint8_t *rgb, size_t width, size_t height, double sigma, void *scratch)
{
    uint64_t *lines = (uint64_t *)scratch;
    float variance = (float)sigma * (float)sigma / 3, l, r;
    uint32_t w, e;
    size_t R;
    if (!mmixi_sides_ok(width, height) || !(sigma >= 0 && sigma <= 1000)) return -1;
    l = (float)floor(((float)sqrt(12.0 * (double)variance + 1) - 1) / 2);
    r = (2 * l + 1) * (l * (l + 1) - 3 * variance);
    r = l + r / (6 * (variance - (l + 1) * (l + 1)));
    R = (size_t)r;
    w = (uint32_t)(16777216.0f / (2 * r + 1));
    e = (16777216u - (uint32_t)(2 * R + 1) * w) / 2;
    for (size_t y = 0; y < height; y += 2) {       /* the last row of an odd number goes with itself */
        uint8_t *row = rgb + y * width * 3;
        mmixi_blur_lines(row, y + 1 < height ? row + width * 3 : row, 3, width, R, w, e, lines);
    }
    for (size_t x = 0; x < width; x += 2) {
        uint8_t *column = rgb + x * 3;
        mmixi_blur_lines(column, x + 1 < width ? column + 3 : column, width * 3, height, R, w, e, lines);
    }
    return 0;
}

/* ---- real planes ------------------------------------------------------------------ */

/* table[c][v] = (v/255 - mean[c])/deviation[c]: 768 divisions instead of one a sample. */
typedef struct mmixi_levels { mmix_real of[3][256]; } mmixi_levels;

static void mmixi_levels_make(mmixi_levels *table, const double *mean, const double *deviation)
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) table->of[c][v] = (mmix_real)((v / 255.0 - mean[c]) / deviation[c]);
    }
}

static void mmixi_planes(mmix_real *out, const uint8_t *rgb, size_t count, const mmixi_levels *table)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = table->of[0][rgb[3 * i]];
        out[count + i] = table->of[1][rgb[3 * i + 1]];
        out[2 * count + i] = table->of[2][rgb[3 * i + 2]];
    }
}

MMIXDEF int mmix_picture_normalise(mmix_real *out, mmix_picture in, const double *mean,
                                   const double *deviation)
{
    mmix_augment imagenet = mmix_augment_dino();
    mmixi_levels table;
    if (!mean) mean = imagenet.mean;
    if (!deviation) deviation = imagenet.deviation;
    if (!mmixi_sides_ok(in.width, in.height)) return -1;
    if (!(fabs(deviation[0]) > 0 && fabs(deviation[1]) > 0 && fabs(deviation[2]) > 0)) return -1;
    mmixi_levels_make(&table, mean, deviation);
    mmixi_planes(out, in.rgb, in.width * in.height, &table);
    return 0;
}

/* side 0: the whole picture; else its shorter side becomes `side` and the middle is kept. */
static mmix_tensor *mmixi_image(mmix_ctx *m, const char *who, mmix_picture in, size_t side, size_t width,
                                size_t height)
{
    mmix_box box = { 0, 0, 0, 0 };
    mmix_picture out;
    mmix_tensor *image;
    mmix_mark mark;
    uint8_t *pixels;
    void *scratch;
    size_t bytes;
    if (mmix_error(m)) return NULL;
    box.width = in.width;
    box.height = in.height;
    bytes = side ? mmix_picture_evaluate_scratch(in.width, in.height, side, width)
        : mmix_picture_resize_scratch(box, width, height);
    if (!in.rgb || !bytes) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected a picture and sizes of 1 to 2^24, also of what is "
                  "resized before it is cut, found %zu x %zu%s to %zu x %zu", who, in.width, in.height,
                  in.rgb ? "" : " at NULL", width, height);
        return NULL;
    }
    image = mmix_new4(m, 1, 3, height, width);
    if (!image) return NULL;
    mark = mmix_mark_here(m);
    scratch = mmixi_step(m, bytes);
    pixels = (uint8_t *)mmixi_step(m, width * height * 3);
    out.rgb = pixels;
    out.width = width;
    out.height = height;
    if (scratch && pixels) {
        if (side) mmix_picture_evaluate(pixels, side, width, in, scratch);
        else mmix_picture_resize(pixels, width, height, in, box, scratch);
        mmix_picture_normalise(mmix_data(image), out, NULL, NULL);
    }
    mmix_rewind(m, mark);
    return scratch && pixels ? image : NULL;
}
MMIXDEF mmix_tensor *mmix_image(mmix_ctx *m, const uint8_t *rgb, size_t width, size_t height, size_t size)
{
    const mmix_picture in = { rgb, width, height };
    const size_t side = size && size <= MMIXI_SIDE_MAX ? (size * 256 + 112) / 224 : SIZE_MAX;
    return mmixi_image(m, "mmix_image", in, side, size, size);
}
MMIXDEF mmix_tensor *mmix_image_whole(mmix_ctx *m, const uint8_t *rgb, size_t width, size_t height,
                                      size_t to_width, size_t to_height)
{
    const mmix_picture in = { rgb, width, height };
    return mmixi_image(m, "mmix_image_whole", in, 0, to_width, to_height);
}

/* ---- DINO's crops ----------------------------------------------------------------- */

MMIXDEF mmix_augment mmix_augment_dino(void)
{
    static const double mean[3] = { 0.485, 0.456, 0.406 }, deviation[3] = { 0.229, 0.224, 0.225 };
    mmix_augment a;
    memset(&a, 0, sizeof a);
    a.global_size = 224;
    a.local_size = 96;
    a.local_count = 8;
    a.global_scale[0] = 0.4;
    a.global_scale[1] = 1;
    a.local_scale[0] = 0.05;
    a.local_scale[1] = 0.4;
    a.aspect[0] = 3.0 / 4;
    a.aspect[1] = 4.0 / 3;
    a.flip = 0.5;
    a.jitter = 0.8;
    a.grey = 0.2;
    a.blur[0] = 1;
    a.blur[1] = 0.1;
    a.blur[2] = 0.5;
    a.solarise[1] = 0.2;
    a.brightness = a.contrast = 0.4;
    a.saturation = 0.2;
    a.hue = 0.1;
    a.sigma[0] = 0.1;
    a.sigma[1] = 2;
    memcpy(a.mean, mean, sizeof mean);
    memcpy(a.deviation, deviation, sizeof deviation);
    return a;
}

/* A crop's random numbers: which of them is the last 8 bits of the element, so each stands on its own. */
enum {
    MMIXI_DRAW_BOX = 0,                            /* + 4 try + (area, aspect, top, left) */
    MMIXI_DRAW_FLIP = 40, MMIXI_DRAW_JITTER, MMIXI_DRAW_GREY, MMIXI_DRAW_BLUR, MMIXI_DRAW_SIGMA,
    MMIXI_DRAW_SOLARISE,
    MMIXI_DRAW_FACTOR = 48,                        /* + kind */
    MMIXI_DRAW_ORDER = 52                          /* + place */
};

typedef struct mmixi_draws { const mmix_ctx *m; uint64_t step, element; } mmixi_draws;

static mmixi_draws mmixi_draws_of(const mmix_ctx *m, uint64_t step, size_t image, size_t crop)
{
    mmixi_draws d;
    d.m = m;
    d.step = step;
    d.element = ((uint64_t)image << 24) | ((uint64_t)crop << 8);
    return d;
}

static double mmixi_draw(const mmixi_draws *d, int which, double low, double high)
{
    double u = mmix_random_uniform(d->m, MMIXI_RANDOM_AUGMENT, d->step, d->element | (uint64_t)which);
    return low + (high - low) * u;
}

static size_t mmixi_draw_below(const mmixi_draws *d, int which, size_t n)
{
    size_t k = (size_t)mmixi_draw(d, which, 0, (double)n);
    return k < n ? k : n - 1;
}

MMIXDEF mmix_box mmix_augment_box(const mmix_ctx *m, const mmix_augment *config, size_t width, size_t height,
                                  uint64_t step, size_t image, size_t crop)
{
    mmixi_draws d = mmixi_draws_of(m, step, image, crop);
    const double *scale = crop < 2 ? config->global_scale : config->local_scale;
    double log_low = mmixi_log(config->aspect[0]), log_high = mmixi_log(config->aspect[1]);
    double area = (double)width * (double)height, w = (double)width, h = (double)height;
    for (int i = MMIXI_DRAW_BOX; i < MMIXI_DRAW_BOX + 40; i += 4) {
        double target = area * mmixi_draw(&d, i, scale[0], scale[1]);
        double aspect = mmixi_exp(mmixi_draw(&d, i + 1, log_low, log_high));
        double box_w = rint(sqrt(target * aspect)), box_h = rint(sqrt(target / aspect));
        if (box_w >= 1 && box_w <= w && box_h >= 1 && box_h <= h) {
            size_t top = mmixi_draw_below(&d, i + 2, height - (size_t)box_h + 1);
            size_t left = mmixi_draw_below(&d, i + 3, width - (size_t)box_w + 1);
            return mmixi_box(top, left, (size_t)box_h, (size_t)box_w);
        }
    }
    if (w / h < config->aspect[0]) h = rint(w / config->aspect[0]);
    else if (w / h > config->aspect[1]) w = rint(h * config->aspect[1]);
    h = h < 1 ? 1 : h > (double)height ? (double)height : h;
    w = w < 1 ? 1 : w > (double)width ? (double)width : w;
    return mmixi_box((height - (size_t)h) / 2, (width - (size_t)w) / 2, (size_t)h, (size_t)w);
}

/* Scratch of one crop of size s: for the resize (then for the blur), and behind it the crop's pixels. */
static size_t mmixi_crop_scratch(size_t s, size_t width, size_t height, size_t *pixels)
{
    size_t resize, blur;
    if (!mmixi_sides_ok(s, s)) return 0;
    resize = mmixi_resize_scratch(height, width, s, s, s, s);
    blur = mmix_picture_blur_scratch(s, s);
    *pixels = resize > blur ? resize : blur;
    return resize && mmixi_mul_ok(s, s * 3, &blur) && blur <= SIZE_MAX - *pixels ? *pixels + blur : 0;
}

MMIXDEF size_t mmix_augment_crop_scratch(const mmix_augment *config, size_t width, size_t height)
{
    size_t pixels, global = mmixi_crop_scratch(config->global_size, width, height, &pixels), local;
    if (!config->local_count) return global;
    local = mmixi_crop_scratch(config->local_size, width, height, &pixels);
    return global && local ? (global > local ? global : local) : 0;
}

static int mmixi_augment_crop(const mmix_ctx *m, mmix_real *out, const mmix_augment *config,
                              const mmixi_levels *table, mmix_picture picture, uint64_t step, size_t image,
                              size_t crop, char *scratch)
{
    mmixi_draws d = mmixi_draws_of(m, step, image, crop);
    size_t s = crop < 2 ? config->global_size : config->local_size, kind = crop < 2 ? crop : 2, pixels;
    mmix_box box;
    uint8_t *rgb;
    if (!mmixi_crop_scratch(s, picture.width, picture.height, &pixels)) return -1;
    rgb = (uint8_t *)scratch + pixels;
    box = mmix_augment_box(m, config, picture.width, picture.height, step, image, crop);
    if (mmix_picture_resize(rgb, s, s, picture, box, scratch)) return -1;
    if (mmixi_draw(&d, MMIXI_DRAW_FLIP, 0, 1) < config->flip) mmix_picture_flip(rgb, s, s);
    if (mmixi_draw(&d, MMIXI_DRAW_JITTER, 0, 1) < config->jitter) {
        const double strength[4] = { config->brightness, config->contrast, config->saturation, config->hue };
        int order[4] = { 0, 1, 2, 3 };
        double factors[4];
        for (size_t i = 3; i > 0; i--) {           /* Fisher and Yates */
            size_t j = mmixi_draw_below(&d, MMIXI_DRAW_ORDER + (int)i, i + 1);
            int swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (int i = 0; i < 4; i++) {
            double x = strength[order[i]], middle = order[i] == MMIX_JITTER_HUE ? 0 : 1;
            double low = middle == 1 && x > 1 ? 0 : middle - x;
            factors[i] = mmixi_draw(&d, MMIXI_DRAW_FACTOR + order[i], low, middle + x);
        }
        mmix_picture_jitter(rgb, s, s, order, factors, 4);
    }
    if (mmixi_draw(&d, MMIXI_DRAW_GREY, 0, 1) < config->grey) mmix_picture_grey(rgb, s, s);
    if (mmixi_draw(&d, MMIXI_DRAW_BLUR, 0, 1) < config->blur[kind]) {
        double sigma = mmixi_draw(&d, MMIXI_DRAW_SIGMA, config->sigma[0], config->sigma[1]);
        mmix_picture_blur(rgb, s, s, sigma, scratch);
    }
    if (mmixi_draw(&d, MMIXI_DRAW_SOLARISE, 0, 1) < config->solarise[kind]) {
        mmix_picture_solarise(rgb, s, s, 128);
    }
    mmixi_planes(out, rgb, s * s, table);
    return 0;
}

MMIXDEF int mmix_augment_crop(const mmix_ctx *m, mmix_real *out, const mmix_augment *config,
                              mmix_picture picture, uint64_t step, size_t image, size_t crop, void *scratch)
{
    mmixi_levels table;
    if (!picture.rgb) return -1;
    mmixi_levels_make(&table, config->mean, config->deviation);
    return mmixi_augment_crop(m, out, config, &table, picture, step, image, crop, (char *)scratch);
}

static int mmixi_augment_check(mmix_ctx *m, const mmix_augment *a)
{
    const double probability[] = { a->flip, a->jitter, a->grey, a->blur[0], a->blur[1], a->blur[2],
                                   a->solarise[0], a->solarise[1], a->solarise[2] };
    const double strength[] = { a->brightness, a->contrast, a->saturation };
    const double *scale[2];
    const char *bad = NULL;
    scale[0] = a->global_scale;
    scale[1] = a->local_scale;
    if (!mmixi_sides_ok(a->global_size, 1)) bad = "global_size: expected 1 to 2^24";
    if (a->local_count && !mmixi_sides_ok(a->local_size, 1)) bad = "local_size: expected 1 to 2^24";
    if (a->local_count > 65533) bad = "local_count: expected at most 65533";
    for (int i = 0; i < (a->local_count ? 2 : 1); i++) {
        if (!(scale[i][0] > 0 && scale[i][0] <= scale[i][1] && scale[i][1] <= 1)) {
            bad = "scale: expected 0 < low <= high <= 1";
        }
    }
    if (!(a->aspect[0] > 1e-6 && a->aspect[0] <= a->aspect[1] && a->aspect[1] < 1e6)) {
        bad = "aspect: expected 1e-6 < low <= high < 1e6";
    }
    for (size_t i = 0; i < sizeof probability / sizeof *probability; i++) {
        if (!(probability[i] >= 0 && probability[i] <= 1)) bad = "a probability lies outside 0 ... 1";
    }
    for (size_t i = 0; i < 3; i++) {
        const double x = strength[i];
        if (!(x >= 0 && x <= 999)) bad = "brightness, contrast, saturation: expected 0 to 999";
    }
    if (!(a->hue >= 0 && a->hue <= 0.5)) bad = "hue: expected 0 to 0.5";
    if (!(a->sigma[0] >= 0 && a->sigma[0] <= a->sigma[1] && a->sigma[1] <= 1000)) {
        bad = "sigma: expected 0 <= low <= high <= 1000";
    }
    for (int c = 0; c < 3; c++) {
        if (!(fabs(a->deviation[c]) > 0 && fabs(a->deviation[c]) <= FLT_MAX && fabs(a->mean[c]) <= FLT_MAX)) {
            bad = "mean and deviation: expected finite numbers, no deviation of 0";
        }
    }
    return bad ? mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_augment_batch: config: %s", bad) : 0;
}

static int mmixi_augment_check_crops(mmix_ctx *m, const char *name, const mmix_tensor *t, size_t rows,
                                     size_t s)
{
    const char *other = !t ? "NULL " : mmix_ndim(t) != 4 ? "other axes " : "";
    size_t n[4] = { 0, 0, 0, 0 };
    for (int i = 0; !*other && i < 4; i++) n[i] = mmix_shape(t, i);
    if (n[0] != rows || n[1] != 3 || n[2] != s || n[3] != s) {
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_augment_batch: %s: expected (%zu, 3, %zu, %zu), found "
                         "%s(%zu, %zu, %zu, %zu)", name, rows, s, s, other, n[0], n[1], n[2], n[3]);
    }
    if (!mmix_data(t) || mmix_stride(t, 2) != s || mmix_stride(t, 1) != s * s) {
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_augment_batch: %s: expected reals in host memory, "
                         "each crop contiguous, found another layout", name);
    }
    return 0;
}

typedef struct mmixi_augment_job {
    const mmix_ctx *m;
    const mmix_augment *config;
    const mmix_picture *pictures;
    const size_t *index;
    size_t B, bytes, stride[2];                    /* stride: global, local */
    uint64_t step;
    mmix_real *out[2];
    char *scratch;                                 /* (lanes, bytes) */
    mmixi_levels table;
} mmixi_augment_job;

static void mmixi_augment_task(void *arg, size_t i, size_t lane)
{
    const mmixi_augment_job *job = (const mmixi_augment_job *)arg;
    size_t crop = i / job->B, b = i % job->B, local = crop >= 2, row = i - local * 2 * job->B;
    mmix_picture picture = job->pictures[job->index ? job->index[b] : b];
    mmixi_augment_crop(job->m, job->out[local] + row * job->stride[local], job->config, &job->table, picture,
                       job->step, b, crop, job->scratch + lane * job->bytes);
}

MMIXDEF int mmix_augment_batch(mmix_ctx *m, const mmix_augment *config, const mmix_picture *pictures,
                               const size_t *index, size_t B, uint64_t step, mmix_tensor *global,
                               mmix_tensor *local)
{
    mmixi_augment_job job;
    size_t bytes, locals, width = 1, height = 1;
    mmix_mark mark;
    if (mmix_error(m)) return -1;
    if (!config || !pictures || !B || (uint64_t)B >> 40) {
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_augment_batch: expected a config and 1 to 2^40 - 1 "
                         "pictures, found %zu%s", B, config && pictures ? "" : " and NULL");
    }
    if (mmixi_augment_check(m, config)) return -1;
    for (size_t b = 0; b < B; b++) {
        const mmix_picture *p = &pictures[index ? index[b] : b];
        if (!p->rgb || !mmixi_sides_ok(p->width, p->height)) {
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_augment_batch: picture %zu: expected sides of 1 "
                             "to 2^24, found %zu x %zu%s", index ? index[b] : b, p->width, p->height,
                             p->rgb ? "" : " at NULL");
        }
        width = mmixi_max(width, p->width);
        height = mmixi_max(height, p->height);
    }
    locals = config->local_count;
    if (mmixi_augment_check_crops(m, "global", global, 2 * B, config->global_size)) return -1;
    if (locals && mmixi_augment_check_crops(m, "local", local, locals * B, config->local_size)) return -1;
    job.m = m;
    job.config = config;
    job.pictures = pictures;
    job.index = index;
    job.B = B;
    job.step = step;
    job.out[0] = mmix_data(global);
    job.stride[0] = mmix_stride(global, 0);
    job.out[1] = locals ? mmix_data(local) : NULL;
    job.stride[1] = locals ? mmix_stride(local, 0) : 0;
    mmixi_levels_make(&job.table, config->mean, config->deviation);
    job.bytes = mmix_augment_crop_scratch(config, width, height);
    job.bytes += (64 - job.bytes % 64) % 64;       /* lanes on cache lines of their own, aligned for double */
    if (!job.bytes || !mmixi_mul_ok(job.bytes, mmixi_lanes(m), &bytes)) {
        return mmix_fail(m, MMIX_ERROR_MEMORY, "mmix_augment_batch: pictures of %zu x %zu are too large for "
                         "this machine", width, height);
    }
    mark = mmix_mark_here(m);
    job.scratch = (char *)mmixi_step(m, bytes);
    if (!job.scratch) return -1;
    mmixi_parallel(m, (2 + locals) * B, mmixi_augment_task, &job);
    mmix_rewind(m, mark);
    return 0;
}

#if defined(__clang__)
#pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif

/* ---- PPM --------------------------------------------------------------------------
   "P6" (RGB) or "P5" (grey), then width, height and the largest level as decimal numbers, each after white
   space or comments (# to the end of the line), one byte of white space, then the rows.
   http://netpbm.sourceforge.net/doc/ppm.html */

/* The next number of the header, -1 if there is none or it is too large. */
static long mmixi_ppm_number(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at;
    long value = 0;
    while (p < end && (*p == ' ' || (*p >= '\t' && *p <= '\r') || *p == '#')) {
        if (*p++ == '#') {
            while (p < end && *p != '\n' && *p != '\r') p++;
        }
    }
    if (p == *at || p == end || *p < '0' || *p > '9') return -1;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (*p - '0');
        if (value > MMIXI_SIDE_MAX) return -1;
    }
    *at = p;
    return value;
}

static uint8_t *mmixi_ppm_parse(mmix_ctx *m, const char *who, const uint8_t *bytes, size_t size,
                                size_t *width, size_t *height)
{
    const uint8_t *at = bytes + 2, *end = bytes + size;
    size_t channels, count, need;
    long w, h, most;
    uint8_t *rgb;
    *width = *height = 0;
    if (size < 2 || bytes[0] != 'P' || (bytes[1] != '5' && bytes[1] != '6')) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected P6 or P5 at the start: not a binary PPM or PGM", who);
        return NULL;
    }
    channels = bytes[1] == '6' ? 3 : 1;
    w = mmixi_ppm_number(&at, end);
    h = w < 0 ? -1 : mmixi_ppm_number(&at, end);
    most = h < 0 ? -1 : mmixi_ppm_number(&at, end);
    if (w < 1 || h < 1) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected width and height of 1 to 2^24 in the header", who);
        return NULL;
    }
    if (most < 1 || most > 255) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a largest level of 1 to 255 in the header", who);
        return NULL;
    }
    if (at == end || !(*at == ' ' || (*at >= '\t' && *at <= '\r'))) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected white space after the header", who);
        return NULL;
    }
    at++;
    if (!mmixi_mul_ok((size_t)w, (size_t)h, &count) || !mmixi_mul_ok(count, 3, &need) ||
        count * channels > (size_t)(end - at)) {
        mmix_fail(m, MMIX_ERROR_FILE, "%s: expected %ld x %ld pixels after the header, found %zu bytes", who,
                  w, h, (size_t)(end - at));
        return NULL;
    }
    rgb = (uint8_t *)mmixi_alloc(m, need);
    if (!rgb) return NULL;
    for (size_t i = 0; i < need; i++) {
        unsigned v = at[channels == 3 ? i : i / 3], top = (unsigned)most;
        rgb[i] = (uint8_t)(v >= top ? 255 : (v * 255 + top / 2) / top);
    }
    *width = (size_t)w;
    *height = (size_t)h;
    return rgb;
}

MMIXDEF uint8_t *mmix_ppm_read(mmix_ctx *m, const void *bytes, size_t size, size_t *width, size_t *height)
{
    *width = *height = 0;
    if (mmix_error(m)) return NULL;
    return mmixi_ppm_parse(m, "mmix_ppm_read", (const uint8_t *)bytes, size, width, height);
}

MMIXDEF void mmix_ppm_free(mmix_ctx *m, uint8_t *rgb, size_t width, size_t height)
{
    mmixi_free(m, rgb, width * height * 3);
}

MMIXDEF uint8_t *mmix_ppm_load(mmix_ctx *m, const char *path, size_t *width, size_t *height)
{
    uint8_t *bytes, *rgb;
    size_t size;
    *width = *height = 0;
    bytes = mmixi_file_read(m, "mmix_ppm_load", path, &size);
    if (!bytes) return NULL;
    rgb = mmixi_ppm_parse(m, path, bytes, size, width, height);
    mmixi_free(m, bytes, size + 1);
    return rgb;
}

static int mmixi_ppm_write(mmix_ctx *m, const char *who, const char *path, const uint8_t *pixels,
                           size_t width, size_t height, size_t channels)
{
    mmixi_file f;
    char head[64];
    if (mmix_error(m)) return -1;
    if (!pixels || !mmixi_sides_ok(width, height))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s: expected sides of 1 to 2^24, found %zu x %zu%s", who,
                         width, height, pixels ? "" : " at NULL");
    snprintf(head, sizeof head, "P%c\n%zu %zu\n255\n", channels == 3 ? '6' : '5', width, height);
    if (mmixi_file_begin(m, &f, who, path)) return -1;
    mmixi_file_write(&f, head, strlen(head));
    mmixi_file_write(&f, pixels, width * height * channels);
    return mmixi_file_end(m, &f);
}

MMIXDEF int mmix_ppm_save(mmix_ctx *m, const char *path, const uint8_t *rgb, size_t width, size_t height)
{
    return mmixi_ppm_write(m, "mmix_ppm_save", path, rgb, width, height, 3);
}

MMIXDEF int mmix_pgm_save(mmix_ctx *m, const char *path, const uint8_t *grey, size_t width, size_t height)
{
    return mmixi_ppm_write(m, "mmix_pgm_save", path, grey, width, height, 1);
}

/* ==== >>files ========================================================================
   archives of named arrays: safetensors in and out

   8 bytes   n, the length of the header, little-endian
   n bytes   JSON: {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, …,
                    "__metadata__": {"key": "text", …}}
   the rest  the arrays, little-endian, row-major; offsets count from here, without gaps and overlaps
   github.com/huggingface/safetensors, "Format". Other formats are to end in the same mmix_archive.
   ------------------------------------------------------------------------------------ */

struct mmixi_file_dtype { char name[8], npy[4]; size_t size; };
static const struct mmixi_file_dtype mmixi_file_dtypes[] = {      /* by MMIX_FILE_F64 …; size in the file */
    {"F64", "f8", 8}, {"F32", "f4", 4}, {"F16", "f2", 2}, {"BF16", "", 2}, {"I64", "i8", 8}, {"I32", "i4", 4},
    {"I16", "i2", 2}, {"I8", "i1", 1}, {"U8", "u1", 1}, {"BOOL", "b1", 1}, {"BF16", "", 2}
};

MMIXDEF const char *mmix_file_dtype_name(int dtype)
{
    return dtype >= 0 && dtype <= MMIX_FILE_REAL_AS_BF16 ? mmixi_file_dtypes[dtype].name : NULL;
}

/* Length of the UTF-8 character at s (zero-terminated); 0 if it is none, an overlong form or a surrogate. */
static size_t mmixi_utf8_length(const char *s)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] < 0x80 ? 1 : u[0] < 0xC2 ? 0 : u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : u[0] < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((u[i] & 0xC0) != 0x80) return 0;
    if ((u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] > 0x9F)) return 0;
    if ((u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] > 0x8F)) return 0;
    return n;
}

static int mmixi_utf8_ok(const char *s)
{
    size_t n = 1;
    while (*s && (n = mmixi_utf8_length(s)) != 0) s += n;
    return n != 0;
}

static int mmixi_compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts keys and returns one that is there twice, or NULL. */
static const char *mmixi_key_twice(const char **keys, size_t n)
{
    if (n) qsort((void *)keys, n, sizeof *keys, mmixi_compare_keys);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(keys[i - 1], keys[i])) return keys[i];
    return NULL;
}

/* A name for a message: one line, of bounded length. */
static const char *mmixi_shown(char out[64], const char *name)
{
    size_t at = 0, n;
    while ((n = mmixi_utf8_length(name)) && *name && at + n < 60) {
        memcpy(out + at, name, n);
        if ((unsigned char)*name < 32 || *name == 127) out[at] = '?';
        at += n, name += n;
    }
    memcpy(out + at, *name ? "..." : "", *name ? 4 : 1);
    return out;
}
/* The same of n bytes, the first 60 at most. */
static const char *mmixi_shown_part(char out[64], const char *text, size_t n)
{
    char part[61];
    n = mmixi_min(n, 60);
    memcpy(part, text, n);
    part[n] = 0;
    return mmixi_shown(out, part);
}

/* ---- JSON: strict, 64 levels, no key twice, no U+0000; integers exact ---- */

/* A value. The first item of an object or array is v + 1, the others follow through next. */
typedef struct mmixi_json {
    char kind;                               /* { [ " 0 t f n, as the value begins; 0 for every number */
    const char *key;                         /* of a member of an object, else NULL */
    const char *text;                        /* a string, decoded, zero-terminated; else where it began */
    size_t length;                           /* of a string or number; how many items */
    const struct mmixi_json *next;           /* the next item of the same object or array */
} mmixi_json;

typedef struct mmixi_json_document {         /* zeroed: not open */
    mmixi_json *nodes;                       /* nodes[0] is the whole */
    char *text;                              /* a copy, in which strings are decoded where they stand */
    size_t node_bytes, text_bytes;
} mmixi_json_document;

/* The text ends with a zero, which is valid nowhere in JSON: no other check against its end is needed. */
typedef struct mmixi_json_parser {
    char *text;
    size_t at, count;
    mmixi_json *nodes;                       /* NULL in the first pass, which checks everything and counts */
    const char **keys;
    size_t most, members;                    /* values at a time; of the whole */
    /* What to do in the second pass with each member of the whole, NULL or 0. Its values are dropped then. */
    int (*each)(void *user, const mmixi_json *member, size_t values);
    void *user;
    const char *expected, *found;            /* found NULL: the character at `at` */
} mmixi_json_parser;

static int mmixi_json_expected(mmixi_json_parser *p, const char *expected, const char *found)
{
    p->expected = expected, p->found = found;
    return 0;
}

static char mmixi_json_peek(mmixi_json_parser *p)
{
    while (p->text[p->at] && strchr(" \t\n\r", p->text[p->at])) p->at++;
    return p->text[p->at];
}

/* Four hexadecimal digits, or -1. */
static long mmixi_json_hex(const char *s)
{
    long code = 0;
    for (int i = 0; i < 4; i++) {
        char c = s[i];
        if (c >= '0' && c <= '9') code = code * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f') code = code * 16 + (c - 'a' + 10);
        else if (c >= 'A' && c <= 'F') code = code * 16 + (c - 'A' + 10);
        else return -1;
    }
    return code;
}

/* The escape at the backslash, as UTF-8 into out; returns its length there, 0 if it is wrong. */
static size_t mmixi_json_escape(mmixi_json_parser *p, char out[4])
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    static const int lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const char *s = p->text + p->at + 1, *letter = *s ? strchr(letters, *s) : NULL;
    size_t n, used = 6;
    if (letter) {
        out[0] = meant[letter - letters];
        p->at += 2;
        return 1;
    }
    long code = *s == 'u' ? mmixi_json_hex(s + 1) : -1, low;
    if (code >= 0xD800 && code < 0xDC00 && s[5] == '\\' && s[6] == 'u') {       /* half of a pair */
        low = mmixi_json_hex(s + 7);
        used = 12;
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + (code - 0xD800) * 1024 + (low - 0xDC00) : -1;
    }
    if (code <= 0 || (code >= 0xD800 && code < 0xE000)) return 0;
    n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[n] | code);
    p->at += used;
    return n;
}

static int mmixi_json_string(mmixi_json_parser *p, const char **text, size_t *length)
{
    char *begin = p->text + ++p->at, *to = begin;
    while (p->text[p->at] != '"') {
        char c[4];
        const char *from = p->text + p->at;
        size_t n;
        if (*from == '\\') {
            n = mmixi_json_escape(p, c), from = c;
            if (!n) return mmixi_json_expected(p, "the escape of a character", NULL);
        } else {
            n = (unsigned char)*from < 32 ? 0 : mmixi_utf8_length(from), p->at += n;
            if (!n) return mmixi_json_expected(p, "a string of UTF-8", NULL);
        }
        if (p->nodes) memmove(to, from, n);                   /* never longer than what it was decoded from */
        to += n;
    }
    p->at++;
    if (p->nodes) *to = 0;
    *text = begin, *length = (size_t)(to - begin);
    return 1;
}

static int mmixi_json_digits(mmixi_json_parser *p)
{
    size_t begin = p->at;
    while (p->text[p->at] >= '0' && p->text[p->at] <= '9') p->at++;
    return p->at > begin;
}

static int mmixi_json_scalar(mmixi_json_parser *p, mmixi_json *v)
{
    static const char words[3][8] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if (!strncmp(v->text, words[i], strlen(words[i]))) {
            p->at += v->length = strlen(words[i]);
            return 1;
        }
    v->kind = '0';
    if (p->text[p->at] == '-') p->at++;
    if (p->text[p->at] == '0') p->at++;                           /* and no digit after it */
    else if (!mmixi_json_digits(p)) return mmixi_json_expected(p, "a value", NULL);
    if (p->text[p->at] == '.') {
        p->at++;
        if (!mmixi_json_digits(p)) return mmixi_json_expected(p, "a digit", NULL);
    }
    if (p->text[p->at] == 'e' || p->text[p->at] == 'E') {
        p->at++;
        if (p->text[p->at] == '+' || p->text[p->at] == '-') p->at++;
        if (!mmixi_json_digits(p)) return mmixi_json_expected(p, "a digit", NULL);
    }
    v->length = (size_t)(p->text + p->at - v->text);
    return 1;
}

static int mmixi_json_value(mmixi_json_parser *p, int depth, const char *key)
{
    mmixi_json counted, *v = p->nodes ? p->nodes + p->count : &counted, *last = NULL;
    p->most = mmixi_max(p->most, ++p->count);
    v->kind = mmixi_json_peek(p), v->key = key, v->text = p->text + p->at, v->length = 0, v->next = NULL;
    if (v->kind == '"') return mmixi_json_string(p, &v->text, &v->length);
    if (v->kind != '{' && v->kind != '[') return mmixi_json_scalar(p, v);

    const char close = v->kind == '{' ? '}' : ']';
    if (depth == 64) return mmixi_json_expected(p, "at most 64 levels", "more");
    p->at++;
    while (v->length || mmixi_json_peek(p) != close) {
        if (v->kind == '{') {
            size_t length;
            if (mmixi_json_peek(p) != '"') return mmixi_json_expected(p, "a key", NULL);
            if (!mmixi_json_string(p, &key, &length)) return 0;
            if (mmixi_json_peek(p) != ':') return mmixi_json_expected(p, "':'", NULL);
            p->at++;
        }
        const size_t before = p->count;
        mmixi_json *item = p->nodes ? p->nodes + before : NULL;
        if (!mmixi_json_value(p, depth + 1, v->kind == '{' ? key : NULL)) return 0;
        if (last) last->next = item;
        last = item, v->length++;
        if (p->each && !depth) {
            if (item && p->each(p->user, item, p->count - before)) return 0;
            last = NULL, p->count = before, p->members = v->length;
        }
        if (mmixi_json_peek(p) == close) break;
        if (p->text[p->at] != ',')
            return mmixi_json_expected(p, v->kind == '{' ? "',' or '}'" : "',' or ']'", NULL);
        p->at++;
    }
    p->at++;
    if (v->kind == '[' || !p->nodes || (p->each && !depth)) return 1;
    size_t n = 0;
    for (const mmixi_json *i = v->length ? v + 1 : NULL; i; i = i->next) p->keys[n++] = i->key;
    key = mmixi_key_twice(p->keys, n);
    return key ? mmixi_json_expected(p, "every key once", key) : 1;
}

static void mmixi_json_close(mmix_ctx *m, mmixi_json_document *d)
{
    mmixi_free(m, d->nodes, d->node_bytes);
    mmixi_free(m, d->text, d->text_bytes);
    memset(d, 0, sizeof *d);
}

/* One pass over `length` bytes. */
static int mmixi_json_pass(mmixi_json_parser *p, size_t length)
{
    p->at = p->count = 0;
    if (!mmixi_json_value(p, 0, NULL)) return 0;
    mmixi_json_peek(p);
    return p->at == length ? 1 : mmixi_json_expected(p, "the end", NULL);
}
/* Memory for n values, and for their keys, which are sorted meanwhile. */
static size_t mmixi_json_bytes(size_t n) { return n * (sizeof(mmixi_json) + sizeof(char *)); }
static void mmixi_json_take(mmixi_json_parser *p, void *memory)
{
    p->nodes = (mmixi_json *)memory;
    p->keys = (const char **)(void *)(p->nodes + p->most);
}
/* A copy of the text, with its zero. 0, or -1. */
static int mmixi_json_copy(mmix_ctx *m, mmixi_json_document *d, const char *text, size_t length)
{
    memset(d, 0, sizeof *d);
    d->text_bytes = length + 1;
    d->text = (char *)mmixi_alloc(m, d->text_bytes);
    if (!d->text) return -1;
    memcpy(d->text, text, length);
    d->text[length] = 0;
    return 0;
}
/* The message after a pass that failed; what is for messages ("file.safetensors: header"). Returns -1. */
static int mmixi_json_refuse(mmix_ctx *m, const mmixi_json_parser *p, const char *what, size_t length)
{
    char shown[64];
    const unsigned c = (unsigned char)p->text[p->at];
    if (p->found) mmixi_shown(shown, p->found);
    else if (p->at == length) snprintf(shown, sizeof shown, "the end");
    else snprintf(shown, sizeof shown, c > 32 && c < 127 ? "'%c'" : "byte 0x%02X", c);
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: JSON byte %zu: expected %s, found %s", what, p->at, p->expected,
                     shown);
}

/* Parses length bytes. 0, or -1 with nothing to close. */
static int mmixi_json_open(mmix_ctx *m, mmixi_json_document *d, const char *what, const char *text,
                           size_t length)
{
    mmixi_json_parser p;
    int ok;
    memset(&p, 0, sizeof p);
    if (mmixi_json_copy(m, d, text, length)) return -1;
    p.text = d->text;
    ok = mmixi_json_pass(&p, length);
    if (ok) {
        d->node_bytes = mmixi_json_bytes(p.most);
        d->nodes = (mmixi_json *)mmixi_alloc(m, d->node_bytes);
        if (d->nodes) {
            mmixi_json_take(&p, d->nodes);
            ok = mmixi_json_pass(&p, length);
        }
    }
    if (!ok) mmixi_json_refuse(m, &p, what, length);
    if (ok && d->nodes) return 0;
    mmixi_json_close(m, d);
    return -1;
}

/* Looking at values; v may be NULL, for a chain of finds. First the member of that name, or NULL. */
static const mmixi_json *mmixi_json_find(const mmixi_json *v, const char *key)
{
    const mmixi_json *item = v && v->kind == '{' && v->length ? v + 1 : NULL;
    while (item && strcmp(item->key, key)) item = item->next;
    return item;
}

/* The first item of an object or array, or NULL. */
static const mmixi_json *mmixi_json_first(const mmixi_json *v)
{
    return v && (v->kind == '{' || v->kind == '[') && v->length ? v + 1 : NULL;
}

static const char *mmixi_json_text(const mmixi_json *v)
{
    return v && v->kind == '"' ? v->text : NULL;
}

/* A number written with digits alone that fits: 1. Anything else: 0. */
static int mmixi_json_size(const mmixi_json *v, size_t *out)
{
    *out = 0;
    if (!v || v->kind != '0') return 0;
    for (size_t i = 0; i < v->length; i++) {
        size_t digit = (size_t)(v->text[i] - '0');
        if (v->text[i] < '0' || v->text[i] > '9' || *out > (SIZE_MAX - digit) / 10) return 0;
        *out = *out * 10 + digit;
    }
    return 1;
}

/* A value for a message: a number, or the character that another one begins with. */
static const char *mmixi_json_shown(char out[64], const mmixi_json *v)
{
    if (v->kind == '0') snprintf(out, 64, "%.*s", (int)(v->length < 40 ? v->length : 40), v->text);
    else snprintf(out, 64, "%c", v->kind);
    return out;
}

/* A number as double, `otherwise` if v is none. inline: not every build asks for it. */
static inline double mmixi_json_number(const mmixi_json *v, double otherwise)
{
    char token[64], *end, *point;
    if (!v || v->kind != '0' || v->length >= sizeof token) return otherwise;
    memcpy(token, v->text, v->length);
    token[v->length] = 0;
    double value = strtod(token, &end);
    if (*end == '.' && (point = strchr(token, '.')) != NULL) {    /* the user's locale writes 0,5 */
        *point = ',';
        value = strtod(token, &end);
    }
    return *end ? otherwise : value;
}

/* true 1, false 0, anything else `otherwise`. */
static inline int mmixi_json_flag(const mmixi_json *v, int otherwise)
{
    return v && v->kind == 't' ? 1 : v && v->kind == 'f' ? 0 : otherwise;
}

/* ---- elements ---- */

static int mmixi_big_endian_here(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return !first;
}
static void mmixi_swap_bytes(void *data, size_t n, size_t size)
{
    unsigned char *p = (unsigned char *)data;
    for (size_t i = 0; i < n; i++, p += size)
        for (size_t j = 0; j < size / 2; j++) {
            unsigned char c = p[j];
            p[j] = p[size - 1 - j], p[size - 1 - j] = c;
        }
}
/* Files are little-endian: on a big-endian machine turns n elements of the given size around, both ways. */
static void mmixi_little_endian(void *data, size_t n, size_t size)
{
    if (mmixi_big_endian_here()) mmixi_swap_bytes(data, n, size);
}

static int64_t mmixi_element_i64(int dtype, const unsigned char *p)
{
    int64_t i64;
    int32_t i32;
    int16_t i16;
    int8_t i8;
    switch (dtype) {
    case MMIX_FILE_I64: memcpy(&i64, p, 8); return i64;
    case MMIX_FILE_I32: memcpy(&i32, p, 4); return i32;
    case MMIX_FILE_I16: memcpy(&i16, p, 2); return i16;
    case MMIX_FILE_I8: memcpy(&i8, p, 1); return i8;
    case MMIX_FILE_BOOL: return *p != 0;
    default: return *p;
    }
}

static double mmixi_element_f64(int dtype, const unsigned char *p)
{
    uint64_t bits64;
    uint32_t bits;
    uint16_t half;
    double d;
    float f;
    switch (dtype) {
    case MMIX_FILE_F64: memcpy(&d, p, 8); return d;
    case MMIX_FILE_F32: memcpy(&f, p, 4); return (double)f;
    case MMIX_FILE_BF16:                                          /* the upper half of a float */
        memcpy(&half, p, 2);
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, 4);
        return (double)f;
    case MMIX_FILE_F16: {                                         /* sign 1, exponent 5, fraction 10 bits */
        memcpy(&half, p, 2);
        uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
        if (exponent == 0) d = (double)fraction / 16777216;       /* subnormal: fraction 2^-24 */
        else {
            exponent = exponent == 31 ? 2047 : exponent + (1023 - 15);
            bits64 = (uint64_t)exponent << 52 | (uint64_t)fraction << 42;
            memcpy(&d, &bits64, 8);
        }
        return half & 0x8000u ? -d : d; }
    default: return (double)mmixi_element_i64(dtype, p);
    }
}

/* ---- archives ---- */

static void mmixi_file_free(mmix_ctx *m, mmixi_file_bytes *f)
{
#ifdef MMIXI_MAPS
    if (f->mapped) {
        munmap(f->bytes, f->size);
        return;
    }
#endif
    mmixi_free(m, f->bytes, f->size + 1);
}

struct mmix_archive {
    mmix_ctx *m;
    mmixi_file_bytes file;                   /* all of it, turned to this machine's byte order */
    mmix_entry *entries;                     /* by data */
    const mmix_entry **by_name;
    size_t count;
    mmixi_json_document json;                /* the header's text, and of its values the metadata's */
    struct mmixi_member *member;             /* of a zip file, by name */
    size_t members;
    char *path;                              /* for messages; behind this struct, in the same own_bytes */
    char *names;                             /* not of safetensors: the entries' names, … */
    unsigned char *copies;                   /* … and those that did not lie row-major in the file */
    size_t entry_bytes, name_bytes, member_bytes, text_bytes, copy_bytes, own_bytes;
    size_t held;                             /* of these and what reading needs meanwhile */
};

/* What is made of a file takes, with its bytes, at most twice its size and a megabyte, whatever it says. */
static size_t mmixi_archive_left(const mmix_archive *a)
{
    const size_t size = mmixi_min(a->file.size, SIZE_MAX / 4),
        most = (a->file.mapped ? 2 * size : size) + ((size_t)1 << 20);
    return most - mmixi_min(a->held, most);
}
static int mmixi_archive_refuse(const mmix_archive *a)
{
    return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: expected names and shapes in proportion to %zu bytes, "
                     "found more", a->path, a->file.size);
}
static void *mmixi_archive_alloc(mmix_archive *a, size_t n, size_t element, size_t *bytes)
{
    void *p = NULL;
    if (!mmixi_mul_ok(n, element, bytes) || *bytes > mmixi_archive_left(a)) mmixi_archive_refuse(a);
    else p = mmixi_alloc(a->m, *bytes);
    if (p) a->held += *bytes;
    else *bytes = 0;
    return p;
}
/* mmixi_grow in the same bounds. */
static int mmixi_archive_grow(mmix_archive *a, void **array, size_t *capacity, size_t need, size_t element)
{
    const size_t before = *capacity;
    if (need <= before) return 0;
    if (need > mmixi_archive_left(a) / element / 2) return mmixi_archive_refuse(a);
    if (mmixi_grow(a->m, array, capacity, need, element)) return -1;
    a->held += (*capacity - before) * element;
    return 0;
}

MMIXDEF void mmix_archive_close(mmix_archive *a)
{
    if (!a) return;
    mmixi_json_close(a->m, &a->json);
    mmixi_free(a->m, a->copies, a->copy_bytes);
    mmixi_free(a->m, a->names, a->text_bytes);
    mmixi_free(a->m, a->member, a->member_bytes);
    mmixi_free(a->m, (void *)a->by_name, a->name_bytes);
    mmixi_free(a->m, a->entries, a->entry_bytes);
    mmixi_file_free(a->m, &a->file);
    mmixi_free(a->m, a, a->own_bytes);
}

/* The shape's elements times size, or 0 and a refusal in *ok. */
static size_t mmixi_shape_bytes(const size_t *shape, int ndim, size_t size, int *ok)
{
    for (int i = 0; i < ndim; i++) *ok = *ok && mmixi_mul_ok(size, shape[i], &size);
    return *ok ? size : 0;
}

/* The refusal of an entry; format begins with what was expected. `shown` is a local char[64]. */
#define MMIXI_REFUSE(m, a, name, format, ...) \
    mmix_fail(m, MMIX_ERROR_FILE, "%s: entry \"%s\": expected " format, \
              (a)->path, mmixi_shown(shown, name), __VA_ARGS__)

/* One member of the header, whose data lie in data[0 … size). */
static int mmixi_safetensors_entry(mmix_archive *a, mmix_entry *e, const mmixi_json *v,
                                   const unsigned char *data, size_t size)
{
    char shown[64], found[64];
    const mmixi_json *shape = mmixi_json_find(v, "shape"), *offsets = mmixi_json_find(v, "data_offsets"), *i;
    const char *dtype = mmixi_json_text(mmixi_json_find(v, "dtype")), *name = v->key;
    size_t at[2], k;
    int ok = 1;
    if (!dtype || !shape || !offsets)
        return MMIXI_REFUSE(a->m, a, name, "dtype, shape and data_offsets, found no %s",
                            !dtype ? "dtype" : !shape ? "shape" : "data_offsets");
    while (e->dtype <= MMIX_FILE_BOOL && strcmp(dtype, mmixi_file_dtypes[e->dtype].name)) e->dtype++;
    if (e->dtype > MMIX_FILE_BOOL)
        return MMIXI_REFUSE(a->m, a, name, "dtype F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL, found %s",
                            mmixi_shown(found, dtype));

    if (shape->kind != '[' || shape->length > MMIX_FILE_MAX_DIMS)
        return MMIXI_REFUSE(a->m, a, name, "a shape of at most %d sizes, found %s", MMIX_FILE_MAX_DIMS,
                            shape->kind == '[' ? "more" : "no list");
    for (i = mmixi_json_first(shape); i; i = i->next, e->ndim++)
        if (!mmixi_json_size(i, &e->shape[e->ndim]))
            return MMIXI_REFUSE(a->m, a, name, "sizes in the shape, found %s", mmixi_json_shown(found, i));
    e->bytes = mmixi_shape_bytes(e->shape, e->ndim, mmixi_file_dtypes[e->dtype].size, &ok);
    if (!ok)
        return MMIXI_REFUSE(a->m, a, name, "at most %zu bytes, found a shape of more", (size_t)SIZE_MAX);

    if (offsets->kind != '[' || offsets->length != 2)
        return MMIXI_REFUSE(a->m, a, name, "two data_offsets, found %s",
                            offsets->kind == '[' ? "more or less" : "no list");
    for (i = offsets + 1, k = 0; i; i = i->next, k++)
        if (!mmixi_json_size(i, &at[k]))
            return MMIXI_REFUSE(a->m, a, name, "data_offsets in bytes, found %s", mmixi_json_shown(found, i));
    if (at[0] > at[1] || at[1] > size)
        return MMIXI_REFUSE(a->m, a, name, "data_offsets in order inside %zu bytes of data, found [%zu, %zu]",
                            size, at[0], at[1]);
    if (at[1] - at[0] != e->bytes)
        return MMIXI_REFUSE(a->m, a, name, "%zu bytes for its shape in %s, found %zu", e->bytes, dtype,
                            at[1] - at[0]);
    e->name = name, e->data = data + at[0];
    return 0;
}

static int mmixi_compare_entry_data(const void *x, const void *y)
{
    const mmix_entry *a = (const mmix_entry *)x, *b = (const mmix_entry *)y;
    const unsigned char *p = (const unsigned char *)a->data, *q = (const unsigned char *)b->data;
    if (p != q) return p < q ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int mmixi_compare_entry_names(const void *a, const void *b)
{
    return strcmp((*(const mmix_entry *const *)a)->name, (*(const mmix_entry *const *)b)->name);
}
/* Fills a->by_name. */
static int mmixi_archive_sort(mmix_archive *a)
{
    char shown[64];
    for (size_t i = 0; i < a->count; i++) {
        a->by_name[i] = &a->entries[i];
        if (!mmixi_utf8_ok(a->entries[i].name))
            return MMIXI_REFUSE(a->m, a, a->entries[i].name, "a name of UTF-8, found %s", "another");
    }
    if (a->count) qsort((void *)a->by_name, a->count, sizeof *a->by_name, mmixi_compare_entry_names);
    for (size_t i = 1; i < a->count; i++)
        if (!strcmp(a->by_name[i - 1]->name, a->by_name[i]->name))
            return MMIXI_REFUSE(a->m, a, a->by_name[i]->name, "each name once, found it %d times", 2);
    return 0;
}

typedef struct mmixi_safetensors { mmix_archive *a; unsigned char *data; size_t size; } mmixi_safetensors;

/* A member of the header: an entry more, or the metadata, whose values stay. */
static int mmixi_safetensors_member(void *user, const mmixi_json *v, size_t values)
{
    const mmixi_safetensors *s = (const mmixi_safetensors *)user;
    mmix_archive *a = s->a;
    char shown[64];
    if (strcmp(v->key, "__metadata__"))
        return mmixi_safetensors_entry(a, &a->entries[a->count++], v, s->data, s->size);
    if (v->kind != '{')
        return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: expected __metadata__ {…}, found %s", a->path,
                         mmixi_json_shown(shown, v));
    for (const mmixi_json *i = mmixi_json_first(v); i; i = i->next)
        if (i->kind != '"')
            return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: expected strings in __metadata__, found %s", a->path,
                             mmixi_json_shown(shown, i));
    if (a->json.nodes)
        return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: expected every key once, found __metadata__ twice",
                         a->path);
    a->json.nodes = (mmixi_json *)mmixi_archive_alloc(a, values, sizeof *v, &a->json.node_bytes);
    if (!a->json.nodes) return -1;
    memcpy(a->json.nodes, v, a->json.node_bytes);
    for (size_t i = 0; i < values; i++)
        if (v[i].next) a->json.nodes[i].next = a->json.nodes + (v[i].next - v);
    return 0;
}
/* Fills a->json, a->entries and a->by_name from a->file. The header's members are taken one by one: the
   values of all at once would be many times its size. */
static int mmixi_safetensors_parse(mmix_archive *a)
{
    mmix_ctx *m = a->m;
    mmixi_safetensors s;
    mmixi_json_parser p;
    uint64_t n = 0;
    char shown[64];
    size_t at = 0, bytes;
    void *values;
    int ok;
    if (a->file.size < 8)
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected 8 bytes or more, found %zu", a->path,
                         a->file.size);
    for (int i = 8; i-- > 0; ) n = n << 8 | a->file.bytes[i];
    if (n > a->file.size - 8)
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected .safetensors, .npy, .npz or .pth, found %zu bytes "
                         "that as .safetensors would have a header of %llu", a->path, a->file.size,
                         (unsigned long long)n);
    if (mmixi_json_copy(m, &a->json, (const char *)a->file.bytes + 8, (size_t)n)) return -1;
    a->held += a->json.text_bytes;
    s.a = a;
    s.data = a->file.bytes + 8 + n;
    s.size = a->file.size - 8 - (size_t)n;
    memset(&p, 0, sizeof p);
    p.text = a->json.text;
    p.each = mmixi_safetensors_member;
    p.user = &s;
    if (!mmixi_json_pass(&p, (size_t)n)) return mmixi_json_refuse(m, &p, a->path, (size_t)n);
    p.at = 0;
    if (mmixi_json_peek(&p) != '{')
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a header {…}, found %c", a->path, p.text[p.at]);

    a->entries = (mmix_entry *)mmixi_archive_alloc(a, p.members, sizeof *a->entries, &a->entry_bytes);
    if (!a->entries) return -1;
    memset(a->entries, 0, a->entry_bytes);
    a->by_name = (const mmix_entry **)mmixi_archive_alloc(a, p.members, sizeof *a->by_name, &a->name_bytes);
    if (!a->by_name) return -1;
    values = mmixi_archive_alloc(a, p.most, mmixi_json_bytes(1), &bytes);
    if (!values) return -1;
    mmixi_json_take(&p, values);
    ok = mmixi_json_pass(&p, (size_t)n);
    mmixi_free(m, values, bytes);
    if (!ok) return m->error_kind ? -1 : mmixi_json_refuse(m, &p, a->path, (size_t)n);

    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, mmixi_compare_entry_data);
    for (size_t k = 0; k < a->count; k++) {
        mmix_entry *e = &a->entries[k];
        const size_t element = mmixi_file_dtypes[e->dtype].size;
        const size_t begin = (size_t)((const unsigned char *)e->data - s.data);
        if (begin != at)
            return MMIXI_REFUSE(m, a, e->name, "data from byte %zu on, where those before end, found %zu", at,
                                begin);
        mmixi_little_endian(s.data + at, e->bytes / element, element);
        at += e->bytes;
    }
    if (at != s.size)
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected %zu bytes of data, found %zu", a->path, at,
                         s.size);
    return mmixi_archive_sort(a);
}

/* ---- entries of the other formats: made one by one, in two passes: measured, then made ---- */

/* In the first pass a->entries is NULL and only counts grow. */
typedef struct mmixi_maker { mmix_archive *a; size_t count, text, copied; } mmixi_maker;

/* Elements laid out by `stride` (in elements) from `data` on become an entry named `name` (length bytes): in
   place if they are row-major, else copied to a->copies. */
static void mmixi_make_entry(mmixi_maker *k, const char *name, size_t length, int dtype, int ndim,
                             const size_t *shape, const size_t *stride, unsigned char *data)
{
    const size_t size = mmixi_file_dtypes[dtype].size;
    size_t n = 1, index[MMIX_FILE_MAX_DIMS] = { 0 }, at = 0;
    int plain = 1;
    for (int i = ndim; i-- > 0; n *= shape[i]) plain = plain && (shape[i] == 1 || stride[i] == n);
    plain = plain || !n;
    if (k->a->entries) {
        mmix_entry *e = &k->a->entries[k->count];
        char *text = k->a->names + k->text;
        memcpy(text, name, length);
        text[length] = 0;
        e->name = text;
        e->dtype = dtype;
        e->ndim = ndim;
        memcpy(e->shape, shape, (size_t)ndim * sizeof *shape);
        e->bytes = n * size;
        e->data = plain ? data : k->a->copies + k->copied;
        for (size_t i = 0; !plain && i < n; i++) {
            memcpy(k->a->copies + k->copied + i * size, data + at * size, size);
            for (int d = ndim; d-- > 0;) {
                at += stride[d];
                if (++index[d] < shape[d]) break;
                at -= stride[d] * index[d];
                index[d] = 0;
            }
        }
    }
    k->count++;
    k->text += length + 1;
    if (!plain) k->copied += mmixi_min(n * size, SIZE_MAX / 2 - k->copied);     /* which nobody has */
}
/* Between the passes: memory for what was counted. */
static int mmixi_maker_turn(mmixi_maker *k)
{
    mmix_archive *a = k->a;
    a->count = k->count;
    a->entries = (mmix_entry *)mmixi_archive_alloc(a, k->count, sizeof *a->entries, &a->entry_bytes);
    if (!a->entries) return -1;
    memset(a->entries, 0, a->entry_bytes);
    a->by_name = (const mmix_entry **)mmixi_archive_alloc(a, k->count, sizeof *a->by_name, &a->name_bytes);
    a->names = (char *)mmixi_archive_alloc(a, k->text, 1, &a->text_bytes);
    a->copies = (unsigned char *)mmixi_archive_alloc(a, k->copied, 1, &a->copy_bytes);
    if (!a->by_name || !a->names || !a->copies) return -1;
    k->count = k->text = k->copied = 0;
    return 0;
}
/* ---- .npy: "\x93NUMPY", version, length of the header, a Python dict of descr, fortran_order and shape ----
   */

static const char *mmixi_npy_value(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (at) at += strlen(key);
    while (at && (*at == ':' || *at == ' ')) at++;
    return at;
}
/* One array in bytes[0 … size), as the entry `name`. The header is overwritten by its own text. */
static int mmixi_npy(mmixi_maker *k, const char *name, size_t length, unsigned char *bytes, size_t size)
{
    mmix_archive *a = k->a;
    char shown[64], found[64], text[64], header[2048];
    const char *descr, *order, *p, *from;
    size_t shape[MMIX_FILE_MAX_DIMS], stride[MMIX_FILE_MAX_DIMS], begin, head = 0, need = 1, step = 1;
    int ndim = 0, dtype, ok = 1, fortran;
    memcpy(text, name, mmixi_min(length, 60));
    text[mmixi_min(length, 60)] = 0;
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6))
        return MMIXI_REFUSE(a->m, a, text, "the bytes of a .npy file, found %zu others", size);
    if (bytes[6] < 1 || bytes[6] > 3)
        return MMIXI_REFUSE(a->m, a, text, "version 1, 2 or 3, found %d", bytes[6]);
    begin = bytes[6] == 1 ? 10 : 12;
    for (size_t i = begin; i-- > 8;) head = head << 8 | bytes[i];
    if (head > size - begin || head >= sizeof header)
        return MMIXI_REFUSE(a->m, a, text, "a header inside %zu bytes, found a length of %zu", size, head);
    memcpy(header, bytes + begin, head);
    header[head] = 0;
    descr = mmixi_npy_value(header, "'descr'");
    order = mmixi_npy_value(header, "'fortran_order'");
    p = from = mmixi_npy_value(header, "'shape'");
    if (!descr || !order || !p || *descr != '\'' || *p != '(' || strlen(descr) < 5)
        return MMIXI_REFUSE(a->m, a, text, "descr, fortran_order and shape, found %s",
                            mmixi_shown_part(found, header, head));
    for (dtype = 0; dtype <= MMIX_FILE_BOOL; dtype++)
        if (!memcmp(descr + 2, mmixi_file_dtypes[dtype].npy, 2) && descr[4] == '\'') break;
    if (dtype > MMIX_FILE_BOOL || !strchr("<>|=", descr[1]))
        return MMIXI_REFUSE(a->m, a, text, "numbers f8, f4, f2, i8 … i1, u1 or b1, found %s",
                            mmixi_shown_part(found, descr, 5));
    fortran = !strncmp(order, "True", 4);
    for (p++; *p && *p != ')';) {
        size_t n = 0, digits = 0;
        for (; *p >= '0' && *p <= '9'; p++, digits++) ok = ok && mmixi_mul_ok(n, 10, &n)
            && (n += (size_t)(*p - '0'), 1);
        if (!digits || digits > 19 || ndim == MMIX_FILE_MAX_DIMS) { ok = 0; break; }
        shape[ndim++] = n;
        while (*p == ',' || *p == ' ') p++;
    }
    for (int i = 0; i < ndim; i++) ok = ok && mmixi_mul_ok(need, shape[i], &need);
    ok = ok && *p == ')' && mmixi_mul_ok(need, mmixi_file_dtypes[dtype].size, &need);
    if (!ok || need != size - begin - head)
        return MMIXI_REFUSE(a->m, a, text, "a shape of %zu bytes of data, found %s", size - begin - head,
                            mmixi_shown_part(found, from, strcspn(from, ")\n")));
    for (int i = 0; i < ndim; i++) {
        const int d = fortran ? i : ndim - 1 - i;
        stride[d] = step;
        step *= shape[d];
    }
    if (a->entries) {                            /* the second pass, once */
        const size_t element = mmixi_file_dtypes[dtype].size;
        if ((descr[1] == '>') != mmixi_big_endian_here())
            mmixi_swap_bytes(bytes + begin + head, need / element, element);
    }
    mmixi_make_entry(k, name, length, dtype, ndim, shape, stride, bytes + begin + head);
    return 0;
}

/* ---- zip, as np.savez and torch.save write it: members are stored, not compressed ---- */

typedef struct mmixi_member { const char *name; size_t length, size; unsigned char *data; } mmixi_member;

static uint64_t mmixi_number(const unsigned char *p, int bytes)
{
    uint64_t n = 0;
    while (bytes-- > 0) n = n << 8 | p[bytes];
    return n;
}
static uint32_t mmixi_crc32(const unsigned char *p, size_t n)
{
    uint32_t table[256], crc = 0xffffffffu;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    while (n--) crc = crc >> 8 ^ table[(crc ^ *p++) & 255];
    return ~crc;
}
static int mmixi_zip_refuse(const mmix_archive *a, const char *what, size_t at)
{
    return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: expected %s at byte %zu of %zu", a->path, what, at,
                     a->file.size);
}
/* Finds the central directory: where it begins, how many members it lists. */
static int mmixi_zip_directory(const mmix_archive *a, uint64_t *at, uint64_t *count)
{
    const unsigned char *b = a->file.bytes;
    size_t end = a->file.size >= 22 ? a->file.size - 22 : 0, last = end > 65535 ? end - 65535 : 0;
    while (end > last && mmixi_number(b + end, 4) != 0x06054b50) end--;
    if (a->file.size < 22 || mmixi_number(b + end, 4) != 0x06054b50)
        return mmixi_zip_refuse(a, "the end of a zip file", end);
    *count = mmixi_number(b + end + 10, 2);
    *at = mmixi_number(b + end + 16, 4);
    if (end >= 20 && mmixi_number(b + end - 20, 4) == 0x07064b50) {              /* the 64-bit form */
        const uint64_t big = mmixi_number(b + end - 12, 8);
        if (big > a->file.size - 56 || a->file.size < 56 || mmixi_number(b + big, 4) != 0x06064b50)
            return mmixi_zip_refuse(a, "the end of a 64-bit zip file", end - 20);
        *count = mmixi_number(b + big + 32, 8);
        *at = mmixi_number(b + big + 48, 8);
    }
    return *at <= a->file.size && *count <= a->file.size / 46 ? 0
        : mmixi_zip_refuse(a, "a directory inside the file", end);
}
/* The next member of the directory; *at goes on. A wrong checksum is refused. */
static int mmixi_zip_member(const mmix_archive *a, uint64_t *at, mmixi_member *out)
{
    const unsigned char *b = a->file.bytes, *d = b + *at, *x, *end;
    uint64_t packed, size, local, name, extra, begin;
    char shown[64];
    if (*at > a->file.size || a->file.size - *at < 46 || mmixi_number(d, 4) != 0x02014b50)
        return mmixi_zip_refuse(a, "a member of the directory", (size_t)*at);
    packed = mmixi_number(d + 20, 4); size = mmixi_number(d + 24, 4); local = mmixi_number(d + 42, 4);
    name = mmixi_number(d + 28, 2); extra = mmixi_number(d + 30, 2);
    if (a->file.size - *at - 46 < name + extra) return mmixi_zip_refuse(a, "a member's name", (size_t)*at);
    end = d + 46 + name + extra;
    for (x = d + 46 + name; end - x >= 4 && (uint64_t)(end - x) >= 4 + mmixi_number(x + 2, 2); x += 4
         + mmixi_number(x + 2, 2)) {
        const unsigned char *v = x + 4, *stop = v + mmixi_number(x + 2, 2);
        uint64_t *big[3];
        if (mmixi_number(x, 2) != 1) continue;
        big[0] = &size; big[1] = &packed; big[2] = &local;
        for (int i = 0; i < 3; i++)
            if (*big[i] == 0xffffffffu && stop - v >= 8) { *big[i] = mmixi_number(v, 8); v += 8; }
    }
    out->name = (const char *)d + 46;
    out->length = (size_t)name;
    if (mmixi_number(d + 10, 2) || packed != size)
        return mmix_fail(a->m, MMIX_ERROR_FILE,
                         "%s: expected stored members, found \"%s\" compressed (method %d)", a->path,
            mmixi_shown_part(shown, out->name, out->length), (int)mmixi_number(d + 10, 2));
    if (local > a->file.size || a->file.size - local < 30 || mmixi_number(b + local, 4) != 0x04034b50)
        return mmixi_zip_refuse(a, "a member", (size_t)local);
    begin = local + 30 + mmixi_number(b + local + 26, 2) + mmixi_number(b + local + 28, 2);
    if (begin > a->file.size || size > a->file.size - begin)
        return mmixi_zip_refuse(a, "a member's data", (size_t)begin);
    out->data = a->file.bytes + begin;
    out->size = (size_t)size;
    *at += 46 + name + extra + mmixi_number(d + 32, 2);
    if (mmixi_crc32(out->data, out->size) != mmixi_number(d + 16, 4))
        return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: member \"%s\" is damaged: its checksum is wrong",
                         a->path, mmixi_shown_part(shown, out->name, out->length));
    return 0;
}
static int mmixi_compare_members(const void *x, const void *y)
{
    const mmixi_member *a = (const mmixi_member *)x, *b = (const mmixi_member *)y;
    const int order = memcmp(a->name, b->name, mmixi_min(a->length, b->length));
    return order ? order : (a->length > b->length) - (a->length < b->length);
}
static int mmixi_compare_member_data(const void *x, const void *y)
{
    const mmixi_member *a = (const mmixi_member *)x, *b = (const mmixi_member *)y;
    return (a->data > b->data) - (a->data < b->data);
}
/* All members, by name. None lies in another: turning one's byte order would change the other, and a megabyte
   named a thousand times would be summed up for long. */
static int mmixi_zip_open(mmix_archive *a)
{
    uint64_t at = 0, count = 0, sum = 0, directory;
    char shown[64];
    if (mmixi_zip_directory(a, &at, &count)) return -1;
    directory = at;
    a->member = (mmixi_member *)mmixi_archive_alloc(a, (size_t)count, sizeof *a->member, &a->member_bytes);
    if (!a->member) return -1;
    for (; a->members < count && sum <= a->file.size; sum += a->member[a->members++].size)
        if (mmixi_zip_member(a, &at, &a->member[a->members])) return -1;
    qsort(a->member, a->members, sizeof *a->member, mmixi_compare_member_data);
    for (size_t i = 0; i < a->members; i++) {
        const size_t begin = (size_t)(a->member[i].data - a->file.bytes),
            end = i + 1 < a->members ? (size_t)(a->member[i + 1].data - a->file.bytes) : (size_t)directory;
        if (begin > end || a->member[i].size > end - begin)
            return mmixi_zip_refuse(a, "members that do not overlap", begin);
    }
    qsort(a->member, a->members, sizeof *a->member, mmixi_compare_members);
    for (size_t i = 1; i < a->members; i++)
        if (!mmixi_compare_members(&a->member[i - 1], &a->member[i]))
            return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: expected each member once, found \"%s\" twice",
                             a->path, mmixi_shown_part(shown, a->member[i].name, a->member[i].length));
    return 0;
}
/* The member FOLDER NAME, or NULL. */
static const mmixi_member *mmixi_zip_find(const mmix_archive *a, const mmixi_member *folder, const char *name)
{
    char whole[512];
    mmixi_member wanted;
    const size_t length = strlen(name);
    if (folder->length + length > sizeof whole) return NULL;
    memset(&wanted, 0, sizeof wanted);
    memcpy(whole, folder->name, folder->length);
    memcpy(whole + folder->length, name, length);
    wanted.name = whole;
    wanted.length = folder->length + length;
    return (const mmixi_member *)bsearch(&wanted, a->member, a->members, sizeof wanted,
                                         mmixi_compare_members);
}
static int mmixi_npz(mmixi_maker *k)
{
    for (size_t i = 0; i < k->a->members; i++) {
        const mmixi_member *f = &k->a->member[i];
        char shown[64];
        if (f->length < 4 || memcmp(f->name + f->length - 4, ".npy", 4) || memchr(f->name, 0, f->length))
            return mmix_fail(k->a->m, MMIX_ERROR_FILE, "%s: expected members NAME.npy, or data.pkl of "
                             "torch.save, found \"%s\"", k->a->path,
                             mmixi_shown_part(shown, f->name, f->length));
        if (mmixi_npy(k, f->name, f->length - 4, f->data, f->size)) return -1;
    }
    return 0;
}

/* ---- .pth: the pickle of a dictionary of tensors, read and never run ----

   A pickle is a program for a stack machine. This one knows the instructions that torch.save writes; its
   values are only looked at: calls make a tensor of _rebuild_tensor_v2, a dictionary of OrderedDict, and an
   opaque thing of the few other names that training scripts leave beside their weights. Any other name is
   refused. */

enum { MMIXI_PY_NONE, MMIXI_PY_MARK, MMIXI_PY_INT, MMIXI_PY_TEXT, MMIXI_PY_LIST, MMIXI_PY_DICT, MMIXI_PY_NAME,
      MMIXI_PY_STORAGE, MMIXI_PY_TENSOR, MMIXI_PY_OPAQUE };
/* Values are numbers of nodes. A list or dictionary (key, value, key, …) is a chain of cells. A tensor is the
   list of its arguments, a storage that of its id. */
typedef struct mmixi_py {
    int kind;
    uint32_t length, first, last;
    int64_t number;
    const char *text;
} mmixi_py;
typedef struct mmixi_py_cell { uint32_t node, next; } mmixi_py_cell;
typedef struct mmixi_pickle {
    mmix_archive *a;
    const mmixi_member *folder;                  /* "archive/", say: what stands before data.pkl */
    const unsigned char *p, *end;
    mmixi_py *node;
    mmixi_py_cell *cell;                         /* cell 0 is none */
    uint32_t *stack, *memo;
    size_t nodes, cells, depth, remembered, node_capacity, cell_capacity, stack_capacity, memo_capacity;
    size_t visits;                               /* a dictionary may stand in many others, or in itself */
} mmixi_pickle;

static int mmixi_pickle_refuse(mmixi_pickle *k, const char *what)
{
    return mmix_fail(k->a->m, MMIX_ERROR_FILE, "%s: the pickle %s", k->a->path, what);
}
static size_t mmixi_py_push(mmixi_pickle *k, int kind)
{
    memset(&k->node[k->nodes], 0, sizeof *k->node);
    k->node[k->nodes].kind = kind;
    k->stack[k->depth++] = (uint32_t)k->nodes;
    return k->nodes++;
}
/* Room for what one instruction makes: a value, on the stack, and the stack's values in one list. */
static int mmixi_pickle_room(mmixi_pickle *k)
{
    mmix_archive *a = k->a;
    void *node = k->node, *cell = k->cell, *stack = k->stack;
    const int failed = mmixi_archive_grow(a, &node, &k->node_capacity, k->nodes + 1, sizeof *k->node)
        || mmixi_archive_grow(a, &cell, &k->cell_capacity, k->cells + k->depth + 1, sizeof *k->cell)
        || mmixi_archive_grow(a, &stack, &k->stack_capacity, k->depth + 1, sizeof *k->stack);
    k->node = (mmixi_py *)node;
    k->cell = (mmixi_py_cell *)cell;
    k->stack = (uint32_t *)stack;
    return failed;
}
static void mmixi_py_append(mmixi_pickle *k, size_t list, size_t node)
{
    mmixi_py *l = &k->node[list];
    const uint32_t cell = (uint32_t)k->cells++;
    k->cell[cell].node = (uint32_t)node;
    k->cell[cell].next = 0;
    if (l->first) k->cell[l->last].next = cell;
    else l->first = cell;
    l->last = cell;
    l->length++;
}
/* Item i of a list, node 0 (which is None) if it is shorter. */
static const mmixi_py *mmixi_py_item(const mmixi_pickle *k, const mmixi_py *list, size_t i)
{
    size_t c = list->first;
    while (c && i--) c = k->cell[c].next;
    return &k->node[c ? k->cell[c].node : 0];
}
/* The stack's place of the last mark, or its depth if there is none. */
static size_t mmixi_py_mark(const mmixi_pickle *k)
{
    for (size_t i = k->depth; i-- > 0;)
        if (k->node[k->stack[i]].kind == MMIXI_PY_MARK) return i;
    return k->depth;
}
static int mmixi_py_text_is(const mmixi_py *v, const char *text)
{
    return v->text && v->length == strlen(text) && !memcmp(v->text, text, v->length);
}
/* "module.name" of the GLOBAL instruction: its kind when called, or a refusal. */
static int mmixi_py_global(mmixi_pickle *k, const char *module, size_t m, const char *name, size_t n)
{
    static const char known[][40] = { "collections.OrderedDict", "torch._utils._rebuild_tensor_v2",
                                     "torch._utils._rebuild_parameter", "argparse.Namespace", "torch.Size",
        "torch.device", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype",
        "_codecs.encode", "torch.float32", "torch.float64", "torch.float16", "torch.bfloat16",
        "collections.defaultdict", "torch.DoubleStorage", "torch.FloatStorage", "torch.HalfStorage",
        "torch.BFloat16Storage", "torch.LongStorage", "torch.IntStorage", "torch.ShortStorage",
        "torch.CharStorage", "torch.ByteStorage", "torch.BoolStorage" };
    char whole[128], shown[64];
    size_t node;
    snprintf(whole, sizeof whole, "%.*s.%.*s", (int)mmixi_min(m, 80), module, (int)mmixi_min(n, 40), name);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(whole, known[i])) {
            node = mmixi_py_push(k, MMIXI_PY_NAME);
            k->node[node].number = (int64_t)i;
            return 0;
        }
    return mmix_fail(k->a->m, MMIX_ERROR_FILE,
                     "%s: the pickle asks for %s, which a file of weights does not need: "
        "refused, nothing was run", k->a->path, mmixi_shown(shown, whole));
}
enum { MMIXI_PY_ORDERED, MMIXI_PY_REBUILD, MMIXI_PY_PARAMETER, MMIXI_PY_FIRST_STORAGE = 15 };

/* One instruction; 1: go on, 0: the end, -1. */
static int mmixi_pickle_step(mmixi_pickle *k)
{
    const unsigned char op = *k->p++, *p = k->p;
    const size_t left = (size_t)(k->end - k->p);
    size_t mark, node, n, base;
    switch (op) {
#define MMIXI_NEED(bytes) \
    if (left < (size_t)(bytes)) return mmixi_pickle_refuse(k, "ends too early"); \
    k->p += (bytes)
#define MMIXI_HAVE(values) \
    if (k->depth < (size_t)(values)) return mmixi_pickle_refuse(k, "takes from an empty stack")
#define MMIXI_MARKED if ((mark = mmixi_py_mark(k)) == k->depth) return mmixi_pickle_refuse(k, "misses a mark")
    case 0x80: MMIXI_NEED(1); return *p >= 2 && *p <= 5 ? 1 : mmixi_pickle_refuse(k,
            "is not of protocol 2 to 5");
    case 0x95: MMIXI_NEED(8); return 1;                          /* a frame's length */
    case '.': return 0;
    case '(': mmixi_py_push(k, MMIXI_PY_MARK); return 1;
    case 'N': mmixi_py_push(k, MMIXI_PY_NONE); return 1;
    case 0x88: case 0x89: k->node[mmixi_py_push(k, MMIXI_PY_INT)].number = op == 0x88; return 1;
    case 'K': MMIXI_NEED(1); k->node[mmixi_py_push(k, MMIXI_PY_INT)].number = *p; return 1;
    case 'M': MMIXI_NEED(2); k->node[mmixi_py_push(k, MMIXI_PY_INT)].number = (int64_t)mmixi_number(p, 2);
        return 1;
    case 'J': MMIXI_NEED(4); k->node[mmixi_py_push(k, MMIXI_PY_INT)].number
        = (int32_t)(uint32_t)mmixi_number(p, 4); return 1;
    case 0x8a:
        MMIXI_NEED(1);
        n = *p;
        if (left - 1 < n) return mmixi_pickle_refuse(k, "ends too early");
        k->p += n;
        node = mmixi_py_push(k, n > 8 ? MMIXI_PY_OPAQUE : MMIXI_PY_INT);
        if (n && n <= 8) {
            uint64_t v = mmixi_number(p + 1, (int)n);
            if (p[n] & 0x80 && n < 8) v |= ~(uint64_t)0 << (8 * n);
            memcpy(&k->node[node].number, &v, 8);
        }
        return 1;
    case 'G': MMIXI_NEED(8); mmixi_py_push(k, MMIXI_PY_OPAQUE); return 1;
    case 'X': case 'T': case 'B': case 0x8c: case 'U': case 'C': {
        const size_t wide = op == 'X' || op == 'T' || op == 'B' ? 4 : 1;
        MMIXI_NEED(wide);
        n = (size_t)mmixi_number(p, (int)wide);
        if (left - wide < n) return mmixi_pickle_refuse(k, "ends too early");
        k->p += n;
        node = mmixi_py_push(k, op == 'X' || op == 0x8c ? MMIXI_PY_TEXT : MMIXI_PY_OPAQUE);
        k->node[node].text = (const char *)p + wide;
        k->node[node].length = (uint32_t)n;
        return 1; }
    case '}': mmixi_py_push(k, MMIXI_PY_DICT); return 1;
    case ']': case ')': mmixi_py_push(k, MMIXI_PY_LIST); return 1;
    case 'q': case 'r': case 0x94:
        n = k->remembered++;
        MMIXI_HAVE(1);
        if (op == 'q') { MMIXI_NEED(1); n = *p; }
        if (op == 'r') { MMIXI_NEED(4); n = (size_t)mmixi_number(p, 4); }
        if (n >= k->memo_capacity) {
            void *memo = k->memo;
            const size_t before = k->memo_capacity;
            const int failed = mmixi_archive_grow(k->a, &memo, &k->memo_capacity, n + 1, sizeof *k->memo);
            k->memo = (uint32_t *)memo;
            if (failed) return -1;
            memset(k->memo + before, 0, (k->memo_capacity - before) * sizeof *k->memo);
        }
        k->memo[n] = k->stack[k->depth - 1] + 1;
        return 1;
    case 'h': case 'j':
        MMIXI_NEED(op == 'h' ? 1 : 4);
        n = (size_t)mmixi_number(p, op == 'h' ? 1 : 4);
        if (n >= k->memo_capacity || !k->memo[n])
            return mmixi_pickle_refuse(k, "recalls what it never remembered");
        k->stack[k->depth++] = k->memo[n] - 1;
        return 1;
    case 'c': {
        const unsigned char *line = (const unsigned char *)memchr(p, '\n', left), *next;
        next = line ? (const unsigned char *)memchr(line + 1, '\n', (size_t)(k->end - line - 1)) : NULL;
        if (!next) return mmixi_pickle_refuse(k, "ends too early");
        k->p = next + 1;
        return mmixi_py_global(k, (const char *)p, (size_t)(line - p), (const char *)line + 1,
                               (size_t)(next - line - 1)) ? -1 : 1; }
    case 0x93: {
        const mmixi_py *name, *module;
        MMIXI_HAVE(2);
        name = &k->node[k->stack[--k->depth]];
        module = &k->node[k->stack[--k->depth]];
        if (name->kind != MMIXI_PY_TEXT || module->kind != MMIXI_PY_TEXT)
            return mmixi_pickle_refuse(k, "names something without a name");
        return mmixi_py_global(k, module->text, module->length, name->text, name->length) ? -1 : 1; }
    case 0x85: case 0x86: case 0x87:
        n = (size_t)(op - 0x84);
        MMIXI_HAVE(n);
        base = k->depth - n;
        mmixi_py_push(k, MMIXI_PY_LIST);
        node = k->stack[k->depth - 1];
        for (size_t i = 0; i < n; i++) mmixi_py_append(k, node, k->stack[base + i]);
        k->depth = base;
        k->stack[k->depth++] = (uint32_t)node;
        return 1;
    case 't': case 'l': case 'd':
        MMIXI_MARKED;
        node = mmixi_py_push(k, op == 'd' ? MMIXI_PY_DICT : MMIXI_PY_LIST);
        for (size_t i = mark + 1; i + 1 < k->depth; i++) mmixi_py_append(k, node, k->stack[i]);
        k->depth = mark;
        k->stack[k->depth++] = (uint32_t)node;
        return 1;
    case 's': case 'a':
        n = op == 's' ? 3 : 2;
        MMIXI_HAVE(n);
        base = k->depth - n;
        for (size_t i = 1; i < n; i++) mmixi_py_append(k, k->stack[base], k->stack[base + i]);
        k->depth = base + 1;
        return 1;
    case 'u': case 'e':
        MMIXI_MARKED;
        if (!mark) return mmixi_pickle_refuse(k, "takes from an empty stack");
        for (size_t i = mark + 1; i < k->depth; i++) mmixi_py_append(k, k->stack[mark - 1], k->stack[i]);
        k->depth = mark;
        return 1;
    case 'Q':
        MMIXI_HAVE(1);
        node = k->stack[k->depth - 1];
        if ((k->node[node].kind != MMIXI_PY_LIST && k->node[node].kind != MMIXI_PY_STORAGE)
            || !mmixi_py_text_is(mmixi_py_item(k, &k->node[node], 0),
                                 "storage")) return mmixi_pickle_refuse(k,
                "refers to something other than a storage");
        k->node[node].kind = MMIXI_PY_STORAGE;
        return 1;
    case 'R': case 0x81: {
        const mmixi_py *what;
        MMIXI_HAVE(2);
        node = k->stack[--k->depth];
        what = &k->node[k->stack[--k->depth]];
        if (what->kind != MMIXI_PY_NAME || k->node[node].kind != MMIXI_PY_LIST)
            return mmixi_pickle_refuse(k, "calls something that can't be called");
        if (what->number == MMIXI_PY_REBUILD)
            k->node[node].kind = MMIXI_PY_TENSOR, k->stack[k->depth++] = (uint32_t)node;
        else if (what->number == MMIXI_PY_PARAMETER)
            k->stack[k->depth++] = (uint32_t)(mmixi_py_item(k, &k->node[node], 0) - k->node);
        else mmixi_py_push(k, what->number == MMIXI_PY_ORDERED ? MMIXI_PY_DICT : MMIXI_PY_OPAQUE);
        return 1; }
    case 'b': MMIXI_HAVE(2); k->depth--; return 1;               /* an object's attributes: not looked at */
    case '0': MMIXI_HAVE(1); k->depth--; return 1;
    default: return mmix_fail(k->a->m, MMIX_ERROR_FILE,
                              "%s: the pickle has the instruction 0x%02x, which a file of "
        "weights does not need", k->a->path, op);
#undef MMIXI_NEED
#undef MMIXI_HAVE
#undef MMIXI_MARKED
    }
}

/* _rebuild_tensor_v2(storage, offset, size, stride, …), storage = ("storage", type, key, device, count). */
static int mmixi_pth_tensor(mmixi_maker *m, const mmixi_pickle *k, const char *name, size_t length,
                            const mmixi_py *tensor)
{
    static const int dtypes[10] = { MMIX_FILE_F64, MMIX_FILE_F32, MMIX_FILE_F16, MMIX_FILE_BF16,
                                   MMIX_FILE_I64, MMIX_FILE_I32, MMIX_FILE_I16, MMIX_FILE_I8, MMIX_FILE_U8,
        MMIX_FILE_BOOL };
    mmix_archive *a = m->a;
    const mmixi_py *storage = mmixi_py_item(k, tensor, 0), *offset = mmixi_py_item(k, tensor, 1),
        *size = mmixi_py_item(k, tensor, 2), *step = mmixi_py_item(k, tensor, 3),
        *type = mmixi_py_item(k, storage, 1), *key = mmixi_py_item(k, storage, 2),
        *total = mmixi_py_item(k, storage, 4);
    size_t shape[MMIX_FILE_MAX_DIMS], stride[MMIX_FILE_MAX_DIMS], last, count, element;
    char shown[64], found[64], text[64], path[64];
    int dtype, empty = 0, ok = 1;
    const mmixi_member *f;
    memcpy(text, name, mmixi_min(length, 60));
    text[mmixi_min(length, 60)] = 0;
    if (storage->kind != MMIXI_PY_STORAGE || type->kind != MMIXI_PY_NAME
        || type->number < MMIXI_PY_FIRST_STORAGE || key->kind != MMIXI_PY_TEXT || total->kind != MMIXI_PY_INT
        || offset->kind != MMIXI_PY_INT || size->kind != MMIXI_PY_LIST || step->kind != MMIXI_PY_LIST
        || size->length != step->length || size->length > MMIX_FILE_MAX_DIMS || offset->number < 0
        || total->number < 0 || key->length > 40) return MMIXI_REFUSE(a->m, a, text,
            "a tensor of a storage, found %s", "something else");
    dtype = dtypes[type->number - MMIXI_PY_FIRST_STORAGE];
    element = mmixi_file_dtypes[dtype].size;
    count = (size_t)total->number;
    snprintf(path, sizeof path, "data/%.*s", (int)key->length, key->text);
    f = mmixi_zip_find(a, k->folder, path);
    if (!f)
        return MMIXI_REFUSE(a->m, a, text, "a member …%s, found none",
                            mmixi_shown_part(found, path, strlen(path)));
    if (f->size / element != count || f->size % element)
        return MMIXI_REFUSE(a->m, a, text, "a storage of %zu numbers, found %zu bytes", count, f->size);
    last = (size_t)offset->number;
    for (size_t i = 0; i < size->length; i++) {
        const mmixi_py *n = mmixi_py_item(k, size, i), *s = mmixi_py_item(k, step, i);
        size_t reach;
        if (n->kind != MMIXI_PY_INT || s->kind != MMIXI_PY_INT || n->number < 0 || s->number < 0)
            return MMIXI_REFUSE(a->m, a, text, "sizes and strides from 0 on, found %lld and %lld",
                                (long long)n->number, (long long)s->number);
        shape[i] = (size_t)n->number;
        stride[i] = (size_t)s->number;
        empty |= !shape[i];
        if (!mmixi_mul_ok(shape[i] ? shape[i] - 1 : 0, stride[i], &reach) || reach > count
            || (last += reach) > count) last = count;
    }
    mmixi_shape_bytes(shape, (int)size->length, element, &ok);   /* with strides of 0 any shape fits so far */
    if ((!empty && last >= count) || !ok)
        return MMIXI_REFUSE(a->m, a, text, "elements inside a storage of %zu, found one beyond", count);
    mmixi_make_entry(m, name, length, dtype, (int)size->length, shape, stride,
                     f->data + (empty ? 0 : (size_t)offset->number * element));
    return 0;
}
/* All tensors below a dictionary, named by their keys joined with dots. */
static int mmixi_pth_walk(mmixi_maker *m, mmixi_pickle *k, size_t dict, char *name, size_t length, int depth)
{
    const mmixi_py *d = &k->node[dict];
    for (size_t c = d->first; c && k->cell[c].next; c = k->cell[k->cell[c].next].next) {
        const mmixi_py *key = &k->node[k->cell[c].node];
        const size_t value = k->cell[k->cell[c].next].node;
        size_t at = length;
        if (k->node[value].kind != MMIXI_PY_TENSOR && k->node[value].kind != MMIXI_PY_DICT) continue;
        if (key->kind != MMIXI_PY_TEXT) continue;                /* the optimiser's numbered states */
        if (k->visits++ > 2 * k->cells || depth == 8 || at + key->length + 2 > 1024
            || memchr(key->text, 0, key->length)) return mmixi_pickle_refuse(k,
                "nests names deeper, longer or more often than a file of weights does");
        if (at) name[at++] = '.';
        memcpy(name + at, key->text, key->length);
        at += key->length;
        if (k->node[value].kind == MMIXI_PY_DICT ? mmixi_pth_walk(m, k, value, name, at, depth + 1)
            : mmixi_pth_tensor(m, k, name, at, &k->node[value])) return -1;
    }
    return 0;
}
static int mmixi_pth(mmixi_maker *m, const mmixi_member *pickle)
{
    mmix_archive *a = m->a;
    mmixi_pickle k;
    mmixi_member folder = *pickle;
    const mmixi_member *order;
    char name[1024];
    int more = 1;
    memset(&k, 0, sizeof k);
    folder.length -= strlen("data.pkl");
    k.a = a;
    k.folder = &folder;
    k.p = pickle->data;
    k.end = pickle->data + pickle->size;
    k.cells = 1;
    if (pickle->size > UINT32_MAX) more = mmixi_pickle_refuse(&k, "has more than 4 GiB");
    else if (mmixi_pickle_room(&k)) more = -1;
    else mmixi_py_push(&k, MMIXI_PY_NONE);       /* node 0 */
    k.depth = 0;
    while (more == 1)
        more = k.p == k.end ? mmixi_pickle_refuse(&k, "never stops")
            : mmixi_pickle_room(&k) ? -1 : mmixi_pickle_step(&k);
    if (!more && (k.depth != 1 || k.node[k.stack[0]].kind != MMIXI_PY_DICT))
        more = mmixi_pickle_refuse(&k, "holds no dictionary of tensors");
    order = mmixi_zip_find(a, &folder, "byteorder");
    if (!more && (mmixi_big_endian_here()
                  || (order && (order->size < 6 || memcmp(order->data, "little", 6)))))
        more = mmixi_pickle_refuse(&k, "is of, or on, a big-endian machine");
    for (int pass = 0; !more && pass < 2; pass++) {
        k.visits = 0;
        more = mmixi_pth_walk(m, &k, k.stack[0], name, 0, 0);
        if (!more && !pass) more = mmixi_maker_turn(m);
    }
    mmixi_free(a->m, k.memo, k.memo_capacity * sizeof *k.memo);
    mmixi_free(a->m, k.stack, k.stack_capacity * sizeof *k.stack);
    mmixi_free(a->m, k.cell, k.cell_capacity * sizeof *k.cell);
    mmixi_free(a->m, k.node, k.node_capacity * sizeof *k.node);
    return more;
}

/* Fills a->entries and a->by_name from a->file.bytes, whatever format they are in. */
static int mmixi_archive_parse(mmix_archive *a)
{
    static const char pickle[] = "data.pkl";
    mmixi_maker k;
    memset(&k, 0, sizeof k);
    k.a = a;
    if (a->file.size >= 6 && !memcmp(a->file.bytes, "\x93NUMPY", 6)) {
        for (int pass = 0; pass < 2; pass++)
            if (mmixi_npy(&k, "array", 5, a->file.bytes, a->file.size) || (!pass && mmixi_maker_turn(&k)))
                return -1;
        return mmixi_archive_sort(a);
    }
    if (a->file.size >= 4 && !memcmp(a->file.bytes, "PK\3\4", 4)) {
        if (mmixi_zip_open(a)) return -1;
        for (size_t i = 0; i < a->members; i++) {
            const mmixi_member *f = &a->member[i];
            const size_t at = f->length - mmixi_min(f->length, sizeof pickle - 1);
            if (memcmp(f->name + at, pickle, f->length - at) || f->length - at < sizeof pickle - 1
                || (at && f->name[at - 1] != '/')) continue;
            if (mmixi_pth(&k, f)) return -1;
            return mmixi_archive_sort(a);
        }
        if (mmixi_npz(&k) || mmixi_maker_turn(&k) || mmixi_npz(&k)) return -1;
        return mmixi_archive_sort(a);
    }
    if (a->file.size >= 14
        && !memcmp(a->file.bytes, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14))
        return mmix_fail(a->m, MMIX_ERROR_FILE, "%s: a bare pickle, as torch.save wrote before "
                         "version 1.6: save it anew",
                         a->path);
    return mmixi_safetensors_parse(a);
}

/* Takes the file, whatever comes of it. */
static mmix_archive *mmixi_archive_new(mmix_ctx *m, const char *path, mmixi_file_bytes file)
{
    const size_t length = strlen(path), own = sizeof(mmix_archive) + length + 1;
    mmix_archive *a = (mmix_archive *)mmixi_alloc(m, own);
    if (!a) {
        mmixi_file_free(m, &file);
        return NULL;
    }
    memset(a, 0, own);
    a->m = m, a->own_bytes = own, a->file = file, a->path = (char *)(a + 1);
    memcpy(a->path, path, length);
    if (!mmixi_archive_parse(a)) return a;
    mmix_archive_close(a);
    return NULL;
}

MMIXDEF mmix_archive *mmix_archive_open_memory(mmix_ctx *m, const char *name, const void *bytes, size_t size)
{
    mmixi_file_bytes copy = { NULL, size, 0 };
    if (mmix_error(m)) return NULL;
    if (!name || (!bytes && size) || size == SIZE_MAX) {
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_archive_open_memory: expected a name and bytes, found NULL");
        return NULL;
    }
    copy.bytes = (unsigned char *)mmixi_alloc(m, size + 1);
    if (!copy.bytes) return NULL;
    if (size) memcpy(copy.bytes, bytes, size);
    return mmixi_archive_new(m, name, copy);
}

MMIXDEF size_t mmix_archive_count(const mmix_archive *a)
{
    return a ? a->count : 0;
}

MMIXDEF const mmix_entry *mmix_archive_entry(const mmix_archive *a, size_t i)
{
    return a && i < a->count ? &a->entries[i] : NULL;
}

MMIXDEF const mmix_entry *mmix_archive_find(const mmix_archive *a, const char *name)
{
    size_t low = 0, high = a && name ? a->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, a->by_name[middle]->name);
        if (!order) return a->by_name[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

MMIXDEF const char *mmix_archive_metadata(const mmix_archive *a, const char *key)
{
    if (!a || !key) return NULL;
    return mmixi_json_text(mmixi_json_find(a->json.nodes, key));
}

MMIXDEF size_t mmix_entry_count(const mmix_entry *e)
{
    size_t n = e ? 1 : 0;
    for (int i = 0; e && i < e->ndim; i++) n *= e->shape[i];
    return n;
}

/* What every reading function asks first; the size of an element, or 0 after mmix_fail. */
static size_t mmixi_archive_check(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, const void *values,
                                  size_t count, int integers)
{
    char shown[64];
    if (mmix_error(m)) return 0;
    if (!a || !e || (!values && count))
        mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_archive_read: expected %s, found NULL",
                  !a ? "an archive" : !e ? "an entry" : "room for values");
    else if (count != mmix_entry_count(e))
        MMIXI_REFUSE(m, a, e->name, "%zu elements, found %zu", count, mmix_entry_count(e));
    else if (integers && e->dtype < MMIX_FILE_I64)
        MMIXI_REFUSE(m, a, e->name, "integers, found %s", mmixi_file_dtypes[e->dtype].name);
    else return mmixi_file_dtypes[e->dtype].size;
    return 0;
}

MMIXDEF int mmix_archive_read(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, mmix_real *values,
                              size_t count)
{
    const size_t size = mmixi_archive_check(m, a, e, values, count, 0);
    if (!size) return -1;
    if (e->dtype == MMIX_FILE_REAL && count) memcpy(values, e->data, e->bytes);
    else
        for (size_t i = 0; i < count; i++)
            values[i] = (mmix_real)mmixi_element_f64(e->dtype, (const unsigned char *)e->data + i * size);
    return 0;
}

MMIXDEF int mmix_archive_read_f64(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, double *values,
                                  size_t count)
{
    const size_t size = mmixi_archive_check(m, a, e, values, count, 0);
    for (size_t i = 0; size && i < count; i++)
        values[i] = mmixi_element_f64(e->dtype, (const unsigned char *)e->data + i * size);
    return size ? 0 : -1;
}

MMIXDEF int mmix_archive_read_i64(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, int64_t *values,
                                  size_t count)
{
    const size_t size = mmixi_archive_check(m, a, e, values, count, 1);
    for (size_t i = 0; size && i < count; i++)
        values[i] = mmixi_element_i64(e->dtype, (const unsigned char *)e->data + i * size);
    return size ? 0 : -1;
}

MMIXDEF int mmix_archive_read_i32(mmix_ctx *m, const mmix_archive *a, const mmix_entry *e, int32_t *values,
                                  size_t count)
{
    const size_t size = mmixi_archive_check(m, a, e, values, count, 1);
    char shown[64];
    for (size_t i = 0; size && i < count; i++) {
        int64_t value = mmixi_element_i64(e->dtype, (const unsigned char *)e->data + i * size);
        if (value < INT32_MIN || value > INT32_MAX)
            return MMIXI_REFUSE(m, a, e->name, "32-bit integers, found %lld", (long long)value);
        values[i] = (int32_t)value;
    }
    return size ? 0 : -1;
}
#undef MMIXI_REFUSE

/* ---- files ---- */

/* Maps a file into memory, each page read when it is looked at and copied when it is changed. What cannot be
   mapped is read, and so is everything on Windows, where a mapped file could not be replaced. */
static mmixi_file_bytes mmixi_file_map(mmix_ctx *m, const char *who, const char *path)
{
    mmixi_file_bytes f = { NULL, 0, 0 };
    if (!mmixi_path_ok(m, who, path)) return f;
#ifdef MMIXI_MAPS
    struct stat info;
    const int file = open(path, O_RDONLY);
    if (file >= 0 && !fstat(file, &info) && S_ISREG(info.st_mode) && info.st_size > 0
        && (uintmax_t)info.st_size < SIZE_MAX) {
        void *p = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        if (p != MAP_FAILED) {
            f.bytes = (unsigned char *)p;
            f.size = (size_t)info.st_size;
            f.mapped = 1;
        }
    }
    if (file >= 0) close(file);
#endif
    if (!f.mapped) f.bytes = mmixi_file_read(m, who, path, &f.size);
    return f;
}
MMIXDEF mmix_archive *mmix_archive_open(mmix_ctx *m, const char *path)
{
    mmixi_file_bytes file = mmixi_file_map(m, "mmix_archive_open", path);
    return file.bytes ? mmixi_archive_new(m, path, file) : NULL;
}

/* Text that is measured (out NULL) and then written by the same calls. */
typedef struct mmixi_text { char *out; size_t at; } mmixi_text;

static void mmixi_text_put(mmixi_text *t, const char *s)
{
    size_t n = strlen(s);
    if (t->out) memcpy(t->out + t->at, s, n);
    t->at += n;
}

static void mmixi_text_size(mmixi_text *t, size_t value)
{
    char digits[24], *d = digits + sizeof digits;
    *--d = 0;
    do *--d = (char)('0' + value % 10);
    while (value /= 10);
    mmixi_text_put(t, d);
}

static void mmixi_text_quote(mmixi_text *t, const char *s)
{
    mmixi_text_put(t, "\"");
    for (; *s; s++) {
        unsigned c = (unsigned char)*s;
        char one[8] = "\\u00", *end = one;
        if (c < 32) end = one + 4, *end++ = "01"[c >> 4], *end++ = "0123456789abcdef"[c & 15];
        else if (c == '"' || c == '\\') end = one + 1, *end++ = *s;
        else *end++ = *s;
        *end = 0;
        mmixi_text_put(t, one);
    }
    mmixi_text_put(t, "\"");
}

/* Entries are written in falling size of element, so that each is aligned without gaps; `at` is where. */
static void mmixi_safetensors_header(mmixi_text *t, const mmix_entry *entries, size_t n,
                                     const char *const *metadata)
{
    const char *between = "{";
    size_t at = 0;
    if (metadata && *metadata) {
        mmixi_text_put(t, "{\"__metadata__\":");
        for (; *metadata; metadata += 2, between = ",") {
            mmixi_text_put(t, between);
            mmixi_text_quote(t, metadata[0]);
            mmixi_text_put(t, ":");
            mmixi_text_quote(t, metadata[1]);
        }
        mmixi_text_put(t, "}");
    }
    for (size_t size = 8; size; size /= 2)
        for (size_t i = 0; i < n; i++) {
            const mmix_entry *e = &entries[i];
            if (mmixi_file_dtypes[e->dtype].size != size) continue;
            mmixi_text_put(t, between);
            mmixi_text_quote(t, e->name);
            mmixi_text_put(t, ":{\"dtype\":\"");
            mmixi_text_put(t, mmixi_file_dtypes[e->dtype].name);
            mmixi_text_put(t, "\",\"shape\":[");
            for (int d = 0; d < e->ndim; d++) {
                if (d) mmixi_text_put(t, ",");
                mmixi_text_size(t, e->shape[d]);
            }
            mmixi_text_put(t, "],\"data_offsets\":[");
            mmixi_text_size(t, at);
            mmixi_text_put(t, ",");
            mmixi_text_size(t, at += mmix_entry_count(e) * size);
            mmixi_text_put(t, "]}");
            between = ",";
        }
    mmixi_text_put(t, *between == '{' ? "{}" : "}");
    while (t->at % 8) mmixi_text_put(t, " ");
}

/* The nearest BF16, ties to even. */
static uint16_t mmixi_bf16(mmix_real x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (f != f) return (uint16_t)(bits >> 16 | 0x40u);            /* NaN stays NaN */
    if ((bits & 0xFFFFu) == 0x8000u) {                            /* a tie, but perhaps not in double */
        double away = x < 0 ? (double)f - (double)x : (double)x - (double)f;
        if (away > 0) bits++;
        if (away < 0) bits--;
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

/* The entry's elements as the file has them, by way of a chunk that is rounded and turned as needed. */
static void mmixi_file_put(mmixi_file *f, const mmix_entry *e)
{
    unsigned char chunk[4096];
    const size_t size = mmixi_file_dtypes[e->dtype].size, count = mmix_entry_count(e);
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < sizeof chunk / size ? count - i : sizeof chunk / size;
        if (e->dtype != MMIX_FILE_REAL_AS_BF16)
            memcpy(chunk, (const unsigned char *)e->data + i * size, n * size);
        else
            for (size_t j = 0; j < n; j++) {
                uint16_t half = mmixi_bf16(((const mmix_real *)e->data)[i + j]);
                memcpy(chunk + 2 * j, &half, 2);
            }
        mmixi_little_endian(chunk, n, size);
        mmixi_file_write(f, chunk, n * size);
    }
}

/* What is wrong with the arguments of a save, or NULL; *which entry. keys has room for all names. */
static const char *mmixi_save_wrong(const mmix_entry *entries, size_t n, const char *const *metadata,
                                    const char **keys, size_t *which)
{
    size_t total = 0, k = 0;
    for (size_t i = 0; i < n; i++) {
        const mmix_entry *e = &entries[i];
        int ok = 1;
        *which = i;
        if (!e->name || !mmixi_utf8_ok(e->name)) return "expected a name of UTF-8, found another";
        if (!strcmp(e->name, "__metadata__")) return "expected a name that is free, found __metadata__";
        if (!mmix_file_dtype_name(e->dtype)) return "expected a dtype MMIX_FILE_…, found another number";
        if (e->ndim < 0 || e->ndim > MMIX_FILE_MAX_DIMS) return "expected 0 to 8 axes, found another number";
        size_t bytes = mmixi_shape_bytes(e->shape, e->ndim, mmixi_file_dtypes[e->dtype].size, &ok);
        if (!ok || bytes > SIZE_MAX / 2 - total) return "expected a shape that fits in memory, found more";
        if (bytes && !e->data) return "expected data, found NULL";
        total += bytes;
        keys[k++] = e->name;
    }
    *which = n;
    if (mmixi_key_twice(keys, k)) return "expected names that differ, found one twice";
    for (k = 0; metadata && metadata[2 * k]; k++) {
        if (!metadata[2 * k + 1]) return "expected key, value, …, NULL in metadata, found a key alone";
        if (!mmixi_utf8_ok(metadata[2 * k]) || !mmixi_utf8_ok(metadata[2 * k + 1]))
            return "expected metadata of UTF-8, found another";
        keys[k] = metadata[2 * k];
    }
    return mmixi_key_twice(keys, k) ? "expected keys of metadata that differ, found one twice" : NULL;
}

MMIXDEF int mmix_safetensors_save(mmix_ctx *m, const char *path, const mmix_entry *entries, size_t n,
                                  const char *const *metadata)
{
    size_t room = 1, which = 0;
    if (mmix_error(m)) return -1;
    if (!path || (!entries && n))
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_safetensors_save: expected path, entries, found NULL");
    for (size_t i = 0; metadata && metadata[i]; i += metadata[i + 1] ? 2 : 1) room++;
    room = (room > n ? room : n) * sizeof(char *);
    const char **keys = (const char **)mmixi_alloc(m, room);
    if (!keys) return -1;
    const char *wrong = mmixi_save_wrong(entries, n, metadata, keys, &which);
    mmixi_free(m, (void *)keys, room);
    if (wrong)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_safetensors_save: %s: entry %zu: %s", path, which,
                         wrong);

    mmixi_text text = {NULL, 8};
    mmixi_safetensors_header(&text, entries, n, metadata);
    const size_t header = text.at;
    text.out = (char *)mmixi_alloc(m, header);
    if (!text.out) return -1;
    for (int i = 0; i < 8; i++) text.out[i] = (char)(unsigned char)((uint64_t)(header - 8) >> 8 * i & 255u);
    text.at = 8;
    mmixi_safetensors_header(&text, entries, n, metadata);

    mmixi_file f;
    int ok = !mmixi_file_begin(m, &f, "mmix_safetensors_save", path);
    if (ok) mmixi_file_write(&f, text.out, header);
    for (size_t size = 8; ok && size; size /= 2)
        for (size_t i = 0; i < n; i++)
            if (mmixi_file_dtypes[entries[i].dtype].size == size) mmixi_file_put(&f, &entries[i]);
    mmixi_free(m, text.out, header);
    return ok ? mmixi_file_end(m, &f) : -1;
}

/* The magic bytes, version 1.0, and a header of a Python dict that ends in a line end at a multiple of 64. */
MMIXDEF int mmix_npy_save(mmix_ctx *m, const char *path, const mmix_entry *entry)
{
    char header[512] = "\x93NUMPY\1";
    mmixi_text text;
    mmixi_file f;
    mmix_entry e;
    const char *key, *wrong;
    size_t which;
    if (mmix_error(m)) return -1;
    if (!path || !entry)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_npy_save: expected path, entry, found NULL");
    e = *entry;
    e.name = "array";
    wrong = mmixi_save_wrong(&e, 1, NULL, &key, &which);
    if (!wrong && !*mmixi_file_dtypes[e.dtype].npy)
        wrong = "expected another dtype, found BF16";
    if (wrong) return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_npy_save: %s: %s", path, wrong);
    text.out = header;
    text.at = 10;
    mmixi_text_put(&text, mmixi_file_dtypes[e.dtype].size == 1 ? "{'descr': '|" : "{'descr': '<");
    mmixi_text_put(&text, mmixi_file_dtypes[e.dtype].npy);
    mmixi_text_put(&text, "', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < e.ndim; i++) {
        mmixi_text_size(&text, e.shape[i]);
        mmixi_text_put(&text, i + 1 < e.ndim ? ", " : e.ndim == 1 ? "," : "");
    }
    mmixi_text_put(&text, "), }");
    while (text.at % 64 != 63) mmixi_text_put(&text, " ");
    header[text.at++] = '\n';
    header[8] = (char)(text.at - 10);
    header[9] = (char)((text.at - 10) >> 8);
    if (mmixi_file_begin(m, &f, "mmix_npy_save", path)) return -1;
    mmixi_file_write(&f, header, text.at);
    mmixi_file_put(&f, &e);
    return mmixi_file_end(m, &f);
}

/* ==== >>model files ==================================================================
   parameters by name; backbones and training runs with their configuration as JSON in the metadata

   A run: student.backbone.NAME, student.head.NAME, teacher.…; the moments as slabs; the centre; counters
   ==================================================================================== */

/* The parameters as entries of a file, `values` in place of their own (moments, say). */
static void mmixi_params_entries(const mmix_params *p, const mmix_real *values, mmix_entry *e)
{
    for (size_t i = 0; i < p->count; i++) {
        const mmix_tensor *t = p->at[i].tensor;
        memset(&e[i], 0, sizeof e[i]);
        e[i].name = p->at[i].name;
        e[i].dtype = MMIX_FILE_REAL;
        e[i].ndim = t->ndim;
        memcpy(e[i].shape, t->shape, sizeof t->shape);
        e[i].data = values + ((const mmix_real *)t->data - p->values);
    }
}
static int mmixi_params_write(const mmix_params *p, const mmix_real *values, const char *path,
                              const char *const *metadata)
{
    mmix_entry *e;
    int failed;
    if (p->m->error_kind) return -1;
    e = (mmix_entry *)mmixi_alloc(p->m, p->count * sizeof *e);
    if (!e) return -1;
    mmixi_params_entries(p, values, e);
    failed = mmix_safetensors_save(p->m, path, e, p->count, metadata);
    mmixi_free(p->m, e, p->count * sizeof *e);
    return failed;
}
MMIXDEF int mmix_params_save(const mmix_params *p, const char *path)
{
    return p ? mmixi_params_write(p, p->values, path, NULL) : -1;
}

static const char *mmixi_archive_path(const mmix_archive *a) { return a ? a->path : "no file"; }

/* The line of a parameter or entry that does not fit. */
static void mmixi_match_line(mmixi_text *t, const char *what, const char *prefix, const char *name, int ndim,
                             const size_t *shape, const mmix_tensor *expected)
{
    mmixi_text_put(t, what);
    mmixi_text_put(t, prefix);
    mmixi_text_put(t, name);
    mmixi_text_put(t, " (");
    for (int i = 0; i < ndim; i++) {
        if (i) mmixi_text_put(t, ", ");
        mmixi_text_size(t, shape[i]);
    }
    mmixi_text_put(t, ")");
    if (expected) mmixi_match_line(t, ", expected", "", "", expected->ndim, expected->shape, NULL);
    else mmixi_text_put(t, "\n");
}
/* How an archive fits the parameters: lines of text, and how many are missing, reshaped, unexpected. Names
   that begin with `beside` (NULL: none) may be there or not. */
static void mmixi_params_match(const mmix_params *p, const mmix_archive *a, const char *prefix,
                               const char *beside, mmixi_text *t, size_t count[3])
{
    const size_t cut = strlen(prefix);
    char name[256];
    memset(count, 0, 3 * sizeof *count);
    for (size_t i = 0; i < p->count; i++) {
        const mmix_tensor *own = p->at[i].tensor;
        const mmix_entry *e;
        snprintf(name, sizeof name, "%s%s", prefix, p->at[i].name);
        e = mmix_archive_find(a, name);
        if (!e) count[0]++, mmixi_match_line(t, "missing ", "", name, own->ndim, own->shape, NULL);
        else if (e->ndim != own->ndim || memcmp(e->shape, own->shape, (size_t)e->ndim * sizeof(size_t)))
            count[1]++, mmixi_match_line(t, "reshaped ", "", name, e->ndim, e->shape, own);
    }
    for (size_t i = 0; i < mmix_archive_count(a); i++) {
        const mmix_entry *e = mmix_archive_entry(a, i);
        if (!strncmp(e->name, prefix, cut) && !mmix_params_find(p, e->name + cut)
            && !(beside && !strncmp(e->name + cut, beside, strlen(beside))))
            count[2]++, mmixi_match_line(t, "unexpected ", "", e->name, e->ndim, e->shape, NULL);
    }
}
static const char *mmixi_params_compare(const mmix_params *p, const mmix_archive *a, const char *prefix,
                                        const char *beside, size_t count[3])
{
    mmixi_text text = { NULL, 0 };
    if (!p || p->m->error_kind) return NULL;
    mmixi_params_match(p, a, prefix, beside, &text, count);
    text.out = (char *)mmixi_step_array(p->m, text.at + 1, 1, 1);
    if (!text.out) return NULL;
    if (text.at) {
        text.at = 0;
        mmixi_params_match(p, a, prefix, beside, &text, count);
    }
    text.out[text.at] = 0;
    return text.out;
}
MMIXDEF const char *mmix_params_compare(const mmix_params *p, const mmix_archive *archive, const char *prefix)
{
    size_t count[3];
    return mmixi_params_compare(p, archive, prefix ? prefix : "", NULL, count);
}

static int mmixi_params_read(mmix_params *p, const mmix_archive *a, const char *prefix, const char *beside)
{
    mmix_ctx *m = p ? p->m : NULL;
    mmix_mark mark;
    const char *text;
    char name[256];
    size_t count[3];
    if (!m || m->error_kind) return -1;
    mark = mmix_mark_here(m);
    text = mmixi_params_compare(p, a, prefix, beside, count);
    if (text && *text)
        mmix_fail(m, MMIX_ERROR_FILE, "%.150s: expected %.0f parameters, found %.0f missing, %.0f of another "
                  "shape, %.0f unexpected; first: %.*s", mmixi_archive_path(a), (double)p->count,
                  (double)count[0], (double)count[1], (double)count[2], (int)strcspn(text, "\n"), text);
    mmix_rewind(m, mark);
    if (m->error_kind || mmixi_params_allocate(p, 0)) return -1;
    mmixi_params_changed(p);
    for (size_t i = 0; i < p->count; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, p->at[i].name);
        if (mmix_archive_read(m, a, mmix_archive_find(a, name), mmix_data(p->at[i].tensor),
                              mmix_count(p->at[i].tensor))) return -1;
    }
    return 0;
}
MMIXDEF int mmix_params_read(mmix_params *p, const mmix_archive *archive, const char *prefix)
{
    return mmixi_params_read(p, archive, prefix ? prefix : "", NULL);
}
MMIXDEF int mmix_params_load(mmix_params *p, const char *path)
{
    mmix_archive *a = !p || p->m->error_kind ? NULL : mmix_archive_open(p->m, path);
    int failed = a ? mmix_params_read(p, a, "") : -1;
    mmix_archive_close(a);
    return failed;
}

/* ---- configurations ---- */


/* One member of a config, `count` numbers; optional: 0 where a file is older than it. */
enum { MMIXI_FIELD_SIZE, MMIXI_FIELD_INT, MMIXI_FIELD_DOUBLE, MMIXI_FIELD_U64 };
typedef struct mmixi_field { char name[32]; int kind; size_t offset, count; int optional; } mmixi_field;
#define MMIXI_FIELD_OF(type, kind, member, n, optional) \
    { #member, MMIXI_FIELD_##kind, offsetof(type, member), n, optional }
#define MMIXI_FIELDS(kind, member, n) MMIXI_FIELD_OF(mmix_dino_config, kind, member, n, 0)
#define MMIXI_FIELD(kind, member) MMIXI_FIELDS(kind, member, 1)
static const mmixi_field mmixi_dino_fields[] = {
    MMIXI_FIELD(INT, vision.mixer), MMIXI_FIELD(SIZE, vision.dim), MMIXI_FIELD(SIZE, vision.depth),
        MMIXI_FIELD(SIZE, vision.heads), MMIXI_FIELD(DOUBLE, vision.mlp_ratio),
        MMIXI_FIELD(SIZE, vision.patch), MMIXI_FIELD(SIZE, vision.grid), MMIXI_FIELD(DOUBLE, vision.eps),
        MMIXI_FIELD(DOUBLE, vision.drop_path), MMIXI_FIELD(INT, vision.class_token),
        MMIXI_FIELD_OF(mmix_dino_config, SIZE, vision.registers, 1, 1), MMIXI_FIELD(INT, vision.normalise),
        MMIXI_FIELD(SIZE, vision.mamba.d_inner), MMIXI_FIELD(SIZE, vision.mamba.d_state),
        MMIXI_FIELD(SIZE, vision.mamba.head_dim), MMIXI_FIELD(SIZE, vision.mamba.groups),
        MMIXI_FIELD(SIZE, vision.mamba.conv_width), MMIXI_FIELD(INT, vision.mamba.bidirectional),
        MMIXI_FIELD(DOUBLE, vision.mamba.eps), MMIXI_FIELD(DOUBLE, vision.mamba.dt_low),
        MMIXI_FIELD(DOUBLE, vision.mamba.dt_high), MMIXI_FIELD(DOUBLE, vision.mamba.out_scale),
        MMIXI_FIELD(SIZE, head_hidden),
        MMIXI_FIELD(SIZE, head_bottleneck), MMIXI_FIELD(SIZE, prototypes), MMIXI_FIELD(SIZE, head_layers),
        MMIXI_FIELD(SIZE, augment.global_size), MMIXI_FIELD(SIZE, augment.local_size),
        MMIXI_FIELD(SIZE, augment.local_count), MMIXI_FIELDS(DOUBLE, augment.global_scale, 2),
        MMIXI_FIELDS(DOUBLE, augment.local_scale, 2), MMIXI_FIELDS(DOUBLE, augment.aspect, 2),
            MMIXI_FIELD(DOUBLE, augment.flip), MMIXI_FIELD(DOUBLE, augment.jitter),
            MMIXI_FIELD(DOUBLE, augment.grey), MMIXI_FIELDS(DOUBLE, augment.blur, 3),
            MMIXI_FIELDS(DOUBLE, augment.solarise, 3), MMIXI_FIELD(DOUBLE, augment.brightness),
            MMIXI_FIELD(DOUBLE, augment.contrast), MMIXI_FIELD(DOUBLE, augment.saturation),
            MMIXI_FIELD(DOUBLE, augment.hue), MMIXI_FIELDS(DOUBLE, augment.sigma, 2),
            MMIXI_FIELDS(DOUBLE, augment.mean, 3), MMIXI_FIELDS(DOUBLE, augment.deviation, 3),
            MMIXI_FIELD(SIZE, batch), MMIXI_FIELD(SIZE, epochs), MMIXI_FIELD(SIZE, iters),
            MMIXI_FIELD(DOUBLE, lr), MMIXI_FIELD(DOUBLE, min_lr), MMIXI_FIELD(SIZE, warmup_epochs),
            MMIXI_FIELD(DOUBLE, weight_decay), MMIXI_FIELD(DOUBLE, weight_decay_end),
            MMIXI_FIELD(DOUBLE, clip), MMIXI_FIELD(SIZE, freeze_last_layer), MMIXI_FIELD(DOUBLE, momentum),
            MMIXI_FIELD(DOUBLE, center_momentum), MMIXI_FIELD(DOUBLE, student_temp),
            MMIXI_FIELD(DOUBLE, teacher_temp), MMIXI_FIELD(DOUBLE, teacher_temp_warm),
            MMIXI_FIELD(SIZE, teacher_temp_epochs),
                MMIXI_FIELD_OF(mmix_dino_config, INT, teacher_drop_path, 1, 1), MMIXI_FIELD(U64, seed) };
/* a backbone's are the first */
enum { MMIXI_VISION_FIELDS = 22, MMIXI_DINO_FIELDS = sizeof mmixi_dino_fields / sizeof mmixi_dino_fields[0],
      MMIXI_CONFIG_TEXT = 8192 };

/* Every number of a config as text: exact for doubles with 17 digits, and 64-bit integers do not fit a
   double. */
static void mmixi_config_text(const void *config, const mmixi_field *fields, size_t n,
                              char text[MMIXI_CONFIG_TEXT])
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const mmixi_field *f = &fields[i];
        const char *p = (const char *)config + f->offset;
        at += (size_t)snprintf(text + at, MMIXI_CONFIG_TEXT - at, "%s\"%s\":[", i ? "," : "{", f->name);
        for (size_t k = 0; k < f->count; k++) {
            double x = f->kind == MMIXI_FIELD_SIZE ? (double)((const size_t *)(const void *)p)[k]
                : f->kind == MMIXI_FIELD_INT ? ((const int *)(const void *)p)[k]
                : f->kind == MMIXI_FIELD_DOUBLE ? ((const double *)(const void *)p)[k] : 0;
            if (f->kind == MMIXI_FIELD_U64) {
                uint64_t u = *(const uint64_t *)(const void *)p;
                at += (size_t)snprintf(text + at, MMIXI_CONFIG_TEXT - at, "%lu,%lu", (unsigned long)(u >> 32),
                                       (unsigned long)(u & 0xffffffffu));
            }
            else {
                size_t from = at + (k > 0);
                at += (size_t)snprintf(text + at, MMIXI_CONFIG_TEXT - at, "%s%.17g", k ? "," : "", x);
                for (; from < at; from++) if (text[from] == ',') text[from] = '.';      /* of a locale */
            }
        }
        at += (size_t)snprintf(text + at, MMIXI_CONFIG_TEXT - at, "]");
    }
    snprintf(text + at, MMIXI_CONFIG_TEXT - at, "}");
}
static int mmixi_config_parse(mmix_ctx *m, const char *what, const char *text, const mmixi_field *fields,
                              size_t n_fields, void *config)
{
    mmixi_json_document json;
    if (mmixi_json_open(m, &json, what, text, strlen(text))) return -1;
    for (size_t i = 0; i < n_fields && !m->error_kind; i++) {
        const mmixi_field *f = &fields[i];
        char *p = (char *)config + f->offset;
        const mmixi_json *list = mmixi_json_find(json.nodes, f->name), *item = mmixi_json_first(list);
        double x[3];
        size_t n = 0;
        if (!list && f->optional) continue;
        for (; item && n < 3; item = item->next) x[n++] = mmixi_json_number(item, -1);
        if (item || n != (f->kind == MMIXI_FIELD_U64 ? 2 : f->count))
            mmix_fail(m, MMIX_ERROR_FILE, "%s: the config has no valid %s", what, f->name);
        for (size_t k = 0; !m->error_kind && k < f->count; k++) {
            double low = f->kind == MMIXI_FIELD_INT ? -1e9 : 0;
            double high = f->kind == MMIXI_FIELD_INT ? 1e9 : 4e15;
            int bad = f->kind != MMIXI_FIELD_DOUBLE && !(x[k] >= low && x[k] <= high);
            if (f->kind == MMIXI_FIELD_U64)      /* two halves */
                bad = !(x[0] >= 0 && x[0] < 4294967296.0 && x[1] >= 0 && x[1] < 4294967296.0);
            if (bad) mmix_fail(m, MMIX_ERROR_FILE, "%s: the config has no valid %s", what, f->name);
            else if (f->kind == MMIXI_FIELD_SIZE) ((size_t *)(void *)p)[k] = (size_t)x[k];
            else if (f->kind == MMIXI_FIELD_INT) ((int *)(void *)p)[k] = (int)x[k];
            else if (f->kind == MMIXI_FIELD_DOUBLE) ((double *)(void *)p)[k] = x[k];
            else *(uint64_t *)(void *)p = (uint64_t)x[0] << 32 | (uint64_t)x[1];
        }
    }
    mmixi_json_close(m, &json);
    return m->error_kind ? -1 : 0;
}

/* A file can say anything: more blocks than it has arrays are not worth the time to make them. */
static int mmixi_depth_fits(const mmix_archive *a, size_t depth)
{
    return depth <= mmixi_min(mmix_archive_count(a), MMIXI_DEPTH_MAX);
}
static int mmixi_depth_check(mmix_ctx *m, const mmix_archive *a, size_t depth)
{
    return mmixi_depth_fits(a, depth) ? 0
        : mmix_fail(m, MMIX_ERROR_FILE,
                    "%s: expected blocks in proportion to %zu arrays, found a config of %zu",
                    a->path, a->count, depth);
}

/* ---- backbones ---- */

static const char mmixi_vision_format[] = "mamba_mix vision 1", mmixi_run_format[] = "mamba_mix dino run 1";

MMIXDEF int mmix_vision_save(mmix_ctx *m, const mmix_vision *v, const char *path)
{
    const char *metadata[5];
    char text[MMIXI_CONFIG_TEXT];
    mmix_dino_config c;
    if (!v || m->error_kind) return -1;
    memset(&c, 0, sizeof c);
    c.vision = v->config;
    mmixi_config_text(&c, mmixi_dino_fields, MMIXI_VISION_FIELDS, text);
    metadata[0] = "format"; metadata[1] = mmixi_vision_format;
    metadata[2] = "config"; metadata[3] = text;
    metadata[4] = NULL;
    return mmixi_params_write(v->params, v->params->values, path, metadata);
}

/* The prefix of the backbone's names in a file: what stands before "cls_token". Of several (a training run
   holds student and teacher) one with "teacher" in it, else the shortest. -1 if there is none. */
static int mmixi_vision_prefix(const mmix_archive *a, char *prefix, size_t size)
{
    int best = 0;
    for (size_t i = 0; i < mmix_archive_count(a); i++) {
        const char *name = mmix_archive_entry(a, i)->name;
        const size_t length = strlen(name), before = length - mmixi_min(length, 9);
        const int score = strstr(name, "teacher") ? 2 : 1;
        if (length < 9 || strcmp(name + before, "cls_token") || (before && name[before - 1] != '.')
            || before >= size || score < best || (score == best && before >= strlen(prefix))) continue;
        best = score;
        memcpy(prefix, name, before);
        prefix[before] = 0;
    }
    return best ? 0 : -1;
}
/* Size `axis` of the entry PREFIX NAME, 0 if it is not there. */
static size_t mmixi_vision_size(const mmix_archive *a, const char *prefix, const char *name, int axis)
{
    char full[320];
    const mmix_entry *e;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    e = mmix_archive_find(a, full);
    return e && axis < e->ndim ? e->shape[axis] : 0;
}
/* The config that names and shapes tell. */
static int mmixi_vision_guess(mmix_ctx *m, const mmix_archive *a, const char *prefix, mmix_vision_config *c)
{
    const size_t D = mmixi_vision_size(a, prefix, "cls_token", 2),
        registers = mmixi_vision_size(a, prefix, "pos_embed_cls", 1),
        positions = mmixi_vision_size(a, prefix, "pos_embed", 1),
        patch = mmixi_vision_size(a, prefix, "patch_embed.proj.weight", 3);
    const int vit = mmixi_vision_size(a, prefix, "blocks.0.attn.qkv.weight", 0) > 0;
    const size_t cells = positions - mmixi_min(positions, !registers), cut = strlen(prefix);
    *c = mmixi_vision_base(vit ? MMIX_SOFTMAX : MMIX_SSD, D, 0, mmixi_max(D / 64, 1), patch);
    c->grid = (size_t)(sqrt((double)cells) + 0.5);
    if (registers) {
        c->class_token = MMIX_CLASS_REGISTERS;
        c->registers = registers;
    }
    for (size_t i = 0; i < mmix_archive_count(a); i++) {         /* the last block's number and one */
        const char *name = mmix_archive_entry(a, i)->name;
        if (strncmp(name, prefix, cut) || strncmp(name + cut, vit ? "blocks." : "layers.", 7)) continue;
        c->depth = mmixi_max(c->depth, mmixi_min(strtoul(name + cut + 7, NULL, 10), SIZE_MAX - 1) + 1);
    }
    if (vit) c->mlp_ratio = (double)mmixi_vision_size(a, prefix, "blocks.0.mlp.fc1.weight", 0) / (double)D;
    else {
        const size_t inner = mmixi_vision_size(a, prefix, "layers.0.mixer.out_proj.weight", 1),
            conv = mmixi_vision_size(a, prefix, "layers.0.mixer.conv1d.weight", 0),
            heads = mmixi_vision_size(a, prefix, "layers.0.mixer.A_log", 0);
        c->mamba.d_inner = inner;
        c->mamba.d_state = conv > inner ? (conv - inner) / 2 : 0;
        c->mamba.head_dim = heads ? inner / heads : 0;
        c->mamba.conv_width = mmixi_vision_size(a, prefix, "layers.0.mixer.conv1d.weight", 2);
    }
    if (D && patch && cells && c->grid * c->grid == cells && c->depth
        && mmixi_depth_fits(a, c->depth)) return 0;
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected the weights of a ViT, DinoVim or DinoMamba-Reg, found "
                     "width %zu, patch %zu, %zu positions, %zu blocks", a->path, D, patch, positions,
                     c->depth);
}
/* The prefix of an archive's backbone, after a look at whether it is one of ours. 0, or -1. */
static int mmixi_vision_find(mmix_ctx *m, const mmix_archive *a, char prefix[256])
{
    *prefix = 0;
    if (m->error_kind) return -1;
    for (size_t i = 0; i < mmix_archive_count(a); i++) {
        const char *name = mmix_archive_entry(a, i)->name, *neck = strstr(name, "neck.");
        if (neck && (neck == name || neck[-1] == '.'))
            return mmix_fail(m, MMIX_ERROR_FILE, "%s: \"%s\" belongs to upstream Mamba-Reg, whose registers "
                             "are joined by a neck; this library has DinoMamba-Reg, whose output is their "
                             "mean", a->path, name);
    }
    return !mmixi_vision_prefix(a, prefix, 256) ? 0
        : mmix_fail(m, MMIX_ERROR_FILE, "%s: expected the weights of a backbone, found no \"…cls_token\" "
                    "among %.0f arrays", mmixi_archive_path(a), (double)mmix_archive_count(a));
}
MMIXDEF int mmix_vision_config_read(mmix_ctx *m, const mmix_archive *archive, mmix_vision_config *config)
{
    const char *format = mmix_archive_metadata(archive, "format"),
        *text = mmix_archive_metadata(archive, "config");
    char prefix[256];
    memset(config, 0, sizeof *config);
    if (mmixi_vision_find(m, archive, prefix)) return -1;
    if (format && text && (!strcmp(format, mmixi_vision_format) || !strcmp(format, mmixi_run_format))) {
        mmix_dino_config c;
        memset(&c, 0, sizeof c);
        if (mmixi_config_parse(m, archive->path, text, mmixi_dino_fields, MMIXI_VISION_FIELDS, &c)
            || mmixi_depth_check(m, archive, c.vision.depth)) return -1;
        *config = c.vision;
        return 0;
    }
    return mmixi_vision_guess(m, archive, prefix, config);
}
MMIXDEF int mmix_vision_read(mmix_vision *v, const mmix_archive *archive)
{
    char prefix[256];
    return !v || mmixi_vision_find(v->m, archive, prefix) ? -1
        : mmixi_params_read(v->params, archive, prefix, "head.");
}
MMIXDEF const char *mmix_vision_compare(const mmix_vision *v, const mmix_archive *archive)
{
    char prefix[256];
    size_t count[3];
    return !v || mmixi_vision_find(v->m, archive, prefix) ? NULL
        : mmixi_params_compare(v->params, archive, prefix, "head.", count);
}
MMIXDEF int mmix_vision_load(mmix_ctx *m, mmix_vision *v, const char *path)
{
    mmix_archive *a = !v || m->error_kind ? NULL : mmix_archive_open(m, path);
    int failed = a ? mmix_vision_read(v, a) : -1;
    mmix_archive_close(a);
    return failed;
}
MMIXDEF mmix_vision *mmix_vision_open(mmix_ctx *m, const char *path)
{
    mmix_archive *a = mmix_error(m) ? NULL : mmix_archive_open(m, path);
    mmix_vision_config config;
    mmix_vision *v = a && !mmix_vision_config_read(m, a, &config) ? mmixi_vision_create(m, config, 0) : NULL;
    if (v && mmix_vision_read(v, a)) {
        mmix_vision_destroy(v);
        v = NULL;
    }
    mmix_archive_close(a);
    return v;
}

/* ---- decoders ---- */

static const char mmixi_decoder_format[] = "mamba_mix decoder 1";
#define MMIXI_DECODER_FIELD(kind, member, n) MMIXI_FIELD_OF(mmix_decoder_config, kind, member, n, 0)
static const mmixi_field mmixi_decoder_fields[] = {
    MMIXI_DECODER_FIELD(INT, mixer, 1), MMIXI_DECODER_FIELD(SIZE, vocabulary, 1),
    MMIXI_DECODER_FIELD(SIZE, dim, 1), MMIXI_DECODER_FIELD(SIZE, depth, 1),
    MMIXI_DECODER_FIELD(SIZE, ffn, 1), MMIXI_DECODER_FIELD(SIZE, heads, 1),
    MMIXI_DECODER_FIELD(SIZE, kv_heads, 1), MMIXI_DECODER_FIELD(SIZE, head_dim, 1),
    MMIXI_DECODER_FIELD(DOUBLE, eps, 1), MMIXI_DECODER_FIELD(DOUBLE, rope.theta, 1),
    MMIXI_DECODER_FIELD(SIZE, rope.dim, 1), MMIXI_DECODER_FIELD(INT, rope.interleaved, 1),
    MMIXI_DECODER_FIELD(SIZE, rope.sections, 3), MMIXI_DECODER_FIELD(INT, bias, 1),
    MMIXI_DECODER_FIELD(INT, tied, 1), MMIXI_DECODER_FIELD(SIZE, media, 1),
    MMIXI_DECODER_FIELD(INT, mmate.branches, 1), MMIXI_DECODER_FIELD(INT, mmate.branch_gate, 1),
    MMIXI_DECODER_FIELD(INT, mmate.directions, 1), MMIXI_DECODER_FIELD(INT, mmate.shared_directions, 1),
    MMIXI_DECODER_FIELD(INT, mmate.skip, 1), MMIXI_DECODER_FIELD(SIZE, mmate.conv_width, 1),
    MMIXI_DECODER_FIELD(INT, mmate.output_gate, 1), MMIXI_DECODER_FIELD(INT, mmate.norm, 1),
    MMIXI_DECODER_FIELD(SIZE, mmate.window, 3), MMIXI_DECODER_FIELD(SIZE, mmate.shift_period, 1),
    MMIXI_DECODER_FIELD(INT, mmate.causal_window, 1), MMIXI_DECODER_FIELD(SIZE, mmate.text_window, 1)
};
enum { MMIXI_DECODER_FIELDS = sizeof mmixi_decoder_fields / sizeof mmixi_decoder_fields[0] };

MMIXDEF int mmix_decoder_save(const mmix_decoder *d, const char *path)
{
    const char *metadata[5];
    char text[MMIXI_CONFIG_TEXT];
    mmix_real *merged;
    int failed;
    if (!d || d->m->error_kind) return -1;
    mmixi_config_text(&d->config, mmixi_decoder_fields, MMIXI_DECODER_FIELDS, text);
    metadata[0] = "format"; metadata[1] = mmixi_decoder_format;
    metadata[2] = "config"; metadata[3] = text;
    metadata[4] = NULL;
    if (!d->adapters) return mmixi_params_write(d->params, d->params->values, path, metadata);
    merged = mmixi_decoder_values(d);
    failed = merged ? mmixi_params_write(d->params, merged, path, metadata) : -1;
    mmixi_free(d->m, merged, d->params->slab * sizeof *merged);
    return failed;
}

/* llama2.c: dim, ffn, layers, heads, kv heads, vocabulary (negative: with a classifier of its own), length,
   then float32: embedding; attention norms; q, k, v, o; ffn norms; w1, w2, w3, each of all layers; the last
   norm; two tables of length x head/2 that are not used; the classifier. Returns how many bytes the first
   seven numbers speak of, 0 if they can't be such a file's. */
static double mmixi_llama2c_bytes(const unsigned char *p, size_t size, mmix_decoder_config *c)
{
    double n[7], D, kv, floats;
    memset(c, 0, sizeof *c);
    if (!p || size < 28) return 0;
    for (int i = 0; i < 7; i++) n[i] = (double)(int32_t)mmixi_le32(p + 4 * i);
    c->tied = n[5] > 0;
    n[5] = n[5] < 0 ? -n[5] : n[5];
    for (int i = 0; i < 7; i++) if (!(n[i] >= 1)) return 0;
    D = n[0];
    if (D - floor(D / n[3]) * n[3] > 0 || n[3] - floor(n[3] / n[4]) * n[4] > 0) return 0;
    kv = D / n[3] * n[4];
    floats = n[5] * D * (c->tied ? 1 : 2) + n[2] * (2 * D + 2 * D * D + 2 * D * kv + 3 * D * n[1]) + D
        + n[6] * D / n[3];
    c->dim = (size_t)n[0];
    c->ffn = (size_t)n[1];
    c->depth = (size_t)n[2];
    c->heads = (size_t)n[3];
    c->kv_heads = (size_t)n[4];
    c->vocabulary = (size_t)n[5];
    c->rope.interleaved = 1;
    return floats * 4 + 28;
}
static const unsigned char *mmixi_llama2c_read(mmix_tensor *t, const unsigned char *p)
{
    for (size_t i = 0; i < mmix_count(t); i++, p += 4) mmix_data(t)[i] = (mmix_real)mmixi_le_float(p);
    return p;
}
MMIXDEF mmix_decoder *mmix_decoder_from_llama2c(mmix_ctx *m, const char *name, const void *bytes, size_t size)
{
    const unsigned char *p = (const unsigned char *)bytes;
    mmix_decoder_config c;
    mmix_decoder *d;
    double expected;
    if (mmix_error(m)) return NULL;
    expected = mmixi_llama2c_bytes(p, size, &c);
    if (!(expected > 0) || expected > (double)size || expected < (double)size) {
        if (expected > 0)
            mmix_fail(m, MMIX_ERROR_FILE, "%s: as a llama2.c model expected %.0f bytes, of which the first "
                      "28 speak, found %.0f", name, expected, (double)size);
        else
            mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a llama2.c model (7 int32 and the float32 weights "
                      "they speak of), found %.0f bytes that are none", name, (double)size);
        return NULL;
    }
    d = mmixi_decoder_create(m, c, 0);
    if (!d || mmixi_params_allocate(d->params, 0)) {
        mmix_decoder_destroy(d);
        return NULL;
    }
    p = mmixi_llama2c_read(d->embedding, p + 28);
    for (int k = 0; k < 9; k++)
        for (size_t i = 0; i < c.depth; i++) {
            mmixi_decoder_layer *l = &d->layer[i];
            mmix_tensor *of[9];
            of[0] = l->norm1;
            for (int q = 0; q < 4; q++) of[1 + q] = l->attention.weight[q];
            of[5] = l->norm2;
            of[6] = l->ffn.gate;
            of[7] = l->ffn.down;
            of[8] = l->ffn.up;
            p = mmixi_llama2c_read(of[k], p);
        }
    p = mmixi_llama2c_read(d->norm, p);
    p = (const unsigned char *)bytes + size - 4 * mmix_count(d->classifier);
    if (!c.tied) mmixi_llama2c_read(d->classifier, p);
    return d;
}
MMIXDEF mmix_tokenizer *mmix_tokenizer_load(mmix_ctx *m, const char *path)
{
    size_t size;
    unsigned char *bytes = mmix_error(m) ? NULL : mmixi_file_read(m, "mmix_tokenizer_load", path, &size);
    mmix_tokenizer *t = bytes ? mmix_tokenizer_from(m, path, bytes, size) : NULL;
    if (bytes) mmixi_free(m, bytes, size + 1);
    return t;
}

/* Hugging Face's config.json of a Llama or a Qwen2. */
static int mmixi_hf_number(mmix_ctx *m, const char *path, const mmixi_json *v, const char *key,
                           double otherwise, double *out)
{
    *out = mmixi_json_number(mmixi_json_find(v, key), otherwise);
    return *out >= 1 && *out <= 2147483647 ? 0
        : mmix_fail(m, MMIX_ERROR_FILE, "%s: expected a number from 1 on as \"%s\"", path, key);
}
static int mmixi_hf_config(mmix_ctx *m, const char *path, const mmixi_json *v, mmix_decoder_config *c)
{
    const char *type = mmixi_json_text(mmixi_json_find(v, "model_type")),
        *act = mmixi_json_text(mmixi_json_find(v, "hidden_act"));
    const mmixi_json *rope = mmixi_json_find(v, "rope_parameters"),
        *scaling = mmixi_json_find(v, "rope_scaling");
    const char *kind = mmixi_json_text(mmixi_json_find(rope ? rope : scaling, rope || !scaling
                                                       || mmixi_json_find(scaling, "rope_type") ? "rope_type"
                                                       : "type"));
    const int qwen = type && !strcmp(type, "qwen2");
    double n[7];
    if (!type || (!qwen && strcmp(type, "llama")))
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected the model_type llama or qwen2, found %s", path,
                         type ? type : "none");
    if ((act && strcmp(act, "silu")) || (kind && strcmp(kind, "default"))
        || mmixi_json_flag(mmixi_json_find(v, "use_sliding_window"), 0)
        || mmixi_json_flag(mmixi_json_find(v, "mlp_bias"), 0))
        return mmix_fail(m, MMIX_ERROR_FILE,
                         "%s: expected SwiGLU without biases, plain rotary positions and no "
                         "sliding window, found hidden_act %s, rope %s", path, act ? act : "silu",
                         kind ? kind : "default");
    if (mmixi_hf_number(m, path, v, "vocab_size", 0, &n[0])
        || mmixi_hf_number(m, path, v, "hidden_size", 0, &n[1])
        || mmixi_hf_number(m, path, v, "num_hidden_layers", 0, &n[2])
        || mmixi_hf_number(m, path, v, "intermediate_size", 0, &n[3])
        || mmixi_hf_number(m, path, v, "num_attention_heads", 0, &n[4])
        || mmixi_hf_number(m, path, v, "num_key_value_heads", n[4], &n[5])
        || mmixi_hf_number(m, path, v, "head_dim", floor(n[1] / n[4]), &n[6])) return -1;
    if ((size_t)n[4] % (size_t)n[5])
        return mmix_fail(m, MMIX_ERROR_FILE,
                         "%s: expected num_key_value_heads to divide the %.0f heads, found %.0f",
                         path, n[4], n[5]);
    c->vocabulary = (size_t)n[0];
    c->dim = (size_t)n[1];
    c->depth = (size_t)n[2];
    c->ffn = (size_t)n[3];
    c->heads = (size_t)n[4];
    c->kv_heads = (size_t)n[5];
    c->head_dim = (size_t)n[6];
    c->eps = mmixi_json_number(mmixi_json_find(v, "rms_norm_eps"), 1e-6);
    c->rope.theta = mmixi_json_number(mmixi_json_find(rope && mmixi_json_find(rope, "rope_theta") ? rope : v,
                                                      "rope_theta"), 10000);
    c->bias = qwen ? 1 : mmixi_json_flag(mmixi_json_find(v, "attention_bias"), 0) ? 2 : 0;
    c->tied = mmixi_json_flag(mmixi_json_find(v, "tie_word_embeddings"), 0);
    return 0;
}
static int mmixi_hf_read(mmix_ctx *m, const mmix_archive *a, mmix_decoder_config *c)
{
    const char *slash = strrchr(a->path, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - a->path) : 0, room = folder + 12;
    char *path = (char *)mmixi_step(m, room);
    mmixi_json_document json;
    unsigned char *bytes;
    size_t size;
    if (!path) return -1;
    snprintf(path, room, "%.*sconfig.json", (int)folder, a->path);
    bytes = mmixi_file_read(m, "mmix_decoder_open", path, &size);
    if (!bytes) return -1;
    if (!mmixi_json_open(m, &json, path, (const char *)bytes, size)) {
        mmixi_hf_config(m, path, json.nodes, c);
        mmixi_json_close(m, &json);
    }
    mmixi_free(m, bytes, size + 1);
    return m->error_kind ? -1 : 0;
}
static mmix_decoder *mmixi_decoder_read(mmix_ctx *m, const mmix_archive *a)
{
    const char *format = mmix_archive_metadata(a, "format"), *text = mmix_archive_metadata(a, "config");
    const mmix_mark mark = mmix_mark_here(m);
    mmix_decoder_config c;
    mmix_decoder *d = NULL;
    int failed;
    memset(&c, 0, sizeof c);
    failed = format && text && !strcmp(format, mmixi_decoder_format)
        ? mmixi_config_parse(m, a->path, text, mmixi_decoder_fields, MMIXI_DECODER_FIELDS, &c)
        : mmixi_hf_read(m, a, &c);
    mmix_rewind(m, mark);
    if (!failed && !mmixi_depth_check(m, a, c.depth)) d = mmixi_decoder_create(m, c, 0);
    /* a tied model's file may hold the classifier, too */
    if (d && mmixi_params_read(d->params, a, "", c.tied ? "lm_head." : NULL)) {
        mmix_decoder_destroy(d);
        d = NULL;
    }
    return d;
}
MMIXDEF mmix_decoder *mmix_decoder_open(mmix_ctx *m, const char *path)
{
    mmix_archive *a;
    mmix_decoder *d = NULL;
    mmixi_file_bytes file;
    if (mmix_error(m)) return NULL;
    file = mmixi_file_map(m, "mmix_decoder_open", path);
    if (!file.bytes) return NULL;
    if (file.size < 9 || file.bytes[8] != '{') {         /* as .safetensors begins */
        d = mmix_decoder_from_llama2c(m, path, file.bytes, file.size);
        mmixi_file_free(m, &file);
        return d;
    }
    a = mmixi_archive_new(m, path, file);
    if (a) d = mmixi_decoder_read(m, a);
    mmix_archive_close(a);
    return d;
}

/* ---- training runs ---- */

/* The four parameter lists of a run, with the prefix of their names. */
static mmix_params *mmixi_dino_list(const mmix_dino *d, size_t i, const char **prefix)
{
    static const char names[4][20] = { "student.backbone.", "student.head.", "teacher.backbone.",
                                      "teacher.head." };
    *prefix = names[i];
    return i % 2 ? d->net[i / 2].params : d->net[i / 2].vision->params;
}
/* One array of n elements. */
static mmix_entry mmixi_entry(const char *name, int dtype, size_t n, const void *data)
{
    mmix_entry e;
    memset(&e, 0, sizeof e);
    e.name = name;
    e.dtype = dtype;
    e.ndim = 1;
    e.shape[0] = n;
    e.data = data;
    return e;
}
/* The arrays of a run on their way into a file. */
enum { MMIXI_RUN_NAME = 128 };
typedef struct mmixi_entries {
    mmix_ctx *m;
    mmix_entry *e;
    char (*names)[MMIXI_RUN_NAME];
    size_t n, at;                                /* room; how many there are */
} mmixi_entries;
static int mmixi_entries_begin(mmix_ctx *m, mmixi_entries *list, size_t n)
{
    list->m = m;
    list->n = n;
    list->at = 0;
    list->e = (mmix_entry *)mmixi_alloc(m, n * sizeof *list->e);
    list->names = (char (*)[MMIXI_RUN_NAME])mmixi_alloc(m, n * sizeof *list->names);
    return m->error_kind ? -1 : 0;
}
static void mmixi_entries_name(mmixi_entries *list, const char *prefix, const char *name)
{
    snprintf(list->names[list->at], MMIXI_RUN_NAME, "%s%s", prefix, name);
    list->e[list->at].name = list->names[list->at];
    list->at++;
}
static void mmixi_entries_params(mmixi_entries *list, const char *prefix, const mmix_params *p)
{
    mmixi_params_entries(p, p->values, list->e + list->at);
    for (size_t k = 0; k < p->count; k++) mmixi_entries_name(list, prefix, p->at[k].name);
}
static void mmixi_entries_array(mmixi_entries *list, const char *prefix, const char *name, int dtype,
                                size_t n, const void *data)
{
    list->e[list->at] = mmixi_entry(name, dtype, n, data);
    mmixi_entries_name(list, prefix, name);
}
enum { MMIXI_ADAMW_ENTRIES = 3 };
static void mmixi_entries_adamw(mmixi_entries *list, const char *prefix, const mmix_adamw_state *a)
{
    mmixi_entries_array(list, prefix, "m", MMIX_FILE_REAL, a->params->slab, a->m);
    mmixi_entries_array(list, prefix, "v", MMIX_FILE_REAL, a->params->slab, a->v);
    mmixi_entries_array(list, prefix, "steps", MMIX_FILE_I64, a->params->count, a->steps);
}
/* Writes them and lets go of them; also after a beginning that failed. */
static int mmixi_entries_save(mmixi_entries *list, const char *path, const char *const *metadata)
{
    mmix_ctx *m = list->m;
    const int failed = m->error_kind ? -1 : mmix_safetensors_save(m, path, list->e, list->at, metadata);
    mmixi_free(m, list->e, list->n * sizeof *list->e);
    mmixi_free(m, list->names, list->n * sizeof *list->names);
    return failed;
}
/* The array PREFIX NAME of n numbers out of a run's file, as reals or integers. */
static int mmixi_run_array(mmix_ctx *m, const mmix_archive *a, const char *prefix, const char *name, size_t n,
                           mmix_real *values, int64_t *integers)
{
    char full[MMIXI_RUN_NAME];
    const mmix_entry *e;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    e = mmix_archive_find(a, full);
    if (!e || mmix_entry_count(e) != n)
        return mmix_fail(m, MMIX_ERROR_FILE, "the run file has no %s of %.0f numbers", full, (double)n);
    return values ? mmix_archive_read(m, a, e, values, n) : mmix_archive_read_i64(m, a, e, integers, n);
}
static int mmixi_run_adamw(mmix_ctx *m, const mmix_archive *a, const char *prefix, mmix_adamw_state *s)
{
    return mmixi_run_array(m, a, prefix, "m", s->params->slab, s->m, NULL)
        || mmixi_run_array(m, a, prefix, "v", s->params->slab, s->v, NULL)
        || mmixi_run_array(m, a, prefix, "steps", s->params->count, NULL, (int64_t *)(void *)s->steps) ? -1
        : 0;
}
static int mmixi_run_counters(mmix_ctx *m, const mmix_archive *a, int64_t *counters, size_t n)
{
    if (mmixi_run_array(m, a, "", "counters", n, NULL, counters)) return -1;
    for (size_t i = 0; i < n; i++)
        if (counters[i] < 0)
            return mmix_fail(m, MMIX_ERROR_FILE, "the run file's counter %d is negative", (int)i);
    return 0;
}
/* The caller's note, in lasting memory. */
static int mmixi_run_note(mmix_ctx *m, const mmix_archive *a, char **note, size_t *size)
{
    const char *text = mmix_archive_metadata(a, "note");
    mmixi_free(m, *note, *size);
    *size = text ? strlen(text) + 1 : 1;
    *note = (char *)mmixi_alloc(m, *size);
    if (!*note) return -1;
    memcpy(*note, text ? text : "", *size);
    return 0;
}

static const char mmixi_dino_moments[2][16] = { "adamw.backbone.", "adamw.head." };
MMIXDEF int mmix_dino_save(const mmix_dino *d, const char *path, const char *note)
{
    mmix_ctx *m = d ? d->m : NULL;
    size_t n = 2 * MMIXI_ADAMW_ENTRIES + 2;
    int64_t counters[4];
    char text[MMIXI_CONFIG_TEXT];
    const char *metadata[7], *prefix;
    mmixi_entries list;
    if (!m || m->error_kind) return -1;
    for (size_t i = 0; i < 4; i++) n += mmixi_dino_list(d, i, &prefix)->count;
    if (!mmixi_entries_begin(m, &list, n)) {
        for (size_t i = 0; i < 4; i++) {
            const mmix_params *p = mmixi_dino_list(d, i, &prefix);
            mmixi_entries_params(&list, prefix, p);
        }
        for (int i = 0; i < 2; i++) mmixi_entries_adamw(&list, mmixi_dino_moments[i], &d->adamw[i]);
        counters[0] = (int64_t)d->step;
        counters[1] = (int64_t)d->iters;
        counters[2] = (int64_t)d->at_uniform;
        counters[3] = (int64_t)d->at_zero;
        mmixi_entries_array(&list, "", "center", MMIX_FILE_REAL, d->config.prototypes, d->center);
        mmixi_entries_array(&list, "", "counters", MMIX_FILE_I64, 4, counters);
    }
    mmixi_config_text(&d->config, mmixi_dino_fields, MMIXI_DINO_FIELDS, text);
    metadata[0] = "format"; metadata[1] = mmixi_run_format;
    metadata[2] = "config"; metadata[3] = text;
    metadata[4] = "note"; metadata[5] = note ? note : "";
    metadata[6] = NULL;
    return mmixi_entries_save(&list, path, metadata);
}

static int mmixi_dino_read(mmix_dino *d, const mmix_archive *a)
{
    mmix_ctx *m = d->m;
    int64_t counters[4];
    for (size_t i = 0; i < 4; i++) {
        const char *prefix;
        mmix_params *p = mmixi_dino_list(d, i, &prefix);
        if (mmix_params_read(p, a, prefix)) return -1;
    }
    if (mmixi_dino_begin(d)) return -1;
    for (int i = 0; i < 2; i++)
        if (mmixi_run_adamw(m, a, mmixi_dino_moments[i], &d->adamw[i])) return -1;
    if (mmixi_run_array(m, a, "", "center", d->config.prototypes, d->center, NULL)
        || mmixi_run_counters(m, a, counters, 4)) return -1;
    d->step = (size_t)counters[0];
    d->iters = (size_t)counters[1];
    d->at_uniform = (size_t)counters[2];
    d->at_zero = (size_t)counters[3];
    return mmixi_run_note(m, a, &d->note, &d->note_size);
}
MMIXDEF mmix_dino *mmix_dino_load(mmix_ctx *m, const char *path)
{
    mmix_archive *a = mmix_archive_open(m, path);
    mmix_dino_config c;
    mmix_dino *d = NULL;
    const char *format = a ? mmix_archive_metadata(a, "format") : NULL,
        *text = a ? mmix_archive_metadata(a, "config") : NULL;
    memset(&c, 0, sizeof c);
    if (!a) return NULL;
    if (!format || strcmp(format, mmixi_run_format) || !text)
        mmix_fail(m, MMIX_ERROR_FILE, "%s is no run file of mmix_dino_save", path);
    else if (!mmixi_config_parse(m, path, text, mmixi_dino_fields, MMIXI_DINO_FIELDS, &c)
             && !mmixi_depth_check(m, a, c.vision.depth)) {
        d = mmixi_dino_create(m, &c, 0);
        if (d && mmixi_dino_read(d, a)) {
            mmix_dino_destroy(d);
            d = NULL;
        }
    }
    mmix_archive_close(a);
    return d;
}

/* ---- distillation ---- */

static void mmixi_distill_lines(const mmix_params *p, mmixi_text *t)
{
    for (size_t i = 0; p && i < p->count; i++)
        mmixi_match_line(t, p->at[i].frozen ? "frozen " : "trained ", "", p->at[i].name,
                         p->at[i].tensor->ndim, p->at[i].tensor->shape, NULL);
}
MMIXDEF const char *mmix_distill_table(const mmix_distill *run)
{
    mmixi_text text = { NULL, 0 };
    if (!run || run->m->error_kind) return NULL;
    for (int pass = 0; pass < 2; pass++) {       /* measured, then written */
        text.at = 0;
        mmixi_distill_lines(run->student->params, &text);
        mmixi_distill_lines(run->student->adapters, &text);
        if (!pass) text.out = (char *)mmixi_step_array(run->m, text.at + 1, 1, 1);
        if (!text.out) return NULL;
    }
    text.out[text.at] = 0;
    return text.out;
}

static const char mmixi_distill_format[] = "mamba_mix distillation run 1";
#define MMIXI_DISTILL_FIELD(kind, member) MMIXI_FIELD_OF(mmix_distill_config, kind, member, 1, 0)
#define MMIXI_STAGE_FIELDS(i) \
    MMIXI_DISTILL_FIELD(INT, stage[i].train), MMIXI_DISTILL_FIELD(DOUBLE, stage[i].hidden), \
    MMIXI_DISTILL_FIELD(DOUBLE, stage[i].token), MMIXI_DISTILL_FIELD(DOUBLE, stage[i].sequence), \
    MMIXI_DISTILL_FIELD(DOUBLE, stage[i].supervised), MMIXI_DISTILL_FIELD(DOUBLE, stage[i].temperature), \
    MMIXI_DISTILL_FIELD(SIZE, stage[i].steps), MMIXI_DISTILL_FIELD(SIZE, stage[i].warmup), \
    MMIXI_DISTILL_FIELD(DOUBLE, stage[i].lr), MMIXI_DISTILL_FIELD(DOUBLE, stage[i].min_lr), \
    MMIXI_DISTILL_FIELD(DOUBLE, stage[i].weight_decay), MMIXI_DISTILL_FIELD(DOUBLE, stage[i].clip)
static const mmixi_field mmixi_distill_fields[] = {
    MMIXI_STAGE_FIELDS(0), MMIXI_STAGE_FIELDS(1), MMIXI_STAGE_FIELDS(2), MMIXI_STAGE_FIELDS(3),
    MMIXI_STAGE_FIELDS(4), MMIXI_STAGE_FIELDS(5), MMIXI_STAGE_FIELDS(6), MMIXI_STAGE_FIELDS(7),
    MMIXI_DISTILL_FIELD(SIZE, stages), MMIXI_DISTILL_FIELD(SIZE, step_tokens),
    MMIXI_DISTILL_FIELD(SIZE, lora_rank), MMIXI_DISTILL_FIELD(DOUBLE, lora_alpha),
    MMIXI_DISTILL_FIELD(INT, lora_targets), MMIXI_DISTILL_FIELD(INT, calibrate),
    MMIXI_DISTILL_FIELD(INT, hidden_outputs), MMIXI_DISTILL_FIELD(INT, teacher_inputs)
};
enum { MMIXI_DISTILL_FIELDS = sizeof mmixi_distill_fields / sizeof mmixi_distill_fields[0],
      MMIXI_DISTILL_COUNTERS = 5 };
static const char mmixi_distill_moments[2][18] = { "adamw.decoder.", "adamw.adapters." };

/* Which gradients wait for the optimiser: one number a parameter. */
static void mmixi_written_put(const mmix_params *p, int64_t *flags)
{
    for (size_t i = 0; i < p->count; i++) flags[i] = p->at[i].tensor->written;
}
MMIXDEF int mmix_distill_save(const mmix_distill *run, const char *path, const char *note)
{
    mmix_ctx *m = run ? run->m : NULL;
    char text[MMIXI_CONFIG_TEXT], decoder[MMIXI_CONFIG_TEXT];
    const char *metadata[9];
    int64_t counters[MMIXI_DISTILL_COUNTERS], *written;
    const mmix_decoder *d;
    mmixi_entries list;
    mmix_mark mark;
    size_t count;
    int failed;
    if (!m || m->error_kind) return -1;
    d = run->student;
    mark = mmix_mark_here(m);
    count = d->params->count + (d->adapters ? d->adapters->count : 0);
    written = (int64_t *)mmixi_step_array(m, count, 1, sizeof *written);
    if (!mmixi_entries_begin(m, &list, count + 2 * (MMIXI_ADAMW_ENTRIES + 2) + 1)) {
        mmixi_entries_params(&list, "student.", d->params);
        if (d->adapters) mmixi_entries_params(&list, "adapters.", d->adapters);
        for (int i = 0; i < 2; i++) {
            const mmix_params *p = run->adamw[i].params;
            if (!p) continue;
            mmixi_entries_adamw(&list, mmixi_distill_moments[i], &run->adamw[i]);
            if (!run->tokens) continue;
            mmixi_written_put(p, written);
            mmixi_entries_array(&list, mmixi_distill_moments[i], "gradients", MMIX_FILE_REAL, p->slab,
                                p->gradients);
            mmixi_entries_array(&list, mmixi_distill_moments[i], "written", MMIX_FILE_I64, p->count, written);
            written += p->count;
        }
        counters[0] = (int64_t)run->stage;
        counters[1] = (int64_t)run->step;
        counters[2] = (int64_t)run->number;
        counters[3] = (int64_t)run->tokens;
        counters[4] = d->adapters != NULL;
        mmixi_entries_array(&list, "", "counters", MMIX_FILE_I64, MMIXI_DISTILL_COUNTERS, counters);
    }
    mmixi_config_text(&run->config, mmixi_distill_fields, MMIXI_DISTILL_FIELDS, text);
    mmixi_config_text(&d->config, mmixi_decoder_fields, MMIXI_DECODER_FIELDS, decoder);
    metadata[0] = "format"; metadata[1] = mmixi_distill_format;
    metadata[2] = "config"; metadata[3] = text;
    metadata[4] = "decoder"; metadata[5] = decoder;
    metadata[6] = "note"; metadata[7] = note ? note : "";
    metadata[8] = NULL;
    failed = mmixi_entries_save(&list, path, metadata);
    mmix_rewind(m, mark);
    return failed;
}
static int mmixi_distill_read(mmix_distill *run, const mmix_archive *a, const int64_t *counters)
{
    mmix_ctx *m = run->m;
    mmix_decoder *d = run->student;
    run->stage = (size_t)counters[0];
    run->step = (size_t)counters[1];
    run->number = (uint64_t)counters[2];
    run->tokens = (size_t)counters[3];
    if (run->stage > run->config.stages)
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: stage %zu of %zu", a->path, run->stage, run->config.stages);
    if (counters[4] && !d->adapters && mmix_decoder_lora(d, run->config.lora_rank, run->config.lora_alpha,
                                         run->config.lora_targets)) return -1;
    if (mmixi_distill_begin(run) || (d->adapters && mmix_params_read(d->adapters, a, "adapters."))) return -1;
    for (int i = 0; i < 2; i++) {
        mmix_params *p = run->adamw[i].params;
        const mmix_mark mark = mmix_mark_here(m);
        int64_t *written;
        if (!p) continue;
        if (mmixi_run_adamw(m, a, mmixi_distill_moments[i], &run->adamw[i])) return -1;
        if (!run->tokens) continue;
        written = (int64_t *)mmixi_step_array(m, p->count, 1, sizeof *written);
        if (!written
            || mmixi_run_array(m, a, mmixi_distill_moments[i], "gradients", p->slab, p->gradients, NULL)
            || mmixi_run_array(m, a, mmixi_distill_moments[i], "written", p->count, NULL, written)) return -1;
        for (size_t k = 0; k < p->count; k++) p->at[k].tensor->written = written[k] != 0;
        mmix_rewind(m, mark);
    }
    return mmixi_run_note(m, a, &run->note, &run->note_size);
}
MMIXDEF mmix_distill *mmix_distill_load(const mmix_decoder *teacher, const char *path, mmix_decoder **student)
{
    mmix_ctx *m = teacher ? teacher->m : NULL;
    mmix_archive *a;
    mmix_distill_config c;
    mmix_decoder_config config;
    mmix_distill *run = NULL;
    const char *format, *text, *decoder;
    int64_t counters[MMIXI_DISTILL_COUNTERS];
    if (m && !student) mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_distill_load: student is NULL");
    if (student) *student = NULL;
    a = !m || m->error_kind ? NULL : mmix_archive_open(m, path);
    if (!a) return NULL;
    memset(&c, 0, sizeof c);
    memset(&config, 0, sizeof config);
    format = mmix_archive_metadata(a, "format");
    text = mmix_archive_metadata(a, "config");
    decoder = mmix_archive_metadata(a, "decoder");
    if (!format || strcmp(format, mmixi_distill_format) || !text || !decoder)
        mmix_fail(m, MMIX_ERROR_FILE, "%s is no run file of mmix_distill_save", path);
    else if (!mmixi_config_parse(m, path, text, mmixi_distill_fields, MMIXI_DISTILL_FIELDS, &c)
             && !mmixi_config_parse(m, path, decoder, mmixi_decoder_fields, MMIXI_DECODER_FIELDS, &config)
             && !mmixi_depth_check(m, a, config.depth)
             && !mmixi_run_counters(m, a, counters, MMIXI_DISTILL_COUNTERS))
        *student = mmixi_decoder_create(m, config, 0);
    if (*student && !mmix_params_read((*student)->params, a, "student."))
        run = mmix_distill_create(teacher, *student, c);
    if (run && mmixi_distill_read(run, a, counters)) {
        mmix_distill_destroy(run);
        run = NULL;
    }
    if (!run) {
        mmix_decoder_destroy(*student);
        *student = NULL;
    }
    mmix_archive_close(a);
    return run;
}

/* ==== >>context ======================================================================
   the table of ops, and creation
   ==================================================================================== */

static const char mmixi_op_names[MMIX_OP_COUNT][20] = {
    "copy", "add", "mul", "div", "scale", "exp", "log", "sqrt", "silu", "gelu", "softplus", "sum_axis", "sum",
        "matmul", "concat", "gather", "insert_token", "softmax", "layer_norm", "rms_norm", "gated_rms_norm",
        "l2_normalise", "linear", "conv1d", "patch_embed", "resize", "cross_entropy", "weight_norm",
        "rope", "softmax_attention", "linear_attention", "ssd", "dino_loss", "add_rows",
        "fuse_directions", "kd_hidden", "kd_token" };
MMIXDEF const char *mmix_op_name(int op) { return op >= 0 && op < MMIX_OP_COUNT ? mmixi_op_names[op] : "?"; }

static void mmixi_ops_fill(mmix_op_functions table[MMIX_OP_COUNT])
{
#define MMIXI_OP(op, function) \
    table[op].forward = function##_forward; table[op].backward = function##_backward
    MMIXI_OP(MMIX_OP_COPY, mmixi_copy);
    MMIXI_OP(MMIX_OP_ADD, mmixi_binary); MMIXI_OP(MMIX_OP_MUL, mmixi_binary);
    MMIXI_OP(MMIX_OP_DIV, mmixi_binary);
    for (int op = MMIX_OP_SCALE; op <= MMIX_OP_SOFTPLUS; op++) { MMIXI_OP(op, mmixi_unary); }
    MMIXI_OP(MMIX_OP_SUM_AXIS, mmixi_sum_axis); MMIXI_OP(MMIX_OP_SUM, mmixi_sum_axis);
    MMIXI_OP(MMIX_OP_MATMUL, mmixi_matmul);
    MMIXI_OP(MMIX_OP_CONCAT, mmixi_concat); MMIXI_OP(MMIX_OP_GATHER, mmixi_gather);
    MMIXI_OP(MMIX_OP_INSERT_TOKEN, mmixi_insert);
    MMIXI_OP(MMIX_OP_SOFTMAX, mmixi_softmax); MMIXI_OP(MMIX_OP_LAYER_NORM, mmixi_norm);
    MMIXI_OP(MMIX_OP_RMS_NORM, mmixi_norm);
    MMIXI_OP(MMIX_OP_GATED_RMS_NORM, mmixi_norm); MMIXI_OP(MMIX_OP_L2_NORMALISE, mmixi_unit);
    MMIXI_OP(MMIX_OP_LINEAR, mmixi_linear);
    MMIXI_OP(MMIX_OP_CONV1D, mmixi_conv); MMIXI_OP(MMIX_OP_PATCH_EMBED, mmixi_patch);
    MMIXI_OP(MMIX_OP_RESIZE, mmixi_resize);
    MMIXI_OP(MMIX_OP_CROSS_ENTROPY, mmixi_xent); MMIXI_OP(MMIX_OP_WEIGHT_NORM, mmixi_unit);
    MMIXI_OP(MMIX_OP_ROPE, mmixi_rope);
    MMIXI_OP(MMIX_OP_SOFTMAX_ATTENTION, mmixi_softmax_attention);
    MMIXI_OP(MMIX_OP_LINEAR_ATTENTION, mmixi_linear_attention);
    MMIXI_OP(MMIX_OP_SSD, mmixi_ssd);
    MMIXI_OP(MMIX_OP_DINO_LOSS, mmixi_dino);
    MMIXI_OP(MMIX_OP_ADD_ROWS, mmixi_add_rows); MMIXI_OP(MMIX_OP_FUSE_DIRECTIONS, mmixi_fuse);
    MMIXI_OP(MMIX_OP_KD_HIDDEN, mmixi_kd_hidden); MMIXI_OP(MMIX_OP_KD_TOKEN, mmixi_kd_token);
#undef MMIXI_OP
}

MMIXDEF int mmix_kernel_set(mmix_ctx *m, int op, const mmix_op_functions *functions)
{
    mmix_op_functions table[MMIX_OP_COUNT];
    if (op < 0 || op >= MMIX_OP_COUNT)
        return mmix_fail(m, MMIX_ERROR_ARGUMENT, "mmix_kernel_set: op %d, expected 0 to %d", op,
                         MMIX_OP_COUNT - 1);
    mmixi_ops_fill(table);
    m->table[op] = functions ? *functions : table[op];
    return 0;
}
MMIXDEF mmix_op_functions mmix_kernel(const mmix_ctx *m, int op)
{
    static const mmix_op_functions none = { NULL, NULL };
    return op >= 0 && op < MMIX_OP_COUNT ? m->table[op] : none;
}
MMIXDEF void mmix_kernel_user_set(mmix_ctx *m, void *user) { m->table_user = user; }
MMIXDEF void *mmix_kernel_user(const mmix_ctx *m) { return m->table_user; }

MMIXDEF mmix_ctx *mmix_create(const mmix_options *options)
{
    mmix_ctx start, *m;
    memset(&start, 0, sizeof start);
    if (options) {
        start.allocator = options->allocator;
        start.seed = options->seed;
        start.parallel_for = options->parallel_for;
        start.parallel_user = options->parallel_user;
        start.lanes = options->threads;
    }
    if (!start.allocator.alloc || !start.allocator.free) {
        start.allocator.alloc = mmixi_malloc;
        start.allocator.free = mmixi_mfree;
    }
    if (start.lanes < 1) start.lanes = mmixi_cores();
    if (start.lanes < 1) start.lanes = 1;
    if (start.lanes > MMIXI_MAX_THREADS) start.lanes = MMIXI_MAX_THREADS;
    start.step.least = MMIXI_BLOCK;
    start.header.least = MMIXI_HEADER_BLOCK;
    mmixi_ops_fill(start.table);
    m = (mmix_ctx *)mmixi_alloc(&start, sizeof *m);
    if (!m) return NULL;
    *m = start;
    m->k = (mmixi_kernels *)mmixi_alloc(m, sizeof *m->k);
    if (!m->k) {
        mmix_destroy(m);
        return NULL;
    }
    mmixi_kernels_fill(m->k, options ? options->simd : MMIX_SIMD_AUTO);
    if (m->lanes > 1 && !m->parallel_for) {
        m->pool = mmixi_pool_create(m, options);
        if (m->error_kind) {
            mmix_destroy(m);
            return NULL;
        }
    }
    return m;
}

MMIXDEF void mmix_destroy(mmix_ctx *m)
{
    mmix_ctx end;
    if (!m) return;
    mmixi_pool_destroy(m, m->pool);
    mmixi_arena_free(m, &m->step);
    mmixi_arena_free(m, &m->header);
    mmixi_free(m, m->step.block, m->step.capacity * sizeof *m->step.block);
    mmixi_free(m, m->header.block, m->header.capacity * sizeof *m->header.block);
    mmixi_free(m, m->hole, m->hole_capacity * sizeof *m->hole);
    mmixi_free(m, m->node, m->node_capacity * sizeof *m->node);
    mmixi_free(m, m->k, sizeof *m->k);
    end = *m;
    mmixi_free(&end, m, sizeof *m);
}

MMIXDEF const char *mmix_simd_name(const mmix_ctx *m) { return m->k->name; }

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
