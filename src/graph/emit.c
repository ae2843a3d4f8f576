/* emit.c: builds the list of steps and values for an emitter. */
#include "graph/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "ops/quantise.h"

static bool grow(fv_builder *b, void *array, uint32_t used, uint32_t *have, uint64_t size)
{
    if (b->status == FOVEA_OK && used == *have)
        b->status = fv_mem_grow(array, used, have, used ? 2 * used : 64, size, FV_MEM_PLAN,
                                "the plan's steps");
    return b->status == FOVEA_OK;
}

/* Sets the row stride of a value. A stride that is a multiple of a page is padded, because such
 * rows would compete for the same few cache lines. */
static void lay_rows(fv_value *v)
{
    const uint32_t size = (uint32_t)fv_type_size(v->type);
    v->ld = v->cols;
    if (v->kind == FV_VALUE_ROWS && v->rows > 1 && (uint64_t)v->cols * size % 4096 == 0)
        v->ld += 64 / size;
}

void fv_emit_store_as(fv_value *v, enum fv_type type)
{
    v->type = (uint8_t)type;
    lay_rows(v);
}

void fv_emit_compute(fv_emit_options *o, fovea_compute compute, const fv_limits *limits)
{
    o->compute = compute == FOVEA_COMPUTE_AUTO ? FOVEA_COMPUTE_F32 : compute;
    if (o->compute == FOVEA_COMPUTE_F32)
        return;
    if (o->compute == FOVEA_COMPUTE_INT8 && limits->throughput && !limits->int8)
        o->compute = FOVEA_COMPUTE_BF16;
    o->weight_type = FV_BF16;
    if (o->training) /* training chooses narrow rows itself, in rounded_operands.c */
        return;
    o->row_type = FV_BF16;
    o->narrow_only = !limits->throughput;
    o->widens = !limits->throughput && !limits->bf16;
    o->multiplies_int8 = !limits->throughput && limits->int8;
    o->int8_attention = limits->int8_attention;
}

void fv_emit_enter_block(fv_builder *b, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(b->scope, sizeof b->scope, format, list);
    va_end(list);
    b->in_block = true;
}

void fv_emit_leave_block(fv_builder *b)
{
    b->scope[0] = 0;
    b->in_block = false;
}

fv_view fv_emit_value(fv_builder *b, enum fv_value_kind kind, uint32_t rows, uint32_t cols,
                      enum fv_type type)
{
    if (!grow(b, &b->graph->value, b->graph->values, &b->graph->value_capacity,
              sizeof *b->graph->value))
        return FV_NO_VIEW;
    fv_value *v = &b->graph->value[b->graph->values];
    memset(v, 0, sizeof *v);
    v->kind = (uint8_t)kind;
    v->type = (uint8_t)type;
    v->rows = rows;
    v->cols = cols;
    lay_rows(v);
    if (fv_value_outside(v))
        v->slot = b->graph->slots++;
    return (fv_view){(fv_id)b->graph->values++, 0};
}

fv_view fv_emit_rows(fv_builder *b, uint32_t rows, uint32_t cols)
{
    return fv_emit_value(b, FV_VALUE_ROWS, rows, cols, FV_F32);
}

bool fv_emit_wants(const fv_builder *b, const char *name)
{
    return fv_graph_wanted(b->graph, name) != NULL;
}

fv_view fv_emit_output(fv_builder *b, const char *name, uint32_t rows, uint32_t cols,
                       const fv_grid *grid, bool always)
{
    return fv_emit_task_output(b, name, FOVEA_OUTPUT_FEATURES, rows, cols, grid, always);
}

