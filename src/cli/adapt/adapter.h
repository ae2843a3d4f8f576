/* adapter.h: the state of `fovea adapt`: what is trained, with which data, and what is written. */
#ifndef FOVEA_CLI_ADAPTER_H
#define FOVEA_CLI_ADAPTER_H

#include <stdio.h>

#include <fovea/adapt.h>

#include "cli/adapt/adapt_data.h"
#include "cli/adapt/processes.h"
#include "cli/adapt/task_validation.h"
#include "cli/adapt/validation.h"

/* ---- the log: a line of JSON per step ---- */

typedef struct adapt_log {
    const char *path;
    FILE *file;   /* NULL: it failed */
    double *loss; /* of every step so far */
    size_t steps;
    int code; /* exit code of the first failure */
} adapt_log;

/* Begins a log, or continues an existing one after its first `steps` lines. A pipe or device always
 * gets a new log. */
int adapt_log_open(adapt_log *out, const char *path, uint64_t steps);
void adapt_log_add(adapt_log *log, const fovea_trainer_report *report, double rate);
/* Flushes the log to disk, if its file allows that. */
void adapt_log_sync(adapt_log *log);
/* Returns the exit code of the first failure since the log was opened. */
int adapt_log_close(adapt_log *log);
/* Mean loss of `n` consecutive steps, the last of which was `before` steps ago. */
double adapt_log_mean(const adapt_log *log, size_t n, size_t before);

/* ---- batches from a file: tensors input.K (B, 3, H, W), labels.K (B), masks.K (B, H, W) ---- */

typedef struct adapt_batches {
    const char *path;
    fovea_tensors *file;
    size_t n;      /* batches */
    uint32_t size; /* pictures in each */
    uint32_t width, height;
    bool labelled, masked;
} adapt_batches;

int adapt_batches_open(adapt_batches *out, const char *path);
void adapt_batches_close(adapt_batches *b);
/* Feeds pictures first, first + step, ... of batch `batch` to the trainer. */
int adapt_batches_feed(const adapt_batches *b, fovea_trainer *trainer, uint64_t batch,
                       uint32_t first, uint32_t step);

/* ---- an entry of a hyper-parameter file, in the format of the golden cases ---- */

typedef struct adapt_hyper {
    json_t *root;
    const char **train, **decay; /* names, NULL at the end */
    uint32_t steps;              /* 0: it does not say */
} adapt_hyper;

/* Reads entry `name` of `path` into the options, which then point into *out. */
int adapt_hyper_read(adapt_hyper *out, fovea_trainer_options *options, const char *path,
                     const char *name);
void adapt_hyper_free(adapt_hyper *h);

/* ---- evaluation on held-out pictures ---- */

typedef struct adapt_judgement {
    uint64_t step;
    double rank;                         /* the greatest is the best */
    adapt_score score[VALIDATION_SIZES]; /* stages 1, 2 */
    double metric[TASK_METRICS];         /* stage 3 */
} adapt_judgement;

/* ---- the training ---- */

typedef struct adapt_run { /* More than 25 fields: the options of the command, and its state */
    cli_common common;
    cli_settings settings;
    const char *model, *teacher, *output;
    bool resume, save_grad;
    /* for each class of the data, its index in the model's head; NULL: the head has other names */
    uint32_t *class_label;
    dataset data;          /* either pictures, */
    adapt_batches batches; /* or batches */
    adapt_policy policy;
    adapt_hyper hyper;
    fovea_trainer_options options;
    uint64_t features; /* size in bytes of the softmax model's features for one picture */
    bool find_rate;    /* options.lr is to be found */
    bool part;         /* part of a longer command: prints no result of its own */
    uint32_t batch;    /* pictures per step, in one process */
    uint32_t steps;    /* to be done in all */
    uint32_t every;    /* steps between checkpoints; 0: one every few minutes */
    uint32_t patience; /* steps; 0: none */
    char *log_path, *state_path;
    /* saved in checkpoints: settings that the result depends on and that are not trainer options */
    char *note;

    cli_processes processes;
    fovea_device *device;
    fovea_trainer *trainer;
    fovea_trainer_info info;
    adapt_log log;
    uint64_t pictures; /* of this run */
    double seconds;
    bool flat;     /* whether it ended because the loss no longer falls */
    double target; /* ends when the best evaluation reaches this mean cosine; 0: no target */
    /* when steps and the last evaluation must be done, in cli_seconds; 0: no deadline */
    double deadline;
    double judging; /* seconds that the latest evaluation took */
    bool late;      /* ended by the deadline */

    /* At most one of them is set. If neither is, the model after the last step is kept instead of
     * the best one. */
    adapt_validation *validation;     /* stages 1, 2 */
    task_validation *task_validation; /* stage 3 */
    uint32_t judge_every;             /* steps */
    adapt_judgement *judged;
    size_t judgements, best; /* best: its index */
    int stopped;             /* exit code of an interrupt; 0: not interrupted */
} adapt_run;

/* adapt_output.c: fails if OUT holds MODEL, the teacher, or any model that is not the result of an
 * earlier training. */
int adapt_output_check(const adapt_run *r);

/* The settings that the result depends on, in addition to the trainer's options, as a text for
 * checkpoints; to be freed. */
char *adapt_note(const adapt_run *r);
int adapt_make_folder(const char *path);
/* Help for --compute; fails for types of products that training does not support. */
#define ADAPT_COMPUTE_HELP                                                                         \
    "f32, bf16: type in which products of the blocks multiply, with sums of f32; auto: bf16 "      \
    "where the processor has instructions for it"
int adapt_check_compute(const char *command, const cli_settings *s);

/* adapt_train.c: runs the training: steps, checkpoints, results. */
int adapt_train(adapt_run *r);
/* Feeds the pictures of one step to the trainer; `bar` shows the steps since `begun`. */
int adapt_feed(adapt_run *r, cli_progress *bar, uint64_t begun);
/* Frees the contents of a run, but not the run itself. */
void adapt_release(adapt_run *r);

/* adapt_judge.c: whether there are held-out pictures to evaluate the training with */
bool adapt_has_judge(const adapt_run *r);
/* An evaluation as in the log; a new reference. */
json_t *adapt_judgement_json(const adapt_run *r, const adapt_judgement *j);
/* adapt_judge_begin: reads the evaluations up to the step that the training resumes from, or
 * evaluates the model before the first step. adapt_judge: evaluates the current student, and saves
 * it in OUT if it is the best so far. */
int adapt_judge_begin(adapt_run *r);
int adapt_judge(adapt_run *r);
bool adapt_is_judged(const adapt_run *r); /* as it is now */

/* adapt_rate.c: finds and sets options.lr; writes the rates that were tried to OUT/rate.json. */
int adapt_find_rate(adapt_run *r);

#endif
