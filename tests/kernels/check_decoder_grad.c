/* check_decoder_grad.c: GROUPNORM_GRAD, GROUPNORM_GRAD_W, PICK_GRAD, DEFORM_GRAD,
 * DEFORM_GRAD_VALUES, SOFTMAX_GRAD_Q and SOFTMAX_GRAD_KV: gradients of the operations of decoders
 * of queries. */
#include <math.h>
#include <stdlib.h>

#include "ops/ref/ref_deform.h"
#include "tests/kernels/check_grad.h"
#include "tests/kernels/check_run.h"
#include "train/ref/training.h"

static void bound(check_case *c)
{
    for (int i = 0; i < check_output(c); i++)
        if (c->operand[i].kind != CHECK_ABSENT)
            c->operand[i].huge = 4.f;
}

/* ---- group normalisation ---- */

static const struct {
    uint32_t rows, width, groups, gap;
    int in_place; /* of GROUPNORM_GRAD */
} norms[] = {{1, 1, 1, 0, -1},
             {5, 15, 3, 1, FV_GN_GRAD_DOUT},
             {33, 16, 16, 0, -1},
             {300, 65, 5, 3, FV_GN_GRAD_DOUT},
             {1296, 128, 32, 0, -1}};
enum { NORMS = sizeof norms / sizeof *norms };

static bool make_norm(check_case *c, uint32_t index)
{
    if (index >= NORMS)
        return false;
    const uint32_t rows = norms[index].rows, width = norms[index].width, gap = norms[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_GROUPNORM_GRAD_GROUPS] = norms[index].groups;
    c->args.f[0] = 1e-5f;
    check_matrix(c, FV_GN_GRAD_IN, CHECK_ROW, rows, width, gap);
    check_vector(c, FV_GN_GRAD_STATE, 3 * width);
    check_vector(c, FV_GN_GRAD_WEIGHT, width);
    check_vector(c, FV_GN_GRAD_SUMS, 2 * width);
    check_matrix(c, FV_GN_GRAD_DOUT, CHECK_ROW, rows, width, gap);
    check_matrix(c, FV_GN_GRAD_OUT, CHECK_ROW, rows, width, gap);
    bound(c);
    c->in_place = norms[index].in_place;
    c->bench = index == NORMS - 1;
    return true;
}

static bool make_norm_weights(check_case *c, uint32_t index)
{
    if (index >= NORMS)
        return false;
    const uint32_t rows = norms[index].rows, width = norms[index].width, gap = norms[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = 1;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_GRAD_TOKENS] = rows;
    c->args.f[0] = 1e-5f;
    check_matrix(c, FV_GN_GRAD_W_IN, CHECK_BASE, rows, width, gap);
    check_vector(c, FV_GN_GRAD_W_STATE, 3 * width);
    check_matrix(c, FV_GN_GRAD_W_DOUT, CHECK_BASE, rows, width, 2 * gap);
    check_matrix(c, FV_GN_GRAD_W_OUT, CHECK_ROW, 1, 2 * width, gap);
    bound(c);
    c->bench = index == NORMS - 1;
    return true;
}

/* Makes variances positive. The state is operand 1 of both ops. */
static void prepare_norm(check_case *c, check_random *r)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    (void)r;
    for (uint32_t i = width; i < 2 * width; i++) {
        float *var = check_value(c, FV_GN_GRAD_STATE, 0, i);
        *var = fabsf(*var);
    }
}

static void norm_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const uint32_t *dim = c->args.prob.dim, width = dim[FV_ROW_C];
    const uint32_t n = width / dim[FV_GROUPNORM_GRAD_GROUPS];
    const double *state = in->of[FV_GN_GRAD_STATE], *weight = in->of[FV_GN_GRAD_WEIGHT];
    const double *sums = in->of[FV_GN_GRAD_SUMS];
    for (uint32_t i = 0; i < width; i++) {
        const double sigma = sqrt(state[width + i] + (double)c->args.f[0]);
        for (uint32_t r = 0; r < dim[FV_DIM_ROWS]; r++) {
            const size_t at = (size_t)r * width + i;
            const double x = (in->of[FV_GN_GRAD_IN][at] - state[i]) / sigma;
            double back = 0;
            for (uint32_t k = i / n * n; k < (i / n + 1) * n; k++)
                back += weight[k] * (sums[width + k] + x * sums[k]);
            out[at] =
                (weight[i] * in->of[FV_GN_GRAD_DOUT][at] - back / n / dim[FV_DIM_ROWS]) / sigma;
        }
    }
}

