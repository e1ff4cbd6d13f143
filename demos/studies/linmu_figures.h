/* linmu_figures.h - the figures of docs/05-linmu.md: orders, windows and matrices as the library
   makes them

       // scan-orders, spans, windows, mmate, each an .svg
       int failed = linmu_figures("docs/figures");

   Needs mamba_mix.h and report.h before it. */
#ifndef LINMU_FIGURES_H
#define LINMU_FIGURES_H

static const char *const linmu_pen[4] = {"#2f6fd0", "#c8602a", "#2d8f5a", "#8a929b"};

/* A line with a tip at its end, drawn from `gap` behind one point to `gap` before the other. */
static void linmu_arrow(FILE *f, double x0, double y0, double x1, double y1, double gap,
                        const char *paint)
{
    const double length = hypot(x1 - x0, y1 - y0);
    const double ux = (x1 - x0) / length;
    const double uy = (y1 - y0) / length;
    x0 += gap * ux;
    y0 += gap * uy;
    x1 -= gap * ux;
    y1 -= gap * uy;
    fprintf(f, "<path d=\"M%.1f %.1fL%.1f %.1f", x0, y0, x1, y1);
    fprintf(f, "M%.1f %.1f", x1 - 6 * ux - 3.5 * uy, y1 - 6 * uy + 3.5 * ux);
    fprintf(f, "L%.1f %.1fL%.1f %.1f", x1, y1, x1 - 6 * ux + 3.5 * uy, y1 - 6 * uy - 3.5 * ux);
    fprintf(f, "\" fill=\"none\" %s/>\n", paint);
}

/* ---- scan-orders.svg: the four orders of a span of 2 x 3 x 4 ---- */

static void linmu_scan_orders(const char *folder)
{
    enum { T = 2, Y = 3, X = 4, N = T * Y * X, WIDE = 350, HIGH = 220, LEFT = 44, TOP = 78 };
    static const char *const title[4] = {"layers 0, 4, 8, …: frames, rows",
                                         "layers 1, 5, 9, …: frames, columns",
                                         "layers 2, 6, 10, …: rows, time innermost",
                                         "layers 3, 7, 11, …: columns, time innermost"};
    FILE *f = svg_open(folder, "scan-orders.svg", 2 * WIDE, 2 * HIGH + 40, "");
    for (int layer = 0; layer < 4; layer++) {
        const double left = LEFT + layer % 2 * WIDE;
        const double top = TOP + layer / 2 * HIGH;
        int32_t perm[N];
        double x[N], y[N];
        mmix_scan_order((size_t)layer, T, Y, X, 0, perm, NULL);
        svg_text(f, left - 14, top - 48, 0, "start", "%s", title[layer]);
        for (int r = 0; r < N; r++) {
            const int i = perm[r];
            const int t = i / (Y * X);
            const int cell = i % (Y * X);
            x[r] = left + 66 * (cell % X) + 30 * t;
            y[r] = top + 56 * (cell / X) - 24 * t;
        }
        for (int jumps = 1; jumps >= 0; jumps--)  /* long lines first, below the others */
            for (int r = 0; r + 1 < N; r++) {
                const int a = perm[r];
                const int b = perm[r + 1];
                const int in_time = a / (Y * X) - b / (Y * X);
                const int in_rows = a / X % Y - b / X % Y;
                const int in_columns = a % X - b % X;
                const int steps = abs(in_time) + abs(in_rows) + abs(in_columns);
                if ((steps > 1) != jumps) continue;
                linmu_arrow(f, x[r], y[r], x[r + 1], y[r + 1], 11,
                            jumps ? "stroke=\"#aab2ba\" stroke-width=\"1\" stroke-dasharray=\"4 3\""
                            : "stroke=\"#1d2329\" stroke-width=\"1.8\"");
            }
        for (int r = 0; r < N; r++) {
            fprintf(f, "<circle cx=\"%g\" cy=\"%g\" r=\"10\" fill=\"#fff\" stroke=\"%s\" "
                       "stroke-width=\"2\"/>\n",
                    x[r], y[r], linmu_pen[perm[r] / (Y * X)]);
            svg_text(f, x[r], y[r] + 4, 11, "middle", "%d", r);
        }
    }
    for (int t = 0; t < T; t++) {
        fprintf(f, "<circle cx=\"%d\" cy=\"%d\" r=\"7\" fill=\"#fff\" stroke=\"%s\" "
                   "stroke-width=\"2\"/>\n",
                37 + 86 * t, 2 * HIGH + 17, linmu_pen[t]);
        svg_text(f, 50 + 86 * t, 2 * HIGH + 22, 13, "start", "frame %d", t);
    }
    svg_text(f, 216, 2 * HIGH + 22, 13, "start",
             "number: place in the order; broken: the next token is no neighbour");
    figure_close(f, "</svg>\n");
}

