/* cmd_adapt.c: `fovea adapt`: trains linear attention for a softmax checkpoint, and heads for
 * tasks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapter.h"

/* The unparsed arguments of options; NULL if not given. */
typedef struct adapt_texts { /* More than 25 fields: each option has one */
    const char *stage, *data, *steps, *epochs, *batch, *seed, *every, *patience, *log;
    const char *lr, *lr_end, *lr_schedule, *warmup, *loss, *lambda, *ratio, *decay, *beta1, *beta2;
    const char *clip, *ema, *trainable, *crop, *flip, *jitter, *task, *classes, *hyper, *tensors;
    const char *val, *val_every, *teacher_memory, *head;
    const char *max_depth, *depth_scale, *reduce_labels;
    bool full_module;
} adapt_texts;

enum { WARM_UP = 20 };  /* steps */
enum { HELD_OUT = 50 }; /* largest number of held-out pictures */
enum { JUDGED = 10 };   /* number of evaluations without --val-every */
/* default memory in MiB for features of pictures that recur unchanged */
enum { TEACHER_MIB = 256 };
enum { TEACHER_KEY = 64 }; /* most bytes per stored picture in addition to its features */

static const char *const crops[] = {"random", "centre", "none", NULL};
static const char *const schedules[] = {"constant", "linear", "cosine", NULL};
static const char *const losses[] = {"squared", "relative", NULL};
static const char *const trainable[] = {"all", "qkv", "head", NULL};
static const char *const tasks[] = {"classes", "segmentation", "depth", NULL};
static const char *const heads[] = {"linear", "fpn", "dpt-lite", "mask2former", NULL};

/* ---- numbers ---- */

static int take(float *out, const char *option, const char *text, double low, double high)
{
    double v = *out;
    const int code = cli_real(&v, option, text, low, high);
    *out = (float)v;
    return code;
}

/* Losses are relative, because otherwise blocks and tokens with large features dominate. The rate
 * is 1e-3 in stages 1 and 3, and 1e-4 in stage 2. The papers' rate of 1e-2 for stage 1 ruins
 * pretrained weights in the first steps, in which AdamW moves every weight by the full rate because
 * its moments cover few gradients. For the same reason, the rate is warmed up. */
static void set_defaults(fovea_trainer_options *o, fovea_stage stage)
{
    o->stage = stage;
    o->lr = stage == FOVEA_STAGE_FEATURES ? 1e-4f : 1e-3f;
    o->schedule = stage == FOVEA_STAGE_ATTENTION ? FOVEA_LR_CONSTANT : FOVEA_LR_LINEAR;
    o->warm_up = stage == FOVEA_STAGE_TASK ? 0 : WARM_UP;
    o->loss = FOVEA_LOSS_RELATIVE;
}

static int settle_stage(adapt_run *r, const adapt_texts *t)
{
    uint32_t stage = 0;
    r->options = (fovea_trainer_options)FOVEA_TRAINER_OPTIONS_INIT;
    if (!t->stage)
        return cli_fail(CLI_USAGE, "adapt needs --stage 1, 2 or 3; see fovea adapt --help");
    if (t->hyper)
        return adapt_hyper_read(&r->hyper, &r->options, t->hyper, t->stage);
    CLI_TRY(cli_number(&stage, "stage", t->stage, 1, 3));
    set_defaults(&r->options, (fovea_stage)stage);
    return CLI_OK;
}

