/* refusal.c: records which kernels a device refused while a plan is made, for this plan and for
 * later ones. */
#include "plan/refusal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "plan/plan.h"

static void name(fv_refusal *out, const fv_kernel *k, const fv_knobs *knobs, const fv_problem *prob)
{
    fv_wisdom_problem_key(out->subject, prob, 0);
    fv_wisdom_kernel_text(out->choice, k, knobs);
}

fovea_status fv_plan_refuse(fovea_plan *p, const fv_step *s, bool lasting)
{
    const fv_step_plan *sp = fv_plan_of_step(p, s);
    fv_refusal r = {.lasting = lasting};
    snprintf(r.why, sizeof r.why, "%s", fovea_error());
    if (fv_plan_refused(p, sp->kernel, &sp->knobs, &s->prob))
        return FOVEA_OK;
    name(&r, sp->kernel, &sp->knobs, &s->prob);
    if (p->refused.count == p->refused.capacity)
        FV_TRY(fv_mem_grow(&p->refused.list, p->refused.count, &p->refused.capacity,
                           p->refused.capacity + 8, sizeof *p->refused.list, FV_MEM_PLAN,
                           "the plan"));
    p->refused.list[p->refused.count++] = r;
    if (lasting) /* otherwise the device has logged it once for all kernels of the program */
        fv_log("%s: %s is not used for %s: %s", p->device->info.id, sp->kernel->name, r.subject,
               r.why);
    return FOVEA_OK;
}

bool fv_plan_refused(const fovea_plan *p, const fv_kernel *k, const fv_knobs *knobs,
                     const fv_problem *prob)
{
    fv_refusal asked;
    if (!p->refused.count)
        return false;
    name(&asked, k, knobs, prob);
    for (uint32_t i = 0; i < p->refused.count; i++)
        if (strcmp(p->refused.list[i].subject, asked.subject) == 0 &&
            strcmp(p->refused.list[i].choice, asked.choice) == 0)
            return true;
    return false;
}

const char *fv_plan_refused_why(const fovea_plan *p, const fv_problem *prob)
{
    char subject[FV_WISDOM_SUBJECT];
    fv_wisdom_problem_key(subject, prob, 0);
    for (uint32_t i = 0; i < p->refused.count; i++)
        if (strcmp(p->refused.list[i].subject, subject) == 0)
            return p->refused.list[i].why;
    return NULL;
}

void fv_plan_keep_refusals(const fovea_plan *p)
{
    for (uint32_t i = 0; i < p->refused.count && p->advice.wisdom; i++) {
        if (!p->refused.list[i].lasting)
            continue;
        const fv_fact fact = {.kind = FV_FACT_SKIP,
                              .known = true,
                              .device = p->advice.device,
                              .subject = p->refused.list[i].subject,
                              .choice = p->refused.list[i].choice,
                              .date = (uint64_t)time(NULL)};
        if (fv_wisdom_put(p->advice.wisdom, &fact) != FOVEA_OK)
            fv_log("%s: this refusal is not remembered, so the kernel will be tried again: %s",
                   p->refused.list[i].choice, fovea_error());
    }
}
