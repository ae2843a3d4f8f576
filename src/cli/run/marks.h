/* marks.h: the objects that --point and --box mark, and their masks. */
#ifndef FOVEA_CLI_MARKS_H
#define FOVEA_CLI_MARKS_H

#include <fovea/prompts.h>

#include "cli/common/cli.h"

enum { MARKS_OBJECTS = 255 }; /* most objects of a picture */

/* What marks an object. */
typedef struct marks_object {
    fovea_prompt_point *point;
    size_t points;
    fovea_box box;
    bool boxed;
} marks_object;

typedef struct marks {
    cli_texts points, boxes; /* arguments of --point and --box */
    marks_object *object;
    size_t objects;
    fovea_segmenter *segmenter; /* of the current plan; NULL until it is needed */
    fovea_output out[2];        /* its outputs: masks, scores */
    uint8_t *inside;            /* the pixels of each mask that was found */
} marks;

/* Parses the arguments. Object k has the k-th box, and the points with its number. */
int marks_parse(marks *p);
/* Finds a mask for each object in a frame of `pixels` pixels, whose outputs are `outs`, and appends
 * those with a score of at least `least` to `found`, whose query is then the index of the object.
 * `map` receives 1 + the index of the last mask that has the pixel, or 0. */
int marks_find(marks *p, const fovea_plan *plan, const fovea_output *outs, size_t n_outs,
               double least, fovea_mask *found, size_t *count, uint16_t *map, size_t pixels);
/* Forgets the segmenter of a plan that is about to be freed. */
void marks_end(marks *p);
void marks_free(marks *p);

#endif
