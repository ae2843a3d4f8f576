/* emulated_faults.c: what the emulated driver lies about, and what of it is alive. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulated_driver.h"
#include "hostile.h"

static const char *const lie_names[EMULATED_LIE_COUNT] = {
#define X(name) #name,
    EMULATED_LIES(X)
#undef X
};
#define TRUTH LONG_MIN

pthread_mutex_t emulated_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t emulated_changed = PTHREAD_COND_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static long lies[EMULATED_LIE_COUNT];
static long calls, misuse;
static const char *failed, *only;

static const char *const kinds[EMULATED_KINDS] = {"context", "memory", "pinned", "module", "stream",
                                                  "event",   "graph",  "exec",   "program"};
typedef struct object {
    const void *handle;
    enum emulated_kind kind;
} object;
static object *objects;
static size_t living, room;

/* ---- lies ---- */

static void set(const char *name, size_t length, long value)
{
    for (int i = 0; i < EMULATED_LIE_COUNT; i++)
        if (strlen(lie_names[i]) == length && !strncmp(lie_names[i], name, length)) {
            lies[i] = value;
            if (i == EMULATED_LIE_fail)
                calls = 0;
            return;
        }
    fprintf(stderr, "emulated CUDA: no lie is called %.*s\n", (int)length, name);
    abort();
}

static void tell_the_truth(void)
{
    for (int i = 0; i < EMULATED_LIE_COUNT; i++)
        lies[i] = TRUTH;
    failed = only = NULL;
}

static void start(void)
{
    tell_the_truth();
    const char *at = getenv("EMULATED_CUDA");
    while (at && *at) {
        const size_t n = strcspn(at, "=");
        char *end;
        set(at, n, strtol(at + n + (at[n] == '='), &end, 0));
        at = *end == ',' ? end + 1 : "";
    }
}

long emulated_lie(enum emulated_lie lie, long truth)
{
    pthread_once(&once, start);
    return lies[lie] == TRUTH ? truth : lies[lie];
}

CUresult emulated_enter(const char *name)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&emulated_lock);
    const bool counts = !only || !strcmp(only, name);
    calls += counts;
    bool fails = lies[EMULATED_LIE_fail] > 0 && counts && calls == lies[EMULATED_LIE_fail];
    if (fails)
        failed = name;
    fails = fails || (failed && emulated_lie(EMULATED_LIE_lasting, 0));
    pthread_mutex_unlock(&emulated_lock);
    return fails ? (CUresult)emulated_lie(EMULATED_LIE_error, EMULATED_LAUNCH_FAILED)
                 : CUDA_SUCCESS;
}

/* Under the lock. */
void emulated_misused(const char *what)
{
    fprintf(stderr, "emulated CUDA: %s\n", what);
    misuse++;
}

/* ---- what is alive ---- */

void emulated_born(enum emulated_kind kind, const void *handle)
{
    if (living == room) {
        room = room ? 2 * room : 256;
        objects = realloc(objects, room * sizeof *objects);
        if (!objects)
            abort();
    }
    objects[living++] = (object){handle, kind};
}

static object *find(enum emulated_kind kind, const void *handle)
{
    for (size_t i = 0; i < living; i++)
        if (objects[i].handle == handle && objects[i].kind == kind)
            return &objects[i];
    return NULL;
}

const void *emulated_any(enum emulated_kind kind)
{
    for (size_t i = 0; i < living; i++)
        if (objects[i].kind == kind)
            return objects[i].handle;
    return NULL;
}

bool emulated_lives(enum emulated_kind kind, const void *handle)
{
    return find(kind, handle);
}

bool emulated_dies(enum emulated_kind kind, const void *handle)
{
    object *o = find(kind, handle);
    const bool alive = o;
    if (alive) {
        *o = objects[--living];
    } else {
        char what[96];
        snprintf(what, sizeof what, "released what is no %s", kinds[kind]);
        emulated_misused(what);
    }
    return alive;
}

/* ---- for tests ---- */

API hostile_set_fn hostile_set;
API hostile_only_fn hostile_only;
API hostile_calls_fn hostile_calls;
API hostile_failed_fn hostile_failed;
API hostile_live_fn hostile_live;
API hostile_misuse_fn hostile_misuse;

void hostile_set(const char *name, long value)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&emulated_lock);
    if (name)
        set(name, strlen(name), value);
    else
        tell_the_truth();
    if (name && !strcmp(name, "fail"))
        failed = NULL;
    pthread_cond_broadcast(&emulated_changed);
    pthread_cond_broadcast(&emulated_work); /* what hung may go on */
    pthread_mutex_unlock(&emulated_lock);
}

void hostile_only(const char *name)
{
    only = name;
}

long hostile_calls(void)
{
    return calls;
}

const char *hostile_failed(void)
{
    return failed;
}

long hostile_live(const char *kind)
{
    long n = 0;
    pthread_mutex_lock(&emulated_lock);
    for (size_t i = 0; i < living; i++)
        n += !kind || !strcmp(kind, kinds[objects[i].kind]);
    pthread_mutex_unlock(&emulated_lock);
    return n;
}

long hostile_misuse(void)
{
    return misuse;
}
