/* class_metrics.c: see class_metrics.h. */
#include "cli/common/class_metrics.h"

uint32_t class_before(const float *score, uint32_t classes, uint32_t truth)
{
    uint32_t before = 0;
    if (score[truth] != score[truth])
        return classes;
    for (uint32_t k = 0; k < classes; k++)
        before += score[k] > score[truth] || (score[k] == score[truth] && k < truth);
    return before;
}

void class_count(class_counts *c, uint32_t before)
{
    c->pictures++;
    c->first += before < 1;
    c->fifth += before < 5;
}

class_scores class_score(const class_counts *c)
{
    const double n = (double)c->pictures;
    return (class_scores){(double)c->first / n, (double)c->fifth / n};
}
