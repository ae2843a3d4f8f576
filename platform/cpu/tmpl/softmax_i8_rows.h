/* softmax_i8_rows.h: computes the attention of a panel of queries to all keys with products of
 * 8-bit integers, for SOFTMAX (keys of a picture) and WSOFTMAX (keys of a window). The operands of
 * both ops have the same indices. */
#ifndef FOVEA_PLATFORM_SOFTMAX_I8_ROWS_H
#define FOVEA_PLATFORM_SOFTMAX_I8_ROWS_H

#ifdef FV_ISA_AVX2 /* sums of three vectors of queries, and their products, do not fit 16          \
                      registers */
#define FV_TILE_N 2
#else
#define FV_TILE_N FV_TILE_WIDE
#endif
#include "platform/cpu/tmpl/softmax_i8_tiles.h"
#include "platform/cpu/tmpl/softmax_relative.h"

enum { PANEL = 256 }; /* queries whose Qt and Ot stay in L2 */

/* Computes the attention of queries [first, first + rows) of one head to all its keys. `row` points
 * at the head's quantised keys and values, in the layout of ops/keys_i8.h. Not inlined, because the
 * caller's variables would take registers from its loops. */
static __attribute__((noinline)) void attend_panel(const fv_args *a, const fv_call *c,
                                                   const layout *l, const char *row, size_t first,
                                                   size_t rows, size_t head)
{
    const enum fv_type type_q = (enum fv_type)a->type[FV_SOFTMAX_Q],
                       type_out = (enum fv_type)a->type[FV_SOFTMAX_OUT];
    const size_t ld_q = a->ld[FV_SOFTMAX_Q], ld_out = a->ld[FV_SOFTMAX_OUT];
    const size_t keys = a->prob.dim[FV_ATTN_KEYS];
    const fv_keys_i8 at = fv_keys_i8_of(keys, l->d, l->dv);
    char *const scratch = c->scratch;
    begin_queries(scratch, l);
    pack_queries(scratch, l, fv_element(c->p[FV_SOFTMAX_Q], type_q, first * ld_q + head * l->d),
                 type_q, ld_q, 0, rows, a->f[0] * LOG2_E);
    if (l->width)
        pack_relative((float *)(void *)(scratch + l->rel), l->queries, l->height + l->width, a, c,
                      first, rows, head, LOG2_E);
    for (size_t j = 0; j < keys; j += TILE) {
        tile_of_keys t = {.n = 0};
        for (size_t k = j; k < keys && k < j + TILE; k++)
            take_key(&t, &at, row, k, 0.f);
        attend_blocks(l, scratch, rows, &t, j);
    }
    write_out(fv_element(c->p[FV_SOFTMAX_OUT], type_out, first * ld_out + head * l->dv), type_out,
              ld_out, l, scratch, (const float *)(const void *)(row + at.value_scale), 0, rows);
}

static layout lay_out_panel(const fv_problem *p, size_t queries)
{
    return lay_out(p, queries < PANEL ? queries : PANEL, p->dim[FV_REL_POS_COLUMNS]);
}

#endif
