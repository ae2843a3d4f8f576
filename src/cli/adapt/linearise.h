/* linearise.h: `fovea linearise`: converts a softmax checkpoint to attention that is linear in
 * tokens, in one command. The command has a time budget. Each part gets a share of the budget and
 * ends when its share is used up.
 *
 * The command holds out pictures for evaluation, at the trained size and two larger ones. It then
 * measures how much accuracy each block loses with other attentions, and how long frames take with
 * them. It chooses the attention of each block: the least loss that is fast enough.
 *
 * Then the phases follow, which are trainings of `fovea adapt`. Each phase starts from the best
 * model of the previous phase. At the end, the command writes a report with tables, the curve of
 * the evaluations, features of teacher and student, time and memory.
 *
 * OUT/linearise.json records every choice that depends on a measurement, so that a resumed run
 * makes the same choices. */
#ifndef FOVEA_CLI_LINEARISE_H
#define FOVEA_CLI_LINEARISE_H

#include "cli/adapt/adapter.h"

enum { LINEARISE_PHASES = 4, LINEARISE_FORMS = 8 };

/* One training of the sequence. */
typedef struct linearise_phase {
    fovea_stage stage;
    size_t size; /* index into the validation's sizes */
    uint32_t batch, steps;
    double lr;
    double share;   /* share of the training time */
    double seconds; /* time that remained for the phase when it began */
    bool done;
    /* scores at the begin and end; set once the phase is done */
    adapt_score begun[VALIDATION_SIZES], ended[VALIDATION_SIZES];
} linearise_phase;

/* A form of attention that can replace softmax in a block. The last form is softmax itself. */
typedef struct linearise_form {
    char *name;
    double *lost; /* for every block: 1 - the cosine that remains if only this block has the form */
    double seconds; /* seconds for a frame of the target size with this form in every block */
} linearise_form;

/* Time and memory for a frame of the target size. */
typedef struct linearise_cost {
    double seconds;
    uint64_t bytes; /* bytes of activations */
} linearise_cost;

typedef struct linearise_run { /* More than 25 fields: the options of the command and its state */
    cli_common common;
    cli_settings settings;
    const char *model, *data_path, *val_path, *output;
    const char *names, *keep; /* arguments of --attention and --keep-softmax */
    /* in seconds; `begun`: start of the command, minus the time that earlier runs took */
    double budget, begun;
    double target, speedup;
    uint32_t steps, batch, held; /* steps: of each phase, or 0 for as many as the budget allows */
    uint64_t seed;
    bool resume;

    fovea_device *device;
    dataset data;
    adapt_validation validation;
    uint32_t blocks;
    linearise_form form[LINEARISE_FORMS];
    size_t forms; /* number of forms, including softmax */
    /* for every block: whether --keep-softmax lists it */
    bool *forced;
    uint32_t kept;   /* number of additional blocks that keep softmax */
    size_t *chosen;  /* for every block: the index of its form */
    char *attention; /* the chosen forms, written as a model's attention */
    linearise_cost softmax, result;
    linearise_phase phase[LINEARISE_PHASES];
    size_t phases;
    adapt_score untrained[VALIDATION_SIZES], score[VALIDATION_SIZES];
    int stopped;
} linearise_run;

/* linearise_survey.c: linearise_read_forms reads --attention, which lists the forms except softmax,
 * and --keep-softmax. linearise_survey measures the forms, chooses one for each block, and sets
 * `attention`. */
int linearise_read_forms(linearise_run *r);
int linearise_survey(linearise_run *r);
/* A model with an attention (NULL for its own), and its cost for a frame of the target size. */
typedef struct linearise_case {
    const fovea_model *model;
    const char *attention;
    linearise_cost cost;
    fovea_plan *plan;
} linearise_case;

/* Measures the costs of n cases alternately. Begins no round after time `until`. */
int linearise_measure(linearise_case *c, size_t n, const linearise_run *r, double until);

/* Returns the time, as cli_seconds counts it, at which the first `share` of the budget is used up.
 * Returns INFINITY if --steps is given instead of a budget. */
double linearise_until(const linearise_run *r, double share);

/* linearise_phases.c: linearise_plan lists the phases. linearise_train runs the phases that are not
 * done. */
void linearise_plan(linearise_run *r);
int linearise_train(linearise_run *r);

/* linearise_journal.c: linearise_check_output fails if OUT contains an earlier run, unless --resume
 * is given. linearise_recall reads the choices, and sets *found to whether an earlier run made
 * them. */
int linearise_check_output(const linearise_run *r);
int linearise_recall(linearise_run *r, bool *found);
/* Reads the number of pictures of each size that an earlier run used for evaluation, and the
 * seconds that the run took. Without an earlier run, the numbers are 0. */
void linearise_recall_sets(size_t pictures[VALIDATION_SIZES], double *spent,
                           const linearise_run *r);
int linearise_record(const linearise_run *r);

/* linearise_report.c: writes OUT/report.md, report.json and features-N.png, and prints a table on
 * stdout. */
int linearise_report(linearise_run *r);

#endif
