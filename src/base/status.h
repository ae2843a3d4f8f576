/* status.h: how a failure is reported, and how it is passed to the caller.
 *
 * The function that detects a failure writes one line (the thing, then the remedy) with fv_fail and
 * returns its code. Its callers pass the code on unchanged with FV_TRY. */
#ifndef FOVEA_SRC_STATUS_H
#define FOVEA_SRC_STATUS_H

#include <fovea/errors.h>

#define FV_TRY(call)                                                                               \
    do {                                                                                           \
        fovea_status status_ = (call);                                                             \
        if (status_ != FOVEA_OK)                                                                   \
            return status_;                                                                        \
    } while (0)

/* Makes a call if no earlier one has failed, for functions that must free something at their
 * end. */
#define FV_THEN(status, call)                                                                      \
    do {                                                                                           \
        if ((status) == FOVEA_OK)                                                                  \
            (status) = (call);                                                                     \
    } while (0)

/* For the end of a function that makes an object: stores it in *out, or releases it if `call`
 * fails. */
#define FV_RETURN_MADE(out, made, release, call)                                                   \
    do {                                                                                           \
        const fovea_status status_ = (call);                                                       \
        if (status_ == FOVEA_OK)                                                                   \
            *(out) = (made);                                                                       \
        else                                                                                       \
            release(made);                                                                         \
        return status_;                                                                            \
    } while (0)

#if defined(__MINGW32__) /* MinGW's C-conforming printf is not its default */
#define FV_PRINTF(f, a) __attribute__((format(gnu_printf, f, a)))
#elif defined(__GNUC__)
#define FV_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define FV_PRINTF(f, a)
#endif

#define FV_MESSAGE 2048 /* bytes of a message with its terminating null */

/* Stores the message in this thread's buffer and returns `status`. If it is too long, because of a
 * path or a value from a file, its middle is left out, so that the thing and the remedy remain. */
fovea_status fv_fail(fovea_status status, const char *format, ...) FV_PRINTF(2, 3);
/* Returns FOVEA_EINVAL if a required argument is NULL. */
fovea_status fv_require(const void *argument, const char *what);
/* Returns FOVEA_EINVAL if the value of an enum is not in 0 to `last`. */
fovea_status fv_known(const char *what, int value, int last);
/* Passes a message to the caller's log. It is not a failure. */
void fv_log(const char *format, ...) FV_PRINTF(1, 2);

#endif
