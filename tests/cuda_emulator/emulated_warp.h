/* emulated_warp.h: operations that the lanes of a warp perform together. */
#ifndef FOVEA_TESTS_EMULATED_WARP_H
#define FOVEA_TESTS_EMULATED_WARP_H

#include "tests/cuda_emulator/emulated_block.h"

/* Called once, with the argument of each lane in mask. */
typedef void emulated_warp_fn(void *const brought[EMULATED_WARP], unsigned mask);

/* emulated_block.c: suspends the running thread until all lanes in mask have called it; the last
 * lane performs the operation. */
void emulated_meet(unsigned mask, emulated_warp_fn *meeting, void *mine);
unsigned emulated_lane(void);

/* Implement the functions of emulated_calls. */
void emulated_warp_sync(unsigned mask);
unsigned emulated_shuffle(unsigned mask, unsigned value, unsigned from);
unsigned emulated_ballot(unsigned mask, int true_here);
void emulated_load_matrices(unsigned *to, int matrices, const void *row, int transposed);
void emulated_multiply(enum emulated_product kind, void *d, const unsigned *a, const unsigned *b);

#endif
