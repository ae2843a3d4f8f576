/* check_lattn.c: cases and definitions of LATTN_REDUCE, LATTN_MERGE and LATTN_APPLY.
 *
 * Values and their allowed errors are computed together, from the features on: the error of each
 * step is its rounding error, multiplied by the condition numbers of the following steps. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/linear_attention.h"
#include "ops/mech_traits.h"
#include "tests/kernels/check_lattn.h"
#include "tests/kernels/check_rotation.h"
#include "tests/kernels/oracle.h"

static const check_lattn_size sizes[] = {
    {1, 1, 1, 1, 1, 0, 0, 0},
    {1, 4, 32, 48, 1, 0, ROPE, 0},
    {5, 2, 3, 7, 2, 1, PLAIN, 0},
    {5, 2, 2, 2, 2, 1, ROPE | GATED, 0},
    {17, 3, 16, 16, 3, 0, GATED, 0},
    {35, 1, 255, 63, 1, 3, 0, 0},
    {64, 12, 64, 64, 5, 0, 0, 0},
    {67, 1, 17, 34, 4, 5, 0, 0},
    {67, 2, 18, 33, 4, 5, ROPE, 0},
    {129, 2, 9, 1, 1, 0, PLAIN, 0},
    {129, 2, 10, 14, 1, 0, PLAIN | ROPE | GATED, 0},
    {300, 1, 72, 66, 2, 0, 0, 0},
    {450, 2, 6, 10, 1, 3, ROPE, 0},
    {10, 2, 8, 8, 2, 0, ROPE, 5},
    {41, 1, 12, 5, 1, 1, ROPE, 37},
    {7, 3, 16, 16, 1, 0, ROPE | GATED, 1},
    {23, 2, 24, 24, 3, 2, ROPE, 5},
    {80, 1, 32, 34, 2, 0, ROPE, 37},
    {75, 3, 64, 32, 1, 0, ROPE, 37},
    {12, 2, 96, 96, 1, 3, ROPE, 5},
    {199, 1, 24, 16, 1, 0, ROPE | PLAIN, 37},
    {1, 1, 1, 2, 1, 0, 0, 0, FV_BF16, FV_BF16, FV_BF16},
    {5, 2, 3, 6, 2, 1, PLAIN, 0, FV_BF16, FV_F32, FV_BF16},
    {17, 3, 16, 16, 3, 0, GATED, 0, FV_BF16, FV_BF16, FV_BF16},
    {35, 1, 255, 62, 1, 3, 0, 0, FV_BF16, FV_BF16, FV_BF16},
    {67, 2, 18, 34, 4, 5, ROPE, 0, FV_BF16, FV_BF16, FV_F32},
    {385, 1, 40, 66, 1, 0, 0, 0, FV_BF16, FV_BF16, FV_BF16},
    {193, 2, 10, 14, 1, 0, PLAIN | ROPE | GATED, 0, FV_BF16, FV_F32, FV_F32},
    {41, 1, 12, 6, 1, 1, ROPE, 37, FV_BF16, FV_BF16, FV_BF16},
    {256, 12, 64, 64, 1, 0, 0, 0},
    {256, 4, 64, 64, 1, 0, 0, 0, FV_BF16, FV_BF16, FV_BF16},
    {256, 1, 64, 64, 1, 0, 0, 0},
    {256, 1, 64, 64, 1, 0, ROPE, 0},
    {256, 1, 64, 64, 1, 0, ROPE, 512},
    {256, 4, 24, 24, 1, 0, ROPE, 56},
};

static bool wants(const check_case *c, uint32_t what)
{
    return check_lattn_traits(c)->wants & what;
}

/* Returns whether the features are exponentials that may be shifted. */
static bool shifted(const check_case *c)
{
    return wants(c, FV_WANT_SHIFT) && !(c->args.prob.flags & PLAIN);
}

static uint32_t width_of(const check_case *c)
{
    return check_lattn_traits(c)->blocks * c->args.prob.dim[FV_ATTN_D];
}

/* Every size is combined with every mechanism. */
enum { SIZES = sizeof sizes / sizeof *sizes };

