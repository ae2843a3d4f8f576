/* dpt_head.h: a head that `fovea` trains on plain ViTs: DPT's neck on the outputs of four blocks,
 * all on the grid of the patches, and a convolution. The neck's output has twice the resolution.
 *
 *     seg_logits = conv1x1 relu(conv3x3 fused)
 *     predicted_depth = max_depth sigmoid(conv1x1 relu(conv3x3 fused))
 *
 * Its tensors begin with "dpt_head."; its neck has the names of transformers' DPT. The head
 * computes depth if the section "dpt_head" of "fovea" in config.json has "max_depth", else
 * classes. */
#ifndef FOVEA_SRC_MODELS_DPT_HEAD_H
#define FOVEA_SRC_MODELS_DPT_HEAD_H

#include "models/vit/dpt.h"
#include "models/vit/vit.h"

typedef struct fv_dpt_head {
    uint32_t tap[FV_DPT_LEVELS]; /* blocks after which rows are taken, ascending */
    fv_dpt neck;
    fv_layer conv, classify;
    fv_weight max_depth; /* absent if the head computes classes */
} fv_dpt_head;

/* Sets m->dpt_head if config.json has the section, or if the model's additions request a head; the
 * section and the tensors are then added. An existing head for classes gets the additions' number
 * of classes. */
fovea_status fv_dpt_head_read(fovea_model *m, const fv_source *source, const fv_config *config,
                              const fv_vit *v);
void fv_dpt_head_release(fovea_model *m);
const char *fv_dpt_head_output(const fv_dpt_head *h);
void fv_dpt_head_weights(const fv_dpt_head *h, fv_weight_visit *visit, void *ctx);

/* Collects the head's inputs while the blocks are emitted (`after` of fv_vit_emit_blocks), and then
 * emits the head. */
typedef struct fv_dpt_taps {
    const fv_dpt_head *head; /* NULL if the head is not requested; `after` then does nothing */
    const fv_vit *vit;
    fv_view projected[FV_DPT_LEVELS];
} fv_dpt_taps;
void fv_dpt_taps_begin(fv_dpt_taps *t, const fovea_model *m, const fv_builder *b);
fv_vit_after fv_dpt_taps_after;
void fv_dpt_taps_end(const fv_dpt_taps *t, fv_builder *b);

#endif
