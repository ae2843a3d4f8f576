/* keys_i8_tmpl.c: KEYS_I8: keys and values as whole numbers of 8 bits, a head at a time. Channels
 * lie across the lanes, so that sums over the keys are in order. */
#include "ops/keys_i8.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/bytes.h"
#include "platform/cpu/vec/row.h"

/* Rows of a head among the keys or the values: tokens, then cells. */
typedef struct head_rows {
    const void *base[2];
    enum fv_type type[2];
    size_t ld[2], tokens, n, wide;
} head_rows;

static head_rows rows_of(const fv_args *a, const fv_call *c, int tokens, int cells, size_t head,
                         size_t wide)
{
    const int operand[2] = {tokens, cells};
    head_rows r = {.tokens = a->prob.dim[FV_ATTN_KEYS], .wide = wide};
    r.n = r.tokens + a->prob.dim[FV_KEYS_CELLS];
    for (int i = 0; i < 2; i++) {
        r.type[i] = (enum fv_type)a->type[operand[i]];
        r.ld[i] = a->ld[operand[i]];
        if (c->p[operand[i]])
            r.base[i] = fv_element(c->p[operand[i]], r.type[i], head * wide);
    }
    return r;
}

/* Up to FV_W channels of row j from channel i on. */
FV_FN fv_v channels(const head_rows *r, size_t j, size_t i)
{
    const int cell = j >= r->tokens, n = fv_lanes(r->wide - i);
    const size_t row = cell ? j - r->tokens : j;
    if (r->type[cell] == FV_BF16)
        return fv_row_load(fv_element(r->base[cell], FV_BF16, row * r->ld[cell]), FV_BF16, i, n);
    return fv_row_load(fv_element(r->base[cell], FV_F32, row * r->ld[cell]), FV_F32, i, n);
}

/* The mean over tokens of every channel. Tokens are added in memory order, because the contract
 * fixes the order of the sum, and so that memory is read from front to back. */
static void find_mean(float *mean, const head_rows *r)
{
    memset(mean, 0, fv_round_up((uint32_t)r->wide, FV_W) * sizeof *mean);
    for (size_t j = 0; j < r->tokens; j++)
        for (size_t i = 0; i < r->wide; i += FV_W)
            fv_store(mean + i, fv_add(fv_load(mean + i), channels(r, j, i)));
    for (size_t i = 0; i < r->wide; i += FV_W)
        fv_store(mean + i, fv_div(fv_load(mean + i), fv_set((float)r->tokens)));
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
            fv_store(row + i, fv_sub(channels(r, j, i), fv_load(mean + i)));
        scale[j] = fv_i8_row(q, &sum[j], row, r->wide);
    }
}

/* `top` and `factor` have room for whole vectors. */
static void find_value_scales(float *scale, float *factor, float *top, const head_rows *r)
{
    const size_t room = fv_round_up((uint32_t)r->wide, FV_W) * sizeof *top;
    memset(top, 0, room);
    memset(factor, 0, room); /* in it what is NaN where one is infinite or NaN */
    for (size_t j = 0; j < r->n; j++)
        for (size_t i = 0; i < r->wide; i += FV_W) {
            const fv_v x = channels(r, j, i);
            fv_store(top + i, fv_max(fv_load(top + i), fv_abs(x)));
            fv_store(factor + i, fv_fma(x, fv_set(0.f), fv_load(factor + i)));
        }
    for (size_t i = 0; i < r->wide; i++)
        scale[i] = fv_int8_scale(&factor[i], factor[i] == 0 ? top[i] : NAN);
}

static void quantise_values(char *out, const fv_keys_i8 *l, const head_rows *r, float *scratch)
{
    int8_t *q = (int8_t *)out + l->v;
    float *factor = scratch, *top = scratch + fv_round_up((uint32_t)l->dv, FV_W);
    find_value_scales((float *)(void *)(out + l->value_scale), factor, top, r);
    for (size_t j = 0; j < r->n; j++, q += r->wide)
        for (size_t i = 0; i < r->wide; i += FV_W) {
            const fv_v by = fv_load(factor + i), zero = fv_set(0.f);
            /* A factor of 0 is also that of NaN and infinity. */
            fv_store_i8(q + i, fv_sel_lt(zero, by, fv_mul(channels(r, j, i), by), zero),
                        fv_lanes(r->wide - i));
        }
}

void FV_NAME(fv_k_keys_i8)(const fv_args *a, const fv_call *c)
{
    const uint32_t *dim = a->prob.dim;
    const fv_keys_i8 l = fv_keys_i8_of((size_t)dim[FV_ATTN_KEYS] + dim[FV_KEYS_CELLS],
                                       dim[FV_ATTN_D], dim[FV_ATTN_DV]);
    for (size_t i = 0; i < c->rows; i++) {
        char *out = (char *)c->p[FV_KEYS_OUT] + i * a->ld[FV_KEYS_OUT];
        const head_rows keys = rows_of(a, c, FV_KEYS_K, FV_KEYS_CELL_K, c->row0 + i, l.d);
        const head_rows values = rows_of(a, c, FV_KEYS_V, FV_KEYS_CELL_V, c->row0 + i, l.dv);
        quantise_keys(out, &l, &keys, c->scratch);
        quantise_values(out, &l, &values, c->scratch);
        memset(out + l.v + l.n * l.dv, 0, l.bytes - l.v - l.n * l.dv);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    (void)k, (void)rows;
    return 2 * (size_t)fv_round_up(d > dv ? d : dv, FV_W) * sizeof(float);
}

static bool applies(const fv_problem *p)
{
    return p->in == FV_F32 || p->in == FV_BF16;
}

const fv_kernel_hooks FV_NAME(fv_h_keys_i8) = {
    .applies = applies, .rate = FV_W * 1e9, .scratch = scratch_bytes};
