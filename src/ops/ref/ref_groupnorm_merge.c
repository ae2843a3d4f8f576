/* ref_groupnorm_merge.c: GROUPNORM_MERGE: merges the partials of all reduction groups, then the
 * channels of each channel group, to the group's mean and variance.
 *
 *   dim      1, C, partials, groups: group g has the channels [g C / groups, (g + 1) C / groups)
 *   PARTIAL  partials x 3 C, packed, as ref_groupnorm_reduce.c writes them; one may have no rows
 *   OUT      one row of 3 C: the mean of the channel's group, its variance, 1
 *
 * Partials are merged in order, channel by channel, as ref_groupnorm_reduce.c defines; then,
 * because all channels have the same rows,
 *
 *   mean = mean of the channels' means;   variance = mean of (variances + (means - mean)^2)
 */
#include "ops/contracts/linear_attention.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

static double terms(const fv_problem *p)
{
    return fv_terms_groups(p) + (double)p->dim[FV_ROW_C] / p->dim[FV_GROUPNORM_GROUPS];
}

const fv_op fv_op_groupnorm_merge = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_GROUPNORM_PARTIALS] = {"partials"},
            [FV_GROUPNORM_GROUPS] = {"groups"}},
    .operand = {[FV_MERGE_PARTIAL] = {"PARTIAL", .columns = fv_columns_moments,
                                      .state_of = FV_OP_GROUPNORM_REDUCE},
                [FV_MERGE_STATE] = {"OUT", .columns = fv_columns_moments}},
    .element_flops = 8,
    .terms = terms,
    .groups = FV_GROUPNORM_PARTIALS,
};

/* Merges channel i over all partials. */
static void merge_channel(const fv_args *a, const float *partial, uint32_t i, float *mean,
                          float *var)
{
    const size_t width = a->prob.dim[FV_ROW_C];
    double m = 0, v = 0, all = 0;
    for (uint32_t p = 0; p < a->prob.dim[FV_GROUPNORM_PARTIALS]; p++, partial += 3 * width) {
        const double share = (double)partial[2 * width + i];
        if (!(share > 0))
            continue;
        all += share;
        const double f = share / all, delta = (double)partial[i] - m;
        m += delta * f;
        v = v * (1 - f) + (double)partial[width + i] * f + delta * delta * f * (1 - f);
    }
    *mean = (float)m;
    *var = (float)v;
}

void fv_k_groupnorm_merge_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t width = a->prob.dim[FV_ROW_C], n = width / a->prob.dim[FV_GROUPNORM_GROUPS];
    for (uint32_t first = 0; first < width; first += n) {
        float *mean = (float *)c->p[FV_MERGE_STATE] + first, *var = mean + width;
        double m = 0, v = 0;
        for (uint32_t i = 0; i < n; i++) {
            merge_channel(a, c->p[FV_MERGE_PARTIAL], first + i, &mean[i], &var[i]);
            m += (double)mean[i] / n;
        }
        for (uint32_t i = 0; i < n; i++)
            v += ((double)var[i] + ((double)mean[i] - m) * ((double)mean[i] - m)) / n;
        for (uint32_t i = 0; i < n; i++) {
            mean[i] = (float)m;
            var[i] = (float)v;
            var[width + i] = 1.f;
        }
    }
}
