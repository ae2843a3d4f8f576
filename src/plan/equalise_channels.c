/* equalise_channels.c: scales the channels that products of int8 read to similar ranges.
 * ops/equalise.h defines the scales, and channel_group.h the channels. The weights that produce a
 * channel are divided by a power of two, and the columns of weights that read it are multiplied by
 * the same power, so that every product of floats gives the same bits. */
#include <math.h>

#include "base/mem.h"
#include "models/model.h"
#include "ops/contracts/grid.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "plan/channel_group.h"
#include "plan/plan.h"
#include "weights/equalised.h"

/* Scales of a weight's rows or columns, or of a value's columns, accumulated over all groups. */
typedef struct scales {
    const float **of; /* pointer to the scales to set */
    float *factor;
    uint32_t n;
} scales;

typedef struct equaliser {
    fovea_plan *p;
    fv_channel_group *group;
    uint32_t groups, group_capacity;
    scales *found;
    uint32_t n_found, found_capacity;
} equaliser;

static bool is_int8(const fv_step *s)
{
    return !s->dead && s->prob.op == FV_OP_GEMM && s->prob.acc == FV_I32;
}

/* ---- groups ---- */

static bool reads(const fv_channel_group *g, uint32_t step)
{
    for (uint32_t i = 0; i < g->reader.n; i++)
        if (g->reader.step[i] == step)
            return true;
    return false;
}

/* Returns whether a norm of x and a norm of y have the same weight, as the norms before a block's
 * keys and queries do. Such groups are joined: with equal scales they can share the packed weight.
 */
static bool share_norm(const fv_graph *graph, const fv_channel_group *x, const fv_channel_group *y)
{
    for (uint32_t i = 0; i < x->norm.n; i++)
        for (uint32_t k = 0; k < y->norm.n; k++) {
            const fv_step *s = &graph->step[x->norm.step[i]], *t = &graph->step[y->norm.step[k]];
            if (s->prob.op == t->prob.op &&
                fv_weight_same(&s->use[FV_LN_WEIGHT].weight, &t->use[FV_LN_WEIGHT].weight))
                return true;
        }
    return false;
}

static fovea_status add_group(equaliser *e, const fv_channel_group *g)
{
    for (uint32_t i = 0; i < e->groups; i++)
        if (share_norm(&e->p->graph, &e->group[i], g) && fv_channel_group_join(&e->group[i], g))
            return FOVEA_OK;
    if (e->groups == e->group_capacity)
        FV_TRY(fv_mem_grow(&e->group, e->groups, &e->group_capacity, e->groups ? 2 * e->groups : 32,
                           sizeof *e->group, FV_MEM_PLAN, "groups of channels"));
    e->group[e->groups++] = *g;
    return FOVEA_OK;
}

static fovea_status find_groups(equaliser *e)
{
    const fv_graph *graph = &e->p->graph;
    for (uint32_t i = 0; i < graph->steps; i++) {
        fv_channel_group g;
        bool known = !is_int8(&graph->step[i]);
        for (uint32_t k = 0; !known && k < e->groups; k++)
            known = reads(&e->group[k], i);
        if (!known && fv_channel_group_find(&g, graph, i))
            FV_TRY(add_group(e, &g));
    }
    return FOVEA_OK;
}

/* ---- sources of sizes ---- */

/* Returns the norm whose result is the whole input of the product, or NULL if the input is not the
 * result of one norm. */
static const fv_step *norm_of_input(const fv_graph *graph, const fv_step *product)
{
    const fv_view in = product->use[FV_GEMM_A].view;
    const fv_step *found = NULL;
    for (uint32_t i = 0; in.id >= 0 && i < graph->steps; i++) {
        const fv_step *s = &graph->step[i];
        if (s->dead || s->use[s->out].view.id != in.id)
            continue;
        if (found || (s->prob.op != FV_OP_LAYERNORM && s->prob.op != FV_OP_RMSNORM) ||
            s->use[s->out].view.col != in.col ||
            s->prob.dim[FV_ROW_C] != product->prob.dim[FV_GEMM_K])
            return NULL;
        found = s;
    }
    return found;
}

static void take_norm(fv_weight *w, fv_weight *b, const fv_step *norm)
{
    *w = norm->use[FV_LN_WEIGHT].weight; /* RMSNORM's weight is the same operand */
    if (norm->prob.op == FV_OP_LAYERNORM)
        *b = norm->use[FV_LN_BIAS].weight;
}

