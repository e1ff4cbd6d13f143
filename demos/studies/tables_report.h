/* tables_report.h - the tables that tables.c makes of its measure files, on stdout and as a page

   A part of tables.c, which includes it behind its own types. A mean over seeds comes with an
   interval of 95 %: its variance is the error over pictures, squared, plus the deviation between
   seeds, squared, over the number of seeds. Every table opens with what can be said of it; an
   order of two is claimed only where the interval of their difference excludes 0.

   Sections: figures · intervals · findings · tables · ranks · correlations · costs · JSON · the
   page. */
#ifndef TABLES_REPORT_H
#define TABLES_REPORT_H

/* ---- figures --------------------------------------------------------------------------------- */

enum { MOST_SEEDS = 100, MOST_ITEMS = 12 };
typedef struct figure {
    char name[64];
    double value, error;
} figure;
typedef struct results {
    figure *at;
    size_t count;
} results;                /* of one file */
typedef struct book {
    const settings *o;
    results of[PARTS][MOST_SEEDS + 1];  /* by part and seed, from 1 on; 0 for what is made once */
    size_t seeds, found[PARTS];
    report h;
    int wide;                                            /* letters of a cell on stdout */
} book;

/* 0, or an exit status; a missing file is empty */
static int read_results(results *r, const char *path)
{
    char line[256];
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        figure x, *more = (figure *)realloc(r->at, (r->count + 1) * sizeof *more);
        if (more) r->at = more;
        if (!more || sscanf(line, "%63s %lf %lf", x.name, &x.value, &x.error) != 3) {
            fclose(f);
            if (!more) return fail("out of memory for results");
            return fail("%s: not a file of this program at \"%.40s\"; take it away, it will be "
                        "made again",
                        path, line);
        }
        r->at[r->count++] = x;
    }
    if (f) fclose(f);
    return 0;
}
static int read_book(book *b, const settings *o)         /* 0, or an exit status */
{
    char path[1100];
    memset(b, 0, sizeof *b);
    b->o = o;
    b->seeds = o->seeds;
    for (size_t k = 0; k < PARTS; k++)
        for (size_t seed = k < NETWORKS; seed <= (k < NETWORKS ? MOST_SEEDS : 0); seed++) {
            if (read_results(&b->of[k][seed], file_of(o, k, seed, ".txt", path, sizeof path)))
                return 2;
            if (!b->of[k][seed].count) continue;
            b->found[k]++;
            if (seed > b->seeds) b->seeds = seed;
        }
    return 0;
}
static void close_book(book *b)
{
    for (size_t k = 0; k < PARTS; k++)
        for (size_t s = 0; s <= MOST_SEEDS; s++) free(b->of[k][s].at);
}

/* Whether a name fits a pattern, whose * is a part between strokes. */
static int fits(const char *pattern, size_t n, const char *name)
{
    for (; n; pattern++, n--) {
        if (*pattern == '*') name += strcspn(name, "/");
        else if (*pattern != *name++) return 0;
    }
    return !*name;
}
/* The mean of all figures whose names fit prefix and pattern, and of their errors: these are of
   the same pictures, so they do not shrink. NAN if there is none. */
static double measure(const results *r, const char *prefix, const char *of, double *error)
{
    double sum = 0, errors = 0, count = 0;
    char pattern[128];
    size_t n = (size_t)snprintf(pattern, sizeof pattern, "%s%s", prefix, of);
    for (size_t i = 0; i < r->count; i++)
        if (fits(pattern, n, r->at[i].name)) {
            sum += r->at[i].value;
            errors += r->at[i].error;
            count++;
        }
    *error = errors / count;
    return sum / count;
}

/* ---- intervals ------------------------------------------------------------------------------- */

typedef struct estimate {
    const char *label;
    double mean, error;
    double square;                          /* sum of squared deviations between seeds */
    size_t seeds;
    /* NULL, or what each picture gave, the mean over the seeds */
    double *each;
    size_t pictures;
} estimate;

static estimate estimate_of(const book *b, size_t part, const char *of, const char *label)
{
    estimate e = {label, 0, 0, 0, 0, NULL, 0};
    for (size_t s = 1; s <= b->seeds; s++) {
        double error;
        double v = measure(&b->of[part][s], "", of, &error);
        double off = v - e.mean;
        if (!isfinite(v)) continue;
        e.seeds++;
        e.mean += off / (double)e.seeds;
        e.square += off * (v - e.mean);
        e.error += (error - e.error) / (double)e.seeds;
    }
    return e;
}

/* Adds what each picture gave in one file (put_each) to `each`, if that is not NULL. Returns how
   many pictures there are. */
static size_t add_each(const results *r, const char *of, double *each)
{
    char prefix[80];
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "%s/each/", of);
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (strncmp(r->at[i].name, prefix, n)) continue;
        double first = floor(r->at[i].value / 10000);
        double second = r->at[i].value - 10000 * first;
        if (each) each[count] += first / 1000;
        count++;
        if (second + 0.5 > EACH_NONE) continue;
        if (each) each[count] += second / 1000;
        count++;
    }
    return count;
}
/* What each picture gave, to e->each, which is to be freed: NULL if a seed's file does not say it
   of as many pictures. */
static void estimate_each(const book *b, size_t part, const char *of, estimate *e)
{
    size_t n = 0, seeds = 0;
    for (size_t s = 1; s <= b->seeds; s++) {
        size_t there = add_each(&b->of[part][s], of, NULL);
        if (there > 0 && (n == 0 || n == there)) seeds++;
        if (there > 0) n = there;
    }
    if (n == 0 || seeds != e->seeds) return;
    e->each = (double *)calloc(n, sizeof *e->each);
    for (size_t s = 1; s <= b->seeds && e->each; s++) add_each(&b->of[part][s], of, e->each);
    for (size_t i = 0; i < n && e->each; i++) e->each[i] /= (double)seeds;
    e->pictures = n;
}
/* The error over pictures of a difference: picture by picture where both say what each gave, else
   as if they had been judged on different ones. */
static double pair_error(const estimate *x, const estimate *y)
{
    double mean = 0, square = 0;
    size_t n = x->pictures;
    if (!x->each || !y->each || n != y->pictures || n < 2) return hypot(x->error, y->error);
    for (size_t i = 0; i < n; i++) {
        double off = x->each[i] - y->each[i] - mean;
        mean += off / (double)(i + 1);
        square += off * (x->each[i] - y->each[i] - mean);
    }
    return sqrt(square / (double)(n - 1) / (double)n);
}

