/* bind.c: makes the backend bind every step to its kernel, weights and memory, and opens the plan's
 * queue. */
#include <string.h>

#include "base/mem.h"
#include "plan/plan.h"
#include "weights/packed.h"

/* Returns the rows of a value in each band of a banded sweep. All steps that write the value
 * compute the same rows. */
static const fv_rows *band_of(const fovea_plan *p, const fv_plan_sweep *w, fv_id id)
{
    uint32_t i = 0;
    while (p->graph.step[w->first + i].dead ||
           p->graph.step[w->first + i].use[p->graph.step[w->first + i].out].view.id != id)
        i++;
    return w->band + (size_t)i * w->bands;
}

/* Returns the place in frame `frame` of a batch of the value that is at `r` in frame 0. */
static fv_ref ref_of_frame(const fovea_plan *p, fv_ref r, uint32_t frame)
{
    r.slot += frame * p->graph.slots;
    r.offset += frame * r.frame_stride;
    return r;
}

/* Sets the place of operand o of a step, which is a view of a value. */
static void place_operand(const fovea_plan *p, const fv_step *s, uint32_t o, uint32_t frame,
                          fv_launch *l)
{
    const fv_plan_sweep *w = fv_sweep_of_step(p, s);
    const fv_step_cut *cut = &p->cut.step[s - p->graph.step];
    const fv_use *u = &s->use[o];
    const fv_value *v = &p->graph.value[u->view.id];
    const fv_value_place *at = &p->chosen.place[u->view.id];
    fv_operand *op = &l->operand[o];
    op->type = l->args.type[o] = v->type;
    op->ref = ref_of_frame(p, at->ref, frame);
    op->ref.offset += u->view.col * fv_type_size(v->type);
    op->stride = fv_value_stride(v);
    l->args.ld[o] = v->ld;
    if (w->bands && w->streamed) {
        op->band = at->ref.space == FV_SPACE_LOCAL ? band_of(p, w, u->view.id) : NULL;
        return; /* kernels of bands address grid rows by their absolute numbers */
    }
    if (at->reused_by >= 0 && cut->sweep == p->cut.life[u->view.id].last_sweep && cut->halo > 0) {
        op->border = at->saved_rows;
        op->saved = ref_of_frame(p, at->saved, frame);
    }
    op->ring = at->ring;
    op->shift = at->shift;
    if (u->kind == FV_KIND_LOCAL && at->ref.space == FV_SPACE_LOCAL) {
        l->args.window = w->width ? at->ring : w->chunk / s->u[0];
        l->args.shift = at->shift;
    }
}

static void launch_of(const fovea_plan *p, const fv_step *s, uint32_t frame, fv_launch *l)
{
    const fv_plan_candidate *c = &p->chosen;
    const fv_step_plan *sp = fv_plan_of_step(p, s);
    const fv_plan_sweep *w = fv_sweep_of_step(p, s);
    *l = (fv_launch){.kernel = sp->kernel,
                     .rows = s->prob.dim[FV_DIM_ROWS],
                     .tile_rows = sp->tiles.rows,
                     .tile_cols = sp->tiles.cols,
                     .cols = sp->tiles.all_cols,
                     .halo = p->cut.step[s - p->graph.step].halo};
    if (c->region_size[FV_REGION_SCRATCH])
        l->scratch_mem = &c->bank[c->first_bank[FV_REGION_SCRATCH]].mem;
    fv_step_args(&l->args, s);
    l->args.knobs = sp->knobs;
    if (w->bands && w->streamed)
        l->band = band_of(p, w, s->use[s->out].view.id);
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        fv_operand *op = &l->operand[o];
        op->kind = u->kind;
        if (fv_weight_present(&u->weight)) {
            op->type = (uint8_t)(fv_step_narrow(s, o) ? s->prob.weight : FV_F32);
            l->args.type[o] = op->type;
            op->ref = (fv_ref){.space = FV_SPACE_BUFFER, .mem = &fv_packed_of_step(p, s, o)->mem};
            l->args.ld[o] = u->weight.rows > 1 ? u->weight.cols : 0;
        } else if (u->view.id >= 0) {
            place_operand(p, s, o, frame, l);
        }
    }
}

