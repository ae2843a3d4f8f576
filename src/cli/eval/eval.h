/* eval.h: `fovea eval`: measures how good a model is on pictures with known answers, or how similar
 * its features are to another model's.
 *
 * Every combination of the options' lists is a case. Every picture of a case adds a record, and
 * results are computed only from records. An evaluation that was interrupted and resumed therefore
 * has the same result as one that was not. */
#ifndef FOVEA_CLI_EVAL_H
#define FOVEA_CLI_EVAL_H

#include "cli/common/dataset.h"
#include "cli/common/depth_metrics.h"
#include "cli/eval/annotations.h"

#define EVAL_SCHEMA "fovea.eval/1"

/* A problem with one picture, which was already reported. The picture is skipped, unless --strict
 * is given. */
enum { EVAL_SKIP = -1 };

enum {
    EVAL_OUTPUTS = 32, /* most outputs of a model */
};

/* A model with the options of a case. */
typedef struct eval_runner {
    const char *path; /* path of the model */
    const fovea_model *model;
    fovea_device *device;
    cli_settings settings;
    const char *const *outputs; /* the outputs to compute */
    size_t n_outputs;
    uint32_t batch; /* most pictures in a run */
    fovea_preprocess preprocess;
    fovea_plan *plan; /* plan for frames of width x height */
    uint32_t width, height;
    fovea_plan_info info;
    fovea_output_info out;    /* description of the first output */
    fovea_output *all;        /* outputs of the last run, one picture after the other */
    const fovea_output *outs; /* outputs of the current picture */
} eval_runner;

/* A picture of a batch. `code` is 0, EVAL_SKIP if the picture is skipped, or the exit code that
 * ends the command. */
typedef struct eval_slot {
    int code;
    dataset_picture picture;
} eval_slot;

/* Consecutive pictures. Those that could be read have the same size, and are the frames of the
 * batch. */
typedef struct eval_batch {
    uint32_t most, slots, frames, width, height;
    eval_slot *slot;
    fovea_frame *frame;
    eval_slot next; /* if `prefetched`: the next picture, which was read but has another size */
    bool prefetched;
} eval_batch;

typedef struct eval_case {
    const char *attention, *compute, *size; /* one value from each list; NULL if not given */
    eval_runner run, reference;             /* reference is used only with --against */
    json_t *records;                        /* records of the pictures so far, in their order */
} eval_case;

struct eval_task;

typedef struct eval_run { /* More than 25 fields: the options of the command and its state */
    cli_common common;
    const char *data_path, *annotations_path, *against, *align_text, *scale_text;
    const char *class_order;   /* "name", "number" or a file; NULL if not given */
    const char *reduce_labels; /* "yes" or "no"; NULL if not given */
    const char *format_text, *output, *batch_text;
    const char *panoptic_folder; /* pictures with the numbers of segments */
    const char *score_text;
    double score; /* lowest score of a segment; 0: the model's default */
    bool resume;
    uint32_t batch; /* largest number of pictures that run together */
    int format;     /* an enum eval_format */

    const char *path; /* path of the model */
    char *pictures;   /* folder of the pictures if the data has depths; NULL for data_path itself */
    cli_session s;
    fovea_model *other; /* the model of --against */
    dataset data;
    const struct eval_task *task;
    const char *outputs[EVAL_OUTPUTS], *other_output; /* names of the models' outputs */
    size_t n_outputs;
    /* Classification: for each of the data's classes, the index of the logit. Detection: for each
     * of the model's classes, the category, or UINT32_MAX if there is none. */
    uint32_t *class_of;
    annotations annotations;
    uint32_t *image_of; /* index of each picture in the annotations */
    size_t classes;     /* number of the detector's classes */
    uint32_t *stuff;    /* panoptic: classes whose objects cannot be counted */
    size_t n_stuff;
    char *own_folder; /* memory of panoptic_folder without --panoptic */
    char *mapping;    /* the text that eval_tell_mapping reported; NULL before the first report */
    enum depth_align align;
    double depth_scale; /* units of a depth picture per metre */

    char **attentions, **computes, **sizes;
    eval_case *list;
    size_t cases;
    FILE *journal; /* NULL if there is none */
} eval_run;

/* ---- tasks ---- */

typedef struct eval_column {
    const char *key, *head; /* key in the metrics; heading in a table */
} eval_column;

