/* preprocessing.c: reads how pictures are preprocessed, from the first of several files that
 * describes it. */
#include "models/preprocessing.h"

#include <stdio.h>
#include <string.h>

#include "checkpoint/field_list.h"
#include "checkpoint/processor.h"
#include "checkpoint/store.h"

#define NESTED "processor_config.json"
#define PLAIN "preprocessor_config.json"
#define OPEN_CLIP "open_clip_config.json"
#define FILE_LIMIT (16u << 20)

const char *const fv_preprocessing_files[] = {NESTED, PLAIN, OPEN_CLIP, NULL};

struct reading {
    fovea_model *m;
    /* the section "fovea" of config.json; its object is NULL if the section is absent */
    fv_config own;
    const json_t *ignore;
    json_t *changes; /* "preprocess" in the section, or NULL */
    char source[160];
};

static void say(struct reading *r, const char *file, const char *what)
{
    snprintf(r->source, sizeof r->source, "%s: %s%s", file, what,
             r->changes ? ", changed by \"fovea\" of config.json" : "");
}

/* Reads "do_reduce_labels", which older files call "reduce_labels". */
static fovea_status read_reduced(fovea_model *m, const fv_config *c)
{
    bool reduced = m->info.reduced_labels != 0;
    FV_TRY(fv_config_bool(&reduced, c, "reduce_labels"));
    FV_TRY(fv_config_bool(&reduced, c, "do_reduce_labels"));
    m->info.reduced_labels = reduced;
    return FOVEA_OK;
}

/* Reads the fields of a file of transformers; the section "fovea" may replace some of them. */
static fovea_status read_fields(struct reading *r, const char *file, const fv_config *fields)
{
    fovea_model *m = r->m;
    const json_t *type = json_object_get(m->config, "model_type");
    const char *name;
    char what[64];
    fv_processor_file f = {*fields, json_string_value(type), r->ignore};
    f.fields.object = json_copy(fields->object);
    if (!f.fields.object || (r->changes && json_object_update(f.fields.object, r->changes) != 0)) {
        json_decref(f.fields.object);
        return fv_fail(FOVEA_ENOMEM, "%s: not enough memory for its fields", fields->file);
    }
    fovea_status status = fv_processor_read(&m->preprocess, &name, &f);
    FV_THEN(status, read_reduced(m, &f.fields));
    json_decref(f.fields.object);
    FV_TRY(status);
    snprintf(what, sizeof what, "%s%s", name ? name : "no class", name ? "ImageProcessor" : "");
    say(r, file, what);
    return FOVEA_OK;
}

static fovea_status read_nested(struct reading *r, const fv_config *c)
{
    fv_config section;
    FV_TRY(fv_config_section(&section, c, "image_processor"));
    return section.object ? read_fields(r, NESTED, &section) : FOVEA_OK;
}

static fovea_status read_plain(struct reading *r, const fv_config *c)
{
    return read_fields(r, PLAIN, c);
}

static fovea_status read_open_clip(struct reading *r, const fv_config *c)
{
    bool found;
    FV_TRY(fv_processor_read_open_clip(&r->m->preprocess, &found, c, r->ignore));
    if (found)
        say(r, OPEN_CLIP, "OpenCLIP");
    return FOVEA_OK;
}

static fovea_status read_file(struct reading *r, const char *name,
                              fovea_status (*read)(struct reading *, const fv_config *))
{
    fv_blob file;
    json_t *json = NULL;
    if (*r->source)
        return FOVEA_OK;
    FV_TRY(fv_store_open(r->m->store, &file, name));
    if (!file.path)
        return FOVEA_OK;
    fovea_status status = fv_config_load(&json, &file, FILE_LIMIT);
    FV_THEN(status, read(r, &(fv_config){file.path, "", json}));
    json_decref(json);
    fv_blob_close(&file);
    return status;
}

/* Uses the family's default, as changed by the section "fovea", because no file describes the
 * preprocessing. */
static fovea_status assume(struct reading *r)
{
    fovea_model *m = r->m;
    const bool changed = r->changes;
    if (changed) {
        const fv_config fields = {"config.json", "fovea.preprocess", r->changes};
        const fv_processor_file f = {fields, NULL, r->ignore};
        const char *name;
        FV_TRY(fv_processor_read(&m->preprocess, &name, &f));
        snprintf(r->source, sizeof r->source, "config.json (\"fovea\"): %s%s",
                 name ? name : m->info.type, name ? "ImageProcessor" : "");
    } else {
        snprintf(r->source, sizeof r->source, "no preprocessor_config.json, so as usual for %s",
                 m->info.type);
    }
    m->info.preprocess_assumed = !changed && m->store;
    return FOVEA_OK;
}

fovea_status fv_preprocessing_read(fovea_model *m)
{
    struct reading r = {.m = m};
    const fv_config config = {"config.json", "", m->config};
    fv_config changes = {0};
    if (m->info.sequence)
        return FOVEA_OK;
    FV_TRY(fv_config_section(&r.own, &config, "fovea"));
    FV_TRY(fv_field_list_ignore(&r.ignore, &r.own));
    if (r.own.object)
        FV_TRY(fv_config_section(&changes, &r.own, "preprocess"));
    r.changes = changes.object;
    if (m->timm_transform)
        say(&r, "config.json", "timm");
    if (m->store) {
        FV_TRY(read_file(&r, NESTED, read_nested));
        FV_TRY(read_file(&r, PLAIN, read_plain));
        FV_TRY(read_file(&r, OPEN_CLIP, read_open_clip));
    }
    if (!*r.source)
        FV_TRY(assume(&r));
    if (r.own.object)
        FV_TRY(fv_processor_backend(&m->preprocess, &r.own, "backend"));
    FV_TRY(fv_mem_text(&m->preprocess_source, r.source, FV_MEM_MODEL));
    m->info.preprocess_source = m->preprocess_source;
    return FOVEA_OK;
}
