/* session.c: opens a model on a device, as the shared options specify. */
#include <stdlib.h>
#include <string.h>

#include <fovea/tuning.h>

#include "cli/common/cli.h"
#include "cli/common/hub.h"

/* Converts a status to an exit code. FOVEA_EINVAL about a device is an error in the command line,
 * because the user typed the device's name. */
static int check_device(fovea_status status)
{
    return status == FOVEA_EINVAL ? cli_fail(CLI_USAGE, "%s", fovea_error()) : cli_check(status);
}

int cli_open_device(fovea_device **out, const cli_settings *s)
{
    return check_device(fovea_device_open(out, s->device, &s->device_options));
}

static int load_model(fovea_model **out, const char *path, const fovea_model_options *options)
{
    char *folder;
    CLI_TRY(hub_resolve(&folder, path));
    const fovea_status status = fovea_model_load_with(out, folder, options);
    free(folder);
    /* An unknown model is bad input, not a missing feature of this machine. */
    return status == FOVEA_ENOTSUP ? cli_fail(CLI_INPUT, "%s", fovea_error()) : cli_check(status);
}

int cli_load_model(fovea_model **out, const char *path, const char *prefix,
                   const fovea_linear_attention_params *linear)
{
    fovea_model_options options = FOVEA_MODEL_OPTIONS_INIT;
    options.prefix = prefix;
    if (linear)
        options.linear = *linear;
    return load_model(out, path, &options);
}

int cli_load_student(fovea_model **out, const char *folder)
{
    fovea_model_options options = FOVEA_MODEL_OPTIONS_INIT;
    options.weights_cache = "";
    return load_model(out, folder, &options);
}

/* Sets the size of frames to the size that the model sees. */
static void set_frame(fovea_plan_options *out, const cli_settings *s, const fovea_model *model)
{
    const fovea_preprocess p = cli_preprocess(s, model);
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &info);
    cli_picture_size(&out->frame.width, &out->frame.height, &p, &info);
}

/* Opens the device on which the model is fastest at --size, according to wisdom. */
static int open_best(cli_session *s)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.attention = s->settings.attention;
    options.weights = s->settings.dtype;
    options.compute = s->settings.compute;
    set_frame(&options, &s->settings, s->model);
    return check_device(
        fovea_device_open_best(&s->device, s->model, &options, &s->settings.device_options));
}

static int open_session(cli_session *out, const cli_common *common, const char *model)
{
    CLI_TRY(cli_settle(&out->settings, common));
    const bool best = model && strcmp(out->settings.device, "auto") == 0;
    if (!best)
        CLI_TRY(cli_open_device(&out->device, &out->settings));
    if (!model)
        return CLI_OK;
    CLI_TRY(cli_load_model(&out->model, model, common->prefix, &out->settings.linear));
    CLI_TRY(cli_check(fovea_model_describe(out->model, &out->info)));
    cli_images_on_white(cli_preprocess(&out->settings, out->model).alpha == FOVEA_ALPHA_WHITE);
    return best ? open_best(out) : CLI_OK;
}

int cli_open(cli_session *out, const cli_common *common, const char *model)
{
    *out = (cli_session){.info = FOVEA_MODEL_INFO_INIT};
    const int code = open_session(out, common, model);
    if (code)
        cli_close(out);
    return code;
}

int cli_settle_compute(fovea_compute *out, const fovea_model *model, fovea_device *device,
                       const fovea_plan_options *options)
{
    fovea_plan_options dry = *options;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan *plan;
    *out = options->compute;
    if (*out != FOVEA_COMPUTE_AUTO)
        return CLI_OK;
    dry.dry = 1;
    CLI_TRY(cli_check(fovea_plan_create(&plan, model, device, &dry)));
    fovea_plan_query(plan, &info);
    fovea_plan_free(plan);
    *out = info.compute;
    return CLI_OK;
}

/* Returns whether plans tune and there is a file for the measurements. */
static bool keeps_wisdom(const cli_session *s)
{
    char path[4096];
    const char *rigor = getenv("FOVEA_RIGOR");
    bool tunes = s->settings.rigor > FOVEA_RIGOR_ESTIMATE;
    if (s->settings.rigor == FOVEA_RIGOR_DEFAULT && rigor)
        tunes = strcmp(rigor, "measure") == 0 || strcmp(rigor, "exhaustive") == 0;
    return tunes && (fovea_wisdom_path(path, sizeof path) != FOVEA_OK || *path);
}

void cli_close(cli_session *s)
{
    if (s->device && keeps_wisdom(s))
        cli_check(fovea_wisdom_save(NULL));
    fovea_model_free(s->model);
    fovea_device_close(s->device);
    memset(s, 0, sizeof *s);
}

const char *cli_output_name(const fovea_model *model, const char *name)
{
    const char *own;
    for (size_t i = 0; (own = fovea_model_output(model, i)); i++)
        if (strcmp(own, name) == 0)
            break;
    return own;
}

const char *cli_segments_output(const fovea_model *model)
{
    const char *linear = cli_output_name(model, "segmentation");
    return linear ? linear : cli_output_name(model, "seg_logits");
}

const char *cli_attention(const cli_settings *s, const fovea_model_info *info)
{
    return s->attention ? s->attention : info->attention;
}

fovea_preprocess cli_preprocess(const cli_settings *s, const fovea_model *model)
{
    fovea_preprocess p = FOVEA_PREPROCESS_INIT;
    fovea_model_preprocess(model, &p);
    if (s->width)
        fovea_preprocess_resize(&p, s->width, s->height);
    if (s->backend >= 0)
        fovea_preprocess_resample(&p, (fovea_resample)s->backend);
    return p;
}

void cli_picture_size(uint32_t *width, uint32_t *height, const fovea_preprocess *p,
                      const fovea_model_info *info)
{
    *width = info->native_width;
    *height = info->native_height;
    if (p->resize == FOVEA_RESIZE_EXACT || p->resize == FOVEA_RESIZE_FIT ||
        p->resize == FOVEA_RESIZE_BOX) {
        *width = p->resize_width;
        *height = p->resize_height;
    } else if (p->resize == FOVEA_RESIZE_SHORT && p->short_edge) {
        *width = *height = p->short_edge;
    }
    if (p->crop_width)
        *width = p->crop_width;
    if (p->crop_height)
        *height = p->crop_height;
}

void cli_plan_options(fovea_plan_options *out, const cli_settings *s, const fovea_device *device,
                      const fovea_model *model)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    fovea_device_describe(device, &info);
    *out = (fovea_plan_options)FOVEA_PLAN_OPTIONS_INIT;
    out->attention = s->attention;
    out->schedule = s->schedule;
    out->chunk = s->chunk;
    out->memory_limit = s->memory_limit;
    out->rigor = s->rigor;
    out->compute = s->compute;
    out->weights = s->dtype;
    if (strcmp(info.id, "cpu") != 0 && s->dtype != FOVEA_DTYPE_I8)
        out->activations = s->dtype;
    if (model)
        set_frame(out, s, model);
}
