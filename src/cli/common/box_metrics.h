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
    double area; /* selects the size range of the object; the mask's area if there is a mask */
    /* a crowd of objects: any number of boxes may match it, and neither it nor these boxes count */
    bool crowd;
} box_truth;

typedef struct box_found {
    uint32_t image, category;
    box_shape box;
    double score;
} box_found;

/* A score is -1 if there are no objects of its kind. */
typedef struct box_scores {
    /* Average precision over categories, 10 thresholds of the intersection over union (.50 to .95)
     * and 101 recalls. ap50 and ap75: at one threshold. The others: for objects smaller than 32 x
     * 32, up to 96 x 96, and larger. */
    double ap, ap50, ap75, ap_small, ap_medium, ap_large;
    /* Recall with at most 1, 10 or 100 boxes per category and picture; by size range, with at most
     * 100. */
    double ar1, ar10, ar100, ar_small, ar_medium, ar_large;
} box_scores;

/* If scores are equal, the box that comes earlier in `found` ranks first within a picture; between
 * pictures, the one with the smaller number. */
box_scores box_score(const box_truth *truth, size_t n_truth, const box_found *found,
                     size_t n_found);

#endif
