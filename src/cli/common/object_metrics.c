/* object_metrics.c: see object_metrics.h.
 *
 * The code processes one category at a time. It matches the results of each picture with its
 * objects, best results first, at ten thresholds. Precision over recall is then computed from all
 * results of the category, best results first. A result is a box or a mask. */
#include "cli/common/object_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

enum { THRESHOLDS = 10, RECALLS = 101, AREAS = 4, LIMITS = 3, MOST = 100 };

static const struct {
    double low, high;
} areas[AREAS] = {{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};
static const uint32_t limits[LIMITS] = {1, 10, MOST};

/* The judgement of a result: its rank in its picture, and one bit per threshold. */
typedef struct verdict {
    double score;
    size_t order;
    uint32_t place;
    uint16_t right, ignored;
} verdict;

/* Sums of precision and recall, and the number of terms in each. */
typedef struct totals {
    double precision[AREAS][THRESHOLDS], recall[AREAS][LIMITS];
    double categories[AREAS];
} totals;

/* Returns threshold number t, bit-identical to numpy.linspace. */
static double threshold(int t)
{
    return 0.5 + t * ((0.95 - 0.5) / 9);
}

static double shared_area(const box_shape *a, const box_shape *b)
{
    const double w = fmin(a->x + a->width, b->x + b->width) - fmax(a->x, b->x);
    const double h = fmin(a->y + a->height, b->y + b->height) - fmax(a->y, b->y);
    return w <= 0 || h <= 0 ? 0 : w * h;
}

static double area_of(const run_lengths *mask, const box_shape *box)
{
    return mask ? (double)run_lengths_area(mask) : box->width * box->height;
}

/* Returns intersection over union, or over the result's own area if the object is a crowd. */
static double overlap(const object_found *a, const object_truth *b)
{
    const double shared =
        a->mask ? (double)run_lengths_shared(a->mask, b->mask) : shared_area(&a->box, &b->box);
    if (shared <= 0)
        return 0;
    const double own = area_of(a->mask, &a->box);
    return shared / (b->crowd ? own : own + area_of(b->mask, &b->box) - shared);
}

/* ---- one picture ---- */

/* The results and objects of one category in one picture. */
typedef struct picture {
    const object_found *const *found; /* best results first, at most MOST */
    const object_truth *const *truth;
    size_t n_found, n_truth;
    double *overlap; /* [found][truth] */
    double *size;    /* area of each result */
    /* for each object: whether it is ignored, because its area is outside the current range or it
     * is a crowd */
    bool *ignored;
    bool *taken;
} picture;

/* Returns the object that result `i` matches: the one with the largest overlap of at least `least`.
 * Objects that count have priority over ignored ones. Returns n_truth if no object matches. */
static size_t match(const picture *p, size_t i, double least)
{
    size_t best = p->n_truth;
    for (int ignored = 0; ignored < 2 && best == p->n_truth; ignored++)
        for (size_t g = 0; g < p->n_truth; g++) {
            const double o = p->overlap[i * p->n_truth + g];
            if (p->ignored[g] != (ignored == 1) || (p->taken[g] && !p->truth[g]->crowd) ||
                o < least)
                continue;
            least = o;
            best = g;
        }
    return best;
}

static void judge(verdict *out, picture *p, int area)
{
    for (size_t g = 0; g < p->n_truth; g++) {
        const double size = p->truth[g]->area;
        p->ignored[g] = p->truth[g]->crowd || size < areas[area].low || size > areas[area].high;
    }
    for (int t = 0; t < THRESHOLDS; t++) {
        memset(p->taken, 0, p->n_truth * sizeof *p->taken);
        for (size_t i = 0; i < p->n_found; i++) {
            const double size = p->size[i];
            const size_t g = match(p, i, fmin(threshold(t), 1 - 1e-10));
            const bool matched = g < p->n_truth;
            if (matched)
                p->taken[g] = true;
            if (matched ? p->ignored[g] : size < areas[area].low || size > areas[area].high)
                out[i].ignored |= (uint16_t)(1u << t);
            else if (matched)
                out[i].right |= (uint16_t)(1u << t);
        }
    }
}

/* ---- one category ---- */

static int best_first(const void *a, const void *b)
{
    const verdict *x = a, *y = b;
    const int order = (x->score < y->score) - (x->score > y->score);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

/* Adds the precisions at 101 recalls and the largest recall to the sums. `counted` is the number of
 * objects that count. */
static void accumulate(totals *sum, const verdict *v, size_t n, double counted, int area, int limit,
                       int t, double *scratch)
{
    double *recall = scratch, *precision = scratch + n, right = 0, wrong = 0, mean = 0;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].place >= limits[limit])
            continue;
        if (!(v[i].ignored >> t & 1)) {
            right += v[i].right >> t & 1;
            wrong += !(v[i].right >> t & 1);
        }
        recall[k] = right / counted;
        precision[k++] = right / fmax(right + wrong, 1);
    }
    sum->recall[area][limit] += right / counted / THRESHOLDS;
    if (limits[limit] != MOST)
        return;
    for (size_t i = k; i > 1; i--)
        precision[i - 2] = fmax(precision[i - 2], precision[i - 1]);
    size_t at = 0;
    for (int r = 0; r < RECALLS; r++) {
        while (at < k && recall[at] < 0.01 * r)
            at++;
        mean += at < k ? precision[at] / RECALLS : 0;
    }
    sum->precision[area][t] += mean;
}

