/* cmd_op.c: `fovea op`: runs one operator call from a file in the golden files' format. Batches run
 * one after the other. Causal operations use a state, which becomes part of the result. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/op_case.h"

struct result {
    op_rows out;
    float *state;  /* for causal operations: the saved states, one per batch */
    size_t floats; /* floats of each state */
};

/* Reads all inputs other than q, k and v that the library names, for a plan or for a state. */
static int read_inputs(op_case *c, const fovea_plan *plan, const fovea_state *state)
{
    for (const char *name; (name = plan ? fovea_op_input(plan, c->n_inputs)
                                        : fovea_state_input(state, c->n_inputs)) != NULL;)
        CLI_TRY(op_case_input(c, name));
    return op_case_complete(c);
}

static void batch_of(fovea_matrix *in, fovea_matrix *out, const op_case *c, const op_rows *to,
                     uint32_t batch)
{
    for (size_t i = 0; i < c->n_inputs; i++)
        in[i] = (fovea_matrix){op_batch(&c->input[i], batch), 0};
    *out = (fovea_matrix){op_batch(to, batch), 0};
}

static int run_plan(struct result *r, op_case *c, fovea_device *device)
{
    fovea_matrix in[OP_INPUTS], out;
    fovea_plan *plan;
    CLI_TRY(cli_check(fovea_attention_plan_create(&plan, device, &c->options)));
    int code = read_inputs(c, plan, NULL);
    for (uint32_t b = 0; b < r->out.batch && !code; b++) {
        batch_of(in, &out, c, &r->out, b);
        code = cli_check(fovea_op_run(plan, in, c->n_inputs, out));
    }
    fovea_plan_free(plan);
    return code;
}

static int run_state(struct result *r, op_case *c, fovea_device *device)
{
    fovea_matrix in[OP_INPUTS], out;
    fovea_state *state;
    CLI_TRY(cli_check(fovea_state_create(&state, device, &c->options)));
    r->floats = fovea_state_size(state);
    int code = op_case_state(&r->state, c, r->floats);
    CLI_THEN(code, read_inputs(c, NULL, state));
    for (uint32_t b = 0; b < r->out.batch && !code; b++) {
        float *saved = r->state + b * r->floats;
        batch_of(in, &out, c, &r->out, b);
        code = cli_check(fovea_state_restore(state, saved, r->floats));
        CLI_THEN(code, cli_check(fovea_state_feed(state, c->options.rows, in, c->n_inputs, out)));
        CLI_THEN(code, cli_check(fovea_state_save(state, saved, r->floats)));
    }
    fovea_state_free(state);
    return code;
}

/* Reduces the result to the rows that the tensor "rows" lists. Long cases have this tensor. */
static int pick_rows(op_rows *out, op_case *c)
{
    fovea_tensor t;
    if (!op_case_find(c, "rows", &t))
        return CLI_OK;
    if (t.elements < 1 || t.elements > 1u << 24)
        return cli_fail(CLI_INPUT, "%s: \"rows\" must have from 1 to 2^24 elements", c->path);
    float *rows = cli_alloc((size_t)t.elements, sizeof *rows);
    int code = cli_check(fovea_tensors_read(&t, 0, t.elements, rows));
    op_rows few = *out;
    const size_t size = op_row_size(out);
    few.rows = (uint32_t)t.elements;
    few.data = cli_alloc((size_t)few.batch * few.rows, size);
    for (size_t i = 0; i < t.elements && !code; i++) {
        if (!(rows[i] >= 0 && rows[i] < (float)out->rows)) {
            code = cli_fail(CLI_INPUT, "%s: \"rows\" contains a row that does not exist", c->path);
            break;
        }
        for (uint32_t b = 0; b < out->batch; b++)
            memcpy(op_batch(&few, b) + i * size, op_batch(out, b) + (size_t)rows[i] * size, size);
    }
    free(rows);
    free(out->data);
    *out = few;
    return code;
}

/* Returns whether the case's result has a state S and Z. Softmax has a cache instead, and MALA's
 * state has means. */
