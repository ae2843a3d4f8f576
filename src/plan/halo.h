/* halo.h: row tiles with a halo: sweeps in which a step reads its neighbours on the grid. */
#ifndef FOVEA_SRC_PLAN_HALO_H
#define FOVEA_SRC_PLAN_HALO_H

#include "plan/sweep.h"

/* Of step i in a sweep that begins with `first`: the width of the grid, where it is LOCAL and reads
 * around in what the sweep writes, else 0; what its rows must be multiples of. */
uint32_t fv_halo_width(const fv_builder *b, uint32_t first, uint32_t i);
uint32_t fv_halo_unit(const fv_builder *b, uint32_t first, uint32_t i);
/* Whether its chunks can be those of the steps before. */
bool fv_halo_fits(const fv_builder *b, uint32_t first, uint32_t i);
/* Whether a value is seen by the steps [first, end) alone. */
bool fv_halo_inside(const fv_builder *b, uint32_t first, uint32_t end, fv_id id);
/* Sets how far ahead each step of [first, end) runs; returns where the sweep must end, at most
 * `end`, for that to be possible. */
uint32_t fv_halo_assign(fv_builder *b, uint32_t first, uint32_t end);
/* The rings of a sweep of bands. */
void fv_halo_rings(fv_builder *b, const fv_plan_sweep *w);

#endif
