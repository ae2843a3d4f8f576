/* linearise.h: `fovea linearise` under way: a softmax checkpoint becomes one that is linear in
 * tokens, in one command.
 *
 * A budget bounds all of it: each part has a share of the time, and ends when that is over.
 *
 *   hold out   pictures that judge, at the trained size and two larger ones
 *   survey     what each block loses by another attention; how long frames take with it
 *   choose     the attention of each block: the least loss that is fast enough
 *   phases     trainings of `fovea adapt`, one after the other, each from the best of the last
 *   report     tables, the curve, features side by side, time and memory
 *
 * OUT/linearise.json has every choice that was measured, so that a run that goes on makes the same.
 */
#ifndef FOVEA_CLI_LINEARISE_H
#define FOVEA_CLI_LINEARISE_H

#include "cli/adapt/adapter.h"

enum { LINEARISE_PHASES = 4, LINEARISE_FORMS = 8 };

/* One training. */
typedef struct linearise_phase {
    fovea_stage stage;
    size_t size; /* of the validation's sizes */
    uint32_t batch, steps;
    double lr;
    double share;   /* of the time for training */
    double seconds; /* that it was to take when it began */
    bool done;
    adapt_score begun[VALIDATION_SIZES], ended[VALIDATION_SIZES]; /* once it is done */
} linearise_phase;

/* An attention that a block may have in place of softmax; the last form is softmax itself. */
typedef struct linearise_form {
    char *name;
    double *lost;   /* of every block: 1 - the cosine that is left when it alone has the form */
    double seconds; /* of a frame of the target size with the form in every block */
} linearise_form;

/* What a frame of the target size takes. */
typedef struct linearise_cost {
    double seconds;
    uint64_t bytes; /* of activations */
} linearise_cost;

typedef struct linearise_run { /* More than 25 fields: the options of the command, and its state */
    cli_common common;
    cli_settings settings;
    const char *model, *data_path, *val_path, *output;
    const char *names, *keep; /* --attention, --keep-softmax */
    double budget, begun;     /* seconds; when the command began, less what earlier runs took */
    double target, speedup;
    uint32_t steps, batch, held; /* steps: of each phase; 0: what the budget allows */
    uint64_t seed;
    bool resume;

    fovea_device *device;
    dataset data;
    adapt_validation validation;
    uint32_t blocks;
    linearise_form form[LINEARISE_FORMS];
    size_t forms;    /* softmax included */
    bool *forced;    /* of every block: it keeps softmax, as --keep-softmax lists it */
    uint32_t kept;   /* number of further blocks that keep softmax */
    size_t *chosen;  /* of every block: its form */
    char *attention; /* what that comes to, as a model's attention */
    linearise_cost softmax, result;
    linearise_phase phase[LINEARISE_PHASES];
    size_t phases;
    adapt_score untrained[VALIDATION_SIZES], score[VALIDATION_SIZES];
    int stopped;
} linearise_run;

/* linearise_survey.c: reads --attention, which begins the list of forms, and --keep-softmax;
 * measures the forms; chooses one for each block, and so `attention`. */
int linearise_read_forms(linearise_run *r);
int linearise_survey(linearise_run *r);
/* A model with an attention (NULL: its own), and what a frame of the target size takes. */
typedef struct linearise_case {
    const fovea_model *model;
    const char *attention;
    linearise_cost cost;
    fovea_plan *plan;
} linearise_case;

/* Fills the costs of n cases, which are measured in turn; no round is begun after `until`. */
int linearise_measure(linearise_case *c, size_t n, const linearise_run *r, double until);

/* When the first `share` of the budget is over, in cli_seconds; INFINITY where steps are given. */
double linearise_until(const linearise_run *r, double share);

/* linearise_phases.c: what the phases are; trains those that are not done. */
void linearise_plan(linearise_run *r);
int linearise_train(linearise_run *r);

/* linearise_journal.c: refuses an OUT with an earlier run, unless it is to be gone on with; the
 * choices; *found: an earlier run has made them. */
int linearise_check_output(const linearise_run *r);
int linearise_recall(linearise_run *r, bool *found);
/* Of an earlier run: how many pictures of each size judge, and the time that it took. Zeros where
 * there was none. */
void linearise_recall_sets(size_t pictures[VALIDATION_SIZES], double *spent,
                           const linearise_run *r);
int linearise_record(const linearise_run *r);

/* linearise_report.c: OUT/report.md, report.json, features-N.png; the table to stdout. */
int linearise_report(linearise_run *r);

#endif
