/* fields.h: checks the fields of config.json. A field that no reader knows might change what the
 * model computes. */
#ifndef FOVEA_SRC_MODELS_FIELDS_H
#define FOVEA_SRC_MODELS_FIELDS_H

#include "checkpoint/field_list.h"

/* ENOTSUP if `vision`, the section that describes a model of transformers, or timm's "model_args"
 * has a field that is not in the lists for their ViTs nor in `more` (or NULL), or one with an
 * unsupported value; the message names it. Fields listed under "ignore" in `own`, the section
 * "fovea", pass. `config` is the whole file. */
fovea_status fv_fields_check(const fv_config *config, const fv_config *vision, const fv_config *own,
                             const char *more);
/* Checks a section that may have only the fields of `list`; `config` is the whole file. */
fovea_status fv_fields_check_section(const fv_config *section, const fv_config *config,
                                     const char *list);
/* Checks the configuration of a MAViT, NaLaFormer or PolaFormer, which is the whole file. */
fovea_status fv_fields_check_pyramid(const fv_config *config);
/* Whether the section "fovea" of the whole file has `name` under "ignore". */
fovea_status fv_fields_ignored(bool *out, const fv_config *config, const char *name);

#endif
