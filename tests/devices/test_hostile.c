/* test_hostile.c: a model on an OpenCL or CUDA device that has little, says what is not so, and
 * fails.
 *
 *   test_hostile path/to/libhostile_cl.so [--all]
 *   test_hostile path/to/libemulated_cuda.so [--all]
 *
 * With less than it would like a plan gives the right result. Every call that fails, over opening,
 * planning and running, gives a status and a message, or the right result after all; nothing is
 * left over, and the next plan on the device opened again is right. With a fallback plan frames go
 * on on the CPU. --all: every call there is fails once; else some of each function.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fovea/plans.h>

#include "platform/os/os_machine.h"
#include "tests/devices/hostile.h"

static int passed, failed;
static char cache[] = "/tmp/fovea_hostile_XXXXXX";

static void note(int good, const char *what, const char *detail)
{
    if (good) {
        passed++;
        return;
    }
    failed++;
    printf("FAIL %s: %s\n", what, detail);
}

/* ---- scenes ---- */

enum { WIDTH = 70, HEIGHT = 56, FRAMES = 3, MOST = 1 << 20 };
static uint8_t pixels[FRAMES][HEIGHT * WIDTH * 3];

typedef struct scene {
    const char *attention;
    const char *cache;             /* folder of compiled kernels */
    fovea_device_lost_action lost; /* action for a frame when the device is lost */
    double device_timeout_seconds;
    uint32_t count; /* frames per run */
    float *want[FRAMES];
    size_t values;
} scene;

typedef struct session {
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
} session;

static fovea_status session_open(session *s, const char *device, const scene *what)
{
    fovea_device_options device_options = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    *s = (session){NULL, NULL, NULL};
    device_options.cache = what->cache;
    options.frame.width = WIDTH;
    options.frame.height = HEIGHT;
    options.frame.count = what->count;
    options.attention = what->attention;
    options.on_device_lost = what->lost;
    options.device_timeout_seconds = what->device_timeout_seconds;
    fovea_status status = fovea_device_open(&s->device, device, &device_options);
    if (status == FOVEA_OK)
        status = fovea_model_load(&s->model, TEST_DATA "/golden/models/dinov2-with-registers-03");
    if (status == FOVEA_OK)
        status = fovea_plan_create(&s->plan, s->model, s->device, &options);
    return status;
}

static void session_close(session *s)
{
    fovea_plan_free(s->plan);
    fovea_model_free(s->model);
    fovea_device_close(s->device);
    *s = (session){NULL, NULL, NULL};
}

static float *fits(const session *s, size_t *values)
{
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    if (!fovea_plan_output(s->plan, 0, &info))
        abort();
    *values = (size_t)info.rows * info.columns;
    float *out = calloc(*values, sizeof *out);
    if (!out)
        abort();
    return out;
}

/* Runs all frames with two in flight; returns the first failure. */
static fovea_status run_frames(const session *s, float *out[FRAMES], size_t values)
{
    fovea_ticket ticket[FRAMES];
    for (int i = 0; i < FRAMES + 1; i++) {
        if (i < FRAMES) {
            const fovea_frame frame = {.pixels = {pixels[i]}};
            const fovea_output to = {out[i], values * sizeof(float)};
            fovea_status status = fovea_submit(s->plan, &frame, &to, 1, &ticket[i]);
            if (status != FOVEA_OK)
                return status;
        }
        if (i > 0) {
            fovea_status status = fovea_wait(s->plan, ticket[i - 1], 60);
            if (status != FOVEA_OK)
                return status;
        }
    }
    return FOVEA_OK;
}

static double error(const float *got, const float *want, size_t n)
{
    double top = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - (double)want[i]);
        top = fmax(top, fabs((double)want[i]));
        worst = d <= worst ? worst : isfinite(d) ? d : INFINITY;
    }
    return worst / (top > 0 ? top : 1);
}

