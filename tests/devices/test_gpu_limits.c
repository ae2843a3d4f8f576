/* test_gpu_limits.c: what an OpenCL or a CUDA device has free, and how fast it is, as plans go by
 * it.
 *
 *   test_gpu_limits path/to/libhostile_cl.so
 *   test_gpu_limits path/to/libemulated_cuda.so
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/os/os_cores.h"
#include "platform/os/os_machine.h"
#include "tests/devices/gpu_frames.h"

/* ---- memory ---- */

/* Free memory of the machine, as simulated by this test; --wrap redirects calls here. */
uint64_t __wrap_fv_machine_free(void);
static uint64_t machine_free = UINT64_MAX;
uint64_t __wrap_fv_machine_free(void)
{
    return machine_free;
}

/* Runs a plan of many tokens; returns its output, or NULL. */
static float *run_large(fovea_plan_info *info, size_t *values)
{
    enum { SIDE = 420 };
    static uint8_t pixels[SIDE * SIDE * 3];
    fovea_output_info output = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan *plan;
    fovea_device *device = open_device(0);
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.attention = "linear:elu1";
    options.frame.width = options.frame.height = SIDE;
    *info = (fovea_plan_info)FOVEA_PLAN_INFO_INIT;
    fovea_output out = {NULL, 0};
    if (fovea_plan_create(&plan, model, device, &options) == FOVEA_OK) {
        assert_true(fovea_plan_output(plan, 0, &output));
        assert_int_equal(fovea_plan_query(plan, info), FOVEA_OK);
        *values = (size_t)output.rows * output.columns;
        out = (fovea_output){malloc(*values * sizeof(float)), *values * sizeof(float)};
        for (uint32_t i = 0; i < sizeof pixels; i++)
            pixels[i] = (uint8_t)(i * i / 1000 + i % 7 * 20);
        const fovea_frame frame = {.pixels = {pixels}};
        if (fovea_run(plan, &frame, &out, 1) != FOVEA_OK)
            fail_msg("%s", fovea_error());
        fovea_plan_free(plan);
    }
    fovea_device_close(device);
    nothing_left();
    return out.data;
}

static void same_values(const float *got, const float *want, size_t values)
{
    assert_non_null(got);
    for (size_t k = 0; k < values; k++)
        if (!(fabsf(got[k] - want[k]) <= 2e-5f * (1 + fabsf(want[k]))))
            fail_msg("value %zu: %g, not %g", k, got[k], want[k]);
}

static void say_free(uint64_t bytes)
{
    if (hostile.cuda)
        hostile.set("free", (long)bytes);
    else
        machine_free = bytes;
}

/* Plans do not use device memory that other processes have taken. */
static void little_is_free(void **state)
{
    (void)state;
    fovea_plan_info whole, part;
    size_t values;
    hostile.set("unified", !hostile.cuda);
    float *want = run_large(&whole, &values);
    const uint64_t activations =
        whole.residual + whole.states + whole.chunks + whole.scratch + whole.staging;
    const uint64_t need = whole.weights + activations - whole.chunks / 2;
    say_free(need + need / (hostile.cuda ? 15 : 4) + 64);
    float *out = run_large(&part, &values);
    same_values(out, want, values);
    assert_true(part.chunks < whole.chunks * 3 / 4);
    free(out);
    say_free(whole.weights);
    assert_null(run_large(&part, &values));
    assert_non_null(strstr(fovea_error(), "free"));
    free(want);
    say_free(UINT64_MAX >> 1);
    hostile.set("unified", LONG_MIN);
}

