/* processes.c: detects whether mpirun started several processes, and loads the library that uses
 * MPI. */
#include <stdlib.h>
#include <unistd.h>

#ifdef CLI_MPI
#include <dlfcn.h>
#endif

#include "cli/adapt/processes.h"
#include "cli/common/cli.h"

enum { PATH_BYTES = 4096 };

/* Returns the number of processes started, according to the environment variables of Open MPI,
 * MPICH and its derivatives, and MVAPICH. */
static long started(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text)
            return strtol(text, NULL, 10);
    }
    return 1;
}

#ifdef CLI_MPI

/* Loads the library from the program's folder, as in a build, or else from where it was
 * installed. */
static void *open_library(void)
{
    char path[PATH_BYTES];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    void *library = NULL;
    if (n > 0 && (size_t)n < sizeof path) {
        path[n] = 0;
        char *neighbour = cli_text("%.*s" CLI_MPI_NAME, (int)(cli_file_name(path) - path), path);
        /* global, because Open MPI's plug-ins need its symbols */
        library = dlopen(neighbour, RTLD_NOW | RTLD_GLOBAL);
        free(neighbour);
    }
    return library ? library : dlopen(CLI_MPI_FOLDER "/" CLI_MPI_NAME, RTLD_NOW | RTLD_GLOBAL);
}

static int load(cli_processes *p)
{
    p->library = open_library();
    if (!p->library)
        return cli_fail(CLI_UNSUPPORTED,
                        "mpirun started this program, but its MPI module cannot be opened: %s",
                        dlerror());
    p->module = dlsym(p->library, CLI_PROCESSES_SYMBOL);
    if (!p->module || p->module->version != CLI_PROCESSES_VERSION)
        return cli_fail(CLI_UNSUPPORTED, "%s is from another version of this program",
                        CLI_MPI_NAME);
    if (p->module->begin(&p->rank, &p->count)) {
        p->module = NULL;
        return cli_fail(CLI_UNSUPPORTED, "MPI cannot be started; check the installation of MPI");
    }
    return CLI_OK;
}

#else

static int load(cli_processes *p)
{
    (void)p;
    return cli_fail(CLI_UNSUPPORTED, "mpirun started this program, but it was built without MPI; "
                                     "install libopenmpi-dev and rebuild it");
}

#endif

int cli_processes_begin(cli_processes *out)
{
    *out = (cli_processes){0, 1, NULL, NULL};
    return started() > 1 ? load(out) : CLI_OK;
}

void cli_processes_end(cli_processes *p, int code)
{
    if (p->module)
        p->module->end(code);
    *p = (cli_processes){0, 1, NULL, NULL};
}

int cli_processes_sum(void *data, size_t n, int doubles, void *payload)
{
    const cli_processes *p = payload;
    return p->module ? p->module->sum(data, n, doubles) : 0;
}

int cli_processes_add(cli_processes *p, double *number)
{
    return cli_processes_sum(number, 1, 1, p)
               ? cli_fail(CLI_DEVICE, "MPI: the sum over the processes failed; see the messages of "
                                      "the other processes")
               : CLI_OK;
}
