/* rules_attention.c: computes gradients of attention: softmax, foveated, both halves of linear
 * attention, gates, pooling. */
#include "train/ref/training.h"
#include "train/tape.h"

/* Emits a step with the heads, sizes and scalars of `s`, which writes its result to `out`. */
static fv_step *like(fv_tape *t, const fv_step *s, enum fv_op op, uint32_t rows, fv_view out,
                     enum fv_kind kind)
{
    fv_step *g = fv_emit_step(t->b, op, rows, fv_tape_label(t, s, "gradient"));
    g->prob.mech = s->prob.mech;
    g->prob.heads = s->prob.heads;
    g->prob.flags = s->prob.flags;
    for (int i = 1; i < 8; i++)
        g->prob.dim[i] = s->prob.dim[i];
    for (int i = 0; i < 4; i++) {
        g->f[i] = s->f[i];
        g->u[i] = s->u[i];
    }
    fv_use_value(g, g->out, out, kind);
    return g;
}

static void use_rows(fv_step *g, uint32_t o, fv_view v)
{
    fv_use_value(g, o, v, FV_KIND_ROW);
}

/* Passes on the gradients of k and v, which are adjacent columns of `dkv`. k and v must be adjacent
 * columns of one value. */
static void pass_keys(fv_tape *t, const fv_step *s, fv_view k, fv_view v, uint32_t columns,
                      fv_view dkv)
{
    if (k.id != v.id || k.col != 0 || v.col != columns)
        t->b->status = fv_fail(
            FOVEA_ENOTSUP, "%s: keys and values from separate products have no gradient", s->label);
    else
        fv_tape_pass(t, k, dkv);
}

/* Passes the gradient of some columns of a value. Columns of one value that are passed together are
 * `both`. */
static void pass_columns(fv_tape *t, const fv_view v[], const fv_view rows[], uint32_t n,
                         uint32_t cols, uint32_t count)
{
    const uint32_t all = t->b->graph->value[v[0].id].cols;
    if (n == 1 && all == cols) {
        fv_tape_pass(t, v[0], rows[0]);
        return;
    }
    if (!fv_tape_needs(t, v[0]))
        return;
    const fv_view together = fv_tape_rows(t, count, all);
    for (uint32_t i = 0; i < n; i++)
        fv_emit_copy(t->b, "gradient", rows[i], fv_view_cols(together, v[i].col), count, cols);
    fv_tape_pass(t, (fv_view){v[0].id, 0}, together);
}

/* Emits the gradients of attention whose keys are other rows than its queries, or whose keys and
 * values are of separate products. Numbers that hide keys get no gradient. */
static void other_rows(fv_tape *t, const fv_step *s)
{
    const fv_view out = s->use[FV_SOFTMAX_OUT].view, dout = fv_tape_gradient(t, out);
    const fv_view q = s->use[FV_SOFTMAX_Q].view, k = s->use[FV_SOFTMAX_K].view;
    const fv_view v = s->use[FV_SOFTMAX_V].view, hidden = s->use[FV_SOFTMAX_REL_POS].view;
    const uint32_t queries = s->prob.dim[FV_DIM_ROWS], keys = s->prob.dim[FV_ATTN_KEYS];
    const uint32_t heads = s->prob.heads, d = heads * s->prob.dim[FV_ATTN_D];
    const uint32_t dv = heads * s->prob.dim[FV_ATTN_DV];
    if (hidden.id >= 0 && s->prob.dim[FV_REL_POS_COLUMNS] != 1) {
        t->b->status = fv_fail(FOVEA_ENOTSUP, "%s: relative positions have no gradient", s->label);
        return;
    }
    const fv_view of_q = fv_tape_rows(t, queries, d + 2 * heads);
    fv_step *g = like(t, s, FV_OP_SOFTMAX_GRAD_Q, queries, of_q, FV_KIND_ROW);
    g->prob.dim[FV_REL_POS_COLUMNS] = 0;
    use_rows(g, FV_QUERIES_GRAD_Q, q);
    fv_use_value(g, FV_QUERIES_GRAD_K, k, FV_KIND_WHOLE);
    fv_use_value(g, FV_QUERIES_GRAD_V, v, FV_KIND_WHOLE);
    use_rows(g, FV_QUERIES_GRAD_HIDDEN, hidden);
    use_rows(g, FV_QUERIES_GRAD_FORWARD, out);
    use_rows(g, FV_QUERIES_GRAD_DOUT, dout);
    const fv_view of_k = fv_tape_rows(t, keys, d + dv);
    g = like(t, s, FV_OP_SOFTMAX_GRAD_KV, keys, of_k, FV_KIND_ROW);
    g->prob.dim[FV_REL_POS_COLUMNS] = 0;
    g->prob.dim[FV_ATTN_KEYS] = queries;
    use_rows(g, FV_KEYS_GRAD_K, k);
    use_rows(g, FV_KEYS_GRAD_V, v);
    fv_use_value(g, FV_KEYS_GRAD_Q, q, FV_KIND_WHOLE);
    fv_use_value(g, FV_KEYS_GRAD_HIDDEN, hidden, FV_KIND_WHOLE);
    fv_use_value(g, FV_KEYS_GRAD_STATE, fv_view_cols(of_q, d), FV_KIND_WHOLE);
    fv_use_value(g, FV_KEYS_GRAD_DOUT, dout, FV_KIND_WHOLE);
    const fv_view of_v = fv_view_cols(of_k, d);
    if (q.id == k.id) {
        pass_columns(t, (const fv_view[]){q, k}, (const fv_view[]){of_q, of_k}, 2, d, queries);
    } else {
        pass_columns(t, &q, &of_q, 1, d, queries);
        pass_columns(t, &k, &of_k, 1, d, keys);
    }
    pass_columns(t, &v, &of_v, 1, dv, keys);
}

