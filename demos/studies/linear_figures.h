/* linear_figures.h - the figures of docs/06-linear-backbones.md: a block's matrices, and what
   resolution costs

       int failed = linear_figures("docs/figures");      // converted.svg, linear-cost.svg

   Needs mamba_mix.h and report.h before it. */
#ifndef LINEAR_FIGURES_H
#define LINEAR_FIGURES_H

/* ---- converted.svg: M of one head on equal tokens, so that what is left is the mixer ---- */

/* the class token is the last */
enum { CONVERTED_SIDE = 4, CONVERTED_TOKENS = CONVERTED_SIDE * CONVERTED_SIDE + 1 };

/* M (tokens, tokens) of a branch, windows of `window` cells, in layer `index`. NULL on error. */
static mmix_tensor *converted_matrix(mmix_ctx *m, int branch, size_t window, size_t index)
{
    enum { D = 4 };
    static const mmix_span span = {0, {1, CONVERTED_SIDE, CONVERTED_SIDE}, 1, 0};
    const mmix_layout layout = {.spans = &span, .n_spans = 1, .global = 1};
    const mmix_mmate_options o = {.branches = branch, .window = {1, window, window}};
    mmix_tensor *x = mmix_fill(mmix_new3(m, 1, CONVERTED_TOKENS, D), 1);
    mmix_tensor *M = NULL;
    mmix_params *p = mmix_params_create(m);
    mmix_mmate_layer layer;
    if (p && !mmix_mmate_init(&layer, p, "", D, 1, 1, D, index, 0, &o) &&
        !mmix_params_allocate(p)) {
        for (int d = 0; d < 2; d++)
            /* δ = 0.3 */
            if (layer.dir[d].dt_bias) mmix_fill(layer.dir[d].dt_bias, log(exp(0.3) - 1));
        M = mmix_mmate_matrix(m, &layer, x, &layout);
    }
    mmix_params_destroy(p);
    return M;
}
static int linear_converted(mmix_ctx *m, const char *folder)
{
    enum { PANELS = 4, LEFT = 14, TOP = 46, CELL = 9, WIDE = CELL * CONVERTED_TOKENS + 16,
          L = CONVERTED_TOKENS };
    static const struct {
        const char *name;
        int branch;
        size_t window, index;
    } panel[PANELS] = {
        {"attention", MMIX_BRANCH_SWIN, CONVERTED_SIDE, 0},
        {"Flex-MA", MMIX_BRANCH_FLEX, CONVERTED_SIDE, 0},
        {"windows of 2 x 2", MMIX_BRANCH_SWIN, 2, 0},
        {"shifted", MMIX_BRANCH_SWIN, 2, 1},
    };
    FILE *f = svg_open(folder, "converted.svg", 2 * LEFT + PANELS * WIDE - 16, TOP + CELL * L + 34,
                       "");
    for (int k = 0; k < PANELS; k++) {
        mmix_tensor *M = converted_matrix(m, panel[k].branch, panel[k].window, panel[k].index);
        double most = 0;
        double left = LEFT + k * WIDE;
        if (!M) return -1;
        for (int i = 0; i < L * L; i++) most = fmax(most, fabs((double)mmix_data(M)[i]));
        svg_text(f, left + CELL * L / 2.0, TOP - 14, 0, "middle", "%s", panel[k].name);
        svg_box(f, left, TOP, CELL * L, CELL * L, "fill=\"#f4f6f8\"");
        for (int i = 0; i < L * L; i++) {
            const double share = fabs((double)mmix_data(M)[i]) / most;
            const int row = i / L;
            const int col = i % L;
            const int class_token = row == L - 1 || col == L - 1;
            const char *colour = class_token ? "#c8602a" : "#2f6fd0";
            if (share > 0.005)
                svg_box(f, left + col * CELL, TOP + row * CELL, CELL - 0.5, CELL - 0.5,
                        "fill=\"%s\" fill-opacity=\"%.2f\"", colour, sqrt(share));
        }
        mmix_reset(m);
    }
    svg_text(f, LEFT, TOP + CELL * L + 24, 13, "start",
             "Row: the token that takes. 4 x 4 patches, row by row; orange: the class token, "
             "behind them.");
    figure_close(f, "</svg>\n");
    return 0;
}

/* ---- linear-cost.svg: multiply-adds of a picture against its patches ---- */

enum { COST_LEFT = 62, COST_TOP = 20, COST_WIDE = 440, COST_HIGH = 300 };

/* Where so many patches, and so many GFLOP, stand: 200 to 25,000 and 10 to 20,000, both as
   logarithms. */
