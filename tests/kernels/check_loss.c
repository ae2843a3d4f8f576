/* check_loss.c: losses and their gradients: squared distance, cross-entropy of rows and of a mask.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/check_run.h"
#include "tests/kernels/gradients.h"
#include "train/ref/training.h"

/* ---- squared distance ---- */

static bool make_mse(check_case *c, uint32_t index, bool grad)
{
    static const struct {
        uint32_t rows, width, gap;
        int in_place;
    } sizes[] = {{1, 1, 0, -1},
                 {3, 17, 2, FV_MSE_A},
                 {5, 64, 0, FV_MSE_B},
                 {2, 129, 1, FV_MSE_A},
                 {1025, 384, 0, FV_MSE_A}};
    const uint32_t count = sizeof sizes / sizeof *sizes;
    if (index >= 2 * count)
        return false;
    c->args.prob.flags = index < count ? 0 : FV_FLAG_RELATIVE;
    index %= count;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    check_matrix(c, FV_MSE_A, CHECK_ROW, rows, width, gap);
    check_matrix(c, FV_MSE_B, CHECK_ROW, rows, width, gap);
    check_matrix(c, FV_MSE_OUT, CHECK_ROW, rows, grad ? width : 1, gap);
    if (grad) {
        c->args.f[0] = 0.37f;
        c->in_place = sizes[index].in_place;
    }
    c->bench = rows == 1025;
    return true;
}

static bool make_mse_loss(check_case *c, uint32_t index)
{
    return make_mse(c, index, false);
}

static bool make_mse_grad(check_case *c, uint32_t index)
{
    return make_mse(c, index, true);
}

/* Returns the divisor of a row's relative distance. */
static double mse_divisor(const check_case *c, uint32_t row)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    double square = 1e-6 * n;
    for (uint32_t i = 0; i < n; i++)
        square += pow(check_at(c, FV_MSE_B, row, i), 2);
    return square;
}

static void mse_loss_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    *want = 0;
    for (uint32_t i = 0; i < n; i++)
        *want += pow(check_at(c, FV_MSE_A, row, i) - check_at(c, FV_MSE_B, row, i), 2);
    *allowed = check_allowed(n, *want);
    if (c->args.prob.flags & FV_FLAG_RELATIVE) {
        const double divisor = mse_divisor(c, row);
        *want /= divisor;
        *allowed = *allowed / divisor + check_allowed(n, *want);
    }
}

static void mse_grad_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    const bool relative = c->args.prob.flags & FV_FLAG_RELATIVE;
    const double divisor = relative ? mse_divisor(c, row) : 1;
    for (uint32_t i = 0; i < n; i++) {
        want[i] =
            (double)c->args.f[0] * (check_at(c, FV_MSE_A, row, i) - check_at(c, FV_MSE_B, row, i));
        allowed[i] = check_allowed(2, fabs(want[i]));
        if (relative) {
            want[i] /= divisor;
            allowed[i] = allowed[i] / divisor + check_allowed(n, fabs(want[i]));
        }
    }
}

/* ---- cross-entropy of rows ---- */

static bool make_entropy(check_case *c, uint32_t index, bool grad)
{
    static const uint32_t sizes[][3] = {
        {1, 1, 0}, {7, 3, 2}, {9, 16, 0}, {5, 33, 1}, {3, 1000, 0}, {64, 1000, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index][0], classes = sizes[index][1], gap = sizes[index][2];
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = classes;
    check_matrix(c, FV_ENTROPY_LOGITS, CHECK_ROW, rows, classes, gap);
    check_matrix(c, FV_ENTROPY_LABELS, CHECK_ROW, rows, 2, gap);
    check_matrix(c, FV_ENTROPY_OUT, CHECK_ROW, rows, grad ? classes : 1, gap);
    c->operand[FV_ENTROPY_LOGITS].scale = 3.f;
    c->bench = rows == 64;
    if (grad && index % 2)
        c->in_place = FV_ENTROPY_LOGITS;
    return true;
}

static bool make_entropy_loss(check_case *c, uint32_t index)
{
    return make_entropy(c, index, false);
}

static bool make_entropy_grad(check_case *c, uint32_t index)
{
    return make_entropy(c, index, true);
}

/* Draws classes, a few of which are out of range, and weights, some of which are zero. */
static void prepare_labels(check_case *c, check_random *r)
{
    static const float weights[] = {1.f, 0.25f, 0.f, 2.f};
    const uint32_t classes = c->args.prob.dim[FV_ROW_C];
    for (uint32_t row = 0; row < c->args.prob.dim[FV_DIM_ROWS]; row++) {
        const uint32_t kind = check_below(r, 8);
        *check_value(c, FV_ENTROPY_LABELS, row, 0) = kind == 0   ? -1.f
                                                     : kind == 1 ? (float)classes
                                                                 : (float)check_below(r, classes);
        *check_value(c, FV_ENTROPY_LABELS, row, 1) = weights[check_below(r, 4)];
    }
}

/* Returns the loss of one row with weight 1. `slope` is a buffer for the gradient; *weight is 0 if
 * the row is ignored.
 */
static double entropy(const check_case *c, uint32_t row, double *slope, double *weight)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    const double class = check_at(c, FV_ENTROPY_LABELS, row, 0);
    double *z = check_must(malloc(n * sizeof *z)), loss = 0;
    *weight = class >= 0 && class < n ? check_at(c, FV_ENTROPY_LABELS, row, 1) : 0;
    for (uint32_t i = 0; i < n; i++) {
        z[i] = check_at(c, FV_ENTROPY_LOGITS, row, i);
        slope[i] = 0;
    }
    if (*weight != 0)
        loss = grad_entropy(slope, z, n, (uint32_t) class);
    free(z);
    return loss;
}

