/* annotations.h: reads the objects or the segments in pictures from a file in COCO's format. */
#ifndef FOVEA_CLI_ANNOTATIONS_H
#define FOVEA_CLI_ANNOTATIONS_H

#include "cli/common/cli.h"
#include "cli/common/object_metrics.h"

/* An image or a category. */
typedef struct annotations_item {
    char *id; /* text of the id, see fv_json_id */
    /* file_name with '/' between folders, or the category's name; NULL if absent */
    const char *name;
    char *own; /* memory of `name` if `name` is not in the parsed file */
    size_t at; /* index in the file's list */
} annotations_item;

/* A segment of a panoptic file: the pixels of a picture that have its number as their colour. */
typedef struct annotations_segment {
    uint32_t number; /* not 0, which means no segment */
    uint32_t category;
    bool crowd;
    size_t at; /* index in the image's list */
} annotations_segment;

/* The segments of an image, in ascending order of their numbers. */
typedef struct annotations_segments {
    const char *name; /* name of the picture with the numbers; NULL if the image has no segments */
    size_t n;
    annotations_segment *segment;
} annotations_segments;

/* Images and categories have indices from 0, in the order of their ids. */
typedef struct annotations {
    const char *path;
    json_t *root; /* the parsed file, which owns the names */
    annotations_item *image, *category;
    size_t images, categories;
    /* Objects, and for each its index in the file's list. None in a panoptic file. */
    size_t n;
    object_truth *object;
    size_t *at;
    size_t outlined;   /* number of objects with a `segmentation` */
    run_lengths *mask; /* masks of the objects after annotations_read_masks, else NULL */
    /* For each image, its segments; NULL unless it is a panoptic file, whose annotations have
     * `segments_info`. */
    annotations_segments *segments;
    bool *thing; /* for each category of a panoptic file, whether its objects can be counted */
} annotations;

/* Reads a file. Objects whose image or category is not listed are left out, with a message. */
int annotations_read(annotations *out, const char *path);
/* annotations_masks.c: reads the `segmentation` of every object, all of which must have one, into
 * its mask. */
int annotations_read_masks(annotations *a);
/* annotations_panoptic.c: returns whether the file is a panoptic one, and reads its segments. */
bool annotations_are_panoptic(const annotations *a);
int annotations_read_segments(annotations *a);
void annotations_free_segments(annotations *a);
void annotations_free(annotations *a);

/* ---- shared by the readers ---- */

/* Fails because the value at `where` in the file, such as "annotations[3].bbox[2]", is not what is
 * expected. */
int annotations_wrong(const annotations *a, const char *where, const json_t *value,
                      const char *expected);
/* The same for member `key` of item i of a list. */
int annotations_wrong_member(const annotations *a, const char *list, size_t i, const char *key,
                             const json_t *value, const char *expected);
/* Returns a member of an object, or NULL if it is absent or null. */
const json_t *annotations_member(const json_t *object, const char *key);
/* Sets *out to the index of the image or category that `key` of item i of a list refers to, or to n
 * if it is not listed. */
int annotations_find(uint32_t *out, const annotations *a, const annotations_item *among, size_t n,
                     const char *list, size_t i, const json_t *from, const char *key);
/* Reads 0 or 1, false or true; an absent member keeps *out. */
int annotations_flag(bool *out, const annotations *a, const char *list, size_t i,
                     const json_t *from, const char *key);

#define ANNOTATIONS_WHERE 96 /* bytes that suffice for "annotations[860000].bbox[2]" */

#endif