static int settle_optimizer(fovea_trainer_options *o, const adapt_texts *t)
{
    static const fovea_trainable kinds[] = {FOVEA_TRAIN_ALL, FOVEA_TRAIN_QKV, FOVEA_TRAIN_HEAD};
    int schedule = (int)o->schedule, loss = (int)o->loss, kind = -1;
    double seed = 0;
    CLI_TRY(cli_choose(&schedule, "lr-schedule", t->lr_schedule, schedules));
    CLI_TRY(cli_choose(&loss, "loss", t->loss, losses));
    CLI_TRY(cli_choose(&kind, "trainable", t->trainable, trainable));
    if (!t->lr || strcmp(t->lr, "auto") != 0)
        CLI_TRY(take(&o->lr, "lr", t->lr, 0, 1e6));
    CLI_TRY(take(&o->lr_end, "lr-end", t->lr_end, 0, 1e6));
    CLI_TRY(cli_number(&o->warm_up, "warmup", t->warmup, 0, INT32_MAX));
    CLI_TRY(take(&o->lambda, "lambda", t->lambda, 0, 1e9));
    CLI_TRY(take(&o->backbone_ratio, "backbone-ratio", t->ratio, 0, 1e6));
    CLI_TRY(take(&o->weight_decay, "weight-decay", t->decay, 0, 1e3));
    CLI_TRY(take(&o->beta1, "beta1", t->beta1, 0, 0.999999));
    CLI_TRY(take(&o->beta2, "beta2", t->beta2, 0, 0.999999));
    CLI_TRY(take(&o->clip, "clip", t->clip, 0, 1e9));
    CLI_TRY(take(&o->ema, "ema", t->ema, 0, 0.999999));
    CLI_TRY(cli_real(&seed, "seed", t->seed, 0, 0x1p53));
    o->schedule = (fovea_lr_schedule)schedule;
    o->loss = (fovea_loss)loss;
    o->seed = (uint64_t)seed;
    o->full_module = t->full_module;
    if (kind >= 0) {
        o->trainable = kinds[kind];
        o->train = NULL;
    }
    return CLI_OK;
}

/* ---- pictures ---- */

/* Parses "random", "random:0.3..1", "centre" or "none". */
static int settle_crop(adapt_policy *p, const char *text)
{
    p->crop = ADAPT_RANDOM;
    p->least = 0.5;
    p->most = 1;
    if (!text)
        return CLI_OK;
    const size_t name = strcspn(text, ":");
    char *kind = cli_text("%.*s", (int)name, text);
    int crop = ADAPT_RANDOM, end = 0;
    const int code = cli_choose(&crop, "crop", kind, crops);
    free(kind);
    CLI_TRY(code);
    p->crop = (adapt_crop)crop;
    if (!text[name])
        return CLI_OK;
    if (crop != ADAPT_RANDOM ||
        sscanf(text + name, ":%lf..%lf%n", &p->least, &p->most, &end) != 2 || text[name + end] ||
        !(p->least > 0 && p->least <= p->most && p->most <= 1))
        return cli_fail(CLI_USAGE, "--crop %s: it must be random:A..B with 0 < A <= B <= 1", text);
    return CLI_OK;
}

static int settle_policy(adapt_run *r, const adapt_texts *t, const fovea_model *model,
                         const fovea_model_info *info)
{
    adapt_policy *p = &r->policy;
    const fovea_preprocess rule = cli_preprocess(&r->settings, model);
    cli_picture_size(&p->width, &p->height, &rule, info);
    p->filter = rule.filter;
    p->seed = r->options.seed;
    p->jitter = r->options.stage == FOVEA_STAGE_TASK ? 0 : 0.2;
    CLI_TRY(settle_crop(p, t->crop));
    CLI_TRY(cli_real(&p->flip, "flip", t->flip, 0, 1));
    return cli_real(&p->jitter, "jitter", t->jitter, 0, 1);
}

/* ---- the task ---- */

/* Returns the number of classes of masks, from the data's metadata, or 0 if it is not given. */
static uint32_t mask_classes(const dataset *d)
{
    const char *text = d->packed ? fovea_tensors_metadata(d->packed, "classes") : NULL;
    const unsigned long n = text ? strtoul(text, NULL, 10) : 0;
    return n < 256 ? (uint32_t)n : 0;
}

/* If the model's head has names for all classes of the data, makes these classes keep their indices
 * in the head. Returns whether it has. */
