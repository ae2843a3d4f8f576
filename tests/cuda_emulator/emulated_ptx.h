/* emulated_ptx.h: replaces cuda/cuda_ptx.h with functions for the emulator. */
#define FOVEA_CUDA_CUDA_PTX_H

#define FV_DEVICE inline
#define FV_HAVE_MMA (__CUDA_ARCH__ >= 800)
#define FV_HAVE_MMA_F16 (__CUDA_ARCH__ >= 750)

/* ---- conversions ---- */

FV_DEVICE float fv_half_to_float(unsigned short bits)
{
    _Float16 x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
FV_DEVICE unsigned short fv_float_to_half(float x)
{
    const _Float16 y = (_Float16)x;
    unsigned short bits;
    __builtin_memcpy(&bits, &y, sizeof bits);
    return bits;
}
FV_DEVICE unsigned fv_half2_bits(float low, float high)
{
    return fv_float_to_half(low) | (unsigned)fv_float_to_half(high) << 16;
}
FV_DEVICE unsigned fv_bits_of(float x)
{
    return __float_as_uint(x);
}
FV_DEVICE float fv_float_of(unsigned bits)
{
    return __uint_as_float(bits);
}
FV_DEVICE unsigned fv_leading_zeros(unsigned x)
{
    return (unsigned)__clz((int)x);
}
FV_DEVICE unsigned fv_ones(unsigned x)
{
    return (unsigned)__popc(x);
}
FV_DEVICE int fv_dot4(unsigned a, unsigned b, int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (signed char)(a >> i) * (signed char)(b >> i);
    return sum;
}
FV_DEVICE float fv_exp2_fast(float x)
{
    const float y = __builtin_exp2f(x);
    return y < 0x1p-126f ? 0.f : y;
}
FV_DEVICE float fv_log2_fast(float x)
{
    return __builtin_log2f(__builtin_fabsf(x) < 0x1p-126f ? 0.f : x);
}
FV_DEVICE float fv_less_of(float a, float b)
{
    return a < b || a != a ? a : b;
}
FV_DEVICE float fv_more_of(float a, float b)
{
    return a > b || a != a ? a : b;
}
FV_DEVICE unsigned fv_low_halves(unsigned low, unsigned high)
{
    return __byte_perm(low, high, 0x5410);
}
FV_DEVICE unsigned fv_high_halves(unsigned low, unsigned high)
{
    return __byte_perm(low, high, 0x7632);
}
FV_DEVICE unsigned fv_negative_halves(unsigned x)
{
    return (x & 0x8000 ? 0xffffu : 0) | (x >> 31 ? 0xffff0000u : 0);
}

/* ---- a warp ---- */

FV_DEVICE void fv_warp_sync()
{
    __syncwarp();
}
FV_DEVICE float fv_shfl_xor(float x, int mask)
{
    return __shfl_xor_sync(~0u, x, mask);
}
FV_DEVICE float fv_shfl_up(float x, unsigned delta)
{
    return __shfl_up_sync(~0u, x, delta);
}
FV_DEVICE float fv_shfl_down(float x, unsigned delta)
{
    return __shfl_down_sync(~0u, x, delta);
}
FV_DEVICE unsigned fv_ballot(bool x)
{
    return __ballot_sync(~0u, x);
}

#if FV_HAVE_MMA_F16

/* ---- number formats of tensor cores ---- */

FV_DEVICE unsigned emulated_bf16(float x)
{
    const unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
FV_DEVICE unsigned fv_bf162_bits(float low, float high)
{
    return emulated_bf16(low) | emulated_bf16(high) << 16;
}
FV_DEVICE unsigned fv_tf32(float x)
{
    const unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fffe000u : (bits + 0x1000) & ~0x1fffu;
}

/* ---- copies ---- */

#if FV_HAVE_MMA
FV_DEVICE void fv_cp_async16(void *shared, const void *from)
{
    emulated.calls->copy(shared, from, 16, 16);
}
FV_DEVICE void fv_cp_async16_part(void *shared, const void *from, unsigned bytes)
{
    emulated.calls->copy(shared, from, 16, bytes);
}
FV_DEVICE void fv_cp_async4_part(void *shared, const void *from, unsigned bytes)
{
    emulated.calls->copy(shared, from, 4, bytes);
}
FV_DEVICE void fv_cp_async8_part(void *shared, const void *from, unsigned bytes)
{
    emulated.calls->copy(shared, from, 8, bytes);
}
FV_DEVICE void fv_cp_commit()
{
    emulated.calls->copy_commit();
}
template <int LEFT> FV_DEVICE void fv_cp_wait()
{
    emulated.calls->copy_wait(LEFT);
}
#else
template <int WIDE> FV_DEVICE void emulated_copy_now(void *shared, const void *from, unsigned bytes)
{
    emulated.calls->copy(shared, from, WIDE, bytes);
    emulated.calls->copy_commit();
    emulated.calls->copy_wait(0);
}
FV_DEVICE void fv_cp_async16(void *shared, const void *from)
{
    emulated_copy_now<16>(shared, from, 16);
}
FV_DEVICE void fv_cp_async16_part(void *shared, const void *from, unsigned bytes)
{
    emulated_copy_now<16>(shared, from, bytes);
}
FV_DEVICE void fv_cp_async4_part(void *shared, const void *from, unsigned bytes)
{
    emulated_copy_now<4>(shared, from, bytes);
}
FV_DEVICE void fv_cp_async8_part(void *shared, const void *from, unsigned bytes)
{
    emulated_copy_now<8>(shared, from, bytes);
}
FV_DEVICE void fv_cp_commit()
{
}
template <int LEFT> FV_DEVICE void fv_cp_wait()
{
}
#endif

/* ---- matrices ---- */

FV_DEVICE void fv_ldmatrix_x4_trans(unsigned r[4], const void *row)
{
    emulated.calls->load_matrices(r, 4, row, 1);
}
FV_DEVICE void fv_mma_f16(float d[4], const unsigned a[4], const unsigned b[2])
{
    emulated.calls->multiply(EMULATED_F16, d, a, b);
}
#if FV_HAVE_MMA
FV_DEVICE void fv_mma_bf16(float d[4], const unsigned a[4], const unsigned b[2])
{
    emulated.calls->multiply(EMULATED_BF16, d, a, b);
}
FV_DEVICE void fv_mma_tf32(float d[4], const unsigned a[4], const unsigned b[2])
{
    emulated.calls->multiply(EMULATED_TF32, d, a, b);
}
FV_DEVICE void fv_mma_s8(int d[4], const unsigned a[4], const unsigned b[2])
{
    emulated.calls->multiply(EMULATED_S8, d, a, b);
}
#endif

#endif
