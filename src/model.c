/* model.c: from files to an immutable model, and what can be asked about it. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "os.h"
#include "processor.h"
#include "source.h"

#define CONFIG_LIMIT (16u << 20)
#define LABELS (1u << 20)
#define SYNTHETIC "synthetic:"

#define FV_FAMILY(name) extern const fv_family fv_family_##name;
#include "models/families.inc"
#undef FV_FAMILY

static const fv_family *const families[] = {
#define FV_FAMILY(name) &fv_family_##name,
#include "models/families.inc"
#undef FV_FAMILY
};
#define FAMILIES (sizeof families / sizeof *families)

/* ---- life ---- */

static fovea_status new_model(fovea_model **out)
{
    fovea_model *m;
    FV_TRY(fv_mem_alloc((void **)&m, sizeof *m, FV_MEM_MODEL, "model"));
    if (pthread_mutex_init(&m->lock, NULL) != 0) {
        fv_mem_free(m);
        return fv_fail(FOVEA_ENOMEM, "model: no memory for a lock");
    }
    m->refs = 1;
    *out = m;
    return FOVEA_OK;
}

fovea_status fv_model_blank(fovea_model **out)
{
    return new_model(out);
}

static void free_texts(char **texts, uint32_t n)
{
    for (uint32_t i = 0; texts && i < n; i++)
        fv_mem_free(texts[i]);
    fv_mem_free(texts);
}

static uint32_t count_outputs(const fovea_model *m)
{
    uint32_t n = 0;
    while (m->outputs && m->outputs[n])
        n++;
    return n;
}

static void free_model(fovea_model *m)
{
    if (m->family)
        m->family->release(m);
    free_texts(m->outputs, count_outputs(m));
    free_texts(m->labels, m->info.classes);
    fv_source_close(m->source);
    pthread_mutex_destroy(&m->lock);
    fv_mem_free(m);
}

void fv_model_ref(fovea_model *m)
{
    pthread_mutex_lock(&m->lock);
    m->refs++;
    pthread_mutex_unlock(&m->lock);
}

void fv_model_unref(fovea_model *m)
{
    pthread_mutex_lock(&m->lock);
    bool last = --m->refs == 0;
    pthread_mutex_unlock(&m->lock);
    if (last)
        free_model(m);
}

void fovea_model_free(fovea_model *m)
{
    if (m)
        fv_model_unref(m);
}

/* ---- loading ---- */

static fovea_status choose_family(fovea_model *m, const fv_config *c)
{
    char known[256] = "";
    const char *type;
    FV_TRY(fv_config_type(&type, c));
    if (!type)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"model_type\" is missing, and there is no \"architecture\" (timm)",
                       c->file);
    for (size_t i = 0; i < FAMILIES; i++) {
        size_t used = strlen(known);
        if (families[i]->owns(type)) {
            m->family = families[i];
            return FOVEA_OK;
        }
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", families[i]->types);
    }
    return fv_fail(FOVEA_ENOTSUP, "%s: model type \"%.60s\" is not supported; known are %s",
                   c->file, type, known);
}

static const char *label_at(const json_t *by_id, const json_t *list, uint32_t i)
{
    char key[16];
    snprintf(key, sizeof key, "%u", i);
    const json_t *label = by_id ? json_object_get(by_id, key) : json_array_get(list, i);
    return json_string_value(label);
}

/* "id2label" (transformers) or "label_names" (timm), when they name every class. */
static fovea_status read_labels(fovea_model *m, const fv_config *c)
{
    const json_t *by_id = fv_config_get(c, "id2label"), *list = fv_config_get(c, "label_names");
    uint32_t n = m->info.classes;
    size_t named = by_id ? json_object_size(by_id) : json_array_size(list);
    if (n == 0 || n > LABELS || named < n)
        return FOVEA_OK;
    for (uint32_t i = 0; i < n; i++)
        if (!label_at(by_id, list, i))
            return FOVEA_OK;
    FV_TRY(fv_mem_array((void **)&m->labels, n, sizeof *m->labels, FV_MEM_MODEL, "labels"));
    for (uint32_t i = 0; i < n; i++)
        FV_TRY(fv_mem_text(&m->labels[i], label_at(by_id, list, i), FV_MEM_MODEL));
    return FOVEA_OK;
}

static fovea_status read_attention(fovea_model *m, const fv_config *c)
{
    fv_config own = {0};
    const char *attention = "softmax";
    FV_TRY(fv_config_section(&own, c, "fovea"));
    FV_TRY(fv_config_text(&attention, &own, "attention"));
    if (strlen(attention) >= sizeof m->info.attention)
        return fv_config_fail(&own, "attention", "the name of an attention");
    strcpy(m->info.attention, attention);
    return FOVEA_OK;
}

/* Everything but the source, from a parsed config.json. */
static fovea_status read_model(fovea_model *m, const fv_config *c)
{
    FV_TRY(choose_family(m, c));
    FV_TRY(read_attention(m, c));
    FV_TRY(m->family->read(m, m->source, c));
    m->info.mapped_bytes = m->source->bytes;
    return read_labels(m, c);
}