static bool use_names(adapt_run *r, const fovea_model *model, const fovea_model_info *info)
{
    dataset *d = &r->data;
    uint32_t *place = cli_alloc(d->classes + 1, sizeof *place);
    size_t found = 0;
    for (size_t c = 0; d->class_name && c < d->classes; c++)
        for (uint32_t i = 0; i < info->classes && found == c; i++) {
            const char *name = fovea_model_label(model, i);
            if (name && strcmp(name, d->class_name[c]) == 0)
                place[found++] = i;
        }
    const bool all = d->class_name && found == d->classes;
    for (size_t i = 0; all && i < d->n; i++)
        d->file[i].label = place[d->file[i].label];
    if (all)
        r->class_label = place;
    else
        free(place);
    return all;
}

/* Gives held-out pictures the same labels as training pictures, by the names of their folders. */
static int use_labels(dataset *held, const adapt_run *r)
{
    const dataset *d = &r->data;
    if (!held->class_name || !d->class_name)
        return CLI_OK;
    uint32_t *label = cli_alloc(held->classes + 1, sizeof *label);
    int code = CLI_OK;
    for (size_t c = 0; c < held->classes && !code; c++) {
        uint32_t k = 0;
        while (k < d->classes && strcmp(d->class_name[k], held->class_name[c]) != 0)
            k++;
        label[c] = r->class_label && k < d->classes ? r->class_label[k] : k;
        if (k == d->classes)
            code =
                cli_fail(CLI_INPUT, "%s: folder \"%s\" is not a class of %s; rename or remove it",
                         held->path, held->class_name[c], d->path);
    }
    for (size_t i = 0; i < held->n && !code; i++)
        held->file[i].label = label[held->file[i].label];
    free(label);
    return code;
}

/* Checks the data and options for depth. */
static int settle_depth(adapt_run *r, const adapt_texts *t)
{
    double scale = 1000, most = 0;
    if (r->options.task != FOVEA_TASK_DEPTH)
        return t->max_depth || t->depth_scale
                   ? cli_fail(CLI_USAGE, "--max-depth and --depth-scale need --task depth")
                   : CLI_OK;
    if (!r->data.depths)
        return cli_fail(CLI_INPUT, "the data have no depths; add DIR/depth/NAME.png (16 bits) for "
                                   "each DIR/images/NAME.jpg");
    CLI_TRY(cli_real(&scale, "depth-scale", t->depth_scale, 1e-6, 1e9));
    CLI_TRY(cli_real(&most, "max-depth", t->max_depth, 1e-3, 1e6));
    r->options.max_depth = (float)most;
    r->data.depth_scale = scale;
    r->data.masks = 0; /* masks are not read */
    return CLI_OK;
}

static int settle_task(adapt_run *r, const adapt_texts *t, const fovea_model *model,
                       const fovea_model_info *info)
{
    fovea_trainer_options *o = &r->options;
    const bool masked = r->data.masks || r->batches.masked;
    const bool labelled = r->data.classes || r->batches.labelled;
    int task = masked                        ? FOVEA_TASK_SEGMENTATION
               : r->data.depths && !labelled ? FOVEA_TASK_DEPTH
                                             : FOVEA_TASK_CLASSES;
    CLI_TRY(cli_choose(&task, "task", t->task, tasks));
    int head = task == FOVEA_TASK_DEPTH ? FOVEA_HEAD_DPT_LITE : FOVEA_HEAD_LINEAR;
    CLI_TRY(cli_choose(&head, "head", t->head, heads));
    o->head = (fovea_head)head;
    CLI_TRY(cli_number(&o->classes, "classes", t->classes, 1, DATASET_CLASSES));
    o->task = (fovea_task)task;
    CLI_TRY(settle_depth(r, t));
    if (t->reduce_labels && (task != FOVEA_TASK_SEGMENTATION || !r->data.masks))
        return cli_fail(CLI_USAGE, "--reduce-labels needs masks in --data");
    if (task == FOVEA_TASK_DEPTH)
        return CLI_OK;
    if (task == FOVEA_TASK_SEGMENTATION) {
        if (!masked)
            return cli_fail(CLI_INPUT, "the data have no masks; add NAME_mask.png next to "
                                       "NAME.jpg, or use folders images and masks");
        CLI_TRY(dataset_reduce(&r->data, t->reduce_labels, info));
        if (r->data.reduce)
            cli_tell("masks: 0 and 255 mean no class, k means class k - 1");
        if (!o->classes)
            o->classes = mask_classes(&r->data);
        if (!o->classes && !info->segments)
            return cli_fail(CLI_USAGE,
                            "--classes is needed: give the number of classes of the masks");
        return CLI_OK;
    }
    if (!labelled)
        return cli_fail(CLI_INPUT,
                        "the data have no classes; make a folder for each class, or add labels");
    if (r->data.classes && !o->classes && !use_names(r, model, info)) {
        CLI_TRY(dataset_check_classes(&r->data));
        o->classes = (uint32_t)r->data.classes;
        o->labels = (const char *const *)r->data.class_name;
    }
    return CLI_OK;
}

