/* annotations.h: objects in pictures, from a file in COCO's format. */
#ifndef FOVEA_CLI_ANNOTATIONS_H
#define FOVEA_CLI_ANNOTATIONS_H

#include "cli/common/cli.h"
#include "cli/eval/box_metrics.h"

/* Pictures and categories are counted from 0, in the order of their ids. */
typedef struct annotations {
    json_t *root;   /* the file, which names belong to */
    json_t *places; /* of pictures, by their file's name without folders */
    json_t **image, **category;
    size_t images, categories, n;
    box_truth *object;
} annotations;

int annotations_read(annotations *out, const char *path);
void annotations_free(annotations *a);
/* The picture of that file name, whatever the folder; `images`: none. */
size_t annotations_find(const annotations *a, const char *path);
/* The file name of a picture, without folders. */
const char *annotations_picture(const annotations *a, size_t image);
/* The name of a category, NULL: it has none; and its id. */
const char *annotations_category(const annotations *a, size_t category);
json_int_t annotations_id(const annotations *a, size_t category);

#endif
