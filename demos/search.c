/* search.c - pictures of a folder, found by words or by a picture

       cc -O2 demos/search.c -o search -lm -lpthread && ./search
       ./search photos "a dog on a beach" --model clip-vit-base-patch32
       ./search photos --like cat.jpg --model clip-vit-base-patch32 --page found.html
       ./search photos --classes "cat,dog,horse" --model clip-vit-base-patch32

   The model is a folder as it was downloaded: CLIP, SigLIP or SigLIP 2 of Hugging Face or OpenCLIP,
   with its weights, its config and its tokenizer (docs/models.md, "Pictures and words"). With a
   backbone of pictures alone, such as DINOv2, pictures are found by a picture.

   What happens: a network makes one vector of each picture, of length 1, and another one makes such
   a vector of the words. The product of two vectors, the cosine of their angle, is larger the
   better the words fit the picture, so that a search is the product of a matrix and a vector. The
   pictures' vectors are computed once, on all cores, and kept in FOLDER/.search.safetensors. Later
   runs compute what is new or changed (by size and time) and drop what is gone. Ctrl-C keeps what
   there is, and the same command goes on.

   Without arguments it searches among 12 drawn pictures with towers that have learned nothing: it
   finds each picture by itself, and tries a tokenizer of CLIP's kind with 9 tokens. */

#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L                  /* clock_gettime, times of files */
#endif
#define REPORT_PROGRAM "search"
#define MAMBA_MIX_IMPLEMENTATION
#include "../mamba_mix.h"
#define TOKENIZER_IMPLEMENTATION
#include "tokenizer.h"
#include "studies/pictures.h"
#include "studies/program.h"
#include "studies/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "search - pictures of a folder, found by words or by a picture\n\n"
    "  search FOLDER [WORDS]... --model MODEL\n\n"
    "  --model MODEL      a folder with the weights, the config and the tokenizer of a CLIP,\n"
    "                     SigLIP or SigLIP 2; or weights of a backbone (DINOv2, …), by which\n"
    "                     pictures are found by a picture alone\n"
    "  --like PICTURE     finds what is like it; may be given beside WORDS\n"
    "  --classes A,B,…    which of these each picture shows\n"
    "  --template TEXT    what is said of a class, {} being its name    (a photo of a {}.)\n"
    "  --count N          so many are shown                              (12)\n"
    "  --page FILE        a page with the pictures that were found, one file of HTML\n"
    "  --npy FILE         the vectors as FILE.npy, a row a picture; their names, a line each, as\n"
    "                     FILE.npy.txt\n"
    "  --index FILE       where vectors are kept          (FOLDER/.search.safetensors)\n"
    "  --tokenizer PATH   if it does not lie beside the weights\n"
    "  --type NAME        float, bf16, f16, int8 or q4: how weights are held        (float)\n"
    "  --batch N          pictures at once                               (32)\n"
    "  --threads N        (all cores)\n"
    "  --help\n\n"
    "A line for each picture that was found: its cosine with the words, and its name. What was\n"
    "computed and how long it took goes to stderr. Exit status: 0, 1 for an error or Ctrl-C.\n";

enum { MOST_WORDS = 64, MOST_CLASSES = 1000, SIDE = 224, THUMB = 168, DEPTH = 40 };

static const char *const type_name[] = { "float", "bf16", "f16", "int8", "q4" };
static const int type_dtype[] = { MMIX_DTYPE_REAL, MMIX_DTYPE_BF16, MMIX_DTYPE_F16, MMIX_DTYPE_I8,
                                  MMIX_DTYPE_Q4 };

typedef struct settings {
    const char *folder, *model, *like, *classes, *form, *page, *npy, *index, *tokenizer, *type;
    const char *words[MOST_WORDS];
    size_t n_words;
    double count, batch, threads;
} settings;

/* A picture of the folder. */
typedef struct item {
    char *name;                                  /* its path in the folder */
    uint64_t size, time;                         /* of the file */
    int done;                                    /* its vector is there */
} item;

/* What makes vectors, and what they are. */
typedef struct engine {
    mmix_ctx *m;
    mmix_towers *towers;                         /* one of the two */
    mmix_vision *vision;
    tokenizer *t;                                /* opened when words are asked for */
    char weights[1100], id[64];                  /* the file; which weights these are */
    size_t side, width;                          /* of a picture, of a vector */
} engine;

typedef struct album {
    const settings *o;
    char index[1100];
    item *item;                                  /* by name */
    size_t count, room;
    float *vectors;                              /* (count, width) */
    size_t kept, computed, broken;
    picture_notes notes;
} album;

static int fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("search: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return 1;
}
static int fail_context(const mmix_ctx *m) { return fail("%s", mmix_error(m)); }

/* ---- options --------------------------------------------------------------------------------- */

static int read_number(const char *name, const char *text, double least, double most, double *to)
{
    char *end;
    *to = strtod(text, &end);
    if (end != text && !*end && *to >= least && *to <= most && floor(*to) == *to) return 0;
    return fail("%s %.40s: give a whole number from %.0f to %.0f", name, text, least, most);
}
/* An exit status, or -1 to go on. */
static int read_options(settings *o, int argc, char **argv)
{
    const struct {
        const char *name, **text;
        double *number, least, most;
    } known[] = {
        { "--model", &o->model, NULL, 0, 0 }, { "--like", &o->like, NULL, 0, 0 },
        { "--classes", &o->classes, NULL, 0, 0 }, { "--template", &o->form, NULL, 0, 0 },
        { "--page", &o->page, NULL, 0, 0 }, { "--npy", &o->npy, NULL, 0, 0 },
        { "--index", &o->index, NULL, 0, 0 }, { "--tokenizer", &o->tokenizer, NULL, 0, 0 },
        { "--type", &o->type, NULL, 0, 0 }, { "--count", NULL, &o->count, 1, 1e6 },
        { "--batch", NULL, &o->batch, 1, 1024 }, { "--threads", NULL, &o->threads, 0, 64 }
    };
    size_t all = sizeof known / sizeof *known;
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        if (!strcmp(argv[i], "--help")) {
            fputs(help, stdout);
            return 0;
        }
        while (k < all && strcmp(argv[i], known[k].name)) k++;
        if (k == all && !strncmp(argv[i], "--", 2))
            return fail("%s: no such option; --help has all", argv[i]);
        if (k == all && !o->folder) o->folder = argv[i];
        else if (k == all && o->n_words == MOST_WORDS) return fail("at most 64 questions at once");
        else if (k == all) o->words[o->n_words++] = argv[i];
        else if (++i == argc) return fail("%s without its value; --help has all", argv[i - 1]);
        else if (known[k].text) *known[k].text = argv[i];
        else if (read_number(argv[i - 1], argv[i], known[k].least, known[k].most, known[k].number))
            return 1;
    }
    if (!o->folder) return fail("no folder; --help says what it needs");
    if (!o->model) return fail("no --model; --help says what it needs");
    if (!strstr(o->form, "{}")) return fail("--template %.60s: expected {} in it", o->form);
    size_t n = o->npy ? strlen(o->npy) : 0;
    if (o->npy && (n < 5 || strcmp(o->npy + n - 4, ".npy")))
        return fail("--npy %.200s: expected a name that ends in .npy", o->npy);
    for (size_t i = 0; i < o->n_words; i++)
        if (!*o->words[i]) return fail("empty words find nothing");
    return -1;
}