static void define_norm(check_case *c)
{
    const uint32_t list[] = {0, c->args.prob.dim[FV_ROW_C]};
    check_gradient(c, norm_gradient, c->args.prob.dim[FV_ROW_C], list);
}

static void norm_weights(const check_case *c, const check_doubles *in, double *out)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C];
    const double *state = in->of[FV_GN_GRAD_W_STATE];
    for (uint32_t i = 0; i < width; i++) {
        out[i] = out[width + i] = 0;
        for (uint32_t t = 0; t < c->args.prob.dim[FV_GRAD_TOKENS]; t++) {
            const size_t at = (size_t)t * width + i;
            const double dout = in->of[FV_GN_GRAD_W_DOUT][at];
            out[i] += dout * (in->of[FV_GN_GRAD_W_IN][at] - state[i]) /
                      sqrt(state[width + i] + (double)c->args.f[0]);
            out[width + i] += dout;
        }
    }
}

static void define_norm_weights(check_case *c)
{
    const uint32_t width = c->args.prob.dim[FV_ROW_C], list[] = {0, width, 2 * width};
    check_gradient(c, norm_weights, c->args.prob.dim[FV_GRAD_TOKENS], list);
}

/* ---- picked rows ---- */

static bool make_pick(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, tokens, width, gap;
        bool in_order, adds;
    } sizes[] = {{1, 1, 1, 0, false, false},  {3, 7, 15, 1, false, true},
                 {9, 5, 16, 0, true, true},   {3, 300, 129, 2, false, true},
                 {48, 48, 4, 0, true, false}, {3, 3888, 128, 0, false, true}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    const uint32_t tokens = sizes[index].tokens;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_GRAD_TOKENS] = tokens;
    c->args.prob.flags = sizes[index].adds ? FV_FLAG_ACCUMULATE : 0;
    if (!sizes[index].in_order)
        check_matrix(c, FV_PICK_GRAD_INDEX, CHECK_BASE, tokens, 1, gap);
    check_matrix(c, FV_PICK_GRAD_DOUT, CHECK_BASE, tokens, width, gap);
    check_matrix(c, FV_PICK_GRAD_OUT, CHECK_ROW, rows, width, gap);
    c->adds = sizes[index].adds;
    c->bench = tokens == 3888;
    return true;
}

/* Draws row numbers; a few select no row. */
static void number(check_case *c, check_random *r)
{
    const float none[] = {-1.f, NAN, INFINITY, 1e9f, -0.5f};
    if (!c->operand[FV_PICK_GRAD_INDEX].kind)
        return;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_GRAD_TOKENS]; i++)
        *check_value(c, FV_PICK_GRAD_INDEX, i, 0) =
            check_below(r, 6) == 0 ? none[check_below(r, 5)]
                                   : (float)check_below(r, c->args.prob.dim[FV_DIM_ROWS]);
}

static void pick_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const bool listed = c->operand[FV_PICK_GRAD_INDEX].kind;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        double size = fabs(want[i] = c->adds ? check_at(c, FV_PICK_GRAD_OUT, row, i) : 0);
        for (uint32_t t = 0; t < c->args.prob.dim[FV_GRAD_TOKENS]; t++)
            if ((listed ? check_at(c, FV_PICK_GRAD_INDEX, t, 0) : (double)t) == row) {
                want[i] += check_at(c, FV_PICK_GRAD_DOUT, t, i);
                size += fabs(check_at(c, FV_PICK_GRAD_DOUT, t, i));
            }
        allowed[i] = check_allowed(c->args.prob.dim[FV_GRAD_TOKENS], size);
    }
}

/* ---- deformable attention ---- */

