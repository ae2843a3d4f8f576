/* orientation.c: how the camera was held, as EXIF tells it, and pictures turned upright by it: what
 * Pillow's exif_transpose and with it transformers' load_image do. */
#include "cli/common/orientation.h"

#include <stdlib.h>
#include <string.h>

#define TAG 0x0112
enum { ENTRY = 12 }; /* bytes of a TIFF directory's entry */

struct tiff {
    const uint8_t *data;
    size_t size;
    bool big; /* the highest byte comes first */
};

/* `bytes` bytes from `at` on, which lie in the data, as a number. */
static uint32_t number(const struct tiff *t, size_t at, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | t->data[t->big ? at + (size_t)i : at + (size_t)(bytes - 1 - i)];
    return v;
}

int orientation_of_exif(const uint8_t *data, size_t size)
{
    enum { BYTE = 1, SHORT = 3, LONG = 4 };
    struct tiff t = {data, size, size > 0 && data[0] == 'M'};
    if (size < 8 || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return ORIENTATION_UPRIGHT;
    size_t at = number(&t, 4, 4);
    if (at > size - 2)
        return ORIENTATION_UPRIGHT;
    uint32_t value = ORIENTATION_UPRIGHT, entries = number(&t, at, 2);
    for (at += 2; entries > 0 && size - at >= ENTRY; entries--, at += ENTRY) {
        const uint32_t type = number(&t, at + 2, 2);
        if (number(&t, at, 2) == TAG && (type == BYTE || type == SHORT || type == LONG))
            value = number(&t, at + 8, type == BYTE ? 1 : type == SHORT ? 2 : 4);
    }
    return value >= 1 && value <= 8 ? (int)value : ORIENTATION_UPRIGHT;
}

int orientation_of_jpeg(const uint8_t *data, size_t size)
{
    static const char exif[] = {'E', 'x', 'i', 'f', 0, 0};
    enum { BEGIN = 0xd8, END = 0xd9, SCAN = 0xda, APP1 = 0xe1, LONELY = 0x01 };
    for (size_t at = 2; at + 4 <= size && data[at] == 0xff;) {
        const uint8_t marker = data[at + 1];
        if (marker == SCAN || marker == END)
            break;
        if (marker == 0xff || marker == LONELY || (marker >= 0xd0 && marker <= BEGIN)) {
            at += marker == 0xff ? 1 : 2; /* these have no length */
            continue;
        }
        const size_t n = (size_t)data[at + 2] << 8 | data[at + 3];
        if (n < 2 || n > size - at - 2)
            break;
        if (marker == APP1 && n >= 2 + sizeof exif && memcmp(data + at + 4, exif, sizeof exif) == 0)
            return orientation_of_exif(data + at + 4 + sizeof exif, n - 2 - sizeof exif);
        at += 2 + n;
    }
    return ORIENTATION_UPRIGHT;
}

bool orientation_apply(cli_image *image, size_t channels, int orientation)
{
    const bool turned = orientation >= 5; /* columns become rows */
    const bool mirror_x = orientation == 2 || orientation == 3 || orientation >= 7;
    const bool mirror_y =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const size_t w = image->width, h = image->height;
    const size_t width = turned ? h : w, height = turned ? w : h;
    if (orientation == ORIENTATION_UPRIGHT)
        return true;
    uint8_t *out = malloc(w * h * channels), *to = out;
    if (!out)
        return false;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++, to += channels) {
            const size_t column = turned ? y : x, row = turned ? x : y;
            const size_t from_x = mirror_x ? w - 1 - column : column;
            const size_t from_y = mirror_y ? h - 1 - row : row;
            memcpy(to, image->rgb + (from_y * w + from_x) * channels, channels);
        }
    free(image->rgb);
    *image = (cli_image){(uint32_t)width, (uint32_t)height, out};
    return true;
}
