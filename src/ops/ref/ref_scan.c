/* ref_scan.c: SCAN: causal linear attention with a state that is read and updated: plain, with
 * decays (RetNet, GLA), with the delta rule (DeltaNet, Gated DeltaNet), or centred (MALA).
 *
 *   dim     rows, d, dv, keys = rows; heads; phi is the feature map of prob.mech, d' wide:
 *           its blocks times d
 *   prob.in, prob.out  types of Q, K, V and of OUT: F32, F16, BF16; the others are float32
 *   Q, K    ROW, heads * d wide
 *   V, OUT  ROW, heads * dv wide; OUT is not another operand
 *   DECAY   ROW, log decays a: with FV_FLAG_DECAY heads wide, with ld 0 for one row for all tokens;
 *           with FV_FLAG_DECAY_CHANNEL heads * d wide, of a mechanism with d' = d
 *   BETA    ROW, heads wide, with FV_FLAG_DELTA
 *   GATE_Q, GATE_K  ROW, heads wide, with FV_FLAG_GATED; GATE_Q may be absent, which means ones
 *   STATE   S and, without FV_FLAG_UNNORMALISED, Z of every head, with FV_FLAG_CENTRED also M and
 *           the number of tokens; read and written
 *   f[0]    scale
 *   f[1]    eps; with FV_FLAG_CENTRED FLT_MIN at least
 *   f[2]    with FV_FLAG_CENTRED: the increase of the scale with every token
 *   u[0]    tokens of a chunk, 0: the kernel's choice; a kernel may use fewer
 *   col0, cols  heads
 *
 *            head 0        head 1             head 0   head 1        centred: the same for M [dv],
 *   STATE  | S [d'][dv]  | S [d'][dv] | ..  | Z [d'] | Z [d'] | ..   then of the number, a float
 *
 *   q' = phi(q), k' = phi(k);   FV_FLAG_L2: q', k' /= sqrt(|.|^2 + 1e-6);   q' *= f0
 *   FV_FLAG_GATED: q' *= gate_q, k' *= gate_k; with FV_FLAG_DELTA v *= gate_k instead of k'
 *   S = e^a S, Z = e^a Z                if a has channels, e^a of channel c for row c of S
 *   u = v;   FV_FLAG_DELTA: u = beta (v - k' S)
 *   S = S + k'^T u;   Z = Z + k'
 *   FV_FLAG_UNNORMALISED:  out = q' S
 *   without it             out = q' S / (q'.Z + f1), where gate_q, if any, is a factor of out
 *
 * FV_FLAG_CENTRED: Z is the mean of k', M that of v, and S that of (k' - Z)^T (v - M), over the n
 * tokens so far, so that none of the means grows and no two of them cancel:
 *
 *   n = n + 1;   u = k' - Z;   Z = Z + u / n;   M = M + (v - M) / n
 *   S = (1 - 1/n) S + u^T (v - M) / n;   q' *= f0 + n f2 instead of f0;   z = q'.Z
 *   out = (1 + 1/(z + f1)) q' S + z/(z + f1) M, where gate_q, if any, is a factor of out
 *
 * out is equal to (1 + 1/(z + f1)) q' mean(k'^T v) - z M. FV_FLAG_CENTRED excludes the flags of the
 * other equations. From 2^24 tokens on, n is constant, and the means become moving averages.
 *
 * The equations are applied to the call's rows in order. FV_FLAG_DELTA requires
 * FV_FLAG_UNNORMALISED. A head's result does not depend on how heads are split into calls; a split
 * of the rows into calls only changes rounding. e^a of minus infinity is 0. A token changes no
 * earlier result, even if it has NaN.
 */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/contracts/sequence.h"
#include "ops/mech_traits.h"
#include "ops/ref/ref_features.h"
#include "ops/ref/ref_kernels.h"

static size_t width_of(const fv_problem *p)
{
    return (size_t)fv_mech_table[p->mech]->blocks * p->dim[FV_ATTN_D];
}

/* Returns the FLOPs of a scan. A chunkwise scan has chunks of 64 tokens and full score matrices,
 * half of which are wasted. A recurrent scan updates and reads the state. */
static double flops(const fv_problem *p)
{
    const double w = (double)width_of(p), dv = p->dim[FV_ATTN_DV], rows = p->dim[FV_DIM_ROWS];
    const double c = rows < 64 ? rows : 64;
    if (p->flags & FV_FLAG_RECURRENT) /* the FLOPs of centring are left out */
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
    .multiplies = FV_MULTIPLIES_ROWS,
    .state = FV_SCAN_STATE,
};

/* Reads row r of one head, d floats, to x. */
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

/* Computes phi of x, L2-normalised if the flag is set, times `factor`. */
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

/* Returns the decay of key channel i, in double. In float, a decay close to 1, such as RetNet's
 * slowest, would be rounded in the same direction at every token, and the state would drift. */
