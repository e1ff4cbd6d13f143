/* pace.h - how long a decoder reads a piece, and how long it writes a token after it. Include
   mamba_mix.h and program.h before it. */
#ifndef PACE_H
#define PACE_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* On one thread the processor's time, which others on the machine hardly change. */
static double clock_of(const mmix_ctx *m)
{
    if (mmix_threads(m) > 1) return now();
    return (double)clock() / CLOCKS_PER_SEC;
}
typedef struct pace {
    double read, step;                           /* seconds: of all tokens; of one more */
    double bytes;                                /* that are remembered after all of it */
} pace;
/* Reads a piece and writes some tokens: the middle of their times counts. Resets the context. 0, or
   -1. */
static int pace_of(mmix_ctx *m, const mmix_decoder *d, const mmix_sequence *whole, pace *p)
{
    enum { STEPS = 9 };
    size_t one[2] = {1, 1};
    double step[STEPS];
    mmix_sequence piece;
    mmix_mix_state *state = mmix_decoder_state_create(d);
    double start = clock_of(m);
    mmix_tensor *logits = mmix_decoder_step(m, d, whole, state);
    p->read = clock_of(m) - start;
    memset(&piece, 0, sizeof piece);
    for (int i = 0; logits && i < STEPS; i++) {
        int32_t token = mmix_sample_token(m, mmix_data(logits), d->config.vocabulary, NULL, 0);
        mmix_reset(m);
        piece.tokens = mmix_from_i32(m, 2, one, &token);
        start = clock_of(m);
        logits = mmix_decoder_step(m, d, &piece, state);
        step[i] = clock_of(m) - start;
    }
    p->bytes = state ? (double)mmix_mix_state_bytes(state) : 0;
    mmix_mix_state_destroy(state);
    mmix_reset(m);
    if (mmix_error(m)) return -1;
    qsort(step, STEPS, sizeof *step, by_size);
    p->step = step[STEPS / 2];
    return 0;
}

#endif
