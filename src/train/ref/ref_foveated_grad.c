/* ref_foveated_grad.c: FOVEATED_GRAD: the gradients of q, k and v of foveated attention, whose
 * cells are the means that CELLS computes; see ops/foveated.h.
 *
 *   dim     rows (= tokens), d, dv, tokens; heads; width, height of the grid, margin
 *   Q, K    ROW, heads * d wide        V, FORWARD, DOUT  ROW, heads * dv wide
 *   CELL_K, CELL_V                     WHOLE, rows of CELLS of K and of V
 *   OUT     ROW, heads * (2 d + dv) wide: gradients of q, of k, of v; must not be another operand
 *   FORWARD  the result of FOVEATED
 *   f[0]    scale
 *   col0, cols  heads; a call covers all rows
 *
 *   p_ij as in FOVEATED, divided by their sum;   ds_ij = p_ij (dout_i.v_j - dout_i.out_i)
 *   dq_i = f0 sum_j ds_ij k_j;   dk_j = f0 sum_i ds_ij q_i;   dv_j = sum_i p_ij dout_i
 *
 * The sums are over the keys j that query i sees. The gradient of every cell that contains a token
 * is divided by the cell's number of tokens and added to the token's gradient.
 *
 * Arithmetic is float32, with separate sums for blocks of tokens. A kernel stores at most the
 * scores of one block of queries and the keys that these queries see. */
#include <math.h>
#include <string.h>

#include "ops/foveated.h"
#include "train/ref/ref_vectors.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

static uint32_t columns(const fv_problem *p)
{
    return p->heads * (2 * p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]);
}

static double flops(const fv_problem *p)
{
    const fv_fovea f = fv_fovea_of(p);
    return (double)p->heads * p->dim[FV_DIM_ROWS] * fv_fovea_mean_keys(&f) *
           (2. * (3. * p->dim[FV_ATTN_D] + 2. * p->dim[FV_ATTN_DV]) + 12);
}

