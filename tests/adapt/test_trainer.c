/* test_trainer.c: the trainer: gradients of whole models against differences of their own losses,
 * the same bits with any number of threads, memory as promised, states that survive what happens to
 * files.
 *
 *     test_trainer [--long]     every attention, every family in every stage
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/adapt/trainers.h"
#include "tests/plan/heap_calls.h"
#include "tests/temp_folder.h"

static bool all_of_it;
static const char *const families[] = {"vit-01",         "dinov2-03", "dinov2-with-registers-03",
                                       "clip-vision-02", "siglip-02", "dinov3-03"};
#define FAMILIES (sizeof families / sizeof *families)

/* ---- gradients ---- */

/* Moves a tensor's numbers to those of `from` plus `step` along `way`. */
static void move(fovea_trainer *t, const fv_master *m, const float *from, const float *way,
                 double step)
{
    for (uint64_t i = 0; i < m->tensor->elements; i++)
        m->weight[i] = (float)(from[i] + step * way[i]);
    fv_trainer_repack(t);
}

/* How steeply the loss rises on the way, from differences over `step` and half of it. */
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

/* Along a tensor's gradient the loss must rise by the gradient's length: nothing else of that
 * length does. The loss is float32, which shows in small differences, and bent, which shows in
 * large ones. `factor` plants a fault. */
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

/* All trained tensors, or every third of them, in turn; returns how many are right, with those that
 * are not looked at. */
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

/* The last layer of a new head is small: the loss then shows large steps alone, and those cross
 * corners of ReLU. */
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

/* Families that have no gradients themselves. */
static const char *const frozen[] = {"synthetic:nalaformer-xt", "synthetic:mavit-t",
                                     "synthetic:pola-pvt-t", "synthetic:pola-swin-t"};
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

static fovea_trainer_options options_of_head(fovea_head head)
{
    fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, NULL);
    o.task = FOVEA_TASK_SEGMENTATION;
    o.head = head;
    o.trainable = FOVEA_TRAIN_HEAD;
    return o;
}

/* Heads of convolutions: Semantic FPN on all stages of a pyramid; DPT's neck on a ViT, alone and
 * with the blocks whose features it takes. */
static void gradients_of_decoders(void **state)
{
    (void)state;
    fovea_trainer_options o = options_of_head(FOVEA_HEAD_FPN);
    for (size_t i = 0; i < FROZEN; i++)
        if (all_of_it || i == 1)
            check_gradients(frozen[i], &o);
    o = options_of_head(FOVEA_HEAD_DPT_LITE);
    o.frame.width = WIDE; /* many places: of their corners few are crossed at once */
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

/* What is saved is loaded again with its head, computes the same, and is trained further; with
 * other classes the last layer alone is new. */
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
        o.head = FOVEA_HEAD_LINEAR; /* there is one of another kind */
        assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_ENOTSUP);
        fovea_trainer_free(t);
        clear_folder();
    }
    fovea_device_close(device);
}

/* Times a factor e^i the mean distance m is m - i; of its square half is forgiven, and the other
 * half is in the loss: its second difference is 1. */
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
    o.task = FOVEA_TASK_SEGMENTATION; /* there is one that gives depths */
    assert_int_equal(fovea_trainer_create(&again, folder, NULL, device, &o), FOVEA_ENOTSUP);
    assert_non_null(strstr(fovea_error(), "for depth"));
    fovea_trainer_free(t);
    clear_folder();
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
        {"synthetic:mavit-t-retinanet", "backbone alone", FOVEA_HEAD_FPN, FOVEA_TASK_SEGMENTATION,
         FOVEA_ENOTSUP},
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
        o.whole = i == 2;
        o.classes = i == 0 ? 0 : CLASSES;
        assert_int_equal(fovea_trainer_create(&t, "synthetic:nalaformer-xt", NULL, device, &o),
                         FOVEA_ENOTSUP);
        assert_null(t);
        assert_non_null(strstr(fovea_error(), "only a head can be trained"));
    }
    fovea_device_close(device);
}

