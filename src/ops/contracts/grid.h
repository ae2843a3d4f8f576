/* grid.h: names for the dim[] and operands, by number, of ops that read a grid of tokens; dim[]
 * also has FV_ROW_C. The contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_CONTRACTS_GRID_H
#define FOVEA_SRC_CONTRACTS_GRID_H

#include <stdint.h>

/* DWCONV */
enum { FV_DWCONV_SIZE = 2, FV_DWCONV_HEIGHT = 3 };
enum { FV_DWCONV_IN, FV_DWCONV_W, FV_DWCONV_BIAS, FV_DWCONV_RES, FV_DWCONV_GATE, FV_DWCONV_OUT };

/* GATHER, LERP */
enum { FV_GATHER_PARTS = 2, FV_LERP_ROWS = 2 };
enum { FV_GATHER_IN, FV_GATHER_RES, FV_GATHER_OUT };
#define FV_GATHER_NONE UINT32_MAX /* in GATHER's table: a row of zeros */
enum { FV_LERP_IN, FV_LERP_OUT };

/* UPSAMPLE, PIXEL_SHUFFLE, ADAPTIVE_POOL */
enum { FV_UPSAMPLE_IN, FV_UPSAMPLE_RES, FV_UPSAMPLE_OUT };
enum { FV_SHUFFLE_SCALE = 2 };
enum { FV_SHUFFLE_IN, FV_SHUFFLE_OUT };
enum { FV_POOL_WIDTH = 2, FV_POOL_HEIGHT = 3, FV_POOL_COLUMNS = 4 };
enum { FV_POOL_IN, FV_POOL_OUT };

#endif
