/* linear_report.h - what linear.c has found, on stdout, as JSON and as a page

   A part of linear.c, which includes it behind its own types.

   Sections: results · report. */
#ifndef LINEAR_REPORT_H
#define LINEAR_REPORT_H

/* ---- results --------------------------------------------------------------------------------- */

/* The name in JSON, the head on stdout and in the report. */
enum { COST = 8, WORTH = 13 };
static const report_column value_of[WORTH] = {
    {"cosine_token", "cos cls", "cosine, class token", 7, 3},
    {"cosine_patches", "patches", "cosine, patches", 7, 3},
    {"relative_error", "error", "relative error", 6, 3},
    {"balanced", "k-NN", "k‑NN, balanced", 6, 3},
    {"balanced_95", "+-95%", REPORT_95, 5, 3},
    {"knn", "plain", "k‑NN, plain", 6, 3},
    {"probe", "probe", "probe, balanced", 6, 3},
    {"probe_95", "+-95%", REPORT_95, 5, 3},
    {"miou", "mIoU", "mIoU", 6, 3},
    {"miou_95", "+-95%", REPORT_95, 5, 3},
    {"auc", "AUC", "Binary-AUC", 6, 3},
    {"auc_95", "+-95%", REPORT_95, 5, 3},
    {"auc_judged", "maps", "maps judged", 5, 0},
};
static const report_column cost[COST] = {
    {"patches", "patches", "patches", 8, 0},
    {"gflops", "GFLOP", "GFLOPs", 9, 2},
    {"seconds", "seconds", "seconds", 9, 4},
    {"processor_seconds", "processor", "processor, s", 9, 4},
    {"pictures_per_second", "pict/s", "pictures a second", 9, 3},
    {"times", "times", "times the teacher’s speed", 6, 2},
    {"peak_mib", "MiB", "peak MiB", 7, 1},
    {"weights_mib", "weights", "of them weights", 7, 1},
};
static void worths(const worth *w, double value[WORTH])
{
    const double all[WORTH] = {w->like.token, w->like.patches, w->like.error, w->knn.balanced,
                               report_half * w->knn.balanced_error,
                               w->knn.value, w->probe.balanced,
                               report_half * w->probe.balanced_error,
                               w->masks.value, report_half * w->masks.error,
                               maps_auc(&w->auc), report_half * maps_error(&w->auc),
                               w->auc.judged ? (double)w->auc.judged : NAN};
    memcpy(value, all, sizeof all);
}
/* Times are of the processor's, which others on the machine don't change. */
static void costs(const price *x, const price *teacher, double value[COST])
{
    const double all[COST] = {x->patches, x->flops / 1e9, x->seconds, x->processor, 1 / x->seconds,
                              teacher->processor / x->processor, x->bytes / 1048576,
                              x->weights / 1048576};
    memcpy(value, all, sizeof all);
}

/* The pairs: the name in JSON, the head on stdout and in the report. */
static const struct {
    const char *key, *text, *head;
} pair_of[PAIRS] = {
    {"balanced", "k-NN", "k‑NN, balanced"},
    {"probe", "probe", "probe, balanced"},
    {"miou", "mIoU", "mIoU"},
    {"auc", "AUC", "Binary-AUC"},
};
/* The students less the teacher: the difference and its interval. */
static void print_against(const worth *w)
{
    printf("\nless the teacher");
    for (int i = 0; i < PAIRS; i++) printf(" %-25s", pair_of[i].text);
    for (int k = BEFORE; k < NETWORKS; k++) {
        printf("\n%-16s", network_name[k]);
        for (int i = 0; i < PAIRS; i++) {
            const gap *c = &w[k].against[i];
            if (isfinite(c->off)) printf(" %+.3f (%+.3f to %+.3f) ", c->off, c->low, c->high);
            else printf(" %-25s", "-");
        }
    }
    printf("\n(differences on the same pictures, with their 95 %% intervals)\n\n");
}
static void json_against(const worth *w)
{
    static const char *const end[3] = {"", "_low", "_high"};
    for (int i = 0; i < PAIRS; i++) {
        const gap *c = &w->against[i];
        const double value[3] = {c->off, c->low, c->high};
        for (int k = 0; k < 3; k++) {
            char key[64];
            snprintf(key, sizeof key, "%s_less_teacher%s", pair_of[i].key, end[k]);
            report_json(key, value[k], i + 1 < PAIRS || k < 2 ? ", " : "}");
        }
    }
}

