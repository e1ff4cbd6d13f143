/* gradients.c - the tape, and how one convinces oneself that a gradient is right

   Recording is off until mmix_record turns it on. From then on each op leaves a note on a tape,
   and mmix_backward walks the notes back and leaves the gradient of every tensor that asked for
   one. A gradient is a promise about small changes: if input number i grows by e, the loss grows
   by gradient[i] e. This program changes inputs of a Mamba-2 scan, one by one, and looks. It is
   built in double, where the difference of two near numbers still has digits.

       cc -O2 demos/gradients.c -o gradients -lm -lpthread && ./gradients

   It prints a line for each input: one number by the tape and by a difference, and the largest
   relative error of all numbers of that input, about 1e-9. */

#define MMIX_REAL double
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include <math.h>
#include <stdio.h>

enum { L = 7, H = 2, P = 3, N = 4, INPUTS = 5 };

static const char *const names[INPUTS] = { "x", "dt", "A", "B", "C" };

/* The loss: mean of tanh(y)², y the scan of the five inputs. */
static mmix_tensor *loss(mmix_ctx *m, mmix_tensor **in)
{
    mmix_mixer ssd = mmix_mixer_ssd(in[0], in[1], in[2], in[3], in[4]);
    mmix_tensor *y = mmix_tanh(m, mmix_mix(m, &ssd));
    return mmix_mean(m, mmix_mul(m, y, y));
}

/* (loss(input + e) - loss(input - e)) / 2e, where one number of one input changes. */
static double difference(mmix_ctx *m, mmix_tensor **in, int input, size_t i)
{
    const double e = 1e-5;
    double *value = &mmix_data(in[input])[i];
    double middle = *value;
    *value = middle + e;
    double above = mmix_item(loss(m, in));
    *value = middle - e;
    double below = mmix_item(loss(m, in));
    *value = middle;
    return (above - below) / (2 * e);
}

/* Prints one line; returns the largest error of this input's gradient, relative to its largest
   number. */
static double compare(mmix_ctx *m, mmix_tensor **in, int input)
{
    const double *gradient = mmix_data(mmix_grad(in[input]));
    size_t count = mmix_count(in[input]), shown = 0;
    double worst = 0, size = 0, by_difference = 0;
    for (size_t i = 0; i < count; i++) {
        mmix_mark mark = mmix_mark_here(m);
        double slope = difference(m, in, input, i);
        mmix_rewind(m, mark);                /* drops what the two losses made */
        worst = fmax(worst, fabs(slope - gradient[i]));
        if (fabs(gradient[i]) > size) {
            size = fabs(gradient[i]);
            shown = i;
            by_difference = slope;
        }
    }
    printf("%-3s [%2d]   tape %+.10f   difference %+.10f   worst of %2d: %.1e\n", names[input],
           (int)shown,
           gradient[shown], by_difference, (int)count, worst / size);
    return worst / size;
}

int main(void)
{
    mmix_ctx *m = mmix_create(NULL);
    mmix_tensor *in[INPUTS];
    in[0] = mmix_fill_normal(m, mmix_new4(m, 1, L, H, P), 1, 0);
    in[1] = mmix_fill(mmix_new3(m, 1, L, H), 0.3);
    in[2] = mmix_fill(mmix_new1(m, H), -0.7);
    in[3] = mmix_fill_normal(m, mmix_new4(m, 1, L, 1, N), 1, 1);
    in[4] = mmix_fill_normal(m, mmix_new4(m, 1, L, 1, N), 1, 2);
    for (int i = 0; i < INPUTS; i++) mmix_require_grad(in[i]);

    mmix_record(m, 1);
    mmix_tensor *value = loss(m, in);
    mmix_backward(m, value);  /* consumes the tape; the gradients stay until mmix_reset */
    mmix_record(m, 0);
    if (mmix_error(m)) {                     /* one look at the end of a chain of calls is enough */
        puts(mmix_error(m));
        return 1;
    }
    printf("loss %.6f\n", mmix_item(value));
    double worst = 0;
    for (int i = 0; i < INPUTS; i++) worst = fmax(worst, compare(m, in, i));
    mmix_destroy(m);
    return worst > 1e-6;
}
