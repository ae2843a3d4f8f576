/* foveated_grid.cl: the geometry of CELLS and FOVEATED. It includes the C header that defines it,
 * and defines the C types and functions that the header uses. */
#define uint32_t uint
#define log2f log2

static inline uint fv_min_u32(uint a, uint b)
{
    return min(a, b);
}

static inline uint fv_ceil_div(uint a, uint b)
{
    return (a + b - 1) / b;
}

static inline uint fv_round_up(uint n, uint unit)
{
    return fv_ceil_div(n, unit) * unit;
}

#include "src/ops/fovea_grid.h"

/* The geometry for the sizes of a FOVEATED or CELLS problem. */
static inline fv_fovea fovea_of(uint8 dim)
{
    fv_fovea f;
    f.width = dim.s5;
    f.height = dim.s6;
    f.prefix = dim.s3 - f.width * f.height;
    f.levels = fv_fovea_levels(f.width, f.height);
    f.margin = dim.s7;
    return f;
}
