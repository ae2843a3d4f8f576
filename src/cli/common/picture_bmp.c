/* picture_bmp.c: BMP as programs write it for pictures of all colours. */
#include <string.h>

#include "cli/common/picture_files.h"

enum { FILE_HEADER = 14, LEAST_HEADER = 40 };

static uint32_t number(const uint8_t *p, size_t bytes)
{
    uint32_t v = 0;
    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static int check_kind(const char *path, uint32_t bits, uint32_t compression)
{
    static const char *const names[] = {"", "RLE8", "RLE4", "bit fields", "JPEG", "PNG"};
    if (compression)
        return cli_fail(CLI_INPUT, "%s: is a BMP with %s; only those without compression are read",
                        path, compression < 6 ? names[compression] : "unknown compression");
    if (bits != 24 && bits != 32)
        return cli_fail(CLI_INPUT, "%s: is a BMP of %u bits per pixel; those of 24 and 32 are read",
                        path, bits);
    return CLI_OK;
}

int picture_read_bmp(cli_image *out, const char *path, const struct picture_bytes *b)
{
    const uint8_t *info = b->data + FILE_HEADER;
    const size_t header = number(info, 4), pixels = number(b->data + 10, 4);
    if (header < LEAST_HEADER || b->size < FILE_HEADER + header)
        return picture_bad(path, header < LEAST_HEADER ? "is a BMP with the header of OS/2 1.x"
                                                       : "the file ends early");
    const uint32_t bits = number(info + 14, 2), stored = number(info + 8, 4);
    const bool downwards = stored >> 31; /* the first row is the upper one */
    const uint64_t width = number(info + 4, 4), height = downwards ? 0u - stored : stored;
    CLI_TRY(check_kind(path, bits, number(info + 16, 4)));
    CLI_TRY(picture_begin(out, path, b, width, height, 1));
    const size_t bytes = bits / 8, row = ((size_t)width * bytes + 3) / 4 * 4;
    if (pixels < FILE_HEADER + header || pixels > b->size || (b->size - pixels) / row < height)
        return picture_bad(path, "the file ends early");
    uint8_t *to = out->rgb;
    for (size_t y = 0; y < height; y++) {
        const uint8_t *from = b->data + pixels + (downwards ? y : (size_t)height - 1 - y) * row;
        for (size_t x = 0; x < width; x++, from += bytes, to += 3) {
            to[0] = from[2];
            to[1] = from[1];
            to[2] = from[0];
        }
    }
    return CLI_OK;
}
