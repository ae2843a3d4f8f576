/* info.c: implements fovea_plan_query, fovea_plan_step and fovea_plan_output. */
#include "base/abi.h"
#include "base/mem.h"
#include "ops/contracts/product.h"
#include "ops/mech_traits.h"
#include "plan/op_plan.h"
#include "plan/plan.h"

fovea_status fv_plan_describe_steps(fovea_plan *p)
{
    FV_TRY(FV_MEM_ARRAY(&p->problem_text, p->graph.steps, FV_MEM_PLAN, "the plan"));
    for (uint32_t i = 0; i < p->graph.steps; i++) {
        char text[160];
        if (p->graph.step[i].dead)
            continue;
        fv_problem_format(text, sizeof text, &p->graph.step[i].prob);
        FV_TRY(fv_mem_text(&p->problem_text[i], text, FV_MEM_PLAN));
    }
    return FOVEA_OK;
}

fovea_status fovea_plan_query(const fovea_plan *plan, fovea_plan_info *out)
{
    FV_TRY(fv_require(plan, "the plan"));
    return FV_ABI_WRITE(out, plan->info, FOVEA_PLAN_INFO_INIT);
}

/* Describes a problem: its op, sizes, types and activation. */
static void describe_problem(fovea_step_info *out, const fv_problem *p)
{
    const fv_op *op = fv_op_table[p->op];
    const fv_activation *act = fv_activation_of(p->epi);
    const bool product = op->flops == fv_flops_product;
    out->op = fv_op_names[p->op];
    out->mechanism = fv_mech_table[p->mech]->name;
    out->activation = p->epi & FV_EPI_SWIGLU ? "swiglu" : act ? act->name : NULL;
    out->dtype = fv_dtype_of(p->in);
    out->weight_dtype = fv_dtype_of(p->weight);
    out->products = fv_problem_products(p);
    out->m = p->dim[FV_DIM_ROWS];
    out->n = p->dim[FV_ROW_C];
    out->k = product ? p->dim[FV_GEMM_K] : 0;
    if (p->heads) {
        out->heads = p->heads;
        out->head_dim = p->dim[FV_ATTN_D];
        out->value_dim = p->dim[FV_ATTN_DV];
        out->n = out->heads * out->value_dim;
        out->k = p->dim[FV_ATTN_KEYS];
    }
}

/* Returns the bytes that a step reads and writes. Every operand is counted once, as if nothing
 * stayed in caches. */
static double step_bytes(const fovea_plan *p, const fv_step *s)
{
    const double rows = s->prob.dim[FV_DIM_ROWS];
    double bytes = 0;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        if (fv_weight_present(&u->weight)) {
            const size_t elem = fv_step_narrow(s, o) ? fv_type_size(s->prob.weight) : sizeof(float);
            bytes += (double)u->weight.rows * u->weight.cols * (double)elem;
        } else if (u->view.id >= 0) {
            const fv_value *v = &p->graph.value[u->view.id];
            const uint32_t cols = v->cols - u->view.col, most = fv_problem_columns(&s->prob, o);
            const bool state = u->kind == FV_KIND_STATE || u->kind == FV_KIND_PARTIAL;
            const bool picked = fv_op_table[s->prob.op]->operand[o].picked;
            const bool whole = u->kind == FV_KIND_WHOLE && !picked;
            bytes += (state || whole ? v->rows : rows) * (state || cols < most ? cols : most) *
                     (double)fv_type_size(v->type);
        }
    }
    return bytes;
}

int fovea_plan_step(const fovea_plan *plan, size_t index, fovea_step_info *out)
{
    for (uint32_t i = 0; i < plan->graph.steps; i++) {
        const fv_step *s = &plan->graph.step[i];
        if (s->dead || index-- > 0)
            continue;
        const fv_step_plan *sp = &plan->chosen.step[i];
        const fv_plan_sweep *w = fv_sweep_of_step(plan, s);
        fovea_step_info info = {
            .label = s->label,
            .problem = plan->problem_text[i],
            .kernel = sp->kernel->name,
            .source = sp->source,
            .sweep = plan->cut.step[i].sweep,
            .schedule = w->streamed ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE,
            .chunk = sp->tiles.rows,
            .flops = plan->info.count * sp->flops,
            .seconds = plan->info.count * sp->seconds,
            .bytes = plan->info.count * step_bytes(plan, s),
            .sweep_source = w->source,
            .reference = fv_kernel_is_reference(sp->kernel),
        };
        describe_problem(&info, &s->prob);
        return FV_ABI_WRITE(out, info, FOVEA_STEP_INFO_INIT) == FOVEA_OK;
    }
    return 0;
}

int fovea_plan_output(const fovea_plan *plan, size_t index, fovea_output_info *out)
{
    if (index >= plan->graph.n_wanted)
        return 0;
    const fv_wanted *w = &plan->graph.wanted[index];
    const fv_value *v = &plan->graph.value[w->value];
    fovea_output_info info = {.name = w->name,
                              .rows = v->rows,
                              .columns = v->cols,
                              .prefix = w->grid.prefix,
                              .grid_width = w->grid.width,
                              .grid_height = w->grid.height,
                              .stride = w->grid.stride,
                              .kind = w->kind,
                              .layout = w->layout};
    return FV_ABI_WRITE(out, info, FOVEA_OUTPUT_INFO_INIT) == FOVEA_OK;
}
