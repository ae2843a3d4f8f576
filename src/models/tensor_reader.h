/* tensor_reader.h: how a family reads weights from a checkpoint: by name, with shape and type
 * checked, and a message that names the file, the tensor and what was expected.
 *
 * A name is root + prefix + stem + part, such as "model." "encoder.layer.0." "norm1." "weight". The
 * root is the source's prefix, and where a training program keeps its model after it. What modules
 * around modules put into names is not in them (wrappers.h).
 */
#ifndef FOVEA_SRC_TENSOR_READER_H
#define FOVEA_SRC_TENSOR_READER_H

#include "checkpoint/config.h"
#include "checkpoint/source.h"
#include "checkpoint/weight.h"
#include "models/model.h"

#define FV_READER_ROOT FV_SOURCE_ROOT
#define FV_READER_NAME (192 + FV_READER_ROOT) /* bytes of a name, at most */

/* What a tensor is used for; marks of the source. */
enum fv_mark {
    FV_MARK_NONE,
    FV_MARK_READ,     /* it has a role */
    FV_MARK_NEEDLESS, /* no use of a model reads it: it serves training alone, or is computed */
    FV_MARK_LEFT,     /* it is a part that is not supported and may be left alone, such as a head */
};

typedef struct fv_tensor_reader {
    fovea_model *m; /* whose parameters are counted while they are read */
    const fv_source *source;
    const char *config; /* file, for messages */
    char root[FV_READER_ROOT];
} fv_tensor_reader;

/* The root of new tensors, where no existing tensor shows it: the source's prefix. */
void fv_reader_begin(fv_tensor_reader *t);

/* Finds the root under which the checkpoint has this tensor: the source's prefix, and where
 * programs keep a model ("model.", "state_dict.", "teacher.", fv_wrappers_keep), averaged weights
 * first. False if there is no such tensor; the root is then left as it was. */
bool fv_reader_unwrap(fv_tensor_reader *t, const char *prefix, const char *stem, const char *part);

/* A copy of the reader for a part outside the encoder, such as a head: its root is the root of `t`,
 * or the longest prefix of that under which the checkpoint has this tensor. False if there is none;
 * *out is then equal to *t. */
bool fv_reader_find_outside(fv_tensor_reader *out, const fv_tensor_reader *t, const char *stem,
                            const char *part);

/* For messages: any root at all under which stem + "weight" and the tensor `companion` are listed.
 */
bool fv_reader_nearest(char root[FV_READER_ROOT], const fv_tensor_reader *t, const char *stem,
                       const char *companion);

/* Logs two messages: which parts of a checkpoint were not read, and which of two sets of weights
 * was read. */
void fv_reader_tell_unread(const fv_source *source);

/* The name of the first tensor that has the text at the beginning of a word; false: there is none.
 */
bool fv_reader_names(char name[FV_READER_NAME], const fv_tensor_reader *t, const char *text);

typedef struct fv_reader_hint {
    char text[128 + 3 * FV_SOURCE_PREFIX];
} fv_reader_hint;
/* For a message about a missing tensor: the prefix under which the checkpoint has a tensor of that
 * name, as "; ...", or "" if it has none. */
const char *fv_reader_elsewhere(fv_reader_hint *out, const fv_tensor_reader *t, const char *name);

/* EFORMAT: the tensor is missing. `what`: its purpose in words, or its shape. */
fovea_status fv_reader_missing(const fv_tensor_reader *t, const char *name, const char *what);

/* EFORMAT: a checkpoint of `what` has a tensor of the name `first`. */
fovea_status fv_reader_fail_names(const fv_tensor_reader *t, const char *what, const char *first);

/* The tensor of that name, or NULL; a NULL stem finds nothing. */
const fv_tensor *fv_reader_find(const fv_tensor_reader *t, const char *prefix, const char *stem,
                                const char *part);
/* Whether there is a tensor of that name; its shard stays closed. */
bool fv_reader_lists(const fv_tensor_reader *t, const char *prefix, const char *stem,
                     const char *part);
/* EFORMAT unless n, `what` in words, is 1 to `most`. */
fovea_status fv_reader_check_size(const fv_tensor_reader *t, const char *what, uint32_t n,
                                  uint32_t most);
/* EFORMAT where the configuration has `key` and the tensors have another number, n. */
fovea_status fv_reader_agree(const fv_tensor_reader *t, const fv_config *c, const char *key,
                             uint32_t n);
/* Dimension i of a tensor that must be there, `what` in words, 1 to `most`. EFORMAT names the
 * tensor. */
fovea_status fv_reader_dimension(uint32_t *out, const fv_tensor_reader *t, const char *prefix,
                                 const char *stem, const char *part, uint32_t i, const char *what,
                                 uint32_t most);
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

/* Marks tensors that nothing needs: those that nobody has read and whose name has `part` in its
 * first word under `prefix`. */
void fv_reader_ignore(fv_tensor_reader *t, const char *prefix, const char *part);
/* The same for parts that are not supported and are skipped, which a log message reports. */
void fv_reader_leave(fv_tensor_reader *t, const char *prefix, const char *part);
/* ENOTSUP when a floating tensor whose name begins with `prefix` has no mark. */
fovea_status fv_reader_all_used(const fv_tensor_reader *t, const char *prefix);

#endif
