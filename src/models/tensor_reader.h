/* tensor_reader.h: how a family reads weights from a checkpoint: by name, with shape and type
 * checked, and a message that names the file, the tensor and what was expected.
 *
 * A name is root + prefix + stem + part, such as "model." "encoder.layer.0." "norm1." "weight". The
 * root is the source's prefix, followed by the prefix under which a training program saves its
 * model. Components that wrapper modules add to names are left out (wrappers.h).
 */
#ifndef FOVEA_SRC_TENSOR_READER_H
#define FOVEA_SRC_TENSOR_READER_H

#include "checkpoint/config.h"
#include "checkpoint/source.h"
#include "checkpoint/weight.h"
#include "models/model.h"

#define FV_READER_ROOT FV_SOURCE_ROOT
#define FV_READER_NAME (192 + FV_READER_ROOT) /* maximum bytes of a name */

/* What a tensor is used for: the marks of fv_source. */
enum fv_mark {
    FV_MARK_NONE,
    FV_MARK_READ,     /* it has a role */
    FV_MARK_NEEDLESS, /* not needed: it is only for training, or its values are computed */
    FV_MARK_LEFT, /* it belongs to a part that is not supported and may be skipped, such as a head
                   */
};

typedef struct fv_tensor_reader {
    fovea_model *m; /* its parameters are counted as they are read */
    const fv_source *source;
    const char *config; /* file, for messages */
    char root[FV_READER_ROOT];
} fv_tensor_reader;

/* Sets the root to the source's prefix, for new tensors if no existing tensor shows the root. */
void fv_reader_begin(fv_tensor_reader *t);

/* Finds the root under which the checkpoint has this tensor: the source's prefix, followed by a
 * prefix under which programs save a model ("model.", "state_dict.", "teacher."; fv_wrappers_keep).
 * Averaged weights are preferred. False if there is no such tensor; the root is then unchanged. */
bool fv_reader_unwrap(fv_tensor_reader *t, const char *prefix, const char *stem, const char *part);

/* Copies the reader for a part outside the encoder, such as a head. Its root is the root of `t`, or
 * the longest prefix of it under which the checkpoint has this tensor. False if there is no such
 * tensor; *out is then equal to *t. */
bool fv_reader_find_outside(fv_tensor_reader *out, const fv_tensor_reader *t, const char *stem,
                            const char *part);

/* For messages: finds any root under which both stem + "weight" and the tensor `companion` are
 * listed. */
bool fv_reader_nearest(char root[FV_READER_ROOT], const fv_tensor_reader *t, const char *stem,
                       const char *companion);

/* Logs two messages: which parts of a checkpoint were not read, and which of two sets of weights
 * was read. */
void fv_reader_tell_unread(const fv_source *source);

/* Finds the first tensor in whose name a word begins with the text. False: there is no such tensor.
 */
bool fv_reader_names(char name[FV_READER_NAME], const fv_tensor_reader *t, const char *text);

typedef struct fv_reader_hint {
    char text[128 + 3 * FV_SOURCE_PREFIX];
} fv_reader_hint;
/* For a message about a missing tensor: a text "; ..." with the prefix under which the checkpoint
 * has a tensor of that name, or "" if there is no such prefix. */
const char *fv_reader_elsewhere(fv_reader_hint *out, const fv_tensor_reader *t, const char *name);

/* Fails with EFORMAT because the tensor is missing. `what`: its purpose in words, or its shape. */
fovea_status fv_reader_missing(const fv_tensor_reader *t, const char *name, const char *what);

/* Fails with EFORMAT because a checkpoint of `what` would have a tensor of the name `first`. */
fovea_status fv_reader_fail_names(const fv_tensor_reader *t, const char *what, const char *first);

/* The tensor of that name, or NULL; a NULL stem finds nothing. */
const fv_tensor *fv_reader_find(const fv_tensor_reader *t, const char *prefix, const char *stem,
                                const char *part);
/* Whether there is a tensor of that name; does not open its shard. */
bool fv_reader_lists(const fv_tensor_reader *t, const char *prefix, const char *stem,
                     const char *part);
