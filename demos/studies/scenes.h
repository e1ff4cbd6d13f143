/* scenes.h - drawn pictures with exact masks, for demos and tests that must run without a
   download

   There are eight classes: ball, box, cone, ring, star, leaf, fish, mushroom, and two sets of
   pictures.

   A swarm shows eight to twelve things of one class, each of any colour, texture, tilt and size,
   on a ground and in a light that are always the same. Nothing but shape tells the classes
   apart.

   A scene is a ground (one texture, or a floor before a wall) with one main object and up to two
   smaller ones, each of one of the classes. Place, size, tilt and light are drawn at random. As
   in photographs appearance and surroundings are hints and no proof: two objects of three wear
   their class's own texture and tints, two pictures of three are taken on ground where the main
   object's class is at home; the others wear and stand on anything. (Colour alone nearly decides
   the class here.)

       unsigned char rgb[96 * 96 * 3], mask[96 * 96];
       int kind = scene_draw(seed, index, 96, rgb, mask);       // the main object's class
       puts(scene_class[kind]);

   The mask holds 0 for ground and 1 + class for every object's pixel, the main object's and the
   others'; shadows are ground.

   How it is made. scene_make and scene_swarm throw the dice: the same seed and index give the
   same scene. scene_paint paints it at any size: for each pixel each object answers in its own
   coordinates (1024 is its radius) how deep inside its outline the pixel lies, which way its
   surface faces and what colour it has there. All arithmetic is on integers (fixed point, a hash
   for noise, an integer root), so the same pixels come out of every compiler and machine. At the
   end: short films, questions with answers about pictures and films, and stories made of
   sentences. */
#ifndef SCENES_H
#define SCENES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { SCENE_BALL, SCENE_BOX, SCENE_CONE, SCENE_RING,
       SCENE_STAR, SCENE_LEAF, SCENE_FISH, SCENE_MUSHROOM, SCENE_CLASSES };
static const char *const scene_class[SCENE_CLASSES] = {"ball", "box", "cone", "ring",
                                                       "star", "leaf", "fish", "mushroom"};

enum { SCENE_PLAIN, SCENE_STRIPES, SCENE_CHECKS, SCENE_DOTS, SCENE_MARBLE, SCENE_TEXTURES };
enum { SCENE_MAX_OBJECTS = 12 };

typedef struct scene_colour { int r, g, b; } scene_colour;           /* 0 … 255 */
typedef struct scene_paintwork {                                     /* a texture of two colours */
    int kind, scale;  /* SCENE_PLAIN …; length of its pattern */
    uint32_t noise;                                                  /* seed of its noise */
    scene_colour dark, light;
} scene_paintwork;
typedef struct scene_object {
    int kind;                                                        /* class */
    int x, y, radius;  /* the picture's side is 65536 */
    int cosine, sine;                                                /* of its tilt, 4096 is 1 */
    int squash, flip;  /* height is divided by squash/1024; flip: ±1 */
    scene_paintwork paint;
} scene_object;
typedef struct scene {
    int objects;  /* at[0] is the main object; painted from the last */
    scene_object at[SCENE_MAX_OBJECTS];
    scene_paintwork floor, wall;
    int horizon, slope;  /* the wall is above: y < horizon + slope x / 1024 */
    int light_x, light_y, light_z;  /* towards the light, 1024 is 1 */
    int ambient;  /* light in the shadow, of 1024 */
    uint32_t grain;                                                  /* seed of the last noise */
} scene;

/* ---- integers -------------------------------------------------------------------------------- */

static inline uint32_t scene_hash(uint32_t x)  /* 32 bits well mixed: multiply, shift, twice */
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* low … high - 1, the next number of a sequence */
static inline int scene_dice(uint64_t *state, int low, int high)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return low + (int)(((z >> 32) * (uint64_t)(high - low)) >> 32);
}

static inline int scene_root(int n)  /* ⌊√n⌋, one bit after another */
{
    int root = 0;
    for (int bit = 1 << 11; bit; bit >>= 1)
        if ((root + bit) * (root + bit) <= n) root += bit;
    return root;
}

