/* emulated_cuda.h: defines the parts of CUDA C++ that NVRTC knows without headers, for a C++
 * compiler. It precedes the text of a program, together with emulated_ptx.h. */
#include "tests/cuda_emulator/emulated_kernel.h"

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __UINTPTR_TYPE__ uintptr_t;

/* ---- qualifiers of functions and variables ---- */

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __host__
#define __device__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
/* Unknown attributes remain in the text after preprocessing, where the emulator finds them. */
#define __global__ __attribute__((emulated_global))
#define __launch_bounds__(...) __attribute__((emulated_bound(__VA_ARGS__)))
/* All shared variables are in one section, so that each block can begin with unwritten values. */
#define __shared__ static __attribute__((section("emulated_shared,\"aw\",@nobits#")))
#define __noinline__ noinline
#define noinline __noinline__

extern "C" {
__attribute__((visibility("default"))) emulated_link emulated;
/* Launches that request more are refused. */
#define EMULATED_DYNAMIC (228 << 10)
__attribute__((aligned(1024))) static char emulated_dynamic[EMULATED_DYNAMIC + 1024];
extern char __start_emulated_shared __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared __attribute__((weak, visibility("hidden")));
__attribute__((visibility("default"))) extern const emulated_shared_memory emulated_shared_map;
const emulated_shared_memory emulated_shared_map = {
    &__start_emulated_shared, &__stop_emulated_shared, emulated_dynamic, EMULATED_DYNAMIC};
}

/* ---- kernels, in the form that the emulator calls ---- */

template <unsigned... I> struct emulated_numbers {
};
template <unsigned N, unsigned... I> struct emulated_count : emulated_count<N - 1, N - 1, I...> {
};
template <unsigned... I> struct emulated_count<0, I...> {
    typedef emulated_numbers<I...> type;
};
template <class A> struct emulated_plain {
    typedef A type;
};
template <class A> struct emulated_plain<const A> {
    typedef A type;
};
template <class... A, unsigned... I>
static inline void emulated_call(void (*kernel)(A...), void **params, emulated_numbers<I...>)
{
    kernel(*static_cast<typename emulated_plain<A>::type *>(params[I])...);
}
template <class... A> struct emulated_kernel {
    template <void (*kernel)(A...)> static void run(void **params)
    {
        emulated_call(kernel, params, typename emulated_count<sizeof...(A)>::type());
    }
};
template <class... A> constexpr emulated_kernel<A...> emulated_kernel_of(void (*)(A...))
{
    return {};
}
template <class... A> struct emulated_layout {
    emulated_param param[sizeof...(A) + 1];
    constexpr emulated_layout() : param()
    {
        const unsigned long size[] = {sizeof(A)..., 0}, unit[] = {alignof(A)..., 1};
        unsigned long at = 0;
        for (unsigned i = 0; i <= sizeof...(A); i++) {
            at = (at + unit[i] - 1) / unit[i] * unit[i];
            param[i].at = (unsigned)at;
            param[i].size = (unsigned)size[i];
            at += size[i];
        }
    }
    static const emulated_layout all;
};
template <class... A> const emulated_layout<A...> emulated_layout<A...>::all;
template <class... A> constexpr const emulated_param *emulated_params(void (*)(A...))
{
    return emulated_layout<A...>::all.param;
}
template <class... A> constexpr unsigned emulated_number(void (*)(A...))
{
    return sizeof...(A);
}
/* The table's entry for a kernel. */
template <class F, F &kernel>
constexpr emulated_entry emulated_entry_of(const char *name, unsigned bound)
{
    return {name, decltype(emulated_kernel_of(kernel))::template run<kernel>,
            emulated_params(kernel), emulated_number(kernel), bound};
}

/* ---- vector types ---- */

