/* state.c: a causal operation with memory: two plans, one of many rows and one of a single row,
 * that advance the same state. */
#include "base/abi.h"
#include "base/mem.h"
#include "plan/op_plan.h"
#include "plan/plan.h"
#include "run/run.h"

struct fovea_state {
    fovea_plan *feed, *step; /* feed owns the state's memory */
    uint32_t rows;           /* maximum per call of feed */
};

static fv_mem *memory(const fovea_state *s)
{
    return fv_plan_kept(s->feed);
}

static fovea_status create(fovea_state *s, fovea_device *device,
                           const fovea_attention_options *options)
{
    fovea_attention_options one = *options;
    fv_op_options op = fv_op_of_attention(options);
    FV_TRY(fv_op_plan(&s->feed, device, &op, NULL, fv_wisdom_global()));
    if (fovea_state_size(s) == 0)
        return fv_fail(FOVEA_EINVAL,
                       "a state of %s, which has none; use a causal linear attention, retention, "
                       "gla or a delta rule",
                       options->causal ? "softmax attention" : "a bidirectional attention");
    s->rows = options->rows;
    one.rows = 1;
    one.keys = 0;
    one.form = FOVEA_FORM_RECURRENT;
    op = fv_op_of_attention(&one);
    return fv_op_plan(&s->step, device, &op, memory(s), fv_wisdom_global());
}

fovea_status fovea_state_create(fovea_state **out, fovea_device *device,
                                const fovea_attention_options *options)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    FV_TRY(fv_require(device, "the device"));
    FV_TRY(fv_require(options, "the attention's options"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_ATTENTION_OPTIONS_INIT));
    fovea_state *s;
    FV_TRY(FV_MEM_NEW(&s, FV_MEM_PLAN, "the state"));
    fovea_status status = create(s, device, &o);
    FV_THEN(status, fovea_state_reset(s));
    FV_RETURN_MADE(out, s, fovea_state_free, status);
}

void fovea_state_free(fovea_state *s)
{
    if (!s)
        return;
    fovea_plan_free(s->step);
    fovea_plan_free(s->feed);
    fv_mem_free(s);
}

fovea_status fovea_state_step(fovea_state *s, const fovea_matrix *inputs, size_t n_inputs,
                              fovea_matrix output)
{
    FV_TRY(fv_require(s, "the state"));
    return fv_op_run(s->step, 1, inputs, n_inputs, output);
}

fovea_status fovea_state_feed(fovea_state *s, uint32_t rows, const fovea_matrix *inputs,
                              size_t n_inputs, fovea_matrix output)
{
    FV_TRY(fv_require(s, "the state"));
    if (rows < 1 || rows > s->rows)
        return fv_fail(FOVEA_EINVAL, "%u rows to feed; the state was made for 1 to %u at a time",
                       rows, s->rows);
    return fv_op_run(s->feed, rows, inputs, n_inputs, output);
}

const char *fovea_state_input(const fovea_state *s, size_t index)
{
    return fovea_op_input(s->feed, index);
}

fovea_status fovea_state_reset(fovea_state *s)
{
    FV_TRY(fv_require(s, "the state"));
    return s->feed->device->backend->write(s->feed->device->device, memory(s), NULL,
                                           fovea_state_size(s) * sizeof(float));
}

size_t fovea_state_size(const fovea_state *s)
{
    return (size_t)fv_op_state_floats(s->feed);
}

static fovea_status check_size(const fovea_state *s, const float *values, size_t floats)
{
    if (!values || floats != fovea_state_size(s))
        return fv_fail(FOVEA_EINVAL, "%zu floats of a saved state; it has %zu", values ? floats : 0,
                       fovea_state_size(s));
    return FOVEA_OK;
}

fovea_status fovea_state_save(const fovea_state *s, float *out, size_t floats)
{
    FV_TRY(check_size(s, out, floats));
    return s->feed->device->backend->read(s->feed->device->device, memory(s), out,
                                          floats * sizeof *out);
}

fovea_status fovea_state_restore(fovea_state *s, const float *in, size_t floats)
{
    FV_TRY(check_size(s, in, floats));
    return s->feed->device->backend->write(s->feed->device->device, memory(s), in,
                                           floats * sizeof *in);
}
