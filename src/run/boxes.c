/* boxes.c: makes boxes from a detector's outputs: selects the best candidates of each level,
 * decodes their boxes and suppresses duplicates.
 *
 * The best candidates are in a heap whose root is the worst of them, and are sorted by heapsort, so
 * that no other memory is needed. */
#include "run/boxes.h"

#include <math.h>

#include "run/sigmoid.h"

/* ---- order ---- */

/* Returns whether a precedes b. */
static bool before(const fv_box_candidate *a, const fv_box_candidate *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    if (a->level != b->level)
        return a->level < b->level;
    if (a->place != b->place)
        return a->place < b->place;
    return a->label < b->label;
}

/* Moves the element at `at` down until the heap, whose root is the worst candidate, is in order
 * again. */
static void sink(fv_box_candidate *heap, size_t n, size_t at)
{
    const fv_box_candidate moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&heap[child], &heap[child + 1]))
            child++;
        if (!before(&moved, &heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void rise(fv_box_candidate *heap, size_t at)
{
    const fv_box_candidate moved = heap[at];
    for (; at > 0 && before(&heap[(at - 1) / 2], &moved); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = moved;
}

static void sort(fv_box_candidate *c, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sink(c, n, i);
    for (size_t last = n; last-- > 1;) {
        const fv_box_candidate worst = c[0];
        c[0] = c[last];
        c[last] = worst;
        sink(c, last, 0);
    }
}

/* ---- the best candidates of a level ---- */

/* Returns a number slightly below the smallest logit whose score can pass the threshold. Most
 * logits are far below it and are skipped without computing a sigmoid. */
static float least_logit(float score_thr)
{
    const double p = (double)score_thr;
    return p > 0 && p < 1 ? (float)(log(p / (1 - p)) - 1e-3) : p > 0 ? 1.f : -INFINITY;
}

/* Adds *c to a heap of `n` candidates of at most `capacity`, if *c is among the best; returns the
 * new number. */
static size_t push(fv_box_candidate *heap, size_t n, size_t capacity, const fv_box_candidate *c)
{
    if (n < capacity) {
        heap[n] = *c;
        rise(heap, n);
        return n + 1;
    }
    if (before(c, heap)) {
        heap[0] = *c;
        sink(heap, n, 0);
    }
    return n;
}

static size_t select_best(const fv_detection *d, const fv_box_level *l, uint32_t level,
                          fv_box_candidate *heap)
{
    const size_t anchors = (size_t)l->width * l->height * d->anchors;
    const float least = least_logit(d->score_thr);
    const float *logit = l->cls;
    size_t n = 0;
    for (size_t place = 0; place < anchors; place++, logit += d->classes)
        for (uint32_t label = 0; label < d->classes; label++) {
            /* The earlier of equal logits is kept, so in a full heap only a larger logit replaces
             * the worst one. */
            if (!(logit[label] >= least) || (n == d->nms_pre && logit[label] <= heap[0].logit))
                continue;
            const fv_box_candidate c = {.logit = logit[label],
                                        .score = (float)fv_sigmoid((double)logit[label]),
                                        .level = level,
                                        .place = (uint32_t)place,
                                        .label = label};
            if (c.score > d->score_thr)
                n = push(heap, n, d->nms_pre, &c);
        }
    return n;
}

/* Selects the best queries, each with its best class, whose score is a softmax over the classes and
 * "no object". */
static size_t select_queries(const fv_detection *d, const fv_box_level *l, fv_box_candidate *heap)
{
    const float *logit = l->cls;
    size_t n = 0;
    for (uint32_t place = 0; place < l->width; place++, logit += d->classes + 1) {
        uint32_t best = 0;
        double sum = 0;
        for (uint32_t label = 1; label < d->classes; label++)
            best = logit[label] > logit[best] ? label : best;
        for (uint32_t label = 0; label <= d->classes; label++)
            sum += exp((double)logit[label] - (double)logit[best]);
        const fv_box_candidate c = {
            .logit = logit[best], .score = (float)(1 / sum), .place = place, .label = best};
        if (c.score > d->score_thr)
            n = push(heap, n, d->nms_pre, &c);
    }
    return n;
}

/* ---- boxes ---- */

static float limit(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* Computes the centre and length, along axis `i`, of the anchor in cell `cell`, moved and scaled by
 * two of the model's numbers. */
static void adjust(float out[2], const fv_detection *d, uint32_t level, const float anchor[4],
                   uint32_t cell, const float number[4], int i)
{
    static const float most = 4.135166556742356f; /* -log(16 / 1000), the maximum logarithm of
                                                     the factor by which a side is scaled */
    const float at = (float)cell * d->stride[level];
    const float low = anchor[i] + at, high = anchor[i + 2] + at, side = high - low;
    const float move = number[i] * d->std[i] + d->mean[i];
    const float grow = number[i + 2] * d->std[i + 2] + d->mean[i + 2];
    out[0] = (low + high) * 0.5f + side * move;
    out[1] = side * expf(limit(grow, -most, most));
}

bool fv_boxes_decode(float box[4], const fv_detection *d, uint32_t level, uint32_t grid_width,
                     uint32_t place, const float number[4], float width, float height)
{
    const uint32_t cell = place / d->anchors;
    const uint32_t at[2] = {cell % grid_width, cell / grid_width};
    const float end[2] = {width, height};
    bool good = true;
    for (int i = 0; i < 2; i++) {
        float side[2] = {number[i] * end[i], number[i + 2] * end[i]}; /* centre and length of a
                                                                         side */
        if (!d->of_queries)
            adjust(side, d, level, d->anchor[level][place % d->anchors], at[i], number, i);
        box[i] = side[0] - side[1] * 0.5f;
        box[i + 2] = side[0] + side[1] * 0.5f;
        if (d->clip) {
            box[i] = limit(box[i], 0, end[i]);
            box[i + 2] = limit(box[i + 2], 0, end[i]);
        }
        good = good && isfinite(box[i]) && isfinite(box[i + 2]) && side[1] >= 0 &&
               (d->min_size < 0 || box[i + 2] - box[i] > d->min_size);
    }
    return good;
}

double fv_boxes_overlap(const float a[4], const float b[4])
{
    double both = 1, area_a = 1, area_b = 1;
    for (int i = 0; i < 2; i++) {
        const double low = fmax((double)a[i], (double)b[i]);
        const double high = fmin((double)a[i + 2], (double)b[i + 2]);
        both *= fmax(high - low, 0);
        area_a *= (double)a[i + 2] - (double)a[i];
        area_b *= (double)b[i + 2] - (double)b[i];
    }
    return both > 0 ? both / (area_a + area_b - both) : 0;
}

/* Decodes the boxes of a level's `n` candidates, moves the valid ones to the front, and returns
 * their number. */
static size_t decode(const fv_detection *d, const fv_box_level *l, uint32_t level,
                     fv_box_candidate *c, size_t n, const float size[2])
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const float *number = l->box + 4 * (size_t)c[i].place;
        if (fv_boxes_decode(c[i].box, d, level, l->width, c[i].place, number, size[0], size[1]))
            c[kept++] = c[i];
    }
    return kept;
}

/* Keeps at most `most` of the sorted candidates: those that no better candidate of their class
 * overlaps. Moves them to the front and returns their number. */
static size_t suppress(fv_box_candidate *c, size_t n, size_t most, double threshold)
{
    size_t kept = 0;
    for (size_t i = 0; i < n && kept < most; i++) {
        bool covered = false;
        for (size_t k = 0; k < kept && !covered; k++)
            covered = c[k].label == c[i].label && fv_boxes_overlap(c[k].box, c[i].box) > threshold;
        if (!covered)
            c[kept++] = c[i];
    }
    return kept;
}

size_t fv_boxes_find(const fv_detection *d, const fv_box_level *level, float width, float height,
                     fv_box_candidate *scratch, fovea_detection *out, size_t capacity)
{
    size_t n = 0;
    for (uint32_t i = 0; i < d->levels; i++) {
        fv_box_candidate *own = scratch + n;
        const size_t best =
            d->nothing ? select_queries(d, &level[i], own) : select_best(d, &level[i], i, own);
        n += decode(d, &level[i], i, own, best, (const float[]){width, height});
    }
    sort(scratch, n);
    if (!d->of_queries)
        n = suppress(scratch, n, d->max_per_img, (double)d->iou_threshold);
    for (size_t i = 0; i < n && i < capacity; i++)
        out[i] = (fovea_detection){scratch[i].box[0], scratch[i].box[1], scratch[i].box[2],
                                   scratch[i].box[3], scratch[i].score,  scratch[i].label};
    return n;
}
