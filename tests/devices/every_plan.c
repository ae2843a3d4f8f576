/* every_plan.c: see every_plan.h. */
#include "tests/devices/every_plan.h"

#include <stdio.h>
#include <string.h>

#include "models/model.h"
#include "models/prompt_tokens.h"
#include "ops/mech_traits.h"
#include "plan/prompt_plan.h"
#include "plan/sequence_plan.h"

static every_plan_look *look;
static uint32_t planned, failed;

/* A plan may be refused: not every model supports every attention, type and size. */
static void look_at_plan(fovea_plan *p, fovea_status status)
{
    for (uint32_t i = 0; status == FOVEA_OK && i < p->graph.steps; i++)
        if (!p->graph.step[i].dead)
            look(p, &p->graph.step[i]);
    if (status == FOVEA_OK)
        fovea_plan_free(p);
    planned += status == FOVEA_OK;
}

/* ---- models ---- */

static const fovea_plan_options types[] = {
    {.weights = FOVEA_DTYPE_F32},
    {.weights = FOVEA_DTYPE_F16, .activations = FOVEA_DTYPE_F16},
    {.weights = FOVEA_DTYPE_BF16, .activations = FOVEA_DTYPE_BF16},
    {.weights = FOVEA_DTYPE_F16},
    {.weights = FOVEA_DTYPE_I8},
    {.compute = FOVEA_COMPUTE_BF16},
    {.compute = FOVEA_COMPUTE_INT8},
};
enum { TYPES = sizeof types / sizeof *types, FLOAT_TYPES = 2 };
static const uint32_t sizes[] = {224, 384, 448, 518, 1036, 1540};
enum {
    SIZES = sizeof sizes / sizeof *sizes,
    USUAL = 448 /* a multiple of every patch and window */
};

/* Plans prompts for the frames of a plan, if the model reads prompts. */
static void look_at_prompts(const fovea_plan *frames)
{
    const fv_prompts *prompts = frames->model->prompts;
    fovea_segmenter_options o = FOVEA_SEGMENTER_OPTIONS_INIT;
    fovea_plan *p = NULL;
    o.dry = 1;
    if (!prompts)
        return;
    const fovea_status status = fv_prompt_plan(&p, frames, prompts->first + FV_PROMPT_MORE + 8, &o);
    look_at_plan(p, status);
}

static void look_at_model(fovea_device *device, const fovea_model *model, const char *attention,
                          uint32_t size, int type, const fovea_preprocess *preprocess,
                          fovea_pixel_format format)
{
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan *p = NULL;
    const char *names[FV_PROMPT_FEATURES_MOST];
    while (o.n_outputs < FV_PROMPT_FEATURES_MOST &&
           (names[o.n_outputs] = fovea_model_prompt_output(model, o.n_outputs)))
        o.n_outputs++;
    o.outputs = o.n_outputs ? names : NULL;
    o.frame.width = o.frame.height = size;
    o.frame.format = format;
    o.preprocess = preprocess;
    o.attention = attention;
    o.dry = 1;
    o.weights = types[type].weights;
    o.activations = types[type].activations;
    o.compute = types[type].compute;
    const fovea_status status = fovea_plan_create(&p, model, device, &o);
    if (status == FOVEA_OK)
        look_at_prompts(p);
    look_at_plan(p, status);
}

static fovea_model *load(const char *name)
{
    fovea_model *model = NULL;
    char text[64];
    snprintf(text, sizeof text, "synthetic:%s", name);
    if (fovea_model_load(&model, text) != FOVEA_OK) {
        fprintf(stderr, "%s: %s\n", text, fovea_error());
        failed++;
    }
    return model;
}

