/* picture_webp.c: WebP, by libwebp. */
#include <string.h>

#ifdef CLI_WEBP
#include <webp/decode.h>
#endif

#include "cli/common/orientation.h"
#include "cli/common/picture_files.h"

enum { RIFF_HEADER = 12, CHUNK_HEADER = 8 };

#ifdef CLI_WEBP

static uint32_t four_bytes(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

struct chunk {
    const uint8_t *data;
    size_t size;
};

/* The data of the first chunk of that name from byte `at` on; of size 0 where there is none. */
static struct chunk find(const uint8_t *in, size_t size, size_t at, const char *name)
{
    while (size > at && size - at >= CHUNK_HEADER) {
        const uint8_t *p = in + at;
        size_t n = four_bytes(p + 4);
        const size_t left = size - at - CHUNK_HEADER;
        if (n > left)
            break;
        if (memcmp(p, name, 4) == 0)
            return (struct chunk){p + CHUNK_HEADER, n};
        n += n & 1 && n < left;
        at += CHUNK_HEADER + n;
    }
    return (struct chunk){in, 0};
}

static int orientation_of(const struct picture_bytes *b)
{
    const struct chunk exif = find(b->data, b->size, RIFF_HEADER, "EXIF");
    const struct chunk xmp = find(b->data, b->size, RIFF_HEADER, "XMP ");
    const int turned = orientation_of_exif(exif.data, exif.size);
    return turned != ORIENTATION_UNKNOWN ? turned : orientation_of_xmp(xmp.data, xmp.size);
}

/* ---- pixels ---- */

static uint32_t three_bytes(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

/* The first frame of an animation, in its place of a picture that is black elsewhere. */
static int read_frame(cli_image *out, const char *path, const struct picture_bytes *b)
{
    enum { FRAME_HEADER = 16 }; /* place, size, time, flags; then chunks of its own */
    static const char broken[] = "is a broken WebP";
    const struct chunk frame = find(b->data, b->size, RIFF_HEADER, "ANMF");
    if (frame.size < FRAME_HEADER)
        return picture_bad(path, broken);
    struct chunk data = find(frame.data, frame.size, FRAME_HEADER, "VP8 ");
    if (data.size == 0)
        data = find(frame.data, frame.size, FRAME_HEADER, "VP8L");
    int w = 0, h = 0;
    const size_t x = 2 * (size_t)three_bytes(frame.data),
                 y = 2 * (size_t)three_bytes(frame.data + 3);
    if (data.size == 0 || !WebPGetInfo(data.data, data.size, &w, &h) ||
        x + (size_t)w > out->width || y + (size_t)h > out->height)
        return picture_bad(path, broken);
    memset(out->rgb, 0, (size_t)out->width * out->height * 3);
    const size_t stride = (size_t)out->width * 3, first = y * stride + x * 3;
    return WebPDecodeRGBInto(data.data, data.size, out->rgb + first,
                             (size_t)out->height * stride - first, (int)stride)
               ? CLI_OK
               : picture_bad(path, broken);
}

int picture_read_webp(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    WebPBitstreamFeatures has;
    if (WebPGetFeatures(b->data, b->size, &has) != VP8_STATUS_OK)
        return picture_bad(path, "is a broken WebP");
    const uint64_t width = (uint64_t)has.width, height = (uint64_t)has.height;
    CLI_TRY(picture_begin(out, path, b, width, height, PICTURE_FLAT_PIXELS_PER_BYTE));
    *orientation = orientation_of(b);
    if (has.has_animation && four_bytes(b->data + 4) > b->size - CHUNK_HEADER)
        return picture_bad(path, "the file ends early");
    if (has.has_animation)
        return read_frame(out, path, b);
    if (!WebPDecodeRGBInto(b->data, b->size, out->rgb, (size_t)(width * height * 3), 3 * has.width))
        return picture_bad(path, "is a broken WebP, or one that ends early");
    return CLI_OK;
}

#else

int picture_read_webp(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    (void)out, (void)b, (void)orientation;
    return cli_fail(CLI_UNSUPPORTED,
                    "%s: is a WebP; this program was built without libwebp (Debian: libwebp-dev)",
                    path);
}

#endif