typedef struct eval_task {
    const char *name;
    const eval_column *columns; /* the most important column first; the last entry has a NULL key */
    /* Checks the model and the data, and requests outputs. */
    int (*begin)(eval_run *r);
    /* Measures the case's result for the current picture, `index`, and adds it to the record. */
    int (*measure)(json_t *record, eval_run *r, eval_case *c, const dataset_picture *p,
                   size_t index);
    /* Computes the metrics from the records of measured pictures, at least one. */
    json_t *(*metrics)(const eval_run *r, const json_t *records);
} eval_task;

/* Names of the values of enum depth_align. */
extern const char *const eval_aligns[];
extern const eval_task eval_classes, eval_segments, eval_depth, eval_agreement, eval_panoptic;
/* eval_objects.c: with annotations of objects, the task is one of these, depending on what the
 * model finds: boxes, masks, or both. It begins as eval_objects. */
extern const eval_task eval_objects, eval_masks, eval_instances;
/* eval_coco.c: chooses the pictures that the annotations list, and maps the model's classes to
 * their categories. */
int eval_coco_begin(eval_run *r);
/* Returns the category of a class of the model, or UINT32_MAX if it has none. */
uint32_t eval_coco_category(const eval_run *r, uint32_t label);
/* class_order.c: returns whether a folder or category has the name of a class, up to the first
 * comma of the class's name. Case, spaces, '_' and '-' are ignored: "great_white_shark" matches
 * "great white shark, white shark". */
bool eval_same_name(const char *name, const char *label);
/* Sets class_of for every folder or label of the data, and reports the rule that it used. */
int eval_match_classes(eval_run *r);
/* eval_output.c: reports how the data's classes were mapped to the model's, on stderr and in the
 * result. */
void eval_tell_mapping(eval_run *r, const char *format, ...) CLI_PRINTF(2, 3);
/* Requests output `name` of the model. Returns false if the model has no such output. */
bool eval_want(eval_run *r, const char *name);
/* Returns the mean of the number `key` over the records. */
double eval_mean(const json_t *records, const char *key);
/* Returns the name of a picture for messages. The caller frees it. */
char *eval_picture_name(const eval_run *r, size_t index);

/* ---- eval_runner.c ---- */

/* Initialises *out, and fails at once if no plan can be made with these settings. */
int eval_runner_begin(eval_runner *out, const char *path, const fovea_model *model,
                      fovea_device *device, const cli_settings *settings,
                      const char *const *outputs, size_t n_outputs, uint32_t batch);
void eval_runner_end(eval_runner *r);
/* Runs the frames of a batch, at least one, and sets *seconds to the time per frame. */
int eval_runner_run(eval_runner *r, const eval_batch *b, double *seconds);
/* Selects a frame of the last run as the current picture. */
void eval_runner_look(eval_runner *r, uint32_t frame);
/* eval_rows returns the first output for the current picture. eval_patches returns its rows that
 * belong to patches. */
const float *eval_rows(const eval_runner *r);
const float *eval_patches(const eval_runner *r);

/* ---- eval_batch.c ---- */

void eval_batch_begin(eval_batch *b, uint32_t most);
void eval_batch_end(eval_batch *b);
/* Discards the current batch, and reads the next one from picture `index`, which must follow the
 * last picture read. The batch ends after `most` pictures, before a picture of another size, or
 * with a picture that ends the command. */
void eval_batch_read(eval_batch *b, const dataset *d, size_t index, bool strict);

/* ---- eval_cases.c ---- */

int eval_cases_begin(eval_run *r);
void eval_cases_end(eval_run *r);
/* Runs all pictures that have no record yet, until an interrupt. */
int eval_cases_run(eval_run *r);

/* ---- eval_journal.c: FILE.journal for -o FILE: a line of options, then one record per line
 * ---- */

/* With --resume, reads the records of an earlier run. Without --resume, fails if there is a
 * journal. */
int eval_journal_begin(eval_run *r);
int eval_journal_add(eval_run *r, const json_t *record);
/* Closes the journal, and removes it if all results are in the file of -o (`done`). */
void eval_journal_end(eval_run *r, bool done);

/* ---- eval_output.c ---- */

enum eval_format { EVAL_TEXT, EVAL_MD, EVAL_CSV, EVAL_JSON, EVAL_JSONL };

/* Determines the format from --format, the name of the -o file, or --json, and checks that the file
 * can be written. */
int eval_output_check(eval_run *r);
int eval_output_write(const eval_run *r);

#endif
