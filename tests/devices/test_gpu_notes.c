/* test_gpu_notes.c: tests compilations that hang, or that end the process, over several starts.
 *
 *   test_gpu_notes path/to/libhostile_cl.so
 *
 * Every start is a process of its own. The driver spoils the first program of gemm.cl that the plan
 * needs; the plan must then use kernels of other programs, with the same results.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>

#include <cmocka.h>

#include "platform/os/os_machine.h"
#include "tests/devices/hostile.h"
#include "tests/fixture.h"
#include "tests/temp_folder.h"

enum { VALUES = 1 << 16, LINE = 512 };
/* Seconds; above the time of a compilation on a busy machine, because the driver has all programs
 * in its own cache. Starts without a hang have the default limit. */
#define LIMIT 8.

static const char *driver;

/* What a start is asked to do, and what it reports; in memory that both processes share. */
typedef struct start {
    const char *cache;
    double limit;
    long stalls, dies, version; /* of hostile.h; 0: not set */
    bool lets_go;               /* ends the stall when the plan has run */
    _Atomic bool ended;
    fovea_status status;
    char why[LINE];  /* the message of a failure */
    char line[LINE]; /* the last message about a program that is not used */
    unsigned built, hits, given_up, skipped;
    unsigned gemm; /* number of programs that were built up to the first one of gemm.cl */
    double seconds;
    long live; /* objects of the driver after the device was closed */
    fovea_device_info info;
    size_t values;
    float out[VALUES];
} start;

static start *shared, healthy;

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static void note(const char *line, void *payload)
{
    start *s = payload;
    const bool given_up = strstr(line, "did not finish it within") && strstr(line, "is not used:");
    const bool skipped = strstr(line, "is not compiled:");
    s->built += begins(line, "cache: built ");
    s->hits += begins(line, "cache: hit ");
    if (begins(line, "cache: built gemm ") && !s->gemm)
        s->gemm = s->built;
    if (given_up || skipped)
        snprintf(s->line, sizeof s->line, "%s", line);
    s->given_up += given_up && !skipped;
    s->skipped += skipped;
}

/* ---- one start ---- */

static fovea_status run_frame(start *s, fovea_plan *plan)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    if (!fovea_plan_output(plan, 0, &info) || (size_t)info.rows * info.columns > VALUES)
        abort();
    s->values = (size_t)info.rows * info.columns;
    const fovea_frame frame = {.pixels = {fixture_pixels}};
    const fovea_output to = {s->out, s->values * sizeof *s->out};
    return fovea_run(plan, &frame, &to, 1);
}

static fovea_status plan_and_run(start *s, fovea_device *device)
{
    const fovea_plan_options options = fixture_options("softmax", FOVEA_SCHEDULE_AUTO);
    fovea_model *model;
    fovea_plan *plan = NULL;
    fovea_status status = fovea_model_load(&model, fixture_model);
    if (status != FOVEA_OK)
        return status;
    status = fovea_plan_create(&plan, model, device, &options);
    if (status == FOVEA_OK)
        status = run_frame(s, plan);
    fovea_plan_free(plan);
    fovea_model_free(model);
    return status;
}

static fovea_status open_and_run(start *s)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_device *device;
    options.cache = s->cache;
    options.max_compile_seconds = s->limit;
    const fovea_status opened = fovea_device_open(&device, hostile.device, &options);
    if (opened != FOVEA_OK)
        return opened;
    s->info.struct_size = sizeof s->info;
    fovea_device_describe(device, &s->info);
    const fovea_status status = plan_and_run(s, device);
    if (s->lets_go) {
        hostile.set("stalls", 0);
        usleep(500000); /* until the compiler has returned */
    }
    fovea_device_close(device);
    return status;
}

static void be_a_start(start *s)
{
    const double begin = fv_machine_seconds();
    alarm(250);
    fixture_draw();
    if (!hostile_open(driver))
        exit(1);
    hostile.set("own", 1); /* there are products with local memory, and without */
    if (s->stalls)
        hostile.set("stalls", s->stalls);
    if (s->dies)
        hostile.set("dies", s->dies);
    if (s->version)
        hostile.set("version", s->version);
    fovea_log_set(note, s);
    s->status = open_and_run(s);
    if (s->status != FOVEA_OK)
        snprintf(s->why, sizeof s->why, "%s", fovea_error());
    s->live = hostile.live(NULL);
    s->seconds = fv_machine_seconds() - begin;
    s->ended = true;
    exit(0);
}

static pid_t begin_start(const start *asked)
{
    *shared = *asked;
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_a_start(shared);
    return child;
}

