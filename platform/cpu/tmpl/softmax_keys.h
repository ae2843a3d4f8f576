/* softmax_keys.h: packs keys and values of a head tile by tile for softmax_tiles.h, and prefetches
 * the next tile. */
#ifndef FOVEA_PLATFORM_SOFTMAX_KEYS_H
#define FOVEA_PLATFORM_SOFTMAX_KEYS_H

#include "platform/cpu/tmpl/softmax_tiles.h"

#define LOG2_E 1.44269504f

/* One head of a call: pointers to the beginning of its rows. */
typedef struct head {
    const char *q, *k, *v;
    char *out;
    enum fv_type type_q, type_k, type_v, type_out;
    size_t ld_q, ld_k, ld_v, ld_out;
} head;

/* Returns a prefetch of rows [from, from + rows) of keys or values, spread over `tiles` register
 * tiles. */
static prefetch prefetch_rows(const char *base, enum fv_type type, size_t ld, size_t width,
                              size_t from, size_t rows, size_t tiles)
{
    const size_t size = fv_type_size(type);
    return (prefetch){base + from * ld * size, ld * size, width * size, rows,
                      (rows + tiles - 1) / tiles};
}

/* Returns the prefetches of the tile at key `from`, made while `queries` rows attend to the tile
 * before it. */
static tile_prefetch prefetch_of(const head *h, const layout *l, size_t from, size_t seen,
                                 size_t queries)
{
    if (from >= seen)
        return (tile_prefetch){0};
    const size_t rows = seen - from < l->tile ? seen - from : l->tile;
    const size_t blocks = fv_tile_round(queries, FV_TILE_COLS) / FV_TILE_COLS;
    return (tile_prefetch){
        prefetch_rows(h->k, h->type_k, h->ld_k, l->d, from, rows, blocks * (l->tilep / FV_TILE_M)),
        prefetch_rows(h->v, h->type_v, h->ld_v, l->dv, from, rows, blocks * (l->dvp / FV_TILE_M))};
}

/* Packs keys [j, j + n) and their values. */
static void pack_tile(float *scratch, const layout *l, const head *h, size_t j, size_t n)
{
    fv_operand_elem *keys = (fv_operand_elem *)(scratch + l->keys);
    fv_operand_pack_rows(keys, l->dp, fv_element(h->k, h->type_k, j * h->ld_k), h->type_k, h->ld_k,
                         n, l->d);
    memset(keys + n * l->dp, 0, (fv_tile_round(n, FV_TILE_M) - n) * l->dp * sizeof *keys);
    fv_operand_pack_depth((fv_operand_elem *)(scratch + l->values), l->ld_v,
                          fv_element(h->v, h->type_v, j * h->ld_v), h->type_v, h->ld_v, n, l->dv);
}

#endif
