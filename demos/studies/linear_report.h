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
    {"balanced", "k-NN", "balanced k-NN", 6, 3},
    {"balanced_95", "+-95%", REPORT_95, 5, 3},
    {"knn", "plain", "k-NN", 6, 3},
    {"probe", "probe", "balanced probe", 6, 3},
    {"probe_95", "+-95%", REPORT_95, 5, 3},
    {"miou", "mIoU", "mIoU", 6, 3},
    {"miou_95", "+-95%", REPORT_95, 5, 3},
    {"auc", "AUC", "Binary-AUC", 6, 3},
    {"auc_95", "+-95%", REPORT_95, 5, 3},
    {"auc_judged", "maps", "maps", 5, 0},
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
    {"balanced", "k-NN", "balanced k-NN"},
    {"probe", "probe", "balanced probe"},
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

static void report_finding(report *h, const settings *o, const run *r, const worth *w,
                           const price *x)
{
    const size_t depth = mmix_vision_config_of(r->teacher)->depth;
    const worth *t = &w[TEACHER];
    const worth *s = &w[AFTER];
    report_html(h, "<p>With %s in the place of attention in %zu of %zu blocks and %.1f minutes of "
                   "learning, patch tokens have a mean cosine of <b>%.3f</b> with the "
                   "teacher&rsquo;s, before learning %.3f, and class tokens of <b>%.3f</b>, before "
                   "%.3f", kind[o->kind].title, replaced(o, depth), depth,
                   r->seconds / 60,
                s->like.patches, w[BEFORE].like.patches, s->like.token, w[BEFORE].like.token);
    if (isfinite(s->knn.balanced))
        report_html(h, "; the nearest neighbours name a picture&rsquo;s class rightly in "
                       "<b>%.1f&nbsp;%%</b> (the mean over the classes), the teacher&rsquo;s in "
                       "%.1f&nbsp;%% (the student&rsquo;s less the teacher&rsquo;s is %+.1f, "
                       "95&nbsp;%% interval %+.1f to %+.1f), before learning in %.1f&nbsp;%%",
                    100 * s->knn.balanced, 100 * t->knn.balanced, 100 * s->against[PAIR_KNN].off,
                    100 * s->against[PAIR_KNN].low, 100 * s->against[PAIR_KNN].high,
                    100 * w[BEFORE].knn.balanced);
    if (s->auc.judged)
        report_html(h, "; Binary-AUC is <b>%.3f</b>, the teacher&rsquo;s %.3f, before learning "
                       "%.3f",
                    maps_auc(&s->auc), maps_auc(&t->auc), maps_auc(&w[BEFORE].auc));
    const price *largest = x + 2 * (LOOKS - 1);
    report_html(h, ". At %.0f x %.0f pixels it takes %.2f of the teacher&rsquo;s time, at %.0f x "
                   "%.0f %.2f.</p>\n",
                x->pixels, x->pixels, x[1].processor / x->processor, largest->pixels,
                largest->pixels, largest[1].processor / largest->processor);
    if (report_few(r->steps))
        report_html(h, "<p><b>%zu steps: %s</b></p>\n", r->steps, report_few(r->steps));
}

static void report_maps(report *h, const worth *w, const pictures *p)
{
    const size_t pixels = p->size * p->size;
    const size_t map = (size_t)MAP_SIDE * MAP_SIDE * 3;
    report_html(h, "<h2>Where patches resemble the class token</h2>\n<div class=\"wide\"><table "
                   "class=\"pictures\"><tr><th>picture</th>");
    for (int k = 0; k < NETWORKS; k++) report_html(h, "<th>%s</th>", network_name[k]);
    for (size_t i = 0; i < SHOWN && i < p->test.count; i++) {
        const size_t at = shown(p, i);
        const char *name = p->classes ? p->class_name[p->test.label[at]] : "";
        report_html(h, "</tr>\n<tr><td>");
        report_picture(h, p->test.rgb + at * pixels * 3, p->size, p->size, 112, name);
        for (int k = 0; k < NETWORKS; k++) {
            report_html(h, "</td><td>");
            report_picture(h, w[k].map + i * map, MAP_SIDE, MAP_SIDE, 112, network_name[k]);
        }
        report_html(h, "</td><td class=\"soft\">");
        report_text(h, name);
    }
    report_html(h, "</td></tr></table></div>\n<p class=\"soft\">Test pictures, cut square, at %zu "
                   "x %zu pixels. Maps: cosine of class token and patch tokens after the final "
                   "norm, each from its least (violet) to its greatest (yellow), "
                   "bilinear.</p>\n", p->size, p->size);
}

