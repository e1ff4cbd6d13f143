/* 10_decoder.c - How does a language model write, and what must it remember?

   A decoder reads tokens (here letters) and says of each what comes next. This one is a
   layer of 03 with δ and A fixed. It learns a rhyme by plain gradient descent in a second:

       x_t, b_t, c_t = Σ_w table[w][letter t - w]    a sum over the last SEEN letters
       y_i = Σ_{j ≤ i} F_ij δ (c_i · b_j) x_j        the scan, F_ij = e^((i - j) δ A)
       loss = -log softmax(y_i)[letter i + 1]        what comes next

   The loss gives dy_i = softmax(y_i), less 1 at letter i + 1. The matrix hands it on:

       dx_j = Σ_i M_ij dy_i,                         ds_ij = F_ij δ (dy_i · x_j)
       dc_i = Σ_j ds_ij b_j,    db_j = Σ_i ds_ij c_i

   It learns with the matrix, all letters of a piece at once. It writes one letter after
   another, in two ways: with a cache of all x and b so far, as softmax attention must (its
   e^(q · k) cannot be taken apart), and with the scan's state. Both write the same line,
   which was not in what it read. The cache grows with each letter, the state does not.

       cc -O2 docs/tiny/10_decoder.c -o 10 -lm && ./10 */

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char alphabet[] = " abcdefghijklmnopqrstuvwxyz.\n";
enum { P = sizeof alphabet - 1, N = 16, WIDTH = P + 2 * N };    /* a token: x, b, c */
enum { SEEN = 6, PIECE = 64, STEPS = 2000, LONGEST = 240 };
static const float rate = 0.25f, delta = 0.1f, A = -1;

static const char rhyme[] =
    "\n\n\n\n\nthis is the house that jack built.\n"
    "this is the malt that lay in the house that jack built.\n"
    "this is the rat that ate the malt that lay in the house that jack built.\n"
    "this is the cat that killed the rat that ate the malt that lay in the house that "
    "jack built.\nthis is the dog that worried the cat that killed the rat that ate the "
    "malt that lay in the house that jack built.\n";
static float table[SEEN][P][WIDTH];

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add(float *to, const float *from, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] += scale * from[i];
}

/* y_i (P) from the tokens u (i + 1, WIDTH): a row of M over all that is kept. */
static void cache_step(float *y_i, const float *u, size_t i)
{
    const float *c_i = u + i * WIDTH + P + N;
    memset(y_i, 0, P * sizeof *y_i);
    for (size_t j = 0; j <= i; j++) {
        const float *x_j = u + j * WIDTH, *b_j = x_j + P;
        float fade = delta * expf(delta * A * (float)(i - j));
        add(y_i, x_j, fade * dot(c_i, b_j, N), P);
    }
}

/* The same from the state h (P, N) and one token u_t: h ← F h + δ x_t b_tᵀ, y_t = h c_t. */
static void state_step(float *y_t, float *h, const float *u_t)
{
    const float *b_t = u_t + P, *c_t = b_t + N;
    for (size_t p = 0; p < P; p++) {
        for (size_t n = 0; n < N; n++) h[p * N + n] *= expf(delta * A);
        add(h + p * N, b_t, delta * u_t[p], N);
        y_t[p] = dot(h + p * N, c_t, N);
    }
}

/* What dy_i (P) means for the tokens: adds to du, which is laid out as u. */
static void step_backward(float *du, const float *dy_i, const float *u, size_t i)
{
    const float *c_i = u + i * WIDTH + P + N;
    for (size_t j = 0; j <= i; j++) {
        const float *x_j = u + j * WIDTH, *b_j = x_j + P;
        float *dx_j = du + j * WIDTH, *db_j = dx_j + P, *dc_i = du + i * WIDTH + P + N;
        float fade = delta * expf(delta * A * (float)(i - j));
        float ds_ij = fade * dot(dy_i, x_j, P);
        add(dx_j, dy_i, fade * dot(c_i, b_j, N), P);
        add(db_j, c_i, ds_ij, N);
        add(dc_i, b_j, ds_ij, N);
    }
}

/* The loss of y (P) where the letter `right` comes next. y becomes its gradient. */
static float cross_entropy(float *y, size_t right)
{
    float sum = 0;
    for (size_t p = 0; p < P; p++) {
        y[p] = expf(y[p]);
        sum += y[p];
    }
    float loss = logf(sum / y[right]);
    for (size_t p = 0; p < P; p++) y[p] /= sum;
    y[right] -= 1;
    return loss;
}

static size_t letter(const char *text)
{
    return (size_t)(strchr(alphabet, *text) - alphabet);
}

/* u_t (WIDTH) of a letter of a text, from itself and those before it. */
static void read_token(float *u_t, const char *text)
{
    memset(u_t, 0, WIDTH * sizeof *u_t);
    for (int w = 0; w < SEEN; w++) add(u_t, table[w][letter(text - w)], 1, WIDTH);
}

/* One step of gradient descent on a piece of a text; returns its loss. */
static float learn(const char *text)
{
    float u[PIECE * WIDTH], du[PIECE * WIDTH] = { 0 }, y[P], loss = 0;
    for (size_t i = 0; i < PIECE; i++) {
        read_token(u + i * WIDTH, text + i);
        cache_step(y, u, i);
        loss += cross_entropy(y, letter(text + i + 1)) / PIECE;
        step_backward(du, y, u, i);
    }
    for (size_t i = 0; i < PIECE; i++)
        for (int w = 0; w < SEEN; w++)
            add(table[w][letter(text + i - w)], du + i * WIDTH, -rate / PIECE, WIDTH);
    return loss;
}

int main(void)
{
    static float u[LONGEST * WIDTH];
    static char text[LONGEST + 1] = "\n\n\n\n\nthis is the cow that tossed the dog";
    float h[P * N] = { 0 }, y[P], z[P], apart = 0;
    for (size_t i = 0; i < SEEN * P * WIDTH; i++)
        table[i / WIDTH / P][i / WIDTH % P][i % WIDTH] = 0.3f * sinf((float)(i * i));
    for (size_t step = 0; step <= STEPS; step++) {
        float loss = learn(rhyme + SEEN - 1 + step * 37 % (sizeof rhyme - SEEN - PIECE));
        if (step % 500 == 0) printf("step %4zu: loss %.3f\n", step, loss);
    }
    for (size_t i = SEEN - 1, t = 0; text[i] && i + 1 < LONGEST; i++, t++) {
        size_t best = 0;
        read_token(u + t * WIDTH, text + i);
        cache_step(y, u, t);
        state_step(z, h, u + t * WIDTH);
        for (size_t p = 0; p < P; p++) {
            apart = fmaxf(apart, fabsf(y[p] - z[p]));
            if (z[p] > z[best]) best = p;
        }
        if (!text[i + 1] && alphabet[best] != '\n') text[i + 1] = alphabet[best];
        putchar(text[i]);
        if (t % 40 == 39) printf("   state %d, cache %zu\n", P * N, (t + 1) * (P + N));
    }
    printf("\nthe two ways differ by %.0e\n", apart);
    return 0;
}

/* Try next: draw the next letter from softmax(y / T). Let the state forget faster, A = -5,
   or see fewer letters, SEEN = 3. Learn δ as well: 05 has its gradient. */