/* ---- the model ------------------------------------------------------------------------------- */

static int is_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}
/* The file of weights: of a folder that which lies in it. Hugging Face's names come first. */
static int find_weights(const char *model, char path[1100])
{
    static const char *const name[] = {
        "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
        "open_clip_model.safetensors", "open_clip_pytorch_model.bin"
    };
    snprintf(path, 1100, "%.1000s", model);
    if (!picture_is_folder(model)) return is_there(path) ? 0
        : fail("%s: there is no such file or folder", model);
    for (int i = 0; i < 5; i++) {
        snprintf(path, 1100, "%.1000s/%s", model, name[i]);
        if (is_there(path)) return 0;
    }
    return fail("%s has no model.safetensors, model.safetensors.index.json, pytorch_model.bin, "
                "open_clip_model.safetensors or open_clip_pytorch_model.bin", model);
}
/* Tells weights apart: the names, shapes and a part of each array, and the type that they are held
   in. A config that changes numbers is told by what the model makes of it. */
static uint64_t weights_hash(const mmix_archive *a, const char *type)
{
    uint64_t h = bytes_hash(BYTES_HASH, type, strlen(type));
    for (size_t i = 0; i < mmix_archive_count(a); i++) {
        const mmix_entry *e = mmix_archive_entry(a, i);
        h = bytes_hash(h, e->name, strlen(e->name));
        h = bytes_hash(h, e->shape, (size_t)e->ndim * sizeof *e->shape);
        size_t n = e->bytes < 4096 ? e->bytes : 4096;
        if (e->data) h = bytes_hash(h, (const char *)e->data + (e->bytes - n) / 2, n);
    }
    return h;
}
static uint64_t towers_hash(uint64_t h, const mmix_towers_config *c)
{
    double numbers[13] = { (double)c->picture.heads, c->picture.eps, (double)c->picture.activation,
                           (double)c->picture.pool, (double)c->picture.side, (double)c->crop,
                           (double)c->filter };
    for (int i = 0; i < 3; i++) {
        numbers[7 + i] = c->mean[i];
        numbers[10 + i] = c->deviation[i];
    }
    return bytes_hash(h, numbers, sizeof numbers);
}
/* How many characters of a file's path are its folder, with the slash behind it. */
static size_t folder_length(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] != '/' && path[n - 1] != '\\') n--;
    return n;
}
/* With the bytes of a backbone's config, if there is one beside its weights. */
static uint64_t config_hash(mmix_ctx *m, uint64_t h, const char *weights)
{
    char path[1200];
    snprintf(path, sizeof path, "%.*sconfig.json", (int)folder_length(weights), weights);
    return is_there(path) ? bytes_hash_file(m, h, path) : h;
}
static int has_texts(const mmix_archive *a)
{
    for (size_t i = 0; i < mmix_archive_count(a); i++)
        if (strstr(mmix_archive_entry(a, i)->name, "token_embedding")) return 1;
    return 0;
}
/* Opens what makes vectors. 0, or 1 after a message. */
static int open_model(engine *e, const settings *o)
{
    size_t k = 0;
    while (k < 5 && strcmp(o->type, type_name[k])) k++;
    if (k == 5) return fail("--type %.40s: expected float, bf16, f16, int8 or q4", o->type);
    if (find_weights(o->model, e->weights)) return 1;
    mmix_archive *a = mmix_archive_open(e->m, e->weights);
    if (!a) return fail_context(e->m);
    uint64_t hash = weights_hash(a, o->type);
    int is_pair = has_texts(a);
    mmix_archive_close(a);
    if (is_pair) e->towers = mmix_towers_load_as(e->m, e->weights, type_dtype[k]);
    else e->vision = mmix_vision_load_as(e->m, e->weights, type_dtype[k]);
    if (!e->towers && !e->vision) return fail_context(e->m);
    e->side = is_pair ? mmix_towers_config_of(e->towers)->picture.side : SIDE;
    e->width = is_pair ? mmix_towers_config_of(e->towers)->width
        : mmix_vision_config_of(e->vision)->dim;
    if (is_pair) hash = towers_hash(hash, mmix_towers_config_of(e->towers));
    else hash = config_hash(e->m, hash, e->weights);
    if (mmix_error(e->m)) return fail_context(e->m);
    snprintf(e->id, sizeof e->id, "%08lx%08lx", (unsigned long)(hash >> 32),
             (unsigned long)(hash & 0xFFFFFFFF));
    return 0;
}
/* Opens the tokenizer and looks whether it is the model's. 0, or 1 after a message. */
static int open_tokenizer(engine *e, const settings *o)
{
    char error[TOKENIZER_ERROR], path[1100];
    if (!e->towers)
        return fail("%s has no tower of texts: ask it by a picture, with --like", e->weights);
    if (e->t) return 0;
    size_t n = folder_length(e->weights);
    snprintf(path, sizeof path, "%.*s", n ? (int)n : 1, n ? e->weights : ".");
    if (o->tokenizer) snprintf(path, sizeof path, "%.1000s", o->tokenizer);
    else if (n) path[n - 1] = 0;
    if (picture_is_folder(path)) {
        static const char *const name[] = { "spiece.model", "tokenizer.json", "tokenizer.model",
                                            "vocab.json" };
        char inside[1200];
        int found = 0;
        for (int i = 0; i < 4 && !found; i++) {
            snprintf(inside, sizeof inside, "%s/%s", path, name[i]);
            found = is_there(inside);
        }
        if (!found)
            return fail("%s has no tokenizer.json, vocab.json, spiece.model or tokenizer.model; of "
                        "a CLIP they are those of openai/clip-vit-base-patch32", path);
    }
    e->t = tokenizer_load(path, error);
    if (!e->t) return fail("%s", error);
    const mmix_tower_config *c = &mmix_towers_config_of(e->towers)->text;
    if (tokenizer_count(e->t) > c->vocabulary)
        return fail("%s is another model's tokenizer: it has %.0f tokens, and the model %.0f", path,
                    (double)tokenizer_count(e->t), (double)c->vocabulary);
    int32_t end = c->end < 0 ? (int32_t)tokenizer_count(e->t) - 1 : c->end;
    if (c->pool == MMIX_TOWER_END && tokenizer_end(e->t) != end)
        return fail("%s is another model's tokenizer: its texts end with token %d, the model's "
                    "with %d", path, (int)tokenizer_end(e->t), (int)end);
    return 0;
}

