/* trainer_state.c: saves the state of a trainer between two steps to a file, and loads it.
 *
 *     | magic | bytes of JSON | JSON, padded to 8 | weights, moments, averages | checksum |
 *
 * Numbers are in the machine's byte order, which the magic number shows. The JSON contains the
 * step, the caller's note, and, by name, everything that the result depends on. */
#include "train/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "models/linear_form.h"
#include "platform/os/os.h"

#define MAGIC UINT64_C(0x3165746174736166)
#define HEADER_LIMIT (1u << 20)
#define NOTE_LIMIT 65535
#define SAMPLE 64 /* number of a frozen tensor's values that its hash covers */

/* ---- checksums ---- */

/* Continues checksum h with `size` bytes. `size` must be a multiple of 8. */
static uint64_t checksum(uint64_t h, const void *data, uint64_t size)
{
    for (uint64_t i = 0; i < size; i += 8) {
        uint64_t word;
        memcpy(&word, (const char *)data + i, 8);
        h = fv_checksum_mix(h, word);
    }
    return h;
}

static uint64_t of_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = fv_checksum_mix(h, (unsigned char)*text);
    return fv_checksum_mix(h, 0);
}

/* ---- what the result depends on ---- */

static uint64_t sample(uint64_t h, const fv_tensor *t)
{
    float x[SAMPLE];
    uint64_t word = 0;
    const uint64_t n = t->elements < SAMPLE ? t->elements : SAMPLE;
    fv_tensor_read(t, 0, n, x);
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&word, &x[i], sizeof x[i]);
        h = fv_checksum_mix(h, word);
    }
    return h;
}

/* Returns a hash of all tensors: name, shape, and whether they are trained and decay; and of
 * sampled values of tensors that are not trained. */
static uint64_t of_model(const fovea_trainer *t)
{
    uint64_t h = 1;
    for (uint32_t i = 0; i < t->masters.count; i++) {
        const fv_master *m = &t->masters.master[i];
        h = of_text(h, m->tensor->name);
        for (uint32_t k = 0; k < m->tensor->rank; k++)
            h = fv_checksum_mix(h, m->tensor->shape[k]);
        h = fv_checksum_mix(h, (uint64_t)(m->trained | m->decays << 1 | m->head << 2));
        if (!m->trained && fv_file_types[m->tensor->dtype].floating)
            h = sample(h, m->tensor);
    }
    return h;
}

static uint64_t of_teacher(const fovea_trainer *t)
{
    fv_masters list = {0};
    uint64_t h = 1;
    if (!t->teacher || fv_masters_list(&list, t->teacher) != FOVEA_OK)
        return 0;
    for (uint32_t i = 0; i < list.count; i++)
        if (fv_file_types[list.master[i].tensor->dtype].floating)
            h = sample(h, list.master[i].tensor);
    fv_masters_free(&list);
    return h;
}

static json_t *hex(uint64_t h)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, h);
    return json_string(text);
}

/* Returns the facts that the result depends on. The number of steps is included only for schedules
 * that depend on it. */
static json_t *fingerprint(const fovea_trainer *t)
{
    const fovea_trainer_options *o = &t->o;
    const char *compute = o->compute == FOVEA_COMPUTE_BF16 ? "bf16" : "f32";
    const bool ends = o->schedule != FOVEA_LR_CONSTANT, task = o->stage == FOVEA_STAGE_TASK;
    return json_pack(
        "{s:o, s:o, s:i, s:s, s:i, s:i, s:i, s:f, s:f, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, "
        "s:f, "
        "s:f, s:f, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, "
        "s:f, s:o}",
        "model", hex(of_model(t)), "teacher", hex(of_teacher(t)), "stage", (int)o->stage,
        "attention", t->attention, "frame format", (int)o->frame.format, "width",
        (int)o->frame.width, "height", (int)o->frame.height, "lr", (double)o->lr, "lr_end",
        (double)o->lr_end, "schedule", (int)o->schedule, "warm_up", (json_int_t)o->warm_up, "steps",
        (json_int_t)(ends ? o->steps : 0), "backbone_ratio", task ? (double)o->backbone_ratio : 0.,
        "beta1", (double)o->beta1, "beta2", (double)o->beta2, "eps", (double)o->eps, "weight_decay",
        (double)o->weight_decay, "clip", (double)o->clip, "ema", (double)o->ema, "lambda",
        (double)o->lambda, "loss", task ? 0 : (int)o->loss, "task", task ? (int)o->task : 0,
        "classes", (int)t->info.classes, "mask_width", (int)t->info.mask_width, "mask_height",
        (int)t->info.mask_height, "number of blocks kept (memory_limit)",
        (int)t->info.blocks_not_recomputed, "compute", compute, "head", task ? (int)o->head : 0,
        "max_depth", task && o->task == FOVEA_TASK_DEPTH ? (double)o->max_depth : 0.,
        "form of linear attention", fv_linear_form_keys(t->model->config));
}

