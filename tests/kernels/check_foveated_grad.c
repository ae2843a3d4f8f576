/* check_foveated_grad.c: cases and definition of FOVEATED_GRAD. */
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/check_grad.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/oracle_fovea.h"
#include "train/ref/training.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t prefix, width, height, margin, heads, d, dv, gap;
    } sizes[] = {
        {0, 1, 1, 4, 1, 1, 1, 0},     {1, 5, 3, 1, 2, 3, 7, 1},     {1, 9, 17, 1, 1, 16, 16, 0},
        {5, 23, 21, 1, 2, 17, 9, 2},  {67, 16, 9, 2, 1, 40, 5, 0},  {0, 90, 7, 3, 1, 5, 70, 3},
        {1, 16, 16, 4, 3, 64, 64, 0}, {1, 37, 37, 4, 1, 64, 64, 0},
    };
    enum { SIZES = sizeof sizes / sizeof *sizes, BENCHED = 6 };
    if (index >= SIZES)
        return false;
    const uint32_t heads = sizes[index].heads, d = sizes[index].d, dv = sizes[index].dv;
    const uint32_t gap = sizes[index].gap;
    c->args.prob.dim[FV_FOVEA_MARGIN] = sizes[index].margin;
    const uint32_t rows =
        fovea_grid_set(c, sizes[index].prefix, sizes[index].width, sizes[index].height);
    const fovea_grid g = fovea_grid_of(c);
    const uint32_t cells = fovea_grid_cells(&g);
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = c->align = rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_DV] = dv;
    c->args.f[0] = 1.f / sqrtf((float)d);
    check_matrix(c, FV_FOVEATED_Q, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_FOVEATED_K, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_FOVEATED_V, CHECK_ROW, rows, heads * dv, gap);
    check_matrix(c, FV_FOVEATED_CELL_K, CHECK_BASE, cells, heads * d, 2 * gap);
    check_matrix(c, FV_FOVEATED_CELL_V, CHECK_BASE, cells, heads * dv, gap);
    check_matrix(c, FV_FOVEATED_GRAD_FORWARD, CHECK_ROW, rows, heads * dv, gap);
    check_matrix(c, FV_FOVEATED_GRAD_DOUT, CHECK_ROW, rows, heads * dv, 2 * gap);
    check_matrix(c, FV_FOVEATED_GRAD_OUT, CHECK_ROW, rows, heads * (2 * d + dv), gap);
    for (int i = 0; i < FV_FOVEATED_GRAD_OUT; i++)
        c->operand[i].huge = 4.f;
    c->part[0] = c->part[1] = d;
    c->part[2] = dv;
    c->bench = index >= BENCHED;
    return true;
}

/* One head of a case. Gradients of keys and values are stored by operand and row, as in a key's
 * spots.
 */
typedef struct head {
    const check_doubles *in;
    double *grad[FV_FOVEATED_GRAD_FORWARD];
    uint32_t number, heads, d, dv;
    double scale;
} head;

/* Returns the head's channels of a row. */
static double *at(const head *h, double *const *of, int operand, uint32_t row)
{
    const bool values = operand == FV_FOVEATED_V || operand == FV_FOVEATED_CELL_V ||
                        operand >= FV_FOVEATED_GRAD_FORWARD;
    const uint32_t n = values ? h->dv : h->d;
    return of[operand] + ((size_t)row * h->heads + h->number) * n;
}

