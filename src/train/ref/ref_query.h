/* ref_query.h: what the losses of queries share: sizes, operands, and samples of masks.
 *
 * A mask is compared with the truth at points of the picture, in fractions of its sides, x before
 * y. Its logit there is interpolated between the nearest four cells; cells beyond the grid are 0,
 * as in torch's grid_sample with padding_mode "zeros" and align_corners False. */
#ifndef FOVEA_SRC_REF_QUERY_H
#define FOVEA_SRC_REF_QUERY_H

#include <math.h>

#include "ops/ref/ref_deform.h"
#include "train/ref/training.h"

#define FV_QUERY_SIZES                                                                             \
    {"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"cells", FV_DIM_TOKENS},                                \
                             [FV_QUERY_CLASSES] = {"classes"}, [FV_QUERY_POINTS] = {"points"}

/* The first operands of all of them. */
#define FV_QUERY_OPERANDS                                                                          \
    [FV_QUERY_MASKS] = {"MASKS", FV_ROW_C},                                                        \
    [FV_QUERY_LOGITS] = {"LOGITS", .columns = fv_query_logits},                                    \
    [FV_QUERY_PLACES] = {"PLACES", .columns = fv_query_places, .nature = FV_NATURE_FRACTION,       \
                         .exact = true},                                                           \
    [FV_QUERY_TARGETS] = {"TARGETS", FV_QUERY_POINTS, .nature = FV_NATURE_FRACTION}

/* The number of logits of a query: one for each class, and one for no class. */
static inline uint32_t fv_query_logits(const fv_problem *p)
{
    return p->dim[FV_QUERY_CLASSES] + 1;
}

static inline uint32_t fv_query_places(const fv_problem *p)
{
    (void)p;
    return 2;
}

static inline uint32_t fv_query_count(const fv_problem *p)
{
    return p->dim[FV_DIM_ROWS];
}

static inline double fv_query_terms(const fv_problem *p)
{
    return p->dim[FV_QUERY_POINTS];
}

/* Returns the cells around a point, and their weights. */
static inline fv_deform_corners fv_query_corners(const fv_args *a, const float *place)
{
    const uint32_t width = a->u[0], height = a->prob.dim[FV_ROW_C] / width;
    return fv_deform_at(place[0] * (float)width - 0.5f, place[1] * (float)height - 0.5f, width,
                        height);
}

/* Returns a mask's logit at a point. */
static inline double fv_query_sample(const fv_args *a, const float *mask, const float *place)
{
    const fv_deform_corners k = fv_query_corners(a, place);
    double sum = 0;
    for (int i = 0; i < k.count; i++)
        sum += (double)k.part[i] * mask[k.row[i]];
    return sum;
}

/* Returns log(1 + e^x). */
static inline double fv_query_softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(x > 0 ? -x : x));
}

static inline double fv_query_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Returns the logarithm of the probability of class k of n. */
static inline double fv_query_chance(const float *logit, uint32_t n, uint32_t k)
{
    double max = (double)logit[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        max = (double)logit[i] > max ? (double)logit[i] : max;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logit[i] - max);
    return (double)logit[k] - max - log(sum);
}

/* What the loss of a query needs of the matching: its class, and the factors of its parts. */
typedef struct fv_query_role {
    uint32_t class; /* the number of classes, if the query has none */
    double entropy; /* of the class's cross-entropy */
    double mask, dice;
} fv_query_role;

static inline fv_query_role fv_query_role_of(const fv_args *a, const float *matched, uint32_t query)
{
    const uint32_t classes = a->prob.dim[FV_QUERY_CLASSES], queries = a->prob.dim[FV_DIM_ROWS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < queries; i++)
        n += matched[i] < (float)classes;
    const double nothing = (double)a->f[FV_QUERY_F_NOTHING], weights = n + nothing * (queries - n);
    const bool any = matched[query] < (float)classes;
    fv_query_role r = {.class = any ? (uint32_t)matched[query] : classes};
    if (weights > 0)
        r.entropy = (double)a->f[FV_QUERY_F_CLASS] * (any ? 1 : nothing) / weights;
    if (any) {
        r.mask = (double)a->f[FV_QUERY_F_MASK] / n;
        r.dice = (double)a->f[FV_QUERY_F_DICE] / n;
    }
    return r;
}

#endif
