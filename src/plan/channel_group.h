/* channel_group.h: groups of channels. One step can divide each channel of a group by a factor, and
 * a later product can multiply by it, with the same result.
 *
 * The steps between them must pass the factor of a channel on unchanged. Attention does this for
 * the channels of v, and so do a depthwise convolution, a gate and a window partition.
 *
 *     norm                 -->             products     divided: the norm's weight and bias
 *     product, its v       --> attention --> product    divided: rows and bias of v
 *     SwiGLU, its values   -->             product      divided: rows and bias of the values
 *                                                       multiplied: columns of the last product
 *
 * There is no group if any other step reads or writes such a channel: an output of the plan, a
 * residual, or a nonlinear activation other than ReLU. */
#ifndef FOVEA_SRC_CHANNEL_GROUP_H
#define FOVEA_SRC_CHANNEL_GROUP_H

#include "graph/emit.h"

#define FV_GROUP_MOST 16 /* maximum number of members of each kind */

typedef struct fv_channel_group {
    uint32_t channels;
    uint32_t period; /* divides `channels`: channel c has the factor of channel c % period */
    struct fv_group_views {
        uint32_t n;
        fv_view of[FV_GROUP_MOST];     /* the group's channels of values; of a state or partial,
                                          all channels */
        uint32_t first[FV_GROUP_MOST]; /* the step that first writes these channels; before it
                                          the view has other channels */
    } view;
    struct fv_group_steps {
        uint32_t n;
        uint32_t step[FV_GROUP_MOST];
        uint32_t row[FV_GROUP_MOST]; /* maker: the first row of its weight that produces these
                                        channels */
    } norm, maker, shift, reader;    /* ops of these steps: a norm; a GEMM; a DWCONV with a bias;
                                        a GEMM */
} fv_channel_group;

/* Finds the group of the input channels of the product with step number `reader`. Returns false if
 * these channels do not form a group. */
bool fv_channel_group_find(fv_channel_group *out, const fv_graph *graph, uint32_t reader);
/* Adds the members of `from` to `to`. Returns false, with *to unchanged, if together they exceed
 * FV_GROUP_MOST. */
bool fv_channel_group_join(fv_channel_group *to, const fv_channel_group *from);

#endif
