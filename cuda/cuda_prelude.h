/* cuda_prelude.h: defines in CUDA C++ what the .cl files use of OpenCL C, so that the same text is
 * a program for both. It follows cuda_ptx.h and precedes prelude.cl.
 *
 * Vectors are structures with OpenCL's operators and element names. embed.py rewrites a literal
 * (float4)(a, b, c, d) as FV_VEC(float4)(a, b, c, d). Names that mean something else in C++ or CUDA
 * are macros.
 */
#define FV_VEC(type) type
#define FV_SHARED __shared__
#define local
#define __global
#define private
#define kernel extern "C" __global__
#define FV_COMPILES(kernel) 1
#define FV_KERNEL kernel
#define inline __device__ __forceinline__

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

/* float16 is a storage type only. */
struct fv_half {
    ushort bits;
};
#define half fv_half

/* ---- vectors ---- */

template <class T> struct fv_plain {
    typedef T type;
};
/* The type T, but not deduced from an argument of this type, so that a number may be passed in
 * place of a vector. */
#define FV_AS(...) typename fv_plain<__VA_ARGS__>::type

template <class T, int N> struct fv_vec;

/* An element with two names. A union of structures without a name, which would give halves names as
 * well, is not standard C++, and NVRTC before CUDA 12.8 refuses it. FV_LOW and FV_HIGH are the
 * halves. */
#define FV_ELEMENT(T, name, second)                                                                \
    union {                                                                                        \
        T name, second;                                                                            \
    }

template <class T> struct __align__(2 * sizeof(T)) fv_vec<T, 2>
{
    FV_ELEMENT(T, x, s0);
    FV_ELEMENT(T, y, s1);
    fv_vec() = default;
    FV_DEVICE fv_vec(T s) : x(s), y(s)
    {
    }
    FV_DEVICE fv_vec(T a, T b) : x(a), y(b)
    {
    }
};

template <class T> struct fv_vec<T, 3> {
    FV_ELEMENT(T, x, s0);
    FV_ELEMENT(T, y, s1);
    FV_ELEMENT(T, z, s2);
    fv_vec() = default;
    FV_DEVICE fv_vec(T s) : x(s), y(s), z(s)
    {
    }
    FV_DEVICE fv_vec(T a, T b, T c) : x(a), y(b), z(c)
    {
    }
};

template <class T> struct __align__(4 * sizeof(T)) fv_vec<T, 4>
{
    FV_ELEMENT(T, x, s0);
    FV_ELEMENT(T, y, s1);
    FV_ELEMENT(T, z, s2);
    FV_ELEMENT(T, w, s3);
    fv_vec() = default;
    FV_DEVICE fv_vec(T s) : x(s), y(s), z(s), w(s)
    {
    }
    FV_DEVICE fv_vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d)
    {
    }
    FV_DEVICE fv_vec(fv_vec<T, 2> a, fv_vec<T, 2> b) : x(a.x), y(a.y), z(b.x), w(b.y)
    {
    }
};
#undef FV_ELEMENT

/* Larger vectors are aligned to 16 bytes at most, which is as much as one instruction moves. */
template <class T> struct __align__(sizeof(T) > 1 ? 16 : 8) fv_vec<T, 8>
{
    T s0, s1, s2, s3, s4, s5, s6, s7;
    fv_vec() = default;
    FV_DEVICE fv_vec(T s) : s0(s), s1(s), s2(s), s3(s), s4(s), s5(s), s6(s), s7(s)
    {
    }
    FV_DEVICE fv_vec(fv_vec<T, 4> a, fv_vec<T, 4> b)
        : s0(a.x), s1(a.y), s2(a.z), s3(a.w), s4(b.x), s5(b.y), s6(b.z), s7(b.w)
    {
    }
};

template <class T> struct __align__(16) fv_vec<T, 16>
{
    fv_vec<T, 8> low, high;
    fv_vec() = default;
    FV_DEVICE fv_vec(T s) : low(s), high(s)
    {
    }
    FV_DEVICE fv_vec(fv_vec<T, 8> a, fv_vec<T, 8> b) : low(a), high(b)
    {
    }
};