/* Returns the exit status. */
static int end_start(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static start asked(double limit)
{
    return (start){.cache = folder, .limit = limit};
}

/* A start that must run a frame with the results of the healthy driver, and end by itself. */
static void run_well(const start *s)
{
    assert_int_equal(end_start(begin_start(s)), 0);
    if (shared->status != FOVEA_OK)
        fail_msg("%s", shared->why);
    assert_true(shared->ended);
    assert_int_equal(shared->values, healthy.values);
    for (size_t i = 0; i < healthy.values; i++)
        if (!(fabsf(shared->out[i] - healthy.out[i]) <= 1e-3f * (1 + fabsf(healthy.out[i]))))
            fail_msg("value %zu is %g, not %g", i, shared->out[i], healthy.out[i]);
}

/* ---- notes ---- */

/* Returns the number of notes in the folder, and the path of one of them. */
static unsigned notes(char path[384])
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".note") && ++n && path)
            strcpy(path, in_folder(e->d_name));
    closedir(d);
    return n;
}

/* Makes the only note older than a day. */
static void age_note(void)
{
    char path[384];
    const time_t then = time(NULL) - 100000;
    const struct utimbuf times = {then, then};
    assert_int_equal(notes(path), 1);
    assert_int_equal(utime(path, &times), 0);
}

static void expect_skipped(unsigned skipped)
{
    if (shared->skipped != skipped)
        fail_msg("%u programs were not compiled, expected %u; %s", shared->skipped, skipped,
                 shared->line);
    assert_int_equal(shared->given_up, 0);
}

/* ---- tests ---- */

static int set_up(void **state)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || make_folder(state) != 0)
        return -1;
    const start first = asked(0);
    if (end_start(begin_start(&first)) != 0 || shared->status != FOVEA_OK || !shared->gemm) {
        print_message("no OpenCL device: %s\n", shared->why);
        remove_folder(state);
        exit(77);
    }
    healthy = *shared;
    return 0;
}

static int empty_folder(void **state)
{
    (void)state;
    clear_folder();
    return 0;
}

static void nothing_is_left_of_a_healthy_start(void **state)
{
    (void)state;
    const start s = asked(0);
    run_well(&s);
    assert_int_equal(shared->built, healthy.built);
    assert_int_equal(notes(NULL), 0);
    assert_int_equal(shared->live, 0);
    assert_string_equal(shared->info.compiler, "works");
    assert_string_equal(shared->info.skipped, "");
}

static void a_hang_costs_one_start(void **state)
{
    (void)state;
    start s = asked(LIMIT);
    s.stalls = healthy.gemm;
    run_well(&s);
    assert_int_equal(shared->given_up, 1);
    assert_non_null(strstr(shared->line, "FOVEA_COMPILE_SECONDS"));
    assert_non_null(strstr(shared->line, "fovea cache retry"));
    assert_true(shared->seconds >= LIMIT);
    assert_int_equal(notes(NULL), 1);
    s.stalls = 0;
    for (int i = 0; i < 2; i++) { /* the driver would compile it now, but is not asked to */
        run_well(&s);
        expect_skipped(1);
        assert_non_null(strstr(shared->line, "within 8 s"));
        assert_string_equal(shared->info.skipped, "gemm.cl");
    }
    assert_int_equal(shared->built, 0);
    s.limit = LIMIT + 1;
    run_well(&s);
    expect_skipped(0);
    assert_true(shared->built > 0);
    assert_int_equal(notes(NULL), 0);
}

/* The compiler returns while the process still lives. */
static void a_slow_compilation_is_forgiven(void **state)
{
    (void)state;
    start s = asked(LIMIT);
    s.stalls = healthy.gemm;
    s.lets_go = true;
    run_well(&s);
    assert_int_equal(shared->given_up, 1);
    assert_int_equal(notes(NULL), 0);
    assert_int_equal(shared->live, 0);
}

static void a_crash_costs_one_start(void **state)
{
    (void)state;
    start s = asked(0);
    s.dies = healthy.gemm;
    assert_int_equal(end_start(begin_start(&s)), 9 << 8);
    assert_int_equal(notes(NULL), 1);
    s.dies = 0;
    for (int i = 0; i < 2; i++) {
        run_well(&s);
        expect_skipped(1);
        assert_non_null(strstr(shared->line, "fovea cache retry"));
    }
    assert_true(shared->hits > 0);
    /* After a day the program is tried once more. The other programs come from the cache, so that
     * it is the first one to be compiled. */
    age_note();
    s.dies = 1;
    assert_int_equal(end_start(begin_start(&s)), 9 << 8);
    age_note();
    s.dies = 0;
    run_well(&s);
    expect_skipped(1);
    assert_non_null(strstr(shared->line, "2 processes ended"));
}

/* Waits until a compilation hangs. */
static void await_stall(void)
{
    char path[384] = "", last[384];
    for (int same = 0, i = 0; same < 20 && i < 2000; i++) {
        strcpy(last, path);
        path[0] = 0;
        notes(path);
        same = path[0] && strcmp(path, last) == 0 ? same + 1 : 0;
        usleep(25000);
    }
    assert_true(path[0]);
}

