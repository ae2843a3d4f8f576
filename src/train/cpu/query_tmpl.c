/* query_tmpl.c: QUERY_COST, QUERY_LOSS and QUERY_GRAD in vec.h's vector functions.
 *
 * A call first finds the four cells around every point and their weights, which all of its queries
 * share. The logits of a query at all points are then computed once. */
#include <math.h>
#include <string.h>

#include "platform/cpu/vec/log_sum.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/ref_query.h"

enum {
    CORNERS = 4,
    BLOCK = 1024, /* points in one sum */
};

/* The points of a call, in its scratch. */
typedef struct points {
    size_t n;
    uint32_t *cell; /* the cells of corner k from k n on; 0 with weight 0 beyond the grid */
    float *part;    /* their weights */
    float *x, *s;   /* logits of a query, and their sigmoids */
    float *chance;  /* softmax of a query's classes */
} points;

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return (p->dim[FV_QUERY_POINTS] * (2 * (size_t)CORNERS + 2) + p->dim[FV_QUERY_CLASSES] + 1) *
           sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_query_f32) = {.scratch = scratch};

static points points_of(const fv_args *a, const fv_call *c)
{
    points p = {.n = a->prob.dim[FV_QUERY_POINTS], .cell = c->scratch};
    p.part = (float *)(p.cell + CORNERS * p.n);
    p.x = p.part + CORNERS * p.n;
    p.s = p.x + p.n;
    p.chance = p.s + p.n;
    for (size_t i = 0; i < p.n; i++) {
        const fv_deform_corners k =
            fv_query_corners(a, (const float *)c->p[FV_QUERY_PLACES] + i * a->ld[FV_QUERY_PLACES]);
        for (int n = 0; n < CORNERS; n++) {
            p.cell[(size_t)n * p.n + i] = n < k.count ? (uint32_t)k.row[n] : 0;
            p.part[(size_t)n * p.n + i] = n < k.count ? k.part[n] : 0.f;
        }
    }
    return p;
}

/* Computes the logits of a mask at all points, and their sigmoids. */
static void sample(const points *p, const float *mask)
{
    for (size_t i = 0; i < p->n; i++) {
        float sum = 0.f;
        for (size_t n = 0; n < CORNERS; n++)
            sum += p->part[n * p->n + i] * mask[p->cell[n * p->n + i]];
        p->x[i] = sum;
    }
    for (size_t i = 0; i < p->n; i += FV_W) {
        const int n = fv_lanes(p->n - i);
        fv_store_n(p->s + i, fv_sigmoid(fv_load_n(p->x + i, n)), n);
    }
}

/* Returns the sum of log(1 + e^x). */
static double sum_softplus(const points *p)
{
    double all = 0;
    for (size_t i0 = 0; i0 < p->n; i0 += BLOCK) {
        const size_t end = p->n - i0 < BLOCK ? p->n : i0 + BLOCK;
        fv_v sum = fv_set(0.f);
        for (size_t i = i0; i < end; i += FV_W) {
            const int n = fv_lanes(end - i);
            sum = fv_add(sum, fv_first_n(fv_softplus(fv_load_n(p->x + i, n)), n));
        }
        all += (double)fv_hsum(sum);
    }
    return all;
}

/* Returns the sum of x y, or of x if y is NULL. */
static double sum_products(const float *x, const float *y, size_t count)
{
    double all = 0;
    for (size_t i0 = 0; i0 < count; i0 += BLOCK) {
        const size_t end = count - i0 < BLOCK ? count : i0 + BLOCK;
        fv_v sum = fv_set(0.f);
        for (size_t i = i0; i < end; i += FV_W) {
            const int n = fv_lanes(end - i);
            const fv_v v = fv_load_n(x + i, n);
            sum = y ? fv_fma(v, fv_load_n(y + i, n), sum) : fv_add(sum, v);
        }
        all += (double)fv_hsum(sum);
    }
    return all;
}

static const float *target_of(const fv_args *a, const fv_call *c, uint32_t class)
{
    return (const float *)c->p[FV_QUERY_TARGETS] + (size_t) class * a->ld[FV_QUERY_TARGETS];
}

/* The mean cross-entropy of the points, and the share of the masks that does not overlap. */
typedef struct distance {
    double entropy, dice;
} distance;

static distance distance_from(const points *p, const float *target, double softplus, double sigmoid)
{
    const double both = sum_products(p->s, target, p->n);
    const double sum = sigmoid + sum_products(target, NULL, p->n);
    return (distance){(softplus - sum_products(p->x, target, p->n)) / (double)p->n,
                      1 - (2 * both + 1) / (sum + 1)};
}

static const float *row_of(const fv_args *a, const fv_call *c, uint32_t operand, size_t r)
{
    return (const float *)c->p[operand] + r * a->ld[operand];
}

