/* emulated_kernel.h: the interface between the emulator (C) and kernels compiled for it (C++). The
 * threads of a block run one after the other, each until it must wait. */
#ifndef FOVEA_TESTS_EMULATED_KERNEL_H
#define FOVEA_TESTS_EMULATED_KERNEL_H

#define EMULATED_WARP 32
#define EMULATED_THREADS 1024 /* per block */

typedef struct emulated_dim {
    unsigned x, y, z;
} emulated_dim;

/* The position of a thread. */
typedef struct emulated_place {
    emulated_dim thread, block, threads, blocks;
} emulated_place;

enum emulated_product { EMULATED_F16, EMULATED_BF16, EMULATED_TF32, EMULATED_S8 };

/* Functions that threads call. All lanes in mask make a call for the warp. */
typedef struct emulated_calls {
    void (*barrier)(void);
    void (*warp_sync)(unsigned mask);
    /* Returns the value of lane `from`, or the lane's own value if `from` is not in mask. */
    unsigned (*shuffle)(unsigned mask, unsigned value, unsigned from);
    unsigned (*ballot)(unsigned mask, int true_here);
    /* Loads 8 x 8 matrices of 16-bit numbers. Row i of matrix m begins at the pointer of lane 8 m +
     * i. Register m of a lane receives two numbers of row lane / 4 of matrix m: columns 2 (lane %
     * 4) and 2 (lane % 4) + 1. */
    void (*load_matrices)(unsigned *to, int matrices, const void *row, int transposed);
    /* Computes d += a b: 16 x 8 numbers d (S8: int, else float), 16 x 16 numbers a (TF32: 16 x 8,
     * S8: 16 x 32), in the fragments of mma.sync.m16n8k16 (m16n8k8, m16n8k32). */
    void (*multiply)(enum emulated_product kind, void *d, const unsigned *a, const unsigned *b);
    /* Copies the first `present` of `size` bytes at some time before the wait, and zeros the
     * others. */
    void (*copy)(void *to, const void *from, unsigned size, unsigned present);
    void (*copy_commit)(void);
    void (*copy_wait)(unsigned groups); /* waits for all but the newest groups */
    void (*fail)(const char *what, unsigned line);
} emulated_calls;

/* A module's variable `emulated`, which is filled in when the module is loaded. */
typedef struct emulated_link {
    const emulated_calls *calls;
    const emulated_place *here; /* of the running thread */
} emulated_link;

/* Offset and size of a parameter in the memory that a launch passes. */
typedef struct emulated_param {
    unsigned at, size;
} emulated_param;

/* The module's variable `emulated_entries` has one entry per kernel, and a last one without a name.
 */
typedef struct emulated_entry {
    const char *name;
    void (*run)(void **params);
    const emulated_param *param;
    unsigned params, bound; /* bound: maximum threads of a block; 0: unlimited */
} emulated_entry;

/* A module's variable `emulated_shared_map`: the shared memory of variables, and the dynamic shared
 * memory. */
typedef struct emulated_shared_memory {
    char *variables, *variables_end, *dynamic;
    unsigned dynamic_size;
} emulated_shared_memory;

#endif
