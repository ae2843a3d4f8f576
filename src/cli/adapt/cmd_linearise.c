/* cmd_linearise.c: `fovea linearise`: converts a softmax checkpoint to attention that is linear in
 * tokens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/linearise.h"

/* The unparsed arguments of options; NULL if not given. */
typedef struct linearise_texts {
    const char *budget, *target, *speedup, *steps, *batch, *held, *seed, *sizes;
} linearise_texts;

/* Number of pictures for the evaluation at the trained size, and at two larger sizes, which take
 * longer. */
static const size_t judging[VALIDATION_SIZES] = {50, 12, 4};
/* share of the budget for computing the teacher's features of held-out pictures */
#define HOLD_SHARE 0.08
enum { HELD_SHARE = 10 }; /* one in HELD_SHARE pictures is held out, at most judging[0] */

/* Sides of the evaluated sizes relative to the trained one: 518 and 1036 pixels for 224. */
static const double larger[VALIDATION_SIZES] = {1, 2.3125, 4.625};

/* The forms of attention that replace softmax unless --attention names others; see
 * docs/training.md. */
static const char forms[] = "foveated,foveated:6,foveated:8";

/* Parses a duration such as "60min", "2h" or "90s". */
static int settle_budget(double *out, const char *text)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1}, {"min", 60}, {"h", 3600}};
    char *end;
    *out = 3600;
    if (!text)
        return CLI_OK;
    const double v = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end > text && strcmp(end, units[i].name) == 0 && v > 0 && v * units[i].seconds < 1e8) {
            *out = v * units[i].seconds;
            return CLI_OK;
        }
    return cli_fail(CLI_USAGE, "--budget %s: it must be a time such as 90s, 60min or 8h", text);
}

static int settle_numbers(linearise_run *r, const linearise_texts *t)
{
    double seed = 0;
    r->speedup = 2;
    CLI_TRY(settle_budget(&r->budget, t->budget));
    CLI_TRY(cli_real(&r->target, "target", t->target, 0, 1));
    CLI_TRY(cli_real(&r->speedup, "speedup", t->speedup, 1, 1000));
    CLI_TRY(cli_number(&r->steps, "steps", t->steps, 1, INT32_MAX));
    CLI_TRY(cli_number(&r->batch, "batch", t->batch, 1, 1u << 20));
    CLI_TRY(cli_number(&r->held, "held-out", t->held, 1, INT32_MAX));
    CLI_TRY(cli_real(&seed, "seed", t->seed, 0, 0x1p53));
    r->seed = (uint64_t)seed;
    return CLI_OK;
}

/* ---- data ---- */

static int open_data(linearise_run *r)
{
    dataset held = {NULL};
    CLI_TRY(dataset_open(&r->data, r->data_path));
    int code;
    if (r->val_path) {
        code = dataset_open(&held, r->val_path);
        CLI_THEN(code, adapt_leave_out(&r->data, &held));
    } else {
        const size_t share = (r->data.n + HELD_SHARE - 1) / HELD_SHARE;
        const size_t usual = share < judging[0] ? share : judging[0];
        code = adapt_hold_out(&held, &r->data, r->held ? r->held : usual);
    }
    if (code) {
        dataset_close(&held);
        return code;
    }
    return adapt_validation_begin(&r->validation, r->device, r->model, r->common.prefix,
                                  &r->settings.linear, &held);
}

static int check_model(linearise_run *r)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(r->validation.teacher, &info);
    if (strcmp(info.attention, "softmax") != 0)
        return cli_fail(CLI_USAGE, "%s is a model with %s; linearise needs a softmax model",
                        r->model, info.attention);
    if (!cli_output_name(r->validation.teacher, "last_hidden_state"))
        return cli_fail(CLI_USAGE,
                        "%s is a model of type %s; linearise converts ViT, DeiT, DINOv2, DINOv3, "
                        "CLIP and SigLIP, and a head is put on the result by fovea adapt --stage 3",
                        r->model, info.type);
    r->blocks = info.depth;
    r->chosen = cli_alloc(info.depth, sizeof *r->chosen);
    r->forced = cli_alloc(info.depth, sizeof *r->forced);
    return linearise_read_forms(r);
}

double linearise_until(const linearise_run *r, double share)
{
    return r->steps ? INFINITY : r->begun + share * r->budget;
}

/* Sets the sizes of the evaluation: the trained size and two larger ones, or those of --size. A
 * resumed run uses the same number of pictures as the earlier run. */
static int add_sizes(linearise_run *r, const char *text)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    const cli_settings none = {NULL};
    const fovea_preprocess rule = cli_preprocess(&none, r->validation.teacher);
    uint32_t width, height;
    char **list;
    size_t items, before[VALIDATION_SIZES];
    double spent;
    linearise_recall_sets(before, &spent, r);
    r->begun -= spent;
    fovea_model_describe(r->validation.teacher, &info);
    cli_picture_size(&width, &height, &rule, &info);
    CLI_TRY(cli_list(&list, &items, "size", text));
    int code =
        items > VALIDATION_SIZES
            ? cli_fail(CLI_USAGE,
                       "--size %s: at most three sizes are allowed; the last is the target", text)
            : CLI_OK;
    const size_t sizes = text ? items : VALIDATION_SIZES;
    for (size_t s = 0; s < sizes && !code; s++) {
        uint32_t w = (uint32_t)(width * larger[s]) / info.patch * info.patch;
        uint32_t h = (uint32_t)(height * larger[s]) / info.patch * info.patch;
        if (text)
            code = cli_size(&w, &h, list[s]);
        const double share = HOLD_SHARE * (double)(s + 1) / (double)sizes;
        CLI_THEN(code,
                 adapt_validation_add(&r->validation, w, h, before[s] ? before[s] : judging[s],
                                      before[s] ? INFINITY : linearise_until(r, share)));
    }
    cli_list_free(list);
    return code;
}