/* 4096 sin(2π a / 1024), Bhaskara's formula: good to 0.2%. */
static inline int scene_sine(int a)
{
    int half = a & 511;
    int p = half * (512 - half);
    int s = 16384 * p / (327680 - p);
    return a & 512 ? -s : s;
}

static inline int scene_clamp(int x, int low, int high)
{
    if (x < low) return low;
    return x > high ? high : x;
}
static inline int scene_abs(int x) { return x < 0 ? -x : x; }
static inline int scene_min(int a, int b) { return a < b ? a : b; }
static inline int scene_max(int a, int b) { return a > b ? a : b; }

/* Smooth noise, 0 … 255: hashed values at the corners of a lattice of 256 units, blended with
   3t² - 2t³. */
static inline int scene_noise(uint32_t seed, int x, int y)
{
    /* shifts of negatives are not portable */
    uint32_t ux = (uint32_t)(x + (1 << 24));
    uint32_t uy = (uint32_t)(y + (1 << 24));
    int fx = (int)(ux & 255);
    int fy = (int)(uy & 255);
    uint32_t base = seed + (ux >> 8) * 0x9e3779b1u + (uy >> 8) * 0x85ebca77u;
    int a = (int)(scene_hash(base) & 255);
    int b = (int)(scene_hash(base + 0x9e3779b1u) & 255);
    int c = (int)(scene_hash(base + 0x85ebca77u) & 255);
    int d = (int)(scene_hash(base + 0x9e3779b1u + 0x85ebca77u) & 255);
    fx = fx * fx * (768 - 2 * fx) / 65536;
    fy = fy * fy * (768 - 2 * fy) / 65536;
    return ((a * (256 - fx) + b * fx) * (256 - fy) + (c * (256 - fx) + d * fx) * fy) / 65536;
}

/* ---- surfaces -------------------------------------------------------------------------------- */

/* A texture at (u, v): a mixture of its two colours. Every kind is roughened by noise: no area
   is flat. */
static inline scene_colour scene_texture(const scene_paintwork *p, int u, int v)
{
    int rough = scene_noise(p->noise, u * 512 / p->scale, v * 512 / p->scale);
    int mix = rough;
    int su = (u + (1 << 24)) % p->scale * 1024 / p->scale;           /* 0 … 1023 along one repeat */
    int sv = (v + (1 << 24)) % p->scale * 1024 / p->scale;
    switch (p->kind) {
    case SCENE_STRIPES:
        mix = scene_abs(su - 512) < 256 ? 255 : 0;
        break;
    case SCENE_CHECKS:
        mix = (su < 512) == (sv < 512) ? 255 : 0;
        break;
    case SCENE_DOTS:
        mix = (su - 512) * (su - 512) + (sv - 512) * (sv - 512) < 300 * 300 ? 255 : 0;
        break;
    case SCENE_MARBLE:
        mix = scene_abs((su + sv + rough * 8) % 1024 - 512) / 2;
        break;
    default:
        break;
    }
    mix = p->kind == SCENE_PLAIN ? mix / 3 : (mix * 3 + rough) / 4;
    scene_colour c = {p->dark.r + (p->light.r - p->dark.r) * mix / 255,
                      p->dark.g + (p->light.g - p->dark.g) * mix / 255,
                      p->dark.b + (p->light.b - p->dark.b) * mix / 255};
    return c;
}

/* One point of an object: how far inside the outline (negative: outside; 1024 is the radius),
   where its surface faces (nx, ny; 1024 is sideways), and how light its material is (of 256; an
   eye is dark). */
typedef struct scene_point { int depth, nx, ny, tint; } scene_point;

static inline int scene_disc(int u, int v, int radius)
{
    return radius - scene_root(scene_min(u * u + v * v, (1 << 24) - 1));
}