static bool has_state(const fovea_attention_options *o)
{
    return o->causal && strcmp(o->attention, "softmax") != 0 && !strstr(o->attention, "mala");
}

/* Splits the saved states of all batches into S and Z. */
static void cut_state(float *s, float *z, const struct result *r, const op_case *c)
{
    const size_t size_z = (size_t)c->options.heads * c->features;
    const size_t size_s = size_z * c->options.value_dim;
    for (size_t b = 0; b < r->out.batch; b++) {
        const float *state = r->state + b * r->floats;
        memcpy(s + b * size_s, state, size_s * sizeof *s);
        if (c->divided)
            memcpy(z + b * size_z, state + size_s, size_z * sizeof *z);
    }
}

static int save(const struct result *r, const op_case *c, const char *path)
{
    const op_rows *o = &r->out;
    const char *const metadata[][2] = {{"attention", c->options.attention}};
    fovea_tensor t[3], rows;
    const char *name = fovea_tensors_find(c->file, "rows", &rows) ? "out_rows" : "out";
    const uint64_t tokens[] = {o->batch, o->rows, (uint64_t)o->heads * o->dim};
    const uint64_t heads[] = {o->batch, o->heads, o->rows, o->dim};
    const uint64_t state[] = {o->batch, o->heads, c->features, o->dim};
    const uint64_t divisor[] = {o->batch, 1, o->heads, c->features};
    float *data = cli_alloc((size_t)o->batch * o->rows, op_row_size(o));
    float *s = cli_alloc(o->batch, r->floats * sizeof *s);
    float *z = cli_alloc(o->batch, r->floats * sizeof *z);
    size_t n = 0;
    if (c->tokens_first) {
        t[n++] = cli_tensor(name, (const float *)(const void *)o->data, 3, tokens);
    } else {
        op_from_rows((char *)data, o);
        t[n++] = cli_tensor(name, data, 4, heads);
    }
    if (c->features) {
        cut_state(s, z, r, c);
        t[n++] = cli_tensor("state_out", s, 4, state);
    }
    if (c->divided)
        t[n++] = cli_tensor("z_out", z, 4, divisor);
    int code = cli_check(fovea_tensors_write(path, t, n, metadata, 1));
    free(data);
    free(s);
    free(z);
    return code;
}

int cli_op(const cli_command *self, int argc, char **argv)
{
    static const char *const forms[] = {"auto", "recurrent", "chunk", NULL};
    cli_common common = {.half = "type of q, k and v: f32, f16 or bf16"};
    cli_session s;
    const char *output = NULL, *form_name = NULL;
    const cli_option own[] = {
        {"output", 'o', "FILE", "file for the result", &output},
        {"form", 0, "NAME", "form of causal operations: auto, recurrent, chunk", &form_name,
         .choices = forms},
        {NULL},
    };
    int first, form = 0, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first || (code = cli_choose(&form, "form", form_name, forms)))
        return code;
    if (first + 1 != argc || !output)
        return cli_fail(CLI_USAGE, "op needs one CASE.safetensors and -o OUT.safetensors");
    if (cli_same_file(argv[first], output))
        return cli_fail(CLI_USAGE, "-o %s is the case itself; choose another file", output);
    CLI_TRY(cli_output_check(output));
    CLI_TRY(cli_open(&s, &common, NULL));
    op_case c = {0};
    struct result r = {0};
    cli_progress bar;
    cli_progress_begin(&bar, "op");
    code = op_case_open(&c, argv[first], &s.settings, (fovea_form)form);
    if (!code) {
        const op_rows *q = &c.input[0];
        r.out = (op_rows){q->batch, q->heads, q->rows, c.options.value_dim, sizeof(float), NULL};
        r.out.data = cli_alloc((size_t)q->batch * q->rows, op_row_size(&r.out));
        code = has_state(&c.options) ? run_state(&r, &c, s.device) : run_plan(&r, &c, s.device);
    }
    CLI_THEN(code, pick_rows(&r.out, &c));
    CLI_THEN(code, save(&r, &c, output));
    cli_progress_end(&bar);
    free(r.out.data);
    free(r.state);
    op_case_free(&c);
    cli_close(&s);
    return code;
}
