/* run_classes.c: computes the classes of a picture from the scores of the model's head. */
#include <math.h>
#include <stdlib.h>

#include "cli/run/run_scores.h"

typedef struct classes {
    uint32_t n;
    run_score *score; /* scores of the current picture; NULL if the model has no classes */
} classes;

/* Indexed by fovea_scores. */
static const char *const score_kinds[] = {"softmax", "sigmoid", "values"};

static run_score *rank(const run_state *r, const run_series *logits)
{
    const uint32_t n = (uint32_t)logits->columns;
    float *of_class = cli_alloc(n, sizeof *of_class);
    double *p = cli_alloc(n, sizeof *p);
    if (fovea_class_scores(r->s.model, logits->frame, n, of_class) != FOVEA_OK)
        exit(cli_check(FOVEA_EINVAL));
    for (uint32_t i = 0; i < n; i++)
        p[i] = (double)of_class[i];
    run_score *s = run_rank(p, n);
    free(p);
    free(of_class);
    return s;
}

static int take(run_state *r, void *own)
{
    classes *c = own;
    const run_series *logits = run_find(r, "logits");
    /* a detector's logits belong to queries */
    if (!logits || logits->info.kind != FOVEA_OUTPUT_LOGITS)
        return CLI_OK;
    free(c->score);
    c->n = (uint32_t)logits->columns;
    c->score = rank(r, logits);
    if (c->n > 0 && !isfinite(c->score[0].p))
        cli_tell("%s: the scores are NaN; fovea verify shows which step fails", r->now.name);
    return CLI_OK;
}

static bool shows(const run_state *r, const void *own)
{
    (void)r;
    return ((const classes *)own)->score != NULL;
}

static uint32_t top(const run_state *r, const classes *c)
{
    return r->top < c->n ? r->top : c->n;
}

static void print(const run_state *r, const void *own)
{
    const classes *c = own;
    run_print_scores(r, c->score, top(r, c), RUN_SCORE_OF_PICTURE);
}

static void describe(json_t *root, const run_state *r, const void *own)
{
    const classes *c = own;
    json_object_set_new(root, "top",
                        run_describe_scores(r, c->score, top(r, c), RUN_SCORE_OF_PICTURE));
    json_object_set_new(root, "scores", json_string(score_kinds[r->s.info.scores]));
}

static void release(void *own)
{
    free(((classes *)own)->score);
}

const run_sink run_sink_classes = {.size = sizeof(classes),
                                   .take = take,
                                   .shows = shows,
                                   .print = print,
                                   .describe = describe,
                                   .release = release};
