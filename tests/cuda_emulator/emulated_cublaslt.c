/* emulated_cublaslt.c: cuBLASLt for the emulated driver. It computes one kind of product, weight' x
 * rows, with a simple kernel. It refuses every other request, and pointers with less than the
 * stated alignment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_emulator/emulated_driver.h"

#define FV_CUBLASLT_CALL(name, symbol, parameters) API cublasStatus_t symbol parameters;
#include "cuda/cuda_calls.inc"

enum { INVALID = 7, FAILED = 13, UNSUPPORTED = 15 };

struct cublasLtContext {
    CUmodule module;
    CUfunction product;
};
struct cublasLtMatmulDescOpaque_st {
    int transposed;
};
struct cublasLtMatrixLayoutOpaque_st {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_st {
    uint64_t workspace_limit;
    uint32_t alignment[4]; /* of A, B, C, D */
};

static const char text[] =
    "extern \"C\" __global__ void product(float *out, const void *weight, const void *rows,\n"
    "                                     int type, unsigned n, unsigned k, unsigned long ld)\n"
    "{\n"
    "    const unsigned j = blockIdx.x * 64 + threadIdx.x, i = blockIdx.y;\n"
    "    if (j >= n)\n"
    "        return;\n"
    "    float sum = 0;\n"
    "    for (unsigned s = 0; s < k; s++) {\n"
    "        const unsigned long at[2] = {j * (unsigned long)k + s, i * ld + s};\n"
    "        const void *from[2] = {weight, rows};\n"
    "        float x[2];\n"
    "        for (int o = 0; o < 2; o++) {\n"
    "            if (type == 0) {\n"
    "                x[o] = ((const float *)from[o])[at[o]];\n"
    "                continue;\n"
    "            }\n"
    "            const unsigned bits = ((const unsigned short *)from[o])[at[o]];\n"
    "            const unsigned low = (bits & 0x7fff) << 13, sign = (bits & 0x8000) << 16;\n"
    "            union { unsigned u; float f; } v;\n"
    "            v.u = bits << 16;\n"
    "            if (type == 2 && low < 0x400u << 13) /* not as a denormal float: it may be 0 */\n"
    "                v.f = (float)(bits & 0x3ff) * 0x1p-24f;\n"
    "            else if (type == 2) /* float16's exponents begin 112 later */\n"
    "                v.u = low >= 0x7c00u << 13 ? low | 0x7f800000 : low + (112u << 23);\n"
    "            if (type == 2)\n"
    "                v.u |= sign;\n"
    "            x[o] = v.f;\n"
    "        }\n"
    "        sum += x[0] * x[1];\n"
    "    }\n"
    "    out[i * (unsigned long)n + j] = sum;\n"
    "}\n";

/* ---- objects ---- */

static void *made(const void *like, size_t size)
{
    void *object = malloc(size);
    if (!object)
        abort();
    memcpy(object, like, size);
    return object;
}

static bool make_module(struct cublasLtContext *c)
{
    char target[40];
    const char *const options[] = {target};
    nvrtcProgram program;
    size_t size;
    char *image = NULL;
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d", emulated_capability());
    bool fine = nvrtcCreateProgram(&program, text, "product", 0, NULL, NULL) == NVRTC_SUCCESS &&
                nvrtcCompileProgram(program, 1, options) == NVRTC_SUCCESS &&
                nvrtcGetCUBINSize(program, &size) == NVRTC_SUCCESS &&
                (image = malloc(size)) != NULL && nvrtcGetCUBIN(program, image) == NVRTC_SUCCESS &&
                cuModuleLoadDataEx(&c->module, image, 0, NULL, NULL) == CUDA_SUCCESS &&
                cuModuleGetFunction(&c->product, c->module, "product") == CUDA_SUCCESS;
    nvrtcDestroyProgram(&program);
    free(image);
    return fine;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    struct cublasLtContext c = {NULL, NULL};
    if (!make_module(&c))
        return FAILED;
    *handle = made(&c, sizeof c);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    cuModuleUnload(handle->module);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    const struct cublasLtMatmulDescOpaque_st d = {0};
    *desc = made(&d, sizeof d);
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : INVALID;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size)
{
    if (attribute != CUBLASLT_MATMUL_DESC_TRANSA || size != sizeof desc->transposed)
        return INVALID;
    memcpy(&desc->transposed, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    const struct cublasLtMatrixLayoutOpaque_st l = {type, rows, cols, ld};
    if (ld < (int64_t)rows)
        return INVALID;
    *layout = made(&l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size)
{
    if (size != sizeof(uint64_t))
        return INVALID;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_COLS)
        memcpy(&layout->columns, value, size);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_LD)
        memcpy(&layout->ld, value, size);
    else
        return INVALID;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    const struct cublasLtMatmulPreferenceOpaque_st p = {0, {256, 256, 256, 256}};
    *preference = made(&p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size)
{
    const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
        size == sizeof preference->workspace_limit)
        memcpy(&preference->workspace_limit, value, size);
    else if (which >= 0 && which < 4 && size == sizeof *preference->alignment)
        memcpy(&preference->alignment[which], value, size);
    else
        return INVALID;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

static bool is_known(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                     cublasLtMatrixLayout_t d)
{
    return desc->transposed == CUBLAS_OP_T && a->rows == b->rows && a->ld == (int64_t)a->rows &&
           a->type == b->type && d->type == CUDA_R_32F && d->rows == a->columns &&
           d->columns == b->columns && d->ld == (int64_t)d->rows;
}

/* The algorithm contains the description of the product that it was chosen for. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference,
                                              int workspace_limit,
                                              cublasLtMatmulHeuristicResult_t *result, int *count)
{
    (void)handle;
    *count = c == d && workspace_limit > 0 && is_known(desc, a, b, d);
    if (*count == 0)
        return UNSUPPORTED;
    *result =
        (cublasLtMatmulHeuristicResult_t){.workspaceSize = (size_t)preference->workspace_limit};
    result->algo.data[0] = b->columns;
    result->algo.data[1] = preference->workspace_limit;
    for (int i = 0; i < 4; i++)
        result->algo.data[2 + i] = preference->alignment[i];
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_aligned(const void *p, uint64_t to)
{
    return to == 0 || (uintptr_t)p % to == 0;
}

/* Writes the whole workspace, as an algorithm that uses it would. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_size, CUstream stream)
{
    int type = a_layout->type;
    unsigned n = (unsigned)a_layout->columns, k = (unsigned)a_layout->rows;
    uint64_t ld = (uint64_t)b_layout->ld;
    void *parameters[] = {&d, &a, &b, &type, &n, &k, &ld};
    if (*(const float *)alpha != 1 || *(const float *)beta != 0 || c != d || c_layout != d_layout ||
        !is_known(desc, a_layout, b_layout, d_layout))
        return UNSUPPORTED;
    if (algo && (algo->data[0] != b_layout->columns || algo->data[1] > workspace_size ||
                 !is_aligned(a, algo->data[2]) || !is_aligned(b, algo->data[3]) ||
                 !is_aligned(d, algo->data[5])))
        return INVALID;
    if (cuMemsetD8Async((CUdeviceptr)(uintptr_t)workspace, 0xff, workspace_size, stream) !=
            CUDA_SUCCESS ||
        cuLaunchKernel(handle->product, (n + 63) / 64, (unsigned)b_layout->columns, 1, 64, 1, 1, 0,
                       stream, parameters, NULL) != CUDA_SUCCESS)
        return FAILED;
    return CUBLAS_STATUS_SUCCESS;
}
