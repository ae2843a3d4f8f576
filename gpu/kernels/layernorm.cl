/* layernorm.cl: normalises rows to zero mean and unit variance, then scales and shifts them. The
 * mean is computed first, then the variance from the differences. */

/* A work-group normalises a row; a work-item has every FV_GROUPth run of four columns. */
FV_KERNEL void layernorm(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    SHARED_VAR float scratch[FV_GROUP];
    const uint columns = dim.s1, begin = 4 * get_local_id(0), step = 4 * FV_GROUP;
    global const FV_CELL(0) *in = FV_AT(0, get_group_id(0));
    global FV_CELL(3) *out = FV_AT(3, get_group_id(0));
    float4 sum = 0.f;
    for (uint c = begin; c < columns; c += step)
        sum += FV_GET_RUN(0, in + c, columns - c, 0.f);
    const float mean = fv_group_sum(sum.s0 + sum.s1 + (sum.s2 + sum.s3), scratch) / (float)columns;
    sum = 0.f;
    for (uint c = begin; c < columns; c += step) {
        const float4 x = FV_GET_RUN(0, in + c, columns - c, mean) - mean;
        sum += x * x;
    }
    const float var = fv_group_sum(sum.s0 + sum.s1 + (sum.s2 + sum.s3), scratch) / (float)columns;
    const float scale = 1.f / sqrt(var + f.s0);
    for (uint c = begin; c < columns; c += step) {
        const uint left = columns - c;
        const float4 x = FV_GET_RUN(0, in + c, left, mean) - mean;
        const float4 weight = FV_GET_RUN(1, base1 + at1.x + c, left, 0.f);
        const float4 bias = FV_GET_RUN(2, base2 + at2.x + c, left, 0.f);
        FV_PUT_RUN(3, out + c, x * scale * weight + bias, left);
    }
}
