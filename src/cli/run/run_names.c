/* run_names.c: checks, before any work, that the output files of `fovea run` can be written, and
 * that no output is also an input or another output. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/run_sink.h"

/* ---- what is read and written ---- */

struct files {
    json_t *read;    /* maps the identity of a file that is read to its path */
    json_t *written; /* maps an absolute path to the option or input that the file belongs to */
};

/* Returns the absolute path, without links, of the file that a path leads to; the caller frees it.
 * Returns NULL if there is no such file. */
static char *identity(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0
               ? cli_text("%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino)
               : NULL;
}

static void add_read(struct files *f, const char *path)
{
    char *file = identity(path);
    if (file)
        json_object_set_new(f->read, file, json_string_nocheck(path));
    free(file);
}

static int check_read(const struct files *f, const char *path, const char *option)
{
    char *file = identity(path);
    const json_t *input = file ? json_object_get(f->read, file) : NULL;
    free(file);
    return input ? cli_fail(CLI_USAGE,
                            "--%s would overwrite %s, which is an input; choose another file",
                            option, json_string_value(input))
                 : CLI_OK;
}

/* Records the output `name` in `folder`, which is an absolute path. */
static int add_written(struct files *f, const char *folder, const char *name, const char *origin)
{
    char *path = cli_text("%s/%s", folder, cli_file_name(name));
    const json_t *other = json_object_get(f->written, path);
    int code = CLI_OK;
    if (other)
        code = cli_fail(CLI_USAGE,
                        "%s and %s would be written to the same file %s; run them one after the "
                        "other, or give them other names",
                        json_string_value(other), origin, path);
    else
        json_object_set_new_nocheck(f->written, path, json_string_nocheck(origin));
    free(path);
    return code;
}

/* Returns the number of pictures in an input. Errors in the file are reported later, when it is
 * run. */
static uint64_t pictures_in(const char *path)
{
    fovea_tensors *file;
    fovea_tensor t;
    uint64_t n = 1;
    if (!cli_ends_with(path, ".safetensors") || fovea_tensors_open(&file, path) != FOVEA_OK)
        return n;
    if (fovea_tensors_find(file, "input", &t) && t.rank == 4 && t.elements > 0)
        n = t.shape[0];
    fovea_tensors_close(file);
    return n;
}

static int one_file(struct files *f, const char *option, const char *path, const char *folder)
{
    CLI_TRY(check_read(f, path, option));
    CLI_TRY(cli_output_check(path));
    return add_written(f, folder, path, option);
}

/* Records one output picture per input. */
static int many_files(struct files *f, run_state *r, const char *option, const char *path,
                      const char *folder)
{
    size_t longest = 0;
    int code = CLI_OK;
    for (size_t i = 0; i < r->in.paths && !code; i++) {
        const bool moving = run_is_video(r, r->in.path[i]);
        if (moving && r->in.paths > 1)
            return cli_fail(CLI_USAGE,
                            "--%s %s is written for every frame of the video %s, which must then "
                            "be the only input",
                            option, path, r->in.path[i]);
        run_place at = {r->in.path[i], 0, moving ? RUN_UNCOUNTED : pictures_in(r->in.path[i]), 0};
        for (; at.item < (moving ? 1 : at.count) && !code; at.item++) {
            char *name = run_picture_name(r, path, &at);
            code = check_read(f, name, option);
            if (!code && strlen(name) > longest) {
                longest = strlen(name);
                code = cli_output_check(name);
            }
            CLI_THEN(code, add_written(f, folder, name, r->in.path[i]));
            free(name);
        }
    }
    return code;
}

/* Refuses to write pictures to a folder of inputs, where the next run would read them. */
static int check_folders(const char *option, const char *path, const char *folder,
                         char *const *input, int inputs)
{
    for (int i = 0; i < inputs; i++)
        if (cli_same_file(folder, input[i]))
            return cli_fail(CLI_USAGE,
                            "--%s %s is in the folder of inputs %s, and would be an input of the "
                            "next run; choose another folder",
                            option, path, input[i]);
    return CLI_OK;
}

static int check_file(struct files *f, run_state *r, const run_file *file, char *const *input,
                      int inputs)
{
    char *folder = cli_folder(file->path), *whole = realpath(folder, NULL);
    int code = CLI_OK;
    if (!file->each)
        code = one_file(f, file->option, file->path, whole);
    else if (!(code = check_folders(file->option, file->path, folder, input, inputs)))
        code = many_files(f, r, file->option, file->path, whole);
    free(whole);
    free(folder);
    return code;
}

/* Returns whether the file is an aid that exists, which is then read. */
static bool is_read(const run_file *file)
{
    return file->aid && access(file->path, F_OK) == 0;
}

int run_check_outputs(run_state *r, const char *model, char *const *input, int inputs)
{
    run_file file[RUN_SINKS * RUN_FILES];
    size_t n = 0;
    /* The files that a model folder usually contains. */
    char *inside[] = {cli_text("%s/model.safetensors", model),
                      cli_text("%s/segmentation.safetensors", model)};
    struct files f = {json_object(), json_object()};
    int code = CLI_OK;
    RUN_EACH(r, i, files)
        n += r->sink[i]->files(file + n, r, r->own[i]);
    for (size_t i = 0; i < r->in.paths; i++)
        add_read(&f, r->in.path[i]);
    add_read(&f, model);
    for (size_t i = 0; i < 2; i++) {
        add_read(&f, inside[i]);
        free(inside[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (file[i].path && is_read(&file[i]))
            add_read(&f, file[i].path);
    for (size_t i = 0; i < n && !code; i++)
        if (file[i].path && !is_read(&file[i]))
            code = check_file(&f, r, &file[i], input, inputs);
    json_decref(f.read);
    json_decref(f.written);
    return code;
}