static inline scene_point scene_shape(int kind, int u, int v)
{
    static const int turn_x[5] = {0, 974, 602, -602, -974};  /* five directions, 72 degrees apart */
    static const int turn_y[5] = {-1024, -316, 828, 828, -316};
    scene_point p = {0, 0, 0, 256};
    int au = scene_abs(u);
    int side = u < 0 ? -1 : 1;
    switch (kind) {
    case SCENE_BALL:
        p.depth = scene_disc(u, v, 1000);
        p.nx = u;
        p.ny = v;
        break;
    case SCENE_BOX: {  /* a cube seen from above a corner: three lozenges */
        int a = (u * 512 + v * 887) / 1024;
        int b = (u * 512 - v * 887) / 1024;
        p.depth = 840 - scene_max(au, scene_max(scene_abs(a), scene_abs(b)));
        if (v < -au * 591 / 1024) p.ny = -560;  /* the lid, or else the left or right face */
        else {
            p.nx = side * 830;
            p.ny = 420;
        }
        break;
    }
    case SCENE_CONE: {
        int width = scene_max((v + 1000) * 780 / 1750, 1);
        int base = 750 + scene_root(scene_max(780 * 780 - u * u, 0)) / 4 - v;
        p.depth = scene_min(scene_min((width - au) * 9 / 10, v + 1000), base);
        p.nx = scene_clamp(u * 1000 / width, -1000, 1000);
        p.ny = -250;
        break;
    }
    case SCENE_RING: {
        int radius = 1024 - scene_disc(u, v, 1024);
        int out = radius - 700;
        p.depth = 290 - scene_abs(out);
        if (radius) {
            p.nx = u * out / radius * 3;
            p.ny = v * out / radius * 3;
        }
        break;
    }
    case SCENE_STAR: {  /* inside at least four of a pentagon's five sides */
        int least = 1 << 20;
        int second = 1 << 20;
        for (int i = 0; i < 5; i++) {
            int d = 400 - (u * turn_x[i] + v * turn_y[i]) / 1024;
            if (d < least) {
                second = least;
                least = d;
            } else if (d < second) second = d;
        }
        for (int i = 0; i < 5; i++)
            if (second == 400 - (u * turn_x[i] + v * turn_y[i]) / 1024) {
                p.nx = turn_x[i] * 7 / 10;
                p.ny = turn_y[i] * 7 / 10;
            }
        p.depth = second;
        break;
    }
    case SCENE_LEAF: {  /* where two discs overlap, with ribs */
        int vein = scene_abs((v + au * 3 / 4 + 4096) % 256 - 128);
        p.depth = scene_min(scene_disc(u - 640, v, 1180), scene_disc(u + 640, v, 1180));
        /* the stalk */
        if (au < 40 && v > 0) p.depth = scene_max(p.depth, scene_min(40 - au, 1250 - v));
        p.nx = side * (au < 50 ? -700 : 330);
        p.ny = 0;
        if (au >= 50) p.ny = vein < 26 ? 600 : 40;
        p.tint = au < 36 || vein < 18 ? 330 : 240;
        break;
    }
    case SCENE_FISH: {
        int tail = scene_min(620 - scene_abs(u - 620) - 240,
                             (u - 420) * 9 / 10 - scene_abs(v) + 180);
        int body = scene_disc((u + 180) * 5 / 7, v * 7 / 5, 600) * 5 / 6;
        int fin = scene_min(scene_min(u + 260, 260 - u), scene_min(v + 720 + u / 3, -v));
        p.depth = scene_max(scene_max(body, tail), fin);
        p.nx = body > 0 ? (u + 180) : 0;
        p.ny = body > 0 ? v * 2 : 0;
        if (body > 0 && u > -420) p.ny += ((u + v * v / 500 + 4096) % 190 - 95) * 4;  /* scales */
        if (scene_disc(u + 600, v + 110, 100) > 0)
            p.tint = scene_disc(u + 600, v + 110, 55) > 0 ? 20 : 500;
        if (body <= 0) p.tint = scene_abs(v) % 170 < 50 ? 150 : 230;  /* rays of the fins */
        break;
    }
    default: {  /* a mushroom: a cap over a pale stem */
        int stem = scene_min(230 + scene_max(v, 0) / 8 - au, scene_min(v + 100, 960 - v));
        int cap = scene_min(scene_disc(u * 8 / 9, v - 120, 1000) * 9 / 10, 200 - au / 9 - v);
        p.depth = scene_max(stem, cap);
        if (cap > 0) {
            p.nx = u;
            p.ny = v - 120;
        } else {
            p.nx = scene_clamp(u * 4, -1000, 1000);
            p.ny = v < 330 ? 500 : 0;
            p.tint = v < 290 ? 210 : 400;
        }
        break;
    }
    }
    return p;
}

