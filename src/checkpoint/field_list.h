/* field_list.h: the fields that a JSON file of a checkpoint may have. A field that no reader knows
 * might change the model's results, so a file with such a field is refused.
 *
 * A list consists of words, separated by spaces:
 *   name          any value: it is read elsewhere, the tensors show it, or it changes nothing here
 *   name=true     true or 1 only; name=false: false or 0 only
 *   name={}       only a list or an object without members, or false
 *   name=text     only this text */
#ifndef FOVEA_SRC_FIELD_LIST_H
#define FOVEA_SRC_FIELD_LIST_H

#include "checkpoint/config.h"

/* Returns FOVEA_ENOTSUP if `c` has a field that is neither in `list` nor in `more` (or NULL), whose
 * values have priority, or a field with a value that is not supported. The message names the field,
 * and says how to ignore it if it does not change `what`. Null always passes. NaN and infinities,
 * which mean no value or no limit, pass in fields that nobody reads. Names that begin with "_" or
 * are in `ignore` (a list, or NULL) pass too. */
fovea_status fv_field_list_check(const fv_config *c, const char *list, const char *more,
                                 const json_t *ignore, const char *what);

/* Sets *out to the list "ignore" in section "fovea" of a config.json, or to NULL if there is none.
 * Returns FOVEA_EFORMAT if the value is not a list. */
fovea_status fv_field_list_ignore(const json_t **out, const fv_config *own);

/* Returns whether such a list, or NULL, contains the name. */
bool fv_field_list_has(const json_t *ignore, const char *name);

#endif