/* The first and the second half of a vector. */
template <class T> FV_DEVICE fv_vec<T, 2> fv_low(fv_vec<T, 4> a)
{
    return fv_vec<T, 2>(a.x, a.y);
}
template <class T> FV_DEVICE fv_vec<T, 2> fv_high(fv_vec<T, 4> a)
{
    return fv_vec<T, 2>(a.z, a.w);
}
template <class T> FV_DEVICE fv_vec<T, 4> fv_low(fv_vec<T, 8> a)
{
    return fv_vec<T, 4>(a.s0, a.s1, a.s2, a.s3);
}
template <class T> FV_DEVICE fv_vec<T, 4> fv_high(fv_vec<T, 8> a)
{
    return fv_vec<T, 4>(a.s4, a.s5, a.s6, a.s7);
}
template <class T> FV_DEVICE fv_vec<T, 8> fv_low(fv_vec<T, 16> a)
{
    return a.low;
}
template <class T> FV_DEVICE fv_vec<T, 8> fv_high(fv_vec<T, 16> a)
{
    return a.high;
}
#define FV_LOW(v) fv_low(v)
#define FV_HIGH(v) fv_high(v)

#define FV_VECTORS(T)                                                                              \
    typedef fv_vec<T, 2> fv_##T##2;                                                                \
    typedef fv_vec<T, 3> fv_##T##3;                                                                \
    typedef fv_vec<T, 4> fv_##T##4;                                                                \
    typedef fv_vec<T, 8> fv_##T##8;                                                                \
    typedef fv_vec<T, 16> fv_##T##16;
FV_VECTORS(uchar)
FV_VECTORS(ushort)
FV_VECTORS(int)
FV_VECTORS(uint)
FV_VECTORS(float)
#undef FV_VECTORS
#define ushort4 fv_ushort4
#define ushort8 fv_ushort8
#define ushort16 fv_ushort16
#define int3 fv_int3
#define int4 fv_int4
#define int8 fv_int8
#define int16 fv_int16
#define uint2 fv_uint2
#define uint4 fv_uint4
#define uint8 fv_uint8
#define uint16 fv_uint16
#define float2 fv_float2
#define float4 fv_float4
#define float8 fv_float8
#define float16 fv_float16

/* ---- operators ---- */

#define FV_BINARY(symbol)                                                                          \
    template <class T, int N>                                                                      \
    FV_DEVICE fv_vec<T, N> operator symbol(fv_vec<T, N> a, fv_vec<T, N> b)                         \
    {                                                                                              \
        if constexpr (N == 2)                                                                      \
            return fv_vec<T, N>(a.x symbol b.x, a.y symbol b.y);                                   \
        else if constexpr (N == 3)                                                                 \
            return fv_vec<T, N>(a.x symbol b.x, a.y symbol b.y, a.z symbol b.z);                   \
        else                                                                                       \
            return fv_vec<T, N>(fv_low(a) symbol fv_low(b), fv_high(a) symbol fv_high(b));         \
    }                                                                                              \
    template <class T, int N> FV_DEVICE fv_vec<T, N> operator symbol(fv_vec<T, N> a, FV_AS(T) b)   \
    {                                                                                              \
        return a symbol fv_vec<T, N>(b);                                                           \
    }                                                                                              \
    template <class T, int N> FV_DEVICE fv_vec<T, N> operator symbol(FV_AS(T) a, fv_vec<T, N> b)   \
    {                                                                                              \
        return fv_vec<T, N>(a) symbol b;                                                           \
    }                                                                                              \
    template <class T, int N, class S>                                                             \
    FV_DEVICE fv_vec<T, N> &operator symbol##=(fv_vec<T, N> &a, S b)                               \
    {                                                                                              \
        return a = a symbol b;                                                                     \
    }
FV_BINARY(+)
FV_BINARY(-)
FV_BINARY(*)
FV_BINARY(/)
FV_BINARY(%)
FV_BINARY(<<)
FV_BINARY(>>)
#undef FV_BINARY

template <class T, int N> FV_DEVICE fv_vec<T, N> operator-(fv_vec<T, N> a)
{
    return fv_vec<T, N>(T(0)) - a;
}

