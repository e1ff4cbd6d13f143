/* Pictures: each fast loop against its plain definition, identities, crops, threads, PPM files good
   and bad.

   cc -O2 tests/images.c -o images -lm -lpthread && ./images */
#include "test.h"

static size_t blocks_left = SIZE_MAX;              /* of ppm.h: then there is no memory */
static void *blocks_malloc(size_t size) { return blocks_left ? blocks_left--, malloc(size) : NULL; }
#define BYTES_MALLOC(size) blocks_malloc(size)
#define BYTES_FREE(p) free(p)
#include "../demos/studies/ppm.h"
#include "../demos/studies/exif.h"

static int check(int ok, const char *what, size_t detail)
{
    if (ok) passed++;
    else {
        failed++;
        printf("FAILED %s (%lu)\n", what, (unsigned long)detail);
    }
    return ok;
}

/* ---- helpers ---- */

static uint32_t lcg_state = 12345;
/* the tests' own numbers, so that the library's are not tested by themselves */
static uint32_t lcg(uint32_t below)
{
    lcg_state = lcg_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(lcg_state >> 8) * below) >> 24);
}

static uint8_t *new_bytes(size_t n)
{
    uint8_t *p = (uint8_t *)malloc(n ? n : 1);
    if (!p) {
        puts("out of memory");
        exit(2);
    }
    return p;
}

/* kind 0: noise; 1: only 0 and 255, where clamping shows; 2: slopes with a little noise */
static uint8_t *draw(size_t width, size_t height, int kind)
{
    uint8_t *p = new_bytes(width * height * 3);
    for (size_t i = 0; i < width * height * 3; i++) {
        size_t x = i / 3 % width, y = i / 3 / width, c = i % 3;
        if (kind == 0) p[i] = (uint8_t)lcg(256);
        else if (kind == 1)
            p[i] = (uint8_t)(255 * lcg(2));
        else p[i] = (uint8_t)((x * (c + 1) * 3 + y * (4 - c) * 2 + lcg(9)) & 255);
    }
    return p;
}

static uint8_t *copy_of(const uint8_t *p, size_t n)
{
    uint8_t *q = new_bytes(n);
    memcpy(q, p, n);
    return q;
}

static mmix_picture picture_of(const uint8_t *rgb, size_t width, size_t height)
{
    mmix_picture p;
    p.rgb = rgb;
    p.width = width;
    p.height = height;
    return p;
}

static mmix_box box_of(size_t top, size_t left, size_t height, size_t width)
{
    mmix_box b;
    b.top = top;
    b.left = left;
    b.height = height;
    b.width = width;
    return b;
}

/* Memory with a border that must stay as it is. */
enum { GUARD = 64 };
static uint8_t *guarded(size_t n)
{
    uint8_t *p = new_bytes(n + 2 * GUARD);
    memset(p, 0xa5, n + 2 * GUARD);
    return p + GUARD;
}
static int guard_ok(uint8_t *p, size_t n)
{
    int ok = 1;
    for (size_t i = 0; i < GUARD; i++)
        ok = ok && p[n + i] == 0xa5 && *(p - 1 - i) == 0xa5;
    free(p - GUARD);
    return ok;
}

static uint64_t fnv(const void *data, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)data)[i]) * 1099511628211u;
    return h;
}

/* ---- the plain definitions ---- */

static double cubic(double x)
{
    x = x < 0 ? -x : x;
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    if (x < 2)
        return (((x - 5) * x + 8) * x - 4) * -0.5;
    return 0;
}

/* One output of one line of n levels, `step` apart. */
static uint8_t plain_resize_one(const uint8_t *in, size_t step, size_t n, size_t m, size_t i)
{
    double r = (double)n / (double)m;
    double f = r > 1 ? r : 1;
    double c = ((double)i + 0.5) * r;
    double total = 0, sum = 2097152;
    long begin = (long)floor(c - 2 * f + 0.5);
    long end = (long)floor(c + 2 * f + 0.5);
    if (begin < 0) begin = 0;
    if (end > (long)n) end = (long)n;
    for (long j = begin; j < end; j++)
        total += cubic(((double)j - c + 0.5) * (1 / f));
    for (long j = begin; j < end; j++) {
        double w = cubic(((double)j - c + 0.5) * (1 / f)) / total * 4194304;
        sum += (w < 0 ? ceil(w - 0.5) : floor(w + 0.5)) * in[(size_t)j * step];
    }
    sum = floor(sum / 4194304);
    if (sum < 0) return 0;
    return (uint8_t)(sum > 255 ? 255 : sum);
}

static uint8_t *plain_resize(mmix_picture in, mmix_box b, size_t height, size_t width)
{
    uint8_t *middle = new_bytes(b.height * width * 3), *out = new_bytes(height * width * 3);
    for (size_t i = 0; i < b.height * width * 3; i++) {
        const uint8_t *line = in.rgb + ((b.top + i / 3 / width) * in.width + b.left) * 3 + i % 3;
        middle[i] = plain_resize_one(line, 3, b.width, width, i / 3 % width);
    }
    for (size_t i = 0; i < height * width * 3; i++) {
        out[i] = plain_resize_one(middle + i % (3 * width), 3 * width, b.height, height,
                                  i / 3 / width);
    }
    free(middle);
    return out;
}

static void plain_box(uint8_t *line, size_t step, size_t n, double sigma)
{
    float s2 = (float)sigma * (float)sigma / 3;
    float l = (float)floor((sqrt(12.0 * (double)s2 + 1) - 1) / 2);
    float r = l + (2 * l + 1) * (l * (l + 1) - 3 * s2) / (6 * (s2 - (l + 1) * (l + 1)));
    long R = (long)r, last = (long)n - 1;
    uint32_t w = (uint32_t)(16777216.0f / (2 * r + 1));
    uint32_t e = (16777216u - (uint32_t)(2 * R + 1) * w) / 2;
    uint8_t *out = new_bytes(n);
    for (long x = 0; x <= last; x++) {
        uint64_t sum = 1u << 23;
        for (long k = x - R - 1; k <= x + R + 1; k++) {
            long at = k < 0 ? 0 : k;
            if (at > last) at = last;
            uint8_t v = line[(size_t)at * step];
            sum += (uint64_t)(k < x - R || k > x + R ? e : w) * v;
        }
        out[x] = (uint8_t)(sum >> 24);
    }
    for (size_t x = 0; x < n; x++)
        line[x * step] = out[x];
    free(out);
}

static void plain_blur(uint8_t *rgb, size_t width, size_t height, double sigma)
{
    for (size_t i = 0; i < 3 * height * 3; i++)
        plain_box(rgb + i / 9 * width * 3 + i % 3, 3, width, sigma);
    for (size_t i = 0; i < 3 * width * 3; i++)
        plain_box(rgb + i / 9 * 3 + i % 3, width * 3, height, sigma);
}

