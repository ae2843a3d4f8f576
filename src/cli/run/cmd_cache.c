/* cmd_cache.c: `fovea cache`: manages wisdom, compiled kernels and packed weights on disk.
 *
 * An exported file is a line with the size of the wisdom, then the wisdom's text, then kernels up
 * to the end of the file: fovea cache 1 <bytes of wisdom>\n | wisdom | kernels */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

#define MAGIC "fovea cache 1 "
#define FILE_MOST (512u << 20)

typedef struct contents {
    size_t entries, unsound;
    uint64_t bytes;
    bool quiet;
    json_t *list, *skipped; /* NULL to print text */
} contents;

/* ---- list, verify ---- */

/* Shows a program that is not compiled. */
static void show_skipped(const contents *c, const fovea_cache_entry *e)
{
    if (c->skipped)
        json_array_append_new(c->skipped, json_pack("{s:o, s:s, s:s, s:s}", "file",
                                                    cli_json_text(e->file), "device", e->device,
                                                    "program", e->program, "reason", e->skipped));
    else
        printf("  %-24s %10s  %-18s %s: %s\n", cli_file_name(e->file), "skipped", e->program,
               e->device, e->skipped);
}

static int show_entry(const fovea_cache_entry *e, void *payload)
{
    contents *c = payload;
    if (*e->skipped) {
        show_skipped(c, e);
        return 0;
    }
    c->entries++;
    c->bytes += e->size;
    c->unsound += *e->problem != 0;
    if (c->list)
        json_array_append_new(c->list,
                              json_pack("{s:o, s:s, s:s, s:I, s:s}", "file", cli_json_text(e->file),
                                        "device", e->device, "program", e->program, "size",
                                        (json_int_t)e->size, "problem", e->problem));
    else if (!c->quiet || *e->problem)
        printf("  %-24s %10s  %-18s %s%s\n", cli_file_name(e->file), cli_bytes(e->size).text,
               e->program, e->device, e->problem);
    return 0;
}

static void print_facts(const char *path, const fovea_wisdom_info *info)
{
    printf("wisdom   %s\n  %zu facts", path, info->taken);
    if (info->skipped)
        printf(", and %zu about kernels or settings that this version does not have",
               info->skipped);
    putchar('\n');
}

/* Shows the user's wisdom. */
static int show_wisdom(json_t **out, bool *sound)
{
    char path[4096];
    fovea_wisdom_info info = FOVEA_WISDOM_INFO_INIT;
    CLI_TRY(cli_check(fovea_wisdom_path(path, sizeof path)));
    FILE *f = *path ? fopen(path, "rb") : NULL;
    const char *problem = "";
    if (f) {
        fclose(f);
        if (fovea_wisdom_load(path, &info) != FOVEA_OK)
            problem = fovea_error();
    }
    *sound = !*problem;
    if (out)
        *out = json_pack("{s:o, s:b, s:I, s:I, s:o}", "file", cli_json_text(path), "exists",
                         f != NULL, "facts", (json_int_t)info.taken, "skipped",
                         (json_int_t)info.skipped, "problem", cli_json_text(problem));
    else if (!f)
        printf("wisdom   %s\n  %s\n", *path ? path : "-",
               *path ? "the file does not exist" : "not used");
    else if (*problem)
        printf("wisdom   %s\n  rejected: %s\n", path, problem);
    else
        print_facts(path, &info);
    return CLI_OK;
}

/* Returns the folder for packed weights, or "" if they are not cached. */
static const char *weights_folder(void)
{
    const char *folder = getenv("FOVEA_WEIGHTS_CACHE");
    return folder ? folder : "";
}

