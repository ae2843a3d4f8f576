/* sys/mman.h: files mapped to read, and nothing else. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_SYS_MMAN_H
#define FOVEA_PLATFORM_OS_WINDOWS_SYS_MMAN_H

#include <stddef.h>

#define PROT_READ 1
#define MAP_PRIVATE 2
#define MAP_FAILED ((void *)-1)
#define MADV_DONTNEED 4

void *mmap(void *at, size_t size, int protection, int kind, int fd, long long offset);
int munmap(void *data, size_t size);
int madvise(void *data, size_t size, int advice);

#endif