/* Less memory may be available than the driver reports: chunks become smaller until they fit. */
static void less_than_said(void **state)
{
    (void)state;
    fovea_plan_info whole, part;
    size_t values;
    float *want = run_large(&whole, &values);
    uint64_t least = 0;
    for (uint64_t holds = 2 * (whole.weights + whole.chunks); holds > 1 << 10; holds -= holds / 8) {
        hostile.set("holds", (long)holds);
        float *out = run_large(&part, &values);
        if (!out)
            break;
        same_values(out, want, values);
        free(out);
        least = part.chunks;
    }
    assert_true(least > 0 && least < whole.chunks / 2);
    assert_true(strlen(fovea_error()) > 10);
    assert_true(!hostile.cuda || strstr(fovea_error(), "free"));
    hostile.set("holds", LONG_MIN);
    free(want);
}

/* ---- rates ---- */

/* Counts the kernels that run while a plan is made, and during one of its frames. */
static void count_launches(fovea_device *device, long launches[2])
{
    size_t values;
    hostile.only(launch_call());
    hostile.set("fail", 0); /* counts from here */
    fovea_plan *plan = plan_on(device, "linear:elu1");
    launches[0] = hostile.calls();
    hostile.set("fail", 0);
    free(fixture_run(plan, &values));
    launches[1] = hostile.calls();
    fovea_plan_free(plan);
}

/* Has the device say that it has no vectors. A processor that has them is measured when it is
 * opened; the tests that use this need one whose rates are measured by a plan. */
static void say_no_vectors(void)
{
    if (!hostile.cuda)
        hostile.set("vectors", 1);
}

/* Rates are measured once for all processes, which therefore split calls alike. */
static void rates_are_kept(void **state)
{
    (void)state;
    long first[2], second[2];
    forget_rates();
    say_no_vectors();
    hostile.set(hostile.cuda ? "graphs" : "claims", 0); /* makes the calls of a frame visible */
    fovea_device *device = open_device(1e-3);
    count_launches(device, first);
    fovea_device_close(device);
    device = open_device(1e-3);
    count_launches(device, second);
    fovea_device_close(device);
    assert_true(first[0] > 0);
    assert_int_equal(second[0], 0);
    assert_int_equal(second[1], first[1]);
    hostile.set(NULL, 0);
    nothing_left();
}

/* Opens a device that reports to be a GPU; returns the number of kernels that this runs. */
static long open_gpu(fovea_device_info *info)
{
    *info = (fovea_device_info)FOVEA_DEVICE_INFO_INIT;
    hostile.set("gpu", 1);
    hostile.set("vectors", 1);
    hostile.set("half", 2);
    hostile.only(launch_call());
    hostile.set("fail", 0);
    fovea_device *device = open_device(0);
    const long launches = hostile.calls();
    fovea_device_describe(device, info);
    fovea_device_close(device);
    hostile.set(NULL, 0);
    nothing_left();
    return launches;
}

/* Measured rates determine which kernels are preferred, equally in every process. */
static void ranks_are_kept(void **state)
{
    (void)state;
    fovea_device_info first, second;
    if (hostile.cuda)
        skip();
    forget_rates();
    const long measured = open_gpu(&first), known = open_gpu(&second);
    assert_true(known > 0 && known < measured);
    assert_string_equal(first.features, second.features);
    assert_string_equal(first.quirks, second.quirks);
}

/* Describes a device with the current settings, and resets them. */
static void describe_lies(fovea_device_info *info)
{
    *info = (fovea_device_info)FOVEA_DEVICE_INFO_INIT;
    fovea_device *device = open_with(0, "");
    fovea_device_describe(device, info);
    fovea_device_close(device);
    hostile.set(NULL, 0);
    nothing_left();
}

/* Returns whether a device with these settings multiplies int8 in groups of four; fills in *info.
 */
static bool multiplies_int8(long dots, long claims, fovea_device_info *info)
{
    hostile.set("dots", dots);
    hostile.set("claims", claims);
    describe_lies(info);
    return strstr(info->features, "dot") != NULL;
}

