/* row_top.cl: the largest value of a row whose runs are distributed over neighbouring
 * work-items. */

/* Load 4 or 16 numbers, of which `left` exist; the others are zero. */
static inline float4 fv_get_four(global const FV_CELL(0) *p, int left)
{
    if (left >= 4)
        return FV_GET4(0, p);
    return (float4)(left > 0 ? FV_GET(0, p) : 0.f, left > 1 ? FV_GET(0, p + 1) : 0.f,
                    left > 2 ? FV_GET(0, p + 2) : 0.f, 0.f);
}
static inline float16 fv_get_some(global const FV_CELL(0) *p, int left)
{
    if (left >= 16)
        return FV_GET16(0, p);
    return (float16)((float8)(fv_get_four(p, left), fv_get_four(p + 4, left - 4)),
                     (float8)(fv_get_four(p + 8, left - 8), fv_get_four(p + 12, left - 12)));
}

/* Bits of the largest absolute value. Compared as integers, infinity and NaN are the largest. */
static inline uint fv_top(float16 y)
{
    const uint8 a = max(as_uint8(fabs(FV_LOW(y))), as_uint8(fabs(FV_HIGH(y))));
    const uint4 b = max(FV_LOW(a), FV_HIGH(a));
    return max(max(b.s0, b.s1), max(b.s2, b.s3));
}

/* Reduces x by COMBINE over `lanes` neighbouring work-items (a power of two), among which this one
 * is number `me`. `scratch`: a name for the local memory that this needs. */
#if FV_GROUP > 1
#define FV_SHARE_ROW(scratch, x, me, lanes, COMBINE)                                               \
    FV_SHARED uint scratch[FV_GROUP];                                                              \
    scratch[get_local_id(0)] = x;                                                                  \
    for (uint left_ = (lanes) / 2; left_ > 0; left_ /= 2) {                                        \
        FV_BARRIER();                                                                              \
        if ((me) < left_)                                                                          \
            scratch[get_local_id(0)] =                                                             \
                COMBINE(scratch[get_local_id(0)], scratch[get_local_id(0) + left_]);               \
    }                                                                                              \
    FV_BARRIER();                                                                                  \
    x = scratch[get_local_id(0) - (me)]
#else
#define FV_SHARE_ROW(scratch, x, me, lanes, COMBINE)
#endif
/* The largest. */
#define FV_SHARE_TOP(top, me, lanes) FV_SHARE_ROW(scratch, top, me, lanes, max)
