/* fuzz_cli.c: replaces the functions of main.c for targets that contain files of the program.
 * Messages are formatted and discarded.
 */
#include <stdarg.h>
#include <stdio.h>

#include "cli/common/cli.h"
#include "tests/fuzz/fuzz.h"

int cli_fail(int code, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    fuzz_check(vsnprintf(text, sizeof text, format, args) > 0, "a message");
    va_end(args);
    return code;
}

int cli_check(fovea_status status)
{
    fuzz_check(!status || *fovea_error(), "a failure without a message");
    return status ? CLI_INPUT : CLI_OK;
}

void cli_tell(const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    fuzz_check(vsnprintf(text, sizeof text, format, args) > 0, "a message");
    va_end(args);
}
