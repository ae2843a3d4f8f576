/* fields.h: what config.json may say. A field that no reader knows may change the arithmetic. */
#ifndef FOVEA_SRC_MODELS_FIELDS_H
#define FOVEA_SRC_MODELS_FIELDS_H

#include "checkpoint/field_list.h"

/* ENOTSUP names a field of `vision`, where a model of transformers is described, or of timm's
 * "model_args", that is neither in the lists of their ViTs nor in `more` (NULL: none), or has a
 * value that is not supported. Fields listed under "ignore" in `own`, the section "fovea", pass.
 * `config` is the whole file. */
fovea_status fv_fields_check(const fv_config *config, const fv_config *vision, const fv_config *own,
                             const char *more);
/* The same for a section that holds fields of `list` alone; `config` is the whole file. */
fovea_status fv_fields_check_section(const fv_config *section, const fv_config *config,
                                     const char *list);
/* The same for MAViT, NaLaFormer or PolaFormer, whose configuration is the whole file. */
fovea_status fv_fields_check_pyramid(const fv_config *config);
/* Whether the section "fovea" of the whole file has `name` under "ignore". */
fovea_status fv_fields_ignored(bool *out, const fv_config *config, const char *name);

#endif
