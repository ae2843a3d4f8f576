/* tensor_reader.h: reads weights from a checkpoint by name, and checks their shape and type.
 * Messages name the file, the tensor and the expected value.
 *
 * A name is root + prefix + stem + part, such as "model." "encoder.layer.0." "norm1." "weight". The
 * root is the source's prefix, followed by the prefix under which a training program saves its
 * model. Components that wrapper modules add to names are left out (wrappers.h). */
#ifndef FOVEA_SRC_TENSOR_READER_H
#define FOVEA_SRC_TENSOR_READER_H

#include "checkpoint/config.h"
#include "checkpoint/source.h"
#include "checkpoint/weight.h"
#include "models/model.h"

#define FV_READER_ROOT FV_SOURCE_ROOT
#define FV_READER_NAME (192 + FV_READER_ROOT) /* most bytes in a name */

/* The use of a tensor, as a mark of fv_source. */
enum fv_mark {
    FV_MARK_NONE,
    FV_MARK_READ,     /* the tensor has a role */
    FV_MARK_NEEDLESS, /* not needed: the tensor is only for training, or its values are computed */
    /* the tensor belongs to an unsupported part that may be skipped, such as a head */
    FV_MARK_LEFT,
};

typedef struct fv_tensor_reader {
    fovea_model *m; /* its parameters are counted as they are read */
    const fv_source *source;
    const char *config; /* name of the file, for messages */
    char root[FV_READER_ROOT];
} fv_tensor_reader;

/* Sets the root to the source's prefix. New tensors get this root if no existing tensor determines
 * one. */
void fv_reader_begin(fv_tensor_reader *t);

/* Finds the root under which the checkpoint has this tensor: the source's prefix, followed by a
 * prefix under which programs save a model ("model.", "state_dict.", "teacher."; fv_wrappers_keep).
 * Averaged weights are preferred. Returns false if there is no such tensor; the root is then
 * unchanged. */
bool fv_reader_unwrap(fv_tensor_reader *t, const char *prefix, const char *stem, const char *part);

/* Appends a prefix to the root. Returns FOVEA_EFORMAT if it does not fit. */
fovea_status fv_reader_enter(fv_tensor_reader *t, const char *prefix);

/* Copies the reader for a part outside the encoder, such as a head. The copy's root is the root of
 * `t`, or the longest prefix of that root under which the checkpoint has this tensor. Returns false
 * if there is no such tensor; *out is then equal to *t. */
bool fv_reader_find_outside(fv_tensor_reader *out, const fv_tensor_reader *t, const char *stem,
                            const char *part);

/* For messages: finds a root under which the checkpoint lists both stem + "weight" and the tensor
 * `companion`. */
bool fv_reader_nearest(char root[FV_READER_ROOT], const fv_tensor_reader *t, const char *stem,
                       const char *companion);

/* Logs two messages: which parts of a checkpoint were not read, and which of two sets of weights
 * was read. */
void fv_reader_tell_unread(const fv_source *source);

/* Finds the first tensor whose name contains a word that begins with the text. Returns false if
 * there is none. */
bool fv_reader_names(char name[FV_READER_NAME], const fv_tensor_reader *t, const char *text);

typedef struct fv_reader_hint {
    char text[128 + 3 * FV_SOURCE_PREFIX];
} fv_reader_hint;
/* For a message about a missing tensor: returns a text "; ..." with the prefix under which the
 * checkpoint has a tensor of that name, or "" if there is no such prefix. */
const char *fv_reader_elsewhere(fv_reader_hint *out, const fv_tensor_reader *t, const char *name);

/* Fails with FOVEA_EFORMAT because the tensor is missing. `what` is its purpose in words, or its
 * shape. */
fovea_status fv_reader_missing(const fv_tensor_reader *t, const char *name, const char *what);

/* Fails with FOVEA_EFORMAT because a checkpoint of `what` would have a tensor with the name
 * `first`. */
fovea_status fv_reader_fail_names(const fv_tensor_reader *t, const char *what, const char *first);

/* Returns the tensor of that name, or NULL if there is none or the stem is NULL. */
const fv_tensor *fv_reader_find(const fv_tensor_reader *t, const char *prefix, const char *stem,
                                const char *part);
/* Returns whether there is a tensor of that name. Does not open its shard. */
bool fv_reader_lists(const fv_tensor_reader *t, const char *prefix, const char *stem,
                     const char *part);
/* Returns FOVEA_EFORMAT unless n is from 1 to `most`. `what` is the name of n in the message. */
fovea_status fv_reader_check_size(const fv_tensor_reader *t, const char *what, uint32_t n,
                                  uint32_t most);
/* Returns FOVEA_EFORMAT if `key` in the configuration is a number other than n, the number
 * according to the tensors. */
