/* heap_calls.c: replaces the heap's functions and counts their calls. */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/plan/heap_calls.h"

static _Atomic uint64_t all, here;

uint64_t heap_calls(void)
{
    return all;
}

uint64_t heap_calls_here(void)
{
    return here;
}

#if HEAP_COUNTED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

extern const char __executable_start, etext; /* the linker's */

static void count(const char *caller)
{
    atomic_fetch_add(&all, 1);
    if (caller >= &__executable_start && caller < &etext)
        atomic_fetch_add(&here, 1);
}
#define COUNT() count(__builtin_return_address(0))

void *malloc(size_t size)
{
    COUNT();
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    COUNT();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    COUNT();
    return __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    COUNT();
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    COUNT();
    *out = __libc_memalign(align, size);
    return *out ? 0 : 12;
}

void free(void *p)
{
    if (p)
        COUNT();
    __libc_free(p);
}
#endif
