/* features_report.h - the page that features.c writes: the finding, pictures, measures, costs

   A part of features.c, which includes it behind its own types. Sections: measures · pictures ·
   the page. */
#ifndef FEATURES_REPORT_H
#define FEATURES_REPORT_H

/* ---- measures -------------------------------------------------------------------------------- */

/* A measure in words: its column, whose error is in the next one. */
static const struct {
    int at;
    const char *asks;
} finding[] = {
    {KNN, "Class named rightly by the 20 pictures with the most similar class tokens (k-NN)"},
    {PROBE, "Class named rightly by a linear head on the class token (linear probe)"},
    {SEG, "Overlap of the classes' masks with what a linear head on the patches finds (mIoU)"},
    {AUC, "Objects told from background by the class token's map; chance is 0.5 (Binary-AUC)"},
};

/* Whether a network's measure lies above (1) or below (-1) the best of what nobody has trained, on
   the same pictures: where the interval of the difference is. */
static int above_plain(const settings *o, const model *x, int c)
{
    if (x >= o->model + o->models) return 0;
    for (int k = 0; k < PAIRS; k++) if (pair_of[k].at == c) return gap_sign(&x->above[k]);
    return 0;
}

/* The finding, in a sentence: which network is above what nobody has trained, in how many
   measures. */
static void report_findings(report *h, const settings *o, const album *a)
{
    const model *base = o->model + o->models;
    int any = 0;
    for (size_t k = 0; k < sizeof finding / sizeof *finding; k++)
        any += has_column(o, finding[k].at);
    if (any) report_html(h, "<p>");
    for (const model *x = o->model; any && x < base; x++) {
        int above = 0;
        for (size_t k = 0; k < sizeof finding / sizeof *finding; k++) {
            int c = finding[k].at;
            above += has_column(o, c) && above_plain(o, x, c) > 0;
        }
        report_html(h, "<b>%s</b> is better than every baseline in %d of %d measures. ", x->label,
                    above, any);
    }
    if (any) report_html(h, "\nA baseline is something that nobody has trained, such as a "
                            "histogram of colours. Better means: the 95&nbsp;%% interval of the "
                            "difference from the best of them lies above 0.</p>\n");
    else if (!a->classes && !a->masks)
        report_html(h, "<p>No label says anything about these pictures, so nothing is measured. "
                       "This page shows where the networks look, and which pictures they take for "
                       "alike.</p>\n");
}

/* A number, half of its interval, where there is one (of one picture there is none), and a
   sign. */
static void report_number(report *h, const double *value, int sign)
{
    report_html(h, "<td>%.3f", value[0]);
    if (isfinite(value[1])) report_html(h, " &plusmn; %.3f", value[1]);
    report_html(h, "%s</td>", report_sign[1 + sign]);
}

/* The differences from the best of what nobody has trained, a row each. */
static void report_pairs(report *h, const settings *o)
{
    int any = 0;
    for (const model *x = o->model; x < o->model + o->models; x++)
        for (int k = 0; k < PAIRS; k++) {
            const gap *c = &x->above[k];
            if (!isfinite(c->off)) continue;
            if (!any++) report_table(h, "weights|measure|difference from the best "
                                        "baseline|95 % interval|that baseline");
            report_row(h, "%s|%s|%+.3f%s|%+.3f to %+.3f|%s", x->label, pair_of[k].text, c->off,
                       report_sign[1 + gap_sign(c)], c->low, c->high, x->best[k]);
        }
    if (any) report_table(h, NULL);
}

