/* hostile_lies.h: the common parts of the drivers of hostile.h: their false claims, which calls
 * fail, and which of their objects are alive. A driver is one library, which describes itself in
 * hostile_self and is linked with hostile_lies.c. */
#ifndef FOVEA_TESTS_HOSTILE_LIES_H
#define FOVEA_TESTS_HOSTILE_LIES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/devices/hostile.h"

#define HOSTILE_API __attribute__((visibility("default")))

/* Lies of every driver, numbered before its own. */
enum { HOSTILE_fail, HOSTILE_lasting, HOSTILE_error, HOSTILE_LIES };

typedef struct hostile_driver_self {
    const char *name;         /* in messages */
    const char *environment;  /* the variable with the lies to begin with */
    const char *const *lies;  /* names of its own, NULL at the end; the first is HOSTILE_LIES */
    const char *const *kinds; /* of its objects, NULL at the end */
    int error;                /* of a call that fails, unless another is set */
    void (*start)(void);      /* before the first call; NULL: nothing is to be done */
    void (*changed)(int lie); /* under the lock; -1: all lies were unset */
} hostile_driver_self;
extern const hostile_driver_self hostile_self; /* the driver's */

/* What is said of something: the lie that was set, or else the truth. */
long hostile_lie(int lie, long truth);
HOSTILE_API hostile_failed_fn hostile_failed;
/* Counts a call; the error that it has to fail with, or 0. */
int hostile_enter(const char *name);

extern pthread_mutex_t hostile_lock;
/* All below is under the lock. */

/* What was done wrong without an error that would show it; said where it is not NULL. */
void hostile_misused(const char *what);

typedef struct hostile_object {
    const void *handle;
    int kind;
    bool stuck; /* the driver's: it is never done */
} hostile_object;
extern hostile_object *hostile_objects; /* those that are alive */
extern size_t hostile_living;
void hostile_born(int kind, const void *handle);
hostile_object *hostile_find(int kind, const void *handle); /* NULL: it is not alive */
const void *hostile_any(int kind); /* one of that kind that is; NULL: there is none */
/* False, and counted, where it is not alive. */
bool hostile_dies(int kind, const void *handle);

#endif
