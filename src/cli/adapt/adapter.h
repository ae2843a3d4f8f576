/* adapter.h: `fovea adapt` under way: what is trained, on what, and what is written about it. */
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
    int code; /* exit code of what failed first */
} adapt_log;

/* Begins a log, or continues an existing one after its first `steps` lines; on a pipe or device it
 * always begins a new one. */
int adapt_log_open(adapt_log *out, const char *path, uint64_t steps);
void adapt_log_add(adapt_log *log, const fovea_trainer_report *report, double rate);
/* Flushes the log to disk, where possible. */
void adapt_log_sync(adapt_log *log);
/* The exit code of the first failure since it was opened. */
int adapt_log_close(adapt_log *log);
/* Mean loss of the `n` steps that end `before` steps ago. */
double adapt_log_mean(const adapt_log *log, size_t n, size_t before);

/* ---- ready batches: tensors input.K (B, 3, H, W), labels.K (B), masks.K (B, H, W) ---- */

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
/* Pictures first, first + step, ... of batch `batch` to the trainer. */
int adapt_batches_feed(const adapt_batches *b, fovea_trainer *trainer, uint64_t batch,
                       uint32_t first, uint32_t step);

/* ---- an entry of a hyper-parameter file, as the golden cases have them ---- */

typedef struct adapt_hyper {
    json_t *root;
    const char **train, **decay; /* names, NULL at the end */
    uint32_t steps;              /* 0: it does not say */
} adapt_hyper;

/* Reads entry `name` of `path` into the options, which then point into *out. */
int adapt_hyper_read(adapt_hyper *out, fovea_trainer_options *options, const char *path,
                     const char *name);
void adapt_hyper_free(adapt_hyper *h);

/* ---- what held-out pictures say ---- */

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
    uint32_t *class_label; /* of each class of the data, where the model's head has its names */
    dataset data;          /* either pictures, */
    adapt_batches batches; /* or batches */
    adapt_policy policy;
    adapt_hyper hyper;
    fovea_trainer_options options;
    uint64_t features; /* bytes that the softmax model's features of a picture take */
    bool find_rate;    /* options.lr is to be found */
    bool part;         /* of a longer command: it prints no result of its own */
    uint32_t batch;    /* pictures of a step, of one process */
    uint32_t steps;    /* to be done in all */
    uint32_t every;    /* steps between checkpoints; 0: some minutes */
    uint32_t patience; /* steps; 0: none */
    char *log_path, *state_path;
    char *note; /* saved in checkpoints: settings of the result that are not trainer options */

    cli_processes processes;
    fovea_device *device;
    fovea_trainer *trainer;
    fovea_trainer_info info;
    adapt_log log;
    uint64_t pictures; /* of this run */
    double seconds;
    bool flat;       /* ended because the loss stopped falling */
    double target;   /* mean cosine of the best judgement at which it ends; 0: none */
    double deadline; /* in cli_seconds, of the steps and the last judgement; 0: none */
    double judging;  /* seconds that the latest judgement took */
    bool late;       /* ended by the deadline */

    /* One of them, or none: then the model after the last step is kept, not the best. */
    adapt_validation *validation;     /* stages 1, 2 */
    task_validation *task_validation; /* stage 3 */
    uint32_t judge_every;             /* steps */
    adapt_judgement *judged;
    size_t judgements, best; /* best: its index */
    int stopped;             /* exit code of an interrupt; 0: none */
} adapt_run;

/* adapt_output.c: refuses an OUT that holds MODEL, the teacher, or any model that is not the result
 * of an earlier training. */
int adapt_output_check(const adapt_run *r);

/* The settings that the result depends on in addition to the trainer's options, as text for
 * checkpoints. Free it. */
char *adapt_note(const adapt_run *r);
int adapt_make_folder(const char *path);
/* Help of --compute; refuses products that nothing trains with. */
#define ADAPT_COMPUTE_HELP                                                                         \
    "f32, bf16: what products of the blocks multiply, with sums of f32; auto: bf16 where the "     \
    "processor has instructions for it"
int adapt_check_compute(const char *command, const cli_settings *s);

/* adapt_train.c: runs the training: steps, checkpoints, results. */
int adapt_train(adapt_run *r);
/* The pictures of one step, to the trainer; `bar` shows the steps since `begun`. */
int adapt_feed(adapt_run *r, cli_progress *bar, uint64_t begun);
/* Frees what a run holds, not the run itself. */
void adapt_release(adapt_run *r);

/* adapt_judge.c: whether held-out pictures judge the training */
bool adapt_has_judge(const adapt_run *r);
/* A judgement as in the log; a new reference. */
json_t *adapt_judgement_json(const adapt_run *r, const adapt_judgement *j);
/* Recalls the judgements up to the step that the training goes on from, or judges
 * the start; judges the student as it is now, and keeps it in OUT if it is the best so far. */
int adapt_judge_begin(adapt_run *r);
int adapt_judge(adapt_run *r);
bool adapt_is_judged(const adapt_run *r); /* as it is now */

/* adapt_rate.c: sets options.lr; OUT/rate.json has what was tried. */
int adapt_find_rate(adapt_run *r);

#endif
