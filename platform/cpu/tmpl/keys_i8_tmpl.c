/* keys_i8_tmpl.c: KEYS_I8: quantises keys and values to 8-bit integers, one head at a time. */
#include "platform/cpu/tmpl/keys_i8_rows.h"

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
    (void)k, (void)rows;
    return keys_i8_scratch(p) * sizeof(float);
}

static bool applies(const fv_problem *p)
{
    return p->in == FV_F32 || p->in == FV_BF16;
}

const fv_kernel_hooks FV_NAME(fv_h_keys_i8) = {
    .applies = applies, .rate = FV_W * 1e9, .scratch = scratch_bytes};
