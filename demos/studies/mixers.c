/* mixers.c - the matrix M of token mixers as pictures: figures of the documents, and backbones
   looked into

       cc -O2 demos/studies/mixers.c -o mixers -lm -lpthread
       ./mixers                                    three backbones with random weights, as
                                                   build/mixers-out/report.html
       ./mixers --image photo.jpg --load run-ssd.safetensors         your own picture and weights
       ./mixers --figures docs/figures             the documents' figures, of a drawn scene

   Figures: a picture is cut into 12 x 12 patches; random projections, the same in every run,
   make q, k and v of them. Nothing is trained. Report: M of each layer and head, how far heads
   look, and what the ranks of M's blocks are beside the bounds that arXiv 2511.18380 gives for
   them.

   Sections: what both need · figures · report: measuring · report: writing · main */

#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "mixers"
#include "../../mamba_mix.h"
#include "heads.h"
#include "pictures.h"
#include "report.h"
#include "scenes.h"
#include <ctype.h>
#include <float.h>
#include <inttypes.h>
#include <time.h>

/* WIDTH is N and P */
enum { GRID = 12, PATCH = 12, SIDE = GRID * PATCH, L = GRID * GRID, WIDTH = 64 };
enum { SOFTMAX, LINEAR, NORMALIZED, FORWARD, REVERSE, BOTH, MIXERS };
static const char *const named[MIXERS] = {"softmax", "linear", "normalized", "forward", "reverse",
                                          "both"};

#define fail report_refuse

/* The largest square in the middle of a picture, brought to side x side pixels. 0, or an exit
   status. */
static int read_picture(mmix_ctx *m, const char *file, size_t side, uint8_t *rgb)
{
    char why[512];
    mmix_picture p = {NULL, 0, 0};
    uint8_t *pixels = picture_pixels(m, file, &p.width, &p.height, why, sizeof why), *end;
    if (!pixels) {
        end = (uint8_t *)strstr(why, "; mend it");       /* advice for folders */
        if (end) *end = 0;
        return fail("%s", why);
    }
    mmix_box box = picture_square(p.width, p.height);
    p.rgb = pixels;
    int bad = picture_resize(rgb, p, mmix_resize_plan_box(box, side, side));
    picture_pixels_free(file, pixels);
    return bad ? fail("%s: %zu x %zu pixels cannot be brought to %zu x %zu", file, p.width,
                      p.height, side, side) : 0;
}

/* ---- figures: M ------------------------------------------------------------------------------ */

/* (1, tokens, 1, width): a random projection of each patch, which is a convolution of stride
   PATCH. `stream` tells the random numbers apart. */
static mmix_tensor *project(mmix_ctx *m, mmix_tensor *image, size_t width, uint64_t stream)
{
    double deviation = 1 / sqrt(3.0 * PATCH * PATCH);
    mmix_tensor *weight = mmix_fill_normal(m, mmix_new4(m, width, 3, PATCH, PATCH), deviation,
                                           stream);
    mmix_tensor *x = mmix_patch_embed(m, image, weight, NULL);
    size_t shape[4] = {1, mmix_shape(x, 1), 1, width};
    return mmix_reshape(m, x, 4, shape);
}

/* q and k, of width N, are one projection, each token brought to length √N: a patch asks for
   patches like itself. SSD scores as softmax attention does (C is q/√N); its δ =
   softplus(projection - 2.25), about 0.1, and A = -0.3. */
static mmix_mixer mixer_of(mmix_ctx *m, mmix_tensor *image, int kind, size_t N)
{
    mmix_tensor *q = mmix_rms_norm(m, project(m, image, N, 1), NULL, 1e-6);
    mmix_tensor *v = project(m, image, WIDTH, 2);
    mmix_tensor *dt = project(m, image, 1, 3);
    size_t shape[3] = {1, mmix_shape(q, 1), 1};
    mmix_mixer x = kind == SOFTMAX ? mmix_mixer_softmax(q, q, v) : mmix_mixer_linear(q, q, v);
    if (kind == NORMALIZED) x.normalize = 1;
    if (kind < FORWARD) return x;
    x = mmix_mixer_ssd(v, mmix_reshape(m, dt, 3, shape), mmix_fill(mmix_new1(m, 1), -0.3), q,
                       mmix_affine(m, q, 1 / sqrt((double)N), 0));
    x.dt_bias = mmix_fill(mmix_new1(m, 1), -2.25);
    x.dt_softplus = 1;
    x.direction = MMIX_SCAN_BOTH;
    if (kind == FORWARD) x.direction = MMIX_SCAN_FORWARD;
    if (kind == REVERSE) x.direction = MMIX_SCAN_REVERSE;
    return x;
}

/* t in 0 … 1, or signed in -1 … 1: blue below zero, white at it, orange above. 64 levels keep
   files small. */
static void colour(double t, int is_signed, uint8_t *rgb)
{
    static const double end[2][3] = {{29, 78, 160}, {196, 78, 20}};
    t = round(fmin(fmax(t, -1), 1) * 63) / 63;
    if (!is_signed) report_heat(t, rgb);
    else for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t)(255 + fabs(t) * (end[t > 0][c] - 255) + 0.5);
}

typedef struct range { double low, high, sum; } range;
static range range_of(const mmix_real *v, size_t n, size_t skip)  /* of all but v[skip] */
{
    range r = {INFINITY, -INFINITY, 0};
    for (size_t i = 0; i < n; i++)
        if (i != skip) {
            r.low = fmin(r.low, (double)v[i]);
            r.high = fmax(r.high, (double)v[i]);
            r.sum += (double)v[i];
        }
    return r;
}

/* What one token takes of itself and of the others, by each mixer. */
static void print_rows(mmix_ctx *m, mmix_tensor *image, size_t token)
{
    printf("row %-3d of M    itself    others: least  largest      sum\n", (int)token);
    for (int k = 0; k < MIXERS; k++) {
        mmix_mixer x = mixer_of(m, image, k, WIDTH);
        mmix_tensor *M = mmix_mix_matrix(m, &x);
        if (!M) return;
        const mmix_real *row = mmix_data(M) + token * L;
        range r = range_of(row, L, token);
        printf("%-12s %9.4f %16.4f %8.4f %8.4f\n", named[k], (double)row[token], r.low, r.high,
               r.sum);
    }
}

/* A level of a pixel in the light of the share `weight` of the largest weight; a little of it is
   always seen. */
static uint8_t lit(double weight, int level)
{
    return (uint8_t)((0.2 + 0.8 * fmax(0, fmin(1, weight))) * level);
}

/* Y = M X in one picture: the scene, M of three mixers, and the scene again, each patch as bright
   as what patch `token` takes of it, on the scale of the largest. `top` and above get the last
   colour of a matrix. */
typedef struct trio_panel {
    int kind;
    const char *name;
    double top;
} trio_panel;
static const trio_panel three_mixers[3] = {
    {SOFTMAX, "M: softmax", 0.05},
    {LINEAR, "M: linear", 0.05},
    {FORWARD, "M: Mamba-2", 0.5},
};
static const trio_panel three_directions[3] = {
    {FORWARD, "M: forward", 0.5},
    {REVERSE, "M: reverse", 0.5},
    {BOTH, "M: both", 0.5},
};
enum { ZOOM = 3, PANEL = ZOOM * SIDE, GAP = 40, UPPER = 90, LOWER = UPPER + PANEL + 110,
       TRIO_WIDTH = 4 * PANEL + 5 * GAP, TRIO_HEIGHT = LOWER + PANEL + GAP };
enum { UNIT = 7 };                       /* letters that are read on a screen of 390 pixels, too */
static void centred(uint8_t *rgb, size_t panel, double y, double unit, const char *text)
{
    double left = GAP + (PANEL + GAP) * (double)panel;
    double room = PANEL - figure_words(NULL, 0, 0, 0, 0, unit, text);
    figure_words(rgb, TRIO_WIDTH, TRIO_HEIGHT, left + room / 2, y, unit, text);
}

static void draw_trio(mmix_ctx *m, const char *out, const char *file, const trio_panel *of,
                      mmix_tensor *image, const uint8_t *picture, size_t token)
{
    static uint8_t rgb[TRIO_WIDTH * TRIO_HEIGHT * 3];
    static const uint8_t gray[3] = {200, 200, 200};
    char text[64];
    memset(rgb, 255, sizeof rgb);
    for (size_t k = 0; k < 4; k++) {                     /* 0: the scene itself */
        mmix_mixer x = mixer_of(m, image, of[k ? k - 1 : 0].kind, WIDTH);
        mmix_tensor *M = mmix_mix_matrix(m, &x);
        if (!M) return;
        const mmix_real *value = mmix_data(M);
        const mmix_real *row = value + token * L;
        double top = fmax(range_of(row, L, token).high, 1e-9);
        uint8_t *left = rgb + 3 * (GAP + k * (PANEL + GAP));
        for (size_t i = 0; i < PANEL * PANEL; i++) {
            size_t v = i / PANEL / ZOOM;
            size_t u = i % PANEL / ZOOM;
            size_t at = v / PATCH * GRID + u / PATCH;
            uint8_t *up = left + 3 * ((UPPER + i / PANEL) * TRIO_WIDTH + i % PANEL);
            uint8_t *low = up + 3 * (LOWER - UPPER) * TRIO_WIDTH;
            int frame = at == token && ((u + 1) % PATCH < 2 || (v + 1) % PATCH < 2);
            for (int c = 0; c < 3; c++) {
                int seen = picture[3 * (v * SIDE + u) + (size_t)c] & 248;
                if (k) low[c] = frame ? 255 : lit((double)row[at] / top, seen);
                else up[c] = (uint8_t)(frame ? 255 : seen);
            }
            if (k) colour((double)value[v * L + u] / of[k - 1].top, of[k - 1].kind >= FORWARD, up);
            int edge = (i % PANEL + 1) % PANEL < 2 || (i / PANEL + 1) % PANEL < 2;
            if (k && edge) memcpy(up, gray, 3);
        }
        for (size_t y = 0; k && y < 24; y++)             /* a triangle where the row begins */
            memset(left + 3 * ((UPPER + ZOOM * token + y - 11) * TRIO_WIDTH) - 48, 29,
                   3 * (y < 12 ? y : 24 - y));
        snprintf(text, sizeof text, k ? "row %d of M" : "patch %d", (int)token);
        centred(rgb, k, UPPER - 24, UNIT, k ? of[k - 1].name : "X: scene");
        centred(rgb, k, k ? LOWER - 24 : UPPER + PANEL + 66, UNIT, text);
    }
    centred(rgb, 0, LOWER + 140, 12, "Y = M X");
    centred(rgb, 0, LOWER + 250, UNIT, "row i says");
    centred(rgb, 0, LOWER + 325, UNIT, "what patch");
    centred(rgb, 0, LOWER + 400, UNIT, "i takes");
    figure_png(out, file, rgb, TRIO_WIDTH, TRIO_HEIGHT);
}

