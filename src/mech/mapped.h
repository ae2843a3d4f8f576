/* mapped.h: features and their gradient for mechanisms that are completely defined by FV_MAP, the
 * map of one channel. */
FV_FN void fv_phi(fv_v out[1], int query, fv_v x, fv_row r)
{
    (void)query, (void)r;
    out[0] = FV_MAP(x);
}

#ifdef FV_DERIVE
#define FV_MAP_SLOPE_OF(map) map##_slope
#define FV_MAP_SLOPE(map) FV_MAP_SLOPE_OF(map)
FV_FN fv_v fv_phi_grad(int query, fv_v x, const fv_v df[1], fv_row r, const fv_v sum[2])
{
    (void)query, (void)r, (void)sum;
    return fv_mul(df[0], FV_MAP_SLOPE(FV_MAP)(x));
}
#endif
