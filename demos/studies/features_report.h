/* features_report.h - the page that features.c writes: the finding, pictures, measures, costs

   A part of features.c, which includes it behind its own types. Sections: measures · pictures ·
   the page. */
#ifndef FEATURES_REPORT_H
#define FEATURES_REPORT_H

/* ---- measures -------------------------------------------------------------------------------- */

/* A measure in a sentence: its column, whose error is in the next one; what it says. */
static const struct {
    int at;
    const char *says;
} finding[] = {
    {KNN, "The 20 nearest by the class token name the class rightly"},
    {PROBE, "A linear head on the class token names the class rightly"},
    {SEG, "A linear head on the patches' features finds the classes' masks with an mIoU of"},
    {AUC, "The class token's map tells objects from ground with a Binary-AUC of"},
};

/* Of what nobody has trained the best in a column, or NULL. */
static const model *best_plain(const settings *o, int c)
{
    const model *best = NULL;
    for (const model *x = o->model + o->models; x < last(o); x++)
        if (isfinite(x->value[c]) && (!best || x->value[c] > best->value[c])) best = x;
    return best;
}

/* Whether a network's measure lies more than two standard errors above (1) or below (-1) the
   best of those. */
static int above_plain(const settings *o, const model *x, int c)
{
    const model *best = x < o->model + o->models ? best_plain(o, c) : NULL;
    if (!best) return 0;
    return report_differ(x->value[c], x->value[c + 1], best->value[c], best->value[c + 1]);
}

/* The finding, in a sentence: which network is above what nobody has trained, in how many
   measures. */
static void report_findings(report *h, const settings *o, const album *a)
{
    const model *base = o->model + o->models;
    int any = 0;
    for (size_t k = 0; k < sizeof finding / sizeof *finding; k++)
        any += has_column(o, finding[k].at);
    if (any) report_html(h, "<p>Beyond two standard errors ");
    for (const model *x = o->model; any && x < base; x++) {
        int above = 0;
        for (size_t k = 0; k < sizeof finding / sizeof *finding; k++) {
            int c = finding[k].at;
            above += has_column(o, c) && above_plain(o, x, c) > 0;
        }
        const char *link = x + 1 < base ? ", " : " and ";
        if (x == o->model) link = "";
        report_html(h, "%s<b>%s</b> is above what nobody has trained in %d of %d measures", link,
                    x->label, above, any);
    }
    if (any) report_html(h, ".</p>\n");
    else if (!a->classes && !a->masks)
        report_html(h, "<p>No label says anything about these pictures, so nothing is measured. "
                       "What there is to see: where the networks look, and which pictures they "
                       "take for alike.</p>\n");
}

/* A number and its standard error, where there is one (of one picture there is none). */
static void report_number(report *h, const double *value)
{
    report_html(h, isfinite(value[1]) ? " %.3f &plusmn; %.3f" : " %.3f", value[0], value[1]);
}

