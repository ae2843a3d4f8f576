/* step_chain.c: plans of a list of steps over a grid of tokens. */
#include "tests/plan/step_chain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "models/model.h"
#include "tests/fixture.h"
#include "tests/peek.h"

static fovea_device *device[CHAIN_THREADS + 1];

int chain_open(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= CHAIN_THREADS; i++)
        device[i] = fixture_device(i);
    return 0;
}

int chain_close(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= CHAIN_THREADS; i++)
        fovea_device_close(device[i]);
    return 0;
}

fovea_device *chain_device(uint32_t threads)
{
    return device[threads];
}

void chain_succeed(fovea_status status)
{
    if (status != FOVEA_OK)
        fail_msg("%s: %s", fovea_status_text(status), fovea_error());
}

fovea_plan *chain_begin(step_chain *c, fv_view *in, uint32_t width, uint32_t height,
                        uint32_t channels, uint32_t threads)
{
    fovea_plan *p;
    void *memory;
    chain_succeed(fv_plan_alloc(&p, device[threads], NULL));
    chain_succeed(fv_model_blank(&p->model));
    chain_succeed(
        fv_mem_alloc(&memory, sizeof *p->graph.wanted, FV_MEM_PLAN, "the plan's outputs"));
    p->graph.wanted = memory;
    p->graph.wanted[0] = (fv_wanted){.name = "out", .value = FV_NO_VALUE};
    p->graph.n_wanted = 1;
    *c = (step_chain){&c->own, width, height, 1, fv_builder_of(&p->graph, &p->options)};
    *in = fv_emit_input(c->b, "in", width * height, channels, FV_F32);
    return p;
}

void chain_finish(fovea_plan *p, const fv_plan_request *r)
{
    chain_succeed(fv_plan_finish(p, r));
}

fv_weight chain_weight(step_chain *c, uint32_t rows, uint32_t cols)
{
    float *w;
    const fv_weight made = fv_emit_constant(c->b, rows, cols, &w);
    for (uint32_t i = 0; w && i < rows * cols; i++) {
        c->seed = c->seed * 1664525u + 1013904223u;
        w[i] = ((float)(c->seed >> 8) / 0x1p23f - 1.f) / sqrtf((float)cols);
    }
    return made;
}

float *chain_results(fovea_plan *p, uint32_t values, size_t *bytes)
{
    fovea_output_info out = FOVEA_OUTPUT_INFO_INIT;
    assert_true(fovea_plan_output(p, 0, &out));
    const size_t n = (size_t)out.rows * out.columns;
    float *in = malloc(values * sizeof *in), *got = malloc(2 * n * sizeof *got);
    assert_true(in && got);
    for (uint32_t frame = 0; frame < 2; frame++) {
        for (uint32_t i = 0; i < values; i++)
            in[i] = (float)((i + 7 * frame) * 2654435761u >> 8) / 0x1p23f - 1;
        const fovea_matrix input = {.data = in};
        chain_succeed(fovea_op_run(p, &input, 1, (fovea_matrix){.data = got + frame * n}));
    }
    free(in);
    *bytes = 2 * n * sizeof *got;
    return got;
}