static fovea_status open_queue(fovea_plan *p)
{
    fv_slot *slot;
    FV_TRY(
        FV_MEM_ARRAY(&slot, fv_size_mul(p->info.count, p->graph.slots), FV_MEM_PLAN, "the plan"));
    for (uint32_t i = 0; i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        if (fv_value_outside(v))
            slot[v->slot] = (fv_slot){.row_bytes = fv_value_stride(v),
                                      .rows = v->rows,
                                      .output = v->kind == FV_VALUE_OUTPUT,
                                      .staged = p->staged && p->limits.borrows};
    }
    for (uint32_t f = 1; f < p->info.count; f++)
        memcpy(slot + f * p->graph.slots, slot, p->graph.slots * sizeof *slot);
    const fovea_status status = p->device->backend->queue_open(p->device->device, p->chosen.scratch,
                                                               slot, p->info.count * p->graph.slots,
                                                               p->info.dispatches, &p->run.queue);
    fv_mem_free(slot);
    return status;
}

/* Binds a step. If the device refuses its kernel, only records this, so that one pass finds all
 * refusals: planning again costs more than binding. */
static fovea_status bind_step(fovea_plan *p, const fv_step *s, uint32_t index, uint32_t frame)
{
    fv_launch l;
    launch_of(p, s, frame, &l);
    l.index = index;
    const fovea_status status = p->device->backend->bind(
        p->device->device, &l, &p->run.bound[frame * p->info.steps + index]);
    return status == FOVEA_ENOTSUP || status == FOVEA_ETIMEOUT
               ? fv_plan_refuse(p, s, status == FOVEA_ENOTSUP)
               : status;
}

/* Binds the other frames of a batch, with the kernels that were accepted for the first frame. */
static fovea_status bind_other_frames(fovea_plan *p)
{
    for (uint32_t f = 1; f < p->info.count; f++)
        for (uint32_t k = 0, n = 0; k < p->graph.steps; k++)
            if (!p->graph.step[k].dead)
                FV_TRY(bind_step(p, &p->graph.step[k], n++, f));
    return FOVEA_OK;
}

/* Makes the backend compile the programs of all steps' kernels at once. */
static fovea_status compile(const fovea_plan *p)
{
    const fv_backend *be = p->device->backend;
    fv_launch *l;
    uint32_t n = 0;
    if (!be->compile)
        return FOVEA_OK;
    FV_TRY(FV_MEM_ARRAY(&l, p->info.steps, FV_MEM_PLAN, "the plan"));
    for (uint32_t i = 0; i < p->cut.sweeps; i++) {
        const fv_plan_sweep *w = &p->chosen.sweep[i];
        for (uint32_t k = w->first; k < w->first + w->count; k++)
            if (!p->graph.step[k].dead)
                launch_of(p, &p->graph.step[k], 0, &l[n++]);
    }
    be->compile(p->device->device, l, n);
    fv_mem_free(l);
    return FOVEA_OK;
}

fovea_status fv_plan_bind(fovea_plan *p)
{
    const fv_backend *be = p->device->backend;
    const uint32_t refusals = p->refused.count;
    FV_TRY(compile(p));
    FV_TRY(FV_MEM_ARRAY(&p->run.bound, (uint64_t)p->info.count * p->info.steps, FV_MEM_PLAN,
                        "the plan"));
    FV_TRY(FV_MEM_ARRAY(&p->run.sweep, p->cut.sweeps, FV_MEM_PLAN, "the plan"));
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->cut.sweeps; i++) {
        const fv_plan_sweep *w = &p->chosen.sweep[i];
        fv_sweep *run = &p->run.sweep[i];
        *run = (fv_sweep){.step = p->run.bound + n,
                          .batch = p->info.count,
                          .frame_stride = p->info.steps,
                          .rows = w->rows,
                          .chunk = w->chunk,
                          .groups = w->groups,
                          .partials = w->partials,
                          .runs = w->runs,
                          .width = w->width,
                          .reach = w->reach,
                          .saves = w->saves,
                          .block = w->block,
                          .blocks = w->blocks,
                          .banded = w->bands && w->streamed,
                          .streamed = w->streamed};
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            if (p->graph.step[k].dead)
                continue;
            FV_TRY(bind_step(p, &p->graph.step[k], n, 0));
            n++;
            run->steps++;
        }
    }
    if (p->refused.count > refusals)
        return fv_fail(FOVEA_ENOTSUP, "%s", p->refused.list[refusals].why);
    FV_TRY(bind_other_frames(p));
    FV_TRY(open_queue(p));
    return be->prepare ? be->prepare(p->run.queue, p->run.sweep, p->cut.sweeps, FV_ALL) : FOVEA_OK;
}
