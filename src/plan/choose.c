/* choose.c: a kernel for every step. */
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

/* The kernel that wisdom names, else the one of lowest cost. A kernel that crashed a program while
 * it was tuned, or did not build for an earlier plan, is chosen only if no other fits. */
static const fv_kernel *choose_kernel(const fovea_plan *p, fv_step *s, const fv_kernel *list,
                                      int count, uint32_t features)
{
    const fv_kernel *k =
        fv_advice_step(&p->advice, list, count, features, &s->prob, &s->knobs, &s->source);
    if (k && !fv_plan_refused(p, k, &s->knobs, &s->prob))
        return k;
    k = fv_kernel_choose(list, count, features, &s->prob, skips, p);
    if (!k)
        k = fv_kernel_choose(list, count, features, &s->prob, refused, p);
    if (k)
        s->knobs = fv_kernel_defaults(k);
    s->source = "cost";
    return k;
}

fovea_status fv_plan_choose(fovea_plan *p)
{
    int count;
    uint32_t features;
    const fv_kernel *list = p->device->backend->kernels(p->device->device, &count, &features);
    p->scratch = 0;
    p->info.flops = p->info.seconds = p->info.reference_seconds = 0;
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        fv_step *s = &p->graph.step[i];
        if (s->dead)
            continue;
        s->kernel = choose_kernel(p, s, list, count, features);
        if (!s->kernel) {
            char text[128];
            const char *why = fv_plan_refused_why(p, &s->prob);
            fv_problem_format(text, sizeof text, &s->prob);
            if (why)
                return fv_fail(FOVEA_ENOTSUP, "%s: no kernel for %s is left: %s", s->label, text,
                               why);
            return fv_fail(FOVEA_ENOTSUP, "%s: device %s has no kernel for %s", s->label,
                           p->device->info.id, text);
        }
        s->flops = fv_problem_flops(&s->prob);
        s->seconds = fv_kernel_cost(s->kernel, &s->prob, &s->knobs) / p->info.threads;
        p->info.flops += p->info.count * s->flops;
        p->info.seconds += p->info.count * s->seconds;
        if (fv_kernel_is_reference(s->kernel))
            p->info.reference_seconds += p->info.count * s->seconds;
        if (s->kernel->hooks->scratch) {
            uint64_t bytes = s->kernel->hooks->scratch(&s->prob, &s->knobs, s->tile_rows);
            p->scratch = bytes > p->scratch ? bytes : p->scratch;
        }
    }
    p->scratch = (p->scratch + 63) / 64 * 64;
    return FOVEA_OK;
}
