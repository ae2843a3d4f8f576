/* picture.c: adapts a preprocessing rule to another size or to another library's arithmetic, and
 * resizes and crops one picture as a plan would, to show it. */
#include <math.h>
#include <string.h>

#include <fovea/crops.h>

#include "base/abi.h"
#include "base/mem.h"
#include "checkpoint/processor.h"
#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"
#include "run/resize_bytes.h"

/* Runs one pass of a resize. `ld` is the row stride of the input in elements. */
static void pass(fv_cpu_fn kernel, void *out, const void *in, enum fv_type type, uint32_t in_width,
                 uint32_t ld, const fv_resize_table *table, uint32_t rows, uint32_t width,
                 uint32_t row0)
{
    fv_args a = {.prob.dim = {rows, width, 3, in_width},
                 .prob.in = (uint8_t)type,
                 .table = table,
                 .u[0] = row0};
    fv_call c = {.rows = rows};
    a.ld[FV_RESIZE_IN] = ld;
    a.ld[FV_RESIZE_OUT] = width * 3;
    c.p[FV_RESIZE_IN] = (void *)(uintptr_t)in;
    c.p[FV_RESIZE_OUT] = out;
    kernel(&a, &c);
}

static void both_passes(void *out, void *wide, const fv_picture_resize *r, const void *in,
                        enum fv_type from, enum fv_type to, uint32_t width, uint32_t ld)
{
    pass(fv_k_resize_x_ref, wide, in, from, width, ld, &r->x, r->in_rows, r->width, r->in_row0);
    pass(fv_k_resize_y_ref, out, wide, to, r->width, r->width * 3, &r->y, r->height, r->width, 0);
}

void fv_resize_bytes(uint8_t *out, uint8_t *wide, const fv_picture_resize *r, const uint8_t *in,
                     uint32_t width, uint32_t stride)
{
    both_passes(out, wide, r, in, FV_U8, FV_U8, width, stride);
}

/* Gets the picture after resize `r`, in memory that the caller frees. */
static fovea_status resize(void **out, const fv_picture_resize *r, const void *in,
                           enum fv_type from, enum fv_type to, uint32_t width)
{
    void *wide;
    const uint64_t row = fv_size_mul(r->width, 3 * fv_type_size(to));
    FV_TRY(fv_mem_array(out, r->height, row, FV_MEM_PLAN, "a resized picture"));
    FV_TRY(fv_mem_array(&wide, r->in_rows, row, FV_MEM_PLAN, "a resized picture"));
    both_passes(*out, wide, r, in, from, to, width, width * 3);
    fv_mem_free(wide);
    return FOVEA_OK;
}

/* Copies the inner part of the picture to its place in the result, on a black background. */
static void place(uint8_t *out, const fv_picture *p, const void *in, float rescale)
{
    const size_t row = (size_t)p->inner.width * 3;
    memset(out, 0, (size_t)p->width * p->height * 3);
    for (size_t y = 0; y < p->inner.height; y++) {
        uint8_t *to = out + ((p->inner.top + y) * p->width + p->inner.left) * 3;
        if (p->floats)
            for (size_t i = 0; i < row; i++)
                to[i] = (uint8_t)fminf(
                    fmaxf(rintf(((const float *)in)[y * row + i] / rescale), 0.f), 255.f);
        else
            memcpy(to, (const uint8_t *)in + y * row, row);
    }
}

static fovea_status apply(uint8_t *out, const fv_picture *p, const uint8_t *rgb, uint32_t width,
                          float rescale)
{
    fovea_status status = FOVEA_OK;
    void *now = NULL, *next;
    for (uint32_t i = 0; i < p->resizes && status == FOVEA_OK; i++) {
        const enum fv_type to = p->floats ? FV_F32 : FV_U8;
        next = NULL;
        status = resize(&next, &p->resize[i], now ? now : rgb, now ? to : FV_U8, to, width);
        width = p->resize[i].width;
        fv_mem_free(now);
        now = next;
    }
    if (status == FOVEA_OK)
        place(out, p, now ? now : rgb, rescale);
    fv_mem_free(now);
    return status;
}

