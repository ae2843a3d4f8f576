/* mem.c: tagged, counted, aligned allocation with failure on demand, from the C library or a
 * caller's allocator.
 *
 *     | header: size, tag ... 64 bytes | the caller's bytes, 64-byte aligned |
 *
 * Blocks of many pages are aligned to a huge page, with the header before it: every frame reads
 * weights and arenas from end to end, and TLB misses of small pages cost the GEMM a few percent of
 * its time. Locked blocks share no page with others, because locks do not nest.
 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/abi.h"
#include "platform/os/os_machine.h"

#define HEADER 64
#define HUGE_PAGE (2u << 20)

struct header {
    uint64_t size;
    uint32_t tag;
    uint32_t lead;   /* bytes from the start of the block to the header's end */
    uint64_t locked; /* bytes of pages that are kept in main memory, or 0 */
    uint64_t block;  /* bytes of the block, a multiple of `align` */
    uint64_t align;
    void (*release)(void *user, void *data, size_t size, size_t align);
    void *user;
};
_Static_assert(sizeof(struct header) <= HEADER, "the header precedes the caller's bytes");

static _Atomic uint64_t held[FV_MEM_TAGS], held_all, peak, made;
static uint64_t fail_in; /* tests only */
static uint64_t made_at_arming;

static void *alloc_system(void *user, size_t size, size_t align)
{
    (void)user;
    return fv_machine_alloc(align, size);
}

static void free_system(void *user, void *data, size_t size, size_t align)
{
    (void)user;
    (void)size;
    (void)align;
    fv_machine_free_block(data);
}

#define SYSTEM                                                                                     \
    {                                                                                              \
        .alloc = alloc_system, .free = free_system                                                 \
    }
static fovea_allocator allocator = SYSTEM;

fovea_status fovea_allocator_set(const fovea_allocator *given)
{
    fovea_allocator own = SYSTEM;
    FV_TRY(FV_ABI_READ(own, given, FOVEA_ALLOCATOR_INIT));
    if (!own.alloc || !own.free)
        return fv_fail(FOVEA_EINVAL, "the allocator must have both `alloc` and `free`");
    allocator = own;
    return FOVEA_OK;
}

static void release(const struct header *h, void *base)
{
    h->release(h->user, base, (size_t)h->block, (size_t)h->align);
}

uint64_t fv_size_mul(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t fv_size_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static fovea_status refuse(uint64_t size, const char *what)
{
    if (size == UINT64_MAX)
        return fv_fail(FOVEA_ENOMEM, "%s: the size exceeds 64 bits; use a smaller picture", what);
    return fv_fail(FOVEA_ENOMEM,
                   "%s: cannot allocate %.1f MiB; use a smaller picture, chunk or model", what,
                   (double)size / (1 << 20));
}

/* Returns the start of the first page of [p - HEADER, p + size), and sets *bytes to the size of all
 * pages of that range. */
static char *pages_of(char *p, uint64_t *bytes, uint64_t size)
{
    const uint64_t page = fv_machine_page();
    char *begin = p - HEADER - (uintptr_t)(p - HEADER) % page;
    *bytes = ((uint64_t)(p - begin) + size + page - 1) / page * page;
    return begin;
}

fovea_status fv_mem_place(void *out, uint64_t size, enum fv_mem_tag tag, const char *what,
                          bool locked)
{
    bool big = size >= 2 * HUGE_PAGE;
    uint64_t lead = big ? HUGE_PAGE : HEADER;
    uint64_t align = big ? HUGE_PAGE : locked ? fv_machine_page() : HEADER;
    uint64_t block = fv_size_add(fv_size_add(size, lead), align - 1);
    atomic_fetch_add(&made, 1);
    if (fail_in && --fail_in == 0)
        return refuse(size, what);
    if (block == UINT64_MAX || block > SIZE_MAX / 2)
        return refuse(size, what);
    struct header h = {.size = size,
                       .tag = (uint32_t)tag,
                       .lead = (uint32_t)lead,
                       .block = block / align * align,
                       .align = align,
                       .release = allocator.free,
                       .user = allocator.user};
    char *base = allocator.alloc(allocator.user, (size_t)h.block, (size_t)align);
    if (!base)
        return refuse(size, what);
    if ((uintptr_t)base % align) {
        release(&h, base);
        return fv_fail(FOVEA_ENOMEM,
                       "%s: the allocator returned an address that is not a multiple of %llu; "
                       "correct its `alloc`",
                       what, (unsigned long long)align);
    }
    char *p = base + lead;
    if (big)
        fv_machine_advise_huge(p, size);
    memset(p, 0, (size_t)size);
    if (locked) {
        char *begin = pages_of(p, &h.locked, size);
        const fovea_status status = fv_machine_lock(begin, h.locked, what);
        if (status != FOVEA_OK) {
            release(&h, base);
            return status;
        }
    }
    memcpy(p - HEADER, &h, sizeof h);
    atomic_fetch_add(&held[tag], size);
    uint64_t now = atomic_fetch_add(&held_all, size) + size;
    uint64_t top = atomic_load(&peak);
    while (now > top && !atomic_compare_exchange_weak(&peak, &top, now))
        ;
    memcpy(out, &p, sizeof p);
    return FOVEA_OK;
}

fovea_status fv_mem_alloc(void *out, uint64_t size, enum fv_mem_tag tag, const char *what)
{
    return fv_mem_place(out, size, tag, what, false);
}

fovea_status fv_mem_array(void *out, uint64_t count, uint64_t size, enum fv_mem_tag tag,
                          const char *what)
{
    return fv_mem_alloc(out, fv_size_mul(count, size), tag, what);
}

fovea_status fv_mem_grow(void *array, uint64_t used, uint32_t *have, uint32_t capacity,
                         uint64_t size, enum fv_mem_tag tag, const char *what)
{
    void *old, *more;
    FV_TRY(fv_mem_array(&more, capacity, size, tag, what));
    memcpy(&old, array, sizeof old);
    if (used)
        memcpy(more, old, (size_t)(used * size));
    fv_mem_free(old);
    memcpy(array, &more, sizeof more);
    *have = capacity;
    return FOVEA_OK;
}

fovea_status fv_mem_text(char **out, const char *text, enum fv_mem_tag tag)
{
    const size_t n = strlen(text) + 1;
    FV_TRY(fv_mem_alloc(out, n, tag, "a name"));
    memcpy(*out, text, n);
    return FOVEA_OK;
}

void fv_mem_free(void *p)
{
    if (!p)
        return;
    struct header h;
    memcpy(&h, (char *)p - HEADER, sizeof h);
    if (h.locked) {
        char *begin = pages_of(p, &h.locked, h.size);
        fv_machine_unlock(begin, h.locked);
    }
    atomic_fetch_sub(&held[h.tag], h.size);
    atomic_fetch_sub(&held_all, h.size);
    release(&h, (char *)p - h.lead);
}

uint64_t fv_mem_tagged(enum fv_mem_tag tag)
{
    return atomic_load(&held[tag]);
}

uint64_t fv_mem_fail_at(uint64_t n)
{
    uint64_t now = atomic_load(&made), since = now - made_at_arming;
    made_at_arming = now;
    fail_in = n;
    return since;
}

fovea_status fovea_memory_query(fovea_memory *out)
{
    const fovea_memory now = {.current = atomic_load(&held_all),
                              .peak = atomic_load(&peak),
                              .allocations = atomic_load(&made)};
    return FV_ABI_WRITE(out, now, FOVEA_MEMORY_INIT);
}
