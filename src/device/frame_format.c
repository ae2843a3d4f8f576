/* frame_format.c: see frame_format.h. */
#include "device/frame_format.h"

uint32_t fv_frame_planes(fv_plane_shape out[FV_FRAME_PLANES], fovea_pixel_format format,
                         uint32_t width, uint32_t height)
{
    const uint32_t pairs = (width + 1) / 2;
    switch (format) {
    case FOVEA_FORMAT_PLANES_F32:
        out[0] = (fv_plane_shape){3 * height, width, FV_F32};
        return 1;
    case FOVEA_FORMAT_NV12:
        out[0] = (fv_plane_shape){height, width, FV_U8};
        out[1] = (fv_plane_shape){(height + 1) / 2, 2 * pairs, FV_U8};
        return 2;
    case FOVEA_FORMAT_YUYV:
        out[0] = (fv_plane_shape){height, 4 * pairs, FV_U8};
        return 1;
    case FOVEA_FORMAT_GRAY8:
        out[0] = (fv_plane_shape){height, width, FV_U8};
        return 1;
    case FOVEA_FORMAT_RGB8:
    case FOVEA_FORMAT_BGR8:
        break;
    }
    out[0] = (fv_plane_shape){height, 3 * width, FV_U8};
    return 1;
}
