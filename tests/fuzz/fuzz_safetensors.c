/* fuzz_safetensors.c: reads arbitrary bytes as a tensor file, as a checkpoint, and as
 * configurations. Seeds are the files of tests/data/fuzz. fuzz_model.c tests whole model folders.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/config.h"
#include "checkpoint/processor.h"
#include "checkpoint/source.h"
#include "models/synthetic.h"
#include "models/vit/vit.h"
#include "tests/fuzz/fuzz.h"

/* Reads all weights, so that a sanitizer detects wrong sizes. */
static void read_weights(const fv_vit *v)
{
    const fv_weight *const lists[2][2] = {
        {&v->embed.w, &v->post.b + 1},
        {&v->block[0].ln1.w, &v->block[0].ls2 + 1},
    };
    for (int i = 0; i < 2; i++)
        for (const fv_weight *w = lists[i][0]; w < lists[i][1]; w++) {
            if ((uint64_t)w->rows * w->cols > 1 << 16)
                continue;
            float *out = malloc(sizeof *out * ((size_t)w->rows * w->cols + 1));
            if (out)
                fv_weight_read(w, 0, w->rows, out);
            free(out);
        }
}

static void read_as_model(const fv_source *source, json_t *json)
{
    fovea_model m = {.refs = 1};
    const fv_config config = {"config.json", "", json};
    const char *type;
    if (fv_config_type(&type, &config) != FOVEA_OK || !type || !fv_vit_owns(type))
        return;
    if (fv_vit_read(&m, source, &config) == FOVEA_OK)
        read_weights(m.roles);
    for (size_t i = 0; m.outputs && m.outputs[i]; i++)
        fv_mem_free(m.outputs[i]);
    fv_mem_free(m.outputs);
    fv_vit_release(&m);
    fv_model_floats_free(&m);
}

/* Reads the checkpoint under several configurations, all of whose sizes come from the tensors. */
static void read_as_checkpoint(const uint8_t *data, size_t size)
{
    static const char *const types[] = {
        "vit",
        "deit",
        "dinov2",
        "dinov2_with_registers",
        "clip",
        "siglip",
        "vit_base_patch16_224",
        "blip",
        "git",
        "internvl",
        "janus",
        "pixio",
        "tipsv2",
    };
    fv_source *source;
    fv_blob bytes;
    if (fv_blob_of(&bytes, "fuzz", data, size) != FOVEA_OK ||
        fv_source_open_file(&source, &bytes) != FOVEA_OK)
        return;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        json_t *json = json_pack("{s:s, s:{s:i, s:s}}", "model_type", types[i], "fovea", "heads", 1,
                                 "pos_interp", "aa");
        read_as_model(source, json);
        json_decref(json);
    }
    fv_source_close(source);
}

static void read_as_tensors(const uint8_t *data, size_t size)
{
    fv_safetensors *file;
    if (fv_safetensors_parse(&file, "fuzz", data, size) != FOVEA_OK)
        return;
    for (uint32_t i = 0; i < file->count; i++) {
        const fv_tensor *t = &file->tensor[i];
        float out[16];
        for (uint64_t k = 0; fv_file_types[t->dtype].readable && k < t->elements; k += 16)
            fv_tensor_read(t, k, t->elements - k < 16 ? t->elements - k : 16, out);
    }
    read_as_checkpoint(data, size);
    fv_safetensors_close(file);
}

static void read_as_configuration(const uint8_t *data, size_t size)
{
    static fv_source *source; /* reused by the next input */
    json_t *json;
    fovea_preprocess p = fv_processor_default(FV_PROCESSOR_CLIP, 224, 224);
    if (!source) {
        if (fv_source_make(&source, "fuzz", 1000) != FOVEA_OK)
            return;
        fv_synthetic made = {.name = "deit-ti", .root = "", .source = source};
        size_t i = 0;
        while (strcmp(fv_synthetic_name(&fv_vit_synthetics, i), made.name) != 0)
            i++;
        json_decref(fv_vit_synthetics.make(&made, fv_synthetic_size(&fv_vit_synthetics, i)));
        if (made.status != FOVEA_OK || fv_source_index(source) != FOVEA_OK)
            return;
    }
    if (fv_config_parse(&json, "fuzz", (const char *)data, size) != FOVEA_OK)
        return;
    const char *name;
    bool found;
    const fv_config config = {"fuzz", "", json};
    fv_processor_read(&p, &name, &(fv_processor_file){config, NULL, NULL});
    fv_processor_read_timm(&p, &found, &config);
    fv_processor_read_open_clip(&p, &found, &config, NULL);
    read_as_model(source, json);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_as_tensors(data, size);
    read_as_configuration(data, size);
    return 0;
}

/* The seeds are the files of tests/data/fuzz. */
size_t fuzz_seed(size_t index, uint8_t *out, size_t capacity)
{
    (void)index;
    (void)out;
    (void)capacity;
    return 0;
}