static fovea_output_layout usual_layout(fovea_output_kind kind, uint32_t rows, const fv_grid *grid)
{
    switch (kind) {
    case FOVEA_OUTPUT_LOGITS:
    case FOVEA_OUTPUT_MASK_SCORES:
        return FOVEA_OUTPUT_LAYOUT_VECTOR;
    case FOVEA_OUTPUT_DEPTH:
        return FOVEA_OUTPUT_LAYOUT_MAP;
    case FOVEA_OUTPUT_CLASS_MAP:
    case FOVEA_OUTPUT_MASKS:
    case FOVEA_OUTPUT_KEYPOINTS:
        return FOVEA_OUTPUT_LAYOUT_PLANES;
    case FOVEA_OUTPUT_BOXES:
    case FOVEA_OUTPUT_BOX_CLASSES: /* boxes of anchors on a grid, or of queries */
        return grid ? FOVEA_OUTPUT_LAYOUT_PLANES : FOVEA_OUTPUT_LAYOUT_ROWS;
    case FOVEA_OUTPUT_MASK_CLASSES:
        return FOVEA_OUTPUT_LAYOUT_ROWS;
    case FOVEA_OUTPUT_FEATURES:
        break;
    }
    return grid || rows > 1 ? FOVEA_OUTPUT_LAYOUT_ROWS : FOVEA_OUTPUT_LAYOUT_VECTOR;
}

fv_view fv_emit_task_output(fv_builder *b, const char *name, fovea_output_kind kind, uint32_t rows,
                            uint32_t cols, const fv_grid *grid, bool always)
{
    fv_wanted *w = fv_graph_wanted(b->graph, name);
    if (!w)
        return always ? fv_emit_rows(b, rows, cols) : FV_NO_VIEW;
    fv_view v = fv_emit_value(b, FV_VALUE_OUTPUT, rows, cols, FV_F32);
    w->value = v.id;
    w->kind = kind;
    w->layout = usual_layout(kind, rows, grid);
    if (grid)
        w->grid = *grid;
    return v;
}

void fv_emit_layout(fv_builder *b, const char *name, fovea_output_layout layout)
{
    fv_wanted *w = fv_graph_wanted(b->graph, name);
    if (w)
        w->layout = layout;
}

fv_view fv_emit_input(fv_builder *b, const char *name, uint32_t rows, uint32_t cols,
                      enum fv_type type)
{
    fv_view v = fv_emit_value(b, FV_VALUE_INPUT, rows, cols, type);
    if (v.id >= 0)
        b->graph->value[v.id].name = name;
    return v;
}

fv_view fv_emit_result(fv_builder *b, uint32_t rows, uint32_t cols, enum fv_type type)
{
    fv_view v = fv_emit_output(b, "out", rows, cols, NULL, true);
    if (v.id >= 0)
        b->graph->value[v.id].type = (uint8_t)type;
    return v;
}

fv_view fv_emit_floats(fv_builder *b, const char *label, fv_view in, enum fv_type type,
                       uint32_t rows, uint32_t cols)
{
    if (type == FV_F32)
        return in;
    fv_view out = fv_emit_rows(b, rows, cols);
    fv_emit_convert(b, label, in, type, out, FV_F32, rows, cols);
    return out;
}

fv_weight fv_emit_constant(fv_builder *b, uint32_t rows, uint32_t cols, float **data)
{
    fv_weight none = {0};
    fv_constant *c = NULL;
    *data = NULL;
    FV_THEN(b->status, FV_MEM_NEW(&c, FV_MEM_PLAN, "a constant"));
    FV_THEN(b->status, FV_MEM_ARRAY(data, (uint64_t)rows * cols, FV_MEM_PLAN, "a constant"));
    if (b->status != FOVEA_OK) {
        fv_mem_free(c);
        return none;
    }
    c->tensor = fv_tensor_of_floats(*data, rows, cols);
    c->next = b->graph->constants;
    b->graph->constants = c;
    return fv_weight_of(&c->tensor, rows, cols);
}

/* Returns whether a product has float rows that must be rounded to bfloat16, because the processor
 * can multiply bfloat16 only by bfloat16. */
