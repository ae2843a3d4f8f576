/* hostile_lies.h: the common parts of the drivers of hostile.h: their false properties, failing
 * calls, and live objects. A driver is one library, which describes itself in hostile_self and is
 * linked with hostile_lies.c. */
#ifndef FOVEA_TESTS_HOSTILE_LIES_H
#define FOVEA_TESTS_HOSTILE_LIES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/devices/hostile.h"

#define HOSTILE_API __attribute__((visibility("default")))

/* Settings of every driver, numbered before the driver's own. */
enum { HOSTILE_fail, HOSTILE_lasting, HOSTILE_error, HOSTILE_LIES };

typedef struct hostile_driver_self {
    const char *name;         /* in messages */
    const char *environment;  /* environment variable with the initial settings */
    const char *const *lies;  /* names of the driver's own settings, ending with NULL; the first has
                                 number HOSTILE_LIES */
    const char *const *kinds; /* kinds of objects, ending with NULL */
    int error;                /* error of a failing call, unless another is set */
    void (*start)(void);      /* called before the first call; may be NULL */
    void (*changed)(
        int lie); /* called with the lock held when a setting changes; -1: all were reset */
} hostile_driver_self;
extern const hostile_driver_self hostile_self; /* the driver's */

/* Returns the reported value of a property: the false one if it is set, otherwise `truth`. */
long hostile_lie(int lie, long truth);
HOSTILE_API hostile_failed_fn hostile_failed;
/* Counts a call; returns the error with which it must fail, or 0. */
int hostile_enter(const char *name);

extern pthread_mutex_t hostile_lock;
/* The functions below require the lock. */

/* Counts an invalid use that no error code would show. Prints `what` unless it is NULL. */
void hostile_misused(const char *what);

typedef struct hostile_object {
    const void *handle;
    int kind;
    bool stuck; /* for the driver: the object never completes */
} hostile_object;
extern hostile_object *hostile_objects; /* live objects */
extern size_t hostile_living;
void hostile_born(int kind, const void *handle);
hostile_object *hostile_find(int kind, const void *handle); /* Returns a live object, or NULL. */
const void *hostile_any(int kind); /* Returns any live object of a kind, or NULL. */
/* Removes an object; returns false and counts misuse if it is not alive. */
bool hostile_dies(int kind, const void *handle);

#endif
