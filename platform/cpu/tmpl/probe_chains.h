/* probe_chains.h: the loop that measures arithmetic peaks. The including file must define the type
 * `sums`, a vector of sums; fill(i), which returns a first one; and step(sum), the instruction to
 * measure. */
#include <stdint.h>

/* Independent sums: enough to hide the latency of a step, few enough for the registers. */
enum { CHAINS = 12 };

/* Runs CHAINS steps of `products` multiply-adds each, `rounds` times; returns the operations
 * done. */
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