/* Counts packed weights. Does not check their content; a model that maps them does. */
static int show_weights(json_t **out)
{
    const char *folder = weights_folder();
    fovea_weights_cache_info info = FOVEA_WEIGHTS_CACHE_INFO_INIT;
    CLI_TRY(cli_check(fovea_weights_cache_describe(folder, &info)));
    if (out)
        *out = json_pack("{s:o, s:I, s:I}", "folder", cli_json_text(folder), "files",
                         (json_int_t)info.files, "bytes", (json_int_t)info.bytes);
    else
        printf("weights  %s\n  %zu packed, %s\n", *folder ? folder : "-", info.files,
               cli_bytes(info.bytes).text);
    return CLI_OK;
}

static int list(bool json, bool verify)
{
    char folder[4096];
    bool sound;
    json_t *wisdom = NULL, *weights = NULL;
    contents c = {
        .list = json ? json_array() : NULL, .skipped = json ? json_array() : NULL, .quiet = verify};
    CLI_TRY(cli_check(fovea_cache_folder(folder, sizeof folder)));
    CLI_TRY(show_wisdom(json ? &wisdom : NULL, &sound));
    if (!json)
        printf("kernels  %s\n", *folder ? folder : "-");
    CLI_TRY(cli_check(fovea_cache_list(NULL, show_entry, &c)));
    if (!json)
        printf("  %zu compiled, %zu of them unsound, %s\n", c.entries, c.unsound,
               cli_bytes(c.bytes).text);
    CLI_TRY(show_weights(json ? &weights : NULL));
    if (json)
        cli_print_json(json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "schema",
                                 "fovea.cache/1", "wisdom", wisdom, "folder", cli_json_text(folder),
                                 "kernels", c.list, "entries", (json_int_t)c.entries, "unsound",
                                 (json_int_t)c.unsound, "bytes", (json_int_t)c.bytes, "weights",
                                 weights, "skipped", c.skipped));
    if (verify && (c.unsound || !sound))
        return cli_fail(CLI_WRONG, "%zu compiled kernels are damaged%s; they are not used",
                        c.unsound, sound ? "" : ", wisdom is rejected");
    return CLI_OK;
}

/* ---- clear ---- */

/* Removes the user's wisdom file, but only if the file really contains wisdom. */
static int clear_wisdom(bool *removed)
{
    static const char magic[] = "fovea wisdom ";
    char path[4096], begin[sizeof magic] = "";
    *removed = false;
    const int code = cli_check(fovea_wisdom_path(path, sizeof path));
    FILE *f = !code && *path ? fopen(path, "rb") : NULL;
    if (!f)
        return code;
    const bool ours = fread(begin, 1, sizeof magic - 1, f) == sizeof magic - 1 &&
                      memcmp(begin, magic, sizeof magic - 1) == 0;
    fclose(f);
    if (!ours)
        return cli_fail(CLI_INPUT, "%s is not a wisdom file, so it was not removed", path);
    if (remove(path) != 0)
        return cli_fail(CLI_INPUT, "%s: %s", path, strerror(errno));
    *removed = true;
    return CLI_OK;
}

static int clear(void)
{
    size_t kernels = 0, weights = 0;
    bool wisdom = false;
    int code = cli_check(fovea_cache_clear(NULL, &kernels));
    CLI_THEN(code, cli_check(fovea_weights_cache_clear(weights_folder(), &weights)));
    CLI_THEN(code, clear_wisdom(&wisdom));
    printf("%zu compiled kernels and %zu packed weights were removed, %s\n", kernels, weights,
           wisdom ? "and the wisdom" : "but no wisdom");
    return code;
}

/* Removes the notes about programs from which a driver's compiler did not return. */
static int retry(void)
{
    size_t notes = 0;
    const int code = cli_check(fovea_cache_retry(NULL, &notes));
    printf("%zu skipped programs will be compiled again when they are needed\n", notes);
    return code;
}

/* ---- export, import ---- */

