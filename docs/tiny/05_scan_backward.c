/* 05_scan_backward.c - How do gradients flow back through a scan?

   A loss tells each y_t how it should move: dy_t = ∂loss/∂y_t. What should x, δ, A, B, C
   do? The scan's loop runs backwards and hands dh, the state's gradient, to token t - 1:

       forward                            backward, for t = L, ..., 1
       f = e^(δ_t A)                      dh ← dh + dy_t c_tᵀ          (y_t has read h_t)
       h_t = f h_{t-1} + δ_t x_t b_tᵀ     dc_t = h_tᵀ dy_t
       y_t = h_t c_t                      dx_t = δ_t dh b_t,  db_t = δ_t dhᵀ x_t
                                          df = Σ dh ∘ h_{t-1}          (f scales all of h)
                                          dδ_t = x_tᵀ dh b_t + A f df,  dA += δ_t f df
                                          dh ← f dh                    (on its way to t - 1)

   How to know that it is right? Move one number by ε, and look at the loss on both sides:
   (loss(+ε) - loss(-ε)) / 2ε. The program does that for every number, with all in double.

       cc -O2 docs/tiny/05_scan_backward.c -o 05 -lm && ./05 */

#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* What a scan takes, or the gradients of that: x (L, P), delta (L), A (1), B, C (L, N). */
typedef struct scan_numbers {
    double *x, *delta, *A, *B, *C;
} scan_numbers;

/* y (L, P); h (L + 1, P, N) begins with the state before and takes the state after each
   token: the backward needs them all. */
static void scan_forward(double *y, double *h, scan_numbers in, size_t L, size_t N,
                         size_t P)
{
    for (size_t t = 0; t < L; t++) {
        double *before = h + t * P * N, *after = before + P * N;
        double f = exp(in.delta[t] * in.A[0]);
        for (size_t p = 0; p < P; p++) {
            double sum = 0;
            for (size_t n = 0; n < N; n++) {
                size_t i = p * N + n;
                after[i] = f * before[i] + in.delta[t] * in.x[t * P + p] * in.B[t * N + n];
                sum += after[i] * in.C[t * N + n];
            }
            y[t * P + p] = sum;
        }
    }
}

/* Adds to the gradients d. dh (P, N) is that of the last state, and becomes that of the
   first. */
static void scan_backward(scan_numbers d, double *dh, const double *dy, const double *h,
                          scan_numbers in, size_t L, size_t N, size_t P)
{
    for (size_t t = L; t-- > 0;) {
        const double *before = h + t * P * N, *after = before + P * N;
        double delta = in.delta[t], f = exp(delta * in.A[0]), df = 0, dstep = 0;
        for (size_t p = 0; p < P; p++)
            for (size_t n = 0; n < N; n++) {
                size_t i = p * N + n, tp = t * P + p, tn = t * N + n;
                dh[i] += dy[tp] * in.C[tn];
                d.C[tn] += dy[tp] * after[i];
                d.x[tp] += delta * dh[i] * in.B[tn];
                d.B[tn] += delta * dh[i] * in.x[tp];
                dstep += in.x[tp] * dh[i] * in.B[tn];
                df += dh[i] * before[i];
                dh[i] *= f;
            }
        d.delta[t] += dstep + in.A[0] * f * df;
        d.A[0] += delta * f * df;
    }
}

enum { TOKENS = 24, WIDTH = 5, CHANNELS = 3, STATE = WIDTH * CHANNELS };

/* loss = Σ w y for fixed random w, so that dy = w. */
static double loss_of(scan_numbers in, const double *w, double *h)
{
    double y[TOKENS * CHANNELS], loss = 0;
    scan_forward(y, h, in, TOKENS, WIDTH, CHANNELS);
    for (size_t i = 0; i < TOKENS * CHANNELS; i++) loss += w[i] * y[i];
    return loss;
}

static void check(const char *name, double *v, const double *dv, size_t n, scan_numbers in,
                  const double *w)
{
    double h[(TOKENS + 1) * STATE] = { 0 }, worst = 0, largest = 0, e = 1e-5;
    for (size_t i = 0; i < n; i++) {
        double was = v[i];
        v[i] = was + e;
        double up = loss_of(in, w, h);
        v[i] = was - e;
        double down = loss_of(in, w, h);
        v[i] = was;
        worst = fmax(worst, fabs((up - down) / (2 * e) - dv[i]));
        largest = fmax(largest, fabs(dv[i]));
    }
    printf("d%-6s %8zu %16.4f %16.0e\n", name, n, largest, worst);
}

int main(void)
{
    double v[5][TOKENS * WIDTH], dv[5][TOKENS * WIDTH] = { { 0 } }, dy[TOKENS * CHANNELS];
    double h[(TOKENS + 1) * STATE] = { 0 }, dh[STATE] = { 0 };
    uint32_t seed = 1;
    for (size_t i = 0; i < 5 * TOKENS * WIDTH; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i % 5][i / 5] = (seed >> 8) / 8388608.0 - 1;
    }
    for (size_t t = 0; t < TOKENS; t++) v[1][t] = 0.3 + 0.2 * v[1][t];
    for (size_t i = 0; i < TOKENS * CHANNELS; i++) dy[i] = cos((double)i);
    v[2][0] = -0.7;
    scan_numbers in = { v[0], v[1], v[2], v[3], v[4] };
    scan_numbers d = { dv[0], dv[1], dv[2], dv[3], dv[4] };
    loss_of(in, dy, h);
    scan_backward(d, dh, dy, h, in, TOKENS, WIDTH, CHANNELS);
    puts("gradient  numbers      the largest      wrong by at most");
    check("x", v[0], dv[0], TOKENS * CHANNELS, in, dy);
    check("delta", v[1], dv[1], TOKENS, in, dy);
    check("A", v[2], dv[2], 1, in, dy);
    check("B", v[3], dv[3], TOKENS * WIDTH, in, dy);
    check("C", v[4], dv[4], TOKENS * WIDTH, in, dy);
    return 0;
}

/* Try next: leave out one line of scan_backward and see which numbers are wrong. In float
   ε must be larger and the check worse: try 1e-3. Keep h only every 8 tokens and compute
   the others again, as the library does at its chunks. */