static bool make_problem(check_case *c, uint32_t index, uint32_t *gap)
{
    const uint32_t count = SIZES, i = index % count;
    if (index >= count * (FV_MECH_COUNT - 1))
        return false;
    c->args.prob.mech = (uint16_t)(FV_MECH_ANY + 1 + index / count);
    c->args.prob.heads = (uint16_t)sizes[i].heads;
    c->args.prob.flags = sizes[i].flags;
    c->args.u[0] = sizes[i].grid;
    if (wants(c, FV_WANT_SIGNED))
        c->args.prob.flags |= PLAIN;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[i].rows;
    c->args.prob.dim[FV_ATTN_D] = sizes[i].d;
    c->args.prob.dim[FV_ATTN_DV] = sizes[i].dv;
    c->args.prob.dim[FV_ATTN_KEYS] = sizes[i].rows;
    c->args.prob.dim[FV_ATTN_GROUPS] = sizes[i].groups;
    c->bench = sizes[i].rows == 256;
    *gap = sizes[i].gap;
    return true;
}

/* Makes a case of bfloat16 products, with operands `x` and `v` stored as the case specifies. */
static void make_narrow(check_case *c, uint32_t index, int x, int v)
{
    const check_lattn_size *s = &sizes[index % SIZES];
    c->args.prob.acc = (uint8_t)(s->acc ? s->acc : FV_F32);
    check_lattn_store(c, x, s->x);
    check_lattn_store(c, v, s->v);
}

/* Operand numbers of REDUCE and APPLY with the same meaning. */
typedef struct numbers {
    int x, param, cos, sin, gate;
} numbers;

static const numbers of_keys = {FV_REDUCE_K, FV_REDUCE_PARAM, FV_REDUCE_COS, FV_REDUCE_SIN,
                                FV_REDUCE_GATE};
static const numbers of_queries = {FV_APPLY_Q, FV_APPLY_PARAM, FV_APPLY_COS, FV_APPLY_SIN,
                                   FV_APPLY_GATE};

/* Describes q or k and its related operands. Huge values are limited so that no power of them
 * overflows. */
static void make_rows(check_case *c, const numbers *n, uint32_t gap)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t rows = p->dim[FV_DIM_ROWS], d = p->dim[FV_ATTN_D];
    check_matrix(c, n->x, CHECK_ROW, rows, p->heads * d, gap);
    if (check_lattn_traits(c)->blocks > 1)
        c->operand[n->x].huge = 1e3f;
    if (p->mech == FV_MECH_MALA_EXP || (p->mech == FV_MECH_EXP && p->flags & PLAIN))
        c->operand[n->x].huge = 10.f;
    if (check_lattn_traits(c)->params)
        check_matrix(c, n->param, CHECK_BASE, check_lattn_traits(c)->params, p->heads * d, 0);
    if (p->flags & ROPE)
        check_rotation(c, n->cos, n->sin, rows, d, gap);
    if (p->flags & GATED) {
        check_matrix(c, n->gate, CHECK_ROW, rows, p->heads, gap);
        c->operand[n->gate].huge = 1.f;
    }
}

/* Draws learned vectors near zero, and rotations. */
static void prepare_rows(check_case *c, check_random *r, const numbers *n)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D];
    for (uint32_t i = 0; i < check_lattn_traits(c)->params; i++) {
        for (uint32_t j = 0; j < p->heads * d; j++)
            *check_value(c, n->param, i, j) = (float)check_normal(r);
    }
    if (p->flags & ROPE)
        check_rotation_values(c, n->cos, n->sin, r);
}

/* Returns f = e^t for t <= 0, where t may have an error of `off`. */
static check_known exponential(double t, double off)
{
    return (check_known){exp(t), exp(fmin(0., t + off)) - exp(t - off) + 2. * FLT_EPSILON * exp(t)};
}

/* Returns the relative error of a feature in float32. Powers y^p have errors of y and p, including
 * the sum of d squares: (y^p)'/y^p = p y'/y + ln(y) p'. */
static double feature_error(const check_case *c, double f)
{
    const double digits = 6. + sqrt(c->args.prob.dim[FV_ATTN_D]);
    const uint32_t mech = c->args.prob.mech;
    if ((mech == FV_MECH_SOFTMAXF || mech == FV_MECH_HEDGEHOG) && f != 0.) /* e^(x - max) / sum */
        return FLT_EPSILON * (2. * fabs(log(f)) + digits);
    if (check_lattn_traits(c)->blocks > 1 && f != 0.)
        return FLT_EPSILON * (4. + digits * (5. + fabs(log(fabs(f)))));
    return 4. * FLT_EPSILON;
}

/* Computes the blocks * d features of one row and head, without gate and rotation. `shift` is the
 * head's; *max is set to the value subtracted from a query's row. */
