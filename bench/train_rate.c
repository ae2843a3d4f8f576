/* train_rate.c: a step of training compared with matrix products: time, FLOP/s, memory.
 *
 *   train_rate MODEL SIZE ATTENTION THREADS PICTURES STEPS
 *
 * A step is that of FOVEA_STAGE_TASK with a head of 10 classes: PICTURES pictures of SIZE x SIZE
 * forward and back, everything trained, AdamW. FLOPs are those that the trainer counts, with what
 * is computed again. The products are the model's own, of all its tokens, with packed weights; they
 * run between the steps, so that both see the same disturbances, and the best of them is the
 * measure. Memory: the peak of the process, without pages of files and what it had before, compared
 * with the estimate.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <fovea/adapt.h>
#include <fovea/operations.h>

#include "bench/numbers.h"
#include "bench/stopwatch.h"

enum { CLASSES = 10, ROUNDS = 3 };

/* Rows of the model's tokens by one of its weights. */
struct product {
    fovea_plan *plan;
    float *in, *weight, *out;
    double flops;
};

static struct product product_of(fovea_device *device, uint32_t rows, uint32_t out, uint32_t in)
{
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    struct product p = {.flops = 2. * rows * out * in,
                        .in = numbers((size_t)rows * in, 1),
                        .weight = numbers((size_t)out * in, 2),
                        .out = numbers((size_t)rows * out, 3)};
    o.rows = rows;
    o.in = in;
    o.out = out;
    o.weight = p.weight;
    if (fovea_gemm_plan_create(&p.plan, device, &o))
        fail(fovea_error());
    return p;
}

static void product_free(struct product *p)
{
    fovea_plan_free(p->plan);
    free(p->in);
    free(p->weight);
    free(p->out);
}

/* FLOP/s of the best round. */
static double product_rate(struct product *p)
{
    const fovea_matrix in = {p->in, 0}, out = {p->out, 0};
    double best = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = seconds();
        if (fovea_op_run(p->plan, &in, 1, out))
            fail(fovea_error());
        const double rate = p->flops / (seconds() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

/* At the peak, without pages of files: the program itself, and the checkpoint while it is read. */
static uint64_t bytes_at_peak(void)
{
    char line[128];
    long long most = 0, files = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "VmHWM: %lld", &most);
        sscanf(line, "RssFile: %lld", &files);
    }
    if (!f)
        fail("/proc/self/status is not there to be read");
    fclose(f);
    return (uint64_t)(most - files) << 10;
}

struct work {
    fovea_trainer *trainer;
    fovea_frame frame;
    int pictures;
    double update; /* seconds of the last one */
};

/* Seconds of a step. */
static double step(struct work *w)
{
    const double begin = seconds();
    for (int i = 0; i < w->pictures; i++) {
        const fovea_target target = {.label = (uint32_t)(i % CLASSES)};
        if (fovea_trainer_add(w->trainer, &w->frame, &target))
            fail(fovea_error());
    }
    const double gathered = seconds();
    if (fovea_trainer_step(w->trainer, NULL))
        fail(fovea_error());
    w->update = seconds() - gathered;
    return seconds() - begin;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        fail("usage: train_rate MODEL SIZE ATTENTION THREADS PICTURES STEPS");
    const int threads = atoi(argv[4]);
    const int size = atoi(argv[2]), pictures = atoi(argv[5]), steps = atoi(argv[6]);
    if (size < 1 || threads < 1 || pictures < 1 || steps < 1)
        fail("a size, a thread, a picture and a step at least");
    fovea_device *device;
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_trainer_options options = FOVEA_TRAINER_OPTIONS_INIT;
    fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT;
    struct work w = {.pictures = pictures};
    device_options.threads = (uint32_t)threads;
    options.stage = FOVEA_STAGE_TASK;
    options.classes = CLASSES;
    options.attention = argv[3];
    options.frame.width = options.frame.height = (uint32_t)size;
    options.lr = 1e-5f;
    options.steps = (uint32_t)steps + 1;
    if (fovea_device_open(&device, "cpu", &device_options))
        fail(fovea_error());
    const size_t bytes = (size_t)size * (size_t)size * 3;
    uint8_t *pixels = malloc(bytes);
    double *time = malloc((size_t)steps * sizeof *time);
    if (!pixels || !time)
        fail("out of memory");
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    w.frame = (fovea_frame){.pixels = {pixels}};

    const uint64_t before = bytes_at_peak();
    if (fovea_trainer_create(&w.trainer, argv[1], NULL, device, &options))
        fail(fovea_error());
    fovea_trainer_query(w.trainer, &info);
    const double first = step(&w);
    const uint64_t peak = bytes_at_peak() - before;

    fovea_model *model;
    fovea_model_info shape = FOVEA_MODEL_INFO_INIT;
    if (fovea_model_load(&model, argv[1]))
        fail(fovea_error());
    fovea_model_describe(model, &shape);
    struct product product[] = {
        product_of(device, info.tokens, 3 * shape.width, shape.width),
        product_of(device, info.tokens, 4 * shape.width, shape.width),
        product_of(device, info.tokens, shape.width, 4 * shape.width),
    };
    double best = 0, work = 0;
    for (int i = 0; i < steps; i++) {
        const double worked = processor_seconds();
        time[i] = step(&w);
        work += (processor_seconds() - worked) / steps;
        for (size_t k = 0; k < sizeof product / sizeof *product; k++) {
            const double rate = product_rate(&product[k]);
            best = rate > best ? rate : best;
        }
    }
    qsort(time, (size_t)steps, sizeof *time, ascending);
    const double middle = time[steps / 2], flops = info.flops * pictures;
    printf("%s, %d px, %s, %d threads, %d pictures\n", argv[1], size, info.attention, threads,
           pictures);
    printf("first step       %9.3f s\n", first);
    printf("step             %9.3f s in the middle of %d, %.3f s the fastest\n", middle, steps,
           time[0]);
    printf("update           %9.3f s of the last one: AdamW, weights packed again\n", w.update);
    printf("work             %9.2f GFLOP, %.2f of them computed again\n", 1e-9 * flops,
           1e-9 * info.recomputed * pictures);
    printf("training         %9.1f GFLOP/s, %.1f in the fastest step\n", 1e-9 * flops / middle,
           1e-9 * flops / time[0]);
    printf("matrix products  %9.1f GFLOP/s at best\n", 1e-9 * best);
    printf("ratio            %9.3f, %.3f in the fastest step\n", flops / middle / best,
           flops / time[0] / best);
    printf("processor time   %9.3f s of a step; ratio %.3f, had the threads not waited\n", work,
           flops / work * threads / best);
    printf("memory           %9.1f MB at the peak, %.1f promised\n", 1e-6 * (double)peak,
           1e-6 * (double)(info.total + info.process));
    for (size_t k = 0; k < sizeof product / sizeof *product; k++)
        product_free(&product[k]);
    fovea_trainer_free(w.trainer);
    fovea_model_free(model);
    fovea_device_close(device);
    free(pixels);
    free(time);
    return 0;
}