/* ---- spans.svg: text with an image and a video in it, its scans, and who takes from whom ---- */

enum { LINMU_L = 31 };
static const mmix_span linmu_span[2] = {{4, {1, 3, 3}, 0, 0}, {17, {3, 2, 2}, 0, 0}};
static int linmu_in_span(int t)  /* 0: text; else the span's number from 1 on */
{
    for (int i = 0; i < 2; i++) {
        const mmix_span *s = &linmu_span[i];
        if (t >= (int)s->start && t < (int)(s->start + s->grid[0] * s->grid[1] * s->grid[2]))
            return i + 1;
    }
    return 0;
}
/* Where M of a branch (0 causal attention, 1 Flex-MA, 2 Local-Swin) is not 0, as the library
   makes it. 0, or -1. */
static int linmu_support(mmix_ctx *m, int branch, char *on)
{
    enum { D = 8 };
    const mmix_layout layout = {.spans = linmu_span, .n_spans = 2};
    mmix_mmate_options o = {.window = {1, 2, 2}};
    mmix_tensor *x = mmix_fill_normal(m, mmix_new3(m, 1, LINMU_L, D), 1, 0);
    mmix_tensor *M = NULL;
    mmix_params *p = mmix_params_create(m);
    mmix_mmate_layer layer;
    if (p && !mmix_mmate_init(&layer, p, "", D, 1, 1, D, 0, 0, &o) && !mmix_params_allocate(p)) {
        mmix_tensor *q = mmix_fill_normal(m, mmix_new4(m, 1, LINMU_L, 1, D), 1, 1);
        mmix_mixer causal = mmix_mixer_softmax(q, q, q);
        causal.mask = MMIX_MASK_CAUSAL;
        layer.options.branches = branch == 1 ? MMIX_BRANCH_FLEX : MMIX_BRANCH_SWIN;
        M = branch ? mmix_mmate_matrix(m, &layer, x, &layout) : mmix_mix_matrix(m, &causal);
    }
    for (int i = 0; M && i < LINMU_L * LINMU_L; i++)
        on[i] = mmix_data(M)[i] < 0 || mmix_data(M)[i] > 0;
    mmix_params_destroy(p);
    return M ? 0 : -1;
}
static int linmu_spans(mmix_ctx *m, const char *folder)
{
    enum { LEFT = 28, CELL = 20, TOP = 44, PANEL = 196, GAP = 28, MATRIX = 262 };
    static const char *const title[3] = {"causal attention", "Flex-MA", "Local-Swin"};
    static const char *const paint[3] = {"#e8ebee", "#cfe0f6", "#f6d9c8"};
    static const char *const what[5] = {"text", "image, 1 x 3 x 3", "text", "video, 3 x 2 x 2",
                                        "text"};
    char on[LINMU_L * LINMU_L];
    FILE *f = svg_open(folder, "spans.svg", 2 * LEFT + LINMU_L * CELL, MATRIX + PANEL + 44, "");
    for (int t = 0, from = 0, k = 0; t < LINMU_L; t++) {
        const int last = t + 1 == LINMU_L || linmu_in_span(t + 1) != linmu_in_span(t);
        svg_box(f, LEFT + CELL * t, TOP, CELL - 2, 28, "fill=\"%s\"", paint[linmu_in_span(t)]);
        if (!last) continue;
        svg_text(f, LEFT + CELL * (from + t + 1) / 2.0 - 1, TOP - 12, 13, "middle", "%s",
                 what[k++]);
        from = t + 1;
    }
    svg_text(f, LEFT, TOP + 52, 13, "start",
             "forward: all tokens, those of a span in its layer's order");
    linmu_arrow(f, LEFT, TOP + 66, LEFT + LINMU_L * CELL - 2, TOP + 66, 0,
                "stroke=\"#2f6fd0\" stroke-width=\"2.4\"");
    svg_text(f, LEFT, TOP + 96, 13, "start", "reverse: in each span alone, from a state of 0");
    for (int i = 0; i < 2; i++) {
        const double a = LEFT + CELL * (double)linmu_span[i].start;
        const double n = i ? 12 : 9;
        linmu_arrow(f, a + CELL * n - 2, TOP + 110, a, TOP + 110, 0,
                    "stroke=\"#c8602a\" stroke-width=\"2.4\"");
    }
    svg_text(f, LEFT, TOP + 140, 13, "start",
             "Local-Swin: windows (here 1 x 2 x 2) in each frame; text takes nothing");
    for (int k = 0; k < 3; k++) {
        const double left = LEFT + k * (PANEL + GAP / 2.0);
        const double side = (PANEL - 6) / (double)LINMU_L;
        if (linmu_support(m, k, on)) return -1;
        svg_text(f, left + PANEL / 2 - 3, MATRIX - 28, 0, "middle", "%s", title[k]);
        svg_box(f, left, MATRIX - 16, LINMU_L * side, LINMU_L * side, "fill=\"#f4f6f8\"");
        /* a box for each run of tokens, on one side of the diagonal */
        for (int i = 0; i < LINMU_L; i++) {
            const char *row = on + i * LINMU_L;
            const double y = MATRIX - 16 + i * side;
            for (int j = 0, end; j < LINMU_L; j = end) {
                end = j + 1;
                while (end < LINMU_L && end != i + 1 && row[end] == row[j]) end++;
                const char *colour = j > i ? "#c8602a" : "#2f6fd0";
                const double width = (end - j) * side - 0.5;
                if (row[j])
                    svg_box(f, left + j * side, y, width, side - 0.5, "fill=\"%s\"", colour);
            }
        }
        for (int t = 1; t < LINMU_L; t++)                /* where spans begin and end */
            if (linmu_in_span(t) != linmu_in_span(t - 1))
                fprintf(f, "<path d=\"M%.1f %.1fh%.1fM%.1f %dv%.1f\" stroke=\"#8a929b\" "
                           "stroke-width=\"0.7\" stroke-dasharray=\"2 3\"/>\n",
                        left, MATRIX - 16 + t * side, LINMU_L * side, left + t * side, MATRIX - 16,
                        LINMU_L * side);
        mmix_reset(m);
    }
    svg_text(f, LEFT, MATRIX + PANEL + 8, 13, "start",
             "Row: the token that takes; column: the token that it takes from. Orange: a later "
             "one.");
    svg_text(f, LEFT, MATRIX + PANEL + 28, 13, "start",
             "Orange lies inside of spans only, so no text depends on what comes after it.");
    figure_close(f, "</svg>\n");
    return 0;
}

