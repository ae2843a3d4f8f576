/* train_compute.c: steps of training with products of bfloat16 compared with float32.
 *
 *   train_compute MODEL SIZE ATTENTION THREADS PICTURES STEPS
 *
 * A step is that of FOVEA_STAGE_FEATURES: PICTURES pictures of SIZE x SIZE, the softmax model
 * included. The two take turns, so that both see the same disturbances, and the ratio is the median
 * of those of neighbouring steps. Where the processor has no instructions for bfloat16, its
 * products are those of float32 plus the rounding: the ratio is above 1, and says nothing
 * about processors that have them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <fovea/adapt.h>
#include <fovea/plans.h>

#include "bench/stopwatch.h"

enum { KINDS = 2 };

static const fovea_compute kinds[KINDS] = {FOVEA_COMPUTE_F32, FOVEA_COMPUTE_BF16};
static const char *const names[KINDS] = {"float32", "bfloat16"};

/* Seconds of a step. */
static double step(fovea_trainer *t, const fovea_frame *frame, int pictures, double *loss)
{
    fovea_trainer_report report = FOVEA_TRAINER_REPORT_INIT;
    const double begin = seconds();
    for (int i = 0; i < pictures; i++)
        if (fovea_trainer_add(t, frame, NULL))
            fail(fovea_error());
    if (fovea_trainer_step(t, &report))
        fail(fovea_error());
    *loss = report.loss;
    return seconds() - begin;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[n / 2];
}

int main(int argc, char **argv)
{
    if (argc != 7)
        fail("usage: train_compute MODEL SIZE ATTENTION THREADS PICTURES STEPS");
    const int size = atoi(argv[2]), threads = atoi(argv[4]);
    const int pictures = atoi(argv[5]), steps = atoi(argv[6]);
    if (size < 1 || threads < 1 || pictures < 1 || steps < 1)
        fail("a size, a thread, a picture and a step at least");
    fovea_device *device;
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_device_info its = FOVEA_DEVICE_INFO_INIT;
    fovea_trainer_info info[KINDS] = {FOVEA_TRAINER_INFO_INIT, FOVEA_TRAINER_INFO_INIT};
    fovea_trainer *trainer[KINDS];
    device_options.threads = (uint32_t)threads;
    if (fovea_device_open(&device, "cpu", &device_options))
        fail(fovea_error());
    fovea_device_describe(device, &its);
    for (int k = 0; k < KINDS; k++) {
        fovea_trainer_options options = FOVEA_TRAINER_OPTIONS_INIT;
        options.stage = FOVEA_STAGE_FEATURES;
        options.attention = argv[3];
        options.frame.width = options.frame.height = (uint32_t)size;
        options.lr = 1e-5f;
        options.loss = FOVEA_LOSS_RELATIVE;
        options.compute = kinds[k];
        if (fovea_trainer_create(&trainer[k], argv[1], NULL, device, &options))
            fail(fovea_error());
        fovea_trainer_query(trainer[k], &info[k]);
    }
    const size_t bytes = (size_t)size * (size_t)size * 3;
    uint8_t *pixels = malloc(bytes);
    double *time = malloc((KINDS + 1) * (size_t)steps * sizeof *time), loss[KINDS];
    if (!pixels || !time)
        fail("out of memory");
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    const fovea_frame frame = {.pixels = {pixels}};
    double *const of[KINDS] = {time, time + steps}, *ratio = time + KINDS * steps;
    for (int i = -1; i < steps; i++) /* the first ones touch their memory for the first time */
        for (int turn = 0; turn < KINDS; turn++) {
            const int k = (turn + i + KINDS) % KINDS;
            const double spent = step(trainer[k], &frame, pictures, &loss[k]);
            if (i >= 0)
                of[k][i] = spent;
        }
    for (int i = 0; i < steps; i++)
        ratio[i] = of[1][i] / of[0][i];
    printf("%s, %d px, %s, %d threads, %d pictures; %s, %s instructions for bfloat16\n", argv[1],
           size, info[0].attention, threads, pictures, its.features, its.bf16 ? "with" : "without");
    for (int k = 0; k < KINDS; k++)
        printf("%-10s %9.3f s a step in the middle of %d, %9.1f MB promised, loss %.6g\n", names[k],
               median(of[k], steps), steps, 1e-6 * (double)info[k].total, loss[k]);
    printf("ratio      %9.3f\n", median(ratio, steps));
    for (int k = 0; k < KINDS; k++)
        fovea_trainer_free(trainer[k]);
    fovea_device_close(device);
    free(pixels);
    free(time);
    return 0;
}
