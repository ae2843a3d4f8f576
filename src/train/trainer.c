/* trainer.c: creates and frees trainers, adds pictures, and takes steps. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/abi.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/source.h"
#include "models/dense/decoder.h"
#include "models/segmentation.h"
#include "models/vit/dpt_head.h"
#include "ops/mech_traits.h"
#include "run/run.h"
#include "weights/packed.h"

#define MAX_DEPTH 10.f /* metres */
#define IGNORED 255

/* Upper bounds of the bytes that a process and each of its threads need in addition to the
 * library's allocations: the used part of the stacks, and fragmentation of the C library's heap.
 * They exceed all values measured in tests. */
enum { PROCESS = 1 << 20, THREAD = 1 << 18 };

/* ---- create and free ---- */

static fovea_status choose_attention(fovea_trainer *t, const char *asked)
{
    const char *own = t->model->info.attention;
    if (!asked && t->o.stage != FOVEA_STAGE_TASK && strcmp(own, "softmax") == 0)
        asked = "linear:elu1";
    return fv_mem_text(&t->attention, asked ? asked : own, FV_MEM_MODEL);
}

/* Checks that at least one block of the student has an attention to which `full_module` adds
 * parts. */
static fovea_status check_whole(const fovea_trainer *t)
{
    const uint32_t depth = t->model->info.depth;
    fv_attention_name *name;
    bool any = !t->o.full_module;
    FV_TRY(fv_attention_blocks(&name, t->attention, depth));
    for (uint32_t i = 0; i < depth; i++)
        any |= fv_mech_table[name[i].mech]->module != 0;
    fv_mem_free(name);
    return any ? FOVEA_OK
               : fv_fail(
                     FOVEA_EINVAL,
                     "attention \"%s\" has no full module; use pola, nala, nala-paper or focused",
                     t->attention);
}

/* Returns the options with which the student or its teacher is loaded. */
static fovea_model_options options_of(const fovea_trainer *t, bool student)
{
    fovea_model_options o = FOVEA_MODEL_OPTIONS_INIT;
    o.prefix = t->o.prefix;
    if (student)
        o.linear = t->o.linear;
    return o;
}

/* Loads the model, with the tensors that the student and the task add. */
static fovea_status load_student(fovea_trainer *t, const char *model, const char *attention)
{
    const bool task = t->o.stage == FOVEA_STAGE_TASK;
    const bool classes = t->o.task == FOVEA_TASK_CLASSES, depth = t->o.task == FOVEA_TASK_DEPTH;
    const fovea_model_options o = options_of(t, true);
    FV_TRY(fv_model_load(&t->model, model, &o, NULL));
    FV_TRY(choose_attention(t, attention));
    FV_TRY(check_whole(t));
    const fv_additions more = {.attention = t->attention,
                               .full_module = t->o.full_module != 0,
                               .classes = task && classes ? t->o.classes : 0,
                               .segments = task && !classes && !depth ? t->o.classes : 0,
                               .max_depth = task && depth ? t->o.max_depth : 0,
                               .head = t->o.head,
                               .seed = t->o.seed};
    fovea_model_free(t->model);
    t->model = NULL;
    return fv_model_load(&t->model, model, &o, &more);
}

/* Checks the family: any family that supports a head can train it, but only ViTs have gradients
 * below the head. */
static fovea_status check_family(const fovea_trainer *t, const char *model)
{
    const fv_family *f = t->model->family;
    const bool frozen = t->o.stage == FOVEA_STAGE_TASK && t->o.trainable == FOVEA_TRAIN_HEAD;
    if (f->attend || (f->weights && frozen && !t->o.full_module))
        return FOVEA_OK;
    if (f->weights)
        return fv_fail(FOVEA_ENOTSUP,
                       "%.60s: only the head of models of type %s can be trained; use stage 3 with "
                       "trainable `head`, not `full_module`",
                       model, t->model->info.type);
    return fv_fail(
        FOVEA_ENOTSUP,
        "%.60s: models of type %s cannot be trained; use ViT, DeiT, DINOv2, DINOv3, CLIP or SigLIP",
        model, t->model->info.type);
}

