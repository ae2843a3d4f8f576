/* heap_calls.h: how often this process went to the heap. */
#ifndef FOVEA_TESTS_HEAP_CALLS_H
#define FOVEA_TESTS_HEAP_CALLS_H

#include <stdint.h>

/* Sanitizers bring their own allocator, which stays in place: nothing is counted then. */
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

/* Calls so far, of everybody in the process. */
uint64_t heap_calls(void);

/* Those from code of this program, with the library that is linked into it; shared libraries' own,
 * such as a driver's, are not among them. */
uint64_t heap_calls_here(void);

#endif