/* The chance that Student's t of so many degrees of freedom lies further from 0 than t, on either
   side; 0 degrees: of the normal distribution. (Abramowitz & Stegun 26.7.3 and 26.7.4.) */
static double tail(double t, size_t freedom)
{
    if (!freedom) return erfc(t / sqrt(2));
    double angle = atan(t / sqrt((double)freedom));
    double square = cos(angle) * cos(angle);
    double odd = (double)(freedom % 2);
    double term = odd > 0 ? cos(angle) : 1;
    double sum = 0;
    for (double k = odd; k <= (double)freedom - 2; k += 2) {
        sum += term;
        term *= square * (k + 1) / (k + 2);
    }
    sum *= sin(angle);
    if (odd > 0) sum = (angle + sum) * 2 / acos(-1);
    return 1 - sum;
}
/* How far from 0 it has to be for that chance to be p. */
static double quantile(double p, size_t freedom)
{
    double low = 0, high = 2;
    while (tail(high, freedom) > p && high < 1e9) high *= 2;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        if (tail(middle, freedom) > p) low = middle;
        else high = middle;
    }
    return high;
}
/* Half the interval of 1 - p of a mean that errs by `error` over pictures and of `share` seeds (a
   sum of 1/seeds), when n estimates together tell how far seeds lie apart; of one seed each
   nothing tells it. */
static double half_at(const estimate *e, size_t n, double error, double share, double p)
{
    double square = 0;
    size_t freedom = 0;
    for (size_t i = 0; i < n; i++)
        if (e[i].seeds > 1) {
            square += e[i].square;
            freedom += e[i].seeds - 1;
        }
    double seeds = 0;
    if (freedom) seeds = quantile(p, freedom) * sqrt(square / (double)freedom * share);
    return hypot(quantile(p, 0) * error, seeds);
}
static double half_of(const estimate *e, size_t n, double error, double share)
{
    return half_at(e, n, error, share, 0.05);
}
static int one_seed(const estimate *e, size_t n)
{
    for (size_t i = 0; i < n; i++) if (e[i].seeds > 1) return 0;
    return 1;
}

/* Half the interval of e[k] of n: from three seeds on its own say how far they lie apart, else
   all of the n. */
static double half_mean(const estimate *e, size_t n, size_t k)
{
    double share = 1 / fmax((double)e[k].seeds, 1);
    if (e[k].seeds > 2) return half_of(&e[k], 1, e[k].error, share);
    return half_of(e, n, e[k].error, share);
}

/* ---- findings -------------------------------------------------------------------------------- */

static int letters(const char *s)                        /* of UTF-8 */
{
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}
/* A row of cells "a|b|c", a head, or (NULL) the end, on both. */
static void row(book *b, const char *cells, int head)
{
    if (!cells) report_table(&b->h, NULL);
    else if (head) report_table(&b->h, cells);
    else report_row(&b->h, "%s", cells);
    if (cells && head) {                                 /* few columns are wide ones */
        b->wide = 0;
        for (const char *at = cells; *at; at++) b->wide -= *at == '|';
        b->wide = b->wide < -5 ? 16 : 20;
    }
    for (int first = 1; cells && !b->o->json; first = 0) {
        char cell[200];
        size_t n = strcspn(cells, "|");
        snprintf(cell, sizeof cell, "%.*s", (int)n, cells);
        int pad = (first ? 30 : b->wide) - letters(cell);
        if (first) printf("%s%*s", cell, pad > 0 ? pad : 0, "");
        else printf(" %*s%s", pad > 0 ? pad : 0, "", cell);
        cells = cells[n] ? cells + n + 1 : NULL;
        if (!cells) printf("\n");
    }
}
/* A paragraph on both; kind: "b" a finding, "soft" a note. */
static void say(book *b, const char *kind, const char *text)
{
    if (!*text) return;
    report_html(&b->h, *kind == 'b' ? "<p><b>" : "<p class=\"%s\">", kind);
    report_text(&b->h, text);
    report_html(&b->h, *kind == 'b' ? "</b></p>\n" : "</p>\n");
    for (size_t at = 0, n = strlen(text); !b->o->json && at < n;) {  /* lines of at most 110 */
        size_t end = at + 110 < n ? at + 110 : n;
        while (end < n && end > at + 1 && text[end] != ' ') end--;
        printf("%.*s\n", (int)(end - at), text + at);
        at = end + (end < n);
    }
}
static void begin(book *b, const char *title)
{
    report_html(&b->h, "<h2>");
    report_text(&b->h, title);
    report_html(&b->h, "</h2>\n");
    if (!b->o->json) printf("\n== %s\n", title);
}

typedef struct sentence {
    char text[1600];
    size_t n;
} sentence;
static void add(sentence *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (s->n < sizeof s->text)
        s->n += (size_t)vsnprintf(s->text + s->n, sizeof s->text - s->n, format, list);
    va_end(list);
}

/* A difference between two estimates, the larger one first: half its interval of 95 %, and p, at
   which the interval of 1 - p would begin at 0. */
typedef struct claim {
    const estimate *above, *below;
    double apart, half, p;
    int holds;                               /* after Holm's correction */
} claim;

static claim claim_of(const estimate *x, const estimate *y)
{
    claim c = {x, y, x->mean - y->mean, 0, 1, 0};
    const estimate both[2] = {*x, *y};                   /* of a difference the two say it */
    double error = pair_error(x, y);
    double share = 1 / (double)x->seeds + 1 / (double)y->seeds;
    double low = -14, high = 0;                          /* of the logarithm of p to base 10 */
    c.half = half_of(both, 2, error, share);
    for (int i = 0; i < 40; i++) {
        double middle = (low + high) / 2;
        if (half_at(both, 2, error, share, pow(10, middle)) > c.apart) low = middle;
        else high = middle;
    }
    c.p = pow(10, high);
    return c;
}

/* Holm's correction (1979) of n differences that are asked about at once: the least p holds if it
   is at most 0.05/n, the next if it is at most 0.05/(n - 1), and so on up to the first that is
   not. So the chance that any of them is claimed wrongly is 5 %. Returns how many hold. */
static size_t correct_claims(claim *c, size_t n)
{
    for (size_t done = 0; done < n; done++) {
        claim *least = NULL;
        for (size_t i = 0; i < n; i++)
            if (!c[i].holds && (!least || c[i].p < least->p)) least = &c[i];
        if (least->p > 0.05 / (double)(n - done)) return done;
        least->holds = 1;
    }
    return n;
}

