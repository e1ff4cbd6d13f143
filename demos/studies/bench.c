/* bench.c - how long the library takes, in fixed cases

       cc -O2 demos/studies/bench.c -o bench -lm -lpthread
       ./bench --table                               all cases, and their share of the peak
       ./bench --only '^attn.*bwd' --threads 1       one JSON line a case
       ./bench --types --only vit                    models with float and narrow weights
       ./bench --plots figures                       three SVG figures of how the times grow
       ./bench --only '^ssd_8.*bwd' --save case.safetensors    what goes in and what comes out

   tests/compare.py runs the same cases in PyTorch: it has a case saved, computes it from the saved
   inputs and weights, compares the outputs and gradients with the saved ones, and then times both.
   What is timed:

     .fwd   the op without recording
     .bwd   mmix_backward_from alone, with the gradients of all inputs and parameters; the forward
            pass before it is not timed
     models mmix_vision_forward on a batch of pictures;  dino_train_*  one whole training step
     mmate_prefill_*, decoder_attn_prefill_*  one decoder layer over all tokens

   All times include the mmix_reset that ends a step. Inputs are parameters of a list, because
   those outlive a reset; they are made of the context's random numbers, so every run computes
   the same. A case has a context of its own. After the warm-up nothing should be allocated and
   no fresh page touched; if it is, the line says how often ("allocs", "faults" a repetition).

   flop is nominal: multiply-adds times two of products and mixers, scans and linear attention
   counted as their recurrence, the backward of attention 10 N per pair. The selective scan's limit
   is its exponentials: the table also shows how long it takes for each.

   Sections: cases · what a case does · time · report · save · plots · main */

#if defined(__linux__)
#define _GNU_SOURCE                              /* sched_setaffinity */
#elif !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#include "../../mamba_mix.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(_WIN32)
#include <windows.h>
#else
#include <regex.h>
#if defined(__linux__)
#include <sched.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

/* ---- cases ------------------------------------------------------------------------- */

enum { LINEAR, ATTENTION, WINDOWS, LINEAR_ATTENTION, SSD, STEP, SELECTIVE, SELECTIVE_STEP, CONV,
      GATED_NORM, LAYER_NORM, GELU, SOFTMAX, CROSS_ENTROPY, SOFT_CROSS_ENTROPY, VISION, DINOV2,
      DINO, MMATE, DECODER };

typedef struct bench_case {
    const char *name;                            /* with .fwd and .bwd if there is a backward */
    int op;
    size_t size[5];
    double flop, flop_back;                      /* flop_back 0: there is only one pass */
} bench_case;

