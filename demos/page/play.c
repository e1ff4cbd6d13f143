/* play.c - the mixing matrix in a browser: what demos/page/play.html asks of mamba_mix.h

       make play        WebAssembly by clang and wasi-libc, put into one page: build/play/play.html

   A picture of 224 x 224 pixels is cut into 14 x 14 patches, and a head is made of them as in
   demos/studies/mixers.c: a random projection, the same in every run, gives queries and keys.
   Nothing is trained. Values are the patches' mean colours, so that Y = M X is a picture, too.

   The page writes pixels and settings where play_pixels and play_settings say, calls, and reads
   where the others say; nothing but these functions leaves the module, and it imports nothing.
   Compiled by any other compiler this is a program that prints the same numbers for the test:

       play_native SCENE KIND N MASK WINDOW SHIFTED FEATURE NORMALIZE SHARPNESS STEP SPREAD A
           DIRECTION >numbers */

#ifndef MMIX_LINKED
#define MAMBA_MIX_IMPLEMENTATION
#endif
#include "../../mamba_mix.h"
#include "../studies/scenes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __wasm__
#include <wasi/api.h>
#define PLAY(name) __attribute__((export_name(#name)))
#else
#define PLAY(name)
#endif

enum { GRID = 14, PATCH = 16, SIDE = GRID * PATCH, L = GRID * GRID, WIDEST = 64, P = 3 };
/* In this order the page writes them. MASK: none, causal, band, windows. WINDOW: of a band what
   it sees to either side, of windows their side. SHARPNESS multiplies softmax's scores, or what
   φ gets. STEP: δ of a middling token; its logarithm, roughly, varies by SPREAD. */
enum { KIND, WIDTH, MASK, WINDOW, SHIFTED, FEATURE, NORMALIZE, SHARPNESS, STEP, SPREAD, DECAY,
      DIRECTION, SETTINGS };
enum { MASK_WINDOWS = 3 };

typedef struct player {
    mmix_ctx *m;
    mmix_mix_state *carried;
    mmix_mark made, mixed;                       /* after the picture's tensors, after M */
    mmix_tensor *q, *v, *dt, *M;  /* (1, L, 1, WIDEST), (1, L, 1, P), (1, L, 1), (1, 1, L, L) */
    mmix_mixer mixer;
    double setting[SETTINGS], singular[L], bound;
    mmix_real x[L * P], y[L * P], fast[L * P], stepped[L * P];
    /* after each token: forward, reverse; (P, N) each */
    mmix_real state[2][L][P * WIDEST], delta[L];
    uint8_t pixels[SIDE * SIDE * 4];             /* RGBA, as a canvas has them */
} player;
static player play;

PLAY(play_pixels) uint8_t *play_pixels(void) { return play.pixels; }
PLAY(play_settings) double *play_settings(void) { return play.setting; }
PLAY(play_matrix) mmix_real *play_matrix(void) { return mmix_data(play.M); }  /* (L, L) */
PLAY(play_x) mmix_real *play_x(void) { return play.x; }  /* (L, 3), as y and stepped */
PLAY(play_y) mmix_real *play_y(void) { return play.y; }
PLAY(play_stepped) mmix_real *play_stepped(void) { return play.stepped; }
/* P * WIDEST apart */
PLAY(play_state) mmix_real *play_state(int way) { return play.state[way][0]; }
PLAY(play_delta) mmix_real *play_delta(void) { return play.delta; }                /* (L) */
PLAY(play_singular) double *play_singular(void) { return play.singular; }
PLAY(play_bound) double play_bound(void) { return play.bound; }
PLAY(play_error) const char *play_error(void)
{
    return play.m ? mmix_error(play.m) : mmix_error(NULL);
}

PLAY(play_scene) void play_scene(int index)  /* a drawn scene as the picture */
{
    static unsigned char rgb[SIDE * SIDE * 3], mask[SIDE * SIDE];
    scene_draw(1, (uint64_t)index, SIDE, rgb, mask);
    for (size_t i = 0; i < SIDE * SIDE * 4; i++)
        play.pixels[i] = i % 4 < 3 ? rgb[i / 4 * 3 + i % 4] : 255;
}