static bool rounds_rows(const fv_step *s)
{
    if (s->prob.op == FV_OP_MATMUL)
        return true;
    return (s->prob.op == FV_OP_GEMM || s->prob.op == FV_OP_CONV) && s->prob.weight == FV_BF16 &&
           s->prob.in == FV_F32;
}

static void set_types(const fv_graph *g, const fv_emit_options *options, fv_step *s)
{
    const fv_use *in = &s->use[0], *out = &s->use[s->out];
    if (in->view.id >= 0 && s->prob.in == FV_F32)
        s->prob.in = g->value[in->view.id].type;
    if (s->prob.out == FV_F32)
        s->prob.out = g->value[out->view.id].type;
    if (options->narrow_only && rounds_rows(s))
        s->prob.acc = FV_BF16;
}

void fv_emit_types(fv_graph *g, const fv_emit_options *options)
{
    for (uint32_t i = 0; i < g->steps; i++)
        if (!g->step[i].dead)
            set_types(g, options, &g->step[i]);
}

/* Returns whether a step is a convolution in float32. Such a convolution multiplies float32 pixels
 * in place; bfloat16 pixels would be packed and widened again for every window that contains them.
 */
static bool is_float_conv(const fv_emit_options *options, const fv_step *s)
{
    return options->widens && s->prob.op == FV_OP_CONV && s->prob.weight == FV_F32;
}

/* Counts the writers of a step's values, and marks those that must stay float32. */
static void note_uses(fv_graph *g, const fv_emit_options *options, const fv_step *s)
{
    g->value[s->use[s->out].view.id].writers++;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_op_operand *x = &fv_op_table[s->prob.op]->operand[o];
        const bool narrow = x->narrow && !(o == FV_GEMM_A && is_float_conv(options, s));
        if (s->use[o].view.id >= 0 && (x->exact || (options->narrow_only && !narrow)))
            g->value[s->use[o].view.id].f32_only = true;
    }
}

void fv_emit_narrow(fv_graph *g, const fv_emit_options *options)
{
    if (options->row_type == FV_F32)
        return;
    for (uint32_t i = 0; i < g->values; i++) {
        g->value[i].writers = 0;
        g->value[i].f32_only = false;
    }
    for (uint32_t i = 0; i < g->steps; i++)
        if (!g->step[i].dead)
            note_uses(g, options, &g->step[i]);
    for (uint32_t i = 0; i < g->values; i++) {
        fv_value *v = &g->value[i];
        if (v->kind != FV_VALUE_ROWS || v->type != FV_F32 || v->writers > 1 || v->rows == 1 ||
            v->f32_only)
            continue;
        fv_emit_store_as(v, options->row_type);
    }
    fv_emit_types(g, options);
}

fv_step *fv_emit_step(fv_builder *b, enum fv_op op, uint32_t rows, const char *label)
{
    const bool ok =
        grow(b, &b->graph->step, b->graph->steps, &b->graph->step_capacity, sizeof *b->graph->step);
    fv_step *s = ok ? &b->graph->step[b->graph->steps++] : &b->nowhere;
    memset(s, 0, sizeof *s);
    snprintf(s->label, sizeof s->label, "%s%s%s", b->scope, *b->scope ? " " : "", label);
    s->prob.op = (uint16_t)op;
    s->out = fv_op_out(fv_op_table[op]);
    s->checkpoint_segment = b->checkpoint_segment;
    s->prob.in = s->prob.weight = s->prob.out = s->prob.acc = FV_F32;
    s->prob.dim[FV_DIM_ROWS] = rows;
    for (int i = 0; i < FV_OPERANDS; i++)
        s->use[i].view.id = FV_NO_VALUE;
    return s;
}

void fv_use_value(fv_step *s, uint32_t operand, fv_view v, enum fv_kind kind)
{
    if (v.id < 0)
        return;
    s->use[operand].view = v;
    s->use[operand].kind = (uint8_t)kind;
}

