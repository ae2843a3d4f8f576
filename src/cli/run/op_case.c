/* op_case.c: converts a case of `fovea op` from its file to options and rows for the library. */
#include "cli/run/op_case.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of the library, checked before rows are allocated for it. */
enum { HEADS_MOST = 4096, CHANNELS_MOST = 1 << 20 };

/* ---- the file ---- */

static const char *text(const op_case *c, const char *key, const char *otherwise)
{
    const char *t = fovea_tensors_metadata(c->file, key);
    return t ? t : otherwise;
}

static int real(double *out, const op_case *c, const char *key, double otherwise)
{
    const char *t = text(c, key, NULL);
    char *end;
    *out = t ? strtod(t, &end) : otherwise;
    if (t && (end == t || *end))
        return cli_fail(CLI_INPUT, "%s: \"%s\" is '%.40s'; it must be a number", c->path, key, t);
    return CLI_OK;
}

static int whole(uint32_t *out, const op_case *c, const char *key, uint32_t otherwise)
{
    double value;
    CLI_TRY(real(&value, c, key, otherwise));
    if (!(value >= 0 && value <= 1u << 24 && value == (uint32_t)value))
        return cli_fail(CLI_INPUT, "%s: \"%s\" is %g; it must be a whole number from 0 to 2^24",
                        c->path, key, value);
    *out = (uint32_t)value;
    return CLI_OK;
}

static void use(op_case *c, const char *name)
{
    if (c->n_used < OP_TENSORS)
        c->used[c->n_used++] = name;
}

bool op_case_find(op_case *c, const char *name, fovea_tensor *out)
{
    const bool core = strcmp(name, "q") == 0 || strcmp(name, "k") == 0 || strcmp(name, "v") == 0;
    use(c, name);
    return fovea_tensors_find(core ? c->inputs : c->file, name, out);
}

int op_case_complete(const op_case *c)
{
    /* Results, and tensors from which other tensors in the file were made. No option uses them. */
    static const char *const known[] = {"out", "out_rows",  "rows",      "state_out", "z_out",
                                        "x",   "power_eff", "scale_eff", "w_gq",      "w_gk"};
    fovea_tensor t;
    for (size_t i = 0; fovea_tensors_get(c->file, i, &t); i++) {
        bool fine = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            fine = fine || strcmp(t.name, known[k]) == 0;
        for (size_t k = 0; k < c->n_used; k++)
            fine = fine || strcmp(t.name, c->used[k]) == 0;
        if (!fine)
            return cli_fail(CLI_UNSUPPORTED, "%s: %s with a \"%s\" is not supported", c->path,
                            c->options.attention, t.name);
    }
    return CLI_OK;
}

static int open_files(op_case *c)
{
    CLI_TRY(cli_check(fovea_tensors_open(&c->file, c->path)));
    c->inputs = c->file;
    const char *name = text(c, "inputs_file", NULL);
    if (!name)
        return CLI_OK;
    char *inputs = cli_text("%.*s%s", (int)(cli_file_name(c->path) - c->path), c->path, name);
    int code = cli_check(fovea_tensors_open(&c->inputs, inputs));
    free(inputs);
    if (code)
        c->inputs = c->file;
    return code;
}

/* ---- rows ---- */

/* Copies (B, H, N, d), with elements of `elem` bytes, to rows. */
static void to_rows(op_rows *out, const char *in)
{
    const size_t run = out->dim * out->elem;
    out->data = cli_alloc((size_t)out->batch * out->rows, op_row_size(out));
    for (size_t b = 0; b < out->batch; b++)
        for (size_t h = 0; h < out->heads; h++)
            for (size_t n = 0; n < out->rows; n++, in += run)
                memcpy(out->data + ((b * out->rows + n) * out->heads + h) * run, in, run);
}