static void gradients_of_every_attention(void **state)
{
    (void)state;
    static const char *const names[] = {
        "softmax",
        "sla-linear:elu1",
        "pola",
        "mala",
        "nala",
        "linear:relu",
        "linear:exp",
        "linear:softplus",
        "linear:softmax",
        "mala:relu",
        "mala:exp",
        "mala-paper",
        "focused",
        "nala-paper",
        "sla-mala",
        "sla-pola",
        "softmax+linear@1-",
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

/* Keys are turned beside their values, queries alone; linear attention turns its features. */
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

/* What has learned nothing yet says little of learned vectors and gates: after some steps. */
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

/* Filters, gates and their biases as if they had learned much. */
static void stir(fovea_trainer *t)
{
    uint32_t x = 5;
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        const bool whole =
            strstr(m->tensor->name, "attn.dwc.") || strstr(m->tensor->name, "attn.gate.");
        for (uint64_t k = 0; whole && k < m->tensor->elements; k++) {
            x = x * 1664525u + 1013904223u;
            m->weight[k] += (float)(x >> 8) / (1 << 25) - 0.25f;
        }
    }
    fv_trainer_repack(t);
}

/* Behind a prefix and without one; of every tensor, whatever turn it is. */
static void gradients_of_whole_forms(void **state)
{
    (void)state;
    static const struct {
        const char *model, *attention;
        fovea_stage stage;
        uint32_t more; /* tensors than the bare form trains, of each block */
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
        o.whole = 1;
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

/* Zeros and ones, with NaLa's SiLU one to the last digit. */
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
        for (o.whole = 0; o.whole < 2; o.whole++) {
            fovea_trainer *t = make(device, models[i % 2], &o);
            loss[o.whole] = loss_of(t);
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

/* ---- losses ---- */

/* The model's features of the first picture with that attention. */
static float *features_of(fovea_device *device, const char *model, const char *attention,
                          fovea_output_info *info)
{
    static const char *const output = "last_hidden_state";
    const fovea_frame frame = {.pixels = {pixels[0]}};
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    fovea_model *m;
    fovea_plan *plan = NULL;
    o.frame.width = o.frame.height = SIDE;
    o.attention = attention;
    o.outputs = &output;
    o.n_outputs = 1;
    if (fovea_model_load(&m, model_path(model)) != FOVEA_OK ||
        fovea_plan_create(&plan, m, device, &o) != FOVEA_OK)
        fail_msg("%s", fovea_error());
    assert_true(fovea_plan_output(plan, 0, info));
    const size_t size = (size_t)info->rows * info->columns * sizeof(float);
    const fovea_output out = {malloc(size), size};
    assert_non_null(out.data);
    assert_int_equal(fovea_run(plan, &frame, &out, 1), FOVEA_OK);
    fovea_plan_free(plan);
    fovea_model_free(m);
    return out.data;
}

static void losses_are_as_defined(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    float *y = features_of(device, "dinov2-03", "mala", &info);
    float *softmax = features_of(device, "dinov2-03", "softmax", &info);
    double want[2] = {0, 0}; /* by fovea_loss */
    for (uint32_t r = 0; r < info.rows; r++) {
        double distance = 0, square = 1e-6 * info.columns;
        for (uint32_t i = r * info.columns; i < (r + 1) * info.columns; i++) {
            distance += pow((double)y[i] - (double)softmax[i], 2);
            square += pow((double)softmax[i], 2);
        }
        want[FOVEA_LOSS_SQUARED] += distance / ((double)info.rows * info.columns);
        want[FOVEA_LOSS_RELATIVE] += distance / square / info.rows;
    }
    for (int i = 0; i < 2; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, "mala");
        o.loss = (fovea_loss)i;
        o.lambda = 3;
        fovea_trainer *t = make(device, "dinov2-03", &o);
        const double loss = loss_of(t);
        if (!(fabs(loss - 3 * want[i]) <= 1e-5 * loss))
            fail_msg("loss %d is %.9g, not %.9g", i, loss, 3 * want[i]);
        fovea_trainer_free(t);
    }
    free(y);
    free(softmax);
    fovea_device_close(device);
}

/* ---- the same whatever is done with it ---- */

static void threads_do_not_show(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        const fovea_stage stage = i < 6 ? (fovea_stage)(1 + i % 3) : FOVEA_STAGE_TASK;
        const char *model = i < 6 ? "dinov2-03" : "synthetic:nalaformer-xt";
        fovea_trainer_options o = i < 3   ? options_of(stage, "mala")
                                  : i < 6 ? wide_options_of(stage, "foveated:1")
                                          : options_of(stage, NULL);
        fovea_device *one = open_device(1), *three = open_device(3);
        o.trainable = i < 6 ? FOVEA_TRAIN_DEFAULT : FOVEA_TRAIN_HEAD;
        o.ema = 0.9f;
        o.clip = 0.5f;
        fovea_trainer *a = make(one, model, &o), *b = make(three, model, &o);
        for (int k = 0; k < 3; k++)
            assert_true(run_step(a).loss == run_step(b).loss);
        assert_same(a, b);
        fovea_trainer_free(a);
        fovea_trainer_free(b);
        fovea_device_close(one);
        fovea_device_close(three);
    }
}

/* Two processes, as threads: what they sum meets here. */
struct meeting {
    pthread_barrier_t barrier;
    void *part[2];
};

struct process {
    struct meeting *meeting;
    int rank;
    fovea_trainer *trainer;
    fovea_trainer_report report;
};

static int sum_parts(void *data, size_t n, int doubles, void *payload)
{
    struct process *p = payload;
    struct meeting *m = p->meeting;
    m->part[p->rank] = data;
    pthread_barrier_wait(&m->barrier);
    for (size_t i = 0; p->rank == 0 && i < n; i++) {
        double *a = m->part[0], *b = m->part[1];
        float *x = m->part[0], *y = m->part[1];
        if (doubles)
            a[i] = b[i] = a[i] + b[i];
        else
            x[i] = y[i] = x[i] + y[i];
    }
    pthread_barrier_wait(&m->barrier);
    return 0;
}

static void *run_process(void *payload)
{
    struct process *p = payload;
    for (int i = 0; i < 3; i++) {
        const fovea_frame frame = {.pixels = {pixels[p->rank]}};
        const fovea_target target = {.label = 2};
        if (fovea_trainer_add(p->trainer, &frame, &target) != FOVEA_OK ||
            fovea_trainer_step(p->trainer, &p->report) != FOVEA_OK)
            return payload;
    }
    return NULL;
}

static void processes_share_a_batch(void **state)
{
    (void)state;
    struct meeting meeting;
    struct process process[2];
    pthread_t thread;
    void *other;
    fovea_device *device = open_device(1);
    fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, "mala");
    fovea_trainer *alone = make(device, "vit-01", &o);
    assert_int_equal(pthread_barrier_init(&meeting.barrier, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        o.sum = sum_parts;
        o.sum_payload = &process[i];
        process[i] =
            (struct process){&meeting, i, make(device, "vit-01", &o), FOVEA_TRAINER_REPORT_INIT};
    }
    assert_int_equal(pthread_create(&thread, NULL, run_process, &process[1]), 0);
    assert_null(run_process(&process[0]));
    assert_int_equal(pthread_join(thread, &other), 0);
    assert_null(other);
    for (int i = 0; i < 3; i++) {
        const fovea_trainer_report r = run_step(alone);
        if (i == 2) {
            assert_int_equal(process[0].report.pictures, 2);
            assert_true(fabs(process[0].report.loss - r.loss) <= 1e-5 * r.loss);
        }
    }
    assert_same(process[0].trainer, process[1].trainer);
    for (int i = 0; i < 2; i++)
        fovea_trainer_free(process[i].trainer);
    fovea_trainer_free(alone);
    fovea_device_close(device);
    pthread_barrier_destroy(&meeting.barrier);
}

/* A picture that gives no number changes nothing. */
static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    static float planes[3 * SIDE * SIDE];
    fovea_device *device = open_device(1);
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
    o.frame.format = FOVEA_FORMAT_PLANES_F32;
    fovea_trainer *t = make(device, "vit-01", &o), *untouched = make(device, "vit-01", &o);
    const fovea_frame frame = {.pixels = {planes}};
    planes[5] = NAN;
    assert_int_equal(fovea_trainer_add(t, &frame, NULL), FOVEA_OK);
    assert_int_equal(fovea_trainer_step(t, NULL), FOVEA_EINVAL);
    assert_int_equal(fovea_trainer_step(t, NULL), FOVEA_EINVAL); /* it was dropped */
    assert_same(t, untouched);
    planes[5] = 0.5f;
    assert_int_equal(fovea_trainer_add(t, &frame, NULL), FOVEA_OK);
    assert_int_equal(fovea_trainer_step(t, NULL), FOVEA_OK);
    fovea_trainer_free(t);
    fovea_trainer_free(untouched);
    fovea_device_close(device);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    fovea_trainer *t;
    const char *const missing[] = {"vit.none", NULL}, *const unused[] = {"classifier.weight", NULL};
    for (int i = 0; i < 9; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
        o.struct_size = i == 0 ? 0 : sizeof o;
        o.lr = i == 1 ? 0 : 1e-3f;
        o.schedule = i == 2 ? FOVEA_LR_LINEAR : FOVEA_LR_CONSTANT;
        o.train = i == 3 ? missing : i == 4 ? unused : NULL;
        o.trainable = i == 5 ? FOVEA_TRAIN_HEAD : FOVEA_TRAIN_DEFAULT;
        o.frame.width = i == 6 ? 0 : SIDE;
        o.whole = i == 8;
        o.loss = i == 7 ? (fovea_loss)2 : FOVEA_LOSS_SQUARED;
        assert_int_equal(fovea_trainer_create(&t, model_path("vit-01"), NULL, device, &o),
                         FOVEA_EINVAL);
        assert_true(strlen(fovea_error()) > 10);
    }
    fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, NULL);
    o.task = FOVEA_TASK_SEGMENTATION;
    o.classes = 3; /* the mask has more */
    t = make(device, "vit-01", &o);
    const fovea_frame frame = {.pixels = {pixels[0]}};
    const fovea_target target = {.mask = mask};
    assert_int_equal(fovea_trainer_add(t, &frame, &target), FOVEA_EINVAL);
    assert_int_equal(fovea_trainer_add(t, &frame, NULL), FOVEA_EINVAL);
    assert_int_equal(fovea_trainer_step(t, NULL), FOVEA_EINVAL);
    fovea_trainer_free(t);
    fovea_device_close(device);
}

