/* eval_journal.c: writes the record of each picture to a journal at once, so that an evaluation can
 * be resumed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/eval/eval.h"

#define JOURNAL_SCHEMA "fovea.eval-journal/1"

static char *path_of(const eval_run *r)
{
    return cli_text("%s.journal", r->output);
}

/* FNV-1a. */
#define HASH_BEGIN 0xcbf29ce484222325u

static int hash_more(const char *text, size_t n, void *hash)
{
    uint64_t *h = hash;
    for (size_t i = 0; i < n; i++)
        *h = (*h ^ (uint8_t)text[i]) * 0x100000001b3u;
    return 0;
}

/* Returns a hash of the names of the pictures. */
static json_t *names_hash(const dataset *d)
{
    uint64_t h = HASH_BEGIN;
    for (size_t i = 0; d->file && i < d->n; i++)
        hash_more(d->file[i].path, strlen(d->file[i].path) + 1, &h);
    return json_sprintf("%016llx", (unsigned long long)h);
}

/* Returns a hash of the objects in the annotations. */
static json_t *objects_hash(const annotations *a)
{
    uint64_t h = HASH_BEGIN;
    if (!a->root)
        return json_null();
    json_dump_callback(a->root, hash_more, &h, JSON_COMPACT);
    return json_sprintf("%016llx", (unsigned long long)h);
}

/* Returns a hash of the mapping from the data's classes to the model's. */
static json_t *mapping_hash(const eval_run *r)
{
    uint64_t h = HASH_BEGIN;
    const size_t n = r->task == &eval_classes ? r->data.classes : r->classes;
    for (size_t i = 0; r->class_of && i < n; i++)
        hash_more((const char *)&r->class_of[i], sizeof *r->class_of, &h);
    return json_sprintf("%016llx", (unsigned long long)h);
}

static json_t *text_or_null(const char *text)
{
    return text ? cli_json_text(text) : json_null();
}

/* Returns the options that the result depends on. */
static json_t *options_of(const eval_run *r)
{
    json_t *cases = json_array();
    for (size_t i = 0; i < r->cases; i++) {
        const eval_case *c = &r->list[i];
        json_array_append_new(cases, json_pack("[o, o, o]", text_or_null(c->attention),
                                               json_string(cli_compute_name(c->run.info.compute)),
                                               text_or_null(c->size)));
    }
    return json_pack(
        "{s:o, s:I, s:I, s:o, s:I, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:f, s:b, s:o, s:b, "
        "s:o, s:f, s:o}",
        "model", cli_json_text(r->path), "parameters", (json_int_t)r->s.info.parameters, "bytes",
        (json_int_t)r->s.info.mapped_bytes, "data", cli_json_text(r->data_path), "pictures",
        (json_int_t)r->data.n, "names", names_hash(&r->data), "task", r->task->name, "against",
        text_or_null(r->against), "annotations", text_or_null(r->annotations_path), "objects",
        objects_hash(&r->annotations), "dtype", text_or_null(r->common.dtype), "device",
        text_or_null(r->common.device), "align", (int)r->align, "depth-scale", r->depth_scale,
        "no-exif", r->common.no_exif, "class order", mapping_hash(r), "reduce-labels",
        r->data.reduce, "panoptic", text_or_null(r->panoptic_folder), "score", r->score, "cases",
        cases);
}

static int write_line(eval_run *r, const json_t *line)
{
    const bool written =
        json_dumpf(line, r->journal, JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0 &&
        fputc('\n', r->journal) != EOF && fflush(r->journal) == 0;
    return written ? CLI_OK
                   : cli_fail(CLI_INPUT, "%s.journal: cannot be written: %s", r->output,
                              strerror(errno));
}

/* Reads a whole line of the file. Returns NULL if the line is incomplete or not JSON. */
static json_t *read_line(FILE *from)
{
    char *line = NULL;
    size_t capacity = 0;
    const ssize_t n = getline(&line, &capacity, from);
    json_t *value = n > 0 && line[n - 1] == '\n' ? json_loads(line, 0, NULL) : NULL;
    free(line);
    return value;
}

static int compare(const eval_run *r, const json_t *head)
{
    const json_t *before = json_object_get(head, "options");
    const char *schema = json_string_value(json_object_get(head, "schema")), *key;
    json_t *now = options_of(r), *value;
    int code = CLI_OK;
    if (!schema || strcmp(schema, JOURNAL_SCHEMA) != 0)
        code =
            cli_fail(CLI_INPUT, "%s.journal is not a journal; remove it to start again", r->output);
    json_object_foreach(now, key, value)
        if (!code && !json_equal(value, json_object_get(before, key)))
            code = cli_fail(CLI_INPUT,
                            "%s.journal was written with another %s; resume with the same options, "
                            "or choose another file with -o",
                            r->output, key);
    json_decref(now);
    return code;
}

/* Reads all complete records, and sets *end to the offset of their end. */
static int recall(eval_run *r, FILE *from, long *end)
{
    json_t *record = read_line(from);
    int code = compare(r, record);
    json_decref(record);
    *end = ftell(from);
    for (size_t i = 0; i < r->cases && !code; i++)
        while (json_array_size(r->list[i].records) < r->data.n) {
            record = read_line(from);
            if (!json_is_object(record)) {
                json_decref(record);
                return CLI_OK;
            }
            json_array_append_new(r->list[i].records, record);
            *end = ftell(from);
        }
    return code;
}

/* Opens the file to append after the last complete record, and discards what follows that
 * record. */
static int resume(eval_run *r, const char *path, FILE *from)
{
    long end = 0;
    const int code = recall(r, from, &end);
    fclose(from);
    if (code)
        return code;
    if (truncate(path, end) != 0 || !(r->journal = fopen(path, "a")))
        return cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    return CLI_OK;
}

static int begin(eval_run *r, const char *path)
{
    r->journal = fopen(path, "w");
    if (!r->journal)
        return cli_fail(CLI_INPUT, "%s: cannot be written: %s", path, strerror(errno));
    json_t *head = json_pack("{s:s, s:o}", "schema", JOURNAL_SCHEMA, "options", options_of(r));
    const int code = write_line(r, head);
    json_decref(head);
    return code;
}

int eval_journal_begin(eval_run *r)
{
    int code;
    if (!r->output)
        return r->resume ? cli_fail(CLI_USAGE,
                                    "--resume needs -o FILE, because the journal is FILE.journal")
                         : CLI_OK;
    char *path = path_of(r);
    FILE *from = r->resume ? fopen(path, "r") : NULL;
    if (!r->resume && access(path, F_OK) == 0)
        code = cli_fail(CLI_USAGE,
                        "%s is from an earlier run; continue it with --resume, or remove it", path);
    else
        code = from ? resume(r, path, from) : begin(r, path);
    free(path);
    return code;
}

int eval_journal_add(eval_run *r, const json_t *record)
{
    return r->journal ? write_line(r, record) : CLI_OK;
}

void eval_journal_end(eval_run *r, bool done)
{
    if (!r->journal)
        return;
    fclose(r->journal);
    r->journal = NULL;
    if (done) {
        char *path = path_of(r);
        remove(path);
        free(path);
    }
}
