/* phi_sum.h: the sum phi.df for the gradients of q and k, for maps that divide the features of a
 * row by a statistic of all features. For mechanisms with one block; fv_phi must be defined before
 * this header is included. */
#define FV_SUMS 1
#define FV_SUMS_KEY 1

FV_FN fv_v fv_sum_term(int i, int query, fv_v x, const fv_v df[1], fv_row r)
{
    fv_v f[1];
    (void)i;
    fv_phi(f, query, x, r);
    return fv_mul(f[0], df[0]);
}