void fv_use_weight(fv_step *s, uint32_t operand, const fv_weight *w)
{
    if (!w || !fv_weight_present(w))
        return;
    s->use[operand].kind = FV_KIND_WEIGHT;
    s->use[operand].weight = *w;
}

fv_step *fv_emit_row_step(fv_builder *b, enum fv_op op, const char *label, fv_view in,
                          enum fv_kind kind, fv_view out, uint32_t rows, uint32_t cols)
{
    fv_step *s = fv_emit_step(b, op, rows, label);
    s->prob.dim[FV_ROW_C] = cols;
    fv_use_value(s, 0, in, kind);
    fv_use_value(s, s->out, out, FV_KIND_ROW);
    return s;
}

void fv_emit_layernorm(fv_builder *b, const char *label, fv_view in, const fv_weight *w,
                       const fv_weight *bias, float eps, fv_view out, uint32_t rows)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_LAYERNORM, label, in, FV_KIND_ROW, out, rows, w->cols);
    s->f[0] = eps;
    fv_use_weight(s, FV_LN_WEIGHT, w);
    fv_use_weight(s, FV_LN_BIAS, bias);
}

void fv_use_epilogue(fv_step *s, uint32_t operand, const fv_weight *w, uint32_t epi)
{
    fv_use_weight(s, operand, w);
    if (w && fv_weight_present(w))
        s->prob.epi |= epi;
}

/* Products with fewer columns, such as gates, gain nothing from int8. */
#define INT8_COLUMNS 64

/* Returns whether a narrow weight would not make the product faster. This holds in training for
 * products outside blocks, whose rows stay float32, and where the weight must be widened again for
 * every few rows. For a single row, a narrow weight is faster because it has fewer bytes. */
static bool is_of_floats(const fv_step *s, const fv_builder *b)
{
    const fv_id rows = s->use[FV_GEMM_A].view.id;
    if (b->in_block || b->options->compute == FOVEA_COMPUTE_F32)
        return false;
    if (b->options->training)
        return s->prob.op == FV_OP_GEMM && rows >= 0 && b->graph->value[rows].type == FV_F32;
    return b->options->widens && s->prob.dim[FV_DIM_ROWS] > 1;
}

bool fv_use_int8(fv_builder *b)
{
    return b->options->compute == FOVEA_COMPUTE_INT8 &&
           !fv_products_have(&b->options->bf16, b->graph->products++);
}

void fv_use_types(fv_step *s, fv_builder *b)
{
    const bool stored =
        b->options->int8_weights && b->in_block && s->prob.dim[FV_GEMM_N] >= INT8_COLUMNS;
    const enum fv_type floats = is_of_floats(s, b) ? FV_F32 : b->options->weight_type;
    s->prob.weight = (uint8_t)(stored ? FV_I8 : floats);
    s->prob.acc = b->options->half_sums && b->options->weight_type == FV_F16 ? FV_F16 : FV_F32;
}

void fv_make_int8(fv_step *s)
{
    s->prob.weight = FV_I8;
    s->prob.acc = FV_I32;
}

/* Returns whether a product may be int8. */
static bool may_be_int8(const fv_step *s, const fv_builder *b, bool decoder)
{
    return (b->in_block || (decoder && b->options->multiplies_int8)) &&
           s->prob.dim[FV_GEMM_N] >= INT8_COLUMNS && s->prob.dim[FV_GEMM_K] <= FV_INT8_DEEPEST;
}