/* Opens, plans, runs and closes. *error is the largest error of a frame if all succeeded. */
static fovea_status attempt(const char *device, const scene *what, double *worst)
{
    session s;
    *worst = 0;
    fovea_status status = session_open(&s, device, what);
    if (status == FOVEA_OK) {
        float *out[FRAMES];
        size_t values = 0;
        for (int i = 0; i < FRAMES; i++)
            out[i] = fits(&s, &values);
        status = run_frames(&s, out, values);
        for (int i = 0; i < FRAMES; i++) {
            if (status == FOVEA_OK)
                *worst = fmax(*worst, error(out[i], what->want[i], values));
            free(out[i]);
        }
    }
    session_close(&s);
    return status;
}

/* Returns the number of facts in wisdom about kernels that must not be tried again. */
static int skipped(void)
{
    size_t size = 0;
    int n = 0;
    fovea_wisdom_export(NULL, 0, &size);
    char *text = calloc(1, size + 1);
    if (!text || fovea_wisdom_export(text, size + 1, &size) != FOVEA_OK)
        abort();
    for (const char *at = text; (at = strstr(at, "skip")); at++)
        n++;
    free(text);
    return n;
}

/* Computes the expected outputs on the CPU. */
static void make_scene(scene *out, const char *attention, const char *kernels)
{
    session s;
    *out = (scene){.attention = attention, .cache = kernels};
    if (session_open(&s, "cpu", out) != FOVEA_OK) {
        printf("on the CPU: %s\n", fovea_error());
        exit(1);
    }
    for (int i = 0; i < FRAMES; i++)
        out->want[i] = fits(&s, &out->values);
    if (run_frames(&s, out->want, out->values) != FOVEA_OK)
        abort();
    session_close(&s);
}

/* ---- requirements ---- */

static const double allowed = 2e-5; /* the same tolerance as for golden models */

static uint64_t host_memory(void)
{
    fovea_memory memory = FOVEA_MEMORY_INIT;
    fovea_memory_query(&memory);
    return memory.current;
}

static void must_be_right(const scene *what, const char *name)
{
    char detail[512] = "";
    double worst;
    const fovea_status status = attempt(hostile.device, what, &worst);
    if (status != FOVEA_OK)
        snprintf(detail, sizeof detail, "%s", fovea_error());
    else if (!(worst <= allowed))
        snprintf(detail, sizeof detail, "error %.2e", worst);
    else if (hostile.live(NULL) || hostile.misuse())
        snprintf(detail, sizeof detail, "%ld objects left, %ld misused", hostile.live(NULL),
                 hostile.misuse());
    note(!detail[0], name, detail);
}

static void truth(void)
{
    hostile.set(NULL, 0);
}

/* ---- limited devices ---- */

/* Limits and differences that a device may have. */
typedef struct lies {
    const char *name;
    struct {
        const char *name;
        long value;
    } lie[8];
} lies;

static const lies of_cl[] = {
    {"the device as it is", {{"claims", 0}}},
    {"buffers of 64 MB", {{"largest", 64 << 20}}},
    {"work-groups of 16", {{"group", 16}}},
    {"compiled kernels that take groups of 4", {{"compiled", 4}}},
    {"compiled kernels that take groups of 1", {{"compiled", 1}}},
    {"a device of many small work-items", {{"vectors", 1}}},
    {"local memory of its own", {{"vectors", 1}, {"own", 1}}},
    {"a device that is measured", {{"vectors", 1}, {"gpu", 1}, {"half", 2}}},
    {"no local memory", {{"local", 0}}},
    {"1 KB of local memory", {{"local", 1024}}},
    {"subgroups that are emulated", {{"vectors", 1}, {"gpu", 1}, {"half", 2}, {"subgroups", 1}}},
    {"no float16 arithmetic", {{"half", 0}}},
    {"memory that is shared", {{"unified", 1}}},
    {"memory that is not shared", {{"unified", 0}}},
    {"extensions that are not there", {{"claims", 1}}},
    {"command buffers", {{"gpu", 1}, {"records", 1}}},
    {"recordable queues", {{"gpu", 1}, {"records", 2}}},
    {"command buffers that are none", {{"gpu", 1}, {"records", 3}}},
    {"all of it",
     {{"largest", 64 << 20},
      {"group", 16},
      {"compiled", 4},
      {"local", 0},
      {"half", 0},
      {"unified", 0}}},
    {NULL, {{NULL, 0}}},
};

