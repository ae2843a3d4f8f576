/* verify_model.c: runs a model's steps one by one on a frame. Each step's output is compared with
 * the reference on the same inputs, and with the output of the same step in a float32 plan on the
 * CPU. */
#include <math.h>
#include <string.h>

#include <fovea/verification.h>

#include "base/half.h"
#include "base/mem.h"
#include "ops/contracts/softmax_attention.h"
#include "plan/frame_plan.h"
#include "run/run.h"
#include "trial/reference.h"
#include "tune/bench_rig.h"
#include "verify/headroom.h"
#include "weights/packed.h"

/* A plan whose values can be read between steps. */
typedef struct tour {
    fv_bench_rig rig;
    void **mirror; /* host copies of the banks, if the host cannot read device memory */
} tour;

/* A step of a plan and its position. */
typedef struct stop {
    uint32_t sweep, at; /* at: index in its sweep */
    const fv_step *step;
    const fv_launch *launch;
    const char *problem;
} stop;

static const fv_op *op_of(const stop *s)
{
    return fv_op_table[s->step->prob.op];
}

static bool reduces(const stop *s)
{
    return op_of(s)->span == FV_SPAN_REDUCE;
}

/* ---- plans ---- */

static void tour_close(tour *t)
{
    const uint32_t banks = t->rig.plan ? t->rig.plan->chosen.first_bank[FV_REGIONS] : 0;
    for (uint32_t i = 0; t->mirror && i < banks; i++)
        fv_mem_free(t->mirror[i]);
    fv_mem_free(t->mirror);
    fv_bench_rig_close(&t->rig);
}

static fovea_status check_stepwise(const fovea_plan *p)
{
    for (uint32_t i = 0; i < p->cut.sweeps; i++)
        if (p->chosen.sweep[i].streamed)
            return fv_fail(FOVEA_ENOMEM, "the plan's steps cannot run one by one, because memory "
                                         "is too small; use a smaller picture");
    return FOVEA_OK;
}

static fovea_status bring_frame(const tour *t, const fovea_frame *frame)
{
    const fovea_plan *p = t->rig.plan;
    for (uint32_t i = 0; i < p->frame.planes; i++) {
        const fv_value *v = &p->graph.value[i];
        const uint64_t row = fv_value_stride(v);
        char *to = t->rig.external[i];
        uint64_t stride;
        FV_TRY(fv_frame_plane(p, frame, i, &stride));
        for (uint32_t y = 0; y < v->rows; y++)
            memcpy(to + y * row, (const char *)frame->pixels[i] + y * stride, (size_t)row);
    }
    return FOVEA_OK;
}

static fovea_status tour_open(tour *t, const fovea_model *model, fovea_device *device,
                              const fovea_plan_options *options, const fovea_frame *frame)
{
    fovea_plan_options stepwise = *options;
    fovea_plan *plan;
    stepwise.schedule = FOVEA_SCHEDULE_STEPWISE;
    stepwise.chunk = 0;
    stepwise.dry = 0;
    FV_TRY(fovea_plan_create(&plan, model, device, &stepwise));
    FV_TRY(fv_bench_rig_open(&t->rig, plan));
    FV_TRY(check_stepwise(plan));
    FV_TRY(FV_MEM_ARRAY(&t->mirror, plan->chosen.first_bank[FV_REGIONS], FV_MEM_PLAN,
                        "copies of values"));
    return bring_frame(t, frame);
}

/* Advances to the step after `s`, or to the first. Returns false past the last. */
static bool next_stop(const fovea_plan *p, stop *s)
{
    uint32_t i = s->step ? (uint32_t)(s->step - p->graph.step) + 1 : 0;
    while (i < p->graph.steps && p->graph.step[i].dead)
        i++;
    if (i == p->graph.steps)
        return false;
    const uint32_t sweep = p->cut.step[i].sweep;
    s->at = s->step && s->sweep == sweep ? s->at + 1 : 0;
    s->sweep = sweep;
    s->step = &p->graph.step[i];
    s->launch = &p->run.sweep[sweep].step[s->at]->l;
    s->problem = p->problem_text[i];
    return true;
}

/* ---- values ---- */

