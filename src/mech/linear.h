/* linear.h: linear attention, out = o / (z + eps), as the headers of its feature maps have it. A
 * header that defines FV_MAP, the map of one channel, has said everything. */
#ifdef FV_MAP
FV_FN void fv_phi(fv_v out[1], int query, fv_v x, fv_row r)
{
    (void)query, (void)r;
    out[0] = FV_MAP(x);
}
#endif

FV_FN fv_v fv_norm(fv_v z, fv_v eps)
{
    return fv_div(fv_set(1.f), fv_add(z, eps));
}