static const bench_case cases[] = {
    /* M, K, N: x (M, K), weight (N, K), bias (N) */
    {"gemm_64x64x64", LINEAR, {64, 64, 64, 0, 0}, 524288.0, 1048576.0},
    {"gemm_197x384x384", LINEAR, {197, 384, 384, 0, 0}, 58097664.0, 116195328.0},
    {"gemm_197x384x1536", LINEAR, {197, 384, 1536, 0, 0}, 232390656.0, 464781312.0},
    {"gemm_197x1536x384", LINEAR, {197, 1536, 384, 0, 0}, 232390656.0, 464781312.0},
    {"gemm_1576x384x1152", LINEAR, {1576, 384, 1152, 0, 0}, 1394343936.0, 2788687872.0},
    {"gemm_2048x2048x2048", LINEAR, {2048, 2048, 2048, 0, 0}, 17179869184.0, 34359738368.0},
    /* B, L, H, N, causal */
    {"attn_8x197x6x64_none", ATTENTION, {8, 197, 6, 64, 0}, 476884992.0, 1192212480.0},
    {"attn_1x1024x6x64_none", ATTENTION, {1, 1024, 6, 64, 0}, 1610612736.0, 4026531840.0},
    {"attn_1x4096x6x64_causal", ATTENTION, {1, 4096, 6, 64, 1}, 12888047616.0, 32220119040.0},
    {"attn_1x16384x2x64_causal", ATTENTION, {1, 16384, 2, 64, 1}, 68723671040.0, 171809177600.0},
    /* B, L, H, N, shifted; a grid of 16 x 16 x 16, windows of 16 x 4 x 4, the shift 8 x 2 x 2 */
    {"attn3d_16x16x16_w16x4x4_noshift", WINDOWS, {1, 4096, 4, 64, 0}, 1073741824.0, 2684354560.0},
    {"attn3d_16x16x16_w16x4x4_shift", WINDOWS, {1, 4096, 4, 64, 1}, 411041792.0, 1027604480.0},
    /* B, L, H, N, causal */
    {"linattn_8x197x6x64_full", LINEAR_ATTENTION, {8, 197, 6, 64, 0}, 154927104.0, 309854208.0},
    {"linattn_1x4096x6x64_causal", LINEAR_ATTENTION, {1, 4096, 6, 64, 1}, 402653184.0, 805306368.0},
    {"linattn_1x65536x2x64_causal", LINEAR_ATTENTION, {1, 65536, 2, 64, 1}, 2147483648.0,
     4294967296.0},
    /* B, L, H, P, N; one group */
    {"ssd_8x198x16_P64_N64", SSD, {8, 198, 16, 64, 64}, 415236096.0, 830472192.0},
    {"ssd_1x4096x16_P64_N64", SSD, {1, 4096, 16, 64, 64}, 1073741824.0, 2147483648.0},
    {"ssd_1x4096x24_P64_N128", SSD, {1, 4096, 24, 64, 128}, 3221225472.0, 6442450944.0},
    {"ssd_1x65536x8_P64_N64", SSD, {1, 65536, 8, 64, 64}, 8589934592.0, 17179869184.0},
    /* the same, one token with a state */
    {"ssdstep_1x24_P64_N128", STEP, {1, 1, 24, 64, 128}, 786432.0, 0},
    {"ssdstep_16x24_P64_N128", STEP, {16, 1, 24, 64, 128}, 12582912.0, 0},
    /* B, L, D, N, and one token with a state */
    {"selective_8x197x768_N16", SELECTIVE, {8, 197, 768, 16, 0}, 77463552.0, 154927104.0},
    {"selective_1x4096x1536_N16", SELECTIVE, {1, 4096, 1536, 16, 0}, 402653184.0, 805306368.0},
    {"selectivestep_1x1536_N16", SELECTIVE_STEP, {1, 1, 1536, 16, 0}, 98304.0, 0},
    /* B, L, D, W */
    {"conv1d_silu_8x198x1152_w4", CONV, {8, 198, 1152, 4, 0}, 23721984.0, 45619200.0},
    /* B, L, D */
    {"gated_rmsnorm_8x198x1024", GATED_NORM, {8, 198, 1024, 0, 0}, 16220160.0, 32440320.0},
    /* rows, width */
    {"layernorm_1576x384", LAYER_NORM, {1576, 384, 0, 0, 0}, 4841472.0, 7262208.0},
    {"gelu_1576x1536", GELU, {1576, 1536, 0, 0, 0}, 36311040.0, 48414720.0},
    {"softmax_9456x197", SOFTMAX, {9456, 197, 0, 0, 0}, 18628320.0, 7451328.0},
    {"xent_64x65536", CROSS_ENTROPY, {64, 65536, 0, 0, 0}, 41943040.0, 46137344.0},
    {"xent_soft_64x65536", SOFT_CROSS_ENTROPY, {64, 65536, 0, 0, 0}, 50331648.0, 46137344.0},
    /* B, mixer, dim, depth, heads; 224 x 224 pixels, patches of 16 */
    {"vit_s16_b8", VISION, {8, MMIX_MIXER_SOFTMAX, 384, 12, 6}, 73575972864.0, 0},
    {"vit_s16_b1", VISION, {1, MMIX_MIXER_SOFTMAX, 384, 12, 6}, 9196996608.0, 0},
    {"linearvit_s16_b8", VISION, {8, MMIX_MIXER_LINEAR, 384, 12, 6}, 69712478208.0, 0},
    {"dinovim_s16_b4", VISION, {4, MMIX_MIXER_SSD, 512, 24, 1}, 73179070464.0, 0},
    {"dinovim_t16_b1", VISION, {1, MMIX_MIXER_SSD, 256, 24, 1}, 5390794752.0, 0},
    {"dinovim_t16_b8", VISION, {8, MMIX_MIXER_SSD, 256, 24, 1}, 43126358016.0, 0},
    /* B, pixels: DINOv2's ViT-S/14 as mmix_vision_load gives it, not packed; its 37 x 37
       positions are brought to the picture's grid */
    {"dinov2_s14_224_b1", DINOV2, {1, 224, 0, 0, 0}, 12247123968.0, 0},
    {"dinov2_s14_224_b8", DINOV2, {8, 224, 0, 0, 0}, 97976991744.0, 0},
    {"dinov2_s14_518_b1", DINOV2, {1, 518, 0, 0, 0}, 93393478656.0, 0},
    {"dinov2_s14_518_b8", DINOV2, {8, 518, 0, 0, 0}, 747147829248.0, 0},
    /* mixer, dim, heads, depth, pictures; patches of 8, 2 crops of 64 x 64 and 4 of 32 x 32 of
       each picture */
    {"dino_train_vit_tiny", DINO, {MMIX_MIXER_SOFTMAX, 192, 3, 6, 32}, 138027008000.0, 0},
    {"dino_train_vim_tiny", DINO, {MMIX_MIXER_SSD, 128, 1, 6, 32}, 60460367872.0, 0},
    /* L, text before and after, T, Y, X of the span between: one layer of width 512, 8 heads,
       ffn 1408; windows of 14 x 4 x 4 */
    {"mmate_prefill_4096", MMATE, {4096, 256, 14, 16, 16}, 36540776448.0, 0},
    {"decoder_attn_prefill_4096", DECODER, {4096, 0, 0, 0, 0}, 43490738176.0, 0},
    {"mmate_prefill_16384", MMATE, {16384, 1024, 56, 16, 16}, 146163105792.0, 0},
    {"decoder_attn_prefill_16384", DECODER, {16384, 0, 0, 0, 0}, 380121382912.0, 0},
    {"mmate_prefill_65536", MMATE, {65536, 4096, 56, 32, 32}, 584652423168.0, 0},
    {"decoder_attn_prefill_65536", DECODER, {65536, 0, 0, 0, 0}, 4819020414976.0, 0},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Axes of each op's output and inputs: letters are the case's sizes, a the first; I, G, L pixels
   of a picture, a global and a local crop; T twice and F four times e; W the width of a decoder
   layer. */
enum { WIDTH = 512, HEADS = 8, FFN = 1408 };
static const char *const axes_of[][6] = {
    {"ac", "ab", "cb", "c"},                     /* LINEAR: y, x, weight, bias */
    {"abcd", "abcd", "abcd", "abcd"},            /* ATTENTION: y, q, k, v */
    {"abcd", "abcd", "abcd", "abcd"},            /* WINDOWS: y, q, k, v */
    {"abcd", "abcd", "abcd", "abcd"},            /* LINEAR_ATTENTION: y, q, k, v */
    {"abcd", "abcd", "abc", "c", "ab1e", "ab1e"},        /* SSD: y, x, dt, A, B, C */
    {"abcd", "abcd", "abc", "c", "ab1e", "ab1e"},        /* STEP: as SSD */
    {"abc1", "abc1", "abc", "cd", "ab1d", "ab1d"},       /* SELECTIVE: y, x, dt, A, B, C */
    {"abc1", "abc1", "abc", "cd", "ab1d", "ab1d"},       /* SELECTIVE_STEP: as SELECTIVE */
    {"abc", "abc", "c1d", "c"},                  /* CONV: y, x, weight, bias */
    {"abc", "abc", "abc", "c"},                  /* GATED_NORM: y, x, z, weight */
    {"ab", "ab", "b", "b"},                      /* LAYER_NORM: y, x, weight, bias */
    {"ab", "ab"}, {"ab", "ab"}, {"", "ab"},      /* GELU, SOFTMAX, CROSS_ENTROPY: y, x */
    {"", "ab", "ab"},                            /* SOFT_CROSS_ENTROPY: y, x, target */
    {"", "a3II"}, {"", "a3bb"},                  /* VISION, DINOV2: pictures */
    {"", "T3GG", "F3LL"},                        /* DINO: global crops, local ones */
    {"", "1aW"}, {"", "1aW"}                     /* MMATE, DECODER: tokens */
};

/* ---- what a case does -------------------------------------------------------------- */

enum { TABLE = 65521 };  /* a prime, so that no two rows of a tensor are alike */

typedef struct run {
    mmix_ctx *m;
    const bench_case *c;
    int back;
    mmix_params *in, *upstream;  /* inputs; the gradient that the backward starts from */
    mmix_tensor *target, *y;
    mmix_vision *vision;
    mmix_dino *dino;
    mmix_mix_state *state;
    mmix_params *layer;                          /* of a decoder */
    mmix_mmate_layer mmate;
    mmix_swiglu_layer ffn;
    mmix_tensor *norm[2];
    /* normal numbers; drawing each input's own would take longer than the case */
    mmix_real table[TABLE];
} run;

static mmix_tensor *in(const run *r, size_t i) { return r->in->at[i].tensor; }

static void fill(run *r, mmix_tensor *t, double deviation, size_t stream)
{
    mmix_real *x = mmix_data(t);
    for (size_t i = 0, n = mmix_count(t); x && i < n; i++)
        x[i] = (mmix_real)deviation * r->table[(i + 7919 * stream) % TABLE];
}

/* What a letter of a case's shape stands for: one of the case's sizes, a fixed one, or a digit. */
static size_t axis_size(const bench_case *c, char axis)
{
    if (axis >= 'a') return c->size[axis - 'a'];
    switch (axis) {
    case 'I': return 224;
    case 'G': return 64;
    case 'L': return 32;
    case 'W': return WIDTH;
    case 'T': return 2 * c->size[4];
    case 'F': return 4 * c->size[4];
    default:  return (size_t)(axis - '0');
    }
}

/* Adds a tensor to a list. */
static void declare(mmix_params *p, const bench_case *c, const char *axes)
{
    char name[2] = {(char)('0' + p->count), 0};
    size_t shape[MMIX_MAX_DIMS];
    int n = 0;
    for (const char *a = axes; *a; a++) shape[n++] = axis_size(c, *a);
    mmix_params_add(p, "", name, n, shape, MMIX_INIT_CONSTANT, 0, 0);
}

static mmix_vision_config vision_config(int mixer, size_t dim, size_t depth, size_t heads,
                                        size_t patch, size_t pixels)
{
    mmix_vision_config c = mixer == MMIX_MIXER_SSD ? mmix_vision_config_dinovim(256) :
        mmix_vision_config_vit(384, patch);
    c.mixer = mixer;
    c.dim = dim;
    c.depth = depth;
    c.heads = heads;
    c.patch = patch;
    c.grid = pixels / patch;
    c.drop_path = 0;
    return c;
}

static mmix_dino *dino_create(run *r, int mixer, size_t dim, size_t heads, size_t depth,
                              size_t batch)
{
    mmix_dino_config c = mmix_dino_config_default();
    c.vision = vision_config(mixer, dim, depth, heads, 8, 64);
    c.prototypes = 4096;
    c.batch = batch;
    c.epochs = 1;
    c.iters = 1000000;
    c.warmup_epochs = c.freeze_last_layer = 0;
    c.lr = 1e-4 * 256 / (double)batch;
    return mmix_dino_create(r->m, c);
}

static void layer_create(run *r)
{
    const size_t width = WIDTH;
    mmix_mmate_options o = {0};
    r->layer = mmix_params_create(r->m);
    if (!r->layer) return;
    o.window[0] = 14;
    o.window[1] = o.window[2] = 4;
    o.shared_directions = 1;                     /* as beside it */
    r->norm[0] = mmix_params_add(r->layer, "", "norm1", 1, &width, MMIX_INIT_CONSTANT, 1, 0);
    r->norm[1] = mmix_params_add(r->layer, "", "norm2", 1, &width, MMIX_INIT_CONSTANT, 1, 0);
    if (r->c->op != MMATE) o.branches = MMIX_BRANCH_ATTENTION;
    mmix_mmate_init(&r->mmate, r->layer, "", WIDTH, HEADS, HEADS, WIDTH / HEADS, 2, 0, &o);
    mmix_swiglu_init(&r->ffn, r->layer, "", WIDTH, FFN);
    mmix_params_allocate(r->layer);
    mmix_params_pack(r->layer, 1);
}

/* x += mixer(norm x); x += SwiGLU(norm x) */
static mmix_tensor *decoder_layer(run *r)
{
    mmix_ctx *m = r->m;
    const size_t *s = r->c->size;
    mmix_span span = {0, {0, 0, 0}, 0, 0};
    mmix_layout layout = {0};
    mmix_tensor *x = in(r, 0);
    mmix_tensor *u = mmix_rms_norm(m, x, r->norm[0], 1e-6);
    span.start = s[1];
    for (int a = 0; a < 3; a++) span.grid[a] = s[2 + a];
    layout.spans = &span;
    layout.n_spans = 1;
    x = mmix_mmate_forward(m, &r->mmate, u, x, r->c->op == MMATE ? &layout : NULL);
    return mmix_swiglu_forward(m, &r->ffn, mmix_rms_norm(m, x, r->norm[1], 1e-6), x, NULL);
}

static mmix_tensor *forward(run *r)
{
    mmix_ctx *m = r->m;
    const size_t *s = r->c->size;
    mmix_mixer mixer;
    mmix_causal_conv1d_options conv;
    switch (r->c->op) {
    case LINEAR: return mmix_linear(m, in(r, 0), in(r, 1), in(r, 2));
    case ATTENTION:
    case LINEAR_ATTENTION:
        mixer = mmix_mixer_softmax(in(r, 0), in(r, 1), in(r, 2));
        if (r->c->op == LINEAR_ATTENTION) mixer = mmix_mixer_linear(in(r, 0), in(r, 1), in(r, 2));
        mixer.mask = s[4] ? MMIX_MASK_CAUSAL : MMIX_MASK_NONE;
        mixer.feature = MMIX_FEATURE_SOFTMAX_BOTH;
        return mmix_mix(m, &mixer);
    case WINDOWS:
        mixer = mmix_mixer_softmax(in(r, 0), in(r, 1), in(r, 2));
        for (int a = 0; a < 3; a++) {
            mixer.grid[a] = 16;
            mixer.window[a] = a ? 4 : 16;
            mixer.shift[a] = s[4] * mixer.window[a] / 2;
        }
        return mmix_mix(m, &mixer);
    case SSD:
    case STEP:
        mixer = mmix_mixer_ssd(in(r, 0), in(r, 1), in(r, 2), in(r, 3), in(r, 4));
        return r->c->op == SSD ? mmix_mix(m, &mixer) : mmix_mix_step(m, &mixer, r->state, 0);
    case SELECTIVE:
    case SELECTIVE_STEP:
        mixer = mmix_mixer_selective(in(r, 0), in(r, 1), in(r, 2), in(r, 3), in(r, 4));
        return r->c->op == SELECTIVE ? mmix_mix(m, &mixer) : mmix_mix_step(m, &mixer, r->state, 0);
    case CONV:
        memset(&conv, 0, sizeof conv);
        conv.silu = 1;
        return mmix_causal_conv1d(m, in(r, 0), in(r, 1), in(r, 2), &conv);
    case GATED_NORM: return mmix_gated_rms_norm(m, in(r, 0), in(r, 1), in(r, 2), 1e-5, 1);
    case LAYER_NORM: return mmix_layer_norm(m, in(r, 0), in(r, 1), in(r, 2), 1e-6);
    case GELU: return mmix_gelu(m, in(r, 0));
    case SOFTMAX: return mmix_softmax(m, in(r, 0), -1);
    case CROSS_ENTROPY: return mmix_cross_entropy(m, in(r, 0), r->target, -1);
    case SOFT_CROSS_ENTROPY: return mmix_cross_entropy(m, in(r, 0), in(r, 1), -1);
    case MMATE:
    case DECODER: return decoder_layer(r);
    default: return mmix_vision_forward(m, r->vision, in(r, 0), NULL).token;
    }
}

/* What comes before the clock starts. */
static void prepare(run *r)
{
    if (r->c->op == CROSS_ENTROPY) {
        int32_t class_of[64];
        for (size_t i = 0; i < 64; i++) class_of[i] = (int32_t)(i * 40503 % r->c->size[1]);
        r->target = mmix_from_i32(r->m, 1, r->c->size, class_of);
    }
    if (r->back) {
        mmix_params_zero_grad(r->in);
        r->y = forward(r);
    }
}

static void work(run *r)
{
    if (r->c->op == DINO) mmix_dino_step_crops(r->dino, in(r, 0), in(r, 1), NULL);
    else if (!r->back) forward(r);
    else if (!r->upstream->count) mmix_backward(r->m, r->y);
    else mmix_backward_from(r->m, &r->y, &r->upstream->at[0].tensor, 1);
    mmix_reset(r->m);
}

/* Lane i of a context's threads stays on the i-th core that the process may use: some systems
   put two threads of a new process on one core and leave them there for seconds. */
static void pin(void *user, int lane)
{
#if defined(__linux__)
    static cpu_set_t all;
    cpu_set_t one;
    int cores = CPU_COUNT(&all);
    int core = 0;
    (void)user;
    if (!cores && sched_getaffinity(0, sizeof all, &all)) return;  /* the first call is main's */
    cores = CPU_COUNT(&all);
    for (int left = lane % cores; left || !CPU_ISSET((size_t)core, &all); core++)
        left -= CPU_ISSET((size_t)core, &all) != 0;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    sched_setaffinity(0, sizeof one, &one);
#else
    (void)user;
    (void)lane;
#endif
}

/* Context, inputs, models; 0, or -1 with a message in the context (NULL: there is none). */
static int run_create(run *r, const bench_case *c, int back, const mmix_options *options)
{
    const size_t *s = c->size;
    const char *const *axes = axes_of[c->op];
    memset(r, 0, sizeof *r);
    r->c = c;
    r->back = back;
    r->m = mmix_create(options);
    if (!r->m) return -1;
    for (size_t i = 0; i < TABLE; i++) r->table[i] = (mmix_real)mmix_random_normal(r->m, 0, 0, i);
    r->in = mmix_params_create(r->m);
    r->upstream = mmix_params_create(r->m);
    if (!r->in || !r->upstream) return -1;
    for (size_t i = 1; i < 6 && axes[i]; i++) declare(r->in, c, axes[i]);
    if (back && *axes[0]) declare(r->upstream, c, axes[0]);
    if (mmix_params_allocate(r->in) || mmix_params_allocate(r->upstream)) return -1;
    if (r->upstream->count) fill(r, r->upstream->at[0].tensor, 1, 9);
    for (size_t i = 0; i < r->in->count; i++) fill(r, in(r, i), 1, i);
    if (c->op == LINEAR) fill(r, in(r, 1), 1 / sqrt((double)s[1]), 1);
    if (c->op == CONV) fill(r, in(r, 1), 0.5, 1);
    if (c->op == STEP || c->op == SELECTIVE_STEP) r->state = mmix_mix_state_create(r->m, 1);
    if (c->op >= SSD && c->op <= SELECTIVE_STEP) {
        /* log-uniform in [0.001, 0.1); uniform in (-16, -1] */
        mmix_real *dt = mmix_data(in(r, 1));
        mmix_real *A = mmix_data(in(r, 2));
        for (size_t i = 0; i < mmix_count(in(r, 1)); i++)
            dt[i] = (mmix_real)(1e-3 * pow(100, mmix_random_uniform(r->m, 1, 0, i)));
        for (size_t i = 0; i < mmix_count(in(r, 2)); i++)
            A[i] = (mmix_real)(-1 - 15 * mmix_random_uniform(r->m, 1, 1, i));
        fill(r, in(r, 3), 1 / sqrt((double)s[c->op < SELECTIVE ? 4 : 3]), 3);
    }
    if (c->op == SOFT_CROSS_ENTROPY) {
        const mmix_tensor *p = mmix_softmax(r->m, in(r, 1), -1);
        if (p) memcpy(mmix_data(in(r, 1)), mmix_data(p), mmix_count(p) * sizeof(mmix_real));
        r->in->at[1].frozen = 1;
        mmix_reset(r->m);
    }
    if (c->op == VISION) r->vision = mmix_vision_create(r->m, vision_config((int)s[1], s[2], s[3],
            s[4], 16, 224));
    if (c->op == DINOV2) r->vision = mmix_vision_create(r->m, mmix_vision_config_dinov2(384, 0));
    if (c->op == DINO) r->dino = dino_create(r, (int)s[0], s[1], s[2], s[3], s[4]);
    if (c->op == MMATE || c->op == DECODER) layer_create(r);
    if (back) mmix_params_require_grad(r->in, 1);
    else if (c->op != DINO && c->op != DINOV2)
        mmix_params_pack(r->vision ? mmix_vision_params(r->vision) : r->in, 1);
    mmix_record(r->m, back);
    return mmix_error(r->m) ? -1 : 0;
}

static void run_destroy(run *r)
{
    mmix_dino_destroy(r->dino);
    mmix_vision_destroy(r->vision);
    mmix_mix_state_destroy(r->state);
    mmix_params_destroy(r->layer);
    mmix_params_destroy(r->upstream);
    mmix_params_destroy(r->in);
    mmix_destroy(r->m);
}

/* ---- time -------------------------------------------------------------------------- */

static double now(void)
{
#if defined(_WIN32)
    LARGE_INTEGER t, f;
    QueryPerformanceCounter(&t);
    QueryPerformanceFrequency(&f);
    return (double)t.QuadPart / (double)f.QuadPart;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
}

/* The process's page faults so far, and its largest resident set in MiB; 0 where that is not
   known. */
static double faults(void)
{
#if defined(_WIN32)
    return 0;
#else
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_minflt;
#endif
}
static double resident(void)
{
#if defined(_WIN32)
    return 0;
#else
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
#if defined(__APPLE__)
    return (double)u.ru_maxrss / 1048576;
#else
    return (double)u.ru_maxrss / 1024;
#endif
#endif
}

/* Seconds of one repetition; a short forward pass is run `inner` times for one look at the
   clock. */
static double once(run *r, size_t inner)
{
    double t;
    if (r->back) prepare(r);
    t = now();
    for (size_t i = 0; i < inner; i++) {
        if (!r->back) prepare(r);
        work(r);
    }
    return (now() - t) / (double)inner;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

enum { REPS = 20000 };
typedef struct result {
    double ms, ms_min, faults;
    size_t reps, allocations;
} result;

/* Warm-up, then repetitions for `seconds`, at least 3 unless they take five times as long.
   seconds 0: two runs and no warm-up. */
static result measure(run *r, double seconds)
{
    static double time_of[REPS];
    double start = now();
    double t = 0;
    double before, faulted;
    size_t inner = 1;
    size_t allocations = mmix_memory(r->m).allocations;
    result out;
    memset(&out, 0, sizeof out);
    if (seconds > 0) {
        t = once(r, 1);
        for (int i = 0; i < 6 && now() - start < 5 * seconds && !mmix_error(r->m); i++) {
            before = t;  /* until it gets no faster: the arena grows, pages are touched */
            t = once(r, 1);
            if (i && t > 0.8 * before) break;
        }
        if (!r->back && t < 1e-4) inner = (size_t)(2e-4 / t);
        allocations = mmix_memory(r->m).allocations;
    }
    memset(time_of, 0, sizeof time_of);          /* its pages too */
    faulted = faults();
    for (start = now(); out.reps < REPS && !mmix_error(r->m);) {
        double elapsed = now() - start;
        double patience = out.reps < 3 ? 5 * seconds : seconds;
        if (seconds > 0 && out.reps && elapsed > patience) break;
        if (!(seconds > 0) && out.reps == 2) break;
        time_of[out.reps++] = once(r, inner);
    }
    if (!out.reps) return out;
    out.faults = floor((faults() - faulted) / (double)out.reps);
    qsort(time_of, out.reps, sizeof *time_of, by_size);
    out.ms = 500 * (time_of[out.reps / 2] + time_of[(out.reps - 1) / 2]);
    out.ms_min = 1000 * time_of[0];
    out.allocations = seconds > 0 ? mmix_memory(r->m).allocations - allocations : 0;
    return out;
}

/* ---- report ------------------------------------------------------------------------ */

typedef struct settings {
    mmix_options options;
    double seconds, peak_gflops;                 /* of the machine, for --table */
    int table, peak;
} settings;

/* What the machine's multipliers give, in GFLOP/s: the best of some products that stay in the
   cache. */
static double machine_peak(const settings *s)
{
    static const size_t side[] = {384, 512, 768};
    static run r;
    double best = 0;
    for (size_t i = 0; i < 3; i++) {
        bench_case c = {"peak", LINEAR, {0, 0, 0, 0, 0}, 0, 0};
        c.size[0] = c.size[1] = c.size[2] = side[i];
        if (!run_create(&r, &c, 0, &s->options)) {
            double gflops = 2 * pow((double)side[i], 3) / (1e6 * measure(&r, 0.5).ms_min);
            if (gflops > best) best = gflops;
        }
        run_destroy(&r);
    }
    return best;
}

/* The exponentials that a selective scan cannot do without, one for each number of each state; its
   backward makes them again. */
static double exps_of(const bench_case *c)
{
    const size_t *s = c->size;
    int scans = c->op == SELECTIVE || c->op == SELECTIVE_STEP;
    return scans ? (double)(s[0] * s[1] * s[2] * s[3]) : 0;
}

static void case_name(char *name, size_t size, const bench_case *c, int back)
{
    const char *way = back ? ".bwd" : ".fwd";
    snprintf(name, size, "%s%s", c->name, c->flop_back <= 0 ? "" : way);
}

/* One case from its first allocation to its line; 0, or 1 if it failed. */
static int report(const bench_case *c, int back, const settings *s)
{
    static run r;
    char name[64];
    double idle = resident();
    double flop = back ? c->flop_back : c->flop;
    int failed = run_create(&r, c, back, &s->options);
    case_name(name, sizeof name, c, back);
    if (!failed) {
        result t = measure(&r, s->peak ? 0 : s->seconds);
        const char *simd = mmix_simd_name(r.m);
        failed = mmix_error(r.m) != NULL;
        if (!failed && s->table) {
            printf("%-30s %10.4g %10.4g %6d %9.1f ", name, t.ms, t.ms_min, (int)t.reps,
                   flop / t.ms_min / 1e6);
            if (s->peak) printf("%7.0f", resident() - idle);
            else printf("%5.0f %%", 100 * flop / t.ms_min / 1e6 / s->peak_gflops);
            if (!s->peak && exps_of(c) > 0)
                printf("   %.3f ns an exponential", 1e6 * t.ms_min / exps_of(c));
            if (t.allocations) printf("   %d allocations", (int)t.allocations);
            puts("");
        }
        else if (!failed) {
            printf("{\"case\": \"%s\", \"impl\": \"mamba_mix\", \"threads\": %d, \"simd\": \"%s\"",
                   name, mmix_threads(r.m), simd);
            printf(", \"ms\": %.5f, \"ms_min\": %.5f, \"reps\": %d, \"gflops\": %.2f", t.ms,
                   t.ms_min, (int)t.reps, flop / t.ms / 1e6);
            if (s->peak) printf(", \"peak_mb\": %.1f, \"idle_mb\": %.1f", resident() - idle, idle);
            if (t.allocations) printf(", \"allocs\": %d", (int)t.allocations);
            if (s->seconds > 0 && !s->peak && t.faults > 0) printf(", \"faults\": %.0f", t.faults);
            printf("}\n");
        }
        fflush(stdout);
    }
    if (failed) fprintf(stderr, "bench: %s: %s\n", name, mmix_error(r.m));
    run_destroy(&r);
    return failed != 0;
}

/* The same in a process of its own, whose peak of memory is then the case's. */
static int report_alone(const bench_case *c, int back, const settings *s)
{
#if defined(_WIN32)
    return report(c, back, s);
#else
    int status = 1;
    pid_t child = fork();
    if (child == 0) _exit(report(c, back, s));
    if (child < 0 || waitpid(child, &status, 0) != child || status) return 1;
    return 0;
#endif
}

/* ---- save -------------------------------------------------------------------------- */

enum { ENTRIES = 1000 };

/* What is to be written. The numbers are copies in step memory, since a training step changes the
   weights. */
typedef struct saved {
    mmix_entry entry[ENTRIES];
    char name[ENTRIES][128];
    size_t count;
} saved;

static void put(mmix_ctx *m, saved *out, const char *kind, const char *name, const mmix_tensor *t)
{
    size_t shape[MMIX_MAX_DIMS];
    if (!t || out->count == ENTRIES) return;
    for (int i = 0; i < mmix_ndim(t); i++) shape[i] = mmix_shape(t, i);
    mmix_tensor *copy = mmix_new(m, MMIX_DTYPE_REAL, mmix_ndim(t), shape);
    if (!copy || mmix_read(t, mmix_data(copy))) return;
    mmix_entry *e = &out->entry[out->count];
    snprintf(out->name[out->count], sizeof out->name[0], "%s.%s", kind, name);
    e->name = out->name[out->count++];
    e->dtype = MMIX_FILE_REAL;
    e->ndim = mmix_ndim(t);
    memcpy(e->shape, shape, sizeof shape);
    e->data = mmix_data(copy);
}

static void put_params(mmix_ctx *m, saved *out, const char *kind, const mmix_params *p)
{
    for (size_t i = 0; p && i < p->count; i++) put(m, out, kind, p->at[i].name, p->at[i].tensor);
}

/* The classes of a cross-entropy, which are integers. */
static void put_classes(saved *out, const mmix_tensor *target)
{
    mmix_entry *e = &out->entry[out->count++];
    e->name = "in.classes";
    e->dtype = MMIX_FILE_I32;
    e->ndim = 1;
    e->shape[0] = mmix_count(target);
    e->data = mmix_data_i32(target);
}

/* The outputs of one run, the first of its context: of a training step its loss and the norm of
   its gradients, else the result or the gradients of what has one. */
static void put_results(run *r, saved *out)
{
    mmix_ctx *m = r->m;
    if (r->c->op == DINO) {
        mmix_dino_stats stats;
        memset(&stats, 0, sizeof stats);
        mmix_dino_step_crops(r->dino, in(r, 0), in(r, 1), &stats);
        put(m, out, "out", "loss", mmix_fill(mmix_new1(m, 1), stats.loss));
        put(m, out, "out", "gradient_norm", mmix_fill(mmix_new1(m, 1), stats.gradient_norm));
        return;
    }
    prepare(r);
    if (r->target) put_classes(out, r->target);
    if (!r->back) {
        put(m, out, "out", "y", forward(r));
        return;
    }
    put(m, out, "out", "y", r->y);
    if (!r->upstream->count) mmix_backward(m, r->y);
    else mmix_backward_from(m, &r->y, &r->upstream->at[0].tensor, 1);
    for (size_t i = 0; i < r->in->count; i++)
        if (!r->in->at[i].frozen) put(m, out, "grad", r->in->at[i].name, mmix_grad(in(r, i)));
}

/* Writes a case's inputs, weights and outputs as .safetensors; 0, or 1 if it failed. */
static int save_case(const bench_case *c, int back, const settings *s, const char *path)
{
    static run r;
    static saved out;
    int failed = run_create(&r, c, back, &s->options);
    memset(&out, 0, sizeof out);
    if (!failed) {
        put_params(r.m, &out, "in", r.in);
        put_params(r.m, &out, "upstream", r.upstream);
        put_params(r.m, &out, "weight", r.layer);
        if (r.vision) put_params(r.m, &out, "weight", mmix_vision_params(r.vision));
        if (r.dino) {
            put_params(r.m, &out, "weight", mmix_vision_params(mmix_dino_backbone(r.dino, 0)));
            put_params(r.m, &out, "head", mmix_dino_head_params(r.dino, 0));
        }
        put_results(&r, &out);
        failed = mmix_error(r.m) || mmix_archive_save(r.m, path, out.entry, out.count, NULL);
    }
    if (failed) fprintf(stderr, "bench: %s: %s\n", c->name, mmix_error(r.m));
    run_destroy(&r);
    return failed != 0;
}

/* ---- plots ------------------------------------------------------------------------- */

/* softmax, linear, SSD; all else */
static const char *const pen[] = {"#2f6fd0", "#c8602a", "#2d8f5a", "#6b7684"};

static void svg_open(FILE *f, int height)
{
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 690 %d\" font-size=\"14\" "
            "font-family=\"sans-serif\" fill=\"#1d2329\" stroke-width=\"2\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", height);
}

static void svg_text(FILE *f, double x, double y, const char *anchor, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (const char *c = text; *c; c++)
        if (*c == '&') fputs("&amp;", f);
        else if (*c == '<') fputs("&lt;", f);
        else fputc(*c, f);
    fputs("</text>\n", f);
}

/* Milliseconds of the fastest repetition, also said on stderr; 0 with a message if it failed. */
static double time_of(const bench_case *c, int back, const settings *s, int threads)
{
    static run r;
    mmix_options options = s->options;
    double ms = 0;
    char name[96];
    options.threads = threads;
    case_name(name, sizeof name, c, back);
    if (!run_create(&r, c, back, &options)) ms = measure(&r, s->seconds).ms_min;
    if (mmix_error(r.m)) ms = 0;
    if (ms > 0) fprintf(stderr, "%-44s threads %-2d %10.4g ms\n", name, threads, ms);
    else fprintf(stderr, "bench: %s: %s\n", name, mmix_error(r.m));
    run_destroy(&r);
    return ms;
}

enum { POINTS = 9, CURVES = 6 };

/* Curve k is name[k % 3] in pen[k % 3], forward for k < 3, then backward. y 0: not measured. */
typedef struct panel {
    const char *up, *across;                     /* what the axes are */
    const char *const *name;
    size_t curves, points;
    double x[POINTS], y[CURVES][POINTS];
} panel;

static void print_panel(const panel *p)
{
    printf("%s\n%-33s", p->up, p->across);
    for (size_t i = 0; i < p->points; i++) printf(" %9.0f", p->x[i]);
    for (size_t k = 0; k < p->curves; k++) {
        printf("\n%-24s%-9s", p->name[k % 3], k < 3 ? "" : "backward");
        for (size_t i = 0; i < p->points; i++)
            if (p->y[k][i] > 0) printf(" %9.*f", p->y[k][i] < 100 ? 2 : 0, p->y[k][i]);
    }
    puts("\n");
    fflush(stdout);
}

/* … 0.5, 1, 2, 5, 10, 20 …; tick 0 is 1. */
static double tick(int i)
{
    static const double first[] = {1, 2, 5};
    int decade = (i + 300) / 3 - 100;
    return first[i - 3 * decade] * pow(10, decade);
}

/* n panels side by side, all axes logarithmic, with one scale upwards. */
static void draw_panels(FILE *f, const panel *p, size_t n, const char *setting, const char *machine)
{
    enum { LEFT = 74, RIGHT = 676, GAP = 60, TOP = 74, BOTTOM = 354, INSET = 16 };
    static const char dashed[] = " stroke-dasharray=\"5 4\"";
    double low = p->y[0][0];
    double high = low;
    double width = (double)(RIGHT - LEFT - GAP * ((int)n - 1)) / (double)n;
    double x = LEFT;
    double unit;
    int from = -30, to;
    for (size_t j = 0; j < n; j++)
        for (size_t k = 0; k < p[j].curves; k++)
            for (size_t i = 0; i < p[j].points; i++)
                if (p[j].y[k][i] > 0) {
                    low = fmin(low, p[j].y[k][i]);
                    high = fmax(high, p[j].y[k][i]);
                }
    while (tick(from + 1) <= low) from++;
    for (to = from + 1; tick(to) < high;) to++;
    unit = (BOTTOM - TOP) / log10(tick(to) / tick(from));
    svg_open(f, BOTTOM + 94);
    for (size_t k = 0; k < (p->curves > 3 ? 5 : 3); k++) {
        const char *name = k == 3 ? "forward" : "backward";
        const char *line = k < 4 ? "" : dashed;
        const char *stroke = pen[k < 3 ? k : 3];
        if (k < 3) name = p->name[k];
        fprintf(f, "<path d=\"M%.1f 20h24\" stroke=\"%s\"%s/>\n", x, stroke, line);
        svg_text(f, x + 30, 25, "start", "%s", name);
        x += 48 + 7.2 * (double)strlen(name);    /* about a letter's width */
    }
    for (size_t j = 0; j < n; j++, p++) {
        double left = LEFT + (double)j * (width + GAP), at[POINTS];
        svg_text(f, left, TOP - 14, "start", "%s", p->up);
        for (int t = from; t <= to; t++) {
            double y = BOTTOM - unit * log10(tick(t) / tick(from));
            if (to - from > 9 && t % 3) continue;
            fprintf(f, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#d9dee4\" stroke-width=\"1\"/>\n",
                    left, y, width);
            svg_text(f, left - 8, y + 5, "end", "%g", tick(t));
        }
        for (size_t i = 0; i < p->points; i++) {
            at[i] = left + INSET + (width - 2 * INSET) * log(p->x[i] / p->x[0]) /
                log(p->x[p->points - 1] / p->x[0]);
            svg_text(f, at[i], BOTTOM + 20, "middle", "%.0f", p->x[i]);
        }
        svg_text(f, left + width / 2, BOTTOM + 40, "middle", "%s", p->across);
        for (size_t k = 0; k < p->curves; k++) {
            const char *colour = pen[k % 3];
            fprintf(f, "<path fill=\"none\" stroke=\"%s\"%s d=\"", colour, k < 3 ? "" : dashed);
            for (size_t i = 0; i < p->points && p->y[k][i] > 0; i++)
                fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', at[i],
                        BOTTOM - unit * log10(p->y[k][i] / tick(from)));
            fputs("\"/>\n", f);
            for (size_t i = 0; i < p->points && p->y[k][i] > 0; i++)
                fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" stroke=\"%s\" fill=\"%s\"/>\n",
                        at[i], BOTTOM - unit * log10(p->y[k][i] / tick(from)), colour,
                        k < 3 ? colour : "#fff");
        }
    }
    svg_text(f, LEFT, BOTTOM + 66, "start", "%s", setting);
    svg_text(f, LEFT, BOTTOM + 84, "start", "%s", machine);
    fputs("</svg>\n", f);
}

