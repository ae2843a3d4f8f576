/* nearest.h: finds the model type that is most similar to a checkpoint's, for messages about a type
 * that no family owns. */
#ifndef FOVEA_SRC_NEAREST_H
#define FOVEA_SRC_NEAREST_H

#include "models/tensor_reader.h"

typedef struct fv_nearest {
    const char *type;          /* of config.json */
    char root[FV_READER_ROOT]; /* the prefix of its tensor names */
    bool prefixed;             /* the prefix must be given by the caller: no reader removes it */
} fv_nearest;

/* vit_read.c: finds it by the names of a ViT's tensors. False: the checkpoint has no such tensors.
 */
bool fv_vit_nearest(fv_nearest *out, const fv_source *source);

/* Edit distance of two texts: the number of letters to add, remove or change. */
uint32_t fv_nearest_distance(const char *a, const char *b);

/* Finds the name in a list, such as "vit, deit, dinov2", that is most similar to `type`. Returns
 * its length in bytes; *at is where it begins. 0: no name is similar. */
size_t fv_nearest_name(const char **at, const char *list, const char *type);

#endif
