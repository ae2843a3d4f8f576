/* check_boxes.c: cases and definition of PICK, SINE, DEFORM and REFINE. */
#include <float.h>
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_deform.h"
#include "tests/kernels/check.h"

/* ---- rows picked by computed indices ---- */

static bool make_pick(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, from, width, gap;
        bool in_order;
    } sizes[] = {{1, 1, 1, 0, false},    {7, 3, 15, 1, false}, {5, 9, 16, 0, true},
                 {12, 48, 33, 2, false}, {48, 48, 4, 0, true}, {300, 1024, 256, 0, false}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_PICK_FROM] = sizes[index].from;
    check_matrix(c, FV_PICK_IN, CHECK_BASE, sizes[index].from, width, gap);
    if (!sizes[index].in_order)
        check_matrix(c, FV_PICK_INDEX, CHECK_ROW, rows, 1, gap);
    check_matrix(c, FV_PICK_OUT, CHECK_ROW, rows, width, gap);
    c->bench = rows == 300;
    return true;
}

/* Draws row indices; a few select no row. */
static void number(check_case *c, check_random *r)
{
    const float none[] = {-1.f, NAN, INFINITY, 1e9f, -0.5f};
    const uint32_t from = c->args.prob.dim[FV_PICK_FROM];
    if (!c->operand[FV_PICK_INDEX].kind)
        return;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_DIM_ROWS]; i++)
        *check_value(c, FV_PICK_INDEX, i, 0) =
            check_below(r, 6) == 0 ? none[check_below(r, 5)] : (float)check_below(r, from);
}

static void pick_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t from = c->args.prob.dim[FV_PICK_FROM];
    const double at = c->operand[FV_PICK_INDEX].kind ? check_at(c, FV_PICK_INDEX, row, 0) : row;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        want[i] = at >= 0 && at < from ? check_at(c, FV_PICK_IN, (uint32_t)at, i) : 0;
        allowed[i] = 0;
    }
}

/* ---- sines ---- */

static bool make_sine(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, width, parts, gap;
        float scale; /* of positions; 0 means scale 1 with rates in one part */
    } sizes[] = {{1, 1, 1, 0},        {5, 16, 4, 0},       {3, 33, 2, 3},      {7, 6, 4, 1},
                 {9, 40, 1, 0, 6e4f}, {3, 21, 2, 2, 1e3f}, {300, 128, 4, 0, 0}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_SINE_PARTS] = sizes[index].parts;
    check_matrix(c, FV_SINE_IN, CHECK_ROW, rows, sizes[index].parts, gap);
    check_matrix(c, FV_SINE_RATE, CHECK_BASE, sizes[index].scale > 0 ? 2 : 1, width, 0);
    if (sizes[index].scale > 0) {
        c->args.u[0] = 1;
        c->operand[FV_SINE_IN].scale = sizes[index].scale;
    }
    check_vector(c, FV_SINE_PHASE, width);
    check_matrix(c, FV_SINE_OUT, CHECK_ROW, rows, sizes[index].parts * width, gap);
    c->operand[FV_SINE_IN].huge = 1e3f;
    c->operand[FV_SINE_RATE].huge = 10.f;
    c->bench = rows == 300;
    return true;
}

/* Makes phases fractions of a turn. A second row of rates holds the rounding errors of the first.
 */
static void shift(check_case *c, check_random *r)
{
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++)
        *check_value(c, FV_SINE_PHASE, 0, i) = 0.25f * (float)check_below(r, 3);
    for (uint32_t i = 0; c->args.u[0] && i < c->args.prob.dim[FV_ROW_C]; i++)
        *check_value(c, FV_SINE_RATE, 1, i) =
            *check_value(c, FV_SINE_RATE, 0, i) * 0x1p-25f * (float)(check_below(r, 3) - 1.);
}

static void sine_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    for (uint32_t i = 0; i < width * c->args.prob.dim[FV_SINE_PARTS]; i++) {
        const double x = check_at(c, FV_SINE_IN, row, i / width);
        const double low = c->args.u[0] ? check_at(c, FV_SINE_RATE, 1, i % width) : 0;
        const double y = x * (check_at(c, FV_SINE_RATE, 0, i % width) + low);
        const double t = y - nearbyint(y) + check_at(c, FV_SINE_PHASE, 0, i % width);
        want[i] = sin(6.283185307179586 * t);
        /* The revolutions and the added phase are at most 1. */
        allowed[i] = 8 * FLT_EPSILON * fmin(1, fabs(t) * 7) + 4 * FLT_EPSILON * fmin(1, fabs(y)) +
                     4 * FLT_MIN;
    }
}

