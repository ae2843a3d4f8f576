/* test_trainer_slopes.c: gradients of whole models against differences of their own losses.
 *
 *     test_trainer_slopes [--long]     every attention, every family in every stage
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

#include "tests/train/trainers.h"

static bool all_of_it;
static const char *const families[] = {"vit-01",         "dinov2-03", "dinov2-with-registers-03",
                                       "clip-vision-02", "siglip-02", "dinov3-03"};
#define FAMILIES (sizeof families / sizeof *families)

/* ---- gradients ---- */

/* Sets a tensor to `from` plus `step` times `way`. */
static void move(fovea_trainer *t, const fv_master *m, const float *from, const float *way,
                 double step)
{
    for (uint64_t i = 0; i < m->tensor->elements; i++)
        m->weight[i] = (float)(from[i] + step * way[i]);
    fv_trainer_repack(t);
}

/* Returns the slope of the loss along the direction, from differences over `step` and half of it.
 */
static double slope_of(fovea_trainer *t, const fv_master *m, const float *from, const float *way,
                       double step)
{
    double slope[2];
    for (int k = 0; k < 2; k++) {
        const double h = k ? step / 2 : step;
        move(t, m, from, way, h);
        slope[k] = loss_of(t);
        move(t, m, from, way, -h);
        slope[k] = (slope[k] - loss_of(t)) / (2 * h);
    }
    move(t, m, from, way, 0);
    return (4 * slope[1] - slope[0]) / 3;
}

/* Along a tensor's normalised gradient the loss must rise with a slope equal to the gradient's
 * length. Small differences show float32 rounding, and large ones show curvature. `factor` plants
 * an error. */
static bool rises(fovea_trainer *t, const fv_master *m, const float *gradient, double whole,
                  double loss, double factor)
{
    const uint64_t n = m->tensor->elements;
    const double norm = length(gradient, n), most = 0.01 * (length(m->weight, n) + 0.1);
    double seen = 0;
    bool right = false;
    if (norm < 1e-3 * whole)
        return true;
    float *from = malloc((size_t)n * sizeof *from), *way = malloc((size_t)n * sizeof *way);
    assert_non_null(from);
    assert_non_null(way);
    memcpy(from, m->weight, (size_t)n * sizeof *from);
    for (uint64_t i = 0; i < n; i++)
        way[i] = (float)(gradient[i] / norm);
    for (double share = 4e-3; !right && share > 5e-4; share /= 4) {
        const double step = share * loss / norm < most ? share * loss / norm : most;
        seen = slope_of(t, m, from, way, step);
        right = fabs(seen - factor * norm) <= 1e-2 * norm + 2e-6 * (loss + 0.5) / step;
    }
    if (!right && factor == 1)
        print_error("%s: slope %.6g, gradient %.6g\n", m->tensor->name, seen, norm);
    free(from);
    free(way);
    return right;
}

/* Checks all trained tensors, or every third one in turn. Returns the number of correct tensors,
 * including those that are skipped. */
static uint32_t check_tensors(fovea_trainer *t, double factor)
{
    uint64_t floats;
    uint32_t right = 0;
    static uint32_t turn;
    const float *all = fv_masters_gradients(&t->masters, &floats);
    float *gradients = malloc((size_t)floats * sizeof *gradients);
    assert_non_null(gradients);
    const double loss = loss_of(t);
    memcpy(gradients, all, (size_t)floats * sizeof *gradients);
    const double whole = length(gradients, floats);
    assert_true(whole > 0 && isfinite(whole));
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        if (m->trained)
            right += (!all_of_it && turn++ % 3) ||
                     rises(t, m, gradients + (m->gradient - all), whole, loss, factor);
    }
    free(gradients);
    return right;
}

/* Enlarges the last layer of a new head. With small weights only large steps change the loss, and
 * these cross corners of ReLU. */
static void enlarge_last(fovea_trainer *t)
{
    static const char *const names[] = {"decode_head.conv_seg.weight", "dpt_head.classify.weight"};
    for (int k = 0; k < 2; k++) {
        const fv_master *m = fv_masters_find(&t->masters, names[k]);
        for (uint64_t i = 0; m && i < m->tensor->elements; i++)
            m->weight[i] *= 16;
    }
    fv_trainer_repack(t);
}

