/* task_validation.c: see task_validation.h. Each evaluation reads the pictures again, so that
 * memory does not grow with their number. */
#include "cli/adapt/task_validation.h"

#include <stdlib.h>

#include "cli/common/class_metrics.h"
#include "cli/common/depth_metrics.h"
#include "cli/common/segment_metrics.h"

/* The state of one evaluation. */
typedef struct exam {
    task_validation *v;
    fovea_model *model;
    fovea_plan *plan;
    uint32_t classes;
    float
        *rows[2]; /* rows of the model's outputs: two if queries predict masks and their classes */
    fovea_output out[2];
    size_t outs;
    adapt_pixels truth;
    uint16_t *found;
    float *depth;    /* the model's depth of each pixel */
    size_t pictures; /* number of evaluated pictures; for depth, of those with known depths */
    class_counts classified; /* counts for the task that is evaluated */
    segment_counts segmented;
    double abs_rel, delta1; /* sums over the pictures */
} exam;

const char *task_validation_metric(fovea_task task, size_t i)
{
    static const char *const names[][TASK_METRICS] = {
        [FOVEA_TASK_CLASSES] = {"top1", NULL},
        [FOVEA_TASK_SEGMENTATION] = {"miou", "pixel_accuracy"},
        [FOVEA_TASK_DEPTH] = {"abs_rel", "delta1"},
    };
    return i < TASK_METRICS ? names[task][i] : NULL;
}

double task_validation_rank(fovea_task task, double first)
{
    return task == FOVEA_TASK_DEPTH ? -first : first;
}

int task_validation_begin(task_validation *v, fovea_device *device, fovea_task task,
                          const adapt_policy *policy, const dataset *data)
{
    *v = (task_validation){.device = device, .data = *data, .task = task, .policy = *policy};
    v->policy.crop = ADAPT_CENTRE;
    v->policy.least = v->policy.most = 1;
    v->policy.flip = v->policy.jitter = 0;
    static const char *const answers[] = {"classes", "masks", "depths"};
    const bool there[] = {data->classes > 0, data->masks > 0, data->depths};
    return there[task] ? CLI_OK
                       : cli_fail(CLI_INPUT, "%s: the held-out pictures have no %s", data->path,
                                  answers[task]);
}

void task_validation_end(task_validation *v)
{
    dataset_close(&v->data);
    *v = (task_validation){NULL};
}

/* ---- the model ---- */

/* Sets the outputs that the task's answers are computed from, and returns their number. */
static size_t choose_outputs(const char *out[2], const fovea_model *model, fovea_task task)
{
    const char *segments = cli_segments_output(model);
    out[0] = task == FOVEA_TASK_DEPTH     ? "predicted_depth"
             : task == FOVEA_TASK_CLASSES ? "logits"
             : segments                   ? segments
                                          : "masks_queries_logits";
    out[1] = "class_queries_logits";
    return task == FOVEA_TASK_SEGMENTATION && !segments ? 2 : 1;
}

static int begin(exam *e, const char *folder)
{
    const task_validation *v = e->v;
    const size_t pixels = (size_t)v->policy.width * v->policy.height;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    CLI_TRY(cli_load_student(&e->model, folder));
    const char *outputs[2];
    e->outs = choose_outputs(outputs, e->model, v->task);
    options.frame.format = FOVEA_FORMAT_RGB8;
    options.frame.width = v->policy.width;
    options.frame.height = v->policy.height;
    options.outputs = outputs;
    options.n_outputs = e->outs;
    CLI_TRY(cli_check(fovea_plan_create(&e->plan, e->model, v->device, &options)));
    for (size_t i = 0; i < e->outs; i++) {
        fovea_plan_output(e->plan, i, &info);
        const size_t n = (size_t)info.rows * info.columns;
        e->rows[i] = cli_alloc(n, sizeof *e->rows[i]);
        e->out[i] = (fovea_output){e->rows[i], n * sizeof *e->rows[i]};
    }
    /* the last class of queries is the class "nothing" */
    e->classes = e->outs == 2 ? info.columns - 1 : info.columns;
    e->truth = (adapt_pixels){cli_alloc(pixels, 3), cli_alloc(pixels, 1),
                              cli_alloc(pixels, sizeof *e->truth.depth)};
    e->found = cli_alloc(pixels, sizeof *e->found);
    e->depth = cli_alloc(pixels, sizeof *e->depth);
    return CLI_OK;
}

static void end(exam *e)
{
    fovea_plan_free(e->plan);
    fovea_model_free(e->model);
    free(e->rows[0]);
    free(e->rows[1]);
    free(e->truth.rgb);
    free(e->truth.mask);
    free(e->truth.depth);
    free(e->found);
    free(e->depth);
    free(e);
}

