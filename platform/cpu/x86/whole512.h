/* whole512.h: floats and whole numbers on 512 bits. */

FV_FN fv_v of_whole(const int32_t *x, int32_t off)
{
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(x), _mm512_set1_epi32(off)));
}

FV_FN int32_t total_of(sums total)
{
    return BIAS ? _mm512_reduce_add_epi32(total) : 0;
}