/* ---- all of it ---- */

/* Checks the model's attention: weights that were trained with another attention cannot reproduce
 * the softmax model's features. */
static int check_model(const adapt_run *r, const fovea_model_info *info)
{
    if (r->options.stage == FOVEA_STAGE_TASK || r->teacher ||
        strcmp(info->attention, "softmax") == 0)
        return CLI_OK;
    if (r->options.stage == FOVEA_STAGE_FEATURES)
        return cli_fail(
            CLI_USAGE,
            "%s is a model with %s; give the softmax model that it was made from with --teacher",
            r->model, info->attention);
    return cli_fail(CLI_USAGE, "%s is a model with %s; stage 1 needs a softmax model", r->model,
                    info->attention);
}

static int settle_data(adapt_run *r, const adapt_texts *t)
{
    if (!t->data == !t->tensors)
        return cli_fail(CLI_USAGE, "adapt needs --data or --tensors, but not both");
    CLI_TRY(t->data ? dataset_open(&r->data, t->data)
                    : adapt_batches_open(&r->batches, t->tensors));
    fovea_model *model;
    CLI_TRY(cli_load_model(&model, r->model, r->common.prefix, &r->settings.linear));
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &info);
    int code = check_model(r, &info);
    CLI_THEN(code, settle_policy(r, t, model, &info));
    if (r->batches.file) {
        r->policy.width = r->batches.width;
        r->policy.height = r->batches.height;
        r->options.frame.format = FOVEA_FORMAT_PLANES_F32;
    }
    if (!code && r->options.stage == FOVEA_STAGE_TASK)
        code = settle_task(r, t, model, &info);
    fovea_model_free(model);
    r->options.frame.width = r->policy.width;
    r->options.frame.height = r->policy.height;
    const uint64_t tokens =
        (uint64_t)(r->policy.width / info.patch) * (r->policy.height / info.patch) + info.prefix;
    r->features = tokens * info.width * sizeof(float) + TEACHER_KEY;
    return code;
}

/* Must run before the length of the training is calculated, because the length depends on the
 * number of pictures left. */
static int settle_validation(adapt_run *r, const adapt_texts *t)
{
    if (!t->val)
        return t->val_every ? cli_fail(CLI_USAGE, "--val-every needs --val, which is not given")
                            : CLI_OK;
    dataset held;
    int code = dataset_open(&held, t->val);
    held.depth_scale = held.depths ? r->data.depth_scale : 0;
    held.reduce = r->data.reduce;
    CLI_THEN(code, adapt_leave_out(&r->data, &held));
    if (r->options.stage == FOVEA_STAGE_TASK)
        CLI_THEN(code, use_labels(&held, r));
    if (code) {
        dataset_close(&held);
        return code;
    }
    if (r->options.stage == FOVEA_STAGE_TASK) {
        r->task_validation = cli_alloc(1, sizeof *r->task_validation);
        return task_validation_begin(r->task_validation, r->device, r->options.task, &r->policy,
                                     &held);
    }
    r->validation = cli_alloc(1, sizeof *r->validation);
    return adapt_validation_begin(r->validation, r->device, r->teacher ? r->teacher : r->model,
                                  r->common.prefix, NULL, &held);
}

