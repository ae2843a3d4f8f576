/* orientation.h: how the camera was held, as EXIF tells it, and pictures turned upright by it.
 *
 * Orientations are EXIF's: 1 upright, 2 to 4 mirrored or upside down, 5 to 8 with rows and columns
 * exchanged.
 */
#ifndef FOVEA_CLI_ORIENTATION_H
#define FOVEA_CLI_ORIENTATION_H

#include "cli/common/cli.h"

enum { ORIENTATION_UPRIGHT = 1 };

/* Of EXIF's own data, which is a TIFF file, and of all bytes of a JPEG; upright where nothing that
 * can be read says otherwise. */
int orientation_of_exif(const uint8_t *data, size_t size);
int orientation_of_jpeg(const uint8_t *data, size_t size);
/* Turns a picture of `channels` bytes per pixel upright; false: no memory. */
bool orientation_apply(cli_image *image, size_t channels, int orientation);

#endif
