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

/* A JSON object: a whole file, or a section such as "vision_config". */
typedef struct fv_config {
    const char *file;
    const char *section; /* name of the section, or "" */
    json_t *object;
} fv_config;

/* Parses `size` bytes of text that were read from `file`: an object, as json.h reads it. Returns
 * FOVEA_EFORMAT if the text is not one. Release *out with json_decref. */
fovea_status fv_config_parse(json_t **out, const char *file, const char *text, uint64_t size);
/* Parses text of a format in which a key must not occur twice. */
fovea_status fv_config_parse_unique(json_t **out, const char *file, const char *text,
                                    uint64_t size);

/* Parses a file of a store, of at most `limit` bytes. */
fovea_status fv_config_load(json_t **out, const fv_blob *file, uint64_t limit);

/* Returns the value of `key`, or NULL if it is absent or null. */
json_t *fv_config_get(const fv_config *c, const char *key);

/* Fails with FOVEA_EFORMAT and a message that says what `key` should be. */
fovea_status fv_config_fail(const fv_config *c, const char *key, const char *expected);

/* The getters do not change *out if the field is absent or null. They return FOVEA_EFORMAT for
 * another type or a value out of range; the message states the index of a list's item. 3.0 is
 * accepted as an integer, 1 and 0 as true and false. Texts belong to the configuration. */
fovea_status fv_config_u32(uint32_t *out, const fv_config *c, const char *key, uint32_t min,
                           uint32_t max);
fovea_status fv_config_float(float *out, const fv_config *c, const char *key, double min,
                             double max);
fovea_status fv_config_bool(bool *out, const fv_config *c, const char *key);
fovea_status fv_config_text(const char **out, const fv_config *c, const char *key);
fovea_status fv_config_floats(float *out, uint32_t n, const fv_config *c, const char *key,
                              double min, double max);
/* fv_config_count gets the length of a list that must exist and have 1 to `most` items.
 * fv_config_u32s reads the items of a list that must have n integers. */
fovea_status fv_config_count(uint32_t *out, const fv_config *c, const char *key, uint32_t most);
fovea_status fv_config_u32s(uint32_t *out, uint32_t n, const fv_config *c, const char *key,
                            uint32_t min, uint32_t max);
/* Gets the model's type: "fovea.model_type", else "model_type", else "architecture" (timm), else
 * NULL. Returns FOVEA_EFORMAT if it is not a valid name. */
fovea_status fv_config_type(const char **out, const fv_config *c);

/* Gets a section. out->object is NULL if there is no such section. */
fovea_status fv_config_section(fv_config *out, const fv_config *c, const char *key);
/* Finds the section of the vision tower in the configuration of a larger model. Its object is NULL
 * if there is no such section. */
fovea_status fv_config_tower(fv_config *out, const fv_config *c);

/* Reads a size in pixels: a number (both sides, and *square is set), a pair [height, width], or an
 * object with "height" and "width". If the field is absent, nothing changes. */
fovea_status fv_config_size(uint32_t *width, uint32_t *height, bool *square, const fv_config *c,
                            const char *key);

#endif
