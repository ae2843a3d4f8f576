/* plan_attention.c: gives the caller the options and biases with which it can compute the attention
 * of a block again from outputs of the plan. */
#include <math.h>

#include <fovea/operations.h>

#include "base/abi.h"
#include "graph/attended.h"
#include "plan/plan.h"

static fovea_status find(const fv_attended **out, const fovea_plan *plan, size_t index)
{
    FV_TRY(fv_require(plan, "the plan"));
    *out = index < plan->graph.n_wanted ? plan->graph.wanted[index].attended : NULL;
    return *out ? FOVEA_OK
                : fv_fail(FOVEA_EINVAL,
                          "output %zu is not the queries of an attention; choose an output that "
                          "is, such as \"block0.q\"",
                          index);
}

/* Kernels divide by the number of keys, but the documented equations do not: converts scale and eps
 * back. See fv_attention_scales. */
static void set_scales(fovea_attention_options *o, const fv_attended *at)
{
    const bool sums = at->kind == FV_ATTENTION_LINEAR;
    o->scale = sums || at->kind == FV_ATTENTION_MALA_PAPER ? 1 : at->a.scale;
    o->eps = sums ? at->a.eps * at->a.keys : at->a.eps;
    o->alpha = at->a.alpha;
}

fovea_status fovea_plan_attention(const fovea_plan *plan, size_t index,
                                  fovea_attention_options *out)
{
    const fv_attended *at;
    FV_TRY(find(&at, plan, index));
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = at->text;
    o.rows = at->rows;
    o.keys = at->window ? at->window : at->a.keys;
    o.heads = at->a.heads;
    o.head_dim = at->a.d;
    o.value_dim = at->a.dv;
    o.channel_scale = at->scale;
    o.power = at->power;
    o.rope_cos = at->cos;
    o.rope_sin = at->sin;
    if (at->a.flags & FV_FLAG_ROPE && at->a.rope_width) {
        o.rope_width = at->a.rope_width;
        o.rope_height = at->rows / at->a.rope_width;
    }
    set_scales(&o, at);
    return FV_ABI_WRITE(out, o, FOVEA_ATTENTION_OPTIONS_INIT);
}

/* Returns the position of a row of the output in the order of windows. */
static uint32_t ordered(const fv_attended *at, uint32_t row)
{
    return at->row ? at->row[row] : row;
}

static float bias_of(const fv_attended *at, uint32_t head, uint32_t q, uint32_t k)
{
    const uint32_t t = at->window;
    if (q / t != k / t || (at->region && at->region[q] != at->region[k]))
        return -INFINITY;
    return at->bias ? at->bias[((size_t)head * t + q % t) * t + k % t] : 0;
}

fovea_status fovea_plan_attention_bias(const fovea_plan *plan, size_t index, uint32_t row,
                                       float *bias, size_t floats)
{
    const fv_attended *at;
    FV_TRY(find(&at, plan, index));
    FV_TRY(fv_require(bias, "the biases"));
    const uint32_t keys = at->window ? at->rows : at->a.keys;
    if (row >= at->rows || floats != (size_t)at->a.heads * keys)
        return fv_fail(FOVEA_EINVAL,
                       "row %u of %u rows, buffer of %zu biases: the row must exist, and %u heads "
                       "with %u keys need one bias each",
                       row, at->rows, floats, at->a.heads, keys);
    for (size_t i = 0; i < floats; i++)
        bias[i] = at->window ? bias_of(at, (uint32_t)(i / keys), ordered(at, row),
                                       ordered(at, (uint32_t)(i % keys)))
                             : 0;
    return FOVEA_OK;
}