/* Each measure in words, of all networks and of the best of those that nobody has trained. */
static void report_asked(report *h, const settings *o)
{
    const model *base = o->model + o->models;
    report_html(h, "<div class=\"wide\"><table class=\"asked\">\n<tr><th>share of the pictures, or "
                   "mean</th>");
    for (const model *x = o->model; x < base; x++) report_html(h, "<th>%s</th>", x->label);
    report_html(h, "<th>best baseline</th><th></th>");
    for (size_t k = 0; k < sizeof finding / sizeof *finding; k++) {
        int c = finding[k].at;
        const model *best = best_plain(o, c);
        if (!has_column(o, c)) continue;
        report_html(h, "</tr>\n<tr><td>%s</td>", finding[k].asks);
        for (const model *x = o->model; x < base; x++)
            report_number(h, x->value + c, above_plain(o, x, c));
        if (best) report_number(h, best->value + c, 0);
        if (best) report_html(h, "<td class=\"soft\">%s</td>", best->label);
    }
    report_html(h, "</tr></table></div>\n<p class=\"soft\">&#9650; and &#9660; mark what is above "
                   "or below the best baseline: the 95&nbsp;%% interval of the difference leaves 0 "
                   "out. The two were judged on the same pictures. These are drawn anew with "
                   "replacement, the same for both, %d times (a bootstrap), and 95&nbsp;%% of the "
                   "differences lie in the interval. A difference whose interval holds 0 cannot be "
                   "told from chance.</p>\n", PAIR_DRAWS);
    report_pairs(h, o);
}

/* How all of it was measured. */
static void report_method(report *h, const settings *o, const album *a)
{
    size_t kinds = 0;
    for (int c = 0; c < DENSE_VOID; c++) kinds += a->seen[c];
    report_html(h, "<ul class=\"soft\">\n<li>Behind &plusmn; stands half of a 95&nbsp;%% "
                   "interval over the pictures (of mIoU by the jackknife, which leaves each "
                   "picture out in turn).</li>\n<li>Balanced is the mean over the classes of "
                   "their shares: each class counts the same, however many pictures it "
                   "has.</li>\n");
    if (o->ask & ASK_KNN)
        report_html(h, "<li>k-NN: the 20 pictures vote whose class tokens have the greatest cosine "
                       "with the picture's, with weight e<sup>cosine/0.07</sup>. %zu pictures are "
                       "judged by %s.</li>\n", a->vote.tests,
                    a->vote.trains ? "the training pictures" : "all others");
    if (o->ask & ASK_PROBE)
        report_html(h, "<li>Linear probe: a linear head learns by gradient steps (SGD) from the "
                       "class token%s, whose numbers are brought to mean 0 and deviation 1. %zu "
                       "pictures teach it, %zu others are judged; a tenth of the teaching ones "
                       "chooses the learning rate.</li>\n",
                    o->blocks_read > 1 ? "s of the last blocks" : "", a->teach.trains,
                    a->teach.tests);
    if (o->ask & ASK_SEG)
        report_html(h, "<li>mIoU: intersection over union of a class's pixels and of those that "
                       "are called so, mean over %zu classes with the background (the ground). A "
                       "linear head on the patches' features calls them; %zu pictures teach it "
                       "with masks of %d x %d pixels, %zu others are judged at %zu x %zu.</li>\n",
                    kinds, a->segment.trains, DENSE_SIDE, DENSE_SIDE, a->segment.tests, o->size,
                    o->size);
    report_html(h, "<li>The baselines go the same way: %d x %d x 3 pixels; a joint histogram of %d "
                   "levels of red, green and blue; histograms of the edges' directions in %d x %d "
                   "cells; always the commonest class of those that teach, and ground for every "
                   "pixel; for maps the nearness to the middle of the picture.</li>\n</ul>\n",
                PLAIN_SIDE, PLAIN_SIDE, PLAIN_LEVELS, PLAIN_CELLS, PLAIN_CELLS);
}