static int settle_judgements(adapt_run *r, const adapt_texts *t)
{
    if (!adapt_has_judge(r))
        return CLI_OK;
    r->judge_every = r->steps > JUDGED ? r->steps / JUDGED : 1;
    CLI_TRY(cli_number(&r->judge_every, "val-every", t->val_every, 1, INT32_MAX));
    return r->validation ? adapt_validation_add(r->validation, r->policy.width, r->policy.height,
                                                HELD_OUT, INFINITY)
                         : CLI_OK;
}

static int settle_length(adapt_run *r, const adapt_texts *t)
{
    double epochs = 1;
    uint32_t steps = r->hyper.steps;
    r->batch = 16;
    if (r->batches.file) {
        if (t->batch || t->epochs)
            return cli_fail(
                CLI_USAGE,
                "--batch and --epochs cannot be used with --tensors, whose batches are fixed");
        r->batch = r->batches.size / (uint32_t)r->processes.count;
        if (r->batch * (uint32_t)r->processes.count != r->batches.size)
            return cli_fail(CLI_USAGE,
                            "%s: batches of %u pictures cannot be divided among %d processes",
                            t->tensors, r->batches.size, r->processes.count);
        steps = steps ? steps : (uint32_t)r->batches.n;
    }
    CLI_TRY(cli_number(&r->batch, "batch", t->batch, 1, 1u << 20));
    CLI_TRY(cli_number(&steps, "steps", t->steps, 1, INT32_MAX));
    CLI_TRY(cli_real(&epochs, "epochs", t->epochs, 1e-9, 1e6));
    CLI_TRY(cli_number(&r->every, "every", t->every, 1, INT32_MAX));
    CLI_TRY(cli_number(&r->patience, "patience", t->patience, 1, INT32_MAX));
    const double taken = (double)r->batch * r->processes.count;
    if (t->batch && r->data.n && taken > (double)r->data.n && r->processes.rank == 0)
        fprintf(stderr, "fovea: --batch %s: each step uses each of the %zu pictures %.3g times\n",
                t->batch, r->data.n, taken / (double)r->data.n);
    if (r->data.n && !t->steps && (t->epochs || !steps))
        steps = (uint32_t)fmin(ceil(epochs * (double)r->data.n / r->batch / r->processes.count),
                               INT32_MAX);
    r->steps = steps;
    if (!r->options.steps)
        r->options.steps = steps;
    return CLI_OK;
}

/* Returns settings that the result depends on and that the trainer itself does not check. */
char *adapt_note(const adapt_run *r)
{
    const adapt_policy *p = &r->policy;
    const json_int_t batch = (json_int_t)r->batch * r->processes.count;
    json_t *root =
        r->batches.file
            ? json_pack("{s:I, s:I}", "pictures", (json_int_t)r->batches.n, "batch", batch)
            : json_pack("{s:I, s:I, s:[s, f, f], s:f, s:f, s:I}", "pictures", (json_int_t)r->data.n,
                        "batch", batch, "crop", crops[p->crop], p->least, p->most, "flip", p->flip,
                        "jitter", p->jitter, "seed", (json_int_t)p->seed);
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(root);
    return text;
}

int adapt_check_compute(const char *command, const cli_settings *s)
{
    if (s->compute == FOVEA_COMPUTE_INT8)
        return cli_fail(
            CLI_UNSUPPORTED,
            "%s does not support --compute int8: training multiplies matrices in float32 "
            "or bfloat16; use --compute f32 or --compute bf16",
            command);
    return CLI_OK;
}