void FV_NAME(fv_k_query_cost_f32)(const fv_args *a, const fv_call *c)
{
    const points p = points_of(a, c);
    const uint32_t classes = a->prob.dim[FV_QUERY_CLASSES];
    const float *present = c->p[FV_COST_PRESENT], *f = a->f;
    for (size_t r = 0; r < c->rows; r++) {
        const float *logit = row_of(a, c, FV_QUERY_LOGITS, r);
        float *out = (float *)c->p[FV_COST_OUT] + r * a->ld[FV_COST_OUT];
        sample(&p, row_of(a, c, FV_QUERY_MASKS, r));
        const double softplus = sum_softplus(&p), sigmoid = sum_products(p.s, NULL, p.n);
        const float max = fv_row_max(logit, classes + 1);
        const float all = fv_row_exp(p.chance, logit, classes + 1, max);
        for (uint32_t k = 0; k < classes; k++) {
            out[k] = 0.f;
            if (!(present[k] > 0.f))
                continue;
            const distance d = distance_from(&p, target_of(a, c, k), softplus, sigmoid);
            out[k] = (float)((double)f[FV_QUERY_F_MASK] * d.entropy +
                             (double)f[FV_QUERY_F_DICE] * d.dice -
                             (double)(f[FV_QUERY_F_CLASS] * p.chance[k] / all));
        }
    }
}

void FV_NAME(fv_k_query_loss_f32)(const fv_args *a, const fv_call *c)
{
    const points p = points_of(a, c);
    for (size_t r = 0; r < c->rows; r++) {
        const fv_query_role of = fv_query_role_of(a, c->p[FV_QUERY_MATCHED], c->row0 + (uint32_t)r);
        const float *logit = row_of(a, c, FV_QUERY_LOGITS, r);
        double loss =
            -of.entropy * fv_query_chance(logit, a->prob.dim[FV_QUERY_CLASSES] + 1, of.class);
        if (of.mask + of.dice > 0) {
            sample(&p, row_of(a, c, FV_QUERY_MASKS, r));
            const distance d = distance_from(&p, target_of(a, c, of.class), sum_softplus(&p),
                                             sum_products(p.s, NULL, p.n));
            loss += of.mask * d.entropy + of.dice * d.dice;
        }
        ((float *)c->p[FV_QUERY_OUT])[r * a->ld[FV_QUERY_OUT]] = (float)loss;
    }
}

/* Replaces the logits by their gradients, and adds these to the cells. */
static void mask_gradient(const points *p, const fv_query_role *of, const float *target, float *out)
{
    const double both = sum_products(p->s, target, p->n);
    const double sum = sum_products(p->s, NULL, p->n) + sum_products(target, NULL, p->n) + 1;
    const fv_v entropy = fv_set((float)(of->mask / (double)p->n));
    const fv_v inside = fv_set((float)(of->dice * 2 / sum));
    const fv_v outside = fv_set((float)(of->dice * (2 * both + 1) / (sum * sum)));
    for (size_t i = 0; i < p->n; i += FV_W) {
        const int n = fv_lanes(p->n - i);
        const fv_v s = fv_load_n(p->s + i, n), y = fv_load_n(target + i, n);
        const fv_v dice = fv_mul(fv_sub(fv_mul(inside, y), outside), fv_sub(s, fv_mul(s, s)));
        fv_store_n(p->x + i, fv_sub(fv_mul(entropy, fv_sub(s, y)), dice), n);
    }
    for (size_t i = 0; i < p->n; i++)
        for (size_t n = 0; n < CORNERS; n++)
            out[p->cell[n * p->n + i]] += p->part[n * p->n + i] * p->x[i];
}

void FV_NAME(fv_k_query_grad_f32)(const fv_args *a, const fv_call *c)
{
    const points p = points_of(a, c);
    const uint32_t cells = a->prob.dim[FV_ROW_C], n = a->prob.dim[FV_QUERY_CLASSES] + 1;
    for (size_t r = 0; r < c->rows; r++) {
        const fv_query_role of = fv_query_role_of(a, c->p[FV_QUERY_MATCHED], c->row0 + (uint32_t)r);
        float *out = (float *)c->p[FV_QUERY_OUT] + r * a->ld[FV_QUERY_OUT];
        memset(out, 0, cells * sizeof *out);
        if (of.mask + of.dice > 0) {
            sample(&p, row_of(a, c, FV_QUERY_MASKS, r));
            mask_gradient(&p, &of, target_of(a, c, of.class), out);
        }
        fv_softmax_slope(out + cells, row_of(a, c, FV_QUERY_LOGITS, r), n, of.class,
                         (float)of.entropy);
    }
}
