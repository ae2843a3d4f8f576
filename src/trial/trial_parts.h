/* trial_parts.h: struct fv_trial and fv_trial_kernel, private to their files: trial.c allocates the
 * operands, trial_kernel.c binds and runs kernels, and trial_verify.c checks the memory that they
 * wrote. */
#ifndef FOVEA_SRC_TRIAL_PARTS_H
#define FOVEA_SRC_TRIAL_PARTS_H

#include "trial/trial.h"
#include "weights/packed.h"

#define FV_ZONE_GUARD 256 /* guard bytes before and after an operand's rows */

/* The memory of one value, between guard bytes. Operands that view the same value share a zone. */
typedef struct fv_zone {
    fv_mem mem;
    uint8_t *image; /* contents before a run, including the guards */
    uint64_t size;
    const fv_value *value;
    uint64_t rows;
} fv_zone;

struct fv_trial {
    fovea_device *device; /* reference-counted */
    fv_limits limits;
    fv_step step; /* limited to the trial's rows */
    fv_step_tiles tiles;
    fv_args args;
    fv_operand operand[FV_OPERANDS];
    fv_sweep sweep; /* the sweep without its step */
    fv_zone zone[FV_OPERANDS];
    uint32_t zones;
    fv_zone *of[FV_OPERANDS]; /* zone of each operand; NULL: absent, or a weight */
    /* Weights are generated while they are packed; only the packed copies are stored, by this
     * model. */
    fovea_model *model;
    fv_tensor tensor[FV_OPERANDS];
    fv_weight weight[FV_OPERANDS];
    fv_reference *reference; /* computed by the first verification */
};

struct fv_trial_kernel {
    fv_trial *r;
    fv_packed *packed[FV_OPERANDS];
    fv_mem scratch; /* scratch of a throughput device */
    fv_bound *bound;
    fv_queue *queue;
    fv_sweep sweep;
};

/* Fills memory with bytes that are NaN in every float32, and in every second float16. */
void fv_zone_poison(uint8_t *p, uint64_t size);
/* Returns the number of bytes between the guards. */
static inline uint64_t fv_zone_extent(const fv_zone *z)
{
    return z->rows * fv_value_stride(z->value);
}
/* Writes to the device the contents that the zone has before a run. */
fovea_status fv_zone_reset(const fv_trial *r, fv_zone *z);

/* Returns operand `o` as it is in `zone`, a copy of its zone: from its first element to the end of
 * its rows. */
fv_given fv_trial_given(const fv_trial *r, uint32_t o, const uint8_t *zone);
/* Returns the columns of operand `o`, or more if other columns of its value follow; the number is
 * exact for the output. */
uint32_t fv_trial_columns(const fv_trial *r, uint32_t o);
/* Returns whether the output shares memory with an input. */
bool fv_trial_in_place(const fv_trial *r);

/* Runs the kernel once on the current contents of the zones. */
fovea_status fv_trial_kernel_go(fv_trial_kernel *t, double *seconds);

#endif
