/* row_statistics.cuh: statistics that a mechanism wants of a row, where a warp's lanes share it.
 * What a mechanism does not have must have been given names before: lattn_common.cl,
 * scan_common.cl. */

/* A loop that leaves no trace: what it counts are registers. */
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

/* Statistics of a row that a warp's lanes share: x[i] is there where known(i), lanes `near` to
 * `far` bits away have the others. */
template <int QUERY, int COUNT, int N, class Known>
inline fv_row fv_statistics(const float *x, const Known &known, int near, int far, float alpha)
{
    fv_row done = {{0.f, 0.f}, {0.f, 0.f, 0.f}, 0.f};
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
    return COUNT > 0 ? fv_stats_done(QUERY, done, alpha) : done;
}
