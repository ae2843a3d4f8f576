/* fuzz_main.c: a target of fuzz.h as a program of its own.
 *
 *   fuzz_TARGET [--times N] [FILE...]    the files; without one, N changed seeds (5000)
 *   fuzz_TARGET --seeds FOLDER           writes the seeds
 *
 * Of changed seeds some must be taken and some refused, else they say little.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 1 << 19 };

static uint8_t seed[CAPACITY], input[2 * CAPACITY];

static uint32_t random_below(uint32_t n)
{
    static uint64_t x = 1;
    x = x * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)((x >> 33) % n);
}

/* Changes `size` bytes, at least one; returns the new size. */
static size_t change(uint8_t *data, size_t size)
{
    static const char odd[] = "\t\n\0 =|x9-\x7f\xff{[,:\"]}";
    const size_t at = random_below((uint32_t)size);
    size_t n = 1 + random_below(40);
    n = n < size - at ? n : size - at;
    switch (random_below(6)) {
    case 0: /* truncate */
        return at + 1;
    case 1: /* delete a part */
        memmove(data + at, data + at + n, size - at - n);
        return size - n ? size - n : 1;
    case 2: /* repeat a part */
        memmove(data + at + n, data + at, size - at);
        return size + n;
    case 3:
        data[at] = (uint8_t)odd[random_below(sizeof odd - 1)];
        return size;
    case 4: /* replace a digit, as in sizes */
        for (size_t i = at; i < at + n; i++)
            if (data[i] >= '0' && data[i] <= '9') {
                data[i] = (uint8_t)('0' + random_below(10));
                break;
            }
        return size;
    default:
        data[at] = (uint8_t)(data[at] ^ 1 << random_below(7));
        return size;
    }
}

/* Copies the input to an exact allocation, so that a sanitizer detects reads beyond its end. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    fuzz_check(exact != NULL, "memory");
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void feed_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    fuzz_check(f != NULL, path);
    const size_t size = fread(input, 1, sizeof input, f);
    fclose(f);
    feed(input, size);
}

static void write_seeds(const char *folder)
{
    size_t size;
    for (size_t i = 0; (size = fuzz_seed(i, seed, sizeof seed)) > 0; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/seed%zu", folder, i);
        FILE *f = fopen(path, "wb");
        fuzz_check(f && fwrite(seed, 1, size, f) == size && fclose(f) == 0, path);
    }
}

static bool feed_changed(size_t times)
{
    size_t seeds = 0;
    while (fuzz_seed(seeds, seed, sizeof seed) > 0)
        seeds++;
    for (size_t i = 0; i < seeds; i++) {
        size_t size = fuzz_seed(i, seed, sizeof seed);
        const size_t before = fuzz_taken;
        feed(seed, size);
        fuzz_check(fuzz_taken > before, "a seed was refused");
        for (size_t k = i; k < times; k += seeds) {
            memcpy(input, seed, size);
            size_t changed = size;
            for (uint32_t n = random_below(6); n > 0; n--)
                changed = change(input, changed);
            feed(input, changed);
        }
    }
    printf("%zu inputs, %zu taken\n", times, fuzz_taken);
    return fuzz_taken > times / 20 && fuzz_taken < times * 19 / 20;
}

int main(int argc, char **argv)
{
    size_t times = 5000;
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "--seeds") == 0) {
        write_seeds(argv[2]);
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--times") == 0) {
        times = strtoull(argv[2], NULL, 10);
        at = 3;
    }
    if (at == argc)
        return feed_changed(times) ? 0 : 1;
    for (int i = at; i < argc; i++)
        feed_file(argv[i]);
    printf("%d inputs\n", argc - at);
    return 0;
}