static void check_gradients(const char *model, const fovea_trainer_options *o)
{
    fovea_device *device = open_device(2);
    fovea_trainer *t = make(device, model, o);
    enlarge_last(t);
    const uint32_t right = check_tensors(t, 1);
    if (right != t->info.trained)
        fail_msg("%s, stage %d, %s: %u of %u gradients are right", model, (int)o->stage,
                 t->attention, right, t->info.trained);
    fovea_trainer_free(t);
    fovea_device_close(device);
}

static void gradients_of_every_family(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
        check_gradients(families[i], &o);
        o.loss = FOVEA_LOSS_RELATIVE;
        if (all_of_it || i == 2)
            check_gradients(families[i], &o);
        o = options_of(FOVEA_STAGE_TASK, "mala");
        if (all_of_it || i % 2 == 0)
            check_gradients(families[i], &o);
        o.task = FOVEA_TASK_SEGMENTATION;
        if (all_of_it || i % 2 == 1)
            check_gradients(families[i], &o);
        o = options_of(FOVEA_STAGE_ATTENTION, NULL);
        if (all_of_it || i == 1)
            check_gradients(families[i], &o);
        o.loss = FOVEA_LOSS_RELATIVE;
        if (all_of_it || i == 0)
            check_gradients(families[i], &o);
    }
}

/* Families that are not trained themselves. */
static const char *const frozen[] = {"synthetic:nalaformer-xt", "synthetic:mavit-t",
                                     "synthetic:pola-pvt-t", "synthetic:pola-swin-t",
                                     "synthetic:swin-t"};
#define FROZEN (sizeof frozen / sizeof *frozen)

static void gradients_of_heads_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < FROZEN; i++)
        for (int task = FOVEA_TASK_CLASSES; task <= FOVEA_TASK_SEGMENTATION; task++) {
            fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, NULL);
            o.task = (fovea_task)task;
            o.trainable = FOVEA_TRAIN_HEAD;
            check_gradients(frozen[i], &o);
        }
}

/* Heads of convolutions: Semantic FPN on all stages of a pyramid, and DPT's neck on a ViT, trained
 * alone and with the blocks that it reads. */
static void gradients_of_decoders(void **state)
{
    (void)state;
    fovea_trainer_options o = options_of_head(FOVEA_HEAD_FPN);
    for (size_t i = 0; i < FROZEN; i++)
        if (all_of_it || i == 1)
            check_gradients(frozen[i], &o);
    o = options_of_head(FOVEA_HEAD_DPT_LITE);
    o.frame.width = WIDE; /* with many positions, few ReLU corners are crossed at once */
    o.frame.height = LOW;
    o.mask_width = o.mask_height = SIDE;
    for (size_t i = 0; i < FAMILIES; i++) {
        o.trainable = i % 2 ? FOVEA_TRAIN_ALL : FOVEA_TRAIN_HEAD;
        o.task = FOVEA_TASK_SEGMENTATION;
        if (all_of_it || i < 2)
            check_gradients(families[i], &o);
        o.task = FOVEA_TASK_DEPTH;
        if (all_of_it || i == 1)
            check_gradients(families[i], &o);
    }
}

static void gradients_of_every_attention(void **state)
{
    (void)state;
    static const char *const names[] = {
        "softmax",        "sla-linear:elu1",   "pola",       "mala",
        "nala",           "linear:relu",       "linear:exp", "linear:softplus",
        "linear:softmax", "mala:relu",         "mala:exp",   "mala-paper",
        "focused",        "nala-paper",        "sla-mala",   "sla-pola",
        "hedgehog",       "softmax+linear@1-",
    };
    const size_t n = all_of_it ? sizeof names / sizeof *names : 3;
    for (size_t i = 0; i < n; i++) {
        const fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, names[i]);
        check_gradients("dinov2-03", &o);
    }
}

static void gradients_of_foveated_attention(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++) {
        fovea_trainer_options o = wide_options_of((fovea_stage)stage, "foveated:1");
        if (all_of_it || stage != 2)
            check_gradients("dinov2-03", &o);
        o.attention = "foveated:1+softmax@0+linear@1";
        if (all_of_it || stage == 2)
            check_gradients("dinov2-03", &o);
    }
}

