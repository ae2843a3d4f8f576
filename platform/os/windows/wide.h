/* wide.h: text between UTF-8, which the code has, and UTF-16, which Windows has. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_WIDE_H
#define FOVEA_PLATFORM_OS_WINDOWS_WIDE_H

#include <stddef.h>
#include <wchar.h>

/* Freed by free(); NULL with errno: ENOMEM, EILSEQ. */
wchar_t *fv_wide(const char *text);
char *fv_narrow(const wchar_t *text);
/* A path as functions of Windows take it: backslashes, and the prefix that lifts the limit of 260
 * characters where it is longer. "/dev/null" is NUL. */
wchar_t *fv_wide_path(const char *path);
/* Sets errno by GetLastError(); returns -1. */
int fv_windows_failed(void);

#endif
