/* rmsnorm_tmpl.c: implements RMSNORM with vec.h's vector functions. */
#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/row.h"

/* Returns the sum of the squares of x[0 .. n). Four sums hide the latency of the addition. */
FV_FN float square_sum(const void *x, enum fv_type type, size_t n)
{
    fv_v sum[4] = {fv_set(0.f), fv_set(0.f), fv_set(0.f), fv_set(0.f)};
    size_t i = 0;
    for (; i + 4 * FV_W <= n; i += 4 * FV_W) {
        FV_UNROLL
        for (int k = 0; k < 4; k++) {
            const fv_v v = fv_row_load(x, type, i + (size_t)k * FV_W, FV_W);
            sum[k] = fv_fma(v, v, sum[k]);
        }
    }
    for (; i < n; i += FV_W) {
        const fv_v v = fv_row_load(x, type, i, fv_lanes(n - i));
        sum[0] = fv_fma(v, v, sum[0]);
    }
    return fv_hsum(fv_add(fv_add(sum[0], sum[1]), fv_add(sum[2], sum[3])));
}

/* A group of channels, and where its normalised values are stored. */
typedef struct group {
    void *y;
    const void *x, *gate; /* gate: NULL for none */
    const float *weight;
    enum fv_type out, in, gate_type;
    bool silu;
    float head_gate;
} group;

FV_FN void some(const group *g, size_t i, int n, fv_v scale)
{
    fv_v v = fv_mul(fv_mul(fv_row_load(g->x, g->in, i, n), scale), fv_load_n(g->weight + i, n));
    if (g->gate) {
        fv_v gate = fv_row_load(g->gate, g->gate_type, i, n);
        if (g->silu)
            gate = fv_mul(gate, fv_sigmoid(gate));
        v = fv_mul(v, gate);
    }
    fv_row_store(g->y, g->out, i, fv_mul(v, fv_set(g->head_gate)), n);
}

FV_FN void normalise(const group *g, size_t n, float eps)
{
    const fv_v scale = fv_set(1.f / sqrtf(square_sum(g->x, g->in, n) / (float)n + eps));
    size_t i = 0;
    for (; i + FV_W <= n; i += FV_W)
        some(g, i, FV_W, scale);
    if (i < n)
        some(g, i, (int)(n - i), scale);
}

FV_FN void rows(const fv_args *a, const fv_call *c, enum fv_type in, enum fv_type out)
{
    const size_t d = a->prob.dim[FV_RMS_D], heads = a->prob.dim[FV_ROW_C] / d;
    const enum fv_type gate = a->type[FV_RMS_GATE];
    const float *of_head = c->p[FV_RMS_HEAD_GATE];
    group g = {.weight = c->p[FV_RMS_WEIGHT],
               .out = out,
               .in = in,
               .gate_type = gate,
               .silu = a->prob.flags & FV_FLAG_SILU,
               .head_gate = 1.f};
    for (size_t r = 0; r < c->rows; r++) {
        for (size_t h = 0; h < heads; h++) {
            g.x = fv_element(c->p[FV_RMS_IN], in, r * a->ld[FV_RMS_IN] + h * d);
            g.y = fv_element(c->p[FV_RMS_OUT], out, r * a->ld[FV_RMS_OUT] + h * d);
            if (c->p[FV_RMS_GATE])
                g.gate = fv_element(c->p[FV_RMS_GATE], gate, r * a->ld[FV_RMS_GATE] + h * d);
            if (of_head)
                g.head_gate = of_head[r * a->ld[FV_RMS_HEAD_GATE] + h];
            normalise(&g, d, a->f[0]);
        }
    }
}

void FV_NAME(fv_k_rmsnorm_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.in == FV_F32 && a->prob.out == FV_F32)
        rows(a, c, FV_F32, FV_F32);
    else if (a->prob.in == FV_F32)
        rows(a, c, FV_F32, FV_BF16);
    else
        rows(a, c, FV_BF16, a->prob.out);
}

static double cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    return (double)p->dim[FV_DIM_ROWS] * p->dim[FV_ROW_C] / (FV_W * 5e8);
}

const fv_kernel_hooks FV_NAME(fv_h_rmsnorm_f32) = {.cost = cost};