typedef struct group {
    const object_found **found;
    const object_truth **truth;
    size_t n_found, n_truth;
} group;

/* Returns the results and objects of the category's next picture. */
static picture next_picture(group *g)
{
    picture p = {.found = g->found, .truth = g->truth};
    uint32_t image = UINT32_MAX;
    if (g->n_found > 0)
        image = g->found[0]->image;
    if (g->n_truth > 0 && g->truth[0]->image < image)
        image = g->truth[0]->image;
    while (p.n_found < g->n_found && g->found[p.n_found]->image == image)
        p.n_found++;
    while (p.n_truth < g->n_truth && g->truth[p.n_truth]->image == image)
        p.n_truth++;
    g->found += p.n_found;
    g->n_found -= p.n_found;
    g->truth += p.n_truth;
    g->n_truth -= p.n_truth;
    p.n_found = p.n_found < MOST ? p.n_found : MOST;
    return p;
}

static size_t judge_picture(verdict *out, picture *p, int area, size_t before)
{
    p->overlap = cli_alloc(p->n_found * (p->n_truth + 1) + 1, sizeof *p->overlap);
    p->size = p->overlap + p->n_found * p->n_truth;
    p->ignored = cli_alloc(2 * p->n_truth + 1, sizeof *p->ignored);
    p->taken = p->ignored + p->n_truth;
    for (size_t i = 0; i < p->n_found; i++) {
        out[i] = (verdict){p->found[i]->score, before + i, (uint32_t)i, 0, 0};
        for (size_t g = 0; g < p->n_truth; g++)
            p->overlap[i * p->n_truth + g] = overlap(p->found[i], p->truth[g]);
        p->size[i] = area_of(p->found[i]->mask, &p->found[i]->box);
    }
    judge(out, p, area);
    size_t counted = 0;
    for (size_t g = 0; g < p->n_truth; g++)
        counted += !p->ignored[g];
    free(p->overlap);
    free(p->ignored);
    return counted;
}

