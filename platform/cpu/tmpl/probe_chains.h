/* probe_chains.h: the loop of every peak in arithmetic. Included where `sums`, a vector of them,
 * fill(i), one to begin with, and step(sum), what is measured, are defined. */
#include <stdint.h>

/* Independent sums: enough to hide the latency of a step, few enough for the registers. */
enum { CHAINS = 12 };

/* Runs `rounds` times CHAINS steps, of `products` multiply-adds each; returns the operations. */
FV_FN double run_chains(uint64_t rounds, double products)
{
    sums sum[CHAINS];
    volatile sums used[CHAINS];
    FV_UNROLL
    for (int i = 0; i < CHAINS; i++)
        sum[i] = fill(i);
    for (uint64_t r = 0; r < rounds; r++) {
        FV_UNROLL
        for (int i = 0; i < CHAINS; i++)
            sum[i] = step(sum[i]);
    }
    FV_UNROLL
    for (int i = 0; i < CHAINS; i++)
        used[i] = sum[i];
    (void)used;
    return 2 * products * CHAINS * (double)rounds;
}
