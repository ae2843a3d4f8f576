/* gpu_code.h: what a GPU backend must know about a kernel in addition to its line in cl_kernels.inc
 * or cuda_kernels.inc: the program, its build options, and the work-groups of a call. It is the
 * same for OpenCL and CUDA, and depends on neither.
 *
 * The kernels' side of this contract is prelude.cl, or cuda_prelude.h, which defines the same for
 * CUDA: the operands, the arguments that follow them, and the macros that the backend defines.
 */
#ifndef FOVEA_GPU_GPU_CODE_H
#define FOVEA_GPU_GPU_CODE_H

#include "device/backend.h"

/* A list of build options, which are appended one by one. */
typedef struct fv_gpu_text {
    char text[1536];
    size_t length;
    bool full; /* something did not fit */
} fv_gpu_text;
/* Adds " -D<name>=<value>". */
void fv_gpu_define(fv_gpu_text *t, const char *name, uint32_t value);

/* One dispatch: `rows` rows of a call, from the step's row row0 on. Reductions split them into
 * `groups` partial states. */
typedef struct fv_gpu_piece {
    uint32_t row0, rows, groups;
    uint32_t group; /* work-items of a work-group */
    uint32_t units; /* the device's compute units; 0: unknown */
} fv_gpu_piece;

/* The call that is passed to fv_gpu_code.before. Handles are of the backend's kind: an OpenCL queue
 * and buffers, or a CUDA stream and addresses. */
typedef struct fv_gpu_before {
    fv_device *device;
    void *queue;
    void **event; /* to be set to the event of the last command; NULL: no event is needed */
    uint64_t buffer[FV_OPERANDS], scratch;
    /* Offsets and strides of the operands, as the kernels get them. */
    uint32_t at[FV_OPERANDS], ld[FV_OPERANDS];
    uint32_t rows;
    void **own; /* data of the step, which `prepare` allocates and `forget` frees */
} fv_gpu_before;

enum { FV_GPU_PASSES = 2 };

/* A pre-pass: a kernel function that runs before `entry`, with the same arguments and with
 * work-groups of the same size. */