/* ---- the command ---- */

static int settle(linearise_run *r, const linearise_texts *t)
{
    const adapt_run place = {.model = r->model, .output = r->output};
    if (!r->output || !r->data_path)
        return cli_fail(CLI_USAGE,
                        "linearise needs --data PHOTOS and -o OUT; see fovea linearise --help");
    CLI_TRY(settle_numbers(r, t));
    CLI_TRY(adapt_output_check(&place));
    CLI_TRY(linearise_check_output(r));
    if (!r->common.device)
        r->common.device = "cpu"; /* training supports only the CPU */
    r->names = r->common.attention ? r->common.attention : forms;
    r->common.attention = NULL; /* is a list of forms, not one attention of a model */
    CLI_TRY(cli_settle(&r->settings, &r->common));
    CLI_TRY(adapt_check_compute("linearise", &r->settings));
    CLI_TRY(cli_open_device(&r->device, &r->settings));
    CLI_TRY(open_data(r));
    CLI_TRY(check_model(r));
    cli_tell("training uses %zu pictures; %zu others are held out for evaluation", r->data.n,
             r->validation.data.n);
    return add_sizes(r, t->sizes);
}

static int linearise(linearise_run *r, const linearise_texts *t, const char *model)
{
    bool found;
    r->model = model;
    r->begun = cli_seconds();
    CLI_TRY(settle(r, t));
    CLI_TRY(linearise_recall(r, &found));
    if (!found) {
        CLI_TRY(adapt_make_folder(r->output));
        CLI_TRY(linearise_survey(r));
        linearise_plan(r);
        CLI_TRY(linearise_record(r));
    }
    for (size_t f = 0; f < r->forms; f++)
        cli_tell("%s in every block: %s at %u px", r->form[f].name,
                 cli_duration(r->form[f].seconds).text,
                 r->validation.set[r->validation.sizes - 1].width);
    cli_tell("chosen attention: %s", r->attention);
    CLI_TRY(linearise_train(r));
    return r->stopped ? r->stopped : linearise_report(r);
}

static void release(linearise_run *r)
{
    adapt_validation_end(&r->validation);
    dataset_close(&r->data);
    fovea_device_close(r->device);
    for (size_t f = 0; f < r->forms; f++) {
        free(r->form[f].name);
        free(r->form[f].lost);
    }
    free(r->forced);
    free(r->chosen);
    free(r->attention);
    free(r);
}

static const char more[] =
    "\n--attention lists the attentions that may replace softmax; the default is\n"
    "foveated,foveated:6,foveated:8. Held-out pictures are chosen by a hash of their bytes and\n"
    "are not trained on. After a stop or a kill, the same command with --resume continues and\n"
    "gives the same bits.\n";

int cli_linearise(const cli_command *self, int argc, char **argv)
{
    linearise_run *r = cli_alloc(1, sizeof *r);
    linearise_texts t = {NULL};
    const cli_option own[] = {
        {"data", 0, "PHOTOS", "pictures for training, some of which are held out for evaluation",
         &r->data_path},
        {"output", 'o', "OUT", "folder for the model, report.md, features of held-out pictures",
         &r->output},
        {"val", 0, "PATH", "pictures for evaluation, instead of some of --data", &r->val_path},
        {"held-out", 0, "N",
         "number of pictures of --data that are held out (default: a tenth, at most 50)", &t.held},
        {"budget", 0, "TIME", "time limit of the whole command (default 60min)", &t.budget},
        {"steps", 0, "N", "steps of each phase, in place of --budget", &t.steps},
        {"target", 0, "X", "end training when the cosine of the patch features reaches X",
         &t.target},
        {"keep-softmax", 0, "WHICH",
         "blocks that keep softmax: auto: the blocks that lose most without it, as far as "
         "--speedup allows; N: the N blocks that lose most; or a list such as 0,1,8..11 (default "
         "auto)",
         &r->keep},
        {"speedup", 0, "X",
         "lowest speed-up over softmax at the largest size, for --keep-softmax auto (default 2)",
         &t.speedup},
        {"size", 0, "LIST",
         "up to three sizes for the evaluation (default: the trained size, and 2.3 and 4.6 times "
         "this size)",
         &t.sizes},
        {"batch", 0, "N", "pictures per step", &t.batch},
        {"seed", 0, "N", "seed of the order and the crops (default 0)", &t.seed},
        {"resume", 0, NULL, "continue an earlier run", &r->resume},
        {NULL},
    };
    r->common.products = ADAPT_COMPUTE_HELP;
    r->common.more = more;
    int first, code = cli_parse(&first, self, &r->common, own, argc, argv);
    r->keep = r->keep ? r->keep : "auto";
    if (!code && first && first + 1 != argc)
        code = cli_fail(CLI_USAGE, "linearise takes one MODEL; see fovea linearise --help");
    else if (!code && first)
        code = linearise(r, &t, argv[first]);
    release(r);
    return code;
}
