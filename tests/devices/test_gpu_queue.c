/* test_gpu_queue.c: frames on an OpenCL or a CUDA device: cut to pieces, freed or lost while they
 * are under way. What two frames in flight give is in test_frames.c, what failing calls do in
 * test_hostile.c, what a device has free and how fast it is in test_gpu_limits.c.
 *
 *   test_gpu_queue path/to/libhostile_cl.so
 *   test_gpu_queue path/to/libemulated_cuda.so
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <fovea/operations.h>

#ifdef FV_HAVE_CUDA
#include "cuda/cuda_loader.h"
#endif
#include "tests/devices/gpu_frames.h"

/* ---- cutting ---- */

/* Runs a frame. Sets *dispatches to the number of its dispatches, which cannot be seen if the frame
 * is captured. */
static float *run_cut(const char *attention, double ms, size_t *values, long *dispatches)
{
    if (hostile.cuda)
        hostile.set("graphs", 0);
    fovea_device *device = open_device(ms / 1e3);
    fovea_plan *plan = plan_on(device, attention);
    hostile.only(launch_call());
    hostile.set("fail", 0); /* counts from here */
    float *out = fixture_run(plan, values);
    *dispatches = hostile.calls();
    hostile.set(NULL, 0);
    fovea_plan_free(plan);
    fovea_device_close(device);
    nothing_left();
    return out;
}

static void short_dispatches(void **state)
{
    (void)state;
    static const char *const attentions[] = {"softmax", "linear:elu1", "linear:exp", "mala"};
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        size_t values;
        long few, many, more;
        float *whole = run_cut(attentions[i], 1e6, &values, &few);
        float *cut = run_cut(attentions[i], 1e-6, &values, &many);
        float *again = run_cut(attentions[i], 1e-6, &values, &more);
        assert_true(many > 4 * few);
        assert_int_equal(many, more);
        assert_memory_equal(cut, again, values * sizeof *cut);
        for (size_t k = 0; k < values; k++)
            if (!(fabsf(cut[k] - whole[k]) <= 2e-5f * (1 + fabsf(whole[k]))))
                fail_msg("%s, value %zu: %g in pieces, %g whole", attentions[i], k, cut[k],
                         whole[k]);
        free(whole);
        free(cut);
        free(again);
    }
}