typedef struct fv_gpu_pass {
    const char *entry; /* a kernel function of the same program; NULL: no pre-pass */
    void (*shape)(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
} fv_gpu_pass;

#define FV_GPU_WINDOWS UINT32_MAX /* of fv_gpu_code.align */

typedef struct fv_gpu_code {
    /* Name of the file <program>.cl, or of a CUDA file with its ending: "gemm.cu". */
    const char *program;
    const char *entry; /* its kernel function */
    /* Preferred number of work-items per work-group, a power of two. On devices that allow fewer it
     * is halved until the compiled kernel can run. With 1, a kernel may need no local memory and no
     * barrier. */
    uint32_t group;
    /* Bytes of local memory for work-groups of `group` work-items; NULL: none. */
    uint32_t (*local)(const fv_launch *l, uint32_t group);
    /* Macros in addition to those that prelude.cl lists. `macros`: constant ones, as compiler
     * options (" -DFV_STAGE=1"). `define`: those that depend on the step; NULL: none. */
    const char *macros;
    void (*define)(const fv_launch *l, uint32_t group, fv_gpu_text *out);
    /* CUDA only: sets the knobs that are left to the problem's size (0) to choice number `choice`,
     * of which 0 is the best, for a device with `units` compute units (0: unknown). False: there
     * are not more than `choice` choices. NULL: no such knobs. `define` and `shape` are called with
     * settled knobs only. */
    bool (*settle)(fv_launch *l, uint32_t units, uint32_t choice);
    /* Work-groups in three dimensions. The first must count tokens, because NVIDIA's devices allow
     * only 65535 in the others. */
    void (*shape)(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
    /* For ops other than REDUCE: into how many segments a dispatch splits its rows. Kernels get the
     * number as `groups`. NULL: 1. */
    uint32_t (*segments)(const fv_launch *l, const fv_gpu_piece *p);
    /* Pre-passes, which run first and in this order. They leave results in the step's scratch,
     * which is passed to all kernels in place of a table. With `segments` they run only if there
     * are several. */
    fv_gpu_pass pre_pass[FV_GPU_PASSES];
    /* OpenCL only: index of the weight that is passed to kernels as an image of its whole buffer,
     * with texels of 16 bytes. The weight must begin at a texel. 0: none. */
    uint32_t image;
    /* A dispatch that would take too long is cut into calls of fewer rows, a multiple of `align`;
     * 0: it is never cut. FV_GPU_WINDOWS: a multiple of a window's rows, dim[FV_ATTN_KEYS]. */
    uint32_t align;
    /* For a kernel whose calls cannot be cut: the most iterations of a work-item's loops, in groups
     * of `group` work-items. A driver that ends long loops early is not given more than it runs.
     * NULL: few. */
    uint64_t (*loops)(const fv_launch *l, uint32_t group);
    /* Writes the table of a step, in the form that kernels read, to `out` unless that is NULL;
     * returns its bytes. NULL: the step has no table. */
    uint64_t (*table)(const fv_launch *l, uint32_t *out);
    /* For kernels that use another library; else NULL. `before` enqueues the library's work before
     * `entry` in every call. It writes to the step's scratch, which is passed to `entry` in place
     * of a table. `prepare` does at bind what should not delay a frame; rows and operands are not
     * set then. */
    fovea_status (*prepare)(const fv_launch *l, const fv_gpu_before *b);
    fovea_status (*before)(const fv_launch *l, const fv_gpu_before *b);
    void (*forget)(void *own); /* NULL where `prepare` keeps nothing */
    /* Offset in the scratch, in floats, of the results of `before`; `entry` gets it as ring.s0. */
    size_t (*left)(const fv_launch *l);
} fv_gpu_code;

/* Defines an fv_gpu_code: its program, entry and work-items per work-group, followed by other
 * members. */
#define FV_GPU_CODE(code, ...) const fv_gpu_code code = {__VA_ARGS__};

/* fv_gpu_code.settle of a launch; without one there is a single choice, which sets nothing. */
bool fv_gpu_settle(fv_launch *l, uint32_t units, uint32_t choice);

/* How many work-groups give `n` items a work-item each. */
static inline size_t fv_gpu_groups(uint64_t n, uint32_t group)
{
    return (size_t)((n + group - 1) / group);
}

/* Shapes that several kernels use. Columns: a work-item has four of FV_ROW_C columns, by
 * fv_spread(). Rows: a work-item has a row. Heads: a work-group has a head. Partials: a work-group
 * has a partial and a head. */
void fv_gpu_shape_columns(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
void fv_gpu_shape_rows(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
void fv_gpu_shape_heads(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);
void fv_gpu_shape_parts(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);

/* Softmax attention: work-groups have `queries` queries each, all in one window; there is a set of
 * them for each head. */
static inline bool fv_gpu_is_window(const fv_launch *l)
{
    return l->args.prob.op == FV_OP_WSOFTMAX;
}
void fv_gpu_cover_queries(const fv_launch *l, uint32_t rows, uint32_t queries, size_t count[3]);
/* A work-group of softmax_tiles.cl: its number of queries; the bytes of its local memory, with or
 * without keys; into how many slices a head's value channels are split, which is the third
 * dimension. */
uint32_t fv_gpu_tile_queries(uint32_t group);
uint32_t fv_gpu_tile_local(uint32_t group, bool staged);
uint32_t fv_gpu_tile_slices(const fv_launch *l);
/* Foveated attention: work-groups have `queries` queries of one block each; there is a set of them
 * for each head. */
void fv_gpu_cover_blocks(const fv_launch *l, const fv_gpu_piece *p, uint32_t queries,
                         size_t count[3]);
/* The table of WSOFTMAX: the regions of its windows. */
uint64_t fv_gpu_regions(const fv_launch *l, uint32_t *out);

/* Counts work-groups for work-items that get rows of `runs` runs by fv_spread() of prelude.cl. */
static inline void fv_gpu_spread(size_t count[3], uint64_t rows, uint32_t runs, uint32_t group)
{
    uint32_t across = 1;
    while (across < runs && across < group)
        across *= 2;
    count[0] = fv_gpu_groups(rows, group / across);
    count[1] = fv_gpu_groups(runs, across);
}

/* For the lines of cl_kernels.inc and cuda_kernels.inc: declarations, and entries of the list of
 * kernels. */
#define FV_GPU_DECLARE_KERNEL(OP, MECH, kname, NEED, krev, khooks, kcode)                          \
    extern const fv_kernel_hooks fv_h_##khooks;                                                    \
    extern const fv_gpu_code fv_##kcode;
#define FV_GPU_LIST_KERNEL(OP, MECH, kname, NEED, krev, khooks, kcode)                             \
    {FV_KERNEL_LINE(OP, MECH, kname, NEED, krev, khooks), .code.gpu = &fv_##kcode},

#endif