fovea_status fovea_preprocess_resize(fovea_preprocess *p, uint32_t width, uint32_t height)
{
    fovea_preprocess own = FOVEA_PREPROCESS_INIT;
    FV_TRY(FV_ABI_READ(own, p, FOVEA_PREPROCESS_INIT));
    /* A rule that pads a picture keeps the aspect ratio, unless the resize already has the exact
     * size. */
    const bool fills = own.pad == FOVEA_PAD_ZERO || own.pad == FOVEA_PAD_BLACK;
    const bool covers = own.resize == FOVEA_RESIZE_SHORT || own.resize == FOVEA_RESIZE_NONE ||
                        own.resize == FOVEA_RESIZE_COVER || own.resize == FOVEA_RESIZE_INSIDE;
    if (!covers && own.resize != FOVEA_RESIZE_BOX)
        own.resize = !fills || own.resize == FOVEA_RESIZE_EXACT           ? FOVEA_RESIZE_EXACT
                     : own.resize == FOVEA_RESIZE_LONG && width == height ? FOVEA_RESIZE_LONG
                                                                          : FOVEA_RESIZE_WITHIN;
    own.short_edge = 0;
    own.long_edge = own.resize == FOVEA_RESIZE_LONG ? width : 0;
    own.resize_width = width;
    own.resize_height = height;
    own.crop_width = covers ? width : 0;
    own.crop_height = covers ? height : 0;
    if (fills) {
        own.pad_width = width;
        own.pad_height = height;
    } else if (own.pad == FOVEA_PAD_CENTRED) {
        own.pad = FOVEA_PAD_NONE;
    }
    return FV_ABI_WRITE(p, own, FOVEA_PREPROCESS_INIT);
}

/* Crops the box of the whole picture, for FOVEA_RESIZE_BOX. */
static fovea_status crop_whole(const fovea_preprocess *p, const uint8_t *rgb, uint32_t width,
                               uint32_t height, uint8_t *out, uint32_t out_width,
                               uint32_t out_height)
{
    const fovea_frame frame = {.pixels = {rgb}};
    const fovea_box whole = {0, 0, width, height};
    if (p->resize_width != out_width || p->resize_height != out_height)
        return fv_fail(
            FOVEA_EINVAL,
            "the preprocessing gives %u x %u pixels, but the output has %u x %u; make them equal",
            p->resize_width, p->resize_height, out_width, out_height);
    return fovea_box_crop(&frame, FOVEA_FORMAT_RGB8, FOVEA_YUV_601, width, height, &whole, out,
                          out_width, out_height);
}

fovea_status fovea_preprocess_resample(fovea_preprocess *p, fovea_resample resample)
{
    fovea_preprocess own = FOVEA_PREPROCESS_INIT;
    FV_TRY(fv_require(p, "the preprocess"));
    if (resample != FOVEA_RESAMPLE_TORCHVISION && resample != FOVEA_RESAMPLE_PILLOW)
        return fv_fail(FOVEA_EINVAL,
                       "preprocess: resample is %d; to resize bytes, use "
                       "FOVEA_RESAMPLE_TORCHVISION or FOVEA_RESAMPLE_PILLOW",
                       (int)resample);
    FV_TRY(FV_ABI_READ(own, p, FOVEA_PREPROCESS_INIT));
    fv_processor_resample(&own, resample);
    return FV_ABI_WRITE(p, own, FOVEA_PREPROCESS_INIT);
}

fovea_status fovea_preprocess_apply(const fovea_preprocess *p, const uint8_t *rgb, uint32_t width,
                                    uint32_t height, uint8_t *out, uint32_t out_width,
                                    uint32_t out_height)
{
    fovea_preprocess own = FOVEA_PREPROCESS_INIT;
    fv_picture picture;
    FV_TRY(fv_require(p, "the preprocess"));
    FV_TRY(fv_require(rgb, "the picture"));
    FV_TRY(fv_require(out, "the picture's place"));
    FV_TRY(FV_ABI_READ(own, p, FOVEA_PREPROCESS_INIT));
    if (own.resize == FOVEA_RESIZE_BOX)
        return crop_whole(&own, rgb, width, height, out, out_width, out_height);
    fovea_status status = fv_picture_plan(&picture, &own, width, height);
    if (status == FOVEA_OK && (picture.width != out_width || picture.height != out_height))
        status = fv_fail(FOVEA_EINVAL,
                         "preprocessing a picture of %u x %u pixels gives %u x %u pixels, but the "
                         "output has %u x %u",
                         width, height, picture.width, picture.height, out_width, out_height);
    if (status == FOVEA_OK)
        status = apply(out, &picture, rgb, width, own.rescale != 0 ? own.rescale : 1.f / 255);
    fv_picture_free(&picture);
    return status;
}
