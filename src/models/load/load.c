/* load.c: makes an immutable model from files: chooses the family that reads it, and reads what all
 * models have. */
#include <stdio.h>
#include <string.h>

#include <fovea/adapt.h>

#include "base/abi.h"
#include "base/num.h"
#include "checkpoint/config.h"
#include "checkpoint/foreign.h"
#include "checkpoint/source.h"
#include "checkpoint/wrappers.h"
#include "graph/attention.h"
#include "models/dense/decoder_synthetic.h"
#include "models/dense/mask2former.h"
#include "models/labels.h"
#include "models/linear_form.h"
#include "models/nearest.h"
#include "models/preprocessing.h"
#include "platform/os/os.h"
#include "weights/packed_cache.h"

#define CONFIG_LIMIT (16u << 20)
#define ADVICE 512 /* maximum bytes of the advice in a message */
#define SYNTHETIC "synthetic:"
#define WHOLE "model.safetensors"
#define INDEX_ENDING ".index.json"
#define INDEX ".safetensors" INDEX_ENDING
#define SEGMENTATION "segmentation.safetensors"

#define FV_FAMILY(name) extern const fv_family fv_family_##name;
#include "models/load/families.inc"
#undef FV_FAMILY

static const fv_family *const families[] = {
#define FV_FAMILY(name) &fv_family_##name,
#include "models/load/families.inc"
#undef FV_FAMILY
};
#define FAMILIES (sizeof families / sizeof *families)

/* Returns whether a list, such as "sam, sam_vision_model", contains a type. */
static bool lists(const char *list, const char *type)
{
    const size_t n = strlen(type);
    for (const char *at = list; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, type, n) == 0 && (at[n] == ',' || !at[n]))
            return true;
    }
    return false;
}

static bool owns(const fv_family *f, const char *type)
{
    return lists(f->types, type) || (f->owns && f->owns(type));
}

static const fv_family *owner(const char *type)
{
    for (size_t i = 0; i < FAMILIES && type; i++)
        if (owns(families[i], type))
            return families[i];
    return NULL;
}

/* Finds the most similar type from the names of tensors: the two that identify a family, or else
 * those of a ViT. */
static bool find_nearest(fv_nearest *out, const fv_source *source)
{
    const fv_tensor_reader t = {.source = source};
    for (size_t i = 0; i < FAMILIES; i++) {
        const fv_family *f = families[i];
        if (!f->sign || !fv_reader_nearest(out->root, &t, f->sign, f->second_sign))
            continue;
        out->type = f->types;
        out->prefixed = fv_wrappers_keep(out->root, strlen(out->root)) == FV_KEPT_NOWHERE;
        return true;
    }
    return fv_vit_nearest(out, source);
}

/* Writes advice about a type that no family supports: "; ..." or "". */
static void advise(char out[ADVICE], const fovea_model *m, const char *type)
{
    const char *known = NULL, *name;
    size_t letters = 0;
    uint32_t least = (uint32_t)strlen(type) / 4 + 1; /* larger distances are not similar */
    fv_nearest like;
    *out = 0;
    if (find_nearest(&like, m->source)) {
        snprintf(out, ADVICE,
                 "; its tensors have the names of a %s: if it computes the same, add \"fovea\": "
                 "{\"model_type\": \"%s\"} to this file%s%s",
                 like.type, like.type, like.prefixed ? ", and run it with --prefix " : "",
                 like.prefixed ? like.root : "");
        return;
    }
    for (size_t i = 0; i < FAMILIES; i++) {
        const fv_family *f = families[i];
        if (f->types)
            fv_nearest_name(&known, &letters, &least, f->types, type);
        for (size_t k = 0; f->type && (name = f->type(k)); k++)
            fv_nearest_name(&known, &letters, &least, name, type);
    }
    if (letters)
        snprintf(out, ADVICE, "; the most similar type is \"%.*s\"", (int)letters, known);
}

/* Sets the family of the pyramid that the section "backbone_config" describes, if it describes one:
 * this family also reads the head on it. */
