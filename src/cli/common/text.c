/* text.c: makes formatted texts on the heap, and compares the ends of texts. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/common/cli.h"
#include "cli/common/printable.h"

char *cli_text(const char *format, ...)
{
    va_list args, again;
    assert(format);
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = cli_alloc((size_t)n + 1, 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

char *cli_printable(const char *text)
{
    char *out = cli_text("%s", text);
    cli_make_printable(out);
    return out;
}

bool cli_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}
