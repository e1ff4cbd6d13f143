/* pictures.h - a folder of pictures, with masks if there are any, as squares of one size in
   memory

   Three forms of folder:
       DIR/train/CLASS/NAME.jpg and DIR/test/CLASS/NAME.jpg
       DIR/CLASS/NAME.jpg           every fifth of a class is for testing
       DIR/NAME.jpg                 every fifth is for testing; without classes nothing can be
                                    classified
   Masks lie in a tree of the same form, under the same names with the ending .png (or .pgm,
   .ppm): 0 is background, 255 is void, all else is object; they are read for the test pictures
   only. Names are sorted, so that every machine sees the same order.

   In place of a folder a packed file may stand, which pictures_pack has written: a .safetensors
   of 8-bit arrays that is mapped, so that nothing is decoded, and uncut pictures take no memory
   of their own.

   JPEG, PNG, BMP and TGA come through Sean Barrett's stb_image.h where the compiler finds it
   (Debian: libstb-dev), PPM and PGM through ppm.h. A JPEG is turned as its camera says (exif.h).
   Pictures that cannot be read are left out, and so are kinds that nothing here reads (.webp,
   .gif, …); stderr tells how many and why. A folder that cannot be read is an error, for its
   class would be missing. Pictures are cut to the square in their middle and brought to size x
   size: bicubic, masks by the nearest pixel. Train pictures are kept uncut, too, for random
   crops, if `whole` says how long their shorter sides may be. Include mamba_mix.h with its
   implementation before this.

       pictures p;
       if (pictures_load(&p, m, "photos", NULL, 96, 0) < 0)
           puts(p.error);                                // which file, what to do
       … p.train.picture[i], p.train.label[i], p.test.mask …
       pictures_free(&p); */
#ifndef PICTURES_H
#define PICTURES_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exif.h"
#include "ppm.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dirent.h>
#include <sys/stat.h>
#endif

#if defined(__has_include) && !defined(PICTURES_NO_STB)
#if __has_include(<stb/stb_image.h>) || __has_include(<stb_image.h>)
#define PICTURES_STB 1
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#pragma GCC diagnostic ignored "-Wtype-limits"
#endif
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_GIF
#define STBI_NO_PSD
#define STBI_NO_PIC
#define STBI_NO_PNM
#if __has_include(<stb/stb_image.h>)
#include <stb/stb_image.h>
#else
#include <stb_image.h>
#endif
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
#endif

/* One part of the pictures. `picture` is what the library's functions take; all point into one
   block. */
typedef struct picture_set {
    size_t count;
    mmix_picture *picture;                   /* (count), each size x size */
    mmix_picture *whole;  /* (count), uncut, each in memory of its own or in the file; or NULL */
    int32_t *label;                          /* (count) */
    char **name;                             /* (count): paths, or NULL */
    uint8_t *rgb;                            /* (count, size, size, 3) */
    uint8_t *mask;  /* (count, size, size): 0 background, 255 void; or NULL */
} picture_set;

/* What was left out of a folder, and why. */
typedef struct picture_notes {
    size_t other, broken;  /* files of kinds that are not read; those that turned out broken */
    char first_other[300];                   /* the name of the first */
    char first_broken[512];                  /* its name and the reason */
    char denied[700];  /* a folder that cannot be read, and the reason; or "" */
} picture_notes;

typedef struct pictures {
    picture_set train, test;
    picture_notes notes;                     /* what was left out */
    char **class_name;
    size_t classes, size, whole;  /* classes 0: the pictures have none; whole 0: none kept */
    mmix_archive *packed;                    /* what pictures lie in, or NULL */
    char error[1024];
} pictures;

/* ---- names ----------------------------------------------------------------------------------- */

/* bad: no memory for all */
typedef struct picture_names {
    char **at;
    size_t count;
    int bad;
} picture_names;

static inline char *picture_join(const char *a, const char *between, const char *b)
{
    size_t n = strlen(a) + strlen(between) + strlen(b) + 1;
    char *out = (char *)malloc(n);
    if (out) snprintf(out, n, "%s%s%s", a, between, b);
    return out;
}

static inline int picture_is_folder(const char *path)
{
#ifdef _WIN32
    DWORD a = GetFileAttributesA(path);
    return a != INVALID_FILE_ATTRIBUTES && (a & FILE_ATTRIBUTE_DIRECTORY);
#else
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
#endif
}

/* The place of the dot of a name's last part, or its end. */
static inline const char *picture_ending(const char *path)
{
    const char *dot = strrchr(path, '.');
    const char *slash = strrchr(path, '/');
    return dot && (!slash || dot > slash + 1) ? dot : path + strlen(path);
}

/* ".png", whatever the case */
static inline int picture_ends(const char *path, const char *ending)
{
    const char *dot = picture_ending(path);
    while (*dot && (*dot | 32) == (*ending | 32)) {
        dot++;
        ending++;
    }
    return !*dot && !*ending;
}

