/* extension.h: operations, kernels and cases of verification that another library adds to this one:
 * libfovea-train. What is added is constant, and stays for the life of the process. */
#ifndef FOVEA_SRC_EXTENSION_H
#define FOVEA_SRC_EXTENSION_H

#include "ops/kernel.h"

struct fv_builder;

typedef struct fv_extension {
    const fv_op *op[FV_OP_COUNT]; /* by enum fv_op; NULL: not of the extension */
    /* Every kernel of the CPU: copies of the library's own, then those of the extension. */
    const fv_kernel *cpu_kernel;
    int cpu_kernels;
    /* Add steps to those on which fovea_device_verify tries kernels: in float32; and those in which
     * a processor stores or multiplies bfloat16. */
    void (*cases)(struct fv_builder *b);
    void (*narrow_cases)(struct fv_builder *b);
} fv_extension;

/* Adds an extension; of several calls the first one. Other threads may be planning and running
 * meanwhile: they find the extension whole or not at all. */
void fv_extension_add(const fv_extension *e);
/* The one that was added, or NULL. */
const fv_extension *fv_extension_added(void);

#endif