/* ---- pictures ---- */

static int count_picture(exam *e, uint32_t label, const char *name)
{
    if (label >= e->classes)
        return cli_fail(CLI_INPUT, "%s has class %u; the model has %u classes, counted from 0",
                        name, label, e->classes);
    class_count(&e->classified, class_before(e->rows[0], e->classes, label));
    return CLI_OK;
}

static int count_pixels(exam *e, const char *name)
{
    const size_t pixels = (size_t)e->v->policy.width * e->v->policy.height;
    CLI_TRY(
        cli_check(fovea_class_map(e->plan, e->out, e->outs, FOVEA_EXTENT_FRAME, e->found, pixels)));
    for (size_t i = 0; i < pixels; i++)
        if (segment_judged(e->truth.mask[i], e->found[i]) && e->truth.mask[i] >= e->classes)
            return cli_fail(CLI_INPUT,
                            "%s: the mask has class %u; the model has %u classes, counted from 0",
                            name, e->truth.mask[i], e->classes);
    segment_count(&e->segmented, e->truth.mask, e->found, pixels);
    return CLI_OK;
}

static int count_depths(exam *e)
{
    const size_t pixels = (size_t)e->v->policy.width * e->v->policy.height;
    CLI_TRY(
        cli_check(fovea_depth_map(e->plan, e->out, e->outs, FOVEA_EXTENT_FRAME, e->depth, pixels)));
    double *found = cli_alloc(2 * pixels, sizeof *found), *truth = found + pixels;
    size_t n = 0;
    for (size_t i = 0; i < pixels; i++)
        if (e->truth.depth[i] > 0 && e->depth[i] == e->depth[i]) {
            truth[n] = (double)e->truth.depth[i];
            found[n++] = (double)e->depth[i];
        }
    if (n > 0) {
        const depth_errors errors = depth_compare(found, truth, n);
        e->abs_rel += errors.abs_rel;
        e->delta1 += errors.delta1;
        e->pictures++;
    }
    free(found);
    return CLI_OK;
}

static int judge_picture(exam *e, size_t i)
{
    const dataset *d = &e->v->data;
    const fovea_task task = e->v->task;
    const char *name = d->file ? d->file[i].path : d->path;
    dataset_picture picture;
    if (dataset_read(&picture, d, i))
        return CLI_OK; /* the file was named in a message */
    if (task != FOVEA_TASK_SEGMENTATION)
        picture.mask = NULL;
    const uint32_t label = picture.label;
    const int cut = adapt_cut(&e->truth, &e->v->policy, &picture, 0, name);
    dataset_picture_free(&picture);
    if (cut)
        return CLI_OK;
    const fovea_frame frame = {.pixels = {e->truth.rgb}};
    CLI_TRY(cli_check(fovea_run(e->plan, &frame, e->out, e->outs)));
    if (task == FOVEA_TASK_DEPTH)
        return count_depths(e);
    e->pictures++;
    return task == FOVEA_TASK_SEGMENTATION ? count_pixels(e, name) : count_picture(e, label, name);
}

/* ---- metrics ---- */

static int measure(double metric[TASK_METRICS], const exam *e)
{
    if (!e->pictures)
        return cli_fail(CLI_INPUT, "%s: no held-out picture can be read%s", e->v->data.path,
                        e->v->task == FOVEA_TASK_DEPTH ? ", or none has a known depth" : "");
    if (e->v->task == FOVEA_TASK_DEPTH) {
        metric[0] = e->abs_rel / (double)e->pictures;
        metric[1] = e->delta1 / (double)e->pictures;
        return CLI_OK;
    }
    if (e->v->task == FOVEA_TASK_CLASSES) {
        metric[0] = class_score(&e->classified).top1;
        return CLI_OK;
    }
    if (!e->segmented.seen)
        return cli_fail(CLI_INPUT, "%s: no pixel of the held-out masks has a class",
                        e->v->data.path);
    const segment_scores s = segment_score(&e->segmented);
    metric[0] = s.miou;
    metric[1] = s.pixel_accuracy;
    return CLI_OK;
}

int task_validation_judge(double metric[TASK_METRICS], task_validation *v, const char *folder)
{
    exam *e = cli_alloc(1, sizeof *e);
    cli_progress bar;
    e->v = v;
    metric[0] = metric[1] = 0;
    int code = begin(e, folder);
    cli_progress_begin(&bar, "held-out");
    bar.unit = "pictures";
    for (size_t i = 0; i < v->data.n && !code; i++) {
        code = judge_picture(e, i);
        cli_progress_show(&bar, (double)i + 1, (double)v->data.n);
    }
    cli_progress_end(&bar);
    CLI_THEN(code, measure(metric, e));
    end(e);
    return code;
}