static void features(const check_case *c, const numbers *n, uint32_t row, uint32_t head,
                     const double *shift, check_known *max, check_known *f)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], width = width_of(c);
    const bool query = n == &of_queries;
    *max = (check_known){0., 0.};
    if (shifted(c)) {
        double off = 0.;
        max->v = query ? -INFINITY : 0.;
        for (uint32_t i = 0; i < d; i++) {
            const double x = check_at(c, n->x, row, head * d + i) + (query ? shift[i] : -shift[i]);
            f[i].v = x;
            off = fmax(off, FLT_EPSILON * fabs(x));
            max->v = query ? fmax(max->v, x) : 0.;
        }
        max->e = query ? off : 0.;
        for (uint32_t i = 0; i < d; i++) {
            const double t = f[i].v - max->v;
            f[i] = exponential(t, FLT_EPSILON * (fabs(f[i].v) + fabs(t)) + max->e);
        }
        return;
    }
    double *value = malloc(width * sizeof *value);
    const oracle_row r = {
        .x = (const float *)c->operand[n->x].data + (size_t)row * c->operand[n->x].ld,
        .heads = p->heads,
        .d = d,
        .channel_scale = check_lattn_traits(c)->params ? c->operand[n->param].data : NULL,
        .power = check_lattn_traits(c)->params
                     ? (const float *)c->operand[n->param].data + (size_t)p->heads * d
                     : NULL,
        .alpha = query ? c->args.f[2] : c->args.f[1]};
    oracle_features(p->mech, query, &r, head, value);
    for (uint32_t i = 0; i < width; i++) {
        const double v = fmin(value[i], exp(88.)); /* clamp where exp saturates */
        f[i] = (check_known){v, fabs(v) * feature_error(c, v) + (1. + fabs(v)) * 8. * FLT_MIN};
    }
    free(value);
}

/* Multiplies f by `g` and rotates it. size[i] is the sum of the absolute terms, so size[i] >=
 * f[i]
 * . */
static void gate_and_turn(const check_case *c, const numbers *n, uint32_t row, double g,
                          check_known *f, double *size)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], width = width_of(c);
    for (uint32_t i = 0; i < width; i++) {
        f[i].v *= g;
        f[i].e = fabs(g) * f[i].e + FLT_EPSILON * fabs(f[i].v) + FLT_MIN;
        size[i] = fabs(f[i].v);
    }
    for (uint32_t i = 0; c->args.prob.flags & ROPE && i < width; i += 2) {
        const check_known a = f[i], b = f[i + 1];
        for (uint32_t k = 0; k < 2; k++) {
            const double co = check_angle(c, n->cos, row, i % d + k, d);
            const double si = check_angle(c, n->sin, row, i % d + k, d);
            const check_known same = k ? b : a, other = k ? a : b;
            f[i + k].v = same.v * co + (k ? other.v : -other.v) * si;
            size[i + k] = fabs(same.v * co) + fabs(other.v * si);
            f[i + k].e = same.e * fabs(co) + other.e * fabs(si) + 2. * FLT_EPSILON * size[i + k] +
                         3. * FLT_MIN;
        }
    }
}

/* Returns the rounding error of a factor x that may be rounded to bfloat16: v is the error if its
 * sign is known, otherwise e is its bound. */
static check_known rounding_off(const check_case *c, check_known x)
{
    const double low = check_round(FV_BF16, x.v - x.e), high = check_round(FV_BF16, x.v + x.e);
    if (c->args.prob.acc != FV_BF16)
        return (check_known){0., 0.};
    if (low == high)
        return (check_known){low - x.v, 0.};
    return (check_known){0., fmax(fabs(low - x.v), fabs(high - x.v))};
}

/* The change of a sum of products when both operands, or one of the two, are rounded to bfloat16.
 */
typedef struct rounded_sum {
    double left, right, open;
} rounded_sum;

/* Adds x y, whose factors have the errors dx and dy. */
static void rounded_add(rounded_sum *s, check_known x, check_known dx, check_known y,
                        check_known dy)
{
    s->left += dx.v * y.v;
    s->right += (x.v + dx.v) * dy.v;
    s->open += dx.e * (fabs(y.v) + y.e) + (fabs(x.v) + x.e + dx.e) * dy.e;
    s->open += fabs(dx.v) * y.e + (x.e + dx.e) * fabs(dy.v);
}

static double rounded_error(const rounded_sum *s)
{
    return fabs(s->left) + fabs(s->right) + s->open;
}

/* ---- REDUCE ---- */

