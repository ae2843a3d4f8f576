/* gemm.h: the parts of a CPU GEMM: a microkernel per ISA, one driver for all of them.
 *
 * The microkernel of an ISA (tmpl/gemm_tmpl.c) computes tiles of at most mr rows by nr columns. The
 * driver (gemm.c) splits a call into tiles, packs the activations (for CONV, the windows) and
 * passes finished tiles to the microkernel's epilogue. Weights of 16 bits are widened a panel at a
 * time, by the first tile of a block of rows; the other tiles read floats. K4 is K rounded up to 4,
 * or to the steps of the microkernel; zeros fill the weight's last panel and both operands up to
 * K4.
 *
 *   weight, in fv_kernel_hooks.pack:          activations, in the scratch of the call:
 *   panels of nr columns, each K4 x nr        panels of m <= mr rows, each K4/4 x m x 4
 *
 *           n = 0 .. nr-1                         row 0       row 1    ..   row m-1
 *   k = 0   w w w .. w                            k 0 1 2 3   k 0 1 2 3     k 0 1 2 3
 *       1   w w w .. w                            k 4 5 6 7   k 4 5 6 7     k 4 5 6 7
 *      ..                                         ..
 *
 * so that a tile reads both from front to back, and packing the activations moves whole groups of
 * 4. A microkernel's `narrow` and `take` may rearrange either operand within its panel. With
 * FV_EPI_SWIGLU a weight panel is nr/2 value columns followed by their nr/2 gate columns.
 *
 * Weights that are stored as I8 and multiplied as floats are also converted a panel at a time. Each
 * panel of I8 ends with the scales of its columns. An INT8 microkernel quantises rows before they
 * are packed. Its weight panels are K4/4 x nr x 4, or have 2 or 8 steps in place of 4: see
 * src/ops/quantise.h.
 */
#ifndef FOVEA_PLATFORM_GEMM_H
#define FOVEA_PLATFORM_GEMM_H

#include "ops/kernel.h"

/* Destination and operands of a tile's epilogue. Pointers are at the tile's first row and column.
 */
typedef struct fv_gemm_out {
    uint32_t epi;
    uint32_t rows, cols; /* of out; cols <= nr, or <= nr/2 with SWIGLU */
    size_t ld_out, ld_res;
    enum fv_type type; /* of out: F32 or BF16 */
    bool rough;        /* the activation may be off by FV_ROUGH_ERROR */
    void *out;
    const float *res, *bias, *gate_bias, *scale; /* NULL if epi does not use it */
    const float *column_scale; /* weights of I8: scales of the panel's columns; else NULL */
    const float *row_scale;    /* GEMM of INT8: scales of the tile's rows; else NULL */
    const int32_t *row_sum;
} fv_gemm_out;

/* Bytes that a tile prefetches per step of k: a 64-byte cache line per group of 4 steps. */
enum { FV_GEMM_PREFETCH_BYTES = 16 };

enum { FV_GEMM_ROWS = 16 }; /* mr at most */

