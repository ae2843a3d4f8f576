/* wrappers.h: finds, by the names of tensors, in which wrappers and where training programs have
 * saved a model.
 *
 *     ema_model.module.  encoder._orig_mod.layer.0.module.norm1.weight
 *     \ where the model is kept             \ modules around its parts
 */
#ifndef FOVEA_SRC_WRAPPERS_H
#define FOVEA_SRC_WRAPPERS_H

#include <stddef.h>

#include "base/status.h"

/* A module around another one ("_orig_mod" of torch.compile, "module" of DistributedDataParallel,
 * those of FSDP and of checkpointed activations) adds a component to the names of all tensors
 * inside it. *out is the name without these components, except those at its beginning, which wrap
 * the whole model; the caller frees it with fv_mem_free. NULL: the name has none to remove. */
fovea_status fv_wrappers_strip(char **out, const char *name);

/* Where a program saves the weights of a model. If it saves them more than once, the highest value
 * is read. */
enum fv_keeping {
    FV_KEPT_NOWHERE, /* not a known place: some word of the name is not known */
    FV_KEPT_RAW,     /* the weights of which averages exist as well: "student." */
    FV_KEPT,         /* "model.", "state_dict." */
    FV_KEPT_AVERAGE, /* "ema_model.", "teacher." */
};

/* Where a program saves a model whose names begin with these n characters, such as
 * "module.model.ema." (n may be 0). They may be modules around it, attributes and keys, one inside
 * another. */
enum fv_keeping fv_wrappers_keep(const char *name, size_t n);

#endif
