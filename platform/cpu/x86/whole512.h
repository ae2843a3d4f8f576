/* whole512.h: floats and whole numbers on 512 bits. */

FV_FN fv_v of_whole(const int32_t *x, int32_t off)
{
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(x), _mm512_set1_epi32(off)));
}

FV_FN void put_64(int8_t *q, const fv_v x[FV_ROTATED], sums *total)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(x[0]), _mm512_cvtps_epi32(x[1]));
    const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(x[2]), _mm512_cvtps_epi32(x[3]));
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
    _mm512_storeu_si512(q, bytes);
    if (BIAS)
        *total = add(*total, bytes, _mm512_set1_epi8(1));
}

FV_FN int32_t total_of(sums total)
{
    return BIAS ? _mm512_reduce_add_epi32(total) : 0;
}
