/* trainer.h: a trainer: its plans, masters, sums, and what its files do.
 *
 *     trainer.c         life, pictures, steps
 *     trainer_options.c what may be asked for; which tensors are trained, decay, are of the head
 *     trainer_plan.c    student, teacher and losses as plans
 *     adamw.c           rates and the update
 *     repack.c          packed weights after an update
 *     trainer_save.c    models, trainer_state.c: states
 */
#ifndef FOVEA_SRC_ADAPT_TRAINER_H
#define FOVEA_SRC_ADAPT_TRAINER_H

#include <fovea/adapt.h>

#include "adapt/masters.h"
#include "adapt/tape.h"
#include "models/packed.h"
#include "plan/plan.h"

/* A loss: rows that the host adds up. */
typedef struct fv_loss {
    fv_id value;
    uint32_t rows;
    double factor;
    float *row;
} fv_loss;

/* A packed weight that follows its masters. */
typedef struct fv_follower {
    fv_packed *packed;
    const fv_kernel *kernel; /* NULL: plain rows */
    const fv_problem *problem;
} fv_follower;

struct fovea_trainer {
    fovea_device *device;
    fovea_trainer_options o; /* its lists are not kept */
    fovea_trainable trainable;
    fovea_model *model;   /* private: its tensors change */
    fovea_model *teacher; /* NULL: there is none */
    char *path;           /* of the model, for what is saved with it */
    char *attention;      /* of the student */
    char **labels;        /* NULL at the end; or NULL */
    fv_masters masters;
    /* plans */
    fovea_plan *plan;  /* forward, losses, gradients */
    fovea_plan *guide; /* FEATURES: the teacher */
    fv_training training;
    float *features; /* that the teacher gives */
    fv_id features_in;
    fv_id labels_in, mask_in, weight_in; /* TASK */
    float label[2], pixel_weight;
    fv_loss *loss;
    uint32_t losses;
    fv_sink *sink;
    uint32_t sinks;
    float *gathered; /* rows of the sinks that are scattered */
    uint64_t n_gathered;
    fv_follower *follower;
    uint32_t followers;
    char *staging;          /* to pack: of every thread */
    uint64_t staging_bytes; /* of one */
    /* the step that is being gathered */
    uint64_t pictures;
    double *sum; /* of every loss, then the number of pictures */
    double *mean;
    uint64_t step;
    char *note;
    fovea_trainer_info info;
};

/* trainer_options.c */
fovea_status fv_trainer_check(const fovea_trainer_options *o, const fovea_device *device);
/* Marks the masters: wanted, decays, head. */
fovea_status fv_trainer_choose(fovea_trainer *t, const fovea_trainer_options *o);
/* After the plans are there: EINVAL for a tensor that was named and has no gradient. */
fovea_status fv_trainer_chosen(const fovea_trainer *t);

/* trainer_plan.c */
/* `before`: bytes that were held before the trainer was begun. */
fovea_status fv_trainer_plan(fovea_trainer *t, uint64_t before);

/* adamw.c: what is done to all numbers, tensor by tensor on the device's threads. */
double fv_trainer_rate(const fovea_trainer_options *o, uint64_t step);
/* Gradients become zero. */
void fv_trainer_clear(fovea_trainer *t);
/* Gradients times `share`; returns their norm then. */
double fv_trainer_norm(fovea_trainer *t, float share);
/* The gradient is multiplied with `factor` on the way. */
void fv_trainer_update(fovea_trainer *t, double rate, double factor);

/* repack.c */
/* What fv_trainer_follow will allocate for the plan, which may be dry. */
uint64_t fv_trainer_follow_bytes(const fovea_trainer *t);
fovea_status fv_trainer_follow(fovea_trainer *t);
void fv_trainer_repack(fovea_trainer *t);

/* sinks.c: adds what was gathered to the gradients of its tensors, and empties it. */
void fv_trainer_scatter(fovea_trainer *t);

#endif
