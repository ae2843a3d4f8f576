/* arena.c: places every value in memory.
 *
 * Values whose lifetimes overlap get disjoint ranges of their region; others share memory. The
 * largest is placed first, each into the lowest gap that fits. A region is one buffer; on a device
 * that limits the size of buffers it is cut into banks of that size, and a value is in one of them.
 *
 *     RESIDUAL  values that cross a sweep: the residual stream; K and V of softmax attention
 *     STATES    partial and merged states
 *     KEPT      states that outlive a frame: of a scan
 *     CHUNKS    values inside a stepwise sweep, all of their rows
 *     STAGING   the resized picture
 *     LOCAL     values inside a streamed sweep: rows of one chunk, a ring of grid rows, or rows of
 *               a band; one block per worker. With several workers the blocks of a sweep are placed
 *               in RESIDUAL, in ranges that other sweeps use, where they fit
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/plan.h"

#define ALIGN 64
#define LOCAL FV_REGION_LOCAL

struct tenant {
    uint64_t size, offset;
    uint64_t frame_stride; /* stride between the frames of a batch in bytes; 0: frames share the
                              memory */
    uint32_t first, last;  /* first and last step, inclusive */
    uint32_t region;
    uint32_t sweep;        /* LOCAL: the sweep; blocks of different sweeps may overlap */
    fv_value_place *place; /* place of a value, and of the values that reuse it (in_place.c); or
                              NULL */
    fv_ref *ref;           /* reference to set if `place` is NULL */
};

/* Returns whether values live for the whole sweep. In a streamed sweep they must, because workers
 * run different steps at the same time. In a sweep that could be banded but runs step by step, the
 * values are too large for that. */
static bool lives_whole_sweeps(const fv_plan_sweep *w)
{
    return w->streamed || !w->bands;
}

static uint32_t last_step(const fv_plan_candidate *c, const fv_value_life *l)
{
    const fv_plan_sweep *end = &c->sweep[l->last_sweep];
    return lives_whole_sweeps(end) ? end->first + end->count - 1 : l->last_step;
}

/* Gives every frame of a batch its own copy of the value, one after the other, so that no frame
 * overwrites data that another frame has yet to read. Frames share LOCAL, because a worker ends a
 * unit of one frame before it begins the next. Plans with KEPT values have no batches. */
static void repeat(const fovea_plan *p, struct tenant *t, uint64_t rows, const fv_value *v)
{
    t->size = fv_size_add(fv_size_mul(rows, fv_value_stride(v)), ALIGN - 1) / ALIGN * ALIGN;
    if (p->info.count == 1 || t->region == LOCAL || t->region == FV_REGION_KEPT)
        return;
    t->frame_stride = t->size;
    t->size = fv_size_mul(t->size, p->info.count);
}

static void admit(const fovea_plan *p, const fv_plan_candidate *c, struct tenant *t, uint32_t id)
{
    const fv_value *v = &p->graph.value[id];
    const fv_value_life *l = &p->cut.life[id];
    fv_value_place *place = &c->place[id];
    const fv_plan_sweep *w = &c->sweep[l->first_sweep];
    uint64_t rows = v->need;
    *t = (struct tenant){.place = place, .first = l->first_step, .last = l->last_step};
    if (v->kind == FV_VALUE_PARTIAL || v->kind == FV_VALUE_STATE) {
        t->region = FV_REGION_STATES;
        rows = v->kind == FV_VALUE_PARTIAL ? place->groups : 1;
    } else if (v->kind == FV_VALUE_KEPT) {
        t->region = FV_REGION_KEPT;
        rows = 1;
    } else if (v->staging) {
        t->region = FV_REGION_STAGING;
    } else if (l->first_sweep != l->last_sweep) {
        t->region = FV_REGION_RESIDUAL;
    } else if (w->streamed) {
        t->region = LOCAL;
        t->sweep = l->first_sweep;
        if (w->bands)
            rows = l->band_rows;
        else if (w->width)
            rows = (uint64_t)place->ring * w->width;
        else
            rows = rows < w->chunk ? rows : w->chunk;
        if (place->persistent) {
            t->first = w->first;
            t->last = w->first + w->count - 1;
        }
    } else {
        /* In a sweep that could be banded, large values share memory with values that cross sweeps.
         */
        t->region = w->bands ? FV_REGION_RESIDUAL : FV_REGION_CHUNKS;
    }
    if (t->region != LOCAL && t->region != FV_REGION_CHUNKS) {
        if (lives_whole_sweeps(w))
            t->first = w->first;
        t->last = last_step(c, l);
        for (fv_id by = place->reused_by; by >= 0; by = c->place[by].reused_by)
            t->last = last_step(c, &p->cut.life[by]);
    }
    if (t->region == FV_REGION_KEPT) {
        t->first = 0;
        t->last = UINT32_MAX;
    }
    repeat(p, t, rows, v);
}

