/* probe.cl: tiny kernels whose results the host knows (cl_probe.c). FV_PROBE selects the one that
 * is compiled, because a device may fail to compile another. */
#define FV_PROBE_HALF 1
#define FV_PROBE_SUBGROUPS 2
#define FV_PROBE_DOT 3
#define FV_PROBE_LOCAL 4
#define FV_PROBE_RATES 5
#define FV_PROBE_LONG_LOOP 6
#define FV_PROBE_BEST 7
#define FV_PROBE_HALF_RATE 8
#define FV_PROBE_DOT_RATE 9
#define FV_PROBE_LOCAL_RATE 10
#define FV_PROBE_GLOBAL_RATE 11
#define FV_PROBE_RECORD 12
#define FV_PROBE_IMAGE 13
#define FV_PROBE_IMAGE_RATE 14
#define FV_PROBE_SUBGROUP_RATE 15
#define FV_PROBE_STAGED_RATE 16
#define FV_PROBE_WIDE_RATE 17

#if FV_PROBE == FV_PROBE_HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
/* Sums and products that are exact in float16, and one that has to be rounded. */
kernel void probe(global float *out)
{
    const uint i = get_global_id(0);
    const half a = convert_half(i) * (half)0.25f;
    const half4 v = (half4)(a, a, (half)2.0f, (half)0.0f) * (half4)((half)1.5f);
    out[2 * i] = convert_float(fma(a, (half)1.5f, (half)0.125f)) + convert_float(v.y + v.z);
    out[2 * i + 1] = convert_float(convert_half(2048 + 2 * i) + (half)0.25f);
}
#endif

#if FV_PROBE == FV_PROBE_SUBGROUPS || FV_PROBE == FV_PROBE_SUBGROUP_RATE
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#include "gpu/kernels/subgroup.cl"
#endif

#if FV_PROBE == FV_PROBE_SUBGROUPS
/* Reads blocks of integers after the results, from the number of the subgroup's first work-item on.
 * Returns what the lanes have read and what they got from each other. */
FV_OF_LANES kernel void probe(global float *out)
{
    FV_EXCHANGE
    const uint i = get_global_id(0), n = get_global_size(0), lane = FV_LANE;
    global half *x = (global half *)(out + 2 * n);
    for (uint k = i; k < 8 * n; k += n)
        vstore_half((float)k, 0, x + k);
    barrier(CLK_GLOBAL_MEM_FENCE);
    x += i - lane;
    FV_BLOCK(own, x);
    FV_SPREAD(all, x + 2);
    const float8 y = convert_float8(own);
    float4 z;
    z.s0 = FV_GIVEN_BY(all, 0, 5);
    z.s1 = FV_GIVEN_BY(all, 1, 10);
    z.s2 = FV_GIVEN_BY(all, 2, 15);
    z.s3 = FV_GIVEN_BY(all, 3, 0);
    out[2 * i] =
        y.s0 + 2 * y.s1 + 4 * y.s2 + 8 * y.s3 + 16 * y.s4 + 32 * y.s5 + 64 * y.s6 + 128 * y.s7;
    out[2 * i + 1] = lane + 16 * (z.s0 + 2 * z.s1 + 4 * z.s2 + 8 * z.s3);
}
#endif

#if FV_PROBE == FV_PROBE_DOT || FV_PROBE == FV_PROBE_DOT_RATE
#include "gpu/kernels/dot.cl"
#endif

#if FV_PROBE == FV_PROBE_DOT
kernel void probe(global float *out)
{
    const int i = (int)get_global_id(0);
    const uint a = as_uint((char4)((char)(i - 128), (char)i, (char)(3 - i), 127));
    out[2 * i] = (float)FV_DOT4(a, as_uint((char4)(-128, 2, -3, 127)), 0);
    out[2 * i + 1] = (float)FV_DOT4(a, as_uint((char4)(1, 1, 1, 1)), 1000);
}
#endif

#if FV_PROBE == FV_PROBE_LOCAL
/* Reverses the order of a work-group's numbers through local memory. */
kernel void probe(global float *out)
{
    local float area[64];
    const uint i = get_local_id(0);
    area[i] = (float)i;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[2 * i] = area[get_local_size(0) - 1 - i];
    out[2 * i + 1] = 0.0f;
}
#endif

#if FV_PROBE == FV_PROBE_IMAGE
/* Copies the texels of an image in reverse order. */
kernel void probe(global uint4 *out, read_only image1d_buffer_t in)
{
    const uint i = get_global_id(0);
    out[i] = read_imageui(in, (int)(get_global_size(0) - 1 - i));
}
#endif

#if FV_PROBE == FV_PROBE_LONG_LOOP
/* A random generator after 2^18 sequential iterations; returns the low and the high 16 bits. */
kernel void probe(global float *out)
{
    const uint i = get_local_id(0), iterations = get_num_groups(0) << 18; /* of 1 group */
    uint x = i;
#pragma unroll 1
    for (uint t = 0; t < iterations; t++)
        x = x * 1664525u + 1013904223u;
    out[2 * i] = (float)(x & 0xffff);
    out[2 * i + 1] = (float)(x >> 16);
}

