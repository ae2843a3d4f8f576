/* gpu_meter.h: measures a device's compute and memory rates with the kernels of probe.cl. */
#ifndef FOVEA_GPU_GPU_METER_H
#define FOVEA_GPU_GPU_METER_H

#include "gpu/gpu_store.h"

/* What a backend provides for measuring. */
typedef struct fv_gpu_meter {
    fv_device *device;
    fv_gpu_store *store;
    uint32_t units;
    uint64_t memory, largest;
    bool few_turns; /* the device ends work-items that loop for long */
    /* What to measure in addition to the two rates. */
    bool half, dot, local, image, subgroups;
    /* Kernel `entry` of probe.cl with FV_PROBE `which`. */
    fovea_status (*kernel)(void **out, fv_device *d, const char *entry, int which);
    void (*drop)(fv_device *d, void *kernel); /* NULL: it is its program's */
    fovea_status (*buffer)(uint64_t *out, fv_device *d, uint64_t bytes);
    /* An image over its first bytes, released like a buffer; NULL: there are none. */
    fovea_status (*image_of)(uint64_t *out, fv_device *d, uint64_t buffer, uint64_t bytes);
    void (*release)(fv_device *d, uint64_t buffer);
    size_t (*group)(fv_device *d, void *kernel); /* work-items of a work-group for it */
    /* Runs it with `buffers` buffers or images and a number as its arguments, and waits. */
    fovea_status (*run)(fv_device *d, void *kernel, const uint64_t *buffer, uint32_t buffers,
                        uint32_t number, size_t items, size_t group, double *seconds);
} fv_gpu_meter;

/* Peak rates, measured now. */
fovea_status fv_gpu_meter_best(const fv_gpu_meter *m, fovea_rates *out);
/* Approximate rates, by which dispatches are cut and kernels are ranked: taken from the store of
 * programs, or measured on the first call and kept there, so that every process cuts alike. They
 * are in *known then (under `lock`); a rate that cannot be measured is 0. */
fv_gpu_rates fv_gpu_meter_known(const fv_gpu_meter *m, fv_gpu_rates *known, pthread_mutex_t *lock);

#endif
