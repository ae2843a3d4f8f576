/* tune_candidates.c: lists the candidates for a step: kernels with their knobs. */
#include <string.h>

#include "tune/tuner.h"

/* Kernels whose modelled cost exceeds that of the estimate's choice by more than this factor are
 * not measured, unless their cost is below CHEAP. A larger factor tunes longer, but depends less on
 * the cost model. */
#define MEASURE_COST 4.0
#define EXHAUSTIVE_COST 16.0
#define CHEAP 2e-3 /* seconds */

static void add_candidate(fv_candidates *c, const fv_kernel *kernel, const fv_knobs *knobs)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->list[i].kernel == kernel && memcmp(&c->list[i].knobs, knobs, sizeof *knobs) == 0)
            return;
    if (c->count < sizeof c->list / sizeof *c->list)
        c->list[c->count++] = (fv_candidate){kernel, *knobs};
}

/* Adds every combination of values of the knobs from number `i` on. */
static void add_all(fv_candidates *c, const fv_kernel *kernel, fv_knobs knobs, int i)
{
    const fv_knob *knob = kernel->hooks->knobs;
    if (!knob || i == FV_KNOBS || !knob[i].name) {
        add_candidate(c, kernel, &knobs);
        return;
    }
    for (uint32_t v = 0; v < knob[i].count; v++) {
        knobs.v[i] = knob[i].value[v];
        add_all(c, kernel, knobs, i + 1);
    }
}

void fv_candidates_kernels(fv_candidates *out, const fv_tuner *t, const fv_step *s,
                           const fv_step_plan *chosen)
{
    const bool all = t->rigor == FOVEA_RIGOR_EXHAUSTIVE;
    const double factor = all ? EXHAUSTIVE_COST : MEASURE_COST;
    const double lowest = fv_kernel_cost(chosen->kernel, &s->prob, &chosen->knobs);
    int count;
    uint32_t features;
    const fv_kernel *list = t->device->backend->kernels(t->device->device, &count, &features);
    fv_knobs knobs;
    const char *source;
    out->count = 0;
    add_candidate(out, chosen->kernel, &chosen->knobs);
    const fv_kernel *prior =
        fv_advice_step(&t->known, list, count, features, &s->prob, &knobs, &source);
    if (prior)
        add_candidate(out, prior, &knobs);
    for (int i = count - 1; i >= 0; i--) { /* higher ISA levels are later in the list */
        knobs = fv_kernel_defaults(&list[i]);
        if (!fv_kernel_fits(&list[i], &s->prob, features))
            continue;
        const double cost = fv_kernel_cost(&list[i], &s->prob, &knobs);
        if (cost > factor * lowest && cost > CHEAP)
            continue;
        if (all)
            add_all(out, &list[i], knobs, 0);
        else
            add_candidate(out, &list[i], &knobs);
    }
}

void fv_candidates_around(fv_candidates *out, const fv_candidate *from)
{
    const fv_knob *knob = from->kernel->hooks->knobs;
    out->count = 0;
    add_candidate(out, from->kernel, &from->knobs);
    for (int i = 0; knob && i < FV_KNOBS && knob[i].name; i++)
        for (uint32_t v = 0; v < knob[i].count; v++) {
            fv_knobs knobs = from->knobs;
            knobs.v[i] = knob[i].value[v];
            add_candidate(out, from->kernel, &knobs);
        }
}
