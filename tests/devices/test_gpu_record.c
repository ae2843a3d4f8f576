/* test_gpu_record.c: frames on an OpenCL device that records commands: as right as without, with
 * few calls, in parts that end as soon as a dispatch may take; and without where that fails.
 *
 *   test_gpu_record path/to/libhostile_cl.so
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/devices/gpu_frames.h"

enum { NONE, BUFFERS, QUEUES, LATE, LACKING }; /* values of the setting `records` */
static const char *const names[] = {"call by call", "command buffers", "recordable queues"};
static const char *const replays[] = {NULL, "clEnqueueCommandBufferKHR", "clEnqueueRecordingQCOM"};
static const char *const functions[] = {
#define FV_CL_RECORD(name, result, parameters) #name,
#include "cl/cl_record_calls.inc"
#undef FV_CL_RECORD
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static fovea_device *open_recording(long records, double max_dispatch_seconds)
{
    hostile.set("gpu", 1);
    hostile.set("records", records);
    return open_device(max_dispatch_seconds);
}

static void close_recording(fovea_device *device)
{
    fovea_device_close(device);
    hostile.set(NULL, 0);
    nothing_left();
}

/* Returns the output of a frame without recordings. */
static float *expected(double max_dispatch_seconds, size_t *values)
{
    fovea_device *device = open_recording(NONE, max_dispatch_seconds);
    fovea_plan *plan = plan_on(device, "linear:elu1");
    float *want = fixture_run(plan, values);
    fovea_plan_free(plan);
    close_recording(device);
    return want;
}

/* Runs frames with two in flight, each into its own memory. */
static void run_pairs(fovea_plan *plan, const float *want, size_t values)
{
    float *out[2] = {calloc(values, sizeof **out), calloc(values, sizeof **out)};
    fovea_ticket ticket[2];
    for (int frame = 0; frame < 6; frame++) {
        memset(out[frame % 2], 0, values * sizeof **out);
        if (submit(plan, out[frame % 2], values, &ticket[frame % 2]) != FOVEA_OK)
            fail_msg("frame %d: %s", frame, fovea_error());
        if (frame && fovea_wait(plan, ticket[1 - frame % 2], 60) != FOVEA_OK)
            fail_msg("frame %d: %s", frame - 1, fovea_error());
        if (frame)
            assert_memory_equal(out[1 - frame % 2], want, values * sizeof *want);
    }
    assert_int_equal(fovea_wait(plan, ticket[1], 60), FOVEA_OK);
    free(out[0]);
    free(out[1]);
}

/* Returns the driver calls of a frame, without those that wait for it. */
static long all_calls(void)
{
    long n = 0;
    for (int i = 0; hostile.functions[i]; i++)
        if (strcmp(hostile.functions[i], "clGetEventInfo") != 0)
            n += hostile.counted(hostile.functions[i]);
    for (int i = 0; i < FUNCTIONS; i++)
        n += hostile.counted(functions[i]);
    return n;
}

typedef struct frame_calls {
    long all, kernels, arguments, replays;
} frame_calls;

static frame_calls count_calls(long records)
{
    return (frame_calls){all_calls(), hostile.counted("clEnqueueNDRangeKernel"),
                         hostile.counted("clSetKernelArg"),
                         records ? hostile.counted(replays[records]) : 0};
}

static frame_calls calls_of_a_frame(fovea_plan *plan, long records)
{
    size_t values;
    free(fixture_run(plan, &values));
    free(fixture_run(plan, &values)); /* both frames' inputs have been used */
    const frame_calls before = count_calls(records);
    free(fixture_run(plan, &values));
    const frame_calls after = count_calls(records);
    return (frame_calls){after.all - before.all, after.kernels - before.kernels,
                         after.arguments - before.arguments, after.replays - before.replays};
}

/* Recorded frames give the same bits and launch no kernel individually. Their number of parts
 * depends on the dispatch limit: one without a limit, one per dispatch if no dispatch is short
 * enough. */
static void few_calls(void **state)
{
    (void)state;
    static const double limits[] = {1e3, 2e-3, 1e-9};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        size_t values;
        long kernels = 0, parts[3] = {0};
        float *want = expected(limits[i], &values);
        for (long records = NONE; records <= QUEUES; records++) {
            fovea_device *device = open_recording(records, limits[i]);
            fovea_plan *plan = plan_on(device, "linear:elu1");
            const frame_calls calls = calls_of_a_frame(plan, records);
            run_pairs(plan, want, values);
            print_message("dispatches of %g s, %s: %ld calls, of them %ld kernels, %ld arguments, "
                          "%ld replays\n",
                          limits[i], names[records], calls.all, calls.kernels, calls.arguments,
                          calls.replays);
            if (!records)
                kernels = calls.kernels;
            assert_true(records ? calls.kernels == 0 && calls.arguments == 0 && calls.replays > 0
                                : calls.kernels > 20);
            parts[records] = calls.replays;
            fovea_plan_free(plan);
            close_recording(device);
        }
        if (limits[i] == 1e3)
            assert_true(parts[BUFFERS] == 1 && parts[QUEUES] > 1);
        if (limits[i] == 1e-9) /* some kernels have a pre-pass */
            assert_true(parts[BUFFERS] > kernels / 2 && parts[QUEUES] == parts[BUFFERS]);
        free(want);
    }
}