/* Returns whether the keys and values are adjacent columns of the queries' own tokens. */
static bool same_tokens(const fv_step *s)
{
    const fv_view k = s->use[FV_SOFTMAX_K].view, v = s->use[FV_SOFTMAX_V].view;
    return k.id == v.id && k.col == 0 && v.col == s->prob.heads * s->prob.dim[FV_ATTN_D] &&
           s->use[FV_SOFTMAX_REL_POS].view.id < 0 &&
           s->prob.dim[FV_DIM_ROWS] == s->prob.dim[FV_ATTN_KEYS];
}

void fv_rule_softmax(fv_tape *t, const fv_step *s)
{
    if (!same_tokens(s)) {
        other_rows(t, s);
        return;
    }
    const fv_view out = s->use[FV_SOFTMAX_OUT].view, dout = fv_tape_gradient(t, out);
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], d = s->prob.heads * s->prob.dim[FV_ATTN_D];
    const uint32_t dv = s->prob.heads * s->prob.dim[FV_ATTN_DV];
    const fv_view all = fv_tape_rows(t, rows, 2 * d + dv);
    fv_step *g = like(t, s, FV_OP_SOFTMAX_GRAD, rows, all, FV_KIND_ROW);
    use_rows(g, FV_SOFTMAX_GRAD_Q, s->use[FV_SOFTMAX_Q].view);
    use_rows(g, FV_SOFTMAX_GRAD_K, s->use[FV_SOFTMAX_K].view);
    use_rows(g, FV_SOFTMAX_GRAD_V, s->use[FV_SOFTMAX_V].view);
    use_rows(g, FV_SOFTMAX_GRAD_FORWARD, out);
    use_rows(g, FV_SOFTMAX_GRAD_DOUT, dout);
    fv_tape_pass(t, s->use[FV_SOFTMAX_Q].view, all);
    pass_keys(t, s, s->use[FV_SOFTMAX_K].view, s->use[FV_SOFTMAX_V].view, d, fv_view_cols(all, d));
}

/* The gradients of the tokens include those of the cells, so that CELLS gets no gradient. */
void fv_rule_foveated(fv_tape *t, const fv_step *s)
{
    const fv_view out = s->use[FV_FOVEATED_OUT].view, dout = fv_tape_gradient(t, out);
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], d = s->prob.heads * s->prob.dim[FV_ATTN_D];
    const uint32_t dv = s->prob.heads * s->prob.dim[FV_ATTN_DV];
    const fv_view all = fv_tape_rows(t, rows, 2 * d + dv);
    fv_step *g = like(t, s, FV_OP_FOVEATED_GRAD, rows, all, FV_KIND_ROW);
    for (uint32_t o = FV_FOVEATED_Q; o <= FV_FOVEATED_V; o++)
        use_rows(g, o, s->use[o].view);
    for (uint32_t o = FV_FOVEATED_CELL_K; o <= FV_FOVEATED_CELL_V; o++)
        g->use[o] = s->use[o];
    use_rows(g, FV_FOVEATED_GRAD_FORWARD, out);
    use_rows(g, FV_FOVEATED_GRAD_DOUT, dout);
    fv_tape_pass(t, s->use[FV_FOVEATED_Q].view, all);
    pass_keys(t, s, s->use[FV_FOVEATED_K].view, s->use[FV_FOVEATED_V].view, d,
              fv_view_cols(all, d));
}

/* ---- linear attention ---- */

/* Emits the gradient of the learned vectors of a feature map, from its input rows and their
 * gradient. */