/* EFORMAT unless n is 1 to `most`. `what`: the name of n in the message. */
fovea_status fv_reader_check_size(const fv_tensor_reader *t, const char *what, uint32_t n,
                                  uint32_t most);
/* EFORMAT if the configuration has `key` with a number other than n, that of the tensors. */
fovea_status fv_reader_agree(const fv_tensor_reader *t, const fv_config *c, const char *key,
                             uint32_t n);
/* Reads dimension i of a tensor, which must exist; the dimension must be 1 to `most`. The message
 * of EFORMAT has the tensor's name, and `what` for the dimension. */
fovea_status fv_reader_dimension(uint32_t *out, const fv_tensor_reader *t, const char *prefix,
                                 const char *stem, const char *part, uint32_t i, const char *what,
                                 uint32_t most);
/* Dimension i of a tensor; 0 if it has no such dimension or is NULL. */
uint32_t fv_tensor_dimension(const fv_tensor *tensor, uint32_t i);

/* Finds the tensor of that name, which must have a floating type and this shape; dimensions of 1
 * are ignored. */
fovea_status fv_reader_tensor(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rank,
                              const uint64_t *shape);
/* The same for n numbers that are not trained, such as running means, and not counted as
 * parameters. */
fovea_status fv_reader_buffer(const fv_tensor **out, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t n);
/* Adds a whole tensor of at.rows x at.cols to *w as the part `at`. */
fovea_status fv_reader_part(fv_weight *w, fv_tensor_reader *t, const char *prefix, const char *stem,
                            const char *part, fv_weight_part at);
/* Makes *w a whole tensor of rows x cols. */
fovea_status fv_reader_matrix(fv_weight *w, fv_tensor_reader *t, const char *prefix,
                              const char *stem, const char *part, uint32_t rows, uint32_t cols);
/* Reads stem + "weight" (rows, cols) and stem + "bias" (rows). */
fovea_status fv_reader_linear(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t rows, uint32_t cols);
/* Reads a convolution: stem + "weight" (rows, channels, size, size), whose columns become (ky, kx,
 * channel), and stem + "bias" (rows), if it exists. */
fovea_status fv_reader_conv(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t rows, uint32_t channels, uint32_t size);
/* Reads stem + "weight" (width) and stem + "bias" (width). */
fovea_status fv_reader_norm(fv_layer *l, fv_tensor_reader *t, const char *prefix, const char *stem,
                            uint32_t width);

/* Adds a tensor of that name with values uniform in mean - spread ... mean + spread; it replaces an
 * existing one. */
fovea_status fv_reader_put(fv_tensor_reader *t, const char *prefix, const char *stem,
                           const char *part, uint32_t rank, const uint64_t *shape, float mean,
                           float spread);

/* The same for `blocks` identity matrices of d x d. */
fovea_status fv_reader_put_identity(fv_tensor_reader *t, const char *prefix, const char *stem,
                                    const char *part, uint32_t blocks, uint32_t d);

/* Adds a new convolution: stem + "weight" (rows, channels, size, size) and stem + "bias" of zeros.
 * If size is 1, the weight is (rows, channels) unless `whole`. Outputs are about as large as the
 * inputs; with `bent`, as the inputs were before a ReLU, which halves the sum of their squares. */
fovea_status fv_reader_put_conv(fv_tensor_reader *t, const char *prefix, const char *stem,
                                const uint64_t shape[4], bool whole, bool bent);

/* Adds stem + "weight" (classes, width) and stem + "bias" (classes) of a new head. */
fovea_status fv_reader_put_head(fv_tensor_reader *t, const char *stem, uint32_t classes,
                                uint32_t width);

/* Marks tensors as not needed: those that were not read and whose names have `part` in the word
 * that follows `prefix`. */
void fv_reader_ignore(fv_tensor_reader *t, const char *prefix, const char *part);
/* Marks tensors of parts that are not supported and are skipped; a log message reports them. */
void fv_reader_leave(fv_tensor_reader *t, const char *prefix, const char *part);
/* ENOTSUP if a floating tensor whose name begins with `prefix` has no mark. */
fovea_status fv_reader_all_used(const fv_tensor_reader *t, const char *prefix);

#endif