/* Of x (sizes, networks), the first network being the teacher. */
static void print_costs(const price *x, size_t sizes, size_t networks, const char *const *name)
{
    double value[COST];
    char row[40];
    report_columns_text(cost, COST, "cost                    ", NULL);
    for (size_t i = 0; i < sizes * networks; i++) {
        costs(&x[i], &x[i / networks * networks], value);
        snprintf(row, sizeof row, "%5.0f %-18s", x[i].pixels, name[i % networks]);
        report_columns_text(cost, COST, row, value);
    }
}
static void json_costs(const price *x, size_t sizes, size_t networks, const char *const *name)
{
    double value[COST];
    printf("\"costs\": [");
    for (size_t i = 0; i < sizes * networks; i++) {
        printf("%s\n  {\"network\": \"%s\", ", i ? "," : "", name[i % networks]);
        report_json("pixels", x[i].pixels, ", ");
        costs(&x[i], &x[i / networks * networks], value);
        for (int c = 0; c < COST; c++)
            report_json(cost[c].key, value[c], c + 1 < COST ? ", " : "}");
    }
    printf("]");
}

static const char *const pair_name[2] = {"teacher", "student"};
static void print_table(const settings *o, const run *r, const worth *w, const price *x)
{
    double value[WORTH];
    char name[32];
    report_columns_text(value_of, WORTH, "worth          ", NULL);
    for (int k = 0; k < NETWORKS; k++) {
        worths(&w[k], value);
        snprintf(name, sizeof name, "%-15s", network_name[k]);
        report_columns_text(value_of, WORTH, name, value);
    }
    print_against(w);
    print_costs(x, LOOKS, 2, pair_name);
    if (o->kind != AUTO) return;
    printf("\ntried         ");
    for (int k = 0; k < KINDS; k++) printf(" %8s", kind[k].name);
    for (size_t b = 0; b < mmix_vision_config_of(r->teacher)->depth; b++) {
        printf("\nblock %-8zu", b + 1);
        for (int k = 0; k < KINDS; k++) printf(" %8.3f", r->tried[k][b]);
        printf("  %s", kind[kind_of(o, b)].name);
    }
    printf("\n");
}

static void print_json(const settings *o, const run *r, const worth *w, const price *x,
                       const pictures *p)
{
    double value[WORTH];
    const size_t depth = mmix_vision_config_of(r->teacher)->depth;
    printf("{\"train\": %zu, \"test\": %zu, \"mixer\": \"%s\", \"size\": %zu, \"steps\": %zu, ",
           p->train.count, p->test.count, kind[o->kind].name, o->size, r->done);
    report_json("seconds", r->seconds, ",\n \"networks\": [");
    for (int k = 0; k < NETWORKS; k++) {
        printf("%s\n  {\"network\": \"%s\", ", k ? "," : "", network_name[k]);
        worths(&w[k], value);
        for (int c = 0; c < WORTH; c++) report_json(value_of[c].key, value[c], ", ");
        json_against(&w[k]);
    }
    printf("],\n ");
    json_costs(x, LOOKS, 2, pair_name);
    printf(",\n \"blocks\": [");
    for (size_t b = 0; b < depth; b++) {
        printf("%s\n  {\"block\": %zu, \"mixer\": \"%s\", ", b ? "," : "", b + 1,
               kind[kind_of(o, b)].name);
        for (int k = 0; k < KINDS && o->kind == AUTO; k++) {
            char key[24];
            snprintf(key, sizeof key, "tried_%s", kind[k].name);
            report_json(key, r->tried[k][b], ", ");
        }
        report_json("before", w[BEFORE].like.block[b], ", ");
        report_json("after", w[AFTER].like.block[b], "}");
    }
    printf("],\n \"points\": [");
    for (size_t i = 0; i < r->plotted; i++) {
        printf("%s\n  {", i ? "," : "");
        report_json("step", r->point[0][i], ", ");
        report_json("relative_error", r->point[1][i], ", ");
        report_json("cosine_token", r->point[2][i], ", ");
        report_json("cosine_patches", r->point[3][i], "}");
    }
    printf("]}\n");
}