static bool make_reduce(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    c->args.f[0] = 1.f / (float)p->dim[FV_ATTN_KEYS];
    c->args.f[1] = check_lattn_constant(c, index);
    make_rows(c, &of_keys, gap);
    check_matrix(c, FV_REDUCE_V, CHECK_ROW, p->dim[0], p->heads * p->dim[FV_ATTN_DV], gap);
    check_matrix(c, FV_REDUCE_PARTIAL, CHECK_PARTIAL, p->dim[FV_ATTN_GROUPS],
                 p->heads * (uint32_t)check_lattn_layout(c).floats, 0);
    make_narrow(c, index, FV_REDUCE_K, FV_REDUCE_V);
    return true;
}

static void prepare_reduce(check_case *c, check_random *r)
{
    prepare_rows(c, r, &of_keys);
}

/* Features of a group's keys and head as they enter m and S, with the values and their means. */
typedef struct group {
    uint32_t rows, *row;
    check_known *f, *turned, *turned_off; /* [rows][width]; turned_off: change by rounding */
    check_known *v_off;                   /* [rows][dv] */
    double *size;                         /* of turned */
    double *v;                            /* [rows][dv] */
    double *shift, *mean, *mean_spread;   /* [d]; [dv]: of v, and of |v - mean| */
} group;

static void group_open(group *g, const check_case *c, uint32_t number, uint32_t head)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV], width = width_of(c);
    g->row = check_group_rows(c, number, &g->rows);
    const uint32_t rows = g->rows;
    g->f = malloc((size_t)rows * (3 * width + dv) * sizeof *g->f);
    g->turned = g->f + (size_t)rows * width;
    g->turned_off = g->turned + (size_t)rows * width;
    g->v_off = g->turned_off + (size_t)rows * width;
    g->size = malloc(((size_t)rows * (width + dv) + d + 2 * dv) * sizeof *g->size);
    g->v = g->size + (size_t)rows * width;
    g->shift = g->v + (size_t)rows * dv;
    g->mean = g->shift + d;
    g->mean_spread = g->mean + dv;
    for (uint32_t i = 0; i < d; i++) {
        g->shift[i] = shifted(c) ? -FLT_MAX : 0.;
        for (uint32_t r = 0; shifted(c) && r < rows; r++)
            g->shift[i] = fmax(g->shift[i], check_at(c, FV_REDUCE_K, g->row[r], head * d + i));
    }
    for (uint32_t j = 0; j < dv; j++) {
        g->mean[j] = g->mean_spread[j] = 0.;
        for (uint32_t r = 0; r < rows; r++) {
            g->v[r * dv + j] = check_at(c, FV_REDUCE_V, g->row[r], head * dv + j);
            g->v_off[r * dv + j] = rounding_off(c, (check_known){g->v[r * dv + j], 0.});
            g->mean[j] += g->v[r * dv + j] / rows;
        }
        for (uint32_t r = 0; r < rows; r++)
            g->mean_spread[j] += fabs(g->v[r * dv + j] - g->mean[j]) / rows;
    }
    for (uint32_t r = 0; r < rows; r++) {
        check_known max, *f = g->f + (size_t)r * width, *turned = g->turned + (size_t)r * width;
        const double gate = p->flags & GATED ? check_at(c, FV_REDUCE_GATE, g->row[r], head) : 1.;
        features(c, &of_keys, g->row[r], head, g->shift, &max, f);
        for (uint32_t i = 0; i < width; i++)
            turned[i] = f[i];
        gate_and_turn(c, &of_keys, g->row[r], gate, turned, g->size + (size_t)r * width);
        for (uint32_t i = 0; i < width; i++)
            g->turned_off[(size_t)r * width + i] = rounding_off(c, turned[i]);
        for (uint32_t i = 0; i < width; i++) {
            f[i].v *= gate;
            f[i].e = fabs(gate) * f[i].e + FLT_EPSILON * fabs(f[i].v) + FLT_MIN;
        }
    }
}

static void group_close(group *g)
{
    free(g->f);
    free(g->size);
    free(g->row);
}

/* Computes the mean of a feature over all keys, of which the group has only some. */
static void feature_mean(const check_case *c, const group *g, const check_known *f, uint32_t i,
                         double *want, double *allowed)
{
    double sum = 0., size = 0., error = 0.;
    for (uint32_t r = 0; r < g->rows; r++) {
        const check_known x = f[(size_t)r * width_of(c) + i];
        sum += x.v;
        size += fabs(x.v);
        error += x.e;
    }
    *want = sum * c->args.f[0];
    *allowed = error * c->args.f[0] + check_allowed(g->rows + 4., (size + error) * c->args.f[0]) +
               2. * FLT_MIN;
}