static const char thick[] = " stroke-width=\"2\"";        /* all lines of the drawings */

/* ---- figures: cost --------------------------------------------------------------------------- */

/* Processor time of one mmix_mix on one thread, 4 heads, N = P = 64, in milliseconds: the least
   of five means over 1/20 s. Curve 3 is linear attention in the other order, φ(Q) φ(K)ᵀ first. */
static double cost(mmix_ctx *m, int curve, size_t n)
{
    mmix_tensor *q = mmix_fill_normal(m, mmix_new4(m, 1, n, 4, WIDTH), 1, 5);
    mmix_tensor *v = mmix_fill_normal(m, mmix_new4(m, 1, n, 4, WIDTH), 1, 6);
    mmix_tensor *wide = mmix_fill_normal(m, mmix_new4(m, 1, 4, n, WIDTH), 1, 7);
    mmix_tensor *tall = mmix_fill_normal(m, mmix_new4(m, 1, 4, WIDTH, n), 1, 8);
    mmix_mixer x = curve == 0 ? mmix_mixer_softmax(q, q, v) : mmix_mixer_linear(q, q, v);
    double best = INFINITY;
    if (curve == 2)
        x = mmix_mixer_ssd(v, mmix_fill(mmix_new3(m, 1, n, 4), 0.1), mmix_fill(mmix_new1(m, 4), -1),
                           q, q);
    for (int run = 0; run < 5 && !mmix_error(m); run++) {
        clock_t start = clock();
        clock_t spent = 0;
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
    enum { LENGTHS = 7, LEFT = 80, STEP = 76, DECADE = 66, BOTTOM = 346 };  /* 0.01 ms … 1000 ms */
    static const char *const title[4] = {"softmax", "linear", "SSD", "linear, M first"};
    static const char *const stroke[4] = {"#2f6fd0", "#c8602a", "#2d8f5a",
                                          "#c8602a\" stroke-dasharray=\"5 4"};
    FILE *f = svg_open(out, "cost.svg", 690, BOTTOM + 84, thick);
    for (int d = 0; d < 6; d++) {
        fprintf(f, "<path d=\"M%d %dh496\" stroke=\"#d9dee4\"/>\n", LEFT, BOTTOM - DECADE * d);
        svg_text(f, LEFT - 6, BOTTOM - DECADE * d + 5, 0, "end", "%g ms", pow(10, d - 2));
    }
    for (int i = 0; i < LENGTHS; i++)
        svg_text(f, LEFT + 20 + STEP * i, BOTTOM + 20, 0, "middle", "%d", 64 << i);
    svg_text(f, LEFT + 20 + STEP * 3, BOTTOM + 38, 0, "middle", "tokens");
    svg_text(f, LEFT, BOTTOM + 58, 0, "start", "4 heads, N = P = 64; one thread, %s",
             mmix_simd_name(m));
    fprintf(f, "<text x=\"%d\" y=\"%d\">", LEFT, BOTTOM + 76);
    report_escape(f, note, strlen(note));
    fputs("</text>\n", f);
    double last = 0;
    printf("\nmilliseconds   ");
    for (int i = 0; i < LENGTHS; i++) printf("%9d%s", 64 << i, i < LENGTHS - 1 ? "" : "\n");
    for (int k = 0; k < 4; k++) {
        int i = 0;
        double y = 0;
        printf("%-15s", title[k]);
        fprintf(f, "<path fill=\"none\" stroke=\"%s\" d=\"", stroke[k]);
        for (; i < LENGTHS - (k == 3); i++) {  /* 4 · 4096² floats would be 268 MB */
            double ms = cost(m, k, (size_t)64 << i);
            printf("%9.3f", ms);
            y = BOTTOM - DECADE * (log10(ms) + 2);
            fprintf(f, "%c%d %.1f", i ? 'L' : 'M', LEFT + 20 + STEP * i, y);
        }
        putchar('\n');
        fputs("\"/>\n", f);
        if (k == 2 && fabs(y - last) < 15) y = last + (y < last ? -15 : 15);  /* labels apart */
        svg_text(f, LEFT + STEP * i - 48, y + (k == 3 ? 14 : 4), 0, "start", "%s", title[k]);
        last = y;
    }
    figure_close(f, "</svg>\n");
}

/* ---- figures: ranks, decay ------------------------------------------------------------------- */

static const char *const pen[4] = {"#2f6fd0", "#c8602a", "#2d8f5a\" stroke-dasharray=\"7 5",
                                   "#8a929b\" stroke-width=\"1.5\" stroke-dasharray=\"2 4"};

static void svg_curve(FILE *f, const char *stroke, size_t n, const double *x, const double *y)
{
    fprintf(f, "<path fill=\"none\" stroke=\"%s\" d=\"", stroke);
    for (size_t i = 0; i < n; i++) fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', x[i], y[i]);
    fputs("\"/>\n", f);
}

/* What passes a block of M when queries and keys are narrower (N = 16) than the block is high.
   The block's rows begin at token 72, its columns end before it: w = 8, 16 … 72 of each. Its
   numerical rank, and of the last its singular values. */
enum { NARROW = 16, HALF = L / 2, SIZES = HALF / 8 };
static int measure_blocks(mmix_ctx *m, mmix_tensor *image, double rank[3][SIZES],
                          double sigma[3][HALF])
{
    static const int kind[3] = {SOFTMAX, LINEAR, FORWARD};
    mmix_mark mark = mmix_mark_here(m);
    mmix_rank r;
    for (int k = 0; k < 3; k++, mmix_rewind(m, mark)) {
        mmix_mixer x = mixer_of(m, image, kind[k], NARROW);
        mmix_tensor *M = mmix_mix_matrix(m, &x);
        for (size_t c = 0; M && c < SIZES; c++) {
            size_t w = 8 * (c + 1);
            mmix_tensor *first = mmix_slice(m, M, 1, 0, 1);
            mmix_tensor *below = mmix_slice(m, first, 2, HALF, w);
            mmix_tensor *block = mmix_slice(m, below, 3, HALF - w, w);
            if (mmix_block_rank(m, block, 0, 0, &r)) return -1;
            rank[k][c] = r.numerical[0];
        }
        for (size_t i = 0; M && i < HALF; i++) sigma[k][i] = r.singular[i] / r.singular[0];
    }
    return mmix_error(m) ? -1 : 0;
}

enum { LEFT = 58, TOP = 28, STEP = 8, WIDE = STEP * HALF, BOTTOM = TOP + 320 };
static FILE *plot_open(const char *out, const char *name, const char *title,
                       const char *const *label, int labels)
{
    FILE *f = svg_open(out, name, LEFT + WIDE + 102, BOTTOM + 46, thick);
    for (int i = 0; i < labels; i++) {
        int y = TOP + 320 * i / (labels - 1);
        fprintf(f, "<path d=\"M%d %dh%d\" stroke=\"#d9dee4\"/>\n", LEFT, y, WIDE);
        svg_text(f, LEFT - 8, y + 5, 0, "end", "%s", label[i]);
    }
    for (int i = 8; i <= HALF; i += 8)
        svg_text(f, LEFT + STEP * i, BOTTOM + 20, 0, "middle", "%d", i);
    svg_text(f, LEFT + WIDE / 2, BOTTOM + 40, 0, "middle", "%s", title);
    return f;
}

static void draw_ranks(mmix_ctx *m, const char *out, mmix_tensor *image)
{
    static const char *const title[3] = {"softmax", "linear", "SSD"};
    static const char *const power[5] = {"1", "10⁻²", "10⁻⁴", "10⁻⁶", "10⁻⁸"};
    static const char *const count[6] = {"80", "64", "48", "32", "16", "0"};
    double rank[3][SIZES], sigma[3][HALF], x[HALF], y[HALF];
    double level = TOP - 40 * log10(HALF * (double)FLT_EPSILON);
    if (measure_blocks(m, image, rank, sigma)) return;
    printf("\nrank of a block below the diagonal, N = %d\nw         ", NARROW);
    for (int c = 0; c < SIZES; c++) printf("%4d%s", 8 * (c + 1), c < SIZES - 1 ? "" : "\n");
    FILE *f = plot_open(out, "singular.svg",
                        "singular values of a block of 72 × 72, over the largest", power, 5);
    FILE *g = plot_open(out, "ranks.svg", "side of a block, w", count, 6);
    svg_text(g, LEFT - 8, TOP - 11, 0, "end", "rank");
    for (int b = 0; b < 2; b++) {                                       /* the bounds */
        int at = b ? HALF : NARROW;
        fprintf(f, "<path d=\"M%d %dV%d\" stroke=\"%s\"/>\n", LEFT + STEP * at, TOP, BOTTOM,
                pen[3]);
        const char *label = b ? "softmax: w = 72" : "linear, SSD: N = 16";
        svg_text(f, LEFT + STEP * at, TOP - 9, 0, b ? "end" : "start", "%s", label);
        fprintf(g, "<path fill=\"none\" d=\"M%d %dL%d %dH%d\" stroke=\"%s\"/>\n", LEFT, BOTTOM,
                LEFT + STEP * at, BOTTOM - 4 * at, LEFT + WIDE, pen[3]);
        svg_text(g, LEFT + WIDE + 10, BOTTOM - 4 * at + 5, 0, "start", b ? "w" : "min(w, 16)");
    }
    fprintf(f, "<path d=\"M%d %.1fh%d\" stroke=\"%s\"/>\n", LEFT, level, WIDE, pen[3]);
    svg_text(f, LEFT + STEP * NARROW + 8, level + 17, 0, "start", "below 72 ε: rounding");
    for (int k = 0; k < 3; k++) {
        size_t n = 0;
        for (; n < HALF && sigma[k][n] > 1e-8; n++) {
            x[n] = LEFT + STEP * (double)(n + 1);
            y[n] = TOP - 40 * log10(sigma[k][n]);
        }
        svg_curve(f, pen[k], n, x, y);
        printf("%-10s", title[k]);
        for (int c = 0; c < SIZES; c++) {
            printf("%4g%s", rank[k][c], c < SIZES - 1 ? "" : "\n");
            x[c] = LEFT + 8 * STEP * (c + 1);
            y[c] = BOTTOM - 4 * rank[k][c];
            fprintf(g, "<circle cx=\"%g\" cy=\"%g\" r=\"%d\" fill=\"%.7s\"/>\n", x[c], y[c], 6 - k,
                    pen[k]);
        }
        svg_curve(g, pen[k], SIZES, x, y);
        if (k < 2) svg_text(g, x[6], y[6] + 24, 0, "middle", k ? "linear and SSD (broken)" :
                            "softmax");
    }
    svg_text(f, LEFT + 27 * STEP, TOP + 86, 0, "start", "softmax");
    svg_text(f, LEFT + 15 * STEP - 4, TOP + 200, 0, "end", "linear (line),");
    svg_text(f, LEFT + 15 * STEP - 4, TOP + 218, 0, "end", "SSD (broken)");
    figure_close(f, "</svg>\n");
    figure_close(g, "</svg>\n");
}

/* A matrix of numbers from 0 to 1, and the scale of its colours. */
static void draw_shares(const char *out, const char *file, const mmix_real *value)
{
    enum { HIGH = PANEL + 2 * GAP, BAR = PANEL + 2 * GAP, END = BAR + GAP, ALL = END + 80 };
    static const char *const mark[3] = {"1", "1/2", "0"};
    static uint8_t rgb[ALL * HIGH * 3];
    memset(rgb, 255, sizeof rgb);
    for (size_t y = 0; y < PANEL; y++) {
        uint8_t *row = rgb + 3 * (GAP + y) * ALL;
        for (size_t x = 0; x < PANEL; x++)
            colour((double)value[y / ZOOM * L + x / ZOOM], 0, row + 3 * (GAP + x));
        for (size_t x = BAR; x < END; x++) colour(1 - (double)y / (PANEL - 1), 0, row + 3 * x);
    }
    for (int k = 0; k < 3; k++)
        figure_words(rgb, ALL, HIGH, END + 14, GAP + PANEL * k / 2.0 + 10, 3.4, mark[k]);
    figure_png(out, file, rgb, ALL, HIGH);
}

/* F of the SSD head: each row is the row above, faded once more, and a 1. */
static void draw_decay(mmix_ctx *m, const char *out, mmix_tensor *image)
{
    static mmix_real decay[L * L];
    mmix_mixer x = mixer_of(m, image, FORWARD, WIDTH);
    if (mmix_error(m)) return;
    for (size_t i = 0; i < L; i++) {
        double delta = log1p(exp((double)mmix_data(x.dt)[i] + (double)mmix_data(x.dt_bias)[0]));
        for (size_t j = 0; i && j < i; j++)
            decay[i * L + j] = decay[(i - 1) * L + j] *
                (mmix_real)exp(delta * (double)mmix_data(x.A)[0]);
        decay[i * L + i] = 1;
    }
    draw_shares(out, "decay.png", decay);
}

/* ---- figures: numbers ------------------------------------------------------------------------ */

/* y by the loop over time. Softmax attention keeps all keys and values so far; the others keep a
   state: causal linear attention is an SSD with δ = 1 and A = 0. */
static mmix_tensor *loop(mmix_ctx *m, const mmix_mixer *x)
{
    mmix_mixer s = *x;
    size_t n = mmix_shape(x->v, 1);
    if (x->kind == MMIX_MIXER_LINEAR)
        s = mmix_mixer_ssd(x->v, mmix_fill(mmix_new3(m, 1, n, 1), 1), mmix_fill(mmix_new1(m, 1), 0),
                           mmix_softmax(m, x->k, 3), mmix_softmax(m, x->q, 3));
    if (s.kind == MMIX_MIXER_SSD) return mmix_ssd_reference(m, &s);
    mmix_tensor *y = mmix_new4(m, 1, n, 1, WIDTH);
    for (size_t t = 0; y && t < n; t++) {
        mmix_tensor *q = mmix_slice(m, x->q, 1, t, 1);
        mmix_tensor *k = mmix_slice(m, x->k, 1, 0, t + 1);
        mmix_tensor *v = mmix_slice(m, x->v, 1, 0, t + 1);
        s = mmix_mixer_softmax(q, k, v);
        mmix_tensor *row = mmix_mix(m, &s);
        if (row) memcpy(mmix_data(y) + t * WIDTH, mmix_data(row), WIDTH * sizeof(mmix_real));
    }
    return y;
}

static double most(mmix_ctx *m, mmix_tensor *a, mmix_tensor *b)  /* largest |a - b| */
{
    mmix_tensor *d = mmix_sub(m, a, b);
    range r = range_of(mmix_data(d), mmix_count(d), (size_t)-1);
    return fmax(r.high, -r.low);
}

static void print_tables(mmix_ctx *m, mmix_tensor *image)
{
    size_t flat[2] = {2 * L, 2 * L};
    size_t rows[2] = {2 * L, WIDTH};
    size_t y_shape[4] = {1, 2 * L, 1, WIDTH};
    /* more than one chunk */
    mmix_tensor *pair[2] = {image, image};
    mmix_tensor *wide = mmix_concat(m, 3, pair, 2);
    printf("\ny, three ways  largest |y|  chunked-matrix  loop-matrix  loop-chunked\n");
    for (int k = 0; k < BOTH; k++) {
        mmix_mixer x = mixer_of(m, wide, k, WIDTH);
        if (k == NORMALIZED) continue;
        x.mask = MMIX_MASK_CAUSAL;
        mmix_tensor *y = mmix_mix(m, &x);
        mmix_tensor *step = loop(m, &x);
        mmix_tensor *M = mmix_reshape(m, mmix_mix_matrix(m, &x), 2, flat);
        mmix_tensor *flat_v = mmix_reshape(m, x.v, 2, rows);
        mmix_tensor *product = mmix_reshape(m, mmix_matmul(m, M, flat_v), 4, y_shape);
        if (mmix_error(m)) return;
        printf("%-14s %11.3f %15.1e %12.1e %13.1e\n", named[k], most(m, y, mmix_affine(m, y, 0, 0)),
               most(m, y, product), most(m, step, product), most(m, step, y));
    }
    printf("\nrow sums of linear attention\ntokens     L/N     least     mean  largest\n");
    for (size_t side = 3; side <= GRID; side += 3) {
        mmix_tensor *upper = mmix_slice(m, image, 2, 0, side * PATCH);
        mmix_tensor *corner = mmix_slice(m, upper, 3, 0, side * PATCH);
        mmix_mixer x = mixer_of(m, corner, LINEAR, WIDTH);
        mmix_tensor *sums = mmix_sum_axis(m, mmix_mix_matrix(m, &x), 3);
        range r = range_of(mmix_data(sums), mmix_count(sums), L);
        double n = (double)(side * side);
        printf("%6g %7.3f %9.3f %8.3f %8.3f\n", n, n / WIDTH, r.low, r.sum / n, r.high);
    }
    mmix_reset(m);
}

/* A blue ball and a small cone on an olive floor before a pale wall: what docs/01-mixers.md
   describes. */
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
    s.light_x = -120;
    s.light_y = -650;
    s.light_z = 780;
    s.ambient = 330;
    s.grain = 6;
    return s;
}