static void plain_hue(uint8_t *p, int turn)
{
    static const int place[6][3] = { { 0, 3, 1 }, { 2, 0, 1 }, { 1, 0, 3 },
                                     { 1, 2, 0 }, { 3, 1, 0 }, { 0, 1, 2 } };
    int v = 0, low = 255, H = 0, S = 0, sector;
    double value[4];                               /* V, V(1-s), V(1-sf), V(1-s(1-f)) */
    float range, f, s;
    for (int c = 0; c < 3; c++) {
        v = p[c] > v ? p[c] : v;
        low = p[c] < low ? p[c] : low;
    }
    range = (float)(v - low);
    if (v > low) {
        float r = (float)(v - p[0]) / range;
        float g = (float)(v - p[1]) / range;
        float b = (float)(v - p[2]) / range;
        float h;
        if (p[0] == v) h = b - g;
        else if (p[1] == v)
            h = (float)(2.0 + (double)r - (double)b);
        else h = (float)(4.0 + (double)g - (double)r);
        h = (float)fmod(h / 6.0 + 1.0, 1.0);
        H = (int)(h * 255.0);
        S = (int)(range / (float)v * 255.0);
    }
    H = (H + turn) & 255;
    sector = (int)floor(H * 6.0 / 255.0);
    f = (float)(H * 6.0 / 255.0 - sector);
    s = (float)(S / 255.0);
    value[0] = v;
    value[1] = v * (1.0 - (double)s);
    value[2] = v * (1.0 - (double)(s * f));
    value[3] = v * (1.0 - (double)s * (1.0 - (double)f));
    for (int c = 0; c < 3; c++)
        p[c] = (uint8_t)round(value[S ? place[sector % 6][c] : 0]);
}

static void boxes_beyond_the_edges(void)
{
    uint8_t in[12] = { 0 }, out[12];
    mmix_picture p = picture_of(in, 2, 2);
    uint8_t *scratch = new_bytes(4096);
    memset(out, 77, sizeof out);
    check(mmix_picture_resize(out, p, mmix_resize_plan_box(box_of(0, 1, 1, 2), 2, 2), scratch)
              == -1,
          "resize: box beyond the right", 0);
    check(mmix_picture_resize(out, p, mmix_resize_plan_box(box_of(2, 0, 1, 1), 2, 2), scratch)
              == -1,
          "resize: box below", 0);
    check(mmix_picture_resize(out, p, mmix_resize_plan_box(box_of((size_t)-1, 0, 2, 1), 2, 2),
                              scratch)
              == -1,
          "resize: box that wraps", 0);
    check(mmix_picture_resize(out, p, mmix_resize_plan_box(box_of(0, 0, 0, 1), 2, 2), scratch)
              == -1,
          "resize: empty box", 0);
    check(mmix_picture_resize(out, p, mmix_resize_plan_box(box_of(0, 0, 1, 1), 0, 2), scratch)
              == -1,
          "resize: empty output", 0);
    check(out[0] == 77 && out[11] == 77, "resize: refused, nothing written", 0);
    check(!mmix_picture_resize_scratch_bytes(
              mmix_resize_plan_box(box_of(0, 0, 1, 1), (size_t)1 << 25, 1)),
          "resize: side too large", 0);
    free(scratch);
}
/* ---- pictures ---- */

static void test_resize(void)
{
    for (size_t t = 0; t < 300; t++) {
        size_t w = 1 + lcg(40), h = 1 + lcg(40);
        size_t ow = 1 + lcg(t % 3 ? 30 : 5);
        size_t oh = 1 + lcg(t % 5 ? 30 : 5);
        size_t bytes;
        size_t bw = 1 + lcg((uint32_t)w), bh = 1 + lcg((uint32_t)h);
        mmix_box b = box_of(lcg((uint32_t)(h - bh + 1)), lcg((uint32_t)(w - bw + 1)), bh, bw);
        uint8_t *in = draw(w, h, (int)(t % 3));
        uint8_t *expect;
        uint8_t *out = guarded(oh * ow * 3);
        uint8_t *scratch;
        mmix_picture p = picture_of(in, w, h);
        expect = plain_resize(p, b, oh, ow);
        bytes = mmix_picture_resize_scratch_bytes(mmix_resize_plan_box(b, ow, oh));
        scratch = guarded(bytes);
        check(mmix_picture_resize(out, p, mmix_resize_plan_box(b, ow, oh), scratch) == 0,
              "resize: accepted", t);
        check(!memcmp(out, expect, oh * ow * 3), "resize: equals the plain loop", t);
        check(guard_ok(out, oh * ow * 3) && guard_ok(scratch, bytes),
              "resize: stays inside its buffers", t);
        free(in);
        free(expect);
    }
    for (size_t n = 1; n < 20; n++) {
        size_t w = n, h = 21 - n;
        size_t bytes = mmix_picture_resize_scratch_bytes(
            mmix_resize_plan_box(box_of(0, 0, h, w), w, h));
        uint8_t *in = draw(w, h, 0);
        uint8_t *out = new_bytes(w * h * 3);
        uint8_t *scratch = new_bytes(bytes);
        mmix_picture_resize(out, picture_of(in, w, h),
                            mmix_resize_plan_box(box_of(0, 0, h, w), w, h), scratch);
        check(!memcmp(in, out, w * h * 3), "resize: the same size is the same picture", n);
        memset(in, (int)n * 13, w * h * 3);
        mmix_picture_resize(out, picture_of(in, w, h),
                            mmix_resize_plan_box(box_of(h / 2, w / 2, h - h / 2, w - w / 2), w, h),
                            scratch);
        check(out[0] == n * 13 && !memcmp(out, out + 1, w * h * 3 - 1),
              "resize: a constant stays constant", n);
        free(in);
        free(out);
        free(scratch);
    }
    boxes_beyond_the_edges();
}

/* Output i of `count` is the mean of the inputs ⌊i n / count⌋ … ⌈(i + 1) n / count⌉ - 1, in whole
   numbers. */
static double plain_area(const mmix_real *x, size_t n, size_t count, size_t i)
{
    size_t begin = i * n / count, end = ((i + 1) * n + count - 1) / count;
    double sum = 0;
    for (size_t k = begin; k < end; k++) sum += (double)x[k];
    return sum / (double)(end - begin);
}
static void test_area(mmix_ctx *m)
{
    enum { MOST = 49 };
    mmix_real line[MOST];
    size_t wrong = 0;
    for (size_t i = 0; i < MOST; i++) line[i] = (mmix_real)((i * i * 37) % 101);
    for (size_t n = 1; n <= MOST; n++)
        for (size_t count = 1; count <= MOST; count++) {
            mmix_tensor *x = mmix_from(m, 4, (const size_t[4]) { 1, 1, 1, n }, line);
            mmix_tensor *y = mmix_interpolate(m, x, MMIX_RESIZE_AREA, 2, count, 0, 0);
            for (size_t i = 0; y && i < 2 * count; i++) {
                double expected = plain_area(line, n, count, i % count);
                wrong += !(fabs((double)mmix_data(y)[i] - expected) < 1e-5 * 101);
            }
            wrong += !y;
            mmix_reset(m);
        }
    check(!wrong, "means over areas", (double)wrong);
}
static void test_evaluate(void)
{
    for (size_t t = 0; t < 60; t++) {
        size_t w = 1 + lcg(50);
        size_t h = 1 + lcg(50);
        size_t side = 1 + lcg(40);
        size_t crop = 1 + lcg((uint32_t)side);
        size_t low = w < h ? w : h;
        size_t mw = w <= h ? side : side * w / low;
        size_t mh = w <= h ? side * h / low : side;
        size_t top = (mh - crop) / 2 + ((mh - crop) % 4 == 3);
        size_t left = (mw - crop) / 2 + ((mw - crop) % 4 == 3);
        size_t bytes = mmix_picture_resize_scratch_bytes(
            mmix_resize_plan_center_crop(w, h, side, crop));
        uint8_t *in = draw(w, h, (int)(t % 3));
        uint8_t *out = guarded(crop * crop * 3);
        uint8_t *scratch = guarded(bytes);
        uint8_t *whole;
        int same = 1;
        whole = plain_resize(picture_of(in, w, h), box_of(0, 0, h, w), mh, mw);
        check(mmix_picture_resize(out, picture_of(in, w, h),
                                  mmix_resize_plan_center_crop(w, h, side, crop), scratch)
                  == 0,
              "evaluate: accepted", t);
        for (size_t y = 0; y < crop; y++) {
            same = same
                   && !memcmp(out + y * crop * 3, whole + ((top + y) * mw + left) * 3, crop * 3);
        }
        check(same, "evaluate: the middle of the resized picture", t);
        check(guard_ok(out, crop * crop * 3) && guard_ok(scratch, bytes),
              "evaluate: stays inside its buffers", t);
        free(in);
        free(whole);
    }
    check(!mmix_picture_resize_scratch_bytes(mmix_resize_plan_center_crop(8, 8, 4, 5)),
          "evaluate: crop larger than the side", 0);
    check(!mmix_picture_resize_scratch_bytes(mmix_resize_plan_center_crop(8, 0, 4, 4)),
          "evaluate: empty picture", 0);
    check(!mmix_picture_resize_scratch_bytes(mmix_resize_plan_center_crop(1, 1 << 20, 1 << 10, 4)),
          "evaluate: the longer side grows too large", 0);
}

