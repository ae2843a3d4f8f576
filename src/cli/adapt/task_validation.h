/* task_validation.h: evaluates how well a model does its task on held-out pictures. Each picture is
 * cropped to the training size: the largest centred part with that aspect ratio. */
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

/* Returns the name of metric i, or NULL after the last. The first metric ranks models. */
const char *task_validation_metric(fovea_task task, size_t i);
/* Converts the first metric to a rank, of which higher is better. */
double task_validation_rank(fovea_task task, double first);

/* Takes ownership of the data, also on failure. The data's labels must be those of the training.
 * Returns CLI_INPUT if the data lacks what the task needs. */
int task_validation_begin(task_validation *out, fovea_device *device, fovea_task task,
                          const adapt_policy *policy, const dataset *data);
void task_validation_end(task_validation *v);
/* Computes the metrics of the model in `folder`. Returns CLI_INPUT if no picture can be read, if
 * the model lacks a class of the data, or if no pixel has a class. */
int task_validation_judge(double metric[TASK_METRICS], task_validation *v, const char *folder);

#endif
