/* layernorm.cl: rows normalised to zero mean and unit variance, scaled, shifted: the mean first,
 * then the variance from the differences. */

/* A work-group has a row; a work-item, every FV_GROUPth run of four columns. */
FV_KERNEL void layernorm(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    SHARED_ROOM float room[FV_GROUP];
    const uint columns = dim.s1, begin = 4 * get_local_id(0), step = 4 * FV_GROUP;
    global const FV_CELL(0) *in = FV_AT(0, get_group_id(0));
    global FV_CELL(3) *out = FV_AT(3, get_group_id(0));
    float4 sum = 0.f;
    for (uint c = begin; c < columns; c += step)
        sum += FV_GET_RUN(0, in + c, columns - c, 0.f);
    const float mean = fv_group_sum(sum.s0 + sum.s1 + (sum.s2 + sum.s3), room) / (float)columns;
    sum = 0.f;
    for (uint c = begin; c < columns; c += step) {
        const float4 x = FV_GET_RUN(0, in + c, columns - c, mean) - mean;
        sum += x * x;
    }
    const float var = fv_group_sum(sum.s0 + sum.s1 + (sum.s2 + sum.s3), room) / (float)columns;
    const float scale = 1.f / sqrt(var + f.s0);
    for (uint c = begin; c < columns; c += step) {
        const uint left = columns - c;
        const float4 x = FV_GET_RUN(0, in + c, left, mean) - mean;
        const float4 weight = FV_GET_RUN(1, base1 + at1.x + c, left, 0.f);
        const float4 bias = FV_GET_RUN(2, base2 + at2.x + c, left, 0.f);
        FV_PUT_RUN(3, out + c, x * scale * weight + bias, left);
    }
}

/* A work-item has a row, in runs of 16 columns. */
FV_KERNEL void layernorm_row(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint r = get_global_id(0), columns = dim.s1, whole = columns / 16 * 16;
    if (r >= rows)
        return;
    global const FV_CELL(0) *in = FV_AT(0, r);
    global FV_CELL(3) *out = FV_AT(3, r);
    global const FV_CELL(1) *weight = base1 + at1.x;
    global const FV_CELL(2) *bias = base2 + at2.x;
    float16 wide = 0.f;
    for (uint c = 0; c < whole; c += 16)
        wide += FV_GET16(0, in + c);
    float8 eight = wide.lo + wide.hi;
    float4 four = eight.lo + eight.hi;
    float sum = four.s0 + four.s1 + (four.s2 + four.s3);
    for (uint c = whole; c < columns; c++)
        sum += FV_GET(0, in + c);
    const float mean = sum / (float)columns;
    wide = 0.f;
    for (uint c = 0; c < whole; c += 16) {
        const float16 x = FV_GET16(0, in + c) - mean;
        wide += x * x;
    }
    eight = wide.lo + wide.hi;
    four = eight.lo + eight.hi;
    sum = four.s0 + four.s1 + (four.s2 + four.s3);
    for (uint c = whole; c < columns; c++) {
        const float x = FV_GET(0, in + c) - mean;
        sum += x * x;
    }
    const float scale = 1.f / sqrt(sum / (float)columns + f.s0);
    for (uint c = 0; c < whole; c += 16) {
        const float16 x = (FV_GET16(0, in + c) - mean) * scale;
        FV_PUT16(3, out + c, x * FV_GET16(1, weight + c) + FV_GET16(2, bias + c));
    }
    for (uint c = whole; c < columns; c++) {
        const float x = (FV_GET(0, in + c) - mean) * scale;
        FV_PUT(3, out + c, x * FV_GET(1, weight + c) + FV_GET(2, bias + c));
    }
}
