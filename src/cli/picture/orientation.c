/* orientation.c: reads the camera's orientation from EXIF or XMP, and turns pictures upright. It
 * follows Pillow's exif_transpose, which transformers' load_image uses. */
#include "cli/picture/orientation.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/picture/picture_files.h"

#define TAG 0x0112
enum { ENTRY = 12 }; /* bytes of a TIFF directory's entry */
enum { BLOCK = 64 }; /* side in pixels of the blocks in which pictures are rotated */

/* The bytes that precede EXIF data in a JPEG, and often in other formats too. */
static const char exif_begin[] = {'E', 'x', 'i', 'f', 0, 0};

struct tiff {
    const uint8_t *data;
    size_t size;
    bool big; /* big-endian */
};

/* Reads `bytes` bytes at offset `at` as a number. The caller has checked that the data is long
 * enough. */
static uint32_t number(const struct tiff *t, size_t at, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | t->data[t->big ? at + (size_t)i : at + (size_t)(bytes - 1 - i)];
    return v;
}

/* Returns the value of an entry that is a single whole number, or -1 if the entry has another type
 * or count. */
static int64_t value_of(const struct tiff *t, size_t entry)
{
    enum { BYTE = 1, SHORT = 3, LONG = 4, SIGNED_BYTE = 6, SIGNED_SHORT = 8, SIGNED_LONG = 9 };
    const uint32_t type = number(t, entry + 2, 2);
    if (number(t, entry + 4, 4) != 1)
        return -1;
    switch (type) {
    case BYTE:
    case SIGNED_BYTE:
        return number(t, entry + 8, 1);
    case SHORT:
    case SIGNED_SHORT:
        return number(t, entry + 8, 2);
    case LONG:
    case SIGNED_LONG:
        return number(t, entry + 8, 4);
    default:
        return -1;
    }
}