/* Softmax rotates queries and keys; linear attention rotates features. */
static void gradients_through_rotations(void **state)
{
    (void)state;
    static const struct {
        fovea_stage stage;
        const char *attention;
    } cases[] = {{FOVEA_STAGE_FEATURES, "softmax"},
                 {FOVEA_STAGE_ATTENTION, "foveated:1+mala@1"},
                 {FOVEA_STAGE_TASK, "nala"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fovea_trainer_options o = wide_options_of(cases[i].stage, cases[i].attention);
        check_gradients("dinov3-03", &o);
    }
}

/* Before any training, gradients of learned vectors and gates say little, so some steps come first.
 */
static void gradients_of_what_has_learned(void **state)
{
    (void)state;
    static const char *const names[] = {"sla-pola", "focused"};
    fovea_device *device = open_device(2);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, names[i]);
        o.lr = 0.001f;
        fovea_trainer *t = make(device, "vit-01", &o);
        for (int k = 0; k < 4; k++)
            run_step(t);
        assert_int_equal(check_tensors(t, 1), t->info.trained);
        fovea_trainer_free(t);
    }
    fovea_device_close(device);
}

/* Draws filters, gates, biases and maps as if they had been trained. */
static void stir(fovea_trainer *t)
{
    uint32_t x = 5;
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        const bool whole = strstr(m->tensor->name, "attn.dwc.") ||
                           strstr(m->tensor->name, "attn.gate.") ||
                           strstr(m->tensor->name, "attn.map_");
        for (uint64_t k = 0; whole && k < m->tensor->elements; k++) {
            x = x * 1664525u + 1013904223u;
            m->weight[k] += (float)(x >> 8) / (1 << 25) - 0.25f;
        }
    }
    fv_trainer_repack(t);
}

/* With and without a prefix; checks every tensor. */
static void gradients_of_whole_forms(void **state)
{
    (void)state;
    static const struct {
        const char *model, *attention;
        fovea_stage stage;
        uint32_t more; /* number of further tensors per block that the full form trains */
    } cases[] = {{"vit-01", "pola", FOVEA_STAGE_FEATURES, 4},
                 {"siglip-02", "nala", FOVEA_STAGE_FEATURES, 4},
                 {"dinov2-with-registers-03", "nala", FOVEA_STAGE_ATTENTION, 4},
                 {"siglip-02", "focused", FOVEA_STAGE_ATTENTION, 2}};
    const bool all = all_of_it;
    fovea_device *device = open_device(2);
    all_of_it = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fovea_trainer_options o = options_of(cases[i].stage, cases[i].attention);
        fovea_trainer *bare = make(device, cases[i].model, &o);
        o.full_module = 1;
        fovea_trainer *t = make(device, cases[i].model, &o);
        const uint32_t depth = t->model->info.depth;
        assert_int_equal(t->info.trained, bare->info.trained + cases[i].more * depth);
        stir(t);
        assert_int_equal(check_tensors(t, 1), t->info.trained);
        assert_true(check_tensors(t, 1.05) < t->info.trained * 9 / 10);
        fovea_trainer_free(t);
        fovea_trainer_free(bare);
    }
    all_of_it = all;
    fovea_device_close(device);
}

/* Tests other constants, scaled queries and other numbers of heads. */
static void gradients_of_other_forms(void **state)
{
    (void)state;
    static const struct {
        const char *model, *attention;
        fovea_stage stage;
        fovea_linear_attention_params form;
    } cases[] = {
        {"vit-01", "nala", FOVEA_STAGE_FEATURES, {.nala_lambda = 2.5f, .q_scale = 0.5f}},
        {"siglip-02", "nala-paper", FOVEA_STAGE_FEATURES, {.nala_lambda = 4, .heads = 2}},
        {"dinov2-03", "sla-pola", FOVEA_STAGE_ATTENTION, {.pola_alpha = 1.5f, .heads = 8}},
        {"vit-01", "mala", FOVEA_STAGE_ATTENTION, {.q_scale = 2, .heads = 1}},
    };
    fovea_device *device = open_device(2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fovea_trainer_options o = options_of(cases[i].stage, cases[i].attention);
        fovea_trainer *usual = make(device, cases[i].model, &o);
        o.linear = cases[i].form;
        fovea_trainer *t = make(device, cases[i].model, &o);
        assert_true(loss_of(t) != loss_of(usual));
        assert_int_equal(check_tensors(t, 1), t->info.trained);
        fovea_trainer_free(t);
        fovea_trainer_free(usual);
    }
    fovea_device_close(device);
}

