/* vit_emit.h: the steps of a ViT's encoder, for families that are built around one. */
#ifndef FOVEA_SRC_MODELS_VIT_EMIT_H
#define FOVEA_SRC_MODELS_VIT_EMIT_H

#include "graph/emit.h"
#include "models/vit/vit.h"

/* Tokens on their way through the blocks. */
typedef struct fv_vit_stream {
    fv_builder *b;
    const fv_vit *v;
    uint32_t tokens; /* as many as b->options->grid has */
    fv_view x;       /* the residual stream */
    /* The first `masked` tokens see of the patches only those inside their masks (`masks`: a row
     * for each of them, see fv_emit_mask_keys); 0: all see all. */
    uint32_t masked;
    fv_view masks;
} fv_vit_stream;

/* Patches of the frame, prefix and positions: sets `x` of a stream whose other fields are set. */
void fv_vit_emit_embed(fv_vit_stream *s);
/* Block i. */
void fv_vit_emit_block(fv_vit_stream *s, uint32_t i);
/* Output "hidden<i>", the residual stream, if it was asked for. */
void fv_vit_emit_hidden(const fv_vit_stream *s, uint32_t i);

#endif
