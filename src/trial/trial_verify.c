/* trial_verify.c: checks that a kernel wrote the right output, and nothing else. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "trial/trial_parts.h"

static fovea_status define(fv_trial *r)
{
    fv_given in[FV_OPERANDS] = {{0}};
    float *weight[FV_OPERANDS] = {NULL};
    fovea_status status = FOVEA_OK;
    for (uint32_t o = 0; o < FV_OPERANDS && status == FOVEA_OK; o++) {
        const fv_weight *w = &r->weight[o];
        if (r->of[o])
            in[o] = fv_trial_given(r, o, r->of[o]->image);
        if (!fv_weight_present(w))
            continue;
        status = fv_weight_rounded(&weight[o], w, r->operand[o].type);
        in[o] = (fv_given){.data = weight[o],
                           .count = (uint64_t)w->rows * w->cols,
                           .kind = FV_KIND_WEIGHT,
                           .type = FV_F32};
    }
    FV_THEN(status, fv_reference_open(&r->reference, &r->args, in, r->step.out, r->step.align));
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        fv_mem_free(weight[o]);
    return status;
}

/* Restores all operands to their contents before the first run. */
static fovea_status begin(fv_trial_kernel *t)
{
    fv_trial *r = t->r;
    const fv_backend *be = r->device->backend;
    for (uint32_t i = 0; i < r->zones; i++)
        FV_TRY(fv_zone_reset(r, &r->zone[i]));
    if (!t->scratch.size)
        return FOVEA_OK;
    void *bytes;
    FV_TRY(fv_mem_alloc(&bytes, t->scratch.size, FV_MEM_PLAN, "a kernel's scratch"));
    fv_zone_poison(bytes, t->scratch.size);
    const fovea_status status = be->write(r->device->device, &t->scratch, bytes, t->scratch.size);
    fv_mem_free(bytes);
    return status;
}

/* Restores in `seen` the earlier contents of the bytes that the step may write, so that any other
 * difference is a wrong write. */
static void take_back(const fv_trial *r, uint32_t o, uint8_t *seen)
{
    const fv_zone *z = r->of[o];
    const uint64_t stride = fv_value_stride(z->value), size = fv_type_size(z->value->type);
    const uint64_t at = FV_ZONE_GUARD + r->step.use[o].view.col * size;
    const bool row = r->operand[o].kind == FV_KIND_ROW;
    const uint64_t rows = row ? r->step.prob.dim[FV_DIM_ROWS] : z->rows;
    for (uint64_t i = 0; i < rows; i++)
        memcpy(seen + at + i * stride, z->image + at + i * stride, fv_trial_columns(r, o) * size);
}

static void compare_guards(const fv_zone *z, const uint8_t *seen, fv_verdict *out)
{
    uint64_t at = 0;
    if (!out->ok || memcmp(seen, z->image, z->size) == 0)
        return;
    while (seen[at] == z->image[at])
        at++;
    out->ok = false;
    snprintf(out->text, sizeof out->text,
             "the kernel changed byte %lld of an operand of %llu bytes that it must not write",
             (long long)at - FV_ZONE_GUARD, (unsigned long long)fv_zone_extent(z));
}

/* Copies the zones' current contents, each to its own allocation. */
static fovea_status read_zones(const fv_trial *r, uint8_t *seen[FV_OPERANDS])
{
    const fv_backend *be = r->device->backend;
    for (uint32_t i = 0; i < r->zones; i++) {
        FV_TRY(fv_mem_alloc(&seen[i], r->zone[i].size, FV_MEM_PLAN, "an operand's copy"));
        FV_TRY(be->read(r->device->device, &r->zone[i].mem, seen[i], r->zone[i].size));
    }
    return FOVEA_OK;
}

static fovea_status judge_outputs(const fv_trial *r, uint8_t *seen[FV_OPERANDS], fv_verdict *out)
{
    const uint32_t state = fv_op_table[r->step.prob.op]->state;
    fv_given written[FV_OPERANDS] = {{0}};
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (o == r->step.out || (state && o == state))
            written[o] = fv_trial_given(r, o, seen[r->of[o] - r->zone]);
    FV_TRY(fv_reference_judge(r->reference, &written[r->step.out],
                              r->sweep.groups * r->sweep.partials, state ? &written[state] : NULL,
                              out));
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (written[o].data)
            take_back(r, o, seen[r->of[o] - r->zone]);
    for (uint32_t i = 0; i < r->zones; i++)
        compare_guards(&r->zone[i], seen[i], out);
    return FOVEA_OK;
}

fovea_status fv_trial_kernel_verify(fv_trial_kernel *t, fv_verdict *out)
{
    fv_trial *r = t->r;
    uint8_t *seen[FV_OPERANDS] = {NULL};
    double seconds;
    if (!r->reference)
        FV_TRY(define(r));
    FV_TRY(begin(t));
    FV_TRY(fv_trial_kernel_go(t, &seconds));
    fovea_status status = read_zones(r, seen);
    FV_THEN(status, judge_outputs(r, seen, out));
    for (uint32_t i = 0; i < r->zones; i++)
        fv_mem_free(seen[i]);
    return status;
}