/* ---- deformable attention ---- */

static bool make_deform(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, d, points, gap, levels;
        bool centres;
        fv_deform_level level[3];
        enum fv_type values; /* 0: float32 */
    } sizes[] = {
        {1, 1, 1, 1, 0, 1, false, {{1, 1, 0}}},
        {5, 2, 16, 4, 0, 1, false, {{9, 7, 0}}},
        {7, 3, 5, 2, 3, 1, false, {{1, 13, 0}}},
        {9, 4, 8, 3, 1, 1, false, {{4, 1, 0}}},
        {6, 1, 37, 5, 0, 2, false, {{6, 6, 0}, {2, 3, 36}}},
        {1, 1, 1, 1, 0, 1, true, {{1, 1, 0}}},
        {5, 2, 16, 4, 0, 1, true, {{9, 7, 0}}},
        {11, 3, 5, 2, 3, 2, true, {{1, 13, 0}, {6, 2, 13}}},
        {9, 2, 33, 4, 1, 3, true, {{3, 2, 0}, {5, 4, 6}, {10, 7, 26}}},
        {7, 2, 5, 3, 1, 1, false, {{6, 5, 0}}, FV_BF16},
        {9, 3, 37, 4, 3, 2, true, {{3, 2, 0}, {7, 4, 6}}, FV_BF16},
        {4, 2, 32, 9, 0, 2, true, {{3, 2, 0}, {7, 4, 6}}},
        {5, 1, 70, 20, 0, 1, false, {{5, 4, 0}}, FV_BF16},
        {300, 16, 16, 2, 0, 1, false, {{32, 32, 0}}},
        {300, 8, 32, 4, 0, 3, true, {{8, 8, 0}, {16, 16, 64}, {32, 32, 320}}},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, heads = sizes[index].heads, gap = sizes[index].gap;
    const uint32_t points = sizes[index].points, d = sizes[index].d;
    const uint32_t levels = sizes[index].levels, samples = heads * levels * points;
    const fv_deform_level *last = &sizes[index].level[levels - 1];
    const uint32_t from = last->first + last->width * last->height;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_DEFORM_POINTS] = points;
    c->args.prob.dim[FV_DEFORM_LEVELS] = levels;
    c->args.prob.dim[FV_DEFORM_FROM] = from;
    c->args.prob.flags = sizes[index].centres ? FV_FLAG_CENTRES : 0;
    c->args.f[0] = sizes[index].centres ? 1.f : 0.5f / (float)points;
    c->args.table = sizes[index].level;
    check_matrix(c, FV_DEFORM_VALUES, CHECK_BASE, from, heads * d, gap);
    check_matrix(c, FV_DEFORM_BOX, CHECK_ROW, rows, sizes[index].centres ? 2 : 4, gap);
    check_matrix(c, FV_DEFORM_OFFSET, CHECK_ROW, rows, samples * 2, gap);
    check_matrix(c, FV_DEFORM_WEIGHT, CHECK_ROW, rows, samples, gap);
    check_matrix(c, FV_DEFORM_OUT, CHECK_ROW, rows, heads * d, gap);
    c->operand[FV_DEFORM_WEIGHT].huge = 50.f;
    if (sizes[index].values)
        c->operand[FV_DEFORM_VALUES].storage = sizes[index].values;
    c->bench = rows == 300;
    return true;
}

/* Places boxes inside the picture, at its edges, far outside, with size 0 and with NaN. */
static void place_boxes(check_case *c, check_random *r)
{
    const float hard[] = {0.f, 1.f, -0.01f, 1.5f, 1e20f, NAN, INFINITY};
    for (uint32_t i = 0; i < c->args.prob.dim[FV_DIM_ROWS]; i++)
        for (uint32_t k = 0; k < c->operand[FV_DEFORM_BOX].cols; k++)
            *check_value(c, FV_DEFORM_BOX, i, k) = check_below(r, 6) == 0
                                                       ? hard[check_below(r, 7)]
                                                       : (float)check_below(r, 1024) / 1024.f;
}

