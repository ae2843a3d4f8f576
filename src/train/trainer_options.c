/* trainer_options.c: checks a trainer's options, and determines the tensors that the options
 * select. */
#include <math.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "checkpoint/source.h"
#include "models/dense/decoder.h"
#include "models/vit/dpt_head.h"
#include "models/vit/vit.h"
#include "train/trainer.h"

#define FARTHEST 1e6
#define MOST_STEPS 2000000000u

static fovea_status check_rates(const fovea_trainer_options *o)
{
    if (!(o->lr > 0 && isfinite(o->lr)))
        return fv_fail(FOVEA_EINVAL, "lr is %g; it must be positive, such as 1e-4", (double)o->lr);
    if (!(o->lr_end >= 0 && isfinite(o->lr_end)))
        return fv_fail(FOVEA_EINVAL, "lr_end is %g; it must be at least 0", (double)o->lr_end);
    FV_TRY(fv_known("schedule", (int)o->schedule, FOVEA_LR_COSINE));
    if (o->schedule != FOVEA_LR_CONSTANT && o->steps == 0)
        return fv_fail(FOVEA_EINVAL,
                       "a schedule that decays needs the total number of steps; set `steps`");
    if (o->steps > MOST_STEPS)
        return fv_fail(FOVEA_EINVAL, "steps is %u; it must be at most %u", o->steps, MOST_STEPS);
    if (o->warm_up > MOST_STEPS)
        return fv_fail(FOVEA_EINVAL, "warm_up is %u; it must be at most %u", o->warm_up,
                       MOST_STEPS);
    if (!(o->backbone_ratio >= 0 && isfinite(o->backbone_ratio)))
        return fv_fail(FOVEA_EINVAL, "backbone_ratio is %g; it must be at least 0",
                       (double)o->backbone_ratio);
    return FOVEA_OK;
}

static fovea_status check_moments(const fovea_trainer_options *o)
{
    const struct {
        const char *name;
        float value, low, high;
    } numbers[] = {
        {"beta1", o->beta1, 0, 0.999999f},
        {"beta2", o->beta2, 0, 0.9999999f},
        {"eps", o->eps, 0, 1},
        {"weight_decay", o->weight_decay, 0, 1e6f},
        {"clip", o->clip, 0, 1e30f},
        {"ema", o->ema, 0, 0.9999999f},
        {"lambda", o->lambda, 0, 1e30f},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high))
            return fv_fail(FOVEA_EINVAL, "%s is %g; it must be from %g to %g", numbers[i].name,
                           (double)numbers[i].value, (double)numbers[i].low,
                           (double)numbers[i].high);
    return FOVEA_OK;
}

static fovea_status check_head(const fovea_trainer_options *o)
{
    static const bool fits[][FOVEA_HEAD_MASK2FORMER + 1] = {
        [FOVEA_TASK_CLASSES] = {true, false, false, false},
        [FOVEA_TASK_SEGMENTATION] = {true, true, true, true},
        [FOVEA_TASK_DEPTH] = {false, false, true, false},
    };
    static const char *const heads[] = {"linear", "FPN", "DPT-lite", "Mask2Former"};
    static const char *const tasks[] = {"classes", "segmentation", "depth"};
    FV_TRY(fv_known("task", (int)o->task, FOVEA_TASK_DEPTH));
    FV_TRY(fv_known("head", (int)o->head, FOVEA_HEAD_MASK2FORMER));
    if (o->head != FOVEA_HEAD_LINEAR && o->stage != FOVEA_STAGE_TASK)
        return fv_fail(FOVEA_EINVAL,
                       "only stage 3 trains a head; set `stage` to 3, or leave `head` unset");
    if (o->stage == FOVEA_STAGE_TASK && !fits[o->task][o->head])
        return fv_fail(FOVEA_EINVAL,
                       "a %s head cannot learn %s; use a linear head for classes, any head for "
                       "segmentation, and a DPT-lite head for depth",
                       heads[o->head], tasks[o->task]);
    if (o->head == FOVEA_HEAD_MASK2FORMER && o->trainable != FOVEA_TRAIN_DEFAULT &&
        o->trainable != FOVEA_TRAIN_HEAD)
        return fv_fail(FOVEA_ENOTSUP, "with a Mask2Former head only the head is trained; choose "
                                      "trainable `head`, or leave it unset");
    if (!(o->max_depth >= 0 && o->max_depth <= FARTHEST))
        return fv_fail(FOVEA_EINVAL, "max_depth is %g; it must be from 0 (for 10 metres) to %g",
                       (double)o->max_depth, FARTHEST);
    return FOVEA_OK;
}

