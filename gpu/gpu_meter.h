/* gpu_meter.h: measures a device's compute and memory rates with the kernels of probe.cl. */
#ifndef FOVEA_GPU_GPU_METER_H
#define FOVEA_GPU_GPU_METER_H

#include "gpu/gpu_store.h"

/* What a backend provides for measurements. */
typedef struct fv_gpu_meter {
    fv_device *device;
    fv_gpu_store *store;
    uint32_t units;
    uint64_t memory, largest;
    bool ends_long_loops; /* the device ends work-items that loop for long */
    /* What to measure in addition to the two rates. */
    bool half, dot, local, image, subgroups, wide;
    /* Creates kernel `entry` of probe.cl with FV_PROBE defined as `which`. */
    fovea_status (*kernel)(void **out, fv_device *d, const char *entry, int which);
    /* Releases a kernel; NULL: it is released with its program. */
    void (*drop)(fv_device *d, void *kernel);
    fovea_status (*buffer)(uint64_t *out, fv_device *d, uint64_t bytes);
    /* Makes an image over a buffer's first bytes, to be released like a buffer; NULL: images are
     * not supported. */
    fovea_status (*image_of)(uint64_t *out, fv_device *d, uint64_t buffer, uint64_t bytes);
    void (*release)(fv_device *d, uint64_t buffer);
    size_t (*group)(fv_device *d, void *kernel); /* work-items in a work-group for this kernel */
    /* Runs a kernel and waits. Its arguments are `buffers` buffers or images, and a number. */
    fovea_status (*run)(fv_device *d, void *kernel, const uint64_t *buffer, uint32_t buffers,
                        uint32_t number, size_t items, size_t group, double *seconds);
} fv_gpu_meter;

/* Peak rates, measured now. */
fovea_status fv_gpu_meter_best(const fv_gpu_meter *m, fovea_rates *out);
/* Approximate rates, which decide where dispatches are cut and how kernels are ranked. They are
 * read from the store of programs, or measured on the first call and stored there, so that every
 * process makes the same decisions. Afterwards they are kept in *known (protected by `lock`). A
 * rate that cannot be measured is 0. */
fv_gpu_rates fv_gpu_meter_known(const fv_gpu_meter *m, fv_gpu_rates *known, pthread_mutex_t *lock);

#endif