/* ---- report ---------------------------------------------------------------------------------- */

static size_t replaced(const settings *o, size_t depth)  /* blocks without attention */
{
    size_t n = 0;
    for (size_t b = 0; b < depth; b++) n += !o->keep[b];
    return n;
}

/* A row of the finding: what it asks; student after, teacher, student before; and what that says.
   half, the halves of the intervals, and w are NULL where there are none; `pair` is what the
   networks are compared in. */
static void report_asked(report *h, const char *asks, const double *value, const double *half,
                         const worth *w, int pair)
{
    static const char *const says[3] = {"below the teacher", "level with the teacher",
                                        "above the teacher"};
    static const int order[NETWORKS] = {AFTER, TEACHER, BEFORE};
    report_html(h, "<tr><td>%s</td>", asks);
    for (int i = 0; i < NETWORKS; i++) {
        int k = order[i];
        report_html(h, k == AFTER ? "<td><b>%.3f</b>" : "<td>%.3f", value[k]);
        report_html(h, half ? " &plusmn; %.3f</td>" : "</td>", half ? half[k] : 0);
    }
    int worse = value[AFTER] < value[BEFORE];
    report_html(h, "<td class=\"soft\">");
    if (w) {
        const gap *off = &w->against[pair];
        worse = gap_sign(&w->since[pair]) < 0;
        if (isfinite(off->off))
            report_html(h, "%s%s", says[1 + gap_sign(off)], worse ? ", " : "");
    }
    report_html(h, "%s</td></tr>\n", worse ? "<b>worse than before learning</b>" : "");
}

static void report_finding(report *h, const settings *o, const run *r, const worth *w,
                           const price *x)
{
    const size_t depth = mmix_vision_config_of(r->teacher)->depth;
    const price *largest = x + 2 * (LOOKS - 1);
    double value[4][NETWORKS], half[2][NETWORKS];
    for (int k = 0; k < NETWORKS; k++) {
        value[0][k] = w[k].like.patches;
        value[1][k] = w[k].like.token;
        value[2][k] = w[k].knn.balanced;
        half[0][k] = report_half * w[k].knn.balanced_error;
        value[3][k] = w[k].auc.judged ? maps_auc(&w[k].auc) : NAN;
        half[1][k] = w[k].auc.judged ? report_half * maps_error(&w[k].auc) : NAN;
    }
    report_html(h, "<p>With %s in the place of attention in %zu of %zu blocks, a student learned "
                   "for %.1f minutes to give the features of its teacher. It is the same network "
                   "with the teacher&rsquo;s weights, and its cost grows with the number of "
                   "patches where attention is gone, not with its square. At %.0f x %.0f pixels it "
                   "takes <b>%.2f</b> of the teacher&rsquo;s time, at %.0f x %.0f "
                   "<b>%.2f</b>.</p>\n",
                kind[o->kind].title, replaced(o, depth), depth, r->seconds / 60, x->pixels,
                x->pixels, x[1].processor / x->processor, largest->pixels, largest->pixels,
                largest[1].processor / largest->processor);
    if (report_few(r->steps))
        report_html(h, "<p><b>%zu steps: %s</b></p>\n", r->steps, report_few(r->steps));
    report_html(h, "<div class=\"wide\"><table class=\"asked\">\n<tr><th>on test "
                   "pictures</th><th>student after</th><th>teacher</th><th>student "
                   "before</th><th></th></tr>\n");
    report_asked(h, "Likeness of patch tokens to the teacher&rsquo;s (cosine; 1 is the same "
                    "direction)", value[0], NULL, NULL, 0);
    report_asked(h, "Likeness of class tokens to the teacher&rsquo;s", value[1], NULL, NULL, 0);
    if (isfinite(value[2][AFTER]))
        report_asked(h, "Class named rightly by the nearest neighbours, mean over the classes "
                        "(k-NN)", value[2], half[0], &w[AFTER], PAIR_KNN);
    if (isfinite(value[3][AFTER]))
        report_asked(h, "Objects told from background by the class token&rsquo;s map; chance is "
                        "0.5 (Binary-AUC)", value[3], half[1], &w[AFTER], PAIR_AUC);
    report_html(h, "</table></div>\n<p class=\"soft\">Behind &plusmn; stands half of a 95&nbsp;%% "
                   "interval. What is called below, above or worse: there the 95&nbsp;%% interval "
                   "of the difference on the same pictures leaves 0 out. Level: it holds 0, and "
                   "the difference cannot be told from chance.</p>\n");
}