static int save(const char *path)
{
    size_t wisdom_size = 0, kernels_size = 0;
    cli_output o;
    CLI_TRY(cli_check(fovea_wisdom_export(NULL, 0, &wisdom_size)));
    CLI_TRY(cli_check(fovea_cache_pack(NULL, NULL, 0, &kernels_size)));
    char *wisdom = cli_alloc(wisdom_size + 1, 1);
    void *kernels = cli_alloc(kernels_size + 1, 1);
    int code = cli_check(fovea_wisdom_export(wisdom, wisdom_size + 1, &wisdom_size));
    CLI_THEN(code, cli_check(fovea_cache_pack(NULL, kernels, kernels_size, &kernels_size)));
    const size_t text = strlen(wisdom);
    if (!code && !(code = cli_output_begin(&o, path))) {
        fprintf(o.file, MAGIC "%zu\n", text);
        fwrite(wisdom, 1, text, o.file);
        fwrite(kernels, 1, kernels_size, o.file);
        code = cli_output_end(&o, NULL);
    }
    if (!code)
        printf("%s: %zu bytes of wisdom, %zu of compiled kernels\n", path, text, kernels_size);
    free(wisdom);
    free(kernels);
    return code;
}

static int import_file(const char *path, const char *data, size_t size)
{
    char *end;
    const bool ours = strncmp(data, MAGIC, sizeof MAGIC - 1) == 0;
    const size_t text = ours ? strtoull(data + sizeof MAGIC - 1, &end, 10) : 0;
    if (!ours || *end != '\n' || text > size - (size_t)(end + 1 - data))
        return cli_fail(CLI_INPUT, "%s was not written by fovea cache export", path);
    const char *wisdom = end + 1, *kernels = wisdom + text;
    fovea_wisdom_info info = FOVEA_WISDOM_INFO_INIT;
    size_t added = 0;
    CLI_TRY(cli_check(fovea_cache_unpack(NULL, kernels, size - (size_t)(kernels - data), &added)));
    if (text)
        CLI_TRY(cli_check(fovea_wisdom_import(wisdom, text, &info)));
    if (info.taken)
        CLI_TRY(cli_check(fovea_wisdom_save(NULL)));
    printf("%zu facts and %zu compiled kernels imported\n", info.taken, added);
    return CLI_OK;
}

static int load(const char *path)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    if (f && fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    if (size < 0 || (unsigned long)size > FILE_MOST) {
        const int why = errno;
        if (f)
            fclose(f);
        return cli_fail(CLI_INPUT, "%s: %s", path, size < 0 ? strerror(why) : "too large");
    }
    char *data = cli_alloc((size_t)size + 1, 1);
    rewind(f);
    const bool read = fread(data, 1, (size_t)size, f) == (size_t)size;
    fclose(f);
    const int code = read ? import_file(path, data, (size_t)size)
                          : cli_fail(CLI_INPUT, "%s: cannot be read", path);
    free(data);
    return code;
}

int cli_cache(const cli_command *self, int argc, char **argv)
{
    enum { LIST, VERIFY, CLEAR, RETRY, EXPORT, IMPORT };
    static const char *const names[] = {"list",   "verify", "clear", "retry",
                                        "export", "import", NULL};
    cli_common common = {0};
    int first, what = LIST, code = cli_parse(&first, self, &common, NULL, argc, argv);
    if (code || !first)
        return code;
    if (common.wisdom) /* not loaded here, so that this command can report errors in it */
        setenv("FOVEA_WISDOM", strcmp(common.wisdom, "none") == 0 ? "" : common.wisdom, 1);
    while (first < argc && names[what] && strcmp(names[what], argv[first]) != 0)
        what++;
    if (!names[what])
        return cli_fail(CLI_USAGE,
                        "cache %s is unknown; use list, verify, clear, retry, export or import",
                        argv[first]);
    const bool file = what == EXPORT || what == IMPORT;
    if (argc - first > 1 + file || (file && argc - first != 2))
        return cli_fail(CLI_USAGE, "cache %s takes %s", names[what],
                        file ? "one FILE name" : "no argument");
    switch (what) {
    case CLEAR:
        return clear();
    case RETRY:
        return retry();
    case EXPORT:
        return save(argv[first + 1]);
    case IMPORT:
        return load(argv[first + 1]);
    default:
        return list(common.json, what == VERIFY);
    }
}
