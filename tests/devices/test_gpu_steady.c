/* test_gpu_steady.c: a thousand frames on every OpenCL and every CUDA device: no allocation of the
 * library's, no growth of the process.
 *
 *   test_gpu_steady [path/to/libemulated_cuda.so]
 *
 * The emulated device, where it is named, is the only one, and has a hundred.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "tests/devices/hostile.h"
#include "tests/fixture.h"
#include "tests/plan/heap_calls.h"

enum {
    DEVICES = 16,
    WARM = 200, /* frames until the driver's pools have reached their size */
    FRAMES = 1000,
    FEW_WARM = 10, /* for the emulated device */
    FEW_FRAMES = 100,
    GROWTH = 1 << 20, /* bytes over all frames, so that a leak of 1 KiB per frame is detected */
    GROWTH_OF_MESA =
        4 << 20, /* rusticl of Mesa 25 keeps 2 KiB per frame; that of 22.3 keeps nothing */
};

static fovea_device_info infos[DEVICES];
static int devices;

static uint64_t resident(void)
{
    unsigned long long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu %llu", &size, &pages), 2);
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Runs frames one after the other, with two in flight. */
static void run_frames(fovea_plan *plan, const fovea_output out[2], int frames)
{
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    fovea_ticket ticket[2];
    for (int i = 0; i <= frames; i++) {
        if (i < frames && fovea_submit(plan, &frame, &out[i % 2], 1, &ticket[i % 2]) != FOVEA_OK)
            fail_msg("frame %d: %s", i, fovea_error());
        if (i > 0 && fovea_wait(plan, ticket[(i - 1) % 2], -1) != FOVEA_OK)
            fail_msg("frame %d: %s", i - 1, fovea_error());
    }
}

static void steady_on(const char *id, const char *driver)
{
    fovea_device *device;
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_model *model = fixture_load();
    if (fovea_device_open(&device, id, NULL) != FOVEA_OK)
        fail_msg("%s: %s", id, fovea_error());
    fovea_plan *plan = fixture_plan(model, device, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    assert_true(fovea_plan_output(plan, 0, &info));
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    const fovea_output out[2] = {{malloc(size), size}, {malloc(size), size}};
    run_frames(plan, out, hostile.cuda ? FEW_WARM : WARM);

    const uint64_t memory = resident();
    fovea_memory_query(&before);
    const uint64_t here = heap_calls_here(), all = heap_calls();
    run_frames(plan, out, hostile.cuda ? FEW_FRAMES : FRAMES);
    const uint64_t ours = heap_calls_here() - here, drivers = heap_calls() - all;
    fovea_memory_query(&after);
    const int64_t growth = (int64_t)(resident() - memory);

    print_message("%s: %llu heap calls of ours, %llu of the driver, %lld KiB of growth\n", id,
                  (unsigned long long)ours, (unsigned long long)drivers, (long long)growth / 1024);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(ours, 0);
    if (HEAP_COUNTED) /* sanitizers keep freed memory */
        assert_true(growth < (strstr(driver, "Mesa") ? GROWTH_OF_MESA : GROWTH));
    assert_memory_equal(out[0].data, out[1].data, size);
    free(out[0].data);
    free(out[1].data);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

static void thousand_frames(void **state)
{
    (void)state;
    int tried = 0;
    for (int i = 0; i < devices; i++)
        if (hostile.cuda ? !strncmp(infos[i].id, "cuda:", 5) : strcmp(infos[i].id, "cpu") != 0) {
            steady_on(infos[i].id, infos[i].driver);
            tried++;
        }
    if (!tried) {
        print_message("skipped: no GPU and no emulated one\n");
        skip();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(thousand_frames)};
    setenv("RUSTICL_ENABLE", "llvmpipe", 0);
    if (argc > 1 && !hostile_open(argv[1]))
        return 1;
    for (; devices < DEVICES; devices++) {
        infos[devices].struct_size = sizeof *infos;
        if (!fovea_device_list((size_t)devices, &infos[devices]))
            break;
    }
    fixture_draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
