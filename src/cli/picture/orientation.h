/* orientation.h: how the camera was held, as EXIF or XMP tell it, and pictures turned upright by
 * it.
 *
 * Orientations are EXIF's: 1 upright, 2 to 4 mirrored or upside down, 5 to 8 with rows and columns
 * exchanged.
 */
#ifndef FOVEA_CLI_ORIENTATION_H
#define FOVEA_CLI_ORIENTATION_H

#include "cli/common/cli.h"

enum { ORIENTATION_UNKNOWN = 0, ORIENTATION_UPRIGHT = 1 };

/* Of EXIF's own data, which is a TIFF file, of the text of XMP, and of all bytes of a JPEG, where
 * XMP counts if EXIF says nothing. ORIENTATION_UNKNOWN: nothing that can be read says one; what is
 * said and makes no sense is upright. */
int orientation_of_exif(const uint8_t *data, size_t size);
int orientation_of_xmp(const uint8_t *text, size_t size);
int orientation_of_jpeg(const uint8_t *data, size_t size);
/* Turns a picture of `channels` bytes per pixel upright; false: no memory. */
bool orientation_apply(cli_image *image, size_t channels, int orientation);

#endif
