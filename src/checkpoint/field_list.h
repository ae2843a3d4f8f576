/* field_list.h: the fields that a JSON file of a checkpoint may have. One that no reader knows may
 * change the arithmetic, so that it is refused by name.
 *
 * A list is words with spaces between them:
 *   name          any value: it is read elsewhere, the tensors show it, or it changes nothing here
 *   name=true     this flag alone, or name=false
 *   name={}       a list or an object without members, or false
 *   name=text     this text alone
 */
#ifndef FOVEA_SRC_FIELD_LIST_H
#define FOVEA_SRC_FIELD_LIST_H

#include "checkpoint/config.h"

/* ENOTSUP names a field of `c` that is neither in `list` nor in `more` (NULL: none), or has a value
 * that is not supported, and says how to let it pass: where it does not change `what`. Null, what
 * nobody reads and is NaN or infinite (no value, no limit), names that begin with "_" and those of
 * `ignore` (a list, or NULL) pass. */
fovea_status fv_field_list_check(const fv_config *c, const char *list, const char *more,
                                 const json_t *ignore, const char *what);

/* "ignore" of the section "fovea" of a config.json, or NULL. EFORMAT: it is not a list. */
fovea_status fv_field_list_ignore(const json_t **out, const fv_config *own);

/* Whether such a list, or NULL, has the name. */
bool fv_field_list_has(const json_t *ignore, const char *name);

#endif
