/* score.c: how well a model segments packed scenes: mean intersection over union, time and memory.
 *
 *   score MODEL ATTENTION THREADS SCENES.safetensors...
 *
 * Prints a line of JSON for every file. ATTENTION: as in fovea_plan_options, or "own". SCENES hold
 * `images` and `masks` as scenes.c writes them, of one size. Classes that neither model nor masks
 * have anywhere do not count.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/fovea.h>

#include "../stopwatch.h"

enum { CLASSES_MAX = 256 };

/* Number of pixels by true class and by found class. */
struct table {
    uint64_t count[CLASSES_MAX][CLASSES_MAX];
};

struct scenes {
    fovea_tensors *file;
    fovea_tensor images, masks;
    uint32_t n, width, height;
};

static struct scenes open_scenes(const char *path)
{
    struct scenes s;
    if (fovea_tensors_open(&s.file, path))
        fail(fovea_error());
    if (!fovea_tensors_find(s.file, "images", &s.images) ||
        !fovea_tensors_find(s.file, "masks", &s.masks))
        fail("scenes must hold the tensors images and masks");
    const uint64_t *shape = s.images.shape;
    if (s.images.rank != 4 || shape[3] != 3 || s.masks.rank != 3 ||
        memcmp(shape, s.masks.shape, 3 * sizeof *shape) || strcmp(s.images.dtype, "U8") ||
        strcmp(s.masks.dtype, "U8") || shape[0] == 0)
        fail("images are bytes (n, height, width, 3), masks bytes (n, height, width)");
    s.n = (uint32_t)shape[0];
    s.height = (uint32_t)shape[1];
    s.width = (uint32_t)shape[2];
    return s;
}

static void count(struct table *t, const uint8_t *truth, const uint16_t *found, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        t->count[truth[i]][found[i]]++;
}

/* Mean over the classes of (pixels with the class in both truth and result) / (pixels with it in
 * either). */
static double mean_iou(const struct table *t)
{
    double sum = 0;
    int classes = 0;
    for (int k = 0; k < CLASSES_MAX; k++) {
        uint64_t either = 0;
        for (int i = 0; i < CLASSES_MAX; i++)
            either += t->count[k][i] + t->count[i][k];
        either -= t->count[k][k];
        if (either == 0)
            continue;
        sum += (double)t->count[k][k] / (double)either;
        classes++;
    }
    return sum / classes;
}

static void score(const fovea_model *model, fovea_device *device, const char *attention,
                  const char *path)
{
    static const char *const wanted[] = {"segmentation"};
    const struct scenes s = open_scenes(path);
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan *plan;
    options.frame.width = s.width;
    options.frame.height = s.height;
    options.attention = attention;
    options.outputs = wanted;
    options.n_outputs = 1;
    if (fovea_plan_create(&plan, model, device, &options))
        fail(fovea_error());
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_info told = FOVEA_PLAN_INFO_INIT;
    fovea_plan_output(plan, 0, &info);
    fovea_plan_query(plan, &told);
    if (told.ignored_right || told.ignored_bottom)
        fail("scenes must be a whole number of patches wide and high");

    const size_t pixels = (size_t)s.width * s.height;
    const size_t bytes = (size_t)info.rows * info.columns * sizeof(float);
    float *logits = malloc(bytes);
    uint16_t *found = malloc(pixels * sizeof *found);
    double *taken = malloc(s.n * sizeof *taken);
    struct table *table = calloc(1, sizeof *table);
    if (!logits || !found || !taken || !table)
        fail("out of memory");
    const fovea_output out = {logits, bytes};
    for (uint32_t i = 0; i < s.n; i++) {
        const fovea_frame frame = {.pixels = {(const uint8_t *)s.images.data + 3 * pixels * i}};
        const double begin = seconds();
        if (fovea_run(plan, &frame, &out, 1))
            fail(fovea_error());
        taken[i] = seconds() - begin;
        if (fovea_class_map(plan, &out, 1, FOVEA_EXTENT_FRAME, found, pixels))
            fail(fovea_error());
        count(table, (const uint8_t *)s.masks.data + pixels * i, found, pixels);
    }
    qsort(taken, s.n, sizeof *taken, ascending);
    printf("{\"scenes\": \"%s\", \"n\": %u, \"size\": %u, \"tokens\": %u, \"miou\": %.6f, "
           "\"ms\": %.3f, \"activation_bytes\": %llu, \"weight_bytes\": %llu}\n",
           path, s.n, s.width, told.tokens, mean_iou(table), 1e3 * taken[s.n / 2],
           (unsigned long long)(told.residual + told.states + told.chunks + told.scratch +
                                told.staging),
           (unsigned long long)told.weights);
    fflush(stdout);
    free(logits);
    free(found);
    free(taken);
    free(table);
    fovea_plan_free(plan);
    fovea_tensors_close(s.file);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        fail("usage: score MODEL ATTENTION THREADS SCENES.safetensors...");
    fovea_device *device;
    fovea_model *model;
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.threads = (uint32_t)strtoul(argv[3], NULL, 10);
    if (fovea_device_open(&device, "cpu", &options) || fovea_model_load(&model, argv[1]))
        fail(fovea_error());
    fovea_model_info info = FOVEA_MODEL_INFO_INIT;
    fovea_model_describe(model, &info);
    if (info.segments == 0 || info.segments > CLASSES_MAX)
        fail("the model has no segmentation head, or one of more than 256 classes");
    for (int i = 4; i < argc; i++)
        score(model, device, strcmp(argv[2], "own") ? argv[2] : NULL, argv[i]);
    fovea_model_free(model);
    fovea_device_close(device);
    return 0;
}
