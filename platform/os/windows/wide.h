/* wide.h: converts text between UTF-8, which the code uses, and UTF-16, which Windows uses. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_WIDE_H
#define FOVEA_PLATFORM_OS_WINDOWS_WIDE_H

#include <stddef.h>
#include <wchar.h>

/* Converts UTF-8 to UTF-16. The caller frees the result with free(). Returns NULL and sets errno to
 * ENOMEM or EILSEQ on failure. */
wchar_t *fv_wide(const char *text);
char *fv_narrow(const wchar_t *text);
/* Converts a path to the form that functions of Windows take: with backslashes and, if it is longer
 * than 260 characters, the prefix that lifts that limit. "/dev/null" becomes NUL. */
wchar_t *fv_wide_path(const char *path);
/* Sets errno according to GetLastError(); returns -1. */
int fv_windows_failed(void);

#endif