/* ---- pictures to vectors --------------------------------------------------------------------- */

/* How a picture is brought to the model's side; shared by all tasks. */
typedef struct batch {
    const engine *e;
    char (*path)[1400];
    char (*why)[512];                            /* "" if it was read */
    mmix_real *pixels;                           /* (count, 3, side, side) */
} batch;

static mmix_resize_plan plan_of(const engine *e, size_t width, size_t height)
{
    if (e->towers) return mmix_towers_plan(e->towers, width, height);
    return mmix_resize_plan_center_crop(width, height, SIDE * 256 / 224, SIDE);
}
/* Reads picture i of a batch and writes its pixels. m: NULL in a task. */
static void read_picture(batch *b, mmix_ctx *m, size_t i)
{
    const engine *e = b->e;
    const double *mean = NULL, *deviation = NULL;
    size_t width = 0, height = 0, pixels = 3 * e->side * e->side;
    *b->why[i] = 0;
    uint8_t *rgb = picture_pixels(m, b->path[i], &width, &height, b->why[i], sizeof b->why[i]);
    if (!rgb) return;
    mmix_picture in = { rgb, width, height };
    mmix_resize_plan plan = plan_of(e, width, height);
    uint8_t *small = plan.width ? (uint8_t *)malloc(pixels) : NULL;
    if (e->towers) {
        mean = mmix_towers_config_of(e->towers)->mean;
        deviation = mmix_towers_config_of(e->towers)->deviation;
    }
    if (!small || picture_resize(small, in, plan))
        snprintf(b->why[i], sizeof b->why[i], "%.300s: %.0f x %.0f pixels cannot be brought to "
                 "%.0f x %.0f", b->path[i], (double)width, (double)height, (double)e->side,
                 (double)e->side);
    else {
        mmix_picture out = { small, e->side, e->side };
        mmix_picture_normalize(b->pixels + i * pixels, out, mean, deviation);
    }
    free(small);
    picture_pixels_free(b->path[i], rgb);
}
static void read_task(void *arg, size_t i)
{
    batch *b = (batch *)arg;
    if (!picture_is_ppm(b->path[i])) read_picture(b, NULL, i);   /* PPM wants the context */
}
/* Vectors (count, width) of length 1, of pictures that lie in step memory. NULL on error. */
static const mmix_real *vectors_of(engine *e, mmix_tensor *image)
{
    mmix_tensor *y;
    if (e->towers) y = mmix_towers_picture(e->m, e->towers, image);
    else {
        mmix_features f = mmix_vision_forward(e->m, e->vision, image, NULL);
        y = mmix_l2_normalize(e->m, f.token, 1e-12);
    }
    return y ? mmix_data(y) : NULL;
}
/* Room for a batch of n pictures. 0, or 1 after a message. */
static int batch_open(batch *b, const engine *e, size_t n)
{
    b->e = e;
    b->pixels = NULL;
    b->path = (char (*)[1400])malloc(n * sizeof *b->path);
    b->why = (char (*)[512])calloc(n, sizeof *b->why);
    return b->path && b->why ? 0 : fail("out of memory");
}
static void batch_close(batch *b)
{
    free(b->path);
    free(b->why);
}
/* Makes vectors of the first n paths of a batch: row i of `rows` for picture i, unless b->why[i]
   says why it has none. 0, or 1 after a message. */
