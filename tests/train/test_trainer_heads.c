/* test_trainer_heads.c: tests heads that are added to a model: saving, loading, further training,
 * refusals, and depths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/temp_folder.h"
#include "tests/train/trainers.h"

/* A saved model is loaded with its head, gives the same results, and can be trained further. With
 * other classes only the last layer is new. */
static void decoders_are_saved(void **state)
{
    (void)state;
    static const char *const models[] = {"synthetic:mavit-t", "dinov2-03"};
    static const char *const kept[] = {"neck.lateral_convs.0.conv.weight",
                                       "dpt_head.neck.convs.0.weight"};
    static const char *const last[] = {"decode_head.conv_seg.weight", "dpt_head.classify.weight"};
    fovea_device *device = open_device(2);
    for (int i = 0; i < 2; i++) {
        fovea_trainer_options o = options_of_head(i ? FOVEA_HEAD_DPT_LITE : FOVEA_HEAD_FPN);
        fovea_trainer *t = make(device, models[i], &o), *again;
        run_step(t);
        const double loss = loss_of(t);
        assert_int_equal(fovea_trainer_save(t, folder, FOVEA_DTYPE_F32, 0), FOVEA_OK);
        assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_OK);
        assert_true(loss_of(again) == loss);
        assert_false(again->model->new_head);
        fovea_trainer_free(again);
        o.classes++;
        assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_OK);
        const fv_master *a = fv_masters_find(&t->masters, kept[i]),
                        *b = fv_masters_find(&again->masters, kept[i]);
        assert_memory_equal(a->weight, b->weight, a->tensor->elements * sizeof *a->weight);
        b = fv_masters_find(&again->masters, last[i]);
        assert_int_equal(b->tensor->shape[0], o.classes);
        fovea_trainer_free(again);
        o.head = FOVEA_HEAD_LINEAR; /* the model has a head of another kind */
        assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_ENOTSUP);
        fovea_trainer_free(t);
        clear_folder();
    }
    fovea_device_close(device);
}

/* If depths are scaled by e^i, the mean distance m becomes m - i. The loss subtracts half of the
 * squared mean and keeps the other half, so its second difference is 1. */
static void depths_are_learned_up_to_a_factor(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_trainer_options o = options_of_head(FOVEA_HEAD_DPT_LITE);
    o.task = FOVEA_TASK_DEPTH;
    o.max_depth = 20;
    fovea_trainer *t = make(device, "dinov2-03", &o), *again;
    float kept[SIDE * SIDE];
    double loss[3];
    memcpy(kept, depths, sizeof kept);
    for (int k = 0; k < 3; k++) {
        loss[k] = loss_of(t);
        for (int i = 0; i < SIDE * SIDE; i++)
            depths[i] *= expf(1);
    }
    memcpy(depths, kept, sizeof kept);
    assert_true(fabs(loss[0] - 2 * loss[1] + loss[2] - 1) < 1e-5);
    for (int i = 0; i < 20; i++)
        run_step(t);
    assert_true(loss_of(t) < 0.8 * loss[0]);
    assert_int_equal(fovea_trainer_save(t, folder, FOVEA_DTYPE_F32, 0), FOVEA_OK);
    assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_OK);
    assert_true(loss_of(again) == loss_of(t));
    assert_true(again->model->info.metric);
    fovea_trainer_free(again);
    o.task = FOVEA_TASK_SEGMENTATION; /* the model has a head for depths */
    assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "for depth"));
    fovea_trainer_free(t);
    clear_folder();
    fovea_device_close(device);
}

