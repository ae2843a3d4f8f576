/* box_crop.c: fovea_box_crop: cuts out the part of a frame around a person.
 *
 * Pixel (x, y) of the result is sampled at (x / a + left, y / b + top) of the frame. For n pixels
 * in the result and m pixels of the view along an axis, the scale a or b of that axis is (n - 1) /
 * m. The transform from the frame is rounded to single precision before it is inverted, as in
 * transformers' get_warp_matrix. Sampling is that of scipy.ndimage.affine_transform with order 1:
 * beyond the centres of the outermost pixels the result is black, and halves are rounded up. */
#include "ops/box_crop.h"

#include <math.h>

#include "ops/yuv.h"

#define GROWN 1.25f

fovea_status fv_box_view_of(fv_box_view *out, const fovea_box *box, uint32_t width, uint32_t height)
{
    double w = box->width, h = box->height;
    const double aspect = (double)width / height;
    if (!isfinite(box->x) || !isfinite(box->y) || !isfinite(w) || !isfinite(h) || w < 0 || h < 0 ||
        (w == 0 && h == 0))
        return fv_fail(
            FOVEA_EINVAL,
            "the box at %g, %g with %g x %g pixels has no area; its sides must be positive", box->x,
            box->y, w, h);
    out->middle[0] = (float)(box->x + w * 0.5);
    out->middle[1] = (float)(box->y + h * 0.5);
    if (w > aspect * h)
        h = w / aspect;
    else if (w < aspect * h)
        w = h * aspect;
    out->scale[0] = (float)(w / FV_BOX_UNIT) * GROWN;
    out->scale[1] = (float)(h / FV_BOX_UNIT) * GROWN;
    return FOVEA_OK;
}

/* ---- pixels of frames ---- */

typedef struct reader {
    const uint8_t *in;
    size_t stride;
    fovea_pixel_format format;
    fv_yuv_frame yuv;
    const fv_yuv *matrix;
} reader;

static void read_pixel(uint8_t rgb[3], const reader *r, size_t x, size_t y)
{
    const uint8_t *at = r->in + y * r->stride;
    switch (r->format) {
    case FOVEA_FORMAT_BGR8:
        rgb[0] = at[3 * x + 2];
        rgb[1] = at[3 * x + 1];
        rgb[2] = at[3 * x];
        break;
    case FOVEA_FORMAT_GRAY8:
        rgb[0] = rgb[1] = rgb[2] = at[x];
        break;
    case FOVEA_FORMAT_NV12:
    case FOVEA_FORMAT_YUYV:
        fv_yuv_pixel(rgb, &r->yuv, r->matrix, y, x);
        break;
    default:
        for (int c = 0; c < 3; c++)
            rgb[c] = at[3 * x + (size_t)c];
    }
}

static fovea_status open_reader(reader *r, const fovea_frame *frame, fovea_pixel_format format,
                                fovea_yuv_matrix yuv, uint32_t width)
{
    const size_t pairs = ((size_t)width + 1) / 2;
    const size_t row = format == FOVEA_FORMAT_YUYV    ? pairs * 4
                       : format == FOVEA_FORMAT_NV12  ? pairs * 2
                       : format == FOVEA_FORMAT_GRAY8 ? width
                                                      : (size_t)width * 3;
    size_t stride[2];
    if (format == FOVEA_FORMAT_PLANES_F32)
        return fv_fail(FOVEA_EINVAL,
                       "boxes cannot be cropped from float planes; pass 8-bit pixels");
    FV_TRY(fv_known("format", (int)format, FOVEA_FORMAT_YUYV));
    FV_TRY(fv_known("yuv", (int)yuv, FV_YUVS - 1));
    for (int i = 0; i < 1 + (format == FOVEA_FORMAT_NV12); i++) {
        FV_TRY(fv_require(frame->pixels[i], "a plane of the frame"));
        const size_t least = format == FOVEA_FORMAT_NV12 && i == 0 ? width : row;
        stride[i] = frame->stride[i] ? frame->stride[i] : least;
        if (stride[i] < least)
            return fv_fail(FOVEA_EINVAL, "the stride of plane %d is %zu bytes, but a row has %zu",
                           i, stride[i], least);
    }
    *r = (reader){frame->pixels[0], stride[0], format, {0}, &fv_yuv_table[yuv]};
    if (format == FOVEA_FORMAT_NV12)
        r->yuv =
            fv_yuv_frame_of(FV_FLAG_NV12, frame->pixels[0], stride[0], frame->pixels[1], stride[1]);
    else
        r->yuv = fv_yuv_frame_of(0, frame->pixels[0], stride[0], NULL, 0);
    return FOVEA_OK;
}

