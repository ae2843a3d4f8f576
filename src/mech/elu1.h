/* elu1.h: linear attention with phi(x) = ELU(x) + 1: out = o / (z + eps). */
#define FV_BLOCKS 1  /* feature blocks: feature width = FV_BLOCKS x head dim */
#define FV_STREAMS 1 /* slices of v that see differently paired blocks */
#define FV_WANTS 0   /* nothing beside phi(q), phi(k) and v */

FV_FN fv_v fv_phi(fv_v x)
{
    return fv_add(fv_exp(fv_min(fv_set(0.f), x)), fv_max(fv_set(0.f), x));
}

FV_FN fv_v fv_norm(fv_v o, fv_v z, fv_v eps)
{
    return fv_div(o, fv_add(z, eps));
}
