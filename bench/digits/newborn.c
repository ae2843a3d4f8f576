/* newborn.c: the tiny vision transformer of the digit scenes before it has learned anything.
 *
 *   newborn SEED FOLDER
 *
 * Writes FOLDER/model.safetensors, config.json and preprocessor_config.json: a plain ViT as Hugging
 * Face writes it, of less than 1 MB as float16. Its weights are random but for two things that a
 * transformer otherwise takes long to find out: positions begin as waves, and the keys of a block
 * as its queries, so that every token begins by looking around itself.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fovea/fovea.h>

#include "../stopwatch.h"

#define PI 3.14159265358979

enum { WIDTH = 64, DEPTH = 4, HEADS = 2, RATIO = 4, PATCH = 28, IMAGE = 336 };
enum { SIDE = IMAGE / PATCH, TOKENS = 1 + SIDE * SIDE, TENSORS = 6 + 16 * DEPTH };

/* How much larger than others the weights of queries and keys are: scores spread over +-9. */
#define FOCUS 1.5

struct file {
    fovea_tensor tensor[TENSORS];
    size_t n;
    uint64_t state; /* of the chance */
};

static double next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* Twelve uniform numbers less six: deviation 1, the same on every machine. */
static double normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += next(state);
    return sum;
}

static void *memory(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p)
        fail("out of memory");
    return p;
}

/* A tensor STEM.KIND of numbers that are all `value` so far. They belong to the file. */
static float *add(struct file *f, const char *stem, const char *kind, float value, uint32_t rank,
                  const uint64_t *shape)
{
    const size_t room = strlen(stem) + strlen(kind) + 2;
    char *name = memory(room);
    snprintf(name, room, "%s%s%s", stem, *kind ? "." : "", kind);
    fovea_tensor *t = &f->tensor[f->n++];
    *t = (fovea_tensor){.name = name, .dtype = "F32", .rank = rank, .elements = 1};
    for (uint32_t i = 0; i < rank; i++)
        t->elements *= t->shape[i] = shape[i];
    t->size = t->elements * sizeof(float);
    float *data = memory(t->size);
    for (uint64_t i = 0; i < t->elements; i++)
        data[i] = value;
    t->data = data;
    return data;
}

/* Weights that keep the deviation of what they are given, times `gain`; biases are 0. */
static float *linear(struct file *f, const char *stem, uint32_t rank, const uint64_t *shape,
                     double gain)
{
    float *w = add(f, stem, "weight", 0, rank, shape);
    const uint64_t out = shape[0], n = f->tensor[f->n - 1].elements;
    const double deviation = gain / sqrt((double)(n / out));
    for (uint64_t i = 0; i < n; i++)
        w[i] = (float)(deviation * normal(&f->state));
    add(f, stem, "bias", 0, 1, &out);
    return w;
}

static void norm(struct file *f, const char *stem)
{
    const uint64_t width = WIDTH;
    add(f, stem, "weight", 1, 1, &width);
    add(f, stem, "bias", 0, 1, &width);
}

/* Rows of patches: sines and cosines of y, then of x; from waves longer than the edge to one that
 * turns by 0.7 pi from token to token. */
static void make_waves(float *table)
{
    enum { WAVES = WIDTH / 4 };
    for (int row = 1; row < TOKENS; row++)
        for (int i = 0; i < WIDTH; i++) {
            const int along = i < 2 * WAVES ? (row - 1) / SIDE : (row - 1) % SIDE;
            const double turn = 0.7 * PI * pow(0.5 * SIDE, -(i % WAVES) / (WAVES - 1.0));
            const double angle = (along + 0.5) * turn;
            table[row * WIDTH + i] = (float)(i / WAVES % 2 ? cos(angle) : sin(angle));
        }
}

static const char *in_block(char buffer[96], int block, const char *name)
{
    snprintf(buffer, 96, "vit.encoder.layer.%d.%s", block, name);
    return buffer;
}

