/* ref_pixel_shuffle.c: PIXEL_SHUFFLE: the columns of each row of a complete grid become a block of
 * pixels of a finer grid.
 *
 *   dim    rows (= H * W), C, s
 *   IN     WHOLE, s * s * C wide: (row, column, channel) of a block of pixels in each row; a grid
 *          u[0] wide, row by row, no prefix
 *   OUT    ROW, C wide, F32 or BF16 by prob.out: a grid u[1] = W wide; not IN
 *   u[2]   0, or 1: each further row or column of a block is from the next IN row or column
 *
 *   out(y s + i, x s + j)[c] = in(y + i u[2], x + j u[2])[(i s + j) C + c],   i, j < s
 *
 * This is the last part of a transposed convolution of stride s, after its products. With s x s
 * taps, a product computes the block of each input pixel. With 2s x 2s taps, an output pixel
 * depends on two rows and two columns of the input; for s = 2, these change in the middle of a
 * block. Therefore a convolution of size 2 and pad 1, whose result is larger by one, computes the
 * blocks (u[2] = 1).
 */
#include "base/half.h"
#include "ops/contracts/grid.h"
#include "ops/ref/ref_kernels.h"

static uint32_t columns(const fv_problem *p)
{
    return p->dim[FV_SHUFFLE_SCALE] * p->dim[FV_SHUFFLE_SCALE] * p->dim[FV_ROW_C];
}

static uint32_t line(const fv_problem *p, const uint32_t *u)
{
    (void)p;
    return u[1];
}

static fv_rows reads(const fv_problem *p, const uint32_t *u, fv_rows r)
{
    const uint32_t block = p->dim[FV_SHUFFLE_SCALE] * u[1]; /* number of pixels from a line of IN */
    const uint32_t height = p->dim[FV_DIM_ROWS] / block + u[2];
    return fv_grid_lines(r.first / block, (int64_t)(r.end - 1) / block + 1 + u[2], u[0], height);
}

const fv_op fv_op_pixel_shuffle = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}, [FV_SHUFFLE_SCALE] = {"s"}},
    .operand = {[FV_SHUFFLE_IN] = {"IN", .columns = columns},
                [FV_SHUFFLE_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .element_flops = 1,
    .line = line,
    .reads = reads,
};

void fv_k_pixel_shuffle_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const uint32_t s = a->prob.dim[FV_SHUFFLE_SCALE], on = a->u[2];
    for (size_t r = 0; r < c->rows; r++) {
        const uint32_t row = c->row0 + (uint32_t)r, y = row / a->u[1], x = row % a->u[1];
        const uint32_t i = y % s, j = x % s;
        const size_t from = (size_t)(y / s + i * on) * a->u[0] + x / s + j * on;
        const float *in = (const float *)c->p[FV_SHUFFLE_IN] + from * a->ld[FV_SHUFFLE_IN];
        for (size_t k = 0; k < n; k++)
            fv_value_put(c->p[FV_SHUFFLE_OUT], a->prob.out, r * a->ld[FV_SHUFFLE_OUT] + k,
                         in[(i * s + j) * n + k]);
    }
}
