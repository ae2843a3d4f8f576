/* rehearse_parts.h: a rehearsal and its takes, for those files that make them what they are:
 * rehearse.c has the operands, rehearse_take.c binds kernels to them and runs them,
 * rehearse_verify.c looks at what they wrote. */
#ifndef FOVEA_SRC_TRIAL_PARTS_H
#define FOVEA_SRC_TRIAL_PARTS_H

#include "models/packed.h"
#include "trial/trial.h"

#define FV_ZONE_GUARD 256 /* bytes before an operand's rows, and behind them */

/* The memory of one value. Operands that view the same value share it. */
typedef struct fv_zone {
    fv_mem mem;
    uint8_t *image; /* what it holds before a run, guards included */
    uint64_t size;
    const fv_value *value;
    uint64_t rows;
} fv_zone;

struct fv_trial {
    fovea_device *device; /* counted */
    fv_limits limits;
    fv_step step; /* of fewer rows */
    fv_args args;
    fv_operand operand[FV_OPERANDS];
    fv_sweep sweep; /* but for its step */
    fv_zone zone[FV_OPERANDS];
    uint32_t zones;
    fv_zone *of[FV_OPERANDS]; /* operands; NULL: absent, or a weight */
    /* Weights are made of numbers that are never stored; packed copies belong to a model. */
    fovea_model *model;
    fv_tensor tensor[FV_OPERANDS];
    fv_weight weight[FV_OPERANDS];
    fv_reference *reference; /* once it was asked for */
};

struct fv_trial_kernel {
    fv_trial *r;
    fv_packed *packed[FV_OPERANDS];
    fv_mem scratch; /* of a throughput device */
    fv_bound *bound;
    fv_queue *queue;
    fv_sweep sweep;
};

/* NaN in every float32, and in every second float16. */
void fv_zone_poison(uint8_t *p, uint64_t size);
/* Bytes between the guards. */
static inline uint64_t fv_zone_extent(const fv_zone *z)
{
    return z->rows * fv_value_stride(z->value);
}
/* Writes to the device what the zone holds before a run. */
fovea_status fv_zone_reset(const fv_trial *r, fv_zone *z);

/* Operand `o` in a copy of its zone, from its first element to the end of its rows. */
fv_given fv_trial_given(const fv_trial *r, uint32_t o, const uint8_t *zone);
/* Columns of its rows; what is written is known exactly. */
uint32_t fv_trial_columns(const fv_trial *r, uint32_t o);
/* Whether the output lies where an input does. */
bool fv_trial_in_place(const fv_trial *r);

/* One run, on what the zones hold. */
fovea_status fv_trial_kernel_go(fv_trial_kernel *t, double *seconds);

#endif
