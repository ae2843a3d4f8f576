/* verify_kernels.c: runs every kernel of a device on the cases that it supports. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <fovea/verification.h>

#include "base/mem.h"
#include "ops/mech_traits.h"
#include "trial/trial.h"
#include "verify/verify_cases.h"

enum { CHUNK = 40 }; /* rows of a call when a step is streamed */

/* Results of one kernel so far. */
typedef struct result {
    const fv_kernel *kernel;
    bool asked;
    fovea_kernel_check check;
    char problem[160], text[200];
} result;

typedef struct verification {
    fovea_device *device;
    uint32_t features;
    result *result; /* one per kernel of the device */
    int count;
    const fv_cases *cases[2]; /* with float32 rows, and with 16-bit rows; see fv_cases_open */
} verification;

/* Sets the knobs of trial number `index`: first the defaults, then every other value of one knob
 * with the defaults of the others. Returns false if there is no trial of that number. */
static bool next_knobs(fv_knobs *out, const fv_kernel *k, uint32_t index)
{
    *out = fv_kernel_defaults(k);
    if (index-- == 0)
        return true;
    for (uint32_t i = 0; k->hooks->knobs && k->hooks->knobs[i].name; i++) {
        const uint32_t others = k->hooks->knobs[i].count - 1;
        if (index < others) {
            out->v[i] = k->hooks->knobs[i].value[1 + index];
            return true;
        }
        index -= others;
    }
    return false;
}

static void fail(result *r, const fv_step *s, const char *text)
{
    if (r->check.failed++)
        return;
    fv_problem_format(r->problem, sizeof r->problem, &s->prob);
    snprintf(r->text, sizeof r->text, "%s", text);
}

/* Runs one kernel on one case. A kernel that the device rejects counts as failed; if the device is
 * lost, the verification ends. */
static fovea_status try_kernel(result *r, fv_trial *trial, const fv_step *s, const fv_knobs *knobs)
{
    fv_trial_kernel *t;
    fv_verdict v = {.ok = false};
    r->check.cases++;
    fovea_status status = fv_trial_kernel_open(&t, trial, r->kernel, knobs);
    if (status == FOVEA_OK) {
        status = fv_trial_kernel_verify(t, &v);
        fv_trial_kernel_close(t);
    }
    if (status == FOVEA_EDEVICE || status == FOVEA_ENOMEM)
        return status;
    if (status != FOVEA_OK || !v.ok)
        fail(r, s, status != FOVEA_OK ? fovea_error() : v.text);
    r->check.values += v.checked;
    r->check.rel = fmax(r->check.rel, v.rel);
    r->check.error = fmax(r->check.error, v.share);
    return FOVEA_OK;
}

/* Returns whether any requested kernel supports the step. */
static bool wanted(const verification *v, const fv_step *s)
{
    for (int i = 0; i < v->count; i++)
        if (v->result[i].asked && fv_kernel_fits(v->result[i].kernel, &s->prob, v->features))
            return true;
    return false;
}

static fovea_status try_step(verification *v, const fv_graph *g, const fv_step *s, uint32_t chunk)
{
    fv_trial *trial;
    fovea_status status = fv_trial_open(&trial, v->device, g, s, NULL, 0, chunk);
    if (status != FOVEA_OK)
        return status;
    for (int i = 0; i < v->count && status == FOVEA_OK; i++) {
        result *r = &v->result[i];
        fv_knobs knobs;
        if (!r->asked || !fv_kernel_fits(r->kernel, &s->prob, v->features))
            continue;
        const bool first = r->check.cases == 0; /* this is the kernel's first case */
        for (uint32_t k = 0; status == FOVEA_OK && next_knobs(&knobs, r->kernel, k); k++)
            if (k == 0 || first)
                status = try_kernel(r, trial, s, &knobs);
    }
    fv_trial_close(trial);
    return status;
}

/* Runs all cases of an op, each with all rows at once and streamed in chunks. */
static fovea_status try_op(verification *v, enum fv_op op)
{
    for (int types = 0; types < 2; types++)
        for (uint32_t i = 0; v->cases[types] && i < v->cases[types]->graph.steps; i++) {
            const fv_graph *g = &v->cases[types]->graph;
            const fv_step *s = &g->step[i];
            if (s->prob.op != op || !wanted(v, s))
                continue;
            FV_TRY(try_step(v, g, s, 0));
            if (s->prob.dim[FV_DIM_ROWS] > CHUNK)
                FV_TRY(try_step(v, g, s, CHUNK));
        }
    return FOVEA_OK;
}

/* Reports the results of an op's kernels to the caller. Returns false if the caller ends the
 * verification. */
static bool report_op(verification *v, enum fv_op op, fovea_kernel_check_fn *fn, void *payload)
{
    for (int i = 0; i < v->count; i++) {
        result *r = &v->result[i];
        if (!r->asked || r->kernel->op != op)
            continue;
        r->check.problem = r->problem;
        r->check.text = r->text;
        if (fn(&r->check, payload))
            return false;
    }
    return true;
}

static fovea_status try_all(verification *v, fovea_kernel_check_fn *fn, void *payload)
{
    for (int op = FV_OP_NONE + 1; op < FV_OP_COUNT; op++) {
        FV_TRY(try_op(v, (enum fv_op)op));
        if (!report_op(v, (enum fv_op)op, fn, payload))
            break;
    }
    return FOVEA_OK;
}

static fovea_status begin(verification *v, const char *name)
{
    const fv_backend *be = v->device->backend;
    const fv_kernel *list = be->kernels(v->device->device, &v->count, &v->features);
    FV_TRY(FV_MEM_ARRAY(&v->result, (uint64_t)v->count, FV_MEM_PLAN, "the kernels' results"));
    for (int i = 0; i < v->count; i++) {
        const fv_kernel *k = &list[i];
        v->result[i].kernel = k;
        v->result[i].asked = !(k->needs & ~v->features) && (!name || strstr(k->name, name)) &&
                             !fv_op_table[k->op]->joint;
        v->result[i].check = (fovea_kernel_check){.struct_size = sizeof(fovea_kernel_check),
                                                  .kernel = k->name,
                                                  .op = fv_op_names[k->op],
                                                  .mechanism = fv_mech_table[k->mech]->name,
                                                  .isa = be->level(k->needs)};
    }
    return FOVEA_OK;
}

fovea_status fovea_device_verify(fovea_device *device, const char *name, fovea_kernel_check_fn *fn,
                                 void *payload)
{
    verification v = {.device = device};
    fv_limits limits;
    fv_cases *cases[2] = {NULL};
    device->backend->limits(device->device, &limits);
    fovea_status status = begin(&v, name);
    FV_THEN(status, fv_cases_open(&cases[0], FV_F32, &limits));
    FV_THEN(status, fv_cases_open(&cases[1], limits.throughput ? FV_F16 : FV_BF16, &limits));
    memcpy(v.cases, cases, sizeof cases);
    FV_THEN(status, try_all(&v, fn, payload));
    fv_cases_close(cases[0]);
    fv_cases_close(cases[1]);
    fv_mem_free(v.result);
    return status;
}