/* ---- windows.svg: windows of 4 x 4 on 10 x 10 tokens, and how far one token reaches in two
   layers ---- */

static int linmu_windows(mmix_ctx *m, const char *folder)
{
    enum { G = 10, N = G * G, LEFT = 24, TOP = 44, CELL = 19, GAP = 34, ONE = 34 };
    static const char *const title[3] = {"even layers", "odd layers: shifted by half",
                                         "both, one after the other"};
    static const char *const tone[4] = {"#cfe0f6", "#e4edf8", "#e4edf8", "#cfe0f6"};
    static const size_t grid[3] = {1, G, G}, window[3] = {1, 4, 4};
    static char on[2][N * N];
    FILE *f;
    /* M of equal scores: not 0 where two share a window */
    for (int shifted = 0; shifted < 2; shifted++) {
        mmix_tensor *q = mmix_fill(mmix_new4(m, 1, N, 1, 1), 0), *M;
        mmix_mixer x = mmix_mixer_softmax(q, q, q);
        mmix_mixer_windows(&x, 3, grid, window, shifted);
        M = mmix_mix_matrix(m, &x);
        for (int i = 0; M && i < N * N; i++) on[shifted][i] = mmix_data(M)[i] > 0;
        if (!M) return -1;
    }
    f = svg_open(folder, "windows.svg", 2 * LEFT + 3 * G * CELL + 2 * GAP, TOP + G * CELL + 44, "");
    for (int k = 0; k < 3; k++) {
        const double left = LEFT + k * (G * CELL + GAP);
        svg_text(f, left + G * CELL / 2, TOP - 14, 0, "middle", "%s", title[k]);
        for (int i = 0; i < N; i++) {
            const char *see = on[k == 1] + ONE * N;
            const char *own = on[k == 1] + i * N;
            const double x = left + CELL * (i % G);
            const int y = TOP + CELL * (i / G);
            int first = 0, rows = 0, cols = 0;
            int seen = k < 2 && see[i];
            for (int j = 0; k == 2 && j < N; j++) seen |= on[1][ONE * N + j] && on[0][j * N + i];
            if (k < 2) {  /* the window's first token tells its colour */
                while (!own[first]) first++;
                for (int j = 0; j < first / G; j++) rows += !on[k][j * G * N + (j + 1) * G];
                for (int j = 0; j < first % G; j++) cols += !on[k][j * N + j + 1];
            }
            const char *paint = k == 2 ? "#eef1f4" : tone[rows % 2 * 2 + cols % 2];
            if (seen) paint = "#f0b897";
            svg_box(f, x, y, CELL - 1.5, CELL - 1.5, "fill=\"%s\"", paint);
            if (k < 2 && i % G && !own[i - 1])
                fprintf(f, "<path d=\"M%.2f %dv%d\" stroke=\"#2f6fd0\" stroke-width=\"2\"/>\n",
                        x - 0.75, y - 1, CELL);
            if (k < 2 && i >= G && !own[i - G])
                fprintf(f, "<path d=\"M%.2f %.2fh%d\" stroke=\"#2f6fd0\" stroke-width=\"2\"/>\n",
                        x - 1, y - 0.75, CELL);
        }
        svg_box(f, left + CELL * (ONE % G) + 1, TOP + CELL * (ONE / G) + 1, CELL - 3.5, CELL - 3.5,
                "fill=\"#c8602a\" stroke=\"#7a3410\"");
    }
    svg_text(f, LEFT, TOP + G * CELL + 26, 13, "start",
             "10 x 10 tokens, windows of 4 x 4. Light orange: what the dark token takes from.");
    figure_close(f, "</svg>\n");
    return 0;
}

