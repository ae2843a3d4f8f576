/* cmd_verify.c: `fovea verify`: checks kernels, or each step of a model, against references. */
#include <stdint.h>

#include "cli/run/verify.h"

int cli_verify(const cli_command *self, int argc, char **argv)
{
    cli_common common = {CLI_STORES};
    const char *kernel = NULL, *image = NULL, *floor = NULL;
    const cli_option own[] = {
        {"kernel", 0, "TEXT", "without a model: check only kernels whose names contain TEXT",
         &kernel},
        {"image", 0, "FILE", "picture for the model, like PICTURE (default: a generated picture)",
         &image},
        {"accuracy", 0, "COSINE",
         "lowest mean cosine that the main output's rows may have with those in float32 (default "
         "0.99)",
         &floor},
        {NULL},
    };
    cli_session s;
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    const char *model = first < argc ? argv[first] : NULL;
    verify_request request = {.model = model, .floor = 0.99, .json = common.json};
    if (model ? kernel != NULL : image || floor)
        return cli_fail(CLI_USAGE, "%s",
                        model   ? "--kernel cannot be combined with a MODEL"
                        : image ? "--image needs a MODEL"
                                : "--accuracy needs a MODEL");
    if (image && first + 1 < argc)
        return cli_fail(
            CLI_USAGE,
            "--image %s: pictures are already given; give this one as a PICTURE too, like %s",
            image, argv[first + 1]);
    CLI_TRY(cli_real(&request.floor, "accuracy", floor, -1, 1));
    char *single = (char *)(uintptr_t)image;
    request.picture = image ? &single : argv + first + 1;
    request.pictures = image ? 1 : model ? (size_t)(argc - first - 1) : 0;
    CLI_TRY(cli_open(&s, &common, model));
    code = model ? verify_model(&s, &request) : verify_kernels(s.device, kernel, common.json);
    cli_close(&s);
    return code;
}
