/* judge.h - how likely a decoder finds a text: the perplexity's parts

   judge_piece(m, d, tokens, n, nats, likeliest) gives -log of the probability of each token but the
   first, and the likeliest token in each such place. Include mamba_mix.h before it. */
#ifndef JUDGE_H
#define JUDGE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* -log of a token's probability, and the likeliest token. */
static double judge(const mmix_real *logits, size_t K, int32_t token, int32_t *likeliest)
{
    size_t top = 0;
    double sum = 0;
    for (size_t k = 1; k < K; k++)
        if (logits[k] > logits[top]) top = k;
    for (size_t k = 0; k < K; k++) sum += exp((double)logits[k] - (double)logits[top]);
    *likeliest = (int32_t)top;
    return log(sum) + (double)logits[top] - (double)logits[token];
}

/* Reads n tokens from their beginning and judges the n - 1 behind the first. 0, or -1. */
static int judge_piece(mmix_ctx *m, const mmix_decoder *d, const int32_t *tokens, size_t n,
                       double *nats, int32_t *likeliest)
{
    enum { AT_ONCE = 64 };                       /* rows of logits that are there together */
    size_t shape[2] = {1, n}, K = d->config.vocabulary;
    mmix_sequence piece;
    memset(&piece, 0, sizeof piece);
    piece.tokens = mmix_from_i32(m, 2, shape, tokens);
    mmix_tensor *hidden = mmix_decoder_forward(m, d, &piece, NULL);
    for (size_t i = 0; i + 1 < n; i += AT_ONCE) {
        size_t some = n - 1 - i < AT_ONCE ? n - 1 - i : AT_ONCE;
        mmix_mark mark = mmix_mark_here(m);
        mmix_tensor *y = mmix_decoder_logits(m, d, mmix_slice(m, hidden, 1, i, some));
        const mmix_real *logits = mmix_data(y);
        if (!logits) return -1;
        for (size_t k = 0; k < some; k++)
            nats[i + k] = judge(logits + k * K, K, tokens[i + k + 1], &likeliest[i + k]);
        mmix_rewind(m, mark);
    }
    mmix_reset(m);
    return mmix_error(m) ? -1 : 0;
}

#endif