/* What the documents show. */
static int figures(mmix_ctx *m, const char *out, const char *file, size_t token, const char *note)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    scene s = still_life();
    int bad = file ? read_picture(m, file, SIDE, rgb) : 0;
    if (bad) return bad;
    report_say("drawing the documents' figures into %s; their times take half a minute", out);
    if (!file) scene_paint(&s, SIDE, rgb, NULL);
    /* each channel's mean becomes 0 */
    double mean[3] = {0, 0, 0}, deviation[3] = {0.25, 0.25, 0.25};
    for (size_t i = 0; i < sizeof rgb; i++) mean[i % 3] += rgb[i] / 255.0 / (SIDE * SIDE);
    mmix_picture p = {rgb, SIDE, SIDE};
    mmix_tensor *image = mmix_new4(m, 1, 3, SIDE, SIDE);
    if (image) mmix_picture_normalize(mmix_data(image), p, mean, deviation);
    if (image) draw_trio(m, out, "mixers.png", three_mixers, image, rgb, token);
    if (image) draw_trio(m, out, "directions.png", three_directions, image, rgb, token);
    if (image) print_rows(m, image, token);
    if (image) draw_decay(m, out, image);
    if (image) draw_ranks(m, out, image);
    if (image) print_tables(m, image);                   /* drops the image */
    if (!mmix_error(m)) draw_cost(m, out, note);
    return mmix_error(m) ? fail("%s", mmix_error(m)) : 0;
}