static int batch_run(engine *e, batch *b, size_t n, float *const *rows)
{
    mmix_tensor *image = mmix_fill(mmix_new4(e->m, n, 3, e->side, e->side), 0);
    if (!image) return fail_context(e->m);
    b->pixels = mmix_data(image);
    mmix_parallel_for(e->m, n, read_task, b);
    for (size_t i = 0; i < n; i++) {
        if (!picture_is_ppm(b->path[i])) continue;
        read_picture(b, e->m, i);
        mmix_error_clear(e->m);                  /* b->why says more */
    }
    const mmix_real *y = vectors_of(e, image);
    for (size_t i = 0; y && i < n; i++)
        for (size_t k = 0; k < e->width; k++) rows[i][k] = (float)y[i * e->width + k];
    int bad = mmix_error(e->m) ? fail_context(e->m) : 0;
    mmix_reset(e->m);
    return bad;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Adds a picture with its size and its time. */
static int album_add(album *a, const char *inside)
{
    char *path = picture_join(a->o->folder, "/", inside);
    if (a->count == a->room) {
        size_t room = a->room ? 2 * a->room : 256;
        item *more = (item *)realloc(a->item, room * sizeof *more);
        if (more) a->item = more;
        if (more) a->room = room;
    }
    char *name = a->count < a->room ? picture_join(inside, "", "") : NULL;
    if (!name || !path) {
        free(name);
        free(path);
        return fail("out of memory");
    }
    item *it = &a->item[a->count++];
    memset(it, 0, sizeof *it);
    it->name = name;
#ifdef _WIN32
    WIN32_FILE_ATTRIBUTE_DATA info;
    if (GetFileAttributesExA(path, GetFileExInfoStandard, &info)) {
        it->size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
        it->time = (uint64_t)info.ftLastWriteTime.dwHighDateTime << 32
            | info.ftLastWriteTime.dwLowDateTime;
    }
#else
    struct stat info;
    if (!stat(path, &info)) {
        it->size = (uint64_t)info.st_size;
        it->time = (uint64_t)info.st_mtime * 1000000000u;
#ifdef __linux__
        it->time += (uint64_t)info.st_mtim.tv_nsec;
#endif
    }
#endif
    free(path);
    return 0;
}
/* Whether a path is a link, which might lead back to a folder that it lies in. */
static int is_link(const char *path)
{
#ifdef _WIN32
    DWORD found = GetFileAttributesA(path);
    return found != INVALID_FILE_ATTRIBUTES && (found & FILE_ATTRIBUTE_REPARSE_POINT);
#else
    struct stat info;
    return !lstat(path, &info) && S_ISLNK(info.st_mode);
#endif
}
/* Lists a folder and those in it, but no links to folders; `inside` is its path in the album, or
   "". */
static int album_list(album *a, const char *inside, int depth)
{
    char *folder = picture_join(a->o->folder, *inside ? "/" : "", inside);
    int bad = folder ? 0 : fail("out of memory");
    for (int folders = 0; folders < 2 && !bad && depth < DEPTH; folders++) {
        picture_names names = picture_list(folder, folders, &a->notes);
        if (names.bad) bad = fail("out of memory");
        for (size_t i = 0; i < names.count && !bad; i++) {
            char *path = picture_join(inside, *inside ? "/" : "", names.at[i]);
            char *whole = picture_join(folder, "/", names.at[i]);
            if (!path || !whole) bad = fail("out of memory");
            else if (!folders) bad = album_add(a, path);
            else if (!is_link(whole)) bad = album_list(a, path, depth + 1);
            free(path);
            free(whole);
        }
        picture_names_free(&names);
    }
    free(folder);
    return bad;
}
static int by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}
/* Finds the pictures of the folder. 0, or 1 after a message. */
static int album_open(album *a, const settings *o)
{
    a->o = o;
    if (!picture_is_folder(o->folder)) return fail("%s: there is no such folder", o->folder);
    if (o->index) snprintf(a->index, sizeof a->index, "%.1000s", o->index);
    else snprintf(a->index, sizeof a->index, "%.1000s/.search.safetensors", o->folder);
    if (album_list(a, "", 0)) return 1;
    if (*a->notes.denied) return fail("%s", a->notes.denied);
    if (!a->count && a->notes.other)
        return fail("%s has no pictures that can be read; %s is of a kind that is not", o->folder,
                    a->notes.first_other);
    if (!a->count) return fail("%s has no pictures (.jpg, .png, .bmp, .tga, .ppm)", o->folder);
    qsort(a->item, a->count, sizeof *a->item, by_name);
    picture_notes_say(&a->notes, a->count);
    return 0;
}
static void album_close(album *a)
{
    for (size_t i = 0; i < a->count; i++) free(a->item[i].name);
    free(a->item);
    free(a->vectors);
}

/* ---- the file of vectors ---------------------------------------------------------------------
   vectors F32 (n, width); names U8, each ended by 0, sorted; sizes and times of the files, U64 (n)
   ---------------------------------------------------------------------------------------------- */

/* An array of the file with n elements of a type; NULL if it is another. */
static const mmix_entry *part_of(const mmix_archive *f, const char *name, int dtype, size_t n)
{
    const mmix_entry *e = mmix_archive_find(f, name);
    return e && e->dtype == dtype && mmix_entry_count(e) == n ? e : NULL;
}
/* Takes vectors of pictures that are as they were. `old` has the same names, or some of them. */
static void album_take(album *a, const engine *e, const item *old, const float *vectors, size_t n)
{
    for (size_t i = 0, k = 0; i < a->count && k < n;) {
        int order = strcmp(a->item[i].name, old[k].name);
        int same = !order && a->item[i].size == old[k].size && a->item[i].time == old[k].time;
        if (same) {
            memcpy(a->vectors + i * e->width, vectors + k * e->width, e->width * sizeof(float));
            a->item[i].done = 1;
            a->kept++;
        }
        if (order <= 0) i++;
        if (order >= 0) k++;
    }
}
/* Reads the arrays of the file. 0, or -1 if it is none of this program's. */
static int album_parts(album *a, const engine *e, const mmix_archive *f, size_t n)
{
    const mmix_entry *names = mmix_archive_find(f, "names");
    const mmix_entry *sizes = part_of(f, "sizes", MMIX_FILE_U64, n);
    const mmix_entry *times = part_of(f, "times", MMIX_FILE_U64, n);
    const mmix_entry *vectors = part_of(f, "vectors", MMIX_FILE_F32, n * e->width);
    if (!names || names->dtype != MMIX_FILE_U8 || !sizes || !times || !vectors) return -1;
    const char *at = (const char *)names->data, *end = at + names->bytes;
    item *old = (item *)calloc(n + 1, sizeof *old);
    float *rows = (float *)malloc(n * e->width * sizeof *rows + 1);
    int bad = !old || !rows;
    for (size_t i = 0; i < n && !bad; i++) {
        const char *zero = at < end ? (const char *)memchr(at, 0, (size_t)(end - at)) : NULL;
        bad = !zero;
        if (bad) break;
        old[i].name = (char *)(uintptr_t)at;
        memcpy(&old[i].size, (const char *)sizes->data + 8 * i, 8);
        memcpy(&old[i].time, (const char *)times->data + 8 * i, 8);
        at = zero + 1;
        if (i && strcmp(old[i - 1].name, old[i].name) >= 0) bad = 1;
    }
    if (!bad) bad = mmix_archive_read(e->m, f, vectors, MMIX_FILE_F32, rows, n * e->width);
    if (!bad) album_take(a, e, old, rows, n);
    free(old);
    free(rows);
    return bad ? -1 : 0;
}
/* Opens the file of vectors, if there is one. What it has of this model and of pictures that did
   not change is taken. 0, or 1 after a message. */
