/* glob.h: a glob() that finds no files. Its patterns are under /sys and /proc, which Windows does
 * not have. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_GLOB_H
#define FOVEA_PLATFORM_OS_WINDOWS_GLOB_H

#include <stddef.h>

#define GLOB_NOMATCH 3
typedef struct {
    size_t gl_pathc;
    char **gl_pathv;
} glob_t;
#define glob(pattern, flags, failed, out) (*(out) = (glob_t){0, NULL}, GLOB_NOMATCH)
#define globfree(found) ((void)(found))

#endif
