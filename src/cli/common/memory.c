/* memory.c: allocations that succeed or end the program. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

void *cli_alloc(size_t count, size_t size)
{
    const size_t line = 64, most = SIZE_MAX - line;
    void *p = NULL;
    if (size == 0 || count <= most / size)
        p = aligned_alloc(line, (count * size + line) / line * line);
    if (p)
        memset(p, 0, count * size);
    else
        exit(cli_fail(
            CLI_UNSUPPORTED,
            "out of memory (%zu x %zu bytes); use a smaller input or a machine with more memory",
            count, size));
    return p;
}

void *cli_grow(void *array, size_t n, size_t size)
{
    const size_t capacity = n ? 2 * n : 1;
    if (n & (n - 1)) /* capacities are powers of two, so the array can be full only if n is one */
        return array;
    void *more = realloc(array, capacity * size);
    if (!more)
        exit(cli_fail(
            CLI_UNSUPPORTED,
            "out of memory (%zu x %zu bytes); use a smaller input or a machine with more memory",
            capacity, size));
    return more;
}
