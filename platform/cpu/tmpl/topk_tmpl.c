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

/* The places chosen so far, as a heap: each ranks after its two children, so the first is the
 * worst.
 */
typedef struct heap {
    uint32_t *place, count;
    const fv_args *args;
    const fv_call *call;
} heap;

static bool before(const heap *h, uint32_t i, uint32_t k)
{
    return fv_topk_before(fv_topk_value(h->args, h->call, i), i, fv_topk_value(h->args, h->call, k),
                          k);
}

/* Replaces the first place by `place` and restores the heap. */
static void sink(heap *h, uint32_t place)
{
    uint32_t at = 0;
    for (uint32_t child = 1; child < h->count; child = 2 * at + 1) {
        if (child + 1 < h->count && before(h, h->place[child], h->place[child + 1]))
            child++;
        if (before(h, h->place[child], place))
            break;
        h->place[at] = h->place[child];
        at = child;
    }
    h->place[at] = place;
}

static void rise(heap *h, uint32_t place)
{
    uint32_t at = h->count++;
    for (; at > 0 && before(h, h->place[(at - 1) / 2], place); at = (at - 1) / 2)
        h->place[at] = h->place[(at - 1) / 2];
    h->place[at] = place;
}

void FV_NAME(fv_k_topk_f32)(const fv_args *a, const fv_call *c)
{
    const uint32_t *table = a->table, candidates = a->u[0], end = c->row0 + c->rows;
    const size_t ld = a->ld[FV_TOPK_OUT];
    heap h = {.place = c->scratch, .args = a, .call = c};
    float *out = c->p[FV_TOPK_OUT];
    for (uint32_t k = 0; k < candidates; k++) {
        const uint32_t place = table ? table[k] : k;
        if (h.count < end)
            rise(&h, place);
        else if (before(&h, place, h.place[0]))
            sink(&h, place);
    }
    for (uint32_t rank = end; rank-- > c->row0;) {
        const bool there = rank < h.count;
        out[(rank - c->row0) * ld] = there ? (float)h.place[0] : -1.f;
        if (there && h.count > 1) {
            h.count--;
            sink(&h, h.place[h.count]);
        }
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return p->dim[FV_DIM_ROWS] * sizeof(uint32_t);
}

const fv_kernel_hooks FV_NAME(fv_h_topk_f32) = {.scratch = scratch_bytes};
