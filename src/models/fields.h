/* fields.h: what config.json may say. A field that no reader knows may change the arithmetic. */
#ifndef FOVEA_SRC_MODELS_FIELDS_H
#define FOVEA_SRC_MODELS_FIELDS_H

#include "checkpoint/config.h"

typedef struct fv_field {
    char name[40]; /* no pointer, which the loader would have to relocate; "" ends a list */
    enum fv_field_rule {
        FV_FIELD_ANY, /* it is read elsewhere, the tensors show it, or it changes nothing here */
        FV_FIELD_TEXT,
        FV_FIELD_TRUE,
        FV_FIELD_FALSE,
        FV_FIELD_EMPTY, /* a list or an object without members */
    } rule;
    const char *text; /* FV_FIELD_TEXT: the one that is supported */
} fv_field;

/* ENOTSUP names a field of `vision`, where a model of transformers is described, or of timm's
 * "model_args", that is neither in the lists of their ViTs nor in `more` (NULL: none), or has a
 * value that is not supported; but for those that `own`, the section "fovea", has under "ignore".
 * `config` is the whole file. */
fovea_status fv_fields_check(const fv_config *config, const fv_config *vision, const fv_config *own,
                             const fv_field *more);
/* The same of a section that holds fields of `list` alone; `config` is the whole file. */
fovea_status fv_fields_check_section(const fv_config *section, const fv_config *config,
                                     const fv_field *list);
/* The same of MAViT, NaLaFormer or PolaFormer, whose configuration is the whole file. */
fovea_status fv_fields_check_pyramid(const fv_config *config);
/* Whether the section "fovea" of the whole file has `name` under "ignore". */
fovea_status fv_fields_ignored(bool *out, const fv_config *config, const char *name);

#endif
