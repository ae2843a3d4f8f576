/* band.h: banded sweeps: convolutions, resized grids and the steps between them, a band of the last
 * grid's lines at a time, so that no intermediate grid is complete in memory. */
#ifndef FOVEA_SRC_PLAN_BAND_H
#define FOVEA_SRC_PLAN_BAND_H

#include "plan/sweep.h"

/* Where the best banded sweep that begins with step `first` ends, whoever runs it; `first`: there
 * is none that is worth it. *bands: how many for `threads` workers. */
uint32_t fv_band_end(const fv_cut *c, uint32_t first, uint32_t threads, uint32_t *bands);
/* Where a sweep of other steps [first, cut) should end for the one that begins at `cut` to be
 * banded from there on with the fewest bytes between them: `cut`, or earlier. */
uint32_t fv_band_begin(const fv_cut *c, uint32_t first, uint32_t cut);
/* Stores the rows of every step of a banded sweep for every band, [step - w->first][band], in
 * w->band; and for the values inside, how many rows a worker's buffer holds. */
void fv_band_rows(fv_cut *c, fv_plan_sweep *w);

#endif
