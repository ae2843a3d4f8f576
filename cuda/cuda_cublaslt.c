/* cuda_cublaslt.c: products by cuBLASLt, followed by the epilogue kernel of gpu_finish.h.
 *
 * cuBLASLt writes its sums to the step's scratch, from which `finish` of gemm.cl reads them:
 *
 *   scratch   | what cuBLASLt needs for itself | sums, rows x N (SWIGLU: 2N) |
 *
 * cuBLASLt's matrices are column-major, so that ours appear transposed to it. It computes sums' =
 * weight A', with the weight as the transposed operand.
 */
#include "base/mem.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_kernels.h"
#include "cuda/cuda_operands.h"
#include "gpu/gpu_finish.h"
#include "ops/ref/ref_gemm.h"

enum {
    OWN = 8 << 20
    /* Bytes of scratch for cuBLASLt itself, a multiple of every alignment; more would allow more
     * algorithms. */
};

/* A step's product, described for cuBLASLt. */
struct product {
    cublasLtHandle_t handle; /* the device's */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t weight, rows, sums; /* `rows` are A's */
    cublasLtMatmulAlgo_t algo;                 /* for calls of `planned` rows */
    uint32_t planned;
};

static fovea_status failed(cublasStatus_t error, const char *call, const char *what)
{
    if (error == CUBLAS_STATUS_ALLOC_FAILED)
        return fv_fail(FOVEA_ENOMEM,
                       "%s %s: out of memory; use a smaller picture or a memory limit", call, what);
    return fv_fail(FOVEA_EDEVICE, "%s %s: cuBLASLt error %d; close the device and open it again",
                   call, what, error);
}
#define TRY(what, call, arguments)                                                                 \
    do {                                                                                           \
        const cublasStatus_t error_ = fv_cuda_cublaslt()->call arguments;                          \
        if (error_ != CUBLAS_STATUS_SUCCESS)                                                       \
            return failed(error_, #call, what);                                                    \
    } while (0)

/* ---- the device's part ---- */

/* The device's cuBLASLt handle, created at the first call. */
static fovea_status handle_of(fv_device *d, cublasLtHandle_t *out)
{
    cublasStatus_t error = CUBLAS_STATUS_SUCCESS;
    pthread_mutex_lock(&d->lock);
    if (!d->blas)
        error = fv_cuda_cublaslt()->cublasLtCreate(&d->blas);
    *out = d->blas;
    pthread_mutex_unlock(&d->lock);
    return error == CUBLAS_STATUS_SUCCESS ? FOVEA_OK : failed(error, "cublasLtCreate", "");
}

void fv_cuda_cublaslt_close(fv_device *d)
{
    if (d->blas && !d->hung)
        fv_cuda_cublaslt()->cublasLtDestroy(d->blas);
    d->blas = NULL;
}

/* ---- the step's part ---- */

static void forget(void *own)
{
    struct product *p = own;
    const fv_cublaslt_api *lt = fv_cuda_cublaslt();
    const cublasLtMatrixLayout_t layouts[] = {p->weight, p->rows, p->sums};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i])
            lt->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (p->desc)
        lt->cublasLtMatmulDescDestroy(p->desc);
    fv_mem_free(p);
}

static fovea_status make_layout(cublasLtMatrixLayout_t *out, const char *what, cudaDataType_t type,
                                uint64_t rows, uint64_t columns, uint64_t ld)
{
    cublasLtMatrixLayout_t layout;
    TRY(what, cublasLtMatrixLayoutCreate, (&layout, type, rows, columns, (int64_t)ld));
    *out = layout;
    return FOVEA_OK;
}

/* Elements from one row of A to the next; a single row may have any number. */
static uint64_t ld_of(const fv_launch *l, uint32_t ld)
{
    return ld ? ld : l->args.prob.dim[FV_GEMM_K];
}