static int album_load(album *a, const engine *e)
{
    a->vectors = (float *)calloc(a->count * e->width, sizeof *a->vectors);
    if (!a->vectors) return fail("out of memory");
    if (!is_there(a->index)) return 0;
    mmix_archive *f = mmix_archive_open(e->m, a->index);
    const char *format = mmix_archive_metadata(f, "search");
    const char *id = mmix_archive_metadata(f, "model");
    const mmix_entry *sizes = mmix_archive_find(f, "sizes");
    int is_mine = f && format && !strcmp(format, "1") && id && sizes;
    if (is_mine && strcmp(id, e->id))
        fprintf(stderr, "%s has another model's vectors: they are computed anew\n", a->index);
    else if (is_mine && album_parts(a, e, f, mmix_entry_count(sizes))) is_mine = 0;
    mmix_error_clear(e->m);
    mmix_archive_close(f);
    if (is_mine) return 0;
    return fail("%s is no file of this program's vectors, or a broken one: take it away, or name "
                "another with --index", a->index);
}
/* Writes what is done. 0, or 1 after a message. */
static int album_save(const album *a, const engine *e)
{
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < a->count; i++) {
        n += (size_t)a->item[i].done;
        if (a->item[i].done) bytes += strlen(a->item[i].name) + 1;
    }
    float *rows = (float *)malloc(n * e->width * sizeof *rows + 1);
    uint64_t *numbers = (uint64_t *)malloc(2 * n * sizeof *numbers + 1);
    char *names = (char *)malloc(bytes + 1), *to = names;
    int bad = rows && numbers && names ? 0 : fail("out of memory");
    for (size_t i = 0, k = 0; i < a->count && !bad; i++) {
        if (!a->item[i].done) continue;
        memcpy(rows + k * e->width, a->vectors + i * e->width, e->width * sizeof *rows);
        numbers[k] = a->item[i].size;
        numbers[n + k] = a->item[i].time;
        k++;
        size_t length = strlen(a->item[i].name) + 1;
        memcpy(to, a->item[i].name, length);
        to += length;
    }
    mmix_entry part[4];
    memset(part, 0, sizeof part);
    const struct { const char *name; int dtype; const void *data; size_t count; } of[4] = {
        { "vectors", MMIX_FILE_F32, rows, n }, { "sizes", MMIX_FILE_U64, numbers, n },
        { "times", MMIX_FILE_U64, numbers ? numbers + n : NULL, n },
        { "names", MMIX_FILE_U8, names, bytes }
    };
    for (int i = 0; i < 4; i++) {
        part[i].name = of[i].name;
        part[i].dtype = of[i].dtype;
        part[i].data = of[i].data;
        part[i].ndim = i ? 1 : 2;
        part[i].shape[0] = of[i].count;
        part[i].shape[1] = e->width;
    }
    const char *const metadata[] = { "search", "1", "model", e->id, "weights", e->weights, NULL };
    if (!bad && mmix_archive_save(e->m, a->index, part, 4, metadata)) bad = fail_context(e->m);
    free(rows);
    free(numbers);
    free(names);
    return bad;
}

/* ---- computing ------------------------------------------------------------------------------- */

/* A line of progress, which a screen shows in one place. */
static void show_progress(size_t done, size_t all, double seconds)
{
    double speed = seconds > 0 ? (double)done / seconds : 0;
    fprintf(stderr, "%s%.0f of %.0f pictures, %.1f a second, %.0f s left  %s",
            on_screen() ? "\r" : "", (double)done, (double)all, speed,
            speed > 0 ? (double)(all - done) / speed : 0, on_screen() ? "" : "\n");
}
/* Computes the vectors of up to `most` pictures from *next on. How many were taken up, or 0 after
   an error. */