/* As few_calls(), with weights that are read as images. */
static void with_images(void **state)
{
    (void)state;
    size_t values;
    float *want = NULL;
    int tries = 0;
    for (long records = NONE; records <= QUEUES; records++) {
        const fovea_plan_options options = half_options();
        fovea_plan *plan;
        say_images(FAST_IMAGES);
        const long before = hostile.counted("clCreateImage");
        fovea_device *device = open_recording(records, 1e3);
        while (!has_images_first(device, &tries)) {
            close_recording(device);
            say_images(FAST_IMAGES);
            device = open_recording(records, 1e3);
        }
        if (fovea_plan_create(&plan, model, device, &options) != FOVEA_OK)
            fail_msg("%s", fovea_error());
        assert_true(hostile.counted("clCreateImage") > before + 4);
        if (!want)
            want = fixture_run(plan, &values);
        run_pairs(plan, want, values);
        const frame_calls calls = calls_of_a_frame(plan, records);
        assert_true(!records || (calls.kernels == 0 && calls.replays > 0));
        fovea_plan_free(plan);
        close_recording(device);
    }
    free(want);
}

/* Traced frames run call by call to measure times; frames after them are replayed again. */
static void traced(void **state)
{
    (void)state;
    enum { EVENTS = 256 };
    static fovea_trace_event events[EVENTS];
    size_t values;
    float *want = expected(0, &values);
    for (long records = BUFFERS; records <= QUEUES; records++) {
        fovea_device *device = open_recording(records, 0);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        assert_int_equal(fovea_plan_trace(plan, events, EVENTS), FOVEA_OK);
        const frame_calls with = calls_of_a_frame(plan, records);
        assert_true(with.kernels > 20 && with.replays == 0);
        assert_true(fovea_plan_trace_count(plan) > 10 && events[10].end > 0);
        assert_int_equal(fovea_plan_trace(plan, NULL, 0), FOVEA_OK);
        const frame_calls without = calls_of_a_frame(plan, records);
        assert_true(without.kernels == 0 && without.replays > 0);
        run_pairs(plan, want, values);
        fovea_plan_free(plan);
        close_recording(device);
    }
    free(want);
}

/* Recordings belong to the plan: frames create no further objects. */
static void steady(void **state)
{
    (void)state;
    for (long records = BUFFERS; records <= QUEUES; records++)
        for (int unified = 0; unified < 2; unified++) {
            size_t values;
            hostile.set("unified", unified);
            fovea_device *device = open_recording(records, 0);
            fovea_plan *plan = plan_on(device, "softmax");
            float *want = fixture_run(plan, &values);
            run_pairs(plan, want, values);
            const long objects = hostile.live(NULL), recordings = hostile.live("recording");
            fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
            fovea_memory_query(&before);
            assert_true(recordings >= 2);
            for (int i = 0; i < 20; i++)
                run_pairs(plan, want, values);
            fovea_memory_query(&after);
            assert_int_equal(after.allocations, before.allocations);
            assert_int_equal(hostile.live(NULL), objects);
            free(want);
            fovea_plan_free(plan);
            close_recording(device);
        }
}

/* Makes the first, the last and a middle call fail. The frame then runs without recordings and is
 * correct. If all later calls fail, too, there is an error with a message. */
