/* headroom.c: finds the largest magnitudes of a step's values. */
#include "verify/headroom.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "ops/contracts/linear_attention.h"
#include "ops/mech_traits.h"

enum { QUERIES = 64 }; /* number of queries whose divisors are computed */

double fv_headroom_rows(const fv_given *g, uint64_t rows, uint64_t cols, uint64_t ld,
                        uint64_t *lost)
{
    double largest = 0;
    *lost = 0;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = r * ld; i < r * ld + cols; i++) {
            const double x = g->type == FV_U8 ? ((const uint8_t *)g->data)[i]
                                              : fabs((double)fv_value_get(g->data, g->type, i));
            if (isfinite(x))
                largest = x > largest ? x : largest;
            else
                ++*lost;
        }
    return largest;
}

static fv_lattn_state layout(const fv_problem *p)
{
    const fv_mech_traits *t = fv_mech_table[p->mech];
    return fv_lattn_layout(t->blocks, t->wants, p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV]);
}

double fv_headroom_state(const fv_problem *p, const float *state)
{
    const fv_lattn_state l = layout(p);
    double largest = 0;
    for (uint32_t h = 0; h < p->heads; h++)
        for (size_t i = 0; i < l.vmean; i++)
            largest = fmax(largest, (double)fabsf(state[h * l.floats + i]));
    return largest;
}

/* Writes to `out` a state whose columns S are all m. If every value were 1, S would be this state,
 * and unnormalised attention would give the divisors. */
static void ones(const fv_problem *p, const float *state, float *out)
{
    const fv_lattn_state l = layout(p);
    const uint32_t dv = p->dim[FV_ATTN_DV];
    memcpy(out, state, p->heads * l.floats * sizeof *out);
    for (uint32_t h = 0; h < p->heads; h++, out += l.floats) {
        for (size_t i = 0; i < l.m; i++)
            out[i] = out[l.m + i / dv];
        for (size_t i = l.vmean; i < l.count; i++)
            out[i] = 0;
    }
}

fovea_status fv_headroom_divisor(double *out, const fv_args *args,
                                 const fv_given given[FV_OPERANDS])
{
    fv_args a = {.prob = args->prob, .f = {1, 0, args->f[2]}, .ld = {0}};
    const uint32_t rows = a.prob.dim[FV_DIM_ROWS] < QUERIES ? a.prob.dim[FV_DIM_ROWS] : QUERIES;
    const uint32_t d = a.prob.heads * a.prob.dim[FV_ATTN_D];
    const uint32_t dv = a.prob.heads * a.prob.dim[FV_ATTN_DV];
    const uint64_t floats = a.prob.heads * layout(&a.prob).floats;
    *out = 0;
    /* Unnormalised attention has no divisor. Mechanisms with a shift are left out, because here the
     * queries' features would not be shifted as the state is. */
    if (args->prob.flags & FV_FLAG_UNNORMALISED ||
        fv_mech_table[a.prob.mech]->wants & FV_WANT_SHIFT)
        return FOVEA_OK;
    a.prob.in = a.prob.out = FV_F32;
    a.prob.flags = FV_FLAG_UNNORMALISED;
    a.ld[FV_APPLY_Q] = d;
    a.ld[FV_APPLY_OUT] = dv;
    a.ld[FV_APPLY_PARAM] = args->ld[FV_APPLY_PARAM];
    const fv_kernel *k = fv_reference_kernel(&a.prob);
    if (!k)
        return FOVEA_OK;
    const fv_knobs none = {{0}};
    const uint64_t scratch =
        k->hooks->scratch ? k->hooks->scratch(&a.prob, &none, rows) / sizeof(float) + 1 : 0;
    float *state;
    FV_TRY(FV_MEM_ARRAY(&state, floats + (uint64_t)rows * (d + dv) + scratch, FV_MEM_PLAN,
                        "divisors"));
    float *q = state + floats, *z = q + (uint64_t)rows * d;
    ones(&a.prob, given[FV_APPLY_STATE].data, state);
    const uint64_t step = args->prob.dim[FV_DIM_ROWS] / rows;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < d; i++)
            q[r * d + i] = fv_value_get(given[FV_APPLY_Q].data, given[FV_APPLY_Q].type,
                                        r * step * args->ld[FV_APPLY_Q] + i);
    fv_call c = {.rows = rows, .cols = a.prob.heads, .scratch = z + (uint64_t)rows * dv};
    c.p[FV_APPLY_Q] = q;
    c.p[FV_APPLY_STATE] = state;
    c.p[FV_APPLY_PARAM] = (void *)(uintptr_t)given[FV_APPLY_PARAM].data;
    c.p[FV_APPLY_OUT] = z;
    k->code.cpu(&a, &c);
    uint64_t lost;
    const fv_given divisors = {.data = z, .type = FV_F32};
    *out = fv_headroom_rows(&divisors, rows, dv, dv, &lost);
    fv_mem_free(state);
    return FOVEA_OK;
}
