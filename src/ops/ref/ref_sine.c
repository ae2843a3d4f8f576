/* ref_sine.c: SINE: sines of coordinates at several rates, as an encoding of positions.
 *
 *   dim    rows, C, parts
 *   IN     ROW, parts wide            PHASE  C floats, in revolutions
 *   RATE   C floats, in revolutions; u[0] = 1: two rows of C, whose sums are the rates: the second
 *          has the digits that a float lacks
 *   OUT    ROW, parts * C wide; not IN
 *
 *   y = min(2^22, max(-2^22, in[p] rate[c])), NaN stays;   t = y - round(y) + phase[c]
 *   out[p C + c] = sin(2 pi t)
 *
 * With rates in pairs and phases 0 and 1/4, these are the sines and cosines of DETR. Whole
 * revolutions are subtracted before the phase is added, so that neither step loses digits. y is
 * computed to more digits than a float has, for |in| and |rate| up to 2^100, so that t is exact to
 * 2^-22 if RATE is.
 */
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"

static uint32_t columns(const fv_problem *p)
{
    return p->dim[FV_ROW_C] * p->dim[FV_SINE_PARTS];
}

static uint32_t coordinates(const fv_problem *p)
{
    return p->dim[FV_SINE_PARTS];
}

static double flops(const fv_problem *p)
{
    return 20. * p->dim[FV_DIM_ROWS] * columns(p);
}

const fv_op fv_op_sine = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_SINE_PARTS] = {"parts"}},
    .operand = {[FV_SINE_IN] = {"IN", .columns = coordinates, .exact = true},
                [FV_SINE_RATE] = {"RATE", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_SINE_PHASE] = {"PHASE", FV_ROW_C, .stored = FV_STORED_FLOATS},
                [FV_SINE_OUT] = {"OUT", .columns = columns}},
    .flops = flops,
};

static float sine(double revolutions, float phase)
{
    const double most = 0x1p22, y = revolutions > most    ? most
                                    : revolutions < -most ? -most
                                                          : revolutions;
    return sinf(6.28318531f * ((float)(y - rint(y)) + phase));
}

static double exact_rate(const fv_args *a, const float *rate, size_t i)
{
    return rate[i] + (a->u[0] ? (double)rate[a->prob.dim[FV_ROW_C] + i] : 0.);
}

void fv_k_sine_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], parts = a->prob.dim[FV_SINE_PARTS];
    const float *rate = c->p[FV_SINE_RATE], *phase = c->p[FV_SINE_PHASE];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_SINE_IN] + r * a->ld[FV_SINE_IN];
        float *out = (float *)c->p[FV_SINE_OUT] + r * a->ld[FV_SINE_OUT];
        for (size_t p = 0; p < parts; p++)
            for (size_t i = 0; i < width; i++)
                out[p * width + i] = sine(in[p] * exact_rate(a, rate, i), phase[i]);
    }
}
