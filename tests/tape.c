/* tape.c - lifetimes, tensors and views, the tape, ops of one's own, checkpoints */
#include "models.h"

static void lifetimes(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_mark mark, first;
    mmix_tensor *a, *b, *keep[3];
    size_t bytes = 0;
    doing("lifetimes");
    first = mmix_mark_here(m);                   /* before anything was taken */
    for (int i = 0; i < 6; i++) {
        mmix_silu(m, mmix_fill(mmix_new2(m, 50, 40), 1));
        mmix_rewind(m, first);
        if (i == 2) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    a = mmix_fill(mmix_new2(m, 3, 4), 7);
    mark = mmix_mark_here(m);
    bytes = 0;
    for (int i = 0; i < 20; i++) {
        b = mmix_fill(mmix_new2(m, 300, 70), 1);
        for (int k = 0; k < 5; k++)
            b = mmix_gelu(m, b);
        mmix_rewind(m, mark);
        if (i == 2) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    IS(mmix_data(a)[11], 7);
    keep[0] = mmix_fill(mmix_new2(m, 3, 4), 2);
    keep[2] = mmix_from_i32(m, 0, NULL, (const int32_t *)"abcd");
    mmix_fill(mmix_new2(m, 100, 100), 5);
    keep[1] = mmix_fill(mmix_new1(m, 5), 3);
    IS(mmix_rewind_keep(m, mark, keep, 3), 0);
    b = mmix_fill(mmix_new2(m, 100, 100), 9);
    CHECK(mmix_ndim(keep[0]) == 2 && mmix_shape(keep[0], 1) == 4 && mmix_data(keep[0])[11] == 2
          && mmix_data(keep[1])[4] == 3 && !memcmp(mmix_data_i32(keep[2]), "abcd", 4));
    IS(mmix_data(a)[0], 7);
    bytes = 0;
    mark = mmix_mark_here(m);
    keep[0] = mmix_fill(mmix_new2(m, 200, 100), 2);
    for (int i = 0; i < 80; i++) {               /* a chain of any length in the memory of a few */
        keep[0] = mmix_silu(m, mmix_silu(m, keep[0]));
        IS(mmix_rewind_keep(m, mark, keep, 1), 0);
        if (i == 3) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    keep[0] = mmix_slice(m, mmix_fill(mmix_new2(m, 4, 6), 1), 1, 1, 3);
    BAD_INT(mmix_rewind_keep(m, mark, keep, 1), "mmix_rewind_keep", "tensor 0");
    a = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 1));
    mmix_record(m, 1);
    mark = mmix_mark_here(m);
    keep[0] = mmix_silu(m, a);
    BAD_INT(mmix_rewind_keep(m, mark, keep, 1), "mmix_rewind_keep", "recorded");
    mmix_rewind(m, mark);                        /* drops the record too */
    b = mmix_sum(m, a);
    mmix_backward(m, b);
    IS(mmix_data(mmix_grad(a))[0], 1);
    FINE(m);
    mmix_reset(m);
    /* a rewind takes the gradients made since the mark, of leaves from before it too */
    a = mmix_require_grad(mmix_fill(mmix_new1(m, 30), 1));
    b = mmix_require_grad(mmix_fill(mmix_new1(m, 30), 2));
    mmix_backward(m, mmix_sum(m, b));
    mark = mmix_mark_here(m);
    for (int i = 0; i < 3; i++) {
        mmix_backward(m, mmix_sum(m, mmix_mul(m, a, b)));
        IS(mmix_data(mmix_grad(a))[29], 2);
        IS(mmix_data(mmix_grad(b))[29], i + 2);
        if (i < 2) mmix_rewind(m, mark);
        else {
            keep[0] = mmix_fill(mmix_new1(m, 3), 5);
            IS(mmix_rewind_keep(m, mark, keep, 1), 0);
        }
        CHECK(!mmix_grad(a) && mmix_grad(b));
        mmix_fill(mmix_new1(m, 1000), 7);
    }
    mmix_reset(m);
    {                                            /* views of a loss that was consumed */
        size_t one[1] = { 1 };
        a = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 2));
        b = mmix_reshape(m, mmix_sum(m, a), 1, one);
        mmix_backward(m, mmix_sum(m, b));
        IS(mmix_item(b), 6);
    }
    FINE(m);
    mmix_reset(m);
    /* what backward frees */
    for (int i = 0; i < 6; i++) {
        mmix_tensor *loss;
        mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new2(m, 40, 30), 0.5));
        mmix_tensor *y = x, *middle = NULL, *view;
        for (int k = 0; k < 10; k++) {
            y = mmix_silu(m, y);
            if (k == 4) middle = y;
        }
        view = mmix_slice(m, middle, 0, 1, 2);
        loss = mmix_sum(m, y);
        CHECK(mmix_data(middle) != NULL);
        mmix_backward(m, loss);
        CHECK(!mmix_data(middle) && !mmix_data(view) && mmix_grad(middle) == NULL);
        NEAR(mmix_item(loss), mmix_item(loss), 0);
        CHECK(mmix_item(loss) != 0);
        CHECK(mmix_data(x) && mmix_grad(x));
        CHECK(!mmix_error(m));
        BAD(mmix_silu(m, middle), "mmix_silu", "no values");
        BAD_INT(mmix_rewind_keep(m, mmix_mark_here(m), &view, 1), "mmix_rewind_keep", "tensor 0");
        {
            real values[1200];
            BAD_INT(mmix_read(middle, values), "mmix_read", "no real values");
        }
        mmix_reset(m);
        if (i == 2) bytes = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, bytes);
    mmix_destroy(m);
    /* depth, with tensors larger than a block of the arena */
    {
        size_t peak[2];
        for (int deep = 0; deep < 2; deep++) {
            m = context(1, 0);
            mmix_new1(m, 10);
            mark = mmix_mark_here(m);
            keep[0] = mmix_fill(mmix_new2(m, 500, 1000), 1);
            for (int i = 0; i < (deep ? 24 : 6); i++) {
                keep[0] = mmix_silu(m, mmix_silu(m, keep[0]));
                IS(mmix_rewind_keep(m, mark, keep, 1), 0);
            }
            peak[deep] = mmix_memory(m).peak;
            FINE(m);
            mmix_destroy(m);
        }
        COMPARE(peak[1] <= peak[0], "peak of 24 and 6 large blocks", (double)peak[1],
                (double)peak[0]);
    }
    for (int mixer = MMIX_MIXER_SOFTMAX; mixer <= MMIX_MIXER_SELECTIVE; mixer++)
        for (int warm = 0; warm < 2; warm++) {
            size_t peak[2];
            for (int deep = 0; deep < 2; deep++) {
                mmix_vision_config c = small_vision(mixer);
                mmix_vision *v;
                size_t before;
                m = context(1, 0);
                c.dim = 32;
                c.depth = deep ? 8 : 2;
                v = mmix_vision_create(m, c);
                before = mmix_memory(m).bytes;
                for (int k = 0; k <= 2 * warm; k++) {
                    mmix_reset(m);
                    mmix_memory_peak_clear(m);
                    CHECK(
                        mmix_vision_forward(m, v, mmix_fill(mmix_new4(m, 20, 3, 16, 16), 0.1), NULL)
                            .token
                        != NULL);
                }
                peak[deep] = mmix_memory(m).peak - before;
                mmix_vision_destroy(v);
                FINE(m);
                mmix_destroy(m);
            }
            snprintf(about, sizeof about, "memory of a deep backbone, %s", mixer_name(mixer));
            COMPARE(peak[1] <= peak[0] + 20000,
                    warm ? "peak for 8 and 2 blocks, later steps"
                         : "peak for 8 and 2 blocks, first step",
                    (double)peak[1], (double)peak[0]);
        }
}