static void report_maps(report *h, const worth *w, const pictures *p)
{
    const size_t pixels = p->size * p->size;
    const size_t map = (size_t)MAP_SIDE * MAP_SIDE * 3;
    report_html(h, "<h2>Where patches resemble the class token</h2>\n<div class=\"wide\"><table "
                   "class=\"pictures small\"><tr><th>picture</th>");
    for (int k = 0; k < NETWORKS; k++) report_html(h, "<th>%s</th>", network_name[k]);
    for (size_t i = 0; i < SHOWN && i < p->test.count; i++) {
        const size_t at = shown(p, i);
        const char *name = p->classes ? p->class_name[p->test.label[at]] : "";
        report_html(h, "</tr>\n<tr><td class=\"soft\">");
        report_picture(h, p->test.rgb + at * pixels * 3, p->size, p->size, 112, name);
        report_text(h, name);
        for (int k = 0; k < NETWORKS; k++) {
            report_html(h, "</td><td>");
            report_picture(h, w[k].map + i * map, MAP_SIDE, MAP_SIDE, 112, network_name[k]);
        }
    }
    report_html(h, "</td></tr></table></div>\n<p class=\"soft\">These are test pictures, cut "
                   "square, at %zu x %zu pixels. A map shows how much each patch resembles the "
                   "class token, which stands for the whole picture: the cosine of the two after "
                   "the final norm, from its least (violet) to its greatest (yellow), smoothed "
                   "between the patches.</p>\n", p->size, p->size);
}

/* Seconds and memory of teacher and student against the patches. */
static void report_costs(report *h, const price *x, int threads)
{
    static double patches[LOOKS], y[2][2][LOOKS];
    double value[COST];
    report_plot plot[2];
    memset(plot, 0, sizeof plot);
    plot[0].y_label = "seconds a picture";
    plot[1].y_label = "MiB of memory";
    plot[0].caption = "Time of the processor, all threads together, against the number of patches; "
                      "both axes are logarithmic.";
    plot[1].caption = "Memory at its peak, weights and picture included.";
    for (size_t i = 0; i < LOOKS; i++) patches[i] = x[2 * i].patches;
    for (int k = 0; k < 2; k++) {
        plot[k].x_label = "patches";
        plot[k].log_x = plot[k].log_y = 1;
        for (int n = 0; n < 2; n++) {
            for (size_t i = 0; i < LOOKS; i++)
                y[k][n][i] = k ? x[2 * i + (size_t)n].bytes / 1048576 :
                    x[2 * i + (size_t)n].processor;
            report_curve c = {pair_name[n], patches, y[k][n], LOOKS, n, 0};
            plot[k].curve[plot[k].curves++] = c;
        }
    }
    report_html(h, "<h2>What it costs</h2>\n<div class=\"row\">\n");
    for (int k = 0; k < 2; k++) report_chart(h, &plot[k]);
    report_html(h, "</div>\n");
    report_columns_html(h, cost, COST, "network", NULL, NULL);
    for (size_t i = 0; i < 2 * LOOKS; i++) {
        char name[48];
        snprintf(name, sizeof name, "%s, %.0f x %.0f", pair_name[i % 2], x[i].pixels, x[i].pixels);
        costs(&x[i], &x[i / 2 * 2], value);
        report_columns_html(h, cost, COST, name, value, NULL);
    }
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">All numbers are those of one picture. A multiply-add counts "
                   "as two FLOPs. Seconds are the least of up to three passes with %d thread%s. "
                   "Processor is the time of all threads together, which other programs on the "
                   "machine change little; speeds are compared by it.</p>\n", threads,
                threads > 1 ? "s" : "");
}

