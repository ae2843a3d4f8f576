/* run_inputs.c: finds the inputs of `fovea run`: files, and pictures in folders. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/run/runner.h"

static void add_path(char ***path, size_t *count, char *add)
{
    *path = cli_grow(*path, *count, sizeof **path);
    (*path)[(*count)++] = add;
}

int run_gather(char ***path, size_t *count, const char *input)
{
    struct stat st;
    if (cli_is_stdin(input)) {
        for (size_t i = 0; i < *count; i++)
            if (cli_is_stdin((*path)[i]))
                return cli_fail(CLI_USAGE, "-: standard input can be given only once");
        add_path(path, count, cli_text("%s", input));
        return CLI_OK;
    }
    if (stat(input, &st))
        return cli_fail(CLI_INPUT, "%s: %s", input, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        add_path(path, count, cli_text("%s", input));
        return CLI_OK;
    }
    char **name;
    size_t n;
    CLI_TRY(cli_folder_pictures(&name, &n, input));
    for (size_t i = 0; i < n; i++)
        add_path(path, count, cli_text("%s/%s", input, name[i]));
    cli_list_free(name);
    return n ? CLI_OK : cli_fail(CLI_INPUT, "%s contains no picture", input);
}

/* A named pipe is a Y4M if its name ends with .y4m, because reading from the pipe would lose
 * data. */
bool run_is_y4m(const char *path)
{
    return cli_ends_with(path, ".y4m") || (!cli_is_stdin(path) && cli_is_y4m(path));
}

bool run_is_video(const run_state *r, const char *path)
{
    if (r->in.raw_text || run_is_y4m(path))
        return true;
    if (!cli_is_stdin(path))
        return false;
    const int first = getc(stdin);
    if (first != EOF)
        ungetc(first, stdin);
    return first == 'Y' || first == EOF; /* YUV4MPEG2 begins with Y, and no picture format does */
}
