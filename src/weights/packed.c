/* packed.c: packs weights for kernels, and shares the packed copies. */
#include "weights/packed.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "checkpoint/safetensors.h"
#include "platform/os/os.h"
#include "platform/os/os_machine.h"
#include "weights/packed_cache.h"

/* Bytes of float rows that are packed at a time. Not measured: it bounds the temporary memory of
 * packing. */
#define SLAB (1u << 20)

static bool packs(const fv_kernel *kernel)
{
    return kernel && kernel->hooks->pack;
}

/* Returns whether rows of values and of gates are packed in pairs. */
static bool paired(const fv_kernel *kernel, const fv_problem *problem)
{
    return packs(kernel) && (problem->epi & FV_EPI_SWIGLU);
}

static const char *format_of(const fv_weight *w, const fv_kernel *kernel)
{
    static const char *const plain[] = {[FV_F32] = "f32", [FV_F16] = "f16", [FV_BF16] = "bf16"};
    return packs(kernel) ? kernel->hooks->format : plain[fv_weight_type(w)];
}

uint64_t fv_packed_size(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                        const fv_knobs *knobs)
{
    const uint64_t plain =
        fv_size_mul(fv_size_mul(w->rows, w->cols), fv_type_size(fv_weight_type(w)));
    /* Packing functions count in size_t, which may have 32 bits. */
    if (!packs(kernel) || plain > SIZE_MAX / 2)
        return plain;
    return kernel->hooks->packed(problem, knobs);
}

static void read_slab(const fv_weight *w, bool pairs, uint32_t n0, uint32_t n, float *out)
{
    fv_weight_read(w, n0, n, out);
    if (pairs)
        fv_weight_read(w, w->rows / 2 + n0, n, out + (size_t)n * w->cols);
}

/* Checks that n numbers can be rounded to `type` without overflow. */
static fovea_status check_range(const fv_weight *w, enum fv_type type, const float *data, size_t n)
{
    const float limit = 65520; /* from here on values round to infinity instead of 65504 */
    for (size_t i = 0; type == FV_F16 && i < n; i++)
        if (fabsf(data[i]) >= limit && isfinite(data[i]))
            return fv_fail(FOVEA_ENOTSUP,
                           "a weight of %s is %g, which float16 cannot hold; use bf16 or f32",
                           w->part[0].tensor->name, (double)data[i]);
    return FOVEA_OK;
}

/* Writes rows of the weight's type, unpacked. */
static fovea_status pack_plain(void *out, const fv_weight *w)
{
    const enum fv_type type = fv_weight_type(w);
    if (type == FV_F32) {
        fv_weight_read(w, 0, w->rows, out);
        return FOVEA_OK;
    }
    float *row;
    FV_TRY(FV_MEM_ARRAY(&row, w->cols, FV_MEM_PLAN, "a row to be packed"));
    fovea_status status = FOVEA_OK;
    for (uint32_t r = 0; r < w->rows && status == FOVEA_OK; r++) {
        fv_weight_read(w, r, 1, row);
        status = check_range(w, type, row, w->cols);
        for (uint32_t i = 0; i < w->cols; i++)
            fv_value_put(out, type, (size_t)r * w->cols + i, row[i]);
    }
    fv_mem_free(row);
    return status;
}

/* Returns how many rows are packed at a time, and sets *bytes to their size as floats. */
static uint32_t slab_of(const fv_weight *w, const fv_problem *problem, uint64_t *bytes)
{
    const bool pairs = (problem->epi & FV_EPI_SWIGLU) != 0;
    const uint32_t rows = pairs ? w->rows / 2 : w->rows;
    const uint64_t row_bytes = (uint64_t)w->cols * sizeof(float) * (pairs ? 2 : 1);
    const uint64_t fitting = SLAB / row_bytes / FV_COL_ALIGN * FV_COL_ALIGN;
    const uint32_t slab = fitting ? (uint32_t)fitting : FV_COL_ALIGN;
    *bytes = fv_size_mul(slab < rows ? slab : rows, row_bytes);
    return slab < rows ? slab : rows;
}