/* ---- writing ---- */

static uint32_t blocks(const fovea_trainer *t)
{
    return t->masters.block[4]
               ? 4
               : 3; /* weights, two moments, averages; gradients are zero between steps */
}

static float *block(const fovea_trainer *t, uint32_t i)
{
    return t->masters.block[i ? i + 1 : 0];
}

struct writer {
    fv_os_replace *file;
    uint64_t sum;
    fovea_status status;
};

static void write_block(struct writer *w, const void *data, uint64_t size)
{
    if (w->status != FOVEA_OK)
        return;
    w->sum = checksum(w->sum, data, size);
    w->status = fv_os_replace_write(w->file, data, size);
}

static fovea_status write_state(const fovea_trainer *t, const char *path, const char *text,
                                uint64_t size)
{
    const uint64_t begin[2] = {MAGIC, size};
    struct writer w = {.sum = 1};
    FV_TRY(fv_os_replace_begin(&w.file, path, false));
    write_block(&w, begin, sizeof begin);
    write_block(&w, text, size);
    for (uint32_t i = 0; i < blocks(t); i++)
        write_block(&w, block(t, i), t->masters.padded_floats * sizeof(float));
    const uint64_t sum = w.sum;
    write_block(&w, &sum, sizeof sum);
    return fv_os_replace_end(w.file, w.status);
}

/* Makes the JSON, padded with blanks to a multiple of 8 bytes. */
static fovea_status header_text(char **out, uint64_t *size, const fovea_trainer *t,
                                const char *note)
{
    json_t *json = json_pack("{s:I, s:I, s:s, s:o}", "step", (json_int_t)t->step, "floats",
                             (json_int_t)t->masters.padded_floats, "note", note ? note : "",
                             "made with", fingerprint(t));
    if (!json)
        return fv_fail(FOVEA_EINVAL, "the state's note is not UTF-8, or memory ran out");
    const size_t flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17);
    const size_t length = json_dumpb(json, NULL, 0, flags);
    *size = (length + 7) / 8 * 8;
    fovea_status status = fv_mem_alloc(out, *size, FV_MEM_MODEL, "the state's header");
    if (status == FOVEA_OK) {
        memset(*out, ' ', (size_t)*size);
        json_dumpb(json, *out, length, flags);
    }
    json_decref(json);
    return status;
}

fovea_status fovea_trainer_write_state(fovea_trainer *t, const char *path, const char *note)
{
    char *text = NULL;
    uint64_t size = 0;
    if (t->pictures)
        return fv_fail(
            FOVEA_EINVAL,
            "a state can only be written between two steps; finish or drop the current step first");
    if (note && strlen(note) > NOTE_LIMIT)
        return fv_fail(FOVEA_EINVAL, "the note has %zu bytes; it may have at most %d", strlen(note),
                       NOTE_LIMIT);
    FV_TRY(header_text(&text, &size, t, note));
    const fovea_status status = write_state(t, path, text, size);
    fv_mem_free(text);
    return status;
}

/* ---- reading ---- */

struct reader {
    const char *path;
    const char *data;
    uint64_t size;
    uint64_t header; /* bytes of the JSON */
};

static fovea_status damaged(const struct reader *r, const char *what)
{
    return fv_fail(FOVEA_EFORMAT, "%s: %s; resume from an older state, or start again", r->path,
                   what);
}

static fovea_status check_frame(struct reader *r)
{
    uint64_t begin[2], sum;
    if (r->size < sizeof begin + sizeof sum)
        return damaged(r, "the file is too short for a trainer's state");
    memcpy(begin, r->data, sizeof begin);
    if (begin[0] != MAGIC)
        return damaged(
            r,
            "the file is not a trainer's state, or comes from a machine with another byte order");
    r->header = begin[1];
    if (r->size % 8 || r->header % 8 || r->header > HEADER_LIMIT ||
        r->header > r->size - sizeof begin - sizeof sum)
        return damaged(r, "the file is truncated");
    memcpy(&sum, r->data + r->size - sizeof sum, sizeof sum);
    if (checksum(1, r->data, r->size - sizeof sum) != sum)
        return damaged(r, "its checksum is wrong");
    return FOVEA_OK;
}