/* int8 products work with either extension, if its results are correct. */
static void words_for_int8(void **state)
{
    (void)state;
    enum { NONE, KHRONOS, ARM, WRONG };
    fovea_device_info info;
    if (hostile.cuda)
        skip();
    assert_false(multiplies_int8(NONE, 0, &info));
    assert_null(strstr(info.quirks, "integer dot products"));
    assert_true(multiplies_int8(KHRONOS, 0, &info));
    assert_true(multiplies_int8(ARM, 0, &info));
    assert_true(
        multiplies_int8(ARM, 1, &info)); /* Khronos' extension is claimed, but does not work */
    assert_null(strstr(info.quirks, "integer dot products"));
    assert_false(multiplies_int8(WRONG, 0, &info));
    assert_non_null(strstr(info.quirks, "integer dot products"));
}

/* Returns whether a device with these settings multiplies with subgroups; fills in *info. */
static bool multiplies_by_subgroups(long subgroups, long claims, fovea_device_info *info)
{
    hostile.set("vectors", 1);
    hostile.set("half", 2);
    hostile.set("gpu", 1);
    hostile.set("subgroups", subgroups);
    hostile.set("claims", claims);
    describe_lies(info);
    return strstr(info->features, "subgroups") != NULL;
}

/* Subgroups are used if lanes exchange the right values and if that is faster. */
static void subgroups_that_give(void **state)
{
    (void)state;
    enum { NONE, RIGHT, NEIGHBOURS, NOTHING, EIGHT, SLOW };
    fovea_device_info info;
    if (hostile.cuda)
        skip();
    assert_false(multiplies_by_subgroups(NONE, 0, &info));
    assert_null(strstr(info.quirks, "subgroups"));
    assert_true(multiplies_by_subgroups(RIGHT, 0, &info));
    assert_null(strstr(info.quirks, "subgroups"));
    for (long lie = NEIGHBOURS; lie <= EIGHT; lie++) {
        assert_false(multiplies_by_subgroups(lie, 0, &info));
        assert_non_null(strstr(info.quirks, "subgroups announced, but do not work"));
    }
    assert_false(multiplies_by_subgroups(SLOW, 0, &info));
    assert_non_null(strstr(info.quirks, "subgroups are no faster"));
    assert_false(multiplies_by_subgroups(NONE, 1, &info));
    assert_non_null(strstr(info.quirks, "subgroups announced, but do not work"));
}

/* A device whose rates cannot be measured counts as slow, so work is split into small pieces. Only
 * a failure that makes the device useless is an error. */
static void unknown_rates(void **state)
{
    (void)state;
    size_t values, n;
    say_no_vectors();
    fovea_device *device = open_device(0);
    fovea_plan *plan = plan_on(device, "linear:elu1");
    float *want = fixture_run(plan, &values);
    fovea_plan_free(plan);
    fovea_device_close(device);
    forget_rates();
    device = open_device(1);
    hostile.only(launch_call());
    hostile.set("error", hostile.cuda ? 1 : -54);
    hostile.set("fail", 1);
    plan = plan_on(device, "linear:elu1");
    assert_non_null(hostile.failed());
    hostile.set(NULL, 0);
    float *out = fixture_run(plan, &n);
    for (size_t k = 0; k < values; k++)
        assert_true(fabsf(out[k] - want[k]) <= 2e-5f * (1 + fabsf(want[k])));
    free(out);
    free(want);
    fovea_plan_free(plan);
    fovea_device_close(device);
    nothing_left();
    if (!hostile.cuda)
        return;
    device = open_device(1);
    hostile.only("cuLaunchKernel");
    hostile.set("error", 700);
    hostile.set("fail", 1);
    const fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_EDEVICE);
    assert_non_null(strstr(fovea_error(), "lost"));
    assert_non_null(strstr(fovea_error(), "restart the process"));
    hostile.set(NULL, 0);
    fovea_device_close(device);
    nothing_left();
}

/* ---- images over weights ---- */

static const char image_kernel[] = "gemm_f16_half_image_first_cl";