static float *run_windows(const fovea_model *windows, double ms, size_t *values)
{
    enum { SIDE = 224 };
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan *plan;
    fovea_device *device = open_device(ms / 1e3);
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.width = options.frame.height = SIDE;
    if (fovea_plan_create(&plan, windows, device, &options) != FOVEA_OK ||
        !fovea_plan_output(plan, 0, &info))
        fail_msg("%s", fovea_error());
    *values = (size_t)info.rows * info.columns;
    uint8_t *pixels = malloc(SIDE * SIDE * 3);
    for (uint32_t i = 0; i < SIDE * SIDE * 3; i++)
        pixels[i] = (uint8_t)(i * i / 1000 + i % 7 * 20);
    const fovea_frame frame = {.pixels = {pixels}};
    const fovea_output out = {malloc(*values * sizeof(float)), *values * sizeof(float)};
    if (fovea_run(plan, &frame, &out, 1) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    free(pixels);
    fovea_plan_free(plan);
    fovea_device_close(device);
    nothing_left();
    return out.data;
}

/* Pieces of attention in windows consist of whole windows. */
static void short_windows(void **state)
{
    (void)state;
    fovea_model *windows;
    size_t values;
    if (hostile.cuda) {
        print_message("skipped: the same cut as OpenCL's, and a minute's work for the emulator\n");
        skip();
    }
    if (fovea_model_load(&windows, "synthetic:pola-swin-t") != FOVEA_OK)
        fail_msg("%s", fovea_error());
    float *whole = run_windows(windows, 1e6, &values), *cut = run_windows(windows, 0.01, &values);
    for (size_t k = 0; k < values; k++)
        if (!(fabsf(cut[k] - whole[k]) <= 2e-5f * (1 + fabsf(whole[k]))))
            fail_msg("value %zu: %g in pieces, %g whole", k, cut[k], whole[k]);
    free(whole);
    free(cut);
    fovea_model_free(windows);
}

/* ---- strides ---- */

enum { N = 13, D = 8, GAP = 3, WIDE = D + GAP };

/* Tests rows with gaps, in memory that is shared with the device and in other memory. The gaps in
 * the result must not change. */
static void gaps(void **state)
{
    (void)state;
    static float in[N * D], packed[N * D], spread[N * WIDE], result[N * WIDE];
    for (int i = 0; i < N * D; i++)
        in[i] = (float)((i * 37) % 23) * 0.1f - 1;
    for (int i = 0; i < N * WIDE; i++)
        spread[i] = i % WIDE < D ? in[i / WIDE * D + i % WIDE] : NAN;
    for (int unified = 0; unified < 2; unified++) {
        hostile.set("unified", unified);
        fovea_device *device = open_device(0);
        fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
        o.attention = "linear:elu1";
        o.rows = N;
        o.heads = 1;
        o.head_dim = o.value_dim = D;
        fovea_plan *plan;
        if (fovea_attention_plan_create(&plan, device, &o) != FOVEA_OK)
            fail_msg("%s", fovea_error());
        const fovea_matrix close[3] = {{.data = in}, {.data = in}, {.data = in}};
        fovea_matrix far[3];
        for (int i = 0; i < 3; i++)
            far[i] = (fovea_matrix){.data = spread, .stride = WIDE};
        for (int i = 0; i < N * WIDE; i++)
            result[i] = 77;
        assert_int_equal(fovea_op_run(plan, close, 3, (fovea_matrix){.data = packed}), FOVEA_OK);
        assert_int_equal(fovea_op_run(plan, far, 3, (fovea_matrix){.data = result, .stride = WIDE}),
                         FOVEA_OK);
        for (int i = 0; i < N * WIDE; i++)
            assert_true(result[i] == (i % WIDE < D ? packed[i / WIDE * D + i % WIDE] : 77));
        fovea_plan_free(plan);
        fovea_device_close(device);
        nothing_left();
    }
    hostile.set("unified", LONG_MIN);
}

/* ---- frames that are not waited for ---- */

static void freed_under_way(void **state)
{
    (void)state;
    for (int frames = 1; frames <= 2; frames++)
        for (int unified = 0; unified < 2; unified++) {
            hostile.set("unified", unified);
            fovea_device *device = open_device(0);
            fovea_plan *plan = plan_on(device, "linear:elu1");
            size_t values;
            float *out = fixture_run(plan, &values);
            fovea_ticket ticket;
            for (int i = 0; i < frames; i++)
                assert_int_equal(submit(plan, out, values, &ticket), FOVEA_OK);
            fovea_plan_free(plan);
            free(out); /* the device must not write to it any more */
            fovea_device_close(device);
            nothing_left();
        }
    hostile.set("unified", LONG_MIN);
}

/* After a failed call the device is lost for all of its plans, with the same message, until it is
 * opened again. */
static void lost(void **state)
{
    (void)state;
    fovea_device *device = open_device(0);
    fovea_plan *plan = plan_on(device, "linear:elu1"), *other = plan_on(device, "linear:relu");
    size_t values;
    float *out = fixture_run(plan, &values), *mine = calloc(values, sizeof *mine);
    assert_non_null(mine);
    fovea_ticket ticket[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(submit(plan, i ? mine : out, values, &ticket[i]), FOVEA_OK);
    const char *query = hostile.cuda ? "cuEventQuery" : "clGetEventInfo";
    hostile.only(query);
    hostile.set("error", hostile.cuda ? 719 : -5);
    hostile.set("fail", 1);
    assert_int_equal(fovea_wait(plan, ticket[0], -1), FOVEA_EDEVICE);
    assert_non_null(strstr(fovea_error(), "lost"));
    assert_non_null(strstr(fovea_error(), query));
    hostile.set("fail", LONG_MIN);
    hostile.only(NULL);
    assert_int_equal(fovea_wait(plan, ticket[1], -1), FOVEA_EDEVICE);
    const long asked = hostile.counted(query);
    assert_int_equal(submit(plan, out, values, &ticket[0]), FOVEA_EDEVICE);
    assert_int_equal(submit(other, out, values, &ticket[0]), FOVEA_EDEVICE);
    assert_non_null(strstr(fovea_error(), "lost"));
    fovea_plan *third = NULL;
    const fovea_plan_options options = fixture_options("softmax", FOVEA_SCHEDULE_AUTO);
    assert_int_equal(fovea_plan_create(&third, model, device, &options), FOVEA_EDEVICE);
    assert_int_equal(hostile.counted(query), asked); /* nothing waits for a lost device */
    fovea_plan_free(plan);
    fovea_plan_free(other);
    fovea_device_close(device);
    nothing_left();

    device = open_device(0);
    plan = plan_on(device, "linear:elu1");
    size_t n;
    float *again = fixture_run(plan, &n);
    assert_memory_equal(again, out, n * sizeof *again);
    fovea_plan_free(plan);
    fovea_device_close(device);
    nothing_left();
    free(again);
    free(mine);
    free(out);
}

#ifdef FV_HAVE_CUDA
#define GOOD(call) assert_int_equal(fv_cuda.call, CUDA_SUCCESS)

/* While another part of the process captures a graph, the library must not make calls that
 * invalidate the capture. */
static void capturing_elsewhere(void **state)
{
    (void)state;
    size_t values;
    CUcontext context;
    CUstream stream;
    CUgraph graph;
    if (!hostile.cuda)
        skip();
    GOOD(cuInit(0));
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxPushCurrent(context));
    GOOD(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GOOD(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fovea_device *device = open_device(0);
    fovea_plan *plan = plan_on(device, "linear:elu1");
    free(fixture_run(plan, &values));
    fovea_plan_free(plan);
    fovea_device_close(device);
    assert_int_equal(hostile.depth(), 1);
    GOOD(cuStreamEndCapture(stream, &graph));
    GOOD(cuGraphDestroy(graph));
    GOOD(cuStreamDestroy(stream));
    GOOD(cuCtxPopCurrent(&context));
    GOOD(cuDevicePrimaryCtxRelease(0));
    nothing_left();
}
#else
static void capturing_elsewhere(void **state)
{
    (void)state;
    skip();
}
#endif

/* With a single queue, frames run one after the other. */
static void one_queue(void **state)
{
    (void)state;
    size_t values, n;
    if (hostile.cuda) {
        print_message("skipped: only OpenCL's devices may lack further queues\n");
        skip();
    }
    fovea_device *device = open_device(0);
    fovea_plan *plan = plan_on(device, "linear:elu1");
    float *want = fixture_run(plan, &values);
    fovea_plan_free(plan);
    for (int unified = 0; unified < 2; unified++) {
        hostile.set("unified", unified);
        fovea_device *second = open_device(0);
        for (int at = 2; at <= 3; at++) {
            hostile.only("clCreateCommandQueue");
            hostile.set("fail", at); /* failure when inputs, then outputs, are allocated */
            plan = plan_on(second, "linear:elu1");
            hostile.set("fail", LONG_MIN);
            hostile.only(NULL);
            float *out = fixture_run(plan, &n), *other = calloc(n, sizeof *other);
            assert_non_null(other);
            assert_memory_equal(out, want, n * sizeof *out);
            fovea_ticket ticket[2];
            memset(out, 0, n * sizeof *out);
            assert_int_equal(submit(plan, out, n, &ticket[0]), FOVEA_OK);
            assert_int_equal(submit(plan, other, n, &ticket[1]), FOVEA_OK);
            assert_int_equal(fovea_wait(plan, ticket[1], 60), FOVEA_OK);
            assert_int_equal(fovea_wait(plan, ticket[0], 0), FOVEA_OK);
            assert_memory_equal(out, want, n * sizeof *out);
            assert_memory_equal(other, want, n * sizeof *out);
            free(other);
            free(out);
            fovea_plan_free(plan);
        }
        fovea_device_close(second);
    }
    hostile.set("unified", LONG_MIN);
    fovea_device_close(device);
    free(want);
    nothing_left();
}

/* Kernel arguments stay the same from frame to frame, except the buffers of the caller's matrices,
 * which have two sets. */
static void arguments(void **state)
{
    (void)state;
    size_t values;
    if (hostile.cuda) {
        print_message("skipped: CUDA's are an array, given with each call\n");
        skip();
    }
    for (int cut = 0; cut < 2; cut++) {
        fovea_device *device = open_device(cut ? 1e-6 : 1e3);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        free(fixture_run(plan, &values));
        const long set = hostile.counted("clSetKernelArg");
        const long run = hostile.counted("clEnqueueNDRangeKernel");
        free(fixture_run(plan, &values));
        const long sets = hostile.counted("clSetKernelArg") - set;
        const long runs = hostile.counted("clEnqueueNDRangeKernel") - run;
        print_message("%s: %ld arguments for %ld kernels of a frame\n", cut ? "cut" : "whole", sets,
                      runs);
        assert_true(cut ? sets < 4 * runs : sets <= 2);
        fovea_plan_free(plan);
        fovea_device_close(device);
        nothing_left();
    }
}

/* Timestamps make commands slower, so only traces and the tuner enable them. */
static void timestamps(void **state)
{
    (void)state;
    enum { EVENTS = 256 };
    static fovea_trace_event events[EVENTS];
    size_t values, n;
    if (hostile.cuda) {
        print_message("skipped: only OpenCL's queues may have them\n");
        skip();
    }
    fovea_device *device = open_device(0);
    fovea_plan *plan = plan_on(device, "linear:elu1");
    const long asked = hostile.counted("clGetEventProfilingInfo");
    free(fixture_run(plan, &values));
    float *want = fixture_run(plan, &values);
    const long objects = hostile.live(NULL); /* both sets of inputs have been used */
    assert_int_equal(hostile.live("timed queue"), 0);
    assert_int_equal(hostile.counted("clGetEventProfilingInfo"), asked);
    assert_int_equal(fovea_plan_trace(plan, events, EVENTS), FOVEA_OK);
    assert_int_equal(hostile.live("timed queue"), 1);
    float *out = fixture_run(plan, &n);
    assert_memory_equal(out, want, values * sizeof *out);
    assert_true(fovea_plan_trace_count(plan) > 10 && events[10].end > 0);
    assert_int_equal(fovea_plan_trace(plan, NULL, 0), FOVEA_OK);
    free(out);
    out = fixture_run(plan, &n);
    assert_memory_equal(out, want, values * sizeof *out);
    assert_int_equal(hostile.live("timed queue"), 0);
    assert_int_equal(hostile.live(NULL), objects);
    hostile.only("clCreateCommandQueue");
    hostile.set("fail", 1);
    assert_int_equal(fovea_plan_trace(plan, events, EVENTS), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "times"));
    hostile.set(NULL, 0);
    free(out);
    free(want);
    fovea_plan_free(plan);
    fovea_device_close(device);
    nothing_left();
}

/* A CUDA frame is captured when its plan is made and then replayed, so no kernel is launched
 * individually. If the driver cannot capture, frames give the same bits. */
static void graphs(void **state)
{
    (void)state;
    size_t values;
    if (!hostile.cuda) {
        print_message("skipped: only CUDA records frames\n");
        skip();
    }
    float *want = NULL;
    for (int graphs = 1; graphs >= 0; graphs--) {
        hostile.set("graphs", graphs);
        fovea_device *device = open_device(0);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        hostile.only("cuLaunchKernel");
        hostile.set("fail", 0);
        float *out = fixture_run(plan, &values);
        assert_true(graphs ? hostile.calls() == 0 : hostile.calls() > 10);
        hostile.only(NULL);
        if (want)
            assert_memory_equal(out, want, values * sizeof *out);
        free(want);
        want = out;
        fovea_plan_free(plan);
        fovea_device_close(device);
        nothing_left();
    }
    free(want);
    hostile.set(NULL, 0);
}

/* Returns the output of the first frame of a plan, so that anything read too early was never
 * written. */
static float *first_frame(fovea_device *device, size_t *values)
{
    fovea_plan *plan = plan_on(device, "linear:elu1");
    float *out = fixture_run(plan, values);
    fovea_plan_free(plan);
    return out;
}

/* Streams may run in any order that events allow. Frames wait for inputs and results: if a planted
 * mistake leaves out one wait, one of the orders shows it. */
static void streams_in_any_order(void **state)
{
    (void)state;
    size_t values;
    if (!hostile.cuda) {
        print_message("skipped: the order of OpenCL's queues is the driver's\n");
        skip();
    }
    fovea_device *device = open_device(0);
    float *want = first_frame(device, &values);
    for (int graphs = 0; graphs < 2; graphs++)
        for (long left_out = 0; left_out <= 2; left_out++) {
            int wrong = 0;
            for (long order = 1; order <= 2; order++) {
                hostile.set("graphs", graphs);
                hostile.set("streams", order);
                hostile.set("unwaited", left_out ? left_out : LONG_MIN);
                float *out = first_frame(device, &values);
                wrong += memcmp(out, want, values * sizeof *out) != 0;
                free(out);
            }
            if (left_out ? !wrong : wrong)
                fail_msg("wait %ld of a frame left out: %d orders show it", left_out, wrong);
        }
    hostile.set(NULL, 0);
    free(want);
    fovea_device_close(device);
    nothing_left();
}

enum { MOST_FUNCTIONS = 128 };

/* Counts the calls of each function so far, except the one that polls for the end of a frame. */
static void count_calls(long calls[MOST_FUNCTIONS])
{
    for (int i = 0; hostile.functions[i]; i++) {
        assert_true(i < MOST_FUNCTIONS);
        calls[i] = strcmp(hostile.functions[i], "cuEventQuery")
                       ? hostile.counted(hostile.functions[i])
                       : 0;
    }
}

/* Planning makes all decisions and objects: the first CUDA frames make the same driver calls as
 * later ones. */
static void first_frames(void **state)
{
    (void)state;
    long before[MOST_FUNCTIONS], after[MOST_FUNCTIONS], first[MOST_FUNCTIONS] = {0};
    if (!hostile.cuda)
        skip();
    for (int way = 0; way < 4; way++) {
        hostile.set("graphs", way / 2);
        hostile.set("unified", way % 2);
        fovea_device *device = open_device(0);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        const long objects = hostile.live(NULL);
        for (int frame = 1; frame <= 10; frame++) {
            size_t values;
            count_calls(before);
            free(fixture_run(plan, &values));
            count_calls(after);
            for (int i = 0; hostile.functions[i]; i++) {
                const long calls = after[i] - before[i];
                if (frame == 1)
                    first[i] = calls;
                if (calls != first[i])
                    fail_msg("frame %d calls %s %ld times, the first one %ld", frame,
                             hostile.functions[i], calls, first[i]);
            }
            assert_int_equal(hostile.live(NULL), objects);
        }
        fovea_plan_free(plan);
        fovea_device_close(device);
        nothing_left();
    }
    hostile.set(NULL, 0);
}

/* After planning, a frame allocates no memory and creates no driver objects that stay. */
static void steady(void **state)
{
    (void)state;
    for (int unified = 0; unified < 2; unified++) {
        hostile.set("unified", unified);
        fovea_device *device = open_device(1e-3);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        size_t values;
        float *want = fixture_run(plan, &values), *out = calloc(values, sizeof *out);
        assert_non_null(out);
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        long objects = 0;
        for (int i = 0; i < 100; i++) {
            fovea_ticket ticket;
            if (i == 2) { /* both sets of inputs and outputs have been used */
                objects = hostile.live(NULL);
                fovea_memory_query(&before);
            }
            assert_int_equal(submit(plan, out, values, &ticket), FOVEA_OK);
            assert_int_equal(fovea_wait(plan, ticket, 60), FOVEA_OK);
        }
        fovea_memory_query(&after);
        assert_memory_equal(out, want, values * sizeof *out);
        assert_int_equal(after.allocations, before.allocations);
        assert_int_equal(hostile.live(NULL), objects);
        free(want);
        free(out);
        fovea_plan_free(plan);
        fovea_device_close(device);
        nothing_left();
    }
    hostile.set("unified", LONG_MIN);
}

/* If host and device share memory, kernels write outputs to host memory directly. Inputs are
 * copied, because the device does not cache reads of host memory. */
static void shared_memory(void **state)
{
    (void)state;
    if (!hostile.cuda)
        skip();
    for (int unified = 0; unified < 2; unified++) {
        size_t values;
        hostile.set("unified", unified);
        fovea_device *device = open_device(0);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        const long in = hostile.counted("cuMemcpyHtoDAsync"),
                   out = hostile.counted("cuMemcpyDtoHAsync");
        free(fixture_run(plan, &values));
        assert_int_equal(hostile.counted("cuMemcpyHtoDAsync") - in, 1);
        assert_int_equal(hostile.counted("cuMemcpyDtoHAsync") - out, !unified);
        fovea_plan_free(plan);
        fovea_device_close(device);
        hostile.set(NULL, 0);
        nothing_left();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_dispatches),
        cmocka_unit_test(short_windows),
        cmocka_unit_test(gaps),
        cmocka_unit_test(freed_under_way),
        cmocka_unit_test(lost),
        cmocka_unit_test(capturing_elsewhere),
        cmocka_unit_test(one_queue),
        cmocka_unit_test(arguments),
        cmocka_unit_test(timestamps),
        cmocka_unit_test(graphs),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(streams_in_any_order),
        cmocka_unit_test(first_frames),
        cmocka_unit_test(steady),
    };
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