static void invent_block(struct file *f, int block)
{
    static const uint64_t square[] = {WIDTH, WIDTH}, up[] = {RATIO * WIDTH, WIDTH},
                          down[] = {WIDTH, RATIO * WIDTH};
    char name[96];
    norm(f, in_block(name, block, "layernorm_before"));
    const float *query =
        linear(f, in_block(name, block, "attention.attention.query"), 2, square, FOCUS);
    float *key = linear(f, in_block(name, block, "attention.attention.key"), 2, square, FOCUS);
    memcpy(key, query, WIDTH * WIDTH * sizeof *key);
    linear(f, in_block(name, block, "attention.attention.value"), 2, square, 1);
    linear(f, in_block(name, block, "attention.output.dense"), 2, square, 1);
    norm(f, in_block(name, block, "layernorm_after"));
    linear(f, in_block(name, block, "intermediate.dense"), 2, up, 1);
    linear(f, in_block(name, block, "output.dense"), 2, down, 1);
}

static void invent(struct file *f)
{
    static const uint64_t one[] = {1, 1, WIDTH}, table[] = {1, TOKENS, WIDTH},
                          patch[] = {WIDTH, 3, PATCH, PATCH};
    add(f, "vit.embeddings.cls_token", "", 0, 3, one);
    make_waves(add(f, "vit.embeddings.position_embeddings", "", 0, 3, table));
    linear(f, "vit.embeddings.patch_embeddings.projection", 4, patch, 1);
    for (int i = 0; i < DEPTH; i++)
        invent_block(f, i);
    norm(f, "vit.layernorm");
}

static const char config[] = "{\n"
                             " \"architectures\": [\"ViTModel\"],\n"
                             " \"model_type\": \"vit\",\n"
                             " \"hidden_size\": %d,\n"
                             " \"num_hidden_layers\": %d,\n"
                             " \"num_attention_heads\": %d,\n"
                             " \"intermediate_size\": %d,\n"
                             " \"hidden_act\": \"gelu\",\n"
                             " \"layer_norm_eps\": 1e-6,\n"
                             " \"image_size\": %d,\n"
                             " \"patch_size\": %d,\n"
                             " \"num_channels\": 3,\n"
                             " \"qkv_bias\": true\n"
                             "}\n";

static const char preprocessor[] = "{\n"
                                   " \"image_processor_type\": \"ViTImageProcessor\",\n"
                                   " \"do_resize\": true,\n"
                                   " \"size\": {\"height\": %d, \"width\": %d},\n"
                                   " \"resample\": 2,\n"
                                   " \"do_rescale\": true,\n"
                                   " \"rescale_factor\": 0.00392156862745098,\n"
                                   " \"do_normalize\": true,\n"
                                   " \"image_mean\": [0.5, 0.5, 0.5],\n"
                                   " \"image_std\": [0.5, 0.5, 0.5]\n"
                                   "}\n";

static FILE *create(char path[4096], const char *folder, const char *name)
{
    snprintf(path, 4096, "%.3800s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f)
        fail("a file of the folder cannot be made");
    return f;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        fail("usage: newborn SEED FOLDER");
    const char *folder = argv[2];
    char path[4096];
    struct file file = {.state = strtoull(argv[1], NULL, 10)};
    if (mkdir(folder, 0777) && errno != EEXIST)
        fail("the folder cannot be made");
    FILE *f = create(path, folder, "config.json");
    fprintf(f, config, WIDTH, DEPTH, HEADS, RATIO * WIDTH, IMAGE, PATCH);
    int failed = fclose(f);
    f = create(path, folder, "preprocessor_config.json");
    fprintf(f, preprocessor, IMAGE, IMAGE);
    failed |= fclose(f);
    snprintf(path, sizeof path, "%.3800s/model.safetensors", folder);
    invent(&file);
    if (failed)
        fail("the folder cannot be written to");
    if (fovea_tensors_write(path, file.tensor, file.n, NULL, 0))
        fail(fovea_error());
    return 0; /* and the system takes the memory back */
}