/* ---- sampling ---- */

/* Sampling along one axis: pixel i of the result is sampled at position step * i + first of the
 * frame. */
typedef struct side {
    double step, first;
    uint32_t size; /* pixels of the frame along the axis */
} side;

/* Makes the sampling of an axis that has `size` pixels in the frame and `out` pixels in the result.
 */
static side side_of(float middle, float scale, uint32_t size, uint32_t out)
{
    const float pixels = scale * FV_BOX_UNIT, doubled = middle * 2;
    const double factor = (out - 1.0) / (double)pixels;
    const float by = (float)factor;
    const float move = (float)(factor * (double)(-0.5f * doubled + 0.5f * pixels));
    const double step = 1 / (double)by;
    return (side){step, -(step * (double)move), size};
}

/* Positions are of pixel centres here, but of pixel corners in fv_box_place. */
fv_box_place fv_box_view_place(const fv_box_view *v, uint32_t width, uint32_t height)
{
    const side across = side_of(v->middle[0], v->scale[0], 1, width);
    const side down = side_of(v->middle[1], v->scale[1], 1, height);
    return (fv_box_place){across.first + 0.5 - 0.5 * across.step,
                          down.first + 0.5 - 0.5 * down.step, across.step, down.step};
}

/* The two pixels around a position along one axis, and their weights. */
typedef struct spot {
    uint32_t first, second;
    double weight[2];
} spot;

static bool find_spot(spot *out, const side *s, uint32_t i)
{
    const double at = i * s->step + s->first, below = floor(at);
    if (!(at >= 0 && at <= s->size - 1.0))
        return false;
    out->first = (uint32_t)below;
    out->second = out->first + 1 < s->size ? out->first + 1 : out->first;
    out->weight[0] = 1 - (at - below);
    out->weight[1] = 1 - out->weight[0];
    return true;
}

static void sample(uint8_t out[3], const reader *r, const spot *x, const spot *y)
{
    uint8_t p[4][3];
    read_pixel(p[0], r, x->first, y->first);
    read_pixel(p[1], r, x->second, y->first);
    read_pixel(p[2], r, x->first, y->second);
    read_pixel(p[3], r, x->second, y->second);
    for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += p[k][c] * y->weight[k / 2] * x->weight[k % 2];
        out[c] = (uint8_t)fmin(sum + 0.5, 255);
    }
}

fovea_status fovea_box_crop(const fovea_frame *frame, fovea_pixel_format format,
                            fovea_yuv_matrix yuv, uint32_t width, uint32_t height,
                            const fovea_box *box, uint8_t *out, uint32_t out_width,
                            uint32_t out_height)
{
    reader r;
    fv_box_view view;
    FV_TRY(fv_require(frame, "the frame"));
    FV_TRY(fv_require(box, "the box"));
    FV_TRY(fv_require(out, "the pointer to the crop"));
    if (width == 0 || height == 0 || out_width < 2 || out_height < 2)
        return fv_fail(FOVEA_EINVAL,
                       "the crop has %u x %u pixels and the frame %u x %u; sides of the crop must "
                       "be at least 2, and those of the frame at least 1",
                       out_width, out_height, width, height);
    FV_TRY(open_reader(&r, frame, format, yuv, width));
    FV_TRY(fv_box_view_of(&view, box, out_width, out_height));
    const side across = side_of(view.middle[0], view.scale[0], width, out_width);
    const side down = side_of(view.middle[1], view.scale[1], height, out_height);
    for (uint32_t y = 0; y < out_height; y++) {
        spot row, column;
        const bool seen = find_spot(&row, &down, y);
        for (uint32_t x = 0; x < out_width; x++, out += 3) {
            if (seen && find_spot(&column, &across, x))
                sample(out, &r, &column, &row);
            else
                out[0] = out[1] = out[2] = 0;
        }
    }
    return FOVEA_OK;
}
