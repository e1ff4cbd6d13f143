/* mixers.c - the matrix M of token mixers as pictures: figures of the documents, and backbones looked into

       cc -O2 demos/mixers.c -o mixers -lm -lpthread
       ./mixers                                    a drawn scene; the documents' figures go to docs/figures
       ./mixers --report                           three backbones with random weights: build/mixers-out/report.html
       ./mixers --image photo.jpg --load run-ssd.safetensors         your own picture and weights

   Figures: a picture is cut into 12 x 12 patches; random projections, the same in every run, make q, k and v
   of them. Nothing is trained. Report: M of each layer and head, how far heads look, and what the ranks of M's
   blocks are beside the bounds that arXiv 2511.18380 gives for them.

   Sections: what both need · figures · report: measuring · report: writing · main */

#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#include "pictures.h"
#include "report.h"
#include "scenes.h"
#include <ctype.h>
#include <inttypes.h>
#include <time.h>

enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, L = GRID * GRID, WIDTH = 64 };       /* WIDTH is N and P */
enum { SOFTMAX, LINEAR, NORMALISED, FORWARD, REVERSE, BOTH, MIXERS };
static const char *const name[MIXERS] = {"softmax", "linear", "normalised", "forward", "reverse", "both"};

/* (1, tokens, 1, width): a random projection of each patch, which is a convolution of stride PATCH. `stream`
   tells the random numbers apart. */
static mmix_tensor *project(mmix_ctx *m, mmix_tensor *image, size_t width, uint64_t stream)
{
    double deviation = 1 / sqrt(3.0 * PATCH * PATCH);
    mmix_tensor *weight = mmix_randn(m, mmix_new4(m, width, 3, PATCH, PATCH), deviation, stream);
    mmix_tensor *x = mmix_patch_embed(m, image, weight, NULL);
    size_t shape[4] = {1, mmix_shape(x, 1), 1, width};
    return mmix_reshape(m, x, 4, shape);
}

/* q and k, of width N, are one projection, each token brought to length √N: a patch asks for patches like itself.
   SSD scores as softmax attention does (C is q/√N); its δ = softplus(projection - 2.25), about 0.1, and A = -0.3. */
static mmix_mixer mixer_of(mmix_ctx *m, mmix_tensor *image, int kind, size_t N)
{
    mmix_tensor *q = mmix_rms_norm(m, project(m, image, N, 1), NULL, 1e-6);
    mmix_tensor *v = project(m, image, WIDTH, 2), *dt = project(m, image, 1, 3);
    size_t shape[3] = {1, mmix_shape(q, 1), 1};
    mmix_mixer x = kind == SOFTMAX ? mmix_mixer_softmax(q, q, v) : mmix_mixer_linear(q, q, v);
    if (kind == NORMALISED) x.normalise = 1;
    if (kind < FORWARD) return x;
    x = mmix_mixer_ssd(v, mmix_reshape(m, dt, 3, shape), mmix_fill(mmix_new1(m, 1), -0.3), q,
                       mmix_scale(m, q, 1 / sqrt((double)N), 0));
    x.dt_bias = mmix_fill(mmix_new1(m, 1), -2.25);
    x.dt_softplus = 1;
    x.direction = kind == FORWARD ? MMIX_FORWARD : kind == REVERSE ? MMIX_REVERSE : MMIX_BOTH;
    return x;
}

static FILE *figure_open(const char *out, const char *kind, const char *which, const char *ending)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s%s%s", out, kind, which, ending);
    FILE *f = report_folders(path) < 0 ? NULL : fopen(path, "wb");
    if (!f) { fprintf(stderr, "mixers: cannot write %s\n", path); exit(2); }
    return f;
}

static void figure_close(FILE *f, int failed)
{
    if (fclose(f) || failed) { fputs("mixers: a figure could not be written whole\n", stderr); exit(2); }
}

/* t in 0 … 1, or signed in -1 … 1: blue below zero, white at it, orange above. 64 levels keep files small. */
static void colour(double t, int is_signed, uint8_t *rgb)
{
    static const double end[2][3] = {{29, 78, 160}, {196, 78, 20}};
    t = round((t < -1 ? -1 : t > 1 ? 1 : t) * 63) / 63;
    if (!is_signed) report_heat(t, rgb);
    else for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(255 + fabs(t) * (end[t > 0][c] - 255) + 0.5);
}

/* values (rows, cols) as squares of `zoom` pixels; `top` and above get the last colour. On a picture if there is one,
   with a frame around square `framed`. */