/* ---- memory ---- */

static void memory_is_as_promised(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    for (int stage = 1; stage <= 3; stage++) {
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT;
        const fovea_trainer_options o = options_of((fovea_stage)stage, NULL);
        fovea_memory_query(&before);
        fovea_trainer *t = make(device, "vit-01", &o);
        fovea_trainer_query(t, &info);
        run_step(t);
        fovea_memory_query(&after);
        assert_int_equal(after.current - before.current, info.total);
        const uint64_t made = after.allocations, calls = heap_calls();
        for (int i = 0; i < 3; i++)
            run_step(t);
        fovea_memory_query(&after);
        assert_int_equal(after.allocations, made);
        if (HEAP_COUNTED)
            assert_int_equal(heap_calls(), calls);
        assert_true(info.weights + info.gradients + info.moments + info.packed + info.activations <=
                    info.total);
        fovea_trainer_free(t);
        fovea_memory_query(&after);
        assert_int_equal(after.current, before.current);
    }
    fovea_device_close(device);
}

/* Blocks that keep what they computed give the gradients of those that compute it again, but for
 * rounding: what is kept is computed in smaller steps. */
static void limits_hold(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
    fovea_trainer_info least = FOVEA_TRAINER_INFO_INIT, info = FOVEA_TRAINER_INFO_INIT;
    fovea_trainer *t = make(device, "dinov2-03", &o), *limited;
    fovea_trainer_query(t, &least);
    assert_int_equal(least.kept, 0);
    assert_true(least.recomputed > 0);
    o.memory_limit = 4 * least.total;
    limited = make(device, "dinov2-03", &o);
    fovea_trainer_query(limited, &info);
    assert_true(info.kept > 0 && info.total <= o.memory_limit);
    assert_true(info.flops < least.flops && info.recomputed < least.recomputed);
    /* Any limit that is taken is kept. */
    for (uint64_t limit = least.total; limit < 3 * least.total; limit += least.total / 5) {
        fovea_trainer *other;
        o.memory_limit = limit;
        const fovea_status status =
            fovea_trainer_create(&other, model_path("dinov2-03"), NULL, device, &o);
        if (status == FOVEA_ENOMEM)
            continue;
        assert_int_equal(status, FOVEA_OK);
        fovea_trainer_query(other, &info);
        assert_true(info.total <= limit);
        fovea_trainer_free(other);
    }
    const double loss = run_step(t).loss;
    assert_true(fabs(run_step(limited).loss - loss) <= 2e-6 * loss);
    uint64_t floats;
    const float *a = fv_masters_gradients(&t->masters, &floats);
    const float *b = fv_masters_gradients(&limited->masters, &floats);
    double off = 0;
    for (uint64_t i = 0; i < floats; i++)
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    assert_true(sqrt(off) <= 1e-5 * length(a, floats));
    fovea_trainer_free(t);
    fovea_trainer_free(limited);
    o.memory_limit = least.total / 2;
    assert_int_equal(fovea_trainer_create(&t, model_path("dinov2-03"), NULL, device, &o),
                     FOVEA_ENOMEM);
    assert_non_null(strstr(fovea_error(), "limit"));
    fovea_device_close(device);
}

