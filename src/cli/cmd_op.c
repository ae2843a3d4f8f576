/* cmd_op.c: `fovea op`: one operator call in the golden files' format.
 *
 * A case holds q, k, v as (B, H, N, d), or names the file that does, and says in its metadata what
 * is computed. Batches run one after the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct operand {
    uint32_t batch, heads, rows, dim;
    float *data; /* (B, H, N, d) as the file has it */
};

struct op_case {
    const char *path;
    fovea_tensors *file, *inputs; /* the same file, unless inputs_file names another */
    struct operand q, k, v;
    fovea_op_options options;
    char attention[64];
};

static const char *text(const struct op_case *c, const char *key, const char *otherwise)
{
    const char *t = fovea_tensors_metadata(c->file, key);
    return t ? t : otherwise;
}

static int open_files(struct op_case *c)
{
    int code = cli_check(fovea_tensors_open(&c->file, c->path));
    if (code)
        return code;
    c->inputs = c->file;
    const char *name = text(c, "inputs_file", NULL);
    if (!name)
        return CLI_OK;
    const char *slash = strrchr(c->path, '/');
    char *beside = cli_text("%.*s%s", slash ? (int)(slash - c->path + 1) : 0, c->path, name);
    code = cli_check(fovea_tensors_open(&c->inputs, beside));
    free(beside);
    if (code)
        c->inputs = c->file;
    return code;
}

static int read_operand(struct operand *out, const struct op_case *c, const char *name)
{
    fovea_tensor t;
    if (!fovea_tensors_find(c->inputs, name, &t))
        return cli_fail(CLI_INPUT, "%s: has no tensor \"%s\"", c->path, name);
    for (uint32_t i = 0; i < t.rank && i < 4; i++)
        if (t.shape[i] < 1 || t.shape[i] > 1u << 24)
            return cli_fail(CLI_INPUT, "%s: tensor \"%s\" is empty or too large", c->path, name);
    if (t.rank != 4)
        return cli_fail(CLI_INPUT, "%s: tensor \"%s\" is not (B, H, N, d)", c->path, name);
    *out = (struct operand){(uint32_t)t.shape[0], (uint32_t)t.shape[1], (uint32_t)t.shape[2],
                            (uint32_t)t.shape[3], NULL};
    out->data = cli_alloc((size_t)t.elements, sizeof(float));
    return cli_check(fovea_tensors_read(&t, 0, t.elements, out->data));
}

/* What the case wants beyond softmax and linear attention of q, k, v. */
static int refuse_extras(const struct op_case *c)
{
    static const char *const known[] = {"q", "k", "v", "out", "out_rows", "rows"};
    fovea_tensor t;
    for (size_t i = 0; fovea_tensors_get(c->file, i, &t); i++) {
        bool fine = false;
        for (size_t j = 0; j < sizeof known / sizeof *known; j++)
            fine = fine || strcmp(t.name, known[j]) == 0;
        if (!fine)
            return cli_fail(CLI_UNSUPPORTED, "%s: operators with a \"%s\" are not supported yet",
                            c->path, t.name);
    }
    return CLI_OK;
}

static int read_options(struct op_case *c, const char *attention)
{
    const fovea_op_options none = FOVEA_OP_OPTIONS_INIT;
    const char *mechanism = text(c, "mechanism", "");
    const char *map = text(c, "feature_map", "elu1");
    c->options = none;
    if (strcmp(mechanism, "softmax") == 0)
        snprintf(c->attention, sizeof c->attention, "softmax");
    else if (strcmp(mechanism, "linear") == 0)
        snprintf(c->attention, sizeof c->attention, "linear:%s",
                 strcmp(map, "elu+1") == 0 ? "elu1" : map);
    else
        return cli_fail(CLI_UNSUPPORTED, "%s: mechanism \"%s\" is not supported yet", c->path,
                        mechanism);
    c->options.attention = attention ? attention : c->attention;
    c->options.causal = atoi(text(c, "causal", "0"));
    c->options.normalise = atoi(text(c, "normalize", "1"));
    c->options.eps = atof(text(c, "eps", "0"));
    c->options.scale = atof(text(c, "scale", "1"));
    return refuse_extras(c);
}

static int check_shapes(struct op_case *c)
{
    const struct operand *q = &c->q, *k = &c->k, *v = &c->v;
    if (k->batch != q->batch || v->batch != q->batch || k->heads != q->heads ||
        v->heads != q->heads || k->dim != q->dim || v->rows != k->rows)
        return cli_fail(CLI_INPUT, "%s: the shapes of q, k and v do not fit together", c->path);
    c->options.rows = q->rows;
    c->options.keys = k->rows;
    c->options.heads = q->heads;
    c->options.head_dim = q->dim;
    c->options.value_dim = v->dim;
    return CLI_OK;
}

/* (H, N, d) of one batch to [token][H * d], and back. */
static void to_rows(float *out, const struct operand *o, uint32_t batch)
{
    const float *in = o->data + (size_t)batch * o->heads * o->rows * o->dim;
    for (size_t h = 0; h < o->heads; h++)
        for (size_t n = 0; n < o->rows; n++)
            memcpy(out + (n * o->heads + h) * o->dim, in + (h * o->rows + n) * o->dim,
                   o->dim * sizeof *out);
}

