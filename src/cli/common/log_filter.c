/* log_filter.c: selects the log messages of the library that are printed. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

/* Returns whether the same message, apart from its digits, was printed earlier, perhaps about
 * another plan. */
static bool was_said(const char *line)
{
    static char **said; /* printed messages without their digits; never freed */
    static size_t n;
    char *form = cli_text("%s", line);
    size_t length = 0;
    for (const char *c = line; *c; c++)
        if (*c < '0' || *c > '9')
            form[length++] = *c;
    form[length] = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(said[i], form) == 0) {
            free(form);
            return true;
        }
    said = cli_grow(said, n, sizeof *said);
    said[n++] = form;
    return false;
}

/* Writes a log message of the library to stderr. By default, each text is printed once, and
 * messages of the cache, which only report success, are left out. FOVEA_LOG=all prints every
 * message, and FOVEA_LOG=off none. Any other value prints the messages that contain it. */
static void log_line(const char *line, void *payload)
{
    const char *filter = payload;
    if (filter ? strstr(line, filter) != NULL : strncmp(line, "cache: ", 7) != 0 && !was_said(line))
        cli_tell("%s", line);
}

void cli_log_begin(void)
{
    static char every[] = ""; /* every line contains the empty string */
    char *filter = getenv("FOVEA_LOG");
    if (filter && strcmp(filter, "off") == 0)
        return;
    if (filter && strcmp(filter, "all") == 0)
        filter = every;
    else if (filter && !*filter)
        filter = NULL;
    fovea_log_set(log_line, filter);
}