/* Comparisons, which give -1 for true and 0 for false. */
#define FV_COMPARISON(symbol)                                                                      \
    template <class T, int N>                                                                      \
    FV_DEVICE fv_vec<int, N> operator symbol(fv_vec<T, N> a, fv_vec<T, N> b)                       \
    {                                                                                              \
        if constexpr (N == 2)                                                                      \
            return fv_vec<int, N>(-(a.x symbol b.x), -(a.y symbol b.y));                           \
        else                                                                                       \
            return fv_vec<int, N>(fv_low(a) symbol fv_low(b), fv_high(a) symbol fv_high(b));       \
    }                                                                                              \
    template <class T, int N> FV_DEVICE fv_vec<int, N> operator symbol(fv_vec<T, N> a, FV_AS(T) b) \
    {                                                                                              \
        return a symbol fv_vec<T, N>(b);                                                           \
    }                                                                                              \
    template <class T, int N> FV_DEVICE fv_vec<int, N> operator symbol(FV_AS(T) a, fv_vec<T, N> b) \
    {                                                                                              \
        return fv_vec<T, N>(a) symbol b;                                                           \
    }
FV_COMPARISON(==)
FV_COMPARISON(!=)
FV_COMPARISON(<)
FV_COMPARISON(>)
#undef FV_COMPARISON

/* Every second number. */
template <class T> FV_DEVICE fv_vec<T, 2> fv_even(fv_vec<T, 4> a)
{
    return fv_vec<T, 2>(a.s0, a.s2);
}
template <class T> FV_DEVICE fv_vec<T, 2> fv_odd(fv_vec<T, 4> a)
{
    return fv_vec<T, 2>(a.s1, a.s3);
}
template <class T, int N> FV_DEVICE fv_vec<T, N / 2> fv_even(fv_vec<T, N> a)
{
    return fv_vec<T, N / 2>(fv_even(fv_low(a)), fv_even(fv_high(a)));
}
template <class T, int N> FV_DEVICE fv_vec<T, N / 2> fv_odd(fv_vec<T, N> a)
{
    return fv_vec<T, N / 2>(fv_odd(fv_low(a)), fv_odd(fv_high(a)));
}
#define FV_EVEN(x) fv_even(x)
#define FV_ODD(x) fv_odd(x)

/* ---- functions of numbers, then the same for vectors, element by element ---- */

/* Applies `name`, which returns an R, to each element of a vector. */
#define FV_OF_VECTOR(name, R)                                                                      \
    template <class T, int N> FV_DEVICE fv_vec<R, N> name(fv_vec<T, N> a)                          \
    {                                                                                              \
        if constexpr (N == 2)                                                                      \
            return fv_vec<R, N>(name(a.x), name(a.y));                                             \
        else if constexpr (N == 3)                                                                 \
            return fv_vec<R, N>(name(a.x), name(a.y), name(a.z));                                  \
        else                                                                                       \
            return fv_vec<R, N>(name(fv_low(a)), name(fv_high(a)));                                \
    }
/* Applies a function of two arguments to each element; the first is a vector, the second may be a
 * number. */
#define FV_OF_VECTORS(name)                                                                        \
    template <class T, int N> FV_DEVICE fv_vec<T, N> name(fv_vec<T, N> a, FV_AS(fv_vec<T, N>) b)   \
    {                                                                                              \
        if constexpr (N == 2)                                                                      \
            return fv_vec<T, N>(name(a.x, b.x), name(a.y, b.y));                                   \
        else                                                                                       \
            return fv_vec<T, N>(name(fv_low(a), fv_low(b)), name(fv_high(a), fv_high(b)));         \
    }