/* Error of a feature of float16 rows, relative to the largest feature of its channel in any block:
 * see ref_lattn_reduce.c. */
#define LOST 0x1p-37

/* want = mean over the keys of R phi(k)_i v_j, where v may be centred.
 *
 * With centring, rounded values affect S through the deviation of the features from their mean. The
 * mean, or shift, that is subtracted before factors are rounded to bfloat16 depends on the split
 * into calls. Such errors, at most 2^-8 on both sides, add up like a random walk. */
static void product_mean(const check_case *c, const group *g, uint32_t i, uint32_t j, double *want,
                         double *allowed)
{
    const bool centred = wants(c, FV_WANT_CENTRED);
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], dv = c->args.prob.dim[FV_ATTN_DV];
    const uint32_t width = width_of(c), rows = g->rows;
    const double centre = centred ? g->mean[j] : 0., spread = centred ? g->mean_spread[j] : 0.;
    const bool halves = c->args.prob.op == FV_OP_LATTN_REDUCE && c->args.prob.in == FV_F16;
    const bool narrow = c->args.prob.acc == FV_BF16, relative = centred || shifted(c);
    double sum = 0., size = 0., error = 0., mean = 0., top = 0., walk = 0.;
    rounded_sum rounded = {0., 0., 0.};
    for (uint32_t r = 0; centred && r < rows; r++)
        mean += g->turned[(size_t)r * width + i].v / rows;
    for (uint32_t r = 0; halves && r < rows; r++)
        for (uint32_t other = i % d; other < width; other += d)
            top = fmax(top, g->size[(size_t)r * width + other]);
    for (uint32_t r = 0; r < rows; r++) {
        const check_known f = g->turned[(size_t)r * width + i];
        const double v = g->v[(size_t)r * dv + j], reach = fabs(v - centre) + spread;
        sum += f.v * (v - centre);
        size += (g->size[(size_t)r * width + i] + f.e) * reach;
        size += centred ? fabs(f.v - mean) * fabs(v) : 0.;
        error += (f.e + LOST * top) * reach + FLT_MIN * (1. + fabs(f.v));
        if (narrow && relative)
            walk += pow(0x1p-8 * fabs(f.v) * reach, 2.);
        else if (narrow)
            rounded_add(&rounded, f, g->turned_off[(size_t)r * width + i], (check_known){v, 0.},
                        g->v_off[(size_t)r * dv + j]);
    }
    error += 4. * sqrt(walk) + rounded_error(&rounded);
    *want = sum * c->args.f[0];
    *allowed = error * c->args.f[0] + check_allowed(rows + 4., size * c->args.f[0]) + FLT_MIN;
}

void check_lattn_state(const check_case *c, uint32_t number, double *want, double *allowed)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t dv = p->dim[FV_ATTN_DV], d = p->dim[FV_ATTN_D], width = width_of(c);
    const fv_lattn_state l = check_lattn_layout(c);
    for (uint32_t h = 0; h < p->heads; h++, want += l.floats, allowed += l.floats) {
        group g;
        group_open(&g, c, number, h);
        for (uint32_t i = 0; i < width; i++) {
            feature_mean(c, &g, g.f, i, want + l.m + i, allowed + l.m + i);
            if (wants(c, FV_WANT_CENTRED))
                feature_mean(c, &g, g.turned, i, want + l.w + i, allowed + l.w + i);
            for (uint32_t j = 0; j < dv; j++)
                product_mean(c, &g, i, j, want + l.s + i * dv + j, allowed + l.s + i * dv + j);
        }
        for (uint32_t j = 0; wants(c, FV_WANT_CENTRED) && j < dv; j++) {
            want[l.vmean + j] = g.mean[j];
            allowed[l.vmean + j] = check_allowed(g.rows + 4., fabs(g.mean[j]) + g.mean_spread[j]);
        }
        if (wants(c, FV_WANT_CENTRED)) {
            want[l.count] = g.rows;
            allowed[l.count] = 0.;
        }
        for (uint32_t i = 0; wants(c, FV_WANT_SHIFT) && i < d; i++) {
            want[l.shift + i] = g.shift[i];
            allowed[l.shift + i] = FLT_MIN;
        }
        group_close(&g);
    }
}

/* ---- MERGE ---- */

static bool make_merge(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    const uint32_t size = p->heads * (uint32_t)check_lattn_layout(c).floats;
    c->args.prob.dim[FV_DIM_ROWS] = 1;
    check_matrix(c, FV_MERGE_PARTIAL, CHECK_BASE, p->dim[FV_ATTN_GROUPS], size, 0);
    check_vector(c, FV_MERGE_STATE, size);
    return true;
}