static void draw_values(const char *out, const char *kind, const char *which, const mmix_real *values, size_t rows,
                        size_t cols, size_t zoom, double top, int is_signed, const uint8_t *picture, size_t framed)
{
    static uint8_t rgb[4 * L * L * 3];
    size_t size = 0, width = cols * zoom, height = rows * zoom;
    for (size_t i = 0; i < width * height; i++) {
        size_t y = i / width, x = i % width, at = y / zoom * cols + x / zoom, u = x % zoom, v = y % zoom;
        int frame = at == framed && (u < 2 || v < 2 || u + 2 >= zoom || v + 2 >= zoom);
        const uint8_t *below = picture ? picture + 3 * (y * SIDE / height * SIDE + x * SIDE / width) : NULL;
        if (values) colour((double)values[at] / top, is_signed, rgb + 3 * i);
        for (size_t c = 3 * i; below && c < 3 * i + 3; c++, below++)
            rgb[c] = (uint8_t)(frame ? 0 : values ? (2 * rgb[c] + (*below & 240)) / 3 : *below & 248);
    }
    uint8_t *png = report_png(rgb, width, height, 3, &size);
    FILE *f = figure_open(out, kind, which, ".png");
    figure_close(f, !png || fwrite(png, 1, size, f) != size);
    free(png);
}

typedef struct range { double low, high, sum; } range;
static range range_of(const mmix_real *v, size_t n, size_t skip)                       /* of all but v[skip] */
{
    range r = {INFINITY, -INFINITY, 0};
    for (size_t i = 0; i < n; i++)
        if (i != skip) r.low = fmin(r.low, (double)v[i]), r.high = fmax(r.high, (double)v[i]), r.sum += (double)v[i];
    return r;
}

/* M of all mixers, on one scale for each sign; row `token` of each on the picture, on the scale of
   its other entries: a token weighs itself most. */
static void draw_matrices(mmix_ctx *m, const char *out, mmix_tensor *image, const uint8_t *picture, size_t token)
{
    mmix_real plain[6 * L], both[6 * L];
    for (int i = 0; i < 6 * L; i++) plain[i] = (mmix_real)(i % L) / (L - 1), both[i] = 2 * plain[i] - 1;
    draw_values(out, "scale-", "plain", plain, 6, L, 2, 1, 0, NULL, 0);
    draw_values(out, "scale-", "signed", both, 6, L, 2, 1, 1, NULL, 0);
    draw_values(out, "picture", "", NULL, GRID, GRID, 2 * PATCH, 1, 0, picture, token);
    printf("row %-3d of M    itself    others: least  largest      sum\n", (int)token);
    for (int k = 0; k < MIXERS; k++) {
        mmix_mixer x = mixer_of(m, image, k, WIDTH);
        mmix_tensor *M = mmix_mix_matrix(m, &x);
        if (!M) return;
        const mmix_real *row = mmix_data(M) + token * L;
        range r = range_of(row, L, token);
        printf("%-12s %9.4f %16.4f %8.4f %8.4f\n", name[k], (double)row[token], r.low, r.high, r.sum);
        draw_values(out, "matrix-", name[k], mmix_data(M), L, L, 2, k < FORWARD ? 0.05 : 0.5, k >= FORWARD, NULL, 0);
        draw_values(out, "row-", name[k], row, GRID, GRID, 2 * PATCH, fmax(fmax(r.high, -r.low), 1e-9), k >= FORWARD,
                    picture, token);
    }
}

static FILE *svg_open(const char *out, const char *which, int width, int height)
{
    FILE *f = figure_open(out, which, "", ".svg");
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-size=\"14\" "
            "font-family=\"sans-serif\" fill=\"#1d2329\" stroke-width=\"2\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", width, height);
    return f;
}
static void svg_text(FILE *f, double x, double y, const char *anchor, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(f, "<text x=\"%g\" y=\"%g\" text-anchor=\"%s\">", x, y, anchor);
    vfprintf(f, format, list);
    fputs("</text>\n", f);
    va_end(list);
}