void fv_emit_gemm(fv_builder *b, const char *label, const fv_gemm *g)
{
    fv_step *s = fv_emit_step(b, FV_OP_GEMM, g->rows, label);
    bool gated = g->act & FV_EPI_SWIGLU;
    s->prob.dim[FV_GEMM_N] = gated ? g->w->rows / 2 : g->w->rows;
    s->prob.dim[FV_GEMM_K] = g->w->cols;
    s->prob.epi = g->act;
    if (g->in.id >= 0)
        fv_use_value(s, FV_GEMM_A, g->in, FV_KIND_ROW);
    else
        fv_use_weight(s, FV_GEMM_A, g->in_weight);
    fv_use_types(s, b);
    if (may_be_int8(s, b, g->decoder) && fv_use_int8(b))
        fv_make_int8(s);
    fv_use_weight(s, FV_GEMM_W, g->w);
    fv_use_epilogue(s, FV_GEMM_BIAS, g->bias, FV_EPI_BIAS);
    fv_use_epilogue(s, FV_GEMM_SCALE, g->scale, FV_EPI_SCALE);
    if (g->res.id >= 0) {
        fv_use_value(s, FV_GEMM_RES, g->res, FV_KIND_ROW);
        s->prob.epi |= FV_EPI_RESIDUAL;
    }
    fv_use_value(s, FV_GEMM_OUT, g->out, FV_KIND_ROW);
}

void fv_emit_matmul(fv_builder *b, const char *label, fv_view a, fv_view rows_of_b, uint32_t n,
                    uint32_t k, fv_view out, uint32_t rows)
{
    fv_step *s = fv_emit_step(b, FV_OP_MATMUL, rows, label);
    s->prob.dim[FV_GEMM_N] = n;
    s->prob.dim[FV_GEMM_K] = k;
    fv_use_value(s, FV_MATMUL_A, a, FV_KIND_ROW);
    fv_use_value(s, FV_MATMUL_B, rows_of_b, FV_KIND_WHOLE);
    fv_use_value(s, FV_MATMUL_OUT, out, FV_KIND_ROW);
}

void fv_emit_copy(fv_builder *b, const char *label, fv_view in, fv_view out, uint32_t rows,
                  uint32_t cols)
{
    fv_emit_row_step(b, FV_OP_COPY, label, in, FV_KIND_ROW, out, rows, cols);
}

void fv_emit_offer(fv_builder *b, const char *name, fv_view in, uint32_t rows, uint32_t cols,
                   const fv_grid *grid)
{
    const fv_view out = fv_emit_output(b, name, rows, cols, grid, false);
    if (out.id < 0)
        return;
    fv_step *s = fv_emit_row_step(b, FV_OP_COPY, name, in, FV_KIND_ROW, out, rows, cols);
    snprintf(s->label, sizeof s->label, "%s", name); /* an output's name already contains the
                                                        block */
}

void fv_emit_take(fv_builder *b, const char *label, fv_view in, uint32_t row, fv_view out,
                  uint32_t rows, uint32_t cols)
{
    fv_emit_row_step(b, FV_OP_TAKE, label, in, FV_KIND_WHOLE, out, rows, cols)->u[0] = row;
}

void fv_emit_convert(fv_builder *b, const char *label, fv_view in, enum fv_type from, fv_view out,
                     enum fv_type to, uint32_t rows, uint32_t cols)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_CONVERT, label, in, FV_KIND_ROW, out, rows, cols);
    s->prob.in = (uint8_t)from;
    s->prob.out = (uint8_t)to;
}

void fv_emit_add(fv_builder *b, const char *label, fv_view in, fv_view res, fv_view out,
                 uint32_t rows, uint32_t cols)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_ADD, label, in, FV_KIND_ROW, out, rows, cols);
    fv_use_value(s, FV_ADD_RES, res, FV_KIND_ROW);
}

void fv_emit_mul(fv_builder *b, const char *label, fv_view a, fv_view factor, bool silu,
                 fv_view out, uint32_t rows, uint32_t cols)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_MUL, label, a, FV_KIND_ROW, out, rows, cols);
    s->prob.flags = silu ? FV_FLAG_SILU : 0;
    fv_use_value(s, FV_MUL_B, factor, FV_KIND_ROW);
}
