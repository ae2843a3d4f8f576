/* test_ops.c: tests that the description of every operation is consistent, and agrees with the
 * steps of graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#ifdef HAVE_TRAIN
#include <fovea/adapt.h>
#endif

#include "verify/verify_cases.h"

/* ---- each operation alone ---- */

static void check_dims(const fv_op *op, const char *name)
{
    if (!op->dim[FV_DIM_ROWS].name)
        fail_msg("%s: dim[0] has no name", name);
    for (uint32_t i = 0; i < FV_DIMS; i++)
        if (op->dim[i].kind && !op->dim[i].name)
            fail_msg("%s: dim[%u] has a kind and no name", name, i);
    const bool reduces = op->span == FV_SPAN_REDUCE;
    if (op->groups ? !op->dim[op->groups].name || op->dim[op->groups].kind : reduces)
        fail_msg("%s: no dim[] counts its partial states, or one that tokens do", name);
    if (reduces != (op->merge != FV_OP_NONE))
        fail_msg("%s: reductions have an operation that merges, others have none", name);
    if (reduces && !fv_op_table[op->merge]->groups)
        fail_msg("%s: %s does not merge", name, fv_op_names[op->merge]);
}

static void check_operands(const fv_op *op, const char *name)
{
    const uint8_t written = fv_op_out(op);
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_op_operand *x = &op->operand[o];
        if (x->width && !op->dim[x->width].name)
            fail_msg("%s: the columns of %s are a dim[] without a name", name, x->name);
        if (x->columns && (x->width || x->heads))
            fail_msg("%s: the columns of %s are said twice", name, x->name);
        if (x->state_of && fv_op_table[x->state_of]->span != FV_SPAN_REDUCE)
            fail_msg("%s: %s is no state of a reduction", name, x->name);
    }
    const fv_op_operand *out = &op->operand[written];
    if (!out->name || out->stored || !(out->width || out->heads || out->columns))
        fail_msg("%s: how wide is what it writes?", name);
    if (op->state >= written && op->state)
        fail_msg("%s: its state is no operand beside its output", name);
}

static void all_is_said(void **state)
{
    (void)state;
    for (uint32_t i = FV_OP_NONE + 1; i < FV_OP_COUNT; i++) {
        const fv_op *op = fv_op_table[i];
#ifndef HAVE_TRAIN
        if (!op)
            continue;
#endif
        assert_non_null(op);
        if (!op->flops == !op->element_flops)
            fail_msg("%s: FLOPs are a number or a function, and one of these", fv_op_names[i]);
        check_dims(op, fv_op_names[i]);
        check_operands(op, fv_op_names[i]);
    }
}

/* ---- in the steps of graphs ---- */

static void check_step(const fv_graph *g, const fv_step *s)
{
    const fv_problem *p = &s->prob;
    const fv_op *op = fv_op_table[p->op];
    const char *name = fv_op_names[p->op];
    assert_int_equal(s->out, fv_op_out(op));
    for (uint32_t i = 0; i < FV_DIMS; i++)
        if (p->dim[i] && !op->dim[i].name)
            fail_msg("%s (%s): dim[%u] is %u and has no name", name, s->label, i, p->dim[i]);
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        const fv_op_operand *x = &op->operand[o];
        const bool weight = fv_weight_present(&u->weight);
        if ((weight || u->view.id >= 0) && !x->name)
            fail_msg("%s (%s): operand %u has no name", name, s->label, o);
        if (weight && !x->stored)
            fail_msg("%s (%s): %s is a weight", name, s->label, x->name);
        const uint32_t wide = fv_problem_columns(p, o),
                       all = weight            ? u->weight.cols
                             : u->view.id >= 0 ? g->value[u->view.id].cols - u->view.col
                                               : UINT32_MAX;
        if (wide != UINT32_MAX && wide > all)
            fail_msg("%s (%s): %s has %u columns of %u", name, s->label, x->name, wide, all);
        if (x->heads && p->heads == 0)
            fail_msg("%s (%s): %s has heads, the step none", name, s->label, x->name);
    }
    assert_true(fv_problem_flops(p) > 0);
    assert_true(fv_problem_terms(p) >= 1);
}

/* Every operation has cases, except those whose operands must be consistent with each other. */
static void steps_agree(void **state)
{
    uint32_t cases[FV_OP_COUNT] = {0};
    fv_cases *c;
    (void)state;
    assert_int_equal(fv_cases_open(&c, FV_F32, &(fv_limits){.threads = 2}), FOVEA_OK);
    for (uint32_t i = 0; i < c->graph.steps; i++) {
        check_step(&c->graph, &c->graph.step[i]);
        cases[c->graph.step[i].prob.op]++;
    }
    fv_cases_close(c);
    for (uint32_t i = FV_OP_NONE + 1; i < FV_OP_COUNT; i++)
        if (fv_op_table[i] && !cases[i] != fv_op_table[i]->joint)
            fail_msg("%s has %u cases", fv_op_names[i], cases[i]);
}

int main(void)
{
#ifdef HAVE_TRAIN
    assert_int_equal(fovea_training_register(), FOVEA_OK);
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_is_said),
                                       cmocka_unit_test(steps_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
