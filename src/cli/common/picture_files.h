/* picture_files.h: readers of picture files in memory, for images.c. They return an exit code, and
 * with CLI_OK the pixels as the file has them: `orientation`, EXIF's, is left to the caller. */
#ifndef FOVEA_CLI_PICTURE_FILES_H
#define FOVEA_CLI_PICTURE_FILES_H

#include "cli/common/cli.h"

struct picture_bytes {
    uint8_t *data;
    size_t size, at;
};

/* "path: what"; returns CLI_INPUT. */
int picture_bad(const char *path, const char *what);
/* Makes room for the pixels that the header speaks of; `pixels_per_byte`: how many a byte of a
 * valid file can stand for. */
int picture_begin(cli_image *out, const char *path, const struct picture_bytes *b, uint64_t width,
                  uint64_t height, uint64_t pixels_per_byte);

/* WebP and TIFF have no such bound for areas of one colour; this one lets 2^28 pixels of a KiB be,
 * and keeps a few bytes from claiming them. */
#define PICTURE_FLAT_PIXELS_PER_BYTE (UINT64_C(1) << 18)

bool picture_is_webp(const struct picture_bytes *b);
int picture_read_webp(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation);
/* The first picture of the file. */
bool picture_is_tiff(const struct picture_bytes *b);
int picture_read_tiff(cli_image *out, const char *path, const struct picture_bytes *b,
                      int *orientation);
/* 24 or 32 bits per pixel, not compressed. */
bool picture_is_bmp(const struct picture_bytes *b);
int picture_read_bmp(cli_image *out, const char *path, const struct picture_bytes *b);

#endif
