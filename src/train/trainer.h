/* trainer.h: a trainer: its plans, master weights and sums of losses, and the functions of its
 * files.
 *
 *     trainer.c           creates and frees trainers, adds pictures, takes steps
 *     trainer_options.c   checks options; determines the tensors that are trained, that decay, and
 *                         that belong to the head
 *     trainer_plan.c      makes plans of the student, the teacher and the losses
 *     query_targets.c     draws the points at which masks of queries are compared, and their
 * targets query_loss.c        emits the losses of queries rounded_operands.c  rounds the operands
 * of bfloat16 products teacher_features.c  caches the teacher's features of recurring pictures
 *     learning_rate.c     computes learning rates
 *     adamw.c             computes the update
 *     repack.c            packs weights again after an update
 *     trainer_save.c      saves models
 *     trainer_state.c     saves and loads states */
#ifndef FOVEA_SRC_ADAPT_TRAINER_H
#define FOVEA_SRC_ADAPT_TRAINER_H

#include <fovea/adapt.h>

#include "plan/plan.h"
#include "train/masters.h"
#include "train/tape.h"
#include "train/teacher_features.h"
#include "weights/packed.h"

/* A loss, as rows that the host sums. */
typedef struct fv_loss {
    fv_id value;
    uint32_t rows;
    double factor;
    float *row;
} fv_loss;

/* Targets of the queries of a Mask2Former head, for one picture (query_targets.c). */
typedef struct fv_query_targets {
    float *places;  /* (FV_QUERY_POINTS_DRAWN, 2): x, y as fractions of the picture's sides */
    float *targets; /* (classes, FV_QUERY_POINTS_DRAWN): the share of each class at each point */
    float *present; /* (classes): 1 for a class that the picture has, else 0 */
    fv_id places_in, targets_in, present_in;
} fv_query_targets;

#define FV_QUERY_STRATA 112u /* in each direction; each has a point */
#define FV_QUERY_POINTS_DRAWN (FV_QUERY_STRATA * FV_QUERY_STRATA)

/* A packed weight that is packed again after each update. */
typedef struct fv_follower {
    fv_packed *packed;
    const fv_kernel *kernel; /* NULL for unpacked rows */
    const fv_problem *problem;
} fv_follower;

struct fovea_trainer { /* More than 25 fields: the data that lives as long as a trainer */
    fovea_device *device;
    fovea_trainer_options o; /* copy of the options, without their lists */
    fovea_trainable trainable;
    fovea_model *model;   /* private, because its tensors change */
    fovea_model *teacher; /* NULL without a teacher */
    char *path;           /* path of the model, for files that are saved with it */
    char *attention;      /* the student's attention */
    char **labels;        /* names, ended by NULL; or NULL */
    fv_masters masters;
    /* plans */
    fovea_plan *plan;  /* forward, losses, gradients */
    fovea_plan *guide; /* FEATURES: the plan of the teacher */
    fv_training training;
    float *features;          /* the teacher's output */
    fv_teacher_features kept; /* features of pictures that may recur */
    fv_id features_in;
    fv_id labels_in, pixels_in, weight_in; /* TASK; pixels_in: the pixels of a mask, or depths */
    float label[2], pixel_weight;
    fv_query_targets queries;
    fv_loss *loss;
    uint32_t losses;
    fv_sink *sink;
    uint32_t sinks;
    float *gathered; /* memory for gradients before they are scattered */
    uint64_t n_gathered;
    fv_follower *follower;
    uint32_t followers;
    char *staging;          /* staging memory for packing, for all threads */
    uint64_t staging_bytes; /* bytes of staging memory per thread */
    /* the step whose gradients are being accumulated */
    uint64_t pictures;
    double *sum; /* sum of every loss; then the number of pictures */
    double *mean;
    uint64_t step;
    char *note;
    fovea_trainer_info info;
};

/* trainer_options.c */
fovea_status fv_trainer_check(const fovea_trainer_options *o, const fovea_device *device);
/* Sets the masters' marks: wanted, decays, head. */
fovea_status fv_trainer_choose(fovea_trainer *t, const fovea_trainer_options *o);
/* Must be called after planning. Returns FOVEA_EINVAL if a tensor specified by name has no
 * gradient. */
fovea_status fv_trainer_chosen(const fovea_trainer *t);

/* trainer_plan.c */
/* Makes the plans. `before`: bytes that the library had allocated before it created the trainer. */
fovea_status fv_trainer_plan(fovea_trainer *t, uint64_t before);

/* query_targets.c: allocates the targets; draws the points of a picture of the current step, and
 * sets the targets from its mask. */
fovea_status fv_query_targets_take(fv_query_targets *q, uint32_t classes);
/* Returns the bytes that fv_query_targets_take allocates. */
uint64_t fv_query_targets_bytes(uint32_t classes);
void fv_query_targets_set(fv_query_targets *q, const fovea_trainer *t, const uint8_t *mask,
                          size_t stride);
void fv_query_targets_free(fv_query_targets *q);

/* query_loss.c: the predictions of a decoder of queries, recorded while the model's steps are
 * emitted, and their losses. */
enum { FV_QUERY_PREDICTIONS = 65 };
typedef struct fv_query_predictions {
    struct {
        fv_view classes, masks;
        fv_grid grid;
    } of[FV_QUERY_PREDICTIONS];
    uint32_t n;
} fv_query_predictions;
void fv_query_predicted(void *predictions, fv_builder *b, fv_view classes, fv_view masks,
                        const fv_grid *grid);
void fv_query_losses(fovea_trainer *t, fv_tape *tape, const fv_query_predictions *p);
/* trainer_plan.c: makes an output of the plan for the rows of a loss, whose sum times `factor` is
 * added to the loss. */
fv_view fv_trainer_loss_rows(fovea_trainer *t, fv_builder *b, uint32_t rows, double factor);

/* learning_rate.c: the learning rate of step `step`, from 0. */
double fv_trainer_rate(const fovea_trainer_options *o, uint64_t step);

/* adamw.c: updates all trained tensors on the device's threads. */
/* Sets all gradients to zero. */
void fv_trainer_clear(fovea_trainer *t);
/* Multiplies the gradients by `share`, and returns their norm. */
double fv_trainer_norm(fovea_trainer *t, float share);
/* Performs one AdamW update with the gradients times `factor`. */
void fv_trainer_update(fovea_trainer *t, double rate, double factor);

/* repack.c */
/* Returns the bytes that fv_trainer_follow will allocate for the plan, which may be dry. */
uint64_t fv_trainer_follow_bytes(const fovea_trainer *t);
fovea_status fv_trainer_follow(fovea_trainer *t);
void fv_trainer_repack(fovea_trainer *t);

/* sinks.c: adds the gathered gradients to those of their tensors, and clears them. */
void fv_trainer_scatter(fovea_trainer *t);

#endif