static fovea_status choose_pyramid(fovea_model *m, const fv_config *c)
{
    fv_config backbone;
    const char *type;
    FV_TRY(fv_config_section(&backbone, c, "backbone_config"));
    if (!backbone.object)
        return FOVEA_OK;
    FV_TRY(fv_config_type(&type, &backbone));
    const fv_family *family = owner(type);
    if (family && family->decodes)
        m->family = family;
    return FOVEA_OK;
}

/* Sets the family of the model, or of its vision tower if it is a model of pictures and
 * language. */
static fovea_status choose_family(fovea_model *m, const fv_config *c)
{
    char advice[ADVICE];
    const char *type, *tower = NULL;
    fv_config vision = {0};
    FV_TRY(fv_config_type(&type, c));
    if (!type) {
        advise(advice, m, "");
        return fv_fail(FOVEA_EFORMAT,
                       "%s has neither \"model_type\" (transformers) nor \"architecture\" (timm)%s",
                       c->file, advice);
    }
    m->family = owner(type);
    FV_TRY(choose_pyramid(m, c));
    if (m->family)
        return FOVEA_OK;
    FV_TRY(fv_config_tower(&vision, c));
    if (vision.object)
        FV_TRY(fv_config_type(&tower, &vision));
    m->family = owner(tower);
    if (m->family)
        return FOVEA_OK;
    advise(advice, m, type);
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: model type \"%.60s\"%s%.60s%s is not supported%s; docs/models.md lists "
                   "the supported types",
                   c->file, type, tower ? " with a tower \"" : "", tower ? tower : "",
                   tower ? "\"" : "", advice);
}

/* Finds the "model_type" of the model under a prefix: in the section "fovea", else in the model's
 * own section, else in the whole configuration. Returns FOVEA_ENOTSUP if no family supports it. */
static fovea_status tower_type(const char **out, const fovea_model *m, const fv_config *c,
                               const fv_config *vision, const fv_config *own)
{
    const char *type = NULL;
    fv_nearest like = {.type = "vit"};
    FV_TRY(fv_config_text(out, own, "model_type"));
    if (!*out && vision->object)
        FV_TRY(fv_config_type(&type, vision));
    if (!*out && !owner(type))
        FV_TRY(fv_config_type(&type, c));
    if (!*out && owner(type))
        *out = type;
    if (*out)
        return FOVEA_OK;
    const bool found = fv_vit_nearest(&like, m->source);
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: model type \"%.60s\" does not name the model whose tensors have this "
                   "prefix; add \"fovea\": {\"model_type\": \"%s\"}, %s",
                   c->file, type ? type : "", like.type,
                   found ? "the type that matches the names of its tensors"
                         : "or the correct type");
}

/* Finds the configuration of the model under a prefix: the section of the vision tower; if it is
 * absent, the whole configuration if its type is known. Otherwise the section "fovea" must describe
 * the model. */
static fovea_status tower_config(json_t **out, const fovea_model *m, const fv_config *c)
{
    fv_config vision, own;
    const char *type = NULL, *whole;
    FV_TRY(fv_config_tower(&vision, c));
    FV_TRY(fv_config_section(&own, c, "fovea"));
    FV_TRY(tower_type(&type, m, c, &vision, &own));
    whole = json_string_value(json_object_get(c->object, "model_type"));
    if (!vision.object && (owner(whole) || json_object_get(c->object, "architecture"))) {
        *out = json_incref(c->object);
        return FOVEA_OK;
    }
    *out = vision.object ? json_copy(vision.object) : json_object();
    if (json_object_set_new(*out, "model_type", json_string(type)) != 0 ||
        (vision.object && json_object_set(*out, "vision_config", vision.object) != 0) ||
        json_object_set(*out, "fovea", own.object) != 0) {
        json_decref(*out);
        return fv_fail(FOVEA_ENOMEM, "%s: not enough memory for a section", c->file);
    }
    return FOVEA_OK;
}

/* Joins a list with one attention per block into one text. */
static fovea_status join_attentions(fovea_model *m, const fv_config *own, const json_t *list)
{
    const char **name;
    const uint32_t n = m->info.depth;
    if (json_array_size(list) != n)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"attention\" lists %zu names, but the model has %u blocks", own->file,
                       json_array_size(list), n);
    for (uint32_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        fv_attention_name known;
        if (!text)
            return fv_config_fail(own, "attention", "a list of names, one per block");
        FV_TRY(fv_attention_parse(&known, text));
    }
    FV_TRY(FV_MEM_ARRAY(&name, n, FV_MEM_MODEL, "names of attentions"));
    for (uint32_t i = 0; i < n; i++)
        name[i] = json_string_value(json_array_get(list, i));
    const fovea_status status = fv_attention_join(&m->attention, name, n);
    fv_mem_free(name);
    return status;
}

