/* scenes.c: pictures of handwritten digits scattered over a textured ground, with a class mask.
 *
 *   gzip -dc digits.csv.gz | scenes train|test SEED FIRST COUNT SIZE OUT
 *
 * Scenes FIRST to FIRST + COUNT - 1 of SEED at SIZE x SIZE pixels. OUT.safetensors gets `images`
 * (COUNT, SIZE, SIZE, 3) and `masks` (COUNT, SIZE, SIZE), bytes; any other OUT is a folder that
 * gets NUMBER.ppm and NUMBER_mask.pgm of every scene. Masks: 0 is the ground, 1 + d the digit d.
 *
 * A scene is drawn in coordinates of its own, from 0 to 1, and is a function of SEED and its number
 * alone: at another SIZE it is the same picture with finer or coarser pixels. Every fifth of the
 * handwritten digits is for `test`, the others are for `train`.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fovea/fovea.h>

#include "../stopwatch.h"

#define PI 3.14159265358979

enum { SIDE = 8, LEVELS = 16, DIGITS_MAX = 4096, OBJECTS = 20 };

/* Noise: the coarsest octave has at most CELLS cells along an edge of the scene. POINTS is an upper
 * bound for the points of all octaves, each of which has at most (CELLS 2^i + 2)^2. */
enum { CELLS = 7, OCTAVES = 6, POINTS = 4 * (CELLS + 2) * (CELLS + 2) << 2 * (OCTAVES - 1) };

/* Sides of a digit's square, relative to the side of the scene. */
#define SMALLEST 0.2
#define LARGEST 0.28

struct digit {
    uint8_t ink[SIDE * SIDE]; /* 0 to LEVELS */
    uint8_t label;
};

struct digits {
    struct digit *all;
    size_t n;
};

/* ---- chance ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct chance {
    uint64_t state;
};

/* In [low, high). */
static double between(struct chance *c, double low, double high)
{
    c->state += 0x9e3779b97f4a7c15u;
    return low + (high - low) * (double)(mix(c->state) >> 11) * 0x1p-53;
}

static uint32_t below(struct chance *c, uint32_t n)
{
    return (uint32_t)between(c, 0, n);
}

/* ---- the contents of a scene ---- */

struct noise {
    float point[POINTS]; /* of all octaves, coarsest first */
    double cells;        /* cells of the coarsest octave along an edge of the scene */
    double fade;         /* amplitude of an octave relative to the one before */
};

struct object {
    const struct digit *digit;
    double x, y, half; /* centre; half of the side of its square */
    double cosine, sine, slant;
    float colour[3];
};

struct scene {
    struct noise blend, light; /* blend: which of the two colours; light: how bright */
    float colour[2][3];
    double contrast, stripe_x, stripe_y, stripe, bend;
    struct object object[OBJECTS];
    uint32_t n;
};

/* Points along an edge of an octave's lattice: the number of cells, rounded up, plus one. */
static uint32_t points(double cells)
{
    return (uint32_t)ceil(cells) + 1;
}

static void any_noise(struct noise *n, struct chance *c)
{
    float *at = n->point;
    n->cells = between(c, 2, CELLS);
    n->fade = between(c, 0.45, 0.85);
    for (int octave = 0; octave < OCTAVES; octave++) {
        const uint32_t side = points(ldexp(n->cells, octave));
        for (uint32_t i = 0; i < side * side; i++)
            *at++ = (float)between(c, -0.5, 0.5);
    }
}

/* The value of one octave at (x, y), interpolated smoothly between the points of its lattice. */
static double lattice(const float *point, uint32_t side, double x, double y)
{
    const uint32_t ix = (uint32_t)x, iy = (uint32_t)y;
    const double u = x - ix, v = y - iy, su = u * u * (3 - 2 * u), sv = v * v * (3 - 2 * v);
    const float *a = point + (size_t)iy * side + ix, *b = a + side;
    const double top = a[0] + su * (a[1] - a[0]), bottom = b[0] + su * (b[1] - b[0]);
    return top + sv * (bottom - top);
}