static int cube_forward(mmix_ctx *m, mmix_call *call)
{
    const real *x = mmix_data(call->in[0]);
    real *y = mmix_data(call->out[0]);
    real *keep = call->recorded ? mmix_save_for_backward(m, call, 0, mmix_count(call->in[0]))
                                : NULL;
    real a = *(const real *)call->options;
    if (call->recorded && !keep) return -1;
    for (size_t i = 0; i < mmix_count(call->in[0]); i++) {
        y[i] = a * x[i] * x[i] * x[i];
        if (keep)
            keep[i] = 3 * a * x[i] * x[i];
    }
    return 0;
}
static int cube_backward(mmix_ctx *m, mmix_call *call)
{
    real *dx = call->dx[0];
    (void)m;
    for (size_t i = 0; dx && i < mmix_count(call->in[0]); i++)
        dx[i] = (call->add[0] ? dx[i] : 0) + call->dy[0][i] * call->saved[0][i];
    return 0;
}
/* A backward in a backward would take the tape that it stands in. */
static int nested_backward(mmix_ctx *m, mmix_call *call)
{
    mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new1(m, 2), 1));
    mmix_record(m, 1);
    return mmix_backward(m, mmix_sum(m, mmix_silu(m, x))) ? -1 : cube_backward(m, call);
}
static int fails(mmix_ctx *m, mmix_call *call)
{
    (void)call;
    return mmix_fail(m, MMIX_ERROR_DEVICE, "not today");
}
/* Blocks of a checkpoint: x -> silu(0.9 x + 0.1), 5 times (or as often as user says); the same in a
   checkpoint of its own; one that can't. */
static mmix_tensor *chain(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    mmix_tensor *x = in[0];
    for (int i = 0; i < (user ? *(const int *)user : 5); i++)
        x = mmix_silu(m, mmix_affine(m, x, 0.9, 0.1));
    return x;
}
static mmix_tensor *nest(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    mmix_tensor *x = chain(m, user, in);
    return mmix_checkpoint(m, chain, user, 0, &x, 1);
}
static mmix_tensor *no_block(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    (void)user;
    (void)in;
    mmix_fail(m, MMIX_ERROR_ARGUMENT, "no_block: never");
    return NULL;
}