/* Fails with a message that contains both values as JSON. A value that is too long is left out. */
static fovea_status differ(const struct reader *r, const char *key, const json_t *theirs,
                           const json_t *ours)
{
    char text[2][128] = {"", ""};
    const json_t *value[2] = {theirs, ours};
    for (int i = 0; i < 2; i++)
        json_dumpb(value[i], text[i], sizeof text[i] - 1,
                   JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    return fv_fail(FOVEA_EINVAL,
                   "%s: the state was written with another %s: %s, but it is %s in this run",
                   r->path, key, text[0], text[1]);
}

static fovea_status compare(const struct reader *r, const json_t *theirs, json_t *ours)
{
    const char *key;
    json_t *value;
    json_object_foreach(ours, key, value) {
        const json_t *other = json_object_get(theirs, key);
        const bool numbers = json_is_number(value) && json_is_number(other);
        const bool same = numbers ? json_number_value(value) == json_number_value(other)
                                  : json_equal(value, other);
        if (!same)
            return differ(r, key, other, value);
    }
    return FOVEA_OK;
}

static fovea_status take_header(fovea_trainer *t, const struct reader *r, const json_t *json)
{
    const json_t *step = json_object_get(json, "step"), *note = json_object_get(json, "note");
    const json_t *floats = json_object_get(json, "floats");
    const uint64_t padded_floats = t->masters.padded_floats * sizeof(float);
    json_t *ours = fingerprint(t), *theirs = json_object_get(json, "made with");
    if (!json_object_get(theirs, "loss")) /* written by a release that had only the squared loss */
        json_object_set_new(theirs, "loss", json_integer(FOVEA_LOSS_SQUARED));
    /* written by a release that had only float32 products */
    if (!json_object_get(theirs, "compute"))
        json_object_set_new(theirs, "compute", json_string("f32"));
    if (!json_object_get(theirs, "head")) /* written by a release that had only the linear head */
        json_object_set_new(theirs, "head", json_integer(FOVEA_HEAD_LINEAR));
    if (!json_object_get(theirs, "max_depth")) /* written by a release without depth heads */
        json_object_set_new(theirs, "max_depth", json_integer(0));
    /* written by a release without these parameters */
    if (!json_object_get(theirs, "form of linear attention"))
        json_object_set_new(theirs, "form of linear attention", json_object());
    const fovea_status status =
        ours ? compare(r, theirs, ours)
             : fv_fail(FOVEA_ENOMEM, "%s: not enough memory to read it", r->path);
    json_decref(ours);
    FV_TRY(status);
    if (!json_is_integer(step) || json_integer_value(step) < 0 || !json_is_string(note) ||
        (uint64_t)json_integer_value(floats) != t->masters.padded_floats ||
        r->size != 24 + r->header + blocks(t) * padded_floats)
        return damaged(r, "its contents are inconsistent");
    char *text;
    FV_TRY(fv_mem_text(&text, json_string_value(note), FV_MEM_MODEL));
    fv_mem_free(t->note);
    t->note = text;
    t->step = (uint64_t)json_integer_value(step);
    for (uint32_t i = 0; i < blocks(t); i++)
        memcpy(block(t, i), r->data + 16 + r->header + i * padded_floats, (size_t)padded_floats);
    t->pictures = 0;
    fv_trainer_repack(t);
    return FOVEA_OK;
}

static fovea_status take_state(fovea_trainer *t, struct reader *r)
{
    json_t *json;
    FV_TRY(check_frame(r));
    FV_TRY(fv_config_parse(&json, r->path, r->data + 16, r->header));
    const fovea_status status = take_header(t, r, json);
    json_decref(json);
    return status;
}

fovea_status fovea_trainer_read_state(fovea_trainer *t, const char *path, const char **note)
{
    struct reader r = {.path = path};
    const void *data;
    void *handle;
    FV_TRY(fv_os_map(path, &data, &r.size, &handle));
    r.data = data;
    const fovea_status status = take_state(t, &r);
    fv_os_unmap(handle);
    if (status == FOVEA_OK && note)
        *note = t->note;
    return status;
}
