/* layout.c: converts frames of any layout to a format that plans read. */
#include "device/layout.h"

#include "base/abi.h"
#include "ops/yuv.h"

enum { MAX_SIDE = 65535 };

/* ---- the layouts ---- */

#define COMPONENTS(p0, s0, o0, p1, s1, o1, p2, s2, o2)                                             \
    .component[0] = {p0, s0, o0}, .component[1] = {p1, s1, o1}, .component[2] = {p2, s2, o2}
#define RGB(name, plan, step, r, g, b)                                                             \
    name, FV_LAYOUT_RGB, plan, 1, 8, 0, 0, COMPONENTS(0, step, r, 0, step, g, 0, step, b)
#define GBR(name, bits, step)                                                                      \
    name, FV_LAYOUT_RGB, FOVEA_FORMAT_RGB8, 3, bits, 0, 0,                                         \
        COMPONENTS(2, step, 0, 0, step, 0, 1, step, 0)
#define GREY(name, bits, step)                                                                     \
    name, FV_LAYOUT_GREY, FOVEA_FORMAT_GRAY8, 1, bits, 0, 0, .component[0] = {0, step, 0}
#define PACKED(name, y, u, v)                                                                      \
    name, FV_LAYOUT_YUV, FOVEA_FORMAT_YUYV, 1, 8, 1, 0, COMPONENTS(0, 2, y, 0, 4, u, 0, 4, v)
/* A layout with a plane of Y and a plane of U, V pairs; samples have `step` bytes. */
#define PAIRS(name, plan, bits, step, right, down, u, v)                                           \
    name, FV_LAYOUT_YUV, plan, 2, bits, right, down,                                               \
        COMPONENTS(0, step, 0, 1, 2 * step, u, 1, 2 * step, v)
/* A layout with three planes; `u` and `v` are the numbers of the planes U and V. */
#define PLANES(name, plan, bits, step, right, down, u, v)                                          \
    name, FV_LAYOUT_YUV, plan, 3, bits, right, down, COMPONENTS(0, step, 0, u, step, 0, v, step, 0)
#define I420(name, bits, step) PLANES(name, FOVEA_FORMAT_NV12, bits, step, 1, 1, 1, 2)
#define I422(name, bits, step) PLANES(name, FOVEA_FORMAT_YUYV, bits, step, 1, 0, 1, 2)
#define I444(name, bits, step) PLANES(name, FOVEA_FORMAT_RGB8, bits, step, 0, 0, 1, 2)

