/* typeseg.c - what kind of text each character belongs to, said by a Mamba-1 that others trained,
   and what its matrices read

       pip download --no-deps typeseg==0.2.7 && unzip typeseg-0.2.7-py3-none-any.whl
       cc -O2 demos/studies/typeseg.c -o typeseg -lm -lpthread
       ./typeseg --load typeseg/data/mamba_al.npz                          a text of its own
       ./typeseg --load typeseg/data/mamba_al.npz --file page.html --out build/typeseg-out

   The Python package typeseg (Apache-2.0) holds a network of 1.4 million numbers that names the
   kind of each byte of a text: six blocks of 256 channels, each with a selective scan in both
   directions. This program reads its weights, runs it, and prints the stretches of one kind. A
   report shows the text in colours, what a few characters read in each block, how far the blocks
   reach, and the ranks of their matrices' blocks.

   A block differs from mmix_mamba1_forward in four things, so it is put together from ops here:
   its convolution looks at two characters ahead and one behind, x_proj has a bias, 10⁻⁴ is added
   to δ, and both directions share all weights and are added before the one gate.

   Sections: text · weights · network · kinds · looking · options · main. Pages and figures are
   in typeseg_report.h. */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED                              /* make links an object that all demos share */
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "typeseg"
#include "../../mamba_mix.h"
#include "npz.h"
#include "program.h"
#include "report.h"

#define fail report_refuse

enum { BLOCKS = 6, WIDTH = 256, STATE = 16, RANK = 16, TAPS = 4, IDS = 130, KINDS = 35 };

/* The kinds in the order of the network's outputs (the package's manifest.json). Below OTHER's
   number are the network's; OTHER is where none is likely. */
enum { OTHER = KINDS };
static const char *const kind_name[KINDS + 1] = {
    "php", "csharp", "javascript_typescript", "go", "sql", "rust", "yaml", "ruby", "python", "java",
    "c_family", "json", "css", "html", "text", "csv", "shell", "powershell", "visual_basic",
    "dockerfile", "dart", "gettext_catalog", "kotlin", "markdown", "restructuredtext", "scala",
    "swift", "tex", "xml", "svg", "encoding_hex", "encoding_base64", "encoding_base32",
    "encoding_base58", "encoding_base85", "other"
};

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct text {
    const char *bytes;
    size_t size, count;                      /* bytes; characters */
    size_t *start;                           /* (count + 1): where characters begin in `bytes` */
    int32_t *ids;                            /* (size): what the network reads */
} text;

static const char sample[] =
    "<h1>Opening hours</h1>\n"
    "<p onclick=\"alert('closed on Monday')\">We are open from nine to five.</p>\n"
    "<script>\n"
    "const open = days.filter(day => day.from < 10);\n"
    "document.title = open.map(day => day.name).join(', ');\n"
    "</script>\n"
    "\n"
    "SELECT name, opens FROM days WHERE opens < 10 ORDER BY name;\n"
    "\n"
    "Dear visitors, the museum is closed this week because the roof is being\n"
    "mended. We hope to see you again in spring.\n"
    "\n"
    "#!/bin/sh\n"
    "for f in photos/*.jpg; do convert \"$f\" -resize 50% \"small/$(basename $f)\"; done\n"
    "\n"
    "#include <stdio.h>\n"
    "int main(void) { printf(\"%d visitors\\n\", 42); return 0; }\n"
    "\n"
    "{\"name\": \"Monday\", \"opens\": null, \"guides\": [\"Ada\", \"Grace\"]}\n"
    "VGhlIG11c2V1bSBpcyBjbG9zZWQgdGhpcyB3ZWVrIGJlY2F1c2UgdGhlIHJvb2YgaXMgbGVha2luZy4=\n";

/* The bytes of the UTF-8 character that begins at `at`, of which `left` are there; 0: it is none
   (Unicode 15.0, table 3-7). */
static size_t character_bytes(const unsigned char *at, size_t left)
{
    size_t n = 0;
    unsigned low = 0x80, high = 0xBF;            /* of the second byte */
    if (at[0] < 0x80) return 1;
    if (at[0] >= 0xC2 && at[0] <= 0xDF) n = 2;
    else if (at[0] >= 0xE0 && at[0] <= 0xEF) n = 3;
    else if (at[0] >= 0xF0 && at[0] <= 0xF4) n = 4;
    if (!n || n > left) return 0;
    if (at[0] == 0xE0) low = 0xA0;
    if (at[0] == 0xED) high = 0x9F;
    if (at[0] == 0xF0) low = 0x90;
    if (at[0] == 0xF4) high = 0x8F;
    if (at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < n; i++)
        if (at[i] < 0x80 || at[i] > 0xBF) return 0;
    return n;
}

/* Rows of the embedding: printable ASCII, tab and line ends have their own, 128 is for all other
   bytes, 129 for padding, which is not needed here. */
static int32_t id_of(unsigned char byte)
{
    if (byte >= 0x20 && byte < 0x7F) return byte;
    return byte == '\t' || byte == '\n' || byte == '\r' ? byte : 128;
}

