/* adapt_output.c: checks that the result of a training may be written to OUT. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/adapt/adapter.h"

static bool exists(const char *folder, const char *name)
{
    char *path = cli_text("%s/%s", folder, name);
    const bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* Returns whether the model, a folder or a file in a folder, is in `folder`. Compares files, not
 * names. */
static bool is_in(const char *model, const char *folder)
{
    struct stat st;
    if (!model || stat(model, &st))
        return false;
    char *own = S_ISDIR(st.st_mode) ? cli_text("%s", model) : cli_folder(model);
    const bool in = cli_same_file(own, folder);
    free(own);
    return in;
}

/* Returns whether the folder contains a log of a training. */
static bool has_log(const char *folder)
{
    char *path = cli_text("%s/log.jsonl", folder);
    FILE *f = fopen(path, "r");
    json_t *first = f ? json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const bool ours = json_integer_value(json_object_get(first, "step")) == 1 &&
                      json_is_number(json_object_get(first, "loss"));
    json_decref(first);
    if (f)
        fclose(f);
    free(path);
    return ours;
}

int adapt_output_check(const adapt_run *r)
{
    static const char *const parts[] = {"model.safetensors", "model.safetensors.index.json",
                                        "config.json"};
    const char *out = r->output;
    const char *model = is_in(r->model, out)     ? "MODEL"
                        : is_in(r->teacher, out) ? "--teacher"
                                                 : NULL;
    if (model)
        return cli_fail(CLI_USAGE,
                        "-o %s: %s exists and would be overwritten; choose another folder", out,
                        model);
    if (exists(out, "checkpoint") || exists(out, "linearise.json") || has_log(out))
        return CLI_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (exists(out, parts[i]))
            return cli_fail(CLI_USAGE,
                            "-o %s: %s in this folder was not written by a training of fovea "
                            "(there is no matching log.jsonl), and would be overwritten; choose "
                            "another folder, or delete %s",
                            out, parts[i], parts[i]);
    return CLI_OK;
}
