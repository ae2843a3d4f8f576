/* cuda_graph.h: records what a frame enqueues once, and replays it with one call. */
#ifndef FOVEA_CUDA_CUDA_GRAPH_H
#define FOVEA_CUDA_CUDA_GRAPH_H

#include "cuda/cuda_device.h"

/* A kernel of a graph that reads inputs: how it was launched, and from where it reads in the
 * graph. */
typedef struct fv_cuda_reader {
    CUgraphNode node; /* NULL: that cannot be changed */
    fv_cuda_bound *step;
    fv_gpu_dispatch now;
    CUfunction function;
    size_t count[3];
    CUdeviceptr base[FV_OPERANDS];
    uint32_t at[FV_OPERANDS][2];
} fv_cuda_reader;
typedef struct fv_cuda_readers {
    fv_cuda_reader *list;
    uint32_t count, capacity;
} fv_cuda_readers;

typedef struct fv_cuda_graph {
    CUgraphExec exec; /* NULL: free */
    CUgraph nodes;    /* the graph that it was instantiated from, with the readers' nodes */
    fv_cuda_readers readers;
    uint64_t key, used;
} fv_cuda_graph;

/* Graphs of one frame in flight; they contain the addresses of its buffers. A plan needs one. The
 * tuner runs many, and then the least recently used one is dropped. */
enum { FV_CUDA_GRAPHS = 4 };
typedef struct fv_cuda_graphs {
    fv_cuda_graph graph[FV_CUDA_GRAPHS];
    fv_cuda_readers recorded; /* for the graph that is being recorded */
    uint64_t uses;
} fv_cuda_graphs;

/* The graph with this fv_gpu_frame_key, or NULL. */
fv_cuda_graph *fv_cuda_graph_find(fv_cuda_graphs *g, uint64_t key);
/* Begins to record what is enqueued on the stream; EDEVICE if the driver does not support it. */
fovea_status fv_cuda_graph_begin(CUstream stream);
/* Notes that the launch that was recorded last reads inputs: this function of the step, or a
 * library's if NULL. */
fovea_status fv_cuda_graph_reads(fv_cuda_graphs *g, fv_cuda_bound *step, const fv_gpu_dispatch *now,
                                 CUfunction function, const size_t count[3], CUstream stream);
/* Ends the recording, keeps the graph and uploads it to the device; or fails with the reason. */
fovea_status fv_cuda_graph_end(fv_cuda_graphs *g, uint64_t key, CUstream stream);
/* Ends the recording, and drops it. */
void fv_cuda_graph_cancel(fv_cuda_graphs *g, CUstream stream);
/* Makes a reader read what its step's arguments are now, from the next replay on. False if the
 * driver cannot change it. */
bool fv_cuda_graph_change(const fv_cuda_graph *g, fv_cuda_reader *r);
void fv_cuda_graphs_free(fv_cuda_graphs *g);

#endif
