/* emulated_warp.h: what the lanes of a warp do together. */
#ifndef FOVEA_TESTS_EMULATED_WARP_H
#define FOVEA_TESTS_EMULATED_WARP_H

#include "tests/cuda_emulator/emulated_block.h"

/* Done once, with what each lane of mask brought. */
typedef void emulated_warp_fn(void *const brought[EMULATED_WARP], unsigned mask);

/* emulated_block.c: the running thread waits for the other lanes in mask; the last that comes does
 * what they met for. */
void emulated_meet(unsigned mask, emulated_warp_fn *meeting, void *mine);
unsigned emulated_lane(void);

/* As in emulated_calls. */
void emulated_warp_sync(unsigned mask);
unsigned emulated_shuffle(unsigned mask, unsigned value, unsigned from);
unsigned emulated_ballot(unsigned mask, int true_here);
void emulated_load_matrices(unsigned *to, int matrices, const void *row, int transposed);
void emulated_multiply(enum emulated_product kind, void *d, const unsigned *a, const unsigned *b);

#endif
