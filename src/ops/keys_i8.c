/* keys_i8.c: see keys_i8.h. */
#include "ops/keys_i8.h"
#include "ops/contracts/softmax_attention.h"

#include "ops/foveated.h"

uint32_t fv_keys_i8_bytes(const fv_problem *p)
{
    uint64_t n = p->dim[FV_ATTN_KEYS];
    if (p->op == FV_OP_KEYS_I8)
        n += p->dim[FV_KEYS_CELLS];
    if (p->op == FV_OP_FOVEATED) {
        const fv_fovea f = fv_fovea_of(p);
        n += fv_fovea_first(&f, f.levels + 1);
    }
    const size_t bytes = fv_keys_i8_of(n, p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV]).bytes;
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX - 1;
}

uint32_t fv_columns_keys(const fv_problem *p)
{
    return p->acc == FV_I32 ? fv_keys_i8_bytes(p) : p->heads * p->dim[FV_ATTN_D];
}
