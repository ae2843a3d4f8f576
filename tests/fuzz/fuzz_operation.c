/* fuzz_operation.c: reads any header as a case of `fovea op`: options and inputs that may not be
 * consistent. Tensors are zeros. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/op_case.h"
#include "tests/fuzz/fuzz.h"

#define MEMORY (16u << 20)
#define FLOPS 1e7

/* ---- the target ---- */

/* Runs the same rows as a sequence: one token, then the others, and again from a state saved in
 * between. */
static void run_state(const op_case *c, const fovea_matrix *in)
{
    fovea_attention_options o = c->options;
    const size_t floats = (size_t)o.rows * o.heads * o.value_dim;
    fovea_state *state;
    if (strcmp(o.attention, "softmax") == 0)
        o.keys = o.rows;
    if (fovea_state_create(&state, fuzz_device(), &o) != FOVEA_OK)
        return;
    const size_t size = fovea_state_size(state);
    float *saved = malloc((size + 1) * sizeof *saved), *out = malloc(4 * floats);
    fuzz_check(saved && out, "memory");
    fuzz_check(fovea_state_step(state, in, c->n_inputs, (fovea_matrix){out, 0}) == FOVEA_OK,
               fovea_error());
    fuzz_check(fovea_state_save(state, saved, size) == FOVEA_OK, fovea_error());
    fuzz_check(fovea_state_restore(state, saved, size + 1) == FOVEA_EINVAL, "a state's size");
    for (int i = 0; i < 2 && o.rows > 1; i++) {
        fuzz_check(fovea_state_feed(state, o.rows - 1, in, c->n_inputs, (fovea_matrix){out, 0}) ==
                       FOVEA_OK,
                   fovea_error());
        fuzz_check(fovea_state_restore(state, saved, size) == FOVEA_OK, fovea_error());
    }
    fovea_state_free(state);
    free(saved);
    free(out);
}

static void run(op_case *c, fovea_plan *plan)
{
    fovea_matrix in[OP_INPUTS], out = {0};
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    const char *name;
    fovea_plan_query(plan, &info);
    if (info.flops > FLOPS)
        return;
    for (size_t i = 3; (name = fovea_op_input(plan, i)) != NULL; i++)
        if (op_case_input(c, name) != CLI_OK)
            return;
    for (size_t i = 0; i < c->n_inputs; i++)
        in[i] = (fovea_matrix){op_batch(&c->input[i], 0), 0};
    out.data = malloc((size_t)c->options.rows * c->options.heads * c->options.value_dim * 4);
    fuzz_check(out.data && fovea_op_run(plan, in, c->n_inputs, out) == FOVEA_OK, fovea_error());
    free(out.data);
    if (c->options.causal)
        run_state(c, in);
    fuzz_taken++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const cli_settings settings = {.memory_limit = MEMORY};
    char path[128];
    op_case c = {0};
    fovea_plan *plan;
    snprintf(path, sizeof path, "%s/case.safetensors", fuzz_folder());
    fuzz_write_tensors("case.safetensors", data, size);
    if (op_case_open(&c, path, &settings, FOVEA_FORM_AUTO) == CLI_OK &&
        fovea_attention_plan_create(&plan, fuzz_device(), &c.options) == FOVEA_OK) {
        run(&c, plan);
        fovea_plan_free(plan);
    }
    op_case_free(&c);
    return 0;
}

/* ---- seeds ---- */

/* Seeds: q, k and v of 7 tokens in 2 heads of 4 channels, followed by the data. */
size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    static const char core[] =
        "\"q\":{\"dtype\":\"F32\",\"shape\":[1,2,7,4],\"data_offsets\":[0,224]},"
        "\"k\":{\"dtype\":\"F32\",\"shape\":[1,2,7,4],\"data_offsets\":[224,448]},"
        "\"v\":{\"dtype\":\"F32\",\"shape\":[1,2,7,4],\"data_offsets\":[448,672]}";
    static const struct {
        const char *metadata, *tensors;
    } cases[] = {
        {"\"mechanism\":\"softmax\",\"scale\":\"0.5\"", ""},
        {"\"mechanism\":\"linear\",\"feature_map\":\"elu1\",\"eps\":\"1e-6\"", ""},
        {"\"mechanism\":\"mala\",\"rope\":\"1\",\"grid_w\":\"7\",\"grid_h\":\"1\"", ""},
        {"\"mechanism\":\"mala\",\"causal\":\"1\"", ""},
        {"\"mechanism\":\"mala-paper\",\"feature_map\":\"relu\",\"causal\":\"1\"", ""},
        {"\"mechanism\":\"softmax\",\"causal\":\"1\",\"scale\":\"0.5\"", ""},
        {"\"mechanism\":\"gla\",\"causal\":\"1\"",
         ",\"gk\":{\"dtype\":\"F32\",\"shape\":[1,2,7,4],\"data_offsets\":[672,896]}"},
        {"\"mechanism\":\"gated-delta-rule\",\"causal\":\"1\",\"l2norm\":\"1\"",
         ",\"g\":{\"dtype\":\"F32\",\"shape\":[1,2,7],\"data_offsets\":[672,728]},"
         "\"beta\":{\"dtype\":\"F32\",\"shape\":[1,2,7],\"data_offsets\":[728,784]}"},
        {"\"mechanism\":\"sla-linear\",\"feature_map\":\"relu\"",
         ",\"gq\":{\"dtype\":\"F32\",\"shape\":[1,2,7],\"data_offsets\":[672,728]},"
         "\"gk_gate\":{\"dtype\":\"F32\",\"shape\":[1,2,7],\"data_offsets\":[728,784]}"},
        {"\"mechanism\":\"pola\",\"part\":\"core+dwc\",\"grid_w\":\"7\",\"grid_h\":\"1\"",
         ",\"dwc.weight\":{\"dtype\":\"F32\",\"shape\":[4,1,3,3],\"data_offsets\":[672,816]},"
         "\"power\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[816,848]}"},
    };
    if (index >= sizeof cases / sizeof *cases)
        return 0;
    return (size_t)snprintf((char *)out, capacity, "{\"__metadata__\":{%s},%s%s}",
                            cases[index].metadata, core, cases[index].tensors);
}
