/* external_images.h: frames in the memory of a camera, a decoder or another part of the program,
 * which the device reads directly, without a copy by the host. This header is part of fovea.h,
 * whose rules apply here.
 *
 * A camera cycles through a few buffers. Each buffer is imported once, before frames run, as a
 * fovea_external_image. Running a frame from it then neither allocates nor looks anything up:
 *
 *     fovea_external_image *image[4];
 *     fovea_external_image_options options = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
 *     options.kind = FOVEA_EXTERNAL_DMABUF;
 *     options.format = FOVEA_FORMAT_NV12;
 *     options.width = 1920;
 *     options.height = 1080;
 *     for (int i = 0; i < 4; i++) {
 *         options.plane[0].fd = options.plane[1].fd = camera->fd[i];
 *         options.plane[1].offset = 1920 * 1080;
 *         fovea_external_image_import(&image[i], device, &options);
 *     }
 *     while ((i = dequeue(camera)) >= 0) {
 *         fovea_run_external_image(plan, image[i], NULL, &out, 1);
 *         enqueue(camera, i);
 *     } */
#ifndef FOVEA_EXTERNAL_IMAGES_H
#define FOVEA_EXTERNAL_IMAGES_H

#include <fovea/plans.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_external_image fovea_external_image;

/* The kind of memory that holds the pixels, and the field of a plane that identifies it. */
typedef enum fovea_external_image_kind {
    FOVEA_EXTERNAL_HOST,   /* `memory`: an address in host memory, which is pinned if that helps */
    FOVEA_EXTERNAL_DMABUF, /* `fd`: a linear dma-buf of V4L2, DRM, GStreamer, Wayland, libcamera */
    FOVEA_EXTERNAL_OPENCL, /* `memory`: a cl_mem of the context that the device was opened with
                              (fovea_device_options.context) */
    FOVEA_EXTERNAL_CUDA,   /* `memory`: a CUdeviceptr, or a pointer from cudaMalloc */
    FOVEA_EXTERNAL_EGL,    /* `memory` of plane 0: an EGLImageKHR with all planes, which has its
                              own layout: offset and stride are 0. Only for CUDA on Jetson */
    FOVEA_EXTERNAL_NVMM,   /* `memory` of plane 0: an NvBufSurface, which has its own layout. Its
                              first image is read */
    FOVEA_EXTERNAL_AHARDWAREBUFFER, /* `memory`: a linear AHardwareBuffer of Android, which stays
                                       the caller's; the caller must know its offset and stride.
                                       Only for OpenCL */
} fovea_external_image_kind;

typedef struct fovea_external_image_plane {
    void *memory;
    int fd;        /* the library duplicates it; the caller may close its own */
    int reserved;  /* 0 */
    size_t size;   /* bytes of the memory or the dma-buf; 0: as many as the plane needs, or as
                      the dma-buf reports */
    size_t offset; /* bytes from the beginning of the memory to the first pixel of the plane; for
                      FOVEA_FORMAT_PLANES_F32 a multiple of 4 */
    size_t stride; /* row stride in bytes; 0: rows are packed */
} fovea_external_image_plane;

typedef struct fovea_external_image_options {
    size_t struct_size;
    fovea_external_image_kind kind;
    fovea_pixel_format format;
    uint32_t width, height;              /* pixels */
    uint64_t modifier;                   /* DRM's format modifier of a dma-buf; must be 0, linear */
    fovea_external_image_plane plane[3]; /* as in fovea_frame: NV12 has two planes, and other
                                            formats have one */
} fovea_external_image_options;
#define FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT FOVEA_INIT(fovea_external_image_options, )

/* Imports an image for frames of plans on `device`. The memory must stay valid until the image is
 * freed; its pixels may change whenever no frame reads them. This call may allocate, call the
 * driver and map memory; frames do not. Returns EINVAL for a plane without memory or beyond its
 * end, and for memory of another context. Returns ENOTSUP for a modifier other than linear, and for
 * a device that can neither read the memory nor copy it. Thread-safe. */
