/* machine.h: memory of this process, clocks and temperatures of the machine, as the system reports
 * them. */
#ifndef FOVEA_CLI_MACHINE_H
#define FOVEA_CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* Bytes of process memory: begin returns the current value and resets the peak; peak returns the
 * peak. */
uint64_t machine_memory_begin(void);
uint64_t machine_memory_peak(void);

/* Clocks and temperatures; 0: unknown. If the environment sets FOVEA_ROOT, files are read from that
 * folder instead of /. */
typedef struct machine_state {
    double clock_mhz;   /* of the fastest processor */
    double gpu_mhz;     /* of the fastest GPU or other device with a scaled clock, CPUs excluded */
    double celsius;     /* of the hottest zone */
    uint64_t throttled; /* how often a processor was slowed down because of heat */
    double spin;        /* seconds that a fixed amount of work takes on one processor */
} machine_state;
void machine_look(machine_state *out);

/* Samples of the machine's state, in the order of time. */
enum { MACHINE_LOOKS = 256 };
typedef struct machine_history {
    machine_state look[MACHINE_LOOKS];
    uint32_t looks;
    double last, every; /* time of the last sample; least seconds between samples */
} machine_history;
/* Takes a sample, unless less than `every` seconds have passed since the last. */
void machine_watch(machine_history *h);
/* Whether the machine was slowed down between samples, according to its own counter or to the time
 * that the fixed work took. */
bool machine_throttled(const machine_history *h);
/* The first and the last sample, as JSON. */
json_t *machine_describe(const machine_history *h);

/* Adds what does not change with time: operating system, processor, frequency governor. */
void machine_identify(json_t *out);

#endif