/* Noise around 0, mostly within [-1, 1]. Octaves too fine for pixels of size `pixel` are faded
 * out. */
static double noise_at(const struct noise *n, double x, double y, double pixel)
{
    double sum = 0, weight = 1, cells = n->cells;
    const float *point = n->point;
    for (unsigned i = 0; i < OCTAVES; i++, weight *= n->fade, cells *= 2) {
        const double shown = fmin(1, 1 / (2 * cells * pixel) - 1);
        if (shown <= 0)
            break;
        const uint32_t side = points(cells);
        sum += shown * weight * lattice(point, side, x * cells, y * cells);
        point += (size_t)side * side;
    }
    return 2.5 * sum * (1 - n->fade * 0.5);
}

static void ground_at(float rgb[3], const struct scene *s, double x, double y, double pixel)
{
    const double a = noise_at(&s->light, x, y, pixel);
    const double t = fmin(1, fmax(0, 0.5 + 1.2 * noise_at(&s->blend, x, y, pixel)));
    const double light =
        s->contrast * (a + s->stripe * sin(s->stripe_x * x + s->stripe_y * y + s->bend * a));
    for (int c = 0; c < 3; c++)
        rgb[c] = (float)(s->colour[0][c] + t * (s->colour[1][c] - s->colour[0][c]) + light);
}

static double brightness(const float rgb[3])
{
    return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
}

/* Chooses a colour that differs from the ground under the object. */
static void choose_colour(struct object *o, const struct scene *s, struct chance *c)
{
    float under[3];
    ground_at(under, s, o->x, o->y, o->half);
    const double aim = brightness(under) + between(c, 0.35, 0.6);
    for (int i = 0; i < 3; i++)
        o->colour[i] = (float)between(c, 0.3, 0.7);
    const double shift = aim - brightness(o->colour);
    for (int i = 0; i < 3; i++)
        o->colour[i] = (float)fmin(1, fmax(0, o->colour[i] + shift));
}

static int touches(const struct scene *s, const struct object *o)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct object *p = &s->object[i];
        if (hypot(p->x - o->x, p->y - o->y) < 1.0 * (p->half + o->half))
            return 1;
    }
    return 0;
}

/* Puts a digit at a free position, if one is found in a few trials. */
static void place(struct scene *s, struct chance *c, const struct digit *digit)
{
    struct object o = {.digit = digit};
    const double angle = between(c, -0.2, 0.2);
    o.half = 0.5 * between(c, SMALLEST, LARGEST);
    o.slant = between(c, -0.1, 0.1);
    o.cosine = cos(angle);
    o.sine = sin(angle);
    for (int trial = 0; trial < 20; trial++) {
        o.x = between(c, o.half, 1 - o.half);
        o.y = between(c, o.half, 1 - o.half);
        if (touches(s, &o))
            continue;
        choose_colour(&o, s, c);
        s->object[s->n++] = o;
        return;
    }
}

/* One digit of the split. */
static const struct digit *pick(const struct digits *d, struct chance *c, int test)
{
    for (;;) {
        const uint32_t i = below(c, (uint32_t)d->n);
        if ((i % 5 == 0) == test)
            return &d->all[i];
    }
}

static void make_scene(struct scene *s, const struct digits *d, int test, uint64_t seed,
                       uint64_t number)
{
    struct chance c = {mix(mix(seed * 2 + (uint64_t)test) + number)};
    memset(s, 0, sizeof *s);
    any_noise(&s->blend, &c);
    any_noise(&s->light, &c);
    const double base = between(&c, 0.15, 0.45);
    for (int i = 0; i < 6; i++)
        s->colour[i / 3][i % 3] = (float)(base + between(&c, -0.12, 0.12));
    s->contrast = between(&c, 0.03, 0.12);
    const double angle = between(&c, 0, PI), waves = between(&c, 20, 160);
    s->stripe_x = waves * cos(angle);
    s->stripe_y = waves * sin(angle);
    s->stripe = between(&c, 0, 0.6);
    s->bend = between(&c, 0, 6);
    for (uint32_t n = 12 + below(&c, OBJECTS - 11); n > 0; n--)
        place(s, &c, pick(d, &c, test));
}

