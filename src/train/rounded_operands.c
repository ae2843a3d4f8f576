/* rounded_operands.c: rounds the operands of bfloat16 products in training.
 *
 * The operands of such a product are rounded once: the rows of a GEMM with BF16 weights, and both
 * operands of a GEMM_GRAD_W that is marked BF16. If one step writes a value and only such products
 * read it, that step rounds the value. Any other value gets a CONVERT before the first product. All
 * products read the rounded copy until the value is written again. */
#include "train/rounded_operands.h"

#include "base/mem.h"
#include "base/num.h"
#include "ops/contracts/product.h"

/* A rounded copy of columns [left, right) of a value. */
typedef struct copy {
    fv_id id; /* FV_NO_VALUE if there is no copy, or the value has changed since */
    uint32_t left, right;
} copy;

/* Returns whether operand o is multiplied as bfloat16. */
static bool is_factor(const fv_step *s, uint32_t o)
{
    if (s->dead || s->use[o].view.id < 0)
        return false;
    if (s->prob.op == FV_OP_GEMM)
        return o == FV_GEMM_A && s->prob.weight == FV_BF16;
    return s->prob.op == FV_OP_GEMM_GRAD_W && s->prob.in == FV_BF16 && o != s->out;
}

/* Returns whether kernels can also write operand o as bfloat16. Kernels of attention do so where
 * they multiply bfloat16. */
static bool is_rounded_result(const fv_step *s, uint32_t o)
{
    const fv_op *op = fv_op_table[s->prob.op];
    return o == s->out && op->operand[o].narrow &&
           (op->cols != FV_COLS_HEAD || s->prob.acc == FV_BF16);
}

/* ---- values that are rounded where they are written ---- */

static void round_values(fv_builder *b)
{
    for (uint32_t i = 0; i < b->graph->values; i++) {
        b->graph->value[i].writers = 0;
        b->graph->value[i].f32_only = true;
    }
    for (uint32_t i = 0; i < b->graph->steps; i++) /* values that are operands of such products */
        for (uint32_t o = 0; o < FV_OPERANDS; o++)
            if (is_factor(&b->graph->step[i], o))
                b->graph->value[b->graph->step[i].use[o].view.id].f32_only = false;
    for (uint32_t i = 0; i < b->graph->steps; i++) {
        const fv_step *s = &b->graph->step[i];
        for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
            if (s->use[o].view.id < 0)
                continue;
            fv_value *v = &b->graph->value[s->use[o].view.id];
            v->writers += o == s->out;
            v->f32_only |= !is_factor(s, o) && !is_rounded_result(s, o);
        }
    }
    for (uint32_t i = 0; i < b->graph->values; i++) {
        fv_value *v = &b->graph->value[i];
        if (!v->f32_only && v->kind == FV_VALUE_ROWS && v->writers == 1)
            fv_emit_store_as(v, FV_BF16);
    }
}

/* ---- copies of the others ---- */

/* Returns the columns of a value that products read, from step `first` on, before the value is
 * written again. */
static copy read_columns(const fv_step *step, uint32_t first, uint32_t steps, fv_id id)
{
    copy c = {.left = UINT32_MAX};
    for (uint32_t i = first; i < steps; i++) {
        const fv_step *s = &step[i];
        for (uint32_t o = 0; o < FV_OPERANDS; o++) {
            const fv_view v = s->use[o].view;
            if (!is_factor(s, o) || v.id != id)
                continue;
            const uint32_t right = v.col + fv_problem_columns(&s->prob, o);
            c.left = fv_min_u32(c.left, v.col);
            c.right = right > c.right ? right : c.right;
        }
        if (!s->dead && s->use[s->out].view.id == id)
            break;
    }
    return c;
}

/* Emits step i of the list, with its operands as bfloat16. */
static void emit(fv_builder *b, const fv_step *step, uint32_t i, uint32_t steps, copy *of)
{
    fv_step s = step[i];
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        fv_view *v = &s.use[o].view;
        if (!is_factor(&s, o) || b->graph->value[v->id].type == FV_BF16)
            continue;
        copy *c = &of[v->id];
        if (c->id < 0) {
            const uint32_t rows = b->graph->value[v->id].rows;
            *c = read_columns(step, i, steps, v->id);
            const uint32_t columns = c->right - c->left;
            const fv_view to = fv_emit_value(b, FV_VALUE_ROWS, rows, columns, FV_BF16);
            b->checkpoint_segment = s.checkpoint_segment;
            fv_emit_convert(b, "operands", (fv_view){v->id, c->left}, FV_F32, to, FV_BF16, rows,
                            columns);
            c->id = to.id;
        }
        *v = (fv_view){c->id, v->col - c->left};
    }
    if (!s.dead)
        of[s.use[s.out].view.id].id = FV_NO_VALUE;
    fv_step *to = fv_emit_step(b, s.prob.op, s.prob.dim[FV_DIM_ROWS], s.label);
    if (b->status == FOVEA_OK)
        *to = s;
}

fovea_status fv_operands_round(fv_builder *b)
{
    copy *of;
    FV_TRY(b->status);
    fv_graph_demand(b->graph);
    round_values(b);
    const uint32_t values = b->graph->values, steps = b->graph->steps;
    fv_step *step = b->graph->step;
    FV_TRY(FV_MEM_ARRAY(&of, values, FV_MEM_PLAN, "the matrix products' operands"));
    for (uint32_t i = 0; i < values; i++)
        of[i].id = FV_NO_VALUE;
    b->graph->step = NULL;
    b->graph->steps = b->graph->step_capacity = 0;
    for (uint32_t i = 0; i < steps && b->status == FOVEA_OK; i++)
        emit(b, step, i, steps, of);
    fv_emit_types(b->graph, b->options);
    fv_mem_free(of);
    fv_mem_free(step);
    return b->status;
}