fovea_status fv_trainer_check(const fovea_trainer_options *o, const fovea_device *device)
{
    if (strcmp(device->info.id, "cpu") != 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "device %s cannot train, because training runs on the CPU; open \"cpu\"",
                       device->info.id);
    if (o->stage < FOVEA_STAGE_ATTENTION || o->stage > FOVEA_STAGE_TASK)
        return fv_fail(FOVEA_EINVAL, "stage %d does not exist; choose 1, 2 or 3", (int)o->stage);
    FV_TRY(fv_known("trainable", (int)o->trainable, FOVEA_TRAIN_HEAD));
    if (o->trainable == FOVEA_TRAIN_HEAD && o->stage != FOVEA_STAGE_TASK)
        return fv_fail(FOVEA_EINVAL, "only stage 3 trains a head; set `stage` to 3, or choose "
                                     "other tensors with `trainable`");
    if (o->trainable == FOVEA_TRAIN_ALL && o->stage == FOVEA_STAGE_ATTENTION)
        return fv_fail(FOVEA_EINVAL, "stage 1 trains only the tensors that compute queries, keys "
                                     "and values; use stage 2 to train all tensors");
    if ((unsigned)o->frame.format > FOVEA_FORMAT_PLANES_F32)
        return fv_fail(FOVEA_EINVAL,
                       "frames have format %d, which cannot be trained on; use RGB8, BGR8, GRAY8 "
                       "or PLANES_F32",
                       (int)o->frame.format);
    FV_TRY(fv_known("loss", (int)o->loss, FOVEA_LOSS_RELATIVE));
    FV_TRY(check_head(o));
    if (o->compute == FOVEA_COMPUTE_INT8)
        return fv_fail(FOVEA_ENOTSUP,
                       "compute int8 cannot be used for training; use float32 or bfloat16");
    FV_TRY(fv_known("compute", (int)o->compute, FOVEA_COMPUTE_AUTO));
    FV_TRY(check_rates(o));
    return check_moments(o);
}

/* ---- which tensors ---- */

/* State while the weights with a purpose are visited and their masters marked. */
struct marking {
    const fv_masters *all;
    enum fv_purpose purpose;
    bool folded; /* a weight has no master, because it was computed from several tensors */
};

static void mark(void *ctx, const fv_weight *w)
{
    struct marking *k = ctx;
    for (uint32_t i = 0; i < w->parts; i++) {
        fv_master *m = fv_masters_of(k->all, w->part[i].tensor);
        k->folded |= !m;
        if (!m)
            continue;
        m->wanted |= k->purpose == FV_MAKES_ATTENTION;
        m->head |= k->purpose == FV_IS_HEAD;
        m->decays &= k->purpose != FV_IS_POSITION;
    }
}

static void mark_all(const fovea_trainer *t, enum fv_purpose purpose)
{
    struct marking k = {.all = &t->masters, .purpose = purpose};
    t->model->family->weights(t->model, purpose, mark, &k);
}