/* ---- drawing ---- */

/* Ink at (u, v), coordinates from 0 to 1 in the digit's square: a cubic B-spline through its 8 x 8
 * values. */
static double ink_at(const struct digit *d, double u, double v)
{
    const double at[2] = {u * SIDE - 0.5, v * SIDE - 0.5};
    double weight[2][4];
    int first[2];
    for (int k = 0; k < 2; k++) {
        const double f = floor(at[k]), t = at[k] - f, r = 1 - t;
        first[k] = (int)f - 1;
        weight[k][0] = r * r * r / 6;
        weight[k][1] = (3 * t * t * t - 6 * t * t + 4) / 6;
        weight[k][2] = (3 * r * r * r - 6 * r * r + 4) / 6;
        weight[k][3] = t * t * t / 6;
    }
    double sum = 0;
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            const int x = first[0] + i, y = first[1] + j;
            if (x >= 0 && x < SIDE && y >= 0 && y < SIDE)
                sum += weight[1][j] * weight[0][i] * d->ink[y * SIDE + x];
        }
    return sum / LEVELS;
}

/* Which share of the object covers (x, y) of the scene; it is one half at the object's edge. */
static double cover(const struct object *o, double x, double y)
{
    const double dx = (x - o->x) / (2 * o->half), dy = (y - o->y) / (2 * o->half);
    const double v = -o->sine * dx + o->cosine * dy,
                 u = o->cosine * dx + o->sine * dy + o->slant * v;
    if (fabs(u) > 0.65 || fabs(v) > 0.65)
        return 0;
    const double ink = ink_at(o->digit, u + 0.5, v + 0.5);
    return fmin(1, fmax(0, 0.5 + (ink - 0.34) / 0.2));
}

static uint32_t pixel_of(double at, uint32_t size)
{
    return (uint32_t)fmin(size, fmax(0, at * size));
}

static void draw_object(float *rgb, uint8_t *mask, const struct object *o, uint32_t size)
{
    const double reach = 1.3 * o->half;
    const uint32_t left = pixel_of(o->x - reach, size), right = pixel_of(o->x + reach, size);
    const uint32_t top = pixel_of(o->y - reach, size), bottom = pixel_of(o->y + reach, size);
    for (uint32_t y = top; y < bottom; y++)
        for (uint32_t x = left; x < right; x++) {
            const double a = cover(o, (x + 0.5) / size, (y + 0.5) / size);
            const size_t i = (size_t)y * size + x;
            for (int c = 0; c < 3; c++)
                rgb[3 * i + c] += (float)a * (o->colour[c] - rgb[3 * i + c]);
            if (a >= 0.5)
                mask[i] = (uint8_t)(1 + o->digit->label);
        }
}

static void draw(uint8_t *image, uint8_t *mask, float *rgb, const struct scene *s, uint32_t size)
{
    const size_t pixels = (size_t)size * size;
    for (size_t i = 0; i < pixels; i++)
        ground_at(rgb + 3 * i, s, ((double)(i % size) + 0.5) / size,
                  ((double)(i / size) + 0.5) / size, 1.0 / size);
    memset(mask, 0, pixels);
    for (uint32_t i = 0; i < s->n; i++)
        draw_object(rgb, mask, &s->object[i], size);
    for (size_t i = 0; i < 3 * pixels; i++)
        image[i] = (uint8_t)(255 * fminf(1, fmaxf(0, rgb[i])) + 0.5f);
}

/* ---- files ---- */