static void checkpoints(mmix_ctx *m)
{
    mmix_tensor *in[13], *p, *q, *w = mmix_require_grad(mmix_fill(mmix_new1(m, 1000), 0.5));
    /* far wider than a block of the arena when 400 of them are kept */
    enum { WIDE = 10000 };
    static real once[WIDE];
    size_t most[2];
    const int twice = 2;
    for (int k = 0; k < 13; k++)
        in[k] = w;
    BAD(mmix_checkpoint(m, chain, NULL, 0, in, 13), "mmix_checkpoint", "inputs is 13");
    BAD(mmix_checkpoint(m, no_block, NULL, 0, in, 1), "no_block", "never");
    mmix_record(m, 0);
    p = mmix_checkpoint(m, chain, &twice, sizeof twice, in, 1);
    q = chain(m, &twice, in);
    ALIKE(p, q, 0);
    /* plain; checkpoints in checkpoints: fewer bytes, the same bits */
    for (int k = 0; k < 2; k++) {
        mmix_ctx *own = context(1, 0);
        w = mmix_require_grad(mmix_fill(mmix_new1(own, WIDE), 0.5));
        mmix_record(own, 1);
        p = w;
        for (int i = 0; i < 20; i++)
            p = k ? mmix_checkpoint(own, nest, NULL, 0, &p, 1) : nest(own, NULL, &p);
        mmix_backward(own, mmix_sum(own, p));
        most[k] = mmix_memory(own).peak;
        if (k)
            for (int i = 0; i < WIDE; i++)
                IS(mmix_data(mmix_grad(w))[i], once[i]);
        mmix_read(mmix_grad(w), once);
        FINE(own);
        mmix_destroy(own);
    }
    COMPARE(most[1] < most[0] / 3, "checkpoints take less memory", (double)most[1],
            (double)most[0]);
    mmix_reset(m);
}
static void tensors(void)
{
    mmix_ctx *m = context(1, 0);
    size_t s[4] = { 2, 3, 4, 5 }, six[6] = { 1, 2, 1, 2, 1, 2 };
    int order[4] = { 3, 1, 0, 2 };
    real v[120], w[120];
    mmix_tensor *t, *x, *y;
    static const real one = 1, two = 2;
    doing("tensors");
    for (int i = 0; i < 120; i++)
        v[i] = (real)i;
    t = mmix_from(m, 4, s, v);
    CHECK(mmix_ndim(t) == 4 && mmix_dtype(t) == MMIX_DTYPE_REAL && mmix_count(t) == 120
          && mmix_shape(t, -1) == 5 && mmix_shape(t, 0) == 2 && mmix_shape(t, 4) == 0
          && mmix_shape(t, -5) == 0);
    CHECK(mmix_stride(t, 0) == 60 && mmix_stride(t, -1) == 1 && mmix_stride(t, 2) == 5);
    CHECK(mmix_data_i32(t) == NULL && mmix_count(NULL) == 0 && mmix_shape(NULL, 0) == 0
          && mmix_data(NULL) == NULL && mmix_grad(NULL) == NULL);
    CHECK(mmix_item(t) != mmix_item(t));
    CHECK((uintptr_t)mmix_data(t) % 64 == 0);
    x = mmix_slice(m, t, 2, 1, 2);
    CHECK(mmix_shape(x, 2) == 2 && mmix_stride(x, 0) == 60 && mmix_data(x) == mmix_data(t) + 5);
    mmix_read(x, w);
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 2; c++)
                for (int d = 0; d < 5; d++)
                    IS(w[((a * 3 + b) * 2 + c) * 5 + d], a * 60 + b * 20 + (c + 1) * 5 + d);
    x = mmix_permute(m, t, order);
    CHECK(mmix_shape(x, 0) == 5 && mmix_shape(x, 1) == 3 && mmix_shape(x, 2) == 2
          && mmix_shape(x, 3) == 4);
    IS(mmix_data(x)[((4 * 3 + 2) * 2 + 1) * 4 + 3], 119);
    IS(mmix_data(x)[((1 * 3 + 2) * 2 + 0) * 4 + 3], 2 * 20 + 3 * 5 + 1);
    x = shaped(m, t, 2, 6, 20, 0);
    CHECK(mmix_data(x) == mmix_data(t) && mmix_stride(x, 0) == 20);
    /* must copy, or keep the stride */
    x = shaped(m, mmix_slice(m, t, 3, 0, 4), 2, 24, 4, 0);
    mmix_read(x, w);
    IS(w[95], 118);
    x = mmix_fill(mmix_slice(m, t, 3, 4, 1), -1);
    IS(mmix_data(t)[119], -1);
    IS(mmix_data(t)[118], 118);
    for (int i = 0; i < 24; i++)
        w[i] = (real)(1000 + i);
    IS(mmix_write(x, w), 0);
    IS(mmix_data(t)[119], 1023);
    x = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 6, six), 3);
    IS(mmix_item(mmix_sum(m, x)), 24);
    x = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 0, NULL), 4);
    IS(mmix_item(x), 4);
    IS(mmix_item(mmix_sqrt(m, x)), 2);
    /* int32 views */
    x = mmix_from_i32(m, 2, s, (const int32_t *)v);
    CHECK(mmix_dtype(x) == MMIX_DTYPE_I32 && mmix_data(x) == NULL
          && mmix_data_i32(mmix_slice(m, x, 1, 1, 2)) == mmix_data_i32(x) + 1);
    CHECK(!mmix_require_grad(x) || !mmix_grad(x));
    /* the tape */
    doing("tape");
    IS(mmix_record(m, 1), 0);
    IS(mmix_record(m, 1), 1);
    t = mmix_fill(mmix_new2(m, 4, 6), 2);
    /* on a view: of what is viewed */
    mmix_require_grad(mmix_slice(m, t, 1, 2, 3));
    y = mmix_slice(m, t, 1, 2, 3);
    mmix_backward(m, mmix_sum(m, mmix_mul(m, y, y)));
    IS(mmix_data(mmix_grad(y))[0], 4);
    IS(mmix_data(mmix_grad(t))[2], 4);
    IS(mmix_data(mmix_grad(t))[1], 0);
    IS(mmix_data(mmix_grad(t))[5], 0);
    x = mmix_fill(mmix_new1(m, 3), 1);
    CHECK(mmix_grad(x) == NULL);
    y = mmix_silu(m, x);
    BAD_INT(mmix_backward(m, mmix_sum(m, y)), "mmix_backward", "not recorded");
    mmix_require_grad(x);
    /* several outputs, upstream gradients, one of them a view */
    {
        mmix_tensor *out[3], *up[3];
        out[0] = mmix_affine(m, x, 2, 0);
        y = mmix_affine(m, x, 3, 0);
        out[1] = mmix_slice(m, y, 0, 1, 2);
        out[2] = mmix_slice(m, y, 0, 0, 2);
        up[0] = mmix_fill(mmix_new1(m, 3), 1);
        up[1] = mmix_fill(mmix_new1(m, 2), 10);
        up[2] = mmix_fill(mmix_new1(m, 2), 100);
        BAD_INT(mmix_backward_from(m, out, up + 1, 1), "gradients[0] has shape (2), expected (3)",
                "mmix_backward");
        IS(mmix_backward_from(m, out, up, 3), 0);
        IS(mmix_data(mmix_grad(x))[0], 2 + 300);
        IS(mmix_data(mmix_grad(x))[1], 2 + 330);
        IS(mmix_data(mmix_grad(x))[2], 2 + 30);
    }
    FINE(m);
    /* ops of one's own */
    doing("custom ops");
    for (int k = 0; k < 3; k++) {
        mmix_op_functions cube = { cube_forward, cube_backward };
        mmix_tensor *in[1], *p, *q;
        size_t three = 3;
        x = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 2));
        in[0] = x;
        p = mmix_custom_op(m, in, 1, 1, &three, cube, &one);
        IS(mmix_data(p)[2], 8);
        in[0] = k ? p : x;
        q = mmix_custom_op(m, in, 1, 1, &three, cube, &two);
        mmix_backward(m, mmix_sum(m, k == 2 ? mmix_add(m, p, q) : q));
        static const double slope[] = { 24, 12 * 6 * 64, 12 * 6 * 64 + 12 };
        IS(mmix_data(mmix_grad(x))[1], slope[k]);
        cube.backward = NULL;
        in[0] = x;
        p = mmix_custom_op(m, in, 1, 1, &three, cube, &one);
        BAD_INT(mmix_backward(m, mmix_sum(m, p)), "mmix_backward", "without a backward");
        cube.backward = nested_backward;
        p = mmix_custom_op(m, in, 1, 1, &three, cube, &one);
        BAD_INT(mmix_backward(m, mmix_sum(m, p)), "mmix_backward", "inside of a backward");
        cube.forward = fails;
        CHECK(!mmix_custom_op(m, in, 1, 1, &three, cube, &one)
              && mmix_error_kind(m) == MMIX_ERROR_DEVICE);
        mmix_error_clear(m);
        BAD(mmix_custom_op(m, in, 13, 1, &three, cube, &one), "mmix_custom_op", "inputs is 13");
        mmix_reset(m);
    }
    doing("checkpoints");
    checkpoints(m);
    {
        mmix_op_functions cube = { cube_forward, cube_backward };
        real silu;
        x = mmix_fill(mmix_new1(m, 4), 2);
        silu = mmix_data(mmix_silu(m, x))[0];
        mmix_record(m, 0);
        cube.forward = fails;
        IS(mmix_op_set(m, MMIX_OP_SILU, &cube), 0);
        CHECK(mmix_op_get(m, MMIX_OP_SILU).forward == fails
              && mmix_op_get(m, MMIX_OP_SILU).backward == cube_backward);
        CHECK(!mmix_op_get(m, -1).forward && !mmix_op_get(m, MMIX_OP_COUNT).forward
              && !mmix_op_user(m));
        mmix_op_user_set(m, &silu);
        CHECK(mmix_op_user(m) == &silu);
        CHECK(!mmix_silu(m, x) && mmix_error_kind(m) == MMIX_ERROR_DEVICE);
        mmix_error_clear(m);
        CHECK(mmix_gelu(m, x) != NULL);
        IS(mmix_op_set(m, MMIX_OP_SILU, NULL), 0);
        IS(mmix_data(mmix_silu(m, x))[0], silu);
    }
    FINE(m);
    mmix_destroy(m);
}

