/* panoptic_metrics.h: panoptic quality, as COCO defines it. */
#ifndef FOVEA_CLI_PANOPTIC_METRICS_H
#define FOVEA_CLI_PANOPTIC_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A segment of a picture. Segments have the indices 1, 2, ... in a map of the picture's pixels, in
 * which 0 means no segment. */
typedef struct panoptic_segment {
    uint32_t category; /* or UINT32_MAX, which no true segment has */
    bool crowd;        /* of true segments: a crowd is not expected to be found */
} panoptic_segment;

typedef struct panoptic_map {
    const panoptic_segment *segment; /* segments 1, 2, ... n */
    size_t n;
    const uint16_t *map;
} panoptic_map;

/* The counts of a category. A segment that was found is right if its intersection over union with a
 * true segment of its category is above 0.5. */
typedef struct panoptic_counts {
    double right, wrong, missed; /* numbers of segments */
    double overlap;              /* sum of the intersections over union of the right ones */
} panoptic_counts;

typedef struct panoptic_scores {
    double pq, sq, rq; /* -1 if there is no segment at all */
} panoptic_scores;

/* Adds the counts of a picture of `pixels` pixels to those of the categories. */
void panoptic_count(panoptic_counts *of, size_t categories, const panoptic_map *truth,
                    const panoptic_map *found, size_t pixels);
/* Returns the scores of one category. */
panoptic_scores panoptic_score(const panoptic_counts *of);
/* Returns the mean over the categories that have a segment, and of these, unless `thing` is NULL,
 * only over those for which it is `value`. */
panoptic_scores panoptic_mean(const panoptic_counts *of, size_t categories, const bool *thing,
                              bool value);

#endif
