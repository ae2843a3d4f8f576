/* trial_plan.c: fovea_trial: runs one step of a plan by itself, with any kernel that supports it
 * and the tiles that the plan chose. */
#include <string.h>

#include <fovea/verification.h>

#include "base/abi.h"
#include "base/mem.h"
#include "ops/mech_traits.h"
#include "plan/plan.h"
#include "trial/trial.h"

struct fovea_trial {
    const fovea_device *device;
    const fv_step *step;
    const char *problem;
    const fv_kernel *kernel;
    fv_trial *operands;
    fv_trial_kernel *take;
    fv_verdict verdict;
};

static const fv_step *find_step(const fovea_plan *p, size_t index, const char **problem)
{
    for (uint32_t i = 0; i < p->graph.steps; i++)
        if (!p->graph.step[i].dead && index-- == 0) {
            *problem = p->problem_text[i];
            return &p->graph.step[i];
        }
    return NULL;
}

static const fv_kernel *find_kernel(const fovea_device *d, const fv_step *s, const char *name)
{
    int count;
    uint32_t features;
    const fv_kernel *list = d->backend->kernels(d->device, &count, &features);
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0 && fv_kernel_fits(&list[i], &s->prob, features))
            return &list[i];
    return NULL;
}

static fovea_status fill(fovea_trial *r, const fovea_plan *p)
{
    const fv_plan_sweep *w = fv_sweep_of_step(p, r->step);
    const fv_step_plan *chosen = fv_plan_of_step(p, r->step);
    const bool own = r->kernel == chosen->kernel;
    const fv_knobs knobs = own ? chosen->knobs : fv_kernel_defaults(r->kernel);
    FV_TRY(fv_trial_open(&r->operands, p->device, &p->graph, r->step, &chosen->tiles, 0,
                         w->streamed && !w->bands ? w->chunk : 0));
    return fv_trial_kernel_open(&r->take, r->operands, r->kernel, &knobs);
}

fovea_status fovea_trial_open(fovea_trial **out, const fovea_plan *plan, size_t step,
                              const char *kernel)
{
    const char *problem = "";
    const fv_step *s = find_step(plan, step, &problem);
    if (!s)
        return fv_fail(FOVEA_EINVAL,
                       "step %zu does not exist; the plan has %u steps, counted from 0", step,
                       plan->info.steps);
    const fv_kernel *k =
        kernel ? find_kernel(plan->device, s, kernel) : fv_plan_of_step(plan, s)->kernel;
    if (!k)
        return fv_fail(FOVEA_ENOTSUP, "%s: no kernel of this name fits %s", kernel, problem);
    fovea_trial *r;
    FV_TRY(FV_MEM_NEW(&r, FV_MEM_PLAN, "a trial"));
    *r = (fovea_trial){.device = plan->device, .step = s, .problem = problem, .kernel = k};
    FV_RETURN_MADE(out, r, fovea_trial_close, fill(r, plan));
}

void fovea_trial_close(fovea_trial *r)
{
    if (!r)
        return;
    fv_trial_kernel_close(r->take);
    fv_trial_close(r->operands);
    fv_mem_free(r);
}

fovea_status fovea_trial_verify(fovea_trial *r, fovea_kernel_check *out)
{
    fv_verdict *v = &r->verdict;
    FV_TRY(FV_ABI_CHECK(out, FOVEA_KERNEL_CHECK_INIT));
    FV_TRY(fv_trial_kernel_verify(r->take, v));
    const fovea_kernel_check check = {.kernel = r->kernel->name,
                                      .op = fv_op_names[r->kernel->op],
                                      .mechanism = fv_mech_table[r->kernel->mech]->name,
                                      .isa = r->device->backend->level(r->kernel->needs),
                                      .cases = 1,
                                      .failed = !v->ok,
                                      .values = v->checked,
                                      .error = v->share,
                                      .rel = v->rel,
                                      .max_abs = v->max_abs,
                                      .problem = v->ok ? "" : r->problem,
                                      .text = v->text};
    return FV_ABI_WRITE(out, check, FOVEA_KERNEL_CHECK_INIT);
}

fovea_status fovea_trial_run(fovea_trial *r, double *seconds)
{
    return fv_trial_kernel_run(r->take, seconds);
}
