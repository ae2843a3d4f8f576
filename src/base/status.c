/* status.c: stores the message of a failure, one per thread, and passes messages to the caller's
 * log. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char message[FV_MESSAGE];
static fovea_log_fn *log_fn;
static void *log_payload;

/* Returns the first byte at `at` or after it that begins a UTF-8 character. */
static const char *character(const char *at)
{
    while (((unsigned char)*at & 0xc0) == 0x80)
        at++;
    return at;
}

/* Writes a message of n bytes, which is too long for `line`, without its middle: keeps the first
 * third of the line and the end. Formats the message on the heap, because threads may have little
 * stack. If memory runs out, truncates the message. */
static void write_long(char line[FV_MESSAGE], size_t n, const char *format, va_list args)
{
    static const char gap[] = " ... ";
    char *whole = malloc(n + 1);
    if (!whole)
        return;
    vsnprintf(whole, n + 1, format, args);
    const size_t begin = FV_MESSAGE / 3;
    const size_t head = (size_t)(character(whole + begin) - whole);
    const char *tail = character(whole + n - (FV_MESSAGE - head - sizeof gap));
    memcpy(line, whole, head);
    snprintf(line + head, FV_MESSAGE - head, "%s%s", gap, tail);
    free(whole);
}

static void compose(char line[FV_MESSAGE], const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(line, FV_MESSAGE, format, args);
    if (n >= FV_MESSAGE)
        write_long(line, (size_t)n, format, again);
    va_end(again);
}

fovea_status fv_fail(fovea_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    compose(message, format, args);
    va_end(args);
    /* Names come from files: control characters must not end the line or reach a terminal. */
    for (unsigned char *c = (unsigned char *)message; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
    return status;
}

fovea_status fv_require(const void *argument, const char *what)
{
    return argument ? FOVEA_OK : fv_fail(FOVEA_EINVAL, "%s must not be NULL", what);
}

fovea_status fv_known(const char *what, int value, int last)
{
    return value >= 0 && value <= last ? FOVEA_OK
                                       : fv_fail(FOVEA_EINVAL, "%s %d is unknown", what, value);
}

void fv_log(const char *format, ...)
{
    if (!log_fn)
        return;
    char line[FV_MESSAGE];
    va_list args;
    va_start(args, format);
    compose(line, format, args);
    va_end(args);
    log_fn(line, log_payload);
}

const char *fovea_error(void)
{
    return message;
}

void fovea_log_set(fovea_log_fn *log, void *payload)
{
    log_fn = log;
    log_payload = payload;
}

const char *fovea_status_text(fovea_status status)
{
    static const char *const text[] = {
        "ok",
        "invalid argument",
        "out of memory",
        "input or output error",
        "malformed file",
        "not supported",
        "no such device",
        "device error",
        "malformed wisdom",
        "timed out",
    };
    int i = -(int)status;
    return i >= 0 && i < (int)(sizeof text / sizeof *text) ? text[i] : "unknown status";
}

const char *fovea_version(void)
{
    return FOVEA_VERSION;
}
