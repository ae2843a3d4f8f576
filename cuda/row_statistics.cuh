/* row_statistics.cuh: a mechanism's statistics of a row that is distributed over lanes of a warp.
 * mech_common.cl must precede it. */

/* An unrolled loop, so that arrays that it indexes stay in registers. */
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

/* Computes the statistics of a row. This lane has x[i] where known(i) is true; the lanes whose
 * number differs in the bits `near` to `far` have the others. */
template <int QUERY, int COUNT, int N, class Known>
inline fv_row fv_statistics(const float *x, const Known &known, int near, int far, float alpha)
{
    fv_row done = {{0.f, 0.f}, {0.f, 0.f, 0.f}, 0.f, alpha};
    EACH(s, COUNT) {
        const bool top = FV_STAT_MAX >> s & 1;
        float sum = top ? -INFINITY : 0.f;
        EACH(i, N)
            if (known(i)) {
                const float term = fv_stat(s, QUERY, x[i], done);
                sum = top ? fv_max(sum, term) : sum + term;
            }
        for (int mask = near; mask <= far; mask *= 2) {
            const float other = fv_shfl_xor(sum, mask);
            sum = top ? fv_max(sum, other) : sum + other;
        }
        done.stat[s] = sum;
    }
    return COUNT > 0 ? fv_stats_done(QUERY, done) : done;
}