/* Reads the model's attention. Must be called after the family's reader, which counts the
 * blocks. */
static fovea_status read_attention(fovea_model *m, const fv_config *c)
{
    fv_config own = {0};
    const char *attention = m->family->attention;
    const json_t *list = NULL;
    FV_TRY(fv_config_section(&own, c, "fovea"));
    if (own.object)
        list = fv_config_get(&own, "attention");
    if (json_is_array(list)) {
        FV_TRY(join_attentions(m, &own, list));
    } else {
        FV_TRY(fv_config_text(&attention, &own, "attention"));
        FV_TRY(fv_mem_text(&m->attention, attention, FV_MEM_MODEL));
    }
    m->info.attention = m->attention;
    return FOVEA_OK;
}

/* Checks that the model is a plain ViT if parameters of linear attentions are given; no other model
 * supports them. */
static fovea_status check_form(const fovea_model *m, const fv_config *c)
{
    json_t *keys = fv_linear_form_keys(c->object);
    const char *key = json_object_iter_key(json_object_iter(keys));
    const fovea_status status = m->family->shapes || !key
                                    ? FOVEA_OK
                                    : fv_fail(FOVEA_ENOTSUP,
                                              "%s: \"%s\" is for linear attention in a plain ViT, "
                                              "but the model is a %.60s; remove the key",
                                              c->file, key, m->family->name);
    json_decref(keys);
    return status;
}

static fovea_status read_config(fovea_model *m, const fv_config *c)
{
    if (m->additions && m->additions->head == FOVEA_HEAD_MASK2FORMER)
        FV_TRY(fv_mask2former_begin(m, c));
    FV_TRY(choose_family(m, c));
    FV_TRY(check_form(m, c));
    const fovea_status status = m->family->read(m, m->source, c);
    /* if the source has failed, report its error, of which the reader's is only a consequence */
    FV_TRY(fv_source_failed(m->source));
    FV_TRY(status);
    fv_reader_tell_unread(m->source);
    FV_TRY(read_attention(m, c));
    m->info.mapped_bytes =
        m->source->bytes + (m->segmentation_source ? m->segmentation_source->bytes : 0);
    FV_TRY(fv_scores_read(&m->info.scores, c, m->info.classes));
    return fv_labels_read(&m->labels, c, fv_model_labels(m));
}

/* Reads everything except the source from a parsed config.json. */
static fovea_status read_model(fovea_model *m, const fv_config *c)
{
    fv_config own;
    json_t *tower;
    const char *prefix = "";
    m->config = json_incref(c->object);
    if (m->given)
        FV_TRY(fv_linear_form_set(c->object, c->file, m->given));
    FV_TRY(fv_config_section(&own, c, "fovea"));
    FV_TRY(fv_config_text(&prefix, &own, "prefix"));
    if (*prefix && !*m->source->prefix)
        FV_TRY(fv_source_behind(m->source, prefix));
    if (!*m->source->prefix)
        return read_config(m, c);
    /* readers write to this section, which is saved with the whole configuration */
    if (!own.object) {
        own.object = json_object();
        json_object_set_new(c->object, "fovea", own.object);
    }
    if (json_object_set_new(own.object, "prefix", json_string(m->source->prefix)) != 0)
        return fv_fail(FOVEA_ENOMEM, "%s: not enough memory for the prefix", c->file);
    FV_TRY(tower_config(&tower, m, c));
    const fovea_status status = read_config(m, &(fv_config){c->file, "", tower});
    json_decref(tower);
    return status;
}

static fovea_status load_config(fovea_model *m)
{
    fv_blob file;
    json_t *json = NULL;
    FV_TRY(fv_store_need(m->store, &file, "config.json"));
    fovea_status status = fv_config_load(&json, &file, CONFIG_LIMIT);
    FV_THEN(status, read_model(m, &(fv_config){file.path, "", json}));
    json_decref(json);
    fv_blob_close(&file);
    return status;
}