/* (1, L, 1, width): a random projection of each patch, which is a convolution of stride PATCH. */
static mmix_tensor *project(mmix_ctx *m, mmix_tensor *image, size_t width, uint64_t stream)
{
    size_t shape[4] = {1, L, 1, 0};
    mmix_tensor *weight = mmix_fill_normal(m, mmix_new4(m, width, 3, PATCH, PATCH),
                                           1 / sqrt(3.0 * PATCH * PATCH), stream);
    shape[3] = width;
    return mmix_reshape(m, mmix_patch_embed(m, image, weight, NULL), 4, shape);
}

/* Tokens of the picture. Call it when pixels have changed. 0, or -1 and play_error. */
PLAY(play_picture) int play_picture(void)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    mmix_options options;
    mmix_picture p = {rgb, SIDE, SIDE};
    size_t three[3] = {1, L, 1};
    memset(&options, 0, sizeof options);
    options.threads = 1;
    if (!play.m && (play.m = mmix_create(&options)) != NULL)
        play.carried = mmix_mix_state_create(play.m, 1);
    if (!play.m) return -1;
    mmix_ctx *m = play.m;
    mmix_reset(m);
    mmix_error_clear(m);
    memset(play.x, 0, sizeof play.x);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        for (size_t c = 0; c < 3; c++) {         /* values: the mean colour, gray is 0 */
            rgb[3 * i + c] = play.pixels[4 * i + c];
            play.x[(i / SIDE / PATCH * GRID + i % SIDE / PATCH) * P + c] +=
                (mmix_real)((rgb[3 * i + c] / 255.0 - 0.5) / (PATCH * PATCH));
        }
    mmix_tensor *image = mmix_new4(m, 1, 3, SIDE, SIDE);
    if (!image || mmix_picture_normalize(mmix_data(image), p, NULL, NULL)) return -1;
    play.q = project(m, image, WIDEST, 1);
    play.dt = mmix_reshape(m, project(m, image, 1, 3), 3, three);
    play.v = mmix_new4(m, 1, L, 1, P);
    if (play.v) memcpy(mmix_data(play.v), play.x, sizeof play.x);
    play.M = NULL;
    play.made = mmix_mark_here(m);
    return mmix_error(m) ? -1 : 0;
}

/* A patch asks for patches like itself: q and k are one projection, each token brought to length
   √N. SSD scores as softmax attention does (C is q/√N). */
static mmix_mixer mixer_of(mmix_ctx *m, const double *set)
{
    static const size_t grid[2] = {GRID, GRID};
    size_t N = (size_t)set[WIDTH];
    size_t side[2] = {(size_t)set[WINDOW], (size_t)set[WINDOW]};
    double root = sqrt((double)N);
    double bias = log(expm1(set[STEP]));
    mmix_tensor *q = mmix_rms_norm(m, mmix_slice(m, play.q, 3, 0, N), NULL, 1e-6);
    mmix_mixer x = mmix_mixer_softmax(q, q, play.v);
    x.scale = set[SHARPNESS] / root;
    if (set[KIND] > MMIX_MIXER_SOFTMAX && set[KIND] < MMIX_MIXER_SSD) {
        q = mmix_affine(m, q, set[SHARPNESS], 0);
        x = mmix_mixer_linear(q, q, play.v);
        x.feature = (int)set[FEATURE];
        x.normalize = set[NORMALIZE] > 0 ? 1 : -1;
    }
    if (set[KIND] < MMIX_MIXER_SSD) {
        x.mask = set[MASK] < 2 ? (int)set[MASK] : MMIX_MASK_BAND;
        if (set[MASK] >= MASK_WINDOWS) x.mask = MMIX_MASK_NONE;
        if (x.mask == MMIX_MASK_BAND) x.left = x.right = side[0];
        if (set[MASK] >= MASK_WINDOWS) mmix_mixer_windows(&x, 2, grid, side, set[SHIFTED] > 0);
        return x;
    }
    x = mmix_mixer_ssd(play.v, mmix_affine(m, play.dt, set[SPREAD], 0),
                       mmix_fill(mmix_new1(m, 1), set[DECAY]), q, mmix_affine(m, q, 1 / root, 0));
    x.dt_bias = mmix_fill(mmix_new1(m, 1), bias);
    x.dt_softplus = 1;                           /* δ = softplus(spread · projection + bias) */
    x.direction = (int)set[DIRECTION];
    for (size_t t = 0; x.dt && t < L; t++)
        play.delta[t] = (mmix_real)log1p(exp((double)mmix_data(x.dt)[t] + bias));
    return x;
}

