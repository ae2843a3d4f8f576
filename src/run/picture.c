/* picture.c: fovea_preprocess_resize and fovea_preprocess_apply: a preprocessing rule for another
 * size; one picture resized and cropped as a plan does it, to be shown. */
#include <string.h>

#include <fovea/crops.h>

#include "base/abi.h"
#include "base/mem.h"
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"

static void pass(fv_cpu_fn kernel, uint8_t *out, const uint8_t *in, uint32_t in_width,
                 const fv_resize_table *table, uint32_t rows, uint32_t width, uint32_t row0)
{
    fv_args a = {.prob.dim = {rows, width, 3, in_width}, .table = table, .u[0] = row0};
    fv_call c = {.rows = rows};
    a.ld[FV_RESIZE_IN] = in_width * 3;
    a.ld[FV_RESIZE_OUT] = width * 3;
    c.p[FV_RESIZE_IN] = (void *)(uintptr_t)in;
    c.p[FV_RESIZE_OUT] = out;
    kernel(&a, &c);
}

static fovea_status resize(uint8_t *out, const fv_picture *p, const uint8_t *rgb, uint32_t width)
{
    uint8_t *wide;
    FV_TRY(fv_mem_array(&wide, fv_size_mul(p->in_rows, p->width), 3, FV_MEM_PLAN,
                        "a resized picture"));
    pass(fv_k_resize_x_u8_ref, wide, rgb, width, &p->x, p->in_rows, p->width, p->in_row0);
    pass(fv_k_resize_y_u8_ref, out, wide, p->width, &p->y, p->height, p->width, 0);
    fv_mem_free(wide);
    return FOVEA_OK;
}

fovea_status fovea_preprocess_resize(fovea_preprocess *p, uint32_t width, uint32_t height)
{
    fovea_preprocess own = FOVEA_PREPROCESS_INIT;
    FV_TRY(FV_ABI_READ(own, p, FOVEA_PREPROCESS_INIT));
    own.short_edge = 0;
    own.resize_width = width;
    own.resize_height = height;
    const bool boxed = own.resize == FOVEA_RESIZE_BOX;
    if (own.resize == FOVEA_RESIZE_PATCHES || own.resize == FOVEA_RESIZE_FIT)
        own.resize = FOVEA_RESIZE_EXACT;
    own.crop_width = own.resize == FOVEA_RESIZE_EXACT || boxed ? 0 : width;
    own.crop_height = own.resize == FOVEA_RESIZE_EXACT || boxed ? 0 : height;
    return FV_ABI_WRITE(p, own, FOVEA_PREPROCESS_INIT);
}

/* The box of the whole picture. */
static fovea_status crop_whole(const fovea_preprocess *p, const uint8_t *rgb, uint32_t width,
                               uint32_t height, uint8_t *out, uint32_t out_width,
                               uint32_t out_height)
{
    const fovea_frame frame = {.pixels = {rgb}};
    const fovea_box whole = {0, 0, width, height};
    if (p->resize_width != out_width || p->resize_height != out_height)
        return fv_fail(FOVEA_EINVAL, "a picture becomes %u x %u, not %u x %u", p->resize_width,
                       p->resize_height, out_width, out_height);
    return fovea_box_crop(&frame, FOVEA_FORMAT_RGB8, FOVEA_YUV_601, width, height, &whole, out,
                          out_width, out_height);
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
        status = fv_fail(FOVEA_EINVAL, "a picture of %u x %u pixels becomes %u x %u, not %u x %u",
                         width, height, picture.width, picture.height, out_width, out_height);
    if (status == FOVEA_OK && picture.resample)
        status = resize(out, &picture, rgb, width);
    else if (status == FOVEA_OK)
        memcpy(out, rgb, (size_t)width * height * 3);
    fv_picture_free(&picture);
    return status;
}