static struct digits read_digits(FILE *f)
{
    struct digits d = {malloc(DIGITS_MAX * sizeof *d.all), 0};
    if (!d.all)
        fail("out of memory");
    for (unsigned value; d.n < DIGITS_MAX && fscanf(f, "%u", &value) == 1; d.n++) {
        struct digit *one = &d.all[d.n];
        for (int i = 0; i < SIDE * SIDE; i++) {
            if (value > LEVELS)
                fail("digits: a value above 16");
            one->ink[i] = (uint8_t)value;
            if (fscanf(f, ",%u", &value) != 1)
                fail("digits: a row is too short; 64 values and the label are expected");
        }
        if (value > 9)
            fail("digits: a label is above 9");
        one->label = (uint8_t)value;
    }
    if (d.n < 10)
        fail("no digits on standard input: gzip -dc digits.csv.gz | scenes ...");
    return d;
}

static void write_netpbm(const char *folder, uint64_t number, const char *suffix, char kind,
                         const uint8_t *data, uint32_t size)
{
    char path[4096], problem[4200];
    snprintf(path, sizeof path, "%.4000s/%04llu%s", folder, (unsigned long long)number, suffix);
    const size_t bytes = (size_t)size * size * (kind == '6' ? 3 : 1);
    FILE *f = fopen(path, "wb");
    int done = f && fprintf(f, "P%c\n%u %u\n255\n", kind, size, size) > 0 &&
               fwrite(data, 1, bytes, f) == bytes;
    if (f && fclose(f))
        done = 0;
    snprintf(problem, sizeof problem, "%s cannot be written", path);
    if (!done)
        fail(problem);
}

static void write_packed(const char *path, const uint8_t *images, const uint8_t *masks, uint64_t n,
                         uint32_t size)
{
    const uint64_t elements = n * size * size;
    const fovea_tensor tensors[] = {
        {"images", "U8", 4, {n, size, size, 3}, 3 * elements, images, 3 * elements},
        {"masks", "U8", 3, {n, size, size}, elements, masks, elements},
    };
    static const char *const metadata[][2] = {{"classes", "11"}};
    if (fovea_tensors_write(path, tensors, 2, metadata, 1))
        fail(fovea_error());
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        fail("SEED, FIRST, COUNT and SIZE are numbers");
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 7 || (strcmp(argv[1], "train") && strcmp(argv[1], "test")))
        fail("usage: gzip -dc digits.csv.gz | scenes train|test SEED FIRST COUNT SIZE OUT");
    const int test = !strcmp(argv[1], "test");
    const uint64_t seed = number(argv[2]), first = number(argv[3]), count = number(argv[4]);
    const uint64_t size = number(argv[5]);
    const char *out = argv[6], *end = strrchr(out, '.');
    const int packed = end && !strcmp(end, ".safetensors");
    if (size < 16 || size > 8192 || count < 1 || count > 100000)
        fail("1 to 100000 scenes of 16 to 8192 pixels");
    const struct digits digits = read_digits(stdin);

    const size_t pixels = (size_t)size * size, kept = packed ? count : 1;
    float *rgb = malloc(3 * pixels * sizeof *rgb);
    struct scene *scene = malloc(sizeof *scene);
    uint8_t *images = malloc(3 * pixels * kept), *masks = malloc(pixels * kept);
    if (!rgb || !scene || !images || !masks)
        fail("out of memory: ask for fewer scenes");
    if (!packed && mkdir(out, 0777) && errno != EEXIST)
        fail("the folder cannot be made");
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *image = images + (packed ? 3 * pixels * i : 0),
                *mask = masks + (packed ? pixels * i : 0);
        make_scene(scene, &digits, test, seed, first + i);
        draw(image, mask, rgb, scene, (uint32_t)size);
        if (!packed) {
            write_netpbm(out, first + i, ".ppm", '6', image, (uint32_t)size);
            write_netpbm(out, first + i, "_mask.pgm", '5', mask, (uint32_t)size);
        }
    }
    if (packed)
        write_packed(out, images, masks, count, (uint32_t)size);
    free(rgb);
    free(scene);
    free(images);
    free(masks);
    free(digits.all);
    return 0;
}
