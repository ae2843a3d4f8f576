/* test_cuda_emulator.c: the emulated CUDA driver itself: kernels whose results are known, and
 * kernels with mistakes that it has to find.
 *
 *   test_cuda_emulator path/to/libemulated_cuda.so
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/half.h"
#include "cuda/cuda_loader.h"
#include "tests/devices/hostile.h"

enum { ILLEGAL_ADDRESS = 700, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719 };

static const fv_nvrtc_api *nvrtc;

static CUmodule module;
static CUstream stream;
static CUevent done;

/* ---- kernels ---- */

/* f(lane, i): numbers that float16 and bfloat16 represent exactly. */
static const char program[] =
    "#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)\n"
    "extern \"C\" __global__ void __launch_bounds__(256) turn(const float *in, float *out, int n)\n"
    "{\n"
    "    __shared__ float room[256];\n"
    "    room[threadIdx.x] = in[INDEX];\n"
    "    __syncthreads();\n"
    "    out[INDEX] = room[255 - threadIdx.x] + (float)n;\n"
    "}\n"
    "extern \"C\" __global__ void beyond(float *out, unsigned at)\n"
    "{\n"
    "    out[at] = 1.f;\n"
    "}\n"
    "struct __align__(16) four { float x[4]; };\n"
    "extern \"C\" __global__ void crooked(float *out)\n"
    "{\n"
    "    *(four *)(out + 1) = four{};\n"
    "}\n"
    "extern \"C\" __global__ void outside(float *out, unsigned at)\n"
    "{\n"
    "    __shared__ float room[32];\n"
    "    room[at] = 1.f;\n"
    "    out[0] = room[0];\n"
    "}\n"
    "extern \"C\" __global__ void alone(float *out)\n"
    "{\n"
    "    if (threadIdx.x == 0)\n"
    "        fv_warp_sync();\n"
    "    __syncthreads();\n"
    "    out[threadIdx.x] = 1.f;\n"
    "}\n"
    "extern \"C\" __global__ void sums(float *out)\n"
    "{\n"
    "    float x = (float)threadIdx.x;\n"
    "    for (int i = 16; i > 0; i /= 2)\n"
    "        x += fv_shfl_xor(x, i);\n"
    "    out[2 * threadIdx.x] = x;\n"
    "    out[2 * threadIdx.x + 1] = (float)fv_ones(fv_ballot(threadIdx.x % 3 == 0));\n"
    "}\n"
    "extern \"C\" __global__ void copies(const float *in, float *out, int wait)\n"
    "{\n"
    "    __shared__ __align__(16) float room[3][128];\n"
    "    for (int i = 0; i < 3; i++) {\n"
    "        fv_cp_async16_part(room[i] + 4 * threadIdx.x, in + 128 * i + 4 * threadIdx.x, 12);\n"
    "        fv_cp_commit();\n"
    "    }\n"
    "    if (wait)\n"
    "        fv_cp_wait<1>();\n"
    "    __syncthreads();\n"
    "    for (int i = 0; i < 4; i++) {\n"
    "        out[4 * threadIdx.x + i] = room[0][127 - 4 * threadIdx.x - i];\n"
    "        out[128 + 4 * threadIdx.x + i] = room[1][127 - 4 * threadIdx.x - i];\n"
    "    }\n"
    "    fv_cp_wait<0>();\n"
    "}\n"
    /* B comes from shared memory with ldmatrix; A, and B in tf32, are loaded element by element. */
    "template <int KIND> __device__ void product(const unsigned short *a, const unsigned short "
    "*b,\n"
    "                                            float *d)\n"
    "{\n"
    "    __shared__ __align__(16) unsigned short x[16][16], y[16][8];\n"
    "    const unsigned lane = threadIdx.x, g = lane / 4, t = lane % 4;\n"
    "    for (unsigned i = lane; i < 256; i += 32)\n"
    "        x[i / 16][i % 16] = a[i];\n"
    "    for (unsigned i = lane; i < 128; i += 32)\n"
    "        y[i / 8][i % 8] = b[i];\n"
    "    fv_warp_sync();\n"
    "    unsigned p[4], q[4];\n"
    "    float sum[4] = {1.f, 1.f, 1.f, 1.f};\n"
    "    for (unsigned i = 0; i < 4; i++)\n"
    "        p[i] = *(const unsigned *)&x[g + i % 2 * 8][2 * t + i / 2 * 8];\n"
    "    fv_ldmatrix_x4_trans(q, y[lane % 16]);\n"
    "    if (KIND == 0)\n"
    "        fv_mma_f16(sum, p, q);\n"
    "    else\n"
    "        fv_mma_bf16(sum, p, q);\n"
    "    for (unsigned i = 0; i < 4; i++)\n"
    "        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];\n"
    "}\n"
    "extern \"C\" __global__ void product0(const unsigned short *a, const unsigned short *b, float "
    "*d)\n"
    "{\n"
    "    product<0>(a, b, d);\n"
    "}\n"
    "extern \"C\" __global__ void product1(const unsigned short *a, const unsigned short *b, float "
    "*d)\n"
    "{\n"
    "    product<1>(a, b, d);\n"
    "}\n"
    "extern \"C\" __global__ void product2(const float *a, const float *b, float *d)\n"
    "{\n"
    "    const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4;\n"
    "    const unsigned p[4] = {fv_tf32(a[g * 8 + t]), fv_tf32(a[(g + 8) * 8 + t]),\n"
    "                           fv_tf32(a[g * 8 + t + 4]), fv_tf32(a[(g + 8) * 8 + t + 4])};\n"
    "    const unsigned q[2] = {fv_tf32(b[t * 8 + g]), fv_tf32(b[(t + 4) * 8 + g])};\n"
    "    float sum[4] = {1.f, 1.f, 1.f, 1.f};\n"
    "    fv_mma_tf32(sum, p, q);\n"
    "    for (unsigned i = 0; i < 4; i++)\n"
    "        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sum[i];\n"
    "}\n";

