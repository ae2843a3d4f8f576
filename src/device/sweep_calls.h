/* sweep_calls.h: the kernel calls that a frame consists of, the same for every kind of device; what
 * is done with a call is the backend's. */
#ifndef FOVEA_DEVICE_SWEEP_CALLS_H
#define FOVEA_DEVICE_SWEEP_CALLS_H

#include "device/backend.h"

/* Where in its sweep a call is. */
typedef struct fv_call_place {
    uint32_t width; /* tokens in a row of the grid, in a sweep of row tiles; else 0 */
    uint32_t unit;
    fv_rows own; /* of the unit, in a sweep of row tiles: calls may also have halo rows */
} fv_call_place;

/* Gets one call of a step, its pointers not set. */
typedef void fv_sweep_calls_fn(void *ctx, fv_bound *step, const fv_call_place *at, fv_call *c);

/* Frames that a sweep is run for. */
uint32_t fv_sweep_calls_batch(const fv_sweep *s, fv_portion most);
/* Independent units of a streamed sweep (step 0), or of step `step` of another, of all frames. */
uint32_t fv_sweep_calls_units(const fv_sweep *s, uint32_t step, fv_portion most);
/* Rows that a unit of a streamed sweep owns. */
fv_rows fv_sweep_calls_own(uint32_t rows, uint32_t chunk, uint32_t groups, uint32_t runs,
                           uint32_t unit);
/* The calls of one unit, in order. The units of a frame come before those of the next: keys and
 * values stay in the cache. */
void fv_sweep_calls_unit(const fv_sweep *s, uint32_t step, uint32_t unit, fv_portion most,
                         fv_sweep_calls_fn *fn, void *ctx);
/* All calls of a sweep, in an order that one queue may run them in. */
void fv_sweep_calls_sweep(const fv_sweep *s, fv_portion most, fv_sweep_calls_fn *fn, void *ctx);
/* A row of a neighbour's, of an operand with borders: its number at `saved`. */
uint64_t fv_sweep_calls_saved_row(const fv_operand *o, uint32_t row, const fv_call_place *at);
/* Where a ROW operand's ring has the row, in rows from the operand's base. */
uint64_t fv_sweep_calls_ring_row(const fv_operand *o, uint32_t row0, uint32_t width);

#endif