/* Cuts bytes into characters. The arrays are for text_free, after an error, too. 0, or -1. */
static int text_cut(mmix_ctx *m, text *t, const char *name, const char *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *)bytes;
    memset(t, 0, sizeof *t);
    t->bytes = bytes;
    t->size = size;
    t->start = (size_t *)bytes_alloc(m, size + 1, sizeof *t->start);
    t->ids = (int32_t *)bytes_alloc(m, size, sizeof *t->ids);
    if (!t->start || !t->ids) return -1;
    for (size_t i = 0; i < size;) {
        size_t n = character_bytes(at + i, size - i);
        if (!n) return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected UTF-8, found byte 0x%02X at %zu",
                                 name, (unsigned)at[i], i);
        t->start[t->count++] = i;
        i += n;
    }
    t->start[t->count] = size;
    for (size_t i = 0; i < size; i++) t->ids[i] = id_of(at[i]);
    return 0;
}
static void text_free(text *t)
{
    BYTES_FREE(t->start);
    BYTES_FREE(t->ids);
}
static int is_space(const text *t, size_t character)
{
    return strchr(" \t\n\r\f\v", t->bytes[t->start[character]]) != NULL
        && t->bytes[t->start[character]];
}

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct block {
    mmix_mamba1_layer mamba;                     /* its parameters; dir[0] is for both directions */
    mmix_tensor *x_bias;                         /* (RANK + 2 STATE): of x_proj */
    mmix_tensor *norm_weight, *norm_bias;        /* (WIDTH) */
} block;
typedef struct network {
    mmix_params *params;
    mmix_tensor *embedding;                      /* (IDS, WIDTH) */
    mmix_tensor *norm_weight, *norm_bias;        /* (WIDTH) */
    mmix_tensor *head_weight, *head_bias;        /* (KINDS, WIDTH); (KINDS) */
    block blocks[BLOCKS];
} network;

/* Arrays of the file and what they are called in mmix_params. Flax keeps a matrix as (in, out) and
   a depthwise kernel as (W, 1, D): the axes are turned around. */
typedef struct naming {
    const char *in_file, *name;
    int turned;
} naming;
static const naming block_names[] = {
    {"LayerNorm_0__scale", "norm.weight", 0}, {"LayerNorm_0__bias", "norm.bias", 0},
    {"Dense_0__kernel", "in_proj.weight", 1}, {"Dense_0__bias", "in_proj.bias", 0},
    {"Conv_0__kernel", "conv1d.weight", 1},   {"Conv_0__bias", "conv1d.bias", 0},
    {"Dense_1__kernel", "x_proj.weight", 1},  {"Dense_1__bias", "x_proj.bias", 0},
    {"Dense_2__kernel", "dt_proj.weight", 1}, {"Dense_2__bias", "dt_proj.bias", 0},
    {"A_log", "A_log", 0},                    {"D", "D", 0},
    {"Dense_3__kernel", "out_proj.weight", 1}, {"Dense_3__bias", "out_proj.bias", 0},
};
static const naming other_names[] = {
    {"Embed_0__embedding", "embedding", 0},
    {"LayerNorm_0__scale", "norm.weight", 0}, {"LayerNorm_0__bias", "norm.bias", 0},
    {"Dense_0__kernel", "head.weight", 1},    {"Dense_0__bias", "head.bias", 0},
};
enum { BLOCK_NAMES = sizeof block_names / sizeof *block_names,
       OTHER_NAMES = sizeof other_names / sizeof *other_names };

static mmix_tensor *add(network *net, const char *prefix, const char *name, size_t rows,
                        size_t columns)
{
    size_t shape[2] = {rows, columns};
    int axes = columns ? 2 : 1;
    return mmix_params_add(net->params, prefix, name, axes, shape, MMIX_INIT_CONSTANT, 0, 0);
}

/* The parameters, without their values. 0, or -1. */
static int declare(mmix_ctx *m, network *net)
{
    mmix_mamba1_options options;
    memset(&options, 0, sizeof options);
    options.d_inner = WIDTH;
    options.d_state = STATE;
    options.dt_rank = RANK;
    options.conv_width = TAPS;
    options.bias = 1;
    net->params = mmix_params_create(m);
    net->embedding = add(net, "", "embedding", IDS, WIDTH);
    for (int k = 0; k < BLOCKS; k++) {
        block *b = &net->blocks[k];
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%d.", k);
        b->norm_weight = add(net, prefix, "norm.weight", WIDTH, 0);
        b->norm_bias = add(net, prefix, "norm.bias", WIDTH, 0);
        if (mmix_mamba1_init(&b->mamba, net->params, prefix, WIDTH, &options)) return -1;
        b->x_bias = add(net, prefix, "x_proj.bias", RANK + 2 * STATE, 0);
    }
    net->norm_weight = add(net, "", "norm.weight", WIDTH, 0);
    net->norm_bias = add(net, "", "norm.bias", WIDTH, 0);
    net->head_weight = add(net, "", "head.weight", KINDS, WIDTH);
    net->head_bias = add(net, "", "head.bias", KINDS, 0);
    return mmix_params_allocate(net->params);
}

