/* steady.c: the first frame and a hundred after it: latency compared with a fixed arithmetic loop
 * of equal length, page faults, allocations.
 *
 *   steady MODEL SIZE ATTENTION THREADS FRAMES
 *
 * The first frame is that of the process: nothing has run the plan's code before.
 * The loop runs between the frames, on as many threads, so that both see the same disturbances:
 * what the frames' p99/p50 has beyond the loop's is fovea's own.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <fovea/fovea.h>

#include "bench/stopwatch.h"
#include "platform/cpu/probe.h"

enum { THREADS_MAX = 64 };

struct loop {
    pthread_barrier_t start, end;
    uint64_t rounds;
    int stop;
};

static void *spin(void *arg)
{
    struct loop *l = arg;
    for (;;) {
        pthread_barrier_wait(&l->start);
        if (l->stop)
            return NULL;
        fv_probe_fma_c(l->rounds);
        pthread_barrier_wait(&l->end);
    }
}

static double run_loop(struct loop *l)
{
    double begin = seconds();
    pthread_barrier_wait(&l->start);
    fv_probe_fma_c(l->rounds);
    pthread_barrier_wait(&l->end);
    return seconds() - begin;
}

static double spread(const char *name, double *t, int n)
{
    qsort(t, (size_t)n, sizeof *t, ascending);
    double p50 = t[n / 2], p99 = t[(n * 99 + 99) / 100 - 1];
    printf("%-16s p50 %9.3f ms  p99 %9.3f ms  p99/p50 %.4f\n", name, 1e3 * p50, 1e3 * p99,
           p99 / p50);
    return p99 / p50;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        fail("usage: steady MODEL SIZE ATTENTION THREADS FRAMES");
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    const int threads = atoi(argv[4]), frames = atoi(argv[5]);
    if (threads < 1 || threads > THREADS_MAX || frames < 1)
        fail("1 to 64 threads, at least one frame");
    device_options.threads = (uint32_t)threads;
    options.frame.width = options.frame.height = (uint32_t)atoi(argv[2]);
    options.attention = argv[3];
    if (fovea_device_open(&device, "cpu", &device_options) || fovea_model_load(&model, argv[1]) ||
        fovea_plan_create(&plan, model, device, &options))
        fail(fovea_error());
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_output(plan, 0, &info);
    const size_t pixels = (size_t)options.frame.width * options.frame.height * 3;
    const size_t out_bytes = (size_t)info.rows * info.columns * sizeof(float);
    uint8_t *picture = malloc(pixels);
    float *result = malloc(out_bytes);
    double *frame_time = malloc((size_t)frames * sizeof(double));
    double *loop_time = malloc((size_t)frames * sizeof(double));
    double *work_time = malloc((size_t)frames * sizeof(double));
    if (!picture || !result || !frame_time || !loop_time || !work_time)
        fail("out of memory");
    memset(result, 1, out_bytes); /* a caller's pages, too, are to be there */
    for (size_t i = 0; i < pixels; i++)
        picture[i] = (uint8_t)(i * 2654435761u >> 24);
    for (int i = 0; i < frames; i++)
        frame_time[i] = loop_time[i] = work_time[i] = 0;
    const fovea_frame frame = {.pixels = {picture}};
    const fovea_output out = {result, out_bytes};
    double begin = seconds(), work = processor_seconds();
    if (fovea_run(plan, &frame, &out, 1))
        fail(fovea_error());
    const double first = seconds() - begin, first_work = processor_seconds() - work;
    begin = seconds();
    if (fovea_run(plan, &frame, &out, 1))
        fail(fovea_error());
    const double expected = seconds() - begin;

    struct loop loop = {.rounds = 1 << 20};
    pthread_t id[THREADS_MAX];
    pthread_barrier_init(&loop.start, NULL, (unsigned)threads);
    pthread_barrier_init(&loop.end, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++)
        if (pthread_create(&id[i], NULL, spin, &loop))
            fail("cannot start a thread");
    /* The first guess is from a short run, which a disturbance can spoil. */
    for (int i = 0; i < 4; i++)
        loop.rounds = (uint64_t)((double)loop.rounds * expected / run_loop(&loop)) + 1;

    struct rusage before, after;
    fovea_memory held = FOVEA_MEMORY_INIT, then = FOVEA_MEMORY_INIT;
    fovea_memory_query(&held);
    uint64_t faults = 0;
    for (int i = 0; i < frames; i++) {
        getrusage(RUSAGE_SELF, &before);
        begin = seconds();
        work = processor_seconds();
        if (fovea_run(plan, &frame, &out, 1))
            fail(fovea_error());
        frame_time[i] = seconds() - begin;
        work_time[i] = processor_seconds() - work;
        getrusage(RUSAGE_SELF, &after);
        faults +=
            (uint64_t)(after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt);
        loop_time[i] = run_loop(&loop);
    }
    fovea_memory_query(&then);
    loop.stop = 1;
    pthread_barrier_wait(&loop.start);
    for (int i = 1; i < threads; i++)
        pthread_join(id[i], NULL);

    double a = spread("frames", frame_time, frames),
           b = spread("arithmetic loop", loop_time, frames);
    qsort(work_time, (size_t)frames, sizeof *work_time, ascending);
    printf("first frame      %9.3f ms, %.4f of p50; %.4f of the processor time\n", 1e3 * first,
           first / frame_time[frames / 2], first_work / work_time[frames / 2]);
    printf("ratio of the two %.4f, %llu page faults, %llu allocations in %d frames\n", a / b,
           (unsigned long long)faults, (unsigned long long)(then.allocations - held.allocations),
           frames);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    free(picture);
    free(result);
    free(frame_time);
    free(loop_time);
    free(work_time);
    return 0;
}
