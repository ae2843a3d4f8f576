/* hostile_lies.c: false properties, calls that fail, and live objects. */
#include "tests/devices/hostile_lies.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LIES = 32, FUNCTIONS = 128 };
#define TRUTH LONG_MIN

pthread_mutex_t hostile_lock = PTHREAD_MUTEX_INITIALIZER;
hostile_object *hostile_objects;
size_t hostile_living;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *const everyones[HOSTILE_LIES] = {"fail", "lasting", "error"};
static long lies[MOST_LIES];
static long calls, misuse;
static const char *failed, *only;
static struct {
    const char *name;
    long calls;
} counted[FUNCTIONS];

/* ---- false properties ---- */

static const char *name_of(int lie)
{
    return lie < HOSTILE_LIES ? everyones[lie] : hostile_self.lies[lie - HOSTILE_LIES];
}

static void set(const char *name, size_t length, long value)
{
    for (int i = 0; i < MOST_LIES && name_of(i); i++)
        if (strlen(name_of(i)) == length && !strncmp(name_of(i), name, length)) {
            lies[i] = value;
            if (i == HOSTILE_fail)
                calls = 0;
            hostile_self.changed(i);
            return;
        }
    fprintf(stderr, "%s: no lie is called %.*s\n", hostile_self.name, (int)length, name);
    abort();
}

static void tell_the_truth(void)
{
    for (int i = 0; i < MOST_LIES; i++)
        lies[i] = TRUTH;
    failed = only = NULL;
    hostile_self.changed(-1);
}

static void start(void)
{
    tell_the_truth();
    const char *at = getenv(hostile_self.environment);
    while (at && *at) {
        const size_t n = strcspn(at, "=");
        char *end;
        set(at, n, strtol(at + n + (at[n] == '='), &end, 0));
        at = *end == ',' ? end + 1 : "";
    }
    if (hostile_self.start)
        hostile_self.start();
}

long hostile_lie(int lie, long truth)
{
    pthread_once(&once, start);
    return lies[lie] == TRUTH ? truth : lies[lie];
}

/* ---- calls ---- */

static void count(const char *name)
{
    int i = 0;
    while (i < FUNCTIONS && counted[i].name && strcmp(counted[i].name, name) != 0)
        i++;
    if (i == FUNCTIONS)
        abort();
    counted[i].name = name;
    counted[i].calls++;
}

int hostile_enter(const char *name)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&hostile_lock);
    const bool counts = !only || !strcmp(only, name);
    count(name);
    calls += counts;
    bool fails = lies[HOSTILE_fail] > 0 && counts && calls == lies[HOSTILE_fail];
    if (fails)
        failed = name;
    fails = fails || (failed && hostile_lie(HOSTILE_lasting, 0));
    pthread_mutex_unlock(&hostile_lock);
    return fails ? (int)hostile_lie(HOSTILE_error, hostile_self.error) : 0;
}

void hostile_misused(const char *what)
{
    if (what)
        fprintf(stderr, "%s: %s\n", hostile_self.name, what);
    misuse++;
}

/* ---- live objects ---- */

void hostile_born(int kind, const void *handle)
{
    static size_t capacity;
    if (hostile_living == capacity) {
        capacity = capacity ? 2 * capacity : 256;
        hostile_objects = realloc(hostile_objects, capacity * sizeof *hostile_objects);
        if (!hostile_objects)
            abort();
    }
    hostile_objects[hostile_living++] = (hostile_object){handle, kind, false};
}

hostile_object *hostile_find(int kind, const void *handle)
{
    for (size_t i = 0; i < hostile_living; i++)
        if (hostile_objects[i].handle == handle && hostile_objects[i].kind == kind)
            return &hostile_objects[i];
    return NULL;
}

const void *hostile_any(int kind)
{
    for (size_t i = 0; i < hostile_living; i++)
        if (hostile_objects[i].kind == kind)
            return hostile_objects[i].handle;
    return NULL;
}

bool hostile_dies(int kind, const void *handle)
{
    hostile_object *o = hostile_find(kind, handle);
    if (o) {
        *o = hostile_objects[--hostile_living];
        return true;
    }
    char what[96];
    snprintf(what, sizeof what, "released what is no %s", hostile_self.kinds[kind]);
    hostile_misused(what);
    return false;
}

/* ---- for tests ---- */

HOSTILE_API hostile_set_fn hostile_set;
HOSTILE_API hostile_only_fn hostile_only;
HOSTILE_API hostile_calls_fn hostile_calls;
HOSTILE_API hostile_counted_fn hostile_counted;
HOSTILE_API hostile_live_fn hostile_live;
HOSTILE_API hostile_misuse_fn hostile_misuse;

void hostile_set(const char *name, long value)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&hostile_lock);
    if (name)
        set(name, strlen(name), value);
    else
        tell_the_truth();
    if (name && !strcmp(name, "fail"))
        failed = NULL;
    pthread_mutex_unlock(&hostile_lock);
}

void hostile_only(const char *name)
{
    only = name;
}

long hostile_calls(void)
{
    return calls;
}

long hostile_counted(const char *name)
{
    long n = 0;
    pthread_mutex_lock(&hostile_lock);
    for (int i = 0; i < FUNCTIONS && counted[i].name; i++)
        n = !strcmp(counted[i].name, name) ? counted[i].calls : n;
    pthread_mutex_unlock(&hostile_lock);
    return n;
}

const char *hostile_failed(void)
{
    return failed;
}

long hostile_live(const char *kind)
{
    long n = 0;
    pthread_mutex_lock(&hostile_lock);
    for (size_t i = 0; i < hostile_living; i++)
        n += !kind || !strcmp(kind, hostile_self.kinds[hostile_objects[i].kind]);
    pthread_mutex_unlock(&hostile_lock);
    return n;
}

long hostile_misuse(void)
{
    return misuse;
}