/* Loads vectors that are aligned only as their elements. */
kernel void unaligned(global float *out)
{
    const uint i = get_global_id(0);
    for (uint k = 0; k < 4; k++)
        out[2 * get_global_size(0) + 1 + 4 * i + k] = (float)(i + k);
    barrier(CLK_GLOBAL_MEM_FENCE);
    const float4 x = vload4(0, out + 2 * get_global_size(0) + 1 + 4 * i);
    out[i] = x.x + 4.0f * x.y + 16.0f * x.z + 64.0f * x.w;
}
#endif

#if FV_PROBE == FV_PROBE_RECORD
kernel void probe(global float *x, const float add)
{
    const uint i = get_global_id(0);
    x[i] = 2.0f * x[i] + add;
}
#endif

#if FV_PROBE == FV_PROBE_RATES || FV_PROBE == FV_PROBE_HALF_RATE
#if FV_PROBE == FV_PROBE_RATES
typedef float4 numbers;
#define NUMBER(x) ((float)(x))
#define FIRST NUMBER(get_global_id(0))
#else
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half4 numbers;
#define NUMBER(x) ((half)(x))
#define FIRST NUMBER(get_local_id(0)) /* float16 cannot represent the numbers of all items */
#endif
/* 64 multiply-adds of 4 numbers per iteration and work-item. */
kernel void compute(global float *out, const uint iterations)
{
    numbers a = (numbers)(FIRST) + NUMBER(1.0f);
    numbers b = a * NUMBER(0.5f), c = a * NUMBER(0.25f), d = a * NUMBER(0.125f);
    const numbers factor = (numbers)(NUMBER(0.999f)), term = (numbers)(NUMBER(0.001f));
    for (uint t = 0; t < iterations; t++)
        for (uint k = 0; k < 16; k++) {
            a = a * factor + term;
            b = b * factor + term;
            c = c * factor + term;
            d = d * factor + term;
        }
    a += b + c + d;
    out[get_global_id(0)] = (float)(a.x + a.y + a.z + a.w);
}
#endif

#if FV_PROBE == FV_PROBE_RATES
/* Moves 16 bytes, twice. */
kernel void move(global const float4 *in, global float4 *out, const uint n)
{
    for (uint i = get_global_id(0); i < n; i += get_global_size(0))
        out[i] = in[i] * 2.0f;
}
#endif

#if FV_PROBE == FV_PROBE_DOT_RATE
/* 64 products of 4 int8 each, and their sums. */
kernel void compute(global float *out, const uint iterations)
{
    const uint x = get_global_id(0) * 0x01020304u, y = x + 0x01010101u;
    int a = 0, b = 1, c = 2, d = 3;
    for (uint t = 0; t < iterations; t++)
        for (uint k = 0; k < 16; k++) {
            a = FV_DOT4(x + t, y, a);
            b = FV_DOT4(x + t, y, b);
            c = FV_DOT4(x, y + t, c);
            d = FV_DOT4(x, y + t, d);
        }
    out[get_global_id(0)] = (float)(a ^ b ^ c ^ d);
}
#endif

#if FV_PROBE == FV_PROBE_LOCAL_RATE || FV_PROBE == FV_PROBE_GLOBAL_RATE ||                         \
    FV_PROBE == FV_PROBE_IMAGE_RATE
#define AREA 80
/* 16 loads of 16 bytes per iteration and work-item, from a small area that the whole work-group
 * reads. It is in local memory, in an image, or in global memory after the results, where it is
 * cached. */
#if FV_PROBE == FV_PROBE_IMAGE_RATE
#define LOADED(at) read_imageui(area, (int)(at))
kernel void compute(global uint *out, read_only image1d_buffer_t area, const uint iterations)
#else
#define LOADED(at) area[at]
kernel void compute(global uint *out, const uint iterations)
#endif
{
    const uint me = get_local_id(0);
#if FV_PROBE == FV_PROBE_LOCAL_RATE
    local uint4 area[AREA];
    for (uint i = me; i < AREA; i += get_local_size(0))
        area[i] = (uint4)(i);
    barrier(CLK_LOCAL_MEM_FENCE);
#elif FV_PROBE == FV_PROBE_GLOBAL_RATE
    global const uint4 *area = (global const uint4 *)(out + get_global_size(0));
#endif
    uint4 sum = (uint4)(0);
    uint at = me % 64;
    for (uint t = 0; t < iterations; t++) {
#pragma unroll
        for (uint k = 0; k < 16; k++)
            sum ^= LOADED(at + k);
        at = (at + 7) % 64;
    }
    out[get_global_id(0)] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}
#endif

#if FV_PROBE == FV_PROBE_SUBGROUP_RATE
/* 128 multiply-adds of float16 per iteration and work-item, as in gemm_subgroup.cl, on a few
 * numbers that are stored after the results. */
