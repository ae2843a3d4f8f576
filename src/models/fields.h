/* fields.h: checks the fields of config.json, because a field that no reader knows might change
 * what the model computes. */
#ifndef FOVEA_SRC_MODELS_FIELDS_H
#define FOVEA_SRC_MODELS_FIELDS_H

#include "checkpoint/field_list.h"

/* Checks the fields of `vision`, the section that describes a model of transformers, or of timm's
 * "model_args". Returns FOVEA_ENOTSUP if a field is neither in the lists for their ViTs nor in
 * `more` (which may be NULL), or if its value is not supported; the message names the field. Fields
 * listed under "ignore" in `own`, the section "fovea", are accepted. `config` is the whole file. */
fovea_status fv_fields_check(const fv_config *config, const fv_config *vision, const fv_config *own,
                             const char *more);
/* Checks that a section has only the fields in `list`. `config` is the whole file. */
fovea_status fv_fields_check_section(const fv_config *section, const fv_config *config,
                                     const char *list);
/* Checks the configuration of a MAViT, NaLaFormer or PolaFormer: the whole file, or a section of
 * it. */
fovea_status fv_fields_check_pyramid(const fv_config *pyramid, const fv_config *config);
/* Sets *out to whether the section "fovea" of the whole file lists `name` under "ignore". */
fovea_status fv_fields_ignored(bool *out, const fv_config *config, const char *name);

#endif
