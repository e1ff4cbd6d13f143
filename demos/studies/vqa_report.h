/* vqa_report.h - the page of vqa.c and its figure: what runs have left, and some pictures with
   questions and answers. Include it in vqa.c behind the runs. */
#ifndef VQA_REPORT_H
#define VQA_REPORT_H

/* The runs that `all` makes, and what they are called. */
enum { RUN_TRAINED, RUN_RANDOM, RUN_THREE, RUN_ONE, RUN_NO_HIDDEN, RUN_FLEX, RUN_SWIN, RUNS };
static const char *const run_name[RUNS] = {"trained", "random", "three", "one", "no-hidden",
                                           "flex", "swin"};
static const char *const run_title[RUNS] = {"trained ViT", "random ViT", "three stages",
                                            "one stage", "one stage without L_hid",
                                            "Flex-MA alone, one stage",
                                            "Local-Swin alone, one stage"};

/* What is there of a run: 1, or 0. */
static int run_known(mmix_ctx *m, const settings *o, int run, record *r)
{
    char path[1200];
    path_of(o, run_name[run], ".txt", path);
    memset(r, 0, sizeof *r);
    return there(path) && !read_record(m, path, r);
}

/* ---- tables and curves ----------------------------------------------------------------------- */

static void score_row(report *page, const char *name, size_t learned, const score *s)
{
    double half, share = share_of(s, &half);
    report_row(page, "%s|%zu|%zu|%.1f ± %.1f|%.1f|%.1f|%.1f", name, learned, sum_of(s->asked),
               100 * share, 100 * half,
               100 * (double)s->right[0] / fmax((double)s->asked[0], 1),
               100 * (double)s->right[1] / fmax((double)s->asked[1], 1),
               100 * (double)s->right[2] / fmax((double)s->asked[2], 1));
}
static void learned_table(mmix_ctx *m, const settings *o, report *page)
{
    record r;
    report_table(page, "|learned from, questions|judged on|right, %|yes or no|shape|colour");
    for (int run = RUN_TRAINED; run <= RUN_RANDOM; run++) {
        if (!run_known(m, o, run, &r)) continue;
        if (run == RUN_TRAINED) score_row(page, "the question alone", 0, &r.prior);
        for (size_t i = 0; i < r.scores; i++)
            score_row(page, run_title[run], r.score[i].step * r.batch, &r.score[i]);
    }
    report_table(page, NULL);
}
/* Curves against questions: shares right, or losses. */
typedef struct curves {
    double x[RUNS][STRETCHES + SCORES], y[RUNS][STRETCHES + SCORES];
} curves;
static void right_curve(report_plot *p, curves *c, const record *r, int run)
{
    size_t n = 0;
    for (; n < r->scores; n++) {
        double half;
        c->x[run][n] = (double)(r->score[n].step * r->batch);
        c->y[run][n] = 100 * share_of(&r->score[n], &half);
    }
    report_curve curve = {run_title[run], c->x[run], c->y[run], n, run, 0};
    p->curve[p->curves++] = curve;
}
static void loss_curve(report_plot *p, curves *c, const record *r, int run)
{
    size_t n = 0;
    for (size_t i = 0; i < STRETCHES; i++) {
        if (!r->in[i]) continue;
        c->x[run][n] = ((double)i + 0.5) * (double)(r->total * r->batch) / STRETCHES;
        c->y[run][n++] = r->loss[i] / (double)r->in[i];
    }
    report_curve curve = {run_title[run], c->x[run], c->y[run], n, run, 0};
    p->curve[p->curves++] = curve;
}
static void learned_charts(mmix_ctx *m, const settings *o, report *page, curves *c)
{
    record r;
    report_plot right, loss;
    double half;
    memset(&right, 0, sizeof right);
    memset(&loss, 0, sizeof loss);
    right.x_label = loss.x_label = "questions learned from";
    right.y_label = "right answers, %";
    right.caption = "Questions about pictures never seen.";
    right.low = 0;
    right.high = 100;
    loss.y_label = "loss, nats an answer token";
    loss.caption = "While it learns, on what it learns from.";
    for (int run = RUN_TRAINED; run <= RUN_RANDOM; run++) {
        if (!run_known(m, o, run, &r)) continue;
        right.level = 100 * share_of(&r.prior, &half);
        right.level_name = "the question alone";
        right_curve(&right, c, &r, run);
    }
    report_html(page, "<div class=\"row\">\n");
    report_chart(page, &right);
    for (int run = RUN_TRAINED; run <= RUN_RANDOM; run++)
        if (run_known(m, o, run, &r)) loss_curve(&loss, c, &r, run);
    report_chart(page, &loss);
    report_html(page, "</div>\n");
}
static void student_table(mmix_ctx *m, const settings *o, report *page)
{
    record r;
    int begun = 0;
    report_table(page, "|steps|judged on|right, %|as the teacher, %");
    for (int run = RUN_THREE; run < RUNS; run++) {
        double half, share;
        if (!run_known(m, o, run, &r)) continue;
        share = share_of(&r.teacher, &half);
        if (!begun++) report_row(page, "the teacher|–|%zu|%.1f ± %.1f|100",
                                 sum_of(r.teacher.asked), 100 * share, 100 * half);
        for (size_t i = 0; i < r.scores; i++) {
            const score *s = &r.score[i];
            share = share_of(s, &half);
            report_row(page, "%s: %s|%zu|%zu|%.1f ± %.1f|%.1f", run_title[run], s->name, s->step,
                       sum_of(s->asked), 100 * share, 100 * half,
                       100 * (double)s->same / fmax((double)sum_of(s->asked), 1));
        }
    }
    report_table(page, NULL);
}
static void speed_table(mmix_ctx *m, const settings *o, report *page)
{
    char path[1200];
    timing t[TIMINGS];
    path_of(o, "speed", ".txt", path);
    size_t n = read_timings(m, path, NULL, t);
    if (!n) return;
    report_html(page, "<h2>Time</h2>\n<p>Products of bf16, random features; the encoder sees the "
                "pictures, teacher and student read what it saw.</p>\n");
    report_table(page, "|media tokens|seconds to the first token|tokens a second|remembered, MiB");
    for (size_t i = 0; i < n; i++) {
        if (t[i].who == ENCODER)
            report_row(page, "encoder|%zu|%.2f|–|–", t[i].tokens, t[i].p.read);
        else report_row(page, "%s|%zu|%.2f|%.1f|%.1f", timed_name[t[i].who], t[i].tokens,
                        t[i].p.read, 1 / fmax(t[i].p.step, 1e-9), t[i].p.bytes / 1048576);
    }
    report_table(page, NULL);
}

