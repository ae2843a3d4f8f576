/* panoptic_metrics.c: see panoptic_metrics.h. */
#include "cli/common/panoptic_metrics.h"

#include <stdlib.h>

#include "cli/common/cli.h"

/* The segments of a picture and the pixels that they share. Index 0 of either side means none. */
typedef struct table {
    const panoptic_map *truth, *found;
    uint64_t *shared; /* [truth->n + 1][found->n + 1] */
    bool *matched;    /* true segments, then those that were found */
} table;

static uint64_t shared(const table *t, size_t truth, size_t found)
{
    return t->shared[truth * (t->found->n + 1) + found];
}

static uint64_t true_area(const table *t, size_t i)
{
    uint64_t sum = 0;
    for (size_t k = 0; k <= t->found->n; k++)
        sum += shared(t, i, k);
    return sum;
}

static uint64_t found_area(const table *t, size_t k)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= t->truth->n; i++)
        sum += shared(t, i, k);
    return sum;
}

/* Segment k was found. Pixels that belong to no true segment do not count as its own. */
static void match(panoptic_counts *of, table *t, size_t i, size_t k)
{
    const panoptic_segment *truth = &t->truth->segment[i - 1], *found = &t->found->segment[k - 1];
    const double both = (double)shared(t, i, k);
    if (truth->crowd || truth->category != found->category || both == 0)
        return;
    const double either = (double)(true_area(t, i) + found_area(t, k) - shared(t, 0, k)) - both;
    if (both / either <= 0.5)
        return;
    of[truth->category].right++;
    of[truth->category].overlap += both / either;
    t->matched[i - 1] = true;
    t->matched[t->truth->n + k - 1] = true;
}

/* Returns the last crowd of a category, as in panopticapi, or 0 if there is none. */
static size_t crowd_of(const table *t, uint32_t category)
{
    size_t last = 0;
    for (size_t i = 1; i <= t->truth->n; i++)
        if (t->truth->segment[i - 1].crowd && t->truth->segment[i - 1].category == category)
            last = i;
    return last;
}

/* A segment that matches nothing is wrong, unless more than half of it has no true segment or is in
 * a crowd of its category. */
static void count_wrong(panoptic_counts *of, const table *t, size_t k)
{
    const uint32_t category = t->found->segment[k - 1].category;
    const size_t crowd = crowd_of(t, category);
    const uint64_t area = found_area(t, k),
                   excused = shared(t, 0, k) + (crowd ? shared(t, crowd, k) : 0);
    if (area > 0 && (double)excused / (double)area <= 0.5)
        of[category].wrong++;
}

void panoptic_count(panoptic_counts *of, size_t categories, const panoptic_map *truth,
                    const panoptic_map *found, size_t pixels)
{
    table t = {.truth = truth, .found = found};
    t.shared = cli_alloc((truth->n + 1) * (found->n + 1), sizeof *t.shared);
    t.matched = cli_alloc(truth->n + found->n + 1, sizeof *t.matched);
    for (size_t p = 0; p < pixels; p++)
        t.shared[truth->map[p] * (found->n + 1) + found->map[p]]++;
    for (size_t i = 1; i <= truth->n; i++)
        for (size_t k = 1; k <= found->n; k++)
            match(of, &t, i, k);
    for (size_t i = 1; i <= truth->n; i++)
        if (!t.matched[i - 1] && !truth->segment[i - 1].crowd)
            of[truth->segment[i - 1].category].missed++;
    for (size_t k = 1; k <= found->n; k++)
        if (!t.matched[truth->n + k - 1] && found->segment[k - 1].category < categories)
            count_wrong(of, &t, k);
    free(t.shared);
    free(t.matched);
}

panoptic_scores panoptic_score(const panoptic_counts *of)
{
    const double all = of->right + 0.5 * of->wrong + 0.5 * of->missed;
    if (all == 0)
        return (panoptic_scores){-1, -1, -1};
    return (panoptic_scores){.pq = of->overlap / all,
                             .sq = of->right > 0 ? of->overlap / of->right : 0,
                             .rq = of->right / all};
}

panoptic_scores panoptic_mean(const panoptic_counts *of, size_t categories, const bool *thing,
                              bool value)
{
    panoptic_scores sum = {0};
    double n = 0;
    for (size_t c = 0; c < categories; c++) {
        const panoptic_scores s = panoptic_score(&of[c]);
        if (s.pq < 0 || (thing && thing[c] != value))
            continue;
        sum.pq += s.pq;
        sum.sq += s.sq;
        sum.rq += s.rq;
        n++;
    }
    if (n == 0)
        return (panoptic_scores){-1, -1, -1};
    return (panoptic_scores){sum.pq / n, sum.sq / n, sum.rq / n};
}