/* The figures: each measures, prints and draws; 0, or 1 after a message. */

static int plot_tokens(FILE *f, const settings *s, const char *machine)
{
    static const char *const name[] = {"softmax attention", "linear attention", "SSD"};
    static const int op[] = {ATTENTION, LINEAR_ATTENTION, SSD};
    panel p = {"nanoseconds per token", "tokens", name, 6, POINTS, {0}, {{0}}};
    for (size_t i = 0; i < POINTS; i++) p.x[i] = (double)(256 << i);
    for (size_t k = 0; k < 6; k++) {
        double ms = 0;
        /* not where one run takes over 10 s */
        for (size_t i = 0; i < POINTS && ms * (k % 3 ? 2 : 4) < 1e4; i++) {
            char text[64];
            bench_case c = {text, op[k % 3], {1, (size_t)256 << i, 2, 64, k % 3 == 2 ? 64 : 1}, 0,
                            0};
            snprintf(text, sizeof text, "%s, %.0f tokens%s", name[k % 3], p.x[i],
                     k < 3 ? "" : ", backward");
            ms = time_of(&c, k >= 3, s, s->options.threads);
            if (ms <= 0) return 1;
            p.y[k][i] = 1e6 * ms / p.x[i];
        }
    }
    print_panel(&p);
    draw_panels(f, &p, 1, "causal, 2 heads, N = P = 64, one sequence", machine);
    return 0;
}

