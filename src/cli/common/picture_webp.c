/* picture_webp.c: WebP, by libwebp. */
#include <string.h>

#ifdef CLI_WEBP
#include <webp/decode.h>
#endif

#include "cli/common/orientation.h"
#include "cli/common/picture_files.h"

enum { RIFF_HEADER = 12, CHUNK_HEADER = 8 };

#ifdef CLI_WEBP

/* Of chunk EXIF, whose data some writers begin as JPEG's. */
static int orientation_of(const struct picture_bytes *b)
{
    for (size_t at = RIFF_HEADER; b->size - at >= CHUNK_HEADER;) {
        const uint8_t *p = b->data + at, *data = p + CHUNK_HEADER;
        size_t n = p[4] | (size_t)p[5] << 8 | (size_t)p[6] << 16 | (size_t)p[7] << 24;
        const size_t left = b->size - at - CHUNK_HEADER;
        if (n > left)
            break;
        if (memcmp(p, "EXIF", 4) == 0) {
            const size_t skip = n >= 6 && memcmp(data, "Exif\0\0", 6) == 0 ? 6 : 0;
            return orientation_of_exif(data + skip, n - skip);
        }
        n += n & 1 && n < left;
        at += CHUNK_HEADER + n;
    }
    return ORIENTATION_UPRIGHT;
}

int picture_read_webp(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation)
{
    WebPBitstreamFeatures has;
    if (WebPGetFeatures(b->data, b->size, &has) != VP8_STATUS_OK)
        return picture_bad(path, "is a broken WebP");
    if (has.has_animation)
        return picture_bad(path, "is an animated WebP; ffmpeg makes a video of it");
    const uint64_t width = (uint64_t)has.width, height = (uint64_t)has.height;
    CLI_TRY(picture_begin(out, path, b, width, height, PICTURE_FLAT_PIXELS_PER_BYTE));
    if (!WebPDecodeRGBInto(b->data, b->size, out->rgb, (size_t)(width * height * 3), 3 * has.width))
        return picture_bad(path, "is a broken WebP, or one that ends early");
    *orientation = orientation_of(b);
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