static void from_rows(struct operand *o, uint32_t batch, const float *in)
{
    float *out = o->data + (size_t)batch * o->heads * o->rows * o->dim;
    for (size_t h = 0; h < o->heads; h++)
        for (size_t n = 0; n < o->rows; n++)
            memcpy(out + (h * o->rows + n) * o->dim, in + (n * o->heads + h) * o->dim,
                   o->dim * sizeof *out);
}

static int run(struct operand *out, const struct op_case *c, fovea_device *device)
{
    const struct operand *in[3] = {&c->q, &c->k, &c->v};
    fovea_matrix matrix[4] = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};
    fovea_plan *plan;
    fovea_status status = fovea_op_plan_create(&plan, device, &c->options);
    if (status == FOVEA_EINVAL) /* every value came from the case: a kind that is not known here */
        return cli_fail(CLI_UNSUPPORTED, "%s: %s", c->path, fovea_error());
    int code = cli_check(status);
    if (code)
        return code;
    *out = (struct operand){c->q.batch, c->q.heads, c->q.rows, c->v.dim, NULL};
    size_t row = (size_t)out->heads * out->dim;
    out->data = cli_alloc((size_t)out->batch * out->rows, row * sizeof(float));
    for (int i = 0; i < 3; i++)
        matrix[i].data = cli_alloc((size_t)in[i]->rows * in[i]->heads, in[i]->dim * sizeof(float));
    matrix[3].data = cli_alloc(out->rows, row * sizeof(float));
    for (uint32_t b = 0; b < out->batch && !code; b++) {
        for (int i = 0; i < 3; i++)
            to_rows(matrix[i].data, in[i], b);
        code = cli_check(fovea_op_run(plan, matrix, 3, matrix[3]));
        from_rows(out, b, matrix[3].data);
    }
    for (int i = 0; i < 4; i++)
        free(matrix[i].data);
    fovea_plan_free(plan);
    return code;
}

/* Keeps the rows that a long case names. */
static int pick_rows(struct operand *out, const struct op_case *c)
{
    fovea_tensor t;
    if (!fovea_tensors_find(c->file, "rows", &t))
        return CLI_OK;
    float *rows = cli_alloc((size_t)t.elements, sizeof *rows);
    int code = cli_check(fovea_tensors_read(&t, 0, t.elements, rows));
    struct operand few = {out->batch, out->heads, (uint32_t)t.elements, out->dim, NULL};
    few.data = cli_alloc((size_t)few.batch * few.heads, (size_t)few.rows * few.dim * sizeof(float));
    for (size_t i = 0; i < t.elements && !code; i++) {
        if (!(rows[i] >= 0 && rows[i] < out->rows)) {
            code = cli_fail(CLI_INPUT, "%s: \"rows\" names a row that is not there", c->path);
            break;
        }
        for (size_t h = 0; h < (size_t)out->batch * out->heads; h++)
            memcpy(few.data + (h * few.rows + i) * few.dim,
                   out->data + (h * out->rows + (size_t)rows[i]) * out->dim,
                   out->dim * sizeof(float));
    }
    free(rows);
    free(out->data);
    *out = few;
    return code;
}

static int save(const struct op_case *c, const struct operand *out, const char *path)
{
    fovea_tensor t = {0}, rows;
    t.name = fovea_tensors_find(c->file, "rows", &rows) ? "out_rows" : "out";
    t.dtype = "F32";
    t.rank = 4;
    t.shape[0] = out->batch;
    t.shape[1] = out->heads;
    t.shape[2] = out->rows;
    t.shape[3] = out->dim;
    t.elements = t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3];
    t.data = out->data;
    t.size = (size_t)t.elements * sizeof(float);
    const char *const metadata[][2] = {{"attention", c->options.attention}};
    return cli_check(fovea_tensors_write(path, &t, 1, metadata, 1));
}

int cli_op(const cli_command *self, int argc, char **argv)
{
    cli_common common = {0};
    cli_session s;
    const char *output = NULL;
    const cli_option own[] = {
        {"output", 'o', "FILE", "where the result goes", CLI_TEXT, &output},
        {NULL, 0, NULL, NULL, CLI_FLAG, NULL},
    };
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    if (first + 1 != argc || !output)
        return cli_fail(CLI_USAGE, "op takes one CASE.safetensors and -o OUT.safetensors");
    if ((code = cli_open(&s, &common, NULL)))
        return code;
    struct op_case c = {.path = argv[first]};
    struct operand out = {0};
    if (!(code = open_files(&c)) && !(code = read_options(&c, s.settings.attention)) &&
        !(code = read_operand(&c.q, &c, "q")) && !(code = read_operand(&c.k, &c, "k")) &&
        !(code = read_operand(&c.v, &c, "v")) && !(code = check_shapes(&c))) {
        c.options.schedule = s.settings.schedule;
        c.options.chunk = s.settings.chunk;
        if (!(code = run(&out, &c, s.device)) && !(code = pick_rows(&out, &c)))
            code = save(&c, &out, output);
    }
    free(c.q.data);
    free(c.k.data);
    free(c.v.data);
    free(out.data);
    if (c.inputs != c.file)
        fovea_tensors_close(c.inputs);
    fovea_tensors_close(c.file);
    cli_close(&s);
    return code;
}
