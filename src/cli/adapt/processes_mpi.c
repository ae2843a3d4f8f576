/* processes_mpi.c: the shared library that uses MPI for the program; see processes.h. */
#include <mpi.h>

#include "cli/adapt/processes.h"

/* Most elements of one call, because MPI counts in int. */
#define PART ((size_t)1 << 28)

static int begin(int *rank, int *count)
{
    int level;
    /* The library's worker threads never call MPI. */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return 1;
    return MPI_Comm_rank(MPI_COMM_WORLD, rank) != MPI_SUCCESS ||
           MPI_Comm_size(MPI_COMM_WORLD, count) != MPI_SUCCESS;
}

static int sum(void *data, size_t n, int doubles)
{
    const MPI_Datatype type = doubles ? MPI_DOUBLE : MPI_FLOAT;
    char *at = data;
    while (n) {
        const size_t part = n < PART ? n : PART;
        if (MPI_Allreduce(MPI_IN_PLACE, at, (int)part, type, MPI_SUM, MPI_COMM_WORLD) !=
            MPI_SUCCESS)
            return 1;
        at += part * (doubles ? sizeof(double) : sizeof(float));
        n -= part;
    }
    return 0;
}

static void end(int code)
{
    if (code)
        MPI_Abort(MPI_COMM_WORLD, code);
    else
        MPI_Finalize();
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const cli_processes_module fovea_processes_module;
const cli_processes_module fovea_processes_module = {CLI_PROCESSES_VERSION, begin, sum, end};
