/* posemb_tmpl.c: POSEMB: the taps of a token, over vectors of channels. */
#include <string.h>

#include "cpu_kernels.h"
#include "preprocess.h"
#include "vec/vec.h"

enum { BLOCK = 4 }; /* vectors of channels that stay in registers while the taps go by */

/* The taps of one token. */
struct taps {
    const fv_posemb_table *t;
    const float *table;
    size_t width, stride; /* channels; floats from table row to table row */
    size_t y, x;          /* first tap of each axis */
};

/* Channels [i, i + n vectors), the last one holding `rest` lanes. */
FV_FN void block(float *out, const float *in, const struct taps *p, size_t i, int n, int rest)
{
    const fv_posemb_table *t = p->t;
    fv_v sum[BLOCK];
    FV_UNROLL
    for (int k = 0; k < n; k++)
        sum[k] = k + 1 < n ? fv_load(in + i + (size_t)k * FV_W)
                           : fv_load_n(in + i + (size_t)k * FV_W, rest);
    for (size_t ty = p->y; ty < p->y + t->taps_y; ty++)
        for (size_t tx = p->x; tx < p->x + t->taps_x; tx++) {
            const float weight = t->weight_y[ty] * t->weight_x[tx];
            if (weight == 0.f)
                continue;
            const fv_v w = fv_set(weight);
            const float *row =
                p->table + t->index_y[ty] * p->stride + t->index_x[tx] * p->width + i;
            FV_UNROLL
            for (int k = 0; k < n; k++)
                sum[k] = fv_fma(w,
                                k + 1 < n ? fv_load(row + (size_t)k * FV_W)
                                          : fv_load_n(row + (size_t)k * FV_W, rest),
                                sum[k]);
        }
    FV_UNROLL
    for (int k = 0; k < n; k++)
        if (k + 1 < n)
            fv_store(out + i + (size_t)k * FV_W, sum[k]);
        else
            fv_store_n(out + i + (size_t)k * FV_W, sum[k], rest);
}

void FV_NAME(fv_k_posemb_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[1], prefix = a->u[0], grid = a->u[1];
    struct taps p = {.t = a->table,
                     .table = c->p[FV_POSEMB_TABLE],
                     .width = width,
                     .stride = (size_t)a->u[2] * width};
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_POSEMB_IN] + r * a->ld[FV_POSEMB_IN];
        float *out = (float *)c->p[FV_POSEMB_OUT] + r * a->ld[FV_POSEMB_OUT];
        const size_t token = c->row0 + r;
        if (token < prefix) {
            memcpy(out, (const float *)c->p[FV_POSEMB_PREFIX] + token * width, width * sizeof *out);
            continue;
        }
        p.y = (token - prefix) / grid * p.t->taps_y;
        p.x = (token - prefix) % grid * p.t->taps_x;
        size_t i = 0;
        for (; i + BLOCK * FV_W <= width; i += BLOCK * FV_W)
            block(out, in, &p, i, BLOCK, FV_W);
        for (; i < width; i += FV_W)
            block(out, in, &p, i, 1, width - i < FV_W ? (int)(width - i) : FV_W);
    }
}