static void vectors(fv_tape *t, const fv_step *s, const fv_weight *param, fv_view x, fv_view dx,
                    float alpha)
{
    if (!fv_weight_present(param) || !fv_masters_want(t->masters, param))
        return;
    const fv_view out = fv_tape_gather(t, param, NULL);
    fv_step *g = fv_emit_step(t->b, FV_OP_LATTN_PARAM_GRAD, param->rows,
                              fv_tape_label(t, s, "gradient of vectors"));
    g->prob.mech = s->prob.mech;
    g->prob.heads = s->prob.heads;
    g->prob.flags = FV_FLAG_ACCUMULATE;
    g->prob.dim[FV_PARAM_GRAD_COLUMNS] = param->cols;
    g->prob.dim[FV_PARAM_GRAD_ROWS] = s->prob.dim[FV_DIM_ROWS];
    g->prob.dim[FV_PARAM_GRAD_D] = s->prob.dim[FV_ATTN_D];
    g->f[0] = alpha;
    fv_use_value(g, FV_PARAM_GRAD_X, x, FV_KIND_WHOLE);
    fv_use_value(g, FV_PARAM_GRAD_DX, dx, FV_KIND_WHOLE);
    fv_use_weight(g, FV_PARAM_GRAD_PARAM, param);
    fv_use_value(g, FV_PARAM_GRAD_OUT, out, FV_KIND_ROW);
}

/* Sets the operands of the gradient: the operands and the result of LATTN_APPLY, and the gradient
 * of its output. */
static void query_operands(fv_step *g, const fv_step *s, fv_view dout)
{
    for (uint32_t o = FV_APPLY_Q; o < FV_APPLY_OUT; o++)
        g->use[o] = s->use[o];
    use_rows(g, FV_QUERY_GRAD_FORWARD, s->use[FV_APPLY_OUT].view);
    use_rows(g, FV_QUERY_GRAD_DOUT, dout);
}

/* Returns the gradient of the merged state that the queries read. */
static fv_view state_gradient(fv_tape *t, const fv_step *s, fv_view dout)
{
    const uint32_t size = t->b->graph->value[s->use[FV_APPLY_STATE].view.id].cols;
    const fv_view partial = fv_emit_value(t->b, FV_VALUE_PARTIAL, 1, size, FV_F32);
    const fv_view out = fv_emit_value(t->b, FV_VALUE_STATE, 1, size, FV_F32);
    fv_step *g =
        like(t, s, FV_OP_LATTN_STATE_GRAD, s->prob.dim[FV_DIM_ROWS], partial, FV_KIND_PARTIAL);
    query_operands(g, s, dout);
    g = fv_emit_step(t->b, FV_OP_MEAN_MERGE, 1, fv_tape_label(t, s, "gradient of the state"));
    g->prob.dim[FV_ROW_C] = size;
    fv_use_value(g, FV_MERGE_PARTIAL, partial, FV_KIND_STATE);
    fv_use_value(g, FV_MERGE_STATE, out, FV_KIND_STATE);
    return out;
}

void fv_rule_apply(fv_tape *t, const fv_step *s)
{
    const fv_view q = s->use[FV_APPLY_Q].view, out = s->use[FV_APPLY_OUT].view;
    const fv_view dout = fv_tape_gradient(t, out), gate = s->use[FV_APPLY_GATE].view;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], heads = s->prob.heads;
    const uint32_t d = heads * s->prob.dim[FV_ATTN_D];
    const fv_view dq = fv_tape_rows(t, rows, d);
    fv_step *g = like(t, s, FV_OP_LATTN_APPLY_GRAD, rows, dq, FV_KIND_ROW);
    query_operands(g, s, dout);
    vectors(t, s, &s->use[FV_APPLY_PARAM].weight, q, dq, s->f[2]);
    fv_tape_pass(t, q, dq);
    if (fv_tape_needs(t, gate)) {
        const fv_view dot = fv_tape_rows(t, rows, heads);
        g = fv_emit_row_step(t->b, FV_OP_HEAD_DOT, fv_tape_label(t, s, "gradient of gates"), out,
                             FV_KIND_ROW, dot, rows, heads);
        g->prob.dim[FV_DOT_D] = s->prob.dim[FV_ATTN_DV];
        use_rows(g, FV_DOT_B, dout);
        fv_tape_pass(t, gate, dot);
    }
    fv_tape_pass(t, s->use[FV_APPLY_STATE].view, state_gradient(t, s, dout));
}

/* The gradient of each partial state is the gradient of the merged state. */
void fv_rule_merge(fv_tape *t, const fv_step *s)
{
    const fv_view partial = s->use[FV_MERGE_PARTIAL].view, state = s->use[FV_MERGE_STATE].view;
    t->value[partial.id].state = state.id;
    fv_tape_pass(t, partial, fv_tape_gradient(t, state));
}