static size_t album_batch(album *a, engine *e, batch *b, size_t *next, size_t most)
{
    float *rows[1024];
    size_t place[1024], n = 0;
    for (; *next < a->count && n < most; ++*next) {
        if (a->item[*next].done) continue;
        snprintf(b->path[n], sizeof b->path[n], "%.600s/%.700s", a->o->folder, a->item[*next].name);
        rows[n] = a->vectors + *next * e->width;
        place[n++] = *next;
    }
    if (n && batch_run(e, b, n, rows)) return 0;
    for (size_t i = 0; i < n; i++) {
        if (!*b->why[i]) {
            a->item[place[i]].done = 1;
            a->computed++;
            continue;
        }
        fprintf(stderr, "%sleft out: %s\n", on_screen() ? "\n" : "", b->why[i]);
        a->broken++;
    }
    return n;
}
/* Computes what is missing, and keeps it once a minute and at the end. 0, or 1 after a message. */
static int album_compute(album *a, engine *e)
{
    size_t missing = a->count - a->kept, done = 0, next = 0, n = 1;
    double start = now(), shown = start, saved = start;
    batch b;
    if (batch_open(&b, e, (size_t)a->o->batch)) {
        batch_close(&b);
        return 1;
    }
    signal(SIGINT, interrupt);
    while (done < missing && n && !interrupted) {
        n = album_batch(a, e, &b, &next, (size_t)a->o->batch);
        done += n;
        if (now() - shown > line_pause() || (done == missing && missing > 1)) {
            shown = now();
            show_progress(done, missing, shown - start);
        }
        if (now() - saved > 60 && album_save(a, e)) n = 0;
        if (now() - saved > 60) saved = now();
    }
    batch_close(&b);
    if (missing && on_screen()) fputc('\n', stderr);
    if (a->computed && album_save(a, e)) return 1;
    if (interrupted)
        return fail("interrupted: %.0f of %.0f pictures are kept; the same command goes on",
                    (double)(a->kept + a->computed), (double)a->count);
    if (!n && missing) return 1;
    fprintf(stderr, "%.0f pictures: %.0f kept, %.0f computed in %.1f s", (double)a->count,
            (double)a->kept, (double)a->computed, now() - start);
    if (a->broken) fprintf(stderr, ", %.0f left out", (double)a->broken);
    fputc('\n', stderr);
    return a->kept + a->computed ? 0 : fail("no picture can be read");
}
/* Takes pictures without a vector out of the album. */
static void album_mend(album *a, size_t width)
{
    size_t kept = 0;
    for (size_t i = 0; i < a->count; i++) {
        if (!a->item[i].done) {
            free(a->item[i].name);
            continue;
        }
        memmove(a->vectors + kept * width, a->vectors + i * width, width * sizeof *a->vectors);
        a->item[kept++] = a->item[i];
    }
    a->count = kept;
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Vectors (count, width) of texts, in step memory. NULL after a message. */
static mmix_tensor *texts_of(engine *e, const settings *o, const char *const *text, size_t count)
{
    tokenizer_ids ids = { NULL, 0, 0 };
    if (open_tokenizer(e, o)) return NULL;
    const mmix_tower_config *c = &mmix_towers_config_of(e->towers)->text;
    size_t shape[2] = { count, c->positions };
    /* SigLIP 2 was taught small letters, which its tokenizer's file, Gemma's, does not say */
    int flags = TOKENIZER_BEGIN | (c->pool == MMIX_TOWER_LAST ? TOKENIZER_LOWER : 0);
    int bad = 0;
    for (size_t i = 0; i < count && !bad; i++)
        bad = tokenizer_encode_to(e->t, text[i], strlen(text[i]), flags, c->positions, &ids);
    mmix_tensor *y = NULL;
    if (bad) fail("the tokenizer ran out of memory");
    else
        y = mmix_towers_text(e->m, e->towers, mmix_from_i32(e->m, 2, shape, ids.at));
    if (!bad && !y) fail_context(e->m);
    tokenizer_ids_free(&ids);
    return y;
}
/* The vector of a picture, (1, width), in step memory. NULL after a message. */
static mmix_tensor *picture_of(engine *e, const char *path)
{
    float *row = (float *)malloc(e->width * sizeof *row);
    mmix_tensor *y = NULL;
    batch b;
    int bad = batch_open(&b, e, 1);
    if (!row) bad = fail("out of memory");
    if (!bad) snprintf(b.path[0], sizeof b.path[0], "%.1300s", path);
    if (!bad) bad = batch_run(e, &b, 1, &row);
    if (!bad && *b.why[0]) bad = fail("%s", b.why[0]);
    if (!bad) y = mmix_new2(e->m, 1, e->width);
    for (size_t k = 0; y && k < e->width; k++) mmix_data(y)[k] = row[k];
    batch_close(&b);
    free(row);
    return y;
}
typedef struct hit {
    float score;
    size_t place;
} hit;
/* The product of a matrix and a vector, in blocks of rows. */
enum { BLOCK = 256 };
typedef struct product {
    const float *rows, *asked;                   /* (count, width), (width) */
    size_t count, width;
    hit *out;                                    /* (count) */
} product;
static float dot(const float *a, const float *b, size_t n)
{
    float part[8] = { 0 }, sum = 0;              /* eight sums go on at once */
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++) part[k] += a[i + k] * b[i + k];
    for (; i < n; i++) sum += a[i] * b[i];
    for (size_t k = 0; k < 8; k++) sum += part[k];
    return sum;
}
static void product_task(void *arg, size_t block)
{
    const product *p = (const product *)arg;
    size_t end = (block + 1) * BLOCK;
    if (end > p->count) end = p->count;
    for (size_t i = block * BLOCK; i < end; i++) {
        p->out[i].score = dot(p->rows + i * p->width, p->asked, p->width);
        p->out[i].place = i;
    }
}
static int by_score(const void *a, const void *b)
{
    const hit *x = (const hit *)a, *y = (const hit *)b;
    if (x->score > y->score) return -1;
    if (x->score < y->score) return 1;
    return (x->place > y->place) - (x->place < y->place);
}
/* All rows by their cosine with a vector, the best first; free() it. */
static hit *hits_of(mmix_ctx *m, const float *rows, size_t count, size_t width,
                    const mmix_real *vector)
{
    hit *h = (hit *)malloc(count * sizeof *h);
    float *asked = (float *)malloc(width * sizeof *asked);
    if (!h || !asked) {
        free(h);
        free(asked);
        return NULL;
    }
    for (size_t k = 0; k < width; k++) asked[k] = (float)vector[k];
    product p = { rows, asked, count, width, h };
    mmix_parallel_for(m, (count + BLOCK - 1) / BLOCK, product_task, &p);
    qsort(h, count, sizeof *h, by_score);
    free(asked);
    return h;
}

/* ---- the page -------------------------------------------------------------------------------- */

