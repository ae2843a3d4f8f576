/* check_region.c: memory between inaccessible pages. */
#define _DEFAULT_SOURCE
#include "tests/kernels/check_region.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/kernels/check_run.h"

void check_region_open(check_region *r, size_t size, bool at_end, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t need = size ? size : 1;
    r->size = size;
    r->usable = (need + page - 1) / page * page;
    r->mapped = r->usable + 2 * page;
    r->map = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_must(r->map == MAP_FAILED ? NULL : r->map);
    r->pages = r->map + page;
    mprotect(r->map, page, PROT_NONE);
    mprotect(r->pages + r->usable, page, PROT_NONE);
    r->at = r->pages + (at_end ? (r->usable - size) / align * align : 0);
    r->image = NULL;
    check_poison(r->pages, r->usable);
}

void check_region_remember(check_region *r)
{
    if (!r->image)
        r->image = check_must(malloc(r->usable));
    memcpy(r->image, r->pages, r->usable);
}

bool check_region_changed(const check_region *r, long *where)
{
    if (!memcmp(r->pages, r->image, r->usable))
        return false;
    size_t i = 0;
    while (r->pages[i] == r->image[i])
        i++;
    *where = (long)i - (long)(r->at - r->pages);
    return true;
}

void check_region_close(check_region *r)
{
    if (r->map)
        munmap(r->map, r->mapped);
    free(r->image);
    memset(r, 0, sizeof *r);
}
