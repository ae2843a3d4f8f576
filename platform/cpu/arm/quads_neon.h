/* quads_neon.h: products of 8-bit numbers for the tiles of quads.h. FEAT_DotProd multiplies four
 * steps, FEAT_I8MM 2 x 2 rows over eight steps. Both take signed numbers. */
#define FV_QUERY_OFF 0
#define FV_WEIGHT_OFF -128
#define FV_BY_DEPTH 1 /* then one register of values serves a whole group of steps */
typedef int8_t fv_number;
typedef int32x4_t fv_whole;

FV_WORD(fv_whole, fv_whole_set, (int32_t x), vdupq_n_s32(x))
FV_WORD(fv_v, fv_of_whole, (fv_whole x), vcvtq_f32_s32(x))

/* Packs four steps of four lanes, between 0 and 255, as adjacent unsigned bytes. */
FV_FN uint32x4_t four_steps(const fv_v p[4])
{
    uint32x4_t x = vcvtnq_u32_f32(p[0]);
    x = vsliq_n_u32(x, vcvtnq_u32_f32(p[1]), 8);
    x = vsliq_n_u32(x, vcvtnq_u32_f32(p[2]), 16);
    return vsliq_n_u32(x, vcvtnq_u32_f32(p[3]), 24);
}

FV_FN int8x16_t less_128(uint32x4_t x)
{
    return vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(x), vdupq_n_u8(0x80)));
}

#if defined FV_ISA_NEON_SDOT
#define FV_STEPS 4

FV_FN void fv_put_weights(fv_number *x, const fv_v p[FV_STEPS])
{
    vst1q_s8(x, less_128(four_steps(p)));
}

FV_FN fv_whole add_products(fv_whole sum, int8x16_t lanes, int8x16_t rows, int lane)
{
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(sum, lanes, rows, 0);
    case 1:
        return vdotq_laneq_s32(sum, lanes, rows, 1);
    case 2:
        return vdotq_laneq_s32(sum, lanes, rows, 2);
    default:
        return vdotq_laneq_s32(sum, lanes, rows, 3);
    }
}

FV_FN void fv_whole_tile_add(fv_whole acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_number *a,
                             size_t am, size_t ak, const fv_number *b, size_t ldb, size_t groups)
{
    (void)am;
    for (size_t g = 0; g < groups; g++, a += ak, b += ldb * FV_STEPS) {
        int8x16_t rows[FV_TILE_M / 4], col[FV_TILE_N];
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M / 4; i++)
            rows[i] = vld1q_s8(a + 16 * i);
        FV_UNROLL
        for (int j = 0; j < vecs; j++)
            col[j] = vld1q_s8(b + 16 * j);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M; i++) {
            FV_UNROLL
            for (int j = 0; j < vecs; j++)
                acc[i][j] = add_products(acc[i][j], col[j], rows[i / 4], i % 4);
        }
    }
}
#else
#define FV_STEPS 8

FV_FN void fv_put_weights(fv_number *x, const fv_v p[FV_STEPS])
{
    const uint32x4_t low = four_steps(p), high = four_steps(p + 4);
    vst1q_s8(x, less_128(vzip1q_u32(low, high)));
    vst1q_s8(x + 16, less_128(vzip2q_u32(low, high)));
}

FV_FN int32x4_t first_halves(int32x4_t x, int32x4_t y)
{
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(x), vreinterpretq_s64_s32(y)));
}

FV_FN int32x4_t second_halves(int32x4_t x, int32x4_t y)
{
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(x), vreinterpretq_s64_s32(y)));
}

FV_FN void fv_whole_tile_add(fv_whole acc[FV_TILE_M][FV_TILE_N], int vecs, const fv_number *a,
                             size_t am, size_t ak, const fv_number *b, size_t ldb, size_t groups)
{
    int32x4_t square[FV_TILE_M / 2][2 * FV_TILE_N]; /* two rows by two columns each */
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i += 2) {
        FV_UNROLL
        for (int j = 0; j < vecs; j++) {
            square[i / 2][2 * j] = first_halves(acc[i][j], acc[i + 1][j]);
            square[i / 2][2 * j + 1] = second_halves(acc[i][j], acc[i + 1][j]);
        }
    }
    (void)am;
#ifndef __clang__
#pragma GCC unroll 1 /* if unrolled, the groups of a tile would not fit in the registers */
#endif
    for (size_t g = 0; g < groups; g++, a += ak, b += ldb * FV_STEPS) {
        int8x16_t col[2 * FV_TILE_N];
        FV_UNROLL
        for (int j = 0; j < 2 * vecs; j++)
            col[j] = vld1q_s8(b + 16 * j);
        FV_UNROLL
        for (int i = 0; i < FV_TILE_M / 2; i++) {
            const int8x16_t rows = vld1q_s8(a + 16 * i);
            FV_UNROLL
            for (int j = 0; j < 2 * vecs; j++)
                square[i][j] = vmmlaq_s32(square[i][j], rows, col[j]);
        }
    }
    FV_UNROLL
    for (int i = 0; i < FV_TILE_M; i += 2) {
        FV_UNROLL
        for (int j = 0; j < vecs; j++) {
            acc[i][j] = first_halves(square[i / 2][2 * j], square[i / 2][2 * j + 1]);
            acc[i + 1][j] = second_halves(square[i / 2][2 * j], square[i / 2][2 * j + 1]);
        }
    }
}
#endif