/* "(4, 1, 256)" */
static void write_shape(char *out, size_t room, int axes, const size_t *shape)
{
    size_t n = (size_t)snprintf(out, room, "(");
    for (int i = 0; i < axes && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, i ? ", %zu" : "%zu", shape[i]);
    if (n < room) snprintf(out + n, room - n, ")");
}

/* Reads an array of the file into a parameter. 0, or -1. */
static int read_array(mmix_ctx *m, const mmix_archive *a, const char *path, const char *in_file,
                      mmix_tensor *t, int turned)
{
    const mmix_entry *e = mmix_archive_find(a, in_file);
    size_t shape[MMIX_MAX_DIMS];
    int axes = mmix_ndim(t);
    char expected[128], found[128];
    for (int i = 0; i < axes; i++) shape[i] = mmix_shape(t, turned ? axes - 1 - i : i);
    write_shape(expected, sizeof expected, axes, shape);
    if (!e) return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected an array %s %s, found none", path,
                             in_file, expected);
    write_shape(found, sizeof found, e->ndim, e->shape);
    if (strcmp(expected, found))
        return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected %s of shape %s, found %s", path, in_file,
                         expected, found);
    mmix_mark mark = mmix_mark_here(m);
    size_t count = mmix_count(t), rows = shape[0], columns = count / rows;
    mmix_real *from = mmix_data(mmix_new1(m, count)), *to = mmix_data(t);
    if (!from || !to || mmix_archive_read(m, a, e, MMIX_FILE_REAL, from, count)) return -1;
    for (size_t i = 0; i < count; i++)
        to[turned ? i % columns * rows + i / columns : i] = from[i];
    mmix_rewind(m, mark);
    return 0;
}
static int read_arrays(mmix_ctx *m, const network *net, const mmix_archive *a, const char *path)
{
    char in_file[64], name[64];
    for (int i = 0; i < OTHER_NAMES; i++)
        if (read_array(m, a, path, other_names[i].in_file,
                       mmix_params_find(net->params, other_names[i].name), other_names[i].turned))
            return -1;
    for (int k = 0; k < BLOCKS; k++)
        for (int i = 0; i < BLOCK_NAMES; i++) {
            const naming *n = &block_names[i];
            snprintf(in_file, sizeof in_file, "CheckpointMambaBlock1D_%d__%s", k, n->in_file);
            snprintf(name, sizeof name, "blocks.%d.%s", k, n->name);
            if (read_array(m, a, path, in_file, mmix_params_find(net->params, name), n->turned))
                return -1;
        }
    size_t expected = BLOCKS * BLOCK_NAMES + OTHER_NAMES;
    if (mmix_archive_count(a) == expected) return 0;
    return mmix_fail(m, MMIX_ERROR_FILE, "%s: expected %zu arrays, found %zu", path, expected,
                     mmix_archive_count(a));
}

/* 0, or -1; for network_close in both cases. */
static int network_open(mmix_ctx *m, network *net, const char *path)
{
    memset(net, 0, sizeof *net);
    if (declare(m, net)) return -1;
    mmix_archive *a = npz_open(m, path);
    int bad = !a || read_arrays(m, net, a, path);
    mmix_archive_close(a);
    return bad ? -1 : mmix_params_pack(net->params, 1);
}
static void network_close(network *net) { mmix_params_destroy(net->params); }

/* ---- network --------------------------------------------------------------------------------- */

/* silu(bias + Σ_k weight[:,0,k] x_{t-1+k}) with zeros before and behind the text, (1, L, WIDTH): a
   causal convolution over two zeros more, whose first two results are dropped. */
static mmix_tensor *convolve(mmix_ctx *m, const mmix_mamba1_direction *w, mmix_tensor *x)
{
    enum { AHEAD = TAPS / 2 };
    mmix_causal_conv1d_options options;
    memset(&options, 0, sizeof options);
    options.silu = 1;
    mmix_tensor *parts[2] = {x, mmix_fill(mmix_new3(m, 1, AHEAD, WIDTH), 0)};
    size_t L = mmix_shape(x, 1);
    x = mmix_concat(m, 1, parts, 2);
    x = mmix_causal_conv1d(m, x, w->conv_weight, w->conv_bias, &options);
    return mmix_slice(m, x, 1, AHEAD, L);
}

/* The columns of u (1, L, …) from `from` on as (1, L, heads, width), a view. */
static mmix_tensor *columns_of(mmix_ctx *m, mmix_tensor *u, size_t from, size_t heads, size_t width)
{
    size_t shape[4] = {1, mmix_shape(u, 1), heads, width};
    return mmix_reshape(m, mmix_slice(m, u, 2, from, heads * width), 4, shape);
}

/* h + out_proj(y silu(z)) of h (1, L, WIDTH), where y is the sum of both directions' scans:

       [x | z] = in_proj(norm h),  x ← silu(convolution x),  [r | B | C] = x_proj x,
       δ = softplus(dt_proj r) + 10⁻⁴,  A = -e^A_log

   MMIX_SCAN_BOTH gives half of that sum, with D x once where the sum has it twice: twice that. */