/* Describes a case; the operands of the two gradients differ only in their numbers and kinds. */
static bool make_deform(check_case *c, uint32_t index, bool of_values)
{
    static const struct {
        uint32_t rows, heads, d, points, gap, levels;
        bool centres;
        fv_deform_level level[3];
    } sizes[] = {
        {1, 1, 1, 1, 0, 1, false, {{1, 1, 0}}},
        {5, 2, 16, 4, 0, 1, false, {{9, 7, 0}}},
        {7, 3, 5, 2, 3, 1, true, {{1, 13, 0}}},
        {6, 1, 37, 5, 0, 2, false, {{6, 6, 0}, {2, 3, 36}}},
        {9, 2, 33, 4, 1, 3, true, {{3, 2, 0}, {5, 4, 6}, {10, 7, 26}}},
        {300, 8, 16, 4, 0, 3, true, {{8, 8, 0}, {16, 16, 64}, {32, 32, 320}}},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, heads = sizes[index].heads, gap = sizes[index].gap;
    const uint32_t points = sizes[index].points, d = sizes[index].d;
    const uint32_t levels = sizes[index].levels, samples = heads * levels * points;
    const fv_deform_level *last = &sizes[index].level[levels - 1];
    const uint32_t from = last->first + last->width * last->height;
    const enum check_kind kind = of_values ? CHECK_BASE : CHECK_ROW;
    const int box = of_values ? FV_VALUES_GRAD_BOX : FV_DEFORM_GRAD_BOX;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = of_values ? from : rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_DEFORM_POINTS] = points;
    c->args.prob.dim[FV_DEFORM_LEVELS] = levels;
    c->args.prob.dim[FV_DEFORM_FROM] = of_values ? rows : from;
    c->args.prob.flags = sizes[index].centres ? FV_FLAG_CENTRES : 0;
    c->args.f[0] = sizes[index].centres ? 1.f : 0.5f / (float)points;
    c->args.table = sizes[index].level;
    if (!of_values)
        check_matrix(c, FV_DEFORM_GRAD_VALUES, CHECK_BASE, from, heads * d, gap);
    check_matrix(c, box, kind, rows, sizes[index].centres ? 2 : 4, gap);
    check_matrix(c, box + 1, kind, rows, samples * 2, gap);
    check_matrix(c, box + 2, kind, rows, samples, gap);
    check_matrix(c, box + 3, kind, rows, heads * d, gap);
    if (of_values) {
        c->align = from;
        c->part[0] = d;
        check_matrix(c, FV_VALUES_GRAD_OUT, CHECK_ROW, from, heads * d, gap);
    } else {
        check_matrix(c, FV_DEFORM_GRAD_OUT, CHECK_ROW, rows, samples * 3, gap);
    }
    bound(c);
    c->bench = rows == 300;
    return true;
}

static bool make_deform_rows(check_case *c, uint32_t index)
{
    return make_deform(c, index, false);
}

static bool make_deform_values(check_case *c, uint32_t index)
{
    return make_deform(c, index, true);
}

/* Places boxes inside the picture, at its edges, far outside, and with NaN. */
static void place(check_case *c, check_random *r)
{
    const float hard[] = {0.f, 1.f, -0.01f, 1.5f, 1e20f, NAN, INFINITY};
    const int box = c->args.prob.op == FV_OP_DEFORM_GRAD ? FV_DEFORM_GRAD_BOX : FV_VALUES_GRAD_BOX;
    for (uint32_t i = 0; i < c->operand[box].rows; i++)
        for (uint32_t k = 0; k < c->operand[box].cols; k++)
            *check_value(c, box, i, k) = check_below(r, 6) == 0
                                             ? hard[check_below(r, 7)]
                                             : (float)(check_below(r, 1024) + 0.37) / 1024.f;
}

/* A sample: its position in values, its share of the query's result, and the change of the position
 * with the offset. */
typedef struct sample {
    const fv_deform_level *level;
    double x, y, share, right, down;
} sample;

