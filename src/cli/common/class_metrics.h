/* class_metrics.h: how often the true class has the largest score, or one of the five largest. */
#ifndef FOVEA_CLI_CLASS_METRICS_H
#define FOVEA_CLI_CLASS_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* How many classes come before the true one; of equal scores the first class does. All of them
 * where the true one's score is not a number. */
uint32_t class_before(const float *score, uint32_t classes, uint32_t truth);

typedef struct class_counts {
    size_t pictures, first, fifth;
} class_counts;

/* A picture in which `before` classes come before the true one. */
void class_count(class_counts *c, uint32_t before);

typedef struct class_scores {
    double top1, top5;
} class_scores;

/* Of one picture at least. */
class_scores class_score(const class_counts *c);

#endif
