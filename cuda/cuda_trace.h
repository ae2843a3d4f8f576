/* cuda_trace.h: records when the dispatches of a traced frame began and ended. */
#ifndef FOVEA_CUDA_CUDA_TRACE_H
#define FOVEA_CUDA_CUDA_TRACE_H

#include "cuda/cuda_device.h"

typedef struct fv_cuda_trace {
    fv_trace *to; /* NULL: off */
    struct fv_cuda_span {
        CUevent begin, end;    /* made when first used */
    } * span;                  /* one per event of `to` */
    struct fv_cuda_span *open; /* for the dispatch that is being enqueued; NULL: it is not traced */
} fv_cuda_trace;

/* Allocates memory for the trace `to`; if `to` is NULL, frees it. */
fovea_status fv_cuda_trace_open(fv_cuda_trace *t, const fv_device *d, fv_trace *to);
/* Notes a dispatch of rows from `row` on; its work is enqueued between the calls of begin and
 * end. */
fovea_status fv_cuda_trace_begin(fv_cuda_trace *t, fv_device *d, CUstream stream,
                                 const fv_launch *l, uint32_t row, uint32_t rows);
fovea_status fv_cuda_trace_end(fv_cuda_trace *t, fv_device *d, CUstream stream);
/* Fills in the times of a frame that is done, relative to `begun`. */
void fv_cuda_trace_finish(fv_cuda_trace *t, CUevent begun);

#endif
