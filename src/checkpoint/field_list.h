/* field_list.h: the fields that a JSON file of a checkpoint may have. A field that no reader knows
 * might change what the model computes, so a file that has one is refused.
 *
 * A list is words with spaces between them:
 *   name          any value: it is read elsewhere, the tensors show it, or it changes nothing here
 *   name=true     true or 1 only; name=false: false or 0 only
 *   name={}       only a list or an object without members, or false
 *   name=text     only this text
 */
#ifndef FOVEA_SRC_FIELD_LIST_H
#define FOVEA_SRC_FIELD_LIST_H

#include "checkpoint/config.h"

/* ENOTSUP if `c` has a field that is neither in `list` nor in `more` (or NULL), or one with a value
 * that is not supported. The message names the field and says how to have it ignored if it does not
 * change `what`. Null always passes, NaN and infinities pass in fields that nobody reads (no value,
 * no limit), and so do names that begin with "_" or are in `ignore` (a list, or NULL). */
fovea_status fv_field_list_check(const fv_config *c, const char *list, const char *more,
                                 const json_t *ignore, const char *what);

/* "ignore" of the section "fovea" of a config.json, or NULL. EFORMAT: it is not a list. */
fovea_status fv_field_list_ignore(const json_t **out, const fv_config *own);

/* Whether such a list, or NULL, has the name. */
bool fv_field_list_has(const json_t *ignore, const char *name);

#endif
