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

/* Removes wrappers from a name. A module around another one ("_orig_mod" of torch.compile, "module"
 * of DistributedDataParallel, the wrappers of FSDP and of checkpointed activations) adds a
 * component to the names of all tensors inside it. Sets *out to the name without these components,
 * except those at its beginning, which wrap the whole model; the caller frees it with fv_mem_free.
 * Sets *out to NULL if the name has no component to remove. */
fovea_status fv_wrappers_strip(char **out, const char *name);

/* Where a program saves the weights of a model. If it saves them more than once, those with the
 * highest value are read. */
enum fv_keeping {
    FV_KEPT_NOWHERE, /* unknown: some component of the name is not known */
    FV_KEPT_RAW,     /* weights for which averages are saved too: "student." */
    FV_KEPT,         /* "model.", "state_dict." */
    FV_KEPT_AVERAGE, /* "ema_model.", "teacher." */
};

/* Returns where a program saves a model whose names begin with these n characters, such as
 * "module.model.ema." (n may be 0). The components may be nested modules around the model,
 * attributes and keys. */
enum fv_keeping fv_wrappers_keep(const char *name, size_t n);

#endif
