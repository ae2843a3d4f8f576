/* sweep_calls.h: the kernel calls that a frame consists of, the same for every kind of device; what
 * is done with a call is the backend's. */
#ifndef FOVEA_DEVICE_SWEEP_CALLS_H
#define FOVEA_DEVICE_SWEEP_CALLS_H

#include "device/backend.h"

/* Gets one call of a step, its pointers not set. `width`: tokens in a row of the grid, in a sweep
 * of row tiles; else 0. */
typedef void fv_sweep_calls_fn(void *ctx, fv_bound *step, uint32_t width, fv_call *c);

/* Independent units of a streamed sweep (step 0), or of step `step` of another. Frames have `rows`
 * rows at most. */
uint32_t fv_sweep_calls_units(const fv_sweep *s, uint32_t step, uint32_t rows);
/* The calls of one unit, in order. */
void fv_sweep_calls_unit(const fv_sweep *s, uint32_t step, uint32_t unit, uint32_t rows,
                         fv_sweep_calls_fn *fn, void *ctx);
/* All calls of a sweep, in an order that one queue may run them in. */
void fv_sweep_calls_sweep(const fv_sweep *s, uint32_t rows, fv_sweep_calls_fn *fn, void *ctx);
/* Where a ROW operand's ring has the row, in rows from the operand's base. */
uint64_t fv_sweep_calls_ring_row(const fv_operand *o, uint32_t row0, uint32_t width);

#endif