static int plot_training(FILE *f, const settings *s, const char *machine)
{
    /* the order of MMIX_MIXER_SOFTMAX … */
    static const char *const name[] = {"ViT", "LinearViT", "DinoVim, twice as deep"};
    panel p[2] = {{"milliseconds per picture", "batch, at width 128", name, 3, 5,
                   {4, 8, 16, 32, 64}, {{0}}},
                  {"milliseconds per picture", "width, at batch 16", name, 3, 5,
                   {64, 128, 192, 256, 384}, {{0}}}};
    for (size_t j = 0; j < 2; j++) {
        for (size_t k = 0; k < 3; k++)
            for (size_t i = 0; i < 5; i++) {
                char text[64];
                size_t batch = j ? 16 : (size_t)p[j].x[i];
                size_t width = j ? (size_t)p[j].x[i] : 128;
                bench_case c = {text, DINO, {k, width, width / 64, k == MMIX_MIXER_SSD ? 12 : 6,
                                             batch}, 0, 0};
                snprintf(text, sizeof text, "%s, width %d, batch %d", name[k], (int)width,
                         (int)batch);
                if (j && i == 1) {  /* the same step */
                    p[1].y[k][1] = p[0].y[k][2];
                    continue;
                }
                p[j].y[k][i] = time_of(&c, 0, s, s->options.threads) / (double)batch;
                if (p[j].y[k][i] <= 0) return 1;
            }
        print_panel(&p[j]);
    }
    draw_panels(f, p, 2, "a DINO step: 2 crops of 64 x 64 and 4 of 32 x 32, patches of 8; depth 6 "
                         "and 12", machine);
    return 0;
}