/* A causal matrix in three chunks, the last one shorter, with what each chunk computes beside it. */
static void draw_chunks(const char *out)
{
    static const struct { double x, y; const char *text; } note[10] = {
        {47, 102, "W₁"}, {167, 222, "W₂"}, {273, 307, "W₃"}, {72, 197, "p C₂ h₁"}, {132, 292, "p C₃ h₂"},
        {448, 76, "y₁ = W₁ x₁"}, {448, 136, "h₁ = Σ r δ Bᵀ x₁"}, {448, 196, "y₂ = W₂ x₂ + p C₂ h₁"},
        {448, 256, "h₂ = p h₁ + Σ r δ Bᵀ x₂"}, {448, 292, "y₃ = W₃ x₃ + p C₃ h₂"}};
    FILE *f = svg_open(out, "chunks", 560, 334);
    fputs("<path d=\"M12 132h120v120h-120zM12 252h240v70h-240zM352 116h192v30h-192zM352 236h192v30h-192z\" "
          "fill=\"#dce8f8\" stroke=\"#2f6fd0\"/>\n<path d=\"M12 12v120h120zM132 132v120h120zM252 252v70h70z\" "
          "fill=\"#f6d9c8\" stroke=\"#c8602a\"/>\n", f);
    for (int i = 0; i < 10; i++) svg_text(f, note[i].x, note[i].y, "middle", "%s", note[i].text);
    figure_close(f, fputs("</svg>\n", f) < 0);
}

/* Processor time of one mmix_mix on one thread, 4 heads, N = P = 64, in milliseconds: the least of five
   means over 1/20 s. Curve 3 is linear attention in the other order, φ(Q) φ(K)ᵀ first. */
static double cost(mmix_ctx *m, int curve, size_t n)
{
    mmix_tensor *q = mmix_randn(m, mmix_new4(m, 1, n, 4, WIDTH), 1, 5);
    mmix_tensor *v = mmix_randn(m, mmix_new4(m, 1, n, 4, WIDTH), 1, 6);
    mmix_tensor *wide = mmix_randn(m, mmix_new4(m, 1, 4, n, WIDTH), 1, 7);
    mmix_tensor *tall = mmix_randn(m, mmix_new4(m, 1, 4, WIDTH, n), 1, 8);
    mmix_mixer x = curve == 0 ? mmix_mixer_softmax(q, q, v) : mmix_mixer_linear(q, q, v);
    double best = INFINITY;
    if (curve == 2)
        x = mmix_mixer_ssd(v, mmix_fill(mmix_new3(m, 1, n, 4), 0.1), mmix_fill(mmix_new1(m, 4), -1), q, q);
    for (int run = 0; run < 5 && !mmix_error(m); run++) {
        clock_t start = clock(), spent = 0;
        int calls = 0;
        for (; spent < CLOCKS_PER_SEC / 20 && !mmix_error(m); calls++, spent = clock() - start) {
            mmix_mark mark = mmix_mark_here(m);
            if (curve < 3) mmix_mix(m, &x);
            else mmix_matmul(m, mmix_matmul(m, wide, tall), wide);
            mmix_rewind(m, mark);
        }
        best = fmin(best, 1e3 * (double)spent / CLOCKS_PER_SEC / calls);
    }
    mmix_reset(m);
    return best;
}

static void draw_cost(mmix_ctx *m, const char *out, const char *note)
{
    enum { LENGTHS = 7, LEFT = 64, STEP = 76, DECADE = 66, BOTTOM = 346 };         /* 0.01 ms … 1000 ms */
    static const char *const title[4] = {"softmax", "linear", "SSD", "linear, M first"};
    static const char *const pen[4] = {"#2f6fd0", "#c8602a", "#2d8f5a", "#c8602a\" stroke-dasharray=\"5 4"};
    FILE *f = svg_open(out, "cost", 690, BOTTOM + 66);
    for (int d = 0; d < 6; d++) {
        fprintf(f, "<path d=\"M%d %dh496\" stroke=\"#d9dee4\"/>\n", LEFT, BOTTOM - DECADE * d);
        svg_text(f, LEFT - 6, BOTTOM - DECADE * d + 5, "end", "%g ms", pow(10, d - 2));
    }
    for (int i = 0; i < LENGTHS; i++) svg_text(f, LEFT + 20 + STEP * i, BOTTOM + 20, "middle", "%d", 64 << i);
    svg_text(f, LEFT + 20 + STEP * 3, BOTTOM + 38, "middle", "tokens");
    svg_text(f, LEFT, BOTTOM + 58, "start", "4 heads, N = P = 64; one thread, %s%s%s", mmix_simd_name(m), *note ? ", " : "",
             note);
    double last = 0;
    printf("\nmilliseconds   ");
    for (int i = 0; i < LENGTHS; i++) printf("%9d%s", 64 << i, i < LENGTHS - 1 ? "" : "\n");
    for (int k = 0; k < 4; k++) {
        int i = 0;
        double y = 0;
        printf("%-15s", title[k]);
        fprintf(f, "<path fill=\"none\" stroke=\"%s\" d=\"", pen[k]);
        for (; i < LENGTHS - (k == 3); i++) {                                  /* 4 · 4096² floats would be 268 MB */
            double ms = cost(m, k, (size_t)64 << i);
            printf("%9.3f", ms);
            y = BOTTOM - DECADE * (log10(ms) + 2);
            fprintf(f, "%c%d %.1f", i ? 'L' : 'M', LEFT + 20 + STEP * i, y);
        }
        putchar('\n');
        fputs("\"/>\n", f);
        if (k == 2 && fabs(y - last) < 15) y = last + (y < last ? -15 : 15);              /* labels apart */
        svg_text(f, LEFT + STEP * i - 48, y + (k == 3 ? 14 : 4), "start", "%s", title[k]);
        last = y;
    }
    figure_close(f, fputs("</svg>\n", f) < 0);
}