static void no_allocation_is_missed(void **state)
{
    (void)state;
    fovea_device *device = open_device(1);
    for (int stage = 1; stage <= 3; stage++) {
        fovea_trainer_options o = options_of((fovea_stage)stage, "sla-pola");
        o.whole = 1;
        fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
        const uint64_t stride = all_of_it ? 1 : 23;
        fovea_status status = FOVEA_ENOMEM;
        fovea_memory_query(&before);
        for (uint64_t n = 1; status != FOVEA_OK; n += stride) {
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
    }
    fovea_device_close(device);
}

/* ---- files ---- */

static void states_go_on_with_the_same_bits(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, "sla-pola");
    o.whole = 1;
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

/* A model that was saved is what the trainer had: its own loss as a teacher of itself is 0. */
static void saved_models_are_what_was_trained(void **state)
{
    (void)state;
    static const char *const attentions[] = {"mala", "sla-pola", "foveated:2", "nala"};
    fovea_device *device = open_device(2);
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, attentions[i]);
        o.whole = i % 2;
        fovea_trainer *t = make(device, "dinov2-03", &o), *again;
        run_step(t);
        run_step(t);
        const double loss = loss_of(t);
        assert_int_equal(fovea_trainer_save(t, folder, FOVEA_DTYPE_F32, 0), FOVEA_OK);
        o.attention = NULL;
        o.whole = 0;
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_every_family),
        cmocka_unit_test(gradients_of_heads_alone),
        cmocka_unit_test(gradients_of_decoders),
        cmocka_unit_test(decoders_are_saved),
        cmocka_unit_test(depths_are_learned_up_to_a_factor),
        cmocka_unit_test(heads_that_do_not_fit_are_refused),
        cmocka_unit_test(families_without_gradients_are_refused),
        cmocka_unit_test(gradients_of_every_attention),
        cmocka_unit_test(gradients_of_foveated_attention),
        cmocka_unit_test(gradients_through_rotations),
        cmocka_unit_test(gradients_of_what_has_learned),
        cmocka_unit_test(gradients_of_whole_forms),
        cmocka_unit_test(whole_forms_begin_as_the_bare_ones),
        cmocka_unit_test(wrong_gradients_are_seen),
        cmocka_unit_test(losses_are_as_defined),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(processes_share_a_batch),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(memory_is_as_promised),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(no_allocation_is_missed),
        cmocka_unit_test(states_go_on_with_the_same_bits),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(other_options_are_refused),
        cmocka_unit_test(states_of_another_loss_are_refused),
        cmocka_unit_test(saved_models_are_what_was_trained),
    };
    all_of_it = argc > 1 && strcmp(argv[1], "--long") == 0;
    draw();
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