static mmix_tensor *block_forward(mmix_ctx *m, const block *b, mmix_tensor *h)
{
    const mmix_mamba1_layer *layer = &b->mamba;
    const mmix_mamba1_direction *w = &layer->dir[0];
    size_t rows[3] = {1, mmix_shape(h, 1), WIDTH};
    mmix_tensor *u = mmix_layer_norm(m, h, b->norm_weight, b->norm_bias, 1e-6);
    mmix_tensor *xz = mmix_linear(m, u, layer->in_proj, layer->in_bias);
    mmix_tensor *x = convolve(m, w, mmix_slice(m, xz, 2, 0, WIDTH));
    mmix_tensor *rBC = mmix_linear(m, x, w->x_proj, b->x_bias);
    mmix_tensor *dt = mmix_linear(m, mmix_slice(m, rBC, 2, 0, RANK), w->dt_weight, w->dt_bias);
    dt = mmix_affine(m, mmix_softplus(m, dt), 1, 1e-4);
    mmix_tensor *B = columns_of(m, rBC, RANK, 1, STATE);
    mmix_tensor *C = columns_of(m, rBC, RANK + STATE, 1, STATE);
    mmix_mixer scan = mmix_mixer_selective(columns_of(m, x, 0, WIDTH, 1), dt,
                                           mmix_rates(m, w->A_log), B, C);
    scan.D = w->D;
    scan.z = columns_of(m, xz, WIDTH, WIDTH, 1);
    scan.direction = MMIX_SCAN_BOTH;
    mmix_tensor *y = mmix_affine(m, mmix_reshape(m, mmix_mix(m, &scan), 3, rows), 2, 0);
    return mmix_linear_residual(m, y, layer->out_proj, layer->out_bias, h, NULL);
}

