/* gpu_code.h: what a GPU's backend has to know of a kernel beside its registry line: which program
 * it is in, how it is specialised, and over which work-groups a call runs. OpenCL's and CUDA's are
 * the same, and this knows neither.
 *
 * The kernels' side of this contract is prelude.cl (on CUDA cuda_prelude.h, which gives the same):
 * operands, the arguments that follow them, and the macros that the backend defines.
 */
#ifndef FOVEA_GPU_GPU_CODE_H
#define FOVEA_GPU_GPU_CODE_H

#include "device/backend.h"

/* Build options, put together a line at a time. */
typedef struct fv_gpu_text {
    char text[1536];
    size_t length;
    bool full; /* something did not fit */
} fv_gpu_text;
/* Adds " -D<name>=<value>". */
void fv_gpu_define(fv_gpu_text *t, const char *name, uint32_t value);

/* One dispatch: `rows` rows of a call that deals them to `groups` partial states. */
typedef struct fv_gpu_piece {
    uint32_t rows, groups;
    uint32_t group; /* work-items of a work-group */
    uint32_t units; /* of the device; 0: not told */
} fv_gpu_piece;

/* What fv_gpu_code.before gets of a call. Handles are of the backend's kind: an OpenCL queue and
 * its buffers; a CUDA stream and addresses. */
typedef struct fv_gpu_before {
    fv_device *device;
    void *queue;
    void **event; /* of the last command, to be set; NULL: not wanted */
    uint64_t buffer[FV_OPERANDS], scratch;
    uint32_t at[FV_OPERANDS], ld[FV_OPERANDS]; /* as the kernels have them */
    uint32_t rows;
    void **own; /* what `prepare` keeps for the step, which `forget` frees */
} fv_gpu_before;

enum { FV_GPU_PASSES = 2 };

/* A kernel function that runs ahead of a code's `entry`, with the same arguments and work-groups of
 * the same size. */
typedef struct fv_gpu_pass {
    const char *entry; /* in the same program; NULL: there is none */
    void (*shape)(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
} fv_gpu_pass;

#define FV_GPU_WINDOWS UINT32_MAX /* of fv_gpu_code.align */

typedef struct fv_gpu_code {
    const char *program; /* the file <program>.cl, or one of CUDA's with its ending: "gemm.cu" */
    const char *entry;   /* its kernel function */
    /* Work-items of a work-group that it likes: a power of two. On devices that allow fewer it is
     * halved until the compiled kernel may run; with 1 it needs no local memory and no barrier. */
    uint32_t group;
    /* Bytes of local memory with work-groups of `group`; NULL: none. */
    uint32_t (*local)(const fv_launch *l, uint32_t group);
    /* CUDA: bytes of it that are not declared in the kernel but asked for with every call, which
     * may be more than the 48 KB that can be declared (`local` NULL); NULL: none. */
    uint32_t (*dynamic)(const fv_launch *l, uint32_t group);
    /* Macros beside those that prelude.cl names; NULL: none. */
    void (*define)(const fv_launch *l, uint32_t group, fv_gpu_text *out);
    /* Work-groups in three dimensions. Tokens are counted in the first one: NVIDIA's devices take
     * 65535 of the others. */
    void (*shape)(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
    /* CUDA, of ops but REDUCE: segments that a dispatch deals its rows to, which kernels find in
     * `groups`; NULL: 1. Where there are several, `ahead` runs first, one pass after the other, and
     * leaves something in the step's scratch, which all of them find in place of a table. */
    uint32_t (*segments)(const fv_launch *l, const fv_gpu_piece *p);
    fv_gpu_pass ahead[FV_GPU_PASSES];
    /* A dispatch that would take too long is cut into calls of fewer rows, multiples of this;
     * 0: it is never cut. FV_GPU_WINDOWS: of a window, dim[FV_ATTN_KEYS]. */
    uint32_t align;
    /* Bytes of what a step's `table` becomes on the device, written to `out` unless that is NULL;
     * NULL: it has none. */
    uint64_t (*table)(const fv_launch *l, uint32_t *out);
    /* NULL, or work that another library enqueues ahead of `entry` in every call, into the step's
     * scratch, which `entry` finds in place of a table. `prepare` does at bind what should not be
     * done in a frame; rows and the places of operands are not set then. */
    fovea_status (*prepare)(const fv_launch *l, const fv_gpu_before *b);
    fovea_status (*before)(const fv_launch *l, const fv_gpu_before *b);
    void (*forget)(void *own); /* NULL where `prepare` keeps nothing */
    /* Where in the scratch, in floats, `before` leaves its results: `entry` finds it in ring.s0. */
    size_t (*left)(const fv_launch *l);
} fv_gpu_code;

/* Work-groups for one work-item each for `n` items. */
static inline size_t fv_gpu_groups(uint64_t n, uint32_t group)
{
    return (size_t)((n + group - 1) / group);
}

/* Work-groups for work-items that fv_spread() of prelude.cl deals rows of `runs` runs to. */
static inline void fv_gpu_spread(size_t count[3], uint64_t rows, uint32_t runs, uint32_t group)
{
    uint32_t across = 1;
    while (across < runs && across < group)
        across *= 2;
    count[0] = fv_gpu_groups(rows, group / across);
    count[1] = fv_gpu_groups(runs, across);
}

#endif
