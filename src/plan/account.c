/* account.c: the bytes that a plan needs, counted before anything is allocated. */
#include <string.h>

#include "base/mem.h"
#include "models/model.h"
#include "plan/plan.h"
#include "weights/packed.h"

/* A weight as a step's kernel packs it. */
typedef struct packed_use {
    const fv_weight *weight;
    const char *format; /* NULL: its rows are not packed */
    bool paired;        /* rows of values and gates are packed in pairs */
} packed_use;

static packed_use use_of(const fovea_plan *p, const fv_plan_candidate *c, uint32_t step, uint32_t o)
{
    const fv_step *s = &p->graph.step[step];
    const fv_kernel *k = fv_step_packer(s, c->step[step].kernel, o);
    return (packed_use){&s->use[o].weight, k ? k->hooks->format : NULL,
                        (s->prob.epi & FV_EPI_SWIGLU) != 0};
}

static bool same_packed(const packed_use *a, const packed_use *b)
{
    const char *x = a->format, *y = b->format;
    return a->paired == b->paired && (x == y || (x && y && strcmp(x, y) == 0)) &&
           fv_weight_same(a->weight, b->weight);
}

/* Returns whether an earlier step of the plan uses the same packed weight. Steps that share a
 * packed weight are close together (the norms before K and V and before Q), except in training,
 * whose gradients use the weights of the forward steps. */
static bool counted_before(const fovea_plan *p, const fv_plan_candidate *c, uint32_t step,
                           uint32_t o)
{
    const fv_graph *g = &p->graph;
    const packed_use of = use_of(p, c, step, o);
    uint32_t from = step > 16 && !p->options.training ? step - 16 : 0;
    for (uint32_t i = from; i < step; i++)
        for (uint32_t k = 0; !g->step[i].dead && k < FV_OPERANDS; k++) {
            if (!fv_weight_present(&g->step[i].use[k].weight))
                continue;
            const packed_use other = use_of(p, c, i, k);
            if (same_packed(&of, &other))
                return true;
        }
    return false;
}

/* Returns the bytes of the copies of the caller's inputs and outputs, for every batch of frames in
 * flight, or 0 on a device that uses the caller's memory. */
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

static void account_weights(const fovea_plan *p, fv_plan_candidate *c)
{
    fovea_plan_info *info = &c->info;
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        const fv_step *s = &p->graph.step[i];
        const fv_step_plan *sp = &c->step[i];
        const fv_problem prob = fv_candidate_problem(c, s, i);
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            const fv_weight *w = &s->use[o].weight;
            const fv_kernel *packer = fv_step_packer(s, sp->kernel, o);
            if (!fv_weight_present(w))
                continue;
            const uint64_t size = fv_packed_size(w, packer, &prob, &sp->knobs);
            if (size > info->largest)
                info->largest = size;
            if (counted_before(p, c, i, o))
                continue;
            info->weights = fv_size_add(info->weights, size);
            if (p->free_memory != UINT64_MAX &&
                fv_packed_there(&p->model->shared, p->device, p->limits.locked, w, packer, &prob,
                                &sp->knobs))
                c->weights_there = fv_size_add(c->weights_there, size);
        }
    }
}

static void count_dispatches(const fovea_plan *p, fv_plan_candidate *c)
{
    fovea_plan_info *info = &c->info;
    for (uint32_t i = 0; i < p->cut.sweeps; i++) {
        const fv_plan_sweep *w = &c->sweep[i];
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            if (p->graph.step[k].dead)
                continue;
            info->steps++;
            if (p->limits.throughput)
                info->dispatches += w->chunks * info->count;
            else
                info->dispatches += !w->streamed || k == w->first;
        }
        info->dispatches += w->saves;
    }
}

/* Finds the largest buffer: a bank of the candidate, or an input or output of the caller. */
static void find_largest(const fovea_plan *p, fv_plan_candidate *c)
{
    fovea_plan_info *info = &c->info;
    for (uint32_t i = 0; i < c->first_bank[FV_REGIONS]; i++)
        if (c->bank[i].size > info->largest)
            info->largest = c->bank[i].size;
    for (uint32_t i = 0; p->limits.throughput && i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        if (fv_value_outside(v) && v->rows * fv_value_stride(v) > info->largest)
            info->largest = v->rows * fv_value_stride(v);
    }
}

/* Returns the bytes of the plan's own arrays in host memory. */
static uint64_t lists(const fovea_plan *p, const fovea_plan_info *info)
{
    const uint64_t step = sizeof(fv_step) + sizeof(fv_step_cut) + sizeof(fv_step_plan) +
                          FV_OPERANDS * sizeof(fv_packed *) + info->count * sizeof(fv_launch) + 128;
    const uint64_t value = sizeof(fv_value) + sizeof(fv_value_life) + sizeof(fv_value_place);
    return p->graph.step_capacity * step + p->graph.value_capacity * value;
}

void fv_plan_account(const fovea_plan *p, fv_plan_candidate *c)
{
    fovea_plan_info *info = &c->info;
    info->weights = info->largest = 0;
    info->steps = info->dispatches = 0;
    info->sweeps = p->cut.sweeps;
    info->fallback = p->staged && p->limits.borrows ? external(p) : 0;
    account_weights(p, c);
    count_dispatches(p, c);
    find_largest(p, c);
    info->residual = c->region_size[FV_REGION_RESIDUAL] - c->blocks;
    info->states = fv_size_add(c->region_size[FV_REGION_STATES], c->region_size[FV_REGION_KEPT]);
    info->chunks = fv_size_add(c->region_size[FV_REGION_CHUNKS],
                               fv_size_add(c->region_size[FV_REGION_LOCAL], c->blocks));
    info->scratch = fv_size_mul(c->scratch, info->threads);
    info->staging =
        fv_size_add(c->region_size[FV_REGION_STAGING], p->frame.bytes + p->graph.table_bytes);
    info->staging = fv_size_add(info->staging, external(p)) + lists(p, info);
}
