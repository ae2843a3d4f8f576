/* object_metrics.h: average precision and recall of boxes or masks of objects, as COCO defines
 * them. */
#ifndef FOVEA_CLI_BOX_METRICS_H
#define FOVEA_CLI_BOX_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/common/run_lengths.h"

/* Upper left corner and size, in pixels. */
typedef struct box_shape {
    double x, y, width, height;
} box_shape;

typedef struct object_truth {
    uint32_t image, category;
    box_shape box;
    double area; /* selects the size range of the object; the mask's area if there is a mask */
    /* a crowd of objects: any number of results may match it, and neither it nor these results
     * count */
    bool crowd;
    const run_lengths *mask; /* NULL: the box is compared */
} object_truth;

typedef struct object_found {
    uint32_t image, category;
    box_shape box;
    double score;
    const run_lengths *mask; /* of all results and objects or of none; of the picture's size */
} object_found;

/* A score is -1 if there are no objects of its kind. */
typedef struct object_scores {
    /* Average precision over categories, 10 thresholds of the intersection over union (.50 to .95)
     * and 101 recalls. ap50 and ap75: at one threshold. The others: for objects smaller than 32 x
     * 32, up to 96 x 96, and larger. */
    double ap, ap50, ap75, ap_small, ap_medium, ap_large;
    /* Recall with at most 1, 10 or 100 results per category and picture; by size range, with at
     * most 100. */
    double ar1, ar10, ar100, ar_small, ar_medium, ar_large;
} object_scores;

/* If scores are equal, the result that comes earlier in `found` ranks first within a picture;
 * between pictures, the one with the smaller number. */
object_scores object_score(const object_truth *truth, size_t n_truth, const object_found *found,
                           size_t n_found);

#endif