static uint32_t steps_with(const fovea_plan *plan, const char *kernel)
{
    fovea_step_info step = FOVEA_STEP_INFO_INIT;
    uint32_t n = 0;
    for (uint32_t i = 0; fovea_plan_step(plan, i, &step); i++)
        n += strcmp(step.kernel, kernel) == 0;
    return n;
}

static size_t half_values(void)
{
    fovea_output_info output = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_options options = half_options();
    fovea_plan *plan;
    fovea_device *device = fixture_device(1);
    options.activations = FOVEA_DTYPE_F32;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    assert_true(fovea_plan_output(plan, 0, &output));
    fovea_plan_free(plan);
    fovea_device_close(device);
    return (size_t)output.rows * output.columns;
}

/* Runs a plan in float16; returns its output, or NULL with a message. Sets *steps to the number of
 * steps that read images. Call number `fail` of `function` fails with `error`. */
static float *run_half_failing(long images, const char *function, long fail, long error,
                               uint32_t *steps, fovea_device_info *info)
{
    fovea_plan_options options = half_options();
    fovea_device *device = NULL;
    fovea_plan *plan = NULL;
    size_t values = half_values();
    float *out = calloc(values, sizeof *out);
    *info = (fovea_device_info)FOVEA_DEVICE_INFO_INIT;
    *steps = 0;
    say_images(images);
    hostile.only(function);
    hostile.set("error", error);
    hostile.set("fail", fail);
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_output to = {out, values * sizeof *out};
    fovea_status status = fovea_device_open(&device, hostile.device, NULL);
    if (status == FOVEA_OK) {
        fovea_device_describe(device, info);
        status = fovea_plan_create(&plan, model, device, &options);
    }
    if (status == FOVEA_OK) {
        *steps = steps_with(plan, image_kernel);
        status = fovea_run(plan, &frame, &to, 1);
    }
    fovea_plan_free(plan);
    fovea_device_close(device);
    hostile.set("fail", 0);
    hostile.set(NULL, 0);
    nothing_left();
    if (status == FOVEA_OK)
        return out;
    free(out);
    return NULL;
}

static float *run_half(long images, long fail, long error, uint32_t *steps, fovea_device_info *info)
{
    return run_half_failing(images, "clCreateImage", fail, error, steps, info);
}

/* Runs a plan without failures; images rank first unless other processes disturb the measurement.
 */
static float *run_with_images(uint32_t *steps, fovea_device_info *info)
{
    for (int tries = 0; tries < 20; tries++) {
        float *out = run_half(FAST_IMAGES, 0, 0, steps, info);
        assert_non_null(out);
        if (*steps > 4)
            return out;
        free(out);
        forget_rates();
        fovea_wisdom_forget();
    }
    print_message("skipped: others use this machine, so that rates cannot be measured\n");
    skip();
    return NULL;
}

/* Weights are read as images if that was measured as faster and correct, with the same bits. */
static void images_are_ranked(void **state)
{
    (void)state;
    fovea_device_info info;
    uint32_t steps;
    if (hostile.cuda)
        skip();
    const size_t bytes = half_values() * sizeof(float);
    float *want = run_half(NO_IMAGES, 0, 0, &steps, &info);
    assert_non_null(want);
    assert_int_equal(steps, 0);
    assert_null(strstr(info.quirks, "images"));
    float *out = run_with_images(&steps, &info);
    assert_memory_equal(out, want, bytes);
    free(out);
    out = run_half(OTHERS_IMAGES, 0, 0, &steps, &info);
    assert_non_null(out);
    assert_non_null(strstr(info.quirks, "images announced, but do not work"));
    assert_int_equal(steps, 0);
    assert_memory_equal(out, want, bytes);
    free(out);
    free(want);
}

/* PoCL reads images slowly, so images change no choice. */
static void slow_images(void **state)
{
    (void)state;
    if (hostile.cuda)
        skip();
    assert_false(images_are_first(LONG_MIN, false));
}

/* A weight that cannot become an image is read as a buffer by the next-best kernel, and later plans
 * use that kernel from the start. Nothing else changes. */