#define EMULATED_VECTORS(type, name, size)                                                         \
    struct name##1                                                                                 \
    {                                                                                              \
        type x;                                                                                    \
    };                                                                                             \
    struct __align__(2 * size) name##2                                                             \
    {                                                                                              \
        type x, y;                                                                                 \
    };                                                                                             \
    struct name##3                                                                                 \
    {                                                                                              \
        type x, y, z;                                                                              \
    };                                                                                             \
    struct __align__(4 * size > 16 ? 16 : 4 * size) name##4                                        \
    {                                                                                              \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline name##2 make_##name##2(type x, type y)                                           \
    {                                                                                              \
        return {x, y};                                                                             \
    }                                                                                              \
    static inline name##3 make_##name##3(type x, type y, type z)                                   \
    {                                                                                              \
        return {x, y, z};                                                                          \
    }                                                                                              \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                           \
    {                                                                                              \
        return {x, y, z, w};                                                                       \
    }
EMULATED_VECTORS(signed char, char, 1)
EMULATED_VECTORS(unsigned char, uchar, 1)
EMULATED_VECTORS(short, short, 2)
EMULATED_VECTORS(unsigned short, ushort, 2)
EMULATED_VECTORS(int, int, 4)
EMULATED_VECTORS(unsigned, uint, 4)
EMULATED_VECTORS(long long, longlong, 8)
EMULATED_VECTORS(unsigned long long, ulonglong, 8)
EMULATED_VECTORS(float, float, 4)
EMULATED_VECTORS(double, double, 8)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

/* ---- positions of threads, and waiting ---- */

#define threadIdx (emulated.here->thread)
#define blockIdx (emulated.here->block)
#define blockDim (emulated.here->threads)
#define gridDim (emulated.here->blocks)
#define warpSize 32

static inline void __syncthreads()
{
    emulated.calls->barrier();
}

static inline void __syncwarp(unsigned mask = ~0u)
{
    emulated.calls->warp_sync(mask);
}

static inline unsigned emulated_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <class T> static inline T emulated_shuffle(unsigned mask, T value, unsigned from)
{
    static_assert(sizeof(T) == 4, "shuffles are of 32 bits");
    unsigned bits;
    __builtin_memcpy(&bits, &value, 4);
    bits = emulated.calls->shuffle(mask, bits, from);
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

/* Lanes exchange values within parts of `width` lanes that begin at multiples of it. */
template <class T> static inline T __shfl_sync(unsigned mask, T x, int from, int width = 32)
{
    const unsigned begin = emulated_lane() & ~(unsigned)(width - 1);
    return emulated_shuffle(mask, x, begin + ((unsigned)from & (unsigned)(width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32)
{
    const unsigned lane = emulated_lane(), from = lane ^ (unsigned)bits;
    return emulated_shuffle(mask, x, (from ^ lane) < (unsigned)width ? from : lane);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    const unsigned lane = emulated_lane();
    return emulated_shuffle(mask, x, (lane & (unsigned)(width - 1)) >= by ? lane - by : lane);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    const unsigned lane = emulated_lane();
    const bool inside = (lane & (unsigned)(width - 1)) + by < (unsigned)width;
    return emulated_shuffle(mask, x, inside ? lane + by : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int x)
{
    return emulated.calls->ballot(mask, x);
}
static inline int __any_sync(unsigned mask, int x)
{
    return __ballot_sync(mask, x) != 0;
}
static inline int __all_sync(unsigned mask, int x)
{
    return __ballot_sync(mask, x == 0) == 0;
}
static inline unsigned __activemask()
{
    return ~0u;
}

static inline void __threadfence()
{
}
static inline void __threadfence_block()
{
}
static inline void __trap()
{
    emulated.calls->fail("__trap()", 0);
}

template <class T> static inline T atomicAdd(T *p, T x)
{
    const T old = *p;
    *p = old + x;
    return old;
}
template <class T> static inline T atomicMax(T *p, T x)
{
    const T old = *p;
    *p = old > x ? old : x;
    return old;
}
template <class T> static inline T atomicExch(T *p, T x)
{
    const T old = *p;
    *p = x;
    return old;
}

/* ---- arithmetic ---- */

#define EMULATED_CAST(name, to, from)                                                              \
    static inline to name(from x)                                                                  \
    {                                                                                              \
        to y;                                                                                      \
        __builtin_memcpy(&y, &x, sizeof y);                                                        \
        return y;                                                                                  \
    }
EMULATED_CAST(__float_as_uint, unsigned, float)
EMULATED_CAST(__float_as_int, int, float)
EMULATED_CAST(__uint_as_float, float, unsigned)
EMULATED_CAST(__int_as_float, float, int)
EMULATED_CAST(__double_as_longlong, long long, double)
EMULATED_CAST(__longlong_as_double, double, long long)

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s)
{
    const unsigned long long all = (unsigned long long)b << 32 | a;
    unsigned y = 0;
    for (int i = 0; i < 4; i++)
        y |= (unsigned)(all >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
    return y;
}

/* The plain functions of the C library, also under C++'s names for floats. */
#define EMULATED_MATH1(name)                                                                       \
    extern "C" float name##f(float);                                                               \
    extern "C" double name(double);                                                                \
    static inline float name(float x)                                                              \
    {                                                                                              \
        return __builtin_##name##f(x);                                                             \
    }
#define EMULATED_MATH2(name)                                                                       \
    extern "C" float name##f(float, float);                                                        \
    extern "C" double name(double, double);                                                        \
    static inline float name(float x, float y)                                                     \
    {                                                                                              \
        return __builtin_##name##f(x, y);                                                          \
    }
EMULATED_MATH1(exp)
EMULATED_MATH1(exp2)
EMULATED_MATH1(expm1)
EMULATED_MATH1(log)
EMULATED_MATH1(log2)
EMULATED_MATH1(log1p)
EMULATED_MATH1(sqrt)
EMULATED_MATH1(sin)
EMULATED_MATH1(cos)
EMULATED_MATH1(tanh)
EMULATED_MATH1(erf)
EMULATED_MATH1(fabs)
EMULATED_MATH1(floor)
EMULATED_MATH1(ceil)
EMULATED_MATH1(trunc)
EMULATED_MATH1(rint)
EMULATED_MATH1(round)
EMULATED_MATH2(pow)
EMULATED_MATH2(fmax)
EMULATED_MATH2(fmin)
EMULATED_MATH2(fmod)
EMULATED_MATH2(copysign)
extern "C" float fmaf(float, float, float);
extern "C" double fma(double, double, double);
extern "C" float ldexpf(float, int);
static inline float fma(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}
static inline float rsqrtf(float x)
{
    return 1.f / __builtin_sqrtf(x);
}
static inline float __saturatef(float x)
{
    return x > 0.f ? x < 1.f ? x : 1.f : 0.f;
}
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
static inline float __expf(float x)
{
    return __builtin_expf(x);
}
static inline float exp2f_approx(float x)
{
    return __builtin_exp2f(x);
}
static inline float __logf(float x)
{
    return __builtin_logf(x);
}
static inline float __log2f(float x)
{
    return __builtin_log2f(x);
}
static inline float __powf(float x, float y)
{
    return __builtin_powf(x, y);
}
static inline float __fdividef(float x, float y)
{
    return x / y;
}
static inline float __frcp_rn(float x)
{
    return 1.f / x;
}
static inline float __fsqrt_rn(float x)
{
    return __builtin_sqrtf(x);
}
static inline float __fmaf_rn(float x, float y, float z)
{
    return __builtin_fmaf(x, y, z);
}
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
static inline int __float2int_rn(float x)
{
    return (int)__builtin_rintf(x);
}
static inline int __float2int_rz(float x)
{
    return (int)x;
}
static inline unsigned __float2uint_rz(float x)
{
    return (unsigned)x;
}
/* Separate functions, so that no addition is fused with a multiplication. */
static inline float __fadd_rn(float x, float y)
{
    float sum = x + y;
    __asm__("" : "+x"(sum));
    return sum;
}
static inline float __fmul_rn(float x, float y)
{
    float product = x * y;
    __asm__("" : "+x"(product));
    return product;
}

#define EMULATED_LEAST(type)                                                                       \
    static inline type min(type a, type b)                                                         \
    {                                                                                              \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    static inline type max(type a, type b)                                                         \
    {                                                                                              \
        return a < b ? b : a;                                                                      \
    }
EMULATED_LEAST(int)
EMULATED_LEAST(unsigned)
EMULATED_LEAST(long)
EMULATED_LEAST(unsigned long)
EMULATED_LEAST(long long)
EMULATED_LEAST(unsigned long long)
EMULATED_LEAST(float)
EMULATED_LEAST(double)
static inline unsigned min(unsigned a, int b)
{
    return min(a, (unsigned)b);
}
static inline unsigned min(int a, unsigned b)
{
    return min((unsigned)a, b);
}
static inline unsigned max(unsigned a, int b)
{
    return max(a, (unsigned)b);
}
static inline unsigned max(int a, unsigned b)
{
    return max((unsigned)a, b);
}

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline void __stcs(T *p, T x)
{
    *p = x;
}

/* ---- functions that the compiler's checks call ---- */

struct emulated_site {
    const char *file;
    unsigned line, column;
};
extern "C" {
__attribute__((visibility("hidden"), used)) inline void
__ubsan_handle_type_mismatch_v1_abort(const emulated_site *at, const void *)
{
    emulated.calls->fail("an address that is not aligned as its type is", at->line);
}
__attribute__((visibility("hidden"), used)) inline void
__ubsan_handle_out_of_bounds_abort(const emulated_site *at, const void *)
{
    emulated.calls->fail("an index that is outside of its array", at->line);
}
}