static inline int picture_is_ppm(const char *path)
{
    return picture_ends(path, ".ppm") || picture_ends(path, ".pgm");
}

static inline int picture_is_picture(const char *path)
{
    return picture_is_ppm(path) || picture_ends(path, ".jpg") || picture_ends(path, ".jpeg") ||
           picture_ends(path, ".png") ||
           picture_ends(path, ".bmp") || picture_ends(path, ".tga");
}

/* A kind of picture that a folder may well have and nothing here reads. */
static inline int picture_is_other(const char *path)
{
    static const char *const ending[] = {".webp", ".gif", ".tif", ".tiff", ".heic", ".heif",
                                         ".avif", ".jxl", ".jp2", ".psd"};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (picture_ends(path, ending[i])) return 1;
    return 0;
}

/* Says on stderr what was left out of `all` pictures. */
static inline void picture_notes_say(const picture_notes *notes, size_t all)
{
    if (notes->other)
        fprintf(stderr, "left out: %zu of a kind that is not read (%s is the first); .jpg, .png, "
                        ".bmp, .tga and .ppm are\n",
                notes->other, notes->first_other);
    if (notes->broken)
        fprintf(stderr, "left out: %zu of %zu pictures, which cannot be read; the first: %s\n",
                notes->broken, all, notes->first_broken);
}

static inline int picture_name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline int picture_names_add(picture_names *list, const char *name)
{
    char **more = (char **)realloc(list->at, (list->count + 1) * sizeof *more);
    char *copy = picture_join(name, "", "");
    if (more) list->at = more;
    if (!more || !copy) {
        free(copy);
        return -1;
    }
    list->at[list->count++] = copy;
    return 0;
}

static inline void picture_names_free(picture_names *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->at[i]);
    free(list->at);
    memset(list, 0, sizeof *list);
}

/* One name of a folder: into the list, if it is of the wanted sort; into the notes, if nothing
   here reads it. */
static inline void picture_list_add(picture_names *list, const char *folder, const char *name,
                                    int folders, picture_notes *notes)
{
    if (name[0] == '.') return;
    char *path = picture_join(folder, "/", name);
    if (!path) {
        list->bad = 1;
        return;
    }
    int is_folder = picture_is_folder(path);
    free(path);
    if (is_folder != folders) return;
    if (folders || picture_is_picture(name)) {
        if (picture_names_add(list, name)) list->bad = 1;
        return;
    }
    if (!picture_is_other(name)) return;
    if (!notes->other) snprintf(notes->first_other, sizeof notes->first_other, "%s", name);
    notes->other++;
}

static inline void picture_list_denied(const char *folder, const char *why, picture_notes *notes)
{
    if (!*notes->denied) snprintf(notes->denied, sizeof notes->denied,
                                  "%s: this folder cannot be read: %s", folder, why);
}

/* What is in a folder, sorted: the folders (1) or the pictures (0). Hidden names are passed
   over; a folder that is not there is an empty one. */
