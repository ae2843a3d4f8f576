/* boxes_tmpl.c: implements SINE, DEFORM and REFINE with vec.h's vector functions. */
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_deform.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"

/* Returns sin(2 pi t) for |t| < 1, from the sine or cosine of the distance to the nearest quarter
 * turn. */
FV_FN fv_v sine(fv_v t)
{
    t = fv_sub(t, fv_round(t));
    const fv_v quarter = fv_round(fv_mul(t, fv_set(4.f))), size = fv_abs(quarter);
    const fv_v left = fv_mul(fv_fma(quarter, fv_set(-0.25f), t), fv_set(6.28318531f));
    const fv_v s = fv_sin_small(left), cosine = fv_cos_small(left);
    const fv_v one = fv_sel_lt0(quarter, fv_neg(cosine), cosine);
    const fv_v far = fv_sel_lt(size, fv_set(1.5f), one, fv_neg(s));
    return fv_sel_lt(size, fv_set(0.5f), s, far);
}

#if FV_FUSED
/* Returns the exact rounding error of a product: a b - p, where p is a b rounded to float. */
FV_FN fv_v product_error(fv_v a, fv_v b, fv_v p)
{
    return fv_fma(a, b, fv_neg(p));
}
#else
/* Returns the leading 12 bits of x's significand, so that a product of two such halves is exact. */
FV_FN fv_v first_bits(fv_v x)
{
    const fv_v wide = fv_mul(x, fv_set(4097.f));
    return fv_sub(wide, fv_sub(wide, x));
}

FV_FN fv_v product_error(fv_v a, fv_v b, fv_v p)
{
    const fv_v a1 = first_bits(a), a2 = fv_sub(a, a1), b1 = first_bits(b), b2 = fv_sub(b, b1);
    const fv_v error = fv_add(fv_sub(fv_mul(a1, b1), p), fv_mul(a1, b2));
    return fv_add(fv_add(error, fv_mul(a2, b1)), fv_mul(a2, b2));
}
#endif

/* Returns the fractional part of x times the rates from i on, in revolutions. `low`, unless NULL,
 * has the low-order parts of the rates. */
FV_FN fv_v revolutions_of(fv_v x, const float *rate, const float *low, size_t i, int n)
{
    const fv_v most = fv_set(0x1p22f), r = fv_load_n(rate + i, n), revolutions = fv_mul(x, r);
    const fv_v y = fv_min(most, fv_max(fv_neg(most), revolutions));
    fv_v error = product_error(x, r, revolutions);
    if (low)
        error = fv_fma(x, fv_load_n(low + i, n), error);
    return fv_add(fv_sub(y, fv_round(y)), fv_sel_lt(fv_abs(revolutions), most, error, fv_set(0.f)));
}

void FV_NAME(fv_k_sine_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], parts = a->prob.dim[FV_SINE_PARTS];
    const float *rate = c->p[FV_SINE_RATE], *phase = c->p[FV_SINE_PHASE];
    const float *low = a->u[0] ? rate + width : NULL;
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_SINE_IN] + r * a->ld[FV_SINE_IN];
        float *out = (float *)c->p[FV_SINE_OUT] + r * a->ld[FV_SINE_OUT];
        for (size_t p = 0; p < parts; p++, out += width) {
            const fv_v x = fv_set(in[p]);
            for (size_t i = 0; i < width; i += FV_W) {
                const int n = fv_lanes(width - i);
                const fv_v t = fv_add(revolutions_of(x, rate, low, i, n), fv_load_n(phase + i, n));
                fv_store_n(out + i, sine(t), n);
            }
        }
    }
}

/* ---- deformable attention ---- */

FV_FN void add_values(float *out, const float *values, float part, size_t d)
{
    const fv_v factor = fv_set(part);
    for (size_t i = 0; i < d; i += FV_W) {
        const int n = fv_lanes(d - i);
        fv_store_n(out + i, fv_fma(factor, fv_load_n(values + i, n), fv_load_n(out + i, n)), n);
    }
}

FV_FN void scale_values(float *out, float factor, size_t d)
{
    for (size_t i = 0; i < d; i += FV_W) {
        const int n = fv_lanes(d - i);
        fv_store_n(out + i, fv_mul(fv_set(factor), fv_load_n(out + i, n)), n);
    }
}

/* Computes the deformable attention of one head for one row. The pointers are to the head's
 * offsets, weights and result. */
FV_FN void attend(const fv_args *a, const float *values, const float *box, const float *offset,
                  const float *weight, float *out)
{
    const fv_deform_level *level = a->table;
    const size_t d = a->prob.dim[FV_ATTN_D], points = a->prob.dim[FV_DEFORM_POINTS];
    const size_t levels = a->prob.dim[FV_DEFORM_LEVELS];
    float max = -INFINITY, sum = 0.f;
    for (size_t p = 0; p < levels * points; p++)
        max = weight[p] > max ? weight[p] : max;
    memset(out, 0, d * sizeof *out);
    for (size_t l = 0; l < levels; l++)
        for (size_t p = 0; p < points; p++, offset += 2, weight++) {
            const float e = expf(*weight - max);
            const fv_deform_corners k = fv_deform_point(a, &level[l], box, offset);
            sum += e;
            for (int n = 0; n < k.count; n++)
                add_values(out, values + k.row[n] * a->ld[FV_DEFORM_VALUES], e * k.part[n], d);
        }
    scale_values(out, 1.f / sum, d);
}

void FV_NAME(fv_k_deform_f32)(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D];
    const size_t samples = (size_t)a->prob.dim[FV_DEFORM_LEVELS] * a->prob.dim[FV_DEFORM_POINTS];
    for (size_t r = 0; r < c->rows; r++) {
        const float *box = (const float *)c->p[FV_DEFORM_BOX] + r * a->ld[FV_DEFORM_BOX];
        const float *offset = (const float *)c->p[FV_DEFORM_OFFSET] + r * a->ld[FV_DEFORM_OFFSET];
        const float *weight = (const float *)c->p[FV_DEFORM_WEIGHT] + r * a->ld[FV_DEFORM_WEIGHT];
        float *out = (float *)c->p[FV_DEFORM_OUT] + r * a->ld[FV_DEFORM_OUT];
        for (size_t h = 0; h < a->prob.heads; h++)
            attend(a, (const float *)c->p[FV_DEFORM_VALUES] + h * d, box, offset + 2 * h * samples,
                   weight + h * samples, out + h * d);
    }
}

/* ---- boxes ---- */

void FV_NAME(fv_k_refine_f32)(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *box = (const float *)c->p[FV_REFINE_BOX] + r * a->ld[FV_REFINE_BOX];
        const float *delta = (const float *)c->p[FV_REFINE_DELTA] + r * a->ld[FV_REFINE_DELTA];
        float *out = (float *)c->p[FV_REFINE_OUT] + r * a->ld[FV_REFINE_OUT];
        const fv_v side = fv_load_n(box + 2, 2);
        const fv_v grown = fv_mul(side, fv_exp(fv_load_n(delta + 2, 2)));
        fv_store_n(out, fv_fma(fv_load_n(delta, 2), side, fv_load_n(box, 2)), 2);
        fv_store_n(out + 2, grown, 2);
    }
}
