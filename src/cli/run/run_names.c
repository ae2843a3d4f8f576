/* run_names.c: names of the files that `fovea run` writes, and the check, before any work, that
 * they can be written and that none of them is an input or another output. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/run/runner.h"

static char *folder_of(const char *path)
{
    return cli_text("%.*s.", (int)(cli_file_name(path) - path), path);
}

/* ---- pictures ---- */

char *run_picture_name(const run_state *r, const char *name, const char *input)
{
    const char *stem = cli_file_name(input), *dot = strrchr(stem, '.');
    const int head = (int)strlen(name) - 4;
    const int end = (int)(dot && dot > stem ? (size_t)(dot - stem) : strlen(stem));
    if (r->batch > 1)
        return cli_text("%.*s-%.*s-%llu.png", head, name, end, stem, (unsigned long long)r->item);
    return r->paths > 1 ? cli_text("%.*s-%.*s.png", head, name, end, stem) : cli_text("%s", name);
}

/* ---- what is read ---- */

struct read_file {
    dev_t device;
    ino_t number;
    const char *path;
};

struct read_files {
    struct read_file *file;
    size_t n;
};

static int by_number(const void *a, const void *b)
{
    const struct read_file *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void add_read(struct read_files *f, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        f->file[f->n++] = (struct read_file){st.st_dev, st.st_ino, path};
}

/* The pictures, and what of a model is in one file or usually called so. */
static struct read_files all_read(const run_state *r, const char *model, char *const inside[])
{
    struct read_files f = {cli_alloc(r->paths + 8, sizeof *f.file), 0};
    for (size_t i = 0; i < r->paths; i++)
        add_read(&f, r->path[i]);
    add_read(&f, model);
    for (; *inside; inside++)
        add_read(&f, *inside);
    qsort(f.file, f.n, sizeof *f.file, by_number);
    return f;
}

static const char *is_read(const struct read_files *f, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return NULL;
    const struct read_file wanted = {st.st_dev, st.st_ino, NULL}, *found;
    found = bsearch(&wanted, f->file, f->n, sizeof wanted, by_number);
    return found ? found->path : NULL;
}

/* ---- what is written ---- */

struct output {
    char *name;         /* from the root on */
    const char *origin; /* the option or the input that it is of */
};

struct outputs {
    struct output *file;
    size_t n, room;
};

static void add_output(struct outputs *o, char *name, const char *origin)
{
    if (o->n == o->room) {
        struct output *more = cli_alloc(o->room = o->room ? 2 * o->room : 64, sizeof *more);
        if (o->n)
            memcpy(more, o->file, o->n * sizeof *more);
        free(o->file);
        o->file = more;
    }
    o->file[o->n++] = (struct output){name, origin};
}

static int by_name(const void *a, const void *b)
{
    const struct output *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int check_output(const struct read_files *read, const char *path, const char *option)
{
    const char *input = is_read(read, path);
    return input ? cli_fail(CLI_USAGE, "--%s would overwrite %s, which is read; name another file",
                            option, input)
                 : CLI_OK;
}

static int one_file(struct outputs *o, const struct read_files *read, const char *option,
                    const char *path)
{
    char *folder = folder_of(path), *whole = realpath(folder, NULL);
    int code = check_output(read, path, option);
    if (!code)
        code = cli_output_check(path);
    if (!code)
        add_output(o, cli_text("%s/%s", whole, cli_file_name(path)), option);
    free(whole);
    free(folder);
    return code;
}

/* How many pictures are in an input; what is wrong with a file is told when it is run. */
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

/* A picture per input. */
static int many_files(struct outputs *o, const struct read_files *read, run_state *r,
                      const char *option, const char *path, const uint64_t *pictures)
{
    char *folder = folder_of(path), *whole = realpath(folder, NULL);
    size_t longest = 0;
    int code = CLI_OK;
    for (size_t i = 0; i < r->paths && !code; i++) {
        r->batch = pictures[i];
        for (r->item = 0; r->item < r->batch && !code; r->item++) {
            char *name = run_picture_name(r, path, r->path[i]);
            code = check_output(read, name, option);
            if (!code && strlen(name) > longest) {
                longest = strlen(name);
                code = cli_output_check(name);
            }
            if (!code)
                add_output(o, cli_text("%s/%s", whole, cli_file_name(name)), r->path[i]);
            free(name);
        }
    }
    free(whole);
    free(folder);
    return code;
}

static int check_shared(struct outputs *o)
{
    if (o->n)
        qsort(o->file, o->n, sizeof *o->file, by_name);
    for (size_t i = 1; i < o->n; i++)
        if (strcmp(o->file[i - 1].name, o->file[i].name) == 0)
            return cli_fail(CLI_USAGE,
                            "%s and %s would share the output %s; run them one after the other, "
                            "or give them other names",
                            o->file[i - 1].origin, o->file[i].origin, o->file[i].name);
    return CLI_OK;
}

/* Pictures that are written into a folder of inputs would be inputs the next time. */
static int check_folders(const char *option, const char *path, char *const *input, int inputs)
{
    char *folder = folder_of(path);
    int code = CLI_OK;
    for (int i = 0; i < inputs && !code; i++)
        if (cli_same_file(folder, input[i]))
            code = cli_fail(CLI_USAGE,
                            "--%s %s lies among the pictures of %s, and would be one of them the "
                            "next time; name another folder",
                            option, path, input[i]);
    free(folder);
    return code;
}

int run_check_outputs(run_state *r, const char *model, char *const *input, int inputs)
{
    const struct {
        const char *option, *path;
    } single[] = {{"output", r->output}, {"features", r->features}},
      each[] = {{"pca", r->pca},
                {"labels", r->labels},
                {"overlay", r->overlay},
                {"attention-map", r->query.path}};
    char *inside[] = {cli_text("%s/model.safetensors", model),
                      cli_text("%s/segmentation.safetensors", model), NULL};
    struct read_files read = all_read(r, model, inside);
    struct outputs o = {NULL, 0, 0};
    uint64_t *pictures = cli_alloc(r->paths, sizeof *pictures);
    int code = CLI_OK;
    for (size_t i = 0; i < r->paths; i++)
        pictures[i] = pictures_in(r->path[i]);
    for (size_t i = 0; i < 2 && !code; i++)
        if (single[i].path)
            code = one_file(&o, &read, single[i].option, single[i].path);
    for (size_t i = 0; i < 4 && !code; i++)
        if (each[i].path && !(code = check_folders(each[i].option, each[i].path, input, inputs)))
            code = many_files(&o, &read, r, each[i].option, each[i].path, pictures);
    if (!code)
        code = check_shared(&o);
    for (size_t i = 0; i < o.n; i++)
        free(o.file[i].name);
    free(o.file);
    free(pictures);
    free(read.file);
    free(inside[0]);
    free(inside[1]);
    return code;
}