/* Sets token counts; unnormalised maps have no shift. */
static void prepare_merge(check_case *c, check_random *r)
{
    const fv_lattn_state l = check_lattn_layout(c);
    for (uint32_t g = 0; g < c->args.prob.dim[FV_ATTN_GROUPS]; g++) {
        for (uint32_t h = 0; h < c->args.prob.heads; h++) {
            const uint32_t at = h * (uint32_t)l.floats;
            if (wants(c, FV_WANT_CENTRED))
                *check_value(c, FV_MERGE_PARTIAL, g, at + (uint32_t)l.count) =
                    (float)(1 + check_below(r, 1000));
            for (size_t i = l.shift; i < l.floats && !shifted(c); i++)
                *check_value(c, FV_MERGE_PARTIAL, g, at + (uint32_t)i) = 0.f;
        }
    }
}

/* Computes one value of a head's merged state: the groups' values at `at`, scaled by exp(shift -
 * largest shift), with S shifted to the mean of all values. */
static void merge_value(const check_case *c, uint32_t base, size_t at, uint32_t row, size_t vmean,
                        double *want, double *allowed)
{
    const uint32_t groups = c->args.prob.dim[FV_ATTN_GROUPS];
    const fv_lattn_state l = check_lattn_layout(c);
    double top = -INFINITY, mean = 0., tokens = 0., sum = 0., size = 0., error = 0.;
    for (uint32_t g = 0; g < groups; g++) {
        if (shifted(c))
            top = fmax(top, check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)l.shift + row));
        if (vmean) {
            const double n = check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)l.count);
            tokens += n;
            mean += n * check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)vmean);
        }
    }
    for (uint32_t g = 0; g < groups; g++) {
        double x = check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)at);
        if (shifted(c)) {
            const double t = check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)l.shift + row) - top;
            error += fabs(x) * exponential(t, FLT_EPSILON * fabs(t)).e + FLT_MIN * fabs(x);
            x *= exp(t);
        }
        size += fabs(x);
        if (vmean) {
            const double w = check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)l.w + row);
            const double v = check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)vmean);
            x += w * (v - mean / tokens);
            size += fabs(w) * (fabs(v) + fabs(mean / tokens));
            error += FLT_MIN * (fabs(w) + fabs(v) + 1.);
        }
        sum += x;
    }
    *want = sum;
    *allowed = error + check_allowed(3. * groups, size) + FLT_MIN * groups;
}

static void oracle_merge(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV], groups = p->dim[FV_ATTN_GROUPS];
    const bool centred = wants(c, FV_WANT_CENTRED);
    const fv_lattn_state l = check_lattn_layout(c);
    (void)row;
    for (uint32_t h = 0; h < p->heads; h++, want += l.floats, allowed += l.floats) {
        const uint32_t base = h * (uint32_t)l.floats;
        for (uint32_t i = 0; i < width_of(c); i++) {
            for (uint32_t j = 0; j < dv; j++) {
                const size_t at = l.s + (size_t)i * dv + j;
                merge_value(c, base, at, i, centred ? l.vmean + j : 0, want + at, allowed + at);
            }
            merge_value(c, base, l.m + i, i, 0, want + l.m + i, allowed + l.m + i);
            if (centred)
                merge_value(c, base, l.w + i, i, 0, want + l.w + i, allowed + l.w + i);
        }
        for (uint32_t j = 0; centred && j <= dv; j++) { /* means, followed by the count */
            double tokens = 0., sum = 0., size = 0.;
            for (uint32_t g = 0; g < groups; g++) {
                const double n = check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)l.count);
                const double v = check_at(c, FV_MERGE_PARTIAL, g, base + (uint32_t)l.vmean + j);
                tokens += n;
                sum += n * v;
                size += fabs(v);
            }
            want[l.vmean + j] = j < dv ? sum / tokens : tokens;
            allowed[l.vmean + j] = j < dv ? check_allowed(3. * groups, size) : 0.;
        }
        for (uint32_t i = 0; wants(c, FV_WANT_SHIFT) && i < d; i++) {
            want[l.shift + i] = -INFINITY;
            for (uint32_t g = 0; g < groups; g++)
                want[l.shift + i] = fmax(want[l.shift + i], check_at(c, FV_MERGE_PARTIAL, g,
                                                                     base + (uint32_t)l.shift + i));
            allowed[l.shift + i] = FLT_MIN;
        }
    }
}

