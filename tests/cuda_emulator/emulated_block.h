/* emulated_block.h: runs blocks of threads on one processor. */
#ifndef FOVEA_TESTS_EMULATED_BLOCK_H
#define FOVEA_TESTS_EMULATED_BLOCK_H

#include <signal.h>
#include <stdbool.h>

#include "tests/cuda_emulator/emulated_kernel.h"

/* The order of threads, and the time of asynchronous copies. Results of kernels must not depend on
 * it. */
enum emulated_order { EMULATED_FORWARD, EMULATED_BACKWARD };

typedef struct emulated_launch {
    const emulated_entry *entry;
    emulated_link *link;
    const emulated_shared_memory *shared_map;
    emulated_dim blocks, threads;
    unsigned dynamic; /* bytes of dynamic shared memory, in addition to variables */
    void **params;
    enum emulated_order order;
    bool racing; /* barriers do not wait */
} emulated_launch;

enum emulated_end {
    EMULATED_DONE,
    EMULATED_ILLEGAL,   /* an access outside device memory */
    EMULATED_UNALIGNED, /* an access that is not aligned for its type */
    EMULATED_STUCK,     /* threads wait for something that never happens */
    EMULATED_TRAPPED,
};

extern const emulated_calls emulated_block_calls;

/* Runs a kernel on the calling thread; only one thread of a process may do so at a time. Prints
 * errors to stderr. */
enum emulated_end emulated_run(const emulated_launch *launch);

/* For signal handlers: if a running kernel raised the signal, arranges that returning from the
 * handler ends the kernel, and returns true. */
bool emulated_caught(int signal, siginfo_t *info, void *context);

#endif
