/* emulated_kernel.h: what a kernel that was compiled for the emulator and the emulator have to know
 * of one another. C for the emulator, C++ for kernels.
 *
 * The threads of a block run one after the other, each until it has to wait. */
#ifndef FOVEA_TESTS_EMULATED_KERNEL_H
#define FOVEA_TESTS_EMULATED_KERNEL_H

#define EMULATED_WARP 32
#define EMULATED_THREADS 1024 /* of a block */

typedef struct emulated_dim {
    unsigned x, y, z;
} emulated_dim;

/* Where a thread is. */
typedef struct emulated_place {
    emulated_dim thread, block, threads, blocks;
} emulated_place;

enum emulated_product { EMULATED_F16, EMULATED_BF16, EMULATED_TF32, EMULATED_S8 };

/* What threads ask of the emulator. A call for a warp is made by all its lanes that are in mask. */
typedef struct emulated_calls {
    void (*barrier)(void);
    void (*warp_sync)(unsigned mask);
    /* The value of lane `from`, its own where that is not in mask. */
    unsigned (*shuffle)(unsigned mask, unsigned value, unsigned from);
    unsigned (*ballot)(unsigned mask, int true_here);
    /* 8 x 8 matrices of 16 bits: row i of matrix m begins at what lane 8 m + i gives. Register m of
     * a lane gets 2 numbers of matrix m: columns 2 (lane % 4) and the next of row lane / 4. */
    void (*load_matrices)(unsigned *to, int matrices, const void *row, int transposed);
    /* d += a b: 16 x 8 numbers d (S8: int, else float), 16 x 16 numbers a (TF32: 16 x 8, S8: 16 x
     * 32), in the fragments of mma.sync.m16n8k16 (m16n8k8, m16n8k32). */
    void (*multiply)(enum emulated_product kind, void *d, const unsigned *a, const unsigned *b);
    /* The first `present` of `size` bytes are copied some time before the wait, the others are
     * zero. */
    void (*copy)(void *to, const void *from, unsigned size, unsigned present);
    void (*copy_commit)(void);
    void (*copy_wait)(unsigned groups); /* for all but the last groups */
    void (*fail)(const char *what, unsigned line);
} emulated_calls;

/* A module's variable `emulated`, filled when it is loaded. */
typedef struct emulated_link {
    const emulated_calls *calls;
    const emulated_place *here; /* of the thread that runs */
} emulated_link;

/* Offset and size of a parameter in the memory that a launch passes. */
typedef struct emulated_param {
    unsigned at, size;
} emulated_param;

/* A module's variable `emulated_entries` has one for each kernel, and one without a name. */
typedef struct emulated_entry {
    const char *name;
    void (*run)(void **params);
    const emulated_param *param;
    unsigned params, bound; /* threads of a block at most; 0: any */
} emulated_entry;

/* A module's variable `emulated_shared_map`: shared memory that variables have, and that launches
 * ask for. */
typedef struct emulated_shared_memory {
    char *variables, *variables_end, *dynamic;
    unsigned dynamic_size;
} emulated_shared_memory;

#endif
