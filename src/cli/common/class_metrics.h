/* class_metrics.h: top-1 and top-5 accuracy: how often the true class has the largest score, or one
 * of the five largest. */
#ifndef FOVEA_CLI_CLASS_METRICS_H
#define FOVEA_CLI_CLASS_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* Returns the number of classes that rank before class `truth`: those with a larger score, and
 * those with an equal score and a smaller index. If the score of `truth` is NaN, returns
 * `classes`. */
uint32_t class_before(const float *score, uint32_t classes, uint32_t truth);

typedef struct class_counts {
    size_t pictures, first, fifth;
} class_counts;

/* Adds a picture whose true class has `before` classes ranked before it. */
void class_count(class_counts *c, uint32_t before);

typedef struct class_scores {
    double top1, top5;
} class_scores;

/* Returns the shares; at least one picture must have been added. */
class_scores class_score(const class_counts *c);

#endif
