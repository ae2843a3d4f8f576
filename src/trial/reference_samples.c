/* reference_samples.c: chooses which part of a step's output is compared: all of it, or a sample if
 * comparing all of it takes too long. */
#include "base/num.h"
#include "trial/random.h"
#include "trial/reference_parts.h"

#define LEAST 4        /* minimum number of samples, however long each takes */
#define WHOLE 0x1p24   /* operations up to which the whole output is compared */
#define SAMPLED 0x1p26 /* approximate number of operations of all samples together */

/* Returns the number of which the number of units (columns or heads) in a sample is a multiple. */
static uint32_t unit_step(const fv_reference *d)
{
    return fv_op_table[d->args.prob.op]->cols == FV_COLS_COLUMN ? FV_COL_ALIGN : 1;
}

/* Returns the number of units that take `share` of the time of all units. */
static uint32_t some_units(const fv_reference *d, double share)
{
    const uint32_t step = unit_step(d);
    if (share >= 1)
        return d->units;
    const uint32_t n = (uint32_t)(share * d->units) / step * step;
    return fv_min_u32(d->units, n > step ? n : step);
}

/* Makes the sample `cols` units wide, from unit place * unit_step() on. If fewer units than a step
 * would remain after it, includes them. */
static void set_units(const fv_reference *d, fv_sample *s, uint32_t place, uint32_t cols)
{
    const uint32_t step = unit_step(d);
    s->col0 = place * step;
    s->cols = d->units - s->col0 < cols + step ? d->units - s->col0 : cols;
}

/* Samples an output whose rows do not depend on each other: the first rows, the last rows, and some
 * between them, each with some of its columns or heads. */
static void sample_rows(fv_reference *d, double flops, uint32_t rows)
{
    const uint32_t lots = (rows + d->align - 1) / d->align;
    const double each = flops / lots;
    uint64_t random = 1;
    d->samples = fv_min_u32(lots, FV_SAMPLES);
    const uint32_t cols = some_units(d, SAMPLED / (each * d->samples));
    while (d->samples > LEAST && each * cols / d->units * d->samples > 2 * SAMPLED)
        d->samples /= 2;
    const uint32_t places = (d->units - cols) / unit_step(d) + 1;
    for (uint32_t i = 0; i < d->samples; i++) {
        const uint32_t any = (uint32_t)(fv_random(&random) % lots);
        const uint32_t lot = i == 0 ? 0 : i == 1 ? lots - 1 : any;
        fv_sample *s = &d->sample[i];
        s->row0 = lot * d->align;
        s->rows = fv_min_u32(d->align, rows - s->row0);
        set_units(d, s, i == 1 ? places - 1 : (uint32_t)(fv_random(&random) % places), cols);
    }
}

void fv_reference_sample(fv_reference *d)
{
    const fv_problem *p = &d->args.prob;
    const uint8_t span = fv_op_table[p->op]->span;
    const double flops = fv_problem_flops(p);
    const bool together = span == FV_SPAN_REDUCE || span == FV_SPAN_SCAN;
    const uint32_t rows = span == FV_SPAN_REDUCE ? 1 : p->dim[FV_DIM_ROWS];
    d->samples = 1;
    d->sample[0] = (fv_sample){.rows = rows, .cols = d->units};
    if (flops <= WHOLE)
        return;
    if (!together && rows > d->align) {
        sample_rows(d, flops, rows);
    } else if (together) {
        const uint32_t cols = some_units(d, SAMPLED / flops);
        set_units(d, &d->sample[0], (d->units - cols) / unit_step(d) / 2, cols);
    }
}