static fovea_status load(fovea_trainer *t, const char *model, const char *teacher,
                         const char *attention)
{
    FV_TRY(load_student(t, model, attention));
    FV_TRY(check_family(t, model));
    if (t->o.stage == FOVEA_STAGE_TASK)
        return FOVEA_OK;
    const fovea_model_options o = options_of(t, false);
    FV_TRY(fv_model_load(&t->teacher, teacher ? teacher : model, &o, NULL));
    if (!t->teacher->family->attend)
        return fv_fail(FOVEA_ENOTSUP,
                       "%.60s: the teacher is of type %s; it must be a vision transformer",
                       teacher ? teacher : model, t->teacher->info.type);
    return FOVEA_OK;
}

/* Checks that the requested head and the model's head, existing or added, are the same. */
static fovea_status check_head(const fovea_trainer *t)
{
    const fovea_model *m = t->model;
    const fv_decoder *d = m->decoder;
    if (!d && strcmp(m->family->name, "mask2former") == 0 && t->o.head != FOVEA_HEAD_MASK2FORMER)
        return fv_fail(FOVEA_ENOTSUP, "the model already has a mask2former; train that, or another "
                                      "head on a backbone without a head");
    switch (t->o.head) {
    case FOVEA_HEAD_LINEAR:
        if ((d || m->dpt_head) && t->o.task == FOVEA_TASK_SEGMENTATION)
            return fv_fail(
                FOVEA_ENOTSUP,
                "the model already has a %s; train a linear head on a backbone without a head",
                d ? fv_decoder_head_name(d->head) : "dpt_head");
        break;
    case FOVEA_HEAD_FPN:
        if (!m->family->decodes)
            return fv_fail(FOVEA_ENOTSUP,
                           "an FPN head reads the stages of MAViT, NaLaFormer, PolaFormer or Swin, "
                           "but models of type %s have no stages; choose another head",
                           m->info.type);
        if (!d || !d->head->weights)
            return fv_fail(FOVEA_ENOTSUP, "the model has a %s, which cannot be trained",
                           d ? d->head->type : "decode_head that is ignored");
        break;
    case FOVEA_HEAD_DPT_LITE:
        if (!m->dpt_head)
            return fv_fail(FOVEA_ENOTSUP,
                           "a DPT-lite head reads four depths of a plain ViT, but models of type "
                           "%s are not; choose another head",
                           m->info.type);
        if (m->info.metric != (t->o.task == FOVEA_TASK_DEPTH))
            return fv_fail(FOVEA_ENOTSUP,
                           "the model already has a DPT-lite head for %s; train that task, or use "
                           "a backbone without a head",
                           m->info.metric ? "depth" : "segmentation");
        break;
    case FOVEA_HEAD_MASK2FORMER:
        if (d)
            return fv_fail(FOVEA_ENOTSUP, "the backbone of the model is a pyramid; a Mask2Former "
                                          "head is trained only on a plain ViT");
        break;
    }
    return FOVEA_OK;
}

/* Determines the task's classes and outputs. */
static fovea_status choose_task(fovea_trainer *t)
{
    const fovea_model_info *m = &t->model->info;
    fovea_trainer_info *i = &t->info;
    if (t->o.stage != FOVEA_STAGE_TASK)
        return FOVEA_OK;
    const bool pixels = t->o.task == FOVEA_TASK_SEGMENTATION;
    FV_TRY(check_head(t));
    if (t->o.task != FOVEA_TASK_CLASSES) {
        i->mask_width = t->o.mask_width ? t->o.mask_width : t->o.frame.width;
        i->mask_height = t->o.mask_height ? t->o.mask_height : t->o.frame.height;
    }
    if (t->o.task == FOVEA_TASK_DEPTH)
        return FOVEA_OK;
    i->classes = pixels ? m->segments : m->classes;
    if (t->o.classes && i->classes != t->o.classes)
        return fv_fail(FOVEA_ENOTSUP,
                       "a head with %u classes cannot replace the model's pair of heads with %u; "
                       "use the model's number of classes",
                       t->o.classes, i->classes);
    if (!i->classes)
        return fv_fail(
            FOVEA_EINVAL,
            "the model has no head for %s; set `classes` to add one with that number of classes",
            pixels ? "segmentation" : "classes");
    if (pixels && i->classes > IGNORED)
        return fv_fail(FOVEA_ENOTSUP,
                       "the model has %u classes of pixels; masks can hold at most 255",
                       i->classes);
    return FOVEA_OK;
}

