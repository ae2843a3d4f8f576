/* linearise.h: `fovea linearise`: converts a softmax checkpoint to attention that is linear in
 * tokens, in one command. A time budget covers the whole; each part gets a share of it and ends
 * when that is used up.
 *
 * It holds out pictures for evaluation, at the trained size and two larger ones. It then measures
 * how much accuracy each block loses with another attention, and how long frames take with it, and
 * chooses the attention of each block: the least loss that is fast enough.
 *
 * Next come the phases, which are trainings of `fovea adapt`, each starting from the best model of
 * the one before. At the end it writes a report with tables, the curve of the evaluations, features
 * next to each other, time and memory.
 *
 * OUT/linearise.json has every choice that was measured, so that a resumed run makes the same ones.
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
    double seconds; /* time that it had when it began */
    bool done;
    adapt_score begun[VALIDATION_SIZES], ended[VALIDATION_SIZES]; /* once it is done */
} linearise_phase;

/* A form of attention that can replace softmax in a block; the last form is softmax itself. */
typedef struct linearise_form {
    char *name;
    double *lost;   /* for every block: 1 - the remaining cosine if only this block has the form */
    double seconds; /* for a frame of the target size with the form in every block */
} linearise_form;

/* Time and memory for a frame of the target size. */
typedef struct linearise_cost {
    double seconds;
    uint64_t bytes; /* of activations */
} linearise_cost;

typedef struct linearise_run { /* More than 25 fields: the options of the command, and its state */
    cli_common common;
    cli_settings settings;
    const char *model, *data_path, *val_path, *output;
    const char *names, *keep; /* --attention, --keep-softmax */
    /* seconds; when the command began, minus the time that earlier runs took */
    double budget, begun;
    double target, speedup;
    uint32_t steps, batch, held; /* steps: of each phase; 0: as many as the budget allows */
    uint64_t seed;
    bool resume;

    fovea_device *device;
    dataset data;
    adapt_validation validation;
    uint32_t blocks;
    linearise_form form[LINEARISE_FORMS];
    size_t forms; /* softmax included */
    /* for every block: whether --keep-softmax lists it, so that it keeps softmax */
    bool *forced;
    uint32_t kept;   /* number of further blocks that keep softmax */
    size_t *chosen;  /* of every block: its form */
    char *attention; /* the chosen forms as the attention of a model */
    linearise_cost softmax, result;
    linearise_phase phase[LINEARISE_PHASES];
    size_t phases;
    adapt_score untrained[VALIDATION_SIZES], score[VALIDATION_SIZES];
    int stopped;
} linearise_run;

/* linearise_survey.c: linearise_read_forms reads --attention, the first forms of the list, and
 * --keep-softmax. linearise_survey measures the forms, chooses one for each block, and sets
 * `attention`. */
int linearise_read_forms(linearise_run *r);
int linearise_survey(linearise_run *r);
/* A model with an attention (NULL: its own), and its cost for a frame of the target size. */
typedef struct linearise_case {
    const fovea_model *model;
    const char *attention;
    linearise_cost cost;
    fovea_plan *plan;
} linearise_case;

/* Measures the costs of n cases in turn; begins no round after `until`. */
int linearise_measure(linearise_case *c, size_t n, const linearise_run *r, double until);

/* When the first `share` of the budget is used up, in cli_seconds; INFINITY if --steps is given
 * instead. */
double linearise_until(const linearise_run *r, double share);

/* linearise_phases.c: linearise_plan lists the phases; linearise_train trains those that are not
 * done. */
void linearise_plan(linearise_run *r);
int linearise_train(linearise_run *r);

/* linearise_journal.c: linearise_check_output fails if OUT has an earlier run, unless --resume is
 * given. linearise_recall reads the choices; *found: an earlier run made them. */
int linearise_check_output(const linearise_run *r);
int linearise_recall(linearise_run *r, bool *found);
/* How many pictures of each size an earlier run used for evaluation, and the time that it took;
 * zeros without an earlier run. */
void linearise_recall_sets(size_t pictures[VALIDATION_SIZES], double *spent,
                           const linearise_run *r);
int linearise_record(const linearise_run *r);

/* linearise_report.c: writes OUT/report.md, report.json and features-N.png, and a table to
 * stdout. */
int linearise_report(linearise_run *r);

#endif