static sample sample_of(const check_case *c, const double *box, const double *offset,
                        const double *weight, uint32_t p)
{
    const uint32_t points = c->args.prob.dim[FV_DEFORM_POINTS];
    const uint32_t all = points * c->args.prob.dim[FV_DEFORM_LEVELS];
    sample s = {.level = (const fv_deform_level *)c->args.table + p / points};
    const bool centres = c->args.prob.flags & FV_FLAG_CENTRES;
    double sum = 0;
    for (uint32_t k = 0; k < all; k++)
        sum += exp(weight[k] - weight[p]);
    s.share = 1 / sum;
    s.right = (double)c->args.f[0] * (centres ? 1 : box[2] * s.level->width);
    s.down = (double)c->args.f[0] * (centres ? 1 : box[3] * s.level->height);
    s.x = box[0] * s.level->width + s.right * offset[2 * p] - 0.5;
    s.y = box[1] * s.level->height + s.down * offset[2 * p + 1] - 0.5;
    return s;
}

/* Returns the weight of a value at distance t, and sets the slope of the weight. */
static double tent(double t, double *slope)
{
    *slope = t >= -1 && t < 0 ? 1 : t >= 0 && t < 1 ? -1 : 0;
    return fmax(0, 1 - fabs(t));
}

/* Computes v.dout of a sample and its derivatives, or adds share dout to the values that it
 * reads. */
static void read_sample(const sample *s, uint32_t d, uint32_t ld, const double *values,
                        double *dvalues, const double *dout, double result[3])
{
    result[0] = result[1] = result[2] = 0;
    if (!(s->x > -1 && s->x < s->level->width && s->y > -1 && s->y < s->level->height))
        return;
    for (uint32_t line = 0; line < s->level->height; line++)
        for (uint32_t column = 0; column < s->level->width; column++) {
            double by_x, by_y, dot = 0;
            const double across = tent(s->x - column, &by_x), down = tent(s->y - line, &by_y);
            const size_t row = (s->level->first + (size_t)line * s->level->width + column) * ld;
            if (by_x == 0 || by_y == 0)
                continue;
            for (uint32_t i = 0; i < d; i++) {
                if (dvalues)
                    dvalues[row + i] += s->share * across * down * dout[i];
                else
                    dot += values[row + i] * dout[i];
            }
            result[0] += across * down * dot;
            result[1] += by_x * down * dot;
            result[2] += across * by_y * dot;
        }
}

static void deform_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const bool of_values = c->args.prob.op == FV_OP_DEFORM_GRAD_VALUES;
    const int box = of_values ? FV_VALUES_GRAD_BOX : FV_DEFORM_GRAD_BOX;
    const uint32_t *dim = c->args.prob.dim, heads = c->args.prob.heads, d = dim[FV_ATTN_D];
    const uint32_t n = dim[FV_DEFORM_POINTS] * dim[FV_DEFORM_LEVELS], ld = heads * d;
    if (of_values)
        for (size_t i = 0; i < (size_t)dim[FV_DIM_ROWS] * ld; i++)
            out[i] = 0;
    for (uint32_t r = 0; r < c->operand[box].rows; r++)
        for (uint32_t h = 0; h < heads; h++) {
            const double *at = in->of[box] + (size_t)r * c->operand[box].cols;
            const double *offset = in->of[box + 1] + ((size_t)r * heads + h) * 2 * n;
            const double *weight = in->of[box + 2] + ((size_t)r * heads + h) * n;
            const double *dout = in->of[box + 3] + (size_t)r * ld + h * d;
            double *doffset = out + (size_t)r * heads * 3 * n + h * 2 * n;
            double *dweight = out + (size_t)r * heads * 3 * n + heads * 2 * n + h * n, mean = 0;
            for (uint32_t p = 0; p < n; p++) {
                const sample s = sample_of(c, at, offset, weight, p);
                double of[3];
                if (of_values) {
                    read_sample(&s, d, ld, NULL, out + h * d, dout, of);
                    continue;
                }
                read_sample(&s, d, ld, in->of[FV_DEFORM_GRAD_VALUES] + h * d, NULL, dout, of);
                doffset[2 * p] = of[1] ? s.share * s.right * of[1] : 0;
                doffset[2 * p + 1] = of[2] ? s.share * s.down * of[2] : 0;
                dweight[p] = of[0];
                mean += s.share * of[0];
            }
            for (uint32_t p = 0; !of_values && p < n; p++)
                dweight[p] = sample_of(c, at, offset, weight, p).share * (dweight[p] - mean);
        }
}

