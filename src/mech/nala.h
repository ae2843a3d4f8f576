/* nala.h: norm-aware linear attention, as its official code has it: positive and negative parts as
 * blocks of their own. */
#include "norm_aware.h"

FV_FN void fv_phi(fv_v out[2], int query, fv_v x, fv_row r)
{
    fv_polarise(out, x, fv_magnitude(query, x, r));
}