/* ---- a picture ------------------------------------------------------------------------------- */

/* An object's answer at a point of the picture; the normal comes back in the picture's own
   directions. */
static inline scene_point scene_look(const scene_object *o, int x, int y, int *u, int *v)
{
    int dx = x - o->x;
    int dy = y - o->y;
    int r = o->radius * 4;
    *u = *v = 0;
    scene_point outside = {-1024, 0, 0, 0};
    /* most of the picture */
    if (scene_abs(dx) > r * 3 / 8 || scene_abs(dy) > r * 3 / 8) return outside;
    *u = (dx * o->cosine + dy * o->sine) / r * o->flip;
    *v = (dy * o->cosine - dx * o->sine) / r * o->squash / 1024;
    scene_point p = scene_shape(o->kind, *u, *v);
    int nx = p.nx * o->flip;
    p.nx = (nx * o->cosine - p.ny * o->sine) / 4096;
    p.ny = (p.ny * o->cosine + nx * o->sine) / 4096;
    return p;
}

/* light of 1024, shine 0 … 255 */
static inline scene_colour scene_lit(scene_colour c, int light, int shine)
{
    scene_colour out = {scene_clamp(c.r * light / 1024 + shine, 0, 255),
                        scene_clamp(c.g * light / 1024 + shine, 0, 255),
                        scene_clamp(c.b * light / 1024 + shine, 0, 255)};
    return out;
}

/* Paints a scene: rgb size x size x 3 and mask size x size, either may be NULL. */
static inline void scene_paint(const scene *s, int size, unsigned char *rgb, unsigned char *mask)
{
    int pixel = 65536 / size;
    for (int j = 0; j < size; j++)
        for (int i = 0; i < size; i++) {
            int x = (2 * i + 1) * 32768 / size;
            int y = (2 * j + 1) * 32768 / size;
            int label = 0;
            int u, v;
            int wall = y < s->horizon + x / 64 * s->slope / 16;
            /* the floor comes towards us */
            int deep = wall ? 0 : scene_max(y - s->horizon, 0) / 16;
            int light = 1024 + ((x - 32768) * s->light_x + (y - 32768) * s->light_y) / 131072;
            scene_colour c = scene_texture(wall ? &s->wall : &s->floor, x, y + deep * deep / 256);
            for (int k = s->objects - 1; k >= 0; k--) {  /* shadows fall away from the light */
                const scene_object *o = &s->at[k];
                int cast = o->radius / 4;
                int from_x = x + s->light_x * cast / 1024;
                int from_y = y + s->light_y * cast / 1024;
                int shade = scene_look(o, from_x, from_y, &u, &v).depth;
                if (shade > -100) light -= light * scene_min(shade + 100, 200) / 480;
            }
            c = scene_lit(c, light, 0);
            for (int k = s->objects - 1; k >= 0; k--) {
                const scene_object *o = &s->at[k];
                scene_point p = scene_look(o, x, y, &u, &v);
                /* a pixel in the object's units */
                int reach = scene_max(pixel * 1024 / o->radius, 1);
                int cover = scene_clamp(128 + p.depth * 256 / reach, 0, 256);
                if (!cover) continue;
                int nz = scene_root(scene_max(1024 * 1024 - p.nx * p.nx - p.ny * p.ny, 0));
                int facing = (p.nx * s->light_x + p.ny * s->light_y + nz * s->light_z) / 1024;
                facing = scene_clamp(facing, 0, 1024);
                int gloss = facing > 900 ? (facing - 900) * 3 / 4 : 0;
                scene_colour full = scene_texture(&o->paint, u, v);
                int bright = (s->ambient + (1200 - s->ambient) * facing / 1024) * p.tint / 256;
                full = scene_lit(full, bright, scene_min(gloss, 70));
                c.r += (full.r - c.r) * cover / 256;
                c.g += (full.g - c.g) * cover / 256;
                c.b += (full.b - c.b) * cover / 256;
                if (cover >= 128) label = 1 + o->kind;
            }
            size_t at = (size_t)j * (size_t)size + (size_t)i;
            int grain = (int)(scene_hash(s->grain + (uint32_t)at) & 15) - 8;
            if (mask) mask[at] = (unsigned char)label;
            if (!rgb) continue;
            rgb[3 * at] = (unsigned char)scene_clamp(c.r + grain, 0, 255);
            rgb[3 * at + 1] = (unsigned char)scene_clamp(c.g + grain, 0, 255);
            rgb[3 * at + 2] = (unsigned char)scene_clamp(c.b + grain, 0, 255);
        }
}