static void entropy_loss_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    double *slope = check_must(malloc(n * sizeof *slope)), weight;
    const double loss = entropy(c, row, slope, &weight);
    *want = weight * loss;
    *allowed = fabs(weight) * (check_allowed(n, 1) + check_allowed(4, loss));
    free(slope);
}

static void entropy_grad_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    double weight;
    entropy(c, row, want, &weight);
    for (uint32_t i = 0; i < n; i++) {
        /* Far below the largest logit the exponential's argument is large, but its result is small.
         */
        const double class = check_at(c, FV_ENTROPY_LABELS, row, 0);
        const double p = want[i] + ((double)i == class && weight != 0);
        const double sure = p > 0 ? 1 - log(p) : 1;
        want[i] *= weight;
        allowed[i] = fabs(weight) * (check_allowed(n, p * sure) + check_allowed(1, fabs(want[i])) +
                                     ((double)i == class) * FLT_EPSILON + FLT_MIN);
    }
}

/* ---- cross-entropy of a mask ---- */

static bool make_segment(check_case *c, uint32_t index, bool grad)
{
    static const uint32_t sizes[][6] = {
        /* across, down, classes, width, height, gap */
        {1, 1, 2, 3, 2, 0}, {3, 2, 5, 12, 8, 1},       {4, 5, 17, 13, 19, 2},
        {5, 4, 3, 5, 4, 0}, {6, 7, 11, 4, 5, 1},       {2, 3, 33, 32, 48, 0},
        {1, 4, 4, 7, 9, 0}, {32, 32, 21, 256, 256, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t *s = sizes[index], tokens = s[0] * s[1];
    c->args.prob.dim[FV_DIM_ROWS] = tokens;
    c->args.prob.dim[FV_ROW_C] = s[2];
    c->args.prob.dim[FV_SEGMENT_GRID] = s[0];
    c->args.prob.dim[FV_SEGMENT_WIDTH] = s[3];
    c->args.prob.dim[FV_SEGMENT_HEIGHT] = s[4];
    check_matrix(c, FV_SEGMENT_LOGITS, CHECK_BASE, tokens, s[2], s[5]);
    check_matrix(c, FV_SEGMENT_MASK, CHECK_BASE, s[4], s[3], s[5]);
    c->operand[FV_SEGMENT_MASK].type = FV_U8;
    check_vector(c, FV_SEGMENT_WEIGHT, 1);
    check_matrix(c, FV_SEGMENT_OUT, CHECK_ROW, tokens, grad ? s[2] : 1, s[5]);
    c->operand[FV_SEGMENT_LOGITS].huge = 30.f; /* larger logits would make every softmax one-hot */
    c->align = s[0];
    c->bench = tokens == 1024;
    return true;
}

static bool make_segment_loss(check_case *c, uint32_t index)
{
    return make_segment(c, index, false);
}

static bool make_segment_grad(check_case *c, uint32_t index)
{
    return make_segment(c, index, true);
}

/* Draws classes, some of them out of range, and pixels to ignore. */
static void prepare_mask(check_case *c, check_random *r)
{
    check_operand *o = &c->operand[FV_SEGMENT_MASK];
    const uint32_t classes = c->args.prob.dim[FV_ROW_C];
    for (uint32_t y = 0; y < o->rows; y++)
        for (uint32_t x = 0; x < o->cols; x++) {
            const uint32_t kind = check_below(r, 10), class = check_below(r, classes);
            ((uint8_t *)o->data)[(size_t)y * o->ld + x] = (uint8_t)(kind == 0   ? 255
                                                                    : kind == 1 ? classes
                                                                                : class);
        }
    *check_value(c, FV_SEGMENT_WEIGHT, 0, 0) = 0.25f;
}

/* For each token: the loss, then the gradient. For the whole mask: the largest logit and the number
 * of pixels. */
static void define_segment(check_case *c)
{
    const uint32_t *dim = c->args.prob.dim, tokens = dim[FV_DIM_ROWS], classes = dim[FV_ROW_C];
    const grad_mask mask = {dim[FV_SEGMENT_GRID],
                            tokens / dim[FV_SEGMENT_GRID],
                            classes,
                            dim[FV_SEGMENT_WIDTH],
                            dim[FV_SEGMENT_HEIGHT],
                            c->operand[FV_SEGMENT_MASK].data,
                            c->operand[FV_SEGMENT_MASK].ld};
    const size_t all = (size_t)tokens * classes;
    double *z = check_must(malloc(all * sizeof *z));
    double *d = check_must(realloc(c->definition, (tokens + all) * sizeof *d));
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t i = 0; i < classes; i++)
            z[(size_t)t * classes + i] = check_at(c, FV_SEGMENT_LOGITS, t, i);
    grad_segment(&mask, z, d, d + tokens);
    c->definition = d;
    free(z);
}

static void release_segment(check_case *c)
{
    free(c->definition);
}

/* Bounds the error of a pixel's softmax by the errors of the logits, the exponentials and their
 * sum. */
static double pixel_error(const check_case *c)
{
    double largest = 0;
    for (uint32_t t = 0; t < c->args.prob.dim[FV_DIM_ROWS]; t++)
        for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++)
            largest = fmax(largest, fabs(check_at(c, FV_SEGMENT_LOGITS, t, i)));
    return check_allowed(4, largest) + check_allowed(c->args.prob.dim[FV_ROW_C], 1);
}