static double dot(const double *a, const double *b, uint32_t n)
{
    double sum = 0.;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void axpy(double *y, const double *x, uint32_t n, double factor)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* Computes the attention weights of a query. */
static void weigh(const head *h, uint32_t row, const fovea_key *seen, uint32_t keys, double *p)
{
    const double *q = at(h, h->in->of, FV_FOVEATED_Q, row);
    double max = -INFINITY, sum = 0.;
    for (uint32_t j = 0; j < keys; j++) {
        const double *k = at(h, h->in->of, seen[j].k.operand, seen[j].k.row);
        p[j] = h->scale * dot(q, k, h->d) + log(seen[j].tokens);
        max = fmax(max, p[j]);
    }
    for (uint32_t j = 0; j < keys; j++)
        sum += p[j] = exp(p[j] - max);
    for (uint32_t j = 0; j < keys; j++)
        p[j] /= sum;
}

/* Adds the contribution of one query to all gradients. */
static void add_query(const head *h, uint32_t row, const fovea_key *seen, uint32_t keys,
                      const double *p)
{
    const double *q = at(h, h->in->of, FV_FOVEATED_Q, row);
    const double *dout = at(h, h->in->of, FV_FOVEATED_GRAD_DOUT, row);
    const double whole = dot(dout, at(h, h->in->of, FV_FOVEATED_GRAD_FORWARD, row), h->dv);
    for (uint32_t j = 0; j < keys; j++) {
        const double *k = at(h, h->in->of, seen[j].k.operand, seen[j].k.row);
        const double *v = at(h, h->in->of, seen[j].v.operand, seen[j].v.row);
        const double ds = h->scale * p[j] * (dot(dout, v, h->dv) - whole);
        axpy(at(h, h->grad, FV_FOVEATED_Q, row), k, h->d, ds);
        axpy(at(h, h->grad, seen[j].k.operand, seen[j].k.row), q, h->d, ds);
        axpy(at(h, h->grad, seen[j].v.operand, seen[j].v.row), dout, h->dv, p[j]);
    }
}

/* Distributes the gradient of each cell equally over its tokens. */
static void divide_cells(const head *h, const fovea_grid *g)
{
    fovea_area a;
    for (uint32_t i = 0; fovea_grid_cell(g, i, &a) > 0; i++)
        for (int64_t y = a.y0; y < a.y1; y++)
            for (int64_t x = a.x0; x < a.x1; x++) {
                const uint32_t row = g->prefix + (uint32_t)(y * g->width + x);
                const double share = 1. / fovea_area_tokens(&a);
                axpy(at(h, h->grad, FV_FOVEATED_K, row), at(h, h->grad, FV_FOVEATED_CELL_K, i),
                     h->d, share);
                axpy(at(h, h->grad, FV_FOVEATED_V, row), at(h, h->grad, FV_FOVEATED_CELL_V, i),
                     h->dv, share);
            }
}

static head head_of(const check_case *c, const check_doubles *in)
{
    return (head){.in = in,
                  .heads = c->args.prob.heads,
                  .d = c->args.prob.dim[FV_ATTN_D],
                  .dv = c->args.prob.dim[FV_ATTN_DV],
                  .scale = c->args.f[0]};
}

/* A function that is called for each query of each head, with the weights of the visible keys. */
typedef void visitor(const head *h, uint32_t row, const fovea_key *seen, uint32_t keys,
                     const double *p);

static void visit_queries(const check_case *c, head *h, const fovea_grid *g, visitor *visit)
{
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], most = rows + fovea_grid_cells(g);
    double *p = check_must(malloc(most * sizeof *p));
    fovea_key *seen = check_must(malloc(most * sizeof *seen));
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t keys = fovea_grid_keys(g, r, seen);
        for (h->number = 0; h->number < h->heads; h->number++) {
            weigh(h, r, seen, keys, p);
            visit(h, r, seen, keys, p);
        }
    }
    free(seen);
    free(p);
}

/* Stores the mean of a query in operand FORWARD. */
static void put_mean(const head *h, uint32_t row, const fovea_key *seen, uint32_t keys,
                     const double *p)
{
    double *out = at(h, h->in->of, FV_FOVEATED_GRAD_FORWARD, row);
    for (uint32_t i = 0; i < h->dv; i++)
        out[i] = 0.;
    for (uint32_t j = 0; j < keys; j++)
        axpy(out, at(h, h->in->of, seen[j].v.operand, seen[j].v.row), h->dv, p[j]);
}

static void prepare(check_case *c, check_random *r)
{
    const check_operand *o = &c->operand[FV_FOVEATED_GRAD_FORWARD];
    const fovea_grid g = fovea_grid_of(c);
    check_doubles in;
    (void)r;
    check_doubles_of(&in, c);
    head h = head_of(c, &in);
    visit_queries(c, &h, &g, put_mean);
    for (uint32_t y = 0; y < o->rows; y++)
        for (uint32_t x = 0; x < o->cols; x++)
            *check_value(c, FV_FOVEATED_GRAD_FORWARD, y, x) =
                (float)in.of[FV_FOVEATED_GRAD_FORWARD][(size_t)y * o->cols + x];
    check_doubles_free(&in);
}

static void gradient(const check_case *c, const check_doubles *in, double *out)
{
    const fovea_grid g = fovea_grid_of(c);
    head h = head_of(c, in);
    for (int o = 0; o < FV_FOVEATED_GRAD_FORWARD; o++)
        h.grad[o] =
            check_must(calloc((size_t)c->operand[o].rows * c->operand[o].cols, sizeof *h.grad[o]));
    visit_queries(c, &h, &g, add_query);
    for (h.number = 0; h.number < h.heads; h.number++)
        divide_cells(&h, &g);
    for (uint32_t r = 0; r < c->args.prob.dim[FV_DIM_ROWS]; r++)
        for (int o = FV_FOVEATED_Q; o <= FV_FOVEATED_V; o++)
            for (uint32_t i = 0; i < c->operand[o].cols; i++)
                *out++ = h.grad[o][(size_t)r * c->operand[o].cols + i];
    for (int o = 0; o < FV_FOVEATED_GRAD_FORWARD; o++)
        free(h.grad[o]);
}

static void define(check_case *c)
{
    check_gradient_heads(c, gradient);
}

const check_op check_foveated_grad = {.make = make,
                                      .prepare = prepare,
                                      .define = define,
                                      .oracle = check_gradient_row,
                                      .release = check_gradient_release};