static fv_equal_source maker(const fv_graph *graph, const fv_step *s, uint32_t row)
{
    fv_equal_source m = {.role = FV_EQUAL_MAKER,
                         .row = row,
                         .w = s->use[FV_GEMM_W].weight,
                         .b = s->use[FV_GEMM_BIAS].weight,
                         .scale = s->use[FV_GEMM_SCALE].weight};
    const fv_step *norm = norm_of_input(graph, s);
    if (s->prob.epi & FV_EPI_SWIGLU)
        m.gates = row - s->prob.dim[FV_GEMM_N] + 1;
    if (norm)
        take_norm(&m.in_w, &m.in_b, norm);
    return m;
}

static void list_sources(fv_equal_sources *out, const fv_graph *graph, const fv_channel_group *g)
{
    for (uint32_t i = 0; i < g->norm.n; i++) {
        fv_equal_source *s = &out->of[out->n++];
        *s = (fv_equal_source){.role = FV_EQUAL_NORM};
        take_norm(&s->w, &s->b, &graph->step[g->norm.step[i]]);
    }
    for (uint32_t i = 0; i < g->maker.n; i++)
        out->of[out->n++] = maker(graph, &graph->step[g->maker.step[i]], g->maker.row[i]);
    for (uint32_t i = 0; i < g->reader.n; i++)
        out->of[out->n++] = (fv_equal_source){
            .role = FV_EQUAL_READER, .w = graph->step[g->reader.step[i]].use[FV_GEMM_W].weight};
}

/* Returns whether part of the weight is a constant of the plan, not a tensor of the model. */
static bool is_constant(const fv_graph *graph, const fv_weight *w)
{
    for (const fv_constant *c = graph->constants; c; c = c->next)
        for (uint32_t i = 0; i < w->parts; i++)
            if (w->part[i].tensor == &c->tensor)
                return true;
    return false;
}

static bool all_own(const fv_graph *graph, const fv_equal_sources *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const fv_equal_source *x = &s->of[i];
        if (is_constant(graph, &x->w) || is_constant(graph, &x->b) ||
            is_constant(graph, &x->scale) || is_constant(graph, &x->in_w) ||
            is_constant(graph, &x->in_b))
            return false;
    }
    return true;
}

static fovea_status find_exponents(int8_t *exponent, fovea_plan *p, const fv_channel_group *g)
{
    fv_equal_sources s = {.channels = g->channels, .period = g->period};
    FV_TRY(FV_MEM_ARRAY(&s.of, g->norm.n + g->maker.n + g->reader.n, FV_MEM_PLAN,
                        "sizes of channels"));
    list_sources(&s, &p->graph, g);
    const fovea_status status =
        fv_equalised_find(exponent, &p->model->shared, &s, all_own(&p->graph, &s));
    fv_mem_free(s.of);
    return status;
}

/* ---- scales ---- */

/* Multiplies scales first .. first + count of the n scales *of by powers of two. The first call for
 * `of` copies the existing scales, or fills in ones if none exist. */
static fovea_status multiply(equaliser *e, const float **of, uint32_t n, uint32_t first,
                             uint32_t count, const int8_t *exponent, uint32_t period, int sign)
{
    uint32_t i = 0;
    while (i < e->n_found && e->found[i].of != of)
        i++;
    if (i == e->n_found) {
        if (i == e->found_capacity)
            FV_TRY(fv_mem_grow(&e->found, i, &e->found_capacity, i ? 2 * i : 64, sizeof *e->found,
                               FV_MEM_PLAN, "channel scales"));
        scales f = {.of = of, .n = n};
        FV_TRY(FV_MEM_ARRAY(&f.factor, n, FV_MEM_PLAN, "channel scales"));
        for (uint32_t k = 0; k < n; k++)
            f.factor[k] = *of ? (*of)[k] : 1;
        e->found[e->n_found++] = f;
    }
    for (uint32_t k = 0; k < count; k++)
        e->found[i].factor[first + k] =
            ldexpf(e->found[i].factor[first + k], sign * exponent[k % period]);
    return FOVEA_OK;
}

/* Divides the elements of a vector from `first` on. Does nothing if the vector is absent. */
static fovea_status divide_vector(equaliser *e, fv_weight *w, uint32_t first, uint32_t count,
                                  const int8_t *exponent, uint32_t period)
{
    return fv_weight_present(w)
               ? multiply(e, &w->col_factor, w->cols, first, count, exponent, period, -1)
               : FOVEA_OK;
}

