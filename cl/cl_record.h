/* cl_record.h: records kernels once and enqueues them again with few calls, by
 * cl_khr_command_buffer or cl_qcom_recordable_queues. Both keep the arguments that a kernel has
 * when it is recorded.
 *
 * A recording is split into parts, because a driver may submit a whole part to the device at once:
 * a part takes no longer than a dispatch may. */
#ifndef FOVEA_CL_CL_RECORD_H
#define FOVEA_CL_CL_RECORD_H

#include <stdint.h>

#include "cl/cl_loader.h"
#include "gpu/gpu_host.h"

enum fv_cl_records { FV_CL_NO_RECORDS, FV_CL_COMMAND_BUFFERS, FV_CL_RECORDABLE_QUEUES };

/* Which extension a device records with, and its functions; all zero: it cannot record. */
typedef struct fv_cl_recorder {
    enum fv_cl_records by;
    uint32_t most; /* most kernels in a part */
#define FV_CL_RECORD(name, result, parameters) result(CL_API_CALL *name) parameters;
#include "cl/cl_record_calls.inc"
#undef FV_CL_RECORD
} fv_cl_recorder;

/* Finds the extension that a device announces; whether it works is not tested here. */
void fv_cl_recorder_find(fv_cl_recorder *out, const fv_cl_place *p);

const char *fv_cl_recorder_name(const fv_cl_recorder *r);

typedef struct fv_cl_recording {
    uint64_t key; /* identifies what was recorded; 0: nothing, or not all of it */
    uint32_t dispatches;
    struct fv_cl_part *first, *last;
    /* Qualcomm's recordable queue: kernels that are enqueued to it are recorded. */
    cl_command_queue own;
} fv_cl_recording;

/* Begins a dispatch of `kernels` kernels that takes about `seconds`. After a failure the recording
 * must be freed. */
fovea_status fv_cl_record_dispatch(fv_cl_recording *r, fv_device *d, cl_command_queue queue,
                                   uint32_t kernels, double seconds);
/* Records a kernel with its current arguments. In a replay it runs after the previous kernel. */
fovea_status fv_cl_record_kernel(fv_cl_recording *r, const fv_device *d, cl_kernel kernel,
                                 const size_t items[3], const size_t group[3]);
fovea_status fv_cl_record_end(fv_cl_recording *r, const fv_device *d, uint64_t key);
/* Enqueues what was recorded, and flushes. A previous replay must be over. *dispatches: how many
 * were enqueued. They are fewer than recorded if the driver refuses; that leaves a message and the
 * device usable. */
fovea_status fv_cl_replay(const fv_cl_recording *r, fv_device *d, cl_command_queue queue,
                          uint32_t *dispatches);
void fv_cl_recording_free(fv_cl_recording *r, const fv_device *d);

#endif
