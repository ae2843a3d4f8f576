/* run_inputs.c: the inputs of `fovea run`: files, and the pictures of directories. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/run/runner.h"

static void add_path(char ***path, size_t *count, char *add)
{
    *path = cli_grow(*path, *count, sizeof **path);
    (*path)[(*count)++] = add;
}

int run_gather(char ***path, size_t *count, const char *input)
{
    struct stat st;
    if (cli_is_stdin(input)) {
        for (size_t i = 0; i < *count; i++)
            if (cli_is_stdin((*path)[i]))
                return cli_fail(CLI_USAGE, "-, standard input, can be read once");
        add_path(path, count, cli_text("%s", input));
        return CLI_OK;
    }
    if (stat(input, &st))
        return cli_fail(CLI_INPUT, "%s: %s", input, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        add_path(path, count, cli_text("%s", input));
        return CLI_OK;
    }
    char **name;
    size_t n;
    CLI_TRY(cli_folder_pictures(&name, &n, input));
    for (size_t i = 0; i < n; i++)
        add_path(path, count, cli_text("%s/%s", input, name[i]));
    cli_list_free(name);
    return n ? CLI_OK : cli_fail(CLI_INPUT, "%s: holds no picture", input);
}

int run_seen(cli_image *out, const run_state *r, const fovea_frame *frame)
{
    const uint32_t width = r->info.width, height = r->info.height;
    const size_t plane = (size_t)width * height;
    const fovea_preprocess *p = &r->preprocess;
    *out = (cli_image){width, height, cli_alloc(plane, 3)};
    if (r->format != FOVEA_FORMAT_PLANES_F32)
        return cli_check(fovea_preprocess_apply(p, frame->pixels[0], r->width, r->height, out->rgb,
                                                width, height));
    const float *in = frame->pixels[0];
    for (size_t i = 0; i < 3 * plane; i++) {
        const size_t c = i / plane, at = i % plane;
        const double v = (in[i] * (double)p->std[c] + p->mean[c]) / p->rescale;
        out->rgb[3 * at + c] = (uint8_t)fmin(fmax(v + 0.5, 0), 255);
    }
    return CLI_OK;
}
