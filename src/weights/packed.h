/* packed.h: packed weights, shared by the plans of a model. */
#ifndef FOVEA_SRC_PACKED_H
#define FOVEA_SRC_PACKED_H

#include "base/mem.h"
#include "checkpoint/weight.h"
#include "device/backend.h"
#include "weights/shared_weights.h"

typedef struct fv_packed fv_packed;

/* One buffer of packed or plain weights. Plans share it if the weight, its format and its memory
 * are the same. */
struct fv_packed {
    fv_packed *next;
    fv_weight weight;
    const char *format;
    bool pairs; /* rows of values and gates are packed in pairs (SWIGLU) */
    fv_knobs knobs;
    uint32_t refs;
    fovea_device *device; /* whose memory `mem` is, with a reference; NULL: host memory at `data` */
    bool locked;          /* host memory that is locked in main memory */
    fv_mem mem;
    uint64_t size;
    void *data;
    void *map; /* the mapping, read-only, of the file that has `data`; NULL: `data` was allocated */
};

/* Gets `w` packed for `kernel` and `problem` (kernel NULL: plain rows of w->type) on `device`
 * (NULL: in host memory, `locked` or not). It is packed now unless another plan has it; then the
 * mapped pages that it was read from are released. ENOTSUP for values that are too large for
 * float16. Release with fv_packed_unref. */
fovea_status fv_packed_get(fv_packed **out, fv_shared_weights *shared, fovea_device *device,
                           bool locked, const fv_weight *w, const fv_kernel *kernel,
                           const fv_problem *problem, const fv_knobs *knobs);
/* Whether a packed weight exists already that fv_packed_get would share. */
bool fv_packed_there(fv_shared_weights *shared, const fovea_device *device, bool locked,
                     const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                     const fv_knobs *knobs);
void fv_packed_unref(fv_shared_weights *shared, fv_packed *p);
/* Packs a weight in host memory again, in the same way, after its tensors' numbers have changed.
 * `staging`: fv_packed_staging bytes; plain rows of 16 bits allocate memory instead. ENOTSUP. */
fovea_status fv_packed_again(fv_packed *p, const fv_kernel *kernel, const fv_problem *problem,
                             float *staging);
uint64_t fv_packed_staging(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem);
/* Releases the mapped pages of the files that a weight was read from. */
void fv_packed_release_sources(const fv_weight *w);
/* The size of a packed weight, without packing it. */
uint64_t fv_packed_size(const fv_weight *w, const fv_kernel *kernel, const fv_problem *problem,
                        const fv_knobs *knobs);

#endif
