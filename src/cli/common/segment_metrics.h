/* segment_metrics.h: intersection over union of the classes of pixels, and the share of pixels with
 * the right class. */
#ifndef FOVEA_CLI_SEGMENT_METRICS_H
#define FOVEA_CLI_SEGMENT_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fovea/results.h>

/* values in a mask, which has one byte per pixel */
enum { SEGMENT_CLASSES = 256, SEGMENT_NO_CLASS = 255 };

/* Numbers of pixels. Each array has one count per class: pixels of this true class, pixels of this
 * found class, and pixels of both. `pixels` counts all judged pixels. */
typedef struct segment_counts {
    uint64_t truth[SEGMENT_CLASSES], found[SEGMENT_CLASSES], both[SEGMENT_CLASSES];
    uint64_t seen;
} segment_counts;

/* Returns whether a pixel is judged: its true class is known, and it is in the part of the picture
 * that the model saw. */
static inline bool segment_judged(uint8_t truth, uint16_t found)
{
    return truth != SEGMENT_NO_CLASS && found != FOVEA_NO_CLASS;
}

/* Adds the pixels of a picture. Found classes must be less than SEGMENT_CLASSES. */
void segment_count(segment_counts *out, const uint8_t *truth, const uint16_t *found, size_t pixels);

/* Returns whether any pixel has k as its true class or as its found class. */
bool segment_present(const segment_counts *n, int k);
/* Returns the intersection over union of a class that is present (segment_present). */
double segment_iou(const segment_counts *n, int k);

/* The values are NaN if no pixel was judged. */
typedef struct segment_scores {
    double miou; /* the mean over classes that are present */
    double pixel_accuracy;
} segment_scores;

segment_scores segment_score(const segment_counts *n);

#endif
