/* mailbox.h: hands the newest frame of a camera to a model that is slower than the camera. This
 * header is part of fovea.h, whose rules apply here.
 *
 * If frames queued up, the latency of results would keep growing. A fovea_mailbox therefore holds
 * at most one frame, like Vulkan's mailbox present mode: a newer frame replaces one that is still
 * waiting, and the replaced frame is dropped and counted. One thread puts frames; another takes
 * them.
 *
 * The camera's thread:
 *
 *     while ((frame = next(camera)) != NULL)
 *         fovea_mailbox_put(mailbox, frame, 0.1);
 *     fovea_mailbox_end(mailbox);
 *
 * The thread that computes:
 *
 *     while (fovea_mailbox_take(mailbox, 1, &frame) == FOVEA_OK && frame) {
 *         fovea_submit(plan, pixels_of(frame), outs, n_outs, &ticket);
 *         status = fovea_mailbox_wait(mailbox, plan, ticket);
 *         give_back(camera, frame);
 *     }
 *
 * For the mailbox a frame is a pointer that it never dereferences, for example to pixels, to a
 * fovea_external_image or to a buffer of the camera. Nothing is copied, and every frame has one
 * owner at a time: the thread that puts it, then the mailbox, then the thread that takes it, or
 * `drop`. A camera needs four buffers: one that is being filled, one that waits, one that the model
 * reads, and one that is being returned. */
#ifndef FOVEA_MAILBOX_H
#define FOVEA_MAILBOX_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_mailbox fovea_mailbox;

typedef struct fovea_mailbox_options {
    size_t struct_size;
    /* Called with a frame that will not be taken, and that the callback then owns. It runs in
     * fovea_mailbox_put for a frame that was replaced, in fovea_mailbox_take for one whose deadline
     * has passed, and in fovea_mailbox_free for a frame that still waits. NULL: dropped frames need
     * no action. */
    void (*drop)(void *ctx, void *frame);
    void *ctx; /* the first argument of `drop` */
} fovea_mailbox_options;
#define FOVEA_MAILBOX_OPTIONS_INIT FOVEA_INIT(fovea_mailbox_options, )

/* Creates an empty mailbox. `options` may be NULL. This call allocates; the functions below do not.
 * Returns ENOMEM if memory runs out. Thread-safe. */
FOVEA_API fovea_status fovea_mailbox_create(fovea_mailbox **out,
                                            const fovea_mailbox_options *options);
/* Drops the waiting frame, if there is one, and frees the mailbox. No thread may put or take frames
 * any more. */
FOVEA_API void fovea_mailbox_free(fovea_mailbox *mailbox);

/* Hands over a frame whose result is useful for `deadline` seconds from now, or without limit if
 * `deadline` is 0. Takes no lock and never waits. Returns EINVAL for a NULL frame, for a negative
 * deadline, and after fovea_mailbox_end; the frame then stays the caller's. One thread at a time;
 * another thread may take frames meanwhile. */
FOVEA_API fovea_status fovea_mailbox_put(fovea_mailbox *mailbox, void *frame, double deadline);
/* Tells the mailbox that no more frames will be put. Must be called by the thread that puts frames.
 */
FOVEA_API void fovea_mailbox_end(fovea_mailbox *mailbox);

/* Takes the newest frame that was put. Waits up to `timeout` seconds for one, or without limit if
 * `timeout` is negative. Drops a frame whose deadline has passed, and waits for the next one.
 * *frame is NULL once no frame waits and fovea_mailbox_end was called. Returns ETIMEOUT if no frame
 * was put in time. One thread at a time. */
FOVEA_API fovea_status fovea_mailbox_take(fovea_mailbox *mailbox, double timeout, void **frame);

/* Calls fovea_wait for the frame that was taken last and submitted as `ticket`, and waits as long
 * as its deadline allows. Returns ETIMEOUT if the deadline passes first. The frame is then still in
 * flight, and its pixels and outputs must stay valid until fovea_wait has returned for the ticket.
 * On the CPU, which computes inside this call, the result is OK however late it is. A late result
 * is counted once. Must be called by the thread that takes frames. */
FOVEA_API fovea_status fovea_mailbox_wait(fovea_mailbox *mailbox, fovea_plan *plan,
                                          fovea_ticket ticket);

/* Counts of the frames so far. Each frame that was put has been taken or replaced, has expired, or
 * still waits. */
typedef struct fovea_mailbox_info {
    size_t struct_size;
    uint64_t put, taken;
    uint64_t replaced; /* dropped because of a newer frame */
    uint64_t expired;  /* dropped by fovea_mailbox_take, because the deadline had passed */
    uint64_t late;     /* taken, but fovea_mailbox_wait returned the result after the deadline */
} fovea_mailbox_info;
#define FOVEA_MAILBOX_INFO_INIT FOVEA_INIT(fovea_mailbox_info, )
/* Reads the counts. Thread-safe. */
FOVEA_API fovea_status fovea_mailbox_query(const fovea_mailbox *mailbox, fovea_mailbox_info *out);

FOVEA_END_DECLS

#endif
