/* annotations.h: objects in pictures, from a file in COCO's format. */
#ifndef FOVEA_CLI_ANNOTATIONS_H
#define FOVEA_CLI_ANNOTATIONS_H

#include "cli/common/cli.h"
#include "cli/eval/box_metrics.h"

/* An image or a category. */
typedef struct annotations_item {
    char *id;         /* by its value, see fv_json_id */
    const char *name; /* file_name, its folders after '/', or the category's; NULL: it has none */
    char *own;        /* what `name` is in, where the file does not have it like this */
    size_t at;        /* in its list */
} annotations_item;

/* Images and categories are counted from 0, in the order of their ids. */
typedef struct annotations {
    const char *path;
    json_t *root; /* the file, which names belong to */
    annotations_item *image, *category;
    size_t images, categories, n;
    box_truth *object;
} annotations;

/* Objects of images or categories that are not listed are left out, which a message reports. */
int annotations_read(annotations *out, const char *path);
void annotations_free(annotations *a);

#endif