static fovea_status copy_labels(fovea_trainer *t, const char *const *label)
{
    const uint32_t classes = t->info.classes;
    if (!label || !classes)
        return FOVEA_OK;
    FV_TRY(FV_MEM_ARRAY(&t->labels, classes + 1ull, FV_MEM_MODEL, "labels"));
    for (uint32_t i = 0; i < classes; i++) {
        if (!label[i])
            return fv_fail(FOVEA_EINVAL,
                           "there are %u labels, but %u classes; give one label per class", i,
                           classes);
        FV_TRY(fv_mem_text(&t->labels[i], label[i], FV_MEM_MODEL));
    }
    return FOVEA_OK;
}

static uint64_t packed_bytes(const fovea_model *m)
{
    uint64_t sum = 0;
    for (const fv_packed *p = m ? m->shared.packed : NULL; p; p = p->next)
        sum += p->size;
    return sum;
}

static void describe(fovea_trainer *t, uint64_t before)
{
    fovea_trainer_info *i = &t->info;
    const fovea_plan_info *p = &t->plan->info;
    i->grid_width = p->grid_width;
    i->grid_height = p->grid_height;
    i->tokens = p->tokens;
    i->layers = t->o.stage == FOVEA_STAGE_ATTENTION ? t->losses : 0;
    i->tensors = t->masters.count;
    i->attention = t->attention;
    i->compute = t->o.compute;
    i->teacher = fv_teacher_features_bytes(&t->kept);
    for (uint32_t k = 0; k < t->masters.count; k++) {
        const fv_master *m = &t->masters.master[k];
        if (fv_file_types[m->tensor->dtype].floating)
            i->parameters += m->tensor->elements;
        i->trained += m->trained;
    }
    i->trained_parameters = t->masters.floats;
    for (uint32_t k = 0; k < t->plan->graph.steps; k++) {
        const fv_step *s = &t->plan->graph.step[k];
        if (s->checkpoint_segment == FV_TAPE_AGAIN && !s->dead)
            i->recomputed += fv_plan_of_step(t->plan, s)->flops;
    }
    i->flops = p->flops + (t->guide ? t->guide->info.flops : 0);
    i->weights = t->masters.floats * sizeof(float);
    i->gradients = i->weights + t->n_gathered * sizeof(float);
    i->moments = 2 * i->weights;
    i->averages = t->o.ema > 0 ? i->weights : 0;
    i->packed = packed_bytes(t->model) + packed_bytes(t->teacher);
    i->activations = fv_plan_activations(p) + (t->guide ? fv_plan_activations(&t->guide->info) : 0);
    fovea_memory now = FOVEA_MEMORY_INIT;
    fovea_memory_query(&now);
    i->total = now.current - before;
    i->process = PROCESS + (uint64_t)t->plan->limits.threads * THREAD;
}

static fovea_status build(fovea_trainer *t, const char *model, const char *teacher,
                          const fovea_trainer_options *o, uint64_t before)
{
    t->o = *o;
    if (o->head == FOVEA_HEAD_MASK2FORMER)
        t->o.trainable = FOVEA_TRAIN_HEAD;
    if (o->compute == FOVEA_COMPUTE_AUTO)
        t->o.compute = t->device->info.bf16 ? FOVEA_COMPUTE_BF16 : FOVEA_COMPUTE_F32;
    if (t->o.max_depth == 0)
        t->o.max_depth = MAX_DEPTH;
    t->o.attention = NULL;
    t->o.train = t->o.decay = t->o.labels = NULL;
    FV_TRY(fv_mem_text(&t->path, model, FV_MEM_MODEL));
    FV_TRY(load(t, model, teacher, o->attention));
    FV_TRY(choose_task(t));
    FV_TRY(copy_labels(t, o->labels));
    FV_TRY(fv_masters_list(&t->masters, t->model));
    FV_TRY(fv_trainer_choose(t, o));
    FV_TRY(fv_trainer_plan(t, before));
    FV_TRY(FV_MEM_ARRAY(&t->sum, 2 * (t->losses + 1ull), FV_MEM_PLAN, "the losses"));
    t->mean = t->sum + t->losses + 1;
    describe(t, before);
    return FOVEA_OK;
}