static void define_deform(check_case *c)
{
    const uint32_t *dim = c->args.prob.dim, n = dim[FV_DEFORM_POINTS] * dim[FV_DEFORM_LEVELS];
    const bool of_values = c->args.prob.op == FV_OP_DEFORM_GRAD_VALUES;
    const uint32_t columns = c->args.prob.heads * (of_values ? dim[FV_ATTN_D] : 3 * n);
    const uint32_t split = of_values ? columns : c->args.prob.heads * 2 * n;
    const uint32_t list[] = {0, split, columns};
    check_gradient(c, deform_gradient, of_values ? 4. * dim[FV_DEFORM_QUERIES] * n : dim[FV_ATTN_D],
                   list);
}

/* ---- softmax attention of other rows ---- */

static const struct {
    uint32_t queries, keys, heads, d, dv, gap;
    bool hidden;
} attentions[] = {{1, 1, 1, 1, 1, 0, false},     {5, 9, 2, 3, 7, 1, true},
                  {7, 3, 1, 16, 16, 0, false},   {33, 67, 2, 33, 9, 3, true},
                  {17, 130, 3, 20, 20, 0, true}, {100, 1296, 8, 16, 16, 0, true}};
enum { ATTENTIONS = sizeof attentions / sizeof *attentions };

/* Sets the sizes of a gradient with a row for each query, or for each key. */
static void set_sizes(check_case *c, uint32_t index, uint32_t rows, uint32_t others)
{
    c->args.prob.heads = (uint16_t)attentions[index].heads;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ATTN_D] = attentions[index].d;
    c->args.prob.dim[FV_ATTN_DV] = attentions[index].dv;
    c->args.prob.dim[FV_ATTN_KEYS] = others;
    c->args.f[0] = 1.f / sqrtf((float)attentions[index].d);
}

static bool make_queries(check_case *c, uint32_t index)
{
    if (index >= ATTENTIONS)
        return false;
    const uint32_t n = attentions[index].queries, keys = attentions[index].keys;
    const uint32_t heads = attentions[index].heads, gap = attentions[index].gap;
    const uint32_t d = attentions[index].d, dv = attentions[index].dv;
    set_sizes(c, index, n, keys);
    check_matrix(c, FV_QUERIES_GRAD_Q, CHECK_ROW, n, heads * d, gap);
    check_matrix(c, FV_QUERIES_GRAD_K, CHECK_BASE, keys, heads * d, gap);
    check_matrix(c, FV_QUERIES_GRAD_V, CHECK_BASE, keys, heads * dv, gap);
    if (attentions[index].hidden)
        check_matrix(c, FV_QUERIES_GRAD_HIDDEN, CHECK_ROW, n, heads * (keys + 1), gap);
    check_matrix(c, FV_QUERIES_GRAD_FORWARD, CHECK_ROW, n, heads * dv, 2 * gap);
    check_matrix(c, FV_QUERIES_GRAD_DOUT, CHECK_ROW, n, heads * dv, gap);
    check_matrix(c, FV_QUERIES_GRAD_OUT, CHECK_ROW, n, heads * (d + 2), gap);
    bound(c);
    c->bench = index == ATTENTIONS - 1;
    return true;
}