static inline picture_names picture_list(const char *folder, int folders, picture_notes *notes)
{
    picture_names list = {NULL, 0, 0};
#ifdef _WIN32
    WIN32_FIND_DATAA found;
    char *pattern = picture_join(folder, "/", "*");
    HANDLE h = pattern ? FindFirstFileA(pattern, &found) : INVALID_HANDLE_VALUE;
    free(pattern);
    if (h == INVALID_HANDLE_VALUE) {
        if (GetLastError() == ERROR_ACCESS_DENIED)
            picture_list_denied(folder, "access is denied", notes);
        return list;
    }
    do picture_list_add(&list, folder, found.cFileName, folders, notes);
    while (FindNextFileA(h, &found));
    FindClose(h);
#else
    DIR *h = opendir(folder);
    if (!h) {
        if (errno != ENOENT) picture_list_denied(folder, strerror(errno), notes);
        return list;
    }
    struct dirent *found = readdir(h);
    while (found) {
        picture_list_add(&list, folder, found->d_name, folders, notes);
        found = readdir(h);
    }
    closedir(h);
#endif
    if (list.count) qsort(list.at, list.count, sizeof *list.at, picture_name_order);
    return list;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

#ifdef PICTURES_STB
/* Pixels of a JPEG as they are to be seen, w and h with them. Without memory they stay as they
   lie. */
static inline uint8_t *picture_upright(const char *path, uint8_t *rgb, int *w, int *h)
{
    FILE *f = fopen(path, "rb");
    uint8_t *head = (uint8_t *)malloc(EXIF_BYTES);
    size_t size = f && head ? fread(head, 1, EXIF_BYTES, f) : 0;
    int orientation = exif_orientation(head, size);
    if (f) fclose(f);
    free(head);
    if (orientation == EXIF_UPRIGHT) return rgb;
    size_t width = (size_t)*w;
    size_t height = (size_t)*h;
    uint8_t *turned = (uint8_t *)malloc(width * height * 3);
    if (!turned) return rgb;
    exif_turn(turned, rgb, width, height, orientation);
    stbi_image_free(rgb);
    if (exif_swaps(orientation)) {
        *w = (int)height;
        *h = (int)width;
    }
    return turned;
}
#endif

/* A file's RGB pixels by ppm.h (m not NULL) or stb_image (may run in a task); NULL and why. */
static inline uint8_t *picture_pixels(mmix_ctx *m, const char *path, size_t *width, size_t *height,
                                      char *why, size_t room)
{
    FILE *there = fopen(path, "rb");
    if (there) fclose(there);
    else {
        *width = *height = 0;
        snprintf(why, room, "%s: missing, or not to be read: %s", path, strerror(errno));
        return NULL;
    }
    if (picture_is_ppm(path)) {
        uint8_t *rgb = ppm_load(m, path, width, height);
        if (!rgb) snprintf(why, room, "%s; mend it or take it out of the folder", mmix_error(m));
        return rgb;
    }
#ifdef PICTURES_STB
    int w = 0, h = 0, channels = 0;
    uint8_t *rgb = stbi_load(path, &w, &h, &channels, 3);
    if (!rgb)
        snprintf(why, room, "%s: not a picture that can be read (%s); mend it or take it out of "
                            "the folder",
                 path, stbi_failure_reason());
    else if (picture_ends(path, ".jpg") || picture_ends(path, ".jpeg"))
        rgb = picture_upright(path, rgb, &w, &h);
    *width = (size_t)w;
    *height = (size_t)h;
    return rgb;
#else
    *width = *height = 0;
    snprintf(why, room, "%s: only .ppm and .pgm can be read, as this was compiled without "
                        "stb_image.h; get it (Debian: libstb-dev) and compile again", path);
    return NULL;
#endif
}

static inline void picture_pixels_free(const char *path, uint8_t *rgb)
{
    if (picture_is_ppm(path)) ppm_free(rgb);
#ifdef PICTURES_STB
    else stbi_image_free(rgb);
#endif
}

static inline mmix_box picture_square(size_t width, size_t height)  /* the largest in the middle */
{
    size_t side = width < height ? width : height;
    mmix_box box;
    box.left = (width - side) / 2;
    box.top = (height - side) / 2;
    box.width = box.height = side;
    return box;
}

/* What a mask's pixel says, 0 background, 255 void: its gray, or the number of its colour in
   VOC's palette, where bits 0, 3, 6 of the number are red's highest, 1, 4, 7 green's and 2, 5
   blue's; 1 for other colours. */
static inline uint8_t picture_mask_label(const uint8_t *rgb)
{
    unsigned label = 0;
    if (rgb[0] == rgb[1] && rgb[1] == rgb[2]) return rgb[0];
    for (int bit = 0; bit < 8; bit++) {
        if (rgb[bit % 3] & 31) return 1;
        label |= (unsigned)(rgb[bit % 3] >> (7 - bit / 3) & 1) << bit;
    }
    return rgb[2] & 32 ? 1 : (uint8_t)label;
}

/* The same of all n pixels of a mask, into their red. The palette's 7 is a gray, 128: it is
   meant if the mask has a colour anywhere. */
static inline void picture_mask_labels(uint8_t *rgb, size_t n)
{
    int coloured = 0;
    for (size_t i = 0; i < n && !coloured; i++)
        coloured = rgb[3 * i] != rgb[3 * i + 1] || rgb[3 * i] != rgb[3 * i + 2];
    for (size_t i = 0; i < n; i++)
        rgb[3 * i] = coloured && rgb[3 * i] == 128 && rgb[3 * i + 1] == 128 && rgb[3 * i + 2] == 128
                     ? 7 : picture_mask_label(rgb + 3 * i);
}

/* A square of a mask w pixels wide, the nearest pixels of it, as labels (size, size). */
static inline void picture_mask_square(uint8_t *out, const uint8_t *rgb, size_t w, mmix_box box,
                                       size_t size)
{
    for (size_t i = 0; i < size * size; i++)
        out[i] = picture_mask_label(rgb + 3 * ((box.top + (2 * (i / size) + 1) * box.height /
                                                (2 * size)) * w + box.left +
                                               (2 * (i % size) + 1) * box.width / (2 * size)));
}

/* mmix_picture_resize with scratch memory of its own; may run in a task. Whether there is none,
   or no such size. */
static inline int picture_resize(uint8_t *out, mmix_picture in, mmix_resize_plan r)
{
    void *scratch = malloc(mmix_picture_resize_scratch_bytes(r) + 1);
    int bad = !scratch || mmix_picture_resize(out, in, r, scratch);
    free(scratch);
    return bad;
}

/* A copy whose shorter side is at most `side`. Whether there is no memory for it. */
static inline int picture_keep(mmix_picture *out, mmix_picture in, size_t side)
{
    mmix_box all = {0, 0, in.height, in.width};
    size_t least = in.width < in.height ? in.width : in.height;
    *out = in;
    if (least > side) {
        out->width = (in.width * side + least / 2) / least;
        out->height = (in.height * side + least / 2) / least;
    }
    uint8_t *rgb = (uint8_t *)malloc(out->width * out->height * 3);
    out->rgb = rgb;
    return !rgb || picture_resize(rgb, in, mmix_resize_plan_box(all, out->width, out->height));
}

/* Reads the mask of picture i, which has w x h pixels. 0, or -1 and why. */
static inline int picture_read_mask(mmix_ctx *m, picture_set *set, size_t i, size_t size, size_t w,
                                    size_t h, const char *path, char *why, size_t room)
{
    size_t mask_w = 0, mask_h = 0;
    uint8_t *mask = picture_pixels(m, path, &mask_w, &mask_h, why, room);
    if (!mask) return -1;
    int fits = mask_w == w && mask_h == h;
    if (fits) picture_mask_square(set->mask + i * size * size, mask, w, picture_square(w, h), size);
    else
        snprintf(why, room, "%s: the mask has %zu x %zu pixels, its picture %zu x %zu; make them "
                            "equal",
                 path, mask_w, mask_h, w, h);
    picture_pixels_free(path, mask);
    return fits ? 0 : -1;
}

/* What became of a picture: it is there; it cannot be read and is left out; the folder is wrong. */
enum { PICTURE_READ, PICTURE_BROKEN, PICTURE_WRONG };

/* Reads one file of a set, and its mask. PICTURE_READ, or another and why. */
static inline int picture_read(mmix_ctx *m, picture_set *set, size_t i, size_t size, size_t whole,
                               const char *mask_path, char *why, size_t room)
{
    size_t w = 0, h = 0;
    uint8_t *rgb = picture_pixels(m, set->name[i], &w, &h, why, room);
    if (!rgb) return PICTURE_BROKEN;
    mmix_picture in = {rgb, w, h};
    mmix_resize_plan square = mmix_resize_plan_box(picture_square(w, h), size, size);
    int bad = picture_resize(set->rgb + i * size * size * 3, in, square);
    if (!bad && set->whole) bad = picture_keep(&set->whole[i], in, whole);
    picture_pixels_free(set->name[i], rgb);
    if (bad) {
        snprintf(why, room, "%s: %zu x %zu pixels cannot be brought to size", set->name[i], w, h);
        return PICTURE_WRONG;
    }
    if (mask_path && picture_read_mask(m, set, i, size, w, h, mask_path, why, room))
        return PICTURE_WRONG;
    return PICTURE_READ;
}

/* Whether a picture can be read at all; why, if not. */
static inline int picture_readable(mmix_ctx *m, const char *path, char *why, size_t room)
{
    size_t w = 0, h = 0;
    uint8_t *rgb = picture_pixels(m, path, &w, &h, why, room);
    if (!rgb) return 0;
    picture_pixels_free(path, rgb);
    return 1;
}

typedef struct picture_job { pictures *p; picture_set *set; char **mask; char (*why)[512];
                            int *became; } picture_job;

/* PPM wants the context, and so is not read in a task. */
static inline int picture_in_turn(const picture_job *job, size_t i)
{
    return picture_is_ppm(job->set->name[i]) || (job->mask && picture_is_ppm(job->mask[i]));
}

static inline void picture_job_read(picture_job *job, mmix_ctx *m, size_t i)
{
    const char *mask = job->mask ? job->mask[i] : NULL;
    job->became[i] = picture_read(m, job->set, i, job->p->size, job->p->whole, mask, job->why[i],
                                  sizeof job->why[i]);
}

static inline void picture_task(void *arg, size_t i)
{
    picture_job *job = (picture_job *)arg;
    if (!picture_in_turn(job, i)) picture_job_read(job, NULL, i);
}

/* Makes room for `count` pictures. */
static inline int picture_set_make(picture_set *set, size_t count, size_t size, int masks)
{
    set->count = count;
    set->picture = (mmix_picture *)calloc(count + 1, sizeof *set->picture);
    set->label = (int32_t *)calloc(count + 1, sizeof *set->label);
    set->name = (char **)calloc(count + 1, sizeof *set->name);
    set->rgb = (uint8_t *)malloc(count * size * size * 3 + 1);
    set->mask = masks ? (uint8_t *)malloc(count * size * size + 1) : NULL;
    if (!set->picture || !set->label || !set->name || !set->rgb || (masks && !set->mask)) return -1;
    for (size_t i = 0; i < count; i++) {
        set->picture[i].rgb = set->rgb + i * size * size * 3;
        set->picture[i].width = set->picture[i].height = size;
    }
    return 0;
}

/* Picture `from` takes the place `to` before it. */
static inline void picture_set_move(picture_set *set, size_t to, size_t from, size_t size)
{
    size_t pixels = size * size;
    memcpy(set->rgb + to * pixels * 3, set->rgb + from * pixels * 3, pixels * 3);
    if (set->mask) memcpy(set->mask + to * pixels, set->mask + from * pixels, pixels);
    if (set->whole) {
        set->whole[to] = set->whole[from];
        memset(&set->whole[from], 0, sizeof set->whole[from]);
    }
    set->label[to] = set->label[from];
    set->name[to] = set->name[from];
    set->name[from] = NULL;
}

/* Leaves the broken ones out of a set, and notes how many and why the first. */
static inline void picture_set_mend(pictures *p, picture_set *set, const picture_job *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (job->became[i] == PICTURE_READ) {
            if (kept < i) picture_set_move(set, kept, i, p->size);
            kept++;
            continue;
        }
        if (!p->notes.broken)
            snprintf(p->notes.first_broken, sizeof p->notes.first_broken, "%s", job->why[i]);
        p->notes.broken++;
        free(set->name[i]);
        set->name[i] = NULL;
    }
    set->count = kept;
}

