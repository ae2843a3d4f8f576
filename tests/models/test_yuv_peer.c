/* test_yuv_peer.c: tests that NV12 and YUYV frames give the patches of FFmpeg's swscale followed by
 * the RGB path, within 1/255, for whole frames and resized pictures.
 *
 * It runs the references of PATCH and of the two resize passes; every other kernel agrees with them
 * bit by bit (check). swscale uses exact arithmetic and nearest chroma samples. Its default
 * settings, and libyuv, differ from the standards' equations by up to 13 of 255.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <libswscale/swscale.h>

#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "ops/yuv.h"
#include "platform/cpu/cpu_kernels.h"

enum {
    SIDE = 8,
    FLAGS = SWS_POINT | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_BITEXACT
};

static void *pixels_of(size_t size)
{
    void *p = malloc(size);
    if (!p)
        abort();
    return p;
}

/* Draws waves with some noise, with amplitude `swing` around the middle. */
static void draw(uint8_t *plane, size_t stride, size_t step, size_t width, size_t height,
                 double swing, double phase)
{
    uint32_t seed = 1;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) {
            seed = seed * 1664525u + 1013904223u;
            const double wave = sin(phase + (double)x * 0.05) * cos(phase + (double)y * 0.07);
            plane[y * stride + x * step] =
                (uint8_t)(128 + (swing - 8) * wave + (seed >> 24) / 16. - 8);
        }
}

typedef struct picture {
    const char *name;
    uint32_t flags, yuv, width, height;
    uint8_t *plane[2];
    uint32_t stride[2];
    uint8_t *rgb; /* swscale's */
} picture;

/* ---- swscale ---- */

static void convert(picture *p)
{
    const int width = (int)p->width, height = (int)p->height;
    const bool nv12 = p->flags & FV_FLAG_NV12;
    static const int matrices[] = {SWS_CS_ITU601, SWS_CS_ITU709, SWS_CS_BT2020};
    const bool full = p->yuv % 2;
    const int *matrix = sws_getCoefficients(matrices[p->yuv / 2]);
    struct SwsContext *c =
        sws_getContext(width, height, nv12 ? AV_PIX_FMT_NV12 : AV_PIX_FMT_YUYV422, width, height,
                       AV_PIX_FMT_RGB24, FLAGS, NULL, NULL, NULL);
    const uint8_t *const from[] = {p->plane[0], p->plane[1]};
    const int from_stride[] = {(int)p->stride[0], (int)p->stride[1]}, stride[] = {3 * width};
    p->rgb = pixels_of((size_t)3 * p->width * p->height);
    uint8_t *const to[] = {p->rgb};
    if (!c || sws_setColorspaceDetails(c, matrix, full, matrix, 1, 0, 1 << 16, 1 << 16) < 0 ||
        sws_scale(c, from, from_stride, 0, height, to, stride) != height)
        abort();
    sws_freeContext(c);
}

/* ---- fovea ---- */

static fv_args from_frame(const picture *p, bool own, uint32_t step)
{
    fv_args a = {.prob.flags = own ? p->flags : 0, .u[3] = p->yuv};
    a.ld[0] = own ? p->stride[0] : step * p->width;
    a.ld[1] = own ? p->stride[1] : 0;
    return a;
}

/* Returns the patches of a frame, or of an RGB picture of `width` x `height`, as values from 0 to
 * 1. */
static float *patches(fv_args a, fv_call c, uint32_t width, uint32_t height, size_t *values)
{
    static const fv_patch_table plain = {.scale = {1 / 255.f, 1 / 255.f, 1 / 255.f}};
    const uint32_t across = width / SIDE, down = height / SIDE, row = 3 * SIDE * SIDE;
    const uint32_t dim[] = {across * down, row, SIDE, SIDE, 0, width, height, 0};
    for (size_t i = 0; i < sizeof dim / sizeof *dim; i++)
        a.prob.dim[i] = dim[i];
    a.u[0] = 0;
    a.u[1] = across;
    a.table = &plain;
    a.ld[FV_PATCH_OUT] = row;
    c.rows = across * down;
    c.row0 = 0;
    *values = (size_t)c.rows * row;
    float *out = c.p[FV_PATCH_OUT] = pixels_of(*values * sizeof(float));
    fv_k_patch_f32_ref(&a, &c);
    return out;
}

static uint8_t *resized(fv_args a, fv_call c, const fv_picture_resize *to, uint32_t from)
{
    uint8_t *wide = pixels_of((size_t)3 * to->width * to->in_rows);
    uint8_t *out = pixels_of((size_t)3 * to->width * to->height);
    a.prob.dim[FV_DIM_ROWS] = c.rows = to->in_rows;
    a.prob.dim[FV_RESIZE_WIDTH] = to->width;
    a.prob.dim[FV_RESIZE_CHANNELS] = 3;
    a.prob.dim[FV_RESIZE_FROM] = from;
    a.u[0] = to->in_row0;
    a.table = &to->x;
    a.ld[FV_RESIZE_OUT] = 3 * to->width;
    c.p[FV_RESIZE_OUT] = wide;
    fv_k_resize_x_ref(&a, &c);
    a.prob.flags = 0;
    a.prob.dim[FV_DIM_ROWS] = c.rows = to->height;
    a.table = &to->y;
    a.ld[FV_RESIZE_IN] = 3 * to->width;
    c.p[FV_RESIZE_IN] = wide;
    c.p[FV_RESIZE_OUT] = out;
    fv_k_resize_y_ref(&a, &c);
    free(wide);
    return out;
}

