/* channel_group.c: finds channels that can be scaled without an effect on any other step. */
#include "plan/channel_group.h"
#include "ops/contracts/grid.h"
#include "ops/contracts/linear_attention.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"

/* Operands of each op through which a scale of a channel passes unchanged. */
static const uint16_t passes[FV_OP_COUNT] = {
    [FV_OP_SOFTMAX] = 1u << FV_SOFTMAX_V | 1u << FV_SOFTMAX_OUT,
    [FV_OP_WSOFTMAX] = 1u << FV_WINDOW_V | 1u << FV_WINDOW_OUT,
    [FV_OP_WLATTN] = 1u << FV_WINDOW_V | 1u << FV_WINDOW_OUT,
    [FV_OP_FOVEATED] = 1u << FV_FOVEATED_V | 1u << FV_FOVEATED_CELL_V | 1u << FV_FOVEATED_OUT,
    [FV_OP_KEYS_I8] = 1u << FV_KEYS_V | 1u << FV_KEYS_CELL_V | 1u << FV_KEYS_OUT,
    [FV_OP_CELLS] = 1u << FV_CELLS_IN | 1u << FV_CELLS_OUT,
    [FV_OP_LATTN_REDUCE] = 1u << FV_REDUCE_V | 1u << FV_REDUCE_PARTIAL,
    [FV_OP_LATTN_MERGE] = 1u << FV_MERGE_PARTIAL | 1u << FV_MERGE_STATE,
    [FV_OP_LATTN_APPLY] = 1u << FV_APPLY_STATE | 1u << FV_APPLY_OUT,
    [FV_OP_DEFORM] = 1u << FV_DEFORM_VALUES | 1u << FV_DEFORM_OUT,
    [FV_OP_MUL] = 1u << FV_MUL_A | 1u << FV_MUL_OUT,
    [FV_OP_ADD] = 1u << FV_ADD_IN | 1u << FV_ADD_RES | 1u << FV_ADD_OUT,
    [FV_OP_DWCONV] = 1u << FV_DWCONV_IN | 1u << FV_DWCONV_RES | 1u << FV_DWCONV_OUT,
    [FV_OP_GATHER] = 1u << FV_GATHER_IN | 1u << FV_GATHER_RES | 1u << FV_GATHER_OUT,
    [FV_OP_LERP] = 1u << FV_LERP_IN | 1u << FV_LERP_OUT,
    [FV_OP_COPY] = 1u << FV_COPY_IN | 1u << FV_COPY_OUT,
    [FV_OP_TAKE] = 1u << FV_TAKE_IN | 1u << FV_TAKE_OUT,
};

static uint32_t passing(const fv_step *s)
{
    const bool packed = s->prob.acc == FV_I32; /* KEYS_I8 packs keys and values into one operand */
    switch (s->prob.op) {
    case FV_OP_SOFTMAX:
        return passes[s->prob.op] | (packed ? 1u << FV_SOFTMAX_K : 0);
    case FV_OP_FOVEATED:
        return passes[s->prob.op] | (packed ? 1u << FV_FOVEATED_K : 0);
    default:
        return passes[s->prob.op];
    }
}

/* Returns whether an element's position in the value does not determine its channel, as in states
 * and packed values. */
static bool is_whole(const fv_value *v)
{
    return v->kind == FV_VALUE_PARTIAL || v->kind == FV_VALUE_STATE || v->type == FV_U8;
}

static bool has_view(const fv_channel_group *g, fv_view v)
{
    for (uint32_t i = 0; i < g->view.n; i++)
        if (g->view.of[i].id == v.id && g->view.of[i].col == v.col)
            return true;
    return false;
}

static bool add_view(fv_channel_group *g, const fv_graph *graph, fv_view v)
{
    const fv_value *value = &graph->value[v.id];
    if (has_view(g, v))
        return true;
    if ((value->kind != FV_VALUE_ROWS && !is_whole(value)) || g->view.n == FV_GROUP_MOST)
        return false;
    g->view.of[g->view.n++] = v;
    return true;
}

static bool add_step(struct fv_group_steps *s, uint32_t step, uint32_t row)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->step[i] == step && s->row[i] == row)
            return true;
    if (s->n == FV_GROUP_MOST)
        return false;
    s->step[s->n] = step;
    s->row[s->n++] = row;
    return true;
}

/* Requires that channels whose distance is a multiple of `period` have the same scale. */
static bool add_period(fv_channel_group *g, uint32_t period)
{
    uint32_t a = g->period, b = period;
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    g->period = a;
    return period != 0;
}

/* Adds a product whose weight's rows produce the channels. Returns false if the product adds a
 * residual, or if a nonlinear activation changes the channels. ReLU commutes with positive scales,
 * and SwiGLU is linear in its values. */
static bool add_maker(fv_channel_group *g, const fv_step *s, uint32_t step, fv_view v)
{
    const fv_view out = s->use[FV_GEMM_OUT].view;
    const uint32_t n = s->prob.dim[FV_GEMM_N], first = v.col - out.col;
    if (s->prob.epi & (FV_EPI_RESIDUAL | (FV_EPI_ACT & ~(uint32_t)FV_EPI_RELU)) ||
        v.col < out.col || first + g->channels > n)
        return false;
    return add_step(&g->maker, step, s->prob.epi & FV_EPI_SWIGLU ? n + first : first);
}