static void report_measures(report *h, const settings *o, const album *a)
{
    static const struct {
        int at, error;
        const char *head;
    } shows[] = {
        {KNN, 1, "k-NN"},
        {KNN + 2, 1, "k-NN, balanced"},
        {PROBE, 1, "linear probe"},
        {PROBE + 2, 1, "probe, balanced"},
        {PROBE_MEAN, 1, "probe, with the patches' mean"},
        {PROBE_MEAN + 2, 1, "the same, balanced"},
        {SEG, 1, "mIoU"},
        {SEG + 2, 0, "right pixels"},
    };
    int count = (int)(sizeof shows / sizeof *shows);
    int any = 0;
    char cells[2048] = "weights";
    for (size_t k = 0; k < sizeof finding / sizeof *finding; k++)
        any += has_column(o, finding[k].at);
    if (!any) return;
    report_html(h, "<h2>Measures</h2>\n");
    report_asked(h, o);
    any = 0;
    for (int k = 0; k < count; k++) {
        if (!has_column(o, shows[k].at)) continue;
        snprintf(cells + strlen(cells), sizeof cells - strlen(cells), "|%s", shows[k].head);
        any = 1;
    }
    if (!any) return;
    report_table(h, cells);
    for (const model *x = o->model; x < last(o); x++) {
        int there = 0;
        snprintf(cells, sizeof cells, "%s", x->label);
        for (int k = 0; k < count; k++) {
            double v = x->value[shows[k].at];
            double e = shows[k].error ? x->value[shows[k].at + 1] : NAN;
            char *at = cells + strlen(cells);
            size_t room = sizeof cells - strlen(cells);
            if (!has_column(o, shows[k].at)) continue;
            there += isfinite(v) != 0;
            if (!isfinite(v)) snprintf(at, room, "|-");
            else if (!isfinite(e)) snprintf(at, room, "|%.3f", v);
            else {
                int above = above_plain(o, x, shows[k].at);
                snprintf(at, room, "|%.3f ± %.3f%s", v, e, report_sign[1 + above]);
            }
        }
        if (there) report_row(h, "%s", cells);
    }
    report_table(h, NULL);
    report_method(h, o, a);
}

/* Columns from … to - 1 of all lines that have them. */
static void report_lines(report *h, const settings *o, int from, int to)
{
    report_columns_html(h, column + from, to - from, "weights", NULL, NULL);
    for (const model *x = o->model; x < last(o); x++)
        if (has_row(x, from, to))
            report_columns_html(h, column + from, to - from, x->label, x->value + from, NULL);
    report_table(h, NULL);
}

static void report_costs(report *h, const settings *o)
{
    report_html(h, "<h2>Costs</h2>\n");
    report_lines(h, o, 0, COST);
    report_html(h, "<p class=\"soft\">A multiply-add counts as two FLOPs; pictures have %zu x %zu "
                   "pixels. The time is that of the forward pass alone, %d at once, without the "
                   "first batch. The peak is the most memory that the library held, with the "
                   "weights and their packed copies.</p>\n<ul class=\"soft\">\n",
                o->size, o->size, o->whole ? 1 : BATCH);
    for (const model *x = o->model; x < o->model + o->models; x++) {
        report_html(h, "<li>%s: ", x->name);
        report_text(h, x->file ? x->file : "random weights, nothing is trained");
        report_html(h, ". %s, matrices in %s.</li>\n", x->kind, name_of_type(x->type));
    }
    report_html(h, "</ul>\n");
}

/* What narrow matrices change, beside the same network in float. */
static void report_beside(report *h, const settings *o)
{
    if (!has_rows(o, BESIDE, COLUMNS)) return;
    report_html(h, "<h2>Narrow matrices beside float</h2>\n");
    report_lines(h, o, BESIDE, COLUMNS);
    report_html(h, "<p class=\"soft\">Cosine of each token, class token and patches, with the "
                   "same token of the same network in float: mean and least over all judged "
                   "pictures. Differences are narrow less float; behind them stands their "
                   "95&nbsp;%% interval (a bootstrap over the pictures, the same for both).</p>\n");
}

/* The registers of a network, each as a map of its own. */
static void report_registers(report *h, const model *x)
{
    size_t count = x->registers < REGISTERS ? x->registers : REGISTERS;
    if (!count || !x->likened) return;
    report_html(h, "<div class=\"wide\"><table><tr><th>%s</th><th>Binary-AUC</th><th>object "
                   "brighter</th></tr>\n", x->label);
    for (size_t r = 0; r < count; r++) {
        const maps *s = &x->of_register[r];
        report_html(h, "<tr><td>register %zu</td><td>%.3f &plusmn; %.3f</td><td>%.0f&nbsp;%%</td>"
                       "</tr>\n",
                    r, maps_auc(s), 1.96 * maps_error(s),
                    100 * (double)s->alike / (double)s->judged);
    }
    report_html(h, "</table></div>\n<p class=\"soft\">The map of each register in place of their "
                   "mean. Two of these maps have a correlation of %.2f over the pixels, mean over "
                   "all pairs and pictures: near 1 all registers look at the same.</p>\n",
                x->likeness / (double)x->likened);
}