/* ---- APPLY ---- */

static bool make_apply(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    c->args.f[0] = 0.7f;
    c->args.f[1] = index % 3 ? 1e-6f : 0.f;
    c->args.f[2] = check_lattn_constant(c, index);
    make_rows(c, &of_queries, gap);
    check_vector(c, FV_APPLY_STATE, p->heads * (uint32_t)check_lattn_layout(c).floats);
    if (wants(c, FV_WANT_CENTRED)) /* three of them are multiplied */
        c->operand[FV_APPLY_Q].huge = c->operand[FV_APPLY_STATE].huge = 10.f;
    check_matrix(c, FV_APPLY_OUT, CHECK_ROW, p->dim[0], p->heads * p->dim[FV_ATTN_DV], gap);
    make_narrow(c, index, FV_APPLY_Q, FV_APPLY_OUT);
    return true;
}

/* Means of features are non-negative if features are. The sine part for nala_paper's angles, which
 * are less than pi/5, is at most the cosine part. Without rotation w equals m. */
static void prepare_apply(check_case *c, check_random *r)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    const fv_lattn_state l = check_lattn_layout(c);
    prepare_rows(c, r, &of_queries);
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        float *m = check_value(c, FV_APPLY_STATE, 0, (uint32_t)(h * l.floats + l.m));
        for (uint32_t i = 0; i < width_of(c); i++)
            m[i] = fabsf(m[i]);
        for (uint32_t i = 0; i < d && c->args.prob.mech == FV_MECH_NALA_PAPER; i++)
            m[d + i] = m[i] * (float)cos(check_normal(r));
        for (uint32_t i = 0; i < d && wants(c, FV_WANT_CENTRED) && !(c->args.prob.flags & ROPE);
             i++)
            m[l.w - l.m + i] = m[i];
    }
}

/* Returns the sum of f[i] state[at(i)] over both blocks as `stream` pairs them, at `stride` between
 * features. If `scales` is set, the product may be in bfloat16. */
static check_known read_state(const check_case *c, const check_known *f, const double *size,
                              uint32_t stream, const check_known *state, uint32_t stride,
                              bool scales)
{
    rounded_sum rounded = {0., 0., 0.};
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], width = width_of(c);
    const double scale = c->args.f[0];
    check_known sum = {0., 0.};
    double all = 0., floor = 0.;
    for (uint32_t i = 0; i < width; i++) {
        const uint32_t row = stream ? (i + d) % width : i;
        const check_known s = {state[(size_t)row * stride].v * scale,
                               state[(size_t)row * stride].e * scale};
        sum.v += f[i].v * s.v;
        sum.e += f[i].e * (fabs(s.v) + s.e) + size[i] * s.e;
        all += size[i] * fabs(s.v);
        floor += 1. + size[i] + fabs(s.v);
        if (scales) {
            const check_known t = {s.v, s.e + FLT_EPSILON * fabs(s.v)};
            rounded_add(&rounded, f[i], rounding_off(c, f[i]), t, rounding_off(c, t));
        }
    }
    sum.e += rounded_error(&rounded);
    sum.e += check_allowed(width + 4., all + sum.e) + FLT_MIN * floor;
    return sum;
}

/* Returns a / b. If b's error exceeds b / 2, the result may be anything. */
static check_known quotient(check_known a, check_known b)
{
    const double anything = 1e200;
    const double x = a.v == 0. && b.v == 0. ? 0. : a.v / b.v;
    const double off = b.e < b.v / 2. ? 2. * (a.e + fabs(x) * b.e) / b.v : anything;
    return (check_known){x, off + 2. * FLT_EPSILON * fabs(x) + FLT_MIN * (1. + fabs(a.v))};
}

/* Returns one value channel before the gate. `eps` has an error if it is scaled by the shift. */
static check_known normalised(const check_case *c, check_known o, check_known z, check_known w,
                              check_known eps, check_known vmean)
{
    const check_known den = {z.v + eps.v, z.e + eps.e + FLT_EPSILON * (z.v + eps.v)};
    if (!wants(c, FV_WANT_CENTRED))
        return quotient(o, den);
    /* (1 + g) o + ((w - z) + w g) vmean, with g = 1 / den. Without rotation, w of a given state
     * equals z bit by bit. */
    const check_known og = quotient(o, den);
    check_known bracket = quotient(w, den);
    if (c->args.prob.flags & ROPE || c->args.prob.op != FV_OP_LATTN_APPLY) {
        bracket.e += w.e + z.e + 2. * FLT_EPSILON * (fabs(w.v) + fabs(z.v) + fabs(bracket.v));
        bracket.v += w.v - z.v;
    } else if (den.e < den.v / 2.) {
        bracket.e = 2. * z.e * eps.v / (den.v * den.v) + 4. * FLT_EPSILON * bracket.v + FLT_MIN;
    }
    const double size = fabs(o.v) + fabs(og.v) + fabs(bracket.v * vmean.v);
    return (check_known){o.v + og.v + bracket.v * vmean.v,
                         o.e + og.e + bracket.e * (fabs(vmean.v) + vmean.e) +
                             fabs(bracket.v) * vmean.e + 4. * FLT_EPSILON * size};
}