/* y by the loop over time. Softmax attention keeps all keys and values so far; the others keep a state: causal
   linear attention is an SSD with δ = 1 and A = 0. */
static mmix_tensor *loop(mmix_ctx *m, const mmix_mixer *x)
{
    mmix_mixer s = *x;
    size_t n = mmix_shape(x->v, 1);
    if (x->kind == MMIX_LINEAR)
        s = mmix_mixer_ssd(x->v, mmix_fill(mmix_new3(m, 1, n, 1), 1), mmix_fill(mmix_new1(m, 1), 0),
                           mmix_softmax(m, x->k, 3), mmix_softmax(m, x->q, 3));
    if (s.kind == MMIX_SSD) return mmix_ssd_reference(m, &s);
    mmix_tensor *y = mmix_new4(m, 1, n, 1, WIDTH);
    for (size_t t = 0; y && t < n; t++) {
        s = mmix_mixer_softmax(mmix_slice(m, x->q, 1, t, 1), mmix_slice(m, x->k, 1, 0, t + 1),
                               mmix_slice(m, x->v, 1, 0, t + 1));
        mmix_tensor *row = mmix_mix(m, &s);
        if (row) memcpy(mmix_data(y) + t * WIDTH, mmix_data(row), WIDTH * sizeof(mmix_real));
    }
    return y;
}

static double most(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)                             /* largest |a - b| */
{
    mmix_tensor *d = mmix_sub(m, a, b);
    range r = range_of(mmix_data(d), mmix_count(d), (size_t)-1);
    return fmax(r.high, -r.low);
}

static void print_tables(mmix_ctx *m, mmix_tensor *image)
{
    size_t flat[2] = {2 * L, 2 * L}, rows[2] = {2 * L, WIDTH}, y_shape[4] = {1, 2 * L, 1, WIDTH};
    mmix_tensor *pair[2] = {image, image}, *wide = mmix_concat(m, 3, pair, 2);          /* more than one chunk */
    printf("\ny, three ways  largest |y|  chunked-matrix  loop-matrix  loop-chunked\n");
    for (int k = 0; k < BOTH; k++) {
        mmix_mixer x = mixer_of(m, wide, k, WIDTH);
        if (k == NORMALISED) continue;
        x.mask = MMIX_MASK_CAUSAL;
        mmix_tensor *y = mmix_mix(m, &x), *step = loop(m, &x), *M = mmix_reshape(m, mmix_mix_matrix(m, &x), 2, flat);
        mmix_tensor *product = mmix_reshape(m, mmix_matmul(m, M, mmix_reshape(m, x.v, 2, rows)), 4, y_shape);
        if (mmix_error(m)) return;
        printf("%-14s %11.3f %15.1e %12.1e %13.1e\n", name[k], most(m, y, mmix_scale(m, y, 0, 0)), most(m, y, product),
               most(m, step, product), most(m, step, y));
    }
    printf("\nrow sums of linear attention\ntokens     L/N     least     mean  largest\n");
    for (size_t side = 3; side <= GRID; side += 3) {
        mmix_tensor *corner = mmix_slice(m, mmix_slice(m, image, 2, 0, side * PATCH), 3, 0, side * PATCH);
        mmix_mixer x = mixer_of(m, corner, LINEAR, WIDTH);
        mmix_tensor *sums = mmix_sum_axis(m, mmix_mix_matrix(m, &x), 3);
        range r = range_of(mmix_data(sums), mmix_count(sums), L);
        double n = (double)(side * side);
        printf("%6g %7.3f %9.3f %8.3f %8.3f\n", n, n / WIDTH, r.low, r.sum / n, r.high);
    }
    mmix_reset(m);
}

