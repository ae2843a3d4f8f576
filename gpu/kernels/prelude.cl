/* prelude.cl: the text that precedes every kernel: operands of any storage type, the arguments that
 * follow them, and reductions over a work-group. OpenCL C 1.2, core features only.
 *
 * A kernel's arguments are the operands of its op, all of them in the order of op.h's numbers, then
 * FV_CALL:
 *
 *     FV_KERNEL void mul(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
 *
 * The backend defines
 *   FV_T<n>    storage of operand n: f32, f16, bf16, u8, i8
 *   FV_HAS<n>  1 where operand n is present, else 0: its buffer may not be read
 *   FV_FLAGS, FV_EPI  of the problem
 *   FV_GROUP   work-items of a work-group (dimension 0; the others have one): a power of two
 *   FV_HALF    1 where the device was seen to have float16 arithmetic
 *   FV_DOT     1 or 2 where it was seen to multiply 8-bit integers by fours: by which, see dot.cl
 *   FV_COMPILES_<kernel>  1 for the kernel function that the program is compiled for
 * and what the kernel's `define` adds.
 */
#ifdef cl_khr_fp16
#if FV_HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#endif

/* cuda_prelude.h defines these for CUDA. */
#ifndef FV_VEC
/* A kernel with a fixed work-group size, which the compiler may rely on. So it can give each
 * work-item more registers than if groups had the device's maximum. */
#define FV_KERNEL kernel __attribute__((reqd_work_group_size(FV_GROUP, 1, 1)))
#define FV_VEC(type) (type) /* the type of a vector literal; embed.py writes it */
#define FV_SHARED local     /* of a variable in local memory; pointers to it say `local` */
#define FV_EVEN(x) (x).even
#define FV_ODD(x) (x).odd
#define FV_LOW(v) (v).lo
#define FV_HIGH(v) (v).hi
#define FV_LESS_OF(a, b) ((a) < (b) ? (a) : (b)) /* b where it is NaN */
#define FV_MORE_OF(a, b) ((a) > (b) ? (a) : (b))
#define FV_EXP_NEG(x) exp(x) /* of x <= 0 */
/* Loads and stores of neighbouring elements in global memory, which are aligned as single ones. */
#define FV_LOAD4(p) vload4(0, p)
#define FV_LOAD8(p) vload8(0, p)
#define FV_LOAD16(p) vload16(0, p)
#define FV_STORE4(x, p) vstore4(x, 0, p)
#define FV_STORE8(x, p) vstore8(x, 0, p)
#define FV_STORE16(x, p) vstore16(x, 0, p)
#define FV_ALIGNED(n, p) (p) /* p, which is aligned as n neighbours are */
#endif

#define FV_PASTE(a, b) a##b
#define FV_CAT(a, b) FV_PASTE(a, b)
/* Whether the program is compiled for this kernel. Where several kernels share a file, a function
 * that a driver cannot compile then only costs the kernels that call it. CUDA compiles all. */
#ifndef FV_COMPILES
#define FV_COMPILES(kernel) FV_CAT(FV_COMPILES_, kernel)
#endif
/* A loop with a constant number of iterations that is unrolled, so that arrays it indexes are in
 * registers. Not every compiler does that by itself, and an array that stays in memory is loaded
 * and stored by every operation. */
#define FV_TIMES(i, n) _Pragma("unroll") for (uint i = 0; i < (n); i++)
/* A loop that is not unrolled, because its iterations together would need too many registers. */
#define FV_LOOP(i, n) _Pragma("unroll 1") for (uint i = 0; i < (n); i++)

/* ---- storage ---- */

typedef float fv_cell_f32;
typedef half fv_cell_f16; /* only ever behind a pointer */
typedef ushort fv_cell_bf16;
typedef uchar fv_cell_u8;
typedef signed char fv_cell_i8;
#define FV_CELL(n) FV_CAT(fv_cell_, FV_T##n)

/* Arguments of operand n: its buffer, and (offset of the call's first row or of the whole operand,
 * row stride), both in elements. */
#define FV_IN(n) global const FV_CELL(n) *base##n, const uint2 at##n
#define FV_OUT(n) global FV_CELL(n) *base##n, const uint2 at##n

/* table:  the step's table, as the host side of the kernel laid it out
 * row0, rows  of the call: row0 is the absolute row
 * first   REDUCE: partial states are stored, not added to
 * groups  partial states of REDUCE, or segments, that the call's rows are dealt to
 * dim, u, f   as the contract of the op has them (ref_<op>.c)
 * ring    LOCAL: (window, shift)
 */