static void interrupt_start(void)
{
    start s = asked(0);
    s.stalls = healthy.gemm;
    const pid_t child = begin_start(&s);
    await_stall();
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_true(WIFSIGNALED(end_start(child)));
    assert_int_equal(notes(NULL), 1);
}

static void an_interrupted_start_is_forgiven_after_a_day(void **state)
{
    (void)state;
    const start s = asked(0);
    interrupt_start();
    run_well(&s);
    expect_skipped(1);
    assert_non_null(strstr(shared->line, "after a day"));
    age_note();
    run_well(&s);
    expect_skipped(0);
    assert_true(shared->built > 0);
    assert_int_equal(notes(NULL), 0);
}

static int count_skipped(const fovea_cache_entry *e, void *payload)
{
    if (*e->skipped) {
        assert_string_equal(e->program, "gemm.cl");
        assert_string_equal(e->device, healthy.info.name);
        ++*(unsigned *)payload;
    }
    return 0;
}

static void notes_are_listed_and_removed(void **state)
{
    (void)state;
    const start s = asked(0);
    unsigned listed = 0;
    size_t removed, size, again;
    interrupt_start();
    assert_int_equal(fovea_cache_list(folder, count_skipped, &listed), FOVEA_OK);
    assert_int_equal(listed, 1);
    assert_int_equal(fovea_cache_pack(folder, NULL, 0, &size), FOVEA_OK);
    assert_int_equal(fovea_cache_retry(folder, &removed), FOVEA_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(fovea_cache_pack(folder, NULL, 0, &again), FOVEA_OK);
    assert_int_equal(again, size); /* notes are not packed */
    run_well(&s);
    expect_skipped(0);
    clear_folder();
    interrupt_start();
    assert_int_equal(fovea_cache_clear(folder, &removed), FOVEA_OK);
    assert_int_equal(notes(NULL), 0);
}

static void another_process_compiles_the_same(void **state)
{
    (void)state;
    start s = asked(0), *slow = shared;
    s.stalls = healthy.gemm;
    s.lets_go = true;
    s.limit = 10;
    const pid_t child = begin_start(&s);
    await_stall();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    s.stalls = 0;
    s.lets_go = false;
    run_well(&s);
    expect_skipped(0);
    assert_int_equal(shared->info.skipped[0], 0);
    assert_int_equal(notes(NULL), 1); /* of the process that still compiles */
    assert_int_equal(end_start(child), 0);
    assert_int_equal(slow->given_up, 1);
    assert_int_equal(notes(NULL), 0);
}

static void another_driver_is_tried(void **state)
{
    (void)state;
    start s = asked(0);
    interrupt_start();
    s.version = 2;
    run_well(&s);
    expect_skipped(0);
    assert_string_equal(shared->info.skipped, "");
    assert_int_equal(notes(NULL), 1);
    s.version = 0;
    run_well(&s);
    expect_skipped(1);
}

static void without_a_folder_only_time_is_limited(void **state)
{
    (void)state;
    start s = asked(LIMIT);
    s.cache = "";
    s.stalls = healthy.gemm;
    run_well(&s);
    assert_int_equal(shared->given_up, 1);
    s.stalls = 0;
    run_well(&s);
    expect_skipped(0);
    assert_int_equal(notes(NULL), 0);
}

/* Some compilers have one lock for all programs: then no program but the first is blamed. */
static void a_compiler_that_is_stuck_is_left_alone(void **state)
{
    (void)state;
    start s = asked(1);
    s.stalls = -1;
    assert_int_equal(end_start(begin_start(&s)), 0);
    assert_true(shared->ended);
    assert_int_equal(notes(NULL), 1);
    assert_true(shared->seconds < 60);
    assert_true(begins(shared->info.compiler, "builds nothing: "));
    assert_int_not_equal(shared->status, FOVEA_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_left_of_a_healthy_start, empty_folder),
        cmocka_unit_test_setup(a_hang_costs_one_start, empty_folder),
        cmocka_unit_test_setup(a_slow_compilation_is_forgiven, empty_folder),
        cmocka_unit_test_setup(a_crash_costs_one_start, empty_folder),
        cmocka_unit_test_setup(an_interrupted_start_is_forgiven_after_a_day, empty_folder),
        cmocka_unit_test_setup(notes_are_listed_and_removed, empty_folder),
        cmocka_unit_test_setup(another_process_compiles_the_same, empty_folder),
        cmocka_unit_test_setup(another_driver_is_tried, empty_folder),
        cmocka_unit_test_setup(without_a_folder_only_time_is_limited, empty_folder),
        cmocka_unit_test_setup(a_compiler_that_is_stuck_is_left_alone, empty_folder),
    };
    if (argc != 2)
        return 1;
    driver = argv[1];
    setenv("FOVEA_WISDOM", "", 1);
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
