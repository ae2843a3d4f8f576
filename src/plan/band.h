/* band.h: banded sweeps: convolutions, resized grids and the steps between them run for one band of
 * lines of the last grid at a time, so that no intermediate grid is complete in memory. */
#ifndef FOVEA_SRC_PLAN_BAND_H
#define FOVEA_SRC_PLAN_BAND_H

#include "plan/sweep.h"

/* Returns where the best banded sweep that begins with step `first` ends, for any number of
 * workers, or `first` if no banded sweep is worthwhile. Sets *bands to the number of bands for
 * `threads` workers. */
uint32_t fv_band_end(const fv_cut *c, uint32_t first, uint32_t threads, uint32_t *bands);
/* Returns where the sweep of chunks or row tiles [first, cut) should end, which is `cut` or an
 * earlier step, so that a banded sweep can begin there and the fewest bytes are alive. */
uint32_t fv_band_begin(const fv_cut *c, uint32_t first, uint32_t cut);
/* Stores in w->band, as [step - w->first][band], the rows of every step of a banded sweep for every
 * band. For the values inside the sweep, stores how many rows a worker's buffer holds. */
void fv_band_rows(fv_cut *c, fv_plan_sweep *w);

#endif
