/* untrained.h: a note about the loss of accuracy from an attention that the weights were not
 * trained with. */
#ifndef FOVEA_SRC_GRAPH_UNTRAINED_H
#define FOVEA_SRC_GRAPH_UNTRAINED_H

#include <stddef.h>

#include "graph/attention.h"

/* Compares the attention that each block was trained with to the one that it will run. Returns
 * false if no block changes much: foveated attention approximates softmax, and gates without
 * weights change nothing. Otherwise writes one line that names the blocks, the loss as measured on
 * a trained model, and the remedy. */
bool fv_untrained_note(char *line, size_t size, const fv_attention_name *trained,
                       const fv_attention_name *run, uint32_t blocks);

#endif