void op_from_rows(char *out, const op_rows *in)
{
    const size_t run = in->dim * in->elem;
    for (size_t b = 0; b < in->batch; b++)
        for (size_t h = 0; h < in->heads; h++)
            for (size_t n = 0; n < in->rows; n++, out += run)
                memcpy(out, in->data + ((b * in->rows + n) * in->heads + h) * run, run);
}

static int missing(const op_case *c, const char *name)
{
    return cli_fail(CLI_INPUT, "%s has no tensor \"%s\", which %s needs", c->path, name,
                    c->options.attention);
}

static int wrong_shape(const op_case *c, const char *name, const char *wanted)
{
    return cli_fail(CLI_INPUT, "%s: tensor \"%s\" must have shape %s", c->path, name, wanted);
}

static int read_floats(float **out, const fovea_tensor *t)
{
    *out = cli_alloc((size_t)t->elements, sizeof **out);
    int code = cli_check(fovea_tensors_read(t, 0, t->elements, *out));
    if (code) {
        free(*out);
        *out = NULL;
    }
    return code;
}

static fovea_dtype storage_of(const char *dtype)
{
    return strcmp(dtype, "F16") == 0    ? FOVEA_DTYPE_F16
           : strcmp(dtype, "BF16") == 0 ? FOVEA_DTYPE_BF16
                                        : FOVEA_DTYPE_F32;
}

/* Reads the rows of `t`, whose shape is already in `r`, with elements of `type`. */
static int read_rows(op_rows *r, const fovea_tensor *t, fovea_dtype type)
{
    float *floats;
    r->elem = type == FOVEA_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
    if (type != FOVEA_DTYPE_F32 && storage_of(t->dtype) == type) {
        to_rows(r, t->data);
        return CLI_OK;
    }
    CLI_TRY(read_floats(&floats, t));
    char *data = cli_alloc((size_t)t->elements, r->elem);
    int code = cli_check(fovea_floats_encode(data, type, floats, (size_t)t->elements));
    to_rows(r, data);
    free(data);
    free(floats);
    return code;
}

/* ---- q, k, v ---- */

static int find_core(fovea_tensor *t, op_rows *r, op_case *c, const char *name)
{
    if (!op_case_find(c, name, t))
        return missing(c, name);
    if (t->rank != 4)
        return wrong_shape(c, name, "(B, H, N, d)");
    for (uint32_t i = 0; i < 4; i++)
        if (t->shape[i] < 1 || t->shape[i] > 1u << 24)
            return cli_fail(CLI_INPUT, "%s: tensor \"%s\" is empty or too large", c->path, name);
    if (t->shape[1] > HEADS_MOST || t->shape[1] * t->shape[3] > CHANNELS_MOST)
        return cli_fail(CLI_INPUT,
                        "%s: tensor \"%s\" has %llu heads of %llu channels; at most %d heads and "
                        "%d channels in total are supported",
                        c->path, name, (unsigned long long)t->shape[1],
                        (unsigned long long)t->shape[3], HEADS_MOST, CHANNELS_MOST);
    *r = (op_rows){.batch = (uint32_t)t->shape[0],
                   .heads = (uint32_t)t->shape[1],
                   .rows = (uint32_t)t->shape[2],
                   .dim = (uint32_t)t->shape[3]};
    return CLI_OK;
}

static int read_core(op_case *c, const cli_settings *settings)
{
    static const char *const names[] = {"q", "k", "v"};
    const op_rows *q = &c->input[0], *k = &c->input[1], *v = &c->input[2];
    fovea_tensor t[3];
    for (int i = 0; i < 3; i++)
        CLI_TRY(find_core(&t[i], &c->input[i], c, names[i]));
    if (k->batch != q->batch || v->batch != q->batch || k->heads != q->heads ||
        v->heads != q->heads || k->dim != q->dim || v->rows != k->rows)
        return cli_fail(CLI_INPUT, "%s: the shapes of q, k and v do not match", c->path);
    fovea_dtype type = storage_of(t[0].dtype);
    for (int i = 1; i < 3; i++)
        type = storage_of(t[i].dtype) == type ? type : FOVEA_DTYPE_F32;
    c->options.storage = settings->dtype_given ? settings->dtype : type;
    for (; c->n_inputs < 3; c->n_inputs++)
        CLI_TRY(read_rows(&c->input[c->n_inputs], &t[c->n_inputs], c->options.storage));
    c->options.rows = q->rows;
    c->options.keys = k->rows;
    c->options.heads = q->heads;
    c->options.head_dim = q->dim;
    c->options.value_dim = v->dim;
    return CLI_OK;
}

