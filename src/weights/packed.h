/* packed.h: packed weights, shared by the plans of a model. */
#ifndef FOVEA_SRC_PACKED_H
#define FOVEA_SRC_PACKED_H

#include "base/mem.h"
#include "checkpoint/weight.h"
#include "device/backend.h"
#include "weights/shared_weights.h"

typedef struct fv_packed fv_packed;

/* One buffer of packed or unpacked weights. Plans share it if the weight, its format and its memory
 * are the same. */
struct fv_packed {
    fv_packed *next;
    fv_weight weight;
    const char *format;
    bool pairs; /* rows of values and gates are packed in pairs (SWIGLU) */
    fv_knobs knobs;
    uint32_t refs;
    fovea_device *device; /* the device that owns `mem`, with a reference; NULL: host memory at
                             `data` */
    bool locked;          /* the pages are locked in main memory */
    fv_mem mem;
    uint64_t size;
    void *data;
    void *map; /* read-only mapping of the file that contains `data`; NULL: `data` was allocated */
};

/* Gets `w` packed for `kernel` and `problem` (kernel NULL: unpacked rows of w->type) on `device`
 * (NULL: in host memory, `locked` or not). If no plan has packed it yet, packs it now and then
 * releases the mapped pages of the checkpoint that it was read from. Returns FOVEA_ENOTSUP for
 * values that are too large for float16. Release with fv_packed_unref. */
fovea_status fv_packed_get(fv_packed **out, fv_shared_weights *shared, fovea_device *device,
                           bool locked, const fv_weight *w, const fv_kernel *kernel,
                           const fv_problem *problem, const fv_knobs *knobs);
/* Returns whether a packed weight exists already that fv_packed_get would share. */
bool fv_packed_there(fv_shared_weights *shared, const fovea_device *device, bool locked,
                     const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                     const fv_knobs *knobs);
void fv_packed_unref(fv_shared_weights *shared, fv_packed *p);
/* Packs a weight in host memory again, in the same way, after the values of its tensors have
 * changed. `staging` has fv_packed_staging bytes; unpacked rows of 16 bits allocate memory instead.
 * Returns FOVEA_ENOTSUP for values that are too large for float16. */
fovea_status fv_packed_again(fv_packed *p, const fv_kernel *kernel, const fv_problem *problem,
                             float *staging);
uint64_t fv_packed_staging(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem);
/* Releases the mapped pages of the files that a weight was read from. */
void fv_packed_release_sources(const fv_weight *w);
/* Returns the size in bytes of a packed weight, without packing it. */
uint64_t fv_packed_size(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                        const fv_knobs *knobs);

#endif