static int jitter(uint8_t *p, size_t w, size_t h, int kind, double factor)
{
    return mmix_picture_adjust(p, w, h, kind, factor, NULL);
}

static void odd_jitter(void)
{
    uint8_t p[3] = { 9, 8, 7 };
    const double wrong[] = { NAN, -0.6, 1e9, HUGE_VAL };
    for (size_t i = 0; i < 4; i++) {
        for (int kind = -1; kind < 9; kind++)
            check(jitter(p, 1, 1, kind, wrong[i]) == -1, "jitter: factor out of range", i);
        check(mmix_picture_adjust(p, 1, 1, MMIX_ADJUST_BLUR, wrong[i], p) == -1,
              "blur: sigma out of range", i);
    }
    check(jitter(p, 1, 1, MMIX_ADJUST_BLUR + 1, 1) == -1 && jitter(p, 0, 1, 0, 1) == -1,
          "jitter: unknown kind, empty picture", 0);
    check(jitter(p, 1, 1, MMIX_ADJUST_FLIP, 1) == -1
              && jitter(p, 1, 1, MMIX_ADJUST_GRAY, 0.5) == -1,
          "flip, gray: an amount", 0);
    check(jitter(p, 1, 1, MMIX_ADJUST_SOLARIZE, 257) == -1
              && jitter(p, 1, 1, MMIX_ADJUST_SOLARIZE, -1) == -1,
          "solarize: out of range", 0);
    check(p[0] == 9 && p[1] == 8 && p[2] == 7, "refused, nothing changed", 0);
}
static void test_pixels(void)
{
    for (size_t t = 0; t < 24; t++) {
        size_t w = 1 + t, h = 25 - t, n = w * h * 3;
        uint8_t *in = draw(w, h, (int)(t % 3));
        uint8_t *out = copy_of(in, n);
        uint8_t *gray;
        int ok = 1;
        uint64_t sum = 0;
        mmix_picture_adjust(out, w, h, MMIX_ADJUST_FLIP, 0, NULL);
        for (size_t i = 0; i < n; i++)
            ok = ok && out[i] == in[(i / 3 / w * w + w - 1 - i / 3 % w) * 3 + i % 3];
        check(ok, "flip: columns reversed", t);
        mmix_picture_adjust(out, w, h, MMIX_ADJUST_FLIP, 0, NULL);
        check(!memcmp(in, out, n), "flip: twice is nothing", t);
        for (int kind = MMIX_ADJUST_BRIGHTNESS; kind <= MMIX_ADJUST_SATURATION; kind++) {
            check(jitter(out, w, h, kind, 1) == 0 && !memcmp(in, out, n),
                  "jitter: factor 1 is nothing", t);
        }
        gray = copy_of(in, n);
        mmix_picture_adjust(gray, w, h, MMIX_ADJUST_GRAY, 0, NULL);
        for (size_t i = 0; i < n; i += 3) {
            double luma = 0.299 * in[i] + 0.587 * in[i + 1] + 0.114 * in[i + 2];
            ok = ok && gray[i] == gray[i + 1] && gray[i] == gray[i + 2]
                 && fabs(gray[i] - luma) < 0.51;
            sum += gray[i];
        }
        check(ok, "gray: three times the luma", t);
        jitter(out, w, h, MMIX_ADJUST_SATURATION, 0);
        check(!memcmp(gray, out, n), "saturation: 0 is gray", t);
        jitter(gray, w, h, MMIX_ADJUST_HUE, 0.3);
        check(!memcmp(gray, out, n), "hue: gray has none", t);
        memcpy(out, in, n);
        jitter(out, w, h, MMIX_ADJUST_CONTRAST, 0);
        check(out[0] == (uint8_t)((double)sum / (double)(w * h) + 0.5)
                  && !memcmp(out, out + 1, n - 1),
              "contrast: 0 is the mean", t);
        memcpy(out, in, n);
        jitter(out, w, h, MMIX_ADJUST_BRIGHTNESS, 2);
        for (size_t i = 0; i < n; i++)
            ok = ok && out[i] == (in[i] > 127 ? 255 : 2 * in[i]);
        check(ok, "brightness: 2 doubles and clamps", t);
        memcpy(out, in, n);
        jitter(out, w, h, MMIX_ADJUST_HUE, 0.25);
        /* the largest channel keeps its value, whichever it is now */
        for (size_t i = 0; i < n; i += 3) {
            int a = in[i] > in[i + 1] ? in[i] : in[i + 1];
            int b = out[i] > out[i + 1] ? out[i] : out[i + 1];
            if (a < in[i + 2]) a = in[i + 2];
            if (b < out[i + 2]) b = out[i + 2];
            ok = ok && a == b;
        }
        check(ok, "hue: value is kept", t);
        memcpy(out, in, n);
        mmix_picture_adjust(out, w, h, MMIX_ADJUST_SOLARIZE, 256, NULL);
        check(!memcmp(in, out, n), "solarize: 256 is nothing", t);
        mmix_picture_adjust(out, w, h, MMIX_ADJUST_SOLARIZE, 128, NULL);
        for (size_t i = 0; i < n; i++)
            ok = ok && out[i] == (in[i] < 128 ? in[i] : 255 - in[i]);
        check(ok, "solarize: 128", t);
        free(in);
        free(out);
        free(gray);
    }
    for (int turn = 0; turn < 5; turn++) {         /* 52 x 52 x 52 colours, 0 to 255 by 5 */
        const double turns[5] = { 0, 0.1, -0.1, 0.5, -0.5 };
        size_t n = 52 * 52 * 52, same = 0;
        uint8_t *in = new_bytes(3 * n), *out;
        for (size_t i = 0; i < n; i++) {
            in[3 * i] = (uint8_t)(i % 52 * 5);
            in[3 * i + 1] = (uint8_t)(i / 52 % 52 * 5);
            in[3 * i + 2] = (uint8_t)(i / 2704 * 5);
        }
        out = copy_of(in, 3 * n);
        jitter(out, n, 1, MMIX_ADJUST_HUE, turns[turn]);
        for (size_t i = 0; i < n; i++) {
            plain_hue(in + 3 * i, (int)(255 * turns[turn]));
            same += !memcmp(in + 3 * i, out + 3 * i, 3);
        }
        check(same == n, "hue: equals the plain definition", (size_t)turn);
        free(in);
        free(out);
    }
    {
        uint8_t red[3] = { 200, 0, 0 };
        jitter(red, 1, 1, MMIX_ADJUST_HUE, 1 / 3.0);            /* a third of a turn, 85 of 256 */
        check(red[0] == 0 && red[1] == 200 && red[2] == 0, "hue: red to green", 0);
    }
    odd_jitter();
}