/* Plans one model of each family and head, in every size, type and format. */
static void look_at_everything(fovea_device *device, const char *name)
{
    fovea_model *model = load(name);
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    if (!model)
        return;
    planned = 0;
    for (int s = 0; s < SIZES; s++)
        for (int t = 0; t < TYPES; t++)
            look_at_model(device, model, NULL, sizes[s], t, NULL, FOVEA_FORMAT_RGB8);
    fovea_model_preprocess(model, &rule);
    for (int f = FOVEA_FORMAT_RGB8; f <= FOVEA_FORMAT_YUYV; f++)
        for (int t = 0; t < FLOAT_TYPES; t++) {
            look_at_model(device, model, NULL, USUAL, t, NULL, (fovea_pixel_format)f);
            for (int r = FOVEA_RESAMPLE_PILLOW; r <= FOVEA_RESAMPLE_FLOAT; r++) {
                rule.resample = (fovea_resample)r;
                if (f != FOVEA_FORMAT_PLANES_F32)
                    look_at_model(device, model, NULL, 640, t, &rule, (fovea_pixel_format)f);
            }
        }
    if (!planned) {
        fprintf(stderr, "%s: %s\n", name, fovea_error());
        failed++;
    }
    fovea_model_free(model);
}

/* Plans the other sizes of a model. */
static void look_at_others(fovea_device *device)
{
    const char *name;
    for (size_t i = 0; (name = fovea_model_synthetic(i)); i++) {
        fovea_model *model = load(name);
        for (int t = 0; model && t < FLOAT_TYPES; t++)
            look_at_model(device, model, NULL, USUAL, t, NULL, FOVEA_FORMAT_RGB8);
        fovea_model_free(model);
    }
}

/* Plans every attention, with the head sizes that models have. */
static void look_at_attentions(fovea_device *device)
{
    static const char *const blocks[] = {"block-768x24x4", "block-768x12x4", "block-768x8x4",
                                         "block-768x6x4"};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        fovea_model *model = load(blocks[i]);
        const bool most = i == 1; /* heads of 64 are common: gates and bfloat16 only here */
        for (int type = 0; model && type < TYPES; type++) {
            const bool rare = types[type].compute == FOVEA_COMPUTE_BF16 ||
                              types[type].activations == FOVEA_DTYPE_BF16;
            if (type >= FLOAT_TYPES && !(rare && most))
                continue;
            for (uint32_t m = 1; m < FV_MECH_COUNT; m++) {
                char gated[64];
                snprintf(gated, sizeof gated, "sla-%s", fv_mech_table[m]->title);
                look_at_model(device, model, fv_mech_table[m]->title, USUAL, type, NULL,
                              FOVEA_FORMAT_RGB8);
                if (most)
                    look_at_model(device, model, gated, USUAL, type, NULL, FOVEA_FORMAT_RGB8);
            }
            look_at_model(device, model, "foveated", USUAL, type, NULL, FOVEA_FORMAT_RGB8);
        }
        fovea_model_free(model);
    }
}

/* ---- sequences ---- */

/* Plans a prompt and a single token of every language model, in every type. */
static void look_at_sequences(fovea_device *device, const char *name)
{
    static const uint32_t rows[] = {256, 1};
    fovea_model *model = load(name);
    fovea_sequence_options o = FOVEA_SEQUENCE_OPTIONS_INIT;
    o.rows = o.context = 1024;
    planned = 0;
    for (int t = 0; model && t < TYPES; t++)
        for (int i = 0; i < 2; i++) {
            const fv_sequence_request r = {.rows = rows[i], .dry = true};
            fovea_plan *p = NULL;
            o.weights = types[t].weights;
            o.compute = types[t].compute;
            if (types[t].activations == FOVEA_DTYPE_F32) {
                const fovea_status status = fv_sequence_plan(&p, model, device, &o, &r, NULL);
                look_at_plan(p, status);
            }
        }
    if (model && !planned) {
        fprintf(stderr, "%s: %s\n", name, fovea_error());
        failed++;
    }
    fovea_model_free(model);
}

/* ---- operations ---- */