static const lies of_cuda[] = {
    {"the device as it is", {{"sm", 80}}},
    {"64 MB of memory", {{"largest", 64 << 20}}},
    {"tensor cores of float16 alone", {{"sm", 75}}},
    {"an old driver and a device to match", {{"sm", 72}, {"version", 11020}}},
    {"a device newer than the compiler", {{"sm", 131}}},
    {"and a driver older than it", {{"sm", 121}, {"ptx", 0}}},
    {"kernels that take groups of 32", {{"sm", 72}, {"version", 11020}, {"group", 32}}},
    {"16 KB of local memory", {{"local", 16 << 10}}},
    {"memory that is shared", {{"unified", 1}}},
    {"no graphs", {{"graphs", 0}}},
    {"threads the other way round", {{"order", 1}}},
    {"streams in their order", {{"streams", 1}}},
    {"streams the other way round", {{"streams", 2}}},
    {"all of it",
     {{"sm", 72}, {"version", 11020}, {"largest", 64 << 20}, {"group", 32}, {"graphs", 0}}},
    {NULL, {{NULL, 0}}},
};

static void with_little(const scene *what)
{
    for (const lies *l = hostile.cuda ? of_cuda : of_cl; l->name; l++) {
        char name[128];
        truth();
        for (size_t k = 0; k < 8 && l->lie[k].name; k++)
            hostile.set(l->lie[k].name, l->lie[k].value);
        snprintf(name, sizeof name, "%s, %s", what->attention, l->name);
        must_be_right(what, name);
    }
    truth();
}

/* Makes buffers smaller until nothing fits. Every refusal must have a message. */
static void with_less_and_less(const scene *what)
{
    int right = 0;
    fovea_status status = FOVEA_OK;
    for (long largest = 4 << 20; largest >= 16; largest /= 2) {
        char name[128], detail[512] = "";
        double worst;
        hostile.set("largest", largest);
        status = attempt(hostile.device, what, &worst);
        right += status == FOVEA_OK && worst <= allowed;
        snprintf(name, sizeof name, "%s, buffers of %ld bytes", what->attention, largest);
        if (status == FOVEA_OK ? !(worst <= allowed) : strlen(fovea_error()) < 10)
            snprintf(detail, sizeof detail, "error %.2e", worst);
        else if (hostile.live(NULL) || hostile.misuse())
            snprintf(detail, sizeof detail, "%ld objects left", hostile.live(NULL));
        note(!detail[0], name, detail);
    }
    note(right > 0 && status != FOVEA_OK, "smaller and smaller buffers",
         right ? "16 bytes were enough for everything" : "no size was enough");
    truth();
}

/* ---- failures ---- */

static const long cl_errors[] = {
    -5 /* CL_OUT_OF_RESOURCES */,         -4 /* CL_MEM_OBJECT_ALLOCATION.. */,
    -6 /* CL_OUT_OF_HOST_MEMORY */,       -2 /* CL_DEVICE_NOT_AVAILABLE */,
    -14 /* CL_EXEC_STATUS_ERROR_FOR.. */, -36 /* CL_INVALID_COMMAND.. */};
static const long cuda_errors[] = {
    719 /* CUDA_ERROR_LAUNCH_FAILED */, 2 /* .._OUT_OF_MEMORY */,     1 /* .._INVALID_VALUE */,
    46 /* .._DEVICE_UNAVAILABLE */,     700 /* .._ILLEGAL_ADDRESS */, 999 /* .._UNKNOWN */};
#define ERRORS (sizeof cl_errors / sizeof *cl_errors) /* of either */

static long error_code(long n)
{
    return (hostile.cuda ? cuda_errors : cl_errors)[n % (long)ERRORS];
}

