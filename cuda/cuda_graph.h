/* cuda_graph.h: what a frame computes, recorded once and replayed with one call. */
#ifndef FOVEA_CUDA_CUDA_GRAPH_H
#define FOVEA_CUDA_CUDA_GRAPH_H

#include "cuda/cuda_device.h"

/* Graphs of one frame in flight, whose buffers they contain. A plan needs one; the tuner runs many,
 * and then the least recently used is dropped. */
enum { FV_CUDA_GRAPHS = 4 };
typedef struct fv_cuda_graphs {
    struct fv_cuda_graph {
        CUgraphExec exec; /* NULL: free */
        uint64_t key, used;
    } graph[FV_CUDA_GRAPHS];
    uint64_t uses;
} fv_cuda_graphs;

/* The graph of that fv_gpu_frame_key, or NULL. */
CUgraphExec fv_cuda_graph_find(fv_cuda_graphs *g, uint64_t key);
/* Begins to record what is enqueued on the stream; EDEVICE where the driver does not. */
fovea_status fv_cuda_graph_begin(CUstream stream);
/* Ends it, keeps the graph and sends it ahead to the device; or says why there is none. */
fovea_status fv_cuda_graph_end(fv_cuda_graphs *g, uint64_t key, CUstream stream);
/* Ends it, and forgets what was recorded. */
void fv_cuda_graph_cancel(CUstream stream);
void fv_cuda_graphs_free(fv_cuda_graphs *g);

#endif
