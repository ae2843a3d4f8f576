/* segmentation.h: a linear segmentation head on the token features of any family, which computes
 * logits per patch. */
#ifndef FOVEA_SRC_MODELS_SEGMENTATION_H
#define FOVEA_SRC_MODELS_SEGMENTATION_H

#include "graph/emit.h"
#include "models/model.h"

/* Reads m->segmentation if there is a head: from segmentation.safetensors in the model's folder, or
 * else from `source`. Its tensors are "segmentation_head.{weight,bias}" or mmsegmentation's
 * "decode_head.conv_seg.". A batch normalisation of its input ("decode_head.bn." or ".norm.") is
 * folded into it. The head reads the last of the family's n stages that has the right width.
 * `config` is for messages. The caller need not list the output `segmentation`. */
fovea_status fv_segmentation_read(fovea_model *m, const struct fv_source *source,
                                  const char *config, const uint32_t *widths, uint32_t n);

/* Returns whether stage `stage` is the head's stage and the head's output is requested. */
bool fv_segmentation_wants(const fovea_model *m, const fv_builder *b, uint32_t stage);
/* Emits the head's step if fv_segmentation_wants. `in` has a row for every token of the grid,
 * without the prefix. */
void fv_segmentation_emit(const fovea_model *m, fv_builder *b, uint32_t stage, fv_view in,
                          const fv_grid *grid);

#endif
