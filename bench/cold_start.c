/* cold_start.c: a process that loads a model and runs a frame, for cold_start.py.
 *
 *     cold_start MODEL SIZE THREADS BEGIN
 *
 * BEGIN: CLOCK_MONOTONIC when the process was started. It prints the seconds from then until the
 * plan is ready and until the first frame is done, and the seconds of a later frame. Then it waits
 * for the end of its input, so that its memory can be examined.
 */
#include <fovea/fovea.h>

#include "stopwatch.h"

int main(int argc, char **argv)
{
    if (argc != 5)
        fail("usage: cold_start MODEL SIZE THREADS BEGIN");
    const double begin = atof(argv[4]);
    fovea_device *device = NULL;
    fovea_model *model = NULL;
    fovea_plan *plan = NULL;
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    device_options.threads = (uint32_t)atoi(argv[3]);
    options.frame.width = options.frame.height = (uint32_t)atoi(argv[2]);
    if (fovea_device_open(&device, "cpu", &device_options) || fovea_model_load(&model, argv[1]) ||
        fovea_plan_create(&plan, model, device, &options))
        fail(fovea_error());
    const double ready = seconds() - begin;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(plan, 0, &info);
    const fovea_frame frame = {
        .pixels = {calloc((size_t)options.frame.width * options.frame.height, 3)}};
    const size_t size = (size_t)info.rows * info.columns * sizeof(float);
    const fovea_output out = {malloc(size), size};
    if (!frame.pixels[0] || !out.data)
        fail("out of memory");
    if (fovea_run(plan, &frame, &out, 1))
        fail(fovea_error());
    const double first = seconds() - begin, again = seconds();
    if (fovea_run(plan, &frame, &out, 1))
        fail(fovea_error());
    printf("%.6f %.6f %.6f\n", ready, first, seconds() - again);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    free(out.data);
    free((void *)(uintptr_t)frame.pixels[0]);
    return 0;
}
