/* stopwatch.h: time, and the end of a benchmark that cannot go on. */
#ifndef FOVEA_BENCH_STOPWATCH_H
#define FOVEA_BENCH_STOPWATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void fail(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(2);
}

#endif
