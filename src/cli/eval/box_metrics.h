/* box_metrics.h: average precision and recall of boxes, as COCO defines them. */
#ifndef FOVEA_CLI_BOX_METRICS_H
#define FOVEA_CLI_BOX_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Upper left corner and size, in pixels. */
typedef struct box_shape {
    double x, y, width, height;
} box_shape;

typedef struct box_truth {
    uint32_t image, category;
    box_shape box;
    double area; /* decides which size range the object is in; from the mask if it has one */
    /* a crowd of objects: any number of boxes may match it, and neither it nor they count */
    bool crowd;
} box_truth;

typedef struct box_found {
    uint32_t image, category;
    box_shape box;
    double score;
} box_found;

/* -1: there are no objects of that kind. */
typedef struct box_scores {
    /* Mean over categories, intersections over union of .50 to .95 and 101 recalls; ap50, ap75: at
     * .50, .75; the others: for objects below 32 x 32, up to 96 x 96, and above. */
    double ap, ap50, ap75, ap_small, ap_medium, ap_large;
    /* Recall with at most 1, 10 or 100 boxes per category and picture; for objects of a size range,
     * 100. */
    double ar1, ar10, ar100, ar_small, ar_medium, ar_large;
} box_scores;

/* If scores are equal, the earlier box comes first in a picture, and the picture with the smaller
 * number comes first. */
box_scores box_score(const box_truth *truth, size_t n_truth, const box_found *found,
                     size_t n_found);

#endif
