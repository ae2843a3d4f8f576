/* equalise.c: computes powers of two that give channels similar ranges. */
#include "ops/equalise.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median of the finite positive numbers, or 1 if there are none. */
static double usual(double *sorted, const double *square, uint32_t n)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        if (square[i] > 0 && isfinite(square[i]))
            sorted[found++] = square[i];
    qsort(sorted, found, sizeof *sorted, by_size);
    return found ? sorted[found / 2] : 1;
}

/* Returns the exponent of a channel. `size` and `columns` are log2 of the sizes of the channel and
 * of its columns, relative to the median; they are -infinity for zero. */
static int8_t exponent_of(double size, double columns)
{
    const double half = (size - columns) / 2;
    if (!(fmax(size, columns) >= FV_EQUALISE_LEAST && fabs(half) >= FV_EQUALISE_LEAST))
        return 0;
    return (int8_t)fmax(fmin(rint(half), FV_EQUALISE_LARGEST), -FV_EQUALISE_LARGEST);
}

fovea_status fv_equalise(int8_t *exponent, const double *size, const double *columns, uint32_t n)
{
    double *sorted;
    FV_TRY(FV_MEM_ARRAY(&sorted, n, FV_MEM_PLAN, "the sizes of channels"));
    const double usual_size = log2(usual(sorted, size, n));
    const double usual_columns = log2(usual(sorted, columns, n));
    for (uint32_t i = 0; i < n; i++)
        exponent[i] = isfinite(size[i]) && isfinite(columns[i])
                          ? exponent_of((log2(size[i]) - usual_size) / 2,
                                        (log2(columns[i]) - usual_columns) / 2)
                          : 0;
    fv_mem_free(sorted);
    return FOVEA_OK;
}