fovea_status fovea_trainer_create(fovea_trainer **out, const char *model, const char *teacher,
                                  fovea_device *device, const fovea_trainer_options *options)
{
    fovea_memory before = FOVEA_MEMORY_INIT;
    fovea_trainer_options o = FOVEA_TRAINER_OPTIONS_INIT;
    FV_TRY(fovea_training_register());
    fovea_memory_query(&before);
    FV_TRY(fv_require(model, "the model's path"));
    FV_TRY(fv_require(device, "the device"));
    FV_TRY(fv_require(options, "the trainer's options"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_TRAINER_OPTIONS_INIT));
    FV_TRY(fv_trainer_check(&o, device));
    fovea_trainer *t;
    FV_TRY(FV_MEM_NEW(&t, FV_MEM_PLAN, "the trainer"));
    t->device = device;
    t->features_in = t->labels_in = t->pixels_in = t->weight_in = FV_NO_VALUE;
    t->queries.places_in = t->queries.targets_in = t->queries.present_in = FV_NO_VALUE;
    FV_RETURN_MADE(out, t, fovea_trainer_free, build(t, model, teacher, &o, before.current));
}

void fovea_trainer_free(fovea_trainer *t)
{
    if (!t)
        return;
    fovea_plan_free(t->plan);
    fovea_plan_free(t->guide);
    for (uint32_t i = 0; i < t->losses; i++)
        fv_mem_free(t->loss[i].row);
    fv_mem_free(t->loss);
    fv_mem_free(t->features);
    fv_query_targets_free(&t->queries);
    fv_teacher_features_free(&t->kept);
    fv_mem_free(t->sink);
    fv_mem_free(t->gathered);
    fv_mem_free(t->follower);
    fv_mem_free(t->staging);
    fv_mem_free(t->sum);
    fv_mem_free(t->path);
    fv_mem_free(t->attention);
    for (uint32_t i = 0; t->labels && t->labels[i]; i++)
        fv_mem_free(t->labels[i]);
    fv_mem_free(t->labels);
    fv_mem_free(t->note);
    fovea_model_free(t->model);
    fovea_model_free(t->teacher);
    fv_masters_free(&t->masters);
    fv_mem_free(t);
}

fovea_status fovea_trainer_query(const fovea_trainer *t, fovea_trainer_info *out)
{
    FV_TRY(fv_require(t, "the trainer"));
    fovea_trainer_info info = t->info;
    info.step = t->step;
    return FV_ABI_WRITE(out, info, FOVEA_TRAINER_INFO_INIT);
}

/* ---- a picture ---- */

static fovea_status set_mask(fovea_trainer *t, const fovea_target *target, size_t *stride)
{
    const uint32_t width = t->info.mask_width, height = t->info.mask_height;
    uint64_t counted = 0;
    *stride = target->stride ? target->stride : width;
    if (!target->mask)
        return fv_fail(FOVEA_EINVAL, "the target has no mask; set `mask`");
    if (*stride < width || *stride > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL, "the mask has a stride of %zu bytes, but its rows have %u",
                       *stride, width);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            const uint8_t class = target->mask[y * *stride + x];
            if (class != IGNORED && class >= t->info.classes)
                return fv_fail(FOVEA_EINVAL,
                               "the mask has class %u at (%u, %u), there are %u and 255 (ignored)",
                               class, x, y, t->info.classes);
            counted += class != IGNORED;
        }
    t->pixel_weight = counted ? (float)(1 / (double)counted) : 0.f;
    if (t->o.head == FOVEA_HEAD_MASK2FORMER)
        fv_query_targets_set(&t->queries, t, target->mask, *stride);
    return FOVEA_OK;
}

static fovea_status set_depth(fovea_trainer *t, const fovea_target *target, size_t *stride)
{
    const uint32_t width = t->info.mask_width, height = t->info.mask_height;
    uint64_t counted = 0;
    *stride = target->stride ? target->stride : width * sizeof(float);
    if (!target->depth)
        return fv_fail(FOVEA_EINVAL, "the target has no depth; set `depth`");
    if (*stride < width * sizeof(float) || *stride % sizeof(float) || *stride > UINT32_MAX)
        return fv_fail(FOVEA_EINVAL,
                       "the depth map has a stride of %zu bytes, but its rows have %u floats",
                       *stride, width);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            const float depth = target->depth[y * (*stride / sizeof(float)) + x];
            counted += depth > 0 && isfinite(depth);
        }
    t->pixel_weight = counted ? (float)(1 / (double)counted) : 0.f;
    return FOVEA_OK;
}

