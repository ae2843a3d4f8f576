/* processes.h: the processes that share a task: several processes started by mpirun, or a single
 * one.
 *
 * Code that uses MPI is in a separate shared library. It is loaded only if the environment shows
 * that mpirun started several processes, so that the program itself runs without MPI. */
#ifndef FOVEA_CLI_PROCESSES_H
#define FOVEA_CLI_PROCESSES_H

#include <stddef.h>

/* The functions that the library exports as `fovea_processes_module`. All return nonzero on
 * failure. */
typedef struct cli_processes_module {
    int version; /* CLI_PROCESSES_VERSION, the version of this struct */
    int (*begin)(int *rank, int *count);
    /* Sums n floats, or doubles, element by element over all processes, and gives each process the
     * sums. */
    int (*sum)(void *data, size_t n, int doubles);
    void (*end)(int code); /* ends MPI in this process; a nonzero code ends all processes */
} cli_processes_module;

#define CLI_PROCESSES_VERSION 1
#define CLI_PROCESSES_SYMBOL "fovea_processes_module"

typedef struct cli_processes {
    int rank, count;
    void *library;
    const cli_processes_module *module; /* NULL for a single process without MPI */
} cli_processes;

/* Joins the other processes, if there are any. */
int cli_processes_begin(cli_processes *out);
/* Must be called at the end with the program's exit code. A process that fails ends the others. */
void cli_processes_end(cli_processes *p, int code);
/* Is a fovea_allreduce_fn, whose payload is the cli_processes. */
int cli_processes_sum(void *data, size_t n, int doubles, void *payload);
/* Sums a number over all processes. With a single process, the number does not change. */
int cli_processes_add(cli_processes *p, double *number);

#endif