int orientation_of_exif(const uint8_t *data, size_t size)
{
    while (size >= sizeof exif_begin && memcmp(data, exif_begin, sizeof exif_begin) == 0) {
        data += sizeof exif_begin;
        size -= sizeof exif_begin;
    }
    struct tiff t = {data, size, size > 0 && data[0] == 'M'};
    if (size < 8 || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return ORIENTATION_UNKNOWN;
    size_t at = number(&t, 4, 4);
    if (at > size - 2)
        return ORIENTATION_UNKNOWN;
    uint32_t entries = number(&t, at, 2);
    int64_t value = ORIENTATION_UNKNOWN;
    for (at += 2; entries > 0 && size - at >= ENTRY; entries--, at += ENTRY)
        if (number(&t, at, 2) == TAG)
            value = value_of(&t, at);
    return value >= ORIENTATION_UNKNOWN && value <= 8 ? (int)value : ORIENTATION_UPRIGHT;
}

int orientation_of_xmp(const uint8_t *text, size_t size)
{
    static const char name[] = "tiff:Orientation", attribute[] = "=\"", element[] = ">";
    const size_t n = sizeof name - 1;
    for (size_t at = 0; at + n < size; at++) {
        if (memcmp(text + at, name, n) != 0)
            continue;
        const uint8_t *behind = text + at + n;
        const size_t left = size - at - n;
        const size_t skip = memcmp(behind, element, 1) == 0                 ? 1
                            : left > 2 && memcmp(behind, attribute, 2) == 0 ? 2
                                                                            : left;
        if (skip < left && behind[skip] >= '0' && behind[skip] <= '9')
            return behind[skip] >= '1' && behind[skip] <= '8' ? behind[skip] - '0'
                                                              : ORIENTATION_UPRIGHT;
    }
    return ORIENTATION_UNKNOWN;
}

static bool begins(const uint8_t *data, size_t size, const char *with, size_t n)
{
    return size >= n && memcmp(data, with, n) == 0;
}

int orientation_of_jpeg(const uint8_t *data, size_t size)
{
    /* including the terminating zero */
    static const char xmp_begin[] = "http://ns.adobe.com/xap/1.0/";
    enum { BEGIN = 0xd8, END = 0xd9, SCAN = 0xda, APP1 = 0xe1, LONELY = 0x01 };
    int exif = ORIENTATION_UNKNOWN, xmp = ORIENTATION_UNKNOWN;
    bool any_exif = false;
    for (size_t at = 2; at + 4 <= size;) {
        const uint8_t marker = data[at + 1];
        if (data[at] != 0xff || marker == 0xff || marker == 0) {
            at++; /* skips fill bytes and bytes without a meaning */
            continue;
        }
        if (marker == SCAN)
            break;
        if (marker == LONELY || (marker >= 0xd0 && marker <= END)) {
            at += 2; /* these markers have no length */
            continue;
        }
        const size_t n = (size_t)data[at + 2] << 8 | data[at + 3];
        if (n < 2 || n > size - at - 2)
            break;
        const uint8_t *segment = data + at + 4;
        if (marker == APP1 && begins(segment, n - 2, exif_begin, sizeof exif_begin) && !any_exif) {
            exif = orientation_of_exif(segment, n - 2);
            any_exif = true;
        } else if (marker == APP1 && begins(segment, n - 2, xmp_begin, sizeof xmp_begin)) {
            xmp = orientation_of_xmp(segment + sizeof xmp_begin, n - 2 - sizeof xmp_begin);
        }
        at += 2 + n;
    }
    return exif != ORIENTATION_UNKNOWN ? exif : xmp;
}

/* Copies a picture with these steps between source pixels. Works in blocks, so that source and
 * destination stay in the cache when rows and columns are exchanged. */
static inline void take(uint8_t *out, const uint8_t *from, size_t width, size_t height,
                        size_t channels, ptrdiff_t right, ptrdiff_t below)
{
    for (size_t y0 = 0; y0 < height; y0 += BLOCK)
        for (size_t x0 = 0; x0 < width; x0 += BLOCK)
            for (size_t y = y0; y < height && y < y0 + BLOCK; y++) {
                const size_t n = width - x0 < BLOCK ? width - x0 : BLOCK;
                const uint8_t *p = from + (ptrdiff_t)y * below + (ptrdiff_t)x0 * right;
                uint8_t *to = out + (y * width + x0) * channels;
                for (size_t i = 0; i < n; i++, p += right, to += channels)
                    for (size_t c = 0; c < channels; c++)
                        to[c] = p[c];
            }
}

bool orientation_apply(cli_image *image, size_t channels, int orientation)
{
    const bool turned = orientation >= 5; /* columns become rows */
    const bool mirror_x = orientation == 2 || orientation == 3 || orientation >= 7;
    const bool mirror_y =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const size_t w = image->width, h = image->height;
    const size_t width = turned ? h : w, height = turned ? w : h;
    if (orientation <= ORIENTATION_UPRIGHT)
        return true;
    uint8_t *out = picture_alloc(w * h * channels);
    if (!out)
        return false;
    /* Offset of the source pixel for the first row and column, and the steps to the next one in a
     * row and in a column. */
    const ptrdiff_t pixel = (ptrdiff_t)channels, row = (ptrdiff_t)w * pixel;
    const ptrdiff_t along = mirror_x ? -pixel : pixel, down = mirror_y ? -row : row;
    const uint8_t *from = image->rgb + (mirror_x ? (ptrdiff_t)(w - 1) * pixel : 0) +
                          (mirror_y ? (ptrdiff_t)(h - 1) * row : 0);
    const ptrdiff_t right = turned ? down : along, below = turned ? along : down;
    if (channels == 3)
        take(out, from, width, height, 3, right, below);
    else
        take(out, from, width, height, channels, right, below);
    free(image->rgb);
    *image = (cli_image){(uint32_t)width, (uint32_t)height, out};
    return true;
}
