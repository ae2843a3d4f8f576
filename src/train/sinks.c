/* sinks.c: adds the gradient of a weight to the gradients of the tensors from which fv_weight_read
 * assembles it, in another layout: the transpose of that function. */
#include "train/trainer.h"

#include <string.h>

/* Returns the column of the weight that contains column c of a row of the tensor. */
static uint32_t column_of(const fv_weight_part *p, uint32_t c)
{
    return p->taps > 1 ? c % p->taps * (p->cols / p->taps) + c / p->taps : c;
}

/* Scatters the gradients of blocks on the diagonal; the zeros outside the blocks have no
 * gradient. */
static void scatter_diagonal(const fv_master *m, const fv_weight_part *p, const float *rows,
                             uint32_t cols)
{
    const uint32_t d = p->diagonal;
    for (uint32_t r = 0; r < p->rows; r++) {
        const uint32_t block = r / d;
        const float *from = rows + (size_t)(p->row0 + r) * cols + p->col0 + (size_t)block * d;
        float *to = m->gradient + p->offset + (size_t)block * d * d +
                    fv_weight_paired(r % d, p->paired_rows) * p->row_stride;
        for (uint32_t c = 0; c < d; c++)
            to[fv_weight_paired(c, p->paired_cols) * p->col_stride] += p->factor * from[c];
    }
}

static void scatter_part(const fv_master *m, const fv_weight_part *p, const float *rows,
                         uint32_t cols)
{
    for (uint32_t r = 0; r < p->rows; r++) {
        const float factor = p->factor * (p->row_scale ? p->row_scale[r] : 1);
        const float *from = rows + (size_t)(p->row0 + r) * cols + p->col0;
        float *to = m->gradient + p->offset + fv_weight_paired(r, p->paired_rows) * p->row_stride;
        for (uint32_t c = 0; c < p->cols; c++)
            to[fv_weight_paired(c, p->paired_cols) * p->col_stride] +=
                factor * from[column_of(p, c)];
    }
}

static void scatter(const fovea_trainer *t, const fv_sink *s)
{
    for (uint32_t i = 0; i < s->parts; i++) {
        const fv_weight *w = &s->part[i].weight;
        const float *rows = s->rows + (size_t)s->part[i].row0 * w->cols;
        for (uint32_t k = 0; k < w->parts; k++) {
            const fv_master *m = fv_masters_of(&t->masters, w->part[k].tensor);
            if (m && m->trained)
                (w->part[k].diagonal ? scatter_diagonal : scatter_part)(m, &w->part[k], rows,
                                                                        w->cols);
        }
    }
}

void fv_trainer_scatter(fovea_trainer *t)
{
    for (uint32_t i = 0; i < t->sinks; i++)
        if (!t->sink[i].direct)
            scatter(t, &t->sink[i]);
    memset(t->gathered, 0, (size_t)t->n_gathered * sizeof *t->gathered);
}
