/* rope.h: the tables of a rotation in two dimensions (RoPE2D of MAViT and NaLaFormer). */
#ifndef FOVEA_SRC_ROPE_H
#define FOVEA_SRC_ROPE_H

#include <stdint.h>

/* Cosines and sines of width * height tokens, d of each per token; d a multiple of 4. With n = d/4
 * angles theta_j = 10000^(-j/(n-1)), 1 for n = 1: token (row, column) has the angle row theta_j at
 * channels 2j and 2j + 1, column theta_j at those d/2 further on. */
void fv_rope_grid(float *cosines, float *sines, uint32_t width, uint32_t height, uint32_t d);

#endif
