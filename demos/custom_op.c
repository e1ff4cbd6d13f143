/* custom_op.c - an op of your own, with its backward

   mmix_custom_op puts a function of yours on the tape. The forward writes call->out[0]. The
   backward gets dy, the gradient of the output, and writes or adds the gradient of each input.
   The op here is Mish (Misra 2019),

       y = x tanh(softplus x),   dy/dx = t + x (1 - t²) σ(x),   t = tanh(ln(1 + e^x))

   The library has the parts, mmix_mul, mmix_tanh and mmix_softplus, so that the same function
   can be put together from them. Both are run on the same numbers, forward and backward; the op
   of one's own goes over memory once, not three times.

       cc -O2 demos/custom_op.c -o custom_op -lm -lpthread && ./custom_op

   It draws Mish and its slope, and prints how far the two ways are apart, about 1e-7. */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>

enum { COUNT = 61 };

static int mish_forward(mmix_ctx *m, mmix_call *call)
{
    (void)m;                                 /* for mmix_fail, where something can go wrong */
    const mmix_real *x = mmix_data(call->in[0]);
    mmix_real *y = mmix_data(call->out[0]);
    size_t count = mmix_count(call->out[0]);
    for (size_t i = 0; i < count; i++) y[i] = x[i] * (mmix_real)tanh(log1p(exp((double)x[i])));
    return 0;
}

static int mish_backward(mmix_ctx *m, mmix_call *call)
{
    (void)m;
    const mmix_real *x = mmix_data(call->in[0]), *dy = call->dy[0];
    mmix_real *dx = call->dx[0];
    size_t count = mmix_count(call->out[0]);
    if (!dx) return 0;                       /* nobody asked for it */
    for (size_t i = 0; i < count; i++) {
        double t = tanh(log1p(exp((double)x[i])));
        double sigmoid = 1 / (1 + exp(-(double)x[i]));
        mmix_real slope = (mmix_real)(t + (double)x[i] * (1 - t * t) * sigmoid);
        if (!call->add[0]) dx[i] = 0;        /* where it says so, what is there already stays */
        dx[i] += dy[i] * slope;
    }
    return 0;
}

static mmix_tensor *mish(mmix_ctx *m, mmix_tensor *x)
{
    mmix_op_functions functions;
    functions.forward = mish_forward;
    functions.backward = mish_backward;
    size_t shape[1];
    shape[0] = mmix_count(x);
    x = mmix_reshape(m, x, 1, shape);        /* a row of numbers without gaps, whatever x was */
    return mmix_custom_op(m, &x, 1, 1, shape, functions, NULL);
}

static mmix_tensor *mish_of_parts(mmix_ctx *m, mmix_tensor *x)
{
    return mmix_mul(m, x, mmix_tanh(m, mmix_softplus(m, x)));
}

/* Copies y and dx of one way. The input is a leaf of its own, so that the gradients do not add
   up. */
static void run(mmix_ctx *m, mmix_tensor *(*function)(mmix_ctx *, mmix_tensor *), mmix_real *y,
                mmix_real *dx)
{
    mmix_tensor *x = mmix_new1(m, COUNT);
    for (size_t i = 0; x && i < COUNT; i++) mmix_data(x)[i] = (mmix_real)i / 10 - 4;
    mmix_require_grad(x);
    mmix_tensor *result = function(m, x);
    mmix_read(result, y);
    mmix_backward(m, mmix_sum(m, result));
    if (!mmix_error(m)) mmix_read(mmix_grad(x), dx);
}

int main(void)
{
    mmix_real y[2][COUNT], dx[2][COUNT];
    mmix_ctx *m = mmix_create(NULL);
    mmix_record(m, 1);
    run(m, mish, y[0], dx[0]);
    run(m, mish_of_parts, y[1], dx[1]);
    if (mmix_error(m)) {
        puts(mmix_error(m));
        return 1;
    }
    mmix_destroy(m);
    double worst = 0;
    for (size_t i = 0; i < COUNT; i++) {
        worst = fmax(worst, fabs((double)y[0][i] - (double)y[1][i]));
        worst = fmax(worst, fabs((double)dx[0][i] - (double)dx[1][i]));
    }
    puts("    x   mish   slope");
    for (size_t i = 0; i < COUNT; i += 3) {
        char line[61];
        for (int c = 0; c < 60; c++) line[c] = ' ';
        line[60] = 0;
        line[12] = ':';                      /* zero */
        line[12 + (int)lround(20 * (double)dx[0][i])] = 's';
        line[12 + (int)lround(20 * (double)y[0][i])] = 'm';
        printf("%5.1f %6.3f %6.3f  %s\n", (double)i / 10 - 4, (double)y[0][i], (double)dx[0][i],
               line);
    }
    printf("largest difference between the op and its parts: %.1e\n", worst);
    return worst > 1e-5;
}