/* ---- report: measuring ----------------------------------------------------------------------- */

enum { MOST_MODELS = 8, MOST_LAYERS = 32, SOME_LAYERS = 6, MOST_TOKENS = 1026, MOST_CLASS = 64,
      RADIUS = 2 };
enum { DIM = 192, DEPTH = 4, HEADS = 3, SQUARE = 224 };  /* of networks with random weights */
enum { TRIO_SIDE = 197 };                                /* of matrices in the page, pixels */

/* What is told of each head of a layer, in one direction. The first four are of the blocks
   beside the diagonal, of one direction those on the side that is not zero. Of several blocks,
   and of all heads, it is the largest of what is counted (no digits) and the mean of the rest. */
enum { BOUND, RANK, EFFECTIVE, STABLE, DECAY, DIAG, DIAG_RANK, DIAG_EFFECTIVE, DIAG_STABLE, WHOLE,
      SUM, JOINED, SELF, CLOSE_BY, FAR_OFF, COLUMNS };
static const report_column column[COLUMNS] = {
    {"off_bound", "bound", "off: bound", 5, 0},
    {"off_rank", "rank", "rank", 4, 0},
    {"off_effective", "eff.", "eff.", 5, 1},
    {"off_stable", "stable", "stable", 6, 1},
    {"decay_rank", "of L", "of L", 4, 0},
    {"diagonal_bound", "diag:", "diag: bound", 5, 0},
    {"diagonal_rank", "rank", "rank", 4, 0},
    {"diagonal_effective", "eff.", "eff.", 5, 1},
    {"diagonal_stable", "stable", "stable", 6, 1},
    {"whole_rank", "M", "M", 4, 0},
    {"diagonal_sum", "sum", "sum", 4, 0},
    {"joined_rank", "joined", "joined", 6, 0},
    {"self_share", "self", "self", 4, 2},
    {"near_share", "5x5", "5x5", 4, 2},
    {"distance", "far", "far", 5, 2},
};

/* on the diagonal */
static const struct { const char *name, *model, *title, *matrix, *bound, *on; } about[3] = {
    {"vit", "ViT", "ViT: softmax attention", "M = softmax(Q Kᵀ / √N)", "C", "C"},
    {"linearvit", "LinearViT", "LinearViT: linear attention",
     "M = φ(Q) φ(K)ᵀ, φ the softmax over a token's features",
     "min(C, D_QK)", "the same"},
    {"dinovim", "DinoVim", "DinoVim: Mamba-2 in both directions",
     "M = L ∘ (C Bᵀ) diag(δ) + diag(D)",
     "min(C, rank(L) · N)", "C"},
};

/* One mixer: a layer, of DinoVim in one direction. */
typedef struct view {
    size_t layer;
    int reverse;
    mmix_real *M;                                        /* (H, L, L) */
    double (*head)[COLUMNS], all[COLUMNS];
    /* (C): mean over heads of log10 σ/σ₁, one block beside the diagonal */
    double *curve;
} view;

typedef struct model {
    const char *file;                                    /* of the weights; NULL: random */
    int run, told;  /* the file is a run of demos/studies/dino.c; names its config */
    mmix_vision *v;
    int kind;                                            /* MMIX_MIXER_SOFTMAX, … */
    size_t patches, tokens, heads, N, block;  /* patches a side; N is D_QK of attention */
    size_t class_at[MOST_CLASS], classes;                /* where class tokens (registers) stand */
    size_t layer[MOST_LAYERS], layers, calls, views;
    view view[2 * MOST_LAYERS];
    /* blocks of L of rank 0, 1, more; … within their bound */
    size_t decay[3], held, blocks, lemma, matrices;
} model;

typedef struct settings {
    const char *out, *image, *model, *note, *figures, *load[MOST_MODELS];
    size_t loads, token, heads, size, block, threads, layer[MOST_LAYERS], layers;
    uint64_t seed;
    int json;
} settings;

static time_t said;
static void say(const model *o, size_t layer, size_t depth)    /* a line a second at most */
{
    if (time(NULL) - said < 1) return;
    said = time(NULL);
    fprintf(stderr, "%s: layer %zu of %zu\n", about[o->kind].name, layer + 1, depth);
}

static int is_class(const model *o, size_t at)
{
    size_t k = 0;
    while (k < o->classes && o->class_at[k] != at) k++;
    return k < o->classes;
}

/* SELF, CLOSE_BY and FAR_OFF of a head: its matrix without rows and columns of class tokens. */
static void measure_reach(const model *o, const mmix_real *M, mmix_real *scratch, double *value)
{
    const size_t side = o->patches;
    size_t to = 0;
    for (size_t i = 0; i < o->tokens; i++)
        for (size_t j = 0; j < o->tokens; j++)
            if (!is_class(o, i) && !is_class(o, j)) scratch[to++] = M[i * o->tokens + j];
    head_reach(scratch, 1, side, side, 0, &value[SELF], NULL);
    head_reach(scratch, 1, side, side, RADIUS, &value[CLOSE_BY], &value[FAR_OFF]);
}

/* One head's blocks. Beside the diagonal lie all full blocks I ≠ J, of one direction those on
   its side. */
static void measure_head(model *o, view *w, const mmix_mixer_rank *r, size_t h)
{
    const int ssd = o->kind == MMIX_MIXER_SSD;
    /* (0, 1), (1, 0) */
    const size_t full = o->tokens / o->block;
    const size_t n = r->M.rows;
    const size_t first = w->reverse ? 1 : n;
    double *value = w->head[h];
    double *off = value + BOUND;
    double *diag = value + DIAG;
    for (int c = 0; c < COLUMNS; c++) value[c] = c < WHOLE ? 0 : NAN;
    for (size_t I = 0; I < full; I++)
        for (size_t J = 0; J < full; J++) {
            size_t at = (h * n + I) * n + J;
            double *to = I == J ? diag : off;
            double count = (double)(I == J ? full : full * (full - 1) / (size_t)(1 + ssd));
            if (ssd && I != J && (I < J) != w->reverse) continue;
            to[0] = fmax(to[0], r->bound[at]);
            to[1] = fmax(to[1], r->M.numerical[at]);
            to[2] += r->M.effective[at] / count;
            to[3] += r->M.stable[at] / count;
            o->held += r->M.numerical[at] <= r->bound[at];
            o->blocks++;
            if (!ssd || I == J) continue;
            value[DECAY] = fmax(value[DECAY], r->decay[at]);
            o->decay[r->decay[at] < 2 ? (int)r->decay[at] : 2]++;
        }
    value[WHOLE] = r->whole.numerical[h];
    if (!ssd) value[DECAY] = NAN;
    else {                                               /* block triangular */
        value[SUM] = r->diagonal[h];
        o->lemma += value[WHOLE] >= value[SUM];
    }
    o->matrices++;
    const double *sigma = r->M.singular + (h * n * n + first) * r->M.width;
    for (size_t k = 0; k < o->block; k++)
        /* of a block of zeros: 1e-9 */
        w->curve[k] += log10(fmax(sigma[k] / *sigma, 1e-9)) / (double)o->heads;
}

/* Is called with each mixer as the model runs. */
static void look(void *user, mmix_ctx *m, const mmix_mixer *x)
{
    model *o = (model *)user;
    const size_t layer = o->calls++ / (o->kind == MMIX_MIXER_SSD ? 2 : 1);
    const size_t n = o->tokens;
    mmix_mixer_rank r;
    char name[64];
    size_t k = 0;
    while (k < o->layers && o->layer[k] != layer) k++;
    if (k == o->layers) return;
    say(o, layer, mmix_vision_config_of(o->v)->depth);
    snprintf(name, sizeof name, o->kind == MMIX_MIXER_SSD ? "layers.%d.mixer.out_proj.weight" :
             "blocks.%d.attn.proj.weight",
             (int)layer);
    mmix_tensor *M = mmix_mix_matrix(m, x);
    mmix_tensor *patches = mmix_new2(m, n, n);
    if (!patches || mmix_mix_rank(m, x, mmix_params_find(mmix_vision_params(o->v), name), o->block,
                                  0, &r)) return;
    view *w = &o->view[o->views++];
    w->layer = layer;
    w->reverse = o->kind == MMIX_MIXER_SSD && x->direction == MMIX_SCAN_REVERSE;
    o->heads = mmix_shape(M, 1);
    o->N = mmix_shape(x->k, 3);
    w->M = (mmix_real *)malloc(mmix_count(M) * sizeof *w->M);
    w->head = (double (*)[COLUMNS])malloc(o->heads * sizeof *w->head);
    w->curve = (double *)calloc(o->block, sizeof *w->curve);
    if (!w->M || !w->head || !w->curve) {
        mmix_fail(m, MMIX_ERROR_MEMORY,
                  "no memory for the matrices of layer %d; give fewer --layers", (int)layer);
        return;
    }
    mmix_read(M, w->M);
    for (size_t h = 0; h < o->heads; h++) {
        measure_head(o, w, &r, h);
        measure_reach(o, w->M + h * n * n, mmix_data(patches), w->head[h]);
    }
    for (int c = 0; c < COLUMNS; c++) {
        w->all[c] = column[c].digits ? 0 : NAN;
        for (size_t h = 0; h < o->heads; h++)
            if (column[c].digits) w->all[c] += w->head[h][c] / (double)o->heads;
            else w->all[c] = fmax(w->all[c], w->head[h][c]);
    }
    for (size_t i = 0, full = n / o->block; i < full * full; i++)
        if (i / full != i % full)
            w->all[JOINED] = fmax(w->all[JOINED], r.joined[i / full * r.M.rows + i % full]);
}

