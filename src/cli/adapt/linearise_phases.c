/* linearise_phases.c: runs the trainings of a linearisation, one after the other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/linearise.h"

/* Measured on a ViT-S/14 with trained weights; see docs/training.md. For foveated attention, each
 * attention is trained by itself, alternately at two sizes, because training at one size loses
 * accuracy at the other. Other feature maps start further from softmax. So they are trained first
 * with small pictures, and then as a whole model. */
static const struct recipe {
    fovea_stage stage;
    size_t size;
    uint32_t batch;
    double lr, share; /* share: of the training time */
} foveated[] = {{FOVEA_STAGE_ATTENTION, 1, 8, 5e-5, 0.4},
                {FOVEA_STAGE_ATTENTION, 0, 16, 3e-5, 0.15},
                {FOVEA_STAGE_ATTENTION, 1, 8, 2e-5, 0.3},
                {FOVEA_STAGE_ATTENTION, 0, 16, 1e-5, 0.15}},
  mapped[] = {{FOVEA_STAGE_ATTENTION, 0, 16, 1e-3, 0.4},
              {FOVEA_STAGE_FEATURES, 0, 16, 1e-4, 0.4},
              {FOVEA_STAGE_FEATURES, 1, 8, 3e-5, 0.2}};

enum { WARM_UP = 20, JUDGED = 4 };
#define JUDGE_SHARE 0.2 /* share of a phase's time that is spent on evaluations */
/* largest share of the budget for the report, which runs REPORT_FRAMES frames */
#define REPORT_SHARE 0.1
enum { REPORT_FRAMES = 8 };

/* ---- one phase as a training ---- */

static char *folder_of(const linearise_run *r, size_t phase)
{
    return cli_text("%s/phase-%zu", r->output, phase + 1);
}

static void set_options(fovea_trainer_options *o, const linearise_run *r, const linearise_phase *p)
{
    *o = (fovea_trainer_options)FOVEA_TRAINER_OPTIONS_INIT;
    o->stage = p->stage;
    o->attention = r->attention;
    o->prefix = r->common.prefix;
    o->linear = r->settings.linear;
    o->frame.width = r->validation.set[p->size].width;
    o->frame.height = r->validation.set[p->size].height;
    o->loss = FOVEA_LOSS_RELATIVE;
    o->lr = (float)p->lr;
    o->schedule = FOVEA_LR_COSINE;
    o->steps = p->steps;
    o->warm_up = p->steps > 4 * WARM_UP ? WARM_UP : p->steps / 4;
    o->weight_decay = 0;
    o->clip = 1;
    o->memory_limit = r->settings.memory_limit;
    o->compute = r->settings.compute;
}

static void begin_phase(adapt_run *a, linearise_run *r, size_t phase, char *folder, char *from)
{
    const linearise_phase *p = &r->phase[phase];
    *a = (adapt_run){.common = r->common,
                     .settings = r->settings,
                     .model = from,
                     .teacher = r->model,
                     .output = folder,
                     .resume = true,
                     .data = r->data,
                     .policy = {.seed = r->seed + phase,
                                .width = r->validation.set[p->size].width,
                                .height = r->validation.set[p->size].height,
                                .crop = ADAPT_RANDOM,
                                .least = 0.5,
                                .most = 1,
                                .flip = 0.5,
                                .jitter = 0.2,
                                .filter = r->validation.filter},
                     .batch = p->batch,
                     .steps = p->steps,
                     .processes = {.count = 1},
                     .device = r->device,
                     .validation = &r->validation,
                     .judge_every = p->steps > JUDGED ? p->steps / JUDGED : 1,
                     .target = r->target,
                     .part = true};
    set_options(&a->options, r, p);
    a->log_path = cli_text("%s/log.jsonl", folder);
    a->state_path = cli_text("%s/checkpoint", folder);
    a->note = adapt_note(a);
}

/* ---- the length of phases ---- */

/* Measures the seconds per picture with the second picture, because the first touches memory for
 * the first time. */
static int measure(double *seconds, linearise_run *r, size_t phase)
{
    fovea_trainer_options options;
    fovea_trainer *trainer;
    const linearise_phase *p = &r->phase[phase];
    const fovea_frame frame = {.pixels = {r->validation.set[p->size].rgb[0]}};
    set_options(&options, r, p);
    options.steps = 1;
    options.warm_up = 0;
    CLI_TRY(cli_check(fovea_trainer_create(&trainer, r->model, NULL, r->device, &options)));
    int code = cli_check(fovea_trainer_add(trainer, &frame, NULL));
    const double begin = cli_seconds();
    CLI_THEN(code, cli_check(fovea_trainer_add(trainer, &frame, NULL)));
    *seconds = cli_seconds() - begin;
    fovea_trainer_free(trainer);
    return code;
}