/* The rare ops where they bend, and dropout. */
static void rare(void)
{
    static const double at[9] = {-800, -2.5, -1e-9, 0, 1e-9, 0.04, 1, 3, 800};
    mmix_ctx *m = mmix_create(NULL);
    mmix_tensor *x = mmix_new1(m, 9), *y[8];
    for (int i = 0; i < 9; i++)
        mmix_data(x)[i] = (mmix_real)at[i];
    y[0] = mmix_relu(m, x);
    y[1] = mmix_abs(m, x);
    y[2] = mmix_sigmoid(m, x);
    y[3] = mmix_tanh(m, x);
    y[4] = mmix_pow(m, x, 3);
    y[5] = mmix_pow(m, x, -0.5);
    y[6] = mmix_maximum(m, x, mmix_fill(mmix_new1(m, 1), 0.5));
    y[7] = mmix_rates(m, x);
    for (int i = 0; i < 9; i++) {
        const double v = (double)mmix_data(x)[i],
                     want[8] = { v > 0 ? v : 0, fabs(v),      1 / (1 + exp(-v)), tanh(v),
                                 v * v * v,     pow(v, -0.5), fmax(v, 0.5),      -exp(v) };
        for (int k = 0; k < 8; k++) {
            const double got = (double)mmix_data(y[k])[i];
            snprintf(about, sizeof about, "op %d of %g: %.17g, expected %.17g", k, v, got, want[k]);
            CHECK_AT(want[k] != want[k]
                         ? got != got
                         : got == want[k] || fabs(got - want[k]) <= 8 * EPS * fabs(want[k])
                               || (mmix_real)want[k] == (mmix_real)got,
                     about);
        }
    }
    mmix_data(x)[0] = NAN;
    y[0] = mmix_relu(m, x);
    y[1] = mmix_maximum(m, x, mmix_fill(mmix_new1(m, 1), 0));
    y[2] = mmix_maximum(m, mmix_fill(mmix_new1(m, 1), 0), x);
    for (int k = 0; k < 3; k++)
        CHECK(isnan((double)mmix_data(y[k])[0]));
    mmix_tensor *one = mmix_fill(mmix_new2(m, 50, 80), 1);
    mmix_tensor *a = mmix_dropout(m, one, 0.3, 1, 2);
    mmix_tensor *b = mmix_dropout(m, one, 0.3, 1, 2);
    mmix_tensor *c = mmix_dropout(m, one, 0.3, 2, 2);
    int zeros = 0, other = 0;
    for (int i = 0; i < 4000; i++) {
        const double v = (double)mmix_data(a)[i];
        zeros += v == 0;
        if (v != 0) NEAR(v, 1 / 0.7, 4 * EPS);
        IS(v, mmix_data(b)[i]);
        other += v != (double)mmix_data(c)[i];
    }
    NEAR(zeros, 1200, 120);
    NEAR(other, 1680, 150);                      /* 2 · 0.3 · 0.7 */
    CHECK(mmix_dropout(m, one, 0, 1, 2) == one);
    FINE(m);
    mmix_destroy(m);
}
#ifdef MMIX_REGRESSION
/* What a backward reads again must be what the op saw. */
static void overwritten(void)
{
    mmix_ctx *m = context(1, 3);
    doing("an input overwritten after it was recorded");
    for (int how = 0; how < 2; how++) {
        mmix_tensor *x = mmix_require_grad(mmix_fill_normal(m, mmix_new2(m, 3, 4), 1, 1)), *y;
        mmix_record(m, 1);
        y = mmix_mean(m, mmix_silu(m, x));
        if (how) mmix_data(x)[5] += 1;
        IS(mmix_backward(m, y), how ? -1 : 0);
        CHECK(!how == !mmix_error(m)
              && (!how || (strstr(mmix_error(m), "overwritten") && strstr(mmix_error(m), "silu"))));
        mmix_error_clear(m);
        mmix_reset(m);
    }
    mmix_destroy(m);
}
#endif