/* M by the settings; the page shows how long it takes. 0, or -1 and play_error. */
PLAY(play_mix) int play_mix(void)
{
    mmix_error_clear(play.m);
    mmix_rewind(play.m, play.made);
    play.mixer = mixer_of(play.m, play.setting);
    play.M = mmix_mix_matrix(play.m, &play.mixer);
    play.mixed = mmix_mark_here(play.m);
    return play.M ? 0 : -1;
}

/* y: rows of M times x, one multiplication after another, and by mmix_mix, which never holds M.
   Returns the largest difference of the two, or -1. */
PLAY(play_mean) double play_mean(void)
{
    const mmix_real *M = mmix_data(play.M);
    mmix_tensor *y = mmix_mix(play.m, &play.mixer);
    double most = 0;
    for (size_t i = 0; y && i < L * P; i++) {
        double sum = 0;
        for (size_t j = 0; j < L; j++)
            sum += (double)M[i / P * L + j] * (double)play.x[j * P + i % P];
        play.y[i] = (mmix_real)sum;
        play.fast[i] = mmix_data(y)[i];
        most = fmax(most, fabs(sum - (double)play.fast[i]));
    }
    mmix_rewind(play.m, play.mixed);
    return y ? most : -1;
}

/* One way through the tokens, one at a time: adds `share` of each token's y and keeps the state
   after it. */
static int walk(mmix_mixer x, int way, double share)
{
    mmix_ctx *m = play.m;
    mmix_tensor *q = x.q, *k = x.k, *v = x.v, *dt = x.dt, *state = NULL;
    size_t N = mmix_shape(q, 3);
    mmix_mix_state_clear(play.carried);
    x.direction = MMIX_SCAN_FORWARD;
    if (x.kind != MMIX_MIXER_SOFTMAX) x.final_state = &state;
    for (size_t n = 0; n < L; n++) {
        size_t t = way ? L - 1 - n : n;
        x.q = mmix_slice(m, q, 1, t, 1);
        x.k = mmix_slice(m, k, 1, t, 1);
        x.v = mmix_slice(m, v, 1, t, 1);
        if (dt) x.dt = mmix_slice(m, dt, 1, t, 1);
        mmix_tensor *y = mmix_mix_step(m, &x, play.carried, 0);
        if (!y) return -1;
        for (size_t p = 0; p < P; p++)
            play.stepped[t * P + p] += (mmix_real)(share * (double)mmix_data(y)[p]);
        if (state) memcpy(play.state[way][t], mmix_data(state), P * N * sizeof(mmix_real));
        mmix_rewind(m, play.mixed);
    }
    return 0;
}

/* y by the recurrence, where there is one: play_stepped, play_state. Returns how many ways there
   are: 1, 2 for both directions of SSD; 0: tokens see later ones; -1 and play_error. */
PLAY(play_steps) int play_steps(void)
{
    const mmix_mixer *x = &play.mixer;
    int ssd = x->kind == MMIX_MIXER_SSD;
    int both = ssd && x->direction == MMIX_SCAN_BOTH;
    int bad = 0;
    if (!ssd && x->mask != MMIX_MASK_CAUSAL) return 0;
    memset(play.stepped, 0, sizeof play.stepped);
    if (!ssd || x->direction != MMIX_SCAN_REVERSE) bad |= walk(*x, 0, both ? 0.5 : 1);
    if (ssd && x->direction != MMIX_SCAN_FORWARD) bad |= walk(*x, 1, both ? 0.5 : 1);
    return bad ? -1 : 1 + both;
}

