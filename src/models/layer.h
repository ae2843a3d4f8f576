/* layer.h: steps that compute a layer into rows of their own. */
#ifndef FOVEA_SRC_MODELS_LAYER_H
#define FOVEA_SRC_MODELS_LAYER_H

#include "graph/emit.h"

/* Rows act(l in); `act` is FV_EPI_* or 0. */
fv_view fv_layer_product(fv_builder *b, const char *label, const fv_layer *l, fv_view in,
                         uint32_t act, uint32_t rows);
/* res + l in. */
fv_view fv_layer_add(fv_builder *b, const char *label, const fv_layer *l, fv_view in, fv_view res,
                     uint32_t rows);
/* Writes l in to the rows `out`. */
void fv_layer_write(fv_builder *b, const char *label, const fv_layer *l, fv_view in, fv_view out,
                    uint32_t rows);
/* The norm of `in`. */
fv_view fv_layer_norm(fv_builder *b, const char *label, const fv_layer *l, fv_view in, float eps,
                      uint32_t rows);

#endif
