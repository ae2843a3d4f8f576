/* channel_group.h: channels that a step could divide and another multiply, with the same result.
 *
 * Between what makes channels and the products that read them there are steps which leave a factor
 * of a channel as it is: attention does so with those of v, and a depthwise convolution, a gate, a
 * window partition.
 *
 *     norm                 -->             products     divided: the norm's weight and bias
 *     product, its v       --> attention --> product    divided: rows and bias of v
 *     SwiGLU, its values   -->             product      divided: rows and bias of the values
 *                                                       multiplied: columns of the last product
 *
 * Where anything else reads or writes such a channel, an output, a residual, an activation that
 * bends, there is no group. */
#ifndef FOVEA_SRC_CHANNEL_GROUP_H
#define FOVEA_SRC_CHANNEL_GROUP_H

#include "graph/emit.h"

#define FV_GROUP_MOST 16 /* of anything; a group that has more is none */

typedef struct fv_channel_group {
    uint32_t channels;
    uint32_t period; /* that divides them: channels so far apart have the same factor */
    struct fv_group_views {
        uint32_t n;
        fv_view of[FV_GROUP_MOST];     /* states and partials: of all of it */
        uint32_t first[FV_GROUP_MOST]; /* the step from which on; before, others are there */
    } view;
    struct fv_group_steps {
        uint32_t n;
        uint32_t step[FV_GROUP_MOST];
        uint32_t row[FV_GROUP_MOST]; /* of makers: the first of the weight's that are channels */
    } norm, maker, shift, reader;    /* LAYERNORM, RMSNORM; GEMM; DWCONV with a bias; GEMM */
} fv_channel_group;

/* The channels that the product, step number `reader`, multiplies. False: they are not a group. */
bool fv_channel_group_find(fv_channel_group *out, const fv_graph *graph, uint32_t reader);
/* Adds what `from` has. False, and *to as it was: together they have too much. */
bool fv_channel_group_join(fv_channel_group *to, const fv_channel_group *from);

#endif