#define FV_FUNCTION(name, call)                                                                    \
    FV_DEVICE float fv_of_##name(float x)                                                          \
    {                                                                                              \
        return call(x);                                                                            \
    }                                                                                              \
    FV_OF_VECTOR(fv_of_##name, float)
FV_FUNCTION(exp, expf)
FV_FUNCTION(exp2, exp2f)
FV_FUNCTION(expm1, expm1f)
FV_FUNCTION(log1p, log1pf)
FV_FUNCTION(log2, log2f)
FV_FUNCTION(tanh, tanhf)
FV_FUNCTION(sqrt, sqrtf)
FV_FUNCTION(fabs, fabsf)
FV_FUNCTION(rint, rintf)
#undef FV_FUNCTION
#define exp fv_of_exp
#define exp2 fv_of_exp2
#define expm1 fv_of_expm1
#define log1p fv_of_log1p
#define log2 fv_of_log2
#define tanh fv_of_tanh
#define sqrt fv_of_sqrt
#define fabs fv_of_fabs
#define rint fv_of_rint

#define FV_LESS_OF(a, b) fv_less_of(a, b)
#define FV_MORE_OF(a, b) fv_more_of(a, b)

/* e^x for x <= 0: 3 ulp; denormal results become 0. The rounding error of x log2 e is corrected
 * after the power of two. */
FV_DEVICE float fv_exp_of_negative(float x)
{
    const float y = fv_more_of(x, -150.f), power = y * 1.44269504f, root = fv_exp2_fast(power);
    return fmaf(root, fmaf(power, -0.693147181f, y), root);
}
#define FV_EXP_NEG(x) fv_exp_of_negative(x)

/* x^p for x >= 0: the relative error is a few ulp times 1 + |ln x^p|. */
FV_DEVICE float fv_of_pow(float x, float p)
{
    return fv_exp2_fast(p * fv_log2_fast(x));
}
#define pow fv_of_pow

FV_DEVICE float fv_of_fmax(float a, float b)
{
    return fmaxf(a, b);
}
FV_OF_VECTORS(fv_of_fmax)
#define fmax fv_of_fmax

template <class T> FV_DEVICE T fv_of_min(T a, FV_AS(T) b)
{
    return b < a ? b : a;
}
template <class T> FV_DEVICE T fv_of_max(T a, FV_AS(T) b)
{
    return a < b ? b : a;
}
FV_OF_VECTORS(fv_of_min)
FV_OF_VECTORS(fv_of_max)
#define min fv_of_min
#define max fv_of_max

template <class T> FV_DEVICE T clamp(T x, FV_AS(T) low, FV_AS(T) high)
{
    return min(max(x, low), high);
}

FV_DEVICE float fv_of_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}
template <class T, int N>
FV_DEVICE fv_vec<T, N> fv_of_fma(fv_vec<T, N> a, FV_AS(fv_vec<T, N>) b, FV_AS(fv_vec<T, N>) c)
{
    if constexpr (N == 2)
        return fv_vec<T, N>(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y));
    else
        return fv_vec<T, N>(fv_of_fma(fv_low(a), fv_low(b), fv_low(c)),
                            fv_of_fma(fv_high(a), fv_high(b), fv_high(c)));
}
#define fma fv_of_fma
#define mad fv_of_fma
#define FP_FAST_FMAF 1

template <int N> FV_DEVICE float dot(fv_vec<float, N> a, fv_vec<float, N> b)
{
    if constexpr (N == 2)
        return a.x * b.x + a.y * b.y;
    else
        return dot(fv_low(a), fv_low(b)) + dot(fv_high(a), fv_high(b));
}

/* Elements of b where the highest bit of c is set, else of a. */
template <class T, int N, class C>
FV_DEVICE fv_vec<T, N> select(fv_vec<T, N> a, fv_vec<T, N> b, fv_vec<C, N> c)
{
    if constexpr (N == 2)
        return fv_vec<T, N>((int)c.x < 0 ? b.x : a.x, (int)c.y < 0 ? b.y : a.y);
    else
        return fv_vec<T, N>(select(fv_low(a), fv_low(b), fv_low(c)),
                            select(fv_high(a), fv_high(b), fv_high(c)));
}

FV_DEVICE bool fv_of_isnan(float x)
{
    return x != x;
}
#undef isnan
#define isnan fv_of_isnan

#define FV_DOT 1
#define FV_DOT4(a, b, sum) fv_dot4(a, b, sum)

#define clz fv_leading_zeros
#define popcount fv_ones

/* ---- conversions ---- */

FV_DEVICE uint as_uint(float x)
{
    return fv_bits_of(x);
}
FV_DEVICE float as_float(uint x)
{
    return fv_float_of(x);
}
FV_OF_VECTOR(as_uint, uint)
#define as_uint4 as_uint
#define as_uint8 as_uint
FV_OF_VECTOR(as_float, float)
#define as_float4 as_float
#define as_float8 as_float
#define as_float16 as_float

