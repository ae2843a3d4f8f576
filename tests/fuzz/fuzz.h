/* fuzz.h: the interface of a fuzz target. libFuzzer (fuzz.sh) or the plain program of fuzz_main.c,
 * which mutates the target's seeds, calls it with arbitrary bytes. */
#ifndef FOVEA_TESTS_FUZZ_H
#define FOVEA_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fovea/devices.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes seed `index` to `out`, a buffer of `capacity` bytes. Returns the number of bytes, or 0
 * after the last seed.
 */
size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity);

/* Number of inputs accepted so far, as opposed to refused. */
extern size_t fuzz_taken;

/* Ends the program with a message if `good` is false. */
void fuzz_check(bool good, const char *what);

/* Reads all bytes, so that a sanitizer detects invalid memory. */
void fuzz_look_at(const void *bytes, size_t size);

/* Returns the CPU device with one thread, which is opened once. */
fovea_device *fuzz_device(void);

/* Returns the folder for files of targets, in memory if possible. It is removed at the end. */
const char *fuzz_folder(void);

/* Writes a file of `whole` bytes to fuzz_folder(), with zeros from `size` on. */
void fuzz_write(const char *name, const void *data, size_t size, uint64_t whole);
/* Writes a safetensors file with that header, followed by the zeros that its tensors require. */
void fuzz_write_tensors(const char *name, const void *header, size_t size);
void fuzz_remove(const char *name);

#endif