/* Says which of the claims exclude 0, of `asked` differences. */
static void add_claims(sentence *s, const claim *c, size_t tested, size_t asked, size_t hold,
                       int digits)
{
    size_t claims = 0;
    for (size_t i = 0; i < tested; i++) {
        if (!(c[i].apart > c[i].half)) continue;
        add(s, "%s%s is above %s by %.*f ± %.*f%s", claims++ ? "; " : "", c[i].above->label,
            c[i].below->label, digits, c[i].apart, digits, c[i].half,
            c[i].holds && tested > 1 ? "*" : "");
    }
    size_t others = asked - claims;
    if (claims && !others) add(s, ".");
    else if (claims && others == 1) add(s, "; the other difference cannot be told from chance.");
    else if (claims)
        add(s, "; of the other %zu differences none can be told from chance.", others);
    else if (asked == 1) add(s, "the difference cannot be told from chance.");
    else add(s, "none of %zu differences can be told from chance.", asked);
    if (!claims || tested < 2) return;
    if (hold) add(s, " Those with a * hold after Holm's correction for %zu, too.", tested);
    else add(s, " After Holm's correction for %zu none holds.", tested);
}

/* What can be said of n estimates of one thing: which pairs differ. pair (pairs, 2) or NULL: all
   of them. `what` is the subject, "Binary-AUC". */
