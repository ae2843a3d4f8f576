/* check_query.c: QUERY_COST, QUERY_MATCH, QUERY_LOSS and QUERY_GRAD: the losses of queries. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/check_grad.h"
#include "tests/kernels/check_run.h"
#include "train/ref/training.h"

/* ---- sizes and values ---- */

static const struct {
    uint32_t queries, width, height, classes, points, gap;
} sizes[] = {{1, 1, 1, 1, 1, 0},
             {5, 4, 3, 2, 17, 1},
             {3, 7, 1, 6, 33, 2},
             {9, 5, 9, 20, 70, 0},
             {100, 36, 36, 11, 500, 0}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static uint32_t out_columns(const fv_problem *p)
{
    return p->op == FV_OP_QUERY_LOSS   ? 1
           : p->op == FV_OP_QUERY_COST ? p->dim[FV_QUERY_CLASSES]
                                       : p->dim[FV_ROW_C] + p->dim[FV_QUERY_CLASSES] + 1;
}

static bool make(check_case *c, uint32_t index)
{
    if (index >= SIZES)
        return false;
    const uint32_t queries = sizes[index].queries, gap = sizes[index].gap;
    const uint32_t cells = sizes[index].width * sizes[index].height;
    const uint32_t classes = sizes[index].classes, points = sizes[index].points;
    const bool cost = c->args.prob.op == FV_OP_QUERY_COST;
    c->args.prob.dim[FV_DIM_ROWS] = queries;
    c->args.prob.dim[FV_ROW_C] = cells;
    c->args.prob.dim[FV_QUERY_CLASSES] = classes;
    c->args.prob.dim[FV_QUERY_POINTS] = points;
    c->args.u[0] = sizes[index].width;
    c->args.f[FV_QUERY_F_CLASS] = 2.f;
    c->args.f[FV_QUERY_F_MASK] = 5.f;
    c->args.f[FV_QUERY_F_DICE] = 4.f;
    c->args.f[FV_QUERY_F_NOTHING] = 0.1f;
    check_matrix(c, FV_QUERY_MASKS, CHECK_ROW, queries, cells, gap);
    check_matrix(c, FV_QUERY_LOGITS, CHECK_ROW, queries, classes + 1, gap);
    check_matrix(c, FV_QUERY_PLACES, CHECK_BASE, points, 2, gap);
    check_matrix(c, FV_QUERY_TARGETS, CHECK_BASE, classes, points, gap);
    check_vector(c, FV_QUERY_TARGETS + 1, cost ? classes : queries);
    check_matrix(c, FV_QUERY_OUT, CHECK_ROW, queries, out_columns(&c->args.prob), gap);
    for (int i = 0; i < FV_QUERY_OUT; i++)
        c->operand[i].huge = 8.f;
    c->bench = index == SIZES - 1;
    return true;
}

/* Draws places, a few of them outside the picture, targets, and present classes or the queries'
 * classes. */
static void prepare(check_case *c, check_random *r)
{
    const uint32_t *dim = c->args.prob.dim, classes = dim[FV_QUERY_CLASSES];
    for (uint32_t p = 0; p < dim[FV_QUERY_POINTS]; p++) {
        for (uint32_t i = 0; i < 2; i++)
            *check_value(c, FV_QUERY_PLACES, p, i) =
                ((float)check_below(r, 4096) + 0.37f) / 4000.f - 0.01f;
        for (uint32_t k = 0; k < classes; k++)
            *check_value(c, FV_QUERY_TARGETS, k, p) = (float)check_below(r, 5) / 4.f;
    }
    for (uint32_t i = 0; i < c->operand[FV_QUERY_TARGETS + 1].cols; i++)
        *check_value(c, FV_QUERY_TARGETS + 1, 0, i) =
            c->args.prob.op == FV_OP_QUERY_COST ? (float)(check_below(r, 3) > 0)
            : i < classes && check_below(r, 3)  ? (float)i
                                                : (float)classes;
}

/* ---- definitions ---- */

/* Returns the weight of cell `cell` in a mask's logit at a point. */
static double part(const check_case *c, const double *place, uint32_t cell)
{
    const uint32_t width = c->args.u[0], height = c->args.prob.dim[FV_ROW_C] / width;
    const double x = place[0] * width - 0.5 - cell % width;
    const double y = place[1] * height - 0.5 - cell / width;
    return fmax(0, 1 - fabs(x)) * fmax(0, 1 - fabs(y));
}

static double logit_at(const check_case *c, const check_doubles *in, uint32_t query, uint32_t point)
{
    const uint32_t cells = c->args.prob.dim[FV_ROW_C];
    double x = 0;
    for (uint32_t i = 0; i < cells; i++)
        x += part(c, in->of[FV_QUERY_PLACES] + 2 * (size_t)point, i) *
             in->of[FV_QUERY_MASKS][(size_t)query * cells + i];
    return x;
}

static double chance(const check_case *c, const check_doubles *in, uint32_t query, uint32_t class)
{
    const uint32_t n = c->args.prob.dim[FV_QUERY_CLASSES] + 1;
    const double *logit = in->of[FV_QUERY_LOGITS] + (size_t)query * n;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp(logit[i] - logit[class]);
    return 1 / sum;
}

/* A mask compared with a class's targets: the mean cross-entropy of the points, and the sums of the
 * overlap. */
typedef struct compared {
    double entropy, both, sum;
} compared;

static compared compare(const check_case *c, const check_doubles *in, const double *x,
                        uint32_t class)
{
    const uint32_t points = c->args.prob.dim[FV_QUERY_POINTS];
    compared k = {0, 0, 0};
    for (uint32_t p = 0; p < points; p++) {
        const double y = in->of[FV_QUERY_TARGETS][(size_t) class * points + p];
        const double s = 1 / (1 + exp(-x[p]));
        k.entropy -= (y * log(s) + (1 - y) * log(1 / (1 + exp(x[p])))) / points;
        k.both += s * y;
        k.sum += s + y;
    }
    return k;
}

static double overlap(const compared *k)
{
    return 1 - (2 * k->both + 1) / (k->sum + 1);
}

/* Computes the logits of query i at all points. */
static double *sampled(const check_case *c, const check_doubles *in, uint32_t i)
{
    const uint32_t points = c->args.prob.dim[FV_QUERY_POINTS];
    double *x = check_must(malloc(points * sizeof *x));
    for (uint32_t p = 0; p < points; p++)
        x[p] = logit_at(c, in, i, p);
    return x;
}

static void costs(const check_case *c, const check_doubles *in, double *out)
{
    const uint32_t classes = c->args.prob.dim[FV_QUERY_CLASSES];
    const float *f = c->args.f;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_DIM_ROWS]; i++, out += classes) {
        double *x = sampled(c, in, i);
        for (uint32_t k = 0; k < classes; k++) {
            const compared of = compare(c, in, x, k);
            out[k] = in->of[FV_COST_PRESENT][k] > 0
                         ? (double)f[FV_QUERY_F_MASK] * of.entropy +
                               (double)f[FV_QUERY_F_DICE] * overlap(&of) -
                               (double)f[FV_QUERY_F_CLASS] * chance(c, in, i, k)
                         : 0;
        }
        free(x);
    }
}