/* Makes the n-th counted call fail. Returns false if there was no n-th call. */
static int fail_at(const scene *what, long n, int lasting)
{
    char name[192], detail[768] = "";
    double worst, after;
    const long lost = hostile.misuse();
    const uint64_t before = host_memory();
    const long code = error_code(n);
    hostile.set("error", code);
    hostile.set("lasting", lasting);
    hostile.set("fail", n);
    const fovea_status status = attempt(hostile.device, what, &worst);
    const char *call = hostile.failed();
    fovea_wisdom_forget();
    snprintf(name, sizeof name, "%s, call %ld (%s) fails with %ld%s", what->attention, n,
             call ? call : "none", code, lasting ? ", and all behind it" : "");
    const int reached = call != NULL;
    const char *message = status == FOVEA_OK ? "" : fovea_error();
    if (status == FOVEA_OK && !(worst <= allowed))
        snprintf(detail, sizeof detail, "said to be well, with an error of %.2e", worst);
    else if (status != FOVEA_OK && status != FOVEA_EDEVICE && status != FOVEA_ENOMEM &&
             status != FOVEA_ENODEV && status != FOVEA_ENOTSUP)
        snprintf(detail, sizeof detail, "status %s: %s", fovea_status_text(status), message);
    else if (status != FOVEA_OK && strlen(message) < 10)
        snprintf(detail, sizeof detail, "no message");
    else if (hostile.live(NULL) || hostile.misuse() != lost)
        snprintf(detail, sizeof detail, "%ld objects left, %ld misused (%s)", hostile.live(NULL),
                 hostile.misuse() - lost, message);
    else if (host_memory() != before)
        snprintf(detail, sizeof detail, "host memory left (%s)", message);
    truth();
    if (reached && !detail[0]) {
        const fovea_status again = attempt(hostile.device, what, &after);
        if (again != FOVEA_OK || !(after <= allowed))
            snprintf(detail, sizeof detail, "the next plan: %s, error %.2e",
                     again ? fovea_error() : "well", after);
    }
    if (reached)
        note(!detail[0], name, detail);
    return reached;
}

static void fail_each(const scene *what)
{
    long n = 1;
    while (fail_at(what, n, n % 5 == 0))
        n++;
    note(n > 100, what->attention, "fewer than 100 calls");
}

/* Makes the first, the last and some other calls of every function fail. */
static void fail_some(const scene *what, int between)
{
    for (const char *const *f = hostile.functions; *f; f++) {
        double worst;
        hostile.only(*f);
        hostile.set("fail", LONG_MIN);
        attempt(hostile.device, what, &worst);
        const long n = hostile.calls();
        for (int k = 0; k <= between + 1 && n; k++) {
            const long at = 1 + (n - 1) * k / (between + 1);
            if (k && at == 1 + (n - 1) * (k - 1) / (between + 1))
                continue;
            hostile.only(*f);
            fail_at(what, at, k % 3 == 2);
        }
    }
    truth();
}

/* Devices are found once per process, so each failure runs in a new process. */
static void fail_while_finding(void)
{
    for (long n = 1; n <= 24; n++) {
        char name[64];
        fflush(stdout);
        const pid_t child = fork();
        if (!child) {
            fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
            hostile.set("fail", n);
            hostile.set("lasting", n % 2);
            const int found = fovea_device_list(0, &info);
            for (size_t i = 1; fovea_device_list(i, &info); i++)
                ;
            const char *state = fovea_backend_status(hostile.cuda ? 2 : 1);
            _exit(!found || !state || strlen(state) < 5);
        }
        int status = -1;
        waitpid(child, &status, 0);
        snprintf(name, sizeof name, "finding devices, call %ld fails", n);
        note(child > 0 && status == 0, name, "no CPU, no remark, or a crash");
    }
}

static void no_compiler(const scene *what)
{
    scene bare = *what;
    double worst;
    bare.cache = "";
    hostile.set("build", 0);
    const fovea_status status = attempt(hostile.device, &bare, &worst);
    const char *last = hostile.cuda ? "nvrtcCompileProgram" : "clBuildProgram";
    note(status == FOVEA_ENOTSUP && strstr(fovea_error(), last), "nothing compiles",
         status ? fovea_error() : "and yet a plan");
    note(!hostile.live(NULL) && !hostile.misuse(), "nothing compiles", "objects left");
    truth();
    must_be_right(&bare, "compiling again, without a cache");
}

