/* dry_launch.c: see dry_launch.h. */
#include "tests/devices/dry_launch.h"

void dry_launch(const fovea_plan *p, const fv_step *s, fv_launch *l)
{
    const fv_step_plan *sp = fv_plan_of_step(p, s);
    *l = (fv_launch){
        .kernel = sp->kernel, .rows = s->prob.dim[FV_DIM_ROWS], .cols = sp->tiles.all_cols};
    fv_step_args(&l->args, s);
    l->args.knobs = sp->knobs;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        fv_operand *op = &l->operand[o];
        op->kind = u->kind;
        if (fv_weight_present(&u->weight)) {
            op->type = (uint8_t)(fv_step_narrow(s, o) ? s->prob.weight : FV_F32);
            op->ref.space = FV_SPACE_BUFFER;
            l->args.ld[o] = u->weight.rows > 1 ? u->weight.cols : 0;
        } else if (u->view.id >= 0) {
            const fv_value *v = &p->graph.value[u->view.id];
            op->type = v->type;
            op->ref.space = FV_SPACE_BUFFER;
            op->ref.offset = u->view.col * fv_type_size(v->type);
            op->stride = fv_value_stride(v);
            l->args.ld[o] = v->ld;
        }
    }
}

const char *dry_mechanism(uint16_t mech)
{
    static const char *const names[] = {
        "-",
#define FV_MECH(NAME, name, ...) #name,
#include "mech/mech.inc"
#undef FV_MECH
    };
    return names[mech];
}
