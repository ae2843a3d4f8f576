/* latest.h: the newest of a camera's frames, for a model that is slower than the camera. A part of
 * fovea.h, whose rules hold here.
 *
 * Frames must not queue up and grow old. A fovea_latest holds one frame at most: a newer one takes
 * the place of one that still waits, which is dropped and counted. One thread puts, another takes.
 *
 * The camera's thread:
 *
 *     while ((frame = next(camera)) != NULL)
 *         fovea_latest_put(latest, frame, 0.1);
 *     fovea_latest_end(latest);
 *
 * This one:
 *
 *     while (fovea_latest_take(latest, 1, &frame) == FOVEA_OK && frame) {
 *         fovea_submit(plan, pixels_of(frame), outs, n_outs, &ticket);
 *         status = fovea_latest_wait(latest, plan, ticket);
 *         give_back(camera, frame);
 *     }
 *
 * A frame is a pointer to whatever the caller calls so: pixels, a fovea_picture, a buffer of the
 * camera. Nothing is copied, and every frame has one owner: whoever puts it, then the fovea_latest,
 * then whoever takes it, or `drop`. So a camera needs four buffers: one is filled, one waits, one
 * is computed with, one is on its way back.
 */
#ifndef FOVEA_LATEST_H
#define FOVEA_LATEST_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_latest fovea_latest;

typedef struct fovea_latest_options {
    size_t struct_size;
    /* Gets back a frame that nobody will take: in the thread that put a newer one, that found its
     * deadline passed when it was to be taken, or that frees the object. NULL: nobody wants it. */
    void (*drop)(void *ctx, void *frame);
    void *ctx;
} fovea_latest_options;
#define FOVEA_LATEST_OPTIONS_INIT FOVEA_INIT(fovea_latest_options, )

/* `options` may be NULL. ENOMEM. This call allocates, those below do not. Thread-safe. */
FOVEA_API fovea_status fovea_latest_create(fovea_latest **out, const fovea_latest_options *options);
/* Drops the frame that waits. Nobody puts or takes any more. */
FOVEA_API void fovea_latest_free(fovea_latest *latest);

/* Hands over a frame whose result is of use for `deadline` seconds from now; 0: always. Takes no
 * lock and never waits. EINVAL, and the frame stays the caller's: NULL, a negative deadline, or
 * after fovea_latest_end. One thread at a time, beside another that takes. */
FOVEA_API fovea_status fovea_latest_put(fovea_latest *latest, void *frame, double deadline);
/* There will be no more frames. The thread that puts them. */
FOVEA_API void fovea_latest_end(fovea_latest *latest);

/* Waits for a frame, `timeout` seconds at most; negative: without bound. The newest that was put,
 * if its deadline has not passed: it is dropped then, and the next one is waited for. *frame is
 * NULL when none waits and there will be none. ETIMEOUT: none came. One thread at a time. */
FOVEA_API fovea_status fovea_latest_take(fovea_latest *latest, double timeout, void **frame);

/* fovea_wait for a plan's frame that was made of the one taken last, with what is left until its
 * deadline as timeout. ETIMEOUT leaves it in flight: fovea_wait ends it, whose pixels and outputs
 * must stay valid until then. On the CPU, where frames are computed here, it is OK however late. A
 * result that was not there in time is counted once. The thread that takes. */
FOVEA_API fovea_status fovea_latest_wait(fovea_latest *latest, fovea_plan *plan,
                                         fovea_ticket ticket);

/* Frames so far. Each that was put was taken, was replaced, has expired, or waits. */
typedef struct fovea_latest_info {
    size_t struct_size;
    uint64_t put, taken;
    uint64_t replaced; /* dropped for a newer one */
    uint64_t expired;  /* dropped because its deadline had passed when it was to be taken */
    uint64_t late; /* of those taken: fovea_latest_wait found their results after the deadline */
} fovea_latest_info;
#define FOVEA_LATEST_INFO_INIT FOVEA_INIT(fovea_latest_info, )
/* Thread-safe. */
FOVEA_API fovea_status fovea_latest_query(const fovea_latest *latest, fovea_latest_info *out);

FOVEA_END_DECLS

#endif
