/* picture_webp.c: reads WebP with libwebp. */
#include <string.h>

#ifdef CLI_WEBP
#include <webp/decode.h>
#endif

#include "cli/picture/orientation.h"
#include "cli/picture/picture_files.h"

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

/* Finds the first chunk with that name, from byte `at` on. Returns its data, with size 0 if there
 * is none. */
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

/* Decodes a picture without animation into `out`, with its first pixel at (x, y). */
static bool decode(const cli_image *out, size_t x, size_t y, const uint8_t *data, size_t size,
                   bool alpha)
{
    const size_t stride = (size_t)out->width * 3, first = y * stride + x * 3;
    int width, height;
    if (!alpha || !picture_on_white)
        return WebPDecodeRGBInto(data, size, out->rgb + first, (size_t)out->height * stride - first,
                                 (int)stride) != NULL;
    uint8_t *rgba = WebPDecodeRGBA(data, size, &width, &height);
    for (int i = 0; rgba && i < width * height; i++)
        picture_put(out->rgb + first + (size_t)(i / width) * stride + (size_t)(i % width) * 3,
                    rgba + 4 * (size_t)i, rgba[4 * (size_t)i + 3]);
    WebPFree(rgba);
    return rgba != NULL;
}

/* Decodes the first frame of an animation to its position in an otherwise transparent picture. */
static bool decode_frame(const cli_image *out, const struct picture_bytes *b)
{
    /* bytes of position, size, time and flags; chunks of the frame follow */
    enum { FRAME_HEADER = 16 };
    WebPBitstreamFeatures has;
    const struct chunk frame = find(b->data, b->size, RIFF_HEADER, "ANMF");
    if (frame.size < FRAME_HEADER)
        return false;
    const uint8_t *data = frame.data + FRAME_HEADER;
    const size_t size = frame.size - FRAME_HEADER;
    const size_t x = 2 * (size_t)three_bytes(frame.data);
    const size_t y = 2 * (size_t)three_bytes(frame.data + 3);
    if (WebPGetFeatures(data, size, &has) != VP8_STATUS_OK || x + (size_t)has.width > out->width ||
        y + (size_t)has.height > out->height)
        return false;
    memset(out->rgb, picture_on_white ? 255 : 0, (size_t)out->width * out->height * 3);
    return decode(out, x, y, data, size, has.has_alpha);
}

int picture_read_webp(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    WebPBitstreamFeatures has;
    if (WebPGetFeatures(b->data, b->size, &has) != VP8_STATUS_OK)
        return picture_bad(path, "this WebP is broken");
    if (has.has_animation && four_bytes(b->data + 4) > b->size - CHUNK_HEADER)
        return picture_bad(path, "the file ends early");
    CLI_TRY(picture_begin(out, path, b, (uint64_t)has.width, (uint64_t)has.height,
                          PICTURE_FLAT_PIXELS_PER_BYTE));
    *orientation = orientation_of(b);
    const bool read = has.has_animation ? decode_frame(out, b)
                                        : decode(out, 0, 0, b->data, b->size, has.has_alpha);
    return read ? CLI_OK : picture_bad(path, "this WebP is broken or ends early");
}

#else

int picture_read_webp(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    (void)out, (void)b, (void)orientation;
    return cli_fail(
        CLI_UNSUPPORTED,
        "%s is a WebP, but this program was built without libwebp (Debian: libwebp-dev)", path);
}

#endif