/* Each measure in words, of each network beside the best of those that nobody has trained. */
static void report_words(report *h, const settings *o)
{
    const model *base = o->model + o->models;
    report_html(h, "<p>");
    for (size_t k = 0; k < sizeof finding / sizeof *finding; k++) {
        int c = finding[k].at;
        int share = c == KNN || c == PROBE;
        const char *of = share ? " of the pictures with" : " for";
        const model *best = best_plain(o, c);
        if (!has_column(o, c)) continue;
        report_html(h, "%s", finding[k].says);
        for (const model *x = o->model; x < base; x++) {
            report_html(h, x > o->model ? "," : "");
            report_number(h, x->value + c);
            report_html(h, "%s %s%s", of, x->label, report_sign[1 + above_plain(o, x, c)]);
        }
        if (best) {
            report_html(h, "; the best baseline, %s, has", best->label);
            report_number(h, best->value + c);
        }
        report_html(h, ".<br>\n");
    }
    report_html(h, "</p>\n<p class=\"soft\">&#9650; and &#9660;: more than two standard errors of "
                   "the difference above or below the best of what nobody has trained, as if the "
                   "two had been measured on different pictures. Less is no difference that can be "
                   "told from chance.</p>\n");
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
        {AUC, 1, "Binary-AUC"},
    };
    int count = (int)(sizeof shows / sizeof *shows);
    int any = 0;
    char cells[2048] = "weights";
    for (int k = 0; k < count; k++) {
        if (!has_column(o, shows[k].at)) continue;
        snprintf(cells + strlen(cells), sizeof cells - strlen(cells), "|%s", shows[k].head);
        any = 1;
    }
    if (!any) return;
    report_html(h, "<h2>Measures</h2>\n");
    report_words(h, o);
    report_table(h, cells);
    for (const model *x = o->model; x < last(o); x++) {
        if (!has_row(x, COST, BESIDE)) continue;
        snprintf(cells, sizeof cells, "%s", x->label);
        for (int k = 0; k < count; k++) {
            double v = x->value[shows[k].at];
            double e = shows[k].error ? x->value[shows[k].at + 1] : NAN;
            char *at = cells + strlen(cells);
            size_t room = sizeof cells - strlen(cells);
            if (!has_column(o, shows[k].at)) continue;
            if (!isfinite(v)) snprintf(at, room, "|-");
            else if (!isfinite(e)) snprintf(at, room, "|%.3f", v);
            else {
                int above = above_plain(o, x, shows[k].at);
                snprintf(at, room, "|%.3f ± %.3f%s", v, e, report_sign[1 + above]);
            }
        }
        report_row(h, "%s", cells);
    }
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">Behind &plusmn; stands one standard error: binomial of "
                   "shares, of the mean over the pictures of Binary-AUC, of mIoU by the jackknife "
                   "over pictures. Balanced: mean over the classes of their shares.");
    if (o->ask & ASK_KNN)
        report_html(h, " k-NN: the 20 nearest by the cosine of the class tokens vote, with weight "
                    "e<sup>cosine/0.07</sup>; %zu pictures are judged by %s.", a->vote.tests,
                    a->vote.trains ? "train pictures" : "all others");
    if (o->ask & ASK_PROBE)
        report_html(h, " Linear probe: a linear head by SGD on the class token%s, features "
                       "brought to mean 0 and deviation 1; %zu pictures teach, %zu are judged; the "
                       "rate is chosen on a tenth of the teaching ones.",
                    o->blocks_read > 1 ? "s of the last blocks" : "", a->teach.trains,
                    a->teach.tests);
    size_t kinds = 0;
    for (int c = 0; c < DENSE_VOID; c++) kinds += a->seen[c];
    if (o->ask & ASK_SEG)
        report_html(h, " mIoU: a linear head on the patches' features, %zu pictures teach it with "
                       "masks of %d x %d pixels, %zu are judged at %zu x %zu; %zu classes with the "
                       "ground.",
                    a->segment.trains, DENSE_SIDE, DENSE_SIDE, a->segment.tests, o->size, o->size,
                    kinds);
    report_html(h, " Baselines go through the same calls: %d x %d x 3 pixels; a joint histogram "
                   "of %d levels of red, green and blue; histograms of the edges' directions in %d "
                   "x %d cells; always the commonest class of those that teach, of pixels always "
                   "ground; of maps nearness to the middle.</p>\n",
                PLAIN_SIDE, PLAIN_SIDE, PLAIN_LEVELS, PLAIN_CELLS, PLAIN_CELLS);
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
    report_html(h, "<p class=\"soft\">FLOPs: two for a multiply-add, of %zu x %zu pixels. Time: "
                   "the forward pass alone, %d at once, without the first batch. Memory: the most "
                   "that the library held, weights and their packed copies among it.</p>\n<ul "
                   "class=\"soft\">\n",
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
                   "pictures. Differences are narrow less float on the same pictures, &plusmn; "
                   "one standard error of that difference.</p>\n");
}

