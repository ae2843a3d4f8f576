/* census.c: see census.h. */
#include "tests/plan/census.h"

#include <stdbool.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *const models[] = {
    "vit-ti16",
    "deit-ti",
    "dinov2-s",
    "dinov2-s-reg",
    "dinov3-s",
    "beitv2-b16",
    "ijepa-h14",
    "owlv2-b16",
    "clip-b32",
    "siglip-b16",
    "mavit-t",
    "nalaformer-xt",
    "pola-pvt-t",
    "pola-swin-t",
    "mavit-t-fpn",
    "mavit-t-upernet",
    "mavit-t-retinanet",
    "rf-detr-s",
    "eomt-s",
    "depth-anything-s",
    "vitpose-s",
    "sam-b16",
    "sam2-t",
    "rf-detr-seg-n",
    "lw-detr-t",
    "yolos-ti",
    "mask2former-s",
    "dpt-dinov2-s",
    "dpt-l",
    "swin-t",
    "swin-t-mask2former",
    "mavit-t-mask2former",
    "mavit-t-mask-rcnn",
    "mavit-t-cascade-rcnn",
};

static const struct {
    uint32_t width, height;
} sizes[] = {{224, 224}, {518, 518}, {1036, 1036}, {640, 480}};

static const struct {
    fovea_compute compute;
    fovea_dtype weights, rows;
} types[] = {{FOVEA_COMPUTE_F32, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_BF16, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_INT8, FOVEA_DTYPE_F32, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_F32, FOVEA_DTYPE_F16, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_F32, FOVEA_DTYPE_I8, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_BF16, FOVEA_DTYPE_I8, FOVEA_DTYPE_F32},
             {FOVEA_COMPUTE_F32, FOVEA_DTYPE_F16, FOVEA_DTYPE_F16},
             {FOVEA_COMPUTE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16},
             {FOVEA_COMPUTE_F32, FOVEA_DTYPE_I8, FOVEA_DTYPE_F16}};

enum {
    OUTPUTS = 8
}; /* outputs of a model that are requested: the first ones, which are those of its heads */

const char *census_model(size_t i)
{
    return i < COUNT(models) ? models[i] : NULL;
}

static bool reads_prompts(const fovea_model *m)
{
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(m, &info);
    return info.prompt_masks > 0;
}

/* Looks at the plan that makes masks from the features of a plan. */
static void look_at_segmenter(const fovea_plan *frames, const char *text,
                              const fovea_plan_options *o, census_look *look, void *ctx)
{
    fovea_segmenter *segmenter = NULL;
    fovea_segmenter_options options = FOVEA_SEGMENTER_OPTIONS_INIT;
    options.dry = 1;
    const bool made = fovea_segmenter_create(&segmenter, frames, &options) == FOVEA_OK;
    look(ctx, made ? fovea_segmenter_plan(segmenter) : NULL, text, o);
    fovea_segmenter_free(segmenter);
}

static void look_at_plan(const fovea_model *m, fovea_device *d, const char *text,
                         const fovea_plan_options *o, census_look *look, void *ctx)
{
    fovea_plan *p = NULL;
    const fovea_status status = fovea_plan_create(&p, m, d, o);
    look(ctx, status == FOVEA_OK ? p : NULL, text, o);
    if (status == FOVEA_OK && reads_prompts(m))
        look_at_segmenter(p, text, o, look, ctx);
    if (status == FOVEA_OK)
        fovea_plan_free(p);
}

void census_plans(const fovea_model *m, fovea_device *d, const char *name, census_scope scope,
                  census_look *look, void *ctx)
{
    const char *outputs[OUTPUTS];
    size_t n = 0;
    for (const char *output; n < OUTPUTS && (output = fovea_model_output(m, n)); n++)
        outputs[n] = output;
    for (size_t k = 0; k < COUNT(sizes) && (!scope.sizes || k < scope.sizes); k++)
        for (size_t t = 0; t < COUNT(types); t++) {
            char text[160];
            fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
            o.frame.width = sizes[k].width;
            o.frame.height = sizes[k].height;
            o.compute = types[t].compute;
            o.weights = types[t].weights;
            o.activations = types[t].rows;
            o.outputs = outputs;
            o.n_outputs = n;
            o.dry = 1;
            snprintf(text, sizeof text, "%s %ux%u, compute %d, weights %d, rows %d", name,
                     o.frame.width, o.frame.height, (int)o.compute, (int)o.weights,
                     (int)o.activations);
            if (scope.rows || o.activations == FOVEA_DTYPE_F32)
                look_at_plan(m, d, text, &o, look, ctx);
        }
}
