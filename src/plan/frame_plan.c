/* frame_plan.c: makes a plan of a whole model for frames of one size and format. */
#include <string.h>

#include "base/abi.h"
#include "base/mem.h"
#include "checkpoint/source.h"
#include "device/frame_format.h"
#include "graph/untrained.h"
#include "models/model.h"
#include "ops/box_crop.h"
#include "plan/frame_plan.h"
#include "plan/result_scratch.h"

/* Maximum pixels per side and maximum tokens: row strides, row numbers and plane sizes must fit in
 * 32 bits. */
#define MAX_SIDE 65535u
#define MAX_TOKENS (1u << 28)
#define MAX_COUNT 256u

fovea_status fv_frame_check(const fovea_plan_options *o)
{
    if (o->frame.width == 0 || o->frame.height == 0 || o->frame.width > MAX_SIDE ||
        o->frame.height > MAX_SIDE)
        return fv_fail(FOVEA_EINVAL, "the frame has %u x %u pixels; sides must be from 1 to %u",
                       o->frame.width, o->frame.height, MAX_SIDE);
    if (o->frame.count > MAX_COUNT)
        return fv_fail(FOVEA_EINVAL, "frame.count is %u; it must be at most %u", o->frame.count,
                       MAX_COUNT);
    FV_TRY(fv_known("frame format", (int)o->frame.format, FOVEA_FORMAT_YUYV));
    if ((unsigned)o->yuv > FOVEA_YUV_2020_FULL)
        return fv_fail(FOVEA_EINVAL, "yuv %d is unknown; cameras usually deliver FOVEA_YUV_601",
                       (int)o->yuv);
    FV_TRY(fv_known("schedule", (int)o->schedule, FOVEA_SCHEDULE_STEPWISE));
    FV_TRY(fv_known("weights", (int)o->weights, FOVEA_DTYPE_I8));
    FV_TRY(fv_dtype_known("activations", o->activations));
    FV_TRY(fv_known("compute", (int)o->compute, FOVEA_COMPUTE_AUTO));
    if (o->compute != FOVEA_COMPUTE_F32 && o->compute != FOVEA_COMPUTE_AUTO &&
        ((o->weights != FOVEA_DTYPE_F32 && o->weights != FOVEA_DTYPE_I8) ||
         o->activations != FOVEA_DTYPE_F32))
        return fv_fail(FOVEA_EINVAL,
                       "`compute` in 16 or 8 bits decides how weights and activations are stored; "
                       "leave their types at FOVEA_DTYPE_F32, or set weights to FOVEA_DTYPE_I8");
    FV_TRY(fv_known("on_device_lost", (int)o->on_device_lost, FOVEA_DEVICE_LOST_CPU));
    if (!(o->device_timeout_seconds >= 0 && o->device_timeout_seconds <= 1e6))
        return fv_fail(FOVEA_EINVAL,
                       "device_timeout_seconds is %g; use 0 for the default of 10 s, or up to 1e6",
                       o->device_timeout_seconds);
    return FOVEA_OK;
}

static fovea_status want(fovea_plan *p, const fovea_plan_options *o)
{
    const char *const *names = o->outputs;
    size_t n = o->n_outputs;
    const char *first = fovea_model_output(p->model, 0);
    if (!names || n == 0) {
        names = &first;
        n = 1;
    }
    FV_TRY(FV_MEM_ARRAY(&p->graph.wanted, n, FV_MEM_PLAN, "the plan's outputs"));
    for (size_t i = 0; i < n; i++) {
        const char *known = NULL;
        for (size_t k = 0; (known = fovea_model_output(p->model, k)) != NULL; k++)
            if (strcmp(known, names[i]) == 0)
                break;
        if (!known)
            return fv_fail(
                FOVEA_EINVAL,
                "output '%s': a %s model has no output of that name; its main output is %s",
                names[i], p->model->info.type, first);
        if (fv_graph_wanted(&p->graph, known))
            return fv_fail(FOVEA_EINVAL, "output '%s' is listed twice; list it once", known);
        p->graph.wanted[p->graph.n_wanted++] = (fv_wanted){.name = known, .value = FV_NO_VALUE};
    }
    return FOVEA_OK;
}

