/* test_steady.c: tests that a frame of a plan needs no allocation, page fault or file access. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include <fovea/results.h>

#include "tests/fixture.h"
#include "tests/plan/heap_calls.h"

typedef struct costs {
    uint64_t heap, library;
    int64_t faults, reads;
} costs;

/* Returns the read system calls of this process so far, including those of this function, or 0. */
static int64_t read_calls(void)
{
    static char text[1024];
    long long calls = 0;
    FILE *f = fopen("/proc/self/io", "r");
    if (!f)
        return 0;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *at = strstr(text, "syscr: ");
    if (at)
        sscanf(at, "syscr: %lld", &calls);
    return calls;
}

static int64_t fault_count(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static costs costs_now(void)
{
    fovea_memory memory = FOVEA_MEMORY_INIT;
    costs c;
    c.reads = read_calls(); /* first, because it allocates and may fault */
    fovea_memory_query(&memory);
    c.library = memory.allocations;
    c.faults = fault_count();
    c.heap = heap_calls();
    return c;
}

static void frames_of(fovea_model *model, int frames, const char *attention,
                      fovea_schedule schedule, int resized)
{
    fovea_device *device = fixture_device(2);
    fovea_plan_options options = fixture_options(attention, schedule);
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan *plan;
    fovea_model_preprocess(model, &rule);
    fovea_preprocess_resize(&rule, 84, 56);
    if (resized)
        options.preprocess = &rule;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    assert_true(fovea_plan_output(plan, 0, &info));
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    const fovea_output out = {malloc(size), size};
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(fovea_run(plan, &frame, &out, 1), FOVEA_OK);

    /* A fault caused by frames recurs. A single fault is the system's: on a loaded machine a worker
     * may sleep for the first time, which runs code that was never touched before. */
    int64_t faults = 1;
    for (int tries = 0; tries < 3 && faults; tries++) {
        const costs idle = costs_now(), before = costs_now();
        for (int i = 0; i < frames; i++)
            fovea_run(plan, &frame, &out, 1);
        faults = fault_count() - before.faults;
        const uint64_t heap = heap_calls() - before.heap;
        const costs after = costs_now();
        assert_int_equal(after.library, before.library);
        assert_int_equal(after.reads - before.reads, before.reads - idle.reads);
        assert_int_equal(heap, 0);
    }
    if (HEAP_COUNTED)
        assert_int_equal(faults, 0);
    free(out.data);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

static void hundred_frames(const char *attention, fovea_schedule schedule, int resized)
{
    frames_of(fixture_load(), 100, attention, schedule, resized);
}

/* Runs ten frames of a larger model, at another size than that of its tables. */
static void ten_frames(const char *name, const char *attention, fovea_schedule schedule,
                       int resized)
{
    fovea_model *model;
    assert_int_equal(fovea_model_load(&model, name), FOVEA_OK);
    frames_of(model, 10, attention, schedule, resized);
}

static void pola_swin_streamed(void **state)
{
    (void)state;
    ten_frames("synthetic:pola-swin-t", NULL, FOVEA_SCHEDULE_STREAMED, 0);
}

static void pola_pvt_stepwise(void **state)
{
    (void)state;
    ten_frames("synthetic:pola-pvt-t", NULL, FOVEA_SCHEDULE_STEPWISE, 1);
}

static void dinov3_streamed(void **state)
{
    (void)state;
    ten_frames("synthetic:dinov3-s", "softmax+mala@3-8", FOVEA_SCHEDULE_STREAMED, 1);
}

static void depth_anything_streamed(void **state)
{
    (void)state;
    ten_frames("synthetic:depth-anything-s", "softmax+linear:elu1@4-", FOVEA_SCHEDULE_STREAMED, 1);
}

static void vitpose_stepwise(void **state)
{
    (void)state;
    ten_frames("synthetic:vitpose-s", NULL, FOVEA_SCHEDULE_STEPWISE, 0);
}

enum { BOX_OUTPUTS = 10 };

/* Finds the boxes of a detector, without an allocation. */
static void boxes_of(const char *path, const char *const *names, size_t n)
{
    enum { MOST = 100 };
    static fovea_detection found[MOST];
    fovea_model *model;
    fovea_plan *plan;
    fovea_device *device = fixture_device(2);
    fovea_plan_options options = fixture_options(NULL, FOVEA_SCHEDULE_STEPWISE);
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_output out[BOX_OUTPUTS];
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    size_t count = 0;
    assert_int_equal(fovea_model_load(&model, path), FOVEA_OK);
    fovea_model_preprocess(model, &rule);
    fovea_preprocess_resize(&rule, 84, 56);
    options.preprocess = &rule;
    options.outputs = names;
    options.n_outputs = n;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    for (size_t i = 0; i < n; i++) {
        fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
        assert_true(fovea_plan_output(plan, i, &info));
        out[i].size = (size_t)info.rows * info.columns * sizeof(float);
        out[i].data = malloc(out[i].size);
    }
    assert_int_equal(fovea_run(plan, &frame, out, n), FOVEA_OK);
    assert_int_equal(fovea_detections(plan, out, n, found, MOST, &count), FOVEA_OK);
    const costs before = costs_now();
    for (int i = 0; i < 3; i++) {
        fovea_run(plan, &frame, out, n);
        fovea_detections(plan, out, n, found, MOST, &count);
    }
    const uint64_t heap = heap_calls() - before.heap;
    assert_int_equal(costs_now().library, before.library);
    assert_int_equal(heap, 0);
    assert_true(count > 0);
    /* With a missing or small output nothing is written. */
    assert_int_equal(fovea_detections(plan, out, n - 1, found, MOST, &count), FOVEA_EINVAL);
    out[1].size--;
    assert_int_equal(fovea_detections(plan, out, n, found, MOST, &count), FOVEA_EINVAL);
    for (size_t i = 0; i < n; i++)
        free(out[i].data);
    fovea_plan_free(plan);
    /* A plan without one of the outputs finds no boxes. */
    options.n_outputs = 1;
    assert_int_equal(fovea_plan_create(&plan, model, device, &options), FOVEA_OK);
    assert_int_equal(fovea_detections(plan, out, 1, found, MOST, &count), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), names[0]));
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

static void boxes_of_anchors(void **state)
{
    (void)state;
    static char name[BOX_OUTPUTS][16];
    const char *names[BOX_OUTPUTS];
    for (int i = 0; i < BOX_OUTPUTS; i++) {
        snprintf(name[i], sizeof name[i], "%s.%d", i % 2 ? "box" : "cls", i / 2);
        names[i] = name[i];
    }
    boxes_of("synthetic:nalaformer-xt-retinanet", names, BOX_OUTPUTS);
}

static void boxes_of_queries(void **state)
{
    (void)state;
    const char *const names[] = {"logits", "pred_boxes"};
    boxes_of(TEST_DATA "/golden/models/rf-detr-02", names, 2);
    boxes_of(TEST_DATA "/golden/models/rf-detr-seg-01", names, 2);
    boxes_of(TEST_DATA "/golden/models/lw-detr-01", names, 2);
    boxes_of(TEST_DATA "/golden/models/yolos-01", names, 2);
}

static void boxes_of_regions(void **state)
{
    (void)state;
    const char *const names[] = {"pred_scores", "pred_boxes"};
    boxes_of(TEST_DATA "/golden/models/mavit-mask-rcnn-01", names, 2);
    boxes_of(TEST_DATA "/golden/models/mavit-cascade-rcnn-01", names, 2);
}

/* Runs one small model of every family and variant in tests/data. */
static void every_family(void **state)
{
    (void)state;
    static const char folder[] = TEST_DATA "/golden/models";
    int models = 0;
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ten_frames(path, NULL, models % 2 ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE,
                   models % 2);
        models++;
    }
    closedir(list);
    assert_true(models > 10);
}

