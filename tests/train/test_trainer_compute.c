/* test_trainer_compute.c: training with products of bfloat16 compared with float32; cached features
 * of the teacher.
 */
#include "tests/plan/heap_calls.h"
#include "tests/temp_folder.h"
#include "tests/train/trainers.h"

static fovea_trainer_options rounded(fovea_stage stage, const char *attention)
{
    fovea_trainer_options o = options_of(stage, attention);
    o.compute = FOVEA_COMPUTE_BF16;
    return o;
}

/* ---- gradients ---- */

/* Counts the products of a trainer's plan that multiply bfloat16, and the others. */
static void count_products(const fovea_trainer *t, uint32_t count[2])
{
    count[0] = count[1] = 0;
    for (uint32_t i = 0; i < t->plan->graph.steps; i++) {
        const fv_step *s = &t->plan->graph.step[i];
        if (s->dead || (s->prob.op != FV_OP_GEMM && s->prob.op != FV_OP_GEMM_GRAD_W))
            continue;
        const bool rows = s->prob.in == FV_BF16;
        const bool other = s->prob.op == FV_OP_GEMM
                               ? s->prob.weight == FV_BF16
                               : t->plan->graph.value[s->use[1].view.id].type == FV_BF16;
        assert_true(rows == other || s->use[0].view.id < 0);
        count[rows]++;
    }
}

/* Counts the steps that use a reference kernel, because no other kernel supports their types. */
static uint32_t count_slow(const fovea_trainer *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->plan->graph.steps; i++) {
        const fv_step *s = &t->plan->graph.step[i];
        n += !s->dead && strstr(t->plan->chosen.step[i].kernel->name, "_ref");
    }
    return n;
}

/* Rounding operands to 8 bits of mantissa changes a gradient slightly. */
static void compare(fovea_device *device, const char *model, fovea_trainer_options o)
{
    uint32_t count[2];
    uint64_t floats;
    o.compute = FOVEA_COMPUTE_F32;
    fovea_trainer *exact = make(device, model, &o);
    o.compute = FOVEA_COMPUTE_BF16;
    fovea_trainer *t = make(device, model, &o);
    count_products(exact, count);
    assert_true(count[0] > 0 && count[1] == 0);
    const uint32_t all = count[0];
    count_products(t, count);
    assert_true(count[1] > count[0] && count[0] + count[1] == all);
    assert_int_equal(count_slow(t), count_slow(exact));
    add_picture(exact, 0);
    add_picture(t, 0);
    const double loss = exact->sum[0];
    assert_true(t->sum[0] != loss && fabs(t->sum[0] - loss) <= 0.02 * loss);
    const float *a = fv_masters_gradients(&exact->masters, &floats);
    const float *b = fv_masters_gradients(&t->masters, &floats);
    float *off = malloc(floats * sizeof *off);
    assert_non_null(off);
    for (uint64_t i = 0; i < floats; i++)
        off[i] = a[i] - b[i];
    const double part = length(off, floats) / length(a, floats);
    if (part > 0.05 || part < 1e-4)
        fail_msg("%s, stage %d, %s: gradients are off by %g", model, (int)o.stage, t->attention,
                 part);
    free(off);
    fovea_trainer_free(exact);
    fovea_trainer_free(t);
}

static void gradients_are_those_of_float32(void **state)
{
    (void)state;
    static const char *const models[] = {"vit-01",         "dinov2-03", "dinov2-with-registers-03",
                                         "clip-vision-02", "siglip-02", "dinov3-03"};
    static const char *const attentions[] = {"mala", "sla-pola", "foveated:1", "linear:elu1"};
    static const char *const whole[] = {"pola", "nala", "focused"};
    fovea_device *device = open_device(2);
    for (int stage = 1; stage <= 3; stage++) {
        for (size_t i = 0; i < sizeof models / sizeof *models; i++)
            compare(device, models[i], options_of((fovea_stage)stage, "linear:elu1"));
        for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
            compare(device, "dinov2-03", wide_options_of((fovea_stage)stage, attentions[i]));
        for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
            fovea_trainer_options o = options_of((fovea_stage)stage, whole[i]);
            o.full_module = 1;
            compare(device, "vit-01", o);
        }
    }
    fovea_device_close(device);
}