/* Seconds and memory of teacher and student against the patches. */
static void report_costs(report *h, const price *x, int threads)
{
    static double patches[LOOKS], y[2][2][LOOKS];
    double value[COST];
    report_plot plot[2];
    memset(plot, 0, sizeof plot);
    plot[0].y_label = "seconds a picture";
    plot[1].y_label = "MiB";
    plot[0].caption = "Of the processor, all threads together.";
    plot[1].caption = "At the peak, weights and picture included.";
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
    report_html(h, "<p class=\"soft\">Of one picture; FLOPs: two for a multiply-add. %d thread%s, "
                   "the least of up to three passes. Processor: the time of all threads together, "
                   "which other programs on the machine change little; times: by "
                   "that.</p>\n", threads, threads > 1 ? "s" : "");
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
    report_html(h, "<p class=\"soft\">In brackets the 95&nbsp;%% interval of the difference: "
                   "both networks were judged on the same pictures, so the pictures are drawn anew "
                   "with replacement, the same for both, %d times (a bootstrap). &#9650; and "
                   "&#9660;: the interval lies above or below 0.</p>\n", PAIR_DRAWS);
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
    report_html(h, "<p class=\"soft\">Of test pictures. Cosines: with the teacher&rsquo;s tokens "
                   "after the final norm, means over at most %d pictures; relative error: mean "
                   "square of what patch tokens differ by over the mean square of the "
                   "teacher&rsquo;s. k-NN: share of the pictures whose class the 20 nearest of the "
                   "other test pictures name (class token, cosine, temperature 0.07); balanced: "
                   "the mean over the classes. Probe: the share whose class a linear head on class "
                   "tokens names, learned from at most %d training pictures. mIoU: of object and "
                   "background, what a linear head on patch tokens has in common with each over "
                   "what the two cover together, mean; learned from every second of at most %d "
                   "test pictures with masks, judged on the others. Binary-AUC: area under the ROC "
                   "curve of a map, as drawn above, against the mask, max(A, 1 - A), mean. "
                   "&plusmn;: half of the 95&nbsp;%% interval over the pictures, 1.96 standard "
                   "errors of each network by itself; what two differ by is in the table "
                   "below.</p>\n", COMPARED, TAUGHT, SEGMENTED);
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
    report_html(h, "<p class=\"soft\">Relative error of what the mixer makes of what the "
                   "teacher&rsquo;s block reads, of test pictures, after it has learned alone for "
                   "a short time.</p>\n");
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
    loss.caption = "Each stage has a loss of its own: what mixers make on the teacher's inputs; "
        "what blocks make, end to end; class and patch tokens. From one curve to the next nothing "
        "can be compared. Batches of large and small crops differ, so curves are rough.";
    for (size_t k = 0; k < STAGES; at += r->distill->config.stage[k++].steps) {
        report_curve c = {stage_name[k], r->x + at, r->loss + at, r->distill->config.stage[k].steps,
                          (int)k, 0};
        if (c.count) loss.curve[loss.curves++] = c;
    }
    like.y_label = "mean cosine";
    like.caption = "With the teacher, of test pictures, at the start, after each fifth and "
        "after each stage.";
    error.y_label = "relative error";
    error.caption = "Of patch tokens, on the same pictures.";
    report_curve token = {"class token", r->point[0], r->point[2], r->plotted, 0, 0};
    report_curve patches = {"patches", r->point[0], r->point[3], r->plotted, 1, 0};
    report_curve off = {"patches", r->point[0], r->point[1], r->plotted, 1, 0};
    like.curve[like.curves++] = token;
    like.curve[like.curves++] = patches;
    error.curve[error.curves++] = off;
    blocks.x_label = "block";
    blocks.y_label = "relative error";
    blocks.log_y = 1;
    blocks.caption = "Of what each block makes, end to end: errors of the blocks before it are in "
                     "it.";
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
    report_html(&h, "<h2>How</h2>\n<p class=\"soft\">Teacher ");
    report_text(&h, o->load);
    report_html(&h, ", %zu blocks, of which ", depth);
    for (size_t b = 0, n = 0; b < depth; b++)
        if (o->keep[b]) report_html(&h, "%s%zu", n++ ? ", " : "", b + 1);
    report_html(&h, "%s keep attention. %zu training and %zu test pictures of ",
                replaced(o, depth) == depth ? "none" : "", p->train.count, p->test.count);
    report_text(&h, o->images);
    report_html(&h, "; %zu, %zu and %zu steps of %zu crops, %.0f s. %s, %d threads, %s.<br><code>",
                c->stage[0].steps,
                c->stage[1].steps, c->stage[2].steps, o->batch, r->seconds, date, mmix_threads(m),
                mmix_simd_name(m));
    report_text(&h, r->settings);
    report_html(&h, "</code></p>\n");
    if (report_close(&h)) return fail("%s", h.error);
    fprintf(stderr, "report: %s\n", o->page);
    return 0;
}

#endif
