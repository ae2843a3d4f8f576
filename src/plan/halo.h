/* halo.h: sweeps of row tiles with a halo, in which a step reads neighbours on the grid. */
#ifndef FOVEA_SRC_PLAN_HALO_H
#define FOVEA_SRC_PLAN_HALO_H

#include "plan/candidate.h"

/* Returns the grid's width if step i, in a sweep that begins with `first`, is LOCAL and reads
 * neighbours that the sweep writes. The sweep's chunks must then be multiples of this width.
 * Returns 0 for other steps. */
uint32_t fv_halo_width(const fv_cut *c, uint32_t first, uint32_t i);
uint32_t fv_halo_unit(const fv_cut *c, uint32_t first, uint32_t i);
/* Returns whether step i can use the same chunks as the steps before it. */
bool fv_halo_fits(const fv_cut *c, uint32_t first, uint32_t i);
/* Returns whether only the steps [first, end) use the value. */
bool fv_halo_inside(const fv_cut *c, uint32_t first, uint32_t end, fv_id id);
/* Sets the halo of each step of [first, end). Returns where the sweep must end so that the halos
 * are possible, which is `end` or an earlier step. */
uint32_t fv_halo_assign(fv_cut *c, uint32_t first, uint32_t end);
/* Sizes the ring buffers of a sweep of row tiles. */
void fv_halo_rings(fv_value_place *place, const fv_cut *c, const fv_plan_sweep *w);

#endif