/* Makes a model: random weights if there is no file. 0, or an exit status. Names and shapes in a
   file may leave open what mixes and in how many heads: then --model and --heads say so. */
static int open_model(mmix_ctx *m, model *o, const settings *s, int kind, const char *file)
{
    mmix_vision_config c = kind == MMIX_MIXER_SSD ? mmix_vision_config_dinovim(256) :
        mmix_vision_config_vit(192, 16);
    mmix_archive *a = file ? mmix_archive_open(m, file) : NULL;
    const char *format = mmix_archive_metadata(a, "format");
    o->told = mmix_archive_metadata(a, "config") != NULL;
    o->file = file;
    o->run = format && !strncmp(format, "mamba_mix dino run", 18);  /* of demos/studies/dino.c */
    if (!file) {
        c.dim = DIM;
        c.depth = DEPTH;
        c.heads = HEADS;
    } else if (!mmix_error(m)) mmix_vision_config_read(m, a, &c);
    if (c.mixer == MMIX_MIXER_SELECTIVE) {
        mmix_archive_close(a);
        return fail("%s: a network of Mamba-1 has an M for each channel, and none for heads", file);
    }
    if (!o->told && c.mixer != MMIX_MIXER_SSD) {
        c.mixer = kind;
        if (s->heads) c.heads = s->heads;
    }
    if (!mmix_error(m)) o->v = mmix_vision_create(m, c);
    if (file && o->v) mmix_params_read(mmix_vision_params(o->v), a, NULL);
    mmix_archive_close(a);
    if (mmix_error(m)) return fail("%s", mmix_error(m));
    o->kind = c.mixer;
    return 0;
}

/* How many tokens it will see, which layers, blocks of what size. 0, or an exit status. */
static int plan_model(model *o, const settings *s, size_t size)
{
    const mmix_vision_config *c = mmix_vision_config_of(o->v);
    o->patches = size / c->patch;
    o->classes = c->class_token == MMIX_CLASS_RELEASED;  /* the one in front, which is not read */
    if (mmix_vision_class_index(c, 0, NULL) >= MOST_CLASS)
        return fail("%s: %zu registers are too many", o->file, c->registers);
    o->classes += mmix_vision_class_index(c, o->patches * o->patches, o->class_at + o->classes);
    o->tokens = o->patches * o->patches + o->classes;
    o->block = s->block ? s->block : o->tokens / 2;
    if (!o->patches)
        return fail("--size %zu: the %s has patches of %zu pixels; give more", size,
                    about[o->kind].name, c->patch);
    if (o->tokens > MOST_TOKENS)
        return fail("--size %zu: %zu tokens are too many for singular values of M; give at most "
                    "%zu",
                    size, o->tokens, 32 * c->patch);
    if (o->block > o->tokens / 2)
        return fail("--block %zu: %zu tokens have blocks beside the diagonal for C from 1 to %zu",
                    o->block, o->tokens, o->tokens / 2);
    o->layers = c->depth < SOME_LAYERS ? c->depth : SOME_LAYERS;
    if (s->layers) o->layers = s->layers;
    for (size_t i = 0; i < o->layers; i++) {
        size_t spread = o->layers < 2 ? 0 : i * (c->depth - 1) / (o->layers - 1);
        o->layer[i] = s->layers ? s->layer[i] : spread;
        if (o->layer[i] >= c->depth)
            return fail("--layers %zu: the %s has layers 0 … %zu", o->layer[i], about[o->kind].name,
                        c->depth - 1);
    }
    return 0;
}

static void close_model(model *o)
{
    for (size_t i = 0; i < o->views; i++) {
        free(o->view[i].M);
        free(o->view[i].head);
        free(o->view[i].curve);
    }
    mmix_vision_destroy(o->v);
}

/* ---- report: writing ------------------------------------------------------------------------- */

static const char *way(const model *o, const view *w)
{
    if (o->kind != MMIX_MIXER_SSD) return "";
    return w->reverse ? "reverse" : "forward";
}
static const char *width_name(const model *o) { return o->kind == MMIX_MIXER_SSD ? "N" : "D_QK"; }

static void print_views(const model *o, size_t models)
{
    char text[64];
    report_columns_text(column, COLUMNS, "all heads of layer   ", NULL);
    for (; models-- > 0; o++)
        for (const view *w = o->view; w < o->view + o->views; w++) {
            snprintf(text, sizeof text, "%-9s  %2zu %-7s", about[o->kind].name, w->layer,
                     way(o, w));
            report_columns_text(column, COLUMNS, text, w->all);
        }
}

/* All columns of a head or layer, and the brace that ends them. */
static void print_values(const double *value)
{
    for (int c = 0; c < COLUMNS; c++)
        report_json(column[c].key, value[c], c < COLUMNS - 1 ? ", " : "}");
}

static void print_json(const model *o, size_t models, const settings *s, size_t size)
{
    printf("{\"image\": ");
    report_json_text(s->image ? s->image : "scene");
    printf(", \"size\": %zu, \"seed\": %" PRIu64 ", \"models\": [", size, s->seed);
    for (size_t k = 0; k < models; k++, o++) {
        printf("%s\n {\"model\": \"%s\", \"weights\": ", k ? "," : "", about[o->kind].name);
        report_json_text(o->file ? o->file : "random");
        printf(", \"tokens\": %zu, \"heads\": %zu, \"width\": %zu, \"block\": %zu, \"blocks\": "
               "%zu, ",
               o->tokens, o->heads, o->N, o->block, o->blocks);
        printf("\"blocks_within_bound\": %zu, \"blocks_of_L_by_rank\": [%zu, %zu, %zu], "
               "\"layers\": [",
               o->held, o->decay[0], o->decay[1], o->decay[2]);
        for (const view *w = o->view; w < o->view + o->views; w++) {
            const char *comma = w > o->view ? "," : "";
            printf("%s\n  {\"layer\": %zu, \"direction\": \"%s\", \"heads\": [", comma, w->layer,
                   way(o, w));
            for (size_t h = 0; h < o->heads; h++) {
                printf("%s\n   {", h ? "," : "");
                print_values(w->head[h]);
            }
            printf("],\n   \"all\": {");
            print_values(w->all);
            printf("}");
        }
        printf("]}");
    }
    printf("]}\n");
}

static int by_size(const void *a, const void *b)
{
    mmix_real x = *(const mmix_real *)a, y = *(const mmix_real *)b;
    return x < y ? -1 : x > y;
}

/* The scale of a model's matrices: percentiles 1 and 99 of a sample of what is neither on the
   diagonal nor zero; where there are signs, ± percentile 99 of the sizes. */
static int scale_of(const model *o, double scale[2])
{
    enum { SAMPLE = 1 << 17 };
    const size_t n = o->tokens;
    const size_t each = o->heads * n * n;
    const size_t every = 1 + o->views * each / SAMPLE;
    mmix_real *sample = (mmix_real *)malloc((SAMPLE + 1) * sizeof *sample);
    size_t count = 0;
    if (!sample) return -1;
    for (size_t i = 0; i < o->views * each; i += every) {
        double v = (double)o->view[i / each].M[i % each];
        if (i % (n * n) % (n + 1) != 0 && fabs(v) > 0)
            sample[count++] = (mmix_real)(o->kind == MMIX_MIXER_SSD ? fabs(v) : v);
    }
    qsort(sample, count, sizeof *sample, by_size);
    scale[1] = count ? (double)sample[count - 1 - count / 100] : 1;
    scale[0] = count ? (double)sample[count / 100] : 0;
    if (o->kind == MMIX_MIXER_SSD) scale[0] = -scale[1];
    if (!(scale[1] > scale[0])) scale[1] = scale[0] + 1e-9;
    free(sample);
    return 0;
}

/* The mean of two matrices (or one twice) as a picture of at most 256 squares a side. */
static void report_matrix(report *r, const model *o, const mmix_real *a, const mmix_real *b,
                          const double *scale, uint8_t *rgb, int wide, const char *alt)
{
    const size_t n = o->tokens;
    const size_t step = (n + 255) / 256;
    const size_t side = (n + step - 1) / step;
    const int ssd = o->kind == MMIX_MIXER_SSD;
    for (size_t i = 0; i < side * side; i++) {
        double sum = 0, count = 0;
        for (size_t y = i / side * step; y < n && y < (i / side + 1) * step; y++)
            for (size_t x = i % side * step; x < n && x < (i % side + 1) * step; x++, count++)
                sum += (double)(a[y * n + x] + b[y * n + x]) / 2;
        sum = (sum / count - scale[0]) / (scale[1] - scale[0]);
        colour(ssd ? 2 * sum - 1 : fmax(0, sum), ssd, rgb + 3 * i);
    }
    report_picture(r, rgb, side, side, wide, alt);
}

/* What patch `at` takes in the first layer's first head, as light on the picture, which is size
   x size; `at` is framed. Without `alt` the picture itself. */
