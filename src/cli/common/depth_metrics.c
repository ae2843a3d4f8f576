/* depth_metrics.c: see depth_metrics.h. */
#include "cli/common/depth_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *v, size_t n)
{
    double *sorted = cli_alloc(n, sizeof *sorted);
    memcpy(sorted, v, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    const double m = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    free(sorted);
    return m;
}

static void scale(double *found, const double *truth, size_t n)
{
    const double middle = median(found, n), factor = median(truth, n) / middle;
    for (size_t i = 0; i < n && middle != 0; i++)
        found[i] *= factor;
}

static void fit_inverse(double *found, const double *truth, size_t n)
{
    double x = 0, y = 0, xx = 0, xy = 0, farthest = 0;
    for (size_t i = 0; i < n; i++) {
        x += found[i] / (double)n;
        y += 1 / truth[i] / (double)n;
        farthest = fmax(farthest, truth[i]);
    }
    for (size_t i = 0; i < n; i++) {
        xx += (found[i] - x) * (found[i] - x);
        xy += (found[i] - x) * (1 / truth[i] - y);
    }
    const double factor = xx > 0 ? xy / xx : 0;
    for (size_t i = 0; i < n; i++)
        found[i] = 1 / fmax(y + factor * (found[i] - x), 1 / farthest);
}

void depth_align(double *found, const double *truth, size_t n, enum depth_align how)
{
    if (how == DEPTH_MEDIAN)
        scale(found, truth, n);
    else if (how == DEPTH_AFFINE)
        fit_inverse(found, truth, n);
}

depth_errors depth_compare(const double *found, const double *truth, size_t n)
{
    depth_errors e = {0, 0, 0};
    for (size_t i = 0; i < n; i++) {
        const double off = found[i] - truth[i];
        e.abs_rel += fabs(off) / truth[i] / (double)n;
        e.rmse += off * off / (double)n;
        if (found[i] < 1.25 * truth[i] && truth[i] < 1.25 * found[i])
            e.delta1 += 1.0 / (double)n;
    }
    e.rmse = sqrt(e.rmse);
    return e;
}