static int usage(FILE *f)
{
    fputs("mixers - the three token mixers as pictures\n\n"
          "  --image FILE   a photograph (PPM) instead of the drawn scene\n"
          "  --patch I      the patch whose row is shown, 0 … 143          (77)\n"
          "  --out DIR      where figures go                               (docs/figures)\n"
          "  --note TEXT    machine and date, for the caption of cost.svg\n"
          "  --help\n", f);
    return f == stdout ? 0 : 2;
}

/* A blue ball and a small cone on an olive floor before a pale wall: what docs/01-mixers.md describes. */
static scene still_life(void)
{
    const scene_object ball = {SCENE_BALL, 26000, 35500, 19500, 4096, 0, 1180, 1,
                               {SCENE_PLAIN, 700, 2, {24, 78, 168}, {60, 150, 235}}};
    const scene_object cone = {SCENE_CONE, 50500, 34500, 8000, 4096, 0, 1024, 1,
                               {SCENE_MARBLE, 500, 3, {40, 50, 200}, {175, 195, 250}}};
    const scene_paintwork floor_paint = {SCENE_PLAIN, 9000, 4, {100, 98, 50}, {190, 186, 120}};
    const scene_paintwork wall_paint = {SCENE_MARBLE, 20000, 5, {225, 165, 160}, {250, 235, 232}};
    scene s;
    memset(&s, 0, sizeof s);
    s.objects = 2;
    s.at[0] = ball;
    s.at[1] = cone;
    s.floor = floor_paint;
    s.wall = wall_paint;
    s.horizon = 13700;
    s.light_x = -120, s.light_y = -650, s.light_z = 780;
    s.ambient = 330;
    s.grain = 6;
    return s;
}

int main(int argc, char **argv)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    const char *out = "docs/figures", *file = NULL, *note = "";
    unsigned long token = 77;
    mmix_options one_thread;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) return usage(stdout);
        if (i + 1 == argc) return usage(stderr);
        if (!strcmp(argv[i], "--image")) file = argv[++i];
        else if (!strcmp(argv[i], "--patch")) token = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--out")) out = argv[++i];
        else if (!strcmp(argv[i], "--note")) note = argv[++i];
        else return usage(stderr);
    }
    if (token >= L) return usage(stderr);
    memset(&one_thread, 0, sizeof one_thread);
    one_thread.threads = 1;
    mmix_ctx *m = mmix_create(&one_thread);
    if (file) {
        mmix_picture p = {NULL, 0, 0};
        uint8_t *pixels = mmix_ppm_load(m, file, &p.width, &p.height);
        void *scratch = malloc(mmix_picture_evaluate_scratch(p.width, p.height, SIDE, SIDE) + 1);
        p.rgb = pixels;
        if (pixels && (!scratch || mmix_picture_evaluate(rgb, SIDE, SIDE, p, scratch)))
            mmix_fail(m, MMIX_ERROR_ARGUMENT, "%s cannot be brought to %d x %d", file, SIDE, SIDE);
        mmix_ppm_free(m, pixels, p.width, p.height);
        free(scratch);
    }
    else {
        scene s = still_life();
        scene_paint(&s, SIDE, rgb, NULL);
    }
    /* each channel's mean becomes 0 */
    double mean[3] = {0, 0, 0}, deviation[3] = {0.25, 0.25, 0.25};
    for (size_t i = 0; i < sizeof rgb; i++) mean[i % 3] += rgb[i] / 255.0 / (SIDE * SIDE);
    mmix_picture p = {rgb, SIDE, SIDE};
    mmix_tensor *image = mmix_new4(m, 1, 3, SIDE, SIDE);
    if (image) mmix_picture_normalise(mmix_data(image), p, mean, deviation);
    if (image) draw_matrices(m, out, image, rgb, token);
    if (!mmix_error(m)) print_tables(m, image);
    if (!mmix_error(m)) draw_chunks(out);
    if (!mmix_error(m)) draw_cost(m, out, note);
    int failed = mmix_error(m) != NULL;
    if (failed) fprintf(stderr, "mixers: %s\n", mmix_error(m));
    mmix_destroy(m);
    return failed;
}
