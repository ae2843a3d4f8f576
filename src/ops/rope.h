/* rope.h: the tables of a rotation in two dimensions (RoPE2D of MAViT and NaLaFormer). */
#ifndef FOVEA_SRC_ROPE_H
#define FOVEA_SRC_ROPE_H

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

#endif
