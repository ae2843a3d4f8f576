/* os_machine.c: processors, time and memory on Linux and, as far as they go, other POSIX systems.
 */
#define _GNU_SOURCE
#include "platform/os/os_machine.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "platform/os/os_cgroup.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

void *fv_machine_alloc(size_t align, size_t size)
{
    return aligned_alloc(align, size);
}

void fv_machine_free_block(void *p)
{
    free(p);
}

void fv_machine_advise_huge(void *p, uint64_t size)
{
#ifdef MADV_HUGEPAGE
    madvise(p, (size_t)size, MADV_HUGEPAGE);
#else
    (void)p;
    (void)size;
#endif
}

uint64_t fv_machine_page(void)
{
    const long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (uint64_t)size : 4096;
}

fovea_status fv_machine_lock(void *p, uint64_t size, const char *what)
{
    struct rlimit limit;
    char text[64] = "";
    if (mlock(p, (size_t)size) == 0)
        return FOVEA_OK;
    const int reason = errno;
    munlock(p, (size_t)size); /* what of it was locked */
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof text, "; RLIMIT_MEMLOCK is %.1f MiB",
                 (double)limit.rlim_cur / (1 << 20));
    return fv_fail(FOVEA_ENOMEM,
                   "%s: %.1f MiB cannot be locked in memory: %s%s; raise that limit (ulimit -l, "
                   "LimitMEMLOCK= of a service), or plan without lock_memory",
                   what, (double)size / (1 << 20), strerror(reason), text);
}

void fv_machine_unlock(void *p, uint64_t size)
{
    munlock(p, (size_t)size);
}

double fv_machine_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t fv_machine_process(void)
{
    return (uint64_t)getpid();
}

uint64_t fv_machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    const uint64_t all = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
    const uint64_t ours = fv_cgroup_memory("");
    return all && all < ours ? all : ours == UINT64_MAX ? 0 : ours;
}

uint64_t fv_machine_free(void)
{
    return fv_cgroup_free("");
}

static struct timespec timespec_of(double seconds)
{
    return (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
}

void fv_machine_sleep(_Atomic uint32_t *word, uint32_t seen, double seconds)
{
    const struct timespec t = timespec_of(seconds);
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, seconds < 0 ? NULL : &t, NULL, 0);
#else
    /* No futex: poll at a rate that costs nothing and delays a frame little. */
    const struct timespec tick = {0, 50000};
    if (atomic_load(word) == seen)
        nanosleep(seconds >= 0 && seconds < 50e-6 ? &t : &tick, NULL);
#endif
}

void fv_machine_nap(double seconds)
{
    const struct timespec t = timespec_of(seconds);
#ifdef __linux__
    /* Linux lets a sleep last 50 us longer, which is more than a nap. A thread whose slack is 0 has
     * a real-time policy, and none. */
    const int slack = prctl(PR_GET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul);
    const bool changed = slack > 1 && prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul) == 0;
#endif
    nanosleep(&t, NULL);
#ifdef __linux__
    if (changed)
        prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0ul, 0ul, 0ul);
#endif
}

void fv_machine_wake(_Atomic uint32_t *word)
{
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)word;
#endif
}

void fv_machine_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

void fv_machine_allowed(bool *allowed, uint32_t n)
{
    uint32_t found = 0;
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (uint32_t i = 0; i < n; i++)
            found += allowed[i] = i < CPU_SETSIZE && CPU_ISSET(i, &set) != 0;
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t i = 0; found == 0 && i < n; i++)
        allowed[i] = i == 0 || i < (online > 0 ? (uint32_t)online : 1);
}

void fv_machine_pin(const uint32_t *cpus, uint32_t n)
{
#ifdef __linux__
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < n; i++)
        if (cpus[i] < CPU_SETSIZE)
            CPU_SET(cpus[i], &set);
    sched_setaffinity(0, sizeof set, &set);
#else
    (void)cpus;
    (void)n;
#endif
}

uint32_t fv_machine_here(void)
{
#ifdef __linux__
    int cpu = sched_getcpu();
    return cpu >= 0 ? (uint32_t)cpu : UINT32_MAX;
#else
    return UINT32_MAX;
#endif
}

void fv_machine_name_thread(const char *name)
{
#ifdef __linux__
    pthread_setname_np(pthread_self(), name);
#else
    (void)name;
#endif
}

uint64_t fv_machine_float_enter(void)
{
#if defined(__x86_64__)
    uint32_t old = _mm_getcsr();
    _mm_setcsr((old & ~0x6000u) | 0x8040u | 0x1f80u); /* nearest, FTZ, DAZ, exceptions masked */
    return old;
#elif defined(__aarch64__)
    uint64_t old;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"((old & ~(3ull << 22)) | (1ull << 24)));
    return old;
#else
    return 0;
#endif
}

void fv_machine_float_leave(uint64_t mode)
{
#if defined(__x86_64__)
    _mm_setcsr((uint32_t)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
    (void)mode;
#endif
}

void fv_machine_cpu_name(char *out, size_t size)
{
    snprintf(out, size, "CPU");
#ifdef __linux__
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || (strncmp(line, "model name", 10) && strncmp(line, "Hardware", 8)))
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size, "%s", colon + 1 + (colon[1] == ' '));
        break;
    }
    if (f)
        fclose(f);
#endif
}
