/* features_figures.h - the figures of docs/03-backbones.md: orders of tokens, positions, angles,
   maps

   A part of features.c, which includes it behind its own types and features_report.h. */
#ifndef FEATURES_FIGURES_H
#define FEATURES_FIGURES_H

enum { ORDERS = 4, SPECIAL = 64 };
typedef struct order {                                   /* of a model's tokens */
    const char *name;
    int registers;
    size_t patches, grid, tokens, count, at[SPECIAL];    /* class tokens or registers, rising; */
    size_t unread;  /* the first so many of them are not the output */
} order;

static order order_of(const char *name, mmix_vision_config c, size_t size)
{
    order r;
    memset(&r, 0, sizeof r);
    r.name = name;
    r.grid = size / c.patch;
    r.patches = r.grid * r.grid;
    r.registers = c.class_token == MMIX_CLASS_REGISTERS;
    r.unread = c.class_token == MMIX_CLASS_RELEASED;     /* the one in front */
    r.count = r.unread + mmix_vision_class_index(&c, r.patches, r.at + r.unread);
    r.tokens = r.patches + r.count;
    return r;
}

/* A grid of square cells whose corner is at (left, top). */
typedef struct cells {
    FILE *f;
    double left, top, side;                              /* of a cell */
    size_t wide;                                         /* cells a row */
} cells;

/* Cell k in the colour of a heat map's value. Small cells overlap a little, so that no seam is
   seen. */
static void svg_heat(const cells *c, size_t k, double value)
{
    uint8_t rgb[3];
    double x = c->left + c->side * (double)(k % c->wide);
    double y = c->top + c->side * (double)(k / c->wide);
    double side = c->side > 8 ? c->side - 0.7 : c->side + 0.2;
    report_heat(value, rgb);
    svg_box(c->f, x, y, side, side, "fill=\"#%02x%02x%02x\"", rgb[0], rgb[1], rgb[2]);
}

static void svg_frame(const cells *c, size_t k)
{
    double x = c->left + c->side * (double)(k % c->wide);
    double y = c->top + c->side * (double)(k / c->wide);
    double side = c->side - 1;
    svg_box(c->f, x, y, side, side, "fill=\"none\" stroke=\"#c84e14\" stroke-width=\"2.5\"");
}

static void svg_row(FILE *f, const order *r, size_t row, double x, double y, double w, double h)
{
    double t = (double)row / (double)(r->grid - 1);      /* from #e2eaf4 to #688fc4 */
    svg_box(f, x, y, w, h, "fill=\"#%02x%02x%02x\"", (int)(226 - 122 * t), (int)(234 - 91 * t),
            (int)(244 - 48 * t));
}
static void svg_special(FILE *f, const order *r, size_t k, double x, double y, double w, double h)
{
    const char *colour = r->registers ? "#167a46" : "#c84e14";
    svg_box(f, x + 0.7, y + 0.7, w - 1.4, h - 1.4, "fill=\"%s\" stroke=\"%s\" stroke-width=\"1.4\"",
            k < r->unread ? "#fff" : colour, colour);
}

/* tokens.svg: each model's sequence as a strip. */
static void draw_tokens(const char *folder, const order *all)
{
    enum { LEFT = 20, CELL = 4, TOP = 56, STEP = 100, HIGH = 26 };
    FILE *f = svg_open(folder, "tokens.svg", 880, TOP + ORDERS * STEP - 12, "");
    for (int m = 0; m < ORDERS; m++) {
        const order *r = &all[m];
        double y = TOP + m * STEP;
        size_t patch = 0, next = 0;
        svg_text(f, LEFT, y - 30, 14, "start",
                 "<tspan font-weight=\"bold\">%s</tspan>: %zu tokens, %zu of them patches",
                 r->name, r->tokens, r->patches);
        svg_text(f, LEFT + CELL * (double)r->tokens + 3, y + HIGH - 8, 11, "start", "%zu",
                 r->tokens - 1);
        for (size_t i = 0, run; i < r->tokens; i += run) {
            double x = LEFT + CELL * (double)i;
            int special = next < r->count && r->at[next] == i;
            run = 1;
            if (special) {
                svg_special(f, r, next, x - 0.5, y - 6, CELL + 1, HIGH + 12);
                svg_text(f, x + CELL / 2, y - 11, 11, "middle", "%zu", i);
                if (next++ >= r->unread)
                    svg_text(f, x + CELL / 2, y + HIGH + 20, 11, "middle", "&#9650;");
                continue;
            }
            while (i + run < (next < r->count ? r->at[next] : r->tokens) && (patch + run) % r->grid)
                run++;
            /* patches of one row */
            svg_row(f, r, patch / r->grid, x, y, CELL * (double)run - 0.6, HIGH);
            patch += run;
        }
    }
    double y = TOP + ORDERS * STEP - 28;
    double x = LEFT;
    for (size_t k = 0; k < all->grid; k++, x += 10) svg_row(f, all, k, x, y - 11, 9.4, 13);
    svg_text(f, x + 6, y, 13, "start", "rows of patches, 0 to %zu", all->grid - 1);
    svg_special(f, &all[0], 0, x + 190, y - 13, 6, 17);
    svg_text(f, x + 202, y, 13, "start", "class token");
    svg_special(f, &all[1], 0, x + 292, y - 13, 6, 17);
    svg_text(f, x + 304, y, 13, "start", "class token, not read");
    svg_special(f, &all[3], 0, x + 452, y - 13, 6, 17);
    svg_text(f, x + 464, y, 13, "start", "register");
    svg_text(f, x + 532, y, 13, "start", "&#9650; read as the output");
    figure_close(f, "</svg>\n");
}

