/* preprocess.h: tables for converting a picture to normalised patches, made once when planning. */
#ifndef FOVEA_SRC_PREPROCESS_H
#define FOVEA_SRC_PREPROCESS_H

#include <stdint.h>

#include "ops/resample.h"

/* PATCH: pixel value v of channel c becomes v * scale[c] + shift[c]. */
typedef struct fv_patch_table {
    float scale[3], shift[3];
} fv_patch_table;

/* Separable taps of a resized position table. Grid column x is sum_t weight_x[x * taps_x + t] *
 * (table column index_x[x * taps_x + t]); rows likewise. Unused taps have weight 0 and index 0. */
typedef struct fv_posemb_table {
    uint32_t taps_x, taps_y;
    uint32_t *index_x, *index_y;
    float *weight_x, *weight_y;
} fv_posemb_table;

/* How a position table is resized (mechanisms: ViT-AdaLA backbones). */
enum fv_pos_rule {
    FV_POS_PLAIN,       /* cubic a = -0.75, half-pixel centres */
    FV_POS_OFFSET,      /* like PLAIN, but with the scale computed from n_out + 0.1 */
    FV_POS_AA,          /* antialiased cubic a = -0.5 */
    FV_POS_BILINEAR,    /* bilinear, no antialias */
    FV_POS_BILINEAR_AA, /* antialiased bilinear */
    FV_POS_CROPPED,     /* bilinear to a square with the grid's longer side, then cropped to the
                           grid */
    FV_POS_PROGRESSION, /* resizes a table of offsets with odd sizes: entry k from the middle of
                           the table is offset 1 + q + .. + q^(k-1) of the grid, with linear
                           interpolation between entries; the ratio q, from 1.01 to 1.5, is the
                           one for which the last entry is the grid's last offset (BEiT) */
    FV_POS_BUCKETS,     /* nearest: each side of the table is divided into equal parts, and a
                           position uses the row of its part (NaViT) */
    FV_POS_CORNERS,     /* bilinear; the corners of the table stay at the corners of the grid */
    /* bilinear, with the scale of OFFSET */
    FV_POS_LINEAR_OFFSET,
};

/* A resize: the horizontal pass over input rows [in_row0, in_row0 + in_rows), then the vertical
 * pass, whose starts count from in_row0. The tables include cropping and black borders: black
 * positions have no taps. */
typedef struct fv_picture_resize {
    uint32_t width, height; /* size of the result */
    uint32_t in_row0, in_rows;
    fv_resize_table x, y;
} fv_picture_resize;

/* How a frame is converted to the picture that the model sees: a sequence of resizes, whose results
 * are all bytes or all rescaled floats. `inner` is the position of the last result in the picture,
 * and PATCH reads zeros around it. All sizes are in pixels. */
typedef struct fv_picture {
    uint32_t width, height; /* size of the result */
    struct fv_inner {
        uint32_t left, top, width, height;
    } inner;
    double left, top, scale_x, scale_y; /* position and scale in the frame, as in fovea_plan_info */
    uint32_t resizes;                   /* number of resizes; 0: the frame already is the inner
                                           part */
    bool floats;
    fv_picture_resize resize[3];
} fv_picture;

/* Computes the passes for frames of in_w x in_h pixels. Returns FOVEA_EINVAL if the rules cannot be
 * followed. Allocates with FV_MEM_PLAN; release with fv_picture_free, also after failure. */
fovea_status fv_picture_plan(fv_picture *out, const fovea_preprocess *p, uint32_t in_w,
                             uint32_t in_h);
void fv_picture_free(fv_picture *p);
/* Returns the bytes of the picture's tables. */
uint64_t fv_picture_bytes(const fv_picture *p);

/* Copies `p`, and replaces zeros that mean the default by values from `usual`. Returns FOVEA_EINVAL
 * for numbers with which pixels cannot be normalised. */
fovea_status fv_preprocess_complete(fovea_preprocess *out, const fovea_preprocess *p,
                                    const fovea_preprocess *usual);
/* Fills the table. `rescaled` means that pixels are floats that have already been multiplied by
 * p->rescale. */
void fv_patch_table_fill(fv_patch_table *out, const fovea_preprocess *p, bool rescaled);

/* Makes the taps from an in_w x in_h table to a grid of out_w x out_h by `rule`. Equal sizes, and
 * always buckets, give one tap of weight 1. Release with fv_posemb_free, also after failure. */
fovea_status fv_posemb_plan(fv_posemb_table *out, enum fv_pos_rule rule, uint32_t in_w,
                            uint32_t in_h, uint32_t out_w, uint32_t out_h);
void fv_posemb_free(fv_posemb_table *t);

#endif