/* Reads the files of a set on all threads. 0, or -1: p->error, of wrong ones the first by order. */
static inline int picture_set_read(pictures *p, mmix_ctx *m, picture_set *set, char **mask)
{
    picture_job job = {p, set, mask, NULL, NULL};
    size_t found = set->count;
    job.why = (char (*)[512])calloc(found + 1, sizeof *job.why);
    job.became = (int *)calloc(found + 1, sizeof *job.became);
    if (!job.why || !job.became) snprintf(p->error, sizeof p->error, "out of memory");
    else mmix_parallel_for(m, found, picture_task, &job);
    for (size_t i = 0; i < found && !*p->error; i++) {
        if (picture_in_turn(&job, i)) {
            picture_job_read(&job, m, i);
            mmix_error_clear(m);             /* job.why says more */
        }
        if (job.became[i] == PICTURE_WRONG) snprintf(p->error, sizeof p->error, "%s", job.why[i]);
    }
    if (!*p->error) picture_set_mend(p, set, &job);
    if (!*p->error && !set->count)
        snprintf(p->error, sizeof p->error, "none of %zu pictures can be read; the first: %s",
                 found, p->notes.first_broken);
    free(job.why);
    free(job.became);
    return *p->error ? -1 : 0;
}

/* ---- folders --------------------------------------------------------------------------------- */

