/* adapter.h: the state of `fovea adapt`: the model that is trained, the data, and the output. */
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
    FILE *file;   /* NULL if it could not be opened or written */
    double *loss; /* the loss of every step so far */
    size_t steps;
    int code; /* exit code of the first failure */
} adapt_log;

/* Begins a log, or continues an existing log after its first `steps` lines. A pipe or device always
 * gets a new log. */
int adapt_log_open(adapt_log *out, const char *path, uint64_t steps);
void adapt_log_add(adapt_log *log, const fovea_trainer_report *report, double rate);
/* Flushes the log to disk, if its file supports that. */
void adapt_log_sync(adapt_log *log);
/* Returns the exit code of the first failure since the log was opened. */
int adapt_log_close(adapt_log *log);
/* Returns the mean loss of `n` consecutive steps, the last of which was `before` steps ago. */
double adapt_log_mean(const adapt_log *log, size_t n, size_t before);

/* ---- batches from a file: tensors input.K (B, 3, H, W), labels.K (B), masks.K (B, H, W) ---- */

typedef struct adapt_batches {
    const char *path;
    fovea_tensors *file;
    size_t n;      /* batches */
    uint32_t size; /* pictures in each batch */
    uint32_t width, height;
    bool labelled, masked;
} adapt_batches;

int adapt_batches_open(adapt_batches *out, const char *path);
void adapt_batches_close(adapt_batches *b);
/* Passes pictures first, first + step, ... of batch `batch` to the trainer. */
int adapt_batches_feed(const adapt_batches *b, fovea_trainer *trainer, uint64_t batch,
                       uint32_t first, uint32_t step);

/* ---- an entry of a hyper-parameter file, in the format of the golden cases ---- */

typedef struct adapt_hyper {
    json_t *root;
    const char **train, **decay; /* names of tensors; NULL ends each list */
    uint32_t steps;              /* 0 if the file does not specify it */
} adapt_hyper;

/* Reads entry `name` of `path` into the options, whose pointers then point into *out. */
int adapt_hyper_read(adapt_hyper *out, fovea_trainer_options *options, const char *path,
                     const char *name);
void adapt_hyper_free(adapt_hyper *h);

/* ---- evaluation on held-out pictures ---- */

typedef struct adapt_judgement {
    uint64_t step;
    double rank;                         /* the highest is the best */
    adapt_score score[VALIDATION_SIZES]; /* for stages 1 and 2 */
    double metric[TASK_METRICS];         /* for stage 3 */
} adapt_judgement;

/* ---- the training ---- */

typedef struct adapt_run { /* More than 25 fields: the options of the command and its state */
    cli_common common;
    cli_settings settings;
    const char *model, *teacher, *output;
    bool resume, save_grad;
    /* for each class of the data, its index in the model's head; NULL if the head has other
     * names */
    uint32_t *class_label;
    dataset data;          /* the training data: either pictures in `data`, */
    adapt_batches batches; /* or batches from a file */
    adapt_policy policy;
    adapt_hyper hyper;
    fovea_trainer_options options;
    uint64_t features; /* size in bytes of the softmax model's features of one picture */
    bool find_rate;    /* options.lr must be found */
    bool part;         /* part of a longer command, and therefore prints no result */
    uint32_t batch;    /* pictures per step in one process */
    uint32_t steps;    /* number of steps, including those of interrupted runs */
    uint32_t every;    /* steps between checkpoints; 0 for one every few minutes */
    /* number of steps over which a falling loss is expected, see is_flat(); 0 for no limit */
    uint32_t patience;
    char *log_path, *state_path;
    /* text for checkpoints: settings that the result depends on and that are not trainer options */
    char *note;

    cli_processes processes;
    fovea_device *device;
    fovea_trainer *trainer;
    fovea_trainer_info info;
    adapt_log log;
    uint64_t pictures; /* pictures trained by this run */
    double seconds;
    bool flat; /* the training ended because the loss no longer fell */
    /* mean cosine of the best evaluation at which the training ends; 0 for no target */
    double target;
    /* time by which the steps and the last evaluation must be done, as cli_seconds counts it; 0 for
     * no deadline */
    double deadline;
    double judging; /* seconds that the latest evaluation took */
    bool late;      /* the training ended because of the deadline */

    /* At most one of the following is set. If neither is, the model after the last step is kept
     * instead of the best one. */
    adapt_validation *validation;     /* for stages 1 and 2 */
    task_validation *task_validation; /* for stage 3 */
    uint32_t judge_every;             /* steps */
    adapt_judgement *judged;
    size_t judgements, best; /* number of evaluations; index of the best */
    int stopped;             /* exit code after an interrupt; 0 without one */
} adapt_run;

/* adapt_output.c: fails if OUT contains MODEL, the teacher, or any model that is not the result of
 * an earlier training. */
int adapt_output_check(const adapt_run *r);

/* Returns the settings that the result depends on, in addition to the trainer's options, as a text
 * for checkpoints. The caller frees it. */
char *adapt_note(const adapt_run *r);
int adapt_make_folder(const char *path);
/* ADAPT_COMPUTE_HELP is the help text of --compute. adapt_check_compute fails for types of products
 * that training does not support. */
#define ADAPT_COMPUTE_HELP                                                                         \
    "operand type of the blocks' matrix products: f32, bf16, or auto: bf16 if the processor has "  \
    "instructions for it (default f32); accumulators are always f32"
int adapt_check_compute(const char *command, const cli_settings *s);

/* adapt_train.c: runs the training: its steps, checkpoints and results. */
int adapt_train(adapt_run *r);
/* Passes the pictures of one step to the trainer. `bar` shows the steps since step `begun`. */
int adapt_feed(adapt_run *r, cli_progress *bar, uint64_t begun);
/* Frees the contents of a run, but not the run itself. */
void adapt_release(adapt_run *r);

/* adapt_judge.c: returns whether there are held-out pictures to evaluate the training with */
bool adapt_has_judge(const adapt_run *r);
/* Returns an evaluation as it is in the log, as a new reference. */
json_t *adapt_judgement_json(const adapt_run *r, const adapt_judgement *j);
/* adapt_judge_begin reads the evaluations up to the step from which the training resumes, or
 * evaluates the model before the first step. adapt_judge evaluates the current student, and saves
 * it in OUT if it is the best so far. */
int adapt_judge_begin(adapt_run *r);
int adapt_judge(adapt_run *r);
bool adapt_is_judged(const adapt_run *r); /* returns whether the current student was evaluated */

/* adapt_rate_search.c: finds and sets options.lr, and writes the rates that it tried to
 * OUT/rate.json. */
int adapt_find_rate(adapt_run *r);

#endif
