/* resize_bytes.h: resizes a picture in host memory by one resize of a plan's preprocessing. */
#ifndef FOVEA_SRC_RUN_RESIZE_BYTES_H
#define FOVEA_SRC_RUN_RESIZE_BYTES_H

#include "ops/preprocess.h"

/* Resizes R, G, B pixels, `width` per row and with a row stride of `stride` bytes, to r->width x
 * r->height packed pixels. `wide` is a buffer of r->in_rows rows of r->width pixels. */
void fv_resize_bytes(uint8_t *out, uint8_t *wide, const fv_picture_resize *r, const uint8_t *in,
                     uint32_t width, uint32_t stride);

#endif
