/* run_features.c: writes features of patches: those of all frames to one file, and pictures of
 * them. Each picture has its own colour basis, unless all pictures share the basis of
 * --pca-basis. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/run_sink.h"

typedef struct features {
    /* arguments of --features, --pca and --pca-basis; NULL if not given */
    const char *path, *pca, *basis_path;
    run_series *dense; /* the final token features */
    cli_basis basis;   /* has no columns until it is known */
} features;

static size_t options(cli_option *out, run_state *r, void *own)
{
    features *f = own;
    (void)r;
    out[0] = (cli_option){
        "features", 0, "FILE",
        "file for patch features (B, rows, columns, C): .npy, or .safetensors with every stage",
        &f->path};
    out[1] = (cli_option){"pca", 0, "FILE", "patch features, drawn as a .png", &f->pca};
    out[2] =
        (cli_option){"pca-basis", 0, "FILE",
                     "basis of the colours of --pca, .safetensors: read if the file exists, else "
                     "made from the first picture; pictures with the same basis can be compared",
                     &f->basis_path};
    return 3;
}

static size_t files(run_file *out, const run_state *r, const void *own)
{
    const features *f = own;
    (void)r;
    out[0] = (run_file){"features", f->path, false, false};
    out[1] = (run_file){"pca", f->pca, true, false};
    out[2] = (run_file){"pca-basis", f->basis_path, false, true};
    return 3;
}

static int check(run_state *r, void *own)
{
    features *f = own;
    (void)r;
    if (f->path && !cli_ends_with(f->path, ".safetensors") && !cli_ends_with(f->path, ".npy"))
        return cli_fail(CLI_USAGE,
                        "--features %s: the file name must end with .safetensors or .npy", f->path);
    if (f->basis_path && !f->pca)
        return cli_fail(CLI_USAGE, "--pca-basis needs --pca, which is not given");
    return f->basis_path && access(f->basis_path, F_OK) == 0
               ? cli_basis_read(&f->basis, f->basis_path)
               : CLI_OK;
}

/* ---- requested outputs ---- */

static cli_word stage_name(uint32_t i)
{
    cli_word name;
    snprintf(name.text, sizeof name.text, "stage%u", i);
    return name;
}

/* Requests the last hidden state or the last stage; for --features, requests all stages. */
static int want(run_state *r, void *own)
{
    features *f = own;
    const char *last = cli_features_output(r->s.model);
    if (!f->path && !f->pca)
        return CLI_OK;
    CLI_TRY(run_refuse_parts(r));
    if (!last)
        return cli_fail(CLI_UNSUPPORTED, "this model has no token features");
    if (f->path && strncmp(last, "stage", 5) == 0)
        for (uint32_t i = 1; strcmp(stage_name(i).text, last) != 0; i++)
            run_want(r, stage_name(i).text)->feature = true;
    f->dense = run_want(r, last);
    f->dense->feature = f->path != NULL;
    return CLI_OK;
}

/* ---- pictures ---- */

/* Makes a basis from the features of the first picture and writes it to the file. The basis is then
 * read from the file, so that this picture and those of later runs use the same rounded basis. */
static int make_basis(features *f)
{
    const run_series *s = f->dense;
    cli_basis made = cli_basis_of(run_patches(s), (size_t)s->info.grid_width * s->info.grid_height,
                                  (uint32_t)s->columns);
    int code = cli_basis_write(&made, f->basis_path);
    cli_basis_free(&made);
    CLI_THEN(code, cli_basis_read(&f->basis, f->basis_path));
    return code;
}