/* Returns the number of different pictures that the softmax model sees more than once; mirror
 * images count separately. Returns 0 if crops or colours are random, or if no picture occurs
 * twice. */
static double repeated(const adapt_run *r)
{
    const adapt_policy *p = &r->policy;
    const double taken = (double)r->steps * r->batch * r->processes.count;
    const double pictures = (double)(r->batches.file ? r->batches.n * r->batches.size : r->data.n);
    const bool drawn = !r->batches.file && (p->crop == ADAPT_RANDOM || p->jitter > 0);
    const bool mirrored = !r->batches.file && p->flip > 0 && p->flip < 1;
    return drawn || taken <= pictures ? 0 : pictures * (mirrored ? 2 : 1);
}

/* Sets the memory for features to the size that these pictures need, at most the requested size. */
static int settle_teacher_memory(adapt_run *r, const adapt_texts *t)
{
    uint32_t most = r->options.memory_limit ? 0 : TEACHER_MIB;
    const double pictures = repeated(r);
    CLI_TRY(cli_number(&most, "teacher-memory", t->teacher_memory, 0, UINT32_MAX));
    if (r->options.stage != FOVEA_STAGE_FEATURES)
        return t->teacher_memory ? cli_fail(CLI_USAGE, "--teacher-memory needs --stage 2") : CLI_OK;
    if (pictures == 0 && t->teacher_memory && most)
        return cli_fail(CLI_USAGE,
                        "--teacher-memory %s has no effect, because no picture recurs unchanged; "
                        "use --crop centre or none, --jitter 0 and more than one epoch",
                        t->teacher_memory);
    const double bytes = fmin(pictures * (double)r->features, (double)((uint64_t)most << 20));
    r->options.teacher_memory =
        bytes >= (double)r->features || t->teacher_memory ? (uint64_t)bytes : 0;
    return CLI_OK;
}

static int settle(adapt_run *r, const adapt_texts *t)
{
    if (!r->output)
        return cli_fail(CLI_USAGE, "adapt needs -o OUT, the folder of the result");
    if (r->processes.rank == 0)
        CLI_TRY(adapt_output_check(r));
    if (!r->common.device)
        r->common.device = "cpu"; /* training supports only the CPU */
    CLI_TRY(cli_settle(&r->settings, &r->common));
    CLI_TRY(adapt_check_compute("adapt", &r->settings));
    CLI_TRY(settle_stage(r, t));
    r->options.compute = r->settings.compute;
    r->options.prefix = r->common.prefix;
    r->options.linear = r->settings.linear;
    CLI_TRY(settle_optimizer(&r->options, t));
    r->find_rate = t->lr && strcmp(t->lr, "auto") == 0;
    CLI_TRY(cli_open_device(&r->device, &r->settings));
    CLI_TRY(settle_data(r, t));
    CLI_TRY(settle_validation(r, t));
    CLI_TRY(settle_length(r, t));
    CLI_TRY(settle_judgements(r, t));
    if (r->settings.attention)
        r->options.attention = r->settings.attention;
    r->options.memory_limit = r->settings.memory_limit;
    CLI_TRY(settle_teacher_memory(r, t));
    if (r->processes.module) {
        r->options.allreduce = cli_processes_sum;
        r->options.allreduce_payload = &r->processes;
    }
    r->log_path = t->log ? cli_text("%s", t->log) : cli_text("%s/log.jsonl", r->output);
    /* replaying a golden case takes little time and needs no checkpoints */
    if (!t->hyper || r->every)
        r->state_path = cli_text("%s/checkpoint", r->output);
    r->note = adapt_note(r);
    return CLI_OK;
}

static int train(adapt_run *r, const adapt_texts *t, const char *model)
{
    r->model = model;
    CLI_TRY(cli_processes_begin(&r->processes));
    CLI_TRY(settle(r, t));
    return adapt_train(r);
}

