/* prompt_tokens.h: points and boxes as rows of tokens, as in SAM.
 *
 * A point with the coordinates x and y, as fractions of the picture's sides, has the row
 *
 *     sin(2 pi a), cos(2 pi a),   a = (2 x - 1) rate[0] + (2 y - 1) rate[1]
 *
 * plus a learned row for its kind. The cells of a grid have the rows of their centres. */
#ifndef FOVEA_SRC_MODELS_PROMPT_TOKENS_H
#define FOVEA_SRC_MODELS_PROMPT_TOKENS_H

#include "graph/graph.h"

typedef enum fv_prompt_kind {
    FV_PROMPT_OUTSIDE, /* a point outside of the object */
    FV_PROMPT_INSIDE,
    FV_PROMPT_FIRST_CORNER, /* upper left corner of a box */
    FV_PROMPT_LAST_CORNER,
    FV_PROMPT_NOTHING, /* no point: its coordinates have no effect */
    FV_PROMPT_KINDS,
} fv_prompt_kind;

/* Most outputs of the encoder that a decoder reads: the features, and two finer grids. */
#define FV_PROMPT_FEATURES_MOST 3

/* How a model reads prompts. The numbers belong to the model. */
typedef struct fv_prompts {
    uint32_t width;      /* channels of tokens and features; even */
    uint32_t first;      /* number of learned tokens, which precede those of a prompt */
    const float *tokens; /* the learned tokens, first x width */
    const float *rate;   /* 2 x width / 2 */
    const float *kind[FV_PROMPT_KINDS]; /* the learned rows of the kinds, of `width` numbers */
    const float *added;                 /* row that is added to every row of the features */
    /* names of the encoder's outputs that the decoder reads, the features first; then NULL */
    const char *features[FV_PROMPT_FEATURES_MOST + 1];
    /* The rules of SAM 2: a token of the kind NOTHING follows the corners of a box too, and a
     * prompt without points and box has two of them; scores pass through a sigmoid; masks are
     * enlarged directly to the pixels of the frame. */
    bool second;
    /* The usual mask is replaced by the best alternative unless it is stable: unless at least
     * `stable` of the positions above -delta are above delta. 0: never */
    float stable, delta;
} fv_prompts;

/* Every prompt has at most three tokens in addition to its points: the corners of a box, and one of
 * the kind NOTHING. The latter follows the points if there is no box. */
#define FV_PROMPT_MORE 3
/* Most points of a prompt. */
#define FV_PROMPT_POINTS 1024

/* Writes the token of a point. */
void fv_prompt_token(float *out, const fv_prompts *p, fv_prompt_kind kind, double x, double y);
/* Writes the rows of the cells of a grid, without the prefix. */
void fv_prompt_positions(float *out, const fv_prompts *p, const fv_grid *grid);

#endif
