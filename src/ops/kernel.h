/* kernel.h: a kernel: the arguments and calls it gets, and its line in a registry. op.h defines the
 * problem that it solves.
 *
 * A step of a plan is one problem. The planner chooses a kernel for it from the registries of the
 * step's device. Dispatch, checks, benchmarks and `fovea info --kernels` read the same lists. */
#ifndef FOVEA_SRC_KERNEL_H
#define FOVEA_SRC_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/op.h"

typedef struct fv_knobs {
    uint32_t v[FV_KNOBS];
} fv_knobs;

/* A setting that the tuner searches: knob i of a kernel has one of the values value[0 .. count -
 * 1]; value[0] is the default. */
typedef struct fv_knob {
    const char *name; /* NULL ends the list */
    uint32_t value[6];
    uint32_t count;
} fv_knob;

/* The constant part of a step, the same for all its calls. */
typedef struct fv_args {
    fv_problem prob;
    fv_knobs knobs;
    uint32_t ld[FV_OPERANDS];  /* row stride of each operand in elements; 0: no rows */
    uint8_t type[FV_OPERANDS]; /* enum fv_type of an operand's elements; FV_NONE: absent */
    float f[4];                /* scalars of the op: epsilon, scale, ... */
    uint32_t u[4];             /* integers of the op: prefix, grid, ... */
    const void *table;         /* constants that the op defines; they live as long as the plan;
                                  or NULL */
    /* LOCAL: the capacity of the operand's buffer in grid rows. The buffer is a ring, with grid row
     * y at (y + shift) % window; 0 means that it holds all rows. */
    uint32_t window, shift;
} fv_args;

/* One piece of a step, for one worker. The pointers of ROW operands are at row0. Those of other
 * operands (complete tensors, weights, states) are at the operand's base. PARTIAL points at the
 * group's own partial. */
typedef struct fv_call {
    uint32_t row0, rows; /* row0 is the absolute row index */
    uint32_t col0, cols; /* columns or heads of this call (op.h: enum fv_cols) */
    uint32_t group;      /* reduction group, which selects the partial */
    /* REDUCE: number of partials that the call adds to, from `group` on; 1 on the CPU. Partial g
     * gets the rows [g * rows / partials, (g + 1) * rows / partials) of the call. */
    uint32_t partials;
    uint32_t first; /* REDUCE: nonzero for the first call of a group, which stores the partial
                       without reading it */
    void *p[FV_OPERANDS];
    void *scratch; /* fv_kernel.scratch bytes, 64-byte aligned, with undefined contents */
} fv_call;

/* A kernel function. It takes no lock, allocates nothing and cannot fail. It neither reads nor
 * writes beyond the end of any operand. */
typedef void (*fv_cpu_fn)(const fv_args *a, const fv_call *c);

/* Capabilities that a kernel may need: ISA levels of the CPU, capabilities that a probe found on an
 * OpenCL device, capabilities of a CUDA device. FV_NEED_PORTABLE is available everywhere. */
enum fv_need {
    FV_NEED_PORTABLE = 0,
    FV_NEED_AVX2 = 1u << 0,   /* AVX2, FMA, F16C, BMI2 */
    FV_NEED_AVX512 = 1u << 1, /* F, BW, DQ, VL */
    FV_NEED_NEON = 1u << 2,
    FV_NEED_NEON_FP16 = 1u << 3,     /* float16 arithmetic */
    FV_NEED_NEON_DOT = 1u << 4,      /* bfloat16 products over 4 steps of k at a time */
    FV_NEED_AVX_VNNI = 1u << 5,      /* int8 products of 256 bits */
    FV_NEED_AVX512_VNNI = 1u << 6,   /* int8 products */
    FV_NEED_AVX512_BF16 = 1u << 7,   /* bfloat16 products */
    FV_NEED_CL_HALF = 1u << 8,       /* float16 arithmetic */
    FV_NEED_CL_SUBGROUPS = 1u << 9,  /* a load by 16 lanes gives a block of float16 to all of
                                        them */
    FV_NEED_CL_DOT = 1u << 10,       /* 8-bit integer dot products */
    FV_NEED_CL_LOCAL = 1u << 11,     /* 16 KB of local memory that is not in main memory */
    FV_NEED_CL_WIDE = 1u << 12,      /* a CPU; vectors of 16 floats in a work-item are fast */
    FV_NEED_CL_CLBLAST = 1u << 13,   /* the CLBlast library was found */
    FV_NEED_RVV = 1u << 14,          /* RISC-V vectors, version 1.0 */
    FV_NEED_CUDA_MMA = 1u << 16,     /* tensor cores and asynchronous copies of sm_80 */
    FV_NEED_CUDA_BLASLT = 1u << 17,  /* cuBLASLt was found */
    FV_NEED_CUDA_LARGE = 1u << 18,   /* at least 64 multiprocessors, for which one work-group per
                                        head is too few */
    FV_NEED_NEON_SDOT = 1u << 19,    /* int8 products, 4 steps of k at a time */
    FV_NEED_CUDA_MMA_F16 = 1u << 21, /* tensor cores of sm_75, for float16 only */
    FV_NEED_NEON_I8MM = 1u << 20,    /* int8 products of 2 x 2 rows, 8 steps of k at a time */
    FV_NEED_CL_IMAGE = 1u << 22,     /* can read images over buffers */
    /* reading images is faster than reading buffers, and not slower than reading local memory */
    FV_NEED_CL_IMAGE_FIRST = 1u << 23,
};

