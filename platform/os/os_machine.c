/* os_machine.c: implements the parts of os_machine.h that any POSIX system has. */
#define _GNU_SOURCE /* RLIMIT_MEMLOCK */
#include "platform/os/os_machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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
    munlock(p, (size_t)size); /* unlocks the pages that were locked before the failure */
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof text, "; the limit is %.1f MiB", (double)limit.rlim_cur / (1 << 20));
    return fv_fail(FOVEA_ENOMEM,
                   "%s: %.1f MiB cannot be locked in memory: %s%s; raise RLIMIT_MEMLOCK (ulimit "
                   "-l, LimitMEMLOCK= of a service), or plan without lock_memory",
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

void fv_machine_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
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
