/* test_trainer_files.c: tests saved states of a trainer, including damaged files, and the models
 * that it writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/temp_folder.h"
#include "tests/train/trainers.h"

static void states_go_on_with_the_same_bits(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, "sla-pola");
    o.full_module = 1;
    const char *note;
    o.ema = 0.99f;
    o.schedule = FOVEA_LR_COSINE;
    o.steps = 6;
    fovea_trainer *a = make(device, "vit-01", &o), *b = make(device, "vit-01", &o);
    run_step(a);
    run_step(a);
    assert_int_equal(fovea_trainer_write_state(a, in_folder("state"), "a \"note\""), FOVEA_OK);
    assert_int_equal(fovea_trainer_read_state(b, in_folder("state"), &note), FOVEA_OK);
    assert_string_equal(note, "a \"note\"");
    assert_same(a, b);
    for (int i = 0; i < 2; i++)
        assert_true(run_step(a).loss == run_step(b).loss);
    assert_same(a, b);
    fovea_trainer_free(a);
    fovea_trainer_free(b);
    fovea_device_close(device);
}

static void damaged_states_are_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    const fovea_trainer_options o = options_of(FOVEA_STAGE_ATTENTION, NULL);
    fovea_trainer *t = make(device, "vit-01", &o), *untouched = make(device, "vit-01", &o);
    run_step(t);
    assert_int_equal(fovea_trainer_write_state(t, in_folder("state"), NULL), FOVEA_OK);
    size_t size;
    uint8_t *data = read_file(in_folder("state"), &size);
    for (size_t cut = 0; cut < size; cut += cut < 2000 ? 97 : size / 7) {
        write_file(in_folder("cut"), data, cut);
        const fovea_status status = fovea_trainer_read_state(untouched, in_folder("cut"), NULL);
        assert_int_equal(status, FOVEA_EFORMAT);
    }
    for (size_t at = 0; at < size; at += at < 2000 ? 31 : size / 11) {
        data[at] ^= 0x10;
        write_file(in_folder("cut"), data, size);
        data[at] ^= 0x10;
        const fovea_status status = fovea_trainer_read_state(untouched, in_folder("cut"), NULL);
        assert_int_equal(status, FOVEA_EFORMAT);
    }
    free(data);
    assert_int_equal(fovea_trainer_read_state(untouched, in_folder("none"), NULL), FOVEA_EIO);
    assert_int_equal(untouched->step, 0);
    run_step(untouched);
    assert_same(t, untouched);
    fovea_trainer_free(t);
    fovea_trainer_free(untouched);
    fovea_device_close(device);
}

static void other_options_are_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, "mala");
    fovea_trainer *t = make(device, "vit-01", &o);
    run_step(t);
    assert_int_equal(fovea_trainer_write_state(t, in_folder("state"), NULL), FOVEA_OK);
    fovea_trainer_free(t);
    static const char *const named[] = {"lr",    "beta2",        "attention",
                                        "width", "weight_decay", "model"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        fovea_trainer_options other = o;
        other.lr *= i == 0 ? 2 : 1;
        other.beta2 = i == 1 ? 0.99f : o.beta2;
        other.attention = i == 2 ? "linear:elu1" : o.attention;
        other.frame.width = i == 3 ? SIDE - 8 : SIDE;
        other.weight_decay = i == 4 ? 0 : o.weight_decay;
        other.trainable = i == 5 ? FOVEA_TRAIN_QKV : o.trainable;
        t = make(device, "vit-01", &other);
        assert_int_equal(fovea_trainer_read_state(t, in_folder("state"), NULL), FOVEA_EINVAL);
        if (!strstr(fovea_error(), named[i]))
            fail_msg("%s is not named: %s", named[i], fovea_error());
        fovea_trainer_free(t);
    }
    fovea_device_close(device);
}

static void states_of_another_loss_are_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_trainer *t[2];
    for (int i = 0; i < 2; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
        o.loss = (fovea_loss)i;
        t[i] = make(device, "vit-01", &o);
    }
    for (int i = 0; i < 3; i++) {
        fovea_trainer *from = t[i % 2], *to = t[1 - i % 2];
        run_step(from);
        assert_int_equal(fovea_trainer_write_state(from, in_folder("state"), NULL), FOVEA_OK);
        if (i == 2)
            forget(in_folder("state"), "\"loss\":0,");
        assert_int_equal(fovea_trainer_read_state(to, in_folder("state"), NULL), FOVEA_EINVAL);
        assert_non_null(strstr(fovea_error(), "another loss"));
        assert_int_equal(fovea_trainer_read_state(from, in_folder("state"), NULL), FOVEA_OK);
    }
    fovea_trainer_free(t[0]);
    fovea_trainer_free(t[1]);
    fovea_device_close(device);
}

/* A state resumes only in the form in which it was made. */
static void states_of_another_form_are_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, "nala");
    fovea_trainer *usual = make(device, "vit-01", &o);
    o.linear.nala_lambda = 2.5f;
    fovea_trainer *a = make(device, "vit-01", &o), *b = make(device, "vit-01", &o);
    run_step(a);
    assert_int_equal(fovea_trainer_write_state(a, in_folder("state"), NULL), FOVEA_OK);
    assert_int_equal(fovea_trainer_read_state(usual, in_folder("state"), NULL), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "nala_lambda"));
    assert_int_equal(fovea_trainer_read_state(b, in_folder("state"), NULL), FOVEA_OK);
    assert_true(run_step(a).loss == run_step(b).loss);
    fovea_trainer_free(a);
    fovea_trainer_free(b);
    fovea_trainer_free(usual);
    fovea_device_close(device);
}

/* A saved model equals the trained one: as its own teacher it has a loss of 0. */
static void saved_models_are_what_was_trained(void **state)
{
    (void)state;
    static const char *const attentions[] = {"mala", "sla-pola", "foveated:2", "nala", "hedgehog"};
    fovea_device *device = open_device(2);
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, attentions[i]);
        o.full_module = i % 2;
        if (o.full_module)
            o.linear = (fovea_linear_attention_params){
                .nala_lambda = 2.5f, .pola_alpha = 1.5f, .q_scale = 2};
        fovea_trainer *t = make(device, "dinov2-03", &o), *again;
        run_step(t);
        run_step(t);
        const double loss = loss_of(t);
        assert_int_equal(fovea_trainer_save(t, folder, FOVEA_DTYPE_F32, 0), FOVEA_OK);
        o.attention = NULL;
        o.full_module = 0;
        o.linear = (fovea_linear_attention_params){0};
        if (fovea_trainer_create(&again, folder, NULL, device, &o) != FOVEA_OK)
            fail_msg("%s", fovea_error());
        assert_string_equal(again->attention, attentions[i]);
        assert_true(loss_of(again) == loss);
        fovea_trainer_free(again);
        fovea_trainer_free(t);
        clear_folder();
    }
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_go_on_with_the_same_bits),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(other_options_are_refused),
        cmocka_unit_test(states_of_another_loss_are_refused),
        cmocka_unit_test(states_of_another_form_are_refused),
        cmocka_unit_test(saved_models_are_what_was_trained),
    };
    draw();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
