/* emulated_faults.c: the settings of the emulated driver, and the kinds of its objects. */
#include "tests/cuda_emulator/emulated_driver.h"

pthread_cond_t emulated_changed = PTHREAD_COND_INITIALIZER;

static const char *const lies[] = {
#define X(name) #name,
    EMULATED_LIES(X)
#undef X
        NULL};
static const char *const kinds[] = {"context",  "memory",  "pinned",  "registered", "external",
                                    "resource", "surface", "module",  "stream",     "event",
                                    "graph",    "exec",    "program", NULL};

static void changed(int lie)
{
    if (lie < 0 || lie == EMULATED_LIE_unwaited)
        emulated_waits_begin();
    pthread_cond_broadcast(&emulated_changed);
    pthread_cond_broadcast(&emulated_work); /* commands that hung may continue */
}

const hostile_driver_self hostile_self = {.name = "emulated CUDA",
                                          .environment = "EMULATED_CUDA",
                                          .lies = lies,
                                          .kinds = kinds,
                                          .error = CUDA_ERROR_LAUNCH_FAILED,
                                          .changed = changed};
