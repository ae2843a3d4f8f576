/* processes.h: the processes that work on one task, started by mpirun or alone.
 *
 * What speaks MPI is a shared library of its own, loaded only where the environment shows that
 * mpirun started several processes: the program itself runs without MPI.
 */
#ifndef FOVEA_CLI_PROCESSES_H
#define FOVEA_CLI_PROCESSES_H

#include <stddef.h>

/* What the library exports as `fovea_processes_module`. All return nonzero on failure. */
typedef struct cli_processes_module {
    int version; /* of this struct: CLI_PROCESSES_VERSION */
    int (*begin)(int *rank, int *count);
    /* Sums of n floats, or doubles, over all processes, in each of them. */
    int (*sum)(void *data, size_t n, int doubles);
    void (*end)(int code); /* nonzero: ends all processes with it */
} cli_processes_module;

#define CLI_PROCESSES_VERSION 1
#define CLI_PROCESSES_SYMBOL "fovea_processes_module"

typedef struct cli_processes {
    int rank, count;
    void *library;
    const cli_processes_module *module; /* NULL: one process, without MPI */
} cli_processes;

/* Joins the others, if there are any. */
int cli_processes_begin(cli_processes *out);
/* To be called at the end, with the program's exit code: a process that fails ends the others. */
void cli_processes_end(cli_processes *p, int code);
/* As fovea_allreduce_fn; payload: the cli_processes. */
int cli_processes_sum(void *data, size_t n, int doubles, void *payload);
/* The sum of a number over all processes; alone, the number. */
int cli_processes_add(cli_processes *p, double *number);

#endif
