/* nearest.h: which type a checkpoint is most like, for messages about one that no family owns. */
#ifndef FOVEA_SRC_NEAREST_H
#define FOVEA_SRC_NEAREST_H

#include "models/tensor_reader.h"

typedef struct fv_nearest {
    const char *type;          /* of config.json */
    char root[FV_READER_ROOT]; /* the prefix of its tensor names */
    bool prefixed;             /* the prefix must be given by the caller: no reader removes it */
} fv_nearest;

/* vit_read.c: by the names of a ViT's tensors. False: it has none of them. */
bool fv_vit_nearest(fv_nearest *out, const fv_source *source);

/* Distance of two texts in letters that are added, left out or changed. */
uint32_t fv_nearest_distance(const char *a, const char *b);

/* The name in a list, "vit, deit, dinov2", that is most like `type`, as its length in bytes and
 * where it begins; 0: none is like it. */
size_t fv_nearest_name(const char **at, const char *list, const char *type);

#endif