/* Adds the memory for the saved borders of a value that another value overwrites. */
static void admit_border(const fovea_plan *p, const fv_plan_candidate *c, struct tenant *t,
                         uint32_t id)
{
    fv_value_place *place = &c->place[id];
    const fv_plan_sweep *w = &c->sweep[p->cut.life[id].last_sweep];
    const uint64_t rows = 2 * (uint64_t)w->runs * place->saved_rows;
    *t = (struct tenant){.first = w->first,
                         .last = w->first + w->count - 1,
                         .region = FV_REGION_RESIDUAL,
                         .ref = &place->saved};
    repeat(p, t, rows, &p->graph.value[id]);
}

static int by_size(const void *a, const void *b)
{
    const struct tenant *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    /* Keeps the order of values, so that plans with the same states place them identically. */
    return x->place < y->place ? -1 : x->place > y->place;
}

static bool alive_together(const struct tenant *a, const struct tenant *b)
{
    if (a->region != b->region || (a->region == LOCAL && a->sweep != b->sweep))
        return false;
    return a->first <= b->last && b->first <= a->last;
}

/* Returns the lowest offset at which tenant n does not cross a bank boundary and overlaps none of
 * the tenants 0..n-1 that are alive at the same time. */
static uint64_t lowest_gap(const struct tenant *t, uint32_t n, uint64_t bank)
{
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        if (offset % bank > bank - t[n].size)
            offset += bank - offset % bank;
        for (uint32_t i = 0; i < n; i++) {
            if (!alive_together(&t[i], &t[n]) || offset >= fv_size_add(t[i].offset, t[i].size) ||
                t[i].offset >= fv_size_add(offset, t[n].size))
                continue;
            offset = t[i].offset + t[i].size;
            moved = true;
        }
    }
    return offset;
}

/* Lists the values that need a place. If values are too large for any bank, records the largest of
 * them in c->oversize. */
static uint32_t list_tenants(const fovea_plan *p, fv_plan_candidate *c, struct tenant *tenant,
                             uint64_t bank)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        fv_value_place *place = &c->place[i];
        uint64_t bytes = 0;
        if (fv_value_outside(v)) {
            place->ref.space = FV_SPACE_EXTERNAL;
            place->ref.slot = v->slot;
            bytes = p->limits.throughput ? fv_size_mul(v->rows, fv_value_stride(v)) : 0;
        } else if (p->cut.life[i].first_step != UINT32_MAX && !place->reuses) {
            admit(p, c, &tenant[n], i);
            bytes = tenant[n++].size;
        }
        if (place->saved_rows)
            admit_border(p, c, &tenant[n++], i);
        if (bytes > bank && bytes > c->oversize_bytes) {
            c->oversize = (fv_id)i;
            c->oversize_bytes = bytes;
        }
    }
    return n;
}

/* Returns whether the value is in the workers' blocks, of which each worker has one. */
static bool in_block(const fovea_plan *p, const struct tenant *t)
{
    return t->region == LOCAL && !p->limits.throughput;
}

