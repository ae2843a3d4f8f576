/* vit_emit.h: emits the steps of a ViT's encoder, for families that contain one. */
#ifndef FOVEA_SRC_MODELS_VIT_EMIT_H
#define FOVEA_SRC_MODELS_VIT_EMIT_H

#include "graph/emit.h"
#include "models/vit/vit.h"
#include "models/windows.h"

/* The tokens between two blocks, while steps are emitted. */
typedef struct fv_vit_stream {
    fv_builder *b;
    const fv_vit *v;
    uint32_t tokens; /* number of tokens of b->options->grid */
    fv_view x;       /* the residual stream */
    /* The first `masked` tokens attend only to patches inside their masks. `masks` has a row for
     * each of these tokens; see fv_emit_mask_keys. If `masked` is 0, all tokens attend to all
     * patches. */
    uint32_t masked;
    fv_view masks;
    /* set by the first block with windows; `absent` is 1 for rows without a patch, or NULL */
    fv_windows windows;
    uint32_t *absent;
} fv_vit_stream;

/* Emits the embedding of the frame's patches, the prefix and the positions. Sets `x` of a stream
 * whose other fields are set. */
void fv_vit_emit_embed(fv_vit_stream *s);
/* Emits block i. */
void fv_vit_emit_block(fv_vit_stream *s, uint32_t i);
/* Returns the tables of the rotation in block i. */
void fv_vit_emit_tables(const fv_vit_stream *s, uint32_t i, fv_weight *cos, fv_weight *sin);
/* vit_windows.c: emits the attention of block i, which is inside windows. */
void fv_vit_emit_windows(fv_vit_stream *s, uint32_t i);
/* Emits output "hidden<i>", the residual stream, if it is requested. */
void fv_vit_emit_hidden(const fv_vit_stream *s, uint32_t i);

#endif
