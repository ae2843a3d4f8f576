/* fuzz_training.c: reads arbitrary bytes as input of training: a trainer's state, packed pictures,
 * ready batches, or a log. The first byte selects the kind.
 *
 * For a state, the input is the JSON part; frame, numbers and checksum are added. For packed
 * pictures and batches it is the header, followed by zeros.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/adapt/adapter.h"
#include "tests/fuzz/fuzz.h"

enum { SIDE = 8, KINDS = 4 };

/* ---- files ---- */

static const char *path_of(const char *name)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/%s", fuzz_folder(), name);
    return text;
}

/* ---- a trainer ---- */

static fovea_trainer *trainer(void)
{
    static fovea_trainer *made;
    fovea_device *device;
    fovea_trainer_options o = FOVEA_TRAINER_OPTIONS_INIT;
    fovea_device_options one = FOVEA_DEVICE_OPTIONS_INIT;
    if (made)
        return made;
    one.threads = 1;
    o.stage = FOVEA_STAGE_TASK;
    o.task = FOVEA_TASK_SEGMENTATION;
    o.classes = 3;
    o.frame.width = o.frame.height = SIDE;
    o.lr = 1e-3f;
    o.ema = 0.5f;
    fuzz_check(fovea_device_open(&device, "cpu", &one) == FOVEA_OK, fovea_error());
    fuzz_check(fovea_trainer_create(&made, "synthetic:block-8x2x1", NULL, device, &o) == FOVEA_OK,
               fovea_error());
    return made;
}

/* After any input, a training step must succeed. */
static void train(const uint8_t *mask)
{
    static uint8_t pixels[3 * SIDE * SIDE];
    const fovea_frame frame = {.pixels = {pixels}};
    const fovea_target target = {.mask = mask};
    if (fovea_trainer_add(trainer(), &frame, &target) == FOVEA_OK)
        fovea_trainer_step(trainer(), NULL);
    fovea_trainer_discard(trainer());
}

/* ---- a state ---- */

static uint64_t words(void)
{
    fovea_trainer_info info = FOVEA_TRAINER_INFO_INIT;
    uint64_t bytes = 0;
    FILE *f = NULL;
    fovea_trainer_query(trainer(), &info);
    if (fovea_trainer_write_state(trainer(), path_of("whole"), "a note") == FOVEA_OK)
        f = fopen(path_of("whole"), "rb");
    uint64_t begin[2];
    fuzz_check(f && fread(begin, 8, 2, f) == 2 && fseek(f, 0, SEEK_END) == 0, "a state");
    bytes = (uint64_t)ftell(f) - 24 - begin[1];
    fclose(f);
    return bytes / 8;
}

