/* cmd_verify.c: `fovea verify`: kernels, or a model layer by layer, against references. */
#include "cli/run/verify.h"

int cli_verify(const cli_command *self, int argc, char **argv)
{
    cli_common common = {.half = CLI_HALF};
    const char *kernel = NULL, *image = NULL;
    const cli_option own[] = {
        {"kernel", 0, "TEXT", "without a model: only kernels whose names contain it", &kernel},
        {"image", 0, "FILE", "the model's picture, instead of one that is made up", &image},
        {NULL},
    };
    cli_session s;
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    const char *model = first < argc ? argv[first] : NULL;
    if (first + 1 < argc)
        return cli_fail(CLI_USAGE, "verify takes one MODEL at most; fovea verify --help");
    if (model ? kernel : image)
        return cli_fail(CLI_USAGE, "%s",
                        model ? "--kernel is not for a model's steps" : "--image needs a MODEL");
    CLI_TRY(cli_open(&s, &common, model));
    code = model ? verify_model(&s, model, image, common.json)
                 : verify_kernels(s.device, kernel, common.json);
    cli_close(&s);
    return code;
}
