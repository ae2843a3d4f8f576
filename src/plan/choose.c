/* choose.c: chooses a kernel for every step. */
#include "plan/plan.h"

static bool refused(const void *plan, const fv_kernel *k, const fv_knobs *knobs,
                    const fv_problem *prob)
{
    return fv_plan_refused(plan, k, knobs, prob);
}

static bool skips(const void *plan, const fv_kernel *k, const fv_knobs *knobs,
                  const fv_problem *prob)
{
    const fovea_plan *p = plan;
    return fv_advice_skips(&p->advice, k, knobs, prob) || refused(p, k, knobs, prob);
}

/* Chooses the kernel that wisdom names, or else the kernel of the lowest cost. A kernel that
 * crashed a program while it was tuned, or did not build for an earlier plan, is only used if there
 * is no other. */
static void choose_kernel(const fovea_plan *p, fv_step_plan *sp, const fv_problem *prob,
                          const fv_kernel *list, int count, uint32_t features)
{
    const fv_kernel *k =
        fv_advice_step(&p->advice, list, count, features, prob, &sp->knobs, &sp->source);
    sp->kernel = k;
    if (k && !fv_plan_refused(p, k, &sp->knobs, prob))
        return;
    k = fv_kernel_choose(list, count, features, prob, skips, p);
    if (!k)
        k = fv_kernel_choose(list, count, features, prob, refused, p);
    if (k)
        sp->knobs = fv_kernel_defaults(k);
    sp->kernel = k;
    sp->source = "cost";
}

static fovea_status no_kernel(const fovea_plan *p, const fv_step *s, const fv_problem *prob)
{
    char text[128];
    const char *why = fv_plan_refused_why(p, prob);
    fv_problem_format(text, sizeof text, prob);
    if (why)
        return fv_fail(
            FOVEA_ENOTSUP,
            "%s: the device refused every kernel for %s; the first was refused because: %s",
            s->label, text, why);
    return fv_fail(FOVEA_ENOTSUP, "%s: device %s has no kernel for %s", s->label,
                   p->device->info.id, text);
}

fovea_status fv_plan_choose(const fovea_plan *p, fv_plan_candidate *c)
{
    int count;
    uint32_t features;
    const fv_kernel *list = p->device->backend->kernels(p->device->device, &count, &features);
    fovea_plan_info *info = &c->info;
    info->flops = info->seconds = info->reference_seconds = 0;
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        const fv_step *s = &p->graph.step[i];
        fv_step_plan *sp = &c->step[i];
        if (s->dead)
            continue;
        const fv_problem prob = fv_candidate_problem(c, s, i);
        choose_kernel(p, sp, &prob, list, count, features);
        if (!sp->kernel)
            return no_kernel(p, s, &prob);
        sp->flops = fv_problem_flops(&prob);
        sp->seconds = fv_kernel_cost(sp->kernel, &prob, &sp->knobs) / info->threads;
        info->flops += info->count * sp->flops;
        info->seconds += info->count * sp->seconds;
        if (fv_kernel_is_reference(sp->kernel))
            info->reference_seconds += info->count * sp->seconds;
        if (sp->kernel->hooks->scratch) {
            uint64_t bytes = sp->kernel->hooks->scratch(&prob, &sp->knobs, sp->tiles.rows);
            c->scratch = bytes > c->scratch ? bytes : c->scratch;
        }
    }
    c->scratch = (c->scratch + 63) / 64 * 64;
    return FOVEA_OK;
}