/* Declares the planes of the caller's frame as the first values of the plan. */
static void emit_frame(fovea_plan *p, fv_builder *b, const fovea_plan_options *o)
{
    static const uint32_t flags[] = {
        [FOVEA_FORMAT_RGB8] = 0,
        [FOVEA_FORMAT_BGR8] = FV_FLAG_BGR,
        [FOVEA_FORMAT_GRAY8] = FV_FLAG_GRAY,
        [FOVEA_FORMAT_PLANES_F32] = FV_FLAG_PLANAR,
        [FOVEA_FORMAT_NV12] = FV_FLAG_NV12,
        [FOVEA_FORMAT_YUYV] = FV_FLAG_YUYV,
    };
    const uint32_t width = o->frame.width, height = o->frame.height;
    fv_plane_shape plane[FV_FRAME_PLANES];
    b->frame_flags = flags[o->frame.format];
    b->yuv = b->frame_flags & FV_FLAG_YUV ? (uint32_t)o->yuv : 0;
    if (b->frame_flags & FV_FLAG_PLANAR)
        b->frame_plane = width * height;
    p->frame.format = o->frame.format;
    p->frame.planes = fv_frame_planes(plane, o->frame.format, width, height);
    b->frame = fv_emit_value(b, FV_VALUE_INPUT, plane[0].rows, plane[0].cols, plane[0].type);
    if (p->frame.planes > 1)
        b->chroma = fv_emit_value(b, FV_VALUE_INPUT, plane[1].rows, plane[1].cols, plane[1].type);
}

/* Emits the steps that make a picture of the plan's size from the caller's frame. */
static void emit_picture(fovea_plan *p, fv_builder *b, const fovea_plan_options *o)
{
    emit_frame(p, b, o);
    const uint32_t channels = b->frame_flags & FV_FLAG_GRAY ? 1 : 3;
    const enum fv_type type = p->frame.picture.floats ? FV_F32 : FV_U8;
    uint32_t from = o->frame.width;
    for (uint32_t i = 0; i < p->frame.picture.resizes; i++) {
        const fv_picture_resize *r = &p->frame.picture.resize[i];
        const uint32_t row = r->width * channels;
        fv_view wide = fv_emit_value(b, FV_VALUE_ROWS, r->in_rows, row, type);
        fv_view done = fv_emit_value(b, FV_VALUE_ROWS, r->height, row, type);
        fv_emit_resize(b, FV_OP_RESIZE_X, r, b->frame, from, channels, wide);
        fv_emit_resize(b, FV_OP_RESIZE_Y, r, wide, r->width, channels, done);
        if (b->status != FOVEA_OK)
            return;
        b->graph->value[wide.id].staging = b->graph->value[done.id].staging = 1;
        b->frame = done;
        b->frame_flags &= ~(uint32_t)FV_FLAG_YUV;
        from = r->width;
    }
}

/* Plans the crops of FOVEA_RESIZE_BOX: frames of any format are cropped to R, G, B before the steps
 * run. */
static fovea_status plan_crops(fovea_plan *p, fovea_plan_options *seen, const fovea_preprocess *pre)
{
    const uint32_t width = pre->resize_width, height = pre->resize_height;
    const fovea_box whole = fv_whole_frame(p);
    fv_box_view view;
    if (width < 2 || height < 2)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: the box has %u x %u pixels; set resize_width and resize_height "
                       "to at least 2",
                       width, height);
    FV_TRY(fv_box_view_of(&view, &whole, width, height));
    const fv_box_place at = fv_box_view_place(&view, width, height);
    p->frame.picture = (fv_picture){.width = width,
                                    .height = height,
                                    .inner = {0, 0, width, height},
                                    .left = at.left,
                                    .top = at.top,
                                    .scale_x = at.scale_x,
                                    .scale_y = at.scale_y};
    p->frame.crops = (fv_crops){.size = (uint64_t)width * height * 3, .yuv = seen->yuv};
    p->frame.bytes = fv_size_mul(p->frame.crops.size, p->limits.frames * p->info.count);
    seen->frame.format = FOVEA_FORMAT_RGB8;
    seen->frame.width = width;
    seen->frame.height = height;
    return seen->dry ? FOVEA_OK
                     : fv_mem_alloc(&p->frame.crops.pixels, p->frame.bytes, FV_MEM_PLAN,
                                    "crops of the frames");
}

