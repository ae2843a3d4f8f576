/* cuda_graph.c: frames recorded once and replayed with one call. */
#include "cuda/cuda_graph.h"

CUgraphExec fv_cuda_graph_find(fv_cuda_graphs *g, uint64_t key)
{
    for (int i = 0; i < FV_CUDA_GRAPHS; i++)
        if (g->graph[i].exec && g->graph[i].key == key) {
            g->graph[i].used = ++g->uses;
            return g->graph[i].exec;
        }
    return NULL;
}

/* Relaxed: libraries may load what they run meanwhile. */
fovea_status fv_cuda_graph_begin(CUstream stream)
{
    FV_CUDA_TRY(NULL, cuStreamBeginCapture, (stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    return FOVEA_OK;
}

/* A free slot, else the least recently used. */
static struct fv_cuda_graph *make_room(fv_cuda_graphs *g)
{
    struct fv_cuda_graph *oldest = g->graph;
    for (int i = 1; i < FV_CUDA_GRAPHS; i++) /* a free one was used 0 times */
        if (g->graph[i].used < oldest->used)
            oldest = &g->graph[i];
    if (oldest->exec)
        fv_cuda.cuGraphExecDestroy(oldest->exec);
    *oldest = (struct fv_cuda_graph){.exec = NULL};
    return oldest;
}

fovea_status fv_cuda_graph_end(fv_cuda_graphs *g, uint64_t key, CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    FV_CUDA_TRY(NULL, cuStreamEndCapture, (stream, &graph));
    struct fv_cuda_graph *to = make_room(g);
    const CUresult error = fv_cuda.cuGraphInstantiate(&exec, graph, 0);
    fv_cuda.cuGraphDestroy(graph);
    if (error != CUDA_SUCCESS)
        return fv_cuda_fail(error, "cuGraphInstantiate", NULL);
    *to = (struct fv_cuda_graph){.exec = exec, .key = key, .used = ++g->uses};
    /* What cannot be sent ahead goes with the first replay. */
    if (fv_cuda.cuGraphUpload)
        fv_cuda.cuGraphUpload(exec, stream);
    return FOVEA_OK;
}

void fv_cuda_graph_cancel(CUstream stream)
{
    CUgraph graph = NULL;
    if (fv_cuda.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph)
        fv_cuda.cuGraphDestroy(graph);
}

void fv_cuda_graphs_free(fv_cuda_graphs *g)
{
    for (int i = 0; i < FV_CUDA_GRAPHS; i++)
        if (g->graph[i].exec)
            fv_cuda.cuGraphExecDestroy(g->graph[i].exec);
    *g = (fv_cuda_graphs){.uses = 0};
}
