/* cuda_graph.c: records what a frame enqueues once, and replays it with one call. */
#include "cuda/cuda_graph.h"

#include <string.h>

#include "base/mem.h"

fv_cuda_graph *fv_cuda_graph_find(fv_cuda_graphs *g, uint64_t key)
{
    for (int i = 0; i < FV_CUDA_GRAPHS; i++)
        if (g->graph[i].exec && g->graph[i].key == key) {
            g->graph[i].used = ++g->uses;
            return &g->graph[i];
        }
    return NULL;
}

/* Captures in relaxed mode, because libraries may load kernels meanwhile. */
fovea_status fv_cuda_graph_begin(CUstream stream)
{
    FV_CUDA_TRY(NULL, cuStreamBeginCapture, (stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    return FOVEA_OK;
}

/* ---- kernels that read inputs ---- */

/* The graph node of the last launch into the stream. */
static CUgraphNode last_node(CUstream stream)
{
    CUstreamCaptureStatus status;
    const CUgraphNode *last = NULL;
    size_t count = 0;
    const CUresult error =
        fv_cuda.cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &last, &count);
    return error == CUDA_SUCCESS && count == 1 ? last[0] : NULL;
}

static void keep_arguments(fv_cuda_reader *r)
{
    memcpy(r->base, r->step->args.base, sizeof r->base);
    memcpy(r->at, r->step->args.at, sizeof r->at);
}

fovea_status fv_cuda_graph_reads(fv_cuda_graphs *g, fv_cuda_bound *step, const fv_gpu_dispatch *now,
                                 CUfunction function, const size_t count[3], CUstream stream)
{
    fv_cuda_readers *all = &g->recorded;
    if (!fv_cuda_changes_graphs())
        return FOVEA_OK;
    if (all->count == all->capacity)
        FV_TRY(fv_mem_grow(&all->list, all->count, &all->capacity, 2 * all->capacity + 4,
                           sizeof *all->list, FV_MEM_PLAN, "a recorded frame"));
    fv_cuda_reader *r = &all->list[all->count++];
    *r = (fv_cuda_reader){.node = function ? last_node(stream) : NULL,
                          .step = step,
                          .now = *now,
                          .function = function,
                          .count = {count[0], count[1], count[2]}};
    keep_arguments(r);
    return FOVEA_OK;
}

static void free_readers(fv_cuda_readers *r)
{
    fv_mem_free(r->list);
    *r = (fv_cuda_readers){.list = NULL};
}

bool fv_cuda_graph_change(const fv_cuda_graph *g, fv_cuda_reader *r)
{
    fv_cuda_bound *b = r->step;
    const CUDA_KERNEL_NODE_PARAMS launch = {.func = r->function,
                                            .gridDimX = (unsigned)r->count[0],
                                            .gridDimY = (unsigned)r->count[1],
                                            .gridDimZ = (unsigned)r->count[2],
                                            .blockDimX = b->step.group,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .kernelParams = b->parameter};
    if (!memcmp(r->base, b->args.base, sizeof r->base) && !memcmp(r->at, b->args.at, sizeof r->at))
        return true;
    if (!r->node)
        return false;
    const CUresult error = fv_cuda.cuGraphExecKernelNodeSetParams(g->exec, r->node, &launch);
    if (error == CUDA_SUCCESS) {
        keep_arguments(r);
        return true;
    }
    fv_log("cuda: frames of imported pictures are enqueued command by command: %s: "
           "cuGraphExecKernelNodeSetParams: %s",
           b->step.base.l.kernel->name, fv_cuda_error_name(error));
    r->node = NULL;
    return false;
}

/* ---- graphs ---- */

static void free_graph(fv_cuda_graph *g)
{
    if (g->exec)
        fv_cuda.cuGraphExecDestroy(g->exec);
    if (g->nodes)
        fv_cuda.cuGraphDestroy(g->nodes);
    free_readers(&g->readers);
    *g = (fv_cuda_graph){.exec = NULL};
}

/* Finds a free entry, else drops the one that was least recently used. */
static fv_cuda_graph *take_entry(fv_cuda_graphs *g)
{
    fv_cuda_graph *oldest = g->graph;
    for (int i = 1; i < FV_CUDA_GRAPHS; i++) /* a free entry was last used at 0 */
        if (g->graph[i].used < oldest->used)
            oldest = &g->graph[i];
    free_graph(oldest);
    return oldest;
}

fovea_status fv_cuda_graph_end(fv_cuda_graphs *g, uint64_t key, CUstream stream)
{
    fv_cuda_graph made = {.readers = g->recorded, .key = key, .used = ++g->uses};
    g->recorded = (fv_cuda_readers){.list = NULL};
    CUresult error = fv_cuda.cuStreamEndCapture(stream, &made.nodes);
    const char *call = "cuStreamEndCapture";
    if (error == CUDA_SUCCESS) {
        error = fv_cuda.cuGraphInstantiate(&made.exec, made.nodes, 0);
        call = "cuGraphInstantiate";
    }
    if (error != CUDA_SUCCESS) {
        made.exec = NULL;
        free_graph(&made);
        return fv_cuda_fail(error, call, NULL);
    }
    if (!made.readers.count) {
        fv_cuda.cuGraphDestroy(made.nodes);
        made.nodes = NULL;
    }
    *take_entry(g) = made;
    /* If the graph cannot be uploaded now, it will be with its first replay. */
    if (fv_cuda.cuGraphUpload)
        fv_cuda.cuGraphUpload(made.exec, stream);
    return FOVEA_OK;
}

void fv_cuda_graph_cancel(fv_cuda_graphs *g, CUstream stream)
{
    CUgraph graph = NULL;
    free_readers(&g->recorded);
    if (fv_cuda.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph)
        fv_cuda.cuGraphDestroy(graph);
}

void fv_cuda_graphs_free(fv_cuda_graphs *g)
{
    for (int i = 0; i < FV_CUDA_GRAPHS; i++)
        free_graph(&g->graph[i]);
    free_readers(&g->recorded);
    *g = (fv_cuda_graphs){.uses = 0};
}
