/* rope.h: the tables of rotations in two dimensions: RoPE2D of MAViT and NaLaFormer, those of ViTs.
 */
#ifndef FOVEA_SRC_ROPE_H
#define FOVEA_SRC_ROPE_H

#include <stdbool.h>
#include <stdint.h>

/* theta_j of heads of d channels: 10000^(-j/(n-1)) with n = d/4 of them; 1 for n = 1. */
double fv_rope_angle(uint32_t j, uint32_t d);

/* Cosines and sines of width * height tokens, d of each per token; d a multiple of 4. Token
 * (row, column) has the angle row theta_j at channels 2j and 2j + 1, column theta_j at those d/2
 * further on. */
void fv_rope_grid(float *cosines, float *sines, uint32_t width, uint32_t height, uint32_t d);

/* The same angles by position: row p has d/2 values, of channels 0 .. d/2 - 1 in grid row p and of
 * channels d/2 .. d - 1 in grid column p. */
void fv_rope_positions(float *cosines, float *sines, uint32_t positions, uint32_t d);

/* How a ViT turns its queries and keys: channels 2j and 2j + 1 of a head by an angle that grows
 * with the row of the patch for the first d/4 pairs, with its column for the others, or, x_first,
 * the other way round. Of position i among n along that axis and pair j of d/4: CENTRES  2 pi (2 (i
 * + 1/2) / n - 1) base^(-4j/d)                 (DINOv3) INDEX    (i + offset) (reference / n)
 * base^(-4j/d)               (EVA-02, Perception Encoder) reference 0: no such factor. Tokens
 * before the patches are not turned. */
typedef struct fv_rope {
    enum fv_rope_rule {
        FV_ROPE_NONE,
        FV_ROPE_CENTRES,
        FV_ROPE_INDEX,
        FV_ROPE_MIXED /* by learned frequencies of each block and head: fv_rope_mixed */
    } rule;
    double base, offset, reference;
    bool x_first;
    const float *periods; /* d/4 of them, in the place of base^(4j/d); or NULL */
} fv_rope;

/* The same for c channels of all heads, c of each per token: channels 2j and 2j + 1 of the patch in
 * row y and column x turn by x by_column[j] + y by_row[j]. */
void fv_rope_mixed(float *cosines, float *sines, const float *by_column, const float *by_row,
                   uint32_t prefix, uint32_t width, uint32_t height, uint32_t c);

/* Cosines and sines of `prefix` tokens and width * height patches, d of each per token; d a
 * multiple of 4. */
void fv_rope_tokens(float *cosines, float *sines, const fv_rope *r, uint32_t prefix, uint32_t width,
                    uint32_t height, uint32_t d);

#endif
