/* stopwatch.h: times and their order, and how a benchmark ends that cannot continue. */
#ifndef FOVEA_BENCH_STOPWATCH_H
#define FOVEA_BENCH_STOPWATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double seconds(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

/* Processor time of all threads so far: time that other programs take does not count. */
static inline double processor_seconds(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* For qsort. */
static inline int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void fail(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(2);
}

#endif