static fovea_status set_target(fovea_trainer *t, const fovea_target *target, size_t *stride)
{
    *stride = 0;
    if (t->o.stage != FOVEA_STAGE_TASK)
        return FOVEA_OK;
    if (!target)
        return fv_fail(FOVEA_EINVAL, "stage 3 needs a target for every picture; pass one");
    if (t->o.task == FOVEA_TASK_SEGMENTATION)
        return set_mask(t, target, stride);
    if (t->o.task == FOVEA_TASK_DEPTH)
        return set_depth(t, target, stride);
    if (target->label >= t->info.classes)
        return fv_fail(FOVEA_EINVAL,
                       "label %u does not exist; there are %u classes, counted from 0",
                       target->label, t->info.classes);
    t->label[0] = (float)target->label;
    t->label[1] = 1;
    return FOVEA_OK;
}

static fovea_status upload(fovea_trainer *t, fv_id id, const void *data, uint64_t stride)
{
    const fovea_plan *p = t->plan;
    if (id < 0)
        return FOVEA_OK;
    const fv_value *v = &p->graph.value[id];
    return p->device->backend->upload(p->run.queue, v->slot, data,
                                      stride ? stride : fv_value_stride(v));
}

static fovea_status download(fovea_trainer *t, fv_id id, float *data)
{
    const fovea_plan *p = t->plan;
    return p->device->backend->download(p->run.queue, p->graph.value[id].slot, data, 0);
}

static fovea_status run_teacher(fovea_trainer *t, const fovea_frame *frame)
{
    const fv_value *v = &t->plan->graph.value[t->features_in];
    const fovea_output out = {t->features, (size_t)(v->rows * fv_value_stride(v))};
    return fovea_run(t->guide, frame, &out, 1);
}

/* Finds the teacher's features of a picture: from the cache, or by computing them now. */
static fovea_status find_features(fovea_trainer *t, const fovea_frame *frame, const float **out)
{
    fv_picture_key key;
    *out = t->features;
    if (!t->kept.capacity)
        return run_teacher(t, frame);
    FV_TRY(fv_teacher_features_key(&key, t->guide, frame));
    const float *kept = fv_teacher_features_find(&t->kept, &key);
    if (kept) {
        t->info.teacher_cache_hits++;
        *out = kept;
        return FOVEA_OK;
    }
    FV_TRY(run_teacher(t, frame));
    fv_teacher_features_keep(&t->kept, &key, t->features);
    return FOVEA_OK;
}

static fovea_status run_picture(fovea_trainer *t, const fovea_frame *frame,
                                const fovea_target *target, size_t stride)
{
    fovea_plan *p = t->plan;
    const fv_backend *be = p->device->backend;
    fv_fence fence;
    const float *features = NULL;
    if (t->guide)
        FV_TRY(find_features(t, frame, &features));
    FV_TRY(fv_frame_bind(p, frame, 0));
    FV_TRY(upload(t, t->features_in, features, 0));
    FV_TRY(upload(t, t->labels_in, t->label, 0));
    FV_TRY(upload(t, t->pixels_in,
                  !target                         ? NULL
                  : t->o.task == FOVEA_TASK_DEPTH ? (const void *)target->depth
                                                  : target->mask,
                  stride));
    FV_TRY(upload(t, t->weight_in, &t->pixel_weight, 0));
    FV_TRY(upload(t, t->queries.places_in, t->queries.places, 0));
    FV_TRY(upload(t, t->queries.targets_in, t->queries.targets, 0));
    FV_TRY(upload(t, t->queries.present_in, t->queries.present, 0));
    for (uint32_t i = 0; i < t->sinks; i++)
        FV_TRY(download(t, t->sink[i].value, t->sink[i].rows));
    for (uint32_t i = 0; i < t->losses; i++)
        FV_TRY(download(t, t->loss[i].value, t->loss[i].row));
    FV_TRY(be->submit(p->run.queue, p->run.sweep, p->cut.sweeps, FV_ALL, &fence));
    return be->wait(p->run.queue, fence, -1, &p->run.seconds);
}

