/* pack.c: allocates the plan's regions, and packs the weights that no other plan has packed. */
#include <assert.h>

#include "base/mem.h"
#include "models/model.h"
#include "plan/plan.h"
#include "weights/packed.h"

fovea_status fv_plan_pack(fovea_plan *p)
{
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        fv_step *s = &p->graph.step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            fv_use *u = &s->use[o];
            if (!fv_weight_present(&u->weight))
                continue;
            fv_packed *before = u->packed; /* of a plan that did not fit: most likely the same */
            FV_TRY(fv_packed_get(&u->packed, &p->model->shared,
                                 p->limits.throughput ? p->device : NULL, p->limits.locked,
                                 &u->weight, fv_step_packer(s, o), &s->prob, &s->knobs));
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
    p->shares_kept = kept != NULL;
    if (kept) {
        /* Both plans have the same states, and so the same banks. */
        const uint32_t to = p->first_bank[FV_REGION_KEPT];
        const uint32_t from = kept->first_bank[FV_REGION_KEPT];
        const uint32_t banks = p->first_bank[FV_REGION_KEPT + 1] - to;
        assert(banks == kept->first_bank[FV_REGION_KEPT + 1] - from);
        for (uint32_t i = 0; i < banks; i++)
            p->bank[to + i].mem = kept->bank[from + i].mem;
    }
    for (int r = 0; r < FV_REGIONS; r++) {
        if (!p->region_size[r] || (r == FV_REGION_KEPT && kept))
            continue;
        for (uint32_t i = p->first_bank[r]; i < p->first_bank[r + 1]; i++)
            FV_TRY(be->alloc(p->device->device, p->bank[i].size, names[r], &p->bank[i].mem));
    }
    return FOVEA_OK;
}
