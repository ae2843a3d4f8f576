/* picture_frame.c: frames whose pixels are an imported picture's. */
#include "device/import.h"
#include "run/run.h"

fovea_status fv_picture_bind(fovea_plan *p, const fv_run_input *in, bool *by_host)
{
    const fovea_picture *picture = in->picture;
    const fv_backend *be = p->device->backend;
    *by_host = fv_picture_by_host(picture, p->device);
    for (uint32_t i = 0; i < p->frame_planes; i++) {
        const fv_picture_memory *m = &picture->memory[picture->plane[i].memory];
        const uint64_t at = picture->plane[i].at, stride = picture->plane[i].stride;
        const uint32_t slot = p->b.value[i].slot;
        if (*by_host)
            FV_TRY(be->upload(p->queue, slot, m->host + at, stride));
        else
            FV_TRY(be->upload_from(p->queue, slot, m->import, i, at, stride,
                                   in->ready ? in->ready->event : NULL));
    }
    return FOVEA_OK;
}

fovea_status fv_picture_crop(fovea_plan *p, const fv_run_input *in)
{
    const fovea_picture *picture = in->picture;
    fovea_frame frame = {.pixels = {NULL}};
    if (!fv_picture_by_host(picture, p->device))
        return fv_fail(FOVEA_ENOTSUP, "a pose model's crops are cut by the host, which cannot read "
                                      "this picture; map it and use fovea_box_crop");
    FV_TRY(fv_picture_begin(picture, in->ready, true));
    for (uint32_t i = 0; i < 1u + (p->frame_format == FOVEA_FORMAT_NV12); i++) {
        const fv_picture_memory *m = &picture->memory[picture->plane[i].memory];
        frame.pixels[i] = m->host + picture->plane[i].at;
        frame.stride[i] = picture->plane[i].stride;
    }
    const fovea_status status = fv_crop_bind(p, &frame, 0);
    fv_picture_end(picture);
    return status;
}

static fovea_status check_picture(const fovea_plan *p, const fovea_picture *picture)
{
    if (picture->device != p->device)
        return fv_fail(FOVEA_EINVAL,
                       "a picture of device %s, the plan's is %s: import it for the very device",
                       picture->device->info.id, p->device->info.id);
    if (p->frame_planes && (picture->format != p->frame_format ||
                            picture->width != p->frame_width || picture->height != p->frame_height))
        return fv_fail(FOVEA_EINVAL,
                       "a picture of %u x %u pixels, format %d; frames of the plan have %u x %u, "
                       "format %d",
                       picture->width, picture->height, (int)picture->format, p->frame_width,
                       p->frame_height, (int)p->frame_format);
    if (p->info.count > 1)
        return fv_fail(FOVEA_ENOTSUP,
                       "a plan of %u frames at a time takes no pictures; plan with "
                       "frame.count 1",
                       p->info.count);
    if (p->fallback.plan && !fv_picture_seen(picture))
        return fv_fail(FOVEA_ENOTSUP, "the CPU, on which frames go on when the device is lost, "
                                      "cannot read this picture; plan with FOVEA_DEVICE_LOST_FAIL");
    return FOVEA_OK;
}

fovea_status fovea_submit_picture(fovea_plan *p, const fovea_picture *picture,
                                  const fovea_ready *ready, const fovea_output *outs, size_t n_outs,
                                  fovea_ticket *out)
{
    const fv_run_input in = {.picture = picture, .ready = ready};
    FV_TRY(fv_require(p, "the plan"));
    FV_TRY(fv_require(picture, "the picture"));
    FV_TRY(check_picture(p, picture));
    return fv_run_submit(p, &in, outs, n_outs, out);
}

fovea_status fovea_run_picture(fovea_plan *p, const fovea_picture *picture,
                               const fovea_ready *ready, const fovea_output *outs, size_t n_outs)
{
    fovea_ticket ticket;
    FV_TRY(fovea_submit_picture(p, picture, ready, outs, n_outs, &ticket));
    return fovea_wait(p, ticket, -1);
}