static fovea_status plan_grid(fovea_plan *p)
{
    const fovea_model_info *m = &p->model->info;
    fovea_plan_info *i = &p->info;
    i->width = p->frame.picture.width;
    i->height = p->frame.picture.height;
    i->left = p->frame.picture.left;
    i->top = p->frame.picture.top;
    i->scale_x = p->frame.picture.scale_x;
    i->scale_y = p->frame.picture.scale_y;
    p->options.width = i->width;
    p->options.height = i->height;
    p->options.inner = p->frame.picture.inner;
    p->options.grid = (fv_grid){i->width / m->patch, i->height / m->patch, m->patch, m->prefix};
    if (p->model->family->grid)
        FV_TRY(p->model->family->grid(p->model, &p->options));
    const fv_grid *g = &p->options.grid;
    if (g->width == 0 || g->height == 0)
        return fv_fail(FOVEA_EINVAL,
                       "the picture has %u x %u pixels, which is smaller than one patch of %u; use "
                       "a larger size",
                       i->width, i->height, m->patch);
    if ((uint64_t)g->width * g->height > MAX_TOKENS)
        return fv_fail(FOVEA_EINVAL,
                       "the picture has %u x %u pixels, which is more than %u patches of %u; use a "
                       "smaller size",
                       i->width, i->height, MAX_TOKENS, m->patch);
    i->ignored_right = i->width > g->width * g->stride ? i->width - g->width * g->stride : 0;
    i->ignored_bottom = i->height > g->height * g->stride ? i->height - g->height * g->stride : 0;
    i->grid_width = p->options.grid.width;
    i->grid_height = p->options.grid.height;
    i->tokens = fv_grid_tokens(&p->options.grid);
    if (i->ignored_right || i->ignored_bottom)
        fv_log("the picture's sides (%u x %u) are not multiples of the patch (%u): %u columns at "
               "the right and %u rows at the bottom are ignored",
               i->width, i->height, m->patch, i->ignored_right, i->ignored_bottom);
    return FOVEA_OK;
}

const char *fv_frame_products(fv_product_choice *out, const fv_advice *a,
                              const fovea_device_info *device, const fovea_model *model,
                              const fv_emit_options *options)
{
    const char *from = fv_advice_products(a, model, options, out);
    if (from)
        return from;
    *out = (fv_product_choice){.compute = device->bf16 ? FOVEA_COMPUTE_BF16 : FOVEA_COMPUTE_F32};
    return "device";
}

/* Chooses the precision of products. With FOVEA_COMPUTE_AUTO, it is float32 if the caller has
 * chosen the type of stored weights or activations. */
static void settle_compute(fovea_plan *p, const fovea_plan_options *o)
{
    fv_product_choice choice = {.compute = o->compute};
    if (o->compute == FOVEA_COMPUTE_AUTO) {
        const bool stored = o->weights != FOVEA_DTYPE_F32 || o->activations != FOVEA_DTYPE_F32;
        choice.compute = FOVEA_COMPUTE_F32;
        p->info.compute_source = stored ? "storage"
                                        : fv_frame_products(&choice, &p->advice, &p->device->info,
                                                            p->model, &p->options);
    }
    p->options.bf16 = choice.bf16;
    fv_emit_compute(&p->options, choice.compute, &p->limits);
    p->info.compute = p->options.compute;
}

/* Stores a note for the caller if the plan's attention is not the one that the weights were trained
 * with. Random weights need no note. */
static fovea_status note_untrained(fovea_plan *p)
{
    const fovea_model_info *m = &p->model->info;
    fv_attention_name *trained;
    char line[512];
    if (!p->model->store)
        return FOVEA_OK;
    FV_TRY(fv_attention_blocks(&trained, m->attention, m->depth));
    const bool differs =
        fv_untrained_note(line, sizeof line, trained, p->options.attention, m->depth);
    fv_mem_free(trained);
    if (differs)
        FV_TRY(fv_mem_text(&p->untrained, line, FV_MEM_PLAN));
    p->info.untrained = p->untrained;
    return FOVEA_OK;
}