static void test_blur(void)
{
    const double sigmas[] = { 0, 0.05, 0.1, 0.7, 1, 1.23, 2, 3.5, 9, 60, 1000 };
    for (size_t t = 0; t < 66; t++) {
        size_t w = 1 + lcg(24);
        size_t h = 1 + lcg(24);
        size_t n = w * h * 3;
        size_t bytes = mmix_picture_blur_scratch_bytes(w, h);
        double sigma = sigmas[t % 11];
        uint8_t *in = draw(w, h, (int)(t % 3));
        uint8_t *out = guarded(n);
        uint8_t *scratch = guarded(bytes);
        uint8_t *expect = copy_of(in, n);
        memcpy(out, in, n);
        plain_blur(expect, w, h, sigma);
        check(mmix_picture_adjust(out, w, h, MMIX_ADJUST_BLUR, sigma, scratch) == 0,
              "blur: accepted", t);
        check(!memcmp(out, expect, n), "blur: equals the plain loop", t);
        if (sigma == 0)
            check(!memcmp(out, in, n), "blur: sigma 0 is nothing", t);
        memset(out, 201, n);
        mmix_picture_adjust(out, w, h, MMIX_ADJUST_BLUR, sigma, scratch);
        check(out[0] == 201 && !memcmp(out, out + 1, n - 1), "blur: a constant stays constant", t);
        check(guard_ok(out, n) && guard_ok(scratch, bytes), "blur: stays inside its buffers", t);
        free(in);
        free(expect);
    }
}

/* Everything on one picture of fixed bytes: a machine that makes other pixels has another hash. */
static void test_same_everywhere(void)
{
    size_t w = 61, h = 47;
    size_t bytes = mmix_picture_resize_scratch_bytes(
        mmix_resize_plan_box(box_of(3, 5, 40, 50), 32, 32));
    const int order[] = { MMIX_ADJUST_CONTRAST, MMIX_ADJUST_HUE, MMIX_ADJUST_BRIGHTNESS,
                          MMIX_ADJUST_SATURATION };
    const double factors[] = { 1.31, -0.07, 0.83, 1.17 };
    uint8_t *in;
    uint8_t *out = new_bytes(32 * 32 * 3);
    uint8_t *scratch = new_bytes(bytes + mmix_picture_blur_scratch_bytes(32, 32));
    uint64_t hash;
    lcg_state = 7;
    in = draw(w, h, 2);
    mmix_picture_resize(out, picture_of(in, w, h),
                        mmix_resize_plan_box(box_of(3, 5, 40, 50), 32, 32), scratch);
    for (int i = 0; i < 4; i++)
        jitter(out, 32, 32, order[i], factors[i]);
    mmix_picture_adjust(out, 32, 32, MMIX_ADJUST_BLUR, 1.37, scratch);
    hash = fnv(out, 32 * 32 * 3);
    if (!check(hash == 0xe40a5a59b17ea8a6u, "the same pixels on every machine", 0)) {
        printf("  found %08lx%08lx\n", (unsigned long)(hash >> 32),
               (unsigned long)(hash & 0xffffffffu));
    }
    free(in);
    free(out);
    free(scratch);
}

static void one_image(mmix_ctx *m, uint8_t *in)
{
    /* shorter side to 32, the middle 28 */
    mmix_tensor *t = mmix_image(m, in, 50, 40, 28);
    uint8_t *pixels = new_bytes(28 * 28 * 3);
    uint8_t *scratch = new_bytes(
        mmix_picture_resize_scratch_bytes(mmix_resize_plan_center_crop(50, 40, 32, 28)));
    mmix_real *expect = (mmix_real *)(void *)new_bytes(28 * 28 * 3 * sizeof(mmix_real));
    mmix_picture_resize(pixels, picture_of(in, 50, 40),
                        mmix_resize_plan_center_crop(50, 40, 32, 28), scratch);
    mmix_picture_normalize(expect, picture_of(pixels, 28, 28), NULL, NULL);
    if (check(t != NULL, "image: made", 0)) {
        check(mmix_ndim(t) == 4 && mmix_shape(t, 0) == 1 && mmix_shape(t, 1) == 3
                  && mmix_shape(t, 2) == 28 && mmix_shape(t, 3) == 28,
              "image: (1, 3, size, size)", 0);
        check(!memcmp(mmix_data(t), expect, 28 * 28 * 3 * sizeof(mmix_real)),
              "image: evaluate, then normalize", 0);
    }
    free(pixels);
    free(scratch);
    free(expect);
}
static void test_normalize(mmix_ctx *m)
{
    const double mean[3] = { 0.5, 0.25, 0 }, deviation[3] = { 0.5, 2, 1 }, zero[3] = { 1, 0, 1 };
    uint8_t *in = draw(7, 5, 0);
    mmix_real out[105];
    mmix_picture p = picture_of(in, 7, 5);
    int ok = 1;
    check(mmix_picture_normalize(out, p, mean, deviation) == 0, "normalize: accepted", 0);
    for (size_t c = 0; c < 3; c++) {
        for (size_t i = 0; i < 35; i++) {
            ok = ok
                 && fabs((double)out[c * 35 + i] - (in[3 * i + c] / 255.0 - mean[c]) / deviation[c])
                        < 1e-6;
        }
    }
    check(ok, "normalize: planes of (v/255 - mean)/deviation", 0);
    mmix_picture_normalize(out, p, NULL, NULL);
    check(fabs((double)out[36] - (in[4] / 255.0 - 0.456) / 0.224) < 1e-6,
          "normalize: ImageNet where nothing is given", 0);
    check(mmix_picture_normalize(out, p, mean, zero) == -1, "normalize: a deviation of 0", 0);
    free(in);

    in = draw(50, 40, 2);
    one_image(m, in);
    check(!mmix_image(m, in, 50, 40, 0) && mmix_error(m) && strstr(mmix_error(m), "mmix_image"),
          "image: size 0", 0);
    mmix_error_clear(m);
    check(!mmix_image(m, in, 0, 40, 8) && mmix_error(m), "image: width 0", 0);
    mmix_error_clear(m);
    check(!mmix_image(m, NULL, 50, 40, 8) && mmix_error(m), "image: no pixels", 0);
    mmix_error_clear(m);
    check(!mmix_image(m, in, 50, 40, (size_t)-1 / 2) && mmix_error(m), "image: size too large", 0);
    mmix_error_clear(m);
    check(!mmix_image(m, in, 1, 65537, 224) && mmix_error(m)
          && strstr(mmix_error(m), "1 x 65537 pixels are too thin for 224 x 224"),
          "image: too thin", 0);
    mmix_error_clear(m);
    mmix_reset(m);
    free(in);
}

/* ---- crops ---- */

static mmix_crop crop_of(const mmix_ctx *m, const mmix_augment *a, mmix_picture p, uint64_t step,
                         size_t image, size_t number)
{
    const mmix_crop c = {m, a, p, step, image, number};
    return c;
}
static mmix_box crop_box(const mmix_ctx *m, const mmix_augment *a, size_t width, size_t height,
                         uint64_t step, size_t image, size_t number)
{
    const mmix_crop c = crop_of(m, a, picture_of(NULL, width, height), step, image, number);
    return mmix_augment_box(&c);
}
static int crop_made(const mmix_ctx *m, mmix_real *out, const mmix_augment *a, mmix_picture p,
                     uint64_t step, size_t image, size_t number, void *scratch)
{
    const mmix_crop c = crop_of(m, a, p, step, image, number);
    return mmix_augment_crop(out, &c, scratch);
}

