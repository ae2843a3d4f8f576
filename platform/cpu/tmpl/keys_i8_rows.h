/* keys_i8_rows.h: quantises a head's keys and values to 8-bit integers, with the same bytes as
 * ops/keys_i8.h defines. Channels are spread across the lanes, so that sums over the keys are in
 * the order of the keys. */
#ifndef FOVEA_PLATFORM_KEYS_I8_ROWS_H
#define FOVEA_PLATFORM_KEYS_I8_ROWS_H

#include "ops/contracts/softmax_attention.h"
#include "ops/keys_i8.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/bytes.h"
#include "platform/cpu/vec/row.h"

/* The rows of a head's keys, or of its values: first those of tokens, then those of cells. */
typedef struct head_rows {
    const void *base[2];
    enum fv_type type[2];
    size_t ld[2], tokens, n, wide;
} head_rows;

/* Loads n channels of row j from channel i on. */
FV_FN fv_v channels(const head_rows *r, size_t j, size_t i, int n)
{
    const int cell = j >= r->tokens;
    const size_t row = cell ? j - r->tokens : j;
    if (r->type[cell] == FV_BF16)
        return fv_row_load(fv_element(r->base[cell], FV_BF16, row * r->ld[cell]), FV_BF16, i, n);
    return fv_row_load(fv_element(r->base[cell], FV_F32, row * r->ld[cell]), FV_F32, i, n);
}

/* Vectors of channels whose sums over the keys stay in registers. */
enum { BLOCK = 4 };

/* Computes, for each channel of `vecs` vectors of n channels from channel i on, the mean over the
 * tokens. Sums are in the order of the tokens, as the op's contract requires. */
FV_FN void find_means(float *mean, const head_rows *r, size_t i, int vecs, int n)
{
    fv_v sum[BLOCK];
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        sum[v] = fv_set(0.f);
    for (size_t j = 0; j < r->tokens; j++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[v] = fv_add(sum[v], channels(r, j, i + (size_t)v * FV_W, n));
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        fv_store(mean + i + v * FV_W, fv_div(sum[v], fv_set((float)r->tokens)));
}

static void find_mean(float *mean, const head_rows *r)
{
    size_t i = 0;
    for (; i + BLOCK * FV_W <= r->wide; i += BLOCK * FV_W)
        find_means(mean, r, i, BLOCK, FV_W);
    for (; i < r->wide; i += FV_W)
        find_means(mean, r, i, 1, fv_lanes(r->wide - i));
}

static void quantise_keys(char *out, const fv_keys_i8 *l, const head_rows *r, float *scratch)
{
    float *mean = scratch, *scale = (float *)(void *)(out + l->key_scale);
    int32_t *sum = (int32_t *)(void *)(out + l->key_sum);
    int8_t *q = (int8_t *)out + l->k;
    float *row = scratch + fv_round_up((uint32_t)l->d, FV_W);
    find_mean(mean, r);
    for (size_t j = 0; j < r->n; j++, q += r->wide) {
        for (size_t i = 0; i < r->wide; i += FV_W)
            fv_store(row + i, fv_sub(channels(r, j, i, fv_lanes(r->wide - i)), fv_load(mean + i)));
        scale[j] = fv_i8_row(q, &sum[j], row, r->wide);
    }
}

/* Computes, for each channel of `vecs` vectors of n channels from channel i on, the largest
 * absolute value over all keys. It is NaN if any of the channel's values is infinite or NaN. */
FV_FN void find_tops(float *top, const head_rows *r, size_t i, int vecs, int n)
{
    fv_v most[BLOCK], poison[BLOCK];
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        most[v] = poison[v] = fv_set(0.f);
    for (size_t j = 0; j < r->n; j++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const fv_v x = channels(r, j, i + (size_t)v * FV_W, n);
            most[v] = fv_max(most[v], fv_abs(x));
            poison[v] = fv_fma(x, fv_set(0.f), poison[v]);
        }
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        fv_store(top + i + v * FV_W, fv_add(most[v], poison[v]));
}

/* Computes the scale of each channel of the values. `inverse` is a buffer of whole vectors; it gets
 * the inverse scales. */
static void find_value_scales(float *scale, float *inverse, const head_rows *r)
{
    size_t i = 0;
    for (; i + BLOCK * FV_W <= r->wide; i += BLOCK * FV_W)
        find_tops(inverse, r, i, BLOCK, FV_W);
    for (; i < r->wide; i += FV_W)
        find_tops(inverse, r, i, 1, fv_lanes(r->wide - i));
    for (i = 0; i < r->wide; i++)
        scale[i] = fv_int8_scale(&inverse[i], inverse[i]);
}

static void quantise_values(char *out, const fv_keys_i8 *l, const head_rows *r, float *scratch)
{
    int8_t *q = (int8_t *)out + l->v;
    float *inverse = scratch;
    find_value_scales((float *)(void *)(out + l->value_scale), inverse, r);
    for (size_t j = 0; j < r->n; j++, q += r->wide)
        for (size_t i = 0; i < r->wide; i += FV_W) {
            const fv_v by = fv_load(inverse + i), zero = fv_set(0.f);
            const int n = fv_lanes(r->wide - i);
            /* The inverse scale is 0 also if a value is NaN or infinite. */
            fv_store_i8(q + i, fv_sel_lt(zero, by, fv_mul(channels(r, j, i, n), by), zero), n);
        }
}

/* Returns the floats of scratch that the functions above need. */
static size_t keys_i8_scratch(const fv_problem *p)
{
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    const size_t keys = 2 * (size_t)fv_round_up(d, FV_W), values = fv_round_up(dv, FV_W);
    return keys > values ? keys : values;
}

#endif