static void report_light(report *r, const model *o, size_t at, const uint8_t *picture, size_t size,
                         const char *alt)
{
    enum { MOST_SIDE = 224 };
    static uint8_t rgb[MOST_SIDE * MOST_SIDE * 3];
    const view *w = o->view;
    const view *other = o->kind == MMIX_MIXER_SSD ? w + 1 : w;
    const size_t side = o->patches;
    const size_t shown = size < MOST_SIDE ? size : MOST_SIDE;
    double *row = (double *)calloc(side * side, sizeof *row);
    double top = 1e-30;
    size_t me = 0, to = 0;                               /* the token that is the patch */
    if (!row) return;
    for (size_t i = 0; to <= at; i++) if (!is_class(o, i)) {
        me = i;
        to++;
    }
    for (size_t j = to = 0; j < o->tokens; j++) {
        if (is_class(o, j)) continue;
        row[to] = fabs((double)(w->M[me * o->tokens + j] + other->M[me * o->tokens + j]));
        if (to++ != at) top = fmax(top, row[to - 1]);
    }
    for (size_t i = 0; i < shown * shown; i++) {
        size_t y = i / shown;
        size_t x = i % shown;
        size_t p = y * side / shown * side + x * side / shown;
        /* inside of the patch, in `side`ths of a pixel */
        size_t v = y * side % shown;
        size_t u = x * side % shown;
        int frame = p == at && (u < 2 * side || v < 2 * side || u + 2 * side >= shown ||
                                v + 2 * side >= shown);
        for (size_t c = 0; c < 3; c++) {
            uint8_t level = picture[3 * (y * size / shown * size + x * size / shown) + c];
            rgb[3 * i + c] = alt ? lit(row[p] / top, level) : level;
            if (frame) rgb[3 * i + c] = 255;
        }
    }
    report_picture(r, rgb, shown, shown, TRIO_SIDE, alt ? alt : "the picture, a patch framed");
    free(row);
}

static size_t middle_of(const model *o) { return o->patches / 2 * o->patches + o->patches / 2; }

/* The page begins with M of one head of each network, and one row of it. */
static int report_trio(report *r, const model *o, size_t models, const settings *s,
                       const uint8_t *picture, size_t size)
{
    uint8_t *rgb = (uint8_t *)malloc(256 * 256 * 3);
    double scale[2];
    if (!rgb) return -1;
    report_html(r, "<h2>Read row i</h2>\n<p>Row i of M says what token i takes from each token. "
                   "The upper pictures show M of one head of each network, the first of layer %zu. "
                   "The lower ones show the row of the framed patch laid over the picture: bright "
                   "where it takes much, dark where it takes nothing.</p>\n",
                o->view->layer);
    report_html(r, "<table class=\"pictures fit\"><tr><th>X</th>");
    for (size_t k = 0; k < models; k++)
        report_html(r, "<th>M: %s%s</th>", about[o[k].kind].model, o[k].file ? "" : "<br>(random)");
    report_html(r, "</tr>\n<tr><td>");
    report_light(r, o, middle_of(o), picture, size, NULL);
    for (size_t k = 0; k < models; k++) {
        const view *w = o[k].view;
        const view *other = o[k].kind == MMIX_MIXER_SSD ? w + 1 : w;
        report_html(r, "</td><td>");
        if (scale_of(&o[k], scale)) {
            free(rgb);
            return -1;
        }
        report_matrix(r, &o[k], w->M, other->M, scale, rgb, TRIO_SIDE, "M of the first head");
    }
    report_html(r, "</td></tr>\n<tr><td class=\"soft\">what the framed patch takes</td>");
    for (size_t k = 0; k < models; k++) {
        report_html(r, "<td>");
        report_light(r, &o[k], middle_of(&o[k]), picture, size, "its row as light");
        report_html(r, "</td>");
    }
    report_html(r, "</tr></table>\n<p class=\"soft\">");
    report_text(r, s->image ? s->image : "A drawn scene");
    report_html(r, ", %zu x %zu pixels in patches of %zu x %zu: tokens in reading order. Class "
                   "tokens stand among them: in front in the ViTs, in the middle in DinoVim (in "
                   "its released form in front, too). The light is |M_ij|, divided by the largest "
                   "among the other patches; DinoVim's is the mean of both directions.</p>\n",
                size, size,
                size / o->patches, size / o->patches);
    free(rgb);
    return 0;
}

/* M of each layer (down; of DinoVim forward, reverse and their mean) and head (across). */
static int report_sheet(report *r, const model *o)
{
    enum { BAR = 192 };
    const int ssd = o->kind == MMIX_MIXER_SSD;
    uint8_t *rgb = (uint8_t *)malloc(256 * 256 * 3);
    char text[64];
    double scale[2];
    if (!rgb || scale_of(o, scale)) {
        free(rgb);
        return -1;
    }
    for (int i = 0; i < BAR * 8; i++)
        colour((double)(i % BAR) / (BAR - 1) * (1 + ssd) - ssd, ssd, rgb + 3 * i);
    report_html(r, "<table class=\"pictures\"><tr><td>%.3g</td><td>", scale[0]);
    report_picture(r, rgb, BAR, 8, BAR, "colour scale");
    report_html(r, "</td><td>%.3g</td></tr></table>\n", scale[1]);
    report_html(r, "<div class=\"wide\"><table class=\"pictures\"><tr><th></th>");
    for (size_t h = 0; h < o->heads; h++) report_html(r, "<th>head %zu</th>", h);
    for (size_t i = 0; i < o->views * (ssd ? 3 : 2) / 2; i++) {
        const view *w = ssd ? &o->view[i / 3 * 2 + (i % 3 == 1)] : &o->view[i];
        const view *other = ssd && i % 3 == 2 ? w + 1 : w;
        report_html(r, "</tr>\n<tr><th>layer %zu<br>%s</th>", w->layer, w != other ? "mean" :
                    way(o, w));
        for (size_t h = 0; h < o->heads; h++) {
            size_t at = h * o->tokens * o->tokens;
            snprintf(text, sizeof text, "M of layer %zu, head %zu", w->layer, h);
            report_html(r, "<td>");
            report_matrix(r, o, w->M + at, other->M + at, scale, rgb, o->heads > 4 ? 148 :
                          TRIO_SIDE, text);
            report_html(r, "</td>");
        }
    }
    report_html(r, "</tr></table></div>\n");
    free(rgb);
    return 0;
}

/* "least … largest" of a column over all heads (of JOINED over all layers), as a cell of a
   table. */
static void add_range(char *cells, size_t room, const model *o, int c)
{
    double low = INFINITY, high = -INFINITY;
    size_t n = strlen(cells);
    for (size_t i = 0; i < o->views * o->heads; i++) {
        const view *w = &o->view[i / o->heads];
        double v = c == JOINED ? w->all[c] : w->head[i % o->heads][c];
        low = fmin(low, v);
        high = fmax(high, v);
    }
    if (low > high) snprintf(cells + n, room - n, "|-");
    else if (high > low) snprintf(cells + n, room - n, "|%.*f … %.*f", column[c].digits, low,
                                  column[c].digits, high);
    else snprintf(cells + n, room - n, "|%.*f", column[c].digits, low);
}

/* The reach of a matrix of equal numbers; its other columns are NAN. 0, or -1. */
static int even_reach(const model *o, double even[COLUMNS])
{
    const size_t side = o->patches;
    const size_t n = side * side;
    mmix_real *ones = (mmix_real *)malloc(n * n * sizeof *ones);
    if (!ones) return -1;
    for (size_t i = 0; i < n * n; i++) ones[i] = 1;
    for (int c = 0; c < COLUMNS; c++) even[c] = NAN;
    head_reach(ones, 1, side, side, 0, &even[SELF], NULL);
    head_reach(ones, 1, side, side, RADIUS, &even[CLOSE_BY], &even[FAR_OFF]);
    free(ones);
    return 0;
}

/* In a sentence: how much of what a patch takes comes from near, beside what a matrix of equal
   numbers has, and whether the ranks keep to their bounds. */
static void report_finding(report *r, const model *o, size_t models)
{
    size_t held = 0, blocks = 0, random = 0;
    double even[COLUMNS];
    report_html(r, "<p>A token mixer lets the patches of a picture look at each other. It is a "
                   "product of matrices, Y = M X: X has a row for each patch (a token), and M says "
                   "how much each takes from every other. Of what a patch takes, ");
    for (size_t k = 0; k < models; k++) {
        double near_by = 0;
        for (size_t i = 0; i < o[k].views; i++)
            near_by += o[k].view[i].all[CLOSE_BY] / (double)o[k].views;
        const char *link = k + 1 < models ? ", " : " and ";
        const char *what = k ? "" : " comes from the 5 x 5 patches around it";
        if (!k) link = "";
        report_html(r, "%s<b>%.0f&nbsp;%%</b>%s in %s", link, 100 * near_by, what,
                    about[o[k].kind].model);
        held += o[k].held;
        blocks += o[k].blocks;
        random += !o[k].file;
    }
    if (!even_reach(o, even))
        report_html(r, "; where a patch takes the same from all it is %.0f&nbsp;%%",
                    100 * even[CLOSE_BY]);
    report_html(r, ". The rank of a block of M says through how many numbers its tokens talk; in "
                   "%zu of %zu blocks it keeps to the bound that theory gives.", held, blocks);
    if (random == models)
        report_html(r, " <b>All weights are random:</b> this is what the architectures do before "
                       "anything is learned.");
    report_html(r, "</p>\n");
}