static fovea_status mark_head(const fovea_trainer *t)
{
    struct marking k = {.all = &t->masters, .purpose = FV_IS_HEAD};
    const fovea_model *m = t->model;
    if (t->o.stage != FOVEA_STAGE_TASK)
        return FOVEA_OK;
    if (t->o.task == FOVEA_TASK_CLASSES)
        m->family->weights(m, FV_IS_HEAD, mark, &k);
    else if (t->o.head == FOVEA_HEAD_MASK2FORMER)
        m->family->weights(m, FV_IS_HEAD, mark, &k);
    else if (t->o.head == FOVEA_HEAD_FPN)
        fv_decoder_weights(m->decoder, mark, &k);
    else if (t->o.head == FOVEA_HEAD_DPT_LITE)
        fv_dpt_head_weights(m->dpt_head, mark, &k);
    else
        fv_layer_visit(&m->segmentation.head, mark, &k);
    return k.folded ? fv_fail(FOVEA_ENOTSUP,
                              "%s: normalisations are folded into the head, so it cannot be "
                              "trained; train a new head on the backbone alone",
                              m->source->name)
                    : FOVEA_OK;
}

static bool floating(const fv_master *m)
{
    return fv_file_types[m->tensor->dtype].floating;
}

static fovea_status find(fv_master **out, const fovea_trainer *t, const char *name)
{
    *out = fv_masters_find(&t->masters, name);
    if (!*out)
        return fv_fail(FOVEA_EINVAL, "tensor \"%.120s\": %s has no tensor of that name", name,
                       t->model->source->name);
    if (!floating(*out))
        return fv_fail(FOVEA_EINVAL,
                       "tensor \"%.120s\" has no floating-point values, so it cannot be trained",
                       name);
    return FOVEA_OK;
}

static fovea_status choose_trained(fovea_trainer *t, const fovea_trainer_options *o)
{
    fv_masters *m = &t->masters;
    fv_master *x;
    for (size_t i = 0; o->train && o->train[i]; i++) {
        FV_TRY(find(&x, t, o->train[i]));
        x->wanted = x->named = true;
    }
    if (o->train)
        return FOVEA_OK;
    if (t->trainable == FOVEA_TRAIN_QKV)
        mark_all(t, FV_MAKES_ATTENTION);
    for (uint32_t i = 0; i < m->count; i++) {
        x = &m->master[i];
        x->wanted |= t->trainable == FOVEA_TRAIN_ALL || x->head;
        x->wanted &= floating(x);
    }
    return FOVEA_OK;
}

static fovea_status choose_decay(fovea_trainer *t, const fovea_trainer_options *o)
{
    fv_master *x;
    for (size_t i = 0; o->decay && o->decay[i]; i++) {
        FV_TRY(find(&x, t, o->decay[i]));
        x->decays = true;
    }
    if (o->decay)
        return FOVEA_OK;
    for (uint32_t i = 0; i < t->masters.count; i++)
        t->masters.master[i].decays = t->masters.master[i].tensor->rank > 1;
    mark_all(t, FV_IS_POSITION);
    return FOVEA_OK;
}

fovea_status fv_trainer_choose(fovea_trainer *t, const fovea_trainer_options *o)
{
    t->trainable = t->o.trainable != FOVEA_TRAIN_DEFAULT ? t->o.trainable
                   : o->stage == FOVEA_STAGE_ATTENTION   ? FOVEA_TRAIN_QKV
                                                         : FOVEA_TRAIN_ALL;
    FV_TRY(mark_head(t));
    FV_TRY(choose_trained(t, o));
    return choose_decay(t, o);
}

fovea_status fv_trainer_chosen(const fovea_trainer *t)
{
    uint32_t trained = 0;
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        trained += m->trained;
        if (m->named && !m->trained)
            return fv_fail(FOVEA_EINVAL,
                           "tensor \"%.120s\" cannot be trained, because the loss does not depend "
                           "on it; leave it out",
                           m->tensor->name);
    }
    return trained ? FOVEA_OK
                   : fv_fail(FOVEA_EINVAL, "no tensor would be trained; choose at least one");
}
