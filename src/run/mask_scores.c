/* mask_scores.c: see mask_scores.h. */
#include "run/mask_scores.h"

#include <math.h>
#include <string.h>

#include "run/sigmoid.h"

/* Computes the softmax over n + 1 logits, and stores the first n probabilities. */
static void share_out(float *out, const float *logits, uint32_t n)
{
    float top = logits[n];
    for (uint32_t k = 0; k < n; k++)
        top = fmaxf(top, logits[k]);
    double sum = exp(logits[n] - top);
    for (uint32_t k = 0; k < n; k++)
        sum += exp(logits[k] - top);
    for (uint32_t k = 0; k < n; k++)
        out[k] = (float)(exp(logits[k] - top) / sum);
}

void fv_mask_shares(float *share, const fv_task_output *logits)
{
    const uint32_t n = logits->columns - 1;
    for (uint32_t q = 0; q < logits->rows; q++)
        share_out(share + (size_t)q * n, logits->data + (size_t)q * logits->columns, n);
}

/* Adds to the score of each class, for every query, the probability of the pixel being inside the
 * query's mask times that of the class. */
static void add_up(float *restrict score, const float *mask, const float *restrict share,
                   uint32_t queries, uint32_t classes)
{
    for (uint32_t q = 0; q < queries; q++, share += classes) {
        const float inside = fv_sigmoidf(mask[q]);
        for (uint32_t k = 0; k < classes; k++)
            score[k] += inside * share[k];
    }
}

void fv_mask_scores_add(float *out, const fv_mask_scores *s, uint32_t y)
{
    const uint32_t queries = s->masks.columns;
    const size_t line = (size_t)s->masks.grid.width * queries;
    const fv_between row = fv_side_between(&s->rows, y);
    fv_blend(s->line, s->masks.data + row.first * line, s->masks.data + row.second * line, row.part,
             line);
    for (uint32_t x = 0; x < s->width; x++, out += s->classes) {
        const fv_between *at = &s->column[x];
        fv_blend(s->pixel, s->line + (size_t)at->first * queries,
                 s->line + (size_t)at->second * queries, at->part, queries);
        add_up(out, s->pixel, s->share, queries, s->classes);
    }
}

uint16_t fv_largest(const float *score, uint32_t n)
{
    uint32_t best = 0;
    float most = score[0];
    for (uint32_t k = 1; k < n; k++)
        if (score[k] > most) {
            most = score[k];
            best = k;
        }
    return (uint16_t)best;
}

/* The last two lines of scores. Rows of a map need them in ascending order, two neighbours each. */
typedef struct line_store {
    const fv_score_lines *lines;
    uint32_t row[2]; /* UINT32_MAX: no row */
} line_store;

/* Returns line y of the scores. If the line must be computed, it does not replace line `keep`. */
static const float *line_of(line_store *store, uint32_t y, uint32_t keep)
{
    const fv_score_lines *l = store->lines;
    for (int i = 0; i < 2; i++)
        if (store->row[i] == y)
            return l->line[i];
    const int to = store->row[0] == keep;
    store->row[to] = y;
    l->make(l->line[to], l->ctx, y);
    return l->line[to];
}

void fv_score_lines_classify(uint16_t *out, const fv_score_lines *l, uint32_t width,
                             uint32_t height)
{
    line_store store = {l, {UINT32_MAX, UINT32_MAX}};
    const uint32_t n = l->classes;
    for (uint32_t y = 0; y < height; y++, out += width) {
        const fv_between row = fv_side_between(&l->rows, y);
        if (row.outside) {
            memset(out, 0xff, width * sizeof *out);
            continue;
        }
        const float *above = line_of(&store, row.first, row.second);
        const float *below = line_of(&store, row.second, row.first);
        for (uint32_t x = 0; x < width; x++) {
            const fv_between *at = &l->column[x];
            const float *a = above + (size_t)at->first * n, *b = above + (size_t)at->second * n;
            const float *c = below + (size_t)at->first * n, *d = below + (size_t)at->second * n;
            if (at->outside) {
                out[x] = FOVEA_NO_CLASS;
                continue;
            }
            for (uint32_t k = 0; k < n; k++) {
                const float up = a[k] + at->part * (b[k] - a[k]);
                const float down = c[k] + at->part * (d[k] - c[k]);
                l->mean[k] = up + row.part * (down - up);
            }
            out[x] = fv_largest(l->mean, n);
        }
    }
}