static void images_that_fail(void **state)
{
    (void)state;
    static const long errors[] = {-40 /* CL_INVALID_IMAGE_SIZE */, -4 /* .._ALLOCATION_FAILURE */,
                                  -6 /* CL_OUT_OF_HOST_MEMORY */, -5 /* CL_OUT_OF_RESOURCES */};
    enum {
        ERRORS = sizeof errors / sizeof *errors,
        FIRST = 2 /* first image after the probe's */,
        SMALL = 256
    };
    fovea_device_info info;
    uint32_t steps, all;
    if (hostile.cuda)
        skip();
    const size_t bytes = half_values() * sizeof(float);
    float *want = run_with_images(&all, &info);
    for (long n = 0; n <= ERRORS;
         n++) { /* the last case is a device that only supports small images */
        char wisdom[1 << 14];
        size_t size = 0;
        fovea_wisdom_forget();
        hostile.set("texels", n < ERRORS ? LONG_MIN : SMALL);
        float *out =
            run_half(FAST_IMAGES, n < ERRORS ? FIRST + n : 0, errors[n % ERRORS], &steps, &info);
        if (!out)
            fail_msg("image %ld: %s", n, fovea_error());
        assert_memory_equal(out, want, bytes);
        assert_true(n < ERRORS ? steps > 0 && steps < all : steps == 0);
        assert_int_equal(fovea_wisdom_export(wisdom, sizeof wisdom, &size), FOVEA_OK);
        assert_non_null(strstr(wisdom, "skip"));
        assert_non_null(strstr(wisdom, image_kernel));
        free(out);
    }
    fovea_wisdom_forget();
    float *out = run_half(FAST_IMAGES, 1, errors[0], &steps, &info);
    assert_non_null(out);
    assert_non_null(strstr(info.quirks, "images announced, but do not work"));
    assert_true(steps == 0);
    assert_memory_equal(out, want, bytes);
    free(out);
    free(want);
}

/* Makes the first, the last and a middle call fail. The result must be an error with a message or a
 * correct output, in float32 if float16 could not be verified; nothing may leak. */
static void calls_that_fail(void **state)
{
    (void)state;
    fovea_device_info info;
    uint32_t steps;
    int failed = 0, right = 0;
    if (hostile.cuda)
        skip();
    const size_t values = half_values();
    float *want = run_with_images(&steps, &info);
    for (int f = 0; hostile.functions[f]; f++) {
        const long before = hostile.counted(hostile.functions[f]);
        free(run_half(FAST_IMAGES, 0, 0, &steps, &info));
        const long calls = hostile.counted(hostile.functions[f]) - before;
        for (int k = 0; k < 3 && k < calls; k++) {
            const long at = k == 0 ? 1 : k == 1 ? calls : 1 + calls / 2;
            fovea_wisdom_forget();
            float *out = run_half_failing(FAST_IMAGES, hostile.functions[f], at, -5, &steps, &info);
            failed++;
            right += out != NULL;
            if (!out && strlen(fovea_error()) < 10)
                fail_msg("%s: no message", hostile.functions[f]);
            for (size_t i = 0; out && i < values; i++)
                if (!(fabsf(out[i] - want[i]) <= 0.05f * (1 + fabsf(want[i]))))
                    fail_msg("%s, call %ld: value %zu: %g, not %g", hostile.functions[f], at, i,
                             out[i], want[i]);
            free(out);
        }
    }
    print_message("%d failures, %d frames right all the same\n", failed, right);
    assert_true(failed > 40 && right > 10 && right < failed);
    fovea_wisdom_forget();
    float *out = run_with_images(&steps, &info);
    for (size_t i = 0; i < values; i++) /* rates measured again may lead to other kernels */
        assert_true(fabsf(out[i] - want[i]) <= 0.05f * (1 + fabsf(want[i])));
    free(out);
    free(want);
}

/* ---- concurrent compilation ---- */

enum { NVRTC_ERROR = 6 };

