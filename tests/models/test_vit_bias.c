/* test_vit_bias.c: tests biases of relative positions as constants of a plan: their memory, and
 * that blocks share them. The golden vectors test their values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/emit.h"
#include "models/vit/vit.h"

#define HEADS 2
#define WIDTH 3 /* of the grid */
#define HEIGHT 2
#define TOKENS (1 + WIDTH * HEIGHT)
#define ROWS ((2 * WIDTH - 1) * (2 * HEIGHT - 1) + 3)

static float numbers[ROWS * HEADS];
static fv_tensor tensor;
static fv_vit_block blocks[2];

static fv_vit small_vit(void)
{
    for (uint32_t i = 0; i < ROWS * HEADS; i++)
        numbers[i] = (float)i;
    tensor = fv_tensor_of_floats(numbers, ROWS, HEADS);
    return (fv_vit){.heads = HEADS,
                    .depth = 2,
                    .bias = fv_weight_of(&tensor, ROWS, HEADS),
                    .bias_width = WIDTH,
                    .bias_height = HEIGHT,
                    .bias_rule = FV_POS_PROGRESSION,
                    .block = blocks};
}

/* Returns a builder; only one may exist at a time. */
static fv_builder builder(uint32_t width, uint32_t height)
{
    static fv_attention_name softmax[2];
    static fv_emit_options options;
    static fv_graph graph;
    graph = (fv_graph){.steps = 0};
    options = (fv_emit_options){.grid = {width, height, 16, 1}, .blocks = 2, .attention = softmax};
    return fv_builder_of(&graph, &options);
}

/* Every pair of tokens has the value of its offset's row. */
static void pairs_have_the_value_of_their_offset(void **state)
{
    (void)state;
    const fv_vit v = small_vit();
    fv_builder b = builder(WIDTH, HEIGHT);
    float all[HEADS * TOKENS][TOKENS];
    const fv_weight w = fv_vit_emit_bias(&v, &b, 0);
    assert_int_equal(b.status, FOVEA_OK);
    assert_int_equal(w.rows, HEADS * TOKENS);
    assert_int_equal(w.cols, TOKENS);
    fv_weight_read(&w, 0, w.rows, all[0]);
    for (int h = 0; h < HEADS; h++)
        for (int q = 0; q < TOKENS; q++)
            for (int k = 0; k < TOKENS; k++) {
                const int dy = (q - 1) / WIDTH - (k - 1) / WIDTH + HEIGHT - 1;
                const int dx = (q - 1) % WIDTH - (k - 1) % WIDTH + WIDTH - 1;
                const int row = q && k ? dy * (2 * WIDTH - 1) + dx : ROWS - (q ? 2 : k ? 3 : 1);
                assert_true(all[h * TOKENS + q][k] == numbers[row * HEADS + h]);
            }
    fv_graph_release(b.graph);
    assert_int_equal(fv_mem_tagged(FV_MEM_PLAN), 0);
}

static void a_shared_table_is_expanded_once(void **state)
{
    (void)state;
    fv_vit v = small_vit();
    const fv_vit teacher = v;
    fv_builder b = builder(WIDTH, HEIGHT);
    const fv_weight first = fv_vit_emit_bias(&v, &b, 0), second = fv_vit_emit_bias(&v, &b, 1);
    assert_ptr_equal(first.part[0].tensor, second.part[0].tensor);
    const fv_weight other = fv_vit_emit_bias(&teacher, &b, 0);
    assert_ptr_not_equal(first.part[0].tensor, other.part[0].tensor);
    blocks[1].bias = v.bias; /* a block with biases of its own */
    const fv_weight own = fv_vit_emit_bias(&v, &b, 1);
    assert_ptr_not_equal(first.part[0].tensor, own.part[0].tensor);
    assert_true(fv_vit_has_bias(&v, 0) && fv_vit_has_bias(&v, 1));
    v.bias = (fv_weight){.rows = 0};
    assert_true(!fv_vit_has_bias(&v, 0) && fv_vit_has_bias(&v, 1));
    blocks[1] = (fv_vit_block){.ls1 = {.rows = 0}};
    fv_graph_release(b.graph);
}

/* Refused before the allocation, with a remedy. */
static void too_much_memory_is_refused(void **state)
{
    (void)state;
    const fv_vit v = small_vit();
    fv_builder b = builder(300, 200);
    (void)fv_mem_fail_at(0);
    fv_vit_emit_bias(&v, &b, 0);
    assert_int_equal(b.status, FOVEA_ENOMEM);
    assert_int_equal(fv_mem_fail_at(0), 0);
    assert_non_null(strstr(fovea_error(), "26.8 GiB for 300 x 200 patches"));
    assert_non_null(strstr(fovea_error(), "use a smaller picture, or linear"));
    fv_graph_release(b.graph);

    /* Blocks with other attentions do not count: here planning fails only at the first allocation.
     */
    blocks[0].bias = blocks[1].bias = v.bias;
    for (int i = 0; i < 2; i++) {
        b = builder(120, 100);
        b.options->attention[1].kind = i ? FV_ATTENTION_LINEAR : FV_ATTENTION_SOFTMAX;
        (void)fv_mem_fail_at(1);
        fv_vit_emit_bias(&v, &b, 0);
        (void)fv_mem_fail_at(0);
        assert_int_equal(b.status, FOVEA_ENOMEM);
        assert_true(!strstr(fovea_error(), "120 x 100 patches") == (i == 1));
        fv_graph_release(b.graph);
    }
    blocks[0] = blocks[1] = (fv_vit_block){.ls1 = {.rows = 0}};
}

/* The same error for callers of plans. Attentions without biases run at any size. */
static void plans_say_so(void **state)
{
    (void)state;
    fovea_model *m;
    fovea_device *cpu;
    fovea_plan *plan;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = 1024;
    fovea_preprocess as_it_is = FOVEA_PREPROCESS_INIT;
    assert_int_equal(fovea_model_load(&m, "synthetic:beitv2-b16"), FOVEA_OK);
    assert_int_equal(fovea_device_open(&cpu, "cpu", NULL), FOVEA_OK);
    fovea_model_preprocess(m, &as_it_is);
    as_it_is.resize_width = as_it_is.resize_height = 1024;
    o.preprocess = &as_it_is;
    o.dry = 1;
    assert_int_equal(fovea_plan_create(&plan, m, cpu, &o), FOVEA_ENOMEM);
    assert_non_null(strstr(fovea_error(), "64 x 64 patches with softmax attention"));
    static const char *const names[] = {"linear:elu1", "foveated"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        o.attention = names[i];
        assert_int_equal(fovea_plan_create(&plan, m, cpu, &o), FOVEA_OK);
        fovea_plan_free(plan);
    }
    fovea_device_close(cpu);
    fovea_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_have_the_value_of_their_offset),
        cmocka_unit_test(a_shared_table_is_expanded_once),
        cmocka_unit_test(too_much_memory_is_refused),
        cmocka_unit_test(plans_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