static void release(adapt_run *r)
{
    adapt_release(r);
    if (r->validation)
        adapt_validation_end(r->validation);
    free(r->validation);
    if (r->task_validation)
        task_validation_end(r->task_validation);
    free(r->task_validation);
    fovea_device_close(r->device);
    dataset_close(&r->data);
    adapt_batches_close(&r->batches);
    adapt_hyper_free(&r->hyper);
    free(r);
}

static const char forms[] =
    "\nPATH is one of\n"
    "  DIR/*.jpg                          pictures for stages 1 and 2 (JPEG, PNG and others)\n"
    "  DIR/CLASS/*.jpg                    one folder per class\n"
    "  DIR/NAME.jpg, DIR/NAME_mask.png    masks: grey values or palette indices, one class per\n"
    "                                     pixel; pixels of 255 are ignored\n"
    "  DIR/images/NAME.jpg, DIR/masks/NAME.png\n"
    "  DIR/images/NAME.jpg, DIR/depth/NAME.png    depths of 16 bits; 0 means unknown\n"
    "  FILE.safetensors                   tensors of bytes: images (n, h, w, 3), masks (n, h, w);\n"
    "                                     numbers: labels (n); metadata: classes, the number of\n"
    "                                     classes in the masks\n"
    "The same command with --resume continues from OUT/checkpoint and gives the same bits. mpirun\n"
    "-np N starts N processes that share the work; --batch is per process.\n";

