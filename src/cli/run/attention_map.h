/* attention_map.h: what one token attends to, by several mechanisms, as numbers and as a picture.
 */
#ifndef FOVEA_CLI_ATTENTION_MAP_H
#define FOVEA_CLI_ATTENTION_MAP_H

#include <fovea/operations.h>

#include "cli/common/cli.h"

/* What was asked for: --attention-map X,Y,OUT.png and --attention-block I. */
typedef struct attention_query {
    uint32_t x, y; /* pixel of the picture as the model sees it */
    const char *path;
    int block;            /* of those that offer q and k; negative: from the end */
    const char *q, *k;    /* the model's outputs of that block */
    fovea_device *device; /* to work on */
} attention_query;

/* What the block gave its attention, of one frame. */
typedef struct attention_input {
    const fovea_plan *plan;
    size_t index; /* of q among the plan's outputs */
    fovea_output_info q_info, k_info;
    const float *q, *k;
} attention_input;

/* The row of one mechanism, mean over the heads. */
typedef struct attention_row {
    const char *name;
    bool own;
    double *weight;  /* of every key */
    double entropy;  /* PSE = -sum x/s log(x/s), s = sum x; negative weights count as 0 */
    double negative; /* share of the negative weights in the sum of all sizes */
} attention_row;

#define ATTENTION_ROWS 6

typedef struct attention_map {
    const attention_query *query;
    attention_input in;
    fovea_attention_options own; /* the attention that the model has in that block */
    uint32_t token;
    float *bias;   /* of the own: (heads, rows of k); -INFINITY: not seen */
    uint32_t *key; /* the rows of k that are seen */
    uint32_t keys;
    attention_row row[ATTENTION_ROWS];
    size_t rows;
} attention_map;

/* Makes one argument of "--attention-map X,Y OUT.png", which people write too; getopt would take
 * the file for an input. Not where that file is there. Free the text that is returned, if any, when
 * argv is done with. */
char *attention_query_join(int *argc, char **argv);
/* X,Y,OUT.png; `block` may be NULL. */
int attention_query_parse(attention_query *out, const char *text, const char *block);
/* True if an output of a model is q or k of a block, which only attention maps use. */
bool attention_output(const char *name);
/* Finds the block's outputs. */
int attention_query_choose(attention_query *q, const cli_session *s);

/* The rows of the query's token. To be freed also after a failure. */
int attention_map_make(attention_map *out, const attention_query *query, const attention_input *in);
void attention_map_free(attention_map *m);
/* One panel per mechanism over `picture`, which has the size that the model sees. */
int attention_map_draw(const attention_map *m, const cli_image *picture, const char *path);
void attention_map_print(const attention_map *m);
json_t *attention_map_describe(const attention_map *m);

#endif
