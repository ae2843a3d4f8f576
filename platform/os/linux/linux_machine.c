/* linux_machine.c: implements the parts of os_machine.h that only Linux has, including Android. */
#define _GNU_SOURCE
#include "platform/os/os_machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/os/os_cgroup.h"

void fv_machine_advise_huge(void *p, uint64_t size)
{
    madvise(p, (size_t)size, MADV_HUGEPAGE);
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

/* Adds the second number of a thread's schedstat: nanoseconds that it waited on a run queue. */
static bool thread_waited(double *sum, int threads, const char *thread)
{
    char path[300], text[128];
    unsigned long long ran, waited;
    snprintf(path, sizeof path, "%s/schedstat", thread);
    const int file = openat(threads, path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT; /* the thread has ended */
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    if (n <= 0)
        return false;
    text[n] = 0;
    if (sscanf(text, "%llu %llu", &ran, &waited) != 2)
        return false;
    *sum += 1e-9 * (double)waited;
    return true;
}

double fv_machine_waited(void)
{
    double sum = 0;
    bool known = true;
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return NAN;
    for (const struct dirent *d; known && (d = readdir(threads));)
        if (d->d_name[0] != '.')
            known = thread_waited(&sum, dirfd(threads), d->d_name);
    closedir(threads);
    return known ? sum : NAN;
}

static struct timespec timespec_of(double seconds)
{
    return (struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
}

void fv_machine_sleep(_Atomic uint32_t *word, uint32_t seen, double seconds)
{
    const struct timespec t = timespec_of(seconds);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, seconds < 0 ? NULL : &t, NULL, 0);
}

void fv_machine_nap(double seconds)
{
    const struct timespec t = timespec_of(seconds);
    /* By default Linux lets a sleep last 50 us longer, which is more than a nap takes. A slack of 0
     * means that the thread has a real-time policy, for which there is no slack. */
    const int slack = prctl(PR_GET_TIMERSLACK, 0ul, 0ul, 0ul, 0ul);
    const bool changed = slack > 1 && prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul) == 0;
    nanosleep(&t, NULL);
    if (changed)
        prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0ul, 0ul, 0ul);
}

void fv_machine_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void fv_machine_allowed(bool *allowed, uint32_t n)
{
    uint32_t found = 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (uint32_t i = 0; i < n; i++)
            found += allowed[i] = i < CPU_SETSIZE && CPU_ISSET(i, &set) != 0;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t i = 0; found == 0 && i < n; i++)
        allowed[i] = i == 0 || i < (online > 0 ? (uint32_t)online : 1);
}

void fv_machine_pin(const uint32_t *cpus, uint32_t n)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < n; i++)
        if (cpus[i] < CPU_SETSIZE)
            CPU_SET(cpus[i], &set);
    sched_setaffinity(0, sizeof set, &set);
}

uint32_t fv_machine_here(void)
{
    int cpu = sched_getcpu();
    return cpu >= 0 ? (uint32_t)cpu : UINT32_MAX;
}

void fv_machine_name_thread(const char *name)
{
    pthread_setname_np(pthread_self(), name);
}

void fv_machine_cpu_name(char *out, size_t size)
{
    snprintf(out, size, "CPU");
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
}

uint32_t fv_machine_instructions(void)
{
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    uint32_t out = 0;
    (void)first, (void)second;
#ifdef __aarch64__
    const unsigned long fp16 = HWCAP_FPHP | HWCAP_ASIMDHP;
    out |= (first & fp16) == fp16 ? FV_MACHINE_FP16 : 0;
#ifdef HWCAP_ASIMDDP /* for headers that are older than the instructions */
    out |= first & HWCAP_ASIMDDP ? FV_MACHINE_DOT : 0;
#endif
#ifdef HWCAP2_BF16
    out |= second & HWCAP2_BF16 ? FV_MACHINE_BF16 : 0;
#endif
#ifdef HWCAP2_I8MM
    out |= second & HWCAP2_I8MM ? FV_MACHINE_I8MM : 0;
#endif
#elif defined __riscv
    /* RISC-V extensions of one letter have the bit of the letter's position in the alphabet. */
    out |= first & 1ul << ('V' - 'A') ? FV_MACHINE_RVV : 0;
#endif
    return out;
}
