/* depth_metrics.h: errors of depths, compared with true depths. */
#ifndef FOVEA_CLI_DEPTH_METRICS_H
#define FOVEA_CLI_DEPTH_METRICS_H

#include <stddef.h>

enum depth_align {
    DEPTH_AS_IS,
    DEPTH_MEDIAN, /* multiplies the found depths by median(true depths) / median(found depths) */
    /* The found values are inverse depths up to scale and shift, as in models of relative depth.
     * Scale and shift are fitted to the true inverse depths by least squares. The resulting depths
     * are limited to the largest true depth. */
    DEPTH_AFFINE,
};

/* Aligns n > 0 found values with the true depths, which are > 0, in place. */
void depth_align(double *found, const double *truth, size_t n, enum depth_align how);

typedef struct depth_errors {
    double abs_rel; /* mean of |found - truth| / truth */
    double rmse;    /* root of the mean of (found - truth)^2 */
    double delta1;  /* share of pixels with max(found / truth, truth / found) < 1.25 */
} depth_errors;

depth_errors depth_compare(const double *found, const double *truth, size_t n);

#endif