#define FV_CALL                                                                                    \
    global const uint *table, const uint row0, const uint rows, const uint first,                  \
        const uint groups, const uint8 dim, const uint4 u, const float4 f, const uint2 ring

/* Passes these arguments on to a function that has the same ones. */
#define FV_GIVEN(n) base##n, at##n
#define FV_CALL_GIVEN table, row0, rows, first, groups, dim, u, f, ring

/* Row r of operand n. For a row operand, r is counted from row0; otherwise from the operand's first
 * row. */
#define FV_AT(n, r) (base##n + at##n.x + (size_t)(r)*at##n.y)

#define FV_IS_FLOAT(n) FV_CAT(FV_IS_FLOAT_, FV_T##n) /* of operand n, for #if */
#define FV_IS_FLOAT_f32 1
#define FV_GET_f32(p) (*(p))
#define FV_GET_f16(p) vload_half(0, p)
#define FV_GET_bf16(p) as_float((uint)(*(p)) << 16)
#define FV_GET_u8(p) convert_float(*(p))
/* Loads the number at p, which has operand n's type, as a float. */
#define FV_GET(n, p) FV_CAT(FV_GET_, FV_T##n)(p)

/* Rounds to the nearest bfloat16, ties to even; NaN stays NaN. */
static inline ushort fv_bf16(float x)
{
    const uint bits = as_uint(x);
    return isnan(x) ? (ushort)(bits >> 16 | 64)
                    : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define FV_PUT_f32(p, x) (*(p) = (x))
#define FV_PUT_f16(p, x) vstore_half_rte(x, 0, p)
#define FV_PUT_bf16(p, x) (*(p) = fv_bf16(x))
#define FV_PUT(n, p, x) FV_CAT(FV_PUT_, FV_T##n)(p, x)

/* Loads and stores 4, 8 or 16 consecutive numbers. They need no more alignment than a single
 * one. */
static inline float4 fv_get4_bf16(global const ushort *p)
{
    return as_float4(convert_uint4(FV_LOAD4(p)) << 16);
}
static inline float8 fv_get8_bf16(global const ushort *p)
{
    return as_float8(convert_uint8(FV_LOAD8(p)) << 16);
}
static inline float16 fv_get16_bf16(global const ushort *p)
{
    return as_float16(convert_uint16(FV_LOAD16(p)) << 16);
}
/* float16 is loaded as bits, because some compilers (PoCL's) assume that 8 of them are aligned as a
 * vector, and crash if not. */
static inline float8 fv_get8_f16(global const half *p)
{
    const ushort8 bits = FV_LOAD8((global const ushort *)p);
    return vload_half8(0, (const half *)&bits);
}
static inline float16 fv_get16_f16(global const half *p)
{
    const ushort16 bits = FV_LOAD16((global const ushort *)p);
    return vload_half16(0, (const half *)&bits);
}
#define FV_GET4_f32(p) FV_LOAD4(p)
#define FV_GET4_f16(p) vload_half4(0, p)
#define FV_GET4_bf16(p) fv_get4_bf16(p)
#define FV_GET4(n, p) FV_CAT(FV_GET4_, FV_T##n)(p)
#define FV_GET8_f32(p) FV_LOAD8(p)
#define FV_GET8_f16(p) fv_get8_f16(p)
#define FV_GET8_bf16(p) fv_get8_bf16(p)
#define FV_GET8(n, p) FV_CAT(FV_GET8_, FV_T##n)(p)
#define FV_GET16_f32(p) FV_LOAD16(p)
#define FV_GET16_f16(p) fv_get16_f16(p)
#define FV_GET16_bf16(p) fv_get16_bf16(p)
#define FV_GET16(n, p) FV_CAT(FV_GET16_, FV_T##n)(p)

static inline void fv_put4_bf16(global ushort *p, float4 x)
{
    FV_STORE4((ushort4)(fv_bf16(x.s0), fv_bf16(x.s1), fv_bf16(x.s2), fv_bf16(x.s3)), p);
}
static inline void fv_put8_f16(global half *p, float8 x)
{
    ushort8 bits;
    vstore_half8_rte(x, 0, (half *)&bits);
    FV_STORE8(bits, (global ushort *)p);
}
#define FV_PUT4_f32(p, x) FV_STORE4(x, p)
#define FV_PUT4_f16(p, x) vstore_half4_rte(x, 0, p)
#define FV_PUT4_bf16(p, x) fv_put4_bf16(p, x)
#define FV_PUT4(n, p, x) FV_CAT(FV_PUT4_, FV_T##n)(p, x)
#define FV_PUT8_f32(p, x) FV_STORE8(x, p)
#define FV_PUT8_f16(p, x) fv_put8_f16(p, x)
#define FV_PUT8_bf16(p, x) (fv_put4_bf16(p, FV_LOW(x)), fv_put4_bf16((p) + 4, FV_HIGH(x)))
#define FV_PUT8(n, p, x) FV_CAT(FV_PUT8_, FV_T##n)(p, x)
#define FV_PUT16(n, p, x) (FV_PUT8(n, p, (x).lo), FV_PUT8(n, (p) + 8, (x).hi))

/* ---- rows in runs of four columns ---- */

/* Loads a run of four numbers at p, of which `left` exist (4 or more: all); the others get the
 * value `rest`. */
#define FV_GET_RUN(n, p, left, rest)                                                               \
    ((left) >= 4 ? FV_GET4(n, p)                                                                   \
                 : (float4)(FV_GET(n, p), (left) > 1 ? FV_GET(n, (p) + 1) : (rest),                \
                            (left) > 2 ? FV_GET(n, (p) + 2) : (rest), (rest)))
#define FV_PUT_RUN(n, p, x, left)                                                                  \
    do {                                                                                           \
        const float4 run_ = (x);                                                                   \
        if ((left) >= 4) {                                                                         \
            FV_PUT4(n, p, run_);                                                                   \
        } else {                                                                                   \
            FV_PUT(n, p, run_.s0);                                                                 \
            if ((left) > 1)                                                                        \
                FV_PUT(n, (p) + 1, run_.s1);                                                       \
            if ((left) > 2)                                                                        \
                FV_PUT(n, (p) + 2, run_.s2);                                                       \
        }                                                                                          \
    } while (0)

/* log2 of the number of neighbouring work-items that share a row: as many as it has runs, but at
 * most a work-group. */
static inline uint fv_spread_bits(uint runs)
{
    return min(popcount((uint)FV_GROUP - 1), 32 - clz(runs - 1));
}

/* Assigns rows of `runs` runs each to the work-items, neighbouring runs to neighbouring work-items.
 * Returns (row, run) of this one, which may be outside. fv_gpu_spread() counts the work-groups. */
static inline uint2 fv_spread(uint runs)
{
    const uint shift = fv_spread_bits(runs);
    const uint me = get_local_id(0);
    return (uint2)(get_group_id(0) * ((uint)FV_GROUP >> shift) + (me >> shift),
                   (get_group_id(1) << shift) + (me & ((1u << shift) - 1)));
}

/* ---- a work-group ---- */

/* SHARED qualifies a pointer to local memory, SHARED_VAR a variable in it. A work-group of a
 * single work-item uses private memory instead. */
#if FV_GROUP > 1
#define SHARED local
#define SHARED_VAR FV_SHARED
#define FV_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
/* A barrier also for global memory, where work-items write states that others of the group have
 * read, or read states that others have written. */
#define FV_STATE_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define SHARED private
#define SHARED_VAR private
#define FV_BARRIER()
#define FV_STATE_BARRIER()
#endif

/* Defines a function that reduces a value over the work-group. Every work-item calls it and gets
 * the result. `scratch`: local memory of FV_GROUP floats. */
#define FV_GROUP_REDUCTION(name, COMBINE)                                                          \
    static inline float name(float x, SHARED float *scratch)                                       \
    {                                                                                              \
        const uint me = get_local_id(0);                                                           \
        if (FV_GROUP == 1)                                                                         \
            return x;                                                                              \
        FV_BARRIER();                                                                              \
        scratch[me] = x;                                                                           \
        for (uint half_ = FV_GROUP / 2; half_ > 0; half_ /= 2) {                                   \
            FV_BARRIER();                                                                          \
            if (me < half_)                                                                        \
                scratch[me] = COMBINE(scratch[me], scratch[me + half_]);                           \
        }                                                                                          \
        FV_BARRIER();                                                                              \
        return scratch[0];                                                                         \
    }
#define FV_SUM2(a, b) ((a) + (b))
FV_GROUP_REDUCTION(fv_group_sum, FV_SUM2)
FV_GROUP_REDUCTION(fv_group_max, fmax)