/* Makes calls of one function fail, on a device where most kernels have an alternative: an OpenCL
 * device reports real local memory, so that kernels with local tiles rank first. */
static void begin_choice(const char *call)
{
    hostile.only(call);
    if (!hostile.cuda)
        hostile.set("own", 1);
}

/* Returns the number of builds at opening the device: programs that measure rates, whose failure
 * only costs their rates. Their number depends on the device and on the rates themselves. */
static long builds_of_opening(const char *build, const scene *what)
{
    fovea_device *device = NULL;
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.cache = what->cache;
    begin_choice(build);
    hostile.set("fail", LONG_MIN);
    if (fovea_device_open(&device, hostile.device, &options) != FOVEA_OK)
        note(0, "opening the device", fovea_error());
    fovea_device_close(device);
    return hostile.calls();
}

/* If a program does not compile, its kernel is not used: the plan uses another one, or fails with
 * the compiler's message. Fails one build of opening, and every `step`-th one of the plan. */
static void second_choice(const scene *what, int step)
{
    /* The emulator compiles slowly, so there the programs exist and a function cannot be loaded. */
    const char *build = hostile.cuda ? "cuFuncGetAttribute" : "clBuildProgram";
    scene bare = *what;
    double worst;
    int others = 0;
    if (!hostile.cuda)
        bare.cache = "";
    const long opening = builds_of_opening(build, &bare);
    begin_choice(build);
    hostile.set("fail", LONG_MIN);
    attempt(hostile.device, &bare, &worst);
    const long builds = hostile.calls();
    for (long n = opening ? opening : 1; n <= builds; n += step) {
        char name[128], detail[512] = "";
        begin_choice(build);
        hostile.set("error", hostile.cuda ? 1 : -11); /* .._INVALID_VALUE, CL_BUILD_PROGRAM.. */
        hostile.set("fail", n);
        const fovea_status status = attempt(hostile.device, &bare, &worst);
        const int skips = skipped();
        others += status == FOVEA_OK && skips == 1;
        snprintf(name, sizeof name, "%s, program %ld does not compile", what->attention, n);
        if (status == FOVEA_OK && !(worst <= allowed))
            snprintf(detail, sizeof detail, "error %.2e", worst);
        else if (status != FOVEA_OK && (status != FOVEA_ENOTSUP || !strstr(fovea_error(), build)))
            snprintf(detail, sizeof detail, "status %s: %s", fovea_status_text(status),
                     fovea_error());
        else if (skips > 1 || (status != FOVEA_OK && skips))
            snprintf(detail, sizeof detail, "%d kernels are not to be tried again", skips);
        else if (hostile.live(NULL) || hostile.misuse())
            snprintf(detail, sizeof detail, "%ld objects left", hostile.live(NULL));
        note(!detail[0], name, detail);
        truth();
        if (skips && (attempt(hostile.device, &bare, &worst) != FOVEA_OK || !(worst <= allowed)))
            note(0, name, "the next plan is wrong");
        fovea_wisdom_forget();
    }
    note(others > 0, what->attention, "no kernel took the place of one that does not compile");
}