/* A small copy of a picture, cut to the square in its middle, on the page. */
static void page_picture(report *r, engine *e, const album *a, size_t place, const char *words)
{
    char path[1400], why[512];
    size_t width = 0, height = 0;
    uint8_t small[THUMB * THUMB * 3];
    const char *name = a->item[place].name;
    snprintf(path, sizeof path, "%.600s/%.700s", a->o->folder, name);
    uint8_t *rgb = picture_pixels(e->m, path, &width, &height, why, sizeof why);
    mmix_error_clear(e->m);
    report_html(r, "<figure>");
    if (rgb) {
        mmix_picture in = { rgb, width, height };
        if (!picture_resize(small, in, mmix_resize_plan_box(picture_square(width, height), THUMB,
                                                            THUMB)))
            report_picture(r, small, THUMB, THUMB, THUMB, name);
        picture_pixels_free(path, rgb);
    }
    report_html(r, "<figcaption>%s<br>", words);
    report_text(r, name);
    report_html(r, "</figcaption></figure>\n");
}
/* What was asked, as a heading, and the pictures below it. */
static void page_hits(report *r, engine *e, const album *a, const char *asked, const hit *h,
                      size_t count)
{
    report_html(r, "<h2>");
    report_text(r, asked);
    report_html(r, "</h2>\n<div class=\"found\">\n");
    for (size_t i = 0; i < count && r->file; i++) {
        char words[32];
        snprintf(words, sizeof words, "%.3f", (double)h[i].score);
        page_picture(r, e, a, h[i].place, words);
    }
    report_html(r, "</div>\n");
}
static int page_open(report *r, const settings *o)
{
    memset(r, 0, sizeof *r);
    if (!o->page) return 0;
    if (report_folders(o->page)) return fail("cannot write %s: %s", o->page, strerror(errno));
    if (report_open(r, o->page, "Pictures that were found") < 0) return fail("%s", r->error);
    report_html(r, "<style>.found{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,"
                "minmax(9rem,1fr))}.found figure{margin:0;min-width:0}.found img{width:100%%;"
                "height:auto}.found figcaption{overflow-wrap:anywhere}</style>\n"
                "<p class=\"soft\">");
    report_text(r, o->folder);
    report_html(r, ", by ");
    report_text(r, o->model);
    report_html(r, "</p>\n");
    return 0;
}
static int page_close(report *r)
{
    return r->file && report_close(r) ? fail("%s", r->error) : 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Answers one question, whose vector is (1, width). 0, or 1 after a message. */
static int answer(engine *e, const album *a, report *r, const char *asked, mmix_tensor *vector)
{
    double start = now();
    hit *h = vector ? hits_of(e->m, a->vectors, a->count, e->width, mmix_data(vector)) : NULL;
    size_t count = a->count < (size_t)a->o->count ? a->count : (size_t)a->o->count;
    if (vector && !h) fail("out of memory");
    if (h) {
        fprintf(stderr, "%s: %.1f ms among %.0f pictures\n", asked, 1000 * (now() - start),
                (double)a->count);
        printf("%s\n", asked);
        for (size_t i = 0; i < count; i++)
            printf("%7.4f  %s\n", (double)h[i].score, a->item[h[i].place].name);
        if (r->file) page_hits(r, e, a, asked, h, count);
    }
    int bad = !h;
    free(h);
    mmix_reset(e->m);
    return bad;
}
/* Cuts a list at its commas; how many parts there are. */
static size_t cut_list(char *list, const char **part, size_t most)
{
    size_t n = 0;
    for (char *at = list; at && n < most;) {
        char *comma = strchr(at, ',');
        if (comma) *comma = 0;
        while (*at == ' ') at++;
        for (size_t k = strlen(at); k && at[k - 1] == ' ';) at[--k] = 0;
        if (*at) part[n++] = at;
        at = comma ? comma + 1 : NULL;
    }
    return n;
}
/* What is said of each class by the template. 0, or 1 after a message. */
static int say_classes(const settings *o, const char *const *name, size_t n, char said[][256])
{
    const char *hole = strstr(o->form, "{}");
    if (n < 2 || n > MOST_CLASSES)
        return fail("--classes %.60s: expected 2 to %d, with commas between", o->classes,
                    MOST_CLASSES);
    for (size_t i = 0; i < n; i++) {
        int length = snprintf(said[i], 256, "%.*s%s%s", (int)(hole - o->form), o->form, name[i],
                              hole + 2);
        if (length > 255) return fail("--template with %.60s: expected at most 255 bytes", name[i]);
    }
    return 0;
}
/* The likeliest of n classes of each of `count` pictures; NULL without memory. */
static size_t *best_classes(const mmix_real *likely, size_t count, size_t n)
{
    size_t *best = (size_t *)calloc(count + 1, sizeof *best);
    for (size_t i = 0; best && i < count; i++)
        for (size_t j = 1; j < n; j++)
            if (likely[i * n + j] > likely[i * n + best[i]]) best[i] = j;
    return best;
}
/* Which class each picture shows: of a CLIP a softmax over the classes, of a SigLIP the sigmoid of
   each. */
static int classify(engine *e, const album *a, report *r)
{
    static const char *name[MOST_CLASSES + 1];
    static char said[MOST_CLASSES + 1][256];
    const char *text[MOST_CLASSES + 1];
    char *list = picture_join(a->o->classes, "", "");
    size_t n = list ? cut_list(list, name, MOST_CLASSES + 1) : 0, seen = 0;
    if (say_classes(a->o, name, n, said)) {
        free(list);
        return 1;
    }
    for (size_t i = 0; i < n; i++) text[i] = said[i];
    mmix_tensor *texts = texts_of(e, a->o, text, n);
    mmix_tensor *all = texts ? mmix_new2(e->m, a->count, e->width) : NULL;
    for (size_t i = 0; all && i < a->count * e->width; i++) mmix_data(all)[i] = a->vectors[i];
    mmix_tensor *likely = all ? mmix_towers_logits(e->m, e->towers, all, texts) : NULL;
    int is_sigmoid = e->towers && mmix_towers_config_of(e->towers)->bias;
    if (likely) likely = is_sigmoid ? mmix_sigmoid(e->m, likely) : mmix_softmax(e->m, likely, -1);
    if (all && !likely) fail_context(e->m);
    size_t *best = likely ? best_classes(mmix_data(likely), a->count, n) : NULL;
    for (size_t k = 0; best && k < n; k++) {
        size_t of = 0;
        hit *h = (hit *)malloc(a->count * sizeof *h);
        for (size_t i = 0; h && i < a->count; i++) {
            if (best[i] != k) continue;
            h[of].score = (float)mmix_data(likely)[i * n + k];
            h[of].place = i;
            of++;
        }
        if (h) qsort(h, of, sizeof *h, by_score);
        printf("%s: %.0f of %.0f pictures\n", name[k], (double)of, (double)a->count);
        for (size_t i = 0; h && i < of; i++)
            printf("%7.4f  %s\n", (double)h[i].score, a->item[h[i].place].name);
        size_t most = (size_t)a->o->count;
        if (r->file && h) page_hits(r, e, a, name[k], h, of < most ? of : most);
        free(h);
        seen += of;
    }
    int bad = !best || seen < a->count;
    mmix_reset(e->m);
    free(best);
    free(list);
    return bad;
}
/* Writes the vectors and the names. 0, or 1 after a message. */
static int write_npy(engine *e, const album *a)
{
    char *path = picture_join(a->o->npy, ".txt", "");
    mmix_entry part;
    memset(&part, 0, sizeof part);
    part.dtype = MMIX_FILE_F32;
    part.ndim = 2;
    part.shape[0] = a->count;
    part.shape[1] = e->width;
    part.data = a->vectors;
    if (mmix_archive_save(e->m, a->o->npy, &part, 1, NULL)) {
        free(path);
        return fail_context(e->m);
    }
    char *draft = picture_join(a->o->npy, ".txt.tmp", "");
    FILE *f = path && draft ? fopen(draft, "wb") : NULL;
    for (size_t i = 0; f && i < a->count; i++) fprintf(f, "%s\n", a->item[i].name);
    int bad = !f || report_rename(f, draft, path);
    if (bad) fail("cannot write %s: %s", path ? path : "names", strerror(errno));
    free(draft);
    free(path);
    return bad;
}
static int answer_all(engine *e, const album *a, report *r)
{
    const settings *o = a->o;
    for (size_t i = 0; i < o->n_words; i++)
        if (answer(e, a, r, o->words[i], texts_of(e, o, &o->words[i], 1))) return 1;
    if (o->like && answer(e, a, r, o->like, picture_of(e, o->like))) return 1;
    if (o->classes && classify(e, a, r)) return 1;
    return o->npy ? write_npy(e, a) : 0;
}
static int search(engine *e, album *a, const settings *o)
{
    report page;
    int asks = o->n_words || o->classes;
    if (album_open(a, o) || open_model(e, o)) return 1;
    if (asks && open_tokenizer(e, o)) return 1;  /* before an hour of pictures */
    if (album_load(a, e) || album_compute(a, e)) return 1;
    album_mend(a, e->width);
    if (page_open(&page, o)) return 1;
    int bad = answer_all(e, a, &page);
    if (bad && page.file) report_drop(&page);
    return bad || page_close(&page);
}

/* ---- without arguments ----------------------------------------------------------------------- */

static const char small_clip[] =
    "{\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+\"},\"behavior\":"
    "\"Removed\",\"invert\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":\"RobertaProcessing\","
    "\"cls\":[\"<b>\",7],\"sep\":[\"<e>\",8]},\"added_tokens\":[{\"id\":7,\"content\":\"<b>\","
    "\"special\":true},{\"id\":8,\"content\":\"<e>\",\"special\":true}],\"model\":{"
    "\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\",\"unk_token\":\"<e>\","
    "\"vocab\":{\"d\":0,\"o\":1,\"g\":2,\"d</w>\":3,\"g</w>\":4,\"og</w>\":5,\"dog</w>\":6,"
    "\"<b>\":7,\"<e>\":8},\"merges\":[\"o g</w>\",\"d og</w>\"]}}";

enum { SMALL = 16 };
/* Random towers: 2 layers of 32 features for pictures of 32 pixels, and for texts of 8 tokens. */
static mmix_towers *small_towers(mmix_ctx *m)
{
    mmix_towers_config c;
    mmix_tower_config tower;
    memset(&c, 0, sizeof c);
    memset(&tower, 0, sizeof tower);
    tower.dim = 32;
    tower.depth = 2;
    tower.heads = 4;
    tower.ffn = 64;
    tower.eps = 1e-5;
    tower.projection = 1;
    c.picture = tower;
    c.picture.patch = 8;
    c.picture.side = 32;
    c.picture.pre_norm = 1;
    c.text = tower;
    c.text.vocabulary = 9;
    c.text.positions = 8;
    c.text.causal = 1;
    c.text.pool = MMIX_TOWER_END;
    c.text.end = -1;
    c.width = SMALL;
    c.crop = 2;
    for (int i = 0; i < 3; i++) c.mean[i] = c.deviation[i] = 0.5;
    return mmix_towers_create(m, c);
}
static int without_arguments(void)
{
    enum { PICTURES = 12, WIDTH = 40, HEIGHT = 50 };
    static uint8_t rgb[WIDTH * HEIGHT * 3];
    char error[TOKENIZER_ERROR];
    tokenizer_ids ids = { NULL, 0, 0 };
    mmix_ctx *m = mmix_create(NULL);
    mmix_towers *t = small_towers(m);
    tokenizer *k = tokenizer_from("the small tokenizer", small_clip, sizeof small_clip - 1, error);
    mmix_tensor *part[PICTURES];
    for (size_t i = 0; i < PICTURES; i++) {              /* stripes of several widths and colours */
        for (size_t at = 0; at < sizeof rgb; at++) {
            size_t stripe = at / 3 % WIDTH / (1 + i) % 2, colour = 15 * i * (at % 3 + 1) / 2 % 130;
            rgb[at] = (uint8_t)(120 * stripe + colour);
        }
        part[i] = mmix_towers_picture(m, t, mmix_towers_image(m, t, rgb, WIDTH, HEIGHT));
    }
    mmix_tensor *all = mmix_concat(m, 0, part, PICTURES);
    float rows[PICTURES * SMALL];
    int found = 0;
    for (size_t i = 0; all && i < PICTURES * SMALL; i++) rows[i] = (float)mmix_data(all)[i];
    for (size_t i = 0; all && i < PICTURES; i++) {
        hit *h = hits_of(m, rows, PICTURES, SMALL, mmix_data(all) + i * SMALL);
        found += h && h[0].place == i;
        free(h);
    }
    printf("%d of %d pictures find themselves\n", found, PICTURES);
    int good = k && !tokenizer_encode_to(k, "A Dog", 5, TOKENIZER_BEGIN, 8, &ids);
    size_t shape[2] = { 1, 8 };
    mmix_tensor *words = good ? mmix_towers_text(m, t, mmix_from_i32(m, 2, shape, ids.at)) : NULL;
    printf("\"A Dog\" is");
    for (size_t i = 0; i < ids.count; i++) printf(" %d", (int)ids.at[i]);
    static const int32_t expected[8] = { 7, 8, 6, 8, 8, 8, 8, 8 };       /* "a" is unknown */
    good = good && words && ids.count == 8 && !memcmp(ids.at, expected, sizeof expected);
    printf("\n\nTo search it needs a folder of pictures and a model, such as CLIP's files\n"
           "config.json, preprocessor_config.json, model.safetensors, tokenizer.json of\n"
           "openai/clip-vit-base-patch32:\n\n"
           "    ./search photos \"a dog on a beach\" --model clip-vit-base-patch32\n\n"
           "--help says more.\n");
    if (mmix_error(m)) fail_context(m);
    if (!k) fail("%s", error);
    good = good && found == PICTURES && !mmix_error(m);
    tokenizer_ids_free(&ids);
    tokenizer_free(k);
    mmix_towers_destroy(t);
    mmix_destroy(m);
    return !good;
}

int main(int argc, char **argv)
{
    settings o;
    engine e;
    album a;
    mmix_options options;
    memset(&o, 0, sizeof o);
    memset(&e, 0, sizeof e);
    memset(&a, 0, sizeof a);
    memset(&options, 0, sizeof options);
    o.form = "a photo of a {}.";
    o.type = "float";
    o.count = 12;
    o.batch = 32;
    if (argc < 2) return without_arguments();
    int status = read_options(&o, argc, argv);
    if (status >= 0) return status;
    options.threads = (int)o.threads;
    e.m = mmix_create(&options);
    if (!e.m) return fail("%s", mmix_error(NULL));
    status = search(&e, &a, &o);
    album_close(&a);
    tokenizer_free(e.t);
    mmix_towers_destroy(e.towers);
    mmix_vision_destroy(e.vision);
    mmix_destroy(e.m);
    return status;
}
