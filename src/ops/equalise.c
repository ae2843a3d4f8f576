/* equalise.c: powers of two that make channels alike. */
#include "ops/equalise.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

/* The logarithm of s; NaN: the channel says nothing. Infinite where one of both is 0: then the
 * other may be divided by anything. */
static double wanted(double size, double columns)
{
    const bool known = size >= 0 && columns >= 0 && isfinite(size) && isfinite(columns);
    return known && (size > 0 || columns > 0) ? (log2(size) - log2(columns)) / 4 : (double)NAN;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the n numbers that are known, which it sorts; 0 without any. */
static double median(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_size);
    return n ? x[n / 2] : 0;
}

static int8_t exponent_of(double x)
{
    if (!(fabs(x) >= FV_EQUALISE_LEAST))
        return 0;
    return (int8_t)fmax(fmin(rint(x), FV_EQUALISE_LARGEST), -FV_EQUALISE_LARGEST);
}

fovea_status fv_equalise(int8_t *exponent, const double *size, const double *columns, uint32_t n)
{
    double *known;
    uint32_t found = 0;
    FV_TRY(FV_MEM_ARRAY(&known, n, FV_MEM_PLAN, "the sizes of channels"));
    for (uint32_t i = 0; i < n; i++) {
        const double x = wanted(size[i], columns[i]);
        if (isfinite(x))
            known[found++] = x;
    }
    const double middle = median(known, found);
    for (uint32_t i = 0; i < n; i++)
        exponent[i] = exponent_of(wanted(size[i], columns[i]) - middle);
    fv_mem_free(known);
    return FOVEA_OK;
}
