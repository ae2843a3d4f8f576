/* kernel.c: finds the kernels of a registry that fit a problem, and estimates their cost, for the
 * planner. */
#include "ops/kernel.h"

#include <string.h>

bool fv_kernel_fits(const fv_kernel *k, const fv_problem *p, uint32_t features)
{
    return k->op == p->op && (k->mech == FV_MECH_ANY || k->mech == p->mech) &&
           (k->needs & ~features) == 0 && (!k->hooks->applies || k->hooks->applies(p));
}

bool fv_kernel_is_reference(const fv_kernel *k)
{
    static const char ending[] = "_ref";
    const size_t length = strlen(k->name), end = sizeof ending - 1;
    return length > end && strcmp(k->name + length - end, ending) == 0;
}

fv_knobs fv_kernel_defaults(const fv_kernel *k)
{
    fv_knobs knobs = {{0}};
    for (int i = 0; k->hooks->knobs && k->hooks->knobs[i].name; i++)
        knobs.v[i] = k->hooks->knobs[i].value[0];
    return knobs;
}

/* Returns the speed of a kernel in FLOP/s. It is assumed, not measured, because it only orders
 * kernels. A wider ISA is assumed to be faster. */
static double rate_of(const fv_kernel *k)
{
    return k->hooks->rate > 0          ? k->hooks->rate
           : k->needs & FV_NEED_AVX512 ? 24e9
           : k->needs & FV_NEED_AVX2   ? 16e9
           : k->needs & FV_NEED_NEON   ? 8e9
                                       : 2e9;
}

double fv_kernel_cost(const fv_kernel *k, const fv_problem *p, const fv_knobs *knobs)
{
    return k->hooks->cost ? k->hooks->cost(p, knobs) : fv_problem_flops(p) / rate_of(k);
}

const fv_kernel *fv_kernel_choose(const fv_kernel *list, int count, uint32_t features,
                                  const fv_problem *p, fv_kernel_skips *skips, const void *ctx)
{
    const fv_kernel *best = NULL;
    double best_cost = 0;
    for (int i = 0; i < count; i++) {
        if (!fv_kernel_fits(&list[i], p, features))
            continue;
        fv_knobs knobs = fv_kernel_defaults(&list[i]);
        double cost = fv_kernel_cost(&list[i], p, &knobs);
        if (best && cost > best_cost) /* at equal cost the later line wins, which has the higher
                                         ISA level */
            continue;
        if (!skips || !skips(ctx, &list[i], &knobs, p)) {
            best = &list[i];
            best_cost = cost;
        }
    }
    return best;
}
