/* check_depth.c: DEPTH_LOSS and DEPTH_GRAD: their cases and definition. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/check_run.h"
#include "train/ref/training.h"

static const struct shape {
    uint32_t across, down, width, height, gap;
} shapes[] = {
    {1, 1, 3, 2, 0}, {3, 2, 12, 8, 1}, {4, 5, 13, 19, 2},   {5, 4, 5, 4, 0},
    {6, 7, 4, 5, 1}, {1, 4, 7, 9, 0},  {16, 16, 96, 96, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const double least = 1e-6;

/* Makes every shape without a mean, and with one. */
static bool make(check_case *c, uint32_t index, bool grad)
{
    const bool mean = grad || index % 2;
    const struct shape *s = &shapes[grad ? index : index / 2];
    if (index >= (grad ? 1 : 2) * SHAPES)
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = s->across * s->down;
    c->args.prob.dim[FV_SEGMENT_GRID] = s->across;
    c->args.prob.dim[FV_SEGMENT_WIDTH] = s->width;
    c->args.prob.dim[FV_SEGMENT_HEIGHT] = s->height;
    c->args.f[0] = 0.5f;
    check_matrix(c, FV_DEPTH_FOUND, CHECK_BASE, s->across * s->down, 1, s->gap);
    check_matrix(c, FV_DEPTH_TRUTH, CHECK_BASE, s->height, s->width, s->gap);
    check_vector(c, FV_DEPTH_WEIGHT, 1);
    if (mean)
        check_vector(c, FV_DEPTH_MEAN, 1);
    check_matrix(c, FV_DEPTH_OUT, CHECK_ROW, s->across * s->down, 1, s->gap);
    c->align = s->across;
    c->bench = s->across == 16 && mean;
    return true;
}

static bool make_loss(check_case *c, uint32_t index)
{
    return make(c, index, false);
}

static bool make_grad(check_case *c, uint32_t index)
{
    return make(c, index, true);
}

/* Draws depths of every order of magnitude, zeros, and values that are not depths. */
static void prepare(check_case *c, check_random *r)
{
    static const float odd[] = {0, -1, NAN, INFINITY, -INFINITY, FLT_MIN, FLT_MAX};
    const uint32_t tokens = c->args.prob.dim[FV_DIM_ROWS];
    for (uint32_t t = 0; t < tokens; t++) {
        const uint32_t kind = check_below(r, 16);
        *check_value(c, FV_DEPTH_FOUND, t, 0) =
            kind == 0   ? 0
            : kind == 1 ? -1
                        : ldexpf(1 + (float)check_below(r, 1000) / 1000.f, (int)kind - 8);
    }
    for (uint32_t y = 0; y < c->args.prob.dim[FV_SEGMENT_HEIGHT]; y++)
        for (uint32_t x = 0; x < c->args.prob.dim[FV_SEGMENT_WIDTH]; x++) {
            const uint32_t kind = check_below(r, 28);
            *check_value(c, FV_DEPTH_TRUTH, y, x) =
                kind < 7 ? odd[kind] : 0.1f + (float)check_below(r, 10000) / 1000.f;
        }
    *check_value(c, FV_DEPTH_WEIGHT, 0, 0) = 0.25f;
    if (c->operand[FV_DEPTH_MEAN].kind)
        *check_value(c, FV_DEPTH_MEAN, 0, 0) = -0.75f;
}

/* Returns the bilinear weight of cell `of` of `cells` at pixel i of `pixels`. */
static double counts(uint32_t i, uint32_t pixels, uint32_t of, uint32_t cells)
{
    const double at = fmin(fmax((i + 0.5) * cells / pixels - 0.5, 0), cells - 1.0);
    return fmax(0, 1 - fabs(at - of));
}

/* Returns the cell that contains the centre of pixel i. */
static uint32_t cell_of(uint32_t i, uint32_t pixels, uint32_t cells)
{
    return (uint32_t)((2 * (uint64_t)i + 1) * cells / (2 * (uint64_t)pixels));
}

/* Stores two values per pixel: the interpolated depth before clamping, and the error that rounding
 * the weights may cause. */