/* A sum over an axis of one, of a view whose step along it is the whole tensor's. */
/* A mark between forward and backward, of whose memory the backward frees a part: the ends of step
   memory do not cross, and what is dropped can be had again. */
static void mark_before_backward(mmix_ctx *m)
{
    size_t held = 0;
    doing("a mark before the backward");
    for (int step = 0; step < 6; step++) {
        mmix_tensor *x = mmix_require_grad(mmix_fill(mmix_new1(m, 1 << 14), 1)), *y = x;
        mmix_record(m, 1);
        for (int i = 0; i < 40; i++) y = mmix_silu(m, y);
        mmix_tensor *loss = mmix_sum(m, y);
        const mmix_mark mark = mmix_mark_here(m);
        mmix_backward(m, loss);
        mmix_record(m, 0);
        mmix_tensor *keep[2] = { mmix_exp(m, x), mmix_silu(m, x) };
        if (step == 3) keep[1] = mmix_fill(mmix_new1(m, 1 << 18), 3);
        IS(mmix_rewind_keep(m, mark, keep, 2), 0);
        const mmix_mark now = mmix_mark_here(m);
        CHECK(now.step.low <= now.step.high);
        mmix_tensor *more = mmix_fill(mmix_new1(m, 1 << 17), 7);
        NEAR(mmix_data(keep[0])[100], 2.7182818284590452, 1e-5);
        IS(mmix_data(more)[0], 7);
        mmix_reset(m);
    }
    mmix_tensor *a = mmix_require_grad(mmix_fill(mmix_new1(m, 1 << 12), 1));
    const mmix_mark mark = mmix_mark_here(m);
    for (int i = 0; i < 200; i++) {              /* gradients are dropped with the rest */
        mmix_record(m, 1);
        mmix_backward(m, mmix_sum(m, mmix_mul(m, a, a)));
        mmix_record(m, 0);
        mmix_tensor *norm = mmix_sum(m, mmix_grad(a));
        IS(mmix_rewind_keep(m, mark, &norm, 1), 0);
        IS(mmix_data(norm)[0], 2 << 12);
        if (i == 20) held = mmix_memory(m).bytes;
    }
    IS(mmix_memory(m).bytes, held);
    FINE(m);
    mmix_reset(m);
}
/* A gradient as a leaf of its own, and as what a backward begins with. */
static void gradient_as_leaf(mmix_ctx *m)
{
    const real v[4] = { 1, 2, 3, 4 };
    const size_t n = 4;
    doing("a gradient as a leaf");
    mmix_fill(mmix_new1(m, 100000), 7);
    mmix_reset(m);
    mmix_tensor *x = mmix_require_grad(mmix_from(m, 1, &n, v));
    mmix_record(m, 1);
    mmix_backward(m, mmix_sum(m, mmix_mul(m, x, x)));
    mmix_tensor *g = mmix_require_grad(mmix_grad(x));
    CHECK(!mmix_grad(g));
    mmix_backward(m, mmix_sum(m, mmix_mul(m, g, g)));
    for (int i = 0; i < 4; i++) IS(mmix_data(mmix_grad(g))[i], 4 * (i + 1));
    mmix_reset(m);
    doing("a gradient that a backward begins with");
    x = mmix_require_grad(mmix_from(m, 1, &n, v));
    mmix_backward(m, mmix_sum(m, x));
    mmix_tensor *y = mmix_mul(m, x, x), *ones = mmix_grad(x);
    mmix_backward_from(m, &y, &ones, 1);
    for (int i = 0; i < 4; i++) IS(mmix_data(mmix_grad(x))[i], 1 + 2 * (i + 1));
    mmix_record(m, 0);
    FINE(m);
    mmix_reset(m);
}
/* One number beside many, at the very end of its memory: its neighbours are not read. */
static void one_number(mmix_ctx *m)
{
    doing("one number beside 200");
    mmix_tensor *one = mmix_require_grad(mmix_fill(mmix_new1(m, 1), 2));
    mmix_tensor *many = mmix_require_grad(mmix_fill_normal(m, mmix_new1(m, 200), 1, 1));
    mmix_record(m, 1);
    mmix_tensor *loss = mmix_sum(m, mmix_add(m, many, one));
    mmix_backward(m, mmix_add(m, loss, mmix_sum(m, mmix_sub(m, one, many))));
    mmix_record(m, 0);
    IS(mmix_data(mmix_grad(one))[0], 400);
    IS(mmix_data(mmix_grad(many))[199], 0);
    /* of a NaN each operand of a maximum gets half */
    const real v[2] = { (real)NAN, 1 };
    const size_t n = 2;
    mmix_tensor *a = mmix_require_grad(mmix_from(m, 1, &n, v));
    mmix_tensor *b = mmix_require_grad(mmix_fill(mmix_new1(m, 2), 1));
    mmix_record(m, 1);
    mmix_tensor *y = mmix_maximum(m, a, b);
    CHECK(mmix_data(y)[0] != mmix_data(y)[0]);
    mmix_backward(m, mmix_sum(m, y));
    mmix_record(m, 0);
    CHECK(mmix_data(mmix_grad(a))[0] == (real)0.5 && mmix_data(mmix_grad(b))[0] == (real)0.5);
    FINE(m);
    mmix_reset(m);
}
static mmix_tensor *same_block(mmix_ctx *m, const void *user, mmix_tensor **in)
{
    (void)user;
    (void)m;
    return in[0];
}
static void odd_calls(mmix_ctx *m)
{
    doing("odd calls");
    const mmix_mark mark = mmix_mark_here(m);
    const size_t huge[2] = { 1, SIZE_MAX / 32 + 2 };
    const real v[2] = { 1, 1 };
    const size_t shape[4] = { 1, 1, 1, 2 };
    mmix_tensor *x = mmix_from(m, 4, shape, v);
    BAD_INT(mmix_rewind_keep(m, mark, NULL, 1), "mmix_rewind_keep", "keep is NULL");
    BAD(mmix_checkpoint(m, NULL, NULL, 0, &x, 1), "mmix_checkpoint", "f is NULL");
    BAD(mmix_checkpoint(m, same_block, NULL, 8, &x, 1), "mmix_checkpoint", "user is NULL");
    for (int dtype = MMIX_DTYPE_BF16; dtype <= MMIX_DTYPE_Q4; dtype++)
        BAD(mmix_new(m, dtype, 2, huge), "axis 1 has size", "");
    /* a scale below out/in goes on beyond the last pixel, which stays */
    mmix_tensor *y = mmix_interpolate(m, x, MMIX_RESIZE_BICUBIC_ANTIALIAS, 1, 6, 0, 1);
    for (int i = 0; i < 6; i++) NEAR(mmix_data(y)[i], 1, 10 * EPS);
    /* angles of any size turn, and do not grow */
    mmix_tensor *q = mmix_fill(mmix_new4(m, 1, 1, 1, 2), 1);
    mmix_tensor *angle = mmix_fill(mmix_new2(m, 1, 1), 1e20);
    mmix_tensor *turned = mmix_rope(m, q, angle, NULL);
    CHECK(turned && largest(turned) <= 1.5);
    FINE(m);
    mmix_reset(m);
}
static void corners(void)
{
    mmix_ctx *m = context(1, 0);
    mark_before_backward(m);
    gradient_as_leaf(m);
    one_number(m);
    odd_calls(m);
    mmix_destroy(m);
}
static void sum_of_view(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_tensor *x = mmix_require_grad(mmix_fill_normal(m, mmix_new3(m, 1, 40, 4), 1, 1)), *y;
    doing("sum of a view");
    mmix_record(m, 1);
    y = mmix_sum_axis(m, mmix_slice(m, x, 1, 8, 2), 0);
    CHECK(y && !memcmp(mmix_data(y), mmix_data(x) + 32, 8 * sizeof(real)));
    CHECK(!mmix_backward(m, mmix_sum(m, y)));
    for (size_t i = 0; mmix_grad(x) && i < 160; i++)
        CHECK(mmix_data(mmix_grad(x))[i] == (i >= 32 && i < 40 ? 1 : 0));
    mmix_destroy(m);
}

