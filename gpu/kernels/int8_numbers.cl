/* int8_numbers.cl: quantises numbers to 8 bits and computes their scale as in src/ops/quantise.h,
 * to the bit. */

/* ---- the scale ---- */

/* a / b, correctly rounded, since OpenCL's division may be off by a few ulp. Of the neighbouring
 * floats, the one is right whose product with b is nearest to a; these differences are exact. */
static inline float fv_quotient(float a, float b)
{
    const uint around = as_uint(a / b);
    float best = as_float(around), least = fabs(fma(-best, b, a));
    for (uint i = around - 4; i <= around + 4; i++) {
        const float x = as_float(i), rest = fabs(fma(-x, b, a));
        best = rest < least ? x : best;
        least = rest < least ? rest : least;
    }
    return best;
}

/* (scale, its inverse), as computed by fv_int8_scale(). */
static inline float2 fv_scale_of(uint top)
{
    const float size = as_float(top);
    if (top >= 0x7f800000u)
        return (float2)(as_float(0x7fc00000u), 0.f);
    if (size < 0x1p-100f)
        return (float2)(0.f);
    return (float2)(fv_quotient(size, 127.f), fv_quotient(127.f, size));
}

/* ---- whole numbers ---- */

static inline uint fv_whole4(float4 y)
{
    const int4 q = convert_int4(rint(y));
    return ((uint)q.s0 & 255) | ((uint)q.s1 & 255) << 8 | ((uint)q.s2 & 255) << 16 |
           (uint)q.s3 << 24;
}
static inline uint4 fv_whole16(float16 y)
{
    const float8 low = FV_LOW(y), high = FV_HIGH(y);
    return (uint4)(fv_whole4(FV_LOW(low)), fv_whole4(FV_HIGH(low)), fv_whole4(FV_LOW(high)),
                   fv_whole4(FV_HIGH(high)));
}