/* Tests trained maps of q and k. */
static void gradients_of_learned_maps(void **state)
{
    (void)state;
    static const struct {
        const char *model, *attention;
        fovea_stage stage;
        uint32_t heads;
    } cases[] = {{"vit-01", "hedgehog", FOVEA_STAGE_ATTENTION, 8},
                 {"dinov3-03", "sla-hedgehog", FOVEA_STAGE_ATTENTION, 0},
                 {"vit-01", "hedgehog", FOVEA_STAGE_FEATURES, 0}};
    const bool all = all_of_it;
    fovea_device *device = open_device(2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        all_of_it = all || cases[i].stage == FOVEA_STAGE_ATTENTION;
        fovea_trainer_options o = options_of(cases[i].stage, "linear");
        fovea_trainer *bare = make(device, cases[i].model, &o);
        o.attention = cases[i].attention;
        o.linear.heads = cases[i].heads;
        fovea_trainer *t = make(device, cases[i].model, &o);
        const uint32_t more = strncmp(cases[i].attention, "sla-", 4) == 0 ? 4 : 2;
        assert_int_equal(t->info.trained, bare->info.trained + more * t->model->info.depth);
        stir(t);
        assert_int_equal(check_tensors(t, 1), t->info.trained);
        if (i == 0)
            assert_true(check_tensors(t, 1.05) < t->info.trained * 9 / 10);
        fovea_trainer_free(t);
        fovea_trainer_free(bare);
    }
    all_of_it = all;
    fovea_device_close(device);
}

/* Initial values are zeros and ones, so that both forms agree; with NaLa's SiLU the value is 1 up
 * to rounding. */
static void whole_forms_begin_as_the_bare_ones(void **state)
{
    (void)state;
    static const char *const models[] = {"dinov2-03", "siglip-02"};
    fovea_device *device = open_device(2);
    for (int i = 0; i < 6; i++) {
        static const char *const names[] = {"pola", "nala", "focused"};
        const bool exact = i / 2 != 1;
        fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, names[i / 2]);
        double loss[2];
        for (o.full_module = 0; o.full_module < 2; o.full_module++) {
            fovea_trainer *t = make(device, models[i % 2], &o);
            loss[o.full_module] = loss_of(t);
            fovea_trainer_free(t);
        }
        if (!(fabs(loss[1] - loss[0]) <= (exact ? 0 : 1e-5 * loss[0])))
            fail_msg("%s, %s: %.9g, whole %.9g", models[i % 2], names[i / 2], loss[0], loss[1]);
    }
    fovea_device_close(device);
}

static void wrong_gradients_are_seen(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    const fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
    fovea_trainer *t = make(device, "vit-01", &o);
    assert_true(check_tensors(t, 1.05) < t->info.trained * 9 / 10);
    fovea_trainer_free(t);
    fovea_device_close(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_every_family),
        cmocka_unit_test(gradients_of_heads_alone),
        cmocka_unit_test(gradients_of_decoders),
        cmocka_unit_test(gradients_of_every_attention),
        cmocka_unit_test(gradients_of_foveated_attention),
        cmocka_unit_test(gradients_through_rotations),
        cmocka_unit_test(gradients_of_what_has_learned),
        cmocka_unit_test(gradients_of_whole_forms),
        cmocka_unit_test(gradients_of_other_forms),
        cmocka_unit_test(gradients_of_learned_maps),
        cmocka_unit_test(whole_forms_begin_as_the_bare_ones),
        cmocka_unit_test(wrong_gradients_are_seen),
    };
    all_of_it = argc > 1 && strcmp(argv[1], "--long") == 0;
    draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