/* Bounds the number of pixels that a token affects. */
static double pixels_near(const check_case *c)
{
    const uint32_t *dim = c->args.prob.dim;
    const double across = 2. * dim[FV_SEGMENT_WIDTH] / dim[FV_SEGMENT_GRID] + 2;
    const double down = 2. * dim[FV_SEGMENT_HEIGHT] * dim[FV_SEGMENT_GRID] / dim[0] + 2;
    return across * down;
}

static void segment_loss_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const double *d = c->definition, weight = check_at(c, FV_SEGMENT_WEIGHT, 0, 0);
    *want = weight * d[row];
    *allowed = weight * (pixels_near(c) * pixel_error(c) + check_allowed(pixels_near(c), d[row]));
}

static void segment_grad_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    const double *d =
        (const double *)c->definition + c->args.prob.dim[FV_DIM_ROWS] + (size_t)row * n;
    const double weight = check_at(c, FV_SEGMENT_WEIGHT, 0, 0), error = pixel_error(c);
    for (uint32_t i = 0; i < n; i++) {
        want[i] = weight * d[i];
        allowed[i] = weight * pixels_near(c) / 4 * error + check_allowed(1, fabs(want[i]));
    }
}

const check_op check_mse_loss = {.make = make_mse_loss, .oracle = mse_loss_oracle};
const check_op check_mse_grad = {.make = make_mse_grad, .oracle = mse_grad_oracle};
const check_op check_cross_entropy_loss = {
    .make = make_entropy_loss, .prepare = prepare_labels, .oracle = entropy_loss_oracle};
const check_op check_cross_entropy_grad = {
    .make = make_entropy_grad, .prepare = prepare_labels, .oracle = entropy_grad_oracle};
const check_op check_segment_loss = {.make = make_segment_loss,
                                     .prepare = prepare_mask,
                                     .define = define_segment,
                                     .oracle = segment_loss_oracle,
                                     .release = release_segment};
const check_op check_segment_grad = {.make = make_segment_grad,
                                     .prepare = prepare_mask,
                                     .define = define_segment,
                                     .oracle = segment_grad_oracle,
                                     .release = release_segment};
