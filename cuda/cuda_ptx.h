/* cuda_ptx.h: a function for every instruction of NVIDIA's that CUDA C++ cannot express, and for
 * the intrinsics that work across a warp. All inline PTX of this library is here. The text comes
 * first in every CUDA program, before cuda_prelude.h; it includes nothing. A compiler for another
 * machine defines FOVEA_CUDA_CUDA_PTX_H and provides these functions itself.
 *
 * Fragments are those of the PTX ISA. With lane = 4 g + t of a warp (g = lane / 4 in 0 .. 7, t =
 * lane % 4), and pairs of 16-bit numbers with the lower index in the lower half:
 *
 *   C, D  16 x 8 of float, int   d[0] (g, 2t)  d[1] (g, 2t+1)  d[2] (g+8, 2t)  d[3] (g+8, 2t+1)
 *   A     16 x 16 of 16 bits     a[0] (g, 2t..2t+1)    a[1] (g+8, 2t..2t+1)
 *                                a[2] (g, 2t+8..2t+9)  a[3] (g+8, 2t+8..2t+9)
 *   B     16 x 8 of 16 bits      b[0] (2t..2t+1, g)    b[1] (2t+8..2t+9, g)     (row k, column n)
 *   A     16 x 8 of 16 bits      a[0] (g, 2t..2t+1)    a[1] (g+8, 2t..2t+1)
 *   B     8 x 8 of 16 bits       b[0] (2t..2t+1, g)                             (row k, column n)
 *   A     16 x 32 of 8 bits      a[0] (g, 4t..4t+3)    a[1] (g+8, 4t..4t+3)
 *                                a[2] (g, 4t+16..)     a[3] (g+8, 4t+16..4t+19)
 *   B     32 x 8 of 8 bits       b[0] (4t..4t+3, g)    b[1] (4t+16..4t+19, g)   (row k, column n)
 *   A     16 x 8 of tf32         a[0] (g, t)  a[1] (g+8, t)  a[2] (g, t+4)  a[3] (g+8, t+4)
 *   B     8 x 8 of tf32          b[0] (t, g)  b[1] (t+4, g)                     (row k, column n)
 */
#ifndef FOVEA_CUDA_CUDA_PTX_H
#define FOVEA_CUDA_CUDA_PTX_H

#define FV_DEVICE __device__ __forceinline__

/* 1 where the device has tensor cores for float16, bfloat16, tf32 and int8, and asynchronous
 * copies. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FV_HAVE_MMA 1
#else
#define FV_HAVE_MMA 0
#endif
/* 1 if it has tensor cores for float16 at least. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
#define FV_HAVE_MMA_F16 1
#else
#define FV_HAVE_MMA_F16 0
#endif

/* ---- numbers ---- */