void linearise_plan(linearise_run *r)
{
    const bool fovea = strncmp(r->form[0].name, "foveated", strlen("foveated")) == 0;
    const struct recipe *recipe = fovea ? foveated : mapped;
    r->phases = fovea ? sizeof foveated / sizeof *foveated : sizeof mapped / sizeof *mapped;
    for (size_t i = 0; i < r->phases; i++) {
        linearise_phase *p = &r->phase[i];
        *p = (linearise_phase){.stage = recipe[i].stage,
                               .size = recipe[i].size < r->validation.sizes ? recipe[i].size : 0,
                               .batch = r->batch ? r->batch : recipe[i].batch,
                               .steps = r->steps,
                               .lr = recipe[i].lr,
                               .share = recipe[i].share};
        if (p->batch > r->data.n)
            p->batch = (uint32_t)r->data.n;
    }
}

/* Sets the number of steps of a phase that is about to begin. The number depends on the current
 * speed and the phase's share of the remaining time, without the time reserved for the report. */
static int settle_length(linearise_run *r, size_t phase)
{
    linearise_phase *p = &r->phase[phase];
    double rest = 0, each;
    if (p->steps)
        return CLI_OK;
    for (size_t i = phase; i < r->phases; i++)
        rest += r->phase[i].share;
    const double report = fmin(REPORT_FRAMES * r->softmax.seconds, REPORT_SHARE * r->budget);
    const double left = fmax(linearise_until(r, 1) - report - cli_seconds(), 0);
    p->seconds = left * p->share / rest;
    CLI_TRY(measure(&each, r, phase));
    p->steps = (uint32_t)fmax(1, p->seconds * (1 - JUDGE_SHARE) / (each * p->batch));
    return linearise_record(r);
}

/* ---- training ---- */

static int train(linearise_run *r, size_t phase)
{
    adapt_run a;
    linearise_phase *p = &r->phase[phase];
    const double begin = cli_seconds();
    CLI_TRY(settle_length(r, phase));
    char *folder = folder_of(r, phase);
    char *from = phase ? folder_of(r, phase - 1) : cli_text("%s", r->model);
    begin_phase(&a, r, phase, folder, from);
    a.deadline = r->steps ? 0 : begin + p->seconds;
    cli_tell("phase %zu of %zu: stage %d at %ux%u, %u steps of %u pictures", phase + 1, r->phases,
             (int)p->stage, a.policy.width, a.policy.height, p->steps, p->batch);
    int code = adapt_train(&a);
    r->stopped = a.stopped;
    if (a.late)
        cli_tell("phase %zu: stopped at its time limit after %llu of %u steps", phase + 1,
                 (unsigned long long)a.info.step, p->steps);
    if (!code) {
        memcpy(p->begun, a.judged[0].score, sizeof p->begun);
        memcpy(p->ended, a.judged[a.best].score, sizeof p->ended);
        p->done = true;
        code = linearise_record(r);
    }
    adapt_release(&a);
    free(folder);
    free(from);
    return code;
}

static int copy_file(const char *from, const char *to, bool optional)
{
    uint8_t part[1 << 16];
    cli_output out;
    FILE *f = fopen(from, "rb");
    if (!f)
        return optional ? CLI_OK : cli_fail(CLI_INPUT, "%s: cannot be read", from);
    int code = cli_output_begin(&out, to);
    for (size_t n; !code && (n = fread(part, 1, sizeof part, f)) > 0;)
        fwrite(part, 1, n, out.file); /* a failure is reported when the file is closed */
    CLI_THEN(code, cli_output_end(&out, ferror(f) ? "the source file could not be read completely"
                                                  : NULL));
    fclose(f);
    return code;
}

/* Copies the best model of the last phase to OUT. config.json is copied last, because it makes the
 * folder a model. */
static int publish(const linearise_run *r)
{
    static const char *const parts[] = {"processor_config.json", "preprocessor_config.json",
                                        "open_clip_config.json", "model.safetensors",
                                        "config.json"};
    const size_t optional = 3;
    char *folder = folder_of(r, r->phases - 1);
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !code; i++) {
        char *from = cli_text("%s/%s", folder, parts[i]),
             *to = cli_text("%s/%s", r->output, parts[i]);
        code = copy_file(from, to, i < optional);
        free(from);
        free(to);
    }
    free(folder);
    return code;
}

int linearise_train(linearise_run *r)
{
    for (size_t i = 0; i < r->phases; i++)
        if (!r->phase[i].done)
            CLI_TRY(train(r, i));
    memcpy(r->untrained, r->phase[0].begun, sizeof r->untrained);
    memcpy(r->score, r->phase[r->phases - 1].ended, sizeof r->score);
    return publish(r);
}
