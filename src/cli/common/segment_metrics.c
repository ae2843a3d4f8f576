/* segment_metrics.c: see segment_metrics.h. */
#include "cli/common/segment_metrics.h"

void segment_count(segment_counts *out, const uint8_t *truth, const uint16_t *found, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++) {
        if (!segment_judged(truth[i], found[i]))
            continue;
        out->seen++;
        out->truth[truth[i]]++;
        out->found[found[i]]++;
        out->both[truth[i]] += truth[i] == found[i];
    }
}

bool segment_present(const segment_counts *n, int k)
{
    return n->truth[k] + n->found[k] > 0;
}

double segment_iou(const segment_counts *n, int k)
{
    return (double)n->both[k] / (double)(n->truth[k] + n->found[k] - n->both[k]);
}

segment_scores segment_score(const segment_counts *n)
{
    uint64_t right = 0;
    double iou = 0, present = 0;
    for (int k = 0; k < SEGMENT_CLASSES; k++)
        if (segment_present(n, k)) {
            iou += segment_iou(n, k);
            present++;
            right += n->both[k];
        }
    return (segment_scores){iou / present, (double)right / (double)n->seen};
}
