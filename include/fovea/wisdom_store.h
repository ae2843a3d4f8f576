/* wisdom_store.h: wisdom: the tuning results found so far, as text. This header is part of fovea.h,
 * whose rules apply here. All functions are thread-safe.
 *
 * A fact is one tuning result: the best kernel and settings for a step, the way to run a sweep, or
 * the duration of a frame. It is a line of text that depends on no other line, so texts of several
 * devices and models may be concatenated. Plans look facts up by device and problem before they use
 * the cost model; fovea_tune adds facts.
 *
 * A process has one store, which is read when it is first needed. The first file is the one that
 * FOVEA_WISDOM names, or else fovea/wisdom in $XDG_CACHE_HOME or ~/.cache. If the variable is set
 * but empty, nothing is read at all. /etc/fovea/wisdom and the file that is installed with the
 * library follow; they add facts that earlier files lack. A file that cannot be read causes a log
 * message, not a failure. Lines about kernels that this version does not have are skipped. All of
 * this happens while planning, never while frames run. */
#ifndef FOVEA_WISDOM_STORE_H
#define FOVEA_WISDOM_STORE_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

/* How much planning may measure. */
typedef enum fovea_rigor {
    FOVEA_RIGOR_DEFAULT,    /* FOVEA_RIGOR of the environment (estimate, measure, exhaustive), else
                               FOVEA_RIGOR_ESTIMATE */
    FOVEA_RIGOR_ESTIMATE,   /* nothing: wisdom is used, or else the cost model */
    FOVEA_RIGOR_MEASURE,    /* the kernels and settings that the cost model ranks highest */
    FOVEA_RIGOR_EXHAUSTIVE, /* all kernels and settings */
} fovea_rigor;

typedef struct fovea_wisdom_info {
    size_t struct_size;
    size_t taken;   /* number of facts that were added */
    size_t skipped; /* number of lines about kernels, revisions or settings that this version
                       does not have */
} fovea_wisdom_info;
#define FOVEA_WISDOM_INFO_INIT FOVEA_INIT(fovea_wisdom_info, )

/* Adds the facts of a file to the store. If two facts are about the same thing, the one with more
 * rigor is kept, or the newer one if the rigor is equal. `out` may be NULL. Returns EWISDOM if the
 * text is malformed, in which case nothing is added, or EIO if the file cannot be read. */
FOVEA_API fovea_status fovea_wisdom_load(const char *path, fovea_wisdom_info *out);
/* Adds the facts in `size` bytes of text, as fovea_wisdom_load does. */
FOVEA_API fovea_status fovea_wisdom_import(const char *text, size_t size, fovea_wisdom_info *out);
/* Writes the user's facts and those that this process has found to `path`, merged with the facts of
 * the existing file. The file is replaced as a whole or not at all. NULL means the user's file,
 * which is the one that is read first; its folder is created. Returns EWISDOM if the existing file
 * does not hold wisdom, in which case it is not changed, or EIO if the file cannot be written. */
FOVEA_API fovea_status fovea_wisdom_save(const char *path);
/* Exports the whole store as text. *size receives the bytes of the text, with the terminating 0;
 * `text`, if it is not NULL, receives the text. Returns EINVAL if `capacity` is less than *size. */
FOVEA_API fovea_status fovea_wisdom_export(char *text, size_t capacity, size_t *size);
/* Empties the store. Files are neither changed nor read again. */
FOVEA_API void fovea_wisdom_forget(void);
/* Writes the path of the user's file to `out`, of `capacity` bytes; "" if FOVEA_WISDOM is empty.
 * Returns EIO if there is no home directory, or EINVAL if the path does not fit. */
FOVEA_API fovea_status fovea_wisdom_path(char *out, size_t capacity);

FOVEA_END_DECLS

#endif
