/* nearest.h: finds the model type that is most similar to a checkpoint's, for messages about a type
 * that no family owns. */
#ifndef FOVEA_SRC_NEAREST_H
#define FOVEA_SRC_NEAREST_H

#include "models/tensor_reader.h"

typedef struct fv_nearest {
    const char *type;          /* the model type, as in config.json */
    char root[FV_READER_ROOT]; /* the prefix of its tensor names */
    bool prefixed; /* the caller must specify the prefix, because no reader removes it */
} fv_nearest;

/* vit_read.c: finds the type from the names of a ViT's tensors. Returns false if the checkpoint has
 * no such tensors. */
bool fv_vit_nearest(fv_nearest *out, const fv_source *source);

/* Returns the edit distance of two texts: the number of letters to add, remove or change. */
uint32_t fv_nearest_distance(const char *a, const char *b);

/* Finds the name in a list, such as "vit, deit, dinov2", that is most similar to `type`. If its
 * distance is less than *least, sets *least to the distance, *at to the beginning of the name and
 * *letters to its length in bytes. */
void fv_nearest_name(const char **at, size_t *letters, uint32_t *least, const char *list,
                     const char *type);

#endif
