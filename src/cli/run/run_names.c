/* run_names.c: names of the files that `fovea run` writes, and the check, before any work, that
 * they can be written and that none of them is an input or another output. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/runner.h"

/* ---- pictures ---- */

char *run_picture_name(const run_state *r, const char *name, const char *input)
{
    const char *stem = cli_is_stdin(input) ? "stdin" : cli_file_name(input),
               *dot = strrchr(stem, '.');
    const int head = (int)strlen(name) - 4;
    const int end = (int)(dot && dot > stem ? (size_t)(dot - stem) : strlen(stem));
    if (r->at.count > 1)
        return cli_text("%.*s-%.*s-%llu.png", head, name, end, stem,
                        (unsigned long long)r->at.item);
    return r->paths > 1 ? cli_text("%.*s-%.*s.png", head, name, end, stem) : cli_text("%s", name);
}

/* ---- what is read and written ---- */

struct files {
    json_t *read;    /* {which file: its path} */
    json_t *written; /* {path from the root on: the option or the input that it is of} */
};

/* Which file a path leads to, whatever its name. NULL: none. To be freed. */
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
    return input ? cli_fail(CLI_USAGE, "--%s would overwrite %s, which is read; name another file",
                            option, json_string_value(input))
                 : CLI_OK;
}

/* `name` is in `folder`, which is from the root on. */
static int add_written(struct files *f, const char *folder, const char *name, const char *origin)
{
    char *path = cli_text("%s/%s", folder, cli_file_name(name));
    const json_t *other = json_object_get(f->written, path);
    int code = CLI_OK;
    if (other)
        code = cli_fail(CLI_USAGE,
                        "%s and %s would share the output %s; run them one after the other, or "
                        "give them other names",
                        json_string_value(other), origin, path);
    else
        json_object_set_new_nocheck(f->written, path, json_string_nocheck(origin));
    free(path);
    return code;
}

/* Number of pictures in an input; errors of a file are reported when it is run. */
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

/* A picture per input. */
static int many_files(struct files *f, run_state *r, const char *option, const char *path,
                      const char *folder)
{
    size_t longest = 0;
    int code = CLI_OK;
    for (size_t i = 0; i < r->paths && !code; i++) {
        const bool moving = run_is_video(r, r->path[i]);
        if (moving && r->paths > 1)
            return cli_fail(CLI_USAGE,
                            "--%s %s: a file for every frame of the video %s, which has to be the "
                            "only input then",
                            option, path, r->path[i]);
        run_place *at = &r->at;
        at->count = moving ? RUN_UNCOUNTED : pictures_in(r->path[i]);
        for (at->item = 0; at->item < (moving ? 1 : at->count) && !code; at->item++) {
            char *name = run_picture_name(r, path, r->path[i]);
            code = check_read(f, name, option);
            if (!code && strlen(name) > longest) {
                longest = strlen(name);
                code = cli_output_check(name);
            }
            CLI_THEN(code, add_written(f, folder, name, r->path[i]));
            free(name);
        }
    }
    return code;
}

/* Pictures that are written into a folder of inputs would be inputs the next time. */
static int check_folders(const char *option, const char *path, const char *folder,
                         char *const *input, int inputs)
{
    for (int i = 0; i < inputs; i++)
        if (cli_same_file(folder, input[i]))
            return cli_fail(CLI_USAGE,
                            "--%s %s is among the pictures of %s, and would be read as one the "
                            "next time; name another folder",
                            option, path, input[i]);
    return CLI_OK;
}

int run_check_outputs(run_state *r, const char *model, char *const *input, int inputs)
{
    const bool masks_each = r->masks.path && cli_ends_with(r->masks.path, ".png");
    const bool basis_is_read = r->basis_path && access(r->basis_path, F_OK) == 0;
    const struct {
        const char *option, *path;
        bool each; /* of the inputs has one */
    } outputs[] = {{"output", r->output, false},
                   {"features", r->features, false},
                   {"boxes", r->boxes.path, false},
                   {"pose", r->points.path, false},
                   {"depth", r->depth.path, true},
                   {"masks", r->masks.path, masks_each},
                   {"pca", r->pca, true},
                   {"labels", r->labels, true},
                   {"overlay", r->overlay, true},
                   {"attention-map", r->query.path, true},
                   {"pca-basis", basis_is_read ? NULL : r->basis_path, false}};
    /* What of a model is in one file or usually called so. */
    char *inside[] = {cli_text("%s/model.safetensors", model),
                      cli_text("%s/segmentation.safetensors", model)};
    struct files f = {json_object(), json_object()};
    int code = CLI_OK;
    for (size_t i = 0; i < r->paths; i++)
        add_read(&f, r->path[i]);
    add_read(&f, model);
    if (basis_is_read)
        add_read(&f, r->basis_path);
    for (size_t i = 0; i < 2; i++) {
        add_read(&f, inside[i]);
        free(inside[i]);
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs && !code; i++) {
        const char *option = outputs[i].option, *path = outputs[i].path;
        if (!path)
            continue;
        char *folder = cli_folder(path), *whole = realpath(folder, NULL);
        if (!outputs[i].each)
            code = one_file(&f, option, path, whole);
        else if (!(code = check_folders(option, path, folder, input, inputs)))
            code = many_files(&f, r, option, path, whole);
        free(whole);
        free(folder);
    }
    json_decref(f.read);
    json_decref(f.written);
    return code;
}