/* ---- calls ---- */

#define GOOD(call) assert_int_equal(call, CUDA_SUCCESS)

static void compile(const char *text, char **image)
{
    static const char *const options[] = {"--gpu-architecture=sm_80", "-std=c++17",
                                          "-default-device"};
    nvrtcProgram p;
    size_t size;
    GOOD(nvrtc->nvrtcCreateProgram(&p, text, "program.cu", 0, NULL, NULL));
    const nvrtcResult result = nvrtc->nvrtcCompileProgram(p, 3, options);
    GOOD(nvrtc->nvrtcGetProgramLogSize(p, &size));
    char *log = calloc(size, 1);
    GOOD(nvrtc->nvrtcGetProgramLog(p, log));
    if (result != NVRTC_SUCCESS)
        fail_msg("%s", log);
    free(log);
    GOOD(nvrtc->nvrtcGetCUBINSize(p, &size));
    *image = malloc(size);
    GOOD(nvrtc->nvrtcGetCUBIN(p, *image));
    GOOD(nvrtc->nvrtcDestroyProgram(&p));
}

static CUfunction function(const char *name)
{
    CUfunction f;
    GOOD(fv_cuda.cuModuleGetFunction(&f, module, name));
    return f;
}

static CUdeviceptr device_floats(size_t n)
{
    CUdeviceptr p;
    GOOD(fv_cuda.cuMemAlloc(&p, n * sizeof(float)));
    return p;
}

/* Returns the device's status after all work is done; kernels may have failed by then. */
static CUresult await(void)
{
    const struct timespec moment = {.tv_nsec = 100000};
    CUresult error = fv_cuda.cuEventRecord(done, stream);
    if (error == CUDA_SUCCESS)
        error = fv_cuda.cuEventQuery(done);
    for (; error == CUDA_ERROR_NOT_READY; error = fv_cuda.cuEventQuery(done))
        nanosleep(&moment, NULL);
    return error;
}

static CUresult launch(const char *name, unsigned blocks, unsigned threads, void **params)
{
    GOOD(fv_cuda.cuLaunchKernel(function(name), blocks, 1, 1, threads, 1, 1, 0, stream, params,
                                NULL));
    return await();
}

static void upload(CUdeviceptr to, const void *from, size_t bytes)
{
    GOOD(fv_cuda.cuMemcpyHtoDAsync(to, from, bytes, stream));
    GOOD(await());
}

static void download(void *to, CUdeviceptr from, size_t bytes)
{
    GOOD(fv_cuda.cuMemcpyDtoHAsync(to, from, bytes, stream));
    GOOD(await());
}

