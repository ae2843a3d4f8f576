/* yuv_choose.c: chooses the matrix and range of luma and chroma by the rule of video.h. */
#include <fovea/video.h>
#include <stdbool.h>

#include "base/abi.h"
#include "device/layout.h"

enum { HD = 720 }; /* minimum lines of HD video */

static fovea_coefficients coefficients_of(const fovea_colours *c, const fv_layout *l)
{
    const bool bytes = l->bits == 8;
    const bool centred = c->siting == FOVEA_SITING_UNKNOWN || c->siting == FOVEA_SITING_CENTRE;
    const bool jpeg = c->origin == FOVEA_ORIGIN_JPEG || (c->origin == FOVEA_ORIGIN_VIDEO && bytes &&
                                                         centred && c->range == FOVEA_RANGE_FULL);
    if (c->coefficients != FOVEA_COEFFICIENTS_UNKNOWN)
        return c->coefficients;
    if (jpeg || c->origin == FOVEA_ORIGIN_CAMERA ||
        (bytes && l->kind == FV_LAYOUT_YUV && !l->right))
        return FOVEA_COEFFICIENTS_601;
    return c->height >= HD ? FOVEA_COEFFICIENTS_709 : FOVEA_COEFFICIENTS_601;
}

static bool is_full(const fovea_colours *c, const fv_layout *l)
{
    if (c->range != FOVEA_RANGE_UNKNOWN)
        return c->range == FOVEA_RANGE_FULL;
    return c->origin == FOVEA_ORIGIN_JPEG || l->kind == FV_LAYOUT_GREY;
}

fovea_status fovea_yuv_matrix_choose(fovea_yuv_matrix *out, const fovea_colours *colours)
{
    static const fovea_yuv_matrix limited[] = {[FOVEA_COEFFICIENTS_601] = FOVEA_YUV_601,
                                               [FOVEA_COEFFICIENTS_709] = FOVEA_YUV_709,
                                               [FOVEA_COEFFICIENTS_2020] = FOVEA_YUV_2020};
    static const fovea_yuv_matrix full[] = {[FOVEA_COEFFICIENTS_601] = FOVEA_YUV_601_FULL,
                                            [FOVEA_COEFFICIENTS_709] = FOVEA_YUV_709_FULL,
                                            [FOVEA_COEFFICIENTS_2020] = FOVEA_YUV_2020_FULL};
    fovea_colours c = FOVEA_COLOURS_INIT;
    FV_TRY(fv_require(out, "the pointer to the rule of colours"));
    FV_TRY(fv_require(colours, "the colours"));
    FV_TRY(FV_ABI_READ(c, colours, FOVEA_COLOURS_INIT));
    FV_TRY(fv_known("coefficients", (int)c.coefficients, FOVEA_COEFFICIENTS_2020));
    FV_TRY(fv_known("range", (int)c.range, FOVEA_RANGE_FULL));
    FV_TRY(fv_known("siting", (int)c.siting, FOVEA_SITING_TOP_LEFT));
    FV_TRY(fv_known("origin", (int)c.origin, FOVEA_ORIGIN_JPEG));
    FV_TRY(fv_known("layout", (int)c.layout, FV_LAYOUTS - 1));
    const fv_layout *l = &fv_layouts[c.layout];
    const fovea_coefficients by = coefficients_of(&c, l);
    *out = l->kind == FV_LAYOUT_RGB ? FOVEA_YUV_601_FULL : is_full(&c, l) ? full[by] : limited[by];
    return FOVEA_OK;
}
