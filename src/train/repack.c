/* repack.c: packs weights again after an update of their master weights. */
#include "train/trainer.h"
#include "weights/packed.h"

static bool listed(const fovea_trainer *t, const fv_packed *p)
{
    for (uint32_t i = 0; i < t->followers; i++)
        if (t->follower[i].packed == p)
            return true;
    return false;
}

static bool changes(const fovea_trainer *t, const fv_weight *w)
{
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_master *m = fv_masters_of(&t->masters, w->part[i].tensor);
        if (m && m->trained)
            return true;
    }
    return false;
}

/* Returns the bytes of staging memory for the largest trained weight, in whole cache lines. */
static uint64_t staging_of(const fovea_trainer *t)
{
    const fv_graph *g = &t->plan->graph;
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->steps; i++) {
        const fv_step *s = &g->step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            const fv_weight *w = &s->use[o].weight;
            if (!fv_weight_present(w) || !changes(t, w))
                continue;
            const uint64_t bytes = fv_packed_staging(
                w, fv_step_packer(s, t->plan->chosen.step[i].kernel, o), &s->prob);
            most = bytes > most ? bytes : most;
        }
    }
    return (most + 63) / 64 * 64;
}

uint64_t fv_trainer_follow_bytes(const fovea_trainer *t)
{
    return (uint64_t)t->plan->graph.steps * FV_OPERANDS * sizeof *t->follower +
           staging_of(t) * t->plan->limits.threads;
}

fovea_status fv_trainer_follow(fovea_trainer *t)
{
    const fv_graph *g = &t->plan->graph;
    FV_TRY(FV_MEM_ARRAY(&t->follower, (uint64_t)g->steps * FV_OPERANDS, FV_MEM_PLAN,
                        "the trainer's list of weights"));
    for (uint32_t i = 0; i < g->steps; i++) {
        const fv_step *s = &g->step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            const fv_weight *w = &s->use[o].weight;
            fv_packed *packed = fv_packed_of_step(t->plan, s, o);
            if (!fv_weight_present(w) || !changes(t, w) || listed(t, packed))
                continue;
            t->follower[t->followers++] = (fv_follower){
                packed, fv_step_packer(s, t->plan->chosen.step[i].kernel, o), &s->prob};
        }
    }
    t->staging_bytes = staging_of(t);
    FV_TRY(fv_mem_array(&t->staging, t->staging_bytes, t->plan->limits.threads, FV_MEM_PLAN,
                        "rows to be packed"));
    return FOVEA_OK;
}

static void repack(void *arg, uint32_t phase, uint32_t unit, uint32_t slot)
{
    const fovea_trainer *t = arg;
    const fv_follower *f = &t->follower[unit];
    (void)phase;
    /* Cannot fail, because float32 rows fit the packed type. */
    (void)fv_packed_again(f->packed, f->kernel, f->problem,
                          (float *)(void *)(t->staging + slot * t->staging_bytes));
}

void fv_trainer_repack(fovea_trainer *t)
{
    t->device->backend->spread(t->device->device, t->followers, repack, t);
}
