/* wisdom_store.h: wisdom, the tuning results found so far, kept as text. A part of fovea.h, whose
 * rules hold here. All functions are thread-safe.
 *
 * A fact is one tuning result: which kernel with which settings is best for a step, how a sweep is
 * run, or how long a frame takes. It is a line of text that depends on no other line, so texts of
 * several devices and models may be concatenated. Plans look facts up by device and problem before
 * they use the cost model; fovea_tune adds facts.
 *
 * A process has one store. It is read when it is first needed: first the file that FOVEA_WISDOM
 * names (if the variable is empty, nothing is read at all), else fovea/wisdom in $XDG_CACHE_HOME or
 * ~/.cache; then /etc/fovea/wisdom and the file that comes with the library, for what the first
 * file says nothing about. A file that cannot be read causes a log message, not a failure. Lines
 * about kernels that this version does not have are skipped. All of this happens while planning,
 * never while frames run.
 */
#ifndef FOVEA_WISDOM_STORE_H
#define FOVEA_WISDOM_STORE_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

/* How much planning may measure. */
typedef enum fovea_rigor {
    FOVEA_RIGOR_DEFAULT,    /* FOVEA_RIGOR of the environment (estimate, measure, exhaustive), else
                               FOVEA_RIGOR_ESTIMATE */
    FOVEA_RIGOR_ESTIMATE,   /* nothing: wisdom is used, else the cost model */
    FOVEA_RIGOR_MEASURE,    /* the kernels and settings that the cost model ranks highest */
    FOVEA_RIGOR_EXHAUSTIVE, /* all kernels and settings */
} fovea_rigor;

typedef struct fovea_wisdom_info {
    size_t struct_size;
    size_t taken;   /* facts that were added */
    size_t skipped; /* lines about kernels, revisions or settings that this version does not have */
} fovea_wisdom_info;
#define FOVEA_WISDOM_INFO_INIT FOVEA_INIT(fovea_wisdom_info, )

/* Adds the facts of a file to the store. Of two facts about the same thing the one with more rigor
 * is kept, or the newer one if the rigor is the same. `out` may be NULL. EWISDOM: the text is
 * malformed, and nothing was added; EIO. */
FOVEA_API fovea_status fovea_wisdom_load(const char *path, fovea_wisdom_info *out);
/* Adds the facts in `size` bytes of text, in the same way. */
FOVEA_API fovea_status fovea_wisdom_import(const char *text, size_t size, fovea_wisdom_info *out);
/* Writes the user's facts and those that this process has found to `path`, merged with the facts of
 * the existing file. The file is replaced as a whole or not at all. NULL: the user's file,
 * which is the one that is read first; its folder is made. EWISDOM: the existing file does not
 * hold wisdom, and was not changed; EIO. */
FOVEA_API fovea_status fovea_wisdom_save(const char *path);
/* Exports the whole store as text. *size receives its bytes, with the terminating 0; `text`, if it
 * is not NULL, receives the text. EINVAL: `capacity` is less than *size. */
FOVEA_API fovea_status fovea_wisdom_export(char *text, size_t capacity, size_t *size);
/* Empties the store. Files are neither changed nor read again. */
FOVEA_API void fovea_wisdom_forget(void);
/* Writes the path of the user's file to `out`, of `capacity` bytes; "" if FOVEA_WISDOM is empty.
 * EIO: there is no home directory; EINVAL: the path does not fit. */
FOVEA_API fovea_status fovea_wisdom_path(char *out, size_t capacity);

FOVEA_END_DECLS

#endif