static uint64_t sum_of(const uint64_t *word, uint64_t n)
{
    uint64_t h = 1;
    for (uint64_t i = 0; i < n; i++) {
        h = (h ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

static bool read_state(const uint8_t *json, size_t size)
{
    static const uint8_t mask[SIDE * SIDE] = {1, 2, 255};
    static uint64_t numbers;
    const char *note;
    if (!numbers)
        numbers = words();
    const uint64_t text = (size + 7) / 8, all = 3 + text + numbers;
    uint64_t *state = calloc((size_t)all, 8);
    fuzz_check(state != NULL, "memory");
    state[0] = UINT64_C(0x3165746174736166);
    state[1] = text * 8;
    memset(state + 2, ' ', (size_t)text * 8);
    memcpy(state + 2, json, size);
    state[all - 1] = sum_of(state, all - 1);
    fuzz_write("state", state, (size_t)all * 8, 0);
    free(state);
    const bool taken = fovea_trainer_read_state(trainer(), path_of("state"), &note) == FOVEA_OK;
    if (taken)
        fuzz_check(strlen(note) <= size, "the note");
    train(mask);
    return taken;
}

/* ---- pictures ---- */

static bool read_pictures(const uint8_t *header, size_t size)
{
    static uint8_t rgb[3 * SIDE * SIDE], mask[SIDE * SIDE];
    const adapt_policy p = {.seed = 1,
                            .crop = ADAPT_RANDOM,
                            .least = 0.5,
                            .most = 1,
                            .flip = 0.5,
                            .jitter = 0.1,
                            .width = SIDE,
                            .height = SIDE,
                            .filter = FOVEA_FILTER_BILINEAR};
    dataset d;
    dataset_picture picture;
    char path[128];
    snprintf(path, sizeof path, "%s", path_of("data.safetensors"));
    fuzz_write_tensors("data.safetensors", header, size);
    const bool taken = dataset_open(&d, path) == CLI_OK;
    for (uint64_t i = 0; taken && i < 3; i++) {
        const size_t at = adapt_pick(1, d.n, i);
        fuzz_check(at < d.n && dataset_read(&picture, &d, at) == CLI_OK, "a picture");
        if ((uint64_t)picture.width * picture.height < 1 << 20 &&
            adapt_cut(&(adapt_pixels){rgb, mask, NULL}, &p, &picture, i, "packed") == CLI_OK &&
            picture.mask)
            train(mask);
        dataset_picture_free(&picture);
    }
    dataset_close(&d);
    return taken;
}

static bool read_batches(const uint8_t *header, size_t size)
{
    adapt_batches b;
    char path[128];
    snprintf(path, sizeof path, "%s", path_of("batches.safetensors"));
    fuzz_write_tensors("batches.safetensors", header, size);
    const bool taken = adapt_batches_open(&b, path) == CLI_OK;
    if (taken && b.width == SIDE && b.height == SIDE && b.size < 8)
        for (uint64_t i = 0; i < 3; i++)
            adapt_batches_feed(&b, trainer(), i, 0, 1);
    fovea_trainer_discard(trainer());
    adapt_batches_close(&b);
    return taken;
}

/* ---- a log ---- */

static bool read_log(const uint8_t *text, size_t size)
{
    adapt_log log;
    char path[128];
    const double losses[] = {1};
    const fovea_trainer_report report = {
        .step = 3, .pictures = 1, .loss = 1, .layer_loss = losses, .layers = 1};
    snprintf(path, sizeof path, "%s", path_of("log.jsonl"));
    fuzz_write("log.jsonl", text, size, 0);
    const bool taken = adapt_log_open(&log, path, 2) == CLI_OK;
    if (taken) {
        adapt_log_add(&log, &report, 1);
        adapt_log_sync(&log);
    }
    fuzz_check(adapt_log_close(&log) == CLI_OK || !taken, "a log that goes on");
    return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool (*const kinds[KINDS])(const uint8_t *data, size_t size) = {
        read_state, read_pictures, read_batches, read_log};
    if (size > 0)
        fuzz_taken += kinds[*data % KINDS](data + 1, size - 1);
    return 0;
}

/* ---- seeds ---- */

static size_t state_json(uint8_t *out, size_t capacity)
{
    uint64_t begin[2];
    words();
    FILE *f = fopen(path_of("whole"), "rb");
    fuzz_check(f && fread(begin, 8, 2, f) == 2 && begin[1] <= capacity, "a state");
    const size_t size = fread(out, 1, (size_t)begin[1], f);
    fclose(f);
    return size;
}

size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    static const char *const texts[KINDS] = {
        NULL,
        "{\"images\":{\"dtype\":\"U8\",\"shape\":[2,10,9,3],\"data_offsets\":[0,540]},\"masks\":"
        "{\"dtype\":\"U8\",\"shape\":[2,10,9],\"data_offsets\":[540,720]},\"labels\":{\"dtype\":"
        "\"I64\",\"shape\":[2],\"data_offsets\":[720,736]},\"__metadata__\":{\"classes\":\"3\"}}",
        "{\"input.0\":{\"dtype\":\"F32\",\"shape\":[1,3,8,8],\"data_offsets\":[0,768]},"
        "\"labels.0\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[768,776]},\"masks.0\":"
        "{\"dtype\":\"U8\",\"shape\":[1,8,8],\"data_offsets\":[776,840]}}",
        "{\"step\":1,\"loss\":0.5,\"lr\":0.1}\n{\"step\":2,\"loss\":0.25,\"lr\":1e-2}\n",
    };
    if (index >= KINDS)
        return 0;
    *out = (uint8_t)index;
    if (index == 0)
        return 1 + state_json(out + 1, capacity - 1);
    memcpy(out + 1, texts[index], strlen(texts[index]));
    return 1 + strlen(texts[index]);
}