static void finding(book *b, const estimate *e, size_t n, const int (*pair)[2], size_t pairs,
                    const char *what, int digits)
{
    claim c[MOST_ITEMS * MOST_ITEMS];
    sentence s = {"", 0};
    size_t there = 0, asked = 0, tested = 0;
    for (size_t i = 0; i < n; i++) there += e[i].seeds > 0;
    if (there < 2) {
        say(b, "b", "Not enough has been measured yet to compare.");
        return;
    }
    add(&s, "%s: ", what);
    for (size_t k = 0; k < (pair ? pairs : n * n); k++) {
        const estimate *x = &e[pair ? (size_t)pair[k][0] : k / n];
        const estimate *y = &e[pair ? (size_t)pair[k][1] : k % n];
        if (!x->seeds || !y->seeds || (!pair && x >= y)) continue;
        asked++;
        if (x->seeds < 2 && y->seeds < 2) continue;
        if (x->mean < y->mean) c[tested++] = claim_of(y, x);
        else c[tested++] = claim_of(x, y);
    }
    size_t hold = correct_claims(c, tested);
    if (!asked) add(&s, "not enough has been measured yet to compare.");
    else if (!tested && one_seed(e, n))
        add(&s, "there is one seed each, and how far another would be away is not known, so no "
                "order is claimed.");
    else add_claims(&s, c, tested, asked, hold, digits);
    say(b, "b", s.text);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* plain: what baselines call it */
typedef struct column {
    const char *head, *of, *plain;
    int digits;
} column;
static const struct { const char *label, *prefix; } baseline[] = {
    {"raw 16 x 16 pixels", "pixels/"},
    {"histogram of colours", "colours/"},
    {"histograms of edges", "edges/"},
    {"the commonest class", "commonest/"},
    {"nearness to the middle", "middle/"},
    {"background everywhere", "background/"},
};

static size_t network_of(const char *name)               /* its number */
{
    size_t k = 0;
    while (k + 1 < NETWORKS && strcmp(networks[k].name, name)) k++;
    return k;
}

static void cell(char *cells, size_t room, const char *format, ...)
{
    size_t n = strlen(cells);
    va_list list;
    va_start(list, format);
    if (n < room) vsnprintf(cells + n, room - n, format, list);
    va_end(list);
}

/* Rows of networks (ends with NULL) by columns, then those baselines that have any of it. */
static void table(book *b, const char *const *rows, const column *c, size_t columns,
                  const char *first)
{
    char cells[2048] = "";
    cell(cells, sizeof cells, "%s", first);
    for (size_t k = 0; k < columns; k++) cell(cells, sizeof cells, "|%s", c[k].head);
    row(b, cells, 1);
    for (size_t r = 0; rows[r]; r++) {
        size_t seeds = b->found[network_of(rows[r])];
        *cells = 0;
        if (!seeds) continue;
        cell(cells, sizeof cells, "%s", rows[r]);
        if (seeds != b->seeds) cell(cells, sizeof cells, " (%zu of %zu seeds)", seeds, b->seeds);
        for (size_t k = 0; k < columns; k++) {
            estimate e[MOST_ITEMS];
            size_t n = 0;
            for (; rows[n]; n++) e[n] = estimate_of(b, network_of(rows[n]), c[k].of, rows[n]);
            double half = half_mean(e, n, r);
            if (!e[r].seeds) cell(cells, sizeof cells, "|-");
            else if (half > 0) cell(cells, sizeof cells, "|%.*f ± %.*f", c[k].digits, e[r].mean,
                                    c[k].digits, half);
            else cell(cells, sizeof cells, "|%.*f", c[k].digits, e[r].mean);
        }
        row(b, cells, 0);
    }
    for (size_t i = 0; i < sizeof baseline / sizeof *baseline; i++) {
        int any = 0;
        *cells = 0;
        cell(cells, sizeof cells, "%s", baseline[i].label);
        for (size_t k = 0; k < columns; k++) {
            double error = 0;
            double v = c[k].plain ? measure(&b->of[BASELINES][0], baseline[i].prefix,
                c[k].plain, &error) : NAN;
            any |= isfinite(v);
            if (!isfinite(v)) cell(cells, sizeof cells, "|-");
            else if (error > 0) cell(cells, sizeof cells, "|%.*f ± %.*f", c[k].digits, v,
                                     c[k].digits, report_half * error);
            else cell(cells, sizeof cells, "|%.*f", c[k].digits, v);
        }
        if (any) row(b, cells, 0);
    }
}

static const char *const mixers_all[] = {"softmax", "linear", "ssd", "registers", NULL};

/* The finding on one measure of some networks. */
static void compare(book *b, const char *const *rows, const char *of, const int (*pair)[2],
                    size_t pairs, const char *what, int digits)
{
    estimate e[MOST_ITEMS];
    size_t n = 0;
    memset(e, 0, sizeof e);
    for (; rows[n]; n++) {
        e[n] = estimate_of(b, network_of(rows[n]), of, rows[n]);
        estimate_each(b, network_of(rows[n]), of, &e[n]);
    }
    finding(b, e, n, pair, pairs, what, digits);
    for (size_t k = 0; k < n; k++) free(e[k].each);
}

static void report_mixers(book *b)
{
    char seg[32], head[32];
    snprintf(seg, sizeof seg, "seg/%zu", side_of(b->o, seg_times[0]));
    snprintf(head, sizeof head, "mIoU, %zu pixels", side_of(b->o, seg_times[0]));
    column c[] = {{"probe, top-1", "read/token", "probe", 3},
                  {"balanced", "read/token/balanced", "probe/balanced", 3},
                  {"k-NN, balanced", "at4/knn/balanced", "knn/balanced", 3},
                  {"untrained", "at0/knn/balanced", NULL, 3},
                  {head, seg, "seg", 3}, {"Binary-AUC", "at4/auc", "auc", 3},
                  {"untrained", "at0/auc", NULL, 3},
                  {"rank of tokens", "at4/rank", NULL, 1}};
    begin(b, "Four mixers");
    say(b, "soft", "The network \"softmax\" is a ViT with softmax attention, \"linear\" a "
                   "LinearViT with linear attention, \"ssd\" a DinoVim with Mamba-2 in both "
                   "directions, \"registers\" a DinoMamba-Reg, of which 12 tokens are read in "
                   "place of one class token.");
    compare(b, mixers_all, "read/token", NULL, 0, "Top-1 of the linear probe", 3);
    compare(b, mixers_all, "at4/auc", NULL, 0, "Binary-AUC of the maps", 3);
    say(b, "soft", "The paper: ViT > Mamba > LinearViT, in feature maps and in downstream tasks; "
                   "ViT's maps are less noisy than Mamba's, LinearViT's are blurred.");
    table(b, mixers_all, c, sizeof c / sizeof *c, "network");
    row(b, NULL, 0);
}

/* Maps, probe and size of networks that differ in one thing. */
static void report_kinds(book *b, const char *title, const char *const *rows, const int (*pair)[2],
                         size_t pairs, const char *paper)
{
    static const column c[] = {{"Binary-AUC", "at4/auc", "auc", 3},
                               {"probe, top-1", "read/token", "probe", 3},
                               {"k-NN, balanced", "at4/knn/balanced", "knn/balanced", 3},
                               {"mean of patches", "read/mean", NULL, 3},
                               {"parameters", "parameters", NULL, 0},
                               {"MFLOP a picture", "mflops", NULL, 1}};
    begin(b, title);
    compare(b, rows, "at4/auc", pair, pairs, "Binary-AUC of the maps", 3);
    compare(b, rows, "read/token", pair, pairs, "Top-1 of the linear probe", 3);
    say(b, "soft", paper);
    table(b, rows, c, sizeof c / sizeof *c, "network");
    row(b, NULL, 0);
}

static void report_length(book *b)
{
    char text[SEG_SIDES][64], head[SEG_SIDES][32];
    for (int k = 0; k < SEG_SIDES; k++) {
        snprintf(text[k], sizeof text[k], "seg/%zu", side_of(b->o, seg_times[k]));
        snprintf(head[k], sizeof head[k], "%zu pixels", side_of(b->o, seg_times[k]));
    }
    column c[] = {{head[0], text[0], "seg", 3}, {head[1], text[1], "seg", 3},
                  {"gained by size", "seg/gain", NULL, 3}};
    begin(b, "Segmentation at two input sizes: does the gap between mixers widen with length?");
    compare(b, mixers_all, "seg/gain", NULL, 0, "What mIoU gains by the larger input", 3);
    say(b, "soft", "The paper: ViTs consistently benefit from larger inputs, where length and "
                   "effective rank grow. If rank is what holds the others back, the gap widens; "
                   "where one mixer's gain is above another's, it does. mIoU of object and "
                   "background by a linear head on frozen patches; the larger input shows the same "
        "pictures, enlarged.");
    table(b, mixers_all, c, 3, "network");
    row(b, NULL, 0);
}

static void report_robustness(book *b)
{
    static const column c[] = {{"clean", "clean", "clean", 3}, {"noise", "noise/*", "noise/*", 3},
                               {"blur", "blur/*", "blur/*", 3},
                               {"darkness", "darkness/*", "darkness/*", 3},
                               {"contrast", "contrast/*", "contrast/*", 3},
                               {"coarse", "coarse/*", "coarse/*", 3},
                               {"lost, mean", "lost/all", "lost/all", 3}};
    begin(b, "Robustness: five corruptions, means of five strengths");
    compare(b, mixers_all, "lost/all", NULL, 0, "Top-1 lost by corruption (more is worse)", 3);
    say(b, "soft", "This stands in for ImageNet-Sketch, A and R, which ask what is left on "
                   "pictures unlike those learned from; no more is claimed. The probe was taught "
                   "clean pictures. Normal noise, Gaussian blur, less light, less contrast, cells "
                   "of one colour; formulas and strengths in demos/studies/tables.c. All networks "
                   "see the same pixels.");
    table(b, mixers_all, c, sizeof c / sizeof *c, "network");
    row(b, NULL, 0);
}

/* A table of the probe's choices. The finding is of ssd: what each gains over the usual head,
   the ten-rate one on the class token without decay, on the same pictures. The paper's own
   numbers are the last row. */
static void report_choices(book *b, const char *title, const column *c, size_t columns,
                           const char *paper)
{
    estimate e[MOST_ITEMS];
    sentence s = {"", 0};
    char of[64];
    size_t claims = 0;
    begin(b, title);
    for (size_t k = 0; k < columns; k++) {
        snprintf(of, sizeof of, "%s/gain", c[k].of);
        e[k] = estimate_of(b, network_of("ssd"), of, c[k].head);
    }
    add(&s, "Of ssd, against the usual head (the class token alone, no decay, the rate chosen): ");
    for (size_t k = 0; k < columns && e->seeds; k++) {
        double half = half_mean(e, columns, k);
        if (fabs(e[k].mean) > half)
            add(&s, "%s%s %+.3f ± %.3f", claims++ ? "; " : "", e[k].label, e[k].mean, half);
    }
    if (!e->seeds) say(b, "b", "Not enough has been measured yet to compare.");
    else {
        if (!claims) add(&s, "no difference can be told from chance");
        if (one_seed(e, columns)) add(&s, " (one seed: of these pictures alone)");
        add(&s, ".");
        say(b, "b", s.text);
    }
    table(b, mixers_all, c, columns, "top-1 of the probe");
    row(b, paper, 0);
    row(b, NULL, 0);
}
static void report_ablations(book *b)
{
    static const column blocks[] = {{"1 block", "blocks/1", NULL, 3},
                                    {"2 blocks", "blocks/2", NULL, 3},
                                    {"3 blocks", "blocks/3", NULL, 3},
                                    {"4 blocks", "blocks/4", NULL, 3}};
    static const column reads[] = {{"mean", "read/mean", NULL, 3}, {"max", "read/max", NULL, 3},
                                   {"token, mean", "read/token+mean", NULL, 3},
                                   {"token, max", "read/token+max", NULL, 3},
                                   {"token", "read/token", NULL, 3}};
    static const column decays[] = {{"0", "decay/0", NULL, 3}, {"1e-2", "decay/0.01", NULL, 3},
                                    {"5e-3", "decay/0.005", NULL, 3},
                                    {"1e-3", "decay/0.001", NULL, 3}};
    static const column rates[] = {{"0.003", "rate/0.003", NULL, 3}, {"0.03", "rate/0.03", NULL, 3},
                                   {"0.3", "rate/0.3", NULL, 3}, {"3", "rate/3", NULL, 3}};
    report_choices(b, "Table 5, left: class tokens of the last blocks, joined", blocks, 4,
                   "the paper, DinoVim small|0.718|0.756|0.767|0.772");
    report_choices(b, "Table 5, middle: weight decay of the probe", decays, 4,
                   "the paper, DinoVim small|0.772|0.757|0.764|0.773");
    report_choices(b, "Table 5, right: rate of the probe, for a batch of 256", rates, 4,
                   "the paper, at rates of its own|0.771|0.772|0.773|0.774");
    say(b, "soft", "The paper's rates are 2.5e-4, 5e-4, 1e-3 and 2e-3; features here are "
        "brought to mean 0 and deviation 1 before the head, so rates are others. Elsewhere the "
        "rate is chosen from ten on a tenth of the training pictures.");
    report_choices(b, "Table 6: class strategies", reads, 5,
                   "the paper, DinoVim small|0.759|0.746|0.765|0.763|0.772");
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void report_ranks(book *b)
{
    static const char *const head[RANKS] = {"beside the diagonal", "its bound", "effective",
                                            "all of M, effective",
                                            "heads joined"};
    char of[RANKS][40], first[64];
    column c[RANKS];
    begin(b, "Ranks of M");
    for (int i = RANK_SIDES - 1; i >= 0; i--) {
        size_t side = side_of(b->o, rank_times[i]);
        size_t patch = (size_t)recipe_of(b->o, &networks[0]).patch;
        for (int k = 0; k < RANKS; k++) {
            snprintf(of[k], sizeof of[k], "rank/%zu/mean/%s", side, rank_name[k]);
            c[k].head = head[k];
            c[k].of = of[k];
            c[k].plain = NULL;
            c[k].digits = 1;
        }
        if (i == RANK_SIDES - 1) {
            compare(b, mixers_all, of[OFF], NULL, 0, "Numerical rank of M beside the diagonal", 1);
            compare(b, mixers_all, of[OFF_EFFECTIVE], NULL, 0,
                    "Effective rank of M beside the diagonal", 1);
            say(b, "soft", "The paper, of blocks beside the diagonal: self-attention (full rank, "
                           "C) > Mamba (at most rank(L) N) > linear attention (at most D_QK). "
                           "Blocks are half of the tokens wide; means over heads, four blocks of "
                           "the network and both directions. Numerical rank counts singular values "
                "above the noise of a float, effective rank is e^entropy. Joined: the rank of "
                "what such a block adds to the output, all heads together. M is without its D, "
                "which passes by.");
        }
        snprintf(first, sizeof first, "%zu x %zu patches", side / patch, side / patch);
        table(b, mixers_all, c, RANKS, first);
        row(b, NULL, 0);
    }
}

/* ---- correlations ---------------------------------------------------------------------------- */

enum { POINT_SEEDS = 10, MOST_POINTS = NETWORKS * POINT_SEEDS * (QUARTERS + 1), DRAWS = 1000 };
typedef struct points { double x[MOST_POINTS], y[MOST_POINTS];
                       size_t of[MOST_POINTS], quarter[MOST_POINTS], n; } points;
enum { PEARSON, SPEARMAN, WITHIN, BETWEEN, KINDS };

static double pearson(const double *x, const double *y, size_t n)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        mx += x[i] / (double)n;
        my += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    return n > 2 && xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}
static void ranks_of(const double *x, size_t n, double *rank)  /* equal ones share their mean */
{
    for (size_t i = 0; i < n; i++) {
        rank[i] = 0.5;
        for (size_t j = 0; j < n; j++) {
            if (x[j] < x[i]) rank[i] += 1;
            else if (!(x[j] > x[i])) rank[i] += 0.5;
        }
    }
}
/* Of all points together, of their ranks, of what is left of them after their own network's
   mean, and of these means. */
static void correlate(const points *p, double out[KINDS])
{
    static double a[MOST_POINTS], b[MOST_POINTS];
    double mean[2][NETWORKS] = {{0}}, middle[2][NETWORKS];
    size_t count[NETWORKS] = {0}, groups = 0;
    out[PEARSON] = pearson(p->x, p->y, p->n);
    ranks_of(p->x, p->n, a);
    ranks_of(p->y, p->n, b);
    out[SPEARMAN] = pearson(a, b, p->n);
    for (size_t i = 0; i < p->n; i++) {
        count[p->of[i]]++;
        mean[0][p->of[i]] += p->x[i];
        mean[1][p->of[i]] += p->y[i];
    }
    for (size_t k = 0; k < NETWORKS; k++) {
        if (!count[k]) continue;
        for (int v = 0; v < 2; v++) middle[v][groups] = mean[v][k] /= (double)count[k];
        groups++;
    }
    for (size_t i = 0; i < p->n; i++) {
        a[i] = p->x[i] - mean[0][p->of[i]];
        b[i] = p->y[i] - mean[1][p->of[i]];
    }
    out[WITHIN] = pearson(a, b, p->n);
    out[BETWEEN] = pearson(middle[0], middle[1], groups);
}

/* The points of all networks, seeds and quarters. */
static void gather(const book *b, const char *x, const char *y, points *p)
{
    char name[2][64];
    double unused;
    p->n = 0;
    for (size_t k = 0; k < NETWORKS; k++)
        for (size_t s = 1; s <= POINT_SEEDS; s++)
            for (size_t q = 0; q <= QUARTERS; q++) {
                snprintf(name[0], sizeof name[0], "at%zu/%s", q, x);
                snprintf(name[1], sizeof name[1], "at%zu/%s", q, y);
                p->x[p->n] = measure(&b->of[k][s], "", name[0], &unused);
                p->y[p->n] = measure(&b->of[k][s], "", name[1], &unused);
                p->of[p->n] = k;
                p->quarter[p->n] = q;
                if (isfinite(p->x[p->n]) && isfinite(p->y[p->n])) p->n++;
            }
}

static uint64_t draw(uint64_t *state)                    /* splitmix64 (Steele et al. 2014) */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
/* Intervals of 95 % of the four correlations, by drawing networks with all their points, with
   replacement. A network drawn twice is two networks. */
static void bootstrap(const points *p, double low[KINDS], double high[KINDS])
{
    static double got[KINDS][DRAWS];
    static points some;
    size_t there[NETWORKS], groups = 0, count[KINDS] = {0};
    uint64_t state = 1;
    for (size_t i = 0; i < p->n; i++)
        if (!i || p->of[i] != p->of[i - 1]) there[groups++] = p->of[i];
    for (size_t d = 0; d < DRAWS && groups > 2; d++) {
        double r[KINDS];
        some.n = 0;
        for (size_t g = 0; g < groups; g++) {
            size_t k = there[draw(&state) % groups];
            for (size_t i = 0; i < p->n && some.n < MOST_POINTS; i++)
                if (p->of[i] == k) {
                    some.x[some.n] = p->x[i];
                    some.y[some.n] = p->y[i];
                    some.of[some.n++] = g;
                }
        }
        correlate(&some, r);
        for (int k = 0; k < KINDS; k++) if (isfinite(r[k])) got[k][count[k]++] = r[k];
    }
    for (int k = 0; k < KINDS; k++) {
        qsort(got[k], count[k], sizeof **got, by_size);
        low[k] = count[k] > DRAWS / 2 ? got[k][count[k] / 40] : NAN;
        high[k] = count[k] > DRAWS / 2 ? got[k][count[k] - 1 - count[k] / 40] : NAN;
    }
}

static void scatter_tick(FILE *f, double x, double y, const char *anchor, double tick)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.6g</text>\n", x, y, anchor, tick);
}

