/* machine.h: memory of this process, clocks and temperatures of the machine, as the system reports
 * them. */
#ifndef FOVEA_CLI_MACHINE_H
#define FOVEA_CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* These functions return bytes of process memory. begin returns the current value and resets the
 * peak; peak returns the peak. */
uint64_t machine_memory_begin(void);
uint64_t machine_memory_peak(void);

/* Clocks and temperatures; unknown values are 0. If the environment sets FOVEA_ROOT, files are read
 * from that folder instead of /. */
typedef struct machine_state {
    double clock_mhz;   /* clock of the fastest processor */
    double gpu_mhz;     /* clock of the fastest GPU or other non-CPU device with a scaled clock */
    double celsius;     /* temperature of the hottest zone */
    uint64_t throttled; /* number of times that a processor was throttled because of heat */
    double spin;        /* seconds that a fixed amount of work takes on one processor */
} machine_state;
void machine_look(machine_state *out);

/* Samples of the machine's state, in chronological order. */
enum { MACHINE_LOOKS = 256 };
typedef struct machine_history {
    machine_state look[MACHINE_LOOKS];
    uint32_t looks;
    /* time of the last sample; minimum interval between samples; both in seconds */
    double last, every;
} machine_history;
/* Takes a sample, unless less than `every` seconds have passed since the last. */
void machine_watch(machine_history *h);
/* Returns whether the machine was throttled between samples, according to its own counter or to the
 * duration of the fixed work. */
bool machine_throttled(const machine_history *h);
/* Returns the first and the last sample as JSON. */
json_t *machine_describe(const machine_history *h);

/* Adds properties that do not change with time: operating system, processor, frequency governor. */
void machine_identify(json_t *out);

#endif
