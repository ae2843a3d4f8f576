/* cl_clblast.c: products by CLBlast, followed by the epilogue kernel of gpu_finish.h.
 *
 * CLBlast writes its sums to the step's scratch, from which `finish` of gemm.cl reads them:
 *
 *   scratch   | what CLBlast needs for itself | sums, rows x N (SWIGLU: 2N) |
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "cl/cl_device.h"
#include "cl/cl_kernels.h"
#include "gpu/gpu_finish.h"
#include "ops/ref/ref_gemm.h"

/* Constants of CLBlast's C interface, version 1.5. */
enum { SUCCESS = 0, ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
typedef int multiply_fn(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k,
                        float alpha, cl_mem a, size_t a_offset, size_t a_ld, cl_mem b,
                        size_t b_offset, size_t b_ld, float beta, cl_mem c, size_t c_offset,
                        size_t c_ld, cl_command_queue *queue, cl_event *event, cl_mem temporary);
typedef int temp_size_fn(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k,
                         size_t a_offset, size_t a_ld, size_t b_offset, size_t b_ld,
                         size_t c_offset, size_t c_ld, cl_command_queue *queue, size_t *bytes);
typedef int clear_fn(void);

static struct {
    multiply_fn *multiply;
    temp_size_fn *temp_size;
    clear_fn *clear;
} clblast;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;

/* ---- the library ---- */

/* Whether CLBlast calls the same OpenCL library as we do. It calls the functions of a library that
 * the program has loaded globally, else those of the library that it was linked with. Another
 * library would not know our buffers. */
static bool same_opencl(void *library)
{
    void *const program = dlopen(NULL, RTLD_NOW);
    void *theirs = program ? dlsym(program, "clCreateBuffer") : NULL;
    if (!theirs)
        theirs = dlsym(library, "clCreateBuffer");
    if (program)
        dlclose(program);
    return theirs && memcmp(&theirs, &fv_cl.clCreateBuffer, sizeof theirs) == 0;
}

static void find_clblast(void)
{
    void *library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    *(void **)&clblast.multiply = dlsym(library, "CLBlastSgemmWithTempBuffer");
    *(void **)&clblast.temp_size = dlsym(library, "CLBlastSGemmTempBufferSize");
    *(void **)&clblast.clear = dlsym(library, "CLBlastClearCache");
    found = clblast.multiply && clblast.temp_size && clblast.clear && same_opencl(library);
    if (!found)
        dlclose(library);
}

bool fv_cl_clblast_found(void)
{
    const fv_cl_place *places;
    if (fv_cl_devices(&places) == 0)
        return false;
    pthread_once(&once, find_clblast);
    return found;
}

void fv_cl_clblast_forget(void)
{
    if (fv_cl_clblast_found())
        clblast.clear();
}

/* CLBlast's error codes are OpenCL's, and some of its own. */
static fovea_status failed(int code, const fv_launch *l)
{
    if (code > -70)
        return fv_cl_fail(code, "CLBlast", l->kernel->name);
    return fv_fail(FOVEA_EDEVICE,
                   "%s: CLBlast failed with code %d; run without CLBlast, or close the device and "
                   "open it again",
                   l->kernel->name, code);
}

/* ---- one product ---- */

enum { PADDED = 128 }; /* maximum tile to which CLBlast pads sizes */

static size_t round_up(size_t n)
{
    return (n + PADDED - 1) / PADDED * PADDED;
}

static cl_mem buffer_of(uint64_t handle)
{
    return (cl_mem)(uintptr_t)handle;
}

/* Floats of scratch that CLBlast needs for itself: both operands and the product, padded. */
static size_t own_floats(const fv_problem *p, uint32_t rows)
{
    const size_t m = round_up(rows), n = round_up(fv_gpu_sums_width(p)),
                 k = round_up(p->dim[FV_GEMM_K]);
    return m * k + n * k + m * n;
}

/* Runs a product once, because CLBlast compiles its kernels at the first call in a context; a frame
 * must not wait for that. */
static fovea_status prepare(const fv_launch *l, const fv_gpu_before *c)
{
    const fv_problem *p = &l->args.prob;
    const size_t n = fv_gpu_sums_width(p), k = p->dim[FV_GEMM_K], own = own_floats(p, l->tile_rows);
    const size_t last = own + (size_t)l->tile_rows * n - 1;
    cl_command_queue queue = c->queue;
    cl_mem weight = buffer_of(c->buffer[FV_GEMM_W]), scratch = buffer_of(c->scratch);
    size_t bytes = 0;
    int code = clblast.temp_size(ROW_MAJOR, PLAIN, TRANSPOSED, l->tile_rows, n, k, 1, k + 1, 1,
                                 k + 1, 1, n + 1, &queue, &bytes);
    if (code != SUCCESS)
        return failed(code, l);
    if (bytes > own * sizeof(float))
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: CLBlast needs %zu bytes of temporary memory, but %zu were planned",
                       l->kernel->name, bytes, own * sizeof(float));
    code = clblast.multiply(ROW_MAJOR, PLAIN, TRANSPOSED, 1, 1, 1, 1, weight, 0, 1, weight, 0, 1, 0,
                            scratch, last, 1, &queue, (cl_event *)c->event, scratch);
    return code == SUCCESS ? FOVEA_OK : failed(code, l);
}

