/* annotations.h: reads the objects in pictures from a file in COCO's format. */
#ifndef FOVEA_CLI_ANNOTATIONS_H
#define FOVEA_CLI_ANNOTATIONS_H

#include "cli/common/box_metrics.h"
#include "cli/common/cli.h"

/* An image or a category. */
typedef struct annotations_item {
    char *id; /* text of the id, see fv_json_id */
    /* file_name with '/' between folders, or the category's name; NULL if absent */
    const char *name;
    char *own; /* memory of `name` if `name` is not in the parsed file */
    size_t at; /* index in the file's list */
} annotations_item;

/* Images and categories have indices from 0, in the order of their ids. */
typedef struct annotations {
    const char *path;
    json_t *root; /* the parsed file, which owns the names */
    annotations_item *image, *category;
    size_t images, categories, n;
    box_truth *object;
} annotations;

/* Reads a file. Objects whose image or category is not listed are left out, with a message. */
int annotations_read(annotations *out, const char *path);
void annotations_free(annotations *a);

#endif
