/* dpt_head.h: a head for plain ViTs that is trained here: DPT's neck on four depths of the model,
 * all in the grid of the patches, which after it is twice as fine, and a convolution.
 *
 *     seg_logits = conv1x1 relu(conv3x3 fused)
 *     predicted_depth = max_depth sigmoid(conv1x1 relu(conv3x3 fused))
 *
 * Tensors "dpt_head.", whose neck is called as transformers' DPT has it; which of the two it is
 * tells the section "dpt_head" of "fovea" of config.json: with "max_depth" it is depth.
 */
#ifndef FOVEA_SRC_MODELS_DPT_HEAD_H
#define FOVEA_SRC_MODELS_DPT_HEAD_H

#include "models/vit/dpt.h"
#include "models/vit/vit.h"

typedef struct fv_dpt_head {
    uint32_t tap[FV_DPT_LEVELS]; /* numbers of blocks after which rows are taken, ascending */
    fv_dpt neck;
    fv_layer conv, classify;
    fv_weight max_depth; /* absent: it gives classes */
} fv_dpt_head;

/* Sets m->dpt_head where config.json has the section, or the model's additions ask for a head: then
 * the section and the tensors are added. An existing head for classes gets their number. */
fovea_status fv_dpt_head_read(fovea_model *m, const fv_source *source, const fv_config *config,
                              const fv_vit *v);
void fv_dpt_head_release(fovea_model *m);
const char *fv_dpt_head_output(const fv_dpt_head *h);
void fv_dpt_head_weights(const fv_dpt_head *h, fv_weight_visit *visit, void *ctx);

/* What it takes while the blocks are emitted: `after` of fv_vit_emit_blocks, and then the head. */
typedef struct fv_dpt_taps {
    const fv_dpt_head *head; /* NULL: it is not wanted, and `after` has nothing to do */
    const fv_vit *vit;
    fv_view projected[FV_DPT_LEVELS];
} fv_dpt_taps;
void fv_dpt_taps_begin(fv_dpt_taps *t, const fovea_model *m, const fv_builder *b);
fv_vit_after fv_dpt_taps_after;
void fv_dpt_taps_end(const fv_dpt_taps *t, fv_builder *b);

#endif
