/* picture_files.h: readers of picture files in memory, for images.c. They return an exit code and,
 * with CLI_OK, the pixels as stored in the file. The caller applies `orientation`, a number as in
 * EXIF. */
#ifndef FOVEA_CLI_PICTURE_FILES_H
#define FOVEA_CLI_PICTURE_FILES_H

#include <string.h>

#include "cli/common/cli.h"

struct picture_bytes {
    uint8_t *data;
    size_t size, at;
};

/* The format of a file, recognised by its first bytes. */
enum picture_format {
    PICTURE_UNKNOWN,
    PICTURE_OTHER, /* a known format that cannot be read */
    PICTURE_Y4M,   /* video frames, which another file reads */
    PICTURE_JPEG,
    PICTURE_PNG,
    PICTURE_WEBP,
    PICTURE_TIFF,
    PICTURE_BMP,
    PICTURE_PNM,
};

struct picture_kind {
    enum picture_format format;
    const char *name;   /* such as "a GIF"; NULL if not known */
    const char *remedy; /* how to convert a format that cannot be read, or NULL */
};

/* number of bytes at the beginning of a file that suffice to recognise its format */
enum { PICTURE_HEAD = 256 };

bool picture_is_read(enum picture_format format); /* here */
struct picture_kind picture_recognise(const uint8_t *head, size_t size);

/* The kind of data to read from a file. The value is the number of bytes per pixel. */
enum picture_what { PICTURE_INDICES = 1, PICTURE_DEPTHS = 2, PICTURE_COLOURS = 3 };

/* Prints "PATH: WHAT" as an error, and returns CLI_INPUT. */
int picture_bad(const char *path, const char *what);
/* Allocates memory for pixels. Returns NULL if memory runs out. Large pictures use large pages
 * where the system supports them: mapping small pages takes up to a third of the time of decoding a
 * JPEG. */
uint8_t *picture_alloc(size_t bytes);
/* Allocates the pixels that the header announces. `pixels_per_byte` is the largest number of pixels
 * that a byte of a valid file can encode; larger pictures are refused as invalid. */
int picture_begin(cli_image *out, const char *path, const struct picture_bytes *b, uint64_t width,
                  uint64_t height, uint64_t pixels_per_byte);

/* Returns a * b / 255, rounded as in Pillow. */
static inline uint8_t picture_share(uint32_t a, uint32_t b)
{
    const uint32_t x = a * b + 128;
    return (uint8_t)(((x >> 8) + x) >> 8);
}

/* Clamps a number to 0 to 255, and drops the fraction. */
static inline uint8_t picture_cut(double v)
{
    return (uint8_t)(v > 0 ? v < 255 ? v : 255 : 0);
}

/* The argument of the last call of cli_images_on_white. */
extern bool picture_on_white;

/* Stores a pixel. Drops alpha, as Pillow's convert("RGB") does, or blends with white, as Pillow
 * does when it pastes on white. */
static inline void picture_put(uint8_t *to, const uint8_t *rgb, uint8_t alpha)
{
    for (int c = 0; c < 3; c++) {
        const uint32_t x = ((uint32_t)rgb[c] * alpha + 255 * (255u - alpha)) * 128 + (128 << 7);
        to[c] = picture_on_white && alpha != 255 ? (uint8_t)(((x >> 8) + x) >> 15) : rgb[c];
    }
}

/* Expands grey bytes at the beginning of `rgb` to R, G, B, in place. */
void picture_spread_grey(uint8_t *rgb, size_t pixels);

/* Reports, once per run, how grey with more than 8 bits is converted. */
void picture_tell_deep(const char *path, uint32_t bits);

/* Converts ink coverage C, M, Y, K, each from 0 to 255, to R, G, B. */
static inline void picture_cmyk(uint8_t *to, uint8_t c, uint8_t m, uint8_t y, uint8_t k)
{
    const uint8_t light = 255 - k;
    to[0] = light - picture_share(c, light);
    to[1] = light - picture_share(m, light);
    to[2] = light - picture_share(y, light);
}

/* WebP and TIFF have no upper bound for the pixels per byte, because areas of a single colour are
 * small. With this value, a file of 1 KiB can have 2^28 pixels, but a file of a few bytes
 * cannot. */
#define PICTURE_FLAT_PIXELS_PER_BYTE (UINT64_C(1) << 18)

int picture_read_jpeg(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation);
int picture_read_png(cli_image *out, const char *path, struct picture_bytes *b,
                     enum picture_what what, int *orientation);
/* Reads the first frame of an animation. */
int picture_read_webp(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation);
/* Reads the first picture of the file. */
int picture_read_tiff(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation);
int picture_read_bmp(cli_image *out, const char *path, const struct picture_bytes *b);
int picture_read_pnm(cli_image *out, const char *path, struct picture_bytes *b,
                     enum picture_what what);

#endif
