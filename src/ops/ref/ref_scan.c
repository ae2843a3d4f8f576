/* ref_scan.c: SCAN: causal linear attention with a state that is read and updated: plain, with
 * decays (RetNet, GLA), with the delta rule (DeltaNet, Gated DeltaNet).
 *
 *   dim     rows, d, dv, keys = rows; heads; phi is the feature map of prob.mech, d' wide:
 *           its blocks times d
 *   prob.in, prob.out  types of Q, K, V and of OUT: F32, F16, BF16; the others are float32
 *   Q, K    ROW, heads * d wide
 *   V, OUT  ROW, heads * dv wide; OUT is none of the others
 *   DECAY   ROW, log decays a: with FV_FLAG_DECAY heads wide, where ld may be 0: one row for every
 *           token; with FV_FLAG_DECAY_CHANNEL heads * d wide, of a mechanism with d' = d
 *   BETA    ROW, heads wide, with FV_FLAG_DELTA
 *   GATE_Q, GATE_K  ROW, heads wide, with FV_FLAG_GATED; GATE_Q may be absent: ones
 *   STATE   S and, without FV_FLAG_UNNORMALISED, Z of every head; read and written
 *   f[0]    scale
 *   f[1]    eps
 *   u[0]    tokens of a chunk, 0: the kernel's choice; a kernel may take fewer
 *   col0, cols  heads
 *
 *            head 0        head 1             head 0   head 1
 *   STATE  | S [d'][dv]  | S [d'][dv] | ..  | Z [d'] | Z [d'] | ..
 *
 *   q' = phi(q), k' = phi(k);   FV_FLAG_L2: q', k' /= sqrt(|.|^2 + 1e-6);   q' *= f0
 *   FV_FLAG_GATED: q' *= gate_q, k' *= gate_k; with FV_FLAG_DELTA v *= gate_k instead of k'
 *   S = e^a S, Z = e^a Z                of key channel c where a has channels: row c of S
 *   u = v;   FV_FLAG_DELTA: u = beta (v - k' S)
 *   S = S + k'^T u;   Z = Z + k'
 *   FV_FLAG_UNNORMALISED:  out = q' S
 *   without it             out = q' S / (q'.Z + f1), where gate_q, if any, is a factor of out
 *
 * for the call's rows in order. FV_FLAG_DELTA comes with FV_FLAG_UNNORMALISED. A head's result does
 * not depend on how heads are split into calls; a division of the rows into calls changes rounding
 * only. e^a of minus infinity is 0. A token changes nothing that comes before it, NaN included.
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/mech_traits.h"
#include "ops/ref/ref_features.h"
#include "ops/ref/ref_kernels.h"

static size_t width_of(const fv_problem *p)
{
    return (size_t)fv_mech_table[p->mech]->blocks * p->dim[FV_ATTN_D];
}

/* Counted as chunks of 64 tokens with whole score matrices: half of each product is wasted. A
 * recurrent scan counts what updating and reading the state costs. */
static double flops(const fv_problem *p)
{
    const double w = (double)width_of(p), dv = p->dim[FV_ATTN_DV], rows = p->dim[FV_DIM_ROWS];
    const double c = rows < 64 ? rows : 64;
    if (p->flags & FV_FLAG_RECURRENT)
        return rows * p->heads * (5 + 2 * !!(p->flags & FV_FLAG_DELTA)) * w * dv;
    if (p->flags & FV_FLAG_DELTA)
        return rows * p->heads * (c * (6 * w + 4 * dv) + 6 * w * dv + c * c / 3);
    return rows * p->heads *
           (2 * c * (w + dv) + 4 * w * dv + 48 * w * !!(p->flags & FV_FLAG_DECAY_CHANNEL));
}

static double terms(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] + (double)width_of(p);
}

const fv_op fv_op_scan = {
    .span = FV_SPAN_SCAN,
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_SAME}},
    .operand = {[FV_SCAN_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_SCAN_K] = {"K", FV_ATTN_D, .heads = true},
                [FV_SCAN_V] = {"V", FV_ATTN_DV, .heads = true},
                [FV_SCAN_DECAY] = {"DECAY", .stored = FV_STORED_FLOATS, .nature = FV_NATURE_DECAY},
                [FV_SCAN_BETA] = {"BETA", .heads = true, .nature = FV_NATURE_FRACTION},
                [FV_SCAN_GATE_Q] = {"GATE_Q", .heads = true, .nature = FV_NATURE_FRACTION},
                [FV_SCAN_GATE_K] = {"GATE_K", .heads = true, .nature = FV_NATURE_FRACTION},
                [FV_SCAN_STATE] = {"STATE", .nature = FV_NATURE_FRACTION},
                [FV_SCAN_OUT] = {"OUT", FV_ATTN_DV, .heads = true}},
    .flops = flops,
    .terms = terms,
    .state = FV_SCAN_STATE,
};

/* Row r of one head; x has room for d floats. */
static void read_row(float *x, const fv_args *a, const fv_call *c, int operand, size_t r,
                     size_t head, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = fv_value_get(c->p[operand], a->prob.in, r * a->ld[operand] + head * n + i);
}