static inline void pictures_free(pictures *p)
{
    picture_set *both[2] = {&p->train, &p->test};
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; both[k]->name && i < both[k]->count; i++) free(both[k]->name[i]);
        for (size_t i = 0; both[k]->whole && !p->packed && i < both[k]->count; i++)
            free((void *)both[k]->whole[i].rgb);
        free(both[k]->whole);
        free(both[k]->picture);
        free(both[k]->label);
        free(both[k]->name);
        free(both[k]->rgb);
        free(both[k]->mask);
    }
    for (size_t c = 0; c < p->classes; c++) free(p->class_name[c]);
    free(p->class_name);
    mmix_archive_close(p->packed);
    p->packed = NULL;
    p->classes = 0;
    memset(&p->train, 0, sizeof p->train);
    memset(&p->test, 0, sizeof p->test);
    p->class_name = NULL;
}

/* The path of a picture's mask (any of three endings), or NULL. */
static inline char *picture_mask_path(const char *masks, const char *inside)
{
    static const char *const ending[3] = {".png", ".pgm", ".ppm"};
    for (int k = 0; k < 3; k++) {
        char *path = picture_join(masks, "/", inside);
        if (!path) return NULL;
        path[strlen(masks) + 1 + (size_t)(picture_ending(inside) - inside)] = 0;
        char *full = picture_join(path, "", ending[k]);
        FILE *f = full ? fopen(full, "rb") : NULL;
        free(path);
        if (f) {
            fclose(f);
            return full;
        }
        free(full);
    }
    return NULL;
}

/* Names below DIR ("train/cat/1.jpg") of one of the two parts, with labels. */
typedef struct picture_part {
    picture_names names;
    int32_t *label;
} picture_part;

static inline int picture_part_add(picture_part *part, const char *name, size_t label)
{
    int32_t *more = (int32_t *)realloc(part->label, (part->names.count + 1) * sizeof *more);
    if (!more) return -1;
    part->label = more;
    part->label[part->names.count] = (int32_t)label;
    return picture_names_add(&part->names, name);
}

/* The pictures of `folder`/`inside` go to `to` or, if that is NULL, to both parts: every fifth
   to part[1]. 0, or -1 without memory. */
static inline int picture_collect(const char *folder, const char *inside, size_t label,
                                  picture_part *part, picture_part *to, picture_notes *notes)
{
    char *path = picture_join(folder, *inside ? "/" : "", inside);
    picture_names list = picture_list(path ? path : "", 0, notes);
    int bad = !path || list.bad;
    for (size_t i = 0; !bad && i < list.count; i++) {
        char *name = picture_join(inside, *inside ? "/" : "", list.at[i]);
        bad = !name || picture_part_add(to ? to : &part[i % 5 == 4], name, label);
        free(name);
    }
    picture_names_free(&list);
    free(path);
    return bad ? -1 : 0;
}