/* Returns the plan's output, or NULL, if call number `fail` of NVRTC's compiler fails (0: none; -1:
 * all). Sets *calls to the number of calls. */
static float *run_compiled(long fail, long *calls, size_t *values)
{
    fovea_plan *plan;
    float *out = NULL;
    fovea_device *device = open_with(0, "");
    const fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    hostile.only("nvrtcCompileProgram");
    hostile.set("error", NVRTC_ERROR);
    hostile.set("build", fail >= 0);
    hostile.set("fail", fail);
    if (fovea_plan_create(&plan, model, device, &options) == FOVEA_OK) {
        out = fixture_run(plan, values);
        fovea_plan_free(plan);
    }
    *calls = hostile.calls();
    fovea_device_close(device);
    hostile.set(NULL, 0);
    nothing_left();
    return out;
}

/* A failure in one thread does not affect others and is retried. A persistent failure is reported
 * with the compiler's message. */
static void builds_that_fail(void **state)
{
    (void)state;
    static fv_cores cores;
    size_t values, n;
    long programs, calls;
    fv_cores_find(&cores);
    if (!hostile.cuda || cores.most < 2)
        skip();
    float *want = run_compiled(0, &programs, &values);
    assert_non_null(want);
    assert_true(programs > 2);
    for (long fail = 1; fail <= programs; fail += (programs + 1) / 2) {
        float *out = run_compiled(fail, &calls, &n);
        assert_non_null(out);
        assert_int_equal(calls, programs + 1);
        assert_memory_equal(out, want, values * sizeof *want);
        free(out);
    }
    assert_null(run_compiled(-1, &calls, &n));
    assert_non_null(strstr(fovea_error(), "nvrtcCompileProgram"));
    free(want);
}

/* A driver that compiles nothing makes planning fail, or the plan run on the CPU, as the options
 * ask. */
static void nothing_compiles(void **state)
{
    (void)state;
    size_t values, n;
    fovea_plan *plan = NULL;
    fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
    fovea_device *cpu = NULL, *device = NULL;
    if (hostile.cuda)
        skip();
    assert_int_equal(fovea_device_open(&cpu, "cpu", NULL), FOVEA_OK);
    assert_int_equal(fovea_plan_create(&plan, model, cpu, &options), FOVEA_OK);
    float *want = fixture_run(plan, &values);
    assert_false(fovea_plan_device_lost(plan));
    fovea_plan_free(plan);
    fovea_device_close(cpu);

    const fovea_device_options no_cache = {.struct_size = sizeof no_cache, .cache = ""};
    hostile.set("build", 0);
    assert_int_equal(fovea_device_open(&device, hostile.device, &no_cache), FOVEA_OK);
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "refused every kernel"));
    options.on_device_lost = FOVEA_DEVICE_LOST_CPU;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    assert_true(fovea_plan_device_lost(plan));
    float *out = fixture_run(plan, &n);
    assert_memory_equal(out, want, values * sizeof *want);
    fovea_plan_free(plan);
    options.fallback = device; /* not a CPU, which must not be tried either */
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_ENOTSUP);
    options.fallback = NULL;
    options.attention = "no such attention"; /* not the device's fault */
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "no such attention"));
    hostile.set(NULL, 0);
    free(out);
    free(want);
    fovea_device_close(device);
    fovea_wisdom_forget();
    nothing_left();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_is_free),   cmocka_unit_test(less_than_said),
        cmocka_unit_test(rates_are_kept),   cmocka_unit_test(ranks_are_kept),
        cmocka_unit_test(words_for_int8),   cmocka_unit_test(subgroups_that_give),
        cmocka_unit_test(unknown_rates),    cmocka_unit_test(images_are_ranked),
        cmocka_unit_test(slow_images),      cmocka_unit_test(images_that_fail),
        cmocka_unit_test(calls_that_fail),  cmocka_unit_test(builds_that_fail),
        cmocka_unit_test(nothing_compiles),
    };
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
