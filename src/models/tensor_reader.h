/* tensor_reader.h: how a family reads weights from a checkpoint: by name, with shape and type
 * checked, and a message that names the file, the tensor and what was expected.
 *
 * A name is root + prefix + stem + part, such as "module." "encoder.layer.0." "norm1." "weight".
 * The root is the source's prefix, and what a training program wrapped its model in.
 */
#ifndef FOVEA_SRC_TENSOR_READER_H
#define FOVEA_SRC_TENSOR_READER_H

#include "checkpoint/config.h"
#include "checkpoint/source.h"
#include "checkpoint/weight.h"
#include "models/model.h"

#define FV_READER_ROOT (64 + FV_SOURCE_PREFIX)
#define FV_READER_NAME (192 + FV_READER_ROOT) /* bytes of a name, at most */

typedef struct fv_tensor_reader {
    fovea_model *m; /* whose parameters are counted while they are read */
    const fv_source *source;
    const char *config; /* file, for messages */
    char root[FV_READER_ROOT];
} fv_tensor_reader;

/* The root of new tensors, where there are none to find it by: the source's prefix. */
void fv_reader_begin(fv_tensor_reader *t);

/* Finds the root under which the checkpoint has this tensor: the source's prefix, and wrappers such
 * as "model.", "module.", "state_dict." in any order, or "model_ema.", which is preferred. False if
 * there is no such tensor; the root is then left as it was. */
bool fv_reader_unwrap(fv_tensor_reader *t, const char *prefix, const char *stem, const char *part);

/* EFORMAT: the tensor is missing. `what`: its purpose in words, or its shape. */
fovea_status fv_reader_missing(const fv_tensor_reader *t, const char *name, const char *what);

/* The tensor of that name, or NULL; a NULL stem finds nothing. */
const fv_tensor *fv_reader_find(const fv_tensor_reader *t, const char *prefix, const char *stem,
                                const char *part);
/* EFORMAT unless n, `what` in words, is 1 to `most`. */
fovea_status fv_reader_check_size(const fv_tensor_reader *t, const char *what, uint32_t n,
                                  uint32_t most);
/* EFORMAT where the configuration has `key` and the tensors have another number, n. */
fovea_status fv_reader_agree(const fv_tensor_reader *t, const fv_config *c, const char *key,
                             uint32_t n);
/* Dimension i of a tensor; 0 when it has none, or when it is NULL. */
uint32_t fv_tensor_dimension(const fv_tensor *tensor, uint32_t i);

/* The tensor of that name: a floating type, this shape (dimensions of 1 do not count). */
fovea_status fv_reader_tensor(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rank,
                              const uint64_t *shape);
/* The same for n numbers that are not trained, such as running means: not counted as parameters. */
fovea_status fv_reader_buffer(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t n);
/* A whole tensor of at.rows x at.cols becomes a part of *w. */
fovea_status fv_reader_part(fv_weight *w, fv_tensor_reader *t, const char *prefix, const char *stem,
                            const char *part, fv_weight_part at);
/* *w becomes a whole tensor of rows x cols. */
fovea_status fv_reader_matrix(fv_weight *w, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rows, uint32_t cols);
/* stem + "weight" (rows, cols) and stem + "bias" (rows). */
fovea_status fv_reader_linear(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t rows, uint32_t cols);
/* A convolution: stem + "weight" (rows, channels, size, size), whose columns become (ky, kx,
 * channel), and stem + "bias" (rows), where there is one. */
fovea_status fv_reader_conv(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t rows, uint32_t channels, uint32_t size);
/* stem + "weight" (width) and stem + "bias" (width). */
fovea_status fv_reader_norm(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t width);

/* Puts a tensor of values spread evenly over mean - spread ... mean + spread under that name, in
 * place of any. */
fovea_status fv_reader_put(fv_tensor_reader *t, const char *prefix, const char *stem,
                           const char *part, uint32_t rank, const uint64_t *shape, float mean,
                           float spread);

/* The same for `blocks` unit matrices of d x d. */
fovea_status fv_reader_put_identity(fv_tensor_reader *t, const char *prefix, const char *stem,
                                    const char *part, uint32_t blocks, uint32_t d);

/* Puts stem + "weight" (rows, channels, size, size), size 1: (rows, channels) unless `whole`, and
 * stem + "bias" of zeros of a new convolution, whose outputs are about as large as its inputs, or,
 * `bent`, as these were before a ReLU took half of their squares. */
fovea_status fv_reader_put_conv(fv_tensor_reader *t, const char *prefix, const char *stem,
                                const uint64_t shape[4], bool whole, bool bent);

/* Puts stem + "weight" (classes, width) and stem + "bias" (classes) of a new head. */
fovea_status fv_reader_put_head(fv_tensor_reader *t, const char *stem, uint32_t classes,
                                uint32_t width);

/* Marks tensors that no model needs as read: those whose name has `part` in its first word after
 * `prefix`. */
void fv_reader_ignore(fv_tensor_reader *t, const char *prefix, const char *part);
/* ENOTSUP when a floating tensor whose name begins with `prefix` was neither read nor ignored. */
fovea_status fv_reader_all_used(const fv_tensor_reader *t, const char *prefix);

#endif