static fovea_status refresh(const tour *t, const fv_mem *m, const void **out)
{
    const fovea_plan *p = t->rig.plan;
    uint32_t i = 0;
    if (m->host) {
        *out = m->host;
        return FOVEA_OK;
    }
    while (&p->chosen.bank[i].mem != m)
        i++;
    if (!t->mirror[i])
        FV_TRY(
            fv_mem_alloc(&t->mirror[i], p->chosen.bank[i].size, FV_MEM_PLAN, "a copy of values"));
    *out = t->mirror[i];
    return p->device->backend->read(p->device->device, m, t->mirror[i], p->chosen.bank[i].size);
}

/* Reads the current value of an operand. */
static fovea_status read_operand(const tour *t, const stop *s, uint32_t o, fv_given *out)
{
    const fovea_plan *p = t->rig.plan;
    const fv_operand *op = &s->launch->operand[o];
    const fv_view view = s->step->use[o].view;
    const fv_value *v = &p->graph.value[view.id];
    const void *base = t->rig.external[view.id];
    if (op->ref.space == FV_SPACE_BUFFER)
        FV_TRY(refresh(t, op->ref.mem, &base));
    *out = (fv_given){.data = (const char *)base + op->ref.offset,
                      .count = (uint64_t)v->rows * v->ld - view.col,
                      .kind = op->kind,
                      .type = op->type};
    return FOVEA_OK;
}

/* Gets a weight as unpacked rows; for a packed weight, these are the checkpoint's values rounded to
 * `type`. *owned must be freed. */
static fovea_status look_at_weight(const tour *t, const stop *s, uint32_t o, enum fv_type type,
                                   void **owned, fv_given *out)
{
    const fovea_plan *p = t->rig.plan;
    const fv_use *u = &s->step->use[o];
    const uint64_t count = (uint64_t)u->weight.rows * u->weight.cols;
    *out = (fv_given){.count = count, .kind = FV_KIND_WEIGHT, .type = s->launch->operand[o].type};
    if (fv_step_packer(s->step, fv_plan_of_step(p, s->step)->kernel, o)) {
        float *rows;
        FV_TRY(fv_weight_rounded(&rows, &u->weight, type));
        out->data = *owned = rows;
        out->type = FV_F32;
        return FOVEA_OK;
    }
    FV_TRY(fv_mem_array(owned, count, fv_type_size(out->type), FV_MEM_PLAN, "a weight's rows"));
    out->data = *owned;
    return p->device->backend->read(p->device->device, &fv_packed_of_step(p, s->step, o)->mem,
                                    *owned, count * fv_type_size(out->type));
}

/* ---- one step ---- */

/* Reads the step's operands before it runs; `owned` must be freed. */
static fovea_status read_inputs(const tour *t, const stop *s, enum fv_type weight,
                                void *owned[FV_OPERANDS], fv_given in[FV_OPERANDS])
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        if (fv_weight_present(&s->step->use[o].weight))
            FV_TRY(look_at_weight(t, s, o, weight, &owned[o], &in[o]));
        else if (s->step->use[o].view.id >= 0)
            FV_TRY(read_operand(t, s, o, &in[o]));
    }
    return FOVEA_OK;
}

/* Returns whether a step multiplies bfloat16 or int8. */
static bool rounds(const fv_problem *p)
{
    const char *products = fv_problem_products(p);
    return products && (strcmp(products, "bf16") == 0 || strcmp(products, "int8") == 0);
}

/* References that a step is compared with: `own` rounds its operands as the step does. If the step
 * multiplies bfloat16 or int8, `exact` is the result in float32. */
typedef struct standards {
    fv_reference *own, *exact;
} standards;

static void standards_close(standards *d)
{
    fv_reference_close(d->own);
    fv_reference_close(d->exact);
}

/* Computes the references and the step's divisors from its inputs, before it runs. */
static fovea_status define(const tour *t, const stop *s, standards *out, fovea_step_check *check)
{
    fv_given in[FV_OPERANDS] = {{0}};
    void *owned[FV_OPERANDS] = {NULL};
    fv_args args = s->launch->args;
    fovea_status status = read_inputs(t, s, args.prob.weight, owned, in);
    FV_THEN(status, fv_reference_open(&out->own, &args, in, s->step->out, s->step->align));
    if (status == FOVEA_OK && op_of(s)->headroom == FV_HEADROOM_DIVISOR)
        status = fv_headroom_divisor(&check->divisor_mean, &args, in);
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        fv_mem_free(owned[o]);
        owned[o] = NULL;
    }
    if (status == FOVEA_OK && rounds(&args.prob)) {
        args.prob.weight = args.prob.acc = FV_F32;
        status = read_inputs(t, s, FV_F32, owned, in);
        FV_THEN(status, fv_reference_open(&out->exact, &args, in, s->step->out, s->step->align));
    }
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        fv_mem_free(owned[o]);
    return status;
}

