/* trainer_save.c: writes the trained model: its tensors, config.json, and the files about
 * preprocessing. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/abi.h"
#include "base/half.h"
#include "checkpoint/paths.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/source.h"
#include "models/preprocessing.h"
#include "platform/os/os.h"

#define PROCESSOR_LIMIT (16u << 20)

enum { PART = 1024 }; /* elements converted at a time */

/* ---- tensors ---- */

struct file {
    fovea_tensor *tensor;
    void **own; /* converted tensors, which are freed later */
    uint32_t count;
};

static void release(struct file *f)
{
    for (uint32_t i = 0; f->own && i < f->count; i++)
        fv_mem_free(f->own[i]);
    fv_mem_free(f->own);
    fv_mem_free(f->tensor);
}

/* Converts n floats to `type`, and stores them from element `at` on. */
static fovea_status narrow(const char *name, void *to, uint64_t at, const float *from, uint64_t n,
                           enum fv_type type)
{
    for (uint64_t i = 0; i < n; i++) {
        const float x = from[i];
        fv_value_put(to, type, (size_t)(at + i), x);
        if (type == FV_F16 && isfinite(x) && !isfinite(fv_value_get(to, type, (size_t)(at + i))))
            return fv_fail(
                FOVEA_ENOTSUP,
                "tensor \"%s\" holds %g, which float16 cannot represent; write f32 or bf16", name,
                (double)x);
    }
    return FOVEA_OK;
}

/* Converts a floating-point tensor to `type`. Makes no copy if the tensor has that type. */
static fovea_status convert(struct file *f, const fv_master *m, const float *trained,
                            enum fv_type type)
{
    static const enum fv_file_type kinds[] = {
        [FV_F32] = FV_FILE_F32, [FV_F16] = FV_FILE_F16, [FV_BF16] = FV_FILE_BF16};
    const fv_tensor *t = m->tensor;
    fovea_tensor *out = &f->tensor[f->count];
    out->dtype = fv_file_types[kinds[type]].name;
    out->size = (size_t)(t->elements * fv_type_size(type));
    out->data = trained && type == FV_F32 ? trained : t->data;
    if (trained ? type == FV_F32 : t->data && t->dtype == kinds[type])
        return FOVEA_OK;
    FV_TRY(fv_mem_array(&f->own[f->count], t->elements, fv_type_size(type), FV_MEM_MODEL,
                        "a tensor to be written"));
    out->data = f->own[f->count];
    for (uint64_t at = 0; at < t->elements; at += PART) {
        float part[PART];
        const uint64_t n = t->elements - at < PART ? t->elements - at : PART;
        if (!trained)
            fv_tensor_read(t, at, n, part);
        FV_TRY(narrow(t->name, f->own[f->count], at, trained ? trained + at : part, n, type));
    }
    return FOVEA_OK;
}

static fovea_status add(struct file *f, const fv_master *m, const char *name, enum fv_type type,
                        bool average)
{
    f->tensor[f->count] = fv_tensor_shown(m->tensor);
    f->tensor[f->count].name = name;
    fovea_status status = FOVEA_OK;
    if (fv_file_types[m->tensor->dtype].floating)
        status = convert(f, m, average && m->average ? m->average : m->weight, type);
    f->count++;
    return status;
}

/* Returns the name under which a tensor is saved: NULL if it is not part of a model whose tensors
 * were renamed, such as another head. */
static const char *saved_name(const fovea_trainer *t, const fv_tensor *tensor)
{
    const fv_source *s = t->model->source;
    if (!s->renamed)
        return tensor->name;
    const bool in_file = tensor->file != NULL, renamed = tensor->plain != tensor->name;
    return !in_file || renamed ? tensor->plain : NULL;
}

static fovea_status collect(struct file *f, const fovea_trainer *t, enum fv_type type, bool average)
{
    FV_TRY(FV_MEM_ARRAY(&f->tensor, t->masters.count, FV_MEM_MODEL, "the tensors to be written"));
    FV_TRY(FV_MEM_ARRAY(&f->own, t->masters.count, FV_MEM_MODEL, "the tensors to be written"));
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        const char *name = saved_name(t, m->tensor);
        if (name)
            FV_TRY(add(f, m, name, type, average));
    }
    return FOVEA_OK;
}