int cli_adapt(const cli_command *self, int argc, char **argv)
{
    adapt_run *r = cli_alloc(1, sizeof *r);
    adapt_texts t = {NULL};
    const cli_option own[] = {
        {"stage", 0, "N",
         "1: train each attention; 2: train the features; 3: train a task; with --hyper a stage's "
         "name",
         &t.stage},
        {"data", 0, "PATH", "pictures, in stage 3 with classes, masks or depths; see below",
         &t.data},
        {"tensors", 0, "FILE",
         "file with prepared batches in place of --data: input.K, labels.K, masks.K", &t.tensors},
        {"output", 'o', "OUT", "folder for the model, log.jsonl, checkpoint", &r->output},
        {"steps", 0, "N", "number of steps of the optimiser", &t.steps},
        {"epochs", 0, "X", "number of passes over the data, in place of --steps (default 1)",
         &t.epochs},
        {"batch", 0, "N", "pictures per step and process (default 16)", &t.batch},
        {"val", 0, "PATH",
         "held-out pictures, in stage 3 with classes, masks or depths; the model of the step that "
         "is best on them is kept",
         &t.val},
        {"val-every", 0, "N",
         "steps between evaluations with --val (default: a tenth of all steps)", &t.val_every},
        {"lr", 0, "X",
         "learning rate (default 1e-3, 1e-4, 1e-3 in stages 1, 2, 3); auto: the best of several "
         "rates, each tried for a few steps",
         &t.lr},
        {"lr-schedule", 0, "NAME",
         "schedule of the learning rate: constant, linear or cosine (default: constant in stage 1, "
         "else linear)",
         &t.lr_schedule, .choices = schedules},
        {"lr-end", 0, "X", "rate that the schedule reaches after the last step (default 0)",
         &t.lr_end},
        {"warmup", 0, "N", "steps of warm-up until the full rate (default 20, in stage 3 0)",
         &t.warmup},
        {"backbone-ratio", 0, "X",
         "stage 3: rate of the layers below the head, relative to the head's (default 0.1)",
         &t.ratio},
        {"trainable", 0, "WHAT",
         "tensors to train: all, qkv or head (default: qkv in stage 1, else all)", &t.trainable,
         .choices = trainable},
        {"whole", 0, NULL,
         "add the convolution and gate of the authors of pola, nala or focused, and train them",
         &t.full_module},
        {"teacher", 0, "MODEL", "stages 1, 2: the softmax model to learn from (default: MODEL)",
         &r->teacher},
        {"teacher-memory", 0, "MIB",
         "stage 2: memory for cached features of the softmax model, in MiB (default 256); with "
         "--memory-limit it counts towards the limit (default 0)",
         &t.teacher_memory},
        {"loss", 0, "NAME",
         "stages 1, 2: loss: squared or relative (default: relative, with --hyper squared)",
         &t.loss, .choices = losses},
        {"lambda", 0, "X", "stage 2: weight of the features' loss (default 1)", &t.lambda},
        {"weight-decay", 0, "X", "weight decay of AdamW (default 0.05)", &t.decay},
        {"beta1", 0, "X", "beta1 of AdamW (default 0.9)", &t.beta1},
        {"beta2", 0, "X", "beta2 of AdamW (default 0.999)", &t.beta2},
        {"clip", 0, "X", "largest norm of the gradient; 0: no limit (default 0)", &t.clip},
        {"ema", 0, "X",
         "decay of a running mean of the weights, such as 0.999; the mean is then the result",
         &t.ema},
        {"crop", 0, "HOW",
         "crop: random[:A..B]: a random part whose side is A to B of the largest possible one "
         "(default 0.5..1); centre; none",
         &t.crop, .choices = crops},
        {"flip", 0, "P", "probability that a picture is mirrored (default 0)", &t.flip},
        {"jitter", 0, "X",
         "largest random change of brightness, contrast and saturation (default 0.2, in stage 3 0)",
         &t.jitter},
        {"task", 0, "NAME", "stage 3: task: classes, segmentation (default with masks) or depth",
         &t.task, .choices = tasks},
        {"head", 0, "NAME",
         "stage 3: head for masks: linear; fpn, which uses all stages of a pyramid; dpt-lite, "
         "which uses four layers of a ViT, also for depth; mask2former, the queries and masks of "
         "Mask2Former on four layers of a ViT, of which only the head is trained",
         &t.head, .choices = heads},
        {"max-depth", 0, "M", "largest depth of a new depth head, in metres (default 10)",
         &t.max_depth},
        {"depth-scale", 0, "N", "units of a depth picture per metre (default 1000)",
         &t.depth_scale},
        {"classes", 0, "N", "stage 3: number of classes of the head (default: that of the data)",
         &t.classes},
        {"reduce-labels", 0, "HOW",
         "stage 3, masks: yes: value 0 is ignored, and value 1 is class 0; no (default: "
         "do_reduce_labels of the model's preprocessing file)",
         &t.reduce_labels, .choices = dataset_reductions},
        {"seed", 0, "N", "seed of the order, the crops and new heads (default 0)", &t.seed},
        {"every", 0, "N", "steps between checkpoints (default: a checkpoint every 5 minutes)",
         &t.every},
        {"resume", 0, NULL, "continue from OUT's checkpoint, if it has one", &r->resume},
        {"patience", 0, "N",
         "stop if the mean loss of the last N steps is not below that of the N steps before them",
         &t.patience},
        {"save-grad", 0, NULL, "write the first step's gradients to OUT/grad.safetensors",
         &r->save_grad},
        {"log", 0, "FILE", "file for the log instead of OUT/log.jsonl", &t.log},
        {"hyper", 0, "FILE", ".json file with the settings of the stage that --stage names",
         &t.hyper},
        {NULL},
    };
    r->common.half = "type of the saved weights: f32, f16 or bf16";
    r->common.products = ADAPT_COMPUTE_HELP;
    r->common.more = forms;
    int first, code = cli_parse(&first, self, &r->common, own, argc, argv);
    if (!code && first && first + 1 != argc)
        code = cli_fail(CLI_USAGE, "adapt takes one MODEL; see fovea adapt --help");
    else if (!code && first)
        code = train(r, &t, argv[first]);
    cli_processes processes = r->processes;
    release(r);
    /* An interrupt ends all processes after the same step, so no process may kill the others. */
    cli_processes_end(&processes, code < 128 ? code : CLI_OK);
    return code;
}