/* ---- the other inputs ---- */

static bool is(const op_case *c, const char *mechanism)
{
    const char *own = c->options.attention;
    own += strncmp(own, "sla-", 4) == 0 ? 4 : 0;
    return strncmp(own, mechanism, strlen(mechanism)) == 0;
}

/* Returns the name in the files for the library's input `name`, and sets *dim to its channels per
 * head. */
static const char *file_name(uint32_t *dim, const op_case *c, const char *name)
{
    const bool per_channel = is(c, "gla");
    *dim = 1;
    if (strcmp(name, "log_decay") == 0) {
        *dim = per_channel ? c->options.head_dim : 1;
        return per_channel ? "gk" : "g";
    }
    if (strcmp(name, "gate_q") == 0)
        return "gq";
    if (strcmp(name, "gate_k") == 0)
        return "gk_gate";
    if (strcmp(name, "out_gate") == 0)
        return "g";
    return name; /* such as beta and x */
}

int op_case_input(op_case *c, const char *name)
{
    const fovea_attention_options *o = &c->options;
    const op_rows *q = &c->input[0], *k = &c->input[1];
    op_rows *r = &c->input[c->n_inputs];
    fovea_tensor t;
    uint32_t dim;
    const char *own = file_name(&dim, c, name);
    if (!op_case_find(c, own, &t))
        return missing(c, own);
    const uint32_t tokens = strcmp(name, "gate_k") == 0 ? k->rows : q->rows;
    if (strcmp(name, "x") == 0 || strcmp(name, "out_gate") == 0) {
        const uint32_t wide = *name == 'x' ? o->gate_width : o->heads * o->value_dim;
        *r = (op_rows){.batch = q->batch, .heads = 1, .rows = tokens, .dim = wide};
        if (t.rank != 3 || t.shape[0] != q->batch || t.shape[1] != tokens || t.shape[2] != wide)
            return wrong_shape(c, own, "(B, N, C)");
    } else {
        *r = (op_rows){.batch = q->batch, .heads = q->heads, .rows = tokens, .dim = dim};
        if (t.rank != (dim > 1 ? 4 : t.rank) || t.rank < 3 || t.rank > 4 ||
            t.shape[0] != q->batch || t.shape[1] != q->heads || t.shape[2] != tokens ||
            (t.rank == 4 && t.shape[3] != dim))
            return wrong_shape(c, own, dim > 1 ? "(B, H, N, d)" : "(B, H, N)");
    }
    c->n_inputs++;
    return read_rows(r, &t, FOVEA_DTYPE_F32);
}

int op_case_state(float **out, op_case *c, size_t floats)
{
    const fovea_attention_options *o = &c->options;
    const size_t batch = c->input[0].batch;
    c->divided = o->normalise && is(c, "linear");
    c->features = (uint32_t)(floats / o->heads / (o->value_dim + c->divided));
    const size_t z = (size_t)o->heads * c->features, s = z * o->value_dim;
    fovea_tensor t;
    *out = cli_alloc(batch, floats * sizeof(float));
    if (op_case_find(c, "state_in", &t)) {
        if (t.rank != 4 || t.shape[0] != batch || t.shape[1] != o->heads ||
            t.shape[2] != c->features || t.shape[3] != o->value_dim)
            return wrong_shape(c, "state_in", "(B, H, d', dv)");
        for (size_t b = 0; b < batch; b++)
            CLI_TRY(cli_check(fovea_tensors_read(&t, b * s, s, *out + b * floats)));
    }
    if (c->divided && op_case_find(c, "z_in", &t)) {
        if (t.elements != batch * z || t.shape[0] != batch || t.rank != 4 || t.shape[2] != o->heads)
            return wrong_shape(c, "z_in", "(B, 1, H, d')");
        for (size_t b = 0; b < batch; b++)
            CLI_TRY(cli_check(fovea_tensors_read(&t, b * z, z, *out + b * floats + s)));
    }
    return CLI_OK;
}

