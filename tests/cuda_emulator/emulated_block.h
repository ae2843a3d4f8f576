/* emulated_block.h: blocks of threads on one processor. */
#ifndef FOVEA_TESTS_EMULATED_BLOCK_H
#define FOVEA_TESTS_EMULATED_BLOCK_H

#include <signal.h>
#include <stdbool.h>

#include "tests/cuda_emulator/emulated_kernel.h"

/* In which order threads run, and when copies that are not waited for are made. What kernels
 * compute must not depend on it. */
enum emulated_order { EMULATED_FORWARD, EMULATED_BACKWARD };

typedef struct emulated_launch {
    const emulated_entry *entry;
    emulated_link *link;
    const emulated_shared_memory *shared_map;
    emulated_dim blocks, threads;
    unsigned dynamic; /* bytes of shared memory in addition to the variables */
    void **params;
    enum emulated_order order;
    bool racing; /* nobody waits at a barrier */
} emulated_launch;

enum emulated_end {
    EMULATED_DONE,
    EMULATED_ILLEGAL,   /* memory that is not the device's */
    EMULATED_UNALIGNED, /* or not aligned as its type is */
    EMULATED_STUCK,     /* threads wait for what does not come */
    EMULATED_TRAPPED,
};

extern const emulated_calls emulated_block_calls;

/* Runs a kernel on the calling thread, one thread of one process at a time. What went wrong goes to
 * stderr. */
enum emulated_end emulated_run(const emulated_launch *launch);

/* For a handler of signals: where the signal comes from a running kernel, has the handler's return
 * end that, and returns true. */
bool emulated_caught(int signal, siginfo_t *info, void *context);

#endif
