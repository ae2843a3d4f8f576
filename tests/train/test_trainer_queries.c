/* test_trainer_queries.c: the loss of a Mask2Former head and its gradients, compared with those of
 * transformers in float64 (tests/data/make_mask2former_training.py). */
#include <jansson.h>

#include "tests/train/trainers.h"

/* Changes tensors in which zeros and ones would hide errors. */
static void stir(fovea_trainer *t)
{
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        const char *name = m->tensor->plain;
        uint32_t x = 5;
        if (!m->trained || (m->tensor->rank > 1 && !strstr(name, "sampling_offsets") &&
                            !strstr(name, "attention_weights")))
            continue;
        for (uint64_t k = 0; k < m->tensor->elements; k++) {
            x = x * 1664525u + 1013904223u;
            m->weight[k] += (float)(x >> 8) / (1 << 26) - 0.125f;
        }
    }
    fv_trainer_repack(t);
}

/* Returns the tensor's error: of its gradient's length and of its product with cosines, relative to
 * the length. Gradients that are nearly 0 are compared with that of the whole. */
static double error_of(const fv_master *m, const json_t *want, double whole)
{
    const double norm = json_real_value(json_array_get(want, 0));
    const double along = json_real_value(json_array_get(want, 1));
    double sum = 0;
    for (uint64_t i = 0; i < m->tensor->elements; i++)
        sum += (double)m->gradient[i] * cos((double)i);
    const double least = norm > 1e-4 * whole ? norm : 1e-4 * whole;
    const double of_norm = fabs(length(m->gradient, m->tensor->elements) - norm);
    return fmax(of_norm, fabs(sum - along)) / least;
}

static void gradients_equal_those_of_transformers(void **state)
{
    (void)state;
    json_t *golden = json_load_file(TEST_DATA "/mask2former_training.json", 0, NULL);
    assert_non_null(golden);
    const json_t *of = json_object_get(golden, "gradients");
    const fovea_trainer_options o = options_of_head(FOVEA_HEAD_MASK2FORMER);
    fovea_device *device = open_device(2);
    fovea_trainer *t = make(device, "dinov2-03", &o);
    stir(t);
    const double loss = loss_of(t), want = json_real_value(json_object_get(golden, "loss"));
    if (!(fabs(loss - want) <= 2e-5 * want))
        fail_msg("loss %.9g, transformers has %.9g", loss, want);
    double whole = 0, worst = 0;
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)of, name, value)
        whole = fmax(whole, json_real_value(json_array_get(value, 0)));
    assert_int_equal(json_object_size(of), t->info.trained);
    json_object_foreach((json_t *)(uintptr_t)of, name, value) {
        const fv_master *m = fv_masters_find(&t->masters, name);
        assert_non_null(m);
        assert_true(m->trained);
        const double error = error_of(m, value, whole);
        worst = fmax(worst, error);
        if (!(error <= 2e-5))
            print_error("%s: the gradient has an error of %.3g\n", name, error);
    }
    if (!(worst <= 2e-5))
        fail_msg("the worst gradient has an error of %.3g", worst);
    fovea_trainer_free(t);
    fovea_device_close(device);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_equal_those_of_transformers)};
    draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
