/* candidate.c: makes a candidate: runs the phases that depend on how sweeps run, in order. */
#include "plan/candidate.h"

#include "base/mem.h"
#include "plan/plan.h"

static fovea_status allocate(fv_plan_candidate *c, const fovea_plan *p)
{
    const fv_cut *cut = &p->cut;
    FV_TRY(FV_MEM_ARRAY(&c->step, p->graph.steps, FV_MEM_PLAN, "the plan's steps"));
    FV_TRY(FV_MEM_ARRAY(&c->place, p->graph.values, FV_MEM_PLAN, "the plan's values"));
    FV_TRY(FV_MEM_ARRAY(&c->sweep, cut->sweeps, FV_MEM_PLAN, "the plan's sweeps"));
    memcpy(c->sweep, cut->sweep, cut->sweeps * sizeof *cut->sweep);
    return FOVEA_OK;
}

static fovea_status decide(fv_plan_candidate *c, const fovea_plan *p, const fv_plan_request *r,
                           uint32_t chunk)
{
    FV_TRY(allocate(c, p));
    fv_sweep_schedule(p, c, r, chunk);
    fv_in_place_find(p, c);
    FV_TRY(fv_plan_choose(p, c));
    FV_TRY(fv_arena_place(p, c));
    fv_plan_account(p, c);
    return FOVEA_OK;
}

fovea_status fv_candidate_make(fv_plan_candidate *out, const fovea_plan *p,
                               const fv_plan_request *r, uint32_t chunk, uint32_t workers)
{
    fv_plan_candidate c = {.info = p->info, .oversize = FV_NO_VALUE};
    c.info.threads = workers;
    const fovea_status status = decide(&c, p, r, chunk);
    if (status == FOVEA_OK)
        *out = c;
    else
        fv_candidate_free(&c);
    return status;
}

void fv_candidate_free(fv_plan_candidate *c)
{
    fv_mem_free(c->step);
    fv_mem_free(c->place);
    fv_mem_free(c->sweep);
    fv_mem_free(c->bank);
    *c = (fv_plan_candidate){.oversize = FV_NO_VALUE};
}