static void key_operands(fv_step *g, const fv_step *s, fv_view state, fv_view dstate)
{
    for (uint32_t o = FV_REDUCE_K; o < FV_REDUCE_PARTIAL; o++)
        g->use[o] = s->use[o];
    fv_use_value(g, FV_KEY_GRAD_STATE, state, FV_KIND_STATE);
    fv_use_value(g, FV_KEY_GRAD_DSTATE, dstate, FV_KIND_STATE);
}

void fv_rule_reduce(fv_tape *t, const fv_step *s)
{
    const fv_view partial = s->use[FV_REDUCE_PARTIAL].view, gate = s->use[FV_REDUCE_GATE].view;
    const fv_view dstate = fv_tape_gradient(t, partial);
    const fv_view state = {t->value[partial.id].state, 0};
    const fv_view k = s->use[FV_REDUCE_K].view, v = s->use[FV_REDUCE_V].view;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], d = s->prob.heads * s->prob.dim[FV_ATTN_D];
    const fv_view dkv = fv_tape_rows(t, rows, d + s->prob.heads * s->prob.dim[FV_ATTN_DV]);
    fv_step *g = like(t, s, FV_OP_LATTN_REDUCE_GRAD, rows, dkv, FV_KIND_ROW);
    key_operands(g, s, state, dstate);
    vectors(t, s, &s->use[FV_REDUCE_PARAM].weight, k, dkv, s->f[1]);
    pass_keys(t, s, k, v, d, dkv);
    if (!fv_tape_needs(t, gate))
        return;
    const fv_view dot = fv_tape_rows(t, rows, s->prob.heads);
    g = like(t, s, FV_OP_LATTN_GATE_GRAD, rows, dot, FV_KIND_ROW);
    key_operands(g, s, state, dstate);
    fv_tape_pass(t, gate, dot);
}

/* Emits gradients of the gate weights, from each gate times its gradient. */
void fv_rule_gates(fv_tape *t, const fv_step *s)
{
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], heads = s->prob.dim[FV_ROW_C];
    const fv_view gates = s->use[FV_GATES_OUT].view, out = fv_tape_rows(t, rows, heads);
    fv_step *g = fv_emit_row_step(t->b, FV_OP_GATES_GRAD, fv_tape_label(t, s, "gradient"), gates,
                                  FV_KIND_ROW, out, rows, heads);
    g->f[0] = s->f[0];
    use_rows(g, FV_GATES_GRAD_DOT, fv_tape_gradient(t, gates));
    fv_tape_pass(t, s->use[FV_GATES_IN].view, out);
}

/* ---- pooling ---- */

static void pooled_operands(fv_step *g, const fv_step *s, enum fv_kind rows, fv_view forward,
                            fv_view dout)
{
    fv_use_value(g, FV_MAP_GRAD_Q, s->use[FV_MAP_Q].view, FV_KIND_WHOLE);
    fv_use_value(g, FV_MAP_GRAD_K, s->use[FV_MAP_K].view, rows);
    fv_use_value(g, FV_MAP_GRAD_V, s->use[FV_MAP_V].view, rows);
    fv_use_value(g, FV_MAP_GRAD_FORWARD, forward, FV_KIND_WHOLE);
    fv_use_value(g, FV_MAP_GRAD_DOUT, dout, FV_KIND_WHOLE);
}

void fv_rule_map_reduce(fv_tape *t, const fv_step *s)
{
    const fv_view partial = s->use[FV_MAP_PARTIAL].view, q = s->use[FV_MAP_Q].view;
    const fv_view dout = fv_tape_gradient(t, partial);
    const fv_view forward = {t->value[partial.id].state, 0};
    const fv_view k = s->use[FV_MAP_K].view, v = s->use[FV_MAP_V].view;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], d = s->prob.heads * s->prob.dim[FV_ATTN_D];
    fv_step *g;
    if (fv_tape_needs(t, q)) {
        const fv_view dq = fv_tape_rows(t, 1, d);
        g = like(t, s, FV_OP_MAP_GRAD_Q, 1, dq, FV_KIND_ROW);
        pooled_operands(g, s, FV_KIND_WHOLE, forward, dout);
        fv_tape_pass(t, q, dq);
    }
    if (!fv_tape_needs(t, k))
        return;
    const fv_view dkv = fv_tape_rows(t, rows, 2 * d);
    g = like(t, s, FV_OP_MAP_GRAD, rows, dkv, FV_KIND_ROW);
    pooled_operands(g, s, FV_KIND_ROW, forward, dout);
    pass_keys(t, s, k, v, d, dkv);
}