/* The students less the teacher, measure by measure. */
static void report_against(report *h, const worth *w)
{
    char cells[512] = "less the teacher";
    for (int i = 0; i < PAIRS; i++)
        snprintf(cells + strlen(cells), sizeof cells - strlen(cells), "|%s", pair_of[i].head);
    report_table(h, cells);
    for (int k = BEFORE; k < NETWORKS; k++) {
        snprintf(cells, sizeof cells, "%s", network_name[k]);
        for (int i = 0; i < PAIRS; i++) {
            const gap *c = &w[k].against[i];
            char *at = cells + strlen(cells);
            size_t room = sizeof cells - strlen(cells);
            if (!isfinite(c->off)) snprintf(at, room, "|-");
            else snprintf(at, room, "|%+.3f (%+.3f to %+.3f)%s", c->off, c->low, c->high,
                          report_sign[1 + gap_sign(c)]);
        }
        report_row(h, "%s", cells);
    }
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">In brackets stands the 95&nbsp;%% interval of the "
                   "difference. Both networks were judged on the same pictures. These are drawn "
                   "anew with replacement, the same for both, %d times (a bootstrap), and "
                   "95&nbsp;%% of the differences lie in the interval. &#9650; and &#9660; mark "
                   "where it lies above or below 0.</p>\n", PAIR_DRAWS);
}

static void report_tables(report *h, const worth *w)
{
    double value[WORTH];
    report_html(h, "<h2>What the features are worth</h2>\n");
    report_columns_html(h, value_of, WORTH, "network", NULL, NULL);
    for (int k = 0; k < NETWORKS; k++) {
        worths(&w[k], value);
        report_columns_html(h, value_of, WORTH, network_name[k], value, NULL);
    }
    report_table(h, NULL);
    report_html(h, "<ul class=\"soft\">\n<li>Cosine: between the student&rsquo;s and the "
                   "teacher&rsquo;s tokens after the final norm, means over at most %d test "
                   "pictures.</li>\n<li>Relative error: the mean square of what patch tokens "
                   "differ by, over the mean square of the teacher&rsquo;s.</li>\n<li>k-NN: the "
                   "share of the test pictures whose class the 20 nearest of the other test "
                   "pictures name (class token, cosine, temperature 0.07). Balanced: the mean over "
                   "the classes.</li>\n"
                   "<li>Probe: the share whose class a linear head on class tokens names, learned "
                   "from at most %d training pictures.</li>\n", COMPARED, TAUGHT);
    report_html(h, "<li>mIoU: a linear head on patch tokens tells object and background. What it "
                   "has in common with each is divided by what the two cover together; the mean of "
                   "both. It learns from every second of at most %d test pictures with masks and "
                   "is judged on the others.</li>\n<li>Binary-AUC: the area A under the ROC curve "
                   "of a map, as drawn above, against the mask, or 1 &minus; A where that is more; "
                   "the mean over the pictures.</li>\n<li>Behind &plusmn; stands half of a "
                   "95&nbsp;%% interval over the pictures, that of each network by itself; what "
                   "two differ by is in the next table.</li>\n</ul>\n", SEGMENTED);
    report_against(h, w);
}

static void report_tried(report *h, const settings *o, const run *r)
{
    report_html(h, "<h2>Which mixer comes nearest</h2>\n");
    report_table(h, "block|M-MATE|Flex-MA|Local-Swin|linear attention|taken");
    for (size_t b = 0; b < mmix_vision_config_of(r->teacher)->depth; b++)
        report_row(h, "%zu|%.3f|%.3f|%.3f|%.3f|%s", b + 1, r->tried[0][b], r->tried[1][b],
                   r->tried[2][b], r->tried[3][b], kind[kind_of(o, b)].title);
    report_table(h, NULL);
    report_html(h, "<p class=\"soft\">Each mixer learned alone for a short time in each block, "
                   "from what the teacher&rsquo;s block reads. The numbers are the relative errors "
                   "of what it gives, on test pictures; the least is taken.</p>\n");
}