static float scalar(const fv_args *a, const fv_call *c, int operand, size_t r, size_t column)
{
    return ((const float *)c->p[operand])[r * a->ld[operand] + column];
}

/* phi of x, normalised if need be, times factor. */
static void map(float *out, const fv_args *a, const float *x, size_t width, int query, float factor)
{
    fv_features_ref[a->prob.mech](out, width, x, a->prob.dim[FV_ATTN_D], 1, a->prob.dim[FV_ATTN_D],
                                  query);
    if (a->prob.flags & FV_FLAG_L2) {
        float square = 0.f;
        for (size_t i = 0; i < width; i++)
            square += out[i] * out[i];
        factor /= sqrtf(square + 1e-6f);
    }
    for (size_t i = 0; i < width; i++)
        out[i] *= factor;
}

/* The decay of key channel i. In double: a factor so near to 1 that float would round it the same
 * way at every token, as RetNet's slowest, must not drift. */
static double decay(const fv_args *a, const fv_call *c, size_t r, size_t head, size_t width,
                    size_t i)
{
    if (a->prob.flags & FV_FLAG_DECAY_CHANNEL)
        return exp(scalar(a, c, FV_SCAN_DECAY, r, head * width + i));
    return a->prob.flags & FV_FLAG_DECAY ? exp(scalar(a, c, FV_SCAN_DECAY, r, head)) : 1.;
}

/* u in place of v: the error of what the state returns for k. */
static void correct(float *u, const float *k, const float *state, size_t width, size_t dv,
                    float beta)
{
    for (size_t j = 0; j < dv; j++) {
        float held = 0.f;
        for (size_t i = 0; i < width; i++)
            held += k[i] * state[i * dv + j];
        u[j] = beta * (u[j] - held);
    }
}

static void token(const fv_args *a, const fv_call *c, size_t r, size_t head)
{
    const size_t width = width_of(&a->prob), d = a->prob.dim[FV_ATTN_D];
    const size_t dv = a->prob.dim[FV_ATTN_DV];
    const uint32_t flags = a->prob.flags;
    float *q = c->scratch, *k = q + width, *u = k + width, *x = u + dv;
    float *state = (float *)c->p[FV_SCAN_STATE] + head * width * dv;
    float *z = (float *)c->p[FV_SCAN_STATE] + a->prob.heads * width * dv + head * width;
    const bool reads = flags & FV_FLAG_GATED && c->p[FV_SCAN_GATE_Q];
    const float gate_q = reads ? scalar(a, c, FV_SCAN_GATE_Q, r, head) : 1.f;
    const float gate_k = flags & FV_FLAG_GATED ? scalar(a, c, FV_SCAN_GATE_K, r, head) : 1.f;

    read_row(x, a, c, FV_SCAN_Q, r, head, d);
    map(q, a, x, width, 1, flags & FV_FLAG_UNNORMALISED ? a->f[0] * gate_q : a->f[0]);
    read_row(x, a, c, FV_SCAN_K, r, head, d);
    map(k, a, x, width, 0, flags & FV_FLAG_DELTA ? 1.f : gate_k);
    read_row(u, a, c, FV_SCAN_V, r, head, dv);
    for (size_t i = 0; i < width; i++) {
        const double fade = decay(a, c, r, head, width, i);
        for (size_t j = 0; j < dv; j++)
            state[i * dv + j] = (float)(fade * state[i * dv + j]);
        if (!(flags & FV_FLAG_UNNORMALISED))
            z[i] = (float)(fade * z[i]) + k[i];
    }
    if (flags & FV_FLAG_DELTA) {
        for (size_t j = 0; j < dv; j++)
            u[j] *= gate_k;
        correct(u, k, state, width, dv, scalar(a, c, FV_SCAN_BETA, r, head));
    }
    float factor = 1.f;
    if (!(flags & FV_FLAG_UNNORMALISED)) {
        float sum = a->f[1];
        for (size_t i = 0; i < width; i++)
            sum += q[i] * z[i];
        factor = gate_q / sum;
    }
    for (size_t j = 0; j < dv; j++) {
        float o = 0.f;
        for (size_t i = 0; i < width; i++) {
            state[i * dv + j] += k[i] * u[j];
            o += q[i] * state[i * dv + j];
        }
        fv_value_put(c->p[FV_SCAN_OUT], a->prob.out, r * a->ld[FV_SCAN_OUT] + head * dv + j,
                     o * factor);
    }
}

void fv_k_scan_f32_step_ref(const fv_args *a, const fv_call *c)
{
    for (size_t head = c->col0; head < (size_t)c->col0 + c->cols; head++)
        for (size_t r = 0; r < c->rows; r++)
            token(a, c, r, head);
}

static bool applies(const fv_problem *p)
{
    return fv_features_ref[p->mech] && !(p->flags & FV_FLAG_CHUNKWISE);
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return (2 * width_of(p) + p->dim[FV_ATTN_DV] + p->dim[FV_ATTN_D]) * sizeof(float);
}

const fv_kernel_hooks fv_h_scan_f32_step_ref = {.applies = applies, .scratch = scratch_bytes};
