/* patch_tmpl.c: PATCH: plain loops, which the compiler turns into the shuffles of its ISA level. */
#include <string.h>

#include "cpu_kernels.h"
#include "preprocess.h"
#include "vec/vec.h"

/* One channel of one patch: `step` bytes from pixel to pixel. */
FV_FN void channel(float *restrict out, const uint8_t *restrict in, size_t ld, size_t step,
                   size_t side, float scale, float shift)
{
    for (size_t y = 0; y < side; y++)
        for (size_t x = 0; x < side; x++)
            out[y * side + x] = (float)in[y * ld + x * step] * scale + shift;
}

static void bytes(float *out, const uint8_t *in, size_t ld, size_t side, uint32_t flags,
                  const fv_patch_table *t)
{
    for (size_t c = 0; c < 3; c++) {
        float *to = out + c * side * side;
        if (flags & FV_FLAG_GRAY)
            channel(to, in, ld, 1, side, t->scale[c], t->shift[c]);
        else
            channel(to, in + (flags & FV_FLAG_BGR ? 2 - c : c), ld, 3, side, t->scale[c],
                    t->shift[c]);
    }
}

static void planes(float *out, const float *in, size_t ld, size_t plane, size_t side)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t y = 0; y < side; y++)
            memcpy(out + (c * side + y) * side, in + c * plane + y * ld, side * sizeof *out);
}

void FV_NAME(fv_k_patch_f32)(const fv_args *a, const fv_call *c)
{
    const size_t side = a->prob.dim[2], ld = a->ld[FV_PATCH_IN];
    const uint32_t flags = a->prob.flags, prefix = a->u[0], grid = a->u[1];
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_PATCH_OUT] + r * a->ld[FV_PATCH_OUT];
        const size_t token = c->row0 + r;
        if (token < prefix) {
            memset(out, 0, a->prob.dim[1] * sizeof *out);
            continue;
        }
        const size_t y = (token - prefix) / grid * side, x = (token - prefix) % grid * side;
        if (flags & FV_FLAG_PLANAR)
            planes(out, (const float *)c->p[FV_PATCH_IN] + y * ld + x, ld, a->u[2], side);
        else
            bytes(out,
                  (const uint8_t *)c->p[FV_PATCH_IN] + y * ld + x * (flags & FV_FLAG_GRAY ? 1 : 3),
                  ld, side, flags, a->table);
    }
}
