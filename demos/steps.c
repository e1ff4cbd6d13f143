/* steps.c - token after token: what a mixer carries along

   Causal mixers read no later token, so that a sequence can come one token at a time. What an
   earlier token left behind is the state: attention has to keep every key and value, linear
   attention and Mamba-2 carry N x P numbers a head, whatever came before. This program mixes
   4,096 tokens at once and one by one, in the three ways.

       cc -O2 demos/steps.c -o steps -lm -lpthread && ./steps

   It prints the bytes of the state and the microseconds of a step, early and late in the
   sequence, and last that both ways give the same numbers. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>
#include <time.h>

/* tokens, heads, widths; tokens between two lines */
enum { L = 4096, H = 4, N = 32, P = 32, PART = 512 };

/* Inputs of a sequence; of one token they are slices. */
typedef struct inputs { mmix_tensor *q, *k, *v, *dt, *A; } inputs;

static inputs draw(mmix_ctx *m)
{
    inputs in;
    in.q = mmix_fill_normal(m, mmix_new4(m, 1, L, H, N), 0.5, 0);
    in.k = mmix_fill_normal(m, mmix_new4(m, 1, L, H, N), 0.5, 1);
    in.v = mmix_fill_normal(m, mmix_new4(m, 1, L, H, P), 0.5, 2);
    in.dt = mmix_fill(mmix_new3(m, 1, L, H), 0.05);
    in.A = mmix_fill(mmix_new1(m, H), -1);
    return in;
}

static inputs token(mmix_ctx *m, inputs all, size_t t)
{
    inputs one = all;
    one.q = mmix_slice(m, all.q, 1, t, 1);   /* a view: nothing is copied */
    one.k = mmix_slice(m, all.k, 1, t, 1);
    one.v = mmix_slice(m, all.v, 1, t, 1);
    one.dt = mmix_slice(m, all.dt, 1, t, 1);
    return one;
}

static mmix_mixer make(int kind, inputs in)
{
    if (kind == MMIX_MIXER_SSD) return mmix_mixer_ssd(in.v, in.dt, in.A, in.k, in.q);
    mmix_mixer mixer = mmix_mixer_softmax(in.q, in.k, in.v);
    if (kind == MMIX_MIXER_LINEAR) mixer = mmix_mixer_linear(in.q, in.k, in.v);
    mixer.mask = MMIX_MASK_CAUSAL;
    return mixer;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Prints a line for each PART tokens; returns the largest difference from y of the whole
   sequence. */
static double by_steps(mmix_ctx *m, int kind, inputs all, const mmix_real *whole)
{
    double worst = 0, start = seconds();
    mmix_mix_state *state = mmix_mix_state_create(m, 1);             /* one slot: one mixer */
    for (size_t t = 0; t < L && !mmix_error(m); t++) {
        mmix_mark mark = mmix_mark_here(m);
        mmix_mixer mixer = make(kind, token(m, all, t));
        mmix_tensor *y = mmix_mix_step(m, &mixer, state, 0);
        for (size_t i = 0; y && i < H * P; i++) {
            double apart = fabs((double)mmix_data(y)[i] - (double)whole[t * H * P + i]);
            if (apart > worst) worst = apart;
        }
        mmix_rewind(m, mark);  /* y and the slices go; the state is not in step memory */
        if (t % PART == PART - 1 && (t < PART || t == L - 1)) {
            double micro = (seconds() - start) / PART * 1e6;
            printf("   after %4d tokens: %8d bytes, %6.1f microseconds a token\n", (int)t + 1,
                   (int)mmix_mix_state_bytes(state), micro);
        }
        if (t % PART == PART - 1) start = seconds();
    }
    mmix_mix_state_destroy(state);
    return worst;
}

int main(void)
{
    static const char *const names[] = { "softmax attention", "linear attention", "Mamba-2 (SSD)" };
    mmix_options options = { 0 };
    options.threads = 1;                     /* a single token has no work for several */
    mmix_ctx *m = mmix_create(&options);
    inputs all = draw(m);
    double worst = 0;
    for (int kind = MMIX_MIXER_SOFTMAX; kind <= MMIX_MIXER_SSD && !mmix_error(m); kind++) {
        mmix_mixer mixer = make(kind, all);
        mmix_tensor *y = mmix_mix(m, &mixer);
        if (!y) break;
        puts(names[kind]);
        double apart = by_steps(m, kind, all, mmix_data(y));
        if (apart > worst) worst = apart;
    }
    if (mmix_error(m)) puts(mmix_error(m));
    printf("largest difference between the whole and its steps: %.1e\n", worst);
    int wrong = mmix_error(m) || worst > 1e-4;
    mmix_destroy(m);
    return wrong;
}
