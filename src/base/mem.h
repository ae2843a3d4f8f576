/* mem.h: every allocation of the library: tagged, counted, and able to fail on demand.
 *
 * All sizes are 64-bit and checked; memory is 64-byte aligned. Allocation happens while loading and
 * planning only.
 */
#ifndef FOVEA_SRC_MEM_H
#define FOVEA_SRC_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum fv_mem_tag {
    FV_MEM_MODEL,
    FV_MEM_WEIGHTS,
    FV_MEM_PLAN,
    FV_MEM_ARENA,
    FV_MEM_DEVICE,
    FV_MEM_WISDOM,
    FV_MEM_TAGS
};

/* Allocates zeroed memory with 64-byte alignment, and stores its address in the pointer at `out`,
 * which is unchanged on failure. Size 0 gives a valid pointer. Returns FOVEA_ENOMEM, with a message
 * that names `what` and the size, if memory runs out. */
fovea_status fv_mem_alloc(void *out, uint64_t size, enum fv_mem_tag tag, const char *what);
/* Allocates as fv_mem_alloc does. With `locked`, the memory has pages of its own, which stay in
 * main memory until they are freed. Returns FOVEA_ENOMEM also if the process may not lock memory;
 * the message names the limit and the remedy. */
fovea_status fv_mem_place(void *out, uint64_t size, enum fv_mem_tag tag, const char *what,
                          bool locked);
/* Allocates count * size bytes as fv_mem_alloc does; fails if the product overflows. */
fovea_status fv_mem_array(void *out, uint64_t count, uint64_t size, enum fv_mem_tag tag,
                          const char *what);
/* Allocate one object, and an array of objects, and store the address in the pointer at `out`. */
#define FV_MEM_NEW(out, tag, what) fv_mem_alloc(out, sizeof **(out), tag, what)
#define FV_MEM_ARRAY(out, count, tag, what) fv_mem_array(out, count, sizeof **(out), tag, what)
/* Moves the `used` elements of an array to a new one of `capacity` elements; `array` is the address
 * of the pointer to the array. */
fovea_status fv_mem_grow(void *array, uint64_t used, uint32_t *have, uint32_t capacity,
                         uint64_t size, enum fv_mem_tag tag, const char *what);
fovea_status fv_mem_text(char **out, const char *text, enum fv_mem_tag tag);
void fv_mem_free(void *p); /* NULL is allowed */

uint64_t fv_mem_tagged(enum fv_mem_tag tag); /* bytes held now */

/* For tests: makes the n-th allocation after this call fail; 0 lets all succeed. Returns the number
 * of allocations since the last call. Not thread-safe. */
uint64_t fv_mem_fail_at(uint64_t n);

/* Multiply and add sizes. Results saturate at UINT64_MAX, which fv_mem_alloc refuses, instead of
 * wrapping around. */
uint64_t fv_size_mul(uint64_t a, uint64_t b);
uint64_t fv_size_add(uint64_t a, uint64_t b);

#endif