/* Runs the step once or, if the device has a copy of the outputs for each frame in flight, once for
 * each copy. */
static fovea_status run_step(tour *t, const stop *s)
{
    const fovea_plan *p = t->rig.plan;
    const fv_id out = s->step->use[s->step->out].view.id;
    const bool outside = p->graph.value[out].kind == FV_VALUE_OUTPUT;
    for (uint32_t i = 0; i < (outside && p->limits.throughput ? p->limits.frames : 1); i++)
        FV_TRY(fv_bench_rig_step(&t->rig, s->sweep, s->at));
    return FOVEA_OK;
}

static void measure(const stop *s, const fv_given *out, fovea_step_check *check)
{
    const fv_problem *p = &s->launch->args.prob;
    const uint64_t rows = reduces(s) ? 1 : p->dim[FV_DIM_ROWS];
    const uint64_t cols = reduces(s) ? out->count : fv_reference_columns(p);
    check->largest =
        fv_headroom_rows(out, rows, cols, s->launch->args.ld[s->step->out], &check->nonfinite);
    if (op_of(s)->headroom == FV_HEADROOM_STATE) {
        check->largest = check->state_mean = fv_headroom_state(p, out->data);
        check->state_sum = check->state_mean * p->dim[FV_ATTN_KEYS];
    }
    if (op_of(s)->headroom == FV_HEADROOM_DIVISOR)
        check->divisor_sum = check->divisor_mean * p->dim[FV_ATTN_KEYS];
    if (op_of(s)->headroom == FV_HEADROOM_WEIGHTS) {
        check->divisor_mean = 1;
        check->divisor_sum = p->dim[FV_ATTN_KEYS];
    }
}

static double value(const fv_given *g, uint64_t i)
{
    return g->type == FV_U8 ? ((const uint8_t *)g->data)[i]
                            : (double)fv_value_get(g->data, g->type, i);
}

/* Returns the scales of the columns that the step writes if its plan has equalised their channels;
 * the float32 plan does not equalise them. Returns NULL if the columns are not scaled. */
static const float *scales_of(const tour *t, const stop *s)
{
    const fovea_plan *p = t->rig.plan;
    const fv_view out = s->step->use[s->step->out].view;
    const fv_equal_value *v = p->equal ? &p->equal[out.id] : NULL;
    const bool divided = v && v->factor && s->step - p->graph.step >= v->first_step;
    return divided ? v->factor + out.col : NULL;
}

static void compare(const tour *t, const stop *s, const fv_given *a, const stop *r,
                    const fv_given *b, fovea_step_check *check)
{
    const float *factor = scales_of(t, s);
    const fv_problem *p = &s->launch->args.prob;
    const uint64_t lda = s->launch->args.ld[s->step->out], ldb = r->launch->args.ld[r->step->out];
    const uint64_t rows = p->dim[FV_DIM_ROWS], cols = fv_reference_columns(p);
    double aa = 0, ab = 0, bb = 0, dd = 0;
    check->end_to_end = 1;
    for (uint64_t y = 0; y < rows; y++)
        for (uint64_t i = 0; i < cols; i++) {
            const double x = value(a, y * lda + i) / (double)(factor ? factor[i] : 1);
            const double want = value(b, y * ldb + i), d = x - want;
            if (!isfinite(d))
                continue;
            aa += x * x;
            ab += x * want;
            bb += want * want;
            dd += d * d;
            check->end_to_end_max = fmax(check->end_to_end_max, fabs(d));
        }
    check->end_to_end_rel = bb > 0 ? sqrt(dd / bb) : 0;
    check->cosine = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 1;
}

/* Returns whether the step's output can be compared with the float32 plan's, channel by channel. It
 * cannot if it consists of partial sums, which are split differently, or if its channels are scaled
 * by factors that are not known for each column. */
static bool compares(const tour *t, const stop *s)
{
    const fv_equal_value *all = t->rig.plan->equal;
    const fv_id out = s->step->use[s->step->out].view.id;
    return !reduces(s) && (!all || !all[out].divided || all[out].factor);
}

