/* layer.h: emits steps that compute a layer into new rows. */
#ifndef FOVEA_SRC_MODELS_LAYER_H
#define FOVEA_SRC_MODELS_LAYER_H

#include "graph/emit.h"

/* Emits act(l in), and returns its rows; `act` is FV_EPI_* or 0. */
fv_view fv_layer_product(fv_builder *b, const char *label, const fv_layer *l, fv_view in,
                         uint32_t act, uint32_t rows);
/* Emits res + l in, and returns its rows. */
fv_view fv_layer_add(fv_builder *b, const char *label, const fv_layer *l, fv_view in, fv_view res,
                     uint32_t rows);
/* Emits l in, written to the rows `out`. */
void fv_layer_write(fv_builder *b, const char *label, const fv_layer *l, fv_view in, fv_view out,
                    uint32_t rows);
/* Emits the norm of `in`, written to the rows `out`, which may be `in`. A norm without a bias
 * divides by the root mean square and does not subtract the mean. */
void fv_layer_norm_write(fv_builder *b, const char *label, const fv_layer *l, fv_view in, float eps,
                         fv_view out, uint32_t rows);
/* Emits the same norm, and returns its rows. */
fv_view fv_layer_norm(fv_builder *b, const char *label, const fv_layer *l, fv_view in, float eps,
                      uint32_t rows);

#endif
