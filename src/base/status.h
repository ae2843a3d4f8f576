/* status.h: how a failure is reported, and how it is passed up.
 *
 * The place that detects a failure writes one line (the thing, then the remedy) with fv_fail and
 * returns its code; upper layers pass the code on untouched with FV_TRY.
 */
#ifndef FOVEA_SRC_STATUS_H
#define FOVEA_SRC_STATUS_H

#include <fovea/errors.h>

#define FV_TRY(call)                                                                               \
    do {                                                                                           \
        fovea_status status_ = (call);                                                             \
        if (status_ != FOVEA_OK)                                                                   \
            return status_;                                                                        \
    } while (0)

/* The next call where nothing has failed yet, of functions that have something to free at their
 * end. */
#define FV_THEN(status, call)                                                                      \
    do {                                                                                           \
        if ((status) == FOVEA_OK)                                                                  \
            (status) = (call);                                                                     \
    } while (0)

/* Ends a function that makes something: gives it in *out, or releases it where `call` fails. */
#define FV_RETURN_MADE(out, made, release, call)                                                   \
    do {                                                                                           \
        const fovea_status status_ = (call);                                                       \
        if (status_ == FOVEA_OK)                                                                   \
            *(out) = (made);                                                                       \
        else                                                                                       \
            release(made);                                                                         \
        return status_;                                                                            \
    } while (0)

#if defined(__MINGW32__) /* its own printf, which is C's, is not the default's */
#define FV_PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))
#elif defined(__GNUC__)
#define FV_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define FV_PRINTF(f, a)
#endif

#define FV_MESSAGE 2048 /* bytes of a message, its end included */

/* Stores the message in this thread's buffer and returns `status`. If it is too long,
 * because a path or a value from a file is, its middle is left out, so that the thing and the
 * remedy remain. */
fovea_status fv_fail(fovea_status status, const char *format, ...) FV_PRINTF(2, 3);
/* EINVAL where an argument that must be given is NULL. */
fovea_status fv_require(const void *argument, const char *what);
/* EINVAL where the value of an enum is none of 0 to `last`. */
fovea_status fv_known(const char *what, int value, int last);
/* Passes a message to the caller's log; it does not report a failure. */
void fv_log(const char *format, ...) FV_PRINTF(1, 2);

#endif
