/* machine.h: memory of this process, clocks and temperatures of the machine, as the system reports
 * them. */
#ifndef FOVEA_CLI_MACHINE_H
#define FOVEA_CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* Bytes of process memory: begin returns the current value and resets the peak; peak returns it. */
uint64_t machine_memory_begin(void);
uint64_t machine_memory_peak(void);

/* Clocks and temperatures; 0: unknown. Files are read below FOVEA_ROOT, if the environment sets it.
 */
typedef struct machine_state {
    double clock_mhz;   /* of the fastest processor */
    double gpu_mhz;     /* of the fastest device with a scaled clock, CPUs excluded */
    double celsius;     /* of the hottest zone */
    uint64_t throttled; /* times that a processor was slowed down for its heat */
    double spin;        /* seconds of a fixed amount of work on one processor */
} machine_state;
void machine_look(machine_state *out);

/* Samples in the order of time. */
enum { MACHINE_LOOKS = 256 };
typedef struct machine_history {
    machine_state look[MACHINE_LOOKS];
    uint32_t looks;
    double last, every; /* when, and seconds from one to the next at least */
} machine_history;
/* One more, unless there was one a moment ago. */
void machine_watch(machine_history *h);
/* Whether the machine was slowed down meanwhile, by its own count or by how long the same work
 * took. */
bool machine_throttled(const machine_history *h);
/* First and last of what was shown. */
json_t *machine_describe(const machine_history *h);

/* Of this machine at any time: system, processor, governor. */
void machine_identify(json_t *out);

#endif