/* The float16 with these bits. */
FV_DEVICE float fv_half_to_float(unsigned short bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

/* Rounds to the nearest float16, ties to even. Numbers that are too large become infinite; NaN
 * stays NaN. */
FV_DEVICE unsigned short fv_float_to_half(float x)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

/* Two numbers as float16, `low` in the lower 16 bits. */
FV_DEVICE unsigned fv_half2_bits(float low, float high)
{
#if FV_HAVE_MMA
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return fv_float_to_half(low) | (unsigned)fv_float_to_half(high) << 16;
#endif
}

FV_DEVICE unsigned fv_bits_of(float x)
{
    return __float_as_uint(x);
}

FV_DEVICE float fv_float_of(unsigned bits)
{
    return __uint_as_float(bits);
}

/* The number of zeros above the highest set bit; 32 for 0. */
FV_DEVICE unsigned fv_leading_zeros(unsigned x)
{
    return (unsigned)__clz((int)x);
}

/* The number of set bits. */
FV_DEVICE unsigned fv_ones(unsigned x)
{
    return (unsigned)__popc(x);
}

/* sum + the products of the four int8 in a and those in b, pair by pair. CUDA's intrinsic for it,
 * __dp4a, has no definition in NVRTC before CUDA 12.4: findings/nvrtc122_dp4a_unresolved.sh. */
FV_DEVICE int fv_dot4(unsigned a, unsigned b, int sum)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

/* 2^x to 2 ulp; denormal results become 0. */
FV_DEVICE float fv_exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2 x with a relative error of 2^-22; near x = 1 the error is absolute. Denormal x counts as
 * 0. */
FV_DEVICE float fv_log2_fast(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The smaller, and the larger, of two numbers; NaN if either is NaN. */
FV_DEVICE float fv_less_of(float a, float b)
{
#if FV_HAVE_MMA
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
#else
    return a < b || a != a ? a : b;
#endif
}

FV_DEVICE float fv_more_of(float a, float b)
{
#if FV_HAVE_MMA
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
#else
    return a > b || a != a ? a : b;
#endif
}

/* Joins the lower 16 bits of both words, and the higher ones; those of `low` become the lower
 * half. */
FV_DEVICE unsigned fv_low_halves(unsigned low, unsigned high)
{
    return __byte_perm(low, high, 0x5410);
}

FV_DEVICE unsigned fv_high_halves(unsigned low, unsigned high)
{
    return __byte_perm(low, high, 0x7632);
}

/* Each 16-bit half becomes 0xffff if its highest bit is set, else 0. */
FV_DEVICE unsigned fv_negative_halves(unsigned x)
{
    unsigned bits;
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(bits) : "r"(x));
    return bits;
}

/* ---- a warp: all 32 lanes call ---- */

/* Waits for all lanes, and makes what they wrote to memory visible to each other. */
FV_DEVICE void fv_warp_sync()
{
    __syncwarp();
}

/* The x of lane (this one ^ mask). */
FV_DEVICE float fv_shfl_xor(float x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

/* The x of lane (this one - delta); the first `delta` lanes get their own. */
FV_DEVICE float fv_shfl_up(float x, unsigned delta)
{
    return __shfl_up_sync(0xffffffffu, x, delta);
}

/* The x of lane (this one + delta); the last `delta` lanes get their own. */
FV_DEVICE float fv_shfl_down(float x, unsigned delta)
{
    return __shfl_down_sync(0xffffffffu, x, delta);
}

/* Bit i is set where lane i's x is true. */
FV_DEVICE unsigned fv_ballot(bool x)
{
    return __ballot_sync(0xffffffffu, x);
}

/* ---- numbers of tensor cores ---- */

#if FV_HAVE_MMA

/* Rounds two numbers to bfloat16, ties to even, with `low` in the lower 16 bits. NaN becomes
 * 0x7fff. */
FV_DEVICE unsigned fv_bf162_bits(float low, float high)
{
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

/* Rounds to tf32 (10 bits of fraction), ties away from zero; returns the bits of a float whose
 * lower 13 bits are 0. */
FV_DEVICE unsigned fv_tf32(float x)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

#elif FV_HAVE_MMA_F16

FV_DEVICE unsigned fv_bf16_bits(float x)
{
    const unsigned bits = fv_bits_of(x);
    return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

FV_DEVICE unsigned fv_bf162_bits(float low, float high)
{
    return fv_bf16_bits(low) | fv_bf16_bits(high) << 16;
}

FV_DEVICE unsigned fv_tf32(float x)
{
    return x != x ? 0x7fffe000u : (fv_bits_of(x) + 0x1000u) & 0xffffe000u;
}

#endif
#if FV_HAVE_MMA_F16 && !FV_HAVE_MMA

/* ---- for older devices: the copies that are declared below, done at once ---- */

template <int WIDE> struct alignas(WIDE) fv_copied {
    unsigned w[WIDE / 4];
};

template <int WIDE> FV_DEVICE void fv_copy_part(void *shared, const void *from, unsigned bytes)
{
    if (bytes == WIDE) {
        *(fv_copied<WIDE> *)shared = *(const fv_copied<WIDE> *)from;
        return;
    }
    for (unsigned i = 0; i < WIDE; i++)
        ((char *)shared)[i] = i < bytes ? ((const char *)from)[i] : (char)0;
}

FV_DEVICE void fv_cp_async16(void *shared, const void *from)
{
    fv_copy_part<16>(shared, from, 16);
}

FV_DEVICE void fv_cp_async4_part(void *shared, const void *from, unsigned bytes)
{
    fv_copy_part<4>(shared, from, bytes);
}

FV_DEVICE void fv_cp_async8_part(void *shared, const void *from, unsigned bytes)
{
    fv_copy_part<8>(shared, from, bytes);
}

FV_DEVICE void fv_cp_async16_part(void *shared, const void *from, unsigned bytes)
{
    fv_copy_part<16>(shared, from, bytes);
}

FV_DEVICE void fv_cp_commit()
{
}

template <int LEFT> FV_DEVICE void fv_cp_wait()
{
}

#endif
#if FV_HAVE_MMA

/* ---- asynchronous copies from global to shared memory ---- */

/* Copies 16 bytes; both addresses are multiples of 16. Bypasses the L1 cache. The data is visible
 * to this thread after fv_cp_wait, and to other threads after a barrier that follows it. */
FV_DEVICE void fv_cp_async16(void *shared, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(shared)),
                 "l"(from)
                 : "memory");
}

/* Copies 4, 8 or 16 bytes; both addresses are multiples of that. The first `bytes` are read from
 * `from`, the others become 0. Copies of 16 bytes bypass the L1 cache. */
#define FV_CP_ASYNC(name, cache, size)                                                             \
    FV_DEVICE void name(void *shared, const void *from, unsigned bytes)                            \
    {                                                                                              \
        asm volatile("cp.async." cache ".shared.global [%0], [%1], " size                          \
                     ", %2;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),                    \
                     "l"(from), "r"(bytes)                                                         \
                     : "memory");                                                                  \
    }
FV_CP_ASYNC(fv_cp_async4_part, "ca", "4")
FV_CP_ASYNC(fv_cp_async8_part, "ca", "8")
FV_CP_ASYNC(fv_cp_async16_part, "cg", "16")
#undef FV_CP_ASYNC

/* Makes a group of this thread's copies since the last commit; the group may be empty. */
FV_DEVICE void fv_cp_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the LEFT newest of this thread's groups are pending. */
template <int LEFT> FV_DEVICE void fv_cp_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

#endif
#if FV_HAVE_MMA_F16

/* ---- matrices of 8 x 8 numbers of 16 bits, from shared memory: all 32 lanes call ---- */

/* Lane 8 i + j passes the address, a multiple of 16, of row j (8 numbers) of matrix i. r[i] gets
 * the numbers (2t, g) and (2t+1, g) of matrix i. */
FV_DEVICE void fv_ldmatrix_x4_trans(unsigned r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

/* ---- d += a b on tensor cores: all 32 lanes call ---- */

#if !FV_HAVE_MMA

/* 16 x 8 += 16 x 16 times 16 x 8. These tensor cores multiply one half of k after the other. */
FV_DEVICE void fv_mma_f16(float d[4], const unsigned a[4], const unsigned b[2])
{
    for (int i = 0; i < 2; i++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
}

#else

#define FV_MMA(name, shape, type)                                                                  \
    FV_DEVICE void name(float d[4], const unsigned a[4], const unsigned b[2])                      \
    {                                                                                              \
        asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 "               \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }
/* 16 x 8 += 16 x 16 times 16 x 8. */
FV_MMA(fv_mma_f16, "m16n8k16", "f16")
FV_MMA(fv_mma_bf16, "m16n8k16", "bf16")
/* 16 x 8 += 16 x 8 times 8 x 8, of numbers that fv_tf32 has rounded. */
FV_MMA(fv_mma_tf32, "m16n8k8", "tf32")
#undef FV_MMA

/* 16 x 8 += 16 x 32 times 32 x 8, of int8. */
FV_DEVICE void fv_mma_s8(int d[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
#endif
#endif