/* grids.svg: where in the picture the same tokens stand. */
static void draw_grids(const char *folder, const order *all)
{
    enum { LEFT = 22, CELL = 15, GAP = 26, TOP = 44 };
    double side = CELL * (double)all->grid;
    FILE *f = svg_open(folder, "grids.svg", 2 * LEFT + ORDERS * (side + GAP) - GAP, TOP + side + 58,
                       "");
    for (int m = 0; m < ORDERS; m++) {
        const order *r = &all[m];
        double left = LEFT + m * (side + GAP);
        svg_text(f, left + side / 2, TOP - 14, 14, "middle",
                 "<tspan font-weight=\"bold\">%s</tspan>", r->name);
        for (size_t p = 0; p < r->patches; p++)
            svg_row(f, r, p / r->grid, left + CELL * (double)(p % r->grid),
                    TOP + CELL * (double)(p / r->grid), CELL - 1, CELL - 1);
        for (size_t k = 0; k < r->count; k++) {
            size_t before = r->at[k] - k;                /* so many patches */
            double x = left + CELL * (double)(before % r->grid) - 0.5;
            double y = TOP + CELL * (double)(before / r->grid) - 0.5;
            int last = before % r->grid + 2 > r->grid;
            svg_special(f, r, k, x - 3, y - 1.5, 6, CELL + 3);
            const char *anchor = last ? "end" : "start";
            svg_text(f, x + (last ? -5 : 5), y + 12, 11, anchor, "%zu", r->at[k]);
        }
    }
    svg_text(f, LEFT, TOP + side + 26, 13, "start",
             "Tokens follow the rows of patches from left to right. A bar stands before the patch "
             "that comes after it in the sequence;");
    svg_text(f, LEFT, TOP + side + 45, 13, "start",
             "the number is its place there. Filled: class token or register that is read as the "
             "output; hollow: not read.");
    figure_close(f, "</svg>\n");
}

/* The positions of a model's patches for a grid of g x g, resized as the library does it: (g²,
   D). */
static mmix_tensor *positions(mmix_ctx *m, mmix_vision *v, size_t g)
{
    static const int to_planes[4] = {0, 3, 1, 2}, to_tokens[4] = {0, 2, 3, 1};
    const mmix_vision_config *c = mmix_vision_config_of(v);
    size_t shape[4] = {1, c->grid, c->grid, c->dim};
    size_t flat[3] = {1, g * g, c->dim};
    size_t n = c->grid * c->grid;
    double more = c->positions == MMIX_POSITIONS_DINO ? 0.1 : 0;
    double scale = ((double)g + more) / (double)c->grid;
    mmix_tensor *p = mmix_params_find(mmix_vision_params(v), "pos_embed");
    p = mmix_slice(m, p, 1, mmix_shape(p, 1) - n, n);
    p = mmix_permute(m, mmix_reshape(m, p, 4, shape), to_planes);
    if (g != c->grid) p = mmix_interpolate(m, p, MMIX_RESIZE_BICUBIC, g, g, scale, scale);
    return mmix_reshape(m, mmix_permute(m, p, to_tokens), 3, flat);
}

/* positions.svg: how similar one position is to all others, as stored and resized. The one in
   docs/figures is of a trained ViT-S/14, with 37 x 37 stored positions. */
static void draw_positions(mmix_ctx *m, const settings *o)
{
    enum { LEFT = 20, PANEL = 150, GAP = 26, TOP = 50, STEP = PANEL + 62 };
    FILE *f = svg_open(o->figures, "positions.svg", 2 * LEFT + 3 * PANEL + 2 * GAP,
                       TOP + (double)o->models * STEP + 4, "");
    for (size_t k = 0; k < o->models && !mmix_error(m); k++) {
        const model *x = &o->model[k];
        mmix_vision *v = open_model(m, x, 0);
        size_t grid = x->config.grid;
        size_t small = (grid * 6 + 7) / 14;
        size_t at[3] = {small < 4 ? 4 : small, grid, 2 * grid};  /* 14 → 6, 7 → 14 and the like */
        if (grid > 20) {                                 /* 37: its double would be 5,476 cells */
            at[1] = grid * 2 / 3;
            at[2] = grid;
        }
        double y = TOP + (double)k * STEP;
        svg_text(f, LEFT, y - 14, 14, "start", "<tspan font-weight=\"bold\">%s</tspan>, %s",
                 x->label, kind_name(&x->config));
        for (size_t i = 0; v && i < 3; i++) {
            size_t g = at[i];
            size_t own = g * 3 / 10 * g + g * 3 / 10;
            mmix_tensor *p = positions(m, v, g);
            mmix_map map;
            double left = LEFT + (double)i * (PANEL + GAP);
            const cells panel = {f, left, y, PANEL / (double)g, g};
            mmix_map_options one;
            memset(&one, 0, sizeof one);
            one.positions = &own;
            one.n_positions = 1;
            if (!p || mmix_feature_map(m, &one, p, p, g, g, g, g, &map)) break;
            for (size_t j = 0; j < g * g; j++)
                svg_heat(&panel, j, (double)mmix_data(map.similarity)[j]);
            svg_frame(&panel, own);
            svg_text(f, left + PANEL / 2, y + PANEL + 18, 13, "middle", "%zu &#215; %zu, %s", g, g,
                     g == grid ? "as stored" : "resized");
        }
        mmix_reset(m);
        mmix_vision_destroy(v);
    }
    svg_text(f, LEFT, TOP + (double)o->models * STEP - 10, 12, "start",
             "Cosine of the framed position with all others, from violet (0, below) to yellow "
             "(1).");
    figure_close(f, "</svg>\n");
}