/* ---- options ---- */

static const float *keep(op_case *c, float *data)
{
    assert(c->n_constants < OP_CONSTANTS);
    return c->constant[c->n_constants++] = data;
}

/* Reads a constant of `rows` x `cols` elements. If cols is 0, it has `rows` elements in any
 * shape. */
static int constant(const float **out, op_case *c, const char *name, uint64_t rows, uint64_t cols,
                    bool needed)
{
    fovea_tensor t;
    if (!op_case_find(c, name, &t))
        return needed ? missing(c, name) : CLI_OK;
    if (t.elements != rows * (cols ? cols : 1) || (cols && (t.rank != 2 || t.shape[0] != rows)))
        return wrong_shape(c, name, "that follows from the sizes of q and v");
    float *data;
    CLI_TRY(read_floats(&data, &t));
    *out = keep(c, data);
    return CLI_OK;
}

static int read_attention(op_case *c, const cli_settings *settings)
{
    const char *mechanism = text(c, "mechanism", NULL), *map = text(c, "feature_map", "none");
    if (settings->attention) {
        c->options.attention = settings->attention;
        return CLI_OK;
    }
    if (!mechanism)
        return cli_fail(CLI_INPUT, "%s: the metadata lacks \"mechanism\"", c->path);
    const char *own = strncmp(mechanism, "sla-", 4) == 0 ? mechanism + 4 : mechanism;
    const bool bare = strcmp(map, "none") == 0 || strcmp(map, own) == 0;
    snprintf(c->attention, sizeof c->attention, "%s%s%s", mechanism, bare ? "" : ":",
             bare ? "" : map);
    c->options.attention = c->attention;
    return CLI_OK;
}

/* Checks that constants in the file equal those built into the library. */
static int check_built_in(const op_case *c)
{
    static const struct {
        const char *key;
        double value;
    } built_in[] = {{"tau", 0.5}};
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        double value;
        CLI_TRY(real(&value, c, built_in[i].key, built_in[i].value));
        if (value != built_in[i].value)
            return cli_fail(CLI_UNSUPPORTED, "%s: \"%s\" %g is not supported; only %g is", c->path,
                            built_in[i].key, value, built_in[i].value);
    }
    if (strcmp(text(c, "layout", "BHND"), "BHND") != 0)
        return cli_fail(CLI_UNSUPPORTED, "%s: layout %.40s is not supported; only BHND is", c->path,
                        text(c, "layout", ""));
    return CLI_OK;
}

/* Reads the constant of the mechanism: alpha of pola, or lambda of nala, which is also the power of
 * keys. */
static int read_power(op_case *c)
{
    const bool nala = strstr(c->options.attention, "nala") != NULL;
    double keys;
    CLI_TRY(real(&c->options.alpha, c, nala ? "lambda" : "alpha", 0));
    CLI_TRY(real(&keys, c, "k_power", c->options.alpha > 0 ? c->options.alpha : 3));
    if (nala && keys != (c->options.alpha > 0 ? c->options.alpha : 3))
        return cli_fail(CLI_UNSUPPORTED,
                        "%s: \"k_power\" %g is not supported; it must equal \"lambda\"", c->path,
                        keys);
    return CLI_OK;
}