/* A colour from hue (0 … 1535, six sides of a wheel), saturation and value (0 … 255). */
static inline scene_colour scene_hue(int hue, int saturation, int value)
{
    int side = hue / 256 % 6;
    int up = hue % 256;
    int low = value * (255 - saturation) / 255;
    int rise = low + (value - low) * up / 255;
    int fall = value - (value - low) * up / 255;
    scene_colour wheel[6] = {{value, rise, low}, {fall, value, low}, {low, value, rise},
                             {low, fall, value}, {rise, low, value}, {value, low, fall}};
    return wheel[side];
}

/* Random paintwork: at most so saturated, a pattern low … high - 1 long, colours up to
   `contrast` apart. Two times of three it keeps to `home`, a hue with 150 to either side, and is
   not gray. */
static inline scene_paintwork scene_dip(uint64_t *dice, int home, int saturation, int low, int high,
                                        int contrast)
{
    scene_paintwork p;
    int at_home = scene_dice(dice, 0, 3) > 0;
    int least = at_home ? saturation / 2 : 0;
    int hue = at_home ? home + scene_dice(dice, -150, 151) + 1536 : scene_dice(dice, 0, 1536);
    int other = hue + scene_dice(dice, -130, 131) + 1536;
    int dull = scene_dice(dice, least, saturation);
    int bright = scene_dice(dice, least, saturation);
    int value = scene_dice(dice, 60, 200);
    int more = scene_dice(dice, contrast / 3, contrast);
    p.kind = scene_dice(dice, 0, SCENE_TEXTURES);
    p.scale = scene_dice(dice, low, high);
    p.noise = (uint32_t)scene_dice(dice, 0, 1 << 30);
    p.dark = scene_hue(hue, dull, value);
    p.light = scene_hue(other, bright, scene_min(value + more, 255));
    return p;
}

/* What an object looks like, once it has a class and a place; home: the hue that it likes. */
static inline void scene_dress(uint64_t *dice, scene_object *o, int home)
{
    int tilt = scene_dice(dice, -120, 121) & 1023;                   /* up to 42 degrees */
    o->cosine = scene_sine((tilt + 256) & 1023);
    o->sine = scene_sine(tilt);
    o->squash = scene_dice(dice, 1024, 1250);
    o->flip = scene_dice(dice, 0, 2) ? 1 : -1;
    o->paint = scene_dip(dice, home, 230, 300, 1000, 110);
}