static void report_auc(report *h, const settings *o, const album *a)
{
    report_plot roc;
    double at[ROC_POINTS], rate[MODELS + 1][ROC_POINTS];
    const model *end = o->model + o->models + MIDDLE;
    memset(&roc, 0, sizeof roc);
    roc.x_label = "share of the background above it";
    roc.y_label = "share of the objects above a threshold";
    roc.caption = "ROC curves of the maps, means over the pictures: a point for each threshold. "
                  "The dotted diagonal is a map that tells nothing.";
    roc.high = roc.square = roc.diagonal = 1;
    report_html(h, "<h2>Binary-AUC: do maps tell objects from background?</h2>\n");
    report_lines(h, o, AUC, BESIDE);
    report_html(h, "<ul class=\"soft\">\n<li>A is the area under the ROC curve below: the chance "
                   "that a pixel of the object is brighter in the class token's map (of "
                   "DinoMamba-Reg in the registers' mean) than one of the background. A map may "
                   "mark objects by its dark side as well, so Binary-AUC is the greater of A and 1 "
                   "&minus; A, mean over the pictures that have both object and background. It is "
                   "never below &frac12;. Behind &plusmn; stands half of its 95&nbsp;%% "
                   "interval.</li>\n<li>Object brighter: the share of the pictures "
                   "with A &ge; &frac12;.</li>\n<li>Best IoU: intersection over union of the "
                   "object and of what is above a threshold, mean over the pictures, at the best "
                   "of %d thresholds, one for all; at 0 the whole picture is above it. A minus "
                   "before the threshold says that the map was turned round "
                   "first.</li>\n<li>Nearness to the middle is a map that has looked at no "
                   "picture.</li>\n</ul>\n",
                LEVELS);
    report_html(h, "<div class=\"row\">\n<div "
                   "class=\"wide\"><table><tr><th>class</th><th>pictures</th>");
    for (const model *x = o->model; x <= end; x++) report_html(h, "<th>%s</th>", x->label);
    for (size_t c = 0; c < a->classes; c++) {
        report_html(h, "</tr>\n<tr><td>");
        report_text(h, a->class_name[c]);
        report_html(h, "</td><td>%zu</td>", end->of_class[c].count);
        for (const model *x = o->model; x <= end; x++)
            report_html(h, x->of_class[c].count ? "<td>%.3f</td>" : "<td>-</td>", class_auc(x, c));
    }
    report_html(h, "</tr></table></div>\n");
    for (int i = 0; i < ROC_POINTS; i++) at[i] = (double)i / (double)(ROC_POINTS - 1);
    for (const model *x = o->model; x <= end; x++) {
        size_t k = roc.curves++;
        report_curve c = {x->label, at, rate[k], ROC_POINTS, (int)k, k >= 6 || x == end};
        for (int i = 0; i < ROC_POINTS; i++) rate[k][i] = x->auc.roc[i] / (double)x->auc.judged;
        roc.curve[k] = c;
    }
    report_chart(h, &roc);
    report_html(h, "</div>\n");
    for (const model *x = o->model; x < o->model + o->models; x++) report_registers(h, x);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* The columns of a table of pictures. */
enum { PICTURE, MASK, MAP, READ, COLOURS, PREDICTED };
typedef struct tile {
    int what;
    const model *x;
    size_t at;
    char head[120];
    const char *how;
} tile;
enum { TILES = 2 + 4 * MODELS };

/* How a model's tile was made, in words. */
static const char *how_made(const model *x, int what)
{
    switch (what) {
    case MAP: return x->how[0];
    case READ:
        return "what the class token reads in the last block, mean of the heads: lit are the "
               "fewest patches that hold 60% of it";
    case COLOURS: return x->components;
    default: return "the classes that a linear head names for the patches, a colour for each";
    }
}

/* Picture, mask, then of all models map, what the class token reads, components, predicted masks
   (in figures maps and components alone); or the picture and all maps of `one`. */
static size_t tiles_of(const settings *o, const album *a, const model *one, tile *t)
{
    static const char *const name[] = {"", "", "map", "reads", "components", "segmentation"};
    tile *at = t;
    const char *colours = "white is object, gray void";
    if (o->ask & ASK_SEG) colours = "a colour for each class, void white";
    const tile picture = {PICTURE, NULL, 0, "picture", ""};
    const tile mask = {MASK, NULL, 0, "mask", colours};
    *at++ = picture;
    if (a->masks && !one) *at++ = mask;
    for (size_t k = 0; one && k < one->maps; k++, at++) {
        at->what = MAP;
        at->x = one;
        at->at = k;
        at->how = one->how[k];
        snprintf(at->head, sizeof at->head, "%s", one->head[k]);
    }
    for (const model *x = o->model; !one && x < o->model + o->models; x++)
        for (int what = MAP; what <= PREDICTED; what++) {
            if ((o->figures && what == READ) || (what == PREDICTED && !(o->ask & ASK_SEG)))
                continue;
            at->what = what;
            at->x = x;
            at->at = 0;
            at->how = how_made(x, what);
            snprintf(at++->head, sizeof at->head, "%s %s", x->label, name[what]);
        }
    return (size_t)(at - t);
}

/* A pixel under the colour of a class, hues that lie far apart for small numbers; 0 is left
   gray, void white. */
static void paint_label(uint8_t *rgb, const uint8_t *pixel, unsigned label)
{
    double gray = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
    double turn = label * 0.6180339887;
    for (int c = 0; c < 3; c++) {
        double hue = fabs(fmod(6 * (turn - floor(turn)) + 2 * c, 6) - 3) - 1;
        double full = 255 * fmin(fmax(hue, 0), 1);
        double shown = label ? (full + gray) / 2 : gray * 0.6;
        rgb[c] = (uint8_t)(label == DENSE_VOID ? 255 : shown);
    }
}

/* A pixel as it is where it is lit, else a quarter as bright. */
static void light(uint8_t *rgb, const uint8_t *pixel, int lit)
{
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(pixel[c] >> (lit ? 0 : 2));
}

/* A mask's pixel k: things are white, what is not judged is gray, and so is a mask that is
   missing. */
static uint8_t mask_gray(const uint8_t *mask, size_t k)
{
    if (!mask) return 90;
    if (mask[k] == 255) return 128;
    return mask[k] ? 255 : 0;
}

/* The patch over pixel k of a picture of w x h pixels. */
static size_t cell_at(const strip *s, size_t k, size_t w, size_t h)
{
    size_t down = k / w * s->gh / h;
    size_t across = k % w * s->gw / w;
    return down * s->gw + across;
}

/* Tile t of the i-th shown picture, (h, w, 3). */
static void paint(uint8_t *rgb, const view *v, const tile *t, size_t i)
{
    const strip *s = t->x ? &t->x->shown[i] : NULL;
    for (size_t k = 0, n = v->w * v->h; k < n; k++, rgb += 3) {
        const uint8_t *pixel = v->rgb + 3 * k;
        size_t cell = s ? cell_at(s, k, v->w, v->h) : 0;
        if (t->what == PICTURE) memcpy(rgb, pixel, 3);
        if (t->what == MASK && v->label) paint_label(rgb, pixel, v->label[k]);
        else if (t->what == MASK) memset(rgb, mask_gray(v->mask, k), 3);
        if (t->what == MAP) report_heat(s->map[t->at * n + k] / 255.0, rgb);
        if (t->what == READ) light(rgb, pixel, s->lit[t->x->read * s->gh * s->gw + cell]);
        if (t->what == COLOURS) memcpy(rgb, s->colours + 3 * cell, 3);
        if (t->what == PREDICTED && !s->pred) memset(rgb, 90, 3);  /* not among those judged */
        else if (t->what == PREDICTED) paint_label(rgb, pixel, s->pred[k]);
    }
}

static const char *file_of(const album *a, size_t i)
{
    return a->at[i].path ? a->at[i].path : "a drawn scene";
}

/* A name that a line may break behind its strokes. */
static void report_name(report *h, const char *name)
{
    while (*name) {
        size_t n = strcspn(name, "_-");
        n += name[n] != 0;
        report_html(h, "%.*s<wbr>", (int)n, name);
        name += n;
    }
}

/* What the columns of pictures show, in words for those who see them first. */
static void report_legend(report *h, const settings *o, const album *a, const model *one)
{
    report_html(h, "<p class=\"soft\">A map shows how much each patch resembles %s, from violet "
                   "(least) over green to yellow (most). Objects may lie at either end.",
                one && one->registers ? "a register or the mean of the registers, tokens without a "
                                        "place that stand for the whole picture"
                                      : "the class token, which stands for the whole picture");
    if (!one) {
        report_html(h, " Under &ldquo;reads&rdquo; those patches are lit which the class token "
                       "reads most. Under &ldquo;components&rdquo; similar colours are similar "
                       "features (their principal components), and black is taken for background.");
        if (o->ask & ASK_SEG)
            report_html(h, " Under &ldquo;segmentation&rdquo; a linear head has named the class of "
                           "each place.");
        if (a->masks) report_html(h, " The mask is what people say.");
    }
    report_html(h, "</p>\n");
}

static void report_pictures(report *h, const settings *o, const album *a, const model *one,
                            uint8_t *rgb)
{
    tile t[TILES];
    size_t tiles = tiles_of(o, a, one, t);
    /* all in one row of the page, if they can be */
    int side = (int)fmax(72, fmin(SIDE, 1080 / (double)tiles - 5));
    report_html(h, "<div class=\"wide\"><table class=\"pictures small\">\n<tr>");
    for (size_t k = 0; k < tiles; k++) {
        report_html(h, "<th>");
        report_name(h, t[k].head);
        report_html(h, "</th>");
    }
    for (size_t i = 0; i < o->show; i++) {
        const photo *p = &a->at[shown(o, a, i)];
        report_html(h, "</tr>\n<tr>");
        for (size_t k = 0; k < tiles; k++) {
            const char *how = k ? t[k].how : file_of(a, shown(o, a, i));
            paint(rgb, &a->shown[i], &t[k], i);
            report_html(h, "<td title=\"");
            report_text(h, how);
            report_html(h, "\">");
            report_picture(h, rgb, a->shown[i].w, a->shown[i].h, side, how);
            if (!k && a->classes) report_html(h, "<span class=\"soft\">");
            if (!k && a->classes) report_text(h, a->class_name[p->label]);
            report_html(h, !k && a->classes ? "</span></td>" : "</td>");
        }
    }
    report_html(h, "</tr></table></div>\n");
    report_legend(h, o, a, one);
    report_html(h, "<details class=\"soft\"><summary>How each of them was made</summary>\n<ul>\n");
    for (size_t k = 1; k < tiles; k++) {
        report_html(h, "<li>%s: ", t[k].head);
        report_text(h, t[k].how);
        report_html(h, ".</li>\n");
    }
    report_html(h, "</ul></details>\n");
}

/* A picture SMALL wide, (high, SMALL, 3), as it is; or NULL. */
static uint8_t *thumbnail(const view *v, size_t *high)
{
    mmix_picture in = {v->rgb, v->w, v->h};
    mmix_box all = {0, 0, v->h, v->w};
    *high = (SMALL * v->h + v->w / 2) / v->w;
    if (!*high) *high = 1;
    mmix_resize_plan r = mmix_resize_plan_box(all, SMALL, *high);
    uint8_t *out = (uint8_t *)malloc(SMALL * *high * 3);
    if (!out || picture_resize(out, in, r)) {
        free(out);
        out = NULL;
    }
    return out;
}

/* What the class token reads in the last block, head by head, and below the picture with the
   mask lit. */
static void report_heads(report *h, const settings *o, const album *a, const model *x)
{
    size_t heads = x->read < HEADS ? x->read : HEADS;
    const char *rows = "";                               /* of Mamba-2 which are taken */
    if (x->config.mixer == MMIX_MIXER_SSD)
        rows = " (of the token that is read, the mean of both directions, sizes without sign)";
    if (x->config.mixer == MMIX_MIXER_SSD && x->registers)
        rows = " (the mean of the registers' rows and of both directions, sizes without sign)";
    report_html(h, "<h2>%s: what the class token reads, head by head</h2>\n<div "
                   "class=\"wide\"><table class=\"pictures small\">\n<tr><th>picture</th>",
                x->label);
    for (size_t k = 0; k < heads; k++) report_html(h, "<th>head %zu</th>", k);
    report_html(h, "<th>mean</th>");
    for (size_t i = 0; i < o->show; i++) {
        const strip *s = &x->shown[i];
        size_t high;
        uint8_t *thumb = thumbnail(&a->shown[i], &high);
        uint8_t *rgb = (uint8_t *)malloc(thumb ? SMALL * high * 3 : 1);
        report_html(h, "</tr>\n<tr><td>");
        if (thumb && rgb) report_picture(h, thumb, SMALL, high, SMALL, file_of(a, shown(o, a, i)));
        report_html(h, "</td>");
        for (size_t k = 0; thumb && rgb && k <= heads; k++) {
            const size_t first = (k < heads ? k : x->read) * s->gh * s->gw;
            report_html(h, "<td>");
            for (size_t p = 0; p < SMALL * high; p++) {
                size_t cell = first + cell_at(s, p, SMALL, high);
                report_heat(s->heat[cell] / 255.0, rgb + 3 * p);
            }
            report_picture(h, rgb, SMALL, high, SMALL, "the head's map");
            for (size_t p = 0; p < SMALL * high; p++) {
                size_t cell = first + cell_at(s, p, SMALL, high);
                light(rgb + 3 * p, thumb + 3 * p, s->lit[cell]);
            }
            report_picture(h, rgb, SMALL, high, SMALL, "60% of the mass");
            report_html(h, "</td>");
        }
        free(thumb);
        free(rgb);
    }
    report_html(h, "</tr></table></div>\n<p class=\"soft\">A head mixes tokens by its own matrix M "
                   "(Y = M X). The upper picture shows the class token's row of the last block's "
                   "M%s: how much it takes from each patch, from violet (0) to yellow (the head's "
                   "largest). In the lower picture the fewest patches are lit that together give "
                   "60%% of what it takes, as DINO's authors show it.%s</p>\n",
                rows, x->read > HEADS ? " Only the first 16 heads are shown; the mean is of all." :
                "");
}

/* A strip of each shown picture's nearest. 0, or an exit status. */
static int report_near(mmix_ctx *m, report *h, const settings *o, const album *a, const model *x)
{
    static settings thumb;
    album plainly = *a;
    int bad = 0;
    thumb = *o;
    thumb.size = SMALL;
    thumb.square = 1;
    thumb.whole = thumb.ask = 0;
    plainly.masks = 0;
    report_html(h, "<h2>%s: the nearest pictures</h2>\n<div class=\"wide\"><table class=\"pictures "
                   "small\">\n<tr><th>picture</th>", x->label);
    report_html(h, "<th>nearest</th>");
    for (int k = 1; k < ALIKE; k++) report_html(h, "<th>%d.</th>", k + 1);
    for (size_t i = 0; i < o->show && !bad; i++) {
        report_html(h, "</tr>\n<tr>");
        for (int k = -1; k < ALIKE && !bad; k++) {
            size_t at = k < 0 ? shown(o, a, i) : x->shown[i].alike[k];
            view v;
            if (at == a->all) continue;
            memset(&v, 0, sizeof v);
            view_read(m, &thumb, &plainly, at, &v);
            bad = *v.why ? fail("%s", v.why) : 0;
            report_html(h, "<td class=\"soft\" title=\"");
            report_text(h, file_of(a, at));
            report_html(h, "\">");
            if (!bad) report_picture(h, v.rgb, SMALL, SMALL, SMALL, file_of(a, at));
            if (k >= 0) report_html(h, "%.3f<br>", x->shown[i].cosine[k]);
            report_text(h, a->classes ? a->class_name[a->at[at].label] : "");
            report_html(h, "</td>");
            view_free(&v);
        }
    }
    report_html(h, "</tr></table></div>\n<p class=\"soft\">The number is the cosine of the two "
                   "pictures' class tokens: 1 where they point the same way.%s The squares are cut "
                   "from the middle of the pictures.</p>\n",
                a->all > a->count ? " The nearest are sought among the training pictures." : "");
    return bad;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void report_head(mmix_ctx *m, report *h, const settings *o, const album *a)
{
    char date[32] = "";
    time_t t = time(NULL);
    size_t random = 0;
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&t));
    report_findings(h, o, a);
    for (const model *x = o->model; x < o->model + o->models; x++)
        if (!x->file) report_html(h, "%s%s", random++ ? ", " : "<p><b>Random weights:</b> ",
                                  x->name);
    if (random) report_html(h,
                            ". Nothing is trained there: this page shows what the architecture "
                            "alone makes of the pixels.</p>\n");
    report_html(h, "<p class=\"soft\">%zu pictures %s", a->count, o->images ? "of " : "");
    report_text(h, o->images ? o->images : "are scenes drawn by the program");
    if (a->all > a->count)
        report_html(h, "; %zu others are there to learn from", a->all - a->count);
    if (o->whole)
        report_html(h, "; they are shown whole, the shorter side has %zu pixels", o->size);
    else if (!o->images) report_html(h, "; each has %zu x %zu pixels", o->size, o->size);
    else if (o->square) report_html(h, "; the networks see the square in the middle as %zu x %zu "
                                       "pixels", o->size, o->size);
    else report_html(h, "; the networks see the middle %zu x %zu pixels of each, after its shorter "
                        "side was brought to %zu", o->size, o->size, (o->size * 256 + 112) / 224);
    report_html(h, ". %s, seed %" PRIu64 ", %d thread%s, %s.</p>\n", date, o->seed,
                mmix_threads(m), mmix_threads(m) > 1 ? "s" : "", mmix_simd_name(m));
}

