/* model.c: creates and frees models, adds the data that readers compute, and answers queries about
 * models. load.c loads models. */
#include "models/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/abi.h"
#include "checkpoint/source.h"
#include "checkpoint/store.h"
#include "models/detection.h"

/* ---- life ---- */

fovea_status fv_model_blank(fovea_model **out)
{
    fovea_model *m;
    FV_TRY(FV_MEM_NEW(&m, FV_MEM_MODEL, "model"));
    m->refs = 1;
    FV_RETURN_MADE(out, m, fv_mem_free, fv_shared_weights_open(&m->shared));
}

static uint32_t count_texts(char *const *texts)
{
    uint32_t n = 0;
    while (texts && texts[n])
        n++;
    return n;
}

fovea_status fv_model_add_output(fovea_model *m, const char *format, ...)
{
    char name[32];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const uint32_t n = count_texts(m->outputs);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(m->outputs[i], name) == 0)
            return FOVEA_OK;
    return fv_mem_text(&m->outputs[n], name, FV_MEM_MODEL);
}

fv_block_output fv_block_output_name(uint32_t stage, uint32_t block, char what)
{
    fv_block_output out;
    snprintf(out.text, sizeof out.text, "stage%u.block%u.%c", stage + 1, block, what);
    return out;
}

fovea_status fv_model_add_blocks(fovea_model *m, uint32_t stage, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++) {
        FV_TRY(fv_model_add_output(m, "%s", fv_block_output_name(stage, i, 'q').text));
        FV_TRY(fv_model_add_output(m, "%s", fv_block_output_name(stage, i, 'k').text));
    }
    return FOVEA_OK;
}

static void free_texts(char **texts)
{
    for (uint32_t i = 0; texts && texts[i]; i++)
        fv_mem_free(texts[i]);
    fv_mem_free(texts);
}

struct fv_model_floats {
    struct fv_model_floats *next;
    fv_tensor tensor;
    void *data;
};

fovea_status fv_model_floats(float **data, const fv_tensor **out, fovea_model *m, uint32_t rows,
                             uint32_t cols)
{
    struct fv_model_floats *f;
    FV_TRY(FV_MEM_NEW(&f, FV_MEM_MODEL, "folded weights"));
    f->next = m->floats;
    m->floats = f;
    FV_TRY(fv_mem_array(&f->data, (uint64_t)rows * cols, sizeof(float), FV_MEM_MODEL,
                        "folded weights"));
    f->tensor = fv_tensor_of_floats(f->data, rows, cols);
    *data = f->data;
    *out = &f->tensor;
    return FOVEA_OK;
}

void fv_model_floats_free(fovea_model *m)
{
    while (m->floats) {
        struct fv_model_floats *f = m->floats;
        m->floats = f->next;
        fv_mem_free(f->data);
        fv_mem_free(f);
    }
}

static void free_model(fovea_model *m)
{
    if (m->family)
        m->family->release(m);
    free_texts(m->outputs);
    free_texts(m->labels);
    fv_mem_free(m->attention);
    fv_mem_free(m->preprocess_source);
    fv_shared_weights_close(&m->shared);
    fv_model_floats_free(m);
    fv_source_close(m->source);
    fv_source_close(m->segmentation_source);
    fv_store_close(m->store);
    json_decref(m->config);
    fv_mem_free(m);
}

void fv_model_ref(fovea_model *m)
{
    m->refs++;
}

void fovea_model_free(fovea_model *m)
{
    if (m && --m->refs == 0)
        free_model(m);
}

/* ---- questions ---- */

uint32_t fv_model_labels(const fovea_model *m)
{
    const uint32_t boxes = m->detection ? m->detection->classes : 0;
    return m->info.classes ? m->info.classes : m->info.segments ? m->info.segments : boxes;
}

fovea_status fovea_model_describe(const fovea_model *model, fovea_model_info *out)
{
    FV_TRY(fv_require(model, "the model"));
    return FV_ABI_WRITE(out, model->info, FOVEA_MODEL_INFO_INIT);
}

fovea_status fovea_model_preprocess(const fovea_model *model, fovea_preprocess *out)
{
    FV_TRY(fv_require(model, "the model"));
    return FV_ABI_WRITE(out, model->preprocess, FOVEA_PREPROCESS_INIT);
}

const char *fovea_model_label(const fovea_model *model, uint32_t i)
{
    const bool named = model->labels && i < fv_model_labels(model) && *model->labels[i];
    return named ? model->labels[i] : NULL;
}

const char *fovea_model_keypoint(const fovea_model *model, uint32_t i)
{
    static const char *const coco[] = {
        "nose",           "left eye",   "right eye",   "left ear",   "right ear",   "left shoulder",
        "right shoulder", "left elbow", "right elbow", "left wrist", "right wrist", "left hip",
        "right hip",      "left knee",  "right knee",  "left ankle", "right ankle"};
    enum { POINTS = sizeof coco / sizeof *coco };
    return model->info.keypoints == POINTS && i < POINTS ? coco[i] : NULL;
}

const char *fovea_model_output(const fovea_model *model, size_t index)
{
    const uint32_t n = count_texts(model->outputs);
    if (index == n && fv_weight_present(&model->segmentation.head.w))
        return "segmentation";
    return index < n ? model->outputs[index] : NULL;
}
