/* arena.c: where every value lies.
 *
 * Each region is one buffer; values that are alive at the same time get disjoint ranges of it, the
 * others share. Largest first, each into the lowest gap that fits.
 *
 *     RESIDUAL  what crosses a sweep: the residual stream; K and V of softmax attention
 *     STATES    partial and merged states
 *     KEPT      states that outlive a frame: of a scan
 *     CHUNKS    what lives inside a stepwise sweep, all rows of it
 *     STAGING   the resized picture
 *     LOCAL     what lives inside a streamed sweep: rows of one chunk, or a ring of grid rows; one
 *               block per worker
 */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

#define ALIGN 64
#define LOCAL FV_REGIONS

struct tenant {
    uint64_t size, offset;
    uint32_t first, last; /* steps, inclusive */
    uint32_t region;
    uint32_t sweep; /* LOCAL: blocks of different sweeps overlap freely */
    fv_value *value;
};

static uint64_t row_bytes(const fv_value *v)
{
    return (uint64_t)v->ld * v->elem;
}

static void admit(const fovea_plan *p, struct tenant *t, fv_value *v)
{
    const fv_plan_sweep *w = &p->sweep[v->first_sweep];
    uint64_t rows = v->need;
    *t = (struct tenant){.value = v, .first = v->first_step, .last = v->last_step};
    if (v->kind == FV_VALUE_PARTIAL || v->kind == FV_VALUE_STATE) {
        t->region = FV_REGION_STATES;
        rows = v->kind == FV_VALUE_PARTIAL ? v->rows : 1;
    } else if (v->kind == FV_VALUE_KEPT) {
        t->region = FV_REGION_KEPT;
        rows = 1;
    } else if (v->staging) {
        t->region = FV_REGION_STAGING;
    } else if (v->first_sweep != v->last_sweep) {
        t->region = FV_REGION_RESIDUAL;
    } else if (w->streamed) {
        t->region = LOCAL;
        t->sweep = v->first_sweep;
        rows = rows < w->chunk ? rows : w->chunk;
        if (w->width)
            rows = (uint64_t)v->ring * w->width;
        if (v->lasting) {
            t->first = w->first;
            t->last = w->first + w->count - 1;
        }
    } else {
        t->region = FV_REGION_CHUNKS;
    }
    if (t->region != LOCAL && t->region != FV_REGION_CHUNKS) {
        /* Workers are at different steps of a streamed sweep at the same time. */
        const fv_plan_sweep *end = &p->sweep[v->last_sweep];
        t->first = w->first;
        t->last = end->first + end->count - 1;
    }
    if (t->region == FV_REGION_KEPT) {
        t->first = 0;
        t->last = UINT32_MAX;
    }
    t->size = fv_size_add(fv_size_mul(rows, row_bytes(v)), ALIGN - 1) / ALIGN * ALIGN;
}

static int by_size(const void *a, const void *b)
{
    const struct tenant *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static bool meet(const struct tenant *a, const struct tenant *b)
{
    if (a->region != b->region || (a->region == LOCAL && a->sweep != b->sweep))
        return false;
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which tenant n does not touch tenants 0..n-1 that it meets. */
static uint64_t lowest_gap(const struct tenant *t, uint32_t n)
{
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < n; i++) {
            if (!meet(&t[i], &t[n]) || offset >= fv_size_add(t[i].offset, t[i].size) ||
                t[i].offset >= fv_size_add(offset, t[n].size))
                continue;
            offset = t[i].offset + t[i].size;
            moved = true;
        }
    }
    return offset;
}

fovea_status fv_arena_place(fovea_plan *p)
{
    void *memory;
    FV_TRY(fv_mem_array(&memory, p->b.values, sizeof(struct tenant), FV_MEM_PLAN,
                        "the plan's memory map"));
    struct tenant *tenant = memory;
    uint32_t tenants = 0;
    uint64_t size[FV_REGIONS + 1] = {0};
    for (uint32_t i = 0; i < p->b.values; i++) {
        fv_value *v = &p->b.value[i];
        v->ref = (fv_ref){0};
        if (v->kind == FV_VALUE_INPUT || v->kind == FV_VALUE_OUTPUT) {
            v->ref.space = FV_SPACE_EXTERNAL;
            v->ref.slot = v->slot;
        } else if (v->first_step != UINT32_MAX) {
            admit(p, &tenant[tenants++], v);
        }
    }
    qsort(tenant, tenants, sizeof *tenant, by_size);
    for (uint32_t i = 0; i < tenants; i++) {
        struct tenant *t = &tenant[i];
        t->offset = lowest_gap(tenant, i);
        t->value->ref.space = t->region == LOCAL ? FV_SPACE_LOCAL : FV_SPACE_BUFFER;
        t->value->ref.offset = t->offset;
        t->value->ref.mem = t->region == LOCAL ? NULL : &p->region[t->region];
        uint64_t end = fv_size_add(t->offset, t->size);
        if (end > size[t->region])
            size[t->region] = end;
    }
    memcpy(p->region_size, size, sizeof p->region_size);
    p->local = size[LOCAL];
    fv_mem_free(tenant);
    return FOVEA_OK;
}