const fv_layout fv_layouts[FV_LAYOUTS] = {
    [FOVEA_LAYOUT_RGB24] = {RGB("rgb24", FOVEA_FORMAT_RGB8, 3, 0, 1, 2)},
    [FOVEA_LAYOUT_BGR24] = {RGB("bgr24", FOVEA_FORMAT_BGR8, 3, 2, 1, 0)},
    [FOVEA_LAYOUT_RGB0] = {RGB("rgb0", FOVEA_FORMAT_RGB8, 4, 0, 1, 2)},
    [FOVEA_LAYOUT_BGR0] = {RGB("bgr0", FOVEA_FORMAT_RGB8, 4, 2, 1, 0)},
    [FOVEA_LAYOUT_0RGB] = {RGB("0rgb", FOVEA_FORMAT_RGB8, 4, 1, 2, 3)},
    [FOVEA_LAYOUT_0BGR] = {RGB("0bgr", FOVEA_FORMAT_RGB8, 4, 3, 2, 1)},
    [FOVEA_LAYOUT_GBRP] = {GBR("gbrp", 8, 1)},
    [FOVEA_LAYOUT_GBRP10] = {GBR("gbrp10le", 10, 2)},
    [FOVEA_LAYOUT_GRAY] = {GREY("gray", 8, 1)},
    [FOVEA_LAYOUT_GRAY10] = {GREY("gray10le", 10, 2)},
    [FOVEA_LAYOUT_GRAY12] = {GREY("gray12le", 12, 2)},
    [FOVEA_LAYOUT_GRAY16] = {GREY("gray16le", 16, 2)},
    [FOVEA_LAYOUT_YUYV422] = {PACKED("yuyv422", 0, 1, 3)},
    [FOVEA_LAYOUT_UYVY422] = {PACKED("uyvy422", 1, 0, 2)},
    [FOVEA_LAYOUT_YVYU422] = {PACKED("yvyu422", 0, 3, 1)},
    [FOVEA_LAYOUT_NV12] = {PAIRS("nv12", FOVEA_FORMAT_NV12, 8, 1, 1, 1, 0, 1)},
    [FOVEA_LAYOUT_NV21] = {PAIRS("nv21", FOVEA_FORMAT_NV12, 8, 1, 1, 1, 1, 0)},
    [FOVEA_LAYOUT_P010] = {PAIRS("p010le", FOVEA_FORMAT_NV12, 16, 2, 1, 1, 0, 2)},
    [FOVEA_LAYOUT_NV16] = {PAIRS("nv16", FOVEA_FORMAT_YUYV, 8, 1, 1, 0, 0, 1)},
    [FOVEA_LAYOUT_NV24] = {PAIRS("nv24", FOVEA_FORMAT_RGB8, 8, 1, 0, 0, 0, 1)},
    [FOVEA_LAYOUT_I420] = {I420("yuv420p", 8, 1)},
    [FOVEA_LAYOUT_YV12] = {PLANES("yvu420p", FOVEA_FORMAT_NV12, 8, 1, 1, 1, 2, 1)},
    [FOVEA_LAYOUT_I420P10] = {I420("yuv420p10le", 10, 2)},
    [FOVEA_LAYOUT_I420P12] = {I420("yuv420p12le", 12, 2)},
    [FOVEA_LAYOUT_I420P16] = {I420("yuv420p16le", 16, 2)},
    [FOVEA_LAYOUT_I422] = {I422("yuv422p", 8, 1)},
    [FOVEA_LAYOUT_I422P10] = {I422("yuv422p10le", 10, 2)},
    [FOVEA_LAYOUT_I422P12] = {I422("yuv422p12le", 12, 2)},
    [FOVEA_LAYOUT_I422P16] = {I422("yuv422p16le", 16, 2)},
    [FOVEA_LAYOUT_I444] = {I444("yuv444p", 8, 1)},
    [FOVEA_LAYOUT_I444P10] = {I444("yuv444p10le", 10, 2)},
    [FOVEA_LAYOUT_I444P12] = {I444("yuv444p12le", 12, 2)},
    [FOVEA_LAYOUT_I444P16] = {I444("yuv444p16le", 16, 2)},
    [FOVEA_LAYOUT_I411] = {PLANES("yuv411p", FOVEA_FORMAT_YUYV, 8, 1, 2, 0, 1, 2)},
};

const char *fovea_layout_name(size_t index)
{
    return index < FV_LAYOUTS ? fv_layouts[index].name : NULL;
}

/* ---- components that are read in place, and components that are converted ---- */

/* The conversion of one frame. */
typedef struct job {
    const fv_layout *layout;
    const fv_yuv *rule;
    size_t width, height;
    bool full;
} job;

static size_t shifted(size_t n, unsigned by)
{
    return (n + ((size_t)1 << by) - 1) >> by;
}

/* Returns the number of components of the frame: grey has one. */
static int components(const fv_layout *l)
{
    return l->kind == FV_LAYOUT_GREY ? 1 : 3;
}

static size_t across(const job *j, int component)
{
    return component ? shifted(j->width, j->layout->right) : j->width;
}

static size_t lines(const job *j, int component)
{
    return component ? shifted(j->height, j->layout->down) : j->height;
}

/* Returns whether plans can read the frame without conversion: the whole frame, or its luma. */
static bool all_as_is(const job *j)
{
    const fv_layout *l = j->layout;
    switch (l - fv_layouts) {
    case FOVEA_LAYOUT_RGB24:
    case FOVEA_LAYOUT_BGR24:
    case FOVEA_LAYOUT_YUYV422:
    case FOVEA_LAYOUT_NV12:
        return true;
    case FOVEA_LAYOUT_GRAY:
        return j->full;
    default:
        return false;
    }
}

static bool luma_as_is(const job *j)
{
    return j->layout->format == FOVEA_FORMAT_NV12 && j->layout->bits == 8;
}

static size_t buffer_size_of(const job *j)
{
    const size_t pairs = shifted(j->width, 1);
    if (all_as_is(j))
        return 0;
    switch (j->layout->format) {
    case FOVEA_FORMAT_NV12:
        return (luma_as_is(j) ? 0 : j->width * j->height) + 2 * pairs * shifted(j->height, 1);
    case FOVEA_FORMAT_YUYV:
        return 4 * pairs * j->height;
    case FOVEA_FORMAT_GRAY8:
        return j->width * j->height;
    default:
        return 3 * j->width * j->height;
    }
}