/* Logits (1, size, KINDS) of a text's bytes; NULL on error. */
static mmix_tensor *network_forward(mmix_ctx *m, const network *net, const text *t)
{
    size_t shape[2] = {1, t->size};
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *h = mmix_take_rows(m, net->embedding, mmix_from_i32(m, 2, shape, t->ids));
    for (int k = 0; k < BLOCKS && h; k++) {
        h = block_forward(m, &net->blocks[k], h);
        if (mmix_rewind_keep(m, mark, &h, 1)) return NULL;
    }
    h = mmix_layer_norm(m, h, net->norm_weight, net->norm_bias, 1e-6);
    return mmix_linear(m, h, net->head_weight, net->head_bias);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The rules of the package, with its names: whitespace_relabel, confidence_gating and
   min_run_normalize. Its two others, which move ends of stretches to brackets, are left out. */
enum { LEAST_RUN = 3, MOST_PASSES = 16 };
static const double LEAST_CONFIDENCE = 0.3;

typedef struct stretch {
    size_t begin, end;                           /* characters */
    int kind;
    double confidence;                           /* the mean of its characters' */
} stretch;
typedef struct kinds {
    float *share;                                /* (characters, KINDS): probabilities */
    int *kind;                                   /* (characters) */
    stretch *list;
    size_t stretches;
} kinds;

/* The probabilities of each character: the mean of its bytes' softmax. 0, or -1. */
static int shares_of(mmix_ctx *m, const text *t, const mmix_real *logits, float *share)
{
    for (size_t c = 0; c < t->count; c++) {
        size_t bytes = t->start[c + 1] - t->start[c];
        float *to = share + c * KINDS;
        for (int k = 0; k < KINDS; k++) to[k] = 0;
        for (size_t i = t->start[c]; i < t->start[c + 1]; i++) {
            const mmix_real *row = logits + i * KINDS;
            double top = (double)row[0], sum = 0;
            for (int k = 1; k < KINDS; k++) top = fmax(top, (double)row[k]);
            for (int k = 0; k < KINDS; k++) sum += exp((double)row[k] - top);
            if (!isfinite(sum))
                return mmix_fail(m, MMIX_ERROR_FILE, "byte %zu: the network's output is no number",
                                 i);
            for (int k = 0; k < KINDS; k++)
                to[k] += (float)(exp((double)row[k] - top) / sum / (double)bytes);
        }
    }
    return 0;
}
static int likeliest(const float *share)
{
    int best = 0;
    for (int k = 1; k < KINDS; k++)
        if (share[k] > share[best]) best = k;
    return best;
}

/* White space takes the kind of what is before it, at the beginning of what is behind it. */
static void relabel_space(const text *t, int *kind)
{
    size_t first = 0;
    while (first < t->count && is_space(t, first)) first++;
    if (first == t->count) return;
    for (size_t c = 0; c < first; c++) kind[c] = kind[first];
    for (size_t c = first + 1; c < t->count; c++)
        if (is_space(t, c)) kind[c] = kind[c - 1];
}

/* Where runs of one kind begin, and the end; how many runs. `cut` has n + 1 places. */
static size_t cut_runs(const int *kind, size_t n, size_t *cut)
{
    size_t runs = 0;
    for (size_t c = 0; c < n; c++)
        if (!c || kind[c] != kind[c - 1]) cut[runs++] = c;
    cut[runs] = n;
    return runs;
}

/* How well a neighbour of kind `kind` and `length` characters suits a short run: first whether it
   is on both sides, then its probability there, then its length. */
typedef struct suit { double both, support, length; } suit;
static suit suit_of(const kinds *k, size_t begin, size_t end, int kind, int both, size_t length)
{
    suit s = {(double)both, 0, (double)length};
    if (kind == OTHER) return s;
    for (size_t c = begin; c < end; c++)
        s.support += (double)k->share[c * KINDS + (size_t)kind] / (double)(end - begin);
    return s;
}
static int suits_better(suit a, suit b)
{
    if (a.both != b.both) return a.both > b.both;
    if (a.support != b.support) return a.support > b.support;
    return a.length > b.length;
}

/* One pass: inner runs below LEAST_RUN characters join a neighbour, but none that has just
   joined one before it. Returns whether one did. */
static int join_short_runs(kinds *k, size_t n, size_t *cut)
{
    size_t runs = cut_runs(k->kind, n, cut), joined = 0;
    for (size_t i = 1; i + 1 < runs; i++) {
        size_t begin = cut[i], end = cut[i + 1];
        int left = k->kind[cut[i - 1]], right = k->kind[cut[i + 1]];
        if (begin <= joined || end - begin >= LEAST_RUN || k->kind[begin] == OTHER) continue;
        suit of_left = suit_of(k, begin, end, left, left == right, begin - cut[i - 1]);
        suit of_right = suit_of(k, begin, end, right, left == right, cut[i + 2] - end);
        int to = suits_better(of_right, of_left) ? right : left;
        for (size_t c = begin; c < end; c++) k->kind[c] = to;
        joined = end;
    }
    return joined > 0;
}

static void list_stretches(kinds *k, size_t n, const size_t *cut, size_t runs)
{
    k->stretches = runs;
    for (size_t i = 0; i < runs; i++) {
        stretch *s = &k->list[i];
        s->begin = cut[i];
        s->end = cut[i + 1];
        s->kind = k->kind[s->begin];
        s->confidence = 0;
        for (size_t c = s->begin; c < s->end && c < n; c++) {
            const float *share = k->share + c * KINDS;
            double of = s->kind == OTHER ? 1 - (double)share[likeliest(share)]
                                         : (double)share[s->kind];
            s->confidence += of / (double)(s->end - s->begin);
        }
    }
}

/* 0, or -1; for kinds_free in both cases. */
static int kinds_of(mmix_ctx *m, const text *t, const mmix_real *logits, int raw, kinds *k)
{
    size_t n = t->count;
    size_t *cut = (size_t *)bytes_alloc(m, n + 1, sizeof *cut);
    k->share = (float *)bytes_alloc(m, n * KINDS, sizeof *k->share);
    k->kind = (int *)bytes_alloc(m, n, sizeof *k->kind);
    k->list = (stretch *)bytes_alloc(m, n, sizeof *k->list);
    if (mmix_error(m) || shares_of(m, t, logits, k->share)) {
        BYTES_FREE(cut);
        return -1;
    }
    for (size_t c = 0; c < n; c++) k->kind[c] = likeliest(k->share + c * KINDS);
    if (!raw) {
        relabel_space(t, k->kind);
        for (size_t c = 0; c < n; c++) {
            const float *share = k->share + c * KINDS;
            if ((double)share[likeliest(share)] < LEAST_CONFIDENCE) k->kind[c] = OTHER;
        }
        for (int pass = 0; pass < MOST_PASSES && join_short_runs(k, n, cut); pass++)
            ;
        relabel_space(t, k->kind);
    }
    list_stretches(k, n, cut, cut_runs(k->kind, n, cut));
    BYTES_FREE(cut);
    return 0;
}
static void kinds_free(kinds *k)
{
    BYTES_FREE(k->share);
    BYTES_FREE(k->kind);
    BYTES_FREE(k->list);
}

/* ---- looking --------------------------------------------------------------------------------- */

/* |M| of a row is the mean over the channels, so that a channel of large numbers counts more. M is
   that of MMIX_SCAN_BOTH, half of what the block uses; its diagonal holds D. */
enum { SAMPLES = 32, MOST_SHOWN = 8, SIDE = 64 };

typedef struct sight {
    double itself;                               /* share of Σ_j |M_ij| that has j = i */
    double half, most;                           /* within so many bytes lie half and 90 % of the
                                                    rest */
    double before;                               /* share of the rest that has j < i */
} sight;
typedef struct block_look {
    sight mean;                                  /* of rows spread evenly over the text */
    sight shown[MOST_SHOWN];
    double *row[MOST_SHOWN];                     /* (bytes): |M| of the characters that are shown */
    double rank, most_rank, effective;           /* of blocks off the diagonal, means and most */
} block_look;
typedef struct look {
    const text *t;
    size_t shown, at[MOST_SHOWN];                /* characters whose rows are kept */
    size_t side;                                 /* of the blocks whose rank is measured; 0: none */
    size_t done;                                 /* blocks */
    double *sum, *row;                           /* (bytes): scratch */
    block_look blocks[BLOCKS];
} look;

static size_t least_of(size_t a, size_t b) { return a < b ? a : b; }

/* |M| of row i, the mean over the channels, into row. 0, or -1. */
static int row_of(mmix_ctx *m, const mmix_mixer *mixer, size_t i, double *row)
{
    mmix_mark mark = mmix_mark_here(m);
    mmix_tensor *M = mmix_mix_rows_mean(m, mixer, &i, 1);
    const mmix_real *value = mmix_data(M);
    if (!value) return -1;
    size_t channels = mmix_shape(M, 1), L = mmix_shape(M, 2);
    for (size_t j = 0; j < L; j++) row[j] = 0;
    for (size_t k = 0; k < channels * L; k++)
        row[k % L] += fabs((double)value[k]) / (double)channels;
    mmix_rewind(m, mark);
    return 0;
}

/* The least distance within which lies a share of what `apart` has in distances 1 … n - 1. */
static double distance_of(const double *apart, size_t n, double share)
{
    double all = 0, sum = 0;
    for (size_t d = 1; d < n; d++) all += apart[d];
    if (!(all > 0)) return 0;
    for (size_t d = 1; d < n; d++) {
        sum += apart[d];
        if (sum >= share * all) return (double)d;
    }
    return (double)n - 1;
}
/* What is seen in a sum of rows by distance: `apart` (n), of which `before` lies before the row. */
static sight sight_of(const double *apart, size_t n, double before)
{
    double rest = 0;
    for (size_t d = 1; d < n; d++) rest += apart[d];
    sight s = {1, 0, 0, 0};
    if (apart[0] + rest > 0) s.itself = apart[0] / (apart[0] + rest);
    s.half = distance_of(apart, n, 0.5);
    s.most = distance_of(apart, n, 0.9);
    if (rest > 0) s.before = before / rest;
    return s;
}
/* Adds a row to sums by distance. Returns what lies before place i. */
static double add_by_distance(const double *row, size_t n, size_t i, double *apart)
{
    double before = 0;
    for (size_t j = 0; j < n; j++) {
        apart[j < i ? i - j : j - i] += row[j];
        if (j < i) before += row[j];
    }
    return before;
}

static int look_at_rows(look *o, mmix_ctx *m, const mmix_mixer *mixer, block_look *b)
{
    size_t n = o->t->size, samples = least_of(n, SAMPLES);
    double before = 0;
    for (size_t s = 0; s < o->shown; s++) {
        size_t i = o->t->start[o->at[s]];
        for (size_t d = 0; d < n; d++) o->sum[d] = 0;
        b->row[s] = (double *)bytes_alloc(m, n, sizeof **b->row);
        if (!b->row[s] || row_of(m, mixer, i, b->row[s])) return -1;
        double back = add_by_distance(b->row[s], n, i, o->sum);
        b->shown[s] = sight_of(o->sum, n, back);
    }
    for (size_t d = 0; d < n; d++) o->sum[d] = 0;
    for (size_t s = 0; s < samples; s++) {
        size_t i = (2 * s + 1) * n / (2 * samples);
        if (row_of(m, mixer, i, o->row)) return -1;
        before += add_by_distance(o->row, n, i, o->sum);
    }
    b->mean = sight_of(o->sum, n, before);
    return 0;
}

/* The mixer of `count` tokens from `from` on: its M is that part of the whole one. */
static mmix_mixer part_of(mmix_ctx *m, const mmix_mixer *mixer, size_t from, size_t count)
{
    mmix_mixer part = *mixer;
    part.q = mmix_slice(m, part.q, 1, from, count);
    part.k = mmix_slice(m, part.k, 1, from, count);
    part.v = mmix_slice(m, part.v, 1, from, count);
    part.dt = mmix_slice(m, part.dt, 1, from, count);
    part.z = NULL;
    return part;
}

/* Ranks of the two blocks off the diagonal of each channel's M, of the 2 `side` bytes in the
   middle of the text. */
static int look_at_ranks(const look *o, mmix_ctx *m, const mmix_mixer *mixer, block_look *b)
{
    mmix_rank r;
    size_t w = o->side;
    mmix_mixer part = part_of(m, mixer, (o->t->size - 2 * w) / 2, 2 * w);
    mmix_tensor *M = mmix_mix_matrix(m, &part);
    for (size_t half = 0; half < 2; half++) {            /* its rows, the other's columns */
        mmix_mark mark = mmix_mark_here(m);
        mmix_tensor *rows = mmix_slice(m, M, 2, half * w, w);
        if (mmix_block_rank(m, mmix_slice(m, rows, 3, w - half * w, w), 0, 0, &r)) return -1;
        for (size_t k = 0; k < r.matrices; k++) {
            b->rank += r.numerical[k] / (2 * (double)r.matrices);
            b->effective += r.effective[k] / (2 * (double)r.matrices);
            b->most_rank = fmax(b->most_rank, r.numerical[k]);
        }
        mmix_rewind(m, mark);
    }
    return 0;
}

/* mmix_mix_hook's: called with each block's scan before it runs. */
static void look_at(void *user, mmix_ctx *m, const mmix_mixer *mixer)
{
    look *o = (look *)user;
    block_look *b = &o->blocks[o->done++];
    if (interrupted) mmix_fail(m, MMIX_ERROR_INTERRUPTED, "stopped");
    if (mmix_error(m)) return;
    report_say("looking at block %zu of %d", o->done, (int)BLOCKS);
    if (look_at_rows(o, m, mixer, b)) return;
    if (o->side) look_at_ranks(o, m, mixer, b);
}

/* Prepares a look at a text; for look_free in both cases. 0, or -1. */
static int look_begin(mmix_ctx *m, look *o, const text *t)
{
    o->t = t;
    o->side = least_of(t->size / 2, SIDE);
    for (size_t s = 0; !o->shown && s < 3; s++) {        /* where the user names none */
        size_t c = (s + 1) * t->count / 4;
        while (c + 1 < t->count && is_space(t, c)) c++;
        o->at[s] = c;
    }
    if (!o->shown) o->shown = t->count < 3 ? 1 : 3;
    o->sum = (double *)bytes_alloc(m, t->size, sizeof *o->sum);
    o->row = (double *)bytes_alloc(m, t->size, sizeof *o->row);
    return mmix_error(m) ? -1 : 0;
}
static void look_free(look *o)
{
    BYTES_FREE(o->sum);
    BYTES_FREE(o->row);
    for (int k = 0; k < BLOCKS; k++)
        for (size_t s = 0; s < MOST_SHOWN; s++) BYTES_FREE(o->blocks[k].row[s]);
}

#include "typeseg_report.h"

/* ---- options --------------------------------------------------------------------------------- */

static const char help[] =
    "typeseg - what kind of text each character belongs to, by the Mamba of the package typeseg\n\n"
    "  --load FILE      the package's typeseg/data/mamba_al.npz (0.2.7)\n"
    "  --text TEXT      (a text of its own, in which seven kinds are mixed)\n"
    "  --file FILE      a text in UTF-8, instead\n"
    "  --raw            each character has its likeliest kind, and no rule is applied\n"
    "  --out DIR        a report as DIR/report.html: the text in colours, what characters read;\n"
    "                   some ten seconds, for 20,000 characters some minutes\n"
    "  --at LIST        which characters the report shows, from 0, as 12,340; up to 8\n"
    "                                                    (three, spread over the text)\n"
    "  --figures DIR    the documents' figure, typeseg.svg, of the text and the first of --at\n"
    "  --logits FILE    the network's output as .npy, (bytes, 35)\n"
    "  --repeat N       then runs the network N times more and says the least time\n"
    "  --threads N      (all cores)\n"
    "  --help\n\n"
    "A line of stdout is a stretch of one kind: its first character, the one behind its last, its\n"
    "kind, the mean probability, and the text. The kinds are the package's 35, and other, where\n"
    "no kind has a probability of 0.3.\n"
    "Exit status: 0, 2 for bad input, 130 after Ctrl-C.\n";

typedef struct settings {
    const char *load, *text, *file, *out, *figures, *logits, *at;
    int raw;
    size_t repeat, threads;
} settings;

/* 0, or an exit status; -1: help was asked for. */
static int read_options(settings *o, int argc, char **argv)
{
    const char *repeat = "0", *threads = NULL;
    memset(o, 0, sizeof *o);
    const struct {
        const char *name, **text;
    } known[] = {
        {"--load", &o->load}, {"--text", &o->text}, {"--file", &o->file}, {"--out", &o->out},
        {"--figures", &o->figures}, {"--logits", &o->logits}, {"--at", &o->at},
        {"--repeat", &repeat}, {"--threads", &threads},
    };
    unsigned long long n;
    for (int i = 1; i < argc; i++) {
        size_t k = 0, all = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return -1;
        }
        if (!strcmp(argv[i], "--raw")) {
            o->raw = 1;
            continue;
        }
        while (k < all && strcmp(argv[i], known[k].name)) k++;
        if (k == all) return fail("%s: no such option; --help lists them all", argv[i]);
        if (++i == argc) return fail("%s wants a value after it; --help says which", known[k].name);
        *known[k].text = argv[i];
    }
    if (!o->load) return fail("there is no --load; --help says what it opens");
    if (o->text && o->file) return fail("--text and --file: one of them");
    if (o->at && !o->out && !o->figures) return fail("--at %s: give --out or --figures", o->at);
    if (report_whole("--repeat", repeat, 0, 1000, &n)) return 2;
    o->repeat = (size_t)n;
    if (threads && report_whole("--threads", threads, 1, 64, &n)) return 2;
    o->threads = threads ? (size_t)n : 0;
    return 0;
}