/* 0, or an exit status. */
static int write_report(mmix_ctx *m, const settings *o, const album *a)
{
    report h;
    char path[1100];
    size_t pixels = 0;
    int bad = 0;
    const model *end = o->model + o->models;
    for (size_t i = 0; i < o->show; i++)
        if (a->shown[i].w * a->shown[i].h > pixels) pixels = a->shown[i].w * a->shown[i].h;
    uint8_t *rgb = (uint8_t *)malloc(pixels * 3);
    snprintf(path, sizeof path, "%s/report.html", o->out);
    if (!rgb || report_open(&h, path, "What the networks see")) {
        free(rgb);
        return fail("%s", rgb ? h.error : "no memory for the report");
    }
    report_head(m, &h, o, a);
    report_html(&h, "<h2>Pictures, and what the networks make of them</h2>\n");
    report_pictures(&h, o, a, NULL, rgb);
    for (const model *x = o->model; x < end; x++) report_heads(&h, o, a, x);
    for (const model *x = o->model; x < end; x++) {
        if (x->maps == 1) continue;
        const char *maps_of = x->registers ? "registers" : "blocks";
        if (x->registers && o->blocks) maps_of = "registers and blocks";
        report_html(&h, "<h2>%s: %s</h2>\n", x->label, maps_of);
        report_pictures(&h, o, a, x, rgb);
    }
    for (const model *x = o->model; x < end && a->all > 1 && !bad; x++)
        bad = report_near(m, &h, o, a, x);
    report_measures(&h, o, a);
    if (end[MIDDLE].auc.judged) report_auc(&h, o, a);
    report_beside(&h, o);
    report_costs(&h, o);
    const char *patches = "";                            /* written if asked for */
    if (o->patches) patches = ", NAME-patches.npy those of patches (pictures, patches, D)";
    if (o->patches && o->whole)
        patches = ", NAME-patches.npy those of patches (patches of all pictures, D)";
    report_html(&h, "<h2>Files</h2>\n<p class=\"soft\">The features lie beside this page, for "
                    "numpy, a row for each line of pictures.txt. NAME is a network, D its width. "
                    "<code>NAME-token.npy</code> has the class tokens (%zu, D)%s; of a network "
                    "with k registers <code>NAME-registers.npy</code> has these (%zu, k, "
                    "D).%s</p>\n",
                a->count, patches, a->count, o->patches ? "" : " Features of patches: --patches.");
    free(rgb);
    if (bad) {
        report_drop(&h);
        return bad;
    }
    if (report_close(&h)) return fail("%s", h.error);
    fprintf(stderr, "report: %s\n", path);
    return 0;
}

#endif
