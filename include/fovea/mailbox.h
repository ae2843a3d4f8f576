/* mailbox.h: hands the newest frame of a camera to a model that is slower than the camera. A part
 * of fovea.h, whose rules hold here.
 *
 * If frames queued up, results would be ever older. A fovea_mailbox therefore holds one frame at
 * most, like Vulkan's mailbox present mode: a newer frame replaces one that is still waiting, and
 * the replaced frame is dropped and counted. One thread puts frames, another takes them.
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
 * To the mailbox a frame is a pointer that it never dereferences: to pixels, to a
 * fovea_external_image, to a buffer of the camera. Nothing is copied, and every frame has one owner
 * at a time: the thread that puts it, then the mailbox, then the thread that takes it, or `drop`.
 * With one buffer being filled, one waiting, one being computed with and one on its way back, a
 * camera needs four buffers.
 */
#ifndef FOVEA_MAILBOX_H
#define FOVEA_MAILBOX_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_mailbox fovea_mailbox;

typedef struct fovea_mailbox_options {
    size_t struct_size;
    /* Called with a frame that will not be taken, which is the callback's from then on. It runs in
     * fovea_mailbox_put for a frame that was replaced, in fovea_mailbox_take for one whose deadline
     * has passed, and in fovea_mailbox_free for one that still waits. NULL: dropped frames need no
     * action. */
    void (*drop)(void *ctx, void *frame);
    void *ctx; /* the first argument of `drop` */
} fovea_mailbox_options;
#define FOVEA_MAILBOX_OPTIONS_INIT FOVEA_INIT(fovea_mailbox_options, )

/* Creates an empty mailbox. `options` may be NULL. This call allocates, those below do not. ENOMEM.
 * Thread-safe. */
FOVEA_API fovea_status fovea_mailbox_create(fovea_mailbox **out,
                                            const fovea_mailbox_options *options);
/* Drops the waiting frame, if there is one, and frees the mailbox. No thread may put or take any
 * more. */
FOVEA_API void fovea_mailbox_free(fovea_mailbox *mailbox);

/* Hands over a frame whose result is useful for `deadline` seconds from now; 0: for ever. Takes no
 * lock and never waits. EINVAL for a NULL frame, a negative deadline, and after fovea_mailbox_end;
 * the frame then stays the caller's. One thread at a time; another may take meanwhile. */
FOVEA_API fovea_status fovea_mailbox_put(fovea_mailbox *mailbox, void *frame, double deadline);
/* Says that no more frames will be put. To be called by the thread that puts them. */
FOVEA_API void fovea_mailbox_end(fovea_mailbox *mailbox);

/* Takes the newest frame that was put, and waits up to `timeout` seconds for one; negative: without
 * limit. A frame whose deadline has passed is dropped, and the next one is waited for. *frame is
 * NULL once no frame waits and fovea_mailbox_end was called. ETIMEOUT: no frame came in time. One
 * thread at a time. */
FOVEA_API fovea_status fovea_mailbox_take(fovea_mailbox *mailbox, double timeout, void **frame);

/* fovea_wait for the frame that was taken last and submitted as `ticket`, for as long as its
 * deadline allows. ETIMEOUT: the deadline passed first, and the frame is still in flight; its
 * pixels and outputs must stay valid until fovea_wait has returned for the ticket. On the CPU,
 * which computes inside this call, the result is OK however late it is. A late result is counted
 * once. To be called by the thread that takes. */
FOVEA_API fovea_status fovea_mailbox_wait(fovea_mailbox *mailbox, fovea_plan *plan,
                                          fovea_ticket ticket);

/* Counts of the frames so far. Each frame that was put was taken, was replaced, has expired, or
 * still waits. */
typedef struct fovea_mailbox_info {
    size_t struct_size;
    uint64_t put, taken;
    uint64_t replaced; /* dropped for a newer frame */
    uint64_t expired;  /* dropped by fovea_mailbox_take, because the deadline had passed */
    uint64_t late;     /* taken, but fovea_mailbox_wait had the result after the deadline */
} fovea_mailbox_info;
#define FOVEA_MAILBOX_INFO_INIT FOVEA_INIT(fovea_mailbox_info, )
/* Thread-safe. */
FOVEA_API fovea_status fovea_mailbox_query(const fovea_mailbox *mailbox, fovea_mailbox_info *out);

FOVEA_END_DECLS

#endif
