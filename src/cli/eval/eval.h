/* eval.h: `fovea eval`: how good a model is on pictures whose answers are known, or how near to
 * another model. Every combination of the lists of options is a case; every picture of a case
 * leaves a record, and a result is made of records alone: so that one that was stopped and went on
 * is the one that was not.
 */
#ifndef FOVEA_CLI_EVAL_H
#define FOVEA_CLI_EVAL_H

#include "cli/common/dataset.h"
#include "cli/common/depth_metrics.h"
#include "cli/eval/annotations.h"

#define EVAL_SCHEMA "fovea.eval/1"

/* Something is wrong with one picture, and has been told: it is skipped, unless --strict. */
enum { EVAL_SKIP = -1 };

enum {
    EVAL_OUTPUTS = 32, /* of a picture, at most */
};

/* A model with the options of a case. */
typedef struct eval_runner {
    const char *path; /* the model's */
    const fovea_model *model;
    fovea_device *device;
    cli_settings settings;
    const char *const *outputs; /* which are run */
    size_t n_outputs;
    uint32_t batch; /* pictures of a run, at most */
    fovea_preprocess preprocess;
    fovea_plan *plan; /* for frames of width x height */
    uint32_t width, height;
    fovea_plan_info info;
    fovea_output_info out;    /* of the first */
    fovea_output *all;        /* of the last run, one picture after the other */
    const fovea_output *outs; /* of the picture that is looked at */
} eval_runner;

/* A picture of a batch, or why there is none: EVAL_SKIP, or what ends the command. */
typedef struct eval_slot {
    int code;
    dataset_picture picture;
} eval_slot;

/* Pictures that follow each other. Those that could be read have one size, and are its frames. */
typedef struct eval_batch {
    uint32_t most, slots, frames, width, height;
    eval_slot *slot;
    fovea_frame *frame;
    eval_slot next; /* with `prefetched`: was read, but has another size */
    bool prefetched;
} eval_batch;

typedef struct eval_case {
    const char *attention, *compute, *size; /* of the lists; NULL: not given */
    eval_runner run, reference;             /* the reference runs with --against alone */
    json_t *records;                        /* of the first pictures, in their order */
} eval_case;

struct eval_task;

typedef struct eval_run { /* More than 25 fields: the options of the command, and its state */
    cli_common common;
    const char *data_path, *annotations_path, *against, *align_text, *scale_text;
    const char *class_order;   /* name, number, a file; NULL: not given */
    const char *reduce_labels; /* yes, no; NULL: not given */
    const char *format_text, *output, *batch_text;
    bool resume;
    uint32_t batch; /* pictures that run together, at most */
    int format;     /* enum eval_format */

    const char *path; /* the model's */
    char *pictures;   /* the folder of depth's; NULL: data_path itself */
    cli_session s;
    fovea_model *other; /* of --against */
    dataset data;
    const struct eval_task *task;
    const char *outputs[EVAL_OUTPUTS], *other_output; /* of the models */
    size_t n_outputs;
    uint32_t *class_of; /* classification: the logit of each of the data's classes; detection: the
                           category of each of the model's classes, UINT32_MAX: none */
    annotations annotations;
    uint32_t *image_of; /* of each picture */
    size_t classes;     /* of the model, detection */
    char *mapping;      /* what eval_tell_mapping has told; NULL: nothing */
    enum depth_align align;
    double depth_scale; /* units of a depth picture per metre */

    char **attentions, **computes, **sizes;
    eval_case *list;
    size_t cases;
    FILE *journal; /* NULL: none */
} eval_run;

/* ---- tasks ---- */

typedef struct eval_column {
    const char *key, *head; /* in the metrics, in a table */
} eval_column;

typedef struct eval_task {
    const char *name;
    const eval_column *columns; /* the one that counts first; a NULL key ends them */
    /* Checks model and data; wants outputs. */
    int (*begin)(eval_run *r);
    /* Adds to the record what the case's run of picture `index`, which is looked at, is worth. */
    int (*measure)(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index);
    /* What records of measured pictures, one at least, come to. */
    json_t *(*metrics)(const eval_run *r, const json_t *records);
} eval_task;

/* The names of enum depth_align. */
extern const char *const eval_aligns[];
extern const eval_task eval_boxes, eval_classes, eval_segments, eval_depth, eval_agreement;
/* class_order.c: whether a folder or a category is called as a class, up to the first comma of its
 * name; case does not count, nor spaces, '_' and '-': "great_white_shark" is "great white shark,
 * white shark". */
bool eval_same_name(const char *name, const char *label);
/* Sets class_of of every folder or label of the data, and tells how. */
int eval_match_classes(eval_run *r);
/* eval_output.c: how the data's classes and the model's were brought together: on stderr, and with
 * the result. */
void eval_tell_mapping(eval_run *r, const char *format, ...) CLI_PRINTF(2, 3);
/* Adds output `name` of the model to those that are run; false: it has none of that name. */
bool eval_want(eval_run *r, const char *name);
/* The mean over records of the number `key`. */
double eval_mean(const json_t *records, const char *key);
/* What a picture is called in messages. To be freed. */
char *eval_picture_name(const eval_run *r, size_t index);

/* ---- eval_runner.c ---- */

/* Fails at once for what no picture could be run with. */
int eval_runner_begin(eval_runner *out, const char *path, const fovea_model *model,
                      fovea_device *device, const cli_settings *settings,
                      const char *const *outputs, size_t n_outputs, uint32_t batch);
void eval_runner_end(eval_runner *r);
/* Runs the frames of a batch, one at least; *seconds: a frame's share of the time. */
int eval_runner_run(eval_runner *r, const eval_batch *b, double *seconds);
/* Looks at a frame of the last run. */
void eval_runner_look(eval_runner *r, uint32_t frame);
/* The first output for the picture that is looked at, and its rows of patches. */
const float *eval_rows(const eval_runner *r);
const float *eval_patches(const eval_runner *r);

/* ---- eval_batch.c ---- */

void eval_batch_begin(eval_batch *b, uint32_t most);
void eval_batch_end(eval_batch *b);
/* Drops what it holds and reads on from picture `index`, after the last one of before: up to
 * `most` pictures, up to one of another size, or with one that ends the command. */
void eval_batch_read(eval_batch *b, const dataset *d, size_t index, bool strict);

/* ---- eval_cases.c ---- */

int eval_cases_begin(eval_run *r);
void eval_cases_end(eval_run *r);
/* Runs what has no record yet, until an interrupt. */
int eval_cases_run(eval_run *r);

/* ---- eval_journal.c: FILE.journal, where -o names FILE: a line of options, then a record a line
 * ---- */

/* Takes the records of an earlier run with --resume; refuses to begin over one without. */
int eval_journal_begin(eval_run *r);
int eval_journal_add(eval_run *r, const json_t *record);
/* With everything in the file of -o the journal goes. */
void eval_journal_end(eval_run *r, bool done);

/* ---- eval_output.c ---- */

enum eval_format { EVAL_TEXT, EVAL_MD, EVAL_CSV, EVAL_JSON, EVAL_JSONL };

/* The format of --format, of the ending of -o, of --json; checks that the file can be written. */
int eval_output_check(eval_run *r);
int eval_output_write(const eval_run *r);

#endif