static fovea_status dry_operation(fovea_plan *p, const fovea_attention_options *o, bool remembers)
{
    const fv_plan_request r = {.dry = true};
    fv_builder b = fv_builder_of(&p->graph, &p->options);
    fv_attention_name name;
    FV_TRY(fv_attention_parse(&name, o->attention));
    FV_TRY(fv_op_check(o, &name, remembers));
    FV_TRY(fv_model_blank(&p->model));
    FV_TRY(FV_MEM_NEW(&p->graph.wanted, FV_MEM_PLAN, "the plan's outputs"));
    p->graph.wanted[0] = (fv_wanted){.name = "out", .value = FV_NO_VALUE};
    p->graph.n_wanted = 1;
    p->options.any_type = true;
    FV_TRY(fv_op_attention(&b, o, &name, remembers));
    p->info.tokens = o->rows;
    return fv_plan_finish(p, &r);
}

/* Plans a causal attention. `remembers` means that the attention has a state, which softmax has,
 * too. */
static void look_at_causal(fovea_device *device, const char *attention, uint32_t dim, uint32_t rows,
                           fovea_form form, bool remembers)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = attention;
    o.rows = rows;
    o.keys = remembers ? 4096 : rows;
    o.heads = 8;
    o.head_dim = o.value_dim = dim;
    o.causal = 1;
    o.form = form;
    o.normalise = strcmp(attention, "softmax") == 0 || strcmp(attention, "linear") == 0;
    fovea_plan *p;
    fovea_status status = fv_plan_alloc(&p, device, NULL);
    if (status == FOVEA_OK && (status = dry_operation(p, &o, remembers)) != FOVEA_OK)
        fv_plan_free(p);
    look_at_plan(p, status);
}

static void look_at_operations(fovea_device *device)
{
    static const char *const names[] = {"linear", "retention", "gla", "delta-rule",
                                        "gated-delta-rule"};
    static const char *const maps[] = {"", ":elu1", ":silu", ":nala", ":nala-paper"};
    static const uint32_t dims[] = {32, 64, 96, 128};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        look_at_causal(device, "softmax", dims[d], 4096, FOVEA_FORM_AUTO, false);
        look_at_causal(device, "softmax", dims[d], 256, FOVEA_FORM_AUTO, true);
        look_at_causal(device, "softmax", dims[d], 1, FOVEA_FORM_AUTO, true);
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            for (size_t m = 0; m < sizeof maps / sizeof *maps; m++) {
                char attention[64];
                snprintf(attention, sizeof attention, "%s%s", names[n], maps[m]);
                look_at_causal(device, attention, dims[d], 1, FOVEA_FORM_RECURRENT, false);
                look_at_causal(device, attention, dims[d], 4096, FOVEA_FORM_CHUNK, false);
            }
    }
}

uint32_t every_plan(fovea_device *device, every_plan_look *each)
{
    static const char *const models[] = {"vit-b16",
                                         "dinov2-s",
                                         "dinov3-s",
                                         "beitv2-b16",
                                         "clip-b16",
                                         "siglip-b16",
                                         "owlv2-b16",
                                         "mavit-t",
                                         "mavit-t-fpn",
                                         "mavit-t-upernet",
                                         "mavit-t-retinanet",
                                         "nalaformer-t",
                                         "pola-pvt-t",
                                         "pola-swin-t",
                                         "sam-b16",
                                         "sam2-t",
                                         "depth-anything-s",
                                         "vitpose-s",
                                         "vitpose-s-simple",
                                         "eomt-s",
                                         "eomt-dinov3-s",
                                         "rf-detr-n",
                                         "rf-detr-b",
                                         "rf-detr-seg-n",
                                         "lw-detr-t",
                                         "yolos-s",
                                         "mask2former-s",
                                         "dpt-dinov2-s",
                                         "dpt-l",
                                         "swin-t",
                                         "swin-t-mask2former",
                                         "mavit-t-mask2former",
                                         "mavit-t-mask-rcnn",
                                         "mavit-t-cascade-rcnn"};
    static const char *const languages[] = {"transformer-340m",    "retnet-340m",
                                            "sla-gla-340m",        "delta-net-340m",
                                            "gated-deltanet-340m", "sla-gated-deltanet-340m"};
    look = each;
    failed = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        look_at_everything(device, models[i]);
    look_at_others(device);
    look_at_attentions(device);
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        look_at_sequences(device, languages[i]);
    look_at_operations(device);
    return failed;
}
