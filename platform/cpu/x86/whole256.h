/* whole256.h: floats and whole numbers on 256 bits. */

FV_FN fv_v of_whole(const int32_t *x, int32_t off)
{
    const __m256i whole = _mm256_loadu_si256((const __m256i *)(const void *)x);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(whole, _mm256_set1_epi32(off)));
}

FV_FN int32_t total_of(sums total)
{
    if (!BIAS)
        return 0;
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    const __m128i two = _mm_add_epi32(four, _mm_srli_si128(four, 8));
    return _mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 1);
}