static int take(run_state *r, void *own)
{
    features *f = own;
    const run_series *s = f->dense;
    if (!f->pca)
        return CLI_OK;
    const uint32_t columns = (uint32_t)s->columns;
    const size_t rows = (size_t)s->info.grid_width * s->info.grid_height;
    cli_basis made = {0};
    cli_image picture;
    if (f->basis_path && !f->basis.columns)
        CLI_TRY(make_basis(f));
    if (!f->basis_path)
        made = cli_basis_of(run_patches(s), rows, columns);
    else if (f->basis.columns != columns)
        return cli_fail(CLI_UNSUPPORTED,
                        "%s is a basis of %u channels, but the features have %u; give a file that "
                        "does not exist to create one",
                        f->basis_path, f->basis.columns, columns);
    cli_pca(&picture, f->basis_path ? &f->basis : &made, run_patches(s), s->info.grid_width,
            s->info.grid_height, r->info.width, r->info.height);
    cli_basis_free(&made);
    char *name = run_picture_name(r, f->pca, &r->now.at);
    const int code = cli_image_write_png(name, &picture);
    run_wrote(r, name);
    cli_image_free(&picture);
    return code;
}

/* ---- the file ---- */

/* Returns the features of the patches in all frames, (B, h, w, C). The caller frees the data. */
static fovea_tensor grids(const run_state *r, const run_series *s, const char *name)
{
    const fovea_output_info *i = &s->info;
    const size_t columns = (size_t)s->columns, prefix = i->prefix * columns;
    const size_t patches = (size_t)i->grid_width * i->grid_height * columns;
    const uint64_t shape[4] = {r->frames, i->grid_height, i->grid_width, columns};
    float *data = cli_alloc(r->frames * patches, sizeof *data);
    for (size_t f = 0; f < r->frames; f++)
        memcpy(data + f * patches, s->all + f * (prefix + patches) + prefix,
               patches * sizeof *data);
    return cli_tensor(name, data, 4, shape);
}

static int finish(run_state *r, void *own)
{
    const features *f = own;
    if (!f->path)
        return CLI_OK;
    const bool npy = cli_ends_with(f->path, ".npy"); /* a .npy file contains one array */
    fovea_tensor *tensor = cli_alloc(r->n + 1, sizeof *tensor);
    const char *(*metadata)[2] = cli_alloc(r->n + 3, sizeof *metadata);
    char **text = cli_alloc(2 * (r->n + 1), sizeof *text);
    size_t n = 0;
    tensor[n++] = grids(r, f->dense, "features");
    for (size_t i = 0; i < r->n && !npy; i++)
        if (r->series[i].feature && strncmp(r->series[i].name, "stage", 5) == 0)
            tensor[n++] = grids(r, &r->series[i], r->series[i].name);
    metadata[0][0] = "producer";
    metadata[0][1] = "fovea";
    metadata[1][0] = "version";
    metadata[1][1] = fovea_version();
    for (size_t i = 0; i < n; i++) {
        const run_series *s = i ? run_find(r, tensor[i].name) : f->dense;
        metadata[2 + i][0] = text[2 * i] = cli_text("%s.stride", tensor[i].name);
        metadata[2 + i][1] = text[2 * i + 1] = cli_text("%u", s->info.stride);
    }
    const int code = npy ? cli_npy_write(f->path, tensor->data, tensor->shape, 4)
                         : cli_check(fovea_tensors_write(f->path, tensor, n,
                                                         (const char *const(*)[2])metadata, n + 2));
    if (!code)
        run_tell_written(r, f->path, tensor, n);
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)tensor[i].data);
        free(text[2 * i]);
        free(text[2 * i + 1]);
    }
    free(text);
    free(metadata);
    free(tensor);
    return code;
}

static bool refuses_people(const run_state *r, const void *own)
{
    const features *f = own;
    (void)r;
    return f->path || f->pca;
}

static void release(void *own)
{
    cli_basis_free(&((features *)own)->basis);
}

const run_sink run_sink_features = {.size = sizeof(features),
                                    .place = 1,
                                    .options = options,
                                    .files = files,
                                    .check = check,
                                    .want = want,
                                    .take = take,
                                    .finish = finish,
                                    .release = release,
                                    .refuses_people = refuses_people};