/* Throws the dice for picture `index` of the set `seed`. */
static inline scene scene_make(uint64_t seed, uint64_t index)
{
    uint64_t dice = (seed + 1) * 0xd1342543de82ef95u ^ (index + 1) * 0x2545f4914f6cdd1du;
    scene s;
    scene_dice(&dice, 0, 1);
    s.at[0].kind = scene_dice(&dice, 0, SCENE_CLASSES);
    s.floor = scene_dip(&dice, s.at[0].kind * 192 + 500, 120, 7000, 26000, 60);
    s.wall = scene_dip(&dice, s.at[0].kind * 192 + 800, 120, 7000, 26000, 60);
    s.horizon = scene_dice(&dice, 0, 2) ? 0 : scene_dice(&dice, 10000, 40000);
    s.slope = s.horizon ? scene_dice(&dice, -3, 4) : 0;
    int angle = scene_dice(&dice, 600, 936);                         /* from above, left or right */
    s.light_x = scene_sine(angle + 256) * 660 / 4096;
    s.light_y = scene_sine(angle) * 660 / 4096;
    s.light_z = 780;
    s.ambient = scene_dice(&dice, 200, 480);
    s.grain = (uint32_t)scene_dice(&dice, 0, 1 << 30);
    s.objects = scene_dice(&dice, 1, 4);
    for (int k = 0; k < 3; k++) {
        scene_object *o = &s.at[k];
        if (k) o->kind = scene_dice(&dice, 0, SCENE_CLASSES);
        o->radius = k ? scene_dice(&dice, 6500, 10000) : scene_dice(&dice, 14000, 24000);
        o->x = k ? scene_dice(&dice, 4000, 61536) : scene_dice(&dice, 16000, 49536);
        o->y = k ? scene_dice(&dice, 4000, 61536) : scene_dice(&dice, 16000, 49536);
        scene_dress(&dice, o, o->kind * 192);
        if (scene_dice(&dice, 0, 3)) o->paint.kind = (o->kind * 3 + 1) % SCENE_TEXTURES;
    }
    return s;
}

/* The same for the other set: 8 to 12 things of one class, one in a cell of 4 x 4, on one ground
   in one light. */
static inline scene scene_swarm(uint64_t seed, uint64_t index)
{
    uint64_t dice = (seed + 1) * 0x9e6c63d0876a9a47u ^ (index + 1) * 0x2545f4914f6cdd1du;
    scene s;
    const scene_colour dark = {110, 110, 110}, light = {140, 140, 140};
    const scene_paintwork ground = {SCENE_PLAIN, 10000, (uint32_t)scene_dice(&dice, 0, 1 << 30),
                                    dark, light};
    int kind = scene_dice(&dice, 0, SCENE_CLASSES);
    int cell = scene_dice(&dice, 0, 16);
    int step = scene_dice(&dice, 0, 2) ? 7 : 5;          /* through the cells; no divisor of 16 */
    s.floor = s.wall = ground;
    s.horizon = s.slope = 0;
    s.light_x = -300;
    s.light_y = -580;
    s.light_z = 780;
    s.ambient = 350;
    s.grain = (uint32_t)scene_dice(&dice, 0, 1 << 30);
    s.objects = scene_dice(&dice, 8, SCENE_MAX_OBJECTS + 1);
    for (int k = 0; k < s.objects; k++, cell += step) {
        scene_object *o = &s.at[k];
        o->kind = kind;
        o->radius = scene_dice(&dice, 5500, 7500);
        o->x = 8192 + 16384 * (cell % 4) + scene_dice(&dice, -3000, 3000);
        o->y = 8192 + 16384 * (cell / 4 % 4) + scene_dice(&dice, -3000, 3000);
        scene_dress(&dice, o, scene_dice(&dice, 0, 1536));
    }
    return s;
}

/* Picture `index` of the set `seed`: rgb size x size x 3, mask size x size (0 ground, 1 + class
   an object); either may be NULL. Returns the class of the main object. */
static inline int scene_draw(uint64_t seed, uint64_t index, int size, unsigned char *rgb,
                             unsigned char *mask)
{
    scene s = scene_make(seed, index);
    scene_paint(&s, size, rgb, mask);
    return s.at[0].kind;
}

/* ---- clips and questions --------------------------------------------------------------------- */

/* For questions with one answer: one or two bright, plain things that differ in colour and
   shape, in different quarters of a picture, on a scene's ground. In a film of several frames
   there are two; each moves one way, and one of them comes later than the other.

       scene_clip c = scene_clip_make(seed, index, frames);                 // frames 1: a picture
       scene_clip_paint(&c, frame, 32, rgb);
       // number < SCENE_QUESTIONS
       answer = scene_clip_ask(&c, number, question, sizeof question); */
