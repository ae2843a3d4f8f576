/* adaptive_pool_tmpl.c: implements ADAPTIVE_POOL with vec.h's vector functions. A vector holds
 * channels. */
#include <math.h>

#include "ops/ref/ref_adaptive_pool.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/row.h"

void FV_NAME(fv_k_adaptive_pool_f32)(const fv_args *a, const fv_call *c)
{
    const enum fv_type from = a->type[FV_POOL_IN], to = a->type[FV_POOL_OUT];
    const size_t channels = a->prob.dim[FV_ROW_C], ld = a->ld[FV_POOL_IN];
    const uint32_t width = a->prob.dim[FV_POOL_WIDTH];
    const bool largest = a->prob.flags & FV_FLAG_LARGEST;
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_pool_area area = fv_pool_area_of(&a->prob, c->row0 + r);
        const uint32_t columns = area.x1 - area.x0, pixels = columns * (area.y1 - area.y0);
        void *out = fv_element(c->p[FV_POOL_OUT], to, r * a->ld[FV_POOL_OUT]);
        for (size_t i = 0; i < channels; i += FV_W) {
            const int n = fv_lanes(channels - i);
            fv_v sum = fv_set(largest ? -INFINITY : 0.f);
            for (uint32_t y = area.y0; y < area.y1; y++) {
                const void *in =
                    fv_element(c->p[FV_POOL_IN], from, ((size_t)y * width + area.x0) * ld);
                for (uint32_t x = 0; x < columns; x++) {
                    const fv_v value = fv_row_load(fv_element(in, from, x * ld), from, i, n);
                    sum = largest ? fv_max(sum, value) : fv_add(sum, value);
                }
            }
            fv_row_store(out, to, i, largest ? sum : fv_div(sum, fv_set((float)pixels)), n);
        }
    }
}