/* Returns the patches of the picture, from Fovea's or from swscale's pixels. `rule` NULL means no
 * resize. */
static float *path(const picture *p, bool own, const fovea_preprocess *rule, size_t *values)
{
    const fv_args a = from_frame(p, own, 3);
    fv_call c = {.p = {own ? p->plane[0] : p->rgb, own ? p->plane[1] : NULL}};
    fv_picture to;
    if (!rule)
        return patches(a, c, p->width, p->height, values);
    if (fv_picture_plan(&to, rule, p->width, p->height) != FOVEA_OK)
        abort();
    uint8_t *done = resized(a, c, &to.resize[0], p->width);
    const fv_args plain = {.ld = {3 * to.width}};
    c.p[0] = done;
    c.p[1] = NULL;
    float *out = patches(plain, c, to.width, to.height, values);
    fv_picture_free(&to);
    free(done);
    return out;
}

/* Returns the largest difference in steps of 1/255; *share is the fraction of values that differ.
 */
static double distance(const picture *p, const fovea_preprocess *rule, double *share)
{
    size_t n, same;
    float *got = path(p, true, rule, &n), *want = path(p, false, rule, &same);
    double worst = n == same ? 0 : 1e9;
    size_t other = 0;
    for (size_t i = 0; i < n && n == same; i++) {
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]) * 255);
        other += got[i] < want[i] || got[i] > want[i];
    }
    *share = (double)other / (double)n;
    free(got);
    free(want);
    return worst;
}

/* Draws chroma away from its limits, where the blue of a bright pixel overflows in swscale. */
static void shoot(picture *p)
{
    const bool nv12 = p->flags & FV_FLAG_NV12;
    const size_t pairs = p->width / 2, step = nv12 ? 1 : 2;
    const size_t lines = nv12 ? p->height / 2 : p->height;
    p->stride[0] = (uint32_t)(step * p->width + 6);
    p->stride[1] = nv12 ? p->width + 10 : 0;
    p->plane[0] = pixels_of((size_t)p->stride[0] * p->height);
    p->plane[1] = nv12 ? pixels_of(p->stride[1] * lines) : NULL;
    uint8_t *chroma = nv12 ? p->plane[1] : p->plane[0] + 1;
    const size_t stride = p->stride[nv12];
    draw(p->plane[0], p->stride[0], step, p->width, p->height, 127, 0.3);
    draw(chroma, stride, 2 * step, pairs, lines, 100, 1.7);
    draw(chroma + step, stride, 2 * step, pairs, lines, 100, 2.9);
    convert(p);
}

int main(void)
{
    static const picture pictures[] = {
        {"NV12 601", FV_FLAG_NV12, FOVEA_YUV_601, 640, 360},
        {"NV12 601 full", FV_FLAG_NV12, FOVEA_YUV_601_FULL, 322, 202},
        {"NV12 709", FV_FLAG_NV12, FOVEA_YUV_709, 640, 360},
        {"NV12 709 full", FV_FLAG_NV12, FOVEA_YUV_709_FULL, 640, 360},
        {"YUYV 601", FV_FLAG_YUYV, FOVEA_YUV_601, 640, 360},
        {"YUYV 601 full", FV_FLAG_YUYV, FOVEA_YUV_601_FULL, 322, 202},
        {"YUYV 709", FV_FLAG_YUYV, FOVEA_YUV_709, 640, 360},
        {"YUYV 709 full", FV_FLAG_YUYV, FOVEA_YUV_709_FULL, 640, 360},
        {"NV12 2020", FV_FLAG_NV12, FOVEA_YUV_2020, 640, 360},
        {"YUYV 2020 full", FV_FLAG_YUYV, FOVEA_YUV_2020_FULL, 640, 360},
    };
    static const fovea_preprocess half = {.struct_size = sizeof half,
                                          .resize = FOVEA_RESIZE_EXACT,
                                          .filter = FOVEA_FILTER_BILINEAR,
                                          .resize_width = 224,
                                          .resize_height = 136};
    int failed = 0, passed = 0;
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        picture p = pictures[i];
        shoot(&p);
        for (int k = 0; k < 2; k++) {
            double share;
            const double worst = distance(&p, k ? &half : NULL, &share);
            const bool good = worst <= 1.001;
            printf("%s %s%s: %.2f of 255 at most, %.1f %% differ\n", good ? "ok  " : "FAIL", p.name,
                   k ? ", resized" : "", worst, 100 * share);
            passed += good;
            failed += !good;
        }
        free(p.plane[0]);
        free(p.plane[1]);
        free(p.rgb);
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