typedef struct fv_gemm_microkernel {
    double rate;     /* FLOP/s of a core, assumed */
    uint32_t mr, nr; /* nr divides FV_COL_ALIGN */
    /* Steps of k in a group, which a panel keeps together: 4, or 8 for some of INT8. */
    uint32_t steps;
    uint8_t weight; /* enum fv_type of the packed weight */
    uint8_t input;  /* enum fv_type of the packed activations; `tile` may convert them */
    uint8_t
        interleave; /* BF16, INT8: steps of a column that are adjacent in a panel of the weight */
    /* acc[m][nr] += the products of a panel of m rows and a panel of the weight over `groups`
     * groups of k; with `first`, acc is not read. An element is one chain of multiply-adds in
     * ascending k, whatever m is: results must not depend on how rows fall into tiles. Meanwhile
     * groups * 4 * FV_GEMM_AHEAD bytes from `prefetch` are fetched into L2. */
    void (*tile)(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                 const char *prefetch);
    /* Does what `tile` does, but reads m rows of type `input`, with a stride of `ld` elements, in
     * place of a packed panel. NULL if the microkernel cannot. A microkernel with `quantise` has
     * either `unpacked`, which multiplies the quantised rows in place, or `tile`. */
    void (*unpacked)(float *acc, const void *rows, size_t ld, const void *w, size_t groups,
                     uint32_t m, bool first, const char *prefetch);
    /* Epilogue of a tile acc[rows][nr]. Columns past o->cols are neither read nor written. */
    void (*finish)(const fv_gemm_out *o, const float *acc);
    /* Quantises m rows of `type` (INT8; else NULL). Each row becomes K4 numbers of type `input`,
     * with zeros beyond k, and gets a scale and a sum. `rotated` is a buffer of k floats. Both it
     * and the numbers are written up to a multiple of 64. Integer sums are exact only over all of
     * K, so K is one block. */
    void (*quantise)(void *numbers, float *scale, int32_t *sum, const void *rows, enum fv_type type,
                     size_t ld, uint32_t m, uint32_t k, float *rotated);
    /* CONV of INT8: adds one tap of m pixels to the first `cols` columns of sums[m][nr]; further
     * columns may change. The pixels are rows of ops/rows_i8.h, read in place. With `first`, sums
     * are not read. NULL: pixels are packed, and `tile` and `add_scaled` are used. */
    void (*add_tap)(float *sums, const void *const *pixels, const void *w, uint32_t channels,
                    uint32_t m, uint32_t cols, bool first);
    /* Adds the integers that `tile` computed for a tap, each times the scale of its pixel. */
    void (*add_scaled)(float *sums, const float *whole, const float *scale, uint32_t m, bool first);
    /* `take` scales the rows of each block of k separately, so sums depend on where blocks begin */
    bool scales_blocks;
    uint8_t bias; /* INT8: offset of packed weights, for instructions that need unsigned ones */
    /* Converts a panel of m rows of `type` in place to the format that `tile` reads. The panel has
     * the size of one with elements of type `input`; narrower elements are stored at its end.
     * NULL: rows have the type `input`, and `tile` reads them unconverted. */
    void (*take)(void *panel, enum fv_type type, size_t groups, uint32_t m);
    /* Rounds n floats, a multiple of 4, to the nearest bfloat16. Rows of floats are rounded while
     * they are packed, if prob.acc permits it. NULL: the microkernel does not multiply bfloat16. */
    void (*round)(uint16_t *dst, const float *src, size_t n);
    /* Does what `tile` does with a panel of 16-bit weights, or of I8 weights that are multiplied as
     * floats. Also stores the panel as floats to `wide`, if that is not NULL. NULL for F32, and
     * where `tile` reads such panels itself. */
    void (*widen)(float *acc, const void *a, const void *w, size_t groups, uint32_t m, bool first,
                  const char *prefetch, float *wide);
    /* Rounds n floats, whole groups of 4 rows of a panel, to the weight's 16-bit type; NULL for
     * F32. */
    void (*narrow)(uint16_t *dst, const float *src, size_t n);
} fv_gemm_microkernel;

/* The microkernels are fv_gemm_mk_<type>_<isa>. libfovea-train multiplies by them, so they are
 * visible in objects that hide their other symbols. */
#ifdef __ELF__
#define FV_GEMM_MK_VISIBLE __attribute__((visibility("default")))
#else
#define FV_GEMM_MK_VISIBLE
#endif

/* Indices of the knobs of every microkernel: the longest block of k, and the most rows per block.
 * KC affects the result where a microkernel scales blocks; MC never does. */
enum { FV_GEMM_KC, FV_GEMM_MC };

/* Runs a call of GEMM or CONV, whichever a->prob.op is. */
void fv_gemm_run(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c);

/* Runs MATMUL by a bfloat16 microkernel. Every call rounds and packs the rows of B that it
 * multiplies into the first part of its scratch; fv_gemm_run uses the rest. */
void fv_gemm_matmul_run(const fv_gemm_microkernel *mk, const fv_args *a, const fv_call *c);
size_t fv_gemm_matmul_scratch(const fv_gemm_microkernel *mk, const fv_problem *p,
                              const fv_knobs *knobs, uint32_t rows);

/* Implement the hooks of the same names in fv_kernel_hooks, for any microkernel. */
size_t fv_gemm_scratch(const fv_gemm_microkernel *mk, const fv_problem *p, const fv_knobs *knobs,
                       uint32_t rows);
size_t fv_gemm_packed(const fv_gemm_microkernel *mk, const fv_problem *p);
void fv_gemm_pack(const fv_gemm_microkernel *mk, void *dst, const float *src, uint32_t n0,
                  uint32_t n, const fv_problem *p);
/* Returns the estimated time, in seconds, on a core that reaches `rate` FLOP/s for products of many
 * rows. */
double fv_gemm_cost(const fv_problem *p, double rate);

#endif
