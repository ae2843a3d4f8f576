/* pack.c: allocates the plan's regions, and packs the weights that no other plan has packed. */
#include "base/mem.h"
#include "models/packed.h"
#include "plan/plan.h"

fovea_status fv_plan_pack(fovea_plan *p)
{
    for (uint32_t i = 0; i < p->b.steps; i++) {
        fv_step *s = &p->b.step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            fv_use *u = &s->use[o];
            if (!fv_weight_present(&u->weight))
                continue;
            fv_packed *before = u->packed; /* of a plan that did not fit: most likely the same */
            FV_TRY(fv_packed_get(&u->packed, p->model, p->limits.throughput ? p->device : NULL,
                                 p->limits.locked, &u->weight, fv_step_packer(s, o), &s->prob,
                                 &s->knobs));
            fv_packed_unref(p->model, before);
        }
    }
    return FOVEA_OK;
}

fovea_status fv_plan_allocate(fovea_plan *p, const fv_mem *kept)
{
    static const char *const names[FV_REGIONS] = {
        [FV_REGION_LOCAL] = "the rows of a chunk",    [FV_REGION_SCRATCH] = "the kernels' scratch",
        [FV_REGION_RESIDUAL] = "the residual stream", [FV_REGION_STATES] = "the attention states",
        [FV_REGION_KEPT] = "the state of the scan",   [FV_REGION_CHUNKS] = "activations",
        [FV_REGION_STAGING] = "the resized picture",
    };
    const fv_backend *be = p->device->backend;
    if (kept) {
        *fv_plan_kept(p) = *kept;
        p->shares_kept = true;
    }
    for (int r = 0; r < FV_REGIONS; r++) {
        if (!p->region_size[r] || (r == FV_REGION_KEPT && kept))
            continue;
        for (uint32_t i = p->first_bank[r]; i < p->first_bank[r + 1]; i++)
            FV_TRY(be->alloc(p->device->device, p->bank[i].size, names[r], &p->bank[i].mem));
    }
    return FOVEA_OK;
}