fovea_status fv_reader_agree(const fv_tensor_reader *t, const fv_config *c, const char *key,
                             uint32_t n);
/* Reads dimension i of a tensor. The tensor must exist and the dimension must be from 1 to `most`;
 * otherwise returns FOVEA_EFORMAT with the tensor's name, and `what` for the dimension, in the
 * message. */
fovea_status fv_reader_dimension(uint32_t *out, const fv_tensor_reader *t, const char *prefix,
                                 const char *stem, const char *part, uint32_t i, const char *what,
                                 uint32_t most);
/* Counts consecutive parts, from number 0 to `most`, with a tensor "weight" whose stem has the
 * number in it, as `format` specifies. Returns most + 1 if there are more. */
uint32_t fv_reader_count(const fv_tensor_reader *t, const char *prefix, const char *format,
                         uint32_t most);
/* Reads the name of an activation: relu, silu or gelu. `usual` applies if `key` is absent. */
fovea_status fv_config_activation(uint32_t *out, const fv_config *c, const char *key,
                                  const char *usual);
/* Returns dimension i of a tensor, or 0 if the tensor has no such dimension or is NULL. */
uint32_t fv_tensor_dimension(const fv_tensor *tensor, uint32_t i);

/* Finds the tensor of that name, which must have a floating type and this shape; dimensions of 1
 * are ignored. */
fovea_status fv_reader_tensor(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rank,
                              const uint64_t *shape);
/* Finds a tensor of n numbers that are not trained, such as running means. They do not count as
 * parameters. */
fovea_status fv_reader_buffer(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t n);
/* Adds a whole tensor of at.rows x at.cols elements to *w as the part `at`. */
fovea_status fv_reader_part(fv_weight *w, fv_tensor_reader *t, const char *prefix, const char *stem,
                            const char *part, fv_weight_part at);
/* Makes *w a whole tensor of rows x cols elements. */
fovea_status fv_reader_matrix(fv_weight *w, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rows, uint32_t cols);
/* Reads stem + "weight" (rows, cols) and stem + "bias" (rows). */
fovea_status fv_reader_linear(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t rows, uint32_t cols);
/* Reads `n` such layers as one, whose rows are those of each in turn. */
fovea_status fv_reader_stacked(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                               const char *const stems[], const uint32_t rows[], uint32_t n,
                               uint32_t cols);
/* Makes a layer of rows [from, from + rows) of a weight with `cols` columns, and of its biases,
 * unless `bias` is NULL. */
void fv_layer_cut(fv_layer *l, const fv_tensor *weight, const fv_tensor *bias, uint32_t cols,
                  uint32_t from, uint32_t rows);
/* Reads a convolution: stem + "weight" (rows, channels, size, size), whose columns are reordered to
 * (ky, kx, channel), and stem + "bias" (rows) if it exists. */
fovea_status fv_reader_conv(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t rows, uint32_t channels, uint32_t size);
/* Reads stem + "weight" (width) and stem + "bias" (width). */
fovea_status fv_reader_norm(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t width);

/* Adds a tensor of that name with values uniformly distributed from mean - spread to mean + spread.
 * It replaces an existing tensor. */
fovea_status fv_reader_put(fv_tensor_reader *t, const char *prefix, const char *stem,
                           const char *part, uint32_t rank, const uint64_t *shape, float mean,
                           float spread);

/* Adds a tensor of that name with `blocks` identity matrices of d x d elements. */
fovea_status fv_reader_put_identity(fv_tensor_reader *t, const char *prefix, const char *stem,
                                    const char *part, uint32_t blocks, uint32_t d);

/* Adds a new convolution: stem + "weight" (rows, channels, size, size) and stem + "bias" of zeros.
 * If size is 1, the weight is (rows, channels) unless `whole`. The weights' size keeps the
 * magnitude of the inputs. With `bent`, it keeps the magnitude that the inputs had before a ReLU,
 * which halves the sum of their squares. */
fovea_status fv_reader_put_conv(fv_tensor_reader *t, const char *prefix, const char *stem,
                                const uint64_t shape[4], bool whole, bool bent);

/* Adds stem + "weight" (classes, width) and stem + "bias" (classes) of a new head. */
fovea_status fv_reader_put_head(fv_tensor_reader *t, const char *stem, uint32_t classes,
                                uint32_t width);

/* Marks tensors as not needed that were not read and whose names contain `part` in the word that
 * follows `prefix`. */
void fv_reader_ignore(fv_tensor_reader *t, const char *prefix, const char *part);
/* Marks tensors of unsupported parts as skipped. A log message reports them. */
void fv_reader_leave(fv_tensor_reader *t, const char *prefix, const char *part);
/* Returns FOVEA_ENOTSUP if a floating-point tensor whose name begins with `prefix` has no mark. */
fovea_status fv_reader_all_used(const fv_tensor_reader *t, const char *prefix);

#endif
