/* machine.c: the machine's own limits, measured with all threads at once, and process memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "probe.h"

#define BYTES (UINT64_C(256) << 20) /* of the memory probes, all threads together */
enum { TRIES = 3, THREADS_MAX = 1024 };

struct level {
    const char *isa; /* found in the device's features */
    double (*fma)(uint64_t rounds);
    float (*read)(const float *p, size_t n);
};

/* The last line holds for any device. */
static const struct level levels[] = {
#ifdef FV_ARCH_X86
    {"avx512", probe_fma_avx512, probe_read_avx512},
    {"avx2", probe_fma_avx2, probe_read_avx2},
#endif
#ifdef FV_ARCH_ARM64
    {"neon", probe_fma_neon, probe_read_neon},
#endif
    {"", probe_fma_c, probe_read_c},
};

enum what { FMA, READ, COPY };

struct job {
    const struct level *level;
    enum what what;
    uint64_t rounds;
    float *from, *to;
    size_t n;
    pthread_barrier_t *start;
    double begin, end, work;
};

static void *work(void *arg)
{
    struct job *j = arg;
    pthread_barrier_wait(j->start);
    j->begin = cli_seconds();
    if (j->what == FMA) {
        j->work = j->level->fma(j->rounds);
    } else if (j->what == READ) {
        volatile float used = j->level->read(j->from, j->n);
        (void)used;
        j->work = (double)(j->n * sizeof(float));
    } else {
        memcpy(j->to, j->from, j->n * sizeof(float));
        j->work = 2.0 * (double)(j->n * sizeof(float));
    }
    j->end = cli_seconds();
    return NULL;
}

/* Work per second, from the first start to the last end. */
static double together(struct job *job, uint32_t threads)
{
    pthread_t id[THREADS_MAX];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    for (uint32_t t = 0; t < threads; t++) {
        job[t].start = &start;
        if (t && pthread_create(&id[t], NULL, work, &job[t]))
            exit(cli_fail(CLI_UNSUPPORTED, "cannot start %u threads", threads));
    }
    work(&job[0]);
    double begin = job[0].begin, end = job[0].end, sum = job[0].work;
    for (uint32_t t = 1; t < threads; t++) {
        pthread_join(id[t], NULL);
        begin = job[t].begin < begin ? job[t].begin : begin;
        end = job[t].end > end ? job[t].end : end;
        sum += job[t].work;
    }
    pthread_barrier_destroy(&start);
    return sum / (end - begin);
}

static double best(struct job *job, uint32_t threads, enum what what)
{
    double top = 0;
    for (int i = 0; i < TRIES; i++) {
        for (uint32_t t = 0; t < threads; t++)
            job[t].what = what;
        double rate = together(job, threads);
        top = rate > top ? rate : top;
    }
    return top;
}

static const struct level *level_of(const char *isa)
{
    const struct level *level = levels;
    while (!strstr(isa, level->isa))
        level++;
    return level;
}

static uint32_t bounded(uint32_t threads)
{
    return threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
}

void bench_fma_measure(double *best_rate, const char *isa, uint32_t threads)
{
    threads = bounded(threads);
    struct job *job = cli_alloc(threads, sizeof *job);
    for (uint32_t t = 0; t < threads; t++)
        job[t] = (struct job){.level = level_of(isa), .rounds = 1 << 22};
    double rate = best(job, threads, FMA);
    *best_rate = rate > *best_rate ? rate : *best_rate;
    free(job);
}

/* Jobs over memory of their own, to be freed with `from` and `to` of the first. */
static struct job *memory_jobs(const char *isa, uint32_t threads)
{
    struct job *job = cli_alloc(threads, sizeof *job);
    const size_t n = (size_t)(BYTES / sizeof(float) / threads) / 256 * 256;
    float *from = cli_alloc(n * threads, sizeof *from), *to = cli_alloc(n * threads, sizeof *to);
    memset(from, 1, n * threads * sizeof *from); /* pages of their own, not the shared zero page */
    for (uint32_t t = 0; t < threads; t++)
        job[t] =
            (struct job){.level = level_of(isa), .from = from + t * n, .to = to + t * n, .n = n};
    return job;
}

static void free_jobs(struct job *job)
{
    free(job->from);
    free(job->to);
    free(job);
}

void bench_limits_measure(bench_limits *out, const char *isa, uint32_t threads)
{
    threads = bounded(threads);
    struct job *job = memory_jobs(isa, threads);
    out->read = best(job, threads, READ);
    out->copy = best(job, threads, COPY);
    free_jobs(job);
    bench_fma_measure(&out->fma, isa, threads);
}

/* ---- memory as a case ---- */

struct memory {
    struct job *job;
    uint32_t threads;
};

static int run_memory(void *state)
{
    const struct memory *m = state;
    together(m->job, m->threads);
    return CLI_OK;
}

static int check_memory(void *state, bench_verify *out)
{
    (void)state;
    out->ok = true;
    return CLI_OK;
}

static void release_memory(void *state)
{
    struct memory *m = state;
    free_jobs(m->job);
    free(m);
}

void bench_memory_case(bench_case *out, bench_device *on, bool copy)
{
    struct memory *m = cli_alloc(1, sizeof *m);
    m->threads = bounded(fovea_device_threads(on->device));
    m->job = memory_jobs(on->isa, m->threads);
    for (uint32_t t = 0; t < m->threads; t++)
        m->job[t].what = copy ? COPY : READ;
    out->on = on;
    out->title = cli_text(copy ? "memory copy" : "memory read");
    out->state = m;
    out->run = run_memory;
    out->check = check_memory;
    out->release = release_memory;
    out->bytes = (copy ? 2. : 1.) * (double)(m->job->n * m->threads * sizeof(float));
}

/* A line of /proc/self/status in bytes; 0 where there is no such thing. */
static uint64_t status_line(const char *name)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %llu", &kib);
    if (f)
        fclose(f);
    return kib * 1024;
}

uint64_t bench_memory_begin(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5\n", f); /* the peak starts again from here */
        fclose(f);
    }
    return status_line("VmRSS");
}

uint64_t bench_memory_peak(void)
{
    return status_line("VmHWM");
}

void bench_fill(float *out, size_t n, uint64_t seed)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = (float)((double)(x >> 40) / (1 << 23) - 1);
    }
}
