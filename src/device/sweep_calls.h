/* sweep_calls.h: makes the kernel calls of a frame, which are the same for every kind of device.
 * The backend decides what to do with each call. */
#ifndef FOVEA_DEVICE_SWEEP_CALLS_H
#define FOVEA_DEVICE_SWEEP_CALLS_H

#include "device/backend.h"

/* The position of a call in its sweep. */
typedef struct fv_call_place {
    uint32_t width; /* in a sweep of row tiles: tokens in a row of the grid; else 0 */
    uint32_t unit;
    fv_rows own; /* in a sweep of row tiles: rows that the unit owns; calls may also have halo
                    rows */
} fv_call_place;

/* Receives one call of a step, whose pointers are not set. */
typedef void fv_sweep_calls_fn(void *ctx, fv_bound *step, const fv_call_place *at, fv_call *c);

/* Returns the number of frames for which a sweep is run. */
uint32_t fv_sweep_calls_batch(const fv_sweep *s, fv_portion most);
/* Returns the number of independent units, over all frames, of a streamed sweep (step 0), or of
 * step `step` of another sweep. */
uint32_t fv_sweep_calls_units(const fv_sweep *s, uint32_t step, fv_portion most);
/* Returns the rows that a unit of a streamed sweep owns. */
fv_rows fv_sweep_calls_own(uint32_t rows, uint32_t chunk, uint32_t groups, uint32_t runs,
                           uint32_t unit);
/* Makes the calls of one unit, in order. The units of a frame precede those of the next frame, so
 * that keys and values stay in the cache. */
void fv_sweep_calls_unit(const fv_sweep *s, uint32_t step, uint32_t unit, fv_portion most,
                         fv_sweep_calls_fn *fn, void *ctx);
/* Makes all calls of a sweep, in an order in which a single queue may run them. */
void fv_sweep_calls_sweep(const fv_sweep *s, fv_portion most, fv_sweep_calls_fn *fn, void *ctx);
/* Returns, for an operand with borders, the row of `saved` that contains row `row` of a neighbour.
 */
uint64_t fv_sweep_calls_saved_row(const fv_operand *o, uint32_t row, const fv_call_place *at);
/* Returns the position of a row in a ROW operand's ring, in rows from the operand's base. */
uint64_t fv_sweep_calls_ring_row(const fv_operand *o, uint32_t row0, uint32_t width);

#endif