static fovea_status describe_product(struct product *p, const fv_launch *l)
{
    static const cudaDataType_t types[] = {
        [FV_F32] = CUDA_R_32F, [FV_F16] = CUDA_R_16F, [FV_BF16] = CUDA_R_16BF};
    const char *name = l->kernel->name;
    const fv_problem *prob = &l->args.prob;
    const uint64_t n = fv_gpu_sums_width(prob), k = prob->dim[FV_GEMM_K];
    const cudaDataType_t type = types[prob->weight];
    const int transposed = CUBLAS_OP_T;
    cublasLtMatmulDesc_t desc;
    TRY(name, cublasLtMatmulDescCreate, (&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    p->desc = desc;
    TRY(name, cublasLtMatmulDescSetAttribute,
        (desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    FV_TRY(make_layout(&p->weight, name, type, k, n, k));
    FV_TRY(make_layout(&p->rows, name, type, k, p->planned, ld_of(l, l->args.ld[FV_GEMM_A])));
    return make_layout(&p->sums, name, CUDA_R_32F, n, p->planned, n);
}

static fovea_status limit(cublasLtMatmulPreference_t preference, const fv_launch *l)
{
    const char *name = l->kernel->name;
    const fv_problem *p = &l->args.prob;
    const uint64_t workspace = OWN, size = fv_type_size(p->weight);
    const fv_operand *a = &l->operand[FV_GEMM_A], *w = &l->operand[FV_GEMM_W];
    const uint32_t of_weight = fv_cuda_row_alignment(w->ref.offset, p->dim[FV_GEMM_K] * size);
    const uint32_t of_rows =
        fv_cuda_row_alignment(a->ref.offset, ld_of(l, l->args.ld[FV_GEMM_A]) * size);
    const uint32_t of_sums = fv_cuda_row_alignment(OWN, fv_gpu_sums_width(p) * sizeof(float));
    TRY(name, cublasLtMatmulPreferenceSetAttribute,
        (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    TRY(name, cublasLtMatmulPreferenceSetAttribute,
        (preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &of_weight, sizeof of_weight));
    TRY(name, cublasLtMatmulPreferenceSetAttribute,
        (preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &of_rows, sizeof of_rows));
    TRY(name, cublasLtMatmulPreferenceSetAttribute,
        (preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &of_sums, sizeof of_sums));
    TRY(name, cublasLtMatmulPreferenceSetAttribute,
        (preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &of_sums, sizeof of_sums));
    return FOVEA_OK;
}

static fovea_status choose_algorithm(struct product *p, const fv_launch *l,
                                     cublasLtMatmulPreference_t preference)
{
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    FV_TRY(limit(preference, l));
    TRY(l->kernel->name, cublasLtMatmulAlgoGetHeuristic,
        (p->handle, p->desc, p->weight, p->rows, p->sums, p->sums, preference, 1, &result, &count));
    if (count < 1 || result.state != CUBLAS_STATUS_SUCCESS)
        return fv_fail(FOVEA_ENOTSUP, "%s: cuBLASLt has no algorithm for this product",
                       l->kernel->name);
    p->algo = result.algo;
    return FOVEA_OK;
}

static fovea_status fill_product(struct product *p, const fv_launch *l, fv_device *d)
{
    cublasLtMatmulPreference_t preference;
    p->planned = l->tile_rows;
    FV_TRY(handle_of(d, &p->handle));
    FV_TRY(describe_product(p, l));
    TRY(l->kernel->name, cublasLtMatmulPreferenceCreate, (&preference));
    const fovea_status status = choose_algorithm(p, l, preference);
    fv_cuda_cublaslt()->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static fovea_status prepare(const fv_launch *l, const fv_gpu_before *c)
{
    struct product *p;
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_PLAN, "a product"));
    const fovea_status status = fill_product(p, l, c->device);
    if (status == FOVEA_OK)
        *c->own = p;
    else
        forget(p);
    return status;
}

/* ---- one product ---- */

/* Sets the number of rows of a call, which may be fewer than planned; nothing else depends on
 * it. */
static fovea_status set_rows(const struct product *p, const fv_launch *l, const fv_gpu_before *c)
{
    const uint64_t rows = c->rows;
    const int64_t ld = (int64_t)ld_of(l, c->ld[FV_GEMM_A]);
    TRY(l->kernel->name, cublasLtMatrixLayoutSetAttribute,
        (p->rows, CUBLASLT_MATRIX_LAYOUT_COLS, &rows, sizeof rows));
    TRY(l->kernel->name, cublasLtMatrixLayoutSetAttribute,
        (p->rows, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld));
    TRY(l->kernel->name, cublasLtMatrixLayoutSetAttribute,
        (p->sums, CUBLASLT_MATRIX_LAYOUT_COLS, &rows, sizeof rows));
    return FOVEA_OK;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static fovea_status multiply(const fv_launch *l, const fv_gpu_before *c)
{
    const struct product *p = *c->own;
    const uint64_t size = fv_type_size(l->args.prob.weight);
    const float one = 1, zero = 0;
    void *sums = pointer(c->scratch + OWN);
    FV_TRY(set_rows(p, l, c));
    TRY(l->kernel->name, cublasLtMatmul,
        (p->handle, p->desc, &one, pointer(c->buffer[FV_GEMM_W] + c->at[FV_GEMM_W] * size),
         p->weight, pointer(c->buffer[FV_GEMM_A] + c->at[FV_GEMM_A] * size), p->rows, &zero, sums,
         p->sums, sums, p->sums, c->rows == p->planned ? &p->algo : NULL, pointer(c->scratch), OWN,
         c->queue));
    return FOVEA_OK;
}

static size_t sums_at(const fv_launch *l)
{
    (void)l;
    return OWN / sizeof(float);
}

FV_GPU_CODE(fv_cuda_gemm_cublaslt, "gemm", "finish", 128, .define = fv_gpu_finish_define,
            .shape = fv_gpu_finish_shape, .align = 128, .prepare = prepare, .before = multiply,
            .forget = forget, .left = sums_at)

/* ---- what the planner asks ---- */

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs;
    return OWN + rows * fv_gpu_sums_width(p) * sizeof(float);
}

/* Cost in seconds, comparable with cuda_gemm.c's. The product is about as fast, but a second kernel
 * reads and writes the sums once more. */
static double cost(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    const double flop = p->weight == FV_F32 ? 1.2e-12 : 0.2e-12;
    const double sums = 2.0 * sizeof(float) * p->dim[FV_DIM_ROWS] * (double)fv_gpu_sums_width(p);
    return fv_problem_flops(p) * flop + sums * 50e-12 + 2e-3;
}

#define OF_TYPE(TYPE, type)                                                                        \
    static bool applies_##type(const fv_problem *p)                                                \
    {                                                                                              \
        return p->in == TYPE && p->weight == TYPE;                                                 \
    }                                                                                              \
    const fv_kernel_hooks fv_h_cuda_cublaslt_##type = {                                            \
        .applies = applies_##type,                                                                 \
        .cost = cost,                                                                              \
        .scratch = scratch,                                                                        \
        .packed = fv_ref_rows_packed,                                                              \
        .pack = fv_ref_rows_pack,                                                                  \
        .format = "cl_rows_" #type,                                                                \
    };
OF_TYPE(FV_F32, f32)
OF_TYPE(FV_F16, f16)
OF_TYPE(FV_BF16, bf16)