static fovea_status read_processor(fovea_model *m, const char *path)
{
    json_t *json;
    FV_TRY(fv_config_load(&json, path, CONFIG_LIMIT));
    const fv_config c = {path, "", json};
    fovea_status status =
        fv_processor_read(&m->info.preprocess, &c, m->info.native_width, m->info.native_height);
    json_decref(json);
    return status;
}

static fovea_status load_config(fovea_model *m, const char *folder)
{
    char *path;
    json_t *json;
    FV_TRY(fv_source_path(&path, folder, "config.json"));
    fovea_status status;
    if (fv_os_look(path) == FV_OS_NOTHING)
        status = fv_fail(FOVEA_EIO, "%s: no such file; it must lie beside the weights", path);
    else
        status = fv_config_load(&json, path, CONFIG_LIMIT);
    if (status == FOVEA_OK) {
        status = read_model(m, &(fv_config){path, "", json});
        json_decref(json);
    }
    fv_mem_free(path);
    return status;
}

static fovea_status load_processor(fovea_model *m, const char *folder)
{
    char *path;
    FV_TRY(fv_source_path(&path, folder, "preprocessor_config.json"));
    fovea_status status = FOVEA_OK;
    if (fv_os_look(path) != FV_OS_NOTHING)
        status = read_processor(m, path);
    fv_mem_free(path);
    return status;
}

static fovea_status open_folder(fovea_model *m, const char *folder)
{
    char *file, *index = NULL;
    FV_TRY(fv_source_path(&file, folder, "model.safetensors"));
    fovea_status status = fv_source_path(&index, folder, "model.safetensors.index.json");
    if (status == FOVEA_OK) {
        if (fv_os_look(file) != FV_OS_NOTHING)
            status = fv_source_open_file(&m->source, file);
        else if (fv_os_look(index) != FV_OS_NOTHING)
            status = fv_source_open_index(&m->source, folder, index);
        else
            status = fv_fail(FOVEA_EIO,
                             "%s: neither model.safetensors nor model.safetensors.index.json is "
                             "there; convert other formats first",
                             folder);
    }
    fv_mem_free(index);
    fv_mem_free(file);
    return status;
}

static fovea_status load_files(fovea_model *m, const char *path)
{
    char *folder;
    enum fv_os_kind kind = fv_os_look(path);
    if (kind == FV_OS_NOTHING)
        return fv_fail(FOVEA_EIO,
                       "%s: no such file or folder; a model is a folder with config.json and "
                       "model.safetensors, or synthetic:NAME",
                       path);
    FV_TRY(fv_mem_text(&folder, path, FV_MEM_MODEL));
    fovea_status status;
    if (kind == FV_OS_FOLDER) {
        status = open_folder(m, folder);
    } else {
        char *slash = strrchr(folder, '/');
        status = fv_source_open_file(&m->source, path);
        if (slash)
            slash[slash == folder] = 0;
        else
            memcpy(folder, ".", 2);
    }
    if (status == FOVEA_OK)
        status = load_config(m, folder);
    if (status == FOVEA_OK)
        status = load_processor(m, folder);
    fv_mem_free(folder);
    return status;
}

static const fv_family *find_synthetic(const char *name)
{
    for (size_t i = 0; i < FAMILIES; i++)
        for (size_t k = 0; families[i]->synthetic && families[i]->synthetic(k); k++)
            if (strcmp(families[i]->synthetic(k), name) == 0)
                return families[i];
    return NULL;
}

#define SYNTHETIC_TENSORS 16384

static fovea_status load_synthetic(fovea_model *m, const char *path)
{
    const char *name = path + strlen(SYNTHETIC);
    const fv_family *family = find_synthetic(name);
    json_t *json;
    if (!family)
        return fv_fail(FOVEA_EINVAL,
                       "%.60s: no such synthetic model; `fovea info --models` lists them", path);
    FV_TRY(fv_source_make(&m->source, path, SYNTHETIC_TENSORS));
    FV_TRY(family->imitate(&json, m->source, name));
    fovea_status status = fv_source_index(m->source);
    if (status == FOVEA_OK)
        status = read_model(m, &(fv_config){path, "", json});
    json_decref(json);
    return status;
}

fovea_status fovea_model_load(fovea_model **out, const char *path)
{
    fovea_model *m = NULL;
    FV_TRY(new_model(&m));
    fovea_status status = strncmp(path, SYNTHETIC, strlen(SYNTHETIC)) == 0 ? load_synthetic(m, path)
                                                                           : load_files(m, path);
    if (status != FOVEA_OK) {
        free_model(m);
        return status;
    }
    *out = m;
    return FOVEA_OK;
}

/* ---- questions ---- */

const char *fovea_model_synthetic(size_t index)
{
    for (size_t i = 0; i < FAMILIES; i++)
        for (size_t k = 0; families[i]->synthetic && families[i]->synthetic(k); k++)
            if (index-- == 0)
                return families[i]->synthetic(k);
    return NULL;
}

void fovea_model_describe(const fovea_model *model, fovea_model_info *out)
{
    *out = model->info;
}

const char *fovea_model_label(const fovea_model *model, uint32_t i)
{
    return model->labels && i < model->info.classes ? model->labels[i] : NULL;
}

const char *fovea_model_output(const fovea_model *model, size_t index)
{
    return index < count_outputs(model) ? model->outputs[index] : NULL;
}
