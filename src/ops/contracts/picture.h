/* picture.h: names for the dim[] and operands, by number, of ops that read the frame. The contract
 * in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_CONTRACTS_PICTURE_H
#define FOVEA_SRC_CONTRACTS_PICTURE_H

/* RESIZE_X, RESIZE_Y */
enum { FV_RESIZE_WIDTH = 1, FV_RESIZE_CHANNELS = 2, FV_RESIZE_FROM = 3 };
enum { FV_RESIZE_IN, FV_RESIZE_CHROMA, FV_RESIZE_OUT };

/* PATCH */
enum {
    FV_PATCH_SIZE = 2,
    FV_PATCH_STRIDE = 3,
    FV_PATCH_PAD_X = 4,
    FV_PATCH_WIDTH = 5,
    FV_PATCH_HEIGHT = 6,
    FV_PATCH_PAD_Y = 7
};
enum { FV_PATCH_IN, FV_PATCH_CHROMA, FV_PATCH_OUT };

#endif
