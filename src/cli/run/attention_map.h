/* attention_map.h: computes which keys one token attends to, under several mechanisms, as numbers
 * and as a picture. */
#ifndef FOVEA_CLI_ATTENTION_MAP_H
#define FOVEA_CLI_ATTENTION_MAP_H

#include <fovea/operations.h>

#include "cli/common/cli.h"

/* The arguments of --attention-map X,Y,OUT.png and --attention-block I. */
typedef struct attention_query {
    uint32_t x, y; /* a pixel of the picture in the size that the model sees */
    const char *path;
    int block; /* index among the blocks that offer q and k; negative numbers count from the end */
    const char *q, *k;    /* names of the model's outputs q and k of that block */
    fovea_device *device; /* the device that computes the map */
} attention_query;

/* The inputs of the block's attention, for one frame. */
typedef struct attention_input {
    const fovea_plan *plan;
    size_t index; /* index of q among the plan's outputs */
    fovea_output_info q_info, k_info;
    const float *q, *k;
} attention_input;

/* The query's weights under one mechanism, averaged over the heads. */
typedef struct attention_row {
    const char *name;
    bool own;
    double *weight; /* the weight of every key */
    /* positive sequence entropy: -sum x/s log(x/s) with s = sum x; negative weights count as 0 */
    double entropy;
    /* sum of |x| over negative weights, divided by the sum of |x| over all weights */
    double negative;
} attention_row;

#define ATTENTION_ROWS 6

typedef struct attention_map {
    const attention_query *query;
    attention_input in;
    fovea_attention_options own; /* the model's own attention in that block */
    uint32_t token;
    /* biases of the model's own attention: (heads, rows of k); -INFINITY if the token does not see
     * the key */
    float *bias;
    uint32_t *key; /* indices of the rows of k that the token sees */
    uint32_t keys;
    attention_row row[ATTENTION_ROWS];
    size_t rows;
} attention_map;

/* Joins "--attention-map X,Y OUT.png", a common way to write it, to one argument X,Y,OUT.png.
 * Otherwise getopt would treat the file as an input. Does nothing if that file exists. Returns a
 * text or NULL; the caller frees it once argv is no longer used. */
char *attention_query_join(int *argc, char **argv);
/* Parses X,Y,OUT.png and the block; `block` may be NULL. */
int attention_query_parse(attention_query *out, const char *text, const char *block);
/* Returns whether an output of a model is q or k of a block. Only attention maps need these
 * outputs. */
bool attention_output(const char *name);
/* Finds the block's outputs. */
int attention_query_choose(attention_query *q, const cli_session *s);

/* Computes the query's weights under each mechanism. The caller must call attention_map_free, also
 * after a failure. */
int attention_map_make(attention_map *out, const attention_query *query, const attention_input *in);
void attention_map_free(attention_map *m);
/* Draws one panel per mechanism over `picture`, which has the size that the model sees. */
int attention_map_draw(const attention_map *m, const cli_image *picture, const char *path);
void attention_map_print(const attention_map *m);
json_t *attention_map_describe(const attention_map *m);

#endif