/* features.png: a column for each picture; rows: picture, mask, then map and components of each
   model. */
static void draw_features(const settings *o, const album *a)
{
    tile t[TILES];
    size_t rows = tiles_of(o, a, NULL, t);
    size_t zoom = 1 + 111 / o->size;
    size_t side = o->size * zoom;
    size_t cell = side + 4;
    size_t width = o->show * cell - 4;
    size_t height = rows * cell - 4;
    uint8_t *sheet = (uint8_t *)malloc(width * height * 3);
    uint8_t *rgb = (uint8_t *)malloc(o->size * o->size * 3);
    if (!sheet || !rgb) exit(fail("no memory for features.png"));
    memset(sheet, 255, width * height * 3);
    for (size_t i = 0; i < o->show * rows; i++) {
        size_t row = i / o->show;
        size_t col = i % o->show;
        uint8_t *corner = sheet + 3 * (row * cell * width + col * cell);
        paint(rgb, &a->shown[col], &t[row], col);
        for (size_t p = 0; p < side * side; p++) {
            size_t y = p / side;
            size_t x = p % side;
            const uint8_t *from = rgb + 3 * (y / zoom * o->size + x / zoom);
            memcpy(corner + 3 * (y * width + x), from, 3);
        }
    }
    figure_png(o->figures, "features.png", sheet, width, height);
    printf("rows of features.png, from the top:\n");
    for (size_t k = 0; k < rows; k++)
        printf("  %s%s%s\n", t[k].head, *t[k].how ? ": " : "", t[k].how);
    free(sheet);
    free(rgb);
}

/* axial.svg: how far apart the angles of MMIX_POSITIONS_AXIAL put patches, in heads of 64. */
static void draw_axial(const char *folder)
{
    enum { LEFT = 20, PANEL = 150, GAP = 26, TOP = 20, QUARTER = 16 };
    static const size_t grid[3] = {6, 10, 14};
    FILE *f = svg_open(folder, "axial.svg", 2 * LEFT + 3 * PANEL + 2 * GAP, TOP + PANEL + 54, "");
    for (size_t i = 0; i < 3; i++) {
        size_t g = grid[i];
        size_t own = g * 3 / 10 * g + g * 3 / 10;
        double left = LEFT + (double)i * (PANEL + GAP);
        const cells panel = {f, left, TOP, PANEL / (double)g, g};
        for (size_t j = 0; j < g * g; j++) {
            double down = (double)(j / g) - (double)(own / g);
            double right = (double)(j % g) - (double)(own % g);
            double alike = 0;
            for (int p = 0; p < QUARTER; p++) {          /* coordinates run from -1 to 1 */
                double turn = 2 * 6.283185307179586 / (double)g / pow(100, (double)p / QUARTER);
                alike += (cos(turn * down) + cos(turn * right)) / (2 * QUARTER);
            }
            svg_heat(&panel, j, alike);
        }
        svg_frame(&panel, own);
        svg_text(f, left + PANEL / 2, TOP + PANEL + 18, 13, "middle", "%zu &#215; %zu", g, g);
    }
    svg_text(f, LEFT, TOP + PANEL + 44, 12, "start",
             "Mean cosine of the angles, the framed patch with each: violet 0, yellow 1");
    figure_close(f, "</svg>\n");
}

static void draw_orders(const char *folder)
{
    mmix_vision_config middle = mmix_vision_config_dinovim(256);
    middle.class_token = MMIX_CLASS_MIDDLE;
    order all[ORDERS];
    all[0] = order_of("ViT", mmix_vision_config_vit(192, 16), 224);
    all[1] = order_of("DinoVim, as released", mmix_vision_config_dinovim(256), 224);
    all[2] = order_of("DinoVim, middle only", middle, 224);
    all[3] = order_of("DinoMamba-Reg", mmix_vision_config_mambareg(256), 224);
    draw_tokens(folder, all);
    draw_grids(folder, all);
}

#endif