static void define(check_case *c)
{
    const uint32_t *dim = c->args.prob.dim, across = dim[FV_SEGMENT_GRID], down = dim[0] / across;
    const uint32_t width = dim[FV_SEGMENT_WIDTH], height = dim[FV_SEGMENT_HEIGHT];
    double *d = check_must(realloc(c->definition, 2ull * width * height * sizeof *d));
    c->definition = d;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++, d += 2) {
            double largest = 0;
            const uint32_t v = cell_of(y, height, down), u = cell_of(x, width, across);
            d[0] = 0;
            for (uint32_t i = v ? v - 1 : 0; i < down && i < v + 2; i++)
                for (uint32_t j = u ? u - 1 : 0; j < across && j < u + 2; j++) {
                    const double share = counts(y, height, i, down) * counts(x, width, j, across);
                    const double z = check_at(c, FV_DEPTH_FOUND, i * across + j, 0);
                    d[0] += share * z;
                    largest = fmax(largest, fabs(z));
                }
            d[1] = 8 * FLT_EPSILON * largest;
        }
}

static void release(check_case *c)
{
    free(c->definition);
}

typedef struct pixel {
    double found; /* depth before clamping */
    double d, off;
} pixel;

/* Reads pixel (x, y). Returns false if the pixel is ignored. */
static bool look(pixel *p, const check_case *c, uint32_t y, uint32_t x)
{
    const double truth = check_at(c, FV_DEPTH_TRUTH, y, x);
    const double *at =
        (const double *)c->definition + 2 * ((size_t)y * c->args.prob.dim[FV_SEGMENT_WIDTH] + x);
    *p = (pixel){at[0], log(fmax(at[0], least) / truth), at[1]};
    return truth > 0 && isfinite(truth);
}

/* Returns the error bound of a pixel's distance. */
static double error_of(const pixel *p)
{
    const double z = fmax(p->found, least);
    if (p->found + p->off < least)
        return 0;
    return log(z / fmax(z - p->off, least)) + p->off / z + DBL_EPSILON * fabs(p->d);
}

static void loss_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, across = dim[FV_SEGMENT_GRID], down = dim[0] / across;
    const double weight = check_at(c, FV_DEPTH_WEIGHT, 0, 0);
    const bool has_mean = c->operand[FV_DEPTH_MEAN].kind;
    const double mean = has_mean ? 0.5 * check_at(c, FV_DEPTH_MEAN, 0, 0) : 0;
    *want = *allowed = 0;
    for (uint32_t y = 0; y < dim[FV_SEGMENT_HEIGHT]; y++)
        for (uint32_t x = 0; x < dim[FV_SEGMENT_WIDTH]; x++) {
            pixel p;
            if (cell_of(y, dim[FV_SEGMENT_HEIGHT], down) != row / across ||
                cell_of(x, dim[FV_SEGMENT_WIDTH], across) != row % across || !look(&p, c, y, x))
                continue;
            const double error = error_of(&p);
            *want += weight * (has_mean ? p.d * (p.d - mean) : p.d);
            *allowed += weight * error * (has_mean ? fabs(2 * p.d - mean) + error : 1);
        }
    *allowed += check_allowed(1, fabs(*want));
}

static void grad_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, across = dim[FV_SEGMENT_GRID], down = dim[0] / across;
    const double weight = check_at(c, FV_DEPTH_WEIGHT, 0, 0);
    const double mean = 0.5 * check_at(c, FV_DEPTH_MEAN, 0, 0);
    *want = *allowed = 0;
    for (uint32_t y = 0; y < dim[FV_SEGMENT_HEIGHT]; y++)
        for (uint32_t x = 0; x < dim[FV_SEGMENT_WIDTH]; x++) {
            pixel p;
            const double part = counts(y, dim[FV_SEGMENT_HEIGHT], row / across, down) *
                                counts(x, dim[FV_SEGMENT_WIDTH], row % across, across);
            if (part == 0 || !look(&p, c, y, x) || p.found + p.off < least)
                continue;
            const double z = fmax(p.found, least), slope = 2 * (p.d - mean) / z;
            const double error = error_of(&p), share = weight * (part + 4 * FLT_EPSILON);
            *want += p.found > least ? weight * part * slope : 0;
            if (p.found - p.off > least)
                *allowed += share * ((2 / z + fabs(slope)) * error + 8 * FLT_EPSILON * fabs(slope));
            else /* it moves, or not */
                *allowed += share * (fabs(slope) + 2 / least);
        }
    *allowed += check_allowed(1, fabs(*want));
}

const check_op check_depth_loss = {.make = make_loss,
                                   .prepare = prepare,
                                   .define = define,
                                   .oracle = loss_oracle,
                                   .release = release};
const check_op check_depth_grad = {.make = make_grad,
                                   .prepare = prepare,
                                   .define = define,
                                   .oracle = grad_oracle,
                                   .release = release};
