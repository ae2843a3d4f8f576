/* output_file.c: writes the program's output files. The old file remains until the new one is
 * complete. */
#define _GNU_SOURCE /* for O_TMPFILE and getentropy */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/cli.h"

#define NAME_MOST 255 /* longest file name in common file systems, in bytes */
#define DIGITS 20     /* digits of a random number */

static int failed(const char *path, const char *problem)
{
    return cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, problem);
}

const char *cli_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *cli_folder(const char *path)
{
    return cli_text("%.*s.", (int)(cli_file_name(path) - path), path);
}

bool cli_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Returns the path NAME.NUMBER.tmp in the folder of `path`, with a random number that cannot be
 * predicted. */
static char *temporary(const char *path)
{
    const size_t name = strlen(cli_file_name(path)), longest = NAME_MOST - DIGITS - strlen("..tmp");
    const size_t cut = name > longest ? name - longest : 0;
    unsigned long long number = 0;
    if (getentropy(&number, sizeof number) != 0)
        number = (unsigned long long)getpid(); /* predictable; O_EXCL still prevents an attack */
    return cli_text("%.*s.%llu.tmp", (int)(strlen(path) - cut), path, number);
}

#ifdef O_TMPFILE

/* Opens a file without a name in the folder of `path`, which disappears if the program is killed.
 * Returns -1 on failure. */
static int open_nameless(const char *path)
{
    int fd = -1;
    char *folder = cli_folder(path);
    if (access("/proc/self/fd", X_OK) == 0) /* name_it() needs this folder later */
        fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    free(folder);
    return fd;
}

/* Links a nameless file, still open as `file`, to its temporary name. */
static int name_it(const cli_output *o)
{
    char *fd = cli_text("/proc/self/fd/%d", fileno(o->file));
    const int code = linkat(AT_FDCWD, fd, AT_FDCWD, o->temporary, AT_SYMLINK_FOLLOW);
    free(fd);
    return code;
}

#else

static int open_nameless(const char *path)
{
    (void)path;
    return -1;
}

static int name_it(const cli_output *o)
{
    (void)o;
    return -1;
}

#endif

static int open_temporary(cli_output *o)
{
    o->temporary = temporary(o->path);
    int fd = open_nameless(o->path);
    o->nameless = fd >= 0;
    if (fd < 0)
        fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        free(o->temporary);
        o->temporary = NULL;
    }
    return fd;
}

static bool not_ours(int error)
{
    return error == EACCES || error == EPERM || error == EROFS;
}

int cli_output_check(const char *path)
{
    struct stat st;
    cli_output o = {.path = path};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? failed(path, strerror(EISDIR)) : CLI_OK;
    if (lstat(path, &st) != 0 && errno != ENOENT)
        return failed(path, strerror(errno));
    const int fd = open_temporary(&o);
    if (fd < 0)
        return not_ours(errno) && access(path, W_OK) == 0 ? CLI_OK : failed(path, strerror(errno));
    close(fd);
    if (!o.nameless)
        remove(o.temporary);
    free(o.temporary);
    return CLI_OK;
}

/* Opens a temporary file, which cli_output_end renames. Devices, pipes and links are written
 * directly, as are files in a folder where this process may not create files. */
int cli_output_begin(cli_output *o, const char *path)
{
    struct stat st;
    const bool there = lstat(path, &st) == 0;
    *o = (cli_output){.path = path};
    if (!there || S_ISREG(st.st_mode)) {
        const int fd = open_temporary(o);
        if (fd >= 0 && there)
            fchmod(fd, st.st_mode);
        o->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    }
    if ((there && !S_ISREG(st.st_mode)) || (!o->file && not_ours(errno)))
        o->file = fopen(path, "wb");
    return o->file ? CLI_OK : failed(path, strerror(errno));
}

int cli_output_end(cli_output *o, const char *problem)
{
    int why = fflush(o->file) == 0 && !ferror(o->file) ? 0 : errno ? errno : EIO;
    if (!why && !problem && o->nameless && name_it(o) != 0)
        why = errno;
    if (fclose(o->file) != 0 && !why)
        why = errno;
    if (!why && !problem && o->temporary && rename(o->temporary, o->path) != 0)
        why = errno;
    const bool good = !why && !problem;
    if (!good && o->temporary)
        remove(o->temporary);
    free(o->temporary);
    return good ? CLI_OK : failed(o->path, why ? strerror(why) : problem);
}

bool cli_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