/* Waiting for a frame that never ends times out after the requested time, and can be repeated. */
static void no_end(const scene *what)
{
    session s;
    size_t values;
    const fovea_frame frame = {.pixels = {pixels[0]}};
    fovea_ticket ticket;
    if (session_open(&s, hostile.device, what) != FOVEA_OK) {
        note(0, "a plan before the device hangs", fovea_error());
        session_close(&s);
        return;
    }
    float *out = fits(&s, &values);
    const fovea_output to = {out, values * sizeof(float)};
    hostile.set("hang", 2);
    double begin = fv_machine_seconds();
    note(fovea_submit(s.plan, &frame, &to, 1, &ticket) == FOVEA_OK, "submit to a hanging device",
         fovea_error());
    for (int i = 0; i < 2; i++)
        note(fovea_wait(s.plan, ticket, 0.2) == FOVEA_ETIMEOUT, "a bounded wait", "no ETIMEOUT");
    double took = fv_machine_seconds() - begin;
    note(took >= 0.4 && took < 60, "a bounded wait", "took another time than was said");
    truth();
    note(fovea_wait(s.plan, ticket, 60) == FOVEA_OK && error(out, what->want[0], values) <= allowed,
         "the same frame once the device goes on", fovea_error());
    fovea_submit(s.plan, &frame, &to, 1, &ticket);
    hostile.set("hang", 1);
    begin = fv_machine_seconds();
    session_close(&s);
    took = fv_machine_seconds() - begin;
    note(took < 60, "closing a device that hangs", "took more than a minute");
    note(hostile.misuse() == 0, "a device that hangs", "was waited for without a bound");
    truth();
    free(out);
    double worst;
    const fovea_status status = attempt(hostile.device, what, &worst);
    note(status == FOVEA_OK && worst <= allowed, "the device opened again after it hung",
         fovea_error());
}

/* ---- fallback to the CPU ---- */

/* Makes a plan with a fallback plan and runs it once. */
static int begin_to_run(session *s, const scene *what, float *out[FRAMES], size_t *values)
{
    for (int i = 0; i < FRAMES; i++)
        out[i] = NULL;
    if (session_open(s, hostile.device, what) != FOVEA_OK)
        return 0;
    for (int i = 0; i < FRAMES; i++)
        out[i] = fits(s, values);
    return run_frames(s, out, *values) == FOVEA_OK && !fovea_plan_device_lost(s->plan);
}

/* Runs frames while the device fails, and frames after that; returns what is wrong, or "". */
static void run_on(const session *s, const scene *what, float *out[FRAMES], size_t values,
                   char detail[512])
{
    fovea_memory before = FOVEA_MEMORY_INIT, after = FOVEA_MEMORY_INIT;
    fovea_memory_query(&before);
    *detail = 0;
    for (int round = 0; round < 2 && !*detail; round++) {
        double worst = 0;
        for (int i = 0; i < FRAMES; i++)
            memset(out[i], 0xff, values * sizeof *out[i]);
        if (run_frames(s, out, values) != FOVEA_OK) {
            snprintf(detail, 512, "round %d: %s", round, fovea_error());
            return;
        }
        for (int i = 0; i < FRAMES; i++)
            worst = fmax(worst, error(out[i], what->want[i], values));
        if (!(worst <= allowed))
            snprintf(detail, 512, "round %d: error %.2e", round, worst);
    }
    fovea_memory_query(&after);
    if (after.allocations != before.allocations)
        snprintf(detail, 512, "memory was allocated");
}

static void end_running(session *s, float *out[FRAMES])
{
    truth();
    session_close(s);
    for (int i = 0; i < FRAMES; i++)
        free(out[i]);
}

/* Makes call n of `name` fail while frames run; *reached counts the runs that made n calls. Returns
 * whether the device was lost. */
static int go_on_after(const scene *what, const char *name, long n, int *reached)
{
    session s;
    float *out[FRAMES];
    size_t values = 0;
    char text[192], detail[512];
    const uint64_t before = host_memory();
    const long lost = hostile.misuse();
    int taken = 0;
    snprintf(text, sizeof text, "%s, call %ld fails", name, n);
    if (begin_to_run(&s, what, out, &values)) {
        hostile.set("error", error_code(n % 2 ? 5 : 4));
        hostile.set("lasting", n % 3 == 0);
        hostile.set("fail", n);
        run_on(&s, what, out, values, detail);
        taken = fovea_plan_device_lost(s.plan);
        *reached += hostile.failed() != NULL;
    } else {
        snprintf(detail, sizeof detail, "before it: %s", fovea_error());
    }
    end_running(&s, out);
    if (!*detail && (hostile.live(NULL) || hostile.misuse() != lost))
        snprintf(detail, sizeof detail, "%ld objects left, %ld misused", hostile.live(NULL),
                 hostile.misuse() - lost);
    /* If no call can tell any more whether a command has ended, the memory that it may use is kept.
     */
    if (!*detail && host_memory() != before && !(taken && n % 3 == 0))
        snprintf(detail, sizeof detail, "host memory left");
    note(!*detail, text, detail);
    return taken;
}

