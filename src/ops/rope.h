/* rope.h: makes the tables of two-dimensional rotations: RoPE2D of MAViT and NaLaFormer, and those
 * of ViTs. */
#ifndef FOVEA_SRC_ROPE_H
#define FOVEA_SRC_ROPE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns frequency theta_j for heads of d channels: 10000^(-j/(n-1)) with n = d/4 frequencies, or
 * 1 if n is 1. */
double fv_rope_angle(uint32_t j, uint32_t d);

/* Computes cosines and sines for width * height tokens, d per token; d is a multiple of 4. For
 * token (row, column), the angle of channels 2j and 2j + 1 is row theta_j, and the angle of the
 * channels with indices larger by d/2 is column theta_j. */
void fv_rope_grid(float *cosines, float *sines, uint32_t width, uint32_t height, uint32_t d);

/* Computes the same angles by position: row p of the table has d/2 values, for channels below
 * d/2 of tokens in grid row p, and for the other channels of tokens in grid column p. */
void fv_rope_positions(float *cosines, float *sines, uint32_t positions, uint32_t d);

/* The rotation of a ViT's queries and keys. Channels 2j and 2j + 1 of a head are rotated by an
 * angle that grows with the row of the patch for the first d/4 pairs, and with its column for the
 * others, or the reverse with x_first. For position i of n along that axis, and pair j of d/4:
 *
 *   CENTRES  2 pi (2 (i + 1/2) / n - 1) base^(-4j/d)       DINOv3
 *   INDEX    (i + offset) (reference / n) base^(-4j/d)     EVA-02, Perception Encoder, Qwen-VL
 *
 * With reference 0 the factor reference / n is 1. For columns, 4j + column_shift replaces 4j.
 * With `alternating`, even pairs belong to columns and odd pairs to rows. Tokens before the patches
 * are not rotated, except the first one if there are class_angles. */
typedef struct fv_rope {
    enum fv_rope_rule {
        FV_ROPE_NONE,
        FV_ROPE_CENTRES,
        FV_ROPE_INDEX,
        FV_ROPE_MIXED /* learned frequencies of each block and head: fv_rope_mixed */
    } rule;
    double base, offset, reference;
    bool x_first, alternating;
    double column_shift;
    const float *periods;      /* d/4 periods that replace base^(4j/d); or NULL */
    const float *class_angles; /* d/2 angles of the first token; or NULL */
} fv_rope;

/* Computes the tables for c channels of all heads, c per token: for the patch in row y and column
 * x, the angle of channels 2j and 2j + 1 is x by_column[j] + y by_row[j]. */
void fv_rope_mixed(float *cosines, float *sines, const float *by_column, const float *by_row,
                   uint32_t prefix, uint32_t width, uint32_t height, uint32_t c);

/* Computes cosines and sines for `prefix` tokens and width * height patches, d per token; d is a
 * multiple of 4. */
void fv_rope_tokens(float *cosines, float *sines, const fv_rope *r, uint32_t prefix, uint32_t width,
                    uint32_t height, uint32_t d);

#endif