static fovea_status divide_makers(equaliser *e, const fv_channel_group *g, const int8_t *exponent)
{
    fv_step *step = e->p->graph.step;
    for (uint32_t i = 0; i < g->norm.n; i++) {
        fv_step *s = &step[g->norm.step[i]];
        fv_weight *w = &s->use[FV_LN_WEIGHT].weight;
        FV_TRY(divide_vector(e, w, 0, w->cols, exponent, g->period));
        if (s->prob.op == FV_OP_LAYERNORM)
            FV_TRY(
                divide_vector(e, &s->use[FV_LN_BIAS].weight, 0, g->channels, exponent, g->period));
    }
    for (uint32_t i = 0; i < g->maker.n; i++) {
        fv_step *s = &step[g->maker.step[i]];
        fv_weight *w = &s->use[FV_GEMM_W].weight;
        FV_TRY(multiply(e, &w->row_factor, w->rows, g->maker.row[i], g->channels, exponent,
                        g->period, -1));
        FV_TRY(divide_vector(e, &s->use[FV_GEMM_BIAS].weight, g->maker.row[i], g->channels,
                             exponent, g->period));
    }
    for (uint32_t i = 0; i < g->shift.n; i++) {
        fv_weight *w = &step[g->shift.step[i]].use[FV_DWCONV_BIAS].weight;
        FV_TRY(divide_vector(e, w, 0, w->cols, exponent, g->period));
    }
    return FOVEA_OK;
}

static fovea_status note_views(equaliser *e, const fv_channel_group *g, const int8_t *exponent)
{
    for (uint32_t i = 0; i < g->view.n; i++) {
        const fv_value *v = &e->p->graph.value[g->view.of[i].id];
        fv_equal_value *equal = &e->p->equal[g->view.of[i].id];
        equal->divided = true;
        equal->first_step = g->view.first[i];
        if (v->kind == FV_VALUE_ROWS && v->type != FV_U8)
            FV_TRY(multiply(e, &equal->factor, v->cols, g->view.of[i].col, g->channels, exponent,
                            g->period, -1));
    }
    return FOVEA_OK;
}

static fovea_status apply(equaliser *e, const fv_channel_group *g, const int8_t *exponent)
{
    uint32_t changed = 0;
    for (uint32_t c = 0; c < g->period; c++)
        changed += exponent[c] != 0;
    if (!changed)
        return FOVEA_OK;
    FV_TRY(divide_makers(e, g, exponent));
    for (uint32_t i = 0; i < g->reader.n; i++) {
        fv_weight *w = &e->p->graph.step[g->reader.step[i]].use[FV_GEMM_W].weight;
        FV_TRY(multiply(e, &w->col_factor, w->cols, 0, w->cols, exponent, g->period, 1));
    }
    return note_views(e, g, exponent);
}

static fovea_status equalise(equaliser *e, const fv_channel_group *g)
{
    int8_t *exponent;
    FV_TRY(FV_MEM_ARRAY(&exponent, g->period, FV_MEM_PLAN, "channel scales"));
    fovea_status status = find_exponents(exponent, e->p, g);
    FV_THEN(status, apply(e, g, exponent));
    fv_mem_free(exponent);
    return status;
}

/* Stores all scales. This is done at the end, because weights are compared without scales while
 * groups are found. */
static fovea_status put_scales(equaliser *e)
{
    for (uint32_t i = 0; i < e->n_found; i++)
        FV_TRY(fv_equalised_scales(e->found[i].of, &e->p->model->shared, e->found[i].factor,
                                   e->found[i].n));
    return FOVEA_OK;
}

fovea_status fv_plan_equalise(fovea_plan *p)
{
    equaliser e = {.p = p};
    if (p->options.compute != FOVEA_COMPUTE_INT8 || p->options.training)
        return FOVEA_OK;
    FV_TRY(FV_MEM_ARRAY(&p->equal, p->graph.values, FV_MEM_PLAN, "channel scales"));
    fovea_status status = find_groups(&e);
    for (uint32_t i = 0; i < e.groups; i++)
        FV_THEN(status, equalise(&e, &e.group[i]));
    FV_THEN(status, put_scales(&e));
    for (uint32_t i = 0; i < e.n_found; i++)
        fv_mem_free(e.found[i].factor);
    fv_mem_free(e.found);
    fv_mem_free(e.group);
    return status;
}