static void add_category(totals *sum, const group *all)
{
    verdict *v = cli_alloc(all->n_found + 1, sizeof *v);
    double *scratch = cli_alloc(2 * all->n_found + 1, sizeof *scratch);
    for (int area = 0; area < AREAS; area++) {
        group left = *all;
        size_t n = 0, counted = 0;
        while (left.n_found + left.n_truth > 0) {
            picture p = next_picture(&left);
            counted += judge_picture(v + n, &p, area, n);
            n += p.n_found;
        }
        if (counted == 0)
            continue;
        qsort(v, n, sizeof *v, best_first);
        sum->categories[area]++;
        for (int limit = 0; limit < LIMITS; limit++)
            for (int t = 0; t < THRESHOLDS; t++)
                accumulate(sum, v, n, (double)counted, area, limit, t, scratch);
    }
    free(scratch);
    free(v);
}

/* ---- all of them ---- */

static int compare_numbers(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

/* Orders results by category, then by picture, then best first; the last criterion is the original
 * order. */
static int compare_found(const void *a, const void *b)
{
    const object_found *x = *(const object_found *const *)a, *y = *(const object_found *const *)b;
    int order = compare_numbers(x->category, y->category);
    order = order ? order : compare_numbers(x->image, y->image);
    order = order ? order : (x->score < y->score) - (x->score > y->score);
    return order ? order : (x > y) - (x < y);
}

static int compare_truth(const void *a, const void *b)
{
    const object_truth *x = *(const object_truth *const *)a, *y = *(const object_truth *const *)b;
    int order = compare_numbers(x->category, y->category);
    order = order ? order : compare_numbers(x->image, y->image);
    return order ? order : (x > y) - (x < y);
}

static double mean(double sum, double n)
{
    return n > 0 ? sum / n : -1;
}

static double mean_precision(const totals *sum, int area)
{
    double all = 0;
    for (int t = 0; t < THRESHOLDS; t++)
        all += sum->precision[area][t] / THRESHOLDS;
    return mean(all, sum->categories[area]);
}

static object_scores summarise(const totals *s)
{
    return (object_scores){
        .ap = mean_precision(s, 0),
        .ap50 = mean(s->precision[0][0], s->categories[0]),
        .ap75 = mean(s->precision[0][5], s->categories[0]),
        .ap_small = mean_precision(s, 1),
        .ap_medium = mean_precision(s, 2),
        .ap_large = mean_precision(s, 3),
        .ar1 = mean(s->recall[0][0], s->categories[0]),
        .ar10 = mean(s->recall[0][1], s->categories[0]),
        .ar100 = mean(s->recall[0][2], s->categories[0]),
        .ar_small = mean(s->recall[1][2], s->categories[1]),
        .ar_medium = mean(s->recall[2][2], s->categories[2]),
        .ar_large = mean(s->recall[3][2], s->categories[3]),
    };
}

object_scores object_score(const object_truth *truth, size_t n_truth, const object_found *found,
                           size_t n_found)
{
    const object_found **f = cli_alloc(n_found + 1, sizeof *f);
    const object_truth **g = cli_alloc(n_truth + 1, sizeof *g);
    totals *sum = cli_alloc(1, sizeof *sum);
    for (size_t i = 0; i < n_found; i++)
        f[i] = &found[i];
    for (size_t i = 0; i < n_truth; i++)
        g[i] = &truth[i];
    qsort(f, n_found, sizeof *f, compare_found);
    qsort(g, n_truth, sizeof *g, compare_truth);
    /* Categories without objects have no precision, so their results are skipped. */
    for (size_t i = 0, k = 0; i < n_truth;) {
        const uint32_t category = g[i]->category;
        group all = {.truth = g + i};
        while (i < n_truth && g[i]->category == category)
            i++;
        all.n_truth = (size_t)(g + i - all.truth);
        while (k < n_found && f[k]->category < category)
            k++;
        all.found = f + k;
        while (k < n_found && f[k]->category == category)
            k++;
        all.n_found = (size_t)(f + k - all.found);
        add_category(sum, &all);
    }
    const object_scores out = summarise(sum);
    free(sum);
    free(g);
    free(f);
    return out;
}
