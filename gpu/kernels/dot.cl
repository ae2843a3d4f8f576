/* dot.cl: adds the products of four pairs of 8-bit integers to a sum. It uses the built-in function
 * of the extension that the probe found to work (FV_DOT), else plain arithmetic. CUDA's version is
 * in cuda_prelude.h. */
#ifndef FV_DOT4
#if FV_DOT == 2
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_accumulate_int8 : enable
#define FV_DOT4(a, b, sum) arm_dot_acc(as_char4(a), as_char4(b), sum)
#elif FV_DOT == 1
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#define FV_DOT4(a, b, sum) dot_acc_sat_4x8packed_ss_int(a, b, sum)
#else
#define FV_DOT4(a, b, sum) fv_dot4_plain(a, b, sum)
static inline int fv_dot4_plain(uint a, uint b, int sum)
{
    const int x = (int)a, y = (int)b;
    sum += (x << 24 >> 24) * (y << 24 >> 24);
    sum += (x << 16 >> 24) * (y << 16 >> 24);
    sum += (x << 8 >> 24) * (y << 8 >> 24);
    return sum + (x >> 24) * (y >> 24);
}
#endif
#endif
