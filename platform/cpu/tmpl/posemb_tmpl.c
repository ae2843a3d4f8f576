/* posemb_tmpl.c: POSEMB: adds the taps of a token from the table, with vectors of channels. */
#include <string.h>

#include "ops/contracts/rows.h"
#include "ops/preprocess.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/row.h"

enum { BLOCK = 4 }; /* vectors of channels that stay in registers over all taps */

/* The taps of one token. */
struct taps {
    const fv_posemb_table *t;
    const void *table;
    size_t width, stride; /* channels; elements per row of the table */
    size_t y, x;          /* first tap of each axis */
};

/* Adds the taps to n vectors of channels from channel i on, of which the last has `rest` lanes. */
FV_FN void block(float *out, const float *in, const struct taps *p, enum fv_type type, size_t i,
                 int n, int rest)
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
            const size_t at = t->index_y[ty] * p->stride + t->index_x[tx] * p->width + i;
            FV_UNROLL
            for (int k = 0; k < n; k++)
                sum[k] = fv_fma(
                    w, fv_row_load(p->table, type, at + (size_t)k * FV_W, k + 1 < n ? FV_W : rest),
                    sum[k]);
        }
    FV_UNROLL
    for (int k = 0; k < n; k++)
        if (k + 1 < n)
            fv_store(out + i + (size_t)k * FV_W, sum[k]);
        else
            fv_store_n(out + i + (size_t)k * FV_W, sum[k], rest);
}

FV_FN void token_of(float *out, const float *in, const struct taps *p, enum fv_type type)
{
    size_t i = 0;
    for (; i + BLOCK * FV_W <= p->width; i += BLOCK * FV_W)
        block(out, in, p, type, i, BLOCK, FV_W);
    for (; i < p->width; i += FV_W)
        block(out, in, p, type, i, 1, p->width - i < FV_W ? (int)(p->width - i) : FV_W);
}

static void add_table(float *out, const float *in, const struct taps *p, enum fv_type type)
{
    if (type == FV_F32)
        token_of(out, in, p, FV_F32);
    else if (type == FV_F16)
        token_of(out, in, p, FV_F16);
    else
        token_of(out, in, p, FV_BF16);
}

void FV_NAME(fv_k_posemb_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[1], prefix = a->u[0], grid = a->u[1];
    const fv_posemb_table *t = a->table;
    /* Tap of a table that has the size of the grid: a token has one, of weight 1. */
    uint32_t at_y, at_x;
    float one = 1.f;
    const fv_posemb_table as_is = {1, 1, &at_x, &at_y, &one, &one};
    struct taps p = {.t = t ? t : &as_is,
                     .table = c->p[FV_POSEMB_TABLE],
                     .width = width,
                     .stride = (t ? a->u[2] : grid) * width};
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_POSEMB_IN] + r * a->ld[FV_POSEMB_IN];
        float *out = (float *)c->p[FV_POSEMB_OUT] + r * a->ld[FV_POSEMB_OUT];
        const size_t token = c->row0 + r;
        if (token < prefix || !p.table) {
            const float *rows = token < prefix ? c->p[FV_POSEMB_PREFIX] : NULL;
            const float *row = rows ? rows + token * width : in;
            if (row != out)
                memcpy(out, row, width * sizeof *out);
            continue;
        }
        at_y = (uint32_t)((token - prefix) / grid);
        at_x = (uint32_t)((token - prefix) % grid);
        p.y = t ? at_y * (size_t)t->taps_y : 0;
        p.x = t ? at_x * (size_t)t->taps_x : 0;
        add_table(out, in, &p, a->prob.weight);
    }
}