static size_t sums_at(const fv_launch *l)
{
    return own_floats(&l->args.prob, l->tile_rows);
}

static fovea_status multiply(const fv_launch *l, const fv_gpu_before *c)
{
    const fv_problem *p = &l->args.prob;
    const size_t n = fv_gpu_sums_width(p), k = p->dim[FV_GEMM_K];
    const size_t ld = c->ld[FV_GEMM_A] ? c->ld[FV_GEMM_A] : k; /* one row has none */
    cl_command_queue queue = c->queue;
    cl_mem scratch = buffer_of(c->scratch);
    const int code = clblast.multiply(
        ROW_MAJOR, PLAIN, TRANSPOSED, c->rows, n, k, 1, buffer_of(c->buffer[FV_GEMM_A]),
        c->at[FV_GEMM_A], ld, buffer_of(c->buffer[FV_GEMM_W]), c->at[FV_GEMM_W], k, 0, scratch,
        sums_at(l), n, &queue, (cl_event *)c->event, scratch);
    return code == SUCCESS ? FOVEA_OK : failed(code, l);
}

FV_GPU_CODE(fv_cl_gemm_clblast, "gemm", "finish", 64, .define = fv_gpu_finish_define,
            .shape = fv_gpu_finish_shape, .align = 64, .prepare = prepare, .before = multiply,
            .left = sums_at)

/* ---- what the planner asks ---- */

/* Whether offsets within the scratch fit 32 bits. */
static bool applies(const fv_problem *p)
{
    return p->in == FV_F32 && p->weight == FV_F32 &&
           own_floats(p, p->dim[FV_DIM_ROWS]) <= UINT32_MAX;
}

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs;
    return (own_floats(p, rows) + rows * fv_gpu_sums_width(p)) * sizeof(float);
}

/* Cost in seconds, comparable with gpu_gemm.c's. CLBlast is slower than our own kernels if local
 * memory is main memory. Else it is faster for large products only, because it moves every operand
 * twice. */
static double cost_local(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_problem_flops(p) / 250e9 + 4e-3;
}

const fv_kernel_hooks fv_h_cl_clblast = {.applies = applies,
                                         .rate = 80e9,
                                         .scratch = scratch,
                                         .packed = fv_ref_rows_packed,
                                         .pack = fv_ref_rows_pack,
                                         .format = "cl_rows_f32"};
const fv_kernel_hooks fv_h_cl_clblast_local = {.applies = applies,
                                               .cost = cost_local,
                                               .scratch = scratch,
                                               .packed = fv_ref_rows_packed,
                                               .pack = fv_ref_rows_pack,
                                               .format = "cl_rows_f32"};
