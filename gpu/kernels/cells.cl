/* cells.cl: CELLS: means over cells of tokens. A work-item has four channels of a cell. */
#include "gpu/kernels/foveated_grid.cl"

FV_KERNEL void cells(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const fv_fovea fovea = fovea_of(dim);
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    const fv_fovea_area a = fv_fovea_cell(&fovea, row0 + me.x);
    float4 sum = 0.f;
    for (uint y = a.y0; y < a.y1; y++) {
        for (uint x = a.x0; x < a.x1; x++) {
            global const FV_CELL(0) *in = FV_AT(0, fovea.prefix + y * fovea.width + x) + c;
            sum += FV_GET_RUN(0, in, left, 0.f);
        }
    }
    FV_PUT_RUN(1, FV_AT(1, me.x) + c, sum / (float)fv_fovea_size(a), left);
}
