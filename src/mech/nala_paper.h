/* nala_paper.h: norm-aware linear attention, as its paper has it: blocks are cosine and sine of the
 * direction. (arXiv 2506.21137) */
#define FV_STATS_KEY 2
#include "norm_aware.h"

FV_FN void fv_phi(fv_v out[2], int query, fv_v x, fv_row r)
{
    const fv_v size = fv_magnitude(query, x, r);
    const fv_v angle = fv_mul(fv_set(0.785398163f), fv_tanh(fv_mul(x, r.stat[0])));
    out[0] = fv_mul(size, fv_cos_small(angle));
    out[1] = fv_mul(size, fv_sin_small(angle));
}
