/* magnitude.h: MALA's normalisation, out = (1 + 1/(z + eps)) (o + w vmean) - z vmean with o from
 * centred values, so that the two terms in vmean, nearly equal, are subtracted before it comes in.
 * The header defines FV_MAP. (arXiv 2507.00698, official code) */
#define FV_WANTS FV_WANT_CENTRED

FV_FN void fv_phi(fv_v out[1], int query, fv_v x, fv_row r)
{
    (void)query, (void)r;
    out[0] = FV_MAP(x);
}

FV_FN fv_v fv_norm(fv_v z, fv_v eps)
{
    return fv_add(fv_set(1.f), fv_div(fv_set(1.f), fv_add(z, eps)));
}

FV_FN fv_v fv_norm_mean(fv_v z, fv_v w, fv_v eps)
{
    return fv_add(fv_sub(w, z), fv_div(w, fv_add(z, eps)));
}