/* ---- pictures with questions ----------------------------------------------------------------- */

/* What a model says to a question about a picture, greedily: at most 60 bytes. 0, or -1. */
static int answer_to(mmix_ctx *m, const job *j, const projector *p, const mmix_decoder *d,
                     const question *q, char words[61])
{
    enum { MOST = 8 };
    int32_t said[MOST];
    lesson l;
    lesson_plan plan = {&j->e, j->features, "test", &q, 1, 1};
    tokenizer_text text = {NULL, 0, 0};
    mmix_sampling how;
    memset(&how, 0, sizeof how);
    how.stop = tokenizer_chat_end(j->e.t);
    *words = 0;
    if (lesson_make(m, &plan, &l)) return -1;
    l.input.media = project(m, p, l.features);
    l.input.tokens = mmix_slice(m, l.input.tokens, 1, 0,
                                l.L - j->e.answer.at[q->answer].ids.count);
    size_t made = mmix_decoder_generate(m, d, &l.input, &how, said, MOST);
    tokenizer_decode(j->e.t, said, made, TOKENIZER_SAID, &text);
    snprintf(words, 61, "%s", text.at ? text.at : "");
    tokenizer_text_free(&text);
    mmix_reset(m);
    return mmix_error(m) ? -1 : 0;
}
/* A picture of the test, its question, the true answer and what the models say. */
static void picture_cell(mmix_ctx *m, const job *j, report *page, const question *q,
                         const char *const *who, char (*said)[61], int count)
{
    char path[1200], why[512];
    size_t w = 0, h = 0;
    snprintf(path, sizeof path, "%.1000s/test/images/%zu.png", j->o->data, q->picture);
    uint8_t *rgb = picture_pixels(m, path, &w, &h, why, sizeof why);
    report_html(page, "<figure>");
    if (rgb) report_picture(page, rgb, w, h, 150, j->e.words.at[q->words].words);
    if (rgb) picture_pixels_free(path, rgb);
    report_html(page, "<figcaption><b>");
    report_text(page, j->e.words.at[q->words].words);
    report_html(page, "</b><br>true: ");
    report_text(page, j->e.answer.at[q->answer].words);
    for (int i = 0; i < count; i++) {
        report_html(page, "<br>%s: ", who[i]);
        report_text(page, said[i]);
    }
    report_html(page, "</figcaption></figure>\n");
}
/* Some questions of the test, of all kinds: what the model says before and after it learned, and
   its student. 0, or -1. */
