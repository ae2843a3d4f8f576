/* extension.h: operations, kernels and verification cases that another library, libfovea-train,
 * adds to this one. An extension is constant, and stays for the life of the process. */
#ifndef FOVEA_SRC_EXTENSION_H
#define FOVEA_SRC_EXTENSION_H

#include "ops/kernel.h"

struct fv_builder;

typedef struct fv_extension {
    const fv_op *op[FV_OP_COUNT]; /* indexed by enum fv_op; NULL: not an op of the extension */
    /* All kernels of the CPU: copies of the library's own kernels, then those of the extension. */
    const fv_kernel *cpu_kernel;
    int cpu_kernels;
    /* Add steps to those on which fovea_device_verify tries kernels: `cases` adds float32 steps,
     * and `narrow_cases` steps in which a processor stores or multiplies bfloat16. */
    void (*cases)(struct fv_builder *b);
    void (*narrow_cases)(struct fv_builder *b);
} fv_extension;

/* Adds an extension; only the first call has an effect. Other threads may be planning and running
 * at the same time: they find the complete extension or none. */
void fv_extension_add(const fv_extension *e);
/* Returns the extension that was added, or NULL. */
const fv_extension *fv_extension_added(void);

#endif
