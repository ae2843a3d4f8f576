/* trial_kernel.c: binds kernels to the operands of a trial, and runs them. */
#include <string.h>

#include "base/mem.h"
#include "models/model.h"
#include "platform/os/os_machine.h"
#include "trial/trial_parts.h"

#define TIMEOUT                                                                                    \
    300.0 /* seconds after which a run counts as hung: longer than any working kernel takes on a   \
             simulator */

static fovea_status bind_weights(fv_trial_kernel *t, fv_launch *l)
{
    const fv_trial *r = t->r;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        if (!fv_weight_present(&r->weight[o]))
            continue;
        FV_TRY(fv_packed_get(&t->packed[o], &r->model->shared,
                             r->limits.throughput ? r->device : NULL, r->limits.locked,
                             &r->weight[o], fv_step_packer(&r->step, l->kernel, o), &r->step.prob,
                             &l->args.knobs));
        l->operand[o].ref = (fv_ref){.space = FV_SPACE_BUFFER, .mem = &t->packed[o]->mem};
    }
    return FOVEA_OK;
}

static fovea_status bind(fv_trial_kernel *t, const fv_kernel *k, const fv_knobs *knobs)
{
    const fv_trial *r = t->r;
    const fv_backend *be = r->device->backend;
    fv_launch l = {.kernel = k,
                   .args = r->args,
                   .rows = r->step.prob.dim[FV_DIM_ROWS],
                   .tile_rows = r->tiles.rows,
                   .tile_cols = r->tiles.cols,
                   .cols = r->tiles.all_cols};
    l.args.knobs = *knobs;
    memcpy(l.operand, r->operand, sizeof l.operand);
    FV_TRY(bind_weights(t, &l));
    const uint64_t scratch =
        k->hooks->scratch ? k->hooks->scratch(&r->step.prob, knobs, r->tiles.rows) : 0;
    if (scratch && r->limits.throughput) {
        FV_TRY(be->alloc(r->device->device, scratch, "a kernel's scratch", &t->scratch));
        l.scratch_mem = &t->scratch;
    }
    FV_TRY(be->bind(r->device->device, &l, &t->bound));
    t->sweep = r->sweep;
    t->sweep.step = &t->bound;
    FV_TRY(be->queue_open(r->device->device, r->limits.throughput ? 0 : scratch, NULL, 0,
                          (r->sweep.rows + r->sweep.chunk - 1) / r->sweep.chunk, &t->queue));
    if (be->timed)
        FV_TRY(be->timed(t->queue, true));
    return be->prepare ? be->prepare(t->queue, &t->sweep, 1, FV_ALL) : FOVEA_OK;
}

fovea_status fv_trial_kernel_open(fv_trial_kernel **out, fv_trial *r, const fv_kernel *k,
                                  const fv_knobs *knobs)
{
    fv_trial_kernel *t;
    FV_TRY(FV_MEM_NEW(&t, FV_MEM_PLAN, "a trial kernel"));
    t->r = r;
    FV_RETURN_MADE(out, t, fv_trial_kernel_close, bind(t, k, knobs));
}

void fv_trial_kernel_close(fv_trial_kernel *t)
{
    if (!t)
        return;
    const fovea_device *device = t->r->device;
    if (t->queue)
        device->backend->queue_close(t->queue);
    if (t->bound)
        device->backend->unbind(device->device, t->bound);
    if (t->scratch.size)
        device->backend->release(device->device, &t->scratch);
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        fv_packed_unref(&t->r->model->shared, t->packed[o]);
    fv_mem_free(t);
}

fovea_status fv_trial_kernel_go(fv_trial_kernel *t, double *seconds)
{
    const fv_backend *be = t->r->device->backend;
    fv_fence fence;
    const double begin = fv_machine_seconds();
    FV_TRY(be->submit(t->queue, &t->sweep, 1, FV_ALL, &fence));
    FV_TRY(be->wait(t->queue, fence, TIMEOUT, seconds));
    if (*seconds <= 0)
        *seconds = fv_machine_seconds() - begin;
    return FOVEA_OK;
}

fovea_status fv_trial_kernel_run(fv_trial_kernel *t, double *seconds)
{
    fv_trial *r = t->r;
    const fv_op *op = fv_op_table[r->step.prob.op];
    if (op->grows && fv_trial_in_place(r))
        FV_TRY(fv_zone_reset(r, r->of[r->step.out]));
    if (op->state)
        FV_TRY(fv_zone_reset(r, r->of[op->state]));
    return fv_trial_kernel_go(t, seconds);
}
