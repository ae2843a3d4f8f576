/* test_threads.c: tests plans in several threads at once: two on one device, two that are made at
 * the same time, and one on the caller's own threads. tsan.sh runs it under ThreadSanitizer,
 * because results do not show every race.
 *
 *   test_threads [--planted]
 *
 * --planted: runs one plan in two threads, which is forbidden, so that the sanitizer must report
 * it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <fovea/plans.h>

#include "tests/fixture.h"

enum { FRAMES = 12, LANES = 8 };

/* The work of one thread. */
struct job {
    fovea_model *model;
    fovea_device *device;
    const char *attention;
    fovea_plan *plan; /* NULL: the thread makes its own plan */
    float *out;
    size_t values;
    int failed; /* number of failed frames, or 1 if the plan failed */
};

static void *run_frames(void *arg)
{
    struct job *j = arg;
    fovea_plan *plan = j->plan;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    const fovea_plan_options options = fixture_options(j->attention, FOVEA_SCHEDULE_AUTO);
    if (!plan && fovea_plan_create(&plan, j->model, j->device, &options) != FOVEA_OK) {
        j->failed = 1;
        return NULL;
    }
    fovea_plan_output(plan, 0, &info);
    j->values = (size_t)info.rows * info.columns;
    j->out = calloc(j->values, sizeof *j->out);
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_output out = {j->out, j->values * sizeof *j->out};
    for (int i = 0; i < FRAMES; i++)
        j->failed += !j->out || fovea_run(plan, &frame, &out, 1) != FOVEA_OK;
    if (!j->plan)
        fovea_plan_free(plan);
    return NULL;
}

static void run_both(struct job job[2])
{
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_frames, &job[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}

/* Returns the result of a plan that runs alone on one thread. */
static float *reference(fovea_model *model, const char *attention, size_t *values)
{
    fovea_device *device = fixture_device(1);
    fovea_plan *plan = fixture_plan(model, device, attention, FOVEA_SCHEDULE_AUTO);
    float *want = fixture_run(plan, values);
    fovea_plan_free(plan);
    fovea_device_close(device);
    return want;
}

static void compare(const struct job *job, fovea_model *model)
{
    size_t values;
    float *want = reference(model, job->attention, &values);
    assert_int_equal(job->failed, 0);
    assert_int_equal(job->values, values);
    for (size_t i = 0; i < values; i++)
        assert_float_equal(job->out[i], want[i], 1e-4);
    free(want);
    free(job->out);
}

static void two_plans_on_one_device(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(3);
    fovea_model *model = fixture_load();
    struct job job[2] = {{.model = model, .device = device, .attention = "linear:elu1"},
                         {.model = model, .device = device, .attention = "softmax"}};
    for (int i = 0; i < 2; i++)
        job[i].plan = fixture_plan(model, device, job[i].attention, FOVEA_SCHEDULE_AUTO);
    run_both(job);
    for (int i = 0; i < 2; i++) {
        compare(&job[i], model);
        fovea_plan_free(job[i].plan);
    }
    fovea_model_free(model);
    fovea_device_close(device);
}

/* Both pack the same weights and read the same wisdom. */
static void two_plans_made_at_once(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(3);
    fovea_model *model = fixture_load();
    struct job job[2] = {{.model = model, .device = device, .attention = "mala"},
                         {.model = model, .device = device, .attention = "mala"}};
    run_both(job);
    for (int i = 0; i < 2; i++)
        compare(&job[i], model);
    fovea_model_free(model);
    fovea_device_close(device);
}

/* ---- the caller's own loop ---- */

struct lane {
    void (*fn)(void *arg, size_t i);
    void *arg;
    size_t i;
};

static void *run_lane(void *arg)
{
    const struct lane *lane = arg;
    lane->fn(lane->arg, lane->i);
    return NULL;
}

/* Starts one thread per lane, so that lanes run in any order. */
static void parallel_for(void (*fn)(void *arg, size_t i), void *arg, size_t n, void *ctx)
{
    pthread_t thread[LANES];
    struct lane lane[LANES];
    *(size_t *)ctx += n > 1;
    for (size_t i = 1; i < n; i++) {
        lane[i] = (struct lane){fn, arg, i};
        if (pthread_create(&thread[i], NULL, run_lane, &lane[i]))
            abort();
    }
    fn(arg, 0);
    for (size_t i = 1; i < n; i++)
        pthread_join(thread[i], NULL);
}

static void own_threads_and_the_pool(void **state)
{
    (void)state;
    size_t loops = 0;
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_device *own, *device = fixture_device(2);
    fovea_model *model = fixture_load();
    options.threads = 3;
    options.parallel_for = parallel_for;
    options.parallel_ctx = &loops;
    assert_int_equal(fovea_device_open(&own, "cpu", &options), FOVEA_OK);
    struct job job[2] = {{.model = model, .device = own, .attention = "linear:elu1"},
                         {.model = model, .device = device, .attention = "linear:elu1"}};
    run_both(job);
    assert_true(loops > FRAMES);
    for (int i = 0; i < 2; i++)
        compare(&job[i], model);
    fovea_model_free(model);
    fovea_device_close(own);
    fovea_device_close(device);
}

/* A forked child has no workers. It runs, frees and closes without them. */
static void forked(void **state)
{
    (void)state;
    size_t values, own;
    int how = 0;
    fovea_device *device = fixture_device(4);
    fovea_model *model = fixture_load();
    fovea_plan *plan = fixture_plan(model, device, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    float *out = fixture_run(plan, &values);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        float *again = fixture_run(plan, &own);
        const bool same = own == values && memcmp(out, again, values * sizeof *out) == 0;
        fovea_plan_free(plan);
        fovea_device_close(device);
        fovea_model_free(model);
        _exit(same ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &how, 0) == child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    float *again = fixture_run(plan, &own);
    assert_memory_equal(out, again, values * sizeof *out);
    free(again);
    free(out);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

static void planted(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    fovea_model *model = fixture_load();
    fovea_plan *plan = fixture_plan(model, device, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    struct job job[2] = {{.plan = plan, .attention = "linear:elu1"},
                         {.plan = plan, .attention = "linear:elu1"}};
    run_both(job);
    for (int i = 0; i < 2; i++)
        free(job[i].out);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_plans_on_one_device),
        cmocka_unit_test(two_plans_made_at_once),
        cmocka_unit_test(own_threads_and_the_pool),
        cmocka_unit_test(forked),
    };
    const struct CMUnitTest fault[] = {cmocka_unit_test(planted)};
    fixture_draw();
    if (argc == 2 && !strcmp(argv[1], "--planted"))
        return cmocka_run_group_tests(fault, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