/* Adds the other operands of a step that passes the channels on unchanged. */
static bool pass(fv_channel_group *g, const fv_graph *graph, const fv_step *s, uint32_t step)
{
    const bool convolves = s->prob.op == FV_OP_DWCONV;
    if (s->prob.op == FV_OP_GATHER && s->prob.dim[FV_GATHER_PARTS] != 1)
        return false;
    if (convolves && fv_weight_present(&s->use[FV_DWCONV_BIAS].weight) &&
        !(add_period(g, s->u[1]) && add_step(&g->shift, step, 0)))
        return false;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (passing(s) >> o & 1 && s->use[o].view.id >= 0 && !add_view(g, graph, s->use[o].view))
            return false;
    return true;
}

/* Adds to the group step `step`, whose operand o is some or all of these channels. Returns false if
 * its op does not allow a group. */
static bool touch(fv_channel_group *g, const fv_graph *graph, uint32_t step, uint32_t o, fv_view v)
{
    const fv_step *s = &graph->step[step];
    const bool exact =
        is_whole(&graph->value[v.id]) ||
        (s->use[o].view.col == v.col && fv_problem_columns(&s->prob, o) == g->channels);
    if (s->prob.op == FV_OP_GEMM && o == FV_GEMM_OUT)
        return add_maker(g, s, step, v);
    if (!exact)
        return false;
    switch (s->prob.op) {
    case FV_OP_GEMM:
        return o == FV_GEMM_A && add_step(&g->reader, step, 0);
    case FV_OP_LAYERNORM:
        return o == FV_LN_OUT && add_step(&g->norm, step, 0);
    case FV_OP_RMSNORM:
        return o == FV_RMS_OUT && add_period(g, s->prob.dim[FV_RMS_D]) &&
               add_step(&g->norm, step, 0);
    default:
        return passing(s) >> o & 1 && pass(g, graph, s, step);
    }
}

/* Returns whether operand o of the step has any of the channels v. */
static bool overlaps(const fv_channel_group *g, const fv_graph *graph, const fv_step *s, uint32_t o,
                     fv_view v)
{
    const uint64_t begin = s->use[o].view.col, end = begin + fv_problem_columns(&s->prob, o);
    return s->use[o].view.id == v.id && (is_whole(&graph->value[v.id]) ||
                                         (begin < (uint64_t)v.col + g->channels && v.col < end));
}

/* Returns whether the step is a norm that overwrites its whole input. Before such a norm, v has
 * other channels than those of the group. */
static bool is_in_place(const fv_channel_group *g, const fv_graph *graph, const fv_step *s,
                        fv_view v)
{
    const fv_view in = s->use[0].view, out = s->use[s->out].view;
    const fv_value *value = &graph->value[v.id];
    const uint32_t rows = value->need ? value->need : value->rows;
    return !s->dead && (s->prob.op == FV_OP_LAYERNORM || s->prob.op == FV_OP_RMSNORM) &&
           in.id == v.id && out.id == v.id && in.col == v.col && out.col == v.col &&
           s->prob.dim[FV_ROW_C] == g->channels && s->prob.dim[FV_DIM_ROWS] >= rows;
}

/* Returns the first step at which v has the group's channels. */
static uint32_t first_step(const fv_channel_group *g, const fv_graph *graph, fv_view v)
{
    uint32_t i = graph->steps;
    while (i > 0 && !is_in_place(g, graph, &graph->step[i - 1], v))
        i--;
    return i > 0 ? i - 1 : 0;
}

static bool follow(fv_channel_group *g, const fv_graph *graph, uint32_t view)
{
    const fv_view v = g->view.of[view];
    const uint32_t first = first_step(g, graph, v);
    const bool in_place = is_in_place(g, graph, &graph->step[first], v);
    g->view.first[view] = first;
    for (uint32_t i = first; i < graph->steps; i++)
        for (uint32_t o = 0; !graph->step[i].dead && o < FV_OPERANDS; o++)
            if (!(i == first && o == 0 && in_place) && overlaps(g, graph, &graph->step[i], o, v) &&
                !touch(g, graph, i, o, v))
                return false;
    return true;
}

bool fv_channel_group_find(fv_channel_group *out, const fv_graph *graph, uint32_t reader)
{
    const fv_step *s = &graph->step[reader];
    const uint32_t k = s->prob.dim[FV_GEMM_K];
    *out = (fv_channel_group){.channels = k, .period = k};
    if (s->use[FV_GEMM_A].view.id < 0 || !add_view(out, graph, s->use[FV_GEMM_A].view))
        return false;
    for (uint32_t i = 0; i < out->view.n; i++)
        if (!follow(out, graph, i))
            return false;
    return out->norm.n + out->maker.n > 0;
}

static bool add_steps(struct fv_group_steps *to, const struct fv_group_steps *from)
{
    bool ok = true;
    for (uint32_t i = 0; i < from->n; i++)
        ok = ok && add_step(to, from->step[i], from->row[i]);
    return ok;
}

bool fv_channel_group_join(fv_channel_group *to, const fv_channel_group *from)
{
    fv_channel_group all = *to;
    bool ok = to->channels == from->channels && add_period(&all, from->period) &&
              add_steps(&all.norm, &from->norm) && add_steps(&all.maker, &from->maker) &&
              add_steps(&all.shift, &from->shift) && add_steps(&all.reader, &from->reader);
    for (uint32_t i = 0; ok && i < from->view.n; i++) {
        ok = all.view.n < FV_GROUP_MOST;
        if (ok) {
            all.view.first[all.view.n] = from->view.first[i];
            all.view.of[all.view.n++] = from->view.of[i];
        }
    }
    if (ok)
        *to = all;
    return ok;
}
