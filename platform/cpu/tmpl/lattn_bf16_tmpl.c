/* lattn_bf16_tmpl.c: implements lattn_bf16.h with the bfloat16 operands of one level
 * (vec/operands.h). Rounding is in place: where operands have 16 bits, a row rounded by rows takes
 * the first half of its float row, and two rows rounded by columns take the first of two float
 * rows. */
#include "platform/cpu/lattn_bf16.h"
#include "platform/cpu/vec/operands.h"

static fv_operand_elem *operands(float *x)
{
    return (fv_operand_elem *)(void *)x;
}

static const fv_operand_elem *operands_of(const float *x)
{
    return (const fv_operand_elem *)(const void *)x;
}

/* Safe in place: each write is at or before the address of the read that it depends on. */
static void round_rows(float *x, size_t n, size_t width)
{
    for (size_t r = 0; r < n; r++) {
        for (size_t j = 0; j < width; j += FV_W)
            fv_operand_put_row(operands(x) + r * width, j, fv_load(x + r * width + j), FV_W);
    }
}

static void round_columns(float *x, float *sum, size_t n, size_t width)
{
    const fv_v none = fv_set(0.f);
    for (size_t j = 0; sum && j < width; j += FV_W)
        fv_store(sum + j, none);
    for (size_t k = 0; k < n; k += 2) {
        for (size_t j = 0; j < width; j += FV_W) {
            const fv_v even = fv_load(x + k * width + j);
            const fv_v odd = k + 1 < n ? fv_load(x + (k + 1) * width + j) : none;
            if (sum)
                fv_store(sum + j,
                         fv_operand_put_sum(operands(x), width, k, j, even, odd, fv_load(sum + j)));
            else
                fv_operand_put_depth(operands(x), width, k, j, even, odd);
        }
    }
}

static void multiply_rows(float *tile, const float *a, size_t lda, size_t i, const float *b,
                          size_t ldb, size_t j, size_t depth)
{
    fv_v sum[FV_TILE_M][FV_TILE_N];
    fv_operand_tile(sum, FV_TILE_N, operands_of(a) + i * lda, lda, 1, operands_of(b) + FV_PAIR * j,
                    ldb, depth);
    fv_tile_store(tile, FV_TILE_COLS, sum);
}

static void multiply_columns(float *tile, const float *a, size_t lda, size_t i, const float *b,
                             size_t ldb, size_t j, size_t depth)
{
    fv_v sum[FV_TILE_M][FV_TILE_N];
    fv_operand_tile(sum, FV_TILE_N, operands_of(a) + FV_PAIR * i, FV_PAIR, lda,
                    operands_of(b) + FV_PAIR * j, ldb, depth);
    fv_tile_store(tile, FV_TILE_COLS, sum);
}

const fv_lattn_bf16 FV_NAME(fv_lattn_bf16) = {.round_rows = round_rows,
                                              .round_columns = round_columns,
                                              .multiply_rows = multiply_rows,
                                              .multiply_columns = multiply_columns};
