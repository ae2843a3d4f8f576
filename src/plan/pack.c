/* pack.c: allocates the plan's regions, and packs the weights that no other plan has packed. */
#include <assert.h>

#include "base/mem.h"
#include "models/model.h"
#include "plan/plan.h"
#include "weights/packed.h"

fovea_status fv_plan_pack(fovea_plan *p)
{
    if (!p->packed)
        FV_TRY(FV_MEM_ARRAY(&p->packed, (uint64_t)p->graph.steps * FV_OPERANDS, FV_MEM_PLAN,
                            "the plan's weights"));
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        const fv_step *s = &p->graph.step[i];
        const fv_step_plan *sp = &p->chosen.step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            const fv_weight *w = &s->use[o].weight;
            fv_packed **packed = &p->packed[(size_t)i * FV_OPERANDS + o];
            if (!fv_weight_present(w))
                continue;
            fv_packed *before = *packed; /* made by an attempt that did not fit; it is most
                                            likely the same weight */
            FV_TRY(fv_packed_get(packed, &p->model->shared, p->limits.throughput ? p->device : NULL,
                                 p->limits.locked, w, fv_step_packer(s, sp->kernel, o), &s->prob,
                                 &sp->knobs));
            fv_packed_unref(&p->model->shared, before);
        }
    }
    return FOVEA_OK;
}

fovea_status fv_plan_allocate(fovea_plan *p, const fovea_plan *kept)
{
    static const char *const names[FV_REGIONS] = {
        [FV_REGION_LOCAL] = "the rows of a chunk",    [FV_REGION_SCRATCH] = "the kernels' scratch",
        [FV_REGION_RESIDUAL] = "the residual stream", [FV_REGION_STATES] = "the attention states",
        [FV_REGION_KEPT] = "the states of scans",     [FV_REGION_CHUNKS] = "activations",
        [FV_REGION_STAGING] = "the resized picture",
    };
    const fv_backend *be = p->device->backend;
    const fv_plan_candidate *c = &p->chosen;
    p->shares_kept = kept != NULL;
    if (kept) {
        /* Both plans have the same states, and so the same banks. */
        const fv_plan_candidate *of = &kept->chosen;
        const uint32_t to = c->first_bank[FV_REGION_KEPT];
        const uint32_t from = of->first_bank[FV_REGION_KEPT];
        const uint32_t banks = c->first_bank[FV_REGION_KEPT + 1] - to;
        assert(banks == of->first_bank[FV_REGION_KEPT + 1] - from);
        for (uint32_t i = 0; i < banks; i++)
            c->bank[to + i].mem = of->bank[from + i].mem;
    }
    for (int r = 0; r < FV_REGIONS; r++) {
        if (!c->region_size[r] || (r == FV_REGION_KEPT && kept))
            continue;
        for (uint32_t i = c->first_bank[r]; i < c->first_bank[r + 1]; i++)
            FV_TRY(be->alloc(p->device->device, c->bank[i].size, names[r], &c->bank[i].mem));
    }
    return FOVEA_OK;
}
