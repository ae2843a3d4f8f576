/* picture_bmp.c: reads BMP of every depth, with a palette, bit fields or run-length encoding, with
 * the same pixels as Pillow. */
#include <stdlib.h>
#include <string.h>

#include "cli/picture/picture_files.h"

enum { FILE_HEADER = 14, OS2_HEADER = 12, MASKS = 40 /* in files that have masks */ };
enum { RAW = 0, RLE8 = 1, RLE4 = 2, BIT_FIELDS = 3 };

struct bmp {
    const uint8_t *data;
    size_t size;
    size_t header, pixels; /* size of the second header; offset of the pixels; both in bytes */
    size_t behind;         /* offset of the first byte after the headers and the palette */
    uint64_t width, height;
    uint32_t bits, compression, colours;
    bool downwards; /* the first row is the top row */
    uint8_t palette[256][4];
    /* Byte index of R, G, B and alpha in a pixel of four bytes; -1 if there is no alpha. */
    int place[4];
    bool green6; /* with 16 bits per pixel, green has six bits instead of five */
};

static uint32_t number(const uint8_t *p, size_t bytes)
{
    uint32_t v = 0;
    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static bool is_header(size_t size)
{
    static const uint8_t known[] = {OS2_HEADER, 40, 52, 56, 64, 108, 124};
    return size < 256 && memchr(known, (int)size, sizeof known) != NULL;
}

static int read_header(struct bmp *bmp, const char *path)
{
    const uint8_t *info = bmp->data + FILE_HEADER;
    bmp->header = number(info, 4);
    bmp->pixels = number(bmp->data + 10, 4);
    bmp->behind = FILE_HEADER + bmp->header;
    if (!is_header(bmp->header))
        return cli_fail(CLI_INPUT,
                        "%s is a BMP with an unknown header of %zu bytes; convert it to PNG", path,
                        bmp->header);
    if (bmp->size < FILE_HEADER + bmp->header)
        return picture_bad(path, "the file ends early");
    if (bmp->header == OS2_HEADER) {
        bmp->width = number(info + 4, 2);
        bmp->height = number(info + 6, 2);
        bmp->bits = number(info + 10, 2);
    } else {
        const uint32_t height = number(info + 8, 4);
        bmp->downwards = height >> 24 == 0xff;
        bmp->width = number(info + 4, 4);
        bmp->height = bmp->downwards ? 0u - height : height;
        bmp->bits = number(info + 14, 2);
        bmp->compression = number(info + 16, 4);
        bmp->colours = number(info + 32, 4);
    }
    return CLI_OK;
}

static int check_kind(const struct bmp *bmp, const char *path)
{
    static const char *const names[] = {"", "RLE8", "RLE4", "bit fields", "JPEG", "PNG"};
    const uint32_t bits = bmp->bits, how = bmp->compression;
    if (how > BIT_FIELDS)
        return cli_fail(CLI_INPUT, "%s is a BMP with %s inside; convert it to PNG", path,
                        how < 6 ? names[how] : "an unknown compression");
    if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
        return cli_fail(
            CLI_INPUT,
            "%s is a BMP with %u bits per pixel; only 1, 4, 8, 16, 24 and 32 bits are supported",
            path, bits);
    if ((how == RLE8 && bits != 8) || (how == RLE4 && bits != 4) ||
        (how == BIT_FIELDS && bits < 16))
        return cli_fail(
            CLI_INPUT, "%s is a BMP with %s and %u bits per pixel, which the format does not allow",
            path, names[how], bits);
    return CLI_OK;
}

/* Finds the bytes of a pixel that the bit fields select. */
static int read_fields(struct bmp *bmp, const char *path)
{
    const uint8_t *info = bmp->data + FILE_HEADER;
    uint32_t mask[4] = {0};
    if (bmp->size < FILE_HEADER + MASKS + 12)
        return picture_bad(path, "the file ends early");
    bmp->behind += bmp->header == MASKS ? 12 : 0;
    for (int i = 0; i < 4; i++)
        if (i < 3 || bmp->header >= MASKS + 16)
            mask[i] = number(info + MASKS + 4 * i, 4);
    if (bmp->bits == 16 && mask[2] == 0x1f) {
        bmp->green6 = mask[0] == 0xf800 && mask[1] == 0x7e0;
        if (bmp->green6 || (mask[0] == 0x7c00 && mask[1] == 0x3e0))
            return CLI_OK;
    } else if (bmp->bits > 16) {
        int known = 0;
        const bool none = !(mask[0] | mask[1] | mask[2] | mask[3]); /* B, G, R and alpha */
        for (int i = 0; i < 4; i++) {
            int at = -1;
            for (int byte = 0; byte < (int)bmp->bits / 8; byte++)
                if (mask[i] == UINT32_C(0xff) << 8 * byte)
                    at = byte;
            bmp->place[i] = none ? (int[]){2, 1, 0, 3}[i] : at;
            known += i == 3 ? none || at >= 0 || !mask[3] : none || at >= 0;
        }
        if (known == 4)
            return CLI_OK;
    }
    return cli_fail(
        CLI_INPUT,
        "%s is a BMP with bit fields %x, %x, %x, %x, which are not supported; convert it to PNG",
        path, mask[0], mask[1], mask[2], mask[3]);
}

static int read_palette(struct bmp *bmp, const char *path)
{
    const size_t entry = bmp->header == OS2_HEADER ? 3 : 4, at = FILE_HEADER + bmp->header;
    const size_t colours = bmp->colours ? bmp->colours : (size_t)1 << bmp->bits;
    if (colours > 256)
        return cli_fail(CLI_INPUT,
                        "%s is a BMP with %zu colours in its palette; 1 to 256 are supported", path,
                        colours);
    bool ramp = true; /* whether each colour i is grey with value i */
    for (size_t i = 0; i < colours && bmp->size - at >= (i + 1) * entry; i++) {
        const uint8_t *from = bmp->data + at + i * entry;
        for (size_t c = 0; c < 3; c++) {
            bmp->palette[i][c] = from[2 - c];
            ramp &= from[2 - c] == i;
        }
    }
    /* If a short palette is a ramp, the ramp continues; any other palette is filled with black. */
    for (size_t i = colours; ramp && i < 256; i++)
        memset(bmp->palette[i], (int)i, 3);
    if (bmp->pixels == at)
        bmp->pixels += entry * colours;
    bmp->behind += entry * colours;
    return CLI_OK;
}

/* ---- rows ---- */

static void row_of_places(uint8_t *to, const uint8_t *from, const struct bmp *bmp)
{
    const size_t bits = bmp->bits;
    for (size_t x = 0; x < bmp->width; x++, to += 3)
        memcpy(to,
               bmp->palette[from[x * bits / 8] >> (8 - bits - x * bits % 8) & ((1u << bits) - 1)],
               3);
}

static void row_of_16(uint8_t *to, const uint8_t *from, const struct bmp *bmp)
{
    const uint32_t green = bmp->green6 ? 63 : 31;
    for (size_t x = 0; x < bmp->width; x++, from += 2, to += 3) {
        const uint32_t v = number(from, 2);
        to[0] = (uint8_t)((v >> (bmp->green6 ? 11 : 10) & 31) * 255 / 31);
        to[1] = (uint8_t)((v >> 5 & green) * 255 / green);
        to[2] = (uint8_t)((v & 31) * 255 / 31);
    }
}

static void row_of_bytes(uint8_t *to, const uint8_t *from, const struct bmp *bmp)
{
    const int *at = bmp->place;
    for (size_t x = 0; x < bmp->width; x++, from += bmp->bits / 8, to += 3) {
        const uint8_t colours[3] = {from[at[0]], from[at[1]], from[at[2]]};
        picture_put(to, colours, at[3] < 0 ? 255 : from[at[3]]);
    }
}

static uint8_t *row_of(const struct bmp *bmp, const cli_image *out, uint64_t y)
{
    return out->rgb + (bmp->downwards ? y : bmp->height - 1 - y) * bmp->width * 3;
}

static int read_raw(const struct bmp *bmp, const cli_image *out, const char *path)
{
    const uint64_t bytes = (bmp->width * bmp->bits + 7) / 8, row = (bytes + 3) / 4 * 4;
    const uint64_t all =
        (bmp->height - 1) * row + bytes; /* the padding of the last row may be missing */
    if (bmp->pixels > bmp->size || bmp->size - bmp->pixels < all)
        return picture_bad(path, "the file ends early");
    const uint8_t *from = bmp->data + bmp->pixels;
    for (uint64_t y = 0; y < bmp->height; y++, from += row)
        (bmp->bits < 16    ? row_of_places
         : bmp->bits == 16 ? row_of_16
                           : row_of_bytes)(row_of(bmp, out, y), from, bmp);
    return CLI_OK;
}

/* Decodes run-length encoding. Skipped pixels get the palette's first colour. */
static int read_runs(const struct bmp *bmp, const cli_image *out, const char *path)
{
    enum { LINE = 0, END = 1, MOVE = 2 };
    const bool half = bmp->bits == 4;
    const uint8_t *p = bmp->data + bmp->pixels;
    size_t left = bmp->pixels < bmp->size ? bmp->size - bmp->pixels : 0;
    uint64_t x = 0, y = 0;
    for (size_t i = 0; i < (size_t)(bmp->width * bmp->height); i++)
        memcpy(out->rgb + 3 * i, bmp->palette[0], 3);
    while (y < bmp->height && left >= 2) {
        const uint8_t count = p[0], what = p[1];
        size_t used = 2;
        if (!count && what == END)
            return CLI_OK;
        if (!count && what == LINE) {
            x = 0;
            y++;
        } else if (!count && what == MOVE) {
            used = 4;
            if (left >= used) {
                x += p[2];
                y += p[3];
            }
        } else {
            const size_t pixels = count ? count : what, bytes = half ? (pixels + 1) / 2 : pixels;
            used = count ? 2 : 2 + (bytes + 1) / 2 * 2;
            if (!count && left < 2 + bytes)
                break;
            for (size_t i = 0; i < pixels && x < bmp->width; i++, x++) {
                const uint8_t byte = count ? what : p[2 + (half ? i / 2 : i)];
                const uint8_t at = !half ? byte : i % 2 ? byte & 15 : byte >> 4;
                memcpy(row_of(bmp, out, y) + 3 * x, bmp->palette[at], 3);
            }
        }
        used = used < left ? used : left;
        p += used;
        left -= used;
    }
    return y + (x >= bmp->width) >= bmp->height ? CLI_OK : picture_bad(path, "the file ends early");
}

int picture_read_bmp(cli_image *out, const char *path, const struct picture_bytes *b)
{
    struct bmp bmp = {.data = b->data, .size = b->size, .place = {2, 1, 0, -1}};
    CLI_TRY(read_header(&bmp, path));
    CLI_TRY(check_kind(&bmp, path));
    if (bmp.compression == BIT_FIELDS)
        CLI_TRY(read_fields(&bmp, path));
    if (bmp.bits <= 8)
        CLI_TRY(read_palette(&bmp, path));
    bmp.pixels = bmp.pixels ? bmp.pixels : bmp.behind;
    if (bmp.pixels < FILE_HEADER + bmp.header)
        return picture_bad(path, "the pixels begin inside the header");
    /* A run of 255 pixels takes two bytes; a move skips up to 255 rows. */
    const bool runs = bmp.compression == RLE8 || bmp.compression == RLE4;
    CLI_TRY(picture_begin(out, path, b, bmp.width, bmp.height,
                          runs ? PICTURE_FLAT_PIXELS_PER_BYTE : 8));
    return runs ? read_runs(&bmp, out, path) : read_raw(&bmp, out, path);
}