/* Points in the marks of mixers; small ones are early, hollow ones learned from labels. */
static void scatter(book *b, const points *p, const char *x_label, const char *y_label)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY, ticks[REPORT_TICKS];
    FILE *f = b->h.file;
    for (size_t i = 0; i < p->n; i++) {
        x0 = fmin(x0, p->x[i]);
        x1 = fmax(x1, p->x[i]);
        y0 = fmin(y0, p->y[i]);
        y1 = fmax(y1, p->y[i]);
    }
    if (!p->n) return;
    if (!(x1 > x0)) {
        x0 -= 0.5;
        x1 += 0.5;
    }
    if (!(y1 > y0)) {
        y0 -= 0.5;
        y1 += 0.5;
    }
    double kx = 330 / (x1 - x0);
    double ky = 208 / (y1 - y0);
    fprintf(f, "<figure class=\"chart\"><svg viewBox=\"0 0 400 300\" role=\"img\">\n");
    int n = report_ticks(x0, x1, 4, 0, ticks);
    for (int i = 0; i < n; i++) {
        double at = 60 + (ticks[i] - x0) * kx;
        fprintf(f, "<path class=\"axis\" d=\"M%.1f 254v5\"/>", at);
        scatter_tick(f, at, 274, "middle", ticks[i]);
    }
    n = report_ticks(y0, y1, 4, 0, ticks);
    for (int i = 0; i < n; i++) {
        double at = 246 - (ticks[i] - y0) * ky;
        fprintf(f, "<path class=\"axis\" d=\"M54 %.1fH398\"/>", at);
        scatter_tick(f, 50, at + 5, "end", ticks[i]);
    }
    for (size_t i = 0; i < p->n; i++) {
        const network *of = &networks[p->of[i]];
        double x = 60 + (p->x[i] - x0) * kx;
        double y = 246 - (p->y[i] - y0) * ky;
        report_mark(f, of->mixer, of->labels, x, y, 0.5 + 0.15 * (double)p->quarter[i]);
    }
    fprintf(f, "<text x=\"225\" y=\"294\" text-anchor=\"middle\">%s</text><text x=\"0\" "
               "y=\"14\">%s</text></svg><figcaption>A point is one network of one seed after 0, "
               "1/4, 1/2, 3/4 or all of its steps (small to large). Hollow ones learned from "
               "labels.",
            x_label, y_label);
    for (int k = 0; k < MIXERS; k++) {
        fprintf(f, " <span style=\"white-space:nowrap\"><svg viewBox=\"-6 -6 12 12\" "
                   "style=\"display:inline;width:12px\">");
        report_mark(f, k, 0, 0, 0, 1);
        fprintf(f, "</svg>&nbsp;%s</span>", mixer_name[k]);
    }
    fprintf(f, "</figcaption></figure>\n");
}