/* The characters of --at. 0, or -1. */
static int read_places(mmix_ctx *m, const char *list, size_t count, look *o)
{
    for (const char *at = list; at;) {
        char *end;
        unsigned long long n = strtoull(at, &end, 10);
        if (*at < '0' || *at > '9' || (*end && *end != ',') || n >= count || o->shown == MOST_SHOWN)
            return mmix_fail(m, MMIX_ERROR_ARGUMENT, "--at %s: give up to %d numbers below %zu with"
                             " commas between them", list, (int)MOST_SHOWN, count);
        o->at[o->shown++] = (size_t)n;
        at = *end ? end + 1 : NULL;
    }
    return 0;
}

/* ---- main ------------------------------------------------------------------------------------ */

static void print_stretches(const text *t, const kinds *k)
{
    for (size_t i = 0; i < k->stretches; i++) {
        const stretch *s = &k->list[i];
        printf("%6zu %6zu  %-22s %.3f  ", s->begin, s->end, kind_name[s->kind], s->confidence);
        print_line(stdout, t, s->begin, s->end);
        putchar('\n');
    }
}

/* Seconds of the fastest of `runs` runs. */
static int measure(mmix_ctx *m, const network *net, const text *t, size_t runs)
{
    double best = HUGE_VAL;
    for (size_t i = 0; i < runs; i++) {
        double start = now();
        if (!network_forward(m, net, t)) return -1;
        best = fmin(best, now() - start);
        mmix_reset(m);
    }
    fprintf(stderr, "%zu bytes: %.3f us a byte, the least of %zu; threads %d, %s, %.1f MiB\n",
            t->size, 1e6 * best / (double)t->size, runs, mmix_threads(m), mmix_simd_name(m),
            (double)mmix_memory(m).peak / 1048576);
    return 0;
}

