/* gpu_note.h: notes about programs that a driver's compiler may not come back from, kept in the
 * cache's folder.
 *
 * A note is written before a program is compiled and removed when the compiler has returned, with
 * or without an error. It is locked meanwhile. A note without a lock was therefore left behind:
 *
 *   - its process was alive and gave up waiting for the compiler: the note says after how many
 *     seconds. The program is not compiled again with this limit of time or a shorter one;
 *   - its process ended: the compiler ended it, or a user ended it because the compiler hung, or
 *     for another reason. These cannot be told apart, so the program is not compiled for a day;
 * then it is tried once more; and if the process ends again, it is not tried any more.
 *
 * The name of a note is derived from the key of the program's binary, which contains the driver's
 * version and the program's text: another driver or a changed program has no note. */
#ifndef FOVEA_GPU_GPU_NOTE_H
#define FOVEA_GPU_GPU_NOTE_H

#include "gpu/gpu_cache.h"

typedef struct fv_gpu_note fv_gpu_note;

/* Leaves a note that a program is about to be compiled, for at most `limit` seconds. `name` is for
 * messages. Returns FOVEA_ETIMEOUT, with a message, if the program must not be compiled. *out is
 * NULL if there is no note: nothing can be written, or another thread or process is compiling the
 * program. Thread-safe. */
fovea_status fv_gpu_note_begin(fv_gpu_note **out, const fv_gpu_cache *c, const fv_gpu_key *k,
                               const char *name, double limit);
/* Notes that the compiler has not returned within the limit. The note stays, and other processes
 * will read it. */
void fv_gpu_note_give_up(fv_gpu_note *n, double limit); /* NULL is fine */
/* The compiler has returned: removes the note, also after fv_gpu_note_give_up. */
void fv_gpu_note_end(fv_gpu_note *n); /* NULL is fine */

/* Whether a file name is that of a note; and whether a note was left behind, not locked by a
 * process that is compiling the program now. */
bool fv_gpu_note_name(const char *name);
bool fv_gpu_note_is_left(const char *path);
/* Lists the programs of the device with this identity that notes forbid to compile, with ", "
 * between them, each once; what does not fit is left out. */
void fv_gpu_notes_list(const fv_gpu_cache *c, const char *identity, char *out, size_t size);
enum { FV_GPU_NOTE_TEXT = 160 };
/* Says why the program of a note is not compiled. `data` is the content of a note that
 * fv_gpu_entry_read accepts. */
void fv_gpu_note_text(const fv_gpu_binary *data, char out[FV_GPU_NOTE_TEXT]);

#endif