static void test_boxes(mmix_ctx *m)
{
    const size_t sides[][2] = { { 96, 96 }, { 500, 333 }, { 40, 64 }, { 7, 9 },
                                { 1, 1 },   { 300, 1 },   { 2, 200 } };
    const mmix_augment a = mmix_augment_config_dino();
    for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) {
        size_t w = sides[k][0];
        size_t h = sides[k][1];
        size_t inside = 0, area_ok = 0, aspect_ok = 0, n = 3000, moved = 0;
        double mean_area = 0;
        for (size_t i = 0; i < n; i++) {
            mmix_box b = crop_box(m, &a, w, h, i / 10, i % 10, i % 4);
            mmix_box first = crop_box(m, &a, w, h, 0, 0, 0);
            const double *scale = i % 4 < 2 ? a.global_scale : a.local_scale;
            double bw = (double)b.width;
            double bh = (double)b.height;
            double all = (double)(w * h);
            inside += b.width && b.height && b.width <= w && b.height <= h && b.left <= w - b.width
                      && b.top <= h - b.height;
            area_ok += (bw + 0.5) * (bh + 0.5) >= scale[0] * all
                       && (bw - 0.5) * (bh - 0.5) <= scale[1] * all;
            aspect_ok += (bw + 0.5) / (bh - 0.5) >= a.aspect[0]
                         && (bw - 0.5) / (bh + 0.5) <= a.aspect[1];
            moved += b.top != first.top || b.left != first.left || b.width != first.width;
            if (i % 4 >= 2)
                mean_area += bw * bh / all / (double)(n / 2);
        }
        check(inside == n, "box: inside the picture", k);
        if (k < 3) {
            check(area_ok == n, "box: area in range", k);
            check(aspect_ok == n, "box: aspect in range", k);
            check(moved > n - n / 50, "box: draws differ", k);
            check(fabs(mean_area - 0.225) < 0.01, "box: local areas are uniform in 0.05 ... 0.4",
                  k);
        }
    }
    {
        /* never fits: the widest in range, in the middle */
        mmix_box b = crop_box(m, &a, 300, 1, 5, 6, 0);
        check(b.height == 1 && b.width == 1 && b.top == 0 && b.left == 149,
              "box: falls back to the middle", 0);
        b = crop_box(m, &a, 90, 3000, 5, 6, 0);
        check(b.width == 90 && b.height == 120 && b.top == 1440 && b.left == 0,
              "box: falls back to the tallest", 0);
    }
}

enum { B = 5, S = 24, T = 15, LOCALS = 3 };

static mmix_augment small_config(void)
{
    mmix_augment a = mmix_augment_config_dino();
    a.global_size = S;
    a.local_size = T;
    a.local_count = LOCALS;
    return a;
}

static mmix_ctx *new_context(int threads)
{
    mmix_options o;
    memset(&o, 0, sizeof o);
    o.threads = threads;
    o.seed = 42;
    return mmix_create(&o);
}

static void test_batch(void)
{
    const size_t GLOBAL = 2 * B * 3 * S * S, LOCAL = LOCALS * B * 3 * T * T,
                 index[B] = { 3, 0, 0, 0, 1 };
    mmix_augment a = small_config();
    mmix_picture pictures[4];
    uint64_t hash[2] = { 0, 0 };
    for (size_t i = 0; i < 4; i++)
        pictures[i] = picture_of(draw(40 + 7 * i, 61 - 9 * i, 2), 40 + 7 * i, 61 - 9 * i);
    for (int threads = 1; threads <= 3; threads++) {
        mmix_ctx *m = new_context(threads);
        mmix_tensor *g = mmix_new4(m, 2 * B, 3, S, S);
        mmix_tensor *l = mmix_new4(m, LOCALS * B, 3, T, T);
        check(mmix_augment_batch(m, &a, pictures, index, 0, B, 11, g, l) == 0 && !mmix_error(m),
              "batch: made", (size_t)threads);
        if (threads == 1) {
            size_t same = 0, n = 0;
            mmix_real *one = (mmix_real *)(void *)new_bytes(3 * S * S * sizeof(mmix_real));
            mmix_real low = 0, high = 0;
            uint8_t *scratch = new_bytes(mmix_augment_scratch_bytes(&a, 64, 64));
            hash[0] = fnv(mmix_data(g), GLOBAL * sizeof(mmix_real));
            hash[1] = fnv(mmix_data(l), LOCAL * sizeof(mmix_real));
            for (size_t i = (2 + LOCALS) * B; i-- > 0;) {       /* one by one, backwards */
                size_t crop = i / B, b = i % B, s = crop < 2 ? S : T;
                const mmix_real *expect = crop < 2 ? mmix_data(g) + i * 3 * S * S
                                                   : mmix_data(l) + (i - 2 * B) * 3 * T * T;
                same += !crop_made(m, one, &a, pictures[index[b]], 11, b, crop, scratch) &&
                        !memcmp(one, expect, 3 * s * s * sizeof(mmix_real));
                n++;
            }
            check(same == n, "batch: equals its crops one by one, in any order", n - same);
            for (size_t i = 0; i < 3; i++) {
                const mmix_real *one_place = mmix_data(g) + (1 + i) * 3 * S * S;
                const mmix_real *other = mmix_data(g) + (1 + (i + 1) % 3) * 3 * S * S;
                check(memcmp(one_place, other, 3 * S * S * sizeof(mmix_real)) != 0,
                      "batch: the same picture elsewhere is cropped differently", i);
            }
            for (size_t i = 0; i < GLOBAL; i++) {
                low = mmix_data(g)[i] < low ? mmix_data(g)[i] : low;
                high = mmix_data(g)[i] > high ? mmix_data(g)[i] : high;
            }
            check((double)low >= -2.1180 && (double)high <= 2.6401,
                  "batch: values within ImageNet's normalized range", 0);
            free(one);
            free(scratch);
        }
        check(hash[0] == fnv(mmix_data(g), GLOBAL * sizeof(mmix_real))
                  && hash[1] == fnv(mmix_data(l), LOCAL * sizeof(mmix_real)),
              "batch: the same for any number of threads", (size_t)threads);
        mmix_augment_batch(m, &a, pictures, index, 0, B, 12, g, l);
        check(hash[0] != fnv(mmix_data(g), GLOBAL * sizeof(mmix_real)),
              "batch: another step, other crops", (size_t)threads);
        mmix_seed_set(m, 43);
        mmix_augment_batch(m, &a, pictures, index, 0, B, 11, g, l);
        check(hash[0] != fnv(mmix_data(g), GLOBAL * sizeof(mmix_real)),
              "batch: another seed, other crops", (size_t)threads);
        mmix_destroy(m);
    }

    {   /* with every chance at 0 a crop is box, resize, normalize */
        mmix_ctx *m = new_context(1);
        mmix_real *one = (mmix_real *)(void *)new_bytes(3 * S * S * sizeof(mmix_real)), *expect;
        uint8_t *scratch = new_bytes(mmix_augment_scratch_bytes(&a, 64, 64));
        uint8_t *pixels = new_bytes(S * S * 3);
        uint8_t *room;
        mmix_box b = crop_box(m, &a, 40, 61, 9, 8, 1);
        expect = (mmix_real *)(void *)new_bytes(3 * S * S * sizeof(mmix_real));
        room = new_bytes(mmix_picture_resize_scratch_bytes(mmix_resize_plan_box(b, S, S)));
        a.flip = a.jitter = a.gray = a.blur[0] = a.blur[1] = a.blur[2] = a.solarize[1] = 0;
        crop_made(m, one, &a, pictures[0], 9, 8, 1, scratch);
        mmix_picture_resize(pixels, pictures[0], mmix_resize_plan_box(b, S, S), room);
        mmix_picture_normalize(expect, picture_of(pixels, S, S), NULL, NULL);
        check(!memcmp(one, expect, 3 * S * S * sizeof(mmix_real)), "crop: box, resize, normalize",
              0);
        a.flip = a.gray = a.solarize[1] = 1;
        crop_made(m, one, &a, pictures[0], 9, 8, 1, scratch);
        mmix_picture_adjust(pixels, S, S, MMIX_ADJUST_FLIP, 0, NULL);
        mmix_picture_adjust(pixels, S, S, MMIX_ADJUST_GRAY, 0, NULL);
        mmix_picture_adjust(pixels, S, S, MMIX_ADJUST_SOLARIZE, 128, NULL);
        mmix_picture_normalize(expect, picture_of(pixels, S, S), NULL, NULL);
        check(!memcmp(one, expect, 3 * S * S * sizeof(mmix_real)),
              "crop: then flip, gray, solarize", 0);
        free(one);
        free(expect);
        free(scratch);
        free(pixels);
        free(room);
        mmix_destroy(m);
    }
    for (size_t i = 0; i < 4; i++)
        free((void *)(uintptr_t)pictures[i].rgb);
}

