/* convert_tmpl.c: CONVERT, COPY and TAKE, which copy rows unchanged or in another type, written
 * with vec.h's vector functions. */
#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/row.h"

/* Copies rows of the input from `first` on. */
FV_FN void rows_from(const fv_args *a, const fv_call *c, size_t first, enum fv_type to,
                     enum fv_type from)
{
    const size_t ld = a->ld[FV_CONVERT_IN];
    for (size_t r = 0; r < c->rows; r++)
        fv_row_convert(fv_element(c->p[FV_CONVERT_OUT], to, r * a->ld[FV_CONVERT_OUT]), to,
                       fv_element(c->p[FV_CONVERT_IN], from, (first + r) * ld), from,
                       a->prob.dim[FV_ROW_C]);
}

FV_FN void rows(const fv_args *a, const fv_call *c, enum fv_type to, enum fv_type from)
{
    rows_from(a, c, 0, to, from);
}

void FV_NAME(fv_k_convert_any)(const fv_args *a, const fv_call *c)
{
    const enum fv_type to = a->prob.out;
    switch (a->prob.in) {
    case FV_F16:
        rows(a, c, to, FV_F16);
        break;
    case FV_BF16:
        rows(a, c, to, FV_BF16);
        break;
    default:
        rows(a, c, to, FV_F32);
    }
}

void FV_NAME(fv_k_copy_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.in == FV_BF16)
        rows(a, c, FV_F32, FV_BF16);
    else
        rows(a, c, FV_F32, FV_F32);
}

void FV_NAME(fv_k_take_f32)(const fv_args *a, const fv_call *c)
{
    const size_t first = (size_t)a->u[0] + c->row0;
    if (a->prob.in == FV_F32 && a->prob.out == FV_F32)
        rows_from(a, c, first, FV_F32, FV_F32);
    else
        rows_from(a, c, first, a->prob.out, a->prob.in);
}