uint64_t fv_packed_staging(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem)
{
    uint64_t bytes = 0;
    if (packs(kernel))
        slab_of(w, problem, &bytes);
    return bytes;
}

fovea_status fv_packed_again(fv_packed *p, const fv_kernel *kernel, const fv_problem *problem,
                             float *staging)
{
    const fv_weight *w = &p->weight;
    assert(!p->map);
    if (!packs(kernel))
        return pack_plain(p->data, w);
    const bool pairs = paired(kernel, problem);
    const uint32_t rows = pairs ? w->rows / 2 : w->rows;
    uint64_t bytes;
    const uint32_t slab = slab_of(w, problem, &bytes);
    for (uint32_t n0 = 0; n0 < rows; n0 += slab) {
        uint32_t n = rows - n0 < slab ? rows - n0 : slab;
        read_slab(w, pairs, n0, n, staging);
        FV_TRY(check_range(w, problem->weight, staging, (size_t)n * w->cols * (pairs ? 2 : 1)));
        kernel->hooks->pack(p->data, staging, n0, n, problem, &p->knobs);
    }
    return FOVEA_OK;
}

static fovea_status pack(fv_packed *p, const fv_kernel *kernel, const fv_problem *problem)
{
    void *staging;
    FV_TRY(fv_mem_alloc(&staging, fv_packed_staging(&p->weight, kernel, problem), FV_MEM_PLAN,
                        "rows to be packed"));
    const fovea_status status = fv_packed_again(p, kernel, problem, staging);
    fv_mem_free(staging);
    return status;
}

void fv_packed_release_sources(const fv_weight *w)
{
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_tensor *t = w->part[i].tensor;
        if (t->file)
            fv_os_release_pages(t->data, t->elements * fv_file_types[t->dtype].bytes);
    }
}

static void free_data(fv_packed *p)
{
    if (p->map)
        fv_os_unmap(p->map);
    else
        fv_mem_free(p->data);
    p->map = NULL;
    p->data = NULL;
}

static void free_packed(fv_packed *p)
{
    if (p->device && p->mem.handle)
        p->device->backend->release(p->device->device, &p->mem);
    fv_device_unref(p->device);
    free_data(p);
    fv_mem_free(p);
}

/* Moves a packed weight from host memory to the device's. */
static fovea_status to_device(fv_packed *p)
{
    const fv_backend *be = p->device->backend;
    FV_TRY(be->alloc(p->device->device, p->size, "packed weight", &p->mem));
    FV_TRY(be->write(p->device->device, &p->mem, p->data, p->size));
    free_data(p);
    return FOVEA_OK;
}

static fovea_status lock_mapped(const fv_packed *p)
{
    const uint64_t page = fv_machine_page();
    char *begin = (char *)p->data - (uintptr_t)p->data % page;
    const uint64_t bytes = (uint64_t)((char *)p->data - begin) + p->size;
    return p->locked ? fv_machine_lock(begin, bytes, "packed weight") : FOVEA_OK;
}

/* Maps the packed weight if the cache has it; else packs it, writes it to the cache and maps the
 * file, so that all processes share the same pages. */
static fovea_status fill(fv_packed *p, fv_packed_cache *cache, const fv_kernel *kernel,
                         const fv_problem *problem)
{
    fv_packed_key key;
    const bool kept = fv_packed_key_make(&key, cache, p);
    if (kept && fv_packed_cache_find(cache, &key, p))
        return lock_mapped(p);
    FV_TRY(fv_mem_place(&p->data, p->size, FV_MEM_WEIGHTS, "packed weight", p->locked));
    FV_TRY(pack(p, kernel, problem));
    void *own = p->data;
    if (!kept || !fv_packed_cache_store(cache, &key, p) || !fv_packed_cache_find(cache, &key, p))
        return FOVEA_OK;
    fv_mem_free(own);
    return lock_mapped(p);
}