static bool make_keys(check_case *c, uint32_t index)
{
    if (index >= ATTENTIONS)
        return false;
    const uint32_t n = attentions[index].queries, keys = attentions[index].keys;
    const uint32_t heads = attentions[index].heads, gap = attentions[index].gap;
    const uint32_t d = attentions[index].d, dv = attentions[index].dv;
    set_sizes(c, index, keys, n);
    check_matrix(c, FV_KEYS_GRAD_K, CHECK_ROW, keys, heads * d, gap);
    check_matrix(c, FV_KEYS_GRAD_V, CHECK_ROW, keys, heads * dv, gap);
    check_matrix(c, FV_KEYS_GRAD_Q, CHECK_BASE, n, heads * d, 2 * gap);
    if (attentions[index].hidden)
        check_matrix(c, FV_KEYS_GRAD_HIDDEN, CHECK_BASE, n, heads * (keys + 1), gap);
    check_matrix(c, FV_KEYS_GRAD_STATE, CHECK_BASE, n, 2 * heads, gap);
    check_matrix(c, FV_KEYS_GRAD_DOUT, CHECK_BASE, n, heads * dv, gap);
    check_matrix(c, FV_KEYS_GRAD_OUT, CHECK_ROW, keys, heads * (d + dv), gap);
    bound(c);
    c->bench = index == ATTENTIONS - 1;
    return true;
}

/* Operands of the attention, whose numbers differ between the two gradients. */
typedef struct attention {
    uint32_t queries, keys, heads, d, dv;
    const double *q, *k, *v, *hidden, *dout;
    double scale;
} attention;

static attention attention_of(const check_case *c, const check_doubles *in)
{
    const uint32_t *dim = c->args.prob.dim;
    const bool rows_are_keys = c->args.prob.op == FV_OP_SOFTMAX_GRAD_KV;
    const attention a = {.queries = dim[rows_are_keys ? FV_ATTN_KEYS : FV_DIM_ROWS],
                         .keys = dim[rows_are_keys ? FV_DIM_ROWS : FV_ATTN_KEYS],
                         .heads = c->args.prob.heads,
                         .d = dim[FV_ATTN_D],
                         .dv = dim[FV_ATTN_DV],
                         .q = in->of[rows_are_keys ? FV_KEYS_GRAD_Q : FV_QUERIES_GRAD_Q],
                         .k = in->of[rows_are_keys ? FV_KEYS_GRAD_K : FV_QUERIES_GRAD_K],
                         .v = in->of[rows_are_keys ? FV_KEYS_GRAD_V : FV_QUERIES_GRAD_V],
                         .hidden =
                             in->of[rows_are_keys ? FV_KEYS_GRAD_HIDDEN : FV_QUERIES_GRAD_HIDDEN],
                         .dout = in->of[rows_are_keys ? FV_KEYS_GRAD_DOUT : FV_QUERIES_GRAD_DOUT],
                         .scale = (double)c->args.f[0]};
    return a;
}

static double score(const attention *a, uint32_t h, uint32_t i, uint32_t j)
{
    double s = 0;
    for (uint32_t n = 0; n < a->d; n++)
        s += a->q[((size_t)i * a->heads + h) * a->d + n] *
             a->k[((size_t)j * a->heads + h) * a->d + n];
    s *= a->scale;
    return a->hidden ? s + a->hidden[((size_t)i * a->heads + h) * (a->keys + 1) + j] : s;
}

static double logarithm(const attention *a, uint32_t h, uint32_t i)
{
    double max = -(double)INFINITY, sum = 0;
    for (uint32_t j = 0; j < a->keys; j++)
        max = fmax(max, score(a, h, i, j));
    for (uint32_t j = 0; j < a->keys; j++)
        sum += exp(score(a, h, i, j) - max);
    return max + log(sum);
}

/* Returns dout_i.x_j of head h. */
static double met(const attention *a, const double *x, uint32_t h, uint32_t i, uint32_t j)
{
    double sum = 0;
    for (uint32_t n = 0; n < a->dv; n++)
        sum += a->dout[((size_t)i * a->heads + h) * a->dv + n] *
               x[((size_t)j * a->heads + h) * a->dv + n];
    return sum;
}

/* Hides some keys, as MASK_KEYS does. */
static void hide(check_case *c, check_random *r, int operand)
{
    check_operand *o = &c->operand[operand];
    for (uint32_t y = 0; o->kind && y < o->rows; y++)
        for (uint32_t x = 0; x < o->cols; x++)
            *check_value(c, operand, y, x) = check_below(r, 3) == 0 ? -8192.f : 0.f;
}

static void prepare_queries(check_case *c, check_random *r)
{
    hide(c, r, FV_QUERIES_GRAD_HIDDEN);
}