/* Returns the number of rows of the step's output value or, for a reduction, of its partial states.
 */
static uint32_t groups(const tour *t, const stop *s)
{
    return t->rig.plan->graph.value[s->step->use[s->step->out].view.id].rows;
}

static fovea_status judge(const standards *d, const fv_given *out, uint32_t groups,
                          fovea_step_check *check, fv_verdict *verdict)
{
    fv_verdict exact = {.ok = true};
    FV_TRY(fv_reference_judge(d->own, out, groups, NULL, verdict));
    if (d->exact)
        FV_TRY(fv_reference_judge(d->exact, out, groups, NULL, &exact));
    check->rounding = exact.rel;
    return FOVEA_OK;
}

/* Runs and checks step `s`. `r` is the same step of `twin`, the float32 plan on the CPU, or NULL if
 * that plan has no such step. */
static fovea_status check_step(tour *t, const stop *s, tour *twin, const stop *r,
                               fovea_step_check *check, fv_verdict *verdict)
{
    standards d = {NULL, NULL};
    fv_given out, reference;
    fovea_status status = define(t, s, &d, check);
    FV_THEN(status, run_step(t, s));
    FV_THEN(status, read_operand(t, s, s->step->out, &out));
    FV_THEN(status, judge(&d, &out, groups(t, s), check, verdict));
    standards_close(&d);
    FV_TRY(status);
    measure(s, &out, check);
    if (r) {
        FV_TRY(run_step(twin, r));
        FV_TRY(read_operand(twin, r, r->step->out, &reference));
        if (compares(t, s))
            compare(t, s, &out, r, &reference, check);
    }
    check->passed = verdict->ok;
    check->text = verdict->text;
    check->values = verdict->checked;
    check->error = verdict->share;
    check->rel = verdict->rel;
    check->max_abs = verdict->max_abs;
    return FOVEA_OK;
}

static fovea_status walk(tour *t, tour *twin, fovea_step_check_fn *fn, void *payload)
{
    stop s = {.step = NULL}, r = {.step = NULL};
    for (size_t i = 0; next_stop(t->rig.plan, &s); i++) {
        fovea_step_check check = {.struct_size = sizeof check,
                                  .step = i,
                                  .label = s.step->label,
                                  .problem = s.problem,
                                  .kernel = fv_plan_of_step(t->rig.plan, s.step)->kernel->name,
                                  .products = fv_problem_products(&s.launch->args.prob)};
        fv_verdict verdict;
        const uint16_t op = s.step->prob.op;
        const bool alone = op == FV_OP_KEYS_I8 || op == FV_OP_ROWS_I8;
        if (!alone && (!next_stop(twin->rig.plan, &r) || r.step->prob.op != s.step->prob.op))
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: the float32 plan on the CPU has another step at this position",
                           s.step->label);
        FV_TRY(check_step(t, &s, twin, alone ? NULL : &r, &check, &verdict));
        if (fn(&check, payload))
            break;
    }
    return FOVEA_OK;
}

/* Opens the CPU for the comparison, with portable kernels only if the device to verify is a CPU
 * itself. */
static fovea_status open_reference(fovea_device **out, const fovea_device *device)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    if (device->backend == fv_backends[0])
        options.isa = "scalar";
    return fovea_device_open(out, "cpu", &options);
}

fovea_status fovea_model_verify(const fovea_model *model, fovea_device *device,
                                const fovea_plan_options *options, const fovea_frame *frame,
                                fovea_step_check_fn *fn, void *payload)
{
    fovea_plan_options o, plain;
    fovea_preprocess rule;
    fovea_device *cpu;
    tour t = {{NULL, NULL}, NULL}, twin = {{NULL, NULL}, NULL};
    FV_TRY(fv_plan_options(&o, &rule, options));
    plain = o;
    plain.weights = plain.activations = FOVEA_DTYPE_F32;
    plain.compute = FOVEA_COMPUTE_F32;
    FV_TRY(open_reference(&cpu, device));
    fovea_status status = tour_open(&t, model, device, &o, frame);
    FV_THEN(status, tour_open(&twin, model, cpu, &plain, frame));
    FV_THEN(status, walk(&t, &twin, fn, payload));
    tour_close(&t);
    tour_close(&twin);
    fovea_device_close(cpu);
    return status;
}
