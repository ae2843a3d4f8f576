/* test_nap.c: how long a thread sleeps between two looks at a device: no shorter than it says, not
 * longer by its timer slack, which it keeps.
 *
 *   test_nap            the checks
 *   test_nap --times    microseconds of naps of 20, at the slack that threads have: the shortest,
 *                       the median and the ninth of ten, then those of nanosleep
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "platform/os/os_machine.h"

enum { TIMES = 2000, TRIES = 20 };

static int passed, failed;

static void expect(bool good, const char *what)
{
    passed += good;
    failed += !good;
    if (!good)
        printf("FAIL %s\n", what);
}

static void plain_sleep(double seconds)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

static double seconds_of(void (*nap)(double), double seconds)
{
    const double begin = fv_machine_seconds();
    nap(seconds);
    return fv_machine_seconds() - begin;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, void (*nap)(double))
{
    static double taken[TIMES];
    for (int i = 0; i < TIMES; i++)
        taken[i] = seconds_of(nap, 20e-6) * 1e6;
    qsort(taken, TIMES, sizeof *taken, by_size);
    printf("%-10s %6.1f %6.1f %6.1f\n", name, taken[0], taken[TIMES / 2], taken[TIMES * 9 / 10]);
}

static double shortest_nap(double seconds)
{
    double shortest = seconds_of(fv_machine_nap, seconds);
    for (int i = 1; i < TRIES; i++) {
        const double taken = seconds_of(fv_machine_nap, seconds);
        shortest = taken < shortest ? taken : shortest;
    }
    return shortest;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--times") == 0) {
        print_times("nap", fv_machine_nap);
        print_times("nanosleep", plain_sleep);
        return 0;
    }
    expect(shortest_nap(1e-3) >= 1e-3, "a nap of a millisecond is too short");
    expect(shortest_nap(0) < 5e-3, "a nap of nothing takes long");
#ifdef __linux__
    const unsigned long slack = 20000000; /* ns */
    if (prctl(PR_SET_TIMERSLACK, slack, 0ul, 0ul, 0ul) == 0) {
        expect(shortest_nap(20e-6) < 10e-3, "the thread's timer slack makes naps longer");
        expect(prctl(PR_GET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul) == (int)slack,
               "the thread has another timer slack");
    }
#endif
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
