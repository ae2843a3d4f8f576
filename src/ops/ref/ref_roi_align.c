/* ref_roi_align.c: ROI_ALIGN: means of samples of a pyramid's levels over the cells of regions.
 *
 *   dim     rows = regions * size * size, C, size, regions, levels
 *   REGION  WHOLE, `regions` rows, FV_REGION_COLUMNS wide
 *   LEVELn  WHOLE, C wide: the values of a level, row by row of its grid
 *   OUT     ROW, C wide: the cells of each region, row by row
 *   table   fv_roi_level of each level
 *
 * A region is sampled from the last level whose least area it has, or from the first. With s cells
 * of the level per pixel, the region extends from x1 s - 1/2 to x2 s - 1/2, which are divided into
 * `size` cells of w = (x2 - x1) s / size. Along each side, a cell has n = ceil(w) samples, at most
 * FV_ROI_SAMPLES, at (i + 1/2) w / n from its edge; likewise for y. The result is the mean of all
 * samples of a cell. A sample is interpolated linearly between the nearest four values. Within 1
 * beyond the outermost values it has the nearest coordinate inside; farther away it is 0. Rows of
 * regions whose class is below 0, or whose sides are not positive, are zeros.
 */
#include "ops/contracts/rows.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_regions.h"

static uint32_t region(const fv_problem *p)
{
    (void)p;
    return FV_REGION_COLUMNS;
}

static uint32_t line(const fv_problem *p, const uint32_t *u)
{
    (void)u;
    return p->dim[FV_ROI_SIZE];
}

/* Typical regions have two samples along each side of a cell. */
static double flops(const fv_problem *p)
{
    return 32. * p->dim[FV_DIM_ROWS] * p->dim[FV_ROW_C];
}

static double terms(const fv_problem *p)
{
    (void)p;
    return 64;
}

const fv_op fv_op_roi_align = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_ROI_SIZE] = {"size"},
            [FV_ROI_REGIONS] = {"regions", FV_DIM_TOKENS},
            [FV_ROI_COUNT] = {"levels"}},
    .operand = {[FV_ROI_REGION] = {"REGION", .columns = region, .nature = FV_NATURE_FRACTION,
                                   .exact = true},
                [FV_ROI_LEVEL] = {"LEVEL0", FV_ROW_C},
                {"LEVEL1", FV_ROW_C},
                {"LEVEL2", FV_ROW_C},
                {"LEVEL3", FV_ROW_C},
                {"LEVEL4", FV_ROW_C},
                {"LEVEL5", FV_ROW_C},
                [FV_ROI_OUT] = {"OUT", FV_ROW_C}},
    .flops = flops,
    .terms = terms,
    .line = line,
};

/* Adds the samples of a cell to n channels of `out`. */
static void add_samples(float *out, const fv_args *a, const fv_roi_level *l, const float *values,
                        size_t ld, const fv_roi_side side[2])
{
    const uint32_t n = a->prob.dim[FV_ROW_C];
    const float share = 1.f / ((float)side[0].count * (float)side[1].count);
    for (uint32_t iy = 0; iy < side[1].count; iy++)
        for (uint32_t ix = 0; ix < side[0].count; ix++) {
            const fv_roi_between y = fv_roi_at(&side[1], iy, l->height);
            const fv_roi_between x = fv_roi_at(&side[0], ix, l->width);
            if (!x.inside || !y.inside)
                continue;
            const float *above = values + (size_t)y.low * l->width * ld;
            const float *below = values + (size_t)y.high * l->width * ld;
            for (uint32_t i = 0; i < n; i++) {
                const float up =
                    above[x.low * ld + i] * (1.f - x.part) + above[x.high * ld + i] * x.part;
                const float down =
                    below[x.low * ld + i] * (1.f - x.part) + below[x.high * ld + i] * x.part;
                out[i] += share * (up * (1.f - y.part) + down * y.part);
            }
        }
}

void fv_k_roi_align_f32_ref(const fv_args *a, const fv_call *c)
{
    const fv_roi_level *level = a->table;
    const uint32_t size = a->prob.dim[FV_ROI_SIZE], cells = size * size;
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint32_t number = (c->row0 + r) / cells, cell = (c->row0 + r) % cells;
        const float *box =
            (const float *)c->p[FV_ROI_REGION] + (size_t)number * a->ld[FV_ROI_REGION];
        float *out = (float *)c->p[FV_ROI_OUT] + (size_t)r * a->ld[FV_ROI_OUT];
        const uint32_t at = fv_roi_level_of(level, a->prob.dim[FV_ROI_COUNT], box);
        const fv_roi_level *l = &level[at];
        memset(out, 0, a->prob.dim[FV_ROW_C] * sizeof *out);
        if (!(box[FV_REGION_CLASS] >= 0.f))
            continue;
        const fv_roi_side side[2] = {fv_roi_side_of(box[0], box[2], l->scale, size, cell % size),
                                     fv_roi_side_of(box[1], box[3], l->scale, size, cell / size)};
        add_samples(out, a, l, c->p[FV_ROI_LEVEL + at], a->ld[FV_ROI_LEVEL + at], side);
    }
}
