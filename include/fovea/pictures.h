/* pictures.h: frames in memory that a camera, a decoder or another part of the program has: read
 * where they lie, without a copy by the host. A part of fovea.h, whose rules hold here.
 *
 * A camera cycles through a few buffers. Each is imported once, before frames run, and is then a
 * fovea_picture, whose frames allocate nothing and look nothing up:
 *
 *     fovea_picture *picture[4];
 *     fovea_picture_options options = FOVEA_PICTURE_OPTIONS_INIT;
 *     options.kind = FOVEA_PICTURE_DMABUF;
 *     options.format = FOVEA_FORMAT_NV12;
 *     options.width = 1920;
 *     options.height = 1080;
 *     for (int i = 0; i < 4; i++) {
 *         options.plane[0].fd = options.plane[1].fd = camera->fd[i];
 *         options.plane[1].offset = 1920 * 1080;
 *         fovea_picture_import(&picture[i], device, &options);
 *     }
 *     while ((i = dequeue(camera)) >= 0) {
 *         fovea_run_picture(plan, picture[i], NULL, &out, 1);
 *         enqueue(camera, i);
 *     }
 */
#ifndef FOVEA_PICTURES_H
#define FOVEA_PICTURES_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_picture fovea_picture;

/* Whose memory it is, and how a plane names it. */
typedef enum fovea_picture_kind {
    FOVEA_PICTURE_HOST,   /* `memory`: the host's address; it is pinned where that helps */
    FOVEA_PICTURE_DMABUF, /* `fd`: of V4L2, DRM, GStreamer, Wayland, libcamera. Linear */
    FOVEA_PICTURE_OPENCL, /* `memory`: a cl_mem of the context that fovea_device_options.context
                             has given the device */
    FOVEA_PICTURE_CUDA,   /* `memory`: a CUdeviceptr, as cudaMalloc gives it too */
    FOVEA_PICTURE_EGL,    /* `memory` of plane 0: an EGLImageKHR that has all planes, whose own
                             layout counts: offset and stride are 0. CUDA on Jetson */
    FOVEA_PICTURE_NVMM, /* `memory` of plane 0: an NvBufSurface, whose own layout counts; its first
                           picture is read */
    FOVEA_PICTURE_AHARDWAREBUFFER, /* `memory`: an AHardwareBuffer of Android's, which the caller
                                      keeps. Linear; offset and stride of a plane as its maker says.
                                      OpenCL */
} fovea_picture_kind;

typedef struct fovea_picture_plane {
    void *memory;
    int fd;        /* the library takes a duplicate */
    int reserved;  /* 0 */
    size_t size;   /* bytes of the memory or the dma-buf; 0: as many as the plane needs, or as the
                      dma-buf says it has */
    size_t offset; /* bytes from its begin to the plane's first pixel; of FOVEA_FORMAT_PLANES_F32 a
                      multiple of 4 */
    size_t stride; /* bytes from row to row; 0: rows are packed */
} fovea_picture_plane;

typedef struct fovea_picture_options {
    size_t struct_size;
    fovea_picture_kind kind;
    fovea_pixel_format format;
    uint32_t width, height;
    uint64_t modifier;            /* of DRM, which says how a dma-buf is laid out: 0, linear */
    fovea_picture_plane plane[3]; /* as fovea_frame has them: NV12 has two, float planes are one */
} fovea_picture_options;
#define FOVEA_PICTURE_OPTIONS_INIT FOVEA_INIT(fovea_picture_options, )

/* Imports a picture for frames of plans on `device`. Its memory outlives it; its pixels may change
 * whenever no frame reads it. EINVAL: a plane without memory or beyond its end, memory of another
 * context; ENOTSUP: a modifier other than linear, a device that can neither read the memory nor
 * copy it. This call may allocate, ask the driver and map memory; frames do not. Thread-safe. */
FOVEA_API fovea_status fovea_picture_import(fovea_picture **out, fovea_device *device,
                                            const fovea_picture_options *options);
/* No frame reads it. */
FOVEA_API void fovea_picture_free(fovea_picture *picture);

/* What a frame does with the pixels. */
typedef enum fovea_transfer {
    FOVEA_TRANSFER_NONE,   /* they are read where they lie */
    FOVEA_TRANSFER_DEVICE, /* the device copies them into memory of the plan's */
    FOVEA_TRANSFER_HOST,   /* the host does, as fovea_submit does with a frame */
} fovea_transfer;

typedef struct fovea_picture_info {
    size_t struct_size;
    fovea_transfer transfer;
    int reserved;       /* where a later version may have a field */
    const char *method; /* how the device has the memory: "cl_arm_import_memory", "mmap" */
    const char *reason; /* why it is copied, which is told to the log too; "" where it is not. Both
                           texts belong to the picture */
} fovea_picture_info;
#define FOVEA_PICTURE_INFO_INIT FOVEA_INIT(fovea_picture_info, )
/* Thread-safe. */
FOVEA_API fovea_status fovea_picture_query(const fovea_picture *picture, fovea_picture_info *out);

/* When the pixels are there. A dma-buf knows by itself when a camera or a GPU has written it, where
 * their drivers say so (implicit fences): these are waited for in any case. */
typedef struct fovea_ready {
    int fd;      /* of a sync_file; it stays the caller's. 0 and below: none */
    void *event; /* a cl_event or a CUevent of the plan's device, recorded already; NULL: none. Only
                    for pictures that the host does not read: EINVAL else */
} fovea_ready;

/* fovea_run and fovea_submit of a picture: the same rules, the same results. `ready` may be NULL.
 * The picture's pixels must not change until fovea_wait has returned for the ticket. Fences are
 * waited for here, events by the device. ETIMEOUT, and nothing is submitted: a fence that is not
 * signalled within 10 s. EINVAL: a picture of another device, size or format than the plan's. With
 * FOVEA_DEVICE_LOST_CPU ENOTSUP for one that the host cannot read. */
FOVEA_API fovea_status fovea_run_picture(fovea_plan *plan, const fovea_picture *picture,
                                         const fovea_ready *ready, const fovea_output *outs,
                                         size_t n_outs);
FOVEA_API fovea_status fovea_submit_picture(fovea_plan *plan, const fovea_picture *picture,
                                            const fovea_ready *ready, const fovea_output *outs,
                                            size_t n_outs, fovea_ticket *out);

/* *out gets a cl_event or a CUevent of the plan's device that is done when the device has read the
 * frame's pixels, for another queue that is to write them again without the host in between. It
 * belongs to the plan, and is valid until fovea_wait returns for the ticket, or for a later one.
 * EINVAL: a frame that is not in flight; ENOTSUP: on the CPU, where frames are computed inside
 * fovea_wait. One thread at a time per plan. */
FOVEA_API fovea_status fovea_read_event(const fovea_plan *plan, fovea_ticket ticket, void **out);

/* The same as a sync_file of Linux, for producers that know nothing of the device: OpenGL and
 * Vulkan, DRM, AImage_deleteAsync of Android, another process. poll() tells when it is signalled,
 * and as fovea_ready.fd a frame waits for it. The caller closes *fd; -1: the pixels were read
 * already. With OpenCL drivers that have cl_khr_external_semaphore_sync_fd, ENOTSUP elsewhere. One
 * thread at a time per plan. */
FOVEA_API fovea_status fovea_read_fence(fovea_plan *plan, fovea_ticket ticket, int *fd);

FOVEA_END_DECLS

#endif