static fovea_status begin(job *j, fovea_layout layout, uint32_t width, uint32_t height,
                          fovea_yuv_matrix yuv)
{
    FV_TRY(fv_known("layout", (int)layout, FV_LAYOUTS - 1));
    FV_TRY(fv_known("yuv", (int)yuv, FV_YUVS - 1));
    if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE)
        return fv_fail(FOVEA_EINVAL, "the frame has %u x %u pixels; sides must be from 1 to %d",
                       width, height, MAX_SIDE);
    *j = (job){.layout = &fv_layouts[layout],
               .rule = &fv_yuv_table[yuv],
               .width = width,
               .height = height,
               .full = fv_yuv_table[yuv].black == 0};
    return FOVEA_OK;
}

static void shape(const job *j, uint32_t rows[3], size_t bytes[3])
{
    const fv_layout *l = j->layout;
    for (int c = 0; c < components(l); c++) {
        const fv_component *of = &l->component[c];
        const size_t row = across(j, c) * of->step;
        rows[of->plane] = (uint32_t)lines(j, c);
        bytes[of->plane] = row > bytes[of->plane] ? row : bytes[of->plane];
    }
}

fovea_status fovea_layout_query(fovea_layout layout, uint32_t width, uint32_t height,
                                fovea_yuv_matrix yuv, fovea_layout_info *out)
{
    fovea_layout_info own = FOVEA_LAYOUT_INFO_INIT;
    job j = {NULL};
    FV_TRY(fv_require(out, "the pointer to the layout"));
    FV_TRY(begin(&j, layout, width, height, yuv));
    own.name = j.layout->name;
    own.format = j.layout->format;
    own.planes = j.layout->planes;
    own.buffer_size = buffer_size_of(&j);
    shape(&j, own.rows, own.bytes);
    return FV_ABI_WRITE(out, own, FOVEA_LAYOUT_INFO_INIT);
}

/* ---- samples ---- */

/* Converts `n` samples to bytes, with a stride of `to_step` bytes; samples of more bits are
 * rounded. Callers pass common steps as constants, so that the compiler vectorises these loops. */
static inline void narrow(uint8_t *restrict to, size_t to_step, const uint8_t *restrict from,
                          size_t step, unsigned bits, size_t n)
{
    const unsigned half = bits > 8 ? 1u << (bits - 9) : 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = from + i * step;
        const unsigned v = bits > 8 ? (at[0] | (unsigned)at[1] << 8) + half : at[0];
        to[i * to_step] = (uint8_t)(v >> bits ? UINT8_MAX : v >> (bits - 8));
    }
}

static void take(uint8_t *to, size_t to_step, const uint8_t *from, size_t step, unsigned bits,
                 size_t n)
{
    const bool bytes = bits == 8;
    if (bytes && step == 1 && to_step == 1)
        narrow(to, 1, from, 1, 8, n);
    else if (bytes && step == 1 && to_step == 2)
        narrow(to, 2, from, 1, 8, n);
    else if (bytes && step == 2 && to_step == 1)
        narrow(to, 1, from, 2, 8, n);
    else if (bytes)
        narrow(to, to_step, from, step, 8, n);
    else if (step == 2 && to_step == 1)
        narrow(to, 1, from, 2, bits, n);
    else
        narrow(to, to_step, from, step, bits, n);
}

/* Returns the first sample of a component in line y of that component. */
static const uint8_t *row_of(const job *j, const fovea_frame *in, int component, size_t y)
{
    const fv_component *c = &j->layout->component[component];
    return (const uint8_t *)in->pixels[c->plane] + y * in->stride[c->plane] + c->offset;
}

static void take_line(uint8_t *to, size_t to_step, const job *j, const fovea_frame *in,
                      int component, size_t y, size_t x, size_t n)
{
    const size_t step = j->layout->component[component].step;
    take(to, to_step, row_of(j, in, component, y) + x * step, step, j->layout->bits, n);
}

/* ---- formats ---- */

static void make_nv12(fovea_frame *out, const job *j, const fovea_frame *in, uint8_t *buffer)
{
    const size_t pairs = across(j, 1), luma = j->width * j->height;
    uint8_t *chroma = buffer + (luma_as_is(j) ? 0 : luma);
    *out = (fovea_frame){{in->pixels[0], chroma}, {in->stride[0], 2 * pairs}};
    if (!luma_as_is(j)) {
        out->pixels[0] = buffer;
        out->stride[0] = j->width;
        for (size_t y = 0; y < j->height; y++)
            take_line(buffer + y * j->width, 1, j, in, 0, y, 0, j->width);
    }
    for (size_t y = 0; y < lines(j, 1); y++)
        for (int c = 1; c < 3; c++)
            take_line(chroma + y * 2 * pairs + c - 1, 2, j, in, c, y, 0, pairs);
}

