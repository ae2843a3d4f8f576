/* gemm_subgroup.cl: the product of gemm_half.cl for devices whose subgroups can read blocks of
 * memory (Intel's). A work-group is one subgroup and computes 16 rows x 32 columns, two columns per
 * lane. It reads one panel of each operand, stages nothing, and needs no barriers. */
#include "gpu/kernels/subgroup.cl"
#if FV_GROUP != FV_LANES
#error "a work-group has to be one subgroup"
#endif

/* Loops are written out: Intel's compiler may ignore unroll pragmas (see gemm.cl). It does not
 * unroll a loop with this many operations itself, and then keeps the arrays that it indexes in
 * memory. */
#define FV_ADD_TO_ROW(i, x, columns) sum[i] = FV_H_MAD(FV_TN, x, columns, sum[i])
#define FV_ADD_STEPS(k) FV_FOUR_STEPS(FV_ADD_TO_ROW, w + (k)*FV_PANEL, a + (k)*FV_ROW_PANEL)

FV_OF_LANES FV_KERNEL void product(FV_ARGS)
{
    FV_EXCHANGE
    const uint row = get_group_id(0) * FV_ROW_PANEL, panel = get_group_id(1) * FV_PANEL;
    global const half *a = (global const half *)table + (size_t)row * FV_STEPS;
    global const half *w = base1 + at1.x + (size_t)panel * FV_STEPS;
    FV_V acc[FV_TM];
    FV_EACH(i)
        acc[i] = (FV_V)(0);
    for (uint k0 = 0; k0 < FV_STEPS; k0 += FV_CHUNK) {
        FV_H(FV_TN) sum[FV_TM];
        FV_EACH(i)
            sum[i] = (FV_H(FV_TN))(0);
        FV_ADD_STEPS(0);
        FV_ADD_STEPS(4);
        FV_ADD_STEPS(8);
        FV_ADD_STEPS(12);
        a += FV_CHUNK * FV_ROW_PANEL;
        w += FV_CHUNK * FV_PANEL;
        FV_EACH(i)
            acc[i] += FV_H_FLOAT(FV_TN, sum[i]);
    }
    /* computed here, because before the loop it would take registers of the loop */
    const uint col = panel + FV_TN * FV_LANE;
    if (col >= FV_COLS)
        return;
    FV_FINISH_TILE(row, col);
}