/* Opens the file of a segmentation head, if there is one. */
static fovea_status open_segmentation(fovea_model *m, const char *weights)
{
    fv_blob file;
    if (strcmp(weights, SEGMENTATION) == 0)
        return FOVEA_OK;
    FV_TRY(fv_store_open(m->store, &file, SEGMENTATION));
    return file.path ? fv_source_open_file(&m->segmentation_source, &file) : FOVEA_OK;
}

static fovea_status open_index(fovea_model *m, fv_blob *index)
{
    const fovea_status status = fv_source_open_index(&m->source, m->store, index);
    fv_blob_close(index);
    return status;
}

static fovea_status open_named(fovea_model *m, const char *weights)
{
    fv_blob file;
    FV_TRY(fv_store_need(m->store, &file, weights));
    return fv_ends_with(weights, INDEX) ? open_index(m, &file)
                                        : fv_source_open_file(&m->source, &file);
}

/* Opens the file with all weights, or else the index of shards, by their usual names. */
static fovea_status open_usual(fovea_model *m)
{
    const char *folder = fv_store_path(m->store);
    fv_blob file;
    FV_TRY(fv_store_open(m->store, &file, WHOLE));
    if (file.path)
        return fv_source_open_file(&m->source, &file);
    FV_TRY(fv_store_open(m->store, &file, WHOLE INDEX_ENDING));
    if (file.path)
        return open_index(m, &file);
    return folder ? fv_foreign_fail_folder(folder)
                  : fv_fail(FOVEA_EIO, "%s contains neither " WHOLE " nor " WHOLE INDEX_ENDING,
                            fv_store_name(m->store));
}

/* `weights` is the file with the weights, or the index; NULL for the file with the usual name. */
static fovea_status load_store(fovea_model *m, const char *weights, const char *prefix)
{
    FV_TRY(weights ? open_named(m, weights) : open_usual(m));
    if (prefix)
        FV_TRY(fv_source_behind(m->source, prefix));
    FV_TRY(open_segmentation(m, weights ? weights : WHOLE));
    FV_TRY(load_config(m));
    return fv_preprocessing_read(m);
}

static fovea_status load_files(fovea_model *m, const char *path, const char *prefix)
{
    enum fv_os_kind kind = fv_os_look(path);
    if (kind == FV_OS_NOTHING)
        return fv_foreign_fail_nothing(path);
    if (kind != FV_OS_FOLDER && fv_ends_with(path, ".bin" INDEX_ENDING))
        return fv_foreign_fail_file(path);
    if (kind != FV_OS_FOLDER && fv_ends_with(path, ".json") && !fv_ends_with(path, INDEX))
        return fv_fail(
            FOVEA_EFORMAT,
            "%s only describes a model; give its folder, or the .safetensors file in that folder",
            path);
    FV_TRY((kind == FV_OS_FOLDER ? fv_store_folder : fv_store_folder_of)(&m->store, path));
    return load_store(m, kind == FV_OS_FOLDER ? NULL : fv_os_file_name(path), prefix);
}

/* Finds the family that makes the synthetic model m->name, and the size in its list with which the
 * name begins. Sets m->ending to the rest of the name: "", or the name of a neck or head. Sets
 * *size to NULL if the name is not in the list, but accepted by the list's `has`. */
static const fv_family *find_synthetic(fv_synthetic *m, const void **size)
{
    const char *known;
    for (size_t i = 0; i < FAMILIES; i++) {
        const fv_synthetic_list *list = families[i]->synthetic;
        for (size_t k = 0; (known = fv_synthetic_name(list, k)); k++) {
            m->ending = m->name + strlen(known);
            *size = fv_synthetic_size(list, k);
            if (fv_begins_with(m->name, known) &&
                (!*m->ending || (families[i]->decodes && fv_decoder_has_synthetic(m->ending))))
                return families[i];
        }
        m->ending = "";
        *size = NULL;
        if (list && list->has && list->has(m->name))
            return families[i];
    }
    return NULL;
}

#define SYNTHETIC_TENSORS 16384

