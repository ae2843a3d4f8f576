/* external_frame.c: runs frames whose pixels are in an external image. */
#include "device/import.h"
#include "run/run.h"

fovea_status fv_external_frame_bind(fovea_plan *p, const fv_run_input *in, bool *by_host)
{
    const fovea_external_image *image = in->image;
    const fv_backend *be = p->device->backend;
    *by_host = fv_external_image_by_host(image, p->device);
    for (uint32_t i = 0; i < p->frame.planes; i++) {
        const fv_external_memory *m = &image->memory[image->plane[i].memory];
        const uint64_t at = image->plane[i].at, stride = image->plane[i].stride;
        const uint32_t slot = p->graph.value[i].slot;
        if (*by_host)
            FV_TRY(be->upload(p->run.queue, slot, m->host + at, stride));
        else
            FV_TRY(be->upload_from(p->run.queue, slot, m->import, i, at, stride,
                                   in->acquire ? in->acquire->event : NULL));
    }
    return FOVEA_OK;
}

fovea_status fv_external_frame_crop(fovea_plan *p, const fv_run_input *in)
{
    const fovea_external_image *image = in->image;
    fovea_frame frame = {.pixels = {NULL}};
    if (!fv_external_image_by_host(image, p->device))
        return fv_fail(FOVEA_ENOTSUP, "the host crops pictures for pose models, but cannot read "
                                      "this image; map it and use fovea_box_crop");
    FV_TRY(fv_external_image_begin(image, in->acquire, true));
    for (uint32_t i = 0; i < 1u + (p->frame.format == FOVEA_FORMAT_NV12); i++) {
        const fv_external_memory *m = &image->memory[image->plane[i].memory];
        frame.pixels[i] = m->host + image->plane[i].at;
        frame.stride[i] = image->plane[i].stride;
    }
    const fovea_status status = fv_crop_bind(p, &frame, 0);
    fv_external_image_end(image);
    return status;
}

static fovea_status check_image(const fovea_plan *p, const fovea_external_image *image)
{
    if (image->device != p->device)
        return fv_fail(FOVEA_EINVAL,
                       "the external image belongs to device %s, but the plan runs on %s; import "
                       "it for that device",
                       image->device->info.id, p->device->info.id);
    if (p->frame.planes && (image->format != p->frame.format || image->width != p->frame.width ||
                            image->height != p->frame.height))
        return fv_fail(FOVEA_EINVAL,
                       "the external image has %u x %u pixels in format %d, but the plan's frames "
                       "have %u x %u pixels in format %d",
                       image->width, image->height, (int)image->format, p->frame.width,
                       p->frame.height, (int)p->frame.format);
    if (p->info.count > 1)
        return fv_fail(
            FOVEA_ENOTSUP,
            "a plan of %u frames at a time reads no external images; plan with frame.count 1",
            p->info.count);
    if (p->run.fallback.plan && !fv_external_image_seen(image))
        return fv_fail(FOVEA_ENOTSUP,
                       "the plan continues on the CPU if its device is lost, but the CPU cannot "
                       "read this image; plan with FOVEA_DEVICE_LOST_FAIL");
    return FOVEA_OK;
}

fovea_status fovea_submit_external_image(fovea_plan *p, const fovea_external_image *image,
                                         const fovea_acquire_fence *acquire,
                                         const fovea_output *outs, size_t n_outs, fovea_ticket *out)
{
    const fv_run_input in = {.image = image, .acquire = acquire};
    FV_TRY(fv_require(p, "the plan"));
    FV_TRY(fv_require(image, "the external image"));
    FV_TRY(check_image(p, image));
    return fv_run_submit(p, &in, outs, n_outs, out);
}

fovea_status fovea_run_external_image(fovea_plan *p, const fovea_external_image *image,
                                      const fovea_acquire_fence *acquire, const fovea_output *outs,
                                      size_t n_outs)
{
    fovea_ticket ticket;
    FV_TRY(fovea_submit_external_image(p, image, acquire, outs, n_outs, &ticket));
    return fovea_wait(p, ticket, -1);
}
