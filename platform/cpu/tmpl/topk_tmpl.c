/* topk_tmpl.c: implements ROW_MAX and TOPK. */
#include "ops/contracts/rows.h"
#include "ops/ref/ref_topk.h"

#include <math.h>

#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/vec.h"

void FV_NAME(fv_k_row_max_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ROW_MAX_IN] + r * a->ld[FV_ROW_MAX_IN];
        fv_v max = fv_set(-INFINITY);
        for (size_t i = 0; i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            const fv_v x = fv_blend_n(fv_load_n(in + i, lanes), max, lanes);
            max = fv_sel_lt(max, x, x, max); /* NaN is not above anything */
        }
        ((float *)c->p[FV_ROW_MAX_OUT])[r * a->ld[FV_ROW_MAX_OUT]] = fv_hmax(max);
    }
}

/* The rows chosen so far, as a heap: each row ranks after its two children, so the first is the
 * worst. */
typedef struct heap {
    uint32_t *row, count;
    const float *in;
    size_t ld;
} heap;

static bool before(const heap *h, uint32_t i, uint32_t k)
{
    return fv_topk_before(h->in[i * h->ld], i, h->in[k * h->ld], k);
}

/* Replaces the first row by `row` and restores the heap. */
static void sink(heap *h, uint32_t row)
{
    uint32_t at = 0;
    for (uint32_t child = 1; child < h->count; child = 2 * at + 1) {
        if (child + 1 < h->count && before(h, h->row[child], h->row[child + 1]))
            child++;
        if (before(h, h->row[child], row))
            break;
        h->row[at] = h->row[child];
        at = child;
    }
    h->row[at] = row;
}

static void rise(heap *h, uint32_t row)
{
    uint32_t at = h->count++;
    for (; at > 0 && before(h, h->row[(at - 1) / 2], row); at = (at - 1) / 2)
        h->row[at] = h->row[(at - 1) / 2];
    h->row[at] = row;
}

void FV_NAME(fv_k_topk_f32)(const fv_args *a, const fv_call *c)
{
    const uint32_t *table = a->table, candidates = a->u[0], end = c->row0 + c->rows;
    const size_t ld = a->ld[FV_TOPK_OUT];
    heap h = {.row = c->scratch, .in = c->p[FV_TOPK_IN], .ld = a->ld[FV_TOPK_IN]};
    float *out = c->p[FV_TOPK_OUT];
    for (uint32_t k = 0; k < candidates; k++) {
        const uint32_t row = table ? table[k] : k;
        if (h.count < end)
            rise(&h, row);
        else if (before(&h, row, h.row[0]))
            sink(&h, row);
    }
    for (uint32_t rank = end; rank-- > c->row0;) {
        const bool there = rank < h.count;
        out[(rank - c->row0) * ld] = there ? (float)h.row[0] : -1.f;
        if (there && h.count > 1) {
            h.count--;
            sink(&h, h.row[h.count]);
        }
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return p->dim[FV_DIM_ROWS] * sizeof(uint32_t);
}

const fv_kernel_hooks FV_NAME(fv_h_topk_f32) = {.scratch = scratch_bytes};
