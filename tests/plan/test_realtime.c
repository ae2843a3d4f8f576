/* test_realtime.c: tests locked memory, workers with a priority and a name, and the messages if the
 * system does not allow these.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <fovea/operations.h>

#include "tests/fixture.h"
#include "tests/plan/heap_calls.h"

/* Returns a number from /proc/self/status, such as the KiB of "VmLck". */
static long status_number(const char *name)
{
    char line[256];
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            sscanf(line + strlen(name) + 1, "%ld", &value);
    if (f)
        fclose(f);
    return value;
}

static fovea_status open_with(fovea_device **out, int lock, uint32_t priority, const char *name)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.threads = 3;
    options.lock_memory = lock;
    options.priority = priority;
    options.thread_name = name;
    return fovea_device_open(out, "cpu", &options);
}

/* Plans an operation of about one megabyte, without a file. */
static fovea_status plan_operation(fovea_plan **out, fovea_device *device)
{
    static float weight[512 * 512];
    fovea_gemm_options o = FOVEA_GEMM_OPTIONS_INIT;
    o.rows = 64;
    o.in = o.out = 512;
    o.weight = weight;
    return fovea_gemm_plan_create(out, device, &o);
}

static void memory_is_locked(void **state)
{
    (void)state;
    fovea_device *device, *other = fixture_device(2);
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    size_t values;
    const long before = status_number("VmLck");
    if (!HEAP_COUNTED) {
        print_message("skipped: sanitizers let nobody lock memory\n");
        fovea_device_close(other);
        skip();
    }
    if (open_with(&device, 1, 0, NULL) != FOVEA_OK) {
        assert_non_null(strstr(fovea_error(), "RLIMIT_MEMLOCK"));
        print_message("skipped: not allowed here: %s\n", fovea_error());
        fovea_device_close(other);
        skip();
    }
    assert_true(status_number("VmLck") >= before + 2 * 128); /* two stacks */
    fovea_model *model = fixture_load();
    fovea_plan *plain = fixture_plan(model, other, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    const long stacks = status_number("VmLck");
    fovea_plan *plan = fixture_plan(model, device, "linear:elu1", FOVEA_SCHEDULE_AUTO);
    fovea_plan_query(plan, &info);
    const uint64_t held = info.weights + info.residual + info.states + info.chunks + info.scratch;
    assert_true(status_number("VmLck") - stacks >= (long)(held / 1024));
    float *want = fixture_run(plain, &values), *got = fixture_run(plan, &values);
    for (size_t i = 0; i < values; i++)
        assert_float_equal(got[i], want[i], 1e-5);
    free(want);
    free(got);
    fovea_plan_free(plan);
    assert_int_equal(status_number("VmLck"), stacks);
    fovea_plan_free(plain);
    fovea_model_free(model);
    fovea_device_close(device);
    fovea_device_close(other);
    assert_int_equal(status_number("VmLck"), before);
}

/* Returns whether the kernel runs a thread with this policy and priority. musl's functions do not
 * ask the kernel. */
static bool runs_at(pid_t id, int policy, int priority)
{
    struct sched_param p = {0};
    return syscall(SYS_sched_getscheduler, id) == policy &&
           syscall(SYS_sched_getparam, id, &p) == 0 && p.sched_priority == priority;
}

/* Returns the number of this process's threads called NAME-... that have the policy and, unless it
 * is -1, the priority. */
static int threads_called(const char *name, int policy, int priority)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *e; (e = readdir(tasks));) {
        char path[300], comm[32] = "";
        const pid_t id = (pid_t)atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (f) {
            if (!fgets(comm, sizeof comm, f))
                comm[0] = 0;
            fclose(f);
        }
        if (strncmp(comm, name, strlen(name)) || comm[strlen(name)] != '-')
            continue;
        found += policy < 0 || runs_at(id, policy, priority);
    }
    closedir(tasks);
    return found;
}

static void workers_have_names(void **state)
{
    (void)state;
    fovea_device *device;
    assert_int_equal(open_with(&device, 0, 0, NULL), FOVEA_OK);
    assert_int_equal(threads_called("fovea", -1, 0), 2);
    fovea_device_close(device);
    assert_int_equal(open_with(&device, 0, 0, "left-eye10"), FOVEA_OK);
    assert_int_equal(threads_called("left-eye10", -1, 0), 2);
    fovea_device_close(device);
    assert_int_equal(open_with(&device, 0, 0, "longer-than"), FOVEA_EINVAL);
    assert_non_null(strstr(fovea_error(), "10 characters"));
}

static void workers_have_a_priority(void **state)
{
    (void)state;
    fovea_device *device;
    assert_int_equal(open_with(&device, 0, 100, NULL), FOVEA_EINVAL);
    const fovea_status status = open_with(&device, 0, 7, "eye");
    if (status != FOVEA_OK) {
        assert_int_equal(status, FOVEA_ENOTSUP);
        assert_non_null(strstr(fovea_error(), "RLIMIT_RTPRIO"));
        print_message("skipped: not allowed here: %s\n", fovea_error());
        skip();
    }
    assert_int_equal(threads_called("eye", SCHED_FIFO, 7), 2);
    fovea_device_close(device);
}

/* Runs `what` as an unprivileged user in a separate process. */
static void as_nobody(void (*what)(void))
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0}, little = {512 << 10, 512 << 10};
        if (setrlimit(RLIMIT_RTPRIO, &none) || setrlimit(RLIMIT_MEMLOCK, &little) ||
            (getuid() == 0 && setuid(65534)))
            _exit(77);
        what();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: limits and user cannot be changed here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void claim(int good)
{
    if (!good) {
        fprintf(stderr, "said: %s\n", fovea_error());
        _exit(1);
    }
}

static void refusals(void)
{
    fovea_device *device;
    fovea_plan *plan;
    claim(open_with(&device, 0, 7, NULL) == FOVEA_ENOTSUP);
    claim(strstr(fovea_error(), "RLIMIT_RTPRIO") && strstr(fovea_error(), "CAP_SYS_NICE"));
    claim(open_with(&device, 1, 0, NULL) == FOVEA_OK); /* the stacks fit */
    claim(plan_operation(&plan, device) == FOVEA_ENOMEM);
    claim(strstr(fovea_error(), "packed weight") && strstr(fovea_error(), "0.5 MiB"));
    fovea_device_close(device);
    const struct rlimit none = {0, 0};
    claim(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    claim(open_with(&device, 1, 0, NULL) == FOVEA_ENOMEM);
    claim(strstr(fovea_error(), "stacks of 2 workers") != NULL);
    claim(status_number("VmLck") == 0);
    claim(open_with(&device, 0, 0, NULL) == FOVEA_OK && plan_operation(&plan, device) == FOVEA_OK);
}

static void refused_with_a_remedy(void **state)
{
    (void)state;
    if (!HEAP_COUNTED) {
        print_message("skipped: sanitizers let nobody lock memory\n");
        skip();
    }
    as_nobody(refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_locked),
        cmocka_unit_test(workers_have_names),
        cmocka_unit_test(workers_have_a_priority),
        cmocka_unit_test(refused_with_a_remedy),
    };
    fixture_draw();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