/* Bars of t = 2, 4, … threads and of all, each with a line at t, which is ideal. */
static int plot_threads(FILE *f, const settings *s, const char *machine)
{
    static const struct {
        const char *name;
        int pen;
    } shown[] = {
        {"gemm_1576x384x1152", 3}, {"attn_1x4096x6x64_causal", 0}, {"ssd_1x4096x16_P64_N64", 2},
            {"vit_s16_b8", 0},
        {"dino_train_vim_tiny", 2}};
    /* three of them are two passes */
    enum { LEFT = 246, UNITS = 320, TOP = 16, BAR = 16, GAP = 10, GROUPS = 8 };
    int all = s->options.threads, count[8], n = 0, y = TOP, bottom;
    for (int t = 2; t < all; t *= 2) count[n++] = t;
    count[n++] = all;
    bottom = TOP + GROUPS * (n * BAR + GAP);
    svg_open(f, bottom + 76);
    printf("%-28s %9s", "milliseconds, threads", "1");
    for (int i = 0; i < n; i++) printf(" %9d %9s", count[i], "speed-up");
    puts("");
    for (size_t k = 0; k < sizeof shown / sizeof *shown; k++) {
        const bench_case *c = cases;
        while (strcmp(c->name, shown[k].name)) c++;
        for (int back = 0; back <= (c->flop_back > 0); back++, y += GAP) {
            double one = time_of(c, back, s, 1);
            char name[64];
            if (one <= 0) return 1;
            case_name(name, sizeof name, c, back);
            printf("%-28s %9.2f", name, one);
            svg_text(f, LEFT - 8, y + BAR * n / 2 + 5, "end", "%s", name);
            for (int i = 0; i < n; i++, y += BAR) {
                double ms = time_of(c, back, s, count[i]);
                if (ms <= 0) return 1;
                printf(" %9.2f %9.2f", ms, one / ms);
                fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\" "
                           "opacity=\"%.2f\"/>\n", LEFT, y + 1,
                        UNITS * one / ms / all, BAR - 2, pen[shown[k].pen],
                        0.3 + 0.7 * (i + 1) / n);
                svg_text(f, 676, y + BAR - 3, "end", "%.2f of %d", one / ms, count[i]);
            }
            puts("");
            fflush(stdout);
        }
    }
    for (int i = -1; i < n; i++) {
        int t = i < 0 ? 1 : count[i];
        double x = LEFT + (double)UNITS * t / all;
        fprintf(f, "<path d=\"M%.1f %dV%d\" stroke=\"%s\" stroke-width=\"1\"/>\n", x, TOP - 8,
                bottom, i < 0 ? "#d9dee4" : "#1d2329");
        svg_text(f, x, bottom + 18, "middle", "%d", t);
    }
    svg_text(f, 14, bottom + 46, "start", "times as fast as one thread; dark lines: ideal");
    svg_text(f, 14, bottom + 64, "start", "%s", machine);
    fputs("</svg>\n", f);
    return 0;
}