static void prepare_keys(check_case *c, check_random *r)
{
    check_doubles in;
    hide(c, r, FV_KEYS_GRAD_HIDDEN);
    check_doubles_of(&in, c);
    const attention a = attention_of(c, &in);
    for (uint32_t i = 0; i < a.queries; i++)
        for (uint32_t h = 0; h < a.heads; h++)
            *check_value(c, FV_KEYS_GRAD_STATE, i, h) = (float)logarithm(&a, h, i);
    check_doubles_free(&in);
}

static void queries_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const attention a = attention_of(c, in);
    for (uint32_t i = 0; i < a.queries; i++, out += a.heads * (a.d + 2))
        for (uint32_t h = 0; h < a.heads; h++) {
            const double all = logarithm(&a, h, i);
            const double mean = met(&a, in->of[FV_QUERIES_GRAD_FORWARD], h, i, i);
            for (uint32_t n = 0; n < a.d; n++)
                out[h * a.d + n] = 0;
            for (uint32_t j = 0; j < a.keys; j++) {
                const double ds =
                    a.scale * exp(score(&a, h, i, j) - all) * (met(&a, a.v, h, i, j) - mean);
                for (uint32_t n = 0; n < a.d; n++)
                    out[h * a.d + n] += ds * a.k[((size_t)j * a.heads + h) * a.d + n];
            }
            out[a.heads * a.d + h] = all;
            out[a.heads * (a.d + 1) + h] = mean;
        }
}

static void keys_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const attention a = attention_of(c, in);
    for (uint32_t j = 0; j < a.keys; j++, out += a.heads * (a.d + a.dv))
        for (uint32_t h = 0; h < a.heads; h++) {
            double *dk = out + h * a.d, *dv = out + a.heads * a.d + h * a.dv;
            for (uint32_t n = 0; n < a.d; n++)
                dk[n] = 0;
            for (uint32_t n = 0; n < a.dv; n++)
                dv[n] = 0;
            for (uint32_t i = 0; i < a.queries; i++) {
                const double *state = in->of[FV_KEYS_GRAD_STATE] + (size_t)i * 2 * a.heads;
                const double p = exp(score(&a, h, i, j) - state[h]);
                const double ds = a.scale * p * (met(&a, a.v, h, i, j) - state[a.heads + h]);
                for (uint32_t n = 0; n < a.d; n++)
                    dk[n] += ds * a.q[((size_t)i * a.heads + h) * a.d + n];
                for (uint32_t n = 0; n < a.dv; n++)
                    dv[n] += p * a.dout[((size_t)i * a.heads + h) * a.dv + n];
            }
        }
}

static void define_attention(check_case *c)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    const bool rows_are_keys = p->op == FV_OP_SOFTMAX_GRAD_KV;
    const uint32_t first = p->heads * d;
    const uint32_t list[] = {0, first, first + p->heads * (rows_are_keys ? dv : 1),
                             first + p->heads * (rows_are_keys ? dv : 2)};
    check_gradient(c, rows_are_keys ? keys_gradient : queries_gradient,
                   d + dv + p->dim[FV_ATTN_KEYS], list);
}

#define GRADIENT(maker, preparer, definer)                                                         \
    {                                                                                              \
        .make = maker, .prepare = preparer, .define = definer, .oracle = check_gradient_row,       \
        .release = check_gradient_release                                                          \
    }

const check_op check_groupnorm_grad = GRADIENT(make_norm, prepare_norm, define_norm);
const check_op check_groupnorm_grad_w =
    GRADIENT(make_norm_weights, prepare_norm, define_norm_weights);
const check_op check_pick_grad = {.make = make_pick, .prepare = number, .oracle = pick_oracle};
const check_op check_deform_grad = GRADIENT(make_deform_rows, place, define_deform);
const check_op check_deform_grad_values = GRADIENT(make_deform_values, place, define_deform);
const check_op check_softmax_grad_q = GRADIENT(make_queries, prepare_queries, define_attention);
const check_op check_softmax_grad_kv = GRADIENT(make_keys, prepare_keys, define_attention);
