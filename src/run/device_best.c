/* device_best.c: finds the time of a plan on each device, and the fastest device, from wisdom. */
#include <math.h>
#include <string.h>

#include <fovea/tuning.h>

#include "base/abi.h"
#include "plan/frame_plan.h"
#include "plan/plan.h"

/* Returns the seconds that a frame takes on a device, or infinity if wisdom has no fact about it.
 */
static double seconds_on(const char *device, const char *subject)
{
    fv_answer answer;
    const bool known = fv_wisdom_find(fv_wisdom_global(), FV_FACT_PLAN, device, subject, &answer);
    return known && answer.seconds > 0 ? answer.seconds : INFINITY;
}

double fovea_plan_measured_seconds(const fovea_plan *p)
{
    char subject[FV_WISDOM_SUBJECT];
    if (!p->options.attention || !p->advice.wisdom)
        return 0; /* an operation or a sequence: such plans are not tuned as a whole */
    fv_advice_plan_key(subject, p->model, &p->options);
    const double seconds = seconds_on(p->advice.device, subject);
    return isfinite(seconds) ? seconds : 0;
}

/* The search for a device that is faster than a plan on the CPU. */
struct search {
    const fovea_plan *plan;
    const char *subject;
    size_t like;  /* number of characters of the subject that are the same on every device */
    bool settled; /* each device chooses its own types of weights and products */
    double below;
    bool found;
};

static fovea_status look_for_faster(void *ctx, const fv_fact *f)
{
    struct search *s = ctx;
    s->found |= f->kind == FV_FACT_PLAN && strncmp(f->subject, s->subject, s->like) == 0 &&
                f->seconds > 0 && f->seconds < s->below && strncmp(f->device, "cpu|", 4) != 0;
    return FOVEA_OK;
}

/* Makes the subject of wisdom's facts about the plan on another device. */
static void subject_on(char out[FV_WISDOM_SUBJECT], const struct search *s, const char *device,
                       const fovea_device_info *info)
{
    fv_emit_options o = s->plan->options;
    if (s->settled) {
        fv_product_choice choice;
        fv_advice a = {.wisdom = fv_wisdom_global()};
        const fv_limits limits = {.throughput = true, .int8 = info->int8 != 0};
        strcpy(a.device, device);
        fv_frame_products(&choice, &a, info, s->plan->model, &o);
        o.weight_type = FV_F32;
        o.bf16 = choice.bf16;
        fv_emit_compute(&o, choice.compute, &limits);
    }
    fv_advice_plan_key(out, s->plan->model, &o);
}

/* The key of a device in wisdom, found by that of the device before it is opened. */
struct tuned {
    const char *listed;
    char key[FV_WISDOM_DEVICE]; /* "" if the device was not tuned */
};

static fovea_status look_for_device(void *ctx, const fv_fact *f)
{
    struct tuned *t = ctx;
    if (f->kind == FV_FACT_PLAN && fv_wisdom_same_device(f->device, t->listed))
        strcpy(t->key, f->device);
    return FOVEA_OK;
}

/* Finds the fastest device that is faster than the CPU. Returns false if there is no such device.
 * Opens drivers only if wisdom has a fact about one of their devices. */
static bool find_faster(char id[32], struct search *s)
{
    fovea_device_info other = FOVEA_DEVICE_INFO_INIT;
    double below = s->below;
    fv_wisdom_each(fv_wisdom_global(), look_for_faster, s);
    if (!s->found)
        return false;
    bool better = false;
    for (size_t i = 0; fovea_device_list(i, &other); i++) {
        char listed[FV_WISDOM_DEVICE], subject[FV_WISDOM_SUBJECT], backend[32];
        struct tuned tuned = {.listed = listed};
        strcpy(backend, other.id);
        backend[strcspn(backend, ":")] = 0;
        if (strcmp(backend, "cpu") == 0)
            continue;
        fv_wisdom_device_key(listed, backend, &other, 1);
        fv_wisdom_each(fv_wisdom_global(), look_for_device, &tuned);
        if (!*tuned.key)
            continue;
        subject_on(subject, s, tuned.key, &other);
        const double seconds = seconds_on(tuned.key, subject);
        if (seconds < below) {
            strcpy(id, other.id);
            below = seconds;
            better = true;
        }
    }
    return better;
}

/* Returns whether another device is faster than `cpu`. */
static bool is_another_faster(char id[32], const fovea_model *model, fovea_device *cpu,
                              const fovea_plan_options *plan)
{
    char subject[FV_WISDOM_SUBJECT];
    fovea_plan_options options = *plan;
    fovea_plan *p;
    options.dry = 1;
    options.activations = FOVEA_DTYPE_F32; /* only for the plan on the CPU; a plan's key does not
                                              contain this type */
    if (fv_wisdom_count(fv_wisdom_global()) == 0 ||
        fv_frame_plan(&p, model, cpu, &options, fv_wisdom_global()) != FOVEA_OK)
        return false;
    struct search s = {.plan = p, .subject = subject};
    s.like = fv_advice_plan_key(subject, model, &p->options);
    s.settled = plan->compute == FOVEA_COMPUTE_AUTO && plan->weights == FOVEA_DTYPE_F32;
    s.like = s.settled ? s.like : sizeof subject;
    s.below = seconds_on(p->advice.device, subject);
    const bool better = find_faster(id, &s);
    fovea_plan_free(p);
    return better;
}

fovea_status fovea_device_open_best(fovea_device **out, const fovea_model *model,
                                    const fovea_plan_options *plan,
                                    const fovea_device_options *options)
{
    fovea_device *cpu, *other;
    fovea_plan_options o;
    fovea_preprocess rule;
    char id[32];
    FV_TRY(fv_plan_options(&o, &rule, plan));
    FV_TRY(fovea_device_open(&cpu, "cpu", options));
    *out = cpu;
    if (!is_another_faster(id, model, cpu, &o))
        return FOVEA_OK;
    if (fovea_device_open(&other, id, options) != FOVEA_OK) {
        fv_log("device %s would be faster, but cannot be opened: %s", id, fovea_error());
        return FOVEA_OK;
    }
    fovea_device_close(cpu);
    *out = other;
    return FOVEA_OK;
}
