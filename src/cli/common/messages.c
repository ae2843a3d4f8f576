/* messages.c: writes messages to stderr, and converts a status to an exit code. */
#include <stdarg.h>
#include <stdio.h>

#include "cli/common/cli.h"
#include "cli/common/printable.h"

/* Writes a line to stderr, without the control characters that names of files and folders can
 * contain. */
static void say(const char *format, va_list args)
{
    char text[4096];
    vsnprintf(text, sizeof text, format, args);
    cli_make_printable(text);
    cli_progress_hide();
    fprintf(stderr, "fovea: %s\n", text);
}

void cli_tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

int cli_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return code;
}

int cli_check(fovea_status status)
{
    static const struct {
        fovea_status status;
        int code;
    } codes[] = {
        {FOVEA_EINVAL, CLI_INPUT},        {FOVEA_ENOMEM, CLI_INPUT},
        {FOVEA_EIO, CLI_INPUT},           {FOVEA_EFORMAT, CLI_INPUT},
        {FOVEA_ENOTSUP, CLI_UNSUPPORTED}, {FOVEA_ENODEV, CLI_UNSUPPORTED},
        {FOVEA_EWISDOM, CLI_INPUT},
    };
    if (status == FOVEA_OK)
        return CLI_OK;
    int code = CLI_DEVICE;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status)
            code = codes[i].code;
    return cli_fail(code, "%s", fovea_error());
}