static int save_logits(mmix_ctx *m, const char *path, const mmix_tensor *logits)
{
    mmix_entry e;
    memset(&e, 0, sizeof e);
    e.name = "array";
    e.dtype = MMIX_FILE_REAL;
    e.ndim = 2;
    e.shape[0] = mmix_shape(logits, 1);
    e.shape[1] = KINDS;
    e.data = mmix_data(logits);
    return mmix_archive_save(m, path, &e, 1, NULL);
}

/* Everything that is done to a text. 0, or -1. */
static int work(mmix_ctx *m, const settings *o, const network *net, const text *t, look *l,
                kinds *k)
{
    int looking = o->out || o->figures;
    if (looking && (read_places(m, o->at, t->count, l) || look_begin(m, l, t))) return -1;
    if (looking) mmix_mix_hook(m, look_at, l);
    mmix_tensor *logits = network_forward(m, net, t);
    mmix_mix_hook(m, NULL, NULL);
    if (!logits || kinds_of(m, t, mmix_data(logits), o->raw, k)) return -1;
    if (o->logits && save_logits(m, o->logits, logits)) return -1;
    print_stretches(t, k);
    mmix_reset(m);
    if (o->figures) draw_figure(o->figures, t, k, l);
    if (o->out && write_report(m, o->out, t, k, l)) return -1;
    return o->repeat ? measure(m, net, t, o->repeat) : 0;
}