static void report_claims(report *r, const model *o, size_t models)
{
    static const struct {
        int column;
        const char *text;
    } row[] = {
        {BOUND, "blocks beside the diagonal: bound"}, {RANK, "… numerical rank"},
            {EFFECTIVE, "… effective rank"},
        {STABLE, "… stable rank"}, {DECAY, "… rank of the block of L"},
        {JOINED, "… all heads of a layer, projected"},
        {DIAG, "blocks on the diagonal: bound"}, {DIAG_RANK, "… numerical rank"},
        {DIAG_EFFECTIVE, "… effective rank"},
        {WHOLE, "all of M: numerical rank"}, {SUM, "… which by the lemma is at least"}};
    char cells[1024] = "";
    size_t L_blocks[3] = {0, 0, 0}, lemma = 0, matrices = 0, n = 0;
    for (size_t k = 0; k < models; k++) {
        n += (size_t)snprintf(cells + n, sizeof cells - n, "|%s%s, C = %zu, %s = %zu",
                              about[o[k].kind].model,
                              o[k].file ? "" : " (random)", o[k].block, width_name(&o[k]), o[k].N);
        for (int i = 0; i < 3; i++) L_blocks[i] += o[k].decay[i];
        if (o[k].kind == MMIX_MIXER_SSD) {
            lemma += o[k].lemma;
            matrices += o[k].matrices;
        }
    }
    report_html(r, "<h2>What is claimed and what is measured</h2>\n<p>M is cut into blocks of C x "
                   "C tokens. What the tokens of a block's columns tell those of its rows passes, "
                   "for each number of a value, through as many numbers as the block has rank. The "
                   "supplement of arXiv 2511.18380 (appendix G) gives bounds for blocks beside the "
                   "diagonal: C for softmax attention, rank(L) · N for Mamba-2, D_QK for linear "
                   "attention. L is the matrix of Mamba-2's decays (the course calls it F), N the "
                   "width of its state, D_QK that of a query. It expects the ranks to fall in this "
                   "order, and on the diagonal it expects C of all three. The table has the least "
                   "and the largest of all heads of the layers looked at.</p>\n");
    report_table(r, cells);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(cells, sizeof cells, "%s", row[i].text);
        for (size_t k = 0; k < models; k++) add_range(cells, sizeof cells, &o[k], row[i].column);
        report_cells(r, "td", cells);
    }
    report_html(r, "<tr><td>blocks within their bound</td>");
    for (size_t k = 0; k < models; k++)
        report_html(r, "<td>%zu of %zu</td>", o[k].held, o[k].blocks);
    report_html(r, "</tr>\n");
    report_table(r, NULL);
    report_html(r, "<p class=\"soft\">All tokens count, class tokens too. σ is a singular value, "
                   "σ₁ the largest. The numerical rank counts those above the noise of a float, C "
                   "· ε · σ₁ with ε = %.3g (of all of M: the number of tokens in place of C). The "
                   "effective rank is e to the entropy of σ/Σσ, the stable rank Σσ²/σ₁². They come "
                   "from Jacobi's method in double precision, on matrices in single.</p>\n",
                (double)FLT_EPSILON);
    if (matrices) {
        report_html(r, "<p><b>The rank of L is not above 1 in a head.</b> The supplement calls "
                       "the rank of an off-diagonal block of L “typically much higher” than 1. Of "
                       "the %zu such blocks here %zu have rank 1, %zu rank 0 (everything has "
                       "faded) and %zu more. ",
            L_blocks[0] + L_blocks[1] + L_blocks[2], L_blocks[1], L_blocks[0], L_blocks[2]);
        report_html(r, "With one number A a head it cannot be otherwise, whatever was learned: for "
                       "any token t between columns and rows L_ij = e^(a_{j+1} + … + a_t) · "
                       "e^(a_{t+1} + … + a_i), a column of numbers times a row. So the bound of "
                       "one head is N, as that of linear attention is D_QK, and which is larger is "
                       "a choice of widths. The lemma (rank(M) ≥ the sum of its diagonal blocks' "
                       "ranks, M block triangular) holds in %zu of %zu "
                       "matrices.</p>\n", lemma, matrices);
    }
    report_html(r, "<p><b>Attention has no triangle here.</b> ViTs use no mask. The lemma says "
                   "nothing about them, and a diagonal block of linear attention is a product φ(Q) "
                   "φ(K)ᵀ as any other: rank D_QK at most, not C.</p>\n"
        "<p><b>A bound is not a rank.</b> Softmax attention may reach C and need not: where all "
        "weights of a row are nearly equal, or a few tokens take all, few singular values "
        "count.</p>\n");
}

/* Singular values of the block beside the upper left one, a curve for each view. */
static int report_singular(report *r, const model *o)
{
    char name[12][48], mark[48];
    double *x = (double *)malloc(o->block * sizeof *x);
    report_plot p;
    memset(&p, 0, sizeof p);
    if (!x) return -1;
    for (size_t i = 0; i < o->block; i++) x[i] = (double)(i + 1);
    for (size_t k = 0; k < o->views && k < 12; k++) {
        const view *w = &o->view[k];
        report_curve c = {name[k], x, w->curve, o->block,
                          (int)(o->kind == MMIX_MIXER_SSD ? k / 2 : k), w->reverse};
        snprintf(name[k], sizeof name[k], "layer %zu %s", w->layer, way(o, w));
        p.curve[p.curves++] = c;
    }
    snprintf(mark, sizeof mark, "%s = %zu", width_name(o), o->N);
    p.x_label = "number of the singular value";
    p.y_label = "log10 (singular value / the largest)";
    p.caption = o->views > 12
        ? "Singular values of the block of M beside the upper left one, means over heads; the "
          "first 12 curves. They fall where a block could do with fewer numbers. Below C ε, the "
          "noise of a float, none counts."
        : "Singular values of the block of M beside the upper left one, means over heads. They "
          "fall where a block could do with fewer numbers. Below C ε, the noise of a float, none "
          "counts.";
    p.level = log10((double)o->block * (double)FLT_EPSILON);
    p.level_name = "noise, C ε";
    p.mark = (double)o->N;
    p.mark_name = o->kind == MMIX_MIXER_SOFTMAX ? NULL : mark;
    report_html(r, "<div class=\"row\">\n");
    report_chart(r, &p);
    report_html(r, "</div>\n");
    free(x);
    return 0;
}

/* All numbers of each head, then of all heads of the layer; at the end the reach of a matrix of
   ones. */
static int report_numbers(report *r, const model *o)
{
    double even[COLUMNS];
    char text[64];
    if (even_reach(o, even)) return -1;
    report_columns_html(r, column, COLUMNS, "layer, head", NULL, NULL);
    for (const view *w = o->view; w < o->view + o->views; w++)
        for (size_t h = 0; h <= o->heads; h++) {
            int n_text = snprintf(text, sizeof text, "%zu%s%s, ", w->layer,
                                  o->kind == MMIX_MIXER_SSD ? " " : "", way(o, w));
            if (h < o->heads) snprintf(text + n_text, 24, "%zu", h);
            else snprintf(text + n_text, 24, "all");
            report_columns_html(r, column, COLUMNS, text, h < o->heads ? w->head[h] : w->all, NULL);
        }
    report_columns_html(r, column, COLUMNS, "all equal", even, NULL);
    report_table(r, NULL);
    return 0;
}

static int report_model(report *r, const model *o)
{
    const mmix_vision_config *c = mmix_vision_config_of(o->v);
    const size_t patches = o->patches * o->patches;
    const int ssd = o->kind == MMIX_MIXER_SSD;
    report_html(r, "<h2>%s</h2>\n<p>", about[o->kind].title);
    if (!o->file) report_html(r, "<b>Random weights: nothing below was learned.</b>");
    else {
        report_html(r, "Weights from <code>");
        report_text(r, o->file);
        report_html(r, "</code>");
        if (o->run) report_html(r, ", the teacher of that run");
        else if (!ssd && !o->told)
            report_html(r, ", which does not say what mixes nor in how many heads: see --model "
                           "and --heads");
        report_html(r, ".");
    }
    const char *read = c->class_token == MMIX_CLASS_REGISTERS ? "register" : "class token";
    const char *plural = o->classes > 1 ? "s" : "";
    report_html(r, " Width %zu, %zu layers, %zu heads, %s = %zu; %zu tokens: %zu patches of %zu "
                   "pixels, %zu %s%s. %s.</p>\n",
                c->dim, c->depth, o->heads, width_name(o), o->N, o->tokens, patches, c->patch,
                o->classes, read, plural, about[o->kind].matrix);
    report_html(r, "<p>The pictures are M of each layer (down) and head (across). Row i is what "
                   "token i takes from each token. All have one scale: ");
    if (ssd)
        report_html(r, "white is 0, and 99 of 100 numbers off the diagonal lie inside. The mean is "
                       "½ (forward + reverse); in the layer each direction first passes a norm and "
                       "gate of its own.");
    else report_html(r, "it goes from the 1st to the 99th percentile off the diagonal.");
    report_html(r, "</p>\n");
    if (report_sheet(r, o)) return -1;
    return report_singular(r, o);
}

/* What the columns of all numbers mean. */
static void report_words(report *r)
{
    report_html(r, "<h2>All numbers</h2>\n<p><b>Ranks</b> are those of blocks of C tokens a side, "
                   "class tokens among them. The columns from &ldquo;off: bound&rdquo; to "
                   "&ldquo;stable&rdquo; speak of blocks beside the diagonal, &ldquo;of L&rdquo; "
                   "is the rank of the same block of the decays, the columns from &ldquo;diag: "
                   "bound&rdquo; on speak of blocks on the diagonal; &ldquo;eff.&rdquo; is the "
                   "effective rank. &ldquo;M&rdquo; is the rank of the whole matrix, "
                   "&ldquo;sum&rdquo; that of the diagonal blocks together. &ldquo;Joined&rdquo; "
                   "is the rank of what a block adds to the layer's output: M X of all heads side "
                   "by side times the output projection. A head's numerical ranks are the largest "
                   "of its blocks, its effective and stable ranks the means; a layer's "
                   "(&ldquo;all&rdquo;) are the same of its heads.</p>\n");
    report_html(r, "<p><b>Reach</b> speaks of patches only. &ldquo;self&rdquo; is the share of "
                   "Σ|M_ij| that a token has for itself, &ldquo;5x5&rdquo; that of the 5 x 5 "
                   "patches around it, &ldquo;far&rdquo; the mean distance of i and j with the "
                   "weights |M_ij|, in patches. The last row is what a matrix of equal numbers "
                   "has.</p>\n");
}

