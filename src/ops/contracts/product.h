/* product.h: names for the dim[] and operands, by number, of products: GEMM, CONV, MATMUL. The
 * contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_CONTRACTS_PRODUCT_H
#define FOVEA_SRC_CONTRACTS_PRODUCT_H

/* GEMM: (rows, K) times the transpose of a weight (N, K); CONV has additional sizes */
enum { FV_GEMM_N = 1, FV_GEMM_K = 2 }; /* dim[]: output columns, reduction length */
enum { FV_CONV_SIZE = 3, FV_CONV_STRIDE = 4, FV_CONV_PAD = 5, FV_CONV_C = 6 };
enum { FV_GEMM_A, FV_GEMM_W, FV_GEMM_BIAS, FV_GEMM_SCALE, FV_GEMM_RES, FV_GEMM_OUT };

/* MATMUL, with GEMM's dim[] */
enum { FV_MATMUL_A, FV_MATMUL_B, FV_MATMUL_OUT };

#endif