static int begin(void **state)
{
    (void)state;
    static char *image;
    CUcontext context;
    if (!image)
        compile(program, &image);
    return fv_cuda.cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
           fv_cuda.cuCtxPushCurrent(context) != CUDA_SUCCESS ||
           fv_cuda.cuModuleLoadDataEx(&module, image, 0, NULL, NULL) != CUDA_SUCCESS ||
           fv_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
           fv_cuda.cuEventCreate(&done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS;
}

/* Destroying the context frees everything that the test did not free. */
static int end(void **state)
{
    (void)state;
    fv_cuda.cuEventDestroy(done);
    fv_cuda.cuStreamDestroy(stream);
    fv_cuda.cuModuleUnload(module);
    fv_cuda.cuCtxPopCurrent(NULL);
    fv_cuda.cuDevicePrimaryCtxRelease(0);
    hostile.set(NULL, 0);
    return hostile.live(NULL) != 0;
}

/* ---- correct kernels ---- */

static void barriers(void **state)
{
    (void)state;
    enum { N = 1024 };
    float in[N], out[N];
    CUdeviceptr a = device_floats(N), b = device_floats(N);
    int three = 3;
    void *params[] = {&a, &b, &three};
    for (int i = 0; i < N; i++)
        in[i] = (float)i;
    upload(a, in, sizeof in);
    for (int order = 0; order < 2; order++) {
        hostile.set("order", order);
        GOOD(launch("turn", N / 256, 256, params));
        download(out, b, sizeof out);
        for (int i = 0; i < N; i++)
            assert_true(out[i] == (float)(i / 256 * 256 + 255 - i % 256 + 3));
    }
    /* Without barriers a kernel reads values that are not written yet, in either order of threads.
     */
    hostile.set("barrier", 0);
    for (int order = 0; order < 2; order++) {
        int wrong = 0;
        hostile.set("order", order);
        GOOD(launch("turn", N / 256, 256, params));
        download(out, b, sizeof out);
        for (int i = 0; i < N; i++)
            wrong += !(out[i] == (float)(i / 256 * 256 + 255 - i % 256 + 3));
        assert_int_equal(wrong, N / 2);
    }
}

static void warps(void **state)
{
    (void)state;
    float out[64];
    CUdeviceptr b = device_floats(64);
    void *params[] = {&b};
    GOOD(launch("sums", 1, 32, params));
    download(out, b, sizeof out);
    for (int i = 0; i < 32; i++) {
        assert_true(out[2 * i] == 496.f);
        assert_true(out[2 * i + 1] == 11.f);
    }
}

static void copying(void **state)
{
    (void)state;
    float in[384], out[256];
    CUdeviceptr a = device_floats(384), b = device_floats(256);
    int wait = 1;
    void *params[] = {&a, &b, &wait};
    for (int i = 0; i < 384; i++)
        in[i] = (float)(i + 1);
    upload(a, in, sizeof in);
    for (int order = 0; order < 2; order++) {
        hostile.set("order", order);
        GOOD(launch("copies", 1, 32, params));
        download(out, b, sizeof out);
        for (int i = 0; i < 256; i++) {
            const int from = i / 128 * 128 + 127 - i % 128;
            assert_true(out[i] == (from % 4 == 3 ? 0.f : in[from]));
        }
    }
    /* Without the wait the data is not there. */
    wait = 0;
    hostile.set("order", 0);
    GOOD(launch("copies", 1, 32, params));
    download(out, b, sizeof out);
    assert_true(out[0] != out[0]);
}

static float number(int i, int salt)
{
    return (float)((i * 37 + salt * 11) % 23 - 11) * 0.125f;
}

static void products(void **state)
{
    (void)state;
    uint16_t a[256], b[128];
    float d[128], x[128], y[64];
    CUdeviceptr pa = device_floats(128), pb = device_floats(64), pd = device_floats(128);
    void *params[] = {&pa, &pb, &pd};
    for (int kind = 0; kind < 3; kind++) {
        const int depth = kind == 2 ? 8 : 16;
        char name[] = "product0";
        name[7] = (char)('0' + kind);
        for (int i = 0; i < 256; i++)
            a[i] = kind ? fv_bf16_of_float(number(i, 1)) : fv_f16_of_float(number(i, 1));
        for (int i = 0; i < 128; i++)
            b[i] = kind ? fv_bf16_of_float(number(i, 2)) : fv_f16_of_float(number(i, 2));
        for (int i = 0; i < 128; i++)
            x[i] = number(i, 1);
        for (int i = 0; i < 64; i++)
            y[i] = number(i, 2);
        upload(pa, kind == 2 ? (void *)x : a, 512);
        upload(pb, kind == 2 ? (void *)y : b, 256);
        GOOD(launch(name, 1, 32, params));
        download(d, pd, sizeof d);
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < 8; c++) {
                float sum = 1.f;
                for (int k = 0; k < depth; k++)
                    sum += number(r * depth + k, 1) * number(k * 8 + c, 2);
                assert_true(d[r * 8 + c] == sum);
            }
    }
}