static double linear_cost_x(double patches)
{
    const double first = log(200);
    const double last = log(25000);
    return COST_LEFT + COST_WIDE * (log(patches) - first) / (last - first);
}
static double linear_cost_y(double gflop)
{
    const double low = log(10);
    const double high = log(2e4);
    return COST_TOP + COST_HIGH * (high - log(gflop)) / (high - low);
}
static void linear_cost_grid(FILE *f)
{
    static const int side[4] = {224, 518, 1036, 2072};
    for (int i = 1; i < 5; i++) {                        /* 10 … 10,000 GFLOP */
        const double y = linear_cost_y(pow(10, i));
        fprintf(f, "<path d=\"M%d %.1fh%d\" stroke=\"#dde2e7\"/>\n", COST_LEFT, y, COST_WIDE);
        svg_text(f, COST_LEFT - 8, y + 5, 13, "end", "%g", pow(10, i));
    }
    for (int i = 0; i < 4; i++) {
        const double x = linear_cost_x((double)side[i] * side[i] / 196);
        fprintf(f, "<path d=\"M%.1f %dv%d\" stroke=\"#dde2e7\"/>\n", x, COST_TOP, COST_HIGH);
        svg_text(f, x, COST_TOP + COST_HIGH + 18, 13, "middle", "%d",
                 side[i] / 14 * (side[i] / 14));
        svg_text(f, x, COST_TOP + COST_HIGH + 36, 12, "middle", "%d²", side[i]);
    }
    svg_text(f, COST_LEFT, COST_TOP - 5, 13, "start",
             "GFLOP a picture, against patches and pixels (a ViT-S/14; windows of 16 x 16)");
}
static int linear_cost(mmix_ctx *m, const char *folder)
{
    enum { CURVES = 6, POINTS = 32 };
    /* `down`: where a name stands below its curve's end, as three curves end at nearly one place */
    static const struct {
        const char *name, *pen;
        int block, every;
        double down;
    } curve[CURVES] = {
        {"attention", "#2f6fd0", MMIX_BLOCK_SOFTMAX, 1, 0},
        {"M-MATE, 1 in 4 kept", "#8a929b", MMIX_BLOCK_MMATE, 4, 0},
        {"M-MATE", "#c8602a", MMIX_BLOCK_MMATE, 0, -8},
        {"Local-Swin", "#b0892e", MMIX_BLOCK_SWIN, 0, 2},
        {"Flex-MA", "#8452b0", MMIX_BLOCK_FLEX, 0, 19},
        {"linear attention", "#2d8f5a", MMIX_BLOCK_LINEAR, 0, 36},
    };
    FILE *f = svg_open(folder, "linear-cost.svg", COST_LEFT + COST_WIDE + 186,
                       COST_TOP + COST_HIGH + 56, "");
    linear_cost_grid(f);
    for (int k = 0; k < CURVES; k++) {
        mmix_vision_config c = mmix_vision_config_dinov2(384, 0);
        for (int b = 0; b < 12; b++) {
            const int every = curve[k].every;
            const int kept = every && b % every == every - 1;
            c.blocks[b] = kept ? MMIX_BLOCK_SOFTMAX : curve[k].block;
        }
        mmix_vision *v = mmix_vision_create(m, c);
        double x = 0, y = 0;
        if (!v) return -1;
        fprintf(f, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\" d=\"", curve[k].pen);
        for (int i = 0; i < POINTS; i++) {
            const double patches = exp(log(256) + (log(21904) - log(256)) * i / (POINTS - 1));
            const size_t side = 14 * (size_t)(sqrt(patches) + 0.5);
            x = linear_cost_x((double)(side / 14 * (side / 14)));
            y = linear_cost_y(mmix_vision_flops(v, side, side) / 1e9);
            fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', x, y);
        }
        fprintf(f, "\"/>\n");
        fprintf(f, "<path d=\"M%.1f %.1fl14 %.1fh6\" fill=\"none\" stroke=\"%s\"/>\n", x + 2, y,
                curve[k].down, curve[k].pen);
        svg_text(f, x + 26, y + 5 + curve[k].down, 0, "start", "%s", curve[k].name);
        mmix_vision_destroy(v);
    }
    figure_close(f, "</svg>\n");
    return 0;
}

/* All of them, to files in a folder. 0, or -1 after a message. */
static int linear_figures(const char *folder)
{
    mmix_ctx *m = mmix_create(NULL);
    int bad = !m || linear_converted(m, folder) || linear_cost(m, folder);
    if (bad) report_say("%s", mmix_error(m));
    mmix_destroy(m);
    return bad ? -1 : 0;
}

#endif