void fovea_trainer_discard(fovea_trainer *t)
{
    if (t)
        t->pictures = 0;
}

static void begin(fovea_trainer *t)
{
    fv_trainer_clear(t);
    memset(t->gathered, 0, (size_t)t->n_gathered * sizeof(float));
    memset(t->sum, 0, (t->losses + 1ull) * sizeof(double));
}

fovea_status fovea_trainer_add(fovea_trainer *t, const fovea_frame *frame,
                               const fovea_target *target)
{
    size_t stride;
    FV_TRY(fv_require(t, "the trainer"));
    FV_TRY(fv_require(frame, "the frame"));
    FV_TRY(set_target(t, target, &stride));
    if (t->pictures == 0)
        begin(t);
    FV_TRY(run_picture(t, frame, target, stride));
    fv_trainer_scatter(t);
    for (uint32_t i = 0; i < t->losses; i++) {
        double sum = 0;
        for (uint32_t r = 0; r < t->loss[i].rows; r++)
            sum += (double)t->loss[i].row[r];
        t->sum[i] += t->loss[i].factor * sum;
    }
    t->pictures++;
    return FOVEA_OK;
}

/* ---- a step ---- */

static fovea_status sum_processes(fovea_trainer *t, float *gradients, uint64_t floats)
{
    const fovea_trainer_options *o = &t->o;
    t->sum[t->losses] = (double)t->pictures;
    if (!o->allreduce)
        return FOVEA_OK;
    if (o->allreduce(gradients, (size_t)floats, 0, o->allreduce_payload) ||
        o->allreduce(t->sum, t->losses + 1, 1, o->allreduce_payload))
        return fv_fail(
            FOVEA_EIO,
            "the sum over all processes failed; see the messages of the other processes");
    return FOVEA_OK;
}

static fovea_status take_step(fovea_trainer *t, fovea_trainer_report *report)
{
    uint64_t floats;
    float *gradients = fv_masters_gradients(&t->masters, &floats);
    FV_TRY(sum_processes(t, gradients, floats));
    const double pictures = t->sum[t->losses];
    if (pictures < 1)
        return fv_fail(FOVEA_EINVAL, "the step has no pictures; add some first");
    double loss = 0;
    for (uint32_t i = 0; i < t->losses; i++)
        loss += t->mean[i] = t->sum[i] / pictures;
    const double norm = fv_trainer_norm(t, (float)(1 / pictures));
    const double rate = fv_trainer_rate(&t->o, t->step);
    if (!isfinite(loss) || !isfinite(norm))
        return fv_fail(FOVEA_EINVAL,
                       "step %llu: the loss is %g and the norm of the gradient is %g; lower `lr`, "
                       "or set `clip`",
                       (unsigned long long)t->step + 1, loss, norm);
    const double clip = (double)t->o.clip;
    fv_trainer_update(t, rate, clip > 0 && norm > clip ? clip / norm : 1);
    fv_trainer_repack(t);
    t->step++;
    const fovea_trainer_report done = {
        .step = t->step,
        .pictures = (uint64_t)pictures,
        .loss = loss,
        .layer_loss = t->info.layers ? t->mean : NULL,
        .layers = t->info.layers,
        .lr = rate,
        .gradient_norm = norm,
    };
    return FV_ABI_WRITE(report, done, FOVEA_TRAINER_REPORT_INIT);
}

fovea_status fovea_trainer_step(fovea_trainer *t, fovea_trainer_report *report)
{
    FV_TRY(FV_ABI_CHECK(report, FOVEA_TRAINER_REPORT_INIT));
    if (t->pictures == 0 && !t->o.allreduce)
        return fv_fail(FOVEA_EINVAL, "the step has no pictures; add some first");
    if (t->pictures == 0)
        begin(t);
    const fovea_status status = take_step(t, report);
    t->pictures = 0;
    return status;
}

/* ---- tensors ---- */

int fovea_trainer_tensor(const fovea_trainer *t, size_t index, fovea_numbers which,
                         fovea_tensor *out)
{
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        if (!m->trained || index-- > 0)
            continue;
        *out = fv_tensor_shown(m->tensor);
        out->data = which == FOVEA_GRADIENT                ? m->gradient
                    : which == FOVEA_AVERAGE && m->average ? m->average
                                                           : m->weight;
        return 1;
    }
    return 0;
}