static void go_on_after_each(const scene *scene_of, const char *name, int unified, int most)
{
    scene what = *scene_of;
    session s;
    float *out[FRAMES];
    size_t values = 0;
    int lost = 0, reached = 0;
    what.lost = FOVEA_DEVICE_LOST_CPU;
    /* Waiting polls, so the number of calls depends on time, and the last call may not occur again.
     */
    long n = 0;
    for (int run = 0; run < 3; run++) {
        hostile.set("unified", unified);
        if (begin_to_run(&s, &what, out, &values)) {
            hostile.set("fail", LONG_MIN);
            run_frames(&s, out, values);
            n = run == 0 || hostile.calls() < n ? hostile.calls() : n;
        }
        end_running(&s, out);
    }
    const int tries = most && most < n ? most : (int)n;
    for (int i = 0; i < tries; i++) {
        hostile.set("unified", unified);
        lost += go_on_after(&what, name, 1 + (n - 1) * i / (tries > 1 ? tries - 1 : 1), &reached);
    }
    note(lost > reached / 2, name, "hardly a failure made the CPU take over");
}

/* A frame that never ends counts as lost. */
static void go_on_after_a_hang(const scene *scene_of, const char *name, int unified)
{
    scene what = *scene_of;
    session s;
    float *out[FRAMES];
    size_t values = 0;
    char detail[512] = "";
    const long lost = hostile.misuse();
    what.lost = FOVEA_DEVICE_LOST_CPU;
    what.device_timeout_seconds = 0.2;
    hostile.set("unified", unified);
    if (begin_to_run(&s, &what, out, &values)) {
        hostile.set("hang", 2);
        const double begin = fv_machine_seconds();
        run_on(&s, &what, out, values, detail);
        if (!*detail && fv_machine_seconds() - begin > 60)
            snprintf(detail, sizeof detail, "took %.1f s", fv_machine_seconds() - begin);
        if (!*detail && !fovea_plan_device_lost(s.plan))
            snprintf(detail, sizeof detail, "and the device was not lost");
    } else {
        snprintf(detail, sizeof detail, "before it: %s", fovea_error());
    }
    end_running(&s, out);
    if (!*detail && hostile.misuse() != lost)
        snprintf(detail, sizeof detail, "it was waited for without a bound");
    note(!*detail, name, detail);
}

/* If a batch fails, the CPU runs all of its frames. */
static void batch_goes_on(const scene *scene_of)
{
    enum { COUNT = 2 };
    scene what = *scene_of;
    session s;
    fovea_frame frame[COUNT];
    fovea_output to[COUNT];
    float *out[COUNT] = {NULL};
    size_t values = 0;
    double worst = 0;
    what.lost = FOVEA_DEVICE_LOST_CPU;
    what.device_timeout_seconds = 0.2;
    what.count = COUNT;
    fovea_status status = session_open(&s, hostile.device, &what);
    for (int i = 0; i < COUNT && status == FOVEA_OK; i++) {
        out[i] = fits(&s, &values);
        frame[i] = (fovea_frame){.pixels = {pixels[i]}};
        to[i] = (fovea_output){out[i], values * sizeof(float)};
    }
    if (status == FOVEA_OK)
        status = fovea_run(s.plan, frame, to, COUNT);
    note(status == FOVEA_OK && !fovea_plan_device_lost(s.plan), "a batch before the device hangs",
         fovea_error());
    hostile.set("hang", 2);
    for (int i = 0; i < COUNT && status == FOVEA_OK; i++)
        memset(out[i], 0xff, values * sizeof(float));
    if (status == FOVEA_OK)
        status = fovea_run(s.plan, frame, to, COUNT);
    for (int i = 0; i < COUNT && status == FOVEA_OK; i++)
        worst = fmax(worst, error(out[i], what.want[i], values));
    note(status == FOVEA_OK && fovea_plan_device_lost(s.plan) && worst <= allowed,
         "a batch after the device hung", fovea_error());
    truth();
    session_close(&s);
    for (int i = 0; i < COUNT; i++)
        free(out[i]);
}