static int picture_part_of(mmix_ctx *m, job *j, report *page)
{
    enum { SHOWN = 18, FROM = 100, WHO = 3 };
    static const char *const who[WHO] = {"before", "after", "without attention"};
    const question *q[SHOWN];
    char path[1200], (*said)[WHO][61] = (char (*)[WHO][61])calloc(SHOWN, sizeof *said);
    projector fresh;
    record r;
    int models = 2, kinds[KINDS] = {0, 0, 0};
    size_t n = 0;
    if (!said) return mmix_fail(m, MMIX_ERROR_MEMORY, "no memory for answers");
    for (size_t i = 0; i < FROM && i < j->e.test.count && n < SHOWN; i++) {
        const question *one = test_question(&j->e, i, FROM);
        int kind = kind_of(j->e.answer.at[one->answer].words);
        if (kinds[kind]++ < SHOWN / KINDS) q[n++] = one;
    }
    memset(&r, 0, sizeof r);
    projector_make(m, &fresh, mmix_count(j->p.norm), j->decoder->config.dim);
    path_of(j->o, run_name[RUN_TRAINED], ".safetensors", path);
    if (!restore(m, path, &j->p, NULL, &r)) check_models(j, path, &r);
    path_of(j->o, run_name[RUN_THREE], ".student.safetensors", path);
    if (!mmix_error(m) && there(path)) {
        j->student = mmix_decoder_load(m, path);
        models = WHO;
    }
    for (size_t i = 0; i < n && !mmix_error(m); i++)
        for (int k = 0; k < models; k++)
            answer_to(m, j, k ? &j->p : &fresh, k == 2 ? j->student : j->decoder, q[i],
                      said[i][k]);
    report_html(page, "<h2>Pictures never seen</h2>\n<div class=\"row\">\n");
    for (size_t i = 0; i < n && !mmix_error(m); i++)
        picture_cell(m, j, page, q[i], who, said[i], models);
    report_html(page, "</div>\n");
    mmix_params_destroy(fresh.params);
    free(said);
    return mmix_error(m) ? -1 : 0;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void page_tables(mmix_ctx *m, const settings *o, report *page, curves *c)
{
    record r;
    report_html(page, "<p>A trained ViT and a language model stay as they are; a projector between "
                "them learned from questions and answers. Shares have 95 %% intervals. “The "
                "question alone” gives each question the answer that its words had most often in "
                "what there is to learn from.</p>\n");
    learned_charts(m, o, page, c);
    learned_table(m, o, page);
    if (run_known(m, o, RUN_TRAINED, &r))
        report_html(page, "<p class=\"soft\">%s; %.0f seconds.</p>\n", r.head, r.seconds);
    report_html(page, "<h2>Without attention</h2>\n<p>M-MATE takes the place of attention in the "
                "language model (LinMU, arXiv 2601.01322). It begins with o_proj by least squares "
                "and learns from the same questions.</p>\n");
    student_table(m, o, page);
    if (run_known(m, o, RUN_THREE, &r))
        report_html(page, "<p class=\"soft\">%s; %.0f seconds.</p>\n", r.head, r.seconds);
    speed_table(m, o, page);
}
/* The figure of the documents: right answers against questions. */
static void draw_figure(mmix_ctx *m, const settings *o)
{
    static const char *const paint[2] = {"#2f6fd0", "#c8602a"};
    const double left = 52, top = 40, wide = 420, high = 240;
    record r;
    double most = 1, half, prior = 0;
    for (int run = RUN_TRAINED; run <= RUN_RANDOM; run++)
        if (run_known(m, o, run, &r)) most = fmax(most, (double)(r.total * r.batch));
    FILE *f = svg_open(o->out, "vqa.svg", 720, 330, "");
    svg_text(f, 12, 20, 0, "start", "Right answers to questions about pictures never seen, %%");
    for (int y = 0; y <= 100; y += 20) {
        double at = top + high * (1 - y / 100.0);
        fprintf(f, "<path d=\"M%g %.1fh%g\" stroke=\"#dde2e7\"/>\n", left, at, wide);
        svg_text(f, left - 8, at + 5, 12, "end", "%d", y);
    }
    for (double x = 0, tick = report_tick(most, 5); x <= most * 1.0001; x += tick)
        svg_text(f, left + wide * x / most, top + high + 20, 12, "middle", "%g", x);
    svg_text(f, left + wide / 2, top + high + 40, 13, "middle", "questions learned from");
    for (int run = RUN_TRAINED; run <= RUN_RANDOM; run++) {
        if (!run_known(m, o, run, &r)) continue;
        prior = share_of(&r.prior, &half);
        for (size_t i = 0; i < r.scores; i++) {
            double x = left + wide * (double)(r.score[i].step * r.batch) / most;
            double share = share_of(&r.score[i], &half), y = top + high * (1 - share);
            fprintf(f, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"%s\" stroke-width=\"1.4\"/>\n", x,
                    y - high * half, y + high * half, paint[run]);
            fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, paint[run]);
        }
        fprintf(f, "<circle cx=\"%g\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n", left + wide + 24,
                50 + 24 * run, paint[run]);
        svg_text(f, left + wide + 36, 55 + 24 * run, 13, "start", "%s", run_title[run]);
    }
    double level = top + high * (1 - prior);
    fprintf(f, "<path d=\"M%g %.1fh%g\" stroke=\"#5d6873\" stroke-dasharray=\"4 4\"/>\n", left,
            level, wide);
    svg_text(f, left + wide + 12, level + 5, 12, "start", "the question alone, %.1f", 100 * prior);
    figure_close(f, "</svg>\n");
}
/* An exit status. */
static int make_report(mmix_ctx *m, const settings *o)
{
    job j;
    report page;
    char path[1200];
    curves *c = (curves *)calloc(1, sizeof *c);
    int status = c ? run_ready(m, o, &j) : fail("no memory for curves");
    path_of(o, run_name[RUN_TRAINED], ".txt", path);
    if (!status && !there(path)) status = fail("%s: vqa train writes it", path);
    path_of(o, "report", ".html", path);
    if (!status && report_open(&page, path, "Questions about pictures"))
        status = fail("%s", page.error);
    if (status) {
        free(c);
        return status;
    }
    page_tables(m, o, &page, c);
    if (!mmix_error(m) && !job_ready(&j)) picture_part_of(m, &j, &page);
    if (mmix_error(m)) report_drop(&page);
    else if (report_close(&page)) status = fail("%s", page.error);
    if (!mmix_error(m) && !status) draw_figure(m, o);
    job_free(&j);
    free(c);
    return status;
}

#endif