/* mmix_ssd_reference is not recorded, nor is the state that it returns. */
static void reference(void)
{
    mmix_ctx *m = context(1, 0);
    mmix_tensor *x = mmix_fill(mmix_new4(m, 1, 3, 1, 1), 1);
    mmix_tensor *state = mmix_require_grad(mmix_fill(mmix_new4(m, 1, 1, 1, 1), 1));
    mmix_tensor *last = NULL;
    mmix_mixer ssd = mmix_mixer_ssd(x, mmix_fill(mmix_new3(m, 1, 3, 1), 1),
                                    mmix_fill(mmix_new1(m, 1), -1), x, x);
    doing("the reference's state");
    ssd.initial_state = state;
    ssd.final_state = &last;
    mmix_record(m, 1);
    CHECK(mmix_ssd_reference(m, &ssd) && last);
    BAD_INT(mmix_backward(m, mmix_sum(m, last)), "mmix_backward", "record");
    mmix_destroy(m);
}

/* ---- sums of a million numbers: as exact as sums of few ---- */

#ifdef MMIX_REGRESSION
enum { MANY = 50000 };
#else
enum { MANY = 1000000 };
#endif
/* its sums in float drift by a hundredth, one after another */
static const real TENTH = (real)0.1;

static void sum_is(const char *what, const mmix_tensor *t, size_t i, double expected)
{
    double got = t ? (double)mmix_data(t)[i] : (double)NAN;
    double bound = sizeof(real) == 4 ? 1e-6 : 1e-10;
    COMPARE(fabs(got / expected - 1) <= bound, what, got, expected);
}
/* Goes back from y, whose gradient is a tenth everywhere. */
static void back_from(mmix_ctx *m, mmix_tensor *y)
{
    int recording = mmix_record(m, 0);
    mmix_tensor *dy = mmix_fill(mmix_affine(m, y, 0, 0), (double)TENTH);
    mmix_record(m, recording);
    IS(mmix_backward_from(m, &y, &dy, 1), 0);
}
static mmix_tensor *leaf2(mmix_ctx *m, size_t a, size_t b, double value)
{
    return mmix_require_grad(mmix_fill(mmix_new2(m, a, b), value));
}
static void long_stretched(mmix_ctx *m)
{
    const double tenth = (double)TENTH, half = 0.5;
    for (int op = 0; op < 5; op++) {
        static const char *const names[] = { "add", "sub", "mul", "div", "max" };
        mmix_tensor *(*const ops[])(mmix_ctx *, mmix_tensor *, mmix_tensor *) = {
            mmix_add, mmix_sub, mmix_mul, mmix_div, mmix_maximum
        };
        /* of each term with b = 2, a = 1/2 */
        const double slope[] = { 1, -1, half, -half / 4, 1 };
        const size_t middle[] = { 50, 6, 10, 10 }, six[] = { 6, 1, 1 };
        mmix_tensor *a = mmix_fill(mmix_new2(m, MANY, 4), half);
        mmix_tensor *b = leaf2(m, 1, 4, 2);
        mmix_tensor *one = leaf2(m, 1, 1, 2);
        mmix_tensor *c = mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 4, middle), half);
        mmix_tensor *d = mmix_require_grad(mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 3, six), 2));
        mmix_tensor *rows = mmix_fill(mmix_new2(m, 3, MANY), half);
        mmix_tensor *e = leaf2(m, 3, 1, 2);
        doing(names[op]);
        back_from(m, ops[op](m, a, b));
        back_from(m, ops[op](m, a, one));
        back_from(m, ops[op](m, c, d));
        back_from(m, ops[op](m, rows, e));
        sum_is("a row", mmix_grad(b), 3, MANY * tenth * slope[op]);
        sum_is("a number", mmix_grad(one), 0, 4.0 * MANY * tenth * slope[op]);
        sum_is("axes on both sides", mmix_grad(d), 5, 5000 * tenth * slope[op]);
        sum_is("the last axis", mmix_grad(e), 2, MANY * tenth * slope[op]);
        mmix_reset(m);
    }
    doing("div, above");
    {
        mmix_tensor *a = leaf2(m, 1, 4, 2);
        mmix_tensor *b = mmix_fill(mmix_new2(m, MANY, 4), half);
        back_from(m, mmix_div(m, a, b));
        sum_is("a row", mmix_grad(a), 1, MANY * tenth * 2);
        mmix_reset(m);
    }
    doing("insert_token");
    {
        mmix_tensor *token = mmix_require_grad(mmix_fill(mmix_new1(m, 3), 1));
        back_from(m, mmix_insert_token(m, mmix_new3(m, MANY / 10, 1, 3), token, 1));
        sum_is("the token", mmix_grad(token), 2, MANY / 10 * tenth);
        mmix_reset(m);
    }
}
/* Rows of 1, 2, 3, 4 in every norm: x̂ is the same in each. */
static void long_norms(mmix_ctx *m)
{
    const double tenth = (double)TENTH, silu = 1 / (1 + exp(-1.0));
    for (int op = 0; op < 3; op++) {
        static const char *const names[] = { "layer_norm", "rms_norm", "gated_rms_norm" };
        mmix_tensor *x = mmix_new2(m, MANY, 4);
        mmix_tensor *z = mmix_fill(mmix_new2(m, MANY, 4), 1);
        mmix_tensor *y;
        mmix_tensor *w = mmix_require_grad(mmix_fill(mmix_new1(m, 4), 1));
        mmix_tensor *b = mmix_require_grad(mmix_fill(mmix_new1(m, 4), 1));
        double xhat = op ? 4 / sqrt(7.5 + 1e-5) : 1.5 / sqrt(1.25 + 1e-5);
        doing(names[op]);
        if (op == 2)
            xhat = 4 * silu / sqrt(7.5 * silu * silu + 1e-5);
        for (size_t i = 0; i < mmix_count(x); i++)
            mmix_data(x)[i] = (real)(i % 4 + 1);
        if (op == 0)
            y = mmix_layer_norm(m, x, w, b, 1e-5);
        else if (op == 1)
            y = mmix_rms_norm(m, x, w, 1e-5);
        else y = mmix_gated_rms_norm(m, x, z, w, 1e-5, 1);
        back_from(m, y);
        sum_is("weight", mmix_grad(w), 3, MANY * tenth * xhat);
        if (op == 0)
            sum_is("bias", mmix_grad(b), 3, MANY * tenth);
        mmix_reset(m);
    }
}
static void long_layers(mmix_ctx *m)
{
    const double tenth = (double)TENTH;
    mmix_tensor *x = mmix_fill(mmix_new2(m, MANY, 1), 0.5);
    mmix_tensor *w = leaf2(m, 200, 1, 1);
    mmix_tensor *y;
    mmix_tensor *b = mmix_require_grad(mmix_fill(mmix_new1(m, 200), 1));
    const size_t pixels[] = { 1, 1, 2, 1 };
    mmix_causal_conv1d_options silu;
    doing("linear");
    y = mmix_linear(m, mmix_slice(m, x, 0, 0, MANY / 10), w, b);
    back_from(m, y);
    sum_is("bias", mmix_grad(b), 0, MANY / 10 * tenth);
    sum_is("bias", mmix_grad(b), 199, MANY / 10 * tenth);
    mmix_reset(m);
    memset(&silu, 0, sizeof silu);
    silu.silu = 1;
    for (int s = 0; s < 2; s++) {
        double slope = s ? 1 / (1 + exp(-2.0)) * (1 + 2 * (1 - 1 / (1 + exp(-2.0)))) : 1;
        doing(s ? "conv1d with silu" : "conv1d");
        x = mmix_fill(mmix_new3(m, 1, MANY, 5), 0.5);
        w = mmix_require_grad(mmix_fill(mmix_new3(m, 5, 1, 2), 1));
        b = mmix_require_grad(mmix_fill(mmix_new1(m, 5), 1));
        back_from(m, mmix_causal_conv1d(m, x, w, b, s ? &silu : NULL));
        /* the first token has one tap: u is 1.5 there, 2 elsewhere */
        sum_is("weight", mmix_grad(w), 8, (MANY - 1) * tenth * 0.5 * slope);
        if (!s)
            sum_is("bias", mmix_grad(b), 4, MANY * tenth);
        mmix_reset(m);
    }
    doing("gather");
    {
        const size_t n = MANY;
        int32_t *at = (int32_t *)malloc(n * sizeof *at);
        mmix_tensor *table = leaf2(m, 3, 70, 1), *index, *part;
        for (size_t i = 0; i < n; i++)
            at[i] = i % 100 ? 2 : 0;
        index = mmix_from_i32(m, 1, &n, at);
        back_from(m, mmix_take_rows(m, table, mmix_slice(m, index, 0, 0, MANY / 10)));
        sum_is("rare", mmix_grad(table), 69, MANY / 1000 * tenth);
        sum_is("frequent", mmix_grad(table), 140, MANY / 1000 * 99 * tenth);
        IS(mmix_data(mmix_grad(table))[70], 0);
        part = mmix_fill(mmix_new3(m, 2, MANY / 10, 3), (double)TENTH);
        y = mmix_add_rows(m, mmix_fill(mmix_new3(m, 2, 4, 3), 0), part,
                          mmix_slice(m, index, 0, 0, MANY / 10));
        doing("add_rows");
        sum_is("frequent", y, 2 * 3, MANY / 1000 * 99 * tenth);
        sum_is("of the second", y, 12 + 2 * 3 + 1, MANY / 1000 * 99 * tenth);
        free(at);
        mmix_reset(m);
    }
    doing("resize");
    x = mmix_require_grad(mmix_fill(mmix_new(m, MMIX_DTYPE_REAL, 4, pixels), 1));
    back_from(m, mmix_interpolate(m, x, MMIX_RESIZE_BILINEAR, MANY / 10, 3, 0, 0));
    sum_is("a pixel", mmix_grad(x), 1, MANY / 20 * 3 * tenth);
    mmix_reset(m);
}
/* The same bits of long sums for any number of threads: a hash of all gradients. */
static uint64_t long_bits(int threads)
{
    const size_t n = 20011, tokens[] = { 1, 20011, 37 }, filters[] = { 37, 1, 1 };
    uint64_t h = 1469598103934665603u;
    mmix_ctx *m = context(threads, 0);
    int32_t *at = (int32_t *)malloc(n * sizeof *at);
    mmix_tensor *leaf[7], *y;
    state = 7;
    mmix_record(m, 1);
    for (size_t i = 0; i < 7; i++)
        leaf[i] = mmix_require_grad(random1(m, i == 3 ? 1 : 37, -1, 1));
    for (size_t i = 0; i < n; i++)
        at[i] = (int32_t)any(0, 3);
    y = mmix_take_rows(m, shaped(m, random1(m, 4 * 37, -1, 1), 2, 4, 37, 0),
                       mmix_from_i32(m, 1, &n, at));
    y = mmix_layer_norm(m, mmix_mul(m, mmix_add(m, y, leaf[0]), leaf[1]), leaf[2], leaf[4], 1e-5);
    y = mmix_reshape(m, mmix_div(m, y, leaf[3]), 3, tokens);
    y = mmix_causal_conv1d(m, y, mmix_reshape(m, leaf[5], 3, filters), leaf[6], NULL);
    back_from(m, mmix_sum_axis(m, y, 1));
    for (size_t i = 0; i < 7; i++)
        h = hash_of(mmix_data(mmix_grad(leaf[i])), mmix_count(leaf[i]), h);
    FINE(m);
    free(at);
    mmix_destroy(m);
    return h;
}
static void long_sums(void)
{
    mmix_tensor *x, *y;
    mmix_ctx *m = context(2, 0);
    mmix_record(m, 1);
    doing("sum_axis");
    x = mmix_fill(mmix_new2(m, MANY, 4), (double)TENTH);
    y = mmix_sum_axis(m, x, 0);
    for (size_t i = 0; i < 4; i++)
        sum_is("the first axis", y, i, MANY * (double)TENTH);
    y = mmix_sum_axis(m, mmix_fill(mmix_new3(m, 2, MANY / 2, 2), (double)TENTH), 1);
    sum_is("the second axis", y, 3, MANY / 2 * (double)TENTH);
    sum_is("the last axis", mmix_sum_axis(m, shaped(m, x, 2, 4, MANY, 0), 1), 2,
           MANY * (double)TENTH);
    sum_is("all", mmix_sum(m, x), 0, 4.0 * MANY * (double)TENTH);
    mmix_reset(m);
    long_stretched(m);
    long_norms(m);
    long_layers(m);
    doing("threads");
    CHECK(long_bits(1) == long_bits(2) && long_bits(1) == long_bits(3));
    FINE(m);
    mmix_destroy(m);
}

int main(int argc, char **argv)                  /* arguments: the sections to run; none: all */
{
    static const section all[] = {
        { "lifetimes", lifetimes }, { "tensors", tensors }, { "rare", rare }, { "corners", corners },
        { "views", sum_of_view }, { "long sums", long_sums }, { "reference", reference }
#ifdef MMIX_REGRESSION
        , { "overwritten", overwritten }
#endif
    };
    return sections(all, sizeof all / sizeof all[0], argc, argv);
}
