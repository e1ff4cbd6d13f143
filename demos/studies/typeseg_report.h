/* typeseg_report.h - typeseg.c's page and figure: the text in colours, what characters read

   Included by typeseg.c alone. Sections: colours · the text · the page · the figure. */
#ifndef TYPESEG_REPORT_H
#define TYPESEG_REPORT_H

/* ---- colours --------------------------------------------------------------------------------- */

/* A light colour for each kind that a text has, in the order of their first stretches: hues are
   golden angles apart, so that neighbours differ. `turn` (KINDS + 1) is -1 for kinds it has not. */
static int turns_of(const kinds *k, int *turn)
{
    int seen = 0;
    for (int i = 0; i <= KINDS; i++) turn[i] = -1;
    for (size_t i = 0; i < k->stretches; i++)
        if (turn[k->list[i].kind] < 0) turn[k->list[i].kind] = seen++;
    return seen;
}
/* "hsl(137,70%,84%)"; `other` is gray. */
static const char *colour_of(const int *turn, int kind, char *out, size_t room)
{
    int hue = (int)fmod(40 + 137.508 * turn[kind], 360);
    snprintf(out, room, kind == OTHER ? "hsl(%d,0%%,85%%)" : "hsl(%d,72%%,84%%)", hue);
    return out;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Characters begin … end - 1 on one line of at most LONGEST, line ends as ⏎, a tab as a blank. */
static void print_line(FILE *f, const text *t, size_t begin, size_t end)
{
    enum { LONGEST = 48 };
    size_t last = end - begin > LONGEST ? begin + LONGEST - 1 : end;
    for (size_t c = begin; c < last; c++) {
        const char *at = t->bytes + t->start[c];
        size_t bytes = t->start[c + 1] - t->start[c];
        if (*at == '\n') fputs("⏎", f);
        else if (bytes == 1 && (unsigned char)*at < 0x20) fputc(' ', f);
        else fwrite(at, 1, bytes, f);
    }
    if (last < end) fputs("…", f);
}

/* Escaped for HTML and SVG. What XML forbids, and with `one_line` what ends a line, is a blank. */
static void write_characters(FILE *f, const text *t, size_t begin, size_t end, int one_line)
{
    for (size_t c = begin; c < end; c++) {
        const char *at = t->bytes + t->start[c];
        int is_end = *at == '\n' || *at == '\t' || *at == '\r';
        int is_control = t->start[c + 1] - t->start[c] == 1 && (unsigned char)*at < 0x20;
        if (is_control && (one_line || !is_end)) fputc(' ', f);
        else report_escape(f, at, t->start[c + 1] - t->start[c]);
    }
}

/* What character c of a row gets, the sum over its bytes. */
static double weight_of(const text *t, const double *row, size_t c)
{
    double sum = 0;
    for (size_t i = t->start[c]; i < t->start[c + 1]; i++) sum += row[i];
    return sum;
}
/* The characters around `at` that a strip shows, and the largest weight of the others. */
typedef struct strip {
    size_t begin, end;
    double top;
} strip;
static strip strip_of(const text *t, const double *row, size_t at, size_t reach)
{
    strip s = {at > reach ? at - reach : 0, at + reach + 1, 0};
    if (s.end > t->count) s.end = t->count;
    for (size_t c = s.begin; c < s.end; c++)
        if (c != at) s.top = fmax(s.top, weight_of(t, row, c));
    return s;
}
/* How dark a character is, 0 … 1: the share of the largest, its root, so that little is seen. */
static double darkness(const text *t, const double *row, const strip *s, size_t c)
{
    return s->top > 0 ? sqrt(fmin(1, weight_of(t, row, c) / s->top)) : 0;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void write_text(report *r, const text *t, const kinds *k)
{
    int turn[KINDS + 1];
    char colour[32];
    turns_of(k, turn);
    fputs("<p class=\"soft\">", r->file);
    for (int i = 0; i <= KINDS; i++)
        if (turn[i] >= 0)
            report_html(r, "<span class=\"kind\" style=\"background:%s\">%s</span> ",
                        colour_of(turn, i, colour, sizeof colour), kind_name[i]);
    fputs("</p>\n<pre class=\"text\">", r->file);
    for (size_t i = 0; i < k->stretches; i++) {
        const stretch *s = &k->list[i];
        report_html(r, "<span class=\"kind\" style=\"background:%s\" title=\"%s %.2f\">",
                    colour_of(turn, s->kind, colour, sizeof colour), kind_name[s->kind],
                    s->confidence);
        write_characters(r->file, t, s->begin, s->end, 0);
        fputs("</span>", r->file);
    }
    fputs("</pre>\n", r->file);
}

static void write_reach(report *r, const look *l)
{
    size_t samples = least_of(l->t->size, SAMPLES);
    report_html(r, "<h2>How far the blocks reach</h2>\n<p>|M<sub>ij</sub>|, the mean over the %d "
                "channels, of %zu rows spread over the text. A row's character reads itself with "
                "the first share. Of the rest, half and nine tenths lie within so many bytes on "
                "either side, and the last share lies before it. The convolution in front of the "
                "scan adds one byte behind and two ahead.</p>\n", (int)WIDTH, samples);
    report_table(r, "block|itself|half within|nine tenths within|before");
    for (int k = 0; k < BLOCKS; k++) {
        const sight *s = &l->blocks[k].mean;
        report_row(r, "%d|%.2f|%.0f|%.0f|%.2f", k + 1, s->itself, s->half, s->most, s->before);
    }
    report_table(r, NULL);
}

static void write_ranks(report *r, const look *l)
{
    if (!l->side) return;
    report_html(r, "<h2>What passes between two halves</h2>\n<p>M of each channel for the %zu "
                "bytes in the middle, cut into 2 x 2 blocks. What a block off the diagonal says "
                "passes through a state of %d numbers, so its rank is at most %d. Singular values "
                "above %zu ε of the largest count for the rank; the effective rank says how many "
                "carry the weight.</p>\n", 2 * l->side, (int)STATE, (int)STATE, l->side);
    report_table(r, "block|largest rank|mean rank|mean effective rank|bound");
    for (int k = 0; k < BLOCKS; k++)
        report_row(r, "%d|%.0f|%.1f|%.2f|%d", k + 1, l->blocks[k].most_rank, l->blocks[k].rank,
                   l->blocks[k].effective, (int)STATE);
    report_table(r, NULL);
}

static void write_rows(report *r, const look *l, size_t s)
{
    enum { AROUND = 60 };
    const text *t = l->t;
    report_html(r, "<h2>What character %zu reads: <code>", l->at[s]);
    write_characters(r->file, t, l->at[s], l->at[s] + 1, 1);
    report_html(r, "</code></h2>\n<p class=\"soft\">The darkest of the others is the one it "
                "reads most in that block; what has a quarter of its weight is half as dark. The "
                "character itself has a frame.</p>\n");
    for (int k = 0; k < BLOCKS; k++) {
        const block_look *b = &l->blocks[k];
        strip of = strip_of(t, b->row[s], l->at[s], AROUND);
        report_html(r, "<p class=\"soft\">block %d: itself %.2f; of the rest half within %.0f, "
                    "nine tenths within %.0f bytes</p>\n<pre class=\"strip\">", k + 1,
                    b->shown[s].itself, b->shown[s].half, b->shown[s].most);
        for (size_t c = of.begin; c < of.end; c++) {
            int is_it = c == l->at[s];
            report_html(r, "<span style=\"%s:rgba(200,96,42,%.2f)\">",
                        is_it ? "outline:1px solid;background" : "background",
                        is_it ? 0 : darkness(t, b->row[s], &of, c));
            write_characters(r->file, t, c, c + 1, 1);
            fputs("</span>", r->file);
        }
        fputs("</pre>\n", r->file);
    }
}

static void write_list(report *r, const text *t, const kinds *k)
{
    enum { MOST_ROWS = 400 };
    report_html(r, "<h2>Stretches</h2>\n<div class=\"wide\"><table>\n");
    report_cells(r, "th", "text|from|to|kind|probability");
    for (size_t i = 0; i < k->stretches && i < MOST_ROWS; i++) {
        const stretch *s = &k->list[i];
        size_t end = s->end - s->begin > 60 ? s->begin + 60 : s->end;
        fputs("<tr><td><code>", r->file);
        write_characters(r->file, t, s->begin, end, 1);
        report_html(r, "</code></td><td>%zu</td><td>%zu</td><td>%s</td><td>%.2f</td></tr>\n",
                    s->begin, s->end, kind_name[s->kind], s->confidence);
    }
    report_table(r, NULL);
    if (k->stretches > MOST_ROWS)
        report_html(r, "<p class=\"soft\">and %zu more</p>\n", k->stretches - MOST_ROWS);
}

/* DIR/report.html. 0, or -1. */
static int write_report(mmix_ctx *m, const char *folder, const text *t, const kinds *k,
                        const look *l)
{
    report r;
    char path[1200];
    snprintf(path, sizeof path, "%s/report.html", folder);
    if (report_open(&r, path, "What kind of text is this?"))
        return mmix_fail(m, MMIX_ERROR_FILE, "%s", r.error);
    report_html(&r, "<style>.kind{color:#1d2329;border-radius:2px}"
                ".text,.strip{white-space:pre-wrap;overflow-wrap:anywhere;"
                "font:13px/1.5 monospace;margin:.2rem 0}</style>\n"
                "<p>A Mamba-1 of %d blocks and %d channels names the kind of each of the %zu bytes "
                "of this text, %zu characters in %zu stretches.</p>\n", (int)BLOCKS, (int)WIDTH,
                t->size, t->count, k->stretches);
    write_text(&r, t, k);
    write_reach(&r, l);
    write_ranks(&r, l);
    for (size_t s = 0; s < l->shown; s++) write_rows(&r, l, s);
    write_list(&r, t, k);
    if (report_close(&r)) return mmix_fail(m, MMIX_ERROR_FILE, "%s", r.error);
    return 0;
}

/* ---- the figure ------------------------------------------------------------------------------ */

/* A line of the text: 12 pixels of monospace have letters of 7.2, and textLength holds other fonts
   to it. */
enum { LETTER_X10 = 72, LINE = 17, LEFT_EDGE = 14, COLUMNS = 84, MOST_LINES = 24, REACH = 29 };
static double column_x(size_t column) { return LEFT_EDGE + (double)(LETTER_X10 * column) / 10; }

static void draw_letters(FILE *f, const text *t, size_t begin, size_t end, size_t column, double y)
{
    fprintf(f, "<text x=\"%g\" y=\"%g\" textLength=\"%g\" xml:space=\"preserve\" font-size=\"12\" "
            "font-family=\"monospace\">", column_x(column), y,
            (double)(LETTER_X10 * (end - begin)) / 10);
    write_characters(f, t, begin, end, 1);
    fputs("</text>\n", f);
}

/* The text's first lines, cut at COLUMNS, each stretch on its colour. Returns where they end. */
static double draw_text(FILE *f, const text *t, const kinds *k, const int *turn, double y)
{
    char colour[32];
    size_t column = 0, lines = 0;
    for (size_t c = 0; c < t->count && lines < MOST_LINES;) {
        if (t->bytes[t->start[c]] == '\n') {
            column = 0;
            lines++;
            c++;
            continue;
        }
        size_t end = c;
        while (end < t->count && k->kind[end] == k->kind[c] && t->bytes[t->start[end]] != '\n'
               && column + end - c < COLUMNS) end++;
        if (end == c) {                                  /* beyond the last column */
            c++;
            continue;
        }
        svg_box(f, column_x(column), y + LINE * (double)lines, column_x(end - c) - LEFT_EDGE, LINE,
                "fill=\"%s\"", colour_of(turn, k->kind[c], colour, sizeof colour));
        draw_letters(f, t, c, end, column, y + LINE * (double)lines + 13);
        column += end - c;
        c = end;
    }
    return y + LINE * (double)(lines + (column > 0));
}

static double draw_legend(FILE *f, const int *turn, double y)
{
    char colour[32];
    double x = LEFT_EDGE;
    for (int i = 0; i <= KINDS; i++) {
        if (turn[i] < 0) continue;
        double wide = 34 + 7 * (double)strlen(kind_name[i]);
        if (x + wide > column_x(COLUMNS)) {
            x = LEFT_EDGE;
            y += 20;
        }
        svg_box(f, x, y, 13, 13, "fill=\"%s\"", colour_of(turn, i, colour, sizeof colour));
        svg_text(f, x + 18, y + 11, 12, "start", "%s", kind_name[i]);
        x += wide;
    }
    return y + 20;
}

/* One line for each block: what the first of the chosen characters reads. */
static double draw_strips(FILE *f, const look *l, double y)
{
    const text *t = l->t;
    svg_text(f, LEFT_EDGE, y + 12, 13, "start", "what the framed character reads in each block; "
             "within how many bytes lie");
    y += 16;
    svg_text(f, LEFT_EDGE, y + 12, 13, "start", "half and 90 %% of what it reads of others");
    y += 22;
    for (int k = 0; k < BLOCKS; k++, y += LINE + 4) {
        const block_look *b = &l->blocks[k];
        strip of = strip_of(t, b->row[0], l->at[0], REACH);
        for (size_t c = of.begin; c < of.end; c++) {
            double dark = darkness(t, b->row[0], &of, c);
            double x = column_x(c - of.begin + 3);
            if (c != l->at[0] && dark >= 0.05)
                svg_box(f, x, y, LETTER_X10 / 10.0, LINE, "fill=\"#c8602a\" fill-opacity=\"%.2f\"",
                        dark);
            if (c == l->at[0])
                svg_box(f, x, y + 0.5, LETTER_X10 / 10.0, LINE - 1,
                        "fill=\"none\" stroke=\"#1d2329\"");
        }
        svg_text(f, LEFT_EDGE, y + 13, 13, "start", "%d", k + 1);
        draw_letters(f, t, of.begin, of.end, 3, y + 13);
        svg_text(f, column_x(COLUMNS), y + 13, 13, "end", "half %.0f, 90 %% %.0f", b->shown[0].half,
                 b->shown[0].most);
    }
    return y;
}

static void draw_figure(const char *folder, const text *t, const kinds *k, const look *l)
{
    int turn[KINDS + 1];
    double height = 0;
    turns_of(k, turn);
    for (int pass = 0; pass < 2; pass++) {               /* the first one says how high it is */
        FILE *f = svg_open(folder, "typeseg.svg", column_x(COLUMNS) + LEFT_EDGE, height, "");
        double y = draw_text(f, t, k, turn, 12);
        y = draw_legend(f, turn, y + 12);
        height = 10 + draw_strips(f, l, y + 14);
        figure_close(f, "</svg>\n");
    }
}

#endif
