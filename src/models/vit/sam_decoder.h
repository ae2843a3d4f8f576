/* sam_decoder.h: the decoder of masks of SAM and SAM 2, which reads the encoder's features and the
 * tokens of a prompt. */
#ifndef FOVEA_SRC_MODELS_SAM_DECODER_H
#define FOVEA_SRC_MODELS_SAM_DECODER_H

#include "graph/emit.h"
#include "models/prompt_tokens.h"
#include "models/tensor_reader.h"

enum {
    FV_SAM_MASKS = 4,                /* masks of a prompt: one, and three alternatives */
    FV_SAM_MLP = 3,                  /* layers of the heads that make masks and scores */
    FV_SAM_FIRST = 1 + FV_SAM_MASKS, /* learned tokens: of the scores, and of each mask. In SAM 2,
                                        that of the object's presence precedes */
    FV_SAM_DECODER_LAYERS = 64,      /* most layers */
};

/* Attention of tokens to tokens, of tokens to the picture, and of the picture to tokens. Where q
 * and k read the same rows, they are one layer. */
typedef struct fv_sam_decoder_layer {
    fv_layer self_qk, self_v, self_out;
    fv_layer cross_q, cross_v, cross_out;
    fv_layer picture_kq; /* keys for the tokens, then queries of the picture */
    fv_layer token_k, token_v, picture_out;
    fv_layer norm[4], fc1, fc2;
} fv_sam_decoder_layer;

typedef struct fv_sam_decoder {
    fv_prompts prompts;
    uint32_t width, inner; /* channels; channels of attention between tokens and picture */
    uint32_t heads, layers, act;
    float eps, last_eps; /* epsilon of the layers' norms, and of the last one */
    fv_sam_decoder_layer *layer;
    fv_layer last_q, last_k, last_v, last_out, last_norm;
    fv_layer up[2], up_norm; /* transposed convolutions */
    fv_layer mask[FV_SAM_MASKS][FV_SAM_MLP], score[FV_SAM_MLP];
} fv_sam_decoder;

/* The origin of a decoder's tensors, by which they are named. */
enum fv_sam_origin { FV_SAM_OF_TRANSFORMERS, FV_SAM_OF_AUTHORS, FV_SAM2_OF_TRANSFORMERS };

/* Reads the decoder. In SAM 2, it adds finer features to those that it enlarges: the encoder's, of
 * width / 8 and width / 4 channels on grids that are four times and twice as fine. */
fovea_status fv_sam_decoder_read(fv_sam_decoder *d, fv_tensor_reader *t, const fv_config *config,
                                 enum fv_sam_origin origin);
void fv_sam_decoder_release(fv_sam_decoder *d);

/* sam_decoder_synthetic.c: adds the tensors of a decoder of the published size, of SAM or, with
 * `second`, of SAM 2. */
struct fv_synthetic;
void fv_sam_synthetic_decoder(struct fv_synthetic *m, bool second);

/* Emits the steps for prompts with at most `tokens` tokens, the learned ones included. */
fovea_status fv_sam_decoder_emit(const fv_sam_decoder *d, fv_builder *b, uint32_t tokens);

#endif