static int read_numbers(op_case *c)
{
    fovea_attention_options *o = &c->options;
    uint32_t causal, normalise, l2norm;
    const bool gated = strncmp(o->attention, "sla-", 4) == 0;
    CLI_TRY(whole(&causal, c, "causal", 0));
    CLI_TRY(whole(&normalise, c, "normalize", !gated));
    CLI_TRY(whole(&l2norm, c, "l2norm", 0));
    CLI_TRY(real(&o->eps, c, "eps", 0));
    CLI_TRY(real(&o->scale, c, "scale", 1));
    CLI_TRY(read_power(c));
    CLI_TRY(real(&o->norm_eps, c, "ln_eps", 0));
    CLI_TRY(whole(&o->grid_width, c, "grid_w", 0));
    CLI_TRY(whole(&o->grid_height, c, "grid_h", 0));
    o->causal = causal != 0;
    o->normalise = normalise != 0;
    o->l2norm = l2norm != 0;
    return CLI_OK;
}

/* Reads learned vectors, decays and the rotation. */
static int read_constants(op_case *c)
{
    fovea_attention_options *o = &c->options;
    uint32_t rope;
    CLI_TRY(whole(&rope, c, "rope", 0));
    if (is(c, "pola")) {
        CLI_TRY(constant(&o->power, c, "power", o->heads, o->head_dim, false));
        CLI_TRY(constant(&o->channel_scale, c, "scale", o->heads, o->head_dim, false));
    }
    if (strstr(o->attention, "hedgehog")) {
        const uint64_t map = (uint64_t)o->heads * o->head_dim * o->head_dim;
        CLI_TRY(constant(&o->map_q, c, "map_q.weight", map, 0, false));
        CLI_TRY(constant(&o->map_k, c, "map_k.weight", map, 0, false));
    }
    if (is(c, "retention"))
        CLI_TRY(constant(&o->log_decay, c, "log_decay", o->heads, 0, false));
    if (!o->causal && !is(c, "softmax")) {
        CLI_TRY(constant(&o->rope_cos, c, "cos", o->rows, o->head_dim, false));
        CLI_TRY(constant(&o->rope_sin, c, "sin", o->rows, o->head_dim, false));
    }
    if (rope && !o->rope_cos && !o->rope_sin) {
        o->rope_width = o->grid_width;
        o->rope_height = o->grid_height;
    }
    return CLI_OK;
}

/* If the file has x instead of gates, the library computes the gates. The files store the weights
 * of the gates as (in, H); the library needs the transposed weights. */
static int read_gates(op_case *c)
{
    static const char *const names[] = {"w_gq", "w_gk"};
    fovea_attention_options *o = &c->options;
    const float **const weight[] = {&o->gate_q, &o->gate_k};
    fovea_tensor t;
    if (strncmp(o->attention, "sla-", 4) != 0 || fovea_tensors_find(c->file, "gq", &t) ||
        !fovea_tensors_find(c->file, "x", &t) || t.rank != 3 || t.shape[2] > 1u << 20)
        return CLI_OK;
    o->gates = FOVEA_GATES_X_DENSE;
    o->gate_width = (uint32_t)t.shape[2];
    for (int i = 0; i < 2; i++) {
        const float *in = NULL;
        CLI_TRY(constant(&in, c, names[i], o->gate_width, o->heads, true));
        float *turned = cli_alloc((size_t)o->gate_width * o->heads, sizeof *turned);
        for (size_t k = 0; k < o->gate_width; k++)
            for (size_t h = 0; h < o->heads; h++)
                turned[h * o->gate_width + k] = in[k * o->heads + h];
        *weight[i] = keep(c, turned);
    }
    return CLI_OK;
}

/* Reads a convolution of v: "dwc" has filters that the heads share, "lepe" has a filter for every
 * channel of every head. */