static void report_correlations(book *b)
{
    static const struct { const char *of, *says; } x[] = {
        {"auc", "Binary-AUC"}, {"matrix/off_effective", "effective rank of M"},
            {"rank", "effective rank of tokens"}};
    static points p[3];
    sentence s = {"", 0};
    double r[3][KINDS], low[3][KINDS], high[3][KINDS];
    char cells[400];
    begin(b, "Does a measure of maps or ranks tell what the probe will say?");
    for (int k = 0; k < 3; k++) {
        static const char *const how[KINDS] = {"pooled", "", "within networks", "between networks"};
        gather(b, x[k].of, "probe", &p[k]);
        correlate(&p[k], r[k]);
        bootstrap(&p[k], low[k], high[k]);
        add(&s, "%s%s goes with the probe's top-1", k ? "; " : "", x[k].says);
        for (int c = 0, any = 0; c < KINDS; c++)
            if (c != SPEARMAN && (low[k][c] > 0 || high[k][c] < 0))
                add(&s, "%s %s (%.2f)", any++ ? "," : "", how[c], r[k][c]);
            else if (c == BETWEEN && !any)
                add(&s, "%s", isfinite(low[k][0]) ? " in no way that can be told from chance"
                                                  : ": too few networks");
    }
    add(&s, ".");
    say(b, "b", s.text);
    say(b, "soft", "The paper: feature map quality and downstream performance follow the hierarchy "
                   "of ranks, ViT > Mamba > LinearViT. Pooled takes all points together, which "
                   "mixes two questions. Within takes each network's mean off, so what is left is "
                   "training: does one rise as the other does? Between takes the networks' means "
                   "alone. The rank of M is that beside the diagonal. In brackets stands the 95 % "
                   "interval, by drawing whole networks with replacement.");
    row(b, "with top-1 of the probe|points|Pearson, pooled|Spearman, pooled|within "
           "networks|between networks", 1);
    for (int k = 0; k < 3; k++) {
        *cells = 0;
        cell(cells, sizeof cells, "%s|%zu", x[k].says, p[k].n);
        for (int c = 0; c < KINDS; c++)
            if (isfinite(low[k][c]))
                cell(cells, sizeof cells, "|%.2f (%.2f, %.2f)", r[k][c], low[k][c], high[k][c]);
            else if (isfinite(r[k][c])) cell(cells, sizeof cells, "|%.2f", r[k][c]);
            else cell(cells, sizeof cells, "|-");
        row(b, cells, 0);
    }
    row(b, NULL, 0);
    report_html(&b->h, "<div class=\"row\">\n");
    for (int k = 0; k < 3; k++) scatter(b, &p[k], x[k].says, "top-1 of the probe");
    report_html(&b->h, "</div>\n");
}

