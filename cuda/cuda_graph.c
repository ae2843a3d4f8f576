/* cuda_graph.c: frames recorded once and replayed with one call. */
#include "cuda/cuda_graph.h"

/* FNV-1a, a word at a time. */
static uint64_t mix(uint64_t h, uint64_t word)
{
    return (h ^ word) * UINT64_C(0x100000001b3);
}

uint64_t fv_cuda_graph_key(const fv_sweep *s, uint32_t count, uint32_t rows)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = s[i].rows > most ? s[i].rows : most;
    uint64_t h = mix(UINT64_C(0xcbf29ce484222325), rows < most ? rows : most);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t words[] = {s[i].steps, s[i].rows,  s[i].chunk, s[i].groups,  s[i].partials,
                                  s[i].runs,  s[i].width, s[i].reach, s[i].streamed};
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            h = mix(h, words[k]);
        for (uint32_t k = 0; k < s[i].steps; k++)
            h = mix(h, ((const fv_cuda_bound *)s[i].step[k])->serial);
    }
    return h;
}

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