static void each_call_fails(void **state)
{
    (void)state;
    size_t values, n;
    float *want = expected(1e-9, &values);
    int failed = 0, right = 0;
    for (long records = BUFFERS; records <= QUEUES; records++)
        for (int i = 0; i < FUNCTIONS; i++) {
            const long before = hostile.counted(functions[i]);
            fovea_device *device = open_recording(records, 1e-9);
            fovea_plan *plan = plan_on(device, "linear:elu1");
            free(fixture_run(plan, &n));
            fovea_plan_free(plan);
            close_recording(device);
            const long calls = hostile.counted(functions[i]) - before;
            for (long k = 0; k < 6 && calls; k++) {
                const long at = k % 3 == 0 ? 1 : k % 3 == 1 ? calls : 1 + calls / 2;
                hostile.set("gpu", 1);
                hostile.set("records", records);
                hostile.set("lasting", k >= 3);
                hostile.set("error", k % 2 ? -6 : -5); /* no memory; out of resources */
                hostile.only(functions[i]);
                hostile.set("fail", at);
                fovea_plan_options options = fixture_options("linear:elu1", FOVEA_SCHEDULE_AUTO);
                fovea_device_options limit = FOVEA_DEVICE_OPTIONS_INIT;
                fovea_ticket ticket;
                float *out = calloc(values, sizeof *out);
                device = NULL;
                plan = NULL;
                limit.max_dispatch_seconds = 1e-9;
                fovea_status status = fovea_device_open(&device, hostile.device, &limit);
                if (status == FOVEA_OK)
                    status = fovea_plan_create(&plan, model, device, &options);
                if (status == FOVEA_OK)
                    status = submit(plan, out, values, &ticket);
                if (status == FOVEA_OK)
                    status = fovea_wait(plan, ticket, 60);
                if (!hostile.failed())
                    fail_msg("call %ld of %ld, %s, does not come", at, calls, functions[i]);
                if (status != FOVEA_OK && strlen(fovea_error()) < 10)
                    fail_msg("%s: no message", functions[i]);
                if (status == FOVEA_OK)
                    assert_memory_equal(out, want, values * sizeof *out);
                failed++;
                right += status == FOVEA_OK;
                if (k < 3 && status != FOVEA_OK)
                    fail_msg("call %ld of %ld, %s: %s", at, calls, functions[i], fovea_error());
                free(out);
                fovea_plan_free(plan);
                close_recording(device);
            }
        }
    print_message("%d failures, %d frames right all the same\n", failed, right);
    assert_true(failed == 2 * right && right >= 21);
    free(want);
}

/* A probe detects that a driver's recordings are wrong. */
static void announced_in_vain(void **state)
{
    (void)state;
    size_t values;
    float *want = expected(0, &values);
    for (long records = LATE; records <= LACKING; records++) {
        fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
        fovea_device *device = open_recording(records, 0);
        fovea_device_describe(device, &info);
        if (!strstr(info.quirks, "command buffers") != (records == LACKING))
            fail_msg("quirks: %s", info.quirks);
        assert_null(strstr(info.features, "command buffers"));
        fovea_plan *plan = plan_on(device, "linear:elu1");
        run_pairs(plan, want, values);
        assert_int_equal(hostile.live("recording"), 0);
        fovea_plan_free(plan);
        close_recording(device);
    }
    free(want);
}

/* High clocks are requested if the driver supports that; a failure is ignored. */
static void high_clocks(void **state)
{
    (void)state;
    for (long hint = 0; hint <= 2; hint++) {
        size_t values;
        hostile.set("hint", hint);
        fovea_device *device = open_device(0);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        assert_int_equal(hostile.live("hinted context"), hint == 1);
        free(fixture_run(plan, &values));
        fovea_plan_free(plan);
        close_recording(device);
    }
}

/* A frame that never ends times out. Memory that the driver may still use is kept, so this must be
 * the last test. */
static void never_done(void **state)
{
    (void)state;
    for (long records = BUFFERS; records <= QUEUES; records++) {
        size_t values;
        fovea_ticket ticket;
        fovea_device *device = open_recording(records, 0);
        fovea_plan *plan = plan_on(device, "linear:elu1");
        float *out = fixture_run(plan, &values);
        hostile.set("hang", 2);
        assert_int_equal(submit(plan, out, values, &ticket), FOVEA_OK);
        assert_int_equal(fovea_wait(plan, ticket, 0.1), FOVEA_ETIMEOUT);
        fovea_plan_free(plan);
        free(out);
        fovea_device_close(device);
        hostile.set(NULL, 0);
        assert_int_equal(hostile.misuse(), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_calls),       cmocka_unit_test(with_images),
        cmocka_unit_test(traced),          cmocka_unit_test(steady),
        cmocka_unit_test(each_call_fails), cmocka_unit_test(announced_in_vain),
        cmocka_unit_test(high_clocks),     cmocka_unit_test(never_done),
    };
    const int missing = gpu_frames_open(argc, argv);
    if (missing)
        return missing;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
