/* op_operands.c: makes the operands of a plan of one operation: rows converted to the type that the
 * op reads, and the caller's values as weights. */
#include <stdio.h>
#include <string.h>

#include "plan/op_plan.h"

fv_view fv_op_rows(fv_builder *b, const char *name, fv_view in, enum fv_type type, uint32_t rows,
                   uint32_t cols, enum fv_op op, uint32_t operand)
{
    const bool taken = !b->options->narrow_only || fv_op_table[op]->operand[operand].narrow;
    const enum fv_type to = b->options->compute && taken ? FV_BF16 : FV_F32;
    char label[32];
    if (type == to)
        return in;
    snprintf(label, sizeof label, "%s to %s", name, to == FV_BF16 ? "bfloat16" : "float");
    const fv_view out = fv_emit_value(b, FV_VALUE_ROWS, rows, cols, to);
    fv_emit_convert(b, label, in, type, out, to, rows, cols);
    return out;
}

fv_weight fv_op_constant(fv_builder *b, uint32_t rows, uint32_t cols, const float *values)
{
    float *data;
    fv_weight w = fv_emit_constant(b, rows, cols, &data);
    if (data && values)
        memcpy(data, values, (size_t)rows * cols * sizeof *data);
    return w;
}
