/* state.c: a causal operation with a state: a plan for many rows and a plan for one row that
 * continue the same state. */
#include <math.h>

#include "base/abi.h"
#include "base/mem.h"
#include "plan/op_plan.h"
#include "plan/plan.h"
#include "run/run.h"

struct fovea_state {
    fovea_plan *feed, *step; /* feed owns the state's memory */
    uint32_t rows;           /* maximum rows per call of feed */
    /* With softmax attention, whose state is a cache: positions of the next call's rows, the number
     * of tokens in the cache, and its capacity. */
    float *position;
    uint32_t held, capacity;
};

static size_t floats_of(const fovea_state *s)
{
    return (size_t)fv_op_state_floats(s->feed);
}

static fovea_status create(fovea_state *s, fovea_device *device,
                           const fovea_attention_options *options)
{
    fovea_attention_options one = *options;
    fv_op_options op = fv_op_of_attention(options);
    op.remembers = true;
    FV_TRY(fv_op_plan(&s->feed, device, &op, NULL, fv_wisdom_global()));
    if (floats_of(s) == 0)
        return fv_fail(FOVEA_EINVAL, "bidirectional attention has no state; set `causal`");
    s->rows = options->rows;
    one.rows = 1;
    one.form = FOVEA_FORM_RECURRENT;
    if (fv_op_position(s->feed)) {
        s->capacity = options->keys;
        FV_TRY(FV_MEM_ARRAY(&s->position, s->rows, FV_MEM_PLAN, "the tokens' positions"));
    } else {
        one.keys = 0;
    }
    op = fv_op_of_attention(&one);
    op.remembers = true;
    return fv_op_plan(&s->step, device, &op, s->feed, fv_wisdom_global());
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
    fv_mem_free(s->position);
    fv_mem_free(s);
}

/* Sets the plan's input of positions for the next rows. */
static fovea_status place(fovea_state *s, fovea_plan *plan, uint32_t rows)
{
    if (rows > s->capacity - s->held)
        return fv_fail(FOVEA_EINVAL,
                       "%u more tokens after %u are too many; the state holds at most %u: reset "
                       "it, or create it with more `keys`",
                       rows, s->held, s->capacity);
    for (uint32_t i = 0; i < rows; i++)
        s->position[i] = (float)(s->held + i);
    return plan->device->backend->upload(plan->run.queue, fv_op_position(plan)->slot, s->position,
                                         sizeof *s->position);
}

static fovea_status advance(fovea_state *s, fovea_plan *plan, uint32_t rows,
                            const fovea_matrix *inputs, size_t n_inputs, fovea_matrix output)
{
    if (s->position)
        FV_TRY(place(s, plan, rows));
    FV_TRY(fv_op_run(plan, rows, inputs, n_inputs, &output));
    if (s->position)
        s->held += rows;
    return FOVEA_OK;
}

fovea_status fovea_state_step(fovea_state *s, const fovea_matrix *inputs, size_t n_inputs,
                              fovea_matrix output)
{
    FV_TRY(fv_require(s, "the state"));
    return advance(s, s->step, 1, inputs, n_inputs, output);
}

fovea_status fovea_state_feed(fovea_state *s, uint32_t rows, const fovea_matrix *inputs,
                              size_t n_inputs, fovea_matrix output)
{
    FV_TRY(fv_require(s, "the state"));
    if (rows < 1 || rows > s->rows)
        return fv_fail(
            FOVEA_EINVAL,
            "%u rows cannot be fed at once; the state was created for 1 to %u rows at a time", rows,
            s->rows);
    return advance(s, s->feed, rows, inputs, n_inputs, output);
}

const char *fovea_state_input(const fovea_state *s, size_t index)
{
    return fovea_op_input(s->feed, index);
}

fovea_status fovea_state_reset(fovea_state *s)
{
    FV_TRY(fv_require(s, "the state"));
    s->held = 0;
    return fv_plan_kept_reset(s->feed);
}

size_t fovea_state_size(const fovea_state *s)
{
    return floats_of(s) + (s->position != NULL);
}

static fovea_status check_size(const fovea_state *s, const float *values, size_t floats)
{
    if (!values || floats != fovea_state_size(s))
        return fv_fail(FOVEA_EINVAL, "the buffer has %zu floats, but the saved state has %zu",
                       values ? floats : 0, fovea_state_size(s));
    return FOVEA_OK;
}

fovea_status fovea_state_save(const fovea_state *s, float *out, size_t floats)
{
    FV_TRY(check_size(s, out, floats));
    if (s->position)
        out[floats - 1] = (float)s->held;
    return fv_plan_kept_read(s->feed, out, floats_of(s) * sizeof *out);
}

fovea_status fovea_state_restore(fovea_state *s, const float *in, size_t floats)
{
    FV_TRY(check_size(s, in, floats));
    const float held = s->position ? in[floats - 1] : 0;
    if (!(held >= 0 && held <= (float)s->capacity) || held != floorf(held))
        return fv_fail(FOVEA_EINVAL,
                       "the saved state has %g tokens, but this state holds at most %u; create it "
                       "with more `keys`",
                       (double)held, s->capacity);
    s->held = (uint32_t)held;
    return fv_plan_kept_write(s->feed, in, floats_of(s) * sizeof *in);
}
