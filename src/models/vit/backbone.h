/* backbone.h: a ViT as the backbone of a dense model: the section "backbone_config" of its
 * config.json, and the tensors under "backbone.". */
#ifndef FOVEA_SRC_MODELS_BACKBONE_H
#define FOVEA_SRC_MODELS_BACKBONE_H

#include "checkpoint/config.h"
#include "graph/emit.h"
#include "models/fields.h"
#include "models/tensor_reader.h"
#include "models/vit/vit.h"

#define FV_BACKBONE_TAPS 8

typedef struct fv_backbone {
    fv_vit vit;
    uint32_t tap[FV_BACKBONE_TAPS],
        taps;    /* tap[i]: number of the block after which rows are taken, ascending */
    bool normed; /* the last norm is applied to the rows */
} fv_backbone;

/* Reads the backbone. `type` is the model_type that the section must have. `more` lists fields that
 * the section may have in addition to those of ViTs, or is NULL. Sets t->m->info, and t->root to
 * the prefix of all tensor names. */
fovea_status fv_backbone_read(fv_backbone *out, fv_tensor_reader *t, const fv_config *config,
                              const char *type, const char *more);
/* backbone_taps.c: reads the numbers of the blocks whose output a dense head reads, at most `most`,
 * from "out_indices" or "out_features", which must agree if both are present. If both are missing,
 * sets the last block. */
fovea_status fv_backbone_read_taps(uint32_t *tap, uint32_t *taps, uint32_t most, const fv_config *c,
                                   uint32_t depth);
/* Sets m->outputs: `main`, and the outputs of the blocks. */
fovea_status fv_backbone_list_outputs(fovea_model *m, const fv_backbone *n, const char *main);

/* Emits the steps of the backbone. Calls `give` with the rows of tap number i, for all tokens
 * including the prefix; `give` emits the steps that read them. */
typedef void fv_backbone_give(void *ctx, fv_builder *b, uint32_t i, fv_view rows);
void fv_backbone_emit(const fv_backbone *n, fv_builder *b, fv_backbone_give *give, void *ctx);

#endif