static fovea_status make(fv_packed **out, const fv_shared_weights *shared, fovea_device *device,
                         bool locked, const fv_weight *w, const fv_kernel *kernel,
                         const fv_problem *problem, const fv_knobs *knobs, uint64_t size)
{
    fv_packed *p;
    FV_TRY(FV_MEM_NEW(&p, FV_MEM_MODEL, "packed weight"));
    p->weight = *w;
    p->format = format_of(w, kernel);
    p->pairs = paired(kernel, problem);
    p->knobs = *knobs;
    p->refs = 1;
    p->size = size;
    p->device = device ? fv_device_ref(device) : NULL;
    p->locked = locked;
    fovea_status status = fill(p, shared->cache, kernel, problem);
    if (status == FOVEA_OK && device)
        status = to_device(p);
    if (status != FOVEA_OK) {
        free_packed(p);
        return status;
    }
    if (!device)
        p->mem = (fv_mem){.host = p->data, .size = p->size};
    fv_packed_release_sources(w);
    *out = p;
    return FOVEA_OK;
}

/* Returns the knobs that the packed bytes depend on; unpacked rows are the same for all kernels and
 * knobs. */
static const fv_knobs *knobs_of(const fv_kernel *kernel, const fv_knobs *knobs)
{
    static const fv_knobs none;
    return packs(kernel) ? knobs : &none;
}

/* Finds a packed weight that can be shared. The caller holds the lock. */
static fv_packed *find(const fv_shared_weights *shared, const fovea_device *device, bool locked,
                       const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                       const fv_knobs *knobs)
{
    const uint64_t size = fv_packed_size(w, kernel, problem, knobs);
    const fv_knobs *own = knobs_of(kernel, knobs);
    fv_packed *p = shared->packed;
    while (p &&
           !(p->device == device && (p->locked || !locked) && p->size == size &&
             strcmp(p->format, format_of(w, kernel)) == 0 && p->pairs == paired(kernel, problem) &&
             memcmp(&p->knobs, own, sizeof *own) == 0 && fv_weight_same(&p->weight, w)))
        p = p->next;
    return p;
}

bool fv_packed_there(fv_shared_weights *shared, const fovea_device *device, bool locked,
                     const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                     const fv_knobs *knobs)
{
    pthread_mutex_lock(&shared->lock);
    const bool there = find(shared, device, locked, w, kernel, problem, knobs) != NULL;
    pthread_mutex_unlock(&shared->lock);
    return there;
}

fovea_status fv_packed_get(fv_packed **out, fv_shared_weights *shared, fovea_device *device,
                           bool locked, const fv_weight *w, const fv_kernel *kernel,
                           const fv_problem *problem, const fv_knobs *knobs)
{
    fovea_status status = FOVEA_OK;
    pthread_mutex_lock(&shared->lock);
    fv_packed *p = find(shared, device, locked, w, kernel, problem, knobs);
    if (p) {
        p->refs++;
    } else {
        status = make(&p, shared, device, locked, w, kernel, problem, knobs_of(kernel, knobs),
                      fv_packed_size(w, kernel, problem, knobs));
        if (status == FOVEA_OK) {
            p->next = shared->packed;
            shared->packed = p;
        }
    }
    pthread_mutex_unlock(&shared->lock);
    if (status == FOVEA_OK)
        *out = p;
    return status;
}

void fv_packed_unref(fv_shared_weights *shared, fv_packed *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&shared->lock);
    bool last = --p->refs == 0;
    if (last) {
        fv_packed **link = &shared->packed;
        while (*link != p)
            link = &(*link)->next;
        *link = p->next;
    }
    pthread_mutex_unlock(&shared->lock);
    if (last)
        free_packed(p);
}