/* Returns the class of query i, and sets the number of queries with one. */
static uint32_t class_of(const check_case *c, const check_doubles *in, uint32_t i, double *n)
{
    const uint32_t classes = c->args.prob.dim[FV_QUERY_CLASSES];
    *n = 0;
    for (uint32_t k = 0; k < c->args.prob.dim[FV_DIM_ROWS]; k++)
        *n += lround(in->of[FV_QUERY_MATCHED][k]) < classes;
    return (uint32_t)lround(in->of[FV_QUERY_MATCHED][i]);
}

static double loss_of(const check_case *c, const check_doubles *in, uint32_t i, const double *x)
{
    const float *f = c->args.f;
    const double nothing = (double)f[FV_QUERY_F_NOTHING];
    double n;
    const uint32_t class = class_of(c, in, i, &n);
    const bool any = class < c->args.prob.dim[FV_QUERY_CLASSES];
    const double all = n + nothing * (c->args.prob.dim[FV_DIM_ROWS] - n);
    double loss =
        -(double)f[FV_QUERY_F_CLASS] * (any ? 1 : nothing) / all * log(chance(c, in, i, class));
    if (any) {
        const compared of = compare(c, in, x, class);
        loss +=
            ((double)f[FV_QUERY_F_MASK] * of.entropy + (double)f[FV_QUERY_F_DICE] * overlap(&of)) /
            n;
    }
    return loss;
}

static void losses(const check_case *c, const check_doubles *in, double *out)
{
    for (uint32_t i = 0; i < c->args.prob.dim[FV_DIM_ROWS]; i++) {
        double *x = sampled(c, in, i);
        out[i] = loss_of(c, in, i, x);
        free(x);
    }
}

/* Differentiates the definition of the loss by differences. */
static void gradients(const check_case *c, const check_doubles *in, double *out)
{
    const double h = 1e-4;
    const uint32_t *dim = c->args.prob.dim, cells = dim[FV_ROW_C], n = dim[FV_QUERY_CLASSES] + 1;
    for (uint32_t i = 0; i < dim[FV_DIM_ROWS]; i++, out += cells + n) {
        double *x = sampled(c, in, i), unused;
        memset(out, 0, cells * sizeof *out);
        for (uint32_t k = 0; k < n; k++) {
            double *logit = &in->of[FV_QUERY_LOGITS][(size_t)i * n + k], was = *logit, side[4];
            for (int s = 0; s < 4; s++) {
                *logit = was + (s % 2 ? -h : h) * (s / 2 + 1);
                side[s] = loss_of(c, in, i, x);
            }
            *logit = was;
            out[cells + k] = (8 * (side[0] - side[1]) - (side[2] - side[3])) / (12 * h);
        }
        for (uint32_t p = 0; class_of(c, in, i, &unused) + 1 < n && p < dim[FV_QUERY_POINTS]; p++) {
            const double was = x[p];
            double side[4];
            for (int s = 0; s < 4; s++) {
                x[p] = was + (s % 2 ? -h : h) * (s / 2 + 1);
                side[s] = loss_of(c, in, i, x);
            }
            x[p] = was;
            const double slope = (8 * (side[0] - side[1]) - (side[2] - side[3])) / (12 * h);
            for (uint32_t k = 0; k < cells; k++)
                out[k] += slope * part(c, in->of[FV_QUERY_PLACES] + 2 * (size_t)p, k);
        }
        free(x);
    }
}

