/* json.h: JSON as the tools of users write it, read with jansson.
 *
 * Python's json module wrote most of the files that are read here, and accepts more than jansson
 * does: NaN and Infinity, integers of any length, a key twice (the last one counts), half of a
 * surrogate pair. All of that is read. What a value is worth is asked by the functions below: they
 * know that 3.0 is a whole number and that 1 may stand for true, and say false for everything that
 * is not what was asked for, so that nothing is taken for 0.
 *
 * The library and the program have this folder in common, so that it depends on neither.
 */
#ifndef FOVEA_SRC_JSON_H
#define FOVEA_SRC_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

enum {
    FV_JSON_DEPTH = 32, /* levels of objects and lists in each other, at most */
    FV_JSON_ID = 320,   /* bytes that hold the numeral of any number */
    FV_JSON_SHOWN = 64, /* bytes of a value in a message */
};

typedef struct fv_json_error {
    char text[240]; /* one line, which does not name the file */
} fv_json_error;

enum fv_json_flags {
    FV_JSON_UNIQUE = 1, /* a key twice is an error, for formats that forbid it */
};

/* An object or a list; NULL: `size` bytes of text are none, and *error says why. A byte order mark
 * is skipped. Release the value with json_decref. */
json_t *fv_json_parse(const char *text, size_t size, unsigned flags, fv_json_error *error);

/* A finite number. */
bool fv_json_number(double *out, const json_t *value);
/* A whole number of 64 bits: 3 and 3.0. */
bool fv_json_whole(int64_t *out, const json_t *value);
/* true, false, 1 and 0. */
bool fv_json_flag(bool *out, const json_t *value);
/* NaN, Infinity and -Infinity: as a setting no value, or no limit. */
bool fv_json_unbounded(const json_t *value);

/* An identifier by its value, as a text that is equal for equal ones: 3, 3.0, "3" and "003" are
 * one, "frame_3" is another. It is in `shown` or belongs to the value. NULL: a boolean, a list,
 * an object, null or NaN, which identify nothing. */
const char *fv_json_id(char shown[FV_JSON_ID], const json_t *value);
/* Below, equal to or above 0 as strcmp says it, of two such texts: numbers by their value, before
 * all others. */
int fv_json_id_order(const char *a, const char *b);

/* What a value is, for a message that refuses it: "\"12px\"", "null", "NaN", "a list". NULL, which
 * an absent member is: "missing". */
const char *fv_json_show(char shown[FV_JSON_SHOWN], const json_t *value);

#endif