static void apply_head(const check_case *c, uint32_t row, uint32_t head, const check_known *state,
                       check_known *f, check_known *turned, double *size, double *shift,
                       double *want, double *allowed)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV],
                   streams = check_lattn_traits(c)->streams;
    const bool centred = wants(c, FV_WANT_CENTRED);
    const fv_lattn_state l = check_lattn_layout(c);
    const double gate = p->flags & GATED ? check_at(c, FV_APPLY_GATE, row, head) : 1.;
    check_known max, z[2], w = {0., 0.}, eps = {fmax(c->args.f[1], FLT_MIN), 0.};
    for (uint32_t i = 0; i < d && wants(c, FV_WANT_SHIFT); i++)
        shift[i] = state[l.shift + i].v;
    features(c, &of_queries, row, head, shift, &max, f);
    for (uint32_t i = 0; i < width_of(c); i++) {
        turned[i] = f[i];
        size[i] = fabs(f[i].v);
    }
    for (uint32_t s = 0; s < streams; s++)
        z[s] = read_state(c, f, size, s, state + l.m, 1, false);
    gate_and_turn(c, &of_queries, row, 1., turned, size);
    if (centred)
        w = p->flags & ROPE ? read_state(c, turned, size, 0, state + l.w, 1, false) : z[0];
    if (c->args.f[1] > 0.f && shifted(c)) {
        eps.v *= exp(-max.v);
        eps.e = eps.v * (expm1(max.e) + 2. * FLT_EPSILON);
    }
    for (uint32_t j = 0; j < dv; j++) {
        const uint32_t s = j / (dv / streams);
        const check_known vmean = centred ? state[l.vmean + j] : (check_known){0., 0.};
        check_known o = read_state(c, turned, size, s, state + l.s + j, dv, true);
        if (!(p->flags & PLAIN)) {
            o = eps.v > FLT_MAX ? (check_known){0., FLT_MIN * (1. + fabs(o.v))}
                                : normalised(c, o, z[s], w, eps, vmean);
        } else if (centred) {
            o.e += w.e * (fabs(vmean.v) + vmean.e) + fabs(w.v) * vmean.e +
                   2. * FLT_EPSILON * (fabs(o.v) + fabs(w.v * vmean.v));
            o.v += w.v * vmean.v;
        }
        want[j] = gate * o.v;
        allowed[j] =
            fabs(gate) * o.e + 2. * FLT_EPSILON * fabs(want[j]) + FLT_MIN * (1. + fabs(o.v));
    }
}

void check_lattn_query(const check_case *c, uint32_t row, const check_known *state, double *want,
                       double *allowed)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t width = width_of(c), dv = p->dim[FV_ATTN_DV];
    check_known *f = malloc(2 * width * sizeof *f);
    double *size = malloc(2 * width * sizeof *size);
    for (uint32_t h = 0; h < p->heads; h++)
        apply_head(c, row, h, state + h * check_lattn_layout(c).floats, f, f + width, size,
                   size + width, want + h * dv, allowed + h * dv);
    free(f);
    free(size);
}

static void oracle_apply(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t floats = c->operand[FV_APPLY_STATE].cols;
    check_known *state = malloc(floats * sizeof *state);
    for (uint32_t i = 0; i < floats; i++)
        state[i] = (check_known){check_at(c, FV_APPLY_STATE, 0, i), 0.};
    check_lattn_query(c, row, state, want, allowed);
    free(state);
}

const check_op check_lattn_reduce = {
    .make = make_reduce, .prepare = prepare_reduce, .oracle = check_lattn_state};
const check_op check_lattn_merge = {
    .make = make_merge, .prepare = prepare_merge, .oracle = oracle_merge};
const check_op check_lattn_apply = {
    .make = make_apply, .prepare = prepare_apply, .oracle = oracle_apply};
