/* vit_emit.h: writes the steps of a ViT's encoder, for families that are built around one. */
#ifndef FOVEA_SRC_MODELS_VIT_EMIT_H
#define FOVEA_SRC_MODELS_VIT_EMIT_H

#include "graph/emit.h"
#include "models/vit/vit.h"

/* The tokens between two blocks, while steps are written. */
typedef struct fv_vit_stream {
    fv_builder *b;
    const fv_vit *v;
    uint32_t tokens; /* number of tokens of b->options->grid */
    fv_view x;       /* the residual stream */
    /* Of the patches, the first `masked` tokens attend only to those inside their masks (`masks`: a
     * row for each of these tokens, see fv_emit_mask_keys). 0: all attend to all. */
    uint32_t masked;
    fv_view masks;
} fv_vit_stream;

/* Writes the embedding of the frame's patches, the prefix and the positions: sets `x` of a stream
 * whose other fields are set. */
void fv_vit_emit_embed(fv_vit_stream *s);
/* Block i. */
void fv_vit_emit_block(fv_vit_stream *s, uint32_t i);
/* Writes output "hidden<i>", the residual stream, if it is wanted. */
void fv_vit_emit_hidden(const fv_vit_stream *s, uint32_t i);

#endif
