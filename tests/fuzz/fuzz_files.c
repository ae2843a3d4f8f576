/* fuzz_files.c: code shared by the targets of fuzz.h: the end of a program after an error, a
 * device, and a folder in memory for targets that read files. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#define DATA_MOST (UINT64_C(1) << 31) /* zeros in a sparse file, which need no memory */

size_t fuzz_taken;

void fuzz_check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

void fuzz_look_at(const void *bytes, size_t size)
{
    static volatile uint8_t sink;
    const uint8_t *at = bytes;
    uint8_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + at[i]);
    sink = sum;
    (void)sink;
}

fovea_device *fuzz_device(void)
{
    static fovea_device *opened;
    fovea_device_options one = FOVEA_DEVICE_OPTIONS_INIT;
    one.threads = 1;
    if (!opened)
        fuzz_check(fovea_device_open(&opened, "cpu", &one) == FOVEA_OK, fovea_error());
    return opened;
}

static char folder[64];

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", fuzz_folder(), name);
}

static void remove_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            fuzz_remove(e->d_name);
    if (d)
        closedir(d);
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (!*folder) {
        strcpy(folder, "/dev/shm/fovea_fuzz_XXXXXX");
        if (!mkdtemp(folder)) {
            strcpy(folder, "/tmp/fovea_fuzz_XXXXXX");
            fuzz_check(mkdtemp(folder) != NULL, "a folder");
        }
        atexit(remove_folder);
    }
    return folder;
}

void fuzz_write(const char *name, const void *data, size_t size, uint64_t whole)
{
    char path[384];
    path_of(path, sizeof path, name);
    const int f = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_check(f >= 0 && write(f, data, size) == (ssize_t)size, path);
    fuzz_check(whole <= size || ftruncate(f, (off_t)whole) == 0, path);
    close(f);
}

/* Returns the end of the data that a header's tensors require. */
static uint64_t data_size(const char *header, size_t size)
{
    uint64_t end = 0;
    json_t *json = json_loadb(header, size, 0, NULL), *entry;
    const char *name;
    json_object_foreach(json, name, entry) {
        const json_t *to = json_array_get(json_object_get(entry, "data_offsets"), 1);
        const uint64_t at = (uint64_t)json_integer_value(to);
        if (at > end && at < DATA_MOST)
            end = at;
    }
    json_decref(json);
    return end;
}

void fuzz_write_tensors(const char *name, const void *header, size_t size)
{
    uint8_t *file = malloc(size + 8);
    fuzz_check(file != NULL, "memory");
    for (int i = 0; i < 8; i++)
        file[i] = (uint8_t)((uint64_t)size >> 8 * i);
    memcpy(file + 8, header, size);
    fuzz_write(name, file, size + 8, size + 8 + data_size(header, size));
    free(file);
}

void fuzz_remove(const char *name)
{
    char path[384];
    path_of(path, sizeof path, name);
    unlink(path);
}