static void report_auc(report *h, const settings *o, const album *a)
{
    report_plot roc;
    double at[ROC_POINTS], rate[MODELS + 1][ROC_POINTS];
    const model *end = o->model + o->models + MIDDLE;
    memset(&roc, 0, sizeof roc);
    roc.x_label = "share of the ground above the threshold";
    roc.y_label = "share of the objects";
    roc.caption = "Mean ROC curves of the maps.";
    roc.high = roc.square = roc.diagonal = 1;
    report_html(h, "<h2>Binary-AUC: do maps tell objects from background?</h2>\n");
    report_lines(h, o, AUC, BESIDE);
    report_html(h, "<p class=\"soft\">Area A under the ROC curve of the class token's map "
                   "(DinoMamba-Reg: of the registers' mean) against the mask, max(A, 1 - A), never "
                   "below &frac12;: mean over the pictures that have both object and background, "
                   "and its standard error. Object brighter: share of the pictures with A &ge; "
                   "&frac12;. Best IoU: intersection over union of map &ge; threshold and object, "
                   "mean over the pictures, at the best of %d thresholds, one for all, 0 being the "
                   "whole picture; with a minus the map is turned round first. Nearness to the "
                   "middle: a map that has looked at no picture.</p>\n",
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
    default: return "a linear head's classes for the patches, a colour for each";
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

static void report_pictures(report *h, const settings *o, const album *a, const model *one,
                            uint8_t *rgb)
{
    tile t[TILES];
    size_t tiles = tiles_of(o, a, one, t);
    /* all in one row of the page, if they can be */
    int side = (int)fmax(72, fmin(SIDE, 1080 / (double)tiles - 5));
    report_html(h, "<div class=\"wide\"><table class=\"pictures\">\n<tr>");
    for (size_t k = 0; k < tiles; k++) report_html(h, "<th>%s</th>", t[k].head);
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
            report_html(h, "</td>");
        }
        report_html(h, "<td class=\"soft\">");
        report_text(h, a->classes ? a->class_name[p->label] : "");
        report_html(h, "</td>");
    }
    report_html(h, "</tr></table></div>\n<p class=\"soft\">Maps run from violet (0) over green to "
                   "yellow (1). How they were made:");
    for (size_t k = 1; k < tiles; k++) {
        report_html(h, "<br>\n%s: ", t[k].head);
        report_text(h, t[k].how);
    }
    report_html(h, "</p>\n");
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
        rows = ", the token that is read, both directions' mean, sizes without sign";
    if (x->config.mixer == MMIX_MIXER_SSD && x->registers)
        rows = ", the mean of the registers' and both directions' rows, sizes without sign";
    report_html(h, "<h2>%s: what the class token reads, head by head</h2>\n<div "
                   "class=\"wide\"><table class=\"pictures\">\n<tr><th>picture</th>",
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
    report_html(h, "</tr></table></div>\n<p class=\"soft\">Above: the class token's row of the "
                   "last block's M%s, from violet (0) to yellow (the head's largest). Below: lit "
                   "are the fewest patches that hold 60%% of the head's mass, as DINO's authors "
                   "show it.%s</p>\n",
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
    report_html(h, "<h2>%s: the nearest pictures</h2>\n<div class=\"wide\"><table "
                   "class=\"pictures\">\n<tr><th>picture</th>", x->label);
    for (int k = 0; k < ALIKE; k++) report_html(h, "<th>%s</th>", k ? "" : "nearest");
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
            if (k >= 0) report_html(h, "%.3f ", x->shown[i].cosine[k]);
            report_text(h, a->classes ? a->class_name[a->at[at].label] : "");
            report_html(h, "</td>");
            view_free(&v);
        }
    }
    report_html(h, "</tr></table></div>\n<p class=\"soft\">Cosine of the class tokens%s; squares "
                   "from the middle of the pictures.</p>\n",
                a->all > a->count ? "; found among the train pictures" : "");
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
    report_html(h, "<p>%zu pictures %s", a->count, o->images ? "of " : "");
    report_text(h, o->images ? o->images : "drawn by scenes.h");
    if (a->all > a->count) report_html(h, " and %zu to learn from", a->all - a->count);
    if (o->whole) report_html(h, ", whole, the shorter side %zu pixels.</p>\n", o->size);
    else if (!o->images) report_html(h, ", %zu x %zu pixels.</p>\n", o->size, o->size);
    else if (o->square) report_html(h, ", the square in the middle as %zu x %zu pixels.</p>\n",
                                    o->size, o->size);
    else report_html(h, ", the shorter side brought to %zu, of that the middle %zu x %zu "
                        "pixels.</p>\n",
                     (o->size * 256 + 112) / 224, o->size, o->size);
    for (const model *x = o->model; x < o->model + o->models; x++)
        if (!x->file) report_html(h, "%s%s", random++ ? ", " : "<p><b>Random weights:</b> ",
                                  x->name);
    if (random) report_html(h,
                            ". Nothing is trained there: what is seen is what the architecture "
                            "alone makes of the pixels.</p>\n");
    report_html(h, "<p class=\"soft\">%s, seed %" PRIu64 ", %d threads, %s.</p>\n", date, o->seed,
                mmix_threads(m), mmix_simd_name(m));
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
    report_html(&h, "<h2>Pictures, feature maps and principal components</h2>\n");
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
    if (o->patches) patches = ", NAME-patches.npy (pictures, patches, D)";
    if (o->patches && o->whole) patches = ", NAME-patches.npy (patches of all pictures, D)";
    report_html(&h, "<h2>Files</h2>\n<p class=\"soft\">NAME-token.npy (%zu, D)%s and, of "
                "registers, NAME-registers.npy (%zu, k, D), a row for each line of "
                "pictures.txt.%s</p>\n",
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
