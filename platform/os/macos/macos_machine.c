/* macos_machine.c: what os_machine.h asks of macOS alone. */
#include "platform/os/os_machine.h"

#include <mach/mach.h>
#include <mach/mach_time.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/sysctl.h>
#include <unistd.h>

/* A number of the system's; 0 where it has none of that name. */
static uint64_t number(const char *name)
{
    union {
        uint32_t narrow;
        uint64_t wide;
    } value = {.wide = 0};
    size_t size = sizeof value;
    if (sysctlbyname(name, &value, &size, NULL, 0) != 0)
        return 0;
    return size == sizeof value.narrow ? value.narrow : value.wide;
}

/* There are no large pages to be asked for. */
void fv_machine_advise_huge(void *p, uint64_t size)
{
    (void)p, (void)size;
}

uint64_t fv_machine_memory(void)
{
    return number("hw.memsize");
}

/* Pages that hold nothing, and those that the system would drop first. */
uint64_t fv_machine_free(void)
{
    vm_statistics64_data_t pages;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    const mach_port_t host = mach_host_self();
    const bool said =
        host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&pages, &n) == KERN_SUCCESS;
    mach_port_deallocate(mach_task_self(), host);
    return said ? ((uint64_t)pages.free_count + pages.inactive_count) * fv_machine_page()
                : UINT64_MAX;
}

/* ---- sleepers ---- */

/* Addresses to sleep at are private to the system before macOS 14.4. So words share a few places:
 * who sleeps at one wakes with all others there, and looks at its own word again. */
static struct place {
    pthread_mutex_t lock;
    pthread_cond_t changed;
} places[] = {
#define PLACE                                                                                      \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER                                        \
    }
    PLACE, PLACE, PLACE, PLACE, PLACE, PLACE, PLACE, PLACE,
#undef PLACE
};

static struct place *place_of(const _Atomic uint32_t *word)
{
    return &places[(uintptr_t)word / 64 % (sizeof places / sizeof *places)];
}

/* A waker has changed the word before it takes the lock: who saw the old one waits by then. */
void fv_machine_sleep(_Atomic uint32_t *word, uint32_t seen, double seconds)
{
    struct place *at = place_of(word);
    const double most = fmin(fmax(seconds, 0), 1e9), whole = floor(most);
    const struct timespec bound = {(time_t)whole, (long)((most - whole) * 1e9)};
    pthread_mutex_lock(&at->lock);
    if (atomic_load(word) == seen && seconds < 0)
        pthread_cond_wait(&at->changed, &at->lock);
    else if (atomic_load(word) == seen)
        pthread_cond_timedwait_relative_np(&at->changed, &at->lock, &bound);
    pthread_mutex_unlock(&at->lock);
}

void fv_machine_wake(_Atomic uint32_t *word)
{
    struct place *at = place_of(word);
    pthread_mutex_lock(&at->lock);
    pthread_cond_broadcast(&at->changed);
    pthread_mutex_unlock(&at->lock);
}

/* nanosleep may be put off until other timers are due; this is not. */
void fv_machine_nap(double seconds)
{
    mach_timebase_info_data_t tick; /* nanoseconds: numer / denom */
    mach_timebase_info(&tick);
    const double ticks = fmax(seconds, 0) * 1e9 * tick.denom / tick.numer;
    mach_wait_until(mach_absolute_time() + (uint64_t)ticks);
}

/* ---- processors ---- */

/* All of them: a thread cannot be kept from some, nor on others. */
void fv_machine_allowed(bool *allowed, uint32_t n)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t i = 0; i < n; i++)
        allowed[i] = i == 0 || (online > 0 && i < (unsigned long)online);
}

void fv_machine_pin(const uint32_t *cpus, uint32_t n)
{
    (void)cpus, (void)n;
}

uint32_t fv_machine_here(void)
{
    return UINT32_MAX;
}

void fv_machine_name_thread(const char *name)
{
    pthread_setname_np(name);
}

uint32_t fv_machine_instructions(void)
{
    static const struct {
        const char *name;
        uint32_t instructions;
    } all[] = {
        {"hw.optional.arm.FEAT_FP16", FV_MACHINE_FP16},
        {"hw.optional.arm.FEAT_DotProd", FV_MACHINE_DOT},
        {"hw.optional.arm.FEAT_BF16", FV_MACHINE_BF16},
        {"hw.optional.arm.FEAT_I8MM", FV_MACHINE_I8MM},
    };
    uint32_t out = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        out |= number(all[i].name) ? all[i].instructions : 0;
    return out;
}

double fv_machine_waited(void)
{
    return NAN;
}

void fv_machine_cpu_name(char *out, size_t size)
{
    char name[128];
    size_t length = sizeof name;
    const bool said = sysctlbyname("machdep.cpu.brand_string", name, &length, NULL, 0) == 0;
    snprintf(out, size, "%s", said ? name : "CPU");
}