static void test_batch_refuses(mmix_ctx *m)
{
    uint8_t *rgb = draw(20, 20, 0);
    mmix_picture p[2];
    mmix_tensor *g = mmix_new4(m, 4, 3, S, S);
    mmix_tensor *l = mmix_new4(m, 2 * LOCALS, 3, T, T);
    mmix_tensor *small = mmix_new4(m, 4, 3, S, S - 1);
    mmix_augment good = small_config(), a;
    p[0] = p[1] = picture_of(rgb, 20, 20);
    check(mmix_augment_batch(m, &good, p, NULL, 0, 2, 0, g, l) == 0, "batch: the good call", 0);
    REFUSED(m, mmix_augment_batch(m, &good, p, NULL, 0, 2, 0, small, l) == -1, "global");
    REFUSED(m, mmix_augment_batch(m, &good, p, NULL, 0, 2, 0, NULL, l) == -1, "global");
    REFUSED(m, mmix_augment_batch(m, &good, p, NULL, 0, 2, 0, g, NULL) == -1, "local");
    REFUSED(m, mmix_augment_batch(m, &good, p, NULL, 0, 1, 0, g, l) == -1, "global");
    REFUSED(m, mmix_augment_batch(m, &good, p, NULL, 0, 0, 0, g, l) == -1, "pictures");
    REFUSED(m, mmix_augment_batch(m, NULL, p, NULL, 0, 2, 0, g, l) == -1, "NULL");
    p[1].width = 0;
    REFUSED(m, mmix_augment_batch(m, &good, p, NULL, 0, 2, 0, g, l) == -1, "picture 1");
    p[1] = picture_of(NULL, 20, 20);
    REFUSED(m, mmix_augment_batch(m, &good, p, NULL, 0, 2, 0, g, l) == -1, "picture 1");
    p[1] = p[0];
#define BENT(change, word)                                                         \
    do {                                                                           \
        a = good;                                                                  \
        change;                                                                    \
        REFUSED(m, mmix_augment_batch(m, &a, p, NULL, 0, 2, 0, g, l) == -1, word); \
    } while (0)
    BENT(a.global_size = 0, "global_size");
    BENT(a.local_size = 0, "local_size");
    BENT(a.local_count = 70000, "local_count");
    BENT(a.global_scale[0] = 0, "scale");
    BENT(a.local_scale[1] = 1.5, "scale");
    BENT(a.aspect[0] = NAN, "aspect");
    BENT(a.aspect[1] = 0.1, "aspect");
    BENT(a.flip = 1.1, "flip");
    BENT(a.blur[2] = -1, "blur");
    BENT(a.contrast = -0.1, "contrast");
    BENT(a.hue = 0.6, "hue");
    BENT(a.sigma[1] = 0, "sigma");
    BENT(a.deviation[1] = 0, "deviation");
#undef BENT
    a = good;
    a.local_count = 0;
    check(mmix_augment_batch(m, &a, p, NULL, 0, 2, 0, g, NULL) == 0, "batch: no local crops", 0);
    mmix_fail(m, MMIX_ERROR_ARGUMENT, "kept");
    check(mmix_augment_batch(m, &good, p, NULL, 0, 2, 0, g, l) == -1
              && !strcmp(mmix_error(m), "kept"),
          "batch: a kept error stays", 0);
    mmix_error_clear(m);
    mmix_reset(m);
    free(rgb);
}

/* ---- PPM ---- */

static void test_ppm_memory(mmix_ctx *m)
{
    static const char *good[] = {
        "P6 2 1 255 abcdef", "P6\n# a comment\n2 # two\n 1\n255\nabcdef", "P6\t2\r\n1\v255\fabcdef", "P6 2 1 255 abcdef and more",
        "P6#c\n2 1 255 abcdef", "P6 0002 01 00255\nabcdef"
    };
    static const char *bad[] = {
        "", "P", "P6", "P6 ", "P6 2", "P6 2 1", "P6 2 1 255", "P6 2 1 255 ", "P6 2 1 255 abcde", "P3 2 1 255 1 2 3 4 5 6", "p6 2 1 255 abcdef",
        "P62 1 255 abcdef", "P6 -2 1 255 abcdef", "P6 2 1 0 abcdef", "P6 2 1 256 abcdefabcdef", "P6 2 1 65535 abcdefabcdef", "P6 0 1 255 abcdef",
        "P6 2 0 255 abcdef", "P6 2 x 255 abcdef", "P6 2 1 255abcdef", "P6 2.0 1 255 abcdef", "P6 99999999999999999999 1 255 abcdef",
        "P6 16777216 16777216 255 abcdef", "P6 16777217 1 255 abcdef", "P6 4294967298 1 255 abcdef", "P6 # no end", "P6 2 1 # no end 255 abcdef",
        "P5 7 1 255 abcdef", "P6 +2 1 255 abcdef", "\x89PNG\r\n\x1a\n"
    };
    size_t w, h;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint8_t *p = ppm_read(m, "bytes", good[i], strlen(good[i]), &w, &h);
        check(p && w == 2 && h == 1 && !memcmp(p, "abcdef", 6), "ppm: a good header", i);
        if (mmix_error(m)) printf("  %s\n", mmix_error(m));
        mmix_error_clear(m);
        ppm_free(p);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        /* exact size: a sanitizer sees each step beyond */
        uint8_t *copy = copy_of((const uint8_t *)bad[i], strlen(bad[i])), *p;
        p = ppm_read(m, "bytes", copy, strlen(bad[i]), &w, &h);
        check(!p && !w && !h && mmix_error(m) && strlen(mmix_error(m)) > 20
                  && mmix_error_kind(m) == MMIX_ERROR_FILE,
              "ppm: a bad header is refused with a message", i);
        mmix_error_clear(m);
        ppm_free(p);
        free(copy);
    }
    {
        uint8_t *p = ppm_read(m, "bytes", "P5 3 1 255 abc", 14, &w, &h);
        check(p && w == 3 && h == 1 && !memcmp(p, "aaabbbccc", 9), "ppm: gray becomes RGB", 0);
        ppm_free(p);
        p = ppm_read(m, "bytes", "P5 4 1 3\n\0\1\2\3", 13, &w, &h);
        check(p && p[0] == 0 && p[3] == 85 && p[6] == 170 && p[9] == 255,
              "ppm: a smaller largest level is spread to 255", 0);
        ppm_free(p);
        p = ppm_read(m, "bytes", "P5 1 1 3\n\377", 10, &w, &h);
        check(p && p[0] == 255, "ppm: levels beyond the largest", 0);
        ppm_free(p);
    }
    {   /* every truncation is refused, every flipped bit survived */
        static const char file[] = "P6\n# c\n3 2\n255\nabcdefghijklmnopqr";
        size_t n = sizeof file - 1, refusals = 0;
        for (size_t i = 0; i < n; i++) {
            uint8_t *copy = copy_of((const uint8_t *)file, i);
            uint8_t *p = ppm_read(m, "bytes", copy, i, &w, &h);
            refusals += !p && mmix_error(m);
            mmix_error_clear(m);
            ppm_free(p);
            free(copy);
        }
        check(refusals == n, "ppm: every truncation is refused", n - refusals);
        for (size_t i = 0; i < 8 * n; i++) {
            uint8_t *copy = copy_of((const uint8_t *)file, n), *p;
            copy[i / 8] = (uint8_t)(copy[i / 8] ^ (1 << i % 8));
            p = ppm_read(m, "bytes", copy, n, &w, &h);
            check((p != NULL) == !mmix_error(m) && (!p || w * h <= 18), "ppm: a flipped bit", i);
            mmix_error_clear(m);
            ppm_free(p);
            free(copy);
        }
    }
}

