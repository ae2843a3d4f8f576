/* fuzz.h: a target that is fed with any bytes: by libFuzzer, see fuzz.sh, or by the plain program
 * of fuzz_main.c, which changes seeds of the target's own. */
#ifndef FOVEA_TESTS_FUZZ_H
#define FOVEA_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fovea/devices.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes seed `index` to `out`, a buffer of `capacity` bytes; returns its bytes, 0 past the last
 * one.
 */
size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity);

/* Inputs that were taken, rather than refused, so far. */
extern size_t fuzz_taken;

/* Ends the program unless `good`. */
void fuzz_check(bool good, const char *what);

/* Reads all of it: what is not there shows in a sanitizer. */
void fuzz_look_at(const void *bytes, size_t size);

/* The processor with one thread, opened once. */
fovea_device *fuzz_device(void);

/* Where targets of files keep theirs: in memory, if there is such a folder. Removed at the end. */
const char *fuzz_folder(void);

/* Writes a file of fuzz_folder; `whole` bytes in all, zeros from `size` on. */
void fuzz_write(const char *name, const void *data, size_t size, uint64_t whole);
/* A safetensors file with that header and zeros, as many as its tensors ask for. */
void fuzz_write_tensors(const char *name, const void *header, size_t size);
void fuzz_remove(const char *name);

#endif