static int report_ranks(report *r, const model *o)
{
    const mmix_vision_config *c = mmix_vision_config_of(o->v);
    const int ssd = o->kind == MMIX_MIXER_SSD;
    const char *side = ssd ? ", on the side that is not 0" : "";
    const char *between = ssd ? " (the gated norm between left out)" : "";
    const char *own = ssd ? " What a token has for itself includes the direct path, diag(D)." : "";
    const size_t most = o->block < c->dim ? o->block : c->dim;
    report_html(r, "<h3>%s</h3>\n", about[o->kind].title);
    report_html(r, "<p class=\"soft\">C = %zu tokens. The bound beside the diagonal%s is %s, on it "
                   "%s; &ldquo;joined&rdquo; is of %zu heads%s, at most min(C, D) = %zu with the "
                   "width D.%s</p>\n",
                o->block, side, about[o->kind].bound, about[o->kind].on, o->heads, between, most,
                own);
    return report_numbers(r, o);
}

/* All of it. 0, or an exit status. */
static int write_report(mmix_ctx *m, const model *o, size_t models, const settings *s,
                        const char *path, const uint8_t *rgb, size_t size)
{
    report r;
    int bad = 0;
    char date[32] = "";
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&t));
    if (report_open(&r, path, "Token mixers as matrices")) return fail("%s", r.error);
    report_finding(&r, o, models);
    bad = report_trio(&r, o, models, s, rgb, size);
    for (size_t k = 0; k < models; k++) bad |= report_model(&r, &o[k]);
    report_claims(&r, o, models);
    report_words(&r);
    for (size_t k = 0; k < models; k++) bad |= report_ranks(&r, &o[k]);
    report_html(&r, "<p class=\"soft\">%s, seed %" PRIu64 ", %s.</p>\n", date, s->seed,
                mmix_simd_name(m));
    if (report_close(&r)) return fail("%s", r.error);
    if (bad) return fail("no memory for all of %s", path);
    fprintf(stderr, "report: %s\n", path);
    return 0;
}

/* ---- main ------------------------------------------------------------------------------------ */

/* an exit status */
static int make_report(mmix_ctx *m, const settings *s, model *o, size_t models)
{
    size_t size = s->size;
    char path[1000];
    int bad = 0, kind = 0;
    if (report_ready(s->out, path, sizeof path)) return 2;
    report_say("the matrices of %zu network%s, and singular values of their blocks", models,
               models > 1 ? "s" : "");
    for (size_t k = 0; k < models && !bad; k++, kind++) {
        while (strcmp(s->model, "all") && kind < MMIX_MIXER_SSD &&
               strcmp(s->model, about[kind].name)) kind++;
        bad = open_model(m, &o[k], s, s->loads ? !strcmp(s->model, "linearvit") : kind, s->load[k]);
        if (bad) return bad;
        const mmix_vision_config *c = mmix_vision_config_of(o[k].v);
        if (!size) size = c->patch * (c->grid < 32 ? c->grid : 16);
        if (size % c->patch)
            return fail("--size %zu: no whole number of the %s's %zu x %zu patches; give %zu", size,
                        about[o[k].kind].name,
                        c->patch, c->patch, (size / c->patch + 1) * c->patch);
        bad = plan_model(&o[k], s, size);
    }
    if (bad) return bad;
    uint8_t *rgb = (uint8_t *)malloc(size * size * 3);
    if (!rgb) return fail("no memory for a picture of %zu x %zu", size, size);
    if (s->image) bad = read_picture(m, s->image, size, rgb);
    else scene_draw(s->seed, 1, (int)size, rgb, NULL);
    for (size_t k = 0; k < models && !bad; k++) {
        mmix_picture p = {rgb, size, size};
        mmix_tensor *image = mmix_new4(m, 1, 3, size, size);
        if (image) mmix_picture_normalize(mmix_data(image), p, NULL, NULL);
        mmix_mix_hook(m, look, &o[k]);
        mmix_vision_forward(m, o[k].v, image, NULL);
        mmix_mix_hook(m, NULL, NULL);
        mmix_reset(m);
        if (mmix_error(m)) bad = fail("%s", mmix_error(m));
    }
    if (!bad && s->json) print_json(o, models, s, size);
    else if (!bad) print_views(o, models);
    if (!bad) bad = write_report(m, o, models, s, path, rgb, size);
    free(rgb);
    return bad;
}

static const char help[] =
    "mixers - the matrix M of token mixers as pictures\n\n"
    "M of the layers and heads of networks for one picture, the ranks of its blocks beside their "
    "bounds, how far\n"
    "heads look; a table on stdout, all of it in OUT/report.html. Without options three networks "
    "with random weights\n"
    "and a drawn scene.\n"
    "  --report       nothing more: that is what is made without --figures\n"
    "  --out DIR      where the report goes                      (build/mixers-out)\n"
    "  --image FILE   a photograph: PPM; PNG, JPEG, ... if compiled with stb_image.h   (a drawn "
    "scene)\n"
    "  --model NAME   vit, linearvit, dinovim or all             (all)\n"
    "  --load FILE    weights: .safetensors, PyTorch's .pth, .npz, a run of demos/studies/dino.c; "
    "up to 8 times.\n"
    "                 Where names cannot tell, --model linearvit says that it is not a vit, "
    "--heads how many\n"
    "                 heads it has                               (width / 64)\n"
    "  --heads N      of the ViTs                                (3)\n"
    "  --size N       the picture is brought to N x N pixels     (as the first network was made "
    "for: 224)\n"
    "  --layers LIST  which, as 0,3,11                           (all; of more than 6, 6)\n"
    "  --block C      ranks are of blocks of C x C tokens        (half of the tokens)\n"
    "  --seed N       of random weights and the drawn scene      (1)\n"
    "  --threads N    (all cores)\n"
    "  --json         results as JSON on stdout\n\n"
    "  --figures DIR  the documents' figures instead, nothing trained, of --image or of a drawn "
    "scene\n"
    "  --patch I      the patch whose row they show, 0 ... 143   (77)\n"
    "  --note TEXT    machine and date, for the caption of cost.svg\n"
    "  --help\n\n"
    "Exit status: 0, or 2 for bad input.\n";

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *s, int argc, char **argv)
{
    const char *seed = "1", *layers = NULL, *load = NULL, *figures = NULL, *only = NULL;
    memset(s, 0, sizeof *s);
    s->out = "build/mixers-out";
    s->model = "all";
    s->note = "";
    s->token = 77;
    struct {
        const char *name, **text;
        size_t *number, low, high;
        const char **part;
    } known[] = {
        {"--image", &s->image, NULL, 0, 0, NULL},        /* part: which of the two it belongs to */
        {"--figures", &s->figures, NULL, 0, 0, &figures},
        {"--note", &s->note, NULL, 0, 0, &figures},
        {"--patch", NULL, &s->token, 0, L - 1, &figures},
        {"--out", &s->out, NULL, 0, 0, &only},
        {"--model", &s->model, NULL, 0, 0, &only},
        {"--load", &load, NULL, 0, 0, &only},
        {"--layers", &layers, NULL, 0, 0, &only},
        {"--seed", &seed, NULL, 0, 0, &only},
        {"--heads", NULL, &s->heads, 1, 1024, &only},
        {"--size", NULL, &s->size, 1, 4096, &only},
        {"--block", NULL, &s->block, 1, MOST_TOKENS / 2, &only},
        {"--threads", NULL, &s->threads, 1, 64, &only},
    };
    char *end;
    unsigned long long n;
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        size_t count = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        if (!strcmp(argv[i], "--json") || !strcmp(argv[i], "--report")) {
            only = argv[i];
            s->json |= argv[i][2] == 'j';
            continue;
        }
        while (k < count && strcmp(argv[i], known[k].name)) k++;
        if (k == count) return fail("%s: no such option; --help lists them all", argv[i]);
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        if (known[k].part) *known[k].part = known[k].name;
        if (known[k].text) {
            *known[k].text = argv[i];
            if (known[k].text != &load) continue;
            if (s->loads == MOST_MODELS)
                return fail("--load %s: that is one too many; %d at most", load, MOST_MODELS);
            s->load[s->loads++] = load;
            continue;
        }
        if (report_whole(known[k].name, argv[i], known[k].low, known[k].high, &n)) return 2;
        *known[k].number = (size_t)n;
    }
    if (figures && only) return fail("%s belongs to the figures, %s to the report: one of them",
                                     figures, only);
    if (figures && !s->figures) return fail("%s: give --figures, where they go", figures);
    if (report_whole("--seed", seed, 0, ULLONG_MAX, &n)) return 2;
    s->seed = n;
    int known_model = !strcmp(s->model, "all");
    for (int k = 0; k < 3; k++) known_model |= !strcmp(s->model, about[k].name);
    if (!known_model) return fail("--model %s: give vit, linearvit, dinovim or all", s->model);
    for (const char *at = layers; at; at = *end ? end + 1 : NULL) {
        n = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || (*end && *end != ',') || n > 9999 ||
            s->layers == MOST_LAYERS)
            return fail("--layers %s: give up to %d numbers with commas between them, as 0,3",
                        layers, MOST_LAYERS);
        s->layer[s->layers++] = (size_t)n;
    }
    return 0;
}

int main(int argc, char **argv)
{
    settings s;
    mmix_options options;
    int status = read_options(&s, argc, argv);
    if (status) return status < 0 ? 0 : status;
    memset(&options, 0, sizeof options);
    options.threads = s.figures ? 1 : (int)s.threads;    /* because of cost.svg */
    options.seed = s.figures ? 0 : s.seed;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    said = time(NULL);
    if (s.figures) status = figures(m, s.figures, s.image, s.token, s.note);
    else {
        size_t models = strcmp(s.model, "all") ? 1 : 3;
        if (s.loads) models = s.loads;
        model *o = (model *)calloc(models, sizeof *o);
        status = o ? make_report(m, &s, o, models) : fail("out of memory");
        for (size_t k = 0; o && k < models; k++) close_model(&o[k]);
        free(o);
    }
    mmix_destroy(m);
    return status;
}
