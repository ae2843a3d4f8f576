/* gpu_code.h: what a GPU backend must know about a kernel in addition to its registry line: its
 * program, its specialisation, and the work-groups of a call. It is the same for OpenCL and CUDA,
 * and depends on neither.
 *
 * The kernels' side of this contract is prelude.cl (on CUDA cuda_prelude.h, which gives the same):
 * operands, the arguments that follow them, and the macros that the backend defines.
 */
#ifndef FOVEA_GPU_GPU_CODE_H
#define FOVEA_GPU_GPU_CODE_H

#include "device/backend.h"

/* Build options, appended one by one. */
typedef struct fv_gpu_text {
    char text[1536];
    size_t length;
    bool full; /* something did not fit */
} fv_gpu_text;
/* Adds " -D<name>=<value>". */
void fv_gpu_define(fv_gpu_text *t, const char *name, uint32_t value);

/* One dispatch: `rows` rows of a call, from row row0 of the step on, that are split into `groups`
 * partial states. */
typedef struct fv_gpu_piece {
    uint32_t row0, rows, groups;
    uint32_t group; /* work-items of a work-group */
    uint32_t units; /* compute units of the device; 0: unknown */
} fv_gpu_piece;

/* What fv_gpu_code.before gets of a call. Handles are of the backend's kind: an OpenCL queue and
 * its buffers; a CUDA stream and addresses. */
typedef struct fv_gpu_before {
    fv_device *device;
    void *queue;
    void **event; /* of the last command, to be set; NULL: not wanted */
    uint64_t buffer[FV_OPERANDS], scratch;
    uint32_t at[FV_OPERANDS], ld[FV_OPERANDS]; /* offsets and strides, as the kernels' arguments */
    uint32_t rows;
    void **own; /* data of the step, made by `prepare` and freed by `forget` */
} fv_gpu_before;

enum { FV_GPU_PASSES = 2 };

/* A pre-pass: a kernel function that runs before a code's `entry`, with the same arguments and
 * work-groups of the same size. */
typedef struct fv_gpu_pass {
    const char *entry; /* in the same program; NULL: there is none */
    void (*shape)(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
} fv_gpu_pass;

#define FV_GPU_WINDOWS UINT32_MAX /* of fv_gpu_code.align */

typedef struct fv_gpu_code {
    const char *program; /* the file <program>.cl, or one of CUDA's with its ending: "gemm.cu" */
    const char *entry;   /* its kernel function */
    /* Preferred work-items per work-group: a power of two. On devices that allow fewer it is
     * halved until the compiled kernel may run; with 1 it needs no local memory and no barrier. */
    uint32_t group;
    /* Bytes of local memory for work-groups of `group` work-items; NULL: none. */
    uint32_t (*local)(const fv_launch *l, uint32_t group);
    /* Macros in addition to those that prelude.cl names: the constant ones, as compiler options
     * (" -DFV_STAGE=1"), and those that depend on the step; NULL: none. */
    const char *macros;
    void (*define)(const fv_launch *l, uint32_t group, fv_gpu_text *out);
    /* CUDA only: sets the knobs that are left to the problem's size (0) to the best values for a
     * device with `units` compute units (0: unknown). NULL: no such knobs. `define` and `shape` are
     * called with settled knobs only. */
    void (*settle)(fv_launch *l, uint32_t units);
    /* Work-groups in three dimensions. Tokens are counted in the first one: NVIDIA's devices take
     * 65535 of the others. */
    void (*shape)(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
    /* For ops other than REDUCE: segments into which a dispatch splits its rows, passed to kernels
     * as `groups`; NULL: 1. */
    uint32_t (*segments)(const fv_launch *l, const fv_gpu_piece *p);
    /* Passes that run first, in order, and leave results in the step's scratch, which all of them
     * get in place of a table where there is one. With `segments` only where there are several. */
    fv_gpu_pass ahead[FV_GPU_PASSES];
    /* OpenCL's: number of the weight that kernels get as an image of its whole buffer, texels of 16
     * bytes, in place of that; it begins with a texel. 0: none. */
    uint32_t image;
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

/* Defines an fv_gpu_code: its program, entry and work-items per work-group, then other members. */
#define FV_GPU_CODE(code, ...) const fv_gpu_code code = {__VA_ARGS__};

/* fv_gpu_code.settle of a launch, where its kernel has one. */
void fv_gpu_settle(fv_launch *l, uint32_t units);

/* Work-groups for one work-item each for `n` items. */
static inline size_t fv_gpu_groups(uint64_t n, uint32_t group)
{
    return (size_t)((n + group - 1) / group);
}

/* Shapes of more than one kernel's: by fv_spread() four of FV_ROW_C columns a work-item; a row a
 * work-item; a head a work-group; a partial and a head a work-group. */
void fv_gpu_shape_columns(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
void fv_gpu_shape_rows(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
void fv_gpu_shape_heads(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
void fv_gpu_shape_parts(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);

/* Of softmax attention: work-groups of `queries` queries each, all of one window, times heads. */
static inline bool fv_gpu_is_window(const fv_launch *l)
{
    return l->args.prob.op == FV_OP_WSOFTMAX;
}
void fv_gpu_cover_queries(const fv_launch *l, uint32_t rows, uint32_t queries, size_t count[3]);
/* Of a work-group of softmax_tiles.cl: its queries; bytes of its local memory, with keys that are
 * staged there or without; slices of a head's value channels, which are the third dimension. */
uint32_t fv_gpu_tile_queries(uint32_t group);
uint32_t fv_gpu_tile_local(uint32_t group, bool staged);
uint32_t fv_gpu_tile_slices(const fv_launch *l);
/* Of foveated attention: work-groups of `queries` queries of a block each, times heads. */
void fv_gpu_cover_blocks(const fv_launch *l, const fv_gpu_piece *p, uint32_t queries,
                         size_t count[3]);
/* The table of WSOFTMAX: its regions. */
uint64_t fv_gpu_regions(const fv_launch *l, uint32_t *out);

/* Work-groups for work-items to which fv_spread() of prelude.cl assigns rows of `runs` runs. */
static inline void fv_gpu_spread(size_t count[3], uint64_t rows, uint32_t runs, uint32_t group)
{
    uint32_t across = 1;
    while (across < runs && across < group)
        across *= 2;
    count[0] = fv_gpu_groups(rows, group / across);
    count[1] = fv_gpu_groups(runs, across);
}

/* Lines of cl_kernels.inc and cuda_kernels.inc: what they declare, and their rows of the table. */
#define FV_GPU_DECLARE_KERNEL(OP, MECH, kname, NEED, krev, khooks, kcode)                          \
    extern const fv_kernel_hooks fv_h_##khooks;                                                    \
    extern const fv_gpu_code fv_##kcode;
#define FV_GPU_LIST_KERNEL(OP, MECH, kname, NEED, krev, khooks, kcode)                             \
    {FV_KERNEL_LINE(OP, MECH, kname, NEED, krev, khooks), .code.gpu = &fv_##kcode},

#endif
