/* untrained.h: what it costs to run an attention that the weights were not trained with.
 */
#ifndef FOVEA_SRC_GRAPH_UNTRAINED_H
#define FOVEA_SRC_GRAPH_UNTRAINED_H

#include <stddef.h>

#include "graph/attention.h"

/* Compares the attention that each block was trained with to the one it is going to run. Returns
 * false where every block keeps its own or one close to it: foveated attention approximates
 * softmax, and gates without weights change nothing. Otherwise writes one line that names the
 * blocks, the loss as measured on a trained model, and the remedy. */
bool fv_untrained_note(char *line, size_t size, const fv_attention_name *trained,
                       const fv_attention_name *run, uint32_t blocks);

#endif