static fovea_status emit(fovea_plan *p, fv_builder *b, const fovea_plan_options *o)
{
    const fovea_model_info *m = &p->model->info;
    const char *attention = o->attention ? o->attention : m->attention;
    fovea_preprocess as_is = p->model->preprocess;
    as_is.resize = FOVEA_RESIZE_NONE;
    as_is.crop_width = as_is.crop_height = as_is.first_long_edge = as_is.first_multiple = 0;
    as_is.pad = FOVEA_PAD_NONE;
    const bool resized = o->preprocess && o->frame.format != FOVEA_FORMAT_PLANES_F32;
    fovea_preprocess pre;
    FV_TRY(fv_preprocess_complete(&pre, resized ? o->preprocess : &as_is, &as_is));

    p->options.half_sums = p->limits.half_sums && o->activations == FOVEA_DTYPE_F16;
    if (o->activations != FOVEA_DTYPE_F32 && !p->limits.throughput && !p->options.half_sums)
        return fv_fail(FOVEA_ENOTSUP,
                       "device %s cannot compute activations of 16 bits, because its kernels read "
                       "float32; set only the type of the weights",
                       p->device->info.id);
    p->info.count = o->frame.count ? o->frame.count : 1;
    p->staged = o->on_device_lost == FOVEA_DEVICE_LOST_CPU;
    p->options.int8_weights = o->weights == FOVEA_DTYPE_I8;
    p->options.weight_type = p->options.int8_weights ? FV_F32 : fv_type_of(o->weights);
    p->options.row_type = p->limits.throughput ? fv_type_of(o->activations) : FV_F32;
    p->options.blocks = m->depth;
    FV_TRY(fv_attention_blocks(&p->options.attention, attention, m->depth));
    FV_TRY(fv_attention_blocks_check(p->options.attention, m->depth));
    FV_TRY(note_untrained(p));
    p->frame.width = o->frame.width;
    p->frame.height = o->frame.height;
    fovea_plan_options seen = *o; /* the options with the frame that the steps read */
    if (pre.resize == FOVEA_RESIZE_BOX)
        FV_TRY(plan_crops(p, &seen, &pre));
    else
        FV_TRY(fv_picture_plan(&p->frame.picture, &pre, o->frame.width, o->frame.height));
    if (p->frame.picture.width > MAX_SIDE || p->frame.picture.height > MAX_SIDE)
        return fv_fail(FOVEA_EINVAL, "the picture has %u x %u pixels; sides must be at most %u",
                       p->frame.picture.width, p->frame.picture.height, MAX_SIDE);
    FV_TRY(plan_grid(p));
    settle_compute(p, o);
    FV_TRY(want(p, o));
    fv_patch_table_fill(&p->frame.patch_table, &pre, p->frame.picture.floats);
    p->options.patch_table = &p->frame.patch_table;
    emit_picture(p, b, &seen);
    p->frame.format = o->frame.format;
    FV_TRY(p->model->family->emit(p->model, b));
    fv_result_scratch_reserve(p, b);
    p->frame.bytes += fv_picture_bytes(&p->frame.picture);
    return b->status;
}

fovea_status fv_plan_options(fovea_plan_options *own, fovea_preprocess *rule,
                             const fovea_plan_options *options)
{
    *own = (fovea_plan_options)FOVEA_PLAN_OPTIONS_INIT;
    *rule = (fovea_preprocess)FOVEA_PREPROCESS_INIT;
    FV_TRY(FV_ABI_READ(*own, options, FOVEA_PLAN_OPTIONS_INIT));
    FV_TRY(FV_ABI_READ(*rule, own->preprocess, FOVEA_PREPROCESS_INIT));
    if (own->preprocess)
        own->preprocess = rule;
    return FOVEA_OK;
}

fovea_status fv_frame_emit(fovea_plan **out, fv_builder *b, const fovea_model *model,
                           fovea_device *device, const fovea_plan_options *options,
                           fv_wisdom *wisdom, const fv_training *training)
{
    fovea_plan *p;
    FV_TRY(fv_frame_check(options));
    if (!model->family->emit)
        return fv_fail(
            FOVEA_EINVAL,
            "a %s model reads sequences, not pictures; use fovea_sequence_create or `fovea lm`",
            model->info.type);
    FV_TRY(fv_plan_alloc(&p, device, wisdom));
    /* The public model is const; its reference count and its list of packed weights change under
     * its lock. */
    p->model = (fovea_model *)(uintptr_t)model;
    fv_model_ref(p->model);
    p->options.training = training;
    *b = fv_builder_of(&p->graph, &p->options);
    FV_RETURN_MADE(out, p, fv_plan_free, emit(p, b, options));
}

fovea_status fv_frame_plan(fovea_plan **out, const fovea_model *model, fovea_device *device,
                           const fovea_plan_options *o, fv_wisdom *wisdom)
{
    fovea_plan *p = NULL;
    fv_builder b;
    if (!o->dry) {
        FV_TRY(fv_source_unchanged(model->source));
        FV_TRY(fv_source_unchanged(model->segmentation_source));
    }
    FV_TRY(fv_frame_emit(&p, &b, model, device, o, wisdom, NULL));
    const fv_plan_request r = {o->schedule, o->chunk, o->memory_limit, o->dry};
    FV_RETURN_MADE(out, p, fv_plan_free, fv_plan_finish(p, &r));
}
