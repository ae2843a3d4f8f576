/* crossing.c: counts the bytes of the values that cross a cut between two steps, and finds the cut
 * that the fewest bytes cross. */
#include "base/num.h"
#include "plan/sweep.h"

bool fv_reads_finished(const fv_use *u)
{
    return u->view.id >= 0 && (u->kind == FV_KIND_WHOLE || u->kind == FV_KIND_STATE);
}

/* Returns the bytes per row of the values that are written before `cut` and read after it. A value
 * that is read much later crosses every cut up to its last reader. */
static uint64_t crossing(const fv_cut *c, uint32_t cut)
{
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < c->graph->values; id++) {
        const fv_value *v = &c->graph->value[id];
        const fv_value_life *l = &c->life[id];
        if (v->kind != FV_VALUE_INPUT && l->first_step < cut && l->last_step >= cut)
            bytes += v->cols * fv_type_size(v->type);
    }
    return bytes;
}

uint32_t fv_sweep_best_cut(const fv_cut *c, uint32_t after, uint32_t at)
{
    uint32_t best = at;
    uint64_t least_bytes = UINT64_MAX;
    for (uint32_t cut = after + 1; cut <= at; cut++) {
        if (c->graph->step[cut].dead)
            continue;
        uint64_t bytes = crossing(c, cut);
        if (bytes < least_bytes) {
            least_bytes = bytes;
            best = cut;
        }
    }
    return best;
}