/* Whether a folder has both train and test; -1 without memory. */
static inline int picture_is_split(const char *folder)
{
    char *train = picture_join(folder, "/", "train");
    char *test = picture_join(folder, "/", "test");
    int split = !train || !test ? -1 : picture_is_folder(train) && picture_is_folder(test);
    free(train);
    free(test);
    return split;
}

/* Names and classes below a folder: parts 2 for training and testing, 1 for testing alone, then
   of a folder without train and test all. 1 if it has these two, 0 if not, -1 without memory;
   notes->denied if something could not be looked into. */
static inline int picture_find(const char *folder, int parts, picture_part *part,
                               picture_names *classes, picture_notes *notes)
{
    int split = picture_is_split(folder);
    int bad = 0;
    const char *part_name = parts == 2 ? "train" : "test";
    char *top = split ? picture_join(folder, "/", part_name) : picture_join(folder, "", "");
    memset(classes, 0, sizeof *classes);
    memset(notes, 0, sizeof *notes);
    if (split < 0 || !top) {
        free(top);
        return -1;
    }
    *classes = picture_list(top, 1, notes);
    for (size_t c = 0; c < classes->count || c == 0; c++) {
        const char *name = classes->count ? classes->at[c] : "";
        for (int k = split && parts == 1; k < 1 + split; k++) {
            const char *half = k ? "test" : "train";
            const char *stroke = *name ? "/" : "";
            char *inside = split ? picture_join(half, stroke, name) : picture_join("", "", name);
            picture_part *to = split ? &part[k] : NULL;
            if (parts == 1) to = part;
            bad = bad || !inside || picture_collect(folder, inside, c, part, to, notes);
            free(inside);
        }
    }
    free(top);
    return bad || classes->bad ? -1 : split;
}

/* 1 and why if DIR/test has a class that is not among DIR/train's, which are given. */
static inline int picture_strays(const char *folder, const picture_names *classes, char *why,
                                 size_t room)
{
    char *test = picture_join(folder, "/", "test");
    picture_notes notes = {0, 0, "", "", ""};
    picture_names tested = picture_list(test ? test : "", 1, &notes);
    int bad = 0;
    for (size_t c = 0, k; c < tested.count && !bad; c++) {
        for (k = 0; k < classes->count && strcmp(classes->at[k], tested.at[c]); k++) continue;
        bad = k == classes->count;
        if (bad) snprintf(why, room,
                          "%s/test/%s: a class without training pictures; %s/train/%s is missing",
                          folder, tested.at[c], folder, tested.at[c]);
    }
    picture_names_free(&tested);
    free(test);
    return bad;
}

/* ---- one packed file ------------------------------------------------------------------------- */

/* Entries: "train/CLASS/NAME" (h, w, 3), uncut; "test/CLASS/NAME" (size, size, 3), and of it
   "mask/CLASS/NAME" (size, size). 0, or -1: p->error. */
static inline int pictures_pack(pictures *p, mmix_ctx *m, const char *folder, const char *path)
{
    size_t n = p->train.count + p->test.count * (p->test.mask ? 2 : 1);
    size_t at = 0;
    size_t pixels = p->size * p->size;
    mmix_entry *e = (mmix_entry *)calloc(n + 1, sizeof *e);
    int split = p->packed ? 1 : picture_is_split(folder);
    for (int k = 0; e && split >= 0 && k < (p->test.mask ? 3 : 2); k++) {
        const picture_set *set = k ? &p->test : &p->train;
        for (size_t i = 0; i < set->count && at < n; i++, at++) {
            const char *name = set->name[i] + strlen(folder) + 1;
            if (split) name = strchr(name, '/') + 1;
            mmix_picture in = !k && set->whole ? set->whole[i] : set->picture[i];
            static const char *const part_name[3] = {"train", "test", "mask"};
            e[at].name = picture_join(part_name[k], "/", name);
            e[at].dtype = MMIX_FILE_U8;
            e[at].ndim = k == 2 ? 2 : 3;
            e[at].shape[0] = in.height;
            e[at].shape[1] = in.width;
            e[at].shape[2] = 3;
            e[at].data = k == 2 ? set->mask + i * pixels : in.rgb;
            if (!e[at].name) at = n;
        }
    }
    if (!e || split < 0 || at > n)
        snprintf(p->error, sizeof p->error, "no memory for the names of %zu pictures", n);
    else if (mmix_archive_save(m, path, e, n, NULL))
        snprintf(p->error, sizeof p->error, "%s", mmix_error(m));
    for (size_t i = 0; e && i < n; i++) free((char *)(uintptr_t)e[i].name);
    free(e);
    return *p->error ? -1 : 0;
}

typedef struct picture_unpacking { pictures *p; picture_set *set; const mmix_entry **entry;
                                  } picture_unpacking;