static fovea_status write_tensors(const fovea_trainer *t, const char *path, enum fv_type type,
                                  bool average)
{
    static const char *const metadata[1][2] = {{"format", "pt"}};
    struct file f = {0};
    FV_TRY(
        /* tensors that were not trained are read from the source */
        fv_source_unchanged(t->model->source));
    fovea_status status = collect(&f, t, type, average);
    FV_THEN(status, fovea_tensors_write(path, f.tensor, f.count, metadata, 1));
    release(&f);
    return status;
}

/* ---- config.json ---- */

static fovea_status write_json(const char *path, const json_t *json)
{
    const size_t flags = JSON_INDENT(2), size = json_dumpb(json, NULL, 0, flags);
    char *text;
    FV_TRY(fv_mem_alloc(&text, size + 1, FV_MEM_MODEL, "config.json"));
    json_dumpb(json, text, size, flags);
    text[size] = '\n';
    const fovea_status status = fv_os_replace_file(path, false, text, size + 1);
    fv_mem_free(text);
    return status;
}

/* Writes the names of the classes in both directions, in transformers' format. */
static void set_labels(json_t *config, char *const *label)
{
    json_t *by_id = json_object(), *by_label = json_object();
    for (uint32_t i = 0; label[i]; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        json_object_set_new(by_id, key, json_string(label[i]));
        json_object_set_new(by_label, label[i], json_integer(i));
    }
    json_object_set_new(config, "id2label", by_id);
    json_object_set_new(config, "label2id", by_label);
}

static fovea_status write_config(const fovea_trainer *t, const char *path)
{
    json_t *config = json_deep_copy(t->model->config);
    json_t *own = json_object_get(config, "fovea");
    if (!json_is_object(own)) {
        own = json_object();
        json_object_set_new(config, "fovea", own);
    }
    if (!own || json_object_set_new(own, "attention", json_string(t->attention)) != 0) {
        json_decref(config);
        return fv_fail(FOVEA_ENOMEM, "%s: not enough memory to write it", path);
    }
    if (t->model->new_head) { /* the names are of another task's classes */
        json_object_del(config, "id2label");
        json_object_del(config, "label2id");
        if (t->o.task == FOVEA_TASK_CLASSES && json_object_get(config, "num_classes"))
            json_object_set_new(config, "num_classes", json_integer(t->info.classes));
    }
    if (t->labels)
        set_labels(config, t->labels);
    const fovea_status status = write_json(path, config);
    json_decref(config);
    return status;
}

/* ---- other files of the model ---- */

/* Copies one of the model's files if the model has it. Synthetic models have no files. */
static fovea_status copy_processor(const char *model, const char *name, const char *to)
{
    char *folder, *path = NULL;
    void *data;
    uint64_t size;
    if (fv_os_look(model) == FV_OS_NOTHING)
        return FOVEA_OK;
    FV_TRY(fv_path_folder(&folder, model));
    fovea_status status = fv_path_in(&path, folder, name);
    if (status == FOVEA_OK && fv_os_look(path) != FV_OS_NOTHING) {
        status = fv_os_read(path, PROCESSOR_LIMIT, &data, &size);
        if (status == FOVEA_OK) {
            status = fv_os_replace_file(to, false, data, size);
            fv_mem_free(data);
        }
    }
    fv_mem_free(path);
    fv_mem_free(folder);
    return status;
}

/* Writes file `what` of `folder` with one of the three functions above. */
static fovea_status write_part(const fovea_trainer *t, const char *folder, const char *what,
                               enum fv_type type, bool average)
{
    char *path;
    FV_TRY(fv_path_in(&path, folder, what));
    fovea_status status;
    if (strcmp(what, "config.json") == 0)
        status = write_config(t, path);
    else if (strcmp(what, "model.safetensors") == 0)
        status = write_tensors(t, path, type, average);
    else
        status = copy_processor(t->path, what, path);
    fv_mem_free(path);
    return status;
}

fovea_status fovea_trainer_save(fovea_trainer *t, const char *folder, fovea_dtype dtype,
                                int average)
{
    static const char *const parts[] = {"config.json", "model.safetensors"};
    FV_TRY(fv_dtype_known("tensors", dtype));
    FV_TRY(fv_os_folder(folder));
    for (const char *const *name = fv_preprocessing_files; *name; name++)
        FV_TRY(write_part(t, folder, *name, fv_type_of(dtype), average != 0));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        FV_TRY(write_part(t, folder, parts[i], fv_type_of(dtype), average != 0));
    return FOVEA_OK;
}