enum { SCENE_QUESTIONS = 4, SCENE_COLOURS = 4, SCENE_SHAPES = 4 };
static const char *const scene_colour_name[SCENE_COLOURS] = {"red", "yellow", "green", "blue"};
static const int scene_colour_hue[SCENE_COLOURS] = {0, 256, 512, 1024};
static const int scene_shape_kind[SCENE_SHAPES] = {SCENE_BALL, SCENE_BOX, SCENE_CONE, SCENE_STAR};

/* a frame's step; first frame */
typedef struct scene_thing { int colour, shape, x, y, dx, dy, from; } scene_thing;
typedef struct scene_clip {
    scene ground;
    scene_thing at[2];
    int things, frames;
    uint64_t dice;                                       /* for the questions */
} scene_clip;

static inline scene_clip scene_clip_make(uint64_t seed, uint64_t index, int frames)
{
    static const int way[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};  /* left, right, up, down */
    uint64_t dice = (seed + 77) * 0xd1342543de82ef95u ^ (index + 1) * 0x2545f4914f6cdd1du;
    scene_clip c;
    c.ground = scene_make(seed, index);
    c.frames = frames;
    scene_dice(&dice, 0, 2);
    c.things = frames > 1 ? 2 : scene_dice(&dice, 1, 3);
    int colour = scene_dice(&dice, 0, SCENE_COLOURS);
    int shape = scene_dice(&dice, 0, SCENE_SHAPES);
    int quarter = scene_dice(&dice, 0, 4);
    int early = scene_dice(&dice, 0, 2);
    for (int k = 0; k < 2; k++) {  /* the second is so far from the first, in all three */
        scene_thing *t = &c.at[k];
        t->colour = (colour + k * scene_dice(&dice, 1, SCENE_COLOURS)) % SCENE_COLOURS;
        t->shape = (shape + k * scene_dice(&dice, 1, SCENE_SHAPES)) % SCENE_SHAPES;
        int place = (quarter + k * scene_dice(&dice, 1, 4)) % 4;
        int w = scene_dice(&dice, 0, 4);
        t->x = 17500 + place % 2 * 30500 + scene_dice(&dice, -2500, 2501);
        t->y = 17500 + place / 2 * 30500 + scene_dice(&dice, -2500, 2501);
        t->dx = t->dy = t->from = 0;
        if (frames < 2) continue;
        /* two frames show a step */
        t->from = k == early ? 0 : scene_dice(&dice, 1, scene_max(frames - 1, 2));
        t->dx = way[w][0] * 36000 / frames;
        t->dy = way[w][1] * 36000 / frames;
        if (t->dx) t->x = 32768 - t->dx * (frames - 1 + t->from) / 2;  /* it crosses the middle */
        if (t->dy) t->y = 32768 - t->dy * (frames - 1 + t->from) / 2;
    }
    c.dice = dice;
    return c;
}

static inline void scene_clip_paint(const scene_clip *c, int frame, int size, unsigned char *rgb)
{
    scene s = c->ground;
    s.objects = 0;
    for (int k = 0; k < c->things; k++) {
        const scene_thing *t = &c->at[k];
        scene_object *o = &s.at[s.objects];
        if (frame < t->from) continue;
        *o = c->ground.at[k];                            /* its tilt */
        o->kind = scene_shape_kind[t->shape];
        o->x = t->x + t->dx * frame;
        o->y = t->y + t->dy * frame;
        o->radius = 15000;
        o->paint.kind = SCENE_PLAIN;
        o->paint.light = scene_hue(scene_colour_hue[t->colour], 230, 255);
        o->paint.dark = scene_hue(scene_colour_hue[t->colour], 230, 190);
        s.objects++;
    }
    scene_paint(&s, size, rgb, NULL);
}

/* Question `number` about a clip; returns the answer, one word. Yes is as frequent as no. Of a
   picture: colour, shape, whether a shape or a colour is there; of a film: which way each thing
   moves, which came first, whether one came before the other. */
