/* macos_posix.h: what the code uses of POSIX and macOS has under another name: included before
 * every file of a build for macOS. */
#ifndef FOVEA_PLATFORM_OS_MACOS_POSIX_H
#define FOVEA_PLATFORM_OS_MACOS_POSIX_H

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h> /* getentropy, which elsewhere <unistd.h> has */

#define st_mtim st_mtimespec
#define st_ctim st_ctimespec

/* The disk begins to read the file, as far as one call can ask: 2 GiB. */
#define POSIX_FADV_WILLNEED 0
static inline int fv_posix_readahead(int fd)
{
    struct radvisory whole = {.ra_offset = 0, .ra_count = INT_MAX};
    return fcntl(fd, F_RDADVISE, &whole);
}
#define posix_fadvise(fd, offset, size, advice) fv_posix_readahead(fd)

#endif
