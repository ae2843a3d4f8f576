/* sys/mman.h: maps files for reading, and memory with inaccessible pages. */
#ifndef FOVEA_PLATFORM_OS_WINDOWS_SYS_MMAN_H
#define FOVEA_PLATFORM_OS_WINDOWS_SYS_MMAN_H

#include <stddef.h>

#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 32 /* PROT_READ | PROT_WRITE */
#define MAP_FAILED ((void *)-1)
#define MADV_DONTNEED 4

void *mmap(void *at, size_t size, int protection, int kind, int fd, long long offset);
int munmap(void *data, size_t size);
int mprotect(void *data, size_t size, int protection); /* PROT_NONE */
int madvise(void *data, size_t size, int advice);

#endif