static inline const char *scene_clip_ask(const scene_clip *c, int number, char *question,
                                         size_t room)
{
    uint64_t dice = c->dice ^ ((uint64_t)number + 1) * 0xd1342543de82ef95u;
    const scene_thing *a = &c->at[scene_dice(&dice, 0, c->things)];
    const scene_thing *b = &c->at[a == c->at];
    int yes = scene_dice(&dice, 0, 2), other, there;
    const char *colour = scene_colour_name[a->colour];
    const char *shape = scene_class[scene_shape_kind[a->shape]];
    if (c->frames > 1) {
        const char *two = scene_colour_name[b->colour];
        if (number < 2) {
            a = &c->at[number];
            snprintf(question, room, "which way does the %s one move?",
                     scene_colour_name[a->colour]);
            if (a->dx) return a->dx < 0 ? "left" : "right";
            return a->dy < 0 ? "up" : "down";
        }
        if (number == 2) snprintf(question, room, "which came first, the %s one or the %s one?",
                                  colour, two);
        else snprintf(question, room, "did the %s one come before the %s one?", colour, two);
        int first = a->from < b->from;
        if (number == 2) return first ? colour : two;
        return first ? "yes" : "no";
    }
    do {                                                 /* what is not there */
        other = scene_dice(&dice, 0, 4);
        there = 0;
        for (int k = 0; k < c->things; k++)
            there |= other == (number == 2 ? c->at[k].shape : c->at[k].colour);
    } while (there);
    if (number == 0) {
        snprintf(question, room, "what color is the %s?", shape);
        return colour;
    }
    if (number == 1) {
        snprintf(question, room, "what shape is the %s one?", colour);
        return shape;
    }
    if (number == 2)
        snprintf(question, room, "is there a %s?",
                 yes ? shape : scene_class[scene_shape_kind[other]]);
    else snprintf(question, room, "is there a %s one?", yes ? colour : scene_colour_name[other]);
    return yes ? "yes" : "no";
}

/* ---- stories --------------------------------------------------------------------------------- */

/* In a sentence a digit stands for a word of that list, the same throughout a story. */
static const char *const scene_story_word[7][6] = {
    {"little", "big", "happy", "sad", "old", "brave"},
    {"cat", "dog", "bird", "mouse", "fox", "frog"},
    {"tim", "lily", "ben", "mia", "tom", "sue"},
    {"ball", "star", "shell", "book", "cake", "key"},
    {"garden", "forest", "house", "river", "field", "school"},
    {"run", "sing", "dance", "swim", "play", "jump"},
    {"glad", "proud", "tired", "surprised", "hungry", "warm"}};
static const char *const scene_story_line[4][4] = {
    {"once upon a time there was a 0 1 named 2", "one day a 0 1 named 2 went to the 4",
     "there was a 1 in the 4 and it was very 0 its name was 2", "2 was a 0 1 who lived near the 4"},
    {"2 liked to 5 in the 4 every day", "2 wanted to find a 3 and to 5 with it",
     "all day long 2 would 5 in the 4",
     "but 2 did not know how to 5"},
    {"then 2 saw a 3 in the 4 and wanted to have it", "a friend gave 2 a 3 and said let us 5",
     "the 1 looked for the 3 but it was not in the 4",
     "suddenly the 3 fell into the 4 and 2 was very 6"},
    {"2 was 6 and went home with the 3", "in the end the 1 was 6 and they all began to 5",
     "and the 0 1 was 6 for ever", "2 took the 3 home and felt 6"}};

/* Story `index` of the set `seed`, made of one sentence of each row, without punctuation. */
static inline void scene_story(uint64_t seed, uint64_t index, char *text, size_t room)
{
    uint64_t dice = (seed + 1) * 0xd1342543de82ef95u ^ (index + 1) * 0x2545f4914f6cdd1du;
    int pick[7];
    size_t n = 0;
    for (int k = 0; k < 7; k++) pick[k] = scene_dice(&dice, 0, 6);
    for (int k = 0; k < 4; k++)
        for (const char *c = scene_story_line[k][scene_dice(&dice, 0, 4)]; *c && n + 24 < room;
             c++) {
            if (*c < '0' || *c > '6') text[n++] = *c;
            else n += (size_t)snprintf(text + n, room - n, "%s",
                                       scene_story_word[*c - '0'][pick[*c - '0']]);
            if (!c[1]) text[n++] = ' ';
        }
    text[n] = 0;
}

#endif
