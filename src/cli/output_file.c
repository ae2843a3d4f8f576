/* output_file.c: files that the program writes: what was there stays until the new one is whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static int failed(const char *path, const char *problem)
{
    return cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, problem);
}

/* A device, a pipe or a link is written as it is, and so is a file in a folder that is not ours. */
int cli_output_begin(cli_output *o, const char *path)
{
    struct stat st;
    const bool there = lstat(path, &st) == 0;
    *o = (cli_output){.path = path};
    if (!there || S_ISREG(st.st_mode)) {
        o->beside = cli_text("%s.%ld.tmp", path, (long)getpid());
        o->file = fopen(o->beside, "wb");
        if (o->file && there)
            fchmod(fileno(o->file), st.st_mode);
    }
    if (!o->beside || (!o->file && (errno == EACCES || errno == EPERM || errno == ENAMETOOLONG))) {
        free(o->beside);
        o->beside = NULL;
        o->file = fopen(path, "wb");
    }
    if (o->file)
        return CLI_OK;
    const int code = failed(path, strerror(errno));
    free(o->beside);
    return code;
}

int cli_output_end(cli_output *o, const char *problem)
{
    int why = !ferror(o->file) ? 0 : errno ? errno : EIO;
    if (fclose(o->file) != 0 && !why)
        why = errno;
    if (!why && !problem && o->beside && rename(o->beside, o->path) != 0)
        why = errno;
    const bool good = !why && !problem;
    if (!good && o->beside)
        remove(o->beside);
    free(o->beside);
    return good ? CLI_OK : failed(o->path, why ? strerror(why) : problem);
}