/* ---- mmate.svg: a decoder layer ---- */

static void linmu_box(FILE *f, double x, double y, double w, double h, const char *fill,
                      const char *one, const char *two)
{
    svg_box(f, x, y, w, h, "rx=\"5\" fill=\"%s\" stroke=\"#8a929b\"", fill);
    svg_text(f, x + w / 2, y + h / 2 + (two ? -4 : 5), 13, "middle", "%s", one);
    if (two) svg_text(f, x + w / 2, y + h / 2 + 14, 12, "middle", "%s", two);
}
static void linmu_plus(FILE *f, double x, double y)
{
    fprintf(f, "<circle cx=\"%g\" cy=\"%g\" r=\"11\" fill=\"#fff\" stroke=\"#1d2329\" "
               "stroke-width=\"1.5\"/>\n",
            x, y);
    fprintf(f, "<path d=\"M%g %gh12M%g %gv12\" stroke=\"#1d2329\" stroke-width=\"1.5\"/>\n",
            x - 6, y, x, y - 6);
}
static void linmu_block(const char *folder)
{
    static const char line[] = "stroke=\"#1d2329\" stroke-width=\"1.5\"";
    static const char flex[] = "#dce8f8", swin[] = "#f6d9c8", plain[] = "#f4f6f8";
    enum { LOW = 356 };                                  /* the residual stream */
    FILE *f = svg_open(folder, "mmate.svg", 740, 392, "");
    svg_box(f, 16, 12, 582, 266,
            "rx=\"8\" fill=\"none\" stroke=\"#8a929b\" stroke-dasharray=\"5 4\"");
    svg_text(f, 60, 36, 0, "start",
             "<tspan font-weight=\"bold\">M-MATE</tspan>, in the place of attention");
    linmu_arrow(f, 14, LOW, 728, LOW, 0, line);
    svg_text(f, 70, LOW + 24, 13, "start", "x, the residual stream: what all layers read and add to");
    linmu_arrow(f, 38, LOW, 38, 334, 0, line);
    linmu_box(f, 14, 298, 60, 36, plain, "norm", NULL);
    fprintf(f, "<path d=\"M38 298V96M38 228V96\" fill=\"none\" %s/>\n", line);
    linmu_arrow(f, 38, 96, 60, 96, 0, line);
    linmu_arrow(f, 38, 228, 60, 228, 0, line);

    svg_text(f, 60, 64, 13, "start", "Flex-MA");
    linmu_box(f, 60, 72, 116, 48, flex, "q, k, v and δ", "W_Q, W_K, W_V");
    linmu_arrow(f, 176, 96, 192, 96, 0, line);
    linmu_box(f, 192, 72, 84, 48, flex, "scan order", "of the layer");
    fprintf(f, "<path d=\"M276 96H286M286 68V124\" fill=\"none\" %s/>\n", line);
    linmu_arrow(f, 286, 68, 304, 68, 0, line);
    linmu_arrow(f, 286, 124, 304, 124, 0, line);
    linmu_box(f, 304, 48, 140, 40, flex, "forward: all tokens", NULL);
    linmu_box(f, 304, 104, 140, 40, flex, "reverse: in spans", NULL);
    linmu_arrow(f, 444, 68, 466, 88, 0, line);
    linmu_arrow(f, 444, 124, 466, 104, 0, line);
    linmu_box(f, 466, 72, 46, 48, flex, "gate", NULL);
    linmu_arrow(f, 512, 96, 528, 96, 0, line);
    linmu_box(f, 528, 72, 42, 48, flex, "W_O", NULL);

    svg_text(f, 60, 196, 13, "start", "Local-Swin");
    linmu_box(f, 60, 204, 116, 48, swin, "q, k, v", "W_Q, W_K, W_V");
    linmu_arrow(f, 176, 228, 192, 228, 0, line);
    linmu_box(f, 192, 204, 84, 48, swin, "RoPE", "of q and k");
    linmu_arrow(f, 276, 228, 292, 228, 0, line);
    linmu_box(f, 292, 204, 220, 48, swin, "softmax attention in windows",
              "of a span, shifted in odd layers");
    linmu_arrow(f, 512, 228, 528, 228, 0, line);
    linmu_box(f, 528, 204, 42, 48, swin, "W_O", NULL);

    fprintf(f, "<path d=\"M570 96H582V149M570 228H582V171\" fill=\"none\" %s/>\n", line);
    linmu_plus(f, 582, 160);
    fprintf(f, "<path d=\"M593 160H616V%d\" fill=\"none\" %s/>\n", LOW - 11, line);
    linmu_plus(f, 616, LOW);
    linmu_arrow(f, 652, LOW, 652, 266, 0, line);
    linmu_box(f, 628, 228, 52, 38, plain, "norm", NULL);
    linmu_arrow(f, 652, 228, 652, 178, 0, line);
    linmu_box(f, 630, 136, 98, 42, plain, "SwiGLU", NULL);
    fprintf(f, "<path d=\"M704 178V%d\" %s/>\n", LOW - 11, line);
    linmu_plus(f, 704, LOW);
    figure_close(f, "</svg>\n");
}

/* Writes all of them. 0, or 1 after a message. */
static int linmu_figures(const char *folder)
{
    mmix_ctx *m = mmix_create(NULL);
    int failed;
    linmu_scan_orders(folder);
    linmu_block(folder);
    failed = !m || linmu_spans(m, folder) || linmu_windows(m, folder);
    if (failed) report_refuse("figures: %s", mmix_error(m));
    mmix_destroy(m);
    return failed;
}

#endif