/* Creates the list of the regions' buffers, and assigns each value to one. */
static fovea_status make_banks(const fovea_plan *p, fv_plan_candidate *c,
                               const struct tenant *tenant, uint32_t tenants, uint64_t bank)
{
    uint32_t count[FV_REGIONS] = {0}, first[FV_REGIONS + 1] = {0};
    for (uint32_t i = 0; i < tenants; i++) {
        if (in_block(p, &tenant[i]))
            continue;
        const uint32_t needed = (uint32_t)(tenant[i].offset / bank) + 1;
        uint32_t *have = &count[tenant[i].region];
        *have = needed > *have ? needed : *have;
    }
    count[FV_REGION_SCRATCH] = p->limits.throughput && c->scratch;
    for (int r = 0; r < FV_REGIONS; r++)
        first[r + 1] = first[r] + count[r];
    FV_TRY(FV_MEM_ARRAY(&c->bank, first[FV_REGIONS], FV_MEM_PLAN, "the plan's memory map"));
    memcpy(c->first_bank, first, sizeof first);
    for (uint32_t i = 0; i < tenants; i++) {
        const struct tenant *t = &tenant[i];
        fv_ref *ref = t->place ? &t->place->ref : t->ref;
        ref->space = t->region == LOCAL ? FV_SPACE_LOCAL : FV_SPACE_BUFFER;
        ref->offset = t->offset % bank;
        ref->frame_stride = t->frame_stride;
        ref->mem = NULL;
        if (in_block(p, t))
            continue;
        fv_bank *b = &c->bank[c->first_bank[t->region] + (uint32_t)(t->offset / bank)];
        ref->mem = &b->mem;
        const uint64_t end = fv_size_add(ref->offset, t->size);
        b->size = end > b->size ? end : b->size;
        for (fv_value_place *v = t->place; v && v->reused_by >= 0; v = &c->place[v->reused_by])
            c->place[v->reused_by].ref = v->ref;
    }
    if (count[FV_REGION_SCRATCH])
        c->bank[c->first_bank[FV_REGION_SCRATCH]].size = c->scratch;
    return FOVEA_OK;
}

/* Adds the workers' blocks of every streamed sweep after the n tenants; returns the new number. */
static uint32_t admit_blocks(const fovea_plan *p, fv_plan_candidate *c, struct tenant *t,
                             uint32_t n)
{
    uint32_t all = n;
    for (uint32_t i = 0; i < n && !p->limits.throughput; i++) {
        uint64_t *most = &c->sweep[t[i].sweep].block;
        const uint64_t end = fv_size_add(t[i].offset, t[i].size);
        if (t[i].region == LOCAL && end > *most)
            *most = end;
    }
    for (uint32_t i = 0; i < p->cut.sweeps; i++) {
        fv_plan_sweep *w = &c->sweep[i];
        if (w->block)
            t[all++] = (struct tenant){.first = w->first,
                                       .last = w->first + w->count - 1,
                                       .region = FV_REGION_RESIDUAL,
                                       .size = fv_size_mul(w->block, c->info.threads),
                                       .ref = &w->blocks};
    }
    return all;
}

static uint64_t residual_end(const struct tenant *t, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        if (t[i].region == FV_REGION_RESIDUAL && fv_size_add(t[i].offset, t[i].size) > most)
            most = fv_size_add(t[i].offset, t[i].size);
    return most;
}

static fovea_status place_all(const fovea_plan *p, fv_plan_candidate *c, struct tenant *tenant)
{
    /* This limit keeps sums of offset and size within 64 bits. */
    const uint64_t most = UINT64_MAX / 4;
    const uint64_t bank = (p->limits.largest < most ? p->limits.largest : most) / ALIGN * ALIGN;
    c->oversize = FV_NO_VALUE;
    const uint32_t tenants = list_tenants(p, c, tenant, bank);
    if (c->oversize != FV_NO_VALUE)
        return FOVEA_OK;
    qsort(tenant, tenants, sizeof *tenant, by_size);
    for (uint32_t i = 0; i < tenants; i++)
        tenant[i].offset = lowest_gap(tenant, i, bank);
    const uint32_t all = admit_blocks(p, c, tenant, tenants);
    for (uint32_t i = tenants; i < all; i++)
        tenant[i].offset = lowest_gap(tenant, i, bank);
    FV_TRY(make_banks(p, c, tenant, all, bank));
    for (int r = 0; r < FV_REGIONS; r++)
        for (uint32_t i = c->first_bank[r]; i < c->first_bank[r + 1]; i++)
            c->region_size[r] = fv_size_add(c->region_size[r], c->bank[i].size);
    if (all > tenants)
        c->blocks = c->region_size[FV_REGION_RESIDUAL] - residual_end(tenant, tenants);
    return FOVEA_OK;
}

fovea_status fv_arena_place(const fovea_plan *p, fv_plan_candidate *c)
{
    struct tenant *tenant;
    FV_TRY(FV_MEM_ARRAY(&tenant, 2 * (uint64_t)p->graph.values + p->cut.sweeps, FV_MEM_PLAN,
                        "the plan's memory map"));
    const fovea_status status = place_all(p, c, tenant);
    fv_mem_free(tenant);
    return status;
}