static double decay(const fv_args *a, const fv_call *c, size_t r, size_t head, size_t width,
                    size_t i)
{
    if (a->prob.flags & FV_FLAG_DECAY_CHANNEL)
        return exp(scalar(a, c, FV_SCAN_DECAY, r, head * width + i));
    return a->prob.flags & FV_FLAG_DECAY ? exp(scalar(a, c, FV_SCAN_DECAY, r, head)) : 1.;
}

/* Subtracts from u the values that the state returns for k, as the delta rule does. */
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

/* The parts of one head's state. */
typedef struct memory {
    float *s, *z, *mean, *count;
} memory;

static memory memory_of(const fv_args *a, const fv_call *c, size_t head)
{
    const size_t width = width_of(&a->prob), dv = a->prob.dim[FV_ATTN_DV], heads = a->prob.heads;
    float *state = c->p[FV_SCAN_STATE], *z = state + heads * width * dv, *mean = z + heads * width;
    return (memory){state + head * width * dv, z + head * width, mean + head * dv,
                    mean + heads * dv + head};
}

/* The features and values of one token. */
typedef struct features {
    float *q, *k, *v;
    float gate_q, gate_k;
} features;

static features take(const fv_args *a, const fv_call *c, size_t r, size_t head)
{
    const size_t width = width_of(&a->prob), d = a->prob.dim[FV_ATTN_D];
    const size_t dv = a->prob.dim[FV_ATTN_DV];
    const uint32_t flags = a->prob.flags;
    const bool gated = flags & FV_FLAG_GATED;
    features f = {.q = c->scratch, .gate_q = 1.f, .gate_k = 1.f};
    f.k = f.q + width;
    f.v = f.k + width;
    float *x = f.v + dv, scale = a->f[0];
    if (gated && c->p[FV_SCAN_GATE_Q])
        f.gate_q = scalar(a, c, FV_SCAN_GATE_Q, r, head);
    if (gated)
        f.gate_k = scalar(a, c, FV_SCAN_GATE_K, r, head);
    if (flags & FV_FLAG_UNNORMALISED)
        scale *= f.gate_q;
    if (flags & FV_FLAG_CENTRED)
        scale += a->f[2] * (*memory_of(a, c, head).count + 1.f);
    read_row(x, a, c, FV_SCAN_Q, r, head, d);
    map(f.q, a, x, width, 1, scale);
    read_row(x, a, c, FV_SCAN_K, r, head, d);
    map(f.k, a, x, width, 0, flags & FV_FLAG_DELTA ? 1.f : f.gate_k);
    read_row(f.v, a, c, FV_SCAN_V, r, head, dv);
    return f;
}

/* Subtracts from x the running mean of `count` values: the mean before x is added to it or, with
 * `after`, the mean that includes x. */
static void centre(float *x, float *mean, size_t n, double count, bool after)
{
    for (size_t i = 0; i < n; i++) {
        const float before = mean[i];
        mean[i] = (float)(before + ((double)x[i] - before) / count);
        x[i] -= after ? mean[i] : before;
    }
}

static void token(const fv_args *a, const fv_call *c, size_t r, size_t head)
{
    const size_t width = width_of(&a->prob), dv = a->prob.dim[FV_ATTN_DV];
    const uint32_t flags = a->prob.flags;
    const bool divided = !(flags & FV_FLAG_UNNORMALISED), centred = flags & FV_FLAG_CENTRED;
    const features f = take(a, c, r, head);
    const memory m = memory_of(a, c, head);
    double count = 1.;

    if (centred) {
        count = *m.count += 1.f;
        centre(f.k, m.z, width, count, false);
        centre(f.v, m.mean, dv, count, true);
    }
    for (size_t i = 0; i < width; i++) {
        const double fade = centred ? 1. - 1. / count : decay(a, c, r, head, width, i);
        for (size_t j = 0; j < dv; j++)
            m.s[i * dv + j] = (float)(fade * m.s[i * dv + j]);
        if (divided && !centred)
            m.z[i] = (float)(fade * m.z[i]) + f.k[i];
    }
    if (flags & FV_FLAG_DELTA) {
        for (size_t j = 0; j < dv; j++)
            f.v[j] *= f.gate_k;
        correct(f.v, f.k, m.s, width, dv, scalar(a, c, FV_SCAN_BETA, r, head));
    }
    float factor = 1.f, share = 0.f, z = 0.f;
    for (size_t i = 0; divided && i < width; i++)
        z += f.q[i] * m.z[i];
    if (divided)
        factor = f.gate_q / (z + a->f[1]);
    if (centred) {
        share = factor * z;
        factor += f.gate_q;
    }
    for (size_t j = 0; j < dv; j++) {
        float o = 0.f;
        for (size_t i = 0; i < width; i++) {
            m.s[i * dv + j] += f.k[i] * (float)(f.v[j] / count);
            o += f.q[i] * m.s[i * dv + j];
        }
        o *= factor;
        if (centred)
            o += share * m.mean[j];
        fv_value_put(c->p[FV_SCAN_OUT], a->prob.out, r * a->ld[FV_SCAN_OUT] + head * dv + j, o);
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
