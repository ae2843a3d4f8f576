/* box_metrics.h: average precision and recall of boxes, as COCO defines them. */
#ifndef FOVEA_CLI_BOX_METRICS_H
#define FOVEA_CLI_BOX_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Left upper corner and size, in pixels. */
typedef struct box_shape {
    double x, y, width, height;
} box_shape;

typedef struct box_truth {
    uint32_t image, category;
    box_shape box;
    double area; /* that tells small from large: of a mask where there is one */
    bool crowd;  /* of many objects: any number of boxes may be in it, and they do not count */
} box_truth;

typedef struct box_found {
    uint32_t image, category;
    box_shape box;
    double score;
} box_found;

/* -1: there is nothing of that kind. */
typedef struct box_scores {
    /* Mean over categories, intersections over union of .50 to .95 and 101 recalls; at .50, .75; of
     * objects below 32 x 32, up to 96 x 96, and above. */
    double ap, ap50, ap75, ap_small, ap_medium, ap_large;
    /* Recall with at most 1, 10 or 100 boxes of a category in a picture; of objects of a size, 100.
     */
    double ar1, ar10, ar100, ar_small, ar_medium, ar_large;
} box_scores;

/* Of equal scores in one picture the earlier box comes first, of different pictures that of the
 * smaller number. */
box_scores box_score(const box_truth *truth, size_t n_truth, const box_found *found,
                     size_t n_found);

#endif