/* 0: all of it; 1, 2: the half block below, above */
static mmix_tensor *part_of(mmix_tensor *M, int part)
{
    if (!part) return M;
    size_t half = L / 2;
    mmix_tensor *rows = mmix_slice(play.m, M, 2, part == 1 ? half : 0, half);
    return mmix_slice(play.m, rows, 3, part == 1 ? 0 : half, half);
}

/* Singular values of M or a block of L/2 tokens a side; returns the numerical rank, or -1. The
   bound is arXiv 2511.18380's: off the diagonal, N times the rank of the decays for SSD, N for
   linear attention, else the block's side. */
PLAY(play_rank) double play_rank(int part)
{
    mmix_ctx *m = play.m;
    mmix_mixer ones = play.mixer;
    mmix_rank r, decay;
    double rank = -1;
    double side = part ? L / 2 : L;
    double N = (double)mmix_shape(play.mixer.q, 3);
    memset(&decay, 0, sizeof decay);
    if (mmix_block_rank(m, part_of(play.M, part), 0, 0, &r)) return -1;
    memcpy(play.singular, r.singular, r.width * sizeof *r.singular);
    rank = r.numerical[0];
    play.bound = side;
    if (ones.kind == MMIX_MIXER_LINEAR && (part || ones.mask != MMIX_MASK_CAUSAL))
        play.bound = fmin(side, N);
    /* with scores of 1 its matrix is L, columns scaled */
    if (ones.kind == MMIX_MIXER_SSD && part) {
        ones.q = ones.k = mmix_fill(mmix_new4(m, 1, L, 1, 1), 1);
        if (mmix_block_rank(m, part_of(mmix_mix_matrix(m, &ones), part), 0, 0, &decay)) return -1;
        play.bound = fmin(side, decay.numerical[0] * N);
    }
    mmix_rewind(m, play.mixed);
    return rank;
}

#ifdef __wasm__
/* What wasi-libc asks of a system for the sake of its stdio, which the library has compiled out:
   there is none. With them here the module imports nothing. */
__wasi_errno_t __wasi_fd_write(__wasi_fd_t file, const __wasi_ciovec_t *part, size_t parts,
                               __wasi_size_t *done)
{
    (void)file;
    (void)part;
    (void)parts;
    *done = 0;
    return __WASI_ERRNO_BADF;
}
__wasi_errno_t __wasi_fd_seek(__wasi_fd_t file, __wasi_filedelta_t by, __wasi_whence_t from,
                              __wasi_filesize_t *at)
{
    (void)file;
    (void)by;
    (void)from;
    (void)at;
    return __WASI_ERRNO_BADF;
}
__wasi_errno_t __wasi_fd_close(__wasi_fd_t file) { return (void)file, __WASI_ERRNO_BADF; }

#else
/* Four-byte floats: M, y, y by steps (0 where there are none); eight-byte ones: the singular
   values of the block below the diagonal, its rank and bound. */
int main(int argc, char **argv)
{
    double end[2];
    if (argc != SETTINGS + 2) {
        fputs("play: give a scene and 12 settings, see play.c\n", stderr);
        return 2;
    }
    for (int i = 0; i < SETTINGS; i++) play.setting[i] = atof(argv[i + 2]);
    play_scene(atoi(argv[1]));
    int bad = play_picture() || play_mix() || play_mean() < 0 || play_steps() < 0;
    end[0] = bad ? -1 : play_rank(1);
    if (end[0] < 0) {
        fprintf(stderr, "play: %s\n", play_error());
        return 1;
    }
    end[1] = play_bound();
    fwrite(play_matrix(), sizeof(mmix_real), L * L, stdout);
    fwrite(play_y(), sizeof(mmix_real), L * P, stdout);
    fwrite(play_stepped(), sizeof(mmix_real), L * P, stdout);
    fwrite(play_singular(), sizeof(double), L / 2, stdout);
    fwrite(end, sizeof(double), 2, stdout);
    mmix_mix_state_destroy(play.carried);
    mmix_destroy(play.m);
    return 0;
}
#endif
