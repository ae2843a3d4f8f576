/* windows_machine.c: implements os_machine.h on Windows. Threads are the POSIX threads of
 * winpthreads. */
#include "platform/os/os_machine.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <windows.h>

#include <immintrin.h>

#include "platform/os/windows/wide.h"

void *fv_machine_alloc(size_t align, size_t size)
{
    return _aligned_malloc(size, align);
}

void fv_machine_free_block(void *p)
{
    _aligned_free(p);
}

/* Does nothing: large pages need a privilege, and have to be requested when memory is allocated. */
void fv_machine_advise_huge(void *p, uint64_t size)
{
    (void)p, (void)size;
}

uint64_t fv_machine_page(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

/* Raises the process's minimum working set first, because only that much memory can be locked. */
fovea_status fv_machine_lock(void *p, uint64_t size, const char *what)
{
    SIZE_T least, most;
    HANDLE self = GetCurrentProcess();
    if (VirtualLock(p, (SIZE_T)size))
        return FOVEA_OK;
    if (GetProcessWorkingSetSize(self, &least, &most) &&
        SetProcessWorkingSetSize(self, least + (SIZE_T)size, most + (SIZE_T)size) &&
        VirtualLock(p, (SIZE_T)size))
        return FOVEA_OK;
    return fv_fail(FOVEA_ENOMEM,
                   "%s: %.1f MiB cannot be locked in memory (error %lu); plan without lock_memory",
                   what, (double)size / (1 << 20), GetLastError());
}

void fv_machine_unlock(void *p, uint64_t size)
{
    VirtualUnlock(p, (SIZE_T)size);
}

double fv_machine_seconds(void)
{
    LARGE_INTEGER now, rate;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&rate);
    return (double)now.QuadPart / (double)rate.QuadPart;
}

uint64_t fv_machine_process(void)
{
    return GetCurrentProcessId();
}

uint64_t fv_machine_memory(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

uint64_t fv_machine_free(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? status.ullAvailPhys : UINT64_MAX;
}

void fv_machine_sleep(_Atomic uint32_t *word, uint32_t seen, double seconds)
{
    const double ms = seconds * 1e3;
    const DWORD bound = seconds < 0 || ms >= INT_MAX ? INFINITE : ms < 1 ? 1 : (DWORD)ms;
    WaitOnAddress(word, &seen, sizeof seen, bound);
}

void fv_machine_wake(_Atomic uint32_t *word)
{
    WakeByAddressAll(word);
}

/* High-resolution timers exist since Windows 10, version 1803. */
void fv_machine_nap(double seconds)
{
    const DWORD high = 2; /* CREATE_WAITABLE_TIMER_HIGH_RESOLUTION */
    const LARGE_INTEGER due = {.QuadPart = -(LONGLONG)(seconds * 1e7)};
    HANDLE timer = CreateWaitableTimerExW(NULL, NULL, high, TIMER_ALL_ACCESS);
    if (timer && SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE))
        WaitForSingleObject(timer, INFINITE);
    else
        Sleep((DWORD)(seconds * 1e3));
    if (timer)
        CloseHandle(timer);
}

void fv_machine_pause(void)
{
    _mm_pause();
}

/* Processors of this process's group, which has at most 64. */
void fv_machine_allowed(bool *allowed, uint32_t n)
{
    DWORD_PTR process = 0, system = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &system))
        process = 1;
    for (uint32_t i = 0; i < n; i++)
        allowed[i] = i < 64 && process >> i & 1;
}

void fv_machine_pin(const uint32_t *cpus, uint32_t n)
{
    DWORD_PTR set = 0;
    for (uint32_t i = 0; i < n; i++)
        if (cpus[i] < 64)
            set |= (DWORD_PTR)1 << cpus[i];
    if (set)
        SetThreadAffinityMask(GetCurrentThread(), set);
}

uint32_t fv_machine_here(void)
{
    return GetCurrentProcessorNumber();
}

void fv_machine_name_thread(const char *name)
{
    pthread_setname_np(pthread_self(), name);
}

uint64_t fv_machine_float_enter(void)
{
    uint32_t old = _mm_getcsr();
    _mm_setcsr((old & ~0x6000u) | 0x8040u | 0x1f80u); /* nearest, FTZ, DAZ, exceptions masked */
    return old;
}

void fv_machine_float_leave(uint64_t mode)
{
    _mm_setcsr((uint32_t)mode);
}

double fv_machine_waited(void)
{
    return NAN;
}

void fv_machine_cpu_name(char *out, size_t size)
{
    wchar_t name[128];
    DWORD bytes = sizeof name;
    snprintf(out, size, "CPU");
    if (RegGetValueW(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                     L"ProcessorNameString", RRF_RT_REG_SZ, NULL, name, &bytes) != ERROR_SUCCESS)
        return;
    char *narrow = fv_narrow(name);
    if (narrow)
        snprintf(out, size, "%s", narrow + strspn(narrow, " "));
    free(narrow);
}