/* Trains two steps with an optional state between them, and returns the loss after them. */
static double loss_after(const char *model, const fovea_trainer_options *o, uint32_t threads,
                         bool resumes)
{
    fovea_device *device = open_device(threads);
    fovea_trainer *t = make(device, model, o);
    char path[512];
    snprintf(path, sizeof path, "%s/state", folder);
    run_step(t);
    if (resumes) {
        assert_int_equal(fovea_trainer_write_state(t, path, NULL), FOVEA_OK);
        fovea_trainer_free(t);
        t = make(device, model, o);
        assert_int_equal(fovea_trainer_read_state(t, path, NULL), FOVEA_OK);
        clear_folder();
    }
    run_step(t);
    const double loss = loss_of(t);
    fovea_trainer_free(t);
    fovea_device_close(device);
    return loss;
}

/* A head of queries is trained to the same bits with any number of threads, and from a saved state.
 * It is saved as a Mask2Former that gives the same loss, and its last layer is new with other
 * classes. */
static void queries_are_trained(void **state)
{
    (void)state;
    static const char kept[] = "model.transformer_module.queries_features.weight";
    static const char *const attentions[] = {"softmax", "foveated"};
    fovea_device *device = open_device(2);
    for (int i = 0; i < 2; i++) {
        fovea_trainer_options o = options_of_head(FOVEA_HEAD_MASK2FORMER);
        o.trainable = i ? FOVEA_TRAIN_HEAD : FOVEA_TRAIN_DEFAULT;
        o.attention = attentions[i];
        fovea_trainer *t = make(device, "dinov2-03", &o), *again;
        const double first = loss_of(t);
        assert_int_equal(t->info.trained, 214);
        run_step(t);
        run_step(t);
        const double loss = loss_of(t);
        assert_true(loss < first);
        assert_true(loss_after("dinov2-03", &o, 1, false) == loss);
        assert_true(loss_after("dinov2-03", &o, 3, true) == loss);
        assert_int_equal(fovea_trainer_save(t, folder, FOVEA_DTYPE_F32, 0), FOVEA_OK);
        o.attention = NULL; /* that of the saved model */
        assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_OK);
        again->step = t->step; /* with the same points */
        assert_string_equal(again->model->info.type, "mask2former");
        assert_string_equal(again->attention, attentions[i]);
        assert_true(loss_of(again) == loss);
        fovea_trainer_free(again);
        o.classes++;
        assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_OK);
        const fv_master *a = fv_masters_find(&t->masters, kept),
                        *b = fv_masters_find(&again->masters, kept);
        assert_memory_equal(a->weight, b->weight, a->tensor->elements * sizeof *a->weight);
        b = fv_masters_find(&again->masters, "class_predictor.weight");
        assert_int_equal(b->tensor->shape[0], o.classes + 1);
        fovea_trainer_free(again);
        o.classes--;
        o.head = FOVEA_HEAD_LINEAR; /* the model has a head of another kind */
        o.trainable = FOVEA_TRAIN_HEAD;
        assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_ENOTSUP);
        assert_non_null(strstr(fovea_error(), "already has a mask2former"));
        fovea_trainer_free(t);
        clear_folder();
    }
    fovea_trainer_options o = options_of_head(FOVEA_HEAD_MASK2FORMER);
    fovea_trainer *t = NULL;
    o.trainable = FOVEA_TRAIN_ALL;
    assert_int_equal(fovea_trainer_create(&t, model_path("dinov2-03"), NULL, device, &o),
                     FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "only the head"));
    fovea_device_close(device);
}