static void test_ppm_files(mmix_ctx *m)
{
    const char *path = "tests-images.ppm";
    uint8_t *rgb = draw(31, 17, 0), *p;
    size_t w, h;
    FILE *f = fopen(path, "wb");
    if (!f) {
        puts("skipped: PPM files (the current folder cannot be written)");
        skipped++;
        free(rgb);
        return;
    }
    fputs("P6 9 9 255\nshort", f);
    fclose(f);
    p = ppm_load(m, path, &w, &h);
    check(!p && mmix_error(m) && strstr(mmix_error(m), path),
          "ppm: a truncated file, and its name in the message", 0);
    mmix_error_clear(m);
    check(ppm_save(m, path, rgb, 31, 17, 3) == 0, "ppm: saved over an old file", 0);
    p = ppm_load(m, path, &w, &h);
    check(p && w == 31 && h == 17 && !memcmp(p, rgb, 31 * 17 * 3), "ppm: comes back as it was", 0);
    ppm_free(p);
    f = fopen("tests-images.ppm.tmp", "rb");
    check(!f, "ppm: no temporary is left", 0);
    if (f) fclose(f);
    check(ppm_save(m, path, rgb, 31, 51, 1) == 0, "pgm: saved", 0);
    p = ppm_load(m, path, &w, &h);
    check(p && w == 31 && h == 51 && p[3] == rgb[1] && p[4] == rgb[1] && p[5] == rgb[1],
          "pgm: comes back as RGB", 0);
    ppm_free(p);
    f = fopen(path, "wb");
    if (f) fclose(f);
    check(!ppm_load(m, path, &w, &h) && mmix_error(m), "ppm: an empty file", 0);
    mmix_error_clear(m);
    check(ppm_save(m, path, rgb, 31, 17, 3) == 0, "ppm: saved again", 0);
    for (size_t n = 0; n < 3; n++) {               /* of two blocks each */
        blocks_left = n < 2 ? n : SIZE_MAX;
        p = ppm_load(m, path, &w, &h);
        check(p ? n == 2 && w == 31 : n < 2 && !w && mmix_error_kind(m) == MMIX_ERROR_MEMORY,
              "ppm: out of memory, said", n);
        ppm_free(p);
        mmix_error_clear(m);
    }
    blocks_left = 0;
    check(ppm_save(m, path, rgb, 31, 17, 3) == -1 && mmix_error_kind(m) == MMIX_ERROR_MEMORY,
          "ppm: no memory to save", 0);
    blocks_left = SIZE_MAX;
    mmix_error_clear(m);
    remove(path);
    check(!ppm_load(m, path, &w, &h) && mmix_error(m) && strstr(mmix_error(m), path),
          "ppm: no such file", 0);
    mmix_error_clear(m);
    check(!ppm_load(m, ".", &w, &h) && mmix_error(m), "ppm: a folder", 0);
    mmix_error_clear(m);
    check(ppm_save(m, "no/such/folder/a.ppm", rgb, 31, 17, 3) == -1 && mmix_error(m),
          "ppm: a folder that is not there", 0);
    mmix_error_clear(m);
    check(ppm_save(m, path, rgb, 0, 17, 3) == -1 && mmix_error(m), "ppm: an empty picture", 0);
    mmix_error_clear(m);
    check(ppm_save(m, path, NULL, 3, 17, 3) == -1 && mmix_error(m), "ppm: no pixels", 0);
    mmix_error_clear(m);
    free(rgb);
}

/* ---- the n-th allocation fails ---- */

static int prepared(const mmix_options *options, void *user)
{
    uint8_t *rgb = (uint8_t *)user, *read;
    mmix_picture p = picture_of(rgb, 200, 150);
    mmix_augment a = small_config();
    mmix_options o = *options;
    size_t w = 0, h = 0;
    o.threads = 2;
    mmix_ctx *m = mmix_create(&o);
    if (!m) return MMIX_ERROR_MEMORY;
    mmix_tensor *g = mmix_new4(m, 2, 3, S, S);
    mmix_tensor *l = mmix_new4(m, LOCALS, 3, T, T);
    mmix_tensor *image;
    const int done = g && l ? mmix_augment_batch(m, &a, &p, NULL, 0, 1, 0, g, l) : -1;
    image = mmix_image(m, rgb, 200, 150, 100);
    read = ppm_read(m, "bytes", "P5 1 1 255 x", 12, &w, &h);
    const int kind = mmix_error_kind(m);
    check((done == 0 && image && read) == !kind, "out of memory: said, and only then", 0);
    ppm_free(read);
    mmix_destroy(m);
    return kind;
}
/* Pictures that are tall and shrink, too: along the rows first, as Pillow up to 12.3 does (13.0
   begins with the columns). */
static void test_tall(void)
{
    static const size_t sizes[][4] = {
        { 30, 61, 25, 51 }, { 30, 61, 25, 20 }, { 12, 90, 12, 7 }, { 9, 200, 20, 20 }
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t w = sizes[i][0];
        size_t h = sizes[i][1];
        size_t ow = sizes[i][2];
        size_t oh = sizes[i][3];
        mmix_box all = box_of(0, 0, h, w);
        uint8_t *in = draw(w, h, 0);
        uint8_t *expect = plain_resize(picture_of(in, w, h), all, oh, ow);
        uint8_t *out = new_bytes(ow * oh * 3);
        uint8_t *scratch = new_bytes(
            mmix_picture_resize_scratch_bytes(mmix_resize_plan_box(all, ow, oh)));
        check(mmix_picture_resize(out, picture_of(in, w, h), mmix_resize_plan_box(all, ow, oh),
                                  scratch)
                  == 0,
              "tall: accepted", i);
        check(!memcmp(out, expect, ow * oh * 3), "tall: the rows come first", i);
        free(in);
        free(expect);
        free(out);
        free(scratch);
    }
}