const fv_op fv_op_foveated_grad = {
    .span = FV_SPAN_SCAN,
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"tokens", FV_DIM_SAME},
            [FV_FOVEA_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_FOVEA_HEIGHT] = {"height", FV_DIM_TOKENS}, [FV_FOVEA_MARGIN] = {"margin"}},
    .operand = {[FV_FOVEATED_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_FOVEATED_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_FOVEATED_V] = {"V", FV_ATTN_DV, .heads = true},
                [FV_FOVEATED_CELL_K] = {"CELL_K", FV_ATTN_D, .heads = true},
                [FV_FOVEATED_CELL_V] = {"CELL_V", FV_ATTN_DV, .heads = true},
                [FV_FOVEATED_GRAD_FORWARD] = {"FORWARD", FV_ATTN_DV, .heads = true},
                [FV_FOVEATED_GRAD_DOUT] = {"DOUT", FV_ATTN_DV, .heads = true},
                [FV_FOVEATED_GRAD_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
    .terms = fv_terms_softmax,
    .joint = true,
};

enum { BLOCK = FV_FOVEA_BLOCK * FV_FOVEA_BLOCK };

/* One head; ld is as in fv_args. dcell: gradients of the keys and values of cells, rows of d + dv
 * values. own: a buffer for the gradients of one key. */
typedef struct head {
    const float *row[FV_FOVEATED_GRAD_OUT];
    float *dq, *dk, *dv, *dcell, *own;
    const uint32_t *ld;
    fv_fovea fovea;
    size_t d, width_v; /* width_v: number of value channels */
    float scale;
} head;

typedef struct query {
    const float *q, *dout;
    float *dq, max, sum, whole; /* whole: dout.out */
} query;

typedef struct key {
    const float *k, *v;
    float *dk, *dv, bias;
} key;

static const float *row_of(const head *h, int operand, size_t row)
{
    return h->row[operand] + row * h->ld[operand];
}

static query query_of(const head *h, size_t row)
{
    const float *dout = row_of(h, FV_FOVEATED_GRAD_DOUT, row);
    return (query){.q = row_of(h, FV_FOVEATED_Q, row),
                   .dout = dout,
                   .dq = h->dq + row * h->ld[FV_FOVEATED_GRAD_OUT],
                   .whole = fv_ref_dot(dout, row_of(h, FV_FOVEATED_GRAD_FORWARD, row), h->width_v)};
}

static key key_of(const head *h, uint32_t level, uint32_t row)
{
    const size_t ld = h->ld[FV_FOVEATED_GRAD_OUT];
    if (level == 0)
        return (key){row_of(h, FV_FOVEATED_K, row), row_of(h, FV_FOVEATED_V, row), h->dk + row * ld,
                     h->dv + row * ld, 0.f};
    float *dcell = h->dcell + row * (h->d + h->width_v);
    return (key){row_of(h, FV_FOVEATED_CELL_K, row), row_of(h, FV_FOVEATED_CELL_V, row), dcell,
                 dcell + h->d, logf((float)fv_fovea_tokens(&h->fovea, row))};
}

static float score(const head *h, const query *q, const key *k)
{
    return h->scale * fv_ref_dot(q->q, k->k, h->d) + k->bias;
}

/* Processes a query and a key in one of three rounds. */
typedef void visitor(const head *h, query *q, const key *k);

static void find_max(const head *h, query *q, const key *k)
{
    q->max = fmaxf(q->max, score(h, q, k));
}

static void find_sum(const head *h, query *q, const key *k)
{
    q->sum += expf(score(h, q, k) - q->max);
}

static void differentiate(const head *h, query *q, const key *k)
{
    const float p = expf(score(h, q, k) - q->max) / q->sum;
    const float ds = h->scale * p * (fv_ref_dot(q->dout, k->v, h->width_v) - q->whole);
    fv_ref_axpy(q->dq, k->k, h->d, ds);
    fv_ref_axpy(h->own, q->q, h->d, ds);
    fv_ref_axpy(h->own + h->d, q->dout, h->width_v, p);
}

static void visit_keys(const head *h, query *q, size_t n, fv_fovea_walk walk, visitor *visit)
{
    fv_fovea_run run;
    while (run = fv_fovea_next(&walk), run.count > 0)
        for (uint32_t j = run.row; j < run.row + run.count; j++) {
            const key k = key_of(h, run.level, j);
            memset(h->own, 0, (h->d + h->width_v) * sizeof *h->own);
            for (size_t i = 0; i < n; i++)
                visit(h, &q[i], &k);
            fv_ref_axpy(k.dk, h->own, h->d, 1.f);
            fv_ref_axpy(k.dv, h->own + h->d, h->width_v, 1.f);
        }
}

static void block(const head *h, query *q, size_t n, fv_fovea_walk walk)
{
    for (size_t i = 0; i < n; i++) {
        q[i].max = -INFINITY;
        memset(q[i].dq, 0, h->d * sizeof(float));
    }
    visit_keys(h, q, n, walk, find_max);
    visit_keys(h, q, n, walk, find_sum);
    visit_keys(h, q, n, walk, differentiate);
}

static void prefix(const head *h)
{
    fv_fovea_walk walk;
    fv_fovea_begin_prefix(&walk, &h->fovea);
    for (uint32_t row = 0; row < h->fovea.prefix;) {
        query q[BLOCK];
        size_t n = 0;
        while (n < BLOCK && row < h->fovea.prefix)
            q[n++] = query_of(h, row++);
        block(h, q, n, walk);
    }
}

static void block_at(const head *h, uint32_t top, uint32_t left)
{
    const fv_fovea *f = &h->fovea;
    query q[BLOCK];
    size_t n = 0;
    fv_fovea_walk walk;
    fv_fovea_begin(&walk, f, top, left);
    for (uint32_t y = top; y < f->height && y < top + FV_FOVEA_BLOCK; y++)
        for (uint32_t x = left; x < f->width && x < left + FV_FOVEA_BLOCK; x++)
            q[n++] = query_of(h, f->prefix + (size_t)y * f->width + x);
    block(h, q, n, walk);
}

/* Distributes the gradients of cells to their tokens. */
static void divide_cells(const head *h)
{
    const fv_fovea *f = &h->fovea;
    const size_t ld = h->ld[FV_FOVEATED_GRAD_OUT];
    for (uint32_t i = 0; i < fv_fovea_first(f, f->levels + 1); i++) {
        const fv_fovea_area cell = fv_fovea_cell(f, i);
        const float *from = h->dcell + i * (h->d + h->width_v);
        const float share = 1.f / (float)fv_fovea_tokens(f, i);
        for (uint32_t y = cell.y0; y < cell.y1; y++)
            for (uint32_t x = cell.x0; x < cell.x1; x++) {
                const size_t row = f->prefix + (size_t)y * f->width + x;
                fv_ref_axpy(h->dk + row * ld, from, h->d, share);
                fv_ref_axpy(h->dv + row * ld, from + h->d, h->width_v, share);
            }
    }
}

static head head_of(const fv_args *a, const fv_call *c, size_t number)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV], heads = a->prob.heads;
    float *out = c->p[FV_FOVEATED_GRAD_OUT];
    head h = {.dq = out + number * d,
              .dk = out + (heads + number) * d,
              .dv = out + 2 * heads * d + number * dv,
              .own = c->scratch,
              .ld = a->ld,
              .fovea = fv_fovea_of(&a->prob),
              .d = d,
              .width_v = dv,
              .scale = a->f[0]};
    for (int i = 0; i < FV_FOVEATED_GRAD_OUT; i++) {
        const bool values =
            i == FV_FOVEATED_V || i == FV_FOVEATED_CELL_V || i >= FV_FOVEATED_GRAD_FORWARD;
        h.row[i] = (const float *)c->p[i] + number * (values ? dv : d);
    }
    h.dcell = h.own + d + dv;
    return h;
}

/* Returns the bytes for the gradients of one key and of all cells. */
static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    const fv_fovea f = fv_fovea_of(p);
    (void)knobs, (void)rows;
    return (1 + (size_t)fv_fovea_first(&f, f.levels + 1)) *
           ((size_t)p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]) * sizeof(float);
}

void fv_k_foveated_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    for (size_t i = c->col0; i < (size_t)c->col0 + c->cols; i++) {
        const head h = head_of(a, c, i);
        memset(c->scratch, 0, scratch_bytes(&a->prob, &a->knobs, c->rows));
        for (size_t r = 0; r < c->rows; r++) {
            memset(h.dk + r * a->ld[FV_FOVEATED_GRAD_OUT], 0, h.d * sizeof(float));
            memset(h.dv + r * a->ld[FV_FOVEATED_GRAD_OUT], 0, h.width_v * sizeof(float));
        }
        prefix(&h);
        for (uint32_t y = 0; y < h.fovea.height; y += FV_FOVEA_BLOCK)
            for (uint32_t x = 0; x < h.fovea.width; x += FV_FOVEA_BLOCK)
                block_at(&h, y, x);
        divide_cells(&h);
    }
}

const fv_kernel_hooks fv_h_foveated_grad_f32_ref = {.scratch = scratch_bytes};