FV_OF_LANES kernel void compute(global float *out, const uint iterations)
{
    FV_EXCHANGE
    global const half *area = (global const half *)(out + get_global_size(0));
    half2 sum[16], all = (half2)(0.0f);
    for (uint i = 0; i < 16; i++)
        sum[i] = (half2)(0.0f);
#define ADD(i, x, columns) sum[i] = fma((half2)(x), columns, sum[i])
    for (uint t = 0; t < iterations; t++)
        FV_FOUR_STEPS(ADD, area + t % 4 * 128, area + t % 8 * 64);
    for (uint i = 0; i < 16; i++)
        all += sum[i];
    out[get_global_id(0)] = convert_float(all.x + all.y);
}
#endif

#if FV_PROBE == FV_PROBE_STAGED_RATE
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define STAGED 112
/* As many multiply-adds as in gemm_half.cl: twice two steps of 8 rows and 4 columns, in local
 * memory. */
kernel void compute(global float *out, const uint iterations)
{
    local half8 area[STAGED];
    const uint me = get_local_id(0);
    half4 sum[8], all = (half4)(0.0f);
    for (uint i = me; i < STAGED; i += get_local_size(0))
        area[i] = (half8)(0.001f * i);
    for (uint i = 0; i < 8; i++)
        sum[i] = (half4)(0.0f);
    barrier(CLK_LOCAL_MEM_FENCE);
#define ADD(i, x, columns) sum[i] = fma((half4)(x), columns, sum[i])
#define ADD_ROWS(i, rows, columns)                                                                 \
    ADD(i, (rows).s0, columns);                                                                    \
    ADD((i) + 1, (rows).s1, columns);                                                              \
    ADD((i) + 2, (rows).s2, columns);                                                              \
    ADD((i) + 3, (rows).s3, columns)
    for (uint t = 0; t < iterations; t++)
        for (uint k = 0; k < 2; k++) {
            local const half8 *at = area + (t + k) % 8 * 4;
            const half8 w = at[64 + me % 16], x = at[me / 16 * 2], y = at[me / 16 * 2 + 1];
            ADD_ROWS(0, x.lo, w.lo);
            ADD_ROWS(4, y.lo, w.lo);
            ADD_ROWS(0, x.hi, w.hi);
            ADD_ROWS(4, y.hi, w.hi);
        }
    for (uint i = 0; i < 8; i++)
        all += sum[i];
    out[get_global_id(0)] = convert_float(all.x + all.y + all.z + all.w);
}
#endif

#if FV_PROBE == FV_PROBE_WIDE_RATE
#include "gpu/kernels/fma.cl"
#define ROWS 6
/* As many multiply-adds as in gemm.cl's wide products: 16 steps of 6 rows and 16 columns per
 * iteration, on a few numbers that are stored after the results. */
kernel __attribute__((reqd_work_group_size(1, 1, 1))) void compute(global float *out,
                                                                   const uint iterations)
{
    global const float *area = out + get_global_size(0);
    float16 sum[ROWS], all = (float16)(0.0f);
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
        sum[i] = (float16)(0.0f);
    for (uint t = 0; t < iterations; t++)
        for (uint k = 0; k < 16; k++) {
            const float16 columns = vload16(0, area + (t + k) % 16 * 16);
#pragma unroll
            for (uint i = 0; i < ROWS; i++)
                sum[i] = FV_MAD((float16)(area[256 + 16 * i + k]), columns, sum[i]);
        }
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
        all += sum[i];
    all.s01234567 += all.s89abcdef;
    all.s0123 += all.s4567;
    out[get_global_id(0)] = all.s0 + all.s1 + all.s2 + all.s3;
}
#endif

#if FV_PROBE == FV_PROBE_BEST
/* Neighbouring work-items read neighbouring values. */
typedef float4 values;
#define SUM(v) (v.x + v.y + v.z + v.w)
#define EACH(i, n) for (uint i = (uint)get_global_id(0); i < n; i += (uint)get_global_size(0))

/* 128 multiply-adds of values per iteration and work-item; 8 of them are independent at a time. */
kernel void compute(global float *out, const uint iterations)
{
    values a = (values)((float)get_global_id(0)), b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
    values e = a + 4.0f, f = a + 5.0f, g = a + 6.0f, h = a + 7.0f;
    const values factor = (values)(0.999f), term = (values)(0.001f);
    for (uint t = 0; t < iterations; t++)
        for (uint k = 0; k < 16; k++) {
            a = mad(a, factor, term);
            b = mad(b, factor, term);
            c = mad(c, factor, term);
            d = mad(d, factor, term);
            e = mad(e, factor, term);
            f = mad(f, factor, term);
            g = mad(g, factor, term);
            h = mad(h, factor, term);
        }
    a += b + c + d + e + f + g + h;
    out[get_global_id(0)] = SUM(a);
}

kernel void move(global const values *in, global values *out, const uint n)
{
    EACH(i, n)
        out[i] = in[i];
}

kernel void fetch(global const values *in, global float *out, const uint n)
{
    values sum = (values)(0.0f);
    EACH(i, n)
        sum += in[i];
    out[get_global_id(0)] = SUM(sum);
}
#endif