static void make_yuyv(fovea_frame *out, const job *j, const fovea_frame *in, uint8_t *buffer)
{
    const size_t pairs = shifted(j->width, 1), row = 4 * pairs;
    *out = (fovea_frame){{buffer}, {row}};
    for (size_t y = 0; y < j->height; y++) {
        uint8_t *to = buffer + y * row;
        take_line(to, 2, j, in, 0, y, 0, j->width);
        if (j->width % 2)
            to[row - 2] = to[row - 4];
        for (int c = 1; c < 3; c++) {
            uint8_t *chroma = to + 2 * c - 1;
            take_line(chroma, 4, j, in, c, y, 0, across(j, c));
            for (size_t i = pairs; j->layout->right == 2 && i-- > 0;)
                chroma[4 * i] = chroma[4 * (i / 2)];
        }
    }
}

static void make_rgb(fovea_frame *out, const job *j, const fovea_frame *in, uint8_t *buffer)
{
    enum { RUN = 256 };
    const fv_yuv rule = *j->rule;
    uint8_t line[3][RUN];
    *out = (fovea_frame){{buffer}, {3 * j->width}};
    for (size_t y = 0; y < j->height; y++)
        for (size_t x = 0; x < j->width; x += RUN) {
            const size_t n = j->width - x < RUN ? j->width - x : RUN;
            uint8_t *to = buffer + (y * j->width + x) * 3;
            for (int c = 0; c < 3; c++)
                take_line(line[c], 1, j, in, c, y, x, n);
            for (size_t i = 0; i < n && j->layout->kind == FV_LAYOUT_YUV; i++)
                fv_yuv_rgb(to + 3 * i, &rule, line[0][i], line[1][i], line[2][i]);
            for (size_t i = 0; i < n && j->layout->kind == FV_LAYOUT_RGB; i++)
                for (int c = 0; c < 3; c++)
                    to[3 * i + (size_t)c] = line[c][i];
        }
}

static void make_grey(fovea_frame *out, const job *j, const fovea_frame *in, uint8_t *buffer)
{
    *out = (fovea_frame){{buffer}, {j->width}};
    for (size_t y = 0; y < j->height; y++) {
        uint8_t *to = buffer + y * j->width;
        take_line(to, 1, j, in, 0, y, 0, j->width);
        for (size_t x = 0; x < j->width && !j->full; x++)
            to[x] = fv_yuv_grey(j->rule, to[x]);
    }
}

static fovea_status complete(fovea_frame *own, const job *j, const fovea_frame *in)
{
    uint32_t rows[3];
    size_t bytes[3] = {0};
    shape(j, rows, bytes);
    *own = *in;
    for (uint32_t p = 0; p < j->layout->planes; p++) {
        if (!in->pixels[p])
            return fv_fail(FOVEA_EINVAL, "the frame is %s, but pixels[%u] is NULL", j->layout->name,
                           p);
        if (!in->stride[p])
            own->stride[p] = bytes[p];
        if (own->stride[p] < bytes[p])
            return fv_fail(FOVEA_EINVAL, "stride[%u] is %zu bytes, but a row of %s has %zu", p,
                           in->stride[p], j->layout->name, bytes[p]);
    }
    return FOVEA_OK;
}

fovea_status fovea_layout_convert(fovea_frame *out, const fovea_frame *in, fovea_layout layout,
                                  uint32_t width, uint32_t height, fovea_yuv_matrix yuv,
                                  void *buffer, size_t size)
{
    job j = {NULL};
    fovea_frame from;
    FV_TRY(fv_require(out, "the pointer to the frame"));
    FV_TRY(fv_require(in, "the frame"));
    FV_TRY(begin(&j, layout, width, height, yuv));
    FV_TRY(complete(&from, &j, in));
    if (buffer_size_of(&j) > size || (buffer_size_of(&j) && !buffer))
        return fv_fail(FOVEA_EINVAL, "the buffer has %zu bytes, but a frame of %s needs %zu", size,
                       j.layout->name, buffer_size_of(&j));
    if (all_as_is(&j))
        *out = from;
    else if (j.layout->format == FOVEA_FORMAT_NV12)
        make_nv12(out, &j, &from, buffer);
    else if (j.layout->format == FOVEA_FORMAT_YUYV)
        make_yuyv(out, &j, &from, buffer);
    else if (j.layout->format == FOVEA_FORMAT_GRAY8)
        make_grey(out, &j, &from, buffer);
    else
        make_rgb(out, &j, &from, buffer);
    return FOVEA_OK;
}
