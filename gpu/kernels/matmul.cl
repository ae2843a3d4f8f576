/* matmul.cl: MATMUL. A work-item computes four columns of four rows. */

#define ROWS 4

FV_KERNEL void matmul(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint columns = dim.s1, depth = dim.s2, runs = (columns + 3) / 4;
    const uint2 me = fv_spread(runs);
    const uint top = ROWS * me.x, c = 4 * me.y;
    if (top >= rows || me.y >= runs)
        return;
    float4 sum[ROWS][4];
    FV_TIMES(i, ROWS)
        FV_TIMES(j, 4)
            sum[i][j] = (float4)(0.f);
    for (uint k = 0; k < depth; k += 4) {
        const uint left = depth - k;
        float4 factor[4];
        FV_TIMES(j, 4)
            factor[j] = FV_GET_RUN(1, FV_AT(1, min(c + j, columns - 1)) + k, left, 0.f);
        FV_TIMES(i, ROWS) {
            const float4 x = FV_GET_RUN(0, FV_AT(0, min(top + i, rows - 1)) + k, left, 0.f);
            FV_TIMES(j, 4)
                sum[i][j] += x * factor[j];
        }
    }
    FV_TIMES(i, ROWS) {
        if (top + i >= rows)
            break;
        float total[4];
        FV_TIMES(j, 4)
            total[j] = (sum[i][j].s0 + sum[i][j].s1) + (sum[i][j].s2 + sum[i][j].s3);
        FV_PUT_RUN(2, FV_AT(2, top + i) + c, (float4)(total[0], total[1], total[2], total[3]),
                   columns - c);
    }
}