/* A graph uses the parameter values of the time of capture, and runs only when it is launched. */
static void graphs(void **state)
{
    (void)state;
    float in[256], out[256];
    CUdeviceptr a = device_floats(256), b = device_floats(256);
    CUstream side;
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec exec;
    int add = 1;
    void *there[] = {&a, &b, &add}, *back[] = {&b, &a, &add};
    for (int i = 0; i < 256; i++)
        in[i] = (float)i;
    upload(a, in, sizeof in);
    GOOD(fv_cuda.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    GOOD(fv_cuda.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    GOOD(fv_cuda.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    GOOD(fv_cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    GOOD(fv_cuda.cuLaunchKernel(function("turn"), 1, 1, 1, 256, 1, 1, 0, stream, there, NULL));
    GOOD(fv_cuda.cuEventRecord(fork, stream));
    GOOD(fv_cuda.cuStreamWaitEvent(side, fork, 0));
    add = 10;
    GOOD(fv_cuda.cuLaunchKernel(function("turn"), 1, 1, 1, 256, 1, 1, 0, side, back, NULL));
    GOOD(fv_cuda.cuEventRecord(join, side));
    GOOD(fv_cuda.cuStreamWaitEvent(stream, join, 0));
    GOOD(fv_cuda.cuStreamEndCapture(stream, &graph));
    GOOD(fv_cuda.cuGraphInstantiate(&exec, graph, 0));
    GOOD(fv_cuda.cuGraphDestroy(graph));
    download(out, a, sizeof out);
    assert_memory_equal(out, in, sizeof in);
    for (int n = 1; n <= 3; n++) {
        GOOD(fv_cuda.cuGraphLaunch(exec, stream));
        download(out, a, sizeof out);
        for (int i = 0; i < 256; i++)
            assert_true(out[i] == (float)(i + 11 * n));
    }
    GOOD(fv_cuda.cuGraphExecDestroy(exec));
    GOOD(fv_cuda.cuEventDestroy(fork));
    GOOD(fv_cuda.cuEventDestroy(join));
    GOOD(fv_cuda.cuStreamDestroy(side));
}

/* ---- detected errors ---- */

static void broken_by(CUresult error)
{
    CUdeviceptr p;
    assert_int_equal(fv_cuda.cuMemAlloc(&p, 4), error);
}

static void illegal(void **state)
{
    (void)state;
    CUdeviceptr b = device_floats(1024);
    unsigned at = 1024;
    void *params[] = {&b, &at};
    assert_int_equal(launch("beyond", 1, 1, params), ILLEGAL_ADDRESS);
    broken_by(ILLEGAL_ADDRESS);
}

/* A write beyond the end, but in the same page, is detected when the memory is freed. */
static void behind(void **state)
{
    (void)state;
    CUdeviceptr b = device_floats(10);
    unsigned at = 10;
    void *params[] = {&b, &at};
    const long before = hostile.misuse();
    GOOD(launch("beyond", 1, 1, params));
    GOOD(fv_cuda.cuMemFree(b));
    assert_int_equal(hostile.misuse(), before + 1);
}

static void misaligned(void **state)
{
    (void)state;
    CUdeviceptr b = device_floats(16);
    void *params[] = {&b};
    assert_int_equal(launch("crooked", 1, 1, params), MISALIGNED_ADDRESS);
}

static void out_of_array(void **state)
{
    (void)state;
    CUdeviceptr b = device_floats(16);
    unsigned at = 32;
    void *params[] = {&b, &at};
    assert_int_equal(launch("outside", 1, 32, params), LAUNCH_FAILED);
}

static void stuck(void **state)
{
    (void)state;
    CUdeviceptr b = device_floats(64);
    void *params[] = {&b};
    assert_int_equal(launch("alone", 1, 64, params), LAUNCH_FAILED);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(barriers), TEST(warps),  TEST(copying),    TEST(products),     TEST(graphs),
        TEST(illegal),  TEST(behind), TEST(misaligned), TEST(out_of_array), TEST(stuck),
    };
    if (argc != 2 || !hostile_open(argv[1]) || fv_cuda_devices() != 1)
        return 1;
    nvrtc = fv_cuda_nvrtc();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