/* The text that is given, or the sample; what is in `bytes` is for BYTES_FREE. 0, or -1. */
static int open_text(mmix_ctx *m, const settings *o, text *t, unsigned char **bytes)
{
    size_t size = sizeof sample - 1;
    const char *from = sample;
    if (o->text) {
        from = o->text;
        size = strlen(from);
    }
    if (o->file) {
        *bytes = bytes_load(m, o->file, &size);
        if (!*bytes) return -1;
        from = (const char *)*bytes;
    }
    return text_cut(m, t, o->file ? o->file : "--text", from, size);
}

int main(int argc, char **argv)
{
    settings o;
    mmix_options options;
    network net;
    text t;
    look l;
    kinds k;
    char path[1200];
    unsigned char *bytes = NULL;
    int status = read_options(&o, argc, argv);
    if (status) return status < 0 ? 0 : status;
    if (o.out && report_ready(o.out, path, sizeof path)) return 2;
    memset(&options, 0, sizeof options);
    memset(&net, 0, sizeof net);
    memset(&t, 0, sizeof t);
    memset(&l, 0, sizeof l);
    memset(&k, 0, sizeof k);
    options.threads = (int)o.threads;
    mmix_ctx *m = mmix_create(&options);
    if (!m) return fail("%s", mmix_error(NULL));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    if (!open_text(m, &o, &t, &bytes) && !network_open(m, &net, o.load)) {
        if (t.count) work(m, &o, &net, &t, &l, &k);
        else fputs("the text is empty: there is nothing to tell apart\n", stderr);
    }
    if (mmix_error(m)) status = fail("%s", mmix_error(m));
    if (interrupted) status = 130;
    look_free(&l);
    kinds_free(&k);
    text_free(&t);
    network_close(&net);
    BYTES_FREE(bytes);
    mmix_destroy(m);
    return status;
}