/* One figure, as a draft that takes its name when it is whole. The exit status: 1 if a case
   failed, 2 if the file can't be written, which is found out before the minutes of measuring. */
static int plot(const char *folder, const char *name,
                int (*draw)(FILE *, const settings *, const char *), const settings *s,
                const char *machine)
{
    char path[1000], draft[1004];
    int failed = 0, whole;
    FILE *f = NULL;
    if (snprintf(path, sizeof path, "%s/%s.svg", folder, name) < (int)sizeof path) {
        snprintf(draft, sizeof draft, "%s.tmp", path);
        f = fopen(draft, "wb");
    }
    if (f) {
        failed = draw(f, s, machine);
        whole = !ferror(f);
        whole = !fclose(f) && whole && !failed;
#if defined(_WIN32)
        if (whole) remove(path);                 /* rename does not replace there */
#endif
        if (whole && !rename(draft, path)) return 0;
        remove(draft);
    }
    if (!failed) fprintf(stderr, "bench: cannot write %s\n", path);
    return failed ? 1 : 2;
}

static int plots(const char *folder, const char *note, settings *s)
{
    char machine[400];
    mmix_ctx *m = mmix_create(&s->options);
    int status;
    if (!m) {
        fprintf(stderr, "bench: %s\n", mmix_error(m));
        return 1;
    }
    s->options.threads = mmix_threads(m);
    const char *plural = mmix_threads(m) > 1 ? "s" : "";
    const char *between = *note ? "; " : "";
    snprintf(machine, sizeof machine, "%d thread%s, %s%s%s", mmix_threads(m), plural,
             mmix_simd_name(m), between, note);
    mmix_destroy(m);
    status = plot(folder, "scaling-tokens", plot_tokens, s, machine);
    if (!status) status = plot(folder, "scaling-training", plot_training, s, machine);
    if (!status && s->options.threads > 1)
        status = plot(folder, "scaling-threads", plot_threads, s, machine);
    return status;
}