/* Functions by which the planner gets properties of a kernel before it is bound. Each member may be
 * NULL or 0. The defaults are: the kernel applies to every problem of its op; its cost is FLOPs
 * divided by `rate`; the rate is that of its instructions; it needs no scratch; its weight is
 * unpacked float rows; it has no knobs. */
typedef struct fv_kernel_hooks {
    bool (*applies)(const fv_problem *);
    double (*cost)(const fv_problem *, const fv_knobs *); /* approximate seconds on one core */
    double rate;                                          /* assumed flop/s of one core */
    /* Returns the bytes of scratch per worker, for calls of at most `rows` rows. */
    size_t (*scratch)(const fv_problem *, const fv_knobs *, uint32_t rows);
    size_t (*packed)(const fv_problem *, const fv_knobs *); /* bytes of the packed weight */
    /* Packs rows [n0, n0 + n) of the (N, K) weight; src has n contiguous float rows of K elements.
     * n0 is a multiple of FV_COL_ALIGN. Slabs may be packed in any order, each once. For SWIGLU, N
     * counts output columns, and src holds the n value rows, then the n gate rows. */
    void (*pack)(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *,
                 const fv_knobs *);
    const char *format;   /* name of the packed layout; kernels with the same layout share
                             weights */
    const fv_knob *knobs; /* the last element has a NULL name */
} fv_kernel_hooks;

typedef struct fv_kernel {
    const char *name; /* unique and stable: op_dtype_variant_isa */
    uint16_t op, mech;
    uint8_t rev;                  /* incremented when the kernel's speed changes; facts of wisdom
                                     about older revisions are ignored */
    uint32_t needs;               /* bits of enum fv_need, all of which are required */
    const fv_kernel_hooks *hooks; /* never NULL */
    union {
        fv_cpu_fn cpu;
        const struct fv_gpu_code *gpu; /* gpu/gpu_code.h */
    } code;
} fv_kernel;

/* The fields of a line of a kernel table that are the same on all devices. */
#define FV_KERNEL_LINE(OP, MECH, kname, NEED, krev, khooks)                                        \
    .name = #kname, .op = FV_OP_##OP, .mech = FV_MECH_##MECH, .rev = krev,                         \
    .needs = FV_NEED_##NEED, .hooks = &fv_h_##khooks

bool fv_kernel_fits(const fv_kernel *k, const fv_problem *p, uint32_t features);
/* Returns whether a kernel is one of those in src/ops/ref, which are correct but slow. */
bool fv_kernel_is_reference(const fv_kernel *k);
fv_knobs fv_kernel_defaults(const fv_kernel *k);
/* Returns a rough estimate of the seconds on one core, from the kernel's own model or from its
 * rate. */
double fv_kernel_cost(const fv_kernel *k, const fv_problem *p, const fv_knobs *knobs);

/* Returns whether a kernel must not be chosen for a problem. */
typedef bool fv_kernel_skips(const void *ctx, const fv_kernel *k, const fv_knobs *knobs,
                             const fv_problem *p);
/* Returns the kernel of `list` with the lowest cost for `p`, or NULL if no kernel supports it.
 * `skips` may be NULL. */
const fv_kernel *fv_kernel_choose(const fv_kernel *list, int count, uint32_t features,
                                  const fv_problem *p, fv_kernel_skips *skips, const void *ctx);

#endif
