/* task_validation.h: how well a model does its task on pictures that it never learns from, in the
 * size that it learns at: the largest centred part of each. */
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

/* What is measured, the first of them to rank by; NULL past the end. */
const char *task_validation_metric(fovea_task task, size_t i);
/* What is the greater the better, of the first metric. */
double task_validation_rank(fovea_task task, double first);

/* Takes over the data, whose labels are those of the training, on failure too. CLI_INPUT for data
 * without what the task needs. */
int task_validation_begin(task_validation *out, fovea_device *device, fovea_task task,
                          const adapt_policy *policy, const dataset *data);
void task_validation_end(task_validation *v);
/* The metrics of the model in `folder`. CLI_INPUT when no picture can be read, for a class that the
 * model does not have, and when no pixel has a class. */
int task_validation_judge(double metric[TASK_METRICS], task_validation *v, const char *folder);

#endif
