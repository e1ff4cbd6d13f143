/* 10_decoder.c - How does a language model write, and what must it remember for that?

   A decoder reads tokens (here letters) and says of each what comes next:

       x = norm(embedding of the token)    norm x = x / √(mean x²)
       y = mixer(x, and what it kept)      a step of the scan (03), or attention (01)
       logits = E norm(y)                  one number for each letter of the alphabet
       next letter: the largest logit, or drawn from softmax(logits / temperature)

   Nothing is trained here, and no file is read: the weights are written by hand. A token's
   key is the tokens before it, its query is itself and those before it, its value is
   itself. So a query finds the places where the same letters stood, and takes what
   followed there. Trained networks find this by themselves (induction heads); Mamba-2 has
   its short convolution for such keys. All that this decoder knows is the rhyme that it
   has read; it then goes on with a line that was not in it.

       cc -O2 docs/tiny/10_decoder.c -o 10 -lm && ./10 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char alphabet[] = " abcdefghijklmnopqrstuvwxyz.\n";
enum { LETTERS = sizeof alphabet - 1, DIM = LETTERS, MOST = 10, LONGEST = 1200 };
enum { SCAN, ATTENTION };

static const char rhyme[] =
    "this is the house that jack built.\n"
    "this is the malt that lay in the house that jack built.\n"
    "this is the rat that ate the malt that lay in the house that jack built.\n"
    "this is the cat that killed the rat that ate the malt that lay in the house that jack "
    "built.\n"
    "this is the dog that worried the cat that killed the rat that ate the malt that lay "
    "in the house that jack built.\n";
static const char prompt[] = "this is the cow with the crumpled horn that tossed the dog";

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void rms_norm(float *y, const float *x, size_t D)
{
    float length = sqrtf(dot(x, x, D) / (float)D + 1e-6f);
    for (size_t d = 0; d < D; d++) y[d] = x[d] / length;
}

/* 03: h (P, N) fades and takes x Bᵀ; y (P) is what C reads. δ = 1. */
static void scan_step(float *y, float *h, const float *x, float A, const float *B,
                      const float *C, size_t N, size_t P)
{
    for (size_t p = 0; p < P; p++) {
        for (size_t n = 0; n < N; n++) h[p * N + n] = expf(A) * h[p * N + n] + x[p] * B[n];
        y[p] = dot(h + p * N, C, N);
    }
}

/* 01: y (P) of one query over the t keys (t, N) and values (t, P) so far. */
static void attention_step(float *y, const float *q, const float *keys, const float *values,
                           size_t t, float scale, size_t N, size_t P)
{
    float row[LONGEST], largest = -HUGE_VALF, sum = 0;
    for (size_t j = 0; j < t; j++) {
        row[j] = scale * dot(q, keys + j * N, N);
        largest = fmaxf(largest, row[j]);
    }
    for (size_t p = 0; p < P; p++) y[p] = 0;
    for (size_t j = 0; j < t; j++) {
        float share = expf(row[j] - largest);
        sum += share;
        for (size_t p = 0; p < P; p++) y[p] += share * values[j * P + p];
    }
    for (size_t p = 0; p < P; p++) y[p] /= sum;
}

/* A token: temperature 0 takes the largest logit. u, 0 ... 1, is the throw of the dice. */
static int sample(const float *logits, size_t K, double temperature, double u)
{
    size_t best = 0, k = 0;
    double sum = 0;
    for (size_t i = 1; i < K; i++)
        if (logits[i] > logits[best]) best = i;
    if (temperature <= 0) return (int)best;
    for (size_t i = 0; i < K; i++) sum += exp((logits[i] - logits[best]) / temperature);
    for (u *= sum; k + 1 < K; k++) {
        u -= exp((logits[k] - logits[best]) / temperature);
        if (u < 0) break;
    }
    return (int)k;
}

/* What is kept between two tokens: the last ones, normed, the newest first; the scan's
   state, of one size; attention's keys and values, more with each token. */
typedef struct decoder {
    int mixer;
    size_t before, tokens;                       /* tokens that make a key; tokens read */
    float embedding[LETTERS * DIM], recent[(MOST + 1) * DIM], h[DIM * MOST * DIM];
    float keys[LONGEST * MOST * DIM], values[LONGEST * DIM];
} decoder;

static void decoder_step(float *logits, decoder *d, int token)
{
    size_t N = d->before * DIM;
    float y[DIM], *x = d->recent, *key = x + DIM;
    memmove(key, x, MOST * DIM * sizeof *x);
    rms_norm(x, d->embedding + token * DIM, DIM);
    memcpy(d->keys + d->tokens * N, key, N * sizeof *x);
    memcpy(d->values + d->tokens * DIM, x, DIM * sizeof *x);
    d->tokens++;
    if (d->mixer == SCAN) scan_step(y, d->h, x, -0.001f, key, x, N, DIM);
    else attention_step(y, x, d->keys, d->values, d->tokens, 3.0f / DIM, N, DIM);
    rms_norm(y, y, DIM);
    for (size_t k = 0; k < LETTERS; k++) logits[k] = dot(d->embedding + k * DIM, y, DIM);
}

static void read_on(float *logits, decoder *d, const char *text)
{
    for (; *text; text++)
        decoder_step(logits, d, (int)(strchr(alphabet, *text) - alphabet));
}

static void write_on(const char *name, int mixer, size_t before, double temperature)
{
    static decoder d;
    float logits[LETTERS];
    uint32_t seed = 1;
    int token = 0;
    memset(&d, 0, sizeof d);
    d.mixer = mixer;
    d.before = before;
    for (size_t k = 0; k < LETTERS; k++) d.embedding[k * DIM + k] = 1;
    read_on(logits, &d, rhyme);
    read_on(logits, &d, prompt);
    printf("%s, keys of %zu letters, temperature %g:\n", name, before, temperature);
    fputs(prompt, stdout);
    for (int made = 0; made < 130 && alphabet[token] != '\n'; made++) {
        seed = seed * 1664525u + 1013904223u;
        token = sample(logits, LETTERS, temperature, (seed >> 8) / 16777216.0);
        if (alphabet[token] != '\n') putchar(alphabet[token]);
        decoder_step(logits, &d, token);
    }
    size_t kept = mixer == SCAN ? before * DIM * DIM : d.tokens * (before + 1) * DIM;
    printf("\n(%zu letters read, %zu numbers kept)\n\n", d.tokens, kept);
}

int main(void)
{
    write_on("attention", ATTENTION, 10, 0);
    write_on("attention", ATTENTION, 10, 0.8);
    write_on("attention", ATTENTION, 3, 0);
    write_on("scan", SCAN, 1, 0);
    write_on("scan", SCAN, 3, 0.8);
    return 0;
}

/* What to see: with keys of one letter the scan's state is a table of pairs, how often b
   came after a, and one letter says too little. Attention with longer keys picks the place
   that fits best; the scan adds up all that fit a little. Try next: keys of 5 letters; the
   scan with a key in which each pair of letters has a place of its own (N = 29 · 29). */
