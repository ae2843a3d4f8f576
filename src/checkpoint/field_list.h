/* field_list.h: the fields that a JSON file of a checkpoint may have. One that no reader knows may
 * change the arithmetic, so that it is refused by name.
 */
#ifndef FOVEA_SRC_FIELD_LIST_H
#define FOVEA_SRC_FIELD_LIST_H

#include "checkpoint/config.h"

typedef struct fv_field {
    char name[40]; /* no pointer, which the loader would have to relocate; "" ends a list */
    enum fv_field_rule {
        FV_FIELD_ANY, /* it is read elsewhere, the tensors show it, or it changes nothing here */
        FV_FIELD_TEXT,
        FV_FIELD_TRUE,
        FV_FIELD_FALSE,
        FV_FIELD_EMPTY, /* a list or an object without members, or false */
    } rule;
    const char *text; /* FV_FIELD_TEXT: the one that is supported */
} fv_field;

/* ENOTSUP names a field of `c` that is neither in `list` nor in `more` (NULL: none), or has a value
 * that is not supported, and says how to let it pass: where it does not change `what`. Null, what
 * nobody reads and is NaN or infinite (no value, no limit), names that begin with "_" and those of
 * `ignore` (a list, or NULL) pass. */
fovea_status fv_field_list_check(const fv_config *c, const fv_field *list, const fv_field *more,
                                 const json_t *ignore, const char *what);

/* "ignore" of the section "fovea" of a config.json, or NULL. EFORMAT: it is not a list. */
fovea_status fv_field_list_ignore(const json_t **out, const fv_config *own);

/* Whether such a list, or NULL, has the name. */
bool fv_field_list_has(const json_t *ignore, const char *name);

#endif