static void deform_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, d = dim[FV_ATTN_D], points = dim[FV_DEFORM_POINTS];
    const uint32_t samples = points * dim[FV_DEFORM_LEVELS];
    const bool centres = c->args.prob.flags & FV_FLAG_CENTRES;
    double box[4];
    for (uint32_t k = 0; k < (centres ? 2 : 4); k++)
        box[k] = check_at(c, FV_DEFORM_BOX, row, k);
    for (uint32_t i = 0; i < c->args.prob.heads * d; i++) {
        const uint32_t first = i / d * samples;
        double sum = 0, most = -(double)INFINITY, out = 0, off = 0;
        for (uint32_t p = 0; p < samples; p++)
            most = fmax(most, check_at(c, FV_DEFORM_WEIGHT, row, first + p));
        for (uint32_t p = 0; p < samples; p++) {
            const fv_deform_level *l = (const fv_deform_level *)c->args.table + p / points;
            const uint32_t width = l->width, height = l->height;
            if (centres) { /* the box of one value */
                box[2] = 1. / width;
                box[3] = 1. / height;
            }
            const double w = check_at(c, FV_DEFORM_WEIGHT, row, first + p) - most, e = exp(w);
            const double right =
                c->args.f[0] * check_at(c, FV_DEFORM_OFFSET, row, 2 * (first + p)) * box[2];
            const double down =
                c->args.f[0] * check_at(c, FV_DEFORM_OFFSET, row, 2 * (first + p) + 1) * box[3];
            const double x = (box[0] + right) * width - 0.5, y = (box[1] + down) * height - 0.5;
            sum += e;
            if (!(x > -2 && x < width + 1. && y > -2 && y < height + 1.))
                continue; /* NaN too */
            const double error =
                4 * FLT_EPSILON *
                ((fabs(box[0]) + fabs(right)) * width + (fabs(box[1]) + fabs(down)) * height + 2);
            for (int32_t k = 0; k < 16; k++) { /* all pixels that a sample can read */
                const int32_t column = (int32_t)floor(x) - 1 + k % 4;
                const int32_t line = (int32_t)floor(y) - 1 + k / 4;
                if (column < 0 || line < 0 || column >= (int32_t)width || line >= (int32_t)height)
                    continue;
                const uint32_t at = l->first + (uint32_t)line * width + (uint32_t)column;
                const double v = check_at(c, FV_DEFORM_VALUES, at, i);
                const double part = fmax(0, 1 - fabs(x - column)) * fmax(0, 1 - fabs(y - line));
                out += e * part * v;
                off += e * fabs(v) * (2 * error + part * FLT_EPSILON * (6 + fabs(w)));
            }
        }
        want[i] = out / sum;
        allowed[i] = off / sum + check_allowed(4. * samples, fabs(want[i])) + 8 * FLT_MIN;
    }
}

/* ---- boxes ---- */

static bool make_refine(check_case *c, uint32_t index)
{
    static const uint32_t rows[] = {1, 7, 33, 300};
    const int in_place[] = {-1, FV_REFINE_BOX, FV_REFINE_DELTA, -1};
    if (index >= sizeof rows / sizeof *rows)
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = rows[index];
    c->args.prob.dim[FV_ROW_C] = 4;
    for (int i = FV_REFINE_BOX; i <= FV_REFINE_OUT; i++)
        check_matrix(c, i, CHECK_ROW, rows[index], 4, index % 2);
    c->operand[FV_REFINE_DELTA].huge = 30.f;
    c->in_place = in_place[index];
    c->bench = rows[index] == 300;
    return true;
}

static void refine_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    for (uint32_t i = 0; i < 2; i++) {
        const double at = check_at(c, FV_REFINE_BOX, row, i);
        const double side = check_at(c, FV_REFINE_BOX, row, 2 + i);
        const double move = check_at(c, FV_REFINE_DELTA, row, i) * side;
        const double grow = check_at(c, FV_REFINE_DELTA, row, 2 + i);
        want[i] = at + move;
        allowed[i] = check_allowed(2, fabs(at) + fabs(move));
        want[2 + i] = side * exp(grow);
        allowed[2 + i] =
            check_allowed(2, fabs(want[2 + i])) * (1 + fabs(grow)) + fabs(side) * FLT_MIN;
    }
}

const check_op check_pick = {.make = make_pick, .prepare = number, .oracle = pick_oracle};
const check_op check_sine = {.make = make_sine, .prepare = shift, .oracle = sine_oracle};
const check_op check_deform = {
    .make = make_deform, .prepare = place_boxes, .oracle = deform_oracle};
const check_op check_refine = {.make = make_refine, .oracle = refine_oracle};