static int read_local(op_case *c, const char *part, bool shared)
{
    static const char *const weights[] = {"dwc.weight", "lepe.weight"};
    static const char *const biases[] = {"dwc.bias", "lepe.bias"};
    fovea_attention_options *o = &c->options;
    const int which = strcmp(part, "lepe") == 0;
    const uint32_t filters = shared ? o->value_dim : o->heads * o->value_dim;
    fovea_tensor t;
    uint32_t size;
    if (!fovea_tensors_find(c->file, weights[which], &t))
        return missing(c, weights[which]);
    CLI_TRY(
        whole(&size, c, "kernel_size", t.rank == 4 && t.shape[3] < 64 ? (uint32_t)t.shape[3] : 0));
    if (t.rank != 4 || t.shape[0] != filters || t.shape[1] != 1 || t.shape[2] != size ||
        t.shape[3] != size)
        return wrong_shape(c, weights[which], "(channels, 1, size, size)");
    o->local_size = size;
    o->local_shared = shared;
    CLI_TRY(constant(&o->local_weight, c, weights[which], t.elements, 0, true));
    return constant(&o->local_bias, c, biases[which], filters, 0, false);
}

/* Reads the operations after the attention itself: "core", then names joined by plus signs, each at
 * most once. */
static int read_parts(op_case *c)
{
    fovea_attention_options *o = &c->options;
    const char *parts = text(c, "part", "core"), *layout = text(c, "out_layout", "BHND");
    const uint32_t wide = o->heads * o->value_dim;
    for (const char *p = parts; *p; p += strcspn(p, "+"), p += *p == '+') {
        char part[16];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(p, "+"), p);
        const bool local = strcmp(part, "dwc") == 0 || strcmp(part, "lepe") == 0;
        const bool norm = strcmp(part, "ln") == 0;
        if ((local && o->local_weight) || (norm && o->norm_weight)) {
            return cli_fail(CLI_INPUT, "%s: part \"%s\" is repeated; each kind can occur once",
                            c->path, part);
        } else if (strcmp(part, "core") == 0) {
            continue;
        } else if (local) {
            CLI_TRY(read_local(c, part, *part == 'd'));
        } else if (norm) {
            CLI_TRY(constant(&o->norm_weight, c, "ln.weight", wide, 0, true));
            CLI_TRY(constant(&o->norm_bias, c, "ln.bias", wide, 0, false));
        } else if (strcmp(part, "g") == 0) {
            o->out_gate = is(c, "nala") ? FOVEA_OUT_GATE_SILU : FOVEA_OUT_GATE_LINEAR;
        } else {
            return cli_fail(CLI_UNSUPPORTED, "%s: part \"%s\" is not supported", c->path, part);
        }
    }
    c->tokens_first = strncmp(layout, "BNC", 3) == 0;
    if (!c->tokens_first && strcmp(layout, "BHND") != 0)
        return cli_fail(CLI_UNSUPPORTED, "%s: out_layout %.40s is not supported", c->path, layout);
    return CLI_OK;
}

int op_case_open(op_case *c, const char *path, const cli_settings *settings, fovea_form form)
{
    c->path = path;
    c->options = (fovea_attention_options)FOVEA_ATTENTION_OPTIONS_INIT;
    CLI_TRY(open_files(c));
    CLI_TRY(read_attention(c, settings));
    CLI_TRY(check_built_in(c));
    CLI_TRY(read_numbers(c));
    CLI_TRY(read_core(c, settings));
    CLI_TRY(read_constants(c));
    CLI_TRY(read_gates(c));
    CLI_TRY(read_parts(c));
    c->options.form = form;
    c->options.schedule = settings->schedule;
    c->options.rigor = settings->rigor;
    c->options.chunk = settings->chunk;
    c->options.memory_limit = settings->memory_limit;
    c->options.compute = settings->compute;
    return CLI_OK;
}

void op_case_free(op_case *c)
{
    for (size_t i = 0; i < OP_INPUTS; i++)
        free(c->input[i].data);
    for (size_t i = 0; i < c->n_constants; i++)
        free(c->constant[i]);
    if (c->inputs != c->file)
        fovea_tensors_close(c->inputs);
    fovea_tensors_close(c->file);
}