/* Converts the elements of a vector to type R; FV_CONVERT also takes a number. */
#define FV_CONVERT(name, R)                                                                        \
    template <class T> FV_DEVICE R name(T x)                                                       \
    {                                                                                              \
        return (R)x;                                                                               \
    }                                                                                              \
    FV_OF_VECTOR(name, R)
FV_CONVERT(convert_float, float)
FV_CONVERT(convert_int, int)
FV_CONVERT(convert_uint, uint)
#undef FV_CONVERT
#define convert_float4 convert_float
#define convert_float8 convert_float
#define convert_int4 convert_int
#define convert_int16 convert_int
#define convert_uint4 convert_uint
#define convert_uint8 convert_uint
#define convert_uint16 convert_uint

FV_DEVICE uchar convert_uchar_sat(int x)
{
    return (uchar)(x < 0 ? 0 : x > 255 ? 255 : x);
}
FV_OF_VECTOR(convert_uchar_sat, uchar)
#define convert_uchar16_sat convert_uchar_sat

/* ---- memory ---- */

/* Loads N numbers at p, which is aligned as a single one. */
template <int N, class T> FV_DEVICE fv_vec<T, N> fv_load(const T *p)
{
    if constexpr (N == 2)
        return fv_vec<T, N>(p[0], p[1]);
    else
        return fv_vec<T, N>(fv_load<N / 2>(p), fv_load<N / 2>(p + N / 2));
}
template <class T, int N> FV_DEVICE void fv_store(fv_vec<T, N> x, T *p)
{
    if constexpr (N == 2) {
        p[0] = x.x;
        p[1] = x.y;
    } else {
        fv_store(fv_low(x), p);
        fv_store(fv_high(x), p + N / 2);
    }
}

/* Does the same for global memory, in words of 16 bytes if p has that alignment at run time, else
 * in smaller ones. A variable in registers would have to be in memory for this. */
template <int N, class T> union fv_words_of {
    fv_vec<T, N> vector;
    fv_vec<uint, 4> fours[N * sizeof(T) > 16 ? N * sizeof(T) / 16 : 1];
    fv_vec<uint, 2> two;
    uint one;
    FV_DEVICE fv_words_of()
    {
    }
};
template <int N, class T> FV_DEVICE constexpr size_t fv_wide()
{
    return N * sizeof(T) < 16 ? N * sizeof(T) : 16;
}
template <int N, class T> FV_DEVICE fv_vec<T, N> fv_load_wide(const T *p)
{
    fv_words_of<N, T> x;
    if ((size_t)p % fv_wide<N, T>())
        return fv_load<N>(p);
    if constexpr (N * sizeof(T) == 4)
        x.one = *(const uint *)p;
    else if constexpr (N * sizeof(T) == 8)
        x.two = *(const fv_vec<uint, 2> *)p;
    else
#pragma unroll
        for (int i = 0; i < N * (int)sizeof(T) / 16; i++)
            x.fours[i] = ((const fv_vec<uint, 4> *)p)[i];
    return x.vector;
}
template <class T, int N> FV_DEVICE void fv_store_wide(fv_vec<T, N> vector, T *p)
{
    fv_words_of<N, T> x;
    if ((size_t)p % fv_wide<N, T>()) {
        fv_store(vector, p);
        return;
    }
    x.vector = vector;
    if constexpr (N * sizeof(T) == 4)
        *(uint *)p = x.one;
    else if constexpr (N * sizeof(T) == 8)
        *(fv_vec<uint, 2> *)p = x.two;
    else
#pragma unroll
        for (int i = 0; i < N * (int)sizeof(T) / 16; i++)
            ((fv_vec<uint, 4> *)p)[i] = x.fours[i];
}
#define FV_LOAD4(p) fv_load_wide<4>(p)
#define FV_LOAD8(p) fv_load_wide<8>(p)
#define FV_LOAD16(p) fv_load_wide<16>(p)
#define FV_STORE4(x, p) fv_store_wide(x, p)
#define FV_STORE8(x, p) fv_store_wide(x, p)
#define FV_STORE16(x, p) fv_store_wide(x, p)
template <int N, class T> FV_DEVICE const T *fv_aligned(const T *p)
{
    return (const T *)__builtin_assume_aligned(p, fv_wide<N, T>());
}
#define FV_ALIGNED(n, p) fv_aligned<n>(p)

