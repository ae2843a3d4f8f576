/* os_machine.h: the functions of the operating system that the core needs for processors, time and
 * memory. */
#ifndef FOVEA_PLATFORM_OS_MACHINE_H
#define FOVEA_PLATFORM_OS_MACHINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Allocates a block whose address is a multiple of `align`, a power of two. Returns NULL if
 * memory runs out. */
void *fv_machine_alloc(size_t align, size_t size);
void fv_machine_free_block(void *p);

/* Asks for huge pages for [p, p + size). This is a hint. */
void fv_machine_advise_huge(void *p, uint64_t size);
uint64_t fv_machine_page(void); /* bytes */

/* Keeps the pages of [p, p + size) in main memory until they are unlocked; locks do not nest. On
 * failure returns FOVEA_ENOMEM; the message names `what` and the remedy. */
fovea_status fv_machine_lock(void *p, uint64_t size, const char *what);
void fv_machine_unlock(void *p, uint64_t size);

double fv_machine_seconds(void); /* monotonic */
/* Returns the time, in seconds, for which threads of this process were ready to run but had no
 * processor, because others used it. NAN means unknown. */
double fv_machine_waited(void);
uint64_t fv_machine_memory(void); /* bytes of main memory that the process may have; 0: unknown */
/* Bytes of that memory that are available now; UINT64_MAX: unknown */
uint64_t fv_machine_free(void);
/* Identifies this process: a forked child has another number. */
uint64_t fv_machine_process(void);

/* Sleeps while *word == seen, at most `seconds` (negative: without limit); may return early. */
void fv_machine_sleep(_Atomic uint32_t *word, uint32_t seen, double seconds);
/* Sleeps for `seconds`, as exactly as the system can: meanwhile the thread's timer slack is
 * minimal. */
void fv_machine_nap(double seconds);
void fv_machine_wake(_Atomic uint32_t *word); /* wakes all sleepers */
/* Pauses a spinning thread for a short time. */
void fv_machine_pause(void);

/* Sets allowed[i] for those of the processors 0 to n - 1 that the calling thread may use, at least
 * one. */
void fv_machine_allowed(bool *allowed, uint32_t n);
/* Restricts the calling thread to these processors. This is a hint. */
void fv_machine_pin(const uint32_t *cpus, uint32_t n);
/* Returns the processor that the calling thread runs on, or UINT32_MAX: unknown. */
uint32_t fv_machine_here(void);
void fv_machine_name_thread(const char *name);

/* Sets rounding to nearest and flushing of denormals for the calling thread; returns the mode to
 * restore. */
uint64_t fv_machine_float_enter(void);
void fv_machine_float_leave(uint64_t mode);

/* Instructions of 64-bit ARM and of RISC-V that the system reports and whose registers it saves. On
 * x86-64, CPUID reports them. */
enum fv_machine_instruction {
    FV_MACHINE_FP16 = 1 << 0, /* arithmetic of 16-bit floats, also in vectors */
    FV_MACHINE_DOT = 1 << 1,  /* products of int8, summed by fours */
    FV_MACHINE_BF16 = 1 << 2,
    FV_MACHINE_I8MM = 1 << 3,
    FV_MACHINE_RVV = 1 << 4
};
uint32_t fv_machine_instructions(void); /* not on Windows */

/* Writes the name of the processor to `out`, at most size - 1 characters. */
void fv_machine_cpu_name(char *out, size_t size);

#endif
