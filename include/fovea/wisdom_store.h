/* wisdom_store.h: the fastest choices found so far, kept as text. A part of fovea.h, whose rules
 * hold here. All functions are thread-safe.
 *
 * A fact is a line of text that needs no other line, so that texts of several devices and models
 * may be put together. It says which kernel with which settings suits a step, how a sweep runs, or
 * how long a frame takes. Plans look facts up by device and problem before they use their own
 * estimate; fovea_tune adds facts.
 *
 * A process has one store. It is read when it is first asked for: the file that FOVEA_WISDOM names
 * (empty: nothing is read at all), else fovea/wisdom in $XDG_CACHE_HOME or ~/.cache; then, for what
 * that file says nothing about, /etc/fovea/wisdom and what came with the library. A file that
 * cannot be read is a remark, not a failure. Lines about kernels that this version does not have
 * are skipped. All of this happens while planning, never while running.
 */
#ifndef FOVEA_WISDOM_STORE_H
#define FOVEA_WISDOM_STORE_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

/* How much a plan may measure. */
typedef enum fovea_rigor {
    FOVEA_RIGOR_DEFAULT,    /* FOVEA_RIGOR of the environment (estimate, measure, exhaustive), else
                               FOVEA_RIGOR_ESTIMATE */
    FOVEA_RIGOR_ESTIMATE,   /* nothing: wisdom, else the cost model */
    FOVEA_RIGOR_MEASURE,    /* the kernels and settings that the cost model ranks first */
    FOVEA_RIGOR_EXHAUSTIVE, /* every kernel and every setting */
} fovea_rigor;

typedef struct fovea_wisdom_info {
    size_t struct_size;
    size_t taken;   /* facts */
    size_t skipped; /* lines about kernels, revisions or settings that this version does not have */
} fovea_wisdom_info;
#define FOVEA_WISDOM_INFO_INIT FOVEA_INIT(fovea_wisdom_info, )

/* Adds the facts of a file to the store: of two about the same thing the more rigorous is kept,
 * else the newer. `out` may be NULL. EWISDOM for a malformed text, which changes nothing; EIO. */
FOVEA_API fovea_status fovea_wisdom_load(const char *path, fovea_wisdom_info *out);
/* The same for `size` bytes of text. */
FOVEA_API fovea_status fovea_wisdom_import(const char *text, size_t size, fovea_wisdom_info *out);
/* Writes the user's facts and those found by this process to `path`, merged with what is there, as
 * a whole or not at all. NULL: the file that is read first, whose folder is made. EWISDOM when the
 * file that is there holds no wisdom; it is left alone. */
FOVEA_API fovea_status fovea_wisdom_save(const char *path);
/* The whole store as text. *size gets its bytes, the terminating 0 included; they are written to
 * `text` unless it is NULL. EINVAL when `capacity` is less. */
FOVEA_API fovea_status fovea_wisdom_export(char *text, size_t capacity, size_t *size);
/* Empties the store; files stay as they are and are not read again. */
FOVEA_API void fovea_wisdom_forget(void);
/* The file that fovea_wisdom_save writes for NULL; "" when nothing is to be read. EIO without a
 * home directory; EINVAL when `capacity` bytes are too few. */
FOVEA_API fovea_status fovea_wisdom_path(char *out, size_t capacity);

FOVEA_END_DECLS

#endif
