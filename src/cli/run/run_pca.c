/* run_pca.c: token features as pictures, each in colours of its own or all in those of one basis.
 */
#include <unistd.h>

#include "cli/run/runner.h"

int run_open_basis(run_state *r)
{
    if (!r->basis_path)
        return CLI_OK;
    if (!r->pca)
        return cli_fail(CLI_USAGE, "--pca-basis is for --pca, which is not given");
    return access(r->basis_path, F_OK) == 0 ? cli_basis_read(&r->basis, r->basis_path) : CLI_OK;
}

/* The first picture's features make the basis that the file gets. It is read again, so that this
 * picture has the colours that later runs give it. */
static int make_basis(run_state *r)
{
    const run_series *s = r->dense;
    cli_basis made = cli_basis_of(run_patches(s), (size_t)s->info.grid_width * s->info.grid_height,
                                  (uint32_t)s->columns);
    int code = cli_basis_write(&made, r->basis_path);
    cli_basis_free(&made);
    CLI_THEN(code, cli_basis_read(&r->basis, r->basis_path));
    return code;
}

int run_draw_features(run_state *r, const char *input)
{
    const run_series *s = r->dense;
    const uint32_t columns = (uint32_t)s->columns;
    const size_t rows = (size_t)s->info.grid_width * s->info.grid_height;
    cli_basis own = {0};
    cli_image picture;
    if (r->basis_path && !r->basis.columns)
        CLI_TRY(make_basis(r));
    if (!r->basis_path)
        own = cli_basis_of(run_patches(s), rows, columns);
    else if (r->basis.columns != columns)
        return cli_fail(CLI_UNSUPPORTED, "%s: is a basis of %u channels, the features have %u",
                        r->basis_path, r->basis.columns, columns);
    cli_pca(&picture, r->basis_path ? &r->basis : &own, run_patches(s), s->info.grid_width,
            s->info.grid_height, r->info.width, r->info.height);
    cli_basis_free(&own);
    char *name = run_picture_name(r, r->pca, input);
    const int code = cli_image_write_png(name, &picture);
    run_wrote(r, name);
    cli_image_free(&picture);
    return code;
}