#define vload4(i, p) fv_load<4>((p) + 4 * (size_t)(i))
#define vload8(i, p) fv_load<8>((p) + 8 * (size_t)(i))
#define vload16(i, p) fv_load<16>((p) + 16 * (size_t)(i))
#define vstore4(x, i, p) fv_store(x, (p) + 4 * (size_t)(i))
#define vstore8(x, i, p) fv_store(x, (p) + 8 * (size_t)(i))
#define vstore16(x, i, p) fv_store(x, (p) + 16 * (size_t)(i))

template <int N> FV_DEVICE fv_vec<float, N> fv_load_half(const half *p)
{
    if constexpr (N == 2)
        return float2(fv_half_to_float(p[0].bits), fv_half_to_float(p[1].bits));
    else
        return fv_vec<float, N>(fv_load_half<N / 2>(p), fv_load_half<N / 2>(p + N / 2));
}
template <int N> FV_DEVICE void fv_store_half(fv_vec<float, N> x, half *p)
{
    if constexpr (N == 2) {
        p[0].bits = fv_float_to_half(x.x);
        p[1].bits = fv_float_to_half(x.y);
    } else {
        fv_store_half(fv_low(x), p);
        fv_store_half(fv_high(x), p + N / 2);
    }
}
#define vload_half(i, p) fv_half_to_float((p)[i].bits)
/* Four float16 are only loaded from global memory, more of them also from variables. */
FV_DEVICE float4 fv_load_half4(const half *p)
{
    const fv_vec<ushort, 4> bits = fv_load_wide<4>((const ushort *)p);
    return float4(fv_half_to_float(bits.x), fv_half_to_float(bits.y), fv_half_to_float(bits.z),
                  fv_half_to_float(bits.w));
}
FV_DEVICE void fv_store_half4(float4 x, half *p)
{
    fv_store_wide(fv_vec<ushort, 4>(fv_float_to_half(x.x), fv_float_to_half(x.y),
                                    fv_float_to_half(x.z), fv_float_to_half(x.w)),
                  (ushort *)p);
}
#define vload_half4(i, p) fv_load_half4((p) + 4 * (size_t)(i))
#define vload_half8(i, p) fv_load_half<8>((p) + 8 * (size_t)(i))
#define vload_half16(i, p) fv_load_half<16>((p) + 16 * (size_t)(i))
#define vstore_half_rte(x, i, p) ((p)[i].bits = fv_float_to_half(x))
#define vstore_half4_rte(x, i, p) fv_store_half4(x, (p) + 4 * (size_t)(i))
#define vstore_half8_rte(x, i, p) fv_store_half(x, (p) + 8 * (size_t)(i))

/* ---- where a work-item is ---- */

FV_DEVICE uint get_local_id(int d)
{
    return d == 0 ? threadIdx.x : d == 1 ? threadIdx.y : threadIdx.z;
}
FV_DEVICE uint get_local_size(int d)
{
    return d == 0 ? blockDim.x : d == 1 ? blockDim.y : blockDim.z;
}
FV_DEVICE uint get_group_id(int d)
{
    return d == 0 ? blockIdx.x : d == 1 ? blockIdx.y : blockIdx.z;
}
FV_DEVICE uint get_num_groups(int d)
{
    return d == 0 ? gridDim.x : d == 1 ? gridDim.y : gridDim.z;
}
FV_DEVICE uint get_global_id(int d)
{
    return get_group_id(d) * get_local_size(d) + get_local_id(d);
}
FV_DEVICE uint get_global_size(int d)
{
    return get_num_groups(d) * get_local_size(d);
}

/* A barrier is also a fence for all memory. */
#define CLK_LOCAL_MEM_FENCE 0
#define CLK_GLOBAL_MEM_FENCE 0
#define barrier(flags) __syncthreads()

#ifndef INFINITY
#define INFINITY fv_float_of(0x7f800000u)
#endif
#ifndef FLT_MAX
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#endif