static inline void picture_unpack_task(void *arg, size_t i)
{
    picture_unpacking *job = (picture_unpacking *)arg;
    size_t size = job->p->size;
    const mmix_entry *e = job->entry[i];
    mmix_picture in = {(const uint8_t *)e->data, e->shape[1], e->shape[0]};
    mmix_resize_plan r = mmix_resize_plan_box(picture_square(in.width, in.height), size, size);
    if (picture_resize(job->set->rgb + i * size * size * 3, in, r)) job->entry[i] = NULL;
    if (job->set->whole) job->set->whole[i] = in;
}

/* One of the two parts of a packed file. 0, or -1: p->error. */
static inline int picture_unpack(pictures *p, mmix_ctx *m, int part, int masks, const char *path)
{
    const char *begin = part ? "test/" : "train/";
    picture_set *set = part ? &p->test : &p->train;
    size_t all = mmix_archive_count(p->packed);
    size_t n = 0;
    size_t skip = strlen(begin);
    size_t pixels = p->size * p->size;
    const mmix_entry **entry = (const mmix_entry **)calloc(all + 1, sizeof *entry);
    picture_unpacking job = {p, set, entry};
    for (size_t i = 0; entry && i < all; i++) {
        const mmix_entry *e = mmix_archive_entry(p->packed, i);
        if (strncmp(e->name, begin, skip)) continue;
        int is_picture = e->dtype == MMIX_FILE_U8 && e->ndim == 3 && e->shape[2] == 3;
        if (!is_picture || !mmix_entry_count(e)) {
            snprintf(p->error, sizeof p->error, "%s: %s is no 8-bit picture (h, w, 3)", path,
                     e->name);
            free((void *)entry);
            return -1;
        }
        entry[n++] = e;
    }
    if (p->whole && !part) set->whole = (mmix_picture *)calloc(n + 1, sizeof *set->whole);
    if (!entry || picture_set_make(set, n, p->size, masks && part) ||
        (p->whole && !part && !set->whole))
        snprintf(p->error, sizeof p->error, "out of memory for %zu pictures; try a smaller --size",
                 n);
    for (size_t i = 0; i < n && !*p->error; i++) {
        const char *inside = entry[i]->name + skip;
        const char *slash = strrchr(inside, '/');
        size_t length = slash ? (size_t)(slash - inside) : 0;
        size_t c = 0;
        set->name[i] = picture_join(path, "/", entry[i]->name);
        while (c < p->classes && (strncmp(p->class_name[c], inside, length) ||
                                  p->class_name[c][length])) c++;
        set->label[i] = (int32_t)c;
        int after_others = i || (part && p->train.count);
        int is_mixed = length ? !p->classes && after_others : p->classes > 0;
        if (is_mixed)
            snprintf(p->error, sizeof p->error, "%s: %s: some pictures have a class, others have "
                     "none; pack all below folders of classes, or none", path, entry[i]->name);
        if (c == p->classes && length) {
            char **more = (char **)realloc(p->class_name, (c + 1) * sizeof *more);
            if (more) {
                p->class_name = more;
                more[c] = picture_join(inside, "", "");
                p->classes += more[c] != NULL;
            }
            if (c < p->classes) more[c][length] = 0;
        }
        char *name = set->mask ? picture_join("mask", "/", inside) : NULL;
        const mmix_entry *mask = name ? mmix_archive_find(p->packed, name) : NULL;
        free(name);
        if (set->mask && (!mask || mask->dtype != MMIX_FILE_U8 || mmix_entry_count(mask) != pixels))
            snprintf(p->error, sizeof p->error,
                     "%s: mask/%s is missing, or not (%zu, %zu); pack with the same --size",
                     path, inside, p->size, p->size);
        else if (set->mask) memcpy(set->mask + i * pixels, mask->data, pixels);
    }
    if (!*p->error) mmix_parallel_for(m, n, picture_unpack_task, &job);
    for (size_t i = 0; i < n && !*p->error; i++)
        if (!entry[i]) snprintf(p->error, sizeof p->error,
                                "%s: its pictures cannot be brought to size", path);
    free((void *)entry);
    return *p->error ? -1 : 0;
}

/* Reads a folder or a packed file, and the test pictures' masks if `masks` is given; whole 0:
   uncut pictures are not kept. 0, or -1: p->error, nothing to free. */
