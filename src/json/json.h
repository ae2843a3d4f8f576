/* json.h: JSON as the tools of users write it, read with jansson.
 *
 * Python's json module wrote most of the files that are read here. It accepts more than jansson
 * does: NaN and Infinity, integers of any length, a repeated key (the last one counts), and half of
 * a surrogate pair. Fovea reads all of these. The functions below read values. They accept 3.0 as a
 * whole number and 1 as true. They return false for a value of any type other than the requested
 * one, so that no such value is mistaken for 0.
 *
 * The library and the program share this folder, which therefore depends on neither. */
#ifndef FOVEA_SRC_JSON_H
#define FOVEA_SRC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum {
    FV_JSON_DEPTH = 32, /* maximum depth of nested objects and lists */
    FV_JSON_ID = 320,   /* size of a buffer that holds the digits of any number */
    FV_JSON_SHOWN = 64, /* size of a buffer that holds a value in a message */
};

typedef struct fv_json_error {
    char text[240]; /* one line, which does not name the file */
} fv_json_error;

enum fv_json_flags {
    FV_JSON_UNIQUE = 1, /* a key that occurs twice is an error, for formats that forbid it */
};

/* Parses `size` bytes of text, which is an object or a list. Returns NULL if the text is neither,
 * and *error says why. A byte order mark is skipped. Release the value with json_decref. */
json_t *fv_json_parse(const char *text, size_t size, unsigned flags, fv_json_error *error);

/* Reads a finite number. */
bool fv_json_number(double *out, const json_t *value);
/* Reads a whole number of 64 bits, such as 3 or 3.0. */
bool fv_json_whole(int64_t *out, const json_t *value);
/* Reads true, false, 1 or 0. */
bool fv_json_flag(bool *out, const json_t *value);
/* Returns whether the value is NaN, Infinity or -Infinity. In a setting, such a value means no
 * value, or no limit. */
bool fv_json_unbounded(const json_t *value);

/* Returns an identifier as a text that is the same for equal identifiers: 3, 3.0, "3" and "003" are
 * equal, and "frame_3" differs from them. The text is stored in `shown` or belongs to the value.
 * Returns NULL if the value is a boolean, a list, an object, null or NaN, which identify nothing.
 */
const char *fv_json_id(char shown[FV_JSON_ID], const json_t *value);
/* Compares two texts that fv_json_id has returned, and returns what strcmp would. Numbers are
 * compared by value and precede all other texts. */
int fv_json_id_order(const char *a, const char *b);

/* Describes a value for a message that refuses it, for example as "\"12px\"", "null", "NaN" or "a
 * list". For NULL, an absent member, the text is "missing". */
const char *fv_json_show(char shown[FV_JSON_SHOWN], const json_t *value);

#endif
