/* depth_metrics.h: how far depths are from the true ones. */
#ifndef FOVEA_CLI_DEPTH_METRICS_H
#define FOVEA_CLI_DEPTH_METRICS_H

#include <stddef.h>

enum depth_align {
    DEPTH_AS_IS,
    DEPTH_MEDIAN, /* times the median of the true depths over that of the found ones */
    DEPTH_AFFINE, /* what was found is inverse depth up to scale and shift, as relative models give
                     it: both by least squares on the true inverse depths; then nothing is farther
                     than the farthest true depth */
};

/* Aligns n > 0 found values with true depths > 0, in place. */
void depth_align(double *found, const double *truth, size_t n, enum depth_align how);

typedef struct depth_errors {
    double abs_rel; /* mean of |found - truth| / truth */
    double rmse;    /* root of the mean of (found - truth)^2 */
    double delta1;  /* share of max(found / truth, truth / found) < 1.25 */
} depth_errors;

depth_errors depth_compare(const double *found, const double *truth, size_t n);

#endif