static void report_curves(report *h, const run *r, const worth *w)
{
    static double block[MMIX_VISION_BLOCKS];
    const size_t depth = mmix_vision_config_of(r->teacher)->depth;
    report_plot loss, like, error, blocks;
    size_t at = 0;
    memset(&loss, 0, sizeof loss);
    loss.x_label = "step";
    like = error = blocks = loss;
    loss.y_label = "loss";
    loss.caption = "Each stage has a loss of its own, so one curve cannot be compared with the "
                   "next: first that of mixers on the teacher's inputs, then of blocks one behind "
                   "the other, at last of class and patch tokens. Batches of large and small crops "
                   "differ, so curves are rough.";
    for (size_t k = 0; k < STAGES; at += r->distill->config.stage[k++].steps) {
        report_curve c = {stage_name[k], r->x + at, r->loss + at, r->distill->config.stage[k].steps,
                          (int)k, 0};
        if (c.count) loss.curve[loss.curves++] = c;
    }
    like.y_label = "mean cosine";
    like.caption = "How alike the student's and the teacher's tokens are, on test pictures: at the "
        "start, after each fifth of the steps and after each stage.";
    error.y_label = "relative error";
    error.caption = "By how much the patch tokens differ, on the same pictures.";
    report_curve token = {"class token", r->point[0], r->point[2], r->plotted, 0, 0};
    report_curve patches = {"patches", r->point[0], r->point[3], r->plotted, 1, 0};
    report_curve off = {"patches", r->point[0], r->point[1], r->plotted, 1, 0};
    like.curve[like.curves++] = token;
    like.curve[like.curves++] = patches;
    error.curve[error.curves++] = off;
    blocks.x_label = "block";
    blocks.y_label = "relative error";
    blocks.log_y = 1;
    blocks.caption = "By how much the output of each block differs from the teacher's; the errors "
                     "of the blocks before it are in it.";
    for (size_t b = 0; b < depth; b++) block[b] = (double)(b + 1);
    report_curve before = {"before", block, w[BEFORE].like.block, depth, 1, 1};
    report_curve after = {"after", block, w[AFTER].like.block, depth, 0, 0};
    blocks.curve[blocks.curves++] = before;
    blocks.curve[blocks.curves++] = after;
    report_html(h, "<h2>Learning</h2>\n<div class=\"row\">\n");
    report_chart(h, &like);
    report_chart(h, &error);
    report_chart(h, &loss);
    report_chart(h, &blocks);
    report_html(h, "</div>\n");
}

/* 0, or an exit status. */
static int write_report(mmix_ctx *m, const settings *o, const run *r, const worth *w,
                        const price *x, const pictures *p)
{
    const size_t depth = mmix_vision_config_of(r->teacher)->depth;
    const mmix_distill_config *c = &r->distill->config;
    report h;
    char date[32] = "";
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&t));
    if (report_open(&h, o->page, "Attention out of a trained backbone")) return fail("%s", h.error);
    report_finding(&h, o, r, w, x);
    report_maps(&h, w, p);
    report_curves(&h, r, w);
    if (o->kind == AUTO) report_tried(&h, o, r);
    report_tables(&h, w);
    report_costs(&h, x, mmix_threads(m));
    report_html(&h, "<h2>How</h2>\n<p class=\"soft\">The teacher is <code>");
    report_text(&h, o->load);
    report_html(&h, "</code>. Of its %zu blocks ", depth);
    for (size_t b = 0, n = 0; b < depth; b++)
        if (o->keep[b]) report_html(&h, "%s%zu", n++ ? ", " : "", b + 1);
    report_html(&h, "%s keep attention. There are %zu training and %zu test pictures of <code>",
                replaced(o, depth) == depth ? "none" : "", p->train.count, p->test.count);
    report_text(&h, o->images);
    report_html(&h, "</code>. The stages took %zu, %zu and %zu steps of %zu crops, %.0f s in all. "
                    "%s, %d thread%s, %s.</p>\n<p class=\"soft\">Settings: <code>",
                c->stage[0].steps,
                c->stage[1].steps, c->stage[2].steps, o->batch, r->seconds, date, mmix_threads(m),
                mmix_threads(m) > 1 ? "s" : "", mmix_simd_name(m));
    report_text(&h, r->settings);
    report_html(&h, "</code></p>\n");
    if (report_close(&h)) return fail("%s", h.error);
    fprintf(stderr, "report: %s\n", o->page);
    return 0;
}

#endif
