/* cl_record.h: kernels recorded once and enqueued again with few calls, by cl_khr_command_buffer or
 * cl_qcom_recordable_queues. Both keep the arguments that a kernel has when it is recorded.
 *
 * A recording has parts: a driver may hand over each to the device as one, so that none takes
 * longer than a dispatch may. */
#ifndef FOVEA_CL_CL_RECORD_H
#define FOVEA_CL_CL_RECORD_H

#include <stdint.h>

#include "cl/cl_loader.h"
#include "gpu/gpu_host.h"

enum fv_cl_records { FV_CL_NO_RECORDS, FV_CL_COMMAND_BUFFERS, FV_CL_RECORDABLE_QUEUES };

/* How a device records; zero: it does not. */
typedef struct fv_cl_recorder {
    enum fv_cl_records by;
    uint32_t most; /* kernels of a part at most */
#define FV_CL_RECORD(name, result, parameters) result(CL_API_CALL *name) parameters;
#include "cl/cl_record_calls.inc"
#undef FV_CL_RECORD
} fv_cl_recorder;

/* What the extensions of a device offer, whether it works or not. */
void fv_cl_recorder_find(fv_cl_recorder *out, const fv_cl_place *p);

const char *fv_cl_recorder_name(const fv_cl_recorder *r);

typedef struct fv_cl_recording {
    uint64_t key; /* of what was recorded; 0: nothing, or not all of it */
    uint32_t dispatches;
    struct fv_cl_part *first, *last;
    cl_command_queue own; /* Qualcomm's: kernels that are enqueued there are recorded */
} fv_cl_recording;

/* Begins a dispatch of `kernels` kernels that takes about `seconds`. On failure the recording must
 * be freed. */
fovea_status fv_cl_record_dispatch(fv_cl_recording *r, fv_device *d, cl_command_queue queue,
                                   uint32_t kernels, double seconds);
/* A kernel with the arguments that it has now; runs after the one before. */
fovea_status fv_cl_record_kernel(fv_cl_recording *r, const fv_device *d, cl_kernel kernel,
                                 const size_t items[3], const size_t group[3]);
fovea_status fv_cl_record_end(fv_cl_recording *r, const fv_device *d, uint64_t key);
/* Enqueues what was recorded, and flushes; no former run of it is under way. *dispatches: how many
 * were enqueued; all but where the driver refuses, which leaves a message and the device as it is.
 */
fovea_status fv_cl_replay(const fv_cl_recording *r, fv_device *d, cl_command_queue queue,
                          uint32_t *dispatches);
void fv_cl_recording_free(fv_cl_recording *r, const fv_device *d);

#endif
