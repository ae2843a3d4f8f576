/* heap_calls.h: counts this process's calls of the heap's functions. */
#ifndef FOVEA_TESTS_HEAP_CALLS_H
#define FOVEA_TESTS_HEAP_CALLS_H

#include <stdint.h>

/* Sanitizers have their own allocator, which cannot be replaced: then nothing is counted. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define HEAP_COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEAP_COUNTED 0
#else
#define HEAP_COUNTED 1
#endif
#else
#define HEAP_COUNTED 1
#endif

/* Returns the number of calls so far from the whole process. */
uint64_t heap_calls(void);

/* Returns the number of calls from this program, including the library that is linked into it, but
 * not from shared libraries such as drivers. */
uint64_t heap_calls_here(void);

#endif