/* NULL where a context, a picture, an output, scratch or a config belongs: refused, or NULL. */
static void test_null(mmix_ctx *m)
{
    uint8_t in[48] = { 0 }, out[48];
    mmix_real planes[48];
    mmix_picture p = picture_of(in, 4, 4);
    mmix_resize_plan r = mmix_resize_plan_box(box_of(0, 0, 4, 4), 4, 4);
    mmix_augment a = mmix_augment_config_dino();
    uint8_t *scratch = new_bytes(1 << 21);
    mmix_crop crop;
    mmix_box box;
    memset(&crop, 0, sizeof crop);
    check(mmix_image(NULL, in, 4, 4, 4) == NULL, "null: mmix_image", 0);
    check(mmix_image_resized(NULL, p, r) == NULL, "null: mmix_image_resized", 0);
    check(mmix_augment_batch(NULL, &a, &p, NULL, 0, 1, 0, NULL, NULL) == -1,
          "null: mmix_augment_batch", 0);
    REFUSED(m, mmix_image(m, NULL, 4, 4, 4) == NULL, "at NULL");
    check(mmix_picture_resize(NULL, p, r, scratch) == -1, "null: resized to", 0);
    check(mmix_picture_resize(out, p, r, NULL) == -1, "null: resized without scratch", 0);
    check(mmix_picture_resize(out, picture_of(NULL, 4, 4), r, scratch) == -1, "null: resized from",
          0);
    check(mmix_picture_adjust(NULL, 4, 4, MMIX_ADJUST_FLIP, 0, NULL) == -1, "null: changed", 0);
    check(mmix_picture_adjust(in, 4, 4, MMIX_ADJUST_BLUR, 1, NULL) == -1,
          "null: blurred without scratch", 0);
    check(mmix_picture_normalize(NULL, p, NULL, NULL) == -1, "null: normalized to", 0);
    check(mmix_picture_normalize(planes, picture_of(NULL, 4, 4), NULL, NULL) == -1,
          "null: normalized from", 0);
    box = mmix_augment_box(NULL);
    check(!box.width && !box.height, "null: box", 0);
    box = mmix_augment_box(&crop);
    check(!box.width && !box.height, "null: box without a config", 0);
    check(mmix_augment_scratch_bytes(NULL, 4, 4) == 0, "null: scratch without a config", 0);
    check(mmix_augment_crop(planes, NULL, scratch) == -1, "null: crop", 0);
    check(mmix_augment_crop(planes, &crop, scratch) == -1, "null: crop without a config", 0);
    crop.config = &a;
    crop.picture = p;
    check(mmix_augment_crop(planes, &crop, scratch) == -1, "null: crop without a context", 0);
    crop.m = m;
    check(mmix_augment_crop(NULL, &crop, scratch) == -1, "null: crop to", 0);
    check(mmix_augment_crop(planes, &crop, NULL) == -1, "null: crop without scratch", 0);
    free(scratch);
}

static void test_allocations(void)
{
    uint8_t *rgb = draw(200, 150, 0);
    memory_fails(prepared, rgb, 1, 1);
    free(rgb);
}

/* ---- which way up ---- */

/* A JPEG's beginning with an orientation, in both byte orders; its length. */
static size_t exif_draw(uint8_t *p, int big, unsigned tag, unsigned type, unsigned value)
{
    static const uint8_t begin[] = { 0xff, 0xd8, 0xff, 0xe0, 0,   4,   1,   2, 0xff,
                                     0xe1, 0,    46,   'E',  'x', 'i', 'f', 0, 0 };
    /* bytes, value: TIFF, two entries, no further table */
    const unsigned number[][2] = { { 2, 42 },    { 4, 8 }, { 2, 2 },   { 2, 0x010f }, { 2, 2 },
                                   { 4, 1 },     { 4, 0 }, { 2, tag }, { 2, type },   { 4, 1 },
                                   { 2, value }, { 2, 0 }, { 4, 0 } };
    size_t n = sizeof begin;
    memcpy(p, begin, n);
    p[n++] = big ? 'M' : 'I';
    p[n++] = big ? 'M' : 'I';
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        for (unsigned b = 0, bytes = number[i][0]; b < bytes; b++)
            p[n++] = (uint8_t)(number[i][1] >> 8 * (big ? bytes - 1 - b : b));
    return n;
}

/* The pixel of a picture (height, width) that stands at (x, y) when it is turned, by the table
   of EXIF. */
static size_t exif_place(int orientation, size_t x, size_t y, size_t width, size_t height)
{
    switch (orientation) {
    case 2: return y * width + width - 1 - x;
    case 3: return (height - 1 - y) * width + width - 1 - x;
    case 4: return (height - 1 - y) * width + x;
    case 5: return x * width + y;
    case 6: return (height - 1 - x) * width + y;
    case 7: return (height - 1 - x) * width + width - 1 - y;
    case 8: return x * width + width - 1 - y;
    default: return y * width + x;
    }
}

static void test_exif(void)
{
    uint8_t jpeg[128], pixels[3 * 5 * 3], turned[3 * 5 * 3];
    const size_t width = 5, height = 3;
    for (int big = 0; big < 2; big++) {
        for (unsigned value = 0; value < 10; value++) {
            size_t n = exif_draw(jpeg, big, 0x0112, 3, value);
            int expected = value >= 1 && value <= 8 ? (int)value : 1;
            check(exif_orientation(jpeg, n) == expected, "orientation", value);
        }
        size_t n = exif_draw(jpeg, big, 0x0112, 3, 6);
        /* on the heap, so that a sanitizer sees a byte too far */
        for (size_t cut = 0; cut < n; cut++) {
            uint8_t *part = copy_of(jpeg, cut);
            int found = exif_orientation(part, cut);
            check(found == 1 || (found == 6 && cut + 10 >= n), "a beginning that is cut off", cut);
            free(part);
        }
        for (size_t i = 0; i < n; i++) {
            uint8_t *other = copy_of(jpeg, n);
            other[i] ^= 0xff;
            int found = exif_orientation(other, n);
            check(found >= 1 && found <= 8, "a byte that is another", i);
            free(other);
        }
        n = exif_draw(jpeg, big, 0x0113, 3, 6);
        check(exif_orientation(jpeg, n) == 1, "another tag", 0);
        n = exif_draw(jpeg, big, 0x0112, 4, 6);
        check(exif_orientation(jpeg, n) == 1, "another type", 0);
    }
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)i;
    for (int orientation = 1; orientation <= 8; orientation++) {
        size_t columns = orientation >= 5 ? height : width;
        size_t rows = orientation >= 5 ? width : height;
        int same = 1;
        exif_turn(turned, pixels, width, height, orientation);
        for (size_t i = 0; i < columns * rows; i++) {
            size_t from = exif_place(orientation, i % columns, i / columns, width, height);
            same = same && !memcmp(turned + 3 * i, pixels + 3 * from, 3);
        }
        check(same, "pixels turned", (size_t)orientation);
    }
}

int main(void)
{
    mmix_ctx *m = mmix_create(NULL);
    if (!m) {
        puts(mmix_error(NULL));
        return 2;
    }
    test_resize();
    test_area(m);
    test_evaluate();
    test_pixels();
    test_blur();
    test_same_everywhere();
    test_normalize(m);
    test_boxes(m);
    test_batch();
    test_batch_refuses(m);
    test_ppm_memory(m);
    test_ppm_files(m);
    test_tall();
    test_null(m);
    test_allocations();
    test_exif();
    check(!mmix_error(m), "no error is left", 0);
    mmix_destroy(m);
    printf("%lu passed, %lu failed, %lu skipped\n", (unsigned long)passed, (unsigned long)failed,
           (unsigned long)skipped);
    return failed ? 1 : 0;
}