static void losses_fall_as_in_float32(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    for (int stage = 1; stage <= 3; stage++) {
        double loss[2], first = 0;
        for (int i = 0; i < 2; i++) {
            fovea_trainer_options o = options_of((fovea_stage)stage, NULL);
            o.compute = i ? FOVEA_COMPUTE_BF16 : FOVEA_COMPUTE_F32;
            o.lr = 3e-4f;
            fovea_trainer *t = make(device, "dinov2-03", &o);
            first = run_step(t).loss;
            for (int k = 0; k < 14; k++)
                run_step(t);
            loss[i] = run_step(t).loss;
            fovea_trainer_free(t);
        }
        if (!(fabs(loss[1] - loss[0]) <= 0.01 * loss[0] && loss[1] < 0.9 * first))
            fail_msg("stage %d: the loss falls from %g to %g, in float32 to %g", stage, first,
                     loss[1], loss[0]);
    }
    fovea_device_close(device);
}

/* ---- reproducibility ---- */

static void threads_do_not_show(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++) {
        fovea_device *one = open_device(1), *three = open_device(3);
        const fovea_trainer_options o = rounded((fovea_stage)stage, "mala");
        fovea_trainer *a = make(one, "dinov2-03", &o), *b = make(three, "dinov2-03", &o);
        for (int k = 0; k < 3; k++)
            assert_true(run_step(a).loss == run_step(b).loss);
        assert_same(a, b);
        fovea_trainer_free(a);
        fovea_trainer_free(b);
        fovea_device_close(one);
        fovea_device_close(three);
    }
}

static void states_go_on_with_the_same_bits(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_trainer_options o = rounded(FOVEA_STAGE_FEATURES, "sla-pola");
    o.ema = 0.99f;
    fovea_trainer *a = make(device, "vit-01", &o), *b = make(device, "vit-01", &o);
    run_step(a);
    run_step(a);
    assert_int_equal(fovea_trainer_write_state(a, in_folder("state"), NULL), FOVEA_OK);
    assert_int_equal(fovea_trainer_read_state(b, in_folder("state"), NULL), FOVEA_OK);
    for (int i = 0; i < 2; i++)
        assert_true(run_step(a).loss == run_step(b).loss);
    assert_same(a, b);
    fovea_trainer_free(a);
    fovea_trainer_free(b);
    fovea_device_close(device);
}

/* The message names the type. A state that does not specify a type is one of float32. */
static void states_of_another_compute_are_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_trainer *t[2];
    for (int i = 0; i < 2; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
        o.compute = i ? FOVEA_COMPUTE_BF16 : FOVEA_COMPUTE_F32;
        t[i] = make(device, "vit-01", &o);
    }
    for (int i = 0; i < 3; i++) {
        fovea_trainer *from = t[i % 2], *to = t[1 - i % 2];
        run_step(from);
        assert_int_equal(fovea_trainer_write_state(from, in_folder("state"), NULL), FOVEA_OK);
        if (i == 2)
            forget(in_folder("state"), "\"compute\":\"f32\",");
        assert_int_equal(fovea_trainer_read_state(to, in_folder("state"), NULL), FOVEA_EINVAL);
        if (!strstr(fovea_error(), i % 2 ? "another compute: \"bf16\", but it is \"f32\""
                                         : "another compute: \"f32\", but it is \"bf16\""))
            fail_msg("%s", fovea_error());
        assert_int_equal(fovea_trainer_read_state(from, in_folder("state"), NULL), FOVEA_OK);
    }
    fovea_trainer_free(t[0]);
    fovea_trainer_free(t[1]);
    fovea_device_close(device);
}