static void linear_streamed(void **state)
{
    (void)state;
    hundred_frames("linear:elu1", FOVEA_SCHEDULE_STREAMED, 0);
}

static void linear_stepwise(void **state)
{
    (void)state;
    hundred_frames("linear:elu1", FOVEA_SCHEDULE_STEPWISE, 1);
}

static void softmax_streamed(void **state)
{
    (void)state;
    hundred_frames("softmax", FOVEA_SCHEDULE_STREAMED, 1);
}

static void softmax_stepwise(void **state)
{
    (void)state;
    hundred_frames("softmax", FOVEA_SCHEDULE_STEPWISE, 0);
}

static void hybrid_streamed(void **state)
{
    (void)state;
    hundred_frames("sla-linear+softmax@1", FOVEA_SCHEDULE_STREAMED, 0);
}

static void hybrid_stepwise(void **state)
{
    (void)state;
    hundred_frames("softmax+mala@0", FOVEA_SCHEDULE_STEPWISE, 1);
}

/* The hook must count the library's calls, otherwise the test could not fail. */
static void hook_counts(void **state)
{
    (void)state;
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    const uint64_t heap = heap_calls(), here = heap_calls_here();
    fovea_memory_query(&before);
    fovea_model *model = fixture_load();
    fovea_memory_query(&after);
    assert_true(after.allocations > before.allocations);
    if (HEAP_COUNTED) {
        assert_true(heap_calls() - heap >= after.allocations - before.allocations);
        assert_true(heap_calls_here() - here >= after.allocations - before.allocations);
    }
    fovea_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hook_counts),
        cmocka_unit_test(linear_streamed),
        cmocka_unit_test(linear_stepwise),
        cmocka_unit_test(softmax_streamed),
        cmocka_unit_test(softmax_stepwise),
        cmocka_unit_test(hybrid_streamed),
        cmocka_unit_test(hybrid_stepwise),
        cmocka_unit_test(pola_swin_streamed),
        cmocka_unit_test(pola_pvt_stepwise),
        cmocka_unit_test(dinov3_streamed),
        cmocka_unit_test(depth_anything_streamed),
        cmocka_unit_test(vitpose_stepwise),
        cmocka_unit_test(every_family),
        cmocka_unit_test(boxes_of_anchors),
        cmocka_unit_test(boxes_of_queries),
        cmocka_unit_test(boxes_of_regions),
    };
    fixture_draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