/* A fallback device must be the CPU; the query reports the memory of the fallback plan. */
static void fallback_of_the_callers(const scene *what)
{
    session s;
    fovea_device *cpu = NULL;
    fovea_plan *plan = NULL;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.width = WIDTH;
    options.frame.height = HEIGHT;
    options.on_device_lost = FOVEA_DEVICE_LOST_CPU;
    if (session_open(&s, hostile.device, what) == FOVEA_OK) {
        options.device_timeout_seconds = -1;
        note(fovea_plan_create(&plan, s.model, s.device, &options) == FOVEA_EINVAL,
             "a device lost before it begins", "is taken");
        options.device_timeout_seconds = 0;
        options.fallback = s.device;
        note(fovea_plan_create(&plan, s.model, s.device, &options) == FOVEA_EINVAL &&
                 strstr(fovea_error(), "CPU"),
             "a fallback device that is lost with the first", "is taken");
        fovea_device_open(&cpu, "cpu", NULL);
        options.fallback = cpu;
        if (fovea_plan_create(&plan, s.model, s.device, &options) == FOVEA_OK)
            fovea_plan_query(plan, &info);
        note(info.fallback > 0, "bytes of the fallback plan", "are not told");
        fovea_plan_free(plan);
        plan = NULL;
        if (fovea_plan_create(&plan, s.model, cpu, &options) == FOVEA_OK)
            fovea_plan_query(plan, &info);
        note(info.fallback == 0, "a plan on the CPU", "has a fallback");
        fovea_plan_free(plan);
    }
    fovea_device_close(cpu);
    session_close(&s);
}

/* ---- the program ---- */

static void draw(void)
{
    uint32_t x = 7;
    for (size_t i = 0; i < sizeof pixels; i++) {
        x = x * 1664525u + 1013904223u;
        ((uint8_t *)pixels)[i] = (uint8_t)(x >> 24);
    }
}

static int has_device(void)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    for (size_t i = 0; fovea_device_list(i, &info); i++)
        if (!strcmp(info.id, hostile.device))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    const int all = argc == 3 && !strcmp(argv[2], "--all");
    if (argc != 2 + all || !hostile_open(argv[1]))
        return 1;
    draw();
    fail_while_finding();
    truth();
    if (!has_device()) {
        printf("no device %s; sh platform/setup-debian.sh opencl installs one for OpenCL\n",
               hostile.device);
        printf("%d passed, %d failed, 1 skipped\n", passed, failed);
        return failed ? 1 : 77;
    }
    if (!mkdtemp(cache))
        return 1;
    static const char *const attentions[] = {"linear:elu1", "softmax"};
    scene scenes[2], bare;
    for (int i = 0; i < 2; i++) {
        make_scene(&scenes[i], attentions[i], cache);
        with_little(&scenes[i]);
        with_less_and_less(&scenes[i]);
    }
    no_compiler(&scenes[0]);
    for (int i = 0; i < 1 + all; i++)
        second_choice(&scenes[i], all ? 1 : 2);
    bare = scenes[0];
    bare.cache = "";
    for (int i = 0; i < 2 && all; i++)
        fail_each(&scenes[i]);
    fail_some(&scenes[0], all ? 9 : 2);
    if (all) {
        fail_some(&scenes[1], 9);
        fail_some(&bare, 1);
    }
    fallback_of_the_callers(&scenes[0]);
    go_on_after_each(&scenes[0], "the CPU goes on, memory shared", 1, all ? 0 : 7);
    go_on_after_each(&scenes[1], "the CPU goes on, memory apart", 0, all ? 0 : 7);
    no_end(&scenes[0]);
    go_on_after_a_hang(&scenes[0], "the CPU goes on after a hang, memory shared", 1);
    go_on_after_a_hang(&scenes[0], "the CPU goes on after a hang, memory apart", 0);
    batch_goes_on(&scenes[0]);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < FRAMES; k++)
            free(scenes[i].want[k]);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", cache);
    if (system(command))
        failed++;
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
