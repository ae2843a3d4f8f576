/* config.h: reads the JSON files of a checkpoint, and their fields by type.
 *
 * Every message names the file and the field. A reader never sees a field of a wrong type or out of
 * its range.
 */
#ifndef FOVEA_SRC_CONFIG_H
#define FOVEA_SRC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/store.h"
#include "json/json.h"

/* An object in a file: the whole file, or a section such as "vision_config". */
typedef struct fv_config {
    const char *file;
    const char *section; /* "" or the name of the section */
    json_t *object;
} fv_config;

/* Parses `size` bytes of text that came from `file`: an object, as json.h reads it. EFORMAT.
 * Release *out with json_decref. */
fovea_status fv_config_parse(json_t **out, const char *file, const char *text, uint64_t size);
/* Parses text of a format in which a key must not occur twice. */
fovea_status fv_config_parse_unique(json_t **out, const char *file, const char *text,
                                    uint64_t size);

/* Parses a file of a store, of at most `limit` bytes. */
fovea_status fv_config_load(json_t **out, const fv_blob *file, uint64_t limit);

/* The value of `key`, NULL when it is absent or null. */
json_t *fv_config_get(const fv_config *c, const char *key);

/* Fails with EFORMAT and a message that says what `key` should be. */
fovea_status fv_config_fail(const fv_config *c, const char *key, const char *expected);

/* The getters leave *out as it is when the field is absent or null. EFORMAT for another type or a
 * value out of range; the message has the index of a list's item. 3.0 is accepted as an integer, 1
 * and 0 as true and false. Texts belong to the configuration. */
fovea_status fv_config_u32(uint32_t *out, const fv_config *c, const char *key, uint32_t min,
                           uint32_t max);
fovea_status fv_config_float(float *out, const fv_config *c, const char *key, double min,
                             double max);
fovea_status fv_config_bool(bool *out, const fv_config *c, const char *key);
fovea_status fv_config_text(const char **out, const fv_config *c, const char *key);
fovea_status fv_config_floats(float *out, uint32_t n, const fv_config *c, const char *key,
                              double min, double max);
/* fv_config_count: the length of a list that must exist, with 1 to `most` items. fv_config_u32s:
 * the items of a list that must have n integers. */
fovea_status fv_config_count(uint32_t *out, const fv_config *c, const char *key, uint32_t most);
fovea_status fv_config_u32s(uint32_t *out, uint32_t n, const fv_config *c, const char *key,
                            uint32_t min, uint32_t max);
/* The model's type: "fovea.model_type", else "model_type", else "architecture" (timm); NULL: none
 * of these exists. EFORMAT if it is not a valid name. */
fovea_status fv_config_type(const char **out, const fv_config *c);

/* out->object is NULL when there is no such section. */
fovea_status fv_config_section(fv_config *out, const fv_config *c, const char *key);

/* A size in pixels: a number (both sides, *square is set), a pair [height, width], or an object
 * with "height" and "width". If the field is absent, nothing is changed. */
fovea_status fv_config_size(uint32_t *width, uint32_t *height, bool *square, const fv_config *c,
                            const char *key);

#endif