/* ---- main -------------------------------------------------------------------------- */

/* Whether the pattern is found in the name: an extended regular expression, on Windows a
   substring. */
static int matches(const char *pattern, const char *name)
{
#if defined(_WIN32)
    char text[128], *p = text;
    for (; *pattern && p < text + sizeof text - 1; pattern++)
        if (!strchr("^$\\", *pattern)) *p++ = *pattern;
    *p = 0;
    return strstr(name, text) != NULL;
#else
    regex_t regex;
    int found;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB)) {
        fprintf(stderr, "bench: --only %s is not a regular expression\n", pattern);
        exit(2);
    }
    found = !regexec(&regex, name, 0, NULL, 0);
    regfree(&regex);
    return found;
#endif
}

/* ---- narrow weights ---------------------------------------------------------------- */

enum { NARROW = 5 };
static const struct {
    int dtype;
    const char *name;
} narrow_type[NARROW] = {{MMIX_DTYPE_REAL, "float"}, {MMIX_DTYPE_BF16, "bf16"},
                         {MMIX_DTYPE_F16, "f16"}, {MMIX_DTYPE_I8, "int8"}, {MMIX_DTYPE_Q4, "q4"}};

/* A model's forward pass with its weights in each type, in turns until `seconds` each are over: the
   least time, and its share of float's. 0, or 1. */
