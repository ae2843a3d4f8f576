/* task_validation.h: evaluates how well a model does its task on held-out pictures, in the size
 * that it is trained at: the largest centred part of each picture. */
#ifndef FOVEA_CLI_TASK_VALIDATION_H
#define FOVEA_CLI_TASK_VALIDATION_H

#include <fovea/adapt.h>

#include "cli/adapt/adapt_data.h"

enum { TASK_METRICS = 2 };

typedef struct task_validation {
    fovea_device *device;
    dataset data; /* the held-out pictures */
    fovea_task task;
    adapt_policy policy;
} task_validation;

/* Names of the metrics, the first of which ranks models; NULL after the last. */
const char *task_validation_metric(fovea_task task, size_t i);
/* Converts the first metric to a rank: greater is better. */
double task_validation_rank(fovea_task task, double first);

/* Takes over the data, also on failure; its labels are those of the training. CLI_INPUT if the data
 * lack what the task needs. */
int task_validation_begin(task_validation *out, fovea_device *device, fovea_task task,
                          const adapt_policy *policy, const dataset *data);
void task_validation_end(task_validation *v);
/* Computes the metrics of the model in `folder`. CLI_INPUT if no picture can be read, if a class is
 * not one of the model's, or if no pixel has a class. */
int task_validation_judge(double metric[TASK_METRICS], task_validation *v, const char *folder);

#endif
