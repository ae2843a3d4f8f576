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

/* What a dense model needs of its backbone. */
typedef struct fv_backbone_form {
    const char *types;  /* model_types that the section may have: " dinov2 ", with a space before
                           and after each */
    const char *prefix; /* of the names of its tensors, such as "backbone." */
    const char *fields; /* fields that the section may have in addition to those of ViTs, or NULL */
    bool grids;         /* "reshape_hidden_states" of DINOv2 must be true if it is given, else
                           false */
} fv_backbone_form;

/* Reads the backbone. Sets t->m->info, and t->root to the prefix of all tensor names. */
fovea_status fv_backbone_read(fv_backbone *out, fv_tensor_reader *t, const fv_config *config,
                              const fv_backbone_form *form);
/* Reads a ViT without a section of its own, whose tensors are under `prefix`. The list `taps` of
 * config.json has the numbers of its blocks, from 0, after which rows are taken without a norm.
 * Positions are resized bilinearly, as in transformers' DPT. Sets the same as fv_backbone_read. */
fovea_status fv_backbone_read_plain(fv_backbone *out, fv_tensor_reader *t, const fv_config *config,
                                    const char *prefix, const char *taps);
/* backbone_taps.c: reads the numbers of the blocks whose output a dense head reads, at most `most`,
 * from "out_indices" or "out_features", which must agree if both are present. If both are missing,
 * sets the last block. */
fovea_status fv_backbone_read_taps(uint32_t *tap, uint32_t *taps, uint32_t most, const fv_config *c,
                                   uint32_t depth);
/* Sets m->outputs: `main`, `second` unless it is NULL, and the outputs of the blocks. */
fovea_status fv_backbone_list_outputs(fovea_model *m, const fv_backbone *n, const char *main,
                                      const char *second);

/* Emits the steps of the backbone. Calls `give` with the rows of tap number i, for all tokens
 * including the prefix; `give` emits the steps that read them. */
typedef void fv_backbone_give(void *ctx, fv_builder *b, uint32_t i, fv_view rows);
void fv_backbone_emit(const fv_backbone *n, fv_builder *b, fv_backbone_give *give, void *ctx);

#endif