static int report_types(const bench_case *c, const settings *s)
{
    static run of[NARROW];
    double least[NARROW];
    int failed = 0;
    for (int k = 0; k < NARROW; k++) {
        run *r = &of[k];
        failed |= run_create(r, c, 0, &s->options) != 0;
        mmix_params *weights = r->vision ? mmix_vision_params(r->vision) : r->layer;
        if (!failed && k) failed = mmix_params_narrow(weights, narrow_type[k].dtype) != 0;
        if (!failed) once(r, 1);                         /* the arena grows, pages are touched */
        least[k] = INFINITY;
    }
    double start = now();
    for (int turn = 0; !failed && (turn < 3 || now() - start < NARROW * s->seconds); turn++)
        for (int k = 0; k < NARROW; k++) {
            least[k] = fmin(least[k], 1e3 * once(&of[k], 1));
            failed |= mmix_error(of[k].m) != NULL;
        }
    printf("%-28s", c->name);
    for (int k = 0; k < NARROW && !failed; k++) {
        printf(" %9.2f", least[k]);
        if (k) printf(" %5.2f", least[k] / least[0]);
    }
    puts("");
    fflush(stdout);
    for (int k = 0; k < NARROW; k++) {
        if (mmix_error(of[k].m)) fprintf(stderr, "bench: %s: %s\n", c->name, mmix_error(of[k].m));
        run_destroy(&of[k]);
    }
    return failed;
}
static int report_all_types(const char *only, const settings *s)
{
    int failures = 0, known = 0;
    printf("%-28s %9s", "least of turns, ms", narrow_type[0].name);
    for (int k = 1; k < NARROW; k++) printf(" %9s %5s", narrow_type[k].name, "of it");
    puts("");
    for (const bench_case *c = cases; c < cases + CASES; c++) {
        int is_model = c->op == VISION || c->op == DINOV2 || c->op == MMATE || c->op == DECODER;
        if (!is_model || !matches(only, c->name)) continue;
        failures += report_types(c, s);
        known = 1;
    }
    if (!known) fprintf(stderr, "bench: no model matches --only %s\n", only);
    return failures || !known;
}

static void usage(FILE *out)
{
    fputs("bench [--only REGEX] [--list] [--threads N] [--seconds S] [--simd LEVEL] [--peak] "
          "[--table]\n"
          "bench --plots DIR [--note TEXT] [--threads N] [--seconds S] [--simd LEVEL]\n"
          "bench --types [--only REGEX] [--threads N] [--seconds S] [--simd LEVEL]\n"
          "bench --only REGEX --save FILE [--threads N] [--simd LEVEL]\n"
          "  --only REGEX   the cases whose name matches          --list       names only\n"
          "  --threads N    0, the default: all cores             --seconds S  for each case, 1\n"
          "  --simd LEVEL   none, avx2, avx512 or neon            --table      for people, with "
          "the share of the machine's peak\n"
          "  --peak         each case twice in a process of its own: peak_mb, MiB above the idle "
          "process\n"
          "  --types        models with weights of float, bf16, f16, int8 and four bits, in turns\n"
          "  --plots DIR    SVG figures in a folder that is there: scaling-tokens, "
          "scaling-training, and with two threads\n"
          "                 or more scaling-threads; --seconds is 0.3, a few minutes in all\n"
          "  --note TEXT    a line in each figure, such as the processor's name\n"
          "  --save FILE    of one case the inputs, weights and outputs, as .safetensors\n", out);
}

int main(int argc, char **argv)
{
    static const char *const simd[] = {"auto", "none", "avx2", "avx512", "neon"};
    const char *only = "", *folder = NULL, *note = "", *save = NULL;
    int list = 0, types = 0, failures = 0, known = 0;
    settings s;
    memset(&s, 0, sizeof s);
    s.options.thread_start = pin;
    mmix_ctx *free_to_roam = mmix_create(NULL);  /* once this thread is pinned it counts one core */
    s.options.threads = mmix_threads(free_to_roam);
    mmix_destroy(free_to_roam);
    pin(NULL, 0);
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        char *end;
        if (!strcmp(option, "--help")) {
            usage(stdout);
            return 0;
        }
        if (!strcmp(option, "--list")) {
            list = 1;
            continue;
        }
        if (!strcmp(option, "--peak")) {
            s.peak = 1;
            continue;
        }
        if (!strcmp(option, "--types")) {
            types = 1;
            continue;
        }
        if (!strcmp(option, "--table")) {
            s.table = 1;
            continue;
        }
        known = 0;
        if (value && !strcmp(option, "--only")) {
            only = value;
            known = 1;
        }
        if (value && !strcmp(option, "--plots")) {
            folder = value;
            known = 1;
        }
        if (value && !strcmp(option, "--note")) {
            note = value;
            known = 1;
        }
        if (value && *value && !strcmp(option, "--save")) {
            save = value;
            known = 1;
        }
        if (value && !strcmp(option, "--threads")) {
            s.options.threads = (int)strtol(value, &end, 10);
            known = !*end && *value && s.options.threads >= 0;
        }
        if (value && !strcmp(option, "--seconds")) {
            s.seconds = strtod(value, &end);
            known = !*end && s.seconds > 0;
        }
        for (int k = 0; value && !strcmp(option, "--simd") && k < 5; k++)
            if (!strcmp(value, simd[k])) {
                s.options.simd = k;
                known = 1;
            }
        if (!known || (folder && !*folder)) {
            fprintf(stderr, "bench: %s %s: what is this?\n", option, value ? value : "");
            usage(stderr);
            return 2;
        }
        i++;
    }
    if (s.seconds <= 0) s.seconds = folder ? 0.3 : 1;
    if (folder) return plots(folder, note, &s);
    if (types) return report_all_types(only, &s);
    known = 0;
    for (size_t i = 0; i < CASES; i++)
        for (int back = 0; back <= (cases[i].flop_back > 0); back++) {
            char name[64];
            case_name(name, sizeof name, &cases[i], back);
            if (!matches(only, name)) continue;
            if (save && known) {
                fprintf(stderr, "bench: --save takes one case, and --only %s has more\n", only);
                return 2;
            }
            if (list) puts(name);
            if (save) {
                failures += save_case(&cases[i], back, &s, save);
                known = 1;
                continue;
            }
            if (!list && s.table && !known) {
                if (!s.peak) s.peak_gflops = machine_peak(&s);
                if (!s.peak) printf("peak %.0f GFLOP/s: the best mmix_linear in cache\n",
                                    s.peak_gflops);
                printf("%-30s %10s %10s %6s %9s %7s\n", "", "median ms", "min ms", "reps",
                       "GFLOP/s", s.peak ? "MiB" : "of peak");
                fflush(stdout);
            }
            known = 1;
            if (!list) failures += s.peak ? report_alone(&cases[i], back, &s) :
                report(&cases[i], back, &s);
        }
    if (!known) fprintf(stderr, "bench: no case matches --only %s\n", only);
    return failures || !known;
}