/* After an update, packed weights equal those that a new trainer packs from the saved weights. */
static void packed_weights_follow(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_trainer_options o = rounded(FOVEA_STAGE_TASK, "mala");
    fovea_trainer *t = make(device, "dinov2-03", &o), *again;
    run_step(t);
    run_step(t);
    const double loss = loss_of(t);
    assert_int_equal(fovea_trainer_save(t, folder, FOVEA_DTYPE_F32, 0), FOVEA_OK);
    if (fovea_trainer_create(&again, folder, NULL, device, &o) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    assert_true(loss_of(again) == loss);
    fovea_trainer_free(again);
    fovea_trainer_free(t);
    clear_folder();
    fovea_device_close(device);
}

static void compute_is_as_asked(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_device_info its = FOVEA_DEVICE_INFO_INIT;
    fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT;
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
    fovea_trainer *t;
    fovea_device_describe(device, &its);
    o.compute = FOVEA_COMPUTE_AUTO;
    t = make(device, "vit-01", &o);
    fovea_trainer_query(t, &info);
    assert_int_equal(info.compute, its.bf16 ? FOVEA_COMPUTE_BF16 : FOVEA_COMPUTE_F32);
    fovea_trainer_free(t);
    o.compute = FOVEA_COMPUTE_INT8;
    assert_int_equal(fovea_trainer_create(&t, model_path("vit-01"), NULL, device, &o),
                     FOVEA_ENOTSUP);
    o.compute = (fovea_compute)4;
    assert_int_equal(fovea_trainer_create(&t, model_path("vit-01"), NULL, device, &o),
                     FOVEA_EINVAL);
    fovea_device_close(device);
}

/* ---- kept features ---- */

/* Cached features of a picture give the same results as computed ones, in any order. */
static void kept_features_do_not_show(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    for (int i = 0; i < 4; i++) {
        fovea_trainer_options o =
            i % 2 ? rounded(FOVEA_STAGE_FEATURES, NULL) : options_of(FOVEA_STAGE_FEATURES, NULL);
        fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT, with = FOVEA_TRAINER_INFO_INIT;
        fovea_trainer *a = make(device, "vit-01", &o);
        fovea_trainer_query(a, &info);
        const uint64_t each = (uint64_t)info.tokens * a->model->info.width * sizeof(float) + 64;
        o.teacher_memory = i < 2 ? 3 * each : each; /* memory for both pictures, or for one */
        fovea_trainer *b = make(device, "vit-01", &o);
        for (int k = 0; k < 3; k++)
            assert_true(run_step(a).loss == run_step(b).loss);
        assert_same(a, b);
        fovea_trainer_query(a, &info);
        fovea_trainer_query(b, &with);
        assert_int_equal(info.teacher, 0);
        assert_int_equal(info.teacher_cache_hits, 0);
        assert_int_equal(with.teacher_cache_hits, i < 2 ? 4 : 2);
        assert_true(with.teacher > 0 && with.teacher <= o.teacher_memory);
        assert_true(with.total >= info.total + with.teacher);
        fovea_trainer_free(a);
        fovea_trainer_free(b);
    }
    fovea_device_close(device);
}

static void too_little_for_a_picture_is_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
    fovea_trainer *t;
    o.teacher_memory = 100;
    assert_int_equal(fovea_trainer_create(&t, model_path("vit-01"), NULL, device, &o),
                     FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "teacher_memory is 100 bytes"));
    fovea_device_close(device);
}

/* ---- memory ---- */

static fovea_trainer_options hungry(fovea_stage stage)
{
    fovea_trainer_options o = rounded(stage, NULL);
    o.teacher_memory = 1 << 20;
    return o;
}

static void memory_is_as_promised(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    for (int stage = 1; stage <= 3; stage++) {
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT;
        fovea_trainer_options o = hungry((fovea_stage)stage);
        fovea_memory_query(&before);
        fovea_trainer *t = make(device, "dinov2-03", &o);
        fovea_trainer_query(t, &info);
        run_step(t);
        fovea_memory_query(&after);
        assert_int_equal(after.current - before.current, info.total);
        const uint64_t made = after.allocations, calls = heap_calls();
        run_step(t);
        fovea_memory_query(&after);
        assert_int_equal(after.allocations, made);
        if (HEAP_COUNTED)
            assert_int_equal(heap_calls(), calls);
        assert_true(info.weights + info.gradients + info.moments + info.packed + info.activations +
                        info.teacher <=
                    info.total);
        fovea_trainer_free(t);
        o.memory_limit = 2 * info.total;
        t = make(device, "dinov2-03", &o);
        fovea_trainer_query(t, &info);
        assert_true(info.total <= o.memory_limit && (stage == 1 || info.blocks_not_recomputed > 0));
        fovea_trainer_free(t);
        fovea_memory_query(&after);
        assert_int_equal(after.current, before.current);
    }
    fovea_device_close(device);
}

static void no_allocation_is_missed(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    const fovea_trainer_options o = hungry(FOVEA_STAGE_FEATURES);
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    fovea_status status = FOVEA_ENOMEM;
    fovea_memory_query(&before);
    for (uint64_t n = 1; status != FOVEA_OK; n += 11) {
        fovea_trainer *t = NULL;
        fv_mem_fail_at(n);
        status = fovea_trainer_create(&t, model_path("vit-01"), NULL, device, &o);
        fv_mem_fail_at(0);
        if (status != FOVEA_OK)
            assert_int_equal(status, FOVEA_ENOMEM);
        fovea_trainer_free(t);
        fovea_memory_query(&after);
        assert_int_equal(after.current, before.current);
    }
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_float32),
        cmocka_unit_test(losses_fall_as_in_float32),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(states_go_on_with_the_same_bits),
        cmocka_unit_test(states_of_another_compute_are_refused),
        cmocka_unit_test(packed_weights_follow),
        cmocka_unit_test(compute_is_as_asked),
        cmocka_unit_test(kept_features_do_not_show),
        cmocka_unit_test(too_little_for_a_picture_is_refused),
        cmocka_unit_test(memory_is_as_promised),
        cmocka_unit_test(no_allocation_is_missed),
    };
    draw();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
