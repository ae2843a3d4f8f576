/* account.c: the bytes that a plan needs, counted before anything is allocated. */
#include <string.h>

#include "base/mem.h"
#include "models/model.h"
#include "plan/plan.h"
#include "weights/packed.h"

static bool same_packed(const fv_step *s, uint32_t o, const fv_step *t, uint32_t k)
{
    const fv_kernel *a = fv_step_packer(s, o), *b = fv_step_packer(t, k);
    const char *x = a ? a->hooks->format : NULL, *y = b ? b->hooks->format : NULL;
    const bool pairs = ((s->prob.epi ^ t->prob.epi) & FV_EPI_SWIGLU) == 0;
    return pairs && (x == y || (x && y && strcmp(x, y) == 0)) &&
           fv_weight_same(&s->use[o].weight, &t->use[k].weight);
}

/* Whether an earlier step of the plan uses the same packed weight. Steps that share one are close
 * together (the norms before K and V and before Q), except in training, whose gradients use the
 * weights of the forward steps. */
static bool counted_before(const fovea_plan *p, uint32_t step, uint32_t o)
{
    const fv_graph *g = &p->graph;
    uint32_t from = step > 16 && !p->options.training ? step - 16 : 0;
    for (uint32_t i = from; i < step; i++)
        for (uint32_t k = 0; !g->step[i].dead && k < FV_OPERANDS; k++)
            if (fv_weight_present(&g->step[i].use[k].weight) &&
                same_packed(&g->step[step], o, &g->step[i], k))
                return true;
    return false;
}

/* Bytes of the copies of the caller's inputs and outputs on a device with its own memory, for every
 * batch of frames in flight. */
static uint64_t external(const fovea_plan *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; p->limits.throughput && i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        if (fv_value_outside(v))
            bytes = fv_size_add(bytes, fv_size_mul(v->rows, fv_value_stride(v)));
    }
    return fv_size_mul(bytes, (uint64_t)p->limits.frames * p->info.count);
}

void fv_plan_account(fovea_plan *p)
{
    fovea_plan_info *info = &p->info;
    uint64_t threads = info->threads;
    info->weights = info->largest = p->weights_there = 0;
    info->steps = info->dispatches = 0;
    info->sweeps = p->sweeps;
    info->fallback = p->staged && p->limits.borrows ? external(p) : 0;
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        const fv_step *s = &p->graph.step[i];
        if (s->dead)
            continue;
        info->steps++;
        for (uint32_t o = 0; o < FV_OPERANDS; o++) {
            if (!fv_weight_present(&s->use[o].weight))
                continue;
            uint64_t size =
                fv_packed_size(&s->use[o].weight, fv_step_packer(s, o), &s->prob, &s->knobs);
            if (size > info->largest)
                info->largest = size;
            if (counted_before(p, i, o))
                continue;
            info->weights = fv_size_add(info->weights, size);
            if (p->free_memory != UINT64_MAX &&
                fv_packed_there(&p->model->shared, p->device, p->limits.locked, &s->use[o].weight,
                                fv_step_packer(s, o), &s->prob, &s->knobs))
                p->weights_there = fv_size_add(p->weights_there, size);
        }
    }
    for (uint32_t i = 0; i < p->sweeps; i++) {
        const fv_plan_sweep *w = &p->sweep[i];
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            if (p->graph.step[k].dead)
                continue;
            if (p->limits.throughput)
                info->dispatches += w->chunks * p->info.count;
            else
                info->dispatches += !w->streamed || k == w->first;
        }
        info->dispatches += w->saves;
    }
    for (uint32_t i = 0; i < p->first_bank[FV_REGIONS]; i++)
        if (p->bank[i].size > info->largest)
            info->largest = p->bank[i].size;
    for (uint32_t i = 0; p->limits.throughput && i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        if (fv_value_outside(v) && v->rows * fv_value_stride(v) > info->largest)
            info->largest = v->rows * fv_value_stride(v);
    }
    info->residual = p->region_size[FV_REGION_RESIDUAL] - p->blocks;
    info->states = fv_size_add(p->region_size[FV_REGION_STATES], p->region_size[FV_REGION_KEPT]);
    info->chunks = fv_size_add(p->region_size[FV_REGION_CHUNKS],
                               fv_size_add(p->region_size[FV_REGION_LOCAL], p->blocks));
    info->scratch = fv_size_mul(p->scratch, threads);
    info->staging =
        fv_size_add(p->region_size[FV_REGION_STAGING], p->picture_bytes + p->graph.table_bytes);
    info->staging = fv_size_add(info->staging, external(p));
    info->staging += (uint64_t)p->graph.step_capacity *
                         (sizeof(fv_step) + p->info.count * sizeof(fv_launch) + 128) +
                     (uint64_t)p->graph.value_capacity * sizeof(fv_value);
}