FOVEA_API fovea_status fovea_external_image_import(fovea_external_image **out, fovea_device *device,
                                                   const fovea_external_image_options *options);
/* Frees an image. No frame that reads it may be in flight. */
FOVEA_API void fovea_external_image_free(fovea_external_image *image);

/* Whether the pixels are copied for a frame, and by which side. */
typedef enum fovea_transfer {
    FOVEA_TRANSFER_NONE,   /* the device reads the pixels in place */
    FOVEA_TRANSFER_DEVICE, /* the device copies the pixels into memory of the plan */
    FOVEA_TRANSFER_HOST,   /* the host copies the pixels, as fovea_submit does */
} fovea_transfer;

typedef struct fovea_external_image_info {
    size_t struct_size;
    fovea_transfer transfer;
    int reserved;       /* 0 */
    const char *method; /* how the device accesses the memory: "cl_arm_import_memory", "mmap" */
    const char *reason; /* why the pixels are copied, as reported to the log function; "" if they
                           are not copied. Both strings belong to the image */
} fovea_external_image_info;
#define FOVEA_EXTERNAL_IMAGE_INFO_INIT FOVEA_INIT(fovea_external_image_info, )
/* Describes an image. Thread-safe. */
FOVEA_API fovea_status fovea_external_image_query(const fovea_external_image *image,
                                                  fovea_external_image_info *out);

/* An acquire fence, which is signalled when the pixels have been written and may be read. The
 * library also waits for the implicit fences of a dma-buf, which camera and GPU drivers may attach.
 */
typedef struct fovea_acquire_fence {
    int fd;      /* descriptor of a sync_file, which stays the caller's; 0 and below: no
                    sync_file */
    void *event; /* a recorded cl_event or CUevent of the plan's device; NULL: none. EINVAL for
                    an image that the host reads */
} fovea_acquire_fence;

/* Do the same as fovea_run and fovea_submit for an external image, with the same rules and results.
 * `acquire` may be NULL. The pixels must not change until fovea_wait has returned for the ticket.
 * The call waits for a sync_file and for implicit fences; the device waits for an event. Returns
 * ETIMEOUT if a fence was not signalled within 10 s, in which case nothing was submitted. Returns
 * EINVAL for an image whose device, size or format is not the plan's. Returns ENOTSUP if the plan
 * has FOVEA_DEVICE_LOST_CPU and the host cannot read the image. One thread at a time per plan. */
FOVEA_API fovea_status fovea_run_external_image(fovea_plan *plan, const fovea_external_image *image,
                                                const fovea_acquire_fence *acquire,
                                                const fovea_output *outs, size_t n_outs);
FOVEA_API fovea_status fovea_submit_external_image(fovea_plan *plan,
                                                   const fovea_external_image *image,
                                                   const fovea_acquire_fence *acquire,
                                                   const fovea_output *outs, size_t n_outs,
                                                   fovea_ticket *out);

/* Gets the release fence of a frame as an event: *out receives a cl_event or CUevent of the plan's
 * device that completes when the device has read the frame's pixels. A queue that waits for this
 * event may then overwrite the pixels without involving the host. The event belongs to the plan and
 * is valid until fovea_wait returns for this ticket or a later one. Returns EINVAL if the frame is
 * not in flight. Returns ENOTSUP for the CPU, which computes inside fovea_wait. One thread at a
 * time per plan. */
FOVEA_API fovea_status fovea_plan_release_event(const fovea_plan *plan, fovea_ticket ticket,
                                                void **out);

/* Gets the release fence of a frame as a Linux sync_file, for writers that cannot use the device's
 * events: OpenGL, Vulkan, DRM, AImage_deleteAsync of Android, another process. poll() reports when
 * it is signalled, and fovea_acquire_fence.fd accepts it. The caller closes *fd; it is -1 if the
 * pixels have been read already. Returns ENOTSUP unless the driver is OpenCL's with
 * cl_khr_external_semaphore_sync_fd. One thread at a time per plan. */
FOVEA_API fovea_status fovea_plan_release_fence(fovea_plan *plan, fovea_ticket ticket, int *fd);

FOVEA_END_DECLS

#endif