static void heads_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *message;
        fovea_head head;
        fovea_task task;
        fovea_status status;
    } wrong[] = {
        {"vit-01", "reads the stages", FOVEA_HEAD_FPN, FOVEA_TASK_SEGMENTATION, FOVEA_ENOTSUP},
        {"synthetic:mavit-t", "plain ViT", FOVEA_HEAD_DPT_LITE, FOVEA_TASK_SEGMENTATION,
         FOVEA_ENOTSUP},
        {"vit-01", "segmentation", FOVEA_HEAD_DPT_LITE, FOVEA_TASK_CLASSES, FOVEA_EINVAL},
        {"vit-01", "DPT-lite", FOVEA_HEAD_LINEAR, FOVEA_TASK_DEPTH, FOVEA_EINVAL},
        {"synthetic:mavit-t-upernet", "cannot be trained", FOVEA_HEAD_FPN, FOVEA_TASK_SEGMENTATION,
         FOVEA_ENOTSUP},
        {"synthetic:mavit-t-retinanet", "only to a backbone", FOVEA_HEAD_FPN,
         FOVEA_TASK_SEGMENTATION, FOVEA_ENOTSUP},
        {"mask2former-mavit-01", "only to a backbone", FOVEA_HEAD_FPN, FOVEA_TASK_SEGMENTATION,
         FOVEA_ENOTSUP},
        {"mask2former-swin-01", "already has a mask2former", FOVEA_HEAD_LINEAR,
         FOVEA_TASK_SEGMENTATION, FOVEA_ENOTSUP},
        {"dinov2-with-registers-03", "at least 3 blocks", FOVEA_HEAD_MASK2FORMER,
         FOVEA_TASK_SEGMENTATION, FOVEA_ENOTSUP},
        {"synthetic:mavit-t", "of type dinov2", FOVEA_HEAD_MASK2FORMER, FOVEA_TASK_SEGMENTATION,
         FOVEA_ENOTSUP},
        {"dinov3-03", "of type dinov2", FOVEA_HEAD_MASK2FORMER, FOVEA_TASK_SEGMENTATION,
         FOVEA_ENOTSUP},
        {"mask2former-swin-01", "is a pyramid", FOVEA_HEAD_MASK2FORMER, FOVEA_TASK_SEGMENTATION,
         FOVEA_ENOTSUP},
        {"mask2former-01", "already has a mask2former", FOVEA_HEAD_DPT_LITE,
         FOVEA_TASK_SEGMENTATION, FOVEA_ENOTSUP},
        {"dinov2-03", "Mask2Former", FOVEA_HEAD_MASK2FORMER, FOVEA_TASK_CLASSES, FOVEA_EINVAL},
        {"dinov2-03", "Mask2Former", FOVEA_HEAD_MASK2FORMER, FOVEA_TASK_DEPTH, FOVEA_EINVAL},
        {"synthetic:mavit-t-fpn", "folded", FOVEA_HEAD_FPN, FOVEA_TASK_SEGMENTATION, FOVEA_ENOTSUP},
    };
    fovea_device *device = open_device(1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fovea_trainer_options o = options_of_head(wrong[i].head);
        fovea_trainer *t = NULL;
        o.task = wrong[i].task;
        assert_int_equal(fovea_trainer_create(&t, model_path(wrong[i].model), NULL, device, &o),
                         wrong[i].status);
        assert_null(t);
        if (!strstr(fovea_error(), wrong[i].message))
            fail_msg("%s: %s", wrong[i].model, fovea_error());
    }
    fovea_device_close(device);
}

static void families_without_gradients_are_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, NULL);
    for (int i = 0; i < 3; i++) {
        fovea_trainer *t = NULL;
        o.stage = i == 0 ? FOVEA_STAGE_FEATURES : FOVEA_STAGE_TASK;
        o.trainable = i == 2 ? FOVEA_TRAIN_HEAD : FOVEA_TRAIN_ALL;
        o.full_module = i == 2;
        o.classes = i == 0 ? 0 : CLASSES;
        assert_int_equal(fovea_trainer_create(&t, "synthetic:nalaformer-xt", NULL, device, &o),
                         FOVEA_ENOTSUP);
        assert_null(t);
        assert_non_null(strstr(fovea_error(), "only the head of models"));
    }
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoders_are_saved),
        cmocka_unit_test(depths_are_learned_up_to_a_factor),
        cmocka_unit_test(queries_are_trained),
        cmocka_unit_test(heads_that_do_not_fit_are_refused),
        cmocka_unit_test(families_without_gradients_are_refused),
    };
    draw();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