static fovea_status load_synthetic(fovea_model *m, const char *path)
{
    fv_synthetic made = {.name = path + strlen(SYNTHETIC)};
    const void *size;
    const fv_family *family = find_synthetic(&made, &size);
    if (!family)
        return fv_fail(FOVEA_EINVAL,
                       "synthetic model \"%.60s\" does not exist; `fovea info --models` lists them",
                       path);
    FV_TRY(fv_source_make(&m->source, path, SYNTHETIC_TENSORS));
    made.source = m->source;
    made.form = family->form;
    made.root = fv_decoder_synthetic_root(made.ending);
    json_t *json = fv_decoder_synthetic_whole(made.ending, family->synthetic->make(&made, size));
    fovea_status status =
        json ? made.status
             : fv_fail(FOVEA_ENOMEM, "%s: not enough memory for its configuration", made.name);
    FV_THEN(status, fv_source_index(m->source));
    FV_THEN(status, read_model(m, &(fv_config){path, "", json}));
    FV_THEN(status, fv_preprocessing_read(m));
    json_decref(json);
    return status;
}

/* Makes a model that will be read as `o` and `additions` specify. */
static fovea_status begin(fovea_model **out, const fovea_model_options *o,
                          const fv_additions *additions)
{
    fovea_model *m = NULL;
    FV_TRY(fv_model_blank(&m));
    m->additions = additions;
    m->given = &o->linear;
    FV_RETURN_MADE(out, m, fovea_model_free,
                   fv_packed_cache_open(&m->shared.cache, o->weights_cache));
}

static fovea_status end(fovea_model **out, fovea_model *m, fovea_status status)
{
    m->additions = NULL;
    m->given = NULL;
    FV_RETURN_MADE(out, m, fovea_model_free, status);
}

static const char *prefix_of(const fovea_model_options *o)
{
    return o->prefix && *o->prefix ? o->prefix : NULL;
}

fovea_status fv_model_load(fovea_model **out, const char *path, const fovea_model_options *o,
                           const fv_additions *additions)
{
    fovea_model *m = NULL;
    FV_TRY(fv_require(path, "the model's path"));
    const bool synthetic = strncmp(path, SYNTHETIC, strlen(SYNTHETIC)) == 0;
    if (synthetic && prefix_of(o))
        return fv_fail(FOVEA_EINVAL, "%.60s: synthetic models have no prefix; leave it out", path);
    FV_TRY(begin(&m, o, additions));
    return end(out, m, synthetic ? load_synthetic(m, path) : load_files(m, path, prefix_of(o)));
}

/* Copies the caller's options. If `options` is NULL, sets the defaults. */
static fovea_status read_options(fovea_model_options *own, const fovea_model_options *options)
{
    *own = (fovea_model_options)FOVEA_MODEL_OPTIONS_INIT;
    FV_TRY(FV_ABI_READ(*own, options, FOVEA_MODEL_OPTIONS_INIT));
    own->weights_cache = fv_packed_cache_folder(own->weights_cache);
    return FOVEA_OK;
}

fovea_status fovea_model_load(fovea_model **out, const char *path)
{
    return fovea_model_load_with(out, path, NULL);
}

fovea_status fovea_model_load_with(fovea_model **out, const char *path,
                                   const fovea_model_options *options)
{
    fovea_model_options o;
    FV_TRY(read_options(&o, options));
    return fv_model_load(out, path, &o, NULL);
}

fovea_status fovea_model_load_from(fovea_model **out, const fovea_model_source *source,
                                   const fovea_model_options *options)
{
    fovea_model *m;
    fovea_model_options o;
    FV_TRY(read_options(&o, options));
    FV_TRY(begin(&m, &o, NULL));
    fovea_status status = fv_store_source(&m->store, source);
    FV_THEN(status, load_store(m, NULL, prefix_of(&o)));
    return end(out, m, status);
}

const char *fovea_model_synthetic(size_t index)
{
    for (size_t i = 0; i < FAMILIES; i++)
        for (size_t k = 0; fv_synthetic_name(families[i]->synthetic, k); k++)
            if (index-- == 0)
                return fv_synthetic_name(families[i]->synthetic, k);
    return NULL;
}
