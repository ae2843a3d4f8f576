/* swin.h: what Swin and Pola-Swin share: their steps and outputs. Their roles are those of
 * polaformer.h; a Swin has only softmax blocks in windows. */
#ifndef FOVEA_SRC_MODELS_SWIN_H
#define FOVEA_SRC_MODELS_SWIN_H

#include "models/pyramid/polaformer.h"

/* ---- swin_blocks.c ---- */

/* Adds the names of the outputs. */
fovea_status fv_swin_list_outputs(const fv_pola_reader *r);
/* Refuses pictures with too many tokens. */
fovea_status fv_swin_check_grids(const fovea_model *m, fv_emit_options *o);
/* Emits the whole model. */
fovea_status fv_swin_emit(const fovea_model *m, fv_builder *b);

/* ---- synthetic checkpoints (swin_synthetic.c) ---- */

extern const struct fv_synthetic_list fv_swin_synthetics;

#endif
