/* panel_bf16.h: packs weights in bfloat16; the 4 steps of a column's group are adjacent. */

static void narrow(uint16_t *dst, const float *src, size_t n)
{
    for (; n > 0; n -= 4 * NR, dst += 4 * NR, src += 4 * NR)
        for (uint32_t j = 0; j < NR; j++)
            for (uint32_t k = 0; k < 4; k++)
                dst[4 * j + k] = fv_bf16_of_float(src[k * NR + j]);
}