/* ---- costs ----------------------------------------------------------------------------------- */

static void report_costs(book *b)
{
    static const char *const kind[2] = {"ms", "mib"};
    const results *r = &b->of[COST][0];
    double v[2][MIXERS][COST_SIDES], unused;
    char name[64], cells[400];
    const int last = COST_SIDES - 1;
    if (!r->count) return;
    for (int c = 0; c < 2; c++)
        for (int k = 0; k < MIXERS; k++)
            for (int i = 0; i < COST_SIDES; i++) {
                snprintf(name, sizeof name, "%s/%zu/%s", networks[k].name,
                         side_of(b->o, cost_times[i]), kind[c]);
                v[c][k][i] = measure(r, "", name, &unused);
            }
    begin(b, "Time and memory of a forward pass, against resolution");
    snprintf(cells, sizeof cells,
             "At %zu pixels a side softmax attention needs %.3g ms a picture and Mamba-2 %.3g ms; "
             "at %zu pixels they need %.3g ms and %.3g ms, and %.3g and %.3g MiB of memory.",
             side_of(b->o, cost_times[0]),
             v[0][MMIX_MIXER_SOFTMAX][0], v[0][MMIX_MIXER_SSD][0], side_of(b->o, cost_times[last]),
             v[0][MMIX_MIXER_SOFTMAX][last],
             v[0][MMIX_MIXER_SSD][last], v[1][MMIX_MIXER_SOFTMAX][last],
             v[1][MMIX_MIXER_SSD][last]);
    say(b, "b", cells);
    say(b, "soft", "The paper: all models are standard, their costs follow prior work. The "
                   "networks are untrained and look at one picture with all threads; the time is "
                   "the median of five, and other work on the machine lengthens it. MiB: the most "
                   "memory that the library held, weights and picture included.");
    report_plot plot;
    double x[COST_SIDES];
    memset(&plot, 0, sizeof plot);
    plot.x_label = "pixels a side";
    plot.y_label = "ms";
    plot.caption = "Milliseconds a picture, on logarithmic axes.";
    plot.log_x = plot.log_y = 1;
    for (int c = 0; c < 2; c++) {
        snprintf(cells, sizeof cells, "%s", c ? "MiB" : "ms");
        for (int i = 0; i < COST_SIDES; i++) {
            x[i] = (double)side_of(b->o, cost_times[i]);
            cell(cells, sizeof cells, "|%.0f pixels", x[i]);
        }
        row(b, cells, 1);
        for (int k = 0; k < MIXERS; k++) {
            report_curve curve = {networks[k].name, x, v[0][k], COST_SIDES, k, 0};
            snprintf(cells, sizeof cells, "%s", networks[k].name);
            for (int i = 0; i < COST_SIDES; i++) cell(cells, sizeof cells, "|%.3g", v[c][k][i]);
            row(b, cells, 0);
            if (!c) plot.curve[plot.curves++] = curve;
        }
        row(b, NULL, 0);
    }
    report_chart(&b->h, &plot);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_results(const book *b)                 /* every figure: "name": [value, error] */
{
    const char *comma = "";
    printf("{\"steps\": %zu, \"size\": %zu, \"seeds\": %zu, \"parts\": [", b->o->steps, b->o->size,
           b->seeds);
    for (size_t k = 0; k < PARTS; k++)
        for (size_t s = 0; s <= b->seeds; s++) {
            const results *r = &b->of[k][s];
            if (!r->count) continue;
            printf("%s\n {\"name\": \"%s\", \"seed\": %zu, \"measures\": {", comma, part_name(k),
                   s);
            for (size_t i = 0, n = 0; i < r->count; i++) {
                if (strstr(r->at[i].name, "/each/")) continue;   /* pictures, packed */
                const char *between = n++ ? "," : "";
                if (isfinite(r->at[i].value))
                    printf("%s\n  \"%s\": [%.9g, %.9g]", between, r->at[i].name,
                           r->at[i].value, r->at[i].error);
                else printf("%s\n  \"%s\": null", between, r->at[i].name);
            }
            printf("}}");
            comma = ",";
        }
    printf("\n]}\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

/* The page's first sentence: the best of the mixers by one measure beside the best of the
   baselines. */
static void add_best(book *b, sentence *s, const char *of, const char *of_plain, const char *what)
{
    estimate e[MOST_ITEMS];
    size_t n = 0, best = 0;
    size_t baselines = sizeof baseline / sizeof *baseline;
    size_t i = baselines;
    double most = -INFINITY, error = 0, half, v, sure;
    for (; mixers_all[n]; n++) {
        e[n] = estimate_of(b, network_of(mixers_all[n]), of, mixers_all[n]);
        if (e[n].seeds && (!e[best].seeds || e[n].mean > e[best].mean)) best = n;
    }
    if (!e[best].seeds) return;
    for (size_t k = 0; k < baselines; k++)
        if ((v = measure(&b->of[BASELINES][0], baseline[k].prefix, of_plain, &sure)) > most) {
            most = v;
            error = sure;
            i = k;
        }
    half = half_mean(e, n, best);
    add(s, "%s%s: of the mixers %s has most, %.3f", s->n ? " " : "", what, e[best].label,
        e[best].mean);
    if (half > 0) add(s, " ± %.3f", half);
    if (i < baselines) add(s, "; the best of what nobody has trained (%s) has %.3f ± %.3f",
                           baseline[i].label, most, report_half * error);
    add(s, ".");
}

/* How much there is, and of what. */
static void report_state(book *b)
{
    sentence s = {"", 0};
    size_t networks_there = 0, files = 0;
    double unused, n[3];
    static const char *const name[3] = {"pictures/train", "pictures/test", "pictures/classes"};
    char few[200];
    sentence first = {"", 0};
    add_best(b, &first, "read/token", "probe", "Top-1 of a linear probe on the class token");
    add_best(b, &first, "at4/auc", "auc", "Binary-AUC of the maps");
    say(b, "b", first.text);
    for (size_t k = 0; k < NETWORKS; k++) {
        networks_there += b->found[k] > 0;
        files += b->found[k];
    }
    if (report_few(b->o->steps)) {
        snprintf(few, sizeof few, "%zu steps a network: %s", b->o->steps, report_few(b->o->steps));
        say(b, "b", few);
    }
    say(b, "soft", "\"The paper\" is \"RNN as Linear Transformer\", arXiv 2511.18380. Its networks "
                   "are larger, learned longer and from ImageNet: its orders can be compared, its "
                   "numbers cannot.");
    add(&s, "%zu of %d networks are there, %zu of %zu runs of %zu steps each.", networks_there,
        (int)NETWORKS, files, NETWORKS * b->seeds, b->o->steps);
    for (int i = 0; i < 3; i++) n[i] = measure(&b->of[BASELINES][0], "", name[i], &unused);
    if (isfinite(n[0]))
        add(&s, " They were given %.0f training and %.0f test pictures of %.0f classes, at %zu x "
                "%zu pixels.", n[0], n[1], n[2], b->o->size, b->o->size);
    say(b, "soft", s.text);
    say(b, "soft", "Behind ± stands half of a 95 % interval, of the error over the pictures and "
                   "the deviation between seeds together. The deviation is a network's own from "
                   "three seeds on, else that of all in the table; with one seed each it is not "
                   "known and left out. A difference can be told from chance where its interval "
                   "does not reach 0. All networks are judged on the same pictures: of top-1 and "
                   "Binary-AUC, whose files say what each picture gave, two are compared picture "
                   "by picture. Of all else they are compared as if on different pictures, which "
                   "makes the interval rather too wide. In 20 such claims one may be chance all "
                   "the same; those with a * still hold after Holm's correction for all that their "
                   "sentence asks about.");
    say(b, "soft", "Linear probe, top-1: the share of test pictures whose class a linear head on "
                   "the features names. k-NN: the share whose class the nearest training pictures "
                   "name. Balanced: the mean over the classes. mIoU: how far a linear head on the "
                   "patches finds the masks. Binary-AUC: how well the map of the class token tells "
                   "objects from background; chance is 0.5.");
}

static void report_recipes(book *b)
{
    report_html(&b->h, "<h2>How</h2>\n<p class=\"soft\">The pictures are those of <code>");
    report_text(&b->h, b->o->images);
    report_html(&b->h, "</code>.</p>\n<details class=\"soft\"><summary>All numbers of the recipes "
                       "(<code>--set list</code> says what they are)</summary>\n");
    for (size_t k = 0; k < NETWORKS; k++) {
        recipe r = recipe_of(b->o, &networks[k]);
        if (!b->found[k]) continue;
        report_html(&b->h, "<p><code>%s: %s;", networks[k].name, networks[k].what);
        for (size_t i = 0; i < RECIPE_NUMBERS; i++)
            report_html(&b->h, " %s=%g", recipe_number[i].name, *recipe_at(&r, i));
        report_html(&b->h, "</code></p>\n");
    }
    report_html(&b->h, "</details>\n");
}

/* All that can be said of the files there are: on stdout and in OUT/report.html. 0, or an exit
   status. */
static int write_tables(const settings *o)
{
    static const char *const sizes[] = {"ssd-small", "ssd", "ssd-large", "softmax-small", "softmax",
                                        NULL};
    static const char *const places[] = {"ssd-first", "ssd", "ssd-released", "registers", NULL};
    static const char *const told[] = {"softmax", "softmax-labels", "linear", "linear-labels",
                                       "ssd", "ssd-labels", NULL};
    static const int size_pair[][2] = {{0, 1}, {0, 2}, {1, 2}, {3, 4}},
        told_pair[][2] = {{0, 1}, {2, 3}, {4, 5}};
    static book b;
    char path[1100];
    int bad = read_book(&b, o);
    snprintf(path, sizeof path, "%s/report.html", o->out);
    if (!bad && report_open(&b.h, path, "Four token mixers, measured like the tables of a paper"))
        bad = fail("%s", b.h.error);
    if (!bad) {
        report_state(&b);
        report_mixers(&b);
        report_kinds(&b, "Sizes", sizes, size_pair, 4,
                     "The paper's figure 9: of DinoVim the small model has the clearest maps.");
        report_kinds(&b, "Where the class token stands", places, NULL, 0,
                     "The paper's figure 8: the middle class token has clearer maps than the "
                     "first. Here \"ssd\" has one in the middle, \"ssd-released\" one in front as "
                     "well, as the paper's code.");
        report_kinds(&b, "With labels and without", told, told_pair, 3,
                     "The paper's figure 11: self-supervised maps are clearer than supervised "
                     "ones. The heads of the probe use labels in either case; the voters of k-NN "
                     "hold training pictures, whose classes the supervised networks were told.");
        report_length(&b);
        report_robustness(&b);
        report_ablations(&b);
        report_ranks(&b);
        report_correlations(&b);
        report_costs(&b);
        report_recipes(&b);
        if (report_close(&b.h)) bad = fail("%s", b.h.error);
    }
    if (!bad && o->json) print_results(&b);
    fflush(stdout);
    if (!bad) fprintf(stderr, "report: %s\n", path);
    close_book(&b);
    return bad;
}

#endif