static inline int pictures_load(pictures *p, mmix_ctx *m, const char *folder, const char *masks,
                                size_t size, size_t whole)
{
    memset(p, 0, sizeof *p);
    p->size = size;
    p->whole = whole;
    if (picture_ends(folder, ".safetensors") && !picture_is_folder(folder)) {
        p->packed = mmix_archive_open(m, folder);
        if (!p->packed) snprintf(p->error, sizeof p->error, "%s", mmix_error(m));
        int any = masks != NULL;
        for (size_t i = 0; i < mmix_archive_count(p->packed); i++)
            any |= !strncmp(mmix_archive_entry(p->packed, i)->name, "mask/", 5);
        for (int k = 0; k < 2 && !*p->error; k++) picture_unpack(p, m, k, any, folder);
        if (!*p->error && (!p->train.count || !p->test.count))
            snprintf(p->error, sizeof p->error,
                     "%s: no train/… or no test/… in it; dino --pack writes such files", folder);
        if (*p->error) pictures_free(p);
        return *p->error ? -1 : 0;
    }
    if (!picture_is_folder(folder))
        snprintf(p->error, sizeof p->error, "%s: no such folder; --images wants one", folder);
    else if (masks && !picture_is_folder(masks))
        snprintf(p->error, sizeof p->error, "%s: no such folder; --masks wants one", masks);
    if (*p->error) return -1;

    picture_part part[2];
    memset(part, 0, sizeof part);
    picture_names classes;
    int split = picture_find(folder, 2, part, &classes, &p->notes);
    if (split < 0) snprintf(p->error, sizeof p->error,
                            "%s: no memory for the names of its pictures", folder);
    else if (*p->notes.denied) snprintf(p->error, sizeof p->error, "%s", p->notes.denied);
    if (split > 0 && !*p->error) picture_strays(folder, &classes, p->error, sizeof p->error);
    p->class_name = classes.at;
    p->classes = classes.count;
    if (!*p->error && (!part[0].names.count || !part[1].names.count))
        snprintf(p->error, sizeof p->error,
                 "%s: %s; expected %s/train/CLASS/* and %s/test/CLASS/*, or %s/CLASS/*, or %s/*: "
                 ".jpg, .png, "
                 ".ppm, 5 or more", folder, part[0].names.count ? "no test pictures" :
                 "no pictures", folder,
                 folder, folder, folder);
    if (*p->error) picture_notes_say(&p->notes, 0);
    size_t found = part[0].names.count + part[1].names.count;

    for (int k = 0; k < 2 && !*p->error; k++) {
        picture_set *set = k ? &p->test : &p->train;
        size_t n = part[k].names.count;
        char **mask = k && masks ? (char **)calloc(n + 1, sizeof *mask) : NULL;
        if (!k && whole) set->whole = (mmix_picture *)calloc(n + 1, sizeof *set->whole);
        if (picture_set_make(set, n, size, mask != NULL) < 0 || (k && masks && !mask) ||
            (!k && whole && !set->whole))
            snprintf(p->error, sizeof p->error,
                     "out of memory for %zu pictures; try a smaller --size", n);
        for (size_t i = 0; i < n && !*p->error; i++) {
            set->name[i] = picture_join(folder, "/", part[k].names.at[i]);
            set->label[i] = part[k].label[i];
            if (mask) mask[i] = picture_mask_path(masks, part[k].names.at[i]);
            const char *name = part[k].names.at[i];
            if (mask && !mask[i])
                snprintf(p->error, sizeof p->error, "%s: no mask for it; expected %s/%.*s.png",
                         set->name[i], masks, (int)(picture_ending(name) - name), name);
        }
        if (!*p->error) picture_set_read(p, m, set, mask);
        for (size_t i = 0; mask && i < n; i++) free(mask[i]);
        free(mask);
    }
    for (int k = 0; k < 2; k++) {
        picture_names_free(&part[k].names);
        free(part[k].label);
    }
    if (*p->error) pictures_free(p);
    else picture_notes_say(&p->notes, found);
    return *p->error ? -1 : 0;
}

/* Picture i of n that are spread evenly over `all`, all of them if there are fewer. */
static inline size_t picture_spread(size_t i, size_t n, size_t all) { return n < all ? i * all / n :
        i; }

/* At most `most` square pictures of a set, so spread, and their labels: few->picture is to be
   freed. 0, or -1. */
static inline int picture_few(picture_set *few, const picture_set *set, size_t most)
{
    memset(few, 0, sizeof *few);
    few->count = set->count < most ? set->count : most;
    few->picture = (mmix_picture *)malloc(few->count * (sizeof *few->picture + sizeof *few->label) +
                                          1);
    few->label = (int32_t *)(void *)(few->picture + few->count);
    for (size_t i = 0; few->picture && i < few->count; i++) {
        size_t k = picture_spread(i, few->count, set->count);
        few->picture[i] = set->picture[k];
        few->label[i] = set->label[k];
    }
    return few->picture ? 0 : -1;
}

/* A number of all pictures, labels and masks: bytes_hash, but that a label counts as one byte. */
static inline uint64_t pictures_fingerprint(const pictures *p)
{
    uint64_t h = BYTES_HASH;
    const picture_set *both[2] = {&p->train, &p->test};
    for (int k = 0; k < 2; k++) {
        size_t n = both[k]->count * p->size * p->size;
        h = bytes_hash(h, both[k]->rgb, 3 * n);
        if (k && both[k]->mask) h = bytes_hash(h, both[k]->mask, n);
        for (size_t i = 0; i < both[k]->count; i++)
            h = (h ^ (uint32_t)both[k]->label[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

#endif
