/* boxes.cl: how detectors choose and refine boxes: ROW_MAX, PICK, SINE, DEFORM, REFINE. */

#if FV_COMPILES(row_max)
/* A work-item has a row. */
FV_KERNEL void row_max(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint r = get_global_id(0), columns = dim.s1;
    global const FV_CELL(0) *in = FV_AT(0, min(r, rows - 1));
    float most = -INFINITY;
    for (uint c = 0; c < columns; c++) {
        const float x = FV_GET(0, in + c);
        most = x > most ? x : most; /* NaN is not */
    }
    if (r < rows)
        FV_PUT(1, FV_AT(1, r), most);
}
#endif

#if FV_COMPILES(pick)
/* A work-item has four columns of a row. */
FV_KERNEL void pick(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    uint from = row0 + me.x;
    if (FV_HAS1) {
        const float index = FV_GET(1, FV_AT(1, me.x));
        from = index >= 0.f && index < (float)dim.s2 ? (uint)index : 0xffffffffu;
    }
    float4 x = 0.f;
    if (from != 0xffffffffu)
        x = FV_GET_RUN(0, FV_AT(0, from) + c, left, 0.f);
    FV_PUT_RUN(2, FV_AT(2, me.x) + c, x, left);
}
#endif

#if FV_COMPILES(sine)
/* sin(2 pi t) by a polynomial, because some drivers have no sine; the error is below 2e-7. */
static inline float sine_of_revolutions(float t)
{
    float r = t - floor(t + 0.5f);
    r = fabs(r) > 0.25f ? (r > 0.f ? 0.5f : -0.5f) - r : r;
    const float s = r * r;
    return r * ((((39.7109184f * s - 76.5749893f) * s + 81.6022339f) * s - 41.3416786f) * s +
                6.28318548f);
}

/* A work-item has a column of a row. */
FV_KERNEL void sine(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint width = dim.s1, columns = width * dim.s2;
    const uint2 me = fv_spread(columns);
    if (me.x >= rows || me.y >= columns)
        return;
    const uint part = me.y / width, c = me.y % width;
    const float x = FV_GET(0, FV_AT(0, me.x) + part), rate = FV_GET(1, FV_AT(1, 0) + c);
    const float revolutions = x * rate;
    const float y = revolutions > 4194304.f    ? 4194304.f
                    : revolutions < -4194304.f ? -4194304.f
                                               : revolutions;
    /* What was lost by rounding the product and the rate. */
    float error = fma(x, rate, -revolutions);
    if (u.s0)
        error += x * FV_GET(1, FV_AT(1, 1) + c);
    error = fabs(revolutions) < 4194304.f ? error : 0.f;
    const float t = y - floor(y + 0.5f) + error + FV_GET(2, base2 + at2.x + c);
    FV_PUT(3, FV_AT(3, me.x) + me.y, sine_of_revolutions(t));
}
#endif

#if FV_COMPILES(deform)
#define FV_FLAG_CENTRES (1u << 23) /* src/ops/op.h */

/* A work-item has four channels of a row; the third dimension counts heads. */
FV_KERNEL void deform(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
{
    const uint d = dim.s1, points = dim.s2, samples = points * dim.s3, head = get_group_id(2);
    const uint runs = (d + 3) / 4;
    const uint2 me = fv_spread(runs);
    const uint r = min(me.x, rows - 1), from = 4 * min(me.y, runs - 1), rest = d - from;
    const uint c = head * d + from;
    global const FV_CELL(0) *values = FV_AT(0, 0) + c;
    global const FV_CELL(1) *box = FV_AT(1, r);
    global const FV_CELL(2) *offset = FV_AT(2, r) + head * samples * 2;
    global const FV_CELL(3) *weight = FV_AT(3, r) + head * samples;
    float most = -INFINITY, sum = 0.f;
    float4 out = 0.f;
    for (uint p = 0; p < samples; p++) {
        const float w = FV_GET(3, weight + p);
        most = w > most ? w : most;
    }
    for (uint p = 0; p < samples; p++) {
        global const uint *level = table + 3 * (p / points); /* fv_deform_level */
        const uint columns = level[0], lines = level[1];
        const float width = (float)columns, height = (float)lines;
        const float e = exp(FV_GET(3, weight + p) - most);
        float x = f.s0 * FV_GET(2, offset + 2 * p), y = f.s0 * FV_GET(2, offset + 2 * p + 1);
        if (FV_FLAGS & FV_FLAG_CENTRES) {
            x += FV_GET(1, box) * width;
            y += FV_GET(1, box + 1) * height;
        } else {
            x = (FV_GET(1, box) + x * FV_GET(1, box + 2)) * width;
            y = (FV_GET(1, box + 1) + y * FV_GET(1, box + 3)) * height;
        }
        x -= 0.5f;
        y -= 0.5f;
        const uint inside = x > -1.f && x < width && y > -1.f && y < height;
        const int left = inside ? (int)(x + 1.f) - 1 : 0, top = inside ? (int)(y + 1.f) - 1 : 0;
        const float right = inside ? x - (float)left : 0.f, low = inside ? y - (float)top : 0.f;
        sum += e;
        for (int i = 0; i < 4; i++) {
            const int column = left + i % 2, line = top + i / 2;
            const uint there =
                inside && column >= 0 && line >= 0 && column < (int)columns && line < (int)lines;
            const float part = (i % 2 ? right : 1.f - right) * (i / 2 ? low : 1.f - low);
            if (there) {
                global const FV_CELL(0) *pixel =
                    values + (level[2] + (size_t)line * columns + (size_t)column) * at0.y;
                out += e * part * FV_GET_RUN(0, pixel, rest, 0.f);
            }
        }
    }
    if (me.x < rows && me.y < runs)
        FV_PUT_RUN(4, FV_AT(4, r) + c, out / sum, rest);
}
#endif

#if FV_COMPILES(refine)
/* A work-item has a row. */
FV_KERNEL void refine(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint r = get_global_id(0);
    if (r >= rows)
        return;
    const float4 box = FV_GET4(0, FV_AT(0, r)), delta = FV_GET4(1, FV_AT(1, r));
    const float4 out = (float4)(box.s0 + delta.s0 * box.s2, box.s1 + delta.s1 * box.s3,
                                box.s2 * exp(delta.s2), box.s3 * exp(delta.s3));
    FV_PUT4(2, FV_AT(2, r), out);
}
#endif