static void define(check_case *c)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t columns = out_columns(p);
    const uint32_t list[] = {0, p->op == FV_OP_QUERY_GRAD ? p->dim[FV_ROW_C] : columns, columns};
    check_gradient(c,
                   p->op == FV_OP_QUERY_COST   ? costs
                   : p->op == FV_OP_QUERY_LOSS ? losses
                                               : gradients,
                   p->dim[FV_QUERY_POINTS], list);
}

/* Values far from the others are also rounded. */
static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    check_gradient_row(c, row, want, allowed);
    for (uint32_t i = 0; i < out_columns(&c->args.prob); i++)
        allowed[i] += FLT_EPSILON * fabs(want[i]);
}

/* ---- the matching ---- */

static bool make_match(check_case *c, uint32_t index)
{
    static const uint32_t of[][3] = {{1, 1, 0}, {4, 2, 1}, {3, 5, 2},
                                     {6, 6, 0}, {7, 4, 3}, {2, 7, 0}};
    if (index >= sizeof of / sizeof *of)
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = 1;
    c->args.prob.dim[FV_ROW_C] = of[index][0];
    c->args.prob.dim[FV_QUERY_CLASSES] = of[index][1];
    check_matrix(c, FV_MATCH_COST, CHECK_BASE, of[index][0], of[index][1], of[index][2]);
    check_vector(c, FV_MATCH_PRESENT, of[index][1]);
    check_matrix(c, FV_MATCH_OUT, CHECK_ROW, 1, of[index][0], of[index][2]);
    return true;
}

/* Makes costs different, so that one matching is the best. */
static void prepare_match(check_case *c, check_random *r)
{
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++)
        for (uint32_t k = 0; k < c->args.prob.dim[FV_QUERY_CLASSES]; k++)
            *check_value(c, FV_MATCH_COST, i, k) =
                check_below(r, 20) == 0 ? NAN : (float)check_normal(r);
    for (uint32_t k = 0; k < c->args.prob.dim[FV_QUERY_CLASSES]; k++)
        *check_value(c, FV_MATCH_PRESENT, 0, k) = (float)(check_below(r, 4) > 0);
}

/* Tries every class for every query from query i on. */
static void search(const check_case *c, uint32_t i, uint32_t left, double sum, uint32_t *now,
                   double *best, double *out)
{
    const uint32_t queries = c->args.prob.dim[FV_ROW_C];
    const uint32_t classes = c->args.prob.dim[FV_QUERY_CLASSES];
    if (i == queries) {
        if (left == 0 && sum < *best) {
            *best = sum;
            for (uint32_t k = 0; k < queries; k++)
                out[k] = now[k];
        }
        return;
    }
    for (uint32_t k = 0; k <= classes; k++) {
        bool free = k == classes || check_at(c, FV_MATCH_PRESENT, 0, k) > 0;
        for (uint32_t n = 0; k < classes && n < i; n++)
            free &= now[n] != k;
        if (!free || (k < classes && left == 0))
            continue;
        const double of = k < classes ? check_at(c, FV_MATCH_COST, i, k) : 0;
        now[i] = k;
        search(c, i + 1, left - (k < classes), sum + (isnan(of) ? 0 : of), now, best, out);
    }
}

static void match_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t queries = c->args.prob.dim[FV_ROW_C];
    uint32_t present = 0, now[8];
    double best = (double)INFINITY;
    (void)row;
    for (uint32_t k = 0; k < c->args.prob.dim[FV_QUERY_CLASSES]; k++)
        present += check_at(c, FV_MATCH_PRESENT, 0, k) > 0;
    search(c, 0, present < queries ? present : queries, 0, now, &best, want);
    for (uint32_t i = 0; i < queries; i++)
        allowed[i] = 0;
}

#define QUERY                                                                                      \
    {                                                                                              \
        .make = make, .prepare = prepare, .define = define, .oracle = oracle,                      \
        .release = check_gradient_release                                                          \
    }

const check_op check_query_cost = QUERY;
const check_op check_query_loss = QUERY;
const check_op check_query_grad = QUERY;
const check_op check_query_match = {
    .make = make_match, .prepare = prepare_match, .oracle = match_oracle};
