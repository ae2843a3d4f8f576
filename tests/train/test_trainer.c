/* test_trainer.c: the trainer: losses as they are defined, the same bits with any number of threads
 * and processes, memory as promised, calls that are refused.
 *
 *     test_trainer [--long]     every allocation of a trainer fails once
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

#include <cmocka.h>

#include "tests/plan/heap_calls.h"
#include "tests/train/trainers.h"

static bool all_of_it;

/* ---- losses ---- */

/* Returns the model's features of the first picture with that attention. */
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

/* ---- reproducibility ---- */

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

/* Two processes, simulated by threads, exchange their sums here. */
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
        o.allreduce = sum_parts;
        o.allreduce_payload = &process[i];
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

/* A picture whose loss is not finite changes nothing. */
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
    assert_int_equal(fovea_trainer_step(t, NULL), FOVEA_EINVAL); /* the picture was dropped */
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
        o.full_module = i == 8;
        o.loss = i == 7 ? (fovea_loss)2 : FOVEA_LOSS_SQUARED;
        assert_int_equal(fovea_trainer_create(&t, model_path("vit-01"), NULL, device, &o),
                         FOVEA_EINVAL);
        assert_true(strlen(fovea_error()) > 10);
    }
    fovea_trainer_options o = options_of(FOVEA_STAGE_TASK, NULL);
    o.task = FOVEA_TASK_SEGMENTATION;
    o.classes = 3; /* the mask has more classes */
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

/* Blocks that keep their activations give the same gradients as blocks that recompute them, up to
 * rounding, because recomputation uses smaller steps. */
static void limits_hold(void **state)
{
    (void)state;
    fovea_device *device = open_device(2);
    fovea_trainer_options o = options_of(FOVEA_STAGE_FEATURES, NULL);
    fovea_trainer_info least = FOVEA_TRAINER_INFO_INIT, info = FOVEA_TRAINER_INFO_INIT;
    fovea_trainer *t = make(device, "dinov2-03", &o), *limited;
    fovea_trainer_query(t, &least);
    assert_int_equal(least.blocks_not_recomputed, 0);
    assert_true(least.recomputed > 0);
    o.memory_limit = 4 * least.total;
    limited = make(device, "dinov2-03", &o);
    fovea_trainer_query(limited, &info);
    assert_true(info.blocks_not_recomputed > 0 && info.total <= o.memory_limit);
    assert_true(info.flops < least.flops && info.recomputed < least.recomputed);
    /* A trainer stays within any limit that it accepts. */
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
        o.full_module = 1;
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_as_defined),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(processes_share_a_batch),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(memory_is_as_promised),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(no_allocation_is_missed),
    };
    all_of_it = argc > 1 && strcmp(argv[1], "--long") == 0;
    draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
