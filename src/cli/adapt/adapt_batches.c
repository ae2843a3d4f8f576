/* adapt_batches.c: reads batches from a file, which are already normalised and labelled, and uses
 * them without changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapter.h"

enum { NAME = 32 };

/* Finds tensor KIND.K. Returns false if the file lacks it. */
static bool find(fovea_tensor *out, const adapt_batches *b, const char *kind, uint64_t k)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s.%llu", kind, (unsigned long long)k);
    return fovea_tensors_find(b->file, name, out) != 0;
}

static int wrong(const adapt_batches *b, const char *kind, size_t k, const char *wanted)
{
    return cli_fail(CLI_INPUT, "%s: tensor \"%s.%zu\" must be %s", b->path, kind, k, wanted);
}

/* Checks that batch k has the shapes of batch 0. For batch 0, records the shapes. */
static int check(adapt_batches *b, size_t k)
{
    fovea_tensor input, other;
    find(&input, b, "input", k);
    if (input.rank != 4 || input.shape[1] != 3 || !input.elements || input.shape[0] > UINT32_MAX ||
        input.shape[2] > DATASET_SIDE || input.shape[3] > DATASET_SIDE)
        return wrong(b, "input", k, "pixels (B, 3, H, W)");
    if (k == 0) {
        b->size = (uint32_t)input.shape[0];
        b->height = (uint32_t)input.shape[2];
        b->width = (uint32_t)input.shape[3];
        b->labelled = find(&other, b, "labels", 0);
        b->masked = find(&other, b, "masks", 0);
    }
    if (input.shape[0] != b->size || input.shape[2] != b->height || input.shape[3] != b->width)
        return wrong(b, "input", k, "of the shape of input.0");
    if (b->labelled &&
        (!find(&other, b, "labels", k) || other.rank != 1 || other.shape[0] != b->size))
        return wrong(b, "labels", k, "one class per picture (B)");
    if (b->masked &&
        (!find(&other, b, "masks", k) || other.rank != 3 || strcmp(other.dtype, "U8") != 0 ||
         other.shape[0] != b->size || other.shape[1] != b->height || other.shape[2] != b->width))
        return wrong(b, "masks", k, "bytes (B, H, W)");
    return CLI_OK;
}

int adapt_batches_open(adapt_batches *b, const char *path)
{
    fovea_tensor t;
    memset(b, 0, sizeof *b);
    b->path = path;
    CLI_TRY(cli_check(fovea_tensors_open(&b->file, path)));
    while (find(&t, b, "input", b->n))
        CLI_TRY(check(b, b->n++));
    return b->n ? CLI_OK : cli_fail(CLI_INPUT, "%s contains no tensor \"input.0\"", path);
}

void adapt_batches_close(adapt_batches *b)
{
    fovea_tensors_close(b->file);
    memset(b, 0, sizeof *b);
}

static int feed_one(const adapt_batches *b, fovea_trainer *trainer, uint64_t k, uint32_t i,
                    float *pixels)
{
    const size_t plane = (size_t)b->width * b->height;
    const fovea_frame frame = {.pixels = {pixels}};
    fovea_tensor input, labels, masks;
    fovea_target target = {0};
    float label = 0;
    find(&input, b, "input", k);
    CLI_TRY(cli_check(fovea_tensors_read(&input, i * 3 * plane, 3 * plane, pixels)));
    if (b->labelled) {
        find(&labels, b, "labels", k);
        CLI_TRY(cli_check(fovea_tensors_read(&labels, i, 1, &label)));
    }
    if (!(label >= 0 && label < DATASET_CLASSES))
        return wrong(b, "labels", (size_t)k, "classes, counted from 0");
    target.label = (uint32_t)label;
    if (b->masked) {
        find(&masks, b, "masks", k);
        target.mask = (const uint8_t *)masks.data + i * plane;
    }
    return cli_check(fovea_trainer_add(trainer, &frame, &target));
}

int adapt_batches_feed(const adapt_batches *b, fovea_trainer *trainer, uint64_t batch,
                       uint32_t first, uint32_t step)
{
    float *pixels = cli_alloc((size_t)b->width * b->height, 3 * sizeof *pixels);
    int code = CLI_OK;
    for (uint32_t i = first; i < b->size && !code; i += step)
        code = feed_one(b, trainer, batch % b->n, i, pixels);
    free(pixels);
    return code;
}
