/* adapt_judge.c: evaluates a training regularly on held-out pictures, and keeps the best model: the
 * model in OUT is from the step with the largest similarity to the teacher's features, or with the
 * best result for its task.
 *
 * OUT/validation.jsonl has one line per evaluation. A resumed training repeats the evaluations
 * after its checkpoint, with the same results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/adapt/adapter.h"

static char *log_of(const adapt_run *r)
{
    return cli_text("%s/validation.jsonl", r->output);
}

/* Records an evaluation. Among equally good ones, the first is kept as the best. For a task's
 * metrics, which are often equal, the last is kept, because its model was trained longest. */
static void note(adapt_run *r, const adapt_judgement *j)
{
    r->judged = cli_grow(r->judged, r->judgements, sizeof *r->judged);
    r->judged[r->judgements++] = *j;
    const double best = r->judged[r->best].rank;
    if (r->judgements == 1 || j->rank > best || (r->task_validation && j->rank == best))
        r->best = r->judgements - 1;
}

/* ---- the log ---- */

json_t *adapt_judgement_json(const adapt_run *r, const adapt_judgement *j)
{
    const char *name;
    json_t *root = json_pack("{s:I, s:f}", "step", (json_int_t)j->step, "rank", j->rank);
    for (size_t i = 0; r->task_validation && (name = task_validation_metric(r->options.task, i));
         i++)
        json_object_set_new(root, name, json_real(j->metric[i]));
    if (r->task_validation)
        return root;
    json_t *scores = json_array();
    for (size_t s = 0; s < r->validation->sizes; s++)
        json_array_append_new(scores, json_pack("{s:i, s:i, s:f, s:f}", "width",
                                                (int)r->validation->set[s].width, "height",
                                                (int)r->validation->set[s].height, "mean",
                                                j->score[s].mean, "worst", j->score[s].worst));
    json_object_set_new(root, "scores", scores);
    return root;
}

static bool read_line(adapt_judgement *out, const adapt_run *r, const char *line)
{
    json_t *root = json_loads(line, 0, NULL);
    const json_t *scores = json_object_get(root, "scores");
    const size_t sizes = r->validation ? r->validation->sizes : 0;
    bool whole = json_array_size(scores) == sizes;
    *out = (adapt_judgement){.step = (uint64_t)json_integer_value(json_object_get(root, "step")),
                             .rank = json_number_value(json_object_get(root, "rank"))};
    for (size_t i = 0; r->task_validation && task_validation_metric(r->options.task, i); i++) {
        const json_t *metric = json_object_get(root, task_validation_metric(r->options.task, i));
        whole &= json_is_real(metric);
        out->metric[i] = json_number_value(metric);
    }
    for (size_t s = 0; whole && s < sizes; s++) {
        const json_t *one = json_array_get(scores, s);
        out->score[s].mean = json_number_value(json_object_get(one, "mean"));
        out->score[s].worst = json_number_value(json_object_get(one, "worst"));
    }
    json_decref(root);
    return whole;
}

/* Rewrites the whole log of evaluations, which is short. */
static int write_log(const adapt_run *r)
{
    char *path = log_of(r);
    cli_output out;
    int code = cli_output_begin(&out, path);
    for (size_t i = 0; !code && i < r->judgements; i++) {
        json_t *line = adapt_judgement_json(r, &r->judged[i]);
        char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(12));
        fprintf(out.file, "%s\n", text);
        free(text);
        json_decref(line);
    }
    CLI_THEN(code, cli_output_end(&out, NULL));
    free(path);
    return code;
}

int adapt_judge_begin(adapt_run *r)
{
    char *path = log_of(r), *line = NULL;
    size_t capacity = 0;
    FILE *f = r->info.step > 0 ? fopen(path, "r") : NULL;
    adapt_judgement j;
    while (f && getline(&line, &capacity, f) > 0)
        if (read_line(&j, r, line) && j.step <= r->info.step)
            note(r, &j);
    if (f)
        fclose(f);
    free(line);
    free(path);
    return r->info.step == 0 ? adapt_judge(r) : CLI_OK;
}

/* ---- judging ---- */

static void tell_metrics(const adapt_run *r, const adapt_judgement *j)
{
    const char *second = task_validation_metric(r->options.task, 1);
    char text[40] = "";
    if (second)
        snprintf(text, sizeof text, ", %s %.4f", second, j->metric[1]);
    cli_tell("step %llu: held-out %s %.4f%s%s", (unsigned long long)j->step,
             task_validation_metric(r->options.task, 0), j->metric[0], text,
             r->judged[r->best].step == j->step ? "" : "; not the best");
}

static void say(const adapt_run *r, const adapt_judgement *j)
{
    char text[160];
    size_t at = 0;
    if (r->task_validation) {
        tell_metrics(r, j);
        return;
    }
    for (size_t s = 0; s < r->validation->sizes && at < sizeof text; s++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.4f (%.4f) at %u px", s ? ", " : "",
                               j->score[s].mean, j->score[s].worst, r->validation->set[s].width);
    cli_tell("step %llu: held-out cosine, mean (worst picture): %s%s", (unsigned long long)j->step,
             text, r->judged[r->best].step == j->step ? "" : "; not the best");
}

static void remove_candidate(const char *folder)
{
    static const char *const parts[] = {"model.safetensors", "config.json", "processor_config.json",
                                        "preprocessor_config.json", "open_clip_config.json"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *path = cli_text("%s/%s", folder, parts[i]);
        remove(path);
        free(path);
    }
    rmdir(folder);
}

bool adapt_has_judge(const adapt_run *r)
{
    return r->validation || r->task_validation;
}

static int measure(adapt_judgement *j, const adapt_run *r, const char *folder)
{
    if (r->task_validation) {
        CLI_TRY(task_validation_judge(j->metric, r->task_validation, folder));
        j->rank = task_validation_rank(r->options.task, j->metric[0]);
        return CLI_OK;
    }
    CLI_TRY(adapt_validation_judge(j->score, r->validation, folder));
    j->rank = adapt_validation_rank(j->score, r->validation->sizes);
    return CLI_OK;
}

bool adapt_is_judged(const adapt_run *r)
{
    return r->judgements > 0 && r->judged[r->judgements - 1].step == r->info.step;
}

int adapt_judge(adapt_run *r)
{
    const bool average = r->options.ema > 0;
    const double begin = cli_seconds();
    adapt_judgement j = {.step = r->info.step};
    char *folder = cli_text("%s/candidate", r->output);
    int code = cli_check(fovea_trainer_save(r->trainer, folder, r->settings.dtype, average));
    CLI_THEN(code, measure(&j, r, folder));
    remove_candidate(folder);
    free(folder);
    CLI_TRY(code);
    note(r, &j);
    /* The model is saved first, so that the log never has a line that is newer than the model in
     * OUT. */
    if (r->best == r->judgements - 1)
        code = cli_check(fovea_trainer_save(r->trainer, r->output, r->settings.dtype, average));
    CLI_THEN(code, write_log(r));
    say(r, &j);
    r->judging = cli_seconds() - begin;
    return code;
}
