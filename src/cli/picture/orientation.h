/* orientation.h: reads the camera's orientation from EXIF or XMP, and turns pictures upright.
 *
 * Orientations have EXIF's numbers: 1 upright, 2 to 4 mirrored or upside down, 5 to 8 with rows and
 * columns exchanged.
 */
#ifndef FOVEA_CLI_ORIENTATION_H
#define FOVEA_CLI_ORIENTATION_H

#include "cli/common/cli.h"

enum { ORIENTATION_UNKNOWN = 0, ORIENTATION_UPRIGHT = 1 };

/* These functions return the orientation in EXIF data (which is a TIFF file), in the text of XMP,
 * or in a whole JPEG, where XMP is used only if EXIF has no orientation. They return
 * ORIENTATION_UNKNOWN if the data has none. An invalid number counts as upright. */
int orientation_of_exif(const uint8_t *data, size_t size);
int orientation_of_xmp(const uint8_t *text, size_t size);
int orientation_of_jpeg(const uint8_t *data, size_t size);
/* Turns a picture with `channels` bytes per pixel upright. Returns false if memory runs out. */
bool orientation_apply(cli_image *image, size_t channels, int orientation);

#endif
